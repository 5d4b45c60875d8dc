"""Attempts on the channel to the host: what a process says when nobody made it say the right thing."""

import os
import stat
import struct
import time
from collections.abc import Callable
from typing import Any, Final

from remit.effects.context import EffectContext


def channel_of() -> int:
    """The descriptor of this process's one socket."""
    for descriptor in range(256):
        try:
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                return descriptor
        except OSError:
            continue
    raise RuntimeError("this process has no socket")


def say(raw: bytes) -> None:
    """All of it, as it is, past every function that would make a proper frame of it."""
    channel, rest = channel_of(), memoryview(raw)
    while rest:
        rest = rest[os.write(channel, rest) :]


def frame(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


def _say(work: EffectContext) -> dict[str, Any]:
    """Some bytes, so often; then go away without a word, or answer as if nothing had been."""
    raw = bytes.fromhex(work.inputs["raw"])
    for _ in range(work.inputs.get("times", 1)):
        say(raw)
    if work.inputs.get("then") == "vanish":
        os._exit(0)
    return {"honest": True}


def _note_much(work: EffectContext) -> dict[str, Any]:
    """As many notes as the host takes, each as long as a frame may be, in letters that take a lot of memory."""
    note = {"breach": "\U0001f600" + "x" * (work.inputs["bytes"] - 200)}
    for _ in range(work.inputs["count"]):
        work.note(note)
    os._exit(0)


def _drip(work: EffectContext) -> dict[str, Any]:
    """A frame that never ends, a byte at a time: a host that waits for its end waits for ever."""
    say(struct.pack(">I", 1024 * 1024) + b'{"kind": "')
    while True:
        say(b"x")
        time.sleep(0.01)


def _flood(work: EffectContext) -> dict[str, Any]:
    """As many frames as it takes."""
    while True:
        say(bytes.fromhex(work.inputs["raw"]) * 50)


def _work_on(work: EffectContext) -> dict[str, Any]:
    """Say that all is done, and go on changing the world."""
    spot = work.spots["target"]
    file = os.open(spot.name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600, dir_fd=spot.folder)
    os.write(file, b"+")
    say(bytes.fromhex(work.inputs["raw"]))
    while True:
        os.write(file, b"+")


def _hang_up(work: EffectContext) -> dict[str, Any]:
    """Close the channel and go on."""
    spot = work.spots["target"]
    work.ask({"pid": os.getpid(), "parent": os.getppid()})
    os.close(channel_of())
    file = os.open(spot.name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600, dir_fd=spot.folder)
    while True:
        os.write(file, b"+")
        time.sleep(0.001)


FRAME_ATTEMPTS: Final[dict[str, Callable[[EffectContext], dict[str, Any]]]] = {
    "say": _say,
    "note_much": _note_much,
    "drip": _drip,
    "flood": _flood,
    "work_on": _work_on,
    "hang_up": _hang_up,
}
