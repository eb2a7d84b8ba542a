"""From the flags of a cluster-autoscaler to an AutoscalerConfig and arguments of `tonnage run`."""

import difflib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from tonnage.autoscaler.config import KIND, AutoscalerConfig
from tonnage.errors import InputError
from tonnage.migration import flags
from tonnage.migration.documents import Followed, Migration, text_of
from tonnage.migration.flags import ARGUMENT, NOT_SUPPORTED, SETTING, Flag
from tonnage.objects import durations
from tonnage.objects.scenarios import API_VERSION
from tonnage.scaleup import expanders
from tonnage.scaleup.priority_texts import parse_priorities
from tonnage.service import config_file, plain_yaml

PROGRAM = "cluster-autoscaler"
WORKLOADS = frozenset({"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Pod"})
PRIORITIES = "cluster-autoscaler-priority-expander"
"""The ConfigMap that upstream's priority expander reads."""

PROVIDERS = ("aws", "clusterapi", "externalgrpc", "kwok")

_FIELDS = {field.encode_name: field for field in msgspec.structs.fields(AutoscalerConfig)}
_SHELLS = ("sh", "bash", "ash", "dash")
_AWARENESS = (
    "cluster-autoscaler does not count attach slots of new nodes without"
    " --enable-csi-node-aware-scheduling; Tonnage does: csiAware, on by default"
)


class Command(NamedTuple):
    """How the program is called, and by which object."""

    source: str
    arguments: tuple[str, ...]


def commands(documents: Iterable[Mapping[str, Any]]) -> Iterator[Command]:
    """Every cluster-autoscaler among workloads of any kind."""
    for document in documents:
        if document.get("kind") not in WORKLOADS:
            continue
        meta = document.get("metadata") or {}
        name = "/".join(filter(None, (meta.get("namespace"), meta.get("name"))))
        source = f"{document['kind']} {name}"
        for container in _containers(document):
            line = _line(container, source=source)
            if any(_is_program(word) for word in line) or _is_program(container.get("image", "")):
                yield Command(source, tuple(word for word in line if not _is_program(word)))


def migrate(
    command: Command, documents: Iterable[Mapping[str, Any]] = (), *, defaults: bool = True
) -> Migration:
    """What means the same here; `documents` may have the priorities of the expander.

    With `defaults`, also what upstream does without a flag.
    """
    made = _Migrating(command.source)
    for name, value in given(command.arguments, source=command.source):
        made.take(name, value)
    if "priority" in str(made.config.get("expander", "")):
        made.take_priorities(documents)
    if defaults:
        made.take_defaults()
    if "csiAware" not in made.config:
        made.warnings.append(_AWARENESS)
    return made.result()


def given(arguments: Sequence[str], *, source: str) -> Iterator[tuple[str, str]]:
    """Flags and their values in the order given; a switch without a value is true."""
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if not re.match(r"--?[A-Za-z]", word):
            raise InputError(
                f"{source}: argument {word!r}: expected a flag such as --expander=price"
            )
        name, sign, value = word.partition("=")
        flag = flags.known(name)
        if not sign:
            # A value may be a negative number; after what nobody knows, only a plain word is one.
            switch = flag is not None and flag.value == "bool"
            end = "-" if flag is None else "--"
            value = rest.pop(0) if rest and not switch and not rest[0].startswith(end) else "true"
        yield flags.normal(name), value


