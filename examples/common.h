/* SPDX-License-Identifier: MIT OR Unlicense
   common.h: what every example shares, so that an example itself shows only the library: options
   and --help, progress, result lines, pictures (PNG, animated PNG, a view in the terminal, a small
   renderer for 2D fields and 3D meshes), plots as PNG or SVG, VTK and OBJ files.

   static const ex_key keys[] = {{"density", "kg/m^3", "of the body", "500", 1e-3, 1e7, NULL},
   {"scheme", "", "coupling", "xpm", 0, 0, "xpm,weak"}}; ex_args a; ex_begin(&a, argc, argv,
   "balls", "Balls of several densities in a tank.", keys, 2, 64, 120);   size and frames by default
   for (frame = 0; frame < a.frames; frame++) { ... ex_progress(&a, frame); if (a.out) { draw into
   image; ex_frame(&a, &image); } } ex_result("depth", "%.4f", depth); return ex_end(&a, steps,
   stable); */
#ifndef COMMON_H
#define COMMON_H
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#if defined(__GNUC__) || defined(__clang__)
#define EX static __attribute__((unused))
#else
#define EX static
#endif

/* ------------------------------------------------------------------------------------------------
 * options */
typedef struct ex_key {
    const char *name, *unit, *help, *value; /* value: the default, as text */
    double min, max;                        /* range of a number (each number of a comma list) */
    const char *words;                      /* comma list of allowed words; NULL = numbers */
} ex_key;

typedef struct ex_args {
    /* --size, --frames, --threads (0 = as the system has it) */
    int size, frames, threads;
    /* --out: folder for pictures, NULL = nothing to draw; EX_NOWHERE with view=term alone */
    const char *out;
    /* --set view=term: frames are also drawn in the terminal */
    int term;
    const char *name;
    const ex_key *keys;
    const char *value[32];  /* current text of each key */
    int key_count, written; /* pictures written so far */
    double begin, shown;    /* wall clock, s */
    FILE *movie;
    long movie_count_at; /* where the number of frames stands in the file */
    uint32_t movie_serial;
    int movie_w, movie_h;
} ex_args;

#define EX_NOWHERE "/dev/null" /* a folder in which no file can be made */

EX double ex_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* for clock_fn of the library's descs */
EX double ex_clock(void *user) {
    (void)user;
    return ex_now();
}

EX void ex_die(const char *format, const char *a, const char *b) {
    fprintf(stderr, format, a, b);
    fprintf(stderr, "\n");
    exit(2);
}

EX int ex_find(const ex_args *a, const char *name) {
    int i;
    for (i = 0; i < a->key_count; i++)
        if (!strcmp(a->keys[i].name, name))
            return i;
    return -1;
}

EX void ex_help(const ex_args *a, const char *what) {
    int i;
    printf("%s: %s\n\nusage: build/%s [--size N] [--frames N] [--out DIR] [--threads N] [--set "
           "KEY=VALUE]... [--help]\n",
           a->name, what, a->name);
    printf("  --size N      cells (particles) along the longest side, default %d\n  --frames N    "
           "default %d\n",
           a->size, a->frames);
    printf("  --out DIR     write pictures there\n  --threads N   default: as OpenMP decides\nkeys "
           "for --set:\n");
    for (i = 0; i < a->key_count; i++) {
        const ex_key *k = &a->keys[i];
        printf("  %-14s %s%s%s%s, default %s, ", k->name, k->help, *k->unit ? " (" : "", k->unit,
               *k->unit ? ")" : "", k->value);
        if (k->words)
            printf("one of %s\n", k->words);
        else
            printf("range %g to %g\n", k->min, k->max);
    }
    if (ex_find(a, "view") < 0)
        printf("  %-14s where frames go, default files, one of files,term (block characters in the "
               "terminal)\n",
               "view");
}

/* 1 when text is one of the comma separated words */
EX int ex_has_word(const char *words, const char *text) {
    size_t n = strlen(text);
    for (; *words; words += strcspn(words, ","), words += *words == ',')
        if (strcspn(words, ",") == n && !strncmp(words, text, n))
            return 1;
    return 0;
}

/* Makes a folder and those above it; one that cannot be made is told by the first file. */
EX void ex_folder(const char *path) {
    char part[512];
    size_t i;
    for (i = 0; path[i] && i < sizeof part - 1; i++) {
        part[i] = path[i];
        part[i + 1] = 0;
        if (path[i + 1] == '/' || !path[i + 1])
            mkdir(part, 0777);
    }
}

/* Checks one value against its key; exits with status 2 and one line when it does not fit. */
EX void ex_check(const ex_key *k, const char *text) {
    const char *p = text;
    if (k->words) {
        if (!ex_has_word(k->words, text))
            ex_die("%s takes one of %s", k->name, k->words);
        return;
    }
    do {
        char *end;
        double v = strtod(p, &end);
        if (end == p || (*end && *end != ','))
            ex_die("%s: '%s' is not a number", k->name, text);
        if (!(v >= k->min && v <= k->max)) {
            char range[64];
            snprintf(range, sizeof range, "%g to %g", k->min, k->max);
            ex_die("%s is outside its range %s", k->name, range);
        }
        p = *end ? end + 1 : end;
    } while (*p);
}

EX int ex_int(const char *name, const char *text, int min) {
    char *end;
    long v = strtol(text ? text : "", &end, 10);
    if (!text || end == text || *end || v < min || v > 1000000)
        ex_die("%s: '%s' is not a whole number in range", name, text ? text : "");
    return (int)v;
}

EX void ex_begin(ex_args *a, int argc, char **argv, const char *name, const char *what,
                 const ex_key *keys, int key_count, int size, int frames) {
    int i;
    memset(a, 0, sizeof *a);
    a->name = name;
    a->keys = keys;
    a->key_count = key_count;
    a->size = size;
    a->frames = frames;
    for (i = 0; i < key_count; i++)
        a->value[i] = keys[i].value;
    for (i = 1; i < argc; i++) {
        const char *v = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(argv[i], "--help")) {
            ex_help(a, what);
            exit(0);
        } else if (!strcmp(argv[i], "--size"))
            a->size = ex_int("--size", v, 4), i++;
        else if (!strcmp(argv[i], "--frames"))
            a->frames = ex_int("--frames", v, 1), i++;
        else if (!strcmp(argv[i], "--threads"))
            a->threads = ex_int("--threads", v, 1), i++;
        else if (!strcmp(argv[i], "--out") && v)
            a->out = v, i++;
        else if (!strcmp(argv[i], "--set") && v && strchr(v, '=')) {
            char key[64];
            int k;
            snprintf(key, sizeof key, "%.*s", (int)(strchr(v, '=') - v), v);
            if ((k = ex_find(a, key)) < 0 && !strcmp(key, "view")) {
                static const ex_key view = {"view", "", "", "files", 0, 0, "files,term"};
                ex_check(&view, strchr(v, '=') + 1);
                a->term = !strcmp(strchr(v, '='), "=term");
            } else if (k < 0)
                ex_die("unknown key '%s'; %s --help lists them", key, name);
            else
                ex_check(&keys[k], a->value[k] = strchr(v, '=') + 1);
            i++;
        } else
            ex_die("unknown option '%s'; %s --help lists them", argv[i], name);
    }
#ifdef _OPENMP
    if (a->threads)
        omp_set_num_threads(a->threads);
#endif
    if (a->out)
        ex_folder(a->out);
    else if (a->term)
        a->out = EX_NOWHERE;
    a->begin = ex_now();
}

/* The value of a key: as number, as word, as list (count returned). The key must exist. */
EX double ex_number(const ex_args *a, const char *key) {
    return strtod(a->value[ex_find(a, key)], NULL);
}

EX const char *ex_word(const ex_args *a, const char *key) {
    return a->value[ex_find(a, key)];
}

EX int ex_is(const ex_args *a, const char *key, const char *word) {
    return !strcmp(ex_word(a, key), word);
}

EX int ex_list(const ex_args *a, const char *key, double *out, int most) {
    const char *p = ex_word(a, key);
    int n = 0;
    while (*p && n < most) {
        char *end;
        out[n++] = strtod(p, &end);
        p = *end ? end + 1 : end;
    }
    return n;
}

/* A bar with the time left; only on a terminal. */
EX void ex_progress(ex_args *a, int frame) {
    double now = ex_now(), part = (double)(frame + 1) / a->frames;
    int i;
    if (a->term || !isatty(2) || (now - a->shown < 0.1 && frame + 1 < a->frames))
        return;
    a->shown = now;
    fprintf(stderr, "\r%s [", a->name);
    for (i = 0; i < 40; i++)
        fputc(i < (int)(40 * part) ? '#' : ' ', stderr);
    fprintf(stderr, "] %3.0f %%, %.0f s left  %s", 100 * part, (now - a->begin) * (1 - part) / part,
            frame + 1 < a->frames ? "" : "\n");
    fflush(stderr);
}

EX void ex_result(const char *key, const char *format, ...) {
    va_list list;
    printf("result %s=", key);
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    printf("\n");
}

/* ------------------------------------------------------------------------------------------------
 * PNG */
typedef struct ex_bytes {
    uint8_t *at;
    size_t size, room;
    uint32_t bits;
    int bit_count;
} ex_bytes;

