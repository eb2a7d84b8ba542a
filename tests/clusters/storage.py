"""Storage of random clusters: classes, drivers, claims and volumes in every state there is."""

import msgspec

from tests.clusters.dice import Dice
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import LabelRequirement, LabelSelector, ObjectMeta
from tonnage.objects.pods import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
)
from tonnage.objects.storage import (
    CLASS_ANNOTATION,
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    StorageClass,
    TopologyTerm,
    VolumeAttachment,
)
from tonnage.objects.volume_sources import (
    AWSElasticBlockStoreSource,
    AzureDiskSource,
    AzureFileSource,
    CinderSource,
    GCEPersistentDiskSource,
    ISCSISource,
    PortworxVolumeSource,
    RBDSource,
    VolumeSource,
    VsphereVolumeSource,
)
from tonnage.testing import builders

ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
REGION = "us-east-1"

EBS = "ebs.csi.aws.com"
PD = "pd.csi.storage.gke.io"
LOCAL = "local.csi.example"
FILES = "files.csi.example"
DRIVERS = (
    EBS,
    PD,
    LOCAL,
    FILES,
    "disk.csi.azure.com",
    "cinder.csi.openstack.org",
    "pxd.portworx.com",
)

IN_TREE = (
    "kubernetes.io/aws-ebs",
    "kubernetes.io/gce-pd",
    "kubernetes.io/azure-disk",
    "kubernetes.io/cinder",
    "kubernetes.io/portworx-volume",
    "kubernetes.io/vsphere-volume",
)

PROVISIONERS = {
    "ebs": EBS,
    "ebs-zonal": EBS,
    "pd": PD,
    "local": LOCAL,
    "files": FILES,
    "old-ebs": "kubernetes.io/aws-ebs",
    "old-files": "kubernetes.io/azure-file",
    "static": "kubernetes.io/no-provisioner",
}
"""Classes that wait for the first consumer."""

INVALID = builders.selecting({}, LabelRequirement(key="kind", operator="Like", values=("fast",)))
"""A selector no server takes today, but old objects may have."""

SIZES = ("1Gi", "5Gi", "10Gi", "10737418241", "50Gi")

CLAIM_STATES = {
    "bound": 40,
    "bound in-tree": 14,
    "bound elsewhere": 4,
    "waiting": 30,
    "waiting static": 6,
    "selected": 4,
    "prebound": 1,
    "immediate": 1,
    "lost": 1,
    "deleting": 1,
    "volume gone": 1,
    "no class": 1,
    "class gone": 1,
}


