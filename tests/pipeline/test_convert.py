"""From the API to static manifests: what is written decides as the API objects did, and what cannot be said is left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from replay.cli.app import app
from replay.errors import ReplayError
from replay.pipeline.convert import ConvertOptions, convert_set
from replay.pipeline.options import Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from tests.support.log_lines import event

GROUP = "admissionregistration.k8s.io/v1"
RULES = '{resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}'
PARAM = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: limits, namespace: kube-system, resourceVersion: "7", labels: {a: b}}
data: {max: "2", text: "a \\"b\\" é\\n"}
"""
LIMITS = "{name: limits, namespace: kube-system, parameterNotFoundAction: Deny}"


def policy(body: str, name: str = "p", kind: str = "Validating") -> str:
    head = f"apiVersion: {GROUP}\nkind: {kind}AdmissionPolicy\nmetadata: {{name: {name}, annotations: {{a: b}}}}\n"
    return f"{head}spec:\n  matchConstraints: {RULES}\n{body.rstrip()}\n"


def binding(ref: str = "", name: str = "b", policy_name: str = "p", kind: str = "Validating") -> str:
    actions = ", validationActions: [Deny]" if kind == "Validating" else ""
    param = f", paramRef: {ref}" if ref else ""
    head = f"apiVersion: {GROUP}\nkind: {kind}AdmissionPolicyBinding\nmetadata: {{name: {name}}}\n"
    return f"{head}spec: {{policyName: {policy_name}{actions}{param}}}\n"


def webhook(client: str) -> str:
    head = f"apiVersion: {GROUP}\nkind: ValidatingWebhookConfiguration\nmetadata: {{name: c}}\nwebhooks:\n"
    rules = '[{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]'
    common = f"admissionReviewVersions: [v1], sideEffects: None, failurePolicy: Ignore, rules: {rules}"
    return f"{head}- {{name: a.example.com, clientConfig: {client}, {common}}}\n"


PARAM_KIND = "  paramKind: {apiVersion: v1, kind: ConfigMap}\n"
READS_PARAMS = (
    PARAM_KIND
    + "  matchConditions: [{name: c, expression: \"params.data.max != ''\"}]\n"
    + '  variables: [{name: max, expression: "int(params.data.max)"}]\n'
    + '  validations: [{expression: "size(object.metadata.name) <= variables.max"},\n'
    + "    {expression: \"params.data.text.contains('é')\", messageExpression: \"'not ' + params.metadata.name\"}]\n"
)
NOT_SUPPORTED = "spec.paramRef is not supported for static manifests, and "
ROWS: list[tuple[str, list[str], dict[str, str], list[str], list[str]]] = [
    (
        "a policy and its bindings are one file",
        [policy('  validations: [{expression: "true"}]'), binding(), binding(name="other")],
        {},
        ["vap/p.yaml: p b other"],
        [],
    ),
    (
        "a mutating policy",
        [
            policy(
                "  reinvocationPolicy: Never\n"
                "  mutations: [{patchType: JSONPatch, jsonPatch: {expression: \"[JSONPatch{op: 'test', path: '/kind', value: 'Pod'}]\"}}]\n",
                kind="Mutating",
            ),
            binding(kind="Mutating"),
        ],
        {},
        ["map/p.yaml: p b"],
        [],
    ),
    ("parameters that are constant", [policy(READS_PARAMS), binding(LIMITS), PARAM], {}, ["vap/p.yaml: p b"], []),
    (
        "a policy for each binding with parameters",
        [policy(READS_PARAMS), binding(LIMITS), binding(LIMITS, name="other"), PARAM],
        {},
        ["vap/p.yaml: p-b b p-other other"],
        [],
    ),
    (
        "a parameter that is not known",
        [policy(READS_PARAMS), binding(LIMITS)],
        {},
        [],
        [f"b: {NOT_SUPPORTED}ConfigMap kube-system/limits is not known as one object"],
    ),
    (
        "a parameter of each namespace",
        [policy(READS_PARAMS), binding("{name: limits, parameterNotFoundAction: Deny}"), PARAM],
        {},
        [],
        [f"b: {NOT_SUPPORTED}ConfigMap limits is not known as one object"],
    ),
    (
        "a selector of parameters",
        [policy(READS_PARAMS), binding("{selector: {}, parameterNotFoundAction: Deny}"), PARAM],
        {},
        [],
        [f"b: {NOT_SUPPORTED}a selector may mean any number of objects"],
    ),
    ("a binding alone", [binding()], {}, [], ["b: its policy `p` is not here"]),
    (
        "a webhook with a Service",
        [webhook("{service: {namespace: hooks, name: s}}")],
        {},
        [],
        ["c: clientConfig.service is not supported for static manifests (`a.example.com`)"],
    ),
    (
        "a webhook whose address is given",
        [webhook("{service: {namespace: hooks, name: s}}")],
        {"a.example.com": "https://10.0.0.1/"},
        ["vwc/c.yaml: c"],
        [],
    ),
    ("a webhook with a URL", [webhook('{url: "https://10.0.0.1/"}')], {}, ["vwc/c.yaml: c"], []),
]


