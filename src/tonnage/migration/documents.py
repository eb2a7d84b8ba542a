"""What a migration comes to: settings and groups of ours, and what became of each one of theirs."""

from typing import Any

from tonnage.errors import InputError
from tonnage.migration.flags import Outcome
from tonnage.objects.meta import Record

DECLARED = ("declarative", "kwok")
"""Providers whose groups are written down."""


class Followed(Record, frozen=True, kw_only=True, omit_defaults=False):
    """One setting of the old program: `target` is what follows it, `note` why or how not."""

    setting: str
    value: str
    outcome: Outcome
    target: str = ""
    note: str = ""


class Migration(Record, frozen=True, kw_only=True, omit_defaults=False):
    """`arguments` are for `tonnage run`; `config` is an AutoscalerConfig as it is written."""

    program: str
    source: str
    arguments: tuple[str, ...]
    config: dict[str, Any]
    node_groups: tuple[dict[str, Any], ...]
    followed: tuple[Followed, ...]
    warnings: tuple[str, ...] = ()

    @property
    def provider(self) -> str:
        named = [one.partition("=")[2] for one in self.arguments if one.startswith("--provider=")]
        return named[-1] if named else ""


def chart_values(migration: Migration) -> dict[str, Any]:
    """Values of the Helm chart that run what was migrated, in dry-run until the hand-over."""
    own = {
        "--provider": "provider",
        "--namespace": "stateNamespace",
        "--leader-elect-resource-name": "leaseName",
    }
    split = [one.partition("=") for one in migration.arguments]
    autoscaler: dict[str, Any] = {"enabled": True, "dryRun": True}
    if migration.node_groups and not migration.provider:
        autoscaler["provider"] = "declarative"
    autoscaler |= {own[name]: value for name, _, value in split if name in own}
    # The chart itself says where node groups are.
    left_out = (*own, "--node-groups")
    rest = [one for one in migration.arguments if one.partition("=")[0] not in left_out]
    if rest:
        autoscaler["extraArgs"] = rest
    head = ("apiVersion", "kind")
    autoscaler["config"] = {k: v for k, v in migration.config.items() if k not in head}
    if migration.node_groups and autoscaler.get("provider") in DECLARED:
        autoscaler["nodeGroups"] = list(migration.node_groups)
    return {"autoscaler": autoscaler}


def text_of(value: object, *, where: str) -> str:
    """A scalar of a manifest as text; anything else is a mistake in it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise InputError(f"{where}: expected text, found {type(value).__name__}")
