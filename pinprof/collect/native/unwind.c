/*
 * Complete user stacks while recording: samples arrive with a copy of the top of the thread's stack, and leave with the
 * return addresses that lie in it. The copy itself goes no further: neither file nor pipe ever sees it.
 *
 * The kernel follows frame pointers. Where a function keeps none (memset, malloc, most of libc, a library built without
 * them), it loses the caller or the whole rest of the stack. Compilers describe every frame in .eh_frame, for
 * exceptions; the description of the innermost functions and a few kilobytes of stack find their callers. Where the
 * copy ends, the kernel's frames go on.
 *
 * Samples pass through `pinprof_unwind_rewrite`, record by record, and mappings, forks and exec calls on the same way
 * tell which file lies where. Every size and offset in a file is checked: a damaged or hostile file costs frames, never
 * the collector. Files are read with pread(2): a file that shrinks meanwhile cannot raise SIGBUS.
 *
 * Source: include/uapi/linux/perf_event.h (records). cfi.h has the rest.
 */

#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cfi.h"

#define EXPORT __attribute__((visibility("default")))

#if defined(__x86_64__)
enum { MACHINE = EM_X86_64, REG_FP = 0, REG_SP, REG_PC, REGS }; /* perf's order: BP 6, SP 7, IP 8 */
#else
enum { MACHINE = EM_AARCH64, REG_FP = 0, REG_LR, REG_SP, REG_PC, REGS }; /* X29 29, LR 30, SP 31, PC 32 */
#endif

enum { RECORD_MMAP = 1, RECORD_COMM = 3, RECORD_EXIT = 4, RECORD_FORK = 7, RECORD_SAMPLE = 9, RECORD_MMAP2 = 10 };
enum { RECORD_SWITCH = 14 };
enum { MISC_CPUMODE = 7, MISC_USER = 2, MISC_COMM_EXEC = 1 << 13, MISC_FORK_EXEC = 1 << 13, MISC_DATA = 1 << 13 };
enum { MISC_SWITCH_OUT = 1 << 13 };
enum { S_CALLCHAIN = 1 << 5, S_RAW = 1 << 10, S_REGS = 1 << 12, S_STACK = 1 << 13, S_IDENTIFIER = 1 << 16 };
enum { S_TIME = 1 << 2, S_BEHIND_TIME = 1 << 6 | 1 << 7 | 1 << 9 | S_IDENTIFIER }; /* id, CPU, stream */
#define S_PERIOD (1u << 8)
#define S_WORDS (1u << 0 | 1u << 1 | 1u << 2 | 1u << 3 | 1u << 6 | 1u << 7 | 1u << 8 | 1u << 9 | S_IDENTIFIER)
#define CONTEXT_LOWEST ((uint64_t)-4095)
#define CONTEXT_USER ((uint64_t)-512)

enum { MOST_FRAMES = 127, ABI_64 = 2, MOST_SEGMENTS = 16, MOST_TABLE = 64 << 20 };
enum { MOST_FRAME_BYTES = 16 << 20, LEAST_FDE = 12 }; /* of .eh_frame without a table; with its length and its CIE */
/* What a mapping says of its file: the build ID, or its place on the disk (PERF_RECORD_MMAP2). */
enum { IDENTITY_AT = 32, IDENTITY_BYTES = 24 };
/* Places in code for which it is remembered how to leave their functions. */
enum { ROWS = 1 << 16 };
/* A copy of less is not meant to hold a whole stack. */
enum { MUCH_STACK = 4096, FEW_FRAMES = 3 };

struct segment {
    uint64_t address, offset, size;
    bool code;
};

struct file {
    struct file *next;
    dev_t device;
    ino_t inode;
    uint8_t identity[IDENTITY_BYTES]; /* as the latest mapping of it has it; 0 unknown */
    int fd;                           /* -1: held in memory, or nothing to unwind with */
    const uint8_t *memory;
    size_t memory_size;
    struct segment segments[MOST_SEGMENTS];
    int segment_count;
    uint64_t header; /* address of .eh_frame_hdr */
    uint8_t *table;  /* pairs of int32: function, its FDE, both from `header` */
    uint32_t entries;
};

struct mapping {
    uint64_t start, end, offset, time;
    struct file *file; /* NULL for memory without a file */
};

struct process {
    int32_t pid;
    bool ended;
    uint64_t begun; /* when its address space began */
    uint64_t gone;  /* when it ended: what happened before may be told later, by another processor */
    uint32_t count, room;
    struct mapping *maps; /* ascending */
    struct past *past;    /* latest first */
};

