"""The look of the page: one style sheet, light and dark by the reader's system, printable."""

CSS = """
:root {
  color-scheme: light dark;
  --ground: #f6f7f9; --card: #ffffff; --ink: #17202b; --soft: #5b6776; --rule: #dfe4ea;
  --good: #0b7a5b; --bad: #b42318;
  --ready: #1f9d78; --coming: #e0a100; --starting: #7a8ca3; --requested: #c3ccd7;
  --notready: #c8372d; --pending: #d9730d; --stuck: #b3261e; --running: #2563b8;
  --used: #2563b8; --limit: #5b6776; --first: #2563b8; --second: #b8480f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #10151b; --card: #182029; --ink: #e8edf3; --soft: #9dabba; --rule: #2c3743;
    --good: #4fd1a5; --bad: #ff8a7a;
    --ready: #35b48d; --coming: #f0bd3a; --starting: #8496ab; --requested: #475667;
    --notready: #ef6a5e; --pending: #f59a45; --stuck: #ff7a6e; --running: #6aa5f5;
    --used: #6aa5f5; --limit: #9dabba; --first: #6aa5f5; --second: #f59a45;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1360px; margin: 0 auto; padding: 32px 24px 64px; }
h1 { font-size: 28px; line-height: 1.2; margin: 0 0 6px; letter-spacing: -0.01em; }
h2 { font-size: 18px; margin: 40px 0 12px; }
h3 { font-size: 14px; margin: 0 0 4px; }
p { margin: 0; }
.lead { color: var(--soft); max-width: 75ch; }
.facts { color: var(--soft); font-size: 13px; margin-top: 8px; }
.cards { display: grid; gap: 12px; grid-template-columns: repeat(auto-fit, minmax(190px, 1fr));
  margin-top: 24px; }
.card, .panel { background: var(--card); border: 1px solid var(--rule); border-radius: 10px;
  padding: 14px 16px; }
.card h3 { color: var(--soft); font-weight: 500; }
.values { display: flex; gap: 18px; align-items: baseline; flex-wrap: wrap; }
.value { font-size: 26px; font-weight: 650; font-variant-numeric: tabular-nums; }
.value small { display: block; font-size: 12px; font-weight: 500; color: var(--soft); }
.better { color: var(--good); } .worse { color: var(--bad); }
.panels { display: grid; gap: 12px; grid-template-columns: repeat(auto-fit, minmax(420px, 1fr)); }
.chart { display: block; width: 100%; height: auto; }
.chart .grid { stroke: var(--rule); stroke-width: 1; }
.chart .tick { fill: var(--soft); font-size: 11px; font-variant-numeric: tabular-nums; }
.chart path.line, .chart path.slope { fill: none; stroke-width: 2; stroke-linejoin: round; }
.chart path.limit { fill: none; stroke-width: 1.5; stroke-dasharray: 5 4; }
.chart path.area { stroke: none; fill-opacity: 0.85; }
.marker line { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 2 4; }
.marker path { fill: var(--soft); }
.legend { display: flex; flex-wrap: wrap; gap: 4px 14px; font-size: 12px; color: var(--soft);
  margin: 2px 0 6px; }
.entry { display: inline-flex; align-items: center; gap: 6px; }
.swatch { width: 14px; height: 10px; border-radius: 2px; background: currentColor; }
.swatch.line, .swatch.slope { height: 3px; } .swatch.limit { height: 0; background: none;
  border-top: 2px dashed currentColor; border-radius: 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th, td { text-align: left; padding: 6px 10px; border-bottom: 1px solid var(--rule);
  vertical-align: top; }
th { color: var(--soft); font-weight: 600; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tr.mark td { color: var(--soft); font-style: italic; }
summary { cursor: pointer; font-weight: 600; }
details { margin-top: 12px; }
@media (max-width: 520px) { .panels { grid-template-columns: 1fr; } }
@media print { body { background: none; } .card, .panel { break-inside: avoid; } }
"""

_COLOURS = (
    "ready", "coming", "starting", "requested", "notready", "pending", "stuck", "running",
    "used", "limit", "first", "second",
)  # fmt: skip


def sheet() -> str:
    """The whole style sheet, with one class for each colour."""
    colours = "".join(
        f".swatch.c-{name} {{ color: var(--{name}); }}\n"
        f"path.c-{name} {{ stroke: var(--{name}); }}\n"
        f"path.c-{name}.area {{ fill: var(--{name}); }}\n"
        for name in _COLOURS
    )
    return CSS + colours
