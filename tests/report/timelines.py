"""Timelines to show, without running anything."""

import msgspec

from tonnage.report.timeline import (
    Decided,
    Mark,
    PodCounts,
    Sample,
    SlotSample,
    Spread,
    StorageUse,
    Summary,
    Timeline,
)

DRIVER = "ebs.csi.aws.com"
LOCAL = "local.example.com"
GIB = 2**30


def sample(at: float, *, pending: int = 0, stuck: int = 0, ready: int = 1, used: int = 2) -> Sample:
    return Sample(
        at=at,
        pods=PodCounts(pending=pending, starting=stuck, stuck=stuck, running=7),
        nodes={"ready": ready, "comingUp": 1, "starting": 0, "requested": 2, "notReady": 0},
        slots=(SlotSample(driver=DRIVER, used=used, free=5 - used, limit=5),),
        cost=at / 3600,
        cost_per_hour=1.0,
    )


def timeline(*, label: str = "", name: str = "story", stuck: int = 0, samples: int = 3) -> Timeline:
    return Timeline(
        name=name,
        label=label,
        description="Pods <wait> & nodes come.",
        seed=7,
        duration=600.0,
        samples=tuple(sample(600.0 * n / (samples - 1), pending=n) for n in range(samples)),
        decisions=(
            Decided(at=61.0, deed="increase", group="db", nodes=3, pods=12, reason="they fit"),
            Decided(at=90.0, deed="increase", group="web", nodes=1, error="no stock"),
        ),
        marks=(Mark(at=60.0, text="scale db to 12"),),
        summary=Summary(
            pods_created=12,
            pods_ran=12 - stuck,
            stuck_at_end=stuck,
            time_to_running=Spread(count=12, p50=75.0, p99=130.0, longest=131.0),
            nodes_bought=3,
            cost=0.1667,
        ),
    )


def with_storage(run: Timeline, *, used: int, total: int) -> Timeline:
    """The run with a driver of local disks, in GiB, that comes after the first sample."""
    use = StorageUse(driver=LOCAL, used_bytes=used * GIB, total_bytes=total * GIB)
    first, *others = run.samples
    later = (msgspec.structs.replace(one, local_storage=(use,)) for one in others)
    return msgspec.structs.replace(run, samples=(first, *later))
