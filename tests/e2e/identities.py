"""Who may talk to whom: a certificate authority and the kubeconfigs it vouches for."""

import base64
import hashlib
import json
import threading
from pathlib import Path

import trustme

LOOPBACK = ("127.0.0.1", "localhost", "kubernetes.default.svc")


class Identities:
    """Certificates and kubeconfigs of one cluster, as files in one directory, each made once."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700)
        self._directory = directory
        self._authority = trustme.CA()
        self.authority = directory / "ca.crt"
        self._authority.cert_pem.write_to_path(self.authority)
        self.token_key = directory / "service-accounts.key"
        self._authority.issue_cert("tokens").private_key_pem.write_to_path(self.token_key)
        self.server = self._pair("server", self._authority.issue_cert(*LOOPBACK))
        self._clients: dict[tuple[str, str], tuple[Path, Path]] = {}

    def client(self, user: str, *, group: str = "") -> tuple[Path, Path]:
        """Certificate and key of a user, who is in one group if it is named."""
        if (user, group) not in self._clients:
            # Go refuses certificates with an empty list of names, so there is one.
            issued = self._authority.issue_cert(
                "client", common_name=user, organization_name=group or None
            )
            self._clients[user, group] = self._pair(f"client-{len(self._clients)}", issued)
        return self._clients[user, group]

    def certified(self, server: str, user: str, *, group: str = "") -> Path:
        """A kubeconfig of somebody with a client certificate."""
        certificate, key = self.client(user, group=group)
        credentials = {
            "client-certificate-data": base64.b64encode(certificate.read_bytes()).decode(),
            "client-key-data": base64.b64encode(key.read_bytes()).decode(),
        }
        return self._kubeconfig(certificate.with_suffix(".yaml"), server, credentials)

    def tokened(self, server: str, token: str) -> Path:
        """A kubeconfig of whoever the token was made for."""
        name = f"token-{hashlib.sha256(token.encode()).hexdigest()[:16]}.yaml"
        return self._kubeconfig(self._directory / name, server, {"token": token})

    def _pair(self, name: str, issued: trustme.LeafCert) -> tuple[Path, Path]:
        certificate, key = self._directory / f"{name}.crt", self._directory / f"{name}.key"
        issued.private_key_pem.write_to_path(key)
        issued.cert_chain_pems[0].write_to_path(certificate)
        return certificate, key

    def _kubeconfig(self, path: Path, server: str, credentials: dict[str, str]) -> Path:
        authority = base64.b64encode(self.authority.read_bytes()).decode()
        cluster = {"server": server, "certificate-authority-data": authority}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "e2e", "cluster": cluster}],
            "users": [{"name": "user", "user": credentials}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "user"}}],
            "current-context": "e2e",
        }
        # Whole at every moment: others may be reading what is written here once more.
        part = path.with_suffix(f".{threading.get_ident()}")
        part.write_text(json.dumps(config))
        part.replace(path)
        return path
