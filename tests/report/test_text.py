"""Runs for terminals, spreadsheets and programs."""

import csv
import io
import json

from tests.report.timelines import DRIVER, GIB, LOCAL, sample, timeline, with_storage
from tonnage.report import csvtext, text
from tonnage.report.text import thinned
from tonnage.report.timeline import encoded


def test_one_run_has_values_without_a_change() -> None:
    shown = text.text([timeline()])
    assert "FIGURE" in shown
    assert "CHANGE" not in shown


def test_two_runs_stand_side_by_side() -> None:
    lines = text.text([timeline(label="aware"), timeline(label="blind", stuck=4)]).splitlines()
    row = next(line for line in lines if line.startswith("pods stuck at the end"))
    assert row.split()[-3:] == ["0", "4", "+4"]


def test_decisions_are_told_with_their_reasons() -> None:
    assert "00:01:01  -> db +3: they fit" in text.text([timeline()])


def test_a_refused_request_says_so() -> None:
    assert "web +1 (refused: no stock)" in text.text([timeline()])


def test_what_was_done_from_outside_stands_before_what_it_led_to() -> None:
    shown = text.text([timeline()])
    assert shown.index("** scale db to 12") < shown.index("-> db +3")


def test_a_long_run_fits_on_a_screen() -> None:
    assert len(thinned(timeline(samples=5000).samples, 24)) == 24


def test_thinning_keeps_the_first_and_the_last_sample() -> None:
    samples = timeline(samples=5000).samples
    kept = thinned(samples, 24)
    assert (kept[0], kept[-1]) == (samples[0], samples[-1])


def test_a_quiet_stretch_is_shown_once() -> None:
    samples = [sample(0.0), sample(1.0), sample(2.0), sample(1000.0)]
    assert [one.at for one in thinned(samples, 3)] == [0.0, 2.0, 1000.0]


def test_csv_has_a_row_for_each_sample_of_each_run() -> None:
    rows = list(csv.DictReader(io.StringIO(csvtext.text([timeline(label="a"), timeline()]))))
    assert [row["run"] for row in rows] == ["a"] * 3 + ["story"] * 3


def test_csv_has_slots_by_driver() -> None:
    row = next(csv.DictReader(io.StringIO(csvtext.text([timeline()]))))
    assert (row[f"{DRIVER} used"], row[f"{DRIVER} limit"]) == ("2", "5")


STORED = with_storage(timeline(), used=80, total=100)


def test_local_storage_is_told_in_gib_from_when_there_is_any() -> None:
    lines = text.text([STORED]).splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("TIME"))
    assert lines[head].endswith(f"GIB {LOCAL}")
    assert [line.split()[-1] for line in lines[head + 1 : head + 4]] == ["-", "80/100", "80/100"]


def test_csv_has_local_storage_by_driver_in_bytes() -> None:
    first, *_, last = csv.DictReader(io.StringIO(csvtext.text([STORED])))
    names = (f"{LOCAL} usedBytes", f"{LOCAL} totalBytes")
    assert [first[name] for name in names] == ["", ""]
    assert [last[name] for name in names] == [str(80 * GIB), str(100 * GIB)]


def test_json_has_local_storage_where_there_is_any() -> None:
    first, *_, last = json.loads(encoded(STORED))["samples"]
    assert "localStorage" not in first
    assert last["localStorage"] == [
        {"driver": LOCAL, "usedBytes": 80 * GIB, "totalBytes": 100 * GIB}
    ]


def test_json_names_what_is_always_counted_also_where_it_is_nothing() -> None:
    (nothing, *_) = json.loads(encoded(timeline()))["samples"]
    assert list(nothing) == ["at", "pods", "nodes", "slots", "cost", "costPerHour"]
