"""What is told of an action that runs SQL: its statements, the tables they name, and counts of rows. Rows, parameters
and the text of statements only in a preview.
"""

from typing import Annotated, Any, Final

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from remit.contracts.base import Contract, Count, Identifier, Name, RelativePath, ShortText, Text

MAX_STATEMENTS_TOLD: Final = 500
MAX_COLUMNS_TOLD: Final = 100
MAX_ROWS_SHOWN: Final = 20
MAX_TABLES_TOLD: Final = 100
MAX_PARAMETERS_TOLD: Final = 200
MAX_UNSEEN_TOLD: Final = 400
MAX_SQL_SHOWN: Final = 64 << 10
"""Characters of the statements of one action: what does not fit needs an approval of its own."""
_OF_SERVERS: Final = ("server", "tables", "irreversible")


class ToldStatement(Contract):
    """One statement, as it was run on a copy of the database."""

    number: Annotated[int, Field(ge=1, le=100_000)]
    kind: Annotated[str, Field(max_length=40, pattern=r"^[A-Z_]{1,40}$")] = Field(
        description="SELECT, INSERT, UPSERT (an INSERT that may update rows that are there), UPDATE, DELETE, "
        "TRUNCATE (on a server; in a file it is told as a DELETE), MERGE_INTO, CREATE, ALTER, DROP or EXPLAIN."
    )
    words: Text = Field(description="What it does, in a few words.")
    reads: Annotated[tuple[ShortText, ...], Field(strict=False, max_length=MAX_TABLES_TOLD)] | None = Field(
        default=None, description="Tables that it reads, also by way of a view; null if that is not known."
    )
    writes: Annotated[tuple[ShortText, ...], Field(strict=False, max_length=MAX_TABLES_TOLD)] | None = Field(
        default=None, description="Tables, views and the like that it makes, changes or removes; null if not known."
    )
    rows_read: Count | None = Field(default=None, description="Rows that it gives; null if it is not one that reads.")
    rows_changed: Count | None = Field(
        default=None, description="Rows that it changes; null if they cannot be counted."
    )
    destroys: bool = Field(
        default=False, description="Whether, by its words, rows, columns or whole tables are gone afterwards."
    )


class ToldColumn(Contract):
    """A column of the rows that the last SELECT gives."""

    name: ShortText
    type: ShortText


class ChangedTable(Contract):
    """Rows of one table on a server, as the server itself counted them: cascades and triggers are in it."""

    table: ShortText
    inserted: Count
    updated: Count
    deleted: Count


class SqlTold(Contract):
    """One action that runs SQL. What is said of a server is left out where there is none: reports that were signed
    before these fields were there keep their digest.
    """

    action_id: Identifier
    connection: Name
    database: RelativePath | None = Field(
        description="The database file; null: it is on a server, or in memory, and forgotten."
    )
    changes_database: bool = Field(description="Whether the file becomes another, or rows or tables on a server do.")
    statements: Annotated[tuple[ToldStatement, ...], Field(strict=False, max_length=MAX_STATEMENTS_TOLD)]
    left_out: Count = Field(default=0, description="Statements that are not in the list, because it is long.")
    result_rows: Count = Field(default=0, description="Rows that the last SELECT gives.")
    columns: Annotated[tuple[ToldColumn, ...], Field(strict=False, max_length=MAX_COLUMNS_TOLD)] = ()
    saved_to: RelativePath | None = Field(default=None, description="The file that these rows are saved to.")
    query_file: RelativePath | None = Field(
        default=None, description="The file that the statements stand in; null: in the plan itself."
    )
    server: ShortText | None = Field(
        default=None, description="The database server, where the connection is to one: its address, never a password."
    )
    tables: Annotated[tuple[ChangedTable, ...], Field(strict=False, max_length=MAX_TABLES_TOLD)] = Field(
        default=(), description="The tables whose rows it changes on a server."
    )
    irreversible: Text | None = Field(
        default=None, description="Why what it does on a server cannot be taken back; null if it can."
    )

    @model_serializer(mode="wrap")
    def _omit_missing_server(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        tree: dict[str, Any] = serialise(self)
        return {name: value for name, value in tree.items() if value or name not in _OF_SERVERS}


ShownRow = Annotated[tuple[Text | None, ...], Field(strict=False, max_length=MAX_COLUMNS_TOLD)]


class ShownParameter(Contract):
    """A value that is bound to the statements, as whoever approves them sees it."""

    name: ShortText
    value: Text = Field(description="As JSON, masked by its name and by its looks, and cut where it is long.")


class UnseenSql(Contract):
    """Something that would be run and is not shown whole: it needs an approval of its own."""

    where: ShortText
    what: Text


StatementText = Annotated[str, Field(max_length=MAX_SQL_SHOWN + 1_000)]


class SqlPreviewed(SqlTold):
    """With what nobody keeps: the statements themselves, their parameters and the first rows, masked."""

    rows: Annotated[tuple[ShownRow, ...], Field(strict=False, max_length=MAX_ROWS_SHOWN)] = ()
    texts: Annotated[tuple[StatementText, ...], Field(strict=False, max_length=MAX_STATEMENTS_TOLD)] = Field(
        default=(), description="The text of the statements, in their order, as far as it fits."
    )
    parameters: Annotated[tuple[ShownParameter, ...], Field(strict=False, max_length=MAX_PARAMETERS_TOLD)] = ()
    unseen: Annotated[tuple[UnseenSql, ...], Field(strict=False, max_length=MAX_UNSEEN_TOLD)] = Field(
        default=(), description="What of it is cut or left out here. Each is a finding too."
    )
    replaces: bool = Field(default=False, description="Whether there is a file already where rows are saved to.")
