"""What the Finder has learned: points for simulations whose matches users have accepted. They only move the ranking.

A match is accepted if the user confirmed it and it succeeded. A match that was rolled back later is not one. The
points follow from the ledger of the tenant up to one entry, and from the catalogue. So the proof of a packet, which
names that entry, is enough to compute them again. No gate, plan or dispatch reads them.

Remit learns after every 100 entries, from the newest 20,000. Between two such moments the Finder stays the same.
"""

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from remit.core.errors import RemitError
from remit.core.ttl_cache import TTLCache
from remit.goals.catalogue.catalogue import Catalogue
from remit.goals.composite.layout import FIRST_STEP, WHOLE
from remit.goals.finder.scoring import MAX_BONUS
from remit.ledger.documents import DocumentStore
from remit.ledger.goal_queries import accepted_matches, newest_step_seq
from remit.store.connection import Connection

BLOCK: Final = 100
WINDOW: Final = 20_000
_POINTS: Final = 50
"""The points for the first accepted match. Each doubling of the number of matches gives as many again."""


class Learned(NamedTuple):
    """The points by simulation, and the last entry of the ledger from which they follow."""

    until: int
    points: Mapping[str, int]


class Learning:
    """Computes what the Finder has learned, at most once for each moment and catalogue."""

    def __init__(self) -> None:
        self._cache: TTLCache[tuple[str, int, str], Learned] = TTLCache(64, 3_600)

    def read(self, connection: Connection, catalogue: Catalogue) -> Learned:
        until = newest_step_seq(connection, catalogue.tenant_id) // BLOCK * BLOCK
        key = (catalogue.tenant_id, until, catalogue.ref)
        return self._cache.get(key, lambda: learn(connection, catalogue, until))


def learn(connection: Connection, catalogue: Catalogue, until: int) -> Learned:
    """Compute the points of the simulations of a catalogue, from the entries up to `until`. Always the same result."""
    tenant_id, accepted = catalogue.tenant_id, Counter[str]()
    documents = DocumentStore(connection, tenant_id)
    for match in accepted_matches(connection, tenant_id, (until - WINDOW, until), (FIRST_STEP, WHOLE)):
        name = match.simulation_id or _composite_in(documents, match.packet_ref)
        accepted[name] += -1 if match.is_rolled_back else 1
    points = {name: points_for(accepted[name]) for name in sorted(accepted) if catalogue.find(name) is not None}
    return Learned(until, MappingProxyType({name: each for name, each in points.items() if each}))


def _composite_in(documents: DocumentStore, packet_ref: str) -> str:
    """Return the simulation of a goal with several steps. Empty if the packet is lost: no request may fail for that."""
    try:
        return str(documents.tree(packet_ref)["candidates"][0]["simulation_id"])
    except (RemitError, LookupError, TypeError):
        return ""


def points_for(accepted: int) -> int:
    """Return the points for a number of accepted matches: 50 for 1, 100 for 2, 150 for 4, up to 500."""
    return min(MAX_BONUS, _POINTS * accepted.bit_length()) if accepted > 0 else 0
