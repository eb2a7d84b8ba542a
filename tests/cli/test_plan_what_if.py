"""`tonnage plan --what-if`."""

import pytest

from tests.cli.conftest import Written
from tests.cli.planning import STORAGE, bought, cluster, databases, document, run
from tests.scaleup.groups import DRIVER, group, owned_by
from tonnage.testing import builders as make


def test_another_limit_changes_what_is_bought(written: Written) -> None:
    result = run("-f", written(*cluster()), "--what-if", f"limit={DRIVER}:12", "-o", "json")
    assert bought(result) == {"g": 1}


def test_the_table_ends_with_the_difference_in_one_line(written: Written) -> None:
    result = run("-f", written(*cluster()), "--what-if", f"limit={DRIVER}:12")
    assert result.stdout.splitlines()[-1] == (
        "Against the cluster as it is: 2 nodes less (g -2), 1 limit changed."
    )


def test_more_pods_need_more_nodes(written: Written) -> None:
    file = written(*cluster())
    more = written(*databases(5, name="new"), name="more.json")
    result = run("-f", file, "--what-if", f"add-pods={more}")
    assert result.stdout.splitlines()[-1].startswith(
        "Against the cluster as it is: 1 node more (g +1)"
    )
    assert "5 pods new and helped" in result.stdout


def test_a_node_less_makes_its_pods_wait(written: Written) -> None:
    node = [make.node("n1"), make.csinode("n1", {DRIVER: 5})]
    pod = make.pod("db-0", pvcs=["data"], on="n1", owner=owned_by("StatefulSet"))
    claim = make.pvc("data", storage_class="disks")
    objects = [*STORAGE, *node, pod, claim, group("g", nodes=["n1"], template=False)]
    result = run("-f", written(*objects), "--what-if", "remove-node=n1", "-o", "json")
    assert bought(result) == {"g": 1}


@pytest.mark.parametrize("reverse", [False, True], ids=["before it goes", "after it went"])
def test_a_limit_holds_for_a_group_whose_last_node_is_removed(
    written: Written, reverse: bool
) -> None:
    node = [make.node("n1"), make.csinode("n1", {DRIVER: 5})]
    objects = [*STORAGE, *node, *databases(12), group("g", nodes=["n1"], template=False)]
    changes = [f"--what-if=limit={DRIVER}:12", "--what-if=remove-node=n1"]
    result = run("-f", written(*objects), "-o", "json", *(changes[::-1] if reverse else changes))
    assert [(one["group"], one["count"]) for one in document(result)["limits"]] == [("g", 12)]


def test_the_last_node_of_a_group_is_remembered(written: Written) -> None:
    node = [make.node("n1"), make.csinode("n1", {DRIVER: 5})]
    objects = [*STORAGE, *node, *databases(1), group("g", nodes=["n1"], template=False)]
    result = run("-f", written(*objects), "-o", "json", "--what-if", "remove-node=n1")
    assert [one["source"] for one in document(result)["limits"]] == ["remembered"]


def test_opting_in_keeps_pods_off_groups_without_the_driver(written: Written) -> None:
    file = written(*STORAGE, *databases(1), group("g"))
    result = run("-f", file, "--what-if", f"opt-in={DRIVER}")
    assert "1 pod no longer helped" in result.stdout.splitlines()[-1]
    assert "no CSIDriver object of this name in the input; one is assumed" in result.stderr


def test_opting_in_with_the_gate_off_is_noted(written: Written) -> None:
    flags = ["--what-if", f"opt-in={DRIVER}", "--feature-gates", "VolumeLimitScaling=false"]
    result = run("-f", written(*cluster()), *flags)
    assert "of no effect while the gate VolumeLimitScaling is off" in result.stderr


@pytest.mark.parametrize(
    "change", ["nonsense", "limit=x", "remove-node=n9", "add-pods=absent.yaml", "limit=y:3"]
)
def test_a_change_that_cannot_be_made_is_one_line_and_code_2(written: Written, change: str) -> None:
    result = run("-f", written(*cluster()), "--what-if", change)
    assert (result.exit_code, result.stdout, len(result.stderr.splitlines())) == (2, "", 1)
