"""Explanations as golden texts, and held to the decisions that they explain."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from replay.admission.decision import Decision, Verdict
from replay.audit.store import Store
from replay.errors import ReplayError
from replay.pipeline.forensic.explain import _sets, explain
from replay.pipeline.forensic.past import past_job, requests_of
from replay.pipeline.manifests import manifests_of
from replay.pipeline.scenario import Scenario
from replay.reconstruct.request import Reached
from replay.report.explain_report import explain_document, explain_json
from replay.report.explain_screen import explain_screen
from replay.report.render.document import Document
from replay.report.render.terminal import LINES, WIDTH, print_document

ROOT = Path(__file__).parents[3]
SAMPLE = ROOT / "sample_audit" / "shop"
GOLDEN = ROOT / "tests" / "golden" / "explain"
REQUESTS = {
    "denied": "4643ba19-8f5c-4d9d-921a-eb6cb22bdb75",
    "mutated": "8251e637-6ad8-4035-83a2-0d708225f8ac",
    "undetermined": "6ac3759b-340e-4e01-8fc3-06581708e107",
    "never_reached": "c14d97b6-9a7b-46db-b411-b73310d7f139",
}


def silent(_what: str, _done: int, _total: int) -> None:
    pass


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    """The sample in a store, so that it is read once; its file is named as in the repository."""
    directory = tmp_path_factory.mktemp("store")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        with Store.open(directory) as store:
            store.ingest(["sample_audit/shop/audit.jsonl.zst"])
    return Scenario(
        store=directory,
        current=SAMPLE / "current",
        candidate=SAMPLE / "candidate",
        cluster=SAMPLE / "cluster.jsonl.zst",
    )


def is_as_named(name: str, decision: Decision) -> bool:
    if name == "mutated":
        return decision.verdict is Verdict.ADMITTED and bool(decision.patch)
    return decision.verdict.value == name.replace("never", "not")


@pytest.mark.parametrize("name", REQUESTS)
def test_golden(name: str, source: Scenario, request: pytest.FixtureRequest) -> None:
    found = explain(source, REQUESTS[name], silent)
    assert is_as_named(name, found.sets[-1].decision)
    screen = printed(explain_screen(found), WIDTH, source.name)
    assert len(screen.splitlines()) <= LINES
    for path, text in (
        (GOLDEN / f"{name}.txt", printed(explain_document(found), 120, source.name)),
        (GOLDEN / f"{name}_screen.txt", screen),
    ):
        if request.config.getoption("--update-golden"):
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")


def printed(document: Document, width: int, store: str) -> str:
    out = StringIO()
    print_document(document, Console(file=out, width=width, color_system=None))
    return "\n".join(line.rstrip() for line in out.getvalue().replace(store, "store").splitlines()) + "\n"


@pytest.mark.slow
def test_explanations_agree_with_decisions(source: Scenario) -> None:
    """Over requests that the log says something about: who denies, and who mutates what."""
    manifests = manifests_of(source)
    text = (
        "status_message like '%denied request%' or annotations::varchar like '%validation_failure%' or verb = 'patch'"
    )
    with Store.open(source.store) as store:
        ids = [row[0] for row in store.sql(f"select audit_id from request where {text} order by seq").rows()][::3]
        job = past_job(store, manifests)
        requests = list(requests_of(store, job, ids))
    count = 0
    for request in requests:
        for each in _sets(job, manifests, request):
            if each.decision.verdict in (Verdict.UNDETERMINED, Verdict.NOT_REACHED):
                continue
            denying = [p.policy for p in each.validating if any(b.outcome == "denies" for b in p.bindings)]
            assert denying == list(dict.fromkeys(d.policy for d in each.decision.denials)), request.record.audit_id
            ran = [(p.policy, b) for number, p in each.steps if number for b in p.bindings if b.patch]
            patches = [(policy, b.binding, b.patch) for policy, b in ran]
            assert patches == [(m.policy, m.binding, m.patch) for m in each.decision.mutated], request.record.audit_id
            count += 1
    assert count > 200


def test_a_read_asks_nobody(source: Scenario) -> None:
    with Store.open(source.store) as store:
        audit_id = store.sql("select audit_id from request where verb = 'get' order by seq limit 1").row(0)[0]
    found = explain(source, audit_id, silent)
    assert found.request.reached is Reached.FAILED_BEFORE
    assert (
        explain_document(found).verdict
        == "No validating policy evaluated the request: admission does not run for `get`."
    )


def test_near_auditid(source: Scenario) -> None:
    with pytest.raises(ReplayError, match="did you mean `4643ba19-8f5c-4d9d-921a-eb6cb22bdb75`"):
        explain(source, "4643ba19-8f5c-4d9d-921a-eb6cb22bdb76", silent)


def test_json_holds_every_step(source: Scenario) -> None:
    value = explain_json(explain(source, REQUESTS["denied"], silent))
    denying = [
        step
        for policy in value["sets"]["current"]["policies"]
        if policy["policy"] == "no-privileged.static.k8s.io"
        for step in policy["bindings"][0]["steps"]
    ]
    assert denying[0]["label"] == "validation 0"
    assert denying[0]["lines"][-1].strip() == "!c.securityContext.privileged → false"


@pytest.mark.slow
def test_secrets_do_not_appear(source: Scenario) -> None:
    """Requests for Secrets are explained without any value of theirs."""
    manifests = manifests_of(source)
    with Store.open(source.store) as store:
        rows = store.sql(
            "select audit_id from request where resource = 'secrets' and verb in ('create', 'update')"
        ).rows()
        ids = sorted(row[0] for row in rows)[:5]
        requests = list(requests_of(store, past_job(store, manifests), ids))
    assert requests
    for audit_id in ids:
        document = explain_document(explain(source, audit_id, silent))
        assert "→ {" not in str(document)


def test_without_manifests(source: Scenario) -> None:
    document = explain_document(explain(Scenario(store=source.store), REQUESTS["denied"], silent))
    assert "No manifests given" in [section.title for section in document.sections]


def test_each_pass_is_shown(source: Scenario) -> None:
    """A policy with `IfNeeded` that changed the object runs once more, and is shown twice."""
    found = explain(source, "1fdfea41-e472-46cb-8b1a-a53ae90469cd", silent)
    candidate = explain_document(found).sections[-1].id.removesuffix("-webhooks")
    titles = [each.title for each in explain_document(found).sections if each.id.startswith(f"{candidate}-")]
    assert [title for title in titles if "pass" in title] == [
        "pod-defaults.static.k8s.io, pass 1: changes the object",
        "sidecar.static.k8s.io, pass 1: changes the object",
        "sidecar.static.k8s.io, pass 2: skipped: matchCondition no-sidecar is false",
    ]
    policies = explain_json(found)["sets"][candidate]["policies"]
    again = [each["policy"] for each in policies if each["pass"] == 2]
    assert again == ["sidecar.static.k8s.io"]
