"""The system configuration, `remit.yaml`. An empty list allows nothing. No setting can raise a promised limit.

The description of each field is its documentation.
"""

import re
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from remit.contracts.base import (
    AbsolutePath,
    Contract,
    ExtendedContract,
    Identifier,
    Many,
    Name,
    RelativePath,
    ShortText,
    VersionOne,
)
from remit.contracts.config.approvals import ApprovalSettings
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
    """Refuse a wrong name with examples, because the message of the pattern does not help."""
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
    """Files that a plan may change only with an approval that names the file.

    Each list adds to a built-in list and removes nothing from it.
    """

    critical: Annotated[Many[Glob], AfterValidator(_add_critical)] = Field(
        default=CRITICAL_GLOBS, description="More files with secrets, as globs relative to the root."
    )
    important: Annotated[Many[Glob], AfterValidator(_add_important)] = Field(
        default=IMPORTANT_GLOBS,
        description="More files that decide what is built, installed or run, as globs relative to the root.",
    )
    agent_system: Annotated[Many[Glob], AfterValidator(_add_agent_system)] = Field(
        default=AGENT_SYSTEM_GLOBS, description="More files that instruct agents, as globs relative to the root."
    )


class Limits(ExtendedContract):
    """Limits on sizes and numbers. Each can be lowered. None can be raised above its maximum."""

    added_later: ClassVar[frozenset[str]] = frozenset({"max_prepared_bytes", "max_prepared_bytes_per_agent"})

    max_files: Annotated[int, Field(ge=1, le=100)] = Field(default=100, description="Files that one plan may change.")
    max_file_bytes: Annotated[int, Field(ge=1, le=50 * MIB)] = Field(
        default=50 * MIB, description="Largest size of one file that is read or written."
    )
    max_backup_bytes: Annotated[int, Field(ge=1, le=500 * MIB)] = Field(
        default=500 * MIB, description="Largest size of all backups of one plan."
    )
    max_concurrent_operations: Annotated[int, Field(ge=1, le=4)] = Field(
        default=4, description="Actions of one plan that may run at the same time."
    )
    max_memory_bytes: Annotated[int, Field(ge=32 * MIB, le=4096 * MIB)] = Field(
        default=512 * MIB, description="Largest memory of one sandboxed process. A process above it is killed."
    )
    max_io_bytes: Annotated[int, Field(ge=1, le=16_384 * MIB)] = Field(
        default=1024 * MIB, description="Bytes that one sandboxed process may read. It may also write as many."
    )
    max_prepared_bytes: Annotated[int, Field(ge=1, le=1 << 40)] = Field(
        default=4096 * MIB,
        description="Largest size of all files together that SQL and pipelines made for stored previews, and that Remit"
        " keeps until the plans are applied.",
    )
    max_prepared_bytes_per_agent: Annotated[int, Field(ge=1, le=1 << 40)] = Field(
        default=1024 * MIB,
        description="The same for the previews of one caller: the agent that proposed the plans, or the person who"
        " computed the previews.",
    )


class Timeouts(Contract):
    """Seconds of real time after which work is stopped. A plan may ask for less time but not for more."""

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
        default=300, description="One plan, with all its actions."
    )


class Retention(Contract):
    """How long backups are kept."""

    rollback_days: Annotated[int, Field(ge=1, le=3650)] | None = Field(
        default=30,
        description="Days in which a plan can be rolled back. Then `remit prune` may delete its backups. Null: always.",
    )


class DuckdbConnection(Contract):
    """A DuckDB database file of the project, or a database in memory that is empty at the start and lost at the end."""

    type: Literal["duckdb"] = Field(description="The kind of database.")
    path: RelativePath | None = Field(
        default=None, description="The database file, relative to the root. Without it, the database is in memory."
    )
    read_only: bool = Field(default=False, description="Whether statements that write are refused.")


