"""Page and API as an ASGI application: routes and formats of answers."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from replay.compare.accepted import Acceptance
from replay.distribution import VERSION
from replay.errors import ReplayError
from replay.pipeline.project.accepted import accepted_text, add_accepted, expiry
from replay.report.render.document import inert
from replay.report.render.html import environment
from replay.report.render.markdown import markdown
from replay.serve.guard import ACCEPT, COOKIE, HEADERS, LARGEST_FORM, LOGIN, Guard
from replay.serve.metrics import metrics
from replay.serve.processes import Ingest, weekly_reports
from replay.serve.questions import SEARCHED, QuestionAnswer, QuestionError, Questions
from replay.serve.settings import ServeSettings
from replay.serve.stores import LogState, Stores
from replay.serve.trials import CSV, MARKDOWN, PAGE, TrialBoard, TrialState
from replay.serve.view import View, ViewCell, ViewLine, as_csv, as_markdown, document_csv
from replay.serve.views import (
    log_page,
    logs_data,
    overview,
    trial_data,
    trial_page,
    trial_path,
    weekly_page,
    workload_page,
    workload_query,
    workloads_page,
)

if TYPE_CHECKING:
    from jinja2 import Template


# The OpenAPI document of the JSON API.

_TRIAL: dict[str, Any] = {
    "type": "object",
    "required": ["name", "candidate", "phase", "verdict", "error", "decidedAt", "seconds"],
    "properties": {
        "name": {"type": "string"},
        "candidate": {"type": "string", "description": "Path of the candidate's manifests."},
        "phase": {"type": "string", "enum": ["waiting", "deciding", "ready", "failed"]},
        "error": {"type": "string"},
        "verdict": {"type": "string"},
        "decidedAt": {"type": ["string", "null"], "format": "date-time"},
        "cluster": {"type": "string", "description": "In a store with several clusters."},
        "seconds": {"type": "number", "description": "Processor time of the last decision over the whole store."},
        "progress": {
            "type": "object",
            "description": "How far the decision over the whole store is.",
            "properties": {"what": {"type": "string"}, "done": {"type": "integer"}, "of": {"type": "integer"}},
        },
        "decidedOnArrival": {
            "type": "integer",
            "description": "Requests that came later. The counts include them, `result` does not.",
        },
        "newInLastDay": {"type": "integer", "description": "Findings that were found first in the last 24 hours."},
        "directDenials": {"type": "integer"},
        "workloads": {"type": "integer"},
        "matchWithLog": {"type": "object"},
        "determined": {"type": "object"},
    },
}
_NAME = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}


def _get(summary: str, schema: dict[str, Any], parameters: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    answers = {"200": {"description": summary, "content": {"application/json": {"schema": schema}}}}
    if parameters:
        answers["404"] = {"description": "There is no such trial."}
    return {"get": {"summary": summary, "parameters": list(parameters), "responses": answers}}


_OPENAPI: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "replay serve", "version": VERSION},
    "components": {"schemas": {"Trial": _TRIAL}, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    "security": [{"token": []}, {}],
    "paths": {
        "/api/v1/trials": _get(
            "All trials",
            {
                "type": "object",
                "properties": {"trials": {"type": "array", "items": {"$ref": "#/components/schemas/Trial"}}},
            },
        ),
        "/api/v1/trials/{name}": _get(
            "One trial. `result` is the document of `replay run --json`.",
            {"allOf": [{"$ref": "#/components/schemas/Trial"}, {"type": "object", "properties": {"result": {}}}]},
            (_NAME,),
        ),
        "/api/v1/log": _get("State of the store", {"type": "object"}),
    },
}


_TEMPLATES = Path(__file__).parent / "templates"
_DOCUMENTS = Path(__file__).parents[1] / "report" / "render" / "templates"
_STATIC = {
    "serve.css": (_TEMPLATES / "serve.css", "text/css"),
    "serve.js": (_TEMPLATES / "serve.js", "text/javascript"),
    "document.css": (_DOCUMENTS / "document.css", "text/css"),
    "document.js": (_DOCUMENTS / "document.js", "text/javascript"),
}
LARGEST_POLICY = 1 << 20
"""Maximum number of characters that are read from a manifest file for a page."""
AROUND = 8
"""Number of lines that a page shows before and after the line that denies."""
_REPORTS = {PAGE: "text/html", MARKDOWN: "text/markdown", CSV: "text/csv"}
_FROM_FILE = {
    **HEADERS,
    "content-security-policy": "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; img-src data:",
}
"""Headers of a report, which is one file with its own style and script.

