"""What tags of an Auto Scaling group say of its next node: labels, taints, resources, drivers.

A tag that cannot be read is a problem with a name, and the others count all the same.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tonnage.objects import durations, quantities
from tonnage.objects.meta import Quantity
from tonnage.objects.nodes import Taint
from tonnage.providers.protocol import GroupOptions

TEMPLATE = "k8s.io/cluster-autoscaler/node-template/"
LABEL, TAINT, RESOURCE = f"{TEMPLATE}label/", f"{TEMPLATE}taint/", f"{TEMPLATE}resources/"
OPTION, DRIVERS = f"{TEMPLATE}autoscaling-options/", f"{TEMPLATE}csi-driver"
DRIVER = f"{DRIVERS}/"
_EKS = "eks:"
_WHOLE = re.compile(r"[0-9]{1,9}", re.ASCII)
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

_THRESHOLDS = {
    "scaledownutilizationthreshold": "scale_down_utilization_threshold",
    "scaledowngpuutilizationthreshold": "scale_down_gpu_utilization_threshold",
}
_TIMES = {
    "scaledownunneededtime": "scale_down_unneeded_time",
    "scaledownunreadytime": "scale_down_unready_time",
    "maxnodeprovisiontime": "max_node_provision_time",
    "maxnodestartuptime": "max_node_startup_time",
}


class TagTemplate(NamedTuple):
    """`drivers` have a number where a tag gives one.

    They are `None` without such tags: then nobody has said anything about drivers.
    """

    labels: dict[str, str]
    taints: tuple[Taint, ...]
    resources: dict[str, Quantity]
    options: GroupOptions
    drivers: dict[str, int | None] | None
    problems: tuple[str, ...]


def read(tags: Mapping[str, str], *, group: str) -> TagTemplate:
    """All tags of a group."""
    reading = _Reading(group)
    for key, value in sorted(tags.items()):
        reading.tag(key, value)
    return TagTemplate(
        labels=reading.labels,
        taints=tuple(reading.taints),
        resources=reading.resources,
        options=GroupOptions(**reading.options),  # type: ignore[arg-type]
        drivers=reading.drivers,
        problems=tuple(reading.problems),
    )


class _Reading:
    def __init__(self, group: str) -> None:
        self._group = group
        self.labels: dict[str, str] = {}
        self.taints: list[Taint] = []
        self.resources: dict[str, Quantity] = {}
        self.options: dict[str, float | bool] = {}
        self.drivers: dict[str, int | None] | None = None
        self.problems: list[str] = []

    def tag(self, key: str, value: str) -> None:
        if key == DRIVERS:
            self._list(dict.fromkeys(self._drivers(key, value)))
        elif key.startswith(DRIVER):
            self._driver(key, value)
        elif key.startswith(LABEL):
            self.labels[key.removeprefix(LABEL)] = value
        elif key.startswith(TAINT):
            self._taint(key, value)
        elif key.startswith(RESOURCE):
            self._resource(key, value)
        elif key.startswith(OPTION):
            self._option(key, value)
        elif key.startswith(_EKS):
            self.labels.setdefault(key.removeprefix(_EKS), value)

    def _list(self, drivers: Mapping[str, int | None]) -> None:
        self.drivers = {**(self.drivers or {}), **drivers}

    def _driver(self, key: str, value: str) -> None:
        """A driver with its number; this tag is ours, upstream passes it over."""
        name = key.removeprefix(DRIVER)
        if not name or not _WHOLE.fullmatch(value):
            self._problem(key, value, "expected csi-driver/NAME with a number of volumes")
        else:
            self._list({name: int(value)})

    def _drivers(self, key: str, value: str) -> Iterable[str]:
        """Names only; upstream passes over what is none without a word."""
        names = [part.strip() for part in value.split(",")]
        for name in dict.fromkeys(filter(None, names)):
            if "=" in name or len(name.split()) != 1:
                self._problem(key, value, f"{name!r} is no name of a CSI driver")
            else:
                yield name

    def _taint(self, key: str, value: str) -> None:
        text, _, effect = value.rpartition(":")
        if effect not in _EFFECTS:
            self._problem(key, value, f"expected VALUE:EFFECT with one of {', '.join(_EFFECTS)}")
            return
        self.taints.append(Taint(key=key.removeprefix(TAINT), value=text, effect=effect))

    def _resource(self, key: str, value: str) -> None:
        try:
            good = quantities.exact(value) >= 0
        except ValueError:
            good = False
        if good:
            self.resources[key.removeprefix(RESOURCE)] = value
        else:
            self._problem(key, value, "expected a quantity such as 100Gi")

    def _option(self, key: str, value: str) -> None:
        name = key.removeprefix(OPTION).lower()
        if name in _THRESHOLDS:
            share = quantities.share(value)
            if share is None:
                self._problem(key, value, "expected a number from 0 to 1, such as 0.5")
            else:
                self.options[_THRESHOLDS[name]] = share
        elif name in _TIMES:
            seconds = durations.seconds(value)
            if seconds is None:
                self._problem(key, value, "expected a duration such as 10m")
            else:
                self.options[_TIMES[name]] = seconds
        elif name == "ignoredaemonsetsutilization":
            if value.lower() not in ("true", "false"):
                self._problem(key, value, "expected true or false")
            else:
                self.options["ignore_daemonsets_utilization"] = value.lower() == "true"
        else:
            self._problem(key, value, "there is no such option")

    def _problem(self, key: str, value: str, why: str) -> None:
        self.problems.append(f"group {self._group}: tag {key}={value}: {why}; left out")
