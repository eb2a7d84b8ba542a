"""Whatever gangs there are and however much room: each is helped whole or not at all."""

from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.scaleup.asking import CLASS, EBS, decide, group, stateful
from tests.scaleup.test_gangs import LABEL, pod_group
from tests.seeds import seeds
from tonnage.objects.kinds import KubeObject
from tonnage.scaleup.plan import Plan
from tonnage.testing import builders as make

GANGS = st.lists(
    st.tuples(
        st.integers(1, 5),  # pods
        st.integers(0, 2),  # of them, past the minimum
        st.sampled_from(["500m", "2", "4"]),
        st.integers(0, 2),  # claims of each
        st.integers(0, 1),  # priority
    ),
    min_size=1,
    max_size=5,
)


def placed(plan: Plan) -> Counter[str]:
    """How often each pod has a place."""
    found = Counter(one.pod for one in plan.fit_on_existing)
    found.update(pod for step in plan.steps for pod in step.pods)
    return found


@settings(
    max_examples=seeds(25),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(GANGS, st.integers(0, 8), st.integers(0, 2), st.integers(0, 3))
def test_each_gang_is_whole_or_has_no_place_at_all(
    gangs: list[tuple[int, int, str, int, int]], most: int, there: int, single: int
) -> None:
    objects: list[KubeObject] = [CLASS]
    needed: dict[str, int] = {}
    for number, (count, spare, cpu, claims, priority) in enumerate(gangs):
        name = f"gang-{number}"
        needed[name] = max(count - spare, 1)
        objects.append(pod_group(name, needed[name]))
        objects += stateful(
            name, count, claims=claims, cpu=cpu, labels={LABEL: name}, priority=priority
        )
    nodes = [f"n{number}" for number in range(there)]
    for node in nodes:
        objects += [make.node(node, cpu="4"), make.csinode(node, {EBS: 3})]
    objects += [make.pod(f"single-{number}", cpu="1") for number in range(single)]

    found = decide(
        objects, group("g", slots={EBS: 3}, most=most + there, nodes=nodes), all_helped=False
    )

    has_place = placed(found)
    assert max(has_place.values(), default=1) == 1
    outcomes = {one.gang: one for one in found.gangs or ()}
    for name, least in needed.items():
        pods = sum(pod.startswith(f"default/{name}-") for pod in has_place)
        if least > 1:
            assert pods == 0 or pods >= least
            (outcome,) = (one for key, one in outcomes.items() if f"/{name} " in key)
            assert outcome.helped == (pods > 0)
            assert bool(outcome.reason) != outcome.helped
