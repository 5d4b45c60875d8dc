"""Tools for tasks: run one file operation under a lease that the kernel signed, and look at what came of it."""

from typing import Annotated, Final

from pydantic import Field

from remit.contracts.base import Contract, Identifier
from remit.contracts.services.common import TaskAnswer
from remit.mcp_server.context import FIRST_LOOK, ToolCall, WaitSeconds, document_bytes
from remit.mcp_server.schemas import Document, shipped
from remit.mcp_server.summaries import of_task
from remit.mcp_server.tools.base import READS, ToolAnswer, ToolSpec, acts


class RunTask(Contract):
    manifest: Annotated[Document, shipped("task-manifest")]
    lease: Annotated[Document, shipped("lease-token")]
    wait_seconds: WaitSeconds = 20


class FollowTask(Contract):
    task_id: Annotated[Identifier, Field(description="The task_id of the manifest.")]
    wait_seconds: WaitSeconds = 0


async def _run(call: ToolCall[RunTask]) -> ToolAnswer:
    given = call.arguments
    manifest = document_bytes(given.manifest, "manifest")
    lease = document_bytes(given.lease, "lease")
    first = min(FIRST_LOOK, given.wait_seconds)
    answer = await call.ask(lambda caller: call.desk.tasks.run(caller, manifest, lease, first))
    answer = await _followed(call, answer, given.wait_seconds)
    return ToolAnswer(answer, of_task(answer), refused=answer.state == "refused")


async def _status(call: ToolCall[FollowTask]) -> ToolAnswer:
    answer = await call.ask(lambda caller: call.desk.tasks.get(caller, call.arguments.task_id))
    answer = await _followed(call, answer, call.arguments.wait_seconds)
    return ToolAnswer(answer, of_task(answer))


async def _followed(call: ToolCall[RunTask] | ToolCall[FollowTask], answer: TaskAnswer, seconds: int) -> TaskAnswer:
    def told(now: TaskAnswer) -> str | None:
        return of_task(now) if now.state == "running" else None

    return await call.follow(answer, lambda caller: call.desk.tasks.get(caller, answer.task_id), seconds, told)


TOOLS: Final = (
    ToolSpec(
        "run_task",
        "Run a leased task",
        "Runs one file operation (move, copy, delete, restore) in the sandbox, under a lease that the kernel signed for"
        " exactly this manifest. The same task again gives the stored result. Leases are not handed out here.",
        RunTask,
        TaskAnswer,
        acts(destructive=True, idempotent=True),
        _run,
    ),
    ToolSpec(
        "task_status",
        "What came of a task",
        "The signed result of a task that this agent ran, or how far it is.",
        FollowTask,
        TaskAnswer,
        READS,
        _status,
    ),
)
