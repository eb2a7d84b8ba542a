"""One page on a cluster, live: slots, what waits, what would be bought, what goes away, and why.

moment       everything that is shown of one moment, as others hand it in
node_rows    a row of lanes per node, read from the columns of the snapshot
pending_rows pods that wait, alike ones together: the reason, the cure, what comes for them
plan_summary a plan with price, bound, and what differs from the last one
removal_rows nodes that go, could go, or are kept, and by what; waves of consolidation
limit_rows   what catalogue, CSINode, agent and lessons say of attach limits
history      the timeline: samples, and decisions as marks
answers      what the search box finds, and all there is to say of one pod or node
page_state   all of it as tables and values, and the differences between two moments
feed         the newest state, and those who follow it
server       HTTP: the files of the page, packed once; the state, the stream of differences
sources      a live cluster as a source of moments; files are one moment

Nothing here decides anything: plans come from `api` and `autoscaler`. The page itself is in
`static`, in plain JavaScript; what it gets is described by `documents`.
"""
