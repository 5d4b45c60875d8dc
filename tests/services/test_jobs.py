"""Work under way: joined by whoever wants the same, bounded, followed, and let go of when this process ends."""

import asyncio
import contextvars
import gc
import threading
import weakref
from collections.abc import Callable

import pytest

from remit.core.errors import Reason, RefusedError
from remit.services.base import jobs as work_module
from remit.services.base.jobs import Job, JobRunner

SOON = 10.0


def start_job(work: JobRunner, key: str, gate: threading.Event, owner: str = "agent:bot") -> Job[str]:
    def wait(job: Job[str]) -> str:
        gate.wait(SOON)
        return job.key

    return work.start(key, wait, subject=f"thing:{key}", owner=owner)


def test_equal_requests_are_one_job_and_all_callers_get_its_result() -> None:
    work, gate = JobRunner(), threading.Event()
    first, second = start_job(work, "a", gate), start_job(work, "a", gate)
    other = start_job(work, "b", gate)
    assert first is second
    assert other is not first
    assert not first.wait(0)
    assert work.find("thing:a") is first
    gate.set()
    assert first.wait(SOON)
    assert (first.result(), other.wait(SOON), other.result()) == ("a", True, "b")
    assert work.close()
    assert work.find("thing:a") is first, "kept for a while"


def test_the_same_request_after_the_end_was_reported_is_a_new_job() -> None:
    """Else a caller that asks again at once is told of the ended job that nothing is stored."""
    work, gate = JobRunner(), threading.Event()
    first = start_job(work, "a", gate)
    asked: list[Job[str]] = []
    # Called when callers are told, before they run.
    first._wake_callbacks.append(lambda: asked.append(start_job(work, "a", gate)))  # noqa: SLF001
    gate.set()
    assert first.wait_until_ended(SOON)
    assert work.close()
    assert [job is first for job in asked] == [False]


def test_before_this_process_ends_waiting_callers_are_released_and_the_work_continues() -> None:
    work, gate = JobRunner(), threading.Event()
    job = start_job(work, "a", gate)
    told: list[bool] = []
    waiting = threading.Thread(target=lambda: told.append(job.wait(60)))
    waiting.start()
    work.release_waiters()
    waiting.join(SOON)
    assert told == [False]
    assert not start_job(work, "b", gate).wait(60), "nor does anybody wait who comes later"
    threading.Timer(0.05, gate.set).start()
    assert work.close(SOON), "it was not waited for"
    assert job.result() == "a"


def test_the_error_of_a_job_is_raised_to_the_caller_that_waits() -> None:
    work = JobRunner()

    def fail(_job: Job[str]) -> str:
        raise RefusedError(Reason.EXPIRED, "too late")

    job = work.start("k", fail, subject="s", owner="o")
    assert job.wait(SOON)
    with pytest.raises(RefusedError, match="too late"):
        job.result()


def test_neither_one_caller_nor_all_together_can_exceed_the_limits_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_module, "MAX_PER_OWNER", 3)
    monkeypatch.setattr(work_module, "MAX_QUEUED", 2)
    work, gate = JobRunner(most=2), threading.Event()
    for number in range(3):
        start_job(work, f"greedy {number}", gate)
    with pytest.raises(RefusedError) as refused:
        start_job(work, "one more", gate)
    assert refused.value.reason is Reason.RESOURCE_EXHAUSTED
    start_job(work, "modest", gate, owner="agent:other")
    with pytest.raises(RefusedError, match="too many requests are in progress"):
        start_job(work, "late", gate, owner="agent:third")
    assert work.running + work.waiting == 4
    gate.set()
    assert work.close()


