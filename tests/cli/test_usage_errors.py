"""Errors of the arguments: masked, escaped, on one line each, with a code and the next step."""

import pytest

from tests.cli.conftest import Remit

PASSWORD = "hunter2-correct-horse"
TOKEN = "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJyZXNlYXJjaC1hZ2VudCJ9.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg"
URL = f"postgresql://ada:{PASSWORD}@db.example/shop"
HOSTILE = "x\x1b]0;title\x07\u202e\nrefused: all is well.json"

WRONG: dict[str, tuple[str, ...]] = {
    "a command": ("{}",),
    "a command of a group": ("keys", "{}"),
    "an argument": ("preview", "{}"),
    "one argument too many": ("init", "folder", "{}"),
    "an option": ("doctor", "--{}"),
    "the value of an option": ("approve", "plan.json", "--minutes={}"),
    "a number": ("approve", "plan.json", "--minutes", "{}"),
    "a port": ("serve", "--port", "{}"),
    "a folder": ("doctor", "-C", "{}"),
    "a choice": ("keys", "rotate", "{}"),
}


def filled(name: str, value: str) -> list[str]:
    return [each.replace("{}", value) for each in WRONG[name]]


@pytest.mark.parametrize("name", WRONG)
def test_no_hidden_character_of_an_argument_reaches_the_terminal(remit: Remit, name: str) -> None:
    ran = remit(*filled(name, HOSTILE))
    assert ran.code == 2, ran
    assert ran.out == ""
    assert all(line.isprintable() for line in ran.err.splitlines()), ran.err
    assert [line for line in ran.err.splitlines() if line.startswith("refused: ")] == ran.err.splitlines()[:1]


@pytest.mark.parametrize("name", WRONG)
def test_a_usage_error_has_a_code_and_the_next_step(remit: Remit, name: str) -> None:
    ran = remit(*filled(name, "wrong"))
    what, *lines = ran.err.splitlines()
    assert (ran.code, ran.out) == (2, ""), ran
    assert what.startswith("refused: "), ran.err
    assert "wrong" in what
    assert "  code:  argument_invalid" in lines
    (advice,) = [line for line in lines if line.startswith("  next:  ")]
    assert advice.endswith("--help"), advice


@pytest.mark.parametrize("secret", [TOKEN, URL], ids=["token", "url"])
@pytest.mark.parametrize("before", ["", "\x1b[1m"], ids=["plain", "escaped"])
@pytest.mark.parametrize("name", WRONG)
def test_a_secret_in_a_wrong_place_is_masked(remit: Remit, name: str, secret: str, before: str) -> None:
    for more in ((), ("--json",)):
        ran = remit(*filled(name, before + secret), *more)
        assert ran.code == 2, ran
        for part in (PASSWORD, *TOKEN.split(".")):
            assert part not in ran.out + ran.err, ran


def test_a_group_without_a_command_still_shows_its_help(remit: Remit) -> None:
    ran = remit("keys")
    assert ran.code == 2
    assert "rotate" in ran.err
    assert "Usage: remit keys" in ran.err
