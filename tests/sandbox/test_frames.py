"""What host and child say to each other is cut into messages again, within bounds."""

from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.effects.registry import PathUse
from remit.parsing import parse_json
from remit.sandbox.framing import MAX_FRAME, MAX_FRAMES, FrameReader, FramingError, encode_frame
from remit.sandbox.orders import FolderGrant

NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1)
MESSAGES = st.lists(st.dictionaries(st.text(max_size=5), NUMBERS | st.text(max_size=30)), max_size=8)


@given(MESSAGES, st.lists(st.integers(1, 40), min_size=1))
def test_messages_come_out_as_they_went_in_however_the_bytes_are_cut(messages: list[Any], cuts: list[int]) -> None:
    stream, reader, got = b"".join(map(encode_frame, messages)), FrameReader(), []
    place = turn = 0
    while place < len(stream):
        size = cuts[turn % len(cuts)]
        got += [parse_json(frame) for frame in reader.feed(stream[place : place + size])]
        place, turn = place + size, turn + 1
    assert got == messages


def test_a_message_that_is_too_large_is_refused_by_its_length_alone() -> None:
    reader = FrameReader()
    with pytest.raises(FramingError, match="1,048,576 bytes"):
        list(reader.feed((MAX_FRAME + 1).to_bytes(4, "big")))


def test_a_message_of_the_largest_size_is_read() -> None:
    body = b'"' + b"x" * (MAX_FRAME - 2) + b'"'
    assert list(FrameReader().feed(MAX_FRAME.to_bytes(4, "big") + body)) == [body]


def test_more_messages_than_agreed_are_refused() -> None:
    reader = FrameReader()
    assert len(list(reader.feed(encode_frame({}) * MAX_FRAMES))) == MAX_FRAMES
    with pytest.raises(FramingError, match="more than 1,000 messages"):
        list(reader.feed(encode_frame({})))


def test_an_order_with_steps_may_say_more() -> None:
    reader = FrameReader(MAX_FRAMES + 8)
    assert len(list(reader.feed(encode_frame({}) * (MAX_FRAMES + 8)))) == MAX_FRAMES + 8
    with pytest.raises(FramingError, match="more than 1,008 messages"):
        list(reader.feed(encode_frame({})))


def test_half_a_message_waits_for_its_other_half() -> None:
    reader, frame = FrameReader(), encode_frame({"a": 1})
    assert list(reader.feed(frame[:-1])) == []
    assert list(reader.feed(frame[-1:])) == [b'{"a":1}']


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, object(), b"bytes"])
def test_what_json_cannot_say_is_not_sent(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        encode_frame({"value": value})


def test_what_would_be_refused_on_the_other_side_is_not_sent() -> None:
    with pytest.raises(FramingError):
        encode_frame({"value": "x" * MAX_FRAME})


def test_read_only_mappings_and_small_dataclasses_are_sent_as_objects() -> None:
    frame = encode_frame({"m": MappingProxyType({"a": (1,)}), "p": FolderGrant("/b", ("c",), "d", PathUse.TAKE)})
    assert parse_json(frame[4:]) == {
        "m": {"a": [1]},
        "p": {"base": "/b", "parents": ["c"], "name": "d", "use": "take"},
    }
