"""Node groups of Cluster API: whatever has replicas and annotations that bound them.

Looking makes no requests: the management cluster is watched. A size is changed in the scale
subresource, on the condition that nobody has changed the object since it was read; what is to go
is marked on its Machine first, so that the controllers choose that one.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC

import msgspec

from tonnage.clock import Clock
from tonnage.cluster import errors
from tonnage.cluster.client import Client
from tonnage.cluster.records import Scale
from tonnage.cluster.resources import Resource
from tonnage.errors import ClusterError, InputError, ProviderError
from tonnage.groups.model import Group
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import GroupTemplate
from tonnage.providers import sizes
from tonnage.providers.clusterapi import discovery, machines, shapes, survey, templates
from tonnage.providers.clusterapi.annotations import Keys
from tonnage.providers.clusterapi.discovery import Discovery
from tonnage.providers.clusterapi.infrastructure import NOTHING, Infrastructures
from tonnage.providers.clusterapi.management import Management
from tonnage.providers.clusterapi.shapes import ApiMachine, InfrastructureStatus, Scalable
from tonnage.providers.clusterapi.survey import Survey, SurveyedGroup
from tonnage.providers.protocol import GroupOptions, Instance

_ATTEMPTS = 8
"""Controllers write to the same objects all the time, so being overtaken is nothing special."""

_log = logging.getLogger(__name__)


class ClusterApiSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What upstream takes from the environment."""

    group: str = "cluster.x-k8s.io"
    version: str = ""
    """Empty: the one the server prefers."""
    architecture: str = "amd64"
    """Of nodes that do not exist yet, where nobody says."""


def settings_from(environ: Mapping[str, str]) -> ClusterApiSettings:
    """`CAPI_GROUP`, `CAPI_VERSION` and `CAPI_SCALE_ZERO_DEFAULT_ARCH`, where they are set."""
    plain = ClusterApiSettings()
    architecture = environ.get("CAPI_SCALE_ZERO_DEFAULT_ARCH") or plain.architecture
    if architecture not in templates.ARCHITECTURES:
        raise InputError(
            f"CAPI_SCALE_ZERO_DEFAULT_ARCH={architecture}: expected one of"
            f" {', '.join(templates.ARCHITECTURES)}"
        )
    return ClusterApiSettings(
        group=environ.get("CAPI_GROUP") or plain.group,
        version=environ.get("CAPI_VERSION", ""),
        architecture=architecture,
    )


