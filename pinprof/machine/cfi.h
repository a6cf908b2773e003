/*
 * How to leave a function from any place in it, by the call frame information that compilers write for exceptions
 * (.eh_frame): for the collector, which has copies of stacks and files, and for the agent, which stands in both.
 *
 * Who includes this says what a `struct file` is, and reads it by `table_entry` and `bytes_at`. Every size and offset
 * is checked: what is damaged costs frames and nothing else. Nothing here allocates or keeps anything.
 *
 * Sources: DWARF 5, section 6.4 and 7.24 (call frame information); LSB Core, .eh_frame and .eh_frame_hdr; psABI of
 * x86-64 and AArch64 (register numbers).
 */

#ifndef PINPROF_CFI_H
#define PINPROF_CFI_H

#include "cursor.h"

struct file;

enum { FDE, CIE };
/* The bytes of one of these two at an address, which stay until the next ones of the kind; NULL where they are not. */
static const uint8_t *bytes_at(const struct file *file, uint64_t address, size_t size, int kind);
/* A function and its FDE, both from the header. */
static bool table_entry(const struct file *file, uint32_t number, int32_t pair[2]);

#if defined(__x86_64__)
enum { DW_FP = 6, DW_SP = 7, DW_RA = 16 };
#elif defined(__aarch64__)
enum { DW_FP = 29, DW_SP = 31, DW_RA = 30 };
#else
#error "no register numbers for this machine"
#endif

enum {
    MOST_FDE = 1 << 16,
    MOST_CIE = 600,
    LARGEST_STACK = 8 << 20
}; /* an address further above a stack pointer lies in no stack */

enum rule { SAME, AT_OFFSET, VALUE_OFFSET, EXPRESSION, UNDEFINED };
enum cfa { CFA_NONE, CFA_SP, CFA_FP, CFA_EXPRESSION };

struct row { /* how to leave one function from one place in it */
    uint64_t pc;
    const struct file *file;
    uint64_t begin; /* of the function */
    int32_t cfa_offset, fp_offset, ra_offset;
    uint8_t cfa, fp, ra;
    bool signal_frame, known;
    uint8_t expression_size;
    uint8_t expression[15];
};

struct position { /* in a stack: what is known of a frame's registers */
    uint64_t pc, sp, fp, lr;
    bool after_signal;
};

struct stack {
    const uint8_t *bytes;
    uint64_t from, size;
    bool *beyond;                       /* set where a word above the copy is asked for */
    uint64_t *above;                    /* how far above its start words were asked for */
    bool (*is_there)(uint64_t address); /* of a stack in place: whether a word can be read; else NULL */
};

/* ---- encoded values ---- */

static int64_t signed_of(uint64_t value, size_t size)
{
    unsigned shift = 64 - 8 * (unsigned)size;
    return (int64_t)(value << shift) >> shift;
}

static uint64_t take_encoded(struct cursor *c, uint8_t encoding, uint64_t data)
{
    uint64_t place = c->address, value;
    if (encoding == 0xff)
        return 0;
    switch (encoding & 0x0f) {
    case 0x00:
        value = take(c, 8);
        break;
    case 0x01:
        value = take_uleb(c);
        break;
    case 0x02:
        value = take(c, 2);
        break;
    case 0x03:
        value = take(c, 4);
        break;
    case 0x04:
        value = take(c, 8);
        break;
    case 0x09:
        value = (uint64_t)take_sleb(c);
        break;
    case 0x0a:
        value = (uint64_t)signed_of(take(c, 2), 2);
        break;
    case 0x0b:
        value = (uint64_t)signed_of(take(c, 4), 4);
        break;
    case 0x0c:
        value = take(c, 8);
        break;
    default:
        c->bad = true;
        return 0;
    }
    switch (encoding & 0x70) {
    case 0x00:
        return value;
    case 0x10:
        return value + place;
    case 0x30:
        return value + data;
    default:
        c->bad = true;
        return 0;
    }
}

/* ---- call frame information ---- */

struct cie {
    uint64_t code_align;
    int64_t data_align;
    uint8_t encoding;
    bool augmented, signal_frame;
    const uint8_t *program;
    size_t program_size;
};

