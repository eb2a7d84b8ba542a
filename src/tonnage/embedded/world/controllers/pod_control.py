"""What the workload controllers share: pods from templates, pods that go, counts that are told."""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from tonnage.cluster import errors
from tonnage.cluster.client import Client
from tonnage.cluster.resources import Named, Resource
from tonnage.embedded.world.controllers import workload_records
from tonnage.embedded.world.controllers.workload_records import NewPod, Tree, WholePodTemplate
from tonnage.objects.meta import ObjectMeta, OwnerReference
from tonnage.objects.pods import Pod

REVISION = "controller-revision-hash"


def owner(resource: Resource[Any], meta: ObjectMeta) -> OwnerReference:
    return OwnerReference(
        api_version=resource.api_version,
        kind=resource.kind,
        name=meta.name,
        uid=meta.uid,
        controller=True,
    )


def pod(
    template: WholePodTemplate,
    owned_by: OwnerReference,
    *,
    namespace: str,
    name: str = "",
    labels: Mapping[str, str] | None = None,
    spec: Tree | None = None,
) -> NewPod:
    """A pod of the template; without a name it is named after its owner, and the server adds to it.

    Labels and spec are taken beside and instead of the template's.
    """
    return NewPod(
        metadata=ObjectMeta(
            name=name,
            generate_name="" if name else f"{owned_by.name}-",
            namespace=namespace,
            labels={**template.metadata.labels, **(labels or {})},
            annotations=template.metadata.annotations,
            finalizers=template.metadata.finalizers,
            owner_references=(owned_by,),
        ),
        spec=template.spec if spec is None else spec,
    )


def revision(template: WholePodTemplate) -> str:
    """The same for the same template, and hardly ever for another."""
    text = msgspec.json.encode(template, order="deterministic")
    return hashlib.sha256(text).hexdigest()[:10]


async def create(client: Client, made: NewPod) -> ObjectMeta | None:
    """Create a pod; `None` if its name is taken."""
    try:
        return (await client.create(workload_records.PODS, made)).metadata
    except errors.Conflict as error:
        if not error.already_exists:
            raise
    return None


async def delete(client: Client, gone: Pod) -> None:
    """Delete this very pod, if it is still there."""
    meta = gone.metadata
    try:
        await client.delete(Pod, meta.name, namespace=meta.namespace, uid=meta.uid)
    except (errors.NotFound, errors.Conflict):
        return


async def tell(client: Client, resource: Resource[Any], obj: Named, status: Tree) -> None:
    """Write what has changed of an object's status."""
    before: Tree = getattr(obj, "status", {})
    changed = {key: value for key, value in status.items() if before.get(key) != value}
    if changed:
        meta = obj.metadata
        await client.patch(
            resource,
            meta.name,
            {"status": changed},
            namespace=meta.namespace,
            subresource="status",
        )
