/* What a request's head must be before anything is done for it: clear about where its body ends, addressed to this
 * server by a name that nobody else controls, and not sent by some other site's page. See internal.h. */
#include <arpa/inet.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "internal.h"

/* ---- where a body ends, and headers that may stand once ---- */

/* Of two, one server takes the first and the next the last: another host, token, site or type. */
static const char *const single[] = {"Host", "Authorization", "Origin", "Content-Type"};
enum { N_SINGLE = sizeof single / sizeof *single };

struct framing {
    int n_lengths, n_encodings;
    int n_single[N_SINGLE];
    bool wrong;
};

static bool is_letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* RFC 9110, 5.6.2. */
static bool is_token(const char *name)
{
    const char *c = name;
    while (*c && (is_letter_or_digit(*c) || strchr("!#$%&'*+-.^_`|~", *c)))
        c++;
    return c != name && !*c;
}

/* "content_length58", "-Content.Length", "TransferEncoding": a proxy may read the header in what is none. */
static bool looks_like(const char *name, const char *squeezed)
{
    for (; *name && *squeezed; name++) {
        if (!is_letter_or_digit(*name))
            continue;
        if ((*name | 0x20) != *squeezed)
            return false;
        squeezed++;
    }
    return !*squeezed;
}

/* libmicrohttpd 0.9.75 glues a line that continues a value to the name. Name and value of an unfolded line lie side by
 * side, where they were received, with the colon replaced; those of a folded one do not. */
static bool is_folded(const char *name, const char *value)
{
    uintptr_t end = (uintptr_t)name + strlen(name) + 1, begin = (uintptr_t)value;
    if (begin < end || begin - end > 32768)
        return true;
    for (const char *c = name + strlen(name) + 1; c != value; c++)
        if (*c != ' ' && *c != '\t')
            return true;
    return false;
}

static bw_mhd_result look_at_header(void *user, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    struct framing *f = user;
    const bool is_length = strcasecmp(name, "Content-Length") == 0;
    const bool is_encoding = strcasecmp(name, "Transfer-Encoding") == 0;
    f->n_lengths += is_length;
    f->n_encodings += is_encoding;
    for (int i = 0; i < N_SINGLE; i++)
        f->n_single[i] += strcasecmp(name, single[i]) == 0;
    f->wrong = f->wrong || !is_token(name) || !value || is_folded(name, value) || strchr(value, '\r');
    if (f->wrong)
        return MHD_YES;
    if (!is_length && !is_encoding)
        f->wrong = looks_like(name, "contentlength") || looks_like(name, "transferencoding");
    if (is_length)
        f->wrong = !*value || strspn(value, "0123456789") != strlen(value);
    if (is_encoding)
        f->wrong = strcasecmp(value, "chunked") != 0;
    /* The line's CR and LF both became zeros. Else the value went on behind a zero byte of its own, or there was no CR;
     * either way the next server may see another value. An empty line follows at least, so the byte is there. */
    if (is_length || is_encoding)
        f->wrong = f->wrong || value[strlen(value) + 1] != 0;
    return MHD_YES;
}

bool bw_guard_head(struct MHD_Connection *conn, const char **repeated)
{
    struct framing f = {0};
    *repeated = NULL;
    MHD_get_connection_values(conn, MHD_HEADER_KIND, look_at_header, &f);
    if (f.wrong || f.n_lengths + f.n_encodings > 1)
        return false;
    for (int i = 0; i < N_SINGLE && !*repeated; i++)
        if (f.n_single[i] > 1)
            *repeated = single[i];
    return !*repeated;
}

/* ---- paths ---- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
}

size_t bw_guard_unescape(void *user, struct MHD_Connection *conn, char *text)
{
    (void)user;
    (void)conn;
    char *to = text;
    for (const char *from = text; *from; from++, to++) {
        const int high = *from == '%' ? hex_digit(from[1]) : -1, low = high >= 0 ? hex_digit(from[2]) : -1;
        *to = *from;
        if (low < 0 || (high == 0 && low == 0))
            continue;
        *to = (char)(high * 16 + low);
        from += 2;
    }
    *to = 0;
    return (size_t)(to - text);
}

/* ---- lists of names ---- */

/* The next word of a list divided by commas and spaces; NULL: no more. */
static const char *next_word(const char **list, size_t *n_bytes)
{
    *list += strspn(*list, ", \t");
    const char *word = *list;
    *n_bytes = strcspn(word, ", \t");
    *list += *n_bytes;
    return *n_bytes ? word : NULL;
}

static bool same_text(const char *a, size_t n_a, const char *b, size_t n_b)
{
    return n_a == n_b && strncasecmp(a, b, n_a) == 0;
}

