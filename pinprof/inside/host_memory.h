/* Large memory of the host: blocks of the allocator and mappings of 256 KiB and more, from who makes them to who gives
 * them back. Smaller ones cost a comparison each.
 *
 * What lives is in a table by address, without locks: 8,192 sets of eight. A block has a record when it is made and one
 * when it is given back, and from a number of these on, sums (calls.h). Before a process has made 16 MiB of such memory
 * it is only counted, so that programs that use little have no file.
 *
 * Of the C library's own allocator, the word before a block says whether it is large. Of others nothing may be read
 * there, so the table is asked. Sanitizers have allocators with a meaning of their own: they are left alone.
 */

enum { LEAST_BLOCK = 256 << 10, SETS = 1 << 13, IN_SET = 8, BLOCK_SINGLES = 256, EARLY_BYTES = 16 << 20 };
enum { FIRST_BYTES = 1 << 14, HEAD = 2 * sizeof(size_t) };
#define RETURN_PLACE ((word)(uintptr_t)__builtin_frame_address(0) + sizeof(word))

typedef void *(*finder)(void *, const char *);
static finder next_dlsym(void);

static bool entered; /* the process ran already when the agent came (late.h), and so stands before nobody */

/* The function of a name that stands behind the agent. */
static EARLY void *behind(const char *name)
{
    void *found = next_dlsym()(entered ? RTLD_DEFAULT : RTLD_NEXT, name);
    return found && !is_ours(found) ? found : NULL;
}

enum maker { MALLOC, CALLOC, REALLOC, ALIGNED, MMAP, MREMAP, DONTNEED, FREE_LAZILY, HUGEPAGE, SHM_OPEN };

struct block {
    word bytes, made;
    uint32_t site, generation, thread, maker;
};

static struct blocks {
    _Atomic word address[SETS][IN_SET]; /* 0: none; 1: just coming in */
    struct block of[SETS][IN_SET];
} *blocks; /* NULL: blocks are not recorded */

static _Atomic word early_blocks, early_bytes;
static bool next_is_libc; /* so blocks have its heads */

/* Sanitizers stand before the clock, too, and can't be asked before they have begun. */
static EARLY word now(void) { return blocks ? ticks() : 0; }

/* ---- What lives ---- */

static inline word set_of(word address, unsigned choice) { return mixed(choice, address) >> 7 & (SETS - 1); }

static RARE bool put_block(word address, const struct block *block)
{
    for (unsigned choice = 0; choice < 2; choice++) {
        word set = set_of(address, choice);
        for (unsigned i = 0; i < IN_SET; i++) {
            word none = 0;
            if (!atomic_compare_exchange_strong(&blocks->address[set][i], &none, 1))
                continue;
            blocks->of[set][i] = *block;
            atomic_store_explicit(&blocks->address[set][i], address, memory_order_release);
            return true;
        }
    }
    return false;
}

static inline EARLY bool is_in_set(word address, word set)
{
    bool found = false;
    for (unsigned i = 0; i < IN_SET; i++)
        found |= atomic_load_explicit(&blocks->address[set][i], memory_order_relaxed) == address;
    return found;
}

/* Take a block out; false where it is none of these. */
static RARE bool take_block(word address, struct block *block)
{
    for (unsigned choice = 0; choice < 2; choice++) {
        word set = set_of(address, choice);
        for (unsigned i = 0; i < IN_SET; i++) {
            word here = atomic_load_explicit(&blocks->address[set][i], memory_order_acquire);
            if (here != address)
                continue;
            *block = blocks->of[set][i];
            if (atomic_compare_exchange_strong(&blocks->address[set][i], &here, 0))
                return true;
        }
    }
    return false;
}

/* ---- Records ---- */

static void lose_block(void)
{
    if (process->own.header && is_recording())
        atomic_fetch_add_explicit(&head()->lost_blocks, 1, memory_order_relaxed);
}

