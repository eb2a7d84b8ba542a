"""Options as they are written on a command line, made into what a Scenario would have."""

from collections.abc import Mapping

import msgspec

from tonnage.groups.options import Options


def typed(texts: Mapping[str, str]) -> dict[str, object]:
    """Values as a Scenario would have them: text where text is wanted, else as in JSON.

    Lists may be written with commas.
    """
    types = {field.encode_name: field.type for field in msgspec.structs.fields(Options)}
    values: dict[str, object] = {}
    for name, text in texts.items():
        try:
            value = text if types.get(name) is str else msgspec.json.decode(text)
        except msgspec.DecodeError:
            value = text
            if types.get(name) == tuple[str, ...]:
                value = [part.strip() for part in text.split(",") if part.strip()]
        whole, dot, part_of_it = name.partition(".")
        if dot:
            # A field of a field, such as consolidation.horizon=12h.
            inner = values.setdefault(whole, {})
            if isinstance(inner, dict):
                inner[part_of_it] = value
        else:
            values[name] = value
    return values
