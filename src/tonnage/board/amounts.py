"""Amounts as they stand in a sentence: cores and bytes have units, slots have a driver."""

_GIB = 2**30


def amount(resource: str, count: int) -> str:
    """`1.5 CPU`, `3.2 GiB memory`, `2 slots of ebs.csi.aws.com`."""
    if resource == "cpu":
        return f"{count / 1000:g} CPU"
    if resource in ("memory", "ephemeral-storage"):
        return f"{count / _GIB:.3g} GiB {resource}"
    if "." in resource and "/" not in resource:
        return f"{count:,} slot{'' if count == 1 else 's'} of {resource}"
    return f"{count:,} {resource}"
