from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from replay.cli.check import check
from replay.cli.diff import diff
from replay.errors import ManifestError

GOOD = """apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: p.static.k8s.io
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}
  validations:
  - expression: object.metadata.name != 'x'
"""
UNBOUND = "no binding names this policy"
BAD = GOOD.replace("CREATE", "create")
REASON = 'spec.matchConstraints.resourceRules[0].operations[0]: Unsupported value: "create": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"'


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    (tmp_path / "set" / "vap").mkdir(parents=True)
    return tmp_path / "set"


def run(*arguments: str | Path) -> Result:
    app = typer.Typer()
    app.command("check")(check)
    app.command("diff")(diff)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def write(manifests: Path, text: str) -> Path:
    file = manifests / "vap" / "a.yaml"
    file.write_text(text)
    return file


def test_text(manifests: Path) -> None:
    file = write(manifests, BAD)
    result = run("check", manifests)
    subject = "ValidatingAdmissionPolicy/p.static.k8s.io"
    assert result.output == (
        f"{file}:8:57: error: {subject}: {REASON} [server] (the server stops here)\n"
        f"{manifests}: refused, 1 error, 0 warnings; the server prints:\n"
        f'    error loading {file}: ValidatingAdmissionPolicy "p.static.k8s.io": {REASON}\n'
    )
    assert result.exit_code == 2


def test_warnings_do_not_fail(manifests: Path) -> None:
    file = write(manifests, GOOD)
    result = run("check", manifests)
    assert result.output.splitlines()[0] == (
        f"{file}:4:9: warning: ValidatingAdmissionPolicy/p.static.k8s.io: {UNBOUND} [policy-without-binding]"
    )
    assert result.output.splitlines()[-1] == f"{manifests}: accepted, 0 errors, 1 warning"
    assert result.exit_code == 0
    silenced = run("check", manifests, "--silence", "policy-without-binding")
    assert silenced.output.splitlines()[-1] == f"{manifests}: accepted, 0 errors, 0 warnings, 1 silenced"


def test_json_of_one_plugin(manifests: Path) -> None:
    write(manifests, BAD)
    result = run("check", manifests / "vap", "--plugin", "ValidatingAdmissionPolicy", "--format", "json")
    answered = json.loads(result.output)
    assert (answered["ok"], answered["hash"], answered["objects"]) == (False, None, [])
    assert answered["error"] == f'error loading DIR/a.yaml: ValidatingAdmissionPolicy "p.static.k8s.io": {REASON}'
    assert [(each["line"], each["column"], each["first"]) for each in answered["findings"]] == [(8, 57, True)]
    write(manifests, GOOD)
    answered = json.loads(
        run("check", manifests / "vap", "--plugin", "ValidatingAdmissionPolicy", "--format", "json").output
    )
    assert (answered["ok"], answered["error"]) == (True, None)
    assert [(each["kind"], each["name"]) for each in answered["objects"]] == [
        ("ValidatingAdmissionPolicy", "p.static.k8s.io")
    ]
    assert answered["objects"][0]["defaulted"]["spec"]["failurePolicy"] == "Fail"


def test_several_sets(manifests: Path) -> None:
    write(manifests, GOOD)
    answered = json.loads(run("check", manifests, manifests, "--format", "json").output)
    assert (answered["ok"], len(answered["sets"])) == (True, 2)


def test_github(manifests: Path) -> None:
    file = write(manifests, BAD)
    line, *_ = run("check", manifests, "--format", "github").output.splitlines()
    message = REASON.replace("%", "%25")
    assert (
        line
        == f"::error file={file},line=8,col=57,title=replay check%3A server::ValidatingAdmissionPolicy/p.static.k8s.io: {message}"
    )


