/* The native return addresses of a call, by call frame information, kept by the stack's place and the first of them.
 *
 * To unwind takes microseconds. What was found is used again where the same return addresses still lie where they lay:
 * each is compared before the next is looked at, so that nothing is read that no frame leads to.
 */

struct unwinding {
    struct native *found;
    word first; /* where the return address of the program's call lies */
    word loop;  /* the interpreter's evaluation loop: what called that is Python */
    int others; /* frames outside the vendor's libraries */
};

static word evaluation_loop;

/* The unwinder's, of libgcc_s, which the C library itself loads to end threads. */
static _Unwind_Reason_Code (*backtrace)(_Unwind_Trace_Fn, void *);
static _Unwind_Ptr (*ip_of)(struct _Unwind_Context *);
static _Unwind_Word (*cfa_of)(struct _Unwind_Context *);
static _Unwind_Ptr (*start_of)(struct _Unwind_Context *);

static void find_unwinder(void *(*find)(void *, const char *))
{
    void *library = dlopen("libgcc_s.so.1", RTLD_LAZY);
    if (!library)
        return;
    ip_of = (_Unwind_Ptr (*)(struct _Unwind_Context *))find(library, "_Unwind_GetIP");
    cfa_of = (_Unwind_Word (*)(struct _Unwind_Context *))find(library, "_Unwind_GetCFA");
    start_of = (_Unwind_Ptr (*)(struct _Unwind_Context *))find(library, "_Unwind_GetRegionStart");
    if (ip_of && cfa_of && start_of)
        backtrace = (_Unwind_Reason_Code (*)(_Unwind_Trace_Fn, void *))find(library, "_Unwind_Backtrace");
}

/* What is loaded, one after another. A thread that ended meanwhile would keep the loader's lock. */
static int for_objects(int (*take)(struct dl_phdr_info *, size_t, void *), void *given)
{
    struct held held;
    hold(&held, NULL);
    int result = dl_iterate_phdr(take, given);
    release(&held);
    return result;
}

/* A mapped part of a file that holds an address. */
struct found_module {
    word address, begin, end, base;
    char path[512];
};

static int in_module(struct dl_phdr_info *info, size_t size, void *given)
{
    (void)size;
    struct found_module *to = given;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        word start = info->dlpi_addr + part->p_vaddr, end = start + part->p_memsz;
        if (part->p_type != PT_LOAD || to->address < start || to->address >= end)
            continue;
        to->begin = start;
        to->end = end;
        to->base = start - part->p_offset;
        snprintf(to->path, sizeof to->path, "%s", info->dlpi_name ? info->dlpi_name : "");
        return 1;
    }
    return 0;
}

static bool of_vendor(word address)
{
    struct found_module found = {.address = address - 1};
    const char *name = for_objects(in_module, &found) ? strrchr(found.path, '/') : NULL;
    return name && (!strncmp(name, "/libcu", 6) || !strncmp(name, "/libnv", 6) || !strncmp(name, "/libnccl", 8));
}

static _Unwind_Reason_Code unwound(struct _Unwind_Context *context, void *given)
{
    struct unwinding *to = given;
    word address = (word)ip_of(context), place = (word)cfa_of(context) - sizeof(word);
    if (place < to->first)
        return _URC_NO_REASON; /* the agent's own frames */
    if (!address || at(place, 0) != address)
        return _URC_END_OF_STACK;
    if (to->loop && to->found->count && (word)start_of(context) == to->loop)
        return _URC_END_OF_STACK;
    to->found->at[to->found->count] = place;
    to->found->address[to->found->count++] = address;
    to->others += !of_vendor(address);
    bool last = to->found->count == NATIVE_FRAMES || to->others == OTHER_FRAMES;
    return last ? _URC_END_OF_STACK : _URC_NO_REASON;
}

static RARE void unwind(struct native *found, word slot)
{
    struct held held;
    hold(&held, NULL); /* older unwinders take the loader's lock */
    *found = (struct native){.slot = slot};
#if defined __x86_64__ /* where a call puts its return address on the stack */
    struct unwinding to = {found, slot, evaluation_loop, 0};
    if (backtrace)
        backtrace(unwound, &to);
#endif
    if (!found->count) {
        found->at[0] = slot;
        found->address[0] = at(slot, 0);
        found->count = 1;
    }
    for (uint32_t i = 0; i < found->count; i++)
        found->hash = mixed(found->hash, found->address[i]);
    release(&held);
}

static inline bool is_there_still(const struct native *known)
{
    for (uint32_t i = 0; i < known->count; i++)
        if (at(known->at[i], 0) != known->address[i])
            return false;
    return true;
}

/* `slot`: where the return address of the program's call lies. */
static inline const struct native *native_frames(struct chains *known, word slot, struct native *spare)
{
    word first = at(slot, 0);
    struct native *set = &known->native[mixed(slot, first) % (NATIVES / WAYS) * WAYS];
    known->calls++;
    for (unsigned way = 0; way < WAYS; way++)
        if (set[way].slot == slot && is_there_still(&set[way]))
            return &set[way];
    if (known->unwinds > UNWINDS + known->calls / 64) { /* it comes from ever new places: its first address must do */
        *spare = (struct native){.slot = slot, .hash = mixed(0, first), .count = 1, .address = {first}, .at = {slot}};
        return spare;
    }
    known->unwinds++;
    memmove(set + 1, set, (WAYS - 1) * sizeof *set);
    unwind(&set[0], slot);
    return &set[0];
}

/* `N place in the file, file`, separated by tabs; no file for code that none holds. */
static void put_native(struct text *to, word address)
{
    struct found_module found = {.address = address - 1};
    char place[32];
    if (!for_objects(in_module, &found))
        found.base = 0;
    else if (!*found.path) {
        ssize_t length = readlink("/proc/self/exe", found.path, sizeof found.path - 1);
        found.path[length > 0 ? length : 0] = 0;
    }
    snprintf(place, sizeof place, "N\t%llx\t", (unsigned long long)(address - found.base));
    put_text(to, place);
    for (const char *path = found.path; *path; path++)
        *to->at = *path >= 32 || *path < 0 ? *path : '?', to->at += to->left > 0, to->left -= to->left > 0;
    put_text(to, "\n");
}
