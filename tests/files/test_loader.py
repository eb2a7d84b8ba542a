"""Loading manifests from files, directories and standard input."""

import gzip
import io
import itertools
import json
import pickle
from pathlib import Path

import pytest

from tests.files.manifests import (
    NODE,
    POD,
    from_stdin,
    items,
    lines,
    message,
    names,
    pod,
    scenario,
    write,
)
from tonnage.errors import InputError
from tonnage.files import load
from tonnage.objects.codec import DecodeError

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
BAD_POD = {**POD, "spec": {"containers": [{"resources": {"requests": {"cpu": "lots"}}}]}}
BAD_FIELD = "spec.containers[0].resources.requests.cpu"
BAD_YAML = """\
apiVersion: v1
kind: Pod
metadata:
  name: web-1
spec:
  containers:
    - name: main
      resources:
        requests:
          memory: 1Gi
          cpu: lots
"""


# Forms


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("one.json", json.dumps(POD)),
        ("indented.json", json.dumps(POD, indent=2)),
        ("lines.jsonl", lines(POD)),
        ("list.json", json.dumps(items(POD))),
        ("podlist.json", json.dumps(items({"metadata": {"name": "web-1"}}, kind="PodList"))),
        ("array.json", json.dumps([POD])),
        ("lists-in-lists.json", json.dumps(items(items(POD)))),
        ("one.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: web-1}\n"),
        ("list.yaml", "kind: List\napiVersion: v1\nitems:\n- " + json.dumps(POD)),
        ("podlist.yaml", "kind: PodList\napiVersion: v1\nitems: [{metadata: {name: web-1}}]"),
        ("array.yaml", "- " + json.dumps(POD)),
        ("braces.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: web-1}}"),
        ("json.yaml", json.dumps(POD)),
        ("no-suffix", "apiVersion: v1\nkind: Pod\nmetadata: {name: web-1}\n"),
        ("mark.json", b"\xef\xbb\xbf" + json.dumps(POD).encode()),
        ("powershell.json", json.dumps(POD).encode("utf-16")),
        ("nulls.json", json.dumps(items(None, POD))),
        ("strange-order.json", json.dumps(dict(reversed(POD.items())))),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 25 else "",
)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_every_form_gives_the_same_object(
    tmp_path: Path, name: str, content: str | bytes, packed: bool
) -> None:
    data = content if isinstance(content, bytes) else content.encode()
    path = write(tmp_path, name, gzip.compress(data) if packed else data)
    (found,) = load([path]).objects
    assert (type(found).__name__, found.metadata.namespace, found.metadata.name) == (
        "Pod",
        "default",
        "web-1",
    )


@pytest.mark.parametrize(
    "text",
    [
        lines(pod("a"), pod("b")),
        lines(pod("a")) + "\n\n" + lines(pod("b")),
        json.dumps(pod("a"), indent=2) + "\n" + json.dumps(pod("b"), indent=2),
        json.dumps(pod("a")) + json.dumps(pod("b")),
        json.dumps([pod("a"), pod("b")]),
    ],
    ids=["lines", "blank lines between", "indented", "no space between", "array"],
)
def test_several_json_documents_are_all_read(text: str) -> None:
    assert names(from_stdin(text)) == ["a", "b"]


@pytest.mark.parametrize("indent", [None, 1], ids=["on one line", "indented"])
@pytest.mark.parametrize("start", ["", "---\n", "# from a chart\n---\n", "\n"])
def test_several_yaml_documents_are_all_read(start: str, indent: int | None) -> None:
    text = "\n---\n".join(json.dumps(p, indent=indent) for p in (pod("a"), pod("b")))
    assert names(from_stdin(start + text + "\n---\n")) == ["a", "b"]


def test_several_paths_are_read_in_their_order(tmp_path: Path) -> None:
    paths = [write(tmp_path, f"{name}.json", pod(name)) for name in ("b", "a")]
    assert names(load(paths)) == ["b", "a"]


def test_a_directory_is_read_in_alphabetical_order_and_below(tmp_path: Path) -> None:
    for name in ("c.yml", "a/z.json", "b.jsonl", "a/b/y.yaml.gz"):
        content = json.dumps(pod(name)).encode()
        write(tmp_path, name, gzip.compress(content) if name.endswith("gz") else content)
    assert names(load([tmp_path])) == ["a/b/y.yaml.gz", "a/z.json", "b.jsonl", "c.yml"]


