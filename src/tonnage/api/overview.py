"""What kube-scheduler would say of a pod in few words: nodes by the reason they refuse it for."""

from collections.abc import Iterable

import msgspec

from tonnage.rules import pipeline
from tonnage.rules.features import Features
from tonnage.scaleup import pod_groups
from tonnage.snapshot.snapshot import PodRecord, Snapshot


class NodeReasons(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that refuse a pod in the same words; no words are those it fits on."""

    nodes: tuple[str, ...]
    plugin: str = ""
    reasons: tuple[str, ...] = ()


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """Of alike pods, which all have the same answer; `node` is where the pod runs, if it does."""

    pods: tuple[str, ...]
    node: str = ""
    summary: str
    groups: tuple[NodeReasons, ...]
    warnings: tuple[str, ...] = ()


def overview(
    snapshot: Snapshot, record: PodRecord, features: Features, *, pods: tuple[str, ...], node: str
) -> Overview:
    """The nodes the pod fits on, then the refusals, the most frequent first."""
    verdicts = pipeline.evaluate(snapshot, record, features)
    names = {one.row: one.name for one in snapshot.ordered_nodes()}
    fitting = tuple(name for row, name in names.items() if verdicts.fits[row])
    refused = [
        NodeReasons(
            nodes=tuple(names[row] for row in refusal.rows.tolist()),
            plugin=refusal.plugin or "",
            reasons=refusal.texts,
        )
        for refusal in verdicts.refusals()
    ]
    refused.sort(key=lambda one: -len(one.nodes))
    groups = [NodeReasons(nodes=fitting), *refused] if fitting else refused
    first = next(iter(verdicts), None)
    return Overview(
        pods=pods,
        node=node,
        summary=verdicts.summary(),
        groups=tuple(groups),
        warnings=first.warnings if first is not None else (),
    )


def alike(snapshot: Snapshot, records: Iterable[PodRecord]) -> list[tuple[str, ...]]:
    """Pending pods in groups that every node answers the same, in the order of the first."""
    found: dict[tuple[int, str, str | None], list[str]] = {}
    for number, group in enumerate(pod_groups.group(snapshot, records)):
        for member in group.members:
            found.setdefault((number, member.nominated, member.pin), []).append(member.key)
    return [tuple(pods) for pods in found.values()]
