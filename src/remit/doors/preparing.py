"""The actions of a plan that run SQL, run on copies before anything is decided: each becomes a change of a file.

What an action leaves is hashed, opened and unlinked: a *prepared file*, which no name leads to any more. The step then
has its states before and after, and takes its new bytes from that descriptor, as a file that is restored does. If the
process dies, so does what it had prepared. Several actions on one database work on what the one before left.
"""

import itertools
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from remit.confine import beneath
from remit.confine.names import Located, locate_below
from remit.contracts.config import SystemConfig
from remit.contracts.envelope import ApprovedInput
from remit.contracts.plan import Plan, SqlAction
from remit.contracts.sql_told import SqlPreviewed
from remit.doors.databases import (
    Kept,
    WorkFolder,
    clone,
    closing,
    copy_database,
    keep,
    require_idle,
    sweep,
    too_large_to_keep,
)
from remit.doors.folders import opened
from remit.doors.reading import folder_is_missing, look_at_results, read_all
from remit.doors.running import Times
from remit.doors.sql_engine import Answer, Engine, Question, is_of_the_text, require_duckdb, sentence
from remit.effects.check import ROWS
from remit.effects.database_files import LOG
from remit.effects.handlers import NEW_FILE
from remit.effects.plan_files import missing, require_hash, too_large
from remit.effects.plan_steps import State, Step, StepPlan
from remit.errors import EnvironmentFailed, Reason, Refused, RemitError
from remit.policy.databases import SqlFiles, format_of, sql_files

MAX_QUERY_BYTES: Final = 4 << 20

_NOT_THE_ACTIONS: Final = frozenset(
    {
        Reason.CANCELLED,
        Reason.SANDBOX_UNAVAILABLE,
        Reason.CAPABILITY_UNSUPPORTED,
        Reason.STATE_UNSAFE,
        Reason.DISK_FULL,
        Reason.MISUSE,
        Reason.INTERNAL,
    }
)
"""What says nothing of one action: then there is no preview at all."""
_READ_ONLY: Final = "this text is to read only"
"""The engine's words for a statement that may change what it must not."""

Told = Callable[[int, int], None]
"""So many of so many actions have run."""


@dataclass(frozen=True)
class PreparedAll:
    """Of one plan. Nothing, for a plan that runs no SQL. Whoever has it closes it."""

    steps: tuple[Step, ...] = ()
    descriptors: dict[str, int] = field(default_factory=dict)
    """By `Step.source`."""
    told: dict[int, SqlPreviewed] = field(default_factory=dict)
    """By the number of the step, of those that could be run."""
    inputs: tuple[ApprovedInput, ...] = ()
    """Files that are only read: texts, and databases."""

    def close(self) -> None:
        while self.descriptors:
            _, descriptor = self.descriptors.popitem()
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Workshop:
    """What texts are run with."""

    engine: Engine
    work: Path
    """Where work folders are made."""
    tell: Told = lambda _done, _total: None


def prepare_all(
    plan: Plan,
    drafted: StepPlan,
    places: Mapping[int, Located],
    config: SystemConfig,
    root: str,
    workshop: Workshop,
    times: Times,
) -> PreparedAll:
    """Run what is SQL, in the order of the steps. What cannot be done is a problem of its step, not raised."""
    actions = {action.action_id: action for action in plan.action_plan if isinstance(action, SqlAction)}
    if actions or any(rule["type"] == ROWS for rule in drafted.rules):
        require_duckdb()  # before anything is changed, not when rules are checked
    if not actions:
        return PreparedAll(drafted.steps)
    sweep(workshop.work)
    prepared = PreparedAll()
    try:
        with WorkFolder.make(workshop.work) as folder:
            preparing = _Preparing(drafted, _Ground(places, config, root), workshop, times, folder, prepared)
            steps = preparing.all(actions)
    except BaseException:
        prepared.close()
        raise
    inputs = tuple(preparing.inputs[path] for path in sorted(preparing.inputs))
    return PreparedAll(steps, prepared.descriptors, prepared.told, inputs)


class _Ground(NamedTuple):
    places: Mapping[int, Located]
    config: SystemConfig
    root: str


class _Lineage:
    """One database on its way through the plan: the file that the next action works on, and what it is."""

    def __init__(self, place: Located, path: Path) -> None:
        self.place = place
        self.path = path
        """Where a copy is, or is to be, in a folder of its own."""
        self.state: State | None = None
        """None: there is no such database, or not yet."""
        self.left: int | None = None
        """What the last action that changed it left. Others rely on it, so it is copied before it is changed again."""

    @property
    def alias(self) -> str:
        """As the engine itself would call a database in a file of this name."""
        return self.place.name.partition(".")[0] or "database"

    def ensure_file(self, look: Callable[[], None]) -> None:
        if self.left is not None and not self.path.exists():
            clone(self.left, self.path, look)


