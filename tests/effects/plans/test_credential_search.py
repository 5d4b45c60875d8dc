"""Whole files are searched for credentials. What cannot be searched counts as found."""

import time

import pytest

from remit.effects.plans.credential_search import (
    MAX_FILE,
    MAX_MASKED,
    LineSearch,
    is_free_of_credentials,
    is_query_free_of_credentials,
)
from remit.masking import find_secrets
from remit.plans.model.simulation_result import show_diff

pytestmark = pytest.mark.req("PV-04")


def test_plain_text_is_free_of_credentials() -> None:
    for content in (b"", b"one\ntwo\n", "caf\u00e9\n".encode(), b"x" * MAX_FILE):
        assert is_free_of_credentials(content)


@pytest.mark.parametrize(
    "content",
    [
        b"intro\npassword = 'hunter2-and-more'\n",
        b"x\n" * 10_000 + b"ghp_0123456789abcdefghijklmnopqrstuvwxyz\n",
        b"-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----\n",
        b"postgres://ada:secret-word@db/app\n",
    ],
)
def test_a_credential_anywhere_is_found(content: bytes) -> None:
    assert not is_free_of_credentials(content)


MASKED: tuple[str, ...] = (
    "<password>hq7Z-tango-mike</password>",
    "Cookie: session=hq7Z-tango-mike",
    "CREATE USER a IDENTIFIED BY 'hq7Z-tango-mike'",
    "password%3DhqZ7-and-more-long",
    "The password is hunter2-and-more-Zq9x7Lk2",
    "password: |\n  hunter2-and-more-Zq9x7Lk2",
    "password = <<EOF\nhunter2-and-more-Zq9x7Lk2\nEOF",
    "card 4111 1111 1111 1111",
)


@pytest.mark.parametrize("text", MASKED)
def test_what_people_see_masked_counts_as_a_credential(text: str) -> None:
    """Otherwise an agent finds out the value by asking which pattern matches."""
    content = f"one\n{text}\ntwo\n"
    diff = "".join(f" {line}\n" for line in content.splitlines())
    assert (find_secrets(content), show_diff(diff).text == diff) == ([], False), "only the mask knows it"
    assert not is_free_of_credentials(content.encode())


def test_an_address_of_mail_may_be_masked() -> None:
    assert is_free_of_credentials(b"Write to ada@example.com.\n")
    assert not is_free_of_credentials(b'Write to "tango mike"@example.com.\n')


def test_the_masks_of_statements_count_for_files_with_statements() -> None:
    assert is_query_free_of_credentials(b"SELECT name FROM cities WHERE size > 3")
    hidden = b"INSERT INTO users (name, password) VALUES ('ada', 'hq7Z-tango-mike')"
    assert is_free_of_credentials(hidden)
    assert not is_query_free_of_credentials(hidden)


def test_the_search_for_masked_values_is_bounded_for_all_files_of_a_plan() -> None:
    lines = LineSearch()
    half = "".join(f"{number:015}\n" for number in range(MAX_MASKED // 32))
    assert lines.is_plain(half)
    began = time.monotonic()
    assert lines.is_plain(half), "lines that were seen are not masked again"
    assert time.monotonic() - began < 5
    assert not lines.is_plain("".join(f"a{number:014}\n" for number in range(MAX_MASKED // 16)))


@pytest.mark.parametrize("content", [b"a\0b", b"\xff\xfe", "text".encode("utf-16"), b"x" * (MAX_FILE + 1)])
def test_what_cannot_be_searched_counts_as_found(content: bytes) -> None:
    assert not is_free_of_credentials(content)
