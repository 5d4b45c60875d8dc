"""The process that children are forked from, looked at from outside: what it holds, and what becomes of it."""

import contextlib
import os
import select
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.sandbox.encoded_order import encode_order
from remit.sandbox.host import EffectResult, InterruptedTaskError, SandboxHost
from remit.sandbox.orders import Order
from remit.sandbox.session import ChildSession, NeverStartedError, SessionCallbacks
from remit.sandbox.zygote_pool import AHEAD, Child, ChildHandle, Zygote
from tests.sandbox.plain_host import EFFECT, QUOTAS, ROOT, order, plain_host
from tests.sandbox.zygotes import children_of, is_dead, kill_for_good, status, zygote_of


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path / "lock", os.O_RDONLY | os.O_CREAT, 0o600)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def zygote(lock: int) -> Iterator[Zygote]:
    made = start(lock)
    made.wait_until_ready()
    yield made
    made.close()


def start(lock: int, effects: tuple[str, ...] = (EFFECT,), paths: tuple[str, ...] = (str(ROOT),)) -> Zygote:
    return Zygote(effects, QUOTAS, confined=True, lock=lock, import_paths=paths)


@pytest.mark.req("EI-07", "EI-17")
def test_it_is_small_alone_and_has_nothing_of_the_hosts(zygote: Zygote) -> None:
    maps = Path(f"/proc/{zygote.pid}/maps").read_text()
    assert "python" in maps
    assert not [word for word in ("pydantic", "cryptography", "sqlite", "psycopg") if word in maps]
    assert Path(f"/proc/{zygote.pid}/environ").read_bytes() == b""
    assert os.readlink(f"/proc/{zygote.pid}/cwd") == "/"
    assert status(zygote.pid)["Threads"].strip() == "1"
    assert zygote.resident < 40 << 20


@pytest.mark.req("EI-07", "EI-09", "EI-11")
def test_a_waiting_child_is_locked_already_and_holds_four_things(zygote: Zygote) -> None:
    lease = ChildHandle()
    child = zygote.claim_child(lease)
    settle_in(child)
    said = status(child.pid)
    held = sorted(int(name) for name in os.listdir(f"/proc/{child.pid}/fd"))
    limits = Path(f"/proc/{child.pid}/limits").read_text()
    child.close()
    assert said["NoNewPrivs"].strip() == "1"
    assert said["Seccomp"].strip() == "2"
    assert int(said["CapEff"], 16) & ~0b11111 == 0
    assert int(said["CapPrm"], 16) & ~0b11111 == 0
    assert said["Umask"].strip() == "0000"
    assert held == [0, 1, 2, 3, 4], "nothing, nothing, nothing, the lock, the channel"
    for line in ("Max core file size 0 0", "Max open files 64 64", f"Max file size {QUOTAS.write_bytes} "):
        assert line in " ".join(limits.split())


def converse(child: Child, asked: Order) -> EffectResult:
    conversation = ChildSession(child, QUOTAS, 0)
    conversation.send_order(encode_order(asked, ()), ())
    conversation.start_watching()
    return conversation.run(SessionCallbacks())


def settle_in(child: Child) -> None:
    """Until it waits for its order."""
    for _ in range(500):
        if status(child.pid)["Seccomp"].strip() == "2":
            return
        select.select([], [], [], 0.01)


@pytest.mark.req("EI-07", "EI-17")
def test_an_effect_sees_an_empty_environment_and_none_of_the_modules_with_keys(tmp_path: Path) -> None:
    with plain_host(tmp_path) as host:
        output = host.run(order("look_around")).output
    assert output is not None
    assert output["environment"] == {}
    heavy = (
        "pydantic",
        "cryptography",
        "sqlite3",
        "remit.authority",
        "remit.crypto",
        "remit.execution",
        "remit.identity",
        "remit.ledger",
        "remit.store",
        "remit.sandbox.host",
    )
    assert not [name for name in output["modules"] if name.startswith(heavy)]


def test_a_child_refuses_an_effect_that_it_was_not_prepared_for(zygote: Zygote) -> None:
    lease = ChildHandle()
    child = zygote.claim_child(lease)
    asked = replace(order("answer"), effect="tests.sandbox.plain_effects:NOT_REGISTERED")
    with pytest.raises(RefusedError, match="NOT_REGISTERED"):
        converse(child, asked)
    child.close()