class _Preparing:
    def __init__(
        self,
        drafted: StepPlan,
        ground: "_Ground",
        workshop: Workshop,
        times: Times,
        folder: WorkFolder,
        prepared: PreparedAll,
    ) -> None:
        self._drafted = drafted
        self._places, self._config, self._root = ground
        self._engine, self._tell = workshop.engine, workshop.tell
        self._times, self._deadline = times, time.monotonic() + (times.seconds or float(self._config.timeouts.task))
        self._folder, self._prepared = folder, prepared
        self._done = self._total = 0
        self._lineages: dict[str, _Lineage] = {}
        self._numbers = itertools.count()
        self._problems: dict[int, str] = {}
        """Steps that cannot be done, with the ids of their actions."""
        self.inputs: dict[str, ApprovedInput] = {}

    def all(self, actions: Mapping[str, SqlAction]) -> tuple[Step, ...]:
        steps = []
        self._total = len(actions)
        for step in self._drafted.steps:
            action = actions.get(step.action_id)
            if action is None:
                steps.append(step)
                continue
            self._say_how_far()
            self._engine.require_wanted()
            steps.append(self._one(step, action))
            self._done += 1
        self._say_how_far()
        return tuple(steps)

    def _say_how_far(self) -> None:
        self._tell(self._done, self._total)

    def _one(self, step: Step, action: SqlAction) -> Step:
        files = sql_files(action, self._config)
        try:
            self._require_needed(step)
            if files.results is None:
                return self._change_database(step, action, files)
            return self._save_results(step, action, files)
        except RemitError as problem:
            if problem.reason in _NOT_THE_ACTIONS:
                raise
            self._problems[step.number] = step.action_id
            known = self._lineages.get(files.changed)  # whatever is there is bound by the approval all the same
            return step._replace(
                before=known.state if known is not None else None, problem=_placed(problem, action, files).as_json()
            )

    # --- the two kinds

    def _change_database(self, step: Step, action: SqlAction, files: SqlFiles) -> Step:
        lineage = self._lineage(files)
        before = lineage.state
        require_hash(step.expected_before, before, lineage.place.path)
        if files.reads_only and before is None:
            raise missing(lineage.place.path, "there is no such database")
        lineage.ensure_file(self._engine.require_wanted)
        try:
            answer = self._run(step, action, files, lineage.path, lineage.alias, reads_only=files.reads_only)
        except RemitError as problem:
            raise problem if before is not None else _began_empty(problem) from None
        if not answer.changed:
            if before is None:
                raise missing(lineage.place.path, "there is no such database, and none of the statements makes one")
            require_hash(step.expected_after, before, lineage.place.path)
            return self._told(step._replace(move="modify", before=before, after=before, unchanged=True), action, answer)
        require_idle(lineage.place, writes=True)
        kept = self._keep_database(step, lineage)
        require_hash(step.expected_after, kept.state, lineage.place.path)
        lineage.left, lineage.state = kept
        after = kept.state
        if after.is_alike(before):
            return self._told(step._replace(move="modify", before=before, after=after, unchanged=True), action, answer)
        changed = step._replace(
            move="create" if before is None else "modify", before=before, after=after, source=_source(step)
        )
        return self._told(changed, action, answer)

    def _keep_database(self, step: Step, lineage: _Lineage) -> Kept:
        if lineage.path.with_name(lineage.path.name + LOG).exists():
            raise EnvironmentFailed(
                Reason.EFFECT_FAILED,
                "the engine did not write all changes to the database",
                where=lineage.place.path,
                next_step="This is a bug in Remit; nothing was changed.",
            )
        kept = keep(
            lineage.path,
            self._mode(lineage.state),
            self._config.limits.max_backup_bytes,
            where=lineage.place.path,
            too_large=too_large_to_keep,
        )
        self._prepared.descriptors[_source(step)] = kept.descriptor
        return kept

    def _save_results(self, step: Step, action: SqlAction, files: SqlFiles) -> Step:
        place = self._places[step.path]
        most = self._config.limits.max_file_bytes
        before = look_at_results(place, most)
        require_hash(step.expected_before, before, place.path)
        form = format_of(files.results or "") or ""
        made = self._folder.folder(f"results-{step.number}") / f"results.{form}"
        if files.database is None:
            scratch = self._folder.folder(f"memory-{step.number}") / "memory"
            answer = self._run(step, action, files, scratch, "memory", reads_only=files.closed, results=made)
        else:
            lineage = self._lineage(files)
            if lineage.state is None:
                raise missing(lineage.place.path, "there is no such database")
            lineage.ensure_file(self._engine.require_wanted)
            answer = self._run(step, action, files, lineage.path, lineage.alias, reads_only=True, results=made)
        kept = keep(made, self._mode(before), most, where=place.path, too_large=too_large)
        self._prepared.descriptors[_source(step)] = kept.descriptor
        require_hash(step.expected_after, kept.state, place.path)
        saved = step._replace(move="create" if before is None else "modify", before=before, after=kept.state)
        if kept.state.is_alike(before):
            return self._told(saved._replace(unchanged=True), action, answer, changes_database=False)
        return self._told(saved._replace(source=_source(step)), action, answer, changes_database=False)

    # --- what both need

    def _lineage(self, files: SqlFiles) -> _Lineage:
        """Of the database of an action; copied when it is asked for first."""
        name = files.database or ""
        if name not in self._lineages:
            place = locate_below(self._root, name)
            lineage = _Lineage(place, self._folder.folder(f"database-{next(self._numbers)}") / "database")
            if not folder_is_missing(place):
                most = self._config.limits.max_backup_bytes
                lineage.state = copy_database(place, lineage.path, most, self._engine.require_wanted)
            self._lineages[name] = lineage
            if lineage.state is not None:
                # For an action that changes it, what is bound of the plan's own paths counts instead.
                self.inputs[name] = ApprovedInput.from_tree({"path": name, "digest": lineage.state.sha256})
        return self._lineages[name]

    def _run(
        self,
        step: Step,
        action: SqlAction,
        files: SqlFiles,
        database: Path,
        alias: str,
        *,
        reads_only: bool,
        results: Path | None = None,
    ) -> Answer:
        operation = action.operation
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise EnvironmentFailed(
                Reason.TIMED_OUT,
                "the actions before it took all the time of the plan",
                next_step="Give it less to do, or more time: `timeout_seconds` of the plan, or timeouts.task.",
            )
        return self._engine.run(
            Question(
                text=self._text(action, files),
                parameters=operation.parameters,
                database=database,
                alias=alias,
                reads_only=reads_only,
                expect_results=operation.expect_results,
                results=results,
                form=None if results is None else format_of(files.results or ""),
                seconds=min(self._times.paces[step.number], left),
            ),
            meanwhile=self._say_how_far,
        )

    def _text(self, action: SqlAction, files: SqlFiles) -> bytes:
        """Read by us, so that what runs is what the approval binds."""
        if files.query_file is None:
            return (action.operation.query or "").encode("utf-8", "surrogatepass")
        place = locate_below(self._root, files.query_file)
        most = min(self._config.limits.max_file_bytes, MAX_QUERY_BYTES)
        with (
            opened(place.base, place.parents, where=place.path) as folder,
            closing(beneath.open_file(folder, place.name, where=place.path)) as descriptor,
        ):
            text, digest = read_all(descriptor, most, place.path)
        self.inputs[files.query_file] = ApprovedInput.from_tree({"path": files.query_file, "digest": digest})
        return text

    def _require_needed(self, step: Step) -> None:
        for number in step.needs:
            if number in self._problems:
                action_id = self._problems[number]
                raise Refused(
                    Reason.DEPENDENCY_FAILED,
                    f"this action needs {action_id}, which cannot be done",
                    where=self._drafted.paths[step.path],
                    next_step=f"Mend {action_id} first.",
                )

    def _mode(self, before: State | None) -> int:
        return before.mode if before is not None and self._drafted.keep_permissions else NEW_FILE

    def _told(self, step: Step, action: SqlAction, answer: Answer, *, changes_database: bool | None = None) -> Step:
        files = sql_files(action, self._config)
        changes = not step.unchanged if changes_database is None else changes_database
        self._prepared.told[step.number] = SqlPreviewed(
            action_id=action.action_id,
            connection=action.operation.connection,
            database=files.database,
            changes_database=changes,
            statements=answer.statements,
            left_out=answer.left_out,
            result_rows=answer.result_rows,
            columns=answer.columns,
            saved_to=files.results,
            query_file=files.query_file,
            rows=answer.rows,
        )
        return step._replace(said=sentence(answer, files.results))


