"""What leaves together: a head with the first of its body, and never more than that is held back."""

import asyncio
import contextlib
from typing import Any

from remit.web.http.uvicorn_protocol import CoalescingTransport

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


class Wire(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []

    def write(self, data: Any) -> None:
        self.sent.append(bytes(data))

    def close(self) -> None:
        self.sent.append(b"closed")


def gathered(*writes: bytes, turns: bool = False, close: bool = False) -> list[bytes]:
    wire = Wire()

    async def write() -> None:
        transport = CoalescingTransport(wire, asyncio.get_running_loop())
        for data in writes:
            transport.write(data)
            if turns:
                await asyncio.sleep(0)
        if close:
            transport.close()
        before = len(wire.sent)
        await asyncio.sleep(0)
        assert not close or len(wire.sent) == before, "nothing follows the end"

    asyncio.run(write())
    return wire.sent


def test_a_head_leaves_with_the_first_of_its_body() -> None:
    assert gathered(HEAD, b"body", b"more", b"") == [HEAD + b"body", b"more"]


def test_a_head_without_a_body_and_one_whose_body_comes_later_leave_when_the_loop_comes_round() -> None:
    assert gathered(HEAD) == [HEAD]
    assert gathered(HEAD, b"event", b"event", turns=True) == [HEAD, b"event", b"event"]


def test_the_end_comes_after_all_that_was_written() -> None:
    assert gathered(HEAD, close=True) == [HEAD, b"closed"]
    assert gathered(HEAD, b"body", close=True) == [HEAD + b"body", b"closed"]


def test_no_more_than_a_head_is_held_back_whatever_a_body_looks_like() -> None:
    assert gathered(HEAD, HEAD, HEAD, b"x") == [HEAD + HEAD, HEAD + b"x"]


def test_all_else_is_the_transports_own() -> None:
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        assert CoalescingTransport(Wire(), loop).get_extra_info("peername", "nobody") == "nobody"
