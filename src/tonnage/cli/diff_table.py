"""The difference of two plans for people: in one line, or in a few tables."""

from tonnage.cli import console, podlists
from tonnage.cli.plan_table import money
from tonnage.objects.phrases import counted, listed
from tonnage.scaleup.plan_diff import LimitValue, Place, PlanDiff


def in_one_line(found: PlanDiff) -> str:
    """What changed, counted."""
    if found.equal:
        return "no difference"
    nodes = ""
    if found.groups:
        more = sum(one.after - one.before for one in found.groups)
        by_group = [f"{one.group} {one.after - one.before:+,}" for one in found.groups]
        how = f"{counted(abs(more), 'node')} {'more' if more > 0 else 'less'}"
        nodes = f"{how if more else 'as many nodes'} ({listed(by_group)})"
    new_helped = len(found.added) - len(found.added_not_helped)
    parts = [
        nodes,
        _part(len(found.newly_helped), "more helped"),
        _part(len(found.no_longer_helped), "no longer helped"),
        _part(len(found.moved), "elsewhere"),
        _part(new_helped, "new and helped"),
        _part(len(found.added_not_helped), "new and left out"),
        _part(len(found.gone), "gone"),
        _part(len(found.limits), "changed", "limit"),
        _part(len(found.warnings_new), "new", "warning"),
        _part(len(found.warnings_gone), "gone", "warning"),
    ]
    return ", ".join(filter(None, parts)) or "nothing bought otherwise, nobody else helped"


def print_diff(found: PlanDiff) -> None:
    """Print what changed, each kind of change in its own part."""
    if found.equal:
        console.echo("The plans are the same.")
        return
    console.echo(f"{in_one_line(found)}.")
    if found.partial is not None:
        which = "second" if found.partial.after else "first"
        console.echo(f"Only the {which} plan is partial: its time ran out.")
    rows = [
        [one.group, f"{one.before:,}", f"{one.after:,}", f"{one.after - one.before:+,}"]
        for one in found.groups
    ]
    console.print_section(["GROUP", "NODES BEFORE", "AFTER", "CHANGE"], rows)
    left_out = set(found.added_not_helped)
    changes = [
        ("newly helped", found.newly_helped),
        ("no longer helped", found.no_longer_helped),
        ("new, helped", [pod for pod in found.added if pod not in left_out]),
        ("new, left out", found.added_not_helped),
        ("waits no longer", found.gone),
        ("fits no group now", found.never_fits),
        ("fits some group now", found.may_fit),
    ]
    rows = [[series.phrase, what] for what, pods in changes for series in podlists.in_series(pods)]
    console.print_section(["PODS", "CHANGE"], rows)
    console.print_section(["PODS MOVED", "FROM", "TO"], _moves(found))
    rows = [[one.group, one.driver, _limit(one.before), _limit(one.after)] for one in found.limits]
    console.print_section(["LIMIT OF GROUP", "DRIVER", "BEFORE", "AFTER"], rows)
    if found.bounds is not None:
        was, becomes = found.bounds.before, found.bounds.after
        rows = [["nodes", f"{was.nodes:,}", f"{becomes.nodes:,}"]]
        if was.cost_per_hour is not None or becomes.cost_per_hour is not None:
            rows.append(["cost an hour", _cost(was.cost_per_hour), _cost(becomes.cost_per_hour)])
        rows.append(["above it", f"{was.gap:.0%}", f"{becomes.gap:.0%}"])
        console.print_section(["LOWER BOUND", "BEFORE", "AFTER"], rows)
    rows = [["new", text] for text in found.warnings_new]
    rows += [["gone", text] for text in found.warnings_gone]
    console.print_section(["WARNING", "TEXT"], rows)


def _moves(found: PlanDiff) -> list[list[str]]:
    by_way: dict[tuple[Place, Place], list[str]] = {}
    for one in found.moved:
        by_way.setdefault((one.before, one.after), []).append(one.pod)
    return [
        [series.phrase, _place(before), _place(after)]
        for (before, after), pods in by_way.items()
        for series in podlists.in_series(pods)
    ]


def _place(place: Place) -> str:
    return f"new node of {place.group}" if place.group else place.node


def _limit(value: LimitValue | None) -> str:
    if value is None:
        return "-"
    unlisted = "unknown" if value.source == "unknown" else f"unlimited ({value.source})"
    return unlisted if value.count is None else f"{value.count:,} ({value.source})"


def _cost(value: float | None) -> str:
    return "-" if value is None else money(value)


def _part(count: int, how: str, what: str = "pod") -> str:
    return f"{counted(count, what)} {how}" if count else ""
