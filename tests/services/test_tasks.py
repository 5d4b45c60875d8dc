"""Leased tasks at the desk: the road's own answer, and an agent sees what it ran itself."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from remit.authority.results import verify_result
from remit.contracts.tasks.result import ExecutionResult
from remit.contracts.tasks.task import TaskManifest
from remit.core.errors import Reason, RefusedError
from remit.core.ids import render_time
from remit.identity.callers import AgentCaller, Caller
from remit.services.agent_tasks import protected_paths, require_not_protected
from remit.services.services import Services
from tests.goals.goal_office import Office
from tests.services.conftest import agent, person
from tests.support.task_workspace import file_task, made_workspace, manifest

LIFE = timedelta(minutes=5)
WAIT = 30.0


@pytest.fixture(scope="module")
def bot(office: Office) -> AgentCaller:
    return agent(office.workspace, "task.run")


def lease(services: Services, task: bytes) -> bytes:
    return services.tasks.lease(person(), task, LIFE).canonical()


def without_digest(result: ExecutionResult) -> dict[str, Any]:
    """But for the digest of the file, which an agent does not get, and the signature over it."""
    tree = result.tree()
    return {**tree, "signature": "", "output": {**tree["output"], "undo_metadata": {}}}


def test_a_task_is_run_once_and_shown_to_the_agent_that_ran_it(
    services: Services, office: Office, bot: AgentCaller
) -> None:
    (office.base / "from.txt").write_text("x")
    task = file_task("t-1", "FILE_COPY", office.base / "from.txt", office.base / "to.txt")
    leased = lease(services, task)
    answer = services.tasks.run(bot, task, leased, WAIT)
    assert answer.state == "done"
    assert answer.result is not None
    assert (answer.result.status, (office.base / "to.txt").read_text(), answer.stored) == ("SUCCESS", "x", False)
    again = services.tasks.run(bot, task, leased, WAIT)
    assert (again.stored, again.result) == (True, answer.result)
    assert services.tasks.get(bot, "t-1").result == answer.result
    recorded = services.tasks.get(person("viewer"), "t-1").result
    assert recorded is not None
    assert without_digest(recorded) == without_digest(answer.result)
    assert ("sha256" in json.dumps(recorded.tree()), "sha256" in json.dumps(answer.result.tree())) == (True, False)
    for result in (recorded, answer.result):
        verify_result(result, office.workspace.keyring, render_time(office.workspace.clock()))
    stranger = agent(office.workspace, "task.run", sub="other")
    for caller, name in ((stranger, "t-1"), (bot, "t-2"), (bot, "../t-1"), (bot, "t\n1"), (bot, "")):
        with pytest.raises(RefusedError) as refused:
            services.tasks.get(caller, name)
        assert refused.value.reason is Reason.STATE_MISSING
    asked = [
        each.entry
        for each in services.ledger.list_entries(person(), "default").items
        if each.entry.kind == "task.asked"
    ]
    assert [(each.actor, each.correlation_id) for each in asked] == [("agent:bot", "t-1")]
    leases = [
        each.entry.actor
        for each in services.ledger.list_entries(person(), "default").items
        if each.entry.kind == "lease.issued"
    ]
    assert leases == ["login:ann"]


def test_a_refused_task_says_why_and_claims_nothing(services: Services, office: Office, bot: AgentCaller) -> None:
    task = manifest("t-refused")
    other = lease(services, manifest("t-another"))
    answer = services.tasks.run(bot, task, other, WAIT)
    assert answer.state == "refused"
    assert answer.refused is not None
    assert answer.refused.code is Reason.SIGNATURE_INVALID
    assert answer.result is not None
    assert answer.result.status == "FAILURE"
    assert services.tasks.get(bot, "t-refused") == answer, "as long as this process remembers it"
    for caller in (person("viewer"), agent(office.workspace, "task.run", sub="other")):
        with pytest.raises(RefusedError):
            services.tasks.get(caller, "t-refused")


def test_no_caller_gets_the_result_of_another_task_with_the_same_id(services: Services, office: Office) -> None:
    """Joined is only who gives the same task and lease; the same id with another content is the road's to refuse."""
    first, second = manifest("t-same"), manifest("t-same", constraints={"reversible": False})
    one, two = agent(office.workspace, "task.run"), agent(office.workspace, "task.run", sub="two")
    begun = services.tasks.run(one, first, lease(services, first), 0)
    answer = services.tasks.run(two, second, lease(services, second), WAIT)
    assert begun.state in {"running", "done"}
    ended = services.tasks.run(one, first, lease(services, first), WAIT)
    done = [each.result is not None and each.result.status == "SUCCESS" for each in (ended, answer)]
    assert sorted(done) == [False, True], "the faster one has the id, and the other one is refused"