@pytest.mark.parametrize(
    "effect, said",
    [
        ("tests.sandbox.not_there:X", "ModuleNotFoundError"),
        ("tests.sandbox.plain_effects:NOT_THERE", "AttributeError"),
        ("pydantic:BaseModel", "ModuleNotFoundError"),
    ],
)
def test_an_effect_that_cannot_be_loaded_is_named(tmp_path: Path, effect: str, said: str) -> None:
    with (
        SandboxHost([effect], QUOTAS, lock=tmp_path / "lock", import_paths=[str(ROOT)]) as host,
        pytest.raises(EnvironmentFailureError, match=said) as failed,
    ):
        host.run(replace(order("answer"), effect=effect))
    assert failed.value.reason is Reason.SANDBOX_UNAVAILABLE


def test_a_folder_of_effects_cannot_replace_the_standard_library(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('planted')")
    (tmp_path / "own_effect.py").write_text(
        "import json\nclass E:\n def run(self, work): return {'json': json.__file__}\nOWN = E()\n"
    )
    effect = "own_effect:OWN"
    with SandboxHost([effect], QUOTAS, lock=tmp_path / "lock", import_paths=[str(tmp_path)]) as host:
        output = host.run(replace(order(""), effect=effect)).output
    assert output is not None
    assert str(tmp_path) not in output["json"]


def test_children_are_forked_ahead_of_need(zygote: Zygote) -> None:
    lease = ChildHandle()
    child = zygote.claim_child(lease)
    waiting: list[int] = []
    for _ in range(500):
        waiting = children_of(zygote.pid)
        if len(waiting) == AHEAD + 1:
            break
        select.select([], [], [], 0.01)
    assert len(waiting) == AHEAD + 1
    child.close()


@pytest.mark.req("EI-09")
def test_when_it_is_closed_it_ends_and_takes_its_children_along(lock: int) -> None:
    zygote = start(lock)
    zygote.wait_until_ready()
    lease = ChildHandle()
    child = zygote.claim_child(lease)
    waiting = children_of(zygote.pid)
    watched = [os.pidfd_open(pid) for pid in waiting]
    zygote.close()
    assert child.pid in waiting
    assert all(is_dead(pidfd) for pidfd in watched)
    for pidfd in watched:
        os.close(pidfd)
    child.close()


@pytest.mark.req("EI-09")
def test_a_zygote_that_was_killed_is_replaced_at_the_next_task(tmp_path: Path) -> None:
    with plain_host(tmp_path) as host:
        seen = set()
        for _ in range(3):
            seen.add(zygote := zygote_of(host))
            kill_for_good(zygote)
        assert len(seen) == 3


@pytest.mark.req("EI-09")
def test_a_task_whose_zygote_is_killed_is_cut_short_and_its_process_dead(tmp_path: Path) -> None:
    with plain_host(tmp_path) as host:
        zygote = zygote_of(host)

        def kill(question: Any) -> dict[str, Any]:
            if question == {"number": 0}:
                kill_for_good(zygote)
            return {}

        with pytest.raises(InterruptedTaskError):
            host.run(order("ask"), on_ask=kill)
        assert host.run(order("answer")).output is not None


def states_of(pids: list[int]) -> list[str]:
    """Without those that were reaped since they were listed."""
    states = []
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            states.append(status(pid)["State"][0])
    return states


@pytest.mark.req("EI-09")
def test_the_dead_are_reaped_without_being_asked_for(tmp_path: Path) -> None:
    with plain_host(tmp_path) as host:
        for _ in range(20):
            host.run(order("answer"))
        zygote = zygote_of(host)
        states: list[str] = []
        for _ in range(500):
            states = states_of(children_of(zygote))
            if "Z" not in states:
                break
            select.select([], [], [], 0.01)
        assert "Z" not in states
        assert len(states) <= AHEAD + 1


@pytest.mark.req("EI-12")
def test_a_child_that_dies_before_it_has_read_its_order_has_begun_nothing(zygote: Zygote) -> None:
    """And so the host gives the order to another one."""
    lease = ChildHandle()
    child = zygote.claim_child(lease)
    settle_in(child)
    child.signal(signal.SIGSTOP)
    threading.Timer(0.1, child.signal, [signal.SIGKILL]).start()
    with pytest.raises(NeverStartedError):
        converse(child, order("answer"))
    child.close()


@pytest.mark.req("EI-12")
def test_a_child_that_dies_after_it_has_read_its_order_may_have_begun(zygote: Zygote) -> None:
    lease = ChildHandle()
    child = zygote.claim_child(lease)
    threading.Timer(0.3, child.signal, [signal.SIGKILL]).start()
    with pytest.raises(InterruptedTaskError):
        converse(child, order("sleep", seconds=60))
    child.close()
