/* NVTX: what a program says through NVTX v2 or v3, with CLOCK_MONOTONIC, into one file per process.
 *
 * Every copy of NVTX in a process (each library has its own) loads the library named in NVTX_INJECTION64_PATH at its
 * first call and hands InitializeInjectionNvtx2 a function that gives its tables of function pointers to fill. The
 * numbers and layouts of that interface, restated here in our own words, are public: c/include/nvtx3/nvToolsExt.h and
 * c/include/nvtx3/nvtxDetail/nvtxTypes.h of github.com/NVIDIA/NVTX (since 2019 unchanged).
 *
 * The file is a header and chunks. A chunk belongs to one thread at a time: fixed records
 * grow from its front, texts from its back, so that writing needs no lock. It is mapped MAP_SHARED: what is written
 * is in the page cache at once, whatever ends the process.
 *
 * Never in the way of the program: no allocation, no lock and no system call but for a new chunk; errno, signals,
 * cancellation and low file descriptors stay as they are; a failure ends the recording and is counted.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <wchar.h>

#include "own_file.h"

#define EXPORT __attribute__((visibility("default")))

/* ---- NVTX's interface ---- */

typedef void (*function)(void);

enum { TABLE_CALLBACKS = 1, TABLE_VERSION = 3 }; /* NvtxExportTableID */
enum { MODULE_CORE = 1, MODULE_CORE2 = 5 };      /* NvtxCallbackModule */
enum { NO_TRACKING = -2 };                       /* NVTX_NO_PUSH_POP_TRACKING, as without any tool */
enum { MESSAGE_ASCII = 1, MESSAGE_WIDE = 2, MESSAGE_REGISTERED = 3 };
enum { RESOURCE_THREAD_NATIVE = 1 << 16 | 3 }; /* NVTX_RESOURCE_TYPE_GENERIC_THREAD_NATIVE */

struct callbacks {
    size_t size;
    int (*module_table)(int module, function ***table, unsigned *count);
};

struct version_info {
    size_t size;
    uint32_t version, reserved;
    void (*set_injection_version)(uint32_t version);
};

struct message {
    int32_t type;
    const void *value;
};

struct event_attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    struct message message;
};

struct resource_attributes {
    uint16_t version, size;
    int32_t identifier_type;
    uint64_t identifier;
    struct message message;
};

/* ---- The file ---- */

enum {
    LONGEST_TEXT = 1024, /* bytes; longer ones are cut */
    PAGE = 4096,
    FIRST_CHUNK = 4 * PAGE, /* a thread's first: there may be thousands of threads */
    CHUNK = 16 * PAGE,      /* offsets inside fit 16 bits */
};

enum kind {
    THREAD = 1, /* value: thread id, and above 32 bits the number of this taking: what follows is its thread's */
    PUSH,
    POP,
    START,
    END,
    MARK,
    DOMAIN,
    STRING, /* value: the id by which records refer to the text */
    CATEGORY,
    THREAD_NAME, /* value: category, thread id */
};
enum flag { TEXT = 1, REGISTERED = 2, CUT = 4 };

struct record {
    uint64_t time_ns, value;
    uint32_t domain, category;
    uint32_t text; /* TEXT: offset in the chunk, length << 16; REGISTERED: id of a STRING */
    uint8_t kind, flags;
    uint16_t reserved;
};

struct chunk {
    char magic[8];
    uint32_t size;
    _Atomic uint32_t records;
    _Atomic uint64_t left; /* nobody writes into it any more */
    uint64_t reserved;
    struct record record[];
};

_Static_assert(sizeof(struct record) == 32 && sizeof(struct chunk) == 32, "layout");
_Static_assert(sizeof(struct event_attributes) == 48 && sizeof(struct resource_attributes) == 32, "NVTX's layout");

/* ---- State ---- */

enum { SPARE = 64 };

/* A forked child finds this page wiped, so that it begins anew and never writes into its parent's file. */
struct process {
    _Atomic uint32_t generation; /* 0: nothing opened */
    _Atomic int stopped;
    pthread_mutex_t lock; /* zeroed is unlocked, in glibc as in musl */
    struct own_file own;
    uint32_t taken, spares;
    struct spare {
        struct chunk *chunk;
        uint32_t top;
    } spare[SPARE]; /* of threads that have ended */
};