/* What follows the length of an entry. */
static const uint8_t *entry_at(const struct file *file, uint64_t address, uint32_t most, int kind, size_t *size)
{
    uint32_t length;
    const uint8_t *head = bytes_at(file, address, sizeof length, kind);
    if (!head)
        return NULL;
    memcpy(&length, head, sizeof length);
    const uint8_t *entry = length < 8 || length > most ? NULL : bytes_at(file, address, length + sizeof length, kind);
    *size = length;
    return entry ? entry + sizeof length : NULL;
}

static bool read_cie(const struct file *file, uint64_t address, struct cie *cie)
{
    size_t size;
    const uint8_t *raw = entry_at(file, address, MOST_CIE, CIE, &size);
    if (!raw)
        return false;
    struct cursor c = {raw, raw + size, false, address + 4};
    if (take(&c, 4) != 0)
        return false;
    uint64_t version = take(&c, 1);
    const char *augmentation = (const char *)c.at;
    const uint8_t *nul = memchr(c.at, 0, (size_t)(c.end - c.at));
    if (c.bad || !nul || (version != 1 && version != 3))
        return false;
    c.address += (uint64_t)(nul + 1 - c.at);
    c.at = nul + 1;
    cie->code_align = take_uleb(&c);
    cie->data_align = take_sleb(&c);
    uint64_t ra = version == 1 ? take(&c, 1) : take_uleb(&c);
    cie->encoding = 0;
    cie->signal_frame = false;
    cie->augmented = augmentation[0] == 'z';
    const uint8_t *program = c.at;
    if (cie->augmented) {
        uint64_t extra = take_uleb(&c);
        if (c.bad || extra > (uint64_t)(c.end - c.at))
            return false;
        program = c.at + extra;
        for (const char *letter = augmentation + 1; *letter; letter++) {
            if (*letter == 'R')
                cie->encoding = (uint8_t)take(&c, 1);
            else if (*letter == 'P')
                take_encoded(&c, (uint8_t)take(&c, 1) & 0x0f, 0);
            else if (*letter == 'L')
                take(&c, 1);
            else if (*letter == 'S')
                cie->signal_frame = true;
            else if (*letter != 'B')
                return false;
        }
    } else if (augmentation[0]) {
        return false;
    }
    cie->program = program;
    cie->program_size = (size_t)(c.end - program);
    return !c.bad && ra == DW_RA && program <= c.end;
}

static void set_rule(struct row *row, uint64_t reg, enum rule rule, int64_t offset)
{
    if (offset > INT32_MAX || offset < INT32_MIN)
        rule = UNDEFINED;
    if (reg == DW_FP) {
        row->fp = rule;
        row->fp_offset = (int32_t)offset;
    } else if (reg == DW_RA) {
        row->ra = rule;
        row->ra_offset = (int32_t)offset;
    }
}

static void set_cfa(struct row *row, uint64_t reg, int64_t offset)
{
    row->cfa = reg == DW_SP ? CFA_SP : reg == DW_FP ? CFA_FP : CFA_NONE;
    if (offset > INT32_MAX || offset < INT32_MIN)
        row->cfa = CFA_NONE;
    row->cfa_offset = (int32_t)offset;
}

