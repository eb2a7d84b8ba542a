"""Command lines of the documentation: where they stand, and what they are made of."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parent.parent.parent
PAGES = (
    REPOSITORY / "README.md",
    REPOSITORY / "examples" / "README.md",
    *sorted((REPOSITORY / "docs").rglob("*.md")),
)
_FENCED = re.compile(r"^```(sh|console|bash|shell)\n(.*?)^```", re.DOTALL | re.MULTILINE)


class Line(NamedTuple):
    """A command line of a page; `stages` are the parts of a pipe, without what they write to."""

    page: str
    text: str
    stages: tuple[tuple[str, ...], ...]
    target: str

    @property
    def program(self) -> str:
        return self.stages[0][0]


def lines() -> Iterator[Line]:
    """Every command line, in the order of the pages."""
    for page in PAGES:
        name = page.relative_to(REPOSITORY).as_posix()
        for kind, block in _FENCED.findall(page.read_text()):
            inside = False
            for text in re.sub(r"\\\n\s*", " ", block).splitlines():
                if kind == "console":
                    if not text.startswith("$ "):
                        continue
                    text = text[2:]
                if text.startswith("for "):
                    inside = True
                if text.strip() and not text.lstrip().startswith("#") and not inside:
                    yield parsed(name, text.strip())
                if text.strip() == "done":
                    inside = False


def command(text: str) -> str:
    """A line without the remark at its end."""
    return re.sub(r"\s+#\s.*$", "", text).strip()


def parsed(page: str, text: str) -> Line:
    plain = command(text).removesuffix("&").strip()
    target = ""
    if found := re.search(r"\s>\s*(\S+)$", plain):
        target, plain = found[1], plain[: found.start()]
    stages = tuple(
        tuple(word for word in shlex.split(part)) for part in plain.split("&&")[0].split(" | ")
    )
    return Line(page, text, stages, target)
