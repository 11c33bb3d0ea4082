"""Certificate requests and PEM as Go reads them; the rows of the file are what Go 1.26 says of generated and damaged requests."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from replay.go.asn1 import ASN1Error
from replay.go.certificate_request import Subject, parse_certificate_request
from replay.go.encoding import PEMBlock, decode_pem

DATA = Path(__file__).parent / "data" / "certificate_requests.jsonl"
ROWS = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.get("err", row.get("cn")))
def test_request(row: Any) -> None:
    try:
        found: Any = parse_certificate_request(base64.b64decode(row["der"]))
    except ASN1Error as error:
        found = str(error)
    assert found == (row["err"] if "err" in row else Subject(row["cn"], tuple(row["o"])))


GOOD = b"-----BEGIN A-----\neA==\n-----END A-----\n"
BLOCK = PEMBlock("A", b"x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GOOD, BLOCK),
        (b"before\n" + GOOD + b"after", BLOCK),
        (GOOD.rstrip(), BLOCK),
        (GOOD.replace(b"\n", b"\r\n"), BLOCK),
        (GOOD.replace(b"eA==", b"K: v\n\neA=="), BLOCK),
        (GOOD.replace(b"eA==", b"e A\t=="), BLOCK),
        (b"-----BEGIN B-----\n" + GOOD, BLOCK),
        (b"-----BEGIN A-----\n-----END A-----", PEMBlock("A", b"")),
        (GOOD.replace(b"END A", b"END B") + GOOD, BLOCK),
        (b" " + GOOD, None),
        (GOOD.replace(b"eA==", b"eA="), None),
        (GOOD.replace(b"END A-----", b"END A----- x"), None),
        (GOOD.replace(b"BEGIN A-----", b"BEGIN A----"), None),
        (b"hello", None),
        (b"", None),
    ],
)
def test_pem(text: bytes, expected: PEMBlock | None) -> None:
    assert decode_pem(text) == expected
