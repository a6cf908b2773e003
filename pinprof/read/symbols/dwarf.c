/*
 * File, line and inlined functions of addresses, from DWARF 2 to 5, also split (.dwo).
 *
 * Nothing is indexed beforehand: the head of each unit says which addresses it has, and only units with an address that
 * is asked for are read, functions without one skipped. So memory does not grow with the file, and time with the
 * number of units.
 *
 * Sections are given as memory; every offset and size in them is checked. A damaged or hostile file costs lines, never
 * the process: loops are bounded by the bytes that they consume and by a time, references by a depth.
 *
 * Source: DWARF 5 (dwarfstd.org), chapter 7 (encodings), 6.2 (line numbers), 2.17 and 7.28 (ranges); GNU's split DWARF
 * before version 5: gcc.gnu.org/wiki/DebugFission.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cursor.h"

#define EXPORT __attribute__((visibility("default")))

enum { INFO, ABBREV, LINE, STR, LINE_STR, RANGES, RNGLISTS, ADDR, STR_OFFSETS, SECTIONS };

struct section {
    const uint8_t *bytes;
    uint64_t size;
};

enum {
    TAG_CLASS = 0x02,
    TAG_COMPILE_UNIT = 0x11,
    TAG_ENUM = 0x04,
    TAG_STRUCT = 0x13,
    TAG_UNION = 0x17,
    TAG_INLINED = 0x1d,
    TAG_SUBPROGRAM = 0x2e,
};

enum {
    AT_SIBLING = 0x01,
    AT_NAME = 0x03,
    AT_STMT_LIST = 0x10,
    AT_LOW_PC = 0x11,
    AT_HIGH_PC = 0x12,
    AT_COMP_DIR = 0x1b,
    AT_ABSTRACT_ORIGIN = 0x31,
    AT_SPECIFICATION = 0x47,
    AT_RANGES = 0x55,
    AT_CALL_FILE = 0x58,
    AT_CALL_LINE = 0x59,
    AT_LINKAGE_NAME = 0x6e,
    AT_STR_OFFSETS_BASE = 0x72,
    AT_ADDR_BASE = 0x73,
    AT_RNGLISTS_BASE = 0x74,
    AT_DWO_NAME = 0x76,
    AT_MIPS_LINKAGE_NAME = 0x2007,
    AT_GNU_DWO_NAME = 0x2130,
    AT_GNU_DWO_ID = 0x2131,
    AT_GNU_RANGES_BASE = 0x2132,
    AT_GNU_ADDR_BASE = 0x2133,
};

enum { MOST_INLINED = 24, MOST_REFERENCES = 8, MOST_ABBREVIATIONS = 1 << 16 };

struct unit {
    uint64_t start, end, dies; /* offsets in the section of units */
    uint64_t abbreviations;
    uint16_t version;
    uint8_t address_size, offset_size;
    /* of the root */
    uint64_t low_pc, line, str_offsets_base, addr_base, rnglists_base, ranges_base;
    uint64_t split_id; /* equal in a skeleton and its split unit */
    bool has_line;
    const char *name, *directory, *dwo_name;
};

struct abbreviation {
    uint64_t tag;
    bool children;
    const uint8_t *attributes;
};

struct file {
    const struct section *sections, *main; /* `main` differs for a .dwo: its addresses lie in the skeleton's file */
    const struct unit *unit;
    struct abbreviation *abbreviations;
    size_t abbreviation_count;
    const struct starts *starts; /* of the units in `main` */
};

struct starts { /* ascending offsets of units */
    const uint64_t *offsets;
    size_t count;
};

struct value {
    uint64_t number;
    const char *text;
    bool address, reference, present;
    bool section_reference; /* counts from the section, not from the unit */
    uint64_t form;
};

struct die {
    uint64_t tag;
    bool children;
    struct value name, linkage, low, high, ranges, origin, specification, call_file, call_line, sibling;
};

/* ---- time ---- */

static _Thread_local struct {
    uint64_t until; /* CLOCK_MONOTONIC, ns */
    unsigned asked;
    bool over;
} limit;

static void limit_until(uint64_t time)
{
    limit.until = time;
    limit.asked = 0;
    limit.over = false;
}

/* Whether the time is over; the clock is read at the first call and at each 256th. */
static bool late(void)
{
    struct timespec now;
    if (!limit.over && limit.asked++ % 256 == 0) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        limit.over = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec >= limit.until;
    }
    return limit.over;
}

/* ---- reading ---- */

static const char *take_text(struct cursor *c)
{
    const uint8_t *nul = c->bad ? NULL : memchr(c->at, 0, (size_t)(c->end - c->at));
    if (!nul) {
        c->bad = true;
        return NULL;
    }
    const char *text = (const char *)c->at;
    c->at = nul + 1;
    return text;
}

