"""A temporary workspace for load tests of goals, with three simulations.

One copies a file to a new name, so that effects can be counted on disk. One reverses that copy. One changes nothing.
"""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from remit.contracts.config.config import CONFIG_NAME
from remit.contracts.goals.goal import AgentExecutionOutcome
from remit.core.ids import Clock, system_clock
from remit.goals.service import GoalService
from remit.identity.person import person_at_terminal
from remit.workspace.create import initialise
from remit.workspace.workspace import Workspace

TENANT: Final = "load"
USER: Final = "driver"
SOURCE: Final = "form.txt"

_COPY: Final[dict[str, Any]] = {
    "id": "copy-form",
    "version": "1",
    "title": "Copy the form",
    "impact": "impactful",
    "risk": "LOW",
    "access_action": "copy_form",
    "fields": {"name": {"type": "identifier", "question": "Under which name?"}},
    "phrases": {"en": ["copy the form as {name}"]},
    "rollback": "undo-copy",
    "timeout_seconds": 30,
}
_UNDO: Final[dict[str, Any]] = {
    "id": "undo-copy",
    "version": "1",
    "title": "Remove the copy",
    "impact": "impactful",
    "risk": "LOW",
    "access_action": "copy_form",
    "fields": {"of": {"type": "text", "question": "Which goal?"}},
    "rollback": "copy-form",
    "binding": {"type": "undo"},
}
_PING: Final[dict[str, Any]] = {
    "id": "ping",
    "version": "1",
    "title": "See whether it works",
    "impact": "read_only",
    "risk": "LOW",
    "access_action": "ping",
    "phrases": {"en": ["are you there"]},
    "binding": {"type": "task", "capability_id": "NO_EFFECT", "inputs": {}},
}
_POLICY: Final = f"""
@id("the-driver-works")
permit (principal == User::"{TENANT}/{USER}", action in [Action::"copy_form", Action::"ping"], resource);
"""


@dataclass(frozen=True, slots=True)
class GoalWorkspace:
    root: Path
    base: Path
    environ: Mapping[str, str]
    clock: Clock = system_clock

    def open(self) -> Workspace:
        return Workspace.open(self.root, environ=self.environ, clock=self.clock)

    def copies(self) -> list[str]:
        """Return the names of the files beside the form. Each goal that took effect has created one of them."""
        return sorted(path.name.removesuffix(".txt") for path in self.base.iterdir() if path.name != SOURCE)


def make_scratch(
    folder: Path,
    *,
    url_variable: str | None = None,
    environ: Mapping[str, str] | None = None,
    clock: Clock = system_clock,
) -> GoalWorkspace:
    """Create a workspace and its state directory in an empty folder, and promote the simulations."""
    folder = folder.resolve()
    variables = dict(os.environ if environ is None else environ)
    scratch = GoalWorkspace(
        folder / "project", folder / "base", {**variables, "REMIT_STATE": str(folder / "state")}, clock
    )
    scratch.root.mkdir()
    scratch.base.mkdir()
    (scratch.base / SOURCE).write_text("a form\n", encoding="utf-8")
    initialise(scratch.root, scratch.environ, clock, url_variable=url_variable)[0].close()
    paths = {"source_path": f"{scratch.base}/{SOURCE}", "destination_path": f"{scratch.base}/{{name}}.txt"}
    copy = {**_COPY, "binding": {"type": "task", "capability_id": "FILE_COPY", "inputs": paths, "reversible": True}}
    config = {
        "version": 1,
        "base_directories": [str(scratch.base)],
        "goals": {"catalogue": ["simulations.json"]},
        "policies": {"cedar_files": ["access.cedar"]},
        "tenants": {TENANT: {"users": [USER]}},
    }
    (scratch.root / CONFIG_NAME).write_text(json.dumps(config), encoding="utf-8")
    catalogue = {"version": 1, "simulations": [copy, _UNDO, _PING]}
    (scratch.root / "simulations.json").write_text(json.dumps(catalogue), encoding="utf-8")
    (scratch.root / "access.cedar").write_text(_POLICY, encoding="utf-8")
    with scratch.open() as workspace:
        for name in ("undo-copy", "copy-form", "ping"):
            workspace.promotion.promote(name, tenant_id=TENANT, who=person_at_terminal({}))
    return scratch


@contextmanager
def scratch_workspace(*, url_variable: str | None = None) -> Iterator[GoalWorkspace]:
    """Create a temporary workspace. It is removed afterwards, with its state and its tables in PostgreSQL."""
    with tempfile.TemporaryDirectory(prefix="remit-load-") as folder:
        scratch = make_scratch(Path(folder), url_variable=url_variable)
        try:
            yield scratch
        finally:
            if url_variable is not None:
                drop_tables(scratch)


def drop_tables(scratch: GoalWorkspace) -> None:
    from remit.store.postgresql import PostgresStore  # noqa: PLC0415 - the driver is an extra

    with scratch.open() as workspace:
        store = workspace.store
        if isinstance(store, PostgresStore):
            connection = store.connect()
            try:
                connection.execute(f'DROP SCHEMA IF EXISTS "{store.schema}" CASCADE')
            finally:
                connection.close()


def complete_goal(goals: GoalService, correlation_id: str, name: str) -> AgentExecutionOutcome:
    """Request a copy with this name and confirm it. A repeated call continues the same goal."""
    outcome = goals.ask(f"copy the form as {name}", correlation_id=correlation_id, user=USER, tenant=TENANT).outcome
    if outcome.reason_code == "CONFIRMATION_REQUIRED":
        outcome = goals.answer(correlation_id, "yes", user=USER, tenant=TENANT).outcome
    return outcome