class PostgresqlConnection(Contract):
    """A PostgreSQL database. Its credentials are in an environment variable or another file, never in `remit.yaml`."""

    type: Literal["postgresql"] = Field(description="The kind of database.")
    url_variable: EnvironmentName | None = Field(
        default=None, description="The environment variable that holds the connection URL."
    )
    url_file: AbsolutePath | None = Field(
        default=None, description="Or a file with the connection URL. No other account may have access to it."
    )
    read_only: bool = Field(default=False, description="Whether statements that write are refused.")
    lock_timeout_seconds: Annotated[int, Field(ge=1, le=MAX_LOCK_SECONDS)] = Field(
        default=5,
        description="Seconds in total that a preview or an apply waits for locks of other sessions (`lock_timeout`).",
    )
    statement_timeout_seconds: Annotated[int, Field(ge=1, le=MAX_SQL_SECONDS)] | None = Field(
        default=None,
        description="Seconds for one statement (`statement_timeout`). Default: the time that its action has.",
    )
    preview: Literal["execute", "explain", "off"] = Field(
        default="explain",
        description="What a preview does on the server. `explain`: the server plans the statements and runs none. "
        "`execute`: statements that a rollback undoes completely are run and rolled back, others are explained. `off`: "
        "the server is not contacted, and the preview shows the text only.",
    )
    preview_timeout_seconds: Annotated[int, Field(ge=1, le=MAX_SQL_SECONDS)] = Field(
        default=10,
        description="Longest time, in seconds, that a preview of writing statements locks tables for other sessions.",
    )
    functions: Annotated[tuple[DatabaseFunction, ...], Field(strict=False, max_length=1_000)] = Field(
        default=(),
        description="Functions of the database that statements may call, directly or through triggers and the like. "
        "Each is `schema.name`, `schema.name(types)`, or `extension:name` for the functions that an extension labels "
        "IMMUTABLE or STABLE. Without this setting, only built-in functions are allowed.",
    )

    @model_validator(mode="after")
    def _check_one_source(self) -> Self:
        if (self.url_variable is None) == (self.url_file is None):
            raise ValueError("give either url_variable or url_file")
        return self


Connection = Annotated[DuckdbConnection | PostgresqlConnection, Field(discriminator="type")]


class _AnyPipeline(Contract):
    """The settings that every pipeline has. An approval covers these settings and the files of the pipeline's code."""

    parameters: Many[Name] = Field(default=(), description="Names of the parameters that a plan may set.")
    timeout_seconds: Annotated[int, Field(ge=1, le=MAX_PIPELINE_SECONDS)] | None = Field(
        default=None, description="Seconds that this pipeline may take, instead of `timeouts.pipeline`."
    )
    description: ShortText = Field(default="", description="What the pipeline does, for the people who approve it.")


class SqlPipeline(_AnyPipeline):
    """Query files that run one after the other on one connection. All of them take effect, or none."""

    type: Literal["sql"] = Field(description="The kind of pipeline.")
    connection: Name = Field(description="One of `connections`.")
    steps: Annotated[tuple[RelativePath, ...], Field(strict=False, min_length=1, max_length=MAX_PIPELINE_STEPS)] = (
        Field(description="The query files, relative to the root, in the order in which they run.")
    )


class PythonPipeline(_AnyPipeline):
    """Functions of the project that run one after the other in a sandboxed copy of the files listed here."""

    type: Literal["python"] = Field(description="The kind of pipeline.")
    steps: Annotated[tuple[FunctionName, ...], Field(strict=False, min_length=1, max_length=MAX_PIPELINE_STEPS)] = (
        Field(description="The functions, as `package.module:function`, in the order in which they run.")
    )
    reads: Annotated[tuple[RelativePath, ...], Field(strict=False, max_length=100)] = Field(
        default=(), description="Files and folders, relative to the root, that the functions read."
    )
    writes: Annotated[tuple[RelativePath, ...], Field(strict=False, min_length=1, max_length=MAX_PIPELINE_WRITES)] = (
        Field(
            description="Files, relative to the root, that the functions may create or change. Other changes are lost."
        )
    )


