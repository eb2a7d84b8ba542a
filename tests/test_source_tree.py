"""How the source is laid out: what a reader may rely on when looking for something."""

import ast
import re
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
SOURCE = REPOSITORY / "src" / "tonnage"
DOCS = REPOSITORY / "docs"

GERUNDS = {
    "balancing",
    "packing",
    "pruning",
    "recording",
    "sampling",
    "volume_binding",
    "volume_matching",
}
"""Modules whose gerund is the noun of the trade."""

LONGEST = 500
"""Lines of a module that somebody wrote, or of a test: it is time to part it."""

MAPPED = 0.75
"""The share of its modules that the docstring of a package names: a map may leave out alleys."""

PACKAGES = sorted(path.parent for path in SOURCE.rglob("__init__.py") if "protos" not in path.parts)
NOTES = sorted(path for path in (DOCS / "design").glob("*.md") if path.stem != "README")


def test_no_class_name_stands_twice() -> None:
    names = Counter(
        name
        for path in SOURCE.rglob("*.py")
        for name in re.findall(r"^class ([A-Za-z]\w*)", path.read_text(), re.MULTILINE)
    )
    assert {name for name, count in names.items() if count > 1} == set()


def test_modules_are_named_by_nouns() -> None:
    assert {path.stem for path in SOURCE.rglob("*ing.py")} <= GERUNDS


def test_no_module_is_too_long_to_be_read_at_once() -> None:
    lengths = {
        str(path.relative_to(REPOSITORY)): path.read_text().count("\n")
        for part in ("src", "tests", "benchmarks", "tools")
        for path in (REPOSITORY / part).rglob("*.py")
        if "protos" not in path.parts
    }
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST} == {}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_the_docstring_of_a_package_is_its_map(package: Path) -> None:
    told = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    words = set(re.findall(r"[\w*]+", told))
    parts = {path.stem for path in package.glob("*.py")} - {"__init__", "__main__"}
    parts |= {path.parent.name for path in package.glob("*/__init__.py")} - {"protos"}
    commands = package.name == "cli"
    missing = {
        part
        for part in parts
        if not any(fnmatch(part, word) for word in words)
        and not (commands and f"`tonnage {part.replace('_', '-')}" in _opening(package, part))
    }
    assert len(missing) <= (1 - MAPPED) * len(parts), sorted(missing)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_the_table_of_a_map_names_modules_that_exist(package: Path) -> None:
    told = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    parts = {path.stem for path in package.iterdir()}
    named = [
        name
        for line in told.splitlines()
        if (row := re.match(r" *((?:[\w*]+, )*[\w*]+)  +\S", line))
        for name in row[1].split(", ")
    ]
    assert [name for name in named if not any(fnmatch(part, name) for part in parts)] == []


def test_the_path_of_a_pending_pod_is_at_most_forty_modules_that_exist() -> None:
    _, _, page = (DOCS / "architecture.md").read_text().partition("## The path of a pending pod")
    section, _, _ = page.partition("\n## ")
    path = list(dict.fromkeys(re.findall(r"`(\w+\.\w+)`", section.partition("\n1. ")[2])))
    assert [name for name in path if not _file(name).is_file()] == []
    assert f"These are {len(path)} modules and a provider" in " ".join(section.split())
    assert len(path) <= 40
    assert [name for name in path if not _is_reached(name, path)] == []


def test_every_module_that_the_architecture_names_exists() -> None:
    named = re.findall(r"`(\w+)\.(\w+)", (DOCS / "architecture.md").read_text())
    packages = {package.name for package in PACKAGES if package.parent == SOURCE}
    unknown = {
        f"{package}.{name}"
        for package, name in named
        if package in packages
        and not _file(f"{package}.{name}").is_file()
        and not (SOURCE / package / name).is_dir()
        and not (SOURCE / package / f"{package}.py").is_file()
    }
    assert unknown == set()


def test_there_are_six_design_notes() -> None:
    assert len(NOTES) >= 6


@pytest.mark.parametrize("note", NOTES, ids=lambda path: path.stem)
def test_a_design_note_has_what_was_rejected_and_what_shows_it(note: Path) -> None:
    text = " ".join(note.read_text().split())
    rejected, _, shown = text.partition("**Rejected.**")[2].partition("**Shown by**")
    assert rejected.count("- *") >= 3
    commands = re.findall(r"`((?:make|pytest|tonnage) [^`]+)`", shown)
    assert commands
    paths = [word for command in commands for word in command.split() if word.startswith("tests/")]
    assert [path for path in paths if not (REPOSITORY / path).exists()] == []


def _file(name: str) -> Path:
    return SOURCE.joinpath(*name.split(".")).with_suffix(".py")


def _opening(package: Path, module: str) -> str:
    path = package / f"{module}.py"
    return path.read_text()[:200] if path.is_file() else ""


def _is_reached(name: str, path: list[str]) -> bool:
    """Whether the module is imported by another of the path, or imports one."""
    others = [other for other in path if other != name]
    return any(_imports(other, name) or _imports(name, other) for other in others)


def _imports(importer: str, name: str) -> bool:
    package, module = name.split(".")
    text = _file(importer).read_text()
    return f"from tonnage.{package}.{module} import" in text or bool(
        re.search(rf"from tonnage\.{package} import [^)]*?\b{module}\b", text)
    )
