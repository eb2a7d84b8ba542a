"""Consolidation carried out: replacing nodes of the live cluster by cheaper or fewer ones.

What is decided is `tonnage.consolidation`'s; nodes are removed as scale-down removes them.

    consolidator   a round: decide, buy, and say which nodes go now
    preparation    what has to be done before the nodes of a step can go
    relocator      pods of nodes that stay make room for others
    surges         a second replica before the only one is evicted
    memory         what has to survive a restart: a step under way, nodes that have yet to pay back
    volume_times   how long volumes take to be detached and attached, by driver
    recordings     what decisions came from, so that each can be made again
    metrics        what is saved, what is not, and why
    report         a round for status, `/debug/consolidation` and `tonnage why`
"""
