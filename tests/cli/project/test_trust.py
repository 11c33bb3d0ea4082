"""Project files and links of a checkout that nobody trusts."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

from replay.checkout import TRUST_VARIABLE, require_links_inside
from replay.cli.app import app
from replay.cli.project import SHARED, key_of, project_values, read_project_file, reason_for_trust
from replay.errors import ReplayError

SAMPLE = Path(__file__).parents[3] / "sample_audit" / "shop"


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a set, and files beside it that are none of its business."""
    place = tmp_path / "checkout"
    shutil.copytree(SAMPLE / "candidate", place / "next")
    (place / ".git").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "secret.yaml").write_text("password: hunter2\n")
    (place / "link").symlink_to("../elsewhere")
    monkeypatch.chdir(place)
    return place


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(app, arguments, env={TRUST_VARIABLE: None, **environment})  # which is taken back


def commands(group: Any, table: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    found: list[tuple[tuple[str, ...], Any]] = []
    for name, command in group.commands.items():
        words = (*table, name)
        found += commands(command, words) if hasattr(command, "commands") else [(words, command)]
    return found


HOSTILE = (
    *("https://attacker.example", "s3://attacker", "a=https://attacker.example", "tcp://attacker.example:8786"),
    *("/etc/passwd", "../elsewhere", "a=../secret.yaml", "link/new", ".git/hooks/pre-commit"),
)
REMOTE = HOSTILE[:4]
ALWAYS = {
    *("scheduler", "listen", "kubeconfig", "context", "client-ca-file", "tls-cert-file", "tls-private-key-file"),
    *("keep", "keep-size", "before", "address", "host", "reader-token-file", "trusted-proxy", "notify-secret-file"),
    *("listen-client-ca-file", "listen-cert-file", "listen-key-file"),
}
"""Options that need trust whatever they say."""
PATHS = {"logs", "store", "webhook", "query", "authorization-mode", "trial", "follow", "pull"}
"""Options of texts that may be paths; other texts name neither files nor hosts, and only a URL among them needs trust."""


def expected_to_need_trust(key: str, kind: Any) -> list[object]:
    if kind is bool:
        return [value for value in (True, False) if (key, value) in {("redact", False), ("secrets", True)}]
    is_path = Path in (kind, *get_args(kind)) or key in PATHS
    return [*(HOSTILE if is_path or key in ALWAYS else REMOTE), *(["harmless"] if key in ALWAYS else [])]


@pytest.mark.parametrize("words", [" ".join(words) for words, _ in commands(get_command(app))])
def test_no_option_of_a_hostile_file_reaches_out_writes_elsewhere_or_shows_secrets(words: str, checkout: Path) -> None:
    (command,) = [each for name, each in commands(get_command(app)) if " ".join(name) == words]
    judged, expected = {}, {}
    for parameter in command.params:
        key, kind = key_of(parameter), parameter.type_descriptor.annotation
        values: tuple[object, ...] = (True, False) if kind is bool else (*HOSTILE, "harmless")
        file = checkout / "replay.toml"
        judged[key] = [value for value in values if reason_for_trust(key, value, kind, file)]
        expected[key] = expected_to_need_trust(key, kind)
    assert judged == expected


def test_a_key_for_all_commands_is_judged_as_that_of_one(checkout: Path) -> None:
    lines = [f'{key} = "https://attacker.example"' for key in SHARED if key not in ("redact", "workers", "engine")]
    (checkout / "replay.toml").write_text("\n".join((*lines, "redact = false")))
    found = project_values(read_project_file(Path("replay.toml")), get_command(app))
    assert {each.untrusted.place[0] for each in found if each.untrusted} == set(SHARED) - {"workers", "engine"}
    assert [each for each in found if each.untrusted is None] == []


FILE = 'candidate = "next"\n[check]\nout = "../out.txt"\nsilence = ["unused"]\n'
LINE = (
    "replay: replay.toml:3: not used without trust: `check.out` (leads out of the checkout); "
    "run `replay trust` once, or give `replay --trust-project`\n"
)


def told(result: Result) -> tuple[int, bool]:
    """The exit code, and whether the line is told."""
    return result.exit_code, LINE in result.stderr


def test_a_value_counts_once_the_directory_is_trusted(checkout: Path) -> None:
    out = checkout.parent / "out.txt"
    (checkout / "replay.toml").write_text(FILE.replace('silence = ["unused"]\n', ""))
    assert (told(run("check")), out.exists()) == ((0, True), False)
    trusted = run("trust")
    assert trusted.output == f"{checkout}/replay.toml:3: `check.out` leads out of the checkout\n{checkout}: trusted\n"
    assert (told(run("check")), out.exists()) == ((0, False), True)
    out.unlink()
    (checkout / "replay.toml").write_text('candidate = "next"\ntz = "UTC"\n[check]\nout = "../out.txt"\n')
    assert (told(run("check")), out.exists()) == ((0, False), True), "another value that needs no trust changes nothing"
    out.unlink()
    (checkout / "replay.toml").write_text('candidate = "next"\n[check]\nout = "../other.txt"\n')
    assert told(run("check")) == (0, True), "another value that needs trust asks again"
    assert not (checkout.parent / "other.txt").exists()
    assert run("trust", "--forget").output == f"{checkout}: trusted no longer\n"
    (checkout / "replay.toml").write_text('candidate = "next"\n[check]\nout = "../out.txt"\n')
    assert (told(run("check")), out.exists()) == ((0, True), False)


def test_a_required_option_that_is_not_used_is_told(checkout: Path) -> None:
    (checkout / "replay.toml").write_text('store = "store"\n[trials]\nnext = "../next"\n')
    done = run("serve")
    assert done.exit_code != 0
    assert "replay.toml:2: not used without trust: `trials` (leads out of the checkout)" in done.stderr
    assert "Missing option '--trial'" in done.stderr


COUNTS = [
    ("--trust-project", ["--trust-project", "check"], {}, (0, False)),
    ("the variable", ["check"], {"REPLAY_TRUST_PROJECT": "1"}, (0, False)),
    ("a variable that says no", ["check"], {"REPLAY_TRUST_PROJECT": "0"}, (0, True)),
    ("a file that is named", ["--config", "replay.toml", "check"], {}, (0, False)),
    ("a file that the environment names", ["check"], {"REPLAY_CONFIG": "replay.toml"}, (0, False)),
    ("the command line", ["check", "--out", "../out.txt"], {}, (0, False)),
    ("the environment", ["check"], {"REPLAY_CHECK_OUT": "../out.txt"}, (0, False)),
    ("another command", ["sql", "--list"], {}, (0, False)),
]


@pytest.mark.parametrize(
    ("arguments", "environment", "expected"), [row[1:] for row in COUNTS], ids=[row[0] for row in COUNTS]
)
def test_what_counts_as_trust(
    arguments: list[str], environment: dict[str, str], expected: tuple[int, bool], checkout: Path
) -> None:
    (checkout / "replay.toml").write_text('candidate = "next"\n[check]\nout = "../out.txt"\n')
    result = run(*arguments, **environment)
    assert told(result) == expected, result.output
    assert (checkout.parent / "out.txt").exists() is ("check" in arguments and not expected[1])


def _link(place: Path, target: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


LINKS = [
    ("a manifest", "next/vap/x.yaml", "../../../secret.yaml", ["check", "next"]),
    ("a directory of a set", "next/more", "../../elsewhere", ["check", "next"]),
    ("a set", "planned", "../elsewhere", ["check", "planned"]),
    ("a link by way of another", "next/more", "../detour", ["check", "next"]),
    ("a log", "audit/a.jsonl", "../../secret.yaml", ["run", "audit", "--candidate", "next"]),
    ("a log of a pattern", "audit/a.jsonl", "../../secret.yaml", ["run", "audit/*.jsonl", "--candidate", "next"]),
    ("a store", "audit.store/store.json", "../../secret.yaml", ["store", "info", "audit.store"]),
    ("a snapshot", "cluster.yaml", "../secret.yaml", ["check", "next", "--cluster", "cluster.yaml"]),
    ("the files of Git", "audit/a.jsonl", "../.git/config", ["run", "audit", "--candidate", "next"]),
]  # fmt: skip


@pytest.mark.parametrize(("link", "target", "arguments"), [row[1:] for row in LINKS], ids=[row[0] for row in LINKS])
def test_no_link_leads_out_of_a_checkout(link: str, target: str, arguments: list[str], checkout: Path) -> None:
    (checkout / "detour").mkdir()
    _link(checkout / "detour" / "x.yaml", "../../secret.yaml")
    _link(checkout / link, target)
    error = run(*arguments).exception
    assert isinstance(error, ReplayError)
    assert "leads out of the checkout" in str(error)
    assert "hunter2" not in str(error)
    with_trust = run("--trust-project", *arguments).exception
    assert "leads out of the checkout" not in str(with_trust)


def test_links_that_stay_in_a_checkout_and_those_of_other_places_are_followed(checkout: Path) -> None:
    _link(checkout / "same", "next")
    _link(checkout / "next" / "loop", "..")
    with pytest.raises(ReplayError, match="link: leads out"):
        require_links_inside("same")  # by way of the loop, which has the whole checkout below it
    (checkout / "link").unlink()
    require_links_inside("same")
    _link(checkout.parent / "elsewhere" / "link", str(checkout.parent / "secret.yaml"))
    require_links_inside(checkout.parent / "elsewhere")


def test_a_set_names_no_file_outside_of_its_checkout(checkout: Path) -> None:
    (checkout / "admission.yaml").write_text(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
        "- {name: ValidatingAdmissionPolicy, path: ../secret.yaml}\n"
    )
    error = run("check", "admission.yaml").exception
    assert isinstance(error, ReplayError)
    assert str(error).startswith("admission.yaml: names `../secret.yaml`, which is outside of the checkout"), str(error)


def test_a_trust_that_cannot_be_read_is_none(checkout: Path) -> None:
    record = Path(os.environ["XDG_STATE_HOME"]) / "replay" / "trusted.json"
    record.parent.mkdir(parents=True)
    record.write_text("[")
    (checkout / "replay.toml").write_text('candidate = "next"\n[check]\nout = "../out.txt"\n')
    assert told(run("check")) == (0, True)


@pytest.mark.usefixtures("checkout")
def test_there_is_nothing_to_trust_without_a_file() -> None:
    error = run("trust").exception
    assert str(error) == ".: no replay.toml here or above: `replay init` writes one"


@pytest.mark.slow
def test_a_run_in_a_hostile_checkout_calls_nobody_and_writes_nothing_elsewhere(checkout: Path) -> None:
    """The whole command, with every key that does harm, and a server that hears whatever is asked."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        lines = [
            *('candidate = "next"', 'logs = ["sample"]', f'store = "{url}/store"', f'webhook = ["a={url}"]'),
            *(f'scheduler = "{url}"', "redact = false", "[run]", 'outcomes = "../o.jsonl"', 'report = "../weekly"'),
            *('rejects = "link/rejects"', 'out = ".git/hooks/pre-commit"', 'save-cases = "/tmp/cases"'),
        ]
        shutil.copytree(SAMPLE, checkout / "sample")
        (checkout / "replay.toml").write_text("\n".join(lines))
        before = {path for path in checkout.parent.rglob("*") if not path.is_relative_to(checkout / "sample")}
        done = subprocess.run([sys.executable, "-m", "replay", "run"], capture_output=True, text=True, check=False)
        with pytest.raises(TimeoutError):
            server.accept()
    assert done.returncode == 1, done.stderr
    (line,) = [each for each in done.stderr.splitlines() if "not used without trust" in each]
    keys = re.findall(r"`([\w.-]+)` \(", line)
    assert sorted(keys) == sorted(
        ["store", "webhook", "scheduler", "redact"]
        + [f"run.{key}" for key in ("outcomes", "report", "rejects", "out", "save-cases")]
    )
    assert {path for path in checkout.parent.rglob("*") if not path.is_relative_to(checkout / "sample")} == before
