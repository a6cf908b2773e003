/* The sampler's timers, one for each thread, and what the program does that concerns them: threads, forks, signals.
 *
 * The signal is one of the real-time signals that nobody handles. The program never sees it: it can't block it, so that
 * sigwait never finds it, and asks in vain what handles it. Where the program handles it itself, the sampler withdraws.
 *
 * Programs with ThreadSanitizer are left alone. Where it stands before the agent, its runtime is interrupted while it
 * holds locks that its own `pthread_mutex_lock` takes in the handler, and threads run `started` before it knows them;
 * where it stands behind the agent, it calls the handler late, when the stack is another one.
 */

enum { MOST_TIMERS = 4096, LEAST_STACK = 64 << 10, BUSY_WINDOW_NS = 100000000, MOST_SPREAD = 6 };

static _Atomic int timers[MOST_TIMERS];                                       /* a timer's number and one, by place */
static _Thread_local int my_timer __attribute__((tls_model("initial-exec"))); /* its place and one */

static int (*next_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static int (*next_mask)(int, const sigset_t *, sigset_t *), (*next_process_mask)(int, const sigset_t *, sigset_t *);
static int (*next_action)(int, const struct sigaction *, struct sigaction *);
static void (*(*next_signal)(int, void (*)(int)))(int);

static EARLY void find_next(void *pointer, const char *name)
{
    void *found;
    memcpy(&found, pointer, sizeof found);
    if (found)
        return;
    found = next_dlsym()(RTLD_NEXT, name);
    memcpy(pointer, &found, sizeof found);
}

/* What samples say of how many threads are busy. Where one of a team is interrupted, all others wait for it at their
 * next meeting. So together they have as many samples as one thread has, or half as many more.
 */
static struct {
    _Atomic word begin, used_ns; /* ticks; of all threads since */
    _Atomic unsigned spread;
} busy;

static struct timespec time_of(word ns)
{
    return (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

/* `used_ns`: of the thread, since the sample before. */
static void keep_to_rate(struct sampling *s, word used_ns, word now)
{
    word begin = atomic_load(&busy.begin), all_ns = atomic_fetch_add(&busy.used_ns, used_ns) + used_ns;
    double passed_ns = (double)(now - begin) / process->ticks_a_ns;
    unsigned spread = 0;
    if (now > begin && passed_ns > BUSY_WINDOW_NS && atomic_compare_exchange_strong(&busy.begin, &begin, now)) {
        while (spread < MOST_SPREAD && 2 * (double)all_ns > 3 * passed_ns * (1 << spread))
            spread++;
        atomic_store(&busy.used_ns, 0);
        atomic_store(&busy.spread, spread);
    }
    spread = atomic_load(&busy.spread);
    int timer = spread == s->spread || !my_timer ? 0 : atomic_load(&timers[my_timer - 1]);
    struct timespec period = time_of((word)sample_ns << spread);
    if (timer && !syscall(SYS_timer_settime, timer - 1, 0, &(struct itimerspec){period, period}, NULL))
        s->spread = spread;
}

/* Begin to sample the calling thread. Whoever withdraws meanwhile finds its timer at the place, or is found here; a
 * timer that is deleted there can't be set any more.
 */
static void begin_thread(void)
{
    int error = errno, timer, number = sample_signal;
    pid_t thread = (pid_t)syscall(SYS_gettid);
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = number};
    memcpy((char *)&event + offsetof(struct sigevent, _sigev_un), &thread, sizeof thread);
    if (number && !syscall(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, &event, &timer)) {
        word parts = sample_ns / tick_ns, part = mixed((word)thread, ticks()) % (parts ? parts : 1);
        struct itimerspec each = {time_of(sample_ns), time_of(part * tick_ns + 1)};
        int place = 0, mine = timer + 1;
        for (int none = 0; place < MOST_TIMERS && !atomic_compare_exchange_strong(&timers[place], &none, mine);)
            place++, none = 0;
        bool placed = place < MOST_TIMERS;
        if (placed && sample_signal == number && !syscall(SYS_timer_settime, timer, 0, &each, NULL))
            my_timer = place + 1;
        else if (!placed || atomic_compare_exchange_strong(&timers[place], &mine, 0))
            syscall(SYS_timer_delete, timer);
    }
    errno = error;
}

/* Timers outlive the threads that they count. */
static void end_thread(void)
{
    int timer = my_timer ? atomic_exchange(&timers[my_timer - 1], 0) : 0;
    if (timer)
        syscall(SYS_timer_delete, timer - 1);
    my_timer = 0;
}

static RARE void say_withdrawn(enum withdrawn why)
{
    struct held held;
    hold(&held, &process->lock);
    struct thread *t = process->generation && !atomic_load(&process->stopped) ? any_thread(1) : NULL;
    if (t)
        put_record(t, &(struct record){.kind = WITHDREW, .begin = ticks(), .result = (int32_t)why});
    release(&held);
}

static RARE void withdraw(void)
{
    const struct sigaction ignored = {.sa_handler = SIG_IGN};
    int number = sample_signal;
    sample_signal = 0;
    for (int place = 0; place < MOST_TIMERS; place++) {
        int timer = atomic_exchange(&timers[place], 0);
        if (timer)
            syscall(SYS_timer_delete, timer - 1);
    }
    next_action(number, &ignored, NULL); /* which takes away those that are on their way */
    say_withdrawn(HANDLED);
}

/* Forked processes have no timers. */
static void begin_child(void)
{
    memset((void *)timers, 0, sizeof timers);
    my_timer = 0;
    self = NULL;
    if (sample_signal)
        begin_thread();
}

struct start {
    void *(*routine)(void *);
    void *argument;
};

static void *started(void *given)
{
    struct start start = *(struct start *)given;
    unmap_pages(given, PAGE);
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, sample_signal);
    mask_signals(SIG_UNBLOCK, &ours, NULL);
    pthread_setspecific(at_thread_exit, &timers); /* so that the handler need not make room for it */
    begin_thread();
    return start.routine(start.argument);
}

EXPORTED EARLY int pthread_create(
    pthread_t *thread, const pthread_attr_t *attributes, void *(*routine)(void *), void *argument)
{
    find_next(&next_create, "pthread_create");
    size_t size = LEAST_STACK;
    if (!sample_signal || (attributes && (pthread_attr_getstacksize(attributes, &size) || size < LEAST_STACK)))
        return next_create(thread, attributes, routine, argument);
    struct start *start = map_pages(PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return next_create(thread, attributes, routine, argument);
    *start = (struct start){routine, argument};
    int result = next_create(thread, attributes, started, start);
    if (result)
        unmap_pages(start, PAGE);
    return result;
}

/* A mask as the program gives it, without the sampler's signal where it would be blocked. */
static EARLY const sigset_t *without_ours(int how, const sigset_t *set, sigset_t *changed)
{
    if (!sample_signal || !set || how == SIG_UNBLOCK || sigismember(set, sample_signal) != 1)
        return set;
    *changed = *set;
    sigdelset(changed, sample_signal);
    return changed;
}

EXPORTED EARLY int pthread_sigmask(int how, const sigset_t *set, sigset_t *before)
{
    sigset_t changed;
    find_next(&next_mask, "pthread_sigmask");
    return next_mask(how, without_ours(how, set, &changed), before);
}

EXPORTED EARLY int sigprocmask(int how, const sigset_t *set, sigset_t *before)
{
    sigset_t changed;
    find_next(&next_process_mask, "sigprocmask");
    return next_process_mask(how, without_ours(how, set, &changed), before);
}

EXPORTED EARLY int sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
    find_next(&next_action, "sigaction");
    if (!sample_signal || number != sample_signal)
        return next_action(number, action, before);
    if (before)
        *before = (struct sigaction){.sa_handler = SIG_DFL};
    if (!action || action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN)
        return 0;
    withdraw();
    return next_action(number, action, NULL);
}

EXPORTED EARLY void (*signal(int number, void (*handler)(int)))(int)
{
    find_next(&next_signal, "signal");
    if (!sample_signal || number != sample_signal)
        return next_signal(number, handler);
    if (handler != SIG_DFL && handler != SIG_IGN) {
        find_next(&next_action, "sigaction");
        withdraw();
        next_signal(number, handler);
    }
    return SIG_DFL;
}

/* `rate`: samples for each second of processor time, in decimal; NULL: none. */
static void begin_sampling(const char *rate)
{
    struct timespec tick;
    word wanted = rate ? number_in(&rate, 10) : 0;
    if (!wanted || wanted > 10000 || clock_getres(CLOCK_MONOTONIC_COARSE, &tick))
        return;
    if (next_dlsym()(RTLD_DEFAULT, "__tsan_init")) {
        if (seat())
            say_withdrawn(HELD_BACK);
        return;
    }
    tick_ns = (word)tick.tv_nsec;
    word period = 1000000000u / wanted;
    sample_ns = (uint32_t)((period + tick_ns / 2) / tick_ns * tick_ns);
    sample_ns = sample_ns < tick_ns ? (uint32_t)tick_ns : sample_ns;
    find_next(&next_action, "sigaction");
    struct sigaction action = {.sa_flags = SA_RESTART | SA_SIGINFO | SA_ONSTACK}, known;
    action.sa_sigaction = on_signal;
    sigfillset(&action.sa_mask);
    int number = SIGRTMAX - 1;
    while (number > SIGRTMIN && (next_action(number, NULL, &known) || known.sa_handler != SIG_DFL))
        number--;
    if (number <= SIGRTMIN || next_action(number, &action, NULL)) {
        sample_ns = 0;
        return;
    }
    sample_signal = number;
    at_start.thread = getrusage(RUSAGE_THREAD, &at_start.used) ? 0 : (pid_t)syscall(SYS_gettid);
    pthread_atfork(NULL, NULL, begin_child);
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, number);
    mask_signals(SIG_UNBLOCK, &ours, NULL);
    pthread_setspecific(at_thread_exit, &timers);
    begin_thread();
}
