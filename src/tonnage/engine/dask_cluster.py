"""The engine of a Dask cluster. Its scheduler says who does what, and does again what was lost.

The task goes to each worker once, as a plugin, so that a worker that joins later or is started
anew has it too. A piece that has cost several workers is given up by the scheduler
(`distributed.scheduler.allowed-failures`), and with it pieces that waited on the same workers:
so each of them is tried alone before it counts as lost.
"""

import functools
import importlib.metadata
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from uuid import uuid4

from tonnage.engine import tasks
from tonnage.engine.tasks import Submit, Task
from tonnage.errors import InputError, TonnageError

try:
    from distributed import Client, Security, WorkerPlugin
    from distributed.scheduler import KilledWorker
except ImportError as missing:
    raise InputError(
        "a Dask cluster as the engine needs the extra dask: pip install 'tonnage[dask]'"
        f" ({missing})"
    ) from missing

Q = TypeVar("Q")
A = TypeVar("A")

_CONNECT_WITHIN = 10.0
_COUNT_EVERY = 2.0
_REGISTER_TRIES, _REGISTER_EVERY = 20, 0.5


class DaskEngine:
    """The workers that a Dask scheduler has at the moment, however many come and go."""

    tries_alone = 1  # the scheduler has tries of its own

    def __init__(self, address: str, security: Security | None = None) -> None:
        self._address = address
        try:
            self._client: Any = Client(  # type: ignore[no-untyped-call]
                address,
                security=security,
                timeout=_CONNECT_WITHIN,
                set_as_default=False,
                name="tonnage",
            )
        except (OSError, TimeoutError, ValueError, RuntimeError) as error:
            cause = error.__cause__ or error
            raise TonnageError(f"engine {address}: no Dask scheduler answers: {cause}") from error
        self._counted = 0.0
        self._workers = 0
        self._check_versions()

    @property
    def workers(self) -> int:
        """At least one is counted on: workers may still be starting."""
        now = time.monotonic()
        if now - self._counted >= _COUNT_EVERY:
            self._counted, self._workers = now, len(self._client.nthreads())
        return max(self._workers, 1)

    @contextmanager
    def opened(self, task: Task[Q, A], *, workers: int | None = None) -> Iterator[Submit[Q, A]]:  # noqa: ARG002
        name = f"tonnage-{uuid4()}"
        self._register(_TaskPlugin(name, task))
        executor = self._client.get_executor(pure=False)
        try:
            yield Submit(executor, functools.partial(_answered, name))
        finally:
            executor.shutdown(wait=False)
            # Whoever is gone needs not be told.
            with suppress(Exception):
                self._client.unregister_worker_plugin(name)

    def _register(self, plugin: "_TaskPlugin") -> None:
        """Bring the task to all workers. One that goes at that moment fails the whole call."""
        for turn in range(_REGISTER_TRIES):
            try:
                self._client.register_plugin(plugin, name=plugin.name)
                return
            except OSError as error:
                if turn + 1 == _REGISTER_TRIES:
                    raise TonnageError(
                        f"engine {self._address}: workers come and go too fast: {error}"
                    ) from error
                time.sleep(_REGISTER_EVERY)

    def is_lost(self, error: BaseException) -> bool:
        return isinstance(error, KilledWorker)

    def close(self) -> None:
        self._client.close()

    def _check_versions(self) -> None:
        ours = importlib.metadata.version("tonnage")
        found = self._client.run(_version, on_error="return")
        for worker, version in found.items():
            if isinstance(version, OSError):
                continue  # gone since
            if version != ours:
                raise TonnageError(
                    f"engine {self._address}: worker {worker} has"
                    f" {f'Tonnage {version}' if isinstance(version, str) else 'no Tonnage'}"
                    f" and this is {ours}: install the same version there"
                )


def secured(ca: str, certificate: str, key: str) -> Security:
    """TLS in both directions; nothing is said in the clear."""
    try:
        return Security(  # type: ignore[no-untyped-call]
            tls_ca_file=ca,
            tls_client_cert=certificate,
            tls_client_key=key,
            require_encryption=True,
        )
    except (OSError, ValueError) as error:
        raise InputError(f"certificates of the engine: {error}") from error


_tasks: dict[str, Task[Any, Any]] = {}
"""Of a worker: what it was told to be ready for."""


class _TaskPlugin(WorkerPlugin):
    """Brings a task to a worker, and takes it away with all that was prepared for it."""

    def __init__(self, name: str, task: Task[Any, Any]) -> None:
        self.name = name
        self._task = task

    def setup(self, worker: object) -> None:  # noqa: ARG002
        _tasks[self.name] = self._task

    def teardown(self, worker: object) -> None:  # noqa: ARG002
        task = _tasks.pop(self.name, None)
        if task is not None:
            tasks.forget(task.key)


def _answered(name: str, question: Any) -> Any:
    return tasks.answered(_tasks[name], question)


def _version() -> str:
    return importlib.metadata.version("tonnage")
