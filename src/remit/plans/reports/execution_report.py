"""`execution_report.json`, and the errors of a run as plan error responses. Pure."""

import uuid
from collections.abc import Iterator
from typing import Literal, get_args

from remit.contracts.plans.error_response import ErrorDetails, ErrorResponse
from remit.contracts.plans.plan import ActionType
from remit.contracts.plans.report import ActionsSummary, CompletedAction, ExecutionReport, FailedAction, SkippedAction
from remit.contracts.plans.sql_report import SqlTold
from remit.core.errors import EnvironmentFailureError, Reason, RemitError
from remit.core.ids import Clock, parse_time, render_time
from remit.core.text import printable
from remit.effects.plans.steps import PlanStep, Result
from remit.plans.reports.run_data import FinishedRun, RemoteAction, code_of, cut, error_of, later, render_error
from remit.plans.reports.truncate import truncate_pipelines, truncate_sql
from remit.version import __version__

RecoveryAction = Literal["SKIPPED", "ROLLED_BACK", "MANUAL_REQUIRED"]
ReportedAction = PlanStep | RemoteAction
"""A step of an action on files, or an action on a server, which has no step."""

_NOT_STARTED = "Stopped before it started"
_DEPENDENCY = "Dependency "
_GRAVITY = ("done", "skipped", "failed")


def build_report(run: FinishedRun) -> ExecutionReport:
    """Build the report, action by action in the order of execution. A step without a result never started."""
    results = _worst_of_each(run)
    completed: list[CompletedAction] = []
    failed: list[FailedAction] = []
    skipped: list[SkippedAction] = []
    for step, result in results:
        match result.state:
            case "done":
                completed.append(_completed(run, step, result))
            case "failed":
                failed.append(_failed(run, step, result))
            case "skipped":
                reason = cut(printable(result.reason or _NOT_STARTED), min(run.message_limit, 1_000))
                skipped.append(SkippedAction(action_id=step.action_id, reason=reason))
    completed_at = later(run.started_at, run.completed_at)
    duration = parse_time(completed_at) - parse_time(run.started_at)
    return ExecutionReport(
        report_id=run.ids.report_id,
        plan_id=run.plan_id,
        executor_version=__version__,
        status=run.status,
        started_at=run.started_at,
        completed_at=completed_at,
        duration_ms=round(duration.total_seconds() * 1000) + run.prepared_ms,
        prepared_ms=run.prepared_ms,
        actions_summary=ActionsSummary(
            total=len(results), completed=len(completed), failed=len(failed), skipped=len(skipped)
        ),
        actions_completed=tuple(completed),
        actions_failed=tuple(failed),
        actions_skipped=tuple(skipped),
        rollback_performed=run.rolled_back,
        rollback_manifest_id=run.ids.manifest_id if run.has_manifest else None,
        warnings=tuple(cut(warning, 1_000) for warning in _warnings(run)),
        sql=truncate_sql(_sql_summaries(run), [result.number for result in run.results if result.state == "done"]),
        pipelines=truncate_pipelines(run.pipelines),
    )


def _all_actions(run: FinishedRun) -> list[ReportedAction]:
    remote: list[ReportedAction] = [*run.remote]
    return [*remote, *run.steps.steps]


def _sql_summaries(run: FinishedRun) -> dict[int, SqlTold]:
    return {**run.sql, **{one.number: one.told for one in run.remote if one.told is not None}}


def _worst_of_each(run: FinishedRun) -> list[tuple[ReportedAction, Result]]:
    """Return for each action the step with its worst result. An action on several files is done when all are done."""
    results = {result.number: result for result in run.results}
    ends: dict[str, tuple[ReportedAction, Result]] = {}
    for step in _all_actions(run):
        result = results.get(step.number, Result(step.number, "skipped", reason=_NOT_STARTED))
        worst = ends.get(step.action_id)
        if worst is None or _GRAVITY.index(result.state) > _GRAVITY.index(worst[1].state):
            ends[step.action_id] = (step, result)
    return list(ends.values())


