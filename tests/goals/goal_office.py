"""A workspace with a goal door: a catalogue, policies, two tenants, and a folder that its simulations work on."""

import json
from pathlib import Path
from typing import Any, Final

from remit.contracts.goals.error_codes import goal_code
from remit.contracts.goals.goal import AgentGoalRequest
from remit.core.errors import RefusedError, RemitError
from remit.core.ids import Clock, system_clock
from remit.goals.promotion import PromotionService
from remit.goals.service import GoalService, Reply
from remit.identity.person import Person
from remit.workspace.create import initialise
from remit.workspace.workspace import Workspace

ANN: Final = Person("os:ann")
TENANT, USER = "acme", "mia"

ARCHIVE: Final[dict[str, Any]] = {
    "id": "archive-note",
    "version": "1",
    "title": "Archive a note",
    "impact": "impactful",
    "risk": "MEDIUM",
    "access_action": "archive_note",
    "fields": {"note": {"type": "identifier", "question": "Which note?"}},
    "phrases": {"en": ["archive the note {note}", "put the note {note} away"], "de": ["archiviere die Notiz {note}"]},
    "rollback": "undo-archive",
    "timeout_seconds": 20,
    "binding": {
        "type": "plan",
        "template": {
            "action_plan": [
                {
                    "action_id": "move",
                    "action_type": "FILE_RENAME",
                    "target": "notes/{note}.txt",
                    "reversible": True,
                    "risk_level": "LOW",
                    "operation": {"type": "rename", "new_path": "archive/{note}.txt"},
                }
            ]
        },
    },
}
UNDO_ARCHIVE: Final[dict[str, Any]] = {
    "id": "undo-archive",
    "version": "1",
    "title": "Bring a note back",
    "impact": "impactful",
    "risk": "LOW",
    "access_action": "archive_note",
    "fields": {"of": {"type": "text", "question": "Which goal?"}},
    "rollback": "archive-note",
    "binding": {"type": "undo"},
}
PING: Final[dict[str, Any]] = {
    "id": "ping",
    "version": "1",
    "title": "See whether it works",
    "impact": "read_only",
    "risk": "LOW",
    "access_action": "ping",
    "phrases": {"en": ["are you there"], "de": ["bist du da"]},
    "binding": {"type": "task", "capability_id": "NO_EFFECT", "inputs": {}},
}
TOUCH: Final[dict[str, Any]] = {
    "id": "copy-form",
    "version": "1",
    "title": "Copy the form",
    "impact": "impactful",
    "risk": "LOW",
    "access_action": "copy_form",
    "fields": {"name": {"type": "identifier", "question": "Under which name?"}},
    "phrases": {"en": ["copy the form as {name}"], "tr": ["formu {name} olarak kopyala"]},
    "rollback": "undo-copy",
    "timeout_seconds": 20,
    "binding": {
        "type": "task",
        "capability_id": "FILE_COPY",
        "inputs": {"source_path": "BASE/form.txt", "destination_path": "BASE/{name}.txt"},
        "reversible": True,
    },
}
UNDO_COPY: Final[dict[str, Any]] = {
    **UNDO_ARCHIVE,
    "id": "undo-copy",
    "title": "Remove the copy",
    "access_action": "copy_form",
    "rollback": "copy-form",
}
SIMULATIONS: Final = (ARCHIVE, UNDO_ARCHIVE, PING, TOUCH, UNDO_COPY)

POLICY: Final = """
@id("everybody-pings")
permit (principal, action == Action::"ping", resource);

@id("mia-archives")
permit (principal == User::"acme/mia", action in [Action::"archive_note", Action::"copy_form"], resource);

@id("leo-asks-first")
@verdict("approval_required")
permit (principal == User::"acme/leo", action == Action::"copy_form", resource);
"""


