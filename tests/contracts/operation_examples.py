"""Valid documents of the browser door and of the goal door."""

from typing import Any

from tests.contracts.values import DIGEST, KEY_ID, LATER, SIGNATURE, TIME, UUID7

_PREVIEW: dict[str, Any] = {
    "method": "POST",
    "url": "https://shop.example/pay",
    "headers": {"content-type": "application/json"},
    "body": {"masked": {"card": "****-****-****-1234"}, "preview": {"item": "tea"}},
    "estimatedEffect": "Buys tea",
}

_CALL: dict[str, Any] = {
    "function": "crm.set_discount",
    "arguments": {"customer": "acme", "percent": "5"},
    "estimatedEffect": "acme gets 5%",
    "risk": "HIGH",
    "reversible": True,
    "wayBack": "It is undone if it fails or is interrupted.",
}
_CALLED: dict[str, Any] = {
    "call_id": "c1",
    "function": "crm.set_discount",
    "status": "SUCCESS",
    "effect": "done",
    "value": {"percent": 5},
    "error": None,
    "confinement": "unconfined",
    "request_digest": DIGEST,
    "key_id": KEY_ID,
    "signature": SIGNATURE,
}
CALLS: dict[str, dict[str, Any]] = {
    "call-preview": _CALL,
    "call-result": _CALLED,
    "call-result/failure": {
        **_CALLED,
        "status": "FAILURE",
        "effect": "unknown",
        "value": None,
        "error": {"code": "fate_unknown", "what": "it was interrupted", "where": "call c1", "next_step": "Look."},
    },
    "call-answer": {"state": "done", "call_id": "c1", "result": _CALLED, "stored": True},
    "call-answer/waiting": {
        "state": "waiting",
        "call_id": "c1",
        "waiting": {"approval_id": UUID7, "expires": LATER, "what": "acme gets 5%"},
    },
}

BROWSER: dict[str, dict[str, Any]] = {
    "browser-action/navigate": {"action_id": "b1", "type": "navigate", "target": "https://a.example/", "session": "s"},
    "browser-action/type": {
        "action_id": "b1",
        "type": "type",
        "target": "https://a.example/",
        "selector": "#q",
        "value": "x",
    },
    "browser-action/purchase": {
        "action_id": "b1",
        "type": "purchase",
        "target": "https://a.example/",
        "ref": "e7",
        "amount": {"value": 49.99, "currency": "EUR"},
    },
    "token-claims": {
        "iss": "abos-policy-authority",
        "aud": "abos-executor",
        "sub": "agent-1",
        "jti": UUID7,
        "iat": 1763199000,
        "exp": 1763202600,
        "nbf": 1763199000,
        "caps": ["browser.navigate", "browser.click"],
        "constraints": {
            "domains": ["*.a.example", "b.example", "192.0.2.1", "[2001:db8::1]"],
            "max_purchase": {"value": 50, "currency": "EUR"},
            "max_actions": 20,
        },
    },
    "http-preview": _PREVIEW,
    "http-preview/no-request": {**_PREVIEW, "method": None},
    "approval-request": {
        "approvalId": UUID7,
        "agentId": "agent-1",
        "tokenJti": UUID7,
        "requestDigest": DIGEST,
        "preview": _PREVIEW,
        "expires": LATER,
    },
    "approval": {
        "approvalId": UUID7,
        "agentId": "agent-1",
        "tokenJti": UUID7,
        "actionId": "b1",
        "actionDigest": DIGEST,
        "requestDigest": DIGEST,
        "preview": _PREVIEW,
        "screenshot": "screens/b1.png",
        "host": "boot:1:2:3",
        "createdAt": TIME,
        "expires": LATER,
        "state": "APPROVED",
        "decidedBy": "os:ada",
        "decidedAt": LATER,
        "reason": "as agreed",
    },
    "approval/call": {
        "approvalId": UUID7,
        "agentId": "agent-1",
        "tokenJti": UUID7,
        "actionId": "c1",
        "actionDigest": DIGEST,
        "requestDigest": DIGEST,
        "preview": _CALL,
        "host": "lasting",
        "createdAt": TIME,
        "expires": LATER,
        "state": "PENDING",
    },
    "approval-decision": {
        "approvalId": UUID7,
        "requestDigest": DIGEST,
        "approved": True,
        "decidedBy": "ada",
        "decidedAt": LATER,
    },
    "action-result": {
        "action_id": "b1",
        "success": True,
        "output": {"title": "A"},
        "contentHashBefore": DIGEST,
        "contentHashAfter": DIGEST,
    },
    "action-result/failure": {
        "action_id": "b1",
        "success": False,
        "reason": "User denied",
        "error": {"code": "APPROVAL_DENIED", "message": "denied by ada"},
    },
    "action-output": {
        "url": "https://a.example/",
        "title": "A",
        "held": [
            {
                "request_id": "r1",
                "method": "POST",
                "url": "https://a.example/pay",
                "approval_id": UUID7,
                "by_itself": False,
                "approved_by": "os:ada",
                "reason": "as agreed",
                "state": "answered",
                "status": 200,
            }
        ],
        "turned_away": [{"method": "GET", "url": "https://b.example/", "why": "the token does not allow this host"}],
        "noted": [{"kind": "popup", "what": "https://b.example/"}],
        "confined": True,
        "status": 200,
        "snapshot": {"role": "document"},
        "approval": {"approval_id": UUID7, "approved_by": "os:ada", "reason": None},
        "screenshot": {"path": "screens/b1.png", "sha256": "a" * 64},
    },
    "audit-record": {
        "timestamp": TIME,
        "agentId": "agent-1",
        "action": "click",
        "target": "https://a.example/",
        "tokenJti": UUID7,
        "success": True,
        "contentHashBefore": DIGEST,
        "contentHashAfter": None,
    },
    **{
        f"executor-error/{code}": {"code": code, "message": "why"}
        for code in (
            "TOKEN_INVALID",
            "TOKEN_EXPIRED",
            "TOKEN_REVOKED",
            "APPROVAL_DENIED",
            "APPROVAL_TIMEOUT",
            "KERNEL_ERROR",
        )
    },
    "executor-error/CAPABILITY_MISSING": {"code": "CAPABILITY_MISSING", "required": "browser.click"},
    "executor-error/CONSTRAINT_VIOLATED": {"code": "CONSTRAINT_VIOLATED", "constraint": "domains"},
    "executor-error/ELEMENT_NOT_FOUND": {"code": "ELEMENT_NOT_FOUND", "selector": "#buy"},
}


