"""A process that wants everything is stopped at its quota: memory, files, bytes, descriptors, text, time."""

import contextlib
import errno
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remit.core.errors import Reason, RemitError
from remit.sandbox.host import InterruptedTaskError, SandboxHost
from tests.sandbox.hostile_sandbox import MIB, ROOMY, Arena, a_host, attempt, cut_short, is_healthy, make_arena
from tests.support.patience import SOON

QUOTAS = replace(ROOMY, memory_bytes=64 * MIB, read_bytes=64 * MIB, write_bytes=8 * MIB, seconds=0.5)


@pytest.fixture
def arena(tmp_path: Path) -> Arena:
    return make_arena(tmp_path / "arena")


@pytest.fixture(scope="module")
def first_arena(tmp_path_factory: pytest.TempPathFactory) -> Arena:
    return make_arena(tmp_path_factory.mktemp("waste") / "arena")


@pytest.fixture(scope="module")
def tight(first_arena: Arena) -> Iterator[SandboxHost]:
    with a_host(first_arena, QUOTAS) as host:
        yield host


@pytest.fixture(scope="module")
def roomy(first_arena: Arena) -> Iterator[SandboxHost]:
    with a_host(first_arena, replace(ROOMY, write_bytes=1024 * MIB)) as host:
        yield host


def exhausted(host: SandboxHost, arena: Arena, name: str, **inputs: Any) -> float:
    """How long it took. Afterwards the host is well."""
    started = time.monotonic()
    assert cut_short(host, arena, name, **inputs).reason is Reason.RESOURCE_EXHAUSTED
    took = time.monotonic() - started
    assert is_healthy(host, arena)
    return took


def on_disk(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


@pytest.mark.req("EI-10", "FX-12")
@pytest.mark.parametrize("how", ["asleep", "at work", "deaf", "blocked"])
def test_a_process_that_never_ends_is_stopped_on_time_even_if_it_ignores_signals(
    tight: SandboxHost, arena: Arena, how: str
) -> None:
    took = exhausted(tight, arena, "stay", how=how)
    assert QUOTAS.seconds <= took < SOON


@pytest.mark.req("EI-10", "FX-12")
@pytest.mark.parametrize("count, size", [(1, 10 * 1024 * MIB), (10 * 1024, MIB), (1, 96 * MIB), (96, MIB)])
def test_no_more_memory_than_the_quota_can_be_had(
    tight: SandboxHost, roomy: SandboxHost, arena: Arena, count: int, size: int
) -> None:
    exhausted(tight, arena, "allocate", count=count, bytes=size)
    if count * size < ROOMY.memory_bytes // 2:
        assert attempt(roomy, arena, "allocate", count=count, bytes=size) == {"held": count * size}, "the control"


@pytest.mark.req("EI-10", "FX-12")
def test_insisting_on_memory_does_not_help(tight: SandboxHost, arena: Arena) -> None:
    assert exhausted(tight, arena, "insist") < QUOTAS.seconds + 1.0


@pytest.mark.req("EI-10", "FX-12")
@pytest.mark.parametrize("way", ["writing", "one far byte", "length"])
def test_100_gigabytes_in_one_file_are_stopped_at_the_quota(tight: SandboxHost, arena: Arena, way: str) -> None:
    exhausted(tight, arena, "write_files", way=way, count=1, bytes=100 * 1024 * MIB)
    assert on_disk(arena.made) <= QUOTAS.write_bytes


@pytest.mark.req("EI-10", "FX-12")
@pytest.mark.parametrize("way", ["writing", "reserving", "mapping", "copying", "sending", "pipe"])
def test_many_files_take_no_more_than_the_quota_by_whatever_way_they_are_filled(
    tight: SandboxHost, roomy: SandboxHost, arena: Arena, way: str
) -> None:
    """Each file is within the limit on one file, all together are 32 times over it. A way may be closed altogether."""
    size = QUOTAS.write_bytes // 2
    failed = _ending(tight, arena, way=way, count=64, bytes=size)
    assert failed != "made", "64 files of half the quota each"
    left = on_disk(arena.made)
    assert left <= 8 * QUOTAS.write_bytes, f"{left / MIB:.0f} MiB left"
    assert is_healthy(tight, arena)
    for file in arena.made.iterdir():
        file.unlink()
    if way in {"writing", "copying"}:
        assert _ending(roomy, arena, way=way, count=64, bytes=size) == "made", "the control"


def _ending(host: SandboxHost, arena: Arena, **inputs: Any) -> str:
    try:
        output = attempt(host, arena, "write_files", **inputs)
    except RemitError:
        return "stopped"
    return "made" if "made" in output else "refused"


@pytest.mark.req("EI-10", "FX-12")
def test_a_million_files_are_stopped_by_the_clock(tight: SandboxHost, arena: Arena) -> None:
    assert attempt(tight, arena, "make_files", count=100) == {"made": 100}, "the control"
    exhausted(tight, arena, "make_files", count=1_000_000)
    assert len(os.listdir(arena.made)) < 500_000


@pytest.mark.req("EI-11")
def test_100_000_descriptors_cannot_be_had(tight: SandboxHost, arena: Arena) -> None:
    seen = attempt(tight, arena, "open_many", count=100_000)
    assert seen["errno"] == errno.EMFILE
    assert seen["opened"] < 64
    assert attempt(tight, arena, "open_many", count=20) == {"opened": 20}, "the control"


@pytest.mark.req("EI-15")
def test_a_gigabyte_of_printed_text_does_not_reach_the_output_of_the_host(
    tight: SandboxHost, arena: Arena, capfd: pytest.CaptureFixture[str]
) -> None:
    # Stopped for it, or left to write into the void: both are well.
    with contextlib.suppress(InterruptedTaskError):
        attempt(tight, arena, "print", bytes=1024 * MIB)
    os.write(1, b"the control\n")
    assert capfd.readouterr() == ("the control\n", "")
    assert is_healthy(tight, arena)