static struct cursor from(const struct section *s, uint64_t offset)
{
    if (!s->bytes || offset >= s->size)
        return (struct cursor){NULL, NULL, true, 0};
    return (struct cursor){s->bytes + offset, s->bytes + s->size, false, 0};
}

static const char *text_at(const struct section *s, uint64_t offset)
{
    struct cursor c = from(s, offset);
    return take_text(&c);
}

static uint64_t word_at(const struct section *s, uint64_t offset, size_t size, bool *bad)
{
    struct cursor c = from(s, offset);
    uint64_t value = take(&c, size);
    *bad = c.bad;
    return value;
}

/* ---- attributes ---- */

static const char *indexed_text(const struct file *f, uint64_t index)
{
    const struct unit *u = f->unit;
    bool bad;
    if (index > UINT32_MAX)
        return NULL;
    uint64_t offset =
        word_at(&f->sections[STR_OFFSETS], u->str_offsets_base + index * u->offset_size, u->offset_size, &bad);
    return bad ? NULL : text_at(&f->sections[STR], offset);
}

static uint64_t indexed_address(const struct file *f, uint64_t index)
{
    bool bad;
    uint64_t value = index > UINT32_MAX ? 0 : word_at(&f->main[ADDR], f->unit->addr_base + index * 8, 8, &bad);
    return index > UINT32_MAX || bad ? 0 : value;
}

static struct value take_value(const struct file *f, struct cursor *c, uint64_t form, int64_t implicit)
{
    const struct unit *u = f->unit;
    struct value v = {.present = true, .form = form};
    for (int depth = 0; form == 0x16 && depth < 4; depth++) /* indirect */
        v.form = form = take_uleb(c);
    switch (form) {
    case 0x01:
        v.number = take(c, u->address_size);
        v.address = true;
        break;
    case 0x03:
        skip(c, take(c, 2));
        break; /* block2 */
    case 0x04:
        skip(c, take(c, 4));
        break;
    case 0x05:
        v.number = take(c, 2);
        break;
    case 0x06:
        v.number = take(c, 4);
        break;
    case 0x07:
        v.number = take(c, 8);
        break;
    case 0x08:
        v.text = take_text(c);
        break;
    case 0x09:
        skip(c, take_uleb(c));
        break; /* block */
    case 0x0a:
        skip(c, take(c, 1));
        break;
    case 0x0b:
    case 0x0c:
        v.number = take(c, 1);
        break;
    case 0x0d:
        v.number = (uint64_t)take_sleb(c);
        break;
    case 0x0e:
        v.text = text_at(&f->sections[STR], take(c, u->offset_size));
        break;
    case 0x0f:
        v.number = take_uleb(c);
        break;
    case 0x10: /* ref_addr */
        v.number = take(c, u->version == 2 ? u->address_size : u->offset_size);
        v.reference = v.section_reference = true;
        break;
    case 0x11:
        v.number = take(c, 1);
        v.reference = true;
        break;
    case 0x12:
        v.number = take(c, 2);
        v.reference = true;
        break;
    case 0x13:
        v.number = take(c, 4);
        v.reference = true;
        break;
    case 0x14:
        v.number = take(c, 8);
        v.reference = true;
        break;
    case 0x15:
        v.number = take_uleb(c);
        v.reference = true;
        break;
    case 0x17:
        v.number = take(c, u->offset_size);
        break; /* sec_offset */
    case 0x18:
        skip(c, take_uleb(c));
        break;
    case 0x19:
        v.number = 1;
        break;
    case 0x1a:
        v.text = indexed_text(f, take_uleb(c));
        break; /* strx */
    case 0x1b:
        v.number = indexed_address(f, take_uleb(c));
        v.address = true;
        break;
    case 0x1c:
        take(c, 4);
        break; /* ref_sup4 */
    case 0x1d:
        take(c, u->offset_size);
        break;
    case 0x1e:
        skip(c, 16);
        break;
    case 0x1f:
        v.text = text_at(&f->sections[LINE_STR], take(c, u->offset_size));
        break;
    case 0x20:
        take(c, 8);
        break; /* ref_sig8 */
    case 0x21:
        v.number = (uint64_t)implicit;
        break;
    case 0x22:
    case 0x23:
        v.number = take_uleb(c);
        break; /* loclistx, rnglistx */
    case 0x24:
        take(c, 8);
        break;
    case 0x25:
        v.text = indexed_text(f, take(c, 1));
        break;
    case 0x26:
        v.text = indexed_text(f, take(c, 2));
        break;
    case 0x27:
        v.text = indexed_text(f, take(c, 3));
        break;
    case 0x28:
        v.text = indexed_text(f, take(c, 4));
        break;
    case 0x29:
        v.number = indexed_address(f, take(c, 1));
        v.address = true;
        break;
    case 0x2a:
        v.number = indexed_address(f, take(c, 2));
        v.address = true;
        break;
    case 0x2b:
        v.number = indexed_address(f, take(c, 3));
        v.address = true;
        break;
    case 0x2c:
        v.number = indexed_address(f, take(c, 4));
        v.address = true;
        break;
    case 0x1f01:
        v.number = indexed_address(f, take_uleb(c));
        v.address = true;
        break; /* GNU_addr_index */
    case 0x1f02:
        v.text = indexed_text(f, take_uleb(c));
        break;
    case 0x1f20:
    case 0x1f21:
        take(c, u->offset_size);
        break; /* in a supplementary file */
    default:
        c->bad = true;
    }
    return v;
}

