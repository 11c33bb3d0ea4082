"""The seam at which a run can be spread further: parts are replayed by the executor of whatever fleet is given."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, NamedTuple, cast

import polars as pl
import pytest
from msgspec.structs import replace

from replay.audit.part import StorePart
from replay.audit.store import Store
from replay.pipeline.options import Options
from replay.pipeline.replay.workers import RunPart, WorkerPool, replay_parts
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.pipeline.store import fill
from replay.report.run.json import summary_json


class Lent(Executor):
    """A fleet that lends itself."""

    def executor(self, _store: Store) -> Executor:
        return self


class RequestAdapter(Lent):
    """Work that goes away as bytes and comes back as bytes: when so much is there, it is done from the last to the first."""

    def __init__(self, parts: int) -> None:
        self._parts = parts
        self._waiting: list[tuple[Future[Any], bytes]] = []
        self.done = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._waiting.append((future, pickle.dumps((fn, args, kwargs))))
        while len(self._waiting) + self.done >= self._parts and self._waiting:
            self._work()
        return future

    def _work(self) -> None:
        future, message = self._waiting.pop()
        function, args, kwargs = pickle.loads(message)
        future.set_result(pickle.loads(pickle.dumps(function(*args, **kwargs))))
        self.done += 1


class Failing(Lent):
    """The second part fails; the others are never begun."""

    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []

    def submit(self, _fn: Callable[..., Any], /, *_args: Any, **_kwargs: Any) -> Future[Any]:
        self.futures.append(Future())
        if len(self.futures) == 2:
            self.futures[1].set_exception(ValueError("the machine is gone"))
        return self.futures[-1]


class Double(NamedTuple):
    """A job that can be sent anywhere."""

    factor: int = 2

    def run(self, part: StorePart) -> int:
        return cast("int", part) * self.factor


class Parts(NamedTuple):
    """A store of numbers."""

    parts: int = 3

    def part(self, number: int) -> int:
        return number + 1


STORE = cast("Store", Parts())


def test_results_come_in_the_order_of_the_parts() -> None:
    told: list[tuple[str, int, int]] = []
    fleet = RequestAdapter(3)
    got = replay_parts(Double(), STORE, Options(fleet=fleet), lambda *progress: told.append(progress))
    assert (got, fleet.done) == ([2, 4, 6], 3)
    assert told == [("Replaying", 0, 3), ("Replaying", 1, 3), ("Replaying", 2, 3), ("Replaying", 3, 3)]


def test_the_first_failure_cancels_what_has_not_begun() -> None:
    fleet = Failing()
    with pytest.raises(ValueError, match=r"^the machine is gone$"):
        replay_parts(Double(), STORE, Options(fleet=fleet), lambda *_progress: None)
    assert [future.cancelled() for future in fleet.futures] == [True, False, True]


class Idle(Lent):
    """Somebody who has begun, and is told from here when to be done."""

    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []

    def submit(self, _fn: Callable[..., Any], /, *_args: Any, **_kwargs: Any) -> Future[Any]:
        self.futures.append(Future())
        return self.futures[-1]

    def end(self) -> None:
        for number, future in enumerate(self.futures):
            future.set_result(number)


def test_what_is_done_meanwhile_is_done_once_others_have_begun() -> None:
    fleet = Idle()
    with WorkerPool(STORE, Double, Options(fleet=fleet)) as worker_pool:
        assert worker_pool.run(RunPart(), [STORE.part(each) for each in range(3)], lambda *_: None, fleet.end) == [
            0,
            1,
            2,
        ]


def test_what_fails_meanwhile_ends_the_others() -> None:
    fleet = Idle()

    def fail() -> None:
        raise ValueError("the question cannot be answered")

    with (
        WorkerPool(STORE, Double, Options(fleet=fleet)) as worker_pool,
        pytest.raises(ValueError, match=r"^the question cannot"),
    ):
        worker_pool.run(RunPart(), [STORE.part(each) for each in range(3)], lambda *_: None, fail)
    assert [future.cancelled() for future in fleet.futures] == [True, True, True]


class Piece(NamedTuple):
    """A part, or a share of one."""

    name: str

    def shares(self, total: int) -> list[Piece]:
        return [Piece(f"{self.name}{number + 1}/{total}") for number in range(total)]


@pytest.mark.parametrize(
    ("names", "workers", "shown"),
    [
        ("a b c d", 2, "a b c d"),
        ("a b c d e", 2, "a b c d e1/4 e2/4 e3/4 e4/4"),
        ("a b c d e", 3, "a b c d1/3 d2/3 d3/3 e1/3 e2/3 e3/3"),
        ("a b c d e", 4, "a b c d e1/8 e2/8 e3/8 e4/8 e5/8 e6/8 e7/8 e8/8"),
        ("a b", 5, "a1/2 a2/2 b1/2 b2/2"),
        ("a b c", 1, "a b c"),
        ("a", 4, "a"),
        ("", 4, ""),
    ],
    ids=[
        "full rounds",
        "one left",
        "two left of three",
        "one left of four",
        "too few",
        "one worker",
        "one part",
        "none",
    ],
)
def test_the_parts_of_a_last_round_are_shared(names: str, workers: int, shown: str) -> None:
    with WorkerPool(STORE, Double, Options(workers=workers)) as worker_pool:
        assert " ".join(each.name for each in worker_pool.shared(list(map(Piece, names.split())))) == shown


def test_a_fleet_is_given_whole_parts() -> None:
    with WorkerPool(STORE, Double, Options(workers=2, fleet=Idle())) as worker_pool:
        assert worker_pool.shared([Piece("a"), Piece("b"), Piece("c")]) == [Piece("a"), Piece("b"), Piece("c")]


@pytest.mark.parametrize(("candidate", "times"), [("current", 0), ("candidate", 1)])
def test_only_where_the_sets_differ_is_asked_who_owns_what(
    candidate: str, times: int, short_sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replay.audit.store.PART_BYTES", 1 << 19)
    names: list[str] = []
    query = Store.query

    def noted(self: Store, name: str, **parameters: Any) -> pl.DataFrame:
        names.append(name)
        return query(self, name, **parameters)

    monkeypatch.setattr(Store, "query", noted)
    scenario = Scenario((str(short_sample),)).resolved()
    run(replace(scenario, candidate=short_sample / candidate), Options(fleet=RequestAdapter(1)), lambda *_: None)
    assert names.count("owned") == times


@pytest.mark.slow
def test_a_run_elsewhere_gives_the_same_bytes(
    short_sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replay.audit.store.PART_BYTES", 1 << 19)
    scenario = Scenario((str(short_sample),), store=tmp_path / "store").resolved()

    def written(name: str, options: Options) -> tuple[bytes, str]:
        outcomes = tmp_path / name
        asked = replace(scenario, store=tmp_path / f"{name}.store")
        fill(asked, None, lambda *_progress: None)
        result = run(replace(asked, logs=()), replace(options, outcomes=outcomes), lambda *_progress: None)
        return outcomes.read_bytes(), summary_json(result)

    fleet = RequestAdapter(parts := 2)
    assert written("elsewhere", Options(fleet=fleet)) == written("here", Options(workers=1))
    assert fleet.done >= parts
