"""Root findings: the headline against the lines of `--outcomes` counted by hand, and every table against the headline."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from replay.compare.fidelity import Fidelity
from replay.compare.outcome import OutcomeKind
from replay.compare.result import LogFacts, RunResult, SetFacts
from replay.compare.subject import hits
from replay.compare.summary import CellKey, Example, OutcomeFinding, Summary
from replay.report.annotate import run_annotations
from replay.report.render.document import Document, Table
from replay.report.run.hits import hit_values, hits_csv
from replay.report.run.json import summary_json
from replay.report.run.report import run_document
from replay.report.run.views import LOCKED_OUT
from tests.support.shared_run import shared_run

ROOT = Path(__file__).parents[2]
RECORDINGS = ROOT.parent / "shared" / "recordings"
EVERYTHING = 1_000_000
NEWLY_DENIED = "newly_denied"
PARTITIONS = ("workloads", "users", "namespaces", "kinds")
"""The tables in which each request stands in one row."""

Replayed = tuple[RunResult, duckdb.DuckDBPyConnection]


@pytest.fixture(
    scope="module",
    params=[
        "sample",
        pytest.param("bench", marks=[pytest.mark.shared, pytest.mark.slow, pytest.mark.nightly]),
    ],
)
def replayed(request: pytest.FixtureRequest, common: Path) -> Replayed:
    """A run, and its lines as a table of DuckDB's: nothing of ours but the line format."""
    shop = ROOT / "sample_audit" / "shop" if request.param == "sample" else RECORDINGS / "shop"
    if not shop.is_dir():
        pytest.skip("the recordings are not beside the checkout")
    result, lines = shared_run(common, shop if request.param == "sample" else RECORDINGS / "bench", shop)
    connection = duckdb.connect()
    connection.execute(
        "create table line as select * from read_json(?, format = 'newline_delimited', maximum_object_size = 100000000,"
        " columns = {outcome: 'varchar', root: 'boolean', follows: 'varchar', \"user\": 'varchar', \"namespace\": 'varchar',"
        " resource: 'struct(\"group\" varchar, resource varchar, subresource varchar)', candidate: 'json'})",
        [str(lines)],
    )
    connection.execute("create view denied as select * from line where outcome = 'newly_denied'")
    return result, connection


def document(result: RunResult) -> Document:
    return run_document(result, rows=EVERYTHING, hits=None)


def tables(result: RunResult) -> dict[str, Table]:
    blocks = (block for section in document(result).sections for block in section.blocks)
    return {block.id: block for block in blocks if isinstance(block, Table)}


def column(table: Table, title: str) -> list[str]:
    place = [each.title for each in table.columns].index(title)
    return [row[place] for row in table.rows]


def numbers(table: Table, title: str) -> list[int]:
    return [int(text.replace(",", "")) for text in column(table, title)]


def counted(connection: duckdb.DuckDBPyConnection, query: str) -> dict[str, tuple[int, int]]:
    """By the first column, how many are roots and how many follow."""
    return {str(name): (roots, follows) for name, roots, follows in connection.execute(query).fetchall()}


_BOTH = "count(*) filter (coalesce(root, false)), count(*) filter (not coalesce(root, false))"
BY_HAND = {
    "users": f'select "user", {_BOTH} from denied group by 1',
    "namespaces": f"select if(\"namespace\" = '', '(cluster)', \"namespace\"), {_BOTH} from denied group by 1",
    "kinds": (
        "select resource.resource || if(resource.\"group\" = '', '', '.' || resource.\"group\")"
        f" || if(resource.subresource = '', '', '/' || resource.subresource), {_BOTH} from denied group by 1"
    ),
    "policies": (
        f"select policy, {_BOTH} from (select root, unnest(list_distinct(from_json(candidate -> '$.denials[*].policy',"
        " '[\"VARCHAR\"]'))) as policy from denied) group by 1"
    ),
}


def test_what_follows_is_no_root(replayed: Replayed) -> None:
    _, connection = replayed
    asked = "select count(*) filter (root and follows is not null), count(*) filter (not coalesce(root, false) and follows is null)"
    assert connection.execute(f"{asked} from denied").fetchone() == (0, 0)


