"""A small CSI driver in a process of its own, with the registration that a sidecar does for it.

    with CsiDriver(kubelet_dir, "ebs.csi.aws.com", limit=25) as driver:
        driver.tell(limit=24)       # it changes its number
        driver.restart()

It serves Identity, Node and the kubelet's Registration over unix sockets, by real gRPC. How it
behaves is read from a file for every call, so that it can be told otherwise while it runs. Run as
a program, this file is the driver itself.
"""

import json
import subprocess
import sys
import time
from concurrent import futures
from pathlib import Path
from typing import Any, Self

import grpc

from tonnage.nodeagent.protos import csi_pb2, pluginregistration_pb2

STARTUP = 60.0
"""Seconds; a quiet machine needs less than one."""


class CsiDriver:
    """A driver that runs inside the block.

    `behave` is one of: well, hang (no answer at all), error (NodeGetInfo fails), unready (Probe
    says so), stranger (calls itself otherwise than it registered).
    """

    def __init__(
        self,
        kubelet_dir: Path,
        name: str,
        *,
        limit: int,
        behave: str = "well",
        type_: str = "CSIPlugin",
        short: str = "csi",
    ) -> None:
        self.name = name
        self.endpoint = kubelet_dir / "plugins" / short / "csi.sock"
        self.registration = kubelet_dir / "plugins_registry" / f"{short}-reg.sock"
        self._file = kubelet_dir / f"{short}.json"
        self._state: dict[str, Any] = {
            "name": name,
            "type": type_,
            "limit": limit,
            "behave": behave,
            "endpoint": str(self.endpoint),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.endpoint.parent.mkdir(parents=True, exist_ok=True)
        self.registration.parent.mkdir(parents=True, exist_ok=True)
        self.tell()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def tell(self, **changes: Any) -> None:
        """Let it behave otherwise from the next call on."""
        self._state.update(changes)
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(self._state))
        new.rename(self._file)

    def start(self) -> None:
        paths = (self._file, self.endpoint, self.registration)
        self._process = subprocess.Popen([sys.executable, __file__, *map(str, paths)])
        deadline = time.monotonic() + STARTUP
        while not (self.endpoint.exists() and self.registration.exists()):
            assert self._process.poll() is None, "the driver ended before it served"
            assert time.monotonic() < deadline, "the driver does not serve"
            time.sleep(0.02)

    def stop(self) -> None:
        """End it, and take its sockets away as the sidecar does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        self.endpoint.unlink(missing_ok=True)
        self.registration.unlink(missing_ok=True)

    def restart(self) -> None:
        self.stop()
        self.start()


class _Service:
    """The answers, by method."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def handlers(self) -> dict[str, dict[str, Any]]:
        def handler(answer: Any, request: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(
                answer,
                request_deserializer=request.FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )

        return {
            "csi.v1.Identity": {
                "GetPluginInfo": handler(self.plugin_info, csi_pb2.GetPluginInfoRequest),
                "Probe": handler(self.probe, csi_pb2.ProbeRequest),
            },
            "csi.v1.Node": {
                "NodeGetCapabilities": handler(
                    self.capabilities, csi_pb2.NodeGetCapabilitiesRequest
                ),
                "NodeGetInfo": handler(self.node_info, csi_pb2.NodeGetInfoRequest),
            },
            "pluginregistration.Registration": {
                "GetInfo": handler(self.registration, pluginregistration_pb2.InfoRequest),
            },
        }

    def registration(self, _request: Any, _context: Any) -> Any:
        state = self._read()
        return pluginregistration_pb2.PluginInfo(
            type=state["type"],
            name=state["name"],
            endpoint=state["endpoint"],
            supported_versions=["1.0.0"],
        )

    def plugin_info(self, _request: Any, _context: Any) -> Any:
        state = self._state()
        name = "stranger.example.com" if state["behave"] == "stranger" else state["name"]
        return csi_pb2.GetPluginInfoResponse(name=name, vendor_version="v1.2.3")

    def probe(self, _request: Any, _context: Any) -> Any:
        state = self._state()
        if state["behave"] == "unready":
            return csi_pb2.ProbeResponse(ready={"value": False})
        return csi_pb2.ProbeResponse()

    def capabilities(self, _request: Any, _context: Any) -> Any:
        self._state()
        kinds = csi_pb2.NodeServiceCapability.RPC.Type
        # 99 is of a newer specification than ours.
        types = [kinds.STAGE_UNSTAGE_VOLUME, kinds.GET_VOLUME_STATS, 99]
        return csi_pb2.NodeGetCapabilitiesResponse(
            capabilities=[{"rpc": {"type": type_}} for type_ in types]
        )

    def node_info(self, _request: Any, context: grpc.ServicerContext) -> Any:
        state = self._state()
        if state["behave"] == "error":
            context.abort(grpc.StatusCode.INTERNAL, "metadata of the instance not available")
        return csi_pb2.NodeGetInfoResponse(
            node_id="i-0123456789", max_volumes_per_node=state["limit"]
        )

    def _state(self) -> dict[str, Any]:
        """How to behave; does not return while it is to hang."""
        while (state := self._read())["behave"] == "hang":
            time.sleep(0.05)
        return state

    def _read(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._file.read_text())
        return found


def main() -> None:
    file, endpoint, registration = (Path(argument) for argument in sys.argv[1:])
    service = _Service(file)
    servers = []
    for socket in (endpoint, registration):
        server = grpc.server(futures.ThreadPoolExecutor(max_workers=16))
        for name, methods in service.handlers().items():
            handler = grpc.method_handlers_generic_handler(name, methods)
            server.add_generic_rpc_handlers((handler,))
        server.add_insecure_port(f"unix:{socket}")
        server.start()
        servers.append(server)
    servers[0].wait_for_termination()


if __name__ == "__main__":
    main()
