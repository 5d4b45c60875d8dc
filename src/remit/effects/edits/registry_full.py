"""All editors: those of `registry_plain`, and those that need a parser."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from remit.effects.edits.json import json_add_property, json_remove_property, json_update_value
from remit.effects.edits.regex import text_replace
from remit.effects.edits.registry_plain import PLAIN_EDITORS
from remit.effects.edits.splice import Editor
from remit.effects.edits.yaml import yaml_update

FULL_EDITORS: Final[Mapping[str, Editor]] = MappingProxyType(
    {
        **PLAIN_EDITORS,
        "text_replace": text_replace,
        "json_add_property": json_add_property,
        "json_remove_property": json_remove_property,
        "json_update_value": json_update_value,
        "yaml_update": yaml_update,
    }
)
"""The editors, by the operation's type."""