def test_the_headline_is_what_the_lines_say(replayed: Replayed) -> None:
    result, connection = replayed
    by_outcome = counted(connection, f"select outcome, {_BOTH} from line where outcome <> 'unchanged' group by 1")
    found = document(result)
    denied, _ = by_outcome[NEWLY_DENIED]
    assert re.match(rf"{denied:,} of [\d,]+ requests would be denied directly\. ", found.verdict)
    failing = connection.execute(
        "select count(*) from line where follows is not null"
        " and candidate ->> '$.result.cause' not in ('succeeds', 'unknown', 'not_sent')"
    ).fetchone()
    assert failing is not None
    assert f"Another {failing[0]:,} would fail as a consequence." in found.verdict
    assert next(fact for fact in found.facts if fact.label == "Denied").value == f"{denied:,}"
    told = json.loads(summary_json(result))
    assert told["roots"] == {outcome: roots for outcome, (roots, _) in by_outcome.items()}
    assert told["outcomes"] == {
        **{k: sum(v) for k, v in by_outcome.items()},
        "unchanged": told["outcomes"]["unchanged"],
    }
    spared = "select count(*) from denied where root and candidate ->> '$.result.cause' = 'succeeds'"
    assert connection.execute(spared).fetchone() == (result.summary.spared,)


@pytest.mark.parametrize("name", BY_HAND)
def test_tables_are_what_the_lines_say(name: str, replayed: Replayed) -> None:
    result, connection = replayed
    table = tables(result)[name]
    told = zip(
        column(table, table.columns[0].title), numbers(table, "direct"), numbers(table, "consequences"), strict=True
    )
    assert {label: (requests, follow) for label, requests, follow in told} == counted(connection, BY_HAND[name])


def test_lockouts_are_root_findings_of_components(replayed: Replayed) -> None:
    result, connection = replayed
    locked_out = connection.execute(
        "select count(*) from denied where root and \"user\" like 'system:%' and \"user\" <> 'system:anonymous'"
    ).fetchone()
    table = tables(result).get("lockouts")
    assert locked_out == (sum(numbers(table, "direct")) if table else 0,)
    assert table is None or set(column(table, "who")) <= set(LOCKED_OUT)


def test_every_row_of_who_is_hit_is_in_each_format(replayed: Replayed) -> None:
    result, connection = replayed
    rows = list(hit_values(result))
    assert json.loads(summary_json(result))["rows"] == rows
    assert len(tables(result)["hits-table"].rows) == len(rows)
    text = hits_csv(result)
    assert text.count("\n") >= len(rows) + 1
    by_policy: Counter[str] = Counter()
    for row in rows:
        by_policy[row["policy"]] += row["requests"] if row["outcome"] == NEWLY_DENIED else 0
    wanted = {name: roots for name, (roots, _) in counted(connection, BY_HAND["policies"]).items() if roots}
    assert {name: count for name, count in by_policy.items() if count} == wanted


NAMES = st.sampled_from(["a", "b", "c"])
CELLS = st.builds(
    CellKey,
    outcome=st.sampled_from([kind for kind in OutcomeKind if kind is not OutcomeKind.UNCHANGED]),
    policies=st.lists(NAMES, min_size=1, max_size=3, unique=True).map(tuple),
    user=st.sampled_from(["ann", "system:node:one", "system:serviceaccount:a:b", "system:kube-scheduler"]),
    namespace=st.sampled_from(["", "a", "b"]),
    resource=st.sampled_from(["pods", "deployments.apps"]),
    kind=st.just("Pod"),
    workload=st.sampled_from(["Pod/a", "Pod/b"]),
    follows=st.just(False),
    owner=st.sampled_from(["", "team-a"]),
)
FINDINGS = st.lists(st.tuples(CELLS, st.booleans()), max_size=40)


