"""Approvals of calls. An approval is for the call that was shown, is used once, and is never given by the agent."""

import threading
from datetime import timedelta
from typing import Any

import pytest

from remit.calls.service import Functions
from remit.contracts.calls.call import CallPreview
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, UsageError
from remit.governed_functions import acting, governed
from remit.identity.person import Person
from remit.workspace.workspace import Workspace
from tests.governed_functions.customer_workspace import ADA, AGENT, Place, code_of, declared, result_of


@pytest.fixture(scope="module")
def asking(place: Place) -> Any:
    return declared(
        place,
        "crm.ask",
        risk="HIGH",
        preview=lambda customer, percent: f"{customer} has {place.discounts.get(customer, 0)}%, and gets {percent}%",
    )


def test_a_call_waits_for_a_person_and_the_same_call_uses_the_approval_once(place: Place, asking: Any) -> None:
    token = place.token("crm.ask")
    given = {"token": token, "key": "ask-1", "customer": "acme", "percent": 5}
    waiting = asking.call(**given)
    assert waiting.state == "waiting"
    assert asking.call(**given) == waiting, "repeating the call made a second approval request"
    [question] = place.pending()
    shown = question.preview
    assert isinstance(shown, CallPreview)
    assert (shown.function, shown.risk, shown.reversible) == ("crm.ask", "HIGH", False)
    assert shown.arguments == {"customer": "acme", "percent": "5"}
    assert shown.estimated_effect == "acme has 0%, and gets 5%"
    assert place.calls == []
    place.yes(waiting)
    assert result_of(asking.call(**given)).value == {"customer": "acme", "percent": 5}
    assert asking.call(**given).stored
    assert place.calls == ["acme"]
    assert place.workspace.approvals.show(question.approval_id).state == "USED"
    assert place.kinds("ask-1") == [
        "approval.requested",
        "approval.approved",
        "call.intent",
        "approval.used",
        "call.outcome",
        "call.audit",
    ]


def test_a_denied_key_stays_denied_when_the_call_is_repeated(place: Place, asking: Any) -> None:
    given = {"token": place.token("crm.ask"), "key": "ask-no", "customer": "acme", "percent": 5}
    place.no(asking.call(**given))
    for answer in (asking.call(**given), asking.call(**given)):
        assert (code_of(answer), result_of(answer).effect) == ("approval_denied", "none")
        assert "too much" in str(result_of(answer).error)
    assert (place.calls, place.pending()) == ([], [])


def test_an_approval_is_only_for_the_call_that_was_shown(place: Place, asking: Any) -> None:
    token = place.token("crm.ask")
    first = asking.call(token=token, key="ask-bound", customer="acme", percent=5)
    place.yes(first)
    place.discounts["acme"] = 30
    second = asking.call(token=token, key="ask-bound", customer="acme", percent=5)
    assert second.state == "waiting"
    assert second.waiting.what == "acme has 30%, and gets 5%"
    old = place.workspace.approvals.show(first.waiting.approval_id)
    assert (old.state, "a new approval request replaced it" in str(old.reason)) == ("VOID", True), (
        "two approval requests for one call"
    )
    other = asking.call(token=token, key="ask-bound", customer="acme", percent=90)
    assert other.state == "waiting", "an approval of 5 percent allowed 90"
    renewed = asking.call(token=place.token("crm.ask"), key="ask-bound", customer="acme", percent=5)
    assert renewed.state == "waiting", "an approval for one token was used by another"
    assert place.calls == []
    place.workspace.approvals.void([each.approval_id for each in place.pending()], "the test is over")


def test_the_agent_cannot_approve_and_a_revoked_token_voids_its_approval_request(place: Place, asking: Any) -> None:
    token = place.token("crm.ask")
    given = {"token": token, "key": "ask-own", "customer": "acme", "percent": 5}
    waiting = asking.call(**given)
    with pytest.raises(RefusedError) as refused:
        place.workspace.approvals.decide(waiting.waiting.approval_id, approved=True, who=Person(AGENT))
    assert refused.value.reason is Reason.PERMISSION_DENIED
    place.workspace.tokens.revoke(place.workspace.tokens.verify(token).jti, actor="os:ada")
    assert place.workspace.approvals.show(waiting.waiting.approval_id).state == "VOID"
    assert code_of(asking.call(**given)) == "revoked"
    assert place.calls == []


