/* What the program maps, where that says something of its copies: mapped files, and all that the driver maps and
 * unmaps. It stands before mmap and munmap; what lies mapped when the file is opened is read once.
 */

enum { LEAST_MAPPING = 64 << 10, MOST_PATH = 1024, LINE = MOST_PATH + 128 };

static word driver_begin, driver_end; /* its code */

static void find_driver(const void *function)
{
    struct found_module found = {.address = (word)(uintptr_t)function};
    if (__atomic_load_n(&driver_end, __ATOMIC_ACQUIRE) || !for_objects(in_module, &found))
        return;
    __atomic_store_n(&driver_begin, found.begin, __ATOMIC_RELAXED);
    __atomic_store_n(&driver_end, found.end, __ATOMIC_RELEASE);
}

static bool is_driver(const void *code)
{
    return (word)(uintptr_t)code < __atomic_load_n(&driver_end, __ATOMIC_ACQUIRE) &&
           (word)(uintptr_t)code >= __atomic_load_n(&driver_begin, __ATOMIC_RELAXED);
}

static void *(*next_mmap)(void *, size_t, int, int, int, off_t);
static int (*next_munmap)(void *, size_t);

static void find_mapping(void)
{
    next_mmap = (void *(*)(void *, size_t, int, int, int, off_t))behind("mmap");
    next_munmap = (int (*)(void *, size_t))behind("munmap");
    next_mremap = (void *(*)(void *, size_t, size_t, int, ...))behind("mremap");
    next_madvise = (int (*)(void *, size_t, int))behind("madvise");
}

/* Of no thread's own call; under the lock. */
static void put_mapping_of_any(const struct record *mapping, const char *path)
{
    struct thread *t = any_thread(1 + (uint32_t)((mapping->bytes + UNIT - 1) / UNIT));
    if (t)
        put_with(t, mapping, path, mapping->bytes);
}

/* The path of a file that is mapped; empty for none. */
static void path_of(int file, char *path)
{
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = file < 0 ? 0 : readlink(link, path, MOST_PATH - 1);
    path[length > 0 ? length : 0] = 0;
}

static RARE void note_mapping(
    enum kind kind, void *begin, size_t length, int protection, int flags, int file, bool of_driver)
{
    uint32_t generation = atomic_load_explicit(&process->generation, memory_order_relaxed);
    if (!generation || atomic_load_explicit(&process->stopped, memory_order_relaxed))
        return; /* the driver has not been called yet */
    struct thread *t = self;
    bool seated = t && t->generation == generation;
    if (seated && t->busy)
        return; /* by the agent */
    bool of_call = seated && t->calling, of_file = file >= 0 && !(flags & MAP_ANONYMOUS);
    if (!of_call && !of_driver && (length < LEAST_MAPPING || (kind == MAPPED && !of_file)))
        return;
    int error = errno;
    char path[MOST_PATH];
    path_of(of_file ? file : -1, path);
    struct record mapping = {.begin = ticks(),
        .bytes = strlen(path),
        .address = (word)(uintptr_t)begin,
        .source = (word)(uintptr_t)begin + length,
        .stream = UINT64_MAX,
        .kind = (uint8_t)kind,
        .flags = of_call ? INSIDE : 0,
        .extra = (uint32_t)(protection & 0xFF) | (uint32_t)flags << 8};
    mapping.end = mapping.begin;
    if (of_call) {
        t->busy = 1;
        atomic_signal_fence(memory_order_seq_cst);
        put_with(t, &mapping, path, mapping.bytes);
        atomic_signal_fence(memory_order_seq_cst);
        t->busy = 0;
    } else {
        struct held held;
        hold(&held, &process->lock);
        if (generation == atomic_load(&process->generation) && !atomic_load(&process->stopped))
            put_mapping_of_any(&mapping, path);
        release(&held);
    }
    errno = error;
}

EXPORTED EARLY void *mmap(void *address, size_t length, int protection, int flags, int file, off_t offset)
{
    word begin = now();
    flags = cured.files ? cured_mapping(length, protection, flags, file) : flags;
    void *made = next_mmap ? next_mmap(address, length, protection, flags, file, offset)
                           : (void *)syscall(SYS_mmap, address, length, protection, flags, file, offset);
    if (UNLIKELY(process != NULL) && made != MAP_FAILED) {
        bool copies = flags & MAP_PRIVATE && protection & PROT_WRITE;
        if (file >= 0 && !(flags & MAP_ANONYMOUS))
            atomic_fetch_add_explicit(
                copies ? &process->copies_mapped : &process->files_mapped, length, memory_order_relaxed);
        bool of_driver = is_driver(__builtin_return_address(0));
        note_mapping(MAPPED, made, length, protection, flags, file, of_driver);
        if (!of_driver)
            note_made_mapping(made, length, protection, flags, begin, RETURN_PLACE);
    }
    return made;
}

EXPORTED void *mmap64(void *, size_t, int, int, int, off_t) __attribute__((alias("mmap")));

EXPORTED EARLY int munmap(void *address, size_t length)
{
    if (UNLIKELY(process != NULL)) /* before others may map something there */
        note_mapping(UNMAPPED, address, length, 0, 0, -1, is_driver(__builtin_return_address(0)));
    struct block block;
    bool known = take_mapping(address, length, &block);
    word begin = now();
    int result = next_munmap ? next_munmap(address, length) : (int)syscall(SYS_munmap, address, length);
    if (known)
        note_given(&block, address, begin, RETURN_PLACE);
    return result;
}

static bool is_library(const char *path)
{
    const char *name = strrchr(path, '/'), *suffix = strstr(name, ".so");
    return suffix && (!suffix[3] || suffix[3] == '.');
}

/* Whether it is of a file that may hold data. */
static bool is_data(const struct line *line)
{
    return *line->path == '/' && line->end - line->begin >= LEAST_MAPPING && strncmp(line->path, "/dev/", 5) != 0 &&
           strlen(line->path) < MOST_PATH && !is_library(line->path);
}

static void put_mapped_file(void *given, const struct line *line)
{
    (void)given;
    if (!is_data(line))
        return;
    struct record mapping = {.begin = process->opened_ticks,
        .end = process->opened_ticks,
        .bytes = strlen(line->path),
        .address = line->begin,
        .source = line->end,
        .stream = UINT64_MAX,
        .kind = MAPPED,
        .extra = (uint32_t)(line->access[0] == 'r') * PROT_READ | (uint32_t)(line->access[1] == 'w') * PROT_WRITE |
                 (uint32_t)(line->access[2] == 'x') * PROT_EXEC |
                 (uint32_t)(line->access[3] == 's' ? MAP_SHARED : MAP_PRIVATE) << 8};
    put_mapping_of_any(&mapping, line->path);
}

static void put_mapped_files(void)
{
    char text[4 * LINE];
    each_line(text, sizeof text, put_mapped_file, NULL);
}
