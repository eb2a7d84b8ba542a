"""Priorities of node groups from the text that upstream's ConfigMap has, which is YAML."""

import yaml

from tonnage.errors import InputError
from tonnage.scaleup.priorities import Priorities, read_priorities


def parse_priorities(text: str) -> Priorities:
    """What the ConfigMap `cluster-autoscaler-priority-expander` has under `priorities`.

    A YAML map from whole numbers to lists of regular expressions. Upstream's dialect of these
    and ours mean the same but for rarities; what ours does not have is an error.
    """
    try:
        content = yaml.load(text, Loader=_PlainLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"priorities: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict) or not content:
        raise InputError(
            "priorities: expected a map from priorities to lists of regular expressions, "
            "such as {10: ['.*spot.*']}"
        )
    return read_priorities(content)


class _PlainLoader(yaml.SafeLoader):
    """Reads whole numbers and nothing; `yes`, dates and fractions stay the text they are."""


_PlainLoader.yaml_implicit_resolvers = {
    first: [
        (tag, form) for tag, form in resolvers if tag.rpartition(":")[2] in ("int", "null", "merge")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
