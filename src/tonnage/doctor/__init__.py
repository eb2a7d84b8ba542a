"""What will go wrong with volumes in a cluster, found before it does.

    evidence    the cluster and what runs in it, gathered once
    programs    autoscalers and our own components, recognised by what they run
    findings    one thing that is wrong, with its code
    codes       every code: what it means and what to do about it
    opt_in, limits, registration, access, extenders, capacities, headroom
                the checks, by what they look at; each a function from evidence to findings
    inspection  all checks together
    preview     who would be affected if a driver opted in
    rescue      pods that hang because their node is over its limit

Everything but the evictions of `rescue` is pure.
"""
