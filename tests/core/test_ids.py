"""Ids and times."""

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.core.ids import parse_time, render_time, system_clock, tenant_flag, uuid7

moments = st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001 - made aware


def test_uuid7_has_the_form_of_rfc_9562() -> None:
    # RFC 9562, appendix A.6
    at = datetime(2022, 2, 22, 19, 22, 22, tzinfo=UTC)
    fixed = bytes.fromhex("0cc318c4dc0c0c07398f")
    assert uuid7(at, lambda count: fixed[:count]) == "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"


@given(moments, moments)
def test_uuid7_sorts_by_time_to_the_millisecond(first: datetime, second: datetime) -> None:
    early, late = sorted((first, second))
    assert UUID(uuid7(early)).version == 7
    if late - early > timedelta(milliseconds=2):
        assert uuid7(early) < uuid7(late)


def test_uuid7_does_not_repeat_within_a_millisecond() -> None:
    at = system_clock()
    assert len({uuid7(at) for _ in range(1_000)}) == 1_000


@given(moments, moments)
def test_rendered_times_read_back_and_sort_as_times_do(first: datetime, second: datetime) -> None:
    assert parse_time(render_time(first)) == first
    assert (render_time(first) < render_time(second)) == (first < second)


@given(moments, st.integers(-14 * 60, 14 * 60))
def test_a_time_is_rendered_in_utc_whatever_its_zone(at: datetime, minutes: int) -> None:
    zone = timezone(timedelta(minutes=minutes))
    if at.year < 9999 and at.year > 1970:
        assert render_time(at.astimezone(zone)) == render_time(at)


def test_early_years_keep_four_digits() -> None:
    assert render_time(datetime(7, 1, 2, tzinfo=UTC)) == "0007-01-02T00:00:00.000000Z"


def test_any_other_form_of_a_time_is_refused(subtests: pytest.Subtests) -> None:
    for text in [
        "2026-01-31T09:30:00+05:00Z",
        "2026-01-31T09:30:00+00:00",
        "2026-01-31T09:30:00",
        "2026-01-31T09:30:00z",
        "2026-01-31 09:30:00Z",
        "2026-01-31T09:30:00,5Z",
        "2026-01-31T09:30:00.1234567Z",
        "2026-01-31T09:30:00.Z",
        "2026-01-31T0930:00000Z",
        "2026-W05-6T09:30:00Z",
        "2026-02-30T09:30:00Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T09:30:60Z",
        "2026-01-31T09:30Z",
        "٢٠٢٦-01-31T09:30:00Z",
        "2026-01-31T09:30:00Z\n",
        " 2026-01-31T09:30:00Z",
        "",
        "Z",
    ]:
        with subtests.test(text), pytest.raises(ValueError, match=r"."):
            parse_time(text)


@pytest.mark.parametrize("text, microseconds", [("00Z", 0), ("00.5Z", 500_000), ("00.000001Z", 1)])
def test_fewer_decimals_are_accepted(text: str, microseconds: int) -> None:
    assert parse_time(f"2026-01-31T09:30:{text}") == datetime(2026, 1, 31, 9, 30, 0, microseconds, tzinfo=UTC)


def test_a_suggested_command_names_its_tenant_unless_it_is_the_default_one() -> None:
    assert tenant_flag("acme", {"acme"}) == ""
    assert tenant_flag("acme", {"acme", "globex"}) == " --tenant acme"
    assert tenant_flag("default", {"acme", "default"}) == ""
    assert tenant_flag("acme", {"acme", "default"}) == " --tenant acme"
    assert tenant_flag("acme", {"globex"}) == " --tenant acme", "a tenant that is no longer listed"
    assert tenant_flag("a b", ()) == " --tenant 'a b'"
