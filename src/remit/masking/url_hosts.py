"""Keeps the hosts of URLs out of the reach of masks: where a request goes is what somebody says yes to.

A host may look like a card's number or a key, stand beside a secret's name, or read as the user of an e-mail address:
nothing in it is a secret, and whoever does not see it is shown another place than the one that is meant.
"""

from itertools import chain
from typing import Final

from remit.masking.regex_cache import pattern
from remit.masking.text import Mask
from remit.masking.urls import mask_and_split_hosts

_SCHEME_END: Final = "://"
_ESCAPED_SCHEME_END: Final = r":\/\/"
_PLACEHOLDER: Final = "host[a-j]++\\.zz[\ue000-\uf8ff\U000f0000-\U0010ffff]"
_DIGITS: Final = str.maketrans("0123456789", "abcdefghij")
_PRIVATE_USE: Final = (range(0xE000, 0xF900), range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE))


def mask_around_hosts(text: str, mask: Mask) -> str:
    """What `mask` makes of a text, with the userinfo of URLs masked and their hosts as they are.

    A host goes with the value that it stands in, if that is hidden whole: `password=https://example.com`.
    """
    if _SCHEME_END not in text and _ESCAPED_SCHEME_END not in text:
        return mask(text)
    around, hosts = mask_and_split_hosts(text)
    end = _unused_character(text)
    placeholders = [f"host{str(number).translate(_DIGITS)}.zz{end}" for number in range(len(hosts))]
    masked = mask("".join(part for pair in zip(around, [*placeholders, ""], strict=True) for part in pair))
    host_of = dict(zip(placeholders, hosts, strict=True))
    return pattern(_PLACEHOLDER).sub(lambda found: host_of.get(found[0], found[0]), masked)


def is_after_scheme(value: str) -> bool:
    """`//...` with a host in it: what is before its colon is a scheme, whatever it is called."""
    return value.startswith("//") and pattern(_PLACEHOLDER).search(value) is not None


def _unused_character(text: str) -> str:
    """It ends a name, an e-mail address and a word, and no value without quotes."""
    letters = set(text)
    return next((c for c in map(chr, chain(*_PRIVATE_USE)) if c not in letters), "\ue000")
