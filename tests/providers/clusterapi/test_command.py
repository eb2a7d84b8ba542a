"""What `tonnage run --provider clusterapi` is told, before anything is started."""

from pathlib import Path

import pytest

from tonnage.cli import run_providers
from tonnage.cli.run_providers import CLUSTER_API, ProviderOptions
from tonnage.errors import InputError


def test_sizes_by_flag_are_a_mistake() -> None:
    wanted = ProviderOptions(provider=CLUSTER_API, sizes={"a": (0, 3)})
    with pytest.raises(InputError, match="leave out --nodes"):
        run_providers.chosen(wanted, dry_run=False)


def test_the_discovery_of_another_provider_is_a_mistake() -> None:
    wanted = ProviderOptions(provider=CLUSTER_API, discovery=("asg:tag=x",))
    with pytest.raises(InputError, match="expected clusterapi:namespace=NAME"):
        run_providers.chosen(wanted, dry_run=False)


def test_a_kubeconfig_of_the_management_cluster_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "management.yaml"
    wanted = ProviderOptions(provider=CLUSTER_API, cloud_config=str(missing))
    with pytest.raises(InputError, match=r"management\.yaml"):
        run_providers.chosen(wanted, dry_run=False)


def test_managing_itself_needs_a_pod_to_be_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    wanted = ProviderOptions(provider=CLUSTER_API, manages_itself=True)
    with pytest.raises(InputError, match="KUBERNETES_SERVICE_HOST"):
        run_providers.chosen(wanted, dry_run=False)
