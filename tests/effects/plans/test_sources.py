"""Steps whose new bytes were prepared before, by SQL on a copy: told as they are, and copied without being read."""

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from remit.effects import file_copy as duplicate
from remit.effects.plans import large_files
from remit.effects.plans.files import old_name
from remit.effects.plans.steps import StepPlan
from tests.effects.plans.plan_project import PlanPlace, Prepared, contents, in_child, is_own, replace, tree
from tests.effects.plans.test_killed import Notes, settle
from tests.support.default_acl import give_default_acl
from tests.support.small_disks import only_root, small_disk

OLD, NEW, NEWER = (b"checksumDUCK" + text * 1000 for text in (b"old", b"new", b"newer"))
MIB = 1 << 20


@pytest.fixture
def place(tmp_path: Path) -> Iterator[PlanPlace]:
    root = tmp_path / "project"
    root.mkdir()
    with ExitStack() as stack:
        yield PlanPlace(root, stack)


# --- looked at -------------------------------------------------------------------------------------------------------


def test_a_prepared_step_is_reported_as_it_is_and_its_file_is_not_read(place: PlanPlace) -> None:
    plan = place.prepared(Prepared("a", OLD, NEW), Prepared("b", None, NEW), Prepared("c", OLD, OLD), max_file_bytes=10)
    for name in plan.paths:
        (place.root / name).symlink_to("/etc/hostname")  # whoever opens it refuses it
    seen = place.simulate(plan)
    assert [(one["before"], one["after"], one["summary"]) for one in seen.values()] == [
        (step.before, step.after, "1 statement") for step in plan.steps
    ]
    assert [one["unchanged"] for one in seen.values()] == [False, False, True]
    assert all(one.get("problem") is None and one["diff"]["preview"] == "" for one in seen.values())


def test_a_prepared_file_that_is_shown_is_compared_and_must_match_its_digest(place: PlanPlace) -> None:
    place.file("a", b"one\ntwo\n")
    plan = place.prepared(Prepared("a", b"one\ntwo\n", b"one\nthree\n", is_database=False), diffs="full")
    (seen,) = place.simulate(plan, shown=["prepared-0"]).values()
    assert (seen["before"], seen["after"]) == (plan.steps[0].before, plan.steps[0].after)
    diff = "".join(frame["text"] for frame in place.frames if frame["phase"] == "diff")
    assert "-two\n+three\n" in diff
    assert seen["diff"]["preview"] == ""  # its lines are for whoever looks, not for a report
    os.ftruncate(place.given["prepared-0"], 3)
    (seen,) = place.simulate(plan, shown=["prepared-0"]).values()
    assert seen["problem"]["reason"] == "hash_mismatch"
    assert seen["after"] is None


def test_a_problem_of_the_host_is_reported_as_it_is_and_a_step_that_needs_the_failed_one_cannot_be_done(
    place: PlanPlace,
) -> None:
    plan = place.prepared(Prepared("a", OLD, NEW), Prepared("b", OLD, NEW, needs=(0,)))
    problem = {"reason": "sql_failed", "what": "no such table", "where": "the SQL text", "next_step": "Mend it."}
    failing = plan.steps[0]._replace(problem=problem, source="", after=None, unchanged=True)
    seen = place.simulate(plan._replace(steps=(failing, plan.steps[1])))
    assert (seen[0]["problem"], seen[0]["before"], seen[0]["unchanged"]) == (problem, failing.before, False)
    assert seen[1]["problem"]["reason"] == "dependency_failed"
    assert seen[1]["before"] == plan.steps[1].before


def test_what_is_edited_beside_it_is_simulated_as_ever(place: PlanPlace) -> None:
    place.file("b", "x")
    edited = place.draft(replace("b", "y")).steps[0]._replace(number=1, path=1)
    plan = place.prepared(Prepared("a", OLD, NEW))
    seen = place.simulate(plan._replace(paths=("a", "b"), steps=(*plan.steps, edited)))
    assert seen[1]["after"].size == 1


# --- carried out -----------------------------------------------------------------------------------------------------


@pytest.mark.req("PX-18")
def test_the_prepared_bytes_take_the_place_of_the_old_file_which_is_set_aside(place: PlanPlace) -> None:
    place.file("a", OLD, 0o640)
    plan = place.prepared(Prepared("a", OLD, NEW, mode=0o640), Prepared("b", None, NEW), max_file_bytes=10)
    before = tree(place.root)
    place.run(plan)
    assert contents(place.root) == {"a": (0o640, NEW), "b": (0o644, NEW)}
    assert tree(place.root)[old_name(plan, plan.steps[0])] == before["a"], "the very file"
    assert place.ends() == [(0, "done"), (1, "done")]
    assert place.told(0, "done")["at"] == plan.steps[0].after
    assert place.finish(plan)
    assert place.undo(plan) == []
    assert tree(place.root) == before


