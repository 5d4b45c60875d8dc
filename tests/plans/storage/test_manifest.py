"""The manifest: one checkpoint for each net change, in an order that leads back, and steps that do lead back."""

import json
import random
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import jsonschema_rs
import pytest

from remit.contracts.plans.outcome import RollbackOutcome
from remit.contracts.plans.rollback import RollbackManifest
from remit.contracts.schemas import load_schema
from remit.core.errors import Reason, RefusedError
from remit.effects.plans.steps import State, StepPlan, encode_plan, final_states, parse_plan
from remit.plans.storage.backups import verify_backups
from remit.plans.storage.drift import paths_of, read_states, select
from remit.plans.storage.manifest import fold, inverse_steps, made_folders, mark_executed, net_changes, read_script
from remit.plans.storage.run_folder import ReportFolder
from tests.plans.storage.project import AT, CREATED, EXPIRES, Action, Done, Project, state_of

LATER = AT + timedelta(hours=1)
ORDER_KEY = "A" * 43
PREFIX = "f" * 20


@pytest.fixture
def project(tmp_path: Path) -> Project:
    place = Project(tmp_path / "project")
    for name in "abc":
        place.write(name, f"{name} before".encode(), 0o640)
    return place


NET: list[tuple[list[Action], dict[str, str]]] = [
    ([("modify", "a", b"1"), ("modify", "a", b"2")], {"a": "MODIFY"}),
    ([("modify", "a", b"1"), ("modify", "a", b"a before")], {}),
    ([("create", "n", b"1"), ("modify", "n", b"2")], {"n": "CREATE"}),
    ([("create", "n", b"1"), ("delete", "n", None)], {}),
    ([("delete", "a", None), ("create", "a", b"new")], {"a": "MODIFY"}),
    ([("modify", "a", b"1"), ("delete", "a", None)], {"a": "DELETE"}),
    ([("rename", "a", "n")], {"a": "RENAME"}),
    ([("rename", "a", "n"), ("modify", "n", b"1")], {"a": "DELETE", "n": "CREATE"}),
    ([("rename", "a", "n"), ("create", "a", b"1")], {"a": "MODIFY", "n": "CREATE"}),
    ([("rename", "a", "n"), ("rename", "n", "a")], {}),
    ([("delete", "b", None), ("rename", "a", "b")], {"a": "DELETE", "b": "MODIFY"}),
    ([("rename", "a", "n"), ("rename", "b", "a"), ("rename", "n", "b")], {"a": "MODIFY", "b": "MODIFY"}),
]


@pytest.mark.req("PX-36")
@pytest.mark.parametrize("actions, wanted", NET)
def test_many_actions_on_a_path_are_one_checkpoint(
    project: Project, actions: list[Action], wanted: dict[str, str]
) -> None:
    done = project.run_plan(actions)
    assert {c.file_path: c.operation_to_reverse for c in done.manifest.checkpoints} == wanted


def test_only_what_was_done_counts(project: Project) -> None:
    plan, first = project.plan([("modify", "a", b"1"), ("delete", "b", None), ("rename", "c", "d")])
    assert [plan.paths[change.path] for change in net_changes(plan, first, {0, 2})] == ["a", "c"]
    still = plan._replace(steps=tuple(step._replace(unchanged=step.number == 0) for step in plan.steps))
    assert [plan.paths[change.path] for change in net_changes(still, first, {0, 2})] == ["c"]
    assert net_changes(plan, first, set()) == []


@pytest.mark.req("PX-07", "PX-12")
def test_the_manifest_file_is_valid_and_has_all_that_is_needed(project: Project) -> None:
    done = project.run_plan([("modify", "a", b"1"), ("create", "new/n", b"n"), ("rename", "b", "new/b")])
    written = json.loads((project.report(done) / "rollback_manifest.json").read_bytes())
    jsonschema_rs.validator_for(load_schema("rollback-manifest")).validate(written)
    assert written == done.manifest.tree()
    assert (written["status"], written["expires_at"], written["executed_at"]) == ("ACTIVE", EXPIRES, None)
    modified = next(c for c in written["checkpoints"] if c["file_path"] == "a")
    assert modified["backup_location"] == f"agent_outputs/reports/{done.name}/backups/0000-a.bak"
    assert modified["original_hash"] == state_of(b"a before").sha256
    assert (modified["original_size"], modified["original_mode"]) == (8, "0640")
    assert modified["hash_after"] == state_of(b"1").sha256
    assert modified["restore_command"] == f"Copy {modified['backup_location']} to a and set mode 0640"
    order = {c["checkpoint_id"]: c["file_path"] for c in written["checkpoints"]}
    assert [order[i] for i in written["rollback_order"]] == ["b", "new/n", "a", "new"], "backwards, folders last"
    assert (project.root / written["auto_rollback_script"]).read_bytes() == read_script()
    assert "remit rollback" in written["notes"]
    with ReportFolder.open(project.base, done.name) as folder:
        verify_backups(folder, done.manifest.checkpoints)


