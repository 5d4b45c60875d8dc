"""Truncation of the SQL and pipeline parts of a report. Pure.

An outcome must stay within the bounds of the parser that reads it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from remit.contracts.plans.pipeline_report import PipelineTold
from remit.contracts.plans.sql_report import SqlTold

MESSAGE_BYTES: Final = 256 << 10
"""The bound for all actions of a run together, in bytes."""
_SHORT: Final = 100


def without_log(summary: PipelineTold) -> PipelineTold:
    """Return the summary without its log and description.

    The log may contain data that the pipeline read, so only that of a failed pipeline is stored. The description is in
    the
    configuration.
    """
    has_failed = any(step.state == "failed" for step in summary.steps)
    return summary.model_copy(update={"description": "", "log": summary.log if has_failed else ()})


def truncate_pipelines(
    summaries: Sequence[PipelineTold], message_limit: int = MESSAGE_BYTES
) -> tuple[PipelineTold, ...]:
    """Truncate each summary to its share of `message_limit`: first the log, then the words, then the steps. Keeps the
    order.
    """
    return tuple(_truncate_pipelines(summaries, message_limit))


def _truncate_pipelines(summaries: Sequence[PipelineTold], message_limit: int) -> Iterator[PipelineTold]:
    for number, one in enumerate(summaries):
        share = message_limit // (len(summaries) - number)
        for each in _shorter_forms(one):
            size = len(each.canonical())
            if size <= share:
                message_limit -= size
                yield each
                break


def _shorter_forms(summary: PipelineTold) -> Iterator[PipelineTold]:
    yield summary
    plain = summary.model_copy(update={"log": ()})
    yield plain
    terse = tuple(step.model_copy(update={"words": step.words[:_SHORT]}) for step in summary.steps)
    yield plain.model_copy(update={"steps": terse})
    yield plain.model_copy(update={"steps": (), "left_out": summary.left_out + len(summary.steps)})


"""The bound for all actions of a run together, in bytes."""


def truncate_sql(
    summaries: Mapping[int, SqlTold], done: Sequence[int], message_limit: int = MESSAGE_BYTES
) -> tuple[SqlTold, ...]:
    """Return the summaries of completed steps, in order. Beyond its share, a summary only counts its statements."""
    return tuple(_truncate_sql([summaries[number] for number in done if number in summaries], message_limit))


def _truncate_sql(summaries: Sequence[SqlTold], message_limit: int) -> Iterator[SqlTold]:
    for number, one in enumerate(summaries):
        share = message_limit // (len(summaries) - number)
        plain = SqlTold.model_validate({name: getattr(one, name) for name in SqlTold.model_fields})  # without rows
        for each in (plain, _without_statements(plain)):
            size = len(each.canonical())
            if size <= share:
                message_limit -= size
                yield each
                break


def _without_statements(summary: SqlTold) -> SqlTold:
    left_out = summary.left_out + len(summary.statements)
    return summary.model_copy(update={"statements": (), "columns": (), "left_out": left_out})
