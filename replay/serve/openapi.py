"""The OpenAPI document of the JSON API."""

from __future__ import annotations

from typing import Any

from replay.distribution import VERSION

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


OPENAPI: dict[str, Any] = {
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
