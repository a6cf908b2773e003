/* CUPTI: what the GPU did, on CLOCK_MONOTONIC, into one file per process.
 *
 * libcuda loads the library named in CUDA_INJECTION64_PATH when the program initialises CUDA, and calls
 * InitializeInjection. CUPTI is not linked: the copy that the process has already loaded is used (PyTorch brings one),
 * else the first usable one of PINPROF_CUPTI. Functions, numbers and layouts, restated here in our own words, are those
 * of cupti_activity.h and cupti_callbacks.h; what is read of each record lies at the same place in every header from
 * CUDA 11.8 (API 18) to 13.5 (API 130500). Later versions may only add fields at the end of a record.
 *
 * CUPTI fills buffers and hands them to `completed` in a thread of its own. Records are translated there into fixed
 * ones of 64 bytes and appended with write(2): what is written survives any end of the
 * process. A thread of ours asks for what is complete twice a second, so that no more than that is lost to SIGKILL or
 * _exit.
 *
 * CUPTI serves one tool at a time. Whoever else begins to use it (torch.profiler, a program of its own) calls one of
 * the functions in `watched`. Those calls come to us first, by two ways: the addresses that loaded libraries have
 * bound, and libcupti's own symbol table, which dlsym and libraries loaded later read. At the first such call this
 * part of the agent stops, lets go of CUPTI, and the call goes on to a CUPTI that nobody uses.
 *
 * CUPTI is let go of where its documentation says: in the callback of a driver's call that returns, here one of ours in
 * the other tool's thread, and while no other call is seen to run. cuptiFinalize beside a call that ran inside CUPTI
 * ended programs with SIGSEGV, and at a call of a PyTorch program that launched kernels without a pause with a
 * corrupted heap. So over budget nothing is finalised: CUPTI stays attached, and records no more, or in windows where
 * it is told to: a PyTorch program ended with SIGSEGV while its recording was switched on and off.
 *
 * Nothing here runs in the program's own calls but the callbacks while CUPTI is let go of, and the one at an allocation
 * of managed memory, which switches the counters of unified memory on. These slow down migrations (a program that reads
 * back 0.5 GiB after each kernel took 1.05 instead of 0.61 s on an H200), so that other programs do not pay for them,
 * nor any where pinprof has the driver's own events of it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "own_file.h"
#include "tables.h"

#define EXPORT __attribute__((visibility("default")))

/* ---- CUPTI's interface ---- */

enum activity {
    MEMCPY = 1,
    MEMSET = 2,
    KERNEL = 3,
    CONCURRENT_KERNEL = 10,
    OVERHEAD = 17,
    MEMCPY_PEER = 22,
    UNIFIED_MEMORY = 25,
    SYNCHRONIZATION = 38,
    MEMORY = 49,
};

struct memcpy_record {
    uint32_t activity;
    uint8_t copy_kind, source_kind, target_kind, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream;
    union {
        uint32_t correlation;
        struct {
            uint32_t source_device, source_context, target_device, target_context, correlation;
        } peer;
    };
};

struct memset_record {
    uint32_t activity, value;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, correlation;
    uint16_t flags, memory_kind;
};

struct kernel_record {
    uint32_t activity, unused[3];
    uint64_t start, end, completed;
    uint32_t device, context, stream, grid[3], block[3], unused_too[4], correlation;
    uint64_t grid_id;
    const char *name;
    uint64_t unused_at_last[4], graph_node; /* 0: launched by a call of its own */
};

struct synchronization_record {
    uint32_t activity, type;
    uint64_t start, end;
    uint32_t correlation, context, stream, event;
};

struct memory_record {
    uint32_t activity, operation, memory_kind, correlation;
    uint64_t address, bytes, timestamp, pc;
    uint32_t process, device, context, stream;
};

struct unified_record {
    uint32_t activity, counter;
    uint64_t value, start, end, address;
    uint32_t source, target, stream, process, flags;
};

struct overhead_record {
    uint32_t activity, kind, unused[4];
    uint64_t start, end;
};

_Static_assert(
    offsetof(struct memcpy_record, correlation) == 44 && offsetof(struct memcpy_record, peer.correlation) == 60,
    "CUPTI's layout");
_Static_assert(offsetof(struct memset_record, correlation) == 44 && offsetof(struct memset_record, memory_kind) == 50,
    "CUPTI's layout");
_Static_assert(offsetof(struct kernel_record, grid) == 52 && offsetof(struct kernel_record, correlation) == 92 &&
                   offsetof(struct kernel_record, name) == 104 && offsetof(struct kernel_record, graph_node) == 144,
    "CUPTI's layout");
_Static_assert(offsetof(struct memory_record, process) == 48 && offsetof(struct unified_record, flags) == 56 &&
                   offsetof(struct overhead_record, start) == 24,
    "CUPTI's layout");

enum { OLDEST_API = 18, NEWEST_API = 139999 };
enum { DOMAIN_DRIVER = 1, SITE_ENTER = 0, SITE_EXIT = 1 };
enum { CBID_MEM_ALLOC_MANAGED = 371 };
enum {
    COUNTER_HTOD = 1,
    COUNTER_DTOH,
    COUNTER_CPU_FAULT,
    COUNTER_GPU_FAULT,
    COUNTER_THRASHING,
    COUNTER_THROTTLING,
    COUNTER_REMOTE_MAP,
    COUNTER_DTOD,
};
enum { FLUSH_FORCED = 1 };
enum { DEVICE_BUFFERS_AT_FIRST = 6 };
enum { SCOPE_PROCESS_ALL_DEVICES = 2 };

