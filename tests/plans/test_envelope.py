"""What an approval binds: the plan, the configuration, the files, the time; and that it is used once."""

import json
import subprocess
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from remit.contracts.plans.envelope import Envelope
from remit.contracts.plans.outcome import PlanOutcome, PlanRefusal
from remit.core.errors import RefusedError
from tests.plans.project import Project, action, create, delete, plan_of, ran, refused, rename, replace
from tests.support import preloaded
from tests.support.task_workspace import MovableClock

Tree = dict[str, Any]
OTHER = "sha256:" + "0" * 64

CHANGES: dict[str, tuple[Callable[[Tree], object], int]] = {
    "plan content": (lambda tree: tree["plan"]["action_plan"][0]["operation"].update(replacement="TWo"), 1003),
    "plan id": (lambda tree: tree["plan"].update(plan_id="plan-002"), 1003),
    "plan flag": (lambda tree: tree["plan"]["execution_instructions"].update(stop_on_error=False), 1003),
    "another action": (lambda tree: tree["plan"]["action_plan"].append(create("more", "more.txt")), 1003),
    "config digest": (lambda tree: tree.update(config_digest=OTHER), 1002),
    "plan digest": (lambda tree: tree.update(plan_digest=OTHER), 1002),
    "inputs": (lambda tree: tree["inputs"][0].update(digest=OTHER), 1002),
    "the mode of an input": (lambda tree: tree["inputs"][0].update(mode="0777"), 1002),
    "no mode of an input": (lambda tree: tree["inputs"][0].pop("mode"), 1002),
    "no inputs": (lambda tree: tree.update(inputs=[]), 1002),
    "approvals": (lambda tree: tree["approvals"]["protected"].append(".env"), 1002),
    "issued": (lambda tree: tree.update(issued_at="2020-01-01T00:00:00.000000Z"), 1002),
    "expires": (lambda tree: tree.update(expires_at="2099-01-01T00:00:00.000000Z"), 1002),
    "id": (lambda tree: tree.update(envelope_id="another"), 1002),
    "signature": (lambda tree: tree.update(signature="A" * 86), 1002),
    "key": (lambda tree: tree.update(key_id="A" * 43), 1002),
    "status": (lambda tree: tree.update(status="PENDING"), 1001),
    "a field too many": (lambda tree: tree.update(more=1), 1001),
    "no plan": (lambda tree: tree.pop("plan"), 1001),
}


def envelope(project: Project) -> Envelope:
    project.write("a.txt")
    return project.approve(plan_of(replace("a", "a.txt")))


@pytest.mark.req("PX-01", "PX-02")
@pytest.mark.parametrize("name", CHANGES)
def test_whatever_is_changed_after_the_approval_is_refused(project: Project, name: str) -> None:
    tree = envelope(project).tree()
    change, code = CHANGES[name]
    change(tree)
    before = project.tree()
    outcome = project.workspace.apply(json.dumps(tree).encode())
    assert refused(outcome)[0] == code
    assert project.tree() == before
    assert not (project.root / "agent_outputs").exists()
    assert "plan.intent" not in project.kinds()


@pytest.mark.req("PX-01")
@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b"not json", b'{"status":"APPROVED"}'])
def test_what_is_no_envelope_is_refused(project: Project, raw: bytes) -> None:
    assert refused(project.workspace.apply(raw))[0] == 1001


@pytest.mark.req("PX-02")
def test_a_changed_configuration_voids_the_envelope(project: Project) -> None:
    approved = envelope(project).canonical()
    (project.root / "remit.yaml").write_text("version: 1\nlimits: {max_files: 7}\n")
    code, message = refused(project.workspace.apply(approved))
    assert (code, "configuration" in message) == (1003, True)


@pytest.mark.req("PX-02")
@pytest.mark.parametrize(
    "offset, code", [(timedelta(hours=2), 1004), (timedelta(minutes=-5), 1002)], ids=["over", "not yet"]
)
def test_an_envelope_is_refused_before_and_after_its_time(
    project: Project, clock: MovableClock, offset: timedelta, code: int
) -> None:
    approved = envelope(project).canonical()
    clock.offset = offset
    assert refused(project.workspace.apply(approved))[0] == code


@pytest.mark.req("PX-02")
def test_a_revoked_key_approves_nothing(project: Project) -> None:
    approved = envelope(project).canonical()
    project.workspace.rotate_key("protocol", revoke=True)
    assert refused(project.workspace.apply(approved))[0] == 1002


@pytest.mark.req("PX-02", "PX-29")
@pytest.mark.parametrize("edit", ["changed", "appeared"])
def test_a_file_that_is_not_as_it_was_approved_is_refused(project: Project, edit: str) -> None:
    project.write("a.txt")
    approved = project.approve(plan_of(replace("a", "a.txt"), create("b", "b.txt"))).canonical()
    project.write("a.txt" if edit == "changed" else "b.txt", "two of theirs\n")
    before = project.tree()
    assert refused(project.workspace.apply(approved))[0] == 1003
    assert project.tree() == before


MODES = {
    "modified": replace("a", "a.txt"),
    "deleted": delete("a", "a.txt"),
    "renamed": rename("a", "a.txt", "b.txt"),
}


