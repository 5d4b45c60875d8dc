#!/bin/sh
# Install the system packages that the tests need: PostgreSQL's server binaries, Chromium and strace, if missing.
set -eu
cd "$(dirname "$0")/.."

have() {
    command -v "$1" >/dev/null 2>&1
}

missing=""
if [ -z "${REMIT_TEST_POSTGRES_URL:-}" ] && ! have initdb && ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
    missing="$missing postgresql"
fi
have chromium || missing="$missing chromium"
have strace || missing="$missing strace"
[ -n "$missing" ] || exit 0

# The tests start their own server. Debian would also create and start a cluster for the whole machine, which is not
# needed. So this is switched off during the installation.
no_cluster=/etc/postgresql-common/createcluster.d/50-remit-tests.conf
as_root=""
[ "$(id -u)" -eq 0 ] || as_root="sudo"
case "$missing" in
*postgresql*)
    if have apt-get && { [ -z "$as_root" ] || have sudo; }; then
        $as_root mkdir -p "$(dirname "$no_cluster")"
        echo "create_main_cluster = false" | $as_root tee "$no_cluster" >/dev/null
        trap '$as_root rm -f "$no_cluster"' EXIT
    fi
    ;;
esac

# shellcheck disable=SC2086 # a list of package names, none with a space
sh scripts/install_packages.sh $missing
