"""What CI systems read of a check: valid by its schema, never passed unjudged, and of hostile names text alone."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from lxml import etree
from markdown_it import MarkdownIt

from pinprof.check.budgets import BudgetPlace
from pinprof.check.verdicts import BudgetOutcome, Checked, JudgedSite
from pinprof.report.check import step_summary, words
from pinprof.report.check.sections import FORMS
from tests.support.checks import HOSTILE, checked, hostile, verdict

SCHEMAS = Path(__file__).parents[2] / "data/schemas"
CASES: list[Callable[[], Checked]] = [
    checked,
    lambda: checked(allowed=True),
    lambda: checked(verdict(limits={"pairs": "baseline"}, limit=None, found=None, sites=()), captures=()),
    lambda: checked(verdict(BudgetOutcome.HOLDS)),
    hostile,
    lambda: replace(hostile(), allowed=True),
]


@pytest.fixture(autouse=True)
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with the program's source and the budgets, as the current directory."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/train.py").write_text("\n" * 30)
    (tmp_path / "pyproject.toml").write_text("\n" * 30)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def sarif_schema() -> jsonschema.Draft4Validator:
    return jsonschema.Draft4Validator(json.loads((SCHEMAS / "sarif-2.1.0-rtm.5.json").read_bytes()))


@pytest.fixture(scope="module")
def junit_schema() -> etree.XMLSchema:
    return etree.XMLSchema(etree.parse(SCHEMAS / "junit-10.xsd"))


def written(form: str, check: Checked) -> str:
    stream = io.StringIO()
    FORMS.of(check).write(form, stream)
    return stream.getvalue()


def results(check: Checked) -> list[dict[str, Any]]:
    return list(json.loads(written("sarif", check))["runs"][0]["results"])


@pytest.mark.parametrize("make", CASES)
def test_sarif_is_valid(make: Callable[[], Checked], sarif_schema: jsonschema.Draft4Validator) -> None:
    sarif_schema.validate(json.loads(written("sarif", make())))


@pytest.mark.parametrize("make", CASES)
def test_junit_is_valid_and_its_counts_are_true(make: Callable[[], Checked], junit_schema: etree.XMLSchema) -> None:
    check = make()
    root = etree.fromstring(written("junit", check).encode())
    junit_schema.assertValid(root)
    (suite,) = root
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"), ("tests", "")):
        assert int(suite.get(name)) == len(suite.findall(f"testcase/{tag}" if tag else "testcase"))
    passed = [case for case in suite.findall("testcase") if not len(case)]
    assert len(passed) == len(check.of(BudgetOutcome.HOLDS))


def test_the_schemas_refuse_what_is_wrong(
    sarif_schema: jsonschema.Draft4Validator, junit_schema: etree.XMLSchema
) -> None:
    log = json.loads(written("sarif", checked()))
    log["runs"][0]["results"][0]["level"] = "broken"
    assert not sarif_schema.is_valid(log)
    root = etree.fromstring(written("junit", checked()).encode())
    del root[0].attrib["tests"]
    assert not junit_schema.validate(root)


def test_junit_counts_what_cannot_be_judged_as_an_error_unless_it_is_let_through() -> None:
    told = etree.fromstring(written("junit", checked()).encode()).find(".//error")
    assert told.get("message") == "CUDA calls were not recorded."
    assert told.text.splitlines()[1] == "not measured, limit 10 calls"
    root = etree.fromstring(written("junit", checked(allowed=True)).encode())
    assert root.find(".//error") is None
    assert root.find(".//skipped").get("message") == "NOT CHECKED: CUDA calls were not recorded."


def test_junit_says_what_was_found_and_where() -> None:
    lines = etree.fromstring(written("junit", checked()).encode()).find(".//failure").text.splitlines()
    assert lines == [
        "3 pairs were found, 0 may be. Keep the buffer and use it again.",
        "found 3 pairs, limit 0 pairs",
        "2 pairs at load (src/train.py:20)",
        "1 pair at helper (other.py:7)",
        "1 pair at cuStaging",
        "budget: pyproject.toml:12",
    ]


def test_sarif_has_a_result_at_the_line_for_what_does_not_hold() -> None:
    broken, unknown = results(checked())
    assert [one["level"] for one in (broken, unknown)] == ["error", "warning"]
    assert broken["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "src/train.py", "uriBaseId": "%SRCROOT%"},
                "region": {"startLine": 20},
            },
            "logicalLocations": [{"fullyQualifiedName": "load", "kind": "function"}],
        }
    ]
    (related,) = broken["relatedLocations"]
    assert related["physicalLocation"]["artifactLocation"] == {"uri": "other.py"}
    assert unknown["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "pyproject.toml", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 12},
    }
    said = "Budget pairs in load: 3 pairs were found, 0 may be. Keep the buffer and use it again."
    assert broken["message"]["text"] == said


def test_sarif_names_a_rule_for_each_measure_and_the_exit_status() -> None:
    (run,) = json.loads(written("sarif", checked()))["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["calls", "pinned-bytes", "pairs"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    assert all(rule["help"]["text"] and rule["name"].isidentifier() for rule in rules)
    assert run["invocations"][0]["exitCode"] == 3


def test_fingerprints_stay_while_lines_move_and_tell_budgets_apart(sources: Path) -> None:
    def fingerprints(check: Checked) -> list[dict[str, str]]:
        return [one["partialFingerprints"] for one in results(check)]

    here = checked()
    moved = [
        replace(
            one,
            found=99.0,
            why="Other words.",
            sites=tuple(replace(site, line=site.line + 5) for site in one.sites),
            budget=replace(one.budget, place=BudgetPlace("pyproject.toml", 17)),
        )
        for one in here.verdicts
    ]
    assert fingerprints(checked(*moved)) == fingerprints(here)
    renamed = [replace(one, budget=replace(one.budget, name=f"{one.budget.name}!")) for one in here.verdicts]
    assert not [one for one in fingerprints(checked(*renamed)) if one in fingerprints(here)]
    entries = json.loads(written("gitlab", hostile()))
    assert len({entry["fingerprint"] for entry in entries}) == len(entries) == 2


@pytest.mark.parametrize("form", FORMS.names)
def test_no_report_tells_of_other_machines_or_breaks_on_any_name(form: str) -> None:
    text = written(form, checked())
    assert not re.search(r"/home|someone|/usr|/ci|" + re.escape(str(Path.cwd())), text)
    text = written(form, hostile())
    assert text.encode().decode() == text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u202e\ufffe\uffff]", text)
    # JSON has all of it.
    assert form == "json" or len(text) < 60_000


def test_sarif_and_markdown_make_nothing_of_links_and_arguments() -> None:
    for one in results(hostile()):
        assert not re.search(r"\]\(|\{\d", one["message"]["text"])
        assert re.fullmatch(r"[\w/.~%-]+", one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])


def commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    """What GitHub's runner reads of a step's output, line by line: command, properties, message."""
    found = []
    for line in text.splitlines():
        match = re.fullmatch(r"::([\w-]+)(?: ([^:]*))?::(.*)", line.lstrip())
        assert match, line
        pairs = dict(pair.split("=", 1) for pair in (match[2] or "").split(",") if pair)
        for code, mark in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
            pairs = {key: value.replace(code, mark) for key, value in pairs.items()}
        found.append((match[1], pairs, match[3].replace("%0A", "\n").replace("%25", "%")))
    return found


def test_github_gets_one_command_for_each_budget_that_does_not_hold() -> None:
    broken, unknown = commands(written("github", checked()))
    assert broken[:2] == ("error", {"file": "src/train.py", "line": "20", "title": "pairs in load: broken"})
    assert broken[2].splitlines()[:2] == [
        "3 pairs were found, 0 may be. Keep the buffer and use it again.",
        "2 pairs at load (src/train.py:20)",
    ]
    assert unknown[0] == "warning"
    assert unknown[1] == {
        "file": "pyproject.toml", "line": "12", "title": "calls of cudaMalloc: not assessable",
    }  # fmt: skip


def test_github_reads_no_command_in_a_name() -> None:
    read = commands(written("github", hostile()))
    assert [command for command, _, _ in read] == ["error", "warning"]
    for _, properties, message in read:
        assert set(properties) == {"title"}  # its file lies nowhere here
        assert words.plain(HOSTILE, words.LONGEST_SENTENCE) in message
        assert "%0A,a:b" in properties["title"]


def test_github_is_told_how_many_there_are_beyond_what_it_shows() -> None:
    many = checked(*(verdict(name=f"budget {number}") for number in range(25)))
    read = commands(written("github", many))
    assert len(read) == 10
    assert read[-1][2].startswith("16 more budgets are broken")


def test_gitlab_has_what_its_reader_needs() -> None:
    broken, unknown = json.loads(written("gitlab", checked()))
    assert broken.pop("fingerprint") != unknown.pop("fingerprint")
    assert broken == {
        "description": "pairs in load: 3 pairs were found, 0 may be. Keep the buffer and use it again.",
        "check_name": "pinprof.pairs",
        "severity": "major",
        "location": {"path": "src/train.py", "lines": {"begin": 20}},
    }
    assert (unknown["severity"], unknown["location"]["path"]) == ("minor", "pyproject.toml")


def test_the_summary_begins_with_what_does_not_hold() -> None:
    lines = written("markdown", checked()).splitlines()
    assert lines[0] == "### pinprof check: 1 of 3 budgets is broken, 1 is not assessable."
    rows = [line.split(" | ")[1] for line in lines if line.startswith("| ") and not line.startswith("| budget")]
    assert rows == ["**broken**", "**not assessable**", "holds"]
    assert "<details><summary>1 budget holds</summary>" in lines
    loud = written("markdown", checked(allowed=True))
    assert "**NOT CHECKED: 1 budget was passed without being judged" in loud
    assert "| NOT CHECKED: CUDA calls were not recorded." in loud
    assert written("markdown", checked(verdict(BudgetOutcome.HOLDS))).startswith(
        "### pinprof check: The budget holds.\n"
    )


def test_hostile_names_are_text_in_the_summary() -> None:
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(written("markdown", hostile()))
    inner = [child for token in tokens for child in (token, *(token.children or []))]
    kinds = {token.type for token in inner}
    assert not kinds & {"link_open", "image"}
    html = {token.content.strip() for token in inner if token.type in ("html_block", "html_inline")}
    assert html <= {"<details><summary>1 budget holds</summary>", "</details>", "<br>"}
    widths = [row.count("td_open") for row in "|".join(token.type for token in tokens).split("tr_open")]
    assert set(widths) - {0} == {4, 6}


def test_the_summary_of_a_step_is_added_only_where_there_is_one(sources: Path) -> None:
    summary = sources / "summary.md"
    summary.write_text("of another tool\n")
    assert step_summary.append_summary(checked(), {}) == ""
    assert step_summary.append_summary(checked(), {step_summary.SUMMARY: str(summary)}) == ""
    assert summary.read_text() == "of another tool\n\n" + written("markdown", checked())


def test_a_summary_that_cannot_be_written_is_said_and_changes_nothing(sources: Path) -> None:
    full, link = sources / "full.md", sources / "link.md"
    full.write_bytes(b"x" * ((1 << 20) - 100))
    link.symlink_to(sources / "elsewhere")
    for path in (full, link, sources / "no/such/folder.md", sources, "a\0b"):
        assert step_summary.append_summary(checked(), {step_summary.SUMMARY: str(path)}).startswith(
            "The step's summary "
        )
    assert full.stat().st_size == (1 << 20) - 100
    assert not (sources / "elsewhere").exists()


def test_a_report_is_written_to_a_file(sources: Path) -> None:
    FORMS.of(checked()).save("junit", sources / "junit.xml")
    assert etree.parse(sources / "junit.xml").getroot().tag == "testsuites"


def test_sites_are_few_and_the_rest_is_counted() -> None:
    sites = tuple(JudgedSite("train.py", line, f"f{line}", 1.0) for line in range(1, 31))
    message = commands(written("github", checked(verdict(sites=sites))))[0][2].splitlines()
    assert len(message) == words.MOST_SITES + 2
    assert message[-1] == "and at 20 more places"
