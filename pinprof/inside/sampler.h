/* Where threads spend processor time, for recordings in which the kernel does not tell it (perf_event_open is denied).
 *
 * Each thread has a timer of its own processor time, whose signal comes to itself. The handler notes where the thread
 * is, and what it has used since the time before: in the program, in the kernel, and faults. The kernel delivers the
 * signal on the way back to the program, so the instruction says why the thread was in the kernel: behind a system
 * call, or at what it touched.
 *
 * The first signal comes after a random part of the period, so that threads that end before are sampled by chance, and
 * each sample of those that are stands for a whole period.
 */

enum {
    REMEMBER_NAME = 64,
    SOME_FAULTS = 4,
    SOME_DELAY_NS = 500000,
    ASK_AFTER_NS = 16000000, /* of processor time */
    REGISTERS_BYTES = 512,   /* of a signal's context, up to the last of these */
    LEAST_SIGNAL_STACK = 12 << 10,
    SPARING_STEP = 27
};

static _Atomic int sample_signal; /* 0: nothing is sampled */
static word tick_ns;              /* the kernel looks at timers of processor time so often */
static struct {
    pid_t thread;
    struct rusage used;
} at_start; /* what the process's first thread had used when the agent began: another program has, before execve */

static void keep_to_rate(struct sampling *, word used_ns, word now);

static bool may_read_str(word text)
{
    size_t length;
    unsigned width;
    if (!can_read(text, (size_t)layout.text_wide + 8))
        return false;
    const void *from = characters(text, &length, &width);
    return from && length < LARGEST_TABLE && can_read((word)(uintptr_t)from, length * width + 1);
}

/* Number of a function of Python, whose name and file are in the file then; 0: not known. */
static uint32_t code_number(struct thread *t, word code)
{
    struct sampling *s = &t->sampling;
    word file = at(code, layout.filename), name = at(code, layout.qualified_name);
    unsigned place = (unsigned)(mixed(mixed(code, file), name) % SAMPLED_CODES);
    if (s->code[place].code == code && s->code[place].file == file && s->code[place].name == name)
        return s->code[place].number;
    struct record *record = may_read_str(file) && may_read_str(name) ? room(t, 1 + SITE_TEXT / UNIT) : NULL;
    if (!record)
        return 0;
    char *begin = (char *)(record + 1);
    struct text to = {begin, SITE_TEXT};
    put_str(&to, name);
    put_text(&to, "\t");
    put_str(&to, file);
    word length = (word)(to.at - begin);
    uint32_t number = atomic_fetch_add(&process->codes, 1) + 1;
    *record = (struct record){.kind = CODE, .site = number, .bytes = length};
    publish(t, 1 + (uint32_t)((length + UNIT - 1) / UNIT));
    s->code[place].code = code;
    s->code[place].file = file;
    s->code[place].name = name;
    s->code[place].number = number;
    return number;
}

static uint32_t careful_line(const struct frame *frame)
{
    word bytes = at(frame->code, layout.line_table);
    if (!can_read(bytes, (size_t)layout.bytes_start) || at(bytes, layout.bytes_length) > LARGEST_TABLE ||
        !can_read(bytes + layout.bytes_start, (size_t)at(bytes, layout.bytes_length) + 1))
        return 0;
    return (uint32_t)line_of(frame->code, frame->instruction);
}

static uint32_t put_chain(struct thread *t, uint32_t native, uint32_t python, bool torn)
{
    struct sampling *s = &t->sampling;
    for (uint32_t i = 0; i < python; i++) /* may put units of their own first */
        s->address[native + i] = code_number(t, s->frame[i].code) | (word)careful_line(&s->frame[i]) << 32;
    struct record record = {.begin = ticks(),
        .bytes = 8 * (native + python),
        .address = native,
        .source = python,
        .site = atomic_fetch_add(&process->chains, 1) + 1,
        .kind = CHAIN,
        .flags = torn ? TORN : 0};
    return put_with(t, &record, s->address, record.bytes) ? record.site : 0;
}

