"""Effects of an honest executor, for the tests of the sandbox. Run inside it, so: standard library and Remit only."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, UsageError
from remit.effects.context import EffectContext


def answer(work: EffectContext) -> dict[str, Any]:
    work.note({"first": 1})
    work.note({"second": "zwei"})
    return {
        "task": work.task_id,
        "inputs": dict(work.inputs),
        "part": work.part_name,
        "reversible": work.reversible,
        "spots": {name: [spot.path, spot.name] for name, spot in work.spots.items()},
        "before": dict(work.before),
        "checkpoint": dict(work.checkpoint),
    }


def look_around(_: EffectContext) -> dict[str, Any]:
    return {"environment": dict(os.environ), "modules": sorted(sys.modules), "pid": os.getpid(), "zygote": os.getppid()}


def copy(work: EffectContext) -> dict[str, Any]:
    source, target = work.spots["source"], work.spots["target"]
    old = os.open(source.name, os.O_RDONLY, dir_fd=source.folder)
    new = os.open(target.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640, dir_fd=target.folder)
    return {"copied": os.write(new, os.read(old, 1 << 20))}


def read_given(work: EffectContext) -> dict[str, Any]:
    return {name: os.read(descriptor, 100).decode() for name, descriptor in work.given.items()}


def refuse(work: EffectContext) -> dict[str, Any]:
    kind = {each.__name__: each for each in (RefusedError, UsageError, EnvironmentFailureError)}[work.inputs["kind"]]
    raise kind(Reason(work.inputs["reason"]), "this is wrong", where="over there", next_step="Do that.")


def leak(work: EffectContext) -> dict[str, Any]:
    raise RefusedError(Reason.FILE_CONFLICT, work.inputs["text"], where=work.inputs["text"])


def blunder(_: EffectContext) -> dict[str, Any]:
    nothing: dict[str, int] = {}
    return {"never": nothing["missing"]}


def exit_by_itself(work: EffectContext) -> dict[str, Any]:
    os._exit(work.inputs["code"])


def leave(_: EffectContext) -> dict[str, Any]:
    sys.exit(3)


def eat_memory(work: EffectContext) -> dict[str, Any]:
    return {"bytes": len(bytearray(work.inputs["bytes"]))}


def write_far(work: EffectContext) -> dict[str, Any]:
    target = work.spots["target"]
    work.note({"begun": True})
    new = os.open(target.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640, dir_fd=target.folder)
    return {"written": os.pwrite(new, b"x", work.inputs["offset"])}


def sleep(work: EffectContext) -> dict[str, Any]:
    work.note({"asleep": os.getpid()})
    if work.inputs.get("told"):
        work.progress(1, 2)
    time.sleep(work.inputs["seconds"])
    return {}


def note_often(work: EffectContext) -> dict[str, Any]:
    for _ in range(work.inputs["times"]):
        work.note({"x": "x" * work.inputs["size"]})
    return {"noted": work.inputs["times"]}


def report(work: EffectContext) -> dict[str, Any]:
    for done in range(1, 5_001):
        work.progress(done, 5_000)
        if done % 1_000 == 0:
            time.sleep(0.06)
    return {}


def ask(work: EffectContext) -> dict[str, Any]:
    answers = [dict(work.ask({"number": number})) for number in range(3)]
    return {"answers": answers}


def answer_badly(work: EffectContext) -> Any:
    return {"a set": {1, 2}, "a list": [1], "text": "x", "too much": {"x": "x" * (2 << 20)}}[work.inputs["what"]]


class Plain:
    """Does what `inputs` say."""

    _CALLS: Mapping[str, Callable[[EffectContext], Any]] = {
        one.__name__: one
        for one in (
            *(answer, look_around, copy, read_given, refuse, leak, blunder, exit_by_itself, leave, eat_memory),
            *(write_far, sleep, note_often, report, ask, answer_badly),
        )
    }

    def run(self, work: EffectContext) -> dict[str, Any]:
        done: dict[str, Any] = self._CALLS[work.inputs["call"]](work)
        return done

    def settle(self, work: EffectContext, *, finish: bool) -> dict[str, Any] | None:
        return {"finish": finish, "notes": [dict(note) for note in work.notes]} if work.notes else None


PLAIN = Plain()
NOT_REGISTERED = Plain()
