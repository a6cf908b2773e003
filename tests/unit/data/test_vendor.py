"""A vendor's API is a block in one file: its functions have every role that CUDA's have, up to the answer."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from pinprof.analyze.activity.calls import prepare_calls
from pinprof.analyze.ledger.allocations import FAMILIES, recorded
from pinprof.analyze.ledger.results import KINDS
from pinprof.analyze.opportunities import allocating, copying
from pinprof.data import gpu_functions
from pinprof.data.activity import CopyKind, MemoryKind
from pinprof.data.gpu_functions import PURPOSES, Function, Vendor
from tests.support.scenes import MIB, PINNED, Traced, ran, scene
from tests.support.scenes import recorded as capture_of
from tests.support.sources import calls

PACKAGE = Path(gpu_functions.__file__).parents[1]

ACME = Vendor(
    functions={
        "acPinnedGet": Function(size=1, grants=True, memory=MemoryKind.PINNED),
        "acManagedGet": Function(size=1, grants=True, memory=MemoryKind.MANAGED),
        "acDeviceGet": Function(size=1, grants=True, memory=MemoryKind.DEVICE),
        "acPoolGet": Function(size=1, grants=True, memory=MemoryKind.DEVICE, pooled=True, pool=2),
        "acLock": Function(size=1, pointer=0, memory=MemoryKind.PINNED, registers=True),
        "acUnlock": Function(pointer=0, memory=MemoryKind.PINNED, registers=True),
        "acPinnedPut": Function(pointer=0, memory=MemoryKind.PINNED),
        "acDevicePut": Function(pointer=0, memory=MemoryKind.DEVICE),
        "acUpload": Function(copies=CopyKind.HOST_TO_DEVICE, target=0, source=1, size=2),
    },
    purposes=(
        ("alloc pinned", r"acPinnedGet"), ("alloc managed", r"acManagedGet"), ("alloc device", r"ac(Device|Pool)Get"),
        ("register", r"acLock"), ("unregister", r"acUnlock"), ("free pinned", r"acPinnedPut"),
        ("free device", r"acDevicePut"), ("copy", r"ac(Up|Down)load"), ("set", r"acFill"), ("prefetch", r"acFetch"),
        ("advise", r"acAdvise"), ("launch", r"acRun"), ("sync", r"acWait"),
    ),
    libraries=("libacme.",),
    asks=r"acAsk",
)  # fmt: skip


@pytest.fixture(autouse=True)
def acme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_functions, "VENDORS", (*gpu_functions.VENDORS, ACME))
    monkeypatch.setattr(gpu_functions.FUNCTIONS, "maps", [*gpu_functions.FUNCTIONS.maps, dict(ACME.functions)])


def test_every_purpose_has_a_function() -> None:
    names = (*ACME.functions, "acFill", "acFetch", "acAdvise", "acRun", "acWait", "acName")
    assert {gpu_functions.purpose_of(name) for name in names} == set(PURPOSES)


def test_every_kind_of_memory_is_allocated_and_given_back() -> None:
    assert {gpu_functions.allocates(name) for name in ACME.functions} == {*KINDS, None}
    assert {gpu_functions.frees(name) for name in ACME.functions} == {*FAMILIES, None}
    assert gpu_functions.allocates_by_place("acPoolGet")
    assert gpu_functions.allocates("acDeviceGet (host)") == "pinned"


def test_its_own_functions_are_no_callers_and_its_questions_no_failures() -> None:
    assert gpu_functions.of_vendor("anything", "libacme.so.2")
    assert gpu_functions.of_vendor("acUpload", "program")
    assert not gpu_functions.of_vendor("upload", "program")
    assert gpu_functions.asks("acAskDevice")
    assert not gpu_functions.asks("acUpload")


@pytest.mark.parametrize(
    ("opens", "closes", "cure"),
    [
        ("acPinnedGet", "acPinnedPut", "pool-pinned"),
        ("acLock", "acUnlock", "register-once"),
        ("acDeviceGet", "acDevicePut", "pool-device"),
        ("acManagedGet", "acDevicePut", "pool-managed"),
    ],
)
def test_memory_that_is_made_again_each_time_is_an_opportunity(opens: str, closes: str, cure: str) -> None:
    calls = [
        call
        for start in range(0, 60, 6)
        for call in (Traced(opens, start, start + 4, 8 * MIB), Traced(closes, start + 4, start + 5, -1))
    ]
    (found,) = allocating.pairs(scene(capture_of(ran(0, 100, PINNED), calls)))
    assert (found.cure.id, found.count, found.site.place) == (cure, 10, "app.cu:11")


def test_tiny_copies_are_an_opportunity() -> None:
    calls = [
        Traced("acUpload", n / 50, n / 50 + 0.01, 64, 0, CopyKind.HOST_TO_DEVICE, MemoryKind.PINNED, MemoryKind.DEVICE)
        for n in range(5000)
    ]
    found = list(copying.tiny(scene(capture_of(ran(0, 100, PINNED), calls))))
    assert [one.count for one in found] == [5000]


def test_its_allocations_are_in_the_ledgers_history() -> None:
    made = capture_of(ran(0, 20), [Traced("acPinnedGet", 0, 1, MIB), Traced("acUpload", 2, 3, MIB)])
    assert made.activity is not None
    calls = prepare_calls(made.activity)
    assert [PURPOSES[number] for number in calls.purpose.tolist()] == ["alloc pinned", "copy"]
    assert recorded(made.activity, calls) is not None


def test_no_other_module_has_a_pattern_of_a_vendors_names() -> None:
    pattern = re.compile(r"\(cuda\|cu\)|cu\((\?:)?da\)\?[\[A-Z]|\b(cu|cuda)[A-Z]\w*(\\w|\|)|\b(cu|cuda)\[A-Z\]")
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for text in (part.value for call in calls(path) for part in ast.walk(call) if isinstance(part, ast.Constant)):
            text = text.decode("latin-1") if isinstance(text, bytes) else text
            if isinstance(text, str) and pattern.search(text):
                found.add(str(path.relative_to(PACKAGE)))
    assert found == {"data/gpu_functions.py"}
