"""A workspace whose state directory is not where this process looks for it."""

from pathlib import Path

import pytest

from remit.core.errors import EnvironmentFailureError, Reason
from remit.core.ids import system_clock
from remit.workspace.create import initialise
from remit.workspace.workspace import Workspace


def test_the_next_step_begins_with_the_variables_that_name_another_place(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    initialise(tmp_path / "work", {"REMIT_STATE": str(tmp_path / "state")}, system_clock)[0].close()
    with pytest.raises(EnvironmentFailureError) as missing:
        Workspace.open(tmp_path / "work", environ={"HOME": str(tmp_path)})
    assert missing.value.reason is Reason.STATE_MISSING
    first, _, rest = missing.value.next_step.partition("New here: remit init.")
    assert "REMIT_STATE" in first
    assert "MCP client" in first
    assert "remit init --adopt" in rest
