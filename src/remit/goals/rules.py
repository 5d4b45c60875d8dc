"""Where the gates' rules come from: the catalogue, the policy and the lexicon, as they are now or as they were.

What is in force is looked at each time, and read anew when its files, or the ledger's word on who promoted what, have
changed, and every few seconds. What was in force is built again from its document. Built things are cached under their
digests, for a time and up to a number: a cache can save work, and it cannot let anything through, since a digest stands
for exactly one content.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from remit.core.errors import Reason, RefusedError
from remit.core.ttl_cache import TTLCache
from remit.goals.access.policy import AccessPolicy
from remit.goals.catalogue.catalogue import Catalogue
from remit.goals.confirmation.parser import Lexicon
from remit.ledger.documents import DocumentStore, StoredDocument, tree_of
from remit.store.connection import Connection

CACHE_SECONDS: Final = 300.0
CACHE_ENTRIES: Final = 64


@dataclass(frozen=True, slots=True)
class Rules:
    """What the gates go by at one moment, with the documents that it can be built from again."""

    catalogue: Catalogue
    policy: AccessPolicy
    lexicon: Lexicon
    documents: tuple[StoredDocument, ...]


class LiveRules(Protocol):
    def __call__(self, tenant_id: str, connection: Connection) -> Rules:
        """As they are now. Raises if they cannot be read. The same object for as long as they are the same."""


class PastRules:
    """Snapshots by their names. One that is gone from the store fails the replay, cached or not."""

    def __init__(self) -> None:
        self._catalogues: TTLCache[str, Catalogue] = TTLCache(CACHE_ENTRIES, CACHE_SECONDS)
        self._policies: TTLCache[str, AccessPolicy] = TTLCache(CACHE_ENTRIES, CACHE_SECONDS)
        self._lexicons: TTLCache[str, Lexicon] = TTLCache(CACHE_ENTRIES, CACHE_SECONDS)

    def remember(self, rules: Rules) -> None:
        """What is in force now is the past of a decision that is about to be made: no need to build it again then."""
        self._catalogues.get(rules.catalogue.ref, lambda: rules.catalogue)
        self._policies.get(rules.policy.ref, lambda: rules.policy)
        self._lexicons.get(lexicon_name(rules.lexicon.ref), lambda: rules.lexicon)

    def catalogue(self, documents: DocumentStore, ref: str) -> Catalogue:
        return _same(ref, _built(self._catalogues, documents, ref, Catalogue.from_document))

    def policy(self, documents: DocumentStore, ref: str) -> AccessPolicy:
        return _same(ref, _built(self._policies, documents, ref, AccessPolicy.from_document))

    def lexicon(self, documents: DocumentStore, ref: str) -> Lexicon:
        return _same(ref, _built(self._lexicons, documents, lexicon_name(ref), Lexicon.from_document))


class _Named(Protocol):
    @property
    def ref(self) -> str: ...


N = TypeVar("N", bound=_Named)


def lexicon_name(ref: str) -> str:
    """Its document's: the ref says the version before it."""
    return ref.rpartition("@")[2]


def _built(cache: TTLCache[str, N], documents: DocumentStore, ref: str, build: Callable[[dict[str, Any]], N]) -> N:
    body = documents.body(ref)  # always: what is kept saves the reading of it, not its being there
    return cache.get(ref, lambda: build(tree_of(ref, body)))


def _same(ref: str, made: N) -> N:
    if made.ref != ref:
        raise RefusedError(
            Reason.REPLAY_FAILED,
            "a snapshot does not give again what it was taken of",
            where=f"document {ref}",
            next_step="Use the version of Remit that made the decision.",
        )
    return made
