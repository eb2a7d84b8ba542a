"""The records of the board as TypeScript, so that the page is checked against what it is sent."""

import types
import typing
from typing import Any

import msgspec

from tonnage.board.history import BoardSample, DecisionMark
from tonnage.board.limit_rows import LimitRow
from tonnage.board.node_rows import Lane
from tonnage.board.page_state import GroupRow, Head
from tonnage.board.pending_rows import NodesRefusing, PendingRow
from tonnage.board.plan_summary import LeftOut, PlanSummary, PurchaseRow
from tonnage.board.removal_rows import (
    ConsolidationSummary,
    ConsolidationWave,
    RemovalRow,
    RemovalSummary,
)

RECORDS: tuple[type[msgspec.Struct], ...] = (
    BoardSample,
    ConsolidationSummary,
    ConsolidationWave,
    DecisionMark,
    GroupRow,
    Head,
    Lane,
    LeftOut,
    LimitRow,
    NodesRefusing,
    PendingRow,
    PlanSummary,
    PurchaseRow,
    RemovalRow,
    RemovalSummary,
)
HEAD = "// Made from the records of tonnage.board: see tests/board/typescript.py.\n"
TAIL = """
export interface Tables {
  nodes: number[];
  pending: PendingRow;
  removals: RemovalRow;
  limits: LimitRow;
  samples: BoardSample;
  decisions: DecisionMark;
  groups: GroupRow;
}

export interface Values {
  head: Head;
  lanes: Lane[];
  labels: string[];
  plan: PlanSummary | null;
  removal: RemovalSummary;
  workloads: string[];
}

declare global {
  interface Window {
    uPlot: any;
    tonnageChart: (box: HTMLElement, what: any) => { remove: () => void };
  }
}
"""
_PLAIN = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}


def declarations() -> str:
    """What `static/documents.d.ts` has to hold."""
    return HEAD + "".join(map(_interface, RECORDS)) + TAIL


def _interface(record: type[msgspec.Struct]) -> str:
    fields = (
        f"  {field.encode_name}: {_written(field.type)};\n"
        for field in msgspec.structs.fields(record)
    )
    return f"\nexport interface {record.__name__} {{\n{''.join(fields)}}}\n"


def _written(kind: Any) -> str:
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if kind in _PLAIN:
        return _PLAIN[kind]
    if origin in (typing.Union, types.UnionType):
        return " | ".join(map(_written, parts))
    if origin is typing.Literal:
        return " | ".join(f'"{one}"' for one in parts)
    if origin is tuple and parts[-1] is Ellipsis:
        inner = _written(parts[0])
        return f"({inner})[]" if " | " in inner else f"{inner}[]"
    if origin is tuple:
        return f"[{', '.join(map(_written, parts))}]"
    if origin is dict:
        return f"{{ [name: string]: {_written(parts[1])} }}"
    return str(kind.__name__)
