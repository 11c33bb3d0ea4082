"""`replay run --apply`: a bundle on top of what is there, from files, folders or standard input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from replay.cli.app import app
from replay.manifests import bundle_source
from tests.support.short_sample import make_scenario

BUNDLE = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: operator, namespace: system}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: small}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]
  validations: [{expression: "object.spec.replicas <= 1", message: one is enough}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: small}
spec: {policyName: small, validationActions: [Deny]}
---
apiVersion: v1
kind: Service
metadata: {name: operator, namespace: system}
"""
LEFT = "skipped in the bundle, because no request of the log depends on them: 1 Deployment, 1 Service"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    path = tmp_path / "bundle.yaml"
    path.write_text(BUNDLE, "utf-8")
    return path


def summary(sample: Path, *arguments: str, given: str | None = None) -> dict[str, Any]:
    bundle_source.standard_input.cache_clear()
    result = CliRunner().invoke(app, ["run", str(sample), *arguments, "--workers", "1", "--json"], input=given)
    assert isinstance(result.exception, SystemExit | None), result.exception
    found: dict[str, Any] = json.loads(result.output)
    return found


def test_from_everywhere_alike(short_sample: Path, bundle: Path, tmp_path: Path) -> None:
    folder = tmp_path / "git"
    for number, document in enumerate(BUNDLE.split("---\n")):
        path = folder / str(number) / "object.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(document, "utf-8")
    found = [
        summary(short_sample, "--apply", str(bundle)),
        summary(short_sample, "--apply", "-", given=BUNDLE),
        summary(short_sample, "--apply", str(folder)),
    ]
    assert [each["outcomes"] for each in found] == [found[0]["outcomes"]] * 3
    assert found[0]["outcomes"]["newly_denied"] > 0


PARAMETERS = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: limits.example.org}
spec:
  group: example.org
  scope: Cluster
  names: {plural: limits, kind: Limit}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
---
apiVersion: example.org/v1
kind: Limit
metadata: {name: one}
most: 1
---
"""
OF_PARAMETERS = {
    "with its definition": (PARAMETERS, "one is enough"),
    "without its definition": (PARAMETERS.partition("---\n")[2], "failed to configure policy"),
}


@pytest.mark.parametrize("name", OF_PARAMETERS)
def test_a_parameter_in_the_bundle(name: str, short_sample: Path, bundle: Path) -> None:
    parameters, message = OF_PARAMETERS[name]
    text = BUNDLE.replace("<= 1", "<= params.most").replace(
        "spec:\n", "spec:\n  paramKind: {apiVersion: example.org/v1, kind: Limit}\n"
    )
    reference = "paramRef: {name: one, parameterNotFoundAction: Deny}, validationActions"
    bundle.write_text(parameters + text.replace("validationActions", reference), "utf-8")
    arguments = ["run", str(short_sample), "--apply", str(bundle), "--workers", "1", "--full"]
    assert message in " ".join(CliRunner().invoke(app, arguments, env={"COLUMNS": "300"}).output.split())


WIDGETS = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: VERSION
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true, MORE}}}}
"""
DEFINED = {
    "as it was": ("v1", "properties: {size: {type: integer}}", None),
    "with a limit": (
        "v1",
        "properties: {size: {type: integer, maximum: 0}}",
        "in body should be less than or equal to 0",
    ),
    "with a rule": (
        "v1",
        "x-kubernetes-validations: [{rule: 'self.size < 1', message: too large}]",
        "spec: Invalid value: too large",
    ),
    "without the version": ("v2", "properties: {}", "the server could not find the requested resource"),
}