struct past { /* the address space of a program before the process executed another */
    struct past *next;
    uint64_t ended;
    struct process space;
};

struct event {
    uint64_t id;
    uint64_t sample_type;
};

struct unwinder {
    struct event *events; /* ascending by id */
    size_t event_count;
    struct process *processes; /* open addressing by pid, 0 is empty */
    size_t process_room, process_count;
    struct file *files;
    struct row *rows; /* ROWS of them, by place */
    size_t row_count;
    uint64_t samples, completed, extended;
    uint64_t copied, deep, cut; /* of samples of time: all; more than MUCH_STACK is needed; it is not there */
    uint64_t switches;          /* how often a thread left a processor */
    uint64_t latest;            /* time of a record */
    uint8_t joined[1 << 16];    /* the longest record */
};

/* ---- reading files ---- */

static bool file_read(const struct file *file, uint64_t offset, void *into, size_t size)
{
    if (file->memory) {
        if (offset > file->memory_size || size > file->memory_size - offset)
            return false;
        memcpy(into, file->memory + offset, size);
        return true;
    }
    if (offset > INT64_MAX)
        return false;
    for (size_t got = 0; got < size;) {
        ssize_t part = pread(file->fd, (char *)into + got, size - got, (off_t)(offset + got));
        if (part < 0 && errno == EINTR)
            continue;
        if (part <= 0)
            return false;
        got += (size_t)part;
    }
    return true;
}

static bool offset_of(const struct file *file, uint64_t address, uint64_t *offset, uint64_t *left)
{
    for (int n = 0; n < file->segment_count; n++) {
        const struct segment *s = &file->segments[n];
        if (address >= s->address && address - s->address < s->size) {
            *offset = s->offset + (address - s->address);
            *left = s->size - (address - s->address);
            return true;
        }
    }
    return false;
}

static bool address_of(const struct file *file, uint64_t offset, uint64_t *address)
{
    for (int n = 0; n < file->segment_count; n++) {
        const struct segment *s = &file->segments[n];
        /* Pages are mapped whole: code may begin before the segment in its first page. */
        if (s->code && offset >= (s->offset & ~4095ull) && offset < s->offset + s->size) {
            *address = s->address + (offset - s->offset);
            return true;
        }
    }
    return false;
}

/* ---- ELF files ---- */

static bool table_entry(const struct file *file, uint32_t number, int32_t pair[2])
{
    memcpy(pair, file->table + 8 * (size_t)number, 8);
    return true;
}

static const uint8_t *bytes_at(const struct file *file, uint64_t address, size_t size, int kind)
{
    static _Thread_local uint8_t fde[MOST_FDE + 4], cie[MOST_CIE + 4];
    uint8_t *bytes = kind == FDE ? fde : cie;
    uint64_t offset, left;
    return offset_of(file, address, &offset, &left) && left >= size && file_read(file, offset, bytes, size) ? bytes
                                                                                                            : NULL;
}

static bool section_of(const struct file *file, const Elf64_Ehdr *head, const char *name, Elf64_Shdr *found)
{
    Elf64_Shdr names;
    char text[16];
    size_t size = strlen(name) + 1;
    if (head->e_shentsize != sizeof names || head->e_shstrndx >= head->e_shnum || size > sizeof text ||
        !file_read(file, head->e_shoff + (uint64_t)head->e_shstrndx * sizeof names, &names, sizeof names))
        return false;
    for (int n = 0; n < head->e_shnum; n++)
        if (file_read(file, head->e_shoff + (uint64_t)n * sizeof *found, found, sizeof *found) &&
            found->sh_flags & SHF_ALLOC && file_read(file, names.sh_offset + found->sh_name, text, size) &&
            !memcmp(text, name, size))
            return true;
    return false;
}

static int by_function(const void *left, const void *right)
{
    int32_t a, b;
    memcpy(&a, left, sizeof a);
    memcpy(&b, right, sizeof b);
    return (a > b) - (a < b);
}

