"""`tonnage why`."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from tonnage.autoscaler.report import Done, LoggedDecision
from tonnage.cli.app import program
from tonnage.scaleup.plan import (
    GroupDelta,
    GroupReason,
    Nearest,
    NewNode,
    NotHelped,
    Placement,
    Plan,
    ScaleUp,
    Step,
)

LEFT_OUT = Plan(
    not_helped=(
        NotHelped(
            pod="shop/db-0",
            nearest=Nearest(group="g", resource="ebs.csi.aws.com", wanted=28, available=25),
            reasons=(
                GroupReason(
                    group="g",
                    plugin="NodeVolumeLimits",
                    code="Unschedulable",
                    reasons=("node(s) exceed max volume count",),
                ),
            ),
        ),
    )
)
BOUGHT = Plan(
    steps=(
        Step(
            chosen="g",
            scale_ups=(GroupDelta(group="g", delta=1),),
            pods=("shop/db-0",),
            reason="the only group",
        ),
    ),
    scale_ups=(ScaleUp(group="g", delta=1, nodes=(NewNode(name="g-new-1", pods=("shop/db-0",)),)),),
    fit_on_existing=(
        Placement(pod="shop/web-0", node="n1"),
        Placement(pod="test/web-0", node="n1"),
    ),
)
ASKED = Done(deed="increase", group="g", nodes=1, reason="pods wait")


def decided(plan: Plan, *done: Done, time: str = "12:00") -> LoggedDecision:
    return LoggedDecision(time=time, plan=plan, done=done)


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(program, ["why", *arguments], input=stdin)


@pytest.fixture
def saved(tmp_path: Path):
    """Writes decisions into a file as the autoscaler does, and gives its name."""

    def save(*decisions: LoggedDecision, after: bytes = b"") -> str:
        lines = b"".join(msgspec.json.encode(one) + b"\n" for one in decisions)
        path = tmp_path / "decisions.jsonl"
        path.write_bytes(lines + after)
        return str(path)

    return save


@contextmanager
def answering(body: bytes | dict[str, bytes], *, status: int = 200) -> Iterator[str]:
    """The address of somebody who answers questions about decisions so, or each path its own."""
    bodies = body if isinstance(body, dict) else {"/debug/decisions": body}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path in bodies else 404)
            self.end_headers()
            self.wfile.write(bodies.get(self.path, b""))

        def log_message(self, format: str, *args: object) -> None:
            """A test has no use for an access log."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_purchase_is_told_with_its_reason_and_what_was_asked(saved) -> None:
    result = run("shop/db-0", "-f", saved(decided(BOUGHT, ASKED)))
    assert result.stdout == (
        "shop/db-0: bought, the only group\n"
        "\n"
        "TIME   OUTCOME  GROUP  NODE     REASON          RESULT\n"
        "12:00  bought   g      g-new-1  the only group  1 more node asked for\n"
    )


def test_a_pod_that_is_left_out_is_told_what_every_group_says(saved) -> None:
    result = run("db-0", "-f", saved(decided(LEFT_OUT)))
    assert "28 volumes of ebs.csi.aws.com wanted, best group g has 25" in result.stdout
    assert result.stdout.endswith(
        "GROUP  PLUGIN            CODE           REASON\n"
        "g      NodeVolumeLimits  Unschedulable  node(s) exceed max volume count\n"
    )


def test_a_pod_that_fits_is_told_where(saved) -> None:
    result = run("web-0", "-n", "test", "-f", saved(decided(BOUGHT)))
    assert result.stdout.startswith("test/web-0: fits, there is room on a node")


@pytest.mark.parametrize(
    ("done", "told"),
    [
        ((), "not asked for: overtaken by events, or left for a later round"),
        ((msgspec.structs.replace(ASKED, error="no quota"),), "failed: no quota"),
        (
            (msgspec.structs.replace(ASKED, dry_run=True),),
            "1 more node asked for, if this were no dry run",
        ),
    ],
)
def test_what_became_of_a_purchase_is_told(saved, done: tuple[Done, ...], told: str) -> None:
    result = run("db-0", "-f", saved(decided(BOUGHT, *done)), "-o", "json")
    assert json.loads(result.stdout)["decisions"][0]["result"] == told


