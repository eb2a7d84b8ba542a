"""cluster-autoscaler's flags as a table: what follows each of them here, or why nothing does.

Names and defaults are those of version 1.37. A flag becomes a field of AutoscalerConfig, an option
of `tonnage run`, or nothing; and nothing is harmless where the flag is not needed here, and a
difference in behaviour where it is not supported.
"""

import re
from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple, TypeAlias

Value: TypeAlias = Literal["text", "bool", "int", "float", "duration", "range", "list", "gates"]
Outcome: TypeAlias = Literal["setting", "argument", "not needed", "not supported"]

SETTING: Outcome = "setting"
ARGUMENT: Outcome = "argument"
NOT_NEEDED: Outcome = "not needed"
NOT_SUPPORTED: Outcome = "not supported"


class Flag(NamedTuple):
    """`target` is the field or option that follows it; without one, `reason` says why none does.

    A flag with a field that this version of AutoscalerConfig lacks is not supported, for `reason`.
    """

    name: str
    value: Value
    default: str
    outcome: Outcome
    target: str = ""
    reason: str = ""

    def outcome_with(self, fields: Collection[str]) -> Outcome:
        """What becomes of it, given the fields of AutoscalerConfig."""
        if self.outcome == SETTING and self.target not in fields:
            return NOT_SUPPORTED
        return self.outcome


def camel_case(name: str) -> str:
    """A flag's name as a field of ours."""
    first, *rest = name.split("-")
    return first + "".join(part.capitalize() for part in rest)


def normal(name: str) -> str:
    """A name without dashes before it, and with dashes where upstream also takes underscores."""
    return name.lstrip("-").replace("_", "-")


def known(name: str) -> Flag | None:
    return FLAGS.get(normal(name))


def truth(text: str) -> bool | None:
    """A switch as Go reads it; `None` if it is none."""
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    return False if text in ("0", "f", "F", "false", "FALSE", "False") else None


def _flags(
    table: str,
    outcome: Outcome,
    reason: str = "",
    targets: dict[str, str] | None = None,
) -> Iterable[Flag]:
    """Flags of lines `name value-type default`; the target is upstream's name unless given."""
    for line in table.strip().splitlines():
        name, value, default = re.split(r"\s+", line.strip(), maxsplit=2)
        target = ""
        if outcome == SETTING:
            target = (targets or {}).get(name, camel_case(name))
        elif outcome == ARGUMENT:
            target = (targets or {}).get(name, f"--{name}")
        yield Flag(name, value, "" if default == "-" else default, outcome, target, reason)  # type: ignore[arg-type]


_SETTINGS = _flags(
    """
    scan-interval                        duration 10s
    enforce-node-group-min-size          bool     false
    max-nodes-total                      int      0
    cores-total                          range    0:320000
    memory-total                         range    0:6400000
    expander                             text     least-waste
    grpc-expander-cert                   text     -
    grpc-expander-url                    text     -
    max-nodes-per-scaleup                int      1000
    new-pod-scale-up-delay               duration 0s
    expendable-pods-priority-cutoff      int      -10
    allowed-scheduler-names              list     -
    force-ds                             bool     false
    balance-similar-node-groups          bool     false
    balancing-ignore-label               list     -
    balancing-label                      list     -
    startup-taint                        list     -
    startup-taint-prefix                 list     -
    status-taint                         list     -
    ignore-taint                         list     -
    enable-csi-node-aware-scheduling     bool     false
    enable-provisioning-requests         bool     false
    capacity-buffer-controller-enabled   bool     false
    max-node-provision-time              duration 15m
    max-node-startup-time                duration 15m
    max-total-unready-percentage         float    45
    ok-total-unready-count               int      3
    initial-node-group-backoff-duration  duration 5m
    max-node-group-backoff-duration      duration 30m
    node-group-backoff-reset-timeout     duration 3h
    write-status-configmap               bool     true
    status-config-map-name               text     cluster-autoscaler-status
    max-inactivity                       duration 10m
    max-failing-time                     duration 15m
    feature-gates                        gates    -
    """,
    SETTING,
    targets={
        "max-nodes-per-scaleup": "maxNodesPerScaleUp",
        "balancing-ignore-label": "balancingIgnoreLabels",
        "balancing-label": "balancingLabels",
        "startup-taint": "startupTaints",
        "startup-taint-prefix": "startupTaintPrefixes",
        "status-taint": "statusTaints",
        "ignore-taint": "startupTaints",
        "enable-csi-node-aware-scheduling": "csiAware",
        "enable-provisioning-requests": "provisioningRequests",
        "capacity-buffer-controller-enabled": "capacityBuffers",
    },
)

