"""What a person is shown of a held request: all of it, in order, and none of its secrets."""

import json
import string
import time
from hashlib import sha256
from types import SimpleNamespace
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remit.browser.checkpoint import render_summary
from remit.browser.model.form_fields import Field, parse_fields
from remit.browser.model.masking import mask_url
from remit.browser.model.requests import OutgoingRequest, RequestKind
from remit.browser.request_preview import Context, preview_request, preview_typing, read_request, require_showable
from remit.browser.typed_secrets import TypedSecrets
from remit.contracts.browser.browser import Action, Amount, HTTPPreview
from remit.core.errors import Reason, RefusedError
from remit.masking import mask_shaped
from remit.masking.field_names import Kind

FORM = "application/x-www-form-urlencoded"
URL = "https://shop.test/pay"


def outgoing(
    body: bytes = b"",
    content_type: str = FORM,
    *,
    method: str = "POST",
    url: str = URL,
    kind: RequestKind = "request",
    headers: tuple[tuple[str, str], ...] = (),
) -> OutgoingRequest:
    typed = (("Content-Type", content_type),) if body else ()
    return OutgoingRequest("r1", kind, method, url, (("Host", "shop.test"), *typed, *headers), body)


def shown(request: OutgoingRequest, context: Context | None = None) -> HTTPPreview:
    return preview_request(read_request(request), context or Context())


@pytest.mark.req("VX-07")
def test_a_form_is_shown_field_by_field_in_two_parts() -> None:
    preview = shown(outgoing(b"item=42&note=two+words&password=hunter2&email=jane%40example.com&item=43"))
    assert preview.method == "POST"
    assert preview.url == URL
    assert preview.body.preview == {"item": "42", "note": "two words", "item#2": "43"}
    assert preview.body.masked == {"password": "********", "email": "j***@example.com"}
    assert preview.estimated_effect == "Sends 5 fields at shop.test: POST /pay."


@pytest.mark.req("VX-08")
def test_the_masking_table_holds_in_every_kind_of_body(subtests: pytest.Subtests) -> None:
    for name, value, mask in [
        ("password", "hunter2", "********"),
        ("card", "4111 1111 1111 1111", "****-****-****-1111"),
        ("card", "4111 1111 1111 1112", "****-****-****-1112"),
        ("cc", "4111111111111112", "****-****-****-1112"),
        ("myPan", "4111-1111-1111-1112", "****-****-****-1112"),
        ("number", "078-05-1120", "***-**-1120"),
        ("ssn", "078051120", "***-**-1120"),
        ("key", "sk_live_4eC39HqLyjWDarjtT1zdp7dc", "sk_...p7dc"),
        ("contact", "jane@example.com", "j***@example.com"),
        ("_csrf", "c2VjcmV0LXZhbHVl", "********"),
        ("authenticity_token", "abc", "********"),
        ("code", "4/0AX4XfWh-long-code", "********"),
    ]:
        with subtests.test(name):
            boundary = "XyZ"
            bodies = {
                FORM: urlencode({name: value}).encode(),
                "application/json": json.dumps({"order": {name: value}}).encode(),
                f"multipart/form-data; boundary={boundary}": (
                    f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'
                    f"{value}\r\n--{boundary}--\r\n"
                ).encode(),
            }
            for content_type, body in bodies.items():
                preview = shown(outgoing(body, content_type))
                assert list(preview.body.masked.values()) == [mask], content_type
                assert preview.body.preview == {}
            assert shown(outgoing(method="GET", url=f"{URL}?{urlencode({name: value})}")).body.masked == {name: mask}


def test_json_is_flattened_and_a_secret_named_by_its_sibling_is_masked() -> None:
    tree = {"a": [1, {"b": None}], "fields": [{"name": "password", "value": "hunter2"}], "empty": {}, "ok": True}
    preview = shown(outgoing(json.dumps(tree).encode(), "application/json"))
    assert preview.body.preview == {
        "a[0]": "1",
        "a[1].b": "null",
        "fields[0].name": "password",
        "empty": "{}",
        "ok": "true",
    }
    assert preview.body.masked == {"fields[0].value": "********"}


