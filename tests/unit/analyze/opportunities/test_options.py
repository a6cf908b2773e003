"""Options of libraries: each row of the table is the cure of a cost under its functions, and of no other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pinprof.analyze.opportunities.candidate import Candidate
from pinprof.analyze.opportunities.catalogue import CURES, cure
from pinprof.analyze.opportunities.knobs import Knob, options, table, words_of
from pinprof.analyze.opportunities.options import with_options
from pinprof.analyze.opportunities.results import Opportunities
from pinprof.analyze.opportunities.scene import Scene
from pinprof.analyze.opportunities.search import search
from pinprof.analyze.sites import Site
from pinprof.data.activity import Caller
from pinprof.data.model import Int64
from pinprof.data.rate_book import Estimate
from tests.support.scenes import FAULT, FREE, MIB, MS, ran, recorded, scene, to_gpu, to_host, waited
from tests.truth.knobs import said

PACKAGES = "/venv/lib/python3.12/site-packages"
LINE = "step (train.py:7)@/app/train.py"
STAGING = ("cuMemcpyDtoH_v2@/usr/lib/libcuda.so.580.1", "memcpy@/usr/lib/libcuda.so.580.1")


def of(file: str, function: str, line: int = 40) -> str:
    """A frame of an installed package."""
    return f"{function} ({file.rpartition('/')[2]}:{line})@{PACKAGES}/{file}"


KNOBS = {knob.name: knob for knob in options()}
LOADER = "torch/utils/data/dataloader.py"
ZERO, SAVED = "deepspeed/runtime/zero", "torch/distributed/checkpoint"
EXAMPLES: dict[str, str] = {
    "trainer-pin-memory": of("transformers/trainer.py", "Trainer._prepare_input"),
    "trainer-persistent-workers": of("transformers/trainer.py", "Trainer._inner_training_loop"),
    "lightning-pin-memory": of("lightning/fabric/utilities/apply_func.py", "move_data_to_device.<locals>.batch_to"),
    "deepspeed-pin-memory": of("deepspeed/runtime/zero/stage3.py", "DeepSpeedZeroOptimizer_Stage3.partition_grads"),
    "accelerate-offload": of("accelerate/hooks.py", "AlignDevicesHook.pre_forward"),
    "accelerate-pin-memory": of("accelerate/data_loader.py", "DataLoaderShard.__iter__"),
    "vllm-swap-space": of("vllm/worker/cache_engine.py", "CacheEngine._allocate_kv_cache"),
    "vllm-kv-offload": of("vllm/v1/kv_offload/worker/cpu_gpu.py", "CpuGpuOffloadingHandlers.__init__"),
    "vllm-cpu-offload": of("vllm/model_executor/models/utils.py", "maybe_offload_to_cpu.<locals>.forward"),
    "sglang-host-cache": of("sglang/srt/mem_cache/memory_pool_host.py", "MHATokenToKVPoolHost.init_kv_buffer"),
    "fsdp2-offload": of("torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py", "foreach_reduce", 626),
    "fsdp1-offload": of("torch/distributed/fsdp/_flat_param.py", "FlatParamHandle.flat_param_to"),
    "ddp-inputs": of("torch/distributed/utils.py", "_recursive_to.<locals>.to_map"),
    "checkpoint-staging": of("torch/distributed/checkpoint/staging.py", "BlockingAsyncStager.stage"),
    "save-on-cpu": of("torch/autograd/graph.py", "save_on_cpu.__init__.<locals>.pack_to_cpu", 393),
    "dataloader-persistent-workers": of(LOADER, "_MultiProcessingDataLoaderIter.__init__"),
    "dataloader-context": of(LOADER, "_MultiProcessingDataLoaderIter.__init__"),
    "safetensors-mapped": of("safetensors/torch.py", "load_file"),
    "numba-pinned": of("numba/cuda/cudadrv/devicearray.py", "DeviceNDArray.copy_to_host"),
    "cupy-set": of("cupy/_creation/from_data.py", "asarray"),
    "cupy-get": of("cupy/__init__.py", "asnumpy"),
    "jax-preallocate": "tsl::BFCAllocator::RegionManager::AddAllocationRegion(void*, unsigned long)@"
    f"{PACKAGES}/jax_plugins/xla_cuda13/xla_cuda_plugin.so",
    "jax-to-host": of("jax/_src/array.py", "ArrayImpl._value"),
    "jax-to-device": of("jax/_src/api.py", "device_put"),
    "rmm-pool": f"rmm::mr::cuda_memory_resource::do_allocate@{PACKAGES}/librmm/lib64/librmm.so",
    "rmm-managed": f"rmm::mr::managed_memory_resource::do_allocate@{PACKAGES}/librmm/lib64/librmm.so",
    "cudf-pinned-pool": f"cudf::get_pinned_memory_resource()@{PACKAGES}/libcudf/lib64/libcudf.so",
    "numpy-join": of("numpy/_core/shape_base.py", "vstack"),
}
"""Functions as they stand on stacks of these libraries."""

NEXT = of(LOADER, "_BaseDataLoaderIter.__next__", 732)
PIN_THREAD = of("torch/utils/data/_utils/pin_memory.py", "do_one_step", 42)


def ended(run: Scene) -> Int64:
    """Per wall row the millisecond in which its sample was taken."""
    return (run.course.wall.time_ns - 1) // MS


def candidate(run: Scene, first: int, last: int, name: str, **other: object) -> Candidate:
    """One that claims the milliseconds [first, last), nearly all of which its cure saves."""
    ns = (last - first) * MS
    rows = np.flatnonzero((ended(run) >= first) & (ended(run) < last))
    site = Site("step", "train.py", 7, "")
    made = Candidate(
        "train.py:7 wastes time.", site, "work", rows, ns, Estimate(ns // 10, 0, ns // 5, "this run"), cure(name, "")
    )
    return replace(made, **other)  # type: ignore[arg-type]


def beside(knob: Knob) -> list[str]:
    """Frames that a program has elsewhere where this row applies."""
    return [NEXT, EXAMPLES["dataloader-context"]] if knob.present else []


def program(knob: Knob, more: Sequence[str] = (), times: int = 4) -> Scene:
    """A run that is under the functions of a row several times."""
    stack = (LINE, EXAMPLES[knob.name]) if knob.frames else (LINE,)
    samples = [sample for turn in range(times) for sample in ran(100 * turn, 100 * turn + 50, stack)]
    samples += [sample for turn in range(times) for sample in ran(100 * turn + 50, 100 * turn + 100, (LINE,))]
    for number, frame in enumerate([*beside(knob), *more]):
        samples += ran(100 * times + number, 100 * times + number + 1, (LINE, frame))
    return scene(recorded(sorted(samples, key=lambda sample: sample.time_ns)))


def answers(run: Scene, knob: Knob, times: int = 4) -> list[Candidate]:
    name = min(knob.answers)
    at = ended(run)
    under = np.flatnonzero((at // 100 < times) & (at % 100 < 50))
    return with_options(run, [candidate(run, 0, 50 * times, name, rows=under)])


@pytest.mark.parametrize("name", KNOBS)
def test_option_is_the_cure_of_a_cost_under_its_functions(name: str) -> None:
    knob = KNOBS[name]
    times = 1 if name == "dataloader-context" else 4
    (found,) = answers(program(knob, times=times), knob, times)
    assert found.cure.id in knob.answers
    assert (found.cure.text, found.cure.code, found.cure.option) == (knob.text, knob.code, knob.option)
    said = [one.text for one in found.evidence]
    assert knob.source in said[-1]
    if knob.frames:
        function = EXAMPLES[name].partition("@")[0].rpartition(" (")[0] or EXAMPLES[name].partition("@")[0]
        assert said[0].startswith(f"{function} (")
        assert said[0].endswith("), which this line calls, takes 100 % of it.")


@pytest.mark.parametrize("name", [name for name in EXAMPLES if not KNOBS[name].line])
def test_option_answers_no_cost_that_lies_elsewhere(name: str) -> None:
    knob = KNOBS[name]
    run = program(replace(knob, frames=()), [EXAMPLES[name]])
    (found,) = answers(run, knob)
    assert found.cure == cure(found.cure.id, "")


@pytest.mark.parametrize("name", EXAMPLES)
def test_option_answers_no_cost_of_another_kind(name: str) -> None:
    run = program(KNOBS[name])
    others = set(CURES) - set().union(*(knob.answers for knob in options()))
    assert others
    given = candidate(run, 0, 100, min(others))
    assert with_options(run, [given]) == [given]


def test_product_that_is_made_only_to_be_copied_is_written_to_pinned_memory() -> None:
    """`cupy.asarray(base * k)`: NumPy fills new memory, and CuPy copies it to its pinned memory, then to the GPU."""
    product = (LINE, *FAULT[1:], "do_anonymous_page")
    freed = (LINE, *FREE[1:])
    staged = (LINE, EXAMPLES["cupy-set"], "__memmove_evex_unaligned_erms@/usr/lib/libc.so.6")
    samples = [
        sample
        for step in range(8)
        for sample in (
            *ran(100 * step, 100 * step + 30, product),
            *ran(100 * step + 30, 100 * step + 60, staged),
            *ran(100 * step + 60, 100 * step + 70, freed),
            *ran(100 * step + 70, 100 * step + 100, ("main (train.py:3)@/app/train.py",)),
        )
    ]
    (one,) = search(scene(recorded(samples))).found
    assert one.cure.option == KNOBS["cupy-set"].option
    assert abs(one.cost_ns - 8 * 70 * MS) <= 5 * MS
    assert one.site.place == "train.py:7"


def test_option_of_a_line_answers_no_other_line() -> None:
    elsewhere = ("main (train.py:3)@/app/train.py",)
    run = scene(
        recorded([*ran(0, 50, elsewhere), *ran(50, 100, (LINE, EXAMPLES["cupy-set"])), *ran(100, 150, (LINE,))])
    )
    other, beside = candidate(run, 0, 50, "reuse-memory"), candidate(run, 100, 150, "reuse-memory")
    assert with_options(run, [other]) == [other]
    (found,) = with_options(run, [beside])
    assert found.cure.option == KNOBS["cupy-set"].option


def test_every_option_with_functions_has_an_example() -> None:
    assert {knob.name for knob in options() if knob.frames} == set(EXAMPLES)


def test_checkpoint_that_is_saved_whole_is_staged_too() -> None:
    knob = KNOBS["checkpoint-staging"]
    run = scene(recorded(ran(0, 100, (LINE, of("torch/serialization.py", "_save", 967)))))
    (found,) = with_options(run, [candidate(run, 0, 100, "pinned-buffer")])
    assert found.cure.option == knob.option


def test_data_loader_that_pins_is_not_told_to_pin() -> None:
    knob = KNOBS["dataloader-pin-memory"]
    (pins,) = answers(program(knob, [PIN_THREAD]), knob)
    assert pins.cure == cure("pin-source", "")


@pytest.mark.parametrize(("starts", "told"), [(1, False), (2, False), (3, True)])
def test_workers_persist_only_where_they_start_again(starts: int, told: bool) -> None:
    knob = KNOBS["dataloader-persistent-workers"]
    (found,) = answers(program(knob, times=starts), knob, starts)
    assert ("persistent_workers=True" in found.cure.option) == told
    assert "DataLoader(" in found.cure.option


def test_costs_that_one_option_answers_are_one() -> None:
    run = program(KNOBS["save-on-cpu"])
    first, second = candidate(run, 0, 40, "pinned-buffer"), candidate(run, 20, 50, "pin-source")
    site, rest = Site("f", "train.py", 9, ""), candidate(run, 50, 60, "spawn")
    (other, merged) = with_options(run, [first, replace(second, site=site, title="train.py:9 copies."), rest])
    assert other == rest
    # Twenty milliseconds are in both, and count once.
    assert merged.cost_ns == 50 * MS
    assert merged.saving.likely_ns == 45 * MS
    assert len(merged.rows) == 50
    assert merged.site == first.site
    assert "train.py:9 copies. It costs 10 ms more, and the same option answers it." in [
        one.text for one in merged.evidence
    ]


def test_options_that_stand_at_a_line_are_told_of_each_line() -> None:
    run = program(KNOBS["numba-pinned"])
    here, there = candidate(run, 0, 20, "pinned-buffer"), candidate(run, 20, 40, "pinned-buffer")
    moved = replace(there, site=Site("f", "train.py", 9, ""))
    assert len(with_options(run, [here, moved])) == 2
    assert len(with_options(run, [here, there])) == 1


def offloading(thread: int = 200) -> Opportunities:
    """Copies to the host in the line, and back in a thread of PyTorch that runs none of the program's code."""
    forward = (LINE, of("torch/autograd/graph.py", "save_on_cpu.__init__.<locals>.pack_to_cpu", 393), *STAGING)
    back = (of("torch/autograd/graph.py", "save_on_cpu.__init__.<locals>.unpack_from_cpu", 405), *STAGING)
    waiting = ("backward (train.py:8)@/app/train.py", "futex_wait_queue", "schedule")
    samples, calls = [], []
    for step in range(5):
        at = 100 * step
        samples += [*ran(at, at + 50, forward), *ran(at + 50, at + 100, back, tid=thread)]
        samples += waited(at + 50, at + 100, waiting)
        calls.append(to_host(at, at + 50, 500 * MIB, site=0, address=4096))
        calls.append(to_gpu(at + 50, at + 100, 300 * MIB, site=1, tid=thread, address=4096))
    path = f"{PACKAGES}/torch/autograd/graph.py"
    sites = (
        Caller("step", "train.py", 7, "/app/train.py"),
        Caller("save_on_cpu.__init__.<locals>.unpack_from_cpu", "torch/autograd/graph.py", 405, path),
    )
    samples.sort(key=lambda sample: sample.time_ns)
    return search(scene(recorded(samples, calls, sites=sites)))


