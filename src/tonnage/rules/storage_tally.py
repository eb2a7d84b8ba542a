"""What the claims of one pod take together of the storage that a plan has left.

Only where a plan keeps a ledger; kube-scheduler looks at each claim alone (`volume_binding`).
"""

import msgspec
import numpy as np

from tonnage.objects.storage import PersistentVolumeClaim
from tonnage.rules.causes import Cause, Reason, Shortage
from tonnage.rules.framework import Ask
from tonnage.snapshot.rows import Bools, Ints
from tonnage.snapshot.storage_ledger import StorageLedger, size_of

_WITHOUT_AMOUNTS = Reason(Cause.NOT_ENOUGH_STORAGE)


class _Refused(msgspec.Struct, frozen=True):
    """Rows that a claim does not fit on beside those before it."""

    rows: Bools
    class_name: str
    wanted: Ints
    capacity: Ints
    left: Ints


def storage_resource(class_name: str) -> str:
    """The name under which storage of a class is a resource among others."""
    return f"storage of class {class_name}"


class Tally:
    """Counts claims as they come; what they share a pool with is counted together."""

    def __init__(self, ask: Ask, ledger: StorageLedger) -> None:
        self._ask = ask
        self._ledger = ledger
        self._wanted: dict[int, Ints] = {}
        self._left: dict[int, Ints] = {}
        self._refused: list[_Refused] = []

    @property
    def claims_alone(self) -> bool:
        """Whether only what claims were given counts: what is published is asked as without it."""
        return self._ledger.claims_alone

    def counts(self, claim: PersistentVolumeClaim) -> bool:
        """Whether the claim says how much it wants of a class that is in the ledger."""
        return self._ledger.tracks(claim.class_name) and "storage" in claim.spec.resources.requests

    def add(self, claim: PersistentVolumeClaim, rows: Bools, *, again: bool = False) -> Bools:
        """Count a claim that needs a new volume on the rows; where there is room for it.

        `again` says that the pod names the claim a second time: it gets one volume all the same.
        """
        name, size = claim.class_name, size_of(claim)
        taking = np.zeros_like(rows) if again else self.takes(claim, rows)
        pool = self._ledger.pool(name)
        wanted = self._wanted.setdefault(pool, np.zeros(self._ask.size, dtype=np.int64))
        wanted[taking] += size
        left = self._ledger.left(name)
        if pool in self._left:
            left = np.minimum(left, self._left[pool])
        self._left[pool] = left
        capacity = self._ledger.capacity(name)
        if self.claims_alone:
            refused: Bools = taking & (size > left) & (left < capacity)
        else:
            refused = rows & (self._ledger.largest(name) < size) | taking & (wanted > left)
        if refused.any():
            capacity = capacity.copy()
            self._refused.append(_Refused(refused, name, wanted.copy(), capacity, left))
        return ~refused

    def reason(self, row: int) -> Reason:
        """Why a row is refused, with the amounts."""
        for one in self._refused:
            if one.rows[row]:
                has, left = int(one.capacity[row]), int(one.left[row])
                wanted = int(one.wanted[row])
                return Reason(
                    Cause.NOT_ENOUGH_STORAGE,
                    {
                        "storage_class": one.class_name,
                        "used": has - left,
                        "wanted": wanted,
                        "limit": has,
                    },
                    Shortage(
                        storage_resource(one.class_name),
                        wanted,
                        left,
                        temporary=left < wanted <= has,
                    ),
                )
        return _WITHOUT_AMOUNTS

    def takes(self, claim: PersistentVolumeClaim, rows: Bools) -> Bools:
        """Those of the rows where the claim takes something.

        Not where a pod that the plan has placed uses it too: its volume came with that one.
        """
        users = self._ask.snapshot.claim_users(claim.metadata.namespace, claim.metadata.name)
        taking = rows.copy()
        taking[[record.row for record in users]] = False
        return taking