EX void ex_put(ex_bytes *b, int byte) {
    if (b->size == b->room) {
        b->room = b->room ? 2 * b->room : 65536;
        b->at = (uint8_t *)realloc(b->at, b->room);
        if (!b->at)
            ex_die("%s%s", "out of memory", "");
    }
    b->at[b->size++] = (uint8_t)byte;
}

EX void ex_put32(ex_bytes *b, uint32_t v) {
    int s;
    for (s = 24; s >= 0; s -= 8)
        ex_put(b, (int)(v >> s & 255));
}

/* least significant bit first */
EX void ex_bits(ex_bytes *b, uint32_t value, int count) {
    b->bits |= value << b->bit_count;
    for (b->bit_count += count; b->bit_count >= 8; b->bit_count -= 8, b->bits >>= 8)
        ex_put(b, (int)(b->bits & 255));
}

/* a Huffman code: most significant bit first */
EX void ex_code(ex_bytes *b, uint32_t code, int count) {
    uint32_t r = 0;
    int i;
    for (i = 0; i < count; i++)
        r |= (code >> i & 1) << (count - 1 - i);
    ex_bits(b, r, count);
}

/* the fixed code of the deflate format */
EX void ex_literal(ex_bytes *b, int v) {
    if (v < 144)
        ex_code(b, (uint32_t)(0x30 + v), 8);
    else if (v < 256)
        ex_code(b, (uint32_t)(0x190 + v - 144), 9);
    else if (v < 280)
        ex_code(b, (uint32_t)(v - 256), 7);
    else
        ex_code(b, (uint32_t)(0xc0 + v - 280), 8);
}

/* Length and distance codes grow by extra bits: base value and bits of code n follow from n alone.
 */
EX void ex_match(ex_bytes *b, int length, int distance) {
    int n, extra, base;
    if (length == 258)
        ex_literal(b, 285);
    else {
        int l = length - 3;
        for (extra = 0; (l >> extra) >= 8; extra++) {
        }
        n = extra * 4 + (l >> extra);
        ex_literal(b, 257 + n);
        ex_bits(b, (uint32_t)(l & ((1 << extra) - 1)), extra);
    }
    base = distance - 1;
    for (extra = 0; (base >> extra) >= 4; extra++) {
    }
    n = extra * 2 + (base >> extra);
    ex_code(b, (uint32_t)n, 5);
    ex_bits(b, (uint32_t)(base & ((1 << extra) - 1)), extra);
}

/* zlib stream of data: LZ77 with hash chains, fixed Huffman codes. */
EX void ex_deflate(ex_bytes *b, const uint8_t *data, int size) {
    enum {
        HASH = 1 << 15,
        WINDOW = 1 << 15
    };

    int *head = (int *)malloc(HASH * sizeof(int)), *prev = (int *)malloc(WINDOW * sizeof(int)), i,
        j;
    uint32_t a = 1, c = 0;
    for (i = 0; i < HASH; i++)
        head[i] = -1;
    ex_put(b, 0x78);
    ex_put(b, 0x01);
    ex_bits(b, 1, 1);
    ex_bits(b, 1, 2);
    for (i = 0; i < size;) {
        int best = 0, distance = 0, h = 0, tries = 24, most = size - i < 258 ? size - i : 258, k;
        if (most >= 3) {
            h = (data[i] << 10 ^ data[i + 1] << 5 ^ data[i + 2]) & (HASH - 1);
            for (j = head[h]; j >= 0 && i - j <= WINDOW - 1 && tries--;
                 j = prev[j & (WINDOW - 1)]) {
                for (k = 0; k < most && data[j + k] == data[i + k]; k++) {
                }
                if (k > best)
                    best = k, distance = i - j;
                if (best == most)
                    break;
            }
        }
        if (best < 3)
            best = 1, ex_literal(b, data[i]);
        else
            ex_match(b, best, distance);
        for (k = 0; k < best; k++, i++)
            if (i + 2 < size) {
                h = (data[i] << 10 ^ data[i + 1] << 5 ^ data[i + 2]) & (HASH - 1);
                prev[i & (WINDOW - 1)] = head[h];
                head[h] = i;
            }
    }
    ex_literal(b, 256);
    ex_bits(b, 0, 7);
    b->bits = 0;
    b->bit_count = 0;
    for (i = 0; i < size; i++)
        a = (a + data[i]) % 65521, c = (c + a) % 65521;
    ex_put32(b, c << 16 | a);
    free(head);
    free(prev);
}

EX void ex_chunk(FILE *f, const char *type, const uint8_t *data, size_t size) {
    static uint32_t table[256];
    uint32_t crc = 0xffffffffu, n, k;
    uint8_t w[8];
    size_t i;
    if (!table[1])
        for (n = 0; n < 256; n++) {
            uint32_t v = n;
            for (k = 0; k < 8; k++)
                v = v & 1 ? 0xedb88320u ^ v >> 1 : v >> 1;
            table[n] = v;
        }
    for (i = 0; i < 4; i++)
        w[i] = (uint8_t)(size >> (24 - 8 * i)), w[4 + i] = (uint8_t)type[i];
    fwrite(w, 1, 8, f);
    if (size)
        fwrite(data, 1, size, f);
    for (i = 0; i < 4; i++)
        crc = table[(crc ^ w[4 + i]) & 255] ^ crc >> 8;
    for (i = 0; i < size; i++)
        crc = table[(crc ^ data[i]) & 255] ^ crc >> 8;
    crc ^= 0xffffffffu;
    for (i = 0; i < 4; i++)
        w[i] = (uint8_t)(crc >> (24 - 8 * i));
    fwrite(w, 1, 4, f);
}

/* row 0 is the top; depth only in 3D */
typedef struct ex_image {
    int w, h;
    uint8_t *rgb;
    float *depth;
} ex_image;

typedef struct ex_color {
    uint8_t r, g, b;
} ex_color;

EX ex_color ex_rgb(int r, int g, int b) {
    ex_color c;
    c.r = (uint8_t)r;
    c.g = (uint8_t)g;
    c.b = (uint8_t)b;
    return c;
}

EX void ex_clear(ex_image *m, ex_color c) {
    int i;
    for (i = 0; i < m->w * m->h; i++)
        m->rgb[3 * i] = c.r, m->rgb[3 * i + 1] = c.g, m->rgb[3 * i + 2] = c.b;
    if (m->depth)
        for (i = 0; i < m->w * m->h; i++)
            m->depth[i] = 1e30f;
}

EX void ex_paste(ex_image *m, const ex_image *part, int x, int y) { /* part must fit */
    int i;
    for (i = 0; i < part->h; i++)
        memcpy(m->rgb + 3 * ((size_t)(y + i) * (size_t)m->w + (size_t)x),
               part->rgb + 3 * (size_t)i * (size_t)part->w, 3 * (size_t)part->w);
}

EX ex_image ex_image_make(int w, int h) {
    ex_image m;
    m.w = w;
    m.h = h;
    m.rgb = (uint8_t *)malloc((size_t)w * (size_t)h * 3);
    m.depth = (float *)malloc((size_t)w * (size_t)h * sizeof(float));
    if (!m.rgb || !m.depth)
        ex_die("%s%s", "out of memory", "");
    ex_clear(&m, ex_rgb(255, 255, 255));
    return m;
}

EX void ex_image_free(ex_image *m) {
    free(m->rgb);
    free(m->depth);
    m->rgb = NULL;
    m->depth = NULL;
}

/* Compressed pixels of a picture: the 'up' or 'sub' filter per row, whichever leaves less. */
EX ex_bytes ex_image_data(const ex_image *m) {
    size_t row = (size_t)m->w * 3, x;
    uint8_t *raw = (uint8_t *)malloc((row + 1) * (size_t)m->h), *q = raw;
    ex_bytes b;
    int y;
    memset(&b, 0, sizeof b);
    for (y = 0; y < m->h; y++) {
        const uint8_t *p = m->rgb + row * (size_t)y, *up = y ? p - row : NULL;
        long sub_cost = 0, up_cost = 0;
        for (x = 0; x < row; x++) {
            sub_cost += abs((int8_t)(p[x] - (x >= 3 ? p[x - 3] : 0)));
            up_cost += up ? abs((int8_t)(p[x] - up[x])) : 255;
        }
        *q++ = up_cost <= sub_cost ? 2 : 1;
        for (x = 0; x < row; x++)
            *q++ = (uint8_t)(p[x] - (up_cost <= sub_cost ? up[x] : x >= 3 ? p[x - 3] : 0));
    }
    ex_deflate(&b, raw, (int)(q - raw));
    free(raw);
    return b;
}

EX void ex_png_head(FILE *f, int w, int h) {
    static const uint8_t magic[8] = {137, 80, 78, 71, 13, 10, 26, 10};
    ex_bytes b;
    memset(&b, 0, sizeof b);
    fwrite(magic, 1, 8, f);
    ex_put32(&b, (uint32_t)w);
    ex_put32(&b, (uint32_t)h);
    ex_put(&b, 8);
    ex_put(&b, 2);
    ex_put(&b, 0);
    ex_put(&b, 0);
    ex_put(&b, 0);
    ex_chunk(f, "IHDR", b.at, b.size);
    free(b.at);
}

