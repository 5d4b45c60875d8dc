"""The part of `remit demo` on goals: in a user's words, confirmed, denied, replayed, and in several steps."""

import json
from typing import Any, Final

from remit.cli.common.options import counted
from remit.cli.demo.stage import Announce, require
from remit.goals.service import Reply
from remit.goals.trace import trace_goal
from remit.identity.person import person_at_terminal
from remit.workspace.workspace import Workspace

TENANT: Final = "acme"
SETTINGS: Final = """tenants: {acme: {users: [mia, tom]}}
goals: {catalogue: [simulations.json]}
policies: {cedar_files: [access.cedar]}
"""
_POLICY: Final = """@id("mia-archives")
permit (principal == User::"acme/mia", action == Action::"archive_note", resource);
"""
_RENAME: Final = {"type": "rename", "new_path": "archive/{note}.txt"}
_ARCHIVE: Final[dict[str, Any]] = {
    "id": "archive-note",
    "version": "1",
    "title": "Archive a note",
    "impact": "impactful",
    "risk": "LOW",
    "access_action": "archive_note",
    "fields": {"note": {"type": "identifier", "question": "Which note?"}},
    "phrases": {"en": ["archive the note {note}"], "ar": ["أرشف الملاحظة {note}"]},
    "rollback": "undo-archive",
    "binding": {
        "type": "plan",
        "template": {
            "action_plan": [
                {"action_id": "a1", "action_type": "FILE_RENAME", "target": "notes/{note}.txt", "operation": _RENAME}
            ]
        },
    },
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
_STEPS: Final = {"one": "first", "two": "second", "three": "third"}
"""The field that each step archives, by the name of the step."""
_TIDY: Final[dict[str, Any]] = {
    "id": "tidy",
    "version": "1",
    "title": {"en": "Archive three notes", "de": "Drei Notizen archivieren"},
    "impact": "impactful",
    "risk": "LOW",
    "access_action": "archive_note",
    "fields": {each: {"type": "identifier", "question": f"Which {each} note?"} for each in _STEPS.values()},
    "phrases": {
        "en": ["archive {first} then {second} then {third}"],
        "de": ["archiviere {first} dann {second} dann {third}"],
    },
    "binding": {
        "type": "composite",
        "steps": [
            {"id": name, "simulation": "archive-note", "fields": {"note": f"{{{each}}}"}}
            for name, each in _STEPS.items()
        ],
    },
}
_SIMULATIONS: Final = (_ARCHIVE, _UNDO, _TIDY)


def write_goal_files(workspace: Workspace) -> None:
    """Write the files that the settings name. Without them, no other part of the demo could run."""
    catalogue = {"version": 1, "simulations": _SIMULATIONS}
    (workspace.root / "simulations.json").write_text(json.dumps(catalogue, ensure_ascii=False), encoding="utf-8")
    (workspace.root / "access.cedar").write_text(_POLICY, encoding="utf-8")
    (workspace.root / "notes").mkdir()
    for name in ("april", "may", "june", "july"):
        (workspace.root / "notes" / f"{name}.txt").write_text(f"{name}\n", encoding="utf-8")


def show_goals(workspace: Workspace, announce: Announce) -> None:
    write_goal_files(workspace)
    who = person_at_terminal({})
    for each in _SIMULATIONS:
        workspace.promotion.promote(each["id"], tenant_id=TENANT, who=who)
    announce("A person promotes a simulation", "archive-note is ACTIVE for acme, exactly as it is in the file now")
    _ask(workspace, announce)
    _ask_in_arabic(workspace, announce)
    _denied(workspace, announce)
    _several_steps(workspace, announce)


def _ask(workspace: Workspace, announce: Announce) -> None:
    reply = workspace.ask("archive the note june", user="mia", tenant=TENANT)
    _expect(reply, "CONFIRMATION_REQUIRED")
    what, *_, answers = reply.outcome.user_visible_text.split(". ")
    announce("Mia asks: archive the note june", f"{what}. {answers}")
    _expect(_answer(workspace, reply, "okay"), "CONFIRMATION_AMBIGUOUS")
    require(not (workspace.root / "archive").exists(), "an unclear answer was accepted as a confirmation")
    announce("Mia answers: okay", "not a clear confirmation: nothing is done, and Remit asks again")
    _expect(_answer(workspace, reply, "yes"), "SIMULATION_SUCCEEDED")
    require((workspace.root / "archive" / "june.txt").exists(), "the note was not archived")
    announce("Mia answers: yes", "allowed by policy mia-archives, and done once, by a plan")
    _trace(workspace, reply.goal.correlation_id, announce)


def _ask_in_arabic(workspace: Workspace, announce: Announce) -> None:
    reply = workspace.ask("أرشف الملاحظة july", user="mia", tenant=TENANT, language="ar")
    _expect(reply, "CONFIRMATION_REQUIRED")
    _expect(_answer(workspace, reply, "yes"), "CONFIRMATION_AMBIGUOUS")
    _expect(_answer(workspace, reply, "نعم"), "SIMULATION_SUCCEEDED")
    require((workspace.root / "archive" / "july.txt").exists(), "the second note was not archived")
    announce("The same in Arabic: أرشف الملاحظة july", 'an English "yes" is not accepted there; نعم is')


def _denied(workspace: Workspace, announce: Announce) -> None:
    (workspace.root / "notes" / "june.txt").write_text("june\n", encoding="utf-8")
    reply = workspace.ask("archive the note june", user="tom", tenant=TENANT)
    _expect(_answer(workspace, reply, "yes"), "ACCESS_SCOPE_VIOLATION")
    require((workspace.root / "notes" / "june.txt").exists(), "a user did something without permission")
    announce("Tom asks for the same, and confirms", "refused: ACCESS_SCOPE_VIOLATION, no policy permits it for Tom")


def _several_steps(workspace: Workspace, announce: Announce) -> None:
    """Two goals with three steps. The third cannot run, or the user refuses it."""
    failed = _stopped(workspace, "archive april then may then june", "en", ("yes", "yes", "yes"))
    _expect(failed, "SIMULATION_REFUSED")
    announce(
        "Mia asks for three steps: archive april then may then june",
        "each step asked for itself; the third could not, june is archived already; april and may were brought back",
    )
    refused = _stopped(workspace, "archiviere april dann may dann june", "de", ("ja", "ja", "nein"))
    _expect(refused, "CONFIRMATION_REFUSED")
    announce(
        "The same in German: archiviere april dann may dann june",
        "ja, ja, nein: the first two steps were done and rolled back, the third was never started; replayed, all agree",
    )


def _stopped(workspace: Workspace, words: str, language: str, answers: tuple[str, ...]) -> Reply:
    """Ask for several steps, answer each question, and require that no effect remains."""
    reply = workspace.ask(words, user="mia", tenant=TENANT, language=language)
    asked: set[str | None] = set()
    for answer in answers:
        _expect(reply, "CONFIRMATION_REQUIRED")
        asked.add(reply.outcome.step_id)
        reply = _answer(workspace, reply, answer, step=reply.outcome.step_id)
    require(len(asked) == len(answers), "a step was not asked about by itself")
    done = workspace.root / "archive"
    for note in ("april", "may"):
        is_back = (workspace.root / "notes" / f"{note}.txt").exists() and not (done / f"{note}.txt").exists()
        require(is_back, f"the step that archived {note} was not rolled back")
    decisions = workspace.goals.replay(reply.goal.correlation_id, tenant=TENANT)
    require(all(each.agrees for each in decisions), "a replayed decision about a step differs")
    return reply


def _trace(workspace: Workspace, correlation_id: str, announce: Announce) -> None:
    decisions = workspace.goals.replay(correlation_id, tenant=TENANT)
    require(all(each.agrees for each in decisions), "a replayed decision differs")
    with workspace.store.reading() as connection:
        traced = trace_goal(connection, lambda: workspace.keyring, TENANT, correlation_id)
    require(traced is not None and not list(traced.problems()), "the chain is not complete")
    links = len(traced.children) if traced is not None else 0
    summary = f"{counted(links, 'link')} in the trace, and every decision replayed: all agree"
    announce("The history of this goal", summary)


def _answer(workspace: Workspace, reply: Reply, answer: str, step: str | None = None) -> Reply:
    goal = reply.goal
    return workspace.goals.answer(goal.correlation_id, answer, user=goal.user_id, tenant=goal.tenant_id, step=step)


def _expect(reply: Reply, code: str) -> None:
    require(reply.outcome.reason_code == code, f"expected {code}, got {reply.outcome.reason_code}")
