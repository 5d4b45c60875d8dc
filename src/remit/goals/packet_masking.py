"""A packet as it is kept and decided on: what runs stays exact, and a secret in anything else is kept nowhere.

A Finder may be anybody's, and may put into its packet whatever it was told. The fields that the simulation declares are
what will be done, so they stay as they are. All other words are masked. An id cannot be masked and still be one: with a
credential in it, the packet is refused.
"""

from collections.abc import Callable, Collection
from typing import Any, Final

from remit.core.errors import Reason, RefusedError
from remit.masking import find_secrets, mask_json, mask_text

WORDS: Final = ("question", "intent")
FIELDS: Final = "fields"


def mask_packet(tree: dict[str, Any], declared: Callable[[], Collection[str]]) -> dict[str, Any]:
    """`declared` gives the names of the fields that the packet's simulation has: asked for only if it matters."""
    if mask_json(tree) == tree:
        return tree
    masked_tree = {name: mask_text(value) if name in WORDS else value for name, value in tree.items()}
    for name, value in masked_tree.items():
        if name not in {*WORDS, FIELDS}:
            _require_no_secret(name, value)
    fields = tree.get(FIELDS)
    if isinstance(fields, dict) and mask_json(fields) != fields:
        exact = frozenset(declared())
        masked_tree[FIELDS] = {
            masked_name: masked_value
            for name, value in fields.items()
            for masked_name, masked_value in ({name: value} if name in exact else _masked({name: value})).items()
        }
    return masked_tree


def _masked(member: dict[str, Any]) -> dict[str, Any]:
    masked: Any = mask_json(member)
    return dict(masked)


def _require_no_secret(name: str, value: Any) -> None:
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, dict):
            for key, inner in each.items():
                _require_no_secret(f"{name}.{key}", inner)
        elif isinstance(each, str) and next(iter(find_secrets(each)), None) is not None:
            raise RefusedError(
                Reason.BINDING_MISMATCH,
                "an id in the Finder's packet holds what looks like a secret; nothing of it was kept",
                where=f"sim_finder_packet.{name}",
                next_step="Let the Finder make its ids of digests or counters.",
            )
