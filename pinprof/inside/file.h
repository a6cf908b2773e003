/* The file of a process: opened at its first call, mapped chunk by chunk, and begun anew in a forked child.
 */

enum { SPARE = 64, FIRST_CHUNK = 4 * PAGE, CHUNK = 64 * PAGE };

/* A forked child finds this page wiped, so that it begins anew and never writes into its parent's file. */
struct process {
    _Atomic uint32_t generation; /* 0: nothing opened */
    _Atomic int stopped;
    pthread_mutex_t lock; /* zeroed is unlocked, in glibc as in musl */
    struct own_file own;
    uint32_t first;        /* generation of the process's first file */
    _Atomic word part;     /* ticks from which on sums begin anew (late.h) */
    _Atomic int searching; /* late.h */
    uint32_t taken, chunks, spares;
    _Atomic uint32_t sites, chains, codes;
    _Atomic word files_mapped, copies_mapped; /* bytes in all; the second: private and to be written */
    _Atomic word anchored, anchor_after;      /* ticks */
    word opened_ticks;
    word longest_sum; /* ticks */
    double ticks_a_ns;
    struct thread *any; /* what no thread's own call is about is written here, under the lock */
    struct {
        struct chunk *chunk;
        uint32_t number;
    } spare[SPARE]; /* of threads that have ended */
};

static struct process *process; /* NULL: the agent is off */
static char directory[DIRECTORY_BYTES];
static word token; /* of this process's file, or of the ancestor's that has one */
static word begun_ticks, begun_ns;
static _Atomic uint32_t next_generation;
static _Atomic int resting; /* the recording is over (late.h), in forked children as well */
static uint32_t sample_ns;  /* processor time from sample to sample; 0: nothing is sampled */
static pthread_key_t at_thread_exit;

static inline bool is_recording(void) { return process && !atomic_load_explicit(&resting, memory_order_relaxed); }

/* A call that was under way when the recording began is none of it. */
static void lose(word begin)
{
    if (process->own.header && is_recording() && begin >= begun_ticks)
        atomic_fetch_add_explicit(&process->own.header->lost, 1, memory_order_relaxed);
}

static struct header *head(void) { return (struct header *)process->own.header; }

/* The file of this process, with its header mapped; under the lock. */
static bool open_file(void)
{
    struct header header = {.own = {.magic = {'P', 'I', 'N', 'P', 'C', 'A', 'L', 'L'}, .version = 1},
        .begun_ticks = begun_ticks,
        .begun_ns = begun_ns,
        .names = sizeof NAMES - 1};
    _Static_assert(sizeof header + sizeof NAMES <= PAGE, "The names fit into a page.");
    both_clocks(&header.opened_ticks, &header.own.opened_ns);
    if (!open_own(&process->own, directory, &token, &header.own, sizeof header, NAMES, sizeof NAMES - 1))
        return false;
    process->opened_ticks = process->anchored = header.opened_ticks;
    word ns = header.own.opened_ns - begun_ns;
    process->ticks_a_ns = ns ? (double)(header.opened_ticks - begun_ticks) / (double)ns : 1;
    process->anchor_after = (word)(1e6 * process->ticks_a_ns);
    process->longest_sum = keeps_last_seconds() ? (word)(1e8 * process->ticks_a_ns) : UINT64_MAX;
    return true;
}

/* A chunk of the file for a thread that has none, or a full one; under the lock. */
static struct chunk *new_chunk(uint32_t size)
{
    struct chunk *chunk = map_chunk(&process->own, directory, &size, MAP_POPULATE);
    if (!chunk) {
        atomic_store(&process->stopped, 1);
        return NULL;
    }
    chunk->size = size;
    memcpy(chunk->magic, "PINPCHNK", 8);
    return chunk;
}

static inline struct record *unit_at(const struct thread *t, uint32_t place) { return &t->chunk->unit[place]; }

/* A reader that sees the count sees the units: a process killed here has lost nothing that was counted. */
static inline void publish(struct thread *t, uint32_t more)
{
    atomic_store_explicit(&t->chunk->units, t->units += more, memory_order_release);
}

static void append_thread(struct thread *t)
{
    *unit_at(t, t->units) = (struct record){
        .begin = ticks(), .address = (word)++process->taken << 32 | (uint32_t)syscall(SYS_gettid), .kind = THREAD};
    publish(t, 1);
}

static void leave_chunk(struct chunk *chunk)
{
    atomic_store_explicit(&chunk->left, 1, memory_order_release);
    unmap_pages(chunk, chunk->size);
}

/* Give a thread another chunk, of its own process; under the lock. */
static bool give_chunk(struct thread *t)
{
    struct chunk *chunk = NULL;
    uint32_t number = 0;
    if (process->spares && !t->grown) {
        chunk = process->spare[--process->spares].chunk;
        number = process->spare[process->spares].number;
    } else if ((chunk = new_chunk(t->grown ? CHUNK : FIRST_CHUNK))) {
        number = ++process->chunks;
    }
    if (!chunk)
        return false;
    if (t->chunk)
        leave_chunk(t->chunk);
    t->chunk = chunk;
    t->chunk_number = number;
    t->capacity = chunk->size / UNIT - 1;
    t->units = atomic_load_explicit(&chunk->units, memory_order_relaxed);
    t->grown = 1;
    append_thread(t);
    return true;
}

/* Whether a thread's state is of this process: a forked child has its parent's as well. */
static inline bool is_own_state(const struct thread *t) { return process->first && t->generation >= process->first; }

