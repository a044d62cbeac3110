/* check_lanes: exchanges between lanes in divergent code of AMD code objects. Reads what `llvm-objdump -d
 * --no-show-raw-insn` prints from standard input and prints one line for each kernel that has any:
 *
 *     Divergent KERNEL: 3 exchanges between lanes where some lanes may be off, the first at 0xa0ac: v_permlanex16_b32
 * ...
 *
 * An exchange (v_permlane*, ds_bpermute, ds_permute, ds_swizzle, data-parallel moves, v_readlane) whose partner is off
 * reads 0 or what that lane held before; WMMA demands all lanes, and MFMA reads them. So each must stand where EXEC,
 * the mask of the lanes that are on, is "whole": what it was at the kernel's beginning, or empty, which a branch that
 * all lanes of a wave take alike leaves it. v_readfirstlane takes any lane that is on and is right everywhere.
 *
 * How: the instructions are followed along the control flow until nothing changes, with what is known of every
 * register:
 *   - of masks (EXEC, and scalar registers that hold copies of it), which of the sets of lanes below it is;
 *   - of vector registers, from which bit on they are the same in all lanes of a wave: the thread's number is from bit
 * 5 or 6 on, so thread / wave is everywhere. A comparison of such numbers narrows EXEC to all or nothing. What cannot
 * be known counts as divergent. Runs in the build (tools/kernel_object.sh). */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPERANDS = 8, MAX_NAME = 40, MAX_TEXT = 160 };
enum { N_SCALAR = 128, N_VECTOR = 512, VCC = 106, AGPR = 256, DIFFERS = 32 };

static void die(const char *what)
{
    fprintf(stderr, "check_lanes: %s\n", what);
    exit(2);
}

static void *allocate(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);
    if (!p)
        die("out of memory");
    return p;
}

/* ---- instructions ----------------------------------------------------------------------------------------------- */

typedef enum operand_kind { OTHER, SCALAR, VECTOR, EXEC, NUMBER } operand_kind;
typedef struct operand {
    operand_kind kind;
    int at, n;   /* registers */
    long number; /* of NUMBER */
} operand;

typedef struct instruction {
    unsigned long address;
    char name[MAX_NAME]; /* without dual_, _e32, _e64 */
    char text[MAX_TEXT];
    operand o[MAX_OPERANDS];
    int n;                    /* operands */
    struct instruction *dual; /* the second half of v_dual_... :: v_dual_... */
    long target;              /* of a branch; -1 = none */
} instruction;

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}
static bool has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

/* "v12", "-v[3:4]", "|s5|", "vcc_lo", "exec", "0x3ff", "off". */
static operand parse_operand(const char *text)
{
    operand o = {OTHER, 0, 1, 0};
    int first, last;
    while (*text == ' ' || *text == '|' || (*text == '-' && isalpha((unsigned char)text[1])))
        text++;
    if (begins(text, "exec"))
        o.kind = EXEC;
    else if (begins(text, "vcc"))
        o = (operand){SCALAR, begins(text, "vcc_hi") ? VCC + 1 : VCC, text[3] == '_' ? 1 : 2, 0};
    else if (sscanf(text, "s[%d:%d]", &first, &last) == 2)
        o = (operand){SCALAR, first, last - first + 1, 0};
    else if (sscanf(text, "v[%d:%d]", &first, &last) == 2)
        o = (operand){VECTOR, first, last - first + 1, 0};
    else if (sscanf(text, "a[%d:%d]", &first, &last) == 2)
        o = (operand){VECTOR, AGPR + first, last - first + 1, 0};
    else if (*text && strchr("sva", *text) && isdigit((unsigned char)text[1]))
        o = (operand){*text == 's' ? SCALAR : VECTOR, atoi(text + 1) + (*text == 'a' ? AGPR : 0), 1, 0};
    else if (isdigit((unsigned char)*text) || *text == '-') {
        char *end;
        o.number = strtol(text, &end, 0);
        o.kind = *end == '.' ? OTHER : NUMBER;
    }
    if ((o.kind == SCALAR && o.at + o.n > N_SCALAR) || (o.kind == VECTOR && o.at + o.n > N_VECTOR))
        die("a register number is too large");
    return o;
}

