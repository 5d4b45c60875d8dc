"""The host syncs the new files of a run while its sandboxed process writes the next ones."""

import os
from pathlib import Path

import pytest

from remit.effects.plans.files import fresh_name
from remit.effects.plans.steps import PlanStep, StepPlan
from remit.fs.paths import locate_below
from remit.plans.runtime.staged_files import StagedFiles

NAMES = ("right", "other inode", "gone", "link", "fifo", "no number", "folder is gone/right")


def plan_of(names: tuple[str, ...]) -> StepPlan:
    steps = tuple(PlanStep(number, name, "FILE_CREATE", "create", number) for number, name in enumerate(names))
    return StepPlan("0" * 20, names, steps, (tuple(range(len(names))),))


@pytest.mark.req("PX-28")
def test_only_a_file_that_was_synced_and_is_the_one_that_its_process_wrote_is_named_as_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(NAMES)
    places = {number: locate_below(str(tmp_path), path) for number, path in enumerate(NAMES)}
    parts = [tmp_path / fresh_name(plan, step) for step in plan.steps]
    for number in (0, 1, 5):
        parts[number].write_bytes(b"new")
    parts[3].symlink_to(parts[0])
    os.mkfifo(parts[4])
    inodes: list[object] = [parts[0].stat().st_ino] * len(NAMES)
    inodes[4], inodes[5] = parts[4].stat().st_ino, str(parts[5].stat().st_ino)
    synced: list[str] = []
    real = os.fsync

    def sync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    with StagedFiles(plan, places) as staged:
        for number, inode in enumerate(inodes):
            staged.start_sync(number, inode)
        assert staged.wait() == [0]
    assert str(parts[0]) in synced


@pytest.mark.req("PX-28")
def test_a_file_whose_sync_fails_is_left_to_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(("a", "b"))
    for step in plan.steps:
        (tmp_path / fresh_name(plan, step)).write_bytes(b"new")
    inodes = [(tmp_path / fresh_name(plan, step)).stat().st_ino for step in plan.steps]

    def sync(_descriptor: int) -> None:
        raise OSError(5, "the disk")

    monkeypatch.setattr(os, "fsync", sync)
    places = {number: locate_below(str(tmp_path), path) for number, path in enumerate(plan.paths)}
    with StagedFiles(plan, places) as staged:
        for number, inode in enumerate(inodes):
            staged.start_sync(number, inode)
        assert staged.wait() == []
