"""Options of scale-down: upstream's flags in camelCase, and a few of our own."""

from typing import TypeVar

import msgspec

from tonnage.objects.meta import Record


class ScaleDownOptions(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How nodes are given back. Times are in seconds; the defaults are those of a live loop."""

    scale_down_enabled: bool = True

    # Which nodes may go.
    scale_down_utilization_threshold: float = 0.5
    scale_down_gpu_utilization_threshold: float = 0.5
    ignore_daemon_sets_utilization: bool = False
    ignore_mirror_pods_utilization: bool = False
    slots_utilization: bool = True
    """Whether a node whose attach slots are taken counts as busy, as if they were processors."""
    scale_down_unready_enabled: bool = True
    keep_zones_of_volumes: bool = True
    """Whether the last node that bound volumes can be used on stays, if no group can replace it."""

    # Which pods may move.
    skip_nodes_with_system_pods: bool = True
    blocking_system_pod_distruption_timeout: float = 3600.0
    """Seconds after which a system pod blocks no more; the spelling is the flag's."""
    skip_nodes_with_local_storage: bool = True
    skip_nodes_with_custom_controller_pods: bool = True
    min_replica_count: int = 0

    # When.
    scale_down_unneeded_time: float = 600.0
    scale_down_unready_time: float = 1200.0
    scale_down_delay_after_add: float = 600.0
    scale_down_delay_after_delete: float = 0.0
    scale_down_delay_after_failure: float = 180.0
    scale_down_delay_type_local: bool = False
    """Whether the delays hold for the group they come from alone."""
    node_deletion_candidate_ttl: float = 0.0
    unremovable_node_recheck_timeout: float = 300.0
    scale_down_simulation_timeout: float = 30.0

    # How many at once.
    max_scale_down_parallelism: int = 10
    max_drain_parallelism: int = 1

    # How.
    max_graceful_termination_sec: int = 600
    drain_priority_config: str = ""
    max_pod_eviction_time: float = 120.0
    node_delete_delay_after_taint: float = 5.0
    node_deletion_delay_timeout: float = 120.0
    node_deletion_batcher_interval: float = 0.0
    cordon_node_before_terminating: bool = True
    daemon_set_eviction_for_empty_nodes: bool = False
    daemon_set_eviction_for_occupied_nodes: bool = True
    max_bulk_soft_taint_count: int = 10
    max_bulk_soft_taint_time: float = 3.0


Given = TypeVar("Given", bound=ScaleDownOptions)


class GroupScaleDown(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one group says of these itself; `None` is what holds for all."""

    scale_down_utilization_threshold: float | None = None
    scale_down_gpu_utilization_threshold: float | None = None
    scale_down_unneeded_time: float | None = None
    scale_down_unready_time: float | None = None
    ignore_daemon_sets_utilization: bool | None = None

    def over(self, options: Given) -> Given:
        """The options as they hold for the group."""
        told = {
            name: value
            for name in self.__struct_fields__
            if (value := getattr(self, name)) is not None
        }
        return msgspec.structs.replace(options, **told)


AT_ONCE = {
    "scaleDownUnneededTime": 0.0,
    "scaleDownUnreadyTime": 0.0,
    "scaleDownDelayAfterAdd": 0.0,
    "scaleDownDelayAfterDelete": 0.0,
    "scaleDownDelayAfterFailure": 0.0,
}
"""For a cluster in a file, which has no past: now is long enough, unless it says otherwise."""