/* The abbreviations of a unit, by code, up to the one with `last`; false where codes are huge, or memory is short. */
static bool load_abbreviations(struct file *f, uint64_t last)
{
    struct cursor c = from(&f->sections[ABBREV], f->unit->abbreviations);
    size_t room = 0;
    while (!c.bad && !late()) {
        uint64_t code = take_uleb(&c);
        if (c.bad || !code)
            break;
        if (code > MOST_ABBREVIATIONS)
            return false;
        if (code >= room) {
            size_t grown = 2 * code + 64;
            struct abbreviation *more = realloc(f->abbreviations, grown * sizeof *more);
            if (!more)
                return false;
            memset(more + room, 0, (grown - room) * sizeof *more);
            f->abbreviations = more;
            f->abbreviation_count = room = grown;
        }
        struct abbreviation *a = &f->abbreviations[code];
        a->tag = take_uleb(&c);
        a->children = take(&c, 1);
        a->attributes = c.at;
        if (code == last)
            return !c.bad;
        for (uint64_t name = 1, form = 1; (name || form) && !c.bad;) {
            name = take_uleb(&c);
            form = take_uleb(&c);
            if (form == 0x21)
                take_sleb(&c);
        }
    }
    return !c.bad;
}

static const struct abbreviation *abbreviation_of(const struct file *f, uint64_t code)
{
    return code && code < f->abbreviation_count && f->abbreviations[code].attributes ? &f->abbreviations[code] : NULL;
}

/* Call `use` with each attribute; the cursor stands behind the code. */
#define EACH_ATTRIBUTE(f, c, a, name, v)                                                                               \
    struct cursor list = {(a)->attributes, (f)->sections[ABBREV].bytes + (f)->sections[ABBREV].size, false, 0};        \
    for (uint64_t name = take_uleb(&list), form_ = take_uleb(&list), once_; (name || form_) && !list.bad && !(c)->bad; \
        name = take_uleb(&list), form_ = take_uleb(&list))                                                             \
        for (struct value v = take_value(f, c, form_, form_ == 0x21 ? take_sleb(&list) : 0), *p_ = (once_ = 1, &v);    \
            p_ && once_; once_ = 0)

static bool take_die(const struct file *f, struct cursor *c, struct die *d)
{
    memset(d, 0, sizeof *d);
    uint64_t code = take_uleb(c);
    if (c->bad || !code)
        return !c->bad;
    const struct abbreviation *a = abbreviation_of(f, code);
    if (!a) {
        c->bad = true;
        return false;
    }
    d->tag = a->tag;
    d->children = a->children;
    EACH_ATTRIBUTE(f, c, a, name, v)
    {
        switch (name) {
        case AT_SIBLING:
            d->sibling = v;
            break;
        case AT_NAME:
            d->name = v;
            break;
        case AT_LINKAGE_NAME:
        case AT_MIPS_LINKAGE_NAME:
            d->linkage = v;
            break;
        case AT_LOW_PC:
            d->low = v;
            break;
        case AT_HIGH_PC:
            d->high = v;
            break;
        case AT_RANGES:
            d->ranges = v;
            break;
        case AT_ABSTRACT_ORIGIN:
            d->origin = v;
            break;
        case AT_SPECIFICATION:
            d->specification = v;
            break;
        case AT_CALL_FILE:
            d->call_file = v;
            break;
        case AT_CALL_LINE:
            d->call_line = v;
            break;
        }
    }
    return !c->bad && !list.bad;
}

/* ---- units ---- */

