"""Solver z3 in a separate process that can be killed, because z3's own time limits are unreliable.

Formulas are sent to it as text.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from importlib.util import find_spec
from queue import Empty, Queue
from threading import Thread
from typing import IO, Any

from msgspec import Struct, field

from replay.prove.symbolic.term import Term, constant_text, walk

SolverValue = bool | int | Fraction


class Script(Struct, frozen=True):
    """SMT-LIB text. `names` are the requested terms by their name in the text."""

    text: str
    names: Mapping[str, Term]


def _script_of(assertions: Iterable[Term], terms: Iterable[Term]) -> Script:
    """Return several formulas as one script that requests the values of `terms`."""
    asserted, asserted_terms = list(assertions), list(terms)
    lines: list[str] = []
    shown: dict[int, str] = {}
    names: dict[str, Term] = {}
    functions: set[str] = set()
    for term in walk([*asserted, *asserted_terms]):
        shown[term.serial] = _term_text(term, shown, lines, functions)
    for term in asserted_terms:
        if term.op == "const":
            continue
        name = f"w{term.serial}"
        lines.append(f"(declare-const {name} {term.sort})")
        lines.append(f"(assert (= {name} {shown[term.serial]}))")
        names[name] = term
    lines += [f"(assert {shown[term.serial]})" for term in asserted]
    return Script("\n".join(lines), names)


def _term_text(term: Term, shown: Mapping[int, str], lines: list[str], functions: set[str]) -> str:
    if term.op == "const":
        return constant_text(term)
    name = f"t{term.serial}"
    if term.op == "var":
        lines.append(f"(declare-const {name} {term.sort})")
        return name
    operator = term.op
    if term.op == "apply":
        sorts = " ".join(arg.sort for arg in term.args)
        operator = f"|{term.value}|"
        if operator not in functions:
            functions.add(operator)
            lines.append(f"(declare-fun {operator} ({sorts}) {term.sort})")
        if not term.args:
            return operator
    body = f"({operator} {' '.join(shown[arg.serial] for arg in term.args)})"
    lines.append(f"(define-fun {name} () {term.sort} {body})")
    return name


class Satisfiability(StrEnum):
    """Answer of the solver: whether there are values for which all formulas hold."""

    SATISFIABLE = "sat"
    UNSATISFIABLE = "unsat"
    UNKNOWN = "unknown"


class Solution(Struct, frozen=True):
    """Answer with the requested values if there are any, or the reason if it is unknown."""

    answer: Satisfiability
    values: Mapping[Term, SolverValue] = field(default_factory=dict)
    reason: str = ""


def is_available() -> bool:
    """Return whether z3 is installed (extra `prove`)."""
    return find_spec("z3") is not None


class Solver:
    """Process with z3, started on first use and again after it was killed."""

    def __init__(self, seconds: float) -> None:
        """`seconds` is the time limit of one question."""
        self._seconds = seconds
        self._process: subprocess.Popen[str] | None = None
        self._lines: Queue[str] = Queue()

    def solve(self, assertions: Iterable[Term], terms: Sequence[Term], seconds: float | None = None) -> Solution:
        """Look for values for which all assertions hold."""
        script = _script_of(assertions, terms)
        question = json.dumps({"text": script.text, "names": list(script.names)})
        reply = self._ask(question, seconds or self._seconds)
        if reply is None:
            return Solution(Satisfiability.UNKNOWN, reason="the solver did not answer in time")
        answer = Satisfiability(reply["answer"])
        values = {script.names[name]: _value(text) for name, text in reply.get("values", {}).items()}
        return Solution(answer, values, str(reply.get("reason", "")))

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process = None

    def _ask(self, question: str, seconds: float) -> dict[str, Any] | None:
        process = self._process or self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(question + "\n")
            process.stdin.flush()
            line = self._lines.get(timeout=seconds)
        except (Empty, OSError):
            self.close()
            return None
        if not line:
            self.close()
            return None
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _start(self) -> subprocess.Popen[str]:
        # A process of its own, because only killing it surely ends a question in time.
        process = subprocess.Popen(
            [sys.executable, "-m", "replay.prove.symbolic.solver_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        self._process, self._lines = process, Queue()
        Thread(target=_read, args=(process.stdout, self._lines), daemon=True).start()
        return process


def _read(pipe: IO[str], lines: Queue[str]) -> None:
    try:
        for line in pipe:
            lines.put(line)
    except ValueError:  # closed meanwhile
        pass
    # An empty line tells a waiting caller that the process has ended.
    lines.put("")


def _value(text: str) -> SolverValue:
    if text in {"True", "False"}:
        return text == "True"
    number = Fraction(text)
    return int(number) if number.denominator == 1 else number