def test_each_step_of_a_chain_starts_from_what_the_one_before_left(place: PlanPlace) -> None:
    place.file("a", OLD)
    plan = place.prepared(Prepared("a", OLD, NEW), Prepared("a", NEW, NEWER))
    assert plan.waves == ((0,), (1,))
    before = tree(place.root)
    place.run(plan)
    assert contents(place.root) == {"a": (0o644, NEWER)}
    place.undo(plan, 1)
    place.undo(plan, 0)
    assert tree(place.root) == before


@pytest.mark.parametrize(
    "wrong", [NEW[:-1] + b"!", NEW[:-1], NEW + b"!", b""], ids=["other", "shorter", "longer", "empty"]
)
@pytest.mark.parametrize("before", [OLD, None])
def test_wrong_bytes_in_a_source_end_the_plan_and_leave_nothing(
    place: PlanPlace, before: bytes | None, wrong: bytes
) -> None:
    if before is not None:
        place.file("a", before)
    plan = place.prepared(Prepared("a", before, NEW), Prepared("b", None, NEW), stop_on_error=False)
    there = tree(place.root)
    place.give("prepared-0", wrong)
    place.run(plan)
    assert place.told(0, "failed")["error"]["reason"] == "hash_mismatch"
    assert place.told(1, "skipped")["reason"] == "Stopped after a001 failed"
    assert tree(place.root) == there


def test_a_source_that_is_not_given_along_is_a_failure_of_its_step(place: PlanPlace) -> None:
    place.file("a", OLD)
    plan = place.prepared(Prepared("a", OLD, NEW))
    place.given.clear()
    there = tree(place.root)
    place.run(plan)
    assert place.told(0, "failed")["error"]["reason"] == "effect_failed"
    assert tree(place.root) == there


@pytest.mark.parametrize("now", [OLD[:-1] + b"!", OLD + b"!"])
@pytest.mark.parametrize("after", [OLD, NEW], ids=["unchanged", "changed"])
def test_a_file_that_is_not_as_it_was_copied_is_left_alone(place: PlanPlace, now: bytes, after: bytes) -> None:
    place.file("a", now)
    there = tree(place.root)
    place.run(place.prepared(Prepared("a", OLD, after)))
    assert place.told(0, "failed")["error"]["reason"] == "hash_mismatch"
    assert tree(place.root) == there


def test_what_only_reads_a_database_is_done_if_the_file_is_still_the_same(place: PlanPlace) -> None:
    place.file("a", OLD)
    plan = place.prepared(Prepared("a", OLD, OLD), max_file_bytes=10)
    there = tree(place.root)
    place.run(plan)
    assert place.ends() == [(0, "done")]
    assert tree(place.root) == there


@pytest.mark.parametrize("before, after", [(OLD, NEW), (OLD, OLD), (None, NEW)], ids=["modify", "unchanged", "create"])
def test_a_log_beside_a_database_means_that_it_is_in_use(place: PlanPlace, before: bytes | None, after: bytes) -> None:
    if before is not None:
        place.file("a", before)
    place.file("a.wal", "changes that the file does not have yet")
    there = tree(place.root)
    place.run(place.prepared(Prepared("a", before, after)))
    error = place.told(0, "failed")["error"]
    assert (error["reason"], error["where"]) == ("database_busy", "a")
    assert tree(place.root) == there


def test_a_results_file_is_no_database_and_may_have_such_a_neighbour(place: PlanPlace) -> None:
    place.file("a", OLD)
    place.file("a.wal", "whatever")
    place.run(place.prepared(Prepared("a", OLD, NEW, is_database=False)))
    assert place.ends() == [(0, "done")]


def test_a_name_that_no_log_could_have_is_no_trouble(place: PlanPlace) -> None:
    name = "d" * 254
    place.file(name, OLD)
    place.run(place.prepared(Prepared(name, OLD, NEW)))
    assert place.ends() == [(0, "done")]


