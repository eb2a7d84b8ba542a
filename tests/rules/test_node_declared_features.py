"""NodeDeclaredFeatures: what pods need of kubelets, by version."""

import msgspec
import pytest

from tests.rules.asking import FITS, SKIPPED, answer, reasons, version
from tonnage.objects.pods import ContainerRestartRule, Pod, VolumeMount
from tonnage.rules.node_declared_features import NodeDeclaredFeatures
from tonnage.testing.builders import container, node, pod

REFUSED = "UU: node(s) didn't match Pod's required features"
RESTART = "RestartAllContainersOnContainerExits"
HOST_NETWORK = "UserNamespacesHostNetworkSupport"
MOUNT_OPTIONS = "VolumeBindMountOptions"


def restarting_all(*, init: bool = False) -> Pod:
    rule = ContainerRestartRule(action="RestartAllContainers")
    one = msgspec.structs.replace(container("extra"), restart_policy_rules=(rule,))
    return pod("web", init_containers=[one]) if init else pod("web", containers=[one])


def on_host_network(*, host_users: bool | None) -> Pod:
    plain = pod("web")
    spec = msgspec.structs.replace(plain.spec, host_network=True, host_users=host_users)
    return msgspec.structs.replace(plain, spec=spec)


def mounting() -> Pod:
    mount = VolumeMount(bind_mount_options=("noexec",))
    return pod("web", containers=[msgspec.structs.replace(container("c"), volume_mounts=(mount,))])


@pytest.mark.parametrize(
    ("asking", "declared", "kubernetes", "expected"),
    [
        pytest.param(pod("web"), (), "1.37", SKIPPED, id="an ordinary pod needs nothing"),
        pytest.param(restarting_all(), (), "1.37", REFUSED, id="restarting all containers"),
        pytest.param(restarting_all(), (RESTART,), "1.37", FITS, id="a node that can do that"),
        pytest.param(
            restarting_all(init=True), (), "1.37", REFUSED, id="init containers have rules too"
        ),
        pytest.param(
            restarting_all(), (HOST_NETWORK,), "1.37", REFUSED, id="a node that can do other things"
        ),
        pytest.param(
            on_host_network(host_users=False),
            (),
            "1.37",
            REFUSED,
            id="own users on the host's network",
        ),
        pytest.param(
            on_host_network(host_users=None),
            (),
            "1.37",
            SKIPPED,
            id="the host's users on the host's network are nothing special",
        ),
        pytest.param(mounting(), (), "1.37", REFUSED, id="mount options, since 1.37"),
        pytest.param(mounting(), (MOUNT_OPTIONS,), "1.37", FITS, id="a node with mount options"),
        pytest.param(mounting(), (), "1.36", SKIPPED, id="1.36 does not know mount options"),
        pytest.param(restarting_all(), (), "1.36", REFUSED, id="1.36 knows the others"),
        pytest.param(restarting_all(), (), "1.35", SKIPPED, id="1.35 has the rule switched off"),
    ],
)
def test_a_node_must_declare_what_the_pod_needs(asking, declared, kubernetes, expected) -> None:
    objects = [node("n1", features=declared)]

    assert answer(NodeDeclaredFeatures(), asking, objects, of=version(kubernetes)) == expected


@pytest.mark.parametrize(
    ("kubernetes", "gate", "expected"),
    [
        pytest.param("1.35", True, REFUSED, id="1.35 with the gate on"),
        pytest.param("1.36", False, SKIPPED, id="1.36 with the gate off"),
    ],
)
def test_the_gate_decides(kubernetes, gate, expected) -> None:
    of = version(kubernetes, {"NodeDeclaredFeatures": gate})

    assert answer(NodeDeclaredFeatures(), restarting_all(), [node("n1")], of=of) == expected


def test_the_needed_features_are_named() -> None:
    (reason,) = reasons(NodeDeclaredFeatures(), restarting_all(), [node("n1")])

    assert reason.facts == {"features": [RESTART]}
