/* Where threads wait for others, in recordings in which the kernel does not tell it: for processes, locks, pipes and
 * sockets, and for disks that files are written back to. Shorter waits than LEAST_WAIT_NS are left alone, so that what
 * it takes to note one stays below 2 % of it.
 */

#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/wait.h>

enum { LEAST_WAIT_NS = 500000 };

/* The caller of the function that this stands in. */
#define CALLER                                                                                                         \
    ((struct position){.pc = (word)(uintptr_t)__builtin_return_address(0) - 1,                                         \
        .sp = (word)(uintptr_t)__builtin_dwarf_cfa(),                                                                  \
        .fp = *(const word *)__builtin_frame_address(0)})

/* This thread's state, for a record of what it did itself; NULL where there is to be none. */
static struct thread *own_seat(void)
{
    struct thread *t = self;
    uint32_t generation = atomic_load_explicit(&process->generation, memory_order_relaxed);
    if (!t || !generation || t->generation != generation)
        t = sample_signal || generation ? seat() : NULL; /* else it is no reason for a file */
    return t && !t->busy ? t : NULL;
}

/* The record of a thread, with the chain of callers where it is sampled. */
static void put_of_caller(struct thread *t, struct record *record, struct position caller)
{
    t->busy = 1;
    atomic_signal_fence(memory_order_seq_cst);
    anchor_if_due(t, record->end);
    if (sample_signal) {
        memset(t->sampling.readable, 0, sizeof t->sampling.readable);
        record->source = caller.pc;
        record->extra = chain_at(t, caller);
    }
    put_record(t, record);
    atomic_signal_fence(memory_order_seq_cst);
    t->busy = 0;
}

/* Whether a wait is worth a record; it is no reason for a file. */
static inline bool was_long(word begin)
{
    return atomic_load_explicit(&process->generation, memory_order_relaxed) &&
           (double)(ticks() - begin) > LEAST_WAIT_NS * process->ticks_a_ns;
}

/* The processor time of this thread, in ticks. */
static word worked(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (word)(((double)used.tv_sec * 1e9 + (double)used.tv_nsec) * process->ticks_a_ns);
}

/* `call`: of the kernel, in which it waited; `file`: what it read, -1 where it read nothing. */
static RARE void note_wait(word begin, int call, int file, struct position caller)
{
    word end = ticks();
    int error = errno;
    mode_t kind = file < 0 ? 0 : kind_of_file(file);
    bool others = file < 0 || kind == S_IFIFO || kind == S_IFSOCK; /* to read a file is work */
    bool spares = atomic_load_explicit(&process->own.bytes, memory_order_relaxed) > SPARING_FILE;
    struct thread *t = others && !spares ? own_seat() : NULL;
    if (t) {
        struct record record = {
            .kind = WAITED, .begin = begin, .end = end, .flags = CALLED | (kind == S_IFIFO ? PIPE : 0)};
        record.function = (uint16_t)((kind == S_IFSOCK ? SYS_recvfrom : call) + 1);
        put_of_caller(t, &record, caller);
    }
    errno = error;
}

/* `works`: whether it also works itself, which is no wait. */
#define CALL_THAT_WAITS(result, name, call, file, works, parameters, ...)                                              \
    EXPORTED EARLY result name parameters                                                                              \
    {                                                                                                                  \
        static result(*next_one) parameters;                                                                           \
        find_next(&next_one, #name);                                                                                   \
        if (!next_one) {                                                                                               \
            errno = ENOSYS;                                                                                            \
            return -1;                                                                                                 \
        }                                                                                                              \
        word begin = sample_signal ? ticks() : 0, before = (works) && begin ? worked() : 0;                            \
        result waited = next_one(__VA_ARGS__);                                                                         \
        begin += before ? worked() - before : 0;                                                                       \
        if (begin && was_long(begin) && is_recording())                                                                \
            note_wait(begin, call, file, CALLER);                                                                      \
        return waited;                                                                                                 \
    }
#define WAIT(result, name, call, file, parameters, ...)                                                                \
    CALL_THAT_WAITS(result, name, call, file, false, parameters, __VA_ARGS__)
#define SYNC(name, parameters, ...) CALL_THAT_WAITS(int, name, SYS_##name, -1, true, parameters, __VA_ARGS__)

WAIT(pid_t, wait, SYS_wait4, -1, (int *status), status)
WAIT(pid_t, waitpid, SYS_wait4, -1, (pid_t process_id, int *status, int flags), process_id, status, flags)
WAIT(pid_t, wait3, SYS_wait4, -1, (int *status, int flags, struct rusage *used), status, flags, used)
WAIT(pid_t, wait4, SYS_wait4, -1, (pid_t process_id, int *status, int flags, struct rusage *used), process_id, status,
    flags, used)
WAIT(int, waitid, SYS_waitid, -1, (idtype_t what, id_t which, siginfo_t *about, int flags), what, which, about, flags)
WAIT(int, sem_wait, SYS_futex, -1, (sem_t * lock), lock)
WAIT(int, sem_timedwait, SYS_futex, -1, (sem_t * lock, const struct timespec *until), lock, until)
WAIT(int, sem_clockwait, SYS_futex, -1, (sem_t * lock, clockid_t clock, const struct timespec *until), lock, clock,
    until)
WAIT(ssize_t, read, SYS_read, file, (int file, void *to, size_t most), file, to, most)
WAIT(int, poll, SYS_ppoll, -1, (struct pollfd * files, nfds_t count, int most_ms), files, count, most_ms)
WAIT(int, epoll_wait, SYS_epoll_pwait, -1, (int watch, struct epoll_event *events, int count, int most_ms), watch,
    events, count, most_ms)
WAIT(int, select, SYS_pselect6, -1,
    (int count, fd_set *to_read, fd_set *to_write, fd_set *others, struct timeval *most), count, to_read, to_write,
    others, most)
SYNC(msync, (void *from, size_t length, int flags), from, length, flags)
SYNC(fsync, (int file), file)
SYNC(fdatasync, (int file), file)