struct counter_config {
    uint32_t scope, kind, device, enable;
};

typedef void (*requested_callback)(uint8_t **buffer, size_t *size, size_t *records);
typedef void (*completed_callback)(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);
typedef void (*api_callback)(void *user, int domain, uint32_t id, const void *data);

struct call_data { /* CUpti_CallbackData */
    int32_t site;
    const char *function;
    const void *arguments;
    void *result;
    const char *symbol;
    void *context;
    uint32_t context_number;
    uint64_t *kept; /* from a call's entry to its exit */
    uint32_t correlation;
};
_Static_assert(offsetof(struct call_data, kept) == 56, "CUPTI's layout");

static struct {
    int (*get_version)(uint32_t *version);
    int (*subscribe)(void **subscriber, api_callback callback, void *user);
    int (*unsubscribe)(void *subscriber);
    int (*enable_callback)(uint32_t enable, void *subscriber, int domain, uint32_t id);
    int (*enable_domain)(uint32_t enable, void *subscriber, int domain);
    int (*register_timestamps)(uint64_t (*now)(void));
    int (*register_callbacks)(requested_callback requested, completed_callback completed);
    int (*enable)(int activity);
    int (*disable)(int activity);
    int (*next_record)(uint8_t *buffer, size_t valid, void **record);
    int (*dropped_records)(void *context, uint32_t stream, size_t *dropped);
    int (*flush_all)(uint32_t flag);
    int (*configure_counters)(struct counter_config *config, uint32_t count);
    int (*set_attribute)(int attribute, size_t *size, void *value);
    int (*finalize)(void);
} cupti;

static const struct {
    const char *name;
    void *function;
} entries[] = {
    {"cuptiGetVersion", &cupti.get_version},
    {"cuptiSubscribe", &cupti.subscribe},
    {"cuptiUnsubscribe", &cupti.unsubscribe},
    {"cuptiEnableCallback", &cupti.enable_callback},
    {"cuptiEnableDomain", &cupti.enable_domain},
    {"cuptiActivityRegisterTimestampCallback", &cupti.register_timestamps},
    {"cuptiActivityRegisterCallbacks", &cupti.register_callbacks},
    {"cuptiActivityEnable", &cupti.enable},
    {"cuptiActivityDisable", &cupti.disable},
    {"cuptiActivityGetNextRecord", &cupti.next_record},
    {"cuptiActivityGetNumDroppedRecords", &cupti.dropped_records},
    {"cuptiActivityFlushAll", &cupti.flush_all},
    {"cuptiActivityConfigureUnifiedMemoryCounter", &cupti.configure_counters},
    {"cuptiActivitySetAttribute", &cupti.set_attribute},
    {"cuptiFinalize", &cupti.finalize},
};

/* ---- The file ---- */

enum kind {
    COPY = 1,
    SET,
    LAUNCH,
    WAIT,
    MIGRATION,
    GPU_FAULT,
    CPU_FAULT,
    ALLOCATION,
    TOOL,
    NAME,
    OTHER_COUNTER,
    WINDOW,
};
enum state { RUNNING, ENDED, STEPPED_BACK, NO_ROOM, LIMIT };

struct record {
    uint8_t kind, detail; /* detail: copy kind, wait kind, operation, counter */
    uint8_t source, target;
    int32_t device;
    uint32_t stream, correlation;
    uint64_t start_ns, end_ns;
    /* LAUNCH: blocks, threads a block; NAME: length of the text, its hash; WINDOW: its slot's chance in 2^-32, or 0 */
    uint64_t bytes, address;
    uint32_t name, flags; /* name: number of a NAME, from 1; flags: cause of a migration, access of a fault */
    uint64_t reserved;
};

struct header {
    char magic[8];
    uint32_t version, pid;
    uint64_t opened_ns, written; /* bytes of records */
    uint64_t dropped;            /* records that CUPTI had no buffer for */
    uint32_t api, state;
    uint32_t unified, unknown; /* whether counters of unified memory were on; records of unknown kinds */
    uint64_t cost_ns;          /* CPU time of translating and writing */
    uint64_t stopped_ns;       /* when recording ended before the process did; 0: it did not */
    uint64_t saved_ns;         /* when the process wrote this */
    uint64_t window_ns;        /* when the window that is open began; 0: the first, or none */
    uint64_t reserved[5];
};
_Static_assert(sizeof(struct record) == 64 && sizeof(struct header) == 128, "layout");

#define LARGEST_FILE ((uint64_t)4 << 30)
/* Small, so that a program that calls very often has filled one after a few milliseconds. */
enum { BUFFER = 1 << 17, MOST_BUFFERS = 256, BATCH = 512, NAMES = 1 << 14, LONGEST_NAME = 4096 };
enum { PERIOD_MS = 500, FIRST_PERIOD_MS = 50, FIRST_PERIODS = 40 };
enum { UNSEEN_MS = 20, TRIES = 50 }; /* for calls that began unseen to return; for another tool's first call */

/* What a call of the program takes longer while CUPTI works, which is about one for each record: 1.3 us for copies of
 * 4 KiB, 2.1 us for launches that the CPU limits, 5 to 8 us for each kernel of a training loop that the GPU limits. */
