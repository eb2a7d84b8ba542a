"""Node groups of nodes without machines: Node and CSINode objects that the provider makes itself.

For trying things out, and for tests against a real API server. Somebody else has to play the
kubelets (the simulated world of the embedded cluster, or the KWOK controller): a node is created
under a taint, as one nobody has spoken for, and is being created until somebody does.

A ledger in a ConfigMap says which machines are asked for; a request is done once that is written.
Nodes that are missing then, because the API server refused or we were killed, are made by the next
`refresh`, and nodes that carry the group's label without being in the ledger are taken into it.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeAlias

import msgspec

from tonnage.clock import Clock
from tonnage.cluster import errors
from tonnage.cluster.client import Client, Selection
from tonnage.errors import ClusterError, InputError, ProviderError
from tonnage.groups import node_group_objects
from tonnage.groups.model import Group
from tonnage.objects.nodes import Node, Taint
from tonnage.objects.scenarios import GroupTemplate, NodeGroup
from tonnage.objects.storage import CSINode
from tonnage.providers import kwok_objects, sizes
from tonnage.providers.declarations import Declarations, LastGood
from tonnage.providers.kwok_ledger import Book, Ledger, LedgerMachines
from tonnage.providers.kwok_objects import GROUP_LABEL
from tonnage.providers.protocol import GroupOptions, Instance, InstanceError, InstanceState

LEDGER = "tonnage-kwok-groups"
OUT_OF_STOCK = "OutOfStock"

GroupSource: TypeAlias = Callable[[], Awaitable[Declarations]]

_AT_A_TIME = 16
_PASSING = (
    errors.Conflict, errors.Gone, errors.TooManyRequests, errors.ServerError,
    errors.ConnectionFailed,
)  # fmt: skip
"""Failures of the server that say nothing of the node that was to be made."""

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels, so that no name is a word."""

_log = logging.getLogger(__name__)


