#!/bin/sh
# Install Debian packages, as root or with sudo. Usage: install_packages.sh PACKAGE...
# Quiet: one line when it starts, the end of apt's own output when it fails.
set -eu

fail() {
    echo "remit: $1" >&2
    exit 1
}

command -v apt-get >/dev/null 2>&1 ||
    fail "this machine has no apt-get. Install what these Debian packages hold by its own means, then run make again: $*"

if [ "$(id -u)" -eq 0 ]; then
    as_root=""
elif ! command -v sudo >/dev/null 2>&1; then
    fail "missing: $*. There is no sudo here: ask an administrator for 'apt-get install $*', then run make again."
elif [ -t 0 ]; then
    as_root="sudo"
else
    as_root="sudo -n" # nobody is there to type a password
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT

apt() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 "$@" >"$log" 2>&1 </dev/null
}

echo "remit: installing $* with apt-get"
# The package lists of a fresh machine may be absent or stale: fetch them only when the first try fails.
apt install --no-install-recommends "$@" && exit 0
echo "remit: fetching the package lists"
apt update && apt install --no-install-recommends "$@" && exit 0
tail -n 20 "$log" >&2
fail "apt-get could not install: $*. The lines above say why; mend that, then run make again."