def test_long_paths_do_not_break_the_manifest(project: Project) -> None:
    long = "/".join(["d" * 200] * 9) + "/f"
    done = project.run_plan([("create", long, b"x"), ("modify", "a", b"y")])
    assert all(len(c.restore_command) <= 1000 for c in done.manifest.checkpoints)


def test_a_manifest_that_is_built_again_is_the_same(project: Project) -> None:
    done = project.run_plan([("modify", "a", b"1")])
    first = done.manifest.checkpoints[0].checkpoint_id
    assert uuid.UUID(first).version == 5
    other = project.run_plan([("modify", "a", b"2")])
    assert other.manifest.checkpoints[0].checkpoint_id != first


# --- afterwards -------------------------------------------------------------------------------------------------------


def rollback(done: Done, restored: list[str], at: str = CREATED, order: str = "order-1") -> RollbackOutcome:
    return RollbackOutcome.model_construct(
        order_id=order,
        envelope_id=done.ids.envelope_id,
        manifest_id=done.ids.manifest_id,
        status="EXECUTED",
        restored=tuple(done.checkpoint(path) for path in restored),
        kept=(),
        manifest=done.manifest,
        errors=(),
        executed_at=at,
        key_id=ORDER_KEY,
        signature="A" * 86,
    )


@pytest.mark.req("PX-15")
def test_a_part_that_was_restored_leaves_the_manifest_active_and_all_of_it_executes_it(project: Project) -> None:
    done = project.run_plan([("modify", "a", b"1"), ("modify", "b", b"2")])
    part = fold(done.manifest, [rollback(done, ["a"])], LATER)
    assert part.status == "ACTIVE"
    assert {c.file_path: c.restored_by for c in part.checkpoints} == {"a": "order-1", "b": None}
    assert [c.file_path for c in select(part, [])] == ["b"]
    second = rollback(done, ["b"], "2026-11-15T16:00:00Z", "order-2")
    whole = fold(done.manifest, [second, rollback(done, ["a"])], LATER)
    assert (whole.status, whole.executed_at) == ("EXECUTED", "2026-11-15T16:00:00Z")
    assert {c.file_path: c.restored_by for c in whole.checkpoints} == {"a": "order-1", "b": "order-2"}
    assert select(whole, []) == []
    assert fold(whole, [], LATER) == whole


def test_rollbacks_of_another_manifest_are_ignored(project: Project) -> None:
    done = project.run_plan([("modify", "a", b"1")])
    stranger = rollback(done, ["a"]).model_copy(update={"manifest_id": str(uuid.uuid4())})
    assert fold(done.manifest, [stranger], LATER) == done.manifest


@pytest.mark.req("PX-15")
def test_an_expired_manifest_says_so_and_an_executed_one_never_does(project: Project) -> None:
    done = project.run_plan([("modify", "a", b"1")])
    at = datetime(2999, 12, 15, 15, 45, 1, 123456, UTC)
    assert fold(done.manifest, [], at - timedelta(microseconds=1)).status == "ACTIVE"
    assert fold(done.manifest, [], at).status == "EXPIRED"
    assert fold(done.manifest, [rollback(done, ["a"])], at).status == "EXECUTED"
    for_ever = RollbackManifest.model_validate({**dict(done.manifest), "expires_at": None})
    assert fold(for_ever, [], at).status == "ACTIVE"


@pytest.mark.req("PX-15")
def test_a_run_that_undid_itself_has_nothing_left_to_restore(project: Project) -> None:
    done = project.run_plan([("modify", "a", b"1"), ("create", "n/n", b"2")])
    executed = mark_executed(done.manifest, "2026-11-15T15:46:00Z")
    assert (executed.status, executed.executed_at) == ("EXECUTED", "2026-11-15T15:46:00Z")
    assert {c.restored_at for c in executed.checkpoints} == {"2026-11-15T15:46:00Z"}
    assert {c.restored_by for c in executed.checkpoints} == {None}
    assert RollbackManifest.from_tree(executed.tree()) == executed


# --- steps back -------------------------------------------------------------------------------------------------------


def steps_back(project: Project, done: Done, chosen: tuple[str, ...] = (), *, force: bool = False) -> StepPlan:
    wanted = [done.checkpoint(path) for path in chosen]
    now = read_states(project.base, paths_of(done.manifest.checkpoints))
    return inverse_steps(done.manifest, wanted, now, PREFIX, force=force)