enum { CALL_COST_NS = 4000 };
/* And a kernel that a graph launches: 0.24 us, for the GPU. */
enum { NODE_COST_NS = 500 };
/* What calls may cost beyond their share of the time, in a burst: that of 750. */
enum { CREDIT_NS = 3000000 };
enum { SLOT_NS = 20000000, SLOTS_OF_A_PERIOD = PERIOD_MS * 1000000 / SLOT_NS };
/* What a slot costs is the mean of about so many; a debt is paid by as many. */
enum { FIRST_SLOTS = 4, SLOTS = 16 };

/* ---- State ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the file and what goes into it */
static struct header header = {.magic = {'P', 'I', 'N', 'P', 'C', 'U', 'P', 'T'}, .version = 1};
static int file = -1;
static uint64_t cost_ns;   /* of what the program asked for, since it was last charged */
static unsigned budget;    /* thousandths of the time that CUPTI may cost; 0: any */
static int resumes;        /* over budget recording goes on in windows, and does not end with the first */
static int managed;        /* nobody else records managed memory */
static int64_t account_ns; /* that share of the time, less what calls cost */
static uint64_t charged_ns;
static int over_budget; /* the account was overdrawn */
static uint32_t window_chance;
static int in_window = 1;
static uint64_t spent_ns; /* what was charged and is of no slot yet */
static uint64_t slot_ns;  /* what a slot costs */
static unsigned slots_seen;
static pthread_cond_t overdrawn;
static dev_t file_device;
static ino_t file_inode;
static struct record batch[BATCH];
static unsigned batched;
static uint64_t name_hash[NAMES];
static uint32_t name_number[NAMES], names;
static uint8_t *spare[MOST_BUFFERS];
static unsigned spares;
static _Atomic unsigned buffers;
static _Atomic int active, fresh; /* CUPTI works for us; a buffer was asked for since the last flush */
static void *subscriber;
static const int activities[] = {CONCURRENT_KERNEL, MEMCPY, MEMCPY_PEER, MEMSET, SYNCHRONIZATION, MEMORY, OVERHEAD};
enum { OF_WINDOWS = 5 }; /* the first of these; the others are rare, and cost other calls nothing */
static pthread_mutex_t switching = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int unified_on;
static _Atomic int held;                 /* CUPTI is ours, subscriber and all */
static _Atomic int leaving;              /* the next call that returns alone lets go of CUPTI */
static _Atomic int running;              /* calls that were seen to begin, and not to return */
static _Atomic unsigned watch;           /* the number of this watch, 0 before the first */
static int (*count_devices)(int *count); /* a call of the driver that needs no context, and does nothing */

static void nap(long milliseconds)
{
    struct timespec period = {.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000L};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &period, NULL);
}

static uint64_t thread_cpu_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* ---- Writing; all under the lock ---- */

static bool file_is_ours(void) { return is_same_file(file, file_device, file_inode); }

static void save_header(void)
{
    header.saved_ns = nanoseconds();
    if (file_is_ours() && pwrite(file, &header, sizeof header, 0) < 0)
        header.state = NO_ROOM;
}

/* Whole or not at all: a part that was written before an error is cut off by `header.written`. */
static int write_all(const void *data, size_t size)
{
    struct rlimit limit;
    uint64_t end = sizeof header + header.written + size;
    if (header.state == RUNNING && !may_grow(file, end, 0, LARGEST_FILE))
        header.state = LIMIT;
    if (header.state == RUNNING && getrlimit(RLIMIT_FSIZE, &limit) == 0 && end > limit.rlim_cur)
        header.state = NO_ROOM; /* would be SIGXFSZ */
    if (header.state != RUNNING || !file_is_ours())
        return 0;
    const char *at = data;
    off_t offset = (off_t)(sizeof header + header.written);
    for (size_t left = size; left;) {
        ssize_t written = pwrite(file, at, left, offset);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            header.state = NO_ROOM;
            return 0;
        }
        at += written;
        offset += written;
        left -= (size_t)written;
    }
    header.written += size;
    return 1;
}

static void flush_batch(void)
{
    if (batched)
        write_all(batch, batched * sizeof *batch);
    batched = 0;
}

static struct record *append(enum kind kind, uint64_t start, uint64_t end)
{
    if (batched == BATCH)
        flush_batch();
    struct record *record = &batch[batched++];
    *record = (struct record){.kind = (uint8_t)kind, .device = -1, .stream = UINT32_MAX};
    record->start_ns = start;
    record->end_ns = end;
    return record;
}

/* The number of a kernel's name, which is written before its first use; 0 when there are too many. */
static uint32_t number_of(const char *name)
{
    if (!name)
        return 0;
    size_t length = strnlen(name, LONGEST_NAME);
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)name[i]) * 1099511628211u;
    hash |= !hash;
    unsigned slot = (unsigned)(hash % NAMES);
    for (unsigned probes = 0; name_hash[slot] && name_hash[slot] != hash; probes++) {
        if (probes == 64)
            return 0;
        slot = (slot + 1) % NAMES;
    }
    if (!name_hash[slot]) {
        name_hash[slot] = hash;
        name_number[slot] = ++names;
        struct record *record = append(NAME, 0, 0);
        record->name = names;
        record->bytes = length;
        record->address = hash;
        flush_batch();
        char text[LONGEST_NAME + sizeof(struct record)] = {0};
        memcpy(text, name, length);
        write_all(text, (length + sizeof(struct record) - 1) / sizeof(struct record) * sizeof(struct record));
    }
    return name_number[slot];
}

