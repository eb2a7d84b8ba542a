"""A Kubernetes control plane of one's own: etcd, API server, scheduler, controller manager.

    with ControlPlane(directory) as cluster:
        cluster.kubectl("get", "nodes")

The programs are those `tools/control-plane` has built. They listen on loopback, with TLS and RBAC,
on ports of their own, so that several may run side by side. There are no nodes: whoever needs one
creates it. Each component can be paused, stopped, killed and started again.
"""

import contextlib
import http.client
import json
import os
import random
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from tests.e2e.identities import Identities
from tests.e2e.processes import Program, Watchdog

REPOSITORY = Path(__file__).resolve().parents[2]
ETCD = "etcd"
API_SERVER = "kube-apiserver"
SCHEDULER = "kube-scheduler"
CONTROLLER_MANAGER = "kube-controller-manager"
COMPONENTS = (ETCD, API_SERVER, SCHEDULER, CONTROLLER_MANAGER)
ADMIN = "admin"
MASTERS = "system:masters"
FEATURE_GATES = {"VolumeLimitScaling": True}
STARTUP = 240.0
"""Seconds; a quiet machine needs ten."""
PORTS = range(20_000, 32_000)
"""Below those the system hands out for outgoing connections, so that a restart finds its own."""

_reserved: list[socket.socket] = []
"""Held until this process ends, so that nobody who asks as we do gets the same port."""

NO_KUBELET = ("--wait=false", "--ignore-not-found", "--grace-period=0", "--force")
"""Nobody confirms that a pod has ended."""

Flags = dict[str, str]


class KubectlError(AssertionError):
    """kubectl ended with an error; the message is what it said."""


