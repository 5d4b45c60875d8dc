"""Masks a packet before it is stored and decided on. Values that will be used stay exact; other secrets are not stored.

Any program may be the Finder, and it may put all of its input into a packet. The fields that the simulation declares
are the values of the action, so they stay exact. All other texts are masked. An id cannot be masked, so a packet with a
credential in an id is refused.
"""

from collections.abc import Callable, Collection
from typing import Any, Final

from remit.core.errors import Reason, RefusedError
from remit.masking import find_secrets, mask_json, mask_text

WORDS: Final = ("question", "intent")
FIELDS: Final = "fields"


def mask_packet(tree: dict[str, Any], declared: Callable[[], Collection[str]]) -> dict[str, Any]:
    """Return the masked packet. `declared` gives the fields of the packet's simulation. It is called only if needed."""
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
                "an id in the Finder's packet looks like a secret; nothing of the packet was stored",
                where=f"sim_finder_packet.{name}",
                next_step="Change the Finder so that its ids are digests or counters.",
            )