def require_back(project: Project, done: Done, plan: StepPlan) -> None:
    """Each step starts at what is there, and together they end at what was there first."""
    now: dict[int, State | None] = {index: project.state(path) for index, path in enumerate(plan.paths)}
    assert parse_plan(encode_plan(plan)) == plan
    assert len(plan.waves) <= 1, "no path stands twice"
    for step in plan.steps:
        assert step.before == now[step.path]
        assert (step.source != "") == (step.move in {"create", "modify"})
    first = {done.plan.paths[index]: state for index, state in done.first.items()}
    for index, state in final_states(plan, now).items():
        assert state == first[plan.paths[index]]


@pytest.mark.req("PX-15")
@pytest.mark.parametrize("actions, wanted", NET)
def test_the_inverse_restores_the_files(project: Project, actions: list[Action], wanted: dict[str, str]) -> None:
    done = project.run_plan(actions)
    plan = steps_back(project, done)
    require_back(project, done, plan)
    assert len(plan.steps) == len(wanted)


@pytest.mark.req("PX-15")
@pytest.mark.parametrize("seed", range(40))
def test_the_inverse_of_random_plans_restores_the_files(project: Project, seed: int) -> None:
    choose = random.Random(seed)  # noqa: S311 - a test that can be repeated
    there, actions = {"a", "b", "c"}, list[Action]()
    for number in range(8):
        move = choose.choice(["create", "modify", "delete", "rename"]) if there else "create"
        if move == "create":
            free = sorted(set("abcdef") - there)
            actions.append(("create", choose.choice(free), f"new {number}".encode())) if free else None
        else:
            path = choose.choice(sorted(there))
            free = sorted(set("abcdef") - there)
            if move == "rename" and not free:
                continue
            what = {"modify": f"edit {number}".encode(), "delete": None, "rename": choose.choice(free or ["a"])}[move]
            actions.append((move, path, what))
        plan, first = project.plan(actions)
        there = {plan.paths[i] for i, state in final_states(plan, first).items() if state} | (there - set(plan.paths))
    done = project.run_plan(actions)
    require_back(project, done, steps_back(project, done))


def test_a_restored_file_gets_owner_time_mode_and_attributes(project: Project) -> None:
    done = project.run_plan([("modify", "a", b"1")])
    [step] = steps_back(project, done).steps
    original = done.originals[0]
    assert step.metadata == {
        "mode": 0o640,
        "uid": original.owner[0],
        "gid": original.owner[1],
        "atime_ns": str(original.mtime_ns),
        "mtime_ns": str(original.mtime_ns),
        "xattrs": {},
    }
    assert step.source == done.checkpoint("a")


@pytest.mark.req("PX-15")
def test_chosen_checkpoints_only(project: Project) -> None:
    done = project.run_plan([("modify", "a", b"1"), ("modify", "b", b"2"), ("create", "new/n", b"3")])
    assert steps_back(project, done, ("b",)).paths == ("b",)
    assert made_folders(done.manifest, [done.checkpoint("b")]) == {}
    assert list(made_folders(done.manifest, []).values()) == ["new"]


def test_what_is_as_before_already_needs_no_step(project: Project) -> None:
    done = project.run_plan([("modify", "a", b"1"), ("create", "n", b"2")])
    project.write("a", b"a before", 0o640)
    (project.root / "n").unlink()
    assert steps_back(project, done).steps == ()


DRIFT: list[tuple[Action, str, bytes | None]] = [
    (("modify", "a", b"1"), "a", b"somebody's"),
    (("modify", "a", b"1"), "a", None),
    (("delete", "a", None), "a", b"somebody's"),
    (("create", "n", b"1"), "n", b"somebody's"),
    (("rename", "a", "n"), "n", b"somebody's"),
    (("rename", "a", "n"), "n", None),
    (("rename", "a", "n"), "a", b"somebody's"),
]


@pytest.mark.req("PX-16")
@pytest.mark.parametrize("action, path, content", DRIFT)
def test_drift_is_refused_and_named_and_force_still_restores_the_files(
    project: Project, action: Action, path: str, content: bytes | None
) -> None:
    done = project.run_plan([action, ("modify", "b", b"2")])
    (project.root / path).unlink() if content is None else project.write(path, content)
    with pytest.raises(RefusedError) as caught:
        steps_back(project, done)
    assert caught.value.reason is Reason.DRIFTED
    assert caught.value.where == action[1]
    require_back(project, done, steps_back(project, done, force=True))
    assert steps_back(project, done, ("b",)).paths == ("b",), "the others can be restored without force"


def test_a_renamed_file_with_other_permissions_is_made_again(project: Project) -> None:
    done = project.run_plan([("rename", "a", "n")])
    (project.root / "n").chmod(0o600)
    with pytest.raises(RefusedError, match="changed since"):
        steps_back(project, done)
    plan = steps_back(project, done, force=True)
    assert [step.move for step in plan.steps] == ["create", "delete"]
    require_back(project, done, plan)
