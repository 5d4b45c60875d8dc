"""A goal that is asked for again: the same one goes on, another one is refused, and nothing happens twice."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from remit.core.errors import EnvironmentFailureError, Reason
from remit.execution.engine import IncompleteError
from remit.goals.ports import BoundActionResult
from tests.goals.goal_office import SIMULATIONS, Office


@pytest.mark.req("AC-08")
def test_the_same_words_are_the_same_goal_even_under_another_catalogue(office: Office) -> None:
    first = office.ask("archive the note one", correlation_id="again")
    office.promote("ping", tenant="globex")
    office.retire("copy-form")
    again = office.ask("archive the note one", correlation_id="again")
    assert again.goal.sim_finder_packet == first.goal.sim_finder_packet
    assert again.outcome == first.outcome
    assert office.answer(again).outcome.reason_code == "SIMULATION_SUCCEEDED"
    assert office.ask("archive the note one", correlation_id="again").outcome.reason_code == "SIMULATION_SUCCEEDED"
    assert office.archived() == ["one"]


@pytest.mark.req("AC-12", "AC-08")
@pytest.mark.parametrize(
    "changes", [{"text": "archive the note two"}, {"user": "leo"}, {"language": "de"}], ids=lambda one: next(iter(one))
)
def test_another_goal_under_the_same_correlation_is_refused(desk: Office, changes: dict[str, Any]) -> None:
    desk.ask("archive the note one", correlation_id="taken")
    asked = {"text": "archive the note one", **changes}
    other = desk.ask(asked.pop("text"), correlation_id="taken", **asked)
    assert other.outcome.reason_code == "IDEMPOTENCY_VIOLATION"
    assert desk.events("taken") == ["PLANNED", "CONFIRMATION_REQUESTED"]
    assert desk.count("SELECT count(*) FROM ledger_entries WHERE kind = 'agent.refused'") == 1


@pytest.mark.req("AC-08")
def test_two_tenants_may_use_the_same_correlation(desk: Office) -> None:
    for each in SIMULATIONS:
        desk.promote(each["id"], tenant="globex")
    desk.write_policy('@id("all")\npermit (principal, action, resource);\n')
    for tenant, note in (("acme", "one"), ("globex", "two")):
        assert desk.done(f"archive the note {note}", correlation_id="same", tenant=tenant).outcome.reason_code == (
            "SIMULATION_SUCCEEDED"
        )
    assert desk.archived() == ["one", "two"]


@pytest.mark.req("AC-08")
def test_sixteen_who_answer_at_once_do_it_once(office: Office) -> None:
    reply = office.ask("archive the note one")
    with ThreadPoolExecutor(16) as pool:
        codes = list(pool.map(lambda _: office.answer(reply).outcome.reason_code, range(16)))
    assert set(codes) == {"SIMULATION_SUCCEEDED"}
    assert office.count("SELECT count(*) FROM agent_execution_ledger WHERE event = 'DISPATCHED'") == 1
    assert office.count("SELECT count(*) FROM ledger_entries WHERE kind = 'plan.intent'") == 1
    assert office.workspace.verify_ledger().holds


@pytest.mark.req("AC-08", "AC-10")
def test_a_confirmation_and_a_refusal_at_once_end_in_one_of_the_two(desk: Office) -> None:
    reply = desk.ask("archive the note one")
    with ThreadPoolExecutor(8) as pool:
        said = ["yes", "no"] * 4
        codes = set(pool.map(lambda answer: desk.answer(reply, answer).outcome.reason_code, said))
    assert len(codes & {"SIMULATION_SUCCEEDED", "CONFIRMATION_REFUSED"}) == 1, codes
    assert desk.archived() == (["one"] if "SIMULATION_SUCCEEDED" in codes else [])
    assert desk.workspace.verify_ledger().holds


@pytest.mark.req("AC-08", "AC-22")
def test_an_action_of_unknown_outcome_is_not_a_failure(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """The door below has done it, and cannot say so: it stays open until somebody can."""
    reply = desk.ask("archive the note one")
    runner: Any = type(desk.goals.executor._operation.runner)  # noqa: SLF001 - nobody else can reach them
    real = runner.run

    def mute(self: Any, *given: Any) -> BoundActionResult:
        real(self, *given)
        raise EnvironmentFailureError(Reason.STORE_UNAVAILABLE, "the database is gone")

    with monkeypatch.context() as patched:
        patched.setattr(runner, "run", mute)
        with pytest.raises(IncompleteError) as problem:
            desk.answer(reply)
    assert "remit recover" in problem.value.next_step
    assert desk.events(reply.goal.correlation_id)[-1] == "DISPATCHED"
    assert desk.answer(reply).outcome.reason_code == "SIMULATION_SUCCEEDED"
    assert desk.archived() == ["one"]
    assert desk.count("SELECT count(*) FROM ledger_entries WHERE kind = 'plan.intent'") == 1


@pytest.mark.req("AC-20", "AC-03")
@pytest.mark.parametrize("words", ["archive the note n1 and n2", "archive the note n1 n2", "the notes n1, n2: archive"])
def test_of_two_values_for_one_field_none_is_taken_without_asking(desk: Office, words: str) -> None:
    reply = desk.ask(words)
    assert reply.outcome.reason_code in {"CLARIFY_REQUIRED", "SIMULATION_MISSING"}
    assert desk.events(reply.goal.correlation_id) in (["CLARIFIED"], ["ESCALATED"])
