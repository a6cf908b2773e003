/* What the parts of the agent share: words, time, the file's layout, and what a thread keeps. agent.c says what it is.
 */

#ifndef PINPROF_INSIDE_AGENT_H
#define PINPROF_INSIDE_AGENT_H

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "The file is defined as little-endian."
#endif
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18 /* Linux 4.14, glibc 2.26 */
#endif

#define EXPORTED __attribute__((visibility("default")))
#define INTERNAL __attribute__((visibility("hidden"), used)) /* what assembly refers to */
#define RARE __attribute__((noinline, cold))
/* Sanitizers call such functions before they can check anything. */
#define EARLY __attribute__((no_sanitize("address", "thread", "undefined")))
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define COUNT(array) (sizeof(array) / sizeof *(array))

typedef uint64_t word;

/* ---- Time: as cheap as the processor has it. Anchors in the file say what ticks are on CLOCK_MONOTONIC. ---- */

static bool counts_ticks; /* else ticks are nanoseconds */

static word nanoseconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (word)time.tv_sec * 1000000000u + (word)time.tv_nsec;
}

static inline word ticks(void)
{
#if defined __x86_64__
    if (__builtin_expect(counts_ticks, 1))
        return __builtin_ia32_rdtsc();
#elif defined __aarch64__
    if (__builtin_expect(counts_ticks, 1)) {
        word value;
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
        return value;
    }
#endif
    return nanoseconds();
}

/* ---- Memory of the agent's own, which it does not note ---- */

static void *map_pages(size_t size, int flags, int file, word offset)
{
    return (void *)syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, flags, file, (off_t)offset);
}

static void unmap_pages(void *pages, size_t size) { syscall(SYS_munmap, pages, size); }

/* ---- The file: a header with the functions' names, and chunks of units (docs/capture-format.md) ---- */

enum { PAGE = 4096, UNIT = 64 };
#define LARGEST_FILE ((word)1 << 30)
#define SPARING_FILE ((word)1 << 29) /* from here on frequent calls are only summed */

enum kind {
    CALL = 1,
    SUM,    /* begin of the first, end of the last; address: how many; source: ticks in all; stream: the shortest and,
             * above 32 bits, the longest of them */
    THREAD, /* address: thread id, and above 32 bits the number of this taking: what follows is its thread's */
    ANCHOR, /* begin: ticks; end: CLOCK_MONOTONIC at that moment */
    SITE,   /* site: its number; bytes: length of the text that the next units hold */
    MAPPED, /* begin: ticks; address, source: where it begins and ends; bytes: length of the file's path, which the next
             * units hold; extra: protection and, above 8 bits, flags, as mmap takes them */
    UNMAPPED,
    MADE,     /* large memory of the host. begin, end: while it was made; function: the maker (host_memory.h) */
    MADE_SUM, /* address: how many; source: ticks that it took to make them */
    GIVEN, /* begin: when it was made; end: when it was given back; stream: ticks that this took; extra: the site that
            * gave it back */
    GIVEN_SUM, /* begin, end: of the first and the last; source: ticks that they lived; stream: as above, of all */
    ADVISED,   /* as MADE: what the kernel was told of memory, or asked for */
    ADVISED_SUM,
};
enum flag {
    SAMPLE = 1,     /* of calls that are summed otherwise */
    INSIDE = 2,     /* a call of this thread made the mapping */
    FAULTED = 4,    /* `extra` has the page faults in the call: major ones above 24 bits */
    ELSEWHERE = 8,  /* another thread made what was given back */
    INHERITED = 16, /* it was made before a fork */
};
enum stop { RUNNING, NO_ROOM, LIMIT };

struct record {
    word begin, end;
    word bytes;           /* UINT64_MAX: not known */
    word address, source; /* the memory that it is about, or a copy's target; a copy's source */
    word stream;          /* UINT64_MAX: none */
    uint32_t site;        /* 0: not known */
    uint16_t function;
    uint8_t kind, flags;
    int32_t result;
    uint32_t extra; /* pieces of a batch; the kind of place that properties name; faults */
};

struct header {
    char magic[8];
    uint32_t version, pid;
    word token, parent; /* parent: token of the process that this one was forked from; 0 after exec */
    word opened_ns;
    _Atomic word lost; /* calls not recorded */
    uint32_t size;     /* of the header, with the names */
    _Atomic uint32_t stop;
    word begun_ticks, begun_ns;   /* when the agent was loaded … */
    word opened_ticks;            /* … and ticks at `opened_ns` */
    _Atomic word unsited;         /* calls that ran with more sites than are kept */
    uint32_t names;               /* bytes of the names of functions, which follow */
    _Atomic uint32_t lost_blocks; /* making and giving back that was not recorded */
};

struct chunk {
    char magic[8];
    uint32_t size;
    _Atomic uint32_t units; /* behind this one */
    word reserved[6];
    struct record unit[];
};
_Static_assert(sizeof(struct record) == UNIT && sizeof(struct chunk) == UNIT && sizeof(struct header) == 96, "layout");

/* ---- A thread ---- */

enum {
    NATIVE_FRAMES = 24,
    OTHER_FRAMES = 6, /* of them outside the vendor's libraries */
    PYTHON_FRAMES = 64,
    WAYS = 4,
    UNWINDS = 512, /* of a thread, before they must be rare */
    NATIVES = 256, /* power of two each */
    SITES = 4096,
    TALLIES = 2048,
    CODES = 512,
    EXPECTED = 1024,
    MOST_SITES = 1 << 16, /* of a process */
};

/* A chain of return addresses, and where on the stack they were. */
struct native {
    word slot, hash; /* slot: of the first */
    uint32_t count;
    word at[NATIVE_FRAMES], address[NATIVE_FRAMES];
};

/* Chains that were found, those of calls and those of blocks: neither takes the other's room. */
enum whose { OF_CALLS, OF_BLOCKS, USERS };

struct chains {
    uint32_t unwinds, calls;
    struct native native[NATIVES];
};

struct tally {
    word key;
    uint32_t singles; /* recorded by themselves */
    uint32_t chunk;   /* number of the chunk that has the open sum; 0: none is open */
    uint32_t unit;
    uint32_t summed; /* to tell every so many as a sample */
};

struct tallies {
    uint32_t count;
    struct tally at[TALLIES];
};

struct thread {
    uint32_t generation, units, capacity, chunk_number;
    volatile int busy; /* a signal handler may come in between */
    int calling;       /* a function of the driver runs */
    struct chunk *chunk;
    int grown;
    struct chains chains[USERS];
    struct {
        word hash;
        uint32_t site;
    } site[SITES];
    uint32_t sites;
    struct tallies tallies[USERS];
    uint8_t expected[EXPECTED]; /* of a function's calls at a site (calls.h) */
    struct {
        word code, file;
        bool own;
    } code[CODES];
};

static _Thread_local struct thread *self __attribute__((tls_model("initial-exec")));

static inline word mixed(word hash, word value)
{
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 32;
}

#endif
