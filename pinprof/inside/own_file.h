/* A file that a part of the agent writes for its process, `DIRECTORY/PID-TOKEN.bin`: a header, and chunks.
 *
 * It is mapped MAP_SHARED: what is written is in the page cache at once, whatever ends the process. Its blocks are
 * allocated before a part of it is mapped, because touching a page that the disk has no room for would be a SIGBUS in
 * somebody else's program.
 */
#ifndef PINPROF_OWN_FILE_H
#define PINPROF_OWN_FILE_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "The file is defined as little-endian."
#endif
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18 /* Linux 4.14, glibc 2.26 */
#endif

#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

enum { DIRECTORY_BYTES = 3072 };

/* CLOCK_MONOTONIC. */
static inline uint64_t nanoseconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* ---- The file ---- */

struct own_header {
    char magic[8];
    uint32_t version, pid;
    uint64_t token, parent; /* parent: token of the process that this one was forked from; 0 after exec */
    uint64_t opened_ns;
    _Atomic uint64_t lost; /* what was not recorded */
    uint32_t size;         /* of the whole header */
    _Atomic uint32_t stop; /* 0: it grows; 1: there is no room; 2: it has 1 GiB */
};
_Static_assert(sizeof(struct own_header) == 56, "layout");

/* What a process keeps of it; in a page that a forked child finds wiped, so that it never writes into its parent's. */
struct own_file {
    struct own_header *header; /* stays where it is: the next file's comes to lie there */
    int file;
    _Atomic uint64_t bytes;
    uint64_t device, inode;
};

#pragma GCC visibility push(hidden)

/* ---- Memory of the agent's own, which it does not note ---- */

/* `place`: what they come to lie over; NULL: anywhere. */
void *map_pages_at(void *place, size_t size, int flags, int file, uint64_t offset);
void *map_pages(size_t size, int flags, int file, uint64_t offset);
void unmap_pages(void *pages, size_t size);

/* ---- While the agent works for itself ---- */

struct held {
    pthread_mutex_t *lock;
    sigset_t signals;
    int cancel, error;
};

/* What a lock, fallocate and mmap need: no signal (a fast timer would interrupt fallocate for ever), no cancellation.
 * `lock` may be NULL, where that is all. */
void hold(struct held *held, pthread_mutex_t *lock);
void release(const struct held *held);
/* As the kernel does it: to the program's own calls the agent adds something. */
void mask_signals(int how, const sigset_t *set, sigset_t *before);

/* ---- Opening and growing; under a lock ---- */

/* A descriptor out of the way: the program's next one is the one that it would have been. */
int open_high(const char *directory, uint32_t pid, uint64_t token, int flags);
/* Whether a descriptor is still ours: a program may close all descriptors, and open its own by the same number. */
bool is_same_file(int file, uint64_t device, uint64_t inode);
bool is_still_open(const struct own_file *own);
/* Open the file of this process, and map its header: the first `size` bytes, and `more` behind them. False where there
 * is no room for it. `token`: of the ancestor's file, then of this one.
 */
bool open_own(struct own_file *own, const char *directory, uint64_t *token, struct own_header *header, size_t size,
    const void *more, size_t length);
/* Whether somebody keeps the last seconds alone of what is written, and gives the rest back to the file system. */
bool keeps_last_seconds(void);
/* Whether there may be `more` bytes: of `bytes` so far, or of what lies on the disk where old parts are given back. */
bool may_grow(int file, uint64_t bytes, uint64_t more, uint64_t largest);
/* A chunk of the file; NULL where there is none, and the header says why. `size` becomes that of whole pages. */
void *map_chunk(struct own_file *own, const char *directory, uint32_t *size, int flags);

#pragma GCC visibility pop

#endif