class ClusterApiProvider:
    """`client` is of the management cluster, `nodes` gives those of the workload cluster.

    Requests are carried out one after the other, each on what is true at that moment.
    """

    def __init__(
        self,
        client: Client,
        *,
        nodes: Callable[[], Iterable[Node]],
        clock: Clock,
        rng: random.Random,
        found_by: Sequence[Discovery] = (Discovery(),),
        settings: ClusterApiSettings | None = None,
    ) -> None:
        settings = settings or ClusterApiSettings()
        self._client = client
        self._nodes = nodes
        self._clock = clock
        self._found_by = tuple(found_by)
        self._keys = Keys(settings.group)
        self._architecture = settings.architecture
        self._management = Management(
            client,
            clock=clock,
            rng=rng,
            group=settings.group,
            version=settings.version,
            namespace=discovery.only_namespace(self._found_by),
        )
        self._infrastructures = Infrastructures(client, clock=clock)
        self._statuses: dict[str, InfrastructureStatus] = {}
        self._known: dict[str, SurveyedGroup] = {}
        self._one_at_a_time = asyncio.Lock()

    async def close(self) -> None:
        await self._management.close()

    # Looking.

    async def refresh(self) -> None:
        await self._management.follow()
        self._statuses = {
            survey.identifier(kind, one): await self._infrastructures.status(one)
            for kind, one in list(self._candidates())
        }
        self._look()

    async def groups(self) -> Sequence[Group]:
        return [found.group for found in self._known.values()]

    async def problems(self) -> Sequence[str]:
        unread = (self._infrastructures.problem(one.scalable) for one in self._known.values())
        # Groups may share a template.
        return [*self._management.problems, *dict.fromkeys(filter(None, unread))]

    async def instances(self, group: str) -> Sequence[Instance]:
        return self._found(group).instances

    async def template(self, group: str) -> GroupTemplate | None:
        return self._found(group).template

    async def price(self, group: str) -> float | None:
        return self._found(group).price

    async def options(self, group: str) -> GroupOptions:
        return self._found(group).options

    # Changing.

    async def increase(self, group: str, delta: int) -> None:
        async with self._changing(group) as found:
            sizes.check_increase(found.group, delta)
            await self._resize(found, delta, check=lambda now: sizes.check_increase(now, delta))

    async def delete(self, group: str, nodes: Sequence[str]) -> None:
        async with self._changing(group) as found:
            sizes.check_own(
                found.group, nodes, instances=[instance.id for instance in found.instances]
            )
            chosen = {machines.key_of(one): one for one in _chosen(found, nodes)}
            going = [one for key, one in chosen.items() if key not in found.going]
            sizes.check_deletion(found.group, [one.metadata.name for one in going])
            if not going:
                return
            _check_choosable(found)
            _check_all_made(found)
            await self._shrink(
                found, going, by=len(going), still=lambda _: True, check=sizes.check_deletion
            )

    async def decrease_target(self, group: str, delta: int) -> None:
        async with self._changing(group) as found:
            there = sum(instance.state == "running" for instance in found.instances)
            sizes.check_decrease(found.group, delta, there=there)
            _check_choosable(found)
            self._check_all_read(found)
            creating = [instance.id for instance in found.instances if instance.state == "creating"]
            pending = [found.machine_of[one] for one in creating if one in found.machine_of]
            # What has no Machine yet goes first; beyond that it is said which ones are meant.
            marked = pending[: max(0, delta - _not_made(found))]
            await self._shrink(
                found,
                marked,
                by=delta,
                still=_has_not_started,
                check=lambda now, _: sizes.check_decrease(now, delta, there=there),
            )

    # Parts of changing.

    @asynccontextmanager
    async def _changing(self, group: str) -> AsyncIterator[SurveyedGroup]:
        """The group with the size it has now, while nobody else of us changes anything."""
        async with self._one_at_a_time:
            found = self._found(group)
            if found.frozen_reason:
                raise ProviderError(f"group {group}: not scaled: {found.frozen_reason}")
            with _failures(group):
                await self._read_size(found)
                yield self._found(group)

    async def _read_size(self, found: SurveyedGroup) -> Scale:
        meta = found.scalable.metadata
        resource = self._resource(found)
        scale = await self._client.get_scale(resource, meta.name, namespace=meta.namespace)
        self._take(found, scale)
        return scale

    async def _resize(
        self, found: SurveyedGroup, delta: int, *, check: Callable[[Group], None]
    ) -> None:
        """Change the size by `delta`; `check` refuses what the size of that moment forbids.

        A repeated request may find its own work: a size that is the wanted one is left alone.
        """
        meta, resource = found.scalable.metadata, self._resource(found)
        wanted: int | None = None
        for _ in range(_ATTEMPTS):
            scale = await self._read_size(found)
            now = scale.spec.replicas
            if now == wanted:
                return
            check(msgspec.structs.replace(found.group, target=now))
            wanted = now + delta
            change = {
                "metadata": {"resourceVersion": scale.metadata.resource_version},
                "spec": {"replicas": wanted},
            }
            try:
                scale = await self._client.patch(
                    shapes.scale_of(resource),
                    meta.name,
                    change,
                    namespace=meta.namespace,
                    subresource="scale",
                )
            except errors.Conflict:
                continue
            self._take(found, scale)
            return
        raise _overtaken(found, "its size was not changed")

    async def _shrink(
        self,
        found: SurveyedGroup,
        going: Sequence[ApiMachine],
        *,
        by: int,
        still: Callable[[ApiMachine], bool],
        check: Callable[[Group, Sequence[str]], None],
    ) -> None:
        """Mark machines, then lower the size; a refusal takes the marks away again.

        A machine that turns out to go without us lowers nothing. Where nobody knows whether the
        size was lowered, the marks stay: without them the controllers would choose others.
        """
        marked: list[ApiMachine] = []
        resizing = False
        try:
            for machine in going:
                if await self._mark(found, machine, still=still):
                    marked.append(machine)
            by -= len(going) - len(marked)
            names = [one.metadata.name for one in marked]
            if by:
                resizing = True
                await self._resize(found, -by, check=lambda now: check(now, names))
        except (ProviderError, ClusterError) as error:
            if not (resizing and _may_have_happened(error)):
                for machine in marked:
                    await self._unmark(machine)
            raise
        finally:
            self._look()

    async def _mark(
        self, found: SurveyedGroup, machine: ApiMachine, *, still: Callable[[ApiMachine], bool]
    ) -> bool:
        """Choose a machine for deletion; false if it is on its way out without us."""
        meta = machine.metadata
        moment = self._clock.now().astimezone(UTC).isoformat()
        for _ in range(_ATTEMPTS):
            change = {
                "metadata": {
                    "resourceVersion": machine.metadata.resource_version,
                    "annotations": {self._keys.delete_machine: moment},
                }
            }
            try:
                fresh = await self._client.patch(
                    self._management.kinds.machines, meta.name, change, namespace=meta.namespace
                )
                self._management.saw(fresh)
                return not machines.is_deleting(fresh)
            except errors.NotFound:
                return False
            except errors.Conflict:
                pass
            try:
                machine = await self._client.get(
                    self._management.kinds.machines, meta.name, namespace=meta.namespace
                )
            except errors.NotFound:
                return False
            self._management.saw(machine)
            self._look()
            if machines.key_of(machine) in self._found(found.group.id).going:
                return False
            if not still(machine):
                raise ProviderError(
                    f"group {found.group.id}: machine {meta.name} has started meanwhile",
                    cause="transient",
                )
        raise _overtaken(found, f"machine {meta.name} was not chosen")

    async def _unmark(self, machine: ApiMachine) -> None:
        """Back to what it was before; failing at that does little harm."""
        meta, key = machine.metadata, self._keys.delete_machine
        change = {"metadata": {"annotations": {key: meta.annotations.get(key)}}}
        try:
            fresh = await self._client.patch(
                self._management.kinds.machines, meta.name, change, namespace=meta.namespace
            )
            self._management.saw(fresh)
        except ClusterError as error:
            extra = {"machine": meta.name, "error": str(error)}
            _log.warning("machine stays marked for deletion", extra=extra)

    # What is known.

    def _check_all_read(self, found: SurveyedGroup) -> None:
        """Nothing is given back where a Machine that seems missing may be there all the same."""
        namespace = found.scalable.metadata.namespace
        unread = self._management.never_read(namespace)
        if unread:
            raise ProviderError(
                f"group {found.group.id}: Machine {namespace}/{unread[0]} cannot be read and may be"
                " one of its own; nothing is given back"
            )

    def _candidates(self) -> Iterator[tuple[str, Scalable]]:
        return survey.candidates(self._management, self._found_by, keys=self._keys)

    def _look(self) -> None:
        seen = Survey(
            self._management,
            self._nodes(),
            keys=self._keys,
            architecture=self._architecture,
        )
        known: dict[str, SurveyedGroup] = {}
        for kind, scalable in self._candidates():
            name = survey.identifier(kind, scalable)
            status = self._statuses.get(name, NOTHING)
            found = seen.found(kind, scalable, infrastructure=status)
            if found is not None:
                known[name] = found
        self._known = dict(sorted(known.items()))

    def _take(self, found: SurveyedGroup, scale: Scale) -> None:
        self._management.saw_scale(found.kind, scale)
        self._look()

    def _found(self, group: str) -> SurveyedGroup:
        found = self._known.get(group)
        if found is None:
            raise ProviderError(f"there is no group {group}")
        return found

    def _resource(self, found: SurveyedGroup) -> Resource[Scalable]:
        kinds = self._management.kinds
        by_kind = (kinds.machine_deployments, kinds.machine_sets, kinds.machine_pools)
        return next(one for one in by_kind if one.kind == found.kind)


