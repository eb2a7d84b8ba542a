"""Where `tonnage why` has decisions from: a URL, or the replica that leads, by its Lease."""

import asyncio
import os
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tonnage.cli import cluster_access, decision_files, installation
from tonnage.cli.decision_files import DEFAULT_URL
from tonnage.errors import ClusterError, InputError, TonnageError

if TYPE_CHECKING:
    from tonnage.autoscaler.report import LoggedDecision
    from tonnage.autoscaler.room_report import RoomDocument
    from tonnage.autoscaler.scaledown.report import ScaleDownDocument

_Document = TypeVar("_Document", "ScaleDownDocument", "RoomDocument")

_LEADER = "/debug/leader"


class RunningAutoscaler(NamedTuple):
    """The one that is asked: by its URL, or else the leader of a cluster, by its Lease."""

    url: str | None
    kubeconfig: str | None
    context: str | None
    namespace: str | None

    def decisions(self, path: str) -> "tuple[str, list[LoggedDecision]]":
        """From where, and the decisions there are."""
        where, data = self.document(path)
        found = decision_files.decoded(data, where)
        if not found and where.startswith("http"):
            refuse_follower(where.removesuffix(path))
        return where.removesuffix(path), found

    def document(self, path: str) -> tuple[str, bytes]:
        """From where, and what is answered there."""
        if self.url is not None:
            return decision_files.address(self.url, path), decision_files.get(self.url, path)
        if not self.kubeconfig and not self.context and not self.namespace:
            try:
                data = decision_files.get(DEFAULT_URL, path)
                return decision_files.address(DEFAULT_URL, path), data
            except decision_files.NobodyListensError:
                pass
        return asyncio.run(self._of_leader(path))

    def told(self, path: str, kind: type[_Document], about: str) -> tuple[str, _Document]:
        """From where, and the document there; a replica that does not lead has nothing to tell."""
        import msgspec

        where, data = self.document(path)
        try:
            found = msgspec.json.decode(data, type=kind)
        except msgspec.DecodeError as error:
            raise InputError(f"{where}: not what an autoscaler tells of {about}: {error}") from None
        if not found.time and where.startswith("http"):
            refuse_follower(where.removesuffix(path))
        return where, found

    async def _of_leader(self, path: str) -> tuple[str, bytes]:
        import random

        from tonnage.clock import SystemClock
        from tonnage.cluster import portforward
        from tonnage.cluster.client import Client
        from tonnage.cluster.errors import ConnectionFailed
        from tonnage.cluster.http import HttpTransport

        access = cluster_access.find(kubeconfig=self.kubeconfig, context=self.context)
        transport = HttpTransport(access, clock=SystemClock(), environ=os.environ)
        try:
            client = Client(transport, clock=SystemClock(), rng=random.Random())
            try:
                found = await installation.leader(client, namespace=self.namespace)
            except ClusterError as error:
                told = str(error).replace("--namespace says", "--autoscaler-namespace says")
                raise ClusterError(told) from None
            port = installation.DEBUG_PORT
            try:
                data = await portforward.get(
                    transport, path, namespace=found.namespace, pod=found.pod, port=port
                )
            except ConnectionFailed as error:
                raise TonnageError(
                    f"pod {found.namespace}/{found.pod} leads and could not be asked: {error}; try"
                    f" `kubectl -n {found.namespace} port-forward pod/{found.pod} {port}` and then"
                    " tonnage why again"
                ) from None
        finally:
            await transport.close()
        return f"pod {found.namespace}/{found.pod}", data


def refuse_follower(url: str) -> None:
    """A replica that does not lead decides nothing: say who does."""
    import msgspec

    try:
        told = msgspec.json.decode(decision_files.get(url, _LEADER))
    except (TonnageError, msgspec.DecodeError):
        return
    if not told.get("leads"):
        leader = told.get("leader") or "nobody at the moment"
        raise TonnageError(
            f"{url}: this replica ({told.get('identity')}) does not lead and decides nothing:"
            f" {leader} leads; without --url the leader is asked"
        )
