/* What `pinprof try` has the agent do otherwise, in place of what the program asks for: cures.c says in which
 * processes, cure_memory.c and cure_cuda.c do it. Everything here is off without PINPROF_TRY_MEMORY and
 * PINPROF_TRY_CUDA.
 */

#ifndef PINPROF_INSIDE_CURES_H
#define PINPROF_INSIDE_CURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* ---- cures.c ---- */

/* Find out what to do in this process; whether it is anything. */
bool cures_begin(void);
/* Whether a list of words separated by commas holds one. */
bool cures_word(const char *list, const char *word);
/* Say that a cure did something, once. */
void cures_acted(void);
/* Say a line. */
void cures_say(const char *line);

/* ---- cure_memory.c: large blocks of the allocator, and mapped files ---- */

struct cured {
    char *start, *end; /* where large blocks lie; NULL where none is made */
    bool files;        /* mappings of files change */
};
extern struct cured cured;

void cure_memory(const char *words);

static inline __attribute__((no_sanitize("address", "thread", "undefined"))) bool is_cured(const void *p)
{
    return (const char *)p >= cured.start && (const char *)p < cured.end;
}

/* A block for so many bytes, all zero if asked; NULL where the next allocator has to do it. */
void *cured_block(size_t size, bool zero);
/* The same at a multiple of `alignment`. */
void *cured_aligned(size_t alignment, size_t size);
/* What is usable of a block. */
size_t cured_room(const void *p);
void cured_free(void *p);
/* The flags of mmap, so that what may be is mapped at once. */
int cured_mapping(size_t length, int protection, int flags, int file);
/* Whether an address lies in a block in use: where that begins, and how long it is. */
bool cured_block_at(const void *p, void **start, size_t *size);
/* From now on the pages of a block stay, or need no longer. */
void cured_pages_stay(void *start, bool stay);

/* ---- cure_cuda.c: functions of CUDA's driver ---- */

/* A call: its arguments as the registers have them, so that of 32 bits the upper half is anything. */
struct cured_call {
    const uint64_t *arguments;
    int stream;      /* the place of its stream; -1: it has none, so it waits for what it does */
    bool per_thread; /* the default stream is the thread's */
};

/* Do a call in the place of the driver; false where the driver has to. */
typedef bool (*cure)(const struct cured_call *call, int *result);

void cure_cuda(const char *words);
/* The cure that stands before a function, by its plain name; NULL for none. */
cure cure_of(const char *name, size_t length);

/* ---- agent.c ---- */

/* The driver's own function; NULL where it has none. */
void *pinprof_inside_driver(const char *name);

#pragma GCC visibility pop

#endif
