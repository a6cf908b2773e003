"""perf script text of many shapes reads to the same samples as the recording it was printed from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pinprof.data.model import KERNEL, NO_NODE, USER, Capture, Frame
from pinprof.read.perf.script import read_perf_script, sniff
from pinprof.read.ranges import parse_ranges
from pinprof.read.symbols.resolver import Resolver
from tests.support.perf_file import frames
from tests.unit.read.symbols.test_kallsyms import OVERLAPPING

DEFAULT = """\
# ========
# clockid: monotonic (1)
# ========
#
flame    82    37.681728:     500250   cpu-clock/freq=1999/: 
\tffffffff815ba172 ___perf_sw_event+0xa2 ([kernel.kallsyms])
\tffffffffc080c020 [unknown] ([nvidia])
\t            f90c [unknown] (/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2)
\t           2a304 main+0x4 (/tmp/flame)

UVM GPU1 BH   319/322   [003]    37.682045123:         64 page-faults/period=64/:     7f4b9c1f2000 
\t           2a308 main+0x8 (/tmp/flame)

flame    82    37.683: cpu-clock/freq=1999/: 

"""  # noqa: W291 — perf ends header lines with a space


def capture_of(text: str, **options: object) -> Capture:
    return read_perf_script(text.splitlines(keepends=True), "text", **options)  # type: ignore[arg-type]


def stack(capture: Capture, sample: int) -> list[Frame]:
    table = capture.stacks
    return [table.frames[int(table.frame[node])] for node in table.chain(int(capture.samples.stack[sample]))]


def symbols(capture: Capture, sample: int) -> list[str]:
    return [frame.symbol for frame in stack(capture, sample)]


def test_periods_beyond_all_sums_are_cut() -> None:
    lines = ["app 7 1.0: 9223372036854775807 cpu-clock: 401000 main (/app)"] * 3
    capture = read_perf_script(lines, "a.txt")
    assert 0 < sum(capture.samples.weight.tolist()) < 2**63
    assert "weights are impossibly large" in " ".join(capture.losses.notes)


def test_the_default_format_with_two_events_and_a_name_with_spaces() -> None:
    capture = capture_of(DEFAULT)
    samples = capture.samples
    assert [(event.name, event.unit, event.period, event.freq_hz) for event in capture.events] == [
        ("cpu-clock/freq=1999/", "ns", None, 1999),
        ("page-faults/period=64/", "faults", 64, None),
    ]
    assert samples.time_ns.tolist() == [37_681_728_000, 37_682_045_123, 37_683_000_000]
    assert samples.weight.tolist() == [500250, 64, 0]
    assert samples.pid.tolist() == [82, 319, 82]
    assert samples.tid.tolist() == [82, 322, 82]
    assert samples.cpu.tolist() == [-1, 3, -1]
    assert samples.address.tolist() == [0, 0x7F4B9C1F2000, 0]
    assert samples.ip.tolist() == [0xFFFFFFFF815BA172, 0x2A308, 0]
    assert samples.stack[2] == NO_NODE
    assert capture.threads == {(82, 82): "flame", (319, 322): "UVM GPU1 BH"}
    assert symbols(capture, 0) == ["___perf_sw_event", "[nvidia]", "[ld-linux-x86-64.so.2]", "main"]
    assert [frame.mode for frame in stack(capture, 0)] == [KERNEL, KERNEL, USER, USER]
    assert stack(capture, 0)[3] == stack(capture, 1)[0], "one function at two addresses is one frame"
    assert (capture.losses.unresolved_frames, capture.losses.missing_stacks, capture.losses.corrupt_bytes) == (2, 1, 0)
    assert capture.clock.source == "monotonic"


def test_kernel_addresses_are_resolved_again(tmp_path: Path) -> None:
    path = tmp_path / "kallsyms"
    path.write_bytes(OVERLAPPING)
    capture = capture_of(DEFAULT, resolver=Resolver(kallsyms=path))
    frames = stack(capture, 0)
    assert (frames[1].symbol, frames[1].dso.path) == ("uvm_vm_fault", "[nvidia_uvm]")
    assert frames[0].symbol == "___perf_sw_event", "perf's own name where kallsyms has none"


@pytest.mark.parametrize(
    "image",
    [
        "[kernel.kallsyms]", "[kernel.kallsyms].init.text", "[kernel.kallsyms]_text", "[guest.kernel.kallsyms]",
        "[kernel.vmlinux]", "/lib/modules/4.1.0-virtual/build/vmlinux", "/usr/lib/debug/boot/vmlinux-6.1.0-13-amd64",
        "/boot/vmlinux.debug", "vmlinux", "/proc/kcore", "/root/.debug/[kernel.kallsyms]/0123abcd/kallsyms", "[nf_nat]",
        "/lib/modules/6.1.0/kernel/net/tls.ko.xz",
    ],
)  # fmt: skip
def test_addresses_inside_the_file_of_the_kernel_are_the_kernels(image: str) -> None:
    capture = capture_of(f"dd 5/6 1.5: 7 cpu-clock:\n\t 3d6b4c vfs_read ({image})\n\t e5f70 read (/lib/libc.so)\n\n")
    assert [frame.mode for frame in stack(capture, 0)] == [KERNEL, USER]


@pytest.mark.parametrize("path", ["/opt/vmlinux-tools/extract", "/opt/xvmlinux", "/opt/vmlinuxes", "/opt/kernel"])
def test_programs_called_like_the_kernel_are_programs(path: str) -> None:
    capture = capture_of(f"dd 5/6 1.5: 7 cpu-clock:\n\t 3d6b4c main ({path})\n\n")
    assert [frame.mode for frame in stack(capture, 0)] == [USER]


def test_frames_without_indentation_are_frames() -> None:
    frames = "ffffffff8103d0ca native_write_msr ([kernel.kallsyms])\n7f72 start_thread (/lib/libpthread.so)"
    text = f"java 19983 cycles:\n{frames}"
    capture = capture_of(f"{text}\n\n{text}\nno frame of any kind\n\n7f72 12 1.5: cycles:\n7f80 main (/bin/a)\n")
    assert [symbols(capture, row) for row in range(3)] == [["native_write_msr", "start_thread"]] * 2 + [["main"]]
    assert capture.losses.corrupt_bytes == len("no frame of any kind\n")


def test_the_period_of_a_hardware_event_counts() -> None:
    frame = "\n\t d70 _start (/usr/lib/ld.so)\n\n"
    periods = [1, 16, 3646]
    capture = capture_of("".join(f"app 4152 1.{row}: {period} cycles:u:{frame}" for row, period in enumerate(periods)))
    assert [(event.name, event.unit) for event in capture.events] == [("cycles:u", "events")]
    assert capture.samples.weight.tolist() == periods


def test_events_printed_without_periods_count_samples() -> None:
    capture = capture_of("app 4152 1.5: cycles:\n\t d70 _start (/usr/lib/ld.so)\n\n")
    assert (capture.events[0].unit, capture.samples.weight.tolist()) == ("samples", [1])


def test_samples_that_stand_on_a_line_each_are_read() -> None:
    text = (
        "           false 39654 19115.489713:          1 cycles:  ffffffff9b201293 [unknown] ([unknown])\n"
        "           false 39654 19115.489719:          1 cycles:      7fa68b1f2d84 _dl_start+0x4 (/lib/ld-2.31.so)\n"
    )
    assert sniff(text.encode())
    capture = capture_of(text)
    assert [symbols(capture, row) for row in range(2)] == [["[unknown kernel]"], ["_dl_start"]]
    assert [stack(capture, row)[0].mode for row in range(2)] == [KERNEL, USER]


@pytest.mark.parametrize(
    ("line", "symbol", "dso"),
    [
        ("  7f12 operator new(unsigned long)+0x1c (/lib/c++.so.6)", "operator new(unsigned long)", "c++.so.6"),
        ("  7f12 std::map<a, b>::at(a const&) const (/tmp/x)", "std::map<a, b>::at(a const&) const", "x"),
        ("  7f12 (anonymous namespace)::f()+0x1 (/tmp/x)", "(anonymous namespace)::f()", "x"),
        ("  7f12 Lcom/acme/Main;::run+0x5 (/tmp/perf-7.map)", "Lcom/acme/Main;::run", "perf-7.map"),
        ("  7f12 py::f:/a b/c.py+0x5 (/tmp/perf-7.map)", "py::f:/a b/c.py", "perf-7.map"),
        ("  7f12 main+0x5 (/tmp/with space (deleted))", "main", "with space (deleted)"),
        ("  7f12 memcpy@plt+0x0 (/tmp/x)", "memcpy@plt", "x"),
        ("  7f12 memcpy@@GLIBC_2.14+0x0 (/lib/libc.so.6)", "memcpy", "libc.so.6"),
        ("  7f12 _ZN3lib3BoxIiEC2Ei (/tmp/x)", "lib::Box<int>::Box(int)", "x"),
        ("  7f12 main (/tmp/x+0x1234)", "main", "x"),
        ("  7f12 main", "main", "[unknown]"),
        ("  7f12 [unknown] ([unknown])", "[unknown]", "[unknown]"),
        ("  7f12 foo+0x3 ([vdso])", "foo", "[vdso]"),
        ("  7f12 (/tmp/x)", "[x]", "x"),
    ],
)  # fmt: skip
def test_frame_lines(line: str, symbol: str, dso: str) -> None:
    capture = capture_of(f"a.out 5/6 [001] 1.5: 7 cpu-clock:\n{line}\n\n")
    (frame,) = stack(capture, 0)
    assert (frame.symbol, frame.dso.name) == (symbol, dso)
    assert capture.losses.corrupt_bytes == 0


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("a.out 5/6 [001] 1.5: 7 cpu-clock:u:", ("a.out", 5, 6, 1, 1_500_000_000, 7, "cpu-clock:u")),
        ("         swapper     0 [000] 12.000001: 7 cpu-clock:", ("swapper", 0, 0, 0, 12_000_001_000, 7, "cpu-clock")),
        ("Web Content 2 x 99 1.5: 7 cpu-clock: ", ("Web Content 2 x", 99, 99, -1, 1_500_000_000, 7, "cpu-clock")),
        ("12 34 1.5: 7 task-clock:", ("12", 34, 34, -1, 1_500_000_000, 7, "task-clock")),
        (":1234 1234 1.5: 7 cpu-clock:", (":1234", 1234, 1234, -1, 1_500_000_000, 7, "cpu-clock")),
        ("a.out 5 cpu-clock:", ("a.out", 5, 5, -1, 0, 1, "cpu-clock")),
        ("a.out 5 1.5: cycles:ppp:", ("a.out", 5, 5, -1, 1_500_000_000, 1, "cycles:ppp")),
        ("a.out 5 1.5: 7 cpu/event=0x3c,umask=0/:", ("a.out", 5, 5, -1, 1_500_000_000, 7, "cpu/event=0x3c,umask=0/")),
        ("a.out 5 d..2. 1.5: sched:switch: comm=x ==> y:", ("a.out", 5, 5, -1, 1_500_000_000, 1, "sched:switch")),
        ("5/6 1.5: 3 page-faults:", ("", 5, 6, -1, 1_500_000_000, 3, "page-faults")),
        ("a.out -1/-1 1.5: 3 page-faults:", ("a.out", -1, -1, -1, 1_500_000_000, 3, "page-faults")),
    ],
)  # fmt: skip
def test_header_lines(header: str, expected: tuple[object, ...]) -> None:
    capture = capture_of(f"{header}\n\t  ffffffff81000000 f+0x1 ([kernel.kallsyms])\n\n")
    samples = capture.samples
    (((pid, tid), name),) = capture.threads.items()
    assert (
        name,
        pid,
        tid,
        int(samples.cpu[0]),
        int(samples.time_ns[0]),
        int(samples.weight[0]),
        capture.events[0].name,
    ) == expected
    assert symbols(capture, 0) == ["f"]


def test_samples_without_callchain_have_their_frame_on_the_header_line() -> None:
    capture = capture_of(
        "  a.out 5 [001] 1.5: 7 cpu-clock: ffffffff81000000 f+0x1 ([kernel.kallsyms])\n"
        "  a.out 5 [001] 1.6: 7 page-faults: 7f001000 [unknown] (//anon) 401000 main+0x1 (/tmp/x)\n"
        "  cafe 5 [001] 1.7: 7 cpu-clock: 401000 main+0x1 (/tmp/x)\n"
    )
    assert [symbols(capture, index) for index in range(3)] == [["f"], ["main"], ["main"]]
    assert capture.samples.address.tolist() == [0, 0x7F001000, 0]


def test_inlined_frames_lie_in_the_object_around_them_and_source_lines_are_passed_over() -> None:
    capture = capture_of(
        "a.out 5 1.5: 7 cpu-clock: \n"
        "\t    401010 inner (inlined)\n  x.c:12\n"
        "\t    401010 outer+0x10 (/tmp/x)\n  add.c:7\n  x[401010]\n"
        "\t    27249 __libc_start_call_main+0x79 (/lib/libc.so.6)\n\n"
    )
    assert [(frame.symbol, frame.dso.name) for frame in stack(capture, 0)] == [
        ("inner", "x"),
        ("outer", "x"),
        ("__libc_start_call_main", "libc.so.6"),
    ]
    assert capture.losses.corrupt_bytes == 0


def test_samples_are_ordered_by_time() -> None:
    capture = capture_of("a 5 2.5: 2 cpu-clock:\n\t 40 f (/x)\n\na 5 1.5: 1 cpu-clock:\n\t 40 g (/x)\n\n")
    assert capture.samples.weight.tolist() == [1, 2]
    assert symbols(capture, 0) == ["g"]


def test_what_is_no_sample_is_counted() -> None:
    text = "mmap failed\n" + DEFAULT
    assert capture_of(text).losses.corrupt_bytes == len("mmap failed\n")


def test_endless_lines_are_counted_not_matched() -> None:
    line = "a 1 1.5: cpu-clock: " + "fffff " * 2_000_000 + ")\n"
    assert capture_of(line + DEFAULT).losses.corrupt_bytes == len(line)


def test_ranges_name_the_clock_only_when_they_overlap_the_samples() -> None:
    text = "a 5 2.5: 2 cpu-clock:\n\t 40 f (/x)\n\n"
    near = parse_ranges(b'{"name":"a","start":2000000000,"end":3000000000}').table
    far = parse_ranges(b'{"name":"a","start":9000000000,"end":9000000001}').table
    assert capture_of(text, ranges=near).clock.source == "monotonic"
    assert len(capture_of(text, ranges=near).losses.notes) == 1
    assert capture_of(text, ranges=far).clock.source == "unknown"
    assert capture_of(text, ranges=near, clock="perf").clock.source == "perf"


def test_perf_script_text_is_recognised() -> None:
    assert sniff(DEFAULT.encode())
    assert not sniff(b"")
    assert not sniff(b"main;f;g 12\n")
    assert not sniff(b'{"schema": 1}\n')
    assert not sniff(b"just a shopping list\nmilk\n")
    assert not sniff(b"PERFILE2" + bytes(200))


@pytest.mark.slow
@given(st.lists(st.sampled_from(DEFAULT.splitlines()) | st.text(max_size=60), max_size=30).map("\n".join))
@example("a 99999999999 1.5: x:\n")
@example("a 9999999999 999999999999.999999999: 9999999999999999999 cpu-clock: ffffffffffffffff\n")
@example("a 1 1.5: x: ffffffffffffffff ffffffffffffffff a (b)\n)))\n\t1 )(\n")
def test_any_text_reads(text: str) -> None:
    capture = capture_of(text)
    samples = capture.samples
    assert ((samples.stack >= NO_NODE) & (samples.stack < len(capture.stacks))).all()
    assert (np.diff(samples.time_ns) >= 0).all()
    assert (samples.weight >= 0).all()
    for frame in map(capture.stacks.frames.__getitem__, range(len(capture.stacks.frames))):
        assert frame.symbol


def test_records_that_are_no_samples_come_first_and_between_without_a_loss() -> None:
    sample = "a.out    10    100.000000:    1000000 cpu-clock: \n\t    401000 main+0x10 (/home/x/a.out)\n\n"
    others = (
        "a.out    10    99.900000: PERF_RECORD_MMAP2 10/10: [0x400000(0x1000) @ 0 08:01 1 1]: r-xp /home/x/a.out\n"
        "a.out    10    99.900000: PERF_RECORD_COMM exec: a.out:10/10\n"
        "         a.out    10 [001]    99.9: PERF_RECORD_COMM: a.out:10/10\n"
        "a.out    10    99.900000: PERF_RECORD_FORK(11:11):(10:10)\n"
    )
    lost = "a.out    10    99.950000: PERF_RECORD_LOST lost 25\n"
    assert sniff((others * 300 + sample).encode())
    assert sniff((others * 3).encode())
    assert not sniff(b"It prints PERF records\n")
    capture = capture_of(others + sample + others + lost + sample)
    assert [len(capture.samples), capture.losses.corrupt_bytes, capture.losses.lost_samples] == [2, 0, 25]
    assert [event.name for event in capture.events] == ["cpu-clock"]


def test_kernel_addresses_that_call_the_program_are_words_of_its_stack() -> None:
    garbage = "\tc04c0cd1a394e5de [unknown] ([unknown])\n"
    known = "\tffffffff81000000 do_idle ([kernel.kallsyms])\n"
    inner = "\t    55af next+0x1 (/x)\n"
    head, entry = "a 1 1.0: 5 cpu-clock:\n", "\tffffffff81000010 vfs_read ([kernel.kallsyms])\n"
    for text, expected in (
        (inner + garbage, ["[unknown]", "next"]),
        (entry + inner + garbage + inner, ["next", "[unknown]", "next", "vfs_read[k]"]),
        (inner + known, ["[unknown]", "next"]),
        (entry + known, ["do_idle[k]", "vfs_read[k]"]),
        (entry + inner, ["next", "vfs_read[k]"]),
    ):
        assert frames(capture_of(head + text + "\n"), 0) == expected
