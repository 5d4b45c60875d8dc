"""One valid document for every contract and every shape in it. The tests beside it spoil them in every way."""

from dataclasses import dataclass
from typing import Any

from remit.contracts.base import Contract, OneOf
from remit.contracts.schemas import CONTRACTS, load_contract
from tests.contracts import plan_examples as plans
from tests.contracts.catalogue_examples import CATALOGUES
from tests.contracts.operation_examples import BROWSER, CALLS, GOALS
from tests.contracts.values import DIGEST, KEY_ID, LATER, OTHER_UUID4, SIGNATURE, TIME, UUID4, UUID7


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
    "task-manifest/restore": _manifest("FILE_RESTORE", {"recovery": "snapshot-1", "destination_path": "/data/a.txt"}),
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
    "execution-result/restore": _result(
        "FILE_RESTORE",
        _output("FILE_RESTORE", {"source": "snapshot-1", "destination": "/data/a.txt"}, {}),
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
        "original_owner": "1000:1000",
        "original_attributes": {"user.comment": "YQ=="},
        "hash_after": DIGEST,
        "restore_command": "copy the backup back",
        "restored_by": "order-1",
        **more,
    }


_PIPELINE = {
    "action_id": "act-4",
    "pipeline": "nightly",
    "kind": "python",
    "reversible": False,
    "steps": [
        {"name": "etl.load:run", "state": "done", "rows": 12, "milliseconds": 3, "words": ""},
        {"name": "etl.report:run", "state": "failed", "rows": None, "milliseconds": 1, "words": "ValueError"},
    ],
    "left_out": 0,
    "changes": ["out/a.csv"],
    "description": "every night",
    "log": ["loaded"],
    "server": "shop at db.example:5432/shop as remit",
}
_SQL = {
    "action_id": "a2",
    "connection": "shop",
    "database": "data/shop.duckdb",
    "changes_database": True,
    "statements": [
        {"number": 1, "kind": "DELETE", "words": "deletes from t", "reads": ["t"], "writes": ["t"]}
        | {"rows_changed": 3, "destroys": True, "estimated_rows": 4},
        {"number": 2, "kind": "SELECT", "words": "reads t", "reads": None, "writes": [], "rows_read": 1}
        | {"estimated_rows": 0},
    ],
    "left_out": 1,
    "result_rows": 1,
    "columns": [{"name": "id", "type": "INTEGER"}],
    "saved_to": "rows.csv",
    "query_file": "migrations/1.sql",
    "server": "shop at db.example:5432/shop as remit",
    "tables": [{"table": "public.t", "inserted": 0, "updated": 1, "deleted": 3}],
    "irreversible": "public.t has no primary key",
    "computed": "explained",
    "notes": ["nothing was run"],
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
        "sql": [_SQL],
        "pipelines": [_PIPELINE],
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
        "rows": {
            "checkpoint_id": "00000000-0000-5000-8000-000000000007",
            "connection": "shop",
            "server": "shop at db.example:5432/shop as remit",
            "action_ids": ["a2"],
            "tables": [{"table": "public.t", "inserted": 0, "updated": 1, "deleted": 3}],
            "backup_location": "agent_outputs/reports/r/backups/rows.bak",
            "original_hash": DIGEST,
            "original_size": 12,
            "irreversible": None,
            "restore_command": "Run: remit rollback",
            "restored_at": TIME,
            "restored_by": "rollback-1",
        },
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

_STATUS = {
    "envelope_id": UUID7,
    "plan_id": "plan-001",
    "report_id": UUID4,
    "status": "SUCCESS",
    "executor_id": "remit.plan",
    "executor_version": "0.1.0",
    "completed_at": TIME,
    "folder": "agent_outputs/reports/r",
    "report_digest": DIGEST,
    "change_log_digest": DIGEST,
    "manifest_digest": DIGEST,
    "key_id": KEY_ID,
    "signature": SIGNATURE,
}
_OUTCOMES: dict[str, dict[str, Any]] = {
    "completion-status": _STATUS,
    "status-update": {
        "envelope_id": UUID7,
        "plan_id": "plan-001",
        "phase": "RUNNING",
        "done": 1,
        "total": 3,
        "at": TIME,
    },
    "plan-outcome": {
        "status": _STATUS,
        "report": _REPORTS["execution-report"],
        "change_log": _REPORTS["change-log"],
        "manifest": _REPORTS["rollback-manifest"],
        "errors": [_REPORTS["error-response"]],
    },
    "plan-refusal": {"envelope_id": UUID7, "errors": [_REPORTS["error-response"]]},
    "plan-preview": {
        "plan_id": "plan-001",
        "plan_digest": DIGEST,
        "config_digest": DIGEST,
        "digest": DIGEST,
        "status": "NEEDS_APPROVAL",
        "risk": "HIGH",
        "inputs": [{"path": "docs/a.txt", "digest": DIGEST}],
        "files": [
            {
                "action_id": "a1",
                "path": "docs/a.txt",
                "new_path": None,
                "operation": "MODIFY",
                "before": DIGEST,
                "after": DIGEST,
                "lines_added": 1,
                "lines_removed": 0,
                "diff": "+new",
                "diff_left_out": 0,
            }
        ],
        "sql": [_SQL | {"rows": [["1"], [None]]}],
        "pipelines": [_PIPELINE],
        "needs": {"protected": [".env"], "executable": [], "content": ["docs/a.txt"], "irreversible": []},
        "findings": [{"path": "docs/a.txt", "rule": "credential", "where": "line 1", "what": "a key"}],
        "problems": [_REPORTS["error-response"]],
        "rules": ["file_exists docs/a.txt", "json_schema a.json against a.schema.json"],
        "folders": ["docs/new"],
        "backup_bytes": 12,
    },
    "rollback-order": {
        "order_id": "order-1",
        "envelope_id": UUID7,
        "manifest_id": UUID4,
        "attempt": 1,
        "checkpoints": [UUID7],
        "force": True,
        "drift": DIGEST,
        "issued_at": TIME,
        "expires_at": LATER,
        "key_id": KEY_ID,
        "signature": SIGNATURE,
    },
    "rollback-outcome": {
        "order_id": "order-1",
        "envelope_id": UUID7,
        "manifest_id": UUID4,
        "status": "PARTIAL",
        "restored": [UUID7],
        "kept": [{"checkpoint_id": OTHER_UUID4, "reason": "the folder is not empty"}],
        "manifest": _REPORTS["rollback-manifest"],
        "errors": [_REPORTS["error-response"]],
        "executed_at": TIME,
        "key_id": KEY_ID,
        "signature": SIGNATURE,
    },
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

_HEAD = {
    "tenant_id": "default",
    "seq": 7,
    "hash": DIGEST,
    "signed_at": TIME,
    "key_id": KEY_ID,
    "signature": SIGNATURE,
}
_LEDGER = {
    "ledger-head": _HEAD,
    "ledger-entry": {
        "tenant_id": "default",
        "seq": 7,
        "entry_id": UUID7,
        "created_at": TIME,
        "kind": "task.intent",
        "correlation_id": "c-1",
        "task_id": "t-1",
        "capability_id": "NO_EFFECT",
        "actor": "somebody",
        "payload": {"any": ["thing", 1, None]},
        "payload_digest": DIGEST,
        "prev_hash": DIGEST,
        "hash": DIGEST,
    },
    "bundle-header": {
        "bundle": "remit-evidence",
        "version": 1,
        "tenant_id": "default",
        "first_seq": 1,
        "correlation_id": "c-1",
        "exported_at": TIME,
    },
    "bundle-trailer": {"entries": 7, "head": _HEAD},
}

_SLO: dict[str, dict[str, Any]] = {
    "slo-waivers": {
        "version": 1,
        "waivers": [
            {
                "figure": "agent_dispatch_p95_ms",
                "limit": 1500,
                "approved_by": "Ann Builder",
                "reason": "The new disk is ordered.",
                "issued": "2026-01-01",
                "ends": "2026-01-31",
            }
        ],
    }
}

EXAMPLES = [
    Example(label, label.partition("/")[0], document)
    for examples in (_TASKS, _PLANS, _REPORTS, _OUTCOMES, BROWSER, CALLS, CATALOGUES, GOALS, _SLO, _LEDGER)
    for label, document in examples.items()
]

BY_LABEL = {example.label: example for example in EXAMPLES}

WITHOUT_EXAMPLE = CONTRACTS.keys() - {example.name for example in EXAMPLES}
