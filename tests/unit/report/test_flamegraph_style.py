"""Folded stacks spelled as FlameGraph's stackcollapse-perf.pl spells them, and read back with their annotations."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from pinprof.data.model import KERNEL, USER, Capture, Dso
from pinprof.read.formats.folded import read
from pinprof.read.perf.script import read_perf_script
from pinprof.report.export.flamegraph_style import _frame_name
from pinprof.report.export.plain import write_folded

HEADER = "a app/7 12/34 [000] 1.{}: {} cycles:\n"


def collapsed(capture: Capture) -> list[str]:
    stream = io.StringIO()
    write_folded(capture, stream, style="flamegraph")
    return stream.getvalue().splitlines()


def of_text(text: str) -> list[str]:
    return collapsed(read_perf_script(text.splitlines(keepends=True), "text"))


def folded_again(tmp_path: Path, *lines: str) -> list[str]:
    path = tmp_path / "stacks.folded"
    path.write_text("".join(f"{line}\n" for line in lines))
    return collapsed(read(path))


@pytest.mark.parametrize(
    ("symbol", "dso", "mode", "inlined", "spelled"),
    [
        ("do_idle", Dso("[kernel.kallsyms]", "", "kernel"), KERNEL, False, "do_idle_[k]"),
        ("nv_ioctl", Dso("[nvidia]", "", "module"), KERNEL, False, "nv_ioctl_[k]"),
        ("[unknown kernel]", Dso("[kernel.kallsyms]", "", "kernel"), KERNEL, False, "[[kernel.kallsyms]]_[k]"),
        ("[nvidia]", Dso("[nvidia]", "", "module"), KERNEL, False, "[[nvidia]]_[k]"),
        ("__vdso_gettimeofday", Dso("[vdso]", "", "vdso"), USER, False, "__vdso_gettimeofday_[k]"),
        ("[libc.so.6]", Dso("/lib/libc.so.6", "", "file"), USER, False, "[libc.so.6]"),
        ("[unknown]", Dso("[unknown]", "", "anon"), USER, False, "[unknown]"),
        ("Ljava/io/Stream;::print", Dso("/tmp/perf-1.map", "", "jit"), USER, False, "java/io/Stream:::print_[j]"),
        ("Lcom/A;::f->Lcom/B;::g", Dso("/tmp/perf-1.map", "", "jit"), USER, False, "com/A:::f_[j];com/B:::g_[i]"),
        ("LazyCompile:~f /x.js:1", Dso("/tmp/perf-1.map", "", "jit"), USER, False, "LazyCompile:~f /x.js:1_[j]"),
        ("RegExp:[&<>\"']", Dso("/tmp/perf-1.map", "", "jit"), USER, False, "RegExp:[&<>]_[j]"),
        ("run(int, char**)", Dso("/a", "", "file"), USER, True, "run_[i]"),
        ("(anonymous namespace)::f(int)", Dso("/a", "", "file"), USER, False, "(anonymous namespace)::f"),
        ("net/http.(*Client).Do", Dso("/a", "", "file"), USER, False, "net/http.(*Client).Do"),
        ("std::ptr<A>::operator->() const", Dso("/a", "", "file"), USER, False, "std::ptr<A>::operator->"),
        ("step (train.py:12)", Dso("train.py", "", "python"), USER, False, "step (train.py:12)"),
        ("a;b\nc", Dso("/a", "", "file"), USER, False, "a:b c"),
    ],
)  # fmt: skip
def test_functions_are_spelled_as_flamegraph_does(
    symbol: str, dso: Dso, mode: int, inlined: bool, spelled: str
) -> None:
    assert _frame_name(symbol, dso, mode, inlined=inlined, named=True) == spelled


def test_the_process_is_the_root_and_lines_are_in_order() -> None:
    frames = "\t 2 read ([kernel.kallsyms])\n\t 3 f (inlined)\n\t 1 main(int) (/bin/a)\n\n"
    text = HEADER.format(1, 5) + frames + "b 9 1.2: 7 cycles:\n\t 1 main (/bin/b)\n\n" + HEADER.format(3, 2) + frames
    assert of_text(text) == ["a_app/7;main;f_[i];read_[k] 7", "b;main 7"]


def test_a_sample_has_the_name_that_its_thread_had_at_the_time() -> None:
    frame = "\t 1 main (/bin/a)\n\n"
    text = "".join(f"{name} 9 1.{number}: 1 cycles:\n{frame}" for number, name in enumerate(["sh", "dd", "dd", "sh"]))
    assert of_text(text) == ["dd;main 2", "sh;main 2"]


def test_a_sample_without_a_stack_is_its_process() -> None:
    assert of_text("dd 9 1.1: 3 cycles:\n\n") == ["dd 3"]


def test_annotations_of_folded_stacks_are_kept(tmp_path: Path) -> None:
    lines = [
        "java;call_stub_[j];java/io/Stream:::print_[j];inner_[i];write;vfs_write_[k];fsnotify_[k];hot_[i] 9",
        "java;inner;[libc.so.6];__vdso_gettimeofday_[k] 3",
        "java;inner_[i];[[nvidia]]_[k] 2",
        "java;main;[[kernel.kallsyms]]_[k] 4",
        "perf 1",
    ]
    assert folded_again(tmp_path, *lines) == sorted(lines)
    assert folded_again(tmp_path, *folded_again(tmp_path, *lines)) == sorted(lines)


def test_an_inlined_function_and_a_called_one_are_two_frames(tmp_path: Path) -> None:
    path = tmp_path / "stacks.folded"
    path.write_text("main;f 1\nmain;f_[i] 2\n")
    frames = read(path).stacks.frames
    assert [(frames.symbol[number], number in frames.inlined) for number in range(len(frames))] == [
        ("main", False),
        ("f", False),
        ("f", True),
    ]