@pytest.mark.parametrize("name", [".hidden.yaml", ".git/x.yaml", "notes.txt", "x.yaml.bak"])
def test_a_directory_s_other_files_are_ignored(tmp_path: Path, name: str) -> None:
    write(tmp_path, name, "junk: [")
    write(tmp_path, "pod.json", POD)
    assert names(load([tmp_path])) == ["web-1"]


def test_a_file_named_itself_is_read_whatever_its_name(tmp_path: Path) -> None:
    assert names(load([str(write(tmp_path, ".hidden.txt", POD))])) == ["web-1"]


# What is not an object of ours


def test_kinds_nobody_needs_are_counted() -> None:
    loaded = from_stdin(json.dumps(items(CONFIG, POD, CONFIG)))
    assert (names(loaded), loaded.skipped, loaded.notes) == (["web-1"], {"ConfigMap": 2}, [])


def test_items_of_a_list_nobody_needs_are_counted() -> None:
    loaded = from_stdin(json.dumps(items({}, {}, kind="SecretList")))
    assert loaded.skipped == {"Secret": 2}


def test_a_kind_of_the_same_name_in_a_foreign_group_is_told_apart() -> None:
    foreign = {"apiVersion": "serving.knative.dev/v1", "kind": "Service"}
    assert from_stdin(json.dumps(foreign)).skipped == {"Service.serving.knative.dev": 1}


def test_a_kind_that_only_sounds_like_a_list_is_counted_itself() -> None:
    foreign = {"apiVersion": "example.com/v1", "kind": "AllowList", "items": {"a": 1}}
    assert from_stdin(json.dumps(foreign)).skipped == {"AllowList.example.com": 1}


def test_a_version_that_is_not_read_is_noted() -> None:
    old = {"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget"}
    (note,) = from_stdin(lines(old, old)).notes
    assert note == "2 objects of policy/v1beta1 PodDisruptionBudget not read, only policy/v1 is"


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"kind": "Pod"}, "apiVersion: expected a name such as v1, found none"),
        ({"apiVersion": "v1"}, "kind: expected a name such as Pod, found none"),
        ({"apiVersion": "v1", "kind": 5}, "kind: expected a name such as Pod, found 5"),
        ({"apiVersion": 1, "kind": "Pod"}, "apiVersion: expected a name such as v1, found 1"),
        (
            {"apiVersion": "v1", "kind": "StatefulSet"},
            'apiVersion: expected apps/v1 for a StatefulSet, found "v1"',
        ),
        (
            {"apiVersion": "tonnage.dev/v1alpha1", "kind": "Nodegroup"},
            (
                "kind: expected tonnage.dev/v1alpha1 NodeGroup or tonnage.dev/v1alpha1 Scenario, "
                "found tonnage.dev/v1alpha1 Nodegroup"
            ),
        ),
    ],
)
def test_a_document_that_surely_is_a_mistake_is_refused(
    document: dict[str, object], text: str
) -> None:
    assert message(document) == text


@pytest.mark.parametrize("text", ["hello", "5", "- 1", '["x"]', "[[[[[[[[[[[[[[1]]]]]]]]]]]]]]"])
def test_text_that_holds_no_objects_is_refused(text: str) -> None:
    assert "expected" in message(text)


# Positions


def test_a_bad_object_in_yaml_is_named_with_file_document_line_and_field(tmp_path: Path) -> None:
    good = json.dumps(NODE, indent=1)
    path = write(tmp_path, "pods.yaml", f"{good}\n---\n# two\n---\n{good}\n---\n{BAD_YAML}")
    with pytest.raises(InputError) as caught:
        load([path])
    bad_line = path.read_text().split("\n").index("          cpu: lots") + 1
    assert str(caught.value) == (
        f"{path}: document 3, line {bad_line}: Pod default/web-1: {BAD_FIELD}: "
        'expected a quantity such as 500m, 2 or 10Gi, found "lots"'
    )


