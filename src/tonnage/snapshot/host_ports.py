"""Host ports in use, by row."""

from collections.abc import Iterable

from tonnage.snapshot.classes import ANY_IP, HostPort


class HostPorts:
    """Holds a port as long as a pod of the row does."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, int], dict[int, dict[str, int]]] = {}

    def take(self, row: int, ports: Iterable[HostPort], pods: int = 1) -> None:
        """Take the ports for so many pods; a negative number gives them back."""
        for port in ports:
            rows = self._held.setdefault((port.protocol, port.port), {})
            holders = rows.setdefault(row, {})
            left = holders.get(port.ip, 0) + pods
            if left:
                holders[port.ip] = left
            else:
                holders.pop(port.ip, None)
                if not holders:
                    del rows[row]
                    if not rows:
                        del self._held[port.protocol, port.port]

    def give_back(self, row: int, ports: Iterable[HostPort]) -> None:
        self.take(row, ports, -1)

    def conflicts(self, wanted: Iterable[HostPort]) -> set[int]:
        """Rows where one of the wanted ports is taken; an address of 0.0.0.0 is every address."""
        rows: set[int] = set()
        for port in wanted:
            for row, holders in self._held.get((port.protocol, port.port), {}).items():
                if port.ip == ANY_IP or port.ip in holders or ANY_IP in holders:
                    rows.add(row)
        return rows
