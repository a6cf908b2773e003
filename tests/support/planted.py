"""A program with a secret in memory next to everything that a recording reads of it, and CUDA's libraries for it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from pinprof.data.gpu_functions import FUNCTIONS

_VALUES = {
    "sizes": "(long)batch.sizes", "pieces": "3", "properties": "(long)&where.type", "granted": "(long)&granted.address",
}  # fmt: skip
_WORDS = 12
"""As many arguments as any function has."""
_PROGRAM = """
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
#ifdef NVTX
#include <nvtx3/nvToolsExt.h>
#include <wchar.h>
#endif
#define SECRET "hunter2!hunter2!hunter2!hunter2!"
#define PAGES 400
static char memory[4096] = SECRET SECRET SECRET SECRET;
static struct {{ char before[32]; size_t sizes[3]; char behind[1200]; }} batch = {{SECRET, {{10, 20, 30}}, SECRET}};
static struct {{ char before[32]; char type[8]; int location, id; char behind[64]; }} where = {{
    SECRET, "hunter2!", 1, 0, SECRET}};
static struct {{ char before[32]; long address; char behind[64]; }} granted = {{SECRET, 1L << 40, SECRET}};
static struct {{ void *next; char behind[128]; }} frame = {{&frame, SECRET SECRET}};
{declarations}

/* Code that keeps other things in the frame pointer and in all registers that it does not need. */
static void spin(unsigned long times)
{{
#ifdef __x86_64__
    __asm__ volatile("push %%rbp\\n mov %1, %%rbp\\n mov (%2), %%rbx\\n mov %%rbx, %%r12\\n mov %%rbx, %%r13\\n"
                     "1: dec %0\\n jnz 1b\\n pop %%rbp"
                     : "+r"(times) : "r"(&frame), "r"(memory) : "rbx", "r12", "r13", "memory", "cc");
#else
    for (volatile unsigned long left = times; left; left--)
        ;
#endif
}}

static void *threaded(void *unused)
{{
    char name[16] = "named\\0hunter2!";
    prctl(PR_SET_NAME, name, 0, 0, 0);
    usleep(1000);
    return unused;
}}

#ifdef NVTX
static void tell(void)
{{
    struct {{ char before[32], text[8], behind[64]; }} told = {{SECRET, "told", SECRET}};
    struct {{ wchar_t before[8], text[8], behind[16]; }} wide = {{L"hunter2", L"wide", L"hunter2"}};
    struct {{ char before[32]; nvtxEventAttributes_t event; char behind[64]; }} given = {{SECRET, {{0}}, SECRET}};
    nvtxDomainHandle_t domain = nvtxDomainCreateA(told.text);
    given.event.version = NVTX_VERSION, given.event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    given.event.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    memcpy(&given.event.payload, "hunter2!", 8);
    given.event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    given.event.message.registered = nvtxDomainRegisterStringA(domain, told.text);
    nvtxDomainMarkEx(domain, &given.event);
    nvtxRangePushA(told.text), nvtxRangePop();
    nvtxRangeEnd(nvtxRangeStartW(wide.text));
    nvtxNameCategoryA(1, told.text);
    nvtxNameOsThreadA(getpid(), told.text);
}}
#endif

int main(int argc, char **argv)
{{
    long secret;
    pid_t parent = getppid();
    pthread_t thread;
    memcpy(&secret, "hunter2!", 8);
#ifdef NVTX
    tell();
#endif
    char *pages = mmap(0, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < PAGES; i++)
        strcpy(pages + i * 4096, SECRET);
    for (int i = 0; i < 3; i++) {{
{calls}
    }}
    pthread_create(&thread, 0, threaded, 0);
    pthread_join(thread, 0);
    puts("spinning"), fflush(stdout);
    do
        spin(SPINS);
    while (argc > 1 && getppid() == parent);
    return argv == 0 || secret == 0;
}}
"""


def build(folder: Path, *options: str, spins: int = 400_000_000) -> Path:
    """The program, which calls every watched function three times and then keeps a processor busy.

    With any argument it does so until whoever started it has ended.

    A function is called with the secret wherever it is not given what its role says.
    """
    libraries = {"cuda": "libcuda.so.1", "cudart": "libcudart.so.13"}
    of_library = {"cuda": [], "cudart": []}
    for name in FUNCTIONS:
        of_library["cudart" if name.startswith("cuda") else "cuda"].append(name)
    for short, names in of_library.items():
        (folder / f"{short}.c").write_text("".join(f"int {name}(void) {{ return 0; }}\n" for name in names))
        _cc("-shared", "-fPIC", "-o", folder / libraries[short], folder / f"{short}.c")
    text = _PROGRAM.format(
        declarations="".join(f"int {name}({', '.join(['long'] * _WORDS)});\n" for name in FUNCTIONS),
        calls="".join(f"        {name}({', '.join(_arguments(name))});\n" for name in FUNCTIONS),
    )
    (folder / "planted.c").write_text(text)
    given = (folder / "planted.c", *(folder / name for name in libraries.values()), f"-Wl,-rpath,{folder}")
    _cc(f"-DSPINS={spins}UL", "-pthread", *options, "-o", folder / "planted", *given)
    return folder / "planted"


def _arguments(name: str) -> list[str]:
    role = FUNCTIONS[name]
    places = {
        "size",
        "rows",
        "pointer",
        "target",
        "source",
        "stated",
        "stream",
        "sizes",
        "pieces",
        "properties",
        "pool",
    }
    what = {getattr(role, place): place for place in places if getattr(role, place) is not None}
    given = [what.get(place, "") for place in range(_WORDS)]
    if role.grants:
        given[0] = "granted"
    return [
        _VALUES.get(place, "(long)memory" if place in ("pointer", "target", "source") else "1") if place else "secret"
        for place in given
    ]


def _cc(*arguments: object) -> None:
    subprocess.run(["cc", "-O1", "-g", "-fno-omit-frame-pointer", *map(str, arguments)], check=True)
