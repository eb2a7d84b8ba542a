"""Gathers typed objects out of documents, and keeps account of everything else.

Lists and Scenarios are opened here, kinds nobody needs are counted, repetitions are noticed,
and here alone it is decided what a bad object means: an `InputError` with file, position,
object and field, or, leniently, a `Problem` in the result.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from tonnage.errors import InputError
from tonnage.files import documents, jsontext
from tonnage.files.documents import DocumentPosition, ObjectHead, Opened, UnreadableError
from tonnage.files.loaded import FileProblem, Loaded, ScenarioOptions
from tonnage.objects import codec, kinds, prices, scenarios
from tonnage.objects.codec import DecodeError
from tonnage.objects.kinds import Kind, KubeObject
from tonnage.objects.phrases import counted, listed
from tonnage.objects.pods import Pod
from tonnage.objects.scenarios import NodeGroup, Scenario
from tonnage.objects.shared_values import SharedValues
from tonnage.objects.storage import OPT_IN_ALIAS, OPT_IN_FIELD, CSIDriver
from tonnage.objects.validation import Fault, Path, describe, one_line
from tonnage.rules import features

Progress: TypeAlias = Callable[[str, int], None]
"""Called with the name of the file being read and the number of objects so far."""

DEEPEST_LIST = 8
"""More lists than this inside each other are no manifest."""

MOST_OBJECTS = 2_000_000
"""More than this is no cluster: ten times the pods of the largest ones, and all that is around."""

_STRIDE = 1000
_Key: TypeAlias = tuple[type[KubeObject], str, str]


class ObjectCollector:
    """Gathers what one load finds. No two of its objects share kind, namespace and name."""

    def __init__(
        self,
        *,
        lenient: bool = False,
        beside: frozenset[str] = frozenset(),
        on_progress: Progress | None = None,
    ) -> None:
        self.notes: list[str] = []
        self._beside = beside
        self._documents: list[dict[str, Any]] = []
        self._lenient = lenient
        self._on_progress = on_progress
        self._shared = SharedValues()
        self._objects: dict[_Key, KubeObject] = {}
        self._recorded: set[_Key] = set()
        """What stands in a Scenario, and so is of a cluster as it was."""
        self._generated: Counter[_Key] = Counter()
        self._repeated: dict[str, None] = {}
        self._by_alias: dict[str, None] = {}
        self._scenario: ScenarioOptions | None = None
        self._names: list[str] = []
        self._problems: list[FileProblem] = []
        self._warnings: list[FileProblem] = []
        self._skipped: Counter[str] = Counter()
        self._unread_versions: dict[str, str] = {}
        self._unread_workloads: list[str] = []
        self._kept = 0

    def add(self, document: object, place: DocumentPosition, *, opened: Opened = None) -> None:
        """Takes one document: an object, a list of objects, or a Scenario.

        `opened` saves opening it again.
        """
        self._add(document, place, (), around=_Around(), opened=opened)

    def refuse(
        self,
        place: DocumentPosition,
        message: str,
        *,
        path: Path = (),
        subject: str = "",
        cause: Exception | None = None,
    ) -> None:
        """A document cannot be used: the end of a strict load, a problem of a lenient one."""
        problem = FileProblem(
            file=place.file,
            position=place.position(path),
            object=subject,
            field=codec.render(path),
            message=message,
        )
        if not self._lenient:
            raise InputError(str(problem)) from cause
        self._problems.append(problem)

    def result(self) -> Loaded:
        notes = list(self.notes)
        if self._repeated:
            notes.append(
                f"{counted(len(self._repeated), 'object')} more than once in the input, "
                f"the last one is used: {listed(list(self._repeated))}"
            )
        if self._by_alias:
            notes.append(
                f"CSIDriver {listed(list(self._by_alias))}: spec.{OPT_IN_ALIAS} is read as"
                f" {OPT_IN_FIELD}, which API servers call it; they drop any other name"
            )
        for unread, read in self._unread_versions.items():
            notes.append(
                f"{counted(self._skipped[unread], 'object')} of {unread} not read, only {read} is"
            )
        for unread in self._unread_workloads:
            if unread not in self._unread_versions:
                count = counted(self._skipped[unread], "object")
                notes.append(
                    f"{count} of {unread} not read: it has a pod template, and its pods are not"
                    " counted unless they are in the input"
                )
        return Loaded(
            objects=list(self._objects.values()),
            name=self._names[0] if len(self._names) == 1 else "",
            scenario=self._scenario,
            problems=self._problems,
            warnings=self._warnings,
            skipped=self._skipped,
            notes=notes,
            beside=self._documents,
            written=[obj for key, obj in self._objects.items() if key not in self._recorded],
        )

    def _add(
        self,
        document: object,
        place: DocumentPosition,
        steps: Path,
        *,
        around: "_Around",
        opened: Opened = None,
    ) -> None:
        """`steps` lead from `place` to the document, which stands inside `around`."""
        try:
            row = documents.row_at_a_glance(document)
            if row is None or row.kind in self._beside:
                opened = documents.opened(document) if opened is None else opened
                if isinstance(opened, list) or (opened is not None and _is_list(opened)):
                    self._add_items(opened, place.inside(steps), around=around)
                    return
                row = self._row(opened, document, around=around)
                if row is None:
                    return
            obj = documents.decoded(document, row)
            if isinstance(obj, Scenario):
                self._add_scenario(obj, place.inside(steps), around=around)
            else:
                self._keep(obj, row, place, recorded=around.in_scenario)
                if isinstance(obj, NodeGroup):
                    self._look_at_price(obj, place.inside(steps))
        except DecodeError as error:
            where = place.inside(steps)
            self.refuse(where, error.message, path=error.path, subject=error.object, cause=error)
        except _RefusedError as error:
            self.refuse(place.inside(steps), error.message, path=error.path)
        except UnreadableError as error:
            message = jsontext.explained(error.complaint, error.text).message
            self.refuse(place.inside(steps), message, cause=error)

    def _add_items(
        self, opened: ObjectHead | list[Any], place: DocumentPosition, *, around: "_Around"
    ) -> None:
        if around.depth >= DEEPEST_LIST:
            raise _RefusedError(
                Fault((), f"at most {DEEPEST_LIST} lists inside each other", "more")
            )
        inner = _Around(depth=around.depth + 1, in_scenario=around.in_scenario)
        if isinstance(opened, list):
            for index, item in enumerate(opened):
                self._add(item, place, (index,), around=inner)
            return
        if opened.kind != "List":
            inner = msgspec.structs.replace(
                inner, api_version=opened.api_version, kind=opened.kind.removesuffix("List")
            )
        for index, item in enumerate(opened.items or ()):
            self._add(item, place, ("items", index), around=inner)

    def _add_scenario(
        self, scenario: Scenario, place: DocumentPosition, *, around: "_Around"
    ) -> None:
        name = one_line(scenario.metadata.name)
        if around.in_scenario:
            raise _RefusedError(
                Fault(("kind",), "no Scenario inside a Scenario", f"Scenario {name}")
            )
        spec = scenario.spec
        for gate in spec.feature_gates:
            meant = features.misspelt(gate)
            if meant:
                raise _RefusedError(Fault(("spec", "featureGates", gate), meant, describe(gate)))
        settings = ScenarioOptions(
            kubernetes_version=spec.kubernetes_version,
            feature_gates=spec.feature_gates,
            options=spec.options,
        )
        if self._scenario is not None and settings != self._scenario:
            same = f"the kubernetesVersion, featureGates and options of Scenario {self._names[0]}"
            raise _RefusedError(Fault(("spec",), same, f"others in Scenario {name}"))
        self._scenario = settings
        self._names.append(scenario.metadata.name)
        inner = _Around(depth=around.depth + 1, in_scenario=True)
        for index, item in enumerate(spec.objects):
            self._add(item, place, ("spec", "objects", index), around=inner)

    def _keep(self, obj: KubeObject, row: Kind, place: DocumentPosition, *, recorded: bool) -> None:
        meta = obj.metadata
        key = (row.type, meta.namespace, meta.name)
        if key in self._objects:
            if meta.generate_name and meta.name == codec.generated_name(obj):
                # Several pods written from one template are meant to be several pods.
                self._generated[key] += 1
                name = codec.generated_name(obj, nth=self._generated[key])
                obj = codec.renamed(obj, name)
                key = (row.type, meta.namespace, name)
            else:
                name = meta.key
                self._repeated[f"{row.kind} {one_line(name)}"] = None
        if isinstance(obj, CSIDriver) and obj.spec.prevent_pod_placement_without_driver is not None:
            self._by_alias[one_line(meta.name)] = None
        self._objects[key] = self._shared.pod(obj) if isinstance(obj, Pod) else obj
        (self._recorded.add if recorded else self._recorded.discard)(key)
        self._kept += 1
        if self._kept > MOST_OBJECTS:
            raise InputError(f"{place.file}: more than {MOST_OBJECTS:,} objects in the input")
        if self._on_progress is not None and self._kept % _STRIDE == 0:
            self._on_progress(place.file, self._kept)

    def _look_at_price(self, group: NodeGroup, place: DocumentPosition) -> None:
        """A price that cannot be used is said with its place; the group goes on without."""
        wrong = prices.complaint(group.spec.price_per_hour)
        if wrong:
            path = ("spec", "pricePerHour")
            self._warnings.append(
                FileProblem(
                    file=place.file,
                    position=place.position(path),
                    object=f"NodeGroup {one_line(group.metadata.name)}",
                    field=codec.render(path),
                    message=wrong,
                )
            )

    def _row(self, head: ObjectHead | None, document: object, *, around: "_Around") -> Kind | None:
        """The registry's row for a document; `None` if it has none, and then it is counted."""
        if head is None:
            if documents.is_null(document):
                return None
            found = documents.shown(document)
            raise _RefusedError(Fault((), "an object with apiVersion and kind", found))
        api_version = _name("apiVersion", head.api_version or around.api_version, example="v1")
        kind = _name("kind", head.kind or around.kind, example="Pod")
        row = kinds.by_kind(api_version, kind)
        if kind in self._beside:
            # The kind may stand on the list around it only.
            written = documents.plain(document)
            self._documents.append({**written, "apiVersion": api_version, "kind": kind})
        elif row is None:
            label = self._skip(api_version, kind)
            # The first tells for all of its kind.
            if self._skipped[label] == 1 and _makes_pods(documents.plain(document)):
                self._unread_workloads.append(label)
        return row

    def _skip(self, api_version: str, kind: str) -> str:
        """Counts an object that has no row, or refuses it if that is surely a mistake.

        What it is counted as.
        """
        group = api_version.rpartition("/")[0]
        # A kind of somebody's own may have the name of another, so it carries its group.
        label = f"{kind}.{group}" if "." in group and not group.endswith("k8s.io") else kind
        if group == _OUR_GROUP:
            ours = [f"{row.api_version} {row.kind}" for row in kinds.ALL if row.group == group]
            found = one_line(f"{api_version} {kind}")
            raise _RefusedError(Fault(("kind",), " or ".join(ours), found))
        for row in kinds.ALL:
            if row.kind == kind:
                if row.group == group:
                    label = f"{api_version} {kind}"
                    self._unread_versions[label] = row.api_version
                elif group in _GROUPS:
                    expected = f"{row.api_version} for a {kind}"
                    raise _RefusedError(Fault(("apiVersion",), expected, describe(api_version)))
                else:
                    label = f"{kind}.{group}"
        label = one_line(label)
        self._skipped[label] += 1
        return label


