"""Run a program in a process of its own, let it say what it has done, and kill it at a fault point.

The child calls `acknowledge` for each thing it promises to have done; the parent keeps what was said. Whatever was
acknowledged must still be there afterwards, however the child died.
"""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from remit.core.faultpoints import FAULT_POINTS

ACKNOWLEDGE_TO: Final = "REMIT_TEST_ACKNOWLEDGE_FD"
LONGEST_RUN: Final = 60.0


@dataclass(frozen=True, slots=True)
class Fault:
    """Stop at a named point, the `count`-th time it is reached: by SIGKILL, or by an error as of a full disk."""

    point: str
    count: int = 1
    action: Literal["kill", "error"] = "kill"

    def __post_init__(self) -> None:
        if self.point not in FAULT_POINTS:
            raise ValueError(f"there is no fault point {self.point!r}")

    @property
    def setting(self) -> str:
        """The value of REMIT_FAULT."""
        return f"{self.point}:{self.count}:{self.action}"


@dataclass(frozen=True, slots=True)
class ChildExit:
    """How a child ended, what it acknowledged before, and what it printed."""

    exit_code: int
    acknowledged: tuple[str, ...]
    output: str

    @property
    def killed(self) -> bool:
        return self.exit_code == -signal.SIGKILL


def acknowledge(word: str) -> None:
    """In the child: promise that this is done. One line, in one write."""
    if "\n" in word:
        raise ValueError("an acknowledgement is one line")
    os.write(int(os.environ[ACKNOWLEDGE_TO]), word.encode() + b"\n")


def run_child(
    command: Sequence[str],
    *,
    fault: Fault | None = None,
    environment: Mapping[str, str] | None = None,
    timeout: float = LONGEST_RUN,
) -> ChildExit:
    """Run `command` to its end, with the fault armed if one is given. A child that hangs is killed and is an error."""
    # A file in memory, not a pipe: it needs no reader while the child runs, and outlives it.
    said = os.memfd_create("acknowledged")
    # Without O_APPEND two threads that write at once can be given the same place, and one word is lost.
    fcntl.fcntl(said, fcntl.F_SETFL, fcntl.fcntl(said, fcntl.F_GETFL) | os.O_APPEND)
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=_surroundings(fault, {**(environment or {}), ACKNOWLEDGE_TO: str(said)}),
            pass_fds=[said],
            start_new_session=True,
        )
        with child:
            try:
                output, _ = child.communicate(timeout=timeout)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
        return ChildExit(child.returncode, _lines(said), output.decode(errors="replace"))
    finally:
        os.close(said)


def _surroundings(fault: Fault | None, more: Mapping[str, str]) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name != "REMIT_FAULT"}
    if fault is not None:
        inherited["REMIT_FAULT"] = fault.setting
    # The child must find the same Remit as we do, installed or not, and leave no byte code for the next to differ by.
    path = os.pathsep.join(place for place in sys.path if place)
    return {**inherited, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **more}


def _lines(descriptor: int) -> tuple[str, ...]:
    raw = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    # A kill can cut the last word short: what has no end was not said.
    return tuple(raw[: raw.rfind(b"\n") + 1].decode().splitlines())