/* Whether the C library's code there gives the kernel a signal's frame back: a handler's return address. */
static bool returns_from_signal(word pc)
{
#if defined __x86_64__
    static const uint8_t CODE[] = {0x48, 0xC7, 0xC0, 0x0F, 0, 0, 0, 0x0F, 0x05}; /* mov $15, %rax; syscall */
#else
    static const uint32_t CODE[] = {0xD2801168, 0xD4000001}; /* mov x8, #139; svc #0 */
#endif
    return can_read(pc, sizeof CODE) && !memcmp((const void *)(uintptr_t)pc, CODE, sizeof CODE);
}

/* Number of a chain of callers: native ones up to the evaluation loop, and Python's. */
static uint32_t chain_of(struct thread *t, struct position at_first)
{
    struct sampling *s = &t->sampling;
    struct position f = at_first;
    bool beyond;
    uint64_t above = 0;
    struct stack stack = {(const uint8_t *)(uintptr_t)f.sp, f.sp, LARGEST_STACK, &beyond, &above, can_read_word};
    uint32_t count = 0;
    word hash = 0;
    uint32_t python = python_frames(t, s->frame, SAMPLED_FRAMES, true, &hash);
    enum step step = STEP;
    bool in_loop = false, innermost = true;
    while (count < SAMPLED_FRAMES) {
        if (python && row_in(t, f.pc - !innermost, &(bool){false}) && s->row.begin == evaluation_loop) {
            in_loop = true;
            break;
        }
        if ((step = leave(&f, innermost, &stack, row_in, t)) != STEP)
            break;
        innermost = false;
        if (is_ours((const void *)(uintptr_t)f.pc))
            continue;
        /* Readers look before a return address; what a signal has interrupted, and what a handler returns to, is to be
         * met by that.
         */
        s->address[count++] = f.pc + (f.after_signal || returns_from_signal(f.pc));
        hash = mixed(hash, f.pc);
    }
    hash |= !hash;
    word place = hash % CHAINS;
    for (; s->chain[place].hash; place = (place + 1) % CHAINS)
        if (s->chain[place].hash == hash)
            return s->chain[place].number;
    if (s->known_chains >= CHAINS / 2) {
        memset(s->chain, 0, sizeof s->chain);
        s->known_chains = 0;
        place = hash % CHAINS;
    }
    uint32_t number = put_chain(t, count, python, !in_loop && step != END);
    if (number) {
        s->chain[place].hash = hash;
        s->chain[place].number = number;
        s->known_chains++;
    }
    return number;
}

/* The same of any place, also in code that was loaded since. */
static uint32_t chain_at(struct thread *t, struct position f)
{
    const struct modules *known = atomic_load(&modules);
    if (!known || known->generation != t->generation || !module_in(known, f.pc))
        read_modules(t);
    return chain_of(t, f);
}

static mode_t kind_of_file(int file)
{
    struct stat status;
    return fstat(file, &status) ? 0 : status.st_mode & S_IFMT;
}

/* Where the thread touched memory that it may not touch so, if it is about to begin the handler; else NULL. */
static const ucontext_t *denied(const ucontext_t *context)
{
#if defined __x86_64__
    const greg_t *registers = context->uc_mcontext.gregs;
    word number = (word)registers[REG_RDI], sp = (word)registers[REG_RSP], frame = sp + sizeof(word);
    word returns = can_read(sp, sizeof(word)) ? at(sp, 0) : 0;
#else
    const mcontext_t *registers = &context->uc_mcontext;
    word number = registers->regs[0], returns = registers->regs[30], frame = registers->sp + sizeof(siginfo_t);
#endif
    bool begins = (number == SIGSEGV || number == SIGBUS) && returns_from_signal(returns);
    return begins && can_read(frame, REGISTERS_BYTES) ? (const ucontext_t *)(uintptr_t)frame : NULL;
}

static struct position position_in(const ucontext_t *context)
{
#if defined __x86_64__
    const greg_t *registers = context->uc_mcontext.gregs;
    return (struct position){(word)registers[REG_RIP], (word)registers[REG_RSP], (word)registers[REG_RBP], 0, false};
#else
    const mcontext_t *registers = &context->uc_mcontext;
    return (struct position){registers->pc, registers->sp, registers->regs[29], registers->regs[30], false};
#endif
}