_SCALE_DOWN = _flags(
    """
    scale-down-enabled                      bool     true
    scale-down-unready-enabled              bool     true
    scale-down-delay-after-add              duration 10m
    scale-down-delay-after-delete           duration 0s
    scale-down-delay-after-failure          duration 3m
    scale-down-delay-type-local             bool     false
    scale-down-unneeded-time                duration 10m
    scale-down-unready-time                 duration 20m
    scale-down-utilization-threshold        float    0.5
    scale-down-gpu-utilization-threshold    float    0.5
    scale-down-simulation-timeout           duration 30s
    unremovable-node-recheck-timeout        duration 5m
    ignore-daemonsets-utilization           bool     false
    ignore-mirror-pods-utilization          bool     false
    skip-nodes-with-system-pods             bool     true
    blocking-system-pod-distruption-timeout duration 1h
    skip-nodes-with-local-storage           bool     true
    skip-nodes-with-custom-controller-pods  bool     true
    min-replica-count                       int      0
    node-deletion-candidate-ttl             duration 0s
    max-scale-down-parallelism              int      10
    max-drain-parallelism                   int      1
    max-graceful-termination-sec            int      600
    max-pod-eviction-time                   duration 2m
    node-delete-delay-after-taint           duration 5s
    node-deletion-delay-timeout             duration 2m
    node-deletion-batcher-interval          duration 0s
    cordon-node-before-terminating          bool     true
    daemonset-eviction-for-empty-nodes      bool     false
    daemonset-eviction-for-occupied-nodes   bool     true
    max-bulk-soft-taint-count               int      10
    max-bulk-soft-taint-time                duration 3s
    dynamic-node-delete-delay-after-taint-enabled bool false
    drain-priority-config                   text     -
    """,
    SETTING,
    reason="nodes are removed without this setting",
    targets={
        "ignore-daemonsets-utilization": "ignoreDaemonSetsUtilization",
        "daemonset-eviction-for-empty-nodes": "daemonSetEvictionForEmptyNodes",
        "daemonset-eviction-for-occupied-nodes": "daemonSetEvictionForOccupiedNodes",
    },
)

_ARGUMENTS = _flags(
    """
    cloud-provider                        text -
    cloud-config                          text -
    clusterapi-cloud-config-authoritative bool false
    node-group-auto-discovery             list -
    nodes                                 list -
    namespace                             text kube-system
    address                               text :8085
    kubeconfig                            text -
    leader-elect                          bool true
    leader-elect-resource-name            text cluster-autoscaler
    logging-format                        text text
    """,
    ARGUMENT,
    targets={"cloud-provider": "--provider"},
)

