"""What tells that a decision is the same for every name of an object."""

from __future__ import annotations

import pytest

from replay.cellib.authorization import compile_condition
from replay.cellib.version import KubernetesVersion


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("request.user == 'ann'", False, id="user"),
        pytest.param("has(request.resourceAttributes)", False, id="presence of the attributes"),
        pytest.param("request.resourceAttributes.namespace == 'a'", False, id="another attribute"),
        pytest.param("request.resourceAttributes.name == 'a'", True, id="name"),
        pytest.param("has(request.resourceAttributes.name)", True, id="presence of the name"),
        pytest.param("request.?resourceAttributes.?name.orValue('') == 'a'", True, id="optional name"),
        pytest.param("[request.resourceAttributes].exists(a, a.name == 'a')", True, id="through a variable"),
        pytest.param("[request].exists(r, r.resourceAttributes.name == 'a')", True, id="the request in a list"),
        pytest.param("request == request", True, id="the request as a whole"),
    ],
)
def test_condition_reads_name(expression: str, *, expected: bool) -> None:
    reads = compile_condition(KubernetesVersion(1, 37), expression).reads
    assert ("resourceAttributes.name" in reads) is expected
