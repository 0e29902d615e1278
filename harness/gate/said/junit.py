"""JUnit XML as GitHub, GitLab and Jenkins read it: one test case per outcome."""

import re
from collections.abc import Mapping, Sequence
from xml.etree import ElementTree

from harness.gate.outcome import REGRESSION, Outcome
from harness.report.escaped import printable
from harness.stats.paired.verdicts import UNDECIDED, UNMEASURED

# Characters that XML 1.0 does not allow, not even escaped.
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ELEMENT = {REGRESSION: "failure", UNMEASURED: "error", UNDECIDED: "skipped"}
_COUNT = {"failure": "failures", "error": "errors", "skipped": "skipped"}


def junit(suite: str, outcomes: Sequence[Outcome], properties: Mapping[str, str] | None = None) -> str:
    """The whole file. A regression is a failure, an unmeasured outcome an error, an undecided one skipped.

    `suite` is the suite's name, for example `harness check`. `properties` describes the run, for example torch's
    version.
    """
    found = [_ELEMENT.get(outcome.verdict) for outcome in outcomes]
    counts = {"tests": str(len(outcomes))} | {name: str(found.count(one)) for one, name in _COUNT.items()}
    root = ElementTree.Element("testsuites", {"name": _xml(suite), **counts, "time": "0"})
    inside = ElementTree.SubElement(root, "testsuite", {"name": _xml(suite), **counts, "time": "0"})
    if properties:
        held = ElementTree.SubElement(inside, "properties")
        for name, value in properties.items():
            ElementTree.SubElement(held, "property", {"name": _xml(name), "value": _xml(value)})
    for outcome, element in zip(outcomes, found, strict=True):
        _testcase(inside, outcome, element)
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _testcase(inside: ElementTree.Element, outcome: Outcome, element: str | None) -> None:
    name = f"{outcome.subject} {outcome.quantity}"
    case = ElementTree.SubElement(
        inside, "testcase", {"classname": _xml(outcome.impl), "name": _xml(name), "time": "0"}
    )
    said = outcome.reason or f"{outcome.was} → {outcome.now}"
    if element is not None:
        told = ElementTree.SubElement(case, element, {"message": _xml(said), "type": outcome.verdict})
        told.text = _xml(f"{name}: {said}")
    elif outcome.reason:
        ElementTree.SubElement(case, "system-out").text = _xml(f"{outcome.verdict}: {outcome.reason}")


def _xml(text: str) -> str:
    """The text on one line, with U+FFFD for every character that XML does not allow."""
    return _NO_XML.sub("\ufffd", printable(text))