@pytest.mark.req("PX-02", "PX-29")
@pytest.mark.parametrize("how", MODES)
@pytest.mark.parametrize("mode", [0o600, 0o755])
def test_a_file_whose_permissions_are_others_by_now_is_refused(project: Project, how: str, mode: int) -> None:
    file = project.write("a.txt", mode=0o644)
    approved = project.approve(plan_of(MODES[how])).canonical()
    file.chmod(mode)
    before = project.tree()
    code, message = refused(project.workspace.apply(approved))
    assert (code, f"{mode:04o}" in message, "0644" in message) == (1003, True, True)
    assert project.tree() == before
    assert "plan.intent" not in project.kinds()
    file.chmod(0o644)
    assert ran(project.workspace.apply(approved)).status.status == "SUCCESS", "the approval was not used up"


@pytest.mark.req("PX-02")
def test_a_file_that_is_only_read_may_get_other_permissions(project: Project) -> None:
    project.write("a.json", '{"n": 0}\n')
    schema = project.write("schema.json", '{"type": "object"}\n')
    rule = {"type": "json_schema", "path": "a.json", "schema_file": "schema.json"}
    edit = action("a", "FILE_MODIFY", "a.json", {"type": "json_update_value", "path": "$.n", "value": 1})
    approved = project.approve(plan_of(edit, rules=[rule]))
    assert {item.path: item.mode for item in approved.inputs} == {"a.json": "0644", "schema.json": None}
    schema.chmod(0o600)
    assert ran(project.workspace.apply(approved.canonical())).status.status == "SUCCESS"


@pytest.mark.req("PX-02")
def test_an_envelope_is_used_once_and_always_returns_its_outcome(project: Project) -> None:
    approved = envelope(project).canonical()
    first = ran(project.workspace.apply(approved))
    project.write("a.txt", "two again\n")
    told: list[bool] = []
    assert project.workspace.apply(approved, on_stored=lambda: told.append(True)) == first
    assert (told, project.read("a.txt")) == ([True], "two again\n")


APPLIER = """
import sys
from remit.workspace.workspace import Workspace
with Workspace.open(sys.argv[1]) as workspace:
    print(workspace.apply(open(sys.argv[2], "rb").read()).status.signature)
"""


@pytest.mark.req("PX-02")
def test_two_processes_with_one_envelope_do_it_once(project: Project, tmp_path: Any) -> None:
    kept = tmp_path / "envelope.json"
    kept.write_bytes(envelope(project).canonical())
    command = [preloaded.python(), "-c", APPLIER, str(project.root), str(kept)]
    started = [
        subprocess.Popen(command, env=project.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    said = [process.communicate(timeout=60) for process in started]
    assert len({out for out, _ in said}) == 1, said
    assert project.read("a.txt") == "one\nTWO\nthree\n"
    kinds = project.kinds()
    assert (kinds.count("plan.intent"), kinds.count("plan.outcome")) == (1, 1)
    assert len(list((project.root / "agent_outputs/reports").iterdir())) == 1


@pytest.mark.req("PX-02")
def test_many_threads_with_one_envelope_do_it_once(project: Project) -> None:
    approved = envelope(project).canonical()
    outcomes: list[PlanOutcome | PlanRefusal] = []
    threads = [threading.Thread(target=lambda: outcomes.append(project.workspace.apply(approved))) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 12
    assert len({ran(outcome).status.signature for outcome in outcomes}) == 1
    assert project.kinds().count("plan.outcome") == 1


@pytest.mark.req("PX-29")
def test_a_preview_changes_no_file_and_is_recorded_once(project: Project) -> None:
    project.write("a.txt")
    before, entries = project.tree(), project.kinds()
    plan = plan_of(replace("a", "a.txt"), delete("b", "a.txt"))
    preview = project.workspace.preview(plan)
    assert preview.document.status == "READY"
    assert project.workspace.preview(plan).document == preview.document
    assert (project.tree(), project.kinds()) == (before, [*entries, "plan.previewed"])
    assert not (project.root / "agent_outputs").exists()


@pytest.mark.req("PX-02")
def test_an_approval_of_a_plan_that_would_fail_is_refused(project: Project) -> None:
    with pytest.raises(RefusedError, match="the plan would fail"):
        project.approve(plan_of(replace("a", "missing.txt")))
    with pytest.raises(RefusedError, match="the plan would fail"):
        project.approve(plan_of(replace("a", "missing.txt")), even_if_it_fails=True)
    assert "envelope.issued" not in project.kinds()


@pytest.mark.req("PX-02")
def test_a_plan_that_would_fail_in_part_is_approved_only_on_request(project: Project) -> None:
    project.write("a.txt")
    plan = plan_of(replace("a", "a.txt"), replace("b", "missing.txt"), stop_on_error=False)
    with pytest.raises(RefusedError, match="the plan would fail") as caught:
        project.approve(plan)
    assert "even_if_it_fails" in caught.value.next_step
    assert "envelope.issued" not in project.kinds()
    project.approve(plan, even_if_it_fails=True)
    assert "envelope.issued" in project.kinds()
