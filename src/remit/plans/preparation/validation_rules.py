"""The rules of a plan about rows, tried while it is previewed: on the databases as its actions would leave them.

So a rule that is written wrongly, or would not hold, is known before anybody approves the plan. All the same they are
checked when it has run.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from remit.core.errors import RemitError
from remit.effects.plans.steps import PlanStep, StepPlan
from remit.effects.plans.validate import ROWS
from remit.fs.paths import Located, plain_spelling
from remit.plans.engines.duckdb import Engine
from remit.plans.engines.input_files import folder_is_missing
from remit.plans.engines.row_rules import (
    RuleTimes,
    check_rule_on_file,
    no_database_error,
    remaining_seconds,
    run_rule_query,
    with_rule,
)
from remit.plans.preparation.database_versions import FATAL_REASONS, WorkingCopy
from remit.plans.runtime.runner import paths_of


class RuleTrial(NamedTuple):
    """What rules are tried on, and with."""

    places: Mapping[int, Located]
    find_working_copy: Callable[[str], WorkingCopy | None]
    """The database of this path, if an action of the plan worked on a copy of it."""
    engine: Engine
    times: RuleTimes
    meanwhile: Callable[[], None] = lambda: None


def try_rules(drafted: StepPlan, steps: Sequence[PlanStep], trial: RuleTrial) -> RemitError | None:
    """What the first rule says that would not hold, or cannot be checked.

    Nothing is tried of a plan that would fail anyway, and no rule about a file that another action changes: its bytes
    are not there yet.
    """
    if any(step.problem is not None for step in steps):
        return None
    deadline = time.monotonic() + trial.times.together
    for number, rule in enumerate(drafted.rules, start=1):
        if rule["type"] != ROWS or rule.get("path") is None:  # no file, but a server
            continue
        try:
            _try_one(rule, drafted, steps, trial, deadline)
        except RemitError as problem:
            if problem.reason in FATAL_REASONS:
                raise
            return with_rule(problem, number, len(drafted.rules), rule)
    return None


def _try_one(
    rule: Mapping[str, Any], drafted: StepPlan, steps: Sequence[PlanStep], trial: RuleTrial, deadline: float
) -> None:
    seconds = min(trial.times.each, remaining_seconds(deadline))
    working_copy = trial.find_working_copy(plain_spelling(rule["path"]))
    if working_copy is not None:
        if working_copy.state is None:
            raise no_database_error(rule["path"])
        working_copy.ensure_file(trial.engine.require_not_cancelled)
        run_rule_query(rule, working_copy.path, working_copy.alias, trial.engine, seconds, trial.meanwhile)
        return
    number = drafted.paths.index(rule["path"])
    if number in paths_of(steps):
        return
    place = trial.places.get(number)
    existing = place if place is not None and not folder_is_missing(place) else None
    check_rule_on_file(rule, existing, trial.engine, seconds, trial.meanwhile)
