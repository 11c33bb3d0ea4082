"""A damaged store: the same answer as before, or one line that names a file and the way out. Never fewer rows."""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replay.audit.store import Store
from replay.errors import StoreError

Damage = Callable[[random.Random, list[Path]], None]


def truncate(chance: random.Random, files: list[Path]) -> None:
    path = chance.choice(files)
    content = path.read_bytes()
    path.write_bytes(content[: chance.randrange(len(content))])


def flip(chance: random.Random, files: list[Path]) -> None:
    path = chance.choice(files)
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def delete(chance: random.Random, files: list[Path]) -> None:
    chance.choice(files).unlink()


def swap(chance: random.Random, files: list[Path]) -> None:
    first, second = chance.sample(files, 2)
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)


DAMAGES: list[Damage] = [truncate, flip, delete, swap]


NAMES = ("sql", "run", "report", "info", "ingest")


def _files(store: Path) -> list[Path]:
    return sorted(path for path in store.rglob("*") if path.is_file() and path.stat().st_size)


@pytest.fixture(scope="module")
def store(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ingests."""
    directory = tmp_path_factory.mktemp("kept") / "store"
    lines = log.read_bytes().splitlines(keepends=True)
    for number in range(2):
        half = directory.with_name(f"half-{number}")
        half.write_bytes(b"".join(lines[number * len(lines) // 2 : (number + 1) * len(lines) // 2]))
        with Store.open(directory) as opened:
            opened.ingest([half])
    return directory


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_every_row_counts(damage: Damage, store: Path, tmp_path: Path) -> None:
    rows = [path.relative_to(store) for path in store.rglob("*.parquet")]
    chance = random.Random(damage.__name__)
    for number, path in enumerate(chance.sample(rows, 12)):
        copy = tmp_path / f"store-{number}"
        shutil.copytree(store, copy)
        files = [
            copy / path,
            *(copy / other for other in rows if (store / other).read_bytes() != (store / path).read_bytes()),
        ]
        damage(chance, files[:2] if damage is swap else files[:1])
        with pytest.raises(StoreError, match="remove the store's directory and ingest the logs again") as caught:
            Store.open(copy)
        assert Path(caught.value.path) in files[:2]


@pytest.mark.slow
def test_ten_damages(log: Path, sets: list[object], store: Path, tmp_path: Path, command: Any) -> None:
    def asked(directory: Path, names: tuple[str, ...]) -> dict[str, Any]:
        questions: dict[str, list[object]] = {
            "sql": ["sql", "select count(*), max(stage_time) from request", "--store", directory],
            "run": ["run", "--store", directory, "--json", *sets],
            "report": ["report", "--store", directory, "--json", *sets],
            "info": ["store", "info", directory, "--json"],
            "ingest": ["ingest", log, "--store", directory, "--json"],
        }
        return {name: command.run(*questions[name]) for name in names}

    def content(name: str, done: Any, directory: Path) -> Any:
        if not done.out or name == "sql":
            return done.out
        found = json.loads(done.out.replace(str(directory), "STORE"))
        return {key: value for key, value in found.items() if key not in ("bytes", "octets", "sizeBytes")}

    filled = tmp_path / "filled"
    shutil.copytree(store, filled)
    command.run("run", "--store", filled, "--json", *sets)
    command.run("report", "--store", filled, "--json", *sets)
    clean = tmp_path / "store"
    shutil.copytree(filled, clean)
    wanted = {name: (done.code, content(name, done, clean)) for name, done in asked(clean, NAMES).items()}
    same = told = 0
    for number in range(10):
        shutil.rmtree(clean)
        shutil.copytree(filled, clean)
        chance = random.Random(number)
        DAMAGES[number % 4](chance, _files(clean))
        for name, done in asked(clean, (NAMES[number % len(NAMES)],)).items():
            if done.is_told:
                told += 1
                continue
            assert (done.code, content(name, done, clean)) == wanted[name], (number, name, done)
            same += 1
    sys.stdout.write(f"10 damages: {same} answers are the same, {told} are one line of error\n")
    assert command.not_converted() == []
