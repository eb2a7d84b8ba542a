"""What the page asks: the search box, all there is to say of a node, a pod or a decision, what-ifs.

Answers that need the snapshot are given between decisions: while one has it, the answer says so.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import msgspec

from tonnage.api import slots, what_if
from tonnage.api.what_if import Supposition
from tonnage.board import history, pending_rows, plan_summary
from tonnage.board.feed import Feed
from tonnage.board.moment import Moment
from tonnage.errors import InputError
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import Record
from tonnage.objects.phrases import counted
from tonnage.service import workers
from tonnage.snapshot.snapshot import PodRecord, Snapshot

FOUND = 12
PODS = 200


class Hit(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Something that the search box found, what there is to say of it, and where it is shown."""

    kind: str
    name: str
    text: str
    link: str


class BoardAnswers:
    """Answers by the name under which the page asks; `objects` are those of the cluster now."""

    def __init__(
        self,
        feed: Feed,
        *,
        objects: Callable[[], Iterable[KubeObject]],
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._feed = feed
        self._objects = objects
        self._busy = busy

    def by_name(self) -> dict[str, Callable[[Any], Any]]:
        return {
            "search": self.search,
            "node": self.node,
            "pod": self.pod,
            "decision": self.decision,
            "what-if": self.what_if,
        }

    async def search(self, question: Any) -> dict[str, object]:
        """Pods, nodes, volumes and drivers whose names contain a text."""
        wanted = _text(question, "q").strip().lower()
        moment = self._moment()
        snapshot = moment.inputs.cluster.snapshot
        kinds, _, rest = wanted.partition(":")
        only = kinds if rest and kinds in ("pod", "node", "volume", "driver") else ""
        text = rest.strip() if only else wanted
        if not text:
            return {"hits": [], "more": False}
        finders = {
            "node": _nodes(moment, text),
            "driver": _drivers(moment, text),
            "pod": _pods(snapshot, text),
            "volume": _volumes(snapshot, text),
        }
        asked = (found for kind, found in finders.items() if only in ("", kind))
        hits = [hit for found in asked for hit in islice(found, FOUND)]
        return {"hits": hits[: 3 * FOUND], "more": len(hits) > 3 * FOUND}

    async def node(self, question: Any) -> dict[str, object]:
        """The pods of a node, its limits, and what holds slots without a pod."""
        name = _text(question, "name")
        moment = self._moment()
        snapshot = moment.inputs.cluster.snapshot
        record = snapshot.nodes.get(name)
        if record is None:
            raise InputError(f"no node {name!r}")
        pods = sorted(snapshot.pods_on(name), key=lambda one: one.key)
        return {
            "name": name,
            "labels": dict(sorted(record.node.metadata.labels.items())),
            "taints": [f"{one.key}={one.value}:{one.effect}" for one in record.node.spec.taints],
            "pods": [
                {
                    "pod": one.key,
                    "volumes": [f"{use.driver}/{use.handle}" for use in one.slots.uses],
                }
                for one in pods[:PODS]
            ],
            "count": len(pods),
            "held": _held(snapshot, name),
        }

    async def pod(self, question: Any) -> dict[str, object]:
        """Where a pod is or why it is nowhere, its volumes, and what was decided about it."""
        key = _text(question, "pod")
        moment = self._moment()
        record = moment.inputs.cluster.snapshot.pods.get(key)
        if record is None:
            raise InputError(f"no pod {key!r}")
        found: dict[str, object] = {
            "pod": key,
            "node": record.node_name,
            "requests": record.pod_class.usage,
            "siblings": _siblings(record, moment.inputs.cluster.snapshot),
            "volumes": _claims(record, moment.inputs.cluster.snapshot),
            "why": [
                {"time": one.time, "text": text}
                for one in reversed(moment.decisions)
                if (text := _about(key, one.plan))
            ],
        }
        if record.pending:
            found["waits"] = pending_rows.row_of(moment, record)
        return found

    async def decision(self, question: Any) -> dict[str, object]:
        """A decision of the past, with its plan and why."""
        wanted = _text(question, "id")
        moment = self._moment(snapshot=False)
        for one in moment.decisions:
            if history.mark_id(one) == wanted:
                return {
                    "id": wanted,
                    "time": one.time,
                    "done": [msgspec.to_builtins(done) for done in one.done],
                    "plan": plan_summary.summary(one.plan, moment.inputs.groups),
                    "steps": [
                        {
                            "chosen": step.chosen,
                            "reason": step.reason,
                            "pods": list(step.pods[:20]),
                            "count": len(step.pods),
                        }
                        for step in one.plan.steps
                    ],
                }
        raise InputError(f"no decision {wanted!r} is kept")

    async def what_if(self, question: Any) -> dict[str, object]:
        """The plan of the changed cluster, and what differs from the plan of now."""
        try:
            what = msgspec.convert(question, Supposition)
        except msgspec.ValidationError as error:
            raise InputError(f"what-if: {error}") from None
        moment = self._moment()
        objects = list(self._objects())
        inputs = moment.inputs
        supposed = await workers.in_thread(lambda: what_if.suppose(inputs, objects, what))
        after = supposed.decision.plan
        before = moment.plan
        changed = list(plan_summary.differences(before, after)) if before is not None else []
        return {
            "plan": plan_summary.summary(after, supposed.decision.inputs.groups),
            "differences": changed,
            "notes": supposed.notes,
        }

    def _moment(self, *, snapshot: bool = True) -> Moment:
        moment = self._feed.moment
        if moment is None:
            raise InputError("nothing is known yet")
        if snapshot and self._busy():
            raise InputError("a decision is being made: ask again in a moment")
        return moment


def _text(question: Any, name: str) -> str:
    found = question.get(name) if isinstance(question, dict) else None
    if not isinstance(found, str) or len(found) > 1000:
        raise InputError(f"{name}: expected a text")
    return found


def _nodes(moment: Moment, text: str) -> Iterable[Hit]:
    for name in moment.inputs.nodes:
        if text in name.lower():
            pods = len(moment.inputs.cluster.snapshot.pods_on(name))
            group = moment.inputs.group_of.get(name)
            where = f" of {group.id}" if group is not None else ""
            yield Hit(kind="node", name=name, text=f"{counted(pods)}{where}", link=f"slots/{name}")


def _pods(snapshot: Snapshot, text: str) -> Iterable[Hit]:
    for key, record in snapshot.pods.items():
        if text in key.lower():
            where = f"on {record.node_name}" if record.node_name else "waits for a node"
            yield Hit(kind="pod", name=key, text=where, link=f"pod/{key}")


def _volumes(snapshot: Snapshot, text: str) -> Iterable[Hit]:
    attached: dict[str, str] | None = None
    for name, volume in snapshot.storage.volumes.items():
        reference = volume.spec.claim_ref
        claim = f"{reference.namespace}/{reference.name}" if reference is not None else ""
        handle = volume.spec.csi.volume_handle if volume.spec.csi is not None else ""
        if text in name.lower() or text in claim.lower() or text in handle.lower():
            if attached is None:
                attached = {
                    one.spec.source.persistent_volume_name or "": one.spec.node_name
                    for one in snapshot.attachments.values()
                }
            node = attached.get(name, "")
            words = [f"of {volume.spec.csi.driver}"] if volume.spec.csi is not None else []
            words += [f"claimed by {claim}"] if claim else []
            words += [f"attached to {node}"] if node else []
            link = f"slots/{node}" if node else "slots"
            yield Hit(kind="volume", name=name, text=", ".join(words), link=link)


def _drivers(moment: Moment, text: str) -> Iterable[Hit]:
    snapshot = moment.inputs.cluster.snapshot
    for driver in snapshot.slots.drivers():
        if text in driver.name.lower():
            nodes = int(driver.listed.data.sum())
            taken = int((driver.used.data + driver.idle_attachments.data).sum())
            words = f"on {counted(nodes, 'node')}, {counted(taken, 'slot')} taken"
            yield Hit(kind="driver", name=driver.name, text=words, link="limits")


def _held(snapshot: Snapshot, node: str) -> list[dict[str, str]]:
    """Volumes attached to a node that no pod there uses."""
    record = snapshot.nodes[node]
    return [
        {"driver": driver, "volume": name}
        for (row, driver), names in slots.held_volumes(snapshot).items()
        if row == record.row
        for name in names
    ]


def _siblings(record: PodRecord, snapshot: Snapshot) -> int:
    """Pods of the same controller, the pod itself among them."""
    owner = record.meta.controller
    if owner is None:
        return 1
    namespace = record.meta.namespace
    return sum(
        one.meta.namespace == namespace and one.meta.controller == owner
        for one in snapshot.pods.values()
    )


def _claims(record: PodRecord, snapshot: Snapshot) -> list[dict[str, str]]:
    found = []
    for volume in record.volumes:
        claim = snapshot.storage.claim(record.meta.namespace, volume.claim)
        bound = claim.spec.volume_name if claim is not None else ""
        class_ = claim.class_name if claim is not None else ""
        found.append({"name": volume.name, "claim": volume.claim, "volume": bound, "class": class_})
    return found


def _about(pod: str, plan: Any) -> str:
    for step in plan.steps:
        if pod in step.pods:
            return f"{step.chosen} was chosen: {step.reason}" if step.reason else step.chosen
    for place in plan.all_on_existing:
        if place.pod == pod:
            return f"fits on {place.node}"
    for one in plan.not_helped:
        if one.pod == pod:
            said = dict.fromkeys(text for why in one.reasons for text in why.reasons)
            return f"left out: {'; '.join(said)}"
    return ""
