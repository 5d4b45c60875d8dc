"""What a masked value looks like, where it is found, and what is left alone."""

import json
import os
import subprocess
import sys

import pytest

from remit.masking import mask_field, mask_json, mask_text

pytestmark = pytest.mark.req("VX-08")

STRIPE = "sk_live_51H8xYzAbCdEfGhxxxx"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
AWS_SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
ED25519_PUBLIC = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
DIGEST = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

# --- the table -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, value, masked",
    [
        ("password", "hunter2", "********"),
        ("credit_card", "4111 1111 1111 1234", "****-****-****-1234"),
        ("ssn", "123-45-1234", "***-**-1234"),
        ("api_key", STRIPE, "sk_...xxxx"),
        ("email", "john@example.com", "j***@example.com"),
    ],
)
def test_each_kind_of_field_has_exactly_the_mask_of_the_table(name: str, value: str, masked: str) -> None:
    assert mask_field(name, value) == masked
    assert mask_json({name: value}) == {name: masked}


@pytest.mark.parametrize(
    "text, masked",
    [
        ("password=hunter2", "password=********"),
        ("paid with 4242-4242-4242-4242", "paid with ****-****-****-4242"),
        ("born 1970, 123-45-1234", "born 1970, ***-**-1234"),
        (f"called with {STRIPE}", "called with sk_...xxxx"),
        ("wrote to john@example.com", "wrote to j***@example.com"),
    ],
)
def test_each_kind_of_value_has_exactly_the_mask_of_the_table_in_free_text(text: str, masked: str) -> None:
    assert mask_text(text) == masked


# --- secrets beside their names --------------------------------------------------------------------------------------


def test_value_beside_a_secret_name_is_masked_and_its_surroundings_stay(subtests: pytest.Subtests) -> None:
    for text, masked in [
        ('{"password": "hunter2", "x": 1}', '{"password": "********", "x": 1}'),
        ("{'userPassword': 'hunter2'}", "{'userPassword': '********'}"),
        (r'"{\"password\":\"hun\\\"ter2\",\"u\":1}"', r'"{\"password\":\"********\",\"u\":1}"'),
        ('{"pin": 1234, "x": 1}', '{"pin": ********, "x": 1}'),
        ('{"passwords": ["one1", "two2"]}', '{"passwords": [********]}'),
        ('"name": "password", "value": "hunter2"', '"name": "password", "value": "********"'),
        ('<input name="password" value="hunter2">', '<input name="password" value="********">'),
        ('{"password": "hunt', '{"password": "********'),
        ("passwd: hunter2", "passwd: ********"),
        ("db:\n  password: correct horse\n  port: 1", "db:\n  password: ********\n  port: 1"),
        ("password: |\n  line one\n  line two\nnext: 1", "password: ********\nnext: 1"),
        ("secret: 'it''s hidden'", "secret: '********'"),
        ("export DB_PASSWORD=p&ss=w0rd x", "export DB_PASSWORD=******** x"),
        ("host=db password=hun,ter2 dbname=x", "host=db password=******** dbname=x"),
        ("Server=x;Pwd=hunter2;Port=1", "Server=x;Pwd=********;Port=1"),
        ("a=1&access_token=hunter2&b=2", "a=1&access_token=********&b=2"),
        ("user%5Bpassword%5D=hunter2&b=2", "user%5Bpassword%5D=********&b=2"),
        ("next=%2F%3Ftoken%3Dhunter2%26b%3D2", "next=%2F%3Ftoken%3D********%26b%3D2"),
        ("%7B%22password%22%3A%22hunter2%22%7D", "%7B%22password%22%3A%22********%22%7D"),
        ("run --password hunter2 --user bob", "run --password ******** --user bob"),
        ("run --api-key=hunter2", "run --api-key=********"),
        ("['run', '--password', 'hunter2']", "['run', '--password', '********']"),
        ("os.environ['DB_PASSWORD'] = 'hunter2'", "os.environ['DB_PASSWORD'] = '********'"),
        ("password = hunter(2)[x", "password = ********"),
        ("(password=hunter2)", "(password=********)"),
        ("password=hunter2, user=bob", "password=********, user=bob"),
        ("<ns:Password a='b'>hunter2</ns:Password>", "<ns:Password a='b'>********</ns:Password>"),
        ("API key: abcdefghijklmnop123456", "API key: ...3456"),
        ("security code: 123", "security code: ********"),
        ("card number: 4111 1111 1111 1112", "card number: ****-****-****-1112"),
        (f"aws_secret_access_key = {AWS_SECRET}", "aws_secret_access_key = ...EKEY"),
        (f"AWS secret {AWS_SECRET}", "AWS secret ********"),
        ("the password is hunter2.", "the password is ********."),
        ("ALTER ROLE bob PASSWORD 'hunter two'", "ALTER ROLE bob PASSWORD '********'"),
        ("machine x login bob password hunter2", "machine x login bob password ********"),
        ("Invalid password: hunter2", "Invalid password: ********"),
        (r"first line\ntoken=hunter2", r"first line\ntoken=********"),
        ("contraseña=hunter2", "contraseña=********"),
        ("ｐａｓｓｗｏｒｄ=hunter2", "ｐａｓｓｗｏｒｄ=********"),
    ]:
        with subtests.test(text):
            assert mask_text(text) == masked


