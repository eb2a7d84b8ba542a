"""Work on a real Dask cluster of several processes, under TLS."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.dask_setup import TlsCluster, tls_cluster
from tests.sweep.sweeping import NOW, in_file, run
from tonnage import engine
from tonnage.engine import DaskCertificates
from tonnage.errors import InputError, TonnageError

EXAMPLE = str(Path(__file__).parent.parent.parent / "examples" / "two-databases")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsCluster]:
    with tls_cluster(tmp_path_factory.mktemp("dask"), workers=2) as running:
        yield running


def test_a_sweep_there_gives_the_same_bytes_as_here(cluster: TlsCluster, tmp_path: Path) -> None:
    grid = ["--vary=limit=disk.csi.azure.com:4,8", "--vary=max-size=orders-1:0..9", NOW]
    here, there = tmp_path / "here.jsonl", tmp_path / "there.jsonl"
    for results, options in ((here, ["-j1"]), (there, cluster.options)):
        ended = run("-f", EXAMPLE, *grid, f"--results={results}", *options)
        assert ended.exit_code == 0, ended.output
    assert len(in_file(there)) == 20
    assert there.read_bytes() == here.read_bytes()


def test_who_has_no_certificate_of_the_authority_is_not_let_in(
    cluster: TlsCluster, tmp_path: Path
) -> None:
    import trustme

    stranger = trustme.CA().issue_cert("stranger")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    stranger.cert_chain_pems[0].write_to_path(str(certificate))
    stranger.private_key_pem.write_to_path(str(key))
    given = DaskCertificates(cluster.certificates.ca, str(certificate), str(key))
    with (
        pytest.raises(TonnageError, match="no Dask scheduler answers"),
        engine.engine_of(cluster.address, jobs=1, certificates=given),
    ):
        pass


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("ray://x:1", "expected one of local, dask://HOST:PORT, tls://HOST:PORT"),
        ("dask://", "expected one of"),
        ("tls://127.0.0.1:1", "TLS needs --tls-ca, --tls-certificate and --tls-key"),
    ],
)
def test_an_address_that_is_none_is_one_error(address: str, told: str) -> None:
    with pytest.raises(InputError, match=told), engine.engine_of(address, jobs=1):
        pass


def test_without_the_extra_the_error_names_it() -> None:
    code = """
import sys
sys.modules["distributed"] = None
from tonnage import engine
with engine.engine_of("dask://127.0.0.1:1", jobs=1):
    pass
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'tonnage[dask]'" in ended.stderr.splitlines()[-1]
