"""`remit task run`, `remit task restore` and `remit recover` on real files."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import CommandResult, Remit


@pytest.fixture
def base(remit: Remit, tmp_path: Path) -> Path:
    """A directory that the workspace lists, with a file in it."""
    folder = (tmp_path / "base").resolve()
    folder.mkdir()
    (folder / "a").write_bytes(b"content")
    remit("init")
    with (tmp_path / "project" / "remit.yaml").open("a") as config:
        config.write(f"base_directories: [{json.dumps(str(folder))}]\n")
    return folder


def run_task(
    remit: Remit, base: Path, capability_id: str = "FILE_MOVE", source: str = "a", **environ: str
) -> CommandResult:
    inputs = {"source_path": str(base / source)}
    if capability_id != "FILE_DELETE":
        inputs["destination_path"] = str(base / "b")
    task = {"task_id": "t", "capability_id": capability_id, "inputs": inputs, "constraints": {"reversible": True}}
    (base.parent / "project" / "task.json").write_text(json.dumps(task))
    assert remit("task", "lease", "task.json", "-o", "lease.json").code == 0
    return remit("task", "run", "task.json", "--lease", "lease.json", **environ)


def names(base: Path) -> list[str]:
    return sorted(path.name for path in base.iterdir())


@pytest.mark.parametrize("capability_id", ["FILE_MOVE", "FILE_COPY", "FILE_DELETE"])
def test_a_task_is_run_and_restored(remit: Remit, base: Path, capability_id: str) -> None:
    ran = run_task(remit, base, capability_id)
    assert ran.code == 0, ran
    assert names(base) == {"FILE_MOVE": ["b"], "FILE_COPY": ["a", "b"], "FILE_DELETE": []}[capability_id]
    (base.parent / "project" / "result.json").write_text(ran.out)
    back = remit("task", "restore", "result.json")
    assert (back.code, back.document["task_id"]) == (0, "restore-t")
    assert names(base) == ["a"]
    again = remit("task", "restore", "-", stdin=ran.out.encode())
    assert (again.code, again.out) == (0, back.out)
    entries = remit("ledger", "show", "--task", "restore-t", "--json").document
    steps = [entry["kind"] for entry in entries if entry["kind"] != "task.noted"]
    assert steps[:4] == ["lease.issued", "task.intent", "task.outcome", "lease.issued"]
    whole = remit("ledger", "show", "--correlation", "t", "--json").document
    assert {entry["task_id"] for entry in whole} == {"t", "restore-t"}
    assert remit("ledger", "verify").code == 0


def test_a_refused_task_and_a_refused_restore_end_with_exit_2(remit: Remit, base: Path) -> None:
    ran = run_task(remit, base, source="missing")
    assert (ran.code, ran.document["error"]["error_code"]) == (2, "EXECUTION_FAILED")
    assert remit("task", "restore", "-", stdin=ran.out.encode()).code == 2
    ran = run_task(remit, base)
    assert ran.code == 0
    (base / "a").write_bytes(b"in the way")
    back = remit("task", "restore", "-", stdin=ran.out.encode())
    assert back.code == 2
    assert "never overwritten" in back.document["error"]["message"]
    forged = ran.out.replace(str(base / "a"), str(base / "elsewhere"))
    told = remit("task", "restore", "-", stdin=forged.encode())
    assert (told.code, told.out) == (2, "")
    assert "signature" in told.err
    assert names(base) == ["a", "b"]


def test_a_dry_run_shows_sizes_and_both_ends(remit: Remit, base: Path) -> None:
    assert run_task(remit, base, source="missing").code == 2
    text = (base.parent / "project" / "task.json").read_text().replace("missing", "a")
    (base.parent / "project" / "task.json").write_text(text)
    remit("task", "lease", "task.json", "-o", "lease.json")
    shown = remit("task", "run", "task.json", "--lease", "lease.json", "--dry-run")
    assert shown.out == f"Would run: FILE_MOVE as task t: remove {base / 'a'} (7 bytes), create {base / 'b'}\n"
    assert names(base) == ["a"]


def test_recover_with_nothing_to_do_says_so(remit: Remit, base: Path) -> None:
    told = remit("recover")
    assert (told.code, told.out) == (0, "Nothing was left unfinished.\n")
    assert remit("recover", "--json").document == []


@pytest.mark.parametrize("point, state", [("road.effect_done", "finished"), ("road.intent_recorded", "cleared")])
def test_recover_settles_what_a_kill_left_and_says_what_it_did(
    remit: Remit, base: Path, point: str, state: str
) -> None:
    assert run_task(remit, base, REMIT_FAULT=point).code == -signal.SIGKILL
    told = remit("recover", "--json")
    assert told.code == 0, told
    (report,) = told.document
    assert (report["task_id"], report["state"], report["problem"]) == ("t", state, None)
    assert report["result"]["status"] == ("SUCCESS" if state == "finished" else "FAILURE")
    assert names(base) == (["b"] if state == "finished" else ["a"])
    assert remit("recover").out == "Nothing was left unfinished.\n"


def test_recover_ends_with_exit_1_while_something_cannot_be_settled(remit: Remit, base: Path) -> None:
    assert run_task(remit, base, REMIT_FAULT="road.effect_done").code == -signal.SIGKILL
    (base / "b").rename(base / "hidden")
    told = remit("recover")
    assert told.code == 1
    assert "unsettled" in told.out
    assert "remit recover" in " ".join(told.out.split())
    (base / "hidden").rename(base / "b")
    assert "finished" in remit("recover").out
    assert remit("ledger", "verify").code == 0


def test_work_over_a_second_shows_how_much_of_it_is_done_on_a_terminal() -> None:
    program = """
