"""Plans for the tests of what may run, and in which order."""

from typing import Any, Final

from remit.contracts.config.config import SystemConfig
from remit.contracts.plans.plan import Plan

ROOT: Final = "/srv/project"
HASH: Final = "sha256:" + "0" * 64


def create(action_id: str, target: str, *needs: str, **more: Any) -> dict[str, Any]:
    return _action(action_id, "FILE_CREATE", target, {"type": "write", "content": "x"}, needs, more)


def modify(action_id: str, target: str, *needs: str, **more: Any) -> dict[str, Any]:
    operation = {"type": "text_replace", "pattern": "a", "replacement": "b"}
    return _action(action_id, "FILE_MODIFY", target, operation, needs, more)


def delete(action_id: str, target: str, *needs: str, **more: Any) -> dict[str, Any]:
    return _action(action_id, "FILE_DELETE", target, {"type": "delete"}, needs, more)


def rename(action_id: str, target: str, new_path: str, *needs: str, **more: Any) -> dict[str, Any]:
    return _action(action_id, "FILE_RENAME", target, {"type": "rename", "new_path": new_path}, needs, more)


def _action(
    action_id: str, kind: str, target: str, operation: dict[str, Any], needs: tuple[str, ...], more: dict[str, Any]
) -> dict[str, Any]:
    action = {"action_id": action_id, "action_type": kind, "target": target, "operation": operation}
    return {**action, "depends_on": list(needs), **more}


def plan(*actions: dict[str, Any], **more: Any) -> Plan:
    return Plan.from_tree({"plan_id": "p", "action_plan": list(actions), **more})


def config(**settings: Any) -> SystemConfig:
    return SystemConfig.from_tree({"version": 1, **settings})
