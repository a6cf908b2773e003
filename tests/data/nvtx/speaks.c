/* Says things through NVTX v3; the first argument names what. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static nvtxEventAttributes_t event(int type, const void *text, uint32_t category)
{
    nvtxEventAttributes_t event = {.version = NVTX_VERSION, .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE};
    event.category = category;
    event.messageType = type;
    event.message.ascii = text;
    return event;
}

static void every_function(void)
{
    nvtxDomainHandle_t domain = nvtxDomainCreateA("plain"), wide = nvtxDomainCreateW(L"größe");
    nvtxStringHandle_t string = nvtxDomainRegisterStringA(domain, "registered"),
                       wide_string = nvtxDomainRegisterStringW(wide, L"registriert \u2192 \U0001F600");
    nvtxNameCategoryA(1, "first");
    nvtxNameCategoryW(2, L"zweite");
    nvtxDomainNameCategoryA(domain, 1, "its own");
    nvtxDomainNameCategoryW(wide, 1, L"eigene");
    nvtxNameOsThreadA((uint32_t)syscall(SYS_gettid), "speaker");
    nvtxNameOsThreadW(1, L"fädchen");
    nvtxEventAttributes_t ascii = event(NVTX_MESSAGE_TYPE_ASCII, "ex", 1),
                          unicode = event(NVTX_MESSAGE_TYPE_UNICODE, L"wide ex", 2),
                          registered = event(NVTX_MESSAGE_TYPE_REGISTERED, string, 1),
                          registered_wide = event(NVTX_MESSAGE_TYPE_REGISTERED, wide_string, 1),
                          nameless = event(NVTX_MESSAGE_UNKNOWN, NULL, 7);
    nvtxRangePushA("a");
    nvtxRangePushW(L"w");
    nvtxRangePushEx(&ascii);
    nvtxRangePushEx(&unicode);
    nvtxDomainRangePushEx(domain, &registered);
    nvtxDomainRangePushEx(wide, &registered_wide);
    nvtxDomainRangePushEx(domain, &nameless);
    nvtxMarkA("mark a");
    nvtxMarkW(L"mark w");
    nvtxMarkEx(&ascii);
    nvtxDomainMarkEx(domain, &registered);
    nvtxDomainRangePop(domain);
    nvtxDomainRangePop(wide);
    nvtxDomainRangePop(domain);
    for (int i = 0; i < 4; i++)
        nvtxRangePop();
    nvtxRangeId_t ids[] = {nvtxRangeStartA("start a"), nvtxRangeStartW(L"start w"), nvtxRangeStartEx(&ascii)};
    nvtxRangeId_t own = nvtxDomainRangeStartEx(domain, &registered);
    for (int i = 0; i < 3; i++)
        nvtxRangeEnd(ids[i]);
    nvtxDomainRangeEnd(domain, own);
    nvtxDomainDestroy(domain);
    nvtxRangePushA(NULL);
    nvtxRangePop();
    nvtxDomainRangePushEx(NULL, NULL);
    nvtxDomainRangePop(NULL);
    nvtxDomainRangePushEx((nvtxDomainHandle_t)0xDEAD, &ascii); /* a handle that nobody gave */
    nvtxDomainRangePop((nvtxDomainHandle_t)0xDEAD);
}

static void *one_thread(void *number)
{
    char name[32];
    snprintf(name, sizeof name, "thread %ld", (long)number);
    nvtxRangePushA(name);
    nvtxRangePushA("inner");
    nvtxRangePop();
    nvtxRangePop();
    return NULL;
}

static void threads(int rounds, int at_once)
{
    for (long round = 0; round < rounds; round++) {
        pthread_t started[64];
        for (long i = 0; i < at_once; i++)
            pthread_create(&started[i], NULL, one_thread, (void *)(round * at_once + i));
        for (int i = 0; i < at_once; i++)
            pthread_join(started[i], NULL);
    }
}

static void child(const char *name, nvtxDomainHandle_t domain, nvtxStringHandle_t string)
{
    nvtxEventAttributes_t inherited = event(NVTX_MESSAGE_TYPE_REGISTERED, string, 3);
    nvtxDomainRangePushEx(domain, &inherited);
    nvtxRangePushA(name);
    nvtxRangePop();
    nvtxDomainRangePop(domain);
    nvtxRangePop(); /* its parent's */
}

