/* The file that a library inside the recorded program writes for its process, `DIRECTORY/PID-TOKEN.bin`.
 *
 * Its blocks are allocated before a part of it is mapped, because touching a page that the disk has no room for would
 * be a SIGBUS in somebody else's program.
 */
#ifndef PINPROF_OWN_FILE_H
#define PINPROF_OWN_FILE_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIRECTORY_BYTES = 3072 };

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

/* A descriptor out of the way: the program's next one is the one that it would have been. */
static int open_high(const char *directory, uint32_t pid, uint64_t token, int flags)
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

/* Whether a descriptor is still ours: a program may close all descriptors, and open its own by the same number. */
static bool is_same_file(int file, uint64_t device, uint64_t inode)
{
    struct stat status;
    return file >= 0 && fstat(file, &status) == 0 && status.st_dev == device && status.st_ino == inode;
}

/* Open the file again, if it is still the same; -1 where it is not. */
static int open_same(const char *directory, uint32_t pid, uint64_t token, uint64_t device, uint64_t inode)
{
    int file = open_high(directory, pid, token, 0);
    if (is_same_file(file, device, inode))
        return file;
    if (file >= 0)
        close(file);
    return -1;
}

#endif
