"""What a report tells of pipelines, bounded: an outcome must stay below the bounds of what is read again. Pure.

What a report tells of SQL, bounded: an outcome must stay below the bounds of what is read again. Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from remit.contracts.plans.pipeline_report import PipelineTold
from remit.contracts.plans.sql_report import SqlTold

ROOM: Final = 256 << 10
"""Bytes, for all actions of a run together."""
_SHORT: Final = 100


def kept_of(told: PipelineTold) -> PipelineTold:
    """What may be kept. What a pipeline said may hold what it read: only one that failed needs to be looked into.

    Of its description, which is in the configuration, there is no need.
    """
    has_failed = any(step.state == "failed" for step in told.steps)
    return told.model_copy(update={"description": "", "log": told.log if has_failed else ()})


def pipelines_within(told: Sequence[PipelineTold], room: int = ROOM) -> tuple[PipelineTold, ...]:
    """In their order. Each has its share; past it, the log goes first, then the words, then the steps."""
    return tuple(_pipelines_within(told, room))


def _pipelines_within(told: Sequence[PipelineTold], room: int) -> Iterator[PipelineTold]:
    for number, one in enumerate(told):
        share = room // (len(told) - number)
        for each in _shorter(one):
            size = len(each.canonical())
            if size <= share:
                room -= size
                yield each
                break


def _shorter(told: PipelineTold) -> Iterator[PipelineTold]:
    yield told
    plain = told.model_copy(update={"log": ()})
    yield plain
    terse = tuple(step.model_copy(update={"words": step.words[:_SHORT]}) for step in told.steps)
    yield plain.model_copy(update={"steps": terse})
    yield plain.model_copy(update={"steps": (), "left_out": told.left_out + len(told.steps)})


"""Bytes, for all actions of a run together."""


def told_within(told: Mapping[int, SqlTold], done: Sequence[int], room: int = ROOM) -> tuple[SqlTold, ...]:
    """Of the steps that were done, in their order. Each has its share; past it, its statements are only counted."""
    return tuple(_sql_within([told[number] for number in done if number in told], room))


def _sql_within(told: Sequence[SqlTold], room: int) -> Iterator[SqlTold]:
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
