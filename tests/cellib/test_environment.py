from __future__ import annotations

import pytest

from replay.cel.ast.issues import Issues
from replay.cel.value.types import INT, Type
from replay.cellib.environment import ExpressionKind, admission_env
from replay.cellib.version import NEWEST, NEWEST_MINOR, OLDEST_MINOR, KubernetesVersion
from replay.errors import ReplayError

SINCE = [
    ("'a'.find('a')", 30),
    ("url('/a').getHost()", 30),
    ("[1].sum()", 30),
    ("optional.of(1).value()", 30),
    ("sign(quantity('1'))", 30),
    ("strings.quote('a')", 30),
    ("sets.contains([1], [1])", 30),
    ("cidr('::/0').containsIP(ip('::1'))", 30),
    ("authorizer.path('/a').check('get').allowed()", 30),
    ("format.dns1123Label().validate('a')", 31),
    ("authorizer.group('').resource('pods').labelSelector('a').check('get').allowed()", 31),
    ("[1].all(i, v, i < v)", 32),
    ("{'a': 1}.transformMap(k, v, v)", 32),
    ("semver('1.0', true).major()", 33),
    ("lists.range(3)", 34),
    ("[2, 1].sort()", 34),
    ("[1].includes(1)", 37),
    ("cel.bind(x, 1, x)", 99),
    ("math.greatest(1, 2)", 99),
    ("base64.encode(b'a')", 99),
    ("'ab'.reverse()", 99),
    ("jsonpatch.escapeKey('a')", 99),
]


@pytest.mark.parametrize(("expression", "since"), SINCE)
def test_library_since(expression: str, since: int) -> None:
    accepted = [
        minor
        for minor in range(OLDEST_MINOR, NEWEST_MINOR + 1)
        if compiles(expression, ExpressionKind.VARIABLE, minor=minor)
    ]
    assert accepted == list(range(since, NEWEST_MINOR + 1))


def compiles(
    expression: str,
    kind: ExpressionKind,
    *,
    minor: int = NEWEST_MINOR,
    has_params: bool = False,
    variables: dict[str, Type] | None = None,
) -> bool:
    env = admission_env(KubernetesVersion(1, minor), kind, has_params=has_params, variables=variables or {})
    return not isinstance(env.compile(expression), Issues)


MUTATION = {ExpressionKind.APPLY_CONFIGURATION, ExpressionKind.JSON_PATCH, ExpressionKind.MUTATION_EXPRESSION}


@pytest.mark.parametrize(
    ("expression", "kinds"),
    [
        ("object.anything", set(ExpressionKind)),
        ("request.userInfo.username", set(ExpressionKind)),
        ("request.uid", set()),
        ("request.object", set()),
        ("namespaceObject.metadata.UID", set(ExpressionKind)),
        ("namespaceObject.metadata.managedFields", set()),
        ("authorizer.requestResource", set(ExpressionKind) - {ExpressionKind.MESSAGE_EXPRESSION}),
        ("Object{spec: Object.spec{anything: 1}}", MUTATION),
        ("JSONPatch{op: 'add', path: jsonpatch.escapeKey('/'), value: 1}", MUTATION),
        ("params", set()),
        ("variables.nope", set()),
    ],
)
def test_what_a_kind_sees(expression: str, kinds: set[ExpressionKind]) -> None:
    assert {kind for kind in ExpressionKind if compiles(expression, kind)} == kinds


def test_params_and_variables_are_declared_on_demand() -> None:
    kind = ExpressionKind.VALIDATION
    assert compiles("params.a", kind, has_params=True)
    assert compiles("variables.a + 1", kind, variables={"a": INT})
    assert not compiles("variables.a + 'x'", kind, variables={"a": INT})


def test_equal_environments_are_one() -> None:
    first, second = (
        admission_env(KubernetesVersion(1, 36), kind, has_params=True, variables={"a": INT})
        for kind in (ExpressionKind.VALIDATION, ExpressionKind.MATCH_CONDITION)
    )
    assert first is second


@pytest.mark.parametrize(
    ("text", "minor"), [("1.30", 30), ("v1.33", 33), ("1.37.1", 37), ("v1.35.0-rc.1", 35), ("1.31+", 31)]
)
def test_parse(text: str, minor: int) -> None:
    assert KubernetesVersion.parse(text) == KubernetesVersion(1, minor)


@pytest.mark.parametrize("text", ["", "1", "1.29", "1.38", "2.30", "1.x", "1.30x", "1.99999999999"])
def test_unknown(text: str) -> None:
    with pytest.raises(ReplayError, match=r"known are 1\.30 to 1\.37"):
        KubernetesVersion.parse(text)


def test_previous_and_text() -> None:
    assert (str(NEWEST), str(NEWEST.previous)) == ("1.37", "1.36")
