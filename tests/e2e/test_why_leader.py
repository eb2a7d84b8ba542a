"""`tonnage why` with nothing but a context: the leader is found by its Lease and asked."""

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.e2e import deployed, manifests, port_forward
from tests.e2e.controlplane import NO_KUBELET
from tests.e2e.scale_up import Stage, group
from tonnage.cli import running_autoscaler

LEADER = socket.gethostname()
"""A pod has its name as host name; here the machine plays the pod."""


def why(stage: Stage, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).with_name("tonnage")), "why", *arguments],
        env={"PATH": os.defpath, "HOME": "/", "KUBECONFIG": str(stage.cluster.kubeconfig())},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_leader_is_asked_from_a_context_alone(stage: Stage) -> None:
    stage.play()
    stage.groups(group("web"))
    settings = stage.settings()
    leader = stage.autoscaler(settings)
    follower = stage.replica("follower", settings)
    follower.start()
    pod = f"{stage.work.namespace}/late"
    stage.cluster.create(manifests.pod("late", namespace=stage.work.namespace))
    stage.wait_running(1)

    certificate, key = stage.cluster.certificate
    kubelets = contextlib.AsyncExitStack()
    port, asked = stage.background.run(
        kubelets.enter_async_context(
            port_forward.forwarding(
                running_autoscaler.DEBUG_PORT,
                to=leader.debug_port,
                certificate=certificate,
                key=key,
            )
        )
    )
    node = manifests.node(stage.work.name("leaders"))
    node["status"]["addresses"] = [{"type": "InternalIP", "address": "127.0.0.1"}]
    node["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": port}}
    stage.work.create(node)
    (deployment,) = (
        one for one in deployed.manifests(stage.cluster) if one["kind"] == "Deployment"
    )
    shipped = deployment["spec"]["template"]["spec"]
    here = {**shipped, "nodeName": node["metadata"]["name"]}
    try:
        stage.cluster.create(manifests.pod(LEADER, namespace=deployed.NAMESPACE, **here))
        told = why(stage, pod, "--context", "e2e")
    finally:
        stage.cluster.kubectl("delete", "pod", LEADER, "-n", deployed.NAMESPACE, *NO_KUBELET)
        stage.background.run(kubelets.aclose())
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith(f"{pod}: bought, the only group")
    assert asked == [f"/portForward/{deployed.NAMESPACE}/{LEADER}"]

    stage.wait(lambda: bool(follower.says("listening for debugging")), "the follower listens")
    refused = why(stage, pod, "--url", f"http://127.0.0.1:{follower.debug_port}")
    assert refused.returncode == 1
    assert "does not lead and decides nothing" in refused.stderr
    (leading,) = leader.lines("leading")
    assert f"{leading['identity']} leads" in refused.stderr
