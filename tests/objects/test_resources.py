import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.objects import resources
from tonnage.objects.meta import Condition
from tonnage.objects.nodes import Node, NodeStatus
from tonnage.objects.pods import (
    Container,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)

GPU = "nvidia.com/gpu"
VERSIONS = [(1, 35), (1, 36), (1, 37)]


def container(name="c", *, sidecar=False, **requests):
    return Container(
        name=name,
        resources=ResourceRequirements(requests=requests),
        restart_policy="Always" if sidecar else "",
    )


def status(name="c", *, in_force=None, allocated=None):
    return ContainerStatus(
        name=name,
        resources=None if in_force is None else ResourceRequirements(requests=in_force),
        allocated_resources=allocated or {},
    )


INFEASIBLE = Condition(type="PodResizePending", status="True", reason="Infeasible")
DEFERRED = Condition(type="PodResizePending", status="True", reason="Deferred")


@pytest.mark.parametrize(
    ("name", "extended", "scheduled"),
    [
        ("cpu", False, True),
        ("memory", False, True),
        ("ephemeral-storage", False, True),
        ("storage", False, False),
        ("pods", False, False),
        ("hugepages-2Mi", False, True),
        ("attachable-volumes-aws-ebs", False, True),
        ("kubernetes.io/batch", False, True),
        ("node.kubernetes.io/thing", False, True),
        ("unkubernetes.io/thing", False, True),
        ("nvidia.com/gpu", True, True),
        ("gpu", False, False),
        ("requests.nvidia.com/gpu", False, False),
        ("Nvidia.com/gpu", False, False),
        ("nvidia.com/", False, False),
        ("a/b/c", False, False),
        ("x" * 244 + "/y", True, True),
        ("x" * 245 + "/y", False, False),
    ],
)
def test_names_the_scheduler_accounts_for(name, extended, scheduled):
    assert (resources.is_extended(name), resources.is_scheduled(name)) == (extended, scheduled)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a", True),
        ("A.b_c-d", True),
        ("example.com/A", True),
        ("a" * 63, True),
        ("a" * 64, False),
        ("-a", False),
        ("a.", False),
        ("", False),
        ("/a", False),
        ("Example.com/a", False),
        ("exa_mple.com/a", False),
        ("a..b/c", False),
        ("a\n", False),
        ("é", False),
    ],
)
def test_qualified_names(name, expected):
    assert resources.valid_qualified_name(name) is expected


def test_containers_add_up():
    spec = PodSpec(
        containers=(container(cpu="250m", memory="1Gi"), container(cpu=1, memory="512Mi"))
    )
    assert resources.requests(spec) == {"cpu": 1250, "memory": 1536 * 2**20}


def test_a_pod_that_names_nothing_requests_nothing():
    assert resources.requests(PodSpec(containers=(container(),))) == {}


def test_rounding_comes_after_adding_up():
    spec = PodSpec(containers=(container(cpu="0.4m", memory="0.4"),) * 3)
    assert resources.requests(spec) == {"cpu": 2, "memory": 2}


def test_a_device_named_with_zero_stays_a_key():
    spec = PodSpec(containers=(container(**{GPU: "0"}),))
    assert resources.requests(spec) == {GPU: 0}


def test_names_that_are_not_accounted_for_are_left_out():
    spec = PodSpec(containers=(container(cpu="1", storage="1Gi", pods="1", gpu="1"),))
    assert resources.requests(spec) == {"cpu": 1000}


@pytest.mark.parametrize(
    ("why", "init", "cpu"),
    [
        ("a small one fits in", [container(cpu="1")], 2000),
        ("a large one sets the mark", [container(cpu="3")], 3000),
        ("they run one by one", [container(cpu="3"), container(cpu="3")], 3000),
        ("a sidecar stays", [container(sidecar=True, cpu="1")], 3000),
        (
            "a sidecar runs beside what comes after it",
            [container(sidecar=True, cpu="1"), container(cpu="3")],
            4000,
        ),
        (
            "but not beside what came before it",
            [container(cpu="3"), container(sidecar=True, cpu="1")],
            3000,
        ),
        (
            "sidecars pile up",
            [container(sidecar=True, cpu="1"), container(sidecar=True, cpu="1")],
            4000,
        ),
    ],
)
def test_init_containers(why, init, cpu):
    spec = PodSpec(containers=(container(cpu="2"),), init_containers=tuple(init))
    assert resources.requests(spec) == {"cpu": cpu}, why


def test_a_resource_only_an_init_container_names_counts():
    spec = PodSpec(containers=(container(),), init_containers=(container(**{GPU: "2"}),))
    assert resources.requests(spec) == {GPU: 2}