/* The call of the kernel behind which, or at which, the thread is: its number and one, as far as it can be told. */
static uint16_t called(const ucontext_t *context, word pc, uint8_t *flags)
{
#if defined __x86_64__
    const uint8_t *code = (const uint8_t *)(uintptr_t)pc;
    word number = 0;
    if (can_read(pc, 2) && code[0] == 0x0F && code[1] == 0x05) { /* begun again after the signal */
        number = (word)context->uc_mcontext.gregs[REG_RAX] + 1;
    } else if (!can_read(pc - 7, 7) || code[-2] != 0x0F || code[-1] != 0x05) {
        return 0;
    } else if (code[-7] == 0xB8) { /* mov $number, %eax */
        uint32_t given;
        memcpy(&given, code - 6, sizeof given);
        number = (word)given + 1;
    } else if (code[-4] == 0x31 && code[-3] == 0xC0) { /* xor %eax, %eax */
        number = 1;
    }
    bool reads_or_writes = number == SYS_read + 1 || number == SYS_write + 1;
    if (reads_or_writes && kind_of_file((int)context->uc_mcontext.gregs[REG_RDI]) == S_IFIFO)
        *flags |= PIPE;
#else
    word number = 0;
    const uint32_t *code = (const uint32_t *)(uintptr_t)pc;
    if (!can_read(pc - 4, 8) || (code[-1] != 0xD4000001 && code[0] != 0xD4000001))
        return 0;
    number = (word)context->uc_mcontext.regs[8] + 1;
#endif
    *flags |= CALLED;
    return number < UINT16_MAX ? (uint16_t)number : 0;
}

/* What a file in /proc says, as text. */
static const char *told_by(struct thread *t, const char *path)
{
    char *text = t->sampling.maps;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : read(file, text, MAPS_BYTES - 1);
    if (file >= 0)
        close(file);
    text[length > 0 ? length : 0] = 0;
    return text;
}

/* How long the thread could have run while others did, as the kernel says; 0 where it does not. */
static word told_delay_ns(struct thread *t)
{
    const char *text = told_by(t, "/proc/thread-self/schedstat");
    number_in(&text, 10);
    text += *text == ' ';
    return number_in(&text, 10);
}

/* The same since the thread began. A thread that did not sleep could have run all the time. What of the time of another
 * was a wait has to be asked, which costs more than all the rest of a sample.
 */
static word delayed_ns(struct thread *t, const struct usage *now)
{
    struct sampling *s = &t->sampling;
    const struct usage *before = &s->before;
    word used_ns = now->user_ns + now->system_ns;
    double idle_ns = (double)(now->ticks - before->ticks) / process->ticks_a_ns -
                     (double)(used_ns - before->user_ns - before->system_ns);
    if (s->samples && idle_ns < SOME_DELAY_NS)
        return s->delayed_ns;
    if (s->samples && now->sleeps == before->sleeps)
        return s->delayed_ns + (word)idle_ns;
    if (s->samples && used_ns < s->asked_at_ns + ASK_AFTER_NS)
        return s->delayed_ns;
    s->asked_at_ns = used_ns;
    return told_delay_ns(t);
}

/* What the process's memory is made of: what grows says what the faults are of. */
static void put_resident(struct thread *t, uint32_t chain)
{
    static const char *const PARTS[] = {"RssAnon:", "RssFile:", "RssShmem:"};
    const char *text = told_by(t, "/proc/self/status");
    word part[COUNT(PARTS)] = {0};
    for (size_t i = 0; i < COUNT(PARTS); i++) {
        const char *place = strstr(text, PARTS[i]);
        if (!place)
            return;
        place += strlen(PARTS[i]);
        place += strspn(place, " \t");
        part[i] = number_in(&place, 10);
    }
    struct record record = {.kind = RESIDENT,
        .site = chain,
        .begin = ticks(),
        .bytes = part[0],
        .address = part[1],
        .source = part[2],
        .stream = atomic_load_explicit(&process->files_mapped, memory_order_relaxed) >> 10,
        .end = atomic_load_explicit(&process->copies_mapped, memory_order_relaxed) >> 10};
    put_record(t, &record);
}

static void put_name(struct thread *t)
{
    struct sampling *s = &t->sampling;
    char name[16] = {0};
    if (prctl(PR_GET_NAME, name) || !memcmp(name, s->name, sizeof name))
        return;
    struct record record = {.kind = NAMED, .begin = ticks(), .bytes = strnlen(name, sizeof name)};
    if (put_with(t, &record, name, record.bytes))
        memcpy(s->name, name, sizeof name);
}

