"""How `remit task run` ends: 0 done, 1 ran and failed, 2 nothing ran."""

import json
from pathlib import Path

from tests.cli.conftest import Remit
from tests.cli.test_commands import leased, write_manifest


def done(remit: Remit, folder: Path) -> str:
    leased(remit, folder)
    ran = remit("task", "run", "task.json", "--lease", "lease.json")
    assert ran.code == 0
    return ran.out


def test_an_id_that_was_used_for_something_else_is_refused_with_exit_2(remit: Remit, tmp_path: Path) -> None:
    done(remit, tmp_path)
    write_manifest(tmp_path, constraints={"reversible": False})
    assert remit("task", "lease", "task.json", "-o", "lease.json").code == 0
    ran = remit("task", "run", "task.json", "--lease", "lease.json")
    assert ran.code == 2
    assert ran.document["error"]["error_code"] == "EXECUTION_FAILED"
    assert remit("task", "run", "task.json", "--lease", "lease.json", "--dry-run").code == 2
    kinds = [entry["kind"] for entry in remit("ledger", "show", "--json").document]
    assert kinds[-1] == "task.refused"
    assert kinds.count("task.intent") == 1


def test_a_repeat_gives_the_first_result_and_its_exit_code(remit: Remit, tmp_path: Path) -> None:
    first = done(remit, tmp_path)
    again = remit("task", "run", "task.json", "--lease", "lease.json")
    assert (again.code, again.out) == (0, first)


def test_a_dry_run_of_a_finished_task_says_that_it_was_done_before(remit: Remit, tmp_path: Path) -> None:
    first = done(remit, tmp_path)
    told = remit("task", "run", "task.json", "--lease", "lease.json", "--dry-run")
    assert (told.code, told.err, told.out) == (0, "Already done. The stored result:\n", first)
    document = remit("task", "run", "task.json", "--lease", "lease.json", "--dry-run", "--json").document
    assert document == {"already_done": True, "result": json.loads(first)}


def test_a_dry_run_that_is_refused_does_not_claim_to_be_done(remit: Remit, tmp_path: Path) -> None:
    leased(remit, tmp_path)
    write_manifest(tmp_path, task_id="t-2")
    ran = remit("task", "run", "task.json", "--lease", "lease.json", "--dry-run", "--json")
    assert ran.code == 2
    assert ran.document["error"]["what"]
    assert "already_done" not in ran.document
