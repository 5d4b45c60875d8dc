"""Warnings for a run that a person closed without an undo: which files it left over, and where its backups are."""

from collections.abc import Iterator
from typing import Final

from remit.contracts.plans.report import ExecutionReport
from remit.core.errors import EnvironmentFailureError, Reason, RemitError
from remit.effects.plans.steps import PlanStep, aside_name, part_name
from remit.fs.paths import Located
from remit.plans.apply.checkpoint import PlanCheckpoint
from remit.plans.apply.verify_and_undo import ObservedFile, observe_files
from remit.plans.storage.run_folder import MANIFEST, REPORTS, SCRIPT

UNKNOWN_EFFECT: Final = "Unknown effect"
"""The first words of the first warning in the report of an abandoned run."""
MAX_LEFTOVERS: Final = 50


def manual_repair_error(problem: RemitError, checkpoint: PlanCheckpoint) -> RemitError:
    """Return the error to record for an abandoned run. Its next step tells a person how to repair the files."""
    folder = "/".join((*REPORTS, checkpoint.folder))
    return EnvironmentFailureError(
        Reason.ROLLBACK_FAILED,
        problem.what,
        where=problem.where,
        next_step=f"Compare the files that it names with the backups, as {folder}/{MANIFEST} lists them."
        f" `python3 {folder}/{SCRIPT}` restores them.",
    )


def describe_leftovers(checkpoint: PlanCheckpoint) -> tuple[str, ...]:
    """Describe the files that an abandoned run left over, for its report.

    Nothing is changed. Files that cannot be inspected are not named.
    """
    folder = "/".join((*REPORTS, checkpoint.folder))
    first = (
        f"{UNKNOWN_EFFECT}: a person closed this run without an undo, so some of its changes may be in place and others"
        f" not; the backups are in {folder}, {MANIFEST} lists them, and {SCRIPT} restores them"
    )
    leftovers = list(_leftovers(checkpoint))
    more = (f"And {len(leftovers) - MAX_LEFTOVERS:,} more such files",) if len(leftovers) > MAX_LEFTOVERS else ()
    return (first, *leftovers[:MAX_LEFTOVERS], *more)


def is_of_unknown_effect(report: ExecutionReport) -> bool:
    """Whether it is unknown which changes of this run took effect."""
    return any(warning.startswith(UNKNOWN_EFFECT) for warning in report.warnings)


def _leftovers(checkpoint: PlanCheckpoint) -> Iterator[str]:
    """Yield a line for each file with a temporary name of this run, which the run removes when it ends normally."""
    candidates = list(_candidates(checkpoint))
    try:
        observed = observe_files(dict(enumerate(place for _, place in candidates)))
    except RemitError:
        return
    for number, (step, place) in enumerate(candidates):
        file = observed[number]
        if file.state is not None or file.other:
            yield f"Left over: {place.below}, {_describe(step, file)} {checkpoint.steps.paths[step.path]}"


def _candidates(checkpoint: PlanCheckpoint) -> Iterator[tuple[PlanStep, Located]]:
    places = checkpoint.places()
    for step in checkpoint.steps.steps:
        for name in (part_name, aside_name):
            yield step, places[step.path]._replace(name=name(checkpoint.steps.prefix, step.number))


def _describe(step: PlanStep, file: ObservedFile) -> str:
    if file.state is not None and step.before is not None and file.state.sha256 == step.before.sha256:
        return "the old content of"
    if file.state is not None and step.after is not None and file.state.sha256 == step.after.sha256:
        return "the new content for"
    return "made for"
