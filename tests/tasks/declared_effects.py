"""Effects that tests register: what a hostile, slow or broken executor does. Loaded in the sandboxed process."""

import os
import time
from typing import Any

from remit.effects.context import EffectContext

SPOT = "destination_path"


class Marking:
    """Makes an empty file, and says so. Twice is impossible."""

    def __init__(self, pause: float = 0.0) -> None:
        self._pause = pause

    def run(self, work: EffectContext) -> dict[str, Any]:
        spot = work.spots[SPOT]
        os.close(os.open(spot.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=spot.folder))
        work.progress(1, 2)
        time.sleep(self._pause)
        work.progress(2, 2)
        return {"result_summary": {"made": spot.path}, "undo_metadata": {}}

    def settle(self, work: EffectContext, *, finish: bool) -> dict[str, Any] | None:
        spot = work.spots[SPOT]
        try:
            if finish:
                os.stat(spot.name, dir_fd=spot.folder)
                return {"result_summary": {"made": spot.path}, "undo_metadata": {}}
            os.unlink(spot.name, dir_fd=spot.folder)
        except FileNotFoundError:
            pass
        return None


class Stubborn(Marking):
    """Breaks in the middle, and cannot be undone for as long as a file named `stuck` lies beside it."""

    def run(self, work: EffectContext) -> dict[str, Any]:
        super().run(work)
        raise RuntimeError("broken in the middle")

    def settle(self, work: EffectContext, *, finish: bool) -> dict[str, Any] | None:
        try:
            os.stat("stuck", dir_fd=work.spots[SPOT].folder)
        except FileNotFoundError:
            return super().settle(work, finish=finish)
        raise RuntimeError("cannot be settled")


class Exploding(Marking):
    def run(self, work: EffectContext) -> dict[str, Any]:
        super().run(work)
        raise RuntimeError("password=hunter2-and-more")


class Lying(Marking):
    """Says that it made a file."""

    def run(self, work: EffectContext) -> dict[str, Any]:
        return {"result_summary": {"made": work.spots[SPOT].path}, "undo_metadata": {}}


class Boasting(Marking):
    """Answers with more than a ledger entry can hold."""

    def run(self, work: EffectContext) -> dict[str, Any]:
        super().run(work)
        return {"result_summary": {"text": [*["x " * 10_000] * 52, "y" * 8_000]}, "undo_metadata": {}}


class Rambling(Marking):
    """Answers with something that its capability does not declare, and in the name of another task."""

    def run(self, work: EffectContext) -> dict[str, Any]:
        super().run(work)
        return {"result_summary": {}, "undo_metadata": {}, "task_id": "another", "surprise": 1}


class Dying(Marking):
    def run(self, work: EffectContext) -> dict[str, Any]:
        super().run(work)
        os._exit(7)


MARK = Marking()
SLOW = Marking(pause=0.6)
ENDLESS = Marking(pause=600.0)
STUBBORN = Stubborn()
EXPLODE = Exploding()
LIE = Lying()
BOAST = Boasting()
RAMBLE = Rambling()
DIE = Dying()