/* Run a program of call frame instructions up to `pc`; false when it means something unknown. */
static bool run(
    struct cursor c, const struct cie *cie, uint64_t at, uint64_t pc, struct row *row, const struct row *initial)
{
    struct row saved[8];
    uint64_t cfa_reg = row->cfa == CFA_FP ? DW_FP : DW_SP;
    int depth = 0;
    while (c.at < c.end && !c.bad) {
        uint8_t op = (uint8_t)take(&c, 1);
        uint64_t reg;
        switch (op & 0xc0) {
        case 0x40: /* advance_loc */
            if ((at += (op & 0x3f) * cie->code_align) > pc)
                return true;
            continue;
        case 0x80: /* offset */
            set_rule(row, op & 0x3f, AT_OFFSET, (int64_t)take_uleb(&c) * cie->data_align);
            continue;
        case 0xc0: /* restore */
            reg = op & 0x3f;
            set_rule(row, reg, reg == DW_FP ? initial->fp : initial->ra,
                reg == DW_FP ? initial->fp_offset : initial->ra_offset);
            continue;
        }
        switch (op) {
        case 0x00:
            break; /* nop */
        case 0x01: /* set_loc */
            if ((at = take_encoded(&c, cie->encoding, 0)) > pc)
                return true;
            break;
        case 0x02: /* advance_loc1 */
        case 0x03:
        case 0x04:
            if ((at += take(&c, 1u << (op - 2)) * cie->code_align) > pc)
                return true;
            break;
        case 0x05: /* offset_extended */
            reg = take_uleb(&c);
            set_rule(row, reg, AT_OFFSET, (int64_t)take_uleb(&c) * cie->data_align);
            break;
        case 0x06: /* restore_extended */
            reg = take_uleb(&c);
            set_rule(row, reg, reg == DW_FP ? initial->fp : initial->ra,
                reg == DW_FP ? initial->fp_offset : initial->ra_offset);
            break;
        case 0x07:
            set_rule(row, take_uleb(&c), UNDEFINED, 0);
            break;
        case 0x08:
            set_rule(row, take_uleb(&c), SAME, 0);
            break;
        case 0x09: /* register */
            reg = take_uleb(&c);
            take_uleb(&c);
            set_rule(row, reg, UNDEFINED, 0);
            break;
        case 0x0a: /* remember_state */
            if (depth == 8)
                return false;
            saved[depth++] = *row;
            break;
        case 0x0b: /* restore_state */
            if (!depth)
                return false;
            *row = saved[--depth];
            break;
        case 0x0c: /* def_cfa */
            cfa_reg = take_uleb(&c);
            set_cfa(row, cfa_reg, (int64_t)take_uleb(&c));
            break;
        case 0x0d: /* def_cfa_register */
            cfa_reg = take_uleb(&c);
            set_cfa(row, cfa_reg, row->cfa_offset);
            break;
        case 0x0e: /* def_cfa_offset */
            row->cfa_offset = (int32_t)take_uleb(&c);
            break;
        case 0x0f: { /* def_cfa_expression */
            uint64_t size = take_uleb(&c);
            if (size > (uint64_t)(c.end - c.at))
                return false;
            row->cfa = size <= sizeof row->expression ? CFA_EXPRESSION : CFA_NONE;
            row->expression_size = (uint8_t)size;
            if (row->cfa == CFA_EXPRESSION)
                memcpy(row->expression, c.at, size);
            skip(&c, size);
            break;
        }
        case 0x10:   /* expression */
        case 0x16: { /* val_expression */
            reg = take_uleb(&c);
            uint64_t size = take_uleb(&c);
            if (size > (uint64_t)(c.end - c.at))
                return false;
            /* `breg(fp) n` beside a realigned stack: the register lies at fp + n. */
            struct cursor e = {c.at, c.at + size, false, 0};
            bool at_fp = op == 0x10 && take(&e, 1) == 0x70 + DW_FP;
            int64_t offset = at_fp ? take_sleb(&e) : 0;
            set_rule(row, reg, at_fp && !e.bad && e.at == e.end ? EXPRESSION : UNDEFINED, offset);
            skip(&c, size);
            break;
        }
        case 0x11: /* offset_extended_sf */
            reg = take_uleb(&c);
            set_rule(row, reg, AT_OFFSET, take_sleb(&c) * cie->data_align);
            break;
        case 0x12: /* def_cfa_sf */
            cfa_reg = take_uleb(&c);
            set_cfa(row, cfa_reg, take_sleb(&c) * cie->data_align);
            break;
        case 0x13:
            row->cfa_offset = (int32_t)(take_sleb(&c) * cie->data_align);
            break;
        case 0x14: /* val_offset */
            reg = take_uleb(&c);
            set_rule(row, reg, VALUE_OFFSET, (int64_t)take_uleb(&c) * cie->data_align);
            break;
        case 0x15:
            reg = take_uleb(&c);
            set_rule(row, reg, VALUE_OFFSET, take_sleb(&c) * cie->data_align);
            break;
        case 0x2d:
            break; /* AArch64: return addresses are signed from here on; the mask below takes that away */
        case 0x2e:
            take_uleb(&c);
            break; /* GNU_args_size */
        default:
            return false;
        }
    }
    return !c.bad;
}

