#!/bin/sh
# Fail on each of ten kinds of violations in the agent execution core. Usage: check_agent_execution_core.sh [ROOT]
# `make check` and `make release` run it. A core that does not pass is not fit for production.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
root=$(cd "${1:-$here}" && pwd)
python=$here/.venv/bin/python
[ -x "$python" ] || python=$(command -v python3) || {
    echo "agent guardrails: Python was not found. Run: make check" >&2
    exit 1
}
# The check runs the code of this root, even if another Remit is installed.
cd "$here"
PYTHONPATH=$root/src:$here exec "$python" -m scripts.agent_guardrails --root "$root"
