"""The output of plan commands for an agent: the content that it sent itself, and the status of its plan.

The rule is the same as over HTTP and MCP (`remit.services.plans.agent_views`). A person who sets REMIT_AGENT or
REMIT_TOKEN for a command sees what that agent would see.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from remit.cli.common.identity import TOKEN_VARIABLE, authenticate_agent, find_agent
from remit.cli.common.options import show_json
from remit.cli.plans.render_sql import render_previewed
from remit.cli.plans.text import render_problem, render_status, row
from remit.contracts.plans.agent_views import AgentPlanPreview, AgentUndoAnswer
from remit.contracts.plans.outcome import PlanOutcome, PlanRefusal
from remit.core.errors import Reason, RefusedError
from remit.core.text import counted, printable
from remit.identity.person import AGENT_VARIABLES, person_at_terminal
from remit.workspace.workspace import Workspace

if TYPE_CHECKING:
    from remit.cli.plans.commands import ApplyResult
    from remit.contracts.plans.agent_views import AgentProposalPreview, AgentReadPreview
    from remit.contracts.plans.sql_report import ShownParameter
    from remit.contracts.services.plans import ProposalPreview, UndoAnswer

_PEOPLE_ONLY = "Only people see what it changed or why it failed (remit runs, or the console)."


def is_agent(workspace: Workspace) -> bool:
    return any(workspace.environ.get(variable) for variable in AGENT_VARIABLES)


def preview_for_agent(workspace: Workspace, plan: bytes) -> AgentPlanPreview:
    """Return the preview of the plan's text, and record that the agent asked. REMIT_AGENT alone needs no token."""
    from remit.services.plans.service import PlanService  # noqa: PLC0415 - for agents alone

    with closing(PlanService(workspace)) as service:
        if not workspace.environ.get(TOKEN_VARIABLE):
            return service.preview_of_text(plan, None)
        document = service.preview(authenticate_agent(workspace, None), plan)
    assert isinstance(document, AgentPlanPreview)  # noqa: S101 - an agent gets nothing else
    return document


def read_proposal_preview(
    workspace: Workspace, proposal_id: str, token: str | None
) -> "ProposalPreview | AgentProposalPreview":
    """Return the stored preview of a proposal, as the agent of the token or the person at the terminal may see it."""
    from remit.identity.callers import PersonCaller  # noqa: PLC0415 - only for proposals
    from remit.services.plans.service import PlanService  # noqa: PLC0415 - as above

    agent = authenticate_agent(workspace, token) if token is not None else find_agent(workspace)
    caller = agent or PersonCaller(person_at_terminal(workspace.environ), "admin")
    if agent is None:  # a person may shorten the id
        proposal_id = workspace.proposals.find_by_name(proposal_id).proposal_id
    with closing(PlanService(workspace)) as service:
        return service.read_preview(caller, proposal_id)


def require_no_digest(digest_file: Path | None) -> None:
    """Refuse `--digest-file` for an agent. The digest of a preview depends on the content of the files."""
    if digest_file is not None:
        raise RefusedError(
            Reason.PERMISSION_DENIED,
            "an agent gets no digest of a preview, because the digest depends on the content of the files",
            where="--digest-file",
            next_step="Run the command without --digest-file. A person previews the plan and approves it.",
        )


def render_for_agent(document: "AgentPlanPreview | AgentReadPreview") -> Iterator[str]:
    if isinstance(document, AgentPlanPreview):
        yield from render_withheld(document)
        return
    yield f"Plan {printable(document.plan_id)}, {document.status}"
    for file in document.files:
        name = (
            printable(file.path) if file.new_path is None else f"{printable(file.path)} -> {printable(file.new_path)}"
        )
        yield f"  {file.operation:<8} {name}, +{file.lines_added:,} -{file.lines_removed:,} lines"
        yield from (f"    {line}" for line in file.diff.splitlines())
    for report in document.sql:
        yield from render_previewed(report, None, (), None)
    for problem in document.problems:
        yield row("problem", render_problem(problem))
    if document.consequence:
        yield row("problem", printable(document.consequence))
    for rule in document.rules:
        yield row("rule", printable(rule))
    for found in document.findings:
        yield row("finding", printable(f"{found.path}: {found.what} ({found.where})"))
    for kind, names in document.needs.tree().items():
        for needed in names:
            yield row("needs", f"an approval by name ({kind}): {printable(needed)}")
    yield row("risk", document.risk)
    yield row("note", document.withheld)


