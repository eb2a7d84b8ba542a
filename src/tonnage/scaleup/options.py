"""Options of a scale-up decision: upstream's flags in camelCase, and a few of our own."""

import difflib
from collections.abc import Mapping

import msgspec

from tonnage.errors import InputError
from tonnage.filters.opt_in import Enforcement
from tonnage.groups.policy import GroupPolicy
from tonnage.objects import complexity, decoding, strictness
from tonnage.objects.checking import describe
from tonnage.objects.meta import Record
from tonnage.objects.scenarios import LimitOverrides, SlotPool

UPSTREAM = "cluster-autoscaler-1.37"


class Options(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to decide. `compatibility` turns off what goes beyond upstream, for comparing."""

    expander: str = "least-waste"
    csi_aware: bool = True
    compatibility: str = "none"
    enforce_opt_in: Enforcement = "auto"
    max_nodes_total: int = 0
    max_nodes_per_scale_up: int = msgspec.field(default=1000, name="maxNodesPerScaleUp")
    balance_similar_node_groups: bool = False
    balancing_ignore_labels: tuple[str, ...] = ()
    balancing_labels: tuple[str, ...] = ()
    cores_total: int = 320_000
    memory_total: int = 6_400_000
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

    @property
    def as_upstream(self) -> bool:
        return self.compatibility == UPSTREAM

    @property
    def enforcement(self) -> Enforcement:
        """Who is taken to enforce the opt-in of drivers; upstream knows of kube-scheduler alone."""
        return "as-server" if self.as_upstream else self.enforce_opt_in


def of(settings: Mapping[str, object]) -> Options:
    """Options from a scenario or a file; a wrong name or type says which and what is expected."""
    known = [field.encode_name for field in msgspec.structs.fields(Options)]
    for name in settings:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3) or known
            raise InputError(f"options: there is no {name}; expected one of {', '.join(near)}")
    try:
        options = msgspec.convert(dict(settings), Options)
    except msgspec.ValidationError as error:
        message, _, field = str(error).partition(" - at `$.")
        field = field.rstrip("`")
        words = strictness.choices(Options, (field,))
        if words:
            message = f"expected {' or '.join(words)}, found {describe(settings[field])}"
        elif message.startswith("Expected `"):
            fault = decoding.explained(str(error), dict(settings))
            field = decoding.render(fault.path)
            message = f"expected {fault.expected}, found {fault.found}"
        raise InputError(f"options.{field}: {message}") from None
    if options.compatibility not in ("none", UPSTREAM):
        raise InputError(
            f"options.compatibility: {options.compatibility!r}: expected none or {UPSTREAM}"
        )
    return options


def policy_of(options: Options, *, live: bool = False) -> GroupPolicy:
    """The part of the options that templates and readiness go by."""
    shared = set(GroupPolicy.__struct_fields__) & set(Options.__struct_fields__)
    return GroupPolicy(
        as_upstream=options.as_upstream,
        conditions_required=live,
        **{name: getattr(options, name) for name in shared},
    )