/* This thread's state, for a record of a block; NULL where there is to be none. */
static struct thread *block_seat(void)
{
    uint32_t generation = atomic_load_explicit(&process->generation, memory_order_relaxed);
    struct thread *t = self;
    if (t && generation && t->generation == generation) {
        if (t->calling) /* what the driver makes inside its functions is its own */
            return NULL;
        if (t->busy) /* a signal handler interrupted the agent itself */
            t = NULL;
    } else {
        t = seat();
    }
    if (!t)
        lose_block();
    return t;
}

/* Add to the sum of records like this one; `source` and `stream` are added up. */
static bool add_block(struct thread *t, struct tally *tally, const struct record *record)
{
    struct record *sum = open_sum(t, tally, record->end);
    if (!sum)
        return begin_sum(t, tally, record);
    sum->end = record->end;
    sum->bytes += record->bytes;
    sum->source += record->source;
    sum->stream += record->stream;
    atomic_signal_fence(memory_order_seq_cst);
    sum->address++;
    return true;
}

/* `single`: the record if it is one by itself, `summed` if it is one of many. */
static void write_block(struct thread *t, const struct record *single, const struct record *summed)
{
    if (UNLIKELY(single->begin < begun_ticks)) /* it was under way when the recording began */
        return;
    t->busy = 1;
    atomic_signal_fence(memory_order_seq_cst);
    anchor_if_due(t, summed->end);
    unsigned class = 64u - (unsigned)__builtin_clzll(single->bytes | 1);
    word what = (word)single->function << 8 | single->kind;
    word key = mixed(mixed(0, (word)single->site << 32 | single->extra), what << 16 | class << 8 | single->flags);
    struct tally *tally = tally_of(&t->tallies[OF_BLOCKS], key | 1);
    if (!tally) /* of generated code, sites may be any number */
        tally = tally_of(&t->tallies[OF_BLOCKS], mixed(0, what) | 1);
    bool sparing = atomic_load_explicit(&process->own.bytes, memory_order_relaxed) > SPARING_FILE;
    bool written = false;
    if (tally && tally->singles < (sparing ? SPARING_SINGLES : BLOCK_SINGLES)) {
        if ((written = put_record(t, single)))
            tally->singles++;
    } else if (tally) {
        written = add_block(t, tally, summed);
    }
    if (!written && single->begin >= begun_ticks)
        lose_block();
    atomic_signal_fence(memory_order_seq_cst);
    t->busy = 0;
}

/* Something happened to memory between two moments: it was made, or the kernel was told something of it. */
static uint32_t note_event(struct thread *t, enum kind kind, enum maker by, word address, word bytes, word begin,
    word end, uint32_t extra, word place)
{
    struct record single = {.begin = begin,
        .end = end,
        .bytes = bytes,
        .address = address,
        .site = site_of(t, OF_BLOCKS, place),
        .function = (uint16_t)by,
        .kind = (uint8_t)kind,
        .extra = extra};
    struct record summed = single;
    summed.source = end - begin;
    write_block(t, &single, &summed);
    return single.site;
}

/* Whether so little was made until now that it is only counted. */
static bool is_early(word bytes)
{
    if (atomic_load_explicit(&process->generation, memory_order_relaxed))
        return false;
    word before = atomic_fetch_add_explicit(&early_bytes, bytes, memory_order_relaxed);
    if (before + bytes >= EARLY_BYTES) {
        atomic_fetch_sub_explicit(&early_bytes, bytes, memory_order_relaxed);
        return false;
    }
    atomic_fetch_add_explicit(&early_blocks, 1, memory_order_relaxed);
    return true;
}

/* What was made before the file was there, as one sum of no site. */
static void note_early(struct thread *t)
{
    word count = atomic_exchange(&early_blocks, 0), bytes = atomic_exchange(&early_bytes, 0);
    struct record sum = {
        .begin = begun_ticks, .end = ticks(), .bytes = bytes, .address = count, .kind = MADE_SUM, .flags = SAMPLE};
    if (count)
        put_record(t, &sum);
}

