"""One valid document for every contract and every shape in it. The tests beside it spoil them in every way."""

from dataclasses import dataclass
from typing import Any

from remit.contracts.base import Contract, OneOf
from remit.contracts.schemas import CONTRACTS, load_contract
from tests.contracts import plan_examples as plans

TIME = "2026-11-15T09:30:00Z"
LATER = "2026-11-15T09:30:01.250000Z"
DIGEST = "sha256:" + "0f" * 32
UUID4 = "7f1c0a4e-52aa-4a0b-9d3c-1b2f6a7c8d90"
OTHER_UUID4 = "0c9d5d0e-93b1-4f57-8f0e-52a1d3a6b7c8"
UUID7 = "019a8b3c-7d2e-7f10-8a4b-1c2d3e4f5a6b"
KEY_ID = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
SIGNATURE = "A" * 85 + "w"


@dataclass(frozen=True)
class Example:
    """A document that its contract accepts."""

    label: str
    name: str
    document: dict[str, Any]

    @property
    def contract(self) -> type[Contract] | OneOf[Any]:
        return load_contract(self.name)

    def parse(self, document: Any) -> Contract:
        parsed: Contract = self.contract.from_tree(document)
        return parsed


def _manifest(capability: str, inputs: dict[str, Any]) -> dict[str, Any]:
    return {"task_id": "t-1", "capability_id": capability, "inputs": inputs, "constraints": {"reversible": True}}


def _result(capability: str, output: dict[str, Any] | None, error: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "status": "SUCCESS" if error is None else "FAILURE",
        "output": output,
        "error": error,
        "task_id": "t-1",
        "capability_id": capability,
        "executor_id": "files-1",
        "key_id": KEY_ID,
        "signature": SIGNATURE,
    }


def _output(capability: str, summary: dict[str, Any], undo: dict[str, Any]) -> dict[str, Any]:
    return {"task_id": "t-1", "capability_id": capability, "result_summary": summary, "undo_metadata": undo}


_TRANSFER = {"source_path": "/data/a.txt", "destination_path": "/data/b.txt"}
_TRANSFERRED = {"source": "/data/a.txt", "destination": "/data/b.txt"}

_TASKS = {
    "task-manifest/move": _manifest("FILE_MOVE", _TRANSFER),
    "task-manifest/copy": _manifest("FILE_COPY", _TRANSFER),
    "task-manifest/delete": _manifest("FILE_DELETE", {"source_path": "/data/a.txt"}),
    "task-manifest/no-effect": _manifest("NO_EFFECT", {}),
    "task-manifest/other": _manifest("MEDIA_RESIZE", {"width": 640, "tags": ["a", None, 1.5]}),
    "lease-token": {
        "lease_id": UUID7,
        "task_id": "t-1",
        "capability_id": "FILE_MOVE",
        "executor_id": "files-1",
        "issued_at": TIME,
        "expires_at": LATER,
        "key_id": KEY_ID,
        "signature": SIGNATURE,
    },
    "execution-result/move": _result(
        "FILE_MOVE", _output("FILE_MOVE", _TRANSFERRED, {"original_path": "/data/a.txt"}), None
    ),
    "execution-result/copy": _result(
        "FILE_COPY",
        _output("FILE_COPY", _TRANSFERRED, {"created_path": "/data/b.txt", "sha256": DIGEST}),
        None,
    ),
    "execution-result/copy-without-undo": _result("FILE_COPY", _output("FILE_COPY", _TRANSFERRED, {}), None),
    "execution-result/delete": _result(
        "FILE_DELETE",
        _output("FILE_DELETE", {"source": "/data/a.txt", "destination": None}, {"recovery": "snapshot-1"}),
        None,
    ),
    "execution-result/no-effect": _result("NO_EFFECT", _output("NO_EFFECT", {}, {}), None),
    "execution-result/other": _result("MEDIA_RESIZE", {"width": 640}, None),
    "execution-result/failure": _result(
        "FILE_MOVE", None, {"error_code": "EXECUTION_FAILED", "message": "the source does not exist"}
    ),
}

_STATE = {"exists": True, "hash": DIGEST, "size_bytes": 12, "last_modified": TIME}
_ABSENT = {"exists": False, "hash": None, "size_bytes": None, "last_modified": None}
_DIFF = {"lines_added": 2, "lines_removed": 1, "preview": "+a\n+b\n-c"}


def _change(operation: str, before: dict[str, Any], after: dict[str, Any], **more: str) -> dict[str, Any]:
    return {
        "change_id": UUID7,
        "action_id": "a1",
        "file_path": f"{operation}.txt",
        "operation": operation,
        "before_state": before,
        "after_state": after,
        "diff_summary": _DIFF,
        "timestamp": TIME,
        **more,
    }


def _checkpoint(identity: str, operation: str, **more: Any) -> dict[str, Any]:
    return {
        "checkpoint_id": identity,
        "file_path": "docs/a.txt",
        "backup_location": "agent_outputs/reports/r/backups/a.txt.bak",
        "original_hash": DIGEST,
        "original_size": 12,
        "original_mode": "0644",
        "original_mtime_ns": "1763199000123456789",
        "operation_to_reverse": operation,
        "hash_after": DIGEST,
        "restore_command": "copy the backup back",
        **more,
    }


