"""A plan with every action, operation and rule, and a configuration with every setting."""

from typing import Any

from remit.contracts.config.protected_files import built_in_globs

DIGEST = "sha256:" + "ab" * 32

WORKED_EXAMPLE: dict[str, Any] = {
    "plan_id": "plan-001",
    "action_plan": [
        {
            "action_id": "a001",
            "action_type": "FILE_MODIFY",
            "target": "esquemas/esquema_bd.json",
            "operation": {
                "type": "json_add_property",
                "path": "$.properties",
                "key": "new_field",
                "value": {"type": "string"},
            },
        }
    ],
}

_EDITS: list[dict[str, Any]] = [
    {"type": "text_replace", "pattern": "a", "replacement": "b", "regex": True, "count": 2},
    {"type": "line_insert", "line_number": 1, "content": "first\n"},
    {"type": "line_delete", "start_line": 1, "end_line": 2},
    {"type": "json_add_property", "path": "$", "key": "k", "value": [1, {"a": None}]},
    {"type": "json_remove_property", "path": "$", "key": "k"},
    {"type": "json_update_value", "path": "$.k", "value": None},
    {"type": "yaml_update", "path": "$.k", "value": "v"},
    {"type": "replace_content", "content": "all new\n", "mode": "0755"},
]


def _action(identity: str, kind: str, operation: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "action_id": identity,
        "action_type": kind,
        "target": f"docs/{identity}.txt",
        "operation": operation,
        "depends_on": [],
        "reversible": True,
        "risk_level": "LOW",
        "timeout_seconds": 30,
        "expected_hash_before": DIGEST,
        "expected_hash_after": DIGEST,
        **more,
    }


FULL_PLAN: dict[str, Any] = {
    "plan_id": "plan-002",
    "action_plan": [
        _action("create", "FILE_CREATE", {"type": "write", "content": "hello\n", "mode": "0644"}),
        _action("create-bytes", "FILE_CREATE", {"type": "write", "content_base64": "AAEC"}),
        *(_action(f"edit-{n}", "FILE_MODIFY", edit, depends_on=["create"]) for n, edit in enumerate(_EDITS)),
        _action("delete", "FILE_DELETE", {"type": "delete"}),
        _action("rename", "FILE_RENAME", {"type": "rename", "new_path": "docs/other.txt"}),
        _action("schema", "SCHEMA_UPDATE", {"type": "json_update_value", "path": "$.title", "value": "T"}),
        _action(
            "sql",
            "SQL_EXECUTE",
            {
                "type": "sql_execute",
                "query_file": "queries/query.sql",
                "parameters": {"since": "2026-01-01"},
                "connection": "duckdb",
                "expect_results": True,
                "save_results_to": "out/result.parquet",
            },
        ),
        _action("sql-text", "SQL_EXECUTE", {"type": "sql_execute", "query": "SELECT 1"}),
        _action(
            "pipe",
            "PIPELINE_RUN",
            {"type": "pipeline_run", "pipeline": "nightly", "parameters": {"day": 1}},
            reversible=False,
        ),
    ],
    "execution_instructions": {
        "execution_order": "parallel",
        "stop_on_error": False,
        "rollback_on_failure": False,
        "preserve_permissions": False,
        "verify_hashes": False,
        "timeout_seconds": 3600,
    },
    "validation_rules": [
        {"type": "file_exists", "path": "docs/create.txt"},
        {"type": "file_absent", "path": "docs/delete.txt"},
        {"type": "hash", "path": "docs/create.txt", "digest": DIGEST},
        {"type": "json_schema", "path": "a.json", "schema_file": "a.schema.json"},
        {"type": "json_schema", "path": "a.json", "schema": {"type": "object"}},
        {"type": "json_path", "path": "a.json", "expression": "$.k", "expected": 1},
        {
            "type": "sql_expect",
            "query": "SELECT count(*) FROM t",
            "parameters": {"a": 1},
            "connection": "duckdb",
            "expected": [[3]],
        },
    ],
}

