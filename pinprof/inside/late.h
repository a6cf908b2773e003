/* How the agent comes into a process that runs already and asks for it, and how it rests when the recording is over.
 *
 * Nobody finds its names then, so it puts its functions where the process keeps those that it stands before: into the
 * relocated places of every loaded object (.got, .got.plt), and where CUDA's driver is loaded already, into the
 * pointers to its functions that objects keep in their data. CUDA's runtime keeps all of its own there, linked either
 * way (12.8 and 13.0, by looking for them). Pointers in other memory stay as they are.
 *
 * A place is changed where its value is known to be the function that is meant, and left alone otherwise: it may be
 * another tool's, or an allocator that only some objects use. Objects that are loaded later are looked at when somebody
 * asks dlsym the next time. The loader's lock is not held while places change: an object is kept loaded by a handle.
 *
 * When the recording ends, places get back what they had. What the program has still got of the agent's functions only
 * passes calls on, so the agent is never unloaded.
 */

enum { MOST_OBJECTS = 8192, NAME_BYTES = 2 << 20, KNOWN = 1 << 13, PIECE = 16 << 10 };
enum refusal { NONE, INSIDE_ALREADY, SANITIZED, OTHER_LIBC, NO_MEMORY };

/* Functions that stand before one of the C library's. */
OWN(dlsym);
OWN(dlclose);
OWN(mmap);
OWN(mmap64);
OWN(munmap);
OWN(mremap);
OWN(madvise);
OWN(shm_open);
OWN(calloc);
OWN(realloc);
OWN(free);
OWN(posix_memalign);
OWN(memalign);
OWN(aligned_alloc);
static const struct hook {
    const char *name;
    void *ours;
} HOOKS[] = {
    {"dlsym", (void *)own_dlsym},
    {"dlclose", (void *)own_dlclose},
    {"mmap", (void *)own_mmap},
    {"mmap64", (void *)own_mmap64},
    {"munmap", (void *)own_munmap},
    {"mremap", (void *)own_mremap},
    {"madvise", (void *)own_madvise},
    {"shm_open", (void *)own_shm_open},
    {"malloc", (void *)own_malloc},
    {"calloc", (void *)own_calloc},
    {"realloc", (void *)own_realloc},
    {"free", (void *)own_free},
    {"posix_memalign", (void *)own_posix_memalign},
    {"memalign", (void *)own_memalign},
    {"aligned_alloc", (void *)own_aligned_alloc},
};
enum { FIRST_OF_BLOCKS = 8 };
static void *hooked[COUNT(HOOKS)]; /* what they stand before; NULL: nothing that is certain */

struct object {
    const ElfW(Phdr) * parts;
    const char *name;
    word base, count;
};

/* The loaded objects, as they were found at one moment. */
struct objects {
    word adds, subs; /* how many have come and gone by then */
    size_t count, used;
    struct object object[MOST_OBJECTS];
    char names[NAME_BYTES];
};

static struct {
    word adds, subs;
    word base[MOST_OBJECTS]; /* of objects that were seen to */
    size_t count;
    word replaced;   /* pointers in data */
    bool had_driver; /* when the agent came */
    bool asked;      /* there is a file even if there is no call */
    pid_t process;
} late;

/* ---- What lies where ---- */

static int take_object(struct dl_phdr_info *info, size_t size, void *given)
{
    struct objects *to = given;
    const char *name = info->dlpi_name ? info->dlpi_name : "";
    size_t length = strlen(name) + 1;
    (void)size;
    to->adds = info->dlpi_adds;
    to->subs = info->dlpi_subs;
    if (to->count == MOST_OBJECTS || to->used + length > sizeof to->names)
        return 1;
    memcpy(to->names + to->used, name, length);
    to->object[to->count++] = (struct object){info->dlpi_phdr, to->names + to->used, info->dlpi_addr, info->dlpi_phnum};
    to->used += length;
    return 0;
}

static int count_objects(struct dl_phdr_info *info, size_t size, void *given)
{
    word *counts = given;
    (void)size;
    counts[0] = info->dlpi_adds;
    counts[1] = info->dlpi_subs;
    return 1;
}

/* Code of any object but the program itself; its place there may be one that jumps to where it is found. */
static bool is_code(word address)
{
    struct found_module found = {.address = address};
    return for_objects(in_module, &found) && *found.path && !is_ours((const void *)(uintptr_t)address);
}