/* The head of the unit at `offset`, and of its root what says where it lies; false at the end or behind damage. */
static bool read_unit(const struct section *sections, uint64_t offset, struct unit *u, struct die *root)
{
    struct cursor c = from(&sections[INFO], offset);
    memset(u, 0, sizeof *u);
    memset(root, 0, sizeof *root);
    u->start = offset;
    uint64_t length = take(&c, 4);
    u->offset_size = 4;
    if (length == 0xffffffff) {
        length = take(&c, 8);
        u->offset_size = 8;
    }
    if (c.bad || !length || length > (uint64_t)(c.end - c.at))
        return false;
    c.end = c.at + length;
    u->end = (uint64_t)(c.end - sections[INFO].bytes);
    u->version = (uint16_t)take(&c, 2);
    uint8_t type = 1;
    if (u->version >= 5) {
        type = (uint8_t)take(&c, 1);
        u->address_size = (uint8_t)take(&c, 1);
        u->abbreviations = take(&c, u->offset_size);
        if (type == 4 || type == 5) /* skeleton, split compile */
            u->split_id = take(&c, 8);
        else if (type == 2 || type == 6) /* types */
            skip(&c, 8u + u->offset_size);
    } else {
        u->abbreviations = take(&c, u->offset_size);
        u->address_size = (uint8_t)take(&c, 1);
    }
    u->dies = (uint64_t)(c.at - sections[INFO].bytes);
    if (c.bad || u->version < 2 || u->version > 5 || u->address_size != 8 || type == 2 || type == 6)
        return true; /* not one that has code */
    u->str_offsets_base = u->version >= 5 ? 2u * u->offset_size : 0;
    struct file f = {sections, sections, u, NULL, 0, NULL};
    struct cursor code = c;
    if (load_abbreviations(&f, take_uleb(&code))) {
        /* Bases first: other attributes of the root may need them, wherever they stand. */
        for (int pass = 0; pass < 2; pass++) {
            struct cursor again = c;
            const struct abbreviation *a = abbreviation_of(&f, take_uleb(&again));
            if (!a)
                break;
            root->tag = a->tag;
            root->children = a->children;
            EACH_ATTRIBUTE(&f, &again, a, name, v)
            {
                switch (name) {
                case AT_STR_OFFSETS_BASE:
                    u->str_offsets_base = v.number;
                    break;
                case AT_ADDR_BASE:
                case AT_GNU_ADDR_BASE:
                    u->addr_base = v.number;
                    break;
                case AT_RNGLISTS_BASE:
                    u->rnglists_base = v.number;
                    break;
                case AT_GNU_RANGES_BASE:
                    u->ranges_base = v.number;
                    break;
                case AT_LOW_PC:
                    u->low_pc = v.number;
                    root->low = v;
                    break;
                case AT_HIGH_PC:
                    root->high = v;
                    break;
                case AT_RANGES:
                    root->ranges = v;
                    break;
                case AT_STMT_LIST:
                    u->line = v.number;
                    u->has_line = true;
                    break;
                case AT_NAME:
                    u->name = v.text;
                    break;
                case AT_COMP_DIR:
                    u->directory = v.text;
                    break;
                case AT_DWO_NAME:
                case AT_GNU_DWO_NAME:
                    u->dwo_name = v.text;
                    break;
                case AT_GNU_DWO_ID:
                    u->split_id = v.number;
                    break;
                }
            }
        }
    }
    free(f.abbreviations);
    return true;
}

/* ---- ranges ---- */

struct wanted { /* ascending addresses, and what is noted of them */
    const uint64_t *addresses;
    size_t count;
    void (*use)(void *context, size_t first, size_t last);
    void *context;
    bool any;
};

static void note_range(struct wanted *w, uint64_t low, uint64_t high)
{
    size_t bounds[2];
    const uint64_t edges[2] = {low, high};
    if (low >= high || !low) /* a function that the linker left out begins at 0 */
        return;
    for (int n = 0; n < 2; n++) {
        size_t first = 0, last = w->count;
        while (first < last) {
            size_t middle = (first + last) / 2;
            if (w->addresses[middle] < edges[n])
                first = middle + 1;
            else
                last = middle;
        }
        bounds[n] = first;
    }
    if (bounds[0] < bounds[1]) {
        w->any = true;
        w->use(w->context, bounds[0], bounds[1]);
    }
}

