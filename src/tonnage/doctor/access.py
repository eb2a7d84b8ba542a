"""Rights that components need and their roles do not give."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from tonnage.doctor.evidence import Evidence
from tonnage.doctor.findings import Finding

_NEEDED = (
    ("", "nodes"),
    ("", "pods"),
    ("", "persistentvolumeclaims"),
    ("", "persistentvolumes"),
    ("storage.k8s.io", "storageclasses"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "csidrivers"),
    ("storage.k8s.io", "csistoragecapacities"),
    ("storage.k8s.io", "volumeattachments"),
)
_VERBS = ("list", "watch")


class _Rule(NamedTuple):
    groups: frozenset[str]
    resources: frozenset[str]
    verbs: frozenset[str]

    def gives(self, verb: str, group: str, resource: str) -> bool:
        return (
            bool({group, "*"} & self.groups)
            and bool({resource, "*"} & self.resources)
            and bool({verb, "*"} & self.verbs)
        )


def missing_rights(evidence: Evidence) -> Iterator[Finding]:
    """Only for components whose bindings are at hand: of the others nothing is known."""
    roles = {_name(document): _rules(document) for document in evidence.documents("ClusterRole")}
    bindings = evidence.documents("ClusterRoleBinding")
    for program in evidence.programs:
        account = (program.namespace, program.service_account)
        bound = [
            name for binding in bindings if account in _accounts(binding) for name in _role(binding)
        ]
        known = [name for name in bound if name in roles]
        if not known or len(known) < len(bound):
            continue
        rules = [rule for name in known for rule in roles[name]]
        for group, resource in _NEEDED:
            verbs = [
                verb
                for verb in _VERBS
                if not any(rule.gives(verb, group, resource) for rule in rules)
            ]
            if verbs:
                where = f"group {group}" if group else "the core group"
                yield Finding(
                    code="TON501",
                    severity="error",
                    object=f"ClusterRole {known[0]}",
                    message=f"{program.name} ({program.deployment}) may not"
                    f" {' and '.join(verbs)} {resource} of {where}",
                    facts={"verbs": verbs, "group": group, "resource": resource},
                )


def _rules(role: dict[str, Any]) -> list[_Rule]:
    """Rules held to single names give no right to list."""
    return [
        _Rule(_words(one, "apiGroups"), _words(one, "resources"), _words(one, "verbs"))
        for one in _dicts(role.get("rules"))
        if not one.get("resourceNames")
    ]


def _accounts(binding: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (str(one.get("namespace", "")), str(one.get("name", "")))
        for one in _dicts(binding.get("subjects"))
        if one.get("kind") == "ServiceAccount"
    ]


def _role(binding: dict[str, Any]) -> list[str]:
    reference = binding.get("roleRef")
    if isinstance(reference, dict) and reference.get("kind") == "ClusterRole":
        return [str(reference.get("name", ""))]
    return []


def _name(document: dict[str, Any]) -> str:
    metadata = document.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""


def _dicts(value: object) -> Iterable[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _words(rule: dict[str, Any], field: str) -> frozenset[str]:
    value = rule.get(field)
    return frozenset(map(str, value)) if isinstance(value, list) else frozenset()
