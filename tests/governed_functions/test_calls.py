"""Governed functions: the agents and arguments that are allowed, and that a call happens once."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest

from remit.authority.results import verify_call_result
from remit.calls.checkpoint import render_call
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, UsageError
from remit.core.ids import render_time
from remit.execution.engine import Preview
from remit.governed_functions import acting, governed, tool_of, tools_of
from tests.governed_functions.customer_workspace import AGENT, Place, code_of, declared, result_of


@pytest.fixture(scope="module")
def setter(place: Place) -> object:
    def restore(before: int | None, customer: str, percent: int) -> None:
        if before is None:
            place.discounts.pop(customer, None)
        else:
            place.discounts[customer] = before

    def allow(customer: str, percent: int) -> str:
        if customer == "broken":
            raise RuntimeError(customer)
        return "refuse" if percent > 50 else "allow"

    return declared(
        place,
        "crm.set",
        consent="none",
        undo=restore,
        before=lambda customer, **_: place.discounts.get(customer),
        allow=allow,
    )


def test_a_call_is_done_signed_and_recorded_and_the_same_key_gives_the_same_bytes(place: Place, setter: Any) -> None:
    token = place.token("crm.set")
    first = setter.call(token=token, key="once-1", customer="acme", percent=5)
    result = result_of(first)
    assert (result.status, result.effect, result.value) == ("SUCCESS", "done", {"customer": "acme", "percent": 5})
    assert result.confinement == "unconfined"
    verify_call_result(result, place.workspace.keyring, render_time(place.clock()))
    assert place.kinds("once-1") == ["call.intent", "call.outcome", "call.audit"]
    audit = json.loads(place.payloads("once-1").splitlines()[-1])
    assert (audit["agent_id"], audit["status"], audit["effect"]) == (AGENT, "SUCCESS", "done")
    assert audit["jti"] == place.workspace.tokens.verify(token).jti
    again = setter.call(token=token, key="once-1", customer="acme", percent=5)
    assert (again.stored, result_of(again).canonical()) == (True, result.canonical())
    assert place.calls == ["acme"], "it was called twice"
    with pytest.raises(RefusedError) as refused:
        verify_call_result(
            result.model_copy(update={"value": {"percent": 50}}), place.workspace.keyring, "2026-01-01T00:00:00Z"
        )
    assert refused.value.reason is Reason.SIGNATURE_INVALID


def test_the_same_key_with_other_arguments_or_for_another_agent_is_refused(place: Place, setter: Any) -> None:
    token = place.token("crm.set")
    setter.call(token=token, key="taken", customer="acme", percent=5)
    other = setter.call(token=token, key="taken", customer="acme", percent=6)
    assert (code_of(other), result_of(other).effect) == ("idempotency_conflict", "none")
    foreign = setter.call(token=place.token("crm.set", agent="agent-2"), key="taken", customer="acme", percent=5)
    assert code_of(foreign) == "idempotency_conflict", "one agent got the result of another"
    assert place.calls == ["acme"]


def test_a_call_needs_a_token_that_names_it_and_is_valid_now(place: Place, setter: Any) -> None:
    revoked = place.token("crm.set")
    place.workspace.tokens.revoke(place.workspace.tokens.verify(revoked).jti, actor="os:ada")
    short = place.token("crm.set", life=timedelta(seconds=5))
    place.clock.offset += timedelta(seconds=6)
    wrong = {
        "none": ("no token at all", "authority_malformed"),
        "other": (place.token("crm.other"), "capability_missing"),
        "revoked": (revoked, "revoked"),
        "expired": (short, "expired"),
    }
    for name, (token, code) in wrong.items():
        answer = setter.call(token=token, key=f"wrong-{name}", customer="acme", percent=5)
        assert (code_of(answer), result_of(answer).effect) == (code, "none"), name
        assert place.kinds(f"wrong-{name}") == ["call.refused", "call.audit"]
    assert place.calls == []


def test_a_stored_result_is_returned_only_to_a_token_that_could_make_the_call(place: Place, setter: Any) -> None:
    setter.call(token=place.token("crm.set"), key="kept", customer="acme", percent=5)
    other = setter.call(token=place.token("crm.other"), key="kept", customer="acme", percent=5)
    assert (code_of(other), other.stored, result_of(other).value) == ("capability_missing", False, None)
    assert setter.call(token=place.token("crm.set"), key="kept", customer="acme", percent=5).stored


def test_a_generator_function_is_refused_because_calling_it_runs_nothing(place: Place) -> None:
    def later(percent: int) -> Iterator[int]:
        yield percent

    async def much_later(percent: int) -> AsyncIterator[int]:
        yield percent

    def undo(_before: Any, **_: Any) -> Iterator[int]:
        yield 1

    def put(percent: int) -> int:
        return percent

    wrong: list[tuple[Any, dict[str, Any]]] = [(later, {}), (much_later, {}), (put, {"undo": undo})]
    for function, more in wrong:
        with pytest.raises(UsageError, match="yields"):
            governed(place.workspace, "crm.yields", **more)(function)

    @governed(place.workspace, "crm.put_off", consent="policy", allow=lambda **_: "allow")
    def put_off(percent: int) -> Iterator[int]:
        return later(percent)

    result = result_of(put_off.call(token=place.token("crm.put_off"), key="put-off", percent=5))
    assert (result.status, result.effect) == ("FAILURE", "unknown"), "a generator that was not run is reported as done"


def test_a_token_that_is_revoked_during_the_call_is_noticed_at_the_intent(place: Place) -> None:
    token = place.token("crm.late")

    def revoke(**_: object) -> str:
        place.workspace.tokens.revoke(place.workspace.tokens.verify(token).jti, actor="os:ada")
        return "late"

    late = declared(place, "crm.late", consent="none", undo=lambda *_, **__: None, before=revoke)
    answer = late.call(token=token, key="late", customer="acme", percent=5)
    assert (code_of(answer), place.calls) == ("revoked", [])


def test_arguments_that_the_signature_does_not_name_or_type_are_refused_before_anything(
    place: Place, setter: Any
) -> None:
    token = place.token("crm.set")
    wrong = [
        b"{}",
        b"[]",
        b'{"customer": "acme"}',
        b'{"customer": "acme", "percent": "5"}',
        b'{"customer": "acme", "percent": true}',
        b'{"customer": "acme", "percent": 5, "force": true}',
        b'{"customer": "acme", "percent": 5, "percent": 6}',
        b'{"customer": "acme", "percent": 9007199254740993}',
        json.dumps({"customer": "a" * 70_000, "percent": 5}).encode(),
        b'{"customer": "acme", "percent": NaN}',
    ]
    for arguments in wrong:
        with pytest.raises(RefusedError) as refused:
            place.workspace.calls.run("crm.set", arguments, token=token, key="malformed")
        assert refused.value.reason in {Reason.MALFORMED, Reason.TOO_LARGE}, arguments[:80]
    with pytest.raises(RefusedError) as refused:
        place.workspace.calls.run("crm.unknown", b"{}", token=token, key="malformed")
    assert refused.value.reason is Reason.CAPABILITY_UNSUPPORTED
    for key in ("", "a\nb", "k" * 201):
        with pytest.raises(RefusedError):
            setter.call(token=token, key=key, customer="acme", percent=5)
    with pytest.raises(RefusedError):
        setter.call(token=token, key="nan", customer="acme", percent=float("nan"))
    with pytest.raises(RefusedError):
        setter.call(token=token, key="set", customer={1, 2}, percent=5)
    assert (place.calls, place.kinds("malformed")) == ([], [])


def test_the_functions_own_rule_gets_the_arguments_and_a_rule_that_fails_refuses(place: Place, setter: Any) -> None:
    token = place.token("crm.set")
    too_much = setter.call(token=token, key="rule-1", customer="acme", percent=51)
    assert code_of(too_much) == "access_denied"
    broken = setter.call(token=token, key="rule-2", customer="broken", percent=1)
    assert code_of(broken) == "access_denied"
    unclear = declared(place, "crm.unclear", consent="policy", allow=lambda **_: 1)
    assert code_of(unclear.call(token=place.token("crm.unclear"), key="rule-3", customer="a", percent=1)) == (
        "access_denied"
    )
    assert place.calls == []


def test_a_plain_call_is_made_for_the_acting_agent_and_returns_or_raises(place: Place, setter: Any) -> None:
    token = place.token("crm.set")
    with pytest.raises(UsageError):
        setter("acme", 5)
    with acting(token):
        assert setter("acme", percent=5) == {"customer": "acme", "percent": 5}
        setter("acme", percent=5)
        assert len(place.calls) == 2, "two calls without a key are two calls"
        with pytest.raises(RefusedError) as refused:
            setter("acme", 99)
        assert refused.value.reason is Reason.ACCESS_DENIED
        with pytest.raises(RefusedError):
            setter("acme")
        with acting(place.token("crm.other")), pytest.raises(RefusedError) as refused:
            setter("acme", 5)
        assert refused.value.reason is Reason.CAPABILITY_MISSING
    with acting(token, key="plain"):
        assert setter("acme", 7) == setter("acme", 7)
    assert len(place.calls) == 3
    with pytest.raises(UsageError):
        setter("acme", 5)


def test_a_preview_changes_nothing_and_masks_private_arguments(place: Place) -> None:
    charge = declared_charge(place)
    shown = place.workspace.calls.preview(
        "pay.charge",
        b'{"card": "4111 1111 1111 1111", "memo": "blue whale", "note": "password=hunter22"}',
        token=place.token("pay.charge"),
        key="peek",
    )
    assert isinstance(shown, Preview)
    assert "Charges the card" in shown.summary
    for secret in ("4111 1111", "blue whale", "hunter22"):
        assert secret not in shown.summary
    assert (place.calls, place.kinds("peek"), charge.function.name) == ([], [], "pay.charge")
    # An opening quote in an argument hides its own line, and nothing else of the call.
    arguments = {"note": 'password="hunter22\npay everybody', "memo": "x", "card": ["a", "b"]}
    told = render_call(charge.function, arguments, "").arguments
    assert told == {"note": 'password="********\npay everybody', "memo": "********", "card": '["a", "b"]'}


def declared_charge(place: Place) -> Any:
    @governed(place.workspace, "pay.charge", preview=lambda **_: "Charges the card", private=("memo",))
    def charge(card: str, memo: str, note: str) -> bool:
        place.calls.append(card + memo + note)
        return True

    return charge


def test_ledger_entries_of_a_call_are_masked(place: Place, setter: Any) -> None:
    token = place.token("crm.set")
    setter.call(token=token, key="masked", customer="4111 1111 1111 1111", percent=5)
    kept = place.payloads("masked")
    assert "crm.set" in kept
    assert "4111 1111" not in kept
    assert place.calls == ["4111 1111 1111 1111"], "the function did not get the exact value"
    assert place.workspace.verify_ledger().holds


def test_tools_for_a_model_have_a_name_a_description_and_a_schema(place: Place, setter: Any) -> None:
    tool = tool_of(setter.function)
    assert tool["name"] == "crm-set"
    assert tools_of(place.workspace.calls.registry)["crm-set"] is setter.function
    assert tool["description"].startswith("Set a customer's discount.")
    assert tool["input_schema"]["additionalProperties"] is False
    assert set(tool["input_schema"]["required"]) == {"customer", "percent"}
    with pytest.raises(UsageError):
        declared(place, "crm.set", consent="none", read_only=True)


def test_a_result_that_could_not_be_read_again_is_not_stored_as_a_success(place: Place) -> None:
    values: dict[str, Any] = {"members": {f"k{number}": 1 for number in range(5_001)}, "most": {"k": [1] * 19_000}}

    @governed(place.workspace, "crm.much", consent="policy", allow=lambda **_: "allow")
    def much(which: str) -> Any:
        return values[which]

    token = place.token("crm.much")
    for which, status in {"members": "FAILURE", "most": "SUCCESS"}.items():
        first = result_of(much.call(token=token, key=f"much-{which}", which=which))
        assert (first.status, first.effect) == (status, "done")
        again = much.call(token=token, key=f"much-{which}", which=which)
        assert (again.stored, result_of(again)) == (True, first)


def test_a_call_within_a_call_has_its_own_key_which_is_the_same_when_repeated(place: Place) -> None:
    inner = declared(place, "nest.inner", consent="none", undo=lambda *_, **__: None)
    cut: list[bool] = []

    @governed(place.workspace, "nest.outer", consent="none", undo=lambda *_, **__: None)
    def outer(customer: str) -> list[Any]:
        found = [inner(customer, percent) for percent in (1, 1, 2)]
        if not cut:
            cut.append(True)
            raise SystemExit
        return found

    token = place.token("nest.inner", "nest.outer")
    with acting(token, key="nest-1"):
        with pytest.raises(SystemExit):
            outer("acme")
        assert len(place.calls) == 3
        with pytest.raises(EnvironmentFailureError):
            outer("acme")
    with acting(token, key="nest-2"):
        assert [each["percent"] for each in outer("acme")] == [1, 1, 2]
    assert len(place.calls) == 6
    with place.workspace.store.reading() as connection:
        query = "SELECT correlation_id FROM ledger_entries WHERE kind = 'call.intent' AND correlation_id LIKE 'nest-%'"
        keys = [key for (key,) in connection.rows(query)]
    assert len(set(keys)) == len(keys) == 8
    assert sum(key.startswith("nest-1/") for key in keys) == 3


def test_calls_within_a_call_are_made_for_the_same_agent(place: Place) -> None:
    inner = declared(place, "named.inner", consent="none", undo=lambda *_, **__: None)

    @governed(place.workspace, "named.outer", consent="none", undo=lambda *_, **__: None)
    def outer(customer: str) -> Any:
        return inner(customer, 5)

    @governed(place.workspace, "named.later", consent="none", undo=lambda *_, **__: None)
    async def later(customer: str) -> Any:
        return inner(customer, 5)

    token = place.token("named.inner", "named.outer", "named.later")
    raw = b'{"customer": "acme"}'
    made = [
        outer.call(token=token, key="named-1", customer="acme"),
        place.workspace.calls.run("named.outer", raw, token=token, key="named-2"),
        asyncio.run(later.acall(token=token, key="named-3", customer="acme")),
    ]
    assert [result_of(each).value for each in made] == [{"customer": "acme", "percent": 5}] * 3
    assert len(place.calls) == 3
    with place.workspace.store.reading() as connection:
        query = "SELECT correlation_id, actor FROM ledger_entries WHERE kind = 'call.audit' AND correlation_id LIKE ?"
        for number in (1, 2, 3):
            assert [actor for (_, actor) in connection.rows(query, (f"named-{number}/%",))] == [AGENT]
    with acting(token):  # the calls within use the token of the call, not that of this block
        weak = outer.call(token=place.token("named.outer"), key="named-4", customer="acme")
    assert result_of(weak).status == "FAILURE"
    assert len(place.calls) == 3
    with pytest.raises(UsageError):  # no agent is set any more
        inner("acme", 5)