def test_json_that_two_readers_read_differently_is_shown_as_text() -> None:
    body = b'{"amount": 1, "amount": 1000}'
    assert parse_fields("application/json", "", body) == (Field("(text)", body.decode(), is_ours=True),)


def test_a_file_in_a_form_is_shown_by_name_size_and_digest() -> None:
    content = bytes(range(256))
    body = b'--B\r\nContent-Disposition: form-data; name="f"; filename="a.bin"\r\nContent-Type: application/x\r\n\r\n'
    preview = shown(outgoing(body + content + b"\r\n--B--\r\n", "multipart/form-data; boundary=B"))
    assert preview.body.preview == {
        "f": f"file 'a.bin', application/x, 256 bytes, sha256:{sha256(content).hexdigest()}"
    }


@pytest.mark.parametrize(
    "body",
    [
        b"no border at all",
        b'--B\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n',
        b'junk\r\n--B\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--B--\r\n',
        b'--B\r\nContent-Disposition: form-data; name="a"; name="b"\r\n\r\n1\r\n--B--\r\n',
        b'--B\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--B--\r\nmore',
    ],
)
def test_parts_that_are_not_plainly_parted_are_shown_whole(body: bytes) -> None:
    assert parse_fields("multipart/form-data; boundary=B", "", body) == (Field("(text)", body.decode(), is_ours=True),)


def test_bytes_and_encoded_bodies_are_shown_by_size_and_digest() -> None:
    body = b"\xff\xfe\x00"
    told = f"3 bytes, sha256:{sha256(body).hexdigest()}"
    assert parse_fields("application/octet-stream", "", body) == (Field("(bytes)", told, is_ours=True),)
    assert parse_fields(FORM, "gzip", body) == (Field("(gzip)", told, is_ours=True),)


def test_what_is_not_shown_says_so() -> None:
    body = urlencode({f"f{n}": "x" * 300 for n in range(400)}).encode()
    preview = shown(outgoing(body))
    kept = len(preview.body.preview) - 1
    assert 50 < kept < 400
    assert preview.body.preview["(not shown)"] == (
        f"{400 - kept} more fields; the whole body: {len(body):,} bytes, sha256:{sha256(body).hexdigest()}"
    )
    long = shown(outgoing(b"text=" + b"a" * 5_000)).body.preview["text"]
    assert long.endswith("... (3,000 more characters, not shown)")


def test_a_field_cannot_take_the_place_of_what_we_say() -> None:
    many = {f"f{n}": "x" * 300 for n in range(400)}
    preview = shown(outgoing(urlencode({"(not shown)": "nothing", '"(not shown)"': "really", **many}).encode()))
    assert " more fields; the whole body: " in preview.body.preview["(not shown)"]
    assert preview.body.preview['"(not shown)"'] == "nothing"
    assert preview.body.preview['"(not shown)"#2'] == "really"
    assert shown(outgoing(b"(text)=mine")).body.preview == {'"(text)"': "mine"}
    assert shown(outgoing(b"mine", "text/plain")).body.preview == {"(text)": "mine"}


def test_a_page_cannot_keep_remit_busy_with_a_body_that_is_too_large_for_a_person_to_read() -> None:
    many = b"&".join(b"f%d=%d" % (number, number) for number in range(100_000))
    long = b"password=" + b"x" * 1_000_000
    for body in (many, long, b'{"a":' + b"1" * 300_000 + b"}", b"[" * 100_000):
        started = time.process_time()
        preview = shown(outgoing(body))
        assert time.process_time() - started < 2
        assert "not shown" in json.dumps(preview.tree())
        assert len(preview.canonical()) < 100_000
    crowded = shown(outgoing(b"a=1", headers=tuple((f"X-{number}", "1") for number in range(200))))
    assert crowded.headers["(not shown)"] == "102 more headers"


