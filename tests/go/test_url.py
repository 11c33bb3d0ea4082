"""`net/url`: every field and every error text as Go has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replay.go.url import ParsedURL, URLError, from_bytes, parse_request_uri, parse_url

CASES = [json.loads(line) for line in (Path(__file__).parent / "data/url.jsonl").read_text("utf-8").splitlines()]
FUNCTIONS = {"Parse": parse_url, "ParseRequestURI": parse_request_uri}


def fields(url: ParsedURL) -> dict[str, Any]:
    """What is not zero, in Go's order of fields."""
    texts = {
        "scheme": url.scheme,
        "opaque": url.opaque,
        "user": url.user_info,
        "host": url.host,
        "path": url.path,
        "raw_path": url.raw_path,
        "raw_query": url.raw_query,
        "fragment": url.fragment,
        "raw_fragment": url.raw_fragment,
        "string": str(url),
        "hostname": url.hostname,
        "port": url.port,
        "escaped_path": url.escaped_path,
    }
    flags = {name: True for name in ("force_query", "omit_host") if getattr(url, name)}
    return {name: from_bytes(text) for name, text in texts.items() if text} | flags


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['function']} {case['text']}")
def test_as_go(case: dict[str, Any]) -> None:
    wanted = {name: value for name, value in case.items() if name not in ("function", "text")}
    try:
        found = fields(FUNCTIONS[case["function"]](case["text"]))
    except URLError as error:
        found = {"error": str(error)}
    assert found == wanted