struct thread {
    uint32_t generation, records, top;
    volatile int busy; /* a signal handler may come in between */
    struct chunk *chunk;
    int grown;
    struct {
        uint16_t offset, length;
    } recent[64]; /* texts of this chunk, by address: most are literals */
};

static struct process *process;
static char directory[DIRECTORY_BYTES];
static uint64_t token; /* of this process's file, or of the ancestor's that has one */
static _Atomic uint32_t next_generation, next_id;
static _Atomic uint64_t next_range;
static pthread_key_t at_thread_exit;
/* The module of a library that is loaded late has little room for such variables. */
static _Thread_local struct thread *self;

static void lose(void)
{
    if (process->own.header)
        atomic_fetch_add_explicit(&process->own.header->lost, 1, memory_order_relaxed);
}

/* The file of this process, with its header mapped; under the lock. */
static int open_file(void)
{
    struct own_header header = {
        .magic = {'P', 'I', 'N', 'P', 'N', 'V', 'T', 'X'}, .version = 1, .opened_ns = nanoseconds()};
    return open_own(&process->own, directory, &token, &header, sizeof header, "", 0);
}

/* A chunk of the file for a thread that has none, or a full one; under the lock. */
static struct chunk *new_chunk(uint32_t size)
{
    struct chunk *chunk = map_chunk(&process->own, directory, &size, 0);
    if (chunk) {
        chunk->size = size;
        memcpy(chunk->magic, "PINPCHNK", 8);
        return chunk;
    }
    atomic_store(&process->stopped, 1);
    atomic_store(&process->generation, atomic_fetch_add(&next_generation, 1) + 1); /* every thread comes here now */
    return NULL;
}

static void append(enum kind kind, uint64_t value, uint32_t domain, uint32_t category, uint32_t text, uint8_t flags)
{
    struct record *record = &self->chunk->record[self->records];
    record->time_ns = nanoseconds();
    record->value = value;
    record->domain = domain;
    record->category = category;
    record->text = text;
    record->kind = (uint8_t)kind;
    record->flags = flags;
    /* A reader that sees the count sees the record: a process killed here has lost nothing that was counted. */
    atomic_store_explicit(&self->chunk->records, ++self->records, memory_order_release);
}

/* Give this thread room; false when recording has ended. */
static __attribute__((noinline)) int make_room(void)
{
    if (atomic_load(&process->stopped))
        return 0;
    struct held held;
    hold(&held, &process->lock);
    uint32_t generation = atomic_load(&process->generation);
    if (!generation) {
        generation = atomic_fetch_add(&next_generation, 1) + 1;
        if (!open_file())
            atomic_store(&process->stopped, 1);
        atomic_store(&process->generation, generation);
    }
    struct chunk *chunk = NULL;
    if (!atomic_load(&process->stopped)) {
        if (self->chunk) {
            if (self->generation == generation) /* in a forked child it is the parent's */
                atomic_store(&self->chunk->left, 1);
            unmap_pages(self->chunk, self->chunk->size);
        }
        if (self->generation != generation)
            self->grown = 0;
        if (process->spares && !self->grown) {
            struct spare *spare = &process->spare[--process->spares];
            chunk = spare->chunk;
            self->top = spare->top;
        } else if ((chunk = new_chunk(self->grown ? CHUNK : FIRST_CHUNK))) {
            self->top = (chunk->size < CHUNK ? chunk->size : CHUNK) - 8; /* also of an empty text the offset fits */
        }
        self->chunk = chunk;
    }
    if (chunk) {
        self->grown = 1;
        self->generation = generation;
        self->records = atomic_load_explicit(&chunk->records, memory_order_relaxed);
        memset(self->recent, 0, sizeof self->recent);
        append(THREAD, (uint64_t)++process->taken << 32 | (uint32_t)syscall(SYS_gettid), 0, 0, 0, 0);
        pthread_setspecific(at_thread_exit, self);
    }
    release(&held);
    return chunk != NULL;
}

