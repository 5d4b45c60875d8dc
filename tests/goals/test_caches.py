"""Caches and prefetch save work and let nothing through: what changes counts at once."""

from typing import Any

import pytest

from remit.core.errors import RefusedError, RemitError
from remit.core.ttl_cache import TTLCache
from remit.goals.access.policy import AccessPolicy
from remit.goals.binding import tokenizer as finder_words
from remit.goals.finder import finder
from remit.goals.service import GoalService
from tests.goals.goal_office import POLICY, TENANT, Office

NOBODY = '@id("closed")\nforbid (principal, action, resource);\n'


@pytest.mark.req("AC-21", "AC-25")
def test_what_is_cached_for_a_waiting_goal_lets_nothing_through(office: Office) -> None:
    waiting = [office.ask(f"archive the note {name}") for name in ("one", "two", "three")]
    office.write_policy(NOBODY)
    assert office.answer(waiting[0]).outcome.reason_code == "ACCESS_SCOPE_VIOLATION"
    office.write_policy(POLICY)
    office.retire("archive-note")
    assert office.answer(waiting[1]).outcome.reason_code == "SIMULATION_NOT_ACTIVE"
    office.promote("archive-note")
    assert office.answer(waiting[2]).outcome.reason_code == "SIMULATION_SUCCEEDED"
    assert office.archived() == ["three"]


@pytest.mark.req("AC-25")
def test_what_an_answer_will_need_is_at_hand_and_was_only_read(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a person reads the question: the snapshots that his answer is decided and replayed from are built already.
    They are read on connections that the database itself holds to reading.
    """
    built: list[str] = []

    def build(tree: Any) -> Any:
        built.append("policy")
        return real(tree)

    real = AccessPolicy.from_document
    monkeypatch.setattr(AccessPolicy, "from_document", build)
    reply = desk.ask("archive the note one")
    assert desk.answer(reply).outcome.reason_code == "SIMULATION_SUCCEEDED"
    assert built == [], "the dispatch made its decision again, from the policy that is at hand"
    assert all(each.agrees for each in desk.goals.replay(reply.goal.correlation_id, tenant=TENANT))
    assert built == ["policy"], "whoever doubts it builds it from what was kept"
    with desk.workspace.store.reading_pooled() as connection, pytest.raises(RemitError):
        connection.execute("DELETE FROM agent_execution_current")


@pytest.mark.req("AC-25")
def test_a_thread_is_read_once_and_is_of_its_own_tenant(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = desk.ask("archive the note")
    read: list[str] = []
    real = GoalService._read_thread  # noqa: SLF001 - counted

    def counted(self: GoalService, *given: Any) -> Any:
        read.append("read")
        return real(self, *given)

    monkeypatch.setattr(GoalService, "_read_thread", counted)
    first = desk.ask("one", reply_to=asked.goal.correlation_id)
    second = desk.ask("two", reply_to=asked.goal.correlation_id)
    assert read == ["read"]
    assert [reply.outcome.reason_code for reply in (first, second)] == ["CONFIRMATION_REQUIRED"] * 2
    assert desk.answer(second).outcome.reason_code == "SIMULATION_SUCCEEDED"
    assert desk.archived() == ["two"]


@pytest.mark.req("AC-25")
def test_the_words_of_the_user_are_read_only_in_the_first_cycle(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no second look at the input: later cycles of a goal go by its packet."""
    heard: list[str] = []
    real = finder_words.read

    def read(text: str) -> Any:
        heard.append(text)
        return real(text)

    monkeypatch.setattr(finder, "read", read)
    reply = desk.ask("archive the note one")
    assert heard == ["archive the note one"]
    desk.answer(reply)
    desk.answer(reply)
    assert heard == ["archive the note one"]


@pytest.mark.req("AC-21")
def test_what_is_kept_is_bounded_in_number_and_time() -> None:
    now = [0.0]
    made: list[str] = []
    kept: TTLCache[str, str] = TTLCache(2, 10, lambda: now[0])

    def make(name: str) -> str:
        def build() -> str:
            made.append(name)
            return name

        return kept.get(name, build)

    for name in ("a", "b", "a", "c", "a"):
        assert make(name) == name
    assert made == ["a", "b", "c"]
    make("b")
    assert made == ["a", "b", "c", "b"]
    now[0] = 10.0
    make("a")
    assert made[-1] == "a"
    assert len(kept) == 2


def test_a_thread_of_another_tenant_is_none(desk: Office) -> None:
    asked = desk.ask("archive the note")
    with pytest.raises(RefusedError, match="no goal"):
        desk.ask("one", reply_to=asked.goal.correlation_id, tenant="globex")
    assert desk.events(asked.goal.correlation_id, TENANT) == ["CLARIFIED"]
