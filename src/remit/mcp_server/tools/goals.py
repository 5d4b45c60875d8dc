"""Tools for goals: ask in plain words for something that the catalogue can do, for the user that the token names."""

from typing import Annotated, Final

from mcp.types import InputRequiredResult
from pydantic import Field

from remit.contracts.base import Contract, Identifier, Text
from remit.contracts.services.common import GoalAnswer
from remit.identity.callers import Caller
from remit.mcp_server.context import FIRST_LOOK, ToolCall, WaitSeconds
from remit.mcp_server.elicitation import answered_question, ask_client
from remit.mcp_server.summaries import of_goal
from remit.mcp_server.tools.base import READS, ToolAnswer, ToolSpec, acts
from remit.services.goals.answers import find_user
from remit.services.services import Services

MOST_QUESTIONS: Final = 5
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
    given = call.arguments
    earlier = answered_question(call)
    if earlier is None:
        answer = await _put(call, given.utterance, given.correlation_id, given.reply_to)
    elif earlier.reply is None:
        answer = await call.ask(lambda caller: look_at_goal(call.desk, caller, earlier.correlation_id))
    else:
        answer = await _put(call, earlier.reply, None, earlier.correlation_id)
    for _ in range(MOST_QUESTIONS):
        if answer.waiting_for != "clarification" or (earlier is not None and earlier.reply is None):
            break
        asked = await ask_client(call, answer)
        if isinstance(asked, InputRequiredResult):
            return asked
        if asked is None:
            break
        answer = await _put(call, asked, None, answer.correlation_id)
    return ToolAnswer(answer, of_goal(answer), refused=answer.state == "refused")


async def _put(call: ToolCall[Ask], words: str, correlation_id: str | None, reply_to: str | None) -> GoalAnswer:
    given = call.arguments
    first = min(FIRST_LOOK, given.wait_seconds)
    answer = await call.ask(
        lambda caller: call.desk.goals.ask(
            caller, words, given.language, correlation_id=correlation_id, reply_to=reply_to, wait=first
        )
    )
    # Who asks hears at once that a person has to answer: the link is for showing to somebody.
    return await _followed(call, answer, given.wait_seconds, goes_on={"running"})


async def _continue(call: ToolCall[FollowGoal]) -> ToolAnswer:
    given = call.arguments
    first = min(FIRST_LOOK, given.wait_seconds)
    answer = await call.ask(lambda caller: call.desk.goals.resume(caller, given.correlation_id, first))
    answer = await _followed(call, answer, given.wait_seconds, goes_on={"running"})
    return ToolAnswer(answer, of_goal(answer), refused=answer.state == "refused")


async def _status(call: ToolCall[FollowGoal]) -> ToolAnswer:
    given = call.arguments
    answer = await call.ask(lambda caller: look_at_goal(call.desk, caller, given.correlation_id))
    answer = await _followed(call, answer, given.wait_seconds, goes_on={"running", "waiting"})
    return ToolAnswer(answer, of_goal(answer))


async def _followed(
    call: ToolCall[Ask] | ToolCall[FollowGoal], answer: GoalAnswer, seconds: int, goes_on: set[str]
) -> GoalAnswer:
    def told(now: GoalAnswer) -> str | None:
        return of_goal(now) if now.state in goes_on and now.waiting_for != "clarification" else None

    return await call.follow(
        answer, lambda caller: look_at_goal(call.desk, caller, answer.correlation_id), seconds, told
    )


def look_at_goal(desk: Services, caller: Caller, correlation_id: str) -> GoalAnswer:
    """In the tenant of the user that the token names: an agent has no goals elsewhere."""
    return desk.goals.get(caller, find_user(caller).tenant, correlation_id)


TOOLS: Final = (
    ToolSpec(
        "ask",
        "Ask for something in words",
        "Finds what the user's words mean in the catalogue, decides whether this user may have it, and does it once. A"
        " user's own yes, or an approval, is given by a person elsewhere: the answer says where. If the answer asks for"
        " something that is missing, call ask again with the reply and reply_to.",
        Ask,
        GoalAnswer,
        acts(destructive=True, idempotent=False, open_world=True),
        _ask,
    ),
    ToolSpec(
        "continue_goal",
        "Go on with an approved goal",
        "Goes on with a goal that somebody had to approve, and did. It says no yes of its own: without that approval"
        " the goal stays where it is.",
        FollowGoal,
        GoalAnswer,
        acts(destructive=True, idempotent=True, open_world=True),
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