/* `header`: the address of .eh_frame_hdr; `entries`: how many its table has. */
static bool find_row(const struct file *file, uint64_t header, uint32_t entries, uint64_t lookup, struct row *row)
{
    uint32_t low = 0, high = entries;
    int32_t pair[2];
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (!table_entry(file, middle, pair))
            return false;
        if (header + (uint64_t)(int64_t)pair[0] <= lookup)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low || !table_entry(file, low - 1, pair))
        return false;
    uint64_t place = header + (uint64_t)(int64_t)pair[1];
    size_t size;
    const uint8_t *raw = entry_at(file, place, MOST_FDE, FDE, &size);
    if (!raw)
        return false;
    struct cie cie;
    struct cursor c = {raw, raw + size, false, place + 4};
    uint64_t back = take(&c, 4);
    if (!back || !read_cie(file, place + 4 - back, &cie))
        return false;
    uint64_t begin = take_encoded(&c, cie.encoding, header);
    uint64_t range = take_encoded(&c, cie.encoding & 0x0f, 0);
    if (cie.augmented)
        skip(&c, take_uleb(&c));
    if (c.bad || lookup < begin || lookup - begin >= range)
        return false;
    row->begin = begin;
    row->fp = row->ra = SAME;
    row->cfa = CFA_NONE;
    row->signal_frame = cie.signal_frame;
    struct row initial = *row;
    struct cursor first = {cie.program, cie.program + cie.program_size, false, 0};
    if (!run(first, &cie, 0, UINT64_MAX, row, &initial))
        return false;
    initial = *row;
    return run(c, &cie, begin, lookup, row, &initial);
}

/* ---- walking a stack ---- */

static bool word_at(const struct stack *stack, uint64_t address, uint64_t *word)
{
    if (address >= stack->from && address - stack->from < LARGEST_STACK && address - stack->from > *stack->above)
        *stack->above = address - stack->from;
    if (address < stack->from || address - stack->from > stack->size || stack->size - (address - stack->from) < 8) {
        if (address >= stack->from && address - stack->from < LARGEST_STACK)
            *stack->beyond = true;
        return false;
    }
    if (stack->is_there && !stack->is_there(address))
        return false;
    memcpy(word, stack->bytes + (address - stack->from), 8);
    return true;
}

/* The operations that compilers use for the frame address: of PLT entries and of realigned stacks. */
static bool evaluate(const struct row *row, const struct position *f, const struct stack *stack, uint64_t *value)
{
    struct cursor c = {row->expression, row->expression + row->expression_size, false, 0};
    uint64_t values[8];
    int depth = 0;
    while (c.at < c.end && !c.bad) {
        uint8_t op = (uint8_t)take(&c, 1);
        if (op >= 0x70 && op <= 0x8f) { /* breg */
            uint64_t base;
            if (op - 0x70 == DW_SP)
                base = f->sp;
            else if (op - 0x70 == DW_FP)
                base = f->fp;
            else if (op - 0x70 == DW_RA)
                base = f->pc;
            else
                return false;
            if (depth == 8)
                return false;
            values[depth++] = base + (uint64_t)take_sleb(&c);
        } else if (op >= 0x30 && op <= 0x4f) { /* lit */
            if (depth == 8)
                return false;
            values[depth++] = op - 0x30u;
        } else if (op == 0x06) { /* deref */
            if (!depth || !word_at(stack, values[depth - 1], &values[depth - 1]))
                return false;
        } else if (op == 0x23) { /* plus_uconst */
            if (!depth)
                return false;
            values[depth - 1] += take_uleb(&c);
        } else {
            if (depth < 2)
                return false;
            uint64_t right = values[--depth], *left = &values[depth - 1];
            switch (op) {
            case 0x1a:
                *left &= right;
                break;
            case 0x1c:
                *left -= right;
                break;
            case 0x22:
                *left += right;
                break;
            case 0x24:
                *left = right < 64 ? *left << right : 0;
                break;
            case 0x2a:
                *left = (int64_t)*left >= (int64_t)right;
                break;
            default:
                return false;
            }
        }
    }
    *value = values[0];
    return !c.bad && depth == 1;
}

