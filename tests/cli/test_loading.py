"""A command loads only the operations that it uses. Loading code takes most of the time of a short command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from remit.workspace.create import initialise

OTHER_OPERATIONS = ("remit.goals.core", "remit.browser.service", "remit.services.goals.answers")
PLAN = {
    "plan_id": "p1",
    "action_plan": [
        {
            "action_id": "a1",
            "action_type": "FILE_CREATE",
            "target": "a.txt",
            "operation": {"type": "write", "content": "one\n"},
        }
    ],
}
LOOKER = """
import sys
from remit.cli import main
try:
    main(sys.argv[1:], prog_name="remit")
except SystemExit as end:
    print(end.code, *sorted(sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "arguments, unused",
    [
        (("preview", "plan.json"), (*OTHER_OPERATIONS, "jwt", "asyncio")),
        (("run", "plan.json", "--yes"), (*OTHER_OPERATIONS, "jwt", "asyncio")),
        (("runs",), (*OTHER_OPERATIONS, "jwt", "asyncio")),
        (("ledger", "verify"), (*OTHER_OPERATIONS, "jwt", "asyncio")),
        (("token", "list"), (*OTHER_OPERATIONS, "remit.plans.operation")),
        (("people", "list"), (*OTHER_OPERATIONS, "remit.plans.operation")),
    ],
    ids=lambda value: " ".join(value) if "remit.goals.core" not in value else "",
)
def test_a_command_loads_what_it_uses(tmp_path: Path, arguments: tuple[str, ...], unused: tuple[str, ...]) -> None:
    project, state = tmp_path / "project", tmp_path / "state"
    project.mkdir()
    initialise(project, {"REMIT_STATE": str(state)})[0].close()
    (tmp_path / "plan.json").write_text(json.dumps(PLAN), encoding="utf-8")
    given = [str(tmp_path / one) if one == "plan.json" else one for one in arguments]
    done = subprocess.run(
        [sys.executable, "-c", LOOKER, *given],
        cwd=project,
        env={**os.environ, "REMIT_STATE": str(state)},
        capture_output=True,
        text=True,
        check=True,
    )
    code, *loaded = done.stderr.splitlines()[-1].split()
    assert code == "0"
    assert "remit.store.sqlite" in loaded  # the command did its work, and read the store
    assert set(unused).isdisjoint(loaded)
