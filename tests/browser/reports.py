"""The reports that are looked at: an ordinary one, and those with something special."""

from collections.abc import Callable

import msgspec

from tests.report.timelines import sample, timeline
from tonnage.consolidation.right_size import SizeAdvice, StrandedShare, TypeAdvice
from tonnage.report import page
from tonnage.report.timeline import (
    Decided,
    Mark,
    PodCounts,
    Sample,
    SlotSample,
    StorageUse,
    Summary,
    Timeline,
)
from tonnage.simulation import demo_story, runner

NASTY = """<script>throw "x"</script> & "it's" </title></style><b>"""


def of_one_run() -> list[Timeline]:
    return [timeline(samples=20)]


def of_two_runs() -> list[Timeline]:
    return [timeline(label="csiAware=true"), timeline(label="csiAware=false", stuck=4)]


def of_the_demo() -> list[Timeline]:
    """The demo's two acts, without the waiting."""
    return [
        msgspec.structs.replace(runner.simulate(act.simulation), label=act.title)
        for act in demo_story.acts()
    ]


def of_a_day() -> list[Timeline]:
    """Every minute of it, in large numbers, with something to tell every half hour."""
    half_hours = range(0, 86_400, 1_800)
    return [
        msgspec.structs.replace(
            timeline(),
            duration=86_400.0,
            samples=tuple(
                sample(60.0 * n, pending=n % 700, ready=n, used=n % 5) for n in range(1440)
            ),
            decisions=tuple(
                Decided(at=float(at), deed="increase", group="db", nodes=1_000, reason="they fit")
                for at in half_hours
            ),
            marks=tuple(Mark(at=at + 60.0, text="scale db up") for at in half_hours[:36]),
        )
    ]


def of_nasty_names() -> list[Timeline]:
    """Names as long as Kubernetes lets them be, and words that look like HTML."""
    driver = "a-driver-with-a-very-long-name." * 6 + "example.com"
    run = msgspec.structs.replace(
        timeline(name=NASTY),
        description=f"{NASTY} {'unbroken' * 30}",
        samples=tuple(
            msgspec.structs.replace(
                sample(at),
                slots=(SlotSample(driver=driver, used=3, free=2, limit=5),),
                local_storage=(
                    StorageUse(driver=driver, used_bytes=2**30 // 3, total_bytes=2**30),
                ),
            )
            for at in (0.0, 300.0, 600.0)
        ),
        decisions=(
            Decided(at=1.0, deed="delete", group="g" * 253, nodes=1, reason=NASTY, error=NASTY),
        ),
        marks=(Mark(at=0.0, text=NASTY),),
        problems=(NASTY,),
    )
    return [
        msgspec.structs.replace(run, label=NASTY),
        msgspec.structs.replace(run, label="l" * 120),
    ]


def of_nothing() -> list[Timeline]:
    """A cluster in which nothing is decided, and nothing has a price or a slot."""
    nothing = Sample(at=0.0, pods=PodCounts(), nodes={}, slots=(), cost=0.0, cost_per_hour=0.0)
    quiet = (nothing, msgspec.structs.replace(nothing, at=600.0))
    return [Timeline(name="nothing", duration=600.0, samples=quiet, summary=Summary())]


def of_advice() -> SizeAdvice:
    """Types by the dozen, some of them nameless to us, and groups with names of any length."""
    driver = "a-driver-with-a-very-long-name." * 6 + "example.com"
    return SizeAdvice(
        pods=12_345,
        nodes_now=678,
        cost_now=1_234.5,
        types=tuple(
            TypeAdvice(
                instance_type=f"m{n}.{n}xlarge" if n else NASTY,
                price=0.096 * (n + 1),
                source="EC2 list, us-east-1, 2024-06-01",
                cpus=2.0 * n,
                memory_gib=8.0 * n,
                slots=25 if n % 2 else None,
                price_per_slot=0.003840 if n % 2 else None,
                nodes=9_000 - n,
                cost=864.0 + n,
                left_out=n % 3,
            )
            for n in range(50)
        ),
        mix={f"m{n}.{n}xlarge": 10 * n for n in range(1, 30)},
        mix_cost=860.0,
        bound=859.123,
        stranded=tuple(
            StrandedShare(group=name, driver=driver, cpu_milli=123_450, memory=2**40)
            for name in (NASTY, "g" * 120)
        ),
        warnings=(f"{NASTY} is no price",),
    )


REPORTS: dict[str, Callable[[], list[Timeline] | SizeAdvice]] = {
    "one-run": of_one_run,
    "two-runs": of_two_runs,
    "the-demo": of_the_demo,
    "a-day": of_a_day,
    "nasty-names": of_nasty_names,
    "nothing": of_nothing,
    "advice": of_advice,
}
WITH_CHARTS = [name for name in REPORTS if name != "advice"]


def html(name: str) -> str:
    made = REPORTS[name]()
    return page.advice_page(NASTY, made) if isinstance(made, SizeAdvice) else page.page(made)
