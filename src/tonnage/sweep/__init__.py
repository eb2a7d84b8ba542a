"""Sweeps: one question asked of many variants of a cluster, and what came of it.

    variants      axes of changes (`limit=DRIVER:16,25`), and the variants they span
    definition    a sweep as one value: what is asked of which clusters, with which changes; files
    bundle        the same with its clusters as bytes, for processes that have no files
    answers       a variant asked: plans, scale-downs; `played`: simulations, seeds of the explorer
    work          the task that an engine runs, and the run itself
    results       lines of results: written as they come, taken up again, gathered from parts;
                  as a table of Parquet
    summary       what the results say together; `page` draws it
    job           the sweep as an Indexed Job of Kubernetes

A variant is a number: where it stands in the definition says everything about it, so that only
numbers go to workers. Who works is the matter of `tonnage.engine`.
"""
