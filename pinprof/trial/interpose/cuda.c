/*
 * Other pinned memory and other copies for CUDA programs, without a change of the program (LD_PRELOAD).
 * PINPROF_TRY_CUDA says what:
 *
 *   pins      pinned memory comes from huge pages that several threads touch before they are registered, and is kept
 *   pieces    and is registered in pieces of 256 MiB, between which calls of other threads get through
 *   ring      copies of pageable memory go through a ring of pinned buffers that several threads fill and empty
 *   register  large blocks of malloc (memory.c) are registered when they are first copied, and stay so
 *
 * All of it happens at the driver's functions. CUDA's runtime, linked dynamically or statically, takes their addresses
 * by cuGetProcAddress, and that one by dlsym; both are answered here with the functions below. A program that calls the
 * driver finds them by name. Any case that is not plain (other flags, a stream that is being captured, an error on the
 * way) is left to the driver, whose answer is then the program's.
 *
 * Sources: the CUDA Driver API's manual, "Memory Management", "Unified Addressing", "Driver Entry Point Access", and
 * "API synchronization behavior" for when a copy of pageable memory may return.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>

#include "scope.h"

#define EXPORTED __attribute__((visibility("default")))
#define COUNT(array) (sizeof(array) / sizeof *(array))
#define HUGE ((size_t)2 << 20)
#define PIECE ((size_t)256 << 20)
#define LEAST_COPY ((size_t)256 << 10)
#define CLASSES 512
#define SLOTS 4
#define SLOT_BYTES ((size_t)8 << 20)
#define MOST_RINGS 16
#define MOST_THREADS 8
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { SUCCESS = 0, INVALID_VALUE = 1, HOST_MEMORY_NOT_REGISTERED = 713 };
enum { PORTABLE = 1, DEVICEMAP = 2 };
enum { MEMORY_TYPE = 2, TYPE_HOST = 1, TYPE_DEVICE = 2 };
enum { CAN_USE_HOST_POINTER = 91, DISABLE_TIMING = 2, PER_THREAD = 2 };
#define STREAM_PER_THREAD ((void *)2)

typedef int result;
typedef uint64_t device_pointer;
typedef void *stream, *event, *context;

static bool does_pins, does_pieces, does_ring, does_register;
static bool in_child; /* of a fork: CUDA does not work there, and neither do the threads */

/* --- the driver's own functions --------------------------------------------------------------------------------- */

enum function {
    HOST_ALLOC,
    ALLOC_HOST,
    FREE_HOST,
    GET_FLAGS,
    REGISTER,
    UNREGISTER,
    POINTER_ATTRIBUTE,
    DEVICE_ATTRIBUTE,
    CTX_CURRENT,
    CTX_DEVICE,
    CTX_SYNCHRONIZE,
    CTX_DESTROY,
    PRIMARY_RESET,
    PRIMARY_RELEASE,
    EVENT_CREATE,
    EVENT_RECORD,
    EVENT_SYNCHRONIZE,
    EVENT_DESTROY,
    IS_CAPTURING,
    TO_DEVICE,
    TO_DEVICE_T,
    FROM_DEVICE,
    FROM_DEVICE_T,
    TO_DEVICE_ASYNC,
    TO_DEVICE_ASYNC_T,
    FROM_DEVICE_ASYNC,
    FROM_DEVICE_ASYNC_T,
    COPY,
    COPY_T,
    COPY_ASYNC,
    COPY_ASYNC_T,
    PROC_ADDRESS,
    PROC_ADDRESS_2,
    FUNCTIONS
};

static const char *const NAMES[FUNCTIONS] = {
    [HOST_ALLOC] = "cuMemHostAlloc",
    [ALLOC_HOST] = "cuMemAllocHost_v2",
    [FREE_HOST] = "cuMemFreeHost",
    [GET_FLAGS] = "cuMemHostGetFlags",
    [REGISTER] = "cuMemHostRegister_v2",
    [UNREGISTER] = "cuMemHostUnregister",
    [POINTER_ATTRIBUTE] = "cuPointerGetAttribute",
    [DEVICE_ATTRIBUTE] = "cuDeviceGetAttribute",
    [CTX_CURRENT] = "cuCtxGetCurrent",
    [CTX_DEVICE] = "cuCtxGetDevice",
    [CTX_SYNCHRONIZE] = "cuCtxSynchronize",
    [CTX_DESTROY] = "cuCtxDestroy_v2",
    [PRIMARY_RESET] = "cuDevicePrimaryCtxReset_v2",
    [PRIMARY_RELEASE] = "cuDevicePrimaryCtxRelease_v2",
    [EVENT_CREATE] = "cuEventCreate",
    [EVENT_RECORD] = "cuEventRecord",
    [EVENT_SYNCHRONIZE] = "cuEventSynchronize",
    [EVENT_DESTROY] = "cuEventDestroy_v2",
    [IS_CAPTURING] = "cuStreamIsCapturing",
    [TO_DEVICE] = "cuMemcpyHtoD_v2",
    [TO_DEVICE_T] = "cuMemcpyHtoD_v2_ptds",
    [FROM_DEVICE] = "cuMemcpyDtoH_v2",
    [FROM_DEVICE_T] = "cuMemcpyDtoH_v2_ptds",
    [TO_DEVICE_ASYNC] = "cuMemcpyHtoDAsync_v2",
    [TO_DEVICE_ASYNC_T] = "cuMemcpyHtoDAsync_v2_ptsz",
    [FROM_DEVICE_ASYNC] = "cuMemcpyDtoHAsync_v2",
    [FROM_DEVICE_ASYNC_T] = "cuMemcpyDtoHAsync_v2_ptsz",
    [COPY] = "cuMemcpy",
    [COPY_T] = "cuMemcpy_ptds",
    [COPY_ASYNC] = "cuMemcpyAsync",
    [COPY_ASYNC_T] = "cuMemcpyAsync_ptsz",
    [PROC_ADDRESS] = "cuGetProcAddress",
    [PROC_ADDRESS_2] = "cuGetProcAddress_v2",
};

