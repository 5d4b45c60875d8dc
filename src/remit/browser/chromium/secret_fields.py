"""The fields of a page whose values no picture and no snapshot may show."""

from collections.abc import Sequence
from typing import Final

from remit.masking import find_secrets, mask_text
from remit.masking.field_names import Kind, is_card_name, kind_of_name
from remit.masking.masks import written_card_mask

_AUTOCOMPLETE: Final = {
    "current-password": Kind.PASSWORD,
    "new-password": Kind.PASSWORD,
    "one-time-code": Kind.PASSWORD,
    "cc-number": Kind.CARD,
    "cc-csc": Kind.PASSWORD,
    "cc-exp": Kind.PASSWORD,
    "cc-exp-month": Kind.PASSWORD,
    "cc-exp-year": Kind.PASSWORD,
}


def is_hidden_in_pictures(kind: str, words: Sequence[str], value: str) -> bool:
    """Whether pictures hide a field. Besides secret fields, these are fields with text that would be masked, such as an
    e-mail address, because a part of a picture cannot be masked as text can.
    """
    return is_secret_field(kind, words, value) or mask_text(value) != value


def is_secret_field(kind: str, words: Sequence[str], value: str = "") -> bool:
    """Whether a field is secret: by its type, its name, its label or its purpose, or by its value, such as a card
    number or a key.

    Limit: a field is shown if neither its name nor its value suggests a secret.
    """
    if secret_kind(kind, words, value) is not None:
        return True
    return (
        bool(value)
        and kind != "email"
        and "@" not in value
        and (mask_text(value) != value or bool(find_secrets(value)))
    )


def secret_kind(kind: str, words: Sequence[str], value: str = "") -> Kind | None:
    """Return the kind of secret of a field, by its type, name, label or purpose. None if they suggest none."""
    if kind == "password":
        return Kind.PASSWORD
    if found := next((known for word in words if (known := kind_of_name(word))), None):
        return found
    purposes = (purpose for word in words for purpose in word.lower().split())
    if found := next((_AUTOCOMPLETE[purpose] for purpose in purposes if purpose in _AUTOCOMPLETE), None):
        return found
    is_card = any(map(is_card_name, words)) and written_card_mask(value) is not None
    return Kind.CARD if is_card else None
