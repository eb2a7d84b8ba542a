"""Pods that are as much work as a tenant can make them, in every way there is."""

from tonnage.objects.meta import LabelRequirement, LabelSelector
from tonnage.objects.pods import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    Toleration,
    TopologySpreadConstraint,
)
from tonnage.testing import builders as make

NUMBERED = "example.com/number"
"""A label whose values are numbers, a different one on every node."""


def pods(parts: int) -> dict[str, Pod]:
    """A pod for every kind of rule, with so many of it."""
    every = range(parts)
    return {
        "spread over labels no node has": make.pod(
            "hostile", cpu="1", spread=[_spread(f"example.com/{n}", str(n)) for n in every]
        ),
        "one spread constraint with a long selector": make.pod(
            "hostile",
            cpu="1",
            spread=[
                TopologySpreadConstraint(
                    max_skew=1,
                    topology_key=make.HOSTNAME,
                    label_selector=make.selecting({f"label-{n}": "x" for n in every}),
                )
            ],
        ),
        "node selector terms": _with_terms(*(_term(f"example.com/{n}", "In", "x") for n in every)),
        "node selector terms that compare numbers": _with_terms(
            *(_term(NUMBERED, "Gt", str(1_000_000 + n)) for n in every)
        ),
        "expressions of one node selector term": _with_terms(
            NodeSelectorTerm(
                match_expressions=tuple(
                    NodeSelectorRequirement(key=make.HOSTNAME, operator="NotIn", values=(f"x{n}",))
                    for n in every
                )
            )
        ),
        "values of one node selector expression": _with_terms(
            _term(make.HOSTNAME, "In", *(f"x{n}" for n in every))
        ),
        "node selector": make.pod(
            "hostile", cpu="1", node_selector={f"example.com/{n}": "x" for n in every}
        ),
        "affinity to many": make.pod("hostile", cpu="1", near=[_to(f"app-{n}") for n in every]),
        "affinity to itself in many words": make.pod(
            "hostile", cpu="1", labels={"app": "me"}, near=[_all_but(n) for n in every]
        ),
        "affinity by namespaces": make.pod(
            "hostile",
            cpu="1",
            near=[
                PodAffinityTerm(
                    topology_key=make.HOSTNAME,
                    label_selector=make.selecting({"app": "x"}),
                    namespace_selector=make.selecting({"team": f"team-{n}"}),
                )
                for n in every
            ],
        ),
        "anti-affinity to many": make.pod(
            "hostile", cpu="1", apart=[_to(f"app-{n}") for n in every]
        ),
        "anti-affinity to everybody in many words": make.pod(
            "hostile",
            cpu="1",
            labels={"app": "me"},
            apart=[_all_but(n, LabelSelector()) for n in every],
        ),
        "anti-affinity over labels no node has": make.pod(
            "hostile", cpu="1", apart=[_to("web", key=f"example.com/{n}") for n in every]
        ),
        "tolerations": make.pod(
            "hostile",
            cpu="1",
            tolerations=[Toleration(key=f"example.com/{n}", operator="Exists") for n in every],
        ),
        "resources": make.pod("hostile", requests={f"example.com/{n}": "1" for n in every}),
        "containers": make.pod(
            "hostile",
            containers=[make.container(f"c{n}", requests={"cpu": "1m"}) for n in every],
        ),
        "claims that are not there": make.pod("hostile", cpu="1", pvcs=[f"c{n}" for n in every]),
        "host ports": make.pod("hostile", cpu="1", host_ports=[1 + n for n in every]),
    }


def _spread(key: str, value: str) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        max_skew=1, topology_key=key, label_selector=make.selecting({"app": value})
    )


def _term(key: str, operator: str, *values: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        match_expressions=(NodeSelectorRequirement(key=key, operator=operator, values=values),)
    )


def _with_terms(*terms: NodeSelectorTerm) -> Pod:
    return make.pod("hostile", cpu="1", node_affinity=NodeSelector(node_selector_terms=terms))


def _to(app: str, *, key: str = make.HOSTNAME) -> PodAffinityTerm:
    return PodAffinityTerm(topology_key=key, label_selector=make.selecting({"app": app}))


def _all_but(number: int, namespaces: LabelSelector | None = None) -> PodAffinityTerm:
    no_such_app = LabelRequirement(key="app", operator="NotIn", values=(f"none-{number}",))
    return PodAffinityTerm(
        topology_key=make.HOSTNAME,
        label_selector=make.selecting({}, no_such_app),
        namespace_selector=namespaces,
    )
