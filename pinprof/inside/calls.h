/* What is recorded of a call: one record each, or for calls that are frequent, beyond a number of them, a sum in place.
 *
 * A sum is of one thread, site, function and size class, and covers a 512th of the time so far at most: its place in
 * time stays known, and the file grows with the logarithm of the run's length. Where the last seconds alone are kept,
 * it covers a tenth of a second.
 */

enum { SINGLES = 1 << 14, SPARING_SINGLES = 16, SAMPLED = 256, LARGE = 64 << 10, LONG_NS = 50000, PARTS = 512 };
enum { MOST_PIECES = 1 << 20 };

static inline word product(word one, word other)
{
    word result;
    return __builtin_mul_overflow(one, other, &result) ? UINT64_MAX : result;
}

static RARE word bytes_of_pieces(const struct role *role, const word *arguments)
{
    const size_t *sizes = (const size_t *)(uintptr_t)arguments[role->sizes];
    word pieces = arguments[role->pieces], total = 0;
    if (!sizes || pieces > MOST_PIECES)
        return UINT64_MAX;
    for (word i = 0; i < pieces; i++)
        total += sizes[i];
    return total;
}

/* `result`: where it is an error, the driver may have been given pointers to nothing. */
static inline void describe(struct record *record, const struct role *role, const word *arguments, int result)
{
    record->bytes = UINT64_MAX;
    if (role->size >= 0) {
        record->bytes = product(arguments[role->size], role->unit);
        if (role->rows >= 0)
            record->bytes = product(record->bytes, arguments[role->rows]);
    } else if (role->sizes >= 0 && result == 0) {
        record->bytes = bytes_of_pieces(role, arguments);
        record->extra = (uint32_t)arguments[role->pieces];
    }
    record->address = role->pointer >= 0 ? arguments[role->pointer] : role->target >= 0 ? arguments[role->target] : 0;
    record->source = role->source >= 0 ? arguments[role->source] : 0;
    record->stream = role->stream >= 0 ? arguments[role->stream] : UINT64_MAX;
    if (role->flags & GRANTS && result == 0 && arguments[0])
        record->address = at(arguments[0], 0);
    if (role->properties >= 0 && result == 0 && arguments[role->properties])
        record->extra = half_at(arguments[role->properties], 8); /* CUmemAllocationProp and CUmemPoolProps: location */
    if (role->device >= 0)
        record->extra = (uint32_t)arguments[role->device] + 1;
}

/* Page faults of a call are the difference of two looks, of 0.1 µs each. So the agent looks at calls that make pages or
 * pin them, at large copies until one of that site was quick, and at all others from one that was long to the next that
 * is not.
 */
enum expectation { NO_IDEA, QUICK, LONG };
#define NOT_LOOKED UINT32_MAX

struct faults {
    word minor, major;
};

static RARE struct faults faults_now(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_THREAD, &usage))
        return (struct faults){0};
    return (struct faults){(word)usage.ru_minflt, (word)usage.ru_majflt};
}

static RARE uint32_t faults_since(const struct faults *before)
{
    enum { MOST_MINOR = (1 << 24) - 1, MOST_MAJOR = 0xFE };
    struct faults now = faults_now();
    word minor = now.minor - before->minor, major = now.major - before->major;
    return (uint32_t)(minor < MOST_MINOR ? minor : MOST_MINOR) | (uint32_t)(major < MOST_MAJOR ? major : MOST_MAJOR)
                                                                     << 24;
}

static inline uint8_t *expected(struct thread *t, const struct role *role, uint32_t site)
{
    return &t->expected[mixed(site, (word)(role - ROLES)) % EXPECTED];
}

static inline bool may_fault(const struct role *role, uint8_t expected, const word *arguments)
{
    if (role->flags & TOUCHES || expected == LONG)
        return true;
    return expected == NO_IDEA && role->flags & COPIES && role->size >= 0 && arguments[role->size] > LARGE;
}

/* The tally of a call; NULL where there are too many. */
static inline struct tally *tally_of(struct tallies *tallies, word key)
{
    for (word place = mixed(0, key) % TALLIES;; place = (place + 1) % TALLIES) {
        struct tally *tally = &tallies->at[place];
        if (tally->key == key)
            return tally;
        if (!tally->key) {
            if (tallies->count >= TALLIES / 2)
                return NULL;
            tallies->count++;
            tally->key = key;
            return tally;
        }
    }
}

static inline uint32_t saturated(word value) { return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX; }

