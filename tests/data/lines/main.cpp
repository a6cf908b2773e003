// Steps whose lines are known: marked `here:`. Each measures its own CPU time; the sums are printed as JSON.
#include "work.hpp"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

static double cpu_seconds()
{
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

static const size_t SIZE = 4 << 20;
static char *memory;
static volatile unsigned whole = 1;
static volatile double real = 1;
static std::vector<int> mixed(60000), numbers;

__attribute__((noinline)) static void spin_whole() { spin(whole, 1500000); }

__attribute__((noinline)) static void spin_real()
{
    spin(real, 600000);
    real = 1;
}

__attribute__((noinline)) static void sort_numbers()
{
    numbers = mixed;
    std::sort(numbers.begin(), numbers.end()); // here: sort
    asm volatile("" : : : "memory");
}

__attribute__((noinline)) static void fill_memory()
{
    fill(memory, SIZE);
    asm volatile("" : : : "memory");
}

int main(int, char **argv)
{
    memory = static_cast<char *>(malloc(SIZE));
    unsigned state = 1;
    for (int &number : mixed)
        number = state = state * 1664525 + 1013904223;
    void (*const steps[])() = {spin_whole, spin_real, sort_numbers, fill_memory};
    double spent[4] = {}, limit = atof(argv[1]);
    while (cpu_seconds() < limit)
        for (int n = 0; n < 4; n++) {
            double before = cpu_seconds();
            steps[n]();
            spent[n] += cpu_seconds() - before;
        }
    printf("{\"spin<unsigned int>\": %f, \"spin<double>\": %f, \"sort\": %f, \"fill\": %f}\n", spent[0], spent[1],
        spent[2], spent[3]);
    return 0;
}
