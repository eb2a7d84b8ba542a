"""The files of the page, packed once, and the rules under which a browser runs them."""

import base64
import gzip
import hashlib
import re
from functools import cache
from importlib import resources
from typing import NamedTuple

from tonnage.report import style

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

FILES = {
    "": ("tonnage.board", "index.html"),
    "icon.svg": ("tonnage.board", "icon.svg"),
    "board.css": ("tonnage.board", "board.css"),
    **{
        name: ("tonnage.board", name)
        for name in ("board.js", "state.js", "parts.js", "slots.js", "views.js", "timeline.js")
    },
    **{
        f"vendor/{name}": ("tonnage.board", f"vendor/{name}")
        for name in ("preact.mjs", "preact-hooks.mjs", "signals.mjs", "signals-core.mjs", "htm.mjs")
    },
    "chart.js": ("tonnage.report", "chart.js"),
    **{
        f"vendor/{name}": ("tonnage.report", f"vendor/{name}")
        for name in ("uPlot.iife.min.js", "uPlot.min.css")
    },
}
"""By the path they are served at, whose they are and where they lie below its `static`."""

_COMMENT = re.compile(rb"^[ \t]*(?://.*|/\*\*(?:[^*]|\*(?!/))*\*/)\n", re.MULTILINE)
"""Lines that are only for who reads the files: a tenth of what would be sent."""

_IMPORT_MAP = '<script type="importmap">'


class Asset(NamedTuple):
    content: bytes
    """Compressed."""
    content_type: str
    tag: str


@cache
def assets() -> dict[str, Asset]:
    """All files by path."""
    found = {}
    for path in (*FILES, "look.css"):
        content = _read(path)
        suffix = "." + (path or "index.html").rpartition(".")[2]
        tag = hashlib.sha256(content).hexdigest()[:16]
        found[path] = Asset(gzip.compress(content, 9, mtime=0), _TYPES[suffix], tag)
    return found


@cache
def security_policy() -> str:
    """What a browser may do for the page: run and fetch what comes from here, and nothing else.

    The one script that stands in the page itself says where modules are, and is named by its hash.
    """
    page = _read("").decode()
    begin = page.index(_IMPORT_MAP) + len(_IMPORT_MAP)
    inline = page[begin : page.index("</script>", begin)]
    digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'self' 'sha256-{digest}'; style-src 'self'; "
        "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


def _read(path: str) -> bytes:
    if path == "look.css":
        return style.shared().encode()
    package, name = FILES[path]
    content = resources.files(package).joinpath("static").joinpath(name).read_bytes()
    if path.endswith(".js") and not path.startswith("vendor/"):
        content = _COMMENT.sub(b"", content)
    return content
