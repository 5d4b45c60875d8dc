"""What the action of a goal, or of one of its steps, would do. It is shown to people before they confirm or approve."""

from typing import Annotated, Literal

from pydantic import Field

from remit.contracts.base import Contract, Count, Digest, LongText, Many, ShortText, Text, Timestamp

MAX_DIFFS = 50


class GoalDiff(Contract):
    """The change of one file: unified and masked, or a sentence for a binary file."""

    path: ShortText
    diff: LongText
    left_out: Count = Field(description="The number of lines of the diff that are not shown.")


class GoalPreview(Contract):
    """The preview of a goal's action. It was computed once, when the question was asked, and is stored.

    If `effect` is not null, the action runs only with exactly this effect: after a change of its files, the dispatch is
    refused. SQL and pipelines are not run before the confirmation, so their statements are shown and no effect.
    """

    type: Literal["task", "plan", "statements", "browser"]
    lines: Many[Text] = Field(description="What would be done, one sentence each, masked.")
    diffs: Annotated[tuple[GoalDiff, ...], Field(strict=False, max_length=MAX_DIFFS)] = ()
    problem: Text | None = Field(default=None, description="Why the action would be refused as things are now.")
    effect: Digest | None = None
    computed_at: Timestamp
