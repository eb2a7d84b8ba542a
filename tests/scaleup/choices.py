"""Options for tests of expanders, and what is chosen of them."""

import random

from tonnage.scaleup import expanders
from tonnage.scaleup.expanders import Notice, Option

GIB = 2**30


def option(
    group: str,
    *,
    nodes: int = 1,
    pods: int = 1,
    cpu: int = 1000,
    memory: int = 1,
    node_cpu: int = 4000,
    node_memory: int = 16,
    price: float | None = None,
    gpu: bool = False,
) -> Option:
    """CPU in thousandths, memory in GiB."""
    return Option(
        group=group,
        node_count=nodes,
        pod_count=pods,
        cpu_milli=cpu,
        memory=memory * GIB,
        node_cpu_milli=node_cpu,
        node_memory=node_memory * GIB,
        price_per_hour=price,
        gpu=gpu,
    )


def chain(names: str, *, seed: int = 0, **more) -> expanders.Chain:
    return expanders.chain(names, rng=random.Random(seed), **more)


def chosen(names: str, *options: Option, seed: int = 0, **more) -> str | None:
    found = chain(names, seed=seed, **more).choose(options)
    return found.group if found is not None else None


def possible(names: str, *options: Option, **more) -> set[str | None]:
    """What comes out for one seed or another."""
    return {chosen(names, *options, seed=seed, **more) for seed in range(30)}


def reasons(found: expanders.Chain) -> list[str]:
    return [notice.reason for notice in found.notices]


class Refusing:
    """An outside expander that wants none of it."""

    notices = (Notice(reason="No", message="no"),)

    def best(self, _: object) -> list[Option]:
        return []
