"""The `tonnage` command: arguments and printing, nothing else.

Each command has a module of its name (`plan`, `why`, `slots`, ...); `app` knows their names and
loads the one that was asked for (`lazy`). `plan_*`, `why_*`, `sweep_*` and `run_*` are parts of
one command; `scale_down` and `consolidation` are `plan` with another question, `*_table` how plans
are shown.

    which cluster    cluster_source, cluster_access, live, watch
    which objects    selection, group_files, group_discovery, podlists
    what is printed  console, documents, output_types (the documents as types), progress_line,
                     help_sections, report_files
    what is given    durations, upstream_flags, plan_settings, services (options of all that run)
    many at once     batches, engines, progress_bar
    where it runs    running_autoscaler

Answers are those of `api`; a command that computes something has it in the wrong place.
"""

import atexit
import gc
import os

__all__ = ["USUAL_THRESHOLDS", "main"]

USUAL_THRESHOLDS = gc.get_threshold()
"""After how many new objects Python looks for cycles, if it is not told otherwise."""


def main() -> None:
    """Run the command line and exit."""
    # Before it ends, Python looks through everything that is left for cycles, which takes a sixth
    # of a small command's time. What is frozen is not looked at: the process is gone anyway.
    atexit.register(gc.freeze)
    # Modules and what is read are there to stay: to look for cycles among them after every 700
    # objects, as Python does, is an eighth of a small command's time, and finds nothing.
    gc.set_threshold(200_000)
    # numpy starts a thread for each core to multiply matrices, of which there are none here.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from tonnage.cli.app import program

    program(prog_name="tonnage")