static word ns_of(struct timeval time) { return (word)time.tv_sec * 1000000000u + (word)time.tv_usec * 1000u; }

/* As the file grows fewer samples are kept, at random: each has what those before it had that are not. */
static bool is_kept(struct sampling *s)
{
    word step = atomic_load_explicit(&process->own.bytes, memory_order_relaxed) >> SPARING_STEP;
    s->chance ^= s->chance << 13, s->chance ^= s->chance >> 17, s->chance ^= s->chance << 5;
    return !(s->chance & (((word)1 << step) - 1));
}

static struct usage usage_of(const struct rusage *used)
{
    return (struct usage){.ticks = ticks(),
        .user_ns = ns_of(used->ru_utime),
        .system_ns = ns_of(used->ru_stime),
        .faults = (word)used->ru_minflt,
        .disk_faults = (word)used->ru_majflt,
        .sleeps = (word)used->ru_nvcsw};
}

static void take_sample(struct thread *t, const ucontext_t *context)
{
    struct sampling *s = &t->sampling;
    struct rusage used;
    if (!is_kept(s) || getrusage(RUSAGE_THREAD, &used))
        return;
    memset(s->readable, 0, sizeof s->readable);
    struct usage now = usage_of(&used);
    if (!s->samples && (pid_t)syscall(SYS_gettid) == at_start.thread)
        s->before = usage_of(&at_start.used);
    word delayed = delayed_ns(t, &now);
    struct record sample = {.begin = now.ticks,
        .end = now.user_ns + now.system_ns,
        .bytes = now.user_ns - s->before.user_ns,
        .source = now.system_ns - s->before.system_ns,
        .stream = (now.disk_faults - s->before.disk_faults) << 32 | (uint32_t)(now.faults - s->before.faults),
        .result = (int32_t)sample_ns,
        .extra = delayed > s->delayed_ns ? saturated((delayed - s->delayed_ns) / 1000) : 0,
        .kind = USED};
    word all = sample.bytes + sample.source;
    keep_to_rate(s, all, now.ticks);
    if (!s->samples && all < sample_ns) { /* by chance: see above */
        sample.source = all ? (word)((double)sample_ns * (double)sample.source / (double)all) : 0;
        sample.bytes = sample_ns - sample.source;
    }
    if (atomic_load(&process->stopped))
        return;
    if (s->samples % REMEMBER_NAME == 0)
        put_name(t);
    struct position f = position_in(context);
    sample.function = called(context, f.pc, &sample.flags);
    const ucontext_t *touch = sample.flags & CALLED ? NULL : denied(context);
    if (touch) {
        f = position_in(touch);
        sample.function = SIGSEGV;
    }
    sample.address = f.pc;
    sample.site = chain_at(t, f);
    if (sample.source > sample.bytes && (uint32_t)sample.stream > SOME_FAULTS)
        put_resident(t, sample.site);
    anchor_if_due(t, sample.begin);
    if (!put_record(t, &sample))
        return;
    s->samples++;
    s->before = now;
    s->delayed_ns = delayed;
}

/* The state of a thread for its first sample; a small stack for signals has no room for what opens the file. */
static RARE struct thread *seat_for_samples(const ucontext_t *context)
{
    word here = (word)(uintptr_t)__builtin_frame_address(0), low = (word)(uintptr_t)context->uc_stack.ss_sp;
    bool apart = !(context->uc_stack.ss_flags & SS_DISABLE) && here - low < context->uc_stack.ss_size;
    if (atomic_load(&process->stopped) || (apart && here - low < LEAST_SIGNAL_STACK))
        return NULL;
    return seat();
}

static void on_signal(int signal, siginfo_t *info, void *given)
{
    (void)signal;
    if (info->si_code != SI_TIMER || !process)
        return;
    int error = errno;
    struct thread *t = self;
    if (!t || t->generation != atomic_load_explicit(&process->generation, memory_order_relaxed))
        t = seat_for_samples(given);
    if (t && !t->busy) { /* else it interrupts the agent itself: the next sample counts for this one */
        t->busy = 1;
        atomic_signal_fence(memory_order_seq_cst);
        if (!t->sampling.chance)
            t->sampling.chance = (uint32_t)ticks() | 1;
        take_sample(t, given);
        atomic_signal_fence(memory_order_seq_cst);
        t->busy = 0;
    }
    errno = error;
}
