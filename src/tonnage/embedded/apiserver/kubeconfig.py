"""How clients find an embedded cluster: a kubeconfig without credentials, for loopback."""


def text(url: str) -> str:
    """The kubeconfig for a server at this URL."""
    return _KUBECONFIG.format(url=url)


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
