"""All masks of free text, in their order."""

from collections.abc import Callable
from typing import Final

from remit.masking.credentials import KEY_HINTS, mask_private_keys, mask_shapes
from remit.masking.field_names import is_card_name, kind_of_name
from remit.masking.key_value import mask_pairs
from remit.masking.masks import named_mask, written_card_mask
from remit.masking.numbers import mask_cards, mask_ssns
from remit.masking.prose import mask_prose_secrets
from remit.masking.regex_cache import pattern
from remit.masking.urls import mask_emails, mask_passwords_in_addresses

Mask = Callable[[str], str]

# What a name says goes before what a shape says, and the wider shape before the narrower.
_MASKS: Final[tuple[Mask, ...]] = (
    mask_private_keys,
    mask_passwords_in_addresses,
    mask_pairs,
    mask_prose_secrets,
    mask_shapes,
    mask_ssns,
    mask_cards,
    mask_emails,
)


# A mask may close the gap between two neighbours, which then read as a name and its value. One more round finds that;
# a text without a secret costs one round only.
_ROUNDS = 4


def mask_in_rounds(text: str, masks: tuple[Mask, ...]) -> str:
    for _ in range(_ROUNDS):
        before = text
        for mask in masks:
            text = mask(text)
        if text == before:
            break
    return text


# Nothing in such a text can part a name from its value; nor is there room for a number that would be masked.
_ONE_WORD = r"[A-Za-z0-9_./~,-]*"
_NUMBER_SIZED = r"[0-9_.-]{11}"
_LONGEST_WORD = 300

# Texts that were looked through and hold no secret, so keeping them gives none away.
_known_plain: Final[set[str]] = set()
_LONGEST_CACHED = 1_000
_MAX_CACHED = 512


def _is_one_plain_word(text: str) -> bool:
    """Most texts of a record are names and paths, and cost a tenth this way."""
    if len(text) > _LONGEST_WORD or not pattern(_ONE_WORD).fullmatch(text):
        return False
    return not pattern(_NUMBER_SIZED).search(text) and not any(hint in text for hint in KEY_HINTS)


def mask_text(text: str) -> str:
    """The text with every secret in it masked; all else stays as it is. Linear in the text's length, idempotent.

    Limit: a secret is found by a name beside it or by its shape. One that is encrypted, encoded or spelled out is not.
    """
    if text in _known_plain or _is_one_plain_word(text):
        return text
    text = mask_in_rounds(text, _MASKS)
    _cache_plain(text)
    return text


def _cache_plain(plain: str) -> None:
    """A sentence is masked when it is shown and again when it is recorded; most of them come with every task."""
    if len(plain) <= _LONGEST_CACHED:
        if len(_known_plain) >= _MAX_CACHED:
            _known_plain.clear()
        _known_plain.add(plain)


def mask_field(name: str, value: str, mask: Mask = mask_text) -> str:
    """The value of a named field, masked whole if the name says it is a secret, else by what `mask` finds in it."""
    if kind := kind_of_name(name):
        return named_mask(kind, value)
    card = written_card_mask(value) if is_card_name(name) else None
    return mask(value) if card is None else card
