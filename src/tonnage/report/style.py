"""The look of the report and of the board: light and dark by the reader's system, printable.

Colours, type, cards, tables and the legend are the same on both (`shared`).
"""

_COLOURS: dict[str, tuple[str, str]] = {
    # light and dark
    "ready": ("#1f9d78", "#35b48d"),
    "comingup": ("#e0a100", "#f0bd3a"),
    "starting": ("#7a8ca3", "#8496ab"),
    "requested": ("#c3ccd7", "#475667"),
    "notready": ("#c8372d", "#ef6a5e"),
    "pending": ("#d9730d", "#f59a45"),
    "stuck": ("#b3261e", "#ff7a6e"),
    "running": ("#2563b8", "#6aa5f5"),
    "used": ("#7ba7e0", "#3f6fb0"),
    "limit": ("#17202b", "#e8edf3"),
    "first": ("#2563b8", "#6aa5f5"),
    "second": ("#b8480f", "#f59a45"),
    "taken": ("#3b6fb5", "#5b93de"),
    "held": ("#c77a0a", "#e0a042"),
    "promised": ("#8a63c9", "#a98be0"),
    "free": ("#dfe6ee", "#2a3542"),
    "unknown": ("#aab4c0", "#566372"),
    "over": ("#b3261e", "#ff7a6e"),
}

_SHARED = """
:root { color-scheme: light dark;
  --ground: #f6f7f9; --card: #ffffff; --ink: #17202b; --soft: #5b6776; --rule: #dfe4ea;
  --good: #0b7a5b; --bad: #b42318; }
@media screen and (prefers-color-scheme: dark) { :root {
  --ground: #10151b; --card: #182029; --ink: #e8edf3; --soft: #9dabba; --rule: #2c3743;
  --good: #4fd1a5; --bad: #ff8a7a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); overflow-wrap: anywhere;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 28px; line-height: 1.2; margin: 0 0 6px; letter-spacing: -0.01em; }
h2 { font-size: 18px; margin: 36px 0 12px; break-after: avoid; }
h3 { font-size: 14px; margin: 0 0 4px; break-after: avoid; }
p { margin: 0; }
.lead { color: var(--soft); max-width: 90ch; }
.facts { color: var(--soft); font-size: 13px; margin-top: 8px; }
.card, .panel { background: var(--card); border: 1px solid var(--rule); border-radius: 10px;
  padding: 14px 16px; margin: 0; min-width: 0; }
.cards, .panels { display: grid; gap: 12px; }
.cards { grid-template-columns: repeat(4, 1fr); margin-top: 24px; }
.card h3 { color: var(--soft); font-weight: 500; }
.values { display: grid; grid-template-columns: auto 1fr; gap: 0 10px; align-items: baseline; }
.value { font-size: 24px; font-weight: 650; font-variant-numeric: tabular-nums;
  overflow-wrap: normal; }
.values small { font-size: 12px; line-height: 1.3; color: var(--soft); }
.better { color: var(--good); } .worse { color: var(--bad); }
.legend { display: flex; flex-wrap: wrap; gap: 4px 14px; font-size: 12px; color: var(--soft); }
.entry { display: inline-flex; align-items: center; gap: 6px; }
.swatch { flex: none; width: 14px; height: 10px; border-radius: 2px; background: currentColor;
  print-color-adjust: exact; }
.swatch.line, .swatch.slope { height: 3px; }
.swatch.limit { height: 0; background: none; border-top: 2px dashed; border-radius: 0; }
.swatch.done, .swatch.decided { width: 10px; height: 8px; border-radius: 0;
  clip-path: polygon(0 0, 100% 0, 50% 100%); }
.swatch.decided { color: var(--ink); clip-path: polygon(0 100%, 100% 100%, 50% 0); }
table { border-collapse: collapse; width: 100%; font-size: 13px; overflow-wrap: break-word; }
th, td { text-align: left; padding: 6px 10px; border-bottom: 1px solid var(--rule);
  vertical-align: top; }
td { overflow-wrap: anywhere; }
th { color: var(--soft); font-weight: 600; }
th[scope="row"], td + td:not(.number) { min-width: 9em; }
thead th { position: sticky; top: 0; background: var(--card); }
.plotted { min-width: 0; }
.reading { min-height: 1.5em; font-size: 12px; color: var(--soft);
  font-variant-numeric: tabular-nums; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
td.number, .time { white-space: nowrap; }
"""