/* Memory was made: it is recorded and known from now on. */
static RARE void note_made(enum maker by, void *made, size_t bytes, word begin, uint32_t extra, word place)
{
    word end = ticks();
    int error = errno;
    if (made && !is_early(bytes)) {
        struct thread *t = block_seat();
        if (t) {
            if (UNLIKELY(atomic_load_explicit(&early_blocks, memory_order_relaxed)))
                note_early(t);
            struct block block = {.bytes = bytes, .made = end, .generation = t->generation, .maker = by};
            block.thread = (uint32_t)(uintptr_t)t;
            block.site = note_event(t, MADE, by, (word)(uintptr_t)made, bytes, begin, end, extra, place);
            if (!put_block((word)(uintptr_t)made, &block))
                lose_block();
        }
    }
    errno = error;
}

static inline EARLY void note_if_large(enum maker by, void *made, size_t bytes, word begin, word place)
{
    if (blocks && bytes >= LEAST_BLOCK)
        note_made(by, made, bytes, begin, 0, place);
}

/* Memory was given back, which took from `begin` on. */
static RARE void note_given(const struct block *block, void *address, word begin, word place)
{
    word end = ticks();
    int error = errno;
    struct thread *t = block_seat();
    if (t) {
        bool known = block->generation == t->generation; /* else it is from before a fork */
        struct record single = {.begin = block->made,
            .end = begin,
            .bytes = block->bytes,
            .address = (word)(uintptr_t)address,
            .stream = end - begin,
            .site = known ? block->site : 0,
            .function = (uint16_t)block->maker,
            .kind = GIVEN,
            .flags = !known                                    ? INHERITED
                     : block->thread != (uint32_t)(uintptr_t)t ? ELSEWHERE
                                                               : 0,
            .extra = site_of(t, OF_BLOCKS, place)};
        struct record summed = single;
        summed.source = begin - block->made;
        summed.begin = begin;
        write_block(t, &single, &summed);
    }
    errno = error;
}

/* ---- The allocator behind this one ---- */

static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
    void *(*memalign)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    size_t (*malloc_usable_size)(void *);
} next;

/* For what is asked for while they are looked up; each piece has a head that makes `free` look closer. */
static char first[FIRST_BYTES] __attribute__((aligned(HEAD)));
static atomic_size_t first_used;

static EARLY bool is_first(const void *p) { return (const char *)p >= first && (const char *)p < first + sizeof first; }

static EARLY RARE void *take_first(size_t size)
{
    size_t whole = HEAD + ((size + HEAD - 1) & ~(size_t)(HEAD - 1));
    size_t at = size < sizeof first ? atomic_fetch_add(&first_used, whole) : sizeof first;
    if (at + whole > sizeof first) {
        errno = ENOMEM;
        return NULL;
    }
    size_t head = LEAST_BLOCK | 1;
    memcpy(first + at + HEAD - sizeof head, &head, sizeof head);
    return first + at + HEAD;
}

static __thread int looking __attribute__((tls_model("initial-exec")));

static EARLY RARE bool found(void)
{
    if (__atomic_load_n(&next.malloc, __ATOMIC_ACQUIRE))
        return true;
    if (looking)
        return false;
    looking = 1;
    const char *preloaded = getenv("LD_PRELOAD"); /* Valgrind takes the C library's place unseen */
    next.calloc = (void *(*)(size_t, size_t))behind("calloc");
    next.memalign = (void *(*)(size_t, size_t))behind("memalign");
    next.posix_memalign = (int (*)(void **, size_t, size_t))behind("posix_memalign");
    next.aligned_alloc = (void *(*)(size_t, size_t))behind("aligned_alloc");
    next.malloc_usable_size = (size_t (*)(void *))behind("malloc_usable_size");
    void *(*known_realloc)(void *, size_t) = (void *(*)(void *, size_t))behind("realloc");
    void (*known_free)(void *) = (void (*)(void *))behind("free");
    void *known_malloc = behind("malloc");
    Dl_info here, libc;
    void *version = behind("gnu_get_libc_version");
    next_is_libc = version && !(preloaded && strstr(preloaded, "/vgpreload_")) && dladdr((void *)known_free, &here) &&
                   dladdr(version, &libc) && here.dli_fbase == libc.dli_fbase && dladdr(known_malloc, &here) &&
                   here.dli_fbase == libc.dli_fbase;
    __atomic_store_n(&next.realloc, known_realloc, __ATOMIC_RELEASE);
    __atomic_store_n(&next.free, known_free, __ATOMIC_RELEASE);
    __atomic_store_n(&next.malloc, (void *(*)(size_t))known_malloc, __ATOMIC_RELEASE);
    looking = 0;
    return true;
}

