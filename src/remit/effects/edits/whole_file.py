"""The edits write and replace_content: the whole content of a file, any bytes."""

import binascii
from collections.abc import Mapping
from typing import Any

from remit.effects.edits.splice import Edited, counted


def content_of(operation: Mapping[str, Any]) -> bytes:
    """Return the bytes of an operation, from text or base64. The contract guarantees that there is exactly one."""
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
