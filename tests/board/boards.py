"""Clusters for the board, and what the page would know after all it was sent."""

import gzip
from collections.abc import Sequence
from typing import Any

import msgspec

from tests.scaleup.groups import group
from tonnage.api import Cluster
from tonnage.board import sources
from tonnage.board.feed import Feed
from tonnage.board.page_state import StateReader
from tonnage.objects.kinds import KubeObject
from tonnage.testing import builders as make

DRIVER = "disk.example.com"
NOW = 1_800_000_000.0


def database(name: str, node: str = "") -> list[KubeObject]:
    """A pod with a volume of its own, attached where it runs; without a node it waits."""
    if not node:
        return [
            make.pvc(f"{name}-data", storage_class="fast"),
            make.pod(name, pvcs=[f"{name}-data"], cpu="1"),
        ]
    claim = make.pvc(f"{name}-data", volume=f"{name}-pv")
    return [
        claim,
        make.pv(f"{name}-pv", driver=DRIVER, claim=claim),
        make.attachment(f"{name}-pv", node, attacher=DRIVER),
        make.pod(name, pvcs=[f"{name}-data"], on=node, cpu="1"),
    ]


def full_nodes(*, waiting: int = 3, limit: int = 2) -> list[KubeObject]:
    """Two nodes of a group whose slots are taken, one of them by a volume without a pod."""
    left_behind = make.pvc("old", volume="old-pv")
    return [
        make.storage_class("fast", provisioner=DRIVER),
        make.node("n1", cpu="8", memory="16Gi"),
        make.csinode("n1", {DRIVER: limit}),
        make.node("n2", cpu="8", memory="16Gi"),
        make.csinode("n2", {DRIVER: limit}),
        *database("db-0", "n1"),
        *database("db-1", "n1"),
        *database("db-2", "n2"),
        left_behind,
        make.pv("old-pv", driver=DRIVER, claim=left_behind),
        make.attachment("old-pv", "n2", attacher=DRIVER),
        *(one for number in range(waiting) for one in database(f"new-{number}")),
        group("db", nodes=("n1", "n2"), most=9, price="0.5", template=False),
    ]


def a_feed() -> Feed:
    return Feed(StateReader(title="a cluster", mode="file", decides=False))


def published(objects: Sequence[KubeObject], feed: Feed | None = None) -> Feed:
    feed = feed or a_feed()
    sources.of_files(Cluster(objects), feed, now=NOW)
    return feed


def shown(feed: Feed) -> dict[str, Any]:
    """The whole state as a page that comes new gets it."""
    found: dict[str, Any] = msgspec.json.decode(gzip.decompress(feed.packed()))
    return found


def applied(state: dict[str, Any], parts: list[bytes]) -> dict[str, Any]:
    """The state after differences, as the page applies them."""
    for part in parts:
        told = msgspec.json.decode(part)
        for name, key, *row in told["changes"]:
            if not name:
                state["values"][key] = row[0]
            elif row:
                state["tables"][name][key] = row[0]
            else:
                del state["tables"][name][key]
        state["revision"] = told["revision"]
    return state
