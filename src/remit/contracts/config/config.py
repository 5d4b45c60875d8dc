"""The system configuration, `remit.yaml`. Empty means deny; no setting can lift a limit that the product promises.

The description of each field is its documentation.
"""

import re
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from remit.contracts.base import AbsolutePath, Contract, Identifier, Many, Name, RelativePath, ShortText, VersionOne
from remit.contracts.config.browser import Browser
from remit.contracts.config.limits import (
    MAX_FILE_OPERATION_SECONDS,
    MAX_LOCK_SECONDS,
    MAX_PIPELINE_SECONDS,
    MAX_SCHEMA_UPDATE_SECONDS,
    MAX_SQL_SECONDS,
    MAX_TASK_SECONDS,
)
from remit.contracts.config.protected_files import built_in_globs
from remit.contracts.config.web import Web
from remit.parsing import Bounds

V = TypeVar("V")

MIB: Final = 1 << 20
CONFIG_NAME: Final = "remit.yaml"

CRITICAL_GLOBS: Final = built_in_globs("critical")
IMPORTANT_GLOBS: Final = built_in_globs("important")
AGENT_SYSTEM_GLOBS: Final = built_in_globs("agent_system")

Glob = Annotated[str, Field(min_length=1, max_length=500)]

EnvironmentName = Annotated[str, Field(max_length=100, pattern=r"^[A-Z_][A-Z0-9_]{0,99}$")]

FunctionName = Annotated[
    str, Field(max_length=200, pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$")
]
_DATABASE_FUNCTION: Final = r"^(extension:[A-Za-z_][A-Za-z0-9_-]*|[^\s.()\"]+\.[^\s.()\"]+(\([^()]*\))?)$"


def _check_database_function(value: Any) -> Any:
    """In words: what the pattern alone would say is of no help."""
    if isinstance(value, str) and not re.search(_DATABASE_FUNCTION, value):
        raise ValueError("write schema.name, such as public.net_price; or schema.name(types), or extension:name")
    return value


DatabaseFunction = Annotated[
    str, Field(max_length=300, pattern=_DATABASE_FUNCTION), BeforeValidator(_check_database_function)
]
PackageName = Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]

MAX_PIPELINE_STEPS: Final = 100
MAX_PIPELINE_WRITES: Final = 20

Registry = Annotated[dict[Name, V], Field(max_length=200)]


def _add_critical(globs: tuple[str, ...]) -> tuple[str, ...]:
    return _with_built_in(CRITICAL_GLOBS, globs)


def _add_important(globs: tuple[str, ...]) -> tuple[str, ...]:
    return _with_built_in(IMPORTANT_GLOBS, globs)


def _add_agent_system(globs: tuple[str, ...]) -> tuple[str, ...]:
    return _with_built_in(AGENT_SYSTEM_GLOBS, globs)


def _with_built_in(built_in: tuple[str, ...], globs: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*built_in, *globs)))


class Protected(Contract):
    """Files that a plan may touch only with an approval that names the file.

    A list adds to the built-in one and removes nothing from it.
    """

    critical: Annotated[Many[Glob], AfterValidator(_add_critical)] = Field(
        default=CRITICAL_GLOBS, description="More files with secrets, as globs below the root."
    )
    important: Annotated[Many[Glob], AfterValidator(_add_important)] = Field(
        default=IMPORTANT_GLOBS,
        description="More files that decide what is built, installed or run, as globs below the root.",
    )
    agent_system: Annotated[Many[Glob], AfterValidator(_add_agent_system)] = Field(
        default=AGENT_SYSTEM_GLOBS, description="More files that tell agents what to do, as globs below the root."
    )


class Limits(Contract):
    """How much one task may use. Each can be lowered; none can be raised past its maximum."""

    max_files: Annotated[int, Field(ge=1, le=100)] = Field(default=100, description="Files that one plan may change.")
    max_file_bytes: Annotated[int, Field(ge=1, le=50 * MIB)] = Field(
        default=50 * MIB, description="Size of one file that is read or written."
    )
    max_backup_bytes: Annotated[int, Field(ge=1, le=500 * MIB)] = Field(
        default=500 * MIB, description="Size of all backups of one plan."
    )
    max_concurrent_operations: Annotated[int, Field(ge=1, le=4)] = Field(
        default=4, description="Actions of one plan that may run at once."
    )
    max_memory_bytes: Annotated[int, Field(ge=32 * MIB, le=4096 * MIB)] = Field(
        default=512 * MIB, description="Memory of one sandboxed process; past it the process is killed."
    )
    max_io_bytes: Annotated[int, Field(ge=1, le=16_384 * MIB)] = Field(
        default=1024 * MIB, description="Bytes that one sandboxed process may read, and as many that it may write."
    )


