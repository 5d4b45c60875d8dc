"""A workspace that another version made and was killed in, opened by this one. Each finding is a line of text."""

import json
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from remit.workspace.workspace import Workspace
from tests.compat.make_workspace import TASK_KILLS, declare
from tests.compat.versions import ROOT, run_with

MAKER: Final = Path(__file__).with_name("make_workspace.py")
EDITED: Final = {"edited.txt": "edited after\n", "made.txt": "made\n", "named.txt": "renamed before\n"}
UNTOUCHED: Final = {f"{name}.txt": f"{name} before\n" for name in ("edited", "deleted", "renamed")}
KILLED_GOALS: Final = 2
"""That had an attempt by then: before its dispatch, a goal has nothing to settle."""
_MODULE: Final = re.compile(rb"remit(\.[a-z_]+)+:[A-Za-z_]+")


@dataclass(frozen=True, slots=True)
class Made:
    """What the other version left."""

    folder: Path
    story: dict[str, Any]

    @property
    def root(self) -> Path:
        return self.folder / "project"

    @property
    def environ(self) -> dict[str, str]:
        return {"REMIT_STATE": str(self.folder / "state")}

    def remit(self, *words: str) -> tuple[int, str]:
        """`remit WORDS` of this version: the exit code, and what it printed."""
        done = run_with(ROOT / "src", "-m", "remit", *words, "-C", str(self.root), environ=self.environ)
        return done.returncode, done.stdout + (done.stderr if done.returncode else "")

    def open(self) -> Workspace:
        return Workspace.open(self.root, environ=self.environ)

    def plan_files(self, name: str) -> dict[str, str]:
        return {path.name: path.read_text() for path in sorted((self.root / name).iterdir())}


def make_with(source: Path, folder: Path) -> Made:
    folder.mkdir(parents=True)
    done = run_with(source, str(MAKER), str(folder), environ={"REMIT_STATE": str(folder / "state")})
    if done.returncode:
        raise RuntimeError(f"the version in {source} could not make its workspace:\n{done.stderr[-3_000:]}")
    return Made(folder, json.loads((folder / "story.json").read_text()))


def check_upgrade(made: Made, *, approvals_hold: bool = False) -> list[str]:
    """Everything that does not go on as it was begun. It changes the workspace: once for each that was made.

    `approvals_hold`: whether envelopes of before still hold. Those of 80292a0 are void, as the changelog says: the
    built-in list of protected files grew, so the rules that they were signed under changed.
    """
    return [
        *check_stored_names(made),
        *check_migration(made),
        *_check_recovery(made),
        *check_calls(made),
        *_check_finished_tasks(made),
        *_check_finished_plans(made),
        *check_waiting(made),
        *_check_approved(made, approvals_hold=approvals_hold),
        *_check_ledger(made),
    ]


def check_stored_names(made: Made) -> Iterator[str]:
    """What is kept names no module: it would have to be found there for ever."""
    [database] = made.folder.glob("state/*/ledger.sqlite3")
    connection = sqlite3.connect(database)
    kept = "\n".join(connection.iterdump()).encode()
    connection.close()
    yield from (f"the store names a module: {match[0].decode()}" for match in _MODULE.finditer(kept))
    for path in (each for place in ("state", "project") for each in sorted((made.folder / place).rglob("*"))):
        if path.is_file() and path.suffix in {".json", ".jsonl"}:
            yield from (f"{path} names a module: {match[0].decode()}" for match in _MODULE.finditer(path.read_bytes()))


def check_migration(made: Made) -> Iterator[str]:
    code, said = made.remit("migrate")
    if code or ("0005_previews" not in said and "up to date" not in said.lower()):
        yield f"remit migrate: {code} {said}"


