"""Tools for tests, ours and those of others who build on Tonnage. Nothing that runs imports them.

    builders           objects by keyword, with defaults; begin here
    clock              virtual time
    reference          kube-scheduler's filters, plainly: the truth that `rules` is tested against
    provider_contract  what every provider does, as tests to inherit

A whole cluster to run programs on is in `embedded`; scripts and checks for it in `simulation`.
What only our own tests need is with them: contracts in `tests/contracts`, random clusters in
`tests/clusters`, the replay of plans in `tests/scaleup/replay`.
"""
