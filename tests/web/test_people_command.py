"""`remit people`, in a process of its own."""

from pathlib import Path

import pytest

from remit.services.base.server_lock import announce_server
from remit.workspace.workspace import Workspace
from tests.cli.conftest import Remit, remit

__all__ = ["remit"]


@pytest.fixture
def project(remit: Remit, tmp_path: Path) -> Path:
    assert remit("init").code == 0
    return tmp_path / "project"


def opened(project: Path) -> Workspace:
    return Workspace.open(project, environ={"REMIT_STATE": str(project.parent / "state")})


def test_invite_list_and_remove(remit: Remit, project: Path) -> None:
    assert "There are no people yet" in remit("people", "list").out
    first = remit("people", "invite", "ada")
    assert first.out.startswith("/login#")
    assert "no server is running" in first.err
    assert "For link:ada, as viewer; the link works once, until 20" in first.err
    with opened(project) as workspace, announce_server(workspace.state, "https://remit.example", workspace.clock):
        wish = ("--role", "approver", "--user", "ada", "--tenant", "acme", "--life", "1h")
        invited = remit("people", "invite", "ada", *wish, "--json").document
        assert invited["link"].startswith("https://remit.example/login#")
        assert (invited["person"], invited["role"]) == ("link:ada", "approver")
        session = workspace.people.redeem(invited["path"].partition("#")[2])
        [listed] = remit("people", "list", "--json").document
        assert (listed["sessions"], listed["open_links"], listed["user"]) == (1, 0, "ada")
        assert "ada of acme" in remit("people", "list").out
        assert remit("people", "remove", "ada").out == "link:ada is removed\n"
        assert workspace.people.session(session.cookie) is None
    assert remit("people", "remove", "ada").code == 2
    assert "names no tenant" in remit("people", "invite", "ada", "--user", "x").err
    with (project / "remit.yaml").open("a") as settings:
        settings.write("tenants: {acme: {users: [mia]}}\n")
    assert "--user" in remit("people", "invite", "mia", "--tenant", "acme").err
    assert remit("people", "invite", "mia", "--user", "mia").code == 0
    assert "mia of acme" in remit("people", "list").out, "of the only tenant"
    assert remit("token", "issue", "--sub", "bot", "--cap", "goal.ask", "--user", "mia").code == 0
    [row] = remit("token", "list", "--json").document["tokens"]
    assert row["constraints"] == {"user": "mia", "tenant": "acme"}
    assert remit("token", "list").out.splitlines()[1].split()[-3:] == ["-", "goal.ask", "-"]
    assert remit("people", "invite", "os:root").code == 2
    assert first.out.strip().partition("#")[2] not in remit("ledger", "show", "--json").out


def test_a_person_who_is_invited_again_stays_the_same_user(remit: Remit, project: Path) -> None:
    first = remit("people", "invite", "ada", "--role", "operator", "--user", "ada", "--tenant", "acme")
    assert "For link:ada, as operator, the user ada of acme; the link works once" in first.err
    with opened(project) as workspace:
        session = workspace.people.redeem(first.out.strip().partition("#")[2])
        again = remit("people", "invite", "ada", "--role", "operator")
        assert "as operator, the user ada of acme" in again.err
        assert workspace.people.session(session.cookie) is not None, "nothing changed for them"
        promoted = remit("people", "invite", "ada", "--role", "admin", "--json").document
        assert (promoted["role"], promoted["user"], promoted["tenant"]) == ("admin", "ada", "acme")
        assert workspace.people.session(session.cookie) is None
    other = remit("people", "invite", "ada", "--role", "admin", "--user", "eve", "--tenant", "globex")
    assert "the user eve of globex" in other.err
    [listed] = remit("people", "list", "--json").document
    assert (listed["user"], listed["tenant"]) == ("eve", "globex")


@pytest.mark.parametrize("variable", ["REMIT_AGENT", "REMIT_TOKEN"])
def test_an_agent_gets_no_link_and_removes_no_person(remit: Remit, project: Path, variable: str) -> None:
    assert remit("people", "invite", "ada").code == 0
    for words in (("invite", "bot", "--role", "admin"), ("remove", "ada")):
        refused = remit("people", *words, **{variable: "bot"})
        assert (refused.code, "an agent cannot do it" in refused.err) == (2, True)
        assert "/login#" not in refused.out + refused.err
    assert [one["id"] for one in remit("people", "list", "--json").document] == ["link:ada"]
