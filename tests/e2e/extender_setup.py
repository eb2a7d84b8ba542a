"""A control plane whose scheduler asks our extender, configured by the files we ship."""

import json
import os
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.e2e import deployed, metrics
from tests.e2e.controlplane import (
    REPOSITORY,
    SCHEDULER,
    ControlPlane,
    free_ports,
    wait_until,
)
from tests.e2e.processes import Program, Watchdog

SHIPPED = REPOSITORY / "deploy" / "extender"
NAMESPACE = "tonnage-system"
ACCOUNT = "tonnage-extender"
GATES = {"VolumeLimitScaling": False}
ASKS = "system:kube-scheduler"
"""Whose client certificate the extender wants to see."""

_RUNS = ("Deployment", "Service")


class Extended:
    """The cluster, and the extender, which can be ended and started again."""

    def __init__(self, cluster: ControlPlane, extender: Program, port: int) -> None:
        self.cluster = cluster
        self.extender = extender
        self.port = port
        self._url = f"https://127.0.0.1:{port}"

    def ready(self) -> bool:
        """Whether it answers. Until then the scheduler does without it, and lets pods pass."""
        try:
            self._read("/readyz")
        except OSError:
            return False
        return True

    def knows(self, kind: str) -> int:
        """How many objects of a kind the extender has heard of."""
        return metrics.known(self._read("/metrics"), kind)

    def reservations(self) -> int:
        """How many pods hold slots that nobody else gets."""
        return metrics.count(self._read("/metrics"), "tonnage_extender_reservations")

    def ask(self, path: str, body: bytes, *, user: str = "") -> tuple[int, Any]:
        """Put a question, with the client certificate of a user if there is one."""
        try:
            with self._open(path, body=body, user=user) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def restart(self) -> None:
        """As after a crash; what was in its memory is gone."""
        self.extender.kill()
        self.extender.start()

    def _read(self, path: str) -> str:
        with self._open(path) as answer:
            told: str = answer.read().decode()
        return told

    def _open(self, path: str, *, body: bytes | None = None, user: str = "") -> Any:
        context = ssl.create_default_context(cafile=self.cluster.authority)
        if user:
            context.load_cert_chain(*self.cluster.client_certificate(user))
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        return opener.open(self._url + path, data=body, timeout=30.0)


@contextmanager
def extended(directory: Path, config: str) -> Iterator[Extended]:
    """A cluster without the gate; `config` names one of the shipped scheduler configurations."""
    (port,) = free_ports(1)
    file = directory / "scheduler.yaml"
    cluster = ControlPlane(directory, feature_gates=GATES, flags={SCHEDULER: {"config": str(file)}})
    file.write_text(yaml.safe_dump(_configured(config, cluster, port)))
    with cluster:
        watchdog = Watchdog()
        try:
            with extender(cluster, directory, watchdog=watchdog, port=port) as made:
                yield made
        finally:
            watchdog.close()


@contextmanager
def extender(
    cluster: ControlPlane, directory: Path, *, watchdog: Watchdog, port: int = 0
) -> Iterator[Extended]:
    """An extender that is ready, be it that no scheduler asks it."""
    port = port or free_ports(1)[0]
    program = _extender(cluster, directory, port, watchdog)
    program.start()
    try:
        made = Extended(cluster, program, port)
        wait_until(made.ready, what="the extender is ready", late=program.last_words)
        yield made
    finally:
        program.kill()


def _configured(config: str, cluster: ControlPlane, port: int) -> dict[str, Any]:
    """As shipped, but for where things are on this machine."""
    found: dict[str, Any] = yaml.safe_load((SHIPPED / "scheduler" / f"{config}.yaml").read_text())
    found["clientConnection"]["kubeconfig"] = str(cluster.kubeconfig("system:kube-scheduler"))
    # Else it holds back at 50 requests a second, and nothing of ours is exercised.
    found["clientConnection"] |= {"qps": 500, "burst": 1000}
    (extender,) = found["extenders"]
    extender["urlPrefix"] = f"https://127.0.0.1:{port}/v1"
    certificate, key = cluster.client_certificate(ASKS)
    extender["tlsConfig"] |= {
        "caFile": str(cluster.authority),
        "certFile": str(certificate),
        "keyFile": str(key),
        "serverName": "localhost",
    }
    return found


def _extender(cluster: ControlPlane, directory: Path, port: int, watchdog: Watchdog) -> Program:
    rendered = yaml.safe_load_all(cluster.kubectl("kustomize", str(SHIPPED)))
    rights = [one for one in rendered if one and one["kind"] not in _RUNS]
    deployed.install(cluster, rights, account=ACCOUNT, namespace=NAMESPACE)
    certificate, key = cluster.certificate
    return Program(
        "extender",
        [
            *(str(Path(sys.executable).with_name("tonnage")), "extender"),
            f"--address=127.0.0.1:{port}",
            f"--kubeconfig={cluster.kubeconfig_of_account(ACCOUNT, namespace=NAMESPACE)}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--client-ca-file={cluster.authority}",
            f"--client-name={ASKS}",
        ],
        log=directory / "extender.log",
        environ={"PATH": os.defpath, "HOME": str(directory)},
        watchdog=watchdog,
    )
