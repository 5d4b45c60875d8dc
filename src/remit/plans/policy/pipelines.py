"""The files of actions that run a pipeline, and the rules for pipelines in a plan. Pure.

A pipeline changes only the files that the configuration names for it. This module decides from the plan and the
configuration alone. The effect on the files is known later, when the pipeline runs on copies of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from remit.contracts.config.config import (
    Connection,
    DbtPipeline,
    DuckdbConnection,
    Pipeline,
    PostgresqlConnection,
    PythonPipeline,
    SqlPipeline,
    SystemConfig,
)
from remit.contracts.plans.plan import Action, PipelineAction, Plan, SqlAction
from remit.core.errors import Reason
from remit.effects.plans.database_files import LOG
from remit.execution.decision import Denial
from remit.fs.paths import plain_spelling
from remit.plans.policy.dependencies import paths_of_action

MAX_PIPELINE_ACTIONS: Final = 20
"""The limit for one plan. Each action may leave twenty files, which stay open until the plan has ended."""

_TWO_PLANS: Final = "Split it into two plans."


class PipelineFiles(NamedTuple):
    """The files that one action names through its pipeline, as the configuration spells them."""

    writes: tuple[str, ...] = ()
    """The only files that it may make or change. Empty for a pipeline that is refused."""
    reads: tuple[str, ...] = ()
    """The files and folders that it reads: code, queries and data."""
    code: tuple[str, ...] = ()
    """Those of `reads` that are run as code."""


def pipeline_of(action: PipelineAction, config: SystemConfig) -> Pipeline | None:
    return config.pipelines.get(action.operation.pipeline)


def pipeline_files(action: PipelineAction, config: SystemConfig) -> PipelineFiles:
    """Return the files of an action. They are empty for a pipeline that is not in the configuration."""
    return files_of(action.operation.pipeline, config)


def files_of(name: str, config: SystemConfig) -> PipelineFiles:
    match config.pipelines.get(name):
        case SqlPipeline() as pipeline:
            return PipelineFiles(_database(pipeline.connection, config), _once(pipeline.steps), _once(pipeline.steps))
        case PythonPipeline() as pipeline:
            code = packages_of(config)
            return PipelineFiles(_once(pipeline.writes), _once((*code, *_folders(pipeline.reads))), code)
        case DbtPipeline() as pipeline:
            code = _folders((pipeline.project,))
            return PipelineFiles(_database(pipeline.connection, config), code, code)
    return PipelineFiles()


def packages_of(config: SystemConfig) -> tuple[str, ...]:
    """Return all pipeline packages. Code in one may import another, which cannot be known before it runs."""
    return config.pipeline_packages


def package_of(function: str) -> str:
    return function.partition(":")[0].partition(".")[0]


def database_files(config: SystemConfig) -> dict[str, str]:
    """Return the DuckDB files of all connections, in normal spelling, each with the name of its first connection."""
    found: dict[str, str] = {}
    for name, connection in config.connections.items():
        if isinstance(connection, DuckdbConnection) and connection.path is not None:
            found.setdefault(plain_spelling(connection.path), name)
    return found


def touched_files(action: PipelineAction, config: SystemConfig) -> list[str]:
    """Return the files that decide the order of actions, each in its normal spelling.

    They include the files that other pipelines write into the folders that this one reads. They do not include code:
    no action of the plan changes code, so no action depends on it.
    """
    files = pipeline_files(action, config)
    declared = [plain_spelling(path) for path in (*files.writes, *files.reads) if path not in files.code]
    others = (plain_spelling(path) for one in config.pipelines.values() for path in getattr(one, "writes", ()))
    return [*declared, *(path for path in others if any(path.startswith(f"{folder}/") for folder in declared))]


def uses_duckdb(action: Action, config: SystemConfig) -> bool:
    """Whether the action needs the DuckDB engine."""
    if isinstance(action, SqlAction):
        return True
    pipeline = pipeline_of(action, config) if isinstance(action, PipelineAction) else None
    return isinstance(pipeline, SqlPipeline | DbtPipeline) and isinstance(
        config.connections.get(pipeline.connection), DuckdbConnection
    )


def is_reversible(action: PipelineAction, config: SystemConfig) -> bool:
    """Whether all effects of the pipeline can be undone, as far as its type shows. SQL can be. Code may do anything.

    For SQL on a server, the preview finds the statements that cannot be undone.
    """
    return isinstance(pipeline_of(action, config), SqlPipeline)


def expected_hashes(action: PipelineAction, path: str, config: SystemConfig) -> tuple[str | None, str | None]:
    """Return the hashes that the plan gives for this file. They belong to its target, or to its only file."""
    files = pipeline_files(action, config).writes
    target = action.target if action.target is not None else files[0] if len(files) == 1 else None
    if target is None or plain_spelling(target) != plain_spelling(path):
        return None, None
    return action.expected_hash_before, action.expected_hash_after


# --- what is refused -------------------------------------------------------------------------------------------------


def find_pipeline_denials(plan: Plan, config: SystemConfig) -> Iterator[Denial]:
    """Yield a denial for each broken rule about pipeline actions, except the rules about paths in general."""
    actions = [action for action in plan.action_plan if isinstance(action, PipelineAction)]
    if len(actions) > MAX_PIPELINE_ACTIONS:
        yield Denial(
            Reason.LIMIT_EXCEEDED,
            f"{len(actions):,} actions run a pipeline, and {MAX_PIPELINE_ACTIONS} are allowed",
            where="action_plan",
            next_step="Split it into several plans.",
        )
    for action in actions:
        pipeline = pipeline_of(action, config)
        if pipeline is None:
            yield _unknown(action, config)
            continue
        if config.sandbox == "unsafe-none" and not isinstance(pipeline, SqlPipeline):
            yield Denial(
                Reason.CAPABILITY_UNSUPPORTED,
                "project code runs only in the kernel sandbox, and `sandbox` is unsafe-none",
                where=_location_of(action, "pipeline"),
                next_step="Run it on a machine where `remit doctor` finds the sandbox, with `sandbox: required`.",
            )
        yield from _check_parameters(action, pipeline)
        yield from find_definition_denials(action.operation.pipeline, config, where=f"action {action.action_id}, ")
        yield from _check_target(action, config)
        yield from _check_reversible(action, pipeline, config)
    yield from _check_conflicts(plan, actions, config)


def _unknown(action: PipelineAction, config: SystemConfig) -> Denial:
    known = ", ".join(sorted(config.pipelines)[:20])
    return Denial(
        Reason.CAPABILITY_UNSUPPORTED,
        f"remit.yaml has no pipeline called {action.operation.pipeline!r}",
        where=_location_of(action, "pipeline"),
        next_step=f"Name one of these: {known}." if known else "Add it to `pipelines` in remit.yaml.",
    )


def _check_parameters(action: PipelineAction, pipeline: Pipeline) -> Iterator[Denial]:
    for name in action.operation.parameters:
        if name not in pipeline.parameters:
            known = ", ".join(pipeline.parameters)
            yield Denial(
                Reason.MALFORMED,
                f"the pipeline has no parameter {name!r}",
                where=_location_of(action, "parameters"),
                next_step=f"It has these: {known}." if known else "Leave it out: it has none.",
            )


def find_definition_denials(name: str, config: SystemConfig, *, where: str = "") -> Iterator[Denial]:
    """Yield a denial for each fault in the definition of this pipeline: its functions, and its connection."""
    pipeline, inside = config.pipelines[name], f"{where}pipeline {name}"
    if isinstance(pipeline, PythonPipeline):
        for function in pipeline.steps:
            if package_of(function) not in config.pipeline_packages:
                yield Denial(
                    Reason.CAPABILITY_UNSUPPORTED,
                    f"{function} is not in a package that pipelines may call",
                    where=f"{inside}, steps",
                    next_step="List its package, a folder in the root, in `pipeline_packages` in remit.yaml.",
                )
        return
    connection = config.connections.get(pipeline.connection)
    if connection is None:
        yield Denial(
            Reason.CAPABILITY_UNSUPPORTED,
            f"remit.yaml has no connection called {pipeline.connection!r}",
            where=f"{inside}, connection",
            next_step="Add it to `connections` in remit.yaml, or name another one.",
        )
        return
    yield from _check_connection(pipeline, connection, f"{inside}, connection")


def _check_connection(pipeline: SqlPipeline | DbtPipeline, connection: Connection, where: str) -> Iterator[Denial]:
    if isinstance(connection, PostgresqlConnection):
        if isinstance(pipeline, DbtPipeline):
            yield Denial(
                Reason.CAPABILITY_UNSUPPORTED,
                "a dbt pipeline cannot use a PostgreSQL database",
                where=where,
                next_step="Name a connection that has a DuckDB file.",
            )
    elif connection.path is None:
        yield Denial(
            Reason.MALFORMED,
            "this connection is in memory, so the result of the pipeline would be lost",
            where=where,
            next_step="Name a connection that has a file.",
        )
    elif connection.read_only:
        yield Denial(
            Reason.CAPABILITY_UNSUPPORTED,
            f"the connection {pipeline.connection} is read_only, and a pipeline changes its database",
            where=where,
            next_step="Name a connection that is not read_only.",
        )


def _check_target(action: PipelineAction, config: SystemConfig) -> Iterator[Denial]:
    files = pipeline_files(action, config).writes
    changed = {plain_spelling(path) for path in files}
    if action.target is not None and plain_spelling(action.target) not in changed:
        yield Denial(
            Reason.MALFORMED,
            "the target is not a file that the pipeline changes",
            where=_location_of(action, "target"),
            next_step=f"Leave it out, or name one of these: {', '.join(files)}.",
        )
    has_hash = action.expected_hash_before is not None or action.expected_hash_after is not None
    if has_hash and action.target is None and len(files) > 1:
        yield Denial(
            Reason.MALFORMED,
            f"a hash is given, and the pipeline changes {len(files)} files",
            where=_location_of(action, "target"),
            next_step="Name in `target` the file that the hash belongs to.",
        )


def _check_reversible(action: PipelineAction, pipeline: Pipeline, config: SystemConfig) -> Iterator[Denial]:
    """Check that the plan itself calls such an action irreversible, so that its author knows."""
    if action.reversible and not is_reversible(action, config):
        yield Denial(
            Reason.MALFORMED,
            f"the plan calls it reversible, and a {pipeline.type} pipeline is not: its code may have unseen effects",
            where=_location_of(action, "reversible"),
            next_step=f'Write `"reversible": false`, and approve it with --allow-irreversible {action.action_id!r}.',
        )


def _check_conflicts(plan: Plan, actions: Sequence[PipelineAction], config: SystemConfig) -> Iterator[Denial]:
    """Check that no action on files touches a file of a pipeline: Remit copies those before the first action runs.

    Other pipelines, and SQL on the same database, may touch them, since they work on what the action before left. No
    action may change code.
    """
    reads, writes, code = dict[str, str](), dict[str, str](), dict[str, str]()
    for action in actions:
        files = pipeline_files(action, config)
        user = f"the pipeline {action.operation.pipeline}"
        for path in map(plain_spelling, files.writes):
            writes[path] = writes[path + LOG] = user
        reads.update((plain_spelling(path), user) for path in files.reads)
        code.update((plain_spelling(path), user) for path in files.code)
    for other in plan.action_plan:
        if isinstance(other, PipelineAction):
            named, owners = [plain_spelling(path) for path in pipeline_files(other, config).writes], code
        elif isinstance(other, SqlAction):
            saved = other.operation.save_results_to
            named, owners = [] if saved is None else [plain_spelling(saved)], writes | code
        else:
            named, owners = list(paths_of_action(other)), reads | writes
        for path in named:
            if (owner := _find_owner(path, owners)) is not None:
                yield Denial(
                    Reason.PATH_REFUSED,
                    f"{path} belongs to {owner}, so this action may not change it",
                    where=f"action {other.action_id}, {path!r}",
                    next_step=_TWO_PLANS,
                )


def _find_owner(path: str, owners: Mapping[str, str]) -> str | None:
    """Return the owner of the path, or of a folder that it is in."""
    parts = path.split("/")
    above = ("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))
    return next((owners[folder] for folder in above if folder in owners), None)


# --- spelling --------------------------------------------------------------------------------------------------------


def _once(paths: Sequence[str]) -> tuple[str, ...]:
    """Return each file once, by its first spelling."""
    spelled: dict[str, str] = {}
    for path in paths:
        spelled.setdefault(plain_spelling(path), path)
    return tuple(spelled.values())


def _folders(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the paths without a slash at the end, which marks a folder and is not part of its name."""
    return tuple(path.rstrip("/") or path for path in paths)


def _database(name: str, config: SystemConfig) -> tuple[str, ...]:
    connection = config.connections.get(name)
    path = connection.path if isinstance(connection, DuckdbConnection) else None
    return () if path is None else (path,)


def _location_of(action: PipelineAction, field: str) -> str:
    return f"action {action.action_id}, {field}"
