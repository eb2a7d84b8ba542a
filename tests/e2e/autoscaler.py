"""`tonnage run` as a process, as the account and with the arguments that `deploy/` ships."""

import http.client
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

import yaml

from tests.e2e import deployed, metrics
from tests.e2e.controlplane import ControlPlane, wait_until
from tests.e2e.processes import Program, Watchdog

_TONNAGE = Path(sys.executable).with_name("tonnage")
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Not through a proxy, whatever the environment says."""

_SILENT = (OSError, http.client.HTTPException, KeyError)
"""It does not answer, or has nothing to tell so far."""

Json = dict[str, Any]


class Autoscaler:
    """One replica; it can be killed, paused and started again like any program."""

    def __init__(
        self,
        name: str,
        *,
        cluster: ControlPlane,
        directory: Path,
        watchdog: Watchdog,
        server: str,
        config: Path,
    ) -> None:
        kubeconfig = cluster.kubeconfig_of_account(
            deployed.ACCOUNT, namespace=deployed.NAMESPACE, server=server
        )
        command = [
            str(_TONNAGE),
            *(one for one in deployed.arguments(cluster) if not one.startswith("--config=")),
            f"--config={config}",
            f"--kubeconfig={kubeconfig}",
            "--address=127.0.0.1:0",
            "--debug-address=127.0.0.1:0",
        ]
        self._log = directory / f"{name}.log"
        self.program = Program(
            name,
            command,
            log=self._log,
            environ={"PATH": "/usr/bin:/bin", "HOME": str(directory)},
            watchdog=watchdog,
        )

    def start(self) -> None:
        self.program.start()

    def wait_leading(self) -> None:
        wait_until(
            lambda: self.says("leading") > self.says("not leading"),
            what=f"{self.program.name} leads",
            late=self.program.last_words,
        )

    # What it says

    def lines(self, message: str = "") -> list[Json]:
        """Its log so far, or the lines with one message; what it is writing now is not in it."""
        if not self._log.exists():
            return []
        text = self._log.read_text(errors="replace")
        written = text[: text.rfind("\n") + 1].splitlines()
        found = [json.loads(line) for line in written if line.startswith("{")]
        return [one for one in found if message in ("", one["message"])]

    def says(self, message: str) -> int:
        """How often."""
        return len(self.lines(message))

    def requests(self, deed: str = "increase") -> list[tuple[str, int]]:
        """What it has asked of the provider: group and number of nodes, in order."""
        asked = self.lines("asking the provider")
        return [(one["group"], one["nodes"]) for one in asked if one["deed"] == deed]

    def requested_at(self, deed: str = "increase") -> list[datetime]:
        """When it asked, in order."""
        asked = self.lines("asking the provider")
        return [datetime.fromisoformat(one["time"]) for one in asked if one["deed"] == deed]

    def last_words(self, lines: int = 40) -> str:
        """The end of its log, without what it told every single pod."""
        log = self.program.last_words(2000).splitlines()
        return "\n".join([line for line in log if "pod triggered scale-up" not in line][-lines:])

    # What it answers

    @property
    def status(self) -> Json:
        told: Json = json.loads(self.ask("/status"))
        return told

    def tells(self, name: str) -> Any:
        """Our own part of the status: what it says of one thing, `None` while it says nothing."""
        try:
            return self.status["tonnage"][name]
        except _SILENT:
            return None

    @property
    def healthy(self) -> bool:
        """It is alive, its caches are full, and its last round went through."""
        try:
            self.ask("/healthz")
            self.ask("/readyz")
        except _SILENT:
            return False
        return bool(self.tells("held") == "")

    def knows(self, kind: str) -> int:
        """How many objects of a kind it has heard of."""
        return metrics.known(self.ask("/metrics"), kind)

    def why(self, pod: str) -> str:
        """What `tonnage why --replay` says of a pod, by way of the debug port."""
        url = f"http://127.0.0.1:{self.debug_port}"
        command = [str(_TONNAGE), "why", pod, "--replay", "--url", url]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def refuses(self, path: str) -> bool:
        """Whether there is nothing of that name at its ordinary port."""
        try:
            self.ask(path)
        except urllib.error.HTTPError as error:
            return error.code == HTTPStatus.NOT_FOUND
        return False

    def ask(self, path: str) -> str:
        with _OPENER.open(self._url("listening") + path, timeout=30.0) as answer:
            return str(answer.read().decode())

    @property
    def port(self) -> int:
        """Where health, metrics and status are served."""
        return self._port("listening")

    @property
    def debug_port(self) -> int:
        """Where it tells of its inside, to loopback alone."""
        return self._port("listening for debugging")

    def _url(self, told: str) -> str:
        return f"http://127.0.0.1:{self._port(told)}"

    def _port(self, told: str) -> int:
        listening = self.lines(told)
        if not listening:
            raise ConnectionError(f"{self.program.name} does not listen yet")
        return int(listening[-1]["port"])


class Settings:
    """The configuration file, which may be written anew while somebody reads it."""

    def __init__(self, path: Path, settings: Mapping[str, object]) -> None:
        self.path = path
        self._settings = dict(settings)
        self.change()

    def change(self, **settings: object) -> None:
        self._settings |= settings
        head = {"apiVersion": "tonnage.dev/v1alpha1", "kind": "AutoscalerConfig"}
        # In one go, as a mounted ConfigMap changes.
        new = self.path.with_suffix(".new")
        new.write_text(yaml.safe_dump({**head, **self._settings}))
        new.replace(self.path)
