"""How published objects are named and labelled, so that anyone can tell whose they are.

An object of ours is known by its name: it follows from the class and the selector, which cannot
be changed, so an object stays ours whatever is done to its labels, and nobody else's becomes ours.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

from tonnage.capacity.node_kinds import GroupKey, full_name
from tonnage.groups.model import TEMPLATE_NODE_LABEL
from tonnage.objects.meta import LabelSelector, Record
from tonnage.objects.storage import CSIStorageCapacity

Pair: TypeAlias = tuple[str, GroupKey]
"""The name of a StorageClass, and a group."""

PROVISIONER_LABEL = "csi.storage.k8s.io/managed-by"
"""On objects that an external-provisioner publishes, and deletes if it does not know them."""

_LONGEST_NAME = 253
_LONGEST_LABEL = 63
_VENDOR = "localdisk.csi.acstor.io"


class Convention(Record, frozen=True, kw_only=True):
    """A way to name and label. With a `provisioner`, only its classes are looked at."""

    annotation: str
    manager_label: str
    manager: str
    class_label: str
    group_label: str
    prefix: str
    always_hashed: bool
    provisioner: str = ""

    def names(self, pairs: Iterable[Pair]) -> dict[Pair, str]:
        """A name for each of the pairs that are wanted at the same time."""
        pairs = list(pairs)
        if self.always_hashed:
            return {pair: self._hashed(pair) for pair in pairs}
        plain = {pair: self._plain(pair) for pair in pairs}
        uses = Counter(plain.values())
        return {
            pair: name if uses[name] == 1 else self._hashed(pair) for pair, name in plain.items()
        }

    def labels(self, pair: Pair) -> dict[str, str]:
        class_name, group = pair
        return {
            self.manager_label: self.manager,
            self.class_label: label_value(class_name),
            self.group_label: label_value("_".join(value for _, value in group)),
        }

    def owns(self, obj: CSIStorageCapacity) -> bool:
        """Whether we published it: by its name, or else by its label and not a provisioner's."""
        pair = pair_of(obj)
        if pair is not None:
            names = {self._hashed(pair)} if self.always_hashed else {
                self._plain(pair), self._hashed(pair)
            }  # fmt: skip
            if obj.metadata.name in names:
                return True
        labels = obj.metadata.labels
        return labels.get(self.manager_label) == self.manager and PROVISIONER_LABEL not in labels

    def _hashed(self, pair: Pair) -> str:
        class_name, group = pair
        digest = _digest(f"{class_name}/{full_name(group)}", 10)
        return f"{self._stem(pair)[: _LONGEST_NAME - 11].rstrip('-')}-{digest}"

    def _plain(self, pair: Pair) -> str:
        """As the vendor's own controller has it: a hash only where the name is too long."""
        stem = self._stem(pair)
        if len(stem) <= _LONGEST_NAME:
            return stem
        class_name, group = pair
        digest = _digest(f"{class_name}/{'-'.join(value for _, value in group)}", 8)
        return f"{stem[: _LONGEST_NAME - 9]}-{digest}"

    def _stem(self, pair: Pair) -> str:
        class_name, group = pair
        parts = (class_name, "-".join(value for _, value in group))
        return "-".join((self.prefix, *(_sanitised(part) for part in parts)))


OURS = Convention(
    annotation="tonnage.dev/template-capacity",
    manager_label="tonnage.dev/managed-by",
    manager="capacity-templates",
    class_label="tonnage.dev/storage-class",
    group_label="tonnage.dev/node-group",
    prefix="tonnage-template",
    always_hashed=True,
)

LOCAL_CSI_DRIVER = Convention(
    annotation=f"{_VENDOR}/template-capacity",
    manager_label=f"{_VENDOR}/managed-by",
    manager="capacitytemplate",
    class_label=f"{_VENDOR}/storageclass",
    group_label=f"{_VENDOR}/node-group",
    prefix="local-csi-template",
    always_hashed=False,
    provisioner=_VENDOR,
)
"""Of the controller in Azure's local-csi-driver, which ours can take the place of."""

BY_NAME = {"none": OURS, "local-csi-driver": LOCAL_CSI_DRIVER}


def selector(group: GroupKey) -> LabelSelector:
    """Matches imagined nodes of the group; no real node carries the last label."""
    return LabelSelector(match_labels={**dict(group), TEMPLATE_NODE_LABEL: "true"})


def pair_of(obj: CSIStorageCapacity) -> Pair | None:
    """What an object is published for, if its selector is one that `selector` makes."""
    topology = obj.node_topology
    if topology is None or topology.match_expressions:
        return None
    labels = dict(topology.match_labels)
    if labels.pop(TEMPLATE_NODE_LABEL, "") != "true" or not labels:
        return None
    return obj.storage_class_name, tuple(sorted(labels.items()))


def label_value(text: str) -> str:
    """The text itself or, where it is too long for a label, its beginning and a hash."""
    if len(text) <= _LONGEST_LABEL:
        return text
    return f"{text[: _LONGEST_LABEL - 9].rstrip('-_.')}-{_digest(text, 8)}"


def _sanitised(text: str) -> str:
    return re.sub(r"[^a-z0-9-]", "-", text.lower()).strip("-")


def _digest(text: str, length: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]
