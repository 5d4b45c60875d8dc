"""Functions, views and settings that no statement may use, each with the reason.

The engine's settings and the sandbox limit a statement as well. This list does not depend on them.
"""

from collections.abc import Sequence
from typing import Final

from remit.effects.duckdb.lexer import DuckdbToken

_FILES: Final = "reads files"
_RUNS: Final = "runs a text as SQL, which cannot be checked before it runs"
_SETTINGS: Final = "reads the environment or the settings of the engine"
_SETS: Final = "changes how the engine works"
_OUTSIDE: Final = "reaches outside the database"

_BY_NAME: Final = {
    **dict.fromkeys(("glob", "sniff_csv", "python_map_function", "arrow_scan_dumb"), _FILES),
    **dict.fromkeys(("query", "query_table", "json_execute_serialized_sql"), _RUNS),
    **dict.fromkeys(("getenv", "current_setting", "getvariable", "duckdb_settings", "duckdb_variables"), _SETTINGS),
    **dict.fromkeys(("duckdb_databases", "duckdb_temporary_files", "duckdb_external_file_cache"), _SETTINGS),
    **dict.fromkeys(("duckdb_secrets", "which_secret", "duckdb_extensions", "duckdb_profiling_settings"), _SETTINGS),
    **dict.fromkeys(("enable_logging", "disable_logging", "truncate_duckdb_logs", "write_log"), _SETS),
    **dict.fromkeys(("enable_profiling", "disable_profiling", "checkpoint", "force_checkpoint"), _SETS),
    **dict.fromkeys(("add_parquet_key", "load_aws_credentials"), _SETS),
}
_BY_BEGINNING: Final = (("read_", _FILES), ("parquet_", _FILES), ("st_read", _FILES), ("http_", _OUTSIDE))
_BY_END: Final = (("_scan", _FILES), ("_attach", _OUTSIDE), ("_execute", _RUNS), ("_query", _RUNS))
_WITHIN: Final = (("external_resource", _OUTSIDE),)
_HARMLESS: Final = frozenset({"current_query"})
"""Functions whose names end like one of the above, and that are allowed."""
_PRAGMA: Final = "pragma_"
_PRAGMAS_THAT_READ: Final = frozenset({"pragma_table_info", "pragma_show", "pragma_storage_info", "pragma_version"})
_VIEWS: Final = dict.fromkeys(("pg_settings", "duckdb_databases", "pragma_database_list", "duckdb_logs"), _SETTINGS)
"""Views that are refused by name, also without parentheses. Some contain paths of this machine."""
_MAY_BE_SHOWN: Final = (("TABLES",), ("ALL", "TABLES"), ("SCHEMAS",))
PLAIN_ADVICE: Final = "Leave it out. A text may only read and change the tables of its database."
FILE_ADVICE: Final = (
    "Leave it out. No statement may use files. To load a file into the database, register a `python` or `dbt` pipeline"
    " in remit.yaml, and run it with PIPELINE_RUN."
)

_A_TABLE_FOLLOWS: Final = frozenset({"INTO", "REFERENCES"})
_BEFORE_A_NEW_TABLE: Final = frozenset(("CREATE", "OR", "REPLACE", "TEMP", "TEMPORARY", "TABLE", "IF", "NOT", "EXISTS"))
"""After these words comes the name of a table with its columns in parentheses, which is not a call."""
_TAKES_FROM: Final = frozenset({"extract", "trim", "substring", "overlay", "position", "date_part"})
"""Functions in whose parentheses FROM comes before a value."""
_FILE_FOLLOWS: Final = frozenset({"FROM", "JOIN"})

CHANGES_SEQUENCES: Final = frozenset({"nextval", "setval"})
"""A SELECT with one of these changes the database, and a rollback does not undo the change."""


def why_forbidden(name: str, *, is_of_a_plan: bool = False) -> str:
    """Return why a statement may not call a function of this name; an empty text if it may.

    `is_of_a_plan`: the name comes from a query plan of the engine, where ordinary steps such as a sequential scan have
    similar names.
    """
    if name in _HARMLESS:
        return ""
    found = [
        _BY_NAME.get(name, ""),
        *(why for part, why in _BY_BEGINNING if name.startswith(part)),
        *(why for part, why in _BY_END if name.endswith(part) and not is_of_a_plan),
        *(why for part, why in _WITHIN if part in name),
        _SETS if name.startswith(_PRAGMA) and name not in _PRAGMAS_THAT_READ else "",
    ]
    return next(filter(None, found), "")


def advice_for(why: str) -> str:
    return FILE_ADVICE if why == _FILES else PLAIN_ADVICE


def find_forbidden(tokens: Sequence[DuckdbToken]) -> tuple[str, str] | None:
    """Return the name of the first forbidden function or view, and the reason. All spellings of a name are found."""
    for place, token in enumerate(tokens):
        if token.name in _VIEWS:
            return token.name, _VIEWS[token.name]
        if is_call(tokens, place) and (why := why_forbidden(token.name)):
            return token.name, why
    return None


def shows_a_setting(tokens: Sequence[DuckdbToken]) -> bool:
    """Return whether SHOW is followed by anything but tables and schemas, because the engine may show a setting."""
    for place, token in enumerate(tokens):
        if token.word != "SHOW" or (place and tokens[place - 1].text != "("):
            continue
        after = [each.word for each in tokens[place + 1 : place + 3]]
        if not any(tuple(after[: len(shown)]) == shown for shown in _MAY_BE_SHOWN):
            return True
    return False


def is_call(tokens: Sequence[DuckdbToken], place: int) -> bool:
    """Return whether a parenthesis follows, unless it holds the columns of a table of this name."""
    if not place or place + 1 == len(tokens) or not tokens[place + 1].text.startswith("("):
        return False
    is_new_table = all(token.word in _BEFORE_A_NEW_TABLE for token in tokens[:place])
    return tokens[place - 1].word not in _A_TABLE_FOLLOWS and not is_new_table


def names_a_file(tokens: Sequence[DuckdbToken]) -> bool:
    """Return whether a string is in the place of a table, where the engine would take it for the name of a file."""
    opened: list[str] = []
    for place, token in enumerate(tokens):
        if token.text == "(":
            opened.append(tokens[place - 1].name if place else "")
        elif token.text == ")" and opened:
            opened.pop()
        elif token.is_string and place and tokens[place - 1].word in _FILE_FOLLOWS:
            compares = place > 1 and tokens[place - 2].word == "DISTINCT"  # IS DISTINCT FROM
            if not compares and not (opened and opened[-1] in _TAKES_FROM):
                return True
    return False