typedef void *(*finder)(void *, const char *);

static finder real_dlsym(void)
{
    static _Atomic(finder) known;
    if (!known)
        for (size_t i = 0; i < 3 && !known; i++)
            known = (finder)dlvsym(RTLD_NEXT, "dlsym", (const char *[]){"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"}[i]);
    return known;
}

static void *real(enum function f)
{
    static _Atomic(void *) known[FUNCTIONS];
    if (!known[f]) {
        void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
        if (library) {
            known[f] = real_dlsym()(library, NAMES[f]);
            dlclose(library);
        }
    }
    return known[f];
}

/* Call one of them; where this driver lacks it, the answer is an error as of a wrong argument. */
#define DRIVER(f, types, ...) (real(f) ? ((result(*) types)real(f))(__VA_ARGS__) : INVALID_VALUE)

static context current(void)
{
    context now = NULL;
    return DRIVER(CTX_CURRENT, (context *), &now) ? NULL : now;
}

/* --- touching memory by several threads ------------------------------------------------------------------------- */

struct part {
    char *to;
    const char *from; /* NULL: make the pages of `to` */
    size_t size;
};

static void do_part(struct part *part)
{
    if (part->from) {
        memcpy(part->to, part->from, part->size);
    } else if (part->size && madvise(part->to, part->size, MADV_POPULATE_WRITE)) {
        for (size_t at = 0; at < part->size; at += 4096) /* before Linux 5.14; changes nothing */
            __atomic_fetch_or(part->to + at, 0, __ATOMIC_RELAXED);
    }
}

static struct {
    pthread_mutex_t lock;
    pthread_cond_t begun, done;
    struct part parts[MOST_THREADS];
    size_t taken, left, threads;
} team = {.lock = PTHREAD_MUTEX_INITIALIZER, .begun = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

static void *member(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&team.lock);
    for (;;) {
        while (!team.taken)
            pthread_cond_wait(&team.begun, &team.lock);
        struct part part = team.parts[--team.taken];
        pthread_mutex_unlock(&team.lock);
        do_part(&part);
        pthread_mutex_lock(&team.lock);
        if (!--team.left)
            pthread_cond_signal(&team.done);
    }
    return NULL;
}

static void gather_team(void)
{
    cpu_set_t cpus;
    size_t wanted = sched_getaffinity(0, sizeof cpus, &cpus) ? 1 : (size_t)CPU_COUNT(&cpus);
    if (wanted > MOST_THREADS)
        wanted = MOST_THREADS;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (pthread_t thread; team.threads + 1 < wanted && !pthread_create(&thread, NULL, member, NULL); team.threads++)
        pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Copy memory, or make its pages where `from` is NULL, with the help of the team unless it is busy. */
static void together(char *to, const char *from, size_t size)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER;
    pthread_once(&once, gather_team);
    struct part own = {to, from, size};
    if (size < HUGE || !team.threads || pthread_mutex_trylock(&busy)) {
        do_part(&own);
        return;
    }
    size_t parts = team.threads + 1, step = (size / parts + 4095) & ~(size_t)4095;
    own.size = step < size ? step : size;
    pthread_mutex_lock(&team.lock);
    for (size_t i = 1; i < parts; i++) {
        size_t at = step * i < size ? step * i : size;
        team.parts[i - 1] = (struct part){to + at, from ? from + at : NULL, size - at < step ? size - at : step};
    }
    team.taken = team.left = parts - 1;
    pthread_cond_broadcast(&team.begun);
    pthread_mutex_unlock(&team.lock);
    do_part(&own);
    pthread_mutex_lock(&team.lock);
    while (team.left)
        pthread_cond_wait(&team.done, &team.lock);
    pthread_mutex_unlock(&team.lock);
    pthread_mutex_unlock(&busy);
}

/* --- pinned memory ----------------------------------------------------------------------------------------------- */

