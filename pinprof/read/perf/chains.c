/*
 * The loops over every record, address and call chain of a perf.data file; the Python beside it does what each file,
 * each chunk and each event needs, and without this library the same, slowly.
 *
 * Memory is the caller's: a function that finds no more room for what is new says how far it came, and goes on there
 * when it is called again with more. What files say is checked here, or cannot lead out of the columns: positions and
 * sizes of records are, addresses and times are only compared.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { HEADER = 8, KINDS = 256, NONE = -1 };

/* What becomes of a record by its kind; as in stream.py. */
enum { HANDLED, SAMPLE, SWITCH, SKIPPED };

struct found {
    int32_t *samples, *switches; /* where they begin: room for one in 8 bytes */
    uint64_t sample_count, switch_count, walked;
};

/* Walk from the record at `position` to one that has to be handled, or is not whole; where that begins. */
EXPORT size_t pinprof_perf_walk(
    const uint8_t *bytes, size_t position, size_t end, const uint8_t *of_kind, struct found *found)
{
    while (position <= end && end - position >= HEADER) {
        uint32_t kind;
        uint16_t size;
        memcpy(&kind, bytes + position, sizeof kind);
        memcpy(&size, bytes + position + 6, sizeof size);
        int what = kind < KINDS ? of_kind[kind] : HANDLED;
        if (what == HANDLED || size < HEADER || size > end - position)
            break;
        if (what == SAMPLE)
            found->samples[found->sample_count++] = (int32_t)position;
        else if (what == SWITCH)
            found->switches[found->switch_count++] = (int32_t)position;
        found->walked++;
        position += size;
    }
    return position;
}

#define KERNEL_START (UINT64_C(1) << 63)
#define GUEST (KERNEL_START - 1)
#define MARKER(number) (-(uint64_t)(number))

enum { MARKERS = 4095, CONTEXT_KERNEL = 128, CONTEXT_USER = 512, CONTEXT_USER_DEFERRED = 640 };
enum mode { BY_VALUE, IN_KERNEL, IN_USER, IN_GUEST };

/*
 * The addresses of chains without markers, see addresses.py; how many there are. `length` becomes each chain's without
 * them, `later` and `cookies` have room for one of each word.
 */
EXPORT size_t pinprof_perf_addresses(const uint64_t *words, size_t count, const int64_t *first, int64_t *length,
    size_t chains, uint64_t *out, int64_t *later, uint64_t *cookies, uint64_t *later_count)
{
    size_t filled = 0;
    *later_count = 0;
    for (size_t chain = 0; chain < chains; chain++) {
        size_t before = filled, begin = (size_t)first[chain], size = (size_t)length[chain];
        if (begin > count || size > count - begin)
            size = 0;
        enum mode mode = BY_VALUE;
        bool is_cookie = false;
        for (size_t at = 0; at < size; at++) {
            uint64_t word = words[begin + at], entry = is_cookie ? MARKER(CONTEXT_USER) : word;
            is_cookie = word == MARKER(CONTEXT_USER_DEFERRED) && at + 1 < size;
            if (is_cookie) {
                later[*later_count] = (int64_t)chain;
                cookies[(*later_count)++] = words[begin + at + 1];
            }
            bool kernel = entry >= KERNEL_START;
            if (entry >= MARKER(MARKERS))
                mode = entry == MARKER(CONTEXT_KERNEL) ? IN_KERNEL : entry == MARKER(CONTEXT_USER) ? IN_USER : IN_GUEST;
            else if (mode == IN_GUEST)
                out[filled++] = GUEST;
            else if (mode == IN_USER)
                out[filled++] = kernel ? 0 : entry;
            else
                out[filled++] = mode == IN_KERNEL && !kernel ? KERNEL_START : entry;
        }
        length[chain] = (int64_t)(filled - before);
    }
    return filled;
}

/* Numbers of distinct things by their hash; `room` for at most half as many as there are slots. */
struct table {
    int32_t *slots;
    uint64_t *hashes; /* by number */
    uint64_t bits, room, count;
};

