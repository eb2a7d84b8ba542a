"""What differs between clusters: the version, its feature gates, and our own options.

Copied once into a plain record and handed to the rules, which read nothing else.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from tonnage.errors import InputError
from tonnage.objects.meta import Record
from tonnage.snapshot import limits

OLDEST, NEWEST = (1, 34), (1, 37)

GATES = (
    "VolumeLimitScaling",
    "NodeDeclaredFeatures",
    "TaintTolerationComparisonOperators",
    "AttachVolumeLimit",
)
"""The gates that are modelled: those that decide where pods fit."""

_MISSPELT = 0.8
"""So alike is no gate of Kubernetes to one of these, unless it is meant to be that one."""


class Features(Record, frozen=True, kw_only=True):
    """How kube-scheduler of one version with these gates behaves.

    `enforce_opt_in`, `legacy_attach_limits` and `returning_volume_once` are ours, and off where we
    compare with kube-scheduler.
    """

    version: tuple[int, int] = NEWEST
    volume_limit_scaling: bool = True
    node_declared_features: bool = True
    taint_comparison_operators: bool = False
    attach_volume_limit: bool = True
    enforce_opt_in: bool = False
    """Somebody of ours enforces the opt-in, whatever the version and its gates: see `opt_in`."""
    legacy_attach_limits: bool = False
    max_pd_vols: int | None = None
    """What the scheduler's `KUBE_MAX_PD_VOLS` says, for volumes of in-tree plugins."""
    returning_volume_once: bool = False
    more_rules: tuple[Any, ...] = ()
    """Rules of one's own, asked after those there are: `registry.rules`. A protocol is no type for
    a record that is read from JSON."""

    @property
    def limit_reader(self) -> limits.LimitReader:
        """Where limits of nodes are read from.

        With the gate of the KEP of 2018 off, its accounting is as good as not asked for.
        """
        if not (self.legacy_attach_limits and self.attach_volume_limit):
            return limits.from_csinode
        return partial(limits.from_csinode_and_allocatable, max_pd_vols=self.max_pd_vols)

    @property
    def opt_in_by_existence(self) -> bool:
        """1.35 has no field to opt in by: any CSIDriver object enforces."""
        return self.version == (1, 35)

    @property
    def node_name_first(self) -> bool:
        """1.37 looks at the requested node before cordons, and names it before filtering."""
        return self.version >= (1, 37)

    @property
    def namespace_selectors_leak(self) -> bool:
        """1.34 to 1.36 also match an incoming pod's namespaceSelector against no labels at all."""
        return self.version < (1, 37)


def of_version(
    version: str = "",
    gates: Mapping[str, bool] | None = None,
    *,
    legacy_attach_limits: bool = False,
    max_pd_vols: int | None = None,
    returning_volume_once: bool = False,
) -> Features:
    """The features of a Kubernetes version such as "1.37", with gates switched by name.

    Gates that do not matter to scheduling are accepted; one that is surely misspelt is not, nor a
    version that is not known.
    """
    number = parse_version(version) if version else NEWEST
    asked = gates or {}
    check_gates(asked)
    return Features(
        version=number,
        # Before 1.35 the gate does not exist, so it cannot be switched on either.
        volume_limit_scaling=number >= (1, 35)
        and asked.get("VolumeLimitScaling", number >= (1, 37)),
        node_declared_features=asked.get("NodeDeclaredFeatures", number >= (1, 36)),
        taint_comparison_operators=asked.get("TaintTolerationComparisonOperators", False),
        attach_volume_limit=asked.get("AttachVolumeLimit", True),
        legacy_attach_limits=legacy_attach_limits,
        max_pd_vols=max_pd_vols,
        returning_volume_once=returning_volume_once,
    )


def check_gates(names: Iterable[str], *, field: str = "") -> None:
    """`InputError` for a name that is surely meant to be a gate we model."""
    place = f"`{field}`: " if field else ""
    for name in names:
        if misspelt(name):
            raise InputError(f"{place}there is no feature gate {name}; expected {_listed(name)}")


def misspelt(name: str) -> str:
    """The gate that is meant by a name that is not quite one; empty for all other names."""
    near = _nearest_first(name)[0]
    return near if name != near and _likeness(name, near) >= _MISSPELT else ""


def without_effect(names: Iterable[str]) -> str:
    """What to say of gates that change nothing here; empty if all do.

    Kubernetes has hundreds, and whoever copies the flags of a scheduler copies some of them.
    """
    unknown = [name for name in names if name not in GATES]
    if not unknown:
        return ""
    what = "feature gate" if len(unknown) == 1 else "feature gates"
    return (
        f"{what} {', '.join(unknown)}: of no effect here; those that have one are"
        f" {', '.join(_nearest_first(unknown[0]))}"
    )


def _listed(name: str) -> str:
    *first, last = _nearest_first(name)
    return f"{', '.join(first)} or {last}"


def _nearest_first(name: str) -> list[str]:
    return sorted(GATES, key=lambda gate: -_likeness(name, gate))


def _likeness(name: str, gate: str) -> float:
    import difflib  # only who misspells has to wait for it

    return difflib.SequenceMatcher(None, name.lower(), gate.lower()).ratio()


def parse_version(text: str) -> tuple[int, int]:
    """Major and minor of "1.37", "v1.37.2" or "1.36.0-eks-1"."""
    parts = text.removeprefix("v").split(".")
    try:
        number = (int(parts[0]), int(parts[1].split("-")[0].rstrip("+")))
    except (IndexError, ValueError):
        raise InputError(f"Kubernetes version {text!r}: expected something like 1.37") from None
    if not OLDEST <= number <= NEWEST:
        raise InputError(
            f"Kubernetes version {text!r}: versions 1.{OLDEST[1]} to 1.{NEWEST[1]} are modelled;"
            " name the nearest of them"
        )
    return number


def nearest_version(text: str) -> str:
    """Of the versions that are modelled, the one nearest to what a server says it is."""
    parts = text.removeprefix("v").split(".")
    try:
        number = (int(parts[0]), int("".join(c for c in parts[1] if c.isdigit())))
    except (IndexError, ValueError):
        number = NEWEST
    major, minor = min(max(number, OLDEST), NEWEST)
    return f"{major}.{minor}"
