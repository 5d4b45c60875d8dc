"""`remit ask`: from a user's words to the effect and back, with exit codes that say what is left in the world."""

import json
from datetime import timedelta
from typing import get_args

import pytest

from remit.authority.capability_token import TokenRequest
from remit.cli.goals.ask import read_locale_language
from remit.cli.goals.render import NEXT
from remit.contracts.browser.browser import TokenConstraints
from remit.contracts.goals.error_codes import AgentCode
from remit.core.errors import RefusedError
from remit.identity.callers import AgentCaller
from remit.identity.person import person_at_terminal
from remit.services.services import Services
from tests.cli.goals.conftest import Shell

KEYS = {"correlation_id", "tenant_id", "thread_id", "outcome", "waiting_for", "next"} | {
    "preview",
    "why",
    "policies",
    "did_you_mean",
    "ended_before",
}
DISPATCHED = "SELECT count(*) FROM agent_execution_ledger WHERE event = 'DISPATCHED'"


@pytest.mark.req("AC-20", "AC-05", "AC-11", "AC-13", "AC-14")
def test_a_goal_is_asked_confirmed_run_undone_and_traced_from_the_shell(shell_on_each_store: Shell) -> None:
    office = shell_on_each_store.office
    asked = shell_on_each_store.ask(
        "archive", "the", "note", "one", "--user", "mia", "--tenant", "acme", "--correlation", "g-1"
    )
    assert asked.code == 3
    assert set(asked.document) == KEYS
    assert asked.document["waiting_for"] == "confirmation"
    assert asked.document["next"] == [["remit", "ask", "--tenant", "acme", "--continue", "g-1", "--confirm", "ANSWER"]]
    unclear = shell_on_each_store.ask("--continue", "g-1", "--confirm", "okay")
    assert (unclear.code, unclear.document["outcome"]["reason_code"]) == (3, "CONFIRMATION_AMBIGUOUS")
    assert (office.archived(), office.count(DISPATCHED)) == ([], 0)
    done = shell_on_each_store.ask("--continue", "g-1", "--confirm", "yes")
    assert (done.code, done.document["waiting_for"], done.document["next"]) == (0, None, [])
    assert done.document["outcome"]["reason_code"] == "SIMULATION_SUCCEEDED"
    assert office.archived() == ["one"]
    again = shell_on_each_store("ask", "--continue", "g-1", "--confirm", "yes")
    assert (again.code, office.count(DISPATCHED)) == (0, 1)
    assert "done before: Done." in again.out
    assert "undo:  remit ask --tenant acme --undo g-1" in again.out
    assert shell_on_each_store("ask", "--undo", "g-1", "--confirm", "yes", "--correlation", "g-2").code == 0
    assert (office.archived(), office.notes()) == ([], ["one", "three", "two"])
    replayed = shell_on_each_store("ledger", "replay", "--all", "--tenant", "acme", "--json").document
    assert (replayed["goals"], replayed["disagree"], replayed["code"]) == (2, 0, None)
    traced = shell_on_each_store("ledger", "trace", "g-1", "--json")
    assert (traced.code, traced.document["holds"]) == (0, True)
    kinds = [child["kind"] for child in traced.document["trace"]["children"]]
    assert kinds == [
        "packet",
        "entry",  # the account that asked
        "plan",
        "question",
        "entry",  # the preview that the question shows
        "confirmation",
        "question",
        "confirmation",
        "confirmed",
        "access",
        "decision",
        "dispatch",
        "outcome",
        "rollback",
    ]
    assert traced.document["trace"]["children"][-1]["facts"]["by"] == "g-2"


def test_without_a_terminal_the_question_is_shown_with_the_next_command(shell: Shell) -> None:
    asked = shell("ask", "archive the note one", "--user", "mia", "--tenant", "acme", "--correlation", "g-1")
    assert asked.code == 3
    assert "Archive a note (archive-note 1): note = one." in asked.out
    assert "next:  remit ask --tenant acme --continue g-1 --confirm ANSWER" in asked.out
    literal = shell("ask", "--continue", "g-1", "--confirm", "ANSWER")  # copied as it stands, it confirms nothing
    assert literal.code == 3
    assert shell.office.archived() == []


