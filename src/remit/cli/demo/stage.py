"""Functions that the parts of `remit demo` share: checks, small plans, and a digest of the files."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from remit.contracts.plans.outcome import PlanOutcome, PlanRefusal
from remit.core.errors import EnvironmentFailureError, Reason

Announce = Callable[[str, str], None]
"""Takes the title and the result of a step."""


def require(condition: object, otherwise: str) -> None:
    """Fail the demo if the condition does not hold."""
    if not condition:
        raise EnvironmentFailureError(Reason.INTERNAL, f"the demo found a problem: {otherwise}")


def plan_of(plan_id: str, *actions: dict[str, Any], **more: Any) -> bytes:
    numbered = [{"action_id": f"a{number}", **action} for number, action in enumerate(actions, start=1)]
    return json.dumps({"plan_id": plan_id, "action_plan": numbered, **more}).encode()


def update_json(target: str, path: str, value: Any) -> dict[str, Any]:
    operation = {"type": "json_update_value", "path": path, "value": value}
    return {"action_type": "FILE_MODIFY", "target": target, "operation": operation}


def replace_text(target: str, old: str, new: str) -> dict[str, Any]:
    operation = {"type": "text_replace", "pattern": old, "replacement": new}
    return {"action_type": "FILE_MODIFY", "target": target, "operation": operation}


def create(target: str, content: str) -> dict[str, Any]:
    return {"action_type": "FILE_CREATE", "target": target, "operation": {"type": "write", "content": content}}


def status_of(outcome: PlanOutcome | PlanRefusal) -> str:
    return outcome.status.status if isinstance(outcome, PlanOutcome) else "refused"


def expect(outcome: PlanOutcome | PlanRefusal, code: int) -> None:
    found = {error.error_code for error in outcome.errors}
    require(code in found, f"expected {code}, got {sorted(found)}")


def tree_of(root: Path) -> str:
    """Return a digest of every name, mode and byte below the root, without the reports that Remit writes."""
    digest = hashlib.sha256()
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in {"agent_outputs", "agent_logs"})
        for name in (*folders, *sorted(files)):
            path = Path(folder, name)
            content = path.read_bytes() if path.is_file() else b""
            digest.update(repr((str(path), path.stat().st_mode, content)).encode())
    return digest.hexdigest()
