"""How clients find an embedded cluster: a kubeconfig whose URL is all that it takes to get in."""

import os
from pathlib import Path


def text(url: str) -> str:
    """The kubeconfig for a server at this URL."""
    return _KUBECONFIG.format(url=url)


def write(path: Path, url: str) -> None:
    """Write it for its owner's eyes only; raises `OSError`."""
    with open(path, "w", opener=lambda name, flags: os.open(name, flags, mode=0o600)) as file:
        file.write(text(url))
    path.chmod(0o600)


_KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters:
- name: embedded
  cluster:
    server: {url}
contexts:
- name: embedded
  context:
    cluster: embedded
    user: anyone
users:
- name: anyone
  user: {{}}
current-context: embedded
"""