_UNNEEDED: tuple[tuple[str, str], ...] = (
    ("the API server is reached through the kubeconfig or the pod's account", "kubernetes text -"),
    ("JSON is read; a list is decoded once, then only changes", "kube-api-content-type text -"),
    (
        "requests are few: lists once, then watches",
        "kube-client-burst int 10\nkube-client-qps float 5",
    ),
    ("the user agent is tonnage", "user-agent text cluster-autoscaler"),
    ("it names the cluster for Google alone", "cluster-name text -\nregional bool false"),
    ("the loop wakes up for every pod that finds no node", "frequent-loops-enabled bool true"),
    ("there is one estimator, and it packs exactly", "estimator text binpacking"),
    ("groups grow from zero wherever a template is known", "scale-up-from-zero bool true"),
    (
        "templates are remembered for as long as the group is there",
        "node-info-cache-expire-time duration 87600h",
    ),
    (
        "a decision has one time budget (timeBudget), and all groups are packed in it",
        (
            "max-nodegroup-binpacking-duration duration 10s\nmax-binpacking-time duration 5m\n"
            "fastpath-binpacking-enabled bool false\nsalvo-scale-up bool false\n"
            "salvo-scale-up-budget duration 1m\nparallel-scale-up bool false"
        ),
    ),
    (
        "all nodes are judged at once, in columns",
        "predicate-parallelism int 4\ncluster-snapshot-parallelism int 16",
    ),
    (
        "every node is a candidate in every round",
        (
            "scale-down-non-empty-candidates-count int 30\n"
            "scale-down-candidates-pool-ratio float 0.1\n"
            "scale-down-candidates-pool-min-count int 50"
        ),
    ),
    (
        "groups are alike by Tonnage's own measure",
        (
            "memory-difference-ratio float 0.015\nmax-free-difference-ratio float 0.05\n"
            "max-allocatable-difference-ratio float 0.05"
        ),
    ),
    (
        "chunks of CapacityBuffers are planned for without pods: capacityBuffers",
        (
            "capacity-buffer-pod-injection-enabled bool false\n"
            "capacity-buffer-pod-dry-run-enabled bool true"
        ),
    ),
    (
        "pods that come together are decided on together: batchWindow",
        "pending-pods-batching-timeout duration 4m",
    ),
    (
        "machines that never register are deleted after maxNodeProvisionTime",
        "force-delete-unregistered-nodes bool false\nforce-delete-failed-nodes bool false",
    ),
    (
        "all ProvisioningRequests are answered in one round",
        (
            "check-capacity-batch-processing bool false\n"
            "check-capacity-provisioning-request-max-batch-size int 10\n"
            "check-capacity-provisioning-request-batch-timebox duration 10s"
        ),
    ),
    (
        "every request is remembered for as long as it is there",
        "provisioning-request-max-backoff-cache-size int 1000",
    ),
    ("metrics by node group are always there", "emit-per-nodegroup-metrics bool false"),
    (
        "decisions and the snapshot are at --debug-address",
        "debugging-snapshot-enabled bool false\nprofiling bool false",
    ),
    ("equal events are counted, not repeated", "record-duplicated-events bool false"),
    ("health is judged from the first round on", "max-startup-time duration 20m"),
    (
        "a round that cannot decide in time does what it has decided",
        "enable-graceful-degradation bool false",
    ),
    (
        "only figures of the old program would change",
        (
            "node-removal-latency-tracking-enabled bool false\n"
            "max-node-skip-eval-time-tracker-enabled bool false\n"
            "scaleup-simulation-for-skipped-node-groups-enabled bool false"
        ),
    ),
    ("instance types are asked of EC2", "aws-use-static-instance-list bool false"),
    (
        "lease times are fixed at upstream's defaults",
        (
            "leader-elect-lease-duration duration 15s\nleader-elect-renew-deadline duration 10s\n"
            "leader-elect-retry-period duration 2s"
        ),
    ),
    (
        "the lease is where --namespace is, as upstream's is too",
        "leader-elect-resource-namespace text -\nleader-elect-resource-lock text leases",
    ),
    (
        "the log has one form; --log-level says how much of it",
        (
            "v int 0\nvmodule text -\nlogtostderr bool true\nalsologtostderr bool false\n"
            "stderrthreshold text 2\nlog-dir text -\nlog-file text -\nlog-file-max-size int 1800\n"
            "one-output bool false\nskip-headers bool false\nskip-log-headers bool false\n"
            "add-dir-header bool false\nlog-backtrace-at text :0\nscheduler-verbosity int 0\n"
            "log-flush-frequency duration 5s\nlog-text-split-stream bool false\n"
            "log-text-info-buffer-size text 0\nlog-json-split-stream bool false\n"
            "log-json-info-buffer-size text 0"
        ),
    ),
)

_UNSUPPORTED: tuple[tuple[str, str], ...] = (
    ("GPUs have no total of their own", "gpu-total list -"),
    ("CapacityQuota objects are not read", "capacity-quotas-enabled bool false"),
    (
        "a pod counts once its scheduler has said that no node fits",
        "bypassed-scheduler-names list -\nscale-from-unschedulable bool false",
    ),
    (
        "pods that do not exist yet are not injected",
        "enable-proactive-scaleup bool false\npod-injection-limit int 5000",
    ),
    (
        "node groups are made by their owner, never by the autoscaler",
        "async-node-groups bool false",
    ),
    (
        "profiles of a scheduler's configuration are not read: the default plugins decide",
        "scheduler-config-file text -",
    ),
    (
        "pods with resource claims are refused, so nothing is bought for them",
        "enable-dynamic-resource-allocation bool true",
    ),
    (
        "a request without room is tried again after 1m, then after twice as long, up to 10m",
        (
            "provisioning-request-initial-backoff-time duration 1m\n"
            "provisioning-request-max-backoff-time duration 10m"
        ),
    ),
    (
        "requests are answered whichever instance they name",
        "check-capacity-processor-instance text -",
    ),
    (
        "Tonnage has no provider for Google Cloud",
        (
            "gce-concurrent-refreshes int 1\ngce-mig-instances-min-refresh-wait-time duration 5s\n"
            "bulk-mig-instances-listing-enabled bool false"
        ),
    ),
)

FLAGS: dict[str, Flag] = {
    flag.name: flag
    for table in (
        _SETTINGS,
        _SCALE_DOWN,
        _ARGUMENTS,
        *(_flags(lines, NOT_NEEDED, reason) for reason, lines in _UNNEEDED),
        *(_flags(lines, NOT_SUPPORTED, reason) for reason, lines in _UNSUPPORTED),
    )
    for flag in table
}
"""By upstream's name."""
