#!/bin/sh
# Make a virtual environment from the first Python that is new enough.
# Usage: [PYTHON=python3.12] make_venv.sh FOLDER
set -eu

venv=$1
is_new_enough='import sys; sys.exit(sys.version_info < (3, 11))'

if "$venv/bin/python" -c "$is_new_enough" 2>/dev/null; then
    exit 0
fi

for python in "${PYTHON:-python3}" python3 python3.14 python3.13 python3.12 python3.11; do
    if command -v "$python" >/dev/null && "$python" -c "$is_new_enough" 2>/dev/null; then
        echo "Making $venv with $("$python" --version) ..."
        if "$python" -m venv --clear "$venv"; then
            exit 0
        fi
        echo "make: $python cannot make a virtual environment; on Debian and Ubuntu: apt-get install python3-venv" >&2
        exit 1
    fi
done

found=$("${PYTHON:-python3}" --version 2>/dev/null || echo "none")
echo "make: Proteus needs Python 3.11 or newer (found: $found); name one with make PYTHON=/path/to/python3.11" >&2
exit 1
