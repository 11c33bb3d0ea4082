"""`replay test` as a function: finds all cases below paths and returns their results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from replay.case.case import CannotRunError, Case, CaseError, CaseFile, EngineCase, Unusable
from replay.case.coverage import CaseCoverage
from replay.case.decide import CaseDecider
from replay.case.difference import differences
from replay.case.find import UnreadableCases, UnsupportedTests, find_cases
from replay.case.form.table import BY_NAME, SUPPORTED
from replay.case.policies import PolicyLoader
from replay.case.result import CaseCoverageResult, CaseReport, CaseResult, Status, merged_by_minor, not_run_text
from replay.cellib.version import NEWEST, KubernetesVersion
from replay.errors import UNFORESEEN


class CaseOptions(Struct, frozen=True, kw_only=True):
    """Options of a test run: the cases below `paths` whose name contains `name`.

    `policies` decide cases that name none.
    """

    paths: tuple[Path, ...]
    policies: tuple[Path, ...] = ()
    name: str = ""
    coverage: bool = False
    versions: tuple[KubernetesVersion, ...] = (NEWEST,)


def run_tests(options: CaseOptions) -> CaseReport:
    """Run all cases for the servers of each minor. Raise ReplayError if there are none."""
    reports = {str(version): _run_on(version, options) for version in options.versions}
    first = next(iter(reports.values()))
    if len(reports) == 1:
        return first
    return replace(first, results=tuple(merged_by_minor({minor: each.results for minor, each in reports.items()})))


def _run_on(version: KubernetesVersion, options: CaseOptions) -> CaseReport:
    loader, decider = PolicyLoader(version, options.policies), CaseDecider(version)
    coverage = CaseCoverage() if options.coverage else None
    results: list[CaseResult] = []
    forms: Counter[str] = Counter()
    not_run: Counter[str] = Counter()
    files = {str(path) for path in options.policies}
    for source in find_cases(options.paths, loader):
        if isinstance(source, UnsupportedTests):
            not_run[source.kind] += 1
            continue
        results_of_file = list(_results(source, decider, coverage, options.name))
        results += results_of_file
        if isinstance(source, CaseFile):
            forms[source.form] += len(results_of_file)
            files.update(source.files)
            if not source.cases:
                not_run[BY_NAME[source.form].empty] += 1
        else:
            files.add(source.path)
    if not results:
        places = ", ".join(map(str, options.paths))
        selection = f" whose name holds `{options.name}`" if options.name else ""
        found = f"; found {not_run_text(not_run)}" if not_run else ""
        raise CaseError(f"no cases{selection} below it{found}; supported: {SUPPORTED} (docs/cases.md)", path=places)
    case_coverage = None
    if coverage is not None:
        case_coverage = CaseCoverageResult(coverage.reached, coverage.total, tuple(coverage.unreached()))
    counted = dict(sorted(not_run.items()))
    return CaseReport(tuple(results), dict(sorted(forms.items())), tuple(sorted(files)), case_coverage, counted)


def _results(
    source: CaseFile | UnreadableCases, decider: CaseDecider, coverage: CaseCoverage | None, name: str
) -> Iterator[CaseResult]:
    if isinstance(source, UnreadableCases):
        if name in source.path:
            yield _failed(source.path, source.path, source.error)
        return
    chosen: Iterable[Case | EngineCase | Unusable] = (case for case in source.cases if name in case.name)
    for case in chosen:
        if isinstance(case, Unusable):
            yield _failed(source.path, case.name, case.error)
        else:
            yield _result(source.path, case, decider, coverage)


def _result(suite: str, case: Case | EngineCase, decider: CaseDecider, coverage: CaseCoverage | None) -> CaseResult:
    try:
        if isinstance(case, EngineCase):
            lines = case.differences()
        elif case.refusals:
            lines = [f"the API server refuses the policy: {text}" for text in case.refusals]
        else:
            decided = decider.decided(case)
            lines = differences(decided)
            if coverage is not None:
                coverage.add(decided)
    except CannotRunError as error:
        return CaseResult(suite, case.name, case.path, case.line, Status.SKIPPED, (error.message,))
    except CaseError as error:
        return CaseResult(suite, case.name, case.path, case.line, Status.ERROR, (error.message,))
    except UNFORESEEN as error:
        reason = " ".join(f"{type(error).__name__} {error}".split())
        line = f"the case has an unexpected form: {reason}"
        return CaseResult(suite, case.name, case.path, case.line, Status.ERROR, (line,))
    status = Status.FAILED if lines else Status.PASSED
    return CaseResult(suite, case.name, case.path, case.line, status, tuple(lines))


def _failed(suite: str, name: str, error: CaseError) -> CaseResult:
    return CaseResult(suite, name, error.path or suite, error.line, Status.ERROR, (error.message,))