def test_a_bad_object_in_a_list_is_named_with_its_index() -> None:
    assert message(items(NODE, BAD_POD)).startswith(f"items[1]: Pod default/web-1: {BAD_FIELD}: ")


def test_a_bad_object_in_an_array_is_named_with_its_index() -> None:
    assert message(json.dumps([NODE, BAD_POD])).startswith("[1]: Pod default/web-1: ")


def test_a_bad_object_in_a_list_in_yaml_has_index_and_line() -> None:
    indented = BAD_YAML.replace("\n", "\n  ")
    text = message(f"apiVersion: v1\nkind: List\nitems:\n- {indented}")
    assert text.startswith("document 1, line 14, items[0]: Pod default/web-1: ")


def test_a_bad_object_in_json_lines_is_named_with_its_line() -> None:
    assert message("\n" + lines(NODE, BAD_POD)).startswith("line 3: Pod default/web-1: ")


def test_a_bad_object_in_indented_documents_is_named_with_its_first_line() -> None:
    text = json.dumps(NODE, indent=0) + "\n\n" + json.dumps(BAD_POD, indent=0)
    assert message(text).startswith("line 9: Pod default/web-1: ")


def test_a_bad_object_in_a_scenario_is_named_with_its_index() -> None:
    text = message(scenario("s", NODE, BAD_POD))
    assert text.startswith(f"spec.objects[1]: Pod default/web-1: {BAD_FIELD}: ")


def test_a_bad_object_in_a_scenario_in_yaml_has_its_line() -> None:
    indented = BAD_YAML.replace("\n", "\n    ")
    head = "apiVersion: tonnage.dev/v1alpha1\nkind: Scenario\nmetadata: {name: s}\n"
    text = message(f"{head}spec:\n  objects:\n  - {indented}")
    assert text.startswith("document 1, line 16, spec.objects[0]: Pod default/web-1: ")


def test_the_cause_of_an_error_is_kept() -> None:
    with pytest.raises(InputError) as caught:
        from_stdin(json.dumps(BAD_POD))
    assert isinstance(caught.value.__cause__, DecodeError)


# Files that cannot be read


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b" \n\n", "empty"),
        (gzip.compress(b"", mtime=0), "empty"),
        (bytes(range(256)) * 10, "binary"),
        (b"\x1f\x8bnot gzip", "gzip"),
        (gzip.compress(lines(POD).encode() * 50, mtime=0)[:-20], "gzip"),
        (b"\xff\xfe\x00", "UTF-16"),
        (b'{"kind": "Pod", "apiVersion": "\xff"}', "line 1: not UTF-8"),
        (b'{\n"kind": "Pod",\n"metadata": }', "line 3: not JSON: invalid character at column 13"),
        (b'{"kind": "Pod"', "not JSON: it ends too early"),
        (b'{"kind": "Pod"}}', "line 1"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b"a: \xff", "line 1: not YAML"),
        (b"a: [", "line 1: not YAML"),
        (b"key: " + b"[" * 10_000, "levels of nesting"),
        (b"PK\x03\x04\x14\x00\x00\x00", "binary"),
    ],
    ids=lambda value: repr(value[:30]),
)
@pytest.mark.parametrize("lenient", [False, True], ids=["strict", "lenient"])
def test_a_file_that_cannot_be_read_says_which_and_why(
    tmp_path: Path, content: bytes, reason: str, lenient: bool
) -> None:
    path = write(tmp_path, "x", content)
    with pytest.raises(InputError) as caught:
        load([path], lenient=lenient)
    assert str(caught.value).startswith(f"{path}: ")
    assert reason in str(caught.value)


@pytest.mark.parametrize("path", ["nowhere.yaml", "no/such/dir", "a\0b"])
def test_a_path_that_leads_nowhere_is_an_input_error(path: str) -> None:
    with pytest.raises(InputError):
        load([path])


def test_a_directory_without_manifests_says_what_it_expected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no manifests.*\*\.yaml"):
        load([tmp_path])


def test_standard_input_can_be_named_only_once() -> None:
    with pytest.raises(InputError, match="only once"):
        load(["-", "-"], stdin=io.BytesIO(b"{}"))


def test_a_file_of_comments_is_noted_and_no_error() -> None:
    assert from_stdin("# nothing\n---\n").notes == ["standard input: no objects, only comments"]


