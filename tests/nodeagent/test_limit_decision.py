"""One look after another: what is published over the life of a node."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.nodeagent.hosts import FakeHost, azure, azure_disk, ec2
from tonnage.groups import catalogue
from tonnage.nodeagent import host, provenance
from tonnage.nodeagent.config import OVERRIDES_ANNOTATION, NodeAgentConfig
from tonnage.nodeagent.effective_limit import LimitSource
from tonnage.nodeagent.limit_decision import (
    DriverAnswer,
    LimitDecider,
    LimitDecisions,
    NodeObservation,
)
from tonnage.nodeagent.limit_drift import DriftKind
from tonnage.nodeagent.provenance import ProvenanceEntry, Written
from tonnage.objects import limit_keys
from tonnage.objects.intree import AWS_EBS
from tonnage.objects.storage import AttachError, CSIDriver, CSINode, VolumeAttachment
from tonnage.testing import builders

EBS = catalogue.EBS
INSTANCE_TYPE = "node.kubernetes.io/instance-type"


class Life:
    """A node over time: change what there is to see, and look again a little later."""

    def __init__(self, fake: FakeHost, kind: str, *, driver: str = EBS, **config: Any) -> None:
        self.fake = fake
        self.driver = driver
        self.config = NodeAgentConfig(**config)
        self.node = builders.node("n", labels={INSTANCE_TYPE: kind})
        self.csinode = builders.csinode("n", {})
        self.drivers: dict[str, CSIDriver] = {driver: builders.csidriver(driver)}
        self.attachments: list[VolumeAttachment] = []
        self.heard: dict[str, DriverAnswer] = {}
        self.now = 0.0
        self.decider = self.agent()

    def agent(self, entries: dict[str, ProvenanceEntry] | None = None) -> LimitDecider:
        return LimitDecider(entries or {}, self.config, env_max=None, hasty=False)

    def says(self, number: int | None) -> None:
        """What the driver answers; `None` if it does not."""
        self.heard = {self.driver: DriverAnswer(number, tried=True)}

    def gone(self) -> None:
        """Its pod is deleted: no socket, no entry in the CSINode."""
        self.heard = {}
        self.csinode = builders.csinode("n", {})

    def attach(self, count: int) -> None:
        self.attachments = [
            builders.attachment(f"v{i}", "n", attacher=self.driver) for i in range(count)
        ]

    def refuse(self, time: str = "2030-01-01T00:00:00Z") -> None:
        """One more is to be attached, and there is no room."""
        waiting = builders.attachment("waiting", "n", attacher=self.driver, attached=False)
        status = msgspec.structs.replace(
            waiting.status, attach_error=AttachError(time=time, error_code=8)
        )
        self.attachments.append(msgspec.structs.replace(waiting, status=status))

    def look(self, *, after: float = 1.0) -> LimitDecisions:
        self.now += after
        sight = NodeObservation(
            node=self.node,
            csinode=self.csinode,
            drivers=self.drivers,
            attachments={self.driver: self.attachments},
            heard=self.heard,
            host=host.read(self.fake.root),
            seconds=int(self.now),
            now=self.now,
        )
        return self.decider.look(sight, self.config)

    def entry(self, *, after: float = 1.0) -> ProvenanceEntry:
        return self.look(after=after).entries[self.driver]

    def count(self, *, after: float = 1.0) -> int | None:
        return self.entry(after=after).count

    def restart_agent(self) -> None:
        """A new process, which knows what is written on the node."""
        text = provenance.encode(self.look(after=0.0).entries)
        self.decider = self.agent(provenance.decode({provenance.ANNOTATION: text}))


@pytest.fixture
def m5(tmp_path: Path) -> Life:
    """An m5.large with two network interfaces, whose driver says what is right."""
    life = Life(ec2(tmp_path, interfaces=2), "m5.large")
    life.says(25)
    assert life.count() == 25
    return life


# A driver that restarts on a node with volumes (aws-ebs-csi-driver issue 2796)


@pytest.mark.parametrize("answer", [13, 12, 2])
def test_the_limit_stays_when_a_driver_restarts_among_volumes_of_pods(
    m5: Life, answer: int
) -> None:
    m5.attach(25 - answer)
    m5.says(answer)
    assert m5.count() == 25
    m5.attach(0)
    assert m5.count(after=3600.0) == 25


def test_the_limit_stays_when_the_agent_restarts_together_with_the_driver(m5: Life) -> None:
    m5.attach(13)
    m5.restart_agent()
    m5.says(12)
    assert m5.count() == 25
    assert m5.count(after=3600.0) == 25


def test_an_agent_that_comes_after_the_restart_finds_the_number_by_the_machine(
    tmp_path: Path,
) -> None:
    life = Life(ec2(tmp_path, interfaces=2), "m5.large")
    life.attach(13)
    life.says(12)
    assert life.count() == 25


def test_a_driver_that_forgets_volumes_is_told_about(m5: Life) -> None:
    m5.attach(13)
    m5.says(12)
    assert DriftKind.FORGETS in {one.kind for one in m5.look().drifts}


# A ceiling nobody has in a table (bottlerocket issue 4678)


@pytest.fixture
def t4g(tmp_path: Path) -> Life:
    """A t4g.xlarge with four network interfaces: by the tables there is room for 23."""
    life = Life(ec2(tmp_path, interfaces=4), "t4g.xlarge")
    life.says(26)
    assert life.count() == 23
    return life


def test_a_refused_attach_lowers_the_limit_at_once_to_what_is_attached(t4g: Life) -> None:
    t4g.attach(16)
    t4g.refuse()
    entry = t4g.entry()
    assert (entry.count, entry.source) == (16, LimitSource.MEASURED)


def test_the_measured_ceiling_survives_pods_and_agents(t4g: Life) -> None:
    t4g.attach(16)
    t4g.refuse()
    t4g.restart_agent()
    t4g.attach(3)
    assert t4g.count(after=3600.0) == 16


def test_the_operators_number_is_kept_whatever_was_measured(t4g: Life) -> None:
    t4g.config = NodeAgentConfig(overrides={EBS: 20})
    t4g.attach(16)
    t4g.refuse()
    entry = t4g.entry()
    assert (entry.count, entry.source) == (20, LimitSource.OVERRIDE)


def test_an_old_refusal_is_not_taken_for_a_new_one(t4g: Life) -> None:
    t4g.attach(16)
    t4g.refuse()
    t4g.look()
    t4g.attach(15)
    t4g.refuse()
    assert t4g.count() == 16


# A driver whose pod is deleted (kubernetes issue 126921)


def test_the_number_is_remembered_while_the_driver_is_away(m5: Life) -> None:
    m5.gone()
    assert m5.count(after=3600.0) == 25


def test_an_agent_that_starts_meanwhile_remembers_it_too(m5: Life) -> None:
    m5.gone()
    m5.restart_agent()
    assert m5.count(after=3600.0) == 25


def test_a_driver_that_is_uninstalled_is_forgotten(m5: Life) -> None:
    m5.gone()
    m5.drivers = {}
    assert m5.look().entries == {}


# A foreign disk on LUN 0 (gardener issue 15667)


def test_a_disk_from_elsewhere_takes_a_slot(tmp_path: Path) -> None:
    fake = azure(tmp_path)
    azure_disk(fake, "sdc", mounts=["/data"])
    life = Life(fake, "Standard_D8s_v5", driver=catalogue.AZURE_DISK)
    life.says(16)
    assert life.count() == 15


# The rest of a node's life


def test_a_new_interface_lowers_the_limit_once_it_has_stayed_for_a_minute(m5: Life) -> None:
    m5.fake.interface("eth2")
    assert [m5.count(), m5.count(after=59.0), m5.count(after=1.0)] == [25, 25, 24]


def test_an_interface_that_comes_and_goes_changes_nothing(m5: Life) -> None:
    m5.fake.interface("eth2")
    assert m5.count(after=30.0) == 25
    m5.fake.remove_interface("eth2")
    assert m5.count(after=60.0) == 25


def test_until_it_has_settled_the_reason_is_that_of_the_number(m5: Life) -> None:
    before = m5.entry()
    m5.fake.interface("eth2")
    assert m5.entry() == before


@pytest.mark.parametrize("answer", [0, -1])
def test_a_full_node_whose_driver_says_none_keeps_its_limit(m5: Life, answer: int) -> None:
    m5.attach(25)
    m5.says(answer)
    assert m5.count(after=3600.0) == 25


def test_a_driver_that_hangs_from_the_start_has_the_number_of_the_machine(tmp_path: Path) -> None:
    life = Life(ec2(tmp_path), "m5.large")
    life.says(None)
    assert life.count() == 26


def test_of_a_driver_that_was_not_asked_yet_nothing_is_published(tmp_path: Path) -> None:
    life = Life(ec2(tmp_path), "m5.large")
    life.heard = {EBS: DriverAnswer(None, tried=False)}
    assert life.look().entries == {}


def test_a_driver_without_number_anywhere_has_an_entry_and_no_count(tmp_path: Path) -> None:
    life = Life(ec2(tmp_path), "m5.large", driver="files.example.com")
    life.says(0)
    assert life.entry().count is None


def test_an_override_on_the_node_holds_at_once(m5: Life) -> None:
    meta = msgspec.structs.replace(
        m5.node.metadata, annotations={OVERRIDES_ANNOTATION: f"{EBS}=20"}
    )
    m5.node = msgspec.structs.replace(m5.node, metadata=meta)
    assert m5.count() == 20


def test_an_override_that_is_taken_back_ends_at_once(m5: Life) -> None:
    m5.config = NodeAgentConfig(overrides={EBS: 20})
    m5.look()
    m5.config = NodeAgentConfig()
    assert m5.count() == 25


def test_a_name_of_200_characters_has_a_hashed_key(tmp_path: Path) -> None:
    name = "x" * 188 + ".example.com"
    life = Life(ec2(tmp_path), "m5.large", driver=name)
    life.says(7)
    entry = life.entry()
    assert (len(name), len(entry.key), entry.count) == (200, 62, 7)


def test_a_driver_may_name_its_own_key(m5: Life) -> None:
    own = msgspec.structs.replace(
        m5.drivers[EBS].metadata, annotations={limit_keys.KEY_ANNOTATION: "attachable-volumes-x"}
    )
    m5.drivers = {EBS: msgspec.structs.replace(m5.drivers[EBS], metadata=own)}
    assert m5.entry().key == "attachable-volumes-x"


def test_a_key_that_is_none_leaves_the_driver_out_and_says_so(m5: Life) -> None:
    own = msgspec.structs.replace(
        m5.drivers[EBS].metadata, annotations={limit_keys.KEY_ANNOTATION: "cpu"}
    )
    m5.drivers = {EBS: msgspec.structs.replace(m5.drivers[EBS], metadata=own)}
    outcome = m5.look()
    assert outcome.entries == {}
    assert "'cpu'" in outcome.problems[0]


def listed(count: int | None) -> CSINode:
    return builders.csinode("n", {EBS: count})


def test_what_the_csinode_said_is_kept_before_it_is_overwritten(tmp_path: Path) -> None:
    life = Life(ec2(tmp_path, interfaces=3), "m5.large", write_csinode=True)
    life.says(26)
    life.csinode = listed(26)
    assert life.entry().csinode == Written(count=24, before=26)
    life.csinode = listed(24)
    assert life.entry().csinode == Written(count=24, before=26)


def test_what_the_csinode_said_is_that_of_the_kubelet_and_never_our_own(tmp_path: Path) -> None:
    life = Life(ec2(tmp_path, interfaces=3), "m5.large", write_csinode=True)
    life.says(26)
    life.csinode = listed(None)
    life.look()
    life.csinode = listed(24)
    life.config = NodeAgentConfig(write_csinode=True, overrides={EBS: 20})
    assert life.entry().csinode == Written(count=20, before=None)


def test_a_csinode_that_is_right_by_itself_is_not_ours(m5: Life) -> None:
    m5.config = NodeAgentConfig(write_csinode=True)
    m5.csinode = listed(25)
    assert m5.entry().csinode is None


def on_aws(life: Life) -> None:
    spec = msgspec.structs.replace(life.node.spec, provider_id="aws:///eu-west-1a/i-0")
    life.node = msgspec.structs.replace(life.node, spec=spec)


def test_the_key_of_the_in_tree_plugin_has_the_number_of_its_driver(m5: Life) -> None:
    on_aws(m5)
    m5.config = NodeAgentConfig(publish_intree=True, overrides={EBS: 20})
    entry = m5.look().entries[AWS_EBS]
    assert (entry.key, entry.count) == ("attachable-volumes-aws-ebs", 20)


def test_without_the_driver_the_in_tree_plugin_has_the_number_of_the_machine(
    tmp_path: Path,
) -> None:
    life = Life(ec2(tmp_path, interfaces=2), "m5.large", publish_intree=True)
    on_aws(life)
    assert life.look().entries[AWS_EBS].count == 25


def test_the_environment_goes_before_the_number_of_the_driver(m5: Life) -> None:
    on_aws(m5)
    m5.config = NodeAgentConfig(publish_intree=True)
    m5.decider = LimitDecider({}, m5.config, env_max=7, hasty=False)
    counts = {name: entry.count for name, entry in m5.look().entries.items()}
    assert counts == {EBS: 25, AWS_EBS: 7}


def test_a_node_of_no_cloud_has_no_in_tree_plugin(m5: Life) -> None:
    m5.config = NodeAgentConfig(publish_intree=True)
    assert set(m5.look().entries) == {EBS}


def test_the_kubelet_that_says_otherwise_is_told_about(m5: Life) -> None:
    m5.csinode = listed(None)
    assert {one.kind for one in m5.look().drifts} == {DriftKind.KUBELET_UNLIMITED}
