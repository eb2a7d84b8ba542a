"""One browser for all tests, and each report opened in it once."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import devtools, reports
from tests.browser.devtools import Browser, Page

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    asked = subprocess.run(
        [sys.executable, REPOSITORY / "tools" / "chromium", "path"], capture_output=True, text=True
    )
    if asked.returncode != 0:
        pytest.skip(asked.stderr.strip())
    with devtools.browser(asked.stdout.strip()) as running:
        yield running


@pytest.fixture(scope="session", params=reports.REPORTS)
def report(
    request: pytest.FixtureRequest, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Page]:
    """A report as somebody sees it who opens the file, and then all that can be opened in it.

    Its charts are shown as on paper and without scripts; `drawn` has them as the board has them.
    """
    file = tmp_path_factory.mktemp("reports") / f"{request.param}.html"
    file.write_text(reports.html(request.param), encoding="utf-8")
    with browser.page(file) as page:
        page.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        page.run("document.documentElement.classList.remove('drawn')")
        yield page


@pytest.fixture
def drawn(report: Page) -> Iterator[Page]:
    """A report whose charts are drawn by its script."""
    report.run("document.documentElement.classList.add('drawn')")
    yield report
    report.run("document.documentElement.classList.remove('drawn')")