class _Migrating:
    """Gathers what flags come to, in the order they are given."""

    def __init__(self, source: str) -> None:
        self._source = source
        self.config: dict[str, Any] = {}
        self.warnings: list[str] = []
        self._arguments: list[str] = []
        self._followed: list[Followed] = []

    def take(self, name: str, value: str) -> None:
        flag = flags.known(name)
        if flag is None:
            near = difflib.get_close_matches(name, flags.FLAGS, n=1)
            hint = f"; the nearest is --{near[0]}" if near else ""
            note = f"cluster-autoscaler 1.37 has no such flag{hint}"
            self._note(name, value, NOT_SUPPORTED, note=note)
            return
        outcome = flag.outcome_with(_FIELDS)
        if outcome == SETTING:
            self._set(flag, value)
        elif outcome == ARGUMENT:
            self._argue(flag, value)
        else:
            self._note(name, value, outcome, note=flag.reason)

    def take_defaults(self) -> None:
        """What upstream does without a word and we do not: giving nodes back."""
        field = "scaleDownEnabled"
        if field not in self.config:
            self.config[field] = True
            self._note("scale-down-enabled", "true", SETTING, target=field, note="by default there")

    def take_priorities(self, documents: Iterable[Mapping[str, Any]]) -> None:
        """What the ConfigMap of the priority expander says."""
        for document in documents:
            named = (document.get("metadata") or {}).get("name")
            if (document.get("kind"), named) != ("ConfigMap", PRIORITIES):
                continue
            text = text_of((document.get("data") or {}).get("priorities", ""), where=PRIORITIES)
            try:
                rules = parse_priorities(text).rules
            except InputError as error:
                raise InputError(f"ConfigMap {PRIORITIES}: {error}") from error
            self.config["priorities"] = {
                str(priority): [one.pattern for one in patterns] for priority, patterns in rules
            }
            self._note(f"ConfigMap {PRIORITIES}", "", SETTING, target="priorities")
            return
        self.warnings.append(
            f"the priority expander reads ConfigMap {PRIORITIES}, which is not among the input:"
            " add its rules as `priorities`"
        )

    def result(self) -> Migration:
        config = {"apiVersion": API_VERSION, "kind": KIND, **self.config}
        check(config, source=self._source)
        return Migration(
            program=PROGRAM,
            source=self._source,
            arguments=tuple(self._arguments),
            config=config,
            node_groups=tuple(self._groups()),
            followed=tuple(self._followed),
            warnings=tuple(self.warnings),
        )

    def _set(self, flag: Flag, text: str) -> None:
        note = ""
        value: object = text
        match flag.value:
            case "bool":
                value = flags.truth(text)
                if value is None:
                    raise self._wrong(flag, text, "true or false")
            case "int":
                if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
                    raise self._wrong(flag, text, "a whole number")
                value = int(text)
            case "float":
                try:
                    value = float(text)
                except ValueError:
                    raise self._wrong(flag, text, "a number") from None
            case "duration":
                if text != "0" and durations.seconds(text) is None:
                    raise self._wrong(flag, text, config_file.DURATION)
                value = 0 if text == "0" else text
            case "range":
                self._check_range(flag, text)
            case "gates":
                value = self._gates(flag, text)
            case "list":
                before = self.config.get(flag.target, [])
                value = [*before, *(one for one in text.split(",") if one)]
            case "text" if flag.name == "expander":
                note = self._expander(text)
                if note:
                    self._note(flag.name, text, NOT_SUPPORTED, note=note)
                    return
        self.config[flag.target] = value
        self._note(flag.name, text, SETTING, target=flag.target, note=note)

    def _argue(self, flag: Flag, text: str) -> None:
        if flag.name == "cloud-provider" and text not in PROVIDERS:
            self._note(
                flag.name, text, NOT_SUPPORTED,
                note=f"Tonnage has no provider {text}: plan with --provider=declarative and the"
                " NodeGroups below, or run upstream's provider behind externalgrpc",
            )  # fmt: skip
            return
        if flag.name == "nodes":
            self._bounds(flag, text)
        if flag.value == "bool":
            if flags.truth(text) is None:
                raise self._wrong(flag, text, "true or false")
            if flag.name == "clusterapi-cloud-config-authoritative":
                if flags.truth(text):
                    self._arguments.append(flag.target)
            else:
                self._arguments.append(f"{flag.target}={str(flags.truth(text)).lower()}")
        else:
            self._arguments.append(f"{flag.target}={text}")
        note = ""
        if flag.name in ("kubeconfig", "cloud-config"):
            note = "mount the same file"
        self._note(flag.name, text, ARGUMENT, target=flag.target, note=note)

    def _groups(self) -> Iterator[dict[str, Any]]:
        """NodeGroups for what `--nodes` bounds: for plans and dry runs beside any provider."""
        for argument in self._arguments:
            name, _, text = argument.partition("=")
            if name == "--nodes":
                least, most, group = text.split(":", 2)
                short = group.rsplit("/", 1)[-1]
                spec: dict[str, Any] = {"minSize": int(least), "maxSize": int(most)}
                if pool := re.fullmatch(r"aks-([a-z0-9]+)-[0-9]+-vmss", short):
                    labels = {"kubernetes.azure.com/agentpool": pool[1]}
                    spec["nodeSelector"] = {"matchLabels": labels}
                yield {
                    "apiVersion": API_VERSION,
                    "kind": "NodeGroup",
                    "metadata": {"name": short},
                    "spec": spec,
                }

    def _bounds(self, flag: Flag, text: str) -> None:
        parts = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9}):(.+)", text)
        if parts is None or int(parts[1]) > int(parts[2]):
            raise self._wrong(flag, text, "MIN:MAX:NAME")

    def _check_range(self, flag: Flag, text: str) -> None:
        parts = re.fullmatch(r"([0-9]{1,15}):([0-9]{1,15})", text)
        if parts is None or int(parts[1]) > int(parts[2]):
            raise self._wrong(flag, text, "MIN:MAX")

    def _gates(self, flag: Flag, text: str) -> dict[str, bool]:
        gates: dict[str, bool] = dict(self.config.get(flag.target, {}))
        for part in filter(None, text.split(",")):
            name, _, switch = part.partition("=")
            truth = flags.truth(switch)
            if not name or truth is None:
                raise self._wrong(flag, text, "NAME=true,...")
            gates[name] = truth
        return gates

    @staticmethod
    def _expander(text: str) -> str:
        try:
            expanders.check_names(text)
        except InputError as error:
            return str(error)
        return ""

    def _note(
        self, name: str, value: str, outcome: flags.Outcome, *, target: str = "", note: str = ""
    ) -> None:
        setting = name if " " in name else f"--{name}"
        self._followed.append(
            Followed(setting=setting, value=value, outcome=outcome, target=target, note=note)
        )

    def _wrong(self, flag: Flag, text: str, expected: str) -> InputError:
        return InputError(f"{self._source}: --{flag.name}={text}: expected {expected}")


