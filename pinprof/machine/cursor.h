/*
 * A bounded reader of numbers as ELF and DWARF write them, for every C library here. What reaches beyond the end makes
 * the cursor bad, and reads as 0 from then on.
 */

#ifndef PINPROF_CURSOR_H
#define PINPROF_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct cursor {
    const uint8_t *at, *end;
    bool bad;
    uint64_t address; /* of `at` in the file's memory, for values relative to their own place */
};

static inline uint64_t take(struct cursor *c, size_t size)
{
    uint64_t value = 0;
    if (c->bad || (size_t)(c->end - c->at) < size) {
        c->bad = true;
        return 0;
    }
    memcpy(&value, c->at, size);
    c->at += size;
    c->address += size;
    return value;
}

static inline void skip(struct cursor *c, uint64_t size)
{
    if (c->bad || (uint64_t)(c->end - c->at) < size) {
        c->bad = true;
        return;
    }
    c->at += size;
    c->address += size;
}

static inline uint64_t take_uleb(struct cursor *c)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint64_t byte = take(c, 1);
        if (c->bad)
            return 0;
        if (shift < 64)
            value |= (byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
}

static inline int64_t take_sleb(struct cursor *c)
{
    uint64_t value = 0, byte;
    unsigned shift = 0;
    do {
        byte = take(c, 1);
        if (c->bad)
            return 0;
        if (shift < 64)
            value |= (byte & 0x7f) << shift;
        shift += 7;
    } while (byte & 0x80);
    if (shift < 64 && byte & 0x40)
        value |= ~0ull << shift;
    return (int64_t)value;
}

#endif
