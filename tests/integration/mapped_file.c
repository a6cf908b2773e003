// Touches every page of a mapped file that does not lie in memory: mapped_file FILE PASSES [random]
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static unsigned long touched(const unsigned char *memory, size_t size)
{
    unsigned long total = 0;
    for (size_t at = 0; at < size; at += 4096)
        total += memory[at]; // GUILTY
    return total;
}

int main(int argc, char **argv)
{
    struct stat status;
    int file = argc > 2 ? open(argv[1], O_RDONLY) : -1;
    if (file < 0 || fstat(file, &status))
        return 1;
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    unsigned char *memory = mmap(NULL, status.st_size, PROT_READ, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
        return 1;
    if (argc > 3)
        madvise(memory, status.st_size, MADV_RANDOM);
    unsigned long total = 0;
    for (int pass = 0; pass < atoi(argv[2]); pass++)
        total += touched(memory, status.st_size);
    printf("%lu\n", total);
    return 0;
}
