"""`python -m tests.attacks [NAME...]`: attacks `run` and `extender` on a real control plane.

Prints a table: what was tried, what was answered, memory and health meanwhile. The exit code is 1
if an answer was another than expected, a health check failed or a program came to harm.
"""

import argparse
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tests.attacks import pods, ports
from tests.attacks.scene import GROUP, LIMIT, POOL, Scene, scene
from tests.attacks.targets import Observation
from tests.e2e.scale_up import DRIVER, stateful_set
from tonnage.embedded.world.behaviour import DriverBehaviour

DESCRIPTORS = 10_000
GROWTH = 250.0
"""MB that a program may need beyond what it had before the first attack, at any time."""

HEAD = (
    "| attack | answered | `run`: MB before, most, after | longest `/healthz` |"
    " extender: MB before, most, after | longest `/healthz` |"
)


class Attack(NamedTuple):
    """Answers are expected to begin with one of `answers`."""

    title: str
    carry_out: Callable[[Scene], Counter[str]]
    answers: tuple[str, ...]


class Row(NamedTuple):
    title: str
    answers: Counter[str]
    seen: tuple[Observation, ...]
    problems: tuple[str, ...]


ATTACKS = {
    "nested": Attack("pods nested 9,993 deep", pods.nested, (pods.STORED,)),
    "spread": Attack("pods with 1,600 spread constraints", pods.spread, (pods.STORED,)),
    "resources": Attack(
        "pods with 60,000 resource names in all", pods.resources, (pods.STORED, pods.REFUSED)
    ),
    "uncertified": Attack(
        "questions to the extender without a certificate", ports.uncertified, ("403",)
    ),
    "made-up": Attack(
        "made-up pods with the scheduler's certificate",
        ports.made_up,
        (ports.NO_SUCH_POD, "429"),
    ),
    "idle-tls": Attack(
        "idle TLS connections to the extender",
        ports.idle_tls,
        (ports.CLOSED, ports.STILL_OPEN),
    ),
    "silent": Attack(
        "silent TCP connections, half of them to each",
        ports.silent,
        (ports.CLOSED, ports.STILL_OPEN),
    ),
    "large": Attack(
        "questions of 8 MiB and of a byte more", ports.large, (ports.NO_SUCH_POD, "413", "429")
    ),
    "lies": Attack("bodies whose encoding lies", ports.lies, ("400", "404", "405", "408")),
    "nonsense": Attack("malformed requests", ports.nonsense, ("400", ports.CLOSED)),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *ATTACKS], metavar="NAME")
    names = parser.parse_args().names or ATTACKS
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(DESCRIPTORS, most), most))
    with (
        tempfile.TemporaryDirectory(prefix="tonnage-attacks-") as scratch,
        scene(Path(scratch)) as made,
    ):
        first = {target.name: target.megabytes() for target in made.targets}
        rows = []
        for name in names:
            rows.append(attacked(made, ATTACKS[name], first))
            print(f"{rows[-1].title}: {shown(rows[-1].answers)}", file=sys.stderr, flush=True)
        problems = [f"{row.title}: {one}" for row in rows for one in row.problems]
        problems += aftermath(made)
    print(table(rows))
    for problem in problems:
        print(f"attacks: {problem}", file=sys.stderr)
    return 1 if problems else 0


def attacked(made: Scene, attack: Attack, first: dict[str, float]) -> Row:
    """One attack, with both programs watched until it is over."""
    seen = tuple(Observation(target) for target in made.targets)
    answers: Counter[str] = Counter()
    problems = []
    with ExitStack() as stack:
        for one in seen:
            stack.enter_context(one.going_on())
        try:
            answers = attack.carry_out(made)
        except AssertionError as error:
            problems.append(str(error).partition("\n")[0])
    problems += [
        f"answered {answer} {count} times, expected one of {', '.join(attack.answers)}"
        for answer, count in answers.items()
        if count and not answer.startswith(attack.answers)
    ]
    for one in seen:
        name = one.target.name
        if one.failed:
            problems.append(f"{one.failed} of {one.probes} health checks of {name} failed")
        if one.most - first[name] > GROWTH:
            problems.append(f"{name} grew from {first[name]:.0f} to {one.most:.0f} MB")
    return Row(attack.title, answers, seen, tuple(problems))


def aftermath(made: Scene) -> list[str]:
    """What is wrong afterwards: nothing, if both still run, and somebody honest gets a node."""
    problems = [f"{target.name} has ended" for target in made.targets if not target.program.running]
    if problems:
        return problems
    if made.autoscaler.says("leadership lost"):
        problems.append("run has lost its lease")
    stage = made.stage
    stage.play(DriverBehaviour(name=DRIVER, limit=LIMIT, nodes=(f"{GROUP}*",)))
    began = time.monotonic()
    stage.cluster.create(stateful_set("db", 2, namespace=stage.work.namespace, selector=POOL))
    try:
        stage.wait_running(2, within=60)
    except AssertionError as error:
        problems.append(str(error).partition("\n")[0])
    seconds = time.monotonic() - began
    print(f"afterwards: 2 honest pods run on a new node after {seconds:.1f} s", file=sys.stderr)
    return problems


def table(rows: Iterable[Row]) -> str:
    lines = [HEAD, "|---|---|---|---|---|---|"]
    for row in rows:
        cells = [f"{row.answers.total():,} {row.title}", shown(row.answers)]
        for one in row.seen:
            cells.append(f"{one.before:.0f}, {one.most:.0f}, {one.after:.0f}")
            cells.append(f"{one.longest * 1000:,.0f} ms of {one.probes}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def shown(answers: Counter[str]) -> str:
    return ", ".join(f"{answer} ({count:,})" for answer, count in answers.most_common() if count)


if __name__ == "__main__":
    sys.exit(main())
