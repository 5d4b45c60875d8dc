"""What an agent is shown of a goal's outcome: no digest of a file, and no error that quotes one."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from remit.authority.results import verify_result
from remit.cli import main
from remit.contracts.services.common import Decision, GoalAnswer
from remit.contracts.tasks.result import ExecutionResult
from remit.core.ids import render_time
from remit.services.goals.agent_outcomes import outcome_for_agent
from remit.services.services import Services
from tests.goals.goal_office import Office
from tests.services.conftest import agent, person

pytestmark = pytest.mark.req("PV-04")
WAIT: Final = 30.0
MIA: Final = person("viewer", "mia", user="mia")
_NEUTRAL: Final = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<id>"),
    (re.compile(r"goal-[0-9a-f]{48}"), "<plan>"),
    (re.compile(r"snapshot:[0-9a-f]{32}@sha256:[0-9a-f]{64}"), "<snapshot with a nonce>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*Z"), "<time>"),
)
PROVED_BEFORE: Final = ("proof_refs", "dispatch_decision_hash", "signature", "key_id", "audit_refs")
"""Digests of decisions and packets that were made before the action, and signatures. They are of no file."""


class World:
    def __init__(self, folder: Path, content: str) -> None:
        folder.mkdir()
        self.office = Office(folder)
        (self.office.base / "form.txt").write_text(content)
        (self.office.root / "notes" / "one.txt").write_text(content)
        self.services = Services(self.office.workspace)
        self.bot = agent(self.office.workspace, "goal.ask", user="mia")

    def close(self) -> None:
        self.services.close()
        self.office.close()

    def done(self, words: str) -> GoalAnswer:
        asked = self.services.goals.ask(self.bot, words, wait=WAIT)
        self.services.inbox.decide(MIA, "confirmation", asked.correlation_id, Decision(answer="yes"))
        return self.services.goals.get(self.bot, "acme", asked.correlation_id, WAIT)

    def undone(self, correlation_id: str) -> GoalAnswer:
        back = self.services.goals.undo(self.bot, correlation_id, wait=WAIT)
        if back.waiting_for == "confirmation":
            self.services.inbox.decide(MIA, "confirmation", back.correlation_id, Decision(answer="yes"))
        return self.services.goals.get(self.bot, "acme", back.correlation_id, WAIT)

    def neutral(self, answer: GoalAnswer) -> str:
        tree: dict[str, Any] = json.loads(json.dumps(answer.tree()), object_hook=_without_proofs)
        text = json.dumps(tree, sort_keys=True).replace(str(self.office.folder), "<folder>")
        for pattern, word in _NEUTRAL:
            text = pattern.sub(word, text)
        return text


def _without_proofs(tree: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in tree.items() if name not in PROVED_BEFORE}


def _payload(answer: GoalAnswer) -> dict[str, Any]:
    assert answer.outcome is not None
    assert answer.outcome.simulation_outcome is not None
    return dict(answer.outcome.simulation_outcome.payload)


@pytest.fixture
def worlds(tmp_path: Path) -> Iterator[tuple[World, World]]:
    first, second = World(tmp_path / "first", "pin=1\n"), World(tmp_path / "second", "pin=2\n")
    yield first, second
    first.close()
    second.close()


@pytest.mark.parametrize("words", ["copy the form as filled", "archive the note one"])
def test_the_outcome_of_a_goal_does_not_depend_on_the_content_of_files(worlds: tuple[World, World], words: str) -> None:
    answers = []
    for world in worlds:
        done = world.done(words)
        undone = world.undone(done.correlation_id)
        assert (done.state, undone.state) == ("done", "done"), undone
        answers.append([world.neutral(done), world.neutral(undone)])
        assert not any("sha256" in each for each in answers[-1])
        for_people = world.services.goals.get(MIA, "acme", done.correlation_id)
        assert "sha256" in json.dumps(_payload(for_people)), "people see all of it"
    assert answers[0] == answers[1]


def test_the_result_of_a_task_is_still_signed(worlds: tuple[World, World]) -> None:
    world = worlds[0]
    result = ExecutionResult.from_tree(_payload(world.done("copy the form as filled"))["result"])
    verify_result(result, world.office.workspace.keyring, render_time(world.office.workspace.clock()))


def test_an_error_of_a_plan_is_withheld(worlds: tuple[World, World]) -> None:
    world = worlds[0]
    done = world.done("archive the note one")
    (world.office.root / "archive" / "one.txt").write_text("changed since\n")
    failed = world.undone(done.correlation_id)
    assert (failed.state, _payload(failed)["errors"]) == ("failed", None)
    assert "withheld" in _payload(failed)
    assert "this file was changed" not in failed.canonical().decode()
    for_people = world.services.goals.get(MIA, "acme", failed.correlation_id)
    assert "this file was changed" in for_people.canonical().decode()


def test_the_command_line_shows_an_agent_as_much(worlds: tuple[World, World], monkeypatch: pytest.MonkeyPatch) -> None:
    world = worlds[0]
    done = world.done("copy the form as filled")
    monkeypatch.setenv("REMIT_STATE", world.office.environ["REMIT_STATE"])
    for environ in ({"REMIT_TOKEN": world.bot.text}, {"REMIT_AGENT": "bot"}):
        for more in ((), ("--json",)):
            command = ["ask", "--continue", done.correlation_id, "-C", str(world.office.root), *more]
            named = [] if "REMIT_TOKEN" in environ else ["--user", "mia", "--tenant", "acme"]
            ran = CliRunner().invoke(main, [*command, *named], env=environ)
            assert ran.exit_code == 0, ran.output
            if more:
                payload = json.loads(ran.stdout)["outcome"]["simulation_outcome"]["payload"]
                assert (payload["result"]["output"]["undo_metadata"], "withheld" in payload) == ({}, True)


@pytest.mark.parametrize(
    "payload",
    [
        {"type": "new", "digest": "planted"},
        {"error": {"reason": "file_missing", "what": "planted", "where": "planted", "next_step": ""}},
        {"type": "task", "result": {"digest": "planted"}},
        {"type": "plan", "status": "FAILED", "errors": [{"message": "planted"}], "new": "planted"},
        {"type": "undo", "status": "NOTHING", "errors": [{"message": "planted"}], "new": "planted"},
    ],
)
def test_nothing_is_shown_that_is_not_named(worlds: tuple[World, World], payload: dict[str, Any]) -> None:
    world = worlds[0]
    done = world.services.goals.get(world.bot, "acme", world.done("copy the form as filled").correlation_id)
    assert done.outcome is not None
    assert done.outcome.simulation_outcome is not None
    simulated = done.outcome.simulation_outcome.model_copy(update={"payload": payload})
    shown = outcome_for_agent(world.office.workspace, done.outcome.model_copy(update={"simulation_outcome": simulated}))
    assert "planted" not in shown.canonical().decode()
