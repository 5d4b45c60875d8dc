"""The output of a successful browser action, field by field."""

from typing import Annotated, Final, Literal

from pydantic import Field

from remit.contracts.base import Contract, Count, Identifier, JsonObject, Many, ShortText, Text, Uuid
from remit.contracts.browser.browser import Url

MAX_SECONDS_AFTER: Final = 31_536_000.0
"""One year. A request that came later is reported with this value."""

Happened = Literal["alert", "confirm", "prompt", "beforeunload", "popup", "download", "file_chooser", "crash", "closed"]


class HeldTold(Contract):
    """A request that was held for a person, with its state when the action ended."""

    request_id: Identifier
    method: ShortText | None = Field(description="Null for a message on a WebSocket.")
    url: Url = Field(description="Masked.")
    approval_id: Uuid | None = Field(
        description="Its approval request. Null: there was none, because it was refused before."
    )
    by_itself: bool = Field(
        description="The page sent it before any action of the agent in that page. No action waits for it."
    )
    action_id: Identifier | None = Field(
        default=None, description="The action that it is assigned to: the last one before it that did something."
    )
    seconds_after: Annotated[float, Field(ge=0, le=MAX_SECONDS_AFTER)] | None = Field(
        default=None,
        description="For a late request: the time since the end of that action, which did not wait. Else null.",
    )
    approved_by: Identifier | None = Field(description="The person who approved it.")
    reason: ShortText | None = Field(description="The reason that the person gave.")
    state: ShortText = Field(
        description="`waiting` (see `remit approvals show`), `answered` by the server, or why it was not sent."
    )
    status: Count | None = Field(description="The status of the server's response.")


class TurnedAwayTold(Contract):
    """A request that was refused without asking a person. It was not sent."""

    method: ShortText
    url: Annotated[str, Field(max_length=8_192)] = Field(description="Masked; empty if it could not be read.")
    why: ShortText


class NotedTold(Contract):
    """Something that the page tried without success, or that happened to it."""

    kind: Happened
    what: ShortText


class ScreenshotTold(Contract):
    path: Text = Field(description="The path in the state directory.")
    sha256: Annotated[str, Field(max_length=64, pattern="^[0-9a-f]{64}$")]


class ApprovalTold(Contract):
    """The approval that an action needed before it started."""

    approval_id: Uuid
    approved_by: Identifier | None
    reason: ShortText | None = Field(description="The reason that the person gave.")


class ActionOutput(Contract):
    """The output of a successful action: `output` of an action-result. All texts are masked."""

    url: Url = Field(description="The address of the current page of the session.")
    title: ShortText = Field(description="The title of that page.")
    held: Many[HeldTold] = Field(description="Requests that change something, and were held for a person.")
    turned_away: Many[TurnedAwayTold] = Field(
        description="Requests that were refused and not sent, such as to other hosts."
    )
    noted: Many[NotedTold] = Field(
        description="Dialogs, popups and downloads, none of which was allowed, and other events."
    )
    confined: bool = Field(description="Whether Chromium was isolated from the machine and its network.")
    status: Count | None = Field(default=None, description="navigate: the status of the server's response.")
    snapshot: JsonObject | None = Field(default=None, description="snapshot: the accessibility tree, with refs.")
    approval: ApprovalTold | None = Field(default=None, description="type, of a password: who approved it.")
    screenshot: ScreenshotTold | None = Field(default=None, description="screenshot: the file of the picture.")