EX int ex_png(const char *path, const ex_image *m) {
    FILE *f = fopen(path, "wb");
    ex_bytes b;
    if (!f)
        return 0;
    b = ex_image_data(m);
    ex_png_head(f, m->w, m->h);
    ex_chunk(f, "IDAT", b.at, b.size);
    ex_chunk(f, "IEND", NULL, 0);
    free(b.at);
    return fclose(f) == 0;
}

/* Mean colour of the box of pixels that (column, row) of a grid of columns x rows covers. */
EX ex_color ex_average(const ex_image *m, int column, int columns, int row, int rows) {
    int x0 = m->w * column / columns, x1 = m->w * (column + 1) / columns, y0 = m->h * row / rows,
        y1 = m->h * (row + 1) / rows, x, y, c;
    long sum[3] = {0, 0, 0}, n = (long)(x1 - x0) * (y1 - y0);
    for (y = y0; y < y1; y++)
        for (x = x0; x < x1; x++)
            for (c = 0; c < 3; c++)
                sum[c] += m->rgb[3 * ((size_t)y * (size_t)m->w + (size_t)x) + (size_t)c];
    return n > 0 ? ex_rgb((int)(sum[0] / n), (int)(sum[1] / n), (int)(sum[2] / n))
                 : ex_rgb(0, 0, 0);
}

/* The picture in the terminal: two pixels a character in colour; piped: five shades of blocks, dark
 * is full. */
EX void ex_term(FILE *f, const ex_image *m, int columns, int color, int again) {
    static const char *shade[5] = {"\xe2\x96\x88", "\xe2\x96\x93", "\xe2\x96\x92", "\xe2\x96\x91",
                                   " "};
    int rows = m->h * columns / (2 * m->w), i, j;
    if (rows < 1)
        rows = 1;
    if (color && again)
        fprintf(f, "\x1b[%dA", rows); /* over the frame before */
    for (j = 0; j < rows; j++, fputs(color ? "\x1b[0m\n" : "\n", f))
        for (i = 0; i < columns; i++)
            if (color) {
                ex_color a = ex_average(m, i, columns, 2 * j, 2 * rows),
                         b = ex_average(m, i, columns, 2 * j + 1, 2 * rows);
                fprintf(f, "\x1b[38;2;%d;%d;%dm\x1b[48;2;%d;%d;%dm\xe2\x96\x80", a.r, a.g, a.b, b.r,
                        b.g, b.b);
            } else {
                ex_color a = ex_average(m, i, columns, j, rows);
                fputs(shade[(2 * a.r + 5 * a.g + a.b) * 5 / 2048], f);
            }
    fflush(f);
}

EX void ex_term_frame(const ex_args *a, const ex_image *m) {
    int columns = 80, color = isatty(1);
#ifdef TIOCGWINSZ
    struct winsize size;
    if (color && ioctl(1, TIOCGWINSZ, &size) == 0 && size.ws_col > 8 && size.ws_row > 8) {
        /* as high as the window, at most as wide */
        columns = 2 * m->w * (size.ws_row - 4) / m->h;
        if (columns > size.ws_col)
            columns = size.ws_col;
    }
#endif
    ex_term(stdout, m, columns, color, a->written > 0);
}

/* One frame: DIR/NAME_0000.png, and the same frame appended to the animated DIR/NAME.png (25 frames
 * per second). */
EX void ex_frame(ex_args *a, const ex_image *m) {
    char path[512];
    ex_bytes data, head;
    if (a->term)
        ex_term_frame(a, m);
    if (!a->out || !strcmp(a->out, EX_NOWHERE)) {
        a->written++;
        return;
    }
    snprintf(path, sizeof path, "%s/%s_%04d.png", a->out, a->name, a->written);
    if (!ex_png(path, m))
        ex_die("cannot write %s%s", path, "");
    if (!a->movie) {
        static const uint8_t none[8] = {0};
        snprintf(path, sizeof path, "%s/%s.png", a->out, a->name);
        if (!(a->movie = fopen(path, "wb")))
            ex_die("cannot write %s%s", path, "");
        a->movie_w = m->w;
        a->movie_h = m->h;
        ex_png_head(a->movie, m->w, m->h);
        a->movie_count_at = ftell(a->movie);
        ex_chunk(a->movie, "acTL", none, 8);
    }
    if (m->w != a->movie_w || m->h != a->movie_h)
        return;
    memset(&head, 0, sizeof head);
    ex_put32(&head, a->movie_serial++);
    ex_put32(&head, (uint32_t)m->w);
    ex_put32(&head, (uint32_t)m->h);
    ex_put32(&head, 0);
    ex_put32(&head, 0);
    ex_put(&head, 0);
    ex_put(&head, 1);
    ex_put(&head, 0);
    ex_put(&head, 25);
    ex_put(&head, 0);
    ex_put(&head, 0);
    ex_chunk(a->movie, "fcTL", head.at, head.size);
    data = ex_image_data(m);
    if (a->written == 0)
        ex_chunk(a->movie, "IDAT", data.at, data.size);
    else {
        ex_bytes body;
        size_t i;
        memset(&body, 0, sizeof body);
        ex_put32(&body, a->movie_serial++);
        for (i = 0; i < data.size; i++)
            ex_put(&body, data.at[i]);
        ex_chunk(a->movie, "fdAT", body.at, body.size);
        free(body.at);
    }
    free(head.at);
    free(data.at);
    a->written++;
}

/* Closes the movie and prints the lines every example prints. Returns main's status. */
EX int ex_end(ex_args *a, long steps, int stable) {
    double seconds = ex_now() - a->begin;
    if (a->movie) {
        ex_bytes b;
        memset(&b, 0, sizeof b);
        ex_chunk(a->movie, "IEND", NULL, 0);
        ex_put32(&b, (uint32_t)a->written);
        ex_put32(&b, 0);
        fseek(a->movie, a->movie_count_at, SEEK_SET);
        ex_chunk(a->movie, "acTL", b.at, b.size);
        fclose(a->movie);
        free(b.at);
    }
    ex_result("stable", "%d", stable);
    ex_result("seconds_per_step", "%.6f", steps > 0 ? seconds / (double)steps : 0.0);
    ex_result("steps", "%ld", steps);
    return 0;
}

/* ------------------------------------------------------------------------------------------------
 * 2D drawing */
/* A window onto the world: [x0,x1] x [y0,y1] fills the pixels left..left+w, top..top+h, y up. */
typedef struct ex_view {
    double x0, y0, x1, y1;
    int left, top, w, h;
} ex_view;

EX ex_view ex_view_make(double x0, double y0, double x1, double y1, int left, int top, int w,
                        int h) {
    ex_view v;
    v.x0 = x0;
    v.y0 = y0;
    v.x1 = x1;
    v.y1 = y1;
    v.left = left;
    v.top = top;
    v.w = w;
    v.h = h;
    return v;
}

EX double ex_px(const ex_view *v, double x) {
    return v->left + (x - v->x0) / (v->x1 - v->x0) * v->w;
}

EX double ex_py(const ex_view *v, double y) {
    return v->top + (v->y1 - y) / (v->y1 - v->y0) * v->h;
}

EX void ex_blend(ex_image *m, int x, int y, ex_color c, double alpha) {
    uint8_t *p;
    if (x < 0 || y < 0 || x >= m->w || y >= m->h || !(alpha > 0))
        return;
    if (alpha > 1)
        alpha = 1;
    p = m->rgb + 3 * ((size_t)y * (size_t)m->w + (size_t)x);
    p[0] = (uint8_t)(p[0] + alpha * (c.r - p[0]));
    p[1] = (uint8_t)(p[1] + alpha * (c.g - p[1]));
    p[2] = (uint8_t)(p[2] + alpha * (c.b - p[2]));
}

/* Colour maps on [0, 1]: 0 dark to bright (speed, smoke), 1 blue-white-red (signed), 2 white to
 * grey (smoke on white), 3 water depth. */
EX ex_color ex_map(int map, double t) {
    static const double stops[4][5][3] = {
        {{13, 8, 60}, {84, 20, 120}, {190, 55, 84}, {245, 140, 40}, {252, 250, 170}},
        {{33, 80, 170}, {140, 180, 225}, {246, 246, 246}, {230, 150, 120}, {170, 30, 45}},
        {{255, 255, 255}, {205, 208, 214}, {150, 154, 165}, {95, 98, 112}, {45, 47, 60}},
        {{222, 240, 250}, {150, 205, 235}, {80, 160, 215}, {35, 110, 180}, {12, 60, 125}}};
    int i;
    double f;
    if (!(t > 0))
        t = 0;
    if (t > 1)
        t = 1;
    i = t >= 1 ? 3 : (int)(t * 4);
    f = t * 4 - i;
    return ex_rgb((int)(stops[map][i][0] + f * (stops[map][i + 1][0] - stops[map][i][0])),
                  (int)(stops[map][i][1] + f * (stops[map][i + 1][1] - stops[map][i][1])),
                  (int)(stops[map][i][2] + f * (stops[map][i + 1][2] - stops[map][i][2])));
}

