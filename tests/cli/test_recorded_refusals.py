"""A plan command that is refused is in the ledger with its caller, and `--json` gives the error format of plans."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from remit.contracts.plans.error_response import ErrorResponse
from remit.core.errors import Reason, RefusedError
from remit.execution.refusals import about_name
from remit.ledger.counted_entries import MAX_SINGLES
from remit.workspace.workspace import Workspace
from tests.cli.conftest import NO_DIGEST, Remit, approve
from tests.cli.test_plan_commands import applied, change_env, create, project, put, update
from tests.support.refusal_entries import new_refusals

__all__ = ["project"]

Arguments = tuple[str, ...]
NO_ID = "0198f6a0-0000-7000-8000-000000000000"


@pytest.fixture
def workspace(project: Path, tmp_path: Path) -> Iterator[Workspace]:
    with Workspace.open(project, environ={"REMIT_STATE": str(tmp_path / "state")}) as opened:
        yield opened


def token(remit: Remit, *caps: str) -> str:
    asked = [option for cap in caps for option in ("--cap", cap)]
    assert remit("token", "issue", "--sub", "bot", *asked, "-o", "bot.token").code == 0
    return "bot.token"


def propose(remit: Remit, project: Path) -> str:
    made = remit("propose", put(project, update()), "--json")
    assert made.code == 0, made
    return str(made.document["proposal_id"])


def without_allowance(remit: Remit, project: Path) -> Arguments:
    digest = remit("preview", put(project, change_env()), "--json").document["digest"]
    return "approve", "plan.json", "--digest", digest, "--full"


def changed_since(remit: Remit, project: Path) -> Arguments:
    assert approve(remit, put(project, update()), "-o", "envelope.json").code == 0
    (project / "settings.json").write_text("{}")
    return "apply", "envelope.json"


def drifted(remit: Remit, project: Path) -> Arguments:
    assert applied(remit, put(project, update())).code == 0
    (project / "settings.json").write_text("mine\n")
    return "rollback", "last"


def denied(remit: Remit, project: Path) -> Arguments:
    name = propose(remit, project)
    assert remit("approvals", "deny", name).code == 0
    return "approvals", "deny", name


ASKED: dict[str, tuple[str, str, Callable[[Remit, Path], Arguments]]] = {
    "preview": ("preview", "request", lambda _, project: ("preview", put(project, create("../outside.txt")))),
    "propose": ("propose", "request", lambda _, project: ("propose", put(project, create("../outside.txt")))),
    "approve": (
        *("approve", "request"),
        lambda _, project: ("approve", put(project, create("../outside.txt")), "--digest", NO_DIGEST),
    ),
    "approve another preview": (
        *("approve", "request"),
        lambda _, project: ("approve", put(project, update()), "--digest", NO_DIGEST, "--full"),
    ),
    "approve without the allowance": ("approve", "request", without_allowance),
    "run without the allowance": ("run", "request", lambda _, project: ("run", put(project, change_env()), "--yes")),
    "apply after a change": ("apply", "plan", changed_since),
    "apply a pending proposal": (
        *("apply", "request"),
        lambda remit, project: ("apply", "--proposal", propose(remit, project)),
    ),
    "rollback of nothing": ("rollback", "request", lambda _, __: ("rollback", "last")),
    "rollback of drift": ("rollback", "rollback", drifted),
    "cancel of nothing": ("cancel", "request", lambda _, __: ("cancel", NO_ID)),
    "approve a proposal that was not shown": (
        *("approve", "request"),
        lambda remit, project: ("approvals", "approve", propose(remit, project), "--digest", NO_DIGEST),
    ),
    "compute nothing": ("compute", "request", lambda _, __: ("approvals", "compute", NO_ID)),
    "deny twice": ("deny", "request", denied),
}


@pytest.mark.req("PX-44")
@pytest.mark.parametrize("name", ASKED)
def test_a_refused_command_is_recorded_once_and_shown_in_the_format_of_plans(
    remit: Remit, project: Path, workspace: Workspace, name: str
) -> None:
    operation, family, prepare = ASKED[name]
    arguments = prepare(remit, project)
    with new_refusals(workspace) as found:
        told = remit(*arguments, "--json")
    assert told.code in {2, 3}, told
    (entry,) = found
    assert (entry.kind, entry.payload["operation"]) == (f"{family}.refused", operation)
    assert entry.actor is not None
    assert entry.actor.startswith("os:")
    assert entry.payload["caller"] == entry.actor
    assert entry.payload["reason"] == told.document["error"]["reason"]
    (error,) = told.document["errors"]
    parsed = ErrorResponse.from_tree(error, source="the answer")
    assert (parsed.error_code, parsed.error_type) == (told.document["error"]["code"], told.document["error"]["type"])
    assert parsed.recovery_action == "SKIPPED"
    assert entry.payload["code"] == parsed.error_code


@pytest.mark.req("PX-44")
def test_refusals_of_an_agent_are_recorded_with_its_name_if_its_token_is_valid(
    remit: Remit, project: Path, workspace: Workspace
) -> None:
    name, bot = propose(remit, project), token(remit, "plan.propose", "plan.apply", "plan.undo")
    by_agent: dict[str, Arguments] = {
        "propose": ("propose", put(project, create("../outside.txt")), "--token", bot),
        "apply": ("apply", "--proposal", name, "--token", bot),
    }
    for operation, arguments in by_agent.items():
        with new_refusals(workspace) as found:
            assert remit(*arguments).code in {2, 3}
        assert [(each.actor, each.payload["operation"]) for each in found] == [("agent:bot", operation)]
    forged: dict[str, Arguments] = {
        "propose": ("propose", put(project, update())),
        "approve": ("approvals", "approve", name),
        "rollback": ("rollback", name),
        "cancel": ("cancel", name),
    }
    for operation, arguments in forged.items():
        with new_refusals(workspace) as found:
            assert remit(*arguments, REMIT_TOKEN="eyJ.forged.token").code == 2
        assert [each.payload["operation"] for each in found] == [operation]
        assert str(found[0].actor).startswith("os:"), "a forged token names no agent"


@pytest.mark.req("PX-44")
def test_what_cannot_be_parsed_is_refused_and_not_recorded(remit: Remit, project: Path, workspace: Workspace) -> None:
    (project / "plan.json").write_text('{"plan_id": "p"}')
    with new_refusals(workspace) as found:
        for command in ("preview", "propose", "run"):
            told = remit(command, "plan.json", "--json")
            assert (told.code, told.document["errors"][0]["error_code"]) == (2, 1001)
        assert remit("apply", "plan.json").code == 2
    assert found == []


@pytest.mark.req("PX-44")
def test_counts_that_no_entry_states_yet_are_shown_beside_the_entries(
    remit: Remit, project: Path, workspace: Workspace
) -> None:
    plan = (project / put(project, create("../outside.txt"))).read_bytes()
    for _ in range(MAX_SINGLES + 5):
        with pytest.raises(RefusedError):
            workspace.preview(plan)
    shown = remit("ledger", "show", "--limit", "3")
    assert "preview: 1 counted since" in shown.out
    assert "path_refused" in shown.out
    assert "4 more since" in shown.err
    assert remit("preview", "plan.json").code == 2
    assert "5 more since" in remit("ledger", "show", "--json").err, "another process counts in the same window"
    assert remit("ledger", "verify").code == 0


@pytest.mark.req("PX-44")
def test_a_refusal_about_a_proposal_named_by_the_beginning_of_its_id_has_the_whole_id_and_the_plan(
    remit: Remit, project: Path, workspace: Workspace
) -> None:
    name = propose(remit, project)
    digest = remit("approvals", "show", name, "--json").document["proposal"]["plan_digest"]
    agent = token(remit, "plan.propose")
    read = remit("preview", "--proposal", name[:20], "--json")
    assert read.document["proposal_id"] == name, "a person may shorten the id"
    with new_refusals(workspace) as found:
        assert remit("approvals", "approve", name[:20], "--digest", NO_DIGEST).code == 2
        assert remit("apply", "--proposal", name[:20]).code == 3
        assert remit("approvals", "compute", name[:20], REMIT_AGENT="bot").code == 2
        assert remit("preview", "--proposal", name, "--token", agent).code == 2
    assert [entry.payload["operation"] for entry in found] == ["approve", "apply", "compute", "preview"]
    assert {(entry.correlation_id, entry.payload["plan_digest"]) for entry in found} == {(name, digest)}


def test_a_person_withdraws_a_pending_proposal_and_proposes_it_again_with_another_key(
    remit: Remit, project: Path
) -> None:
    plan = put(project, update())
    name = str(remit("propose", plan, "--key", "k", "--json").document["proposal_id"])
    assert f"Proposal {name} is withdrawn." in remit("cancel", name[:20]).out
    assert remit("approvals", "show", name, "--json").document["proposal"]["state"] == "VOID"
    again = remit("propose", plan, "--key", "k", "--json")
    assert (again.code, again.document["proposal_id"]) == (0, name)
    assert "the proposal is VOID. To propose the plan again, give another --key." in again.err
    later = str(remit("propose", plan, "--key", "k3", "--json").document["proposal_id"])
    digest = remit("approvals", "show", later, "--json").document["preview"]["preview_digest"]
    assert remit("approvals", "approve", later, "--digest", digest, "--full").code == 0
    assert remit("cancel", later[:20]).code == 0
    assert remit("approvals", "show", later, "--json").document["proposal"]["state"] == "VOID"
    other = remit("propose", plan, "--key", "k2", "--json")
    assert (other.document["state"], other.err) == ("PENDING", "")


def test_the_entries_of_a_proposal_are_found_although_an_entry_has_the_beginning_of_its_id(
    remit: Remit, project: Path, workspace: Workspace
) -> None:
    name = propose(remit, project)
    problem = RefusedError(Reason.STATE_MISSING, "why")
    workspace.refusals.record("approve", "os:old", about_name(name[:13]), problem)
    kinds = [entry["kind"] for entry in remit("ledger", "show", "--correlation", name[:13], "--json").document]
    assert "proposal.made" in kinds
    assert kinds[-1] == "request.refused"
