"""A project in a workspace of its own, and the plans that tests make for it."""

import base64
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from remit.contracts.plans.envelope import Envelope
from remit.contracts.plans.outcome import PlanOutcome, PlanRefusal
from remit.contracts.plans.status import StatusUpdate
from remit.core.ids import Clock, system_clock
from remit.workspace.create import initialise
from remit.workspace.workspace import Workspace

REMITS_OWN = ("agent_outputs", "agent_logs", "remit.yaml")
OLD = 1_500_000_000_987_654_321
"""When the files of a project were last modified, in nanoseconds."""


class Project:
    """A folder with files, and the workspace over it."""

    def __init__(
        self, folder: Path, clock: Clock = system_clock, *, place: Path | None = None, **settings: Any
    ) -> None:
        """Its state lies in `folder`, and so does the project, unless it has a place of its own."""
        self.environ = {"REMIT_STATE": str(folder / "state")}
        self.root = (place or folder) / "project"
        self.root.mkdir()
        made, fresh = initialise(self.root, self.environ, clock)
        assert fresh
        made.close()
        if settings:
            (self.root / "remit.yaml").write_text(json.dumps({"version": 1, **settings}))
        self.clock = clock
        self.workspace = self.opened()

    def opened(self) -> Workspace:
        return Workspace.open(self.root, environ=self.environ, clock=self.clock)

    def close(self) -> None:
        self.workspace.close()

    def write(self, path: str, content: str | bytes = "one\ntwo\nthree\n", mode: int = 0o644) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        file.chmod(mode)
        os.utime(file, ns=(OLD, OLD))
        return file

    def link(self, path: str, target: str) -> None:
        """A symbolic link in the place of a file."""
        (self.root / path).unlink()
        (self.root / path).symlink_to(target)

    def read(self, path: str) -> str:
        return (self.root / path).read_text()

    def tree(self) -> dict[str, tuple[bytes, int, int] | None]:
        """Every file of the project's own, with bytes, mode and time; folders with none. Remit's own are left out."""
        found: dict[str, tuple[bytes, int, int] | None] = {}
        for path in sorted(self.root.rglob("*")):
            name = str(path.relative_to(self.root))
            if name.split("/", maxsplit=1)[0] in REMITS_OWN:
                continue
            if path.is_dir():
                found[name] = None
            else:
                about = path.stat()
                found[name] = (path.read_bytes(), about.st_mode & 0o7777, about.st_mtime_ns)
        return found

    def kinds(self) -> list[str]:
        with self.workspace.store.reading() as connection:
            return [row[0] for row in connection.rows("SELECT kind FROM ledger_entries ORDER BY seq")]

    def approve(self, plan: bytes, **allowed: Any) -> Envelope:
        return self.workspace.approve(plan, **allowed)

    def approve_despite_rules(self, plan: bytes) -> Envelope:
        """Approve a plan whose rule would not hold. `approve` refuses it, but another signer may not look."""
        with mock.patch("remit.plans.service.require_applicable"):
            return self.approve(plan)

    def apply_despite_rules(self, plan: bytes, **hooks: Any) -> PlanOutcome:
        return ran(self.workspace.apply(self.approve_despite_rules(plan).canonical(), **hooks))

    def apply(self, plan: bytes, *, even_if_it_fails: bool = False, **hooks: Any) -> PlanOutcome:
        """Approve and apply; a refusal fails the test."""
        envelope = self.approve(plan, even_if_it_fails=even_if_it_fails)
        return ran(self.workspace.apply(envelope.canonical(), **hooks))

    def report_folder(self, outcome: PlanOutcome) -> Path:
        return self.root / outcome.status.folder


def ran(outcome: PlanOutcome | PlanRefusal) -> PlanOutcome:
    assert isinstance(outcome, PlanOutcome), outcome
    return outcome


def refused(outcome: PlanOutcome | PlanRefusal) -> tuple[int, str]:
    """The code and the message of a refusal."""
    assert isinstance(outcome, PlanRefusal), outcome
    (error,) = outcome.errors
    assert error.recovery_action == "SKIPPED"
    return error.error_code, error.message


def at_phase(phase: str, act: Callable[[], object]) -> Callable[[StatusUpdate], None]:
    """For `on_status`: do something when the plan comes to this phase for the first time."""
    pending = [act]

    def listen(update: StatusUpdate) -> None:
        if update.phase == phase and pending:
            pending.pop()()

    return listen


def plan_of(*actions: dict[str, Any], plan_id: str = "plan-001", **more: Any) -> bytes:
    """`rules` are validation rules; everything else is an execution instruction."""
    document: dict[str, Any] = {"plan_id": plan_id, "action_plan": list(actions)}
    if rules := more.pop("rules", None):
        document["validation_rules"] = rules
    if more:
        document["execution_instructions"] = more
    return json.dumps(document).encode()


def action(action_id: str, kind: str, target: str, operation: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"action_id": action_id, "action_type": kind, "target": target, "operation": operation, **more}


def create(action_id: str, target: str, content: str | bytes = "new\n", **more: Any) -> dict[str, Any]:
    operation: dict[str, Any] = {"type": "write"}
    if isinstance(content, bytes):
        operation["content_base64"] = base64.b64encode(content).decode()
    else:
        operation["content"] = content
    if mode := more.pop("mode", None):
        operation["mode"] = mode
    return action(action_id, "FILE_CREATE", target, operation, **more)


def replace(action_id: str, target: str, old: str = "two", new: str = "TWO", **more: Any) -> dict[str, Any]:
    operation = {"type": "text_replace", "pattern": old, "replacement": new}
    return action(action_id, "FILE_MODIFY", target, operation, **more)


def delete(action_id: str, target: str, **more: Any) -> dict[str, Any]:
    return action(action_id, "FILE_DELETE", target, {"type": "delete"}, **more)


def rename(action_id: str, target: str, new_path: str, **more: Any) -> dict[str, Any]:
    return action(action_id, "FILE_RENAME", target, {"type": "rename", "new_path": new_path}, **more)


def digest_of(content: str | bytes) -> str:
    data = content.encode() if isinstance(content, str) else content
    return "sha256:" + hashlib.sha256(data).hexdigest()
