"""What an agent types hides nothing of what a person decides on; what is a secret by its place and kind is masked.

The pages are our own, in a real Chromium. Typed texts are chosen to blank the preview: its host, path, names, price and
Remit's own words.
"""

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from starlette.testclient import TestClient

from remit.cli.approvals.render import render_approval
from remit.contracts.browser.browser import Approval, HTTPPreview
from remit.contracts.config.web import Web
from remit.observability.logs import configure_logging
from remit.services.services import Services
from remit.web.app import build_app
from remit.web.config.settings import WebSettings
from tests.browser.service.browser_workspace import Place, approve, deny

PAYMENT = """<form method="post" action="/act/transfer?kept=evening">
<input id="pw" type="password" name="password"><input id="token" name="csrf_token"><input id="secret" name="secret">
<input name="beneficiary" value="Eve Adams"><input name="amount" value="49.90">
<input name="iban" value="DE89370400440532">
<button id="go">Pay now</button></form>"""
SECRET_FIELDS = ("#pw", "#token", "#secret")


def typed_to_blank(place: Place) -> list[str]:
    """A host, a port, a path, names, values, a price, a method, and words of Remit's."""
    port = place.site.url("/").rpartition(":")[2].strip("/")
    return [
        "shop.test", port, "/act/transfer", "transfer", "beneficiary", "amount", "iban", "kept", "evening", "Eve Adams",
        "49.90", "EUR", "POST", "Sends 6 fields at", "The request agrees", "It is not encrypted on its way.",
        "Content-Type", "DE89370400440532", "password", "http",
    ]  # fmt: skip


def shown_to(place: Place, approval: Approval) -> dict[str, str]:
    """Everything in which a person reads the question: as data, in a terminal, in the console."""
    settings = WebSettings.of(Web.from_tree({"port": 0})).listening_at(80)
    with Services(place.workspace, console_url=settings.url) as desk:
        people = place.workspace.people
        session = people.redeem(people.invite("ada", "admin", actor="os:test").code)
        client = TestClient(build_app(desk, settings), base_url=settings.url, cookies={"remit_session": session.cookie})
        page = client.get("/inbox/question", params={"kind": "request", "id": approval.approval_id})
    assert page.status_code == 200, page.text
    return {
        "data": approval.canonical().decode(),
        "terminal": render_approval(approval, 600),
        "console": re.sub(r"<[^>]*>", "", page.text),
    }


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    with (tmp_path / "log").open("w") as stream:
        handler = configure_logging(stream, logging.DEBUG)
        yield tmp_path / "log"
        logging.getLogger().removeHandler(handler)


@pytest.mark.req("VX-16", "PV-10")
def test_an_agent_cannot_blank_what_a_person_decides_on(place: Place, log: Path) -> None:
    place.issue(max_purchase={"value": 100, "currency": "EUR"})
    place.site.routes["/act/transfer"] = "done"
    place.open(PAYMENT, "/shop")
    for text in typed_to_blank(place):
        for field in SECRET_FIELDS:
            assert place.do(place.action("type", "/shop", selector=field, value=text)).success
    place.forget()
    seen: dict[str, str] = {}

    def look_and_approve(place: Place, approval: Approval) -> None:
        try:
            seen.update(shown_to(place, approval))
        finally:
            approve(place, approval)

    amount = {"value": 49.9, "currency": "EUR"}
    bought = place.do(place.action("purchase", "/shop", selector="#go", amount=amount), look_and_approve)
    assert bought.success, bought
    (question,) = place.asked
    preview = question.approval.preview
    assert isinstance(preview, HTTPPreview)
    where = place.site.url("/act/transfer?kept=evening")
    assert (preview.method, preview.url) == ("POST", where)
    assert preview.body.preview == {"beneficiary": "Eve Adams", "amount": "49.90", "iban": "DE89370400440532"}
    assert preview.body.masked == {"password": "********", "csrf_token": "********", "secret": "********"}
    assert preview.headers["Host"] == where.split("/")[2]
    assert preview.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert preview.estimated_effect == (
        f"Sends 6 fields at {where.split('/')[2]}: POST /act/transfer. It is sent unencrypted. A password is sent"
        " unencrypted: other parties in the network can read it. The agent declares a price of 49.90 EUR. The request"
        " agrees: amount = 49.90."
    )
    assert sorted(seen) == ["console", "data", "terminal"]
    for shown in seen.values():
        for text in (
            where,
            "POST",
            "beneficiary",
            "Eve Adams",
            "amount",
            "49.90",
            "iban",
            "DE89370400440532",
            "agrees",
        ):
            assert text in shown.replace("&amp;", "&"), (text, shown)
    audited = [entry["target"] for entry in place.payloads("browser.action")]
    assert audited[-1] == place.site.url("/shop")
    recorded = [json.dumps(payload) for kind in sorted(set(place.kinds())) for payload in place.payloads(kind)]
    assert any(f"POST {where}" in payload for payload in recorded), "what became of the request"
    assert "********" not in log.read_text()