/* NAME OPERAND, OPERAND...; what follows the last operand's name is left out. */
static void parse(instruction *i, char *text)
{
    char *second = strstr(text, " :: ");
    if (second) {
        *second = 0;
        i->dual = allocate(1, sizeof *i->dual);
        parse(i->dual, second + 4);
    }
    snprintf(i->text, sizeof i->text, "%s", text);
    size_t n = strcspn(text, " ");
    char *rest = text[n] ? text + n + 1 : NULL;
    text[n] = 0;
    if (n > 4 && (strcmp(text + n - 4, "_e32") == 0 || strcmp(text + n - 4, "_e64") == 0))
        text[n - 4] = 0;
    bool is_dual = begins(text, "v_dual_");
    snprintf(i->name, sizeof i->name, "%s%s", is_dual ? "v_" : "", is_dual ? text + 7 : text);
    i->target = -1;
    for (char *next; rest && *rest && i->n < MAX_OPERANDS; rest = next) {
        next = strchr(rest, ',');
        if (next)
            *next++ = 0;
        i->o[i->n++] = parse_operand(rest);
    }
}

/* ---- sets of lanes ---------------------------------------------------------------------------------------------- */

/* What a scalar register holds: UNKNOWN; ALIKE, which decides the same for all lanes (nothing, or at least all that
 * were on at the beginning); or the number of a set. The upper half of a set of 64 lanes has UPPER added. */
enum { UNKNOWN, ALIKE, ROOT, UPPER = 1 << 28 };
typedef enum set_kind { PART, REST, LOOP, LEFT } set_kind;
typedef struct set {
    set_kind kind;
    int parent; /* it lies within that set; of LEFT: the set that is on when those have left their loop */
    int key;    /* where it is made, or of REST the set that is taken away from the parent */
    bool is_whole;
} set;
static set *sets;
static int n_sets, room_sets;

static int find_set(set_kind kind, int parent, int key, bool is_whole)
{
    for (int i = ROOT; i < n_sets; i++)
        if (sets[i].kind == kind && sets[i].parent == parent && sets[i].key == key && sets[i].is_whole == is_whole)
            return i;
    if (n_sets >= room_sets) {
        room_sets = room_sets * 2 + 64;
        sets = realloc(sets, (size_t)room_sets * sizeof *sets);
        if (!sets)
            die("out of memory");
    }
    sets[n_sets] = (set){kind, parent, key, is_whole};
    return n_sets++;
}
static bool is_set(int value)
{
    return value >= ROOT && value < UPPER && sets[value].kind != LEFT;
}
static bool is_within(int a, int b)
{
    while (a != b && a != ROOT)
        a = sets[a].parent;
    return a == b;
}
static int smallest_around(int a, int b)
{
    while (!is_within(b, a))
        a = sets[a].parent;
    return a;
}
static bool is_whole(int value)
{
    return value == ALIKE || (is_set(value) && sets[value].is_whole);
}

static int both_of(int a, int b)
{
    if (a == ALIKE && b == ALIKE)
        return ALIKE;
    if (is_set(a) && is_set(b) && (is_within(a, b) || is_within(b, a)))
        return is_within(a, b) ? a : b;
    return is_whole(a) && is_whole(b) ? ALIKE : UNKNOWN;
}
static int either_of(int a, int b)
{
    if (is_set(a) && is_set(b)) {
        if (is_within(a, b) || is_within(b, a))
            return is_within(a, b) ? b : a;
        if (sets[a].kind == REST && sets[a].key == b)
            return sets[a].parent;
        if (sets[b].kind == REST && sets[b].key == a)
            return sets[b].parent;
    }
    return is_whole(a) && is_whole(b) ? ALIKE : UNKNOWN;
}
static int without(int a, int b)
{
    if (is_set(a) && is_set(b)) {
        if (sets[a].kind == REST && is_within(b, sets[a].key))
            return a;
        if (a != b && is_within(b, a))
            return find_set(REST, a, b, sets[a].is_whole && sets[b].is_whole);
    }
    return is_whole(a) && is_whole(b) ? ALIKE : UNKNOWN;
}
static int differing(int a, int b)
{
    int rest = is_set(a) && is_set(b) && is_within(a, b) ? without(b, a) : without(a, b);
    return rest != UNKNOWN && is_set(rest) ? rest : is_whole(a) && is_whole(b) ? ALIKE : UNKNOWN;
}