static bool is_listed(const char *list, const char *text, size_t n_bytes)
{
    size_t n;
    for (const char *word; (word = next_word(&list, &n)) != NULL;)
        if (same_text(word, n, "*", 1) || same_text(word, n, text, n_bytes))
            return true;
    return false;
}

bw_status bw_guard_check_lists(const char *cors, const char *hosts, bw_err *err)
{
    size_t n;
    for (const char *word; (word = next_word(&cors, &n)) != NULL;) {
        const char *colon = memchr(word, ':', n);
        bool special = same_text(word, n, "*", 1) || same_text(word, n, "null", 4) || same_text(word, n, "none", 4);
        bool origin = colon && n > (size_t)(colon - word) + 3 && strncmp(colon, "://", 3) == 0 &&
                      !memchr(colon + 3, '/', n - (size_t)(colon - word) - 3);
        if (!special && !origin)
            return bw_fail(err, BW_E_ARG,
                           "'%.*s' is no origin; write it as browsers do, such as http://localhost:3000, or * for all",
                           (int)n, word);
    }
    for (const char *word; (word = next_word(&hosts, &n)) != NULL;)
        if (memchr(word, '/', n) || (memchr(word, ':', n) && word[0] != '['))
            return bw_fail(err, BW_E_ARG,
                           "'%.*s' is no host name; write it without scheme, port and path, or * for any", (int)n,
                           word);
    return BW_OK;
}

/* ---- Host ---- */

/* "name:port", "[::1]:port". false: neither. */
static bool split_host(const char *text, size_t n_bytes, const char **name, size_t *n_name, const char **port,
                       size_t *n_port)
{
    const char *end = text + n_bytes, *colon;
    *name = text;
    if (n_bytes && text[0] == '[') {
        const char *close = memchr(text, ']', n_bytes);
        if (!close)
            return false;
        colon = close + 1 < end ? close + 1 : NULL;
        if (colon && *colon != ':')
            return false;
    } else {
        colon = memchr(text, ':', n_bytes);
    }
    *n_name = colon ? (size_t)(colon - text) : n_bytes;
    *port = colon ? colon + 1 : end;
    *n_port = colon ? (size_t)(end - colon - 1) : 0;
    for (size_t i = 0; i < *n_port; i++)
        if ((*port)[i] < '0' || (*port)[i] > '9')
            return false;
    return *n_name > 0;
}

static bool is_address(const char *name, size_t n_bytes)
{
    char text[INET6_ADDRSTRLEN + 1];
    struct in6_addr out;
    bool bracketed = n_bytes > 2 && name[0] == '[';
    if (bracketed) {
        name++;
        n_bytes -= 2;
    }
    if (n_bytes >= sizeof text)
        return false;
    memcpy(text, name, n_bytes);
    text[n_bytes] = 0;
    return inet_pton(bracketed ? AF_INET6 : AF_INET, text, &out) == 1;
}

bool bw_guard_host(const char *allowed, const char *bound, const char *host)
{
    const char *name, *port;
    size_t n_name, n_port;
    size_t n;
    for (const char *list = allowed, *word; (word = next_word(&list, &n)) != NULL;)
        if (same_text(word, n, "*", 1))
            return true;
    if (!host)
        return true; /* no browser leaves it out */
    if (!split_host(host, strlen(host), &name, &n_name, &port, &n_port))
        return false;
    if (name[n_name - 1] == '.')
        n_name--;
    return same_text(name, n_name, "localhost", 9) || is_address(name, n_name) ||
           same_text(name, n_name, bound, strlen(bound)) || is_listed(allowed, name, n_name);
}

/* ---- Origin ---- */

static bool is_same_origin(const char *origin, const char *host)
{
    const char *rest = strstr(origin, "://");
    const char *name[2], *port[2];
    size_t n_name[2], n_port[2];
    if (!rest || !host || !split_host(rest + 3, strlen(rest + 3), &name[0], &n_name[0], &port[0], &n_port[0]) ||
        !split_host(host, strlen(host), &name[1], &n_name[1], &port[1], &n_port[1]))
        return false;
    const char *usual = strncasecmp(origin, "https:", 6) == 0 ? "443" : "80";
    for (int i = 0; i < 2; i++) {
        if (n_port[i])
            continue;
        port[i] = usual;
        n_port[i] = strlen(usual);
    }
    return same_text(name[0], n_name[0], name[1], n_name[1]) && same_text(port[0], n_port[0], port[1], n_port[1]);
}

bw_origin bw_guard_origin(const char *cors, const char *origin, const char *host)
{
    if (!origin)
        return BW_ORIGIN_NONE;
    if (is_listed(cors, origin, strlen(origin)))
        return BW_ORIGIN_ALLOWED;
    return is_same_origin(origin, host) ? BW_ORIGIN_SAME : BW_ORIGIN_FOREIGN;
}
