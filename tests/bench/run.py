"""The benchmark table: `python -m tests.bench.run [--policies 20 200 2000] [--large DIRECTORY] [--only NAME...]`.

A row that names a command is a whole process with its workers, watched from outside. Stages are CPU seconds inside one process
without workers. The recording is `bench` if it is there, else the sample; numbers are printed, nothing is asserted.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import orjson
import yaml

from replay.__main__ import RARELY
from tests.bench.watch import Measured, watched

if TYPE_CHECKING:
    from replay.audit.store import Store
    from replay.pipeline.replay.job import Job

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
RECORDINGS = ROOT.parent / "shared" / "recordings"
SAMPLE = ROOT / "sample_audit" / "shop"
CHAINS = ROOT / "sample_audit" / "authorization"
CASES = ROOT / "tests" / "admission" / "data" / "cases.jsonl"
REPLAY = [sys.executable, "-m", "replay"]
PARTS = ["end", "authorization", "plugins", "stages", "calls", "cores", "engines", "scaling", "large"]
CHANGES = {
    "a policy on widgets": ("widget-rules", "object.spec.size <= 10", "object.spec.size <= 9"),
    "an expression on pods and workloads": ("image-registries", "^(registry", r"^(quay\\.io|registry"),
    "a message on pods and workloads": ("image-registries", "allowed registry", "admitted registry"),
}
"""The policies that are changed between two runs on one store, and how."""


def log_and_sets() -> tuple[Path, Path]:
    """The log, and the directory with the sets and the snapshot."""
    if RECORDINGS.is_dir():
        return RECORDINGS / "bench" / "audit.jsonl.zst", RECORDINGS / "shop"
    return next(SAMPLE.glob("audit.*")), SAMPLE


def run_command(logs: Sequence[Path], sets: Path, *options: str | Path, candidate: Path | None = None) -> list[str]:
    """`replay run` with the sets of a directory."""
    given = ["--current", sets / "current", "--candidate", candidate or sets / "candidate"]
    return [*REPLAY, "run", *map(str, [*logs, *given, "--cluster", next(sets.glob("cluster.*")), *options])]


def timed(found: dict[str, float], name: str, action: Callable[[], T]) -> T:
    """Run an action and note its CPU seconds."""
    start = time.process_time()
    result = action()
    found[name] = time.process_time() - start
    return result


@contextmanager
def prepared(log: Path, sets: Path, found: dict[str, float]) -> Iterator[tuple[Job, Store]]:
    """A job and its store, which is there meanwhile; the CPU seconds of each step are noted."""
    from replay.audit.store import Store  # noqa: PLC0415 - other measurements do not pay for it
    from replay.pipeline.manifests import manifests_of  # noqa: PLC0415
    from replay.pipeline.options import Options  # noqa: PLC0415
    from replay.pipeline.replay.preparation import job_of  # noqa: PLC0415
    from replay.pipeline.scenario import Scenario  # noqa: PLC0415

    scenario = Scenario(
        (str(log),),
        current=sets / "current",
        candidate=sets / "candidate",
        cluster=next(sets.glob("cluster.*")),
    )
    manifests = timed(found, "load the sets", lambda: manifests_of(scenario))
    with Store.open() as store, tempfile.TemporaryDirectory() as spool:
        timed(found, "ingest", lambda: store.ingest([log]))
        job = timed(found, "prepare", lambda: job_of(store, manifests, Options(workers=1), Path(spool)))
        store.rest()
        yield job, store


def stages(log: Path, sets: Path) -> dict[str, float]:
    """CPU seconds of each stage; the passes contain each other, and what is noted are their differences."""
    from replay.pipeline.replay.merge import class_results, merge  # noqa: PLC0415 - as above
    from replay.pipeline.replay.world import World  # noqa: PLC0415
    from replay.reconstruct.request import Reached  # noqa: PLC0415

    found: dict[str, float] = {}
    with prepared(log, sets, found) as (job, store):
        parts = [store.part(number) for number in range(store.parts)]
        replayer = timed(found, "compile the sets", lambda: job.replayer)

        def rebuilt() -> int:
            return sum(
                1
                for part in parts
                for records in part.objects(job.predicate)
                for _ in job.reconstructor.requests(records)
            )

        def decided() -> None:
            for part in parts:
                for records in part.objects(job.predicate):
                    for request in job.reconstructor.requests(records):
                        if request.reached is not Reached.FAILED_BEFORE:
                            replayer.decide(request, job.cluster.at(request.record))

        timed(found, "read", lambda: sum(1 for part in parts for _ in part.objects(job.predicate)))
        found["requests"] = timed(found, "reconstruct", rebuilt)
        timed(found, "match and evaluate", decided)
        results = timed(found, "compare", lambda: [job.run(part) for part in parts])
        timed(found, "merge", lambda: merge(class_results(results, ()), World()))
    names = ("read", "reconstruct", "match and evaluate", "compare")
    for name, before in reversed(list(zip(names[1:], names, strict=False))):
        found[name] -= found[before]
    return found


def calls(table: Table, log: Path, sets: Path) -> None:
    """Function calls for each request that some policy reads, from its record to its outcome.

    They do not depend on the load of the machine.
    """
    from replay.pipeline.replay.replayer import Replayer  # noqa: PLC0415 - as above

    with prepared(log, sets, {}) as (job, store):
        profile = cProfile.Profile()
        for number in range(store.parts):
            profile.runcall(job.run, store.part(number))
    entries = profile.getstats()
    requests = sum(each.callcount for each in entries if each.code is Replayer._decided.__code__)
    python = sum(each.callcount for each in entries if not isinstance(each.code, str))
    every = sum(each.callcount for each in entries)
    table.number("calls of Python functions for each request", python / requests, "")
    table.number("calls of built-in functions for each request", (every - python) / requests, "")


def cores(table: Table, log: Path, sets: Path) -> None:
    """How much faster two workers replay than one: the part of a run that is Python."""
    from replay.pipeline.options import Options  # noqa: PLC0415 - as above
    from replay.pipeline.replay.workers import prepare_workers, replay_parts  # noqa: PLC0415

    wall = {}
    prepare_workers(Options(workers=2))  # as in a run: while the log is read
    with prepared(log, sets, {}) as (job, store):
        for workers in (1, 2):
            options = Options(workers=workers)
            start = time.perf_counter()
            replay_parts(job, store, options, lambda _what, _done, _total: None)
            wall[workers] = time.perf_counter() - start
            table.number(f"replay of all parts, {workers} workers", wall[workers], "s (wall)")
    table.number("one worker / two workers", wall[1] / wall[2], "times (wall)")


def multiplied(candidate: Path, target: Path, wanted: int) -> int:
    """A candidate set with at least `wanted` validating policies, no two alike; returns how many there are.

    Copies have other names, and every validation of a copy a condition of its own that always holds: copies that say the same
    would be evaluated once.
    """
    shutil.copytree(candidate, target)
    originals = sorted((candidate / "vap").glob("*.yaml"))
    copies = -(-wanted // len(originals))
    for copy in range(1, copies):
        for path in originals:
            text = path.read_text(encoding="utf-8").replace(".static.k8s.io", f"-{copy}.static.k8s.io")
            documents = list(yaml.safe_load_all(text))
            for document in documents:
                for validation in document["spec"].get("validations", ()):
                    validation["expression"] = f"({validation['expression']}) || request.name == 'copy {copy}'"
            (target / "vap" / f"{path.stem}-{copy}.yaml").write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return copies * len(originals)


def with_chains(sets: Path, target: Path, bindings: int = 0) -> Path:
    """The current set of a directory twice, with the chains of the sample, and its snapshot; no bindings matter to anybody."""
    shutil.copytree(sets, target, ignore=shutil.ignore_patterns("audit.*", "candidate", "expected"))
    shutil.copytree(target / "current", target / "candidate")
    for name in ("current", "candidate"):
        shutil.copy(CHAINS / name / "authorization.yaml", target / name)
    added = [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": f"binding-{number}", "namespace": f"namespace-{number % 50}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": f"user-{number}"}],
        }
        for number in range(bindings)
    ]
    if added:
        for name in ("current", "candidate"):
            (target / name / "rbac").mkdir()
            (target / name / "rbac" / "bindings.json").write_bytes(b"\n".join(map(orjson.dumps, added)))
    return target


class Table:
    """Rows, printed as soon as they are known."""

    def __init__(self) -> None:
        """Print the heading."""
        self._print(
            "| what | wall s | CPU s | largest process MiB | all processes MiB |\n| --- | --- | --- | --- | --- |"
        )

    def _print(self, text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def command(self, what: str, command: list[str]) -> Measured:
        """A row for a whole process; raises where it fails, for a run by its exit code above 1."""
        found = watched(command)
        if found.code > 1:
            raise subprocess.CalledProcessError(found.code, command)
        self._print(f"| {what} | {found.wall:.1f} | {found.cpu:.1f} | {found.largest:.0f} | {found.together:.0f} |")
        return found

    def number(self, what: str, value: float, unit: str) -> None:
        """A row for one number."""
        self._print(f"| {what} | {value:.2f} {unit} | | | |")


def end_to_end(table: Table, log: Path, sets: Path, work: Path) -> None:
    """Bare read, ingest, cold and warm runs, and how they compare."""
    script = str(Path(__file__).with_name("ingest.py"))
    read = [sys.executable, script, "--measure", "bare_read", str(log)]
    watched(read)  # the first one reads libraries and the log from the disk
    bare = table.command("DuckDB alone, into the same columns", read)
    table.command("replay ingest", [*REPLAY, "ingest", str(log), "--store", str(work / "ingested")])
    cold = table.command("replay run, cold", run_command([log], sets))
    one = table.command("replay run, cold, one worker", run_command([log], sets, "--workers", "1"))
    table.command("replay run, cold, HTML and charts", run_command([log], sets, "--report", work / "report"))
    store = work / "store"
    table.command("replay run --store, first", run_command([log], sets, "--store", store))
    table.command("replay run --store, nothing changed", run_command([], sets, "--store", store))
    for number, (what, (name, before, after)) in enumerate(CHANGES.items()):
        changed, kept = work / f"changed-{number}", work / f"store-{number}"
        shutil.copytree(store, kept)
        shutil.copytree(sets / "candidate", changed)
        path = changed / "vap" / f"{name}.yaml"
        path.write_text(path.read_text(encoding="utf-8").replace(before, after), encoding="utf-8")
        table.command(f"replay run --store, {what} changed", run_command([], sets, "--store", kept, candidate=changed))
    table.number("cold / DuckDB alone", cold.wall / bare.wall, "times (wall)")
    table.number("one worker / all cores", one.wall / cold.wall, "times (wall)")


def by_stage(table: Table, log: Path, sets: Path) -> None:
    """The profile of a cold run."""
    found = stages(log, sets)
    requests = found.pop("requests")
    table.number("requests that some policy may match", requests / 1000, "thousand")
    for name, seconds in found.items():
        table.number(f"stage: {name}", seconds, "s of CPU")


def authorization(table: Table, log: Path, sets: Path, work: Path) -> None:
    """What both chains of authorizers cost a run, and what bindings of others do."""

    def run(what: str, target: Path) -> Measured:
        return table.command(what, run_command([log], target))

    without = table.command("replay run, one set twice", run_command([log], sets, candidate=sets / "current"))
    chained = run("replay run, both chains of authorizers", with_chains(sets, work / "chains"))
    few, many = (
        run(f"replay run, both chains, {count:,} bindings", with_chains(sets, work / f"bindings-{count}", count))
        for count in (100, 10_000)
    )
    table.number("both chains - none", chained.wall - without.wall, "s (wall)")
    table.number("both chains / none", chained.wall / without.wall, "times (wall)")
    table.number("10,000 bindings / 100", many.wall / few.wall, "times (wall)")


def plugins(table: Table, log: Path, sets: Path, work: Path) -> None:
    """What the built-in plugins cost: nothing where both sets have them alike, and all of them asked of every request."""
    flagged = work / "flagged"
    shutil.copytree(sets / "current", flagged)
    (flagged / "kube-apiserver.flags").write_text("--v=2\n", encoding="utf-8")
    cluster = str(next(sets.glob("cluster.*")))

    def pair(what: str, words: Callable[[Path], list[str]]) -> float:
        without = table.command(f"{what}, without flags", words(sets / "current"))
        return table.command(f"{what}, with the flags of a server", words(flagged)).cpu / without.cpu

    def run(current: Path) -> list[str]:
        given = ["--current", str(current), "--candidate", str(current), "--cluster", cluster, "--workers", "1"]
        return [*REPLAY, "run", str(log), *given]

    table.number("plugins that both sets have / none", pair("replay run, one set twice", run), "times (CPU)")
    verify = pair(
        "replay verify", lambda each: [*REPLAY, "verify", str(log), "--current", str(each), "--cluster", cluster]
    )
    table.number("the default plugins asked / none", verify, "times (CPU)")


def scaling(table: Table, log: Path, sets: Path, work: Path, counts: Sequence[int]) -> None:
    """Runs with more and more policies."""
    for wanted in counts:
        target = work / f"policies-{wanted}"
        count = multiplied(sets / "candidate", target, wanted)
        table.command(f"replay run, {count:,} policies", run_command([log], sets, candidate=target))


def large(table: Table, directory: Path, sets: Path) -> None:
    """A log made by `large_log.py`: its first quarter, its first half, all of it."""
    paths = sorted(directory.glob("*.jsonl*"))
    for count in sorted({max(1, len(paths) // 4), max(1, len(paths) // 2), len(paths)}):
        octets = sum(path.stat().st_size for path in paths[:count])
        table.command(f"replay run, {octets / 1e9:.1f} GB", run_command(paths[:count], sets))


def engines(table: Table) -> None:
    """Expressions of policies, evaluated here and by cel-python on the same objects."""
    from replay.json import decode_json  # noqa: PLC0415
    from tests.bench.cel import measure  # noqa: PLC0415

    cases = [decode_json(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    rows = [times for case in cases if case["area"].startswith("policy-") and (times := measure(case)) is not None]
    pairs = [(ours, other) for row in rows if (ours := row.get("evaluation")) and (other := row.get("cel-python"))]
    table.number(f"one evaluation ({len(pairs)} expressions, median)", statistics.median(a for a, _ in pairs), "µs")
    table.number("cel-python / one evaluation (median)", statistics.median(b / a for a, b in pairs), "times")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", type=int, nargs="*", default=[20, 200, 2000], help="sizes of generated sets")
    parser.add_argument("--large", type=Path, help="a directory made by large_log.py")
    parser.add_argument("--only", nargs="*", default=PARTS)
    arguments = parser.parse_args()
    gc.set_threshold(*RARELY)  # as in the command
    log, sets = log_and_sets()
    table = Table()
    with tempfile.TemporaryDirectory(prefix="replay-bench-") as directory:
        work = Path(directory)
        if "end" in arguments.only:
            end_to_end(table, log, sets, work)
        if "authorization" in arguments.only:
            authorization(table, log, sets, work)
        if "plugins" in arguments.only:
            plugins(table, log, sets, work)
        if "stages" in arguments.only:
            by_stage(table, log, sets)
        if "calls" in arguments.only:
            calls(table, log, sets)
        if "cores" in arguments.only:
            cores(table, log, sets)
        if "engines" in arguments.only:
            engines(table)
        if "scaling" in arguments.only:
            scaling(table, log, sets, work, arguments.policies)
        if "large" in arguments.only and arguments.large is not None:
            large(table, arguments.large, sets)


if __name__ == "__main__":
    main()
