/*
 * Stacks of another process's Python threads, read with process_vm_readv(2) while the process runs on.
 *
 * Where a look has to ask twice, its second answer is of later: were some places of a program always seen late, these
 * would be seen too seldom. So a look takes a few microseconds wherever the thread is. Its first system call reads the
 * pages that the thread's frames lay in at the looks before, and a page that is missing (of another generator, of
 * another evaluation loop) is read at once. What changed meanwhile shows: a generator that is not running has no
 * caller, a frame that ended belongs to its frame object, and the outermost frame is that of C. Then the look begins
 * again.
 *
 * A look that is done asks once more, for a few words alone, whether the thread is still there, and notes the moments
 * before, between and after both: whatever the thread was in at the middle one, it was seen in that.
 *
 * Sources: Include/internal/pycore_frame.h and Python/ceval.c of CPython 3.11 to 3.15.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    PAGE = 4096,
    MOST_PAGES = 256,
    REMEMBERED = 32,
    KEPT_LOOKS = 16,
    MORE = 4,
    MOST_FRAMES = 1024,
    MOST_HEADS = 64,
    KNOWN_ROOM = 8192,
    MOST_FIXED = 128,
    MOST_FIXED_BYTES = 32768,
    MOST_FRAME_BYTES = 256
};
enum { ATTEMPTS = 4, LONGEST_NS = 200000 };
enum { OWNER_GENERATOR = 1, OWNER_FRAME_OBJECT = 2, OWNER_C = 3 };
enum { NOT_SEEN, AS_BEFORE, ANOTHER };
enum { SEEN, TORN, UNREADABLE, GONE };
/* Instead of a stack's number: the thread is in no function, was not seen, or where it is has no number yet. */
enum { NO_STACK = -1, UNSEEN = -2, UNNAMED = -3 };

struct layout {
    uint64_t thread_frame, frame_in_cframe, has_cframe, c_outermost; /* whether C's frame is the outermost one */
    uint64_t frame_bytes, code, previous, instruction, owner, copy, has_copy;
};

/* A function that a thread is in; Python reads these three numbers. */
struct place {
    uint64_t code, instruction, copy;
};

struct word {
    uint64_t address, value;
};

struct page {
    uint64_t address;
    uint64_t used; /* number of the last look that needed it */
};

/* A thread; Python knows what comes before `capacity`. */
struct thread {
    uint64_t address, outermost;
    struct place *places; /* innermost first */
    uint32_t depth;
    int32_t state;
    uint64_t since, begun, ended; /* seen there between the first two, and again between the last two */
    uint32_t capacity, pages;
    int32_t stack; /* the number of where it is */
    uint64_t looks;
    struct page page[REMEMBERED]; /* in the order in which a look comes to them */
};

/* What a look saw of a thread. */
struct sample {
    int64_t stack;
    uint64_t since, begun, ended;
};

/* Looks that follow each other, as far as nobody has to be asked. */
struct looks {
    uint64_t due, until;    /* when the first was to be, then the next one; after the other time none is begun */
    uint64_t most, done;    /* how many */
    const uint64_t *gaps;   /* from each to the next */
    uint64_t (*times)[2];   /* when each was to be, and was */
    struct sample *samples; /* of each, by thread */
};

/* A stack that has a number. */
struct known {
    struct known *next;
    uint64_t hash;
    int32_t stack;
    uint32_t depth, fixed;
    size_t size;
    struct place *places;
    struct iovec *fixed_at; /* memory that has to be as it was: what names the code of modules */
    uint8_t *fixed_bytes;
};

