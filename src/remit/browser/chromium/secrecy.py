"""Which fields of a page hold something that no picture and no snapshot may show."""

from collections.abc import Sequence
from typing import Final

from remit.masking import find_secrets, is_secret_name, mask_text

_AUTOCOMPLETE: Final = frozenset(
    {
        "current-password",
        "new-password",
        "one-time-code",
        "cc-number",
        "cc-csc",
        "cc-exp",
        "cc-exp-month",
        "cc-exp-year",
    }
)


def is_hidden_in_pictures(kind: str, words: Sequence[str], value: str) -> bool:
    """Besides those, a field with anything that is masked as text, such as an e-mail address: a picture cannot be."""
    return is_secret_field(kind, words, value) or mask_text(value) != value


def is_secret_field(kind: str, words: Sequence[str], value: str = "") -> bool:
    """By its type, by what its name, label or purpose say, and by what stands in it: a card number, a key.

    Limit: a field that is named after nothing and holds what looks like nothing is shown.
    """
    if kind == "password" or any(is_secret_name(word) for word in words):
        return True
    if any(purpose in _AUTOCOMPLETE for word in words for purpose in word.lower().split()):
        return True
    return (
        bool(value)
        and kind != "email"
        and "@" not in value
        and (mask_text(value) != value or bool(find_secrets(value)))
    )
