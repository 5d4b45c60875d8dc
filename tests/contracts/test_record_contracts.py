"""Reports, browser and goal contracts: what one field says about another must hold."""

from typing import Any

import pytest

from remit.contracts.browser.browser import Action, ActionResult, TokenClaims
from remit.contracts.browser.errors import (
    BACKOFF_INITIAL_MS,
    BACKOFF_MAX_MS,
    BACKOFF_MULTIPLIER,
    EXECUTOR_ERROR,
    MAX_RETRIES,
    RETRYABLE_CODES,
)
from remit.contracts.goals.dispatch import DispatchEnvelope
from remit.contracts.goals.goal import AgentExecutionPlan, AgentGoalRequest, AgentStep
from remit.contracts.goals.packets import FINDER_PACKET
from remit.contracts.plans.change_log import ChangeLog
from remit.contracts.plans.error_response import ErrorResponse
from remit.contracts.plans.report import ExecutionReport
from remit.contracts.plans.rollback import RollbackManifest
from remit.core.errors import RefusedError
from tests.contracts.examples import BY_LABEL
from tests.contracts.values import UUID4, UUID7


def _document(label: str, **changes: Any) -> dict[str, Any]:
    return {**BY_LABEL[label].document, **changes}


def _without(label: str, field: str) -> dict[str, Any]:
    return {key: value for key, value in BY_LABEL[label].document.items() if key != field}


def test_report_that_contradicts_itself_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[Any] = [
        {"actions_summary": {"total": 5, "completed": 2, "failed": 1, "skipped": 1}},
        {"actions_summary": {"total": 4, "completed": 3, "failed": 1, "skipped": 0}},
        {"actions_skipped": [{"action_id": "a1", "reason": "stands in two lists"}]},
        {"status": "SUCCESS"},
        {"status": "ROLLED_BACK"},
        {"rollback_performed": True},
        {"completed_at": "2026-11-15T09:29:59Z"},
        {"report_id": UUID7},
    ]
    for changes in cases:
        with subtests.test(changes=changes), pytest.raises(RefusedError):
            ExecutionReport.from_tree(_document("execution-report", **changes))


@pytest.mark.parametrize("code", [999, 6000, 2001.0, "2001", None])
def test_error_code_is_an_integer_in_the_ranges(code: Any) -> None:
    failed = {**BY_LABEL["execution-report"].document["actions_failed"][0], "error_code": code}
    with pytest.raises(RefusedError):
        ExecutionReport.from_tree(_document("execution-report", actions_failed=[failed]))


@pytest.mark.parametrize(
    "code, category",
    [
        (1000, "VALIDATION_ERROR"),
        (2999, "FILE_SYSTEM_ERROR"),
        (3001, "PERMISSION_ERROR"),
        (4001, "DEPENDENCY_ERROR"),
        (5999, "INTERNAL_ERROR"),
    ],
)
def test_error_category_is_that_of_the_code(code: int, category: str) -> None:
    ErrorResponse.from_tree(_document("error-response", error_code=code, error_category=category))
    other = 1000 if code >= 2000 else 2000
    with pytest.raises(RefusedError):
        ErrorResponse.from_tree(_document("error-response", error_code=other, error_category=category))


@pytest.mark.parametrize(
    "changes",
    [
        {"files_affected_count": 3},
        {"total_lines_changed": 11},
        {"changes": [{**BY_LABEL["change-log"].document["changes"][0], "operation": "DELETE"}]},
        {"changes": [{**BY_LABEL["change-log"].document["changes"][1], "new_path": "b"}]},
    ],
)
def test_change_log_that_contradicts_itself_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(RefusedError):
        ChangeLog.from_tree(_document("change-log", **changes))


@pytest.mark.parametrize("length, fits", [(500, True), (501, False)])
def test_preview_of_a_diff_has_at_most_500_characters(length: int, *, fits: bool) -> None:
    change = dict(BY_LABEL["change-log"].document["changes"][1])
    change["diff_summary"] = {"lines_added": 0, "lines_removed": 0, "preview": "+" * length}
    document = _document("change-log", changes=[change], files_affected_count=1, total_lines_changed=0)
    if fits:
        assert ChangeLog.from_tree(document).changes[0].diff_summary.preview == "+" * length
    else:
        with pytest.raises(RefusedError):
            ChangeLog.from_tree(document)


