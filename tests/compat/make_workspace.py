"""A workspace as users have one, with finished, waiting and broken-off work: a program, run under any version of Remit.

Usage: python make_workspace.py FOLDER. FOLDER/project is the workspace, FOLDER/files a folder that tasks may use, and
FOLDER/story.json says what was done and what it gave. Only what the documentation offers is used: the methods of
`Workspace`, `remit.governed` and the command line; and the armed fault points, to be killed at. No module has a fixed
place here.
"""

import base64
import contextlib
import importlib.util
import io
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from remit import Workspace
from remit.governed import governed

ARMED_BY: Final = ("remit.core.faultpoints", "remit.faultpoints")
TENANT, USER, AGENT = "acme", "mia", "agent-1"
# After the intent; in the middle of the effect; after the effect, and before its outcome is recorded.
TASK_KILLS: Final = (
    ("FILE_MOVE", "road.intent_recorded"),
    ("FILE_COPY", "road.noted"),
    ("FILE_MOVE", "road.effect_done"),
    ("FILE_DELETE", "road.effect_done"),
)
PLAN_KILLS: Final = (
    ("apply", "road.intent_recorded"),
    ("apply", "road.noted"),
    ("apply", "road.effect_done"),
    ("rollback", "road.intent_recorded"),
    ("rollback", "road.effect_done"),
    ("sql", "road.effect_done"),
)

