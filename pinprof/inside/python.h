/* The calling thread's Python frames, read in place: they cannot change while it is inside the call.
 *
 * From 3.13 on the interpreter says itself where it keeps what (_Py_DebugOffsets); for 3.11 and 3.12 functions.h has
 * the offsets of their headers, which did not change within a version. The walk goes from the innermost frame to the
 * first one of the program's own code, whose line is the call's.
 */

enum { OWNER_C = 3, LONGEST_TEXT = 512 };

static struct layout layout;
static void *(*thread_state)(void); /* PyGILState_GetThisThreadState; NULL: no Python that we know */
static int (*finalizing)(void);
static word code_type, type_offset; /* of a code object, and where an object has its type */

static inline word at(word address, word offset)
{
    word value;
    memcpy(&value, (const char *)(uintptr_t)address + offset, sizeof value);
    return value;
}

static inline uint32_t half_at(word address, word offset)
{
    uint32_t value;
    memcpy(&value, (const char *)(uintptr_t)address + offset, sizeof value);
    return value;
}

static void find_python(void *(*find)(void *, const char *))
{
    const char *runtime = find(RTLD_DEFAULT, "_PyRuntime");
    const uint32_t *number = find(RTLD_DEFAULT, "Py_Version");
    if (!runtime || !number)
        return;
    type_offset = sizeof(word);
    unsigned major = *number >> 24, minor = *number >> 16 & 0xFF;
    bool known = false;
    for (size_t i = 0; i < COUNT(FIXED_LAYOUTS); i++)
        if (major == 3 && minor == FIXED_LAYOUTS[i].minor) {
            layout = FIXED_LAYOUTS[i];
            known = true;
        }
    for (size_t i = 0; i < COUNT(DESCRIBED_LAYOUTS) && !known; i++)
        if (major == 3 && minor == DESCRIBED_LAYOUTS[i].minor && !memcmp(runtime, "xdebugpy", 8)) {
            const struct layout *places = &DESCRIBED_LAYOUTS[i];
            word free_threaded = at((word)(uintptr_t)runtime, 16);
            type_offset = free_threaded ? 3 * sizeof(word) : sizeof(word);
            const word *place = (const word *)places;
            word *value = (word *)&layout;
            for (size_t field = 0; field < sizeof layout / sizeof(word); field++)
                value[field] = place[field] ? at((word)(uintptr_t)runtime, place[field]) : 0;
            layout.minor = minor;
            layout.text_wide = layout.text_size + 16;
            layout.text_shift = free_threaded && minor >= 14 ? 8 : 2;
            if (!free_threaded)
                layout.bytecode_copy = layout.bytecode_copies = 0;
            known = true;
        }
    if (!known)
        return;
    code_type = (word)(uintptr_t)find(RTLD_DEFAULT, "PyCode_Type");
    finalizing = (int (*)(void))find(RTLD_DEFAULT, minor >= 13 ? "Py_IsFinalizing" : "_Py_IsFinalizing");
    if (finalizing)
        thread_state = (void *(*)(void))find(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
}

/* The characters of a str, and the width of one; NULL where it is none that is laid out as usual. */
static const void *characters(word text, size_t *length, unsigned *width)
{
    unsigned state = half_at(text, layout.text_state) >> (unsigned)layout.text_shift;
    *width = state & 7;
    *length = (size_t)at(text, layout.text_length);
    if ((*width != 1 && *width != 2 && *width != 4) || !(state >> 3 & 1))
        return NULL;
    return (const char *)(uintptr_t)text + (state >> 4 & 1 ? layout.text_size : layout.text_wide);
}

/* Whether code is the program's own, and no library's: as data/own_code.py says it of Python. */
static RARE bool is_own_code(word file)
{
    static const char *const LIBRARIES[] = {
        "/site-packages/", "/dist-packages/", "/lib/python", "/lib64/python", "/workloads/backends/", "<frozen "};
    size_t length;
    unsigned width;
    const char *text = characters(file, &length, &width);
    if (!text || width != 1)
        return true;
    for (size_t i = 0; i < COUNT(LIBRARIES); i++)
        if (memmem(text, length, LIBRARIES[i], strlen(LIBRARIES[i])))
            return false;
    return true;
}

static inline bool is_own(struct thread *t, word code, word file)
{
    unsigned place = (unsigned)(mixed(code, file) % CODES);
    if (UNLIKELY(t->code[place].code != code || t->code[place].file != file)) {
        t->code[place].own = is_own_code(file);
        t->code[place].code = code;
        t->code[place].file = file;
    }
    return t->code[place].own;
}

/* Whether what lies at an address may be read, and is a code object where it ought to be one. */
static bool is_frame(word frame)
{
    return can_read(frame, (size_t)layout.owner + 1) && can_read(frame, layout.code + 8);
}

static bool is_code_object(word code)
{
    return can_read(code, (size_t)layout.bytecode) && at(code, type_offset) == code_type;
}

/* The frames from the innermost to the first of the program's own code, or `most`; `hash` becomes that of these, too.
 * `anywhere`: the thread may be at any instruction, so that nothing is certain; then all frames are meant.
 */
static inline __attribute__((always_inline)) unsigned python_frames(
    struct thread *t, struct frame *frames, unsigned most, bool anywhere, word *hash)
{
    if (!thread_state || finalizing())
        return 0;
    word state = (word)(uintptr_t)thread_state();
    if (!state)
        return 0;
    if (anywhere && !can_read(state + layout.frame, sizeof(word)))
        return 0;
    word frame = at(state, layout.frame), key = *hash;
    if (layout.has_cframe && frame && (!anywhere || can_read(frame + layout.frame_in_cframe, sizeof(word))))
        frame = at(frame, layout.frame_in_cframe);
    unsigned count = 0;
    for (unsigned steps = 0; frame && count < most && steps < 2 * most && (!anywhere || is_frame(frame)); steps++) {
        word code = at(frame, layout.code) & ~(word)7;
        uint8_t owner = *((const uint8_t *)(uintptr_t)frame + layout.owner);
        if (owner < OWNER_C && code && (!anywhere || is_code_object(code))) {
            word instruction = at(frame, layout.instruction), begin = code + layout.bytecode;
            if (layout.bytecode_copy) {
                uint32_t copy = half_at(frame, layout.bytecode_copy);
                if (copy && (!anywhere || can_read(at(code, layout.bytecode_copies) + 8 + 8 * (word)copy, 8)))
                    begin = at(at(code, layout.bytecode_copies), 8 + 8 * (word)copy);
            }
            word file = at(code, layout.filename);
            frames[count].code = code;
            frames[count++].instruction = instruction - begin;
            /* Another code object may come to lie where one was: its pointers are others. */
            key = mixed(mixed(key, code ^ file << 7), (instruction - begin) ^ at(code, layout.line_table) << 7);
            if (!anywhere && is_own(t, code, file))
                break;
        }
        frame = at(frame, layout.previous);
    }
    *hash = key;
    return count;
}

/* ---- What a frame is called ---- */

static int table_number(const uint8_t *table, size_t length, size_t place)
{
    unsigned value = 0, shift = 0;
    for (; place < length; place++, shift += 6) {
        value |= shift < 32 ? (unsigned)(table[place] & 63) << shift : 0;
        if (!(table[place] & 64))
            break;
    }
    return value & 1 ? -(int)(value >> 1) : (int)(value >> 1);
}

/* The line of an instruction (Objects/locations.md of CPython); what has none counts for the function's first. */
static int line_of(word code, word instruction)
{
    enum { NO_LOCATION = 15, LONG = 14, NO_COLUMNS = 13, ONE_LINE = 10 };
    int first = (int)half_at(code, layout.first_line), line = first;
    word bytes = at(code, layout.line_table), unit = 0;
    size_t length = (size_t)at(bytes, layout.bytes_length);
    const uint8_t *table = (const uint8_t *)(uintptr_t)(bytes + layout.bytes_start);
    for (size_t place = 0; place < length;) {
        unsigned head = table[place++], kind = head >> 3 & 15;
        if (kind == LONG || kind == NO_COLUMNS)
            line += table_number(table, length, place);
        else if (kind >= ONE_LINE && kind < NO_COLUMNS)
            line += (int)kind - ONE_LINE;
        unit += (head & 7) + 1;
        if (instruction / 2 < unit)
            return kind == NO_LOCATION ? first : line;
        while (place < length && table[place] < 128)
            place++;
    }
    return first;
}

struct text {
    char *at;
    size_t left;
};

static void put(struct text *to, unsigned character)
{
    unsigned c = character;
    if (c < 32 || c == 127 || (c >= 0xD800 && c < 0xE000) || c > 0x10FFFF)
        c = '?'; /* tabs and ends of lines separate fields */
    size_t size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (size > to->left)
        return;
    if (size == 1) {
        *to->at = (char)c;
    } else {
        for (size_t i = size - 1; i; i--, c >>= 6)
            to->at[i] = (char)(0x80 | (c & 0x3F));
        *to->at = (char)((0xF00 >> size & 0xFF) | c);
    }
    to->at += size;
    to->left -= size;
}

static void put_text(struct text *to, const char *text)
{
    size_t length = strlen(text);
    if (length > to->left)
        return;
    memcpy(to->at, text, length);
    to->at += length;
    to->left -= length;
}

/* A str as UTF-8; of a longer one its end, which says more of a file. */
static void put_str(struct text *to, word text)
{
    size_t length;
    unsigned width;
    const void *from = characters(text, &length, &width);
    for (size_t i = from && length > LONGEST_TEXT ? length - LONGEST_TEXT : 0; from && i < length; i++)
        put(to, width == 1   ? ((const uint8_t *)from)[i]
                : width == 2 ? ((const uint16_t *)from)[i]
                             : ((const uint32_t *)from)[i]);
}

/* `P line, function, file`, separated by tabs. */
static void put_frame(struct text *to, const struct frame *frame)
{
    char line[32];
    snprintf(line, sizeof line, "P\t%d\t", line_of(frame->code, frame->instruction));
    put_text(to, line);
    put_str(to, at(frame->code, layout.qualified_name));
    put_text(to, "\t");
    put_str(to, at(frame->code, layout.filename));
    put_text(to, "\n");
}
