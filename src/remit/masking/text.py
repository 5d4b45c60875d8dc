"""The masks of free text, in their order."""

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

# Masks by name come before masks by shape, and wider shapes before narrower ones.
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


# A mask may join two parts of a text, which then look like a name and its value. Another round finds that. A text
# without a secret needs only one round.
_ROUNDS = 4


def mask_in_rounds(text: str, masks: tuple[Mask, ...]) -> str:
    for _ in range(_ROUNDS):
        before = text
        for mask in masks:
            text = mask(text)
        if text == before:
            break
    return text


# Such a text has no separator between a name and a value, and is too short for a number that would be masked.
_ONE_WORD = r"[A-Za-z0-9_./~,-]*"
_NUMBER_SIZED = r"[0-9_.-]{11}"
_LONGEST_WORD = 300

# Texts in which no secret was found, so this cache contains none.
_known_plain: Final[set[str]] = set()
_LONGEST_CACHED = 1_000
_MAX_CACHED = 512


def _is_one_plain_word(text: str) -> bool:
    """Return whether the text is one plain word. Most texts of a record are, and this test costs a tenth of a mask."""
    if len(text) > _LONGEST_WORD or not pattern(_ONE_WORD).fullmatch(text):
        return False
    return not pattern(_NUMBER_SIZED).search(text) and not any(hint in text for hint in KEY_HINTS)


def mask_text(text: str) -> str:
    """Return the text with every secret masked and the rest unchanged. Linear in the text's length, idempotent.

    Limit: a secret is found by a name beside it or by its shape. An encrypted, encoded or spelled-out secret is not.
    """
    if text in _known_plain or _is_one_plain_word(text):
        return text
    text = mask_in_rounds(text, _MASKS)
    _cache_plain(text)
    return text


def _cache_plain(plain: str) -> None:
    """Remember a text without secrets. A text is masked when shown and again when recorded, and many are repeated."""
    if len(plain) <= _LONGEST_CACHED:
        if len(_known_plain) >= _MAX_CACHED:
            _known_plain.clear()
        _known_plain.add(plain)


def mask_field(name: str, value: str, mask: Mask = mask_text) -> str:
    """Return the masked value of a field.

    It is masked whole if the name of the field is that of a secret. Otherwise `mask` masks the secrets in it.
    """
    if kind := kind_of_name(name):
        return named_mask(kind, value)
    card = written_card_mask(value) if is_card_name(name) else None
    return mask(value) if card is None else card
