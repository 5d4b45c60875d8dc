"""Functions that are awaited."""

import asyncio
from typing import Any

import pytest

from remit.errors import Misuse
from remit.governed import acting, governed
from tests.governed.place import Place, result_of


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
        with pytest.raises(Misuse):
            put.call(token=token, key="later-3", percent=5)
        both = await asyncio.gather(*(put.acall(token=token, key="later-4", percent=9) for _ in range(4)))
        assert sorted(answer.stored for answer in both) == [False, True, True, True]

    asyncio.run(main())
    assert result_of(put.call(token=token, key="later-5", percent=8)).value == 8, "without a loop it has one of its own"
    assert loops[-1] is not loops[0]