def test_pod_level_requests_replace_those_of_containers():
    spec = PodSpec(
        containers=(container(**{"cpu": "2", "memory": "1Gi", GPU: "1"}),),
        resources=ResourceRequirements(
            requests={"cpu": "1", "hugepages-2Mi": "4Mi", GPU: "7", "ephemeral-storage": "1"}
        ),
    )
    assert resources.requests(spec) == {
        "cpu": 1000,
        "memory": 2**30,
        GPU: 1,
        "hugepages-2Mi": 4 * 2**20,
    }


def test_overhead_comes_on_top_of_pod_level_requests():
    spec = PodSpec(
        containers=(container(cpu="2"),),
        resources=ResourceRequirements(requests={"cpu": "1"}),
        overhead={"cpu": "250m", "memory": "64Mi"},
    )
    assert resources.requests(spec) == {"cpu": 1250, "memory": 64 * 2**20}


def test_a_node_offers_its_allocatable_not_its_capacity():
    node = Node(
        status=NodeStatus(
            capacity={"cpu": "8", "memory": "32Gi", "pods": "250"},
            allocatable={"cpu": "7910m", "memory": "30Gi", "pods": "110", GPU: "2", "odd": "9"},
        )
    )
    assert resources.allocatable(node) == {
        "cpu": 7910,
        "memory": 30 * 2**30,
        "ephemeral-storage": 0,
        "pods": 110,
        GPU: 2,
    }


def test_a_node_that_publishes_nothing_offers_nothing():
    offered = resources.allocatable(Node())
    assert offered == {"cpu": 0, "memory": 0, "ephemeral-storage": 0, "pods": 0}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_pod_whose_status_is_silent_uses_what_it_requests(version):
    spec = PodSpec(containers=(container(cpu="1"),), overhead={"cpu": "1"})
    pod = Pod(spec=spec, status=PodStatus(container_statuses=(status(),), conditions=(DEFERRED,)))
    assert resources.usage(pod, version=version) == {"cpu": 2000}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("why", "in_force", "allocated", "conditions", "cpu"),
    [
        ("growing, not yet granted", "1", "1", (), 2000),
        ("growing, deferred", "1", "1", (DEFERRED,), 2000),
        ("growing, but it never will", "1", "1", (INFEASIBLE,), 1000),
        ("shrinking, still in force", "3", "2", (), 3000),
        ("shrinking, still allocated", "2", "3", (), 3000),
        ("refused while shrinking", "1", "3", (INFEASIBLE,), 3000),
    ],
)
def test_a_pod_being_resized_uses_the_most(version, why, in_force, allocated, conditions, cpu):
    pod = Pod(
        spec=PodSpec(containers=(container(cpu="2"),)),
        status=PodStatus(
            container_statuses=(status(in_force={"cpu": in_force}, allocated={"cpu": allocated}),),
            conditions=conditions,
        ),
    )
    assert resources.usage(pod, version=version) == {"cpu": cpu}, why


@pytest.mark.parametrize(("version", "cpu"), [((1, 36), 8000), ((1, 37), 7000)])
def test_the_most_is_taken_per_container_until_136_and_per_pod_from_137(version, cpu):
    pod = Pod(
        spec=PodSpec(containers=(container("a", cpu="1"), container("b", cpu="5"))),
        status=PodStatus(
            container_statuses=(
                status("a", in_force={"cpu": "3"}, allocated={"cpu": "3"}),
                status("b", in_force={"cpu": "4"}, allocated={"cpu": "4"}),
            )
        ),
    )
    assert resources.usage(pod, version=version) == {"cpu": cpu}


@pytest.mark.parametrize("version", VERSIONS)
def test_sidecars_are_resized_too(version):
    pod = Pod(
        spec=PodSpec(init_containers=(container("s", sidecar=True, cpu="1"),)),
        status=PodStatus(init_container_statuses=(status("s", in_force={"cpu": "2"}),)),
    )
    assert resources.usage(pod, version=version) == {"cpu": 2000}


@pytest.mark.parametrize(("version", "cpu"), [((1, 36), 1000), ((1, 37), 2000)])
def test_status_of_ordinary_init_containers_counts_from_137(version, cpu):
    pod = Pod(
        spec=PodSpec(init_containers=(container("i", cpu="1"),)),
        status=PodStatus(init_container_statuses=(status("i", in_force={"cpu": "2"}),)),
    )
    assert resources.usage(pod, version=version) == {"cpu": cpu}