@pytest.mark.req("AC-03")
def test_a_question_back_is_answered_by_a_reply_of_the_same_user_in_the_same_language(shell: Shell) -> None:
    asked = shell.ask_goal("archiviere die Notiz", "g-1", "--lang", "de")
    assert (asked["waiting_for"], asked["outcome"]["user_visible_text"]) == ("clarification", "Which note?")
    assert asked["next"] == [["remit", "ask", "--tenant", "acme", "--reply", "g-1", "TEXT"]]
    replied = shell.ask("two", "--reply", "g-1", "--confirm", "ja")
    assert (replied.code, replied.document["thread_id"]) == (0, "g-1")
    assert shell.office.archived() == ["two"]


@pytest.mark.req("AC-04")
def test_a_request_that_no_simulation_covers_goes_to_the_intake_and_is_never_dispatched(shell: Shell) -> None:
    said = "order a pizza, my password is hunter2"
    asked = shell("ask", said, "--user", "mia", "--tenant", "acme", "--confirm", "yes")
    assert asked.code == 2
    assert "SIMULATION_MISSING" in asked.err
    assert "remit intake" in asked.err
    assert shell.office.count(DISPATCHED) == 0
    assert shell("ask", said, "--user", "leo", "--tenant", "acme").code == 2
    listed = shell("intake", "--tenant", "acme", "--json").document["items"]
    assert [(item["count"], len(item["correlations"])) for item in listed] == [(2, 2)]
    shown = shell("intake", "list", "--tenant", "acme")
    assert "order a pizza" in shown.out
    assert "hunter2" not in shown.out + json.dumps(listed)


def test_the_intake_can_be_exported_and_overwrites_a_file_only_with_force(shell: Shell) -> None:
    for words in ("order a pizza", "paint it black", "order a pizza"):
        shell.office.ask(words)
    exported = shell("intake", "export", "--tenant", "acme", "-o", "wanted.jsonl", "--json")
    assert exported.document == {"file": "wanted.jsonl", "tenant_id": "acme", "items": 2}
    file = shell.office.root / "wanted.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["intent"], line["count"]) for line in lines] == [("order a pizza", 2), ("paint it black", 1)]
    file.write_text("mine\n")
    assert shell("intake", "export", "--tenant", "acme", "-o", "wanted.jsonl").code == 2
    assert file.read_text() == "mine\n"
    assert shell("intake", "export", "--tenant", "acme", "-o", "wanted.jsonl", "--force").code == 0
    assert len(file.read_text().splitlines()) == 2


@pytest.mark.req("AC-06")
def test_a_refusal_names_its_code_and_the_next_step_and_leaves_everything_as_it_was(shell: Shell) -> None:
    denied = shell("ask", "archive the note one", "--user", "eve", "--tenant", "acme", "--confirm", "yes")
    assert denied.code == 2
    assert "refused: You are not allowed to do this." in denied.err
    assert "code:  ACCESS_SCOPE_VIOLATION" in denied.err
    assert "next:" in denied.err
    shell.office.retire("archive-note")
    retired = shell.ask_goal("archive the note one", "g-2", "--confirm", "yes")
    assert retired["outcome"]["reason_code"] == "SIMULATION_NOT_ACTIVE"
    assert retired["waiting_for"] is None
    shell.office.write_policy("permit (nobody);")
    broken = shell("ask", "are you there", "--user", "mia", "--tenant", "acme")
    assert broken.code == 2
    assert "code:  ACCESS_SCOPE_VIOLATION" in broken.err
    assert "why:   the access policies cannot be used" in broken.err
    (shell.office.root / "simulations.json").write_text("{}")
    unread = shell("ask", "are you there", "--user", "mia", "--tenant", "acme", "--json")
    assert (unread.code, set(unread.document)) == (2, {"error"})
    assert "simulations.json" in unread.document["error"]["where"]
    assert shell.office.count(DISPATCHED) == 0


def test_a_tenant_that_is_not_there_is_refused_and_several_are_named(shell: Shell) -> None:
    several = shell("ask", "are you there", "--user", "mia")
    assert several.code == 2
    assert "acme, globex" in several.err
    nobody = shell("ask", "are you there", "--user", "mia", "--tenant", "nobody")
    assert nobody.code == 2
    assert "there is no such tenant" in nobody.err
    users = {"users": ["mia", "leo", "eve"]}
    shell.office.write_config(tenants={"acme": users})
    assert shell("ask", "are you there", "--user", "mia").code == 0
    shell.office.write_config(tenants={"acme": users, "default": users})
    assert shell.ask("are you there", "--user", "mia").document["tenant_id"] == "default"


