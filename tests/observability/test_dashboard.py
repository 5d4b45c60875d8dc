"""The dashboard and the alerts ask for metrics that there are, by labels that they have; and for all that matter."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from remit.observability.prometheus import PROCESS, list_metrics

FOLDER = Path(__file__).resolve().parents[2] / "observability"
NOT_SHOWN = {"remit_build_info"}
"""Asked for by the choice of servers only."""
LABELS = {one.name: {*one.labels, "instance"} for one in list_metrics()}
KINDS = {one.name: one.kind for one in list_metrics()}
_NAME = re.compile(r"\b(?:abos|remit|process)_[a-z0-9_]+")
_SUFFIX = re.compile(r"_(bucket|count|sum)$")


def _dashboard() -> Any:
    return json.loads((FOLDER / "grafana-dashboard.json").read_text(encoding="utf-8"))


def _queries() -> Iterator[tuple[str, str]]:
    """Where, and what is asked."""
    for panel in _dashboard()["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
            labels = " ".join(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            yield panel["title"], f"by ({labels.replace(' ', ', ')}) {target['expr']}"
    rules = YAML(typ="safe").load((FOLDER / "remit-alerts.yml").read_text(encoding="utf-8"))
    for rule in rules["groups"][0]["rules"]:
        yield rule["alert"], rule["expr"]


def _family(name: str) -> str:
    return _SUFFIX.sub("", name) if name not in KINDS else name


def test_every_query_names_metrics_that_exist_and_labels_that_they_have() -> None:
    for where, query in _queries():
        _require_good(where, query)


def test_a_query_for_what_there_is_not_would_be_seen() -> None:
    """The check itself, tried with what it is there to find."""
    bad = [
        "rate(remit_gone_total[5m])",
        "sum by (tenant) (remit_jobs)",
        "remit_http_requests_total",
        "remit_road_seconds",
    ]
    for query in (*bad, "sum(vector(1))", 'rate(remit_road_requests_total{who="ada"}[5m])'):
        with pytest.raises(AssertionError):
            _require_good("tried", query)


def _require_good(where: str, query: str) -> None:
    names = _NAME.findall(query)
    assert names, where
    for name in names:
        family = _family(name)
        assert family in KINDS, where
        assert (family != name) == (KINDS[family] == "histogram"), f"{where}: a histogram is asked for by its buckets"
        inside = re.findall(r"by \(([^)]*)\)", query) + re.findall(r"(\w+)=~?\"", query)
        asked = {label for group in inside for label in group.replace(" ", "").split(",") if label} - {"le"}
        assert asked <= LABELS[family], where
        if KINDS[family] == "counter":
            assert re.search(rf"(rate|increase)\({name}", query), f"{where}: a counter is asked for by its growth"


def test_every_metric_is_on_the_dashboard() -> None:
    shown = {_family(name) for _, query in _queries() for name in _NAME.findall(query)}
    assert set(KINDS) - shown - NOT_SHOWN - set(PROCESS) == set()
    variables = {variable["name"]: variable for variable in _dashboard()["templating"]["list"]}
    assert set(_NAME.findall(variables["instance"]["definition"])) == NOT_SHOWN


def test_panels_have_places_of_their_own() -> None:
    panels = _dashboard()["panels"]
    places = [
        (x, y)
        for grid in (panel["gridPos"] for panel in panels)
        for x in range(grid["x"], grid["x"] + grid["w"])
        for y in range(grid["y"], grid["y"] + grid["h"])
    ]
    assert len(places) == len(set(places))
    assert len({panel["id"] for panel in panels}) == len(panels)
