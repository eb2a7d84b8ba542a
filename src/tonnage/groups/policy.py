"""What the operator decided about nodes and their templates, apart from any one group."""

from tonnage.objects.meta import Record
from tonnage.objects.scenarios import LimitOverrides


class GroupPolicy(Record, frozen=True, kw_only=True):
    """Settings of templates and readiness; names and defaults are those of the scale-up options.

    `as_upstream` turns off what goes beyond cluster-autoscaler 1.37. `conditions_required` is for
    live clusters, where a Node without conditions has only just been created; in a file it has
    been Ready for long. `limits` are the operator's, beside those of a NodeGroup itself.
    """

    csi_aware: bool = True
    as_upstream: bool = False
    force_ds: bool = False
    startup_taints: tuple[str, ...] = ()
    startup_taint_prefixes: tuple[str, ...] = ()
    status_taints: tuple[str, ...] = ()
    max_total_unready_percentage: float = 45.0
    ok_total_unready_count: int = 3
    max_node_startup_time: float = 900.0
    driver_registration_timeout: float = 900.0
    require_driver_counts: bool = False
    conditions_required: bool = False
    limits: LimitOverrides = LimitOverrides()
