"""Options of a decision, up or down: upstream's flags in camelCase, and a few of our own."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Literal, TypeAlias

import msgspec

from tonnage.errors import InputError
from tonnage.groups.consolidation_options import ConsolidationOptions
from tonnage.groups.headroom import SlotHeadroom
from tonnage.groups.policy import GroupPolicy
from tonnage.groups.scale_down_options import ScaleDownOptions
from tonnage.objects import codec, complexity, durations, strictness, timestamps
from tonnage.objects.phrases import near_names
from tonnage.objects.scenarios import LimitOverrides, SlotPool
from tonnage.objects.validation import describe
from tonnage.rules.opt_in import Enforcement

NOW = "now"

UPSTREAM: Literal["cluster-autoscaler-1.37"] = "cluster-autoscaler-1.37"
Compatibility: TypeAlias = Literal["none", "cluster-autoscaler-1.37"]

FreedRoomMode: TypeAlias = Literal["never", "careful", "eager"]

TOTALS = "^(?:([0-9]+):)?([0-9]+)$"
"""What a total looks like: the most, or MIN:MAX."""


class Totals(msgspec.Struct, frozen=True):
    """What all nodes together may not fall below, and not exceed."""

    least: int
    most: int


def totals(value: int | str, *, field: str) -> Totals:
    """Read `MIN:MAX`, or the maximum alone."""
    parts = re.fullmatch(TOTALS, str(value))
    least, most = (int(parts[1] or 0), int(parts[2])) if parts is not None else (1, 0)
    if least > most:
        raise InputError(f"`{field}`: {value!r}: expected a number, or MIN:MAX such as 8:320000")
    return Totals(least, most)


class Options(ScaleDownOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to decide. `compatibility` turns off what goes beyond upstream, for comparing."""

    expander: str = "least-waste"
    csi_aware: bool = True
    compatibility: Compatibility = "none"
    enforce_opt_in: Enforcement = "auto"
    max_nodes_total: int = 0
    max_nodes_per_scale_up: int = msgspec.field(default=1000, name="maxNodesPerScaleUp")
    balance_similar_node_groups: bool = False
    balancing_ignore_labels: tuple[str, ...] = ()
    balancing_labels: tuple[str, ...] = ()
    cores_total: int | str = 320_000
    memory_total: int | str = 6_400_000
    """In GiB; as for cores, the most there may be, or MIN:MAX."""
    expendable_pods_priority_cutoff: int = -10
    new_pod_scale_up_delay: float = 0.0
    claim_bind_wait: float = 30.0
    force_ds: bool = False
    startup_taints: tuple[str, ...] = ()
    startup_taint_prefixes: tuple[str, ...] = ()
    status_taints: tuple[str, ...] = ()
    max_total_unready_percentage: float = 45.0
    ok_total_unready_count: int = 3
    max_node_startup_time: float = 900.0
    driver_registration_timeout: float = 900.0
    require_driver_counts: bool = False
    optimise_seconds: float = 5.0
    """What the expander `least-cost` may take to look at all groups together."""
    priorities: dict[str, list[str]] = {}
    grpc_expander_url: str = ""
    grpc_expander_cert: str = ""
    random_seed: int = 0
    time_budget: float = 0.0
    max_pod_complexity: int = complexity.MOST
    """Rules of a pod, and what they name, past which it is decided on last and alone; 0: no end."""
    max_round_complexity: int = 0
    """The same of all pods together; those past it, fairly by namespace, are decided on last."""
    set_apart_time_budget: float = 0.0
    """Seconds for all pods that are decided on last; 0: no end."""
    pools: tuple[SlotPool, ...] = ()
    limits: LimitOverrides = LimitOverrides()
    headroom: SlotHeadroom | tuple[SlotHeadroom, ...] = ()
    """Attach slots to be kept free: one entry, or a list of them."""
    look_ahead: bool = False
    """Whether room is counted for pods that controllers are known to make next."""
    look_ahead_time: float = 900.0
    """Seconds since its last pod after which a controller is no longer looked ahead at."""
    consolidation: ConsolidationOptions = ConsolidationOptions()
    wait_for_freed_room: FreedRoomMode = "careful"
    """Whether a pod waits for room that is being freed rather than for a node to be bought."""

    @property
    def cores(self) -> Totals:
        return totals(self.cores_total, field="coresTotal")

    @property
    def memory(self) -> Totals:
        """In GiB."""
        return totals(self.memory_total, field="memoryTotal")

    @property
    def kept_slots(self) -> tuple[SlotHeadroom, ...]:
        """The entries of `headroom`."""
        return (self.headroom,) if isinstance(self.headroom, SlotHeadroom) else self.headroom

    @property
    def as_upstream(self) -> bool:
        return self.compatibility == UPSTREAM

    @property
    def enforcement(self) -> Enforcement:
        """Who is taken to enforce the opt-in of drivers; upstream knows of kube-scheduler alone."""
        return "as-server" if self.as_upstream else self.enforce_opt_in


