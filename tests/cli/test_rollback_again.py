"""`remit rollback`: what `last` is, a second rollback, the same figures everywhere, and files named by their path."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from remit.contracts.plans.rollback import RollbackManifest
from remit.core.errors import Reason, RefusedError
from remit.plans.storage.drift import resolve_checkpoints
from tests.cli.conftest import Remit
from tests.cli.test_plan_commands import AFTER, BEFORE, applied, create, project, put, update
from tests.cli.test_runs import envelope_of

__all__ = ["project"]


@pytest.mark.req("PX-15")
def test_last_stays_the_newest_run_and_the_next_candidate_is_named(remit: Remit, project: Path) -> None:
    assert applied(remit, put(project, update())).code == 0
    older = envelope_of(project)
    assert applied(remit, put(project, create("new.txt"))).code == 0
    assert remit("rollback", "last").code == 0
    again = remit("rollback", "last")
    assert again.code == 0, again
    assert "Already rolled back at 20" in again.err
    assert "nothing was changed now" in again.err
    assert f"remit rollback {older.rpartition('-')[2]}" in again.out
    assert (project / "settings.json").read_text() == AFTER
    assert "SUCCESS or PARTIAL" in remit("rollback", "--help").out
    assert remit("rollback", older).code == 0
    assert (project / "settings.json").read_text() == BEFORE
    assert "remit rollback " not in remit("rollback", "last").out


def test_a_run_without_changes_names_the_next_candidate_too(remit: Remit, project: Path) -> None:
    assert applied(remit, put(project, create("new.txt"))).code == 0
    older = envelope_of(project)
    assert applied(remit, put(project, update(3))).code == 0
    told = remit("rollback", "last")
    assert (told.code, f"remit rollback {older.rpartition('-')[2]}" in told.out) == (0, True), told


def test_a_run_is_found_by_the_id_of_its_proposal_whole_or_as_the_console_shows_it(
    remit: Remit, project: Path, tmp_path: Path
) -> None:
    plan = put(project, update())
    proposal = remit("propose", str(plan), "--json").document["proposal_id"]
    refused = remit("rollback", proposal)
    assert refused.code == 2
    assert f"remit approvals show {proposal}" in refused.err
    digest = remit("approvals", "show", proposal, "--json").document["preview"]["preview_digest"]
    assert remit("approvals", "approve", proposal, "--digest", digest).code == 0
    assert remit("apply", "--proposal", proposal).code == 0
    assert (project / "settings.json").read_text() == AFTER
    assert remit("rollback", proposal).code == 0
    assert (project / "settings.json").read_text() == BEFORE
    assert "Already rolled back" in remit("rollback", proposal.rpartition("-")[2]).err


@pytest.mark.req("PX-15", "PX-17")
def test_what_the_plan_made_is_called_removed_and_what_is_gone_is_called_as_before(remit: Remit, project: Path) -> None:
    plan = put(project, update(), create("made/new.txt"))
    assert applied(remit, plan).code == 0
    script = next((project / "agent_outputs/reports").glob("*/rollback.py"))
    ran = subprocess.run([sys.executable, "-I", str(script)], env={}, check=True, capture_output=True, timeout=60)
    lines = ran.stdout.decode().splitlines()
    assert sorted(lines[:-1]) == ["removed   made", "removed   made/new.txt", "restored  settings.json"]
    assert lines[-1] == "1 restored, 2 removed, 0 kept"
    assert applied(remit, put(project, create("other/new.txt"))).code == 0
    (project / "other/new.txt").unlink()
    (project / "other").rmdir()
    told = remit("rollback", "last")
    assert (told.code, "removed" in told.out) == (0, False), told
    assert "2 checkpoints as before the plan, 2 of them were not touched" in told.out
    assert "  as before other: not touched\n" in told.out


@pytest.mark.req("PX-17")
def test_after_the_script_every_list_has_the_same_figures(remit: Remit, project: Path) -> None:
    assert applied(remit, put(project, update(), create("new.txt"))).code == 0
    script = next((project / "agent_outputs/reports").glob("*/rollback.py"))
    subprocess.run([sys.executable, "-I", str(script)], env={}, check=True, capture_output=True, timeout=60)
    told = remit("rollback", "last")
    assert "2 checkpoints as before the plan, 2 of them were not touched\n" in told.out, told
    assert "EXECUTED, 2 checkpoints as before the plan" in remit("ledger", "show", COLUMNS="200").out
    assert remit("runs", "--json").document[0]["files"] == 2
    assert "2 checkpoints as before the plan\n" in remit("rollback", "last").out


@pytest.mark.req("PX-16")
def test_a_file_is_chosen_by_its_path_or_by_the_id_of_its_checkpoint(remit: Remit, project: Path) -> None:
    assert applied(remit, put(project, update(), create("new/file.txt"))).code == 0
    told = remit("rollback", "last", "--checkpoint", "./settings.json")
    assert told.code == 0, told
    assert (project / "settings.json").read_text() == BEFORE
    assert (project / "new/file.txt").exists()
    assert "  not restored" in told.out
    assert "  left  " not in told.out
    wrong = remit("rollback", "last", "--checkpoint", "other.txt", "--json")
    manifest = next((project / "agent_outputs/reports").glob("*/rollback_manifest.json"))
    error = wrong.document["error"]
    assert (wrong.code, error["reason"], error["code"], error["where"]) == (
        2,
        "argument_invalid",
        1015,
        "other.txt",
    )
    assert str(manifest) in error["next_step"]
    assert "new/file.txt" in error["next_step"]
    (checkpoint,) = (
        each["checkpoint_id"]
        for each in json.loads(manifest.read_text())["checkpoints"]
        if each["file_path"] == "new/file.txt"
    )
    assert remit("rollback", "last", "--checkpoint", checkpoint).code == 0
    assert not (project / "new/file.txt").exists()


def test_a_path_that_two_checkpoints_have_is_refused_with_the_ids_to_choose_from(remit: Remit, project: Path) -> None:
    assert applied(remit, put(project, create("a.txt"), create("b.txt"))).code == 0
    path = next((project / "agent_outputs/reports").glob("*/rollback_manifest.json"))
    tree = json.loads(path.read_text())
    tree["checkpoints"][1]["file_path"] = tree["checkpoints"][0]["file_path"]
    manifest = RollbackManifest.from_tree(tree)
    with pytest.raises(RefusedError) as refused:
        resolve_checkpoints(manifest, [tree["checkpoints"][0]["file_path"]], "the manifest")
    assert refused.value.reason is Reason.ARGUMENT_INVALID
    assert all(each["checkpoint_id"] in refused.value.next_step for each in tree["checkpoints"])


def test_the_list_of_runs_says_plan_as_its_json_does(remit: Remit, project: Path) -> None:
    assert applied(remit, put(project, update())).code == 0
    (run,) = remit("runs", "--json").document
    assert remit("runs").out.splitlines()[1].split()[2] == run["what"] == "plan"