/* ---- what is known at a place ------------------------------------------------------------------------------------ */

typedef struct state {
    bool is_reached;
    bool is_empty;     /* all ways here so far are branches that are taken when no lane is on */
    bool may_be_empty; /* EXEC was narrowed, and no branch has skipped what follows for a wave without lanes */
    int exec, scalar[N_SCALAR];
    unsigned char alike_from[N_VECTOR]; /* the bit; DIFFERS = nothing is known */
} state;

static bool is_equal(const state *a, const state *b)
{
    return a->is_reached == b->is_reached && a->is_empty == b->is_empty && a->may_be_empty == b->may_be_empty &&
           a->exec == b->exec && memcmp(a->scalar, b->scalar, sizeof a->scalar) == 0 &&
           memcmp(a->alike_from, b->alike_from, sizeof a->alike_from) == 0;
}

static int wave_bits; /* 5 or 6 */

static int read_scalar(const state *s, operand o)
{
    if (o.kind == EXEC)
        return s->exec;
    if (o.kind == NUMBER)
        return o.number == 0 || o.number == -1 ? ALIKE : UNKNOWN;
    if (o.kind != SCALAR)
        return UNKNOWN;
    int low = s->scalar[o.at], high = o.n == 2 ? s->scalar[o.at + 1] : 0;
    if (low >= UPPER || (o.n == 2 && high != (low >= ROOT ? low + UPPER : low)))
        return UNKNOWN;
    return low;
}
static void write_scalar(state *s, operand o, int value)
{
    for (int i = 0; i < o.n; i++)
        s->scalar[o.at + i] = o.n > 2 ? UNKNOWN : i == 1 && value >= ROOT && value < UPPER ? value + UPPER : value;
}
/* key: the instruction. Within: a set that the new one cannot leave. */
static void write_exec(state *s, int value, int within, int key)
{
    s->exec = is_set(value) ? value : find_set(PART, within, key, is_whole(value) && sets[within].is_whole);
    s->may_be_empty = s->exec != ROOT;
}

static int alike_from(const state *s, operand o)
{
    int most = 0;
    if (o.kind == VECTOR)
        for (int i = 0; i < o.n; i++)
            most = s->alike_from[o.at + i] > most ? s->alike_from[o.at + i] : most;
    return most;
}
static void write_vector(state *s, operand o, int from)
{
    for (int i = 0; i < o.n; i++) {
        unsigned char *r = &s->alike_from[o.at + i];
        /* where the wave may be off altogether, what was there may stay */
        int old = !is_whole(s->exec) ? DIFFERS : s->may_be_empty ? *r : 0;
        *r = (unsigned char)(from > old ? from : old);
    }
}

/* ---- scalar instructions ----------------------------------------------------------------------------------------- */

/* Lanes that leave a loop are collected in a register and come back behind it: all that entered it. */
static int when_they_are_back(int value)
{
    for (int at = sets[value].parent; at != ROOT; at = sets[at].parent)
        if (sets[at].kind == LOOP)
            return sets[at].parent;
    return UNKNOWN;
}

static int combine(const char *op, int a, int b)
{
    if (begins(op, "and_not1") || begins(op, "andn2"))
        return without(a, b);
    if (begins(op, "or_not1") || begins(op, "orn2"))
        return a == ALIKE && b == ALIKE ? ALIKE : UNKNOWN;
    return begins(op, "and") ? both_of(a, b) : begins(op, "or") ? either_of(a, b) : differing(a, b);
}

