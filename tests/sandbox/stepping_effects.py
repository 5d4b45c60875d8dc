"""Effects of an order with steps, for the tests of the sandbox. Run inside it, so: standard library and Remit only."""

import ctypes
import errno
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from remit.core.faultpoints import reach
from remit.core.syscalls import number_of, prepared
from remit.effects.context import EffectContext, PathHandle, read_given

_EXCHANGE: Final = 2
_START_WRITING: Final = 2
_rename: Final = prepared(ctypes.c_long, ctypes.c_char_p, ctypes.c_long, ctypes.c_char_p, ctypes.c_ulong)
_sync_file_range: Final = prepared(ctypes.c_long, ctypes.c_long, ctypes.c_long, ctypes.c_ulong)


def say(work: EffectContext) -> dict[str, Any]:
    """Each message in its turn; a number is a pause."""
    for message in work.inputs["messages"]:
        if isinstance(message, dict):
            work.step(message)
        else:
            time.sleep(message)
    return {}


def eat(work: EffectContext) -> dict[str, Any]:
    work.step({"number": 0, "phase": "begun"})
    return {"bytes": len(bytearray(work.inputs["bytes"]))}


def vanish(work: EffectContext) -> dict[str, Any]:
    work.step({"number": 1, "phase": "begun"})
    os._exit(7)


def ask_between(work: EffectContext) -> dict[str, Any]:
    """A question before each step, as a plan asks before each wave."""
    answers = []
    for number in range(work.inputs["count"]):
        answers.append(work.ask({"wave": number})["go"])
        work.step({"number": number, "phase": "begun"})
        work.step({"number": number, "phase": "done"})
    return {"answers": answers}


def exchange(work: EffectContext) -> dict[str, Any]:
    """Two names change places: `first` and `second` of the inputs are spots, with other names in them if given."""
    first, second = (_named(work, which) for which in ("first", "second"))
    code = _rename(
        number_of("renameat2") or 0,
        first.folder,
        os.fsencode(first.name),
        second.folder,
        os.fsencode(second.name),
        work.inputs.get("flags", _EXCHANGE),
    )
    return {"error": "" if code == 0 else errno.errorcode[ctypes.get_errno()]}


def _named(work: EffectContext, which: str) -> PathHandle:
    spot, name = work.inputs[which]
    return work.spots[spot]._replace(name=name)


def start_writing(work: EffectContext) -> dict[str, Any]:
    spot = work.spots["target"]
    new = os.open(spot.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640, dir_fd=spot.folder)
    os.write(new, b"x" * 10_000)
    code = _sync_file_range(number_of("sync_file_range") or 0, new, 0, 0, work.inputs["flags"])
    return {"error": "" if code == 0 else errno.errorcode[ctypes.get_errno()]}


def count_given(work: EffectContext) -> dict[str, Any]:
    return {"given": sum(int(os.pread(descriptor, 10, 0)) for descriptor in work.given.values())}


def write_everywhere(work: EffectContext) -> dict[str, Any]:
    for spot in work.spots.values():
        os.close(os.open(spot.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640, dir_fd=spot.folder))
    return {"folders": len({spot.folder for spot in work.spots.values()})}


def read_plan(work: EffectContext) -> dict[str, Any]:
    plan = read_given(work, "plan", work.inputs["most"])
    return {"bytes": len(plan), "ends": plan[-4:].decode()}


def spoil_plan(work: EffectContext) -> dict[str, Any]:
    """Every way to change what was given, and what each of them came to."""
    descriptor, found = work.given["plan"], []
    ways: list[Callable[[], Any]] = [
        lambda: os.pwrite(descriptor, b"x", 0),
        lambda: os.ftruncate(descriptor, 0),
        lambda: os.ftruncate(descriptor, 1 << 20),
        # Opened anew: Landlock does not govern a file in memory.
        lambda: os.pwrite(os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR), b"x", 0),
    ]
    for way in ways:
        try:
            way()
            found.append("")
        except OSError as problem:
            found.append(errno.errorcode[problem.errno or 0])
    return {"errors": found}


def pass_points(work: EffectContext) -> dict[str, Any]:
    """Three changes of one file, each behind a named point."""
    spot = work.spots["target"]
    reach("plan.staged")
    new = os.open(spot.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640, dir_fd=spot.folder)
    reach("plan.switched")
    os.write(new, b"written")
    reach("plan.synced")
    return {}


class Stepping:
    """Does what `inputs` say."""

    _CALLS: Mapping[str, Callable[[EffectContext], Any]] = {
        one.__name__: one
        for one in (
            *(say, eat, vanish, ask_between, exchange, start_writing, count_given, write_everywhere),
            *(read_plan, spoil_plan, pass_points),
        )
    }

    def run(self, work: EffectContext) -> dict[str, Any]:
        done: dict[str, Any] = self._CALLS[work.inputs["call"]](work)
        return done

    def settle(self, work: EffectContext, *, finish: bool) -> dict[str, Any] | None:
        raise NotImplementedError


STEPPING = Stepping()
