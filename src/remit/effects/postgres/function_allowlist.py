"""Which functions a statement may reach. Pure.

What is not allowed is refused. Allowed is a function that is built in, IMMUTABLE or STABLE, and not in `NOT_ALLOWED`;
one that is built in, VOLATILE, and in `REVIEWED` with a reason; and one that a person has named in `functions` of the
connection. A function that a later version of PostgreSQL brings is refused, because it was not looked at. The label of
a function that a user made is a promise of its author, not a fact, so it counts for nothing.
"""

import difflib
from collections.abc import Sequence
from typing import Final, NamedTuple

from remit.effects.postgres.builtin_functions import BUILT_IN
from remit.effects.postgres.denylist import why_forbidden

FIRST_OF_USERS: Final = 16_384
"""Objects below this number were made with the database cluster."""
NEXTVAL: Final = 1_574
EXTENSION: Final = "extension:"

_GIVES: Final = "gives a value and changes nothing"
_READS: Final = "reads what the server knows, for a view of its catalog, and changes nothing"
_OWN: Final = "reads what this session itself took from a sequence"
_BUILT_IN_TRIGGER: Final = "is a trigger that changes only the row it is called for"
_SAMPLES: Final = "chooses the rows of TABLESAMPLE"
_COUNTED: Final = "is looked at by itself: a preview uses a copy of the sequence"

REVIEWED: Final = {
    **dict.fromkeys(("clock_timestamp", "timeofday", "random", "gen_random_uuid", "current_query"), _GIVES),
    **dict.fromkeys(("currval", "lastval"), _OWN),
    **dict.fromkeys(("bernoulli", "system"), _SAMPLES),
    **dict.fromkeys(
        ("suppress_redundant_updates_trigger", "tsvector_update_trigger", "tsvector_update_trigger_column"),
        _BUILT_IN_TRIGGER,
    ),
    **dict.fromkeys(
        (
            "pg_blocking_pids",
            "pg_collation_actual_version",
            "pg_database_collation_actual_version",
            "pg_database_size",
            "pg_indexes_size",
            "pg_is_in_recovery",
            "pg_lock_status",
            "pg_partition_ancestors",
            "pg_partition_tree",
            "pg_prepared_xact",
            "pg_relation_size",
            "pg_sequence_last_value",
            "pg_stat_get_xact_blocks_fetched",
            "pg_stat_get_xact_blocks_hit",
            "pg_stat_get_xact_function_calls",
            "pg_stat_get_xact_function_self_time",
            "pg_stat_get_xact_function_total_time",
            "pg_stat_get_xact_numscans",
            "pg_stat_get_xact_tuples_deleted",
            "pg_stat_get_xact_tuples_fetched",
            "pg_stat_get_xact_tuples_hot_updated",
            "pg_stat_get_xact_tuples_inserted",
            "pg_stat_get_xact_tuples_returned",
            "pg_stat_get_xact_tuples_updated",
            "pg_table_size",
            "pg_tablespace_size",
            "pg_total_relation_size",
            "pg_xact_status",
            "txid_status",
        ),
        _READS,
    ),
    "nextval": _COUNTED,
}
"""Built-in functions that are VOLATILE and allowed all the same, each with the reason."""

_RUNS_A_TABLE: Final = "runs a query that is not in the statement"
_BY_NUMBER: Final = "runs the checks of a type that is given as a number"
_BY_TEXT: Final = "runs the checks of a type that is given as a text"
_MACHINERY: Final = "works on functions of the server, not on rows"
NOT_ALLOWED: Final = {
    **dict.fromkeys(
        (
            "database_to_xml",
            "database_to_xml_and_xmlschema",
            "database_to_xmlschema",
            "schema_to_xml",
            "schema_to_xml_and_xmlschema",
            "schema_to_xmlschema",
            "table_to_xml",
            "table_to_xml_and_xmlschema",
            "table_to_xmlschema",
        ),
        _RUNS_A_TABLE,
    ),
    **dict.fromkeys(
        ("array_in", "domain_in", "domain_recv", "multirange_in", "range_in", "record_in", "record_recv"), _BY_NUMBER
    ),
    **dict.fromkeys(("array_recv", "multirange_recv", "range_recv"), _BY_NUMBER),
    **dict.fromkeys(("pg_input_error_info", "pg_input_is_valid"), _BY_TEXT),
    **dict.fromkeys(("fmgr_c_validator", "fmgr_internal_validator", "fmgr_sql_validator"), _MACHINERY),
}
"""Built-in functions that are IMMUTABLE or STABLE and refused all the same, each with the reason."""

