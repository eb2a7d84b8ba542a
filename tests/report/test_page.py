"""The report in HTML: whole, self-contained, and for everybody."""

import base64
import hashlib
import json
import re
from xml.etree import ElementTree

import msgspec
import pytest

from tests.report.timelines import DRIVER, LOCAL, sample, timeline, with_storage
from tonnage.report import charts, interactive, page
from tonnage.report.charts import Chart, ChartSeries
from tonnage.report.timeline import Mark, PodCounts, SlotSample, Summary, Timeline

ONE = [timeline()]
TWO = [timeline(label="csiAware=true"), timeline(label="csiAware=false", stuck=4)]


def without_script(runs: list[Timeline]) -> str:
    """The page without the one script that stands in it."""
    before, _, rest = page.page(runs).partition(f"<script>{interactive.script()}</script>")
    assert rest
    return before + rest


def tree(runs: list[Timeline]) -> ElementTree.Element:
    """The page is XML too, once its first line and script are gone and void elements are closed."""
    text = without_script(runs).removeprefix("<!doctype html>\n")
    return ElementTree.fromstring(re.sub(r"<(meta[^>]*)>", r"<\1/>", text))


def test_every_element_is_closed() -> None:
    assert tree(TWO).tag == "html"


def test_nothing_is_fetched_from_anywhere() -> None:
    assert not re.search(r"https?:|url\(|@import|<script|<link|src=", without_script(TWO))