def test_decisions_that_repeat_are_told_once(saved) -> None:
    file = saved(*(decided(LEFT_OUT, time=f"12:0{minute}") for minute in range(5)))
    result = run("db-0", "-f", file)
    assert result.stdout.count("\n12:0") == 1
    assert "5 decisions in all" in result.stdout


def test_wide_tells_every_decision(saved) -> None:
    file = saved(*(decided(LEFT_OUT, time=f"12:0{minute}") for minute in range(5)))
    assert run("db-0", "-f", file, "-o", "wide").stdout.count("\n12:0") == 5


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_documents_have_every_decision_in_order(saved, form: str, read) -> None:
    file = saved(decided(LEFT_OUT, time="12:00"), decided(BOUGHT, ASKED, time="12:01"))
    document = read(run("db-0", "-f", file, "-o", form).stdout)
    assert (document["kind"], document["pod"]) == ("Why", "shop/db-0")
    told = [(one["time"], one["outcome"], one["group"]) for one in document["decisions"]]
    assert told == [("12:00", "left out", None), ("12:01", "bought", "g")]


def test_the_running_autoscaler_is_asked_over_http() -> None:
    with answering(msgspec.json.encode([decided(BOUGHT, ASKED)])) as url:
        result = run("shop/db-0", "--url", url)
    assert result.stdout.startswith("shop/db-0: bought, the only group\n")


def test_what_the_autoscaler_answered_can_be_read_from_standard_input() -> None:
    result = run("db-0", "-f", "-", stdin=msgspec.json.encode([decided(BOUGHT)]))
    assert result.stdout.startswith("shop/db-0: bought")


@pytest.mark.parametrize("rest", [b"", b"\n" + msgspec.json.encode(decided(BOUGHT))])
def test_a_line_that_was_cut_off_is_left_out_and_named(saved, rest: bytes) -> None:
    result = run("db-0", "-f", saved(decided(BOUGHT), after=b'{"time": "1' + rest))
    assert result.stdout.startswith("shop/db-0: bought")
    assert "decisions.jsonl:2: the line is not complete" in result.stderr


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        ("shop/db-1", "nothing was decided about pod 'shop/db-1'; near matches: shop/db-0"),
        ("dbb-0", "near matches: shop/db-0"),
        ("zzzzzzzzzz", "there are 3"),
        ("web-0", "pod 'web-0': which of shop/web-0, test/web-0?"),
    ],
)
def test_a_pod_nobody_decided_on_is_wrong_input(saved, pod: str, message: str) -> None:
    result = run(pod, "-f", saved(decided(BOUGHT)))
    assert (result.exit_code, message in result.stderr) == (2, True)


def test_a_line_that_is_no_decision_is_named(saved) -> None:
    result = run("db-0", "-f", saved(decided(BOUGHT), after=b'{"time": 1}\n'))
    assert (result.exit_code, "decisions.jsonl:2: not decisions" in result.stderr) == (2, True)


def test_a_file_without_any_decision_is_one_error(tmp_path: Path) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text("apiVersion: v1\nkind: Node\n")
    result = run("db-0", "-f", str(file))
    assert result.exit_code == 2
    assert result.stderr == (
        f"tonnage: error: {file}: no line is a decision; expected one line of JSON for each\n"
    )


def test_a_replica_without_decisions_says_who_has_some() -> None:
    with answering(b"[]") as url:
        result = run("db-0", "--url", url)
    assert (result.exit_code, "only the replica that leads" in result.stderr) == (2, True)


def test_an_autoscaler_that_refuses_is_a_failure() -> None:
    with answering(b"", status=503) as url:
        result = run("db-0", "--url", url)
    assert (result.exit_code, "/debug/decisions: answered 503" in result.stderr) == (1, True)


def test_the_port_of_the_metrics_is_a_failure_that_says_which_one_is_meant() -> None:
    with answering(b"", status=404) as url:
        result = run("db-0", "--url", url)
    assert (result.exit_code, "is that its --debug-address?" in result.stderr) == (1, True)


def test_nobody_listening_is_a_failure_that_says_what_to_do() -> None:
    with answering(b"[]") as url:
        pass
    result = run("db-0", "--url", url)
    assert (result.exit_code, "--url says where it does" in result.stderr) == (1, True)


def test_an_address_that_is_none_is_wrong_input() -> None:
    result = run("db-0", "--url", "localhost:8085")
    assert (result.exit_code, "expected http://HOST:PORT" in result.stderr) == (2, True)
