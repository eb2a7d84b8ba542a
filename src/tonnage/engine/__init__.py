"""Many pieces of work over many processes: on this machine, or on a Dask cluster.

    tasks          what is done to each piece, and what each process prepares for it once
    runs           pieces in, outcomes out: as they come (`outcomes`) or in order (`ordered`)
    processes      the engine of this machine, on concurrent.futures
    dask_cluster   the engine of a Dask cluster (the extra `dask`)
    selection      an engine by its address, as the command line takes it

Who has work to spread calls `runs` with an engine, and knows nothing of processes. An engine hands
out a `concurrent.futures.Executor`: which worker does what, and when, is decided by it alone.
"""

from tonnage.engine.runs import ordered, outcomes
from tonnage.engine.selection import DaskCertificates, engine_of
from tonnage.engine.tasks import Engine, FunctionTask, Outcome, Task, WorkerLostError

__all__ = [
    "DaskCertificates",
    "Engine",
    "FunctionTask",
    "Outcome",
    "Task",
    "WorkerLostError",
    "engine_of",
    "ordered",
    "outcomes",
]