def written(tmp_path: Path, documents: list[str]) -> Path:
    (tmp_path / "api.yaml").write_text("---\n".join(documents))
    return tmp_path / "api.yaml"


@pytest.mark.parametrize(
    ("documents", "urls", "files", "left"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_what_is_written_and_what_is_left(
    documents: list[str], urls: dict[str, str], files: list[str], left: list[str], tmp_path: Path
) -> None:
    out = tmp_path / "static"
    converted = convert_set(written(tmp_path, documents), out, ConvertOptions(urls=urls))
    shown = [
        f"{path.relative_to(out)}: {' '.join(each['metadata']['name'].removesuffix('.static.k8s.io') for each in file.objects)}"
        for path, file in zip(converted.paths, converted.conversion.files, strict=True)
    ]
    told = [f"{each.object.name}: {each.problem}" for each in converted.conversion.not_converted]
    assert (shown, told) == (files, left)


def test_the_configuration_names_a_directory_for_each_plugin(tmp_path: Path) -> None:
    documents = [policy('  validations: [{expression: "true"}]'), binding(), webhook('{url: "https://10.0.0.1/"}')]
    options = ConvertOptions(server_directory="/srv/admission/")
    converted = convert_set(written(tmp_path, documents), tmp_path / "static", options)
    assert converted.configuration is not None
    configuration = yaml.safe_load(converted.configuration.read_text())
    assert [
        (each["name"], each["configuration"]["kind"], each["configuration"]["staticManifestsDir"])
        for each in configuration["plugins"]
    ] == [
        ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyConfiguration", "/srv/admission/vap"),
        ("ValidatingAdmissionWebhook", "WebhookAdmissionConfiguration", "/srv/admission/vwc"),
    ]


def pod(number: int, name: str) -> bytes:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "n"}, "spec": {}}
    return event(number, requestObject=body, responseObject=body)


@pytest.mark.parametrize(
    "validation",
    [
        '{expression: "size(object.metadata.name) <= int(params.data.max)"}',
        "{expression: \"object.metadata.name.startsWith('a')\", messageExpression: \"params.metadata.labels['a'] + params.data.text.trim()\"}",
        "{expression: \"has(params.data.max) && !has(params.data.none) && params != null && object.metadata.name != 'bbb'\"}",
        "{expression: \"params.data.all(key, key != object.metadata.name) && params.data.?none.orValue('') == '' && false\"}",
    ],
)
def test_written_parameters_decide_as_the_object(validation: str, tmp_path: Path) -> None:
    source = written(tmp_path, [policy(f"{PARAM_KIND}  validations: [{validation}]\n"), binding(LIMITS), PARAM])
    (tmp_path / "now" / "api").mkdir(parents=True)
    (tmp_path / "now" / "api" / "p.yaml").write_text("---\n".join(source.read_text().split("---\n")[:2]))
    (tmp_path / "cluster.jsonl").write_text(json.dumps(yaml.safe_load(PARAM)))
    convert_set(source, tmp_path / "static", ConvertOptions())
    (tmp_path / "audit.jsonl").write_bytes(b"\n".join([pod(1, "a"), pod(2, "bbb")]))
    scenario = Scenario(
        (str(tmp_path / "audit.jsonl"),),
        current=tmp_path / "now",
        candidate=tmp_path / "static",
        cluster=tmp_path / "cluster.jsonl",
    )
    run(scenario, Options(workers=1, outcomes=tmp_path / "outcomes.jsonl"), lambda *_: None)
    lines = [json.loads(line) for line in (tmp_path / "outcomes.jsonl").read_text().splitlines()]
    messages = [
        [[denial["message"].replace(".static.k8s.io", "") for denial in line[side]["denials"]] for line in lines]
        for side in ("current", "candidate")
    ]
    assert messages[0] == messages[1]
    assert any(messages[0])