def test_headers_are_masked_and_repeated_ones_are_all_there() -> None:
    preview = shown(
        outgoing(
            b"a=1",
            headers=(
                ("Cookie", "sid=abcdef; theme=dark"),
                ("Authorization", "Bearer abcdefghijklmnop"),
                ("X-CSRF-Token", "1234"),
                ("Referer", "https://shop.test/cart?token=abcdefghijklmnopqrstuvwxyz"),
                ("X-Note", "one"),
                ("X-Note", "two"),
            ),
        )
    )
    assert preview.headers["Cookie"] == "********"
    assert preview.headers["Authorization"] == "Bearer ********"
    assert preview.headers["X-CSRF-Token"] == "********"
    assert preview.headers["Referer"] == "https://shop.test/cart?token=...wxyz"
    assert (preview.headers["X-Note"], preview.headers["X-Note#2"]) == ("one", "two")


def typed(*values: str, page: str = URL) -> TypedSecrets:
    secrets = TypedSecrets()
    for number, value in enumerate(values):
        secrets.add(value, Kind.PASSWORD, is_password=True, names=[f"field-{number}"], page=page)
    return secrets


@pytest.mark.req("VX-08", "VX-16")
def test_what_was_typed_into_a_password_field_is_masked_where_it_is_a_whole_value() -> None:
    secret = "open sesame/1"
    request = outgoing(
        urlencode({"x1": secret, "x2": "fine", "x3": f"<{secret}>", "to": secret}).encode(),
        url=f"{URL}/{quote(secret)}?q={quote(secret, safe='')}",
        headers=(("X-Odd", secret),),
    )
    preview = shown(request, Context(secrets=typed(secret, "shop.test", "x2", "fine", "pay"), page=URL))
    assert preview.url == f"{URL}/{quote(secret)}?q=********"
    assert preview.body.masked == {"x1": "********", "x2": "********"}
    assert preview.body.preview == {"x3": f"<{secret}>", "to": secret}
    assert (preview.headers["X-Odd"], preview.headers["Host"]) == ("********", "shop.test")
    assert preview.estimated_effect == (
        f"Sends 4 fields at shop.test: POST /pay/{quote(secret)}. Masked: x1, x2, q, X-Odd (value typed into a secret"
        " field)."
    )
    elsewhere = shown(request, Context(secrets=typed(secret), page="https://shop.test/other"))
    assert elsewhere.body.masked == {}, "it was typed on another page"


def test_the_effect_is_described_from_the_request_and_not_from_claims_about_it() -> None:
    action = Action(action_id="a", type="purchase", target=URL, selector="#b", amount=Amount(value=5.0, currency="EUR"))
    told = shown(
        outgoing(b"amount=5.00", url="http://pay.test/x"),
        Context(action=action, page="https://shop.test/cart", by_itself=True),
    ).estimated_effect
    assert told == (
        "Sends 1 field at pay.test: POST /x. It is sent unencrypted. It goes to another host than the shown page,"
        " shop.test. The page sends this by itself; it is not the agent's action. The agent declares a price of 5.00"
        " EUR. The request agrees: amount = 5.00."
    )
    redirected = Context(page=URL, redirected_from="https://shop.test/go?token=abcdefghijklmnopqrstuvwxyz")
    told = shown(outgoing(b"total=79.90&a=1"), redirected).estimated_effect
    assert "It comes after a redirect from https://shop.test/go?token=...wxyz." in told
    assert "It names a price (total = 79.90), but the agent did not declare a purchase." in told
    silent = shown(outgoing(b"a=1"), Context(action=action, page=URL)).estimated_effect
    assert "Neither the request nor the page names a price that can be compared." in silent
    socket = outgoing(method="GET", kind="websocket", url="wss://shop.test/live")
    assert shown(socket).estimated_effect.startswith("Opens a WebSocket to shop.test /live.")
    message = shown(outgoing(b"hello", "", method="", kind="message", url="wss://shop.test/live"))
    assert (message.method, message.body.preview) == (None, {"(text)": "hello"})
    assert shown(outgoing(method="DELETE")).estimated_effect == "Asks shop.test to delete /pay."


