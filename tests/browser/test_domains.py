"""Where a URL leads and which token allows it: no spelling of a forbidden host passes for an allowed one."""

import string
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.browser.domains import matches, parse_target
from remit.contracts.domain_patterns import normal_host, require_pattern
from remit.core.errors import Reason, RefusedError

pytestmark = pytest.mark.req("VX-04")
ALLOWED = ("example.com", "*.api.example.com")
DENIED = {
    "url-002": "https://example.com.evil.com/",
    "url-003": "https://evil.com/example.com",
    "url-005": "https://evil.com#example.com",
    "url-006": "https://example.com@evil.com/",
    "url-008": "https://evil.com\\@example.com/",
    "url-010": "https://evilexample.com/",
    "url-011": "https://xapi.example.com/",
    "url-012": "https://api.example.com.evil.com/",
    "url-013": "https://a.b.api.example.com/",
    "url-016": "https://example.com:0443@evil.com/",
    "url-017": "https://example.com:65979/",
    "url-019": "https://xn--exmple-4nf.com/",
    "url-020": "https://example\u3002com.evil.com/",
    "url-021": "https://example.c\u2134m/",
    "url-022": "https://\uff45xample.com/",
    "url-023": "https://example.com%2eevil.com/",
    "url-024": "https://example.com%00.evil.com/",
    "url-027": "https:/evil.com/",
    "url-028": "https:///evil.com/",
    "url-031": " https://evil.com/",
    "url-032": "https://evil.com:443#@example.com/",
    "url-036": "https://127.1/",
    "url-038": "https://0x7f000001/",
    "url-040": "https://0/",
    "url-042": "https://[fd00:ec2::254]/",
    "url-043": "https://metadata.google.internal/",
    "url-044": "https://localhost/",
    "url-048": "file:///etc/passwd",
    "url-050": "javascript:alert(1)",
    "url-052": "java\nscript:alert(1)",
    "url-053": "data:text/html,<script>1</script>",
    "url-055": "view-source:https://example.com/",
    "url-056": "chrome://settings",
    "url-058": "ftp://example.com/",
    "url-059": "ws://example.com/",
    "url-061": "https://user:pass@example.com/",
    "the parent of a wildcard": "https://api.example.com/",
    "a sibling": "https://www.example.com/",
    "a tab within": "https://exam\tple.com/",
    "a newline within": "https://example.com\n.evil.com/",
    "an escaped host": "https://%65xample.com/",
    "credentials without a name": "https://@example.com/",
    "a host of dots": "https://.../",
    "an empty label": "https://example..com/",
    "two dots at the end": "https://example.com../",
    "an octal address": "https://0177.0.0.1/",
    "a number alone": "https://2130706433/",
    "a name that ends in a number": "https://example.com.1/",
    "an address in IPv6 of IPv4": "https://[::ffff:127.0.0.1]/",
    "a zone": "https://[fe80::1%25eth0]/",
    "brackets that are not closed": "https://[::1/",
    "something behind brackets": "https://[::1]x/",
    "port 0": "https://example.com:0/",
    "a port with a sign": "https://example.com:+443/",
    "a port with nought in front": "https://example.com:0443/",
    "no port after the colon": "https://example.com:/",
    "no host": "https://",
    "a port and no host": "https://:443/",
    "no scheme": "//example.com/",
    "no scheme at all": "example.com",
    "blob": "blob:https://example.com/1",
    "a walk up": "https://example.com/a/../b",
    "an escaped walk up": "https://example.com/%2e%2E/b",
    "a quote in the path": 'https://example.com/"',
    "half a character": "https://example.com/\ud800",
    "a soft hyphen in the host": "https://exam\u00adple.com/",
    "too long": "https://example.com/" + "a" * 9_000,
}
SEEN = {
    "url-062": ("https://example.com/", "https://example.com/"),
    "url-063": ("https://EXAMPLE.com/Path?q=1#f", "https://example.com/Path?q=1#f"),
    "url-064": ("https://example.com:443/", "https://example.com/"),
    "url-067": ("https://example.com/@evil.com", "https://example.com/@evil.com"),
    "url-068": ("https://example.com./", "https://example.com/"),
    "no path": ("https://example.com?q", "https://example.com/?q"),
    "another port": ("http://example.com:8080/a", "http://example.com:8080/a"),
    "the other's port": ("http://example.com:443/", "http://example.com:443/"),
    "capitals in the scheme": ("HTTPS://example.com/", "https://example.com/"),
    "one label more": ("https://v1.api.example.com/", "https://v1.api.example.com/"),
    "a path in another script": ("https://example.com/\u00fc", "https://example.com/%C3%BC"),
    "an apostrophe in the query": ("https://example.com/'?q='#'", "https://example.com/'?q=%27#'"),
    "dots in a name": ("https://example.com/..a/b..", "https://example.com/..a/b.."),
    "an escaped slash": ("https://example.com/a%2Fb", "https://example.com/a%2Fb"),
}


