"""Reading manifests, Scenarios and batches from files and standard input."""

from tonnage.files.batches import decode_scenario, read_lines
from tonnage.files.loaded import FileProblem, Loaded, ScenarioOptions
from tonnage.files.loader import load

__all__ = ["FileProblem", "Loaded", "ScenarioOptions", "decode_scenario", "load", "read_lines"]
