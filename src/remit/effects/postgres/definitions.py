"""A digest of the definitions of tables: columns, keys, triggers, rules, policies, and the functions that they call.

An approval of statements that were planned and not run is bound to it. So the approval is void as soon as one of the
tables is another one.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Final

from remit.effects.postgres.dependencies import ReachedObjects, array
from remit.effects.postgres.libpq import PostgresWire

_TABLES: Final = """
SELECT n.nspname, c.relname, c.relkind, c.relpersistence, c.relispartition, c.relrowsecurity, c.relforcerowsecurity,
  pg_get_userbyid(c.relowner), pg_get_expr(c.relpartbound, c.oid), pg_get_partkeydef(c.oid),
  CASE WHEN c.relkind IN ('v', 'm') THEN pg_get_viewdef(c.oid) END
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ANY ($1::oid[]) ORDER BY 1, 2
"""
_COLUMNS: Final = """
SELECT a.attrelid::regclass::text, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
  a.attidentity, a.attgenerated, a.attcollation::regcollation::text, pg_get_expr(d.adbin, d.adrelid)
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = ANY ($1::oid[]) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY 1, 2
"""
_CONSTRAINTS: Final = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid), convalidated FROM pg_constraint
WHERE conrelid = ANY ($1::oid[]) OR confrelid = ANY ($1::oid[]) ORDER BY 1, 2
"""
_INDEXES: Final = """
SELECT pg_get_indexdef(indexrelid), indisunique, indisprimary, indisvalid FROM pg_index
WHERE indrelid = ANY ($1::oid[]) ORDER BY 1
"""
_TRIGGERS: Final = """
SELECT pg_get_triggerdef(oid), tgenabled FROM pg_trigger
WHERE tgrelid = ANY ($1::oid[]) AND NOT tgisinternal ORDER BY 1
"""
_RULES: Final = """
SELECT pg_get_ruledef(oid), ev_enabled FROM pg_rewrite WHERE ev_class = ANY ($1::oid[]) AND ev_type <> '1' ORDER BY 1
"""
_POLICIES: Final = """
SELECT polrelid::regclass::text, polname, polcmd, polpermissive, pg_get_expr(polqual, polrelid),
  pg_get_expr(polwithcheck, polrelid), array_to_string(polroles, ' ') FROM pg_policy
WHERE polrelid = ANY ($1::oid[]) ORDER BY 1, 2
"""
_PARENTS: Final = """
SELECT inhrelid::regclass::text, inhparent::regclass::text FROM pg_inherits
WHERE inhrelid = ANY ($1::oid[]) OR inhparent = ANY ($1::oid[]) ORDER BY 1, 2
"""
_FUNCTIONS: Final = """
SELECT oid::regprocedure::text, provolatile, prosecdef, md5(prosrc), md5(coalesce(prosqlbody::text, '')),
  array_to_string(proconfig, ' ') FROM pg_proc WHERE oid = ANY ($1::oid[]) ORDER BY 1
"""
_FUNCTIONS_BEFORE_14: Final = _FUNCTIONS.replace("md5(coalesce(prosqlbody::text, ''))", "''")
_OF_TABLES: Final = (_TABLES, _COLUMNS, _CONSTRAINTS, _INDEXES, _TRIGGERS, _RULES, _POLICIES, _PARENTS)
_ATOMIC_SINCE: Final = 140_000


def digest_definitions(wire: PostgresWire, reached: Iterable[ReachedObjects]) -> str:
    """Return the digest, in hexadecimal. Call it after `PostgresSession.apply_settings`, so that names are complete.

    Numbers of objects are left out, so a table that was restored from a dump is the same table.
    """
    tables: set[int] = set()
    functions: set[int] = set()
    for one in reached:
        tables |= one.writes | one.parents | one.reads | one.alters | one.sequences
        functions |= one.functions
    of_functions = _FUNCTIONS if wire.version >= _ATOMIC_SINCE else _FUNCTIONS_BEFORE_14
    found = [wire.do(query, array(sorted(tables))) for query in _OF_TABLES]
    found.append(wire.do(of_functions, array(sorted(functions))))
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()
