"""The registry of kinds."""

import pytest

from tonnage.objects import kinds
from tonnage.objects.pods import Pod
from tonnage.objects.storage import CSINode


@pytest.mark.parametrize("row", kinds.ALL, ids=lambda row: row.kind)
def test_every_row_is_found_by_its_own_names(row: kinds.Kind) -> None:
    assert kinds.by_kind(row.api_version, row.kind) is row


def test_no_two_rows_share_a_plural_in_one_group() -> None:
    assert len({(row.group, row.plural) for row in kinds.ALL}) == len(kinds.ALL)


def test_the_core_group_has_no_slash() -> None:
    assert kinds.of(Pod()).api_version == "v1"


def test_other_groups_lead_their_version() -> None:
    assert kinds.of(CSINode()).api_version == "storage.k8s.io/v1"


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("v1", "ConfigMap"), ("apps/v1", "Pod"), ("serving.knative.dev/v1", "Service"), ("", "Pod")],
)
def test_what_we_do_not_read_has_no_row(api_version: str, kind: str) -> None:
    assert kinds.by_kind(api_version, kind) is None