def test_credentials_in_headers_are_masked(subtests: pytest.Subtests) -> None:
    for text, masked in [
        ("Authorization: Bearer hunter2", "Authorization: Bearer ********"),
        (f"Authorization: Bearer {STRIPE}", "Authorization: Bearer sk_...xxxx"),
        ("Proxy-Authorization: Basic dXNlcjpwYXNz", "Proxy-Authorization: Basic ********"),
        ('Authorization: Digest username="bob", response="abc"\nHost: x', "Authorization: ********\nHost: x"),
        ("Cookie: sid=hunter2; b=c\r\nHost: x", "Cookie: ********\r\nHost: x"),
        ('Set-Cookie: sid="hunter2"; Path=/', "Set-Cookie: ********"),
        ("X-Api-Key: hunter2", "X-Api-Key: ********"),
        ("curl -H 'Authorization: Token hunter2' https://x", "curl -H 'Authorization: Token ********' https://x"),
        ('[("Authorization", "Bearer hunter2")]', '[("Authorization", "Bearer ********")]'),
        (r"Host: x\r\nAuthorization: Bearer hunter2\r\nA: b", r"Host: x\r\nAuthorization: Bearer ********\r\nA: b"),
        ("sent bearer AbCdEf123456", "sent bearer ********"),
        ("sent Basic dXNlcjpwYXNz", "sent Basic ********"),
    ]:
        with subtests.test(text):
            assert mask_text(text) == masked


def test_passwords_in_addresses_are_masked(subtests: pytest.Subtests) -> None:
    for text, masked in [
        ("https://bob:hunter2@example.com/x?a=1", "https://bob:********@example.com/x?a=1"),
        ("postgresql+psycopg://u:p@ss@db:5432/x", "postgresql+psycopg://u:********@db:5432/x"),
        ("postgres://u:p/ss#w@db/x", "postgres://u:********@db/x"),
        ("redis://:hunter2@localhost:6379/0", "redis://:********@localhost:6379/0"),
        ("https://a1b2c3d4e5f6a7b8c9@example/x", "https://********@example/x"),
        ("https://token:hunter2@example.com/x", "https://token:********@example.com/x"),
        ("bob:hunter2@tcp(localhost:3306)/db", "bob:********@tcp(localhost:3306)/db"),
        ("curl -u bob:hunter2 http://x", "curl -u bob:******** http://x"),
        ("https://x/blob?sv=1&sig=abcdefghijklmnopqrstuv%3D", "https://x/blob?sv=1&sig=********"),
    ]:
        with subtests.test(text):
            assert mask_text(text) == masked


