"""Numbers out of the text that a component serves at `/metrics`."""

import re


def count(text: str, name: str, **labels: str) -> int:
    """The value of a metric with these labels, 0 if there is none."""
    for line in re.findall(rf"^{name}[{{ ].*$", text, re.MULTILINE):
        if all(f'{label}="{value}"' in line for label, value in labels.items()):
            return int(float(line.rpartition(" ")[2]))
    return 0


def known(text: str, kind: str) -> int:
    """How many objects of a kind the component has heard of."""
    return count(text, "tonnage_cache_objects", kind=kind)
