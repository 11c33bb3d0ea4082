from __future__ import annotations

import random

import pytest

from replay.go.sort import go_sorted


@pytest.mark.parametrize("size", [0, 1, 12, 13, 49, 50, 200, 1000])
@pytest.mark.parametrize("pattern", ["ascending", "descending", "shuffled", "few values", "mountain", "saw"])
def test_sorts(size: int, pattern: str) -> None:
    shuffled = list(range(size))
    random.Random(size).shuffle(shuffled)
    values = {
        "ascending": list(range(size)),
        "descending": list(range(size, 0, -1)),
        "shuffled": shuffled,
        "few values": [value % 5 for value in shuffled],
        "mountain": [min(index, size - index) for index in range(size)],
        "saw": [index % 17 for index in range(size)],
    }[pattern]
    order = go_sorted(size, lambda i, j: values[i] < values[j])
    assert sorted(order) == list(range(size))
    assert [values[index] for index in order] == sorted(values)


def test_a_bad_order_ends() -> None:
    assert sorted(go_sorted(500, lambda i, j: (i * 7 + j * 13) % 3 == 0)) == list(range(500))
