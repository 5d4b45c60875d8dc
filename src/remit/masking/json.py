"""Masked copies of JSON trees."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from remit.masking.field_names import Kind, counts_tokens, is_card_name, kind_of_name
from remit.masking.masks import MASK, card_mask, named_mask, written_card_mask
from remit.masking.numbers import is_card
from remit.masking.regex_cache import pattern, vocabulary
from remit.masking.text import Mask, mask_text

JsonLike: TypeAlias = "Mapping[str, JsonLike] | Sequence[JsonLike] | str | int | float | bool | None"
Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"

MAX_DEPTH: Final = 100  # deep enough for any message, shallow enough for every reader and writer of JSON

# {"name": "password", "value": "..."}: in forms, headers, environments and browser actions a sibling has the name.
_NAMING_KEYS: Final = vocabulary(
    "env field header id key label locator name param parameter placeholder selector target type variable"
)
_NAMED_KEYS: Final = vocabulary("content data default input new_value newvalue old_value oldvalue text value values")
_CARD_MEMBERS: Final = vocabulary("digits no num number value")
_LONGEST_LABEL = 200
_LONGEST_NAME = 64
_WORDS_OF_A_NAME = 2  # "API key", "card number"; a longer text is a remark
_DIGEST = r"sha256:[0-9a-f]{64}"
_IDENTIFIER = r"[\w-]+"

_PRIVATE_JWK_MEMBERS: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_HEADER_KINDS: Final = frozenset({Kind.AUTHORIZATION, Kind.COOKIE})


class _Hint(NamedTuple):
    """What the names on the path to a value say about it."""

    kind: Kind | None
    counts: bool = False
    is_card: bool = False
    """The name is that of a card, so its digits are a card number."""


class _Key(NamedTuple):
    """The name of a member, and what it says."""

    shown: str
    hint: _Hint | None
    names: bool
    """Whether the value of this member may be the name of a sibling's value."""
    named: bool
    """Whether a sibling may hold the name of this member's value."""


class _How(NamedTuple):
    mask: Mask
    whole_labels: bool


_NOTHING_KNOWN: Final = _Hint(None)


def _judge(key: str) -> _Key:
    kind, lowered = kind_of_name(key), key.lower()
    is_card = kind is None and is_card_name(key)
    hint = _Hint(kind, counts_tokens(key), is_card) if kind or is_card else None
    return _Key(mask_text(key), hint, lowered in _NAMING_KEYS, lowered in _NAMED_KEYS)


_judge_plain = lru_cache(maxsize=2_048)(_judge)


def _judged(key: str) -> _Key:
    """Judge a member's name. Plain names are cached, since every record has them. Other names may be data."""
    return _judge_plain(key) if len(key) <= _LONGEST_NAME and key.isidentifier() else _judge(key)


def _label_kind(label: object, *, is_whole: bool) -> Kind | None:
    if not isinstance(label, str) or len(label) > _LONGEST_LABEL:
        return None
    kind = kind_of_name(label)
    if kind or is_whole:
        return kind if not is_whole or len(label.split()) <= _WORDS_OF_A_NAME else None
    kinds = (kind_of_name(word) for word in pattern(_IDENTIFIER).findall(label))
    return next((kind for kind in kinds if kind), None)


def _item_hints(items: Sequence[Any], outer: _Hint) -> Iterator[_Hint]:
    """Yield the hint of each item of a list.

    The item after a secret option of a command line, or after the name of a secret header, is the secret.
    """
    before: Kind | None = None
    for index, item in enumerate(items):
        yield _Hint(before) if before else outer
        before = None
        if isinstance(item, str) and (kind := kind_of_name(item)):
            is_option = item.startswith("-") and "=" not in item
            is_header = len(items) == 2 and index == 0 and (kind in _HEADER_KINDS or item.lower().startswith("x-"))
            before = kind if is_option or is_header else None


def _mask_number(value: float, hint: _Hint) -> Json:
    if hint.kind:
        return value if hint.counts else named_mask(hint.kind, str(value))
    card = written_card_mask(str(value)) if hint.is_card and isinstance(value, int) else None
    if card is not None:
        return card
    return card_mask(str(value)) if isinstance(value, int) and is_card(str(value)) else value


