"""Attacks of a tenant, who may create pods in one namespace and nothing else."""

import json
from collections import Counter

from tests.attacks.scene import Scene
from tests.e2e import hostile_pods, manifests
from tests.e2e.controlplane import KubectlError

STORED = "stored"
REFUSED = "refused by the API server"

Answers = Counter[str]

NESTED = 50
SPREAD, CONSTRAINTS = 4, 1_600
RESOURCES = 60_000


def nested(scene: Scene) -> Answers:
    """Somebody's fields, as deep as the API server takes them."""
    for number in range(NESTED):
        scene.tenant.post_pod(hostile_pods.nested(f"nested-{number}"))
    scene.wait_known(NESTED)
    scene.wait_decided(NESTED)
    scene.remove_pods()
    return Counter({STORED: NESTED})


def spread(scene: Scene) -> Answers:
    """Pods that are to be spread over more labels than there are nodes."""
    constraints = hostile_pods.spread(CONSTRAINTS)
    for number in range(SPREAD):
        pod = manifests.pod(f"spread-{number}", namespace=scene.namespace, cpu="1", **constraints)
        scene.tenant.post_pod(json.dumps(pod))
    scene.wait_known(SPREAD)
    scene.wait_decided(SPREAD)
    scene.remove_pods()
    return Counter({STORED: SPREAD})


def resources(scene: Scene) -> Answers:
    """Names of resources that no node has, in as few pods as the API server stores them in.

    The scheduler does not get so far as to say that it has no node for such a pod; it is said in
    its place, so that `run` is asked to help.
    """
    answers = post_resources(scene, RESOURCES)
    scene.mark_unschedulable()
    scene.wait_known(stored(answers))
    scene.wait_decided(stored(answers))
    scene.remove_pods()
    return answers


def post_resources(scene: Scene, size: int) -> Answers:
    """Pods with so many names each, or half as many for as long as that is refused."""
    names = [f"a/{number:05x}" for number in range(RESOURCES)]
    answers: Answers = Counter()
    while names:
        pod = hostile_pods.asking_for(f"resources-{len(names)}", names[:size])
        try:
            scene.tenant.post_pod(pod)
        except KubectlError:
            answers[f"{REFUSED}: {size:,} names in a pod"] += 1
            size //= 2
        else:
            answers[f"{STORED}: {min(size, len(names)):,} names in a pod"] += 1
            names = names[size:]
    return answers


def stored(answers: Answers) -> int:
    return sum(count for told, count in answers.items() if told.startswith(STORED))
