/* Other pinned memory and other copies for CUDA programs, as PINPROF_TRY_CUDA says:
 *
 *   pins      pinned memory comes from huge pages that several threads touch before they are registered, and is kept
 *   pieces    and is registered in pieces of 256 MiB, between which calls of other threads get through
 *   ring      copies of pageable memory go through a ring of pinned buffers that several threads fill and empty
 *   register  large blocks (cure_memory.c) are registered when they are first copied, and stay so
 *
 * The agent's wrappers of the driver's functions (agent.c) ask here first. Any case that is not plain (other flags, a
 * stream that is being captured, an error on the way) is left to the driver, whose answer is then the program's.
 *
 * Sources: the CUDA Driver API's manual, "Memory Management", "Unified Addressing", and "API synchronization behavior"
 * for when a copy of pageable memory may return.
 */

#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cures.h"

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
enum { CAN_USE_HOST_POINTER = 91, DISABLE_TIMING = 2 };
#define STREAM_PER_THREAD ((void *)2)

typedef int result;
typedef uint64_t device_pointer;
typedef void *stream, *event, *context;

static bool does_pins, does_pieces, does_ring, does_register;
static bool in_child; /* of a fork: CUDA does not work there, and neither do the threads */

/* --- the driver's own functions --------------------------------------------------------------------------------- */

enum function {
    HOST_ALLOC,
    FREE_HOST,
    REGISTER,
    UNREGISTER,
    POINTER_ATTRIBUTE,
    DEVICE_ATTRIBUTE,
    CTX_CURRENT,
    CTX_DEVICE,
    CTX_SYNCHRONIZE,
    EVENT_CREATE,
    EVENT_RECORD,
    EVENT_SYNCHRONIZE,
    EVENT_DESTROY,
    IS_CAPTURING,
    TO_DEVICE_ASYNC,
    TO_DEVICE_ASYNC_T,
    FROM_DEVICE_ASYNC,
    FROM_DEVICE_ASYNC_T,
    FUNCTIONS
};

static const char *const NAMES[FUNCTIONS] = {
    [HOST_ALLOC] = "cuMemHostAlloc",
    [FREE_HOST] = "cuMemFreeHost",
    [REGISTER] = "cuMemHostRegister_v2",
    [UNREGISTER] = "cuMemHostUnregister",
    [POINTER_ATTRIBUTE] = "cuPointerGetAttribute",
    [DEVICE_ATTRIBUTE] = "cuDeviceGetAttribute",
    [CTX_CURRENT] = "cuCtxGetCurrent",
    [CTX_DEVICE] = "cuCtxGetDevice",
    [CTX_SYNCHRONIZE] = "cuCtxSynchronize",
    [EVENT_CREATE] = "cuEventCreate",
    [EVENT_RECORD] = "cuEventRecord",
    [EVENT_SYNCHRONIZE] = "cuEventSynchronize",
    [EVENT_DESTROY] = "cuEventDestroy_v2",
    [IS_CAPTURING] = "cuStreamIsCapturing",
    [TO_DEVICE_ASYNC] = "cuMemcpyHtoDAsync_v2",
    [TO_DEVICE_ASYNC_T] = "cuMemcpyHtoDAsync_v2_ptsz",
    [FROM_DEVICE_ASYNC] = "cuMemcpyDtoHAsync_v2",
    [FROM_DEVICE_ASYNC_T] = "cuMemcpyDtoHAsync_v2_ptsz",
};

