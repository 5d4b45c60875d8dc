"""Masked copies of JSON trees."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from remit.masking.names import Kind, counts_tokens, kind_of_name
from remit.masking.numbers import is_card
from remit.masking.patterns import pattern, vocabulary
from remit.masking.table import MASK, card_mask, named_mask
from remit.masking.text import mask_text

JsonLike: TypeAlias = "Mapping[str, JsonLike] | Sequence[JsonLike] | str | int | float | bool | None"
Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"

MAX_DEPTH: Final = 100  # deep enough for any message, shallow enough for every reader and writer of JSON

# {"name": "password", "value": "..."}: forms, headers, environments and browser actions name the secret in a sibling.
_NAMING_KEYS: Final = vocabulary(
    "env field header id key label locator name param parameter placeholder selector target type variable"
)
_NAMED_KEYS: Final = vocabulary("content data default input new_value newvalue old_value oldvalue text value values")
_LONGEST_LABEL = 200
_LONGEST_NAME = 64
_DIGEST = r"sha256:[0-9a-f]{64}"
_IDENTIFIER = r"[\w-]+"

_PRIVATE_JWK_MEMBERS: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_HEADER_KINDS: Final = frozenset({Kind.AUTHORIZATION, Kind.COOKIE})


class _Hint(NamedTuple):
    """What the way to a value says about it."""

    kind: Kind | None
    counts: bool = False


class _Task(NamedTuple):
    value: Any
    hint: _Hint
    into: Any  # the container under construction
    slot: Any  # the key or index in it
    depth: int


def _label_kind(label: object) -> Kind | None:
    if not isinstance(label, str) or len(label) > _LONGEST_LABEL:
        return None
    if kind := kind_of_name(label):
        return kind
    kinds = (kind_of_name(word) for word in pattern(_IDENTIFIER).findall(label))
    return next((kind for kind in kinds if kind), None)


def _member_hints(members: Mapping[Any, Any], outer: _Hint) -> Iterator[_Hint]:
    labels = [label for key, label in members.items() if str(key).lower() in _NAMING_KEYS]
    named = next((kind for kind in map(_label_kind, labels) if kind), None)
    inherited = _Hint(None) if outer.kind is Kind.AUTHORIZATION else outer
    for key in map(str, members):
        kind = kind_of_name(key)
        if kind is None and "kty" in members and key in _PRIVATE_JWK_MEMBERS:
            kind = Kind.PASSWORD
        if kind:
            yield _Hint(kind, counts_tokens(key))
        elif named and key.lower() in _NAMED_KEYS:
            yield _Hint(named)
        else:
            yield inherited


def _item_hints(items: Sequence[Any], outer: _Hint) -> Iterator[_Hint]:
    """The items of a list; the one after a secret option (an argv) or a secret header's name is that secret."""
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
    return card_mask(str(value)) if isinstance(value, int) and is_card(str(value)) else value


def _mask_leaf(value: object, hint: _Hint) -> Json:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        if hint.kind:
            return named_mask(hint.kind, value)
        # A digest alone is no secret, and every record has several.
        return value if pattern(_DIGEST).fullmatch(value) else mask_text(value)
    if isinstance(value, int | float):
        return _mask_number(value, hint)
    return MASK  # not JSON: what cannot be judged is not shown


def _unused(key: str, taken: dict[str, Any], last: dict[str, int]) -> str:
    """Two keys may share a mask; neither member may vanish for it. Numbering goes on from the `last` one given."""
    if key not in taken:
        return key
    number = last.get(key, 1) + 1
    while f"{key}#{number}" in taken:
        number += 1
    last[key] = number
    return f"{key}#{number}"


@lru_cache(maxsize=2_048)
def _plain_key(key: str) -> str:
    return mask_text(key)


def _mask_key(key: str) -> str:
    """Plain member names come again with every record. Anything else may be data, and is not kept."""
    return _plain_key(key) if len(key) <= _LONGEST_NAME and key.isidentifier() else mask_text(key)


def _open(task: _Task) -> Iterator[_Task]:
    """Puts the masked container into its slot, and yields what is to fill it."""
    if isinstance(task.value, Mapping):
        members: dict[str, Any] = {}
        numbers: dict[str, int] = {}
        task.into[task.slot] = members
        for (key, value), hint in zip(task.value.items(), _member_hints(task.value, task.hint), strict=True):
            shown = _unused(_mask_key(str(key)), members, numbers)
            members[shown] = None
            yield _Task(value, hint, members, shown, task.depth + 1)
    else:
        items: list[Any] = [None] * len(task.value)
        task.into[task.slot] = items
        for index, hint in enumerate(_item_hints(task.value, task.hint)):
            yield _Task(task.value[index], hint, items, index, task.depth + 1)


def mask_json(value: JsonLike, *, name: str = "", max_depth: int = MAX_DEPTH) -> Json:
    """A copy with every secret masked, by member name, by sibling name and by shape; keys are masked like any text.

    `name` is the field the value itself stands in. Containers nested deeper than `max_depth` become `********`, so any
    depth is safe. The value must be a tree: shared parts are copied each time they appear.
    """
    root: list[Any] = [None]
    tasks = [_Task(value, _Hint(kind_of_name(name), counts_tokens(name)), root, 0, 0)]
    while tasks:
        task = tasks.pop()
        if not isinstance(task.value, Mapping | list | tuple):
            task.into[task.slot] = _mask_leaf(task.value, task.hint)
        elif task.depth >= max_depth:
            task.into[task.slot] = MASK
        else:
            tasks.extend(_open(task))
    result: Json = root[0]
    return result
