"""Where hostile effects are let loose: an allowed directory, things outside of it, hosts that confine or not."""

import contextlib
import os
import select
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from remit.core.errors import RemitError
from remit.effects.registry import PathUse
from remit.sandbox.host import EffectResult, SandboxHost
from remit.sandbox.orders import Build, FolderGrant, Order, Quotas

EFFECT: Final = "tests.sandbox.hostile_effects:HOSTILE"
ROOT: Final = Path(__file__).resolve().parents[2]
MIB: Final = 1024 * 1024
ROOMY: Final = Quotas(memory_bytes=256 * MIB, read_bytes=1024 * MIB, write_bytes=64 * MIB, seconds=10.0)
"""Enough for every attempt that is not about quotas."""
SECRET: Final = b"the secret outside"
PLANS: Final = Build(exchanges=True, open_files=512)
TASKS: Final = Build()
BUILDS: Final = [pytest.param(TASKS, id="tasks"), pytest.param(PLANS, id="plans")]
"""Whatever children are made for, the walls are to hold."""

Seen = TypeVar("Seen")


@dataclass(frozen=True, slots=True)
class Arena:
    """`inside` is the allowed directory, with folders to take from and to make in; `outside` is not allowed."""

    root: Path

    @property
    def inside(self) -> Path:
        return self.root / "inside"

    @property
    def made(self) -> Path:
        return self.inside / "made"

    @property
    def outside(self) -> Path:
        return self.root / "outside"

    @property
    def secret(self) -> Path:
        return self.outside / "secret.txt"

    @property
    def lock(self) -> Path:
        return self.root / "hosts" / "host.lock"


def make_arena(root: Path) -> Arena:
    arena = Arena(root)
    for folder in (arena.made, arena.inside / "taken" / "below", arena.outside, arena.lock.parent):
        folder.mkdir(parents=True)
    arena.secret.write_bytes(SECRET)
    (arena.inside / "taken" / "source.bin").write_bytes(b"x" * MIB)
    return arena


@contextlib.contextmanager
def a_host(
    arena: Arena, quotas: Quotas = ROOMY, *, confined: bool = True, build: Build = TASKS
) -> Iterator[SandboxHost]:
    host = SandboxHost([EFFECT], quotas, confined=confined, lock=arena.lock, import_paths=[str(ROOT)], build=build)
    try:
        yield host
    finally:
        host.close()


def an_order(arena: Arena, which: str, /, *, task_id: str = "task-1", restores: bool = False, **inputs: Any) -> Order:
    """With all the rights that a file task can have: one folder to take from, one to make in."""
    return Order(
        effect=EFFECT,
        call="run",
        task_id=task_id,
        capability_id="HOSTILE",
        inputs={"attempt": which, "root": str(arena.root), **inputs},
        reversible=False,
        part_name=".remit-0123456789abcdef01234567.part",
        places={
            "source": FolderGrant(str(arena.inside), ("taken",), "source.bin", PathUse.TAKE),
            "target": FolderGrant(str(arena.inside), ("made",), "target.bin", PathUse.MAKE),
        },
        restores=restores,
    )


def attempt(host: SandboxHost, arena: Arena, which: str, /, **inputs: Any) -> dict[str, Any]:
    """What the effect reports of its attempt."""
    output = host.run(an_order(arena, which, **inputs)).output
    assert output is not None
    return output


def attempt_watched(
    host: SandboxHost, arena: Arena, which: str, see: Callable[[int, int], Seen], /, **inputs: Any
) -> tuple[EffectResult, Seen]:
    """The effect stops at a question; meanwhile `see` looks at it from outside, with its pid and its parent's."""
    seen: list[Seen] = []

    def on_ask(question: Mapping[str, Any]) -> Mapping[str, Any]:
        seen.append(see(question["pid"], question["parent"]))
        return {}

    finished = host.run(an_order(arena, which, **inputs), on_ask=on_ask)
    (only,) = seen
    return finished, only


def cut_short(host: SandboxHost, arena: Arena, which: str, /, **inputs: Any) -> RemitError:
    """The error that the host raised for this attempt."""
    with pytest.raises(RemitError) as failed:
        host.run(an_order(arena, which, **inputs))
    return failed.value


def is_healthy(host: SandboxHost, arena: Arena) -> bool:
    """An honest task still gets through."""
    return bool(attempt(host, arena, "remember")["found"] == [])


def ends_within(pidfd: int, seconds: float) -> bool:
    return bool(select.select([pidfd], [], [], seconds)[0])


@contextlib.contextmanager
def watching(*pids: int) -> Iterator[list[int]]:
    """Descriptors that become readable when the processes end, and can mean no other process."""
    with contextlib.ExitStack() as closing:
        watched = []
        for pid in pids:
            watched.append(os.pidfd_open(pid))
            closing.callback(os.close, watched[-1])
        yield watched
