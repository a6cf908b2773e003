"""The style check finds unwanted words wherever people read them, and nowhere else."""

from __future__ import annotations

import pytest

from tools.check_words import UNWANTED, files, texts, unwanted

PLANTED = "Of the samples, so many were told apart in vain."


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("pinprof/x.py", f'raise ValueError("{PLANTED}")\n'),
        ("pinprof/x.py", f'note(f"{PLANTED} {{name}}")\n'),
        ("pinprof/x.py", f'note(\n    "{PLANTED[:22]}"\n    "{PLANTED[22:]}"\n)\n'),
        ("pinprof/api.py", f'def record() -> None:\n    """{PLANTED}"""\n'),
        ("pinprof/x.py", f'"""{PLANTED}"""\n'),
        ("pinprof/x.py", f'def _private() -> None:\n    """{PLANTED}"""\n'),
        ("pinprof/x.py", f'class Row:\n    size: int\n    """{PLANTED}"""\n'),
        ("pinprof/report/templates/x.html.j2", f"<p>{{{{ figure }}}}</p>\n<p>{PLANTED}</p>\n"),
        ("pinprof/report/assets/x.js", f'show("{PLANTED}");\nshow(`{PLANTED} ${{name}}`);\n'),
        ("docs/x.md", "# Title\n\n" + PLANTED.replace("told apart", "told\napart") + "\n"),
    ],
)
def test_a_planted_sentence_is_found(path: str, source: str) -> None:
    found = " ".join(unwanted(path, source))
    assert all(hint in found for hint in ("put the subject first", "name the number", "known, separated", "say what"))


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("pinprof/x.py", f"# {PLANTED}\nnumber = 1\n"),
        ("pinprof/report/assets/x.js", f'// "{PLANTED}"\n'),
        ("pinprof/report/templates/x.html.j2", f"{{# {PLANTED} #}}\n"),
        ("docs/x.md", f"```python\n{PLANTED}\n```\n"),
        ("docs/x.md", "There is no gain, and runs are no slower. As you are told to, say so to many readers.\n"),
    ],
)
def test_comments_code_and_plain_sentences_pass(path: str, source: str) -> None:
    assert [one for one in unwanted(path, source) if "known" not in one] == []


def test_every_pattern_is_told_by_its_line() -> None:
    (found,) = unwanted("docs/x.md", "One.\n\nTwo lines\nin vain.\n")
    assert found == "docs/x.md:4: 'in vain.' (say what happened instead)"


def test_the_check_reads_the_repository() -> None:
    names = files()
    assert {"README.md", "docs/recording.md", "pinprof/cli/__init__.py", "pinprof/report/templates/hero.html.j2"} <= {
        *names
    }
    assert sum(1 for _ in texts("x.md", "One.\n\nTwo.\n")) == 2
    assert len(UNWANTED) > 10