static void translate_unified(const struct unified_record *from)
{
    struct record *to;
    switch (from->counter) {
    case COUNTER_HTOD:
    case COUNTER_DTOH:
    case COUNTER_DTOD:
        to = append(MIGRATION, from->start, from->end);
        to->device = (int32_t)(from->counter == COUNTER_DTOH ? from->source : from->target);
        to->bytes = from->value;
        break;
    case COUNTER_GPU_FAULT:
        to = append(GPU_FAULT, from->start, from->end);
        to->device = (int32_t)from->source;
        to->bytes = from->value;
        break;
    case COUNTER_CPU_FAULT:
        to = append(CPU_FAULT, from->start, from->start);
        break;
    default:
        to = append(OTHER_COUNTER, from->start, from->end);
        to->bytes = from->value;
    }
    to->detail = (uint8_t)from->counter;
    to->address = from->address;
    to->flags = from->flags;
}

/* Where work was done, and the number of the call that asked for it. */
static void place(struct record *record, uint32_t device, uint32_t stream, uint32_t correlation)
{
    record->device = (int32_t)device;
    record->stream = stream;
    record->correlation = correlation;
}

static void translate(const void *activity)
{
    struct record *to;
    uint32_t kind = *(const uint32_t *)activity;
    if (kind == CONCURRENT_KERNEL && ((const struct kernel_record *)activity)->graph_node)
        cost_ns += NODE_COST_NS;
    else if (kind == MEMCPY || kind == MEMSET || kind == CONCURRENT_KERNEL)
        cost_ns += CALL_COST_NS;
    switch (kind) {
    case MEMCPY:
    case MEMCPY_PEER: {
        const struct memcpy_record *from = activity;
        to = append(COPY, from->start, from->end);
        to->detail = from->copy_kind;
        to->source = from->source_kind;
        to->target = from->target_kind;
        place(to, from->device, from->stream, from->activity == MEMCPY ? from->correlation : from->peer.correlation);
        to->bytes = from->bytes;
        break;
    }
    case MEMSET: {
        const struct memset_record *from = activity;
        to = append(SET, from->start, from->end);
        to->target = (uint8_t)from->memory_kind;
        place(to, from->device, from->stream, from->correlation);
        to->bytes = from->bytes;
        break;
    }
    case KERNEL:
    case CONCURRENT_KERNEL: {
        const struct kernel_record *from = activity;
        uint32_t name = number_of(from->name);
        to = append(LAUNCH, from->start, from->end);
        place(to, from->device, from->stream, from->correlation);
        to->bytes = (uint64_t)from->grid[0] * from->grid[1] * from->grid[2];
        to->address = (uint64_t)from->block[0] * from->block[1] * from->block[2];
        to->name = name;
        break;
    }
    case SYNCHRONIZATION: {
        const struct synchronization_record *from = activity;
        to = append(WAIT, from->start, from->end);
        to->detail = (uint8_t)from->type;
        to->stream = from->stream;
        to->correlation = from->correlation;
        break;
    }
    case MEMORY: {
        const struct memory_record *from = activity;
        to = append(ALLOCATION, from->timestamp, from->timestamp);
        to->detail = (uint8_t)from->operation;
        to->target = (uint8_t)from->memory_kind;
        to->device = (int32_t)from->device;
        to->correlation = from->correlation;
        to->bytes = from->bytes;
        to->address = from->address;
        break;
    }
    case UNIFIED_MEMORY:
        translate_unified(activity);
        break;
    case OVERHEAD: {
        const struct overhead_record *from = activity;
        append(TOOL, from->start, from->end);
        break;
    }
    default:
        header.unknown++;
    }
}

/* ---- What CUPTI calls ---- */

/* Without a buffer CUPTI drops records and counts them: memory stays bounded. */
static void requested(uint8_t **buffer, size_t *size, size_t *records)
{
    *records = 0;
    *size = 0;
    *buffer = NULL;
    atomic_store(&fresh, 1);
    pthread_mutex_lock(&lock);
    if (spares) {
        *buffer = spare[--spares];
    } else if (atomic_load(&buffers) < MOST_BUFFERS) {
        void *made = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (made != MAP_FAILED) {
            *buffer = made;
            atomic_fetch_add(&buffers, 1);
        }
    }
    pthread_mutex_unlock(&lock);
    *size = *buffer ? BUFFER : 0;
}

/* Under the lock: the time that has passed goes into the account, what calls have cost goes out. */
static void charge(void)
{
    uint64_t time_ns = nanoseconds();
    int64_t share_ns = (int64_t)((time_ns - charged_ns) / 1000 * budget);
    account_ns = (account_ns + share_ns < CREDIT_NS ? account_ns + share_ns : CREDIT_NS) - (int64_t)cost_ns;
    charged_ns = time_ns;
    spent_ns += cost_ns;
    cost_ns = 0;
    if (budget && account_ns < 0) {
        over_budget = 1;
        pthread_cond_signal(&overdrawn);
    }
}

