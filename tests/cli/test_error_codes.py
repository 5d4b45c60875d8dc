"""Errors of plan commands that must not have the code of another problem."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CommandResult, Remit
from tests.cli.test_plan_commands import project, put, update

__all__ = ["project"]


def code_of(ran: CommandResult) -> tuple[int, str, str]:
    error = ran.document["error"]
    assert error["what"]
    assert error["next_step"]
    return error["code"], error["type"], error["reason"]


@pytest.mark.parametrize("command", ["run", "approve"])
def test_a_plan_without_a_terminal_to_ask_in_is_not_approved_and_not_malformed(
    remit: Remit, project: Path, command: str
) -> None:
    ran = remit(command, put(project, update()), "--json")
    assert (ran.code, code_of(ran)) == (3, (1002, "NOT_APPROVED", "approval_pending"))


@pytest.mark.parametrize(
    "setting",
    [
        "limit: {max_files: 3}",
        "limits: {max_files: many}",
        "connections: {shop: {type: mysql}}",
        "limits: [",
        "root: /x",
    ],
)
def test_a_mistake_in_remit_yaml_is_an_error_of_the_settings_and_not_of_the_plan(
    remit: Remit, project: Path, setting: str
) -> None:
    plan = put(project, update())
    with (project / "remit.yaml").open("a") as config:
        config.write(f"{setting}\n")
    for arguments in (("preview", plan), ("run", plan, "--yes"), ("rollback", "last")):
        ran = remit(*arguments, "--json")
        assert (ran.code, code_of(ran)) == (2, (1013, "CONFIG_INVALID", "config_invalid")), arguments
        assert "remit.yaml" in ran.document["error"]["where"]


@pytest.mark.parametrize(
    "connection, url",
    [("url_variable: SHOP_URL", None), ("url_variable: SHOP_URL", "shop"), ("url_file: shop.url", None)],
    ids=["no variable", "no URL", "no file"],
)
def test_a_connection_without_a_url_is_an_error_of_the_settings_and_not_of_sql(
    remit: Remit, project: Path, connection: str, url: str | None
) -> None:
    with (project / "remit.yaml").open("a") as config:
        config.write(f"connections: {{shop: {{type: postgresql, {connection}}}}}\n")
    operation = {"type": "sql_execute", "query": "SELECT 1", "connection": "shop"}
    environ = {} if url is None else {"SHOP_URL": url}
    ran = remit("preview", put(project, {"action_type": "SQL_EXECUTE", "operation": operation}), "--json", **environ)
    assert code_of(ran) == (1013, "CONFIG_INVALID", "config_invalid")


def test_a_run_that_left_nothing_cannot_be_rolled_back_and_the_plan_is_not_malformed(
    remit: Remit, project: Path
) -> None:
    rule = {"type": "file_exists", "path": "missing.txt"}
    ran = remit("run", put(project, update(), validation_rules=[rule]), "--yes", "--json").document["status"]
    assert ran["status"] == "ROLLED_BACK"
    refused = remit("rollback", ran["envelope_id"], "--json")
    assert (refused.code, code_of(refused)) == (2, (1014, "ROLLBACK_IMPOSSIBLE", "rollback_impossible"))


def test_the_rollback_of_a_proposal_that_was_not_applied_is_no_internal_error(remit: Remit, project: Path) -> None:
    capabilities = ("--cap", "plan.propose", "--cap", "plan.undo")
    token = remit("token", "issue", "--sub", "bot", *capabilities, "--json").document["token"]
    agent: dict[str, Any] = {"REMIT_TOKEN": token}
    proposal = remit("propose", put(project, update()), "--json", **agent).document["proposal_id"]
    assert code_of(remit("rollback", proposal, "--json", **agent)) == (1016, "TRANSITION_INVALID", "transition_invalid")
    by_a_person = remit("rollback", proposal, "--json")
    assert (by_a_person.code, code_of(by_a_person)[1]) == (2, "STATE_UNAVAILABLE")
