"""What clients ask about themselves: who they are and what they may do.

There are no users here, so the answers are the same for everybody, whatever the question says.
"""

from tonnage.embedded.apiserver.refusals import Tree

_EVERYTHING: Tree = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}
_ANSWERS: dict[tuple[str, str], tuple[str, Tree]] = {
    ("authentication.k8s.io/v1", "selfsubjectreviews"): (
        "SelfSubjectReview",
        {"userInfo": {"username": "anybody", "groups": ["system:masters"]}},
    ),
    ("authorization.k8s.io/v1", "selfsubjectaccessreviews"): (
        "SelfSubjectAccessReview",
        {"allowed": True, "reason": "the embedded cluster has no users"},
    ),
    ("authorization.k8s.io/v1", "selfsubjectrulesreviews"): (
        "SelfSubjectRulesReview",
        _EVERYTHING,
    ),
}
_PATHS = {
    f"/apis/{api_version}/{plural}": {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {},
        "status": status,
    }
    for (api_version, plural), (kind, status) in _ANSWERS.items()
}


def is_review(path: str) -> bool:
    return path in _PATHS


def answer(path: str) -> Tree:
    """What a review is answered with."""
    return _PATHS[path]
