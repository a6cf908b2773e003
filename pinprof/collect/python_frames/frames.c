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
    MOST_FRAME_BYTES = 256
};
enum { ATTEMPTS = 4, LONGEST_NS = 200000 };
enum { OWNER_GENERATOR = 1, OWNER_FRAME_OBJECT = 2, OWNER_C = 3 };
enum { NOT_SEEN, AS_BEFORE, ANOTHER };
enum { SEEN, TORN, UNREADABLE, GONE };

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
    uint64_t looks;
    struct page page[REMEMBERED]; /* in the order in which a look comes to them */
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

EXPORT void pinprof_frames_free(struct process *p) { free(p); }

EXPORT struct thread *pinprof_frames_thread(uint64_t address)
{
    struct thread *t = calloc(1, sizeof *t);
    if (t)
        t->address = address;
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

/* Look at each thread: SEEN, UNREADABLE where one has left or a new one has come first, or GONE. */
EXPORT int pinprof_frames_look(struct process *p, struct thread **threads, size_t count)
{
    int worst = heads_are_known(p, threads, count) ? SEEN : UNREADABLE;
    for (size_t i = 0; i < count; i++) {
        threads[i]->state = NOT_SEEN;
        int result = look_at(p, threads[i]);
        if (result == GONE)
            return GONE;
        if (result == UNREADABLE)
            worst = UNREADABLE;
    }
    return worst;
}
