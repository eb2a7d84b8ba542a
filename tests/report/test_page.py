"""The report in HTML: whole, self-contained, and for everybody."""

import re
from xml.etree import ElementTree

import pytest

from tests.report.making import DRIVER, timeline
from tonnage.report import charts, page
from tonnage.report.charts import Chart, Series
from tonnage.report.timeline import Timeline

ONE = [timeline()]
TWO = [timeline(label="csiAware=true"), timeline(label="csiAware=false", stuck=4)]


def tree(runs: list[Timeline]) -> ElementTree.Element:
    """The page is XML too, once its first line is gone and void elements are closed."""
    text = page.page(runs).removeprefix("<!doctype html>\n")
    return ElementTree.fromstring(re.sub(r"<(meta[^>]*)>", r"<\1/>", text))


def test_every_element_is_closed() -> None:
    assert tree(TWO).tag == "html"


def test_nothing_is_fetched_from_anywhere() -> None:
    assert not re.search(r"https?:|url\(|@import|<script|<link|src=", page.page(TWO))


def test_it_follows_the_readers_light_or_dark() -> None:
    assert "prefers-color-scheme: dark" in page.page(ONE)


def test_every_chart_has_a_name_and_a_description() -> None:
    found = list(tree(TWO).iter("svg"))
    assert found
    for svg in found:
        labelled = svg.attrib["aria-labelledby"].split()
        texts = {one.attrib.get("id"): one.text for one in svg}
        assert all(texts[name] for name in labelled)


def test_no_two_elements_share_an_identity() -> None:
    ids = [one.attrib["id"] for one in tree(TWO).iter() if "id" in one.attrib]
    assert len(ids) == len(set(ids))


def test_a_description_says_what_the_chart_shows() -> None:
    about = next(one.text for one in tree(ONE).iter("desc"))
    assert (
        about
        == "pending: no node: at most 2, at the end 2; stuck on a node: at most 0, at the end 0"
    )


def test_words_of_users_are_escaped() -> None:
    assert "Pods &lt;wait&gt; &amp; nodes come." in page.page(ONE)


def test_the_worse_of_two_runs_is_marked() -> None:
    cards = [
        one
        for one in tree(TWO).iter("div")
        if one.attrib.get("class") == "card" and "pods stuck at the end" in "".join(one.itertext())
    ]
    classes = [one.attrib["class"] for one in cards[0].iter("div")]
    assert classes[-2:] == ["value better", "value worse"]


def test_each_driver_has_its_chart() -> None:
    heads = [one.text for one in tree(ONE).iter("h2")]
    assert f"Volume slots of {DRIVER}" in heads


def test_charts_side_by_side_have_the_same_scale() -> None:
    small = Series("s", "c-used", [(0.0, 1.0)], "area")
    ticks = [
        re.findall(r'text-anchor="end">(\d+)<', charts.svg(_chart(one, top=80.0), identity="x"))
        for one in (small, small._replace(points=[(0.0, 80.0)]))
    ]
    assert ticks[0] == ticks[1]


def test_areas_are_stacked() -> None:
    both = [Series(name, "c-used", [(0.0, 3.0)], "area") for name in ("a", "b")]
    assert charts.highest(both) == 6.0


def test_a_value_holds_until_the_next_sample() -> None:
    line = Series("s", "c-used", [(0.0, 0.0), (50.0, 1.0)])
    path = re.search(
        r'<path class="c-used line" d="M([^"]+)"', charts.svg(_chart(line), identity="x")
    )
    assert path is not None
    corners = [tuple(map(float, corner.split())) for corner in path[1].split("L")]
    assert corners[1][1] == corners[0][1]
    assert corners[1][0] == corners[2][0]


@pytest.mark.parametrize(("highest", "top"), [(1.0, "1"), (7.0, "8"), (42.0, "60"), (250.0, "300")])
def test_axes_end_at_round_numbers(highest: float, top: str) -> None:
    line = Series("s", "c-used", [(0.0, highest)])
    ticks = re.findall(r'text-anchor="end">([\d,.]+)<', charts.svg(_chart(line), identity="x"))
    assert ticks[-1] == top or top in ticks


def _chart(series: Series, *, top: float | None = None) -> Chart:
    return Chart(title="t", description="d", series=[series], end=100.0, top=top)