def test_library_thread_counts_for_the_line_that_waits_for_it() -> None:
    found = offloading()
    (one,) = found.found
    assert one.site.place == "train.py:7"
    assert one.cure.option == "save_on_cpu(pin_memory=True)"
    assert "save_on_cpu(pin_memory=True) saves about" in found.headline
    assert any(text.startswith("train.py:8 copies 1.465 GiB to the GPU") for text in (e.text for e in one.evidence))


def test_table_says_for_each_row_what_its_makers_document() -> None:
    names = [knob.name for knob in table()]
    assert len(set(names)) == len(names)
    for knob in table():
        assert knob.answers <= set(CURES), knob.name
        assert re.fullmatch(r"https://\S+", knob.source), knob.name
        assert knob.code or knob.environment, knob.name
        assert (knob.framework is None) == bool(knob.text), knob.name
        assert not knob.text or knob.text.endswith("."), knob.name
        compile(knob.code, knob.name, "exec")
        settings = knob.environment.split()
        assert all(re.fullmatch(r"[A-Z_][A-Z0-9_]*=\S+", setting) for setting in settings), knob.name
        assert re.fullmatch(r"(\d+(\.\d+)*)?", knob.since), knob.name
        assert re.fullmatch(r"(\d+(\.\d+)*)?", knob.until), knob.name


