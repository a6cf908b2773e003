/* What a program says of itself: a line of JSON in the file that MEASURE_RESULT names. */
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long long now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void say(long long begun_ns, long long calls, long long calls_ns)
{
    const char *path = getenv("MEASURE_RESULT");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file)
        return;
    fprintf(file, "{\"whole_ns\": %lld, \"calls\": %lld, \"calls_ns\": %lld}\n", now_ns() - begun_ns, calls, calls_ns);
    fclose(file);
}
