"""An order with steps: what is said of them is heard in order, each has its time, and the caller can cancel."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remit.core.errors import Reason
from remit.sandbox.host import CancelledError, InterruptedTaskError, SandboxHost
from tests.sandbox.plain_host import MIB, QUOTAS
from tests.sandbox.stepping_host import said, stepping_host, steps
from tests.support.patience import SOON


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxHost]:
    with stepping_host(tmp_path_factory.mktemp("steps")) as made:
        yield made


def test_step_messages_arrive_in_order_and_unchanged(host: SandboxHost) -> None:
    messages = [
        said(0, "begun"),
        said(0, "staged"),
        said(1, "begun"),
        said(1, "failed", error={"reason": "file_missing", "what": "gone", "where": "a", "next_step": "Look."}),
        said(0, "done", at=["sha256:00", 3, 420]),
        said(2, "skipped", reason="it depends on another"),
    ]
    heard: list[Mapping[str, Any]] = []
    host.run(steps("say", (5.0,) * 3, messages=messages), on_step=heard.append)
    assert heard == messages


def test_steps_without_a_listener_are_still_checked(host: SandboxHost) -> None:
    host.run(steps("say", (5.0,), messages=[said(0, "begun")]))
    with pytest.raises(InterruptedTaskError, match="not answer as agreed"):
        host.run(steps("say", (5.0,), messages=[said(1, "begun")]))


@pytest.mark.req("EI-15")
@pytest.mark.parametrize(
    "message", [{}, said(0, "granted"), said(7, "begun"), said(0, "done"), {"number": 0}, said(0, "failed", error=1)]
)
def test_what_is_not_agreed_ends_the_order(host: SandboxHost, message: dict[str, Any]) -> None:
    heard: list[Mapping[str, Any]] = []
    with pytest.raises(InterruptedTaskError, match="not answer as agreed") as cut:
        host.run(steps("say", (5.0,) * 2, messages=[message, 30.0]), on_step=heard.append)
    assert cut.value.reason is Reason.EFFECT_FAILED
    assert heard == []


def test_a_task_without_steps_cannot_speak_of_any(host: SandboxHost) -> None:
    with pytest.raises(InterruptedTaskError, match="not answer as agreed"):
        host.run(steps("say", messages=[said(0, "begun")]))


def test_what_the_listener_raises_ends_the_order_and_comes_out(host: SandboxHost) -> None:
    def on_step(_: Mapping[str, Any]) -> None:
        raise ZeroDivisionError

    began = time.monotonic()
    with pytest.raises(ZeroDivisionError):
        host.run(steps("say", (60.0,), messages=[said(0, "begun"), 30.0]), on_step=on_step)
    assert time.monotonic() - began < SOON


@pytest.mark.parametrize("count, fits", [(999 + 40, True), (1001 + 40, False)])
def test_an_order_may_say_four_things_more_for_each_step(host: SandboxHost, count: int, fits: bool) -> None:  # noqa: FBT001
    asked = steps("say", (5.0,) * 10, messages=[said(0, "diff")] * count)
    heard: list[Mapping[str, Any]] = []
    if fits:
        host.run(asked, on_step=heard.append)  # and one message more: that it is done
        assert len(heard) == count
    else:
        with pytest.raises(InterruptedTaskError, match="more than 1,040 messages"):
            host.run(asked)


def test_a_question_can_be_asked_before_each_of_a_thousand_steps(host: SandboxHost) -> None:
    asked = steps("ask_between", (5.0,) * 1_000, seconds=60.0, count=1_000)
    finished = host.run(asked, on_ask=lambda question: {"go": question["wave"] % 2 == 0})
    assert finished.output == {"answers": [True, False] * 500}


# --- time ------------------------------------------------------------------------------------------------------------


@pytest.mark.req("EI-10")
def test_a_step_that_is_too_slow_is_killed_and_named(host: SandboxHost) -> None:
    messages = [said(0, "begun"), said(0, "done"), said(1, "begun"), 30.0]
    began = time.monotonic()
    with pytest.raises(InterruptedTaskError, match=r"step 2 took longer than 0.2 seconds") as cut:
        host.run(steps("say", (0.1, 0.2, 60.0), seconds=60.0, messages=messages))
    assert 0.2 < time.monotonic() - began < SOON
    assert (cut.value.reason, cut.value.step) == (Reason.TIMED_OUT, 1)
    assert "timeout_seconds" in cut.value.next_step


@pytest.mark.req("EI-10")
def test_steps_may_take_together_what_none_may_take_alone(host: SandboxHost) -> None:
    each = [[said(number, "begun"), 0.15, said(number, "staged")] for number in range(3)]
    messages = [*(part for step in each for part in step), 0.3, *(said(number, "done") for number in range(3))]
    finished = host.run(steps("say", (0.3,) * 3, seconds=10.0, messages=messages))
    assert finished.usage.seconds > 0.7


def test_a_step_that_was_never_ended_is_looked_at_when_the_order_is_done(host: SandboxHost) -> None:
    with pytest.raises(InterruptedTaskError) as cut:
        host.run(steps("say", (0.0,), seconds=10.0, messages=[said(0, "begun")]))
    assert (cut.value.reason, cut.value.step) == (Reason.TIMED_OUT, 0)


@pytest.mark.req("EI-10")
@pytest.mark.parametrize("running", [True, False])
def test_the_whole_order_has_its_own_time_instead_of_the_hosts(host: SandboxHost, running: bool) -> None:  # noqa: FBT001
    messages = [said(0, "begun"), 30.0] if running else [30.0]
    began = time.monotonic()
    with pytest.raises(InterruptedTaskError, match=r"longer than 0.3 seconds in all") as cut:
        host.run(steps("say", (60.0,), seconds=0.3, messages=messages))
    assert 0.3 < time.monotonic() - began < SOON
    assert (cut.value.reason, cut.value.step) == (Reason.TIMED_OUT, 0 if running else None)


def test_an_order_may_have_more_time_than_the_host_gives_to_a_task(tmp_path: Path) -> None:
    with stepping_host(tmp_path, replace(QUOTAS, seconds=0.2)) as host:
        assert host.run(steps("say", seconds=5.0, messages=[0.5])).output == {}
        with pytest.raises(InterruptedTaskError, match=r"longer than 0.2 seconds") as cut:
            host.run(steps("say", messages=[30.0]))
        assert cut.value.reason is Reason.RESOURCE_EXHAUSTED, "a task's own quota"


def test_a_question_stops_the_clocks(host: SandboxHost) -> None:
    def think(_: Mapping[str, Any]) -> Mapping[str, Any]:
        time.sleep(0.4)
        return {"go": True}

    assert host.run(steps("ask_between", (0.3,), seconds=0.3, count=1), on_ask=think).output == {"answers": [True]}


# --- other ends ------------------------------------------------------------------------------------------------------


def test_a_quota_names_the_step_that_passed_it(host: SandboxHost) -> None:
    with pytest.raises(InterruptedTaskError, match="bytes of memory") as cut:
        host.run(steps("eat", (5.0,), bytes=QUOTAS.memory_bytes + MIB))
    assert (cut.value.reason, cut.value.step) == (Reason.RESOURCE_EXHAUSTED, 0)


def test_so_does_a_death(host: SandboxHost) -> None:
    with pytest.raises(InterruptedTaskError, match=r"by itself \(7\)") as cut:
        host.run(steps("vanish", (5.0,) * 2))
    assert (cut.value.reason, cut.value.step) == (Reason.EFFECT_FAILED, 1)


def test_a_cancelled_order_ends_at_the_next_look(host: SandboxHost) -> None:
    heard: list[Mapping[str, Any]] = []
    began = time.monotonic()
    with pytest.raises(CancelledError) as cut:
        host.run(
            steps("say", (60.0,), seconds=60.0, messages=[said(0, "begun"), 30.0]),
            on_step=heard.append,
            is_cancelled=lambda: bool(heard),
        )
    assert time.monotonic() - began < SOON
    assert (cut.value.reason, cut.value.step) == (Reason.CANCELLED, 0)


def test_it_is_asked_however_much_the_child_has_to_say(host: SandboxHost) -> None:
    asked: list[float] = []

    def is_cancelled() -> bool:
        asked.append(time.monotonic())
        return False

    messages = [part for _ in range(100) for part in (said(0, "diff"), 0.002)]
    host.run(steps("say", (5.0,), messages=messages), is_cancelled=is_cancelled)
    assert len(asked) > 5
