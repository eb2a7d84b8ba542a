"""Replacing nodes by cheaper or fewer ones: which, by what, in which order, and is it worth it.

Everything here is pure, and stands on `scaledown` (what may move, and from where) and `scaleup`
(what could be bought). Carrying a plan out is the autoscaler's business. Begin with `decision`; the
options are in `groups.consolidation_options`.

    decision         from a question to a plan
    plan             the records that are printed: steps, purchases, moves, nodes
    state            what is remembered from one round to the next
    cluster_problem  the cluster in whole numbers: bins, items, templates; who stays, and why
    problem          those numbers
    move_costs       what it costs that a pod moves
    assignment       who is where while a plan is in the making
    search           which nodes go and what is bought: coarse first, then exact in parts
    first_fit, branch_and_bound   places for many pods quickly, for few as cheap as can be
    joint_replacement   what is bought, chosen over all groups together; the bound of that
    steps            what hangs together, and whether it is worth it
    move_waves       in which order, so that every place is free when it is needed
    move_rehearsal   whether all rules hold on the way
    lower_bound      no plan costs less than this
    right_size       which instance types would carry the cluster cheaper: a direction, not a plan
"""