static void run_saveexec(state *s, const instruction *i, const char *op)
{
    int was = s->exec, value = read_scalar(s, i->o[1]);
    if (begins(op, "or_saveexec"))
        write_exec(s, either_of(was, value), ROOT, (int)i->address);
    else if (begins(op, "and_saveexec"))
        write_exec(s, both_of(was, value), was, (int)i->address);
    else if (begins(op, "andn2_saveexec") || begins(op, "and_not1_saveexec"))
        write_exec(s, without(value, was), ROOT, (int)i->address);
    else
        write_exec(s, UNKNOWN, ROOT, (int)i->address);
    write_scalar(s, i->o[0], was);
}

static void run_mask(state *s, const instruction *i, const char *op)
{
    int a = read_scalar(s, i->o[1]), b = read_scalar(s, i->o[2]), value = combine(op, a, b), key = (int)i->address;
    if (i->o[0].kind != EXEC) {
        if (i->o[0].kind == SCALAR)
            write_scalar(s, i->o[0], value);
        return;
    }
    bool narrows = begins(op, "and") && i->o[1].kind == EXEC;
    if (begins(op, "or_b") && value == UNKNOWN && b >= ROOT && b < UPPER && sets[b].kind == LEFT)
        value = when_they_are_back(b);
    bool leaves = narrows && !begins(op, "and_b") && b == UNKNOWN && i->o[2].kind == SCALAR;
    write_exec(s, value, narrows ? a : ROOT, key);
    if (leaves)
        write_scalar(s, i->o[2], find_set(LEFT, s->exec, 0, false));
}

static void run_scalar(state *s, const instruction *i)
{
    static const char *const no_result[] = {"cmp", "bitcmp", "waitcnt", "wait_", "nop", "store", "setprio", "cbranch"};
    const char *op = i->name + 2;
    for (size_t k = 0; k < sizeof no_result / sizeof *no_result; k++)
        if (begins(op, no_result[k]))
            return;
    const bool is_mask = has(op, "_b32") || has(op, "_b64");
    if (has(op, "saveexec")) {
        run_saveexec(s, i, op);
    } else if (is_mask && i->n == 3 && (begins(op, "and") || begins(op, "or") || begins(op, "xor"))) {
        run_mask(s, i, op);
    } else if (i->n > 0 && (i->o[0].kind == SCALAR || i->o[0].kind == EXEC)) {
        int value = UNKNOWN;
        if (begins(op, "mov_b") || begins(op, "not_b"))
            value = read_scalar(s, i->o[1]);
        if (begins(op, "not_b") && value != ALIKE)
            value = UNKNOWN;
        if (begins(op, "cselect") && read_scalar(s, i->o[1]) == read_scalar(s, i->o[2]))
            value = read_scalar(s, i->o[1]);
        if (i->o[0].kind == SCALAR)
            write_scalar(s, i->o[0], value);
        else if (begins(op, "mov_b") && i->o[1].kind == NUMBER && i->o[1].number == -1)
            write_exec(s, ROOT, ROOT, 0);
        else
            write_exec(s, value, ROOT, (int)i->address);
    }
}

/* ---- vector instructions ----------------------------------------------------------------------------------------- */

static int bit_length(unsigned long x)
{
    int n = 0;
    while (n < DIFFERS && x >> n)
        n++;
    return n;
}
static int limited(int from)
{
    return from < 0 ? 0 : from > DIFFERS ? DIFFERS : from;
}
static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* x & mask */
static int alike_from_masked(int from, operand mask)
{
    if (mask.kind != NUMBER || from == 0)
        return from;
    unsigned long bits = (unsigned long)mask.number & 0xffffffffu;
    return bits & ((1ul << from) - 1) ? larger(0, bit_length(bits) < from ? bit_length(bits) : from) : 0;
}

/* Whether the operand that decides lane by lane does so alike for all. */
static bool takes_alike(const state *s, const instruction *i)
{
    if (has(i->name, "cndmask") || has(i->name, "co_ci") || has(i->name, "addc") || has(i->name, "subb")) {
        const operand vcc = {SCALAR, VCC, wave_bits == 5 ? 1 : 2, 0};
        operand last = i->o[i->n - 1];
        bool is_written = i->n > 3 && last.kind == SCALAR;
        return is_whole(read_scalar(s, is_written ? last : vcc));
    }
    return !has(i->name, "div_fmas");
}

