"""Functions that fail. Their calls are undone, or recorded as unknown and not made again."""

from typing import Any

import pytest

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.governed_functions import NotDoneError, acting, governed
from tests.governed_functions.customer_workspace import Place, code_of, result_of


class Register:
    """The data that the functions of these tests change, and how they fail."""

    def __init__(self) -> None:
        self.value = 1
        self.problem: BaseException | None = None
        self.undo_problem: Exception | None = None
        self.undone: list[Any] = []
        self.holds: Any = True

    def set(self, value: int) -> int:
        self.value = value
        if self.problem is not None:
            raise self.problem
        return value

    def restore(self, before: Any, **_: Any) -> None:
        if self.undo_problem is not None:
            raise self.undo_problem
        self.undone.append(before)
        self.value = before


@pytest.fixture
def register() -> Register:
    return Register()


def put(place: Place, register: Register, name: str, *, with_undo: bool, **more: Any) -> Any:
    way_back: dict[str, Any] = {"undo": register.restore, "before": lambda **_: register.value, "consent": "none"}
    rule: dict[str, Any] = {"consent": "policy", "allow": lambda **_: True}

    @governed(place.workspace, name, **(way_back if with_undo else rule), **more)
    def put(value: int) -> int:
        return register.set(value)

    return put


def test_a_failure_is_undone_and_the_result_says_so_without_its_secrets(place: Place, register: Register) -> None:
    function = put(place, register, "fail.undone", with_undo=True)
    register.problem = RuntimeError("password=hunter22 was wrong")
    answer = function.call(token=place.token("fail.undone"), key="undone", value=2)
    result = result_of(answer)
    assert (result.status, result.effect, code_of(answer)) == ("FAILURE", "undone", "effect_failed")
    assert (register.value, register.undone) == (1, [1])
    assert "hunter22" not in str(result.error) + place.payloads("undone")
    assert "RuntimeError" in str(result.error)
    register.problem = None
    again = function.call(token=place.token("fail.undone"), key="undone", value=2)
    assert (again.stored, register.value) == (True, 1), "a failed key is not tried again"


def test_a_failure_without_an_undo_has_an_unknown_effect(place: Place, register: Register) -> None:
    function = put(place, register, "fail.unknown", with_undo=False)
    register.problem = TimeoutError("no answer")
    token = place.token("fail.unknown")
    answer = function.call(token=token, key="unknown", value=2)
    assert (code_of(answer), result_of(answer).effect) == ("fate_unknown", "unknown")
    with acting(token, key="unknown"), pytest.raises(EnvironmentFailureError) as failed:
        function(2)
    assert failed.value.reason is Reason.FATE_UNKNOWN
    register.problem = NotDoneError("the customer is locked")
    nothing = function.call(token=token, key="nothing", value=3)
    assert (code_of(nothing), result_of(nothing).effect) == ("effect_failed", "none")
    with acting(token, key="nothing"), pytest.raises(RefusedError):
        function(3)


def test_an_effect_that_verify_does_not_confirm_is_undone_or_unknown(place: Place, register: Register) -> None:
    def verify(returned: int, **_: Any) -> Any:
        if isinstance(register.holds, Exception):
            raise register.holds
        return register.holds if register.value == returned else False

    undoable = put(place, register, "verify.undone", with_undo=True, verify=verify)
    final = put(place, register, "verify.final", with_undo=False, verify=verify)
    token = place.token("verify.undone", "verify.final")
    assert result_of(undoable.call(token=token, key="verify-0", value=2)).status == "SUCCESS"
    for number, holds in enumerate([False, "yes", ValueError("gone")]):
        register.value, register.holds = 1, holds
        answer = undoable.call(token=token, key=f"verify-a{number}", value=7)
        assert (result_of(answer).effect, register.value) == ("undone", 1), holds
        answer = final.call(token=token, key=f"verify-b{number}", value=7)
        assert (code_of(answer), result_of(answer).effect) == ("fate_unknown", "unknown"), holds


def test_an_undo_that_fails_leaves_the_call_open_for_the_next_recovery(place: Place, register: Register) -> None:
    function = put(place, register, "fail.open", with_undo=True)
    token = place.token("fail.open")
    register.problem, register.undo_problem = RuntimeError("first"), OSError("away")
    with pytest.raises(EnvironmentFailureError) as failed:
        function.call(token=token, key="open", value=2)
    assert failed.value.reason is Reason.EFFECT_FAILED
    assert "call.outcome" not in place.kinds("open")
    [left] = place.workspace.calls.recover()
    assert left.problem is not None, "it was recovered although its undo fails"
    register.problem, register.undo_problem = None, None
    answer = function.call(token=token, key="open", value=2)
    assert (result_of(answer).status, register.value, register.undone) == ("SUCCESS", 2, [1])
    assert place.workspace.calls.recover() == []


def test_an_interrupt_of_a_function_is_raised_and_the_call_is_undone_and_recorded(
    place: Place, register: Register
) -> None:
    function = put(place, register, "fail.interrupted", with_undo=True)
    register.problem = KeyboardInterrupt()
    token = place.token("fail.interrupted")
    with pytest.raises(KeyboardInterrupt):
        function.call(token=token, key="interrupted", value=2)
    assert register.value == 1
    answer = function.call(token=token, key="interrupted", value=2)
    assert (answer.stored, result_of(answer).effect) == (True, "undone")


def test_a_value_that_is_not_json_cannot_be_stored_and_is_reported(place: Place, register: Register) -> None:
    returned: list[Any] = [object(), {1: 2}, float("inf"), "x" * 300_000, 2**60]

    @governed(place.workspace, "odd.undone", consent="none", undo=register.restore, before=lambda **_: 1)
    def odd(number: int) -> Any:
        register.value = 2
        return returned[number]

    @governed(place.workspace, "odd.done", consent="policy", allow=lambda **_: True)
    def final(number: int) -> Any:
        return returned[number]

    token = place.token("odd.undone", "odd.done")
    for number in range(len(returned)):
        answer = odd.call(token=token, key=f"odd-{number}", number=number)
        assert (result_of(answer).status, result_of(answer).effect, register.value) == ("FAILURE", "undone", 1)
        told = final.call(token=token, key=f"final-{number}", number=number)
        assert (result_of(told).status, result_of(told).effect) == ("FAILURE", "done")


def test_companions_that_fail_before_the_intent_refuse_the_call(place: Place, register: Register) -> None:
    def broken(**_: Any) -> Any:
        raise LookupError("the register is away")

    no_preview = put(place, register, "odd.preview", with_undo=True, preview=broken)
    no_text = put(place, register, "odd.text", with_undo=True, preview=lambda **_: 7)

    @governed(place.workspace, "odd.before", consent="none", undo=register.restore, before=broken)
    def no_before(value: int) -> int:
        return register.set(value)

    @governed(place.workspace, "odd.kept", consent="none", undo=register.restore, before=lambda **_: object())
    def no_json(value: int) -> int:
        return register.set(value)

    token = place.token("odd.preview", "odd.text", "odd.before", "odd.kept")
    for number, function in enumerate([no_preview, no_text, no_before, no_json]):
        answer = function.call(token=token, key=f"early-{number}", value=2)
        assert (result_of(answer).effect, place.kinds(f"early-{number}")) == ("none", ["call.refused", "call.audit"])
    assert register.value == 1
