"""What gets into the ledger can be exported and checked again; everything else is refused before it is written."""

import io
from typing import Any

import pytest

from remit.contracts.ledger import MAX_PAYLOAD_DEPTH, MAX_PAYLOAD_VALUES
from remit.core.errors import Reason, RefusedError
from remit.ledger.bundle import verify_bundle, write_bundle
from remit.ledger.entry import NewEntry
from remit.ledger.writer import MAX_PAYLOAD
from tests.support.sampling import some
from tests.support.store_fixtures import World

IDS = ["tenant_id", "correlation_id", "task_id", "capability_id", "actor"]
BAD_IDS = {
    "empty": "",
    "NUL": "a\0b",
    "newline": "a\nb",
    "escape": "\x1b[31m",
    "right-to-left": "a\u202eb",
    "too long": "x" * 201,
    "half a character": "\ud800",
    "a number": 7,
}
GOOD = {"tenant_id": "acme", "kind": "test.event", "correlation_id": "corr", "payload": {}}


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"in": value}
    return value


def event(**changes: Any) -> NewEntry:
    return NewEntry(**{**GOOD, **changes})


def assert_refused(world: World, bad: NewEntry, reason: Reason = Reason.MALFORMED) -> RefusedError:
    """Refused, with nothing written, and the next one goes through."""
    with pytest.raises(RefusedError) as caught:
        world.ledger.append(bad)
    assert caught.value.reason is reason
    world.ledger.append(event())
    verdict = world.verify()
    assert verdict.findings == []
    assert verdict.entries == 1
    return caught.value


@pytest.mark.parametrize("bad", some(BAD_IDS.values(), 3), ids=BAD_IDS)
@pytest.mark.parametrize("name", IDS)
def test_a_bad_id_is_refused_by_name(world: World, name: str, bad: Any) -> None:
    assert name in assert_refused(world, event(**{name: bad})).where


@pytest.mark.parametrize("kind", ["", "Test", "test event", "a\n", "x" * 101, "9lives"])
def test_a_bad_kind_is_refused(world: World, kind: str) -> None:
    assert "kind" in assert_refused(world, event(kind=kind)).where


@pytest.mark.parametrize(
    "payload",
    [
        {"x": float("nan")},
        {"x": 2**53},
        {"x": 2.0**60},
        {"x": "\ud800"},
        {"x": object()},
        ["no object"],
        nested(MAX_PAYLOAD_DEPTH + 1),
        {"many": [0] * MAX_PAYLOAD_VALUES},
    ],
    ids=["nan", "too large", "too large a float", "half a character", "no JSON", "a list", "too deep", "too many"],
)
def test_a_payload_that_could_not_be_checked_again_is_refused(world: World, payload: Any) -> None:
    assert_refused(world, event(payload=payload))


def test_a_payload_larger_than_the_limit_is_refused(world: World) -> None:
    room = MAX_PAYLOAD - len('{"text":""}')
    assert_refused(world, event(payload={"text": "x" * (room + 1)}), Reason.TOO_LARGE)


@pytest.mark.parametrize(
    "payload",
    [
        nested(MAX_PAYLOAD_DEPTH - 1),
        {"many": [0] * (MAX_PAYLOAD_VALUES - 10)},
        {str(number): number for number in range(30_000)},
        {"x": [1.0, -0.0, 1e300, 5e-324, 2**53 - 1, True, None, ""]},
        {"\U0001f600": "\U0001f600", "\uffff": 1, "é": 2},
    ],
    ids=["deep", "many", "wide", "numbers", "names"],
)
def test_whatever_is_accepted_can_be_exported_and_checked(world: World, payload: dict[str, Any]) -> None:
    world.ledger.append(event(payload=payload))
    out = io.BytesIO()
    write_bundle(world.store, out, "acme", world.clock)
    out.seek(0)
    assert verify_bundle(out, world.keyring, source="bundle").findings == []
    assert world.verify().holds
