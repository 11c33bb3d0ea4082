"""Results as Arrow tables with a fixed schema."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from replay.compare.result import RunResult

_TIME = pa.timestamp("us", tz="UTC")
FINDINGS = pa.schema(
    [
        ("outcome", pa.string()),
        ("policies", pa.list_(pa.string())),
        ("user", pa.string()),
        ("namespace", pa.string()),
        ("owner", pa.string()),
        ("resource", pa.string()),
        ("kind", pa.string()),
        ("workload", pa.string()),
        ("follows", pa.bool_()),
        ("requests", pa.int64()),
        ("first", _TIME),
        ("last", _TIME),
        ("message", pa.string()),
        ("audit_id", pa.string()),
        ("file", pa.string()),
        ("line", pa.int64()),
    ]
)
_DENIALS = pa.list_(
    pa.struct(
        [
            ("policy", pa.string()),
            ("binding", pa.string()),
            ("message", pa.string()),
            ("reason", pa.string()),
            ("code", pa.int64()),
        ]
    )
)
_SIDES = ("current", "candidate")
OUTCOMES = pa.schema(
    [
        ("audit_id", pa.string()),
        ("item", pa.int64()),
        ("time", _TIME),
        ("user", pa.string()),
        ("operation", pa.string()),
        ("group", pa.string()),
        ("version", pa.string()),
        ("resource", pa.string()),
        ("subresource", pa.string()),
        ("namespace", pa.string()),
        ("name", pa.string()),
        ("outcome", pa.string()),
        *((f"{side}_verdict", pa.string()) for side in _SIDES),
        *((f"{side}_denials", _DENIALS) for side in _SIDES),
        *((f"{side}_undetermined", pa.list_(pa.string())) for side in _SIDES),
        *((f"{side}_patch", pa.string()) for side in _SIDES),
        ("result", pa.string()),
        ("result_code", pa.int64()),
        ("follows", pa.string()),
        ("root", pa.bool_()),
    ]
)
_BATCH = 10_000


def findings_table(result: RunResult) -> pa.Table:
    """Return a row for each finding of a summary, in the order of the log."""
    cells = sorted(result.summary.cells.items(), key=lambda item: (item[1].examples[0].place, item[0]))
    rows = []
    for key, cell in cells:
        example = cell.examples[0]
        policy = key.policies[0] if key.policies else ""
        origin = result.origin(policy)
        rows.append(
            {
                "outcome": key.outcome.value,
                "policies": list(key.policies),
                **{
                    name: getattr(key, name)
                    for name in ("user", "namespace", "owner", "resource", "kind", "workload", "follows")
                },
                "requests": cell.count,
                "first": cell.first,
                "last": cell.last,
                "message": example.messages[0] if example.messages else "",
                "audit_id": example.audit_id,
                "file": origin.file if origin is not None else None,
                "line": origin.line if origin is not None else None,
            }
        )
    return pa.Table.from_pylist(rows, FINDINGS)


def outcomes_table(path: Path) -> pa.Table:
    """Return the lines of `--outcomes` for requests that admission saw."""
    batches, rows = [], []
    with path.open("rb") as lines:
        for line in lines:
            value = orjson.loads(line)
            if "outcome" in value:
                rows.append(dict(_columns(value)))
            if len(rows) >= _BATCH:
                batches.append(pa.RecordBatch.from_pylist(rows, OUTCOMES))
                rows = []
    batches.append(pa.RecordBatch.from_pylist(rows, OUTCOMES))
    return pa.Table.from_batches(batches, OUTCOMES)


def _columns(line: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "audit_id", line["auditID"]
    yield "item", line.get("item", 0)
    yield "time", datetime.fromisoformat(line["stageTimestamp"])
    yield from ((name, line[name]) for name in ("user", "operation", "namespace", "name", "outcome"))
    yield from line["resource"].items()
    for side in _SIDES:
        decision = line[side]
        yield f"{side}_verdict", decision["verdict"]
        yield (
            f"{side}_denials",
            [
                {name: each[name] for name in ("policy", "binding", "message", "reason", "code")}
                for each in decision["denials"]
            ],
        )
        yield f"{side}_undetermined", [f"{each['policy']}: {each['reason']}" for each in decision["undetermined"]]
        yield f"{side}_patch", orjson.dumps(decision["patch"]).decode() if decision["patch"] else None
    end = line["candidate"].get("result", {})
    yield "result", end.get("cause")
    yield "result_code", end.get("code")
    yield "follows", line.get("follows")
    yield "root", bool(line.get("root"))
