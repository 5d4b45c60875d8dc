"""Tools for goals: request a simulation of the catalogue in words, for the user that the token names."""

from typing import Annotated, Final

from mcp.types import InputRequiredResult
from pydantic import Field

from remit.contracts.base import Contract, Identifier, Text
from remit.contracts.goals.goal import DEFAULT_LANGUAGE
from remit.contracts.services.common import GoalAnswer
from remit.identity.callers import Caller
from remit.mcp_server.context import FIRST_WAIT, ToolCall, WaitSeconds
from remit.mcp_server.elicitation import ask_client, read_earlier_question
from remit.mcp_server.summaries import summarise_goal
from remit.mcp_server.tools.base import READS, ToolAnswer, ToolSpec, writes
from remit.services.goals.answers import find_user
from remit.services.services import Services

MAX_QUESTIONS: Final = 5
"""The limit of questions that one call asks a client."""
LanguageTag = Annotated[str, Field(min_length=2, max_length=35, pattern=r"^[A-Za-z0-9-]+$")]


class Ask(Contract):
    utterance: Annotated[Text, Field(min_length=1, description="What the user wants, in the user's own words.")]
    language: LanguageTag = Field(
        default=DEFAULT_LANGUAGE, description="The language of these words, such as en or fr."
    )
    correlation_id: Identifier | None = Field(
        default=None,
        description="An id that you choose for this goal. A repeated call with the same id does the goal once.",
    )
    reply_to: Identifier | None = Field(
        default=None,
        description="The correlation_id of a goal that asked for a detail. The utterance is then the reply.",
    )
    wait_seconds: WaitSeconds = 20


class FollowGoal(Contract):
    correlation_id: Annotated[Identifier, Field(description="The correlation_id that ask returned.")]
    wait_seconds: WaitSeconds = 0


async def _ask(call: ToolCall[Ask]) -> ToolAnswer | InputRequiredResult:
    arguments = call.arguments
    earlier = read_earlier_question(call)
    if earlier is None:
        answer = await _ask_goal(call, arguments.utterance, arguments.correlation_id, arguments.reply_to)
    elif earlier.reply is None:
        answer = await call.run(lambda caller: read_goal(call.services, caller, earlier.correlation_id))
    else:
        answer = await _ask_goal(call, earlier.reply, None, earlier.correlation_id)
    for _ in range(MAX_QUESTIONS):
        if answer.waiting_for != "clarification" or (earlier is not None and earlier.reply is None):
            break
        reply = await ask_client(call, answer)
        if isinstance(reply, InputRequiredResult):
            return reply
        if reply is None:
            break
        answer = await _ask_goal(call, reply, None, answer.correlation_id)
    return ToolAnswer(answer, summarise_goal(answer), refused=answer.state == "refused")


async def _ask_goal(
    call: ToolCall[Ask], utterance: str, correlation_id: str | None, reply_to: str | None
) -> GoalAnswer:
    arguments = call.arguments
    first = min(FIRST_WAIT, arguments.wait_seconds)
    answer = await call.run(
        lambda caller: call.services.goals.ask(
            caller, utterance, arguments.language, correlation_id=correlation_id, reply_to=reply_to, wait=first
        )
    )
    # Return at once when a person has to decide, because the agent shows the link to its user.
    return await _follow(call, answer, arguments.wait_seconds, pending_states={"running"})


async def _continue(call: ToolCall[FollowGoal]) -> ToolAnswer:
    arguments = call.arguments
    first = min(FIRST_WAIT, arguments.wait_seconds)
    answer = await call.run(lambda caller: call.services.goals.resume(caller, arguments.correlation_id, first))
    answer = await _follow(call, answer, arguments.wait_seconds, pending_states={"running"})
    return ToolAnswer(answer, summarise_goal(answer), refused=answer.state == "refused")


async def _status(call: ToolCall[FollowGoal]) -> ToolAnswer:
    arguments = call.arguments
    answer = await call.run(lambda caller: read_goal(call.services, caller, arguments.correlation_id))
    answer = await _follow(call, answer, arguments.wait_seconds, pending_states={"running", "waiting"})
    return ToolAnswer(answer, summarise_goal(answer))


async def _follow(
    call: ToolCall[Ask] | ToolCall[FollowGoal], answer: GoalAnswer, seconds: int, pending_states: set[str]
) -> GoalAnswer:
    def describe(current: GoalAnswer) -> str | None:
        return (
            summarise_goal(current)
            if current.state in pending_states and current.waiting_for != "clarification"
            else None
        )

    return await call.poll(
        answer, lambda caller: read_goal(call.services, caller, answer.correlation_id), seconds, describe
    )


def read_goal(services: Services, caller: Caller, correlation_id: str) -> GoalAnswer:
    """Read a goal in the tenant of the user that the token names. An agent has goals in no other tenant."""
    return services.goals.get(caller, find_user(caller).tenant, correlation_id)


TOOLS: Final = (
    ToolSpec(
        "ask",
        "Request an action in words",
        "Requests an action in the user's own words. Remit finds the simulation that is meant, checks the access"
        " policies for the user that the token names, and runs it at most once. It needs a token with the capability"
        " goal.ask. It returns the state and a text for your user. If the goal waits for a confirmation or an"
        " approval, only a person can give it: show your user the link from the answer, and call goal_status later."
        " If it asks for a missing detail, call ask again with the reply and reply_to. A goal with several steps asks"
        " your user before each step that changes something, and is done only at the end: `steps` shows how each one"
        " stands. If it is refused, nothing was"
        " done: tell your user the text and why, and do not rephrase the request to avoid a policy.",
        Ask,
        GoalAnswer,
        writes(destructive=True, idempotent=False, open_world=True),
        _ask,
    ),
    ToolSpec(
        "continue_goal",
        "Continue an approved goal",
        "Continues a goal after another person has approved it. It needs the correlation_id of a goal of this agent,"
        " and the capability goal.ask. It approves and confirms nothing: without the approval the goal keeps waiting."
        " It returns the state of the goal. If it is refused, nothing was done: tell your user the text and why.",
        FollowGoal,
        GoalAnswer,
        writes(destructive=True, idempotent=True, open_world=True),
        _continue,
    ),
    ToolSpec(
        "goal_status",
        "Status of a goal",
        "Returns the state of a goal of this agent: done, failed, refused and why, running, or waiting for a person."
        " For a goal with several steps, `steps` shows how each one stands, and which one waits for what."
        " It needs the correlation_id, and changes nothing. With wait_seconds it waits for a change. If it is"
        " refused, this agent has no goal with this id: check the correlation_id.",
        FollowGoal,
        GoalAnswer,
        READS,
        _status,
    ),
)
