// Steps whose time goes into functions of libc that keep no frame pointer. Each step measures its own CPU time, and the
// program prints the sums as JSON. A secret lies on the stack all the while.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sys/mman.h>

static double cpu_seconds()
{
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

#define STEP extern "C" __attribute__((noinline)) void
#define KEEP(pointer) asm volatile("" : : "r"(pointer) : "memory")

static char *left, *right;
static const size_t SIZE = 8 << 20;

STEP set_fresh()
{
    char *fresh = static_cast<char *>(malloc(SIZE));
    memset(fresh, 1, SIZE);
    KEEP(fresh);
    free(fresh);
}

STEP copy_often()
{
    for (int n = 0; n < 3; n++) {
        memcpy(left, right, SIZE);
        KEEP(left);
    }
}

STEP malloc_churn()
{
    void *kept[200];
    for (int round = 0; round < 150; round++) {
        for (int n = 0; n < 200; n++)
            kept[n] = malloc(40 + n * 37 % 3000);
        for (int n = 0; n < 200; n++)
            free(kept[n]);
    }
    KEEP(kept);
}

STEP mmap_churn()
{
    for (int n = 0; n < 8; n++) {
        char *fresh =
            static_cast<char *>(mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        for (size_t at = 0; at < 1 << 20; at += 4096)
            fresh[at] = 1;
        munmap(fresh, 1 << 20);
    }
}

STEP compute()
{
    volatile double value = 1;
    for (int n = 0; n < 700000; n++)
        value = value * 1.0000001 + 0.1;
}

/* A host that takes the processor away from its machine takes samples with it, and yet that counts as CPU time. */
static double without_pause(double took, double *least)
{
    if (*least == 0 || took < *least)
        *least = took;
    return took < 4 * *least ? took : *least;
}

STEP all_steps(double *spent)
{
    static double least[5];
    void (*const steps[])() = {set_fresh, copy_often, malloc_churn, mmap_churn, compute};
    for (int n = 0; n < 5; n++) {
        double before = cpu_seconds();
        steps[n]();
        spent[n] += without_pause(cpu_seconds() - before, &least[n]);
    }
}

int main(int, char **argv)
{
    volatile char secret[256];
    for (size_t n = 0; n < sizeof secret; n++)
        secret[n] = "stack-secret-7f3a"[n % 17];
    left = static_cast<char *>(calloc(1, SIZE));
    right = static_cast<char *>(calloc(1, SIZE));
    memset(left, 1, SIZE);
    memset(right, 1, SIZE);
    double spent[5] = {}, limit = atof(argv[1]);
    while (cpu_seconds() < limit)
        all_steps(spent);
    printf("{\"set_fresh\": %f, \"copy_often\": %f, \"malloc_churn\": %f, \"mmap_churn\": %f, \"compute\": %f}\n",
        spent[0], spent[1], spent[2], spent[3], spent[4]);
    return secret[0] == 0;
}
