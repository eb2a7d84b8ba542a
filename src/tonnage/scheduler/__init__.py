"""The scheduler side: a complete scheduler of its own, and an extender for kube-scheduler."""
