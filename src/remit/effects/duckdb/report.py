"""What the host is told of statements that were run. Bounded: the host reads frames of a bounded size."""

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from remit.core.errors import Reason, RefusedError
from remit.effects.duckdb.rows import Rows
from remit.effects.duckdb.scan_rows import ScanResult
from remit.effects.duckdb.statements import DuckdbStatement

MAX_DESCRIPTION: Final = 512 << 10
"""Characters of what is told of all statements."""
MAX_TEXTS: Final = 500
"""Statements whose text is handed out, for a preview."""
MAX_TEXT: Final = 80_000
"""Characters of each: more than is shown in the end, so that a secret at the cut is seen whole when it is masked."""
MAX_FRAME: Final = 900 << 10
"""Of what can be long. Texts are left out first."""
_MAX_VOLATILE: Final = 10


class ExecutedStatement(NamedTuple):
    """One statement that was run, as it is told, and its rows."""

    statement: DuckdbStatement
    description: dict[str, Any]
    rows: Rows | None


def report_statements(
    executed: Sequence[ExecutedStatement], last: Rows | None, scan: ScanResult | None, *, changed: bool
) -> dict[str, Any]:
    """`rows` are the first of the last statement that reads, as text; `schema` are their columns.

    Of a statement, `reads` and `writes` are None if they are not known. Of the files that it leaves nothing is said
    but what was found in saved rows, and none is synced: the host hashes them itself, and what it makes of them is made
    durable.
    """
    description = [one.description for one in executed]
    if len(json.dumps(description)) > MAX_DESCRIPTION:
        raise RefusedError(
            Reason.SQL_REFUSED,
            "its statements have more columns and tables than can be shown",
            where="the SQL text",
            next_step="Split it into several.",
        )
    rows = last.preview if last is not None else []
    return {
        "statements": description,
        "texts": _texts(executed, MAX_FRAME - len(json.dumps([description, rows]))),
        "rows": rows,
        "result_rows": last.total if last is not None else 0,
        "schema": last.columns if last is not None else [],
        "names_are_values": any(one.statement.pivots for one in executed if one.rows is not None and one.rows is last),
        "changed": changed,
        "findings": [found._asdict() for found in scan.findings] if scan is not None else [],
        "remarks": [*_volatile(executed), *(scan.remarks if scan is not None else ())],
    }


def _texts(executed: Sequence[ExecutedStatement], remaining: int) -> list[str]:
    """Of the first statements, as many as there is room for."""
    texts: list[str] = []
    for one in executed[:MAX_TEXTS]:
        text = one.statement.text[:MAX_TEXT]
        remaining -= len(json.dumps(text))
        if remaining < 0:
            break
        texts.append(text)
    return texts


def _volatile(executed: Sequence[ExecutedStatement]) -> list[str]:
    """What is applied is run anew."""
    volatile = [one.statement for one in executed if one.statement.volatile]
    return [
        f"statement {one.number} ({one.kind}) asks for {', '.join(one.volatile)}: what is applied may differ from what "
        "is seen here"
        for one in volatile[:_MAX_VOLATILE]
    ]
