"""The scheduler side: a complete scheduler of its own, and an extender for kube-scheduler.

    loop             takes pods from the queue, decides, has decisions carried out; begin here
    queue            whose turn it is, who backs off, who waits for a cure
    queueing_hints   which changes of the cluster are worth another try for which pod
    scheduler_cache  what the server says, and what was decided since (`claim_space`: storage)
    placer           filters, then scores (`node_scores`), pods of a kind together
    preemption       who has to go; `preemptor`: seeing them off
    binder           carries out a decision: volumes first, then the pod
    pod_status       conditions and nominations of pods that wait
    program          all of it put together; `config`, `metrics`
    extender         for kube-scheduler, over HTTP

The filters themselves are in `rules`.
"""