@pytest.mark.parametrize(
    "changes",
    [
        {"rollback_order": [UUID4, UUID7]},
        {"rollback_order": [UUID4, UUID4, UUID7]},
        {"status": "ACTIVE"},
        {"executed_at": None},
        {"checkpoints": [], "rollback_order": [UUID4]},
    ],
)
def test_manifest_that_contradicts_itself_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(RefusedError):
        RollbackManifest.from_tree(_document("rollback-manifest", **changes))


@pytest.mark.parametrize("field", ["backup_location", "original_hash", "original_size"])
def test_checkpoint_of_a_modified_file_without_its_backup_is_refused(field: str) -> None:
    first, *others = BY_LABEL["rollback-manifest"].document["checkpoints"]
    with pytest.raises(RefusedError):
        RollbackManifest.from_tree(_document("rollback-manifest", checkpoints=[{**first, field: None}, *others]))


@pytest.mark.parametrize("claim", ["exp", "iat", "jti", "sub", "caps", "iss", "aud"])
def test_token_without_a_required_claim_is_refused(claim: str) -> None:
    with pytest.raises(RefusedError) as refusal:
        TokenClaims.from_tree(_without("token-claims", claim))
    assert claim in refusal.value.where


def test_token_with_a_claim_that_cannot_be_checked_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[Any] = [
        {"iss": ""},
        {"aud": ["abos-executor"]},
        {"caps": []},
        {"caps": ["*"]},
        {"caps": ["browser.*"]},
        {"caps": ["browser.fly"]},
        {"caps": ["browser.n\u0430vigate"]},
        {"exp": 1.5},
        {"exp": -1},
        {"constraints": {"max_purchases": 5}},
        {"constraints": {"domains": []}},
        {"constraints": {"domains": ["*"]}},
        {"constraints": {"domains": ["a.example/path"]}},
        {"constraints": {"domains": ["*.*.example"]}},
        {"constraints": {"domains": ["*.com"]}},
        {"constraints": {"domains": ["*.co.uk"]}},
        {"constraints": {"domains": ["127.1"]}},
        {"constraints": {"max_actions": 0}},
        {"constraints": {"max_purchase": -1}},
        {"constraints": {"max_purchase": "50"}},
        {"constraints": {"max_purchase": True}},
        {"constraints": {"max_purchase": {"value": 5}}},
        {"constraints": None},
    ]
    for changes in cases:
        with subtests.test(changes=changes), pytest.raises(RefusedError):
            TokenClaims.from_tree(_document("token-claims", **changes))


@pytest.mark.parametrize("limit", [50, 49.99, {"value": 50, "currency": "EUR"}])
def test_purchase_limit_is_a_number_or_an_amount(limit: Any) -> None:
    claims = TokenClaims.from_tree(_document("token-claims", constraints={"max_purchase": limit}))
    assert claims.tree()["constraints"]["max_purchase"] == limit


def test_token_without_constraints_has_none_rather_than_all() -> None:
    claims = TokenClaims.from_tree(_without("token-claims", "constraints"))
    assert (claims.constraints.domains, claims.constraints.max_purchase) == (None, None)


def test_browser_action_takes_exactly_the_fields_of_its_type(subtests: pytest.Subtests) -> None:
    cases: list[Any] = [
        {"type": "navigate", "selector": "#a"},
        {"type": "navigate", "value": "x"},
        {"type": "click"},
        {"type": "click", "selector": "#a", "ref": "e1"},
        {"type": "click", "selector": "#a", "amount": {"value": 1, "currency": "EUR"}},
        {"type": "type", "selector": "#a"},
        {"type": "type", "value": "x"},
        {"type": "submit"},
        {"type": "purchase", "selector": "#a"},
        {"type": "purchase", "amount": {"value": 1, "currency": "EUR"}},
        {"type": "purchase", "selector": "#a", "amount": 5},
        {"type": "evaluate"},
    ]
    for action in cases:
        with subtests.test(action=action), pytest.raises(RefusedError):
            Action.from_tree({"action_id": "b", "target": "https://a.example/", **action})


def test_browser_operation_has_nine_errors_and_no_other() -> None:
    codes = {label.partition("/")[2] for label in BY_LABEL if label.startswith("executor-error/")}
    assert len(codes) == 9
    for code in ("TIMEOUT", "token_invalid", ""):
        with pytest.raises(RefusedError):
            EXECUTOR_ERROR.from_tree({"code": code, "message": "x"})


