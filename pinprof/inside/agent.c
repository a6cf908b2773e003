/* The agent: a library inside the recorded program (LD_PRELOAD) that sees every call of CUDA's driver, and those in
 * which processes meet.
 *
 * CUDA's runtime, linked dynamically or statically, takes the driver's functions by cuGetProcAddress, and that one by
 * dlsym; both are answered with wrappers. A program that is linked to the driver finds the names here. A wrapper hands
 * over the registers, and as many words of the stack as any of the driver's functions takes, as they are: they take
 * numbers and pointers alone, twelve at most. The result and errno are the driver's.
 *
 *   agent.h      what the parts share; the file's layout
 *   functions.h  the functions, made of pinprof/data/gpu_functions.py, and where CPython keeps its frames
 *   own_file.h   a file of a part of the agent; tables.h: where an object has its names bound
 *   file.h       that of the calls of a process
 *   modules.h    where code is, and how to leave its functions
 *   python.h     the thread's Python frames
 *   native.h     the thread's return addresses
 *   site.h       both, by number
 *   calls.h      what is recorded of a call
 *   meetings.h   calls in which processes meet: with whom, and which number it has
 *   sampler.h    where threads spend processor time, where nothing else tells it
 *   timers.h     the sampler's timers and signal
 *   host_memory.h  large memory of the host, from who makes it to who gives it back
 *   mappings.h   what the program and the driver map
 *   late.h       how it comes into a process that runs already, and rests when the recording is over
 *
 * Beside this, parts with files of their own, each switched on by a variable: nvtx.c (what the program says through
 * NVTX) and cupti.c (what the GPU does). The program's NVTX and CUDA's driver load the agent for them, so that they
 * work as well in a program that it does not come into at its start. cures.h: what `pinprof try` has it do otherwise.
 *
 * Never in the way of the program: no allocation and no lock but for a new chunk of the file; signals, cancellation and
 * low file descriptors stay as they are; a failure ends the recording and is counted. Without PINPROF_INSIDE, the
 * folder to write to, every answer is the one that there would be without the library.
 *
 * Sources: the CUDA Driver API's manual, "Driver Entry Point Access"; the System V ABI of x86-64, and AAPCS64.
 */

#include "agent.h"

#include "functions.h"

#include "file.h"

#include "modules.h"

#include "python.h"

#include "native.h"

#include "site.h"

#include "calls.h"

#include "sampler.h"

#include "host_memory.h"

static void *of_library(const char *name);

/* The same, looked for until it is found. */
static void *found_once(void **known, const char *name)
{
    void *found = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (!found)
        __atomic_store_n(known, found = of_library(name), __ATOMIC_RELAXED);
    return found;
}

#include "meetings.h"

#include "mappings.h"

#if defined __x86_64__
#define REGISTERS word a0, word a1, word a2, word a3, word a4, word a5
#define PASSED a0, a1, a2, a3, a4, a5
#define MORE word a6, word a7, word a8, word a9, word a10, word a11
#define PASSED_MORE a6, a7, a8, a9, a10, a11
#else
#define REGISTERS word a0, word a1, word a2, word a3, word a4, word a5, word a6, word a7
#define PASSED a0, a1, a2, a3, a4, a5, a6, a7
#define MORE word a8, word a9, word a10, word a11
#define PASSED_MORE a8, a9, a10, a11
#endif

typedef int (*wrappee)(REGISTERS, MORE);

/* One of the driver's functions, and which wrapper stands before it. */
struct slot {
    void *real;
    const struct role *role;
    cure cure;       /* what is done in its place, where that can be, and not recorded then; NULL: nothing */
    bool per_thread; /* the default stream is the thread's */
};

enum { SLOTS = 400, STUB_LIBRARY = 34 /* CUDA_ERROR_STUB_LIBRARY */ };

static struct slot slots[SLOTS];
static bool curing; /* this process tries something (cures.h) */

