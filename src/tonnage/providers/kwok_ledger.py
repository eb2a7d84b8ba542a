"""Which machines were asked for, by name, in a ConfigMap: what survives a restart.

A machine is wanted from the request on and leaving from its deletion on; the nodes follow. A
request chooses names before it is written down, so writing it a second time, after an answer
that got lost or another replica that was faster, changes nothing.
"""

from collections.abc import Callable, Mapping

import msgspec

from tonnage.cluster import errors
from tonnage.cluster.client import Client
from tonnage.cluster.records import ConfigMap
from tonnage.errors import ProviderError
from tonnage.objects.codec import UNDECODABLE
from tonnage.objects.meta import ObjectMeta, Record
from tonnage.objects.scenarios import NodeGroup
from tonnage.objects.validation import describe

_ATTEMPTS = 20
"""Writers that may be faster than us in a row; each of them made progress."""


class LedgerMachines(Record, frozen=True, kw_only=True):
    """The machines of one group; `wanted` are its target, no name is in both.

    `declared` is the group as it was last understood, for as long as it has machines: whoever
    comes after us may find it misspelt.
    """

    wanted: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()
    declared: NodeGroup | None = None

    def with_wanted(self, names: tuple[str, ...]) -> "LedgerMachines":
        """These too; one on its way out stays so."""
        known = {*self.wanted, *self.leaving}
        new = tuple(name for name in names if name not in known)
        return msgspec.structs.replace(self, wanted=(*self.wanted, *new))

    def with_leaving(self, names: tuple[str, ...]) -> "LedgerMachines":
        """These are on their way out; one that is not known is gone already."""
        going = set(names)
        return msgspec.structs.replace(
            self,
            wanted=tuple(name for name in self.wanted if name not in going),
            leaving=(*self.leaving, *(name for name in self.wanted if name in going)),
        )

    def without(self, gone: frozenset[str]) -> "LedgerMachines":
        """Those that were on their way out and are gone are forgotten."""
        staying = tuple(name for name in self.leaving if name not in gone)
        return msgspec.structs.replace(self, leaving=staying)

    def noting(self, group: NodeGroup | None) -> "LedgerMachines":
        """With the group as it is now, or without one if it is gone."""
        noted = group if self.wanted or self.leaving else None
        return msgspec.structs.replace(self, declared=noted)


Book = Mapping[str, LedgerMachines]
"""Machines by group."""


class Ledger:
    """The ConfigMap; every change is made to its newest version or not at all.

    `problems` are the entries that could not be read last, by group: they stay as they are.
    """

    def __init__(self, client: Client, *, name: str, namespace: str) -> None:
        self._client = client
        self._name = name
        self._namespace = namespace
        self.problems: dict[str, str] = {}

    async def read(self) -> Book:
        return self._book(await self._read())

    async def change(self, change: Callable[[Book], Book]) -> Book:
        """Write what `change` makes of the newest book; it may be asked several times.

        What it raises leaves everything as it was.
        """
        for _ in range(_ATTEMPTS):
            stored = await self._read()
            before = self._book(stored)
            after = change(before)
            if after == before:
                return after
            try:
                await self._write(stored, after)
            except errors.Conflict:
                continue
            return after
        raise ProviderError(
            f"ConfigMap {self._namespace}/{self._name}: others were {_ATTEMPTS} times faster",
            cause="transient",
        )

    async def _read(self) -> ConfigMap | None:
        try:
            return await self._client.get(ConfigMap, self._name, namespace=self._namespace)
        except errors.NotFound:
            return None

    async def _write(self, stored: ConfigMap | None, book: Book) -> None:
        data = {name: msgspec.json.encode(book[name]).decode() for name in sorted(book)}
        if stored is None:
            meta = ObjectMeta(name=self._name, namespace=self._namespace)
            await self._client.create(ConfigMap, ConfigMap(metadata=meta, data=data))
            return
        unread = {name: stored.data[name] for name in self.problems}
        changed = msgspec.structs.replace(stored, data={**data, **unread})
        await self._client.replace(ConfigMap, changed)

    def _book(self, stored: ConfigMap | None) -> Book:
        book: dict[str, LedgerMachines] = {}
        self.problems = {}
        for group, text in stored.data.items() if stored is not None else ():
            try:
                book[group] = msgspec.json.decode(text, type=LedgerMachines)
            except UNDECODABLE:
                self.problems[group] = (
                    f"ConfigMap {self._namespace}/{self._name}: data.{group}: expected JSON such"
                    f' as {{"wanted": ["{group}-x7k2p"]}}, found {describe(text)}'
                )
        return book