@pytest.mark.req("VX-07")
def test_typing_a_password_is_previewed_without_a_method_and_without_the_password() -> None:
    action = Action(action_id="a", type="type", target=URL, selector="#p", value="correct horse")
    preview = preview_typing(action, URL, "the text field 'Password'", TypedSecrets())
    assert preview.method is None
    assert "horse" not in preview.canonical().decode()
    assert "13 characters" in preview.estimated_effect
    assert "not encrypted" not in preview.estimated_effect
    assert "not encrypted" in preview_typing(action, "http://shop.test/", "", TypedSecrets()).estimated_effect


@pytest.mark.req("VX-07")
def test_the_preview_warns_of_a_password_that_is_sent_unencrypted() -> None:
    knowing, warning = Context(secrets=typed("hunter2"), page=URL), "A password is sent unencrypted"
    for body, context, is_said in (
        (b"user=jane&userPassword=hunter2", Context(), True),
        (b"x1=hunter2", knowing, True),
        (b"to=hunter2", knowing, True),
        (b"passenger=jane&password=", knowing, False),
    ):
        assert (warning in shown(outgoing(body, url="http://shop.test/"), context).estimated_effect) is is_said, body
        assert warning not in shown(outgoing(body), context).estimated_effect


def test_a_form_is_not_called_the_form_of_a_form() -> None:
    action = Action(action_id="a", type="submit", target=URL, selector="form")
    form = SimpleNamespace(method="post", action=URL)
    described = SimpleNamespace(tag="form", role="form", name="", submits=False, form=form)
    assert (
        render_summary(action, URL, described, TypedSecrets()) == f"Submit a form without a name (POST {URL}), at {URL}"
    )
    button = SimpleNamespace(tag="button", role="button", name="Pay", submits=True, form=form)
    assert (
        render_summary(action, URL, button, TypedSecrets())
        == f"Submit the button 'Pay' of the form POST {URL}, at {URL}"
    )


def test_what_cannot_be_shown_is_refused() -> None:
    for request in (outgoing(method="PROPFIND"), outgoing(url=URL + "?" + "a" * 9_000)):
        with pytest.raises(RefusedError) as refused:
            require_showable(request)
        assert refused.value.reason is Reason.CONSTRAINT_VIOLATED
    require_showable(outgoing())


# --- no secret survives ---------------------------------------------------------------------------------------------

secrets = st.text(string.ascii_letters + string.digits + "!$*+-._~ äß", max_size=40).map(lambda text: f"Zq7X{text}w9Y")
plain_names = st.text(string.ascii_lowercase, min_size=3, max_size=8).filter(lambda name: name not in {"pass", "pin"})
secret_names = st.sampled_from(
    ["password", "userPassword", "api_key", "client_secret", "csrf_token", "cvv", "user[pin]"]
)


def survives(secret: str, preview: HTTPPreview) -> bool:
    text = json.dumps(preview.tree(), ensure_ascii=False)
    return secret in text or quote(secret) in text or secret[:-4] in text


@settings(deadline=None, max_examples=80)
@given(name=secret_names, secret=secrets, other=plain_names, place=st.integers(0, 7))
def test_no_secret_under_a_secret_name_survives_anywhere(name: str, secret: str, other: str, place: int) -> None:
    form = urlencode({other: "1", name: secret})
    tree = {other: {"list": [{name: secret}]}}
    multipart = f'--B\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{secret}\r\n--B--\r\n'
    requests = [
        outgoing(form.encode()),
        outgoing(json.dumps(tree).encode(), "application/json"),
        outgoing(json.dumps(tree, ensure_ascii=False).encode(), "text/plain"),
        outgoing(form.encode(), "text/plain"),
        outgoing(multipart.encode(), "multipart/form-data; boundary=B"),
        outgoing(method="GET", url=f"{URL}?{form}"),
        outgoing(b"a=1", url=f"{URL}?{form}#{urlencode({name: secret})}"),
        outgoing(json.dumps({other: f"{URL}?{form}"}).encode(), "application/json"),
    ]
    preview = shown(requests[place])
    assert not survives(secret, preview), preview