/* Whether a block may be a large one: its size is in the word before it, with flags in the lowest bits. */
static inline EARLY bool may_be_large(const void *p)
{
    if (__builtin_expect(next_is_libc, 1)) {
        size_t head;
        memcpy(&head, (const char *)p - sizeof head, sizeof head);
        return head >= LEAST_BLOCK;
    }
    if (is_first(p) || is_cured(p))
        return true;
    return blocks && (is_in_set((word)(uintptr_t)p, set_of((word)(uintptr_t)p, 0)) ||
                         is_in_set((word)(uintptr_t)p, set_of((word)(uintptr_t)p, 1)));
}

/* What stands before the next allocator for large blocks: cures. Without them it is never called, so that it need not
 * be ready before a sanitizer is.
 */
static inline EARLY void *cured_or_none(size_t alignment, size_t size, bool zero)
{
    return !cured.start ? NULL : alignment ? cured_aligned(alignment, size) : cured_block(size, zero);
}

static EARLY void give_back(void *p)
{
    if (is_cured(p))
        cured_free(p);
    else
        next.free(p);
}

/* As realloc, where blocks may be cured. */
static EARLY RARE void *resized(void *p, size_t size)
{
    bool before = is_cured(p);
    size_t room = before ? cured_room(p) : p ? next.malloc_usable_size(p) : 0;
    if (before && size && size <= room && size >= room / 4)
        return p;
    void *target = before || size > room ? cured_block(size, false) : NULL;
    if (!target && !before)
        return next.realloc(p, size);
    if (!target && size && !(target = next.malloc(size)))
        return NULL;
    if (target && p)
        memcpy(target, p, size < room ? size : room);
    give_back(p);
    return target;
}

#define QUICK EXPORTED EARLY __attribute__((optimize("omit-frame-pointer")))

static EARLY RARE void *large_malloc(size_t size)
{
    if (!found())
        return take_first(size);
    word begin = now();
    void *made = cured_or_none(0, size, false);
    made = made ? made : next.malloc(size);
    note_if_large(MALLOC, made, size, begin, RETURN_PLACE);
    return made;
}

QUICK void *malloc(size_t size)
{
    void *(*real)(size_t) = next.malloc;
    return UNLIKELY(size >= LEAST_BLOCK || !real) ? large_malloc(size) : real(size);
}

static EARLY RARE void *large_calloc(size_t count, size_t size)
{
    size_t bytes;
    bool is_size = !__builtin_mul_overflow(count, size, &bytes);
    if (!found())
        return take_first(bytes); /* zeros, and given once */
    word begin = now();
    void *made = is_size ? cured_or_none(0, bytes, true) : NULL;
    made = made ? made : next.calloc(count, size);
    note_if_large(CALLOC, made, bytes, begin, RETURN_PLACE);
    return made;
}

QUICK void *calloc(size_t count, size_t size)
{
    size_t bytes;
    void *(*real)(size_t, size_t) = next.malloc ? next.calloc : NULL;
    bool large = __builtin_mul_overflow(count, size, &bytes) || bytes >= LEAST_BLOCK;
    return UNLIKELY(large || !real) ? large_calloc(count, size) : real(count, size);
}