def _check_recovery(made: Made) -> Iterator[str]:
    code, said = made.remit("recover", "--json")
    if not said.startswith("["):
        yield f"remit recover: {code} {said}"
        return
    reports = {_key(each): each for each in json.loads(said)}
    states = {key: each["state"] for key, each in reports.items()}
    yield from _check_recovered_tasks(made, states)
    yield from _check_recovered_plans(made, states)
    simulations = [each["state"] for each in reports.values() if each["kind"] == "simulation"]
    if simulations != ["finished"] * KILLED_GOALS:
        yield f"goals: {simulations}"


def _key(report: dict[str, Any]) -> str:
    """The field beside `kind`: each kind of work has a name of its own for its id."""
    [key] = (value for name, value in report.items() if name.endswith(("_id", "_key")))
    return str(key)


def _check_recovered_tasks(made: Made, states: dict[str, str]) -> Iterator[str]:
    for capability, point in TASK_KILLS:
        name = f"killed-{capability}-{point}"
        wanted = "finished" if point == "road.effect_done" else "cleared"
        if states.get(name) != wanted:
            yield f"task {name}: {states.get(name)}"
        if capability == "FILE_MOVE":
            stands = [path.suffix for path in made.folder.glob(f"files/{name}.*")]
            if stands != [".moved" if wanted == "finished" else ".txt"]:
                yield f"task {name}: the file stands as {stands}"


def _check_recovered_plans(made: Made, states: dict[str, str]) -> Iterator[str]:
    for name, told in made.story["plans"].items():
        if name.startswith(("killed-apply", "killed-sql")):
            undone = name.endswith("road.intent_recorded")
            if states.get(told["id"]) != ("cleared" if undone else "finished"):
                yield f"plan {name}: {states.get(told['id'])}"
            if "apply" in name and made.plan_files(name) != (UNTOUCHED if undone else EDITED):
                yield f"plan {name}: its files are {made.plan_files(name)}"
    rollbacks = sorted(state for key, state in states.items() if key.startswith("rollback-"))
    if rollbacks != ["cleared", "finished"]:
        yield f"rollbacks: {rollbacks}"
    if made.plan_files("killed-rollback-road.effect_done") != UNTOUCHED:
        yield f"the rollback is told as done: {made.plan_files('killed-rollback-road.effect_done')}"


def check_calls(made: Made) -> Iterator[str]:
    """With the functions declared; one that cannot be undone is of unknown effect, and is not called again."""
    file = made.folder / "shop.json"
    with made.open() as workspace:
        functions = declare(workspace, file)
        again = functions["add"].call(token=made.story["tokens"]["used"], key="done", value=2)
        if again.result is None or again.result.canonical().decode() != made.story["calls"]["done"]:
            yield "a repeated call gives another result"
        workspace.recover()
        left = {key: name for key, name in made.story["calls"].items() if key != "done"}
        with workspace.store.reading() as connection:
            query = "SELECT payload FROM ledger_entries WHERE kind = 'call.outcome' AND correlation_id = ?"
            ended = {key: list(connection.rows(query, (key,))) for key in left}
        for key, name in left.items():
            wanted = '"effect":"undone"' if name == "add" else '"effect":"unknown"'
            if len(ended[key]) != 1 or wanted not in ended[key][0][0]:
                yield f"call {key}: {ended[key]}"
        if workspace.recover():
            yield "something is still unfinished"


def _check_finished_tasks(made: Made) -> Iterator[str]:
    tasks = made.story["tasks"]
    with made.open() as workspace:
        for name in ("done-move", "done-delete"):
            told = tasks[name]
            again = workspace.execute_task(told["manifest"].encode(), told["lease"].encode())
            if again.canonical().decode() != told["result"]:
                yield f"task {name}: the same task has another result: {again.tree()}"
            if workspace.restore_task(told["result"].encode()).status != "SUCCESS":
                yield f"task {name} cannot be taken back"
            if not (made.folder / "files" / f"{name}.txt").exists():
                yield f"task {name}: the file is not back"
        leased = workspace.execute_task(tasks["leased"]["manifest"].encode(), tasks["leased"]["lease"].encode())
        if leased.status != "SUCCESS":
            yield f"a lease of before does not hold: {leased.tree()}"


