"""Make `data/schema.json` from the OpenAPI v3 documents of an API server and from the Go types behind them.

    python -m tests.tools.distill_schema OPENAPI_DIR [GO_MODULES] > replay/kube/data/schema.json

OPENAPI_DIR holds the answers of `/openapi/v3/...`, one document a file. GO_MODULES is a folder that holds the modules
`api`, `apimachinery` and `apiextensions-apiserver` of `k8s.io` (with or without `@version`); without it the data lacks
what only the struct tags of the Go types say: which fields are written when they are empty (`x-go-encoding`, see
`replay.kube.schema.Encoding`). The result is one JSON object: `types`, the named schemas as OpenAPI spells them but
without prose, `allOf` and reference prefixes, `kinds`, rows `[group, version, kind, type]`, and `foreign`, rows
`[group, version, kind]` of those that the document of their own group version lacks.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Node = dict[str, Any]

_REFERENCE = "#/components/schemas/"
_KEPT = ("type", "format", "default", "required", "nullable")
_PACKAGES = {
    "io.k8s.api.": "api",
    "io.k8s.apimachinery.": "apimachinery",
    "io.k8s.apiextensions-apiserver.": "apiextensions-apiserver",
}
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r'^\t(?:\w+ +)?([\w.*\[\]]+(?:\{\})?)\s+`json:"([^"]*)"', re.MULTILINE)


def distill(source: Path, go_modules: Path | None = None) -> str:
    """The package data, one type a line, sorted."""
    types: dict[str, Node] = {}
    kinds: set[tuple[str, str, str, str]] = set()
    own: set[tuple[str, str, str]] = set()
    for path in sorted(source.glob("*.json")):
        for name, schema in json.loads(path.read_text("utf-8"))["components"].get("schemas", {}).items():
            types.setdefault(name, _pruned(schema))
            for kind in schema.get("x-kubernetes-group-version-kind", ()):
                kinds.add((kind["group"], kind["version"], kind["kind"], name))
                if path.stem.split("__")[1:] == [each for each in (kind["group"], kind["version"]) if each]:
                    own.add((kind["group"], kind["version"], kind["kind"]))
    if go_modules is not None:
        for name, node in types.items():
            _add_encoding(name, node, go_modules)
    rows = ",\n".join(f"{json.dumps(name)}:{_compact(types[name])}" for name in sorted(types))
    served = {(group, version) for group, version, _ in own}
    foreign = sorted(kind for *kind, _ in kinds if tuple(kind[:2]) in served and tuple(kind) not in own)
    listed = ",\n".join(map(_compact, sorted(kinds)))
    return f'{{"types":{{\n{rows}\n}},"kinds":[\n{listed}\n],"foreign":{_compact(foreign)}}}\n'


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _pruned(schema: Mapping[str, Any]) -> Node:
    """The schema without prose and validation; a single `allOf` reference becomes `$ref`, as smd's converter reads it."""
    node: Node = {key: schema[key] for key in _KEPT if key in schema}
    node |= {key: value for key, value in schema.items() if _is_behaviour(key)}
    reference = schema.get("$ref") or (schema["allOf"][0].get("$ref") if len(schema.get("allOf", ())) == 1 else None)
    if reference:
        node["$ref"] = reference.removeprefix(_REFERENCE)
    if "properties" in schema:
        node["properties"] = {name: _pruned(field) for name, field in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in schema:
            node[key] = _pruned(schema[key]) if isinstance(schema[key], dict) else schema[key]
    return node


def _is_behaviour(key: str) -> bool:
    return key.startswith("x-kubernetes-") and key not in {
        "x-kubernetes-group-version-kind",
        "x-kubernetes-unions",
        "x-kubernetes-validations",
    }


def _add_encoding(name: str, node: Node, go_modules: Path) -> None:
    """Mark the properties whose Go field is a pointer or is written even when empty."""
    module = next((folder for prefix, folder in _PACKAGES.items() if name.startswith(prefix)), "")
    package, _, go_name = name.rpartition(".")
    if not module:
        _guess_encoding(node)
        return
    folder = Path(*package.removeprefix("io.k8s.").split(".")[1:])
    for go_type, tag in _fields(next(iter(sorted(go_modules.glob(f"{module}*")))) / folder, go_name):
        json_name, *options = tag.split(",")
        field = node.get("properties", {}).get(json_name)
        if field is not None:
            encoding = _encoding(go_type, options, field)
            if encoding:
                field["x-go-encoding"] = encoding


def _guess_encoding(node: Node) -> None:
    """The same from OpenAPI alone, for types of other modules: a default or `required` means no `omitempty`."""
    for name, field in node.get("properties", {}).items():
        if "default" in field or name in node.get("required", ()):
            field["x-go-encoding"] = "always"
        elif "$ref" in field:
            field["x-go-encoding"] = "pointer"


def _encoding(go_type: str, options: list[str], field: Node) -> str:
    """One of `replay.kube.schema.Encoding`; empty for the commonest, a value left out when it is empty."""
    if go_type.startswith("*") or (go_type.endswith("RawExtension") and "omitempty" in options):
        return "pointer" if "omitempty" in options else "null"
    if "omitzero" in options:
        return ""
    if "$ref" in field and field.get("$ref", "").rpartition(".")[2] == go_type.rpartition(".")[2]:
        return "always"  # encoding/json never takes a struct for empty
    return "" if "omitempty" in options else "always"


def _fields(folder: Path, go_name: str) -> Iterator[tuple[str, str]]:
    """`(Go type, json tag)` of each field of a struct, those of embedded structs of the same package included."""
    for path in sorted(folder.glob("*.go")):
        for name, body in _STRUCT.findall(path.read_text("utf-8")):
            if name != go_name:
                continue
            for go_type, tag in _FIELD.findall(body):
                if not tag.split(",")[0] and "." not in go_type:
                    yield from _fields(folder, go_type)
                else:
                    yield go_type, tag


if __name__ == "__main__":
    sys.stdout.write(distill(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None))