def test_who_may_run_and_who_may_have_a_lease_signed(services: Services, office: Office, bot: AgentCaller) -> None:
    task = manifest("t-rights")
    leased = lease(services, task)
    unable: list[Caller] = [person("viewer"), person("approver"), agent(office.workspace, "plan.propose")]
    for caller in unable:
        with pytest.raises(RefusedError):
            services.tasks.run(caller, task, leased, 0)
    for caller in (*unable, bot, person("operator")):
        with pytest.raises(RefusedError) as refused:
            services.tasks.lease(caller, task, LIFE)
        assert refused.value.reason is Reason.PERMISSION_DENIED
    with pytest.raises(RefusedError, match="between one second and one day"):
        services.tasks.lease(person(), task, timedelta(days=2))
    for wait in (-1.0, 30.5, float("nan")):
        with pytest.raises(RefusedError) as refused:
            services.tasks.run(bot, task, leased, wait)
        assert refused.value.reason is Reason.MALFORMED


def test_secrets_in_a_result_are_masked_for_viewers_and_approvers(
    services: Services, office: Office, bot: AgentCaller
) -> None:
    name = "password=hunter2hunter2"
    (office.base / name).write_text("x")
    task = file_task("t-secret", "FILE_COPY", office.base / name, office.base / "copy-of-it")
    answer = services.tasks.run(bot, task, lease(services, task), WAIT)
    assert answer.result is not None
    assert "hunter2hunter2" in json.dumps(answer.result.tree())
    for role in ("viewer", "approver"):
        seen = services.tasks.get(person(role), "t-secret").result
        assert seen is not None
        assert "hunter2hunter2" not in json.dumps(seen.tree())
    recorded = services.tasks.get(person("operator"), "t-secret").result
    assert recorded is not None
    assert without_digest(recorded) == without_digest(answer.result)


@pytest.mark.req("PV-04")
@pytest.mark.parametrize("name", ["access.cedar", "Access.CEDAR", "slo_waivers.yaml", "simulations.json", ".env"])
def test_a_lease_from_a_program_lets_no_agent_touch_what_no_plan_may_touch(tmp_path: Path, name: str) -> None:
    """To put another policy in place of the one that says who may do what, with two moves."""
    environ = {"REMIT_STATE": str(tmp_path / "state")}
    project = (tmp_path / "project").resolve()
    settings: dict[str, Any] = {
        "base_directories": [str(project)],
        "policies": {"cedar_files": ["access.cedar"]},
        "goals": {"catalogue": ["simulations.json"]},
    }
    with made_workspace(tmp_path, environ, **settings) as workspace:
        for source, destination in ((name, "aside"), ("mine", name)):
            asked = file_task("t", "FILE_MOVE", project / source, project / destination)
            lease = workspace.issue_lease(asked).canonical()
            with pytest.raises(RefusedError) as refused:
                require_not_protected(workspace, TaskManifest.parse(asked), lease)
            assert refused.value.reason is Reason.PROTECTED
            assert protected_paths(workspace, TaskManifest.parse(asked)) == [str(project / name)]
        plain = file_task("t", "FILE_MOVE", project / "mine", project / "aside")
        require_not_protected(workspace, TaskManifest.parse(plain), b"")