The sandbox gives it no origin, so it reads no cookie and sends no request.
"""


_FORM = re.compile(r"\.(json|md|csv)$")


class Page:
    """Application over the states of trials and stores."""

    def __init__(
        self,
        settings: ServeSettings,
        board: TrialBoard,
        questions: Questions,
        stores: Stores,
        ingest: Ingest,
    ) -> None:
        """Define the routes."""
        self._settings = settings
        self.board = board
        self._questions = questions
        self._stores = stores
        self._ingest = ingest
        self._guard = Guard(settings.readers)
        routes = [
            Route("/", self._overview),
            Route("/index.{form:str}", self._overview),
            Route("/trials/{name:str}/coverage", self._coverage),
            Route("/trials/{name:str}/report.html", self._report(PAGE)),
            Route("/trials/{name:str}/report.md", self._report(MARKDOWN)),
            Route("/trials/{name:str}/findings.csv", self._report(CSV)),
            Route("/trials/{name:str}/workloads", self._workloads),
            Route("/trials/{name:str}/workload", self._workload),
            Route("/trials/{name:str}/request", self._request),
            Route("/trials/{name:str}/accept", self._accept, methods=["POST"]),
            Route("/trials/{name:str}", self._trial),
            Route("/search", self._search),
            Route("/weekly", self._weekly),
            Route("/weekly/{day:str}/{file:str}", self._weekly_file),
            Route("/log", self._log),
            Route("/api/v1/trials", self._api_trials),
            Route("/api/v1/trials/{name:str}", self._api_trial),
            Route("/api/v1/log", self._api_log),
            Route("/openapi.json", self._openapi),
            Route("/metrics", self._metrics),
            Route("/healthz", self._healthz),
            Route("/readyz", self._readyz),
            Route("/login", self._login, methods=["GET", "POST"]),
            Route("/static/{file:str}", self._static),
        ]
        self.asgi = Starlette(routes=routes, exception_handlers={HTTPException: _failed, Exception: _failed})
        self.asgi.add_middleware(_Middleware, guard=self._guard)

    async def _overview(self, request: Request) -> Response:
        return self._respond(request, overview(self.board.states(), await self._logs()))

    async def _trial(self, request: Request) -> Response:
        state = self._state(request)
        return self._respond(request, trial_page(state, (await self._logs())[state.trial.cluster]))

    async def _workloads(self, request: Request) -> Response:
        return self._respond(request, workloads_page(self._state(request), request.query_params.get("policy", "")))

    async def _workload(self, request: Request) -> Response:
        state = self._state(request)
        wanted = {name: request.query_params.get(name, "") for name in ("namespace", "workload", "policy")}
        rows = [row for row in state.rows if workload_query(row) == wanted]
        if not rows:
            raise HTTPException(404, "this workload is not denied by this policy now")
        listing = await run_in_threadpool(policy_lines, rows[0]["origin"], rows[0]["message"], self._manifests(state))
        return self._respond(request, workload_page(state, rows[0], self._proposal(wanted), listing))

    async def _request(self, request: Request) -> Response:
        state = self._state(request)
        audit_id = request.query_params.get("id", "")
        item = request.query_params.get("item", "0")
        if not audit_id or not item.isdecimal():
            raise HTTPException(400, "name a request: ?id=AUDIT-ID")
        answer = await _answer_or_error(self._questions.explain(state.trial, audit_id, int(item[:9])))
        return self._document(request, answer, (ViewCell("Trials", "/"), _link(state)))

    async def _coverage(self, request: Request) -> Response:
        state = self._state(request)
        answer = await _answer_or_error(self._questions.coverage(state.trial))
        return self._document(request, answer, (ViewCell("Trials", "/"), _link(state), ViewCell("Log health", "/log")))

    async def _search(self, request: Request) -> Response:
        fields = {name: request.query_params.get(name, "").strip() for name in SEARCHED}
        stores = self._settings.stores
        cluster = request.query_params.get("cluster", next(iter(stores), ""))
        if not any(fields.values()):
            return self._html("search.html", fields=fields, clusters=[name for name in stores if name])
        if cluster not in stores:
            raise HTTPException(404, "there is no such cluster")
        answer = await _answer_or_error(self._questions.search(cluster, fields))
        return self._document(request, answer, (ViewCell("Trials", "/"), ViewCell("Search", "/search")))

    async def _weekly(self, request: Request) -> Response:
        return self._respond(request, weekly_page(await run_in_threadpool(weekly_reports, self._settings.data)))

    async def _weekly_file(self, request: Request) -> Response:
        day, name = request.path_params["day"], request.path_params["file"]
        kinds = {"report.html": "text/html", "report.md": "text/markdown", "report.json": "application/json"}
        reports = await run_in_threadpool(weekly_reports, self._settings.data)
        if name not in kinds or day not in {report.name for report in reports}:
            raise HTTPException(404, "there is no such report")
        return _file(self._settings.data / "weekly" / day / name, kinds[name])

    async def _log(self, request: Request) -> Response:
        return self._respond(request, log_page(self.board.states(), await self._logs()))

    async def _api_trials(self, _request: Request) -> Response:
        return _json({"trials": [trial_data(state) for state in self.board.states()]})

    async def _api_trial(self, request: Request) -> Response:
        state = self._state(request)
        return _json({**trial_data(state), "result": state.summary})

    async def _api_log(self, _request: Request) -> Response:
        return _json(logs_data(await self._logs()))

    async def _openapi(self, _request: Request) -> Response:
        return _json(_OPENAPI)

    async def _metrics(self, _request: Request) -> Response:
        text = metrics(self.board.states(), await self._logs(), self._ingest.intake)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    async def _healthz(self, _request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _readyz(self, _request: Request) -> Response:
        return (
            PlainTextResponse("ok\n")
            if self._ingest.is_running
            else PlainTextResponse("events are not received\n", 503)
        )

    async def _login(self, request: Request) -> Response:
        if request.method == "GET":
            return self._html("login.html", is_wrong=False, form_token=self._guard.form_token(LOGIN))
        form = await self._form(request, LOGIN)
        if not self._guard.is_token(form.get("token", "")):
            return self._html("login.html", is_wrong=True, form_token=self._guard.form_token(LOGIN), status=401)
        # 303 makes the browser ask with GET, so that a reload does not send the form again.
        answer = RedirectResponse("/", 303)
        is_safe = self._settings.readers.tls.certificate is not None
        answer.set_cookie(COOKIE, self._guard.session(), httponly=True, samesite="strict", secure=is_safe)
        return answer

    async def _accept(self, request: Request) -> Response:
        state = self._state(request)
        form = await self._form(request, ACCEPT)
        wanted = {name: form.get(name, "") for name in ("namespace", "workload", "policy")}
        if not any(workload_query(row) == wanted for row in state.rows):
            raise HTTPException(404, "this workload is not denied by this policy now")
        reason = form.get("reason", "").strip()
        if not reason:
            raise HTTPException(400, "give a reason: the next reader needs it")
        try:
            entry = Acceptance(
                wanted["policy"],
                wanted["namespace"],
                wanted["workload"],
                reason,
                expiry(form.get("expires", "").strip() or "90d", datetime.now(UTC).date()),
            )
            if self._settings.accepted is None:
                raise HTTPException(409, "no file of accepted findings: start with --accepted FILE")
            await run_in_threadpool(add_accepted, self._settings.accepted, [entry])
        except ReplayError as error:
            raise HTTPException(409, str(error)) from error
        return RedirectResponse(f"/trials/{state.trial.name}", 303)

    async def _static(self, request: Request) -> Response:
        found = _STATIC.get(request.path_params["file"])
        if found is None:
            raise HTTPException(404, "there is no such file")
        path, kind = found
        return Response(path.read_bytes(), media_type=kind, headers={"cache-control": "max-age=3600"})

    def _report(self, name: str) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            state = self._state(request)
            path = self.board.file(state.trial.name, name)
            if not path.is_file():
                raise HTTPException(404, "this trial has no result yet")
            return _file(path, _REPORTS[name])

        return answer

    async def _logs(self) -> dict[str, LogState]:
        return await run_in_threadpool(self._stores.now)

    def _manifests(self, state: TrialState) -> tuple[Path, ...]:
        """Return the files and directories whose lines a page may show."""
        return tuple(path for path in (state.trial.candidate, self._settings.current) if path is not None)

    def _can_accept(self) -> bool:
        """Return whether the file of accepted findings can be written. If not, pages propose the change as text."""
        path = self._settings.accepted
        return path is not None and os.access(path if path.exists() else path.parent, os.W_OK)

    def _state(self, request: Request) -> TrialState:
        name = request.path_params["name"]
        state = self.board.get(name) or self.board.get(_FORM.sub("", name))
        if state is None:
            raise HTTPException(404, "there is no such trial")
        return state

    def _proposal(self, wanted: dict[str, str]) -> str:
        return accepted_text(
            [Acceptance(wanted["policy"], wanted["namespace"], wanted["workload"], "why it is intended")]
        )

    async def _form(self, request: Request, purpose: str) -> dict[str, str]:
        """Return the fields of a form of ours for a purpose. Raises HTTPException for anything else."""
        from urllib.parse import parse_qsl  # noqa: PLC0415 - only a form needs it

        if request.headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
            raise HTTPException(415, "a form is expected")
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > LARGEST_FORM:
                raise HTTPException(413, f"a form has at most {LARGEST_FORM >> 10} KiB")
        try:
            fields = dict(parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=20))
        except (UnicodeDecodeError, ValueError) as error:
            raise HTTPException(400, "the form cannot be read") from error
        if not self._guard.is_own_form(request, purpose, fields.get("form", "")):
            raise HTTPException(403, "the form is too old: open the page again")
        return fields

    def _respond(self, request: Request, view: View) -> Response:
        form = _form_of(request)
        if form == "json":
            return _json(view.data)
        if form == "md":
            return PlainTextResponse(as_markdown(view), media_type="text/markdown")
        if form == "csv":
            return PlainTextResponse(as_csv(view), media_type="text/csv")
        return self._html(
            "view.html", view=view, can_accept=self._can_accept(), form_token=self._guard.form_token(ACCEPT)
        )

    def _document(self, request: Request, answer: QuestionAnswer, trail: tuple[ViewCell, ...]) -> Response:
        form = _form_of(request)
        if form == "json":
            return _json(answer.data)
        if answer.document is None:
            raise HTTPException(404, "nothing was found")
        if form == "md":
            return PlainTextResponse(markdown(answer.document), media_type="text/markdown")
        if form == "csv":
            return PlainTextResponse(document_csv(answer.document), media_type="text/csv")
        return self._html("document_page.html", document=answer.document, trail=trail, svg=lambda _chart: "")

    def _html(self, template: str, status: int = 200, **values: Any) -> Response:
        return Response(_template(template).render(**values), status, media_type="text/html")


class _Middleware:
    """Middleware that refuses requests, and adds security headers to every answer."""

    def __init__(self, app: Any, guard: Guard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_safely(message: Any) -> None:
            if message["type"] == "http.response.start":
                names = {name.lower() for name, _ in message["headers"]}
                more = [(key.encode(), value.encode()) for key, value in HEADERS.items() if key.encode() not in names]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        refusal = self._guard.refusal(Request(scope))
        await (refusal or self._app)(scope, receive, send_safely)


async def _answer_or_error(question: Awaitable[QuestionAnswer]) -> QuestionAnswer:
    """Return an answer. Raises HTTPException for a question that failed or is still waiting."""
    try:
        return await question
    except QuestionError as error:
        raise HTTPException(503 if error.is_busy else 404, str(error)) from error


def _link(state: TrialState) -> ViewCell:
    return ViewCell(state.trial.name, trial_path(state.trial.name))


def policy_lines(origin: str, message: str, places: Sequence[Path]) -> list[ViewLine]:
    """Return lines of the policy that begins at `FILE:LINE`, if the file is part of the manifests.

    The cause is the line with the message of the denial, or the first line.
    """
    name, _, begin = origin.rpartition(":")
    path = Path(name)
    # The origin comes from a result. A page shows no other file than the manifests.
    if not begin.isdecimal() or not any(path.resolve().is_relative_to(place.resolve()) for place in places):
        return []
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            text = file.read(LARGEST_POLICY)
    except OSError:
        return []
    lines = text.splitlines()[int(begin) - 1 :]
    end = next((number for number, line in enumerate(lines) if number and line.startswith("---")), len(lines))
    said = message.strip()
    causes = [number for number, line in enumerate(lines[:end]) if said and said in line]
    cause = causes[0] if causes else 0
    shown = range(max(cause - AROUND, 0), min(cause + AROUND + 1, end))
    return [ViewLine(int(begin) + number, inert(lines[number]), number == cause) for number in shown]


async def _failed(request: Request, error: Exception) -> Response:
    """Return an error as an answer with one line. Internal details are not shown."""
    if isinstance(error, ClientDisconnect):
        return Response(status_code=400)
    status = error.status_code if isinstance(error, HTTPException) else 503
    text = error.detail if isinstance(error, HTTPException) else "the page failed: ask again in a moment"
    if _form_of(request) == "json" or request.url.path.startswith("/api/"):
        return _json({"error": text}, status)
    if "text/html" in request.headers.get("accept", ""):
        return Response(_template("error.html").render(text=text), status, media_type="text/html")
    return PlainTextResponse(f"{text}\n", status)


def _form_of(request: Request) -> str:
    """Return the format of an answer: `json`, `md` or `csv` by the end of the path or by the query, otherwise `html`."""
    asked = request.query_params.get("format", "") or request.url.path.rpartition(".")[2]
    return asked if asked in ("json", "md", "csv") else "html"


def _json(data: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(data, default=str, option=orjson.OPT_INDENT_2), status, media_type="application/json")


def _file(path: Path, kind: str) -> Response:
    return FileResponse(path, media_type=kind, headers=_FROM_FILE)


@cache
def _template(name: str) -> Template:
    return environment(_TEMPLATES).get_template(name)