/* A call that this thread makes can't be recorded once it has returned; it may be from before the recording. */
static RARE void lose_call(word begin)
{
    const struct thread *t = self;
    if (!t || !is_own_state(t) || t->generation == atomic_load(&process->generation))
        lose(begin);
}

/* The state of a thread that has none, or its parent's; under the lock. */
static struct thread *new_thread(uint32_t generation)
{
    struct thread *t = map_pages(sizeof *t, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (t == MAP_FAILED)
        return NULL;
    t->generation = generation;
    return t;
}

/* A thread's state as that of a new one, in its place: calls may be under way that know it. */
static struct thread *renewed(struct thread *t, uint32_t generation)
{
    int calling = t->calling;
    if (t->chunk)
        unmap_pages(t->chunk, t->chunk->size);
    syscall(SYS_madvise, t, sizeof *t, MADV_DONTNEED);
    t->calling = calling;
    t->generation = generation;
    return t;
}

/* What was before the file, and the files that are mapped already; under the lock. */
static void put_entered(void);
static void put_mapped_files(void);

/* This thread's state for a call; NULL where it is not to be recorded. */
static RARE struct thread *seat(void)
{
    struct thread *t = self;
    bool own = t && is_own_state(t);
    if (own && t->busy)
        return NULL; /* a signal handler interrupted the agent itself */
    if (atomic_load(&resting) || atomic_load(&process->stopped))
        return NULL;
    struct held held;
    hold(&held, &process->lock);
    uint32_t generation = atomic_load(&process->generation);
    if (!generation && !atomic_load(&process->stopped)) {
        generation = atomic_fetch_add(&next_generation, 1) + 1;
        if (open_file()) {
            process->first = process->first ? process->first : generation;
            atomic_store(&process->generation, generation);
            put_entered();
            put_mapped_files();
        } else
            atomic_store(&process->stopped, 1);
    }
    bool stopped = atomic_load(&process->stopped);
    if (stopped || !(t = own ? renewed(t, generation) : new_thread(generation))) {
        t = NULL;
    } else if (give_chunk(t)) {
        self = t; /* what a forked child had of its parent is left: the parent has it still */
        pthread_setspecific(at_thread_exit, t);
    } else {
        t->generation = 0;
        if (!own)
            unmap_pages(t, sizeof *t);
        t = NULL;
    }
    release(&held);
    return t;
}

/* Room for units in the thread's chunk; false when recording has ended. */
static RARE bool make_room(struct thread *t)
{
    if (atomic_load(&process->stopped))
        return false;
    struct held held;
    hold(&held, &process->lock);
    bool current = t->generation == atomic_load(&process->generation) && !atomic_load(&process->stopped);
    bool given = current && give_chunk(t);
    release(&held);
    return given;
}

static inline struct record *room(struct thread *t, uint32_t units)
{
    if (UNLIKELY(t->units + units > t->capacity) && (!make_room(t) || t->units + units > t->capacity))
        return NULL;
    return unit_at(t, t->units);
}

/* One record; false where there is no room. */
static inline bool put_record(struct thread *t, const struct record *record)
{
    struct record *to = room(t, 1);
    if (to) {
        *to = *record;
        publish(t, 1);
    }
    return to;
}

/* A record, and in the next units what it is about. */
static RARE bool put_with(struct thread *t, const struct record *record, const void *about, size_t length)
{
    uint32_t units = 1 + (uint32_t)((length + UNIT - 1) / UNIT);
    struct record *to = room(t, units);
    if (to) {
        *to = *record;
        memcpy(to + 1, about, length);
        publish(t, units);
    }
    return to;
}

/* The state by which is written what no thread's own call is about, with room for units; NULL: none. Under the lock. */
static struct thread *any_thread(uint32_t units)
{
    struct thread *t = process->any;
    if (!t && (t = process->any = new_thread(0)))
        t->grown = 1; /* a chunk that another thread has left is small */
    return t && (t->units + units <= t->capacity || give_chunk(t)) && t->units + units <= t->capacity ? t : NULL;
}

static void end_thread(void);

/* What an ended thread leaves serves the next one. */
static void thread_ends(void *state)
{
    struct thread *t = state;
    end_thread();
    if (t != self || !is_own_state(t))
        return; /* of a parent */
    struct held held;
    hold(&held, &process->lock);
    self = NULL;
    bool current = t->generation == atomic_load(&process->generation);
    if (current && process->spares < SPARE && t->units + 8 < t->capacity) {
        process->spare[process->spares].chunk = t->chunk;
        process->spare[process->spares++].number = t->chunk_number;
    } else if (current) {
        leave_chunk(t->chunk);
    } else {
        unmap_pages(t->chunk, t->chunk->size);
    }
    unmap_pages(t, sizeof *t);
    release(&held);
}

/* What ticks are now. One thread in each while writes it. */
static RARE void anchor(struct thread *t, word now)
{
    word before = atomic_load_explicit(&process->anchored, memory_order_relaxed);
    if (now < before || now - before < process->anchor_after ||
        !atomic_compare_exchange_strong(&process->anchored, &before, now))
        return;
    word longest = (word)(1e8 * process->ticks_a_ns), after = now - process->opened_ticks;
    atomic_store(&process->anchor_after, after < longest ? after : longest);
    struct record record = {.kind = ANCHOR};
    both_clocks(&record.begin, &record.end);
    put_record(t, &record);
}

static inline void anchor_if_due(struct thread *t, word now)
{
    if (UNLIKELY(now - atomic_load_explicit(&process->anchored, memory_order_relaxed) >
                 atomic_load_explicit(&process->anchor_after, memory_order_relaxed)))
        anchor(t, now);
}
