"""Which plans are stopped in which ways."""

from functools import partial
from typing import Final

from tests.crash.plans.scenarios import CASES
from tests.crash.tasks.jobs import Job

job: Final = partial(Job, scenarios="tests.crash.plans.scenarios")

SABOTAGED: Final = (
    job("edits", "power", "ledger apart", step=3, sabotage="no fsync of parts", finds=True),
    job("edits", "power", "ledger apart", step=3, sabotage="no fsync of target folders", finds=True),
    job("edits", "power", "ledger apart", step=3, sabotage="no fsync of backups", finds=True),
    job("edits", "power", "ledger apart", step=3, sabotage="no fsync of the ledger", finds=True),
    job("sql", "power", "ledger apart", step=3, sabotage="no fsync of parts", finds=True),
)
"""The product itself, with calls taken away from it by the supervisor: proof that the judge of plans is not blind."""

_MAIN: Final = ("edits", "failing", "rollback")
_SQL: Final = ("sql", "sql rollback")
_APART: Final = ("together", "ledger apart")
FULL: Final = (
    *(job(name, "kill", "together") for name in (*CASES, "rollback", "sql rollback", "pipeline rollback")),
    *(job(name, "power", layout) for name in ("edits", "chain", "failing", "rollback") for layout in _APART),
    *(job(name, way, "together") for way in ("EIO", "ENOSPC", "short") for name in _MAIN),
    *(job(name, "full", "together", step=2) for name in _MAIN),
    *(job(name, "nested", "together", step=5, second=9) for name in _MAIN),
    job("edits, retried", "kill", "together", step=3),
    job("edits", "renumbered", "together", step=3),
    *(job(name, "power", layout, step=3) for name in _SQL for layout in _APART),
    *(job(name, way, "together", step=3) for way in ("EIO", "ENOSPC", "short", "full") for name in _SQL),
    *(job(name, "nested", "together", step=15, second=27) for name in _SQL),
    job("sql, retried", "kill", "together", step=3),
    job("sql", "renumbered", "together", step=9),
    *(job("pipeline", "power", layout, step=5) for layout in _APART),
    *(job("pipeline", way, "together", step=5) for way in ("EIO", "ENOSPC", "short", "full")),
    job("pipeline", "nested", "together", step=21, second=33),
    job("server", "kill", "together"),
    job("server", "nested", "together", step=21, second=33),
)
SLICE: Final = (
    job("edits", "kill", "together", step=7, place="set aside"),
    job("chain", "power", "ledger apart", step=4, place="set aside"),
    job("failing", "full", "together", place="set aside"),
    job("pipeline", "kill", "together", step=10, place="set aside"),
)
