"""Effects of an honest executor, for the tests of the sandbox. Run inside it, so: standard library and Remit only."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from remit.core.errors import EnvironmentFailed, Misuse, Reason, Refused
from remit.effects.context import Work


def answer(work: Work) -> dict[str, Any]:
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


def look_around(_: Work) -> dict[str, Any]:
    return {"environment": dict(os.environ), "modules": sorted(sys.modules), "pid": os.getpid(), "zygote": os.getppid()}


def copy(work: Work) -> dict[str, Any]:
    source, target = work.spots["source"], work.spots["target"]
    old = os.open(source.name, os.O_RDONLY, dir_fd=source.folder)
    new = os.open(target.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640, dir_fd=target.folder)
    return {"copied": os.write(new, os.read(old, 1 << 20))}


def read_given(work: Work) -> dict[str, Any]:
    return {name: os.read(descriptor, 100).decode() for name, descriptor in work.given.items()}


def refuse(work: Work) -> dict[str, Any]:
    kind = {"Refused": Refused, "Misuse": Misuse, "EnvironmentFailed": EnvironmentFailed}[work.inputs["kind"]]
    raise kind(Reason(work.inputs["reason"]), "this is wrong", where="over there", next_step="Do that.")


def leak(work: Work) -> dict[str, Any]:
    raise Refused(Reason.FILE_CONFLICT, work.inputs["text"], where=work.inputs["text"])


def blunder(_: Work) -> dict[str, Any]:
    nothing: dict[str, int] = {}
    return {"never": nothing["missing"]}


def exit_by_itself(work: Work) -> dict[str, Any]:
    os._exit(work.inputs["code"])


def leave(_: Work) -> dict[str, Any]:
    sys.exit(3)


def eat_memory(work: Work) -> dict[str, Any]:
    return {"bytes": len(bytearray(work.inputs["bytes"]))}


def write_far(work: Work) -> dict[str, Any]:
    target = work.spots["target"]
    work.note({"begun": True})
    new = os.open(target.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640, dir_fd=target.folder)
    return {"written": os.pwrite(new, b"x", work.inputs["offset"])}


def sleep(work: Work) -> dict[str, Any]:
    work.note({"asleep": os.getpid()})
    if work.inputs.get("told"):
        work.progress(1, 2)
    time.sleep(work.inputs["seconds"])
    return {}


def note_often(work: Work) -> dict[str, Any]:
    for _ in range(work.inputs["times"]):
        work.note({"x": "x" * work.inputs["size"]})
    return {"noted": work.inputs["times"]}


def report(work: Work) -> dict[str, Any]:
    for done in range(1, 5_001):
        work.progress(done, 5_000)
        if done % 1_000 == 0:
            time.sleep(0.06)
    return {}


def ask(work: Work) -> dict[str, Any]:
    answers = [dict(work.ask({"number": number})) for number in range(3)]
    return {"answers": answers}


def answer_badly(work: Work) -> Any:
    return {"a set": {1, 2}, "a list": [1], "text": "x", "too much": {"x": "x" * (2 << 20)}}[work.inputs["what"]]


class Plain:
    """Does what `inputs` say."""

    _CALLS: Mapping[str, Callable[[Work], Any]] = {
        one.__name__: one
        for one in (
            *(answer, look_around, copy, read_given, refuse, leak, blunder, exit_by_itself, leave, eat_memory),
            *(write_far, sleep, note_often, report, ask, answer_badly),
        )
    }

    def run(self, work: Work) -> dict[str, Any]:
        done: dict[str, Any] = self._CALLS[work.inputs["call"]](work)
        return done

    def settle(self, work: Work, *, finish: bool) -> dict[str, Any] | None:
        return {"finish": finish, "notes": [dict(note) for note in work.notes]} if work.notes else None


PLAIN = Plain()
NOT_REGISTERED = Plain()