@settings(deadline=None, max_examples=60)
@given(tail=st.text(string.ascii_letters + string.digits, min_size=24, max_size=24), name=plain_names)
def test_a_key_is_found_by_its_shape_in_every_place(tail: str, name: str) -> None:
    key = f"sk_live_{tail}"
    request = outgoing(
        urlencode({name: f"my key is {key}"}).encode(),
        url=f"https://shop.test/{key}/pay?{name}={key}#{key}",
        headers=(("X-Thing", key), ("Referer", f"https://shop.test/?q={key}")),
    )
    assert not survives(key, shown(request)), shown(request)


def test_no_host_of_an_address_is_ever_masked() -> None:
    for host in ("token:8080", "4111111111111111", "sk_live_abcdef0123456789.shop.test", "[2001:db8::1]:8080"):
        shown = mask_url(f"https://user:pass@{host}/x@bank.test/pay?next=https://u:p@{host}/y@bank.test")
        assert shown.startswith(f"https://********@{host}/x")
        assert f"next=https://u:********@{host}/y" in shown
        assert mask_shaped(shown) == shown, "nor by the mask of what is asked"


def test_a_secret_behind_percent_signs_is_masked() -> None:
    twice = quote(quote("password=hunter2secret"))
    assert "hunter2secret" not in mask_url(f"https://shop.test/?next={twice}")
    assert mask_url("https://user:pass@shop.test/a?b=c") == "https://********@shop.test/a?b=c"
    assert mask_url("https://shop.test/a?b=c&d=%20e#f") == "https://shop.test/a?b=c&d=%20e#f"


@pytest.mark.req("VX-08")
@pytest.mark.parametrize(
    "path, shown_path",
    [
        ("/password/hunter2", "/password/********"),
        ("/api_key/hunter%32/x", "/api_key/********/x"),
        ("/password/reset/8f3a9c0d1e2b4f56", "/password/reset/********"),
        ("/token/refresh", "/token/refresh"),
        ("/state/north-carolina", "/state/north-carolina"),
        ("/a?reset=8f3a9c0d1e2b4f56&key=8f3a9c0d1e2b4f56", "/a?reset=********&key=********"),
        ("/a?access=8f3a9c0d1e2b4f56&key=name", "/a?access=********&key=name"),
    ],
)
def test_a_word_in_an_address_says_what_follows_it(path: str, shown_path: str) -> None:
    assert mask_url(f"https://shop.test{path}") == f"https://shop.test{shown_path}"


@pytest.mark.req("VX-08")
def test_a_quote_that_is_opened_hides_nothing_but_its_own_line_or_part() -> None:
    """What stands around a secret is what is approved: a mask must not take it along."""
    body = shown(outgoing(b'note password="hunter2\npay: everybody', "text/plain")).body
    assert body.masked == {"(text)": r'note password="********\npay: everybody'}
    tree = json.dumps({"note": 'password="hunter2\npay: everybody', "to": "all"}).encode()
    body = shown(outgoing(tree, "application/json")).body
    assert (body.masked, body.preview) == ({"note": r'password="********\npay: everybody'}, {"to": "all"})
    address = f"{URL}/password=%22/then/now?a=password%3D%22x&transfer=all#token=%22&b=c"
    url = shown(outgoing(b"a=b", url=address)).url
    assert "/now?" in url
    assert "&transfer=all#" in url
    assert url.endswith("&b=c")