static bool is_of(const struct object *object, word address)
{
    for (word i = 0; i < object->count; i++) {
        const ElfW(Phdr) *part = &object->parts[i];
        if (part->p_type == PT_LOAD && address - object->base - part->p_vaddr < part->p_memsz)
            return true;
    }
    return false;
}

/* The part of an object that is read-only once it is relocated; of whole pages. */
static void sealed_part(const struct object *object, word *begin, word *end)
{
    word page = (word)sysconf(_SC_PAGESIZE);
    *begin = *end = 0;
    for (word i = 0; i < object->count; i++)
        if (object->parts[i].p_type == PT_GNU_RELRO) {
            *begin = (object->base + object->parts[i].p_vaddr) & ~(page - 1);
            *end = (object->base + object->parts[i].p_vaddr + object->parts[i].p_memsz) & ~(page - 1);
        }
}

/* Objects whose own pointers stay as they are: the loader, the driver, and tools that stand before or behind it. */
static bool is_left_alone(const struct object *object)
{
    static const char *const TOOLS[] = {"ld-", "linux-vdso", "libcuda.so", "libcudadebugger", "libnvidia-", "libcupti",
        "libnvperf", "libToolsInjection", "libInterceptor", "libsanitizer", "libcheckpoint", "libpinprof_"};
    const char *name = strrchr(object->name, '/');
    name = name ? name + 1 : object->name;
    for (size_t i = 0; i < COUNT(TOOLS); i++)
        if (!strncmp(name, TOOLS[i], strlen(TOOLS[i])))
            return true;
    return is_of(object, (word)(uintptr_t)&late);
}

/* ---- Which function is meant ---- */