static void note_rnglist(const struct file *f, const struct section *s, uint64_t offset, struct wanted *w)
{
    struct cursor c = from(s, offset);
    uint64_t base = f->unit->low_pc, low, high;
    while (!c.bad && !late()) {
        switch (take(&c, 1)) {
        case 0:
            return;
        case 1:
            base = indexed_address(f, take_uleb(&c));
            continue;
        case 2:
            low = indexed_address(f, take_uleb(&c));
            high = indexed_address(f, take_uleb(&c));
            break;
        case 3:
            low = indexed_address(f, take_uleb(&c));
            high = low + take_uleb(&c);
            break;
        case 4:
            low = base + take_uleb(&c);
            high = base + take_uleb(&c);
            break;
        case 5:
            base = take(&c, 8);
            continue;
        case 6:
            low = take(&c, 8);
            high = take(&c, 8);
            break;
        case 7:
            low = take(&c, 8);
            high = low + take_uleb(&c);
            break;
        default:
            return;
        }
        if (!c.bad)
            note_range(w, low, high);
    }
}

static void note_ranges(const struct file *f, const struct die *d, struct wanted *w)
{
    const struct unit *u = f->unit;
    if (d->ranges.present && u->version >= 5) {
        const struct section *s = &f->sections[RNGLISTS];
        uint64_t offset = d->ranges.number, base = u->rnglists_base;
        if (d->ranges.form == 0x23) {
            bool bad;
            if (offset > UINT32_MAX)
                return;
            if (!base && f->sections != f->main) /* a .dwo: its only table begins behind its head */
                base = 12;
            offset = base + word_at(s, base + offset * u->offset_size, u->offset_size, &bad);
            if (bad)
                return;
        }
        note_rnglist(f, s, offset, w);
    } else if (d->ranges.present) {
        struct cursor c = from(&f->main[RANGES], d->ranges.number + (f->sections != f->main ? u->ranges_base : 0));
        uint64_t base = u->low_pc;
        while (!c.bad && !late()) {
            uint64_t low = take(&c, 8), high = take(&c, 8);
            if (c.bad || (!low && !high))
                break;
            if (low == UINT64_MAX)
                base = high;
            else
                note_range(w, base + low, base + high);
        }
    } else if (d->low.present && d->high.present) {
        note_range(w, d->low.number, d->high.address ? d->high.number : d->low.number + d->high.number);
    }
}

static void note_owner(void *context, size_t first, size_t last)
{
    int64_t **state = context; /* owners, then the unit's offset */
    for (size_t n = first; n < last; n++)
        if (state[0][n] < 0)
            state[0][n] = *state[1];
}

/*
 * For each of the ascending addresses the offset of its unit, -1 where none has it; into `starts` where the units
 * begin, as many as there is room for. How many units there are until then.
 */
EXPORT size_t pinprof_dwarf_units(const struct section *sections, const uint64_t *addresses, size_t count,
    int64_t *owners, uint64_t *starts, size_t room, uint64_t until)
{
    uint64_t offset = 0;
    size_t units = 0;
    struct unit u;
    struct die root;
    limit_until(until);
    for (size_t n = 0; n < count; n++)
        owners[n] = -1;
    while (units < room && !late() && read_unit(sections, offset, &u, &root)) {
        int64_t at = (int64_t)offset, *state[2] = {owners, &at};
        struct wanted w = {addresses, count, note_owner, state, false};
        struct file f = {sections, sections, &u, NULL, 0, NULL};
        note_ranges(&f, &root, &w);
        starts[units++] = offset;
        offset = u.end;
    }
    return units;
}

/* Into `out` what a unit says of its split file: u64 id, directory and name, each ended by NUL; 0 where it has none. */
EXPORT size_t pinprof_dwarf_split(const struct section *sections, uint64_t offset, char *out, size_t room)
{
    struct unit u;
    struct die root;
    limit_until(UINT64_MAX);
    if (!read_unit(sections, offset, &u, &root) || !u.dwo_name || room < sizeof u.split_id)
        return 0;
    const char *parts[2] = {u.directory ? u.directory : "", u.dwo_name};
    size_t used = sizeof u.split_id;
    memcpy(out, &u.split_id, used);
    for (int n = 0; n < 2; n++) {
        size_t size = strlen(parts[n]) + 1;
        if (size > room - used)
            return 0;
        memcpy(out + used, parts[n], size);
        used += size;
    }
    return used;
}

/* ---- line numbers ---- */

struct path {
    const char *directory, *name;
};

struct lines {
    struct path *paths;
    size_t path_count;
    const char **directories;
    size_t directory_count;
    uint16_t version;
};

struct place {
    uint64_t file;
    uint32_t line;
};

static bool grow(void **items, size_t count, size_t each)
{
    if (count & (count - 1) || (count && count < 8))
        return true;
    void *more = realloc(*items, (count ? 2 * count : 8) * each);
    if (more)
        *items = more;
    return more;
}

