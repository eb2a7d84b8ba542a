"""Clusters without their names answer as they did."""

import re
from collections.abc import Callable, Iterable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.clusters import random_cluster
from tests.clusters.random_groups import NOW, random_scenario
from tonnage.api import Cluster, Verdict
from tonnage.files import anonymiser
from tonnage.files.anonymiser import Anonymiser
from tonnage.groups import options
from tonnage.groups.inputs import Inputs
from tonnage.objects import kinds
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import LabelSelector, ObjectMeta
from tonnage.objects.nodes import Node
from tonnage.objects.pods import NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec
from tonnage.objects.scenarios import Scenario
from tonnage.objects.storage import CSIDriver
from tonnage.objects.volume_sources import HostPathSource, VolumeSource
from tonnage.objects.workloads import PodDisruptionBudget
from tonnage.rules import features
from tonnage.scaleup import decision
from tonnage.scaleup.plan import Plan
from tonnage.testing import builders as make

names = st.from_regex(r"[a-z0-9]([-.a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
SEEDS = range(24)


def node_called(name: str, **labels: str) -> Node:
    return Node(metadata=ObjectMeta(name=name, labels=labels))


def renaming_of(*texts: str) -> Anonymiser:
    return Anonymiser([node_called(text) for text in texts])


@pytest.mark.parametrize("seed", SEEDS)
def test_verdicts_stay_the_same(seed: int) -> None:
    made = random_cluster(seed)
    renaming = Anonymiser(made.objects)
    before = Cluster(made.objects, feature_gates=made.gates)
    after = Cluster([renaming.renamed(one) for one in made.objects], feature_gates=made.gates)
    assert verdicts(after, str) == verdicts(before, renaming.alias)


def verdicts(cluster: Cluster, name: Callable[[str], str]) -> list[tuple[object, ...]]:
    """Every verdict of every pending pod, with names passed through a function."""
    return [
        (name(pod), name(one.node), one.phase, one.plugin, one.code, causes_of(one))
        for pod in cluster.pending
        for one in cluster.explain(pod).verdicts
    ]


def causes_of(verdict: Verdict) -> list[str]:
    return [str(reason.cause) for reason in verdict.reasons]


@pytest.mark.parametrize("seed", SEEDS)
def test_slots_stay_the_same(seed: int) -> None:
    made = random_cluster(seed)
    renaming = Anonymiser(made.objects)
    before = Cluster(made.objects).slots()
    after = Cluster([renaming.renamed(one) for one in made.objects]).slots()
    assert after.totals == before.totals


@pytest.mark.parametrize("seed", SEEDS)
def test_plans_stay_the_same(seed: int) -> None:
    made = random_scenario(seed)
    renaming = Anonymiser(made.objects)
    before = decided(made.objects, made.options, made.gates)
    after = decided(tuple(renaming.renamed(one) for one in made.objects), made.options, made.gates)
    assert facts_of(after, str) == facts_of(before, renaming.alias)


def decided(
    objects: tuple[KubeObject, ...], given: dict[str, object], gates: dict[str, bool]
) -> Plan:
    return decision.decide(
        Inputs.of_objects(
            objects, options=options.of(given), features=features.of_version("", gates), now=NOW
        )
    ).plan


def facts_of(plan: Plan, name: Callable[[str], str]) -> dict[str, object]:
    """All of a plan but its prose, with every name passed through a function."""

    def each(texts: Iterable[str]) -> list[str]:
        return [name(text) for text in texts]

    def node(text: str) -> str:
        # Nodes still to come are called after their group, with a number that names nothing.
        made_up = re.search(r"-upcoming-\d+$", text)
        return name(text[: made_up.start()]) + made_up[0] if made_up else name(text)

    return {
        "steps": [
            (name(step.chosen), [(name(one.group), one.delta) for one in step.scale_ups])
            for step in plan.steps
        ],
        "pods": [each(step.pods) for step in plan.steps],
        "nodes": [(name(up.group), [each(one.pods) for one in up.nodes]) for up in plan.scale_ups],
        "fit": [(name(one.pod), node(one.node)) for one in plan.fit_on_existing],
        "out": [
            (name(one.pod), each(reason.group for reason in one.reasons)) for one in plan.not_helped
        ],
        "bounds": plan.bounds,
        "limits": [(name(one.group), one.driver, one.count, one.source) for one in plan.limits],
    }


@given(st.lists(names, min_size=2, max_size=6))
@settings(max_examples=60)
def test_aliases_sort_as_the_names_do(texts: list[str]) -> None:
    renaming = renaming_of(*texts)
    assert sorted(map(renaming.alias, texts)) == [renaming.alias(one) for one in sorted(texts)]


@given(names, names)
def test_the_alias_of_a_name_made_of_two_is_made_of_their_aliases(pod: str, volume: str) -> None:
    renaming = renaming_of(pod, volume)
    assert renaming.alias(f"{pod}-{volume}") == f"{renaming.alias(pod)}-{renaming.alias(volume)}"


@given(names, names)
def test_different_names_have_different_aliases(one: str, other: str) -> None:
    renaming = renaming_of(one, other)
    assert (renaming.alias(one) == renaming.alias(other)) == (one == other)


@pytest.mark.parametrize("seed", range(10))
def test_no_name_is_left(seed: int) -> None:
    made = random_scenario(seed)
    renaming = Anonymiser(made.objects)
    secret = {
        one.metadata.name
        for one in made.objects
        if not isinstance(one, CSIDriver) and len(one.metadata.name) > 3
    }
    text = "\n".join(msgspec.json.encode(renaming.renamed(one)).decode() for one in made.objects)
    found = {name for name in secret if f'"{name}"' in text}
    assert found == set()


@pytest.mark.parametrize("row", [row for row in kinds.ALL if row.type is not Scenario])
def test_it_is_known_of_every_field_that_holds_text_whether_it_names_something(
    row: kinds.Kind,
) -> None:
    seen: set[type] = set()
    todo: list[type] = [row.type]
    while todo:
        type_ = todo.pop()
        if type_ in seen or type_ is NodeSelectorRequirement:
            continue
        seen.add(type_)
        anonymiser._changes(type_)
        info = msgspec.inspect.type_info(type_)
        todo += [one for one in structs_in(info) if not handled_by_its_owner(one)]
    assert row.type in seen


def structs_in(info: object) -> list[type]:
    """The records directly inside a record."""
    found: list[type] = []
    stack: list[object] = [field.type for field in getattr(info, "fields", ())]
    while stack:
        one = stack.pop()
        if isinstance(one, msgspec.inspect.StructType):
            found.append(one.cls)
        elif isinstance(one, msgspec.inspect.UnionType):
            stack += one.types
        elif isinstance(one, msgspec.inspect.VarTupleType):
            stack.append(one.item_type)
    return found


def handled_by_its_owner(type_: type) -> bool:
    return {"key", "values"} <= {field.name for field in msgspec.structs.fields(type_)}


def test_a_driver_keeps_its_name() -> None:
    driver = make.csidriver("ebs.csi.aws.com")
    assert Anonymiser([driver]).renamed(driver).metadata.name == "ebs.csi.aws.com"


def test_an_instance_type_is_kept() -> None:
    node = Node(metadata=ObjectMeta(labels={"node.kubernetes.io/instance-type": "m5.large"}))
    assert Anonymiser([node]).renamed(node) == node


def test_numbers_that_are_compared_stay_numbers() -> None:
    above = NodeSelectorRequirement(key="gen", operator="Gt", values=("4",))
    selector = make.nodes_with("gen", "4")
    selector = msgspec.structs.replace(
        selector, node_selector_terms=(NodeSelectorTerm(match_expressions=(above,)),)
    )
    pod = make.pod("p", node_affinity=selector)
    node = node_called("n", gen="5", rank="5")
    renamed = Anonymiser([pod, node]).renamed(node)
    assert renamed.metadata.labels["gen"] == "5"
    assert renamed.metadata.labels["rank"] != "5"


def test_a_valid_value_of_a_label_stays_valid_however_many_words_it_has() -> None:
    node = node_called("n", version="1.2.3.4.5.6.7.8.9.0.1.2.3.4.5.6.7.8.9.0")
    value = Anonymiser([node]).renamed(node).metadata.labels["version"]
    assert len(value) <= 63


def test_a_value_too_long_for_a_label_stays_too_long() -> None:
    node = node_called("n", version="a" * 64)
    assert len(Anonymiser([node]).renamed(node).metadata.labels["version"]) > 63


def test_what_says_nothing_still_says_nothing() -> None:
    node = node_called("n", rack="")
    assert Anonymiser([node]).renamed(node).metadata.labels["rack"] == ""


def test_annotations_that_nobody_reads_are_left_out() -> None:
    metadata = ObjectMeta(name="n", annotations={"example.com/owner": "Jo, extension 42"})
    node = Node(metadata=metadata)
    assert Anonymiser([node]).renamed(node).metadata.annotations == {}


def test_a_selector_and_what_it_selects_are_renamed_alike() -> None:
    pod = make.pod("p", labels={"app": "web"})
    spec = PodDisruptionBudget().spec
    budget = PodDisruptionBudget(
        spec=msgspec.structs.replace(spec, selector=LabelSelector(match_labels={"app": "web"}))
    )
    renaming = Anonymiser([pod, budget])
    other = renaming.renamed(budget)
    assert isinstance(other, PodDisruptionBudget)
    assert other.spec.selector is not None
    assert other.spec.selector.match_labels == renaming.renamed(pod).metadata.labels


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/var/lib/kubelet/plugins/ebs.csi.aws.com/", "/kubelet/plugins/ebs.csi.aws.com"),
        ("/home/alice/secrets", ""),
    ],
)
def test_of_paths_on_nodes_only_names_of_drivers_are_kept(path: str, kept: str) -> None:
    volume = VolumeSource(name="v", host_path=HostPathSource(path=path))
    pod = Pod(metadata=ObjectMeta(name="p"), spec=PodSpec(volumes=(volume,)))
    renamed = Anonymiser([pod]).renamed(pod)
    assert isinstance(renamed, Pod)
    assert renamed.spec.volumes[0].host_path == HostPathSource(path=kept)