RENAMING = """<form id="form"><input type="password" id="pw"><input id="token" name="csrf_token"><input id="plain">
</form><button id="go" onclick="send()">Send</button><script>
const send = () => fetch("/act", {method: "POST", headers: {"Content-Type": "application/x-www-form-urlencoded"},
 body: new URLSearchParams({x1: pw.value, iban: pw.value, to: token.value, x2: token.value,
 x3: "<" + pw.value + ">"})});
</script>"""
ACCOUNT = "GB33 BUKB 2020 1555 5555 55"


def sent_with(place: Place, path: str = "/") -> HTTPPreview:
    """The preview of what the button sends. It is denied."""
    place.forget()
    place.click(path=path, answer=deny)
    preview = place.asked[0].approval.preview
    assert isinstance(preview, HTTPPreview)
    return preview


@pytest.mark.req("VX-08", "VX-16")
def test_a_password_that_the_page_sends_under_another_name_is_masked_and_the_preview_reports_it(place: Place) -> None:
    place.open(RENAMING)
    assert place.do(place.action("type", selector="#pw", value="correct horse 77")).success
    preview = sent_with(place)
    assert preview.body.masked == {"x1": "********"}
    assert preview.body.preview["x3"] == "<correct horse 77>", "no part of another text is masked"
    assert preview.estimated_effect.endswith("Masked: x1 (value typed into a secret field).")


@pytest.mark.req("VX-16")
def test_a_recipient_typed_into_a_field_for_secrets_is_shown_where_it_is_a_recipient(place: Place) -> None:
    place.open(RENAMING)
    assert place.do(place.action("type", selector="#token", value=ACCOUNT)).success
    shown = sent_with(place).body
    assert (shown.preview["to"], shown.preview["x2"]) == (ACCOUNT, ACCOUNT), "no person approved that it was typed"
    assert place.do(place.action("type", selector="#pw", value=ACCOUNT)).success
    shown = sent_with(place).body
    assert (shown.preview["to"], shown.preview["iban"]) == (ACCOUNT, ACCOUNT), "the name says what it is"
    assert shown.masked == {"x1": "********", "x2": "********"}
    assert place.do(place.action("type", selector="#plain", value=ACCOUNT)).success
    shown = sent_with(place).body
    assert shown.preview["x1"] == ACCOUNT, "it was also typed where everybody sees it"
    assert shown.masked == {}


@pytest.mark.req("VX-16")
def test_what_was_typed_on_one_page_hides_nothing_on_another(place: Place) -> None:
    place.open('<input type="password" id="pw" name="x1">', "/login")
    assert place.do(place.action("type", "/login", selector="#pw", value="DE89370400440532013000")).success
    page = (
        '<form method="post" action="/act"><input name="x2" value="DE89370400440532013000"><button id="go">Go</button>'
    )
    place.open(page, "/draft")
    assert sent_with(place, "/draft").body.preview == {"x2": "DE89370400440532013000"}
    fresh = (
        '<form method="post" action="/act"><input name="x2" value="DE89370400440532013000"><button id="go">Go</button>'
    )
    place.site.routes["/login"] = '<input type="password" id="pw">' + fresh
    assert place.do(place.action("navigate", "/login?x2=DE89370400440532013000")).success
    assert place.do(place.action("type", "/login", selector="#pw", value="DE89370400440532013000")).success
    assert sent_with(place, "/login").body.preview == {"x2": "DE89370400440532013000"}, (
        "the agent wrote it into an address"
    )


@pytest.mark.req("VX-16")
def test_a_password_that_a_person_did_not_approve_hides_nothing(place: Place) -> None:
    place.open(RENAMING.replace("pw.value", "'DE89 secret'"))
    assert not place.do(place.action("type", selector="#pw", value="DE89 secret"), deny).success
    assert sent_with(place).body.preview["x1"] == "DE89 secret"


TABLE = [
    ("password", "hunter2 x", "********"),
    ("card", "4111 1111 1111 1111", "****-****-****-1111"),
    ("card", "4111 1111 1111 1112", "****-****-****-1112"),
    ("cc", "4111111111111112", "****-****-****-1112"),
    ("pan", "4111-1111-1111-1112", "****-****-****-1112"),
    ("ssn", "078051120", "***-**-1120"),
    ("api_key", "sk_live_4eC39HqLyjWDarjtT1zdp7dc", "sk_...p7dc"),
    ("email", "jane@example.com", "j***@example.com"),
]
SENDING = """<input id="typed" name="NAME"><script>
const query = () => new URLSearchParams({NAME: typed.value}), post = (url, body, headers = {}) =>
  fetch(url, {method: "POST", body, headers}).catch(() => 0);
const parted = () => { const data = new FormData(); data.append("NAME", typed.value); return data; };
</script>
<button id="body" onclick="post('/act', query())">1</button>
<button id="query" onclick="post('/act?' + query(), 'x')">2</button>
<button id="json" onclick="post('/act', JSON.stringify({deep: [{'NAME': typed.value}]}))">3</button>
<button id="multipart" onclick="post('/act', parted())">4</button>
<button id="header" onclick="post('/act', 'x', {'X-NAME': typed.value})">5</button>"""