def _chosen(found: SurveyedGroup, names: Sequence[str]) -> Iterator[ApiMachine]:
    for name in names:
        machine = found.machine_of.get(name)
        if machine is None:
            raise ProviderError(
                f"group {found.group.id}: {name} has no Machine that could be chosen for deletion"
            )
        yield machine


def _check_choosable(found: SurveyedGroup) -> None:
    if found.unchoosable:
        raise ProviderError(f"group {found.group.id}: {found.unchoosable}; nothing was deleted")


def _check_all_made(found: SurveyedGroup) -> None:
    """Nothing is chosen while Machines are still to be made: one of those would be given up."""
    missing = _not_made(found)
    if missing:
        raise ProviderError(
            f"group {found.group.id}: {missing} of its machines are not made yet; until then none"
            " can be chosen for deletion",
            cause="transient",
        )


def _not_made(found: SurveyedGroup) -> int:
    return sum(
        instance.state == "creating" and instance.id not in found.machine_of
        for instance in found.instances
    )


def _has_not_started(machine: ApiMachine) -> bool:
    return not machine.spec.provider_id


def _may_have_happened(error: Exception) -> bool:
    return isinstance(error, errors.ConnectionFailed | errors.ServerError)


def _overtaken(found: SurveyedGroup, what: str) -> ProviderError:
    return ProviderError(
        f"group {found.group.id}: {what}: others changed it {_ATTEMPTS} times meanwhile",
        cause="transient",
    )


@contextmanager
def _failures(group: str) -> Iterator[None]:
    """A management cluster that fails us is a provider that fails its caller."""
    try:
        yield
    except (errors.TooManyRequests, errors.Conflict) as error:
        raise ProviderError(f"group {group}: {error}", cause="transient") from error
    except ClusterError as error:
        raise ProviderError(f"group {group}: {error}") from error
