"""Attach limits as node resources: their keys, and the numbers clusters used before CSI.

A limit that is published in a node's status has a resource name made from its driver, and that
name cannot always be read back. The old numbers of the in-tree plugins belong here too: they were
published and read under the same kind of key, by kubelets and schedulers that are still in use.
"""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from tonnage.errors import InputError
from tonnage.objects import quantities, resources
from tonnage.objects.intree import AWS_EBS, AZURE_DISK, CINDER, GCE_PD, csi_driver_of
from tonnage.objects.meta import ResourceList
from tonnage.objects.storage import CSIDriver

PREFIX = "attachable-volumes-"
CSI_PREFIX = PREFIX + "csi-"
KEY_ANNOTATION = "tonnage.dev/attach-limit-key"
"""On a CSIDriver: the key of its limit, in place of the one made by rule."""

INTREE_KEYS: Mapping[str, str] = MappingProxyType(
    {
        AWS_EBS: PREFIX + "aws-ebs",
        GCE_PD: PREFIX + "gce-pd",
        AZURE_DISK: PREFIX + "azure-disk",
        CINDER: PREFIX + "cinder",
    }
)
"""The in-tree plugins that had a limit, and its key."""

INTREE_DRIVERS: Mapping[str, str] = MappingProxyType(
    {plugin: driver for plugin in INTREE_KEYS if (driver := csi_driver_of(plugin)) is not None}
)
"""The CSI drivers that attach their volumes today."""

PLUGINS: Mapping[str, str] = MappingProxyType(
    {driver: plugin for plugin, driver in INTREE_DRIVERS.items()}
)
"""The in-tree plugin whose volumes a CSI driver attaches today."""

_INTREE_KEY_OF = {driver: INTREE_KEYS[plugin] for driver, plugin in PLUGINS.items()}

PROVIDERS: Mapping[str, str] = MappingProxyType(
    {AWS_EBS: "aws", GCE_PD: "gce", AZURE_DISK: "azure", CINDER: "openstack"}
)
"""The cloud provider, as a kubelet names it, that each of them works with."""

_NAME_LIMIT = 63
_DRIVER_HEAD = 23
_DIGEST_HEAD = 16
_HASHED_LENGTH = len(CSI_PREFIX) + _DRIVER_HEAD + _DIGEST_HEAD

_CONTAINER_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
_HUGE_PAGES = "hugepages-"
_NATIVE_NAMESPACE = "kubernetes.io/"

_EBS_DEFAULT = 39
_EBS_NITRO = 25
# Only the first alternative is anchored; a type that has "t3" or "z1d" anywhere matches as well.
_EBS_NITRO_TYPES = r"^[cmr]5.*|t3|z1d"
_GCE_DEFAULT = 16
_GCE_SMALL = 15
_GCE_BIG = 127
_GCE_SMALL_TYPES = frozenset({"f1-micro", "g1-small", "e2-micro", "e2-small", "e2-medium"})
_GCE_N1_SHAPE = r"n1-[a-z]+-([0-9]+)"
_AZURE_DEFAULT = 16
_CINDER_DEFAULT = 256
_INTEGER = r"[+-]?[0-9]+"


# Keys


def key_for(driver: str) -> str:
    """The resource name of a driver's attach limit, by rule.

    In-tree plugins (`kubernetes.io/aws-ebs`) have keys of their own. The name of a CSI driver is
    appended to the prefix; from 40 characters on it is cut and a digest is added, and such a key
    always has 62 characters.
    """
    if not driver:
        raise InputError("the name of a CSI driver is empty: a key cannot be made from it")
    intree = INTREE_KEYS.get(driver)
    if intree is not None:
        return intree
    if not is_hashed(driver):
        return CSI_PREFIX + driver
    import hashlib  # brings OpenSSL; no name of a usual driver is that long

    digest = hashlib.sha1(driver.encode(), usedforsecurity=False).hexdigest()
    return CSI_PREFIX + driver[:_DRIVER_HEAD] + digest[:_DIGEST_HEAD]


def is_hashed(driver: str) -> bool:
    """Whether the rule shortens this driver's name in its key."""
    # A name of 40 characters would still make a legal key of 63; the rule hashes it anyway.
    return driver not in INTREE_KEYS and len(CSI_PREFIX) + len(driver) >= _NAME_LIMIT


def key_of(driver: CSIDriver) -> str:
    """The resource name of a driver's attach limit: the one its object names, else by rule."""
    own = _own_key(driver)
    if own is None:
        return key_for(driver.metadata.name)
    if not (is_attachable_volumes(own) and resources.valid_qualified_name(own)):
        raise InputError(
            f"CSIDriver {driver.metadata.name}: annotation {KEY_ANNOTATION}: {own!r} is no key of "
            f"an attach limit; expected a resource name that begins with {PREFIX}"
        )
    return own


def driver_of(key: str, candidates: Iterable[str | CSIDriver] = ()) -> str | None:
    """The driver or in-tree plugin whose limit a key holds, or None when nobody can tell.

    A hashed key cannot be read back, and a key that a CSIDriver chose follows no rule: both are
    found among the candidates only.
    """
    for candidate in candidates:
        name = candidate if isinstance(candidate, str) else candidate.metadata.name
        own = None if isinstance(candidate, str) else _own_key(candidate)
        if key == (key_for(name) if own is None else own):
            return name
    for plugin, plugin_key in INTREE_KEYS.items():
        if plugin_key == key:
            return plugin
    if key.startswith(CSI_PREFIX) and len(CSI_PREFIX) < len(key) < _HASHED_LENGTH:
        return key.removeprefix(CSI_PREFIX)
    return None