static void completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
    (void)size;
    int error = errno;
    uint64_t begun = thread_cpu_ns();
    pthread_mutex_lock(&lock);
    size_t dropped = 0;
    void *record = NULL;
    while (buffer && valid && cupti.next_record(buffer, valid, &record) == 0)
        translate(record);
    flush_batch();
    charge();
    if (cupti.dropped_records(context, stream, &dropped) == 0)
        header.dropped += dropped;
    header.cost_ns += thread_cpu_ns() - begun;
    save_header();
    if (buffer)
        spare[spares++] = buffer;
    pthread_mutex_unlock(&lock);
    errno = error;
}

static void counters_of_unified_memory(void)
{
    static const uint32_t kinds[] = {COUNTER_HTOD, COUNTER_DTOH, COUNTER_CPU_FAULT, COUNTER_GPU_FAULT,
        COUNTER_THRASHING, COUNTER_THROTTLING, COUNTER_REMOTE_MAP, COUNTER_DTOD};
    struct counter_config config[sizeof kinds / sizeof *kinds];
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
        config[i] = (struct counter_config){SCOPE_PROCESS_ALL_DEVICES, kinds[i], 0, 1};
    if (cupti.configure_counters(config, sizeof kinds / sizeof *kinds) == 0 && cupti.enable(UNIFIED_MEMORY) == 0) {
        pthread_mutex_lock(&lock);
        header.unified = 1;
        save_header();
        pthread_mutex_unlock(&lock);
    }
}

/* ---- Letting go of CUPTI ---- */

/* What a call keeps from its entry to its exit, so that the exit of a call that began before the watch is not taken for
 * that of one that was counted. */
static uint64_t mark(void) { return (uint64_t)(uintptr_t)&running + atomic_load(&watch); }

static void call_begins_or_returns(const struct call_data *call)
{
    if (call->site == SITE_ENTER) {
        *call->kept = mark();
        atomic_fetch_add(&running, 1);
    } else if (call->site == SITE_EXIT && *call->kept == mark()) {
        *call->kept = 0;
        int alone = atomic_fetch_sub(&running, 1) == 1;
        if (alone && atomic_load(&leaving) && (pid_t)header.pid == getpid() && atomic_exchange(&held, 0)) {
            cupti.unsubscribe(subscriber);
            cupti.finalize();
        }
    }
}

/* CUPTI wants a subscriber's own threads to take turns here. */
static void set_callbacks(uint32_t on)
{
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&one_at_a_time);
    cupti.enable_domain(on, subscriber, DOMAIN_DRIVER);
    pthread_mutex_unlock(&one_at_a_time);
}

/* Count the calls that begin and return from now on. */
static void watch_calls_of_the_driver(void)
{
    atomic_fetch_add(&watch, 1);
    atomic_store(&running, 0);
    set_callbacks(1);
}

static void called(void *user, int domain, uint32_t id, const void *data)
{
    (void)user;
    if (domain != DOMAIN_DRIVER)
        return;
    if (atomic_load(&watch))
        call_begins_or_returns(data);
    else if (id == CBID_MEM_ALLOC_MANAGED && !atomic_exchange(&unified_on, 1))
        counters_of_unified_memory();
}

/* ---- Windows ---- */

/* Over budget, work is recorded in slots of the time of day. Whether in a slot is drawn by its number alone, with a
 * chance that depends on what slots have cost: no slot knows what the program does, so they are a fair sample, and
 * processes and machines of one launch draw the same ones, as far as their chances go. */
static uint32_t lot(uint64_t slot)
{
    slot += 0x9e3779b97f4a7c15u; /* splitmix64 */
    slot = (slot ^ (slot >> 30)) * 0xbf58476d1ce4e5b9u;
    slot = (slot ^ (slot >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((slot ^ (slot >> 31)) >> 32);
}

static uint64_t time_of_day(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void nap_until(uint64_t day_ns)
{
    uint64_t left = day_ns - time_of_day();
    if (left <= (uint64_t)SLOT_NS * SLOTS_OF_A_PERIOD) /* else the time has passed, or the clock was set */
        clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = (long)(left % 1000000000u)}, NULL);
}

/* The chance of a slot, such that slots cost their share of the time. */
static uint32_t chance(void)
{
    if (!resumes)
        return 0;
    pthread_mutex_lock(&lock);
    charge();
    int64_t share = (int64_t)SLOT_NS / 1000 * budget, allowed = share + account_ns / SLOTS;
    allowed = allowed > share / 8 ? allowed : share / 8; /* a debt leaves each slot some chance */
    uint64_t cost = slot_ns;
    pthread_mutex_unlock(&lock);
    return (uint64_t)allowed >= cost ? UINT32_MAX : (uint32_t)(((uint64_t)allowed << 32) / cost);
}

/* Under the lock. */
static void write_window(uint64_t end_ns)
{
    struct record *record = append(WINDOW, header.window_ns ? header.window_ns : header.opened_ns, end_ns);
    record->bytes = window_chance;
    header.window_ns = 0;
    flush_batch();
    save_header();
}

/* Whether a window begins (`on`), or none; another tool's being there ends them all. A window that follows another at
 * once switches nothing; what switching costs is charged. */
static int switch_windows(int on, uint32_t its_chance)
{
    uint64_t begun = nanoseconds();
    pthread_mutex_lock(&switching);
    int ours = atomic_load(&active), before = in_window;
    for (unsigned i = 0; ours && on != before && i < OF_WINDOWS; i++)
        (on ? cupti.enable : cupti.disable)(activities[i]);
    pthread_mutex_lock(&lock);
    uint64_t ended = nanoseconds();
    cost_ns += ended - begun;
    if (ours && before)
        write_window(on ? ended : begun);
    if (ours && on) {
        header.window_ns = ended;
        window_chance = its_chance;
        save_header();
    }
    in_window = on;
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&switching);
    return ours;
}