/* Bilinear value of a cell-centred field that covers the view's world box. */
EX double ex_field_at(const fsi_real *f, int nx, int ny, double sx, double sy) {
    double x = sx * nx - 0.5, y = sy * ny - 0.5, a, b;
    int i, j;
    x = x < 0 ? 0 : x > nx - 1 ? nx - 1 : x;
    y = y < 0 ? 0 : y > ny - 1 ? ny - 1 : y;
    i = (int)x < nx - 1 ? (int)x : nx - 2 < 0 ? 0 : nx - 2;
    j = (int)y < ny - 1 ? (int)y : ny - 2 < 0 ? 0 : ny - 2;
    a = x - i;
    b = y - j;
    {
        int i1 = i + 1 < nx ? i + 1 : i, j1 = j + 1 < ny ? j + 1 : j;
        double f00 = (double)f[i + nx * j], f10 = (double)f[i1 + nx * j],
               f01 = (double)f[i + nx * j1], f11 = (double)f[i1 + nx * j1];
        return (1 - b) * ((1 - a) * f00 + a * f10) + b * ((1 - a) * f01 + a * f11);
    }
}

EX void ex_draw_field(ex_image *m, const ex_view *v, int nx, int ny, const fsi_real *f, double lo,
                      double hi, int map) {
    int x, y;
    for (y = 0; y < v->h; y++)
        for (x = 0; x < v->w; x++) {
            double t =
                (ex_field_at(f, nx, ny, (x + 0.5) / v->w, 1 - (y + 0.5) / v->h) - lo) / (hi - lo);
            ex_blend(m, v->left + x, v->top + y, ex_map(map, t), 1);
        }
}

/* Liquid where phi < 0 (cell-centred, metres; h = cell size): filled with smooth edges and a dark
 * rim. */
EX void ex_draw_liquid(ex_image *m, const ex_view *v, int nx, int ny, const fsi_real *phi,
                       ex_color c) {
    double pixel = (v->x1 - v->x0) / v->w;
    int x, y;
    for (y = 0; y < v->h; y++)
        for (x = 0; x < v->w; x++) {
            double d = ex_field_at(phi, nx, ny, (x + 0.5) / v->w, 1 - (y + 0.5) / v->h) / pixel;
            ex_blend(m, v->left + x, v->top + y, c, 0.5 - d);
            ex_blend(m, v->left + x, v->top + y, ex_rgb(c.r / 2, c.g / 2, c.b / 2),
                     0.7 - 0.35 * fabs(d + 1));
        }
}

/* A line in pixels with round smooth edges. */
EX void ex_line(ex_image *m, double x0, double y0, double x1, double y1, double width, ex_color c) {
    double r = width / 2 + 1, dx = x1 - x0, dy = y1 - y0, l2 = dx * dx + dy * dy;
    int x, y, xa, xb, ya, yb;
    if (!(fabs(x0) < 1e5 && fabs(x1) < 1e5 && fabs(y0) < 1e5 && fabs(y1) < 1e5))
        return;
    xa = (int)floor((x0 < x1 ? x0 : x1) - r);
    xb = (int)ceil((x0 > x1 ? x0 : x1) + r);
    ya = (int)floor((y0 < y1 ? y0 : y1) - r);
    yb = (int)ceil((y0 > y1 ? y0 : y1) + r);
    if (xa < 0)
        xa = 0;
    if (ya < 0)
        ya = 0;
    if (xb > m->w - 1)
        xb = m->w - 1;
    if (yb > m->h - 1)
        yb = m->h - 1;
    for (y = ya; y <= yb; y++)
        for (x = xa; x <= xb; x++) {
            double px = x + 0.5 - x0, py = y + 0.5 - y0, t = l2 > 0 ? (px * dx + py * dy) / l2 : 0;
            t = t < 0 ? 0 : t > 1 ? 1 : t;
            px -= t * dx;
            py -= t * dy;
            ex_blend(m, x, y, c, width / 2 + 0.5 - sqrt(px * px + py * py));
        }
}

EX void ex_disk(ex_image *m, double x, double y, double r, ex_color c) {
    ex_line(m, x, y, x, y, 2 * r, c);
}

/* A 2D surface: closed ones filled (even-odd over its segments, 4 x 4 samples a pixel) with a rim,
 * shells as lines. */
EX void ex_draw_surface(ex_image *m, const ex_view *v, const fsi_surface *s, ex_color c) {
    int e, sub, x;
    if (s->closed) {
        float *cover = (float *)calloc((size_t)m->w, sizeof(float));
        double cross[256];
        int y;
        for (y = v->top; y < v->top + v->h && y < m->h; y++) {
            memset(cover, 0, (size_t)m->w * sizeof(float));
            for (sub = 0; sub < 4; sub++) {
                double py = y + (sub + 0.5) / 4;
                int n = 0, i, j;
                for (e = 0; e < s->element_count && n < 256; e++) {
                    const fsi_real *p = s->x + 3 * s->index[2 * e],
                                   *q = s->x + 3 * s->index[2 * e + 1];
                    double ax = ex_px(v, (double)p[0]), ay = ex_py(v, (double)p[1]),
                           bx = ex_px(v, (double)q[0]), by = ex_py(v, (double)q[1]);
                    if ((ay <= py) != (by <= py))
                        cross[n++] = ax + (py - ay) / (by - ay) * (bx - ax);
                }
                for (i = 1; i < n; i++)
                    for (j = i; j > 0 && cross[j] < cross[j - 1]; j--) {
                        double t = cross[j];
                        cross[j] = cross[j - 1];
                        cross[j - 1] = t;
                    }
                for (i = 0; i + 1 < n; i += 2) {
                    int a = (int)floor(cross[i]), b = (int)ceil(cross[i + 1]);
                    for (x = a < 0 ? 0 : a; x < b && x < m->w; x++) {
                        double lo = cross[i] > x ? cross[i] : x,
                               hi = cross[i + 1] < x + 1 ? cross[i + 1] : x + 1;
                        if (hi > lo)
                            cover[x] += (float)((hi - lo) / 4);
                    }
                }
            }
            for (x = 0; x < m->w; x++)
                ex_blend(m, x, y, c, (double)cover[x]);
        }
        free(cover);
    }
    for (e = 0; e < s->element_count; e++) {
        const fsi_real *p = s->x + 3 * s->index[2 * e], *q = s->x + 3 * s->index[2 * e + 1];
        ex_line(m, ex_px(v, (double)p[0]), ex_py(v, (double)p[1]), ex_px(v, (double)q[0]),
                ex_py(v, (double)q[1]), s->closed ? 1.2 : 2.5,
                s->closed ? ex_rgb(c.r / 2, c.g / 2, c.b / 2) : c);
    }
}

/* Text in a 5 x 7 face, capitals and small letters alike; size is the height of a dot in pixels. */
EX void ex_text(ex_image *m, int x, int y, int size, ex_color c, const char *text) {
    static const uint8_t font[][5] = {
        {0x3e, 0x51, 0x49, 0x45, 0x3e}, {0, 0x42, 0x7f, 0x40, 0},
        {0x42, 0x61, 0x51, 0x49, 0x46}, {0x21, 0x41, 0x45, 0x4b, 0x31},
        {0x18, 0x14, 0x12, 0x7f, 0x10}, {0x27, 0x45, 0x45, 0x45, 0x39},
        {0x3c, 0x4a, 0x49, 0x49, 0x30}, {0x01, 0x71, 0x09, 0x05, 0x03},
        {0x36, 0x49, 0x49, 0x49, 0x36}, {0x06, 0x49, 0x49, 0x29, 0x1e},
        {0x7e, 0x11, 0x11, 0x11, 0x7e}, {0x7f, 0x49, 0x49, 0x49, 0x36},
        {0x3e, 0x41, 0x41, 0x41, 0x22}, {0x7f, 0x41, 0x41, 0x22, 0x1c},
        {0x7f, 0x49, 0x49, 0x49, 0x41}, {0x7f, 0x09, 0x09, 0x09, 0x01},
        {0x3e, 0x41, 0x49, 0x49, 0x7a}, {0x7f, 0x08, 0x08, 0x08, 0x7f},
        {0, 0x41, 0x7f, 0x41, 0},       {0x20, 0x40, 0x41, 0x3f, 0x01},
        {0x7f, 0x08, 0x14, 0x22, 0x41}, {0x7f, 0x40, 0x40, 0x40, 0x40},
        {0x7f, 0x02, 0x0c, 0x02, 0x7f}, {0x7f, 0x04, 0x08, 0x10, 0x7f},
        {0x3e, 0x41, 0x41, 0x41, 0x3e}, {0x7f, 0x09, 0x09, 0x09, 0x06},
        {0x3e, 0x41, 0x51, 0x21, 0x5e}, {0x7f, 0x09, 0x19, 0x29, 0x46},
        {0x46, 0x49, 0x49, 0x49, 0x31}, {0x01, 0x01, 0x7f, 0x01, 0x01},
        {0x3f, 0x40, 0x40, 0x40, 0x3f}, {0x1f, 0x20, 0x40, 0x20, 0x1f},
        {0x3f, 0x40, 0x38, 0x40, 0x3f}, {0x63, 0x14, 0x08, 0x14, 0x63},
        {0x07, 0x08, 0x70, 0x08, 0x07}, {0x61, 0x51, 0x49, 0x45, 0x43},
        {0, 0x60, 0x60, 0, 0},          {0x08, 0x08, 0x08, 0x08, 0x08},
        {0x20, 0x10, 0x08, 0x04, 0x02}, {0, 0x36, 0x36, 0, 0},
        {0x14, 0x14, 0x14, 0x14, 0x14}, {0, 0x1c, 0x22, 0x41, 0},
        {0, 0x41, 0x22, 0x1c, 0},       {0x08, 0x08, 0x3e, 0x08, 0x08},
        {0x23, 0x13, 0x08, 0x64, 0x62}, {0x04, 0x02, 0x01, 0x02, 0x04}};
    static const char *order = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ.-/:=()+%^";
    for (; *text; text++, x += 6 * size) {
        char ch = *text >= 'a' && *text <= 'z' ? (char)(*text - 32) : *text;
        const char *at = strchr(order, ch);
        int i, j, a, b;
        if (!at)
            continue;
        for (i = 0; i < 5; i++)
            for (j = 0; j < 7; j++)
                if (font[at - order][i] >> j & 1)
                    for (a = 0; a < size; a++)
                        for (b = 0; b < size; b++)
                            ex_blend(m, x + i * size + a, y + j * size + b, c, 1);
    }
}

