"""Measure the ingest: `python tests/bench/ingest.py [LOG...]`, by default the recording `bench`.

Prints, each as a whole process of its own: DuckDB reading the same files into the same columns, the ingest, and then
the reading of every record of every part. CPU is user and system time; memory is the peak of the process.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

BENCH = Path(__file__).parents[2].parent / "shared" / "recordings" / "bench" / "audit.jsonl.zst"


def bare_read(paths: list[str]) -> dict[str, float]:
    """DuckDB alone, into a table in memory."""
    import duckdb  # noqa: PLC0415 - each measurement pays for its own imports

    from replay.audit import queries  # noqa: PLC0415
    from replay.audit.format.wrapper import EVENT, read_columns  # noqa: PLC0415

    lines = queries.filled("ingest_lines", columns=read_columns(EVENT))
    source = lines.replace("row_number() over () - 1 + $first_row::bigint", "0")
    compression = {".zst": "zstd", ".gz": "gzip"}.get(Path(paths[0]).suffix, "none")
    values = {"files": paths, "format": "newline_delimited", "compression": compression, "tolerant": True}
    with duckdb.connect() as connection:
        connection.execute(f"create table event as {source}", {**values, "longest": 1 << 24, "first_file": 0})
        (rows,) = connection.execute("select count(*) from event").fetchone() or (0,)
    return {"rows": rows}


def ingest(paths: list[str]) -> dict[str, float]:
    """From files to parts, then every record of every part."""
    from replay.audit.store import Store  # noqa: PLC0415

    with Store.open() as store:
        report = store.ingest(paths)
        ingested = time.perf_counter()
        cpu = time.process_time()
        records = sum(1 for part in range(store.parts) for _ in store.part(part).records())
        reading = time.perf_counter() - ingested
        return {
            "rows": report.lines,
            "parts": store.parts,
            "records": records,
            "reading seconds": reading,
            "reading CPU us/record": (time.process_time() - cpu) / max(records, 1) * 1e6,
        }


def measured(name: str, paths: list[str]) -> dict[str, float]:
    """Run one measurement in a process of its own."""
    begin = time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run(
        [sys.executable, __file__, "--measure", name, *paths], check=True, capture_output=True, text=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found: dict[str, float] = json.loads(run.stdout)
    found["wall seconds"] = time.perf_counter() - begin
    found["CPU seconds"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return found


def main() -> None:
    """The command line."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["--measure"]:
        found = {"bare_read": bare_read, "ingest": ingest}[arguments[1]](arguments[2:])
        found["peak MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        sys.stdout.write(json.dumps(found))
        return
    paths = arguments or [str(BENCH)]
    size = sum(os.path.getsize(path) for path in paths)  # noqa: PTH202 - strings from the command line
    sys.stdout.write(f"{len(paths)} files, {size:,} bytes\n")
    results = {name: measured(name, paths) for name in ("bare_read", "ingest")}
    for name, found in results.items():
        sys.stdout.write(f"{name:10} " + "  ".join(f"{key} {value:,.2f}" for key, value in found.items()) + "\n")
    without_reading = results["ingest"]["wall seconds"] - results["ingest"]["reading seconds"]
    sys.stdout.write(f"ingest / bare read: {without_reading / results['bare_read']['wall seconds']:.2f} (wall)\n")


if __name__ == "__main__":
    main()