/* `slot`'s function between two looks at the time; the stack's place is that of the program's return address. */
static __attribute__((noinline)) int recorded(REGISTERS, MORE, const struct slot *slot, word place)
{
    wrappee real = (wrappee)__atomic_load_n(&slot->real, __ATOMIC_ACQUIRE);
    if (UNLIKELY(slot->cure != NULL)) {
        int result;
        const word given[] = {PASSED, PASSED_MORE};
        const struct cured_call call = {given, slot->role->stream, slot->per_thread};
        if (slot->cure(&call, &result))
            return result;
        if (!process)
            return real(PASSED, PASSED_MORE);
    }
    struct thread *t = self;
    if (UNLIKELY(!t || t->generation != atomic_load_explicit(&process->generation, memory_order_relaxed) || t->busy)) {
        word asked = ticks();
        if (!(t = seat())) {
            lose(asked);
            return real(PASSED, PASSED_MORE);
        }
    }
    uint32_t site = site_of(t, OF_CALLS, place);
    int outer = t->calling;
    const word arguments[] = {PASSED, PASSED_MORE};
    if (slot->role->flags & MEETS) {
        word number = number_before(slot->role, arguments), start = ticks();
        int met = real(PASSED, PASSED_MORE);
        note_meeting(slot->role, arguments, site, start, ticks(), met, number);
        return met;
    }
    t->calling = 1;
    struct faults before = {0};
    bool looks = may_fault(slot->role, *expected(t, slot->role, site), arguments);
    if (UNLIKELY(looks))
        before = faults_now();
    word begin = ticks();
    int result = real(PASSED, PASSED_MORE);
    word end = ticks();
    t->calling = outer;
    note(slot->role, arguments, site, begin, end, result, UNLIKELY(looks) ? faults_since(&before) : NOT_LOOKED);
    return result;
}

#define WRAPPER(n)                                                                                                     \
    static int wrapper_##n(REGISTERS, MORE) { return recorded(PASSED, PASSED_MORE, &slots[0x##n], RETURN_PLACE); }
