"""What can be told of a plan that somebody closed as it was: which files lie about, and where the backups are."""

from collections.abc import Iterator
from typing import Final

from remit.contracts.plans.report import ExecutionReport
from remit.core.errors import EnvironmentFailureError, Reason, RemitError
from remit.effects.plans.steps import PlanStep, aside_name, part_name
from remit.fs.paths import Located
from remit.plans.apply.checkpoint import PlanCheckpoint
from remit.plans.apply.verify_and_undo import FileLook, look_at_files
from remit.plans.storage.run_folder import MANIFEST, REPORTS, SCRIPT

UNKNOWN_EFFECT: Final = "Unknown effect"
"""The first words of the first warning in the report of such a plan."""
MANY: Final = 50


def left_to_a_person(problem: RemitError, begun: PlanCheckpoint) -> RemitError:
    """Why it was closed, and what a person has to go by."""
    folder = "/".join((*REPORTS, begun.folder))
    return EnvironmentFailureError(
        Reason.ROLLBACK_FAILED,
        problem.what,
        where=problem.where,
        next_step=f"Compare the files that it names with the backups, as {folder}/{MANIFEST} lists them."
        f" `python3 {folder}/{SCRIPT}` restores them.",
    )


def tell_what_is_left(begun: PlanCheckpoint) -> tuple[str, ...]:
    """For the report. Nothing is touched; what cannot be looked at is not named."""
    folder = "/".join((*REPORTS, begun.folder))
    first = (
        f"{UNKNOWN_EFFECT}: somebody closed this plan as it was, so some of its changes may stand and others not;"
        f" the backups are in {folder}, as {MANIFEST} lists them, and {SCRIPT} restores them"
    )
    parts = list(_parts(begun))
    more = (f"And {len(parts) - MANY:,} more such files",) if len(parts) > MANY else ()
    return (first, *parts[:MANY], *more)


def is_of_unknown_effect(report: ExecutionReport) -> bool:
    """Whether nobody can tell what of this run took effect."""
    return any(warning.startswith(UNKNOWN_EFFECT) for warning in report.warnings)


def _parts(begun: PlanCheckpoint) -> Iterator[str]:
    """Files under names of ours, which the run would have removed at its end."""
    candidates = list(_candidates(begun))
    try:
        looks = look_at_files(dict(enumerate(place for _, place in candidates)))
    except RemitError:
        return
    for number, (step, place) in enumerate(candidates):
        look = looks[number]
        if look.state is not None or look.other:
            yield f"Left over: {place.below}, {_described(step, look)} {begun.steps.paths[step.path]}"


def _candidates(begun: PlanCheckpoint) -> Iterator[tuple[PlanStep, Located]]:
    places = begun.places()
    for step in begun.steps.steps:
        for name in (part_name, aside_name):
            yield step, places[step.path]._replace(name=name(begun.steps.prefix, step.number))


def _described(step: PlanStep, look: FileLook) -> str:
    if look.state is not None and step.before is not None and look.state.sha256 == step.before.sha256:
        return "the old content of"
    if look.state is not None and step.after is not None and look.state.sha256 == step.after.sha256:
        return "the new content for"
    return "made for"
