"""URLs of webhooks: what Go's `net/url` takes is taken, and its error texts are shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from replay.cellib.version import NEWEST
from replay.manifests.check import check_set
from replay.manifests.plugin import PluginName
from replay.report.findings import checked_json

FORM = "; desired format: https://host[/path]"
NO_URL = "Required value: url must be a valid URL: parse"
ROWS = {
    "https://[fe80::1%25en%200]/x": "",
    "https://[fe80::1%25en0]:8443/x": "",
    "https://h/%é/x": f'{NO_URL} "https://h/%é/x": invalid URL escape "%é"{FORM}',
    "https://h/%c3%a9": "",
    "https://ü@h/x": f'{NO_URL} "https://ü@h/x": net/url: invalid userinfo{FORM}',
    "https://a:é%40@h/x": f'{NO_URL} "https://a:é%40@h/x": net/url: invalid userinfo{FORM}',
    "https://a:%40@h/x": 'Invalid value: "a:%40": user information is not permitted in the URL',
    "https://h/x#%C3%A9": 'Invalid value: "é": fragments are not permitted in the URL',
    "https://h/x?é": 'Invalid value: "é": query parameters are not permitted in the URL',
    "https://[1.2.3.4]/x": f'{NO_URL} "https://[1.2.3.4]/x": invalid IP-literal{FORM}',
}


@pytest.mark.parametrize("url", ROWS)
def test_url(url: str, tmp_path: Path) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    webhook = {
        "name": "a.example.com",
        "clientConfig": {"url": url},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    manifest = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "a.static.k8s.io"},
        "webhooks": [webhook],
    }
    (tmp_path / "a.json").write_text(json.dumps(manifest, ensure_ascii=False), "utf-8")
    answered = checked_json(check_set(tmp_path, NEWEST, plugin=PluginName.VALIDATING_ADMISSION_WEBHOOK))
    wanted = ROWS[url]
    assert answered["ok"] == (not wanted), answered
    assert f"webhooks[0].clientConfig.url: {wanted}" in answered["error"] if wanted else True
