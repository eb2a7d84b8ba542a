// Made from the records of tonnage.board: see tests/board/typescript.py.

export interface BoardSample {
  at: number;
  groups: { [name: string]: number };
  pending: number;
  slots: { [name: string]: [number, number] };
  cost: number | null;
}

export interface ConsolidationSummary {
  held: string;
  underWay: string;
  unit: string;
  before: string;
  after: string;
  bound: string;
  savesPerHour: string;
  costOfMoves: string;
  buys: string[];
  waves: ConsolidationWave[];
  missed: string[];
}

export interface ConsolidationWave {
  wave: number;
  nodes: string[];
  moves: number;
  detach: number;
  price: string;
}

export interface DecisionMark {
  at: number;
  text: string;
  nodes: number;
  leftOut: number;
  failed: boolean;
}

export interface GroupRow {
  size: number;
  target: number;
  minSize: number;
  maxSize: number;
  pricePerHour: number | null;
}

export interface Head {
  title: string;
  mode: string;
  time: string;
  nodes: number;
  pods: number;
  pending: number;
  costPerHour: number | null;
  held: string;
  notes: string[];
  decides: boolean;
}

export interface Lane {
  id: string;
  name: string;
  kind: "resource" | "driver" | "disk";
  unit: "milli" | "MiB" | "count";
}

export interface LeftOut {
  pod: string;
  why: string;
  neverFits: boolean;
}

export interface LimitRow {
  group: string;
  type: string;
  driver: string;
  nodes: number;
  csinode: [number, number][];
  catalogue: number | null;
  agent: number | null;
  agentSource: string;
  learned: number | null;
  ceiling: number | null;
  next: number | null;
  source: string;
  disagree: boolean;
}

export interface NodesRefusing {
  nodes: number;
  reason: string;
}

export interface PendingRow {
  pods: string[];
  count: number;
  since: string;
  reason: string;
  refusals: NodesRefusing[];
  fits: number;
  cure: string;
  fate: string;
  bought: string;
  volumes: number;
}

export interface PlanSummary {
  nodes: number;
  pods: number;
  onExisting: number;
  leftOut: number;
  costPerHour: number | null;
  boundNodes: number;
  boundCost: number | null;
  gap: number;
  partial: boolean;
  purchases: PurchaseRow[];
  notHelped: LeftOut[];
  warnings: string[];
  differences: string[];
}

export interface PurchaseRow {
  group: string;
  nodes: number;
  size: number;
  maxSize: number;
  costPerHour: number | null;
  binding: string;
  pods: number;
  somePods: string[];
  reason: string;
}

export interface RemovalRow {
  fate: "going" | "goes" | "waits" | "blocked" | "needed" | "notOurs";
  group: string;
  why: string;
  wave: number | null;
  since: string;
  until: string;
  saves: string;
  moves: string[];
  detach: number;
  frees: string;
  fill: number;
}

export interface RemovalSummary {
  told: boolean;
  enabled: boolean;
  time: string;
  held: string;
  going: number;
  goes: number;
  waves: number;
  savesPerHour: number | null;
  consolidation: ConsolidationSummary | null;
}

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
