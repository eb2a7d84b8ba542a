"""Which Auto Scaling groups are ours, in upstream's words for it."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tonnage.errors import InputError

PREFIX = "asg:tag="


class WantedGroups(NamedTuple):
    """Groups by name with sizes of their own, and all groups that have all of these tags.

    A tag with no value is one that has to be there, whatever its value.
    """

    sizes: Mapping[str, tuple[int, int]]
    tags: Mapping[str, str | None]

    @property
    def filters(self) -> list[dict[str, Any]]:
        """The tags as the API takes them; each has to fit."""
        return [
            {"Name": "tag-key", "Values": [key]}
            if value is None
            else {"Name": f"tag:{key}", "Values": [value]}
            for key, value in self.tags.items()
        ]


def parse(specs: Iterable[str], sizes: Mapping[str, tuple[int, int]]) -> WantedGroups:
    """From `--node-group-auto-discovery asg:tag=KEY[=VALUE],...` and `--nodes MIN:MAX:NAME`.

    The tags of several specs have to fit together, as upstream has it.
    """
    tags: dict[str, str | None] = {}
    for spec in specs:
        if not spec.startswith(PREFIX) or not spec.removeprefix(PREFIX):
            raise InputError(
                f"--node-group-auto-discovery {spec}: expected {PREFIX}KEY[=VALUE],... for AWS"
            )
        for part in spec.removeprefix(PREFIX).split(","):
            key, equals, value = part.partition("=")
            if not key:
                raise InputError(f"--node-group-auto-discovery {spec}: a tag without a key")
            tags[key] = value if equals else None
    if not tags and not sizes:
        raise InputError(
            "--provider aws needs to know its groups: --node-group-auto-discovery"
            f" {PREFIX}k8s.io/cluster-autoscaler/enabled, or --nodes MIN:MAX:NAME"
        )
    return WantedGroups(dict(sizes), tags)