# Lenience


def test_leniently_a_bad_object_is_left_out_and_listed() -> None:
    loaded = from_stdin(json.dumps(items(NODE, BAD_POD, pod("b"))), lenient=True)
    (problem,) = loaded.problems
    assert names(loaded) == ["n1", "b"]
    assert (problem.file, problem.position, problem.object, problem.field, problem.message) == (
        "standard input",
        "items[1]",
        "Pod default/web-1",
        BAD_FIELD,
        'expected a quantity such as 500m, 2 or 10Gi, found "lots"',
    )


def test_a_problem_reads_like_the_error_of_a_strict_load() -> None:
    data = json.dumps(items(NODE, BAD_POD))
    (problem,) = from_stdin(data, lenient=True).problems
    assert str(problem) == f"standard input: {message(data)}"


def test_leniently_a_broken_document_does_not_hide_the_others() -> None:
    text = f"{json.dumps(NODE)}\n---\na: [\n---\n{json.dumps(POD)}\n"
    loaded = from_stdin("---\n" + text, lenient=True)
    assert names(loaded) == ["n1", "web-1"]
    assert [problem.position for problem in loaded.problems] == ["document 2, line 4"]


def test_leniently_a_broken_line_does_not_hide_the_others() -> None:
    loaded = from_stdin(lines(NODE) + '{"kind": \n' + lines(POD), lenient=True)
    assert names(loaded) == ["n1", "web-1"]
    assert [problem.position for problem in loaded.problems] == ["line 2"]


def test_strictly_there_are_no_problems_to_list() -> None:
    assert from_stdin(json.dumps(POD)).problems == []


# Repetitions and generated names


def test_the_last_of_equal_objects_wins_with_a_note() -> None:
    loaded = from_stdin(lines(pod("a", spec={"nodeName": "n1"}), pod("a", spec={"nodeName": "n2"})))
    (found,) = loaded.objects
    assert found.spec.node_name == "n2"  # type: ignore[union-attr]
    assert loaded.notes == [
        "1 object more than once in the input, the last one is used: Pod default/a"
    ]


def test_many_repetitions_are_one_note() -> None:
    every = [pod(name) for name in "abcde"]
    (note,) = from_stdin(lines(*every, *every)).notes
    assert note.endswith("Pod default/a, Pod default/b, Pod default/c and 2 more")


def test_the_same_name_in_two_namespaces_is_two_objects() -> None:
    other = {**POD, "metadata": {"name": "web-1", "namespace": "other"}}
    assert from_stdin(lines(POD, other)).notes == []


def test_equal_pods_with_generated_names_are_several_pods() -> None:
    template = {**POD, "metadata": {"generateName": "web-"}}
    loaded = from_stdin(lines(template, template, template))
    assert (len(set(names(loaded))), loaded.notes) == (3, [])


def test_a_pod_dumped_from_a_cluster_twice_is_one_pod() -> None:
    dumped = {**POD, "metadata": {"name": "web-abcde", "generateName": "web-"}}
    assert names(from_stdin(lines(dumped, dumped))) == ["web-abcde"]


# Progress and notes


def test_progress_is_told_every_thousand_objects() -> None:
    told: list[tuple[str, int]] = []
    data = lines(*(pod(f"p{n}") for n in range(2500))).encode()
    load(["-"], stdin=io.BytesIO(data), on_progress=lambda *what: told.append(what))
    assert told == [("standard input", 1000), ("standard input", 2000)]


@pytest.mark.parametrize(("seconds", "notes"), [(1.9, 0), (8.1, 1)])
def test_slow_yaml_is_told_about_json(seconds: float, notes: int) -> None:
    clock = itertools.count(0.0, seconds)
    data = "\n---\n".join("# a comment\n" + json.dumps(pod(name)) for name in "ab").encode()
    found = load(["-"], stdin=io.BytesIO(data), clock=lambda: next(clock)).notes
    assert len(found) == notes
    assert all("2 documents of YAML took 8.1 s; JSON loads" in note for note in found)


def test_what_was_loaded_can_cross_between_processes() -> None:
    loaded = from_stdin(lines(scenario("s", POD, NODE)))
    assert pickle.loads(pickle.dumps(loaded)) == loaded
