"""The base of all tools: closed arguments, a contract and a summary as the answer, and refusals with a next step."""

import json
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Self

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, InputRequiredResult, TextContent, ToolAnnotations
from pydantic import PrivateAttr

from remit.contracts.base import Contract
from remit.contracts.services.common import ErrorTold, describe_error
from remit.contracts.services.plans import PlanErrorTold
from remit.core.errors import Reason, RemitError
from remit.mcp_server.context import ServerContext, ToolCall
from remit.mcp_server.schemas import input_schema, output_schema
from remit.observability.request_context import bind_request
from remit.services.plans.error_responses import describe_plan_error

_LOGGER: Final = logging.getLogger("remit.mcp_server.tool")

READS: Final = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)


def writes(*, destructive: bool, idempotent: bool, open_world: bool = False) -> ToolAnnotations:
    return ToolAnnotations(
        read_only_hint=False,
        destructive_hint=destructive,
        idempotent_hint=idempotent,
        open_world_hint=open_world,
    )


@dataclass(frozen=True)
class ToolAnswer:
    """The answer of a tool: the contract, and a summary for clients that show only text.

    `refused`: the request was not carried out. The result is then marked as an error, so that no client reports
    success.
    """

    document: Contract
    summary: str
    refused: bool = False


@dataclass(frozen=True)
class ToolSpec:
    name: str
    title: str
    description: str
    arguments: type[Contract]
    answer: type[Contract]
    hints: ToolAnnotations
    handler: Callable[[ToolCall[Any]], Awaitable[ToolAnswer | InputRequiredResult]]
    is_about_plans: bool = False
    """Whether a refusal is also given in the error format of plans."""

    @property
    def error(self) -> type[ErrorTold]:
        return PlanErrorTold if self.is_about_plans else ErrorTold

    def build(self, server_context: ServerContext) -> "ClosedTool":
        tool = ClosedTool(
            fn=self.handler,
            name=self.name,
            title=self.title,
            description=self.description,
            parameters=input_schema(self.arguments),
            fn_metadata=FuncMetadata(arg_model=ArgModelBase, output_schema=output_schema(self.answer, self.error)),
            is_async=True,
            annotations=self.hints,
        )
        return tool.bind(server_context, self)


class ClosedTool(Tool):
    """A tool that parses its arguments by a contract. It refuses an unknown field or a wrong type first of all."""

    _server_context: ServerContext = PrivateAttr()
    _spec: ToolSpec = PrivateAttr()

    def bind(self, server_context: ServerContext, spec: ToolSpec) -> Self:
        self._server_context = server_context
        self._spec = spec
        return self

    async def run(
        self,
        arguments: dict[str, Any],
        context: Context[Any, Any],
        convert_result: bool = False,  # noqa: ARG002, FBT001, FBT002 - signature of the base class
    ) -> Any:
        try:
            parsed = self._spec.arguments.from_tree(arguments, source=f"arguments of {self.name}")
            # The task belongs to the session, which started with another request.
            with bind_request(getattr(context.request_context.request, "state", None)):
                answer = await self._spec.handler(ToolCall(self._server_context, parsed, context))
        except RemitError as problem:
            told = describe_plan_error(problem) if self._spec.is_about_plans else describe_error(problem)
            return refusal(_advise_client(told))
        except MCPError:
            raise
        except Exception:
            _LOGGER.exception("a tool of the MCP server failed", extra={"tool": self.name})
            return refusal(_UNEXPECTED)
        if isinstance(answer, InputRequiredResult):
            return answer
        return CallToolResult(
            content=[_text(answer.summary), _text(json.dumps(answer.document.tree(), ensure_ascii=False))],
            structured_content=answer.document.tree(),
            is_error=answer.refused,
        )


_UNEXPECTED: Final = ErrorTold(
    code=Reason.INTERNAL,
    what="internal error in Remit; work that had started is in the ledger, and `remit recover` finishes or undoes it",
    where="the MCP server",
    next_step="Call the status tool: the effect may have taken place. The log of the server has the details.",
)


_OF_TERMINAL: Final = (
    (r"Compare it with: remit schema plan(?!\S)", "Compare it with the schema of `plan` in the tool propose_plan."),
    (r"Compare it with: remit schema \S+", "Compare it with the input schema of this tool."),
    (r"`remit schema \S+` prints its JSON Schema\.", "The input schema of this tool has its fields."),
    (r"`remit schema` lists the contracts\.", "The input schema of this tool has its fields."),
    (r"It is approved already\. To apply it: remit apply .*", "Apply a plan by its proposal_id, with apply_plan."),
    (r"It is not approved yet\. To approve it: remit approve .*", "Propose a plan with propose_plan."),
    (r"To issue a lease for this task: remit task lease .*", "Run a task with run_task, with a lease of a person."),
)
"""Parts of a next step that name a command of this machine, and the words for a client, which calls tools."""


def _advise_client(problem: ErrorTold) -> ErrorTold:
    advice = problem.next_step
    for command, words in _OF_TERMINAL:
        advice = re.sub(command, words, advice)
    return problem.model_copy(update={"next_step": advice})


def refusal(problem: ErrorTold) -> CallToolResult:
    lines = [f"{problem.code}: {problem.what}", f"where: {problem.where}", f"next: {problem.next_step}"]
    text = "\n".join(line for line in lines if not line.endswith(": "))
    return CallToolResult(content=[_text(text)], structured_content=problem.tree(), is_error=True)


def _text(text: str) -> TextContent:
    return TextContent(type="text", text=text)
