"""Results of cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import replace

from replay.case.coverage import Item


class Status(StrEnum):
    """End of a case: as expected, different, invalid, or not decidable."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"


class CaseResult(Struct, frozen=True):
    """The result of one case. `lines` are the differences or the error. `suite` is its file or directory."""

    suite: str
    name: str
    path: str
    line: int
    status: Status
    lines: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Place as `path:line`."""
        return f"{self.path}:{self.line}" if self.line else self.path


class CaseCoverageResult(Struct, frozen=True):
    """Coverage of the policies by the cases."""

    reached: int
    total: int
    unreached: tuple[Item, ...]


def not_run_text(counts: Mapping[str, int]) -> str:
    """Return the counts of what cannot run, for example `49 gator suites without a native policy`."""
    return ", ".join(f"{count} {_plural(kind) if count != 1 else kind}" for kind, count in sorted(counts.items()))


def _plural(kind: str) -> str:
    head, separator, rest = kind.partition(" without ")
    return f"{head[:-1]}ies{separator}{rest}" if head.endswith("y") else f"{head}s{separator}{rest}"


def merged_by_minor(results: Mapping[str, Sequence[CaseResult]]) -> Iterator[CaseResult]:
    """Yield the results of the same cases on several server versions.

    Equal results become one. Otherwise there is one for each version.
    """
    cases: dict[tuple[str, str, str, int], dict[str, CaseResult]] = {}
    for minor, each in results.items():
        for result in each:
            cases.setdefault((result.suite, result.name, result.path, result.line), {})[minor] = result
    for of_minors in cases.values():
        first = next(iter(of_minors.values()))
        if len(of_minors) == len(results) and all(each == first for each in of_minors.values()):
            yield first
        else:
            for minor, result in of_minors.items():
                yield replace(result, name=f"{result.name} (Kubernetes {minor})")


class CaseReport(Struct, frozen=True):
    """All cases in order of discovery. `forms` counts cases by form. `files` are all files read.

    `not_run` counts files without runnable cases, by kind.
    """

    results: tuple[CaseResult, ...]
    forms: dict[str, int] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    coverage: CaseCoverageResult | None = None
    not_run: dict[str, int] = field(default_factory=dict)

    def count(self, status: Status) -> int:
        """Return the number of cases with a status."""
        return sum(result.status is status for result in self.results)

    @property
    def exit_code(self) -> int:
        """Exit code: 0 if all is as expected, 1 if something is not, 2 if a case cannot be run."""
        if self.count(Status.ERROR):
            return 2
        return int(self.count(Status.FAILED) > 0)
