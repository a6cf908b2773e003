"""Options, the catalogue and verification: what a user can ask for, and what must never pass."""

from __future__ import annotations

import json
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from pinprof.workloads.backends.host import HostBackend

from pinprof import scenario
from pinprof.base.errors import ScenarioError, UsageError
from pinprof.scenario import Options, RunContext, ScenarioSpec, Variant, catalog


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"size_bytes": 4095}, "4,095 bytes is less than a page of 4 KiB"),
        ({"threads": 0}, "0 is not a valid number of threads"),
        ({"threads": 1025}, "1025 is not a valid number of threads"),
        ({"iterations": 0}, "0 is not a valid number of iterations"),
        ({"warmup": -1}, "-1"),
        ({"backend": "rocm"}, "rocm"),
    ],
)
def test_options_that_cannot_be_meant_are_refused_by_value(values: dict[str, int], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        Options(**values)


@pytest.mark.parametrize(("asked", "used"), [(1 << 20, 1 << 20), (256 << 20, 16 << 20)])
def test_scenario_uses_no_more_than_it_needs_to_show_its_mistake(asked: int, used: int) -> None:
    spec = scenario.load("small-copies").spec
    assert RunContext(spec, Options(asked), cast("Any", None)).size_bytes == used


def test_size_beyond_memory_is_refused_with_both_figures() -> None:
    with pytest.raises(ScenarioError, match=r"20 EiB .* free") as raised:
        scenario.run("pinned", Options(size_bytes=10 << 60, backend="host"))
    assert raised.value.slug == "size"


@pytest.mark.parametrize(("typed", "suggested"), [("pinnd", "pinned"), ("zero_copy", "zerocopy"), ("uvmm", "uvm")])
def test_unknown_scenario_suggests_the_nearest(typed: str, suggested: str) -> None:
    with pytest.raises(UsageError, match=f"Did you mean '{suggested}'"):
        scenario.load(typed)


@pytest.mark.parametrize(("typed", "owner"), [("read-mostly", "uvm-advise"), ("resident", "round-trip")])
def test_name_of_a_variant_says_whose_it_is(typed: str, owner: str) -> None:
    with pytest.raises(UsageError, match=f"It is a variant. Run: pinprof run {owner} --variant {typed}"):
        scenario.load(typed)


def test_alias_stands_for_a_scenario_in_one_variant() -> None:
    assert scenario.resolve("pool") == scenario.resolve("pool", "pool") == ("alloc-loop", "pool")
    assert scenario.resolve("zero-copy") == ("zerocopy", None)
    assert scenario.resolve("register", "touched") == ("register", "touched")
    with pytest.raises(UsageError, match=r"pool is alloc-loop in its variant pool, not mistake\. Write: .* mistake"):
        scenario.resolve("pool", "mistake")
    with pytest.raises(UsageError, match="no scenario 'pol'"):
        scenario.resolve("pol")


def test_names_and_aliases_are_each_found_once() -> None:
    specs = scenario.specs()
    found = [name for spec in specs for name in (spec.name, *spec.aliases, *(one.alias for one in spec.variants))]
    found = [name for name in found if name]
    assert len(found) == len(set(found))


def test_the_documentation_lists_every_scenario_and_variant() -> None:
    text = (Path(__file__).parents[3] / "docs" / "scenarios.md").read_text()
    for spec in scenario.specs():
        (row,) = [line for line in text.splitlines() if f"| `{spec.name}` |" in line]
        assert all(one.name in row for one in spec.variants), row


def test_unknown_scenario_like_nothing_points_to_the_list() -> None:
    with pytest.raises(UsageError, match="pinprof list"):
        scenario.load("../../etc/passwd")


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, source: str) -> None:
    """A scenario of another package, as its entry point shows it."""
    (folder / "foreign_scenario.py").write_text(source)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "foreign_scenario", raising=False)
    entry = EntryPoint("foreign", "foreign_scenario", catalog.GROUP)
    monkeypatch.setattr(catalog.importlib.metadata, "entry_points", lambda group: [entry])


FOREIGN = """
from pinprof.scenario import RunContext, ScenarioSpec
SPEC = ScenarioSpec("foreign", "other", "s", "d", ("init",), ("pageable",), {}, emulation=%s)
def iterate(ctx):
    memory = ctx.backend.pageable(ctx.size_bytes)
    memory.fill(%s)
    ctx.verify(memory)
"""


