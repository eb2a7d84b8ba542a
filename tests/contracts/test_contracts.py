"""The table in README.md has every contract of the tree, and who is held to each."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
CONTRACT = re.compile(r"\w*Contract")


def test_the_table_has_every_contract_and_who_is_held_to_it() -> None:
    assert _of_table() == _of_tree()


def test_a_contract_that_our_tests_alone_use_is_in_this_directory() -> None:
    shipped = {path.name for path in (HERE.parents[1] / "src").rglob("*contract*.py")}
    assert shipped == {"provider_contract.py"}


def _of_table() -> dict[str, set[str]]:
    rows = re.findall(r"^\| `(\w+)`.*\|(.*)\|$", (HERE / "README.md").read_text(), re.MULTILINE)
    return {contract: set(re.findall(r"`(Test\w+)`", held)) for contract, held in rows}


def _of_tree() -> dict[str, set[str]]:
    bases = {name: names for path in HERE.parent.rglob("*.py") for name, names in _classes(path)}
    found: dict[str, set[str]] = {}
    for name in bases:
        if name.startswith("Test") and (contract := _contract(name, bases)):
            found.setdefault(contract, set()).add(name)
    return found


def _contract(name: str, bases: dict[str, list[str]]) -> str:
    """The narrowest contract that a class of tests derives from."""
    own = [base for base in bases.get(name, []) if CONTRACT.fullmatch(base)]
    inherited = [_contract(base, bases) for base in bases.get(name, []) if base not in own]
    return next((contract for contract in (*own, *inherited) if contract), "")


def _classes(path: Path) -> Iterator[tuple[str, list[str]]]:
    text = path.read_text()
    if "Contract" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            yield node.name, [base.id for base in node.bases if isinstance(base, ast.Name)]
