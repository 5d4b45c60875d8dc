"""Breach a quota, again and again, and measure: how long until the process was dead, how much it got away with.

Also a program, so that the same can be measured as another user: `python -m tests.sandbox.kills FOLDER RUNS KIND...`.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from remit.core.errors import Reason, RemitError
from remit.sandbox.host import InterruptedTaskError, SandboxHost
from remit.sandbox.orders import Quotas
from tests.sandbox.hostile_sandbox import MIB, Arena, a_host, an_order, make_arena

KINDS: Final = ("time", "memory", "read", "write")
AMPLE: Final = Quotas(memory_bytes=1024 * MIB, read_bytes=64 * 1024 * MIB, write_bytes=16 * 1024 * MIB, seconds=20.0)


@dataclass(frozen=True, slots=True)
class Kill:
    """`seconds` from the breach to the moment when the host knew the process dead; `past` in bytes over the quota."""

    seconds: float
    past: int


def quotas_for(kind: str) -> Quotas:
    """One of them tight, the others far away: the kill is for this one."""
    return Quotas(
        memory_bytes=64 * MIB if kind == "memory" else AMPLE.memory_bytes,
        read_bytes=64 * MIB if kind == "read" else AMPLE.read_bytes,
        write_bytes=16 * MIB if kind == "write" else AMPLE.write_bytes,
        seconds=0.1 if kind == "time" else AMPLE.seconds,
    )


def measure(arena: Arena, kind: str, runs: int) -> list[Kill]:
    with a_host(arena, quotas_for(kind)) as host:
        # The first call starts the zygote, which is no part of any quota.
        host.run(an_order(arena, "remember"))
        return [_one(host, arena, kind) for _ in range(runs)]


def _one(host: SandboxHost, arena: Arena, kind: str) -> Kill:
    quotas = quotas_for(kind)
    quota = {"memory": quotas.memory_bytes, "read": quotas.read_bytes, "write": quotas.write_bytes}.get(kind, 0)
    tally = os.memfd_create("tally")
    started = time.monotonic()
    try:
        host.run(an_order(arena, f"breach_{kind}", quota=quota, how="at work"), given={"tally": tally})
    except InterruptedTaskError as failed:
        dead = time.monotonic()
        if failed.reason is not Reason.RESOURCE_EXHAUSTED:
            raise
        used = int.from_bytes(os.pread(tally, 8, 0), "big")
        breach = started + quotas.seconds if kind == "time" else _breach(failed.notes, dead, quota - used)
        return Kill(dead - breach, used - quota if quota else 0)
    finally:
        os.close(tally)
    raise AssertionError(f"the process was not stopped at its {kind} quota")


def _breach(notes: Sequence[Mapping[str, Any]], dead: float, short_of_it: int) -> float:
    """When it told. The kernel counts a little more than the process does, so it may be dead before it could tell."""
    for note in notes:
        if "breach" in note:
            return float(note["breach"])
    if short_of_it > MIB:
        raise AssertionError(f"the process was stopped {short_of_it:,} bytes before its quota")
    return dead


def error_of_a_slow_death(arena: Arena) -> str:
    """A process that somebody killed and nobody has reaped yet: of such a one an ordinary user is told less."""

    def kill_it(question: Mapping[str, Any]) -> Mapping[str, Any]:
        os.kill(question["parent"], signal.SIGSTOP)
        os.kill(question["pid"], signal.SIGKILL)
        threading.Timer(0.2, os.kill, (question["parent"], signal.SIGCONT)).start()
        # Past the time of the host's next look.
        time.sleep(0.05)
        return {}

    with a_host(arena, AMPLE) as host:
        try:
            host.run(an_order(arena, "be_looked_at"), on_ask=kill_it)
        except RemitError as problem:
            return f"{type(problem).__name__} {problem.reason}"
    return "none"


def main() -> None:
    arena = make_arena(Path(sys.argv[1]))
    runs = int(sys.argv[2])
    kills = {kind: [[kill.seconds, kill.past] for kill in measure(arena, kind, runs)] for kind in sys.argv[3:]}
    sys.stdout.write(
        json.dumps({"uid": os.geteuid(), "kills": kills, "slow death": error_of_a_slow_death(arena)}) + "\n"
    )


if __name__ == "__main__":
    main()
