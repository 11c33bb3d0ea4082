"""What processes of a fleet hand to each other, and what they refuse."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from replay.audit.store import Store
from replay.errors import StoreError
from replay.pipeline.fleet.parcels import LONGEST_RUN, FleetRun, Parcels, new_run
from replay.storage.directory import DirectoryStorage
from replay.storage.scratch import scratch


class Ends(NamedTuple):
    """Two processes of one run, and where the files of their store are."""

    here: Parcels
    there: Parcels
    directory: Path
    run: FleetRun
    scratch: Path


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    with ExitStack() as stack:
        storage, run = DirectoryStorage(tmp_path), new_run(str(tmp_path))
        one, other = (stack.enter_context(scratch()) for _ in range(2))
        yield Ends(Parcels(storage, run, one), Parcels(storage, run, other), tmp_path, run, one)


def test_values(ends: Ends) -> None:
    name = ends.here.put({"a": [1, (2, None)]})
    assert (ends.there.has(name), ends.there.has("0" * 64)) == (True, False)
    assert ends.there.get(name) == {"a": [1, (2, None)]}
    assert ends.here.put({"a": [1, (2, None)]}) == name
    with pytest.raises(FileNotFoundError):
        ends.there.get("0" * 64)


def test_files_of_a_run_go_along(ends: Ends) -> None:
    written = ends.scratch / "spool" / "lines"
    written.write_bytes(b"lines")
    path, directory, elsewhere = ends.there.get(ends.here.put((written, ends.scratch, Path("sets/current"))))
    assert (path.read_bytes(), elsewhere) == (b"lines", Path("sets/current"))
    assert path != written
    assert directory != ends.scratch
    (directory / "rows").write_bytes(b"rows")
    ends.there.clear()
    assert list(directory.iterdir()) == []


class Trap:
    """What runs when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("trapped",)


@pytest.mark.parametrize("content", [pickle.dumps(Trap()), b"", b"\0" * 40], ids=["trap", "nothing", "zeros"])
def test_what_has_no_seal_is_not_unpickled(ends: Ends, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ends.directory)
    name = ends.here.put("value")
    place = ends.directory / "fleet" / ends.run.name / name
    place.write_bytes(content)
    with pytest.raises(StoreError, match=f"^{place}: altered since this run wrote it: see who else writes there$"):
        ends.there.get(name)
    assert not Path("trapped").exists()


def test_a_parcel_in_the_place_of_another_is_altered(ends: Ends) -> None:
    place = ends.directory / "fleet" / ends.run.name
    one, other = ends.here.put("one"), ends.here.put("other")
    (place / one).write_bytes((place / other).read_bytes())
    with pytest.raises(StoreError, match="altered"):
        ends.there.get(one)


def test_a_file_that_is_altered(ends: Ends) -> None:
    written = ends.scratch / "spool" / "lines"
    written.write_bytes(b"lines")
    name = ends.here.put(written)
    (file,) = (each for each in (ends.directory / "fleet" / ends.run.name).iterdir() if each.name != name)
    file.write_bytes(b"others")
    with pytest.raises(StoreError, match="altered"):
        ends.there.get(name)


@pytest.mark.slow
def test_parts(short_sample: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        store = stack.enter_context(Store.open(tmp_path / "store"))
        store.ingest([short_sample / "audit.jsonl"])
        run = new_run(store.storage.location)
        one, other = (stack.enter_context(scratch()) for _ in range(2))
        here, there = Parcels(store.storage, run, one, store.segments), Parcels(store.storage, run, other)
        for number in range(store.parts):
            part = there.unpack(here.pack(store.part(number)))
            assert (part.number, part.temporary) == (number, str(other))
            assert list(part.records()) == list(store.part(number).records())
        damaged = Path(next(rows for n in range(store.parts) for rows in store.part(n).tables.rows))
        damaged.write_bytes(damaged.read_bytes()[:-1])
        with pytest.raises(StoreError, match="damaged"):
            [there.unpack(here.pack(store.part(number))) for number in range(store.parts)]


def test_what_is_removed(ends: Ends) -> None:
    names = []
    for age in (0.0, LONGEST_RUN - 60, LONGEST_RUN + 60):
        run = new_run(str(ends.directory))
        Parcels(DirectoryStorage(ends.directory), run, ends.scratch).put("value")
        for each in (ends.directory / "fleet" / run.name).iterdir():
            os.utime(each, (time.time() - age,) * 2)
        names.append(run.name)
    ends.here.put("value")
    ends.here.remove()
    assert sorted(each.name for each in (ends.directory / "fleet").iterdir()) == sorted(names[:2])
