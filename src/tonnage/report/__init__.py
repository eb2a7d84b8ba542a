"""What happened in a cluster over time, shown: as a table, as CSV, as a page with charts.

timeline  the record that everything here is made from; versioned output itself
figures   the numbers people compare, and how they are written; sentences for code words
text      a summary and the course of events for a terminal
csvtext   one row per sample, for spreadsheets
charts    SVG, made here
page      one HTML file that needs nothing else: `panels` with charts, `tables`, in one `style`;
          `interactive` draws its charts with the script of the board

Nothing here runs anything: a timeline may come from a simulation, a demonstration or a file.
"""

from tonnage.report.timeline import Timeline, TimelineComparison

__all__ = ["Timeline", "TimelineComparison"]
