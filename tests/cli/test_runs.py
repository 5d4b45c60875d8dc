"""`remit runs`: what ran, what was taken back, what can still be undone, and by which name."""

import contextlib
import json
import signal
import sqlite3
from pathlib import Path

import pytest

from tests.cli.conftest import Remit, approve
from tests.cli.test_plan_commands import BEFORE, applied, create, project, put, update

__all__ = ["project"]


def envelope_of(project: Path) -> str:
    return str(json.loads((project / "envelope.json").read_text())["envelope_id"])


def test_where_nothing_ran_it_says_so_and_there_is_no_last_run(remit: Remit, project: Path) -> None:
    told = remit("runs")
    assert (told.code, told.out.splitlines()[0]) == (
        0,
        "No plan has run here yet. To see what a plan would do: remit preview PLAN.json",
    )
    assert remit("runs", "--json").document == []
    refused = remit("rollback", "last")
    assert refused.code == 2
    assert "no plan has run in this workspace yet" in refused.err
    assert remit("rollback", "last", "--json").document["error"]["reason"] == "state_missing"


@pytest.mark.req("PX-15")
def test_runs_are_listed_newest_first_with_what_can_be_undone(remit: Remit, project: Path) -> None:
    assert applied(remit, put(project, update())).code == 0
    first = envelope_of(project)
    assert remit("rollback", "last").code == 0
    assert applied(remit, put(project, update(), create("new/file.txt"))).code == 0
    second = envelope_of(project)
    found = remit("runs", "--json").document
    assert [(run["what"], run["envelope_id"], run["status"], run["files"]) for run in found] == [
        ("plan", second, "SUCCESS", 2),
        ("rollback", first, "EXECUTED", 1),
        ("plan", first, "SUCCESS", 1),
    ]
    assert [run["undo"]["state"] for run in found] == ["POSSIBLE", "NOTHING", "DONE"]
    assert [run["undo"]["command"] for run in found] == [f"remit rollback {second}", None, None]
    assert (project / found[0]["report"] / "rollback_manifest.json").exists()
    shown = remit("runs").out
    rows = shown.splitlines()
    assert "plan-1" in rows[1]
    assert "until 20" in rows[1]
    assert "rolled back" in rows[3]
    assert rows[-1] == f"To roll one back, by its envelope: remit rollback {second.rpartition('-')[2]}"
    cut = remit("runs", "--limit", "1").out
    assert first.rpartition("-")[2] not in cut
    assert "remit runs --limit 10" in cut


def test_the_report_of_the_newest_run_is_named_and_has_its_changes_and_errors(remit: Remit, project: Path) -> None:
    """Refusals and the messages for agents point here."""
    assert applied(remit, put(project, update())).code == 0
    lines = remit("runs").out.splitlines()
    assert lines[-3].endswith("is in its report folder. Each is named by: remit runs --json")
    [run] = remit("runs", "--json").document
    assert lines[-2] == f"That of {run['envelope_id'].rpartition('-')[2]}: {run['report']}/"
    names = {path.name for path in (project / run["report"]).iterdir()}
    assert names >= {"execution_report.json", "change_log.json"}, names


def test_a_run_is_rolled_back_by_its_short_name_only_if_that_is_unambiguous(remit: Remit, project: Path) -> None:
    assert applied(remit, put(project, update())).code == 0
    name = envelope_of(project)
    assert remit("rollback", "x" + name.rpartition("-")[2]).code == 2
    assert remit("rollback", name[-12:]).code == 0
    assert (project / "settings.json").read_text() == BEFORE
    assert remit("cancel", name[-12:]).code == 1


def test_a_run_that_was_killed_is_listed_as_unfinished(remit: Remit, project: Path) -> None:
    approve(remit, put(project, update()), "-o", "envelope.json")
    assert remit("apply", "envelope.json", REMIT_FAULT="road.effect_done").code == -signal.SIGKILL
    (run,) = remit("runs", "--json").document
    assert (run["status"], run["plan_id"], run["undo"]["state"]) == ("UNFINISHED", "plan-1", "UNKNOWN")
    shown = remit("runs").out
    assert "remit recover" in shown
    assert "can be rolled back any more" not in shown


def test_a_run_that_the_ledger_cannot_verify_is_listed_without_details(remit: Remit, project: Path) -> None:
    assert applied(remit, put(project, update())).code == 0
    (path,) = project.parent.glob("state/*/ledger.sqlite3")
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("DROP TRIGGER claims_finish_once")
        database.execute("UPDATE claims SET result = replace(result, 'plan-1', 'plan-9')")
        database.commit()
    (run,) = remit("runs", "--json").document
    assert (run["status"], run["plan_id"], run["undo"]["command"]) == ("NOT VOUCHED FOR", "", None)


def completed(remit: Remit, words: str, **environ: str) -> list[str]:
    count = str(len(words.split(" ")) - 1)
    shown = remit(_REMIT_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=count, **environ)
    return [line.partition(",")[2] for line in shown.out.splitlines() if line]


def test_a_shell_completes_the_runs_that_can_be_undone(remit: Remit, project: Path) -> None:
    assert completed(remit, "remit rollback ") == []
    assert applied(remit, put(project, update())).code == 0
    name = envelope_of(project)
    assert completed(remit, "remit rollback ") == ["last", name]
    assert completed(remit, f"remit rollback {name[:9]}") == [name]
    assert remit("rollback", "last").code == 0
    assert completed(remit, "remit rollback ") == []


def test_completion_outside_of_a_workspace_offers_nothing(remit: Remit, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    shown = remit(
        _REMIT_COMPLETE="bash_complete",
        COMP_WORDS="remit rollback ",
        COMP_CWORD="2",
        cwd=tmp_path / "elsewhere",
    )
    assert (shown.out.strip(), shown.err) == ("", "")