class Timeouts(Contract):
    """Wall-clock seconds after which work is stopped. A plan may ask for less time, and never gets more."""

    file_operation: Annotated[int, Field(ge=1, le=MAX_FILE_OPERATION_SECONDS)] = Field(
        default=30, description="One file operation."
    )
    schema_update: Annotated[int, Field(ge=1, le=MAX_SCHEMA_UPDATE_SECONDS)] = Field(
        default=30, description="One edit of a schema file."
    )
    sql: Annotated[int, Field(ge=1, le=MAX_SQL_SECONDS)] = Field(default=60, description="One SQL action.")
    pipeline: Annotated[int, Field(ge=1, le=MAX_PIPELINE_SECONDS)] = Field(
        default=300, description="One run of a pipeline."
    )
    task: Annotated[int, Field(ge=1, le=MAX_TASK_SECONDS)] = Field(
        default=300, description="A whole plan, all actions together."
    )


class Retention(Contract):
    """How long things are kept."""

    rollback_days: Annotated[int, Field(ge=1, le=3650)] | None = Field(
        default=30,
        description="Days that a plan can be taken back; then `remit prune` may remove its backups. Null: for ever.",
    )


class DuckdbConnection(Contract):
    """A DuckDB database file of the project, or one in memory, which is empty at first and forgotten at the end."""

    type: Literal["duckdb"] = Field(description="The kind of database.")
    path: RelativePath | None = Field(
        default=None, description="The database file, below the root. None given: in memory."
    )
    read_only: bool = Field(default=False, description="Whether statements that write are refused.")


class PostgresqlConnection(Contract):
    """A PostgreSQL database. Its credentials never stand in a configuration: they are in a variable, or in a file."""

    type: Literal["postgresql"] = Field(description="The kind of database.")
    url_variable: EnvironmentName | None = Field(
        default=None, description="The environment variable that holds the connection URL."
    )
    url_file: AbsolutePath | None = Field(
        default=None, description="Or the file that holds it, which nobody else may read."
    )
    read_only: bool = Field(default=False, description="Whether statements that write are refused.")
    lock_timeout_seconds: Annotated[int, Field(ge=1, le=MAX_LOCK_SECONDS)] = Field(
        default=5,
        description="How long a preview or an apply waits for locks that other sessions hold, all in all "
        "(`lock_timeout`).",
    )
    statement_timeout_seconds: Annotated[int, Field(ge=1, le=MAX_SQL_SECONDS)] | None = Field(
        default=None,
        description="How long one statement may take (`statement_timeout`), if less than its action may take.",
    )
    preview_timeout_seconds: Annotated[int, Field(ge=1, le=MAX_SQL_SECONDS)] = Field(
        default=10,
        description="How long a preview of statements that change something keeps other sessions from its tables, at "
        "most.",
    )
    functions: Annotated[tuple[DatabaseFunction, ...], Field(strict=False, max_length=1_000)] = Field(
        default=(),
        description="Functions of the database that statements may reach, also by triggers and the like. Each is "
        "`schema.name`, `schema.name(types)`, or `extension:name` for what an extension labels IMMUTABLE or STABLE. "
        "None given: only built-in ones.",
    )

    @model_validator(mode="after")
    def _check_one_source(self) -> Self:
        if (self.url_variable is None) == (self.url_file is None):
            raise ValueError("give url_variable or url_file, and not both")
        return self


Connection = Annotated[DuckdbConnection | PostgresqlConnection, Field(discriminator="type")]


class _AnyPipeline(Contract):
    """What every pipeline has. An approval covers its definition, by this file, and the files of its code."""

    parameters: Many[Name] = Field(default=(), description="Names of the parameters that a plan may give.")
    timeout_seconds: Annotated[int, Field(ge=1, le=MAX_PIPELINE_SECONDS)] | None = Field(
        default=None, description="Seconds for this pipeline, instead of `timeouts.pipeline`."
    )
    description: ShortText = Field(default="", description="What it does, for the people who approve it.")


class SqlPipeline(_AnyPipeline):
    """Query files, run one after the other on one connection. All of them take effect, or none."""

    type: Literal["sql"] = Field(description="The kind of pipeline.")
    connection: Name = Field(description="One of `connections`.")
    steps: Annotated[tuple[RelativePath, ...], Field(strict=False, min_length=1, max_length=MAX_PIPELINE_STEPS)] = (
        Field(description="The query files, below the root, in their order.")
    )


