"""The turns in which previews are computed that the proposing agent may read as a whole (PV-04). Pure.

Each preview has a turn of the same length. The turns of one agent follow each other, and only a few are at the same
time. The rest of a turn is not used for another preview: the next turn begins as late as otherwise, and the agent is
shown the preview from the end of the turn. So the moment depends on the times and the number of proposals, and never on
the content of files and rows. It is fixed in the transaction of the proposal, in its entry: every process knows it, and
a restart forgets nothing.
"""

import json
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from remit.core.ids import parse_time, render_time

FIELD: Final = "preview_turn"
"""The field of the proposal's entry. Without it, the agent is never shown the preview."""
MOST_AT_A_TIME: Final = 3
"""The most turns of all agents at the same time."""
MOST_AHEAD: Final = 12
"""The most turns that a proposal waits for. Beyond it, a preview has no turn. It is less than
`remit.services.base.jobs.MAX_PER_OWNER`, so that no preview with a turn is refused as one job too many."""
_STORED_BEFORE_END: Final = 5
"""The last fifth of a turn is for storing the preview, so that a slow disk does not decide when it appears."""


class Turn(NamedTuple):
    """One turn. The preview must be computed and stored by `stops_at`. The agent is shown it from `ends_at`."""

    starts_at: datetime
    stops_at: datetime
    ends_at: datetime

    def tree(self) -> dict[str, str]:
        return {name: render_time(at) for name, at in self._asdict().items()}


class LiveTurn(NamedTuple):
    """A turn that has not ended, and whose it is."""

    owner: str
    turn: Turn


def allot_turn(live: Collection[LiveTurn], owner: str, now: datetime, length: timedelta) -> Turn | None:
    """Return the first turn that is free: after the others of its owner, and beside few enough. None if it is late."""
    latest = now + MOST_AHEAD * length
    # Turns beyond that were given while the clock was ahead, and a person has accepted an earlier clock since.
    turns = [each for each in live if now < each.turn.ends_at <= latest + length]
    first = max((each.turn.ends_at for each in turns if each.owner == owner), default=now)
    for starts_at in sorted({first, *(each.turn.ends_at for each in turns if each.turn.ends_at > first)}):
        beside = [each for each in turns if each.turn.starts_at < starts_at + length and starts_at < each.turn.ends_at]
        if len(beside) < MOST_AT_A_TIME:
            ends_at = starts_at + length
            return Turn(starts_at, ends_at - length / _STORED_BEFORE_END, ends_at) if starts_at < latest else None
    return None


def parse_turn(payload: str) -> Turn | None:
    """Return the turn in the entry of a proposal. None if it has none, or is not as this module wrote it."""
    if FIELD not in payload:  # most entries
        return None
    try:
        tree: Any = json.loads(payload)[FIELD]
        return Turn(*(parse_time(tree[name]) for name in Turn._fields))
    except (ValueError, TypeError, KeyError):
        return None


def live_turns(rows: Iterable[tuple[str, str]]) -> list[LiveTurn]:
    """Return the turns of these proposals: of each its proposer, and the payload of its entry."""
    found = ((owner, parse_turn(payload)) for owner, payload in rows)
    return [LiveTurn(owner, turn) for owner, turn in found if turn is not None]
