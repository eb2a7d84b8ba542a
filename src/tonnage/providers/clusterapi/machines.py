"""Machines as instances: which state they are in, why they failed, and which node is whose."""

import re
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from tonnage.objects.nodes import Node
from tonnage.providers.clusterapi.annotations import Keys
from tonnage.providers.clusterapi.shapes import ApiMachine
from tonnage.providers.protocol import ErrorClass, Instance, InstanceError

Key: TypeAlias = tuple[str, str]
"""Namespace and name."""

PROVISIONING_FAILED = "ProvisioningFailed"
DELETING_FAILED = "DeletingFailed"

_LEAVING = ("Deleting", "Deleted")
_FAILED = "Failed"
_TELLING = ("InfrastructureReady", "BootstrapReady", "Ready")
"""Conditions that say why a machine failed, the best witness first."""

_QUOTA = re.compile(r"quota|limit ?exceeded", re.IGNORECASE)
_SCARCE = re.compile(
    r"insufficient|exhausted|out of (?:stock|capacity)|no (?:available|free) (?:host|machine)"
    r"|allocationfailed|not enough",
    re.IGNORECASE,
)


def key_of(machine: ApiMachine) -> Key:
    return machine.metadata.namespace, machine.metadata.name


def is_deleting(machine: ApiMachine) -> bool:
    return machine.metadata.deletion_timestamp is not None or machine.status.phase in _LEAVING


def leaving(machines: Sequence[ApiMachine], replicas: int, *, keys: Keys) -> set[Key]:
    """Machines on their way out: being deleted, or chosen to be by a size that is lower already.

    A mark alone does not count: only so many of the marked machines go as there are too many.
    That can be seen from outside, so it is true after a restart too.
    """
    gone = {key_of(machine) for machine in machines if is_deleting(machine)}
    marked = [
        machine
        for machine in machines
        if key_of(machine) not in gone and keys.delete_machine in machine.metadata.annotations
    ]
    marked.sort(key=lambda one: (one.metadata.annotations[keys.delete_machine], key_of(one)))
    surplus = max(0, len(machines) - len(gone) - replicas)
    return gone | {key_of(one) for one in marked[:surplus]}


def instance(machine: ApiMachine, *, node: str, going: bool) -> Instance:
    """Ids of machines without one of their own are upstream's."""
    error = _error(machine, going=going)
    namespace, name = key_of(machine)
    given = machine.spec.provider_id
    if going:
        return Instance(
            id=given or f"deleting-machine-{namespace}_{name}",
            state="deleting",
            node=node,
            error=error,
        )
    if error is not None and not node and machine.status.node_ref is None:
        unnamed = f"failed-machine-{namespace}_{name}"
        return Instance(id=given or unnamed, state="creating", error=error)
    if not given:
        return Instance(id=f"pending-machine-{namespace}_{name}", state="creating", node=node)
    return Instance(id=given, state="running", node=node)


def normalized(provider_id: str) -> str:
    """The part of an id that a node and its machine agree on, whatever stands before it.

    Machines of a scale set of Azure are only numbered there, so their ids are taken whole.
    """
    if provider_id.startswith("azure://") and "virtualMachineScaleSets" in provider_id:
        return provider_id
    return provider_id.rpartition("/")[2]


class Nodes:
    """The nodes of the workload cluster, to be found by what is known of them elsewhere."""

    def __init__(self, nodes: Iterable[Node], *, keys: Keys) -> None:
        self._by_machine: dict[Key, Node] = {}
        self._by_id: dict[str, Node] = {}
        for node in nodes:
            meta = node.metadata
            name = meta.annotations.get(keys.machine, "")
            if name:
                self._by_machine[meta.annotations.get(keys.cluster_namespace, ""), name] = node
            elif node.spec.provider_id:
                self._by_id[normalized(node.spec.provider_id)] = node

    def of_machine(self, machine: ApiMachine) -> Node | None:
        """A node that names a machine is of that one only; others are known by their id."""
        return self._by_machine.get(key_of(machine)) or self.of_id(machine.spec.provider_id)

    def of_id(self, provider_id: str) -> Node | None:
        return self._by_id.get(normalized(provider_id)) if provider_id else None


def _error(machine: ApiMachine, *, going: bool) -> InstanceError | None:
    status, old = machine.status, machine.status.deprecated.v1beta1
    reason = status.failure_reason or old.failure_reason
    message = status.failure_message or old.failure_message
    if not reason and not message and status.phase != _FAILED:
        return None
    if not message:
        message = _told(machine)
    return InstanceError(
        error_class=_class(f"{reason} {message}"),
        code=DELETING_FAILED if going else PROVISIONING_FAILED,
        message=": ".join(filter(None, (reason, message))) or f"phase {status.phase}",
    )


def _told(machine: ApiMachine) -> str:
    """What the conditions say of a failure."""
    bad = {
        condition.type: condition.message
        for condition in machine.status.conditions
        if condition.status == "False"
    }
    return next((bad[one] for one in _TELLING if bad.get(one)), "")


def _class(text: str) -> ErrorClass:
    """Infrastructure providers agree on no codes, so their words have to do."""
    if _QUOTA.search(text):
        return "quota"
    return "outOfResources" if _SCARCE.search(text) else "other"
