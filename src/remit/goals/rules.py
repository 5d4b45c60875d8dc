"""The rules of the gates: the catalogue, the access policy and the lexicon, as they are now or as they were.

Current rules are checked each time, and read again when their files or the promotions in the ledger have changed, and
every few seconds. Past rules are built again from their documents. Built rules are cached under their digests, for a
limited time and up to a limited number. A cache saves work. It cannot change a decision, because a digest belongs to
exactly one content.
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
    """The rules of the gates at one moment, and the documents from which they can be built again."""

    catalogue: Catalogue
    policy: AccessPolicy
    lexicon: Lexicon
    documents: tuple[StoredDocument, ...]


class LiveRules(Protocol):
    def __call__(self, tenant_id: str, connection: Connection) -> Rules:
        """Return the current rules, the same object as long as they are unchanged. Raises if they are unreadable."""


class PastRules:
    """Past rules by reference. If a document is missing from the store, the replay fails, even if it is cached."""

    def __init__(self) -> None:
        self._catalogues: TTLCache[str, Catalogue] = TTLCache(CACHE_ENTRIES, CACHE_SECONDS)
        self._policies: TTLCache[str, AccessPolicy] = TTLCache(CACHE_ENTRIES, CACHE_SECONDS)
        self._lexicons: TTLCache[str, Lexicon] = TTLCache(CACHE_ENTRIES, CACHE_SECONDS)

    def remember(self, rules: Rules) -> None:
        """Add the current rules to the cache, because the next decision will refer to them."""
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
    """Return the name of the lexicon document: the reference without the version before the `@`."""
    return ref.rpartition("@")[2]


def _built(cache: TTLCache[str, N], documents: DocumentStore, ref: str, build: Callable[[dict[str, Any]], N]) -> N:
    body = documents.body(ref)  # read each time, so that a missing document is noticed in spite of the cache
    return cache.get(ref, lambda: build(tree_of(ref, body)))


def _same(ref: str, made: N) -> N:
    if made.ref != ref:
        raise RefusedError(
            Reason.REPLAY_FAILED,
            "the rules built from a snapshot have another digest than the snapshot",
            where=f"document {ref}",
            next_step="Use the version of Remit that made the decision.",
        )
    return made