/* Programs that are linked statically come without the sorted table: here it is made of all that .eh_frame has. */
static void make_table(struct file *file, const Elf64_Ehdr *head)
{
    Elf64_Shdr section;
    if (!section_of(file, head, ".eh_frame", &section) || section.sh_type == SHT_NOBITS ||
        section.sh_size > MOST_FRAME_BYTES)
        return;
    uint64_t size = section.sh_size, known = 0;
    uint32_t count = 0;
    struct cie cie;
    uint8_t *raw = malloc(size + 1);
    int32_t *table = malloc((size / LEAST_FDE + 1) * 2 * sizeof *table);
    if (raw && table && file_read(file, section.sh_offset, raw, size)) {
        for (uint64_t at = 0; at + LEAST_FDE <= size;) {
            uint32_t length, back;
            memcpy(&length, raw + at, 4);
            memcpy(&back, raw + at + 4, 4);
            if (!length) {
                at += 4;
                continue;
            }
            if (length < LEAST_FDE - 4 || length > size - at - 4)
                break;
            uint64_t place = section.sh_addr + at, whose = place + 4 - back;
            if (back && (whose == known || read_cie(file, whose, &cie))) {
                known = whose;
                struct cursor c = {raw + at + 8, raw + at + 4 + length, false, place + 8};
                int64_t function = (int64_t)(take_encoded(&c, cie.encoding, section.sh_addr) - section.sh_addr);
                if (!c.bad && function >= INT32_MIN && function <= INT32_MAX) {
                    table[2 * count] = (int32_t)function;
                    table[2 * count + 1] = (int32_t)at;
                    count++;
                }
            } else if (back) {
                known = 0;
            }
            at += 4 + (uint64_t)length;
        }
    }
    free(raw);
    if (!count) {
        free(table);
        return;
    }
    qsort(table, count, 2 * sizeof *table, by_function);
    file->table = (uint8_t *)table;
    file->header = section.sh_addr;
    file->entries = count;
}

static void load_headers(struct file *file)
{
    Elf64_Ehdr head;
    if (!file_read(file, 0, &head, sizeof head) || memcmp(head.e_ident, ELFMAG, SELFMAG) ||
        head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != MACHINE || head.e_phentsize != sizeof(Elf64_Phdr))
        return;
    uint64_t frame_header = 0;
    for (int n = 0; n < head.e_phnum; n++) {
        Elf64_Phdr part;
        if (!file_read(file, head.e_phoff + (uint64_t)n * sizeof part, &part, sizeof part))
            return;
        if (part.p_type == PT_LOAD && file->segment_count < MOST_SEGMENTS)
            file->segments[file->segment_count++] =
                (struct segment){part.p_vaddr, part.p_offset, part.p_filesz, part.p_flags & PF_X};
        if (part.p_type == PT_GNU_EH_FRAME)
            frame_header = part.p_vaddr;
    }
    uint64_t offset, left;
    uint8_t raw[32];
    if (!frame_header) {
        make_table(file, &head);
        return;
    }
    if (!offset_of(file, frame_header, &offset, &left) || left < 12)
        return;
    size_t size = left < sizeof raw ? left : sizeof raw;
    if (!file_read(file, offset, raw, size) || raw[0] != 1 || raw[3] != 0x3b)
        return; /* only the sorted table that every linker writes: pairs of sdata4, relative to the header */
    struct cursor c = {raw + 4, raw + size, false, frame_header + 4};
    take_encoded(&c, raw[1], frame_header);
    uint64_t entries = take_encoded(&c, raw[2], frame_header);
    uint64_t skip = (uint64_t)(c.at - raw);
    if (c.bad || !entries || entries > MOST_TABLE / 8 || entries * 8 > left - skip)
        return;
    file->table = malloc(entries * 8);
    if (!file->table || !file_read(file, offset + skip, file->table, entries * 8)) {
        free(file->table);
        file->table = NULL;
        return;
    }
    file->header = frame_header;
    file->entries = (uint32_t)entries;
}

static struct file *remember(struct unwinder *u, struct file file)
{
    struct file *kept = malloc(sizeof file);
    if (!kept)
        return NULL;
    *kept = file;
    load_headers(kept);
    if (!kept->table && kept->fd >= 0) {
        close(kept->fd);
        kept->fd = -1;
    }
    kept->next = u->files;
    u->files = kept;
    return kept;
}

static struct file *identified(struct file *file, const uint8_t *identity)
{
    if (file && identity)
        memcpy(file->identity, identity, IDENTITY_BYTES);
    return file;
}

