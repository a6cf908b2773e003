/* Other memory for malloc and mmap, as PINPROF_TRY_MEMORY says:
 *
 *   blocks    blocks of 1 MiB and more come from huge pages, and are kept for later blocks when they are freed
 *   unshared  and forked children do not have those blocks, so that writing to them copies nothing
 *   files     pages of mapped files are mapped at once (MAP_POPULATE)
 *
 * All large blocks lie in one arena of addresses, in slots of 2 MiB, so that two comparisons tell whose a pointer is.
 * Anything else goes to the next allocator (host_memory.h). A block keeps its size class for ever: eight classes for
 * each doubling, so that an eighth of its addresses at most is unused.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cures.h"

#define LEAST ((size_t)1 << 20)
#define SLOT ((size_t)2 << 20)
#define CLASSES 192
#define KEPT_AT_LEAST ((size_t)1 << 30)
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static const size_t ARENAS[] = {(size_t)1 << 42, (size_t)1 << 38, (size_t)1 << 35};

struct block {
    uint32_t slots; /* of the block that begins here; 0 inside a block, and beyond the last */
    uint32_t next;  /* the next free block of its class: its slot + 1 */
    uint8_t used, dirty, pinned;
};

struct cured cured;
static struct {
    size_t top; /* slots that blocks were made of */
    struct block *blocks;
    uint32_t free[CLASSES]; /* by class: the first free block's slot + 1 */
    size_t used_bytes, most_bytes, kept_bytes;
} arena;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t lost; /* in a forked child: blocks that begin below this slot are its parent's alone */
static bool does_unshared;

/* --- large blocks ---------------------------------------------------------------------------------------------- */

static struct block *block_of(const void *p) { return &arena.blocks[((const char *)p - cured.start) / SLOT]; }

static char *address_of(const struct block *b) { return cured.start + (size_t)(b - arena.blocks) * SLOT; }

static size_t capacity_of(const struct block *b) { return (size_t)b->slots * SLOT; }

/* The class of a number of slots, which becomes that of the class. */
static unsigned class_of(size_t *slots)
{
    unsigned shift = 0;
    while (*slots >> shift > 16)
        shift++;
    size_t parts = (*slots + ((size_t)1 << shift) - 1) >> shift;
    *slots = parts << shift;
    return shift * 8 + (unsigned)parts - 1;
}

static struct block *make_block(size_t slots)
{
    if (slots > (size_t)(cured.end - cured.start) / SLOT - arena.top)
        return NULL;
    struct block *b = &arena.blocks[arena.top];
    if (mprotect(address_of(b), slots * SLOT, PROT_READ | PROT_WRITE))
        return NULL;
    madvise(address_of(b), slots * SLOT, MADV_HUGEPAGE);
    arena.top += slots;
    b->slots = (uint32_t)slots;
    return b;
}

void *cured_block(size_t size, bool zero)
{
    if (size < LEAST || size > (size_t)(cured.end - cured.start))
        return NULL;
    size_t slots = (size + SLOT - 1) / SLOT;
    unsigned class = class_of(&slots);
    int before = errno;
    pthread_mutex_lock(&lock);
    uint32_t free_slot = arena.free[class];
    struct block *b = free_slot ? &arena.blocks[free_slot - 1] : make_block(slots);
    if (b) {
        if (free_slot) {
            arena.free[class] = b->next;
            if (b->dirty)
                arena.kept_bytes -= capacity_of(b);
        }
        b->used = 1;
        arena.used_bytes += capacity_of(b);
        if (arena.used_bytes > arena.most_bytes)
            arena.most_bytes = arena.used_bytes;
    }
    pthread_mutex_unlock(&lock);
    if (b && zero && b->dirty) {
        if (b->pinned) /* the GPU knows these pages: they must stay */
            memset(address_of(b), 0, size);
        else
            madvise(address_of(b), capacity_of(b), MADV_DONTNEED);
    }
    errno = before;
    if (b)
        cures_acted();
    return b ? address_of(b) : NULL;
}

void cured_free(void *p)
{
    int before = errno;
    struct block *b = block_of(p);
    size_t slots = b->slots;
    pthread_mutex_lock(&lock);
    if (b->used && (size_t)(b - arena.blocks) < lost) {
        b->used = 0;
        p = NULL;
    } else if (b->used && address_of(b) == p) {
        unsigned class = class_of(&slots);
        b->used = 0;
        arena.used_bytes -= capacity_of(b);
        size_t most = arena.most_bytes > KEPT_AT_LEAST ? arena.most_bytes : KEPT_AT_LEAST;
        b->dirty = b->pinned || arena.kept_bytes + capacity_of(b) <= most;
        if (b->dirty)
            arena.kept_bytes += capacity_of(b);
        else
            madvise(p, capacity_of(b), MADV_DONTNEED);
        b->next = arena.free[class];
        arena.free[class] = (uint32_t)(b - arena.blocks) + 1;
        p = NULL;
    }
    pthread_mutex_unlock(&lock);
    errno = before;
    if (p) /* as glibc does: freed twice, or never allocated */
        abort();
}

