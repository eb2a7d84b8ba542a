"""Verdicts as documents: the fields that `-o json` and batches promise."""

from typing import Any

from tonnage.rules.framework import Code
from tonnage.rules.pipeline import Verdict


def verdict(one: Verdict) -> dict[str, Any]:
    """A verdict as a batch prints it: a node that fits has no phase and no plugin."""
    document: dict[str, Any] = {"pod": one.pod, "node": one.node}
    if one.code is not Code.SUCCESS:
        document["phase"] = one.phase
        document["plugin"] = one.plugin
    document["code"] = str(one.code)
    document["reasons"] = one.texts
    if one.warnings:
        document["warnings"] = list(one.warnings)
    return document


def explained_verdict(one: Verdict) -> dict[str, Any]:
    """The same with the causes behind the reasons."""
    causes = [{"cause": str(reason.cause), "facts": reason.facts} for reason in one.reasons]
    return {**verdict(one), "causes": causes}