/* What an ended thread leaves of its chunk serves the next one. */
static void thread_ends(void *unused)
{
    (void)unused;
    self->busy = 1;
    pthread_mutex_lock(&process->lock);
    if (self->chunk) {
        size_t left = self->top - sizeof(struct chunk) - self->records * sizeof(struct record);
        int ours = self->generation == atomic_load(&process->generation);
        if (ours && process->spares < SPARE && left >= LONGEST_TEXT + 4 * sizeof(struct record))
            process->spare[process->spares++] = (struct spare){self->chunk, self->top};
        else {
            if (ours)
                atomic_store(&self->chunk->left, 1);
            unmap_pages(self->chunk, self->chunk->size);
        }
        self->chunk = NULL;
    }
    pthread_mutex_unlock(&process->lock);
    struct thread *ended = self;
    self = NULL;
    unmap_pages(ended, sizeof *ended);
}

/* Whether this thread has a state, and is not interrupted while it uses it. */
static bool is_seated(void)
{
    if (UNLIKELY(!self)) {
        void *made = map_pages(sizeof *self, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        self = made == MAP_FAILED ? NULL : made;
    }
    return self && !self->busy;
}

static int room_for(size_t text)
{
    return self->generation == atomic_load_explicit(&process->generation, memory_order_relaxed) && self->chunk &&
           sizeof(struct chunk) + (self->records + 1) * sizeof(struct record) + text <= self->top;
}

/* Where a text lies in this thread's chunk; there is room for it. */
static uint32_t store(const char *text, size_t length)
{
    uintptr_t key = (uintptr_t)text;
    unsigned slot = (unsigned)(key ^ key >> 6 ^ length) & 63;
    char *chunk = (char *)self->chunk;
    uint32_t offset = self->recent[slot].offset;
    if (!offset || self->recent[slot].length != length || memcmp(chunk + offset, text, length) != 0) {
        offset = self->top -= (uint32_t)length;
        memcpy(chunk + offset, text, length);
        self->recent[slot].offset = (uint16_t)offset;
        self->recent[slot].length = (uint16_t)length;
    }
    return offset | (uint32_t)length << 16;
}

/* One event; its text is given here, or by `id` as registered, or it has none. */
static void record(enum kind kind, uint64_t value, const void *domain, uint32_t category, const char *text, uint32_t id)
{
    if (UNLIKELY(!is_seated())) {
        lose();
        return;
    }
    self->busy = 1;
    atomic_signal_fence(memory_order_seq_cst);
    size_t length = 0;
    int flags = id ? REGISTERED : 0;
    if (text) {
        length = strnlen(text, LONGEST_TEXT + 1);
        if (UNLIKELY(length > LONGEST_TEXT)) {
            length = LONGEST_TEXT;
            while (length > LONGEST_TEXT - 4 && ((unsigned char)text[length] & 0xC0) == 0x80)
                length--; /* not inside a character of UTF-8 */
            flags |= CUT;
        }
        flags |= TEXT;
    }
    if (room_for(length) || make_room())
        append(kind, value, (uint32_t)(uintptr_t)domain, category, text ? store(text, length) : id, (uint8_t)flags);
    else
        lose();
    atomic_signal_fence(memory_order_seq_cst);
    self->busy = 0;
}

/* UTF-8 of a wide text into LONGEST_TEXT + 5 bytes; what is no character becomes U+FFFD. */
static const char *narrow(const wchar_t *wide, char *text)
{
    if (!wide)
        return NULL;
    size_t length = 0;
    for (; *wide && length <= LONGEST_TEXT; wide++) {
        uint32_t c = (uint32_t)*wide;
        if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
            c = 0xFFFD;
        if (c < 0x80) {
            text[length++] = (char)c;
        } else if (c < 0x800) {
            text[length++] = (char)(0xC0 | c >> 6);
            text[length++] = (char)(0x80 | (c & 63));
        } else {
            if (c < 0x10000) {
                text[length++] = (char)(0xE0 | c >> 12);
            } else {
                text[length++] = (char)(0xF0 | c >> 18);
                text[length++] = (char)(0x80 | (c >> 12 & 63));
            }
            text[length++] = (char)(0x80 | (c >> 6 & 63));
            text[length++] = (char)(0x80 | (c & 63));
        }
    }
    text[length] = 0;
    return text;
}

static __attribute__((noinline)) void record_wide(
    enum kind kind, uint64_t value, const void *domain, uint32_t category, const wchar_t *wide)
{
    char text[LONGEST_TEXT + 5];
    record(kind, value, domain, category, narrow(wide, text), 0);
}

static void record_message(
    enum kind kind, uint64_t value, const void *domain, uint32_t category, const struct message *message)
{
    if (message->type == MESSAGE_ASCII)
        record(kind, value, domain, category, message->value, 0);
    else if (message->type == MESSAGE_REGISTERED)
        record(kind, value, domain, category, NULL, (uint32_t)(uintptr_t)message->value);
    else if (message->type == MESSAGE_WIDE)
        record_wide(kind, value, domain, category, message->value);
    else
        record(kind, value, domain, category, NULL, 0);
}

static void record_event(enum kind kind, uint64_t value, const void *domain, const struct event_attributes *event)
{
    if (event && event->size >= sizeof *event)
        record_message(kind, value, domain, event->category, &event->message);
    else
        record(kind, value, domain, 0, NULL, 0);
}

static uint64_t range_id(void) { return atomic_fetch_add_explicit(&next_range, 1, memory_order_relaxed) + 1; }

static void *new_id(void)
{
    return (void *)(uintptr_t)(atomic_fetch_add_explicit(&next_id, 1, memory_order_relaxed) + 1);
}

/* ---- What NVTX calls ---- */

typedef const struct event_attributes *attributes;

static void mark_ex(attributes event) { record_event(MARK, 0, NULL, event); }
static void mark_a(const char *text) { record(MARK, 0, NULL, 0, text, 0); }
static void mark_w(const wchar_t *text) { record_wide(MARK, 0, NULL, 0, text); }
static int push_ex(attributes event) { return record_event(PUSH, 0, NULL, event), NO_TRACKING; }
static int push_a(const char *text) { return record(PUSH, 0, NULL, 0, text, 0), NO_TRACKING; }
static int push_w(const wchar_t *text) { return record_wide(PUSH, 0, NULL, 0, text), NO_TRACKING; }
static int pop(void) { return record(POP, 0, NULL, 0, NULL, 0), NO_TRACKING; }
static void end(uint64_t id) { record(END, id, NULL, 0, NULL, 0); }

static uint64_t start_ex(attributes event)
{
    uint64_t id = range_id();
    return record_event(START, id, NULL, event), id;
}

static uint64_t start_a(const char *text)
{
    uint64_t id = range_id();
    return record(START, id, NULL, 0, text, 0), id;
}

static uint64_t start_w(const wchar_t *text)
{
    uint64_t id = range_id();
    return record_wide(START, id, NULL, 0, text), id;
}

static void category_a(uint32_t number, const char *text) { record(CATEGORY, number, NULL, number, text, 0); }
static void category_w(uint32_t number, const wchar_t *text) { record_wide(CATEGORY, number, NULL, number, text); }
static void thread_a(uint32_t tid, const char *text) { record(THREAD_NAME, tid, NULL, 0, text, 0); }
static void thread_w(uint32_t tid, const wchar_t *text) { record_wide(THREAD_NAME, tid, NULL, 0, text); }

static void domain_mark(void *domain, attributes event) { record_event(MARK, 0, domain, event); }
static int domain_push(void *domain, attributes event) { return record_event(PUSH, 0, domain, event), NO_TRACKING; }
static int domain_pop(void *domain) { return record(POP, 0, domain, 0, NULL, 0), NO_TRACKING; }
static void domain_end(void *domain, uint64_t id) { record(END, id, domain, 0, NULL, 0); }

static uint64_t domain_start(void *domain, attributes event)
{
    uint64_t id = range_id();
    return record_event(START, id, domain, event), id;
}

static void domain_category_a(void *domain, uint32_t number, const char *text)
{
    record(CATEGORY, number, domain, number, text, 0);
}

static void domain_category_w(void *domain, uint32_t number, const wchar_t *text)
{
    record_wide(CATEGORY, number, domain, number, text);
}

static void *string_a(void *domain, const char *text)
{
    void *id = new_id();
    return record(STRING, (uintptr_t)id, domain, 0, text, 0), id;
}

static void *string_w(void *domain, const wchar_t *text)
{
    void *id = new_id();
    return record_wide(STRING, (uintptr_t)id, domain, 0, text), id;
}

static void *domain_a(const char *text)
{
    void *id = new_id();
    return record(DOMAIN, (uintptr_t)id, NULL, 0, text, 0), id;
}

static void *domain_w(const wchar_t *text)
{
    void *id = new_id();
    return record_wide(DOMAIN, (uintptr_t)id, NULL, 0, text), id;
}

static void *resource(void *domain, const struct resource_attributes *given)
{
    if (given && given->size >= sizeof *given && given->identifier_type == RESOURCE_THREAD_NATIVE)
        record_message(THREAD_NAME, given->identifier, domain, 0, &given->message);
    return new_id();
}

static void forget(void *handle) { (void)handle; }

/* In the order of NvtxCallbackIdCore and NvtxCallbackIdCore2; 0 is no function. */
#define ENTRY(name) (function)(name)
static const function core[] = {NULL, ENTRY(mark_ex), ENTRY(mark_a), ENTRY(mark_w), ENTRY(start_ex), ENTRY(start_a),
    ENTRY(start_w), ENTRY(end), ENTRY(push_ex), ENTRY(push_a), ENTRY(push_w), ENTRY(pop), ENTRY(category_a),
    ENTRY(category_w), ENTRY(thread_a), ENTRY(thread_w)};
static const function core2[] = {NULL, ENTRY(domain_mark), ENTRY(domain_start), ENTRY(domain_end), ENTRY(domain_push),
    ENTRY(domain_pop), ENTRY(resource), ENTRY(forget), ENTRY(domain_category_a), ENTRY(domain_category_w),
    ENTRY(string_a), ENTRY(string_w), ENTRY(domain_a), ENTRY(domain_w), ENTRY(forget)};

static void fill(const struct callbacks *callbacks, int module, const function *ours, unsigned count)
{
    function **table;
    unsigned size;
    if (!callbacks->module_table(module, &table, &size))
        return;
    for (unsigned i = 1; i < count && i < size; i++)
        if (table[i])
            *table[i] = ours[i];
}

/* Kernels before 4.14 wipe nothing; a fork through libc is noticed there as well. */
static void forked(void) { memset(process, 0, sizeof *process); }

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void prepare(void)
{
    const char *given = secure_getenv("PINPROF_NVTX"); /* nothing is written with a setuid program's rights */
    if (!given || *given != '/' || strlen(given) >= sizeof directory ||
        pthread_key_create(&at_thread_exit, thread_ends))
        return;
    strcpy(directory, given);
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = map_pages(size, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return;
    _Static_assert(sizeof(struct process) <= PAGE, "one page");
    if (madvise(page, size, MADV_WIPEONFORK) < 0)
        pthread_atfork(NULL, NULL, forked);
    process = page;
}

/* NVTX calls nothing of ours when this returns 0; it is called once for each copy of NVTX in the process. */
EXPORT int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t id))
{
    int error = errno;
    pthread_once(&once, prepare);
    errno = error;
    if (!process)
        return 0;
    const struct callbacks *callbacks = export_table(TABLE_CALLBACKS);
    if (!callbacks || callbacks->size < sizeof *callbacks)
        return 0;
    if (!is_seated())
        return 0;
    self->busy = 1;
    int opened = room_for(0) || make_room();
    self->busy = 0;
    if (!opened)
        return 0;
    const struct version_info *version = export_table(TABLE_VERSION);
    if (version && version->size >= sizeof *version && version->set_injection_version)
        version->set_injection_version(3);
    fill(callbacks, MODULE_CORE, core, sizeof core / sizeof *core);
    fill(callbacks, MODULE_CORE2, core2, sizeof core2 / sizeof *core2);
    return 1;
}
