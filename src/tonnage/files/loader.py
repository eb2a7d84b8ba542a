"""From manifests on disk to typed objects.

Decides which form a file has (JSON, JSON lines, YAML) and takes it apart into documents;
what becomes of them is the collector's business.
"""

import time
from collections.abc import Callable, Sequence
from typing import BinaryIO

import msgspec

from tonnage.errors import InputError
from tonnage.files import documents, jsontext, sources, yamltext
from tonnage.files.documents import DocumentPosition, UnreadableError
from tonnage.files.loaded import Loaded
from tonnage.files.object_collector import ObjectCollector, Progress
from tonnage.objects.codec import collector_paused
from tonnage.objects.phrases import listed
from tonnage.objects.storage import PersistentVolumeClaim
from tonnage.scaleup import replicas

SLOW = 2.0
"""Seconds of YAML in one file after which JSON is worth a note."""


def load(
    paths: Sequence[sources.PathLike],
    *,
    lenient: bool = False,
    beside: frozenset[str] = frozenset(),
    expand: bool = True,
    stdin: BinaryIO | None = None,
    on_progress: Progress | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Loaded:
    """All objects in the given files and directories; `-` is standard input.

    Strictly, the first object that cannot be used is an `InputError`. Leniently it is left out
    and listed in `problems`, and only a file that cannot be read at all is an `InputError`.
    Objects of the kinds named by `beside` are kept as written too. With `expand`, workloads get
    the pods and claims that their controllers would create.
    """
    collector = ObjectCollector(lenient=lenient, beside=beside, on_progress=on_progress)
    with collector_paused():
        for source in sources.find(paths):
            data = sources.read(source, stdin=stdin)
            if data.strip() in (b"null", b"~", b"[]", b"{}"):
                collector.notes.append(f"{source.name}: no objects, only {data.strip().decode()}")
            try:
                if not _read_json(source.name, data, collector):
                    _read_yaml(source.name, data, collector, clock=clock)
            except (jsontext.JsonError, yamltext.YamlError) as error:
                raise InputError(f"{source.name}: {error}") from error
    loaded = collector.result()
    return _expanded(loaded) if expand else loaded


def _expanded(loaded: Loaded) -> Loaded:
    """With the pods of workloads that nobody has created yet, and their claims."""
    made = replicas.missing(loaded.written, loaded.objects)
    notes = [*loaded.notes, *made.notes]
    if len(loaded.written) < len(loaded.objects):
        bare = replicas.recorded_without_pods(loaded.objects)
        if bare:
            notes.append(
                "a Scenario is a cluster as it was recorded: no pods are made for"
                f" {listed(bare)};"
                " give the manifests in a file of their own"
            )
    claims = [one for one in loaded.written if isinstance(one, PersistentVolumeClaim)]
    renewed = {
        (one.metadata.namespace, one.metadata.name): one
        for one in replicas.with_default_class(claims, loaded.objects)
    }
    objects = loaded.objects
    if renewed:
        objects = [
            renewed.get((obj.metadata.namespace, obj.metadata.name), obj)
            if isinstance(obj, PersistentVolumeClaim)
            else obj
            for obj in objects
        ]
    return msgspec.structs.replace(loaded, objects=[*objects, *made.objects], notes=notes)


def _read_json(name: str, data: bytes, collector: ObjectCollector) -> bool:
    """Whether it was JSON. Text that begins like JSON must be, unless its name says YAML."""
    if data.lstrip()[:1] not in (b"{", b"["):
        return False
    plain_name = name.lower().removesuffix(".gz")
    try:
        opened = documents.opened(data)
    except UnreadableError as error:
        rest = jsontext.rest_after(error.complaint)
        if rest is not None and data.startswith(b"---", rest):
            return False
        if plain_name.endswith(".jsonl") or (rest is not None and jsontext.one_per_line(data)):
            found = jsontext.lines(data)
        elif plain_name.endswith((".yaml", ".yml")):
            return False
        elif rest is not None:
            found = jsontext.stream(data)
        else:
            raise jsontext.explained(error.complaint, data) from error
        for line, document in found:
            collector.add(document, DocumentPosition(file=name, line=line))
    else:
        collector.add(data, DocumentPosition(file=name), opened=opened)
    return True


def _read_yaml(
    name: str, data: bytes, collector: ObjectCollector, *, clock: Callable[[], float]
) -> None:
    started = clock()
    parts = read = 0
    broken: yamltext.YamlError | None = None
    for line, part in yamltext.split(data):
        parts += 1
        try:
            for document in yamltext.read(part, first_line=line):
                read += 1
                place = DocumentPosition(file=name, document=parts, tree=document)
                collector.add(document.value, place)
        except yamltext.YamlError as error:
            broken = broken or error
            place = DocumentPosition(file=name, document=parts, line=error.line)
            collector.refuse(place, error.message, cause=error)
    if broken is not None and not read:
        raise broken
    seconds = clock() - started
    if seconds >= SLOW:
        collector.notes.append(
            f"{name}: {parts:,} documents of YAML took {seconds:.1f} s; "
            f"JSON loads about {yamltext.slowness()} times faster: kubectl get -o json"
        )
    if not parts:
        collector.notes.append(f"{name}: no objects, only comments")