def check(config: Mapping[str, Any], *, source: str) -> None:
    """An `InputError` if `tonnage run` would not take the settings."""
    config_file.parse(plain_yaml.dump(config).encode(), AutoscalerConfig, where=source, given={})


def _is_program(word: str) -> bool:
    name = word.rsplit("/", 1)[-1].partition("@")[0].partition(":")[0]
    return name.startswith(PROGRAM) and not word.startswith("-")


def _containers(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    spec = document.get("spec") or {}
    if document["kind"] != "Pod":
        spec = (spec.get("template") or {}).get("spec") or {}
    found = spec.get("containers") or []
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _line(container: Mapping[str, Any], *, source: str) -> list[str]:
    """Command and arguments; a shell's script is taken apart, variables are put in."""
    words = [
        text_of(word, where=f"{source}: {field}")
        for field in ("command", "args")
        for word in container.get(field) or ()
    ]
    known = {
        one["name"]: one["value"]
        for one in container.get("env") or ()
        if isinstance(one, dict) and "name" in one and "value" in one
    }
    words = [re.sub(r"\$\((\w+)\)", lambda m: str(known.get(m[1], m[0])), one) for one in words]
    if len(words) > 2 and words[0].rsplit("/", 1)[-1] in _SHELLS and words[1] == "-c":
        try:
            words = shlex.split(words[2].replace("\\\n", " "))
        except ValueError as error:
            raise InputError(f"{source}: command: {error}") from error
        words = [one for one in words if one not in ("exec", "2>&1", "1>&2")]
    return words