/* The first slot at or behind one that is free, or has this hash. */
static uint64_t probe(const struct table *t, uint64_t hash, uint64_t slot)
{
    uint64_t mask = (UINT64_C(1) << t->bits) - 1;
    for (;; slot++) {
        int32_t number = t->slots[slot & mask];
        if (number == NONE || t->hashes[number] == hash)
            return slot & mask;
    }
}

static uint64_t home(const struct table *t, uint64_t hash) { return hash >> (64 - t->bits); }

/* Enter everything into slots that are free. */
EXPORT void pinprof_perf_refill(struct table *t)
{
    uint64_t mask = (UINT64_C(1) << t->bits) - 1;
    for (uint64_t number = 0; number < t->count; number++) {
        uint64_t slot = home(t, t->hashes[number]);
        while (t->slots[slot] != NONE)
            slot = (slot + 1) & mask;
        t->slots[slot] = (int32_t)number;
    }
}

static uint64_t mixed(uint64_t hash, uint64_t value, uint64_t factor)
{
    hash = (hash ^ value) * factor;
    return hash ^ hash >> 32;
}

/* mappings.SpaceTable */
struct spaces {
    const uint64_t *first, *last;
    const int32_t *owner;
    const uint64_t *start, *end, *shift;
    const int32_t *dso;
    const uint8_t *by_process;
    uint64_t versions;
};

enum { NO_DSO = -1, KERNEL_DSO = -2, OWNER_SHIFT = 1, DSO_SHIFT = 33, CACHE_BITS = 14 };

struct places {
    struct table *table;
    uint64_t *kinds, *offsets; /* by number, see chains.py */
    uint64_t *cache;           /* pairs of an address and its space with its number */
    uint64_t factor;
};

/* The number of a place; there is room for one more. */
static int32_t number_of(struct places *p, uint64_t kind, uint64_t offset)
{
    struct table *t = p->table;
    uint64_t hash = mixed(mixed(0, offset, p->factor), kind, p->factor) * p->factor;
    uint64_t slot = probe(t, hash, home(t, hash));
    for (int32_t number; (number = t->slots[slot]) != NONE; slot = probe(t, hash, slot + 1))
        if (p->kinds[number] == kind && p->offsets[number] == offset)
            return number;
    t->hashes[t->count] = hash;
    p->kinds[t->count] = kind;
    p->offsets[t->count] = offset;
    return t->slots[slot] = (int32_t)t->count++;
}

/* The number of each of some places, for which there is room. */
EXPORT void pinprof_perf_numbers(
    struct places *p, const uint64_t *kinds, const uint64_t *offsets, size_t count, int32_t *numbers)
{
    for (size_t at = 0; at < count; at++)
        numbers[at] = number_of(p, kinds[at], offsets[at]);
}

