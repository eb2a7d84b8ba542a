"""What the operator may set while the autoscaler runs: one file, every field with a default."""

import msgspec

from tonnage.errors import InputError
from tonnage.groups.registry import Patience
from tonnage.objects.scenarios import API_VERSION
from tonnage.scaleup import expanders
from tonnage.scaleup.options import UPSTREAM, Options

KIND = "AutoscalerConfig"


class Config(Options, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a decision, and how the loop goes; names are upstream's flags in camelCase.

    Times are in seconds, or Go durations such as 1m30s.
    """

    api_version: str = API_VERSION
    kind: str = KIND
    time_budget: float = 5.0
    """A decision blocks everything else, renewing the lease too; so unlike elsewhere it has an
    end, and what it finds until then is carried out."""
    scan_interval: float = 10.0
    batch_window: float = 0.2
    steps_per_loop: int = 0
    enforce_node_group_min_size: bool = False
    replace_unready_drivers: bool = False
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
    decision_file: str = ""
    decision_file_size: int = 100_000_000
    decision_recording_size: int = 1_000_000
    """Bytes, compressed, of what a decision came from; none is kept of a decision with more."""
    learned_limits_max_age: float = 2_592_000.0
    """Seconds that what an instance type taught is kept after it was last seen."""
    max_inactivity: float = 600.0
    max_failing_time: float = 900.0

    def __post_init__(self) -> None:
        if (self.api_version, self.kind) != (API_VERSION, KIND):
            raise InputError(
                f"apiVersion {self.api_version}, kind {self.kind}: expected {API_VERSION}, {KIND}"
            )
        if self.compatibility not in ("none", UPSTREAM):
            raise InputError(
                f"`compatibility`: {self.compatibility!r}: expected none or {UPSTREAM}"
            )
        expanders.check_names(self.expander)
        for field in msgspec.structs.fields(type(self)):
            value = getattr(self, field.name)
            if field.type is float and value < 0:
                raise InputError(f"`{field.encode_name}`: {value:g}: expected 0 or more")
        for name, least in (("scan_interval", 0.1), ("provider_timeout", 0.1)):
            if getattr(self, name) < least:
                shown = "scanInterval" if name == "scan_interval" else "providerTimeout"
                raise InputError(f"`{shown}`: expected at least {least:g} s")
        if self.decision_file_size <= 0:
            raise InputError(
                f"`decisionFileSize`: {self.decision_file_size}: expected bytes, more than 0"
            )
        if self.decision_recording_size < 0:
            raise InputError(
                f"`decisionRecordingSize`: {self.decision_recording_size}: expected bytes, "
                "or 0 to record nothing"
            )
        if self.steps_per_loop < 0:
            raise InputError(f"`stepsPerLoop`: {self.steps_per_loop}: expected 0, for all, or more")

    @property
    def patience(self) -> Patience:
        return Patience(
            max_node_provision_time=self.max_node_provision_time,
            initial_backoff=self.initial_node_group_backoff_duration,
            max_backoff=self.max_node_group_backoff_duration,
            backoff_reset=self.node_group_backoff_reset_timeout,
        )
