"""Readers' questions that need the log: explaining a request, searching, log coverage. Each runs in a separate process.

A question cannot delay the page or the ingest. There are few processes, each question has a time limit, and a process
that exceeds it is ended.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from typing import Any

from msgspec import Struct

from replay.errors import ReplayError
from replay.report.render.document import Document
from replay.serve.runner import with_low_priority
from replay.serve.settings import ServeSettings, Trial

SECONDS = 60.0
"""Time limit of a question, in seconds."""
MOST_WAITING = 8
"""Maximum number of waiting questions. A further one is refused."""
MOST_FOUND = 200
"""Maximum number of decisions that a search lists."""
SEARCHED = ("policy", "user", "namespace", "object", "since", "until", "action")
"""Fields of a search, each as the option of `replay lookup` with this name."""


class QuestionError(Exception):
    """Question without an answer. The text is the reason. `is_busy` says that asking again may help."""

    def __init__(self, text: str, *, is_busy: bool = False) -> None:
        """Keep the text for the reader."""
        super().__init__(text)
        self.is_busy = is_busy


class QuestionAnswer(Struct, frozen=True):
    """Answer as a document and as JSON, or `error` if there is none."""

    document: Document | None = None
    data: Any = None
    error: str = ""


def _explain(settings: ServeSettings, trial: Trial, audit_id: str, item: int) -> QuestionAnswer:
    from replay.pipeline.forensic.explain import explain  # noqa: PLC0415 - only a question needs them
    from replay.pipeline.options import Options, time_zone  # noqa: PLC0415
    from replay.pipeline.scenario import Scenario  # noqa: PLC0415
    from replay.report.explain_report import explain_document, explain_json  # noqa: PLC0415

    zone = time_zone(None)
    snapshot = settings.snapshot(trial.cluster)
    scenario = Scenario((), store=trial.store, current=settings.current, candidate=trial.candidate, cluster=snapshot)
    options = Options(owner_label=settings.owner_label)
    try:
        found = explain(scenario, audit_id, _no_progress, item=item, options=options)
    except ReplayError as error:
        return QuestionAnswer(error=str(error))
    return QuestionAnswer(explain_document(found, zone), explain_json(found, zone))


def _coverage(settings: ServeSettings, trial: Trial) -> QuestionAnswer:
    from replay.pipeline.coverage import coverage  # noqa: PLC0415 - only a question needs them
    from replay.pipeline.options import Options  # noqa: PLC0415
    from replay.pipeline.scenario import Scenario  # noqa: PLC0415
    from replay.report.coverage_report import coverage_document, coverage_json  # noqa: PLC0415

    snapshot = settings.snapshot(trial.cluster)
    scenario = Scenario((), store=trial.store, current=settings.current, candidate=trial.candidate, cluster=snapshot)
    try:
        found = coverage(scenario, Options(workers=1), _no_progress)
    except ReplayError as error:
        return QuestionAnswer(error=str(error))
    return QuestionAnswer(coverage_document(found), coverage_json(found))


def _search(settings: ServeSettings, cluster: str, fields: dict[str, str]) -> QuestionAnswer:
    from replay.pipeline.forensic.lookup import LookupFilter, look_up  # noqa: PLC0415 - only a question needs them
    from replay.pipeline.options import time_zone  # noqa: PLC0415
    from replay.pipeline.scenario import Scenario  # noqa: PLC0415
    from replay.report.lookup_report import lookup_document, lookup_json  # noqa: PLC0415

    zone = time_zone(None)
    policy, user, namespace, subject, since, until, action = (fields.get(name) or None for name in SEARCHED)
    try:
        found = look_up(
            Scenario((), store=settings.stores[cluster], cluster=settings.snapshot(cluster)),
            LookupFilter(policy, user, namespace, subject, since, until, action),
            _no_progress,
            zone=zone,
        )
    except ReplayError as error:
        return QuestionAnswer(error=str(error))
    return QuestionAnswer(lookup_document(found, zone, MOST_FOUND), lookup_json(found, zone))


def _no_progress(_activity: str, _done: int, _total: int) -> None:
    return


def _begin() -> None:
    with_low_priority(os.getpid())


class Questions:
    """Processes that answer questions, and the number of waiting questions."""

    def __init__(self, settings: ServeSettings) -> None:
        """Prepare without starting a process. The first question starts it."""
        self._settings = settings
        self._pool: ProcessPoolExecutor | None = None
        self._waiting = 0

    async def explain(self, trial: Trial, audit_id: str, item: int) -> QuestionAnswer:
        """Explain a request under a candidate. Raises QuestionError."""
        return await self._ask(_explain, trial, audit_id, item)

    async def coverage(self, trial: Trial) -> QuestionAnswer:
        """Return what the log lacks for a trial, and which audit policy records it. Raises QuestionError."""
        return await self._ask(_coverage, trial)

    async def search(self, cluster: str, fields: dict[str, str]) -> QuestionAnswer:
        """Search decisions. Raises QuestionError."""
        return await self._ask(_search, cluster, fields)

    def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._end(self._pool)

    async def _ask(self, question: Any, *arguments: object) -> QuestionAnswer:
        if self._waiting >= MOST_WAITING:
            raise QuestionError("other questions are being answered: ask again in a moment", is_busy=True)
        if self._pool is None:
            self._pool = ProcessPoolExecutor(2, multiprocessing.get_context("spawn"), _begin)
        pool = self._pool
        self._waiting += 1
        try:
            future = pool.submit(question, self._settings, *arguments)
            answer: QuestionAnswer = await asyncio.wait_for(asyncio.wrap_future(future), SECONDS)
        except (
            BrokenExecutor
        ) as error:  # its process was ended: by the system, or with another question that took too long
            self._end(pool)
            raise QuestionError("the question was interrupted: ask again", is_busy=True) from error
        except TimeoutError as error:
            self._end(pool)
            raise QuestionError("the question took too long: narrow it down", is_busy=True) from error
        finally:
            self._waiting -= 1
        if answer.error:
            raise QuestionError(answer.error)
        return answer

    def _end(self, pool: ProcessPoolExecutor) -> None:
        if self._pool is pool:
            self._pool = None
        for process in list((pool._processes or {}).values()):  # noqa: SLF001 - the only way to end one that hangs
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