def test_closing_cancels_running_jobs_and_starts_no_more() -> None:
    work, tick, begun = JobRunner(most=1), threading.Event(), threading.Event()
    seen: list[str] = []

    def until_cancelled(job: Job[None]) -> None:
        begun.set()
        while not job.is_cancelled:
            tick.wait(0.01)
        seen.append("cancelled")

    running = work.start("a", until_cancelled, subject="a", owner="o")
    assert begun.wait(SOON)
    in_line = start_job(work, "in line", threading.Event())
    assert work.close(SOON)
    assert in_line.wait(0)
    with pytest.raises(RefusedError, match="about to end"):
        in_line.result()
    assert (seen, running.is_running, work.active_jobs()) == (["cancelled"], False, [])
    with pytest.raises(RefusedError, match="about to end"):
        start_job(work, "b", threading.Event())


def test_a_job_carries_the_context_of_its_caller() -> None:
    request = contextvars.ContextVar("request", default="nobody's")
    work = JobRunner()
    request.set("mine")
    job = work.start("k", lambda _job: request.get(), subject="s", owner="o")
    assert job.wait(SOON)
    assert job.result() == "mine"


def test_only_so_many_ended_jobs_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_module, "MAX_REMEMBERED", 5)
    work = JobRunner()
    for number in range(20):
        assert work.start(f"k{number}", lambda _job: None, subject=f"s{number}", owner="o").wait(SOON)
    assert work.close()
    kept = [number for number in range(20) if work.find(f"s{number}") is not None]
    assert len(kept) <= 6
    assert 0 not in kept


def test_an_event_loop_waits_without_a_thread_and_goes_on_meanwhile() -> None:
    work, gate = JobRunner(), threading.Event()
    job = start_job(work, "a", gate)

    async def wait() -> tuple[bool, bool, bool, bool]:
        too_short = await job.wait_async(0.01)
        several = asyncio.gather(job.wait_async(SOON), job.wait_async(SOON))
        await asyncio.sleep(0)
        gate.set()
        return too_short, *await several, await job.wait_async(0)

    assert asyncio.run(wait()) == (False, True, True, True)
    assert job.result() == "a"
    assert not job._wake_callbacks  # noqa: SLF001 - nobody is told who has gone
    work.close()


def test_a_waiting_event_loop_is_released_too_and_one_that_has_ended_disturbs_no_job() -> None:
    work, gate = JobRunner(), threading.Event()
    job = start_job(work, "a", gate)
    told: list[Callable[[], None]] = []

    def end() -> None:
        told.extend(job._wake_callbacks)  # noqa: SLF001 - as a job does that ends at this moment
        work.release_waiters()

    async def wait() -> bool:
        asyncio.get_running_loop().call_soon(end)
        return await job.wait_async(SOON)

    assert asyncio.run(wait()) is False
    [wake] = told
    wake()
    gate.set()
    assert job.wait_until_ended(SOON)
    work.close()


def test_with_one_running_job_per_owner_no_owner_takes_all_threads() -> None:
    work = JobRunner(2, one_per_owner=True)
    gate, begun = threading.Event(), threading.Semaphore(0)

    def hold(_: Job[None]) -> None:
        begun.release()
        gate.wait(SOON)

    mine = [work.start(f"mine{number}", hold, subject=f"mine{number}", owner="mine") for number in range(3)]
    assert begun.acquire(timeout=SOON)
    other = work.start("other", lambda _: "done", subject="other", owner="other")
    assert other.wait(SOON), "a thread is left for another owner"
    assert [job.is_running for job in mine] == [True] * 3
    assert not begun.acquire(blocking=False), "the second of the same owner is not begun"
    gate.set()
    assert all(job.wait(SOON) for job in mine)
    assert work.close()


def test_a_job_that_has_ended_holds_nothing_of_what_was_sent() -> None:
    class Sent:
        """Something large."""

    work, sent = JobRunner(), Sent()
    left = weakref.ref(sent)

    def use(_: Job[bool], sent: Sent = sent) -> bool:
        return sent is not None

    job = work.start("large", use, subject="large", owner="mine")
    assert job.wait(SOON)
    assert job.result()
    del sent, use
    gc.collect()
    assert work.find("large") is job, "it is still known"
    assert left() is None
    assert work.close()