class KwokProvider:
    """A group's target is its wanted machines in the ledger; its nodes are those with its label.

    `node_groups` are given, or asked for by every `refresh`; what they say of `nodes` and
    `nodeSelector` is not used. Their `targetSize` counts until the ledger knows the group. One that
    can no longer be used stays what it was, after a restart too: the ledger has it.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        node_groups: Iterable[NodeGroup] | GroupSource,
        *,
        namespace: str,
        rng: random.Random,
        ledger: str = LEDGER,
        startup_taints: Sequence[Taint] = (),
        timeout: float = 60.0,
    ) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng
        self._ledger = Ledger(client, name=ledger, namespace=namespace)
        self._startup_taints = tuple(startup_taints)
        self._timeout = timeout
        self._source = node_groups if callable(node_groups) else None
        self._good = LastGood()
        if not callable(node_groups):
            self._good.take(Declarations(tuple(map(kwok_objects.check, node_groups))))
        self._book: Book = {}
        self._nodes: dict[str, Node] = {}
        self._unread: frozenset[str] = frozenset()
        """Nodes that are there and cannot be read."""
        self._errors: dict[str, InstanceError] = {}
        self._unfinished: set[str] = set()
        """Nodes that may lack their CSINode still."""
        self._looked = False

    async def refresh(self) -> None:
        """Look at ledger and nodes, and make and delete what an earlier request still lacks."""
        with _failures("refresh"):
            async with self._clock.timeout(self._timeout):
                await self._reload_groups()
                await self._observe()
                await self._settle(self._declared)

    async def groups(self) -> Sequence[Group]:
        declared = map(kwok_objects.by_label, self._declared.values())
        return [
            self._sized(obj)
            for obj in node_group_objects.from_objects(declared, self._nodes.values())
        ]

    async def problems(self) -> Sequence[str]:
        return self._good.problems

    async def instances(self, group: str) -> Sequence[Instance]:
        self._known(group)
        machines = self._machines(group)
        leaving = [name for name in machines.leaving if name in self._nodes]
        return [
            *(self._instance(group, name, leaving=False) for name in machines.wanted),
            *(self._instance(group, name, leaving=True) for name in leaving),
        ]

    async def template(self, group: str) -> GroupTemplate | None:
        return self._known(group).spec.template

    async def price(self, group: str) -> float | None:
        return self._group(group).price_per_hour

    async def options(self, group: str) -> GroupOptions:
        self._known(group)
        return GroupOptions()

    async def increase(self, group: str, delta: int) -> None:
        sizes.check_increase(self._group(group), delta)
        names = self._new_names(group, delta)

        def grow(machines: LedgerMachines) -> LedgerMachines:
            if set(names) <= set(machines.wanted):
                return machines
            sizes.check_increase(self._at(group, machines), delta)
            return machines.with_wanted(names)

        await self._request(group, grow)

    async def delete(self, group: str, nodes: Sequence[str]) -> None:
        self._known(group)
        for name in nodes:
            await self._check_own(group, name)

        def shrink(machines: LedgerMachines) -> LedgerMachines:
            going = tuple(name for name in dict.fromkeys(nodes) if name in machines.wanted)
            sizes.check_deletion(self._at(group, machines), going)
            return machines.with_leaving(going)

        await self._request(group, shrink)

    async def decrease_target(self, group: str, delta: int) -> None:
        sizes.check_decrease(self._group(group), delta, there=0)
        with _failures(f"group {group}"):
            async with self._clock.timeout(self._timeout):
                # A node may have started since the last refresh; one that has is not given up.
                await self._observe()
        wanted = self._machines(group).wanted
        missing = [name for name in reversed(wanted) if not self._is_there(name)]
        there = len(wanted) - len(missing)
        sizes.check_decrease(self._group(group), delta, there=there)
        # Those without even a Node first, then the youngest.
        missing.sort(key=lambda name: name in self._nodes)
        given_up = tuple(missing[:delta])
        await self._request(group, lambda machines: machines.with_leaving(given_up))

    # The ledger

    async def _request(
        self, group: str, change: Callable[[LedgerMachines], LedgerMachines]
    ) -> None:
        """Write a change of one group down, then do what can be done about it now."""

        def changed(book: Book) -> Book:
            if group in self._ledger.problems:
                raise ProviderError(f"group {group}: not scaled: {self._ledger.problems[group]}")
            machines = change(book.get(group, self._machines(group)))
            return {**book, group: machines.noting(self._declared[group])}

        with _failures(f"group {group}"):
            async with self._clock.timeout(self._timeout):
                self._take_book(await self._ledger.change(changed))
        try:
            async with self._clock.timeout(self._timeout):
                await self._settle([group])
        except (TimeoutError, ClusterError) as error:
            # The request stands, and the next refresh goes on with it.
            _log.warning("nodes lag behind", extra={"group": group, "error": str(error)})

    async def _observe(self) -> None:
        listing = await self._client.list(Node, Selection(labels=GROUP_LABEL))
        self._unread = frozenset(one.name for one in listing.unreadable)
        self._nodes = {
            # A node that can no longer be read is what it was.
            **{name: node for name, node in self._nodes.items() if name in self._unread},
            **{
                node.metadata.name: node
                for node in listing.items
                if GROUP_LABEL in node.metadata.labels
            },
        }
        there = {group: self._labelled(group) for group in self._declared}
        new = {group: self._missing_names(group, len(there[group])) for group in self._declared}

        def settled(book: Book) -> Book:
            after = {group: machines.noting(None) for group, machines in book.items()}
            for group in self._declared:
                if group in self._ledger.problems:
                    continue
                machines = book.get(group, LedgerMachines(wanted=new[group])).with_wanted(
                    there[group]
                )
                gone = frozenset(name for name in machines.leaving if not self._exists(name))
                after[group] = machines.without(gone).noting(self._declared[group])
            return after

        self._take_book(await self._ledger.change(settled))
        wanted = {name for machines in self._book.values() for name in machines.wanted}
        if not self._looked:
            # Whoever was here before us may have been stopped between the two objects of a node.
            self._unfinished |= {name for name in self._nodes if not self._is_there(name)}
            self._looked = True
        self._unfinished &= wanted
        self._errors = {name: why for name, why in self._errors.items() if name in wanted}

    # Nodes

    async def _settle(self, groups: Iterable[str]) -> None:
        """Make the wanted nodes that are missing, delete the leaving ones that are there."""
        places = asyncio.Semaphore(_AT_A_TIME)

        async def one(work: Callable[[], Awaitable[None]]) -> None:
            async with places:
                await work()

        async with asyncio.TaskGroup() as tasks:
            for group in groups:
                for work in self._work(self._declared[group]):
                    tasks.create_task(one(work))

    def _work(self, group: NodeGroup) -> Iterator[Callable[[], Awaitable[None]]]:
        machines = self._machines(group.metadata.name)
        missing = [
            name for name in machines.wanted if not self._exists(name) or name in self._unfinished
        ]
        stock = kwok_objects.stock(group)
        if stock is not None:
            left = max(stock - (len(machines.wanted) - len(missing)), 0)
            for name in missing[left:]:
                self._errors[name] = InstanceError(
                    error_class="outOfResources",
                    code=OUT_OF_STOCK,
                    message=f"no machine is left for group {group.metadata.name} of {stock}",
                )
            missing = missing[:left]
        for name in missing:
            yield partial(self._make, group, name)
        for name in machines.leaving:
            if name in self._nodes:
                yield partial(self._unmake, self._nodes[name])

    async def _make(self, group: NodeGroup, name: str) -> None:
        """Make a node, or what is missing of it; what fails in passing is left to the next time."""
        self._unfinished.add(name)
        try:
            node = await self._create_node(group, name)
            csi_node = kwok_objects.csi_node(group, node)
            if csi_node is not None:
                await _create_if_absent(self._client.create(CSINode, csi_node))
        except (ClusterError, InputError) as error:
            if isinstance(error, ClusterError) and not isinstance(error, _PASSING):
                self._errors[name] = _instance_error(error)
            _log.warning("node not created", extra={"node": name, "error": str(error)})
            return
        self._unfinished.discard(name)
        self._nodes[name] = node
        self._errors.pop(name, None)

    async def _create_node(self, group: NodeGroup, name: str) -> Node:
        node = kwok_objects.node(group, name, startup_taints=self._startup_taints)
        try:
            return await self._client.create(Node, node)
        except errors.Conflict as error:
            if not error.already_exists:
                raise
        # Another replica was faster, or an answer to ourselves was lost.
        return await self._client.get(Node, name)

    async def _unmake(self, node: Node) -> None:
        name = node.metadata.name
        try:
            await _delete_if_present(self._client.delete(CSINode, name))
            # That very one: its name may have been given to another since.
            await _delete_if_present(self._client.delete(Node, name, uid=node.metadata.uid))
        except ClusterError as error:
            _log.warning("node not deleted", extra={"node": name, "error": str(error)})
            return
        self._nodes.pop(name, None)

    # What is known

    async def _reload_groups(self) -> None:
        if self._source is None:
            return
        told = (await self._source()).checked(kwok_objects.check)
        noted: dict[str, NodeGroup] = {}
        if told.problems:
            # Another replica may have read the groups later than we did, or we were restarted.
            book = await self._ledger.read()
            noted = {name: one.declared for name, one in book.items() if one.declared is not None}
        self._good.take(told, noted=noted)

    @property
    def _declared(self) -> Mapping[str, NodeGroup]:
        return self._good.groups

    def _known(self, group: str) -> NodeGroup:
        try:
            return self._declared[group]
        except KeyError:
            raise ProviderError(f"there is no group {group}") from None

    def _group(self, name: str) -> Group:
        """One group, for its sizes and price alone: a cluster has many nodes to go through."""
        (found,) = node_group_objects.from_objects([kwok_objects.by_label(self._known(name))], ())
        return self._sized(found)

    def _at(self, group: str, machines: LedgerMachines) -> Group:
        """The group as the ledger has it this moment, for its sizes alone."""
        (sized,) = node_group_objects.from_objects(
            [kwok_objects.by_label(self._declared[group])], ()
        )
        return msgspec.structs.replace(sized, target=len(machines.wanted))

    def _sized(self, group: Group) -> Group:
        target = len(self._machines(group.id).wanted)
        unread = self._ledger.problems.get(group.id)
        if unread is None:
            return msgspec.structs.replace(group, target=target)
        # Whoever does not know the size must not change it.
        return msgspec.structs.replace(
            group,
            min_size=min(group.min_size, target),
            max_size=target,
            target=target,
            problems=(*group.problems, f"group {group.id}: not scaled: {unread}"),
        )

    def _take_book(self, book: Book) -> None:
        """What the ledger says; of an entry that cannot be read, what was last known."""
        unread = {
            group: self._book.get(group, LedgerMachines(wanted=self._labelled(group)))
            for group in self._ledger.problems
        }
        self._book = {**book, **unread}

    def _machines(self, group: str) -> LedgerMachines:
        return self._book.get(group, LedgerMachines())

    def _labelled(self, group: str) -> tuple[str, ...]:
        return tuple(
            name for name, node in self._nodes.items() if node.metadata.labels[GROUP_LABEL] == group
        )

    def _exists(self, name: str) -> bool:
        return name in self._nodes or name in self._unread

    def _is_there(self, name: str) -> bool:
        """Whether it has started; of one that nobody can read, that is better believed."""
        node = self._nodes.get(name)
        return name in self._unread if node is None else kwok_objects.has_started(node)

    async def _check_own(self, group: str, node: str) -> None:
        """Refuse a node of others; one that nobody has is gone, and deleting it again is fine."""
        machines = self._machines(group)
        if node in machines.wanted or node in machines.leaving:
            return
        with _failures(f"group {group}"), suppress(errors.NotFound):
            await self._client.get(Node, node)
            raise ProviderError(f"group {group}: node {node} is not one of its nodes")

    def _instance(self, group: str, name: str, *, leaving: bool) -> Instance:
        node = self._nodes.get(name)
        started: InstanceState = "running" if self._is_there(name) else "creating"
        given = node.spec.provider_id if node is not None else ""
        return Instance(
            id=given or kwok_objects.provider_id(group, name),
            state="deleting" if leaving else started,
            node=name,
            error=self._errors.get(name),
        )

    def _missing_names(self, group: str, there: int) -> tuple[str, ...]:
        """Names for what `targetSize` asks for beyond the nodes, for a group new to the ledger."""
        target = self._declared[group].spec.target_size or 0
        if group in self._book or target <= there:
            return ()
        return self._new_names(group, target - there)

    def _new_names(self, group: str, count: int) -> tuple[str, ...]:
        machines = self._machines(group)
        taken = {*machines.wanted, *machines.leaving, *self._nodes}
        names: dict[str, None] = {}
        while len(names) < count:
            name = f"{group}-{''.join(self._rng.choices(_SUFFIX, k=5))}"
            if name not in taken:
                names[name] = None
        return tuple(names)


async def _create_if_absent(creation: Awaitable[object]) -> None:
    try:
        await creation
    except errors.Conflict as error:
        if not error.already_exists:
            raise


async def _delete_if_present(deletion: Awaitable[object]) -> None:
    # A conflict is another object under the name: the one that was meant is gone.
    with suppress(errors.NotFound, errors.Conflict):
        await deletion


def _instance_error(error: ClusterError) -> InstanceError:
    over_quota = isinstance(error, errors.Forbidden) and "exceeded quota" in str(error)
    code = error.reason if isinstance(error, errors.ApiError) else ""
    return InstanceError(
        error_class="quota" if over_quota else "other",
        code=code or type(error).__name__,
        message=str(error),
    )


@contextmanager
def _failures(what: str) -> Iterator[None]:
    """An API server that fails us is a provider that fails its caller."""
    try:
        yield
    except TimeoutError as error:
        raise ProviderError(f"kwok provider: {what}: not done in time") from error
    except (errors.TooManyRequests, errors.Conflict) as error:
        raise ProviderError(f"kwok provider: {what}: {error}", cause="transient") from error
    except (ClusterError, InputError) as error:
        raise ProviderError(f"kwok provider: {what}: {error}") from error
