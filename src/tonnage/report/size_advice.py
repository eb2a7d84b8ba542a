"""The section of a page about instance types: what each would cost, and what lies idle today."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from tonnage.consolidation.right_size import SizeAdvice
from tonnage.report import tables
from tonnage.report.figures import GIB


def section(found: SizeAdvice, title: str = "Instance types", *, shown: int = 40) -> Iterator[str]:
    """Types that would carry the cluster, the cheapest of them, and the best mix; stranded CPU and
    memory."""
    yield f'<h2>{escape(title)}</h2><div class="panel advice">'
    today = "" if found.cost_now is None else f" for {_money(found.cost_now)} an hour"
    if found.pods:
        yield f"<p>{found.pods:,} pods, on {found.nodes_now:,} nodes{today}. All pods packed anew:"
        yield "it is a direction, not a plan.</p>"
    for warning in found.warnings:
        yield f'<p class="facts">{escape(warning[:1].upper() + warning[1:])}.</p>'
    if found.types:
        yield from _table(
            "What each type would cost",
            ("type", "price/h", "usable slots", "price per slot", "nodes", "cost/h", "left out"),
            (
                (
                    one.instance_type,
                    _money(one.price),
                    "-" if one.slots is None else f"{one.slots:,}",
                    "-" if one.price_per_slot is None else _money(one.price_per_slot),
                    f"{one.nodes:,}",
                    _money(one.cost),
                    f"{one.left_out:,}",
                )
                for one in found.types[:shown]
            ),
        )
        mix = ", ".join(f"{count:,} {name}" for name, count in found.mix.items())
        best = f"The best mix found: {mix}, for {_money(found.mix_cost)} an hour;"
        yield f"<p>{escape(best)} none costs less than {_money(found.bound)}.</p>"
        sources = ", ".join(dict.fromkeys(one.source for one in found.types))
        yield f'<p class="facts">{escape(f"Prices: {sources}.")}</p>'
    lost = [one for one in found.stranded if one.cpu_milli or one.memory]
    if lost:
        yield "<h3>CPU and memory that lie idle because slots ran out</h3>"
        yield from _table(
            "Stranded CPU and memory",
            ("group", "driver", "CPUs", "memory, GiB"),
            (
                (one.group, one.driver, f"{one.cpu_milli / 1000:,g}", f"{one.memory / GIB:,.1f}")
                for one in lost
            ),
            words=2,
        )
    yield "</div>"


def _table(
    name: str, heads: Sequence[str], rows: Iterable[Sequence[str]], *, words: int = 1
) -> Iterator[str]:
    """`words` are the columns that begin a row; the others are numbers."""
    kinds = ["" if place < words else ' class="number"' for place in range(len(heads))]
    yield from tables.opened(name)
    head = "".join(
        f'<th scope="col"{kind}>{escape(one)}</th>' for kind, one in zip(kinds, heads, strict=True)
    )
    yield f"<thead><tr>{head}</tr></thead><tbody>"
    for row in rows:
        cells = (f"<td{kind}>{escape(one)}</td>" for kind, one in zip(kinds, row, strict=True))
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody></table></div>"


def _money(amount: float) -> str:
    return f"{amount:,.4f}".rstrip("0").rstrip(".")