struct pin {
    struct pin *next; /* in the table, by address */
    struct pin *next_free;
    char *start;
    size_t capacity, piece;
    context context;
    unsigned flags;
    bool registered; /* our own pages; else made by the driver */
    bool used;
};

static pthread_mutex_t pins_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pin *pins[1024], *free_pins[CLASSES];
static size_t free_bytes;
static bool ended; /* the program ends: nothing is kept any more */

static struct pin **place_of(const void *start) { return &pins[((uintptr_t)start >> 12) % COUNT(pins)]; }

/* The class of a size, which becomes the capacity of its blocks: at most an eighth more. */
static unsigned class_of(size_t *size)
{
    size_t unit = *size < HUGE ? 4096 : HUGE, units = (*size + unit - 1) / unit;
    unsigned shift = 0;
    while (units >> shift > 16)
        shift++;
    size_t parts = (units + ((size_t)1 << shift) - 1) >> shift;
    *size = (parts << shift) * unit;
    return (unit == HUGE ? CLASSES / 2 : 0) + shift * 8 + (unsigned)parts - 1;
}

static result unregister(const struct pin *pin, size_t length)
{
    result answer = SUCCESS;
    for (size_t at = 0; at < length; at += pin->piece) {
        result one = DRIVER(UNREGISTER, (void *), pin->start + at);
        answer = answer ? answer : one;
    }
    return answer;
}