static bool take_entries(const struct file *f, struct cursor *c, struct lines *l, bool files)
{
    struct cursor formats = *c;
    uint64_t kinds = take(c, 1);
    for (uint64_t n = 0; n < 2 * kinds; n++)
        take_uleb(c);
    uint64_t count = take_uleb(c);
    for (uint64_t n = 0; n < count && !c->bad; n++) {
        struct cursor each = formats;
        struct path path = {NULL, NULL};
        take(&each, 1);
        const uint8_t *before = c->at;
        for (uint64_t kind = 0; kind < kinds; kind++) {
            uint64_t content = take_uleb(&each), form = take_uleb(&each);
            struct value v = take_value(f, c, form, 0);
            if (content == 1)
                path.name = v.text;
            else if (content == 2 && v.number < l->directory_count)
                path.directory = l->directories[v.number];
        }
        if (c->at == before)
            return false;
        if (files) {
            if (!grow((void **)&l->paths, l->path_count, sizeof *l->paths))
                return false;
            l->paths[l->path_count++] = path;
        } else {
            if (!grow((void **)&l->directories, l->directory_count, sizeof *l->directories))
                return false;
            l->directories[l->directory_count++] = path.name;
        }
    }
    return !c->bad;
}

static bool take_old_entries(struct cursor *c, struct lines *l)
{
    /* Numbers begin with 1; directory 0 is the unit's, file 0 none. */
    if (!grow((void **)&l->directories, 0, sizeof *l->directories) || !grow((void **)&l->paths, 0, sizeof *l->paths))
        return false;
    l->directories[l->directory_count++] = NULL;
    l->paths[l->path_count++] = (struct path){NULL, NULL};
    for (const char *text; (text = take_text(c)) && *text;) {
        if (!grow((void **)&l->directories, l->directory_count, sizeof *l->directories))
            return false;
        l->directories[l->directory_count++] = text;
    }
    for (const char *text; (text = take_text(c)) && *text;) {
        uint64_t directory = take_uleb(c);
        take_uleb(c);
        take_uleb(c);
        if (!grow((void **)&l->paths, l->path_count, sizeof *l->paths))
            return false;
        l->paths[l->path_count++] =
            (struct path){directory < l->directory_count ? l->directories[directory] : NULL, text};
    }
    return !c->bad;
}

struct marks {
    struct place *places;
    struct place row;
};

static void note_place(void *context, size_t first, size_t last)
{
    struct marks *m = context;
    for (size_t n = first; n < last; n++)
        m->places[n] = m->row;
}

/* Run the unit's line program, and note for each wanted address where it lies; the table of its files. */
static bool run_lines(
    const struct file *f, struct lines *l, const uint64_t *addresses, size_t count, struct place *places)
{
    struct cursor c = from(&f->main[LINE], f->unit->line);
    uint64_t length = take(&c, 4);
    size_t offset_size = 4;
    if (length == 0xffffffff) {
        length = take(&c, 8);
        offset_size = 8;
    }
    if (c.bad || length > (uint64_t)(c.end - c.at))
        return false;
    c.end = c.at + length;
    l->version = (uint16_t)take(&c, 2);
    if (l->version < 2 || l->version > 5)
        return false;
    if (l->version >= 5)
        skip(&c, 2);
    uint64_t header = take(&c, offset_size);
    if (c.bad || header > (uint64_t)(c.end - c.at))
        return false;
    const uint8_t *program = c.at + header;
    uint64_t smallest = take(&c, 1);
    if (l->version >= 4)
        take(&c, 1);
    take(&c, 1); /* default_is_stmt */
    int64_t line_base = (int8_t)take(&c, 1);
    uint64_t line_range = take(&c, 1), opcode_base = take(&c, 1);
    uint8_t operands[256] = {0};
    for (uint64_t n = 1; n < opcode_base; n++)
        operands[n] = (uint8_t)take(&c, 1);
    if (c.bad || !line_range || !opcode_base)
        return false;
    bool good =
        l->version >= 5 ? take_entries(f, &c, l, false) && take_entries(f, &c, l, true) : take_old_entries(&c, l);
    if (!good)
        return false;
    c.at = program;
    struct marks m = {places, {1, 0}};
    struct wanted w = {addresses, count, note_place, &m, false};
    uint64_t address = 0, from_address = 0, file = 1;
    int64_t line = 1;
    bool open = false;
    while (c.at < c.end && !c.bad && !late()) {
        uint8_t op = (uint8_t)take(&c, 1);
        bool row = false, end = false;
        if (op >= opcode_base) {
            uint8_t adjusted = (uint8_t)(op - opcode_base);
            address += adjusted / line_range * smallest;
            line += line_base + adjusted % (int64_t)line_range;
            row = true;
        } else if (op == 0) {
            uint64_t size = take_uleb(&c);
            if (c.bad || size > (uint64_t)(c.end - c.at))
                break;
            const uint8_t *next = c.at + size;
            uint64_t kind = size ? take(&c, 1) : 0;
            if (kind == 1)
                row = end = true;
            else if (kind == 2)
                address = take(&c, size - 1 < 8 ? size - 1 : 8);
            c.at = next;
        } else {
            switch (op) {
            case 1:
                row = true;
                break;
            case 2:
                address += take_uleb(&c) * smallest;
                break;
            case 3:
                line += take_sleb(&c);
                break;
            case 4:
                file = take_uleb(&c);
                break;
            case 8:
                address += (255 - opcode_base) / line_range * smallest;
                break;
            case 9:
                address += take(&c, 2);
                break;
            default:
                for (int n = 0; n < operands[op]; n++)
                    take_uleb(&c);
            }
        }
        if (!row)
            continue;
        if (open)
            note_range(&w, from_address, address);
        m.row = (struct place){file, line > 0 && line < INT32_MAX ? (uint32_t)line : 0};
        from_address = address;
        open = !end;
        if (end) {
            address = 0;
            file = 1;
            line = 1;
        }
    }
    return true;
}