/* A colour bar at the right edge of the view, with its two ends and a title. */
EX void ex_colorbar(ex_image *m, const ex_view *v, int map, double lo, double hi,
                    const char *title) {
    char text[32];
    int x = v->left + v->w + 8, y, i;
    for (y = 0; y < v->h; y++)
        for (i = 0; i < 12; i++)
            ex_blend(m, x + i, v->top + y, ex_map(map, 1 - (double)y / v->h), 1);
    snprintf(text, sizeof text, "%.3g", hi);
    ex_text(m, x + 16, v->top, 1, ex_rgb(40, 40, 40), text);
    snprintf(text, sizeof text, "%.3g", lo);
    ex_text(m, x + 16, v->top + v->h - 8, 1, ex_rgb(40, 40, 40), text);
    ex_text(m, x, v->top - 12, 1, ex_rgb(40, 40, 40), title);
}

/* ------------------------------------------------------------------------------------------------
 * plots */
/* A curve with a name; points that are not finite (or not positive on a logarithmic axis) are left
 * out. */
typedef struct ex_curve {
    const char *name;
    int n;
    const double *x, *y;
    ex_color color;
} ex_curve;

/* range and ticks in what is drawn: log10 where log is set */
typedef struct ex_axis {
    double lo, hi, tick[16];
    int log, ticks;
} ex_axis;

EX int ex_plot_value(const ex_axis *a, double v, double *out) {
    *out = a->log ? (v > 0 ? log10(v) : -1e301) : v;
    return fabs(*out) < 1e300;
}

EX int ex_plot_point(const ex_axis *a, const ex_curve *c, int k, double p[2]) {
    return ex_plot_value(&a[0], c->x[k], &p[0]) && ex_plot_value(&a[1], c->y[k], &p[1]);
}

/* Ticks at 1, 2, 5 times a power of ten, at most seven; decades (and 2, 5 inside where they are
 * few) on a logarithmic axis. */
EX void ex_axis_ticks(ex_axis *a) {
    double step = pow(10, floor(log10((a->hi - a->lo) / 6))), t;
    static const double part[3] = {0, 0.30102999566398, 0.69897000433602}; /* log10 of 1, 2, 5 */
    int i, few = a->hi - a->lo < 2.5;
    a->ticks = 0;
    if (a->log) {
        int every = (int)((a->hi - a->lo) / 7) + 1;
        for (t = floor(a->lo); t <= a->hi; t += few ? 1 : every)
            for (i = 0; i < (few ? 3 : 1); i++)
                if (t + part[i] >= a->lo - 1e-9 && t + part[i] <= a->hi + 1e-9 && a->ticks < 16)
                    a->tick[a->ticks++] = t + part[i];
        return;
    }
    for (i = 0; (a->hi - a->lo) / step > 7; i++)
        step *= i % 3 == 1 ? 2.5 : 2;
    for (t = ceil(a->lo / step - 1e-9); t * step <= a->hi + 1e-9 * step && a->ticks < 16; t++)
        a->tick[a->ticks++] = t * step;
}

EX void ex_plot_axes(const ex_curve *c, int curves, int log_x, int log_y, ex_axis a[2]) {
    int i, j, k;
    memset(a, 0, 2 * sizeof *a);
    a[0].log = log_x;
    a[1].log = log_y;
    for (k = 0; k < 2; k++)
        a[k].lo = 1e300, a[k].hi = -1e300;
    for (i = 0; i < curves; i++)
        for (j = 0; j < c[i].n; j++) {
            double p[2];
            for (k = 0; k < 2 && ex_plot_point(a, &c[i], j, p); k++) {
                if (p[k] < a[k].lo)
                    a[k].lo = p[k];
                if (p[k] > a[k].hi)
                    a[k].hi = p[k];
            }
        }
    for (k = 0; k < 2; k++) {
        double pad;
        if (a[k].lo > a[k].hi)
            a[k].lo = 0, a[k].hi = 1;
        pad = a[k].hi > a[k].lo ? 0.05 * (a[k].hi - a[k].lo)
              : a[k].hi != 0    ? 0.1 * fabs(a[k].hi)
                                : 1;
        /* show zero where it is near */
        if (k && !a[k].log && a[k].lo >= 0 && a[k].lo < 0.7 * a[k].hi)
            a[k].lo = 0;
        else
            a[k].lo -= pad;
        a[k].hi += pad;
        ex_axis_ticks(&a[k]);
    }
}

EX void ex_plot_tick(const ex_axis *a, int k, char text[32]) {
    double v = a->log                                       ? pow(10, a->tick[k])
               : fabs(a->tick[k]) < 1e-12 * (a->hi - a->lo) ? 0
                                                            : a->tick[k];
    snprintf(text, 32, "%.4g", v);
}

/* Axes with ticks and curves into a picture; log_x, log_y for powers of ten. */
EX void ex_plot(ex_image *m, const char *title, const char *xname, const char *yname,
                const ex_curve *c, int curves, int log_x, int log_y) {
    ex_axis a[2];
    ex_view v;
    int i, j, x;
    char text[32];
    ex_plot_axes(c, curves, log_x, log_y, a);
    v = ex_view_make(a[0].lo, a[1].lo, a[0].hi, a[1].hi, 70, 44, m->w - 90, m->h - 98);
    for (i = 0; i < a[0].ticks; i++) {
        double at = ex_px(&v, a[0].tick[i]);
        ex_line(m, at, v.top, at, v.top + v.h, 1, ex_rgb(225, 225, 225));
        ex_plot_tick(&a[0], i, text);
        ex_text(m, (int)at - 3 * (int)strlen(text), v.top + v.h + 8, 1, ex_rgb(60, 60, 60), text);
    }
    for (i = 0; i < a[1].ticks; i++) {
        double y = ex_py(&v, a[1].tick[i]);
        ex_line(m, v.left, y, v.left + v.w, y, 1, ex_rgb(225, 225, 225));
        ex_plot_tick(&a[1], i, text);
        ex_text(m, v.left - 6 - 6 * (int)strlen(text), (int)y - 3, 1, ex_rgb(60, 60, 60), text);
    }
    ex_text(m, v.left, 8, 2, ex_rgb(20, 20, 20), title);
    ex_text(m, v.left + v.w / 2 - 3 * (int)strlen(xname), m->h - 16, 1, ex_rgb(20, 20, 20), xname);
    ex_text(m, 8, 30, 1, ex_rgb(20, 20, 20), yname);
    /* names in the margin above, in the order of the curves */
    for (i = curves, x = v.left + v.w; i-- > 0;) {
        ex_text(m, x -= 6 * (int)strlen(c[i].name), v.top - 12, 1, c[i].color, c[i].name);
        x -= 18;
    }
    for (i = 0; i < curves; i++) {
        double p[2], q[2] = {0, 0};
        int last = 0;
        for (j = 0; j < c[i].n; j++) {
            int ok = ex_plot_point(a, &c[i], j, p);
            if (ok && last)
                ex_line(m, ex_px(&v, q[0]), ex_py(&v, q[1]), ex_px(&v, p[0]), ex_py(&v, p[1]), 2,
                        c[i].color);
            if (ok && c[i].n <= 40)
                ex_disk(m, ex_px(&v, p[0]), ex_py(&v, p[1]), 3, c[i].color);
            last = ok;
            q[0] = p[0];
            q[1] = p[1];
        }
    }
}

/* Axes around a view of the world (a field, a scene): ticks outside its left and lower edge. Leave
 * 40 pixels on the left, 26 below. */
EX void ex_axes(ex_image *m, const ex_view *v, const char *xname, const char *yname) {
    ex_color dark = ex_rgb(40, 40, 40);
    ex_axis a[2];
    int i, k;
    char text[32];
    memset(a, 0, sizeof a);
    a[0].lo = v->x0;
    a[0].hi = v->x1;
    a[1].lo = v->y0;
    a[1].hi = v->y1;
    for (k = 0; k < 2; k++)
        for (ex_axis_ticks(&a[k]), i = 0; i < a[k].ticks; i++) {
            double x = k ? v->left : ex_px(v, a[0].tick[i]),
                   y = k ? ex_py(v, a[1].tick[i]) : v->top + v->h;
            ex_line(m, x, y, k ? x - 4 : x, k ? y : y + 4, 1, dark);
            ex_plot_tick(&a[k], i, text);
            ex_text(m, (int)x - (k ? 7 + 6 * (int)strlen(text) : 3 * (int)strlen(text)),
                    (int)y + (k ? -3 : 7), 1, dark, text);
        }
    ex_line(m, v->left, v->top, v->left, v->top + v->h, 1, dark);
    ex_line(m, v->left, v->top + v->h, v->left + v->w, v->top + v->h, 1, dark);
    ex_text(m, v->left + v->w / 2 - 3 * (int)strlen(xname), v->top + v->h + 18, 1, dark, xname);
    ex_text(m, v->left, v->top - 12, 1, dark, yname);
}