def of(settings: Mapping[str, object]) -> Options:
    """Options from a scenario or a file; a wrong name or type says which and what is expected."""
    known = _names()
    for name in settings:
        if name not in known and name != NOW:
            near = near_names(name, known) or known
            raise InputError(f"options: there is no {name}; expected one of {', '.join(near)}")
    settings = durations.in_seconds(
        {name: value for name, value in settings.items() if name != NOW}, Options
    )
    try:
        options = msgspec.convert(settings, Options)
    except msgspec.ValidationError as error:
        message, _, field = str(error).partition(" - at `$.")
        field = field.rstrip("`")
        words = strictness.choices(Options, (field,))
        if words:
            message = f"expected {' or '.join(words)}, found {describe(settings[field])}"
        elif message.startswith("Expected `"):
            fault = codec.explained(str(error), dict(settings))
            field = codec.render(fault.path)
            message = f"expected {fault.expected}, found {fault.found}"
        raise InputError(f"options.{field}: {message}") from None
    try:
        options.consolidation.check()
        _ = options.cores, options.memory
    except InputError as error:
        raise InputError(f"options.{str(error).replace('`', '')}") from None
    return options


def typed(texts: Mapping[str, str]) -> dict[str, object]:
    """Values as a Scenario would have them: text where text is wanted, else as in JSON.

    Lists may be written with commas.
    """
    types = {field.encode_name: field.type for field in msgspec.structs.fields(Options)}
    values: dict[str, object] = {}
    for name, text in texts.items():
        try:
            value = text if types.get(name) is str else msgspec.json.decode(text)
        except msgspec.DecodeError:
            value = text
            if types.get(name) == tuple[str, ...]:
                value = [part.strip() for part in text.split(",") if part.strip()]
        whole, dot, part_of_it = name.partition(".")
        if dot:
            # A field of a field, such as consolidation.horizon=12h.
            inner = values.setdefault(whole, {})
            if isinstance(inner, dict):
                inner[part_of_it] = value
        else:
            values[name] = value
    return values


@cache
def _names() -> list[str]:
    """All options, those of scale-down last."""
    inherited = {field.name for field in msgspec.structs.fields(ScaleDownOptions)}
    fields = sorted(msgspec.structs.fields(Options), key=lambda field: field.name in inherited)
    return [field.encode_name for field in fields]


def now_of(settings: Mapping[str, object]) -> float | None:
    """The moment of the question, if a scenario or a file names it."""
    text = settings.get(NOW)
    if text is None:
        return None
    try:
        return timestamps.parse(str(text))
    except timestamps.TimestampError:
        raise InputError(
            f"options.{NOW}: {text!r}: expected a time such as 2026-01-01T12:00:00Z"
        ) from None


def policy_of(options: Options, *, live: bool = False) -> GroupPolicy:
    """The part of the options that templates and readiness go by."""
    shared = set(GroupPolicy.__struct_fields__) & set(Options.__struct_fields__)
    return GroupPolicy(
        as_upstream=options.as_upstream,
        conditions_required=live,
        **{name: getattr(options, name) for name in shared},
    )