REFUSED = [
    ("an older server", {"kubernetes-version": "1.35"}, "Kubernetes 1.35 reads no static manifests"),
    ("a relative path", {"server-directory": "manifests"}, "--server-directory: the server takes an absolute path"),
    ("a webhook that there is not", {"url": "x=https://a/"}, "--url: no webhook `x`; there are: none"),
    ("no URL", {"url": "x"}, "--url: `x` is not NAME=URL"),
]


@pytest.mark.parametrize(("options", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_is_refused(options: dict[str, str], message: str, tmp_path: Path) -> None:
    source = written(tmp_path, [policy('  validations: [{expression: "true"}]'), binding()])
    arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
    result = CliRunner().invoke(app, ["convert", str(source), "--out", str(tmp_path / "static"), *arguments])
    assert (result.exit_code != 0, str(result.exception).startswith(message)) == (True, True)


def test_a_directory_with_manifests_is_not_written_to(tmp_path: Path) -> None:
    source = written(tmp_path, [policy('  validations: [{expression: "true"}]'), binding()])
    convert_set(source, tmp_path / "static", ConvertOptions())
    with pytest.raises(ReplayError, match="holds manifests already"):
        convert_set(source, tmp_path / "static", ConvertOptions())


def test_what_the_api_refuses_is_not_converted(tmp_path: Path) -> None:
    source = written(tmp_path, [policy('  validations: [{expression: "1 +"}]'), binding()])
    with pytest.raises(ReplayError, match=r"api.yaml:6:.*spec.validations\[0\].expression: Invalid value"):
        convert_set(source, tmp_path / "static", ConvertOptions())


def test_the_command_says_what_is_left(tmp_path: Path) -> None:
    source = written(tmp_path, [webhook("{service: {namespace: hooks, name: s}}")])
    result = CliRunner().invoke(app, ["convert", str(source), "--out", str(tmp_path / "static")])
    line = result.output.splitlines()[0]
    assert (result.exit_code, line.startswith(f"{source}:1: ValidatingWebhookConfiguration/c: ")) == (1, True)
    assert "--url NAME=https://" in line


def test_the_objects_of_a_snapshot(tmp_path: Path) -> None:
    """What the server wrote into them is left out."""
    documents = [policy(READS_PARAMS), binding(LIMITS), PARAM]
    values = [yaml.safe_load(document) for document in documents]
    for value in values:
        value["metadata"].update(uid="u", resourceVersion="5", managedFields=[{"manager": "m"}])
    values[0]["status"] = {"observedGeneration": 1}
    (tmp_path / "cluster.jsonl").write_text("\n".join(map(json.dumps, values)))
    converted = convert_set(tmp_path / "cluster.jsonl", tmp_path / "static", ConvertOptions())
    (file,) = converted.conversion.files
    shown = [(each["metadata"], set(each) - {"apiVersion", "kind", "metadata"}) for each in file.objects]
    assert shown == [
        ({"name": "p.static.k8s.io", "annotations": {"a": "b"}}, {"spec"}),
        ({"name": "b.static.k8s.io"}, {"spec"}),
    ]


def test_a_snapshot_without_policies(tmp_path: Path) -> None:
    path = tmp_path / "cluster.jsonl"
    path.write_text('{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}\n')
    with pytest.raises(ReplayError, match="holds no policy, binding or webhook configuration"):
        convert_set(path, tmp_path / "static", ConvertOptions())


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "", "A", "-a", "a\\b", "x" * 250])
def test_a_name_is_no_path(name: str, tmp_path: Path) -> None:
    """A snapshot is anybody's file."""
    values = [yaml.safe_load(document) for document in (policy("  validations: [{expression: 'true'}]"), binding())]
    values[0]["metadata"]["name"] = values[1]["spec"]["policyName"] = name
    (tmp_path / "cluster.jsonl").write_text("\n".join(map(json.dumps, values)))
    try:
        converted = convert_set(tmp_path / "cluster.jsonl", tmp_path / "out" / "static", ConvertOptions())
    except ReplayError:
        pass
    else:
        assert (converted.paths, len(converted.conversion.not_converted)) == ((), 2)
    assert not (tmp_path / "out").exists()
