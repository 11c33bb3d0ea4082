"""The walk of a wave asks each part for its own objects alone, and leaves out none."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from replay.audit.part import StorePart, Tables
from replay.audit.place import object_place, stored_key
from replay.audit.store import FEWEST_KEPT_PARTS, Store
from replay.kube.gvk import ObjectRef
from replay.pipeline.replay.divergence import Divergence
from replay.pipeline.replay.world import Portion, Wave
from replay.world.collection import Collections
from replay.world.ownership import Ownership
from replay.world.walk import WalkContext
from tests.support.log_lines import event, records

NAMELESS = {"resource": "pods", "namespace": "n", "apiVersion": "v1"}


def _line(number: int) -> bytes:
    """A pod that is created, or that never gets a name."""
    refused = {"objectRef": NAMELESS, "responseStatus": {"code": 403}}
    named = {"objectRef": {**NAMELESS, "name": f"p{number}"}}
    return event(number % 60, auditID=f"id-{number}", **(refused if number % 5 == 0 else named))


def _key(name: str, audit_id: str = "") -> str:
    return stored_key(ObjectRef("", "pods", "n", name), audit_id)


@pytest.mark.parametrize("parts", [1, FEWEST_KEPT_PARTS], ids=["as a whole", "by part"])
def test_a_part_is_asked_for_what_is_its_own(parts: int, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"\n".join(map(_line, range(100))))
    with Store.open(tmp_path / "store") as store:
        store.ingest([tmp_path / "log"])
        read = records(store)
        wanted = [each for each in read if int(each.audit_id.removeprefix("id-")) % 3]
        divergence = Divergence()
        for each in wanted:
            divergence.add_finding(each.seq, ObjectRef("", "pods", "n", each.name), each.audit_id)
        divergence.add_finding(0, ObjectRef("", "pods", "n", "not walked"), "")
        rows = [(_key("p1"), "u1", "u-set"), (_key("p1"), "", "u-other"), (_key("p0"), "u0", "u-set")]
        owned = Ownership.from_rows(pl.DataFrame(rows, ["key", "uid", "owner"], orient="row"))
        keys = (divergence.objects.keys() | {_key("elsewhere")}) - {_key("not walked")}
        wave = Wave(frozenset(keys), WalkContext(Collections({})), divergence, owned)
        shown = []
        for portion in wave.portions([store.whole()] if parts == 1 else list(map(store.part, range(store.parts)))):
            there = [(each.seq, each.audit_id) for group in portion.part.objects() for each in group]
            found = [each.seq for _, group in portion.part.writes(portion.identities) for each in group]
            assert found == [seq for seq, audit_id in there if audit_id in {each.audit_id for each in wanted}]
            assert portion.findings == dict.fromkeys(found)
            assert portion.owned == ({"u1": ("u-set",)} if "id-1" in dict(there).values() else {})
            shown += found
        assert sorted(shown) == sorted(each.seq for each in wanted)


def test_a_part_of_which_nothing_is_walked_is_not_asked() -> None:
    wave = Wave(frozenset({_key("p1")}), WalkContext(Collections({})), Divergence())
    parts = [StorePart(number, Tables((), (), (), ()), "") for number in range(FEWEST_KEPT_PARTS)]
    place = object_place(("", "pods", "n", "p1"), FEWEST_KEPT_PARTS)
    assert wave.portions(parts) == [Portion(parts[place.part], [place.identity], {}, {})]