FULL_CONFIG: dict[str, Any] = {
    "version": 1,
    "root": ".",
    "base_directories": ["/srv/inbox"],
    "protected": {
        "critical": [*built_in_globs("critical"), "vault/**"],
        "important": [*built_in_globs("important")],
        "agent_system": [*built_in_globs("agent_system")],
    },
    "limits": {
        "max_files": 10,
        "max_file_bytes": 1_000_000,
        "max_backup_bytes": 1_000_000,
        "max_concurrent_operations": 2,
        "max_memory_bytes": 64 << 20,
        "max_io_bytes": 1 << 30,
    },
    "timeouts": {"file_operation": 120, "schema_update": 60, "sql": 300, "pipeline": 3600, "task": 3600},
    "retention": {"rollback_days": 90},
    "sandbox": "required",
    "connections": {
        "duckdb": {"type": "duckdb", "path": "data/main.duckdb", "read_only": True},
        "warehouse": {
            "type": "postgresql",
            "url_variable": "WAREHOUSE_URL",
            "url_file": None,
            "read_only": False,
            "lock_timeout_seconds": 3,
            "preview": "execute",
            "statement_timeout_seconds": 60,
            "preview_timeout_seconds": 20,
            "functions": ["public.total"],
        },
    },
    "pipelines": {
        "nightly": {
            "type": "sql",
            "connection": "duckdb",
            "steps": ["pipelines/totals.sql"],
            "parameters": ["day"],
            "timeout_seconds": 600,
            "description": "Rebuilds the totals",
        },
        "clean": {
            "type": "python",
            "steps": ["etl.clean:run"],
            "reads": ["data/in.csv"],
            "writes": ["data/out.csv"],
            "parameters": [],
            "timeout_seconds": None,
            "description": "",
        },
        "models": {
            "type": "dbt",
            "project": "analytics",
            "connection": "duckdb",
            "command": "run",
            "select": ["totals"],
            "parameters": [],
            "timeout_seconds": None,
            "description": "",
        },
    },
    "pipeline_packages": ["etl"],
    "policies": {"cedar_files": ["policies/access.cedar"], "currency": "EUR"},
    "approvals": {"allow_own": False, "allow_without_preview": True},
    "browser": {
        "issuer": "https://issuer.example",
        "audience": "remit",
        "ports": [80, 443, 8443],
        "hosts": {"shop.internal": "10.1.2.3"},
        "private_addresses": ["10.1.0.0/16"],
        "certificates": "/etc/remit/authorities.pem",
        "executable": "/usr/bin/chromium",
        "user": "browser",
        "max_body_bytes": 1_048_576,
        "idle_seconds": 60,
        "late_seconds": 2,
        "page_bytes": 1 << 30,
        "page_seconds": 8,
        "picture_days": 7,
        "picture_bytes": 104857600,
        "metrics_port": 9464,
    },
    "tenants": {"acme": {"users": ["ada"], "description": "The first customer"}},
    "goals": {"catalogue": ["simulations.yaml"]},
    "web": {
        "host": "10.0.0.5",
        "port": 8443,
        "public_url": "https://remit.example",
        "tls": {"certificate": "/etc/remit/remit.pem", "key": "/etc/remit/remit.key"},
        "insecure_http": False,
        "allowed_hosts": ["remit.internal"],
        "session_hours": 8,
        "idle_minutes": 30,
        "trusted_proxies": ["10.1.2.3"],
        "oidc": {
            "issuer": "https://id.example/realm",
            "client_id": "remit",
            "client_secret_variable": "OIDC_SECRET",
            "client_secret_file": None,
            "scopes": ["profile", "groups"],
            "role_claim": "groups",
            "roles": [{"value": "staff", "role": "viewer"}],
            "user_claim": "email",
            "tenant": "acme",
            "name": "Acme",
        },
        "metrics": {"secret_file": "/etc/remit/scrape", "open_on_loopback": False},
        "limits": {
            "body_bytes": 1_048_576,
            "body_seconds": 10,
            "header_seconds": 5,
            "connections": 100,
            "listeners": 50,
            "requests_per_minute": 600,
            "logins_per_minute": 5,
        },
        "mcp": {"elicitation": True},
    },
}
