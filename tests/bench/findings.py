"""Memory of the first process for many findings: `python -m tests.bench.findings [--findings 1000000]`.

Workers hand over the findings of 128 parts in files, as in a run. Half of them are consequences. This process then merges them, as
`replay run` does. It prints what each step adds to the resident memory.
"""

from __future__ import annotations

import argparse
import gc
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from replay.__main__ import RARELY
from replay.audit.place import TICKS, LogPosition
from replay.compare.outcome import OutcomeKind
from replay.compare.summary import CellKey, Example, OutcomeFinding
from replay.kube.gvk import ObjectRef
from replay.matching.coarse import CoarseClass
from replay.pipeline.replay.divergence import Divergence
from replay.pipeline.replay.merge import class_results, merge
from replay.pipeline.replay.replayer import ClassOutcomes, PartOutcomes, Pending
from replay.pipeline.replay.spool import PartResult, spooled
from replay.pipeline.replay.world import World
from replay.world.result import ABSENT, Cause, CausingRequest, Consequence, IsolatedEnd, RequestEnd

PARTS = 128
CLASSES = [CoarseClass(verb, "apps", "deployments", "") for verb in ("create", "update", "patch", "delete")]
_DENIED = IsolatedEnd(RequestEnd(Cause.DENIED, 422))
_BEGAN = 1_790_000_000_000_000 * TICKS
_APPLICATIONS = 5000
"""How many workloads the findings are of: a report names them, so they are more cells than the findings of a day."""


class Made(NamedTuple):
    """The findings of a log, as workers hand them over, and how many requests there are of each object."""

    directory: Path
    findings: int

    def place(self, number: int) -> LogPosition:
        """Where the finding with a number is in the log."""
        return LogPosition(_BEGAN + number * TICKS * 1000, 0)

    def finding(self, number: int) -> Pending:
        """A denial by one of ten policies in one of fifty namespaces."""
        place, policy = self.place(number), f"policy-{number % 10}"
        application = number // 7 % _APPLICATIONS
        key = CellKey(
            OutcomeKind.NEWLY_DENIED, (policy,), f"user-{application % 20}", f"namespace-{application % 50}",
            "deployments.apps", "Deployment", f"Deployment/app-{application}", follows=False, owner=f"team-{application % 9}",
        )  # fmt: skip
        example = Example(
            place.seq, 0, f"{number:032x}", place.microseconds, "UPDATE", f"app-{number}", (f"replicas of {policy}",)
        )
        return Pending(place, OutcomeFinding(key, example))

    def part(self, number: int) -> PartResult:
        """The result of one part: each object has four findings, of one class each."""
        outcomes = PartOutcomes({each: ClassOutcomes() for each in CLASSES})
        for finding in range(number, self.findings, PARTS):
            of_class = outcomes.classes[CLASSES[finding // PARTS % len(CLASSES)]]
            pending = self.finding(finding)
            of_class.findings.append(pending)
            of_class.summary.requests += 1
            of_class.summary.outcomes[OutcomeKind.NEWLY_DENIED] += 1
            name = f"app-{number}-{finding // PARTS // len(CLASSES)}"
            of_class.divergence.add_finding(pending.place.seq, ObjectRef("apps", "deployments", "n", name), "", _DENIED)
        return spooled(outcomes, self.directory / f"part-{number:05}")

    def consequences(self) -> Iterator[tuple[LogPosition, Consequence]]:
        """The ends of all requests: every second one follows another."""
        shared: dict[Consequence, Consequence] = {}
        for number in range(self.findings):
            follows = CausingRequest(f"{number // 64:032x}", "Deployment n/app") if number % 2 else None
            each = Consequence(ABSENT if number % 2 else _DENIED.result, follows, root=follows is None)
            yield self.place(number), shared.setdefault(each, each)


def resident() -> float:
    """MiB of memory that this process has now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * resource.getpagesize() / (1 << 20)


def measure(made: Made, results: list[PartResult]) -> None:
    """Merge in this process and print what each step adds."""
    rows = [("begin", resident())]

    def note(what: str) -> None:
        rows.append((what, resident()))

    classes = class_results(results, ())
    note("classes")
    begins = Divergence.combined(result.divergence() for result in classes.values())
    note(f"where {len(begins.numbers):,} requests begin to differ")
    world = World()
    world.add(made.consequences())
    note("consequences")
    del begins
    summary, _ = merge(classes, world)
    note(f"summary with {len(summary.cells):,} cells")
    sys.stdout.write("| step | MiB | added MiB |\n| --- | --- | --- |\n")
    for (what, size), (_, before) in zip(rows[1:], rows, strict=False):
        sys.stdout.write(f"| {what} | {size:.0f} | {size - before:.0f} |\n")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(f"| peak | {peak:.0f} | {peak - rows[0][1]:.0f} |\n")


def main() -> None:
    """The command line; the parts are made in a process of their own, whose memory does not count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--findings", type=int, default=1_000_000)
    parser.add_argument("--spool", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    gc.set_threshold(*RARELY)  # as in the command
    import pickle  # noqa: PLC0415

    if arguments.spool is not None:
        made = Made(arguments.spool, arguments.findings)
        results = [made.part(number) for number in range(PARTS)]
        (arguments.spool / "results").write_bytes(pickle.dumps(results))
        return
    with tempfile.TemporaryDirectory(prefix="replay-bench-") as name:
        command = [sys.executable, "-m", "tests.bench.findings", "--findings", str(arguments.findings), "--spool", name]
        subprocess.run(command, check=True)
        made = Made(Path(name), arguments.findings)
        measure(made, pickle.loads((made.directory / "results").read_bytes()))


if __name__ == "__main__":
    main()