/* Have CUPTI hand over what is complete. Once `stop` has had this lock, this library calls CUPTI no more: in a process
 * that ends, CUPTI has ended by the time at which a machine comes back to this thread. */
static void flush(void)
{
    pthread_mutex_lock(&switching);
    if (atomic_load(&active))
        cupti.flush_all(0);
    pthread_mutex_unlock(&switching);
}

/* After a slot: the next ones' chance depends on what it cost. */
static void reckon(void)
{
    flush();
    pthread_mutex_lock(&lock);
    charge();
    slots_seen += slots_seen < SLOTS;
    slot_ns = (slot_ns * (slots_seen - 1) + spent_ns) / slots_seen;
    spent_ns = 0;
    pthread_mutex_unlock(&lock);
}

static void record_in_windows(void)
{
    pthread_mutex_lock(&lock);
    slot_ns = (uint64_t)(CREDIT_NS - account_ns);
    slots_seen = FIRST_SLOTS;
    pthread_mutex_unlock(&lock);
    switch_windows(0, 0);
    flush();
    pthread_mutex_lock(&lock);
    spent_ns = 0;
    pthread_mutex_unlock(&lock);
    uint64_t slot = 0;
    uint32_t drawn = chance();
    while (atomic_load(&active)) {
        if (in_window) {
            slot++;
        } else {
            slot = (time_of_day() + SLOT_NS / 2) / SLOT_NS;
            for (uint64_t last = slot + SLOTS_OF_A_PERIOD - 1; slot < last && lot(slot) >= drawn;)
                slot++;
            nap_until(slot * SLOT_NS);
        }
        /* The slot may be over where a busy machine let this thread wait. */
        if (lot(slot) < drawn && time_of_day() / SLOT_NS == slot && switch_windows(1, drawn)) {
            nap_until((slot + 1) * SLOT_NS);
            reckon();
        } else {
            if (in_window)
                switch_windows(0, 0);
            flush(); /* work of an earlier window that ended late */
        }
        drawn = chance();
    }
}

/* ---- Beginning and ending ---- */

/* Once: hand over what there is, and have CUPTI record no more. */
static void stop(enum state state)
{
    if ((pid_t)header.pid != getpid() || !atomic_exchange(&active, 0))
        return;
    pthread_mutex_lock(&switching);
    uint64_t ended = nanoseconds();
    cupti.flush_all(state == ENDED ? FLUSH_FORCED : 0);
    if (state != ENDED) {
        for (unsigned i = 0; i < sizeof activities / sizeof *activities; i++)
            cupti.disable(activities[i]);
        if (atomic_load(&unified_on))
            cupti.disable(UNIFIED_MEMORY);
        cupti.flush_all(FLUSH_FORCED);
    }
    pthread_mutex_lock(&lock);
    if (header.window_ns)
        write_window(ended);
    flush_batch();
    if (header.state == RUNNING)
        header.state = state; /* nothing more is written */
    if (state != ENDED)
        header.stopped_ns = ended;
    save_header();
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&switching);
}

/* Whether calls have cost more than they may by the end of a period, or earlier. */
static int over_budget_within(long milliseconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += milliseconds * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&lock);
    while (!over_budget && pthread_cond_timedwait(&overdrawn, &lock, &until) == 0)
        ;
    int over = over_budget;
    pthread_mutex_unlock(&lock);
    return over;
}

static void *flusher(void *unused)
{
    (void)unused;
    pthread_setname_np(pthread_self(), "pinprof-gpu");
    /* A program that calls often does so from its first calls on, and CUPTI may keep a buffer that is full. */
    for (unsigned periods = 0; atomic_load(&active); periods++) {
        if (over_budget_within(periods < FIRST_PERIODS && budget ? FIRST_PERIOD_MS : PERIOD_MS))
            record_in_windows();
        else if (atomic_exchange(&fresh, 0))
            flush();
    }
    return NULL;
}

static void at_exit(void)
{
    stop(ENDED);
    atomic_store(&held, 0); /* CUPTI ends with the process */
}

/* ---- Making room for another tool ---- */

#define WATCHED(X)                                                                                                     \
    X(0, cuptiSubscribe)                                                                                               \
    X(1, cuptiSubscribe_v2)                                                                                            \
    X(2, cuptiActivityRegisterCallbacks)                                                                               \
    X(3, cuptiActivityRegisterCallbacks_v2)                                                                            \
    X(4, cuptiActivityEnable)                                                                                          \
    X(5, cuptiActivityEnable_v2)                                                                                       \
    X(6, cuptiActivityEnableContext)                                                                                   \
    X(7, cuptiActivityRegisterTimestampCallback)

typedef uintptr_t word;
typedef word (*any_function)(word, word, word, word, word, word);

#define NAME_OF(number, symbol) [number] = #symbol,
static const char *const watched[] = {WATCHED(NAME_OF)};
enum { WATCHES = sizeof watched / sizeof *watched };
static any_function original[WATCHES];

