"""Tools for goals: ask in plain words for something that the catalogue can do, for the user that the token names."""

from typing import Annotated, Final

from mcp.types import InputRequiredResult
from pydantic import Field

from remit.contracts.base import Contract, Identifier, Text
from remit.contracts.services.common import GoalAnswer
from remit.identity.callers import Caller
from remit.mcp_server.context import FIRST_WAIT, ToolCall, WaitSeconds
from remit.mcp_server.elicitation import ask_client, read_earlier_question
from remit.mcp_server.summaries import summarise_goal
from remit.mcp_server.tools.base import READS, ToolAnswer, ToolSpec, writes
from remit.services.goals.answers import find_user
from remit.services.services import Services

MAX_QUESTIONS: Final = 5
"""That one call asks a client, whatever the goal still lacks."""
LanguageTag = Annotated[str, Field(min_length=2, max_length=35, pattern=r"^[A-Za-z0-9-]+$")]


class Ask(Contract):
    utterance: Annotated[Text, Field(min_length=1, description="What the user wants, in the user's own words.")]
    language: LanguageTag = Field(default="en", description="The language of these words, such as en or fr.")
    correlation_id: Identifier | None = Field(
        default=None, description="An id of your own for this goal: asked twice with the same one, it is done once."
    )
    reply_to: Identifier | None = Field(
        default=None, description="The correlation_id of a goal that asked for something: these words are the reply."
    )
    wait_seconds: WaitSeconds = 20


class FollowGoal(Contract):
    correlation_id: Annotated[Identifier, Field(description="The correlation_id of the answer to ask.")]
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
    # Who asks hears at once that a person has to answer: the link is for showing to somebody.
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
    """In the tenant of the user that the token names: an agent has no goals elsewhere."""
    return services.goals.get(caller, find_user(caller).tenant, correlation_id)


TOOLS: Final = (
    ToolSpec(
        "ask",
        "Ask for something in words",
        "Finds what the user's words mean in the catalogue, decides whether this user may have it, and does it once. A"
        " user's own yes, or an approval, is given by a person elsewhere: the answer says where. If the answer asks for"
        " something that is missing, call ask again with the reply and reply_to.",
        Ask,
        GoalAnswer,
        writes(destructive=True, idempotent=False, open_world=True),
        _ask,
    ),
    ToolSpec(
        "continue_goal",
        "Go on with an approved goal",
        "Goes on with a goal that somebody had to approve, and did. It says no yes of its own: without that approval"
        " the goal stays where it is.",
        FollowGoal,
        GoalAnswer,
        writes(destructive=True, idempotent=True, open_world=True),
        _continue,
    ),
    ToolSpec(
        "goal_status",
        "Where a goal stands",
        "Whether a goal is done, waits for a person, or was refused, and why.",
        FollowGoal,
        GoalAnswer,
        READS,
        _status,
    ),
)