def test_the_place_in_a_source_that_others_read_from_does_not_matter(place: PlanPlace) -> None:
    """Several processes share it."""
    plan = place.prepared(Prepared("a", None, NEW), Prepared("b", None, NEW))
    place.given["prepared-1"] = place.given["prepared-0"]
    for at in (0, 7, 10_000):
        os.lseek(place.given["prepared-0"], at, os.SEEK_SET)
        place.run(plan)
        assert contents(place.root) == {"a": (0o644, NEW), "b": (0o644, NEW)}
        place.undo(plan)


@pytest.mark.parametrize("in_kernel", [True, False])
def test_holes_stay_holes_and_count_as_zeros(
    place: PlanPlace,
    monkeypatch: pytest.MonkeyPatch,
    in_kernel: bool,  # noqa: FBT001
) -> None:
    if not in_kernel:

        def cannot(*_: Any) -> int:
            raise OSError(errno.EXDEV, "another filesystem")

        monkeypatch.setattr(os, "copy_file_range", cannot)
    content = b"a" * MIB + bytes(20 * MIB) + b"b" * MIB + bytes(9 * MIB)
    plan = place.prepared(Prepared("a", None, content))
    with (place.root.parent / "sparse").open("w+b") as sparse:
        sparse.write(b"a" * MIB)
        sparse.seek(21 * MIB)
        sparse.write(b"b" * MIB)
        sparse.truncate(len(content))
        place.given["prepared-0"] = sparse.fileno()
        place.run(plan)
    assert (place.root / "a").read_bytes() == content
    assert (place.root / "a").stat().st_blocks * 512 < 4 * MIB


def test_what_arrives_is_hashed_and_not_what_was_sent(place: PlanPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that goes wrong is noticed, too."""
    real = duplicate.copy_pieces

    def spoil(source: int, target: int, size: int) -> Iterator[int]:
        yield from real(source, target, size)
        os.pwrite(target, b"!", 100)

    monkeypatch.setattr(large_files, "copy_pieces", lambda *arguments: iter(list(spoil(*arguments))))
    place.run(place.prepared(Prepared("a", None, NEW)))
    assert place.told(0, "failed")["error"]["reason"] == "hash_mismatch"
    assert tree(place.root) == {}


def test_a_folder_that_gives_rights_of_its_own_gets_no_prepared_file(place: PlanPlace) -> None:
    place.file("a", OLD)
    give_default_acl(place.root)
    there = tree(place.root)
    place.run(place.prepared(Prepared("a", OLD, NEW)))
    assert place.told(0, "failed")["error"]["reason"] == "permission_denied"
    assert tree(place.root) == there


@only_root
def test_a_disk_that_is_too_small_for_the_new_bytes_is_named_and_left_clean(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk, ExitStack() as stack:
        (disk / "project").mkdir()
        place = PlanPlace(disk / "project", stack)
        place.file("a", OLD)
        plan = place.prepared(Prepared("a", OLD, b"x"))
        new = b"checksumDUCK" + os.urandom(2 * MIB)
        large = PlanPlace(tmp_path / "elsewhere" / "project", stack)
        large.root.mkdir(parents=True)
        step = large.prepared(Prepared("a", OLD, new)).steps[0]
        place.given = large.given
        there = tree(place.root)
        place.run(plan._replace(steps=(step,)))
        assert place.told(0, "failed")["error"]["reason"] == "disk_full"
        assert tree(place.root) == there


@pytest.mark.req("PX-28")
def test_killed_at_any_system_call_the_database_is_as_before_or_as_after(place: PlanPlace) -> None:
    lay = {"a": OLD, "c": OLD}
    plan = place.prepared(
        Prepared("a", OLD, NEW), Prepared("b", None, NEW), Prepared("c", OLD, OLD), Prepared("a", NEW, NEWER)
    )
    counts = {True: 0, False: 0}
    for die_at in range(1, 10_000):
        _lay(place, lay)
        before = tree(place.root)
        Notes(place)
        if in_child(lambda: place.run(plan), die_at) is not None:
            break
        counts[_settled(place, plan, before)] += 1
    assert counts[True] > 0
    assert counts[False] > 20


def _lay(place: PlanPlace, files: dict[str, bytes]) -> None:
    for path in place.root.iterdir():
        path.unlink()
    for name, content in files.items():
        place.file(name, content)


def _settled(place: PlanPlace, plan: StepPlan, before: object) -> bool:
    forward = settle(place, plan)
    if forward:
        assert contents(place.root) == {"a": (0o644, NEWER), "b": (0o644, NEW), "c": (0o644, OLD)}
        place.clear(plan)
        assert not any(map(is_own, tree(place.root)))
    else:
        assert tree(place.root) == before
    return forward
