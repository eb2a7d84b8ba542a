"""What to buy for the pods that wait. No input, no output, no clock: all of it is handed in.

Begin with `decision` (inputs to plan) and `planner` (which of several `attempts` is kept;
`plan_builder` has the steps of one). `pod_groups` are pending pods that are alike, `candidates` the
node groups that may grow. `placement` fills nodes that are there, `packing` new ones, in one of
`orders`; `packed_counts` says what that comes to. `option_estimates` and `expanders` choose a
group, `balancing` shares a purchase, `budget` says how much may be bought. `joint_choice` looks at
all groups together where the expander says so: `joint_problem` is the question in numbers,
`pod_ties` what rules between pods add to it, `advised_purchase` the answer bought by the rules,
`ordered_purchase` the same to the letter where the order decides.
`outcome`, `refusals`, `bounds` and `plan` are what comes out; `plan_diff`, `node_fill` and `whatif`
look at it afterwards. `shared_capacity` counts what kube-scheduler does not.

    before the planner   assessment, underway, request, prepaid (nodes on their way), priorities
    pods that do not exist  headroom, requested_room, replicas, pod_copies
    pods together        gangs, gang_plan; `costly_pods` are decided on last
    instead of buying    freed_room, wait_or_buy
    in the making        purchases

Where pods fit is decided in `rules`; templates and readiness of groups are in `groups`.
"""
