"""The command line of a kube-apiserver: each row is what the real command says of the words."""

from __future__ import annotations

import pytest

from replay.cellib.version import NEWEST, KubernetesVersion
from replay.manifests.server.flags import FlagError, known_flags, parse_flags

SECONDS = "--default-not-ready-toleration-seconds"


def invalid(value: str, flag: str, cause: str) -> str:
    return f'invalid argument "{value}" for "{flag}" flag: {cause}'


REFUSED = [
    ("--foo=1", "unknown flag: --foo"),
    ("--enable_admission_pluginz=x", "unknown flag: --enable_admission_pluginz"),
    ("--log-json-split-stream", "unknown flag: --log-json-split-stream"),
    ("--cloud-provider=aws", "unknown flag: --cloud-provider"),
    ("--v=abc", invalid("abc", "-v, --v", 'strconv.ParseUint: parsing "abc": invalid syntax')),
    ("-vx", invalid("x", "-v, --v", 'strconv.ParseUint: parsing "x": invalid syntax')),
    ("-v", "flag needs an argument: 'v' in -v"),
    ("-x", "unknown shorthand flag: 'x' in -x"),
    ("-hx", "unknown shorthand flag: 'x' in -x"),
    (f"{SECONDS}=x", invalid("x", SECONDS, 'strconv.ParseInt: parsing "x": invalid syntax')),
    (f"{SECONDS}=", invalid("", SECONDS, 'strconv.ParseInt: parsing "": invalid syntax')),
    (f"{SECONDS}=08", invalid("08", SECONDS, 'strconv.ParseInt: parsing "08": invalid syntax')),
    (f"{SECONDS}=1.5", invalid("1.5", SECONDS, 'strconv.ParseInt: parsing "1.5": invalid syntax')),
    (
        f"{SECONDS}=99999999999999999999",
        invalid(
            "99999999999999999999", SECONDS, 'strconv.ParseInt: parsing "99999999999999999999": value out of range'
        ),
    ),
    ("--anonymous-auth=yes", invalid("yes", "--anonymous-auth", 'strconv.ParseBool: parsing "yes": invalid syntax')),
    ("--kubelet-port=-5", invalid("-5", "--kubelet-port", 'strconv.ParseUint: parsing "-5": invalid syntax')),
    ("--=3", "bad flag syntax: --=3"),
    ("---x", "bad flag syntax: ---x"),
    ("--etcd-servers", "flag needs an argument: --etcd-servers"),
    ("extra --v=2", '"kube-apiserver" does not take any arguments, got ["extra"]'),
    ("--allow-privileged false", '"kube-apiserver" does not take any arguments, got ["false"]'),
    (
        '--enable-admission-plugins="a',
        invalid(
            '\\"a',
            "--enable-admission-plugins",
            'parse error on line 1, column 3: extraneous or missing " in quoted-field',
        ),
    ),
    (
        '--enable-admission-plugins=a"b',
        invalid('a\\"b', "--enable-admission-plugins", 'parse error on line 1, column 2: bare " in non-quoted-field'),
    ),
]


@pytest.mark.parametrize(("words", "message"), REFUSED, ids=[row[0] for row in REFUSED])
def test_words_that_the_server_refuses(words: str, message: str) -> None:
    with pytest.raises(FlagError) as refused:
        parse_flags(words.split(), NEWEST)
    assert str(refused.value) == message


TAKEN = [
    ("-v 2 --v 3 --vmodule a=1", {"v": "3", "vmodule": "a=1"}),
    (f"{SECONDS}=0x3c", {SECONDS[2:]: "60"}),
    (f"{SECONDS}=-010", {SECONDS[2:]: "-8"}),
    ("--max-requests-inflight=1_0", {"max-requests-inflight": "10"}),
    ("--anonymous-auth --allow_privileged=true", {"anonymous-auth": "true", "allow-privileged": "true"}),
    ("--etcd-servers --v=2", {"etcd-servers": "--v=2"}),
    ("--etcd-servers=a --etcd-servers=b", {"etcd-servers": "a,b"}),
    ("--audit-policy-file=a --audit-policy-file=b", {"audit-policy-file": "b"}),
    ("--feature-gates=A=true --feature-gates=B=false", {"feature-gates": "A=true,B=false"}),
    ("--version --", {"version": "true"}),
    ("-h", {"help": "true"}),
]


@pytest.mark.parametrize(("words", "values"), TAKEN, ids=[row[0] for row in TAKEN])
def test_words_that_the_server_takes(words: str, values: dict[str, str]) -> None:
    assert parse_flags(words.split(), NEWEST) == values


def test_minors_have_flags_of_their_own() -> None:
    oldest, newest = known_flags(KubernetesVersion(1, 30)).keys(), known_flags(NEWEST).keys()
    assert len(newest) == 175
    assert sorted(oldest - newest) == [
        "cloud-config",
        "cloud-provider",
        "cloud-provider-gce-l7lb-src-cidrs",
        "cloud-provider-gce-lb-src-cidrs",
    ]
    assert len(newest - oldest) == 12
