"""Reading manifests, Scenarios and batches from files and standard input.

    loader            from paths to typed objects; begin here
    sources           files, directories, standard input, compressed or not
    yamltext, jsontext, documents
                      text to documents, each with the place it stands at
    object_collector  documents to objects, and an account of everything else (`loaded`)
    batches           one Scenario per line
    scenario_writer   a cluster as one document; `anonymiser`: without its names

What an object may say is checked in `objects`.
"""

from tonnage.files.batches import decode_scenario, read_lines
from tonnage.files.loaded import FileProblem, Loaded, ScenarioOptions
from tonnage.files.loader import load

__all__ = ["FileProblem", "Loaded", "ScenarioOptions", "decode_scenario", "load", "read_lines"]
