/* Calls in which processes meet: of NCCL, MPI and Gloo. Each has its communicator, by an identity that is the same in
 * all ranks, and its number among the calls of that communicator: so the calls of one meeting are found.
 *
 * The identity is made of what the ranks share: NCCL's unique id, the places of MPI's ranks in MPI_COMM_WORLD, and
 * where there is nothing else the size; and of how many communicators like it the process had before.
 *
 * One record each, for short calls up to a number: a rank that does not wait comes just before the others go on.
 */

enum library { NCCL = 1, MPI, GLOO };
enum { COMMUNICATORS = 1024, SHORT_MEETINGS = 1 << 16, MEMBERS = 256, NCCL_ID = 128, TAKES_NO_PART = 3 };

struct communicator {
    _Atomic word handle; /* 0: its communicator has ended */
    word base, identity, made;
    _Atomic word calls;
    uint32_t rank, size, generation; /* of the file that has its record */
    uint8_t library;
};

static struct communicator communicators[COMMUNICATORS];
static _Atomic uint32_t communicators_known;
static pthread_mutex_t communicators_lock = PTHREAD_MUTEX_INITIALIZER;

/* Functions that say what a communicator is, by their names; found when the first one is asked for. */
enum asked { COMM_SIZE, COMM_RANK, COMM_GROUP, TRANSLATE_RANKS, GROUP_FREE, TYPE_SIZE, NCCL_SIZE, NCCL_RANK, ASKED };
static const char *const ASKED_NAMES[] = {"PMPI_Comm_size", "PMPI_Comm_rank", "PMPI_Comm_group",
    "PMPI_Group_translate_ranks", "PMPI_Group_free", "PMPI_Type_size", "ncclCommCount", "ncclCommUserRank"};
static void *asked[ASKED];

static int ask(enum asked which, word one, void *answer)
{
    int (*real)(word, void *) = (int (*)(word, void *))found_once(&asked[which], ASKED_NAMES[which]);
    return real ? real(one, answer) : TAKES_NO_PART;
}

/* MPI_COMM_WORLD, by who made the library: Open MPI's handles are pointers, MPICH's are numbers of 32 bits. */
enum mpi { NOBODY_ASKED, OPEN_MPI, MPICH, UNKNOWN_MPI };
static _Atomic enum mpi whose_mpi;
static word world;

static enum mpi mpi_library(void)
{
    enum mpi known = atomic_load(&whose_mpi);
    if (known != NOBODY_ASKED)
        return known;
    Dl_info of = {0};
    /* A program may have the library's own variable as a copy, which stands first. */
    void *open_mpi = next_dlsym()(RTLD_DEFAULT, "ompi_mpi_comm_world"), *size = of_library(ASKED_NAMES[COMM_SIZE]);
    if (!open_mpi)
        open_mpi = of_library("ompi_mpi_comm_world");
    if (open_mpi) {
        world = (word)(uintptr_t)open_mpi;
        known = OPEN_MPI;
    } else if (size && dladdr(size, &of) && of.dli_fname && !strstr(of.dli_fname, "_abi")) {
        world = 0x44000000;
        known = MPICH;
    } else {
        known = UNKNOWN_MPI; /* of the standard's own binary interface, or none that we know */
    }
    atomic_store(&whose_mpi, known);
    return known;
}

static word handle_of(const struct role *role, const word *arguments)
{
    word given = arguments[role->pointer];
    if (role->unit == GLOO)
        return given ? at(given, 0) : 0;
    return role->unit == MPI && mpi_library() == MPICH ? (uint32_t)given : given;
}