/* The sum that is open; NULL where a new one has to begin. */
static inline struct record *open_sum(struct thread *t, const struct tally *tally, word now)
{
    if (tally->chunk != t->chunk_number)
        return NULL;
    struct record *sum = unit_at(t, tally->unit);
    bool before = sum->begin < atomic_load_explicit(&process->part, memory_order_relaxed);
    word covered = now - sum->begin, longest = (now - process->opened_ticks) / PARTS;
    return before || covered > longest || covered > process->longest_sum ? NULL : sum;
}

/* A sum of one record so far; false where there is no room. */
static bool begin_sum(struct thread *t, struct tally *tally, const struct record *first)
{
    struct record sum = *first;
    sum.kind++; /* a kind's sums follow it */
    sum.address = 1;
    if (!put_record(t, &sum))
        return false;
    tally->chunk = t->chunk_number;
    tally->unit = t->units - 1;
    return true;
}

/* Add a call to its sum; false where there is no room for one. */
static bool add(struct thread *t, struct tally *tally, const struct record *call)
{
    word took = call->end - call->begin;
    struct record *sum = open_sum(t, tally, call->end);
    if (!sum) {
        struct record first = *call;
        first.flags &= (uint8_t)~FAULTED;
        first.extra = 0;
        first.source = took;
        first.stream = (word)saturated(took) << 32 | saturated(took);
        return begin_sum(t, tally, &first);
    }
    uint32_t shortest = (uint32_t)sum->stream, longest = (uint32_t)(sum->stream >> 32), now = saturated(took);
    sum->stream = (word)(now > longest ? now : longest) << 32 | (now < shortest ? now : shortest);
    sum->end = call->end;
    sum->source += took;
    if (call->bytes != UINT64_MAX)
        sum->bytes += call->bytes;
    atomic_signal_fence(memory_order_seq_cst);
    sum->address++;
    return true;
}

/* Whether a call is recorded by itself; else its sum is the tally's. */
static inline bool is_single(struct thread *t, struct record *call, const struct role *role, struct tally **tally)
{
    word took = call->end - call->begin;
    if (role->flags & SINGLE || call->result || (double)took > LONG_NS * process->ticks_a_ns)
        return true;
    bool sized = call->bytes != UINT64_MAX;
    if (role->flags & COPIES && (!sized || call->bytes > LARGE))
        return true;
    unsigned class = sized ? 64u - (unsigned)__builtin_clzll(call->bytes | 1) : 0;
    struct tally *found = *tally =
        tally_of(&t->tallies[OF_CALLS], (word)call->site << 32 | (word)call->function << 16 | class << 1 | 1);
    if (!found)
        return true;
    bool sparing = atomic_load_explicit(&process->own.bytes, memory_order_relaxed) > SPARING_FILE;
    if (found->singles < (sparing ? SPARING_SINGLES : SINGLES)) {
        found->singles++;
        return true;
    }
    call->flags |= ++found->summed % SAMPLED == 0 ? SAMPLE : 0;
    return call->flags & SAMPLE;
}

static __attribute__((noinline)) void note(
    const struct role *role, const word *arguments, uint32_t site, word begin, word end, int result, uint32_t faults)
{
    struct thread *t = self;           /* the call itself may have been a fork's, or ended the recording */
    if (UNLIKELY(begin < begun_ticks)) /* it was under way when the recording began */
        return;
    if (UNLIKELY(!t || t->generation != atomic_load_explicit(&process->generation, memory_order_relaxed) || t->busy)) {
        lose_call(begin);
        return;
    }
    t->busy = 1;
    atomic_signal_fence(memory_order_seq_cst);
    struct record call = {
        .begin = begin, .end = end, .site = site, .function = (uint16_t)(role - ROLES), .kind = CALL, .result = result};
    describe(&call, role, arguments, result);
    uint8_t *next = expected(t, role, site), was = *next;
    bool faulted = faults != NOT_LOOKED && faults;
    uint8_t is = faulted || (double)(end - begin) > LONG_NS * process->ticks_a_ns ? LONG : QUICK;
    if (UNLIKELY(was != is))
        *next = is;
    if (UNLIKELY(faults != NOT_LOOKED) && role->pieces < 0 && role->properties < 0 && role->device < 0) {
        call.flags |= FAULTED;
        call.extra = faults;
    }
    anchor_if_due(t, end);
    struct tally *tally = NULL;
    bool written = is_single(t, &call, role, &tally) ? put_record(t, &call) : add(t, tally, &call);
    if (UNLIKELY(!written))
        lose(begin);
    atomic_signal_fence(memory_order_seq_cst);
    t->busy = 0;
}