_REPORTS: dict[str, dict[str, Any]] = {
    "execution-report": {
        "report_id": UUID4,
        "plan_id": "plan-001",
        "executor_version": "0.1.0",
        "status": "PARTIAL",
        "started_at": TIME,
        "completed_at": LATER,
        "duration_ms": 1250,
        "actions_summary": {"total": 4, "completed": 2, "failed": 1, "skipped": 1},
        "actions_completed": [
            {"action_id": "a1", "status": "SUCCESS", "started_at": TIME, "completed_at": LATER, "output": "done"},
            {"action_id": "a2", "status": "SUCCESS", "started_at": TIME, "completed_at": LATER, "output": {"rows": 3}},
        ],
        "actions_failed": [
            {"action_id": "a3", "status": "FAILED", "error_code": 2001, "error_message": "x", "stack_trace": "y"}
        ],
        "actions_skipped": [{"action_id": "a4", "reason": "Dependency a3 failed"}],
        "rollback_performed": False,
        "rollback_manifest_id": OTHER_UUID4,
        "warnings": ["ran without a sandbox"],
    },
    "change-log": {
        "log_id": UUID4,
        "plan_id": "plan-001",
        "execution_report_id": OTHER_UUID4,
        "created_at": TIME,
        "changes": [
            _change("CREATE", _ABSENT, _STATE),
            _change("MODIFY", _STATE, _STATE),
            _change("DELETE", _STATE, _ABSENT),
            _change("RENAME", _STATE, _STATE, new_path="b.txt"),
        ],
        "files_affected_count": 4,
        "total_lines_changed": 12,
    },
    "rollback-manifest": {
        "manifest_id": UUID4,
        "plan_id": "plan-001",
        "created_at": TIME,
        "expires_at": LATER,
        "executed_at": LATER,
        "status": "EXECUTED",
        "checkpoints": [
            _checkpoint(UUID7, "MODIFY", restored_at=LATER),
            _checkpoint(UUID4, "RENAME", new_path="docs/b.txt", restored_at=LATER),
            {
                "checkpoint_id": OTHER_UUID4,
                "file_path": "new",
                "file_kind": "directory",
                "backup_location": None,
                "original_hash": None,
                "original_size": None,
                "operation_to_reverse": "CREATE",
                "restore_command": "remove the directory",
                "restored_at": LATER,
            },
        ],
        "rollback_order": [OTHER_UUID4, UUID4, UUID7],
        "auto_rollback_script": "agent_outputs/reports/r/rollback.py",
        "notes": "",
    },
    "error-response": {
        "error_id": UUID7,
        "error_code": 2001,
        "error_category": "FILE_SYSTEM_ERROR",
        "error_type": "FILE_NOT_FOUND",
        "message": "Target file does not exist",
        "details": {"action_id": "a001", "target": "path/to/file.py", "operation": "FILE_MODIFY"},
        "recovery_action": "SKIPPED",
        "timestamp": TIME,
    },
}

_PREVIEW: dict[str, Any] = {
    "method": "POST",
    "url": "https://shop.example/pay",
    "headers": {"content-type": "application/json"},
    "body": {"masked": {"card": "****-****-****-1234"}, "preview": {"item": "tea"}},
    "estimatedEffect": "Buys tea",
}

_BROWSER: dict[str, dict[str, Any]] = {
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
        "constraints": {"domains": ["*.a.example", "b.example"], "max_purchase": {"value": 50, "currency": "EUR"}},
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
    "executor-error/CONSTRAINT_VIOLATED": {"code": "CONSTRAINT_VIOLATED", "constraint": "Domain not allowed"},
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


_MATCH = _packet("match", candidates=[{"simulation_id": "sim.a", "score": 0.5}, {"simulation_id": "s"}], fields={"n": 1})

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

_GOALS: dict[str, dict[str, Any]] = {
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

_PLANS = {
    "plan": plans.FULL_PLAN,
    "plan/worked-example": plans.WORKED_EXAMPLE,
    "system-config": plans.FULL_CONFIG,
    "system-config/least": {"version": 1},
    "envelope": {
        "envelope_id": UUID7,
        "status": "APPROVED",
        "plan": plans.FULL_PLAN,
        "config_digest": DIGEST,
        "plan_digest": DIGEST,
        "inputs": [{"path": "queries/q.sql", "digest": DIGEST}],
        "approvals": {"protected": [".env"], "executable": ["run.sh"], "content": ["a.md"], "irreversible": ["pipe"]},
        "issued_at": TIME,
        "expires_at": LATER,
        "key_id": KEY_ID,
        "signature": SIGNATURE,
    },
}

EXAMPLES = [
    Example(label, label.partition("/")[0], document)
    for label, document in {**_TASKS, **_PLANS, **_REPORTS, **_BROWSER, **_GOALS}.items()
]

BY_LABEL = {example.label: example for example in EXAMPLES}

WITHOUT_EXAMPLE = CONTRACTS.keys() - {example.name for example in EXAMPLES}