class DbtPipeline(_AnyPipeline):
    """A dbt project that runs on a DuckDB database of the project."""

    type: Literal["dbt"] = Field(description="The kind of pipeline.")
    project: RelativePath = Field(description="The folder of `dbt_project.yml`, relative to the root.")
    connection: Name = Field(description="The name of one of `connections` that is a DuckDB file.")
    command: Literal["build", "run", "seed", "test"] = Field(default="build", description="The dbt command to run.")
    select: Annotated[tuple[Annotated[str, Field(max_length=200)], ...], Field(strict=False, max_length=100)] = Field(
        default=(), description="The models that the command selects. Without this setting it selects all."
    )


Pipeline = Annotated[SqlPipeline | PythonPipeline | DbtPipeline, Field(discriminator="type")]


class Policies(Contract):
    """Rules in addition to the built-in rules."""

    cedar_files: Many[RelativePath] = Field(
        default=(),
        description="Files of Cedar policies for goals, relative to the root. Without one, no user may request a goal.",
    )
    currency: Annotated[str, Field(max_length=3, pattern=r"^[A-Z]{3}$")] = Field(
        default="USD", description="Currency (ISO 4217 code) of an amount in a token that has no currency."
    )


class Tenant(Contract):
    """One tenant, whose users may request goals. Each tenant has its own ledger chain."""

    users: Many[Identifier] = Field(
        default=(), description="Users who may request goals. Without this setting no user may."
    )
    description: ShortText = Field(default="", description="Who the tenant is.")


class Goals(Contract):
    """The simulations, which are the actions that users can request."""

    catalogue: Annotated[tuple[RelativePath, ...], Field(strict=False, max_length=100)] = Field(
        default=(),
        description="Files of simulations, relative to the root. Without one, a goal can do nothing.",
    )


class SystemConfig(ExtendedContract):
    """The settings of a workspace, `remit.yaml`.

    Every approval contains its digest, so a change of the file makes earlier approvals invalid. A new version of Remit
    does not: a field that it adds to this contract, or to one inside, is in `added_later` of that contract.
    """

    added_later: ClassVar[frozenset[str]] = frozenset({"approvals"})

    # The YAML reader needs a third of a second for a file of this size.
    bounds: ClassVar[Bounds] = Bounds(max_bytes=64 << 10, max_items=10_000)

    version: VersionOne = Field(description="The version of this format.")
    root: RelativePath = Field(
        default=".", description="The project root: the folder of this file, or a folder below it."
    )
    base_directories: Many[AbsolutePath] = Field(
        default=(),
        description="Absolute directories in which tasks may move, copy and delete files. Without this setting tasks "
        "can change nothing.",
    )
    protected: Protected = Field(
        default=Protected(),
        description="Files that a plan may change only with an approval that names the file.",
    )
    limits: Limits = Field(default=Limits(), description="Limits on sizes and numbers.")
    timeouts: Timeouts = Field(default=Timeouts(), description="Seconds after which work is stopped.")
    retention: Retention = Field(default=Retention(), description="How long backups are kept.")
    sandbox: Literal["required", "unsafe-none"] = Field(
        default="required",
        description="`unsafe-none` also runs effects where the kernel cannot confine them. Every such result says so.",
    )
    connections: Registry[Connection] = Field(
        default_factory=dict, description="Databases that plans may use, by name."
    )
    pipelines: Registry[Pipeline] = Field(default_factory=dict, description="Pipelines that plans may run, by name.")
    pipeline_packages: Annotated[tuple[PackageName, ...], Field(strict=False, max_length=50)] = Field(
        default=(),
        description="Python packages (folders in the root) whose functions pipelines may call. Without this setting "
        "they may call none.",
    )
    policies: Policies = Field(default=Policies(), description="Rules in addition to the built-in rules.")
    browser: Browser = Field(default=Browser(), description="How the browser runs, and which addresses it may reach.")
    tenants: Annotated[dict[Identifier, Tenant], Field(max_length=1_000)] = Field(
        default_factory=dict, description="Tenants, by id. Their users may request goals."
    )
    goals: Goals = Field(default=Goals(), description="The simulations, which are the actions that users can request.")
    approvals: ApprovalSettings = Field(
        default=ApprovalSettings(), description="Who may approve, and what an approval must name."
    )
    web: Web = Field(default=Web(), description="The web server: HTTP API, console, and MCP over HTTP.")