_REPORT = """
main { max-width: 1360px; margin: 0 auto; padding: 32px 24px 64px; }
.panels { grid-template-columns: 1fr 1fr; }
.panels > :last-child:nth-child(odd) { grid-column: 1 / -1; }
.chart { display: block; overflow: visible; height: 180px; width: calc(100% - 66px);
  margin: 32px 18px 26px 48px; }
.chart svg { overflow: visible; }
.chart .grid { stroke: var(--rule); stroke-width: 1; }
.chart .tick { fill: var(--soft); font-size: 11px; font-variant-numeric: tabular-nums;
  text-anchor: end; }
.chart .when { text-anchor: middle; }
.chart .plot path { vector-effect: non-scaling-stroke; fill: none; stroke-width: 2;
  stroke-linejoin: round; }
.chart .plot path.limit { stroke-width: 1.5; stroke-dasharray: 5 4; }
.chart .plot path.area { stroke: none; }
.plotted { display: none; }
@media screen { .drawn .plotted { display: block; } .drawn .chart { display: none; } }
.slice { fill: transparent; }
.slice:hover { fill: var(--ink); fill-opacity: 0.12; }
.marker line { stroke: var(--soft); stroke-dasharray: 2 4; opacity: 0.6; }
.marker:hover line { stroke-dasharray: none; opacity: 1; }
.marker path { fill: var(--soft); }
.marker.decided path { fill: var(--ink); }
.scroll { overflow: auto; max-height: 560px; background:
  linear-gradient(to top, var(--card) 50%, transparent) bottom / 100% 32px no-repeat local,
  linear-gradient(to top, var(--rule), transparent) bottom / 100% 16px no-repeat scroll; }
.figures { max-width: 760px; } .figures .scroll { max-height: none; }
.time { width: 1%; color: var(--soft); font-variant-numeric: tabular-nums; }
tr.done td { color: var(--soft); font-style: italic; }
summary { cursor: pointer; font-weight: 600; }
details.panel { margin-top: 12px; }
details .scroll { margin-top: 10px; }
@media (max-width: 900px) {
  .panels { grid-template-columns: 1fr; } .cards { grid-template-columns: 1fr 1fr; } }
@media (max-width: 520px) {
  main { padding: 20px 12px 40px; } .card, .panel { padding: 12px; }
  table { font-size: 12px; } th, td { padding: 6px; } th[scope="row"] { min-width: 7em; }
  .value { font-size: 20px; }
  .values { grid-template-columns: 1fr; } .values small { margin-bottom: 6px; } }
@media print {
  body { background: none; } main { padding: 0; } .scroll { max-height: none; }
  .card, .panel, tr { break-inside: avoid; } .panel:has(table) { break-inside: auto; } }
"""


def colour(name: str) -> str:
    """A colour by the name of its class, for light pages."""
    return _COLOURS[name][0]


def shared() -> str:
    """What report and board have in common, with one class for each colour of a legend."""
    light = " ".join(f"--{name}: {colour};" for name, (colour, _) in _COLOURS.items())
    dark = " ".join(f"--{name}: {colour};" for name, (_, colour) in _COLOURS.items())
    classes = "".join(f".swatch.c-{name} {{ color: var(--{name}); }}\n" for name in _COLOURS)
    return (
        f"{_SHARED}:root {{ {light} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n{classes}"
    )


def sheet() -> str:
    """The whole style sheet of the report."""
    classes = "".join(
        f".chart .plot .c-{name} {{ stroke: var(--{name}); }}\n"
        f".chart .plot .c-{name}.area {{ fill: var(--{name}); }}\n"
        for name in _COLOURS
    )
    return f"{shared()}{_REPORT}{classes}"