static bool is_call(const char *name)
{
    return (name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z') || !strncmp(name, "nccl", 4) ||
           !strncmp(name, "MPI_", 4) || !strncmp(name, "_ZN4gloo", 8);
}

static int hook_of(const char *name)
{
    for (size_t i = 0; i < COUNT(HOOKS); i++)
        if (*name == *HOOKS[i].name && !strcmp(name, HOOKS[i].name))
            return (int)i;
    return -1;
}

static void *base_of(void *code)
{
    Dl_info info;
    return code && dladdr(code, &info) ? info.dli_fbase : NULL;
}

/* An allocator is stood before as a whole, or not at all. */
static void find_hooks(void)
{
    for (size_t i = 0; i < COUNT(HOOKS); i++) {
        void *found = HOOKS[i].ours == (void *)own_dlsym ? (void *)next_dlsym() : behind(HOOKS[i].name);
        hooked[i] = found && is_code((word)(uintptr_t)found) ? found : NULL;
    }
    bool whole = blocks && next.malloc;
    for (size_t i = FIRST_OF_BLOCKS; i < FIRST_OF_BLOCKS + 4; i++)
        whole &= hooked[i] && base_of(hooked[i]) == base_of(hooked[FIRST_OF_BLOCKS]);
    for (size_t i = FIRST_OF_BLOCKS; i < COUNT(HOOKS); i++)
        if (!whole || base_of(hooked[i]) != base_of(hooked[FIRST_OF_BLOCKS]))
            hooked[i] = NULL;
}

/* What one of the agent's functions stands before; 0 where it is none of these. */
static word behind_ours(word ours)
{
    for (size_t i = 0; i < SLOTS; i++)
        if ((word)(uintptr_t)wrappers[i] == ours)
            return (word)(uintptr_t)__atomic_load_n(&slots[i].real, __ATOMIC_ACQUIRE);
    for (size_t i = 0; i < COUNT(OURS); i++)
        if ((word)(uintptr_t)OURS[i].ours == ours)
            return (word)(uintptr_t)__atomic_load_n(&real_ones[i], __ATOMIC_RELAXED);
    for (size_t i = 0; i < COUNT(HOOKS); i++)
        if ((word)(uintptr_t)HOOKS[i].ours == ours)
            return (word)(uintptr_t)hooked[i];
    return 0;
}

/* What a place is to hold from now on; 0 where it stays as it is. `unbound`: nothing has been called by it yet, and
 * the loader would look for the function: in the global scope and in the object's own, which must agree.
 */
static word turned(const struct object *object, void *handle, word held, const char *name, bool unbound)
{
    if (is_ours((const void *)(uintptr_t)held))
        return atomic_load(&resting) ? behind_ours(held) : 0;
    if (atomic_load(&resting))
        return 0;
    int hook = hook_of(name);
    if (hook < 0 && !is_call(name))
        return 0;
    if (unbound) {
        word own = (word)(uintptr_t)next_dlsym()(handle, name), all = (word)(uintptr_t)behind(name);
        held = own ? own : all;
        if (own && all && own != all)
            return 0;
    }
    if (hook >= 0)
        return hooked[hook] && held == (word)(uintptr_t)hooked[hook] ? (word)(uintptr_t)HOOKS[hook].ours : 0;
    if (!is_code(held) && !(!unbound && is_of(object, held)))
        return 0;
    word to = (word)(uintptr_t)before(name, (void *)(uintptr_t)held);
    return to == held ? 0 : to;
}

/* ---- Relocated places ---- */

static void turn_table(const struct object *object, void *handle, const struct tables *tables, int which)
{
    bool opened = false;
    word begin, end;
    sealed_part(object, &begin, &end);
    for (word i = 0; i < tables->counts[which]; i++) {
        const ElfW(Rela) *one = &tables->relocations[which][i];
        word kind = ELF64_R_TYPE(one->r_info);
#if defined __x86_64__
        bool lazy = kind == R_X86_64_JUMP_SLOT, is_place = lazy || kind == R_X86_64_GLOB_DAT;
#else
        bool lazy = kind == R_AARCH64_JUMP_SLOT, is_place = lazy || kind == R_AARCH64_GLOB_DAT;
#endif
        const ElfW(Sym) *symbol = &tables->symbols[ELF64_R_SYM(one->r_info)];
        if (!is_place || !symbol->st_name)
            continue;
        const char *name = tables->strings + symbol->st_name;
        if (hook_of(name) < 0 && !is_call(name))
            continue;
        word *place = (word *)(uintptr_t)(object->base + one->r_offset);
        word held = __atomic_load_n(place, __ATOMIC_ACQUIRE);
        bool defined = symbol->st_shndx != SHN_UNDEF;
        word to = turned(object, handle, held, name, lazy && !defined && is_of(object, held));
        if (!to)
            continue;
        if ((word)(uintptr_t)place >= begin && (word)(uintptr_t)place < end && !opened)
            if (!(opened = !mprotect((void *)(uintptr_t)begin, end - begin, PROT_READ | PROT_WRITE)))
                continue;
        __atomic_compare_exchange_n(place, &held, to, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    }
    if (opened)
        mprotect((void *)(uintptr_t)begin, end - begin, PROT_READ);
}

static void turn_places(const struct object *object, void *handle, const ElfW(Dyn) * dynamic)
{
    struct tables tables;
    if (tables_of(object->base, dynamic, &tables)) {
        turn_table(object, handle, &tables, 1);
        turn_table(object, handle, &tables, 0);
    }
}

/* ---- Pointers to the driver's functions in objects' data ---- */

/* The driver's functions that are recorded, by address. */
struct known {
    word address[KNOWN];
    const char *name[KNOWN];
};

static void know(struct known *known, word address, const char *name)
{
    word place = mixed(0, address) % KNOWN;
    for (; known->address[place]; place = (place + 1) % KNOWN)
        if (known->address[place] == address)
            return;
    known->address[place] = address;
    known->name[place] = name;
}

static const char *known_name(const struct known *known, word address)
{
    word place = mixed(0, address) % KNOWN;
    for (; known->address[place]; place = (place + 1) % KNOWN)
        if (known->address[place] == address)
            return known->name[place];
    return NULL;
}

/* As the loader finds them, and as the driver itself answers, for programs of several versions. */
static void know_driver(struct known *known, void *driver)
{
    static const int VERSIONS[] = {3000, 7000, 11030, 12000, 13000};
    finder find = next_dlsym();
    getter_2 get = (getter_2)find(driver, "cuGetProcAddress_v2");
    for (size_t i = 0; i < COUNT(EXPORTS) && is_call(EXPORTS[i]) && *EXPORTS[i] == 'c'; i++) {
        void *found = find(driver, EXPORTS[i]);
        if (found)
            know(known, (word)(uintptr_t)found, EXPORTS[i]);
        for (size_t k = 0; get && k < 2 * COUNT(VERSIONS); k++)
            if (plain_length(EXPORTS[i]) == strlen(EXPORTS[i]) &&
                !get(EXPORTS[i], &found, VERSIONS[k / 2], 1 + k % 2, NULL) && found)
                know(known, (word)(uintptr_t)found, EXPORTS[i]);
    }
    for (size_t i = 0; i <= GETTER_2_THREAD; i++) {
        void *found = find(driver, OURS[i].name);
        if (found)
            know(known, (word)(uintptr_t)found, OURS[i].name);
    }
}

static void turn_words(word *from, const word *copy, size_t count, const struct known *known)
{
    for (size_t i = 0; i < count; i++) {
        word held = copy[i], to = 0;
        if (atomic_load_explicit(&resting, memory_order_relaxed)) {
            to = is_ours((const void *)(uintptr_t)held) ? behind_ours(held) : 0;
        } else if (held && known) {
            const char *name = known_name(known, held);
            to = name ? (word)(uintptr_t)before(name, (void *)(uintptr_t)held) : 0;
        }
        if (to && to != held &&
            __atomic_compare_exchange_n(&from[i], &held, to, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            late.replaced++;
    }
}

/* The kernel copies what is there: a program may have unmapped it. */
static void turn_data(const struct object *object, const struct known *known)
{
    static word copy[PIECE / sizeof(word)];
    word sealed, end_of_sealed;
    sealed_part(object, &sealed, &end_of_sealed);
    for (word i = 0; i < object->count; i++) {
        const ElfW(Phdr) *part = &object->parts[i];
        word begin = (object->base + part->p_vaddr + sizeof(word) - 1) & ~(word)(sizeof(word) - 1);
        word end = object->base + part->p_vaddr + part->p_memsz;
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_W))
            continue;
        begin = begin >= sealed && begin < end_of_sealed ? end_of_sealed : begin;
        for (; begin + sizeof(word) <= end; begin += PIECE) {
            size_t size = end - begin < PIECE ? (size_t)(end - begin) & ~(sizeof(word) - 1) : PIECE;
            struct iovec to = {copy, size}, from = {(void *)(uintptr_t)begin, size};
            if (syscall(SYS_process_vm_readv, getpid(), &to, 1, &from, 1, 0) == (ssize_t)size)
                turn_words((word *)(uintptr_t)begin, copy, size / sizeof(word), known);
        }
    }
}

/* ---- All objects ---- */

static bool is_seen(word base)
{
    for (size_t i = 0; i < late.count; i++)
        if (late.base[i] == base)
            return true;
    return false;
}

static void turn_object(const struct object *object, const struct known *known)
{
    struct link_map *loaded = NULL;
    void *handle = *object->name ? dlopen(object->name, RTLD_LAZY | RTLD_NOLOAD) : dlopen(NULL, RTLD_LAZY);
    if (handle && !dlinfo(handle, RTLD_DI_LINKMAP, &loaded) && loaded && loaded->l_addr == object->base) {
        turn_places(object, handle, loaded->l_ld);
        if (known || atomic_load(&resting))
            turn_data(object, known);
    }
    if (handle)
        dlclose(handle);
}

/* Change what objects hold, of all of them or of those that are new. */
static void turn_all(struct objects *objects, const struct known *known)
{
    objects->count = objects->used = 0;
    for_objects(take_object, objects);
    if (objects->subs != late.subs)
        late.count = 0; /* another may lie where one was */
    late.adds = objects->adds;
    late.subs = objects->subs;
    for (size_t i = 0; i < objects->count; i++) {
        const struct object *object = &objects->object[i];
        if (is_seen(object->base))
            continue;
        if (!is_left_alone(object))
            turn_object(object, known);
        if (late.count < MOST_OBJECTS)
            late.base[late.count++] = object->base;
    }
}

static void search(const struct known *known)
{
    struct objects *objects = map_pages(sizeof *objects, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (objects == MAP_FAILED)
        return;
    turn_all(objects, known);
    unmap_pages(objects, sizeof *objects);
}

/* Objects that were loaded since the last look. A thread that waits here might hold the loader's lock: so none does. */
static RARE void look_again(void)
{
    word counts[2] = {0, 0};
    int error = errno;
    if (!is_recording())
        return;
    for_objects(count_objects, counts);
    while ((counts[0] != late.adds || counts[1] != late.subs) && is_recording() &&
           !atomic_exchange(&process->searching, 1)) {
        search(NULL);
        for_objects(count_objects, counts);
        atomic_store(&process->searching, 0);
        dlerror(); /* the search's own are nobody's */
    }
    errno = error;
}

static int (*next_close)(void *);

/* The program's; what was known of code that goes is forgotten. */
EXPORTED EARLY int dlclose(void *handle)
{
    word before[2] = {0}, after[2] = {0};
    find_next(&next_close, "dlclose");
    for_objects(count_objects, before);
    int result = next_close(handle);
    for_objects(count_objects, after);
    if (before[1] != after[1])
        atomic_fetch_add(&unloads, 1);
    return result;
}

/* ---- The beginning and the end of a recording ---- */

static void put_entered(void)
{
    struct thread *t = entered ? any_thread(1) : NULL;
    if (t)
        put_record(t, &(struct record){.kind = ENTERED,
                          .begin = process->opened_ticks,
                          .result = late.had_driver,
                          .address = late.replaced,
                          .extra = late.asked});
}

/* Nothing is recorded any more, from the moment on at which the lock is taken. */
static void rest(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct held held;
    hold(&held, &process->lock);
    if (process->own.header) /* calls that are under way are not lost: they count on this page */
        map_pages_at(process->own.header, page, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    atomic_store(&resting, 1);
    atomic_store(&process->stopped, 1);
    atomic_store(&process->generation, 0);
    while (process->spares) {
        struct chunk *spare = process->spare[--process->spares].chunk;
        unmap_pages(spare, spare->size);
    }
    if (process->any) {
        if (process->any->chunk)
            unmap_pages(process->any->chunk, process->any->chunk->size);
        unmap_pages(process->any, sizeof *process->any);
        process->any = NULL;
    }
    if (is_still_open(&process->own))
        close(process->own.file);
    process->own.file = -1;
    release(&held);
}

static void begin_anew(void)
{
    struct held held;
    hold(&held, &process->lock);
    process->own.bytes = 0;
    process->taken = process->chunks = 0;
    process->sites = process->chains = process->codes = 0;
    process->files_mapped = process->copies_mapped = 0;
    process->own.file = -1;
    token = 0;
    both_clocks(&begun_ticks, &begun_ns);
    early_blocks = early_bytes = 0;
    if (blocks)
        syscall(SYS_madvise, blocks, sizeof *blocks, MADV_DONTNEED);
    for (uint32_t i = atomic_load(&communicators_known); i--;)
        atomic_store(&communicators[i].handle, 0);
    atomic_store(&communicators_known, 0);
    atomic_store(&process->stopped, 0);
    atomic_store(&resting, 0);
    release(&held);
}

/* One search at a time; another thread's takes milliseconds. */
static void wait_for_search(void)
{
    while (atomic_exchange(&process->searching, 1))
        usleep(100);
}

EXPORTED void pinprof_inside_leave(void);

/* Record this process, which runs already, into a folder, until `pinprof_inside_leave`; returns why not (enum refusal).
 * `asked`: there is a file even if there is no call. Not to be called by two threads at once.
 */
EXPORTED int pinprof_inside_enter(const char *folder, int asked)
{
    if (process && !entered)
        return INSIDE_ALREADY;
    if (is_recording()) {
        if (late.process == getpid())
            return INSIDE_ALREADY;
        pinprof_inside_leave(); /* a forked child, which was recorded with its parent */
    }
    entered = true;
    if (has_sanitizer(next_dlsym()))
        return SANITIZED;
    if (!behind("gnu_get_libc_version"))
        return OTHER_LIBC;
    atomic_store(&resting, 1);
    struct known *known = map_pages(sizeof *known, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (known == MAP_FAILED || !write_into(folder) || !(process || prepare())) {
        if (known != MAP_FAILED)
            unmap_pages(known, sizeof *known);
        return NO_MEMORY;
    }
    find_hooks();
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (driver)
        know_driver(known, driver);
    wait_for_search();
    late.count = late.replaced = 0;
    late.had_driver = driver;
    late.asked = asked;
    late.process = getpid();
    begin_anew();
    search(driver ? known : NULL);
    atomic_store(&process->searching, 0);
    if (asked)
        seat();
    if (driver)
        dlclose(driver);
    unmap_pages(known, sizeof *known);
    return NONE;
}

EXPORTED void pinprof_inside_leave(void)
{
    if (!entered || !is_recording())
        return;
    wait_for_search();
    rest();
    late.count = 0;
    search(NULL);
    atomic_store(&process->searching, 0);
}

/* A part of the recording begins or ends: no sum is of calls on both sides. */
EXPORTED void pinprof_inside_part(void)
{
    if (is_recording())
        atomic_store(&process->part, ticks());
}