static EARLY RARE void large_free(void *p)
{
    if (!p || is_first(p) || !found())
        return;
    struct block block;
    bool known = blocks && take_block((word)(uintptr_t)p, &block);
    word begin = now();
    give_back(p);
    if (known)
        note_given(&block, p, begin, RETURN_PLACE);
}

QUICK void free(void *p)
{
    void (*real)(void *) = next.free;
    if (UNLIKELY(!p || !real || may_be_large(p)))
        large_free(p);
    else
        real(p);
}

OWN(malloc);
static EARLY RARE void *large_realloc(void *p, size_t size)
{
    if (!found() || (p && is_first(p))) {
        void *target = own_malloc(size);
        size_t there = p ? (size_t)(first + sizeof first - (char *)p) : 0;
        return target && p ? memcpy(target, p, size < there ? size : there) : target;
    }
    struct block block;
    bool known = p && blocks && take_block((word)(uintptr_t)p, &block);
    word begin = now();
    void *made = cured.start ? resized(p, size) : next.realloc(p, size);
    if (known && !made && size) {
        put_block((word)(uintptr_t)p, &block);
        return made;
    }
    if (known)
        note_given(&block, p, begin, RETURN_PLACE);
    note_if_large(REALLOC, made, size, begin, RETURN_PLACE);
    return made;
}

QUICK void *realloc(void *p, size_t size)
{
    void *(*real)(void *, size_t) = next.malloc ? next.realloc : NULL;
    return UNLIKELY(size >= LEAST_BLOCK || !real || (p && may_be_large(p))) ? large_realloc(p, size) : real(p, size);
}

EXPORTED EARLY int posix_memalign(void **p, size_t alignment, size_t size)
{
    if (!found() || !next.posix_memalign)
        return ENOMEM;
    word begin = now();
    void *made = alignment % sizeof(void *) ? NULL : cured_or_none(alignment, size, false);
    int result = made ? (*p = made, 0) : next.posix_memalign(p, alignment, size);
    if (!result)
        note_if_large(ALIGNED, *p, size, begin, RETURN_PLACE);
    return result;
}

static inline EARLY __attribute__((always_inline)) void *make_aligned(
    void *(*const *real)(size_t, size_t), size_t alignment, size_t size, word place)
{
    if (!found() || !*real)
        return NULL;
    word begin = now();
    void *made = cured_or_none(alignment, size, false);
    made = made ? made : (*real)(alignment, size);
    note_if_large(ALIGNED, made, size, begin, place);
    return made;
}

EXPORTED EARLY void *memalign(size_t alignment, size_t size)
{
    return make_aligned(&next.memalign, alignment, size, RETURN_PLACE);
}

EXPORTED EARLY void *aligned_alloc(size_t alignment, size_t size)
{
    return make_aligned(&next.aligned_alloc, alignment, size, RETURN_PLACE);
}

EXPORTED EARLY size_t malloc_usable_size(void *p)
{
    if (!p || is_first(p) || !found() || !next.malloc_usable_size)
        return 0;
    return is_cured(p) ? cured_room(p) : next.malloc_usable_size(p);
}

/* ---- Mappings; mmap and munmap themselves are in mappings.h ---- */

static RARE void note_made_mapping(void *made, size_t length, int protection, int flags, word begin, word place)
{
    struct block before;
    if (!blocks || length < LEAST_BLOCK)
        return;
    if (flags & MAP_FIXED && take_block((word)(uintptr_t)made, &before))
        note_given(&before, made, begin, place);
    if (protection != PROT_NONE) /* that only keeps addresses free */
        note_made(MMAP, made, length, begin, (uint32_t)flags, place);
}

/* What is given back of a known mapping; where that is its beginning, the rest is known on. */
static bool take_mapping(void *address, size_t length, struct block *block)
{
    if (!blocks || !take_block((word)(uintptr_t)address, block))
        return false;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), given = (length + page - 1) / page * page;
    if (given < block->bytes) {
        struct block rest = *block;
        rest.bytes -= given;
        put_block((word)(uintptr_t)address + given, &rest);
        block->bytes = given;
    }
    return true;
}

