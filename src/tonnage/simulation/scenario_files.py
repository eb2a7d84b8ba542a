"""Simulation files. Everything in them is checked before anything runs."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.clock.virtual import VirtualClock
from tonnage.embedded.apiserver import ApiServer
from tonnage.embedded.apiserver.kinds import BUILT_IN
from tonnage.errors import InputError
from tonnage.files import jsontext, sources, yamltext
from tonnage.objects import codec, kinds
from tonnage.objects.scenarios import API_VERSION, NodeGroup
from tonnage.objects.validation import describe
from tonnage.rules import features
from tonnage.scheduler.config import SchedulerConfig
from tonnage.service import config_file
from tonnage.simulation.manifests import Manifests, named
from tonnage.simulation.scenario import KIND, Scaling, ScenarioAction, Simulation, Spec, Tree
from tonnage.simulation.settings import Where, converted

SCENARIO = "Scenario"
_SERVER_FIELDS = frozenset({"resourceVersion", "generation", "managedFields", "selfLink"})
OWN_NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
_HEAD = frozenset({"apiVersion", "kind", "metadata", "spec"})
_SERVED = {(kind.api_version, kind.kind) for kind in BUILT_IN}


def read(path: str | Path) -> Simulation:
    """The scenario of a file, with the files that it names."""
    source = sources.find([path])
    if len(source) != 1:
        raise InputError(f"{path}: expected one file with a {KIND}, found a directory")
    name = source[0].name
    return parse(sources.read(source[0]), file=name, beside=Path(path).parent)


def parse(data: bytes, *, file: str, beside: Path) -> Simulation:
    """The scenario in a text; `beside` is where its files are looked for."""
    found: tuple[dict[str, Any], Where] | None = None
    objects: list[tuple[Tree, Where]] = []
    for document in _documents(data, file):
        where = Where(file, document)
        value = document.value
        if isinstance(value, dict) and value.get("kind") == KIND:
            if found is not None:
                raise where.error(f"a second {KIND}: expected one in a file")
            found = value, where
        else:
            objects.append((_manifest(value, where), where))
    if found is None:
        raise InputError(f"{file}: there is no {KIND} in it; expected kind: {KIND}")
    return _simulation(*found, objects=objects, beside=beside)


def _simulation(
    value: dict[str, Any], where: Where, *, objects: list[tuple[Tree, Where]], beside: Path
) -> Simulation:
    if value.get("apiVersion") != API_VERSION:
        raise where.inside("apiVersion").error(
            f"{describe(value.get('apiVersion'))}: expected {API_VERSION}"
        )
    for key in value:
        if key not in _HEAD:
            raise where.inside(key).error(
                "unknown field; expected apiVersion, kind, metadata, spec"
            )
    meta = value.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    if not isinstance(name, str) or not name:
        raise where.inside("metadata", "name").error("expected a name")
    at = where.inside("spec")
    spec = converted(value.get("spec"), Spec, where=at)
    _check_settings(spec, at)
    for position, tree in enumerate(spec.objects):
        place = at.inside("objects", position)
        objects.append((_manifest(tree, place), place))
    for position, action in enumerate(spec.script):
        _check_action(action, spec, at.inside("script", position))
    for position, given in enumerate(spec.files):
        objects += _from_files(beside / given, at.inside("files", position))
    written = value.get("spec", {}).get("world") or {}
    if "nodeLabel" not in written:
        # Nobody else is there to run the pods of the nodes that the files have.
        world = msgspec.structs.replace(spec.world, node_label="")
        spec = msgspec.structs.replace(spec, world=world)
    groups: dict[str, NodeGroup] = {}
    rest: list[tuple[Tree, Where]] = []
    for tree, place in objects:
        made = _checked(tree, place)
        if not isinstance(made, NodeGroup):
            rest.append((tree, place))
        elif made.metadata.name in groups:
            raise place.error(f"NodeGroup {made.metadata.name}: declared twice")
        else:
            groups[made.metadata.name] = made
    _rehearse(rest, spec, at)
    trees = tuple(tree for tree, _ in rest)
    return Simulation(name=name, spec=spec, groups=tuple(groups.values()), objects=trees)


def _rehearse(objects: list[tuple[Tree, Where]], spec: Spec, at: Where) -> None:
    """Put everything into an API that nobody else uses: what it refuses is told before the play."""
    manifests = Manifests(ApiServer(clock=VirtualClock(), rng=random.Random(0)))
    for tree, place in objects:
        _apply(manifests, tree, place)
    for position, action in sorted(enumerate(spec.script), key=lambda one: one[1].at):
        place = at.inside("script", position)
        for number, tree in enumerate(action.apply or ()):
            _apply(manifests, tree, place.inside("apply", number))
        if action.scale is not None:
            _check_scaled(action.scale, manifests, place.inside("scale"))


def _check_scaled(scaled: Scaling, manifests: Manifests, place: Where) -> None:
    if scaled.kind == "ReplicaSet":  # Those of a Deployment have names that nobody knows yet.
        return
    if not manifests.has(scaled.kind, scaled.name, namespace=scaled.namespace):
        raise place.error(
            f"there is no {scaled.kind} {scaled.namespace}/{scaled.name} then: expected it in"
            " objects, files or an earlier apply"
        )


def _apply(manifests: Manifests, tree: Tree, place: Where) -> None:
    try:
        manifests.apply(tree)
    except InputError as error:
        raise place.error(str(error).removeprefix(f"{named(tree)}: ")) from None


def autoscaler_options(spec: Spec) -> dict[str, Any]:
    """The autoscaler's configuration as the file has it, without what nobody here would read or
    need: the API server is one that loses nothing.
    """
    unread = {
        "writeStatusConfigmap": False,
        "decisionRecordingSize": 0,
        "cacheCheckInterval": 0,
    }
    options: dict[str, Any] = {**unread, **spec.options}
    if spec.kubernetes_version:
        options.setdefault("kubernetesVersion", spec.kubernetes_version)
    if spec.feature_gates:
        options.setdefault("featureGates", spec.feature_gates)
    return options


def _check_settings(spec: Spec, at: Where) -> None:
    """The parts that other programs define, by their own rules."""
    try:
        features.check_gates(spec.feature_gates, field="featureGates")
    except InputError as error:
        raise at.error(str(error)) from None
    try:
        features.of_version(spec.kubernetes_version, spec.feature_gates)
    except InputError as error:
        raise at.inside("kubernetesVersion").error(str(error)) from None
    for field, type_, given in (
        ("options", AutoscalerConfig, autoscaler_options(spec)),
        ("scheduler", SchedulerConfig, spec.scheduler),
    ):
        try:
            config_file.parse(b"", type_, where="", given=given)
        except InputError as error:
            raise at.inside(field).error(str(error).removeprefix(": ")) from None


def _check_action(action: ScenarioAction, spec: Spec, at: Where) -> None:
    for position, tree in enumerate(action.apply or ()):
        place = at.inside("apply", position)
        if isinstance(_checked(_manifest(tree, place), place), NodeGroup):
            raise place.error("a NodeGroup is there from the beginning: expected it in objects")
    drivers = {driver.name for driver in spec.world.drivers}
    for deed, field in ((action.set_limit, "setLimit"), (action.crash, "crash")):
        if deed is not None and deed.driver not in drivers:
            known = ", ".join(sorted(drivers)) or "none"
            raise at.inside(field, "driver").error(
                f"{deed.driver!r}: expected a driver of spec.world.drivers, which are: {known}"
            )
    named = [action.scale] if action.scale is not None else list(action.delete or ())
    for target in named:
        if all(kind.kind != target.kind for kind in BUILT_IN):
            raise at.inside(action.deed).error(
                f"{target.kind!r}: expected a kind such as Deployment"
            )
    for kind in action.cut.kinds if action.cut is not None else ():
        if all(one.kind != kind for one in BUILT_IN):
            raise at.inside("cut", "kinds").error(f"{kind!r}: expected kinds such as Pod")
    if action.at > spec.duration:
        raise at.error(f"`at`: {action.at:g} s: expected a time within the duration")


def _manifest(value: object, where: Where) -> Tree:
    """A manifest that has what every object needs."""
    if not isinstance(value, dict):
        raise where.error(f"{describe(value)}: expected a manifest with apiVersion and kind")
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field), str):
            raise where.inside(field).error("expected a manifest with apiVersion and kind")
    meta = value.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
        raise where.inside("metadata", "name").error("expected a name")
    return value


def _checked(tree: Tree, where: Where) -> object:
    """The typed object, where we have a type; the API looks at the rest when it runs."""
    row = kinds.by_kind(tree["apiVersion"], tree["kind"])
    is_group = row is not None and row.type is NodeGroup
    if not is_group and (tree["apiVersion"], tree["kind"]) not in _SERVED:
        raise where.inside("kind").error(
            f"{tree['apiVersion']} {tree['kind']}: the embedded API does not serve this kind"
        )
    if row is None:
        return tree
    try:
        return codec.convert(tree, row)
    except codec.DecodeError as error:
        raise where.error(str(error)) from None


def _from_files(path: Path, where: Where) -> Iterator[tuple[Tree, Where]]:
    """Manifests of a file or a directory, Namespaces first; those that are missing are assumed."""
    found = list(_documents_of(path, where))
    for namespace in missing_namespaces([tree for tree, _ in found]):
        yield namespace, where
    yield from sorted(found, key=lambda one: one[0]["kind"] != "Namespace")


def _documents_of(path: Path, where: Where) -> Iterator[tuple[Tree, Where]]:
    """The objects in order; lists and Scenarios are taken apart."""
    try:
        for source in sources.find([path]):
            for document in _documents(sources.read(source), source.name):
                yield from _taken_apart(document.value, Where(source.name, document))
    except InputError as error:
        if str(error).startswith(str(path)) and not path.exists():
            raise where.error(f"{error}") from None
        raise


def _taken_apart(
    value: object, where: Where, *, kind: Tree | None = None
) -> Iterator[tuple[Tree, Where]]:
    """The objects of a document; `kind` is what the list around it says its items are."""
    if not isinstance(value, dict):
        yield _manifest(value, where), where
        return
    own = str(value.get("kind", ""))
    if own == SCENARIO:
        spec = value.get("spec")
        items = spec.get("objects") if isinstance(spec, dict) else None
        objects = items if isinstance(items, list) else []
        uids = {item["metadata"].get("uid") for item in objects if _has_metadata(item)}
        # Owners first: whoever they own is told their new uid.
        for position, item in sorted(enumerate(objects), key=lambda one: _rank(one[1])):
            inside = where.inside("spec", "objects", position)
            for tree, place in _taken_apart(item, inside):
                yield _without_owners_but(uids, tree), place
    elif own.endswith("List") and isinstance(value.get("items"), list):
        inner = {"apiVersion": value.get("apiVersion"), "kind": own.removesuffix("List")}
        for position, item in enumerate(value["items"]):
            inside = where.inside("items", position)
            yield from _taken_apart(item, inside, kind=inner if inner["kind"] else None)
    else:
        yield _new(_manifest({**(kind or {}), **value}, where)), where


def missing_namespaces(objects: list[Tree]) -> Iterator[Tree]:
    """Those that objects live in: neither an export nor a repository need have them."""
    there = {tree["metadata"]["name"] for tree in objects if tree["kind"] == "Namespace"}
    for name in dict.fromkeys(tree["metadata"].get("namespace") for tree in objects):
        if name and name not in there and name not in OWN_NAMESPACES:
            yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _rank(item: object) -> int:
    """The order in which objects are created, so that none comes before its owner."""
    kind = item.get("kind") if isinstance(item, dict) else None
    if kind in ("Namespace", "Node", "CronJob", "Deployment", "StatefulSet", "DaemonSet"):
        return 0
    if kind in ("ReplicaSet", "ReplicationController", "Job"):
        return 1
    if kind == "PersistentVolumeClaim" and _has_metadata(item):
        assert isinstance(item, dict)
        owners = item["metadata"].get("ownerReferences") or ()
        return 4 if any(one.get("kind") == "Pod" for one in owners) else 2
    return 3 if kind == "Pod" else 2


def _has_metadata(item: object) -> bool:
    return isinstance(item, dict) and isinstance(item.get("metadata"), dict)


def _without_owners_but(uids: set[Any], tree: Tree) -> Tree:
    """The object with no owner that the Scenario lacks: the API would collect it as garbage."""
    owners = tree["metadata"].get("ownerReferences")
    if not isinstance(owners, list):
        return tree
    there = [owner for owner in owners if isinstance(owner, dict) and owner.get("uid") in uids]
    return {**tree, "metadata": {**tree["metadata"], "ownerReferences": there}}


def _new(tree: Tree) -> Tree:
    """An object as if it were created now: what a server gave it in another life is gone.

    Its uid stays, because owners are named by it.
    """
    meta = {key: value for key, value in tree["metadata"].items() if key not in _SERVER_FIELDS}
    return {**tree, "metadata": meta}


def _documents(data: bytes, file: str) -> Iterator[yamltext.YamlDocument]:
    if data.lstrip()[:1] == b"{" and jsontext.one_per_line(data):
        # An export or a batch: a hundred times faster to read so than as YAML.
        for number, text in jsontext.lines(data):
            try:
                value = msgspec.json.decode(text)
            except msgspec.DecodeError as error:
                raise InputError(f"{file}:{number}: {error}") from None
            yield yamltext.YamlDocument(value, line=number, lines={}, repeated=None)
        return
    try:
        for line, part in yamltext.split(data):
            yield from yamltext.read(part, first_line=line)
    except yamltext.YamlError as error:
        raise InputError(f"{file}:{error.line}: {error.message}") from None
