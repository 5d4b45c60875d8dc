"""Which process a host's sandboxes are forked from, who its children are, and how to end it for a test."""

import os
import select
import signal
import time
from pathlib import Path
from typing import Final

from remit.sandbox.host import SandboxHost
from tests.sandbox.plain_host import order

_PATIENCE: Final = 10.0


def zygote_of(host: SandboxHost) -> int:
    """As a task sees it. A process that runs tests may have other children, so nobody looks for it among those."""
    output = host.run(order("look_around")).output
    assert output is not None
    pid: int = output["zygote"]
    return pid


def children_of(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def status(pid: int) -> dict[str, str]:
    return dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)


def is_dead(pidfd: int, within: float = _PATIENCE) -> bool:
    return bool(select.select([pidfd], [], [], within)[0])


def kill_for_good(zygote: int) -> None:
    """With its children. One that is dying can still read that it may begin, and such a task counts as cut short.

    It is stopped first: else it might fork another one that nobody waits for.
    """
    os.kill(zygote, signal.SIGSTOP)
    deadline = time.monotonic() + _PATIENCE
    while status(zygote)["State"][0] != "T":
        assert time.monotonic() < deadline, f"{zygote} does not stop"
        time.sleep(0.001)
    watched = [os.pidfd_open(pid) for pid in (zygote, *children_of(zygote))]
    os.kill(zygote, signal.SIGKILL)
    assert all(is_dead(pidfd) for pidfd in watched)
    for pidfd in watched:
        os.close(pidfd)
