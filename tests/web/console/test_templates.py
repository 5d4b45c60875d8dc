"""What holds for every page, whatever it shows: escaped, visible, and nothing in it that the content policy forbids."""

import re
from importlib.resources import files

import click
import pytest
from jinja2 import nodes
from markupsafe import Markup

from remit.cli import main
from remit.web.console.templating import address, environment, exact, render_duration, short, shown

HOSTILE = "\"'><img src=x onerror=alert(1)>\u202e\x1b[2J{{ 7*7 }}"


def test_every_value_is_escaped_and_what_cannot_be_seen_is_spelled_out() -> None:
    made = environment().from_string('<a title="{{ x }}">{{ x }}</a>{{ x | upper }}{{ "%s" | format(x) }}{{ [x] }}')
    text = made.render(x=HOSTILE)
    assert "<img" not in text
    assert "\"'>" not in text
    assert not re.search("[\u202e\x1b]", text)
    assert r"\u202e" in text
    assert "{{ 7*7 }}" in text
    assert shown(Markup("<b>")) == "<b>"
    assert exact('\u202e"') == "\u202e&#34;"


@pytest.mark.req("PV-10")
def test_a_name_from_right_to_left_is_isolated_and_no_other_is_touched() -> None:
    made = environment().from_string("<b>{{ x }}</b> 10 {{ y }}")
    assert made.render(x="\u05d0/1", y="docs/a.txt") == "<b>\u2068\u05d0/1\u2069</b> 10 docs/a.txt"
    assert made.render(x="a\u034fb", y="c\U0001d159d") == r"<b>a\u034fb</b> 10 c\U0001d159d"


def test_a_link_keeps_whatever_others_chose_in_its_query() -> None:
    assert address("/inbox/question", kind="goal", id="../../logout?x=1&y#z") == (
        "/inbox/question?kind=goal&id=..%2F..%2Flogout%3Fx%3D1%26y%23z"
    )
    assert address("/runs/javascript:alert(1)") == "/runs/javascript%3Aalert%281%29"


def test_no_template_turns_escaping_off_or_has_script_or_style_within() -> None:
    environment_ = environment()
    names = environment_.list_templates()
    assert len(names) > 15
    for name in names:
        source, _, _ = environment_.loader.get_source(environment_, name)  # type: ignore[union-attr]
        tree = environment_.parse(source)
        filters = {node.name for node in tree.find_all(nodes.Filter)}
        assert not filters & {"safe", "tojson", "xmlattr", "urlize"}, name
        assert not list(tree.find_all(nodes.ScopedEvalContextModifier)), name
        assert not re.search(
            r"\sstyle\s*=|<style|\son[a-z]+\s*=|javascript:|<script(?![^>]*\ssrc=)", source, re.IGNORECASE
        ), name
        assert "http://" not in source, name
        assert "https://" not in source, name
        # A value outside of quotes could end its attribute, whatever is escaped.
        bare = re.sub(
            r'"[^"]*"', '""', re.sub(r"\{%.*?%\}", "", re.sub(r"\{\{.*?\}\}", "VALUE", source), flags=re.DOTALL)
        )
        assert not re.search(r"=\s*VALUE", bare), name


def test_every_command_that_an_empty_page_shows_is_one() -> None:
    shown = []
    for name in environment().list_templates():
        source, _, _ = environment().loader.get_source(environment(), name)  # type: ignore[union-attr]
        shown += re.findall(r'"(remit [^"]+)"\) \}\}', source)
    assert len(shown) >= 7
    for command in shown:
        found: click.Command = main
        for word in command.split()[1:]:
            if isinstance(found, click.Group):
                found = found.get_command(click.Context(found), word) or pytest.fail(command)
            elif word.startswith("--"):
                assert any(word in option.opts for option in found.params), command


def test_scripts_use_nothing_that_makes_markup_or_code_of_text() -> None:
    found = [file for file in (files("remit.web.console") / "static" / "js").iterdir() if file.name.endswith(".js")]
    assert len(found) > 5
    sinks = (
        r"innerHTML|outerHTML|insertAdjacent|document\.write|DOMParser|\beval\b|new Function|setHTML|srcdoc|Fragment"
    )
    for file in found:
        assert not re.search(sinks, file.read_text()), file.name


def test_times_and_ids_are_short() -> None:
    assert [render_duration(seconds) for seconds in (-3, 9.9, 60, 61, 3_600, 3_660, 90_000)] == [
        "0 s", "9 s", "1 min", "1 min 1 s", "1 h", "1 h 1 min", "1 d 1 h",
    ]  # fmt: skip
    assert short("0190-aaaa-0123456789ab") == "0123456789ab"
    assert (short("plan-1"), short(None)) == ("plan-1", "")


def test_a_sentence_for_a_user_has_its_language_and_its_direction() -> None:
    said = environment().from_string('{% from "parts.html" import said_in %}{{ said_in(text, language) }}')
    for language, tag in (("he", '<bdi lang="he" dir="rtl">'), ("de", '<bdi lang="de" dir="ltr">'), (None, "<bdi>")):
        shown = said.render(text="a <b>\u202e לא", language=language)
        assert shown == f"{tag}a &lt;b&gt;\\u202e לא</bdi>"
