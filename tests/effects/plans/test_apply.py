"""A plan carried out: what is done, what is said of it, and what it leaves when a step fails."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from remit.effects.plans import apply as apply_module
from remit.effects.plans.entry_plain import APPLY
from remit.effects.plans.files import fresh_name, old_name
from remit.fs import openat as beneath
from tests.effects.plans.plan_project import (
    PlanPlace,
    contents,
    create,
    delete,
    edit,
    is_own,
    rename,
    replace,
    state,
    tree,
)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[PlanPlace]:
    root = tmp_path / "project"
    root.mkdir()
    with ExitStack() as stack:
        yield PlanPlace(root, stack)


@pytest.mark.req("PX-03")
def test_create_modify_delete_and_rename_do_what_they_say_and_keep_the_old_files_aside(place: PlanPlace) -> None:
    place.file("a.txt", "one two\n", 0o640)
    place.file("b.txt", "bye\n")
    place.file("old/c.txt", "moves\n", 0o755)
    plan = place.plan(
        create("new/n.txt", "fresh\n", needs=()),
        edit("a.txt", "two", "three"),
        delete("b.txt"),
        rename("old/c.txt", "new/c.txt"),
    )
    before = tree(place.root)
    place.run(plan)
    assert contents(place.root) == {
        "a.txt": (0o640, b"one three\n"),
        "new/c.txt": (0o755, b"moves\n"),
        "new/n.txt": (0o644, b"fresh\n"),
    }
    aside = {name: seen for name, seen in tree(place.root).items() if is_own(name)}
    assert sorted(aside.values()) == sorted([before["a.txt"], before["b.txt"]]), "the very files, untouched"
    assert place.ends() == [(0, "done"), (1, "done"), (2, "done"), (3, "done")]
    assert place.told(1, "done")["at"] == state("one three\n", 0o640)
    assert place.told(2, "done")["at"] is None
    assert place.asked == [{"wave": 0}]
    place.clear(plan)
    assert not any(map(is_own, tree(place.root)))


def test_all_new_bytes_are_synced_before_the_first_switch_and_all_folders_after_the_last(
    place: PlanPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        place.file(f"{name}/f", "x")
    plan = place.plan(*(replace(f"{name}/f", "y") for name in ("a", "b", "c")))
    order: list[str] = []
    real_sync, real_exchange = os.fsync, beneath.rename_exchange

    def sync(descriptor: int) -> None:
        order.append("sync folder" if Path(f"/proc/self/fd/{descriptor}").readlink().is_dir() else "sync bytes")
        real_sync(descriptor)

    def exchange(*arguments: Any, **named: Any) -> None:
        order.append("switch")
        real_exchange(*arguments, **named)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(apply_module, "rename_exchange", exchange)
    place.run(plan)
    assert order == ["sync bytes"] * 3 + ["switch"] * 3 + ["sync folder"] * 3


def test_every_step_is_begun_staged_and_ended_once_and_in_that_order(place: PlanPlace) -> None:
    place.file("a", "x")
    place.run(place.plan(replace("a", "y"), create("b", "z")))
    for number in (0, 1):
        assert [f["phase"] for f in place.frames if f["number"] == number] == ["begun", "staged", "done"]


@pytest.mark.req("PX-10")
def test_a_failing_step_stops_the_plan_and_the_steps_after_it_are_left_out(place: PlanPlace) -> None:
    place.file("a", "x")
    gone = place.file("b", "x")
    place.file("c", "x")
    plan = place.plan(replace("a", "y"), replace("b", "y"), replace("c", "y"))
    gone.unlink()
    place.run(plan)
    assert place.ends() == [(0, "done"), (1, "failed"), (2, "skipped")]
    assert place.told(1, "failed")["error"]["reason"] == "file_missing"
    assert place.told(2, "skipped")["reason"] == "Stopped after a002 failed"
    assert (place.root / "c").read_bytes() == b"x"
    assert [name for name in tree(place.root) if is_own(name)] == [old_name(plan, plan.steps[0])]


@pytest.mark.req("PX-10")
def test_without_stop_on_error_only_what_needs_the_failed_step_is_left_out(place: PlanPlace) -> None:
    for name in ("a", "b", "c", "d"):
        place.file(name, "x")
    plan = place.plan(
        replace("a", "y"),
        replace("b", "y"),
        replace("c", "y", needs=[1]),
        replace("d", "y", needs=[2]),
        create("e", "y"),
        stop_on_error=False,
    )
    (place.root / "b").unlink()
    place.run(plan)
    assert place.ends() == [(0, "done"), (1, "failed"), (2, "skipped"), (3, "skipped"), (4, "done")]
    assert place.told(2, "skipped")["reason"] == "Dependency a002 failed"
    assert place.told(3, "skipped")["reason"] == "Dependency a003 was skipped"
    assert contents(place.root) == {name: (0o644, b"y" if name in "ae" else b"x") for name in "acde"}


@pytest.mark.req("PX-10")
def test_a_problem_known_before_fails_in_its_turn_and_touches_nothing(place: PlanPlace) -> None:
    place.file("a", "x")
    plan = place.plan(edit("a", "no such text", "y"), create("b", "y"), stop_on_error=False)
    place.run(plan)
    assert place.ends() == [(0, "failed"), (1, "done")]
    assert place.told(0, "failed")["error"]["reason"] == "edit_no_match"
    assert contents(place.root) == {"a": (0o644, b"x"), "b": (0o644, b"y")}


@pytest.mark.parametrize("moves", ["replace", "delete", "rename"])
def test_a_file_that_was_changed_since_ends_the_plan_whatever_its_flags_say(place: PlanPlace, moves: str) -> None:
    place.file("a", "x")
    action = {"replace": replace("a", "y"), "delete": delete("a"), "rename": rename("a", "b")}[moves]
    plan = place.plan(action, create("c", "z"), stop_on_error=False)
    place.file("a", "somebody's")
    before = tree(place.root)
    place.run(plan)
    assert place.ends() == [(0, "failed"), (1, "skipped")]
    assert place.told(0, "failed")["error"]["reason"] == "hash_mismatch"
    assert tree(place.root) == before


def test_permissions_that_were_changed_since_count_as_a_change(place: PlanPlace) -> None:
    file = place.file("a", "x")
    plan = place.plan(replace("a", "y"))
    file.chmod(0o600)
    place.run(plan)
    assert place.told(0, "failed")["error"]["reason"] == "hash_mismatch"


@pytest.mark.parametrize("kind", ["create", "rename"])
def test_a_name_that_was_taken_since_is_never_overwritten(place: PlanPlace, kind: str) -> None:
    place.file("a", "x")
    plan = place.plan(create("b", "y") if kind == "create" else rename("a", "b"))
    place.file("b", "somebody's")
    before = tree(place.root)
    place.run(plan)
    assert place.told(0, "failed")["error"]["reason"] == "file_conflict"
    assert tree(place.root) == before


# --- at the last moment ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moves", ["replace", "delete", "rename"])
def test_a_file_replaced_between_staging_and_switch_is_left_as_it_was_made(place: PlanPlace, moves: str) -> None:
    place.file("a", "x")
    action = {"replace": replace("a", "y"), "delete": delete("a"), "rename": rename("a", "b")}[moves]
    plan = place.plan(action)

    def replaced(_wave: int) -> bool:
        place.file("mine", "somebody's").rename(place.root / "a")
        return True

    place.check_next_wave = replaced
    place.run(plan)
    assert place.told(0, "failed")["error"]["reason"] == "hash_mismatch"
    assert contents(place.root) == {"a": (0o644, b"somebody's")}
    assert list(tree(place.root)) == ["a"], "and nothing of the plan's is left beside it"


def test_a_file_written_to_between_staging_and_switch_is_left_as_it_was_made(place: PlanPlace) -> None:
    place.file("a", "x")
    plan = place.plan(replace("a", "y"))

    def written_to(_wave: int) -> bool:
        (place.root / "a").write_bytes(b"z")
        return True

    place.check_next_wave = written_to
    place.run(plan)
    assert place.told(0, "failed")["error"]["reason"] == "hash_mismatch"
    assert list(tree(place.root).items()) == [("a", ((place.root / "a").stat().st_ino, 0o644, b"z"))]


def test_a_file_removed_between_staging_and_switch_leaves_no_bytes_behind(place: PlanPlace) -> None:
    place.file("a", "x")
    plan = place.plan(replace("a", "y"))

    def removed(_wave: int) -> bool:
        (place.root / "a").unlink()
        return True

    place.check_next_wave = removed
    place.run(plan)
    assert place.told(0, "failed")["error"]["reason"] == "file_missing"
    assert tree(place.root) == {}


def test_a_link_put_in_place_of_a_file_is_refused_and_stays(place: PlanPlace, tmp_path: Path) -> None:
    place.file("a", "x")
    plan = place.plan(replace("a", "y"))
    secret = tmp_path / "secret"
    secret.write_bytes(b"x")
    (place.root / "a").unlink()
    (place.root / "a").symlink_to(secret)
    place.run(plan)
    assert place.told(0, "failed")["error"]["reason"] == "path_refused"
    assert (place.root / "a").is_symlink()
    assert secret.read_bytes() == b"x"


# --- waves, lanes, going on ------------------------------------------------------------------------------------------


def test_a_file_that_is_named_twice_makes_two_waves_and_the_second_is_noted_before_it_begins(place: PlanPlace) -> None:
    place.file("a", "1\n")
    plan = place.plan(edit("a", "1", "2"), create("b", "b"), edit("a", "2", "3"), rename("a", "c"), edit("c", "3", "4"))
    assert plan.waves == ((0, 1), (2,), (3,), (4,))
    place.run(plan)
    assert contents(place.root) == {"b": (0o644, b"b"), "c": (0o644, b"4\n")}
    assert place.asked == [{"wave": wave} for wave in range(4)]
    assert place.notes == [{"wave": wave, "not_done": []} for wave in range(1, 4)]


def test_the_folders_of_a_wave_are_synced_before_the_next_one_is_asked_for(
    place: PlanPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its note says that the wave before it is whole."""
    place.file("a", "1\n")
    plan = place.plan(edit("a", "1", "2"), edit("a", "2", "3"))
    order: list[str] = []
    real = os.fsync

    def sync(descriptor: int) -> None:
        order.append("folder" if Path(f"/proc/self/fd/{descriptor}").readlink().is_dir() else "bytes")
        real(descriptor)

    def asked(wave: int) -> bool:
        order.append(f"wave {wave}")
        return True

    monkeypatch.setattr(os, "fsync", sync)
    place.check_next_wave = asked
    place.run(plan)
    assert order == ["wave 0", "bytes", "folder", "wave 1", "bytes", "folder"]


