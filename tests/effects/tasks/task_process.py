"""A process of its own that runs or settles one task, to be killed at a fault point. It acknowledges its notes."""

import json
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from remit.core.errors import RemitError
from remit.effects.context import EffectContext
from tests.effects.tasks.task_folder import EFFECTS, Place
from tests.support import preloaded
from tests.support.child_process import ChildExit, Fault, acknowledge, run_child

NOTE = "note "


def run_task(
    place: Place, work: EffectContext, call: str, *, fault: Fault | None = None, notes: tuple[Any, ...] = ()
) -> ChildExit:
    """`run`, `finish` or `undo` in a process of its own."""
    order = {
        "folders": [str(place.root), str(place.here), str(place.there)],
        "capability_id": work.capability_id,
        "inputs": dict(work.inputs),
        "before": work.before,
        "checkpoint": {name: value for name, value in work.checkpoint.items() if name != "meta"},
        "reversible": work.reversible,
        "notes": notes,
        "call": call,
    }
    return run_child([preloaded.python(), __file__, json.dumps(order)], fault=fault)


def notes_of(ended: ChildExit) -> tuple[Any, ...]:
    return tuple(json.loads(word.removeprefix(NOTE)) for word in ended.acknowledged if word.startswith(NOTE))


def main() -> None:
    order = json.loads(sys.argv[1])
    os.umask(0)
    with ExitStack() as stack:
        root, here, there = map(Path, order["folders"])
        place = Place(root, here, there, stack)
        work = place.work(
            order["capability_id"],
            order["inputs"],
            order["before"],
            order["checkpoint"],
            reversible=order["reversible"],
        )
        effect = EFFECTS[work.capability_id]
        work = work._replace(note=lambda fact: acknowledge(NOTE + json.dumps(fact)), notes=tuple(order["notes"]))
        try:
            output = (
                effect.run(work) if order["call"] == "run" else effect.settle(work, finish=order["call"] == "finish")
            )
        except RemitError as problem:
            acknowledge(f"failed: {problem}")
            raise SystemExit(3) from None
        acknowledge(f"done: {json.dumps(output)}")


if __name__ == "__main__":
    main()
