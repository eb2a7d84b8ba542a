import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.objects import timestamps

TIMES = [
    ("1970-01-01T00:00:00Z", 0.0),
    ("2026-01-01T00:00:00Z", 1767225600.0),
    ("2026-01-01T02:00:00+02:00", 1767225600.0),
    ("2026-01-01T00:00:00.25Z", 1767225600.25),
    ("2026-01-01T00:00:00.123456789Z", 1767225600.123456),
    ("2026-01-01t00:00:00z", 1767225600.0),
]


@pytest.mark.parametrize(("text", "seconds"), TIMES)
def test_a_time_is_seconds_since_1970(text, seconds):
    assert timestamps.parse(text) == seconds


NO_TIMES = ["", "now", "2026-01-01", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z", "1767225600"]


@pytest.mark.parametrize("text", NO_TIMES)
def test_anything_else_is_refused_by_name(text):
    with pytest.raises(timestamps.TimestampError, match="expected RFC 3339") as caught:
        timestamps.parse(text)
    assert repr(text) in str(caught.value)


@given(st.datetimes(timezones=st.timezones()))
def test_every_moment_reads_back(moment):
    text = moment.isoformat(timespec="microseconds")
    if len(text) == len("2026-01-01T00:00:00.000000+00:00"):  # old zones have seconds in the offset
        assert timestamps.parse(text) == moment.timestamp()
