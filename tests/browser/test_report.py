"""The HTML report as readers see it, in a real browser."""

from pathlib import Path

import pytest

from tests.browser.devtools import Page, Scheme
from tests.browser.reports import NASTY, WITH_CHARTS

WIDTHS = (1280, 768, 375)
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
LOOKING = Path(__file__).with_name("looking.js").read_text()

# One browser, and every report made once.
pytestmark = pytest.mark.xdist_group("browser")


def complaints(report: Page, about: str) -> list[str]:
    found: list[str] = report.run(f"{LOOKING}.{about}()")
    return found


def test_the_browser_has_no_complaint(report: Page) -> None:
    said = [
        *report.events("Runtime.exceptionThrown"),
        *report.events("Runtime.consoleAPICalled"),
        *report.events("Log.entryAdded"),
    ]
    assert said == []


def test_nothing_but_the_file_is_asked_for(report: Page) -> None:
    asked = [event["request"]["url"] for event in report.events("Network.requestWillBeSent")]
    assert asked == [report.run("location.href")]


@pytest.mark.parametrize("report", WITH_CHARTS, indirect=True)
@pytest.mark.parametrize("width", WIDTHS)
def test_every_chart_has_room(report: Page, width: int) -> None:
    report.look(width=width)
    assert complaints(report, "sizes") == []


@pytest.mark.parametrize("report", WITH_CHARTS, indirect=True)
def test_every_shape_is_seen_between_the_axes(report: Page) -> None:
    report.look(width=1280)
    assert complaints(report, "shapes") == []


@pytest.mark.parametrize("width", WIDTHS)
def test_no_label_is_cut_off_or_covers_another(report: Page, width: int) -> None:
    report.look(width=width)
    assert complaints(report, "labels") == []


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_window(report: Page, width: int) -> None:
    report.look(width=width)
    assert complaints(report, "widths") == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_word_is_legible(report: Page, scheme: Scheme) -> None:
    report.look(width=1280, scheme=scheme)
    assert complaints(report, "contrasts") == []


def test_a_pointer_finds_words_in_every_chart_and_on_every_marker(report: Page) -> None:
    report.look(width=1280)
    assert complaints(report, "hovers") == []


def test_print_leaves_nothing_out_of_a_table(report: Page) -> None:
    report.look(width=1280, media="print")
    assert complaints(report, "hidden") == []


@pytest.mark.parametrize("report", ["nasty-names", "advice"], indirect=True)
def test_words_of_users_stay_words(report: Page) -> None:
    assert report.run("document.querySelector('h1').textContent") == NASTY
    assert report.run("document.querySelectorAll('script, b').length") == 1  # the page's own


@pytest.mark.parametrize("report", ["two-runs", "a-day", "nasty-names", "nothing"], indirect=True)
def test_charts_are_drawn_as_on_the_board(drawn: Page) -> None:
    drawn.look(width=375)
    assert complaints(drawn, "widths") == []
    drawn.look(width=1280)
    assert complaints(drawn, "drawings") == []


@pytest.mark.parametrize("report", ["the-demo"], indirect=True)
def test_a_pointer_on_a_drawn_chart_reads_its_values(drawn: Page) -> None:
    drawn.look(width=1280)
    place = drawn.run(
        "(() => { const over = document.querySelector('.u-over'); over.scrollIntoView("
        "{block: 'center'}); const box = over.getBoundingClientRect(); "
        "return [box.left + box.width / 2, box.top + box.height / 2]; })()"
    )
    drawn.call("Input.dispatchMouseEvent", type="mouseMoved", x=place[0], y=place[1])
    drawn.until("document.querySelector('.reading').textContent.includes('pending, no node')")


@pytest.mark.parametrize("report", ["the-demo"], indirect=True)
def test_paper_has_the_picture_and_not_the_drawing(drawn: Page) -> None:
    drawn.look(width=1280, media="print")
    shown = "[...document.querySelectorAll('{}')].some((one) => one.getBoundingClientRect().height)"
    assert drawn.run(shown.format("svg.chart"))
    assert not drawn.run(shown.format(".plotted"))


@pytest.mark.parametrize("report", ["the-demo"], indirect=True)
def test_dark_is_dark_and_light_is_light(report: Page) -> None:
    grounds = []
    for scheme in SCHEMES:
        report.look(width=1280, scheme=scheme)
        grounds.append(report.run("getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(246, 247, 249)", "rgb(16, 21, 27)"]


@pytest.mark.parametrize("report", ["the-demo"], indirect=True)
def test_paper_is_light_for_readers_in_the_dark_too(report: Page) -> None:
    report.look(width=1280, scheme="dark", media="print")
    assert report.run("getComputedStyle(document.body).color") == "rgb(23, 32, 43)"
