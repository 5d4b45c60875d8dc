"""Secrets in addresses: passwords in URLs and data source names, and e-mail addresses."""

import re
from collections.abc import Iterator
from itertools import zip_longest

from remit.masking.masks import MASK
from remit.masking.regex_cache import pattern

_SCHEME_END = r"://|:\\/\\/"
_ADDRESS = r"[^\s\"'`<>]*+"
_ENCODED_USER = (
    r"(?i)(%3A%2F%2F(?>(?:(?!%3A|%40|%2F|%3F|%23|%5C)[^\s&\"'/?#\\])*)%3A)"  # a URL inside a query
    r"((?>(?:(?!%40|%2F|%3F|%23|%5C)[^\s&\"'/?#\\])+))(?=%40)"
)
_DSN_HOST = r"@(?:tcp|unix)\("
_LONGEST_DSN_USER = 512
_CURL_USER = r"((?<!\S)(?:-u|--user|--proxy-user)[ \t=]{1,4}[\"']?[^\s:\"']{1,256}:)(?!\\?/\\?/)([^\s\"']++)"
_QUERY_SECRET = r"([?&;](?:sig|code|auth)=)([^&\s\"'`<>#]{16,})"  # noqa: S105 - a pattern, not a secret
_HOST_END = r"[/?#\\]"
_PORT = r"\d{1,5}(?:[/?#]|\Z)"
_LONG_USER = 16  # a user name of this length with a digit is probably a token

_LOCAL = r"\w.+*~!#$^-"
AT = r"(?:@|\uff20|%40|\\u0040|&\#64;)"
_ENCODED = r"%(?!40)[0-9A-Fa-f]{2}|\\++u(?!0040)[0-9A-Fa-f]{4}"
_DOMAIN = rf"(?:[\w-]|{_ENCODED})(?:[\w.-]|{_ENCODED})*?\.[^\W\d_]{{2}}[\w.-]*+"
# Atomic groups, because until 3.11.5 Python kept the characters of a failed last repetition of a possessive group.
_MAILBOX = rf"\"[^\"\n]{{1,64}}\"|(?>(?:[{_LOCAL}]++|%(?!40))+)"
_EMAIL = rf"(?:(?<![%{_LOCAL}])|(?<=%40)|(?<=\\u0040))({_MAILBOX})(?={AT}({_DOMAIN}))"
_ENCODED_SCHEME_END = r"(?i)%3A%2F%2F"
_ENCODED_MARK = r"(?i)%(?:2F|3A|3D|26|3F|23|5C)"
# A release (`package@1.2.3-rc.x`), a unit of systemd (`getty@tty1.service`), an image for dense screens (`a@2x.png`).
_NOT_A_MAILBOX = r"v?\d+\.\d+\.|(?:\w+\.(?:service|socket|timer|target|mount|slice|scope)|[1-4]x\.[a-z]{3,4})\Z"


def _mask_userinfo(userinfo: str) -> str:
    user, colon, password = userinfo.partition(":")
    if len(user) >= _LONG_USER and any(c.isdecimal() for c in user):
        user = MASK
    return user + colon + (password and MASK)


def _mask_authority(address: str) -> str:
    """Mask the userinfo in the text after `scheme://`. With a password, an `@` in the path may be a part of it."""
    authority = pattern(r"[^/?#]*+").match(address)
    size = authority.end() if authority else 0
    at = address.rfind("@", 0, size)
    colon = address.find(":", 0, size)
    if 0 <= colon < at:
        at = max(at, address.partition("?")[0].rfind("@"))
    elif colon == 0 or (colon > 0 and not pattern(_PORT).match(address, colon + 1)):
        at = address.rfind("@")
    return address if at < 0 else _mask_userinfo(address[:at]) + address[at:]


def _addresses(text: str) -> Iterator[re.Match[str]]:
    """Yield the text after each `scheme://`."""
    ends = list(pattern(_SCHEME_END).finditer(text))
    for found, following in zip_longest(ends, ends[1:]):
        stop = following.start() if following else len(text)
        if address := pattern(_ADDRESS).match(text, found.end(), stop):
            yield address