EX void ex_svg_text(FILE *f, double x, double y, const char *anchor, const char *style,
                    const char *text) {
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" %s>", x, y, anchor, style);
    for (; *text; text++) {
        if (*text == '<')
            fputs("&lt;", f);
        else if (*text == '>')
            fputs("&gt;", f);
        else if (*text == '&')
            fputs("&amp;", f);
        else
            fputc(*text, f);
    }
    fputs("</text>\n", f);
}

EX void ex_svg_curve(FILE *f, const ex_view *v, const ex_axis *a, const ex_curve *c) {
    double p[2];
    int j, last = 0;
    fprintf(f, "<path fill=\"none\" stroke=\"#%02x%02x%02x\" stroke-width=\"2\" d=\"", c->color.r,
            c->color.g, c->color.b);
    for (j = 0; j < c->n; j++) {
        int ok = ex_plot_point(a, c, j, p);
        if (ok)
            fprintf(f, "%c%.1f %.1f", last ? 'L' : 'M', ex_px(v, p[0]), ex_py(v, p[1]));
        last = ok;
    }
    fprintf(f, "\"/>\n<g fill=\"#%02x%02x%02x\">", c->color.r, c->color.g, c->color.b);
    for (j = 0; j < c->n && c->n <= 40; j++)
        if (ex_plot_point(a, c, j, p))
            fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>", ex_px(v, p[0]), ex_py(v, p[1]));
    fputs("</g>\n", f);
}

/* The same plot as a text file: 640 x 400 SVG. 0 if it cannot be written. */
EX int ex_plot_svg(const char *path, const char *title, const char *xname, const char *yname,
                   const ex_curve *c, int curves, int log_x, int log_y) {
    FILE *f = fopen(path, "w");
    ex_axis a[2];
    ex_view v;
    int i, right = 620;
    char text[64];
    if (!f)
        return 0;
    ex_plot_axes(c, curves, log_x, log_y, a);
    v = ex_view_make(a[0].lo, a[1].lo, a[0].hi, a[1].hi, 66, 44, 554, 300);
    fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 400\" "
               "font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n"
               "<rect width=\"640\" height=\"400\" fill=\"#fff\"/>\n");
    for (i = 0; i < a[0].ticks; i++) {
        double x = ex_px(&v, a[0].tick[i]);
        fprintf(f, "<path stroke=\"#ddd\" d=\"M%.1f 44V344\"/>\n", x);
        ex_plot_tick(&a[0], i, text);
        ex_svg_text(f, x, 360, "middle", "", text);
    }
    for (i = 0; i < a[1].ticks; i++) {
        double y = ex_py(&v, a[1].tick[i]);
        fprintf(f, "<path stroke=\"#ddd\" d=\"M66 %.1fH620\"/>\n", y);
        ex_plot_tick(&a[1], i, text);
        ex_svg_text(f, 60, y + 4, "end", "", text);
    }
    fputs("<rect x=\"66\" y=\"44\" width=\"554\" height=\"300\" fill=\"none\" stroke=\"#999\"/>\n",
          f);
    ex_svg_text(f, 66, 20, "start", "font-size=\"16\"", title);
    ex_svg_text(f, 343, 388, "middle", "", xname);
    ex_svg_text(f, 66, 38, "start", "", yname);
    /* names in the margin above */
    for (i = curves; i-- > 0; right -= 7 * (int)strlen(c[i].name) + 16) {
        ex_svg_curve(f, &v, a, &c[i]);
        snprintf(text, sizeof text, "fill=\"#%02x%02x%02x\"", c[i].color.r, c[i].color.g,
                 c[i].color.b);
        ex_svg_text(f, right, 38, "end", text, c[i].name);
    }
    fputs("</svg>\n", f);
    return fclose(f) == 0;
}

/* ------------------------------------------------------------------------------------------------
 * 3D drawing */
/* zoom: 1 / tan(half the field of view) */
typedef struct ex_camera {
    double eye[3], right[3], up[3], ahead[3], zoom;
} ex_camera;

EX void ex_unit(double *a) {
    double n = sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2]);
    int i;
    for (i = 0; i < 3 && n > 0; i++)
        a[i] /= n;
}

EX void ex_cross(const double *a, const double *b, double *c) {
    c[0] = a[1] * b[2] - a[2] * b[1];
    c[1] = a[2] * b[0] - a[0] * b[2];
    c[2] = a[0] * b[1] - a[1] * b[0];
}

/* Looks from eye to target; up_axis is 1 (y) or 2 (z): the axis against gravity. */
EX ex_camera ex_camera_make(double ex, double ey, double ez, double tx, double ty, double tz,
                            int up_axis, double degrees) {
    ex_camera c;
    double up[3] = {0, 0, 0};
    up[up_axis] = 1;
    c.eye[0] = ex;
    c.eye[1] = ey;
    c.eye[2] = ez;
    c.ahead[0] = tx - ex;
    c.ahead[1] = ty - ey;
    c.ahead[2] = tz - ez;
    ex_unit(c.ahead);
    ex_cross(c.ahead, up, c.right);
    ex_unit(c.right);
    ex_cross(c.right, c.ahead, c.up);
    c.zoom = 1 / tan(degrees * 3.14159265358979 / 360);
    return c;
}

/* Pixel and depth of a point; 0 when it is behind the eye. */
EX int ex_project(const ex_image *m, const ex_camera *c, const double *p, double *out) {
    double d[3], x = 0, y = 0, z = 0;
    int i;
    for (i = 0; i < 3; i++)
        d[i] = p[i] - c->eye[i], x += d[i] * c->right[i], y += d[i] * c->up[i],
        z += d[i] * c->ahead[i];
    if (!(z > 1e-6))
        return 0;
    out[0] = m->w / 2.0 + x / z * c->zoom * m->h / 2;
    out[1] = m->h / 2.0 - y / z * c->zoom * m->h / 2;
    out[2] = z;
    return 1;
}

EX void ex_line3(ex_image *m, const ex_camera *c, const double *a, const double *b,
                 ex_color color) {
    double p[3], q[3];
    int i, n;
    if (!ex_project(m, c, a, p) || !ex_project(m, c, b, q))
        return;
    n = (int)(fabs(p[0] - q[0]) + fabs(p[1] - q[1])) + 1;
    for (i = 0; i <= n && n < 20000; i++) {
        double t = (double)i / n, z = 1 / ((1 - t) / p[2] + t / q[2]);
        int x = (int)(p[0] + t * (q[0] - p[0])), y = (int)(p[1] + t * (q[1] - p[1]));
        if (x >= 0 && y >= 0 && x < m->w && y < m->h && z < (double)m->depth[y * m->w + x] * 1.002)
            ex_blend(m, x, y, color, 0.7);
    }
}

EX void ex_box3(ex_image *m, const ex_camera *c, const double *lo, const double *hi,
                ex_color color) {
    int e;
    for (e = 0; e < 12; e++) {
        int axis = e / 4, u = (axis + 1) % 3, v = (axis + 2) % 3;
        double a[3], b[3];
        a[axis] = lo[axis];
        b[axis] = hi[axis];
        a[u] = b[u] = e & 1 ? hi[u] : lo[u];
        a[v] = b[v] = e & 2 ? hi[v] : lo[v];
        ex_line3(m, c, a, b, color);
    }
}

/* glass: 0 solid; > 0: clear, absorbs 63 % after this many metres */
typedef struct ex_mesh {
    int vertices, triangles;
    const fsi_real *x;
    const int32_t *index;
    ex_color color;
    double glass;
} ex_mesh;

EX void ex_face_normal(const ex_mesh *s, int t, double *c) {
    const fsi_real *p[3];
    double a[3], b[3];
    int k;
    for (k = 0; k < 3; k++)
        p[k] = s->x + 3 * s->index[3 * t + k];
    for (k = 0; k < 3; k++)
        a[k] = (double)(p[1][k] - p[0][k]), b[k] = (double)(p[2][k] - p[0][k]);
    ex_cross(a, b, c);
}

/* n [3 * vertices]: of the vertices, faces weighted by their area. */
EX void ex_normals(const ex_mesh *s, double *n) {
    double c[3];
    int t, k, i;
    memset(n, 0, (size_t)s->vertices * 3 * sizeof *n);
    for (t = 0; t < s->triangles; t++) {
        ex_face_normal(s, t, c);
        for (k = 0; k < 3; k++)
            for (i = 0; i < 3; i++)
                n[3 * s->index[3 * t + k] + i] += c[i];
    }
    for (k = 0; k < s->vertices; k++)
        ex_unit(n + 3 * k);
}

