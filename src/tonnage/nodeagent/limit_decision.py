"""One look at everything: what each driver's limit is now, and who says otherwise.

No input or output: what was read is handed in. What has to be known from one look to the next is
in the entries, which is also what is written on the node; so a restart forgets nothing.
"""

from collections.abc import Mapping
from typing import NamedTuple

from tonnage.errors import InputError
from tonnage.groups import catalogue
from tonnage.groups.limits import instance_type
from tonnage.nodeagent import beliefs, effective_limit, host, limit_drift, limit_patches
from tonnage.nodeagent.config import NodeAgentConfig
from tonnage.nodeagent.effective_limit import Facts, LimitSource, MachineSlots
from tonnage.nodeagent.host import Host
from tonnage.nodeagent.limit_drift import Drift, View
from tonnage.nodeagent.provenance import ProvenanceEntry, Written
from tonnage.nodeagent.stabilization import Stabilizer
from tonnage.objects import limit_keys, quantities
from tonnage.objects.attach_errors import without_room
from tonnage.objects.nodes import Node
from tonnage.objects.storage import CSIDriver, CSINode, NodeDriver, VolumeAttachment

_GIB = 2**30


class DriverAnswer(NamedTuple):
    """What a driver that is registered here says; `answered` is `None` if it does not."""

    answered: int | None
    tried: bool
    """Whether it was asked at all so far."""


class NodeObservation(NamedTuple):
    """Everything there is to see at one moment."""

    node: Node
    csinode: CSINode | None
    drivers: Mapping[str, CSIDriver]
    attachments: Mapping[str, list[VolumeAttachment]]
    """Those of this node, by driver."""
    heard: Mapping[str, DriverAnswer]
    host: Host
    seconds: int
    """Since 1970."""
    now: float
    """On a clock that is never set."""


class LimitDecisions(NamedTuple):
    entries: dict[str, ProvenanceEntry]
    views: list[View]
    drifts: list[Drift]
    problems: list[str]
    """What is wrong with the objects that were read."""


