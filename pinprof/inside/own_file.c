#define _GNU_SOURCE
#include "own_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LARGEST_FILE ((uint64_t)1 << 30)
#define LARGEST_KEPT ((uint64_t)1 << 28) /* whoever keeps the last seconds has less room for them together */
enum stop { RUNNING, NO_ROOM, LIMIT };

void *map_pages_at(void *place, size_t size, int flags, int file, uint64_t offset)
{
    flags |= place ? MAP_FIXED : 0;
    return (void *)syscall(SYS_mmap, place, size, PROT_READ | PROT_WRITE, flags, file, (off_t)offset);
}

void *map_pages(size_t size, int flags, int file, uint64_t offset)
{
    return map_pages_at(NULL, size, flags, file, offset);
}

void unmap_pages(void *pages, size_t size) { syscall(SYS_munmap, pages, size); }

void mask_signals(int how, const sigset_t *set, sigset_t *before) { syscall(SYS_rt_sigprocmask, how, set, before, 8); }

void hold(struct held *held, pthread_mutex_t *lock)
{
    held->error = errno;
    held->lock = lock;
    sigset_t all;
    memset(&all, 0xFF, sizeof all); /* also what cancels, which glibc 2.36 does though it is disabled by then */
    mask_signals(SIG_BLOCK, &all, &held->signals);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &held->cancel);
    if (lock)
        pthread_mutex_lock(lock);
}

void release(const struct held *held)
{
    if (held->lock)
        pthread_mutex_unlock(held->lock);
    mask_signals(SIG_SETMASK, &held->signals, NULL);
    pthread_setcancelstate(held->cancel, NULL);
    errno = held->error;
}

/* Below 64: for a larger table of descriptors, the kernel makes a program with threads wait for all processors. */
#define HIGH_FILE 48

/* Blocks for a part of a file, or false; never a signal. */
static bool reserve(int file, uint64_t offset, uint64_t size)
{
    static const char zeros[4096];
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && offset + size > limit.rlim_cur)
        return false; /* would be SIGXFSZ */
    int result;
    do
        result = fallocate(file, 0, (off_t)offset, (off_t)size);
    while (result < 0 && errno == EINTR);
    if (result == 0)
        return true;
    if (errno != EOPNOTSUPP && errno != ENOSYS)
        return false;
    for (uint64_t done = 0; done < size; done += sizeof zeros)
        if (pwrite(file, zeros, sizeof zeros, (off_t)(offset + done)) != (ssize_t)sizeof zeros)
            return false;
    return true;
}

int open_high(const char *directory, uint32_t pid, uint64_t token, int flags)
{
    char path[DIRECTORY_BYTES + 64];
    snprintf(path, sizeof path, "%s/%u-%016llx.bin", directory, pid, (unsigned long long)token);
    int file = open(path, flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
    int high = file < 0 ? -1 : fcntl(file, F_DUPFD_CLOEXEC, HIGH_FILE);
    if (high < 0)
        return file;
    close(file);
    return high;
}

bool is_same_file(int file, uint64_t device, uint64_t inode)
{
    struct stat status;
    return file >= 0 && fstat(file, &status) == 0 && status.st_dev == device && status.st_ino == inode;
}

bool is_still_open(const struct own_file *own) { return is_same_file(own->file, own->device, own->inode); }

bool open_own(struct own_file *own, const char *directory, uint64_t *token, struct own_header *header, size_t size,
    const void *more, size_t length)
{
    uint32_t page = (uint32_t)sysconf(_SC_PAGESIZE);
    header->pid = (uint32_t)getpid();
    header->size = page;
    header->parent = *token;
    /* Unique among processes that share a pid one after another, and in different PID namespaces. */
    header->token = header->opened_ns ^ (uint64_t)getpid() << 40 ^ (uint64_t)(uintptr_t)header << 20;
    int file = own->file = open_high(directory, header->pid, header->token, O_CREAT | O_EXCL);
    struct stat status;
    if (file >= 0 && fstat(file, &status) == 0 && reserve(file, 0, page)) {
        own->device = status.st_dev;
        own->inode = status.st_ino;
        char *mapped = map_pages_at(own->header, page, MAP_SHARED, file, 0);
        if (mapped != MAP_FAILED) {
            memcpy(mapped + size, more, length);
            memcpy(mapped, header, size);
            *token = header->token;
            own->header = (struct own_header *)mapped;
            own->bytes = page;
            return true;
        }
        own->header = NULL;
    }
    if (file >= 0)
        close(file); /* an empty file says that there was no room */
    own->file = -1;
    return false;
}

/* Open the file again where the program has closed it, if it is still the same. */
static bool reopened(struct own_file *own, const char *directory)
{
    if (is_still_open(own))
        return true;
    own->file = open_high(directory, own->header->pid, own->header->token, 0);
    if (is_still_open(own))
        return true;
    if (own->file >= 0)
        close(own->file);
    own->file = -1;
    return false;
}

bool keeps_last_seconds(void)
{
    static atomic_int known;
    if (!atomic_load_explicit(&known, memory_order_relaxed))
        atomic_store_explicit(&known, secure_getenv("PINPROF_RING") ? 1 : -1, memory_order_relaxed);
    return atomic_load_explicit(&known, memory_order_relaxed) > 0;
}

bool may_grow(int file, uint64_t bytes, uint64_t more, uint64_t largest)
{
    struct stat status;
    if (!keeps_last_seconds() || fstat(file, &status))
        return bytes + more <= largest;
    return (uint64_t)status.st_blocks * 512 + more <= LARGEST_KEPT;
}

void *map_chunk(struct own_file *own, const char *directory, uint32_t *size, int flags)
{
    uint32_t page = own->header->size;
    *size = (*size + page - 1) / page * page;
    enum stop reason = NO_ROOM;
    if (reopened(own, directory)) {
        if (!may_grow(own->file, own->bytes, *size, LARGEST_FILE)) {
            reason = LIMIT;
        } else if (reserve(own->file, own->bytes, *size)) {
            void *chunk = map_pages(*size, MAP_SHARED | flags, own->file, own->bytes);
            if (chunk != MAP_FAILED) {
                own->bytes += *size;
                return chunk;
            }
        }
    }
    atomic_store(&own->header->stop, reason);
    return NULL;
}
