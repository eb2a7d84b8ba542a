"""The cheapest bins that hold all items: packing in numbers, which knows nothing of Kubernetes.

Begin with `problem` (classes of items, types of bins, limits, quotas, spreads; the solution with
its bound) and `solver.solve`. `fractional_bins` is a linear program without patterns, for a first
bound and first prices. `master` is the one over known patterns, `column_generation` prices new ones
into it (`pricing_problem`, by `knapsack` for the best of a single bin) and raises the bound;
`whole_bins` raises it further in whole bins, and `given_bins` says which of them do not suffice.
`improvement` keeps the best packing and has ways to a cheaper one: `integer_solution` makes whole
bins of the master's, `local_search` moves items until some are spared, `neighbourhood` fills a few
anew by an integer program, `exchange` takes cheaper ones and has items drive each other out until
all are placed (`ejection`). `division` settles how many items go into each domain of a spread;
`enumeration` has every pattern where there are few. Where items are tied to each other (`ties`) and
bins are few, `placement_program` has all of it at once, and `ordered_program` an order in which it
can be done. `effort` bounds the work, `highs` is the solver that comes with the extra `optimise`.

    problem = PackingProblem(
        [ItemClass("db", number=7, demand=(2000, 4)), ItemClass("web", number=30, demand=(250, 0))],
        [BinType("large", capacity=(7800, 24), price=0.384, caps=(99, 99), most=10)],
    )
    solution = solver.solve(problem, Effort(5 * UNITS_PER_SECOND))

Bins that are there already are bin types of price 0 and `most` 1. What pods and nodes come to in
these numbers, and whether each pod may truly go there, is for the caller: `scaleup.joint_choice`.
"""
