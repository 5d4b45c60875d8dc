"""A task that was cut short, and what somebody else does in its folders before it is settled."""

from pathlib import Path
from typing import Any, Final

import pytest

from remit.effects.context import EffectContext
from tests.effects.tasks.task_folder import Place
from tests.effects.tasks.task_process import notes_of, run_task
from tests.support.child_process import Fault

CONTENT: Final = b"important" * 1000
BOTH: Final = pytest.mark.parametrize("call", ["finish", "undo"])


def transfer(place: Place, capability_id: str = "FILE_MOVE") -> EffectContext:
    return place.prepare(capability_id, source_path=place.here / "a", destination_path=place.there / "b")


def killed_at(place: Place, work: EffectContext, point: str) -> tuple[Any, ...]:
    ended = run_task(place, work, "run", fault=Fault(point))
    assert ended.killed, ended.output
    return notes_of(ended)


def save(path: Path, content: bytes) -> None:
    """As most editors do: a new file that takes the name of the old one."""
    new = path.with_name("new")
    new.write_bytes(content)
    new.rename(path)


def recreate(path: Path, content: bytes, inode: int) -> None:
    """A file by this name that has, where the filesystem gives numbers anew, the inode number of the one that went."""
    others = []
    for number in range(64):
        path.write_bytes(content)
        if path.stat().st_ino == inode:
            break
        others.append(path.rename(path.with_name(f"other-{number}")))
    else:
        path.write_bytes(content)
    for other in others:
        other.unlink()