#define NAME_WRAPPER(n) wrapper_##n,
/* clang-format off */
#define SIXTEEN(X, n)                                                                                                  \
    X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7)                                                    \
    X(n##8) X(n##9) X(n##a) X(n##b) X(n##c) X(n##d) X(n##e) X(n##f)
#define ALL(X)                                                                                                         \
    SIXTEEN(X, 0) SIXTEEN(X, 1) SIXTEEN(X, 2) SIXTEEN(X, 3) SIXTEEN(X, 4) SIXTEEN(X, 5) SIXTEEN(X, 6) SIXTEEN(X, 7)    \
    SIXTEEN(X, 8) SIXTEEN(X, 9) SIXTEEN(X, a) SIXTEEN(X, b) SIXTEEN(X, c) SIXTEEN(X, d) SIXTEEN(X, e) SIXTEEN(X, f)    \
    SIXTEEN(X, 10) SIXTEEN(X, 11) SIXTEEN(X, 12) SIXTEEN(X, 13) SIXTEEN(X, 14) SIXTEEN(X, 15) SIXTEEN(X, 16)          \
    SIXTEEN(X, 17) SIXTEEN(X, 18)
/* clang-format on */

ALL(WRAPPER)

static const wrappee wrappers[] = {ALL(NAME_WRAPPER)};
_Static_assert(COUNT(wrappers) == SLOTS, "a wrapper for each slot");

/* ---- Answers ---- */

INTERNAL finder pinprof_inside_dlsym; /* the next one's */

static EARLY finder next_dlsym(void)
{
    static const char *const VERSIONS[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    finder known = __atomic_load_n(&pinprof_inside_dlsym, __ATOMIC_RELAXED);
    for (size_t i = 0; i < COUNT(VERSIONS) && !known; i++)
        known = (finder)dlvsym(RTLD_NEXT, "dlsym", VERSIONS[i]);
    __atomic_store_n(&pinprof_inside_dlsym, known, __ATOMIC_RELAXED);
    return known;
}

#include "timers.h"

/* The length of a name without its version and stream mode, as gpu_functions.SUFFIX has them. */
static size_t plain_length(const char *name)
{
    size_t length = strlen(name);
    for (;;) {
        size_t before = length;
        while (before && name[before - 1] >= '0' && name[before - 1] <= '9')
            before--;
        if (before < length && before > 2 && !strncmp(name + before - 2, "_v", 2))
            length = before - 2;
        else if (length > 5 && (!strncmp(name + length - 5, "_ptsz", 5) || !strncmp(name + length - 5, "_ptds", 5)))
            length -= 5;
        else
            return length;
    }
}

static const struct role *role_of(const char *name)
{
    size_t length = plain_length(name);
    const char *known = NAMES;
    for (size_t i = 0; i < COUNT(ROLES); i++) {
        size_t here = strcspn(known, "\n");
        if (here == length && !memcmp(known, name, length))
            return &ROLES[i];
        known += here + 1;
    }
    return NULL;
}

/* A wrapper of a function; itself where there is none left. Threads that ask at once may get two; a signal handler may.
 */
static void *wrapped(void *real, const struct role *role, cure cure, bool per_thread)
{
    static _Atomic size_t taken;
    for (size_t place = 0, count = atomic_load(&taken); place < count && place < SLOTS; place++)
        if (__atomic_load_n(&slots[place].real, __ATOMIC_ACQUIRE) == real && slots[place].role == role)
            return (void *)wrappers[place];
    size_t place = atomic_load(&taken) < SLOTS ? atomic_fetch_add(&taken, 1) : SLOTS;
    if (place >= SLOTS)
        return real;
    if (!(role->flags & MEETS))
        find_driver(real);
    slots[place].role = role;
    slots[place].cure = cure;
    slots[place].per_thread = per_thread;
    __atomic_store_n(&slots[place].real, real, __ATOMIC_RELEASE);
    return (void *)wrappers[place];
}

EXPORTED int cuGetProcAddress(const char *name, void **address, int version, word flags);
EXPORTED int cuGetProcAddress_v2(const char *name, void **address, int version, word flags, int *status);
EXPORTED int cuGetProcAddress_v2_ptsz(const char *name, void **address, int version, word flags, int *status);

enum { LEGACY = 1, PER_THREAD = 2 }; /* CUdriverProcAddress_flags: whose default stream */
typedef int (*getter)(const char *, void **, int, word);
typedef int (*getter_2)(const char *, void **, int, word, int *);

/* NCCL's functions that begin a communicator: its id is a structure, which comes as it is in C alone. */
struct nccl_id {
    char bytes[NCCL_ID];
};
EXPORTED int ncclCommInitRank(void **made, int size, struct nccl_id id, int rank);
EXPORTED int ncclCommInitRankConfig(void **made, int size, struct nccl_id id, int rank, void *config);
EXPORTED int ncclCommInitRankScalable(void **made, int size, int rank, int ids, struct nccl_id *id, void *config);

typedef int (*init)(void **, int, struct nccl_id, int);
typedef int (*init_config)(void **, int, struct nccl_id, int, void *);
typedef int (*init_scalable)(void **, int, int, int, struct nccl_id *, void *);

OWN(cuGetProcAddress);
OWN(cuGetProcAddress_v2);
OWN(cuGetProcAddress_v2_ptsz);
OWN(ncclCommInitRank);
OWN(ncclCommInitRankConfig);
OWN(ncclCommInitRankScalable);
static const struct {
    const char *name;
    void *ours;
} OURS[] = {
    {"cuGetProcAddress", (void *)own_cuGetProcAddress},
    {"cuGetProcAddress_v2", (void *)own_cuGetProcAddress_v2},
    {"cuGetProcAddress_v2_ptsz", (void *)own_cuGetProcAddress_v2_ptsz},
    {"ncclCommInitRank", (void *)own_ncclCommInitRank},
    {"ncclCommInitRankConfig", (void *)own_ncclCommInitRankConfig},
    {"ncclCommInitRankScalable", (void *)own_ncclCommInitRankScalable},
};
enum { GETTER, GETTER_2, GETTER_2_THREAD, INIT, INIT_CONFIG, INIT_SCALABLE };
static void *real_ones[COUNT(OURS)];

static void *found_in(const char *library, const char *name)
{
    void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    void *found = handle ? next_dlsym()(handle, name) : NULL;
    if (handle)
        dlclose(handle);
    return found && !is_ours(found) ? found : NULL;
}

/* A function by its whole name: of a library that stands before its own, or of its own, which may be any that the
 * program has loaded for itself; the driver's is known.
 */
static void *of_library(const char *name)
{
    void *found = next_dlsym()(RTLD_NEXT, name);
    if (found || !strncmp(name, "cu", 2))
        return found ? found : found_in("libcuda.so.1", name);
    struct link_map *loaded = NULL;
    void *program = dlopen(NULL, RTLD_LAZY);
    if (program && !dlinfo(program, RTLD_DI_LINKMAP, &loaded))
        for (; loaded && !found; loaded = loaded->l_next)
            found = loaded->l_name && *loaded->l_name ? found_in(loaded->l_name, name) : NULL;
    if (program)
        dlclose(program);
    return found;
}

INTERNAL void *pinprof_inside_driver(const char *name) { return found_in("libcuda.so.1", name); }

/* Whether anything stands before the driver's functions. */
static bool stands(void) { return is_recording() || curing; }

/* What stands before a function that was found by a name. */
static void *before(const char *name, void *real)
{
    for (size_t i = 0; i < COUNT(OURS); i++)
        if (!strcmp(OURS[i].name, name)) {
            __atomic_store_n(&real_ones[i], real, __ATOMIC_RELAXED);
            return OURS[i].ours;
        }
    const struct role *role = role_of(name);
    cure cure = role && curing ? cure_of(name, plain_length(name)) : NULL;
    if (!role || !(process || cure))
        return real;
    return wrapped(real, role, cure, strstr(name, "_ptsz") || strstr(name, "_ptds"));
}

static void *real_one(unsigned which) { return found_once(&real_ones[which], OURS[which].name); }

static void answer(const char *name, void **address, int version, bool per_thread)
{
    if (!stands() || !name || !address || !*address || is_ours(*address))
        return;
    int error = errno;
    if (!strcmp(name, "cuGetProcAddress")) {
        unsigned which = version < 12000 ? GETTER : *address == real_one(GETTER_2_THREAD) ? GETTER_2_THREAD : GETTER_2;
        *address = before(OURS[which].name, *address);
    } else {
        char full[128];
        snprintf(full, sizeof full, per_thread ? "%s_ptsz" : "%s", name);
        *address = before(full, *address);
    }
    errno = error;
}

EXPORTED int cuGetProcAddress(const char *name, void **address, int version, word flags)
{
    getter real = (getter)real_one(GETTER);
    int result = real ? real(name, address, version, flags) : STUB_LIBRARY;
    if (!result)
        answer(name, address, version, flags & PER_THREAD);
    return result;
}

static int get_2(unsigned which, const char *name, void **address, int version, word flags, int *status)
{
    getter_2 real = (getter_2)real_one(which);
    int result = real ? real(name, address, version, flags, status) : STUB_LIBRARY;
    if (!result)
        answer(name, address, version, flags & PER_THREAD || (which == GETTER_2_THREAD && !(flags & LEGACY)));
    return result;
}

EXPORTED int cuGetProcAddress_v2(const char *name, void **address, int version, word flags, int *status)
{
    return get_2(GETTER_2, name, address, version, flags, status);
}

EXPORTED int cuGetProcAddress_v2_ptsz(const char *name, void **address, int version, word flags, int *status)
{
    return get_2(GETTER_2_THREAD, name, address, version, flags, status);
}

EXPORTED int ncclCommInitRank(void **made, int size, struct nccl_id id, int rank)
{
    init real = (init)real_one(INIT);
    int result = real ? real(made, size, id, rank) : TAKES_NO_PART;
    note_unique(made, result, &id, sizeof id, rank, size);
    return result;
}

EXPORTED int ncclCommInitRankConfig(void **made, int size, struct nccl_id id, int rank, void *config)
{
    init_config real = (init_config)real_one(INIT_CONFIG);
    int result = real ? real(made, size, id, rank, config) : TAKES_NO_PART;
    note_unique(made, result, &id, sizeof id, rank, size);
    return result;
}

EXPORTED int ncclCommInitRankScalable(void **made, int size, int rank, int ids, struct nccl_id *id, void *config)
{
    init_scalable real = (init_scalable)real_one(INIT_SCALABLE);
    int result = real ? real(made, size, rank, ids, id, config) : TAKES_NO_PART;
    note_unique(made, result, id, sizeof *id, rank, size);
    return result;
}

/* ---- The names of all these functions, for programs that are linked to them ---- */

static int missing(void) { return STUB_LIBRARY; }

static const char *const EXPORTS[] = {
#define NAME_EXPORT(number, name) #name,
    ALL_EXPORTS(NAME_EXPORT)};
INTERNAL void *pinprof_inside_links[COUNT(EXPORTS)];

/* Where a call of a name goes from now on. */
INTERNAL void *pinprof_inside_link(unsigned number)
{
    int error = errno;
    void *real = of_library(EXPORTS[number]);
    void *to = !real ? (void *)missing : process || curing ? before(EXPORTS[number], real) : real;
    if (real)
        __atomic_store_n(&pinprof_inside_links[number], to, __ATOMIC_RELEASE);
    errno = error;
    return to;
}

#if defined __x86_64__
/* A jump leaves every argument where it is. */
__asm__(".text\n"
        ".type pinprof_inside_jump, @function\n"
        "pinprof_inside_jump:\n"
        ".cfi_startproc\n"
        "push %rdi\n.cfi_adjust_cfa_offset 8\npush %rsi\n.cfi_adjust_cfa_offset 8\n"
        "push %rdx\n.cfi_adjust_cfa_offset 8\npush %rcx\n.cfi_adjust_cfa_offset 8\n"
        "push %r8\n.cfi_adjust_cfa_offset 8\npush %r9\n.cfi_adjust_cfa_offset 8\n"
        "sub $8, %rsp\n.cfi_adjust_cfa_offset 8\n"
        "mov %eax, %edi\n"
        "call pinprof_inside_link\n"
        "add $8, %rsp\n.cfi_adjust_cfa_offset -8\n"
        "pop %r9\n.cfi_adjust_cfa_offset -8\npop %r8\n.cfi_adjust_cfa_offset -8\n"
        "pop %rcx\n.cfi_adjust_cfa_offset -8\npop %rdx\n.cfi_adjust_cfa_offset -8\n"
        "pop %rsi\n.cfi_adjust_cfa_offset -8\npop %rdi\n.cfi_adjust_cfa_offset -8\n"
        "jmp *%rax\n"
        ".cfi_endproc\n"
        ".size pinprof_inside_jump, . - pinprof_inside_jump\n");
#define EXPORT(number, name)                                                                                           \
    __asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n.cfi_startproc\n"                        \
            "mov pinprof_inside_links + 8 * " #number "(%rip), %rax\n"                                                 \
            "test %rax, %rax\nje 1f\njmp *%rax\n"                                                                      \
            "1: mov $" #number ", %eax\njmp pinprof_inside_jump\n"                                                     \
            ".cfi_endproc\n.size " #name ", . - " #name "\n");
#else
/* With -O2 the call is the last thing done, so that what is on the stack stays where it is. */
#define EXPORT(number, name)                                                                                           \
    EXPORTED int name(REGISTERS, MORE)                                                                                 \
    {                                                                                                                  \
        void *to = __atomic_load_n(&pinprof_inside_links[number], __ATOMIC_RELAXED);                                   \
        return ((wrappee)(to ? to : pinprof_inside_link(number)))(PASSED, PASSED_MORE);                                \
    }
#endif
ALL_EXPORTS(EXPORT)

/* What dlsym answers for a name of the driver, where that is `known`; else it is what the next dlsym says. */
struct answer {
    void *found;
    word known;
};

static RARE struct answer of_name(void *handle, const char *name)
{
    finder next = next_dlsym();
    struct answer answer = {NULL, false};
    if (!role_of(name) && strncmp(name, "cuGetProcAddress", 16) && strncmp(name, "ncclCommInitRank", 16))
        return answer;
    int error = errno;
    void *real = next(handle, name);
    if (real && is_ours(real) && entered) { /* the one who asks may find another, which the agent cannot */
        errno = error;
        return answer;
    }
    if (real && is_ours(real)) { /* the agent is in the scope that was asked for */
        real = handle == RTLD_DEFAULT ? next(RTLD_NEXT, name) : of_library(name);
        answer.known = true;
    }
    if (real && stands())
        answer = (struct answer){before(name, real), true};
    else if (real)
        answer.found = real;
    else if (answer.known)
        next(RTLD_NEXT, name); /* so that dlerror says what is missing */
    errno = error;
    return answer;
}

static RARE void look_again(void);

INTERNAL EARLY struct answer pinprof_inside_answer(void *handle, const char *name)
{
    next_dlsym();
    if (UNLIKELY(entered))
        look_again();
    if (!name || handle == RTLD_NEXT ||
        (strncmp(name, "cu", 2) && strncmp(name, "nccl", 4) && strncmp(name, "MPI_", 4)))
        return (struct answer){NULL, false};
    return of_name(handle, name);
}

#if defined __x86_64__
/* A jump to the next dlsym, for which RTLD_NEXT is then what follows the caller. */
__asm__(".text\n.globl dlsym\n.type dlsym, @function\n"
        "dlsym:\n"
        ".cfi_startproc\n"
        "push %rdi\n.cfi_adjust_cfa_offset 8\npush %rsi\n.cfi_adjust_cfa_offset 8\n"
        "sub $8, %rsp\n.cfi_adjust_cfa_offset 8\n"
        "call pinprof_inside_answer\n"
        "add $8, %rsp\n.cfi_adjust_cfa_offset -8\n"
        "pop %rsi\n.cfi_adjust_cfa_offset -8\npop %rdi\n.cfi_adjust_cfa_offset -8\n"
        "test %rdx, %rdx\nje 1f\nret\n"
        "1: jmp *pinprof_inside_dlsym(%rip)\n"
        ".cfi_endproc\n.size dlsym, . - dlsym\n");
#else
EXPORTED void *dlsym(void *restrict handle, const char *restrict name)
{
    struct answer answer = pinprof_inside_answer(handle, name);
    return answer.known ? answer.found : pinprof_inside_dlsym(handle, name);
}
#endif

/* ---- The beginning ---- */

static bool has_steady_ticks(void)
{
#if defined __x86_64__
    /* The kernel says whether all processors count alike, and at the same rate whatever they do. */
    char name[8] = {0};
    int file = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : read(file, name, 4);
    if (file >= 0)
        close(file);
    return length == 4 && !memcmp(name, "tsc\n", 4);
#else
    return true;
#endif
}

static void forget_parent(void) { memset(process, 0, sizeof *process); }

/* What is made once for a process; false where that cannot be. */
static bool prepare(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct process *made = map_pages(page, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED || pthread_key_create(&at_thread_exit, thread_ends))
        return false;
    bool wipes = !madvise(made, page, MADV_WIPEONFORK);
    counts_ticks = has_steady_ticks();
    both_clocks(&begun_ticks, &begun_ns);
    find_python(next_dlsym());
    find_unwinder(next_dlsym());
    find_mapping();
    evaluation_loop = thread_state ? (word)(uintptr_t)next_dlsym()(RTLD_DEFAULT, "_PyEval_EvalFrameDefault") : 0;
    process = made;
    begin_sampling(entered ? NULL : getenv("PINPROF_INSIDE_RATE"));
    find_blocks(next_dlsym());
    if (!wipes)
        pthread_atfork(NULL, NULL, forget_parent);
    return true;
}

/* Where files come to lie; false for a folder that is not meant. */
static bool write_into(const char *folder)
{
    size_t length = folder ? strlen(folder) : 0;
    if (!length || *folder != '/' || length >= sizeof directory)
        return false;
    memcpy(directory, folder, length + 1);
    return true;
}

enum { BEFORE = 1, BEHIND };

/* Where the agent stands, by the order in which libraries were loaded. Behind the C library, it sees no call: NVTX or
 * CUDA's driver has loaded it, for its other parts.
 */
static int place_of_agent(struct dl_phdr_info *info, size_t size, void *unused)
{
    struct found_module own = {.address = (word)(uintptr_t)&place_of_agent};
    struct found_module next = {.address = (word)(uintptr_t)next_dlsym()};
    (void)unused;
    return in_module(info, size, &own) ? BEFORE : in_module(info, size, &next) ? BEHIND : 0;
}

__attribute__((constructor)) static void begin(void)
{
    int error = errno;
    next_dlsym();
    if (dl_iterate_phdr(place_of_agent, NULL) == BEFORE) {
        if ((curing = cures_begin() && found()))
            next_is_libc = false; /* a cured block has no head */
        if (write_into(secure_getenv("PINPROF_INSIDE")))
            prepare();
    }
    errno = error;
}

#include "late.h"
