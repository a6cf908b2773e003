/* Two callers of one deep function without frame pointers, and a function whose frame is larger than a small copy. */
#include <stdio.h>
#include <string.h>
#include <time.h>

volatile unsigned long sink;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

__attribute__((noinline)) void spin(double seconds)
{
    for (double end = now() + seconds; now() < end;)
        for (int i = 0; i < 20000; i++)
            sink = sink * 2862933555777941757UL + i;
    __asm__ volatile("");
}

__attribute__((noinline)) long descend(int depth, double seconds)
{
    char held[96];
    memset(held, depth, sizeof held);
    __asm__ volatile("" ::"r"(held) : "memory");
    if (depth == 0)
        spin(seconds);
    else
        sink += descend(depth - 1, seconds);
    __asm__ volatile("");
    return held[depth % 96];
}

__attribute__((noinline)) void large(double seconds)
{
    char held[12 << 10];
    memset(held, 1, sizeof held);
    __asm__ volatile("" ::"r"(held) : "memory");
    spin(seconds);
    sink += held[7];
}

__attribute__((noinline)) void request_a(void)
{
    descend(60, 0.006);
    __asm__ volatile("");
}
__attribute__((noinline)) void request_b(void)
{
    descend(60, 0.002);
    __asm__ volatile("");
}

int main(void)
{
    /* A host that takes the processor away takes samples with it, and yet that counts as CPU time: it costs the
       function of that moment no more than a hundredth of its time. */
    for (int n = 0; n < 100; n++) {
        request_a();
        request_b();
        large(0.002);
    }
    return 0;
}
