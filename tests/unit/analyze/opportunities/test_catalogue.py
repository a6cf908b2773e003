"""Cures: what detectors name is there, documented, and in the words of the framework in use."""

from __future__ import annotations

import re
from inspect import getfile
from pathlib import Path

import pytest

from pinprof.analyze.opportunities.catalogue import CUPY, CURES, JAX, NATIVE, NUMPY, PYTHON, PYTORCH, cure
from pinprof.analyze.opportunities.search import DETECTORS

DOCUMENT = Path(__file__).parents[4] / "docs" / "opportunities.md"
NAMED = re.compile(r'"([a-z]+(?:-[a-z]+)+|spawn|prefetch)"')
OF_PYTHON = re.compile(r"torch|cupy|jax|np\.|multiprocessing|mmap\.mmap|\.copy_\(|\.pin_memory\(|DataLoader")
OF_C = re.compile(r";\s*(//.*)?$|std::|nullptr|#pragma|size_t|\(char \*\)|(?<!\w)&\w", re.MULTILINE)


def named_by_detectors() -> set[str]:
    sources = [Path(getfile(detector.find)).read_text() for detector in DETECTORS]
    return {name for source in sources for name in NAMED.findall(source)}


def test_detectors_name_cures_of_the_catalogue() -> None:
    assert len(named_by_detectors()) >= 12
    assert named_by_detectors() <= set(CURES)


@pytest.mark.parametrize("name", CURES)
def test_each_cure_is_documented_and_has_a_short_name(name: str) -> None:
    section = DOCUMENT.read_text("utf-8").partition(f"\n### {name}\n")[2].partition("\n#")[0]
    assert {"**When.**", "**Saves.**", "**Does not pay.**"} <= set(re.findall(r"\*\*[\w ]+\.\*\*", section)), name


def test_document_has_each_cure_of_the_catalogue_once() -> None:
    text = DOCUMENT.read_text("utf-8").partition("\n## Cures\n")[2].partition("\n## ")[0]
    assert sorted(re.findall(r"^### (.+)$", text, re.MULTILINE)) == sorted(CURES)


@pytest.mark.parametrize("name", CURES)
@pytest.mark.parametrize("framework", [PYTORCH, NUMPY, CUPY, JAX, PYTHON])
def test_programs_in_python_get_python(name: str, framework: str) -> None:
    written = cure(name, framework).code
    assert OF_C.search(written) is None


@pytest.mark.parametrize("name", CURES)
def test_programs_in_c_get_c(name: str) -> None:
    written = cure(name, NATIVE)
    assert OF_PYTHON.search(written.code) is None
    assert not written.environment.startswith(("PYTORCH_", "THP_MEM_ALLOC"))


def test_framework_has_its_own_words_before_those_of_python() -> None:
    assert "torch.empty" in cure("pinned-buffer", PYTORCH).code
    assert "cupyx" in cure("pinned-buffer", CUPY).code
    assert "memory_kind='pinned_host'" in cure("pinned-buffer", JAX).code
    assert cure("spawn", NUMPY).code == cure("spawn", PYTORCH).code == cure("spawn", PYTHON).code != ""
    assert "posix_spawn" in cure("spawn", NATIVE).code


def test_settings_without_a_change_of_code_are_those_of_the_framework() -> None:
    assert cure("huge-pages", PYTORCH).environment == "THP_MEM_ALLOC_ENABLE=1"
    assert cure("huge-pages", NATIVE).environment.startswith("GLIBC_TUNABLES=")
    assert cure("touch-then-register", PYTORCH).environment.startswith("PYTORCH_CUDA_ALLOC_CONF=")
    assert cure("touch-then-register", NATIVE).environment == ""


def test_unknown_cure_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(KeyError):
        cure("no-such-cure", NATIVE)