/* ---- functions ---- */

struct call {
    uint64_t die;
    uint64_t file;
    uint32_t line;
};

struct nest { /* outermost first */
    uint8_t count;
    struct call calls[MOST_INLINED];
};

struct nesting {
    struct nest *nests;
    struct call call;
    bool outermost;
};

static void note_call(void *context, size_t first, size_t last)
{
    struct nesting *s = context;
    for (size_t n = first; n < last; n++) {
        struct nest *nest = &s->nests[n];
        if (s->outermost)
            nest->count = 0; /* a function that two describe: the later one */
        if (nest->count < MOST_INLINED && (s->outermost || nest->count))
            nest->calls[nest->count++] = s->call;
    }
}

static void walk(const struct file *f, const uint64_t *addresses, size_t count, struct nest *nests)
{
    const struct section *info = &f->sections[INFO];
    struct cursor c = {info->bytes + f->unit->dies, info->bytes + f->unit->end, false, 0};
    struct nesting state = {nests, {0, 0, 0}, false};
    struct wanted w = {addresses, count, note_call, &state, false};
    struct die d;
    int64_t depth = 0;
    while (c.at < c.end && !late()) {
        uint64_t here = (uint64_t)(c.at - info->bytes);
        if (!take_die(f, &c, &d))
            return;
        if (!d.tag) {
            if (--depth <= 0)
                return;
            continue;
        }
        bool within = true;
        if (d.tag == TAG_SUBPROGRAM || d.tag == TAG_INLINED) {
            state.call = (struct call){here, d.call_file.number, (uint32_t)d.call_line.number};
            state.outermost = d.tag == TAG_SUBPROGRAM;
            w.any = false;
            note_ranges(f, &d, &w);
            within = w.any;
        } else if (d.tag == TAG_CLASS || d.tag == TAG_STRUCT || d.tag == TAG_UNION || d.tag == TAG_ENUM) {
            within = false; /* members are declared here, and defined elsewhere */
        }
        if (d.children && !within && d.sibling.reference) {
            uint64_t next = d.sibling.number + (d.sibling.section_reference ? 0 : f->unit->start);
            if (next > here && next < f->unit->end) {
                c.at = info->bytes + next;
                continue;
            }
        }
        depth += d.children;
        if (!depth)
            return;
    }
}

/* The unit that has the entry at `offset`: in the file's own table, of a split file by looking at one after another. */
static bool unit_around(const struct file *f, uint64_t offset, struct unit *u, struct die *root)
{
    uint64_t at = 0;
    if (f->sections == f->main) {
        size_t first = 0, last = f->starts->count;
        while (first < last) {
            size_t middle = (first + last) / 2;
            if (f->starts->offsets[middle] <= offset)
                first = middle + 1;
            else
                last = middle;
        }
        at = first ? f->starts->offsets[first - 1] : 0;
    }
    while (!late() && read_unit(f->sections, at, u, root)) {
        if (offset < u->end)
            return offset >= u->dies;
        if (f->sections == f->main)
            break;
        at = u->end;
    }
    return false;
}