static word cupti_begin, cupti_end; /* its code calls its own functions, which is no other tool */

/* Another tool's first call waits here until CUPTI is free. No call of the program may ever return: one of ours does.
 * Where others go on running all the while, the tool gets a CUPTI that is not finalised, and that nobody else uses. */
static void step_aside(void)
{
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    if ((pid_t)header.pid != getpid() || !atomic_load(&held))
        return;
    pthread_mutex_lock(&one_at_a_time);
    stop(STEPPED_BACK);
    if (atomic_load(&held))
        watch_calls_of_the_driver();
    for (int tries = 0, count; tries < TRIES && atomic_load(&held) && count_devices; tries++) {
        nap(UNSEEN_MS);
        atomic_store(&leaving, 1);
        count_devices(&count);
    }
    if (atomic_exchange(&held, 0))
        cupti.unsubscribe(subscriber);
    pthread_mutex_unlock(&one_at_a_time);
}

#define STAND_IN(number, symbol)                                                                                       \
    static word stand_in_##number(word a, word b, word c, word d, word e, word f)                                      \
    {                                                                                                                  \
        word caller = (word)__builtin_return_address(0);                                                               \
        if (caller < cupti_begin || caller >= cupti_end)                                                               \
            step_aside();                                                                                              \
        return original[number](a, b, c, d, e, f);                                                                     \
    }
WATCHED(STAND_IN)
#define ADDRESS_OF(number, symbol) [number] = stand_in_##number,
static const any_function stand_in[] = {WATCHED(ADDRESS_OF)};

static int number_watched(const char *name)
{
    if (strncmp(name, "cupti", 5) == 0)
        for (int i = 0; i < WATCHES; i++)
            if (original[i] && strcmp(name, watched[i]) == 0)
                return i;
    return -1;
}

/* Write a word into memory that may be read-only. */
static int patch(word *place, word value)
{
    word page = (word)sysconf(_SC_PAGESIZE), from = (word)place / page * page;
    size_t size = (word)(place + 1) - from;
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps)
        return 0;
    int protection = -1;
    char line[512];
    while (protection < 0 && fgets(line, sizeof line, maps)) {
        unsigned long begin, end;
        char read, write, execute;
        if (sscanf(line, "%lx-%lx %c%c%c", &begin, &end, &read, &write, &execute) == 5 && begin <= from && from < end)
            protection =
                (read == 'r' ? PROT_READ : 0) | (write == 'w' ? PROT_WRITE : 0) | (execute == 'x' ? PROT_EXEC : 0);
    }
    fclose(maps);
    if (protection < 0)
        return 0;
    if (!(protection & PROT_WRITE) && mprotect((void *)from, size, protection | PROT_WRITE) < 0)
        return 0;
    *place = value;
    if (!(protection & PROT_WRITE))
        mprotect((void *)from, size, protection);
    return 1;
}