def test_a_correlation_of_two_tenants_needs_the_tenant_to_be_named(shell: Shell) -> None:
    for tenant in ("acme", "globex"):
        shell.office.ask("order a pizza", tenant=tenant, correlation_id="same")
    unclear = shell("ledger", "trace", "same")
    assert unclear.code == 2
    assert "acme, globex" in unclear.err
    assert shell("ledger", "trace", "same", "--tenant", "globex").code == 0
    assert shell("ask", "--continue", "never").code == 2


@pytest.mark.req("AC-05")
def test_an_agent_may_ask_and_cannot_confirm_for_the_user(shell: Shell) -> None:
    goal = ("archive the note one", "--user", "mia", "--tenant", "acme", "--correlation", "g-1")
    alone = shell("ask", *goal, "--confirm", "yes", REMIT_AGENT="helper")
    assert alone.code == 2
    assert "an agent cannot do it" in alone.err
    assert shell.office.events("g-1") == []
    assert shell("ask", *goal, REMIT_AGENT="helper").code == 3
    assert shell("ask", "--continue", "g-1", "--confirm", "yes", REMIT_AGENT="helper").code == 2
    assert shell.office.archived() == []


def test_an_agent_with_a_token_asks_for_the_user_whom_that_names(shell: Shell) -> None:
    def token(capability: str, user: str | None) -> str:
        whose = TokenConstraints(user=user, tenant="acme" if user else None)
        return shell.office.workspace.tokens.issue(
            TokenRequest("helper", (capability,), whose, timedelta(hours=1))
        ).text

    goal = ("archive the note one", "--correlation", "g-1")
    for wrong in (token("plan.propose", None), token("goal.ask", "leo")):
        assert shell("ask", *goal, "--user", "mia", "--tenant", "acme", REMIT_TOKEN=wrong).code == 2
    assert shell.office.events("g-1") == []
    assert shell("ask", *goal, REMIT_TOKEN=token("goal.ask", "mia")).code == 3


def test_an_agent_owns_its_goals_and_cannot_see_the_goals_of_others(shell: Shell) -> None:
    workspace = shell.office.workspace

    def agent(name: str) -> AgentCaller:
        whose = TokenConstraints(user="mia", tenant="acme")
        text = workspace.tokens.issue(TokenRequest(name, ("goal.ask",), whose, timedelta(hours=1))).text
        return AgentCaller.by(workspace.tokens, text)

    helper, other = agent("helper"), agent("other")
    shell.ask_goal("archive the note two", "g-mia")
    assert shell("ask", "archive the note one", "--correlation", "g-1", REMIT_TOKEN=helper.text).code == 3
    back = shell("ask", "archive the note", "--json", REMIT_TOKEN=helper.text).document  # asks back: which one?
    replied = shell("ask", "--reply", back["correlation_id"], "one", "--json", REMIT_TOKEN=helper.text).document
    own = ("g-1", back["correlation_id"], replied["correlation_id"])
    with Services(workspace) as desk:
        for name in own:
            assert desk.goals.get(helper, "acme", name).correlation_id == name
            with pytest.raises(RefusedError, match="no such goal"):
                desk.goals.get(other, "acme", name)
    recorded = "SELECT count(*) FROM ledger_entries WHERE kind = 'goal.asked' AND actor = 'agent:helper'"
    assert shell.office.count(recorded) == len(own)
    for name in ("g-mia", "g-1"):
        for arguments in (("--continue", name), ("--undo", name), ("--reply", name, "one")):
            refused = shell("ask", *arguments, REMIT_TOKEN=other.text)
            assert (refused.code, "no such goal" in refused.err) == (2, True), (arguments, refused)
    taken = shell("ask", "archive the note two", "--correlation", "g-mia", REMIT_TOKEN=other.text)
    assert (taken.code, "belongs to another goal" in taken.err) == (2, True)
    assert shell("ask", "--continue", "g-1", REMIT_TOKEN=helper.text).code == 3  # it waits for the user's yes
    assert shell("ask", "--continue", "g-1", "--confirm", "yes").code == 0  # who says it at the terminal


def test_the_ledger_names_the_account_that_asked_at_the_terminal_and_a_second_run_adds_nothing(shell: Shell) -> None:
    account = person_at_terminal({}).id
    shell.ask_goal("archive the note one", "g-1")
    shell.ask_goal("archive the note one", "g-1")
    assert shell("ask", "--continue", "g-1", "--confirm", "yes").code == 0
    recorded = "SELECT count(*) FROM ledger_entries WHERE kind = 'goal.asked' AND correlation_id = 'g-1'"
    assert shell.office.count(f"{recorded} AND actor = '{account}'") == 1
    assert shell.office.count(recorded) == 1

    asked = ("ask", "archive the note two", "--user", "mia", "--tenant", "acme", "--correlation", "g-2")
    assert shell(*asked, REMIT_AGENT="helper").code == 3
    assert shell.office.count("SELECT count(*) FROM ledger_entries WHERE kind = 'goal.asked'") == 1  # no person asked


