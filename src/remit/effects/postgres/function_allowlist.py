"""The list of functions that a statement may reach. Pure.

Every function that is not allowed is refused. Three kinds are allowed. The first are built-in functions that are
IMMUTABLE or STABLE and not in `NOT_ALLOWED`. The second are built-in functions that are VOLATILE and in `REVIEWED`,
with a reason. The third are functions that a person has named in `functions` of the connection. A function of a later
version of PostgreSQL is refused, because it was not reviewed. The label of a user's function is only a claim of its
author, so it is not used.
"""

import difflib
from collections.abc import Sequence
from typing import Final, NamedTuple

from remit.effects.postgres.builtin_functions import BUILT_IN
from remit.effects.postgres.denylist import why_forbidden

FIRST_OF_USERS: Final = 16_384
"""Objects below this number were created with the database cluster."""
NEXTVAL: Final = 1_574
EXTENSION: Final = "extension:"

_GIVES: Final = "returns a value and changes nothing"
_READS: Final = "reads the server's state, for a view of its catalog, and changes nothing"
_OWN: Final = "reads the number that this session itself took from a sequence"
_BUILT_IN_TRIGGER: Final = "is a trigger that changes only the row it is called for"
_SAMPLES: Final = "chooses the rows of TABLESAMPLE"
_COUNTED: Final = "is checked separately: a preview does not run a statement that takes a number"

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
"""Built-in functions that are VOLATILE and allowed nevertheless, each with the reason."""

_RUNS_A_TABLE: Final = "runs a query that is not in the statement"
_BY_NUMBER: Final = "runs the checks of a type that a number identifies"
_BY_TEXT: Final = "runs the checks of a type that a text names"
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
"""Built-in functions that are IMMUTABLE or STABLE and refused nevertheless, each with the reason."""

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
"""Functions that call the cast to json of a value's type, if the database has one. The statement does not show it."""

_VOLATILE: Final = "is VOLATILE, so it may change something, also in a preview"
_NEW: Final = "is from a version of PostgreSQL that this version of Remit does not know, so its effects are unknown"
_OF_USERS: Final = "is a function that a user of the database created, so its effects are unknown"
_ALLOW: Final = "Leave it out, or ask a person to add {name!r} to `functions` of the connection in remit.yaml."
_LEAVE_OUT: Final = "Leave it out."
_MOST_ENTRIES: Final = 3
"""The maximum number of mistaken entries of the config that a message lists."""


class ServerFunction(NamedTuple):
    """One function, as the catalog describes it."""

    oid: int
    name: str
    schema: str
    signature: str
    """The name with its schema and the types of its arguments, such as `public.f(integer,text)`."""
    volatility: str
    extension: str
    """The extension that created it. Empty if there is none."""
    is_trigger: bool = False
    """Whether it can only be called as a trigger, so never while a statement is parsed or planned."""


def why_refused(one: ServerFunction, allowed: Sequence[str]) -> str:
    """Return the reason why a statement may not reach the function. Empty if it may."""
    if one.oid < FIRST_OF_USERS:
        if one.name in NOT_ALLOWED:
            return NOT_ALLOWED[one.name]
        if one.name not in BUILT_IN:
            return why_forbidden(one.name) or _NEW
        if one.volatility in ("i", "s") or one.name in REVIEWED:
            return ""
        return why_forbidden(one.name) or _VOLATILE
    return "" if is_named(one, allowed) else _OF_USERS


def is_of_users(one: ServerFunction) -> bool:
    """Return whether a user of the database wrote the function, so that a rollback may not undo all that it does.

    A function that an extension labels IMMUTABLE or STABLE is not one of these: a person has accepted that label.
    """
    return one.oid >= FIRST_OF_USERS and not (one.extension and one.volatility in ("i", "s"))


def is_named(one: ServerFunction, allowed: Sequence[str]) -> bool:
    """Return whether a person has named the function: by name, by name and types, or by its extension.

    The name of an extension allows only the functions that it labels IMMUTABLE or STABLE.
    """
    for entry in allowed:
        if entry.startswith(EXTENSION):
            if one.extension == entry.removeprefix(EXTENSION) and one.volatility in ("i", "s"):
                return True
        elif entry.replace(", ", ",") in (f"{one.schema}.{one.name}", one.signature):
            return True
    return False


def advice(one: ServerFunction, allowed: Sequence[str], known: Sequence[ServerFunction]) -> str:
    """Return the next step for a refused function. `known`: all functions that users of the database created.

    The text also lists the entries of the config that match no function, because one of them may be a misspelling.
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
