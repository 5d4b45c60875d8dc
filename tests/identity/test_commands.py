"""`remit token`, in a process of its own."""

import os
import stat
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from remit.cli.common.completion import complete_token
from remit.cli.token import token as token_command
from remit.contracts.browser.browser import AUDIENCE, ISSUER
from remit.core.errors import RefusedError
from remit.identity.person import person_at_terminal
from remit.identity.tokens import Tokens
from remit.workspace.workspace import Workspace
from tests.cli.conftest import Remit, remit
from tests.identity.forging import public_pem, rsa_key

__all__ = ["remit"]


@pytest.fixture
def project(remit: Remit, tmp_path: Path) -> Path:
    assert remit("init").code == 0
    return tmp_path / "project"


def opened(project: Path) -> Workspace:
    return Workspace.open(project, environ={"REMIT_STATE": str(project.parent / "state")})


@pytest.mark.req("VX-01")
def test_issue_list_and_revoke(remit: Remit, project: Path) -> None:
    limits = ["--domain", "shop.example", "--domain", "*.cdn.example", "--max-purchase", "49.90", "EUR"]
    issued = remit("token", "issue", "--sub", "bot", "--cap", "navigate", "--cap", "purchase", *limits, "--json")
    assert issued.code == 0, issued.err
    with opened(project) as workspace:
        token = workspace.tokens.verify(issued.document["token"])
        assert (token.agent_id, token.jti) == ("bot", issued.document["jti"])
        assert token.constraints.domains == ("shop.example", "*.cdn.example")
        assert (workspace.config.browser.issuer, workspace.config.browser.audience) == (ISSUER, AUDIENCE)

    listed = remit("token", "list", COLUMNS="200")
    assert listed.code == 0
    for shown in (token.jti, "bot", "navigate purchase", "shop.example *.cdn.example; at most 49.9 EUR", "until "):
        assert shown in listed.out
    assert issued.document["token"] not in listed.out + remit("ledger", "show", "--json").out

    context = click.Context(click.Command("revoke"))
    context.params["directory"] = project
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("REMIT_STATE", str(project.parent / "state"))
        assert [item.value for item in complete_token(context, click.Argument(["JTI"]), "")] == [token.jti]
    revoked = remit("token", "revoke", token.jti[:18], "--reason", "done")
    assert (revoked.out, revoked.err) == (f"Token {token.jti} is revoked\n", "")
    assert "did not issue a token with this id" in remit("token", "revoke", "from-elsewhere").err
    [row] = remit("token", "list", "--json").document["tokens"]
    assert (row["jti"], row["revoked_why"], row["caps"]) == (
        token.jti,
        "done",
        ["browser.navigate", "browser.purchase"],
    )
    assert row["state"].startswith("revoked ")
    assert remit("ledger", "verify").code == 0
    words = remit("ledger", "show").out
    assert "for bot, until " in words
    assert ", done" in words


def test_only_the_owner_can_read_a_token_file(remit: Remit, project: Path) -> None:
    target = project / "bot.token"
    words = ("token", "issue", "--sub", "bot", "--cap", "click", "--domain", "a.example", "-o", str(target))
    ran = remit(*words)
    assert ran.code == 0
    assert str(target) in ran.out
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    with opened(project) as workspace:
        assert workspace.tokens.verify(target.read_text().strip()).agent_id == "bot"
    assert target.read_text().strip() not in ran.out
    kept = target.read_bytes()
    again = remit(*words)
    assert (again.code, target.read_bytes()) == (2, kept)
    assert "the file exists already" in again.err