def _placed(problem: RemitError, action: SqlAction, files: SqlFiles) -> RemitError:
    """With the place in the plan, or the file, where the process that ran the text could not know it."""
    what, next_step = problem.what, problem.next_step
    if problem.reason is Reason.TOO_LARGE:  # the text has a way of its own, so it is they that do not fit
        what, where = "its parameters are too large to be handed over", f"action {action.action_id}, parameters"
        next_step = "Put large values into the text, or into a table first."
    elif is_of_the_text(problem.where):
        where = files.query_file or f"action {action.action_id}, query"
    else:
        inside = {"the database": files.database or "", "the file of the results": files.results or ""}
        where = inside.get(problem.where, problem.where)
    if _READ_ONLY in what:
        next_step = (
            f"Leave it out: the connection {action.operation.connection} is read_only in remit.yaml."
            if files.closed
            else "Make two actions of it: one that changes the database, and one that saves rows of it."
        )
    return EnvironmentFailed(problem.reason, what, where=where, next_step=next_step)


def _began_empty(problem: RemitError) -> RemitError:
    """A wrong path in remit.yaml reads like a wrong statement else."""
    if problem.reason is not Reason.SQL_FAILED:
        return problem
    what = f"{problem.what}; there is no such database yet, so it began empty"
    return type(problem)(problem.reason, what, where=problem.where, next_step=problem.next_step)


def _source(step: Step) -> str:
    return f"prepared-{step.number}"
