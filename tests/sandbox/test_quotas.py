"""What counts as too much, and that the kernel's counts are read as they are."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from remit.sandbox.orders import Quotas, Usage
from remit.sandbox.quotas import FAR_SECONDS, NEAR_SECONDS, Meter, decide_breach, next_check, parse_io
from remit.sandbox.zygote_pool import close_all

QUOTAS = Quotas(memory_bytes=1_000, read_bytes=2_000, write_bytes=3_000, seconds=4.0)
AT_THE_LIMIT = Usage(seconds=4.0, memory_bytes=1_000, read_bytes=2_000, write_bytes=3_000)
NOTHING = Usage(0.0, 0, 0, 0)


def test_a_task_at_every_limit_is_within_it() -> None:
    assert decide_breach(QUOTAS, AT_THE_LIMIT) is None


@pytest.mark.req("EI-10")
@pytest.mark.parametrize(
    "used, said",
    [
        (replace(AT_THE_LIMIT, seconds=4.001), "longer than 4 seconds"),
        (replace(AT_THE_LIMIT, memory_bytes=1_001), "more than 1,000 bytes of memory"),
        (replace(AT_THE_LIMIT, read_bytes=2_001), "read more than 2,000 bytes"),
        (replace(AT_THE_LIMIT, write_bytes=3_001), "wrote more than 3,000 bytes"),
    ],
)
def test_one_past_a_limit_is_a_breach_that_names_it_and_the_setting(used: Usage, said: str) -> None:
    breach = decide_breach(QUOTAS, used)
    assert breach is not None
    assert said in breach.what
    assert "remit.yaml" in breach.next_step


def test_a_task_past_half_of_a_quota_is_looked_at_more_often() -> None:
    assert next_check(QUOTAS, NOTHING) == FAR_SECONDS
    assert next_check(QUOTAS, replace(NOTHING, write_bytes=1_501)) == NEAR_SECONDS


def test_the_next_look_is_at_the_end_of_the_time_at_the_latest() -> None:
    assert next_check(QUOTAS, replace(NOTHING, seconds=3.999)) == pytest.approx(0.002, abs=1e-4)
    assert next_check(QUOTAS, replace(NOTHING, seconds=9.0)) > 0


@pytest.mark.parametrize(
    "rchar, read_bytes, wchar, write_bytes, counted", [(7, 5, 1, 2, (7, 2)), (5, 7, 2, 1, (7, 2)), (0, 0, 0, 0, (0, 0))]
)
def test_of_two_counts_the_larger_is_taken(
    rchar: int, read_bytes: int, wchar: int, write_bytes: int, counted: tuple[int, int]
) -> None:
    text = f"rchar: {rchar}\nwchar: {wchar}\nsyscr: 9\nsyscw: 9\nread_bytes: {read_bytes}\nwrite_bytes: {write_bytes}\n"
    assert parse_io(text.encode() + b"cancelled_write_bytes: 99\n") == counted


@pytest.mark.req("EI-10")
def test_a_meter_sees_what_this_process_reads_and_writes_and_holds(tmp_path: Path) -> None:
    descriptors: list[int] = []
    meter = Meter(os.getpid(), 0, descriptors)
    before = meter.read(0.0)
    held = bytearray(64 << 20)
    (tmp_path / "written").write_bytes(b"x" * (4 << 20))
    (tmp_path / "written").read_bytes()
    after = meter.read(1.5)
    assert len(descriptors) == 2
    close_all(descriptors)
    assert after.seconds == 1.5
    assert after.write_bytes - before.write_bytes >= 4 << 20
    assert after.read_bytes - before.read_bytes >= 4 << 20
    assert after.memory_bytes - before.memory_bytes >= len(held) // 2


def test_a_meter_of_a_dead_process_says_what_it_saw_last() -> None:
    command = [sys.executable, "-c", "import sys; open('/dev/null', 'wb').write(b'x' * 5000000); sys.stdin.read(1)"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        descriptors: list[int] = []
        meter = Meter(process.pid, 0, descriptors)
        while (seen := meter.read(0.0)).write_bytes < 5_000_000:
            assert process.poll() is None
        process.kill()
        process.wait()
        assert meter.read(0.0).write_bytes == seen.write_bytes
        close_all(descriptors)
        assert Meter(process.pid, 0, descriptors).read(2.0) == Usage(2.0, 0, 0, 0)
        assert descriptors == []
