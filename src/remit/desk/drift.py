"""The look around before a run is taken back: which files were changed since, and by which later run of ours."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from remit.canonical import canonical_bytes, digest_bytes
from remit.checkpoint.drift import judge, paths_of, see, select
from remit.contracts.change_log import Change
from remit.desk.runs import KnownRun, list_runs, open_past_runs, project_root
from remit.doors.rollback_look import Taken
from remit.effects.plan_steps import State
from remit.errors import RemitError
from remit.store.claims import Done
from remit.workspace import Workspace


class Standing(NamedTuple):
    """The files of a run shortly before it is taken back. To tell about, not to decide by: the door looks itself."""

    taken: Taken | None = None
    as_before: frozenset[str] = frozenset()
    """Checkpoints whose file was as before already."""
    drifted: Mapping[str, State | None] = {}
    """Paths that somebody changed since."""

    @property
    def digest(self) -> str | None:
        """Of the drifted files as they are, all of them: what a yes to replacing them is a yes to."""
        if not self.drifted:
            return None
        seen = [[path, state and [state.sha256, state.mode]] for path, state in sorted(self.drifted.items())]
        return digest_bytes(canonical_bytes(seen))

    @property
    def is_empty(self) -> bool:
        """The run is known, and changed nothing."""
        return self.taken is not None and not self.taken.manifest.checkpoints and self.taken.manifest.rows is None


def look_around(workspace: Workspace, name: str, chosen: Collection[str]) -> Standing:
    """Knows nothing of a run that has to be recovered first, or that is refused: the door says why."""
    runs = open_past_runs(workspace)
    try:
        taken = runs.taken(runs.find(name))
        files = [one for one in select(taken.manifest, chosen) if one.file_kind == "file"]
        states = see(project_root(workspace), paths_of(files))
    except RemitError:
        return Standing()
    looks = {one.checkpoint_id: judge(one, states) for one in files}
    as_before = frozenset(checkpoint_id for checkpoint_id, look in looks.items() if look == "before")
    drifted = paths_of(one for one in files if looks[one.checkpoint_id] == "drifted")
    return Standing(taken, as_before, {path: states[path] for path in drifted})


def later_run(workspace: Workspace, standing: Standing) -> KnownRun | None:
    """The newest plan of ours that left one of the drifted files as it stands now."""
    if standing.taken is None:
        return None
    runs, envelope_id = open_past_runs(workspace), standing.taken.outcome.status.envelope_id
    for run in list_runs(workspace):
        if run.what == "plan" and run.envelope_id == envelope_id:
            return None
        found = runs.claim(run.envelope_id) if run.what == "plan" and run.can_be_undone else None
        if isinstance(found, Done) and any(
            _left_by(change, standing.drifted) for change in runs.outcome_of(found).change_log.changes
        ):
            return run
    return None


def _left_by(change: Change, drifted: Mapping[str, State | None]) -> bool:
    path = change.new_path or change.file_path
    state = drifted.get(path)
    return path in drifted and change.after_state.file_hash == (state.sha256 if state else None)
