"""What the operator may set while the autoscaler runs: one file, every field with a default."""

import re
from collections.abc import Iterator
from typing import get_args

import msgspec

from tonnage.autoscaler.scaledown import drain_priority
from tonnage.autoscaler.scaledown.windows import Window
from tonnage.errors import InputError
from tonnage.groups.options import TOTALS, Options
from tonnage.groups.registry import GroupPatience
from tonnage.objects.scenarios import API_VERSION
from tonnage.rules import features
from tonnage.scaleup import expanders
from tonnage.scaleup.priorities import read_priorities

KIND = "AutoscalerConfig"

_MAY_BE_NEGATIVE = ("expendable_pods_priority_cutoff", "random_seed")

_LEAST = {"scan_interval": 0.1, "provider_timeout": 0.1, "decision_file_size": 1}
"""What a number must at least be, if that is not 0."""

_FORMS = {
    "kubernetes_version": (r"^(v?[0-9]+\.[0-9]+.*)?$", "a version such as 1.37"),
    "status_config_map_name": (r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", "the name of a ConfigMap"),
}
"""What a text must look like, and what that is called."""


class AutoscalerConfig(Options, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a decision, and how the loop goes; names are upstream's flags in camelCase.

    Times are in seconds, or Go durations such as 1m30s.
    """

    api_version: str = API_VERSION
    kind: str = KIND
    scale_down_enabled: bool = False
    """Unlike upstream's: who has never given nodes back does not begin by upgrading."""
    volume_detach_timeout: float = 300.0
    """Seconds that a node which goes is kept for its volumes to be detached; 0: not at all."""
    replica_ready_timeout: float = 300.0
    """Seconds that an evicted replica of a StatefulSet may take until the next one is evicted."""
    provisioning_requests: bool = False
    """Whether ProvisioningRequests are answered; it takes rights of its own."""
    eviction_request_timeout: float = 600.0
    """Seconds that operators have to move pods which name them as responders, before these are
    evicted; 0: they are not asked."""
    scale_down_windows: tuple[Window, ...] = ()
    capacity_buffers: bool = False
    """Whether room is kept ready for CapacityBuffers, which takes rights of its own."""
    time_budget: float = 5.0
    """Others wait for the decision, so unlike elsewhere it has an end; what it finds until then is
    carried out."""
    max_round_complexity: int = 100_000
    set_apart_time_budget: float = 1.0
    scan_interval: float = 10.0
    batch_window: float = 0.2
    batch_window_max: float | None = None
    """`None`: five seconds, or the batch window itself where that is longer."""
    steps_per_loop: int = 0
    enforce_node_group_min_size: bool = False
    replace_unready_drivers: bool = False
    replace_unready_drivers_pause: float = 600.0
    remove_startup_taints: bool = False
    max_node_provision_time: float = 900.0
    initial_node_group_backoff_duration: float = 300.0
    max_node_group_backoff_duration: float = 1800.0
    node_group_backoff_reset_timeout: float = 10_800.0
    provider_timeout: float = 60.0
    write_status_configmap: bool = True
    status_config_map_name: str = "cluster-autoscaler-status"
    allowed_scheduler_names: tuple[str, ...] = ()
    feature_gates: dict[str, bool] = {}
    kubernetes_version: str = ""
    legacy_attach_limits: bool = False
    kube_max_pd_vols: int | None = None
    decision_file: str = ""
    decision_file_size: int = 100_000_000
    decision_recording_size: int = 1_000_000
    """Bytes, compressed, of what a decision came from; none is kept of a decision with more."""
    learned_limits_max_age: float = 2_592_000.0
    """Seconds that what an instance type taught is kept after it was last seen."""
    cache_check_interval: float = 3600.0
    """Seconds between two checks of what is known against the versions the API server has."""
    max_inactivity: float = 600.0
    max_failing_time: float = 900.0

    def __post_init__(self) -> None:
        for name, said, meant in (
            ("apiVersion", self.api_version, API_VERSION),
            ("kind", self.kind, KIND),
        ):
            if said != meant:
                raise InputError(f"`{name}`: {said!r}: expected {meant}")
        try:
            expanders.check_names(self.expander)
        except InputError as error:
            # In backticks, as the field's line is found by.
            raise InputError(str(error).replace("expander", "`expander`", 1)) from None
        features.check_gates(self.feature_gates, field="featureGates")
        self._check_texts()
        for field in _bounded():
            value, least = getattr(self, field.name), _LEAST.get(field.name, 0)
            if value is not None and value < least:
                raise InputError(f"`{field.encode_name}`: {value:g}: expected {least:g} or more")
        if self.longest_batch_window < self.batch_window:
            raise InputError(
                f"`batchWindowMax`: {self.longest_batch_window:g}: expected no less than"
                f" batchWindow, which is {self.batch_window:g}"
            )

    def _check_texts(self) -> None:
        """What would otherwise be found out in the midst of a round, or never."""
        for field in msgspec.structs.fields(AutoscalerConfig):
            pattern, expected = _FORMS.get(field.name, ("", ""))
            value = getattr(self, field.name)
            if pattern and not re.fullmatch(pattern, value):
                raise InputError(f"`{field.encode_name}`: {value!r}: expected {expected}")
        _ = self.cores, self.memory
        try:
            read_priorities(self.priorities)
        except InputError as error:
            raise InputError(str(error).replace("priorities", "`priorities`", 1)) from None
        for position, window in enumerate(self.scale_down_windows):
            window.check(f"scaleDownWindows[{position}]")
        self.consolidation.check()
        if self.consolidation.enabled and not self.scale_down_enabled:
            raise InputError(
                "`consolidation`: enabled: nodes go as scale-down has it: expected"
                " scaleDownEnabled: true beside it"
            )
        drain_priority.rounds(self.drain_priority_config, grace=0)
        if expanders.GRPC in self.expander and not self.grpc_expander_url:
            raise InputError("`expander`: grpc asks whom `grpcExpanderUrl` names: expected both")
        for name, texts in (
            ("startupTaints", self.startup_taints),
            ("startupTaintPrefixes", self.startup_taint_prefixes),
            ("statusTaints", self.status_taints),
        ):
            if "" in texts:
                # Every key begins with nothing at all.
                raise InputError(f"`{name}`: an empty entry: expected keys of taints")

    @classmethod
    def constraints(cls) -> dict[str, dict[str, object]]:
        """What holds for single fields beside their types, in the words of JSON schema."""
        one = f"({'|'.join(expanders.NAMES)})"
        total: dict[str, object] = {
            "anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": TOTALS}]
        }
        return {
            "coresTotal": total,
            "memoryTotal": total,
            **{field.encode_name: {"minimum": _LEAST.get(field.name, 0)} for field in _bounded()},
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": KIND},
            **{
                field.encode_name: {"pattern": _FORMS[field.name][0]}
                for field in msgspec.structs.fields(cls)
                if field.name in _FORMS
            },
            "drainPriorityConfig": {"pattern": drain_priority.PATTERN},
            "expander": {"pattern": f"^ *{one} *(, *{one} *)*$"},
        }

    @property
    def remarks(self) -> tuple[str, ...]:
        """What can be used, and does nothing."""
        told = features.without_effect(self.feature_gates)
        return (f"featureGates: {told}",) if told else ()

    @property
    def longest_batch_window(self) -> float:
        """Seconds after the first pod of a batch when no more are waited for."""
        if self.batch_window_max is None:
            return max(self.batch_window, 5.0)
        return self.batch_window_max

    @property
    def patience(self) -> GroupPatience:
        return GroupPatience(
            max_node_provision_time=self.max_node_provision_time,
            initial_backoff=self.initial_node_group_backoff_duration,
            max_backoff=self.max_node_group_backoff_duration,
            backoff_reset=self.node_group_backoff_reset_timeout,
        )


def _bounded() -> Iterator[msgspec.structs.FieldInfo]:
    """The fields that are numbers and may not be as low as you like."""
    for field in msgspec.structs.fields(AutoscalerConfig):
        types = (field.type, *get_args(field.type))
        if (
            (float in types or int in types)
            and str not in types
            and field.name not in _MAY_BE_NEGATIVE
        ):
            yield field
