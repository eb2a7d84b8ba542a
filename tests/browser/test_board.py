"""The board as people see it, in a real browser, on clusters of three kinds."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import boards
from tests.browser.boards import HOSTILE, NODES
from tests.browser.devtools import Browser, Page, Scheme
from tests.browser.served_board import ServedBoard

AXE = Path(__file__).with_name("vendor").joinpath("axe.min.js").read_text()
VIEWS = {
    "slots": "Slots",
    "pending": "Pending",
    "plan": "Plan",
    "going-away": "Going away",
    "timeline": "Timeline",
    "limits": "Limits",
    "what-if": "What if",
}
ENTER, ESCAPE, UP, DOWN, TAB = 13, 27, 38, 40, 9

# One browser, and every board made once.
pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module", params=boards.BOARDS)
def board(request: pytest.FixtureRequest) -> Iterator[ServedBoard]:
    with boards.BOARDS[request.param]() as served:
        yield served


@pytest.fixture(scope="module")
def page(board: ServedBoard, browser: Browser) -> Iterator[Page]:
    with browser.opened(board.url) as opened:
        opened.look(width=1280)
        opened.until("document.querySelector('#view')")
        yield opened


def go(page: Page, view: str, *, width: int = 1280, scheme: Scheme = "light") -> None:
    """Show a view as somebody does who follows its link."""
    page.look(width=width, scheme=scheme)
    page.run(f"location.hash = '#/{view}'")
    page.until(f"document.querySelector('#view')?.textContent === {json.dumps(VIEWS[view])}")
    page.drawn()


def text(page: Page) -> str:
    found: str = page.run("document.body.innerText")
    return found


def serious(page: Page) -> list[str]:
    """What axe-core finds that keeps people from using the page."""
    if not page.run("Boolean(window.axe)"):
        page.run(f"{AXE}; true")
    found: list[str] = page.run(
        "axe.run(document, {resultTypes: ['violations']}).then((result) => result.violations"
        ".filter((one) => ['serious', 'critical'].includes(one.impact))"
        ".map(({id, nodes: [one]}) => `${id}: ${one.html.slice(0, 200)} ${one.failureSummary}`))"
    )
    return found


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_shown_without_a_complaint(page: Page, view: str) -> None:
    go(page, view)
    assert VIEWS[view] in text(page)
    said = [
        *page.events("Runtime.exceptionThrown"),
        *page.events("Runtime.consoleAPICalled"),
        *page.events("Log.entryAdded"),
    ]
    assert said == []


def test_nothing_is_asked_of_anybody_else(page: Page, board: ServedBoard) -> None:
    for view in VIEWS:
        go(page, view)
    asked = [event["request"]["url"] for event in page.events("Network.requestWillBeSent")]
    assert [url for url in asked if not url.startswith(board.url)] == []


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing_serious(page: Page, view: str) -> None:
    go(page, view)
    assert serious(page) == []


# The dark has other colours, which do not depend on how many rows there are.
@pytest.mark.parametrize("board", ["embedded", "hostile-names"], indirect=True)
@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing_serious_in_the_dark(page: Page, view: str) -> None:
    go(page, view, scheme="dark")
    assert serious(page) == []


@pytest.mark.parametrize("view", VIEWS)
def test_a_phone_does_not_scroll_sideways(page: Page, view: str) -> None:
    go(page, view, width=500)
    assert page.run("document.documentElement.scrollWidth <= innerWidth")
    go(page, view)


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_prints(page: Page, view: str) -> None:
    go(page, view)
    page.look(width=1000, media="print")
    assert VIEWS[view] in text(page)
    assert page.run("getComputedStyle(document.querySelector('nav.views')).display") == "none"
    assert page.run("document.documentElement.scrollWidth <= innerWidth")
    page.look(width=1280)


def test_keys_alone_change_the_view_open_a_node_and_close_it(page: Page) -> None:
    go(page, "limits")
    page.run("document.activeElement.blur()")
    page.key("1", text="1")
    page.until("location.hash === '#/slots'")
    page.run("document.querySelector('.grid.nodes a').focus()")
    first = page.run("document.activeElement.textContent")
    page.key("ArrowDown", code=DOWN)
    assert page.run("document.activeElement.textContent") != first
    page.key("ArrowUp", code=UP)
    assert page.run("document.activeElement.textContent") == first
    page.key("Enter", code=ENTER, text="\r")
    page.until("document.querySelector('aside.detail')?.contains(document.activeElement)")
    assert serious(page) == []
    page.key("Escape", code=ESCAPE)
    page.until("!document.querySelector('aside.detail')")


def test_the_search_box_is_reached_by_a_key_and_leads_to_what_it_finds(page: Page) -> None:
    go(page, "plan")
    page.run("document.activeElement.blur()")
    page.key("/", text="/")
    assert page.run("document.activeElement.id") == "search"
    name = page.run(
        "fetch('/api/state').then((a) => a.json()).then((s) => Object.keys(s.tables.nodes)[0])"
    )
    page.write(f"node:{name}")
    page.until("document.querySelector('.hits a')")
    page.key("Enter", code=ENTER)
    page.until("document.querySelector('aside.detail')")
    page.key("Escape", code=ESCAPE)
    page.until("!document.querySelector('aside.detail')")


@pytest.mark.parametrize("board", ["embedded"], indirect=True)
class TestEmbedded:
    """What the demo's cluster comes to."""

    def test_slots_of_every_node(self, page: Page) -> None:
        go(page, "slots")
        shown = text(page)
        assert "disks.example.com" in shown
        assert len(re.findall(r"5 / 5", shown)) == 4

    def test_decisions_are_marks_that_open(self, page: Page) -> None:
        go(page, "timeline")
        assert page.run("document.querySelectorAll('canvas').length") >= 4
        page.run("document.querySelector('main table a').click()")
        page.until("document.querySelector('aside.detail h3')")
        assert "Asked for 3 nodes of local" in page.run(
            "document.querySelector('aside.detail').innerText"
        )
        page.key("Escape", code=ESCAPE)

    def test_nodes_say_whether_they_are_needed(self, page: Page) -> None:
        go(page, "going-away")
        assert page.run("document.querySelectorAll('main tbody tr').length") == 8

    def test_a_slider_gives_another_plan(self, page: Page) -> None:
        go(page, "what-if")
        page.run(
            "(() => { const knob = document.querySelector('input[type=range]'); knob.value = 9;"
            " knob.dispatchEvent(new Event('input', {bubbles: true})); })()"
        )
        page.until("/answered in/.test(document.querySelector('main').innerText)")
        assert "Against the plan of now" in text(page)