def test_a_browser_may_run_and_apply_what_stands_in_the_page_and_nothing_else() -> None:
    text = page.page(TWO)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy is not None
    for element, rule in (("script", "script-src"), ("style", "style-src")):
        [inside] = re.findall(f"<{element}>(.*?)</{element}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{rule} 'sha256-{digest}';" in policy[1]
    assert policy[1].startswith("default-src 'none'; ")


def test_a_chart_is_drawn_of_the_same_values_as_its_picture() -> None:
    found = [one for one in tree(TWO).iter("div") if one.attrib.get("class") == "plotted"]
    pictures = [one for one in tree(TWO).iter("svg") if one.attrib.get("class") == "chart"]
    assert [one.attrib["aria-labelledby"] for one in found] == [
        one.attrib["aria-labelledby"] for one in pictures
    ]
    data = json.loads(found[0].attrib["data-chart"])
    pending = next(one for one in data["series"] if one["name"] == "pending, no node")
    assert max(pending["values"]) == 2
    assert {len(one["values"]) for one in data["series"]} == {len(data["times"])}
    assert data["times"][-1] == data["end"] == TWO[0].duration


def test_runs_that_were_sampled_at_other_times_share_a_chart() -> None:
    counts = ChartSeries("a", "c-first", [(0.0, 1.0), (20.0, 3.0)])
    costs = ChartSeries("b", "c-second", [(10.0, 2.0)], "slope")
    chart = Chart(title="t", description="d", series=[counts, costs], end=30.0)
    drawn = ElementTree.fromstring(interactive.box(chart, identity="x"))
    data = json.loads(drawn.attrib["data-chart"])
    assert data["times"] == [0.0, 10.0, 20.0, 30.0]
    assert [one["values"] for one in data["series"]] == [[1, 1, 3, 3], [None, 2, None, None]]


def test_it_follows_the_readers_light_or_dark() -> None:
    assert "prefers-color-scheme: dark" in page.page(ONE)


def test_every_chart_has_a_name_and_a_description() -> None:
    found = [one for one in tree(TWO).iter("svg") if one.attrib.get("class") == "chart"]
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
    assert about is not None
    assert "pending, no node: at most 2, at the end 2" in about


def test_words_of_users_are_escaped() -> None:
    assert "Pods &lt;wait&gt; &amp; nodes come." in page.page(ONE)


def test_the_worse_of_two_runs_is_marked() -> None:
    stuck = card(TWO, "pods stuck at the end")
    classes = [one.attrib["class"] for one in stuck.iter("span")]
    assert classes == ["value better", "value worse"]


def test_a_card_tells_the_cost_where_there_are_prices() -> None:
    assert "0.17" in "".join(card(ONE, "cost").itertext())


def test_without_prices_there_is_no_cost_to_tell() -> None:
    free = msgspec.structs.replace(ONE[0], summary=Summary())
    assert all("cost" not in head for head in heads([free]))


def test_each_driver_has_its_chart() -> None:
    assert f"Volume slots of {DRIVER}" in heads(ONE)


def test_a_driver_without_a_limit_has_no_line_at_zero() -> None:
    slots = (SlotSample(driver=DRIVER, used=3, free=0, limit=0),)
    samples = tuple(msgspec.structs.replace(one, slots=slots) for one in ONE[0].samples)
    unlimited = msgspec.structs.replace(ONE[0], samples=samples)
    assert "limit of all nodes" not in page.page([unlimited])


def test_each_driver_with_local_storage_has_its_chart_in_gib() -> None:
    stored = [with_storage(ONE[0], used=80, total=300)]
    figure = next(
        one
        for one in tree(stored).iter("figure")
        if f"Local storage of {LOCAL}" in [head.text for head in one.iter("h3")]
    )
    assert [one.text for one in figure.iter("desc")] == [
        "used: at most 80, at the end 80; total of all nodes: at most 300, at the end 300"
    ]
    assert "GiB" in [one.text for one in figure.iter("text")]


def test_without_local_storage_there_is_nothing_about_it() -> None:
    assert "GiB" not in page.page(TWO)


def test_local_storage_is_in_the_charts_as_a_table() -> None:
    table = list(tree([with_storage(ONE[0], used=80, total=1500)]).iter("table"))[-1]
    heads = [one.text for one in table.iter("th")]
    last = ["".join(one.itertext()) for one in list(table.iter("tr"))[-1]]
    told = dict(zip(heads, last, strict=True))
    assert (told[f"{LOCAL} used, GiB"], told[f"{LOCAL} total, GiB"]) == ("80", "1,500")


def test_pods_that_start_are_among_those_that_do_not_run() -> None:
    starting = msgspec.structs.replace(sample(0.0), pods=PodCounts(starting=5, stuck=2))
    about = next(
        one.text
        for one in tree([msgspec.structs.replace(ONE[0], samples=(starting,))]).iter("desc")
    )
    assert about is not None
    assert "stuck on a node: at most 2" in about
    assert "starting on a node: at most 3" in about


def test_a_decision_is_told_in_words_with_its_reason() -> None:
    rows = [["".join(cell.itertext()) for cell in row] for row in tree(ONE).iter("tr")]
    assert ["00:01:01", "add 3 nodes to db", "they fit"] in rows


def test_a_refused_request_says_so() -> None:
    assert "add 1 node to webrefused: no stock" in [
        "".join(cell.itertext()) for cell in tree(ONE).iter("td")
    ]


def test_a_run_without_decisions_says_so() -> None:
    quiet = msgspec.structs.replace(ONE[0], decisions=())
    assert "The autoscaler decided nothing." in page.page([quiet])


def test_events_are_marked_in_every_chart_and_decisions_where_nodes_are() -> None:
    marked = {
        head.text: [one.attrib["class"] for one in figure.iter("g")]
        for figure in tree(ONE).iter("figure")
        for head in figure.iter("h3")
    }
    assert marked["Pods that run"] == ["marker done"]
    assert marked["Nodes by state"] == ["marker done", "marker decided", "marker decided"]


def test_more_markers_than_can_be_told_apart_are_left_out() -> None:
    marks = tuple(Mark(at=float(at), text="scale") for at in range(41))
    many = msgspec.structs.replace(ONE[0], marks=marks, decisions=())
    assert "marker" not in {
        one.attrib.get("class", "").split(" ")[0] for one in tree([many]).iter()
    }


def test_a_run_without_samples_has_a_page() -> None:
    assert tree([msgspec.structs.replace(ONE[0], samples=())]).tag == "html"


def test_charts_side_by_side_have_the_same_scale() -> None:
    small = ChartSeries("s", "c-used", [(0.0, 1.0)], "area")
    large = small._replace(points=[(0.0, 80.0)])
    assert levels(_chart(small, top=80.0)) == levels(_chart(large, top=80.0))


def test_areas_are_stacked() -> None:
    both = [ChartSeries(name, "c-used", [(0.0, 3.0)], "area") for name in ("a", "b")]
    assert charts.highest(both) == 6.0


def test_a_value_holds_until_the_next_sample() -> None:
    line = ChartSeries("s", "c-used", [(0.0, 0.0), (50.0, 1.0)])
    path = re.search(
        r'<path class="c-used line" d="M([^"]+)"/>', charts.svg(_chart(line), identity="x")
    )
    assert path is not None
    corners = [tuple(map(float, corner.split())) for corner in path[1].split("L")]
    assert corners[1][1] == corners[0][1]
    assert corners[1][0] == corners[2][0]


@pytest.mark.parametrize(
    ("highest", "ticks"),
    [
        (0.0, "0 1"),
        (1.0, "0 1"),
        (7.0, "0 2 4 6 8"),
        (42.0, "0 10 20 30 40 50"),
        (250.0, "0 50 100 150 200 250"),
        (4_900.0, "0 1,000 2,000 3,000 4,000 5,000"),
        (5e6, "0M 1M 2M 3M 4M 5M"),
    ],
)
def test_axes_of_counts_have_round_and_whole_ticks(highest: float, ticks: str) -> None:
    line = ChartSeries("s", "c-used", [(0.0, highest)])
    assert levels(_chart(line)) == ticks.split()


def test_a_small_cost_fills_its_axis() -> None:
    line = ChartSeries("s", "c-used", [(0.0, 0.024)], "slope")
    ticks = ["0.000", "0.005", "0.010", "0.015", "0.020", "0.025"]
    assert levels(_chart(line)._replace(whole=False)) == ticks


@pytest.mark.parametrize(
    ("end", "ticks"),
    [
        (20.0, "0 5s 10s 15s 20s"),
        (150.0, "0 30s 1m 1m30s 2m 2m30s"),
        (1_200.0, "0 5m 10m 15m 20m"),
        (86_400.0, "0 4h 8h 12h 16h 20h 24h"),
        (604_800.0, "0 48h 4d 6d"),
    ],
)
def test_time_has_round_ticks_with_their_unit(end: float, ticks: str) -> None:
    drawn = charts.svg(
        _chart(ChartSeries("s", "c-used", [(0.0, 1.0)]))._replace(end=end), identity="x"
    )
    assert re.findall(r'class="tick when"[^>]*>([^<]+)<', drawn) == ticks.split()


def test_hovering_tells_between_which_values_it_went() -> None:
    line = ChartSeries("pending", "c-used", [(0.0, 1.0), (45.0, 30.0), (46.0, 4.0)])
    drawn = charts.svg(_chart(line)._replace(end=600.0), identity="x")
    told = re.findall(r"<title>([^<]+)</title></rect>", drawn)
    assert told[4:6] == [
        "00:00:40 to 00:00:50\npending: 1 to 30",
        "00:00:50 to 00:01:00\npending: 4",
    ]


def heads(runs: list[Timeline]) -> list[str]:
    return [one.text or "" for kind in ("h2", "h3") for one in tree(runs).iter(kind)]


def card(runs: list[Timeline], title: str) -> ElementTree.Element:
    return next(
        one
        for one in tree(runs).iter("div")
        if one.attrib.get("class") == "card" and title in [head.text for head in one.iter("h3")]
    )


def levels(chart: Chart) -> list[str]:
    """The ticks of the upright axis."""
    drawn = charts.svg(chart, identity="x")
    return re.findall(r'class="tick level"[^>]*>([^<]+)<', drawn)


def _chart(series: ChartSeries, *, top: float | None = None) -> Chart:
    return Chart(title="t", description="d", series=[series], end=100.0, top=top)


def test_it_says_which_version_command_and_date_made_it() -> None:
    origin = page.Origin("1.2.3", "tonnage simulate <x>", "2026-01-31 12:00 UTC")
    made = "Made by Tonnage 1.2.3 on 2026-01-31 12:00 UTC with: tonnage simulate &lt;x&gt;"
    assert made in page.page(ONE, origin=origin)


def test_it_says_what_a_run_without_awareness_is() -> None:
    without = msgspec.structs.replace(TWO[1], options={"csiAware": False})
    assert "cluster-autoscaler itself was not run" in page.page([TWO[0], without])
    assert "cluster-autoscaler itself was not run" not in page.page(TWO)


def test_slots_over_the_limit_are_marked() -> None:
    slots = (SlotSample(driver=DRIVER, used=9, free=1, limit=5),)
    over = msgspec.structs.replace(sample(0.0), slots=slots)
    text = page.page([msgspec.structs.replace(timeline(), samples=(over,))])
    assert f"up to 5 volumes of {DRIVER} over the limit of their node" in text
    assert "over the limit of a node" in text
    assert "over the limit" not in page.page(ONE)