/* What an address of a program means in one version of its address space. */
static int32_t located(struct places *p, const struct spaces *s, uint64_t address, uint32_t version, bool leaf)
{
    uint64_t low = s->first[version], high = s->last[version], end = high;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (s->end[middle] <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (address == GUEST || low >= end || s->start[low] > address)
        return number_of(p, (uint64_t)(NO_DSO - KERNEL_DSO) << DSO_SHIFT, address == GUEST ? GUEST : 0);
    int32_t dso = s->dso[low];
    uint64_t owner = s->by_process[dso] ? (uint32_t)s->owner[version] : 0;
    uint64_t kind = (uint64_t)(dso - KERNEL_DSO) << DSO_SHIFT | owner << OWNER_SHIFT | leaf;
    return number_of(p, kind, address + s->shift[low]);
}

/*
 * The place of each address of chains, whose lengths come to the number of addresses. How many chains are done: those
 * behind need more room, which is that for as many places as a chain has addresses.
 */
EXPORT size_t pinprof_perf_places(struct places *p, const struct spaces *s, const uint64_t *entries,
    const int32_t *length, const int32_t *version, size_t chains, int32_t *flat)
{
    for (size_t chain = 0; chain < chains; chain++) {
        uint32_t count = (uint32_t)length[chain], space = (uint32_t)version[chain];
        if (p->table->count + count > p->table->room)
            return chain;
        space = space < s->versions ? space : 0;
        bool innermost = true; /* of the program */
        for (uint32_t at = 0; at < count; at++) {
            uint64_t address = *entries++;
            bool kernel = address >= KERNEL_START, leaf = innermost && !kernel;
            innermost = innermost && kernel;
            uint32_t tag = kernel ? UINT32_MAX : space << 1 | leaf;
            uint64_t *cached = p->cache + 2 * (mixed(address, tag, UINT64_C(0x9E3779B97F4A7C15)) >> (64 - CACHE_BITS));
            if (cached[0] != address || cached[1] >> 32 != tag) {
                int32_t number = kernel ? number_of(p, 0, address) : located(p, s, address, space, leaf);
                cached[0] = address;
                cached[1] = (uint64_t)tag << 32 | (uint32_t)number;
            }
            *flat++ = (int32_t)cached[1];
        }
    }
    return chains;
}

struct sequences {
    struct table *table;
    int32_t *flat, *length; /* all end to end */
    int64_t *start;
    uint64_t filled, flat_room, factor;
};

static uint64_t hash_of(const int32_t *flat, uint32_t size, uint64_t factor)
{
    uint64_t hash = size;
    for (; size > 1; size -= 2, flat += 2) {
        uint64_t two;
        memcpy(&two, flat, sizeof two);
        hash = mixed(hash, two, factor);
    }
    return mixed(hash, size ? (uint32_t)*flat : 0, factor) * factor;
}

/* The number of one sequence; false where there is no room for it. */
static bool number_sequence(struct sequences *s, const int32_t *flat, uint32_t size, uint64_t hash, int32_t *number)
{
    struct table *t = s->table;
    uint64_t slot = probe(t, hash, home(t, hash));
    for (; (*number = t->slots[slot]) != NONE; slot = probe(t, hash, slot + 1))
        if ((uint32_t)s->length[*number] == size && !memcmp(s->flat + s->start[*number], flat, size * sizeof *flat))
            return true;
    if (t->count == t->room || size > s->flat_room - s->filled)
        return false;
    *number = t->slots[slot] = (int32_t)t->count++;
    t->hashes[*number] = hash;
    memcpy(s->flat + s->filled, flat, size * sizeof *flat);
    s->start[*number] = (int64_t)s->filled;
    s->length[*number] = (int32_t)size;
    s->filled += size;
    return true;
}

enum { AHEAD = 32 };

/*
 * The number of each of some sequences, none of which is empty. How many are done: those behind need more room.
 *
 * What is kept lies far apart, so that some sequences ahead are looked up first, each step of it for all of them.
 */
EXPORT size_t pinprof_perf_sequences(
    struct sequences *s, const int32_t *flat, const int32_t *length, size_t count, int32_t *numbers)
{
    struct table *t = s->table;
    for (size_t done = 0; done < count;) {
        size_t block = count - done < AHEAD ? count - done : AHEAD;
        uint64_t hashes[AHEAD];
        const int32_t *ahead = flat;
        for (size_t at = 0; at < block; at++) {
            hashes[at] = hash_of(ahead, (uint32_t)length[done + at], s->factor);
            ahead += (uint32_t)length[done + at];
            __builtin_prefetch(&t->slots[home(t, hashes[at])]);
        }
        for (size_t at = 0; at < block; at++) {
            int32_t likely = t->slots[home(t, hashes[at])];
            if (likely != NONE) {
                __builtin_prefetch(&t->hashes[likely]);
                __builtin_prefetch(&s->start[likely]);
                __builtin_prefetch(&s->length[likely]);
            }
        }
        for (size_t at = 0; at < block; at++) {
            int32_t likely = t->slots[home(t, hashes[at])];
            if (likely != NONE)
                __builtin_prefetch(&s->flat[s->start[likely]]);
        }
        for (size_t at = 0; at < block; at++, done++) {
            uint32_t size = (uint32_t)length[done];
            if (!number_sequence(s, flat, size, hashes[at], &numbers[done]))
                return done;
            flat += size;
        }
    }
    return count;
}