def is_allowed(url: str, patterns: tuple[str, ...] = ALLOWED) -> bool:
    try:
        return matches(parse_target(url).host, patterns)
    except RefusedError as problem:
        if (problem.reason, problem.where) != (Reason.CONSTRAINT_VIOLATED, "constraints.domains"):
            raise
        return False


@pytest.mark.parametrize("url", [pytest.param(url, id=name) for name, url in DENIED.items()])
def test_no_spelling_of_another_place_is_allowed(url: str) -> None:
    assert not is_allowed(url)


@pytest.mark.parametrize("given_url,normal", [pytest.param(*pair, id=name) for name, pair in SEEN.items()])
def test_plain_addresses_are_allowed_and_have_one_spelling(given_url: str, normal: str) -> None:
    assert is_allowed(given_url)
    assert parse_target(given_url).url == normal
    assert parse_target(normal).url == normal


def test_patterns_compare_whole_labels(subtests: pytest.Subtests) -> None:
    for host, pattern, fits in [
        ("example.com", "EXAMPLE.com", True),
        ("EXAMPLE.COM.", "example.com", True),
        ("example.com", "example.com.", True),
        ("a.example.com", "*.example.com", True),
        ("example.com", "*.example.com", False),
        ("a.b.example.com", "*.example.com", False),
        ("aexample.com", "*.example.com", False),
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.10", "192.0.2.1", False),
        ("[2001:DB8:0::1]", "[2001:db8::1]", True),
        ("[2001:db8::2]", "[2001:db8::1]", False),
        ("localhost", "localhost", True),
        ("b\u00fccher.example", "xn--bcher-kva.example", False),
        ("xn--bcher-kva.example", "xn--bcher-kva.example", True),
        ("", "example.com", False),
        ("example.com:443", "example.com", False),
    ]:
        with subtests.test(host):
            assert require_pattern(pattern) == pattern
            assert matches(host, (pattern,)) is fits


def test_no_pattern_allows_nothing() -> None:
    assert not matches("example.com", ())


def test_a_pattern_that_means_too_many_hosts_or_none_is_refused(subtests: pytest.Subtests) -> None:
    for pattern in [
        "*",
        "*.",
        "*.com",
        "*.test",
        "*.co.uk",
        "*.com.au",
        "*.github.io",
        "*.CO.UK",
        "*.com.",
        "a.*.example",
        "**.a.com",
        "*.192.0.2.1",
        "*.[::1]",
        ".",
        "a..b",
        "*a.example.com",
        "-a.example",
        "127.1",
        "0x7f.1",
        "[::1",
        "a/b",
        "bücher.example",
        "example.com:443",
        "https://example.com",
        "",
        "a b",
        "a" * 64 + ".example",
    ]:
        with subtests.test(pattern), pytest.raises(ValueError, match=r"[a-z]"):
            require_pattern(pattern)


LABEL = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=8).filter(lambda text: not text.isdigit())
HOST = st.lists(LABEL, min_size=2, max_size=4).map(".".join).filter(lambda host: host.rpartition(".")[2].isalpha())


@given(HOST, st.text(max_size=12))
def test_whatever_is_read_as_an_allowed_host_is_that_host_to_another_reader(host: str, rest: str) -> None:
    """An attacker writes around an allowed host: where we say yes, a plain parser sees the same host."""
    for url in (f"https://{host}{rest}", f"https://{rest}{host}/", f"https://{rest}@{host}/", f"https:{rest}//{host}/"):
        try:
            target = parse_target(url)
        except RefusedError:
            continue
        assert target.host in {(urlsplit(url).hostname or "").removesuffix("."), f"[{urlsplit(url).hostname}]"}
        assert parse_target(target.url) == target
        if matches(target.host, (host,)):
            assert (urlsplit(url).hostname or "").removesuffix(".") == host


@given(HOST, LABEL, LABEL)
def test_a_wildcard_is_one_label_and_no_suffix_is_enough(host: str, first: str, second: str) -> None:
    pattern = f"*.{host}"
    assert matches(f"{first}.{host}", (pattern,))
    assert not matches(host, (pattern,))
    assert not matches(f"{second}.{first}.{host}", (pattern,))
    assert not matches(f"{first}{host}", (pattern,)) or "." in first
    assert not matches(f"{first}.{host}.{second}", (pattern, host)) or f"{first}.{host}.{second}".endswith(f".{host}")


@given(st.text(max_size=30))
def test_any_text_has_one_normal_form_or_none(text: str) -> None:
    try:
        normal = normal_host(text)
    except ValueError:
        return
    assert normal_host(normal) == normal
    assert normal.isascii()
    assert normal == normal.lower()
