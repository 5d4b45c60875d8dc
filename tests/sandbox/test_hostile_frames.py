"""Whatever a process says instead of an answer is refused within bounds; the host works on, and unpickles nothing."""

import json
import os
import pickle
import struct
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from remit.core.errors import Reason, RemitError
from remit.sandbox.host import InterruptedTaskError, SandboxHost
from tests.sandbox.hostile_frames import frame
from tests.sandbox.hostile_sandbox import (
    BUILDS,
    MIB,
    ROOMY,
    Arena,
    a_host,
    an_order,
    attempt,
    cut_short,
    is_healthy,
    make_arena,
)
from tests.support.patience import SOON

"""Far below the time quota of ROOMY: it was the frame that ended the task, not the clock."""


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Arena:
    return make_arena(tmp_path_factory.mktemp("frames") / "arena")


@pytest.fixture(scope="module", params=BUILDS)
def confined(arena: Arena, request: pytest.FixtureRequest) -> Iterator[SandboxHost]:
    with a_host(arena, build=request.param) as host:
        yield host


class Bomb:
    """Unpickled, it leaves a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def said(value: Any) -> bytes:
    return frame(json.dumps(value).encode())


DEEP: Final = b'{"kind": "done", "output": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
LIES: Final[dict[str, bytes]] = {
    "no JSON": frame(b"done"),
    "nothing": frame(b""),
    "half a text": frame(b'{"kind": "done'),
    "not UTF-8": frame(b'{"kind": "done", "output": {"x": "\xff"}}'),
    "half a pair": frame(b'{"kind": "done", "output": {"x": "\\ud800"}}'),
    "not a number": frame(b'{"kind": "done", "output": {"x": NaN}}'),
    "a number without end": frame(b'{"kind": "done", "output": {"x": 1' + b"0" * 100_000 + b"}}"),
    "two answers to one question": frame(b'{"kind": "failed", "kind": "done", "output": {}}'),
    "too deep": frame(DEEP),
    "a list": said([{"kind": "done", "output": {}}]),
    "a text": said("done"),
    "no kind": said({"output": {}}),
    "an unknown kind": said({"kind": "granted", "output": {}}),
    "a kind that is no text": said({"kind": ["done"], "output": {}}),
    "an output that is a list": said({"kind": "done", "output": [1]}),
    "an output that is a text": said({"kind": "done", "output": "fine"}),
    "no output": said({"kind": "done"}),
    "a note that is no object": said({"kind": "note", "note": "x"}),
    "progress that is no number": said({"kind": "progress", "done": "all", "total": {}}),
    "a failure without a reason": said({"kind": "failed"}),
    "a failure for a reason that there is not": said(
        {"kind": "failed", "error": {"type": "Refused", "reason": "because", "what": "x"}}
    ),
    "a failure with a list for a text": said(
        {"kind": "failed", "error": {"type": "Refused", "reason": "expired", "what": [1]}}
    ),
    "a question that is no object": said({"kind": "ask", "question": 7}),
    "a question of somebody who is gone": said({"kind": "ask", "question": {}}),
    "a thousand questions of somebody who is gone": said({"kind": "ask", "question": {}}) * 999,
    "a step of an order that has none": said({"kind": "step", "number": 0, "phase": "begun"}),
    "a step without a number": said({"kind": "step", "phase": "done"}),
    "a step that is no object": said({"kind": "step", "number": {}, "phase": []}),
    "half a length": b"\x00\x00",
    "half a frame": struct.pack(">I", 100) + b'{"kind"',
}
TOO_MUCH: Final[dict[str, bytes]] = {
    "the longest length": b"\xff\xff\xff\xff",
    "one byte too many": frame(b'{"kind": "note", "note": {"x": "' + b"x" * MIB + b'"}}'),
}


def ended(host: SandboxHost, arena: Arena, name: str, **inputs: Any) -> tuple[Reason, float]:
    """Why, and after how long."""
    started = time.monotonic()
    problem = cut_short(host, arena, name, **inputs)
    return problem.reason, time.monotonic() - started


@pytest.mark.req("EI-15", "EI-17")
def test_what_is_not_an_answer_fails_the_task_and_not_the_host(
    confined: SandboxHost, arena: Arena, subtests: pytest.Subtests
) -> None:
    for lie in LIES:
        with subtests.test(lie):
            reason, seconds = ended(confined, arena, "say", raw=LIES[lie].hex(), then="vanish")
            assert reason is Reason.EFFECT_FAILED
            assert seconds < SOON
            assert is_healthy(confined, arena)


@pytest.mark.req("EI-10")
@pytest.mark.parametrize("lie", TOO_MUCH)
def test_a_frame_past_the_bound_is_not_waited_for(confined: SandboxHost, arena: Arena, lie: str) -> None:
    # Longer than an input may be in JSON: said piece by piece.
    raw = TOO_MUCH[lie]
    inputs = {"raw": raw[:64].hex()} if lie == "one byte too many" else {"raw": raw.hex()}
    reason, seconds = ended(confined, arena, "say", **inputs, then="stay")
    assert reason in {Reason.RESOURCE_EXHAUSTED, Reason.EFFECT_FAILED}
    assert seconds < SOON
    assert is_healthy(confined, arena)


def test_an_honest_frame_made_by_hand_is_taken_for_what_it_says(confined: SandboxHost, arena: Arena) -> None:
    """The control: the frames above fail for what is in them."""
    raw = said({"kind": "done", "output": {"by": "hand"}})
    assert attempt(confined, arena, "say", raw=raw.hex(), then="vanish") == {"by": "hand"}


@pytest.mark.req("EI-17")
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("framed", [True, False])
def test_a_pickle_from_the_sandbox_is_never_loaded(
    confined: SandboxHost,
    arena: Arena,
    tmp_path: Path,
    protocol: int,
    framed: bool,  # noqa: FBT001
) -> None:
    bomb = pickle.dumps(Bomb(tmp_path / "exploded"), protocol=protocol)
    reason, seconds = ended(confined, arena, "say", raw=(frame(bomb) if framed else bomb).hex(), then="vanish")
    assert reason in {Reason.EFFECT_FAILED, Reason.RESOURCE_EXHAUSTED}
    assert seconds < SOON
    assert not (tmp_path / "exploded").exists()
    pickle.loads(bomb)  # noqa: S301 - the control
    assert (tmp_path / "exploded").exists()


@pytest.mark.req("EI-10")
def test_a_flood_of_frames_is_ended(confined: SandboxHost, arena: Arena) -> None:
    raw = said({"kind": "progress", "done": 1, "total": 2})
    reason, seconds = ended(confined, arena, "flood", raw=raw.hex())
    assert reason is Reason.RESOURCE_EXHAUSTED
    assert seconds < SOON
    assert attempt(confined, arena, "say", raw=raw.hex(), times=100) == {"honest": True}, "the control"


@pytest.mark.req("EI-10")
@pytest.mark.parametrize("count, size", [(3, MIB // 2), (900, MIB)])
def test_however_much_a_task_notes_the_order_to_undo_it_can_be_given(
    confined: SandboxHost, arena: Arena, count: int, size: int
) -> None:
    """What `run` noted is handed to `settle`, in one order, which has a bound as well; and the host must hold it."""
    before = memory_in_use()
    failed = cut_short(confined, arena, "note_much", count=count, bytes=size)
    assert isinstance(failed, InterruptedTaskError)
    assert memory_in_use() - before < 64 * MIB
    undo = replace(an_order(arena, "remember"), call="undo", notes=failed.notes)
    assert confined.run(undo).output is None


def memory_in_use() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.req("EI-10")
def test_a_frame_without_end_is_ended_by_the_clock(arena: Arena) -> None:
    with a_host(arena, replace(ROOMY, seconds=0.3)) as host:
        reason, seconds = ended(host, arena, "drip")
        assert reason is Reason.RESOURCE_EXHAUSTED
        assert seconds < SOON
        assert is_healthy(host, arena)


@pytest.mark.req("EI-09", "EI-15", "EI-17")
def test_a_process_that_says_it_is_done_does_not_work_on(confined: SandboxHost, arena: Arena) -> None:
    """When the host returns, a result will be signed: nothing may change after that."""
    raw = said({"kind": "done", "output": {"forged": True}})
    for _ in range(20):
        try:
            confined.run(an_order(arena, "work_on", raw=raw.hex()))
        finally:
            size = (arena.made / "target.bin").stat().st_size
        time.sleep(0.01)
        assert (arena.made / "target.bin").stat().st_size == size, "it worked on after the host had returned"
        assert size > 0, "the control: it did write"


def test_a_second_answer_is_not_heard(confined: SandboxHost, arena: Arena) -> None:
    raw = said({"kind": "done", "output": {"first": True}}) + said({"kind": "failed", "error": {"type": "exhausted"}})
    assert attempt(confined, arena, "say", raw=raw.hex()) == {"first": True}


def test_a_bug_of_the_worst_kind_is_a_failed_task(confined: SandboxHost, arena: Arena) -> None:
    failed = cut_short(confined, arena, "die")
    assert isinstance(failed, InterruptedTaskError)
    assert failed.reason is Reason.EFFECT_FAILED
    assert is_healthy(confined, arena)


@pytest.mark.req("EI-15")
def test_what_a_task_says_of_its_failure_cannot_speak_to_a_terminal(confined: SandboxHost, arena: Arena) -> None:
    what = "\x1b[2Jall is well\nreally " + "x" * 100_000
    error = {"type": "Refused", "reason": "effect_failed", "what": what, "where": what, "next_step": what}
    raw = said({"kind": "failed", "error": error})
    with pytest.raises(RemitError) as failed:
        attempt(confined, arena, "say", raw=raw.hex(), then="vanish")
    assert "all is well" in str(failed.value), "the control"
    assert "\x1b" not in str(failed.value)
    assert "\n" not in str(failed.value)
    assert len(str(failed.value)) < 10_000


@pytest.mark.req("EI-17")
def test_an_effect_that_was_not_registered_is_not_run(confined: SandboxHost, arena: Arena) -> None:
    for name in ("os:system", "tests.sandbox.hostile_effects:ATTEMPTS", "tests.sandbox.hostile_waste:_die", "", ":"):
        with pytest.raises(RemitError):
            confined.run(replace(an_order(arena, "remember"), effect=name))
    assert is_healthy(confined, arena), "the control"