static const char *name_of(const struct file *f, uint64_t offset, int depth)
{
    const struct section *info = &f->sections[INFO];
    struct die d;
    if (depth >= MOST_REFERENCES)
        return NULL;
    if (offset < f->unit->dies || offset >= f->unit->end) {
        struct unit u;
        struct die root;
        if (!unit_around(f, offset, &u, &root))
            return NULL;
        struct file other = {f->sections, f->main, &u, NULL, 0, f->starts};
        const char *name = load_abbreviations(&other, UINT64_MAX) ? name_of(&other, offset, depth + 1) : NULL;
        free(other.abbreviations);
        return name;
    }
    struct cursor c = {info->bytes + offset, info->bytes + f->unit->end, false, 0};
    if (!take_die(f, &c, &d) || !d.tag)
        return NULL;
    if (d.linkage.text)
        return d.linkage.text;
    const struct value *next = d.origin.reference ? &d.origin : &d.specification;
    const char *name = NULL;
    if (next->reference)
        name = name_of(f, next->number + (next->section_reference ? 0 : f->unit->start), depth + 1);
    return name ? name : d.name.text;
}

/* ---- answers ---- */

struct output {
    uint8_t *at, *end;
    bool full;
};

static void put(struct output *o, const void *bytes, size_t size)
{
    if (o->full || (size_t)(o->end - o->at) < size) {
        o->full = true;
        return;
    }
    memcpy(o->at, bytes, size);
    o->at += size;
}

static void put_text(struct output *o, const char *text)
{
    if (text)
        put(o, text, strlen(text));
}

static void put_path(struct output *o, const struct unit *u, const struct lines *l, uint64_t number)
{
    if (number < l->path_count && l->paths[number].name) {
        const struct path *p = &l->paths[number];
        if (p->name[0] != '/') {
            const char *directory = p->directory ? p->directory : u->directory;
            if (directory && directory[0] != '/' && u->directory) {
                put_text(o, u->directory);
                put(o, "/", 1);
            }
            if (directory) {
                put_text(o, directory);
                put(o, "/", 1);
            }
        }
        put_text(o, p->name);
    }
    put(o, "", 1);
}

static void put_frame(
    struct output *o, const struct unit *u, const struct lines *l, const char *name, uint64_t file, uint32_t line)
{
    put(o, &line, 4);
    put_text(o, name);
    put(o, "", 1);
    put_path(o, u, l, file);
}

/* The unit of a split file that belongs to a skeleton. */
static bool find_split(const struct section *dwo, uint64_t id, struct unit *u)
{
    struct die root;
    for (uint64_t at = 0; !late() && read_unit(dwo, at, u, &root); at = u->end)
        if (root.tag == TAG_COMPILE_UNIT && u->split_id == id)
            return true;
    return false;
}

/*
 * What the unit at `offset` says of ascending addresses that it has. Into `out`, per address: u32 frames, and for each
 * of them, innermost first, u32 line, function and path, each ended by NUL. The bytes written; 0 when the room is too
 * small, the unit unreadable, or the time over. `dwo` has the sections of its split file, or is NULL; `starts` is what
 * pinprof_dwarf_units told.
 */
EXPORT size_t pinprof_dwarf_lines(const struct section *sections, const struct section *dwo,
    const struct starts *starts, uint64_t offset, const uint64_t *addresses, size_t count, uint8_t *out, size_t room,
    uint64_t until)
{
    struct unit unit, split;
    struct die root;
    limit_until(until);
    if (!read_unit(sections, offset, &unit, &root))
        return 0;
    struct lines l = {0};
    struct place *places = calloc(count, sizeof *places);
    struct nest *nests = calloc(count, sizeof *nests);
    struct file main_file = {sections, sections, &unit, NULL, 0, starts}, f = main_file;
    if (dwo && find_split(dwo, unit.split_id, &split)) {
        split.addr_base = unit.addr_base;
        split.ranges_base = unit.ranges_base;
        split.low_pc = unit.low_pc;
        f = (struct file){dwo, sections, &split, NULL, 0, starts};
    }
    struct output o = {out, out + room, false};
    if (places && nests) {
        if (unit.has_line)
            run_lines(&main_file, &l, addresses, count, places);
        if (load_abbreviations(&f, UINT64_MAX))
            walk(&f, addresses, count, nests);
        for (size_t n = 0; n < count && !late(); n++) {
            const struct nest *nest = &nests[n];
            uint32_t frames = nest->count ? nest->count : places[n].line ? 1 : 0;
            put(&o, &frames, 4);
            uint64_t file = places[n].file;
            uint32_t line = places[n].line;
            for (uint32_t at = frames; at-- > 0;) {
                const char *name = nest->count ? name_of(&f, nest->calls[at].die, 0) : NULL;
                put_frame(&o, &unit, &l, name, file, line);
                if (nest->count) {
                    file = nest->calls[at].file;
                    line = nest->calls[at].line;
                }
            }
        }
    }
    free(f.abbreviations);
    free(places);
    free(nests);
    free(l.paths);
    free(l.directories);
    return o.full || limit.over ? 0 : (size_t)(o.at - out);
}