static bool tables_of_object(const struct dl_phdr_info *object, struct tables *found)
{
    for (unsigned i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
            return tables_of(
                object->dlpi_addr, (const void *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr), found);
    return false;
}

/* Addresses that a library has bound already. */
static int watch_calls(struct dl_phdr_info *object, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    struct tables tables;
    if (!object->dlpi_addr || !tables_of_object(object, &tables))
        return 0;
    for (int which = 0; which < 2; which++) {
        for (size_t i = 0; i < tables.counts[which]; i++) {
            const ElfW(Rela) *relocation = &tables.relocations[which][i];
            size_t symbol = ELF64_R_SYM(relocation->r_info);
            if (!symbol)
                continue;
            int number = number_watched(tables.strings + tables.symbols[symbol].st_name);
            word *place = (word *)(object->dlpi_addr + relocation->r_offset);
            if (number >= 0 && *place == (word)original[number])
                patch(place, (word)stand_in[number]);
        }
    }
    return 0;
}

/* Whether an address lies in a library, and from where to where that is loaded. */
static int spans(const struct dl_phdr_info *object, word inside, word *lowest, word *highest)
{
    int ours = 0;
    *lowest = UINTPTR_MAX;
    *highest = 0;
    for (unsigned i = 0; i < object->dlpi_phnum; i++) {
        word begin = object->dlpi_addr + object->dlpi_phdr[i].p_vaddr, end = begin + object->dlpi_phdr[i].p_memsz;
        if (object->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        ours |= begin <= inside && inside < end;
        *lowest = begin < *lowest ? begin : *lowest;
        *highest = end > *highest ? end : *highest;
    }
    return ours;
}

/* The symbol table of libcupti itself: what is looked up from now on. */
static int watch_symbols(struct dl_phdr_info *object, size_t size, void *inside)
{
    (void)size;
    word lowest, highest;
    int ours = spans(object, (word)inside, &lowest, &highest);
    if (ours) {
        cupti_begin = lowest;
        cupti_end = highest;
    }
    struct tables tables;
    if (!ours || !tables_of_object(object, &tables) || !tables.gnu_hash)
        return ours;
    /* Number of symbols: the last chain of the hash table ends with the last symbol. */
    const uint32_t *hash = tables.gnu_hash, buckets = hash[0], first = hash[1];
    const uint32_t *bucket = (const uint32_t *)((const word *)(hash + 4) + hash[2]), *chain = bucket + buckets;
    uint32_t last = 0;
    for (uint32_t i = 0; i < buckets; i++)
        last = bucket[i] > last ? bucket[i] : last;
    if (last < first)
        return ours;
    while (!(chain[last - first] & 1))
        last++;
    for (uint32_t i = first; i <= last; i++) {
        const ElfW(Sym) *symbol = &tables.symbols[i];
        int number = symbol->st_shndx == SHN_UNDEF ? -1 : number_watched(tables.strings + symbol->st_name);
        if (number >= 0)
            patch((word *)&symbol->st_value, (word)stand_in[number] - object->dlpi_addr);
    }
    return ours;
}

#include "apart.h"

/* ---- Finding CUPTI ---- */

static int loaded_cupti(struct dl_phdr_info *object, size_t size, void *path)
{
    (void)size;
    const char *name = strrchr(object->dlpi_name, '/');
    if (!name || strncmp(name, "/libcupti.so", 12) != 0 || strlen(object->dlpi_name) >= 4096)
        return 0;
    strcpy(path, object->dlpi_name);
    return 1;
}

static int usable(void *library)
{
    for (unsigned i = 0; i < sizeof entries / sizeof *entries; i++) {
        void *symbol = dlsym(library, entries[i].name);
        if (!symbol)
            return 0;
        memcpy(entries[i].function, &symbol, sizeof symbol);
    }
    uint32_t api = 0;
    if (cupti.get_version(&api) != 0 || api < OLDEST_API || api > NEWEST_API)
        return 0;
    if (reserve_apart())
        dl_iterate_phdr(lead_apart, (void *)cupti.get_version);
    if (cupti.subscribe(&subscriber, called, NULL) != 0)
        return 0;
    header.api = api;
    return 1;
}

static void *find_cupti(void)
{
    char path[4096] = "";
    if (dl_iterate_phdr(loaded_cupti, path)) {
        /* Whoever else uses CUPTI uses this one: no other will do. */
        void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
        return library && usable(library) ? library : NULL;
    }
    const char *left = getenv("PINPROF_CUPTI");
    while (left && *left) {
        size_t length = strcspn(left, ":");
        if (length < sizeof path) {
            memcpy(path, left, length);
            path[length] = 0;
            void *library = *path == '/' ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
            if (library && usable(library))
                return library;
        }
        left += length + (left[length] == ':');
    }
    return NULL;
}

static int open_file(const char *directory)
{
    header.pid = (uint32_t)getpid();
    header.opened_ns = nanoseconds();
    if (*directory != '/' || strlen(directory) >= DIRECTORY_BYTES)
        return 0;
    file = open_high(directory, header.pid, header.opened_ns, O_CREAT | O_EXCL);
    struct stat status;
    if (file < 0 || fstat(file, &status) < 0)
        return 0;
    file_device = status.st_dev;
    file_inode = status.st_ino;
    return 1;
}

static void begin(void)
{
    const char *directory = secure_getenv("PINPROF_GPU"); /* nothing is written with a setuid program's rights */
    const char *allowed = getenv("PINPROF_GPU_BUDGET");
    budget = allowed ? (unsigned)strtoul(allowed, NULL, 10) : 0;
    managed = !budget;
    budget = budget < 1000 ? budget : 0;
    resumes = getenv("PINPROF_GPU_WINDOWS") != NULL;
    if (!directory || !open_file(directory))
        return;
    void *library = find_cupti();
    if (!library) {
        header.state = ENDED;
        save_header();
        return;
    }
    for (int i = 0; i < WATCHES; i++) {
        void *symbol = dlsym(library, watched[i]);
        memcpy(&original[i], &symbol, sizeof symbol);
    }
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&overdrawn, &clock);
    pthread_condattr_destroy(&clock);
    account_ns = CREDIT_NS;
    charged_ns = nanoseconds();
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before); /* CUPTI's threads and ours take no signals of the program */
    pthread_t thread;
    /* One buffer on the GPU has room for 100,000 operations. Three, as by default, make a context take 5 ms longer. */
    size_t buffers_at_first = 1, size = sizeof buffers_at_first;
    cupti.set_attribute(DEVICE_BUFFERS_AT_FIRST, &size, &buffers_at_first);
    int begun = cupti.register_timestamps(nanoseconds) == 0 && cupti.register_callbacks(requested, completed) == 0;
    for (unsigned i = 0; begun && i < sizeof activities / sizeof *activities; i++)
        cupti.enable(activities[i]);
    if (begun) {
        void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
        void *symbol = driver ? dlsym(driver, "cuDeviceGetCount") : NULL;
        memcpy(&count_devices, &symbol, sizeof symbol);
        atomic_store(&held, 1);
        if (managed)
            cupti.enable_callback(1, subscriber, DOMAIN_DRIVER, CBID_MEM_ALLOC_MANAGED);
        atomic_store(&active, 1);
        dl_iterate_phdr(watch_symbols, (void *)original[0]);
        dl_iterate_phdr(watch_calls, NULL);
        atexit(at_exit);
        if (pthread_create(&thread, NULL, flusher, NULL) == 0)
            pthread_detach(thread);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    save_header();
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Called by libcuda at cuInit. */
EXPORT int InitializeInjection(void)
{
    int error = errno;
    pthread_once(&once, begin);
    errno = error;
    return 1;
}