def test_a_user_cannot_continue_the_goal_of_another_user(shell: Shell) -> None:
    shell.ask_goal("archive the note one", "g-1")
    other = shell.ask("--continue", "g-1", "--confirm", "yes", "--user", "leo")
    assert (other.code, other.document["outcome"]["reason_code"]) == (2, "IDEMPOTENCY_VIOLATION")
    assert other.document["waiting_for"] is None  # the goal does, and not this user
    assert shell.office.archived() == []


def test_a_goal_that_fails_exits_with_1_and_says_why(shell: Shell) -> None:
    (shell.office.base / "taken.txt").write_text("here before\n")
    failed = shell("ask", "copy the form as taken", "--user", "mia", "--tenant", "acme", "--confirm", "yes")
    assert failed.code == 1
    assert "code:  SIMULATION_FAILED" in failed.out
    assert "why:" in failed.out
    assert (shell.office.base / "taken.txt").read_text() == "here before\n"


def test_words_may_begin_with_a_dash_or_come_from_standard_input(shell: Shell) -> None:
    who = ("--user", "mia", "--tenant", "acme")
    assert shell("ask", *who, "--", "-", stdin=b"are you there\n").code == 0
    assert shell("ask", *who, "-", stdin=b"are you there\n").code == 0
    dashed = shell("ask", *who, "--correlation", "g-1", "--json", "--", "--archive the note one")
    assert dashed.document["correlation_id"] == "g-1"
    assert shell.office.events("g-1") != []
    for bad in (b"\xff\xfe", b"x" * 70_000, b"x" * 20_000):
        refused = shell("ask", *who, "-", stdin=bad)
        assert refused.code == 2, refused
        assert "Traceback" not in refused.err


def test_a_command_that_says_two_things_or_nothing_is_refused(shell: Shell) -> None:
    shell.office.write_config(tenants={"acme": {"users": ["mia", "leo", "eve"]}})
    for arguments in (
        (),
        ("hello",),
        ("hello", "--user", "mia", "--continue", "c"),
        ("--continue", "c", "--undo", "d"),
        ("--reply", "c"),
        ("--continue", "c", "--lang", "de"),
    ):
        ran = shell("ask", *arguments)
        assert (ran.code, ran.out) == (2, ""), arguments


def test_every_way_to_end_without_success_has_its_next_step() -> None:
    never_last = {"SIMULATION_SUCCEEDED", "ACCESS_ALLOWED", "CLARIFY_REQUIRED", "CONFIRMATION_REQUIRED"}
    assert set(get_args(AgentCode)) - never_last == set(NEXT)


def test_an_undone_goal_cannot_be_undone_again(shell: Shell) -> None:
    shell.office.done("archive the note one", correlation_id="g-1")
    assert shell("ask", "--undo", "g-1", "--confirm", "yes").code == 0
    again = shell("ask", "--undo", "g-1", "--confirm", "yes")
    assert again.code == 2
    assert "there is nothing to roll back: its state is ROLLED_BACK" in again.err
    assert shell.office.notes() == ["one", "three", "two"]


def test_the_language_is_the_locales_where_it_names_one() -> None:
    assert read_locale_language({}) == "en"
    assert read_locale_language({"LANG": "C.UTF-8"}) == "en"
    assert read_locale_language({"LANG": "de_AT.UTF-8@euro"}) == "de-AT"
    assert read_locale_language({"LANG": "de_DE.UTF-8", "LC_ALL": "ar"}) == "ar"
    assert read_locale_language({"LC_ALL": "", "LC_MESSAGES": "tr_TR", "LANG": "de"}) == "tr-TR"
    assert read_locale_language({"LANG": "../../etc"}) == "en"


def test_the_locales_language_is_the_one_that_an_answer_is_read_in(shell: Shell) -> None:
    who = ("--user", "mia", "--tenant", "acme")
    assert shell("ask", "archiviere die Notiz one", *who, "--confirm", "yes", LANG="de_DE.UTF-8").code == 3
    assert shell("ask", "archiviere die Notiz one", *who, "--confirm", "ja", LANG="de_DE.UTF-8").code == 0