def _mask_urls(text: str) -> str:
    out, done = [], 0
    for address in _addresses(text):
        out += [text[done : address.start()], _mask_authority(address[0])]
        done = address.end()
    return "".join(out) + text[done:]


def mask_and_split_hosts(text: str) -> tuple[list[str], list[str]]:
    """Return the text with the userinfo of its URLs masked, split into the parts around the hosts, and the hosts.

    The userinfo ends at the last `@` before any character at which some program ends the host. So the shown host is
    complete for every program that may read the URL.
    """
    around, hosts, done = [], [], 0
    for address in _addresses(text):
        authority = pattern(_HOST_END).split(address[0], maxsplit=1)[0]
        userinfo, at, host = authority.rpartition("@")
        if host:
            around.append(text[done : address.start()] + _mask_userinfo(userinfo) + at)
            hosts.append(host)
            done = address.start() + len(authority)
    return [*around, text[done:]], hosts


def _mask_data_sources(text: str) -> str:
    """Mask passwords in `user:password@tcp(host)/db`. Each is read backwards from its host."""
    out, done = [], 0
    for host in pattern(_DSN_HOST).finditer(text):
        before = text[max(done, host.start() - _LONGEST_DSN_USER) : host.start()]
        source = pattern(r"[\s\"'`]").split(before)[-1]
        password = source.partition(":")[2]
        if password and not pattern(_SCHEME_END).search(source):
            out += [text[done : host.start() - len(password)], MASK]
            done = host.start()
    return "".join(out) + text[done:]


def mask_passwords_in_addresses(text: str) -> str:
    if "@" in text and ":" in text:
        text = _mask_urls(text)
    return mask_passwords_without_scheme(text)


def mask_passwords_without_scheme(text: str) -> str:
    if "%40" in text:
        text = pattern(_ENCODED_USER).sub(rf"\1{MASK}", text)
    if "@tcp(" in text or "@unix(" in text:
        text = _mask_data_sources(text)
    if "-u" in text:
        text = pattern(_CURL_USER).sub(rf"\1{MASK}", text)
    if "=" in text:
        text = pattern(_QUERY_SECRET).sub(rf"\1{MASK}", text)
    return text


def _email(found: re.Match[str], *, only_mailboxes: bool = False) -> str:
    quote = '"' if found[1].startswith('"') else ""
    prefix, local = _parted(found[1].strip('"')) if only_mailboxes else ("", found[1].strip('"'))
    stars = local[: len(local) - len(local.lstrip("*"))]  # emphasis, or a password that is masked already
    if stars == local or pattern(_SCHEME_END).search(local) or pattern(_NOT_A_MAILBOX).match(found[2]):
        return found[0]
    return f"{quote}{prefix}{stars}{local[len(stars)]}***{quote}"


def _parted(local: str) -> tuple[str, str]:
    """Split the text before the `@` into a prefix and the user. In an encoded URL, the prefix contains the host."""
    if not pattern(_ENCODED_SCHEME_END).search(local):
        return "", local
    end = max(mark.end() for mark in pattern(_ENCODED_MARK).finditer(local))
    return local[:end], local[end:]


def mask_emails(text: str, *, only_mailboxes: bool = False) -> str:
    """Mask e-mail addresses.

    With `only_mailboxes`, names of releases stay visible (`acme/build@release.main`, `npm:x@stable.io`).
    """
    if not pattern(AT).search(text):
        return text
    return pattern(_EMAIL).sub(_mailbox if only_mailboxes else _email, text)


def _mailbox(found: re.Match[str]) -> str:
    before = found.string[max(0, found.start() - 4) : found.start()]
    is_named = before == "npm:" or (before.endswith("/") and not before.endswith("//"))
    return found[0] if is_named else _email(found, only_mailboxes=True)
