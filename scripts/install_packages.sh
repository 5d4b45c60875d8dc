#!/bin/sh
# Install Debian packages, as root or with sudo. Usage: install_packages.sh PACKAGE...
# It prints one line when it starts. If it fails, it prints the end of the output of apt.
set -eu

fail() {
    echo "remit: $1" >&2
    exit 1
}

command -v apt-get >/dev/null 2>&1 ||
    fail "this machine has no apt-get. Install these Debian packages another way, then run make again: $*"

if [ "$(id -u)" -eq 0 ]; then
    as_root=""
elif ! command -v sudo >/dev/null 2>&1; then
    fail "missing: $*. This machine has no sudo. Ask an administrator to run 'apt-get install $*', then run make again."
elif [ -t 0 ]; then
    as_root="sudo"
else
    as_root="sudo -n" # without a terminal, no password can be typed
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT

apt() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 "$@" >"$log" 2>&1 </dev/null
}

echo "remit: installing $* with apt-get"
# The package lists of a new machine may be missing or old. They are fetched only if the first try fails.
apt install --no-install-recommends "$@" && exit 0
echo "remit: fetching the package lists"
apt update && apt install --no-install-recommends "$@" && exit 0
tail -n 20 "$log" >&2
fail "apt-get could not install: $*. The lines above show the cause. Fix it, then run make again."