@pytest.mark.req("VX-08")
@pytest.mark.parametrize("name, value, mask", TABLE)
def test_the_masking_table_holds_for_what_is_typed(place: Place, name: str, value: str, mask: str) -> None:
    place.open(SENDING.replace("NAME", name))
    assert place.do(place.action("type", selector="#typed", value=value)).success
    for way in ("body", "query", "json", "multipart", "header"):
        place.forget()
        assert not place.click(f"#{way}", answer=deny).success
        preview = place.asked[0].approval.preview
        assert isinstance(preview, HTTPPreview)
        told = unquote(preview.canonical().decode().replace("+", " "))
        assert value not in told, (way, told)
        assert mask in told, (way, told)
    with place.workspace.store.reading() as connection:
        tables = [row[0] for row in connection.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = [repr(row) for table in tables for row in connection.rows(f'SELECT * FROM "{table}"')]
    assert not any(value in row for row in rows)


@pytest.mark.req("VX-08")
def test_a_field_that_only_its_label_calls_secret_is_masked_under_its_own_name(place: Place) -> None:
    page = """<form method="post" action="/act"><input id="a" name="f1" placeholder="Password">
    <input id="b" name="f2" autocomplete="one-time-code"><input id="c" name="f3" aria-label="Card number">
    <input name="f4" value="swordfish"><button id="go">Go</button></form>"""
    place.open(page)
    for field, value in (("#a", "swordfish"), ("#b", "123456"), ("#c", "4111111111111112")):
        assert place.do(place.action("type", selector=field, value=value)).success
    preview = sent_with(place)
    assert preview.body.masked == {"f1": "********", "f2": "********", "f3": "****-****-****-1112"}
    assert preview.body.preview == {"f4": "swordfish"}
    assert "Masked: f1, f2, f3 (value typed into a secret field)." in preview.estimated_effect


UNAPPROVED = {  # the attributes of a field, and the name under which its page sends what is in it
    "an id that is the name of another field": ('id="to" name="csrf_token"', "to"),
    "a label that ends with a word for a secret": (
        'id="to" name="recipient" placeholder="Recipient, not your password"',
        "recipient",
    ),
    "a label that is the name of another field": ('id="to" name="pin" aria-label="beneficiary"', "beneficiary"),
}
SEND = """<script>
const send = (it) => fetch('/act', {method: 'POST', body: new URLSearchParams(it)}).catch(() => 0);
</script>"""


@pytest.mark.req("VX-16")
@pytest.mark.parametrize("way", UNAPPROVED)
def test_what_no_person_approved_hides_no_recipient_whatever_the_page_calls_its_field(place: Place, way: str) -> None:
    field, name = UNAPPROVED[way]
    press = f"send({{{name}: document.querySelector('#to').value}})"
    place.open(f'<input {field}><button id="go" onclick="{press}">Send</button>{SEND}')
    assert place.do(place.action("type", selector="#to", value=ACCOUNT)).success
    assert place.asked == [], "it is no password field"
    preview = sent_with(place)
    assert (preview.body.preview, preview.body.masked) == ({name: ACCOUNT}, {})


@pytest.mark.req("VX-08")
def test_a_number_of_a_card_is_masked_also_where_its_field_has_the_name_of_an_account(place: Place) -> None:
    place.open(
        '<form method="post" action="/act"><input id="a" name="account" aria-label="Card number">'
        '<button id="go">Go</button></form>'
    )
    assert place.do(place.action("type", selector="#a", value="4111111111111112")).success
    assert sent_with(place).body.masked == {"account": "****-****-****-1112"}


@pytest.mark.req("VX-08")
def test_a_password_in_the_label_of_a_button_is_not_in_the_ledger(place: Place) -> None:
    place.open(
        '<input type="password" id="pw" oninput="go.textContent = `Send ${pw.value}`"><button id="go"'
        " onclick=\"fetch('/act', {method: 'POST', body: 'a'})\">Send</button>"
    )
    assert place.do(place.action("type", selector="#pw", value="correct horse 78")).success
    sent_with(place)
    with place.workspace.store.reading() as connection:
        tables = [row[0] for row in connection.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = [repr(row) for table in tables for row in connection.rows(f'SELECT * FROM "{table}"')]
    assert not any("correct horse 78" in row for row in rows)
    assert any("Send ********" in row for row in rows)
