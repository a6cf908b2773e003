/* A CUPTI of the tests: the functions that the agent uses, without a GPU.
 *
 * Activity records are given by the test as bytes (`fake_deliver`), in CUPTI's own layout; where a record is a
 * kernel's, the pointer to its name is an index into the texts that the test gave (`fake_name`). What happened is
 * counted. As CUPTI does, it bears calls of several threads at once: buffers, and the kinds that are on, have a lock.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef void (*requested_callback)(uint8_t **buffer, size_t *size, size_t *records);
typedef void (*completed_callback)(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);
typedef void (*api_callback)(void *user, int domain, uint32_t id, const void *data);

struct counts {
    int32_t subscribed, unsubscribed, finalized, flushed, enabled, disabled, unified, refused;
    int32_t unsafe; /* let go of outside a call that returns, or beside one that runs */
};
struct counts fake_counts;
#ifndef VERSION
#define VERSION 130001
#endif
static const uint32_t fake_version = VERSION;
size_t fake_dropped;
static char *names[64];
static requested_callback requested;
static completed_callback completed;
static api_callback callback;
static int subscribers, all_calls;
static _Atomic int running;
static _Thread_local int returning;

/* CUpti_CallbackData */
struct call {
    int32_t site;
    const void *unused[5];
    uint32_t context;
    uint64_t *kept;
    uint32_t correlation;
};
/* Of what follows; `completed` may be called with it, and asks CUPTI for what was dropped. */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static uint8_t *buffer;
static struct {
    uint8_t *buffer;
    size_t used;
} held[512];
static unsigned holding, holds;
static char on[64]; /* kinds of activity that are recorded */
static size_t room, used;

void fake_name(unsigned index, const char *text) { names[index] = strdup(text); }

static size_t size_of(uint32_t kind)
{
    switch (kind) {
    case 1:
        return 112;
    case 2:
        return 104;
    case 10:
        return 248;
    case 17:
        return 56;
    case 22:
        return 96;
    case 25:
        return 104;
    case 38:
        return 56;
    case 49:
        return 128;
    }
    return 64;
}

