"""Small inputs that were answered wrongly once: logs with what a live server said, and statements of the design documents."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from replay.cli.app import app
from replay.pipeline.options import Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario

pytestmark = [pytest.mark.shared, pytest.mark.slow]
SHARED = Path(__file__).parents[3] / "shared"
CASES = SHARED / "acceptance"
SAMPLE = Path(__file__).parents[2] / "sample_audit" / "shop"
SERVERS = SHARED / "recordings" / "live-plugins"
PLAN = SERVERS / "plan.jsonl.zst"

Ends = dict[int, tuple[str, int]]
"""By the number of a request in the plan how it ends, and with which code."""
ROWS: dict[str, Ends] = {
    "live-01-crash-quota-status": {1490: ("succeeds", 200)},
    "live-02-plugin-refusal-stays-forbidden": {392: ("succeeds", 201), 460: ("succeeds", 201), 1939: ("succeeds", 200)},
    "live-02b-podsecurity-refusal-stays-forbidden": {
        41: ("succeeds", 201),
        70: ("succeeds", 200),
        424: ("absent", 404),
    },
    "live-03-label-overlay-dropped-namespace-gone": {81: ("succeeds", 201)},
    "live-04-rbac-newly-allowed-stays-forbidden": {
        201: ("succeeds", 201),
        308: ("succeeds", 200),
        340: ("succeeds", 201),
        1012: ("succeeds", 200),
    },
    "live-05a-quota-eviction-gives-back": {992: ("succeeds", 201)},
    "live-05b-quota-recount-after-409": {
        1670: ("exists", 409),
        1835: ("denied", 403),
        2102: ("succeeds", 201),
        # 201 with the sets of the case. The sets of both servers name objects whose writes the cut lacks.
        2437: ("unknown", 0),
    },
    "live-06-limitrange-default-makes-invalid": {309: ("invalid", 422)},
    "live-06b-limitrange-default-makes-invalid-no-max": {309: ("invalid", 422)},
    # The other server answers 403. Without its ServiceAccount the cut leaves open whether PodSecurity refuses first.
    "live-07-result-code-of-other-denial": {529: ("denied", 0)},
    "live-08-newly-forbidden-by-rbac-missed": {
        1919: ("forbidden", 403),
        3632: ("forbidden", 403),
        3830: ("forbidden", 403),
    },
    "live-10-unknown-externalips-patch": {134: ("denied", 403)},
    "live-11-dryrun-delete-with-body-breaks-trust": {
        # 200 in the whole log. The cut lacks the creation of the object.
        1334: ("unknown", 0),
        4921: ("succeeds", 200),
        5790: ("succeeds", 200),
    },
    "live-13-unknown-image-patch-content-type": {1731: ("succeeds", 200)},
    "live-13b-unknown-resize-under-limitrange": {324: ("invalid", 422)},
    "live-13c-unknown-ephemeralcontainers": {511: ("succeeds", 200)},
    "live-14-unknown-no-ingressclass-in-cluster": {49: ("succeeds", 201), 95: ("succeeds", 201)},
    "live-15-put-scale-takes-ownership-of-replicas-away": {857: ("succeeds", 200)},
    "live-16-quota-current-contradicts-log": {992: ("succeeds", 201), 1058: ("succeeds", 201), 1293: ("denied", 403)},
    "live-17-unknown-podsecurity-of-a-job-that-exists": {1313: ("exists", 409)},
    "live-18-alwayspull-and-ephemeral-container-invalid": {2154: ("succeeds", 200)},
    "live-19-unknown-param-of-a-namespace-born-in-the-log": {22: ("succeeds", 201)},
}

WITH_FULL_SETS = frozenset({"live-05b-quota-recount-after-409"})
"""Cases whose right answer depends on policies that their own sets lack: they run with the sets of both servers."""


def plan() -> dict[str, int]:
    """The numbers of the planned requests by their audit IDs."""
    import polars as pl  # noqa: PLC0415 - only this reads compressed lines

    lines = pl.read_lines(PLAN)["line"]
    return {json.loads(line)["id"]: number for number, line in enumerate(lines)}


def outcomes(case: Path, out: Path) -> list[dict[str, Any]]:
    cluster = case / "cluster.jsonl"
    current, candidate = case / "current", case / "candidate"
    if case.name in WITH_FULL_SETS:
        current, candidate, cluster = SERVERS / "C0/set", SERVERS / "C1/set", SERVERS / "C0/cluster.jsonl.zst"
    scenario = Scenario(
        (str(case / "audit.jsonl"),),
        current=current,
        candidate=candidate,
        cluster=cluster if cluster.exists() else None,
    )
    run(scenario, Options(workers=1, outcomes=out), lambda *_: None)
    return [json.loads(line) for line in out.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("name", ROWS)
def test_how_requests_end(name: str, tmp_path: Path) -> None:
    if not CASES.is_dir():
        pytest.skip("the acceptance cases are not beside the checkout")
    numbers, ends = plan(), ROWS[name]
    found: Ends = {}
    for line in outcomes(CASES / name, tmp_path / "out.jsonl"):
        number = numbers.get(line["auditID"])
        if number in ends:
            result = line["candidate"]["result"]
            found[number] = (result["cause"], result["code"])
    assert found == ends


class Statement(NamedTuple):
    """A command with its exit code, and what its output says and does not say."""

    arguments: tuple[str, ...]
    code: int
    says: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()


GAP = "seed-bootstrap-gap"
STATEMENTS: dict[str, Statement] = {
    "a whole object through a conditional": Statement(("test", "seed-ternary-object/cases.yaml"), 0, ("1 passed",)),
    "what a static set denies before the API policy exists": Statement(
        (
            *("run", f"{GAP}/audit.jsonl", "--current", f"{GAP}/current", "--candidate", f"{GAP}/candidate"),
            *("--cluster", f"{GAP}/cluster.jsonl"),
        ),
        1,
        (
            "2 of 6 requests would be denied directly",
            "Match with the log  100 %",
            "no-bad from 2026-11-21 03:10:04 UTC",
            "Bootstrap gap       2 requests",
        ),
    ),
    "an upgrade in one run": Statement(
        (
            *("run", str(SAMPLE), "--current", "seed-upgrade", "--brief"),
            *("--current-version", "1.36", "--candidate-version", "1.37"),
        ),
        1,
        ("163 of 3,660 requests would be denied directly",),
    ),
    "the same figure of the log with that policy": Statement(
        ("verify", f"{GAP}/audit.jsonl", "--current", f"{GAP}/current", "--cluster", f"{GAP}/cluster.jsonl"),
        0,
        ("reproduces all 1 decision", "the log creates or deletes"),
        ("reload",),
    ),
    **{
        f"authorization flags, {name}": Statement(
            ("can-i", "get", "pods", "--as", "jane", "--current", f"seed-authorization-flags/{name}"), code, (says,)
        )
        for name, code, says in (
            ("f1", 1, "--authorization-config can not be specified when --authorization-mode or"),
            ("f2", 1, "--authorization-config can not be specified when --authorization-mode or"),
            ("f3", 1, "guard (Webhook): would be called"),
            ("f4", 0, "alwaysallow (AlwaysAllow): allows"),
            ("f6", 1, 'authorization-mode "Nonsense" is not a valid mode'),
        )
    },
    **{
        f"a check of authorization flags, {name}": Statement(("check", f"seed-authorization-flags/{name}"), code)
        for name, code in (("f1", 2), ("f2", 2), ("f3", 0), ("f4", 0), ("f6", 2))
    },
    "a server that could not reload": Statement(
        (
            *("check", "seed-feature-gate/set", "--drift-metrics", "seed-feature-gate/metrics-reload-failed.txt"),
            *("--kubernetes-version", "1.36"),
        ),
        1,
        ("2 reloads have failed, and none succeeded after the last: the server runs an older set",),
    ),
    "what the type checker of the server would say": Statement(
        ("check", "seed-type-check"),
        0,
        (
            "found no matching overload for '_>_' applied to '(int, string)'",
            "found no matching overload for '_+_' applied to '(string, int)'",
            "undefined field 'missing'",
            "undefined field 'imagee'",
        ),
    ),
    "an optional field that `all` reads": Statement(
        ("check", "seed-lint/unguarded-in-all"), 0, ("[unguarded-optional-field]", "0 errors, 1 warning")
    ),
    "a field with a default": Statement(("check", "seed-lint/rep.yaml"), 0, ("0 errors, 0 warnings",)),
    "a webhook that may lock itself out": Statement(
        ("check", "seed-lint/own-namespace"), 0, ("[webhook-blocks-itself]", "0 errors, 1 warning")
    ),
    "match conditions that are never true together": Statement(
        ("check", "--authorization", "seed-lint/conditions-never-together/authorization.yaml"),
        0,
        ("this match condition is false for every request for which the others are true",),
    ),
    "a match condition that fails for paths": Statement(
        ("check", "--authorization", "seed-lint/unguarded-resource-attributes/authorization.yaml"),
        0,
        ("a request for a path such as `/healthz` has no `request.resourceAttributes`",),
    ),
    "a test in the hidden folder of its tool": Statement(("test", "seed-test-folders/lib"), 0, ("2 passed",)),
    "static manifests with the gate of 1.36": Statement(
        ("check", "seed-feature-gate/set", "--kubernetes-version", "1.36"), 0, (), ("not enabled",)
    ),
    "a reserved name before 1.36": Statement(
        ("check", "seed-feature-gate/api-suffix", "--kubernetes-version", "1.35"), 0, (), ("reserved",)
    ),
    "a reserved name that 1.36 warns of": Statement(
        ("check", "seed-feature-gate/api-suffix", "--kubernetes-version", "1.36"),
        0,
        ("warning", "are reserved for static"),
    ),
    "a reserved name that 1.37 refuses": Statement(
        ("check", "seed-feature-gate/api-suffix", "--kubernetes-version", "1.37"),
        2,
        ("error", "are reserved for static"),
    ),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_statements(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not CASES.is_dir():
        pytest.skip("the acceptance cases are not beside the checkout")
    monkeypatch.chdir(CASES)
    statement = STATEMENTS[name]
    result = CliRunner().invoke(app, list(statement.arguments))
    output = _unwrapped(f"{result.stdout}{result.stderr}{result.exception or ''}")
    assert (result.exit_code, [text for text in statement.says if _unwrapped(text) not in output]) == (
        statement.code,
        [],
    )
    assert [text for text in statement.silent if _unwrapped(text) in output] == []


def _unwrapped(text: str) -> str:
    return " ".join(text.split())


def test_a_final_deletion_gives_back_what_the_stored_pod_used(tmp_path: Path) -> None:
    """The pod between two creations never had a node, and is gone at once."""
    case, out = CASES / "quota-final-deletion", tmp_path / "out.jsonl"
    if not case.is_dir():
        pytest.skip("the acceptance cases are not beside the checkout")
    cluster = SHARED / "recordings" / "shop" / "cluster.jsonl.zst"
    words = ["plugin", "ResourceQuota", case / "audit.jsonl", "--config", case / "config-counts-on-delete.yaml"]
    result = CliRunner().invoke(app, [str(word) for word in (*words, "--cluster", cluster, "--out", out)])
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [line["validate"]["effects"][0]["object"]["used"]["pods"] for line in lines] == ["1", "0"]
