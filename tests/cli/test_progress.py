"""Progress of what takes a while: a line on a terminal only, and Ctrl-C while it is shown."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Remit
from tests.cli.terminal import CTRL_C, TypedAnswer, run_in_terminal
from tests.cli.test_plan_commands import BEFORE, project, put, update
from tests.support import preloaded

__all__ = ["project"]

ENDLESS = "SELECT count(*) FROM range(1000000) a, range(1000000) b"
PROGRAM = """
import sys
from remit.cli.common import progress
progress.DELAY_SECONDS = float(sys.argv[2])
with progress.showing_progress(quiet=sys.argv[1] == "quiet") as report:
    report("RUNNING", 5, 10, "src/\\x1b[31mx")
    sys.stdin.readline()
"""
"""Works until it gets a line."""
LINE = "RUNNING 5 of 10 src/\\x1b[31mx"


def shown_by_program(mode: str, delay: float, until: str = "") -> str:
    """All that the program draws on a terminal. It ends as soon as this text is there."""
    leader, follower = pty.openpty()
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, mode, str(delay)], stdin=subprocess.PIPE, stderr=follower
    )
    os.close(follower)
    shown = b""
    while until.encode() not in shown:
        shown += os.read(leader, 4096)
    program.communicate(b"\n")
    try:
        while piece := os.read(leader, 4096):
            shown += piece
    except OSError:  # the other side is closed
        pass
    os.close(leader)
    return shown.decode()


def test_progress_moves_on_a_terminal_and_its_line_is_erased() -> None:
    shown = shown_by_program("loud", 0, until=LINE)
    assert shown.count("\r") > 1
    assert shown.endswith("\r\x1b[K")
    assert "\n" not in shown


def test_no_progress_is_shown_for_short_work_nor_if_it_is_not_wanted() -> None:
    assert shown_by_program("loud", 1_000) == ""
    assert shown_by_program("quiet", 0) == ""


def test_no_progress_is_shown_in_a_file() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, "loud", "0"], input=b"\n", capture_output=True, check=True)
    assert done.stderr == b""


@pytest.fixture
def slow_plan(project: Path) -> str:
    """A plan whose preview does not end before its time limit of a minute."""
    with (project / "remit.yaml").open("a") as config:
        config.write("connections: {memory: {type: duckdb}}\n")
    operation = {"type": "sql_execute", "query": ENDLESS, "connection": "memory", "save_results_to": "rows.csv"}
    return put(project, update(), {"action_type": "SQL_EXECUTE", "operation": operation, "timeout_seconds": 60})


@pytest.mark.parametrize("command", ["preview", "run"])
def test_ctrl_c_while_a_preview_shows_its_progress_says_that_nothing_was_changed(
    project: Path, slow_plan: str, command: str
) -> None:
    interrupt = TypedAnswer("CHECKING", CTRL_C.decode())
    seen = run_in_terminal(project, command, slow_plan, answers=(interrupt,))
    assert (seen.code, seen.answered) == (1, True), seen
    assert "Nothing was changed." in seen.shown
    assert "5006 CANCELLED" in seen.shown
    assert "Aborted" not in seen.shown
    assert (project / "settings.json").read_text() == BEFORE
    assert not (project / "rows.csv").exists()


INTERRUPTED_LATER = """
import os, select, signal, sys
from remit import Workspace
from remit.cli.common import progress
progress.DELAY_SECONDS = 0
def preview(*_, **__):
    select.select([], [], [], 10 * progress.INTERVAL_SECONDS)  # so long that a line would be drawn
    os.kill(os.getpid(), signal.SIGTERM)
    signal.pause()
Workspace.preview = preview
from remit.cli import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize("as_json", [False, True])
def test_a_preview_draws_no_progress_into_a_pipe_nor_into_json(project: Path, tmp_path: Path, *, as_json: bool) -> None:
    words = ["preview", put(project, update()), *(["--json"] if as_json else [])]
    leader, follower = pty.openpty()
    done = subprocess.run(
        [preloaded.python(), "-c", INTERRUPTED_LATER, *words],
        cwd=project,
        env={**os.environ, "REMIT_STATE": str(tmp_path / "state")},
        stdout=subprocess.PIPE,
        stderr=follower if as_json else subprocess.PIPE,
        check=False,
    )
    os.close(follower)
    assert done.returncode == 1
    if as_json:  # although standard error is a terminal
        with pytest.raises(OSError, match="Input/output error"):
            os.read(leader, 4096)
        error = json.loads(done.stdout)["error"]
        assert (error["reason"], error["code"], error["type"]) == ("cancelled", 5006, "CANCELLED")
        assert "Nothing was changed." in error["what"]
    else:
        assert done.stderr.decode().startswith("failed: the preview was stopped. Nothing was changed.\n")
    os.close(leader)


def test_an_interrupted_preview_leaves_nothing_to_recover(remit: Remit, project: Path, slow_plan: str) -> None:
    run_in_terminal(project, "preview", slow_plan, answers=(TypedAnswer("CHECKING", CTRL_C.decode()),))
    assert remit("recover").code == 0
    assert not list(project.rglob(".remit-*"))
    assert [entry["kind"] for entry in remit("ledger", "show", "--json").document] == ["workspace.created"]