int cuptiActivityFlushAll(uint32_t flag)
{
    (void)flag;
    pthread_mutex_lock(&lock);
    fake_counts.flushed++;
    while (!holding && holds) {
        holds--;
        completed(NULL, 0, held[holds].buffer, room, held[holds].used);
    }
    if (buffer && used && holding) {
        held[holds].buffer = buffer;
        held[holds++].used = used;
        buffer = NULL;
        used = 0;
    } else if (buffer && used) {
        uint8_t *full = buffer;
        size_t valid = used;
        buffer = NULL;
        used = 0;
        completed(NULL, 0, full, room, valid);
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

/* Put records, one after another in `data`, into buffers as CUPTI does, those of kinds that are on; how many found no
 * room. */
int fake_deliver(const uint8_t *data, size_t size)
{
    int lost = 0;
    pthread_mutex_lock(&lock);
    for (size_t at = 0; at + 4 <= size;) {
        uint32_t kind;
        memcpy(&kind, data + at, sizeof kind);
        size_t length = size_of(kind);
        if (at + length > size)
            break;
        at += length;
        if (!on[kind % 64])
            continue;
        if (buffer && used + length > room)
            cuptiActivityFlushAll(0);
        if (!buffer) {
            size_t most;
            requested(&buffer, &room, &most);
        }
        if (buffer) {
            memcpy(buffer + used, data + at - length, length);
            if (kind == 10) {
                uint64_t index;
                memcpy(&index, data + at - length + 104, sizeof index);
                memcpy(buffer + used + 104, &names[index % 64], sizeof(char *));
            }
            used += length;
        } else {
            lost++;
        }
    }
    pthread_mutex_unlock(&lock);
    return lost;
}

/* Whether the worker that hands buffers back is busy elsewhere. */
void fake_hold(unsigned hold)
{
    pthread_mutex_lock(&lock);
    holding = hold;
    pthread_mutex_unlock(&lock);
}

static void tell(uint32_t id, int site, uint64_t *kept)
{
    struct call call = {.site = site, .kept = kept};
    if (callback && (all_calls || id == 371))
        callback(NULL, 1, id, &call);
}

/* A call of the driver begins: the place where it keeps what its callbacks leave there. */
uint64_t *fake_call(uint32_t id)
{
    uint64_t *kept = malloc(sizeof *kept);
    *kept = 0x5555555555555555;
    running++;
    tell(id, 0, kept);
    return kept;
}

/* And returns. */
void fake_return(uint32_t id, uint64_t *kept)
{
    returning = 1;
    tell(id, 1, kept);
    returning = 0;
    running--;
    free(kept);
}

/* What CUPTI does with the allocator. */
void *fake_malloc(size_t size) { return malloc(size); }
void *fake_calloc(size_t count, size_t size) { return calloc(count, size); }
void *fake_realloc(void *p, size_t size) { return realloc(p, size); }
void *fake_aligned_alloc(size_t alignment, size_t size) { return aligned_alloc(alignment, size); }
int fake_posix_memalign(void **p, size_t alignment, size_t size) { return posix_memalign(p, alignment, size); }
char *fake_strdup(const char *text) { return strdup(text); }
void fake_free(void *p) { free(p); }

/* The program allocates managed memory: cuMemAllocManaged. */
void fake_allocate_managed(void) { fake_return(371, fake_call(371)); }

int cuptiGetVersion(uint32_t *version) { return *version = fake_version, 0; }

int cuptiSubscribe(void **subscriber, api_callback function, void *user)
{
    (void)user;
    if (subscribers) {
        fake_counts.refused++;
        return 39; /* CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED */
    }
    subscribers = 1;
    fake_counts.subscribed++;
    callback = function;
    *subscriber = &subscribers;
    return 0;
}

int cuptiUnsubscribe(void *subscriber)
{
    (void)subscriber;
    subscribers = all_calls = 0;
    callback = NULL;
    fake_counts.unsubscribed++;
    return 0;
}

int fake_busy;       /* whether a call of another thread begins as soon as calls are watched */
uint64_t *fake_kept; /* what that call keeps */

int cuptiEnableDomain(uint32_t enable, void *subscriber, int domain)
{
    (void)subscriber;
    if (domain == 1)
        all_calls = (int)enable;
    if (all_calls && fake_busy)
        fake_kept = fake_call(282);
    return 0;
}

int cuptiEnableCallback(uint32_t enable, void *subscriber, int domain, uint32_t id)
{
    (void)enable;
    (void)subscriber;
    (void)domain;
    (void)id;
    return 0;
}

int cuptiActivityRegisterTimestampCallback(uint64_t (*now)(void)) { return now() ? 0 : 1; }

int cuptiActivityRegisterCallbacks(requested_callback first, completed_callback second)
{
    requested = first;
    completed = second;
    return 0;
}

int cuptiActivitySetAttribute(int attribute, size_t *size, void *value)
{
    (void)attribute;
    return size && value ? 0 : 1;
}

int cuptiActivityEnable(int kind)
{
    pthread_mutex_lock(&lock);
    on[kind % 64] = 1;
    fake_counts.unified |= kind == 25;
    fake_counts.enabled++;
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuptiActivityDisable(int kind)
{
    pthread_mutex_lock(&lock);
    on[kind % 64] = 0;
    fake_counts.disabled++;
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuptiActivityGetNextRecord(uint8_t *from, size_t valid, void **record)
{
    uint8_t *at = *record;
    if (at) {
        uint32_t kind;
        memcpy(&kind, at, sizeof kind);
        at += size_of(kind);
    } else {
        at = from;
    }
    if (at >= from + valid)
        return 12; /* CUPTI_ERROR_MAX_LIMIT_REACHED */
    *record = at;
    return 0;
}

int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped)
{
    (void)context;
    (void)stream;
    pthread_mutex_lock(&lock);
    *dropped = fake_dropped;
    fake_dropped = 0;
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuptiActivityConfigureUnifiedMemoryCounter(void *config, uint32_t count)
{
    (void)config;
    return count ? 0 : 1;
}

int cuptiFinalize(void)
{
    fake_counts.finalized++;
    fake_counts.unsafe += !returning || running > 1;
    return 0;
}
