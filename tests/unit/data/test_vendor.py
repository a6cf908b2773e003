"""A vendor's API is a block in one file: its functions have every role that CUDA's have, up to the answer."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from pinprof.analyze.activity.calls import prepare_calls
from pinprof.analyze.allocations.recorded import FAMILIES, recorded
from pinprof.analyze.allocations.results import KINDS
from pinprof.analyze.attribution.matching import frame_rules
from pinprof.analyze.opportunities import allocating, copying
from pinprof.data import gpu_functions
from pinprof.data.activity import CopyKind, MemoryKind
from pinprof.data.gpu_functions import PURPOSES, Function, Vendor
from tests.support.scenes import MIB, PINNED, Traced, ran, scene
from tests.support.scenes import recorded as capture_of
from tests.support.small_capture import small_capture
from tests.support.sources import calls

PACKAGE = Path(gpu_functions.__file__).parents[1]

ACME = Vendor(
    name="ACME",
    names=r"ac\w+",
    functions={
        "acPinnedGet": Function(size=1, grants=True, memory=MemoryKind.PINNED),
        "acManagedGet": Function(size=1, grants=True, memory=MemoryKind.MANAGED),
        "acDeviceGet": Function(size=1, grants=True, memory=MemoryKind.DEVICE),
        "acPoolGet": Function(size=1, grants=True, memory=MemoryKind.DEVICE, pooled=True, pool=2),
        "acLock": Function(size=1, pointer=0, memory=MemoryKind.PINNED, registers=True),
        "acUnlock": Function(pointer=0, memory=MemoryKind.PINNED, registers=True),
        "acPinnedPut": Function(pointer=0, memory=MemoryKind.PINNED),
        "acDevicePut": Function(pointer=0, memory=MemoryKind.DEVICE),
        "acArrayGet": Function(does="alloc device", array=True),
        "acArrayPut": Function(does="free device", array=True),
        "acUpload": Function(copies=CopyKind.HOST_TO_DEVICE, target=0, source=1, size=2),
        "acDownload": Function(copies=CopyKind.DEVICE_TO_HOST, target=0, source=1, size=2),
        "acFill": Function(size=1, does="set"),
        "acFetch": Function(size=1, does="prefetch"),
        "acAdvise": Function(size=1, does="advise"),
        "acRun": Function(does="launch", stream=1, traced=False),
        "acRunGraph": Function(does="launch", stream=1, traced=False),
        "acRunOnHost": Function(does="launch", stream=0, on_host=True, traced=False),
        "acWait": Function(does="sync"),
        "acMark": Function(stream=1, traced=False),
        "acAskMark": Function(asks=True, traced=False),
    },
    purposes=(("alloc device", r"acNew\w+"),),
    libraries=("libacme.",),
)  # fmt: skip


@pytest.fixture(autouse=True)
def acme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_functions, "VENDORS", (*gpu_functions.VENDORS, ACME))
    monkeypatch.setattr(gpu_functions.FUNCTIONS, "maps", [*gpu_functions.FUNCTIONS.maps, dict(ACME.functions)])


def test_every_purpose_is_a_rows_and_functions_newer_than_the_rows_have_a_pattern() -> None:
    assert {gpu_functions.purpose_of(name) for name in ACME.functions} == set(PURPOSES)
    assert gpu_functions.purpose_of("acNewArray") == "alloc device"


def test_what_may_wait_for_the_gpu_is_not_what_asks_or_allocates() -> None:
    waits = {name for name in ACME.functions if gpu_functions.may_wait(f"{name}@@ACME_1")}
    assert waits == {"acUpload", "acDownload", "acFill", "acRun", "acRunGraph", "acRunOnHost", "acWait"}
    frames = small_capture([(0, 1, 0)], [("acRun", 0), ("acMark", 0)], [(-1, 0)]).stacks.frames
    assert frame_rules(frames).waits_for_gpu.tolist() == [True, False]


def test_launches_and_events_are_not_probed_and_a_function_of_the_hosts_is_no_work_of_the_gpu() -> None:
    untraced = {name for name in ACME.functions if not gpu_functions.is_traced(name)}
    assert untraced == {"acRun", "acRunGraph", "acRunOnHost", "acMark", "acAskMark"}
    assert [name for name in ACME.functions if gpu_functions.runs_on_host(name)] == ["acRunOnHost"]


def test_every_kind_of_memory_is_allocated_and_given_back() -> None:
    assert {gpu_functions.allocates(name) for name in ACME.functions} == {*KINDS, None}
    assert {gpu_functions.frees(name) for name in ACME.functions} == {*FAMILIES, None}
    assert gpu_functions.allocates_by_place("acPoolGet")
    assert gpu_functions.allocates("acDeviceGet (host)") == "pinned"


def test_its_own_functions_are_no_callers_and_its_questions_no_failures() -> None:
    assert gpu_functions.of_vendor("anything", "libacme.so.2")
    assert gpu_functions.of_vendor("acUpload", "program")
    assert not gpu_functions.of_vendor("upload", "program")
    assert gpu_functions.asks("acAskMark")
    assert not gpu_functions.asks("acUpload")


@pytest.mark.parametrize(
    ("opens", "closes", "cure"),
    [
        ("acPinnedGet", "acPinnedPut", "pool-pinned"),
        ("acLock", "acUnlock", "register-once"),
        ("acDeviceGet", "acDevicePut", "pool-device"),
        ("acArrayGet", "acArrayPut", "pool-device"),
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


@pytest.mark.slow
def test_no_other_module_has_a_pattern_of_a_vendors_names() -> None:
    pattern = re.compile(r"\(cuda\|cu\)|cu\((\?:)?da\)\?[\[A-Z]|\b(cu|cuda)[A-Z]\w*(\\w|\|)|\b(cu|cuda)\[A-Z\]")
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for text in (part.value for call in calls(path) for part in ast.walk(call) if isinstance(part, ast.Constant)):
            text = text.decode("latin-1") if isinstance(text, bytes) else text
            if isinstance(text, str) and pattern.search(text):
                found.add(str(path.relative_to(PACKAGE)))
    assert found == {"data/gpu_functions.py"}