static void forks(void)
{
    nvtxDomainHandle_t domain = nvtxDomainCreateA("parent's domain");
    nvtxStringHandle_t string = nvtxDomainRegisterStringA(domain, "parent's string");
    nvtxDomainNameCategoryA(domain, 3, "parent's category");
    nvtxRangePushA("parent");
    if (fork() == 0) {
        child("child", domain, string);
        if (fork() == 0)
            child("grandchild", domain, string);
        else
            wait(NULL);
        _exit(0);
    }
    wait(NULL);
    if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0) { /* a fork that libc knows nothing of */
        child("cloned", domain, string);
        _exit(0);
    }
    wait(NULL);
    nvtxRangePop();
}

static void loop(int count)
{
    for (int i = 0; i < count; i++) {
        nvtxRangePushA("loop");
        nvtxRangePop();
    }
}

/* A daemon's habit: closes every descriptor, and its next file may get the number of one of ours. */
static void closes_files(const char *path)
{
    loop(10);
    closefrom(3);
    int file = -1;
    for (int i = 3; i < 600; i++)
        file = open(path, O_RDWR | O_CREAT, 0600);
    if (write(file, "mine", 4) != 4)
        exit(2);
    loop(5000);
}

static void in_handler(int number)
{
    (void)number;
    nvtxMarkA("signal");
}

static void signals(void)
{
    loop(1); /* NVTX itself waits for ever in a handler that interrupts its first call */
    signal(SIGALRM, in_handler);
    struct itimerval often = {{0, 200}, {0, 200}};
    setitimer(ITIMER_REAL, &often, NULL);
    loop(200000);
}

static void domains(int count)
{
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "domain %d", i);
        nvtxDomainHandle_t domain = nvtxDomainCreateA(name);
        nvtxEventAttributes_t ascii = event(NVTX_MESSAGE_TYPE_ASCII, "in it", 0);
        nvtxDomainRangePushEx(domain, &ascii);
        nvtxDomainRangePop(domain);
    }
}

static void long_texts(void)
{
    static char text[100001];
    static wchar_t wide[100001];
    for (int i = 0; i < 100000; i++) {
        text[i] = "\xc3\xa9"[i & 1];
        wide[i] = L'é';
    }
    nvtxRangePushA(text);
    nvtxRangePushW(wide);
    nvtxRangePushA("\xff\xfe<script>\n\x1b[31m");
    nvtxRangePushA("");
    for (int i = 0; i < 4; i++)
        nvtxRangePop();
}

static double per_event(void)
{
    double best = 1e9;
    for (int round = 0; round < 20; round++) {
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        loop(50000);
        clock_gettime(CLOCK_MONOTONIC, &b);
        double each = ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / 100000;
        best = each < best ? each : best;
    }
    return best;
}

int main(int count, char **given)
{
    const char *what = count > 1 ? given[1] : "";
    if (!strcmp(what, "every"))
        every_function();
    else if (!strcmp(what, "threads"))
        threads(50, 8);
    else if (!strcmp(what, "fork"))
        forks();
    else if (!strcmp(what, "exec")) {
        nvtxRangePushA("before");
        execl("/proc/self/exe", given[0], "loop", (char *)NULL);
    } else if (!strcmp(what, "loop"))
        loop(10000);
    else if (!strcmp(what, "kill")) {
        loop(1000);
        nvtxRangePushA("open");
        nvtxMarkA("last");
        raise(SIGKILL);
    } else if (!strcmp(what, "close"))
        closes_files(given[2]);
    else if (!strcmp(what, "signals"))
        signals();
    else if (!strcmp(what, "domains"))
        domains(10000);
    else if (!strcmp(what, "long"))
        long_texts();
    else if (!strcmp(what, "unbalanced"))
        for (int i = 0; i < 1000; i++)
            i % 3 ? nvtxRangePushA("never popped") : nvtxRangePop();
    else if (!strcmp(what, "limit")) {
        struct rlimit limit = {40 << 10, 40 << 10};
        setrlimit(RLIMIT_FSIZE, &limit);
        loop(10000);
    } else if (!strcmp(what, "errno")) {
        errno = 1234;
        int next = dup(0);
        close(next);
        loop(1000);
        int after = dup(0);
        printf("%d %d\n", errno, after - next);
    } else if (!strcmp(what, "time"))
        printf("%.1f\n", per_event());
    return 0;
}