class ControlPlane:
    """Four programs that make one cluster; none of them runs after the block."""

    def __init__(
        self,
        directory: Path,
        *,
        feature_gates: Mapping[str, bool] = FEATURE_GATES,
        flags: Mapping[str, Flags] | None = None,
    ) -> None:
        """`flags`, by component and without dashes, go before those that are set here."""
        self._directory = directory
        self._programs = programs()
        self.versions = json.loads((self._programs.parent / "stamp.json").read_text())
        self._gates = _joined(feature_gates)
        self._given = flags or {}
        self._ports = dict(zip(COMPONENTS, free_ports(len(COMPONENTS)), strict=True))
        self._identities = Identities(directory / "identities")
        self._components: dict[str, Program] = {}
        self._watchdog: Watchdog | None = None

    def __enter__(self) -> Self:
        data = self._directory / "etcd"
        self._watchdog = Watchdog(data)
        self._components = {name: self._program(name) for name in COMPONENTS}
        try:
            for name in COMPONENTS:
                self.start(name, wait=name in (ETCD, API_SERVER))
            for name in (SCHEDULER, CONTROLLER_MANAGER):
                self.wait_ready(name)
            self.wait_accounts("default")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End everything at once; only the logs and the identities are left."""
        for component in reversed(self._components.values()):
            component.kill()
        if self._watchdog is not None:
            self._watchdog.close()
            self._watchdog = None

    # Talking to it

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self._ports[API_SERVER]}"

    def kubeconfig(self, user: str = ADMIN, *, group: str = "") -> Path:
        """A kubeconfig of a user with a client certificate; the administrator may do anything."""
        group = MASTERS if user == ADMIN else group
        return self._identities.certified(self.server, user, group=group)

    def kubeconfig_of_account(self, name: str, *, namespace: str, server: str = "") -> Path:
        """A kubeconfig of an existing service account, with a fresh token of an hour.

        `server` is whoever stands between the account and the API server.
        """
        token = self.kubectl("create", "token", name, "-n", namespace).strip()
        return self._identities.tokened(server or self.server, token)

    def client_certificate(self, user: str) -> tuple[Path, Path]:
        """Certificate and key with which a client shows that it is this user."""
        return self._identities.client(user)

    @property
    def authority(self) -> Path:
        """The certificate of the authority that vouches for all servers."""
        return self._identities.authority

    @property
    def certificate(self) -> tuple[Path, Path]:
        """Certificate and key with which anybody may be a server on loopback."""
        return self._identities.server

    def kubectl(
        self,
        *arguments: str,
        stdin: str = "",
        kubeconfig: Path | None = None,
        timeout: float = 180.0,
    ) -> str:
        """What kubectl prints; as the administrator unless another kubeconfig is given."""
        command = [str(self._programs / "kubectl"), *arguments]
        environ = {
            "PATH": os.defpath,
            "HOME": str(self._directory),
            "KUBECONFIG": str(kubeconfig or self.kubeconfig()),
        }
        run = subprocess.run(
            command, input=stdin, env=environ, capture_output=True, text=True, timeout=timeout
        )
        if run.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {run.stderr.strip()}")
        return run.stdout

    def create(self, *manifests: Mapping[str, object]) -> None:
        """Create objects, in this order, in one go."""
        self.kubectl("create", "-f", "-", stdin=_list(manifests))

    def get(self, kind: str, name: str, *, namespace: str = "") -> dict[str, Any]:
        where = ("-n", namespace) if namespace else ()
        found: dict[str, Any] = json.loads(self.kubectl("get", kind, name, *where, "-o", "json"))
        return found

    @contextlib.contextmanager
    def namespace(self, name: str) -> Iterator[str]:
        """A namespace that is ready for pods inside the block.

        After it, the namespace is on its way out and has no pods: none that waits is left to be
        given a node of the next test.
        """
        self.kubectl("create", "namespace", name)
        try:
            self.wait_accounts(name)
            yield name
        finally:
            # First: in a namespace that goes, no controller makes pods again.
            self.kubectl("delete", "namespace", name, "--wait=false")
            wait_until(lambda: self._ended_pods(name), what=f"namespace {name} has no pods")

    # Its components

    def start(self, component: str, *, wait: bool = True) -> None:
        self._components[component].start()
        if wait:
            self.wait_ready(component)

    def stop(self, component: str) -> None:
        """Ask it to end, as an operator does."""
        self._components[component].stop()

    def kill(self, component: str) -> None:
        """End it without a word, as a crash does."""
        self._components[component].kill()

    def restart(self, component: str) -> None:
        """Stop it, start it again, wait until it is ready."""
        self.stop(component)
        self.start(component)

    def switch(self, feature_gates: Mapping[str, bool]) -> None:
        """Restart, with other gates, everything that has any; what is stored stays."""
        self._gates = _joined(feature_gates)
        for name in (API_SERVER, SCHEDULER, CONTROLLER_MANAGER):
            self.stop(name)
            self._components[name] = self._program(name)
            self.start(name)

    def mend(self) -> None:
        """Start what is not running."""
        for name, component in self._components.items():
            if not component.running:
                component.kill()
                self.start(name)

    def paused(self, component: str) -> contextlib.AbstractContextManager[None]:
        """It stands still inside the block: connections stay open, nobody answers."""
        return self._components[component].paused()

    def pids(self) -> dict[str, int]:
        return {name: component.pid for name, component in self._components.items()}

    def logs(self) -> Iterator[tuple[str, str]]:
        """The end of what each component has logged."""
        for name, component in self._components.items():
            yield name, component.last_words()

    def wait_ready(self, component: str) -> None:
        path = {ETCD: "/health", CONTROLLER_MANAGER: "/healthz"}.get(component, "/readyz")
        program = self._components[component]

        def ready() -> bool:
            if program.ended is not None:
                raise AssertionError(
                    f"{component} ended with code {program.ended}:\n{program.last_words()}"
                )
            return self._answers(component, path)

        wait_until(ready, within=STARTUP, what=f"{component} is ready", late=program.last_words)

    def wait_accounts(self, namespace: str) -> None:
        """Without its `default` account, pods in a namespace are refused."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        manager = self._components[CONTROLLER_MANAGER]
        wait_until(
            lambda: self._answers(API_SERVER, path),
            within=STARTUP,
            what=f"namespace {namespace} has its default service account",
            late=manager.last_words,
        )

    def _ended_pods(self, namespace: str) -> bool:
        """End all pods of a namespace; whether there are none any more."""
        self.kubectl("delete", "pods", "--all", "-n", namespace, *NO_KUBELET)
        return not self.kubectl("get", "pods", "-n", namespace, "-o", "name")

    def _answers(self, component: str, path: str) -> bool:
        context = ssl.create_default_context(cafile=self._identities.authority)
        context.load_cert_chain(*self._identities.client(ADMIN, group=MASTERS))
        url = f"https://127.0.0.1:{self._ports[component]}{path}"
        try:
            # Not through a proxy, whatever the environment says.
            opener = urllib.request.build_opener(
                urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
            )
            with opener.open(url, timeout=15.0) as answer:
                return bool(answer.status == http.client.OK)
        except (OSError, http.client.HTTPException, urllib.error.URLError):
            return False

    def _program(self, component: str) -> Program:
        assert self._watchdog is not None
        flags = self._flags(component) | self._given.get(component, {})
        return Program(
            component,
            [str(self._programs / component), *(f"--{flag}={flags[flag]}" for flag in flags)],
            log=self._directory / f"{component}.log",
            environ={"PATH": os.defpath, "HOME": str(self._directory)},
            watchdog=self._watchdog,
        )

    def _flags(self, component: str) -> Flags:
        serving = {
            "bind-address": "127.0.0.1",
            "secure-port": str(self._ports[component]),
            "tls-cert-file": str(self._identities.server[0]),
            "tls-private-key-file": str(self._identities.server[1]),
            "feature-gates": self._gates,
            "profiling": "false",
        }
        match component:
            case "etcd":
                return self._etcd_flags()
            case "kube-apiserver":
                return serving | self._api_server_flags()
            case "kube-scheduler":
                return serving | self._delegated("system:kube-scheduler")
            case _:
                return serving | self._controller_manager_flags()

    def _etcd_flags(self) -> Flags:
        url = f"https://127.0.0.1:{self._ports[ETCD]}"
        certificate, key = self._identities.server
        return {
            "data-dir": str(self._directory / "etcd"),
            "listen-client-urls": url,
            "advertise-client-urls": url,
            "listen-peer-urls": "http://127.0.0.1:0",
            "client-cert-auth": "true",
            "trusted-ca-file": str(self._identities.authority),
            "cert-file": str(certificate),
            "key-file": str(key),
            # What a crash of the program leaves is enough; the machine's need not be survived.
            "unsafe-no-fsync": "true",
            "log-level": "warn",
        }

    def _api_server_flags(self) -> Flags:
        certificate, key = self._identities.client("etcd-client")
        return {
            "etcd-servers": f"https://127.0.0.1:{self._ports[ETCD]}",
            "etcd-cafile": str(self._identities.authority),
            "etcd-certfile": str(certificate),
            "etcd-keyfile": str(key),
            "client-ca-file": str(self._identities.authority),
            # The others ask for these, whether or not there is a proxy in front.
            "requestheader-client-ca-file": str(self._identities.authority),
            "requestheader-allowed-names": "front-proxy",
            "requestheader-username-headers": "X-Remote-User",
            "requestheader-group-headers": "X-Remote-Group",
            "requestheader-extra-headers-prefix": "X-Remote-Extra-",
            "authorization-mode": "Node,RBAC",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": str(self._identities.token_key),
            "service-account-signing-key-file": str(self._identities.token_key),
            "service-cluster-ip-range": "10.96.0.0/16",
            "advertise-address": "127.0.0.1",
            # It would publish itself as an endpoint, for which loopback is not a valid address.
            "endpoint-reconciler-type": "none",
            "allow-privileged": "true",
            "event-ttl": "15m",
        }

    def _controller_manager_flags(self) -> Flags:
        return self._delegated("system:kube-controller-manager") | {
            "use-service-account-credentials": "true",
            "service-account-private-key-file": str(self._identities.token_key),
            "root-ca-file": str(self._identities.authority),
            # Nodes made by hand have no heartbeat; whoever tests that gives other values.
            "node-monitor-grace-period": "1h",
            "node-startup-grace-period": "1h",
            "kube-api-qps": "200",
            "kube-api-burst": "400",
        }

    def _delegated(self, user: str) -> Flags:
        """Of a component that talks to the API server, and lets it judge who may talk to it."""
        kubeconfig = str(self.kubeconfig(user))
        return {
            "kubeconfig": kubeconfig,
            "authentication-kubeconfig": kubeconfig,
            "authorization-kubeconfig": kubeconfig,
            "leader-elect": "false",
        }