MAKES_JSON: Final = frozenset(
    {"array_to_json", "row_to_json", "to_json", "to_jsonb"}
    | {f"{kind}_{what}" for kind in ("json", "jsonb") for what in ("build_array", "build_object")}
    | {
        f"{kind}_{what}{end}"
        for kind in ("json", "jsonb")
        for what in (
            *("agg", "agg_strict", "object_agg", "object_agg_strict", "object_agg_unique"),
            "object_agg_unique_strict",
        )
        for end in ("", "_transfn")
    }
)
"""They call the cast to json of a value's type, if the database has one, and no statement shows it."""

_VOLATILE: Final = "is VOLATILE, so it may change something, also in a preview"
_NEW: Final = "came with a version of PostgreSQL that is newer than this Remit, and what it does is not known"
_OF_USERS: Final = "is a function of the database's users, and what it does is not known"
_ALLOW: Final = "Leave it out; or have a person add {name!r} to `functions` of the connection, in remit.yaml."
_LEAVE_OUT: Final = "Leave it out."
_MOST_ENTRIES: Final = 3
"""Of the config that are told."""


class ServerFunction(NamedTuple):
    """One, as the catalog has it."""

    oid: int
    name: str
    schema: str
    signature: str
    """With its schema and the types of its arguments: `public.f(integer,text)`."""
    volatility: str
    extension: str
    """The extension that brought it, if one did."""


def why_refused(one: ServerFunction, allowed: Sequence[str]) -> str:
    """Why a statement may not reach it; empty if it may."""
    if one.oid < FIRST_OF_USERS:
        if one.name in NOT_ALLOWED:
            return NOT_ALLOWED[one.name]
        if one.name not in BUILT_IN:
            return why_forbidden(one.name) or _NEW
        if one.volatility in ("i", "s") or one.name in REVIEWED:
            return ""
        return why_forbidden(one.name) or _VOLATILE
    return "" if is_named(one, allowed) else _OF_USERS


def is_named(one: ServerFunction, allowed: Sequence[str]) -> bool:
    """Whether a person has named it: by name, by name and types, or by its extension, which is for what it labels
    IMMUTABLE or STABLE only.
    """
    for entry in allowed:
        if entry.startswith(EXTENSION):
            if one.extension == entry.removeprefix(EXTENSION) and one.volatility in ("i", "s"):
                return True
        elif entry.replace(", ", ",") in (f"{one.schema}.{one.name}", one.signature):
            return True
    return False


def advice(one: ServerFunction, allowed: Sequence[str], known: Sequence[ServerFunction]) -> str:
    """What to do about one that is refused. `known`: all functions of the database's users.

    With the entries of the config that name none of these, because one of them may have been meant for it.
    """
    if one.oid < FIRST_OF_USERS:
        return _LEAVE_OUT
    return " ".join((_ALLOW.format(name=one.signature), *_useless(allowed, known)))


def _useless(allowed: Sequence[str], known: Sequence[ServerFunction]) -> list[str]:
    sentences = []
    for entry in allowed:
        if any(is_named(each, [entry]) for each in known):
            continue
        name = entry.partition("(")[0]
        same = [each.signature for each in known if f"{each.schema}.{each.name}" == name]
        near = difflib.get_close_matches(entry, same or [each.signature for each in known], 1, 0.0 if same else 0.6)
        closest = f"; the closest is {near[0]!r}" if near else ""
        sentences.append(f"The entry {entry!r} of `functions` names no function of this database{closest}.")
    return sentences[:_MOST_ENTRIES]