@pytest.mark.parametrize("board", ["5000-nodes"], indirect=True)
class TestLarge:
    """Five thousand rows."""

    def test_only_rows_in_sight_are_drawn(self, page: Page) -> None:
        go(page, "slots")
        assert f"{NODES:,} nodes" in text(page)
        assert page.run("document.querySelectorAll('.grid.nodes .all .row').length") < 60

    def test_scrolling_shows_the_last_row(self, page: Page) -> None:
        go(page, "slots")
        page.run("scrollTo(0, document.documentElement.scrollHeight)")
        page.until(f"document.querySelector('.grid.nodes [aria-rowindex=\"{NODES + 1}\"]')")
        page.run("scrollTo(0, 0)")

    def test_a_filter_is_part_of_the_link(self, page: Page) -> None:
        go(page, "slots")
        page.run("location.hash = '#/slots?q=ip-10-3-7.&by=zone&sort=name'")
        page.until("document.querySelectorAll('.grid.nodes .all .row').length === 1")
        assert "ip-10-3-7." in text(page)
        assert page.run("document.querySelector('main select').value") == "zone"

    def test_pending_pods_are_told_together(self, page: Page) -> None:
        go(page, "pending")
        assert "39 more like it" in text(page)
        assert f"0/{NODES} nodes are available" in text(page)


@pytest.mark.parametrize("board", ["hostile-names"], indirect=True)
class TestHostileNames:
    """Text of others stays text."""

    @pytest.mark.parametrize("view", VIEWS)
    def test_no_name_becomes_part_of_the_page(self, page: Page, view: str) -> None:
        go(page, view)
        assert page.run("document.querySelectorAll('main script, main img').length") == 0
        assert "\x1b" not in text(page)
        assert "‮" not in text(page)

    def test_a_consolidation_is_told_by_wave_with_what_it_saves(self, page: Page) -> None:
        go(page, "going-away")
        assert "3 an hour becomes 0.5 (at least 0.5): saves 2.5." in text(page)
        waves = "[...document.querySelectorAll('table')].find((one) => /wave/.test(one.innerText))"
        assert "volumes that detach" in page.run(f"{waves}.innerText")

    def test_names_are_shown_as_they_are_written(self, page: Page) -> None:
        go(page, "slots")
        shown = text(page)
        assert HOSTILE[0] in shown
        assert "\\u001b[31m" in shown
        assert "\\u202etxet-desrever" in shown
        assert HOSTILE[5] in page.run("document.querySelector('main').textContent")
