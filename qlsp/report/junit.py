"""JUnit XML: a test suite for each file with findings, a failed test for each finding."""

from __future__ import annotations

import re
from itertools import groupby
from xml.etree import ElementTree

from qlsp.diagnostics import Diagnostic
from qlsp.messages import render
from qlsp.report.findings import Findings
from qlsp.report.layout import Locator


def report(findings: Findings) -> str:
    """The document. A run without findings is one test that passed."""
    locator = Locator(findings.sources)
    top = ElementTree.Element("testsuites", name="qlsp")
    for path, group in groupby(findings.diagnostics, key=lambda item: item.place.path):
        _suite(top, path, list(group), locator, findings.locale)
    if not findings.diagnostics:
        suite = ElementTree.SubElement(top, "testsuite", name="qlsp", tests="1", failures="0", errors="0")
        ElementTree.SubElement(suite, "testcase", name="no findings", classname="qlsp")
    tests = sum(int(suite.attrib["tests"]) for suite in top)
    top.attrib.update(tests=str(tests), failures=str(len(findings.diagnostics)), errors="0")
    ElementTree.indent(top)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(top, encoding="unicode") + "\n"


def _suite(top: ElementTree.Element, path: str, group: list[Diagnostic], locator: Locator, locale: str) -> None:
    count = str(len(group))
    suite = ElementTree.SubElement(top, "testsuite", name=_legal(path), tests=count, failures=count, errors="0")
    for item in group:
        at = locator.locate(item.place)
        case = ElementTree.SubElement(
            suite,
            "testcase",
            name=f"{item.code} {item.name}",
            classname=_legal(path),
            file=_legal(path),
            line=str(at.row),
            column=str(at.column),
        )
        message = _legal(render(item.message, locale))
        failure = ElementTree.SubElement(case, "failure", type=item.severity.value, message=message)
        failure.text = _legal(f"{locator.name(item.place)}: {item.code} [{item.name}] {message}")


_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _legal(text: str) -> str:
    """A text with what XML 1.0 cannot hold replaced."""
    return _ILLEGAL.sub("\ufffd", text)