_RENAME: Final = {"type": "rename", "new_path": "archive/{note}.txt"}
_STEP: Final = {"action_id": "a1", "action_type": "FILE_RENAME", "target": "notes/{note}.txt", "operation": _RENAME}
_ARCHIVE: Final[dict[str, Any]] = {
    "id": "archive-note",
    "version": "1",
    "title": "Archive a note",
    "impact": "impactful",
    "risk": "LOW",
    "access_action": "archive_note",
    "fields": {"note": {"type": "identifier", "question": "Which note?"}},
    "phrases": {"en": ["archive the note {note}"]},
    "rollback": "undo-archive",
    "binding": {"type": "plan", "template": {"action_plan": [_STEP]}},
}
_UNDO: Final[dict[str, Any]] = {
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
_POLICY: Final = """@id("mia-archives")
permit (principal == User::"acme/mia", action == Action::"archive_note", resource);
"""
_TABLE: Final = "CREATE TABLE orders (id INTEGER, item VARCHAR); INSERT INTO orders VALUES (1, 'bread'), (2, 'milk')"


class Maker:
    """Each piece of work in a process or with a workspace of its own, as users' programs do it."""

    def __init__(self, folder: Path) -> None:
        self.root, self.files = folder / "project", folder / "files"
        self.story: dict[str, Any] = {"tasks": {}, "plans": {}, "calls": {}, "goals": {}}

    def make(self) -> None:
        self._found()
        self._finished_tasks()
        self._finished_plans()
        self._authority()
        self._proposals()
        self._killed_tasks()
        self._killed_plans()
        self._killed_calls()
        self._killed_goals()

    def _found(self) -> None:
        self.root.mkdir()
        self.files.mkdir()
        command("init", str(self.root))
        settings = {
            "version": 1,
            "base_directories": [str(self.files)],
            "connections": {"shop": {"type": "duckdb", "path": "shop.duckdb"}},
            "tenants": {TENANT: {"users": [USER]}},
            "goals": {"catalogue": ["simulations.json"]},
            "policies": {"cedar_files": ["access.cedar"]},
        }
        (self.root / "remit.yaml").write_text(json.dumps(settings))
        (self.root / "simulations.json").write_text(json.dumps({"version": 1, "simulations": [_ARCHIVE, _UNDO]}))
        (self.root / "access.cedar").write_text(_POLICY)
        for each in ("undo-archive", "archive-note"):
            command("catalogue", "promote", each, "-C", str(self.root))

    # --- what is finished, and what waits ---------------------------------------------------------------------------

    def _finished_tasks(self) -> None:
        with self._open() as workspace:
            for name, capability in (("move", "FILE_MOVE"), ("delete", "FILE_DELETE")):
                manifest = self._task(f"done-{name}", capability)
                lease = workspace.issue_lease(manifest).canonical()
                result = workspace.execute_task(manifest, lease)
                _require(result.status == "SUCCESS", result.tree())
                self.story["tasks"][f"done-{name}"] = {
                    "manifest": manifest.decode(),
                    "lease": lease.decode(),
                    "result": result.canonical().decode(),
                }
            unused = self._task("leased", "FILE_COPY")
            lease = workspace.issue_lease(unused).canonical()
            self.story["tasks"]["leased"] = {"manifest": unused.decode(), "lease": lease.decode()}

    def _finished_plans(self) -> None:
        with self._open() as workspace:
            for name in ("done", "taken-back", "approved"):
                envelope = workspace.approve(self._plan(name))
                self.story["plans"][name] = {"envelope": envelope.canonical().decode(), "id": envelope.envelope_id}
                if name == "approved":
                    continue
                _require(workspace.apply(envelope.canonical()).status.status == "SUCCESS", name)
                if name == "taken-back":
                    _require(workspace.rollback(envelope.envelope_id).status == "EXECUTED", name)
            envelope = workspace.approve(_plan_of("table", _sql(_TABLE)))
            _require(workspace.apply(envelope.canonical()).status.status == "SUCCESS", "the table was not made")
            sql = "UPDATE orders SET item = 'salt' WHERE id = 1"
            envelope = workspace.approve(_plan_of("done-sql", _sql(sql)))
            _require(workspace.apply(envelope.canonical()).status.status == "SUCCESS", "the row was not changed")
            self.story["plans"]["done-sql"] = {"envelope": envelope.canonical().decode(), "id": envelope.envelope_id}

    def _authority(self) -> None:
        here = ("-C", str(self.root))
        caps = [word for name in ("plan.propose", "call.shop.add", "call.shop.final") for word in ("--cap", name)]
        tokens = {name: command("token", "issue", "--sub", AGENT, *caps, *here) for name in ("used", "revoked")}
        self.story["tokens"] = {name: text.strip() for name, text in tokens.items()}
        body = self.story["tokens"]["revoked"].split(".")[1]
        self.story["revoked"] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))["jti"]
        command("token", "revoke", self.story["revoked"], *here)
        command("people", "invite", "ada", "--role", "approver", *here)
        with self._open() as workspace:
            session = workspace.people.redeem(workspace.people.invite("tom", "admin", actor="os:test").code)
            self.story["cookie"] = session.cookie
        command("keys", "rotate", "kernel", *here)

    def _proposals(self) -> None:
        here = ("-C", str(self.root))
        for name in ("pending", "denied", "agreed"):
            file = self.root.parent / f"{name}.json"
            file.write_bytes(self._plan(name))
            told = json.loads(command("propose", str(file), "--json", *here))
            self.story["plans"][name] = {"proposal": told["proposal_id"]}
        command("approvals", "deny", self.story["plans"]["denied"]["proposal"], "--reason", "no", *here)
        agreed = self.story["plans"]["agreed"]["proposal"]
        seen = json.loads(command("approvals", "show", agreed, "--json", *here))
        command("approvals", "approve", agreed, "--digest", seen["preview"]["preview_digest"], *here)

    # --- what was broken off ----------------------------------------------------------------------------------------

    def _killed_tasks(self) -> None:
        for capability, point in TASK_KILLS:
            name = f"killed-{capability}-{point}"
            manifest = self._task(name, capability)
            with self._open() as workspace:
                lease = workspace.issue_lease(manifest).canonical()
            self.story["tasks"][name] = {"manifest": manifest.decode(), "lease": lease.decode()}
            self._kill(point, partial(_with, "execute_task", manifest, lease))

    def _killed_plans(self) -> None:
        for kind, point in PLAN_KILLS:
            name = f"killed-{kind}-{point}"
            plan = _plan_of(name, _sql("INSERT INTO orders VALUES (3, 'tea')")) if kind == "sql" else None
            with self._open() as workspace:
                envelope = workspace.approve(plan or self._plan(name))
                if kind == "rollback":
                    workspace.apply(envelope.canonical())
            told = {"envelope": envelope.canonical().decode(), "id": envelope.envelope_id}
            self.story["plans"][name] = told
            if kind == "rollback":
                self._kill(point, partial(_with, "rollback", envelope.envelope_id))
            else:
                self._kill(point, partial(_with, "apply", envelope.canonical()))

    def _killed_calls(self) -> None:
        file = self.root.parent / "shop.json"
        file.write_text("[1]")
        token = self.story["tokens"]["used"]
        with self._open() as workspace:
            done = declare(workspace, file)["add"].call(token=token, key="done", value=2)
            _require(done.result is not None and done.result.status == "SUCCESS", done)
            self.story["calls"]["done"] = done.result.canonical().decode()
        for name, point in (("add", "call.returned"), ("final", "call.returned"), ("add", "road.effect_done")):
            key = f"killed-{name}-{point}"
            self.story["calls"][key] = name
            value = len(self.story["calls"]) * 10

            def call(workspace: Any, name: str = name, key: str = key, value: int = value) -> None:
                declare(workspace, file)[name].call(token=token, key=key, value=value)

            self._kill(point, call)

    def _killed_goals(self) -> None:
        for place in ("notes", "archive"):
            (self.root / place).mkdir()
        for point in ("done", "goal.decided", "simulation.dispatched", "simulation.ran", "road.effect_done"):
            note = point.replace(".", "_")
            (self.root / "notes" / f"{note}.txt").write_text(f"{note}\n")
            self.story["goals"][point] = note

            def ask(workspace: Any, note: str = note) -> None:
                said = workspace.ask(
                    f"archive the note {note}", user=USER, tenant=TENANT, correlation_id=f"goal-{note}"
                )
                _require(said.outcome.reason_code == "CONFIRMATION_REQUIRED", said.outcome)
                workspace.goals.answer(f"goal-{note}", "yes", user=USER, tenant=TENANT)

            if point == "done":
                with self._open() as workspace:
                    ask(workspace)
            else:
                self._kill(point, ask)

    def _kill(self, point: str, work: Callable[[Any], Any]) -> None:
        """In a process of its own, killed where this point is reached the first time. Nothing is open at the fork."""
        child = os.fork()
        if child == 0:
            try:
                module = next(name for name in ARMED_BY if _has(name))
                with self._open() as workspace:
                    importlib.import_module(module).arm(point)
                    work(workspace)
            except Exception:  # noqa: BLE001 - told, and then the process ends in any case
                traceback.print_exc()
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        _require(os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, f"{point} was not reached")

    # --- words ------------------------------------------------------------------------------------------------------

    def _open(self) -> Any:
        """As a program that has been at work for a while: it does not settle what died since it began."""
        workspace = Workspace.open(self.root)
        for each in (workspace.tasks, workspace.plans, workspace.calls, workspace.goals):
            each._recovered = True  # noqa: SLF001 - only a program that runs since before the kills has this set
        return workspace

    def _task(self, name: str, capability: str) -> bytes:
        (self.files / f"{name}.txt").write_text(f"{name}\n")
        inputs = {"source_path": str(self.files / f"{name}.txt")}
        if capability != "FILE_DELETE":
            inputs["destination_path"] = str(self.files / f"{name}.moved")
        asked = {"task_id": name, "capability_id": capability, "inputs": inputs, "constraints": {"reversible": True}}
        return json.dumps(asked).encode()

    def _plan(self, name: str) -> bytes:
        """An edit, a new file, a deletion and a renaming, in a folder of its own."""
        folder = self.root / name
        folder.mkdir()
        for file in ("edited", "deleted", "renamed"):
            (folder / f"{file}.txt").write_text(f"{file} before\n")
        edit = {"type": "text_replace", "pattern": "before", "replacement": "after", "count": 1}
        return _plan_of(
            name,
            {"action_type": "FILE_MODIFY", "target": f"{name}/edited.txt", "operation": edit},
            {
                "action_type": "FILE_CREATE",
                "target": f"{name}/made.txt",
                "operation": {"type": "write", "content": "made\n"},
            },
            {"action_type": "FILE_DELETE", "target": f"{name}/deleted.txt", "operation": {"type": "delete"}},
            {
                "action_type": "FILE_RENAME",
                "target": f"{name}/renamed.txt",
                "operation": {"type": "rename", "new_path": f"{name}/named.txt"},
            },
        )


