#!/usr/bin/env bash
# What Feedline sees of this machine's GPU, and how right it is: writes docs/gpu/<name of the GPU>.md.
#   tests/gpu-check.sh path/to/feedline [folder for the page]
set -euo pipefail
cd "$(dirname "$0")/.."
feedline=$1
pages=${2:-docs/gpu}

name=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1 || true)
if [ -z "$name" ]; then
    name=${FEEDLINE_GPU:-}
fi
if [ -z "$name" ]; then
    echo "gpu-check: no NVIDIA GPU answers here (nvidia-smi)" >&2
    exit 77
fi
mkdir -p "$pages"
page="$pages/$(echo "$name" | tr ' /' '--').md"
rows=$(mktemp -d)
trap 'rm -rf "$rows"' EXIT

passed=0
"$feedline" bench causes --set gpu --for 20s --out "$rows" --write "$rows/causes.md" || passed=$?
{
    echo "# $name"
    echo
    echo "Written by \`make gpu-check\`, $(date -u +%Y-%m-%d); Linux $(uname -r), $(nproc) cores."
    nvidia-smi --query-gpu=driver_version,memory.total,pcie.link.gen.current,pcie.link.width.current --format=csv 2>/dev/null |
        sed 's/^/    /' || true
    echo
    echo "## What can be measured here"
    echo
    NO_COLOR=1 "$feedline" doctor | sed 's/^/    /'
    echo
    sed 's/^# /## /; s/^## /### /' "$rows/causes.md"
} >"$page"
echo "gpu-check: $page"
exit "$passed"
