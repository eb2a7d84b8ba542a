"""Names that are commands to a terminal: no command, in no form, lets one through."""

import io
import json
import logging
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tonnage.cli.app import program
from tonnage.objects import printable
from tonnage.service import logs

# Sets the window's title, clears the screen, turns the direction of writing, begins a line; the
# 8-bit form of the first two; what hides and what deletes.
EVIL = "\x1b]0;owned\x07\x1b[2J\u202eevil\r\nn9  Ready\x9b2J\x9d0;owned\x07\u200b\x7f"
FORMS = ("table", "wide", "json", "yaml")


def cluster(evil: str) -> list[dict[str, Any]]:
    """Hostile text wherever names, labels, taints, drivers and claims are shown."""
    driver = f"disk.{evil}"
    taint = {"key": f"taint.{evil}", "value": evil, "effect": "NoSchedule"}
    status = {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", f"thing.{evil}/x": "1"},
        "conditions": [{"type": "Ready", "status": "True", "message": evil}],
    }
    csi = {"drivers": [{"name": driver, "nodeID": evil, "allocatable": {"count": 1}}]}
    container = {"name": evil, "resources": {"requests": {f"gpu.{evil}/x": "1"}}}
    template = {
        "node": {"metadata": {"labels": {f"label.{evil}": evil}}, "status": status},
        "csiNode": {"spec": csi},
    }

    def named(kind: str, name: str, version: str = "v1", **fields: object) -> dict[str, Any]:
        return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}

    def claiming(name: str, claim: str, **spec: object) -> dict[str, Any]:
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
        return named("Pod", name, spec={"containers": [container], "volumes": volumes, **spec})

    def claim(name: str) -> dict[str, Any]:
        spec = {"storageClassName": evil, "resources": {"requests": {"storage": "1Gi"}}}
        return named("PersistentVolumeClaim", name, spec=spec)

    return [
        named("Node", f"n1{evil}", spec={"taints": [taint]}, status=status),
        named("Node", f"n2{evil}", status=status),
        named("CSINode", f"n2{evil}", "storage.k8s.io/v1", spec=csi),
        named("StorageClass", evil, "storage.k8s.io/v1", provisioner=driver),
        claim(f"data-0{evil}"),
        claim(f"data-1{evil}"),
        claiming(f"db-0{evil}", f"data-0{evil}", nodeName=f"n2{evil}"),
        claiming(f"db-1{evil}", f"data-1{evil}"),
        claiming(f"db-2{evil}", f"missing{evil}"),
        named(
            "NodeGroup",
            f"group{evil}",
            "tonnage.dev/v1alpha1",
            spec={"maxSize": 3, "nodes": [f"n2{evil}", f"gone{evil}"], "template": template},
        ),
        named(f"Kind{evil}", evil, f"example.{evil}/v1"),
    ]


@pytest.fixture
def hostile(tmp_path: Path) -> str:
    file = tmp_path / "cluster.json"
    file.write_text("\n".join(map(json.dumps, cluster(EVIL))))
    return str(file)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("command", ["explain", "plan", "slots", "doctor", "rescue"])
def test_nothing_a_terminal_obeys_is_printed(command: str, form: str, hostile: str) -> None:
    result = CliRunner().invoke(program, [command, "-f", hostile, "-o", form])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert obeyed(result.output) == []


def test_an_error_shows_the_name_of_what_is_wrong_escaped(tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    bad = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": EVIL, "labels": {EVIL: 7}}}
    file.write_text(json.dumps(bad))
    result = CliRunner().invoke(program, ["slots", "-f", str(file)])
    assert result.exit_code == 2
    assert obeyed(result.stderr) == []
    assert "\\x1b]0;owned" in result.stderr


def test_documents_mean_the_same_after_escaping(hostile: str) -> None:
    arguments = ["slots", "-f", hostile, "-o"]
    as_json = json.loads(CliRunner().invoke(program, [*arguments, "json"]).stdout)
    as_yaml = yaml.safe_load(CliRunner().invoke(program, [*arguments, "yaml"]).stdout)
    assert as_json == as_yaml
    assert [item["node"] for item in as_json["slots"]] == [f"n2{EVIL}"]


@pytest.mark.parametrize("form", ["json", "text"])
def test_logs_show_fields_escaped(form: logs.Form) -> None:
    stream = io.StringIO()
    formatter = logs.JsonFormatter() if form == "json" else logs.TextFormatter()
    record = logging.LogRecord("x", logging.INFO, "x.py", 1, f"pod {EVIL}", None, None)
    record.__dict__["pod"] = EVIL
    stream.write(formatter.format(record))
    assert obeyed(stream.getvalue()) == []
    assert "\n" not in stream.getvalue()


def test_what_is_printable_stays_as_it_is() -> None:
    assert printable.escape("db-0 ☂ größer") == "db-0 ☂ größer"


def test_json_beyond_the_basic_plane_is_escaped_in_pairs() -> None:
    text = json.dumps("\U000e0001x", ensure_ascii=False)
    assert json.loads(printable.escape_json(text)) == "\U000e0001x"
    assert printable.escape_json(text).isascii()


def obeyed(output: str) -> list[str]:
    """The characters that are neither printed nor the end of a line."""
    return [char for char in output if char != "\n" and not char.isprintable()]
