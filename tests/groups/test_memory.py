import msgspec

from tests.groups.group_objects import (
    EBS,
    NOW,
    TYPE,
    UPSTREAM,
    build,
    counts,
    daemon_pod,
    daemon_set,
    declared,
    group,
    sources,
    template,
)
from tonnage.groups import memory as memories
from tonnage.groups.memory import TemplateMemory
from tonnage.testing.builders import csinode, node


def after(**had):
    """The memory of group g after a round in which it had node n1."""
    labels = {"from": "live", TYPE: had.pop("kind", "x1")}
    return build(
        group(nodes=["n1"]),
        nodes=[node("n1", labels=labels)],
        csinodes=[csinode("n1", {EBS: had.pop("count", 25)})],
        **{"now": NOW - 3600, **had},
    ).memory


def test_the_last_good_node_stands_in_when_there_is_none():
    made = template(group(), memory=after())
    assert made.source == "remembered"
    assert made.node.metadata.labels["from"] == "live"
    assert counts(made) == {EBS: 25}


def test_what_is_remembered_goes_before_what_the_provider_says():
    made = template(group(provider=declared()), memory=after())
    assert made.node.metadata.labels["from"] == "live"


def test_the_number_of_slots_is_the_providers_all_the_same():
    made = template(group(provider=declared({EBS: 30})), memory=after())
    assert sources(made) == {EBS: (30, "provider")}


def test_memory_lasts_over_rounds_without_a_node():
    memory = build(group(), memory=after()).memory
    assert template(group(), memory=memory).source == "remembered"


def test_what_was_seen_at_the_last_look_is_seen_again_and_nothing_else():
    memory = after()
    missed = memory.groups["g"].drivers[EBS]
    past = msgspec.structs.replace(missed, seen=NOW - 7200)
    group_memory = msgspec.structs.replace(memory.groups["g"], drivers={EBS: missed, "past": past})
    memory = TemplateMemory(groups={"g": group_memory})
    again = memories.seen_again(memory, then=NOW - 3600, now=NOW).groups["g"]
    assert (again.seen, again.drivers[EBS].seen, again.drivers["past"]) == (NOW, NOW, past)
    assert again.template is group_memory.template


def test_a_group_that_is_gone_is_forgotten():
    assert build(group("other"), memory=after()).memory == TemplateMemory()


def test_memory_of_another_instance_type_than_the_providers_is_dropped():
    provider = declared(node=node("any", labels={TYPE: "x2"}))
    made = build(group(provider=provider), memory=after(kind="x1"))
    assert made.by_group["g"].source == "provider"
    assert made.memory == TemplateMemory()


def test_upstream_remembers_whatever_the_provider_says():
    provider = declared(node=node("any", labels={TYPE: "x2"}))
    made = build(group(provider=provider), memory=after(kind="x1"), policy=UPSTREAM)
    assert made.by_group["g"].source == "remembered"


def test_an_unfit_node_is_not_remembered():
    cordoned = node("n1", unschedulable=True)
    assert build(group(nodes=["n1"]), nodes=[cordoned]).memory == TemplateMemory()


def test_a_number_that_only_the_catalogue_has_is_not_remembered():
    made = build(
        group(nodes=["n1"]),
        nodes=[node("n1", labels={TYPE: "m5.large"})],
        csinodes=[csinode("n1", {EBS: None})],
    )
    assert sources(made.by_group["g"]) == {EBS: (26, "catalogue")}
    assert made.memory.groups["g"].drivers[EBS].count is None


def test_a_driver_that_gives_no_number_keeps_its_last_one():
    memory = after(count=25)
    made = build(
        group(nodes=["n1"]),
        nodes=[node("n1")],
        csinodes=[csinode("n1", {EBS: None})],
        memory=memory,
    )
    assert made.memory.groups["g"].drivers[EBS].count == 25
    assert sources(made.by_group["g"]) == {EBS: (25, "remembered")}


def test_pods_that_come_with_the_node_are_remembered():
    agent = daemon_set("agent")
    made = template(group(), memory=after(pods=[daemon_pod(agent, "n1")]), daemon_sets=[agent])
    assert [pod.metadata.name for pod in made.daemon_pods] == ["agent-abcde-template-node-for-g"]


def test_memory_survives_being_written_down():
    memory = after(pods=[daemon_pod(daemon_set("agent"), "n1", pvcs=["data"])])
    assert msgspec.json.decode(msgspec.json.encode(memory), type=TemplateMemory) == memory
