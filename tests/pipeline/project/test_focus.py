"""A run about some policies, namespaces, users or a period: what a whole run says of them, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from replay.audit.store import Store
from replay.compare.outcome import OutcomeKind
from replay.errors import ReplayError
from replay.pipeline.forensic.mutations import mutations
from replay.pipeline.manifests import manifests_of
from replay.pipeline.options import Focus, Options
from replay.pipeline.project.focus import named_policies, resolve_policy_names
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.pipeline.verify import verify
from replay.report.run.json import summary_json
from tests.support.short_sample import write_first_lines

JSON = dict[str, Any]
POLICY = "image-registries.static.k8s.io"
_OF_THE_WORLD = ("follows", "root", "repetitions")


def silent(_what: str, _done: int, _total: int) -> None:
    """No progress shown."""


@pytest.fixture(scope="module")
def scenario(short_sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    """A scenario of which the log is in a store."""
    found = Scenario((str(short_sample),)).resolved()
    directory = tmp_path_factory.mktemp("focus") / "store"
    with Store.open(directory) as store:
        store.ingest(found.logs)
    return replace(found, logs=(), store=directory)


def lines(scenario: Scenario, path: Path, focus: Focus) -> list[JSON]:
    run(scenario, Options(outcomes=path, workers=1, focus=focus), silent)
    return [isolated_end(orjson.loads(line)) for line in path.read_bytes().splitlines()]


def isolated_end(line: JSON) -> JSON:
    """A request taken alone: what follows from what is left out is not told apart."""
    kept = {key: value for key, value in line.items() if key not in _OF_THE_WORLD}
    if kept["candidate"]["verdict"] != "denied":
        kept["candidate"]["denials"] = []
    kept["candidate"].pop("result", None)
    return kept


@pytest.fixture(scope="module")
def whole(scenario: Scenario, tmp_path_factory: pytest.TempPathFactory) -> list[JSON]:
    return lines(scenario, tmp_path_factory.mktemp("whole") / "outcomes", Focus())


CHOSEN: list[tuple[str, Focus, Callable[[JSON], bool]]] = [
    ("namespaces", Focus(namespaces=("team-*", "kube-system")), lambda line: line["namespace"].startswith(("team-", "kube-s"))),
    ("a user", Focus(users=("*deployment-controller",)), lambda line: line["user"].endswith("deployment-controller")),
    ("both", Focus(namespaces=("team-a",), users=("system:*",)), lambda line: line["namespace"] == "team-a" and line["user"].startswith("system:")),
    ("a period", Focus(since="2026-11-21T03:03:00Z", until="2026-11-21T03:03:10Z"), lambda line: "2026-11-21T03:03:00" <= line["stageTimestamp"] <= "2026-11-21T03:03:10.000000Z"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("focus", "is_chosen"), [row[1:] for row in CHOSEN], ids=[row[0] for row in CHOSEN])
def test_the_lines_are_those_of_a_whole_run(
    focus: Focus, is_chosen: Callable[[JSON], bool], scenario: Scenario, whole: list[JSON], tmp_path: Path
) -> None:
    wanted = [line for line in whole if is_chosen(line)]
    assert 0 < len(wanted) < len(whole)
    assert lines(scenario, tmp_path / "outcomes", focus) == wanted


@pytest.mark.slow
def test_batches_of_a_store_add_up_in_whichever_order_they_came(scenario: Scenario, tmp_path: Path) -> None:
    """A batch has requests that are older than those of the batch before it."""
    write_first_lines(tmp_path / "whole", 600)
    early: list[bytes] = []
    late: list[bytes] = []
    for number, line in enumerate((tmp_path / "whole").read_bytes().splitlines(keepends=True)):
        (late if number % 7 == 3 or number > 400 else early).append(line)
    with Store.open(tmp_path / "store") as store:
        for name, part in (("early", early), ("late", late)):
            (tmp_path / name).write_bytes(b"".join(part))
            store.ingest([str(tmp_path / name)])
    both = replace(scenario, store=tmp_path / "store")
    batches = [lines(both, tmp_path / "outcomes", Focus(batches=each)) for each in ((0, 1), (1, 2))]
    assert all(batches)
    everything = lines(both, tmp_path / "outcomes", Focus())

    def in_order(found: list[JSON]) -> list[bytes]:
        return sorted(map(orjson.dumps, found))

    assert in_order(batches[0] + batches[1]) == in_order(everything)


@pytest.mark.slow
def test_a_new_policy_alone_denies_what_it_denies_among_others(
    scenario: Scenario, whole: list[JSON], tmp_path: Path
) -> None:
    by_policy: dict[str, set[tuple[str, int]]] = {}
    for line in whole:
        old = {denial["policy"] for denial in line["current"]["denials"]}
        for denial in line["candidate"]["denials"]:
            if denial["policy"] not in old:
                by_policy.setdefault(denial["policy"], set()).add((line["auditID"], line.get("item", 0)))
    assert len(by_policy) > 3
    for policy, denied in sorted(by_policy.items())[::3]:  # each takes a run
        found = lines(scenario, tmp_path / "outcomes", Focus(policies=(policy,)))
        assert len(found) < len(whole)
        newly = {(each["auditID"], each.get("item", 0)) for each in found if each["outcome"] == "newly_denied"}
        assert newly == denied
        assert {d["policy"] for each in found for d in each["candidate"]["denials"]} == {policy}


def test_the_summary_adds_up_and_is_the_same_from_kept_results(scenario: Scenario) -> None:
    focus = Focus(policies=(POLICY,), namespaces=("team-a",))
    first, second = (run(scenario, Options(workers=1, focus=focus), silent) for _ in range(2))
    assert summary_json(first) == summary_json(second)
    summary = first.summary
    assert summary.outcomes.total() == summary.requests > summary.outcomes[OutcomeKind.NEWLY_DENIED] > 0
    counted = Counter[OutcomeKind]()
    for key, cell in summary.cells.items():
        counted[key.outcome] += cell.count
        assert key.namespace == "team-a"
        assert key.policies == (POLICY,)
    assert counted == {kind: n for kind, n in summary.outcomes.items() if n and kind is not OutcomeKind.UNCHANGED}
    assert first.notes[0] == (
        f"only policy {POLICY}; namespace team-a: numbers can differ from a run of all requests, because consequences of skipped ones count as direct"
    )


def test_other_findings_of_mutating_policies_are_left_out(scenario: Scenario, whole: list[JSON]) -> None:
    assert any(line["outcome"] == "newly_mutated" for line in whole)
    found = run(scenario, Options(workers=1, focus=Focus(policies=(POLICY,))), silent)
    kinds = {kind for kind, count in found.summary.outcomes.items() if count}
    assert kinds == {OutcomeKind.NEWLY_DENIED, OutcomeKind.UNCHANGED}


NAMES = [
    ("whole", "team-label.static.k8s.io", {"team-label.static.k8s.io"}),
    ("with wildcards", "*-team-label.*", {"cand-team-label.static.k8s.io"}),
    ("a part of one", "CAND-TEAM", {"cand-team-label.static.k8s.io"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "wanted"), [row[1:] for row in NAMES], ids=[row[0] for row in NAMES])
def test_what_a_name_means(name: str, wanted: set[str], scenario: Scenario) -> None:
    assert named_policies(manifests_of(scenario), [name]) == wanted


REFUSED = [
    ("a part of several", Focus(policies=("m-lab",)), "--policy: `m-lab` is part of 2 names; did you mean `cand-team-label"),
    ("no policy", Focus(policies=("cand-teem-label.static.k8s.io",)), "--policy: the sets have no policy `cand-teem-label.static.k8s.io`; did you mean"),
    ("no namespace", Focus(namespaces=("team-aa",)), "the log has no namespace `team-aa`; did you mean `team-"),
    ("no user", Focus(users=("nobody",)), "the log has no user `nobody`"),
    ("no event", Focus(since="2020-01-01", until="2020-01-02"), "no event in the period asked for: the log is from "),
    ("no time", Focus(since="yesterday"), "no time `yesterday`: write 7d, 12h, 30m, or a time such as"),
]  # fmt: skip


@pytest.mark.parametrize(("focus", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_is_refused(focus: Focus, message: str, scenario: Scenario) -> None:
    with pytest.raises(ReplayError) as error:
        run(scenario, Options(workers=1, focus=focus), silent)
    assert str(error.value).startswith(message)


@pytest.mark.slow
def test_the_set_in_force_is_held_against_a_part_of_the_log(scenario: Scenario) -> None:
    whole = verify(scenario, Options(workers=1), silent)
    parts = [
        verify(scenario, Options(workers=1, focus=Focus(namespaces=(name,))), silent) for name in ("team-a", "prod-*")
    ]
    assert 0 < parts[0].total < whole.total
    assert parts[0].total + parts[1].total < whole.total
    assert parts[0].notes[0].startswith("only namespace team-a: ")


@pytest.mark.slow
def test_changes_of_a_part_of_the_log_are_attributed(scenario: Scenario) -> None:
    whole = mutations(scenario, Options(workers=1), silent).attributions
    part = mutations(scenario, Options(workers=1, focus=Focus(namespaces=("team-a",))), silent).attributions
    assert 0 < part.compared < whole.compared


TEAM, OTHER, PDB, HOOK = "team-label.static.k8s.io", "cand-team-label.static.k8s.io", "pdb-sane", "pdb-sane.example.com"
KNOWN = (TEAM, OTHER, PDB, HOOK)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param(PDB, {PDB}, id="whole, though another begins so"),
        pytest.param("team-label", {TEAM}, id="without the ending of static names"),
        pytest.param("team-label…", {TEAM}, id="as a narrow terminal shows it"),
        pytest.param("TEAM-L", {TEAM}, id="the begin"),
        pytest.param("cand", {OTHER}, id="the begin of another"),
        pytest.param("example", {HOOK}, id="any part"),
        pytest.param("*team*", {TEAM, OTHER}, id="wildcards"),
    ],
)
def test_a_part_that_one_name_has_is_enough(name: str, expected: set[str]) -> None:
    assert resolve_policy_names(name, KNOWN) == expected


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "label",
            "`label` is part of 2 names; did you mean `cand-team-label.static.k8s.io` or `team-label.static.k8s.io`?",
        ),
        ("pdb-sano", "the sets have no policy `pdb-sano`; did you mean `pdb-sane`"),
        ("", "the sets have no policy ``"),
        ("x*", "the sets have no policy `x*`"),
    ],
)
def test_a_part_of_several_or_of_none_is_an_error(name: str, message: str) -> None:
    with pytest.raises(ReplayError) as error:
        resolve_policy_names(name, KNOWN)
    assert str(error.value).startswith(f"--policy: {message}")
