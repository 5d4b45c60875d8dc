"""What a report tells of pipelines, bounded: an outcome must stay below the bounds of what is read again. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from remit.contracts.plans.pipeline_report import PipelineTold

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
    return tuple(_within(told, room))


def _within(told: Sequence[PipelineTold], room: int) -> Iterator[PipelineTold]:
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