import sys, time
from remit.cli.common.options import counting
with counting("bytes done") as count:
    count(1, 10)
    time.sleep(1.05)
    count(5, 10)
"""
    leader, follower = pty.openpty()
    subprocess.run([sys.executable, "-c", program], stderr=follower, check=True)
    os.close(follower)
    shown = os.read(leader, 1_000).decode()
    os.close(leader)
    assert "5 of 10 bytes done" in shown
    assert "1 of 10" not in shown


def test_entries_of_a_restore_name_the_task_that_they_belong_to(remit: Remit, base: Path) -> None:
    ran = run_task(remit, base)
    assert remit("task", "restore", "-", stdin=ran.out.encode()).code == 0
    lines = remit("ledger", "show", COLUMNS="240").out.splitlines()[2:]
    assert [line.count("FILE_MOVE as restore-t") for line in lines if " t " in line] == [0, 0, 0, 1, 1, 1]
    assert "SUCCESS, FILE_MOVE as restore-t" in "\n".join(lines)


def test_only_an_unfinished_task_can_be_declared_dead(remit: Remit, base: Path) -> None:
    told = remit("recover", "--dead", "nosuch")
    assert (told.code, told.out) == (2, "")
    assert "no unfinished task, plan or rollback has this id" in told.err
    assert "--dead nosuch" in told.err
    assert run_task(remit, base, REMIT_FAULT="road.effect_done").code == -signal.SIGKILL
    assert remit("recover", "--dead", "t", "--dead", "nosuch").code == 2
    assert "finished" in remit("recover", "--dead", "t").out


@pytest.mark.parametrize("arguments", [("lease",), ("run", "--lease", "task.json"), ("restore",)], ids="-".join)
def test_a_file_that_is_no_json_is_refused_by_its_name(remit: Remit, base: Path, arguments: tuple[str, ...]) -> None:
    (base.parent / "project" / "task.json").write_text("a plain text")
    told = remit("task", *arguments, "task.json")
    assert (told.code, told.out) == (2, "")
    assert "task.json" in told.err


def test_another_tasks_lease_is_refused_with_the_command_for_the_right_one(remit: Remit, base: Path) -> None:
    assert run_task(remit, base).code == 0
    task = base.parent / "project" / "task.json"
    task.write_text(task.read_text().replace('"t"', '"t-2"'))
    told = remit("task", "run", "task.json", "--lease", "lease.json")
    assert told.code == 2
    assert "remit task lease" in told.document["error"]["message"]


def test_a_missing_folder_is_named_and_not_only_the_file_that_should_go_there(remit: Remit, base: Path) -> None:
    told = run_task(remit, base, source="newfolder/a")
    assert told.code == 2
    assert "the folder newfolder does not exist" in told.document["error"]["message"]


def test_a_warning_on_a_terminal_says_which_task_and_why(remit: Remit, base: Path) -> None:
    assert run_task(remit, base, REMIT_FAULT="road.effect_done").code == -signal.SIGKILL
    (base / "b").rename(base / "hidden")
    task = {"task_id": "n", "capability_id": "NO_EFFECT", "inputs": {}, "constraints": {"reversible": True}}
    (base.parent / "project" / "task.json").write_text(json.dumps(task))
    remit("task", "lease", "task.json", "-o", "lease.json")
    told = remit("task", "run", "task.json", "--lease", "lease.json")
    assert told.code == 0
    (line,) = told.err.splitlines()
    assert line.startswith("warning: a task could not be settled (task_id: t, why: the file is neither at its source")


@pytest.mark.req("PV-04")
def test_a_lease_for_a_protected_file_warns_what_it_allows(remit: Remit, base: Path) -> None:
    (base / "package.json").write_text("{}")
    assert "is protected" not in run_task(remit, base, "FILE_COPY").err
    inputs = {"source_path": str(base / "package.json"), "destination_path": str(base / "c")}
    task = {"task_id": "p", "capability_id": "FILE_MOVE", "inputs": inputs, "constraints": {"reversible": True}}
    (base.parent / "project" / "task.json").write_text(json.dumps(task))
    leased = remit("task", "lease", "task.json")
    assert leased.code == 0
    assert f"{base / 'package.json'} is protected; with this lease, an agent can run FILE_MOVE on it" in leased.err
    assert leased.document["task_id"] == "p", "the lease alone is on standard output"