@pytest.fixture(scope="session")
def widgets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scenario with the requests of the sample to a custom kind."""
    directory = make_scenario(tmp_path_factory.mktemp("widgets") / "sample", 10_000)
    log = directory / "audit.jsonl"
    lines = [line for line in log.read_text("utf-8").splitlines(keepends=True) if '"widgets"' in line]
    log.write_text("".join(lines), "utf-8")
    return directory


@pytest.mark.parametrize("name", DEFINED)
def test_a_definition_in_the_bundle(name: str, widgets: Path, bundle: Path) -> None:
    version, more, message = DEFINED[name]
    bundle.write_text(WIDGETS.replace("VERSION", version).replace("MORE", more), "utf-8")
    arguments = ["run", str(widgets), "--apply", str(bundle), "--workers", "1", "--full"]
    told = " ".join(CliRunner().invoke(app, arguments, env={"COLUMNS": "300"}).output.split())
    assert ("would be denied directly" in told, message is None or message in told) == (message is not None, True)


def test_what_decides_nothing_is_counted(short_sample: Path, bundle: Path) -> None:
    arguments = ["run", str(short_sample), "--apply", str(bundle), "--workers", "1"]
    assert LEFT in " ".join(CliRunner().invoke(app, arguments, env={"COLUMNS": "300"}).output.split())


def test_a_priority_class_that_no_pod_names_leaves_pods_known(short_sample: Path, tmp_path: Path) -> None:
    path = tmp_path / "class.yaml"
    path.write_text(
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: storage-critical}\nvalue: 1000\n",
        "utf-8",
    )
    without, found = (
        summary(short_sample, "--candidate", str(short_sample / "current")),
        summary(short_sample, "--apply", str(path)),
    )
    assert found["roots"].get("undetermined", 0) == without["roots"].get("undetermined", 0)


def test_what_the_bundle_no_longer_has_is_taken_away(short_sample: Path, bundle: Path, tmp_path: Path) -> None:
    kinds = [each for each in yaml.safe_load_all(BUNDLE) if "admission" in each["apiVersion"]]
    for each in kinds:
        each["metadata"]["labels"] = {"app": "guard"}
    cluster = tmp_path / "cluster.jsonl"
    cluster.write_text("".join(f"{json.dumps(each)}\n" for each in kinds), "utf-8")
    bundle.write_text("apiVersion: v1\nkind: Service\nmetadata: {name: s}\n", "utf-8")
    arguments = ("--cluster", str(cluster), "--apply", str(bundle))
    log = next(short_sample.glob("audit.*"))
    kept, taken = summary(log, *arguments), summary(log, *arguments, "--prune", "app=guard")
    assert kept["outcomes"].get("newly_admitted", 0) == 0
    assert taken["outcomes"]["newly_admitted"] > 0


def test_pruning_needs_a_bundle(short_sample: Path) -> None:
    result = CliRunner().invoke(app, ["run", str(short_sample), "--prune", "app=guard"])
    assert "--prune takes away what a bundle does not have: give the bundle with --apply" in str(result.exception)


REFUSED = {
    "two readers of standard input": (["-", "--apply", "-"], "standard input holds the log or a bundle, not both"),
    "cases of standard input": (
        ["SAMPLE", "--apply", "-", "--save-cases", "cases"],
        "a case names the files of its policies: write the bundle into a file",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_standard_input_is_read_once(name: str, short_sample: Path) -> None:
    arguments, message = REFUSED[name]
    words = [str(short_sample) if each == "SAMPLE" else each for each in arguments]
    assert message in str(CliRunner().invoke(app, ["run", *words], input="").exception)


def test_a_case_of_a_bundle_is_tested(short_sample: Path, bundle: Path, tmp_path: Path) -> None:
    saved = tmp_path / "cases"
    summary(short_sample, "--apply", str(bundle), "--save-cases", str(saved))
    tested = CliRunner().invoke(app, ["test", str(saved)])
    assert (tested.exit_code, "1 passed" in tested.output) == (0, True)


def test_either_on_top_or_instead(short_sample: Path, bundle: Path) -> None:
    result = CliRunner().invoke(app, ["run", str(short_sample), "--candidate", str(bundle), "--apply", str(bundle)])
    assert "--apply puts a bundle on top of the baseline, and --candidate is another one" in str(result.exception)
