"""What an effect sees of the world: its task, open folders, and a way to talk to the host. Nothing else is in reach.

Runs inside the sandboxed process, so it must stay light: standard library, `remit.core.errors`, `remit.fs`, no models.
An effect is an object with two methods. It works on descriptors it was given, makes what it did durable before it
returns, and fails with a `RemitError`; anything else it raises is a bug, and is reported as one.
Named tuples, because `dataclasses` loads 1.4 MB that every fork would pay for.
"""

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from remit.core.errors import Reason, RefusedError

_PIECE: Final = 1 << 20
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class PathHandle(NamedTuple):
    """One path of the task's inputs: an open descriptor of the folder it lies in, and its name there."""

    path: str
    folder: int
    name: str


class EffectContext(NamedTuple):
    """One task, or the remains of one that was cut short."""

    task_id: str
    capability_id: str
    inputs: Mapping[str, Any]
    reversible: bool
    part_name: str
    """The only name, besides those in the inputs, that the effect may create: for bytes on their way to one of them."""
    spots: Mapping[str, PathHandle] = _NOTHING
    """By the name of the input. The folders were opened without following a link, beneath an allowed directory."""
    before: Mapping[str, Mapping[str, int]] = _NOTHING
    """What the host saw before the intent was recorded, by the name of the input: `confine.beneath.Identity` as a dict.

    A path that must not exist yet has none.
    """
    checkpoint: Mapping[str, Any] = _NOTHING
    """What the host keeps for the way back, such as the reference of a snapshot."""
    given: Mapping[str, int] = _NOTHING
    """Descriptors that the host opened for this task, by name: a snapshot to restore from."""
    notes: tuple[Mapping[str, Any], ...] = ()
    """In `settle`: all that was noted of this task, by `run` and by earlier attempts to settle it."""
    note: Callable[[Mapping[str, Any]], None] = lambda _: None
    """Tell the host something that `settle` will need, before doing it.

    Returns when the host has it where it outlives the host as well; the wall clock stands still meanwhile. At most
    64 KiB in all.
    """
    progress: Callable[[int, int], None] = lambda _done, _total: None
    """So much is done of so much. The host may drop it."""
    ask: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda _: {}
    """Put a question to the host and wait; the wall clock stands still meanwhile."""
    connected: Any = None
    """What `Connecting.connect` returned."""
    step: Callable[[Mapping[str, Any]], None] = lambda _: None
    """Tell the host of one of the order's steps: its `number`, a `phase`, and what belongs to that. No answer comes.

    `begun` starts the step's clock, and stops the one before; `staged` stops it. Each is said once at most. So is the
    end, which is `done` or `failed` for one that was begun, `skipped`, or `seen` in a simulation; then nothing but
    `diff`, which may be said at any time. `failed` has an `error`, and `seen` may have a `problem`: an error of ours
    as `as_json` gives it.
    """


class Effect(Protocol):
    """One thing that can be done to the world, and what to make of one that was cut short."""

    def run(self, work: EffectContext) -> dict[str, Any]:
        """Do it. Returns `result_summary` and `undo_metadata`, or raises with the world as it was before."""

    def settle(self, work: EffectContext, *, finish: bool) -> dict[str, Any] | None:
        """`run` was killed somewhere, or the machine died. Leave the world as after or as before, never between.

        With `finish`, an effect that had reached the world is completed, and its output returned; one that had not is
        cleared away, and None returned. Without, it is undone in either case. May itself be killed and called again.
        """


class Connecting(Effect, Protocol):
    """One that has a connection to a server."""

    def connect(self, work: EffectContext) -> Any:
        """Make it, before the walls close: for trusted code, which heeds nothing but what the host gave it."""


def read_given(work: EffectContext, name: str, most: int) -> bytes:
    """All bytes of a descriptor that came with the order, such as a plan that is too large for it.

    Children that run at the same time share the place in the file that `read` goes on from, so it is not used.
    """
    descriptor = work.given[name]
    size = os.fstat(descriptor).st_size
    if size > most:
        raise RefusedError(Reason.TOO_LARGE, f"it has {size:,} bytes, and at most {most:,} are read", where=name)
    pieces: list[bytes] = []
    done = 0
    while done < size and (piece := os.pread(descriptor, min(size - done, _PIECE), done)):
        pieces.append(piece)
        done += len(piece)
    return b"".join(pieces)