# --- secrets known by their shape ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key, masked",
    [
        (STRIPE, "sk_...xxxx"),
        ("pk_test_51H8xYzAbCdEfGh1234", "pk_...1234"),
        ("rk_live_51H8xYzAbCdEfGh1234", "rk_...1234"),
        ("AKIAIOSFODNN7EXAMPLE", "AKIA...MPLE"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "ghp_...6789"),
        ("github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuv", "github_...stuv"),
        ("xoxb-123456789012-abcdefGHIJKL", "xoxb-...IJKL"),
        ("AIzaSyA1234567890abcdefghijklmnopqrstuv", "AIza...stuv"),
        ("sk-abcdefghijklmnopqrstuvwxyz123456", "sk-...3456"),
        ("sk-proj-abcd_efgh-ijkl_mnop1234", "sk-...1234"),
        ("sk-ant-api03-abcd_efgh-ijkl_mnop1234", "sk-...1234"),
        (JWT, "eyJ...sR8U"),
    ],
)
@pytest.mark.parametrize(
    "before, after",
    [("", ""), ("key ", ", sent"), ("日本", "語"), ('{"a":"', '"}'), (r"\n", r"\n"), ("%22", "%22"), ("/", "/")],
)
def test_key_of_a_known_shape_is_masked_anywhere(key: str, masked: str, before: str, after: str) -> None:
    assert mask_text(before + key + after) == before + masked + after


def test_secret_of_an_access_key_is_masked_beside_it() -> None:
    assert mask_text(f"AKIAIOSFODNN7EXAMPLE:{AWS_SECRET}") == "AKIA...MPLE:********"


@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "])
@pytest.mark.parametrize("newline", ["\n", r"\n"])
def test_private_key_block_loses_its_body(kind: str, newline: str) -> None:
    begin, end = f"-----BEGIN {kind}PRIVATE KEY-----", f"-----END {kind}PRIVATE KEY-----"
    block = newline.join([begin, "MC4CAQAwBQYDK2VwBCIEIN", end])
    assert mask_text(f"found {block} here") == f"found {begin}********{end} here"
    assert mask_text(block[:-40]) == f"{begin}********"


def test_private_members_of_a_json_web_key_are_masked() -> None:
    key = {"kty": "OKP", "d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A", "x": ED25519_PUBLIC}
    expected = {"kty": "OKP", "d": "********", "x": ED25519_PUBLIC}
    assert mask_json(key) == expected
    assert json.loads(mask_text(json.dumps(key))) == expected


@pytest.mark.parametrize(
    "number, shown",
    [
        ("4111111111111111", "1111"),
        ("4111 1111 1111 1111", "1111"),
        ("4111-1111-1111-1111", "1111"),
        ("4111 - 1111 - 1111 - 1111", "1111"),
        ("4111.1111.1111.1111", "1111"),
        ("4111+1111+1111+1111", "1111"),
        ("4111%201111%201111%201111", "1111"),
        ("4111\u00a01111\u00a01111\u00a01111", "1111"),
        ("4111‐1111‐1111‐1111", "1111"),
        ("4111 11111111 1111", "1111"),
        ("4222222222222", "2222"),
        ("3782 822463 10005", "0005"),
        ("3056 930902 5904", "5904"),
        ("5555555555554444", "4444"),
        ("6304000000000000000", "0000"),
        ("４１１１１１１１１１１１１１１１", "1111"),
    ],
)
@pytest.mark.parametrize(
    "before, after",
    [("", ""), ("pan=", "&x=1"), ("card", " 12/26"), ("2024 ", ""), ("カード", "です"), ("%22", "%22"), (r"\n", "\n")],
)
def test_card_number_is_masked_however_it_is_written(number: str, shown: str, before: str, after: str) -> None:
    assert mask_text(before + number + after) == f"{before}****-****-****-{shown}{after}"


def test_cards_that_touch_are_masked_as_two_and_overlapping_readings_as_one() -> None:
    assert mask_text("4111-1111-1111-1111-5500-0000-0000-0004") == "****-****-****-1111-****-****-****-0004"
    assert mask_text("4242 4242 4242 4242 4242") == "****-****-****-4242"