@pytest.mark.parametrize(
    "error",
    [
        {"code": "CAPABILITY_MISSING", "message": "x"},
        {"code": "CAPABILITY_MISSING", "required": "browser.fly"},
        {"code": "ELEMENT_NOT_FOUND", "message": "x"},
        {"code": "CONSTRAINT_VIOLATED", "message": "x"},
        {"code": "KERNEL_ERROR", "selector": "#a"},
    ],
)
def test_browser_error_with_the_payload_of_another_is_refused(error: dict[str, str]) -> None:
    with pytest.raises(RefusedError):
        EXECUTOR_ERROR.from_tree(error)


def test_retry_policy_is_the_promised_one() -> None:
    waits = [min(BACKOFF_INITIAL_MS * BACKOFF_MULTIPLIER**n, BACKOFF_MAX_MS) for n in range(5)]
    assert waits == [1_000, 2_000, 4_000, 8_000, 10_000]
    assert MAX_RETRIES == 3
    assert {"KERNEL_ERROR", "ELEMENT_NOT_FOUND"} == RETRYABLE_CODES


@pytest.mark.parametrize(
    "changes",
    [{"error": None}, {"reason": None}, {"success": True}, {"output": {"a": 1}}],
)
def test_action_result_that_contradicts_itself_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(RefusedError):
        ActionResult.from_tree(_document("action-result/failure", **changes))


@pytest.mark.req("AC-01")
@pytest.mark.parametrize("kind", ["SIMULATION_MATCH", "Match", "", None, 5])
def test_packet_of_a_fifth_kind_is_refused(kind: Any) -> None:
    with pytest.raises(RefusedError):
        FINDER_PACKET.from_tree(_document("finder-packet/match", packet_type=kind))


@pytest.mark.req("AC-01")
@pytest.mark.parametrize("label", ["match", "clarify", "refuse", "missing"])
def test_packet_in_the_dress_of_another_is_refused(label: str) -> None:
    for other in {"match", "clarify", "refuse", "missing"} - {label}:
        with pytest.raises(RefusedError):
            FINDER_PACKET.from_tree(_document(f"finder-packet/{label}", packet_type=other))


def test_match_without_candidates_is_refused() -> None:
    with pytest.raises(RefusedError):
        FINDER_PACKET.from_tree(_document("finder-packet/match", candidates=[]))


@pytest.mark.req("AC-01")
def test_goal_request_holds_its_packet_as_the_packet_it_is() -> None:
    for label in ("match", "clarify", "refuse", "missing"):
        packet = BY_LABEL[f"finder-packet/{label}"].document
        request = AgentGoalRequest.from_tree(_document("agent-goal-request", sim_finder_packet=packet))
        assert request.sim_finder_packet == FINDER_PACKET.from_tree(packet)


@pytest.mark.parametrize("state", [{"status": "ANSWERED"}, {"status": "NONE", "answer": "yes"}])
def test_confirm_state_has_an_answer_exactly_when_answered(state: dict[str, str]) -> None:
    with pytest.raises(RefusedError):
        AgentGoalRequest.from_tree(_document("agent-goal-request", confirm_state=state))


@pytest.mark.parametrize(
    "changes",
    [
        {"idempotency_key_recipe": ["correlation_id"]},
        {"idempotency_key_recipe": BY_LABEL["agent-step"].document["idempotency_key_recipe"][::-1]},
        {"retry_policy": {"max_attempts": 3, "backoff_ms": [1]}},
        {"retry_policy": {"max_attempts": 11, "backoff_ms": [1] * 10}},
    ],
)
def test_step_with_another_recipe_or_uneven_retries_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(RefusedError):
        AgentStep.from_tree(_document("agent-step", **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"required_confirmations": []},
        {"required_confirmations": ["s1", "s2"]},
        {"access_actions_required": []},
        {"ordered_steps": BY_LABEL["agent-execution-plan"].document["ordered_steps"] * 2},
    ],
)
def test_agent_plan_that_contradicts_its_steps_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(RefusedError):
        AgentExecutionPlan.from_tree(_document("agent-execution-plan", **changes))


@pytest.mark.req("AC-01")
def test_dispatch_envelope_has_the_twelve_fields_and_two_of_them_may_be_absent() -> None:
    fields = DispatchEnvelope.model_fields
    later = {"undoes_step"}  # of goals with several steps
    assert fields.keys() - later == BY_LABEL["dispatch-envelope"].document.keys()
    optional = {name for name, field in fields.items() if not field.is_required()}
    assert optional - later == {"confirmation_proof_ref", "rollback_plan_ref"}
