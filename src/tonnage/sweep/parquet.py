"""Results as a table of Apache Parquet: a row for each variant, a column for each axis and figure.

Needs the extra `parquet`.
"""

from collections.abc import Sequence
from typing import Any

from tonnage.errors import InputError
from tonnage.sweep.results import Result, ResultHead

_OWN = ("position", "cluster", "variant", "error")


def available() -> None:
    """Refuse before anything runs if the library is not there."""
    _library()


def write(path: str, head: ResultHead, results: Sequence[Result]) -> None:
    """Write all results; axes are columns `axis NAME`, figures columns of their own name."""
    pyarrow, parquet = _library()
    columns: dict[str, list[Any]] = {name: [getattr(one, name) for one in results] for name in _OWN}
    for label in dict.fromkeys(label for one in results for label in one.values):
        columns[f"axis {label}"] = _alike([one.values.get(label) for one in results])
    for name in dict.fromkeys(name for one in results for name in one.figures):
        values = [one.figures.get(name) for one in results]
        columns[name] = [None if value is None else float(value) for value in values]
    table = pyarrow.table(columns)
    told = {"sweep": head.sweep, "ask": head.ask, "digest": head.digest, "version": head.version}
    try:
        parquet.write_table(table.replace_schema_metadata(told), path)
    except OSError as error:
        raise InputError(f"--parquet {path}: {error.strerror or error}") from error


def _alike(values: list[str | float | None]) -> list[Any]:
    """A column has one type: text where not all are numbers."""
    if any(isinstance(value, str) for value in values):
        return [None if value is None else str(value) for value in values]
    return values


def _library() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise InputError(
            f"--parquet needs the extra parquet: pip install 'tonnage[parquet]' ({error})"
        ) from error
    return pyarrow, parquet