@pytest.mark.parametrize("number", ["000-12-3456", "666-12-3456", "900-12-3456", "123-00-3456", "123-45-0000"])
def test_number_that_no_person_can_have_is_not_an_ssn(number: str) -> None:
    assert mask_text(number) == number


def test_email_keeps_its_first_letter_and_its_domain(subtests: pytest.Subtests) -> None:
    for text, masked in [
        ("<john.doe+tag@mail.example.co.uk>", "<j***@mail.example.co.uk>"),
        ("john%40example.com", "j***%40example.com"),
        (r"john\u0040example.com", r"j***\u0040example.com"),
        ('"john doe"@example.com', '"j***"@example.com'),
        ("**john@example.com**", "**j***@example.com**"),
        ("john@example.com.", "j***@example.com."),
        ("a@b.com,c@d.org", "a***@b.com,c***@d.org"),
        ("jürgen@example.de", "j***@example.de"),
    ]:
        with subtests.test(text):
            assert mask_text(text) == masked


# --- what stays ------------------------------------------------------------------------------------------------------


def test_text_without_a_secret_stays_as_it_is(subtests: pytest.Subtests) -> None:
    for text in [
        "",
        DIGEST,
        "sha256:aa41111111111111110d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd",
        "550e8400-e29b-41d4-a716-446655440000",
        "12345678-1234-4234-8234-123456789012",
        "2026-07-29T12:00:00.123456789Z",
        "2026-07-29-4111111",
        "at 1722268800123, 1722268800123456 and 1722268800123456789",
        "20260729120000",
        "0.4111111111111111 and 3.141592653589793",
        "order 4111111111111112",
        ED25519_PUBLIC,
        f"key {ED25519_PUBLIC}, public_key={ED25519_PUBLIC}, key_id: {ED25519_PUBLIC}",
        "/var/lib/remit/keys/kernel-2026.pem",
        "C:\\Users\\bob\\token.txt",
        "cat /etc/passwd: permission denied",
        "tests/test_token.py:12: AssertionError",
        "v1.2.3-rc.4+build.5",
        "package@1.0.0-alpha.beta, checkout@v4.1.0, getty@tty1.service",
        f"image@{DIGEST}",
        "https://example.com:8080/users/@me?page=2#top",
        "token expired",
        "the password field",
        "the password field is required, the token was revoked",
        "password must be at least 8 characters",
        "password: must be at least 8 characters",
        "token: expired at 2026-07-29T12:00:00Z",
        "lease token: signature does not match",
        "INVALID_TOKEN: lease expired",
        "Unexpected token: }",
        "Unexpected token 'a1b2c3d4e5' in JSON at position 3",
        "Bearer authentication required; Basic authentication refused",
        "use --password to set it, --token is required",
        "max_tokens=4096 prompt_tokens: 12 tokens: 512",
        "idempotency_key=abc-123 primary_key=7 key_id: k1 token_id=abc123 password_policy: strict",
        "PWD=/srv/app",
        "def sign(token: str, password: str | None = None) -> None: ...",
        "token = make_token(lease)",
        "password = os.environ['DB_PASSWORD']",
        "password=${DB_PASSWORD}",
        "12 passed, 3 failed; bypass=1, compass: north, author: Bob",
        "pk_customer_orders_2024, risk_assessment_2024_customers, task-force-of-twenty-people",
        "secrets.yaml: not found",
        "std::secret::Sealed",
        "Password:",
    ]:
        with subtests.test(text):
            assert mask_text(text) == text


# --- cost ------------------------------------------------------------------------------------------------------------


def test_import_compiles_no_pattern_and_brings_in_nothing_of_remit() -> None:
    program = (
        "import re, sys\n"
        "compiled = []\n"
        "original = re.compile\n"
        "re.compile = lambda *a, **k: (compiled.append(a), original(*a, **k))[1]\n"
        "import remit.masking\n"
        "rooms = [m for m in sys.modules if m.startswith('remit.') and m != 'remit.version' and 'masking' not in m]\n"
        "print(len(compiled), rooms)\n"
    )
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["0", "[]"]