@pytest.mark.req("PX-28")
def test_each_new_file_is_synced_before_the_first_switch_unless_the_host_says_that_it_is_durable(
    place: PlanPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = place.plan(*(create(name, name) for name in "abcd"))
    names = {(place.root / fresh_name(plan, step)).name: step.number for step in plan.steps}
    synced: list[int] = []
    real = os.fsync

    def sync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.name in names:
            assert contents(place.root) == {}, "nothing is switched yet"
            synced.append(names[path.name])
        real(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    place.durable = [0, 2]
    place.run(plan)
    assert synced == [1, 3]
    assert sorted(contents(place.root)) == ["a", "b", "c", "d"]
    inodes = [place.told(number, "staged")["inode"] for number in range(4)]
    assert inodes == [(place.root / name).stat().st_ino for name in "abcd"]


def test_when_it_may_not_go_on_nothing_of_that_wave_is_switched_or_left(place: PlanPlace) -> None:
    place.file("a", "1\n")
    plan = place.plan(edit("a", "1", "2"), edit("a", "2", "3"))
    place.check_next_wave = lambda wave: wave == 0
    place.run(plan)
    assert place.ends() == [(0, "done")], "the host says why the others were not"
    assert contents(place.root) == {"a": (0o644, b"2\n")}
    assert [name for name in tree(place.root) if is_own(name)] == [old_name(plan, plan.steps[0])]


def test_a_lane_carries_out_its_share_of_one_wave_only(place: PlanPlace) -> None:
    plan = place.plan(*(create(name, name) for name in "abcd"))
    place.run(plan, wave=0, steps=[1, 3])
    assert place.ends() == [(1, "done"), (3, "done")]
    assert sorted(contents(place.root)) == ["b", "d"]


def test_a_lane_skips_steps_that_need_a_failed_step_of_another_lane(place: PlanPlace) -> None:
    plan = place.plan(*(create(n, n) for n in "ab"), create("c", "c", needs=[0]), create("d", "d", needs=[1]))
    plan = plan._replace(waves=((0, 1), (2, 3)), stop_on_error=False)
    place.run(plan, wave=1, failed=[0])
    assert place.ends() == [(2, "skipped"), (3, "done")]


def test_a_step_that_changes_nothing_switches_nothing(place: PlanPlace) -> None:
    place.file("a", "x")
    plan = place.plan(replace("a", "x"))
    assert plan.steps[0].unchanged
    before = tree(place.root)
    place.run(plan)
    assert place.ends() == [(0, "done")]
    assert place.told(0, "done")["at"] == state("x")
    assert tree(place.root) == before
    assert place.finish(plan)
    assert place.undo(plan) == []
    assert tree(place.root) == before


# --- permissions and bytes from elsewhere ----------------------------------------------------------------------------


@pytest.mark.req("PX-10")
@pytest.mark.parametrize("keep, mode", [(True, 0o600), (False, 0o644)])
def test_permissions_are_kept_unless_the_plan_says_otherwise(place: PlanPlace, keep: bool, mode: int) -> None:  # noqa: FBT001
    place.file("a", "x", 0o600)
    place.run(place.plan(replace("a", "y"), keep_permissions=keep))
    assert contents(place.root) == {"a": (mode, b"y")}


@pytest.mark.parametrize("action", [replace("a", "y"), delete("a")])
def test_a_file_that_runs_as_another_user_is_neither_modified_nor_deleted(place: PlanPlace, action: Any) -> None:
    place.file("a", "x")
    plan = place.plan(action)
    (place.root / "a").chmod(0o4644)
    before = tree(place.root)
    place.run(plan)
    assert place.told(0, "failed")["error"]["reason"] == "permission_denied"
    assert tree(place.root) == before


def test_bytes_from_a_backup_arrive_with_mode_times_and_attributes(place: PlanPlace) -> None:
    place.file("a", "new")
    plan = place.plan(replace("a", "old", mode=None))
    backup = place.file("../backup", "old")
    metadata = {"mode": 0o640, "mtime_ns": "1700000000123456789", "atime_ns": "1700000000000000001"}
    metadata |= {"uid": os.getuid(), "gid": os.getgid(), "xattrs": {"user.note": "aGVsbG8="}}
    step = plan.steps[0]._replace(source="backup-0", metadata=metadata, after=state("old", 0o640), operation={})
    work = place.work(plan._replace(steps=(step,)))
    with backup.open("rb") as opened:
        APPLY.run(work._replace(given={**work.given, "backup-0": opened.fileno()}))
    found = (place.root / "a").stat()
    assert (found.st_mode & 0o7777, found.st_mtime_ns) == (0o640, 1700000000123456789)
    assert (place.root / "a").read_bytes() == b"old"
    assert os.getxattr(place.root / "a", "user.note") == b"hello"


def test_an_edit_whose_result_differs_from_the_preview_ends_the_plan(place: PlanPlace) -> None:
    place.file("a", "x")
    plan = place.plan(replace("a", "y"), stop_on_error=False)
    place.run(plan._replace(steps=(plan.steps[0]._replace(operation={"type": "replace_content", "content": "z"}),)))
    assert place.told(0, "failed")["error"]["reason"] == "internal"
    assert contents(place.root) == {"a": (0o644, b"x")}
