"""Reports executed statements to the host. The report has a limited size, because the host reads limited frames."""

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from remit.core.errors import Reason, RefusedError
from remit.effects.duckdb.rows import Rows
from remit.effects.duckdb.scan_rows import ScanResult
from remit.effects.duckdb.statements import DuckdbStatement
from remit.effects.duckdb.traits import names_in_text

MAX_DESCRIPTION: Final = 512 << 10
"""The limit of the descriptions of all statements, in characters."""
MAX_TEXTS: Final = 500
"""The number of statements whose text is reported, for a preview."""
MAX_TEXT: Final = 80_000
"""The limit of each text, in characters.

It is above the limit of what is shown, so that masking sees a secret at the cut as a whole.
"""
MAX_FRAME: Final = 900 << 10
"""The limit of the parts that can be long. Texts are left out first."""
_MAX_VOLATILE: Final = 10


class ExecutedStatement(NamedTuple):
    """An executed statement, its description for the host, and its rows."""

    statement: DuckdbStatement
    description: dict[str, Any]
    rows: Rows | None


def report_statements(
    executed: Sequence[ExecutedStatement], last: Rows | None, scan: ScanResult | None, *, changed: bool
) -> dict[str, Any]:
    """Return the output of the effect.

    `rows` are the first rows of the last statement that reads, as text, and `schema` has their columns. `reads` and
    `writes` of a statement are None if they are not known. `names_from_rows` has the numbers of the columns whose names
    may be values of rows. The output says nothing about the files, except the findings in saved rows. The files are not
    synced: the host hashes them, and makes its own copies durable.
    """
    description = [one.description for one in executed]
    if len(json.dumps(description)) > MAX_DESCRIPTION:
        raise RefusedError(
            Reason.SQL_REFUSED,
            "its statements have more columns and tables than a preview can show",
            where="the SQL text",
            next_step="Split it into several actions.",
        )
    rows = last.preview if last is not None else []
    return {
        "statements": description,
        "texts": _texts(executed, MAX_FRAME - len(json.dumps([description, rows]))),
        "rows": rows,
        "result_rows": last.total if last is not None else 0,
        "schema": last.columns if last is not None else [],
        "names_from_rows": _names_from_rows(executed, last),
        "changed": changed,
        "findings": [found._asdict() for found in scan.findings] if scan is not None else [],
        "remarks": [*_volatile(executed), *(scan.remarks if scan is not None else ())],
    }


def _names_from_rows(executed: Sequence[ExecutedStatement], last: Rows | None) -> list[int]:
    """Return the columns of the last rows, from 1, whose names a PIVOT may have made of values. Those in its text are
    known to the author of the text.
    """
    pivoting = next((one.statement for one in executed if last is not None and one.rows is last), None)
    if pivoting is None or last is None or not pivoting.pivots:
        return []
    return [
        number
        for number, column in enumerate(last.columns, start=1)
        if not names_in_text(pivoting.text, column["name"])
    ]


def _texts(executed: Sequence[ExecutedStatement], remaining: int) -> list[str]:
    """Return the texts of the first statements, as many as fit."""
    texts: list[str] = []
    for one in executed[:MAX_TEXTS]:
        text = one.statement.text[:MAX_TEXT]
        remaining -= len(json.dumps(text))
        if remaining < 0:
            break
        texts.append(text)
    return texts


def _volatile(executed: Sequence[ExecutedStatement]) -> list[str]:
    """Return remarks about results that may differ if the preview is computed again. This one is what is applied."""
    volatile = [one.statement for one in executed if one.statement.volatile]
    return [
        f"statement {one.number} ({one.kind}) uses {', '.join(one.volatile)}: a preview that is computed again may "
        "have another result"
        for one in volatile[:_MAX_VOLATILE]
    ]
