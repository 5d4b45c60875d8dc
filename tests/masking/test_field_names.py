"""Fields and trees: which names are a secret's, and what a masked copy of JSON looks like."""

import json

import pytest

from remit.masking import JsonLike, is_secret_name, mask_field, mask_json, mask_text

pytestmark = pytest.mark.req("VX-08")


def words(text: str) -> list[str]:
    return text.split()


# --- names -----------------------------------------------------------------------------------------------------------


def test_name_of_a_secret_is_known_in_every_spelling(subtests: pytest.Subtests) -> None:
    for name in words("""
    password Password PASSWORD userPassword user_password user-password new_password passwordConfirmation
    password2 PGPASSWORD MYSQL_PWD db.pass passwd passphrase pin otp cvv cvc2 card_cvv securityCode security-code
    ssn SSN socialSecurityNumber social_security_number cardNumber card-number card_number ccNumber cc-number
    creditCard apiKey api_key api-key APIKey x-api-key X-Api-Key openai_key STRIPE_KEY token accessToken
    access_token refresh-token X-CSRF-Token id_token tokens secret client_secret clientSecret secrets
    awsSecretAccessKey private_key privateKeyPem credentials cookie Set-Cookie cookies authorization
    Proxy-Authorization jwt user[password] PHPSESSID --password password_hash contraseña Passwort 密码
    """):
        with subtests.test(name):
            assert is_secret_name(name)
            assert "hunter2!" not in mask_field(name, "hunter2!")


def test_name_that_only_resembles_a_secret_is_left_alone(subtests: pytest.Subtests) -> None:
    for name in words("""
    user name key keys key_id public_key publicKey primary_key idempotency_key sort_key token_id tokenJti
    token_type tokenExpiresAt max_tokens total_tokens promptTokens password_policy passwordField is_password
    hasToken requires_token secret_name secretArn pass_rate bypass compass spin author authority authorized email
    signature PWD OLDPWD card cookie_policy session_id digest error_code reason_code monkey mypassport
    """):
        with subtests.test(name):
            assert not is_secret_name(name)
            assert mask_field(name, "plain text") == "plain text"


def test_field_without_a_secret_name_is_masked_by_what_it_holds() -> None:
    assert (
        mask_field("note", "card 4111111111111111 of john@example.com")
        == "card ****-****-****-1111 of j***@example.com"
    )
    assert mask_field("password", "") == ""


# --- trees -----------------------------------------------------------------------------------------------------------


def test_tree_is_masked_by_name_by_value_and_in_its_keys() -> None:
    tree: JsonLike = {
        "user": "bob",
        "login": {"password": "hunter2", "remember": True, "otp": 123456, "hint": None},
        "cards": [4111111111111111, 4111111111111112, 1.5],
        "john@example.com": ["123-45-1234"],
        "usage": {"max_tokens": 4096, "tokens": 12},
        "secrets": {"db": "hunter2", "ports": [5432]},
    }
    assert mask_json(tree) == {
        "user": "bob",
        "login": {"password": "********", "remember": True, "otp": "********", "hint": None},
        "cards": ["****-****-****-1111", "****-****-****-1112", 1.5],
        "j***@example.com": ["***-**-1234"],
        "usage": {"max_tokens": 4096, "tokens": 12},
        "secrets": {"db": "********", "ports": ["********"]},
    }


def test_masking_a_tree_leaves_the_original_as_it_was() -> None:
    tree = {"a": [{"password": "hunter2"}]}
    mask_json(tree)
    assert tree == {"a": [{"password": "hunter2"}]}


@pytest.mark.parametrize(
    "entry, hidden",
    [
        ({"value": "hunter2", "name": "password"}, "value"),
        ({"selector": "input[name=password]", "text": "hunter2"}, "text"),
        ({"type": "fill", "selector": "#login-password", "value": "hunter2"}, "value"),
        ({"header": "X-Api-Key", "value": "hunter2"}, "value"),
    ],
)
def test_value_whose_sibling_names_a_secret_is_masked(entry: dict[str, str], hidden: str) -> None:
    assert mask_json(entry) == {**entry, hidden: "********"}


def test_secret_after_its_option_or_header_in_a_list_is_masked() -> None:
    assert mask_json(["run", "--password", "hunter2", "now"]) == ["run", "--password", "********", "now"]
    assert mask_json([["Cookie", "sid=1"], ["Host", "x"]]) == [["Cookie", "********"], ["Host", "x"]]
    assert mask_json({"required": ["password", "name"]}) == {"required": ["password", "name"]}


def test_keys_that_share_a_mask_lose_no_member() -> None:
    masked = mask_json({"john@example.com": 1, "jane@example.com": 2, "jack@example.com": 3})
    assert masked == {"j***@example.com": 1, "j***@example.com#2": 2, "j***@example.com#3": 3}


def test_order_of_members_is_kept() -> None:
    masked = mask_json({"z": 1, "password": "hunter2", "a": [1, {"y": 1, "b": 2}]})
    assert json.dumps(masked) == '{"z": 1, "password": "********", "a": [1, {"y": 1, "b": 2}]}'


def test_tree_of_any_depth_is_masked_without_recursion_and_cut_where_no_reader_would_follow() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    shown = json.dumps(mask_json(deep))  # type: ignore[arg-type]
    assert shown.count("[") == 100
    assert '"********"' in shown
    assert mask_json({"a": {"b": "c"}}, max_depth=1) == {"a": "********"}


def test_value_that_is_not_json_is_not_shown() -> None:
    assert mask_json({"a": b"hunter2", "b": ("x", 1)}) == {"a": "********", "b": ["x", 1]}


def test_name_of_the_value_itself_counts() -> None:
    assert mask_json(1234, name="pin") == "********"
    assert mask_json(["hunter2"], name="passwords") == ["********"]


@pytest.mark.req("VX-08")
def test_beside_the_name_of_a_card_a_number_needs_no_right_check_digit(subtests: pytest.Subtests) -> None:
    for name in ["card", "cc", "pan", "my_card", "userCard", "payment[card]", "cards", "pan_number", "panNo"]:
        with subtests.test(name):
            for number in ("4111111111111112", "4111 1111 1111 1112", "4111-1111-1111-1112"):
                assert mask_field(name, number) == "****-****-****-1112"
                assert mask_json({name: number, "id": number}) == {name: "****-****-****-1112", "id": number}
            assert mask_json({name: {"number": 4111111111111112, "amount": 4111111111111112}}) == {
                name: {"number": "****-****-****-1112", "amount": 4111111111111112}
            }
            for other in ("Visa", "jane wrote to cc", "12.5", "2026-11-18", "", "12345678901"):
                assert mask_field(name, other) == other


@pytest.mark.req("VX-08")
def test_the_name_of_a_card_counts_in_free_text_too() -> None:
    assert mask_text("pay with card: 4111 1111 1111 1112, now") == "pay with card: ****-****-****-1112, now"
    assert mask_text("?pan=4111111111111112&span=4111111111111112") == "?pan=****-****-****-1112&span=4111111111111112"