def programs() -> Path:
    """The directory of the built programs."""
    run = subprocess.run(
        [sys.executable, REPOSITORY / "tools" / "control-plane", "path"],
        capture_output=True,
        text=True,
    )
    if run.returncode != 0:
        raise FileNotFoundError(run.stderr.strip())
    return Path(run.stdout.strip())


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on, which stay reserved for this process among all that ask here."""
    found: list[int] = []
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        if _reserve(port):
            found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"no {count} free ports between {PORTS.start} and {PORTS.stop}")


def _reserve(port: int) -> bool:
    """Whether the port is ours from now on, also while whoever is to listen on it does not.

    Elsewhere than on Linux only for this moment.
    """
    sign = socket.socket(socket.AF_UNIX)
    try:
        if sys.platform == "linux":
            # A name without a file: it is gone when this process is, however that ends.
            sign.bind(f"\0tonnage-e2e-port-{port}")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
    except OSError:
        sign.close()
        return False
    _reserved.append(sign)
    return True


def wait_until(
    condition: Callable[[], bool],
    *,
    what: str,
    within: float = 180.0,
    every: float = 0.1,
    late: Callable[[], str] = str,
) -> None:
    """Wait, looking often, until something is so; `late` has more to say if it never is."""
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {within:.0f} s it is not so that {what}\n{late()}")
        time.sleep(every)


def _list(manifests: tuple[Mapping[str, object], ...]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests)})


def _joined(feature_gates: Mapping[str, bool]) -> str:
    return ",".join(f"{gate}={str(on).lower()}" for gate, on in feature_gates.items())