def test_an_approval_request_survives_its_process_and_lasts_a_day(place: Place, asking: Any) -> None:
    given = {"token": place.token("crm.ask"), "key": "ask-old", "customer": "acme", "percent": 5}
    waiting = asking.call(**given)
    question = place.workspace.approvals.show(waiting.waiting.approval_id)
    assert question.host == "lasting"
    with Workspace.open(place.workspace.root, environ=place.workspace.environ, clock=place.clock) as elsewhere:
        elsewhere.approvals.void_orphans()
        elsewhere.approvals.decide(question.approval_id, approved=True, who=ADA)
    place.clock.offset += timedelta(hours=24, seconds=1)
    late = asking.call(**given)
    assert (late.state, place.calls) == ("waiting", []), "an approval is valid for a day"
    assert place.workspace.approvals.show(question.approval_id).state == "EXPIRED"
    place.workspace.approvals.void([late.waiting.approval_id], "the test is over")


def test_a_waiting_caller_is_woken_by_the_decision(place: Place, asking: Any) -> None:
    token, answers = place.token("crm.ask"), []
    done = threading.Thread(
        target=lambda: answers.append(asking.call(token=token, key="ask-wait", wait=60, customer="acme", percent=5))
    )
    with place.workspace.approvals.change_signal.listening() as listener:
        done.start()
        while not place.pending():
            listener.wait(5)
    place.workspace.approvals.decide(place.pending()[0].approval_id, approved=True, who=ADA)
    done.join(30)
    assert result_of(answers[0]).status == "SUCCESS"
    with acting(token, key="ask-plain"), pytest.raises(RefusedError) as refused:
        asking("acme", 6)
    assert refused.value.reason is Reason.APPROVAL_PENDING
    place.workspace.approvals.void([each.approval_id for each in place.pending()], "the test is over")


def test_a_policy_asks_a_person_only_if_its_rule_says_so(place: Place) -> None:
    def allow(customer: str, percent: int) -> str:
        return "allow" if percent <= 10 else "ask"

    careful = declared(place, "crm.policy", consent="policy", allow=allow)
    token = place.token("crm.policy")
    small = careful.call(token=token, key="policy-1", customer="acme", percent=10)
    assert result_of(small).status == "SUCCESS"
    large = careful.call(token=token, key="policy-2", customer="acme", percent=11)
    assert (large.state, place.calls) == ("waiting", ["acme"])
    place.workspace.approvals.void([large.waiting.approval_id], "the test is over")
    always = declared(place, "crm.always", consent="person", allow=lambda **_: True)
    assert always.call(token=place.token("crm.always"), key="policy-3", customer="a", percent=1).state == "waiting"
    place.workspace.approvals.void([each.approval_id for each in place.pending()], "the test is over")


def test_a_call_that_cannot_be_shown_in_full_makes_no_approval_request(place: Place, asking: Any) -> None:
    token = place.token("crm.ask")
    answer = asking.call(token=token, key="ask-long", customer="a" * 10_001, percent=5)
    assert (code_of(answer), place.pending()) == ("too_large", [])


def test_only_an_undoable_or_read_only_function_needs_no_approval(place: Place) -> None:
    wrong: list[dict[str, Any]] = [
        {"consent": "none"},
        {"consent": "policy"},
        {"consent": "anybody"},
        {"risk": "SOME"},
        {"read_only": True, "undo": print},
        {"before": dict},
        {"private": ("secret",)},
    ]
    for declaration in wrong:
        with pytest.raises(UsageError):
            declared(place, "crm.wrong", **declaration)
    assert "crm.wrong" not in place.workspace.calls.registry

    @governed(place.workspace, "crm.read", consent="none", read_only=True)
    def read(customer: str) -> int | None:
        return place.discounts.get(customer)

    answer = read.call(token=place.token("crm.read"), key="read-1", customer="acme")
    assert (result_of(answer).effect, result_of(answer).value) == ("none", None)


