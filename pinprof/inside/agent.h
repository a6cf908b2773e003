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
#include <sys/uio.h>
#include <sys/syscall.h>
#include <sys/prctl.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include "cfi.h"
#include "cures.h"
#include "own_file.h"
#include "tables.h"

#define EXPORTED __attribute__((visibility("default")))
#define INTERNAL __attribute__((visibility("hidden"), used)) /* what assembly refers to */
/* own_NAME is our function NAME also in a process that the agent has come into late, where others' stand before it. */
#define OWN(name)                                                                                                      \
    extern __typeof__(name) own_##name __attribute__((visibility("hidden")));                                          \
    __asm__(".set own_" #name ", " #name)
#define RARE __attribute__((noinline, cold))
/* Sanitizers call such functions before they can check anything. */
#define EARLY __attribute__((no_sanitize("address", "thread", "undefined")))
#define COUNT(array) (sizeof(array) / sizeof *(array))

typedef uint64_t word;

/* ---- Time: as cheap as the processor has it. Anchors in the file say what ticks are on CLOCK_MONOTONIC. ---- */

static bool counts_ticks; /* else ticks are nanoseconds */

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

/* The same moment by both, of several looks the one that took least: others may run in between. */
static void both_clocks(word *counted, word *ns)
{
    word least = UINT64_MAX;
    for (int look = 0; look < 5; look++) {
        word first = ticks(), now = nanoseconds(), took = ticks() - first;
        if (took < least) {
            least = took;
            *counted = first + took / 2;
            *ns = now;
        }
    }
}

/* ---- The file: a header with the functions' names, and chunks of units ---- */

enum { PAGE = 4096, UNIT = 64 };
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
    MODULE, /* as MAPPED, of code; stream: its place in the file */
    CODE,   /* site: number of a function of Python; bytes: length of its name and file in the next units */
    CHAIN,  /* site: number of a chain of callers; address: how many native ones, return addresses, which the next units
             * hold, and then `source` functions of Python with their lines; innermost first */
    USED,   /* begin: ticks; end: of the thread's processor time so far in ns; bytes, source: what of it in the program
             * and in the kernel is since the sample before; address: the instruction; site: the chain of its callers;
             * stream: faults and, above 32 bits, those that read a disk; function: the call of the kernel, and one, or
             * without CALLED the signal with which the kernel denied it memory; extra: us for which others kept it from
             * running since the sample before; result: ns from sample to sample
             */
    RESIDENT, /* begin: ticks; bytes, address, source: the process's memory by then that is anonymous, of files, and
               * shared, in KiB; stream, end: what of files it has mapped so far, and of it to be written privately, in
               * KiB; site: the chain of callers of the faults that its thread takes */
    NAMED,    /* bytes: length of the thread's name in the next unit */
    WITHDREW, /* the process is not sampled any more; result: why */
    MET, /* as CALL, of a function in which processes meet. address: the communicator's identity, 0 where it has none;
          * source: its number among the calls of that; stream: as CALL, or the other's rank and above 32 bits the tag
          */
    COMMUNICATOR, /* address: its identity; source: the rank in it and above 32 bits its size; extra: whose it is */
    ENTERED,      /* the agent came into a process that ran already; result: which had CUDA's driver; address: how many
                   * pointers to the driver's functions its libraries had in their data; extra: its calls are asked for, so
                   * that there is a file even where there are none */
    FORKED, /* begin, end: while it was forked; address: the child's process id; site: who did; extra, source: where it
             * is sampled, the chain of callers and the instruction that called */
    BEGUN,  /* begin: when the agent did, in a new program; bytes: processor time in ns that its process had used by
             * then for more than to load it */
    WAITED, /* begin, end: while it waited; function: in which call of the kernel, and one; extra, source: as above */
};
enum withdrawn { HANDLED, HELD_BACK }; /* the program handles the signal itself; ThreadSanitizer holds it back */
enum flag {
    SAMPLE = 1,     /* of calls that are summed otherwise */
    INSIDE = 2,     /* a call of this thread made the mapping */
    FAULTED = 4,    /* `extra` has the page faults in the call: major ones above 24 bits */
    ELSEWHERE = 8,  /* another thread made what was given back */
    INHERITED = 16, /* it was made before a fork */
    TORN = 32,      /* a chain whose outermost callers are missing */
    CALLED = 64,    /* the instruction before has called the kernel */
    PIPE = 128,     /* to read or write a pipe, as far as it can be told */
};

struct record {
    word begin, end;
    word bytes;           /* UINT64_MAX: not known */
    word address, source; /* the memory that it is about, or a copy's target; a copy's source */
    word stream;          /* UINT64_MAX: none */
    uint32_t site;        /* 0: not known */
    uint16_t function;
    uint8_t kind, flags;
    int32_t result;
    uint32_t
        extra; /* pieces of a batch; the kind of place that properties name; the number of a GPU, and one; faults */
};

struct header {
    struct own_header own;
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
    _Atomic word left;      /* nobody writes into it any more */
    word reserved[5];
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
    SAMPLED_FRAMES = 120,
    CHAINS = 4096,
    SAMPLED_CODES = 1024,
    MAPS_BYTES = 4 * PAGE,
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

struct frame { /* of Python */
    word code, instruction;
};

/* What a thread has used since it began. */
struct usage {
    word ticks, user_ns, system_ns, faults, disk_faults, sleeps;
};

/* What the sampler keeps of a thread, and where it works: a signal's stack may be small. */
struct sampling {
    struct usage before; /* up to the sample before */
    word delayed_ns, asked_at_ns;
    uint32_t samples, known_chains;
    uint32_t chance;
    unsigned spread; /* of its period: a power of two */
    char name[16];
    word readable[16]; /* pages, while a sample is taken */
    struct row row;
    word address[2 * SAMPLED_FRAMES]; /* native callers, and behind them what is said of Python's */
    struct frame frame[SAMPLED_FRAMES];
    char maps[MAPS_BYTES];
    struct {
        word hash;
        uint32_t number;
    } chain[CHAINS];
    struct {
        word code, file, name;
        uint32_t number;
    } code[SAMPLED_CODES];
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
    uint32_t sites, meetings, unloads;
    struct tallies tallies[USERS];
    uint8_t expected[EXPECTED]; /* of a function's calls at a site (calls.h) */
    struct {
        word code, file;
        bool own;
    } code[CODES];
    struct sampling sampling;
};

static _Thread_local struct thread *self __attribute__((tls_model("initial-exec")));

static inline word mixed(word hash, word value)
{
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 32;
}

#endif
