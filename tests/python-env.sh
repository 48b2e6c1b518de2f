#!/bin/sh
# Makes the Python environment of the tests, once, and prints its interpreter: tests/python-env.sh [FOLDER]
# It lies outside the clone, so that a fresh clone finds it ready.
set -eu

packages="polars duckdb pandas pyarrow numpy"
venv="${1:-${HOME}/.cache/feedline/venv}"
stamp="${venv}/.feedline-packages"

if [ ! -x "${venv}/bin/python" ]; then
    mkdir -p "$(dirname "${venv}")"
    if ! python3 -m venv "${venv}" >&2; then
        rm -rf "${venv}"
        echo "error: python3 cannot make a virtual environment at ${venv}" >&2
        echo "hint: apt-get install python3-venv" >&2
        exit 1
    fi
fi

if [ "$(cat "${stamp}" 2>/dev/null || true)" != "${packages}" ]; then
    # shellcheck disable=SC2086  # the packages are words
    "${venv}/bin/python" -m pip install --quiet --disable-pip-version-check ${packages} >&2
    printf '%s' "${packages}" > "${stamp}"
fi

echo "${venv}/bin/python"
