"""Links of the documentation lead somewhere: files, headings, and pages of the site."""

import re
from pathlib import Path

import pytest
import yaml

from tests.docs.blocks import PAGES, REPOSITORY

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?)\s*$", re.MULTILINE)
_FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """What GitHub and the site make of the headings."""
    text = _FENCE.sub("", page.read_text())
    found = set()
    for heading in _HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        kept = re.sub(r"[^\w\- ]", "", plain.lower())
        found.add(kept.replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda one: one.relative_to(REPOSITORY).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for link in _LINK.findall(_FENCE.sub("", page.read_text())):
        if link.startswith(("http:", "https:", "mailto:")):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        to_heading = anchor and target.suffix == ".md"
        if not target.exists() or (to_heading and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    site = yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text())

    def named(entry: object) -> set[str]:
        if isinstance(entry, str):
            return {entry}
        parts = entry.values() if isinstance(entry, dict) else entry
        return {name for part in parts for name in named(part)}  # type: ignore[attr-defined]

    docs = REPOSITORY / "docs"
    assert named(site["nav"]) == {one.relative_to(docs).as_posix() for one in docs.rglob("*.md")}


def test_nothing_is_promised_that_is_not_ours() -> None:
    for page in PAGES:
        assert "pip install tonnage" not in page.read_text(), page


def test_the_readme_says_first_what_it_does_not_do() -> None:
    first = (REPOSITORY / "README.md").read_text().split("\n\n")[1]
    assert "It makes no machines itself" in first
