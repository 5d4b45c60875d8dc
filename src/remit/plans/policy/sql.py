"""The files of actions that run SQL: the database, the results, the text; and what a plan may not do beside them. Pure.

An action is a change of one file: of the results, if it saves any, else of the database. What its statements do is
learned later, when they run on a copy; here it is what the plan and the configuration say.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from remit.contracts.config.config import DuckdbConnection, PostgresqlConnection, SystemConfig
from remit.contracts.plans.plan import Action, PipelineAction, Plan, SqlAction
from remit.contracts.plans.validation_rules import SqlExpect
from remit.core.errors import Reason
from remit.effects.plans.database_files import LOG
from remit.execution.decision import Denial
from remit.fs.paths import plain_spelling
from remit.plans.policy.dependencies import paths_of_action
from remit.plans.policy.pipelines import pipeline_files, touched_files
from remit.plans.policy.remote_sql import FORMATS as SERVER_FORMATS
from remit.plans.policy.remote_sql import find_remote_denials, order_mark, server_of

MAX_SQL_ACTIONS: Final = 100
"""Of one plan: each has a file that is open until the plan has ended."""
MAX_SQL_RULES: Final = 100
"""Of one plan: each is a process of its own."""
FORMATS: Final = ("parquet", "csv", "json")
"""Of results, by the suffix of their file."""

_RESULTS: Final = "a file of results"
_TWO_PLANS: Final = "Make two plans of it."


class SqlFiles(NamedTuple):
    """What one action names, each in its one spelling."""

    database: str | None
    """None: in memory, or a connection that is not known."""
    results: str | None
    query_file: str | None
    closed: bool
    """The connection says that it is for reading."""

    @property
    def reads_only(self) -> bool:
        """Of the database file: it is closed, or the results are all that the action may write."""
        return self.closed or self.results is not None

    @property
    def changed(self) -> str:
        """The one file that the action may change. Empty for an action that is refused."""
        return self.results or self.database or ""

    @property
    def named(self) -> tuple[str, ...]:
        paths = (self.results, self.database, self.query_file)
        return tuple(path for path in paths if path is not None)


def sql_files(action: SqlAction, config: SystemConfig) -> SqlFiles:
    operation, connection = action.operation, config.connections.get(action.operation.connection)
    return SqlFiles(
        database=_plain(_database(action, config)),
        results=_plain(operation.save_results_to),
        query_file=_plain(operation.query_file),
        closed=connection is not None and connection.read_only,
    )


def touched_by(config: SystemConfig) -> Callable[[Action], Sequence[str]]:
    """For the order of actions: the files by which one can depend on another. Reading a database counts."""

    def touched(action: Action) -> Sequence[str]:
        if isinstance(action, PipelineAction):
            return [*touched_files(action, config), *order_mark(action, config)]
        if not isinstance(action, SqlAction):
            return [*paths_of_action(action), *order_mark(action, config)]
        files = sql_files(action, config)
        named = [path for path in (files.results, files.database) if path is not None]
        return [*named, *order_mark(action, config)]

    return touched


def changed_paths(action: Action, config: SystemConfig) -> Sequence[str]:
    """The files that an action changes, or may, each in its one spelling."""
    if isinstance(action, PipelineAction):
        return [plain_spelling(path) for path in pipeline_files(action, config).writes]
    if not isinstance(action, SqlAction):
        return paths_of_action(action)
    changed = sql_files(action, config).changed
    return [changed] if changed else []


def named_paths(action: Action, config: SystemConfig) -> Sequence[str]:
    """These, and the files that it reads: what it does may tell of them."""
    if isinstance(action, PipelineAction):
        files = pipeline_files(action, config)
        return [plain_spelling(path) for path in (*files.writes, *files.reads)]
    return sql_files(action, config).named if isinstance(action, SqlAction) else paths_of_action(action)


def written_paths(action: SqlAction | PipelineAction, config: SystemConfig) -> Sequence[str]:
    """Those that it may change, as the plan spells them, or the configuration."""
    if isinstance(action, PipelineAction):
        return pipeline_files(action, config).writes
    changed = action.operation.save_results_to or _database(action, config)
    return [changed] if changed is not None else []


def read_paths(action: SqlAction | PipelineAction, config: SystemConfig) -> Sequence[str]:
    """Those that it only reads, spelled likewise."""
    if isinstance(action, PipelineAction):
        return pipeline_files(action, config).reads
    database = None if action.operation.save_results_to is None else _database(action, config)
    return [path for path in (database, action.operation.query_file) if path is not None]


def _database(action: SqlAction, config: SystemConfig) -> str | None:
    connection = config.connections.get(action.operation.connection)
    return connection.path if isinstance(connection, DuckdbConnection) else None


def format_of(path: str) -> str | None:
    """What is written to a results file of this name; None if its suffix says nothing that can be."""
    _, dot, suffix = path.rpartition("/")[2].lower().rpartition(".")
    return suffix if dot and suffix in FORMATS else None


def find_sql_denials(plan: Plan, config: SystemConfig) -> Iterator[Denial]:
    """Every rule for actions that run SQL, but for those about paths in general."""
    yield from find_remote_denials(plan, config)
    actions = [action for action in plan.action_plan if isinstance(action, SqlAction)]
    if not actions:
        return
    if len(actions) > MAX_SQL_ACTIONS:
        yield Denial(
            Reason.LIMIT_EXCEEDED,
            f"{len(actions):,} actions run SQL, and {MAX_SQL_ACTIONS} are allowed",
            where="action_plan",
            next_step="Put statements together, or make several plans of it.",
        )
    for action in actions:
        yield from _check_connection(action, config)
        yield from _check_results(action, config)
    yield from _check_conflicts(plan, actions, config)
    yield from _saved_twice(actions, config)
    yield from _changed_texts(plan, actions, config)


def find_rule_denials(plan: Plan, config: SystemConfig) -> Iterator[Denial]:
    """Every rule of the type `sql_expect`, but for its path. Its query is looked at where it runs."""
    rules = [(number, rule) for number, rule in enumerate(plan.validation_rules) if isinstance(rule, SqlExpect)]
    if len(rules) > MAX_SQL_RULES:
        yield Denial(
            Reason.LIMIT_EXCEEDED,
            f"{len(rules):,} rules run SQL, and {MAX_SQL_RULES} are allowed",
            where="validation_rules",
            next_step="Put queries together, or make several plans of it.",
        )
    for number, rule in rules:
        where = f"validation_rules, {number}, connection"
        yield from _check_name(rule.connection, config, where)
        connection = config.connections.get(rule.connection)
        if isinstance(connection, PostgresqlConnection):
            yield Denial(
                Reason.CAPABILITY_UNSUPPORTED,
                "a rule cannot ask a PostgreSQL database",
                where=where,
                next_step="Let a statement of the plan fail instead, such as a cast of a wrong count; or check a file.",
            )
        if isinstance(connection, DuckdbConnection) and connection.path is None:
            yield Denial(
                Reason.MALFORMED,
                "this connection is in memory: there is nothing in it that a rule could look at",
                where=where,
                next_step="Name a connection that has a file.",
            )


def rule_database(rule: SqlExpect, config: SystemConfig) -> str | None:
    """The file that its query reads, as the configuration spells it. None for a rule that is refused."""
    connection = config.connections.get(rule.connection)
    return connection.path if isinstance(connection, DuckdbConnection) else None


def _check_connection(action: SqlAction, config: SystemConfig) -> Iterator[Denial]:
    name = action.operation.connection
    yield from _check_name(name, config, _location_of(action, "connection"))
    connection = config.connections.get(name)
    if not isinstance(connection, DuckdbConnection):
        return
    if action.target is not None and plain_spelling(action.target) != _plain(connection.path):
        what = f"is the file {connection.path}" if connection.path else "is in memory and has no file"
        yield Denial(
            Reason.MALFORMED,
            f"the target is another file than the connection's: {name!r} {what}",
            where=_location_of(action, "target"),
            next_step="Leave the target out, or name the connection that it belongs to.",
        )


def _check_name(name: str, config: SystemConfig, where: str) -> Iterator[Denial]:
    connection = config.connections.get(name)
    if connection is None:
        known = ", ".join(sorted(config.connections)[:20])
        yield Denial(
            Reason.CAPABILITY_UNSUPPORTED,
            f"remit.yaml has no connection called {name!r}",
            where=where,
            next_step=f"Name one of these: {known}." if known else "Add it to `connections` in remit.yaml.",
        )


def _check_results(action: SqlAction, config: SystemConfig) -> Iterator[Denial]:
    saved_to = action.operation.save_results_to
    connection = config.connections.get(action.operation.connection)
    if saved_to is None and isinstance(connection, DuckdbConnection) and connection.path is None:
        yield Denial(
            Reason.MALFORMED,
            "this connection is in memory: without a file for the rows, nothing would come of the action",
            where=_location_of(action, "save_results_to"),
            next_step="Name a file for the rows of the last SELECT, or another connection.",
        )
    if saved_to is not None and format_of(saved_to) is None:
        yield Denial(
            Reason.MALFORMED,
            "the suffix of this file does not say how rows are to be saved in it",
            where=_location_of(action, "save_results_to"),
            next_step="Use .parquet, .csv or .json.",
        )
    elif saved_to is not None and server_of(action, config) and format_of(saved_to) not in SERVER_FORMATS:
        yield Denial(
            Reason.CAPABILITY_UNSUPPORTED,
            "rows of a PostgreSQL database cannot be saved in this form",
            where=_location_of(action, "save_results_to"),
            next_step="Use .csv or .json.",
        )


def _check_conflicts(plan: Plan, actions: Sequence[SqlAction], config: SystemConfig) -> Iterator[Denial]:
    """A database is copied before the first action runs, so nothing else of the plan may touch it."""
    reserved: dict[str, str] = {}
    for action in actions:
        files = sql_files(action, config)
        if files.database is not None:
            reserved[files.database] = reserved[files.database + LOG] = "a database"
    for action in actions:
        if (results := sql_files(action, config).results) is None:
            continue
        if reserved.setdefault(results, _RESULTS) != _RESULTS:
            yield Denial(
                Reason.PATH_REFUSED,
                f"rows cannot be saved to {results}: it is a database of this plan, or belongs to one",
                where=_location_of(action, "save_results_to"),
                next_step="Name another file.",
            )
    for other in plan.action_plan:
        if isinstance(other, SqlAction | PipelineAction):  # a pipeline works on what the action before it left
            continue
        for path in paths_of_action(other):
            if path in reserved:
                yield Denial(
                    Reason.PATH_REFUSED,
                    f"{path} belongs to an action that runs SQL, as {reserved[path]}; no other may name it",
                    where=f"action {other.action_id}, {path!r}",
                    next_step=_TWO_PLANS,
                )


def _saved_twice(actions: Sequence[SqlAction], config: SystemConfig) -> Iterator[Denial]:
    times = Counter(results for action in actions if (results := sql_files(action, config).results) is not None)
    for action in actions:
        results = sql_files(action, config).results
        if results is not None and times[results] > 1:
            times[results] = 0  # told once
            yield Denial(
                Reason.PATH_REFUSED,
                f"more than one action saves its rows to {results}",
                where=_location_of(action, "save_results_to"),
                next_step="Give each a file of its own.",
            )


def _changed_texts(plan: Plan, actions: Sequence[SqlAction], config: SystemConfig) -> Iterator[Denial]:
    """The approval binds the text as it is now, and that is what runs."""
    changed = {path for action in plan.action_plan for path in changed_paths(action, config)}
    for action in actions:
        query_file = sql_files(action, config).query_file
        if query_file in changed:
            yield Denial(
                Reason.PATH_REFUSED,
                f"the plan changes {query_file}, and runs it too",
                where=_location_of(action, "query_file"),
                next_step=_TWO_PLANS,
            )


def _plain(path: str | None) -> str | None:
    return None if path is None else plain_spelling(path)


def _location_of(action: SqlAction, field: str) -> str:
    return f"action {action.action_id}, {field}"
