/* Memory of CUPTI's own, apart from the program's heap.
 *
 * CUPTI allocates small blocks in the program's threads. One that stays at the end of the C library's heap keeps what
 * is freed below it from going back to the kernel, so that the program's next large block finds its pages there: a
 * PyTorch program that copied to new tensors took 393,000 page faults and 1.4 s under CUPTI, and 766,000 and 2.3 s
 * without (H200). A recorder must not make a program faster either. So libcupti's own references to the allocator
 * lead here. Blocks that it has from elsewhere (those of before) go back to where they come from.
 *
 * Blocks are of powers of two, each behind a head of 16 bytes; freed ones are kept by size. When the reserved addresses
 * are used up, or cannot be had, the C library serves.
 */

enum { LEAST_SHIFT = 6, MOST_SHIFT = 26, HEAD = 16, GROWS_BY = 1 << 20, RESERVED = 1 << 30 };

struct block {
    uint32_t shift;  /* of its size */
    uint32_t before; /* bytes from its begin to what was handed out */
};

struct freed {
    struct freed *next;
};

static char *apart, *apart_unused, *apart_ready; /* ready: to be written, up to there */
static struct freed *freed_blocks[MOST_SHIFT + 1];
static pthread_mutex_t apart_lock = PTHREAD_MUTEX_INITIALIZER;

static int is_apart(const void *p) { return apart && (const char *)p >= apart && (const char *)p < apart + RESERVED; }

static struct block *block_of(void *p) { return (struct block *)((char *)p - HEAD); }

/* Under the lock. Addresses are made memory in steps: mlockall(MCL_FUTURE) would fill all of it. */
static int made_ready(const char *end)
{
    size_t more = end <= apart_ready ? 0 : ((size_t)(end - apart_ready) + GROWS_BY - 1) / GROWS_BY * GROWS_BY;
    if (more && mprotect(apart_ready, more, PROT_READ | PROT_WRITE) < 0)
        return 0;
    apart_ready += more;
    return 1;
}

/* `clean`: whether its bytes are 0 already. NULL: let the C library serve. */
static void *take(size_t alignment, size_t size, int *clean)
{
    size_t before = alignment > HEAD ? alignment : HEAD;
    if (!apart || size > RESERVED || before > RESERVED)
        return NULL;
    uint32_t shift = LEAST_SHIFT;
    while (((size_t)1 << shift) < size + before)
        shift++;
    if (shift > MOST_SHIFT)
        return NULL;
    size_t whole = (size_t)1 << shift;
    pthread_mutex_lock(&apart_lock);
    char *begin = (char *)freed_blocks[shift];
    *clean = !begin;
    if (begin) {
        freed_blocks[shift] = freed_blocks[shift]->next;
    } else {
        /* A block lies at a multiple of its size, so an alignment up to that holds. */
        size_t used = ((size_t)(apart_unused - apart) + whole - 1) & ~(whole - 1);
        if (used + whole <= RESERVED && made_ready(apart + used + whole)) {
            begin = apart + used;
            apart_unused = begin + whole;
        }
    }
    pthread_mutex_unlock(&apart_lock);
    if (!begin)
        return NULL;
    struct block *block = block_of(begin + before);
    *block = (struct block){shift, (uint32_t)before};
    return begin + before;
}

static void *apart_malloc(size_t size)
{
    int clean;
    void *made = take(HEAD, size, &clean);
    return made ? made : malloc(size);
}

static void *apart_calloc(size_t count, size_t size)
{
    size_t bytes;
    int clean;
    void *made = __builtin_mul_overflow(count, size, &bytes) ? NULL : take(HEAD, bytes, &clean);
    if (!made)
        return calloc(count, size);
    return clean ? made : memset(made, 0, bytes);
}

static void apart_free(void *p)
{
    if (!is_apart(p)) {
        free(p);
        return;
    }
    struct block block = *block_of(p);
    struct freed *begin = (struct freed *)((char *)p - block.before);
    pthread_mutex_lock(&apart_lock);
    begin->next = freed_blocks[block.shift];
    freed_blocks[block.shift] = begin;
    pthread_mutex_unlock(&apart_lock);
}

static void *apart_realloc(void *p, size_t size)
{
    if (!p)
        return apart_malloc(size);
    if (!is_apart(p))
        return realloc(p, size);
    if (!size) {
        apart_free(p);
        return NULL;
    }
    size_t room = ((size_t)1 << block_of(p)->shift) - block_of(p)->before;
    if (size <= room)
        return p;
    void *made = apart_malloc(size);
    if (made) {
        memcpy(made, p, room);
        apart_free(p);
    }
    return made;
}

static int apart_posix_memalign(void **made, size_t alignment, size_t size)
{
    int clean;
    if (alignment < sizeof(void *) || alignment & (alignment - 1))
        return EINVAL;
    void *taken = take(alignment, size, &clean);
    if (!taken)
        return posix_memalign(made, alignment, size);
    *made = taken;
    return 0;
}

static void *apart_aligned_alloc(size_t alignment, size_t size)
{
    int clean;
    void *made = !alignment || alignment & (alignment - 1) ? NULL : take(alignment, size, &clean);
    return made ? made : aligned_alloc(alignment, size);
}

static char *apart_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *made = apart_malloc(size);
    return made ? memcpy(made, text, size) : NULL;
}

static const struct {
    const char *name;
    void *apart;
} ALLOCATOR[] = {
    {"malloc", (void *)apart_malloc},
    {"calloc", (void *)apart_calloc},
    {"realloc", (void *)apart_realloc},
    {"free", (void *)apart_free},
    {"posix_memalign", (void *)apart_posix_memalign},
    {"aligned_alloc", (void *)apart_aligned_alloc},
    {"strdup", (void *)apart_strdup},
};

/* A child of fork has its own copy; nobody holds the lock there. */
static void lock_apart(void) { pthread_mutex_lock(&apart_lock); }
static void unlock_apart(void) { pthread_mutex_unlock(&apart_lock); }

static int reserve_apart(void)
{
    if (apart)
        return 1;
    /* More addresses: the largest block lies at a multiple of its size. */
    size_t most = (size_t)1 << MOST_SHIFT;
    void *made = mmap(NULL, RESERVED + most, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED)
        return 0;
    apart = apart_unused = apart_ready = (char *)(((uintptr_t)made + most - 1) & ~(uintptr_t)(most - 1));
    pthread_atfork(lock_apart, unlock_apart, unlock_apart);
    return 1;
}

/* Lead a library's own references here: the one that `inside` is an address of. */
static int lead_apart(struct dl_phdr_info *object, size_t size, void *inside)
{
    (void)size;
    word lowest, highest;
    struct tables tables;
    if (!spans(object, (word)inside, &lowest, &highest))
        return 0;
    for (int which = 0; which < 2 && tables_of_object(object, &tables); which++) {
        for (size_t i = 0; i < tables.counts[which]; i++) {
            const ElfW(Rela) *relocation = &tables.relocations[which][i];
            const ElfW(Sym) *symbol = &tables.symbols[ELF64_R_SYM(relocation->r_info)];
            for (size_t k = 0; ELF64_R_SYM(relocation->r_info) && k < sizeof ALLOCATOR / sizeof *ALLOCATOR; k++)
                if (symbol->st_shndx == SHN_UNDEF && !strcmp(tables.strings + symbol->st_name, ALLOCATOR[k].name))
                    patch((word *)(object->dlpi_addr + relocation->r_offset), (word)ALLOCATOR[k].apart);
        }
    }
    return 1;
}