@pytest.mark.parametrize(
    ("name", "frame"),
    [
        ("jax-to-device", of("jax/_src/array.py", "_array_shard_arg")),
        ("safetensors-mapped", of("safetensors/torch.py", "load_model")),
        ("deepspeed-pin-memory", of(f"{ZERO}/stage_1_and_2.py", "DeepSpeedZeroOptimizer.copy_grads_in_partition")),
        ("fsdp2-offload", of("torch/distributed/fsdp/_fully_shard/_fsdp_param.py", "FSDPParam.all_gather_inputs")),
        ("checkpoint-staging", of(f"{SAVED}/_state_dict_stager.py", "StateDictStager._stage_untyped_storage")),
        ("checkpoint-staging", of("torch/distributed/_state_dict_utils.py", "_offload_state_dict_to_cpu")),
        ("numba-pinned", of("numba_cuda/numba/cuda/api.py", "to_device")),
    ],
)  # fmt: skip
def test_functions_that_read_the_option_in_the_library_are_those_of_its_row(name: str, frame: str) -> None:
    knob = KNOBS[name]
    run = scene(recorded([*ran(0, 50, (LINE, frame)), *ran(50, 100, (LINE,))]))
    assert sum(run.ns(np.flatnonzero(run.under(one))) for one in knob.frames) == 50 * MS