def declare(workspace: Any, file: Path) -> dict[str, Any]:
    """Two governed functions that write to a file: what was added stays in it, in order."""

    def append(value: int) -> int:
        file.write_text(json.dumps([*json.loads(file.read_text()), value]))
        return value

    def before(**_: Any) -> int:
        last: int = json.loads(file.read_text())[-1]
        return last

    def restore(before: int, **_: Any) -> None:
        append(before)

    @governed(workspace, "shop.add", consent="none", before=before, undo=restore)
    def add(value: int) -> int:
        return append(value)

    @governed(workspace, "shop.final", consent="policy", allow=lambda **_: True)
    def final(value: int) -> int:
        return append(value)

    return {"add": add, "final": final}


def _with(method: str, *arguments: Any) -> Any:
    """The last of the arguments is the workspace: the others are known before there is one."""
    *given, workspace = arguments
    return getattr(workspace, method)(*given)


def _plan_of(name: str, *actions: dict[str, Any]) -> bytes:
    numbered = [{"action_id": f"a{number:03}", **each} for number, each in enumerate(actions, start=1)]
    return json.dumps({"plan_id": name, "action_plan": numbered}).encode()


def _sql(query: str) -> dict[str, Any]:
    operation = {"type": "sql_execute", "query": query, "parameters": {}, "connection": "shop"}
    return {"action_type": "SQL_EXECUTE", "operation": operation}


def _has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


def command(*words: str) -> str:
    """What `remit WORDS` prints. It must succeed."""
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(printed):
        try:
            importlib.import_module("remit.cli").main([*words], prog_name="remit")
        except SystemExit as ended:
            _require(not ended.code, f"remit {' '.join(words)} ended with {ended.code}")
    printed.seek(0)
    return printed.read()


def _require(holds: object, what: object) -> None:
    if not holds:
        raise RuntimeError(f"the workspace could not be made: {what}")


if __name__ == "__main__":
    folder = Path(sys.argv[1]).resolve()
    maker = Maker(folder)
    maker.make()
    (folder / "story.json").write_text(json.dumps(maker.story, indent=1))
