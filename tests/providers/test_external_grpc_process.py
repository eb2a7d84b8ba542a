"""The example server as a process of its own, over TLS."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
import trustme

from tests.providers.external_grpc_clients import client
from tonnage.errors import ProviderError
from tonnage.providers.external_grpc import ExternalGrpcProvider

REPOSITORY = Path(__file__).parent.parent.parent


class ExampleServer:
    """`examples/external-grpc/provider.py` on a port that stays when it is started again."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        issued = authority.issue_cert("127.0.0.1", "localhost")
        self.ca, self.key, self.cert = (folder / name for name in ("ca.pem", "key", "cert"))
        authority.cert_pem.write_to_path(str(self.ca))
        issued.private_key_pem.write_to_path(str(self.key))
        issued.cert_chain_pems[0].write_to_path(str(self.cert))
        self._groups = folder / "groups.yaml"
        self._groups.write_text(
            "apiVersion: tonnage.dev/v1alpha1\nkind: NodeGroup\nmetadata: {name: a}\n"
            "spec: {maxSize: 5}\n"
        )
        self.port = 0

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                str(REPOSITORY / "examples" / "external-grpc" / "provider.py"),
                str(self._groups),
                f"--address=127.0.0.1:{self.port}",
                f"--key={self.key}",
                f"--cert={self.cert}",
                f"--cacert={self.ca}",
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().rsplit(" ", 1)[1])

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def client(self) -> ExternalGrpcProvider:
        return client(
            self.port, cacert=str(self.ca), key=str(self.key), cert=str(self.cert), grpc_timeout=10
        )


def test_two_processes_talk_over_tls_and_survive_a_restart(tmp_path: Path) -> None:
    example = ExampleServer(tmp_path)
    example.start()
    try:

        async def main() -> None:
            provider = example.client()
            await provider.refresh()
            await provider.increase("a", 2)
            await provider.refresh()
            assert [one.target for one in await provider.groups()] == [2]
            await asyncio.to_thread(example.stop)
            with pytest.raises(ProviderError, match="UNAVAILABLE"):
                await provider.refresh()
            await asyncio.to_thread(example.start)
            for _ in range(100):
                try:
                    await provider.refresh()
                    break
                except ProviderError:
                    await asyncio.sleep(0.1)
            # The example keeps sizes in memory: the restart has lost them, and we believe it.
            assert [one.target for one in await provider.groups()] == [0]
            await provider.close()

        asyncio.run(main())
    finally:
        example.stop()


def test_a_client_without_certificate_is_turned_away(tmp_path: Path) -> None:
    example = ExampleServer(tmp_path)
    example.start()
    try:

        async def main() -> None:
            provider = client(example.port, cacert=str(example.ca), grpc_timeout=2)
            with pytest.raises(ProviderError):
                await provider.refresh()

        asyncio.run(main())
    finally:
        example.stop()