def test_scenario_of_another_package_is_found_and_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path, FOREIGN % ("'private memory'", "ctx.value + 2"))
    assert {"foreign", "pageable", "pinned", "uvm", "zerocopy"} < set(scenario.names())
    result = scenario.run("foreign", Options(4096, iterations=3, backend="host"))
    assert result.verified == 3
    assert result.emulation == "host emulation: private memory"


def test_scenario_without_a_host_form_says_that_it_needs_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path, FOREIGN % ("None", "0"))
    with pytest.raises(ScenarioError, match="foreign needs an NVIDIA GPU"):
        scenario.run("foreign", Options(4096, backend="host"))


def test_memory_that_a_framework_tells_is_printed_and_handed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    telling = FOREIGN % ("'x'", "ctx.value + 2") + "    ctx.tell_memory('cache', 4096 * (1 + ctx.iteration % 2))\n"
    install(monkeypatch, tmp_path, telling)
    facts = tmp_path / "facts.json"
    monkeypatch.setenv(scenario.SCENARIO_VARIABLE, str(facts))
    result = scenario.run("foreign", Options(4096, iterations=2, backend="host"))
    assert "  cache: 8 KiB" in result.to_text()
    handed = json.loads(facts.read_text())
    assert handed["memory_bytes"] == {"cache": 8192}


@pytest.mark.parametrize("source", ["import no_such_module", "raise RuntimeError('no_such_module')", "SPEC = 1"])
def test_broken_scenario_names_its_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: str) -> None:
    install(monkeypatch, tmp_path, source)
    with pytest.raises(ScenarioError, match=r"foreign_scenario \(scenario 'foreign'\)"):
        scenario.load("foreign")


def test_stale_result_of_the_iteration_before_is_a_wrong_result(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(monkeypatch, tmp_path, FOREIGN % ("'x'", "3.0"))
    with pytest.raises(ScenarioError, match=r"element 0 is 3\.0, not 4\.0"):
        scenario.run("foreign", Options(4096, iterations=2, warmup=0, backend="host"))


@pytest.mark.parametrize("index", [0, 65_535, 65_536, 299_999])
@pytest.mark.parametrize("wrong", [np.nextafter(np.float32(3), np.float32(4)), np.float32("nan")])
def test_one_wrong_element_anywhere_is_found(index: int, wrong: np.float32) -> None:
    backend = HostBackend()
    memory = backend.pageable(300_000 * 4)
    memory.fill(3.0)
    assert memory.mismatch(3.0) is None
    memory.array[index] = wrong  # type: ignore[attr-defined]
    found = memory.mismatch(3.0)
    assert found is not None
    assert found[0] == index
    backend.close()


@pytest.mark.parametrize("name", scenario.names())
def test_spec_and_its_variants_name_a_call_for_every_phase(name: str) -> None:
    spec = scenario.load(name).spec
    assert spec.name == name
    assert set(spec.calls) == ({"cuda", "host"} if spec.emulation else {"cuda"})
    assert spec.summary
    assert len(spec.description) > 100
    for variant in [None, *(variant.name for variant in spec.variants)]:
        chosen, _ = spec.chosen(variant)
        assert chosen.memory
        assert all(set(calls) == set(chosen.phases) for calls in chosen.calls.values()), (name, variant)


TWO = ScenarioSpec(
    "two",
    "other",
    "s",
    "d",
    ("alloc", "kernel"),
    ("pinned",),
    {"cuda": {"alloc": "cudaMallocHost", "kernel": "cuLaunchKernel", "copy": "cudaMemcpy"}},
    variants=(Variant("one", "s"), Variant("other", "s", phases=("copy", "kernel"), calls={"cuda": {"kernel": "x"}})),
)


def test_first_variant_is_the_default_and_another_changes_what_it_names() -> None:
    spec, variant = TWO.chosen(None)
    assert (variant, spec.phases, spec.calls["cuda"]["kernel"]) == ("one", ("alloc", "kernel"), "cuLaunchKernel")
    spec, variant = TWO.chosen("other")
    assert (variant, spec.calls) == ("other", {"cuda": {"copy": "cudaMemcpy", "kernel": "x"}})
    assert spec.memory == ("pinned",)


def test_unknown_variant_lists_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"two has no variant 'third'. Choose one of: one, other"):
        TWO.chosen("third")
    with pytest.raises(UsageError, match="pinned has no variants"):
        scenario.run("pinned", Options(variant="one", backend="host"))


def test_threads_are_refused_where_they_mean_nothing() -> None:
    with pytest.raises(UsageError, match="pinned has no threads of its own"):
        scenario.run("pinned", Options(threads=2, backend="host"))