/* The C library's own: what calls the kernel says there which call it is (sampler.h). */
static void *(*next_mremap)(void *, size_t, size_t, int, ...);
static int (*next_madvise)(void *, size_t, int);

EXPORTED EARLY void *mremap(void *address, size_t old, size_t size, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    void *target = flags & MREMAP_FIXED ? va_arg(more, void *) : NULL;
    va_end(more);
    struct block block;
    bool known = blocks && take_block((word)(uintptr_t)address, &block);
    word begin = now();
    void *made = next_mremap ? next_mremap(address, old, size, flags, target)
                             : (void *)syscall(SYS_mremap, address, old, size, flags, target);
    if (known && made == MAP_FAILED) {
        put_block((word)(uintptr_t)address, &block);
        return made;
    }
    if (known)
        note_given(&block, address, begin, RETURN_PLACE);
    if (made != MAP_FAILED)
        note_if_large(MREMAP, made, size, begin, RETURN_PLACE);
    return made;
}

static RARE void note_advice(enum maker what, word address, size_t length, word begin, word place)
{
    word end = ticks();
    int error = errno;
    if (atomic_load_explicit(&process->generation, memory_order_relaxed)) {
        struct thread *t = block_seat();
        if (t)
            note_event(t, ADVISED, what, address, length, begin, end, 0, place);
    }
    errno = error;
}

EXPORTED EARLY int madvise(void *address, size_t length, int advice)
{
    word begin = now();
    int result =
        next_madvise ? next_madvise(address, length, advice) : (int)syscall(SYS_madvise, address, length, advice);
    if (blocks && !result && length >= LEAST_BLOCK) {
        if (advice == MADV_DONTNEED)
            note_advice(DONTNEED, (word)(uintptr_t)address, length, begin, RETURN_PLACE);
        else if (advice == MADV_FREE)
            note_advice(FREE_LAZILY, (word)(uintptr_t)address, length, begin, RETURN_PLACE);
        else if (advice == MADV_HUGEPAGE)
            note_advice(HUGEPAGE, (word)(uintptr_t)address, length, begin, RETURN_PLACE);
    }
    return result;
}

EXPORTED EARLY int shm_open(const char *name, int flags, mode_t mode)
{
    static int (*known)(const char *, int, mode_t);
    int (*real)(const char *, int, mode_t) = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (!real) {
        void *library = NULL, *symbol = behind("shm_open");
        if (!symbol && (library = dlopen("librt.so.1", RTLD_LAZY))) /* before glibc 2.34 */
            symbol = next_dlsym()(library, "shm_open");
        real = (int (*)(const char *, int, mode_t))symbol;
        __atomic_store_n(&known, real, __ATOMIC_RELAXED);
    }
    if (!real) {
        errno = ENOSYS;
        return -1;
    }
    word begin = now();
    int file = real(name, flags, mode);
    if (blocks && file >= 0)
        note_advice(SHM_OPEN, 0, 0, begin, RETURN_PLACE);
    return file;
}

/* ---- The beginning ---- */

static bool has_sanitizer(void *(*find)(void *, const char *))
{
    static const char *const NAMES_OF_SANITIZERS[] = {
        "__asan_init", "__hwasan_init", "__lsan_init", "__msan_init", "__tsan_init", "__scudo_print_stats"};
    for (size_t i = 0; i < COUNT(NAMES_OF_SANITIZERS); i++)
        if (find(RTLD_DEFAULT, NAMES_OF_SANITIZERS[i]))
            return true;
    return false;
}

/* A forked child knows its parent's blocks; those that were just coming in are lost. */
static void find_blocks(void *(*find)(void *, const char *))
{
    if (!found() || !next.malloc || has_sanitizer(find))
        return;
    struct blocks *made = map_pages(sizeof *made, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made != MAP_FAILED)
        blocks = made;
}
