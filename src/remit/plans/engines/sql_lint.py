"""Static checks of SQL texts: would a plan refuse them before they run? No database or server is used.

DuckDB's parser runs in a sandbox, as always, because no part of DuckDB is loaded in a process that has keys. Remit
itself
splits PostgreSQL texts into statements. Only the server can check their grammar.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from remit.core.errors import RefusedError, render_line
from remit.effects.postgres import statements as postgres
from remit.masking import mask_text
from remit.plans.engines.duckdb import BUILD, require_duckdb, without_text
from remit.plans.model.simulation_result import protocol_error
from remit.sandbox.manager import Fleet
from remit.sandbox.memfd import sealed
from remit.sandbox.orders import Order

EFFECT: Final = "remit.effects.duckdb.lint:CHECK"
SECONDS: Final = 30.0
_LONGEST: Final = 500


class WrittenText(NamedTuple):
    """An SQL text, with the values to bind to it, or sample values."""

    text: str
    parameters: Mapping[str, Any]
    reads_only: bool
    one_select: bool = False


class TextProblem(NamedTuple):
    number: int
    """The number of the text, from 0."""
    what: str
    next_step: str


def check_duckdb_texts(texts: Sequence[WrittenText], fleet: Callable[[], Fleet]) -> tuple[TextProblem, ...]:
    """Check texts for DuckDB. Raises RefusedError if it is not installed, EnvironmentFailureError without a sandbox."""
    if not texts:
        return ()
    require_duckdb()
    given = json.dumps([text._asdict() for text in texts]).encode()
    order = Order(EFFECT, "run", "check", "SQL_EXECUTE", {}, reversible=True, part_name="", seconds=SECONDS)
    with sealed("texts", given) as descriptor:
        finished = fleet().host_for((EFFECT,), BUILD).run(order, given={"texts": descriptor})
    return read_problems(finished.output, len(texts))


def check_postgres_texts(texts: Sequence[WrittenText]) -> tuple[TextProblem, ...]:
    found = []
    for number, text in enumerate(texts):
        try:
            statements = postgres.analyse(text.text)
            postgres.bind(statements, text.parameters)
            if text.reads_only:
                postgres.require_reading(statements)
        except RefusedError as problem:
            found.append(TextProblem(number, problem.what, problem.next_step))
    return tuple(found)


def read_problems(output: Mapping[str, Any] | None, texts: int) -> tuple[TextProblem, ...]:
    """Parse the answer of the sandboxed process. It is untrusted data and must have the agreed form."""
    try:
        return tuple(_problem(one, texts) for one in (output or {})["problems"])
    except (KeyError, TypeError, ValueError):
        raise protocol_error("its answer about the texts cannot be read") from None


def _problem(one: Mapping[str, Any], texts: int) -> TextProblem:
    number = int(one["number"])
    if not 0 <= number < texts:
        raise ValueError("no such text")
    what = without_text(mask_text(str(one["what"])))
    return TextProblem(number, render_line(what[:_LONGEST]), render_line(mask_text(str(one["next_step"]))[:_LONGEST]))
