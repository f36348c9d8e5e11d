#!/bin/sh
# Check what must be there before anything can be installed, and print the Python to use.
#
#   deploy/prerequisites.sh [PYTHON]
#
# Whatever is missing or wrong is one sentence on stderr and exit code 1.
here=$(dirname "$0")

refuse() {
    echo "sowline: $*" >&2
    exit 1
}

version_of() {
    "$1" -c 'import platform; print(platform.python_version())' 2>/dev/null
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    # First the versions that everything has wheels for, then whatever else there is.
    for name in python3.11 python3.12 python3.13 python3 python; do
        is_new_enough "$name" && command -v "$name" && return
    done
    return 1
}

if [ -n "$1" ]; then
    python=$1
    is_new_enough "$python" || refuse "expected Python 3.11 or newer, but PYTHON=$python" \
        "$(version=$(version_of "$python") && echo "is $version" || echo "does not run"): name another one"
else
    python=$(find_python) || refuse "expected Python 3.11 or newer on PATH, but" \
        "$(version=$(version_of python3) && echo "python3 is $version" || echo "there is no python3 that runs"):" \
        "install one, or name it with make PYTHON=/path/to/python"
fi
"$python" -c 'import ensurepip, venv' 2>/dev/null || refuse "expected $python to have the modules venv and ensurepip," \
    "but it has not: install them (Debian and Ubuntu: python3-venv)"
"$python" -S -B "$here/prerequisites.py" || exit 1
echo "$python"
