"""The same scenario with other options, side by side."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.errors import InputError
from tonnage.files import yamltext
from tonnage.report.timeline import Sample, Timeline
from tonnage.service import config_file
from tonnage.simulation import runner, scenario_files
from tonnage.simulation.ensemble import Ensemble
from tonnage.simulation.scenario import Simulation


def compare(
    simulation: Simulation,
    changes: Mapping[str, str],
    *,
    watch: Callable[[Sample], None] | None = None,
    ended: Callable[[Ensemble], None] | None = None,
) -> tuple[Timeline, Timeline]:
    """As it is written, and with these options of the autoscaler instead."""
    values = options(changes)
    changed = with_options(simulation, values)
    current = config_file.parse(
        b"", AutoscalerConfig, where="", given=scenario_files.autoscaler_options(simulation.spec)
    )
    before = {name: _shown(_field(current, name)) for name in changes}
    return (
        runner.simulate(simulation, label=_label(before), watch=watch, ended=ended),
        runner.simulate(changed, label=_label(dict(changes)), watch=watch, ended=ended),
    )


def options(written: Mapping[str, str]) -> dict[str, Any]:
    """Values as YAML would read them, `false` is no word; but where text is wanted, it is text."""
    texts = {
        field.encode_name for field in msgspec.structs.fields(AutoscalerConfig) if field.type is str
    }
    return {
        name: yamltext.resolve(text) if text and name not in texts else text
        for name, text in written.items()
    }


def with_options(simulation: Simulation, values: dict[str, Any]) -> Simulation:
    """The scenario with other options, if these are options of the autoscaler."""
    changed = simulation.with_options(values)
    try:
        config_file.parse(
            b"", AutoscalerConfig, where="", given=scenario_files.autoscaler_options(changed.spec)
        )
    except InputError as error:
        raise InputError(f"option{error!s}") from None
    return changed


def _field(config: AutoscalerConfig, name: str) -> object:
    """A field by the name that it has in files."""
    names = {field.encode_name: field.name for field in msgspec.structs.fields(AutoscalerConfig)}
    return getattr(config, names[name])


def _label(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