def test_sarif(manifests: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(manifests, GOOD)
    monkeypatch.chdir(manifests)
    log = json.loads(run("check", manifests, "--format", "sarif").output)
    [result] = log["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("policy-without-binding", "warning")
    region = {"startLine": 4, "startColumn": 9}
    place = {"artifactLocation": {"uri": str(file.relative_to(manifests))}, "region": region}
    assert [each["physicalLocation"] for each in result["locations"]] == [place]
    assert [rule["id"] for rule in log["runs"][0]["tool"]["driver"]["rules"]] == ["policy-without-binding"]


def test_hash_and_drift(manifests: Path, tmp_path: Path) -> None:
    write(manifests, GOOD)
    printed = run("check", manifests / "vap", "--plugin", "ValidatingAdmissionPolicy", "--hash").output
    assert printed.startswith("sha256:")
    assert len(printed) == len("sha256:\n") + 64
    other = tmp_path / "other"
    (other / "vap").mkdir(parents=True)
    write(other, GOOD)
    assert run("check", "--drift", manifests, other).exit_code == 0
    write(other, BAD)
    result = run("check", "--drift", manifests, other)
    assert (result.exit_code, len(result.output.splitlines())) == (1, 2)


def test_diff(manifests: Path, tmp_path: Path) -> None:
    write(manifests, GOOD)
    other = tmp_path / "other"
    (other / "vap").mkdir(parents=True)
    write(other, GOOD.replace("pods", "secrets"))
    assert run("diff", manifests, manifests).output == "the sets do not differ\n"
    result = run("diff", manifests, other, "--format", "json")
    [changed] = json.loads(result.output)
    assert (changed["name"], changed["change"], result.exit_code) == ("p.static.k8s.io", "changed", 1)


@pytest.mark.parametrize("command", ["check", "diff"])
def test_help_says_what_it_is_for(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert "?" in result.output


NAMED = GOOD.replace("p.static.k8s.io", "p")
FILES = [
    (
        "a static policy",
        GOOD,
        [
            "FILE:4:9: warning: ValidatingAdmissionPolicy/p.static.k8s.io: no binding names this policy [policy-without-binding]",
            "FILE: `p.static.k8s.io` has no binding in this file, without which it decides nothing",
            "FILE: ValidatingAdmissionPolicy loads 1 ValidatingAdmissionPolicy, 0 ValidatingAdmissionPolicyBinding",
            "FILE: accepted, 0 errors, 1 warning",
        ],
    ),
    (
        "one for the API",
        NAMED.replace("k8s.io/v1", "k8s.io/v1beta1"),
        [
            "FILE:4:9: warning: ValidatingAdmissionPolicy/p: no binding names this policy [policy-without-binding]",
            "FILE: treated as policies of the API: `p` (the name of a static manifest ends with `.static.k8s.io`)",
            "FILE: `p` has no binding in this file, without which it decides nothing",
            "FILE: the API accepts 1 ValidatingAdmissionPolicy",
            "FILE: accepted, 0 errors, 1 warning",
        ],
    ),
    (
        "a kind that reads alike",
        NAMED.replace("AdmissionPolicy", "AdmisionPolicy"),
        [
            (
                'FILE:2:7: error: no kind "ValidatingAdmisionPolicy" is registered for version "admissionregistration.k8s.io/v1" in '
                'scheme "SCHEME" [server] (the server stops here)'
            ),
            "    fix: did you mean `ValidatingAdmissionPolicy`?",
            "FILE: treated as policies of the API: `p` (the name of a static manifest ends with `.static.k8s.io`)",
            "FILE: refused, 1 error, 0 warnings; the server prints:",
            '    no kind "ValidatingAdmisionPolicy" is registered for version "admissionregistration.k8s.io/v1" in scheme "SCHEME"',
        ],
    ),
]


@pytest.mark.parametrize(("text", "lines"), [row[1:] for row in FILES], ids=[row[0] for row in FILES])
def test_one_file_of_policies(text: str, lines: list[str], tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    assert run("check", file).output.replace(str(file), "FILE").splitlines() == lines


MENDED = [
    (
        GOOD.replace("k8s.io/v1", "k8s.io/v1beta1"),
        "static manifests are of admissionregistration.k8s.io/v1: write that as `apiVersion`",
    ),
    (
        "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {name: w.static.k8s.io}\n",
        "MutatingAdmissionWebhook reads it: keep it in `mwc/`",
    ),
    (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
        "a set holds policies, bindings and webhook configurations of ",
    ),
    (NAMED, "a static manifest needs such a name; what is created through the API stands in the set's `api/`"),
]


@pytest.mark.parametrize(("text", "fix"), MENDED)
def test_what_to_do_is_said(text: str, fix: str, manifests: Path) -> None:
    write(manifests, text)
    assert f"\n    fix: {fix}" in run("check", manifests).output


def test_flags_are_part_of_a_set(manifests: Path) -> None:
    (manifests / "kube-apiserver.flags").write_text("--enable-admission-plugins=NoSuch")
    result = run("check", manifests)
    assert isinstance(result.exception, ManifestError)
    assert result.exception.message == 'enable-admission-plugins plugin "NoSuch" is unknown'


def test_a_bad_configuration_of_a_plugin_is_an_error_of_the_set(manifests: Path) -> None:
    file = manifests / "admission.yaml"
    file.write_text(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: PodSecurity\n  configuration:\n"
        "    apiVersion: pod-security.admission.config.k8s.io/v1\n    kind: PodSecurityConfiguration\n    defaults: {enforce: strict}\n"
    )
    result = run("check", manifests)
    text = (
        'couldn\'t init admission plugin "PodSecurity": defaults.enforce: Invalid value: "strict": must be one of privileged, '
        "baseline, restricted"
    )
    assert result.output.splitlines()[:1] == [f"{file}: error: {text} [server] (the server stops here)"]
    assert result.exit_code == 2
