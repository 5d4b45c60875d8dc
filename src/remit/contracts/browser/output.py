"""What the output of a browser action that succeeded holds, field by field."""

from typing import Annotated, Final, Literal

from pydantic import Field

from remit.contracts.base import Contract, Count, Identifier, JsonObject, Many, ShortText, Text, Uuid
from remit.contracts.browser.browser import Url

MAX_SECONDS_AFTER: Final = 31_536_000.0
"""A year. What came later still is told as this late."""

Happened = Literal["alert", "confirm", "prompt", "beforeunload", "popup", "download", "file_chooser", "crash", "closed"]


class HeldTold(Contract):
    """A request that was held for a person, and what became of it until the action was at its end."""

    request_id: Identifier
    method: ShortText | None = Field(description="Null for a message on a WebSocket.")
    url: Url = Field(description="Masked.")
    approval_id: Uuid | None = Field(description="Its question. Null: there was none, for it was refused before.")
    by_itself: bool = Field(
        description="The page asked for it, and no action of the agent went before it in that page. No action waits."
    )
    action_id: Identifier | None = Field(
        default=None, description="The action that it is counted with: the last one before it that did something."
    )
    seconds_after: Annotated[float, Field(ge=0, le=MAX_SECONDS_AFTER)] | None = Field(
        default=None,
        description="It came late: so long after that action had ended, which did not wait. Else null.",
    )
    approved_by: Identifier | None = Field(description="The person who said yes.")
    reason: ShortText | None = Field(description="That he gave with it.")
    state: ShortText = Field(
        description="`waiting`: see `remit approvals show`; `answered` by the server; else why it was not sent."
    )
    status: Count | None = Field(description="Of the server's answer.")


class TurnedAwayTold(Contract):
    """A request that was not sent and that nobody was asked about."""

    method: ShortText
    url: Annotated[str, Field(max_length=8_192)] = Field(description="Masked; empty where it could not be read.")
    why: ShortText


class NotedTold(Contract):
    """Something that the page tried and did not get, or that happened to it."""

    kind: Happened
    what: ShortText


class ScreenshotTold(Contract):
    path: Text = Field(description="In the state directory.")
    sha256: Annotated[str, Field(max_length=64, pattern="^[0-9a-f]{64}$")]


class ApprovalTold(Contract):
    """The yes that an action needed before it began."""

    approval_id: Uuid
    approved_by: Identifier | None
    reason: ShortText | None = Field(description="That the person gave with it.")


class ActionOutput(Contract):
    """What an action that succeeded tells: `output` of an action-result. All texts are masked."""

    url: Url = Field(description="Of the page that the session is at now.")
    title: ShortText = Field(description="Of that page.")
    held: Many[HeldTold] = Field(description="Requests that change something: held, and answered by a person.")
    turned_away: Many[TurnedAwayTold] = Field(description="Requests that were not sent, such as to other hosts.")
    noted: Many[NotedTold] = Field(description="Dialogs, popups, downloads: none of them was let through.")
    confined: bool = Field(description="Whether Chromium was shut off from the machine and its network.")
    status: Count | None = Field(default=None, description="navigate: of the server's answer.")
    snapshot: JsonObject | None = Field(default=None, description="snapshot: the accessibility tree, with refs.")
    approval: ApprovalTold | None = Field(default=None, description="type, of a password: who allowed it.")
    screenshot: ScreenshotTold | None = Field(default=None, description="screenshot: where the picture is.")
