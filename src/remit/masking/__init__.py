"""Masking: no log line, error, preview, ledger entry or file name shows a secret.

    password     ********
    card         ****-****-****-1234
    SSN          ***-**-1234
    API key      sk_...xxxx
    e-mail       j***@example.com

`mask_text` is for free text that is kept. For what somebody says yes or no to there are `mask_diff`, `mask_sql`, and
`mask_shown` for all else: they hide values, and never what stands around them. `mask_field` is for a value whose field
is known, `mask_json` for a tree; `find_secrets` says where a text has a credential. The lowest layer: it knows nothing
of the rest of Remit, and compiles no pattern before the first text comes.
"""

from remit.masking.field_names import is_secret_name
from remit.masking.json import Json, JsonLike, mask_json, mask_texts
from remit.masking.review import is_hidden, mask_diff, mask_shaped, mask_shown
from remit.masking.secrets import Secret, find_secrets
from remit.masking.sql import mask_sql
from remit.masking.text import mask_field, mask_text

__all__ = [
    "Json",
    "JsonLike",
    "Secret",
    "find_secrets",
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
