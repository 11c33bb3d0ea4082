"""What `deploy/serve` has: rules and panels ask for metrics that there are, and the manifests fit together."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from tests.serve.conftest import Site

DEPLOY = Path(__file__).parents[2] / "deploy" / "serve"
_METRIC = re.compile(r"\breplay_\w+")
LABELS = {"trial", "policy", "namespace", "owner"}


def served(site: Site) -> set[str]:
    """The names of the metrics."""
    return {line.split()[2] for line in site.get("/metrics").text.splitlines() if line.startswith("# TYPE")}


def test_alert_rules(site: Site) -> None:
    (group,) = yaml.safe_load((DEPLOY / "alerts.yaml").read_text("utf-8"))["groups"]
    for rule in group["rules"]:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}, rule
        names = set(_METRIC.findall(rule["expr"]))
        assert names, rule["alert"]
        assert names <= served(site), rule["alert"]
        assert set(re.findall(r"by \((\w+)\)", rule["expr"])) <= LABELS
        assert rule["labels"]["severity"] in ("info", "warning")
        assert rule["annotations"]["summary"].endswith(".")


def test_the_dashboard(site: Site) -> None:
    document = json.loads((DEPLOY / "dashboard.json").read_text("utf-8"))
    ids = [panel["id"] for panel in document["panels"]]
    asked = {
        name for panel in document["panels"] for target in panel["targets"] for name in _METRIC.findall(target["expr"])
    }
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in document["panels"]]
    assert asked
    assert asked <= served(site)
    assert (len(set(ids)), len(set(places))) == (len(ids), len(ids))


def documents(name: str) -> dict[str, list[Any]]:
    """The objects of a file by kind."""
    found: dict[str, list[Any]] = {}
    for document in yaml.safe_load_all((DEPLOY / name).read_text("utf-8")):
        found.setdefault(document["kind"], []).append(document)
    return found


def test_manifests_fit_together() -> None:
    found = documents("serve.yaml")
    (deployment,), (policy,), (claim,) = found["Deployment"], found["NetworkPolicy"], found["PersistentVolumeClaim"]
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    labels, ports = pod["metadata"]["labels"], {port["name"] for port in container["ports"]}
    assert all(service["spec"]["selector"].items() <= labels.items() for service in found["Service"])
    assert {port["targetPort"] for service in found["Service"] for port in service["spec"]["ports"]} == ports
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    assert {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]} == ports
    assert (policy["spec"]["policyTypes"], policy["spec"]["egress"]) == (["Ingress", "Egress"], [])
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    assert volumes["data"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    files = [value for _, _, value in (text.rpartition("=") for text in container["args"]) if value.startswith("/")]
    assert [file for file in files if not any(Path(file).is_relative_to(mount) for mount in mounts)] == []
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_kubeconfig_of_the_api_server_names_the_service() -> None:
    found = documents("serve.yaml")
    (config,) = documents("webhook-kubeconfig.yaml")["Config"]
    (service,) = [each for each in found["Service"] if each["metadata"]["name"] == "replay-audit"]
    (port,) = service["spec"]["ports"]
    (cluster,), (user,), (context,) = config["clusters"], config["users"], config["contexts"]
    assert cluster["cluster"]["server"] == f"https://{service['spec']['clusterIP']}:{port['port']}/audit"
    assert set(user["user"]) == {"client-certificate", "client-key"}
    assert context["context"] == {"cluster": cluster["name"], "user": user["name"]}
    assert config["current-context"] == context["name"]