class Office:
    """`promote` none to leave all simulations drafts."""

    def __init__(
        self,
        folder: Path,
        *,
        clock: Clock = system_clock,
        url: str | None = None,
        simulations: tuple[dict[str, Any], ...] = SIMULATIONS,
        policy: str = POLICY,
        promoted: bool = True,
        **settings: Any,
    ) -> None:
        self.folder = folder
        self.root = folder / "project"
        self.base = folder / "base"
        self.root.mkdir()
        self.base.mkdir()
        (self.base / "form.txt").write_text("form\n")
        self.environ = {"REMIT_STATE": str(folder / "state"), **({"REMIT_TEST_URL": url} if url else {})}
        self.clock = clock
        made, fresh = initialise(self.root, self.environ, clock, url_variable="REMIT_TEST_URL" if url else None)
        assert fresh
        made.close()
        self.write_config(**settings)
        self.write_catalogue(*simulations)
        self.write_policy(policy)
        for name in ("one", "two", "three"):
            self.write_note(name)
        self.workspace = self.opened()
        if promoted:
            for each in simulations:
                self.promote(each["id"])

    def write_config(self, **settings: Any) -> None:
        config = {
            "version": 1,
            "base_directories": [str(self.base)],
            "goals": {"catalogue": ["simulations.json"]},
            "policies": {"cedar_files": ["access.cedar"]},
            "tenants": {"acme": {"users": ["mia", "leo", "eve"]}, "globex": {"users": ["mia"]}},
            **settings,
        }
        (self.root / "remit.yaml").write_text(json.dumps(config))

    def write_catalogue(self, *simulations: dict[str, Any]) -> None:
        text = json.dumps({"version": 1, "simulations": simulations}).replace("BASE/", f"{self.base}/")
        (self.root / "simulations.json").write_text(text)

    def write_policy(self, text: str) -> None:
        (self.root / "access.cedar").write_text(text)

    def write_note(self, name: str) -> None:
        (self.root / "notes").mkdir(exist_ok=True)
        (self.root / "notes" / f"{name}.txt").write_text(f"{name}\n")

    def opened(self) -> Workspace:
        return Workspace.open(self.root, environ=self.environ, clock=self.clock)

    def close(self) -> None:
        self.workspace.close()

    @property
    def goals(self) -> GoalService:
        return self.workspace.goals

    @property
    def promotion(self) -> PromotionService:
        return self.workspace.promotion

    def promote(self, simulation_id: str, tenant: str = TENANT) -> None:
        self.promotion.promote(simulation_id, tenant_id=tenant, who=ANN)

    def retire(self, simulation_id: str, tenant: str = TENANT) -> None:
        self.promotion.retire(simulation_id, tenant_id=tenant, who=ANN)

    def ask(self, text: str, **changes: Any) -> Reply:
        return self.goals.ask(text, **{"user": USER, "tenant": TENANT, "language": "en", **changes})

    def answer(self, reply: Reply, answer: str | None = "yes", **changes: Any) -> Reply:
        asked = {"user": reply.goal.user_id, "tenant": reply.goal.tenant_id, **changes}
        return self.goals.answer(reply.goal.correlation_id, answer, **asked)

    def answer_or_refusal(self, reply: Reply, answer: str = "yes") -> str:
        """The reason code, or the reason of whatever was raised."""
        try:
            return self.answer(reply, answer).outcome.reason_code
        except RemitError as problem:
            return goal_code(problem.reason) if isinstance(problem, RefusedError) else problem.reason.value

    def done(self, text: str, answer: str = "yes", **changes: Any) -> Reply:
        """Asked, and confirmed if that is asked for."""
        reply = self.ask(text, **changes)
        return self.answer(reply, answer) if reply.outcome.reason_code == "CONFIRMATION_REQUIRED" else reply

    def events(self, correlation_id: str, tenant: str = TENANT) -> list[str]:
        with self.workspace.store.reading() as connection:
            rows = connection.rows(
                "SELECT event FROM agent_execution_ledger"
                " WHERE tenant_id = ? AND correlation_id = ? ORDER BY entry_seq",
                (tenant, correlation_id),
            )
            return [row[0] for row in rows]

    def count(self, sql: str) -> int:
        with self.workspace.store.reading() as connection:
            row = connection.one(sql)
        return row[0] if row else 0

    def notes(self) -> list[str]:
        return sorted(path.stem for path in (self.root / "notes").iterdir())

    def archived(self) -> list[str]:
        folder = self.root / "archive"
        return sorted(path.stem for path in folder.iterdir()) if folder.exists() else []


def goal_bytes(goal: AgentGoalRequest, **changes: Any) -> bytes:
    return json.dumps({**goal.tree(), **changes}).encode()
