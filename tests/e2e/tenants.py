"""Somebody who may do everything in one namespace and nothing outside of it."""

from tests.e2e.controlplane import ControlPlane

ACCOUNT = "tenant"


class Tenant:
    """Posts what no client would send; the rights are those of the ClusterRole `edit`."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        where = ("-n", namespace)
        cluster.kubectl("create", "serviceaccount", ACCOUNT, *where)
        account = f"{namespace}:{ACCOUNT}"
        cluster.kubectl(
            "create", "rolebinding", ACCOUNT, "--clusterrole=edit", f"--serviceaccount={account}",
            *where,
        )  # fmt: skip
        self._kubeconfig = cluster.kubeconfig_of_account(ACCOUNT, namespace=namespace)

    def post_pod(self, body: str) -> None:
        """A pod as it is written here, byte by byte."""
        path = f"/api/v1/namespaces/{self._namespace}/pods"
        self._cluster.kubectl(
            "create", "--raw", path, "-f", "-", stdin=body, kubeconfig=self._kubeconfig
        )
