"""What differs between clusters: the version, its feature gates, and our own options.

Copied once into a plain record and handed to the rules, which read nothing else.
"""

from collections.abc import Mapping

from tonnage.errors import InputError
from tonnage.objects.meta import Record

OLDEST, NEWEST = (1, 34), (1, 37)


class Features(Record, frozen=True, kw_only=True):
    """How kube-scheduler of one version with these gates behaves.

    `legacy_attach_limits` and `returning_volume_once` are ours, and off where we compare
    with kube-scheduler.
    """

    version: tuple[int, int] = NEWEST
    volume_limit_scaling: bool = True
    node_declared_features: bool = True
    taint_comparison_operators: bool = False
    attach_volume_limit: bool = True
    legacy_attach_limits: bool = False
    returning_volume_once: bool = False

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
    returning_volume_once: bool = False,
) -> Features:
    """The features of a Kubernetes version such as "1.37", with gates switched by name.

    Gates that do not matter to scheduling are accepted; a version that is not known is not.
    """
    number = parse_version(version) if version else NEWEST
    asked = gates or {}
    return Features(
        version=number,
        # Before 1.35 the gate does not exist, so it cannot be switched on either.
        volume_limit_scaling=number >= (1, 35)
        and asked.get("VolumeLimitScaling", number >= (1, 37)),
        node_declared_features=asked.get("NodeDeclaredFeatures", number >= (1, 36)),
        taint_comparison_operators=asked.get("TaintTolerationComparisonOperators", False),
        attach_volume_limit=asked.get("AttachVolumeLimit", True),
        legacy_attach_limits=legacy_attach_limits,
        returning_volume_once=returning_volume_once,
    )


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
