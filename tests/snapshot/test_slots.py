"""The ledger of attach slots: every volume once per node, whoever uses or holds it."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.snapshot.histories import lean
from tonnage.objects.volumes import VolumeUse
from tonnage.snapshot.rows import RowTable
from tonnage.snapshot.slots import UNLIMITED, SlotLedger

A, B = VolumeUse("driver", "a"), VolumeUse("driver", "b")
OTHER = VolumeUse("other", "a")


def ledger(rows: int = 2) -> SlotLedger:
    table = RowTable()
    for _ in range(rows):
        table.allocate()
    return SlotLedger(table)


def counts(found: SlotLedger, driver: str = "driver", row: int = 0) -> tuple[int, int]:
    slots = found.driver(driver)
    return int(slots.used.data[row]), int(slots.idle_attachments.data[row])


def test_a_volume_is_counted_once_per_row() -> None:
    found = ledger()
    found.use(0, [A])
    found.use(0, [A, B])

    assert counts(found) == (2, 0)


def test_rows_are_counted_separately() -> None:
    found = ledger()
    found.use(0, [A])
    found.use(1, [A])
    found.unuse(0, [A])

    assert (counts(found, row=0), counts(found, row=1)) == ((0, 0), (1, 0))


def test_drivers_are_counted_separately() -> None:
    found = ledger()
    found.use(0, [A, OTHER])

    assert (counts(found), counts(found, "other")) == ((1, 0), (1, 0))


def test_an_attachment_holds_a_slot_only_while_nobody_uses_the_volume() -> None:
    found = ledger()
    found.attach(0, A)
    alone = counts(found)
    found.use(0, [A])
    in_use = counts(found)
    found.unuse(0, [A])

    assert (alone, in_use, counts(found)) == ((0, 1), (1, 0), (0, 1))


def test_taken_is_what_is_used_and_what_is_held() -> None:
    found = ledger()
    found.use(0, [A])
    found.attach(0, B)

    assert found.taken(found.driver("driver")).tolist() == [2, 0]


def test_a_listed_driver_without_a_limit_is_unlimited() -> None:
    found = ledger()
    found.set_limits(0, ["driver"], {}, csinode=True)

    assert found.driver("driver").limit.data[0] == UNLIMITED
    assert not found.has_limits.data[0]


def test_new_limits_take_the_place_of_all_old_ones() -> None:
    found = ledger()
    found.set_limits(0, ["driver", "other"], {"driver": 3, "other": 4}, csinode=True)
    found.set_limits(0, ["other"], {"other": 0}, csinode=True)

    assert found.driver("driver").limit.data[0] == UNLIMITED
    assert not found.driver("driver").listed.data[0]
    assert found.driver("other").limit.data[0] == 0


changes = st.lists(
    st.tuples(
        st.sampled_from(["use", "unuse", "attach", "detach"]),
        st.integers(0, 1),
        st.sampled_from([A, B, OTHER]),
    ),
    max_size=40,
)


@given(changes)
@lean(200)
def test_the_ledger_equals_a_recount(script) -> None:
    found = ledger()
    users: Counter[tuple[int, VolumeUse]] = Counter()
    attached: Counter[tuple[int, VolumeUse]] = Counter()
    for act, row, volume in script:
        if act == "use":
            found.use(row, [volume])
            users[row, volume] += 1
        elif act == "attach":
            found.attach(row, volume)
            attached[row, volume] += 1
        elif act == "unuse" and users[row, volume]:
            found.unuse(row, [volume])
            users[row, volume] -= 1
        elif act == "detach" and attached[row, volume]:
            found.detach(row, volume)
            attached[row, volume] -= 1
    for driver in ("driver", "other"):
        for row in (0, 1):
            used = {one for (at, one), count in users.items() if at == row and count}
            there = {one for (at, one), count in attached.items() if at == row and count}
            assert counts(found, driver, row) == (
                sum(one.driver == driver for one in used),
                sum(one.driver == driver for one in there - used),
            )
    assert {one for one in (A, B, OTHER) if found.users(one)} == {
        one for (_, one), count in users.items() if count
    }