/* Make pages by several threads, and register them: all of it, or nothing. */
static bool make_registered(struct pin *pin)
{
    void *start = mmap(NULL, pin->capacity + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return false;
    char *first = (char *)(((uintptr_t)start + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
    if (first > (char *)start)
        munmap(start, (size_t)(first - (char *)start));
    if (first < (char *)start + HUGE)
        munmap(first + pin->capacity, (size_t)((char *)start + HUGE - first));
    pin->start = first;
    pin->piece = does_pieces ? PIECE : pin->capacity;
    madvise(first, pin->capacity, MADV_HUGEPAGE);
    together(first, NULL, pin->capacity);
    for (size_t at = 0; at < pin->capacity; at += pin->piece) {
        size_t size = pin->capacity - at < pin->piece ? pin->capacity - at : pin->piece;
        if (DRIVER(REGISTER, (void *, size_t, unsigned), first + at, size, PORTABLE | DEVICEMAP)) {
            unregister(pin, at);
            munmap(first, pin->capacity);
            return false;
        }
    }
    return pin->registered = true;
}

static void discard(struct pin *pin)
{
    for (struct pin **at = place_of(pin->start); *at; at = &(*at)->next)
        if (*at == pin) {
            *at = pin->next;
            break;
        }
    if (pin->registered) {
        unregister(pin, pin->capacity);
        munmap(pin->start, pin->capacity);
    } else {
        DRIVER(FREE_HOST, (void *), pin->start);
    }
    free(pin);
}

/* Give back what is free, of one context or, without one, of all; with the lock held. */
static void discard_free(context of)
{
    for (size_t class = 0; class < CLASSES; class++)
        for (struct pin **at = &free_pins[class]; *at;) {
            struct pin *pin = *at;
            if (of && pin->context != of) {
                at = &pin->next_free;
                continue;
            }
            *at = pin->next_free;
            free_bytes -= pin->capacity;
            discard(pin);
        }
}

static void give_all_back(void);

/* One that is free, or a new one; NULL where the driver has to do it. */
static struct pin *take_pin(size_t size, unsigned flags)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int device, same = 0;
    context now = current();
    if (!now || DRIVER(CTX_DEVICE, (int *), &device))
        return NULL;
    size_t capacity = size;
    unsigned class = class_of(&capacity);
    pthread_mutex_lock(&pins_lock);
    struct pin **at = &free_pins[class];
    while (*at && ((*at)->context != now || (*at)->flags != flags))
        at = &(*at)->next_free;
    struct pin *pin = *at;
    if (pin) {
        *at = pin->next_free;
        free_bytes -= pin->capacity;
        pin->used = true;
    }
    pthread_mutex_unlock(&pins_lock);
    if (pin) {
        /* What was queued before it was freed may still use it: the driver waits for that when it frees. */
        DRIVER(CTX_SYNCHRONIZE, (void));
        return pin;
    }
    pin = calloc(1, sizeof *pin);
    if (!pin)
        return NULL;
    pin->capacity = capacity;
    pin->context = now;
    pin->flags = flags;
    pin->used = true;
    /* Where the GPU has other addresses for registered memory, the program would have to ask for them. */
    DRIVER(DEVICE_ATTRIBUTE, (int *, int, int), &same, CAN_USE_HOST_POINTER, device);
    bool made = capacity >= HUGE && same && make_registered(pin);
    void *start = NULL;
    if (!made && !DRIVER(HOST_ALLOC, (void **, size_t, unsigned), &start, capacity, flags)) {
        pin->start = start;
        made = true;
    }
    if (!made) {
        free(pin);
        return NULL;
    }
    pthread_once(&once, give_all_back);
    pthread_mutex_lock(&pins_lock);
    pin->next = *place_of(pin->start);
    *place_of(pin->start) = pin;
    pthread_mutex_unlock(&pins_lock);
    return pin;
}

static struct pin *pin_at(const void *start)
{
    struct pin *pin = *place_of(start);
    while (pin && pin->start != start)
        pin = pin->next;
    return pin;
}

EXPORTED result cuMemHostAlloc(void **start, size_t size, unsigned flags)
{
    if (does_pins && !in_child && start && size && !(flags & ~(unsigned)(PORTABLE | DEVICEMAP))) {
        struct pin *pin = take_pin(size, flags);
        if (pin) {
            scope_acted();
            *start = pin->start;
            return SUCCESS;
        }
    }
    return DRIVER(HOST_ALLOC, (void **, size_t, unsigned), start, size, flags);
}

EXPORTED result cuMemAllocHost_v2(void **start, size_t size)
{
    return does_pins ? cuMemHostAlloc(start, size, 0) : DRIVER(ALLOC_HOST, (void **, size_t), start, size);
}

EXPORTED result cuMemFreeHost(void *start)
{
    size_t most = (size_t)sysconf(_SC_PHYS_PAGES) / 4 * (size_t)sysconf(_SC_PAGE_SIZE);
    pthread_mutex_lock(&pins_lock);
    struct pin *pin = in_child ? NULL : pin_at(start);
    bool was_used = pin && pin->used;
    if (was_used && ended) {
        discard(pin);
    } else if (was_used) {
        size_t capacity = pin->capacity;
        unsigned class = class_of(&capacity);
        pin->used = false;
        pin->next_free = free_pins[class];
        free_pins[class] = pin;
        free_bytes += pin->capacity;
        if (free_bytes > most)
            discard_free(NULL);
    }
    pthread_mutex_unlock(&pins_lock);
    if (!pin)
        return DRIVER(FREE_HOST, (void *), start);
    return was_used ? SUCCESS : INVALID_VALUE;
}

/* Flags of memory that the driver takes for registered, and the program for allocated. */
EXPORTED result cuMemHostGetFlags(unsigned *flags, void *start)
{
    pthread_mutex_lock(&pins_lock);
    struct pin *pin = pin_at(start);
    bool ours = pin && pin->used && pin->registered && flags;
    if (ours)
        *flags = pin->flags | DEVICEMAP;
    pthread_mutex_unlock(&pins_lock);
    return ours ? SUCCESS : DRIVER(GET_FLAGS, (unsigned *, void *), flags, start);
}

/* --- large blocks of malloc that stay registered ---------------------------------------------------------------- */

struct registered {
    struct registered *next;
    char *start;
    size_t size;
    bool refused; /* the driver did not take it, or the program has registered it itself */
};

static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;
static struct registered *blocks;
static bool (*large_block)(const void *, void **, size_t *);
static void (*keep_pages)(void *, bool);

/* Whether all of this memory is of one block that is registered by now. */
static bool is_registered(const void *start, size_t size)
{
    void *block;
    size_t length;
    if (!large_block || !large_block(start, &block, &length))
        return false;
    if ((const char *)start + size > (char *)block + length)
        return false;
    pthread_mutex_lock(&blocks_lock);
    struct registered *one = blocks;
    while (one && one->start != block)
        one = one->next;
    if (!one && (one = calloc(1, sizeof *one))) {
        *one = (struct registered){blocks, block, length, false};
        blocks = one;
        keep_pages(block, true);
        together(block, NULL, length);
        one->refused = DRIVER(REGISTER, (void *, size_t, unsigned), block, length, PORTABLE) != SUCCESS;
        if (one->refused)
            keep_pages(block, false);
    }
    bool registered = one && !one->refused;
    pthread_mutex_unlock(&blocks_lock);
    return registered;
}

/* Let the program register what it asks to: ours go first. */
static void leave_to_program(const char *start, size_t size)
{
    pthread_mutex_lock(&blocks_lock);
    for (struct registered *one = blocks; one; one = one->next)
        if (!one->refused && start < one->start + one->size && one->start < start + size) {
            DRIVER(UNREGISTER, (void *), one->start);
            keep_pages(one->start, false);
            one->refused = true;
        }
    pthread_mutex_unlock(&blocks_lock);
}

EXPORTED result cuMemHostRegister_v2(void *start, size_t size, unsigned flags)
{
    if (does_register && !in_child)
        leave_to_program(start, size);
    return DRIVER(REGISTER, (void *, size_t, unsigned), start, size, flags);
}

EXPORTED result cuMemHostUnregister(void *start)
{
    pthread_mutex_lock(&pins_lock);
    struct pin *pin = pin_at(start);
    bool ours = pin && pin->used; /* allocated, not registered, as far as the program knows */
    pthread_mutex_unlock(&pins_lock);
    return ours ? HOST_MEMORY_NOT_REGISTERED : DRIVER(UNREGISTER, (void *), start);
}

/* --- the ring ---------------------------------------------------------------------------------------------------- */

struct ring {
    context context;
    char *slot[SLOTS];
    event done[SLOTS];
    bool pending[SLOTS];
};

static pthread_mutex_t rings_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ring rings[MOST_RINGS];

/* The ring of the current context; NULL where there can be none. With the lock held. */
static struct ring *ring_of(context now)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct ring *ring = NULL;
    for (size_t i = MOST_RINGS; i--;) {
        if (rings[i].context == now)
            return &rings[i];
        if (!rings[i].context)
            ring = &rings[i];
    }
    if (!ring)
        return NULL;
    for (size_t i = 0; i < SLOTS; i++) {
        void *slot = NULL;
        if (!ring->slot[i] && DRIVER(HOST_ALLOC, (void **, size_t, unsigned), &slot, SLOT_BYTES, PORTABLE))
            return NULL;
        ring->slot[i] = ring->slot[i] ? ring->slot[i] : slot;
        if (!ring->done[i] && DRIVER(EVENT_CREATE, (event *, unsigned), &ring->done[i], DISABLE_TIMING))
            return NULL;
    }
    ring->context = now;
    pthread_once(&once, give_all_back);
    return ring;
}

static result await(struct ring *ring, size_t slot)
{
    result answer = ring->pending[slot] ? DRIVER(EVENT_SYNCHRONIZE, (event), ring->done[slot]) : SUCCESS;
    ring->pending[slot] = false;
    return answer;
}

static result queue(struct ring *ring, size_t slot, stream in, bool to, device_pointer device, size_t size)
{
    result answer =
        to ? DRIVER(TO_DEVICE_ASYNC, (device_pointer, const void *, size_t, stream), device, ring->slot[slot], size, in)
           : DRIVER(FROM_DEVICE_ASYNC, (void *, device_pointer, size_t, stream), ring->slot[slot], device, size, in);
    if (!answer)
        answer = DRIVER(EVENT_RECORD, (event, stream), ring->done[slot], in);
    ring->pending[slot] = !answer;
    return answer;
}

static size_t length_of(size_t chunk, size_t size)
{
    size_t at = chunk * SLOT_BYTES;
    return size - at < SLOT_BYTES ? size - at : SLOT_BYTES;
}

/* Copy by way of the ring. Where it returns, memory of the host is free for the program; SUCCESS or an error. */
static result through(struct ring *ring, bool to, char *host, device_pointer device, size_t size, stream in, bool wait)
{
    size_t chunks = (size + SLOT_BYTES - 1) / SLOT_BYTES, queued = 0;
    result answer = SUCCESS;
    for (size_t slot = 0; slot < SLOTS && !answer; slot++)
        answer = await(ring, slot);
    for (size_t chunk = 0; chunk < chunks && !answer; chunk++) {
        size_t slot = chunk % SLOTS, at = chunk * SLOT_BYTES;
        if (to) {
            answer = await(ring, slot);
            if (!answer)
                together(ring->slot[slot], host + at, length_of(chunk, size));
            if (!answer)
                answer = queue(ring, slot, in, true, device + at, length_of(chunk, size));
            continue;
        }
        for (; queued < chunks && queued < chunk + SLOTS && !answer; queued++)
            answer = queue(ring, queued % SLOTS, in, false, device + queued * SLOT_BYTES, length_of(queued, size));
        if (!answer)
            answer = await(ring, slot);
        if (!answer)
            together(host + at, ring->slot[slot], length_of(chunk, size));
    }
    for (size_t slot = 0; slot < SLOTS && (wait || answer); slot++) {
        result last = await(ring, slot);
        answer = answer ? answer : last;
    }
    return answer;
}

/* --- copies ------------------------------------------------------------------------------------------------------ */

static unsigned type_of(const void *address)
{
    unsigned type = 0;
    device_pointer pointer = (device_pointer)(uintptr_t)address;
    return DRIVER(POINTER_ATTRIBUTE, (void *, int, device_pointer), &type, MEMORY_TYPE, pointer) ? 0 : type;
}

static bool is_capturing(stream in)
{
    int status = 0;
    return DRIVER(IS_CAPTURING, (stream, int *), in, &status) != SUCCESS || status != 0;
}

/* Copy registered memory, and return when it is done, as of pageable memory. */
static bool copy_registered(bool to, char *host, device_pointer device, size_t size, stream in, result *answer)
{
    event done = NULL;
    if (DRIVER(EVENT_CREATE, (event *, unsigned), &done, DISABLE_TIMING))
        return false;
    *answer = to ? DRIVER(TO_DEVICE_ASYNC, (device_pointer, const void *, size_t, stream), device, host, size, in)
                 : DRIVER(FROM_DEVICE_ASYNC, (void *, device_pointer, size_t, stream), host, device, size, in);
    if (!*answer)
        *answer = DRIVER(EVENT_RECORD, (event, stream), done, in);
    if (!*answer)
        *answer = DRIVER(EVENT_SYNCHRONIZE, (event), done);
    DRIVER(EVENT_DESTROY, (event), done);
    return true;
}

/* Whether a copy was done here, and how it ended; otherwise it is the driver's. */
static bool copied(
    bool to, void *host, device_pointer device, size_t size, stream in, bool thread, bool asynchronous, result *answer)
{
    if (!(does_ring || does_register) || in_child || size < LEAST_COPY)
        return false;
    context now = current();
    stream queue_in = in == NULL && thread ? STREAM_PER_THREAD : in;
    if (!now || is_capturing(queue_in))
        return false;
    if (does_register && is_registered(host, size)) {
        scope_acted();
        return copy_registered(to, host, device, size, queue_in, answer);
    }
    if (!does_ring || type_of(host) || type_of((char *)host + size - 1))
        return false;
    if (pthread_mutex_trylock(&rings_lock))
        return false;
    struct ring *ring = ring_of(now);
    /* After an error the driver does it again from the start, and says what is wrong. */
    bool done = ring && !through(ring, to, host, device, size, queue_in, !asynchronous);
    pthread_mutex_unlock(&rings_lock);
    if (done) {
        scope_acted();
        *answer = SUCCESS;
    }
    return done;
}

/* The same of a copy whose direction only the addresses tell. */
static bool copied_either(
    device_pointer to, device_pointer from, size_t size, stream in, bool thread, bool asynchronous, result *answer)
{
    if (!(does_ring || does_register) || in_child || size < LEAST_COPY)
        return false;
    void *to_host = (void *)(uintptr_t)to, *from_host = (void *)(uintptr_t)from;
    if (type_of(to_host) == TYPE_DEVICE && type_of(from_host) != TYPE_DEVICE)
        return copied(true, from_host, to, size, in, thread, asynchronous, answer);
    if (type_of(from_host) == TYPE_DEVICE && type_of(to_host) != TYPE_DEVICE)
        return copied(false, to_host, from, size, in, thread, asynchronous, answer);
    return false;
}

#define TO_DEVICE_FUNCTION(name, f, thread)                                                                            \
    EXPORTED result name(device_pointer to, const void *from, size_t size)                                             \
    {                                                                                                                  \
        result answer;                                                                                                 \
        return copied(true, (void *)from, to, size, NULL, thread, false, &answer)                                      \
                   ? answer                                                                                            \
                   : DRIVER(f, (device_pointer, const void *, size_t), to, from, size);                                \
    }
#define TO_DEVICE_ASYNC_FUNCTION(name, f, thread)                                                                      \
    EXPORTED result name(device_pointer to, const void *from, size_t size, stream in)                                  \
    {                                                                                                                  \
        result answer;                                                                                                 \
        return copied(true, (void *)from, to, size, in, thread, true, &answer)                                         \
                   ? answer                                                                                            \
                   : DRIVER(f, (device_pointer, const void *, size_t, stream), to, from, size, in);                    \
    }
#define FROM_DEVICE_FUNCTION(name, f, thread)                                                                          \
    EXPORTED result name(void *to, device_pointer from, size_t size)                                                   \
    {                                                                                                                  \
        result answer;                                                                                                 \
        return copied(false, to, from, size, NULL, thread, false, &answer)                                             \
                   ? answer                                                                                            \
                   : DRIVER(f, (void *, device_pointer, size_t), to, from, size);                                      \
    }
#define FROM_DEVICE_ASYNC_FUNCTION(name, f, thread)                                                                    \
    EXPORTED result name(void *to, device_pointer from, size_t size, stream in)                                        \
    {                                                                                                                  \
        result answer;                                                                                                 \
        return copied(false, to, from, size, in, thread, true, &answer)                                                \
                   ? answer                                                                                            \
                   : DRIVER(f, (void *, device_pointer, size_t, stream), to, from, size, in);                          \
    }
#define COPY_FUNCTION(name, f, thread)                                                                                 \
    EXPORTED result name(device_pointer to, device_pointer from, size_t size)                                          \
    {                                                                                                                  \
        result answer;                                                                                                 \
        return copied_either(to, from, size, NULL, thread, false, &answer)                                             \
                   ? answer                                                                                            \
                   : DRIVER(f, (device_pointer, device_pointer, size_t), to, from, size);                              \
    }
#define COPY_ASYNC_FUNCTION(name, f, thread)                                                                           \
    EXPORTED result name(device_pointer to, device_pointer from, size_t size, stream in)                               \
    {                                                                                                                  \
        result answer;                                                                                                 \
        return copied_either(to, from, size, in, thread, true, &answer)                                                \
                   ? answer                                                                                            \
                   : DRIVER(f, (device_pointer, device_pointer, size_t, stream), to, from, size, in);                  \
    }

TO_DEVICE_FUNCTION(cuMemcpyHtoD_v2, TO_DEVICE, false)
TO_DEVICE_FUNCTION(cuMemcpyHtoD_v2_ptds, TO_DEVICE_T, true)
TO_DEVICE_ASYNC_FUNCTION(cuMemcpyHtoDAsync_v2, TO_DEVICE_ASYNC, false)
TO_DEVICE_ASYNC_FUNCTION(cuMemcpyHtoDAsync_v2_ptsz, TO_DEVICE_ASYNC_T, true)
FROM_DEVICE_FUNCTION(cuMemcpyDtoH_v2, FROM_DEVICE, false)
FROM_DEVICE_FUNCTION(cuMemcpyDtoH_v2_ptds, FROM_DEVICE_T, true)
FROM_DEVICE_ASYNC_FUNCTION(cuMemcpyDtoHAsync_v2, FROM_DEVICE_ASYNC, false)
FROM_DEVICE_ASYNC_FUNCTION(cuMemcpyDtoHAsync_v2_ptsz, FROM_DEVICE_ASYNC_T, true)
COPY_FUNCTION(cuMemcpy, COPY, false)
COPY_FUNCTION(cuMemcpy_ptds, COPY_T, true)
COPY_ASYNC_FUNCTION(cuMemcpyAsync, COPY_ASYNC, false)
COPY_ASYNC_FUNCTION(cuMemcpyAsync_ptsz, COPY_ASYNC_T, true)

/* --- the ends of contexts, and of the program -------------------------------------------------------------------- */

/* Forget a context, and give back what it had: its memory ends with it. With `all`, also what is in use. */
static void leave(context ending, bool all)
{
    if (!ending || in_child)
        return;
    pthread_mutex_lock(&pins_lock);
    discard_free(ending);
    for (size_t i = 0; all && i < COUNT(pins); i++)
        for (struct pin *pin = pins[i], *next; pin; pin = next) {
            next = pin->next;
            if (pin->context == ending)
                discard(pin);
        }
    pthread_mutex_unlock(&pins_lock);
    pthread_mutex_lock(&rings_lock);
    for (size_t i = 0; i < MOST_RINGS; i++)
        if (rings[i].context == ending) {
            for (size_t slot = 0; slot < SLOTS; slot++) {
                await(&rings[i], slot);
                DRIVER(EVENT_DESTROY, (event), rings[i].done[slot]);
                DRIVER(FREE_HOST, (void *), rings[i].slot[slot]);
            }
            memset(&rings[i], 0, sizeof rings[i]);
        }
    pthread_mutex_unlock(&rings_lock);
    pthread_mutex_lock(&blocks_lock);
    for (struct registered *one = blocks, **at = &blocks; one; one = *at) {
        if (!one->refused) {
            DRIVER(UNREGISTER, (void *), one->start);
            keep_pages(one->start, false);
        }
        *at = one->next;
        free(one);
    }
    pthread_mutex_unlock(&blocks_lock);
}

EXPORTED result cuCtxDestroy_v2(context ending)
{
    leave(ending, true);
    return DRIVER(CTX_DESTROY, (context), ending);
}

EXPORTED result cuDevicePrimaryCtxReset_v2(int device)
{
    leave(current(), true);
    return DRIVER(PRIMARY_RESET, (int), device);
}

EXPORTED result cuDevicePrimaryCtxRelease_v2(int device)
{
    leave(current(), false);
    return DRIVER(PRIMARY_RELEASE, (int), device);
}

static void at_exit(void)
{
    ended = true;
    leave(current(), false);
}

/* Registered when the driver runs already, so that it is called before the driver's own end. */
static void give_all_back(void) { atexit(at_exit); }

/* --- who asks for the driver's functions ------------------------------------------------------------------------- */

EXPORTED result cuGetProcAddress(const char *name, void **address, int version, uint64_t flags);
EXPORTED result cuGetProcAddress_v2(const char *name, void **address, int version, uint64_t flags, int *status);

static const struct {
    const char *name; /* without the suffix of its version */
    int version;      /* from which on it has this form */
    bool thread;      /* with the default stream of each thread */
    const char *exported;
    void *ours;
} OURS[] = {
    {"cuMemHostAlloc", 2020, false, "cuMemHostAlloc", (void *)cuMemHostAlloc},
    {"cuMemAllocHost", 3020, false, "cuMemAllocHost_v2", (void *)cuMemAllocHost_v2},
    {"cuMemFreeHost", 2000, false, "cuMemFreeHost", (void *)cuMemFreeHost},
    {"cuMemHostGetFlags", 2030, false, "cuMemHostGetFlags", (void *)cuMemHostGetFlags},
    {"cuMemHostRegister", 6050, false, "cuMemHostRegister_v2", (void *)cuMemHostRegister_v2},
    {"cuMemHostUnregister", 4000, false, "cuMemHostUnregister", (void *)cuMemHostUnregister},
    {"cuMemcpyHtoD", 3020, false, "cuMemcpyHtoD_v2", (void *)cuMemcpyHtoD_v2},
    {"cuMemcpyHtoD", 7000, true, "cuMemcpyHtoD_v2_ptds", (void *)cuMemcpyHtoD_v2_ptds},
    {"cuMemcpyDtoH", 3020, false, "cuMemcpyDtoH_v2", (void *)cuMemcpyDtoH_v2},
    {"cuMemcpyDtoH", 7000, true, "cuMemcpyDtoH_v2_ptds", (void *)cuMemcpyDtoH_v2_ptds},
    {"cuMemcpyHtoDAsync", 3020, false, "cuMemcpyHtoDAsync_v2", (void *)cuMemcpyHtoDAsync_v2},
    {"cuMemcpyHtoDAsync", 7000, true, "cuMemcpyHtoDAsync_v2_ptsz", (void *)cuMemcpyHtoDAsync_v2_ptsz},
    {"cuMemcpyDtoHAsync", 3020, false, "cuMemcpyDtoHAsync_v2", (void *)cuMemcpyDtoHAsync_v2},
    {"cuMemcpyDtoHAsync", 7000, true, "cuMemcpyDtoHAsync_v2_ptsz", (void *)cuMemcpyDtoHAsync_v2_ptsz},
    {"cuMemcpy", 4000, false, "cuMemcpy", (void *)cuMemcpy},
    {"cuMemcpy", 7000, true, "cuMemcpy_ptds", (void *)cuMemcpy_ptds},
    {"cuMemcpyAsync", 4000, false, "cuMemcpyAsync", (void *)cuMemcpyAsync},
    {"cuMemcpyAsync", 7000, true, "cuMemcpyAsync_ptsz", (void *)cuMemcpyAsync_ptsz},
    {"cuCtxDestroy", 4000, false, "cuCtxDestroy_v2", (void *)cuCtxDestroy_v2},
    {"cuDevicePrimaryCtxReset", 11000, false, "cuDevicePrimaryCtxReset_v2", (void *)cuDevicePrimaryCtxReset_v2},
    {"cuDevicePrimaryCtxRelease", 11000, false, "cuDevicePrimaryCtxRelease_v2", (void *)cuDevicePrimaryCtxRelease_v2},
    {"cuGetProcAddress", 11030, false, "cuGetProcAddress", (void *)cuGetProcAddress},
    {"cuGetProcAddress", 12000, false, "cuGetProcAddress_v2", (void *)cuGetProcAddress_v2},
};

static bool does_anything(void) { return does_pins || does_ring || does_register; }

/* Put ours in the place of what the driver found: the latest form that the program knows, for its default stream. */
static void replace(const char *name, void **address, int version, uint64_t flags)
{
    if (!does_anything() || !name || !address || !*address)
        return;
    bool thread = flags & PER_THREAD, has_thread = false;
    for (size_t i = 0; i < COUNT(OURS); i++)
        has_thread |= OURS[i].thread && !strcmp(OURS[i].name, name);
    for (size_t i = COUNT(OURS); i--;)
        if (!strcmp(OURS[i].name, name) && version >= OURS[i].version && OURS[i].thread == (thread && has_thread)) {
            *address = OURS[i].ours;
            return;
        }
}

EXPORTED result cuGetProcAddress(const char *name, void **address, int version, uint64_t flags)
{
    result answer = DRIVER(PROC_ADDRESS, (const char *, void **, int, uint64_t), name, address, version, flags);
    if (!answer)
        replace(name, address, version, flags);
    return answer;
}

EXPORTED result cuGetProcAddress_v2(const char *name, void **address, int version, uint64_t flags, int *status)
{
    result answer =
        DRIVER(PROC_ADDRESS_2, (const char *, void **, int, uint64_t, int *), name, address, version, flags, status);
    if (!answer)
        replace(name, address, version, flags);
    return answer;
}

/* As the C library's. The last call takes this function's place, so that RTLD_NEXT still means what follows the caller.
 */
EXPORTED void *dlsym(void *restrict handle, const char *restrict name)
{
    if (does_anything() && handle != RTLD_NEXT && handle != RTLD_DEFAULT && !strncmp(name, "cu", 2))
        for (size_t i = 0; i < COUNT(OURS); i++)
            if (!strcmp(OURS[i].exported, name) && real_dlsym()(handle, name))
                return OURS[i].ours;
    return real_dlsym()(handle, name);
}

static void after_fork_in_child(void) { in_child = true; }

__attribute__((constructor)) static void begin(void)
{
    const char *words = scope_words("PINPROF_TRY_CUDA");
    if (!words)
        return;
    pthread_atfork(NULL, NULL, after_fork_in_child);
    does_pieces = scope_word(words, "pieces");
    does_pins = scope_word(words, "pins");
    does_ring = scope_word(words, "ring");
    large_block = (bool (*)(const void *, void **, size_t *))real_dlsym()(RTLD_DEFAULT, "pinprof_large_block");
    keep_pages = (void (*)(void *, bool))real_dlsym()(RTLD_DEFAULT, "pinprof_keep_pages");
    does_register = scope_word(words, "register") && large_block && keep_pages;
}