def made(found: list[tuple[CellKey, bool]]) -> RunResult:
    summary = Summary()
    for seq, (key, follows) in enumerate(found):
        messages = ("no",) * len(key.policies)
        mutates = key.outcome.value.endswith(("mutated", "changed"))
        shaped = replace(key, shapes=(("add /a",),) * len(key.policies) if mutates else (), follows=follows)
        example = Example(seq, 0, f"id-{seq}", seq * 30_000_000, "CREATE", "n", messages)
        summary.add_finding(OutcomeFinding(shaped, example))
        summary.outcomes[key.outcome] += 1
    log = LogFacts(("log",), first=0, last=len(found) * 30_000_000)
    return RunResult(log, SetFacts("current"), SetFacts("candidate"), summary, Fidelity())


@pytest.mark.property
@settings(max_examples=60, deadline=None)
@given(FINDINGS)
def test_tables_sum_up(found: list[tuple[CellKey, bool]]) -> None:
    """Whatever is found, and however many rows are shown."""
    result = made(found)
    denied = [(key, follows) for key, follows in found if key.outcome is OutcomeKind.NEWLY_DENIED]
    totals = (sum(not follows for _, follows in denied), sum(follows for _, follows in denied))
    shown = tables(result)
    for name in PARTITIONS if denied else ():
        table = shown[name]
        assert (sum(numbers(table, "direct")), sum(numbers(table, "consequences"))) == totals
        assert foot(table) == totals
    if denied:
        several = sum(len(key.policies) - 1 for key, follows in denied if not follows)
        assert sum(numbers(shown["policies"], "direct")) == totals[0] + several
        assert foot(shown["policies"]) == totals
    lockouts = sum(key.user != "ann" for key, follows in denied if not follows)
    assert sum(numbers(shown["lockouts"], "direct") if "lockouts" in shown else []) == lockouts
    short = run_document(result, rows=1, hits=1)
    for table in (block for section in short.sections for block in section.blocks if isinstance(block, Table)):
        if table.id in PARTITIONS and table.left_out:
            rest = int(table.rest.split()[0].replace(",", ""))
            assert numbers(table, "direct")[0] + rest == totals[0]


def foot(table: Table) -> tuple[int, int]:
    titles = [each.title for each in table.columns]
    told = (table.foot[titles.index(title)].replace(",", "") for title in ("direct", "consequences"))
    requests, follows = map(int, told)
    return requests, follows


@pytest.mark.property
@settings(max_examples=60, deadline=None)
@given(FINDINGS)
def test_who_is_hit_has_each_finding_once_for_each_policy(found: list[tuple[CellKey, bool]]) -> None:
    rows = hits(made(found).summary.cells)
    assert len({row.key for row in rows}) == len(rows)
    told, wanted = Counter[tuple[Any, ...]](), Counter[tuple[Any, ...]]()
    for row in rows:
        told.update(
            {(*row.key, "root"): row.requests, (*row.key, "follows"): row.follows, (*row.key, "alone"): row.sole}
        )
        assert bool(row.example and row.message == "no" and row.users and row.first <= row.last)
    for key, follows in found:
        for policy in key.policies:
            row_key = (key.outcome, policy, key.owner, key.namespace, key.workload)
            wanted[(*row_key, "follows" if follows else "root")] += 1
            wanted[(*row_key, "alone")] += not follows and len(key.policies) == 1
    assert +told == +wanted


def test_what_is_told_at_a_line_counts_roots_and_what_follows_them() -> None:
    key = CellKey(OutcomeKind.NEWLY_DENIED, ("p",), "ann", "a", "pods", "Pod", "Pod/x", follows=False)
    (told,) = run_annotations(made([(key, False), (key, True), (key, True)])).findings
    assert told.message == "1 request would newly be denied: a Pod/x; 2 more fail as a consequence"


def test_no_cell_of_the_csv_is_a_formula() -> None:
    key = CellKey(
        OutcomeKind.NEWLY_WARNED, ("=cmd()",), "@sum", "+1", "pods", "Pod", "-2+3", follows=False, owner="\t=1"
    )
    header, row = hits_csv(made([(key, False)])).splitlines()
    assert header.startswith("outcome,policy,origin,owner,namespace,workload,")
    cells = row.split(",")
    assert cells[1:6] == ["'=cmd()", "", " =1", "'+1", "'-2+3"]
    assert cells[7] == "'@sum"
