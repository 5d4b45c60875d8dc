"""The types of fields: one form for each value, and nothing taken that could mean two things."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from remit.contracts.goals.simulation import FieldSpec
from remit.core.errors import RefusedError
from remit.goals.binding.fields import fingerprint, problem_with, read_text, require_fields
from tests.goals.catalogue.simulations import REFUND, changed, simulation

SPEC: TypeAdapter[FieldSpec] = TypeAdapter(FieldSpec)
EUR: Any = {"value": "12.50", "currency": "EUR"}


def spec(kind: str, **more: Any) -> FieldSpec:
    return SPEC.validate_python({"type": kind, "question": "?", **more})


def test_what_each_type_reads_from_a_text() -> None:
    amount, dollars = spec("amount"), spec("amount", currencies=["USD", "EUR"])
    taken: list[tuple[FieldSpec, str, Any]] = [
        (amount, "12.50 EUR", EUR),
        (amount, "EUR 12,50", EUR),
        (amount, "12.5€", EUR),
        (amount, "€12.50", EUR),
        (amount, "１２.５０ eur", EUR),
        (amount, "007 EUR", {"value": "7.00", "currency": "EUR"}),
        (amount, "1,250 EUR", None),
        (amount, "1.250,00 EUR", None),
        (amount, "-5 EUR", None),
        (amount, "$5", None),
        (dollars, "$5", {"value": "5.00", "currency": "USD"}),
        (dollars, "5 GBP", None),
        (amount, "5", None),
        (spec("identifier"), "A-17", "A-17"),
        (spec("identifier"), "a b", None),
        (spec("identifier"), "../x", None),
        (spec("identifier", pattern="[A-Z]-[0-9]+"), "A-17", "A-17"),
        (spec("identifier", pattern="[A-Z]-[0-9]+"), "A-17x", None),
        (spec("integer", minimum=1, maximum=9), "٧", 7),
        (spec("integer", minimum=1, maximum=9), "10", None),
        (spec("integer"), "1e3", None),
        (spec("date"), "2026-02-28", "2026-02-28"),
        (spec("date"), "2026-02-30", None),
        (spec("date"), "28.02.2026", None),
        (spec("email"), "Mia@example.org", "Mia@example.org"),
        (spec("email"), "mia@example", None),
        (spec("email"), "a@b..org", None),
        (spec("choice", choices=["Blue", "Dark red"]), "DARK  RED", "Dark red"),
        (spec("choice", choices=["Blue", "Dark red"]), "red", None),
        (spec("path"), "notes/a.txt", "notes/a.txt"),
        (spec("text", max_length=5), "hello", "hello"),
        (spec("text", max_length=5), "hello!", None),
        (spec("text"), "a\u202eb", None),
    ]
    assert [(text, read_text(kind, text)) for kind, text, _ in taken] == [(text, value) for _, text, value in taken]


def test_a_path_cannot_lead_out() -> None:
    for path in ("/etc/passwd", "..", "a/../b", "./a", "a//b", "a/", "", "a\\b", "a\nb", "x" * 501):
        assert problem_with(spec("path"), path), path


def test_a_value_of_another_shape_is_no_value() -> None:
    wrong: list[tuple[FieldSpec, Any]] = [
        (spec("integer"), True),
        (spec("integer"), 1.0),
        (spec("integer"), 10**15),
        (spec("amount"), "12.50 EUR"),
        (spec("amount"), {**EUR, "more": 1}),
        (spec("amount"), {"value": 12.5, "currency": "EUR"}),
        (spec("amount"), {"value": "12.5", "currency": "EUR"}),
        (spec("amount"), {"value": "012.50", "currency": "EUR"}),
        (spec("text"), ["x"]),
        (spec("text"), "  "),
        (spec("text"), "a\nb"),
        (spec("choice", choices=["a"]), "A"),
        (spec("identifier"), 17),
    ]
    assert [value for kind, value in wrong if not problem_with(kind, value)] == []


def test_a_pattern_cannot_take_long() -> None:
    slow = spec("text", max_length=1000, pattern="(a+)+$")
    assert problem_with(slow, "a" * 999 + "b") == "this does not match the field's pattern"


@pytest.mark.parametrize(
    "fields, said",
    [
        ({"order_id": "A-17"}, "field amount"),
        ({"order_id": "A-17", "amount": EUR, "x": 1}, "field x"),
        ({"order_id": "a b", "amount": EUR}, "field order_id"),
    ],
)
def test_missing_extra_and_wrong_fields_are_refused_by_name(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(RefusedError) as refused:
        require_fields(simulation(REFUND), fields)
    assert said in refused.value.where


def test_the_fingerprint_depends_on_values_and_not_on_their_order() -> None:
    one: dict[str, Any] = {"order_id": "A-17", "amount": EUR}
    assert fingerprint(one) == fingerprint(dict(reversed(one.items())))
    assert fingerprint(one) != fingerprint({**one, "order_id": "A-18"})


def test_questions_come_in_the_order_of_the_file_also_after_a_round_trip() -> None:
    turned = changed(REFUND, fields=dict(reversed(REFUND["fields"].items())))
    read = simulation(turned)
    again = simulation(read.tree())
    assert read.required == again.required == ("amount", "order_id")
    assert read.own_digest == again.digest() != simulation(REFUND).own_digest
