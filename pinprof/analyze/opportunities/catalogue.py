"""The cures: what to change, in words, in C that is also C++, and in Python; how libraries do it is in knobs.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType

from pinprof.analyze.opportunities.knobs import words_of
from pinprof.analyze.opportunities.results import Cure
from pinprof.base.lazy_dataclass import dataclass

NATIVE, PYTORCH, NUMPY, CUPY, JAX, PYTHON = "", "pytorch", "numpy", "cupy", "jax", "python"


@dataclass(frozen=True)
class Entry:
    """One cure, in the languages of programs."""

    text: str
    phrase: str
    """As the subject of `… saves about 2 s`."""
    code: Mapping[str, str] = field(default_factory=dict)


CURES: Mapping[str, Entry] = MappingProxyType(
    {
        "touch-then-register": Entry(
            "Create the pages first: request huge pages, touch them with several threads, then register the memory.",
            "touching huge pages with several threads, then registering",
            {
                NATIVE: (
                    "void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);\n"
                    "madvise(p, size, MADV_HUGEPAGE);\n"
                    "#pragma omp parallel for num_threads(8)\n"
                    "for (int part = 0; part < 8; part++) memset((char *)p + part * (size / 8), 0, size / 8);\n"
                    "cudaHostRegister(p, size, cudaHostRegisterDefault);"
                ),
                PYTHON: (
                    "m = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
                    "m.madvise(mmap.MADV_HUGEPAGE)\n"
                    "address = ctypes.addressof(ctypes.c_char.from_buffer(m))\n"
                    "with ThreadPoolExecutor(8) as pool:\n"
                    "    list(pool.map(lambda i: ctypes.memset(address + i * (size // 8), 0, size // 8), range(8)))\n"
                    "cudaHostRegister(address, size, 0)  # torch.cuda.cudart(), cupy.cuda.runtime, cuda.bindings"
                ),
            },
        ),
        "pool-pinned": Entry(
            "Pin once and reuse: take the buffers from a pool instead of pinning and freeing them each time.",
            "a pool of pinned buffers",
            {
                NATIVE: (
                    "// before the loop\n"
                    "void *pool[8];  // as many as are in use at the same time\n"
                    "for (int i = 0; i < 8; i++) cudaMallocHost(&pool[i], size);\n"
                    "// in the loop: use pool[i % 8], free nothing"
                ),
            },
        ),
        "pin-in-pieces": Entry(
            "Pin in pieces of at most 256 MiB, so that other CUDA calls can run in between, or pin before other "
            "threads start to work.",
            "pinning in pieces",
            {
                NATIVE: (
                    "const size_t most = 256 << 20;\n"
                    "for (size_t at = 0; at < size; at += most)\n"
                    "    cudaHostRegister((char *)p + at, size - at < most ? size - at : most, 0);"
                ),
            },
        ),
        "pin-before-serving": Entry(
            "Pin at start-up, before the threads that serve begin to work.",
            "pinning before the work begins",
            {
                NATIVE: "cudaMallocHost(&pool, size);  // at start-up, before other threads call CUDA",
            },
        ),
        "other-process": Entry(
            "Let the other process pin in pieces of at most 256 MiB, or before this program serves; the driver handles "
            "one process at a time.",
            "letting the other process pin in pieces",
        ),
        "pin-less": Entry(
            "Pin only the memory that is copied.",
            "pinning less",
        ),
        "pin-exact": Entry(
            "Pin the exact size: configure the allocator not to round large blocks up to a power of two, or register"
            " memory of the right size.",
            "pinning the exact size",
        ),
        "register-once": Entry(
            "Register the memory once, before the loop, and unregister it at the end.",
            "registering once",
            {NATIVE: "cudaHostRegister(p, size, cudaHostRegisterDefault);  // once, before the loop"},
        ),
        "pool-device": Entry(
            "Take device memory from a pool that keeps freed memory.",
            "a memory pool",
            {
                NATIVE: (
                    "cudaMemPool_t pool;\n"
                    "cudaDeviceGetDefaultMemPool(&pool, device);\n"
                    "uint64_t keep = UINT64_MAX;\n"
                    "cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep);\n"
                    "cudaMallocAsync(&p, size, stream);  // and cudaFreeAsync(p, stream)"
                ),
            },
        ),
        "pool-managed": Entry("Allocate managed memory once and reuse it.", "allocating once"),
        "pinned-buffer": Entry(
            "Copy through pinned memory that you allocate once and reuse.",
            "a reused pinned buffer",
            {
                NATIVE: (
                    "cudaMallocHost(&host, size);  // once, instead of malloc\n"
                    "cudaMemcpyAsync(device, host, size, cudaMemcpyHostToDevice, stream);"
                ),
            },
        ),
        "pin-source": Entry(
            "Pin the memory once, because it is copied repeatedly.",
            "pinning the source once",
            {
                NATIVE: "cudaHostRegister(host, size, cudaHostRegisterDefault);  // once, before the loop",
            },
        ),
        "huge-pages": Entry(
            "Use huge pages for large memory: each page fault then maps 2 MiB instead of 4 KiB.",
            "using huge pages",
            {
                NATIVE: "void *p = aligned_alloc(2 << 20, size); madvise(p, size, MADV_HUGEPAGE);",
            },
        ),
        "reuse-memory": Entry(
            "Keep large buffers and write into them, instead of allocating new ones each time. Where a library makes"
            " them, or they are many small ones, let malloc keep what is freed.",
            "reusing the memory",
            {
                NATIVE: (
                    "static float *buffer = NULL;  // stays from call to call\n"
                    "if (buffer == NULL) buffer = (float *)malloc(most * sizeof(float));  // once, for the largest size"
                ),
            },
        ),
        "spawn": Entry(
            "Start the process before you fill the memory, or start it without copying the memory.",
            "spawning instead of forking",
            {
                NATIVE: "posix_spawn(&pid, path, NULL, NULL, argv, environ);  // instead of fork and exec",
                PYTHON: "context = multiprocessing.get_context('forkserver')  # or 'spawn'",
            },
        ),
        "keep-pages": Entry(
            "Keep the pages: call madvise only for memory that is not used again soon. If the program relies on zeros,"
            " clear the memory with memset.",
            "keeping the pages",
            {
                NATIVE: "// after the last use only\nmadvise(p, size, MADV_DONTNEED);",
                PYTHON: "m.madvise(mmap.MADV_DONTNEED)  # after the last use only",
            },
        ),
        "protect-less": Entry(
            "Change the protection of memory less often, and only of the pages that need it.",
            "leaving the protection as it is",
            {NATIVE: "mprotect(p, size, PROT_READ | PROT_WRITE);  // once, before the loop"},
        ),
        "track-writes": Entry(
            "Let the kernel record which pages are written, instead of a signal for each; or watch larger pieces.",
            "recording writes without signals",
            {
                NATIVE: (
                    "// userfaultfd in mode UFFDIO_REGISTER_MODE_WP with UFFD_FEATURE_WP_ASYNC (Linux 6.7);\n"
                    "// written pages: ioctl(pagemap, PAGEMAP_SCAN, &scan) with PM_SCAN_WP_MATCHING.\n"
                    "// Older kernels: write 4 to /proc/self/clear_refs, read bit 55 of /proc/self/pagemap"
                ),
            },
        ),
        "sync-file-less": Entry(
            "Write the file back less often: each time makes its pages read-only again, and the next write to each"
            " faults. The mapping stays shared.",
            "writing the file back once",
            {
                NATIVE: "msync(p, size, MS_SYNC);  // after the last write, not after each round",
                PYTHON: "m.flush()  # after the last write, not after each round",
            },
        ),
        "map-at-once": Entry(
            "Map all pages of the file at once, or read the file into a reused buffer.",
            "mapping all pages at once",
            {
                NATIVE: "madvise(p, size, MADV_POPULATE_READ);  // Linux 5.14; before: MAP_POPULATE",
                PYTHON: "m = mmap.mmap(f.fileno(), 0, flags=mmap.MAP_PRIVATE | mmap.MAP_POPULATE, prot=mmap.PROT_READ)",
            },
        ),
        "read-file": Entry(
            "Read the file into a reused, page-aligned buffer instead of a private mapping.",
            "reading into a reused buffer",
            {
                NATIVE: "pread(fd, buffer, size, offset);  // buffer = aligned_alloc(4096, size), once",
                PYTHON: "file.raw.readinto(buffer)  # buffer = mmap.mmap(-1, size), once",
            },
        ),
        "record-mappings": Entry(
            "Record what is mapped where: with pinprof's own recorder, or with perf's data addresses. Where it is a"
            " file, read it into a buffer; where another process shares it since a fork, spawn processes instead.",
            "knowing what is mapped",
            {
                NATIVE: "// pinprof record -- PROGRAM\n// perf record -d -g -e cpu-clock,page-faults -- PROGRAM",
            },
        ),
        "prefetch": Entry(
            "Prefetch managed memory before its use: to the GPU before the kernel, and to the host before the CPU "
            "reads it.",
            "prefetching",
            {
                NATIVE: (
                    "struct cudaMemLocation gpu = {cudaMemLocationTypeDevice, 0};\n"
                    "struct cudaMemLocation host = {cudaMemLocationTypeHost, 0};\n"
                    "cudaMemPrefetchAsync(p, size, gpu, 0, stream);   // before the kernel\n"
                    "cudaMemPrefetchAsync(p, size, host, 0, stream);  // after it, before cudaStreamSynchronize\n"
                    "// CUDA 12 takes a device number instead; cudaCpuDeviceId is the host"
                ),
            },
        ),
        "batch-copies": Entry(
            "Copy once instead of many times: make the pieces contiguous and copy them together.",
            "one large copy",
            {
                NATIVE: (
                    "cudaMemcpyAsync(device, host, rows * size, cudaMemcpyHostToDevice, stream);  // or back\n"
                    "// if the pieces are not contiguous: cudaMemcpy2DAsync, or cudaMemcpyBatchAsync (CUDA 12.8)"
                ),
            },
        ),
        "sync-less": Entry(
            "Synchronise less often: keep results on the GPU and read them only every 100 steps or so.",
            "synchronising less often",
            {
                NATIVE: "if (step % 100 == 99) cudaStreamSynchronize(stream);",
            },
        ),
        "use-streams": Entry(
            "Overlap copies and kernels: queue each step on one of several streams, each with its own GPU memory, and"
            " wait for the results later.",
            "overlapping them on streams",
            {
                NATIVE: (
                    "// once: n streams (3 keep both directions and the GPU busy), a device buffer for each\n"
                    "cudaStream_t s = streams[i % n]; float *d = buffers[i % n];\n"
                    "cudaMemcpyAsync(d, host[i], size, cudaMemcpyHostToDevice, s);\n"
                    "kernel<<<grid, block, 0, s>>>(d);\n"
                    "cudaMemcpyAsync(host[i], d, size, cudaMemcpyDeviceToHost, s);\n"
                    "// after the loop: cudaDeviceSynchronize()"
                ),
            },
        ),
        "keep-resident": Entry(
            "Keep the data on the GPU between steps, and copy it to the host once, at the end.",
            "keeping it on the GPU",
            {
                NATIVE: (
                    "cudaMemcpy(device, host, size, cudaMemcpyHostToDevice);  // once, before the steps\n"
                    "// the steps work on `device`\n"
                    "cudaMemcpy(host, device, size, cudaMemcpyDeviceToHost);  // once, after them"
                ),
            },
        ),
        "context-early": Entry(
            "Create the context before the timed work begins.",
            "creating it earlier",
            {NATIVE: "cudaFree(0);  // at start-up"},
        ),
        "reuse-shared-memory": Entry(
            "Let workers write into shared memory that is allocated once, instead of allocating new memory for each "
            "batch.",
            "reusing shared memory",
            {
                PYTHON: "block = multiprocessing.shared_memory.SharedMemory(create=True, size=n)  # a few, reused",
            },
        ),
        "share-memory": Entry(
            "Let the processes write and read shared memory that is allocated once, and pass only where the data lies.",
            "shared memory",
            {
                PYTHON: (
                    "block = multiprocessing.shared_memory.SharedMemory(create=True, size=n)  # once, before the pool\n"
                    "with multiprocessing.Pool(4, attach, (block.name,)) as pool:  # attach opens it by its name\n"
                    "    pool.apply(work, (k,))  # writes to numpy.ndarray(shape, dtype, block.buf), returns nothing"
                ),
            },
        ),
        "read-ahead": Entry(
            "Have the file read in large pieces before it is needed: advise the kernel, or read it into a buffer with"
            " several threads.",
            "reading ahead",
            {
                NATIVE: (
                    "madvise(p, size, MADV_WILLNEED);  // before the first touch, and no MADV_RANDOM\n"
                    "posix_fadvise(fd, 0, size, POSIX_FADV_WILLNEED);  // before it is read\n"
                    "// or: pread(fd, buffer + at, 8 << 20, at) in several threads, with O_DIRECT past the page cache"
                ),
                PYTHON: (
                    "m.madvise(mmap.MADV_WILLNEED)  # before the first touch; numpy.memmap has it as array._mmap\n"
                    "os.posix_fadvise(fd, 0, size, os.POSIX_FADV_WILLNEED)  # before it is read"
                ),
            },
        ),
        "memory-limit": Entry(
            "Raise the memory limit, or use less memory: the page cache counts, too, so read files with O_DIRECT, or"
            " drop what was read.",
            "more memory",
            {
                NATIVE: "posix_fadvise(fd, 0, at, POSIX_FADV_DONTNEED);  // after a part of the file was used",
                PYTHON: "os.posix_fadvise(fd, 0, at, os.POSIX_FADV_DONTNEED)  # after a part of the file was used",
            },
        ),
        "defer-compaction": Entry(
            "Do not ask for huge pages here, or let the kernel make room in the background: write defer+madvise to"
            " /sys/kernel/mm/transparent_hugepage/defrag, or reserve huge pages at boot (hugetlbfs).",
            "deferring compaction",
            {NATIVE: "// no madvise(p, size, MADV_HUGEPAGE) for memory that is short-lived"},
        ),
        "bind-memory": Entry(
            "Bind the program's threads and memory to a node, or turn NUMA balancing off: kernel.numa_balancing=0.",
            "binding memory to a node",
            {NATIVE: "set_mempolicy(MPOL_BIND, &mask, sizeof(mask) * 8);  // or: numactl --cpunodebind=0 --membind=0"},
        ),
    }
)
"""By id, which is also the entry of docs/opportunities.md."""


def cure(name: str, framework: str) -> Cure:
    """A cure in the words of a framework; Python programs get no lines of C."""
    entry = CURES[name]
    own, every = (words_of(name, one) for one in (framework, NATIVE))
    language = framework and PYTHON
    code = (own.code if own else "") or entry.code.get(language, "")
    environment = next((row.environment for row in (own, every) if row and row.environment), "")
    return Cure(name, entry.text, code, environment)
