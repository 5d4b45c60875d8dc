"""The report on an action that runs SQL: its statements, the tables that they name, and counts of rows.

Only a preview has rows, parameters and the text of statements.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from remit.contracts.base import Contract, Count, Identifier, Name, RelativePath, ShortText, Text

MAX_STATEMENTS_TOLD: Final = 500
MAX_COLUMNS_TOLD: Final = 100
MAX_ROWS_SHOWN: Final = 20
MAX_TABLES_TOLD: Final = 100
MAX_PARAMETERS_TOLD: Final = 200
MAX_UNSEEN_TOLD: Final = 400
MAX_SQL_SHOWN: Final = 64 << 10
"""The most characters of the statements of one action. A part that is not shown needs its own approval."""
MAX_NOTES_TOLD: Final = 500
_OF_SERVERS: Final = ("server", "tables", "irreversible", "notes")

Computed = Literal["executed", "explained", "not_computed"]
"""How a preview was computed: run and rolled back, planned by the server without running, or not at all."""


class ToldStatement(Contract):
    """One statement, as it was run on a copy of the database, run on a server and rolled back, or planned there."""

    number: Annotated[int, Field(ge=1, le=100_000)]
    kind: Annotated[str, Field(max_length=40, pattern=r"^[A-Z_]{1,40}$")] = Field(
        description="SELECT, INSERT, UPSERT (an INSERT that may update existing rows), UPDATE, DELETE, TRUNCATE (on a "
        "server; in a file it is reported as a DELETE), MERGE_INTO, CREATE, ALTER, DROP or EXPLAIN."
    )
    words: Text = Field(description="The effect of the statement, in a few words.")
    reads: Annotated[tuple[ShortText, ...], Field(strict=False, max_length=MAX_TABLES_TOLD)] | None = Field(
        default=None, description="Tables that it reads, directly or through a view; null if that is not known."
    )
    writes: Annotated[tuple[ShortText, ...], Field(strict=False, max_length=MAX_TABLES_TOLD)] | None = Field(
        default=None,
        description="Tables, views and similar objects that it creates, changes or removes; null if not known.",
    )
    rows_read: Count | None = Field(
        default=None, description="The number of rows that it returns; null if it does not read."
    )
    rows_changed: Count | None = Field(
        default=None, description="The number of rows that it changes; null if they cannot be counted."
    )
    estimated_rows: Count | None = Field(
        default=None,
        description="The number of rows that it would read or change, as the planner of the server estimates it "
        "without running the statement. Omitted if it was run, or if there is no estimate.",
    )
    destroys: bool = Field(
        default=False, description="Whether, by its text, rows, columns or whole tables are gone afterwards."
    )

    @model_serializer(mode="wrap")
    def _omit_missing_estimate(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        tree: dict[str, Any] = serialise(self)
        return {name: value for name, value in tree.items() if value is not None or name != "estimated_rows"}


class ToldColumn(Contract):
    """A column of the rows that the last SELECT returns."""

    name: ShortText
    type: ShortText


class ChangedTable(Contract):
    """The changed rows of one table on a server, as the server counted them, with cascades and triggers."""

    table: ShortText
    inserted: Count
    updated: Count
    deleted: Count


class SqlTold(Contract):
    """The report on one action that runs SQL.

    The fields about a server are omitted if there is none, so that reports which were signed before these fields
    existed keep their digest.
    """

    action_id: Identifier
    connection: Name
    database: RelativePath | None = Field(
        description="The database file; null: the database is on a server, or in memory and lost after the run."
    )
    changes_database: bool = Field(description="Whether it changes the database file, or rows or tables on a server.")
    statements: Annotated[tuple[ToldStatement, ...], Field(strict=False, max_length=MAX_STATEMENTS_TOLD)]
    left_out: Count = Field(default=0, description="The number of statements that a long list leaves out.")
    result_rows: Count = Field(default=0, description="The number of rows that the last SELECT returns.")
    columns: Annotated[tuple[ToldColumn, ...], Field(strict=False, max_length=MAX_COLUMNS_TOLD)] = ()
    saved_to: RelativePath | None = Field(default=None, description="The file to which these rows are saved.")
    query_file: RelativePath | None = Field(
        default=None, description="The file with the statements; null: they are in the plan."
    )
    server: ShortText | None = Field(
        default=None, description="The address of the database server, if there is one, without a password."
    )
    tables: Annotated[tuple[ChangedTable, ...], Field(strict=False, max_length=MAX_TABLES_TOLD)] = Field(
        default=(), description="The tables whose rows it changes on a server."
    )
    irreversible: Text | None = Field(
        default=None, description="Why its changes on a server cannot be undone; null if they can."
    )
    computed: Computed = Field(
        default="executed",
        description="How this was found out: executed (run and rolled back), explained (the server planned the "
        "statements and ran none of them, so there are estimates and no counts or rows), or not_computed (the server "
        "was not contacted, so only the text is known). Omitted if executed.",
    )
    notes: Annotated[tuple[Text, ...], Field(strict=False, max_length=MAX_NOTES_TOLD)] = Field(
        default=(), description="What is not known before the plan is applied, and why."
    )

    @model_serializer(mode="wrap")
    def _omit_missing_server(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        tree: dict[str, Any] = serialise(self)
        omitted = {"computed": "executed", **{name: tree.get(name) for name in _OF_SERVERS if not tree.get(name)}}
        return {name: value for name, value in tree.items() if name not in omitted or value != omitted[name]}

    def only_reads(self, one: ToldStatement) -> bool:
        """Return whether a statement of this report only reads, as far as that is known."""
        if self.computed == "executed":
            return one.rows_read is not None
        return one.kind in ("SELECT", "EXPLAIN") and one.writes == ()


ShownRow = Annotated[tuple[Text | None, ...], Field(strict=False, max_length=MAX_COLUMNS_TOLD)]


class ShownParameter(Contract):
    """A value that is bound to the statements, as the approver sees it."""

    name: ShortText
    value: Text = Field(description="As JSON, masked by its name and by its form, and cut if it is long.")


class UnseenSql(Contract):
    """Something that would run and is not completely shown. It needs its own approval."""

    where: ShortText
    what: Text


StatementText = Annotated[str, Field(max_length=MAX_SQL_SHOWN + 1_000)]


class SqlPreviewed(SqlTold):
    """The report with the statements, parameters and first rows, masked. A report on a run does not have those."""

    rows: Annotated[tuple[ShownRow, ...], Field(strict=False, max_length=MAX_ROWS_SHOWN)] = ()
    texts: Annotated[tuple[StatementText, ...], Field(strict=False, max_length=MAX_STATEMENTS_TOLD)] = Field(
        default=(), description="The text of the statements, in their order, up to the limit."
    )
    parameters: Annotated[tuple[ShownParameter, ...], Field(strict=False, max_length=MAX_PARAMETERS_TOLD)] = ()
    unseen: Annotated[tuple[UnseenSql, ...], Field(strict=False, max_length=MAX_UNSEEN_TOLD)] = Field(
        default=(), description="The parts that are cut or left out here. Each is also a finding."
    )
    replaces: bool = Field(default=False, description="Whether the file to which rows are saved exists already.")
