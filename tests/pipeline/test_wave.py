"""A wave of one part asks for the objects of the part alone, and walks the same records."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.audit.store import Store
from replay.pipeline.replay.followed import BETWEEN
from replay.pipeline.replay.world import FEW_OBJECTS, Wave
from replay.world.collection import Collections
from replay.world.walk import WalkContext
from tests.support.log_lines import event, records

NAMELESS = {"resource": "pods", "namespace": "n", "apiVersion": "v1"}


def _line(number: int) -> bytes:
    """A pod that is created, or that never gets a name."""
    refused = {"objectRef": NAMELESS, "responseStatus": {"code": 403}}
    named = {"objectRef": {**NAMELESS, "name": f"p{number}"}}
    return event(number % 60, auditID=f"id-{number}", **(refused if number % 5 == 0 else named))


def _key(name: str) -> str:
    return BETWEEN.join(("", "pods", "n", name))


@pytest.mark.parametrize("count", [FEW_OBJECTS // 2, FEW_OBJECTS * 2], ids=["few objects", "many objects"])
def test_a_part_has_what_is_its_own(count: int, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"\n".join(map(_line, range(count))))
    with Store.open(tmp_path / "store") as store:
        store.ingest([tmp_path / "log"])
        read = records(store)
        keys = frozenset(_key(each.name) for each in read if each.name)
        nameless = frozenset(each.audit_id for each in read if not each.name)
        wave = Wave(keys | {_key("elsewhere")}, WalkContext(Collections({})), nameless)
        for number in range(store.parts):
            part = store.part(number)
            own = wave.within(part)
            expected = [[each.audit_id for each in group] for group in part.objects(wave.predicate)]
            assert [[each.audit_id for each in group] for group in part.objects(own.predicate)] == expected
            if count > FEW_OBJECTS:
                there = {each.audit_id: each.name for group in part.objects() for each in group}
                assert own.keys == {_key(name) for name in there.values() if name}
                assert own.nameless == {audit_id for audit_id, name in there.items() if not name}