/* From which bit on an arithmetic instruction's result is the same in all lanes. */
static int result_of(const state *s, const instruction *i, int first)
{
    static const char *const differing_names[] = {"mbcnt",   "dpp",      "sdwa",      "16",   "mfma",
                                                  "wmma",    "permlane", "atomic",    "_rtn", "permute",
                                                  "swizzle", "swap",     "writelane", "i8",   "iu8"};
    int all = 0;
    for (size_t k = 0; k < sizeof differing_names / sizeof *differing_names; k++)
        if (has(i->name, differing_names[k]))
            return DIFFERS;
    for (int k = first; k < i->n; k++)
        all = larger(all, alike_from(s, i->o[k]));
    if (has(i->name, "fmac") || has(i->name, "_mac_"))
        all = larger(all, alike_from(s, i->o[0]));
    if (!takes_alike(s, i))
        return DIFFERS;
    if (all == 0 || i->n < 3)
        return i->n == 2 && begins(i->name, "v_mov") ? all : all ? DIFFERS : 0;
    const operand *o = i->o;
    if (begins(i->name, "v_lshrrev_b32"))
        return o[1].kind == NUMBER ? limited(all - (int)o[1].number) : DIFFERS;
    if (begins(i->name, "v_lshlrev_b32"))
        return o[1].kind == NUMBER ? limited(all + (int)o[1].number) : DIFFERS;
    if (begins(i->name, "v_and_b32"))
        return o[1].kind == NUMBER ? alike_from_masked(all, o[1]) : alike_from_masked(all, o[2]);
    if (begins(i->name, "v_and_or_b32"))
        return larger(
            alike_from_masked(larger(alike_from(s, o[1]), alike_from(s, o[2])), o[o[1].kind == NUMBER ? 1 : 2]),
            alike_from(s, o[3]));
    if (begins(i->name, "v_bfe_u32") && o[2].kind == NUMBER && o[3].kind == NUMBER)
        return o[2].number >= all ? 0 : limited(all - (int)o[2].number);
    if (begins(i->name, "v_or_b32") || begins(i->name, "v_or3_b32") || begins(i->name, "v_xor_b32") ||
        begins(i->name, "v_mov_b32"))
        return all;
    return DIFFERS;
}

/* Whether a comparison finds the same in all lanes of a wave. */
static bool compares_alike(const state *s, const instruction *i, int first)
{
    if (result_of(s, i, first) == 0)
        return true;
    /* a number with a border that all lanes of a wave are on one side of: thread < 64 */
    operand a = i->o[first], b = i->o[first + 1];
    if ((a.kind == NUMBER) == (b.kind == NUMBER) || !(has(i->name, "u32") || has(i->name, "i32")))
        return false;
    bool less = has(i->name, "_lt_") || has(i->name, "_ge_"), more = has(i->name, "_gt_") || has(i->name, "_le_");
    /* x < number and x >= number have their border at the number, x > number and x <= number behind it */
    bool at_number = a.kind == NUMBER ? more : less;
    int from = larger(alike_from(s, a), alike_from(s, b));
    long border = (a.kind == NUMBER ? a.number : b.number) + (at_number ? 0 : 1);
    return (less || more) && from < DIFFERS && border % (1l << from) == 0;
}

static void run_vector(state *s, const instruction *i)
{
    const char *name = i->name;
    if (begins(name, "v_cmpx")) {
        int first = i->n > 2 ? 1 : 0;
        bool is_alike = compares_alike(s, i, first);
        if (first && i->o[0].kind == SCALAR)
            write_scalar(s, i->o[0], UNKNOWN);
        write_exec(s, is_alike ? ALIKE : UNKNOWN, s->exec, (int)i->address);
    } else if (begins(name, "v_cmp")) {
        if (i->o[0].kind == SCALAR)
            write_scalar(s, i->o[0], is_whole(s->exec) && compares_alike(s, i, 1) ? ALIKE : UNKNOWN);
    } else if (i->n && i->o[0].kind == SCALAR) { /* v_readfirstlane, v_s_exp_f32 */
        write_scalar(s, i->o[0], UNKNOWN);
    } else if (i->n && i->o[0].kind == VECTOR) {
        bool has_mask = i->n > 2 && i->o[1].kind == SCALAR &&
                        (has(name, "_co_") || has(name, "div_scale") || has(name, "mad_u64") || has(name, "mad_i64"));
        int from = result_of(s, i, has_mask ? 2 : 1);
        if (has_mask)
            write_scalar(s, i->o[1], from == 0 && is_whole(s->exec) && begins(name, "v_add_co") ? ALIKE : UNKNOWN);
        write_vector(s, i->o[0], from);
        if (has(name, "swap"))
            write_vector(s, i->o[1], DIFFERS);
    }
}

