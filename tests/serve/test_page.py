"""The page: every view in every form, who may read it, and what a hostile request comes to."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest

from replay.pipeline.project.accepted import read_accepted
from replay.serve.guard import HEADERS, LONGEST_TARGET
from replay.serve.settings import Readers
from tests.serve.conftest import ROW, Site

WORKLOAD = urlencode({name: ROW[name] for name in ("namespace", "workload", "policy")})
HTML = {"Accept": "text/html"}
TOKEN = "a-token-of-twenty-one"


class View(NamedTuple):
    """A page, and what its three forms say."""

    name: str
    path: str
    says: str
    data: Any


VIEWS = [
    View(
        "overview",
        "/",
        "3 trials: 1 can be enforced, 1 would deny requests, 1 without a result yet.",
        lambda found: [each["name"] for each in found["trials"]] == ["next", "clean", "young"],
    ),
    View("a trial", "/trials/next", "Would deny 2 workloads of 1 team.", lambda found: found["directDenials"] == 4),
    View(
        "a clean trial",
        "/trials/clean",
        "Can be enforced: no request of the log would be denied.",
        lambda found: found["directDenials"] == 0,
    ),
    View(
        "workloads of a policy",
        "/trials/next/workloads?policy=nodes",
        "nodes would deny 1 workload.",
        lambda found: len(found["rows"]) == 1,
    ),
    View(
        "a workload",
        f"/trials/next/workload?{WORKLOAD}",
        "3 requests of",
        lambda found: found["message"] == ROW["message"],
    ),
    View(
        "a trial without a result",
        "/trials/young",
        "young waits for its first result.",
        lambda found: found["phase"] == "waiting",
    ),
    View(
        "workloads without a result",
        "/trials/young/workloads?policy=x",
        "x would deny 0 workloads.",
        lambda found: found == {"rows": []},
    ),
    View("log health", "/log", "Every request is decided.", lambda found: found["rejectedLines"] == {"not JSON": 2}),
    View(
        "weekly reports",
        "/weekly",
        "The first report appears when the log covers a week.",
        lambda found: found == {"reports": []},
    ),
]


@pytest.mark.parametrize("row", VIEWS, ids=lambda row: row.name)
def test_a_view_says_the_same_in_each_form(site: Site, row: View) -> None:
    mark = "&" if "?" in row.path else "?"
    page, text = site.get(row.path, **HTML), site.get(f"{row.path}{mark}format=md")
    plain = re.sub(r"<[^>]*>", "", page.text)
    assert (page.status, text.status) == (200, 200)
    assert row.says in plain
    assert row.says.replace(":", "\\:").replace("-", "\\-") in text.text or row.says in text.text.replace("\\", "")
    assert row.data(site.get(f"{row.path}{mark}format=json").json)


def test_names_of_the_log_are_no_markup(site: Site) -> None:
    pages = [site.get(path, **HTML).text for path in ("/", "/trials/next", f"/trials/next/workload?{WORKLOAD}")]
    assert [page for page in pages if "<b>" in page] == []
    assert "\\<b\\>web" in site.get("/trials/next.md").text


def test_every_answer_has_the_headers_of_safety(site: Site) -> None:
    for path in ("/", "/trials/next", "/nothing", "/metrics", "/api/v1/trials", "/healthz"):
        headers = {name.lower(): value for name, value in site.get(path, **HTML).headers.items()}
        assert {name: headers.get(name) for name in HEADERS} == HEADERS, path
    page = site.get("/", **HTML).text
    assert re.findall(r"<(?:script|style)>|\son\w+=|style=", page) == []


class Refusal(NamedTuple):
    """A request that is refused."""

    name: str
    method: str
    path: str
    headers: dict[str, str]
    status: int
    says: str


REFUSALS = [
    Refusal("an unknown trial", "GET", "/trials/none", {}, 404, "there is no such trial\n"),
    Refusal("an unknown page", "GET", "/none", {}, 404, "Not Found\n"),
    Refusal("a way out of the reports", "GET", "/weekly/..%2f..%2fetc/passwd", {}, 404, "Not Found\n"),
    Refusal("another file beside the styles", "GET", "/static/..%2fapp.py", {}, 404, "Not Found\n"),
    Refusal("a workload that is not denied", "GET", "/trials/next/workload?policy=x", {}, 404, "this workload is not denied by this policy now\n"),
    Refusal("a request without an id", "GET", "/trials/next/request", {}, 400, "name a request: ?id=AUDIT-ID\n"),
    Refusal("an item that is no number", "GET", "/trials/next/request?id=a&item=x", {}, 400, "name a request: ?id=AUDIT-ID\n"),
    Refusal("a change by GET", "GET", "/trials/next/accept", {}, 405, "Method Not Allowed\n"),
    Refusal("a form of another type", "POST", "/trials/next/accept", {"Content-Type": "text/plain"}, 415, "a form is expected\n"),
    Refusal("a form of another site", "POST", "/trials/next/accept", {"Content-Type": "application/x-www-form-urlencoded"}, 403, "the form is too old: open the page again\n"),
    Refusal("another name of the server", "GET", "/", {"Host": "evil.example"}, 421, "this name of the server is not known: start it with --host NAME\n"),
    Refusal("a long address", "GET", "/search?user=" + "a" * LONGEST_TARGET, {}, 414, "the address is too long\n"),
]  # fmt: skip


@pytest.mark.parametrize("row", REFUSALS, ids=lambda row: row.name)
def test_what_is_refused(site: Site, row: Refusal) -> None:
    found = site.send(row.method, row.path, b"" if row.method == "POST" else None, row.headers)
    assert (found.status, found.text) == (row.status, row.says)


def test_a_token_is_asked_for(site_of: Callable[..., Any]) -> None:
    with site_of(readers=Readers(token=TOKEN)) as site:
        bare, wrong = site.get("/"), site.get("/", Authorization="Bearer wrong")
        right = site.get("/api/v1/trials", Authorization=f"Bearer {TOKEN}")
        page = site.get("/", **HTML)
        statuses = [found.status for found in (bare, wrong, right, page, site.get("/healthz"), site.get("/readyz"))]
        form = re.search(r'name="form" value="(\w+)"', site.get("/login", **HTML).text)
        assert statuses == [401, 401, 200, 303, 200, 200]
        assert form is not None
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        refused = site.send("POST", "/login", urlencode({"form": form[1], "token": "no"}).encode(), kind)
        logged = site.send("POST", "/login", urlencode({"form": form[1], "token": TOKEN}).encode(), kind)
        cookie = logged.headers["set-cookie"]
        assert (refused.status, logged.status) == (401, 303)
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        own = {"Cookie": cookie.partition(";")[0]}
        assert site.get("/", **own).status == 200
        fields = {name: ROW[name] for name in ("namespace", "workload", "policy")}
        body = urlencode({**fields, "form": form[1], "reason": "of another form"}).encode()
        assert site.send("POST", "/trials/next/accept", body, {**kind, **own}).status == 403


@pytest.mark.parametrize(("address", "status"), [("127.0.0.1", 200), ("10.0.0.7", 401)])
def test_a_header_counts_from_the_proxy_alone(site_of: Callable[..., Any], address: str, status: int) -> None:
    with site_of(readers=Readers(proxy=(address, "x-remote-user"))) as site:
        assert site.get("/", **{"X-Remote-User": "ann"}).status == status
        assert site.get("/").status == 401


def test_a_finding_is_accepted_in_the_file(site_of: Callable[..., Any], tmp_path: Path) -> None:
    accepted = tmp_path / "accepted.yaml"
    with site_of(accepted=accepted) as site:
        page = site.get(f"/trials/next/workload?{WORKLOAD}", **HTML).text
        form = re.search(r'name="form" value="(\w+)"', page)
        assert form is not None
        fields = {name: ROW[name] for name in ("namespace", "workload", "policy")}
        body = urlencode({**fields, "form": form[1], "reason": "agreed", "expires": "2030-01-01"}).encode()
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        first = site.send("POST", "/trials/next/accept", body, kind)
        other = site.send("POST", "/trials/next/accept", body.replace(b"shop", b"else"), kind)
        foreign = site.send("POST", "/trials/next/accept", body, {**kind, "Sec-Fetch-Site": "cross-site"})
    (entry,) = read_accepted(accepted)
    assert [first.status, other.status, foreign.status] == [303, 404, 403]
    assert (entry.policy, entry.namespace, entry.workload, entry.reason) == (
        ROW["policy"],
        ROW["namespace"],
        ROW["workload"],
        "agreed",
    )


def test_without_a_file_an_entry_is_proposed(site: Site) -> None:
    page = site.get(f"/trials/next/workload?{WORKLOAD}", **HTML).text
    assert "<form" not in page
    assert "reason: &#34;why it is intended&#34;" in page


def test_a_report_is_in_a_sandbox(site: Site) -> None:
    directory = site.settings.data / "trials" / "next"
    directory.mkdir(parents=True)
    (directory / "report.html").write_text("<p>report</p>")
    found = site.get("/trials/next/report.html")
    policy = {name.lower(): value for name, value in found.headers.items()}["content-security-policy"]
    assert (found.status, found.text) == (200, "<p>report</p>")
    assert policy.startswith("sandbox allow-scripts;")
    assert site.get("/trials/clean/report.html").text == "this trial has no result yet\n"


def test_metrics(site: Site) -> None:
    lines = site.get("/metrics").text.splitlines()
    series = [line for line in lines if not line.startswith("#")]
    assert (
        'replay_trial_direct_denials_total{trial="next",policy="team-label.static.k8s.io",namespace="shop",owner="blue"} 3'
        in series
    )
    assert 'replay_trial_match_ratio{trial="next"} 0.9' in series
    assert 'replay_store_unusable_lines{reason="not JSON"} 2' in series
    assert "replay_requests_refused_total 2" in series
    assert all(re.fullmatch(r'\w+(\{(\w+="[^"]*",?)+\})? -?[\d.e+]+', line) for line in series)


def test_the_api_is_described(site: Site) -> None:
    document = site.get("/openapi.json").json
    described = set(document["components"]["schemas"]["Trial"]["properties"])
    for path in document["paths"]:
        assert site.get(path.replace("{name}", "next")).status == 200
    assert set(site.get("/api/v1/trials").json["trials"][0]) <= described
