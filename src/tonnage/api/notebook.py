"""Records as notebooks want them: a DataFrame in one call, and a picture of themselves.

Pictures are plain HTML with the colours of the board and of reports in the elements themselves: a
notebook has a style sheet of its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Protocol

from tonnage.errors import InputError
from tonnage.report import style

if TYPE_CHECKING:
    import pandas

SHOWN = 60


class Tabular(Protocol):
    """Something that can be written as rows."""

    def records(self) -> list[dict[str, Any]]: ...


def to_pandas(one: Tabular) -> "pandas.DataFrame":
    """A DataFrame with a row for each record; needs the extra `pandas`."""
    try:
        import pandas
    except ImportError:
        raise InputError("pandas is not installed: pip install 'tonnage[pandas]'") from None
    return pandas.DataFrame.from_records(one.records())


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, title: str) -> str:
    """A table; cells are HTML already."""
    cells = [list(row) for row in rows]
    more = len(cells) - SHOWN
    columns = "".join(
        f'<th style="text-align:left;padding:2px 10px">{escape(one)}</th>' for one in head
    )
    body = "".join(
        "<tr>"
        + "".join(f'<td style="text-align:left;padding:2px 10px">{one}</td>' for one in row)
        + "</tr>"
        for row in cells[:SHOWN]
    )
    rest = f"<p>and {more:,} more</p>" if more > 0 else ""
    return (
        f"<p><b>{escape(title)}</b></p><table><thead><tr>{columns}</tr></thead>"
        f"<tbody>{body}</tbody></table>{rest}"
    )


def bar(parts: Mapping[str, int], limit: int | None) -> str:
    """A lane as on the board: parts by the name of their colour, of a limit if there is one."""
    taken = sum(parts.values())
    whole = max(limit if limit is not None else taken * 1.25, taken, 1)
    drawn = "".join(
        f'<span style="display:inline-block;height:9px;width:{140 * amount / whole:.1f}px;'
        f'background:{style.colour(name)}"></span>'
        for name, amount in parts.items()
        if amount
    )
    free = style.colour("free" if limit is not None else "unknown")
    return (
        f'<span style="display:inline-block;width:140px;height:9px;line-height:9px;'
        f'background:{free};white-space:nowrap;overflow:hidden">{drawn}</span>'
    )


def legend(names: Mapping[str, str]) -> str:
    """Names beside their colours."""
    return " ".join(
        f'<span style="margin-right:12px"><span style="display:inline-block;width:12px;'
        f'height:9px;background:{style.colour(colour)}"></span> {escape(name)}</span>'
        for colour, name in names.items()
    )
