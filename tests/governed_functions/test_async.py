"""Calls of async functions."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from remit.calls.function import Invoker
from remit.contracts.calls.call import CallAnswer
from remit.core.errors import UsageError
from remit.governed_functions import acting, governed, value_of
from tests.governed_functions.customer_workspace import ADA, Place, result_of


def test_an_awaited_function_runs_in_the_callers_loop_and_is_undone_there(place: Place) -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    async def restore(before: Any, **_: Any) -> None:
        loops.append(asyncio.get_running_loop())
        place.discounts["acme"] = before

    async def before(**_: Any) -> int:
        await asyncio.sleep(0)
        return 3

    @governed(place.workspace, "later.set", consent="none", undo=restore, before=before)
    async def put(percent: int) -> int:
        loops.append(asyncio.get_running_loop())
        place.discounts["acme"] = percent
        if percent > 50:
            raise ValueError(percent)
        await asyncio.sleep(0)
        return percent

    token = place.token("later.set")

    async def main() -> None:
        assert result_of(await put.acall(token=token, key="later-1", percent=5)).value == 5
        failed = result_of(await put.acall(token=token, key="later-2", percent=60))
        assert (failed.effect, place.discounts["acme"]) == ("undone", 3)
        with acting(token):
            assert await put(7) == 7
        assert set(loops) == {asyncio.get_running_loop()}
        with pytest.raises(UsageError):
            put.call(token=token, key="later-3", percent=5)
        both = await asyncio.gather(*(put.acall(token=token, key="later-4", percent=9) for _ in range(4)))
        assert sorted(answer.stored for answer in both) == [False, True, True, True]

    asyncio.run(main())
    assert result_of(put.call(token=token, key="later-5", percent=8)).value == 8, "without a loop it gets its own"
    assert loops[-1] is not loops[0]


def test_functions_that_call_others_never_wait_for_a_thread(place: Place) -> None:
    @governed(place.workspace, "later.inner", consent="none", read_only=True)
    async def inner(number: int) -> int:
        return number

    @governed(place.workspace, "later.outer", consent="none", read_only=True)
    async def outer(number: int) -> int:
        within: int = value_of(await inner.acall(token=token, key=f"inner-{number}", number=number))
        return within

    token = place.token("later.inner", "later.outer")

    async def main() -> list[CallAnswer]:
        used: list[str] = []
        executor = ThreadPoolExecutor(1, initializer=used.append, initargs=("by us",))
        asyncio.get_running_loop().set_default_executor(executor)
        calls = [outer.acall(token=token, key=f"outer-{number}", number=number) for number in range(6)]
        async with asyncio.timeout(20):
            answers = await asyncio.gather(*calls)
        assert not used, "the few threads of the host are taken"
        return answers

    assert [result_of(answer).value for answer in asyncio.run(main())] == list(range(6))


def test_no_thread_waits_for_a_person(place: Place) -> None:
    @governed(place.workspace, "later.asked")
    async def asked(number: int) -> int:
        place.calls.append(str(number))
        return number

    token = place.token("later.asked")

    async def main() -> None:
        numbers = range(5)
        calls = [
            asyncio.create_task(asked.acall(token=token, key=f"asked-{number}", wait=None, number=number))
            for number in numbers
        ]
        short = await asked.acall(token=token, key="asked-0", wait=0.01, number=0)
        assert short.state == "waiting"
        async with asyncio.timeout(20):
            while len(place.pending()) < len(numbers) or _at_work():  # noqa: ASYNC110 - threads have no such event
                await asyncio.sleep(0.01)
            for question in place.pending():
                place.workspace.approvals.decide(
                    question.approval_id, approved=question.action_id != "asked-4", who=ADA
                )
            answers = [result_of(answer) for answer in await asyncio.gather(*calls)]
        assert [answer.value for answer in answers] == [0, 1, 2, 3, None]
        assert answers[-1].error is not None
        assert answers[-1].error.code == "approval_denied"

    asyncio.run(main())
    assert sorted(place.calls) == ["0", "1", "2", "3"]


def test_a_caller_does_not_wait_for_a_loop_that_ended_first(place: Place) -> None:
    @governed(place.workspace, "later.cut", consent="none", undo=lambda *_, **__: place.calls.append("undone"))
    async def cut(number: int) -> int:
        begun.set()
        await asyncio.sleep(60)
        return number

    token, begun = place.token("later.cut"), asyncio.Event()

    async def main() -> None:
        task = asyncio.create_task(cut.acall(token=token, key="cut-1", number=1))
        await begun.wait()
        task.cancel()

    asyncio.run(main())
    for thread in threading.enumerate():
        if thread.name == "remit-call":
            thread.join(20)
    answer = cut.call(token=token, key="cut-1", number=1)
    assert (answer.stored, result_of(answer).effect, place.calls) == (True, "undone", ["undone"])


def test_a_loop_that_was_closed_before_it_ran_the_call_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remit.calls.function._POLL_SECONDS", 0.01)

    async def seven() -> int:
        return 7

    loop = asyncio.new_event_loop()
    threading.Timer(0.05, loop.close).start()
    with pytest.raises(RuntimeError, match="the event loop ended"):
        Invoker(loop)(seven)
    assert Invoker(loop)(seven) == 7, "an open awaitable runs in its own loop"


def _at_work() -> bool:
    return any(thread.name == "remit-call" for thread in threading.enumerate())
