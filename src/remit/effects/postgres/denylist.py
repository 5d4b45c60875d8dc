"""Functions that no statement may call, whatever rights the role has, each with the reason.

Limit: a function or a view of the database can hide a call. Another rule protects files and programs of the server:
roles that may reach them are refused.
"""

from collections.abc import Sequence
from typing import Final

from remit.effects.postgres.lexer import PostgresToken

_SETS: Final = "changes how the session works"
_RUNS: Final = "runs a text as SQL, which cannot be checked before it runs"
_OUTSIDE: Final = "reaches outside the database"
_OTHERS: Final = "reaches other sessions"
_LARGE: Final = "works on large objects, which cannot be counted"
_SETS_A_SEQUENCE: Final = "sets a sequence immediately and permanently, also in a preview"

_BY_NAME: Final = {
    **dict.fromkeys(("set_config", "setseed"), _SETS),
    **dict.fromkeys(("query_to_xml", "query_to_xmlschema", "query_to_xml_and_xmlschema", "ts_stat"), _RUNS),
    **dict.fromkeys(("cursor_to_xml", "crosstab", "crosstabn", "connectby", "xpath_table"), _RUNS),
    **dict.fromkeys(("pg_terminate_backend", "pg_cancel_backend", "pg_notify", "pg_export_snapshot"), _OTHERS),
    **dict.fromkeys(("pg_promote", "pg_reload_conf", "pg_rotate_logfile", "pg_log_backend_memory_contexts"), _OUTSIDE),
    **dict.fromkeys(("loread", "lowrite"), _LARGE),
    "setval": _SETS_A_SEQUENCE,
}
_BY_BEGINNING: Final = (
    ("pg_read_", _OUTSIDE),
    ("pg_ls_", _OUTSIDE),
    ("pg_stat_file", _OUTSIDE),
    ("pg_file_", _OUTSIDE),
    ("dblink", _OUTSIDE),
    ("postgres_fdw_", _OUTSIDE),
    ("http_", _OUTSIDE),
    ("pg_logical_", _OUTSIDE),
    ("pg_replication_", _OUTSIDE),
    ("pg_create_", _OUTSIDE),
    ("pg_drop_", _OUTSIDE),
    ("pg_copy_", _OUTSIDE),
    ("pg_switch_", _OUTSIDE),
    ("pg_backup_", _OUTSIDE),
    ("pg_advisory_", _OTHERS),
    ("pg_try_advisory_", _OTHERS),
    ("pg_wal_replay_", _OUTSIDE),
    ("pg_stat_reset", _OUTSIDE),
    ("lo_", _LARGE),
)
INSTEAD: Final = {"setval": "Write ALTER SEQUENCE ... RESTART WITH instead, which is part of the transaction."}
"""The next step for functions that have a replacement."""
MOVES_A_SEQUENCE: Final = frozenset({"nextval"})


def find_forbidden(tokens: Sequence[PostgresToken]) -> tuple[str, str] | None:
    """Return the name of the first forbidden function, and the reason. All spellings of a name are found."""
    for place, token in enumerate(tokens):
        if is_call(tokens, place) and (why := why_forbidden(token.name)):
            return token.name, why
    return None


def why_forbidden(name: str) -> str:
    return _BY_NAME.get(name) or next((why for part, why in _BY_BEGINNING if name.startswith(part)), "")


def is_call(tokens: Sequence[PostgresToken], place: int) -> bool:
    """Return whether a parenthesis follows the name. The name of a table before its columns looks like a call too."""
    return bool(tokens[place].name) and place + 1 < len(tokens) and tokens[place + 1].text == "("


def calls(tokens: Sequence[PostgresToken], names: frozenset[str]) -> bool:
    return any(token.name in names and is_call(tokens, place) for place, token in enumerate(tokens))