struct process {
    int pid;
    bool gone;
    struct layout layout;
    struct iovec heads[MOST_HEADS]; /* where the first thread of each interpreter is noted */
    size_t head_count;
    uint64_t look;            /* the number of this one at its thread */
    struct word innermost[3]; /* what says where the thread is: to its innermost frame, and its place there */
    uint32_t words;
    uint32_t pages; /* of this attempt */
    struct page page[MOST_PAGES];
    uint8_t data[MOST_PAGES][PAGE];
    struct place places[MOST_FRAMES];
    struct known *known[KNOWN_ROOM]; /* by hash */
    uint32_t known_count;
    uint8_t now[MOST_FIXED_BYTES];
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Read `count` pages, whose addresses are set, to the end of what is there; how many could be read. */
static uint32_t read_pages(struct process *p, uint32_t count)
{
    struct iovec local = {p->data[p->pages], (size_t)count * PAGE}, remote[REMEMBERED];
    for (uint32_t i = 0; i < count; i++)
        remote[i] = (struct iovec){(void *)(uintptr_t)p->page[p->pages + i].address, PAGE};
    ssize_t size = process_vm_readv(p->pid, &local, 1, remote, count, 0);
    if (size < 0 && (errno == ESRCH || errno == EPERM))
        p->gone = true;
    uint32_t whole = size < 0 ? 0 : (uint32_t)(size / PAGE);
    p->pages += whole;
    return whole;
}

/* The number of a page of this attempt; MOST_PAGES where it was not read. */
static uint32_t number_of(const struct process *p, uint64_t address)
{
    for (uint32_t i = 0; i < p->pages; i++)
        if (p->page[i].address == address)
            return i;
    return MOST_PAGES;
}

static const uint8_t *page_at(struct process *p, uint64_t address)
{
    uint32_t place = number_of(p, address);
    if (place == MOST_PAGES) {
        /* Calls from Python to Python put one frame after another: a walk that goes down will go on so. */
        uint32_t more = number_of(p, address + PAGE) == MOST_PAGES ? 1 : MORE;
        place = p->pages;
        if (place + more > MOST_PAGES || p->gone)
            return NULL;
        for (uint32_t i = 0; i < more; i++)
            p->page[place + i] = (struct page){address - (uint64_t)i * PAGE, 0};
        if (!read_pages(p, more))
            return NULL;
    }
    p->page[place].used = p->look;
    return p->data[place];
}

static bool fetch(struct process *p, uint64_t address, void *to, size_t size)
{
    for (uint8_t *out = to; size;) {
        const uint8_t *page = page_at(p, address & -(uint64_t)PAGE);
        size_t inside = address % PAGE, here = PAGE - inside < size ? PAGE - inside : size;
        if (!page)
            return false;
        memcpy(out, page + inside, here);
        address += here, out += here, size -= here;
    }
    return true;
}

static uint64_t word_of(const uint8_t *bytes, uint64_t at)
{
    uint64_t value;
    memcpy(&value, bytes + at, sizeof value);
    return value;
}

/* From a thread's innermost frame to its outermost; `p->places` has them if the result is SEEN. */
static int walk(struct process *p, const struct thread *t, uint32_t *depth, uint64_t *outermost)
{
    const struct layout *l = &p->layout;
    uint64_t frame, owner = l->c_outermost ? OWNER_C : 0;
    *depth = 0, *outermost = 0, p->words = 0;
    if (!fetch(p, t->address + l->thread_frame, &frame, sizeof frame))
        return UNREADABLE;
    p->innermost[p->words++] = (struct word){t->address + l->thread_frame, frame};
    if (l->has_cframe && frame) {
        uint64_t inside = frame + l->frame_in_cframe;
        if (!fetch(p, inside, &frame, sizeof frame))
            return TORN;
        p->innermost[p->words++] = (struct word){inside, frame};
    }
    for (uint32_t count = 0; frame; count++) {
        uint8_t bytes[MOST_FRAME_BYTES];
        if (count == MOST_FRAMES || !fetch(p, frame, bytes, l->frame_bytes))
            return TORN;
        uint64_t code = word_of(bytes, l->code);
        owner = bytes[l->owner];
        if (owner == OWNER_FRAME_OBJECT)
            return TORN;
        if (owner < OWNER_C && code) {
            struct place place = {code & -(uint64_t)8, word_of(bytes, l->instruction), 0};
            if (l->has_copy)
                memcpy(&place.copy, bytes + l->copy, 4);
            if (!*depth)
                p->innermost[p->words++] = (struct word){frame + l->instruction, place.instruction};
            p->places[(*depth)++] = place;
            *outermost = frame;
        }
        frame = word_of(bytes, l->previous);
    }
    return (l->c_outermost ? owner < OWNER_C : owner == OWNER_GENERATOR) ? TORN : SEEN;
}

/* The pages of the next look: those of this one in its order, then those that were of use a moment ago. */
static void remember(struct process *p, struct thread *t)
{
    t->pages = 0;
    for (int used = 1; used >= 0; used--) {
        for (uint32_t i = 0; i < p->pages && t->pages < REMEMBERED; i++) {
            bool now = p->page[i].used == p->look;
            if (now == used && p->page[i].used && p->page[i].used + KEPT_LOOKS > p->look)
                t->page[t->pages++] = p->page[i];
        }
    }
}

static bool keep(struct process *p, struct thread *t, uint32_t depth, uint64_t outermost)
{
    size_t size = depth * sizeof *t->places;
    if (depth > t->capacity) {
        struct place *more = realloc(t->places, 2 * size);
        if (!more)
            return false;
        t->places = more, t->capacity = 2 * depth;
    }
    t->state = t->depth == depth && !memcmp(t->places, p->places, size) ? AS_BEFORE : ANOTHER;
    memcpy(t->places, p->places, size);
    t->depth = depth, t->outermost = outermost;
    return true;
}

/* Whether a thread is where `walk` saw it. */
static bool is_still_there(const struct process *p)
{
    uint64_t now[3] = {0};
    struct iovec local = {now, p->words * sizeof *now}, remote[3];
    for (uint32_t i = 0; i < p->words; i++)
        remote[i] = (struct iovec){(void *)(uintptr_t)p->innermost[i].address, sizeof *now};
    if (process_vm_readv(p->pid, &local, 1, remote, p->words, 0) != (ssize_t)local.iov_len)
        return false;
    for (uint32_t i = 0; i < p->words; i++)
        if (now[i] != p->innermost[i].value)
            return false;
    return true;
}

static int look_at(struct process *p, struct thread *t)
{
    uint64_t begun = now_ns(), outermost;
    int result = TORN;
    p->look = ++t->looks;
    for (int attempt = 0; attempt < ATTEMPTS && result == TORN; attempt++) {
        uint32_t depth;
        t->since = t->begun = now_ns(), p->pages = 0;
        memcpy(p->page, t->page, t->pages * sizeof *t->page);
        if (t->pages)
            read_pages(p, t->pages); /* one that has gone hides those after it */
        result = walk(p, t, &depth, &outermost);
        t->ended = now_ns();
        remember(p, t);
        if (result == SEEN && !depth && t->depth && attempt < ATTEMPTS - 1)
            result = TORN; /* an evaluation loop that begins has no frame yet */
        if (p->gone)
            return GONE;
        if (result != SEEN)
            continue;
        /* Who was kept from running meanwhile does not know when it saw what it did. */
        if (t->ended - begun > LONGEST_NS || !keep(p, t, depth, outermost))
            return TORN;
        uint64_t asked = now_ns();
        if (is_still_there(p))
            t->begun = asked, t->ended = now_ns();
    }
    return result;
}

/* NULL where memory or a frame's size does not allow it. */
EXPORT struct process *pinprof_frames_new(int pid, const struct layout *layout)
{
    struct process *p = layout->frame_bytes <= MOST_FRAME_BYTES ? calloc(1, sizeof *p) : NULL;
    if (p) {
        p->pid = pid;
        p->layout = *layout;
    }
    return p;
}

static void forget_known(struct process *p)
{
    for (size_t i = 0; i < KNOWN_ROOM; i++) {
        for (struct known *k = p->known[i], *next; k; k = next) {
            next = k->next;
            free(k);
        }
        p->known[i] = NULL;
    }
    p->known_count = 0;
}

EXPORT void pinprof_frames_free(struct process *p)
{
    forget_known(p);
    free(p);
}

EXPORT struct thread *pinprof_frames_thread(uint64_t address)
{
    struct thread *t = calloc(1, sizeof *t);
    if (t)
        t->address = address, t->stack = UNNAMED;
    return t;
}

EXPORT void pinprof_frames_forget(struct thread *t)
{
    free(t->places);
    free(t);
}

/* Whether each interpreter's first thread, where it has one, is among these. */
static bool heads_are_known(const struct process *p, struct thread **threads, size_t count)
{
    uint64_t first[MOST_HEADS];
    struct iovec local = {first, p->head_count * sizeof *first};
    if (process_vm_readv(p->pid, &local, 1, p->heads, p->head_count, 0) != (ssize_t)local.iov_len)
        return false;
    for (size_t head = 0; head < p->head_count; head++) {
        bool known = !first[head];
        for (size_t i = 0; i < count && !known; i++)
            known = threads[i]->address == first[head];
        if (!known)
            return false;
    }
    return true;
}

/* From now on a look says whether interpreters have other first threads; `count` places, MOST_HEADS at most. */
EXPORT void pinprof_frames_heads(struct process *p, const uint64_t *places, size_t count)
{
    p->head_count = count < MOST_HEADS ? count : MOST_HEADS;
    for (size_t i = 0; i < p->head_count; i++)
        p->heads[i] = (struct iovec){(void *)(uintptr_t)places[i], sizeof *places};
}

static uint64_t hash_of(const struct thread *t)
{
    uint64_t hash = t->depth;
    for (uint32_t i = 0; i < t->depth; i++) {
        hash = (hash ^ t->places[i].code) * 0x9e3779b97f4a7c15ull;
        hash = (hash ^ t->places[i].instruction ^ t->places[i].copy << 48 ^ hash >> 29) * 0xbf58476d1ce4e5b9ull;
    }
    return hash ^ hash >> 32;
}

static bool is_as_it_was(struct process *p, const struct known *k)
{
    struct iovec local = {p->now, k->size};
    return !k->fixed || (process_vm_readv(p->pid, &local, 1, k->fixed_at, k->fixed, 0) == (ssize_t)k->size &&
                            !memcmp(p->now, k->fixed_bytes, k->size));
}

/* The number of the stack that a thread was seen in. */
static int32_t stack_of(struct process *p, struct thread *t)
{
    if (t->state == NOT_SEEN)
        return UNSEEN;
    if (!t->depth)
        return t->stack = NO_STACK;
    if (t->state == AS_BEFORE && t->stack != UNNAMED)
        return t->stack;
    uint64_t hash = hash_of(t);
    const struct known *k = p->known[hash % KNOWN_ROOM];
    while (k && (k->hash != hash || k->depth != t->depth || memcmp(k->places, t->places, t->depth * sizeof *k->places)))
        k = k->next;
    return t->stack = k && is_as_it_was(p, k) ? k->stack : UNNAMED;
}

/* Where a thread was seen last has this number, also when it comes back while `fixed` pieces of memory are the same. */
EXPORT void pinprof_frames_name(struct process *p, struct thread *t, int32_t stack, const struct iovec *fixed_at,
    size_t fixed, const uint8_t *fixed_bytes, size_t size)
{
    t->stack = stack;
    if (fixed > MOST_FIXED || size > MOST_FIXED_BYTES)
        return;
    if (p->known_count == 4 * KNOWN_ROOM)
        forget_known(p);
    size_t places = t->depth * sizeof *t->places;
    struct known *k = malloc(sizeof *k + places + fixed * sizeof *fixed_at + size);
    if (!k)
        return;
    uint64_t hash = hash_of(t);
    struct known **head = &p->known[hash % KNOWN_ROOM];
    *k = (struct known){*head, hash, stack, t->depth, (uint32_t)fixed, size, (struct place *)(k + 1), NULL, NULL};
    k->fixed_at = (struct iovec *)(k->places + t->depth), k->fixed_bytes = (uint8_t *)(k->fixed_at + fixed);
    memcpy(k->places, t->places, places);
    memcpy(k->fixed_at, fixed_at, fixed * sizeof *fixed_at);
    memcpy(k->fixed_bytes, fixed_bytes, size);
    *head = k;
    p->known_count++;
}

/* Numbers of stacks mean nothing any more. */
EXPORT void pinprof_frames_forget_names(struct process *p, struct thread **threads, size_t count)
{
    forget_known(p);
    for (size_t i = 0; i < count; i++)
        threads[i]->stack = UNNAMED;
}

/* One look at each thread: SEEN, TORN where one has no number, UNREADABLE where one has left or a new one has come
 * first, or GONE. */
static int look_once(struct process *p, struct thread **threads, size_t count, struct sample *samples)
{
    int worst = heads_are_known(p, threads, count) ? SEEN : UNREADABLE;
    for (size_t i = 0; i < count; i++) {
        struct thread *t = threads[i];
        t->state = NOT_SEEN;
        int result = look_at(p, t);
        if (result == GONE)
            return GONE;
        samples[i] = (struct sample){stack_of(p, t), t->since, t->begun, t->ended};
        if (result == UNREADABLE)
            worst = UNREADABLE;
        else if (samples[i].stack == UNNAMED && worst == SEEN)
            worst = TORN;
    }
    return worst;
}

/* Look again and again, until a look is not SEEN or a signal arrives; what the last one was. */
EXPORT int pinprof_frames_look(struct process *p, struct thread **threads, size_t count, struct looks *l)
{
    for (l->done = 0;;) {
        uint64_t begun = now_ns();
        int result = look_once(p, threads, count, l->samples + l->done * count);
        if (result == GONE)
            return GONE;
        uint64_t now = now_ns();
        l->times[l->done][0] = l->due, l->times[l->done][1] = begun + (now - begun) / 2;
        l->due = begun + l->gaps[l->done++];
        if (l->due < now)
            l->due = now;
        if (result != SEEN || l->done == l->most || l->due > l->until)
            return result;
        struct timespec due = {(time_t)(l->due / 1000000000), (long)(l->due % 1000000000)};
        if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL))
            return result;
    }
}
