"""The first screen of `replay run`: it fits 40 lines, at 80 columns too, and warns before it says anything that cannot be trusted."""

import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from rich.console import Console

from replay.compare.fidelity import Agreement, Fidelity
from replay.compare.outcome import OutcomeKind
from replay.compare.result import LogFacts, RunResult, SetFacts
from replay.compare.summary import CellKey, Example, OutcomeFinding, Summary
from replay.report.render.document import Tone
from replay.report.render.terminal import print_document
from replay.report.run.summary import run_summary
from tests.report.test_roots import FINDINGS, made
from tests.support.shared_run import shared_run

ROOT = Path(__file__).parents[2]
HEIGHT, WIDTH, NARROW = 40, 100, 80


def screen(result: RunResult, width: int = WIDTH) -> list[str]:
    text = io.StringIO()
    print_document(run_summary(result), Console(file=text, width=width, highlight=False), is_whole=False)
    return text.getvalue().splitlines()


def test_the_sample_fits_a_screen(common: Path) -> None:
    result, _ = shared_run(common, ROOT / "sample_audit" / "shop", ROOT / "sample_audit" / "shop")
    narrow, lines = screen(result, NARROW), screen(result)
    assert max(map(len, (narrow, lines))) <= HEIGHT
    assert (max(map(len, narrow)), max(map(len, lines))) <= (NARROW, WIDTH)
    assert lines[1].startswith("153 of 3,565 requests would be denied directly. 79 would newly be mutated.")
    titles = [line for line in lines if line and not line.startswith(" ") and "  " not in line]
    assert titles[-3:] == [
        "Policies that deny requests (10 of 18); sole: denied by no other policy",
        "Workloads hit most (8 of 147)",
        "Next steps",
    ]


@pytest.mark.property
@settings(max_examples=60, deadline=None)
@given(FINDINGS)
def test_every_result_fits_a_screen(found: list[tuple[CellKey, bool]]) -> None:
    assert len(screen(made(found), NARROW)) <= HEIGHT


def result_of(fidelity: Fidelity, *, denied: int = 0) -> RunResult:
    summary = Summary()
    for seq in range(denied):
        key = CellKey(OutcomeKind.NEWLY_DENIED, ("p",), "ann", "a", "pods", "Pod", "Pod/x", follows=False)
        summary.add_finding(OutcomeFinding(key, Example(seq, 0, f"id-{seq}", 0, "CREATE", "n", ("no",))))
        summary.outcomes[OutcomeKind.NEWLY_DENIED] += 1
    return RunResult(LogFacts(("log",)), SetFacts("now"), SetFacts("next"), summary, fidelity)


SWAPPED = Fidelity(denials=Agreement(observed=69, differs=69, extra=393))
ANOTHER = Fidelity(denials=Agreement(observed=100, reproduced=20, differs=80))
MATCHING = Fidelity(denials=Agreement(observed=100, reproduced=95, differs=5))
UNKNOWN = Fidelity(denials=Agreement(observed=100, undetermined=100))
VERDICTS = [
    ("nothing changes", result_of(Fidelity()), "None of 0 decided requests would be denied or mutated.", Tone.GOOD),
    ("denied", result_of(MATCHING, denied=2), "2 of 0 requests would be denied directly.", Tone.BAD),
    (
        "the log does not show what the baseline decides",
        result_of(SWAPPED),
        ("The baseline does not match the log: 0 of 462 decisions agree. Another set was probably in force. "
        "Run `replay verify` before you use this result. None of 0 decided requests would be denied or mutated."),
        Tone.BAD,
    ),
    (
        "another set was in force",
        result_of(ANOTHER, denied=1),
        ("The baseline does not match the log: 20 of 100 decisions agree. Another set was probably in force. "
        "Run `replay verify` before you use this result. 1 of 0 requests would be denied directly."),
        Tone.BAD,
    ),
    (
        "undetermined decisions are no mismatch",
        result_of(UNKNOWN),
        "None of 0 decided requests would be denied or mutated.",
        Tone.GOOD,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("result", "verdict", "tone"), [row[1:] for row in VERDICTS], ids=[row[0] for row in VERDICTS])
def test_verdict(result: RunResult, verdict: str, tone: Tone) -> None:
    document = run_summary(result)
    assert (document.verdict, document.tone) == (verdict, tone)


def test_an_engines_policy_takes_one_line() -> None:
    """Names of engines' policies are long, and their messages begin with words that every webhook's denial has."""
    name = "ValidatingPolicy/disallow-privileged-containers"
    message = f'admission webhook "vpol.validate.kyverno.svc-fail" denied the request: {"privileged containers " * 4}'
    summary = Summary()
    key = CellKey(OutcomeKind.NEWLY_DENIED, (name,), "ann", "a", "pods", "Pod", "Pod/x", follows=False)
    summary.add_finding(OutcomeFinding(key, Example(0, 0, "id-0", 0, "CREATE", "n", (message,))))
    summary.outcomes[OutcomeKind.NEWLY_DENIED] += 1
    lines = screen(RunResult(LogFacts(("log",)), SetFacts("now"), SetFacts("next"), summary, Fidelity()))
    first = lines.index("Policies that deny requests; sole: denied by no other policy")
    assert lines[first : first + 3] == [
        "Policies that deny requests; sole: denied by no other policy",
        "  policy                                direct  sole  consequences  most frequent message",
        "  ValidatingPolicy/disallow-privilege…       1     1             0  privileged containers privilege…",
    ]
