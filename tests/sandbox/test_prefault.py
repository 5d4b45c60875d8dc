"""What the zygote does so that a child is cheap: nothing of it may be left behind, or be seen by a task."""

import os
from pathlib import Path

import pytest

from remit.core.errors import RefusedError
from remit.effects.context import EffectContext, PathHandle
from remit.effects.tasks import file_steps as steps
from remit.effects.tasks import rehearsal
from remit.fs import openat as beneath
from remit.sandbox.prefault import HotPages, find_private_pages, join_pages
from tests.sandbox.plain_host import order, plain_host

PAGE = os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(
    "numbers, ranges",
    [([], []), ([7], [(7, 1)]), ([1, 2, 3], [(1, 3)]), ([1, 3, 4, 9], [(1, 1), (3, 2), (9, 1)])],
)
def test_pages_next_to_each_other_are_one_range(numbers: list[int], ranges: list[tuple[int, int]]) -> None:
    assert join_pages(numbers) == [(first * PAGE, count * PAGE) for first, count in ranges]


def test_the_pages_of_this_process_can_be_made_its_own() -> None:
    own = find_private_pages(os.getpid())
    assert own
    assert all(address % PAGE == length % PAGE == 0 for address, length in own)
    assert HotPages(own[:10]).copy_pages() in {True, False}, "an older kernel says no"


def a_rehearsal(folder: int) -> EffectContext:
    spot = PathHandle(f"{rehearsal.BASE}/{os.getpid()}/{rehearsal.NAME}", folder, rehearsal.NAME)
    return EffectContext("t", "c", {}, True, ".part", {steps.SOURCE: spot, steps.DESTINATION: spot}, rehearsal.before())


def test_a_rehearsal_succeeds_and_leaves_every_call_as_it_was() -> None:
    before = beneath._renameat2, steps.exists, os.fsync  # type: ignore[attr-defined]  # noqa: SLF001
    folder = os.open(f"{rehearsal.BASE}/{os.getpid()}", os.O_RDONLY)
    work = a_rehearsal(folder)
    with rehearsal.stub_system_calls():
        assert rehearsal.EFFECT.run(work)["undo_metadata"]
    assert (beneath._renameat2, steps.exists, os.fsync) == before  # type: ignore[attr-defined]  # noqa: SLF001
    with pytest.raises(RefusedError, match="exists here already"):
        rehearsal.EFFECT.run(work)
    os.close(folder)


def test_a_secret_in_an_effects_error_is_masked_when_the_host_hears_of_it(tmp_path: Path) -> None:
    """The child sends it as it is: to the host alone, which masks what it makes of it."""
    with plain_host(tmp_path) as host, pytest.raises(RefusedError) as refused:
        host.run(order("leak", text="password=hunter2-hunter2 \x1b[31m\ud800 end"))
    assert "hunter2" not in str(refused.value)
    assert "\x1b" not in str(refused.value)
    assert "end" in str(refused.value)
