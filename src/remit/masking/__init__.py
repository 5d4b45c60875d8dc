"""Masking: a log line, error, preview, ledger entry or file name shows no secret.

    password     ********
    card         ****-****-****-1234
    SSN          ***-**-1234
    API key      sk_...xxxx
    e-mail       j***@example.com

`mask_text` is for free text that is stored. For texts that a person approves there are `mask_diff`, `mask_sql`, and
`mask_shown` for all others: they hide values, and never the text around them. `mask_field` is for a value whose field
is known, and `mask_json` for a tree. `find_secrets` says where a text has a credential. This is the lowest layer: it
imports nothing of the rest of Remit, and compiles no pattern before the first text.
"""

from remit.masking.field_names import is_secret_name
from remit.masking.json import Json, JsonLike, mask_json, mask_texts
from remit.masking.review import hides_key, hides_value, is_hidden, mask_diff, mask_shaped, mask_shown
from remit.masking.secrets import Secret, find_secrets
from remit.masking.sql import mask_sql
from remit.masking.text import mask_field, mask_text

__all__ = [
    "Json",
    "JsonLike",
    "Secret",
    "find_secrets",
    "hides_key",
    "hides_value",
    "is_hidden",
    "is_secret_name",
    "mask_diff",
    "mask_field",
    "mask_json",
    "mask_shaped",
    "mask_shown",
    "mask_sql",
    "mask_text",
    "mask_texts",
]
