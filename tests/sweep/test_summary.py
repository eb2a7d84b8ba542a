"""What results say together, as table, document, page and Parquet."""

import json
import re
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Written
from tests.cli.planning import cluster
from tests.scaleup.groups import DRIVER
from tests.sweep.sweeping import NOW, run
from tonnage.cli.progress_bar import Progress

GRID = (f"--vary=limit={DRIVER}:2,4,6", "--vary=price=g:1,2", "--vary=remove-node=-,n9", NOW)


@pytest.fixture
def file(written: Written) -> str:
    return written(*cluster(pods=12))


def test_the_summary_is_by_figure_and_by_axis(file: str) -> None:
    found = json.loads(run("-f", file, *GRID, "-j1", "-o", "json").stdout)
    assert (found["variants"], found["answered"], found["failed"]) == (12, 6, 6)
    assert found["figures"]["nodesBought"] == {"least": 2, "median": 3.0, "most": 6}
    by_limit = next(one for one in found["axes"] if one["axis"] == f"limit={DRIVER}")
    assert [
        (one["value"], one["failed"], one["figures"]["costPerHour"]["most"])
        for one in by_limit["values"]
    ] == [(2, 2, 12.0), (4, 2, 6.0), (6, 2, 4.0)]


def test_the_best_leaves_nobody_out_and_costs_the_least(file: str) -> None:
    found = json.loads(run("-f", file, *GRID, "-j1", "-o", "json").stdout)
    assert found["best"][0]["variant"] == f"limit={DRIVER}:6, price=g:1"


def test_the_table_names_what_failed(file: str) -> None:
    ended = run("-f", file, *GRID, "-j1")
    assert ended.stdout.splitlines()[0] == "12 variants of cluster.json: 6 answered, 6 failed."
    assert "what-if remove-node=n9: no such node in the input" in ended.stdout


def test_the_page_has_charts_and_tables_and_no_scripts(file: str, tmp_path: Path) -> None:
    page = tmp_path / "sweep.html"
    run("-f", file, *GRID, "-j1", f"--html={page}")
    text = page.read_text()
    assert "<script" not in text
    assert "nodesBought by limit=disk.example.com" in re.findall(r"<title[^>]*>([^<]*)", text)
    assert not re.search(r"(src|href)=", text)
    # The names of the values are under the chart.
    assert re.findall(r'class="tick when"[^>]*>([^<]*)<', text)[:3] == ["2", "4", "6"]


def test_results_are_a_table_of_parquet(file: str, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "results.parquet"
    run("-f", file, *GRID, "-j1", f"--parquet={path}")
    rows = parquet.read_table(path).to_pylist()
    assert len(rows) == 12
    first = rows[0]
    assert first[f"axis limit={DRIVER}"] == 2
    assert (first["axis remove-node"], first["nodesBought"], first["error"]) == ("-", 6.0, "")


def test_without_the_extra_parquet_is_refused_before_anything_runs(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    ended = run("-f", file, *GRID, f"--parquet={tmp_path / 'x'}")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert "pip install 'tonnage[parquet]'" in ended.stderr


def test_the_bar_says_what_is_done_and_what_is_left() -> None:
    progress = Progress(400, "variants", done=100)
    progress.advance(100, failed=1)
    assert progress.line(10.0) == (
        "[############............] 200 of 400 variants, 10/s, 20 s left, 1 failed"
    )