def _mask_string(value: str, hint: _Hint, mask: Mask) -> str:
    if hint.kind:
        return named_mask(hint.kind, value)
    card = written_card_mask(value) if hint.is_card else None
    if card is not None:
        return card
    # A digest alone is not a secret, and every record has several.
    return value if pattern(_DIGEST).fullmatch(value) else mask(value)


def _mask_scalar(value: object, hint: _Hint) -> Json:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return _mask_number(value, hint)
    return MASK  # not JSON: a value of unknown kind is not shown


def _unused(key: str, used_names: dict[str, Any], last: dict[str, int]) -> str:
    """Return a name for a masked key that no other member has. Two keys may have the same mask.

    Numbering continues from the `last` number.
    """
    if key not in used_names:
        return key
    number = last.get(key, 1) + 1
    while f"{key}#{number}" in used_names:
        number += 1
    last[key] = number
    return f"{key}#{number}"


def _mask_members(members: Mapping[Any, Any], outer: _Hint, depth: int, how: _How) -> dict[str, Json]:
    keys = [_judged(str(key)) for key in members]
    labels = (label for key, label in zip(keys, members.values(), strict=True) if key.names)
    kinds = (_label_kind(label, is_whole=how.whole_labels) for label in labels)
    named = next((_Hint(kind) for kind in kinds if kind), None)
    inherited = _NOTHING_KNOWN if outer.kind is Kind.AUTHORIZATION or outer.is_card else outer
    is_jwk = "kty" in members
    masked: dict[str, Json] = {}
    numbers: dict[str, int] = {}
    for judged, (key, value) in zip(keys, members.items(), strict=True):
        hint = judged.hint or (named if judged.named else None) or inherited
        if outer.is_card and judged.hint is None and str(key).lower() in _CARD_MEMBERS:
            hint = outer  # {"card": {"number": ...}}; an amount or an id beside it is not a card number
        if is_jwk and judged.hint is None and str(key) in _PRIVATE_JWK_MEMBERS:
            hint = _Hint(Kind.PASSWORD)
        masked[_unused(judged.shown, masked, numbers)] = _mask(value, hint, depth, how)
    return masked


def _mask(value: object, hint: _Hint, depth: int, how: _How) -> Json:
    """Return the masked value. `depth` is the number of levels that it may still have."""
    if isinstance(value, str):
        return _mask_string(value, hint, how.mask)
    if isinstance(value, Mapping | list | tuple):
        if depth <= 0:
            return MASK
        if isinstance(value, Mapping):
            return _mask_members(value, hint, depth - 1, how)
        hints = _item_hints(value, hint)
        return [_mask(item, known, depth - 1, how) for item, known in zip(value, hints, strict=True)]
    return _mask_scalar(value, hint)


def mask_json(
    value: JsonLike,
    *,
    name: str = "",
    max_depth: int = MAX_DEPTH,
    mask: Mask = mask_text,
    whole_labels: bool = False,
) -> Json:
    """Return a copy with every secret masked, by member name, by sibling name and by shape. Keys are masked like texts.

    `name` is the field of the value itself. `mask` is used for texts without a telling name. With `whole_labels`, only
    the whole text of a sibling can be the name of a value; that is for texts that a person approves. Containers nested
    deeper than `max_depth` become `********`, so any depth is safe. The value must be a tree: shared parts are copied
    each time they appear.
    """
    kind = kind_of_name(name)
    hint = _Hint(kind, counts_tokens(name), kind is None and is_card_name(name))
    return _mask(value, hint, max_depth, _How(mask, whole_labels))


def mask_texts(value: JsonLike, mask: Mask, name: str = "") -> Json:
    """Return a copy with every text masked by its own name and shape alone. Siblings are ignored."""
    if isinstance(value, str):
        kind = None if counts_tokens(name) and value.isdecimal() else kind_of_name(name)
        if kind is None and is_card_name(name) and (card := written_card_mask(value)) is not None:
            return card
        return named_mask(kind, value) if kind else mask(value)
    if isinstance(value, Mapping):
        return {key: mask_texts(member, mask, key) for key, member in value.items()}
    return [mask_texts(item, mask) for item in value] if isinstance(value, Sequence) else value