def _packet(kind: str, **more: Any) -> dict[str, Any]:
    return {
        "packet_type": kind,
        "packet_id": "p1",
        "correlation_id": "c1",
        "catalog_snapshot_ref": DIGEST,
        "finder_version": "1.0.0",
        "proof_ref": DIGEST,
        "idempotency_key": "k1",
        **more,
    }


_MATCH = _packet(
    "match", candidates=[{"simulation_id": "sim.a", "score": 0.5}, {"simulation_id": "s"}], fields={"n": 1}
)

_STEP = {
    "step_id": "s1",
    "simulation_id": "sim.a",
    "required_fields": ["n"],
    "required_fields_fingerprint": DIGEST,
    "policy_snapshot_version": "7",
    "confirmation_required": True,
    "access_action": "pay",
    "idempotency_key_recipe": [
        "correlation_id",
        "step_id",
        "simulation_id",
        "required_fields_fingerprint",
        "policy_snapshot_version",
    ],
    "retry_policy": {"max_attempts": 3, "backoff_ms": [100, 200]},
    "rollback_plan_ref": "sim.undo-a",
}

_OUTCOME = {"payload": {"ok": True}, "reason_code": "OK", "audit_refs": ["e1"], "proof_refs": [DIGEST]}

GOALS: dict[str, dict[str, Any]] = {
    "finder-packet/match": _MATCH,
    "finder-packet/clarify": _packet("clarify", question="How many?", field="n", attempt=1),
    "finder-packet/refuse": _packet("refuse", reason_code="OUT_OF_SCOPE"),
    "finder-packet/missing": _packet("missing", intent="fly to the moon"),
    "agent-goal-request": {
        "correlation_id": "c1",
        "tenant_id": "acme",
        "user_id": "ada",
        "thread_id": "th1",
        "raw_user_utterance": "pay the bill",
        "language_tag": "en-GB",
        "normalized_intent": "pay_bill",
        "sim_finder_packet": _MATCH,
        "confirm_state": {"status": "ANSWERED", "answer": "yes"},
        "idempotency_key": "k1",
        "attempt_counter": 0,
    },
    "agent-execution-plan": {
        "plan_id": "p1",
        "finder_packet_ref": DIGEST,
        "ordered_steps": [_STEP],
        "required_confirmations": ["s1"],
        "risk_level": "HIGH",
        "access_actions_required": ["pay"],
        "policy_snapshot_ref": DIGEST,
        "created_at": TIME,
    },
    "agent-step": _STEP,
    "agent-execution-outcome": {
        "step_id": "s1",
        "simulation_outcome": _OUTCOME,
        "audit_event_id": "e1",
        "proof_refs": [DIGEST],
        "dispatch_decision_hash": DIGEST,
        "next_step": None,
        "reason_code": "OK",
        "user_visible_text": "Paid.",
        "text_language": "en",
        "attempt_counter": 1,
    },
    "dispatch-envelope": {
        "correlation_id": "c1",
        "tenant_id": "acme",
        "user_id": "ada",
        "step_id": "s1",
        "simulation_id": "sim.a",
        "required_fields": {"n": 1},
        "confirmation_proof_ref": DIGEST,
        "access_action": "pay",
        "idempotency_key": "k1",
        "policy_snapshot_ref": DIGEST,
        "artifact_fingerprint_bundle_ref": DIGEST,
        "rollback_plan_ref": "sim.undo-a",
    },
    "simulation-outcome": _OUTCOME,
}
