"""What the operator may set."""

from typing import Any

import msgspec
import pytest

from tonnage.errors import InputError
from tonnage.nodeagent.config import OVERRIDES_ANNOTATION, NodeAgentConfig
from tonnage.objects.nodes import Node
from tonnage.service import config_file
from tonnage.testing import builders

EBS = "ebs.csi.aws.com"


def parsed(text: str) -> NodeAgentConfig:
    return config_file.parse(text.encode(), NodeAgentConfig, where="agent.yaml", given={})


def node(overrides: str = "") -> Node:
    plain = builders.node("n")
    meta = msgspec.structs.replace(plain.metadata, annotations={OVERRIDES_ANNOTATION: overrides})
    return msgspec.structs.replace(plain, metadata=meta)


FILE = """
apiVersion: tonnage.dev/v1alpha1
kind: NodeAgentConfig
overrides: {ebs.csi.aws.com: 24}
overridesByInstanceType:
  t4g.xlarge: {ebs.csi.aws.com: 16}
writeCSINode: true
settleHigher: 10m
"""


def test_a_file_is_read() -> None:
    config = parsed(FILE)
    assert (config.write_csinode, config.settle_higher) == (True, 600.0)


@pytest.mark.parametrize(
    ("annotation", "kind", "count"),
    [
        ("", "m5.large", 24),
        ("", "t4g.xlarge", 16),
        (f"{EBS}=20", "t4g.xlarge", 20),
        (f"other.example.com=1, {EBS} = 20", "t4g.xlarge", 20),
        (f"{EBS}=many", "t4g.xlarge", 16),
        (f"{EBS}=-1", "t4g.xlarge", 16),
    ],
)
def test_the_nearest_override_holds(annotation: str, kind: str, count: int) -> None:
    assert parsed(FILE).override(EBS, node(annotation), instance_type=kind) == count


def test_a_driver_without_override_has_none() -> None:
    assert NodeAgentConfig().override(EBS, node(), instance_type="m5.large") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: AutoscalerConfig", "expected tonnage.dev/v1alpha1, NodeAgentConfig"),
        ("overrides: {d: -1}", "`overrides`: d: -1: expected 0 or more slots"),
        ("overridesByInstanceType: {t: {d: -1}}", "t`: d: -1: expected 0 or more"),
        ("reserved: {d: -1}", "`reserved`: d: -1"),
        ("pollInterval: 0.1", "`pollInterval`: 0.1: expected at least 1"),
        ("driverAttempts: 0", "`driverAttempts`: 0: expected at least 1"),
        ("poll: 3", "poll: expected one of apiVersion, kind"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parsed(text)


def test_every_time_has_to_be_a_time() -> None:
    settings: Any = {"settleLower": "soon"}
    with pytest.raises(InputError, match="settleLower"):
        config_file.parse(b"", NodeAgentConfig, where="flags", given=settings)