/* What the ranks of a communicator of MPI share: their places among all. */
static word members_of(word handle, uint32_t size)
{
    word all = 0, mine = 0, hash = mixed(MPI, size);
    if (mpi_library() == UNKNOWN_MPI || ask(COMM_GROUP, world, &all))
        return hash;
    int (*translate)(word, int, const int *, word, int *) =
        (int (*)(word, int, const int *, word, int *))found_once(&asked[TRANSLATE_RANKS], ASKED_NAMES[TRANSLATE_RANKS]);
    if (!ask(COMM_GROUP, handle, &mine)) {
        for (uint32_t first = 0; translate && first < size; first += MEMBERS) {
            int from[MEMBERS], to[MEMBERS], count = size - first < MEMBERS ? (int)(size - first) : MEMBERS;
            for (int i = 0; i < count; i++)
                from[i] = (int)first + i;
            if (translate(mine, count, from, all, to))
                break;
            for (int i = 0; i < count; i++)
                hash = mixed(hash, (uint32_t)to[i]);
        }
        ask(GROUP_FREE, (word)(uintptr_t)&mine, NULL);
    }
    ask(GROUP_FREE, (word)(uintptr_t)&all, NULL);
    return hash;
}

static struct communicator *known_communicator(unsigned library, word handle)
{
    for (uint32_t i = atomic_load_explicit(&communicators_known, memory_order_acquire); i--;)
        if (atomic_load_explicit(&communicators[i].handle, memory_order_relaxed) == handle &&
            communicators[i].library == library)
            return &communicators[i];
    return NULL;
}

/* The handle may come again, for another communicator. */
static void forget_communicator(unsigned library, word handle)
{
    for (struct communicator *one; handle && (one = known_communicator(library, handle));)
        atomic_store(&one->handle, 0);
}

/* A communicator by what its ranks share; NULL where there are too many. */
static struct communicator *add_communicator(unsigned library, word handle, word base, uint32_t rank, uint32_t size)
{
    struct communicator *made = NULL;
    pthread_mutex_lock(&communicators_lock);
    uint32_t count = atomic_load(&communicators_known);
    if (count < COMMUNICATORS) {
        word like_it = 0;
        for (uint32_t i = 0; i < count; i++)
            like_it += communicators[i].base == base;
        made = &communicators[count];
        made->base = base;
        made->identity = mixed(base, like_it) | 1;
        made->rank = rank;
        made->size = size;
        made->library = (uint8_t)library;
        atomic_store(&made->handle, handle);
        atomic_store_explicit(&communicators_known, count + 1, memory_order_release);
    }
    pthread_mutex_unlock(&communicators_lock);
    return made;
}

static RARE struct communicator *new_communicator(unsigned library, word handle)
{
    uint32_t size = 0, rank = 0;
    if (library == GLOO) { /* gloo::Context: rank, size, and a base of 2; older ones are virtual */
        word first = half_at(handle, 8) == 2 && half_at(handle, 0) < half_at(handle, 4) ? 0 : 8;
        if (half_at(handle, first + 8) != 2)
            return NULL;
        rank = half_at(handle, first);
        size = half_at(handle, first + 4);
    } else if (ask(library == MPI ? COMM_SIZE : NCCL_SIZE, handle, &size) ||
               ask(library == MPI ? COMM_RANK : NCCL_RANK, handle, &rank)) {
        return NULL;
    }
    if (!size || rank >= size)
        return NULL;
    return add_communicator(
        library, handle, library == MPI ? members_of(handle, size) : mixed(library, size), rank, size);
}

/* The number of a call that begins; 0 where that is known only after it: MPI may be asked only about what is sound. */
static RARE word number_before(const struct role *role, const word *arguments)
{
    word handle = role->flags & NUMBERED ? handle_of(role, arguments) : 0;
    struct communicator *one = handle ? known_communicator(role->unit, handle) : NULL;
    if (handle && !one && role->unit == GLOO)
        one = new_communicator(GLOO, handle);
    return one ? atomic_fetch_add(&one->calls, 1) + 1 : 0;
}

/* A communicator of NCCL by the id that all of its ranks were given. */
static void note_unique(void **made, int result, const void *id, size_t length, int rank, int size)
{
    if (result || !is_recording() || !made || !*made || rank < 0 || rank >= size)
        return;
    word base = mixed(NCCL, (word)size), part;
    for (size_t i = 0; i + sizeof part <= length; i += sizeof part) {
        memcpy(&part, (const char *)id + i, sizeof part);
        base = mixed(base, part);
    }
    forget_communicator(NCCL, (word)(uintptr_t)*made);
    add_communicator(NCCL, (word)(uintptr_t)*made, base, (uint32_t)rank, (uint32_t)size);
}

