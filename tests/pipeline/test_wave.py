"""The walk of a wave asks each part for its own objects alone, and leaves out none."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.audit.place import object_place
from replay.audit.store import FEWEST_KEPT_PARTS, Store
from replay.pipeline.replay.reach import BETWEEN
from replay.pipeline.replay.world import Wave
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


@pytest.mark.parametrize("parts", [1, FEWEST_KEPT_PARTS], ids=["as a whole", "by part"])
def test_a_part_is_asked_for_what_is_its_own(parts: int, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"\n".join(map(_line, range(100))))
    with Store.open(tmp_path / "store") as store:
        store.ingest([tmp_path / "log"])
        read = records(store)
        wanted = [each for each in read if int(each.audit_id.removeprefix("id-")) % 3]
        keys = frozenset(_key(each.name) for each in wanted if each.name)
        nameless = frozenset(each.audit_id for each in wanted if not each.name)
        walk = Wave(keys | {_key("elsewhere")}, WalkContext(Collections({})), nameless).walk(parts)
        shown = []
        for part in [store.whole()] if parts == 1 else [store.part(number) for number in range(store.parts)]:
            there = [each.audit_id for group in part.objects() for each in group]
            predicate = walk.predicate(part.number)
            found = [each.audit_id for group in part.objects(predicate) for each in group]
            assert found == [audit_id for audit_id in there if audit_id in {each.audit_id for each in wanted}]
            shown += found
        assert sorted(shown) == sorted(each.audit_id for each in wanted)


def test_a_part_of_which_nothing_is_walked_is_not_asked() -> None:
    walk = Wave(frozenset({_key("p1")}), WalkContext(Collections({})), frozenset()).walk(FEWEST_KEPT_PARTS)
    assert [part for part in range(FEWEST_KEPT_PARTS) if walk.predicate(part) is not None] == list(walk.identities)
    assert list(walk.identities.values()) == [[object_place(("", "pods", "n", "p1"), 1).identity]]