@pytest.mark.parametrize(
    ("name", "frame"),
    [
        ("deepspeed-pin-memory", of(f"{ZERO}/contiguous_memory_allocator.py", "ContiguousMemoryAllocator.defrag")),
        ("fsdp2-offload", of("torch/distributed/fsdp/_fully_shard/_fsdp_state.py", "FSDPState._root_pre_forward")),
        ("accelerate-pin-memory", of("accelerate/data_loader.py", "prepare_data_loader")),
        ("checkpoint-staging", of(f"{SAVED}/planner_helpers.py", "_create_read_items")),
    ],
)  # fmt: skip
def test_functions_that_do_not_read_the_option_are_not(name: str, frame: str) -> None:
    run = scene(recorded(ran(0, 50, (LINE, frame))))
    assert not any(run.under(one).any() for one in KNOBS[name].frames)


def test_libraries_between_them_have_an_option_for_every_one_that_users_asked_for() -> None:
    libraries = {knob.library for knob in options()}
    asked = "torch transformers lightning deepspeed accelerate safetensors cupy jax numba rmm cudf vllm sglang numpy"
    assert set(asked.split()) <= libraries


def test_the_table_names_functions_that_the_numpy_here_has(tmp_path: Path) -> None:
    """`python -m tests.truth.knobs` asks the same of each library."""
    here = Path(np.__file__).parents[1]
    assert [right for right, _ in said(KNOBS["numpy-join"], [here])] == [True]
    (tmp_path / "numpy/_core").mkdir(parents=True)
    (tmp_path / "numpy/_core/shape_base.py").write_text("def joined(): ...\n")
    ((right, line),) = said(KNOBS["numpy-join"], [tmp_path])
    assert (right, line.split()[0]) == (False, "MISSING")
    assert list(said(KNOBS["cupy-get"], [tmp_path])) == [(True, "not here  cupy-get")]


def test_versions_are_said_where_not_all_have_the_option() -> None:
    knob = KNOBS["save-on-cpu"]
    assert knob.versions == "torch from 1.10"
    assert replace(knob, until="3.0").versions == "torch from 1.10 to before 3.0"
    assert replace(knob, since="").versions == "torch"


def test_words_of_a_framework_are_those_of_its_row() -> None:
    assert words_of("pinned-buffer", "pytorch") is not None
    assert words_of("pinned-buffer", "no-framework") is None