/* n [9 * triangles]: those of the vertices v, but of the face where they differ by more than 41
 * degrees: boxes keep their edges. */
EX void ex_corner_normals(const ex_mesh *s, const double *v, double *n) {
    double c[3];
    int t, k, i;
    for (t = 0; t < s->triangles; t++) {
        ex_face_normal(s, t, c);
        ex_unit(c);
        for (k = 0; k < 3; k++) {
            const double *smooth = v + 3 * s->index[3 * t + k];
            int sharp = smooth[0] * c[0] + smooth[1] * c[1] + smooth[2] * c[2] < 0.75;
            for (i = 0; i < 3; i++)
                n[9 * t + 3 * k + i] = sharp ? c[i] : smooth[i];
        }
    }
}

/* Light from above left: ambient from the sky, diffuse, a highlight. */
EX ex_color ex_shade(const ex_camera *c, const double *n0, ex_color base, double gloss) {
    static const double light[3] = {-0.40, 0.80, 0.45};
    double n[3] = {n0[0], n0[1], n0[2]}, d = 0, face = 0, half[3], s = 0, k;
    int i;
    ex_unit(n);
    for (i = 0; i < 3; i++)
        face += n[i] * c->ahead[i];
    for (i = 0; i < 3; i++) {
        if (face > 0)
            n[i] = -n[i];
        half[i] = light[i] - c->ahead[i];
    }
    ex_unit(half);
    for (i = 0; i < 3; i++)
        d += n[i] * light[i], s += n[i] * half[i];
    k = 0.42 + 0.12 * n[1] + 0.5 * (d > 0 ? d : 0);
    s = s > 0 ? gloss * 255 * pow(s, 40) : 0;
    return ex_rgb((int)fmin(255, k * base.r + s), (int)fmin(255, k * base.g + s),
                  (int)fmin(255, k * base.b + s));
}

/* Calls per covered pixel: pass 0 writes depth only into z, pass 1 shades where z is met. */
EX void ex_raster(ex_image *m, const ex_camera *c, const ex_mesh *s, const double *n, float *z,
                  int pass) {
    int t, k, x, y, i;
    for (t = 0; t < s->triangles; t++) {
        double p[3][3], w[3], area;
        int xa, xb, ya, yb, ok = 1;
        for (k = 0; k < 3; k++) {
            double q[3];
            for (i = 0; i < 3; i++)
                q[i] = (double)s->x[3 * s->index[3 * t + k] + i];
            ok = ok && ex_project(m, c, q, p[k]);
        }
        area = ok ? (p[1][0] - p[0][0]) * (p[2][1] - p[0][1])
                        - (p[2][0] - p[0][0]) * (p[1][1] - p[0][1])
                  : 0;
        if (!(fabs(area) > 1e-9) || !(fabs(area) < 1e9))
            continue;
        xa = (int)floor(fmin(p[0][0], fmin(p[1][0], p[2][0])));
        xb = (int)ceil(fmax(p[0][0], fmax(p[1][0], p[2][0])));
        ya = (int)floor(fmin(p[0][1], fmin(p[1][1], p[2][1])));
        yb = (int)ceil(fmax(p[0][1], fmax(p[1][1], p[2][1])));
        for (y = ya < 0 ? 0 : ya; y <= yb && y < m->h; y++)
            for (x = xa < 0 ? 0 : xa; x <= xb && x < m->w; x++) {
                double px = x + 0.5, py = y + 0.5, depth, normal[3] = {0, 0, 0};
                float *at = z + y * m->w + x;
                w[0] = ((p[1][0] - px) * (p[2][1] - py) - (p[2][0] - px) * (p[1][1] - py)) / area;
                w[1] = ((p[2][0] - px) * (p[0][1] - py) - (p[0][0] - px) * (p[2][1] - py)) / area;
                w[2] = 1 - w[0] - w[1];
                if (w[0] < -1e-9 || w[1] < -1e-9 || w[2] < -1e-9)
                    continue;
                depth = 1 / (w[0] / p[0][2] + w[1] / p[1][2] + w[2] / p[2][2]);
                if (pass == 0) {
                    if (depth < (double)*at)
                        *at = (float)depth;
                    continue;
                }
                if (depth > (double)*at * 1.0000005 + 1e-7)
                    continue;
                for (k = 0; k < 3; k++)
                    for (i = 0; i < 3; i++)
                        normal[i] += w[k] * n[9 * t + 3 * k + i];
                if (s->glass > 0) {
                    double behind = (double)m->depth[y * m->w + x] - depth;
                    if (behind > 0)
                        ex_blend(m, x, y, ex_shade(c, normal, s->color, 0.7),
                                 0.25 + 0.65 * (1 - exp(-behind / s->glass)));
                    *at = -1; /* blend once */
                } else
                    ex_blend(m, x, y, ex_shade(c, normal, s->color, 0.25), 1);
            }
    }
}

/* Draw all solid meshes first, then the clear ones. */
EX void ex_draw_mesh(ex_image *m, const ex_camera *c, const ex_mesh *s) {
    double *v = (double *)malloc((size_t)(s->vertices > 0 ? s->vertices : 1) * 3 * sizeof(double));
    double *n =
        (double *)malloc((size_t)(s->triangles > 0 ? s->triangles : 1) * 9 * sizeof(double));
    ex_normals(s, v);
    ex_corner_normals(s, v, n);
    free(v);
    if (s->glass > 0) {
        float *z = (float *)malloc((size_t)m->w * (size_t)m->h * sizeof(float));
        int i;
        for (i = 0; i < m->w * m->h; i++)
            z[i] = 1e30f;
        ex_raster(m, c, s, n, z, 0);
        ex_raster(m, c, s, n, z, 1);
        free(z);
    } else {
        ex_raster(m, c, s, n, m->depth, 0);
        ex_raster(m, c, s, n, m->depth, 1);
    }
    free(n);
}

EX void ex_draw_surface3(ex_image *m, const ex_camera *c, const fsi_surface *s, ex_color color) {
    ex_mesh mesh;
    mesh.vertices = s->vertex_count;
    mesh.triangles = s->element_count;
    mesh.x = s->x;
    mesh.index = s->index;
    mesh.color = color;
    mesh.glass = 0;
    ex_draw_mesh(m, c, &mesh);
}

/* Shadow of a surface on the floor at height y, light from above and a little from the side: draw
 * after the floor, before the surface. */
EX void ex_shadow(ex_image *m, const ex_camera *c, const fsi_surface *s, double y) {
    fsi_real *x = (fsi_real *)malloc(3 * (size_t)s->vertex_count * sizeof *x + 1);
    fsi_surface flat = *s;
    int i;
    for (i = 0; x && i < s->vertex_count; i++) {
        fsi_real up = s->x[3 * i + 1] - (fsi_real)y;
        x[3 * i] = s->x[3 * i] + up * (fsi_real)0.3;
        x[3 * i + 1] = (fsi_real)y;
        x[3 * i + 2] = s->x[3 * i + 2] - up * (fsi_real)0.15;
    }
    flat.x = x;
    if (x)
        ex_draw_surface3(m, c, &flat, ex_rgb(128, 128, 130));
    free(x);
}

/* Liquid where phi < 0 (cell-centred, metres) as a clear body; draw it after the solids. */
EX void ex_draw_water(ex_image *m, const ex_camera *c, int nx, int ny, int nz, double h,
                      const fsi_real *phi, ex_color color, double glass) {
    fsi_iso_desc d;
    fsi_iso_mesh mesh;
    ex_mesh s;
    memset(&d, 0, sizeof d);
    memset(&mesh, 0, sizeof mesh);
    d.nx = nx;
    d.ny = ny;
    d.nz = nz;
    d.h = (fsi_real)h;
    d.value = phi;
    d.closed = 1;
    d.origin = fsi_vec((fsi_real)(h / 2), (fsi_real)(h / 2), (fsi_real)(h / 2));
    if (fsi_iso_build(&d, &mesh) != FSI_OK)
        return;
    s.vertices = mesh.vertex_count;
    s.triangles = mesh.element_count;
    s.x = mesh.x;
    s.index = mesh.index;
    s.color = color;
    s.glass = glass;
    ex_draw_mesh(m, c, &s);
    fsi_iso_free(&mesh);
}

/* Value of a cell-centred field at a point in cells, linear; 0 outside. */
EX double ex_volume_at(const fsi_real *f, const int *n, const double *p) {
    double w[3], sum = 0;
    int b[3], q, a;
    for (a = 0; a < 3; a++) {
        double x = p[a] - 0.5;
        b[a] = (int)floor(x);
        w[a] = x - b[a];
    }
    for (q = 0; q < 8; q++) {
        int i = b[0] + (q & 1), j = b[1] + (q >> 1 & 1), k = b[2] + (q >> 2);
        if (i < 0 || j < 0 || k < 0 || i >= n[0] || j >= n[1] || k >= n[2])
            continue;
        sum += (double)f[i + n[0] * (j + n[1] * k)] * (q & 1 ? w[0] : 1 - w[0])
               * (q & 2 ? w[1] : 1 - w[1]) * (q & 4 ? w[2] : 1 - w[2]);
    }
    return sum;
}

/* The light that reaches every cell from above left, 0 .. 1, row of cells by row of cells downward;
 * absorb per cell of density 1. */