class StorageMaker:
    """Makes storage objects and remembers them; every claim has its own number."""

    def __init__(self, dice: Dice, nodes: tuple[str, ...], *, odd: bool) -> None:
        self._dice = dice
        self._nodes = nodes
        self._odd = odd
        self._serial = 0
        self.objects: list[KubeObject] = []
        self.claims: dict[str, list[PersistentVolumeClaim]] = {}

    def add_classes(self) -> None:
        dice = self._dice
        for name, provisioner in PROVISIONERS.items():
            zones = dice.some(ZONES, most=2) if name == "ebs-zonal" else ()
            self.objects.append(builders.storage_class(name, provisioner, zones=zones))
        self.objects.append(builders.storage_class("ebs-now", EBS, immediate=True))
        if self._odd:
            self.objects.append(StorageClass(metadata=ObjectMeta(name="modeless"), provisioner=EBS))
            self.objects.append(
                StorageClass(
                    metadata=ObjectMeta(name="nowhere"),
                    provisioner=EBS,
                    volume_binding_mode="WaitForFirstConsumer",
                    allowed_topologies=(TopologyTerm(),),
                )
            )

    def add_drivers(self) -> None:
        dice = self._dice
        for driver in DRIVERS:
            if dice.chance(0.7):
                self.objects.append(self._driver(driver))
        for number in range(dice.between(0, 5)):
            self.objects.append(self._capacity(f"capacity-{number}"))

    def add_static_volumes(self) -> None:
        """Volumes waiting for claims. Sizes differ, so which one is smallest is never a tie."""
        dice = self._dice
        waiting = [
            claim
            for claims in self.claims.values()
            for claim in claims
            if not claim.spec.volume_name
        ]
        for number in range(dice.between(0, 6)):
            reserved = dice.pick(waiting) if waiting and dice.chance(0.25) else None
            if reserved is not None:
                # Two volumes reserved for one claim: which one counts would be chance.
                waiting.remove(reserved)
            name = f"static-{number}"
            class_name = dice.weighted({"static": 6, "local": 2, "ebs": 1})
            volume = builders.pv(
                name,
                driver=LOCAL if dice.chance(0.8) else "",
                size=f"{dice.between(1, 60)}{number}Mi" if dice.chance(0.3) else f"{number + 1}0Gi",
                storage_class=reserved.class_name if reserved is not None else class_name,
                claim=reserved,
                access_modes=dice.some(("ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod")),
                labels={"kind": dice.pick(("fast", "slow"))},
                annotations={CLASS_ANNOTATION: "static"} if dice.chance(0.05) else None,
                attributes_class=dice.weighted({None: 12, "": 2, "gold": 1}),
                node_affinity=self._volume_affinity() if dice.chance(0.7) else None,
                volume_mode=dice.weighted({None: 8, "Filesystem": 2, "Block": 1}),
                phase=dice.weighted({"Available": 8, "Released": 1, "Pending": 1}),
                deleting=dice.chance(0.05),
            )
            self.objects.append(volume)

    def claim_for(self, namespace: str) -> str:
        """The name of a claim for a pod: a new one, a shared one, or one nobody made."""
        dice = self._dice
        existing = self.claims.setdefault(namespace, [])
        if existing and dice.chance(0.3):
            return dice.pick(existing).metadata.name
        if dice.chance(0.01):
            return f"missing-{self._number()}"
        name = f"claim-{self._number()}"
        self._add_claim(name, namespace, owner=None)
        return name

    def ephemeral_for(self, pod: Pod, volume: str) -> None:
        """The claim of a generic ephemeral volume, if its controller got to it."""
        dice = self._dice
        fate = dice.weighted({"owned": 20, "missing": 1, "foreign": 1})
        if fate != "missing":
            name = f"{pod.metadata.name}-{volume}"
            self._add_claim(name, pod.metadata.namespace, owner=pod if fate == "owned" else None)

    def inline(self, name: str) -> VolumeSource:
        """A disk named in the pod itself."""
        dice = self._dice
        disk = f"disk-{dice.between(1, 3)}"
        kind = dice.weighted(
            {"ebs": 4, "gce": 4, "azure": 2, "cinder": 2, "portworx": 1, "other": 3}
        )
        if kind == "ebs":
            return VolumeSource(name=name, aws_elastic_block_store=self._ebs(disk))
        if kind == "gce":
            pd = GCEPersistentDiskSource(pd_name=disk, read_only=dice.chance(0.5))
            return VolumeSource(name=name, gce_persistent_disk=pd)
        if kind == "azure":
            return VolumeSource(name=name, azure_disk=self._azure(disk))
        if kind == "cinder":
            return VolumeSource(name=name, cinder=CinderSource(volume_id=disk))
        if kind == "portworx":
            return VolumeSource(name=name, portworx_volume=PortworxVolumeSource(volume_id=disk))
        read_only = dice.chance(0.5)
        others = (
            VolumeSource(name=name, iscsi=ISCSISource(iqn=disk, read_only=read_only)),
            VolumeSource(
                name=name,
                rbd=RBDSource(
                    monitors=dice.some(("m1", "m2", "m3"), most=2),
                    image=disk,
                    pool=dice.pick(("rbd", "fast")),
                    read_only=read_only,
                ),
            ),
            VolumeSource(name=name, azure_file=AzureFileSource(secret_name="s", share_name=disk)),
            VolumeSource(name=name, vsphere_volume=VsphereVolumeSource(volume_path=disk)),
        )
        return dice.pick(others)

    def _number(self) -> int:
        self._serial += 1
        return self._serial

    def _driver(self, name: str) -> CSIDriver:
        dice = self._dice
        return builders.csidriver(
            name,
            opt_in=dice.weighted({None: 2, False: 1, True: 3}),
            storage_capacity=dice.weighted({None: 1, False: 1, True: 8 if name == LOCAL else 1}),
        )

    def _capacity(self, name: str) -> CSIStorageCapacity:
        dice = self._dice
        topologies: tuple[dict[str, str], ...] = (
            {},
            {builders.ZONE: dice.pick(ZONES)},
            {builders.HOSTNAME: dice.pick(self._nodes)},
        )
        found = builders.capacity(
            name,
            dice.weighted({"local": 6, "ebs": 1, "gone": 1}),
            free=dice.pick((None, "0", "1Gi", "10Gi", "100Gi")),
            largest=dice.pick((None, None, "5Gi", "10Gi", "0")),
            topology=dice.pick(topologies),
            namespace=dice.pick(("default", "kube-system")),
        )
        unreachable = dice.weighted({"no": 8, "nowhere": 1, "invalid": 1 if self._odd else 0})
        if unreachable == "no":
            return found
        selector = INVALID if unreachable == "invalid" else None
        return msgspec.structs.replace(found, node_topology=selector)

    def _add_claim(self, name: str, namespace: str, *, owner: Pod | None) -> None:
        dice = self._dice
        state = dice.weighted(CLAIM_STATES)
        size = dice.weighted({**dict.fromkeys(SIZES, 6), None: 1})
        modes = dice.weighted(
            {("ReadWriteOnce",): 8, ("ReadWriteMany",): 2, ("ReadWriteOncePod",): 2}
        )
        bound = state in ("bound", "bound in-tree", "bound elsewhere", "volume gone")
        volume = f"pv-{name}-{namespace}" if bound or state in ("prebound", "lost") else ""
        class_name: str | None = {
            "waiting static": "static",
            "immediate": "ebs-now",
            "no class": None,
            "class gone": "gone",
        }.get(state, dice.pick(list(PROVISIONERS)))
        if self._odd and state == "waiting" and dice.chance(0.2):
            class_name = dice.pick(("modeless", "nowhere"))
        by_annotation = dice.chance(0.05)
        claim = builders.pvc(
            name,
            namespace=namespace,
            storage_class=dice.pick(("gone", None)) if by_annotation else class_name,
            volume=volume,
            bound=bound,
            size=size,
            access_modes=modes,
            selector=self._claim_selector() if dice.chance(0.05) else None,
            volume_mode=dice.weighted({None: 8, "Filesystem": 2, "Block": 1}),
            attributes_class=dice.weighted({None: 12, "": 2, "gold": 1}),
            owner=owner,
            selected_node=dice.pick(self._nodes) if state == "selected" else "",
            annotations={CLASS_ANNOTATION: class_name or ""} if by_annotation else None,
            phase="Lost" if state == "lost" else "",
            deleting=state == "deleting",
        )
        self.objects.append(claim)
        if owner is None:
            self.claims.setdefault(namespace, []).append(claim)
        if bound and state != "volume gone":
            self._add_volume(claim, state)

    def _add_volume(self, claim: PersistentVolumeClaim, state: str) -> None:
        dice = self._dice
        name = claim.spec.volume_name
        driver, source = "", None
        if state == "bound":
            driver = dice.weighted({EBS: 4, PD: 2, LOCAL: 2, FILES: 2})
        elif state == "bound in-tree":
            source = self._in_tree(f"disk-{dice.between(1, 9)}")
        zone_label = dice.pick(
            (builders.ZONE, builders.ZONE, "failure-domain.beta.kubernetes.io/zone")
        )
        zones = "__".join(dice.some(ZONES, most=2))
        labels = {zone_label: zones} if dice.chance(0.25) else {}
        if self._odd and dice.chance(0.1):
            labels = {zone_label: dice.pick(("", "__", "no such zone__x"))}
        self.objects.append(
            builders.pv(
                name,
                driver=driver,
                handle="shared-handle" if dice.chance(0.03) else None,
                source=source,
                size=claim.spec.resources.requests.get("storage", "1Gi"),
                storage_class=claim.class_name,
                claim=claim,
                labels=labels,
                node_affinity=self._volume_affinity() if dice.chance(0.35) else None,
            )
        )
        if dice.chance(0.35):
            self.objects.append(self._attachment(name, driver))

    def _claim_selector(self) -> LabelSelector:
        return (
            INVALID
            if self._odd and self._dice.chance(0.3)
            else builders.selecting({"kind": "fast"})
        )

    def _attachment(self, volume: str, driver: str) -> VolumeAttachment:
        dice = self._dice
        return builders.attachment(
            volume,
            dice.pick((*self._nodes, "gone")),
            attacher=driver if driver and dice.chance(0.9) else dice.pick((EBS, "")),
            attached=dice.chance(0.7),
        )

    def _in_tree(self, disk: str) -> VolumeSource:
        dice = self._dice
        return dice.pick(
            (
                VolumeSource(aws_elastic_block_store=self._ebs(disk)),
                VolumeSource(gce_persistent_disk=GCEPersistentDiskSource(pd_name=disk)),
                VolumeSource(azure_disk=self._azure(disk)),
                VolumeSource(cinder=CinderSource(volume_id=disk)),
                VolumeSource(portworx_volume=PortworxVolumeSource(volume_id=disk)),
                VolumeSource(vsphere_volume=VsphereVolumeSource(volume_path=disk)),
            )
        )

    def _ebs(self, disk: str) -> AWSElasticBlockStoreSource:
        dice = self._dice
        forms = [f"vol-{disk}", f"aws://{dice.pick(ZONES)}/vol-{disk}", f"aws:///vol-{disk}"]
        if self._odd and dice.chance(0.1):
            forms = [f"aws://zone/{disk}"]
        return AWSElasticBlockStoreSource(volume_id=dice.pick(forms))

    def _azure(self, disk: str) -> AzureDiskSource:
        dice = self._dice
        kinds = {None: 4, "Managed": 2, "managed": 1, "Dedicated": 1 if self._odd else 0}
        return AzureDiskSource(disk_uri=f"/subscriptions/x/{disk}", kind=dice.weighted(kinds))

    def _volume_affinity(self) -> NodeSelector:
        dice = self._dice
        key = dice.pick(
            (builders.ZONE, builders.ZONE, builders.HOSTNAME, "topology.ebs.csi.aws.com/zone")
        )
        values = dice.some(self._nodes if key == builders.HOSTNAME else ZONES, most=2)
        requirement = NodeSelectorRequirement(key=key, operator="In", values=values)
        terms = [NodeSelectorTerm(match_expressions=(requirement,))]
        if dice.chance(0.1):
            # Volumes are held against labels alone, so this one is as good as empty.
            by_name = NodeSelectorRequirement(
                key="metadata.name", operator="In", values=(dice.pick(self._nodes),)
            )
            terms.append(NodeSelectorTerm(match_fields=(by_name,)))
        return NodeSelector(node_selector_terms=tuple(terms))