class LimitDecider:
    """Keeps the entries from one look to the next; numbers it tells have settled.

    A driver is kept, with the number it had, as long as anything says that it is installed: while
    its pod is being replaced the node must not look as if it had no limit.
    """

    def __init__(
        self,
        entries: Mapping[str, ProvenanceEntry],
        config: NodeAgentConfig,
        *,
        env_max: int | None,
        hasty: bool,
    ) -> None:
        """`entries` are what the node remembers; `hasty` lets nothing settle."""
        self._entries = dict(entries)
        self._env_max = env_max
        self._hasty = hasty
        self._settling = Stabilizer({name: one.count for name, one in entries.items()}, config)
        self._refusals: dict[str, str | None] = {}
        """The time of the last refusal that was taken in, by attachment that is still there."""

    def look(self, sight: NodeObservation, config: NodeAgentConfig) -> LimitDecisions:
        """What holds now."""
        listed = (
            {driver.name: driver for driver in sight.csinode.spec.drivers} if sight.csinode else {}
        )
        there = {one.metadata.name for some in sight.attachments.values() for one in some}
        self._refusals = {name: at for name, at in self._refusals.items() if name in there}
        outcome = LimitDecisions({}, [], [], [])
        for name in sorted({*sight.heard, *self._entries} - set(limit_keys.INTREE_KEYS)):
            heard = sight.heard.get(name)
            if heard is None and name not in sight.drivers and name not in listed:
                self._settling.forget(name)
                continue
            if heard is not None and not heard.tried and name not in self._entries:
                continue
            try:
                key = limit_patches.key_of(name, sight.drivers.get(name))
            except InputError as error:
                outcome.problems.append(str(error))
                self._settling.forget(name)
                continue
            self._driver(name, key, sight, config, listed=listed.get(name), outcome=outcome)
        if config.publish_intree:
            self._intree(sight, config, outcome)
        self._entries = outcome.entries
        return outcome

    def _driver(
        self,
        name: str,
        key: str,
        sight: NodeObservation,
        config: NodeAgentConfig,
        *,
        listed: NodeDriver | None,
        outcome: LimitDecisions,
    ) -> None:
        before = self._entries.get(name, ProvenanceEntry(key=key))
        attachments = sight.attachments.get(name, [])
        attached = sum(attachment.status.attached for attachment in attachments)
        foreign = host.foreign_disks(sight.host, name, attachments=len(attachments))
        machine = self._machine(name, sight, config, foreign=foreign)
        held = sight.host.interfaces + foreign
        heard = sight.heard.get(name)
        answered = heard.answered if heard is not None else None
        memory = before.memory
        if answered is not None:
            bound = machine if name in effective_limit.MACHINE_BOUND else None
            memory = beliefs.believe(
                memory,
                answered,
                attached=attached,
                held=held,
                expected=bound.count if bound is not None else None,
            )
        refused = self._refused(attachments)
        ceiling = beliefs.ceiling_after(
            before.ceiling,
            refused=refused,
            attached=attached,
            held=held,
            now=sight.seconds,
            expires_after=config.ceiling_expiry,
        )
        kind = instance_type(sight.node)
        found = effective_limit.effective(
            Facts(
                driver=name,
                memory=memory,
                machine=machine,
                foreign_disks=foreign,
                reserved=config.reserved.get(name, 0),
                override=config.override(name, sight.node, instance_type=kind),
                ceiling=ceiling,
            )
        )
        # The operator's word, and a ceiling that pods run into at this moment, do not wait.
        certain = LimitSource.OVERRIDE in (found.source, before.source) or refused
        count = self._settling.step(
            name, found.count, now=sight.now, at_once=certain or self._hasty
        )
        settled = count == found.count
        entry = ProvenanceEntry(
            key=key,
            count=count,
            source=found.source if settled else before.source,
            reason=found.reason if settled else before.reason,
            memory=memory,
            ceiling=ceiling,
            csinode=_written(count, before.csinode, listed) if config.write_csinode else None,
        )
        view = View(
            driver=name,
            published=entry.count,
            answered=answered,
            believed=memory.believed if memory is not None else None,
            machine=machine.count if machine is not None else None,
            registered=listed is not None,
            kubelet=listed.limit if listed is not None else None,
            attached=attached,
        )
        outcome.entries[name] = entry
        outcome.views.append(view)
        outcome.drifts.extend(limit_drift.found(view))

    def _refused(self, attachments: list[VolumeAttachment]) -> bool:
        """Whether an attach was refused since the last look."""
        news = False
        for attachment in attachments:
            error = attachment.status.attach_error
            if error is None or not without_room(attachment):
                self._refusals.pop(attachment.metadata.name, None)
            elif self._refusals.get(attachment.metadata.name, "") != error.time:
                self._refusals[attachment.metadata.name] = error.time
                news = True
        return news

    def _intree(
        self, sight: NodeObservation, config: NodeAgentConfig, outcome: LimitDecisions
    ) -> None:
        """The key of the cloud's own plugin: the same disks, so the same number as its driver's."""
        plugin = plugin_of(sight.node)
        if plugin is None:
            return
        driver = limit_keys.INTREE_DRIVERS[plugin]
        same = outcome.entries.get(driver)
        if same is not None and same.count is not None and self._env_max is None:
            key, count, reason = limit_keys.INTREE_KEYS[plugin], same.count, f"as {driver}"
        else:
            foreign = host.foreign_disks(
                sight.host, driver, attachments=len(sight.attachments.get(driver, []))
            )
            machine = self._machine(driver, sight, config, foreign=foreign)
            key, count, reason = volume_limit(
                plugin, sight.node, machine=machine, env_max=self._env_max
            )
        outcome.entries[plugin] = ProvenanceEntry(
            key=key, count=count, source=LimitSource.CATALOGUE if same is None else same.source,
            reason=reason,
        )  # fmt: skip

    def _machine(
        self, driver: str, sight: NodeObservation, config: NodeAgentConfig, *, foreign: int
    ) -> MachineSlots | None:
        memory = sight.node.status.capacity.get("memory")
        return effective_limit.machine(
            driver,
            instance_type(sight.node),
            interfaces=sight.host.interfaces,
            foreign_disks=foreign,
            reserved=config.reserved.get(driver, 0),
            # What a node reports is a little less than what the machine has.
            memory_gib=-(-quantities.value(memory) // _GIB) if memory is not None else None,
            labels=sight.node.metadata.labels,
        )


def _written(
    count: int | None, before: Written | None, listed: NodeDriver | None
) -> Written | None:
    """What is, or is about to be, in the CSINode, and what stood there before."""
    if count is None or listed is None:
        return before
    if listed.limit == count:
        return before
    if before is not None and listed.limit == before.count:
        # Ours as well, from before the number changed.
        return Written(count=count, before=before.before)
    return Written(count=count, before=listed.limit)


class IntreeLimit(NamedTuple):
    key: str
    number: int
    reason: str


def provider_of(node: Node) -> str:
    """The cloud a node is of, as its id begins: `aws:///eu-west-1a/i-0abc`; empty without one."""
    return node.spec.provider_id.partition("://")[0]


def plugin_of(node: Node) -> str | None:
    """The in-tree plugin that has disks for this node."""
    provider = provider_of(node)
    return next((one for one, cloud in limit_keys.PROVIDERS.items() if cloud == provider), None)


def volume_limit(
    plugin: str, node: Node, *, machine: MachineSlots | None, env_max: int | None
) -> IntreeLimit:
    """The limit of an in-tree plugin on a node, which has to be of its cloud.

    `env_max` is `KUBE_MAX_PD_VOLS` and goes before everything; `machine` is what the catalogue
    has for this very machine.
    """
    kind = instance_type(node)
    # Asked for in any case: it is what refuses a plugin of another cloud.
    by_rule = catalogue.intree_limit(plugin, kind, provider=provider_of(node))
    key = limit_keys.INTREE_KEYS[plugin]
    if env_max is not None:
        return IntreeLimit(key, env_max, "KUBE_MAX_PD_VOLS")
    if machine is not None:
        return IntreeLimit(key, machine.count, machine.formula)
    return IntreeLimit(key, by_rule, f"the in-tree plugin's rule for {kind or 'an unknown type'}")
