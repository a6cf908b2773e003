/* Where the process has code, read again when an address is in none that is known; and how to leave a function there.
 *
 * It serves the handler of a signal, which may have interrupted anything: it takes no lock, allocates pages of its own,
 * and asks the kernel before it reads what may not be there.
 */

enum { MOST_MODULES = 4096, ROWS = 1 << 13, MOST_TABLES = 64, LARGEST_TABLE = 1 << 24, LONGEST_PATH = 1024 };

struct module {
    word begin, end;
    word offset; /* in the file */
    word header; /* .eh_frame_hdr; 0: none */
    word table;
    uint32_t entries;
};

struct modules {
    uint32_t generation; /* of the file that has them */
    uint32_t count;
    struct module module[MOST_MODULES];
};

struct cached_row {
    _Atomic uint32_t version; /* odd: being written */
    const struct modules *of;
    struct row row;
};

static struct modules *_Atomic modules; /* older ones stay: another thread may still look there */
static struct cached_row *rows;
static _Atomic int reading_maps;
static _Atomic word maps_read; /* ticks */
static uint32_t tables_made;

/* Whether memory can be read; pages found to be are kept in `self`. The kernel copies a set of signals before it looks
 * at what to do with it, which here is nothing.
 */
static bool can_read(word address, size_t size)
{
    if (address < PAGE || address + size < address)
        return false;
    for (word page = address / PAGE; page <= (address + size - 1) / PAGE; page++) {
        word *known = &self->sampling.readable[page % COUNT(self->sampling.readable)];
        if (*known == page)
            continue;
        syscall(SYS_rt_sigprocmask, -1, (void *)(uintptr_t)(page * PAGE), NULL, 8);
        if (errno == EFAULT)
            return false;
        *known = page;
    }
    return true;
}

static bool can_read_word(uint64_t address) { return can_read(address, sizeof(word)); }

static const uint8_t *bytes_at(const struct file *file, uint64_t address, size_t size, int kind)
{
    (void)file, (void)kind;
    return can_read(address, size) ? (const uint8_t *)(uintptr_t)address : NULL;
}

static bool table_entry(const struct file *file, uint32_t number, int32_t pair[2])
{
    word place = ((const struct module *)file)->table + 8 * (word)number;
    if (!can_read(place, 8))
        return false;
    memcpy(pair, (const void *)(uintptr_t)place, 8);
    return true;
}

/* Where a file's call frame information is, by its headers in memory. */
static void find_frames(struct module *module, word base)
{
    const ElfW(Ehdr) *head = (const void *)(uintptr_t)base;
    if (!can_read(base, sizeof *head) || memcmp(head->e_ident, ELFMAG, SELFMAG) ||
        head->e_phentsize != sizeof(ElfW(Phdr)) || !can_read(base + head->e_phoff, head->e_phnum * sizeof(ElfW(Phdr))))
        return;
    const ElfW(Phdr) *part = (const void *)(uintptr_t)(base + head->e_phoff);
    word first = 0, place = 0;
    for (int i = head->e_phnum - 1; i >= 0; i--) {
        first = part[i].p_type == PT_LOAD ? part[i].p_vaddr - part[i].p_offset : first;
        place = part[i].p_type == PT_GNU_EH_FRAME ? part[i].p_vaddr : place;
    }
    word header = base - first + place;
    if (!place || !can_read(header, 12))
        return;
    const uint8_t *bytes = (const uint8_t *)(uintptr_t)header;
    if (bytes[0] != 1 || bytes[3] != 0x3b) /* the sorted table that every linker writes */
        return;
    struct cursor c = {bytes + 4, bytes + 12, false, header + 4};
    take_encoded(&c, bytes[1], header);
    uint64_t entries = take_encoded(&c, bytes[2], header);
    if (c.bad || !entries || entries > LARGEST_TABLE)
        return;
    module->header = header;
    module->entries = (uint32_t)entries;
    module->table = header + (word)(c.at - bytes);
}

/* Whether an address is one of the agent's own. */
static EARLY bool is_ours(const void *address)
{
    extern const char __ehdr_start[] __attribute__((visibility("hidden")));
    extern const char _end[] __attribute__((visibility("hidden")));
    return (uintptr_t)address >= (uintptr_t)__ehdr_start && (uintptr_t)address < (uintptr_t)_end;
}

static word number_in(const char **text, unsigned base)
{
    word value = 0;
    for (;; (*text)++) {
        unsigned c = (unsigned char)**text, digit = c <= '9' ? c - '0' : (c | 32) - 'a' + 10;
        if (digit >= base)
            return value;
        value = value * base + digit;
    }
}

/* A line of /proc/self/maps: `begin-end access offset device inode path`. */
struct line {
    word begin, end, offset;
    const char *access; /* four letters */
    const char *path;   /* "" where there is none */
};

