"""A provider of node groups behind gRPC, to start from: it keeps sizes and makes no machines.

    python provider.py groups.yaml --address 127.0.0.1:8086
    tonnage run --provider externalgrpc --cloud-config cloud-config.yaml --dry-run

Replace `DeclarativeProvider` by a class of your own with the same methods: those of
`tonnage.providers.protocol.Provider`.
"""

import argparse
import asyncio
from pathlib import Path

import grpc

from tonnage import files
from tonnage.objects.scenarios import NodeGroup
from tonnage.providers.declarative import DeclarativeProvider
from tonnage.providers.external_grpc_server import serve


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("groups", help="NodeGroup manifests")
    parser.add_argument("--address", default="127.0.0.1:8086", help="where to listen")
    parser.add_argument("--key", type=Path, help="private key in PEM, for TLS")
    parser.add_argument("--cert", type=Path, help="certificate in PEM, for TLS")
    parser.add_argument("--cacert", type=Path, help="clients must have a certificate under this")
    given = parser.parse_args()
    credentials = None
    if given.key and given.cert:
        credentials = grpc.ssl_server_credentials(
            [(given.key.read_bytes(), given.cert.read_bytes())],
            given.cacert.read_bytes() if given.cacert else None,
            require_client_auth=bool(given.cacert),
        )
    found = files.load([given.groups]).objects
    provider = DeclarativeProvider(one for one in found if isinstance(one, NodeGroup))
    server, port = await serve(provider, given.address, credentials=credentials)
    print(f"listening on port {port}", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main())
