"""write and replace_content: all of a file at once, any bytes."""

import binascii
from collections.abc import Mapping
from typing import Any

from remit.effects.edits.splice import Edited, counted


def content_of(operation: Mapping[str, Any]) -> bytes:
    """The bytes that an operation carries, as text or in base64. The contract sees to it that there is one of them."""
    text = operation.get("content")
    if text is not None:
        return str(text).encode()
    return binascii.a2b_base64(operation["content_base64"])


def replace_content(_raw: bytes, operation: Mapping[str, Any]) -> Edited:
    content = content_of(operation)
    return Edited(content, None, f"Content replaced ({counted(len(content), 'byte')})")


def create_content(operation: Mapping[str, Any]) -> Edited:
    content = content_of(operation)
    return Edited(content, None, f"File created ({counted(len(content), 'byte')})")
