"""What a preview tells of the actions that run SQL, and how risky they are. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

from remit.contracts.base import RiskLevel
from remit.contracts.sql_told import SqlPreviewed, SqlTold, ToldStatement

MAX_ROWS_CHARACTERS: Final = 1 << 20
"""Of the rows of a whole preview: past it, those of further actions are left out."""
_DESTROYING: Final = frozenset({"DELETE", "DROP"})


def previewed_sql(told: Mapping[int, SqlPreviewed]) -> list[SqlPreviewed]:
    """In the order of the steps, with as many rows as there is room for. They were masked when they were read."""
    room, shown = MAX_ROWS_CHARACTERS, []
    for _, one in sorted(told.items()):
        size = sum(len(cell or "") for line in one.rows for cell in line)
        fits = size <= room
        room -= size if fits else 0
        shown.append(one if fits else one.model_copy(update={"rows": ()}))
    return shown


def risks_of_sql(told: Iterable[SqlTold]) -> list[RiskLevel]:
    """What destroys is HIGH, and so is what nobody was told of; another change of a database MEDIUM."""
    return [_risk(one) for one in told]


def _risk(told: SqlTold) -> RiskLevel:
    if not told.changes_database:
        return "LOW"
    return "HIGH" if told.left_out or any(map(_destroys, told.statements)) else "MEDIUM"


def _destroys(one: ToldStatement) -> bool:
    return one.destroys or one.kind in _DESTROYING