void *cured_aligned(size_t alignment, size_t size)
{
    bool fits = alignment && alignment <= SLOT && !(alignment & (alignment - 1));
    return fits ? cured_block(size, false) : NULL;
}

size_t cured_room(const void *p) { return capacity_of(block_of(p)); }

bool cured_block_at(const void *p, void **start, size_t *size)
{
    if (!is_cured(p))
        return false;
    bool held = false;
    pthread_mutex_lock(&lock);
    size_t slot = (size_t)((const char *)p - cured.start) / SLOT;
    while (slot && !arena.blocks[slot].slots)
        slot--;
    struct block *b = &arena.blocks[slot];
    if (b->used && (const char *)p < address_of(b) + capacity_of(b)) {
        *start = address_of(b);
        *size = capacity_of(b);
        held = true;
    }
    pthread_mutex_unlock(&lock);
    return held;
}

void cured_pages_stay(void *start, bool stay)
{
    pthread_mutex_lock(&lock);
    block_of(start)->pinned = stay;
    pthread_mutex_unlock(&lock);
}

/* --- mapped files ---------------------------------------------------------------------------------------------- */

/* Whether to map the pages of this mapping at once: a file's data, and no more than half of what is free. */
static bool populates(size_t length, int protection, int flags, int file)
{
    if (file < 0 || length < LEAST || flags & (MAP_ANONYMOUS | MAP_POPULATE | MAP_FIXED))
        return false;
    if (!(protection & PROT_READ) || protection & PROT_EXEC)
        return false;
    if (!(flags & MAP_PRIVATE) && protection & PROT_WRITE)
        return false;
    struct stat about;
    int before = errno;
    bool regular = !fstat(file, &about) && S_ISREG(about.st_mode);
    errno = before;
    long pages = sysconf(_SC_AVPHYS_PAGES);
    bool copies = flags & MAP_PRIVATE && protection & PROT_WRITE;
    return regular && (!copies || length / 4096 < (size_t)(pages > 0 ? pages : 0) / 2);
}

int cured_mapping(size_t length, int protection, int flags, int file)
{
    if (!populates(length, protection, flags, file))
        return flags;
    cures_acted();
    return flags | MAP_POPULATE;
}

/* --- begin, and forks ------------------------------------------------------------------------------------------ */

static void advise_all(int advice)
{
    for (size_t slot = lost; does_unshared && slot < arena.top; slot += arena.blocks[slot].slots)
        madvise(address_of(&arena.blocks[slot]), capacity_of(&arena.blocks[slot]), advice);
}

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
    advise_all(MADV_DONTFORK);
}

static void after_fork_in_parent(void)
{
    advise_all(MADV_DOFORK);
    pthread_mutex_unlock(&lock);
}

static struct sigaction before_fault;

/* A child needs a block that it does not have: say so, and let it end as it would of any such fault. */
static void fault(int number, siginfo_t *about, void *context)
{
    (void)number, (void)context;
    if (is_cured(about->si_addr) && block_of(about->si_addr) < &arena.blocks[lost])
        cures_say("harm 1\n");
    sigaction(SIGSEGV, &before_fault, NULL);
}

static void after_fork_in_child(void)
{
    if (does_unshared && arena.top > lost) {
        lost = arena.top;
        memset(arena.free, 0, sizeof arena.free);
        arena.kept_bytes = 0;
        struct sigaction action = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
        sigaction(SIGSEGV, &action, &before_fault);
    }
    pthread_mutex_unlock(&lock);
}

static bool reserve(void)
{
    for (size_t i = 0; i < sizeof ARENAS / sizeof *ARENAS; i++) {
        size_t size = ARENAS[i];
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        char *start = mmap(NULL, size + SLOT, PROT_NONE, flags, -1, 0);
        if (start == MAP_FAILED)
            continue;
        size_t bytes = size / SLOT * sizeof(struct block);
        struct block *blocks = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (blocks == MAP_FAILED) {
            munmap(start, size + SLOT);
            continue;
        }
        arena.blocks = blocks;
        cured.start = (char *)(((uintptr_t)start + SLOT - 1) & ~(uintptr_t)(SLOT - 1));
        cured.end = cured.start + size;
        return true;
    }
    return false;
}

void cure_memory(const char *words)
{
    cured.files = cures_word(words, "files");
    does_unshared = cures_word(words, "unshared");
    if (cures_word(words, "blocks") && reserve())
        pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}
