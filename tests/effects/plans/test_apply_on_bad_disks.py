"""A plan on a disk that is full, breaks, or cannot do what is asked of it: the step fails and leaves nothing behind."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from remit.core.errors import EnvironmentFailureError, Reason
from remit.effects.plans import apply as apply_module
from remit.effects.plans.files import old_name
from tests.effects.plans.plan_project import PlanPlace, create, is_own, replace, tree
from tests.support.small_disks import only_root, small_disk


@pytest.fixture
def place(tmp_path: Path) -> Iterator[PlanPlace]:
    root = tmp_path / "project"
    root.mkdir()
    with ExitStack() as stack:
        yield PlanPlace(root, stack)


@only_root
@pytest.mark.req("PX-22")
def test_a_full_disk_fails_the_step_and_leaves_no_part_of_its_bytes(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk, ExitStack() as stack:
        place = PlanPlace(disk, stack)
        place.file("a", "x")
        plan = place.plan(replace("a", "y"), create("b", "z" * (2 << 20)), stop_on_error=False)
        place.run(plan)
        assert place.ends() == [(0, "done"), (1, "failed")]
        assert place.told(1, "failed")["error"]["reason"] == "disk_full"
        assert [name for name in tree(disk) if is_own(name)] == [old_name(plan, plan.steps[0])]


def test_a_disk_that_does_not_take_the_bytes_for_good_fails_the_step(
    place: PlanPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.file("a", "x")
    plan = place.plan(replace("a", "y"))
    real = os.fsync

    def broken(descriptor: int) -> None:
        if not Path(f"/proc/self/fd/{descriptor}").readlink().is_dir():
            raise OSError(5, "Input/output error")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", broken)
    place.run(plan)
    assert place.told(0, "failed")["error"]["reason"] == "effect_failed"
    assert list(tree(place.root)) == ["a"]


def test_a_filesystem_that_cannot_exchange_fails_the_step_cleanly(
    place: PlanPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.file("a", "x")
    plan = place.plan(replace("a", "y"))

    def cannot(*_: Any, **__: Any) -> None:
        raise EnvironmentFailureError(Reason.EFFECT_FAILED, "this filesystem cannot let two files change places")

    monkeypatch.setattr(apply_module, "rename_exchange", cannot)
    place.run(plan)
    assert place.ends() == [(0, "failed")]
    assert list(tree(place.root)) == ["a"]