static struct line parts_of(const char *text)
{
    struct line line = {.begin = number_in(&text, 16)};
    text += *text == '-';
    line.end = number_in(&text, 16);
    text += *text == ' ';
    line.access = strnlen(text, 4) == 4 ? text : "----";
    text += strcspn(text, " ");
    text += strspn(text, " ");
    line.offset = number_in(&text, 16);
    for (int field = 0; field < 3; field++) {
        text += strspn(text, " ");
        text += field < 2 ? strcspn(text, " ") : 0;
    }
    line.path = text;
    return line;
}

/* Give each line of /proc/self/maps, by a buffer of the size; false where it cannot be read. */
static bool each_line(char *text, size_t size, void (*take)(void *, const struct line *), void *given)
{
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t held = 0;
    for (ssize_t more; file >= 0 && (more = read(file, text + held, size - 1 - held)) > 0;) {
        char *begin = text, *end;
        text[held += (size_t)more] = 0;
        for (; (end = strchr(begin, '\n')); begin = end + 1) {
            *end = 0;
            struct line line = parts_of(begin);
            take(given, &line);
        }
        held = strlen(begin) < size - 1 ? strlen(begin) : 0;
        memmove(text, begin, held);
    }
    if (file >= 0)
        close(file);
    return file >= 0;
}

static const struct module *module_in(const struct modules *of, word address)
{
    uint32_t low = 0, high = of->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (of->module[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < of->count && of->module[low].begin <= address ? &of->module[low] : NULL;
}

static bool knows(const struct modules *known, const struct module *module)
{
    bool current = known && known->generation == self->generation;
    const struct module *one = current ? module_in(known, module->begin) : NULL;
    return one && one->begin == module->begin && one->end == module->end && one->offset == module->offset;
}

/* The modules that are being read, and where the file of the last line begins. */
struct reading {
    struct thread *t;
    struct modules *made;
    word base;
};

static void take_line(void *given, const struct line *line)
{
    struct reading *to = given;
    if (!line->offset)
        to->base = line->begin; /* a file's first pages are mapped before its others */
    if (line->access[2] != 'x' || to->made->count == MOST_MODULES || line->begin >= line->end)
        return;
    struct module module = {.begin = line->begin, .end = line->end, .offset = line->offset};
    if (*line->path == '/' || !strncmp(line->path, "[vdso]", 6))
        find_frames(&module, to->base);
    if (!knows(atomic_load(&modules), &module)) {
        struct record record = {.kind = MODULE,
            .begin = ticks(),
            .address = line->begin,
            .source = line->end,
            .stream = line->offset,
            .bytes = strnlen(line->path, LONGEST_PATH)};
        put_with(to->t, &record, line->path, record.bytes);
    }
    to->made->module[to->made->count++] = module;
}

/* Read where code is; false where another thread does, or it was a moment ago. */
static RARE bool read_modules(struct thread *t)
{
    struct modules *before = atomic_load(&modules);
    word now = ticks(), waited = now - atomic_load(&maps_read);
    bool other = !before || before->generation != t->generation;
    if (!other && (tables_made >= MOST_TABLES || (double)waited < 5e7 * (1 + tables_made) * process->ticks_a_ns))
        return false;
    if (atomic_exchange(&reading_maps, 1))
        return false;
    if (!rows) {
        struct cached_row *made = map_pages(ROWS * sizeof *rows, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        rows = made == MAP_FAILED ? NULL : made;
    }
    struct modules *made = map_pages(sizeof *made, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct reading reading = {.t = t, .made = made};
    bool done = made != MAP_FAILED && rows && each_line(t->sampling.maps, MAPS_BYTES, take_line, &reading);
    if (done) {
        made->generation = t->generation;
        atomic_store(&modules, made);
        tables_made = other ? 1 : tables_made + 1;
        atomic_store(&maps_read, ticks());
    } else if (made != MAP_FAILED) {
        unmap_pages(made, sizeof *made);
    }
    atomic_store(&reading_maps, 0);
    return done;
}

/* How to leave the function at `pc`, in `self`; found once for all threads. */
static const struct row *row_in(void *of, uint64_t pc, bool *is_code)
{
    struct thread *t = of;
    const struct modules *known = atomic_load(&modules);
    const struct module *module = known ? module_in(known, pc) : NULL;
    *is_code = module;
    if (!module || !module->header)
        return NULL;
    struct row *row = &t->sampling.row;
    struct cached_row *cached = &rows[mixed(0, pc) % ROWS];
    uint32_t version = atomic_load_explicit(&cached->version, memory_order_acquire);
    if (!(version & 1) && cached->of == known && cached->row.pc == pc) {
        *row = cached->row;
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(&cached->version, memory_order_relaxed) == version && row->pc == pc)
            return row->known ? row : NULL;
    }
    *row = (struct row){.pc = pc};
    row->known = find_row((const struct file *)module, module->header, module->entries, pc, row);
    if (!(version & 1) && atomic_compare_exchange_strong(&cached->version, &version, version + 1)) {
        cached->of = known;
        cached->row = *row;
        atomic_store_explicit(&cached->version, version + 2, memory_order_release);
    }
    return row->known ? row : NULL;
}
