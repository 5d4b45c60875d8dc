"""Attempts of a step: only after a failure that surely left nothing, as often as its policy says, each with a row."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from remit.goals.composite.driver import StepsDriver
from tests.goals.composite.composites import COMPOSITE_POLICY, COMPOSITE_SIMULATIONS, TIDY
from tests.goals.goal_office import Office

AGAIN: dict[str, Any] = {
    **TIDY,
    "id": "again",
    "phrases": {"en": ["try {first} and {second}"]},
    "binding": {
        "type": "composite",
        "steps": [
            {"id": "one", "simulation": "archive-note", "fields": {"note": "{first}"}},
            {
                "id": "two",
                "simulation": "copy-form",
                "fields": {"name": "{second}"},
                "retry": {"max_attempts": 3, "backoff_ms": [0, 0]},
            },
        ],
    },
}


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    made = Office(tmp_path, simulations=(*COMPOSITE_SIMULATIONS, AGAIN), policy=COMPOSITE_POLICY)
    yield made
    made.close()


def attempted(office: Office, monkeypatch: pytest.MonkeyPatch, free_from: int) -> list[tuple[str, str | None, str]]:
    """The rows of the step that has an obstacle until the attempt `free_from`: event, attempt and key."""
    obstacle, real = office.base / "two.txt", StepsDriver._wait_until  # noqa: SLF001 - the world changes meanwhile
    obstacle.write_text("in the way\n")

    def wait(self: StepsDriver, at: Any, step: Any, attempt: int) -> None:
        if attempt == free_from:
            obstacle.unlink()
        real(self, at, step, attempt)

    monkeypatch.setattr(StepsDriver, "_wait_until", wait)
    first = office.ask("try one and two")
    second = office.answer(first, step=first.outcome.step_id)
    office.answer(second, step=second.outcome.step_id)
    with office.workspace.store.reading() as connection:
        query = (
            "SELECT event, attempt, idempotency_key FROM agent_execution_ledger WHERE step_id = ? ORDER BY entry_seq"
        )
        rows = list(connection.rows(query, (second.outcome.step_id,)))
    replayed = office.goals.replay(first.goal.correlation_id, tenant="acme")
    assert [each.why for each in replayed if not each.agrees] == []
    return rows


@pytest.mark.req("AC-31")
def test_a_failure_that_left_nothing_is_followed_by_the_next_attempt_under_the_same_key(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = attempted(office, monkeypatch, free_from=3)
    assert [(event, attempt) for event, attempt, _ in rows][-6:] == [
        ("DISPATCHED", None),
        ("FAILED", None),
        ("RETRIED", "2"),
        ("FAILED", "2"),
        ("RETRIED", "3"),
        ("SUCCEEDED", "3"),
    ]
    assert len({key for *_, key in rows}) == 1
    assert (office.base / "two.txt").read_text() == "form\n"
    assert office.archived() == ["one"]


@pytest.mark.req("AC-31", "AC-32")
def test_when_no_attempt_is_left_the_steps_before_are_rolled_back(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = attempted(office, monkeypatch, free_from=0)
    assert [event for event, *_ in rows].count("RETRIED") == 2
    assert rows[-1][:2] == ("FAILED", "3")
    assert (office.base / "two.txt").read_text() == "in the way\n"
    assert office.archived() == []