static void *real(enum function f)
{
    static _Atomic(void *) known[FUNCTIONS];
    if (!known[f])
        known[f] = pinprof_inside_driver(NAMES[f]);
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

static bool allocated(void **start, size_t size, unsigned flags, result *answer)
{
    bool plain = does_pins && !in_child && start && size && !(flags & ~(unsigned)(PORTABLE | DEVICEMAP));
    struct pin *pin = plain ? take_pin(size, flags) : NULL;
    if (!pin)
        return false;
    cures_acted();
    *start = pin->start;
    *answer = SUCCESS;
    return true;
}

static void *argument(const struct cured_call *call, unsigned which)
{
    return (void *)(uintptr_t)call->arguments[which];
}

static bool host_alloc(const struct cured_call *call, result *answer)
{
    return allocated(argument(call, 0), call->arguments[1], (unsigned)call->arguments[2], answer);
}

static bool alloc_host(const struct cured_call *call, result *answer)
{
    return allocated(argument(call, 0), call->arguments[1], 0, answer);
}

static bool free_host(const struct cured_call *call, result *answer)
{
    void *start = argument(call, 0);
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
    *answer = was_used ? SUCCESS : INVALID_VALUE;
    return pin;
}

/* Flags of memory that the driver takes for registered, and the program for allocated. */
static bool get_flags(const struct cured_call *call, result *answer)
{
    unsigned *flags = argument(call, 0);
    void *start = argument(call, 1);
    pthread_mutex_lock(&pins_lock);
    struct pin *pin = pin_at(start);
    bool ours = pin && pin->used && pin->registered && flags;
    if (ours)
        *flags = pin->flags | DEVICEMAP;
    pthread_mutex_unlock(&pins_lock);
    *answer = SUCCESS;
    return ours;
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

/* Whether all of this memory is of one block that is registered by now. */
static bool is_registered(const void *start, size_t size)
{
    void *block;
    size_t length;
    if (!cured_block_at(start, &block, &length))
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
        cured_pages_stay(block, true);
        together(block, NULL, length);
        one->refused = DRIVER(REGISTER, (void *, size_t, unsigned), block, length, PORTABLE) != SUCCESS;
        if (one->refused)
            cured_pages_stay(block, false);
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
            cured_pages_stay(one->start, false);
            one->refused = true;
        }
    pthread_mutex_unlock(&blocks_lock);
}

static bool host_register(const struct cured_call *call, result *answer)
{
    (void)answer;
    if (does_register && !in_child)
        leave_to_program(argument(call, 0), call->arguments[1]);
    return false;
}

static bool host_unregister(const struct cured_call *call, result *answer)
{
    const void *start = argument(call, 0);
    pthread_mutex_lock(&pins_lock);
    struct pin *pin = pin_at(start);
    bool ours = pin && pin->used; /* allocated, not registered, as far as the program knows */
    pthread_mutex_unlock(&pins_lock);
    *answer = HOST_MEMORY_NOT_REGISTERED;
    return ours;
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

static bool may_copy(const struct cured_call *call)
{
    return (does_ring || does_register) && !in_child && call->arguments[2] >= LEAST_COPY;
}

/* Whether a copy was done here, and how it ended; otherwise it is the driver's. */
static bool copied(const struct cured_call *call, bool to, void *host, device_pointer device, result *answer)
{
    size_t size = call->arguments[2];
    if (!may_copy(call))
        return false;
    context now = current();
    stream in = call->stream < 0 ? NULL : argument(call, (unsigned)call->stream);
    in = in == NULL && call->per_thread ? STREAM_PER_THREAD : in;
    if (!now || is_capturing(in))
        return false;
    if (does_register && is_registered(host, size)) {
        cures_acted();
        return copy_registered(to, host, device, size, in, answer);
    }
    if (!does_ring || type_of(host) || type_of((char *)host + size - 1))
        return false;
    if (pthread_mutex_trylock(&rings_lock))
        return false;
    struct ring *ring = ring_of(now);
    /* After an error the driver does it again from the start, and says what is wrong. */
    bool done = ring && !through(ring, to, host, device, size, in, call->stream < 0);
    pthread_mutex_unlock(&rings_lock);
    if (done) {
        cures_acted();
        *answer = SUCCESS;
    }
    return done;
}

static bool to_device(const struct cured_call *call, result *answer)
{
    return copied(call, true, argument(call, 1), call->arguments[0], answer);
}

static bool from_device(const struct cured_call *call, result *answer)
{
    return copied(call, false, argument(call, 0), call->arguments[1], answer);
}

/* A copy whose direction only the addresses tell. */
static bool either_way(const struct cured_call *call, result *answer)
{
    if (!may_copy(call))
        return false;
    unsigned to = type_of(argument(call, 0)), from = type_of(argument(call, 1));
    return to == TYPE_DEVICE && from != TYPE_DEVICE   ? to_device(call, answer)
           : from == TYPE_DEVICE && to != TYPE_DEVICE ? from_device(call, answer)
                                                      : false;
}

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
            cured_pages_stay(one->start, false);
        }
        *at = one->next;
        free(one);
    }
    pthread_mutex_unlock(&blocks_lock);
}

static bool ctx_destroy(const struct cured_call *call, result *answer)
{
    (void)answer;
    leave(argument(call, 0), true);
    return false;
}

static bool primary_reset(const struct cured_call *call, result *answer)
{
    (void)call, (void)answer;
    leave(current(), true);
    return false;
}

static bool primary_release(const struct cured_call *call, result *answer)
{
    (void)call, (void)answer;
    leave(current(), false);
    return false;
}

static void at_exit(void)
{
    ended = true;
    leave(current(), false);
}

/* Registered when the driver runs already, so that it is called before the driver's own end. */
static void give_all_back(void) { atexit(at_exit); }

/* --- the table --------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    cure cure;
} CURED[] = {
    {"cuMemHostAlloc", host_alloc},
    {"cuMemAllocHost", alloc_host},
    {"cuMemFreeHost", free_host},
    {"cuMemHostGetFlags", get_flags},
    {"cuMemHostRegister", host_register},
    {"cuMemHostUnregister", host_unregister},
    {"cuMemcpyHtoD", to_device},
    {"cuMemcpyHtoDAsync", to_device},
    {"cuMemcpyDtoH", from_device},
    {"cuMemcpyDtoHAsync", from_device},
    {"cuMemcpy", either_way},
    {"cuMemcpyAsync", either_way},
    {"cuCtxDestroy", ctx_destroy},
    {"cuDevicePrimaryCtxReset", primary_reset},
    {"cuDevicePrimaryCtxRelease", primary_release},
};

cure cure_of(const char *name, size_t length)
{
    for (size_t i = 0; (does_pins || does_ring || does_register) && i < COUNT(CURED); i++)
        if (strlen(CURED[i].name) == length && !memcmp(CURED[i].name, name, length))
            return CURED[i].cure;
    return NULL;
}

static void after_fork_in_child(void) { in_child = true; }

void cure_cuda(const char *words)
{
    if (!words)
        return;
    does_pieces = cures_word(words, "pieces");
    does_pins = cures_word(words, "pins");
    does_ring = cures_word(words, "ring");
    does_register = cures_word(words, "register") && cured.start;
    pthread_atfork(NULL, NULL, after_fork_in_child);
}
