from __future__ import annotations

import pytest

from replay.kube.default_rules import is_latest

DIGEST = "sha256:" + "0a" * 32
IMAGES = [
    ("nginx", True),
    ("nginx:latest", True),
    ("nginx:1", False),
    ("registry:5000/a/b", True),
    ("registry:5000/a/b:1.2-x", False),
    (f"nginx@{DIGEST}", False),
    (f"nginx:latest@{DIGEST}", True),
    (f"nginx:1@{DIGEST}", False),
    ("nginx:latest@sha256:00", False),
    ("", False),
    ("Upper", False),
    ("REGISTRY.example.com/a", True),
    ("Registry/a", True),
    ("example.com/Upper", False),
    ("a//b", False),
    ("0a" * 32, False),
    ("a:b:c", False),
]


@pytest.mark.parametrize(("image", "expected"), IMAGES)
def test_is_latest(image: str, expected: bool) -> None:
    assert is_latest(image) is expected
