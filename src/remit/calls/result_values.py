"""Converts the value of a governed function to plain JSON values. Pure.

Ordinary types of Python programs are converted: pydantic models, dataclasses, named tuples, tuples, sets, enums, dates
and times, decimals, UUIDs, paths and bytes (as base64). Other values stay as they are, and the caller checks them. A
deferred value such as a generator is not run. Only pydantic runs code when it writes a model.
"""

import base64
import dataclasses
import enum
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from remit.contracts.base import Contract


def plain_value(value: Any) -> Any:  # noqa: C901, PLR0911, PLR0912 - one for each kind
    """Return the value with every ordinary type in it converted. A cycle raises RecursionError."""
    match value:
        case enum.Enum():
            return plain_value(value.value)
        case None | bool() | int() | float() | str():
            return value
        case Contract():
            return value.tree()
        case BaseModel():
            return value.model_dump(mode="json")
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case Decimal() | UUID() | PurePath():
            return str(value)
        case bytes() | bytearray():
            return base64.b64encode(value).decode("ascii")
        case Mapping():
            plain = {plain_value(key): plain_value(item) for key, item in value.items()}
            return plain if len(plain) == len(value) else value  # if two keys became one, a value would be lost
        case tuple() if hasattr(value, "_asdict"):
            return {name: plain_value(item) for name, item in value._asdict().items()}
        case list() | tuple() | AbstractSet():
            return [plain_value(item) for item in value]
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {each.name: plain_value(getattr(value, each.name)) for each in dataclasses.fields(value)}
        case _:
            return value
