"""The checkpoint of a rollback, which is stored before it changes anything, and the loading of its outcome."""

import json
from dataclasses import dataclass
from typing import Any, Final

from remit.authority.statuses import verify_rollback_outcome
from remit.contracts.plans.outcome import RollbackOutcome
from remit.contracts.plans.rollback import Checkpoint, RollbackManifest, RollbackOrder, RowsCheckpoint
from remit.core.canonical import canonical_bytes, digest_bytes
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.crypto.signing import Keyring
from remit.effects.plans.steps import State, StepPlan, step_of
from remit.execution.checkpoint_text import read_checkpoint
from remit.plans.apply.verify_and_undo import RunPlan
from remit.plans.storage.drift import find_restorable_rows, select

_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class RollbackCheckpoint:
    """The data of a started rollback."""

    order: RollbackOrder
    root: str
    folder: str
    manifest: RollbackManifest
    """The manifest from before the rollback."""
    steps: StepPlan
    first: tuple[State | None, ...]
    folders: tuple[str, ...]

    def run_plan(self) -> RunPlan:
        return RunPlan(self.root, self.steps, dict(enumerate(self.first)), self.folders)

    def chosen(self) -> list[Checkpoint]:
        return select(self.manifest, self.order.checkpoints)

    def rows(self) -> RowsCheckpoint | None:
        """Return the rows on a server that are to be restored."""
        return find_restorable_rows(self.manifest, self.order.checkpoints)

    def already_restored(self) -> list[Checkpoint]:
        """Return the chosen files without a step. They were as before the plan already."""
        due = {step.action_id for step in self.steps.steps}
        files = (file for file in self.chosen() if file.file_kind == "file")
        return [file for file in files if file.checkpoint_id not in due]


def digest_of_order(order: RollbackOrder) -> str:
    """Return the digest of what is requested, without signature and time. A second order for the same has the same."""
    content = {"order_id": order.order_id, "checkpoints": list(order.checkpoints), "force": order.force}
    if order.drift is not None:
        content["drift"] = order.drift
    return digest_bytes(
        canonical_bytes({**content, "envelope_id": order.envelope_id, "manifest_id": order.manifest_id})
    )


def load_rollback_outcome(stored: str, keyring: Keyring) -> RollbackOutcome:
    try:
        outcome = RollbackOutcome.parse(stored.encode(), source="stored outcome")
        verify_rollback_outcome(outcome, keyring)
    except RefusedError as problem:
        raise EnvironmentFailureError(
            Reason.EVIDENCE_INVALID,
            f"the stored outcome cannot be verified: {problem.what}",
            where=problem.where,
            next_step="`remit ledger verify` shows what was changed. `remit keys list` shows which keys were revoked.",
        ) from None
    return outcome


def render_checkpoint(checkpoint: RollbackCheckpoint) -> str:
    tree = {
        "version": _VERSION,
        "order": checkpoint.order.tree(),
        "root": checkpoint.root,
        "folder": checkpoint.folder,
        "manifest": checkpoint.manifest.tree(),
        "prefix": checkpoint.steps.prefix,
        "paths": list(checkpoint.steps.paths),
        "steps": list(checkpoint.steps.steps),
        "waves": [list(wave) for wave in checkpoint.steps.waves],
        "max_file_bytes": checkpoint.steps.max_file_bytes,
        "first": [list(state) if state else None for state in checkpoint.first],
        "folders": list(checkpoint.folders),
    }
    return json.dumps(tree, sort_keys=True, separators=(",", ":"))


def parse_checkpoint(text: str) -> RollbackCheckpoint:
    """Parse the text that `render_checkpoint` returns."""
    return read_checkpoint(text, _parse, "rollback")


def _parse(tree: Any) -> RollbackCheckpoint:
    if tree["version"] != _VERSION:
        raise ValueError("another version")
    steps = StepPlan(
        prefix=tree["prefix"],
        paths=tuple(tree["paths"]),
        steps=tuple(map(step_of, tree["steps"])),
        waves=tuple(map(tuple, tree["waves"])),
        max_file_bytes=tree["max_file_bytes"],
    )
    return RollbackCheckpoint(
        order=RollbackOrder.from_tree(tree["order"]),
        root=tree["root"],
        folder=tree["folder"],
        manifest=RollbackManifest.from_tree(tree["manifest"]),
        steps=steps,
        first=tuple(State(*state) if state else None for state in tree["first"]),
        folders=tuple(tree["folders"]),
    )
