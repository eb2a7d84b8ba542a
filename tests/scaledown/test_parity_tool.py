"""`tools/parity` tells chance from difference, with a `compare` of the test's own."""

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PARITY = Path(__file__).parent.parent.parent / "tools" / "parity"

COMPARE = """
import json, sys
wanted, found = ([json.loads(line) for line in open(path)] for path in sys.argv[2:])
plans = {one["scenario"]: one["plan"] for one in found}
wrong = 0
for kind in ("drain", "utilisation", "alone"):
    differ = sum(bool(one[kind]) and one[kind] != plans[one["scenario"]][kind] for one in wanted)
    if differ:
        print(f"{differ:7} of {len(wanted)} {kind} differ   e.g. something")
    wrong += differ
sys.exit(1 if wrong else 0)
"""
SAID = {"drain": {"p": "DrainOk"}, "utilisation": {"n": 0.5}, "alone": {"n": "removable"}}


@pytest.fixture
def is_chance(tmp_path: Path) -> Callable[..., bool]:
    """Asked what we say of a cluster with a pending pod, and of one without."""
    (tmp_path / "compare").write_text(COMPARE)
    ask = runpy.run_path(str(PARITY))["is_chance"]

    def write(name: str, *trees: Any) -> Path:
        path = tmp_path / name
        path.write_text("".join(f"{json.dumps(one)}\n" for one in trees))
        return path

    def asked(*, pending: dict[str, Any], settled: dict[str, Any]) -> bool:
        names = {"pending": pending, "settled": settled}
        spec = {"pending": {}, "settled": {"nodeName": "n"}}
        return bool(
            ask(
                tmp_path,
                write(
                    "scenarios",
                    *(
                        {
                            "metadata": {"name": name},
                            "spec": {"objects": [{"kind": "Pod", "spec": spec[name]}]},
                        }
                        for name in names
                    ),
                ),
                write("expected", *({"scenario": name, **SAID} for name in names)),
                write("answers", *({"scenario": name, "plan": names[name]} for name in names)),
                scratch=tmp_path,
            )
        )

    return asked


@pytest.mark.parametrize("what", ["utilisation", "alone"])
def test_where_pods_are_pending_their_place_is_chance(
    is_chance: Callable[..., bool], capsys: pytest.CaptureFixture[str], what: str
) -> None:
    assert is_chance(pending={**SAID, what: {"n": "other"}}, settled=SAID)
    told = capsys.readouterr().out
    assert "outside of the 1 scenarios with pending pods: 0;" in told
    assert "what differs is chance" in told


@pytest.mark.parametrize("what", ["drain", "utilisation", "alone"])
def test_elsewhere_nothing_may_differ(
    is_chance: Callable[..., bool], capsys: pytest.CaptureFixture[str], what: str
) -> None:
    assert not is_chance(pending=SAID, settled={**SAID, what: {"n": "other"}})
    told = capsys.readouterr().out
    assert "outside of the 1 scenarios with pending pods: 1;" in told
    assert "chance" not in told


def test_what_has_nothing_to_do_with_places_may_not_differ_either(
    is_chance: Callable[..., bool],
) -> None:
    assert not is_chance(pending={**SAID, "drain": {"p": "BlockDrain"}}, settled=SAID)
