"""`tonnage extender`: what kube-scheduler asks before it puts a pod with volumes on a node.

wire           the questions and answers of kube-scheduler's extender protocol
node_verdicts  one question: which of these nodes may the pod go to, and why not the others
inflight       what the watch says about pods that were let through and are not seen on a node yet
newcomers      nodes so young that their drivers may still be registering
moving_places  places that are kept for pods that scale-down moves
lag            how long a refusal may be put off for news that is on its way
verbs          filter and prioritize: judging, waiting for what is about to be known, reserving
dry_run        the same without consequences, for nodes that may not exist
config, metrics, program
"""