class PythonPipeline(_AnyPipeline):
    """Functions of the project, called one after the other in a sandboxed copy of the files that they name here."""

    type: Literal["python"] = Field(description="The kind of pipeline.")
    steps: Annotated[tuple[FunctionName, ...], Field(strict=False, min_length=1, max_length=MAX_PIPELINE_STEPS)] = (
        Field(description="The functions as `package.module:function`, in their order.")
    )
    reads: Annotated[tuple[RelativePath, ...], Field(strict=False, max_length=100)] = Field(
        default=(), description="Files and folders, below the root, that they read."
    )
    writes: Annotated[tuple[RelativePath, ...], Field(strict=False, min_length=1, max_length=MAX_PIPELINE_WRITES)] = (
        Field(description="Files, below the root, that they may make or change: nothing else that they do stays.")
    )


class DbtPipeline(_AnyPipeline):
    """A dbt project, run on a DuckDB database of the project."""

    type: Literal["dbt"] = Field(description="The kind of pipeline.")
    project: RelativePath = Field(description="The folder of `dbt_project.yml`, below the root.")
    connection: Name = Field(description="One of `connections`, with a DuckDB file.")
    command: Literal["build", "run", "seed", "test"] = Field(default="build", description="What dbt is told to do.")
    select: Annotated[tuple[Annotated[str, Field(max_length=200)], ...], Field(strict=False, max_length=100)] = Field(
        default=(), description="The models that it is done for. None given: all."
    )


Pipeline = Annotated[SqlPipeline | PythonPipeline | DbtPipeline, Field(discriminator="type")]


class Policies(Contract):
    """What decides beyond the built-in rules."""

    cedar_files: Many[RelativePath] = Field(
        default=(), description="Cedar policies, below the root. None given: nobody has access through the goal door."
    )
    currency: Annotated[str, Field(max_length=3, pattern=r"^[A-Z]{3}$")] = Field(
        default="USD", description="ISO 4217 code of an amount that a token gives as a bare number."
    )


class Tenant(Contract):
    """One tenant of the goal door; each has a ledger chain of its own."""

    users: Many[Identifier] = Field(default=(), description="Users that may ask. None given: nobody may.")
    description: ShortText = Field(default="", description="Who this is.")


class Goals(Contract):
    """What the goal door can do, for whoever it lets in."""

    catalogue: Annotated[tuple[RelativePath, ...], Field(strict=False, max_length=100)] = Field(
        default=(),
        description="Files of simulations, below the root. None given: the goal door can do nothing.",
    )


class SystemConfig(Contract):
    """The settings of a workspace, `remit.yaml`.

    Its digest is part of every approval, so a change voids the approvals given before it.
    """

    # What the YAML reader takes a third of a second for.
    bounds: ClassVar[Bounds] = Bounds(max_bytes=64 << 10, max_items=10_000)

    version: VersionOne = Field(description="The version of this format.")
    root: RelativePath = Field(default=".", description="The project root: the folder of this file, or one below it.")
    base_directories: Many[AbsolutePath] = Field(
        default=(), description="Absolute directories in which tasks may move, copy and delete files. None given: none."
    )
    protected: Protected = Field(
        default=Protected(),
        description="Files that a plan may touch only with an approval of their own. Not for tasks.",
    )
    limits: Limits = Field(default=Limits(), description="How much one task may use.")
    timeouts: Timeouts = Field(default=Timeouts(), description="How long work may take, in seconds.")
    retention: Retention = Field(default=Retention(), description="How long things are kept.")
    sandbox: Literal["required", "unsafe-none"] = Field(
        default="required",
        description="`unsafe-none` lets effects run where the kernel cannot confine them; every result then says so.",
    )
    connections: Registry[Connection] = Field(
        default_factory=dict, description="Databases that plans may use, by name."
    )
    pipelines: Registry[Pipeline] = Field(default_factory=dict, description="Pipelines that plans may run, by name.")
    pipeline_packages: Annotated[tuple[PackageName, ...], Field(strict=False, max_length=50)] = Field(
        default=(),
        description="Python packages, folders in the root, whose functions pipelines may call. None given: none.",
    )
    policies: Policies = Field(default=Policies(), description="Policies beyond the built-in rules.")
    browser: Browser = Field(default=Browser(), description="The browser, and what it may reach.")
    tenants: Annotated[dict[Identifier, Tenant], Field(max_length=1_000)] = Field(
        default_factory=dict, description="Tenants of the goal door, by id."
    )
    goals: Goals = Field(default=Goals(), description="What the goal door can do.")
    web: Web = Field(default=Web(), description="The web server: HTTP API, console, and MCP over HTTP.")
