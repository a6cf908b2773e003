/* The tables of a loaded object by which the loader binds its names. */

#ifndef PINPROF_INSIDE_TABLES_H
#define PINPROF_INSIDE_TABLES_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

struct tables {
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Rela) * relocations[2]; /* of data, of calls */
    size_t counts[2];
    const uint32_t *gnu_hash;
};

static inline bool tables_of(uintptr_t base, const ElfW(Dyn) * entry, struct tables *found)
{
    *found = (struct tables){0};
    for (; entry->d_tag != DT_NULL; entry++) {
        uintptr_t place = entry->d_un.d_ptr; /* the loader adds where the object lies; not in read-only ones */
        const void *at = (const void *)(place < base ? place + base : place);
        switch (entry->d_tag) {
        case DT_SYMTAB:
            found->symbols = at;
            break;
        case DT_STRTAB:
            found->strings = at;
            break;
        case DT_RELA:
            found->relocations[0] = at;
            break;
        case DT_RELASZ:
            found->counts[0] = entry->d_un.d_val / sizeof(ElfW(Rela));
            break;
        case DT_JMPREL:
            found->relocations[1] = at;
            break;
        case DT_PLTRELSZ:
            found->counts[1] = entry->d_un.d_val / sizeof(ElfW(Rela));
            break;
        case DT_GNU_HASH:
            found->gnu_hash = at;
            break;
        }
    }
    for (int which = 0; which < 2; which++)
        found->counts[which] = found->relocations[which] ? found->counts[which] : 0;
    return found->symbols && found->strings;
}

#endif
