"""Tools for tasks: run one file operation under a lease that the kernel signed, and read its result."""

from typing import Annotated, Final

from pydantic import Field

from remit.contracts.base import Contract, Identifier
from remit.contracts.services.common import TaskAnswer
from remit.mcp_server.context import FIRST_WAIT, ToolCall, WaitSeconds, document_bytes
from remit.mcp_server.schemas import Document, publish_schema
from remit.mcp_server.summaries import summarise_task
from remit.mcp_server.tools.base import READS, ToolAnswer, ToolSpec, writes


class RunTask(Contract):
    manifest: Annotated[Document, publish_schema("task-manifest")]
    lease: Annotated[Document, publish_schema("lease-token")]
    wait_seconds: WaitSeconds = 20


class FollowTask(Contract):
    task_id: Annotated[Identifier, Field(description="The task_id of the manifest.")]
    wait_seconds: WaitSeconds = 0


async def _run(call: ToolCall[RunTask]) -> ToolAnswer:
    arguments = call.arguments
    manifest = document_bytes(arguments.manifest, "manifest")
    lease = document_bytes(arguments.lease, "lease")
    first = min(FIRST_WAIT, arguments.wait_seconds)
    answer = await call.run(lambda caller: call.services.tasks.run(caller, manifest, lease, first))
    answer = await _follow(call, answer, arguments.wait_seconds)
    return ToolAnswer(answer, summarise_task(answer), refused=answer.state == "refused")


async def _status(call: ToolCall[FollowTask]) -> ToolAnswer:
    answer = await call.run(lambda caller: call.services.tasks.get(caller, call.arguments.task_id))
    answer = await _follow(call, answer, call.arguments.wait_seconds)
    return ToolAnswer(answer, summarise_task(answer))


async def _follow(call: ToolCall[RunTask] | ToolCall[FollowTask], answer: TaskAnswer, seconds: int) -> TaskAnswer:
    def describe(current: TaskAnswer) -> str | None:
        return summarise_task(current) if current.state == "running" else None

    return await call.poll(answer, lambda caller: call.services.tasks.get(caller, answer.task_id), seconds, describe)


TOOLS: Final = (
    ToolSpec(
        "run_task",
        "Run a leased task",
        "Runs one file operation (move, copy, delete, restore) in the sandbox, once. It needs the manifest, a lease"
        " that the kernel signed for exactly this manifest, and the capability task.run. No tool issues leases: ask"
        " your user for one. It returns the signed result; the same task again returns the stored result. If it is"
        " refused, nothing was done: read `refused`. For an expired lease or another manifest, ask your user for a"
        " new lease.",
        RunTask,
        TaskAnswer,
        writes(destructive=True, idempotent=True),
        _run,
    ),
    ToolSpec(
        "task_status",
        "Status of a task",
        "Returns the signed result of a task that this agent ran, or says that it still runs. It needs the task_id of"
        " the manifest, and changes nothing. With wait_seconds it waits for the result. If it is refused, this agent"
        " ran no task with this id: check the task_id.",
        FollowTask,
        TaskAnswer,
        READS,
        _status,
    ),
)