enum step { STEP, END, LOST };

static enum step leave_signal(struct position *f, const struct stack *stack)
{
#if defined(__x86_64__)
    /* __restore_rt: the stack pointer is at the kernel's ucontext, whose registers these are. */
    uint64_t pc, sp, fp;
    if (!word_at(stack, f->sp + 168, &pc) || !word_at(stack, f->sp + 160, &sp) || !word_at(stack, f->sp + 120, &fp))
        return LOST;
    *f = (struct position){pc, sp, fp, 0, true};
    return STEP;
#else
    (void)f;
    (void)stack;
    return LOST;
#endif
}

/* The row of a place in code, NULL where nothing describes it; `is_code`: whether there is code at all. */
typedef const struct row *(*row_finder)(void *of, uint64_t pc, bool *is_code);

/* Code that no file describes: generated at run time. Its caller is at the frame pointer, or near the stack pointer. */
static enum step leave_generated(struct position *f, const struct stack *stack, row_finder row_of, void *of)
{
    uint64_t ra, fp;
    bool is_code = false;
    for (uint64_t place = f->sp; place <= f->sp + 16; place += 8)
        if (word_at(stack, place, &ra) && row_of(of, ra - 1, &is_code)) {
            *f = (struct position){ra, place + 8, f->fp, 0, false};
            return STEP;
        }
    is_code = false;
    if (f->fp >= f->sp && !(f->fp & 7) && word_at(stack, f->fp, &fp) && word_at(stack, f->fp + 8, &ra) && ra)
        row_of(of, ra - 1, &is_code);
    if (!is_code)
        return LOST;
    *f = (struct position){ra, f->fp + 16, fp, 0, false};
    return STEP;
}

static enum step leave(struct position *f, bool innermost, const struct stack *stack, row_finder row_of, void *of)
{
    bool is_code = false;
    const struct row *row = row_of(of, f->pc - (innermost || f->after_signal ? 0 : 1), &is_code);
    if (!is_code)
        return LOST;
    if (!row)
        return leave_generated(f, stack, row_of, of);
    if (row->signal_frame)
        return leave_signal(f, stack);
    if (row->ra == UNDEFINED)
        return END;
    uint64_t cfa, ra, fp = f->fp;
    if (row->cfa == CFA_SP)
        cfa = f->sp + (uint64_t)(int64_t)row->cfa_offset;
    else if (row->cfa == CFA_FP)
        cfa = f->fp + (uint64_t)(int64_t)row->cfa_offset;
    else if (row->cfa != CFA_EXPRESSION || !evaluate(row, f, stack, &cfa))
        return LOST;
    if (row->ra == AT_OFFSET) {
        if (!word_at(stack, cfa + (uint64_t)(int64_t)row->ra_offset, &ra))
            return LOST;
    } else if (row->ra == SAME && innermost && f->lr) { /* AArch64 */
        ra = f->lr;
    } else {
        return LOST;
    }
#if defined(__aarch64__)
    ra &= (1ull << 48) - 1; /* without its signature */
#endif
    if (row->fp == AT_OFFSET || row->fp == EXPRESSION) {
        uint64_t place = (row->fp == AT_OFFSET ? cfa : f->fp) + (uint64_t)(int64_t)row->fp_offset;
        if (!word_at(stack, place, &fp))
            fp = 0;
    } else if (row->fp != SAME) {
        fp = 0;
    }
    if (!ra)
        return END;
    /* Stacks grow downwards: a caller's frame lies above. Where it does not, what was read is no stack. */
    is_code = false;
    if (cfa >= f->sp && (cfa > f->sp || innermost))
        row_of(of, ra - 1, &is_code);
    if (!is_code)
        return LOST;
    *f = (struct position){ra, cfa, fp, 0, false};
    return STEP;
}

#endif