static void note_communicator(const struct role *role, const word *arguments, struct communicator *of)
{
    if (!arguments[role->properties])
        return;
    bool narrow = role->unit == MPI && mpi_library() == MPICH;
    word made = narrow ? half_at(arguments[role->properties], 0) : at(arguments[role->properties], 0);
    forget_communicator(role->unit, made);
    uint32_t rank = 0, size = 0;
    if (made && of && role->unit == NCCL && !ask(NCCL_SIZE, made, &size) && !ask(NCCL_RANK, made, &rank) && rank < size)
        add_communicator(NCCL, made, mixed(mixed(of->base, ++of->made), arguments[1]), rank, size);
}

static word bytes_of_meeting(const struct role *role, const word *arguments)
{
    static const uint8_t NCCL_BYTES[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    if (role->size < 0)
        return UINT64_MAX;
    word count = arguments[role->size], type = arguments[role->target];
    uint32_t size = 0;
    if (role->unit == NCCL)
        return (uint32_t)type < sizeof NCCL_BYTES ? product(count, NCCL_BYTES[(uint32_t)type]) : UINT64_MAX;
    return ask(TYPE_SIZE, type, &size) ? UINT64_MAX : product((uint32_t)count, size);
}

static bool put_communicator(struct thread *t, struct communicator *one)
{
    struct record record = {.kind = COMMUNICATOR,
        .begin = ticks(),
        .address = one->identity,
        .source = (word)one->size << 32 | one->rank,
        .stream = atomic_load(&one->handle),
        .extra = one->library};
    one->generation = t->generation;
    return put_record(t, &record);
}

static RARE void note_meeting(
    const struct role *role, const word *arguments, uint32_t site, word begin, word end, int result, word number)
{
    struct thread *t = self;
    if (UNLIKELY(begin < begun_ticks))
        return;
    if (UNLIKELY(!t || t->generation != atomic_load_explicit(&process->generation, memory_order_relaxed) || t->busy)) {
        lose_call(begin);
        return;
    }
    int error = errno;
    struct record call = {.begin = begin,
        .end = end,
        .site = site,
        .function = (uint16_t)(role - ROLES),
        .kind = MET,
        .result = role->unit == GLOO ? 0 : result,
        .bytes = UINT64_MAX,
        .source = number,
        .stream = UINT64_MAX};
    struct communicator *one = NULL;
    if (role->pointer >= 0 && !call.result) {
        word handle = handle_of(role, arguments);
        one = known_communicator(role->unit, handle);
        if (!one && handle && !(role->flags & ENDS) && (one = new_communicator(role->unit, handle)))
            call.source = role->flags & NUMBERED ? atomic_fetch_add(&one->calls, 1) + 1 : 0;
        call.bytes = bytes_of_meeting(role, arguments);
        if (role->flags & ENDS)
            forget_communicator(role->unit, handle);
        if (role->properties >= 0)
            note_communicator(role, arguments, one);
    }
    if (role->source >= 0)
        call.stream = (role->rows >= 0 ? arguments[role->rows] << 32 : 0) | (uint32_t)arguments[role->source];
    else if (role->stream >= 0)
        call.stream = arguments[role->stream];
    t->busy = 1;
    atomic_signal_fence(memory_order_seq_cst);
    bool sparing = atomic_load_explicit(&process->own.bytes, memory_order_relaxed) > SPARING_FILE, written = true;
    if (one && one->generation != t->generation)
        written = put_communicator(t, one);
    call.address = one ? one->identity : 0;
    anchor_if_due(t, end);
    bool is_short = (double)(end - begin) < (sparing ? 20 * LONG_NS : LONG_NS) * process->ticks_a_ns;
    if (!is_short || (!sparing && t->meetings++ < SHORT_MEETINGS))
        written &= put_record(t, &call);
    if (UNLIKELY(!written))
        lose(begin);
    atomic_signal_fence(memory_order_seq_cst);
    t->busy = 0;
    errno = error;
}
