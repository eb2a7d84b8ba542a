"""The processes of this machine and a Dask cluster keep `EngineContract`."""

from collections.abc import Iterator

import pytest

from tests.contracts.engine import EngineContract
from tests.engine.dask_setup import tls_cluster
from tonnage import engine
from tonnage.engine import Engine
from tonnage.engine.processes import ProcessEngine


class TestProcesses(EngineContract):
    @pytest.fixture
    def workers(self) -> Engine:
        return ProcessEngine(2)


@pytest.mark.xdist_group("dask")
class TestDask(EngineContract):
    @pytest.fixture(scope="class")
    @classmethod
    def workers(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
        with (
            tls_cluster(tmp_path_factory.mktemp("dask"), workers=2) as cluster,
            engine.engine_of(
                cluster.address, jobs=1, certificates=cluster.certificates
            ) as connected,
        ):
            yield connected