static struct file *open_file(struct unwinder *u, int32_t pid, const char *path, const uint8_t *identity)
{
    if (!strcmp(path, "[vdso]")) {
        for (struct file *f = u->files; f; f = f->next)
            if (f->memory)
                return f;
        const uint8_t *own = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
        const Elf64_Ehdr *head = (const Elf64_Ehdr *)own;
        /* Its section headers come last. */
        size_t size = own ? head->e_shoff + (size_t)head->e_shnum * head->e_shentsize : 0;
        return own ? remember(u, (struct file){.fd = -1, .memory = own, .memory_size = size}) : NULL;
    }
    if (path[0] != '/' || (path[1] == '/' && !strncmp(path, "//anon", 6)))
        return NULL;
    /* A program that starts hundreds of others a second maps the same few files, which were opened once. */
    for (struct file *f = u->files; identity && f; f = f->next)
        if (!memcmp(f->identity, identity, IDENTITY_BYTES))
            return f;
    /* Where the process sees it, which may be a container; a process that has ended has no root any more. */
    char inside[PATH_MAX + 32];
    snprintf(inside, sizeof inside, "/proc/%d/root%s", pid, path);
    int fd = open(inside, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    struct stat st;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        close(fd);
        return NULL;
    }
    for (struct file *f = u->files; f; f = f->next)
        if (!f->memory && f->device == st.st_dev && f->inode == st.st_ino) {
            close(fd);
            return identified(f, identity);
        }
    return identified(remember(u, (struct file){.fd = fd, .device = st.st_dev, .inode = st.st_ino}), identity);
}

/* ---- processes and their mappings ---- */

static size_t place_of(const struct process *processes, size_t room, int32_t pid)
{
    size_t at = (uint32_t)pid * 2654435761u % room;
    while (processes[at].pid && processes[at].pid != pid)
        at = (at + 1) % room;
    return at;
}

/* Nanoseconds after its end in which what a process did before may still be told. */
static const uint64_t LINGERS = 2000000000;

static bool is_known(const struct unwinder *u, const struct process *p)
{
    return p->maps || p->begun || p->gone + LINGERS > u->latest;
}

/* A larger table, or as large a one without those of which nothing is known any more. */
static bool make_room(struct unwinder *u)
{
    size_t known = 0;
    for (size_t n = 0; n < u->process_room; n++)
        known += u->processes[n].pid && is_known(u, &u->processes[n]);
    size_t room = 64;
    while (room < 4 * (known + 1))
        room *= 2;
    struct process *fresh = calloc(room, sizeof *fresh);
    if (!fresh)
        return false;
    for (size_t n = 0; n < u->process_room; n++)
        if (u->processes[n].pid && is_known(u, &u->processes[n]))
            fresh[place_of(fresh, room, u->processes[n].pid)] = u->processes[n];
    free(u->processes);
    u->processes = fresh;
    u->process_room = room;
    u->process_count = known;
    return true;
}

static struct process *process_of(struct unwinder *u, int32_t pid, bool create)
{
    if (pid <= 0 || (create && 2 * (u->process_count + 1) > u->process_room && !make_room(u)) || !u->process_room)
        return NULL;
    struct process *p = &u->processes[place_of(u->processes, u->process_room, pid)];
    if (!p->pid && !create)
        return NULL;
    if (!p->pid) {
        *p = (struct process){.pid = pid};
        u->process_count++;
    }
    return p;
}

/* The process as it is at a time; what it did before it ended does not bring it back. */
static struct process *process_at(struct unwinder *u, int32_t pid, uint64_t time)
{
    struct process *p = process_of(u, pid, true);
    if (p && p->ended && time > p->gone)
        p->ended = false;
    return p;
}

/* Forget address spaces that ended before; with UINT64_MAX all. */
static void forget_past(struct process *p, uint64_t before)
{
    struct past **at = &p->past;
    while (*at && (*at)->ended >= before && before != UINT64_MAX)
        at = &(*at)->next;
    for (struct past *old = *at, *next; old; old = next) {
        next = old->next;
        free(old->space.maps);
        free(old);
    }
    *at = NULL;
}

/* The address space that a process had at a time; NULL where nothing is known of it. */
static struct process *space_at(struct process *p, uint64_t time)
{
    if (!time || time >= p->begun)
        return p;
    for (struct past *old = p->past; old; old = old->next)
        if (old->space.begun <= time && time < old->ended)
            return &old->space;
    return NULL;
}

