"""Folded stacks in: every writer's conventions, nothing dropped silently, memory bounded."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.analyze import analyze
from pinprof.base.errors import FormatError, PinprofError
from pinprof.data.model import KERNEL, NO_NODE, USER, Capture
from pinprof.read import read
from pinprof.read.assembly import MAX_DEPTH
from pinprof.read.formats import folded
from pinprof.report.export import plain
from pinprof.report.export.plain import write_folded
from tests.support import h200
from tests.support.examples import examples
from tests.support.profiles import Sample, capture_of, samples, weights


def parse(tmp_path: Path, text: str | bytes) -> Capture:
    path = tmp_path / "stacks.folded"
    path.write_bytes(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    return folded.read(path)


def stacks(capture: Capture) -> dict[str, int]:
    """`root;leaf` with the DSO and mode of each function → weight."""
    return {
        ";".join(f"{symbol}|{dso}|{'k' if mode == KERNEL else 'u'}" for symbol, dso, mode in functions): weight
        for (_, _, functions), weight in weights(capture).items()
    }


def test_stackcollapse_annotations_tell_kernel_jit_and_inlined(tmp_path: Path) -> None:
    found = parse(tmp_path, "py;jitted_[j];fn;inner_[i];do_syscall_64_[k];kinline_[i];[nvidia]_[k] 12\n")
    assert stacks(found) == {
        "py|[not recorded]|u;jitted|[jit]|u;fn|[not recorded]|u;inner|[not recorded]|u;"
        "do_syscall_64|[kernel.kallsyms]|k;kinline|[kernel.kallsyms]|k;[nvidia]|[nvidia]|k": 12
    }


def test_functions_qualified_by_their_object_keep_it(tmp_path: Path) -> None:
    found = parse(tmp_path, "app`main;libc.so.6`malloc;genunix`page_create 3\n")
    assert stacks(found) == {"main|app|u;malloc|libc.so.6|u;page_create|genunix|u": 3}


def test_py_spy_raw_names_the_source_file(tmp_path: Path) -> None:
    text = 'process 27:"python train.py";<module> (train.py:12);step (models/net.py:40) 7\n'
    found = parse(tmp_path, text)
    frames = found.stacks.frames
    assert frames.symbol == ('process 27:"python train.py"', "<module> (train.py:12)", "step (models/net.py:40)")
    assert [dso.name for dso in frames.dsos] == ["[not recorded]", "train.py", "net.py"]


AUSTIN = """\
# austin: 3.4.1
# interval: 1000
# mode: {}

