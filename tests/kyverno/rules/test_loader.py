"""Paths that the `apiCall` of a namespaced policy can name, as Kyverno's `pkg/engine/apicall` refuses them."""

from __future__ import annotations

from typing import Any

import pytest

from replay.json import JSON
from replay.kyverno.rules.context import Context, LoaderSource, declare_entries
from replay.kyverno.rules.image import ImageDefaults
from replay.kyverno.rules.jmespath.library import kyverno_library
from replay.kyverno.rules.response import RuleError, UndeterminedError

_OTHER = "refers to namespace other, which is different from the policy namespace own"
_BAD_ESCAPE = "/api/v1/namespaces/own/%2e%2e/other/pods%zz"
_NONE = "does not contain a namespace segment, which is required for namespaced policies"


class _Cluster:
    def get_path(self, path: str) -> JSON:
        return {"path": path}

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


def _no_clock() -> Any:
    raise UndeterminedError("no clock")


@pytest.mark.parametrize(
    ("path", "refusal"),
    [
        ("/api/v1/namespaces/own/pods", None),
        ("//api/v1/namespaces/own/pods", None),
        ("//api/v1/namespaces/other/pods", f"path /api/v1/namespaces/other/pods {_OTHER}"),
        ("/api/v1/namespaces/own/%2e%2e/other/pods", f"path /api/v1/namespaces/other/pods {_OTHER}"),
        ("//api/v1/pods", f"path /api/v1/pods {_NONE}"),
        ("", f"path . {_NONE}"),
        (
            _BAD_ESCAPE,
            f'failed to GET resource with raw url: {_BAD_ESCAPE}: parse "{_BAD_ESCAPE}": invalid URL escape "%zz"',
        ),
        (
            "/api/v1/namespaces/own%zz/pods",
            "path /api/v1/namespaces/own%zz/pods refers to namespace own%zz, which is different from the policy namespace own",
        ),
    ],
)
def test_a_call_of_a_namespaced_policy(path: str, refusal: str | None) -> None:
    context = Context(kyverno_library(_no_clock, ImageDefaults()))
    declare_entries(context, [{"name": "x", "apiCall": {"urlPath": path}}], LoaderSource(_Cluster(), "own"))
    got: JSON
    try:
        got = context.query("x")
    except RuleError as error:
        got = str(error)
    assert got == ({"path": path} if refusal is None else f"failed to fetch data for APICall: {refusal}")
