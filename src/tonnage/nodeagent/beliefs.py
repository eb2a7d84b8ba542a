"""Whether to believe what a driver says, and what full nodes have taught.

Some drivers take the volumes that pods hold for disks of the system when they are restarted, and
answer with a number that is too low by exactly those; some answer 0 on a full node, which means
"no limit" to whoever reads it. So an answer is weighed against the one before it.
"""

from tonnage.objects.meta import Record


class Memory(Record, frozen=True, kw_only=True):
    """What a driver last said, and what was believed instead.

    `held` counts the network interfaces and foreign disks there were then: a number may fall by
    as many as have come since.
    """

    answered: int
    believed: int
    held: int = 0


class Ceiling(Record, frozen=True, kw_only=True):
    """An attach was refused for lack of room while so many volumes were attached."""

    count: int
    held: int = 0
    at: int = 0
    """Seconds since 1970."""


def believe(
    memory: Memory | None,
    answered: int,
    *,
    attached: int,
    held: int,
    expected: int | None = None,
) -> Memory | None:
    """What to make of an answer; `None` if it says nothing and nothing was known.

    `attached` are the driver's volumes on the node, `expected` is what the machine should take
    by the tables. An answer is judged when it changes, not again while it is repeated: by then
    the pods that explain it may be gone.
    """
    if answered <= 0:
        return memory
    if memory is None:
        # Nothing to compare with but the tables; a driver with flags of its own may well differ
        # from them, so only the exact number gives it away.
        if expected is not None and 0 < attached == expected - answered:
            return Memory(answered=answered, believed=expected, held=held)
        return Memory(answered=answered, believed=answered, held=held)
    if answered == memory.answered:
        return memory
    explained = max(held - memory.held, 0)
    unexplained = memory.believed - answered - explained
    if 0 < unexplained <= attached:
        kept = memory.believed - explained
        return Memory(answered=answered, believed=kept, held=held)
    return Memory(answered=answered, believed=answered, held=held)


def ceiling_after(
    ceiling: Ceiling | None,
    *,
    refused: bool,
    attached: int,
    held: int,
    now: int,
    expires_after: float,
) -> Ceiling | None:
    """The ceiling after another look; `refused` says that an attach has just found no room.

    It is dropped when it proves wrong (more are attached), when something that shared the slots
    is gone, and after a while, so that a passing trouble does not shrink a node for ever.
    """
    if refused and attached > 0:
        if ceiling is not None and ceiling.count == attached:
            # Refused again at the same number: told once, renewed rarely.
            fresh = now - ceiling.at < expires_after / 2
            return ceiling if fresh else Ceiling(count=attached, held=held, at=now)
        return Ceiling(count=attached, held=held, at=now)
    if ceiling is None or attached > ceiling.count or held < ceiling.held:
        return None
    return ceiling if now - ceiling.at < expires_after else None
