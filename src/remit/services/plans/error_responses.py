"""The refusal of a request about plans in the error format of plans, which every interface adds to its own."""

from remit.contracts.plans.error_response import ErrorResponse
from remit.contracts.services.common import ErrorTold, describe_error
from remit.contracts.services.plans import PlanErrorTold
from remit.core.errors import RefusedError, RemitError
from remit.core.ids import Clock, system_clock
from remit.plans.reports.execution_report import refusal_of


def error_responses(problem: RemitError, clock: Clock = system_clock) -> tuple[ErrorResponse, ...]:
    """Return the error of a refusal. Empty for a failure: then it is not certain that nothing was changed."""
    return (refusal_of(problem, problem.where or "plan", clock),) if isinstance(problem, RefusedError) else ()


def describe_plan_error(problem: RemitError) -> ErrorTold:
    told = describe_error(problem)
    return PlanErrorTold(
        code=told.code,
        what=told.what,
        where=told.where,
        next_step=told.next_step,
        errors=error_responses(problem),
    )