def drivers_of(keys: Iterable[str], candidates: Iterable[str] = ()) -> list[str]:
    """The CSI drivers whose limits are among the keys, by rule."""
    known = tuple(candidates)
    found = (driver_of(key, known) for key in keys if key.startswith(CSI_PREFIX))
    return [driver for driver in found if driver is not None]


class KeyLimit(NamedTuple):
    """A limit as a node's resources have it, and under which key."""

    slots: int
    key: str


def own_keys(drivers: Iterable[CSIDriver]) -> dict[str, str]:
    """The keys that CSIDrivers name themselves; what is no such key is passed over."""
    found = {}
    for driver in drivers:
        own = _own_key(driver)
        if own is not None and is_attachable_volumes(own) and resources.valid_qualified_name(own):
            found[driver.metadata.name] = own
    return found


def published(
    amounts: ResourceList, drivers: Iterable[str], own: Mapping[str, str]
) -> dict[str, KeyLimit]:
    """By driver, the limits among a node's resources; `drivers` are those to look for.

    A key that a CSIDriver names goes before the one made by rule, and that before the key of the
    in-tree plugin whose volumes the driver attaches today.
    """
    keys = {name for name in amounts if is_attachable_volumes(name)}
    if not keys:
        return {}
    looked_for = {*drivers, *own}
    looked_for.update(drivers_of(keys, looked_for), INTREE_DRIVERS.values())
    found = {}
    for driver in looked_for:
        candidates = (own.get(driver), key_for(driver), _INTREE_KEY_OF.get(driver))
        key = next((candidate for candidate in candidates if candidate in keys), None)
        if key is not None:
            found[driver] = KeyLimit(quantities.value(amounts[key]), key)
    return found


def is_attachable_volumes(name: str) -> bool:
    """Whether a resource name is that of an attach limit."""
    return name.startswith(PREFIX)


def can_be_requested(name: str) -> bool:
    """Whether a container may ask for a resource of this name: never for an attach limit."""
    if "/" not in name:
        return name in _CONTAINER_RESOURCES or name.startswith(_HUGE_PAGES)
    if _NATIVE_NAMESPACE in name:
        return resources.valid_qualified_name(name)
    return resources.is_extended(name)


# Numbers from before CSI


def max_from_environment(value: str | None) -> int | None:
    """What `KUBE_MAX_PD_VOLS` says: a positive whole number, or nothing at all."""
    if value is None or not re.fullmatch(_INTEGER, value):
        return None
    number = int(value)
    return number if number > 0 else None


def intree_default(plugin: str, instance_type: str, env_max: int | None) -> int:
    """The limit a scheduler before 1.32 used where the node's status had no key.

    `env_max` is the scheduler's own `KUBE_MAX_PD_VOLS`; it holds for every in-tree plugin.
    """
    _require_intree(plugin)
    if env_max is not None and env_max > 0:
        return env_max
    if plugin == AWS_EBS:
        return _ebs(instance_type)
    return {GCE_PD: _GCE_DEFAULT, AZURE_DISK: _AZURE_DEFAULT, CINDER: _CINDER_DEFAULT}[plugin]


def kubelet_limit(
    plugin: str,
    instance_type: str,
    *,
    provider: str,
    azure_sizes: Mapping[str, int],
    minor: int = 27,
    cinder_limit: int | None = None,
) -> int:
    """The limit an in-tree plugin made the kubelet publish, by cloud and instance type.

    `provider` is the kubelet's own; asking for the disks of another cloud is an error, not a
    guess. `minor` is the kubelet's version (the rule of GCE changed twice), `cinder_limit` the
    cloud configuration's node-volume-attach-limit. The table of Azure sizes, by name in upper
    case, is the caller's; kubelets before 1.15 asked the cloud for it instead.
    """
    _require_intree(plugin)
    expected = PROVIDERS[plugin]
    if provider != expected:
        raise InputError(
            f"the volume limit of {plugin} was asked for on a node of cloud provider "
            f"{provider or 'none'!r}; only nodes of {expected!r} have one"
        )
    if plugin == AWS_EBS:
        return _ebs(instance_type)
    if plugin == GCE_PD:
        return _gce(instance_type, minor)
    if plugin == AZURE_DISK:
        return azure_sizes.get(instance_type.upper(), _AZURE_DEFAULT)
    return cinder_limit if cinder_limit is not None and cinder_limit > 0 else _CINDER_DEFAULT


def _own_key(driver: CSIDriver) -> str | None:
    return driver.metadata.annotations.get(KEY_ANNOTATION)


def _require_intree(plugin: str) -> None:
    if plugin not in INTREE_KEYS:
        known = ", ".join(INTREE_KEYS)
        raise InputError(f"{plugin!r} is no in-tree plugin with volume limits; those are {known}")


def _ebs(instance_type: str) -> int:
    return _EBS_NITRO if re.search(_EBS_NITRO_TYPES, instance_type) else _EBS_DEFAULT


def _gce(machine_type: str, minor: int) -> int:
    if minor <= 12:
        shape = re.fullmatch(_GCE_N1_SHAPE, machine_type)
        if shape is None:
            return _GCE_DEFAULT
        cpus = int(shape.group(1))
        return 32 if cpus == 1 else 64 if cpus < 8 else 128
    if minor <= 14:
        return _GCE_BIG if machine_type.startswith(("n1-", "custom-")) else _GCE_SMALL
    return _GCE_SMALL if not machine_type or machine_type in _GCE_SMALL_TYPES else _GCE_BIG
