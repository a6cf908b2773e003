/* Programs of C with nothing to gain in host memory: healthy.py records them. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Products of matrices that stay. */
static double matrix(void)
{
    enum { SIDE = 400 };
    double *a = malloc(SIDE * SIDE * 8), *b = malloc(SIDE * SIDE * 8), *c = malloc(SIDE * SIDE * 8), sum = 0;
    for (int at = 0; at < SIDE * SIDE; at++)
        a[at] = at % 7, b[at] = at % 5;
    for (int round = 0; round < 12; round++) {
        for (int i = 0; i < SIDE; i++)
            for (int j = 0; j < SIDE; j++) {
                double one = 0;
                for (int k = 0; k < SIDE; k++)
                    one += a[i * SIDE + k] * b[k * SIDE + j];
                c[i * SIDE + j] = one;
            }
        sum += c[round];
    }
    return sum;
}

static int by_value(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

/* Sorts numbers in one array. */
static double sort(void)
{
    enum { COUNT = 1 << 18 };
    uint32_t *values = malloc(COUNT * 4), next = 1;
    double sum = 0;
    for (int round = 0; round < 20; round++) {
        for (int at = 0; at < COUNT; at++)
            values[at] = next = next * 1664525u + 1013904223u;
        qsort(values, COUNT, 4, by_value);
        sum += values[COUNT / 2];
    }
    return sum;
}

struct node {
    struct node *next;
    uint64_t value;
};

/* Small blocks that malloc keeps: lists are made and dropped. */
static double lists(void)
{
    double sum = 0;
    for (int round = 0; round < 4000; round++) {
        struct node *first = NULL;
        for (uint64_t value = 0; value < 4000; value++) {
            struct node *made = malloc(sizeof *made);
            *made = (struct node){first, value};
            first = made;
        }
        while (first) {
            struct node *next = first->next;
            sum += first->value;
            free(first);
            first = next;
        }
    }
    return sum;
}

/* Counts in a table of 64 MiB that is made once. */
static double table(void)
{
    enum { SLOTS = 8 << 20 };
    uint64_t *slots = calloc(SLOTS, 8), next = 1;
    for (int number = 0; number < 40000000; number++) {
        next = next * 6364136223846793005u + 1442695040888963407u;
        slots[next >> 41 & (SLOTS - 1)]++;
    }
    return slots[77];
}

/* Writes a file and reads it through one buffer. */
static double stream(void)
{
    static unsigned char buffer[1 << 16];
    double sum = 0;
    FILE *file = tmpfile();
    for (int round = 0; round < 12; round++) {
        rewind(file);
        for (int at = 0; at < 1024; at++)
            memset(buffer, at & 255, sizeof buffer), fwrite(buffer, sizeof buffer, 1, file);
        rewind(file);
        while (fread(buffer, sizeof buffer, 1, file))
            for (size_t at = 0; at < sizeof buffer; at++)
                sum += buffer[at];
    }
    fclose(file);
    return sum;
}

int main(int count, char **words)
{
    static const struct {
        const char *name;
        double (*run)(void);
    } programs[] = {{"matrix", matrix}, {"sort", sort}, {"lists", lists}, {"table", table}, {"stream", stream}};
    for (size_t at = 0; count > 1 && at < sizeof programs / sizeof *programs; at++) {
        if (strcmp(words[1], programs[at].name))
            continue;
        struct timespec begun, ended;
        clock_gettime(CLOCK_MONOTONIC, &begun);
        double result = programs[at].run();
        clock_gettime(CLOCK_MONOTONIC, &ended);
        printf("seconds %.2f\n", ended.tv_sec - begun.tv_sec + (ended.tv_nsec - begun.tv_nsec) / 1e9);
        return result < 0;
    }
    return 2;
}
