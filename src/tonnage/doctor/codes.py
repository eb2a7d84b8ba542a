"""Every code a finding can have. Codes are a contract: one may be added, none changes its meaning.

The first digit is the theme: 1 opting in, 2 drivers, 3 limits, 4 startup taints, 5 rights,
6 extenders, 7 storage capacity.
"""

from types import MappingProxyType

from tonnage.errors import InputError
from tonnage.objects.meta import Record
from tonnage.objects.phrases import near_names


class FindingCode(Record, frozen=True, kw_only=True):
    """What a code stands for: in a few words, in full, and what to do."""

    code: str
    title: str
    meaning: str
    fix: str


ALL = MappingProxyType(
    {
        one.code: one
        for one in (
            FindingCode(
                code="TON101",
                title="opted in, and an autoscaler does not know",
                meaning=(
                    "The driver keeps pods off nodes it is not registered on. An autoscaler that"
                    " does not count CSI drivers imagines new nodes without any: it either buys"
                    " nothing for the waiting pods, or buys too few nodes, again and again."
                ),
                fix=(
                    "Start cluster-autoscaler 1.37 or newer with"
                    " --enable-csi-node-aware-scheduling=true, or run tonnage run instead. Until"
                    " then set preventPodSchedulingIfMissing of the CSIDriver to false."
                ),
            ),
            FindingCode(
                code="TON102",
                title="opted in, and new nodes of a group would lack the driver",
                meaning=(
                    "Nothing says that a new node of the group would have the driver: no node of it"
                    " has, and its template does not list it. No pod with volumes of the driver"
                    " can make the group grow."
                ),
                fix=(
                    "If the driver runs there, list it in spec.template.csiNode of the NodeGroup"
                    " (or in the provider's tag or annotation for CSI drivers), or give"
                    " its limit, in spec.limits or in limits of the autoscaler's configuration; if"
                    " it does not, nothing is wrong."
                ),
            ),
            FindingCode(
                code="TON103",
                title="opted in, and the scheduler's gate is off",
                meaning=(
                    "kube-scheduler looks at preventPodSchedulingIfMissing only with the gate"
                    " VolumeLimitScaling, which is on by default from 1.37. Without it pods land on"
                    " nodes whose driver has not registered, and hang there."
                ),
                fix=(
                    "Start kube-scheduler with --feature-gates=VolumeLimitScaling=true where it has"
                    " the gate (1.35 and newer), or run tonnage extender or tonnage scheduler."
                ),
            ),
            FindingCode(
                code="TON104",
                title="the server dropped the field that opts in",
                meaning=(
                    "Somebody applied the CSIDriver with preventPodSchedulingIfMissing, and the"
                    " object does not have it: the API server does not know the field, or its gate"
                    " is off, and dropped it without a word."
                ),
                fix=(
                    'Use the annotation tonnage.dev/prevent-pod-scheduling-if-missing: "true" on'
                    " the CSIDriver, and run tonnage extender or tonnage scheduler, which enforce"
                    " it on any version; kube-scheduler does not read it. tonnage run and plan"
                    " count on them wherever the annotation is used (enforceOptIn: auto). Or"
                    " switch the gate VolumeLimitScaling on, of the API server and kube-scheduler."
                ),
            ),
            FindingCode(
                code="TON105",
                title="opted in by annotation only",
                meaning=(
                    "The annotation is read by Tonnage alone: kube-scheduler by itself does not"
                    " keep pods off nodes without the driver."
                ),
                fix=(
                    "Run tonnage extender or tonnage scheduler; on servers that have it, set"
                    " spec.preventPodSchedulingIfMissing too."
                ),
            ),
            FindingCode(
                code="TON106",
                title="opted in by a field name that no server knows",
                meaning=(
                    "The text of KEP-5030 calls the field PreventPodPlacementWithoutDriver; the API"
                    " has it as preventPodSchedulingIfMissing. An API server drops what it does not"
                    " know, so the driver has not opted in. Tonnage reads the former name in files,"
                    " as the same."
                ),
                fix=(
                    "Set spec.preventPodSchedulingIfMissing: true on the CSIDriver, and see TON104"
                    " if the server drops that too."
                ),
            ),
            FindingCode(
                code="TON201",
                title="a StorageClass names a driver that has no CSIDriver object",
                meaning=(
                    "Without a CSIDriver object the driver cannot opt in, and nobody knows whether"
                    " it attaches volumes or publishes capacity. Often the driver is not installed"
                    " at all, and claims of the class stay pending."
                ),
                fix="Install the driver with its CSIDriver object, or correct the provisioner.",
            ),
            FindingCode(
                code="TON202",
                title="a template lists a driver that no node has",
                meaning=(
                    "The node group's template, its provider's or its own, lists a driver that no"
                    " node of the cluster has registered, though nodes of the group had time to:"
                    " they count as unready, and no node can be bought for pods that need it."
                ),
                fix=(
                    "Take the driver out of the template if it is no longer used, or look why it"
                    " does not run: its DaemonSet, image and registrar."
                ),
            ),
            FindingCode(
                code="TON203",
                title="an old node lacks a driver that its siblings have",
                meaning=(
                    "Most nodes of the same group and instance type have registered the driver, and"
                    " this one has not, though it had time to: pods with volumes of the driver"
                    " hang there, or cannot come."
                ),
                fix=(
                    "Look at the driver's pod on the node; replace the node, or set"
                    " replaceUnreadyDrivers of tonnage run."
                ),
            ),
            FindingCode(
                code="TON301",
                title="a driver reports no limit",
                meaning=(
                    "The node lists the driver without allocatable.count, which kube-scheduler"
                    " takes for no limit at all. If the machine has one, pods beyond it hang in"
                    " ContainerCreating."
                ),
                fix=(
                    "Let the driver report max_volumes_per_node, or run tonnage node-agent with an"
                    " override; for new nodes set spec.limits of the NodeGroup, or limits of the"
                    " autoscaler's configuration, which any provider's groups follow."
                ),
            ),
            FindingCode(
                code="TON302",
                title="equal nodes report different limits",
                meaning=(
                    "Nodes of one instance type, or of one group, say different numbers for one"
                    " driver. Usual causes: the driver counted volumes that were attached when it"
                    " was restarted, interfaces that share the slots, or another version of it."
                    " New nodes are taken to have what most of the group's stable nodes say, the"
                    " lower number if as many say another."
                ),
                fix=(
                    "Restart the driver on the odd nodes when few volumes are attached, or run"
                    " tonnage node-agent, which does not let a limit shrink by volumes of pods."
                ),
            ),
            FindingCode(
                code="TON303",
                title="a limit is not what the machine can attach",
                meaning=(
                    "The number is above what the instance type can attach, or below what it could"
                    " with as many network interfaces as it can have."
                ),
                fix=(
                    "See tonnage limits show TYPE for the number and its formula. Too high: set the"
                    " driver's own option, or run tonnage node-agent. Too low: look for foreign"
                    " disks, or reserved slots."
                ),
            ),
            FindingCode(
                code="TON304",
                title="a node is over its limit",
                meaning=(
                    "More volumes are used or attached than the node can attach. Pods that came"
                    " last hang in ContainerCreating until others leave."
                ),
                fix=(
                    "tonnage rescue shows the pods that hang, and evicts them on request. tonnage"
                    " extender keeps it from happening again."
                ),
            ),
            FindingCode(
                code="TON305",
                title="a limit of zero or less",
                meaning=(
                    "No volume of the driver can be scheduled to the node. Some drivers report it"
                    " for a machine that is full at that moment; the kubelet reads other such"
                    " numbers as no limit."
                ),
                fix="Restart the driver's pod on the node; if it stays, override the number.",
            ),
            FindingCode(
                code="TON306",
                title="a node has no CSINode",
                meaning=(
                    "Other nodes have one and this one does not: its kubelet has not registered any"
                    " driver. It takes pods of any number of volumes, or none of a driver that"
                    " opted in."
                ),
                fix="Look at the kubelet and the driver's pod on the node.",
            ),
            FindingCode(
                code="TON307",
                title="most nodes of a driver have no attach slot free",
                meaning=(
                    "Four of five nodes, or more, can attach no further volume of the driver. The"
                    " next pod with a volume waits for a new node, and a pod that moves finds few"
                    " places."
                ),
                fix=(
                    "See tonnage slots --by type for where slots are left and what lies idle beside"
                    " them, and tonnage plan for what a new node would bring. Instance types with"
                    " more slots, or more and smaller nodes, give headroom."
                ),
            ),
            FindingCode(
                code="TON308",
                title="pending pods with volumes that nothing can take",
                meaning=(
                    "No node has room for them, and no node group that was given could be grown to"
                    " have some: they stay pending."
                ),
                fix=(
                    "tonnage plan says of each pod which group comes nearest and what is missing;"
                    " tonnage explain says why no node takes it. Give --node-groups FILE if the"
                    " cluster has groups that were not read."
                ),
            ),
            FindingCode(
                code="TON401",
                title="a startup taint that nobody takes off",
                meaning=(
                    "The taint waits for a driver to come up. Either the driver has registered and"
                    " the taint is still there, because two drivers wrote the list of taints at the"
                    " same time, or no such driver is in the cluster."
                ),
                fix=(
                    "Set removeStartupTaints of tonnage run, or remove it:"
                    " kubectl taint node NODE KEY-"
                ),
            ),
            FindingCode(
                code="TON501",
                title="a component lacks a right it needs",
                meaning=(
                    "The role of the component's service account does not let it list and watch a"
                    " kind that decisions about volumes need. It goes on without, and decides"
                    " wrongly or not at all for pods with volumes."
                ),
                fix="Add the rule to the ClusterRole; those in deploy/ have all that is needed.",
            ),
            FindingCode(
                code="TON601",
                title="an extender is sent whole nodes",
                meaning=(
                    "Without nodeCacheCapable kube-scheduler sends every Node object with every"
                    " request: megabytes per pod, and the names-only filter of tonnage extender"
                    " refuses it."
                ),
                fix="Set nodeCacheCapable: true for the extender in the scheduler's configuration.",
            ),
            FindingCode(
                code="TON602",
                title="pods pass when the extender is away",
                meaning=(
                    "With ignorable: true kube-scheduler goes on without the extender when it does"
                    " not answer, and limits and opting in are not enforced meanwhile."
                ),
                fix=(
                    "Leave it if scheduling at all matters more; otherwise set ignorable: false and"
                    " run two replicas of the extender."
                ),
            ),
            FindingCode(
                code="TON701",
                title="local capacity, and none for nodes that do not exist yet",
                meaning=(
                    "A driver publishes what single nodes have left. A node that does not exist has"
                    " no such object, so cluster-autoscaler takes it for full and buys nothing."
                ),
                fix=(
                    "Annotate the StorageClass with tonnage.dev/template-capacity and run tonnage"
                    " capacity-templates; tonnage run needs neither where live nodes or the"
                    " group's template tell."
                ),
            ),
            FindingCode(
                code="TON702",
                title="capacity for new nodes that matches no node group",
                meaning=(
                    "The object is meant for imagined nodes, and no group's would have the labels"
                    " it selects: it has no effect."
                ),
                fix=(
                    "Compare its nodeTopology with the labels of the groups; delete it if the group"
                    " is gone."
                ),
            ),
            FindingCode(
                code="TON703",
                title="capacity for new nodes is far from what live nodes have",
                meaning=(
                    "The size published for nodes to come and the most that a live node of the same"
                    " kind has free differ by more than a tenth. Nodes with volumes on their disks"
                    " count only if they have more free than is published."
                ),
                fix="Correct tonnage.dev/template-capacity, or let it be learned from live nodes.",
            ),
            FindingCode(
                code="TON704",
                title="a class asks for capacity of new nodes, and none is published",
                meaning=(
                    "The StorageClass is annotated with the size that new nodes have, and there is"
                    " no CSIStorageCapacity for imagined nodes of it: an autoscaler takes new nodes"
                    " to have no room."
                ),
                fix=(
                    "Run tonnage capacity-templates, or tonnage run --enable-capacity-template; if"
                    " it runs, its events on the class say what is wrong."
                ),
            ),
            FindingCode(
                code="TON705",
                title="a real node has the label of imagined ones",
                meaning=(
                    "The label cluster-autoscaler.kubernetes.io/template-node belongs on nodes that"
                    " do not exist yet. With it a real node is taken to have the storage capacity"
                    " that is published for new ones, and volumes are sent to disks that are full."
                ),
                fix=(
                    "kubectl label node NODE cluster-autoscaler.kubernetes.io/template-node-; look"
                    " for it in the labels that machines register with."
                ),
            ),
        )
    }
)


def explained(code: str) -> FindingCode:
    """What a code means; `InputError` with near ones if there is none."""
    found = ALL.get(code.upper())
    if found is None:
        near = near_names(code.upper(), ALL)
        hint = f"; near matches: {', '.join(near)}" if near else f"; there are {', '.join(ALL)}"
        raise InputError(f"no finding has the code {code!r}{hint}")
    return found
