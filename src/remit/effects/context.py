"""The context of an effect: its task, open folders, and functions that talk to the host. It can reach nothing else.

Runs inside the sandboxed process, so it must stay light: standard library, `remit.core.errors`, `remit.fs`, no models.
An effect is an object with two methods. It works on the descriptors that it receives, makes its changes durable before
it returns, and fails with a `RemitError`. Any other exception is a bug, and is reported as one.
Uses named tuples, because `dataclasses` loads 1.4 MB that every fork would pay for.
"""

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from remit.core.errors import Reason, RefusedError

_PIECE: Final = 1 << 20
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class PathHandle(NamedTuple):
    """One path of the task's inputs: an open descriptor of its folder, and its name there."""

    path: str
    folder: int
    name: str


class EffectContext(NamedTuple):
    """One task that `run` carries out, or one that was interrupted and that `settle` finishes or undoes."""

    task_id: str
    """The id of the task."""
    capability_id: str
    """The capability that the task asks for."""
    inputs: Mapping[str, Any]
    """The inputs of the task, checked against the declared model."""
    reversible: bool
    """Whether the task asks to be reversible."""
    part_name: str
    """The only name, besides those in the inputs, that the effect may create. It is for unfinished bytes."""
    spots: Mapping[str, PathHandle] = _NOTHING
    """The paths, by the name of the input. The host opened the folders without following a link, beneath an allowed
    directory.
    """
    before: Mapping[str, Mapping[str, int]] = _NOTHING
    """The files as the host saw them before it recorded the intent: `fs.openat.FileIdentity` as a dict, by the name of
    the input. A path that must not exist yet has none.
    """
    checkpoint: Mapping[str, Any] = _NOTHING
    """What the host keeps for an undo, such as the reference of a snapshot."""
    given: Mapping[str, int] = _NOTHING
    """Descriptors that the host opened for this task, by name: a snapshot to restore from."""
    notes: tuple[Mapping[str, Any], ...] = ()
    """In `settle`: all notes about this task, by `run` and by earlier calls of `settle`."""
    note: Callable[[Mapping[str, Any]], None] = lambda _: None
    """Record a fact that `settle` will need, before the step that it is about.

    Returns when the host has stored the note durably. The time limit does not run meanwhile. At most 64 KiB in all.
    """
    progress: Callable[[int, int], None] = lambda _done, _total: None
    """Report progress: the amount done, and the total. The host may drop the report."""
    ask: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda _: {}
    """Send a question to the host and wait for the answer. The time limit does not run meanwhile."""
    connected: Any = None
    """What `Connecting.connect` returned."""
    step: Callable[[Mapping[str, Any]], None] = lambda _: None
    """Report one of the order's steps to the host: its `number`, a `phase`, and the data of that phase.

    The host sends no answer.

    `begun` starts the step's clock and stops the clock of the step before. `staged` stops it. Each is sent at most
    once, and so is the end: `done` or `failed` for a step that has begun, `skipped`, or `seen` in a simulation. After
    the end only `diff` may follow, which may be sent at any time. `failed` has an `error`, and `seen` may have a
    `problem`: an error of Remit as `as_json` returns it.
    """


class Effect(Protocol):
    """One kind of change, and its recovery after an interruption."""

    def run(self, work: EffectContext) -> dict[str, Any]:
        """Make the change completely and durably, or raise after restoring everything as it was before.

        Args:
            work: The task, its open folders, and functions that talk to the host.

        Returns:
            A dictionary with `result_summary` and `undo_metadata`.

        Raises:
            RefusedError: Nothing was touched.
            EnvironmentFailureError: Any other failure. Everything is as it was before.
        """

    def settle(self, work: EffectContext, *, finish: bool) -> dict[str, Any] | None:
        """Recover after `run` was killed or the machine stopped: leave everything as after the change or as before it.

        This method may itself be killed and called again.

        Args:
            work: The context of the interrupted task, with all its notes.
            finish: True to complete a change that has reached the files, and to remove the remains of one that has
                not. False to undo it in both cases.

        Returns:
            The output of the completed change, or None if there is no change.

        Raises:
            EnvironmentFailureError: It is not possible now. Recovery calls this method again.
        """


class Connecting(Effect, Protocol):
    """An effect that has a connection to a server."""

    def connect(self, work: EffectContext) -> Any:
        """Return the connection, made before the sandbox closes. For trusted code, which reads only the host's data."""


def read_given(work: EffectContext, name: str, most: int) -> bytes:
    """Return all bytes of a descriptor that came with the order, such as a plan that is too large for the order.

    Children that run at the same time share the file offset, so `read` is not used.
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
