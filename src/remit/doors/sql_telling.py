"""What a preview tells of the actions that run SQL, and how risky they are. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

from remit.contracts.base import RiskLevel
from remit.contracts.sql_told import SqlPreviewed, SqlTold, ToldStatement

MAX_SHOWN_CHARACTERS: Final = 1 << 20
"""Of the rows of a whole preview, and of the texts: past it, those of further actions are left out."""
_DESTROYING: Final = frozenset({"DELETE", "DROP"})


def previewed_sql(told: Mapping[int, SqlPreviewed]) -> list[SqlPreviewed]:
    """In the order of the steps, with as many rows and texts as there is room for. They were masked when they were
    read.
    """
    rows, texts, shown = _Room(), _Room(), []
    for _, one in sorted(told.items()):
        left_out: dict[str, tuple[()]] = {}
        if not rows.has(sum(len(cell or "") for line in one.rows for cell in line)):
            left_out["rows"] = ()
        if not texts.has(sum(map(len, one.texts))):
            left_out["texts"] = ()
        shown.append(one.model_copy(update=left_out) if left_out else one)
    return shown


class _Room:
    def __init__(self) -> None:
        self._left = MAX_SHOWN_CHARACTERS

    def has(self, size: int) -> bool:
        """Taken, if it has."""
        fits = size <= self._left
        self._left -= size if fits else 0
        return fits


def risks_of_sql(told: Iterable[SqlTold]) -> list[RiskLevel]:
    """What destroys is HIGH, and so is what cannot be undone, and what nobody was told of; another change of a database
    MEDIUM, and so are rows that take the place of a file.
    """
    return [_risk(one) for one in told]


def _risk(told: SqlTold) -> RiskLevel:
    if not told.changes_database:
        return "MEDIUM" if isinstance(told, SqlPreviewed) and told.replaces else "LOW"
    grave = told.left_out or told.irreversible or any(map(_destroys, told.statements))
    return "HIGH" if grave else "MEDIUM"


def _destroys(one: ToldStatement) -> bool:
    return one.destroys or one.kind in _DESTROYING