EX fsi_real *ex_smoke_light(const int *n, const fsi_real *density, double absorb) {
    /* as the light of ex_shade, per row upward */
    const double slant[2] = {-0.5, 0.5625};
    fsi_real *lit = (fsi_real *)malloc((size_t)n[0] * (size_t)n[1] * (size_t)n[2] * sizeof *lit);
    int i, j, k, q;
    for (j = n[1] - 1; lit && j >= 0; j--)
        for (k = 0; k < n[2]; k++)
            for (i = 0; i < n[0]; i++) {
                double x = i + slant[0], z = k + slant[1], sum = 0;
                int x0 = (int)floor(x), z0 = (int)floor(z);
                for (q = 0; q < 4; q++) {
                    int a = x0 + (q & 1), b = z0 + (q >> 1);
                    double w = (q & 1 ? x - x0 : 1 - x + x0) * (q & 2 ? z - z0 : 1 - z + z0);
                    if (j + 1 >= n[1] || a < 0 || b < 0 || a >= n[0] || b >= n[2]) {
                        sum += w;
                        continue;
                    }
                    sum += w * (double)lit[a + n[0] * (j + 1 + n[1] * b)]
                           * exp(-absorb * 1.25 * (double)density[a + n[0] * (j + 1 + n[1] * b)]);
                }
                lit[i + n[0] * (j + n[1] * k)] = (fsi_real)sum;
            }
    return lit;
}

/* Smoke in the box from the origin, over and behind what is drawn already: rays through it, single
   scattering. clear: metres of density 1 that let 37 % of the light through. */
EX void ex_draw_smoke(ex_image *m, const ex_camera *c, int nx, int ny, int nz, double h,
                      const fsi_real *density, double clear, ex_color color) {
    const int n[3] = {nx, ny, nz};
    fsi_real *lit = ex_smoke_light(n, density, h / clear);
    int x, y, a, i, lo[3] = {nx, ny, nz}, hi[3] = {0, 0, 0};
    for (i = 0; i < nx * ny * nz; i++) { /* the part of the box that holds smoke */
        int at[3];
        if (!((double)density[i] > 1e-3))
            continue;
        at[0] = i % nx;
        at[1] = i / nx % ny;
        at[2] = i / nx / ny;
        for (a = 0; a < 3; a++) {
            if (at[a] < lo[a])
                lo[a] = at[a];
            if (at[a] >= hi[a])
                hi[a] = at[a] + 1;
        }
    }
    for (y = 0; lit && y < m->h; y++)
        for (x = 0; x < m->w; x++) {
            double px = (x + 0.5 - m->w / 2.0) * 2 / (m->h * c->zoom),
                   py = (m->h / 2.0 - y - 0.5) * 2 / (m->h * c->zoom), d[3], near_it = 0,
                   far_it = (double)m->depth[y * m->w + x];
            double through = 1, light = 0, t;
            for (a = 0; a < 3; a++) {
                double p, q;
                d[a] = c->ahead[a] + px * c->right[a] + py * c->up[a];
                if (fabs(d[a]) < 1e-9)
                    d[a] = 1e-9;
                p = ((lo[a] - 1) * h - c->eye[a]) / d[a];
                q = ((hi[a] + 1) * h - c->eye[a]) / d[a];
                near_it = fmax(near_it, fmin(p, q));
                far_it = fmin(far_it, fmax(p, q));
            }
            for (t = near_it; t < far_it && through > 0.005; t += h) {
                double p[3], v, part, step = fmin(h, far_it - t);
                for (a = 0; a < 3; a++)
                    p[a] = (c->eye[a] + (t + step / 2) * d[a]) / h;
                v = ex_volume_at(density, n, p);
                if (!(v > 1e-4))
                    continue;
                part = through * (1 - exp(-v * step / clear));
                light += part * (0.3 + 0.75 * ex_volume_at(lit, n, p));
                through -= part;
            }
            if (through < 1) {
                uint8_t *o = m->rgb + 3 * ((size_t)y * (size_t)m->w + (size_t)x);
                o[0] = (uint8_t)fmin(255, o[0] * through + color.r * light);
                o[1] = (uint8_t)fmin(255, o[1] * through + color.g * light);
                o[2] = (uint8_t)fmin(255, o[2] * through + color.b * light);
            }
        }
    free(lit);
}

/* A checkered floor in the plane 'up = height'. */
EX void ex_floor(ex_image *m, const ex_camera *c, const double *lo, const double *hi, int up_axis,
                 double height, double tile) {
    int u = up_axis == 1 ? 0 : 0, v = up_axis == 1 ? 2 : 1, i, j,
        nu = (int)ceil((hi[u] - lo[u]) / tile), nv = (int)ceil((hi[v] - lo[v]) / tile), k;
    static const int32_t index[6] = {0, 1, 2, 0, 2, 3};
    for (i = 0; i < nu; i++)
        for (j = 0; j < nv; j++) {
            fsi_real x[12];
            ex_mesh q;
            for (k = 0; k < 4; k++) {
                x[3 * k + up_axis] = (fsi_real)height;
                x[3 * k + u] = (fsi_real)fmin(hi[u], lo[u] + tile * (i + (k == 1 || k == 2)));
                x[3 * k + v] = (fsi_real)fmin(hi[v], lo[v] + tile * (j + (k >= 2)));
            }
            q.vertices = 4;
            q.triangles = 2;
            q.x = x;
            q.index = index;
            q.glass = 0;
            q.color = (i + j) & 1 ? ex_rgb(205, 205, 200) : ex_rgb(235, 235, 230);
            ex_draw_mesh(m, c, &q);
        }
}

/* ------------------------------------------------------------------------------------------------
 * files */
/* Legacy VTK with one cell-centred scalar field. */
EX int ex_vtk(const char *path, int nx, int ny, int nz, double h, const char *name,
              const fsi_real *f) {
    FILE *o = fopen(path, "w");
    int i;
    if (!o)
        return 0;
    fprintf(o,
            "# vtk DataFile Version 3.0\n%s\nASCII\nDATASET STRUCTURED_POINTS\nDIMENSIONS %d %d "
            "%d\nORIGIN 0 0 0\nSPACING %g %g %g\nCELL_DATA %d\nSCALARS %s double 1\nLOOKUP_TABLE "
            "default\n",
            name, nx + 1, ny + 1, nz + 1, h, h, h, nx * ny * nz, name);
    for (i = 0; i < nx * ny * nz; i++)
        fprintf(o, "%.9g\n", (double)f[i]);
    return fclose(o) == 0;
}

EX int ex_obj_write(const char *path, int vertices, const fsi_real *x, int triangles,
                    const int32_t *index) {
    FILE *o = fopen(path, "w");
    int i;
    if (!o)
        return 0;
    for (i = 0; i < vertices; i++)
        fprintf(o, "v %.9g %.9g %.9g\n", (double)x[3 * i], (double)x[3 * i + 1],
                (double)x[3 * i + 2]);
    for (i = 0; i < triangles; i++)
        fprintf(o, "f %d %d %d\n", index[3 * i] + 1, index[3 * i + 1] + 1, index[3 * i + 2] + 1);
    return fclose(o) == 0;
}

/* Reads vertices and faces (polygons become fans). Arrays are malloc'ed, the caller frees them. 0
 * on any error. */
EX int ex_obj_read(const char *path, int *vertices, fsi_real **x, int *triangles, int32_t **index) {
    FILE *f = fopen(path, "r");
    char line[1024];
    int nv = 0, nt = 0, vroom = 0, troom = 0, ok = 1;
    *x = NULL;
    *index = NULL;
    if (!f)
        return 0;
    while (ok && fgets(line, sizeof line, f)) {
        double p[3];
        if (sscanf(line, "v %lf %lf %lf", &p[0], &p[1], &p[2]) == 3) {
            if (nv == vroom)
                *x = (fsi_real *)realloc(*x,
                                         sizeof(fsi_real) * 3 * (size_t)(vroom = 2 * vroom + 256));
            (*x)[3 * nv] = (fsi_real)p[0];
            (*x)[3 * nv + 1] = (fsi_real)p[1];
            (*x)[3 * nv + 2] = (fsi_real)p[2];
            nv++;
        } else if (line[0] == 'f' && line[1] == ' ') {
            int corner[64], n = 0, k;
            char *p2 = line + 1;
            while (n < 64 && sscanf(p2 += strspn(p2, " \t"), "%d", &corner[n]) == 1) {
                corner[n] = corner[n] < 0 ? nv + corner[n] : corner[n] - 1;
                ok = ok && corner[n] >= 0 && corner[n] < nv;
                n++;
                p2 += strcspn(p2, " \t\r\n");
            }
            for (k = 2; k < n; k++, nt++) {
                if (nt == troom)
                    *index = (int32_t *)realloc(*index, sizeof(int32_t) * 3
                                                            * (size_t)(troom = 2 * troom + 256));
                (*index)[3 * nt] = corner[0];
                (*index)[3 * nt + 1] = corner[k - 1];
                (*index)[3 * nt + 2] = corner[k];
            }
        }
    }
    fclose(f);
    *vertices = nv;
    *triangles = nt;
    if (ok && nv && nt)
        return 1;
    free(*x);
    free(*index);
    return 0;
}
#endif
