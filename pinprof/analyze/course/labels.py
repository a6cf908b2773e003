"""What a stack says about the phase of its thread: what starts, compiles or ends a program, or creates a context."""

from __future__ import annotations

import re

import numpy as np

from pinprof.base.columns import Int8
from pinprof.data.gpu_functions import ENDING, LOADING, STARTING
from pinprof.data.model import KERNEL, LONGEST_NAME, NO_NODE, USER, Bool, FrameTable, StackTable

WORK, COMPILE, START_UP, CONTEXT, EXIT, _JOINED, _EXECVE, UNKNOWN = range(8)
"""What a stack speaks for, the stronger claim later; UNKNOWN shows no function of the program."""

STARTS_PROGRAM = re.compile(r"(__(x64|arm64)_)?sys_execveat|(__(x64|arm64)_)?sys_execve|begin_new_exec|load_elf_binary")
"""Kernel functions of execve (Linux, fs/exec.c)."""

_STARTS = re.compile(
    # Loading libraries and running their constructors (glibc, elf/).
    r"(__)?(libc_)?dlm?open(_mode)?(@.*)?|_?dl_(open\w*|catch_exception|catch_error|init|start\w*|main|map_object\w*"
    r"|relocate_object)|_GLOBAL__sub_I_.*|__static_initialization_and_destruction_0.*|__libc_csu_init"
    rf"|{LOADING}"
    # Interpreter initialisation and imports (CPython, Python/pylifecycle.c, Python/import.c).
    r"|Py_(Initialize\w*|PreInitialize\w*|InitializeFromConfig)|pymain_init\w*|init_interp_main|pyinit_(main|core)"
    r"|_?PyImport_(?!GetModule|AddModule|Cleanup|Fini)\w+|import_(find_and_load|name|from)|builtin___import__"
)
_CREATES = re.compile(STARTING)
_COMPILES = re.compile(
    r"nvrtcCompileProgram|nvJitLink\w+|nvPTXCompiler\w+|nvvmCompileProgram|.*\bxla::\S*Compil\w+[(<].*"
)
_COMPILER = re.compile(r"lib(nvrtc|nvJitLink|nvptxcompiler|nvvm)[\w.-]*")
"""Libraries that only compile."""
_COMPILING_FILE = re.compile(
    r".*/(torch/(_dynamo/convert_frame|_inductor/(async_compile|graph|scheduler)|utils/cpp_extension)"
    r"|triton/compiler/\w+|jax/_src/(compiler|interpreters/(mlir|partial_eval))|cupy/cuda/compiler"
    r"|numba/(core|cuda)/(compiler|codegen))\.py"
)
"""Files of Python that turn functions into code for a device or a processor (torch.compile, Triton, JAX, CuPy, numba):
what they made runs without them."""
_ENDS = re.compile(
    r"_?Py_(Finalize\w*|Exit|AtExit\w*)|finalize_(modules|interp_\w+)|PyInterpreterState_(Clear|Delete)|exit|_exit|_Exit"
    r"|quick_exit|__run_exit_handlers|__GI_exit|__cxa_finalize|call_fini|_dl_fini|_dl_call_fini"
    rf"|{ENDING}"
)
_ENDS_IN_KERNEL = re.compile(r"(__(x64|arm64)_)?sys_exit(_group)?|do_exit|do_group_exit|exit_mmap|exit_mm")
_JOINS = re.compile(r"_shutdown \(threading\.py.*|wait_for_thread_shutdown|_python_exit \(thread\.py.*")
"""Functions in which an interpreter that ends waits for threads that still work."""

