"""The `tonnage` command: arguments and printing, nothing else.

Each command has a module of its name (`plan`, `why`, `slots`, ...); `app` knows their names and
loads the one that was asked for (`lazy`). `plan_*`, `why_*`, `board_*`, `sweep_*` and `run_*` are
parts of one command; `scale_down` and `consolidation` are `plan` with another question, `*_table`
how plans are shown.

    which cluster    cluster_source, cluster_access, live, watch
    which objects    selection, group_files, group_discovery, decision_files, podlists
    what is printed  console, documents, output_types (the documents as types), progress_line,
                     help_sections, report_origin, report_advice
    what is given    durations, upstream_flags, plan_settings, services (options of all that run)
    many at once     batches, engines, progress_bar
    where it runs    installation

Answers are those of `api`; a command that computes something has it in the wrong place.
"""

from tonnage.cli.app import main

__all__ = ["main"]
