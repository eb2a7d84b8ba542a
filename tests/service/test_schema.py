"""The schema that is published says of a file what reading it says."""

import re
from typing import Any

import msgspec
import pytest

from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.errors import InputError
from tonnage.scheduler.config import SchedulerConfig
from tonnage.scheduler.extender.config import ExtenderConfig
from tonnage.service import config_file

Schema = dict[str, Any]

TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def allows(schema: Schema, value: Any, root: Schema) -> bool:
    """As much of JSON schema as ours uses."""
    if "$ref" in schema:
        return allows(root["$defs"][schema["$ref"].rpartition("/")[2]], value, root)
    if "anyOf" in schema and not any(allows(one, value, root) for one in schema["anyOf"]):
        return False
    if "type" in schema and not _is(value, schema["type"]):
        return False
    if value != schema.get("const", value) or value not in schema.get("enum", [value]):
        return False
    if isinstance(value, str):
        return re.search(schema.get("pattern", ""), value) is not None
    if isinstance(value, list):
        return all(allows(schema.get("items", {}), one, root) for one in value)
    if isinstance(value, dict):
        return value.keys() >= set(schema.get("required", ())) and all(
            _allows_field(schema, name, one, root) for name, one in value.items()
        )
    return isinstance(value, bool) or value is None or value >= schema.get("minimum", value)


def _is(value: object, name: str) -> bool:
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def _allows_field(schema: Schema, name: str, value: Any, root: Schema) -> bool:
    others = schema.get("additionalProperties", True)
    known = schema.get("properties", {}).get(name, others)
    return known if isinstance(known, bool) else allows(known, value, root)


def accepts(type_: type[msgspec.Struct], settings: dict[str, Any]) -> bool:
    try:
        config_file.parse(msgspec.json.encode(settings), type_, where="c.yaml", given={})
    except InputError:
        return False
    return True


VALUES: tuple[Any, ...] = (
    0, 1, 5, -1, 0.05, 2.5, "10s", "1m30s", ".5s", "soon", ".s", "10", "-1s", "", "none", "random",
    "price,random", "price,nope", "1.37", "banana", "tonnage.dev/v1alpha1", "a-name", "A name",
    True, False, [], ["a"], [1], {}, {"A": True}, {"1": ["a"]}, None,
)  # fmt: skip

COMPARED_WITH_OTHERS = ("batchWindowMax",)
"""Fields that are refused for the value of another one, which no schema can say."""


@pytest.mark.parametrize("type_", [AutoscalerConfig, SchedulerConfig, ExtenderConfig])
def test_the_schema_accepts_of_every_field_what_is_accepted(type_: type[msgspec.Struct]) -> None:
    schema = config_file.schema(type_)
    differ = [
        (field.encode_name, value)
        for field in msgspec.structs.fields(type_)
        for value in VALUES
        if not allows(schema, {field.encode_name: value}, schema)
        and accepts(type_, {field.encode_name: value})
    ]
    assert differ == []


def test_the_schema_refuses_of_every_field_what_is_refused() -> None:
    schema = config_file.schema(AutoscalerConfig)
    differ = [
        (field.encode_name, value)
        for field in msgspec.structs.fields(AutoscalerConfig)
        if field.encode_name not in COMPARED_WITH_OTHERS
        for value in VALUES
        if allows(schema, {field.encode_name: value}, schema)
        and not accepts(AutoscalerConfig, {field.encode_name: value})
    ]
    assert differ == []


def test_an_unknown_field_is_refused_by_both() -> None:
    schema = config_file.schema(AutoscalerConfig)
    assert not allows(schema, {"scanIntervall": "5s"}, schema)
    assert not accepts(AutoscalerConfig, {"scanIntervall": "5s"})
