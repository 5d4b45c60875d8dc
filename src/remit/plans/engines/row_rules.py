"""Rules of a plan about rows. Their queries run on the databases as the plan left them, in place.

They only read. The sandboxed process compares the rows itself, so no value of a row leaves it. An error of a rule names
the row and the column.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from remit.contracts.config.config import SystemConfig
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.effects.plans.files import mismatch, require_ordinary
from remit.effects.plans.steps import StepPlan
from remit.effects.plans.validate import ROWS
from remit.fs import openat as beneath
from remit.fs.paths import Located
from remit.plans.engines.database_files import closing, require_idle_in
from remit.plans.engines.duckdb import ContentQuestion, Engine
from remit.plans.model.folders import opened

_FIX: Final = "Fix the plan or the rule, and have it approved again."
_NEXT_STEPS: Final = {
    Reason.TIMED_OUT: "Simplify the query, or raise its limit: timeouts.sql, or timeouts.task for all rules together.",
    Reason.CANCELLED: "Approve the plan again if it is still wanted.",
    Reason.RULE_FAILED: _FIX,
    Reason.SQL_FAILED: _FIX,
    Reason.SQL_REFUSED: _FIX,
    Reason.TOO_LARGE: "Put large values into the query itself.",
}
"""Next steps for rules, instead of those for actions."""


class RuleTimes(NamedTuple):
    """Seconds for each query, and for all queries together."""

    each: float
    together: float

    @classmethod
    def of(cls, config: SystemConfig) -> Self:
        return cls(float(config.timeouts.sql), float(config.timeouts.task))


def has_other_rules(steps: StepPlan) -> bool:
    """Whether there are rules that are not about rows."""
    return any(rule["type"] != ROWS for rule in steps.rules)


def without_queries(steps: StepPlan) -> StepPlan:
    """Return the steps without queries, for the process that checks the other rules. It only needs their number."""
    rules = tuple(rule if rule["type"] != ROWS else {"type": ROWS, "path": rule["path"]} for rule in steps.rules)
    return steps._replace(rules=rules)


def check_rows(
    steps: StepPlan,
    places: Mapping[int, Located],
    engine: Engine,
    times: RuleTimes,
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """Check every rule about rows, in order. Raises the error of the first that does not hold or cannot be checked."""
    numbers = {path: number for number, path in enumerate(steps.paths)}
    deadline = time.monotonic() + times.together
    for number, rule in enumerate(steps.rules, start=1):
        if rule["type"] != ROWS:
            continue
        try:
            seconds = min(times.each, remaining_seconds(deadline))
            check_rule_on_file(rule, places.get(numbers[rule["path"]]), engine, seconds, meanwhile)
        except RemitError as problem:
            raise with_rule(problem, number, len(steps.rules), rule) from problem


def remaining_seconds(deadline: float) -> float:
    """Return the seconds that are left. Raises TIMED_OUT if there are none."""
    if (left := deadline - time.monotonic()) <= 0:
        raise EnvironmentFailureError(Reason.TIMED_OUT, "the rules before it used all the time")
    return left


def check_rule_on_file(
    rule: Mapping[str, Any], place: Located | None, engine: Engine, seconds: float, meanwhile: Callable[[], None]
) -> None:
    """Check one rule on a database in place."""
    with _idle_database(place, rule["path"]) as database:
        run_rule_query(rule, database, database.name.partition(".")[0] or "database", engine, seconds, meanwhile)


def run_rule_query(
    rule: Mapping[str, Any],
    database: Path | Located,
    alias: str,
    engine: Engine,
    seconds: float,
    meanwhile: Callable[[], None],
) -> None:
    """Run the query of a rule. Raises an error if the rule does not hold or cannot be checked."""
    engine.run(
        ContentQuestion(
            text=rule["query"].encode("utf-8", "surrogatepass"),
            parameters=rule["parameters"],
            database=database,
            alias=alias,
            reads_only=True,
            expect_results=False,
            results=None,
            form=None,
            seconds=seconds,
            expected=json.dumps(rule["expected"], ensure_ascii=False).encode("utf-8", "surrogatepass"),
        ),
        meanwhile=meanwhile,
    )


@contextmanager
def _idle_database(place: Located | None, path: str) -> Iterator[Located]:
    """Yield a database that exists, that no program writes to, and that does not change during the check."""
    if place is None:
        raise no_database_error(path)
    with opened(place.base, place.parents, where=path) as folder:
        require_idle_in(folder, place, writes=False)
        if not beneath.exists(folder, place.name):
            raise no_database_error(path)
        with closing(beneath.open_file(folder, place.name, where=path)) as descriptor:
            identity = beneath.identify(descriptor)
        require_ordinary(identity, where=path)
        yield place
        if beneath.peek(folder, place.name, where=path) != identity:
            raise mismatch("the database was changed while the rule was checked", path)


def no_database_error(path: str) -> RemitError:
    return RefusedError(Reason.RULE_FAILED, "the database does not exist", where=path)


def with_rule(problem: RemitError, number: int, total: int, rule: Mapping[str, Any]) -> RemitError:
    """Add the number of the rule and its file, which the process that ran the query does not know."""
    how = "does not hold" if problem.reason is Reason.RULE_FAILED else "could not be checked"
    what = "its parameters are too large" if problem.reason is Reason.TOO_LARGE else problem.what
    next_step = _NEXT_STEPS.get(problem.reason, problem.next_step)
    which = f"rule {number} of {total} ({ROWS})"
    return EnvironmentFailureError(problem.reason, f"{which} {how}: {what}", where=rule["path"], next_step=next_step)
