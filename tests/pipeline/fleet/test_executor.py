"""Orders and those who do them, in one process: what comes back is what this process finds alone."""

from __future__ import annotations

import gc
import gzip
import os
from collections.abc import Iterator
from concurrent.futures import Executor, Future, wait
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from replay.audit.store import Store
from replay.errors import ReplayError
from replay.pipeline.fleet import order
from replay.pipeline.fleet.order import OrderingExecutor, WorkOrder, execute_order, remove_worker_files, require_same
from replay.pipeline.fleet.parcels import Parcels, new_run
from replay.pipeline.options import Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.pipeline.store import fill
from replay.report.run.json import summary_json
from replay.storage.location import opened
from replay.storage.scratch import scratch


class OneByOne:
    """A fleet whose only worker is this process; the first try of every order is lost after its result was put."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.orders: list[WorkOrder] = []

    def executor(self, store: Store) -> Executor:
        asked = new_run(store.storage.location)
        own = self._stack.enter_context(scratch()).resolve()
        storage = opened(asked.location, self._stack)
        self._stack.callback(remove_worker_files, asked)
        return OrderingExecutor(self._submit, lambda error: error, Parcels(storage, asked, own, store.segments), asked)

    def _submit(self, order: WorkOrder) -> Future[str]:
        future: Future[str] = Future()
        self.orders.append(order)
        try:
            execute_order(order)
            future.set_result(execute_order(order))
        except Exception as error:  # noqa: BLE001 - as every executor does
            future.set_exception(error)
        return future


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    """What a worker sets for its process is as before."""
    mask, collect = os.umask(0), gc.get_threshold()
    os.umask(mask)
    yield
    os.umask(mask)
    gc.set_threshold(*collect)


@pytest.fixture
def fleet() -> Iterator[OneByOne]:
    with ExitStack() as stack:
        yield OneByOne(stack)


@pytest.mark.slow
def test_a_run_gives_the_same_bytes(short_sample: Path, tmp_path: Path, fleet: OneByOne) -> None:
    lines = (short_sample / "audit.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "a.jsonl").write_bytes(b"".join(lines[::2]))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(b"".join([*lines[1::2], b"{}\n"])))
    (tmp_path / "c.jsonl").write_bytes(b'{"kind":"Event"\n')
    logs = tuple(str(tmp_path / f"{name}.jsonl{end}") for name, end in (("a", ""), ("b", ".gz"), ("c", "")))
    scenario = replace(Scenario((str(short_sample),)).resolved(), logs=logs)

    def written(name: str, options: Options) -> tuple[bytes, bytes, str]:
        outcomes, rejects = tmp_path / name, tmp_path / f"{name}.rejects"
        asked = replace(scenario, store=str(tmp_path / f"{name}.store"))
        result = run(asked, replace(options, outcomes=outcomes, rejects=rejects), lambda *_progress: None)
        return outcomes.read_bytes(), rejects.read_bytes(), summary_json(result)

    assert written("fleet", Options(fleet=fleet)) == written("here", Options(workers=1))
    assert len(fleet.orders) >= 18
    assert len({order.shared[1] for order in fleet.orders if len(order.shared) > 1}) == 1
    assert {path.suffix for path in Path(tmp_path / "fleet.store").iterdir()} <= {"", ".json", ".sql"}


def test_logs_in_a_bucket_are_read_by_workers(
    short_sample: Path, tmp_path: Path, bucket: str, fleet: OneByOne, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (short_sample / "audit.jsonl").read_bytes().splitlines(keepends=True)
    with ExitStack() as stack:
        storage = opened(f"{bucket}/logs", stack)
        for number in range(3):
            storage.put(f"{number}.jsonl", b"".join(lines[number::3]))
    scenario = Scenario((f"{bucket}/logs/*.jsonl",), store=tmp_path / "fleet")
    here, _ = fill(replace(scenario, store=tmp_path / "here"), None, lambda *_progress: None)
    monkeypatch.setattr("replay.audit.ingest.LogReader._read_batch", lambda *_arguments: pytest.fail("read here"))
    there, _ = fill(scenario, None, lambda *_progress: None, fleet)
    assert (there, there.files) == (here, 3)
    query = "select seq, audit_id, object_name, request_object, response_object from request order by all"
    with Store.open(tmp_path / "here") as one, Store.open(tmp_path / "fleet") as other:
        assert one.sql(query).rows() == other.sql(query).rows()


def test_an_error_of_a_worker(short_sample: Path, tmp_path: Path, fleet: OneByOne) -> None:
    with Store.open(tmp_path / "store") as store:
        store.ingest([short_sample / "audit.jsonl"])
        executor = fleet.executor(store)
        future = executor.submit(int, "no number")
        assert "invalid literal" in str(future.exception())
        with pytest.raises(ValueError, match="invalid literal"):
            future.result()
        assert executor.submit(int, "2").result() == 2


def test_a_scheduler_that_forgets(short_sample: Path, tmp_path: Path) -> None:
    lost: Future[str] = Future()
    with Store.open(tmp_path / "store") as store, scratch() as own:
        store.ingest([short_sample / "audit.jsonl"])
        asked = new_run(store.storage.location)
        executor = OrderingExecutor(lambda _order: lost, lambda error: error, Parcels(store.storage, asked, own), asked)
        future = executor.submit(int, "2")
        assert lost.cancel()
        lost.set_running_or_notify_cancel()
        assert wait([future], timeout=10).done == {future}
        with pytest.raises(ReplayError, match="the scheduler was lost"):
            future.result()


def test_a_store_that_a_worker_does_not_see(tmp_path: Path) -> None:
    mine = WorkOrder(new_run(str(tmp_path / "nowhere")), order.fingerprint(), (700, 10, 10), ("0" * 64,), b"")
    with pytest.raises(
        ReplayError, match=r"nowhere: worker \S+ does not see it: keep the store on a file system of all"
    ):
        execute_order(mine)
    remove_worker_files(mine.run)


def test_another_replay() -> None:
    assert order.fingerprint().startswith("replay 0.")
    require_same(order.fingerprint(), "worker a")
    with pytest.raises(
        ReplayError, match=r"^worker a: has replay .*, the command replay 0\.0\.9: use one image for all$"
    ):
        require_same("replay 0.0.9", "worker a")
