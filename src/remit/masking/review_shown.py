"""Masks for what a person says yes or no to: values are hidden, and never what stands around them.

Line by line: a quote that somebody opened and did not close hides what is left of its own line, and no line after it.
Of a private key each line is hidden that can be one of it. Limit: of a secret that goes over several lines, and is no
such key, the first line is hidden. Logs and records have `mask_text`, which takes more in doubt.
"""

from remit.masking.credentials import mask_jwks, mask_shapes
from remit.masking.numbers import mask_cards, mask_ssns
from remit.masking.review_diffs import mask_line
from remit.masking.review_key_lines import mask_lines
from remit.masking.url_hosts import mask_around_hosts
from remit.masking.urls import mask_emails, mask_passwords_without_scheme


def mask_shown(text: str) -> str:
    """The text with every secret in it masked. It has the same line ends. Idempotent."""
    if "\n" not in text and len(text.splitlines()) <= 1:
        return mask_line(text)
    return "".join(mask_lines(mask_jwks(text).splitlines(keepends=True), _masked_line))


def mask_shaped(text: str) -> str:
    """What is a secret by its own looks, and nothing for the word beside it: for texts that were masked already, where
    that word may have come to stand beside something else.
    """
    return mask_around_hosts(text, _mask_looks)


def _mask_looks(text: str) -> str:
    looked = mask_cards(mask_ssns(mask_shapes(mask_passwords_without_scheme(text))))
    return mask_emails(looked, only_mailboxes=True)


def _masked_line(line: str) -> str:
    """Without its end, so that no mask can take that along."""
    bare = line.splitlines()[0]
    return mask_line(bare) + line[len(bare) :]
