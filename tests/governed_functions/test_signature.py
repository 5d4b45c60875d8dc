"""The signatures that make a closed model of an agent's arguments."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from remit.calls.signature import model_of
from remit.contracts.base import Contract
from remit.core.errors import RefusedError, UsageError


class Address(Contract):
    city: str


def full(
    text: Annotated[str, Field(max_length=5)],
    number: int | None,
    kind: Literal["a", "b"],
    items: list[dict[str, float]],
    address: Address,
    flag: bool = False,  # noqa: FBT001, FBT002 - as somebody may write it
) -> None: ...


def unannotated(value) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001 - that is the point
def anything(value: Any) -> None: ...
def loose(value: list[Any]) -> None: ...
def bare(value: dict) -> None: ...  # type: ignore[type-arg]
def by_number(value: dict[int, str]) -> None: ...
def dated(value: datetime) -> None: ...
def precise(value: Decimal) -> None: ...
def many(*value: int) -> None: ...
def named(**value: int) -> None: ...
def unnamed(value: int, /) -> None: ...
def reserved(token: str) -> None: ...
def shadowing(tree: str) -> None: ...
def hidden(_value: str) -> None: ...


GIVEN: dict[str, Any] = {"text": "abc", "number": None, "kind": "a", "items": [{"x": 1.5}], "address": {"city": "Bern"}}


def test_a_closed_signature_makes_a_closed_model() -> None:
    model = model_of(full, "test.full")
    made: Any = model.from_tree(GIVEN)
    assert (made.address.city, made.flag) == ("Bern", False)
    wrong: list[dict[str, Any]] = [
        {"text": "abcdef"},
        {"number": "1"},
        {"kind": "c"},
        {"address": {"city": "Bern", "zip": 1}},
        {"flag": 1},
    ]
    for change in wrong:
        with pytest.raises(RefusedError):
            model.from_tree({**GIVEN, **change})


def test_a_signature_that_leaves_something_open_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[Any] = [
        unannotated,
        anything,
        loose,
        bare,
        by_number,
        dated,
        precise,
        many,
        named,
        unnamed,
        reserved,
        shadowing,
        hidden,
    ]
    for function in cases:
        with subtests.test(function=function), pytest.raises(UsageError, match="must describe every argument"):
            model_of(function, "test.open")
