"""What a report tells of SQL, bounded: an outcome must stay below the bounds of what is read again. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from remit.contracts.plans.sql_report import SqlTold

ROOM: Final = 256 << 10
"""Bytes, for all actions of a run together."""


def told_within(told: Mapping[int, SqlTold], done: Sequence[int], room: int = ROOM) -> tuple[SqlTold, ...]:
    """Of the steps that were done, in their order. Each has its share; past it, its statements are only counted."""
    return tuple(_within([told[number] for number in done if number in told], room))


def _within(told: Sequence[SqlTold], room: int) -> Iterator[SqlTold]:
    for number, one in enumerate(told):
        share = room // (len(told) - number)
        plain = SqlTold.model_validate({name: getattr(one, name) for name in SqlTold.model_fields})  # without rows
        for each in (plain, _short(plain)):
            size = len(each.canonical())
            if size <= share:
                room -= size
                yield each
                break


def _short(told: SqlTold) -> SqlTold:
    left_out = told.left_out + len(told.statements)
    return told.model_copy(update={"statements": (), "columns": (), "left_out": left_out})
