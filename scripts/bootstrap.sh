#!/bin/sh
# Create .venv and install the pinned requirements. Usage: bootstrap.sh runtime|dev STAMP
# Needs Python 3.11 or newer. Set PYTHON to choose one. The stamp is written last, so a failed set-up is repeated.
set -eu
cd "$(dirname "$0")/.."
kind=$1
stamp=$2

fail() {
    echo "remit: $1" >&2
    exit 1
}

usable() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if usable "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    fail "Python 3.11 or newer was not found. Install it, or set PYTHON to its path, then run make again."
}

make_venv() {
    python=$(find_python)
    # In Debian, ensurepip is in the separate package python3-venv.
    if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        sh scripts/install_packages.sh "python$version-venv"
    fi
    echo "remit: creating .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
}

if ! usable .venv/bin/python || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    make_venv
fi

echo "remit: installing the pinned $kind requirements into .venv"
.venv/bin/python -m pip install --quiet --quiet --disable-pip-version-check --no-input --require-hashes \
    -r "requirements/$kind.txt" ||
    fail "pip could not install requirements/$kind.txt. The lines above show the cause. Check the network or PIP_* settings, then run make again."
.venv/bin/python -m pip install --quiet --quiet --disable-pip-version-check --no-input --no-build-isolation --no-deps -e . ||
    fail "pip could not install Remit itself. The lines above show the cause. To start again, run: make clean"

# pip compiles every other package. A process in the sandbox may not write compiled files, so src is compiled here.
.venv/bin/python -m compileall -q src

rm -f ".venv/.$kind"-*
touch "$stamp"
