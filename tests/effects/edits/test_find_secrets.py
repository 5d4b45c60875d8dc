"""Credentials that a plan would write into a file."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remit.masking import find_secrets, mask_text
from remit.masking.credentials import _KEY, mask_shapes  # one list of patterns for both

pytestmark = pytest.mark.req("PX-24")


def test_a_credential_is_found_where_it_is(subtests: pytest.Subtests) -> None:
    for text, secret in [
        ('password = "hunter2hunter2"', "hunter2hunter2"),
        ("password: hunter2hunter2", "hunter2hunter2"),
        ("API_KEY=abcdefgh1234", "abcdefgh1234"),
        ("password: hunter2", "hunter2"),
        ('{"db_password": "s3cr3t"}', "s3cr3t"),
        ("export DB_PASSWORD=s3cretvalue # x", "s3cretvalue"),
        ('{"password":"s3cr3tvalue"}', "s3cr3tvalue"),
        ("{'token': 'abcdefghijk'}", "abcdefghijk"),
        ('config["api_key"] = "abcdefghijk"', "abcdefghijk"),
        ("apiKey: `abcd1234efgh`", "abcd1234efgh"),
        ('client_secret => "abcdefghijk"', "abcdefghijk"),
        ("passwd: 'p@ss w0rd'", "p@ss w0rd"),
        ('"{\\"token\\": \\"abcdefghijk\\"}"', "abcdefghijk"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIB", "-----BEGIN RSA PRIVATE KEY-----"),
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----", "PRIVATE KEY"),
        ("x https://user:passw0rd@host/x", "passw0rd"),
        ("AKIA" + "IOSFODNN7EXAMPLE", "IOSFODNN7EXA"),
        ("a eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefghijk", "eyJzdWIiOiIxIn0"),
        ("Authorization: Bearer abcdef0123456789abcdef", "abcdef0123456789abcdef"),
        ('{"kty": "RSA",\n "d": "abcdefghijklmnopqrstuvwx"}', "abcdefghijklmnopqrstuvwx"),
        ('İ\npassword = "hunter2hunter2"', "hunter2hunter2"),
    ]:
        with subtests.test(text):
            found = find_secrets(text)
            assert found
            assert any(secret in text[one.start : one.end] for one in found)
            assert all(secret not in one.what for one in found)


def test_a_sentence_about_secrets_is_none(subtests: pytest.Subtests) -> None:
    for text in [
        "",
        'password = "${DB_PASSWORD}"',
        'password = "changeme"',
        'password = "xxxxxxxxxx"',
        'password: "********"',
        'token = "<your token here>"',
        'api_key = "your-api-key"',
        'secret: "{{ vault.secret }}"',
        "password: example_password",
        "token = get_token()",
        "token = self.token2",
        'secret_key = os.environ["SECRET_KEY"]',
        "password: str",
        "password: sha256",
        'password: "string"',
        "password: true",
        "password: v1.2.3",
        "token: abc12",
        "passwords: 12345",
        "password: Annotated[str, Field(min_length=8)]",
        '"password": {"type": "string", "minLength": 8}',
        'label_password: "Please enter your password"',
        "max_tokens: 12345678",
        "password_policy = 'at-least-12'",
        'if token == "abcdefghi":',
        'public_key = "abcdefgh12345"',
        'primary_key = "customer_id"',
        "the password is set by the user, see https://example.org/password=1",
        "-----BEGIN PUBLIC KEY-----",
        "task_runner work_done mark_1",
    ]:
        with subtests.test(text):
            assert find_secrets(text) == []


@settings(max_examples=60, deadline=None)
@given(st.from_regex(_KEY, fullmatch=True).filter(str.isascii))
def test_every_shape_that_is_masked_is_found(key: str) -> None:
    """A hint that was forgotten would let one issuer's keys pass."""
    if mask_shapes(key) != key and "\n" not in key:
        assert find_secrets(key)
        assert find_secrets(f"a line\nx = {key}\nanother")


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("ab1=:\"'` \nİpasswordtoken_-/@.#{}()$"), max_size=80))
def test_places_are_in_order_and_in_the_text(text: str) -> None:
    found = find_secrets(text)
    assert found == sorted(found)
    assert all(0 <= one.start < one.end <= len(text) for one in found)


def test_hostile_texts_cost_linear_time(subtests: pytest.Subtests) -> None:
    for text in [
        "a=b&" * 100_000 + "(",
        'password="' * 50_000,
        "token: " + "x" * 500_000,
        "a://b:c@" * 30_000,
        '"' * 500_000,
        "key=abcdefg1" * 30_000,
        "-----BEGIN " * 50_000,
        "password = " + "a b" * 100_000,
        'secret = "' + "a" * 300_000,
        '"kty"\n' + '"d": "x"\n' * 50_000,
    ]:
        with subtests.test(text):
            started = time.process_time()
            find_secrets(text)
            assert time.process_time() - started < 15


def test_what_is_found_is_masked_as_well() -> None:
    line = 'password = "hunter2hunter2"'
    assert find_secrets(line)
    assert "hunter2" not in mask_text(line)