P7;T9;a.py:main:3;a.py:f:5 1500
P7;T0:614;a.py:main:3 20
# duration: 9000
"""


@pytest.mark.parametrize(
    ("mode", "unit", "weight", "clocks"),
    [("wall", "ns", 1_500_000, False), ("cpu", "ns", 1_500_000, True), ("memory", "bytes", 1500 * 1024, False)],
)
def test_austins_stacks_count_microseconds_or_memory_and_its_remarks_are_no_stacks(
    tmp_path: Path, mode: str, unit: str, weight: int, clocks: bool
) -> None:
    capture = parse(tmp_path, AUSTIN.format(mode))
    ((event,), loss) = (capture.events, capture.losses)
    assert (event.name, event.unit, event.clocks) == (mode, unit, clocks)
    assert stacks(capture) == {
        "P7|[not recorded]|u;T9|[not recorded]|u;a.py:main:3|[not recorded]|u;a.py:f:5|[not recorded]|u": weight,
        "P7|[not recorded]|u;T0:614|[not recorded]|u;a.py:main:3|[not recorded]|u": weight // 1500 * 20,
    }
    assert loss.corrupt_bytes == 0


def test_austins_of_old_without_remarks_are_times_of_a_wall_clock(tmp_path: Path) -> None:
    (event,) = parse(tmp_path, "P7;T9;f (a.py);L5 1500\n").events
    assert (event.unit, event.elsewhere) == ("ns", True)


def test_a_stack_that_only_some_lines_have_a_process_in_is_counted_as_ever(tmp_path: Path) -> None:
    (event,) = parse(tmp_path, "P7;T9;main 1500\nmain;work 3\n").events
    assert (event.name, event.unit) == ("samples", "samples")


@pytest.mark.parametrize(
    "stack",
    [
        "swapper;secondary_startup_64_no_verify;start_secondary;cpu_startup_entry;do_idle;cpuidle_enter;intel_idle",
        "swapper;common_startup_64;cpu_startup_entry;do_idle;default_idle_call",
        "swapper;x86_64_start_kernel;start_kernel;rest_init;cpu_startup_entry;do_idle",
        "swapper/3;secondary_start_kernel;cpu_startup_entry;do_idle;cpuidle_idle_call;arch_cpu_idle;cpu_do_idle",
    ],
)
def test_what_a_processor_does_from_its_start_on_is_kernel_without_annotations(stack: str, tmp_path: Path) -> None:
    path = tmp_path / "idle.folded"
    path.write_text(f"{stack} 9\napp;main;work 1\n")
    assert analyze(read(path)).events[0].by_leaf == {"sys.idle": 9, "user.app": 1}


def test_without_annotations_everything_below_a_kernel_entry_is_kernel(tmp_path: Path) -> None:
    found = parse(tmp_path, "main;read;entry_SYSCALL_64_after_hwframe;vfs_read 5\nmain;vfs_read 2\n")
    assert stacks(found) == {
        "main|[not recorded]|u;read|[not recorded]|u;entry_SYSCALL_64_after_hwframe|[kernel.kallsyms]|k;"
        "vfs_read|[kernel.kallsyms]|k": 5,
        "main|[not recorded]|u;vfs_read|[not recorded]|u": 2,
    }
    assert any("enters the kernel" in note for note in found.losses.notes)


def test_a_bracketed_object_stands_for_a_function_without_symbol(tmp_path: Path) -> None:
    found = parse(tmp_path, "main;[libcuda.so.580];[unknown] 4\n")
    assert stacks(found) == {"main|[not recorded]|u;[libcuda.so.580]|libcuda.so.580|u;[unknown]|[unknown]|u": 4}


@pytest.mark.parametrize(
    ("symbol", "dso"),
    [
        ("_nv012345rm", "[nvidia]"),
        ("os_lock_user_pages", "[nvidia]"),
        ("memdescMapIommu", "[nvidia]"),
        ("uvm_va_block_cpu_fault", "[nvidia_uvm]"),
        ("ZSTD_decompressBlock", "[kernel.kallsyms]"),
        ("clear_page_erms", "[kernel.kallsyms]"),
        ("get_user_pages", "[kernel.kallsyms]"),
    ],
)
def test_functions_of_the_nvidia_modules_are_told_by_name(tmp_path: Path, symbol: str, dso: str) -> None:
    found = parse(tmp_path, f"main;{symbol}_[k] 1\n")
    assert stacks(found) == {f"main|[not recorded]|u;{symbol}|{dso}|k": 1}


def test_lines_without_a_count_are_left_out_and_counted(tmp_path: Path) -> None:
    found = parse(tmp_path, "a;b 3\nno count here\n\n 7\na;b 4\na;b x4\n")
    assert found.samples.weight.tolist() == [7]
    assert found.losses.corrupt_bytes == len("no count here\n 7\na;b x4\n")
    assert "3 of 5 lines" in " ".join(found.losses.notes)


def test_a_file_whose_lines_all_lack_counts_says_so(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="expected lines that end in a count"):
        parse(tmp_path, "a;b\nc;d\n")


@pytest.mark.parametrize("text", ["a;b 3\r\na;b 4\r\n", "a;b\t3\na;b 4", "a;b 3.4\na;b 3.6\n"])
def test_other_line_ends_separators_and_fractions_are_read(tmp_path: Path, text: str) -> None:
    assert parse(tmp_path, text).samples.weight.tolist() == [7]


def test_missing_callchain_comes_back_as_such(tmp_path: Path) -> None:
    found = parse(tmp_path, "[no callchain] 9\na 1\n")
    assert dict(zip(found.samples.stack.tolist(), found.samples.weight.tolist(), strict=True)) == {NO_NODE: 9, 0: 1}
    assert found.losses.missing_stacks == 1


def test_samples_have_no_times_and_no_unit_but_samples(tmp_path: Path) -> None:
    found = parse(tmp_path, "a 1\nb 2\n")
    assert found.samples.time_ns.tolist() == [0, 0]
    assert found.clock.source == "none"
    assert found.events[0].unit == "samples"


@pytest.mark.slow
def test_gzip_is_read_and_its_truncation_named(tmp_path: Path) -> None:
    lines = "".join(f"main;f{number} {number + 1}\n" for number in range(20_000))
    packed = gzip.compress(lines.encode())
    whole = parse(tmp_path, packed)
    assert int(whole.samples.weight.sum()) == 20_000 * 20_001 // 2
    cut = parse(tmp_path, packed[: len(packed) // 2])
    assert 0 < len(cut.samples) < 20_000
    assert "truncated gzip" in " ".join(cut.losses.damage)


@pytest.mark.slow
def test_stacks_of_absurd_depth_keep_their_leaf(tmp_path: Path) -> None:
    found = parse(tmp_path, ";".join(f"f{depth}" for depth in range(MAX_DEPTH + 10)) + " 1\n")
    assert found.losses.truncated_chains == 1
    leaf = found.stacks.frames[int(found.stacks.frame[found.samples.stack[0]])]
    assert leaf.symbol == f"f{MAX_DEPTH + 9}"
    assert len(found.stacks) == MAX_DEPTH


def test_counts_beyond_64_bits_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="2\\^63"):
        parse(tmp_path, "a 9000000000000000000\nb 900000000000000000\n")


@examples(60)
@given(samples)
def test_what_the_export_writes_reads_back_the_same(tmp_path: Path, found: list[Sample]) -> None:
    for name in ("cpu-clock/freq=999/", "alloc"):
        capture = capture_of(found)
        first = io.StringIO()
        write_folded(capture, first, name)
        if not first.getvalue():
            continue
        # A name with a backtick reads as qualified by its object, which the export does not write again.
        again = parse(tmp_path, first.getvalue().replace("`", "'"))
        chosen = [sample for sample in found if capture.events[sample[0]].name == name]
        assert int(again.samples.weight.sum()) == sum(weight for _, weight, _ in chosen)
        second = io.StringIO()
        write_folded(again, second)
        path = tmp_path / "second.folded"
        path.write_bytes(second.getvalue().encode("utf-8", "replace"))
        assert weights(folded.read(path)) == weights(again)


@examples(200)
@given(
    st.binary(max_size=400)
    | st.lists(st.sampled_from([b"a;b", b" 1", b"\n", b"_[k]", b"\xff", b"`", b";"])).map(b"".join)
)
def test_any_bytes_give_a_capture_or_a_clear_error(tmp_path: Path, data: bytes) -> None:
    folded.sniff(data)
    try:
        found = parse(tmp_path, data)
    except PinprofError:
        return
    assert len(found.samples) == len(found.samples.stack)
    assert found.samples.stack.max(initial=NO_NODE) < len(found.stacks)
    assert set(found.stacks.frames.mode.tolist()) <= {USER, KERNEL}


def test_the_reader_is_chosen_by_content(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("main;work 3\nmain;idle 4\n")
    assert int(read(path).samples.weight.sum()) == 7


_MEASURE = """
import sys
from collections import Counter
from pathlib import Path
from pinprof.read.formats import folded
found = folded.read(Path(sys.argv[1]))
status = Path("/proc/self/status").read_text()
peak = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))
print(int(found.samples.weight.sum()), len(found.samples), peak // 1024)
"""


@pytest.mark.slow
def test_memory_grows_with_distinct_stacks_not_with_lines(tmp_path: Path) -> None:
    path = tmp_path / "large.folded"
    block = "".join(
        f"python3;main;{';'.join(f'layer_{depth}_function_name' for depth in range(12))};leaf_{number}_[k] {number}\n"
        for number in range(5000)
    ).encode()
    with path.open("wb") as stream:
        for _ in range(60):
            stream.write(block)
    total, count, peak = map(
        int,
        subprocess.run(
            [sys.executable, "-c", _MEASURE, path], capture_output=True, text=True, check=True
        ).stdout.split(),
    )
    assert total == 60 * 5000 * 4999 // 2
    assert count == 5000
    assert path.stat().st_size > 80 << 20
    assert peak < 200


# Not uvm.all: its UVM threads are known by their names, which folded stacks lack too.
@pytest.mark.slow
@pytest.mark.parametrize("name", ["pageable", "pinned", "uvm", "both"])
def test_a_capture_that_went_through_folded_stacks_keeps_its_kernel_causes(tmp_path: Path, name: str) -> None:
    analysis = h200.analysis(name)
    for event in analysis.events:
        stream = io.StringIO()
        write_folded(analysis.capture, stream, event.event.name)
        again = analyze(parse(tmp_path, stream.getvalue())).events[0]
        # User code needs the file of each function, and the hot-loop rule addresses: folded stacks have neither.
        assert again.total == event.total
        for leaf in {*event.by_leaf, *again.by_leaf} - {"sync.poll", "copy.staging"}:
            if not leaf.startswith("user."):
                assert again.by_leaf.get(leaf, 0) == event.by_leaf.get(leaf, 0), leaf


def test_kernel_names_longer_than_any_of_a_kernel_are_the_images(tmp_path: Path) -> None:
    for number, name in enumerate(("_" * 60_000, ".cold.1" * 9_000 + "x")):
        path = tmp_path / f"{number}.folded"
        path.write_text(f"main;{name}_[k] 3\n")
        found = read(path)
        assert found.stacks.frames[1].dso.kind == "kernel"


def test_folding_looks_at_the_names_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not again for every piece of the output: a million names take seconds."""
    looks = []

    def counted(names: list[str]) -> Counter[str]:
        looks.append(len(names))
        return Counter(names)

    monkeypatch.setattr(plain, "Counter", counted)
    monkeypatch.setattr(plain, "_CHUNK", 10)
    out = io.StringIO()
    plain.write_folded(parse(tmp_path, "".join(f"main;f{number} 1\n" for number in range(100))), out)
    assert out.getvalue().count("\n") == 100
    assert looks == [102]


def test_a_difference_of_two_profiles_is_no_profile(tmp_path: Path) -> None:
    # What difffolded.pl prints.
    with pytest.raises(FormatError) as error:
        parse(tmp_path, "noploop;main 274 415\nnoploop;[unknown] 2 2\n")
    assert "two counts" in error.value.problem
    assert "pinprof diff" in error.value.remedy
    # A name may end in a number.
    capture = parse(tmp_path, "app;worker 1 5\napp;main 9\n")
    assert capture.samples.weight.sum() == 14
