"""Tools for tests, ours and those of others who build on Tonnage. Nothing that runs imports them.

    builders           objects by keyword, with defaults; begin here
    clock              virtual time
    clusters           random small clusters with a bit of everything
    groups, scarcity   random clusters with node groups and local disks, short of room
    reference          kube-scheduler's filters, plainly: the truth that `rules` is tested against
    replay             whether a plan keeps what it promises
    provider_contract  what every provider does, as tests to inherit

A whole cluster to run programs on is in `embedded`; scripts and checks for it in `simulation`.
Contracts that only our own tests need are in `tests/contracts`.
"""