def build_errors(run: FinishedRun, clock: Clock) -> tuple[ErrorResponse, ...]:
    """Build one error for each action that failed or was skipped because of another, and one for the whole plan."""
    at = render_time(clock())
    steps = {step.number: step for step in _all_actions(run)}
    errors = [
        _response(run, steps[result.number], problem, _recovery(run, problem), at) for result, problem in _problems(run)
    ]
    if run.problem is not None:
        errors.append(_response(run, None, run.problem, _recovery(run, run.problem), at))
    return tuple(errors)


def refusal_of(problem: RemitError, envelope_id: str, clock: Clock) -> ErrorResponse:
    """Return the error response of a plan that was refused as a whole. Nothing was changed."""
    at = render_time(clock())
    error_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"urn:remit:refusal:{envelope_id}:{at}"))
    return _error(error_id, problem, ErrorDetails(), "SKIPPED", at, 4_000)


def _completed(run: FinishedRun, step: ReportedAction, result: Result) -> CompletedAction:
    started = result.started_at or run.started_at
    return CompletedAction(
        action_id=step.action_id,
        status="SUCCESS",
        started_at=started,
        completed_at=later(started, result.ended_at or run.completed_at),
        output=cut(printable(step.summary), run.message_limit),
    )


def _failed(run: FinishedRun, step: ReportedAction, result: Result) -> FailedAction:
    problem = error_of(result)
    code = code_of(problem).code
    trace = (result.error or {}).get("trace", "") if problem.reason is Reason.INTERNAL else ""
    return FailedAction(
        action_id=step.action_id,
        status="FAILED",
        error_code=code,
        error_message=cut(render_error(problem), run.message_limit),
        stack_trace=cut(trace, run.message_limit) or None,
    )


def _warnings(run: FinishedRun) -> Iterator[str]:
    yield from run.warnings
    if run.problem is not None:
        code = code_of(run.problem)
        yield f"{code.kind} ({code.code}): {render_error(run.problem)}"


def _problems(run: FinishedRun) -> Iterator[tuple[Result, RemitError]]:
    actions = {step.number: step.action_id for step in _all_actions(run)}
    reported: set[tuple[str, str]] = set()
    for result in run.results:
        if result.state == "failed":
            problem = error_of(result)
            same = (actions.get(result.number, ""), str(problem))
            if same not in reported:  # an error of an action with several files is recorded for each of them
                yield result, problem
            reported.add(same)
        elif result.state == "skipped" and result.reason.startswith(_DEPENDENCY):
            yield result, EnvironmentFailureError(Reason.DEPENDENCY_FAILED, result.reason)


def _recovery(run: FinishedRun, problem: RemitError) -> RecoveryAction:
    if problem.reason is Reason.ROLLBACK_FAILED:
        return "MANUAL_REQUIRED"
    if problem.reason is Reason.DEPENDENCY_FAILED:
        return "SKIPPED"
    return "ROLLED_BACK" if run.rolled_back else "SKIPPED"


def _response(
    run: FinishedRun, step: ReportedAction | None, problem: RemitError, recovery: RecoveryAction, at: str
) -> ErrorResponse:
    # The id is derived, so a run that is reported again after a crash reports the same errors.
    which = "plan" if step is None else str(step.number)
    error_id = str(uuid.uuid5(uuid.UUID(run.ids.report_id), f"error {which}"))
    details = ErrorDetails() if step is None else _details(run, step)
    return _error(error_id, problem, details, recovery, at, run.message_limit)


def _details(run: FinishedRun, step: ReportedAction) -> ErrorDetails:
    operation: ActionType | None = next((kind for kind in get_args(ActionType) if kind == step.action_type), None)
    target = run.steps.paths[step.path] if isinstance(step, PlanStep) else None
    return ErrorDetails(action_id=step.action_id, target=target, operation=operation)


def _error(
    error_id: str, problem: RemitError, details: ErrorDetails, recovery: RecoveryAction, at: str, message_limit: int
) -> ErrorResponse:
    code = code_of(problem)
    return ErrorResponse(
        error_id=error_id,
        error_code=code.code,
        error_category=code.category,
        error_type=code.kind,
        message=cut(render_error(problem), message_limit),
        details=details,
        recovery_action=recovery,
        timestamp=at,
    )
