"""Elicitation: ask the client for missing details of a goal, if `web.mcp.elicitation` in remit.yaml allows it.

Elicitation is used for nothing else. A client can answer by itself without showing the question to a person. So Remit
treats an answer like the same words in a call of `ask`, and never as an approval or as a user's confirmation. Remit
never asks for anything that looks like a secret.
"""

import itertools
import re
from typing import Any, Final, NamedTuple

from mcp.types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from mcp_types.version import is_version_at_least

from remit.contracts.base import Contract, Identifier
from remit.contracts.services.common import GoalAnswer
from remit.masking import is_secret_name
from remit.mcp_server.context import ToolCall

_IN_RESULT_SINCE: Final = "2026-07-28"
_KEY: Final = "clarification"
_MAX_REPLY: Final = 1_000
_FORM: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"reply": {"type": "string", "title": "Reply", "minLength": 1, "maxLength": _MAX_REPLY}},
    "required": ["reply"],
}


class _RequestState(Contract):
    """The goal that a question belongs to. The SDK signs it and binds it to the call and its caller."""

    correlation_id: Identifier


class EarlierQuestion(NamedTuple):
    """The goal of a question in an earlier round of the call. `reply` is None if the user gave no reply."""

    correlation_id: str
    reply: str | None


def read_earlier_question(call: ToolCall[Any]) -> EarlierQuestion | None:
    """Return the question of an earlier round of the same call, with the reply."""
    state = call.context.request_state
    if state is None or not call.server.elicitation:
        return None
    earlier = _RequestState.parse(state.encode(), source="requestState")
    response = (call.context.input_responses or {}).get(_KEY)
    reply = _read_reply(response) if isinstance(response, ElicitResult) else None
    return EarlierQuestion(earlier.correlation_id, reply)


async def ask_client(call: ToolCall[Any], answer: GoalAnswer) -> str | InputRequiredResult | None:
    """Return the reply, or in the newer protocol the result that asks for it. None means that the agent has to ask."""
    if not (call.server.elicitation and _supports_forms(call)) or _asks_for_secret(answer.text):
        return None
    message = f"{answer.text}\n(Asked by Remit, for your goal. Do not enter a password or another secret.)"
    if is_version_at_least(call.context.protocol_version or "", _IN_RESULT_SINCE):
        form = ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=_FORM))
        state = _RequestState(correlation_id=answer.correlation_id)
        return InputRequiredResult(input_requests={_KEY: form}, request_state=state.canonical().decode())
    context = call.context
    return _read_reply(await context.session.elicit_form(message, _FORM, related_request_id=context.request_id))


def _supports_forms(call: ToolCall[Any]) -> bool:
    """Whether the client supports forms. A client that names no mode means forms."""
    capabilities = call.context.client_capabilities
    elicitation = capabilities.elicitation if capabilities is not None else None
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def _asks_for_secret(question: str) -> bool:
    words = re.findall(r"[A-Za-z_-]+", question)
    return any(is_secret_name(word) for word in [*words, *map("_".join, itertools.pairwise(words))])


def _read_reply(result: ElicitResult) -> str | None:
    """Return the reply, or None. A client can send any content, and only the requested form is a reply."""
    reply = (result.content or {}).get("reply") if result.action == "accept" else None
    return reply if isinstance(reply, str) and 0 < len(reply) <= _MAX_REPLY else None