def _makes_pods(tree: object) -> bool:
    """Whether an object of an unknown kind has a template of pods, as workloads do."""
    for step in ("spec", "template", "spec", "containers"):
        tree = tree.get(step) if isinstance(tree, dict) else None
    return bool(tree)


class _Around(msgspec.Struct, frozen=True, kw_only=True):
    """What surrounds a document: how deep it is, and the kind its list says it has."""

    depth: int = 0
    in_scenario: bool = False
    api_version: str = ""
    kind: str = ""


class _RefusedError(Exception):
    """A document that is no object we can name; on its way to `Collector.refuse`."""

    def __init__(self, fault: Fault) -> None:
        self.path = fault.path
        self.message = f"expected {fault.expected}, found {fault.found}"
        super().__init__(self.message)


_OUR_GROUP = scenarios.API_VERSION.partition("/")[0]
_GROUPS = {row.group for row in kinds.ALL}


def _is_list(head: ObjectHead) -> bool:
    """A `List`, or a `PodList` and the like; a kind may be called so and have no items."""
    kind = head.kind
    return kind == "List" or (
        isinstance(kind, str)
        and kind.endswith("List")
        and head.items is not None
        and isinstance(head.api_version, str)
    )


def _name(field: str, value: object, *, example: str) -> str:
    if isinstance(value, str) and value:
        return value
    found = describe(value) if value else "none"
    raise _RefusedError(Fault((field,), f"a name such as {example}", found))
