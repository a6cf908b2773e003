/* Processes that the program forks, and what these spend until they are another program.
 *
 * In execve the kernel takes a forked process's copy of the page tables apart. The sampler's timer has ended there, and
 * that of the new program has not begun. The clock of the process goes on: the new program notes what it showed when
 * the agent began, without what objects take to load, and the parent notes whom it forked, and where.
 */

enum { LOAD_NS = 120000 }; /* of an object: 96 to 151 us in eight programs with 5 to 61 of them, on Linux 6.18 */

static pid_t (*next_fork)(void);

static RARE void note_forked(pid_t child, word begin, struct position caller)
{
    word end = ticks();
    int error = errno;
    struct thread *t = own_seat();
    if (t) {
        struct record record = {.kind = FORKED, .begin = begin, .end = end, .address = (word)child};
        record.site = site_of(t, OF_BLOCKS, caller.sp - sizeof(word));
        put_of_caller(t, &record, caller);
    }
    errno = error;
}

EXPORTED EARLY pid_t fork(void)
{
    find_next(&next_fork, "fork");
    word begin = is_recording() ? ticks() : 0;
    pid_t child = next_fork();
    if (child > 0 && begin && is_recording())
        note_forked(child, begin, CALLER);
    return child;
}

static int count_object(struct dl_phdr_info *info, size_t size, void *count)
{
    (void)info, (void)size;
    ++*(word *)count;
    return 0;
}

/* A new program was begun, of which `used` is the processor time until the agent was. As of threads that end before
 * their first signal, little of it is noted by chance, and stands for a whole period then.
 */
static void note_begun(const struct timespec *used)
{
    word objects = 0, spent = (word)used->tv_sec * 1000000000u + (word)used->tv_nsec;
    for_objects(count_object, &objects);
    if (!sample_signal || spent <= objects * LOAD_NS)
        return;
    spent -= objects * LOAD_NS;
    if (spent < sample_ns && mixed((word)getpid(), begun_ticks) % sample_ns >= spent)
        return;
    struct thread *t = own_seat();
    struct record record = {.kind = BEGUN, .begin = begun_ticks, .bytes = spent < sample_ns ? sample_ns : spent};
    if (t) {
        t->busy = 1;
        atomic_signal_fence(memory_order_seq_cst);
        put_record(t, &record);
        atomic_signal_fence(memory_order_seq_cst);
        t->busy = 0;
    }
}