def render_withheld(document: AgentPlanPreview) -> Iterator[str]:
    """Render the content that the agent sent, and the approvals by name that the plan needs."""
    yield f"Plan {printable(document.plan_id)}, as its agent sees it"
    yield from _render_files(document, None)
    for report in document.sql:
        text = printable(report.query_file or "statements in the plan")
        yield f"  SQL      on {printable(report.connection)}: {text}"
    for ran in document.pipelines:
        yield f"  PIPELINE {printable(ran.pipeline)}"
    for rule in document.rules:
        yield row("rule", printable(rule))
    for kind, names in document.needs.tree().items():
        if names is None:
            yield row("needs", f"maybe an approval by name ({kind}): only people see whether rows can be rolled back")
        for name in names or ():
            yield row("needs", f"an approval by name ({kind}): {printable(name)}")
    yield row("risk", document.risk)
    yield row("note", document.withheld)


def render_plan_text(document: AgentPlanPreview, max_lines: int | None) -> Iterator[str]:
    """Render what the text of a plan says, for a person who reads it before its preview is computed."""
    yield "What the text of the plan says"
    yield from _render_files(document, max_lines)
    for report in document.sql:
        source = f" from {printable(report.query_file)}" if report.query_file else ""
        saved = f", rows saved to {printable(report.saved_to)}" if report.saved_to else ""
        yield f"  SQL      {printable(report.action_id)} on {printable(report.connection)}{source}{saved}"
        yield from (f"    {printable(line)}" for text in report.texts or () for line in text.splitlines())
        yield from _render_parameters(report.parameters)
    for ran in document.pipelines:
        yield f"  PIPELINE {printable(ran.action_id)} {printable(ran.pipeline)}"
        yield from _render_parameters(ran.parameters)
    for rule in document.rules:
        yield row("rule", printable(rule))
    for found in document.findings:
        yield row("finding", printable(f"{found.path}: {found.what} ({found.where})"))
    for kind, names in document.needs.tree().items():
        for name in names or ():
            yield row("needs", f"an approval by name ({kind}): {printable(name)}")


def _render_files(document: AgentPlanPreview, max_lines: int | None) -> Iterator[str]:
    for file in document.files:
        name = (
            printable(file.path) if file.new_path is None else f"{printable(file.path)} -> {printable(file.new_path)}"
        )
        yield f"  {file.operation:<8} {name}"
        lines = (file.diff or "").splitlines()
        shown = lines[:max_lines]
        yield from (f"    {line}" for line in shown)
        if hidden := len(lines) - len(shown) + (file.diff_left_out or 0):
            yield f"    ({counted(hidden, 'line')} not shown)"


def _render_parameters(parameters: "tuple[ShownParameter, ...]") -> Iterator[str]:
    yield from (f"    ${printable(one.name)} = {printable(one.value)}" for one in parameters)


def print_agent_result(result: "ApplyResult", *, as_json: bool) -> int:
    """Print the status of a run. Raise a refusal with a text that does not depend on the content of files."""
    from remit.services.plans.agent_views import RUN_WITHHELD, agent_error  # noqa: PLC0415 - for agents alone
    from remit.services.plans.next_steps import advise_after_apply  # noqa: PLC0415 - as above

    outcome = result.outcome
    if isinstance(outcome, PlanRefusal) and result.refusal is not None:
        raise agent_error(advise_after_apply(result.refusal))
    status = outcome.status.status if isinstance(outcome, PlanOutcome) else outcome.status
    envelope_id = outcome.status.envelope_id if isinstance(outcome, PlanOutcome) else outcome.envelope_id
    if as_json:
        run_status = {"status": status, "envelope_id": envelope_id, "stored": result.stored}
        show_json({**run_status, "taken_back": result.later_rollback is not None, "withheld": RUN_WITHHELD})
    else:
        _print_status(status, envelope_id, stored=result.stored)
    return 0 if status == "SUCCESS" else 1


def print_agent_undo(answer: "AgentUndoAnswer | UndoAnswer", *, as_json: bool) -> int:
    if answer.refused is not None:
        refusal = answer.refused
        raise RefusedError(refusal.code, refusal.what, where=refusal.where, next_step=refusal.next_step)
    if as_json:
        show_json(answer.tree())
    else:
        _print_status(answer.status, answer.envelope_id, stored=answer.stored)
    return 0 if answer.status == "EXECUTED" else 1


def _print_status(status: str, envelope_id: str, *, stored: bool) -> None:
    if stored:
        click.echo("Already done; nothing was changed. The stored outcome:", err=True)
    click.echo(f"{render_status(status)}  envelope {envelope_id}")
    click.echo(row("note", _PEOPLE_ONLY))