@pytest.mark.parametrize(("version", "cpu"), [((1, 36), 1000), ((1, 37), 2000)])
def test_allocation_alone_counts_from_137(version, cpu):
    pod = Pod(
        spec=PodSpec(containers=(container(cpu="1"),)),
        status=PodStatus(container_statuses=(status(allocated={"cpu": "2"}),)),
    )
    assert resources.usage(pod, version=version) == {"cpu": cpu}


@pytest.mark.parametrize(("version", "expected"), [((1, 36), {"cpu": 1000}), ((1, 37), {})])
def test_an_infeasible_resize_without_any_status(version, expected):
    pod = Pod(
        spec=PodSpec(containers=(container(cpu="1"),)), status=PodStatus(conditions=(INFEASIBLE,))
    )
    assert resources.usage(pod, version=version) == expected


@pytest.mark.parametrize(
    ("version", "conditions", "cpu"),
    [
        ((1, 35), (), 1000),
        ((1, 36), (), 3000),
        ((1, 37), (), 3000),
        ((1, 35), (INFEASIBLE,), 1000),
        ((1, 36), (INFEASIBLE,), 3000),
        ((1, 37), (INFEASIBLE,), 3000),
    ],
)
def test_pod_level_status_counts_from_136(version, conditions, cpu):
    pod = Pod(
        spec=PodSpec(
            containers=(container(),), resources=ResourceRequirements(requests={"cpu": "1"})
        ),
        status=PodStatus(
            resources=ResourceRequirements(requests={"cpu": "2"}),
            allocated_resources={"cpu": "3"},
            conditions=conditions,
        ),
    )
    assert resources.usage(pod, version=version) == {"cpu": cpu}


@pytest.mark.parametrize(("version", "cpu"), [((1, 36), 5000), ((1, 37), 3000)])
def test_pod_level_status_replaces_that_of_containers_from_137(version, cpu):
    pod = Pod(
        spec=PodSpec(containers=(container(cpu="1"),)),
        status=PodStatus(
            container_statuses=(status(in_force={"cpu": "5"}, allocated={"cpu": "5"}),),
            resources=ResourceRequirements(requests={"cpu": "2"}),
            allocated_resources={"cpu": "3"},
        ),
    )
    assert resources.usage(pod, version=version) == {"cpu": cpu}


@pytest.mark.parametrize(("version", "cpu"), [((1, 36), 0), ((1, 37), 4000)])
def test_an_infeasible_pod_level_resize_the_status_does_not_name(version, cpu):
    pod = Pod(
        spec=PodSpec(
            containers=(container(cpu="4"),), resources=ResourceRequirements(requests={"cpu": "9"})
        ),
        status=PodStatus(
            container_statuses=(status(in_force={"cpu": "4"}, allocated={"cpu": "4"}),),
            resources=ResourceRequirements(),
            conditions=(INFEASIBLE,),
        ),
    )
    assert resources.usage(pod, version=version) == {"cpu": cpu}


AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", GPU, "hugepages-2Mi"]),
    st.sampled_from(["0", "1", "100m", "0.3m", "1Ki", "7"]),
)
CONTAINERS = st.lists(
    st.builds(
        lambda requests, sidecar: container(sidecar=sidecar, **requests), AMOUNTS, st.booleans()
    ),
    max_size=3,
).map(tuple)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("cpu", ["18446744073709551616", "9e99"])
def test_a_pod_that_has_a_node_all_the_same_holds_nothing_of_what_no_node_has(version, cpu):
    pod = Pod(spec=PodSpec(containers=(container(cpu=cpu, memory="1Gi"),)))
    assert resources.requests(pod.spec) == {"cpu": resources.MOST, "memory": 2**30}
    assert resources.usage(pod, version=version) == {"cpu": 0, "memory": 2**30}


@given(CONTAINERS, CONTAINERS)
def test_a_pod_requests_at_least_what_its_containers_do(containers, init):
    whole = resources.requests(PodSpec(containers=containers, init_containers=init))
    part = resources.requests(PodSpec(containers=containers))
    assert part.keys() <= whole.keys()
    assert all(whole[name] >= amount for name, amount in part.items())


@given(CONTAINERS, AMOUNTS, st.sampled_from(VERSIONS))
def test_usage_is_never_below_requests_while_a_resize_is_feasible(containers, reported, version):
    named = tuple(
        container(f"c{i}", **dict(c.resources.requests)) for i, c in enumerate(containers)
    )
    statuses = tuple(status(c.name, in_force=reported) for c in named)
    pod = Pod(spec=PodSpec(containers=named), status=PodStatus(container_statuses=statuses))
    used = resources.usage(pod, version=version)
    assert all(used[n] >= amount for n, amount in resources.requests(pod.spec).items())
