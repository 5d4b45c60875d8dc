"""What an effect notes is with the host, and wherever that keeps it, before the effect goes on."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remit.core.errors import Reason
from remit.sandbox.host import InterruptedTaskError, SandboxHost
from remit.sandbox.session import MAX_NOTED
from tests.sandbox.plain_host import QUOTAS, open_descriptors, order, plain_host
from tests.sandbox.test_host import is_gone


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxHost]:
    with plain_host(tmp_path_factory.mktemp("host")) as made:
        yield made


@pytest.mark.req("EI-12")
def test_the_effect_goes_on_only_when_its_note_is_kept(host: SandboxHost, tmp_path: Path) -> None:
    """It notes, then makes a file: at the time of keeping there is none."""
    seen: list[tuple[Mapping[str, Any], bool]] = []

    def keep(note: Mapping[str, Any]) -> None:
        time.sleep(0.1)
        seen.append((note, (tmp_path / "target").exists()))

    finished = host.run(order("write_far", folder=tmp_path, offset=10), on_note=keep)
    assert seen == [({"begun": True}, False)]
    assert finished.notes == ({"begun": True},)
    assert (tmp_path / "target").exists()


def test_notes_are_kept_in_order_and_come_back_as_well(host: SandboxHost) -> None:
    kept: list[Mapping[str, Any]] = []
    finished = host.run(order("answer"), on_note=kept.append)
    assert tuple(kept) == finished.notes == ({"first": 1}, {"second": "zwei"})


@pytest.mark.req("EI-09")
def test_an_error_in_keeping_ends_the_process_and_comes_out_as_it_is(host: SandboxHost, tmp_path: Path) -> None:
    before = open_descriptors()

    class LedgerIsFull(Exception):
        pass

    def fail(_: Mapping[str, Any]) -> None:
        raise LedgerIsFull

    with pytest.raises(LedgerIsFull):
        host.run(order("write_far", folder=tmp_path, offset=10), on_note=fail)
    assert not (tmp_path / "target").exists()
    assert open_descriptors() <= before


@pytest.mark.req("EI-09")
def test_the_process_is_dead_when_the_error_in_keeping_comes_out(host: SandboxHost) -> None:
    pids: list[int] = []

    def fail(note: Mapping[str, Any]) -> None:
        pids.append(note["asleep"])
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        host.run(order("sleep", seconds=60), on_note=fail)
    assert is_gone(pids[0])


@pytest.mark.req("EI-10")
def test_the_wall_clock_stands_still_while_a_note_is_kept(tmp_path: Path) -> None:
    with plain_host(tmp_path, replace(QUOTAS, seconds=2.0)) as host:
        finished = host.run(order("answer"), on_note=lambda _: time.sleep(2.1))
        assert finished.output is not None
        assert finished.usage.seconds < 2.0


@pytest.mark.req("EI-12")
def test_a_task_that_is_cut_short_has_its_notes_kept_and_told(tmp_path: Path) -> None:
    kept: list[Mapping[str, Any]] = []
    with plain_host(tmp_path, replace(QUOTAS, seconds=0.2)) as host, pytest.raises(InterruptedTaskError) as cut:
        host.run(order("sleep", seconds=60), on_note=kept.append)
    assert cut.value.notes == tuple(kept)
    assert len(kept) == 1


@pytest.mark.req("EI-15")
def test_what_is_past_the_bound_is_not_kept(host: SandboxHost) -> None:
    kept: list[Mapping[str, Any]] = []
    with pytest.raises(InterruptedTaskError, match="noted more than") as cut:
        host.run(order("note_often", times=100, size=1_000), on_note=kept.append)
    assert cut.value.reason is Reason.RESOURCE_EXHAUSTED
    assert 1_000 * len(kept) <= MAX_NOTED
    assert cut.value.notes == tuple(kept)


@pytest.mark.req("EI-15")
def test_many_small_notes_get_through_within_the_bounds(host: SandboxHost) -> None:
    kept: list[Mapping[str, Any]] = []
    assert host.run(order("note_often", times=900, size=1), on_note=kept.append).output == {"noted": 900}
    assert len(kept) == 900
