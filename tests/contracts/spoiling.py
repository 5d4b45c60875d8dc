"""Ways to spoil a valid document, found by walking the parsed model beside it."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from remit.contracts.base import Contract

Place = tuple[str | int, ...]

# Fields that hold somebody else's JSON: any value is right.
FREE_FIELDS = {"value", "expected"}


@dataclass(frozen=True)
class Spoiled:
    place: Place
    document: Any

    @property
    def label(self) -> str:
        return ".".join(str(part) for part in self.place)


def closed_objects(model: Contract, place: Place = ()) -> Iterator[tuple[Place, Contract]]:
    """Every closed model in this one, itself included, with its place in the document."""
    yield place, model
    for name, field in type(model).model_fields.items():
        yield from _below(getattr(model, name), (*place, field.alias or name))


def _below(value: Any, place: Place) -> Iterator[tuple[Place, Contract]]:
    if isinstance(value, Contract):
        yield from closed_objects(value, place)
    elif isinstance(value, tuple):
        for number, item in enumerate(value):
            yield from _below(item, (*place, number))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _below(item, (*place, key))


def whole_tree(model: Contract) -> dict[str, Any]:
    """The document with every field. `tree()` leaves some of them out while they have their default."""
    tree: dict[str, Any] = _whole(model)
    return tree


def _whole(value: Any) -> Any:
    if isinstance(value, Contract):
        return {field.alias or name: _whole(getattr(value, name)) for name, field in type(value).model_fields.items()}
    if isinstance(value, tuple):
        return [_whole(item) for item in value]
    return {key: _whole(item) for key, item in value.items()} if isinstance(value, dict) else value


def with_unknown_fields(model: Contract) -> Iterator[Spoiled]:
    for place, _ in closed_objects(model):
        document = whole_tree(model)
        _at(document, place)["surprise"] = 1
        yield Spoiled((*place, "surprise"), document)


def with_missing_fields(model: Contract) -> Iterator[Spoiled]:
    for place, part in closed_objects(model):
        for name, field in type(part).model_fields.items():
            if field.is_required():
                document = whole_tree(model)
                wire_name = field.alias or name
                del _at(document, place)[wire_name]
                yield Spoiled((*place, wire_name), document)


def with_wrong_types(model: Contract) -> Iterator[Spoiled]:
    for place, part in closed_objects(model):
        for name, field in type(part).model_fields.items():
            if _is_free(name, field):
                continue
            wire_name = field.alias or name
            present = _at(whole_tree(model), place)[wire_name]
            for wrong in _wrong_values(present, field):
                document = whole_tree(model)
                _at(document, place)[wire_name] = deepcopy(wrong)
                yield Spoiled((*place, wire_name), document)


def string_fields(model: Contract) -> Iterator[tuple[Place, str]]:
    """Every string of a closed model that is a field's own value."""
    for place, part in closed_objects(model):
        for name, field in type(part).model_fields.items():
            if isinstance(getattr(part, name), str) and not _is_free(name, field):
                yield place, field.alias or name


def replaced(model: Contract, place: Place, name: str, value: Any) -> Any:
    document = whole_tree(model)
    _at(document, place)[name] = value
    return document


def _at(document: Any, place: Place) -> Any:
    for part in place:
        document = document[part]
    return document


def _wrong_values(present: Any, field: FieldInfo) -> Iterator[Any]:
    """Values of other JSON types than the one that stands there; null unless the field may be null."""
    if not _nullable(field.annotation):
        yield None
    accepted = _json_kinds(field.annotation)
    for kind, value in (("string", "7"), ("number", 7.25), ("boolean", True), ("array", [[]]), ("object", {"?": 1})):
        if kind not in accepted:
            yield value
    if "number" not in accepted:  # to Python, 0 and 1 equal false and true
        yield from (0, 1)
    if "number" in accepted and isinstance(present, int):
        yield from (str(present), present + 0.5)


def _json_kinds(annotation: Any) -> set[str]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _json_kinds(arguments[0])
    if origin in (Union, UnionType):
        return set().union(*(_json_kinds(argument) for argument in arguments))
    if origin is tuple:
        return {"array"}
    if origin is dict or annotation is dict or (isinstance(annotation, type) and issubclass(annotation, Contract)):
        return {"object"}
    if arguments:  # a Literal
        return set().union(*(_json_kinds(type(argument)) for argument in arguments))
    return {str: {"string"}, bool: {"boolean"}, int: {"number"}, float: {"number"}, NoneType: set()}[annotation]


def _nullable(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        return _nullable(get_args(annotation)[0])
    return annotation is NoneType or NoneType in get_args(annotation)


def _is_free(name: str, field: FieldInfo) -> bool:
    return name in FREE_FIELDS and "JsonValue" in repr(field.annotation)