def test_an_idempotent_call_waits_with_the_call_within_it_which_is_made_once(
    place: Place, asking: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = declared(place, "within.first", consent="none", undo=lambda *_, **__: None)
    begun: list[str] = []

    @governed(place.workspace, "within.outer", consent="policy", allow=lambda **_: "allow", idempotent=True)
    def outer(customer: str) -> list[Any]:
        begun.append(customer)
        return [first(customer, 1), asking(customer, 2)]

    token = place.token("crm.ask", "within.first", "within.outer")
    given: dict[str, Any] = {"token": token, "key": "within-1", "customer": "acme"}
    with acting(token):
        waiting = outer.call(**given)
        assert waiting.waiting is not None
        assert [each.approval_id for each in place.pending()] == [waiting.waiting.approval_id]
        assert outer.call(**given) == waiting
        assert place.calls == ["acme"], "the call within was made again"
        assert place.workspace.recover() == [], "a waiting call was reported"
        with monkeypatch.context() as elsewhere:  # in a process that does not have the function, such as the command
            elsewhere.setattr(place.workspace.calls, "registry", Functions())
            assert place.workspace.recover() == []
        place.yes(waiting)
        assert place.workspace.recover() == []
        done = result_of(outer.call(**given))
        assert done.value == [{"customer": "acme", "percent": 1}, {"customer": "acme", "percent": 2}]
        assert outer.call(**given).stored
    assert (place.calls, begun) == (["acme"] * 2, ["acme"] * 3)
    with acting(token, key="within-2"), pytest.raises(RefusedError) as waits:  # of a plain call
        outer("beta")
    assert waits.value.reason is Reason.APPROVAL_PENDING
    with acting(token):
        place.no(outer.call(token=token, key="within-2", customer="beta"))
        denied = result_of(outer.call(token=token, key="within-2", customer="beta"))
    assert (denied.status, "a person denied it" in str(denied.error)) == ("FAILURE", True)


def test_a_waiting_call_can_be_continued_by_any_process(
    place: Place, asking: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    @governed(place.workspace, "anywhere.outer", consent="policy", allow=lambda **_: "allow", idempotent=True)
    def outer(customer: str) -> Any:
        begun.append(customer)
        return asking(customer, 4)

    token = place.token("crm.ask", "anywhere.outer")
    given: dict[str, Any] = {"token": token, "key": "anywhere-1", "customer": "acme"}
    with acting(token):
        waiting = outer.call(**given)
        assert waiting.state == "waiting"
        # Another process does not know which claims this one abandoned. It may recover them before it is called.
        monkeypatch.setattr("remit.execution.journal._abandoned_tokens", set())
        assert place.workspace.recover() == []
        monkeypatch.setattr("remit.execution.journal._abandoned_tokens", set())
        place.yes(waiting)
        assert result_of(outer.call(**given)).status == "SUCCESS"
    assert begun == ["acme"] * 2


def test_a_started_call_is_not_recorded_as_failed_when_its_token_has_ended(place: Place, asking: Any) -> None:
    """A part of it is done, and another token continues it."""
    begun: list[str] = []
    ends: list[str] = []

    def end_some(**_: object) -> str:
        while ends:
            place.workspace.tokens.revoke(place.workspace.tokens.verify(ends.pop()).jti, actor="os:ada")
        return "allow"

    @governed(place.workspace, "begun.outer", consent="policy", allow=end_some, idempotent=True)
    def outer(customer: str) -> Any:
        begun.append(customer)
        return asking(customer, 3)

    first, second, third = (place.token("crm.ask", "begun.outer") for _ in range(3))
    given: dict[str, Any] = {"key": "begun-1", "customer": "acme"}
    with acting(first):
        assert outer.call(token=first, **given).state == "waiting"
    before = place.kinds("begun-1")
    place.workspace.tokens.revoke(place.workspace.tokens.verify(first).jti, actor="os:ada")
    ends.append(second)  # between the first check and the transaction
    for token in (first, second):
        with acting(token), pytest.raises(EnvironmentFailureError) as refused:
            outer.call(token=token, **given)
        assert (refused.value.reason, "revoked" in refused.value.what) == (Reason.IN_PROGRESS, True)
    assert (begun, place.kinds("begun-1")) == (["acme"], before), "nothing is done, and nothing is signed"
    with acting(third):
        place.yes(outer.call(token=third, **given))
        assert result_of(outer.call(token=third, **given)).status == "SUCCESS"


@pytest.mark.parametrize("more", [{}, {"idempotent": True, "undo": lambda *_, **__: None}], ids=["once", "undone"])
def test_any_other_call_fails_if_a_call_within_it_waits_and_gives_a_next_step(
    place: Place, asking: Any, more: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    name = f"within.{request.node.callspec.id}"

    @governed(place.workspace, name, consent="policy", allow=lambda **_: "allow", **more)
    def outer(customer: str) -> Any:
        return asking(customer, 3)

    token = place.token("crm.ask", name)
    with acting(token):
        failed = result_of(outer.call(token=token, key=name, customer=name))
    assert (failed.status, failed.effect) == ("FAILURE", "undone" if more else "unknown")
    assert "give `acting` a `wait`, or declare this function idempotent" in str(failed.error)
    assert place.calls == []
