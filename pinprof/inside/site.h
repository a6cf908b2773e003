/* Who makes a call: native return addresses and Python frames together, by a number whose meaning the file has. */

enum { SITE_TEXT = 8128 };

static RARE uint32_t new_site(struct thread *t, const struct native *native, const struct frame *frames, unsigned count)
{
    uint32_t site = atomic_fetch_add(&process->sites, 1) + 1;
    if (site >= MOST_SITES)
        return 0;
    int error = errno;
    struct record *record = room(t, 1 + SITE_TEXT / UNIT);
    if (record) {
        char *begin = (char *)(record + 1);
        struct text to = {begin, SITE_TEXT};
        for (unsigned i = 0; i < count; i++)
            put_frame(&to, &frames[i]);
        for (uint32_t i = 0; i < native->count; i++)
            put_native(&to, native->address[i]);
        word length = (word)(to.at - begin);
        *record = (struct record){.kind = SITE, .site = site, .bytes = length};
        publish(t, 1 + (uint32_t)((length + UNIT - 1) / UNIT));
    }
    errno = error;
    return record ? site : 0;
}

static RARE uint32_t unknown_site(
    struct thread *t, word hash, const struct native *native, const struct frame *frames, unsigned count)
{
    if (t->sites >= SITES / 2) { /* generated code may have any number */
        memset(t->site, 0, sizeof t->site);
        t->sites = 0;
    }
    uint32_t site = new_site(t, native, frames, count);
    if (!site)
        atomic_fetch_add_explicit(&head()->unsited, 1, memory_order_relaxed);
    word place = hash % SITES;
    while (t->site[place].hash)
        place = (place + 1) % SITES;
    t->site[place].hash = hash;
    t->site[place].site = site;
    t->sites++;
    return site;
}

/* `slot`: where the return address of the program's call lies. */
static __attribute__((noinline)) uint32_t site_of(struct thread *t, enum whose whose, word slot)
{
    struct frame frames[PYTHON_FRAMES];
    struct native spare;
    t->busy = 1;
    atomic_signal_fence(memory_order_seq_cst);
    const struct native *native = native_frames(&t->chains[whose], slot, &spare);
    word hash = native->hash;
    unsigned count = python_frames(t, frames, PYTHON_FRAMES, false, &hash);
    hash |= !hash;
    uint32_t site = 0;
    for (word place = hash % SITES;; place = (place + 1) % SITES) {
        if (t->site[place].hash == hash) {
            site = t->site[place].site;
            break;
        }
        if (!t->site[place].hash) {
            site = unknown_site(t, hash, native, frames, count);
            break;
        }
    }
    atomic_signal_fence(memory_order_seq_cst);
    t->busy = 0;
    return site;
}
