#!/usr/bin/env bash
# Installs what the tests need on a bare Debian machine with cargo and python3: packages by name
# through apt, and cargo tools into the cache. What is there already is left alone.
set -euo pipefail
tools=$1

wanted=()
need() { # package, test
    if ! eval "$2" >/dev/null 2>&1; then wanted+=("$1"); fi
}
need gcc 'command -v cc'
need libc6-dev 'test -e /usr/include/stdio.h'
need make 'command -v make'
need tmux 'command -v tmux'
need util-linux 'command -v setpriv'
need iproute2 'command -v tc && command -v ip'
need python3-venv '/usr/bin/python3 -c "import ensurepip, venv"'
need python3-torch '/usr/bin/python3 -c "import torch"'
need python3-torchvision '/usr/bin/python3 -c "import torchvision"'
need python3-pil '/usr/bin/python3 -c "import PIL"'
need python3-numpy '/usr/bin/python3 -c "import numpy"'
if [ ${#wanted[@]} -gt 0 ]; then
    sudo=()
    if [ "$(id -u)" -ne 0 ]; then sudo=(sudo); fi
    export DEBIAN_FRONTEND=noninteractive
    "${sudo[@]}" apt-get update -q
    "${sudo[@]}" apt-get install -y -q --no-install-recommends "${wanted[@]}"
fi

mkdir -p "$tools"
cargo_tool() { # crate, version
    if ! command -v "$1" >/dev/null 2>&1; then
        # Tools build apart, so that their dependencies do not crowd the project's cache.
        CARGO_TARGET_DIR="$tools/target" cargo install --locked --root "$tools" --version "$2" "$1"
        rm -rf "$tools/target"
    fi
}
cargo_tool cargo-nextest 0.9.143
cargo_tool cargo-deny 0.20.2
