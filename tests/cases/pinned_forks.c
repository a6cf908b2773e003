// Forks in every step, only to start another program, while 128 MiB are registered with io_uring: a fork copies them.
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
enum { SIZE = 128 << 20, STEPS = 12 };
static void pin(char *memory)
{
    struct io_uring_params parameters = {0};
    struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    struct iovec piece = {memory, SIZE};
    setrlimit(RLIMIT_MEMLOCK, &all);
    int ring = (int)syscall(__NR_io_uring_setup, 1, &parameters);
    if (ring < 0 || syscall(__NR_io_uring_register, ring, IORING_REGISTER_BUFFERS, &piece, 1)) {
        perror("io_uring");
        exit(77);
    }
}
int main(int argc, char **argv)
{
    int cured = argc > 1 && !strcmp(argv[1], "cured");
    struct timespec begun, ended;
    char *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, SIZE);
    pin(memory);
    if (cured)
        madvise(memory, SIZE, MADV_DONTFORK);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (int step = 0; step < STEPS; step++) {
        pid_t child = fork(); // GUILTY
        if (!child) {
            execl("/bin/true", "true", NULL);
            _exit(1);
        }
        waitpid(child, NULL, 0);
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    printf("seconds %f\n", ended.tv_sec - begun.tv_sec + (ended.tv_nsec - begun.tv_nsec) * 1e-9);
}