static bool is_exchange(const instruction *i)
{
    static const char *const names[] = {"v_permlane", "ds_bpermute", "ds_permute", "ds_swizzle",
                                        "v_readlane", "v_mfma",      "v_wmma",     "v_swmmac"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (begins(i->name, names[k]))
            return true;
    return begins(i->name, "v_") && (has(i->name, "_dpp") || has(i->text, " dpp8:"));
}

static void run(state *s, const instruction *i)
{
    if (begins(i->name, "s_")) {
        run_scalar(s, i);
    } else if (begins(i->name, "v_")) {
        if (i->dual) { /* both halves read before either writes */
            state before = *s;
            run_vector(s, i);
            if (i->dual->n && i->dual->o[0].kind == VECTOR)
                write_vector(s, i->dual->o[0], result_of(&before, i->dual, 1));
        } else {
            run_vector(s, i);
        }
    } else if (i->n && i->o[0].kind == VECTOR && !has(i->name, "store") && !begins(i->name, "ds_write")) {
        write_vector(s, i->o[0], result_of(s, i, 1)); /* what one address holds is alike */
    }
}

/* ---- a kernel ---------------------------------------------------------------------------------------------------- */

typedef struct block {
    int first, end; /* instructions */
    int next[2];    /* blocks; -1 = none; [1] is where a branch goes */
    bool is_head;   /* of a loop whose EXEC is narrowed from one time through to the next */
    bool is_head_whole;
    bool is_ordered;
    state in, out;
} block;

typedef struct kernel {
    char name[128];
    instruction *code;
    int n, room;
    block *blocks;
    int n_blocks, *order, n_ordered;
} kernel;

static int find_address(const kernel *k, long address)
{
    int low = 0, high = k->n - 1;
    while (low <= high) {
        int middle = (low + high) / 2;
        if ((long)k->code[middle].address == address)
            return middle;
        if ((long)k->code[middle].address < address)
            low = middle + 1;
        else
            high = middle - 1;
    }
    return -1;
}

static bool ends_block(const instruction *i)
{
    return i->target >= 0 || begins(i->name, "s_endpgm") || begins(i->name, "s_setpc");
}

static void find_blocks(kernel *k)
{
    int *block_of = allocate((size_t)k->n + 1, sizeof *block_of);
    bool *begins_here = allocate((size_t)k->n + 1, sizeof *begins_here);
    begins_here[0] = true;
    for (int i = 0; i < k->n; i++) {
        if (ends_block(&k->code[i]))
            begins_here[i + 1] = true;
        if (k->code[i].target >= 0) {
            int at = find_address(k, k->code[i].target);
            if (at < 0)
                die("a branch goes to where no instruction is");
            begins_here[at] = true;
        }
    }
    for (int i = 0, n = -1; i <= k->n; i++)
        block_of[i] = n += begins_here[i];
    k->n_blocks = block_of[k->n - 1] + 1;
    k->blocks = allocate((size_t)k->n_blocks, sizeof *k->blocks);
    for (int i = 0; i < k->n; i++) {
        block *b = &k->blocks[block_of[i]];
        if (begins_here[i])
            b->first = i;
        b->end = i + 1;
        const instruction *last = &k->code[i];
        b->next[0] = i + 1 < k->n && !begins(last->name, "s_endpgm") && !begins(last->name, "s_setpc") &&
                             strcmp(last->name, "s_branch") != 0
                         ? block_of[i + 1]
                         : -1;
        b->next[1] = last->target >= 0 ? block_of[find_address(k, last->target)] : -1;
    }
    free(block_of);
    free(begins_here);
}

/* Blocks in an order in which, but for loops, each comes behind those that lead to it. */
static void put_in_order(kernel *k, int at)
{
    block *b = &k->blocks[at];
    b->is_ordered = true;
    for (int e = 1; e >= 0; e--)
        if (b->next[e] >= 0 && !k->blocks[b->next[e]].is_ordered)
            put_in_order(k, b->next[e]);
    k->order[--k->n_ordered] = at;
}

/* What is known where `from` joins what other ways brought. is_empty: that way is taken when no lane is on; is_some:
 * when any is. */
static void join(state *s, const state *from, bool is_empty, bool is_some, int key)
{
    bool may_be_empty = from->may_be_empty && !is_some;
    if (!s->is_reached) {
        *s = *from;
        s->is_empty = is_empty;
        s->may_be_empty = may_be_empty || is_empty;
        return;
    }
    s->may_be_empty |= may_be_empty || is_empty;
    for (int r = 0; r < N_SCALAR; r++)
        if (s->scalar[r] != from->scalar[r])
            s->scalar[r] = is_whole(s->scalar[r] % UPPER) && is_whole(from->scalar[r] % UPPER) ? ALIKE : UNKNOWN;
    for (int r = 0; r < N_VECTOR; r++)
        s->alike_from[r] = (unsigned char)larger(s->alike_from[r], from->alike_from[r]);
    if (is_empty || s->exec == from->exec)
        return;
    bool whole = sets[s->exec].is_whole && sets[from->exec].is_whole;
    if (s->is_empty)
        s->exec = from->exec;
    else
        s->exec = find_set(PART, smallest_around(s->exec, from->exec), ~key, whole);
    s->is_empty = false;
}

static state begin_state(void)
{
    state s = {.is_reached = true, .exec = ROOT};
    memset(s.alike_from, DIFFERS, sizeof s.alike_from);
    s.alike_from[0] = (unsigned char)wave_bits; /* the number of the thread */
    return s;
}

/* What is known where block `number` begins, from the ways in and then those back from a loop's end; position[b]: b's
 * place in the order. False: the block was found to begin a loop that narrows EXEC, which its fields now say. */
static bool find_state(kernel *k, int number, const int *position, state *s)
{
    block *b = &k->blocks[number];
    *s = number == 0 ? begin_state() : (state){0};
    for (int way = 0; way < k->n_blocks * 4; way++) {
        bool is_back = way >= k->n_blocks * 2;
        const int e = way % 2, p = way / 2 % k->n_blocks;
        const block *from = &k->blocks[p];
        if (from->next[e] != number || !from->out.is_reached || (position[p] >= position[number]) != is_back)
            continue;
        const char *last = k->code[from->end - 1].name;
        bool is_empty = begins(last, e ? "s_cbranch_execz" : "s_cbranch_execnz");
        bool is_some = begins(last, e ? "s_cbranch_execnz" : "s_cbranch_execz");
        const int exec = s->exec, back = from->out.exec;
        join(s, &from->out, is_empty, is_some, number);
        if (!is_back)
            continue;
        s->exec = exec;
        bool is_same =
            back == (b->is_head ? find_set(LOOP, exec, number, b->is_head_whole && sets[exec].is_whole) : exec);
        if (!is_empty && !is_same && (!b->is_head || (b->is_head_whole && !sets[back].is_whole))) {
            b->is_head_whole = !b->is_head && sets[back].is_whole;
            b->is_head = true;
            return false;
        }
    }
    if (s->is_reached && b->is_head)
        s->exec = find_set(LOOP, s->exec, number, b->is_head_whole && sets[s->exec].is_whole);
    return true;
}

/* Once through all blocks. */
static bool pass(kernel *k, const int *position, bool *has_changed)
{
    *has_changed = false;
    for (int at = 0; at < k->n_blocks; at++) {
        state s;
        if (k->order[at] < 0)
            continue;
        block *b = &k->blocks[k->order[at]];
        if (!find_state(k, k->order[at], position, &s))
            return false;
        b->in = s;
        for (int i = b->first; s.is_reached && i < b->end; i++)
            run(&s, &k->code[i]);
        if (!is_equal(&s, &b->out)) {
            b->out = s;
            *has_changed = true;
        }
    }
    return true;
}

static void follow(kernel *k)
{
    enum { MANY = 10000 };
    int *position = allocate((size_t)k->n_blocks, sizeof *position);
    k->order = allocate((size_t)k->n_blocks, sizeof *k->order);
    for (int i = 0; i < k->n_blocks; i++)
        k->order[i] = -1;
    k->n_ordered = k->n_blocks;
    put_in_order(k, 0);
    for (int i = 0; i < k->n_blocks; i++)
        if (k->order[i] >= 0)
            position[k->order[i]] = i;
    bool has_changed = true;
    for (int n = 0; has_changed; n++) {
        if (n == MANY)
            die("the control flow of a kernel does not come to rest");
        if (!pass(k, position, &has_changed)) { /* a loop was found to narrow EXEC: all that was known is void */
            for (int b = 0; b < k->n_blocks; b++)
                k->blocks[b].in = k->blocks[b].out = (state){0};
            has_changed = true;
        }
    }
    free(position);
    free(k->order);
}

static int report(const kernel *k)
{
    int n_bad = 0, first = 0;
    for (int at = 0; at < k->n_blocks; at++) {
        state s = k->blocks[at].in;
        for (int i = k->blocks[at].first; s.is_reached && i < k->blocks[at].end; i++) {
            if (is_exchange(&k->code[i]) && !sets[s.exec].is_whole && n_bad++ == 0)
                first = i;
            run(&s, &k->code[i]);
        }
    }
    if (n_bad)
        printf("Divergent %s: %d exchange%s between lanes where some lanes may be off, the first at 0x%lx: %s\n",
               k->name, n_bad, n_bad > 1 ? "s" : "", k->code[first].address, k->code[first].text);
    return n_bad;
}

static int finish(kernel *k)
{
    int n_bad = 0;
    if (k->n) {
        n_sets = ROOT;
        find_set(PART, ROOT, -1, true);
        wave_bits = 5;
        for (int i = 0; i < k->n; i++)
            for (int o = 0; o < k->code[i].n; o++)
                if (k->code[i].o[o].kind == EXEC && has(k->code[i].name, "_b64"))
                    wave_bits = 6;
        find_blocks(k);
        follow(k);
        n_bad = report(k);
        free(k->blocks);
        for (int i = 0; i < k->n; i++)
            free(k->code[i].dual);
    }
    k->n = 0;
    return n_bad;
}

/* "\tNAME OPERANDS   // ADDRESS: ..." */
static void add_line(kernel *k, char *line)
{
    char *comment = strstr(line, "//");
    if (!comment || *line != '\t' || begins(line, "\ts_code_end"))
        return;
    if (k->n == k->room) {
        k->room = k->room * 2 + 1024;
        k->code = realloc(k->code, (size_t)k->room * sizeof *k->code);
        if (!k->code)
            die("out of memory");
    }
    instruction *i = &k->code[k->n++];
    memset(i, 0, sizeof *i);
    i->address = strtoul(comment + 2, NULL, 16);
    do
        *comment-- = 0;
    while (isspace((unsigned char)*comment));
    parse(i, line + 1);
    if ((begins(i->name, "s_cbranch") || strcmp(i->name, "s_branch") == 0) && i->n && i->o[0].kind == NUMBER)
        i->target = (long)i->address + 4 + 4 * (long)(short)i->o[0].number;
}

int main(void)
{
    static char line[1024];
    static kernel k;
    int n_bad = 0, n_kernels = 0;
    while (fgets(line, sizeof line, stdin)) {
        char *label = strchr(line, '<'), *end = strstr(line, ">:");
        if (*line != '\t' && label && end) {
            n_bad += finish(&k);
            snprintf(k.name, sizeof k.name, "%.*s", (int)(end - label - 1), label + 1);
            n_kernels++;
        } else {
            add_line(&k, line);
        }
    }
    n_bad += finish(&k);
    free(k.code);
    free(sets);
    if (!n_kernels)
        die("this is no disassembly");
    return n_bad != 0;
}
