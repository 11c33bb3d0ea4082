"""Make `data/minors.json`, in which older minors differ from `data/schema.json`, from the OpenAPI v3 documents of each minor.

    python -m tests.tools.distill_minors DIR > replay/kube/data/minors.json

DIR has one folder a minor, `1.30` and so on up to the newest, with the documents of the group versions that a server
serves by default, one a file and named as `distill_schema` takes them (they are also in Kubernetes' own `api/openapi-spec/v3`).
The result is one JSON object:

- `fields`: type, field, and the minor since which the type has it.
- `kinds`: rows `[group, version, kind, minor]`, the minor since which a server has a kind of `schema.json`.
- `dropped`: rows `[first, last, type, field, schema]` of fields that types lost, with the minors that have them.
- `types`: schemas of types that are gone, by name.
- `gone`: rows `[minor, group, version, kind, type]` of kinds that are gone, with the last minor that serves them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.tools.distill_schema import distill

Data = dict[str, Any]


def distill_minors(source: Path) -> str:
    """The package data, sorted."""
    minors = {int(path.name.partition(".")[2]): json.loads(distill(path)) for path in source.iterdir()}
    oldest, newest = min(minors), max(minors)
    fields: dict[str, dict[str, int]] = {}
    types: Data = {}
    kinds, dropped, gone = [], [], []
    for minor in range(oldest, newest):
        old, new = minors[minor], minors[minor + 1]
        for name in sorted(old["types"].keys() & new["types"].keys()):
            before, after = (_properties(each, name) for each in (old, new))
            for field in sorted(after.keys() - before.keys()):
                if field in _properties(minors[newest], name):
                    fields.setdefault(name, {})[field] = minor + 1
            for field in sorted(before.keys() - after.keys()):
                first = min(each for each, data in minors.items() if field in _properties(data, name))
                dropped.append([first, minor, name, field, before[field]])
        had, has = ({tuple(row[:3]) for row in each["kinds"] if _is_object(row)} for each in (old, new))
        kinds += [[*kind, minor + 1] for kind in sorted(has - had)]
        gone += [[minor, *row] for row in old["kinds"] if _is_object(row) and tuple(row[:3]) not in has]
        types |= {name: node for name, node in old["types"].items() if name not in new["types"]}
    return (
        "{\n"
        + ",\n".join(
            f'"{name}":{_lines(value)}'
            for name, value in (
                ("fields", fields),
                ("kinds", kinds),
                ("dropped", dropped),
                ("types", types),
                ("gone", gone),
            )
        )
        + "\n}\n"
    )


def _properties(data: Data, name: str) -> Data:
    return data["types"].get(name, {}).get("properties", {})  # type: ignore[no-any-return]


def _is_object(row: list[str]) -> bool:
    """Whether a kind is that of objects of its own: documents also list options, events of a watch and answers."""
    return row[2] not in {"DeleteOptions", "WatchEvent", "Status"} and not row[2].endswith("List")


def _lines(value: Data | list[Any]) -> str:
    """One entry a line."""
    if isinstance(value, dict):
        return "{\n" + ",\n".join(f"{json.dumps(key)}:{_compact(value[key])}" for key in sorted(value)) + "\n}"
    return "[\n" + ",\n".join(map(_compact, value)) + "\n]"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


if __name__ == "__main__":
    sys.stdout.write(distill_minors(Path(sys.argv[1])))
