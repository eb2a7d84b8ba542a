"""The same question without consequences, also for nodes that do not exist.

All filters of the scheduling model answer, then the extender's own rules: what reservations and
registering drivers take away. Nothing is reserved, and imagined objects are gone with the answer.
"""

from typing import Any

import msgspec

from tonnage.errors import InputError
from tonnage.objects import codec, complexity, kinds, validation
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import Record
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import API_VERSION
from tonnage.objects.storage import CSINode, PersistentVolumeClaim
from tonnage.rules import pipeline
from tonnage.rules.framework import Code
from tonnage.scheduler.extender import wire
from tonnage.scheduler.extender.verbs import Verbs
from tonnage.service.http_questions import Reply, TooMuchError
from tonnage.snapshot.snapshot import Snapshot

EXTENDER = "Extender"
"""The name kube-scheduler gives to what an extender refuses."""

_MOST_TEMPLATES = 100
_MOST_CLAIMS = 200
_MOST_NODES = 5_000


class NodeVerdict(Record, frozen=True, kw_only=True):
    """What became of the pod on one node; `causes` are for machines, `reasons` for people."""

    node: str
    code: str
    plugin: str | None = None
    reasons: tuple[str, ...] = ()
    causes: tuple[Any, ...] = ()


class DryRun(Record, frozen=True, kw_only=True, omit_defaults=False):
    api_version: str = API_VERSION
    kind: str = "Simulation"
    pod: str
    verdicts: tuple[NodeVerdict, ...]


def simulate(body: bytes, verbs: Verbs, snapshot: Snapshot) -> Reply:
    """Answer `{pod, nodeNames, templates: [{node, csiNode}], claims}`; all but the pod optional.

    Without names and templates, all nodes are asked about.
    """
    try:
        asked = _QUESTION.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InputError(f"expected pod, nodeNames, templates and claims: {_said(error)}") from None
    _check_size(asked, snapshot)
    pod = wire.pod_of(asked.pod)
    _check_rules("pod", complexity.of(pod.spec))
    claims = [_object(claim, PersistentVolumeClaim) for claim in asked.claims]
    templates = [
        (
            _object(template.node, Node),
            _object(template.csi_node, CSINode)
            if bytes(template.csi_node) not in (b"", b"null")
            else None,
        )
        for template in asked.templates
    ]
    for node, _ in templates:
        told = (node.metadata.labels, node.spec.taints, node.status.allocatable)
        _check_rules("templates", sum(map(len, told)))
    unknown = [name for name in asked.node_names if name not in snapshot.nodes]
    if unknown:
        raise InputError(f"nodeNames: {validation.one_line(unknown[0])}: there is no such node")
    # What is brought up to date inside the trial would be gone after it.
    verbs.refresh()
    with snapshot.trial():
        for claim in claims:
            snapshot.put_claim(claim)
        for node, csinode in templates:
            _imagine(snapshot, node, csinode)
        names = [*asked.node_names, *(node.metadata.name for node, _ in templates)]
        if not names:
            names = [node.name for node in snapshot.ordered_nodes()]
        ask = verbs.ask(pod)
        verdicts = pipeline.evaluate(snapshot, ask.pod, ask.features)
        ours = verbs.judge(ask, names)
        refused = {**ours.failed, **ours.unresolvable}
        answer = tuple(
            _verdict(verdicts.on(name), refused.get(name, ""), name in ours.unresolvable)
            for name in names
        )
    verbs.forget()
    return Reply(wire.encode(DryRun(pod=ask.pod.key, verdicts=answer)))


def _check_size(asked: "_DryRunRequest", snapshot: Snapshot) -> None:
    """No more than a person asks; everybody else waits for the answer."""
    for name, found, most in (
        ("templates", len(asked.templates), _MOST_TEMPLATES),
        ("claims", len(asked.claims), _MOST_CLAIMS),
        ("nodeNames", len(asked.node_names), _MOST_NODES),
    ):
        if found > most:
            raise TooMuchError(f"{name}: {found}: expected {most} at most")
    if not asked.node_names and not asked.templates and len(snapshot.nodes) > _MOST_NODES:
        raise TooMuchError(
            f"nodeNames: none of {len(snapshot.nodes)} nodes: expected {_MOST_NODES} at most"
        )


def _check_rules(name: str, found: int) -> None:
    if found > complexity.MOST:
        raise TooMuchError(f"{name}: {found} rules: expected {complexity.MOST} at most")


def _imagine(snapshot: Snapshot, node: Node, csinode: CSINode | None) -> None:
    name = node.metadata.name
    if name in snapshot.nodes:
        raise InputError(
            f"templates: {validation.one_line(name)}: there is a node of that name already"
        )
    snapshot.put_node(node)
    if csinode is not None:
        meta = msgspec.structs.replace(csinode.metadata, name=name)
        snapshot.put_csinode(msgspec.structs.replace(csinode, metadata=meta))


def _verdict(verdict: pipeline.Verdict, refused: str, hopeless: bool) -> NodeVerdict:
    if verdict.code is Code.SUCCESS and refused:
        code = Code.UNRESOLVABLE if hopeless else Code.UNSCHEDULABLE
        return NodeVerdict(node=verdict.node, code=str(code), plugin=EXTENDER, reasons=(refused,))
    return NodeVerdict(
        node=verdict.node,
        code=str(verdict.code),
        plugin=verdict.plugin,
        reasons=tuple(verdict.texts),
        causes=tuple({"cause": reason.cause, **reason.facts} for reason in verdict.reasons),
    )


class _Template(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    node: msgspec.Raw
    csi_node: msgspec.Raw = msgspec.Raw()


class _DryRunRequest(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    pod: msgspec.Raw
    node_names: list[str] = []
    templates: list[_Template] = []
    claims: list[msgspec.Raw] = []


_QUESTION = msgspec.json.Decoder(_DryRunRequest)
_KINDS = {row.type: row for row in kinds.ALL}


def _object(raw: msgspec.Raw, type_: type[Any]) -> Any:
    found: KubeObject = codec.decode(raw, _KINDS[type_])
    return found


def _said(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
