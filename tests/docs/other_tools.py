"""Command lines of other tools in the documentation that no test runs, each with the reason."""

PROGRAMS = {
    "kind": "makes a cluster of containers",
    "skopeo": "copies into a registry of the reader's",
    "podman": "builds an image, as `make image` does without an engine",
    "scp": "copies to hosts of the reader's",
    "mkdir": "makes room for certificates; tests/deploy runs the script that makes them",
    "make": "is run by who works on Tonnage; `make test` runs this",
    ".": "activates the environment that this runs in",
}
"""Programs of which no line is run."""

_CERTIFICATES = "needs cert-manager; the lines after it do without"
_KUBELET = "reaches a kubelet; tests/cli/test_why_leader.py plays one"
_JOB = "runs the pods of a Job; tests/e2e/test_sweep_job.py plays their kubelet"

LINES = {
    "kubectl apply -f job.yaml": _JOB,
    "kubectl wait --for=condition=Complete job/tonnage-sweep --timeout=1h": _JOB,
    "kubectl logs -l app.kubernetes.io/instance=tonnage-sweep --tail=-1 --max-log-requests=20"
    " > logs.jsonl": _JOB,
    "kubectl apply -k deploy/extender && kubectl apply -k deploy/extender/cert-manager": (
        _CERTIFICATES
    ),
    "kubectl -n tonnage-system wait --for=condition=Ready certificate --all": _CERTIFICATES,
    "kubectl -n tonnage-system port-forward deployment/tonnage 8086 &": _KUBELET,
    "helm test tonnage --namespace tonnage-system --logs": _KUBELET,
}
"""Lines of kubectl and Helm that are not run, without what stands after `#`."""

RUN = ("kubectl", "helm")
"""Programs whose other lines tests/e2e/test_lines_of_the_documentation.py runs."""