static const struct mapping *mapping_at(const struct process *p, uint64_t pc)
{
    uint32_t low = 0, high = p->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (p->maps[middle].end <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    return low < p->count && p->maps[low].start <= pc ? &p->maps[low] : NULL;
}

static bool room_for(struct process *p, uint32_t count)
{
    if (count <= p->room)
        return true;
    uint32_t room = count + count / 2 + 16;
    struct mapping *grown = realloc(p->maps, room * sizeof *grown);
    if (!grown)
        return false;
    p->maps = grown;
    p->room = room;
    return true;
}

static void add_mapping(struct process *p, struct mapping fresh)
{
    /* What it covers goes; what sticks out on either side stays. */
    if (fresh.start >= fresh.end || !room_for(p, p->count + 2))
        return;
    uint32_t first = 0, last;
    while (first < p->count && p->maps[first].end <= fresh.start)
        first++;
    last = first;
    while (last < p->count && p->maps[last].start < fresh.end)
        last++;
    struct mapping kept[3];
    uint32_t count = 0;
    if (first < last && p->maps[first].start < fresh.start) {
        kept[count] = p->maps[first];
        kept[count++].end = fresh.start;
    }
    kept[count++] = fresh;
    if (first < last && p->maps[last - 1].end > fresh.end) {
        kept[count] = p->maps[last - 1];
        kept[count].offset += fresh.end - kept[count].start;
        kept[count++].start = fresh.end;
    }
    memmove(p->maps + first + count, p->maps + last, (p->count - last) * sizeof *p->maps);
    memcpy(p->maps + first, kept, count * sizeof *kept);
    p->count += count - (last - first);
}

/*
 * A process has an address space of its own since `time`. Its records come processor by processor, so some of what is
 * in there may be known already, and only what is older goes.
 */
static void begin(struct process *p, uint64_t time)
{
    uint32_t kept = 0;
    for (uint32_t n = 0; n < p->count; n++)
        if (p->maps[n].time > time)
            p->maps[kept++] = p->maps[n];
    p->count = kept;
    p->begun = time;
}

/*
 * The same where it executes another program: samples from before that are rewritten after it was noted, and some are
 * told later, by another processor. They find the mappings that it had.
 */
static void begin_program(struct process *p, uint64_t time)
{
    struct past *old = calloc(1, sizeof *old);
    if (old) {
        *old = (struct past){p->past, time, {.pid = p->pid, .begun = p->begun}};
        if (room_for(&old->space, p->count))
            for (uint32_t n = 0; n < p->count; n++)
                if (p->maps[n].time <= time)
                    old->space.maps[old->space.count++] = p->maps[n];
        p->past = old;
    }
    begin(p, time);
}

static void note_mapping(
    struct unwinder *u, uint16_t misc, uint64_t time, const uint8_t *body, size_t size, size_t path_at)
{
    int32_t pid;
    uint64_t start, length, offset;
    uint32_t protection = 4;
    static const uint8_t unknown[IDENTITY_BYTES];
    const uint8_t *identity = NULL;
    if (size <= path_at || misc & MISC_DATA || (misc & MISC_CPUMODE) != MISC_USER ||
        !memchr(body + path_at, 0, size - path_at))
        return;
    memcpy(&pid, body, 4);
    memcpy(&start, body + 8, 8);
    memcpy(&length, body + 16, 8);
    memcpy(&offset, body + 24, 8);
    if (path_at == 64) {
        memcpy(&protection, body + 56, 4);
        identity = memcmp(body + IDENTITY_AT, unknown, IDENTITY_BYTES) ? body + IDENTITY_AT : NULL;
    }
    struct process *p = protection & 4 && start + length > start ? process_at(u, pid, time) : NULL;
    struct process *space = p ? space_at(p, time) : NULL;
    if (space)
        add_mapping(space, (struct mapping){start, start + length, offset, time,
                               open_file(u, pid, (const char *)body + path_at, identity)});
}

static void note_fork(struct unwinder *u, uint64_t time, const uint8_t *body, size_t size)
{
    int32_t ids[2]; /* pid, ppid */
    if (size < 16)
        return;
    memcpy(ids, body, 8);
    if (ids[0] == ids[1] || !process_at(u, ids[0], time))
        return;
    struct process *child = process_at(u, ids[0], time), *parent = process_of(u, ids[1], false);
    if (child->begun > time)
        return; /* It is another program by now. */
    begin(child, time);
    /* Its own lie above its parent's. */
    struct process own = *child;
    child->maps = NULL;
    child->count = child->room = 0;
    if (parent && room_for(child, parent->count))
        for (uint32_t n = 0; n < parent->count; n++)
            if (parent->maps[n].time <= time)
                child->maps[child->count++] = parent->maps[n];
    for (uint32_t n = 0; n < own.count; n++)
        add_mapping(child, own.maps[n]);
    free(own.maps);
}

static void note(struct unwinder *u, uint32_t type, uint16_t misc, uint64_t time, const uint8_t *body, size_t size)
{
    int32_t ids[4];
    struct process *p;
    switch (type) {
    case RECORD_MMAP:
        note_mapping(u, misc, time, body, size, 32);
        break;
    case RECORD_MMAP2:
        note_mapping(u, misc, time, body, size, 64);
        break;
    case RECORD_FORK:
        if (!(misc & MISC_FORK_EXEC))
            note_fork(u, time, body, size);
        break;
    case RECORD_COMM:
        if (misc & MISC_COMM_EXEC && size >= 8) {
            memcpy(ids, body, 8);
            if ((p = process_at(u, ids[0], time)) && time >= p->begun)
                begin_program(p, time);
        }
        break;
    case RECORD_EXIT: /* pid, ppid, tid, ptid */
        if (size >= 16) {
            memcpy(ids, body, 16);
            if (ids[0] == ids[2] && (p = process_of(u, ids[0], true))) {
                p->ended = true;
                p->gone = time;
            }
        }
        break;
    }
}

static void forget_ended(struct unwinder *u)
{
    for (size_t n = 0; n < u->process_room; n++) {
        struct process *p = &u->processes[n];
        if (p->past && u->latest > LINGERS)
            forget_past(p, u->latest - LINGERS);
        if (p->ended && (p->maps || p->begun)) {
            forget_past(p, UINT64_MAX);
            free(p->maps);
            /* The place stays taken until there is a new table, so that others are found behind it. */
            *p = (struct process){.pid = p->pid, .ended = true, .gone = p->gone};
        }
    }
}

static const struct row *row_of(struct unwinder *u, const struct mapping *map, uint64_t lookup)
{
    if (!u->rows && !(u->rows = calloc(ROWS, sizeof *u->rows)))
        return NULL;
    if (u->row_count * 2 >= ROWS) { /* forget, rather than grow for ever */
        memset(u->rows, 0, ROWS * sizeof *u->rows);
        u->row_count = 0;
    }
    uint64_t address;
    if (!map->file || !map->file->table || !address_of(map->file, lookup - map->start + map->offset, &address))
        return NULL;
    size_t at = (address ^ (uintptr_t)map->file >> 4) * 0x9e3779b97f4a7c15ull >> 20;
    for (;; at++) {
        struct row *row = &u->rows[at &= ROWS - 1];
        if (row->file == map->file && row->pc == address)
            return row->known ? row : NULL;
        if (!row->file) {
            u->row_count++;
            row->file = map->file;
            row->pc = address;
            row->known = find_row(map->file, map->file->header, map->file->entries, address, row);
            return row->known ? row : NULL;
        }
    }
}

/* Where the places of a stack lie. */
struct code {
    struct unwinder *u;
    const struct process *p;
};

static const struct row *row_in(void *of, uint64_t pc, bool *is_code)
{
    const struct code *code = of;
    const struct mapping *map = mapping_at(code->p, pc);
    *is_code = map;
    return map ? row_of(code->u, map, pc) : NULL;
}

/*
 * The user part of a call chain, `known` as the kernel gave it: into `found`, their number. Frames that the copy of the
 * stack tells come first; where it ends, the kernel's go on from the frame that both have.
 */
static size_t complete(struct unwinder *u, const struct process *p, const uint64_t *regs, const struct stack *stack,
    const uint64_t *known, size_t known_count, uint64_t *found, size_t most)
{
    struct position f = {regs[REG_PC], regs[REG_SP], regs[REG_FP], 0, false};
#if defined(__aarch64__)
    f.lr = regs[REG_LR];
#endif
    size_t count = 0;
    found[count++] = f.pc;
    enum step step = STEP;
    while (count < most && (step = leave(&f, count == 1, stack, row_in, &(struct code){u, p})) == STEP) {
        found[count++] = f.pc;
        *stack->beyond = false;
    }
    if (step == END || count == most) {
        u->completed++;
        return count;
    }
    for (size_t mine = count; mine-- > 1;)
        for (size_t theirs = 1; theirs < known_count; theirs++)
            if (found[mine] == known[theirs]) {
                /* Where functions keep no frame pointer, the kernel goes on for a frame or two that are none. */
                if (known_count - theirs <= FEW_FRAMES || known_count - theirs <= count - mine)
                    return count;
                count = mine + 1;
                while (++theirs < known_count && count < most)
                    found[count++] = known[theirs];
                u->extended++;
                return count;
            }
    /* The frame pointer is still that of the sample: the kernel's callers are those of this frame, or next to it. */
    if (f.fp == regs[REG_FP] && f.fp >= f.sp)
        for (size_t theirs = 1; theirs < known_count && count < most; theirs++)
            found[count++] = known[theirs];
    return count;
}

/* ---- records ---- */

static const struct event *event_of(const struct unwinder *u, uint64_t id)
{
    size_t low = 0, high = u->event_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (u->events[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < u->event_count && u->events[low].id == id ? &u->events[low] : NULL;
}

static uint64_t word(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, 8);
    return value;
}

/* When a record that is no sample was written, by the fields that end it (struct sample_id); else the latest known
 * time. */
static uint64_t time_of(struct unwinder *u, const uint8_t *record, size_t size)
{
    const struct event *event = size >= 16 ? event_of(u, word(record + size - 8)) : NULL;
    if (event && event->sample_type & S_TIME && event->sample_type & S_IDENTIFIER) {
        size_t behind = 8 * (size_t)__builtin_popcountll(event->sample_type & S_BEHIND_TIME);
        uint64_t time = size >= 8 + 8 + behind ? word(record + size - behind - 8) : 0;
        if (time > u->latest)
            u->latest = time;
        if (time)
            return time;
    }
    return u->latest;
}

/* One sample without its registers and stack, with the chain that they complete; 0 when it is not laid out so. */
static size_t rewrite_sample(
    struct unwinder *u, const struct event *event, const uint8_t *record, size_t size, uint8_t *out)
{
    size_t fixed = 8 + 8 * (size_t)__builtin_popcountll(event->sample_type & S_WORDS), at = fixed;
    if (at + 8 > size)
        return 0;
    uint64_t chain = word(record + at);
    const uint8_t *frames = record + at + 8;
    if (chain > (size - at - 8) / 8)
        return 0;
    at += 8 + 8 * chain;
    const uint8_t *raw = record + at;
    size_t raw_size = 0;
    if (event->sample_type & S_RAW) {
        uint32_t length;
        if (at + 4 > size)
            return 0;
        memcpy(&length, raw, 4);
        raw_size = ((size_t)length + 4 + 7) & ~7ull;
        if (raw_size > size - at)
            return 0;
        at += raw_size;
    }
    if (at + 8 > size)
        return 0;
    uint64_t abi = word(record + at), regs[REGS] = {0};
    at += 8;
    if (abi) {
        if (at + sizeof regs > size)
            return 0;
        memcpy(regs, record + at, sizeof regs);
        at += sizeof regs;
    }
    bool beyond = false;
    uint64_t above = 0;
    struct stack stack = {NULL, regs[REG_SP], 0, &beyond, &above, NULL};
    if (at + 8 > size)
        return 0;
    uint64_t copied = word(record + at);
    at += 8;
    if (copied) {
        if (copied > size - at || size - at - copied < 8)
            return 0;
        stack.bytes = record + at;
        stack.size = word(record + at + copied);
        if (stack.size > copied)
            stack.size = copied;
    }
    /* Everything up to the user's part of the chain stays as it is. */
    uint64_t user = 0;
    while (user < chain && word(frames + 8 * user) != CONTEXT_USER)
        user++;
    const size_t before = user < chain ? user + 1 : chain;
    uint64_t known[MOST_FRAMES + 1], complete_chain[MOST_FRAMES + 1];
    size_t known_count = 0, count = 0;
    for (uint64_t n = before; n < chain && known_count < MOST_FRAMES; n++)
        if (word(frames + 8 * n) < CONTEXT_LOWEST)
            known[known_count++] = word(frames + 8 * n);
    int32_t pid = 0;
    size_t pid_at = 8 + 8 * (size_t)__builtin_popcountll(event->sample_type & (1u << 0 | S_IDENTIFIER));
    memcpy(&pid, record + pid_at, 4);
    struct process *p = process_of(u, pid, false);
    const struct process *then = p ? space_at(p, event->sample_type & S_TIME ? word(record + pid_at + 8) : 0) : NULL;
    if (!then)
        then = p;
    const uint64_t whole = u->completed + u->extended;
    u->samples++;
    if (known_count && abi == ABI_64 && then && then->count && stack.size)
        count = complete(u, then, regs, &stack, known, known_count, complete_chain, MOST_FRAMES);
    const bool counts = copied >= MUCH_STACK && event->sample_type & S_PERIOD;
    u->copied += counts;
    u->deep += counts && above > MUCH_STACK - 8;
    u->cut += counts && beyond && u->completed + u->extended == whole;
    if (count < known_count && !(count > 1)) {
        memcpy(complete_chain, known, known_count * 8);
        count = known_count;
    }
    uint64_t total = before + count;
    uint8_t *put = out;
    memcpy(put, record, fixed);
    put += fixed;
    memcpy(put, &total, 8);
    memcpy(put + 8, frames, 8 * before);
    put += 8 + 8 * before;
    memcpy(put, complete_chain, 8 * count);
    put += 8 * count;
    memcpy(put, raw, raw_size);
    put += raw_size;
    uint16_t length = (uint16_t)(put - out);
    memcpy(out + 6, &length, 2);
    return length;
}

static void insert(struct unwinder *u, uint64_t id, uint64_t sample_type)
{
    size_t place = u->event_count++;
    for (; place && u->events[place - 1].id > id; place--)
        u->events[place] = u->events[place - 1];
    u->events[place] = (struct event){id, sample_type};
}

EXPORT struct unwinder *pinprof_unwind_new(const uint64_t *ids, const uint64_t *sample_types, size_t count)
{
    struct unwinder *u = calloc(1, sizeof *u);
    if (!u || !(u->events = calloc(count ? count : 1, sizeof *u->events))) {
        free(u);
        return NULL;
    }
    for (size_t n = 0; n < count; n++)
        insert(u, ids[n], sample_types[n]);
    return u;
}

struct piece {
    const uint8_t *bytes;
    uint64_t size;
};

/* Records one after another, in memory that comes in pieces: the end of a ring may divide a record. */
struct records {
    const struct piece *piece, *end;
    uint64_t at; /* in that piece */
};

/* Copy what comes next; false when there is less. */
static bool copy_next(struct records *r, uint8_t *to, uint64_t size)
{
    while (size) {
        if (r->piece == r->end)
            return false;
        uint64_t left = r->piece->size - r->at, part = left < size ? left : size;
        memcpy(to, r->piece->bytes + r->at, part);
        to += part, size -= part, r->at += part;
        if (r->at == r->piece->size)
            r->piece++, r->at = 0;
    }
    return true;
}

/* The next record, where it lies or, if it is divided, in `joined`; NULL after the last whole one. */
static const uint8_t *next_record(struct records *r, uint8_t *joined)
{
    uint16_t length;
    if (r->piece < r->end && r->piece->size - r->at >= 8) {
        const uint8_t *record = r->piece->bytes + r->at;
        memcpy(&length, record + 6, 2);
        if (length >= 8 && length < r->piece->size - r->at) {
            r->at += length;
            return record;
        }
    }
    if (!copy_next(r, joined, 8))
        return NULL;
    memcpy(&length, joined + 6, 2);
    return length >= 8 && copy_next(r, joined + 8, length - 8u) ? joined : NULL;
}

/*
 * Whole records from `pieces` to `out`, which has room for as many bytes; how many were written. Mappings of all pieces
 * are noted first: records of different processors come one processor after the other.
 */
EXPORT size_t pinprof_unwind_rewrite(struct unwinder *u, const struct piece *pieces, size_t count, uint8_t *out)
{
    size_t written = 0;
    for (int pass = 0; pass < 2; pass++) {
        struct records records = {pieces, pieces + count, 0};
        for (const uint8_t *record; (record = next_record(&records, u->joined));) {
            uint32_t type;
            uint16_t misc, length;
            memcpy(&type, record, 4);
            memcpy(&misc, record + 4, 2);
            memcpy(&length, record + 6, 2);
            if (pass == 0) {
                if (type != RECORD_SAMPLE)
                    note(u, type, misc, time_of(u, record, length), record + 8, length - 8u);
                continue;
            }
            const struct event *event = type == RECORD_SAMPLE && length >= 16 ? event_of(u, word(record + 8)) : NULL;
            if (event && event->sample_type & S_STACK) {
                /* One that is not laid out as its event says is left out: it may hold a stack. */
                written += rewrite_sample(u, event, record, length, out + written);
            } else {
                u->switches += type == RECORD_SWITCH && misc & MISC_SWITCH_OUT;
                memcpy(out + written, record, length);
                written += length;
            }
        }
    }
    forget_ended(u);
    return written;
}

EXPORT void pinprof_unwind_counts(const struct unwinder *u, uint64_t counts[7])
{
    counts[0] = u->samples;
    counts[1] = u->completed;
    counts[2] = u->extended;
    counts[3] = u->copied;
    counts[4] = u->deep;
    counts[5] = u->cut;
    counts[6] = u->switches;
}

EXPORT void pinprof_unwind_free(struct unwinder *u)
{
    if (!u)
        return;
    for (struct file *f = u->files, *next; f; f = next) {
        next = f->next;
        if (f->fd >= 0)
            close(f->fd);
        free(f->table);
        free(f);
    }
    for (size_t n = 0; n < u->process_room; n++) {
        forget_past(&u->processes[n], UINT64_MAX);
        free(u->processes[n].maps);
    }
    free(u->processes);
    free(u->rows);
    free(u->events);
    free(u);
}
