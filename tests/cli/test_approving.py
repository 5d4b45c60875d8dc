"""`remit approve` signs the preview that a person saw: on a real terminal, or named by its digest."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from remit.contracts.plans.envelope import Envelope
from tests.cli.conftest import Remit
from tests.cli.terminal import TerminalResult, TypedAnswer, run_in_terminal

pytestmark = pytest.mark.req("PV-07")
BEFORE = '{\n  "retries": 3\n}\n'
ASKS = "Approve this plan? [y/N]"


@pytest.fixture
def project(remit: Remit, tmp_path: Path) -> Path:
    assert remit("init").code == 0
    folder = tmp_path / "project"
    (folder / "settings.json").write_text(BEFORE)
    put(folder, update(5))
    return folder


def update(value: Any) -> dict[str, Any]:
    operation = {"type": "json_update_value", "path": "$.retries", "value": value}
    return {"action_type": "FILE_MODIFY", "target": "settings.json", "operation": operation}


def create(target: str, lines: int) -> dict[str, Any]:
    content = "".join(f"line {number}\n" for number in range(1, lines + 1))
    return {"action_type": "FILE_CREATE", "target": target, "operation": {"type": "write", "content": content}}


def put(project: Path, *actions: dict[str, Any], name: str = "plan.json") -> str:
    numbered = [{"action_id": f"a{number}", **action} for number, action in enumerate(actions, start=1)]
    (project / name).write_text(json.dumps({"plan_id": "plan-1", "action_plan": numbered}))
    return name


def approving(project: Path, *answers: TypedAnswer, options: tuple[str, ...] = ()) -> TerminalResult:
    return run_in_terminal(project, "approve", "plan.json", "-o", "envelope.json", *options, answers=answers)


def digest_of(remit: Remit, *options: str) -> str:
    """As a person copies it from the screen."""
    shown = remit("preview", "plan.json", *options).out
    found = re.search(r"^  digest +(sha256:[0-9a-f]{64})$", shown, re.MULTILINE)
    assert found is not None, shown
    return found[1]


def require_unsigned(remit: Remit, project: Path) -> None:
    assert not (project / "envelope.json").exists()
    assert "envelope.issued" not in remit("ledger", "show", COLUMNS="240").out


def signed(project: Path) -> Envelope:
    return Envelope.parse((project / "envelope.json").read_bytes())


# --- in a terminal ---------------------------------------------------------------------------------------------------


def test_in_a_terminal_the_preview_is_shown_as_remit_preview_shows_it_and_then_signed(
    remit: Remit, project: Path
) -> None:
    preview = remit("preview", "plan.json").out
    seen = approving(project, TypedAnswer(ASKS, "y\n"))
    assert (seen.code, seen.answered) == (0, True), seen
    plain = re.sub(r"\x1b\[[0-9;]*m", "", seen.shown).replace("\r\n", "\n")
    shown = preview.partition("  undo ")[0]
    assert plain.startswith(shown), "the same lines, before the question"
    assert signed(project).plan.plan_id == "plan-1"
    assert remit("apply", "envelope.json").code == 0
    assert (project / "settings.json").read_text() == BEFORE.replace("3", "5")


@pytest.mark.parametrize("answer", ["n\n", "\n", "\x03", "\x04", "sure\nn\n"], ids=repr)
def test_any_answer_except_an_approval_signs_nothing(remit: Remit, project: Path, answer: str) -> None:
    seen = approving(project, TypedAnswer(ASKS, answer))
    assert (seen.code, seen.answered, "nothing was signed" in seen.shown) == (2, True, True), seen
    require_unsigned(remit, project)


def _other_target(project: Path) -> None:
    (project / "settings.json").write_text(BEFORE.replace("3", "4"))


def _other_plan(project: Path) -> None:
    put(project, update(6))


def _no_plan(project: Path) -> None:
    (project / "plan.json").unlink()


def _other_settings(project: Path) -> None:
    config = project / "remit.yaml"
    config.write_text(config.read_text() + "\nlimits:\n  max_files: 7\n")


@pytest.mark.parametrize(
    "swap, named",
    [
        (_other_target, "settings.json (other content)"),
        (_other_plan, "the plan's file changed"),
        (_no_plan, "the plan's file changed"),
    ],
)
def test_nothing_is_signed_if_something_changes_between_the_preview_and_the_answer(
    remit: Remit, project: Path, swap: Callable[[Path], None], named: str
) -> None:
    seen = approving(project, TypedAnswer(ASKS, "y\n", lambda: swap(project)))
    assert (seen.code, seen.answered) == (2, True), seen
    assert named in seen.shown
    assert "nothing was signed" in seen.shown
    require_unsigned(remit, project)


def test_the_preview_is_on_the_screen_also_when_the_output_goes_to_a_file(remit: Remit, project: Path) -> None:
    out = project.parent / "envelope-out.json"
    seen = run_in_terminal(project, "approve", "plan.json", answers=(TypedAnswer(ASKS, "y\n"),), out=str(out))
    assert (seen.code, seen.answered) == (0, True), seen
    assert '+  "retries": 5' in seen.shown
    assert Envelope.parse(out.read_bytes()).plan.plan_id == "plan-1"
    ran = project.parent / "ran.txt"
    asked = run_in_terminal(
        project, "run", "plan.json", answers=(TypedAnswer("Apply this plan? [y/N]", "n\n"),), out=str(ran)
    )
    assert (asked.code, asked.answered, '+  "retries": 5' in asked.shown) == (2, True, True), asked
    assert '+  "retries": 5' in ran.read_text()


# --- lines that were not shown ---------------------------------------------------------------------------------------

HIDDEN = "463 lines of this preview were not shown."


@pytest.mark.parametrize("command", ["approve", "run"])
def test_hidden_lines_are_approved_with_a_word_of_their_own_and_never_with_y_or_yes(
    remit: Remit, project: Path, command: str
) -> None:
    put(project, create("long.txt", 500))
    seen = run_in_terminal(
        project,
        command,
        "plan.json",
        answers=(TypedAnswer(HIDDEN, "y\n"), TypedAnswer(HIDDEN, "yes\n"), TypedAnswer(HIDDEN, "n\n")),
    )
    for word in ("y", "yes"):
        assert f"{word} is not accepted while lines are unseen. Type f, unseen or n." in seen.shown
    assert "f: show all lines, and leave the pager with q; unseen:" in seen.shown
    assert (seen.code, seen.answered) == (2, True), seen
    assert "line 400" not in seen.shown
    require_unsigned(remit, project)
    said = run_in_terminal(project, command, "plan.json", answers=(TypedAnswer(HIDDEN, "unseen\n"),))
    assert (said.code, said.answered) == (0, True), said


def test_after_the_whole_preview_was_shown_a_plain_approval_is_enough(remit: Remit, project: Path) -> None:
    put(project, create("long.txt", 500))
    seen = approving(project, TypedAnswer(HIDDEN, "f\n"), TypedAnswer("+line 500", ""), TypedAnswer(ASKS, "y\n"))
    assert (seen.code, seen.answered) == (0, True), seen
    (project / "envelope.json").unlink()
    full = approving(project, TypedAnswer("+line 500", ""), TypedAnswer(ASKS, "y\n"), options=("--full",))
    assert (full.code, full.answered, "not shown" in full.shown) == (0, True, False), full


def test_without_diffs_every_line_counts_as_not_shown(remit: Remit, project: Path) -> None:
    seen = approving(project, TypedAnswer("7 lines of this preview were not shown.", "n\n"), options=("--no-diff",))
    assert (seen.code, seen.answered) == (2, True), seen


def test_a_statement_that_does_not_fit_the_width_of_the_terminal_is_shown_whole(remit: Remit, project: Path) -> None:
    config = project / "remit.yaml"
    config.write_text(config.read_text() + "\nconnections:\n  shop: {type: duckdb, path: shop.duckdb}\n")
    query = "SELECT " + ", ".join(f"{number} AS column_{number}" for number in range(300)) + ", 'the end' AS last"
    operation = {"type": "sql_execute", "connection": "shop", "query": query}
    made = {"type": "sql_execute", "connection": "shop", "query": "CREATE TABLE t (a INTEGER)"}
    put(project, {"action_type": "SQL_EXECUTE", "operation": made})
    assert remit("run", "plan.json", "--yes").code == 0
    put(project, {"action_type": "SQL_EXECUTE", "operation": operation})
    shown = remit("preview", "plan.json", COLUMNS="60").out
    assert ("'the end'" in shown, "unseen" in shown) == (True, False), "one line of SQL is one line, however wide"


# --- without a terminal ----------------------------------------------------------------------------------------------


def test_without_a_terminal_and_a_digest_nothing_is_signed(remit: Remit, project: Path) -> None:
    for options in ((), ("--json",), ("-C", str(project))):
        alone = remit("approve", "plan.json", "-o", "envelope.json", *options)
        assert alone.code == 3, alone
        said = alone.document["error"]["next_step"] if "--json" in options else alone.err
        assert "remit preview" in said
        assert "--digest sha256:..." in said
        code = alone.document["error"]["type"] if "--json" in options else alone.err
        assert "NOT_APPROVED" in code
    piped = remit("approve", "-", "-o", "envelope.json", stdin=(project / "plan.json").read_bytes())
    assert piped.code == 3, piped
    require_unsigned(remit, project)


def test_the_digest_that_preview_prints_approves_that_preview(remit: Remit, project: Path) -> None:
    digest = digest_of(remit)
    assert remit("preview", "plan.json", "--json").document["digest"] == digest
    kept = remit("preview", "plan.json", "--digest-file", "plan.digest")
    assert (kept.code, digest in kept.out) == (0, True), "it is shown as well"
    assert (project / "plan.digest").read_text() == f"{digest}\n"
    approved = remit("approve", "plan.json", "-o", "envelope.json", "--digest", digest)
    assert approved.code == 0, approved
    assert remit("apply", "envelope.json").code == 0
    plan = (project / "plan.json").read_bytes()
    again = remit("approve", "-", "-o", "again.json", "--digest", digest, stdin=plan)
    assert again.code == 2, "the file is another one since the plan was applied"


@pytest.mark.parametrize(
    "swap, named",
    [
        (_other_target, "settings.json (other content)"),
        (_other_plan, "the plan itself"),
        (_other_settings, "remit.yaml (other settings)"),
        (lambda project: (project / "settings.json").chmod(0o600), "settings.json (permissions 0644 -> 0600)"),
    ],
)
def test_what_changed_since_the_preview_is_named_and_nothing_is_signed(
    remit: Remit, project: Path, swap: Callable[[Path], object], named: str
) -> None:
    (project / "settings.json").chmod(0o644)
    digest = digest_of(remit)
    swap(project)
    refused = remit("approve", "plan.json", "-o", "envelope.json", "--digest", digest)
    assert refused.code == 2, refused
    assert f"changed since the preview: {named}" in refused.err
    assert "remit preview" in refused.err
    told = remit("approve", "plan.json", "-o", "envelope.json", "--digest", digest, "--json")
    assert (told.code, named in told.document["error"]["what"]) == (2, True)
    require_unsigned(remit, project)


def test_a_digest_without_a_stored_note_is_still_refused(remit: Remit, project: Path) -> None:
    digest = digest_of(remit)
    _other_target(project)
    for folder in (project.parent / "state").rglob("previews"):
        shutil.rmtree(folder)
    for given in (digest, f"sha256:{'0' * 64}"):
        refused = remit("approve", "plan.json", "-o", "envelope.json", "--digest", given)
        assert (refused.code, "settings.json" in refused.err) == (2, True), refused
    for given in ("", "sha256:", "yes", digest.upper()):
        refused = remit("approve", "plan.json", "-o", "envelope.json", "--digest", given)
        assert (refused.code, "--digest takes sha256: and 64 hex digits" in refused.err) == (2, True), refused
    require_unsigned(remit, project)


def test_a_note_that_cannot_be_written_or_read_changes_nothing(remit: Remit, project: Path) -> None:
    digest = digest_of(remit)
    (notes,) = (project.parent / "state").rglob("previews")
    for each in notes.iterdir():
        each.write_text('{"inputs": 3}')
    assert remit("approve", "plan.json", "--digest", digest).code == 0
    _other_target(project)
    assert remit("approve", "plan.json", "--digest", digest).code == 2
    shutil.rmtree(notes)
    notes.write_text("in the way")
    assert remit("preview", "plan.json").code == 0


def test_at_most_a_hundred_notes_are_kept_and_the_newest_is_one_of_them(remit: Remit, project: Path) -> None:
    digest_of(remit)
    (notes,) = (project.parent / "state").rglob("previews")
    for number in range(150):
        (notes / f"{number:064x}.json").write_text("{}")
    _other_target(project)
    digest = digest_of(remit)
    kept = list(notes.iterdir())
    assert (len(kept), f"{digest.removeprefix('sha256:')}.json" in {each.name for each in kept}) == (100, True)


def test_by_digest_too_lines_that_the_preview_does_not_show_are_named(remit: Remit, project: Path) -> None:
    put(project, create("long.txt", 500))
    shown = remit("preview", "plan.json").out
    assert "463 lines not shown; --full shows them; to approve without seeing them: --unseen-lines 463" in shown
    given = ("approve", "plan.json", "-o", "envelope.json", "--digest", digest_of(remit))
    refused = remit(*given)
    assert refused.code == 2, refused
    for words in ("does not show 463 lines", "--unseen-lines 463", "remit preview --full"):
        assert words in refused.err
    assert "1002 NOT_APPROVED" in refused.err
    for number in ("0", "462", "464"):
        wrong = remit(*given, "--unseen-lines", number)
        assert (wrong.code, "1002 NOT_APPROVED" in wrong.err) == (2, True), wrong
    assert remit(*given, "--full", "--unseen-lines", "463").code == 2, "with --full, every line was shown"
    require_unsigned(remit, project)
    assert remit(*given, "--unseen-lines", "463").code == 0
    assert remit(*given, "--full").code == 0
    assert "unseen" not in remit("preview", "plan.json", "--full").out
    alone = remit("approve", "plan.json", "--unseen-lines", "463")
    assert (alone.code, "--unseen-lines needs --digest" in alone.err) == (2, True)


def test_approvals_that_a_plan_needs_by_name_are_listed_for_the_named_preview(remit: Remit, project: Path) -> None:
    (project / ".env").write_text("REGION=north\n")
    operation = {"type": "text_replace", "pattern": "north", "replacement": "south"}
    put(project, {"action_type": "FILE_MODIFY", "target": ".env", "operation": operation})
    given = ("approve", "plan.json", "-o", "envelope.json", "--digest", digest_of(remit))
    missing = remit(*given)
    assert missing.code == 2
    assert f"remit approve plan.json -o envelope.json --digest {given[-1]} --allow-protected .env" in missing.err
    require_unsigned(remit, project)
    assert remit(*given, "--allow-protected", ".env").code == 0


def test_a_run_that_no_person_can_be_asked_about_is_not_approved_and_its_plan_is_not_called_malformed(
    remit: Remit, project: Path
) -> None:
    refused = remit("run", "plan.json")
    assert (refused.code, "1002 NOT_APPROVED" in refused.err) == (3, True), refused
    assert (project / "settings.json").read_text() == BEFORE


def test_a_script_that_read_the_preview_as_json_says_that_it_saw_all_of_it(remit: Remit, project: Path) -> None:
    put(project, create("long.txt", 500))
    read = remit("preview", "plan.json", "--json").document
    assert "+line 500" in read["files"][0]["diff"]
    given = ("approve", "plan.json", "-o", "envelope.json", "--digest", read["digest"])
    assert remit(*given).code == 2
    assert remit(*given, "--full").code == 0