def test_no_other_user_can_open_the_token_file_before_the_token_is_in_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever opened it then could read the token later, whatever its mode is by then."""
    modes: list[int] = []
    issue = Tokens.issue

    def look_and_issue(tokens: Tokens, *given: Any, **named: Any) -> Any:
        modes.extend(stat.S_IMODE(path.stat().st_mode) for path in project.glob(".bot.token.*"))
        return issue(tokens, *given, **named)

    monkeypatch.setattr(Tokens, "issue", look_and_issue)
    before = os.umask(0)
    try:
        words = ["issue", "--sub", "bot", "--cap", "click", "-o", str(project / "bot.token"), "-C", str(project)]
        ran = CliRunner().invoke(token_command, words, env={"REMIT_STATE": str(project.parent / "state")})
    finally:
        os.umask(before)
    assert (ran.exit_code, modes) == (0, [0o600])


MEANINGLESS = [
    (["--domain", "*.com"], "strangers can have names below this one"),
    (["--domain", "https://a.example/x?y"], "Write: --domain a.example\n"),
    (["--domain", "*.a.example:8443"], "Write: --domain *.a.example (The setting browser.ports"),
    (["--domain", "bücher.example"], "Write: --domain xn--bcher-kva.example\n"),
    (["--domain", "not a host"], "Write a host, such as"),
    (["--max-purchase", "much", "EUR"], "an amount is a number"),
    (["--max-purchase", "49,90", "EUR"], "--max-purchase 49.90 EUR"),
    (["--max-purchase", "5", "euro"], "--max-purchase 5 EUR"),
    (["--max-purchase", "5", "usd"], "--max-purchase 5 USD"),
    (["--max-purchase", "GBP", "5"], "--max-purchase 5 GBP"),
    (["--max-purchase", "5", "--life", "1h"], "the currency is missing"),
    (["--cap", "purchase"], "--max-purchase 50 EUR"),
    (["--life", "32d"], "31 days"),
    (["--life", "soon"], "such as 90s"),
    (["--not-before", "tomorrow"], "RFC 3339"),
    (["--cap", "fly"], "fly"),
]


def test_a_token_that_allows_nothing_is_not_issued(remit: Remit, project: Path) -> None:
    for arguments, said in MEANINGLESS:
        ran = remit("token", "issue", "--sub", "bot", "--cap", "navigate", *arguments)
        assert (ran.code, ran.out) == (2, ""), arguments
        assert said in ran.err
    with opened(project) as workspace:
        assert workspace.tokens.listed() == []


def test_an_agent_cannot_give_itself_authority(remit: Remit, project: Path) -> None:
    for command in (["issue", "--sub", "bot", "--cap", "click"], ["revoke", "x"], ["rotate-key"]):
        ran = remit("token", *command, REMIT_AGENT="bot")
        assert ran.code == 2
        assert "an agent cannot do it" in ran.err
    with opened(project) as workspace:
        assert list(workspace.tokens.keys) == []


def test_keys_can_be_trusted_rotated_and_distrusted(remit: Remit, project: Path, tmp_path: Path) -> None:
    assert "no key yet" in remit("token", "keys").out
    pem, weak = tmp_path / "k1.pem", tmp_path / "weak.pem"
    pem.write_bytes(public_pem(rsa_key("k1")))
    weak.write_bytes(public_pem(rsa_key("weak", bits=1_024)))
    assert remit("token", "trust", str(pem), "--kid", "k1", "--json").document == {"kid": "k1", "state": "active"}
    refused = remit("token", "trust", str(weak))
    assert refused.code == 2
    assert "2,048" in refused.err
    assert remit("token", "rotate-key", "--json").document["old_kid"] is None
    keys = remit("token", "keys", "--json").document
    assert [(key["origin"], key["state"]) for key in keys] == [("trusted", "active"), ("own", "active")]
    assert keys[0]["pem"] == pem.read_text()
    assert remit("token", "distrust", "k1").out.startswith("k1 is revoked")
    with opened(project) as workspace:
        assert [key.is_active for key in workspace.tokens.keys] == [False, True]


def test_a_retired_key_that_leaked_is_revoked_by_its_id_and_its_tokens_say_so(remit: Remit, project: Path) -> None:
    """`rotate-key --revoke` revokes the active key only. The command says so, and names the one for the retired key."""
    old = remit("token", "issue", "--sub", "bot", "--cap", "plan.propose", "--json").document
    assert remit("token", "rotate-key").code == 0
    rotated = remit("token", "rotate-key", "--revoke")
    assert f"remit token distrust {old['kid']}" in rotated.err
    with opened(project) as workspace:
        assert workspace.tokens.verify(old["token"]).jti == old["jti"]

    refused = remit("token", "revoke", old["kid"])
    assert refused.code == 2
    assert "this is the id of a key" in refused.err
    assert f"remit token distrust {old['kid']}" in refused.err
    assert remit("token", "list", "--json").document["revoked_elsewhere"] == []

    assert remit("token", "distrust", old["kid"]).code == 0
    with opened(project) as workspace, pytest.raises(RefusedError, match="key of this token was revoked"):
        workspace.tokens.verify(old["token"])
    [row] = remit("token", "list", "--json").document["tokens"]
    assert row["state"].startswith("key revoked ")
    assert "Nothing is left to do" in remit("token", "distrust", old["kid"]).err


def test_every_change_of_a_key_names_its_actor(remit: Remit, project: Path) -> None:
    remit("token", "issue", "--sub", "bot", "--cap", "plan.propose")
    remit("token", "rotate-key", "--revoke")
    remit("keys", "rotate", "kernel", "--revoke")
    retired = remit("keys", "rotate", "protocol", "--json").document["old_key_id"]
    remit("keys", "revoke", retired)
    assert "Nothing is left to do" in remit("keys", "revoke", retired).err
    entries = [each for each in remit("ledger", "show", "--json").document if each["kind"].startswith("key.")]
    assert len(entries) == 9
    assert {each["actor"] for each in entries} == {person_at_terminal({}).id}


def test_a_user_that_remit_yaml_does_not_list_is_noted_and_not_refused(remit: Remit, project: Path) -> None:
    with (project / "remit.yaml").open("a", encoding="utf-8") as config:
        config.write("tenants: {acme: {users: [mia]}}\n")
    issue = ("token", "issue", "--sub", "bot", "--cap", "goal.ask", "--user")
    invite = ("people", "invite", "ada", "--user")
    for command in (issue, invite):
        assert "does not list" not in remit(*command, "mia").err
        unlisted = remit(*command, "mai")
        assert unlisted.code == 0
        assert "note: remit.yaml does not list the user mai of acme under `tenants`" in unlisted.err


def test_a_token_for_the_other_operations_is_issued(remit: Remit, project: Path) -> None:
    wanted = [
        "--cap",
        "plan.propose",
        "--cap",
        "click",
        "--cap",
        "call.crm.set",
        "--domain",
        "a.example",
    ]
    issued = remit("token", "issue", "--sub", "bot", *wanted, "--json")
    assert (issued.code, issued.err) == (0, "")
    [row] = remit("token", "list", "--json").document["tokens"]
    assert row["caps"] == ["plan.propose", "browser.click", "call.crm.set"]
    asks = remit("token", "issue", "--sub", "bot", "--cap", "goal.ask", "--user", "ana", "--tenant", "acme", "--json")
    assert (asks.code, asks.err.startswith("note: remit.yaml does not list the user ana of acme")) == (0, True)
    assert remit("token", "issue", "--sub", "bot", "--cap", "plan.apply").err == ""  # no place is needed for that

    without_user = remit("token", "issue", "--sub", "bot", "--cap", "goal.ask")
    assert (without_user.code, "--user ana" in without_user.err) == (2, True)
    unknown = remit("token", "issue", "--sub", "bot", "--cap", "plan.approve")
    assert (unknown.code, "plan.propose, plan.apply" in unknown.err) == (2, True)


@pytest.mark.parametrize(
    "given, words",
    [
        (("--cap", "plan.propose", "--user", "mia"), ("--user", "goal.ask")),
        (("--cap", "plan.propose", "--domain", "shop.example"), ("--domain", "navigate")),
        (("--cap", "navigate", "--cap", "plan.propose", "--max-actions", "3"), ("--max-actions", "plan.propose")),
    ],
    ids=["user", "domain", "max-actions"],
)
def test_a_limit_that_nothing_checks_is_refused_in_the_words_of_the_options(
    remit: Remit, given: tuple[str, ...], words: tuple[str, ...]
) -> None:
    assert remit("init").code == 0
    ran = remit("token", "issue", "--sub", "bot", *given)
    assert ran.code == 2
    assert all(word in ran.err for word in words), ran.err
    assert not any(word in ran.err for word in ("browser.", "constraints.", "max_actions", "names no tenant")), ran.err
