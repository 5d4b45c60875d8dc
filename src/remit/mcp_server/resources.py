"""The resources: reports, diffs and results. An agent reads only its own.

The services look a resource up by its id, as for the tools. They decide whether this caller may see it. An address is
never a file path.
"""

import json
from collections.abc import Callable
from typing import Any, Final, TypeVar

from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.exceptions import MCPError
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS

from remit.contracts.base import Contract
from remit.contracts.plans.agent_views import AgentPlanPreview, AgentReadPreview
from remit.contracts.plans.preview import PlanPreviewDocument
from remit.contracts.services.common import describe_error
from remit.contracts.services.plans import RunDocuments
from remit.core.errors import EnvironmentFailureError, RemitError
from remit.identity.callers import Caller
from remit.mcp_server.context import ServerContext, run_as_caller
from remit.mcp_server.tools.goals import read_goal
from remit.services.services import Services

T = TypeVar("T", str, bytes)
_JSON: Final = "application/json"


def add_resources(server: MCPServer[Any], server_context: ServerContext) -> None:
    services = server_context.services

    @server.resource(
        "remit://reports/{run_id}",
        name="report",
        title="Report of a run",
        description="The outcome of a plan that ran, by proposal_id or envelope_id. Only people see what it changed:"
        " null means withheld, not none.",
        mime_type=_JSON,
    )
    async def report(run_id: str, context: Context[Any, Any]) -> str:
        return await _read(server_context, context, lambda caller: _json(services.plans.read_report(caller, run_id)))

    @server.resource(
        "remit://diffs/{proposal_id}",
        name="diff",
        title="Diff of a proposed plan",
        description="The lines of the plan that this agent sent, with secrets masked. Only people see the old lines"
        " of the files, unless the token has plan.read and names every file and connection of the plan. Such a token"
        " shows them from the time in preview_note, if it proposed the plan.",
        mime_type="text/x-diff",
    )
    async def diff(proposal_id: str, context: Context[Any, Any]) -> str:
        return await _read(server_context, context, lambda caller: _read_diff(services, caller, proposal_id))

    @server.resource(
        "remit://results/tasks/{task_id}",
        name="task_result",
        title="Signed result of a task",
        description="The result of a task that this agent ran, or its state while it runs.",
        mime_type=_JSON,
    )
    async def task_result(task_id: str, context: Context[Any, Any]) -> str:
        return await _read(server_context, context, lambda caller: _json(services.tasks.get(caller, task_id)))

    @server.resource(
        "remit://results/actions/{action_id}",
        name="action_result",
        title="Result of a browser action",
        description="The result of a browser action of this agent, or what it waits for.",
        mime_type=_JSON,
    )
    async def action_result(action_id: str, context: Context[Any, Any]) -> str:
        return await _read(server_context, context, lambda caller: _json(services.browser.get(caller, action_id)))

    @server.resource(
        "remit://results/actions/{action_id}/picture",
        name="picture",
        title="Picture of a screenshot",
        description="The picture of a screenshot that this agent took.",
        mime_type="image/png",
    )
    async def picture(action_id: str, context: Context[Any, Any]) -> bytes:
        return await _read(server_context, context, lambda caller: services.browser.read_picture(caller, action_id))

    @server.resource(
        "remit://results/goals/{correlation_id}",
        name="goal_result",
        title="Status of a goal",
        description="The state and outcome of a goal that this agent asked for.",
        mime_type=_JSON,
    )
    async def goal_result(correlation_id: str, context: Context[Any, Any]) -> str:
        return await _read(server_context, context, lambda caller: _json(read_goal(services, caller, correlation_id)))


async def _read(server_context: ServerContext, context: Context[Any, Any], read: Callable[[Caller], T]) -> T:
    try:
        return await run_as_caller(server_context, context, read)
    except RemitError as problem:
        raise _to_mcp_error(problem) from None


def _to_mcp_error(problem: RemitError) -> MCPError:
    code = INTERNAL_ERROR if isinstance(problem, EnvironmentFailureError) else INVALID_PARAMS
    return MCPError(code, problem.what, describe_error(problem).tree())


def _json(document: Contract) -> str:
    return json.dumps(document.tree(), ensure_ascii=False, indent=2)


def _read_diff(services: Services, caller: Caller, proposal_id: str) -> str:
    """Return the diff that this caller may see. An agent gets the lines that it sent, also after the run."""
    if services.plans.get(caller, proposal_id).report_folder is not None:
        documents = services.plans.read_report(caller, proposal_id)
        if isinstance(documents, RunDocuments):
            return _render_done(documents)
    return _render_planned(services.plans.read_preview(caller, proposal_id).document)


def _render_planned(document: PlanPreviewDocument | AgentPlanPreview | AgentReadPreview) -> str:
    if not isinstance(document, AgentPlanPreview):
        return "".join(_with_newline(file.diff) for file in document.files)
    header = (file.diff or f"# {file.operation} {file.path}: only people see its lines" for file in document.files)
    return "".join(map(_with_newline, header))


def _render_done(documents: RunDocuments) -> str:
    return "".join(_with_newline(change.diff_summary.preview) for change in documents.change_log.changes)


def _with_newline(text: str) -> str:
    return text if text.endswith("\n") or not text else f"{text}\n"
