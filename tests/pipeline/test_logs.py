"""Single requests of real servers, from the log to the decision of both sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest

from replay.pipeline.options import Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario

DATA = Path(__file__).parent / "data"


class Case(NamedTuple):
    """The last request of a log; what each set makes of it: verdict, patch, and what is said of it."""

    name: str
    log: str
    current: str
    candidate: str
    outcome: str
    current_patch: list[Any]
    says: list[str]


CASES = [
    Case(
        "an apply that created its object, which a policy of the time changed",
        "apply",
        "managed",
        "none",
        "no_longer_mutated",
        [{"op": "add", "path": "/metadata/labels/managed-by", "value": "platform"}],
        [],
    ),
    Case(
        "a dry-run patch finds what is stored",
        "dry_run",
        "none",
        "namespaces",
        "newly_denied",
        [],
        ["env stays"],
    ),
    Case(
        "a policy of the time gave an Ingress its class, not the plugin",
        "ingress_without",
        "ingress",
        "none",
        "no_longer_mutated",
        [{"op": "add", "path": "/spec/ingressClassName", "value": "nginx"}],
        [],
    ),
    Case(
        "a class that plugin and policy may have given",
        "ingress",
        "ingress",
        "ingress_hosts",
        "undetermined",
        [],
        [
            (
                "`object` is not known: the object after a mutating policy depends on `object`, which is not known: the "
                "object after a mutating policy depends on `object.spec.ingressClassName`, which is not known: the default "
                "IngressClass is not known"
            )
        ],
    ),
    Case(
        "a role binding that was changing",
        "changing_rbac",
        "none",
        "protect",
        "undetermined",
        [],
        ["`RoleBinding.subjects[0].name` is not known: another request changed the object at the same time"],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_last_request_of_a_log(case: Case, tmp_path: Path) -> None:
    sets = DATA / "sets"
    outcomes = tmp_path / "outcomes.jsonl"
    cluster = DATA / f"{case.log}_cluster.jsonl"
    scenario = Scenario(
        (str(DATA / f"{case.log}.jsonl"),),
        current=sets / case.current,
        candidate=sets / case.candidate,
        cluster=cluster if cluster.exists() else None,
    )
    run(scenario, Options(workers=1, outcomes=outcomes), lambda _what, _done, _total: None)
    line = orjson.loads(outcomes.read_bytes().splitlines()[-1])
    candidate = line["candidate"]
    said = [each.get("message") or each["reason"] for each in (*candidate["denials"], *candidate["undetermined"])]
    assert (line["outcome"], line["current"]["patch"], said) == (case.outcome, case.current_patch, case.says)