_LOADER = re.compile(r"ld-(linux|musl)[\w.-]*|ld-\d[\w.]*\.so|ld\.so\.\d|ld64\.so\.\d")
_LIBC = re.compile(r"libc(-\d[\w.]*)?\.so(\.\d)?|ld-musl[\w.-]*")
_LIBC_MAIN = re.compile(r"__libc_start_main.*")
_ENTRY = re.compile(r"_start|__libc_start_(call_)?main.*|main")
"""Where a native program begins: what stands outside of it on a stack says nothing."""
_INJECTED = re.compile(r"libTools?Injection\w*\.so.*")
"""What Nsight Systems loads into the program: it works before the program does."""
_BOOTSTRAP = re.compile(r"<?frozen importlib\._bootstrap(_external)?>?|_bootstrap(_external)?\.py|zipimport(\.py|>)?")


def phase_labels(stacks: StackTable) -> Int8:
    """Per node what its chain speaks for; one more element, UNKNOWN, read by NO_NODE.

    The end outweighs a context, a context an import: a program may create one in a module that it imports. What the
    kernel ends beneath execve is the start, and a thread that waits for others while it ends still works.
    """
    frames = stacks.frames
    rank, loader, libc = _frame_columns(frames)
    main, entry = frames.named(_LIBC_MAIN), frames.named(_ENTRY) & (frames.mode == USER) & ~_of_python(frames)
    named = np.array([not name.startswith("[") for name in frames.function], np.bool_)
    shows = (frames.mode == USER) & (named | ~libc)
    size = len(stacks) + 1
    label, depth, known = np.full(size, WORK, np.int8), np.full(size, -1, np.int8), np.zeros(size, np.bool_)
    for nodes in stacks.levels():
        frame, caller = stacks.frame[nodes], stacks.parent[nodes]
        own = np.where((caller == NO_NODE) & loader[frame], START_UP, rank[frame])
        # Exit handlers lie below a second function of libc that has no name; main lies below one.
        further = np.where((depth[caller] >= 0) & libc[frame], np.minimum(depth[caller] + 1, 2), -1)
        depth[nodes] = np.where(main[frame], 0, further)
        outside = np.where(entry[frame], WORK, label[caller])
        label[nodes] = np.maximum(outside, np.where(depth[nodes] == 2, np.maximum(own, EXIT), own))
        known[nodes] = known[caller] | shows[frame]
    label[label == _JOINED] = WORK
    label[label == _EXECVE] = START_UP
    label[(label == WORK) & ~known] = UNKNOWN
    return label


def _of_python(frames: FrameTable) -> Bool:
    return np.array([dso.kind == "python" for dso in frames.dsos], np.bool_)[frames.dso]


def _frame_columns(frames: FrameTable) -> tuple[Int8, Bool, Bool]:
    """Per frame: what it alone speaks for, whether it is the loader's, whether it is libc's."""
    rank = np.full(len(frames), WORK, np.int8)
    bootstrap = np.array([_BOOTSTRAP.fullmatch(dso.name) is not None for dso in frames.dsos], np.bool_)
    bootstrap |= np.array([_INJECTED.fullmatch(dso.name) is not None for dso in frames.dsos], np.bool_)
    compilers = [bool(_COMPILER.fullmatch(dso.name) or _COMPILING_FILE.fullmatch(dso.path)) for dso in frames.dsos]
    rank[np.array(compilers, np.bool_)[frames.dso]] = COMPILE
    rank[bootstrap[frames.dso]] = START_UP
    patterns = {
        USER: ((_JOINS, _JOINED), (_ENDS, EXIT), (_CREATES, CONTEXT), (_STARTS, START_UP), (_COMPILES, COMPILE)),
        KERNEL: ((STARTS_PROGRAM, _EXECVE), (_ENDS_IN_KERNEL, EXIT)),
    }
    for number, (name, mode) in enumerate(zip(frames.function, frames.mode.tolist(), strict=True)):
        for pattern, meaning in patterns[mode]:
            if pattern.fullmatch(name[:LONGEST_NAME]):
                rank[number] = meaning
                break
    loader = np.array([_LOADER.fullmatch(dso.name) is not None for dso in frames.dsos], np.bool_)[frames.dso]
    libc = np.array([_LIBC.fullmatch(dso.name) is not None for dso in frames.dsos], np.bool_)[frames.dso]
    return rank, loader, libc
