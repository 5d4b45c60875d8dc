"""The stored preview that an envelope names, checked against the envelope and the machine as it is now.

Nothing of the plan is executed here. A preview that cannot be used is refused, with the input that differs.
"""

from remit.contracts.config.config import SystemConfig
from remit.contracts.plans.envelope import Envelope
from remit.core.errors import Reason, RefusedError, RemitError
from remit.effects.plans.database_files import is_marked
from remit.effects.plans.validate import ROWS
from remit.fs.paths import locate_below
from remit.plans.engines.database_files import require_idle, require_none_busy
from remit.plans.engines.duckdb import require_duckdb
from remit.plans.policy.executes import runs_something
from remit.plans.preview.disk_checks import observe_disk
from remit.plans.preview.inputs import changed_input_error, find_changed_input
from remit.plans.preview.kept_outputs import outputs_gone_error
from remit.plans.preview.planned_effect import PlannedEffect, digest_of_preview, with_folders
from remit.plans.preview.store import StoredPlanPreview


def load_approved(
    envelope: Envelope, stored: StoredPlanPreview | None, config: SystemConfig, root: str
) -> PlannedEffect | None:
    """Return the effect that was approved. Refuses it if an input changed since.

    None for a plan of edits only whose preview was removed, or one of whose actions cannot be done any more. Computing
    its preview executes nothing of the plan. Then the action fails and is reported, as the specification says.
    """
    plan = envelope.plan
    is_computable = not runs_something(plan)
    if stored is None or stored.prepared_text is None:
        if is_computable:
            return None
        raise outputs_gone_error(f"plan {plan.plan_id}")
    planned = stored.planned(plan, config, root)
    _require_bound(envelope, planned)
    _require_usable_databases(planned, root)
    changed = find_changed_input(planned, root, config, "the plan was approved", envelope.issued_at)
    if changed is not None:
        if changed.is_missing and is_computable:
            return None
        raise changed_input_error(changed)
    folders, obstacle = observe_disk(planned.steps, root)
    if obstacle is not None:
        if is_computable:
            return None
        raise RefusedError(obstacle.reason, obstacle.what, where=obstacle.where, next_step=obstacle.next_step)
    return with_folders(planned, folders)


def require_idle_databases(planned: PlannedEffect, root: str) -> None:
    """Refuse with DATABASE_BUSY if another process has a database open that the plan replaces.

    A process that opened a database since the preview would continue to use a file that the plan has replaced.
    """
    for step in planned.steps.steps:
        if is_marked(step) and step.problem is None and not step.unchanged:
            require_idle(locate_below(root, planned.steps.paths[step.path]), writes=True)


def _require_bound(envelope: Envelope, planned: PlannedEffect) -> None:
    """Refuse a stored preview with other outputs than those that the envelope was signed for."""
    bound = digest_of_preview(envelope.plan_digest, envelope.config_digest, envelope.inputs, planned.outputs)
    if not bound == planned.digest == envelope.preview_digest:
        raise RefusedError(
            Reason.BINDING_MISMATCH,
            "the stored preview is not the one that was approved",
            where=f"envelope {envelope.envelope_id}, preview_digest",
            next_step="Preview the plan again with `remit preview`, and approve it again.",
        )


def _require_usable_databases(planned: PlannedEffect, root: str) -> None:
    """Require DuckDB where rules need it, and databases that no process uses. A process may change an open database."""
    if any(rule["type"] == ROWS for rule in planned.steps.rules):
        require_duckdb()  # before anything is changed, not when rules are checked
    try:
        require_idle_databases(planned, root)
    except RemitError as problem:
        require_none_busy([problem.as_json()])
        raise
