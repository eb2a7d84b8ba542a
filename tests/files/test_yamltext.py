"""YAML as Kubernetes reads it."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tonnage.files import yamltext
from tonnage.files.yamltext import YamlDocument, YamlError


@pytest.fixture(params=[True, False], ids=["with libyaml", "without"], autouse=True)
def _both_parsers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param and not yaml.__with_libyaml__:
        pytest.skip("this PyYAML was built without libyaml")
    monkeypatch.setattr(yaml, "__with_libyaml__", request.param)


def documents(text: str | bytes) -> Iterator[YamlDocument]:
    data = text.encode() if isinstance(text, str) else text
    for line, part in yamltext.split(data):
        yield from yamltext.read(part, first_line=line)


def value(text: str | bytes) -> Any:
    (document,) = documents(text)
    return document.value


def refused(text: str | bytes) -> YamlError:
    with pytest.raises(YamlError) as caught:
        list(documents(text))
    return caught.value


@pytest.mark.parametrize(
    ("scalar", "expected"),
    [
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
        ("2024-01-01", "2024-01-01"),
        ("yes", True),
        ("On", True),
        ("y", True),
        ("off", False),
        ("N", False),
        ("yEs", "yEs"),
        ("null", None),
        ("~", None),
        ("", None),
        ("'yes'", "yes"),
        ('"5"', "5"),
        ("5", 5),
        ("-5", -5),
        ("+5", 5),
        ("1_000", 1000),
        ("0x1F", 31),
        ("0b101", 5),
        ("0o17", 15),
        ("017", 15),
        ("08", 8),
        ("3.0", 3),
        ("1e3", 1000),
        ("0.5", 0.5),
        (".5", 0.5),
        ("1e400", "1e400"),
        ("12:30", "12:30"),
        ("1.2.3", "1.2.3"),
        ("100Mi", "100Mi"),
        ("=", "="),
        ("18446744073709551615", 18446744073709551615),
        ("99999999999999999999999999", 1e26),
        ("9" * 5000, "9" * 5000),
        ("!!str 5", "5"),
        ("!!int 5", 5),
        ("!custom 5", "5"),
    ],
)
def test_a_scalar_means_what_it_means_to_kubernetes(scalar: str, expected: object) -> None:
    found = value(f"v: {scalar}")["v"]
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize("scalar", [".inf", "-.INF", ".nan", "!!int x", "!!bool 5"])
def test_a_scalar_that_json_cannot_hold_is_refused(scalar: str) -> None:
    assert refused(f"a: 1\nv: {scalar}").line == 2


@pytest.mark.parametrize(
    ("key", "expected"), [("5", "5"), ("yes", "true"), ("off", "false"), ("1.5", "1.5")]
)
def test_a_key_is_always_a_string(key: str, expected: str) -> None:
    assert value(f"{key}: v") == {expected: "v"}


@pytest.mark.parametrize("text", ["~: v", "{a: b}: v", "[a]: v", "? {a: b}\n: v"])
def test_a_key_that_is_no_scalar_is_refused(text: str) -> None:
    assert "key" in refused(text).message


def test_documents_are_separated_by_dashes() -> None:
    assert [d.value for d in documents("a: 1\n---\nb: 2\n--- {c: 3}\n")] == [
        {"a": 1},
        {"b": 2},
        {"c": 3},
    ]


def test_a_document_end_marker_separates_too() -> None:
    assert [d.value for d in documents("a: 1\n...\n---\nb: 2\n...\n")] == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize("text", ["", "---\n", "# nothing\n---\n# here\n", "%YAML 1.1\n---\n"])
def test_comments_and_directives_alone_are_no_document(text: str) -> None:
    assert list(documents(text)) == []


def test_dashes_inside_a_line_separate_nothing() -> None:
    assert value("a: |\n  ---\n  x\nb: --- y\n") == {"a": "---\nx\n", "b": "--- y"}


def test_windows_line_ends_are_fine() -> None:
    assert [d.value for d in documents("a: 1\r\n---\r\nb: 2\r\n")] == [{"a": 1}, {"b": 2}]


def test_the_last_of_equal_keys_counts() -> None:
    assert value("a: 1\na: 2\n") == {"a": 2}


def test_an_alias_stands_for_its_anchor() -> None:
    assert value("a: &x {k: v}\nb: *x\n") == {"a": {"k": "v"}, "b": {"k": "v"}}


def test_a_merge_fills_in_what_is_not_there() -> None:
    text = "base: &b {a: 1, b: 2}\nx:\n  <<: *b\n  b: 3\n"
    assert value(text)["x"] == {"a": 1, "b": 3}


def test_the_first_of_several_merges_wins() -> None:
    text = "l: [&a {k: 1}, &b {k: 2, m: 3}]\nx: {<<: [*a, *b]}\n"
    assert value(text)["x"] == {"k": 1, "m": 3}


def test_a_quoted_merge_key_is_a_key() -> None:
    assert value('"<<": v') == {"<<": "v"}


def test_a_merge_of_something_else_is_refused() -> None:
    assert "<<" in refused("x: {<<: 5}").message


LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)
MERGING_LAUGHS = "a0: &a0 {x: 1, y: 2}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 12)
)


@pytest.mark.parametrize("text", [LAUGHS, MERGING_LAUGHS], ids=["values", "merges"])
def test_aliases_that_would_fill_the_memory_are_refused(text: str) -> None:
    assert "aliases" in refused(text).message


def test_an_ordinary_number_of_aliases_is_fine() -> None:
    text = "base: &b {a: 1, b: 2}\nitems:\n" + "- *b\n" * 5000
    assert len(value(text)["items"]) == 5000


@pytest.mark.parametrize("text", ["a: &x [*x]", "&x {k: *x}", "a: *nowhere", "a: &x {<<: *x}"])
def test_an_alias_of_itself_or_of_nothing_is_refused(text: str) -> None:
    refused(text)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "- " * 5_000 + "x", "{a: " * 1_000 + "1" + "}" * 1_000]
)
def test_deep_nesting_is_refused(text: str) -> None:
    assert "nesting" in refused(text).message


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: b: c\n", 1),
        ("a: 1\nb: [1, 2\nc: 3\n", 3),
        ("a: 1\n\tb: 2\n", 2),
        ("a: 1\n---\nb: 2\n---\nc: 'open\n", 5),
        ("a: 1\nb: @x\n", 2),
    ],
)
def test_broken_text_is_refused_with_its_line(text: str, line: int) -> None:
    assert refused(text).line == line


@pytest.mark.parametrize("text", [b"a: \xff\xfe\n", b"a: \x01\n", b"\x80abc"])
def test_bytes_that_are_no_text_are_refused(text: bytes) -> None:
    assert refused(text).message.startswith("not YAML")


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ((), 3),
        (("spec", "containers", 0, "name"), 5),
        (("spec", "containers", 1), 6),
        (("spec", "containers", 1, "args", 0), 7),
        (("spec", "containers", 1, "args", "nothing", "there"), 7),
        (("spec", "nothing"), 3),
        (("aliased", "deep", "x"), 9),
    ],
)
def test_every_part_of_a_document_has_its_line(path: tuple[str | int, ...], line: int) -> None:
    text = (
        "a: first\n---\nspec:\n  containers:\n    - name: a\n    - name: b\n"
        "      args: [x]\nbase: &b\n  deep: {x: 1}\naliased: *b\n"
    )
    assert list(documents(text))[1].line_of(path) == line
