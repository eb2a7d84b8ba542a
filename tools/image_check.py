"""Whether an image does what it is for, run from its layout as the image says."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from chroot import ImageError, run_inside

_TONNAGE = str(Path(sys.executable).with_name("tonnage"))
_GROUP = """\
apiVersion: tonnage.dev/v1alpha1
kind: NodeGroup
metadata: {name: g}
spec: {maxSize: 3, template: {node: {status: {allocatable: {cpu: "4", pods: "10"}}}}}
"""


class Checks:
    """Questions to an image that is unpacked at `root`."""

    def __init__(self, root: Path, settings: Any) -> None:
        self._root = root
        self._settings = settings
        self._environment = dict(one.split("=", 1) for one in settings["Env"])
        # Where containers have devices of the host; not everybody may make devices.
        (root / "dev").mkdir(exist_ok=True)
        (root / "dev" / "urandom").write_bytes(os.urandom(1 << 16))

    def run(self, *arguments: str, **more: Any) -> str:
        told = run_inside(
            self._root, [*self._settings["Entrypoint"], *arguments], env=self._environment,
            user=self._settings["User"], capture_output=True, **more,
        )  # fmt: skip
        return told.stdout

    def version(self, expected: str) -> None:
        told = self.run("--version").strip()
        if told != f"tonnage {expected}":
            raise ImageError(f"--version says {told!r}")

    def surface(self) -> None:
        """No shell, no package manager, no compiler, nothing that gives rights."""
        programs = {one.name for part in ("bin", "usr/bin", "sbin", "usr/sbin")
                    for one in (self._root / part).glob("*")}  # fmt: skip
        unwanted = {
            "sh",
            "bash",
            "dash",
            "apt",
            "dpkg",
            "gcc",
            "cc",
            "ld",
            "pip",
            "perl",
        } & programs
        if unwanted:
            raise ImageError(f"there should be no {', '.join(sorted(unwanted))} in the image")
        for path in self._root.rglob("*"):
            if not path.is_symlink() and path.stat().st_mode & 0o6000:
                raise ImageError(f"{path.relative_to(self._root)} gives rights to who runs it")

    def dry_run(self) -> None:
        """One look at an embedded API on the loopback."""
        self._put("groups.yaml", _GROUP)
        with self._cluster():
            self.run(
                "run", "--dry-run", "--once", "--provider=declarative",
                "--node-groups=/tmp/groups.yaml", "--kubeconfig=/tmp/kubeconfig",
                "--address=127.0.0.1:0", timeout=120,
            )  # fmt: skip

    def agent(self) -> None:
        """It asks a driver on a socket, by gRPC, and has no numpy."""
        if (self._root / "opt/tonnage/lib/numpy").exists():
            raise ImageError("the image of the node agent has numpy")
        sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
        from tests.nodeagent.csidriver import CsiDriver

        # The driver names its socket by its path out here, which must lead there inside too.
        inside = self._root / self._root.relative_to("/")
        inside.parent.mkdir(parents=True)
        inside.symlink_to("/")
        driver = CsiDriver(self._root / "k", "ebs.csi.aws.com", limit=26)
        with self._cluster() as kubeconfig, driver:
            for path in (driver.endpoint, driver.registration):
                path.chmod(0o666)
            _create_node(kubeconfig)
            told = self.run(
                "node-agent", "--once", "--dry-run", "--node-name=n",
                f"--kubelet-dir={self._root / 'k'}", "--kubeconfig=/tmp/kubeconfig", timeout=120,
            )  # fmt: skip
        if "ebs.csi.aws.com" not in told:
            raise ImageError(f"the node agent has not heard the driver: {told}")

    @contextlib.contextmanager
    def _cluster(self) -> Iterator[Path]:
        """An embedded API; the kubeconfig is in the image's /tmp."""
        kubeconfig = self._root / "tmp" / "kubeconfig"
        with subprocess.Popen(
            [_TONNAGE, "embedded", "--kubeconfig", str(kubeconfig)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ) as server:  # fmt: skip
            try:
                deadline = time.monotonic() + 60
                while not (kubeconfig.exists() and kubeconfig.stat().st_size):
                    if time.monotonic() > deadline:
                        raise ImageError("the embedded API did not start")
                    time.sleep(0.1)
                user = int(self._settings["User"].partition(":")[0])
                os.chown(kubeconfig, user, user)
                yield kubeconfig
            finally:
                server.terminate()

    def _put(self, name: str, text: str) -> None:
        path = self._root / "tmp" / name
        path.write_text(text)
        path.chmod(0o644)


def _create_node(kubeconfig: Path) -> None:
    """By the official client, so that nothing of the image is needed for it."""
    import kubernetes

    client = kubernetes.config.new_client_from_config(str(kubeconfig))
    api = kubernetes.client.CoreV1Api(client)
    labels = {"node.kubernetes.io/instance-type": "m5.large"}
    api.create_node(yaml.safe_load(yaml.safe_dump({"metadata": {"name": "n", "labels": labels}})))
