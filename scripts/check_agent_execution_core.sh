#!/bin/sh
# Fails on each of the seven violations of the agent execution core. Usage: check_agent_execution_core.sh [ROOT]
# Without it, and without it passing, the core is not fit for production: `make check` and `make release` run it.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
root=$(cd "${1:-$here}" && pwd)
python=$here/.venv/bin/python
[ -x "$python" ] || python=$(command -v python3) || {
    echo "agent guardrails: needs Python; run \`make check\`, which sets it up." >&2
    exit 1
}
# The code that is run is the root's own, wherever Remit is installed.
cd "$here"
PYTHONPATH=$root/src:$here exec "$python" -m scripts.agent_guardrails --root "$root"