def _check_finished_plans(made: Made) -> Iterator[str]:
    plans = made.story["plans"]
    with made.open() as workspace:
        for name in ("done", "killed-apply-road.effect_done", "killed-rollback-road.intent_recorded"):
            outcome = workspace.rollback(plans[name]["id"])
            if outcome.status != "EXECUTED" or made.plan_files(name) != UNTOUCHED:
                yield f"plan {name} is not taken back: {outcome.tree()}"
        before = made.folder.joinpath("project", "shop.duckdb").read_bytes()
        outcome = workspace.rollback(plans["killed-sql-road.effect_done"]["id"])
        if outcome.status != "EXECUTED" or made.folder.joinpath("project", "shop.duckdb").read_bytes() == before:
            yield f"the plan with SQL is not taken back: {outcome.tree()}"
    note = made.story["goals"]["done"]
    if not (made.root / "archive" / f"{note}.txt").exists():
        yield "the goal's file is gone"
    code, said = made.remit("ask", "--undo", f"goal-{note}", "--confirm", "yes")
    if code or not (made.root / "notes" / f"{note}.txt").exists():
        yield f"the goal is not taken back: {said}"


def check_waiting(made: Made) -> Iterator[str]:
    plans = made.story["plans"]
    code, said = made.remit("approvals", "show", plans["pending"]["proposal"], "--json")
    if code or json.loads(said)["proposal"]["state"] != "PENDING":
        yield f"the pending proposal: {said}"
    code, said = made.remit("approvals", "compute", plans["pending"]["proposal"], "--json")
    if code:
        yield f"the preview of the pending proposal cannot be computed: {said}"
    else:
        yield from _check_pending(made, plans["pending"]["proposal"], json.loads(said))
    code, said = made.remit("apply", "--proposal", plans["denied"]["proposal"], "--json")
    if not code or made.plan_files("denied") != UNTOUCHED:
        yield f"the denied proposal is applied: {said}"
    with made.open() as workspace:
        if workspace.people.session(made.story["cookie"]) is None:
            yield "a person who was logged in is not any more"
    code, said = made.remit("people", "list", "--json")
    if code or '"link:ada"' not in said or '"link:tom"' not in said:
        yield f"people: {said}"
    code, said = made.remit("token", "list", "--json")
    revoked = [each["jti"] for each in json.loads(said)["tokens"] if each["revoked_at"]]
    if revoked != [made.story["revoked"]]:
        yield f"tokens: {said}"


def _check_pending(made: Made, proposal: str, shown: dict[str, Any]) -> Iterator[str]:
    """The pending proposal, whose preview is computed now, can be approved and applied."""
    digest = shown["preview_digest"] if "preview_digest" in shown else shown["preview"]["preview_digest"]
    for words in (("approvals", "approve", proposal, "--digest", digest, "--full"), ("apply", "--proposal", proposal)):
        code, said = made.remit(*words, "--json")
        if code:
            yield f"the pending proposal cannot be decided and applied, {words[0]}: {said}"
            return
    if made.plan_files("pending") != EDITED:
        yield f"the pending proposal is applied otherwise: {made.plan_files('pending')}"


def _check_approved(made: Made, *, approvals_hold: bool) -> Iterator[str]:
    """An envelope and an approved proposal, either of them not applied yet."""
    plans = made.story["plans"]
    _, said = made.remit("apply", "--proposal", plans["agreed"]["proposal"], "--json")
    with made.open() as workspace:
        outcome = json.dumps(workspace.apply(plans["approved"]["envelope"].encode()).tree())
    for name, told in (("agreed", said), ("approved", outcome)):
        void = "the configuration was changed since the plan was approved" in told
        if made.plan_files(name) != (EDITED if approvals_hold else UNTOUCHED) or void == approvals_hold:
            yield f"the plan {name}, approved and not applied: {told}"


def _check_ledger(made: Made) -> Iterator[str]:
    code, said = made.remit("ledger", "verify")
    if code or not said.startswith("holds"):
        yield f"remit ledger verify: {code} {said}"
