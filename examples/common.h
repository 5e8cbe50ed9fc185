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
    double lowest, highest;                 /* range of a number (each number of a comma list) */
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

EX int ex_find(const ex_args *args, const char *name) {
    for (int i = 0; i < args->key_count; i++)
        if (!strcmp(args->keys[i].name, name))
            return i;
    return -1;
}

EX void ex_help(const ex_args *args, const char *what) {
    printf("%s: %s\n\nusage: build/%s [--size N] [--frames N] [--out DIR] [--threads N] [--set "
           "KEY=VALUE]... [--help]\n",
           args->name, what, args->name);
    printf("  --size N      cells (particles) along the longest side, default %d\n  --frames N    "
           "default %d\n",
           args->size, args->frames);
    printf("  --out DIR     write pictures there\n  --threads N   default: as OpenMP decides\nkeys "
           "for --set:\n");
    for (int i = 0; i < args->key_count; i++) {
        const ex_key *key = &args->keys[i];
        printf("  %-14s %s%s%s%s, default %s, ", key->name, key->help, *key->unit ? " (" : "",
               key->unit, *key->unit ? ")" : "", key->value);
        if (key->words)
            printf("one of %s\n", key->words);
        else
            printf("range %g to %g\n", key->lowest, key->highest);
    }
    if (ex_find(args, "view") < 0)
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
    for (size_t i = 0; path[i] && i < sizeof part - 1; i++) {
        part[i] = path[i];
        part[i + 1] = 0;
        if (path[i + 1] == '/' || !path[i + 1])
            mkdir(part, 0777);
    }
}

/* Checks one value against its key; exits with status 2 and one line when it does not fit. */
EX void ex_check(const ex_key *key, const char *text) {
    const char *p = text;
    if (key->words) {
        if (!ex_has_word(key->words, text))
            ex_die("%s takes one of %s", key->name, key->words);
        return;
    }
    do {
        char *end;
        double v = strtod(p, &end);
        if (end == p || (*end && *end != ','))
            ex_die("%s: '%s' is not a number", key->name, text);
        if (!(v >= key->lowest && v <= key->highest)) {
            char range[64];
            snprintf(range, sizeof range, "%g to %g", key->lowest, key->highest);
            ex_die("%s is outside its range %s", key->name, range);
        }
        p = *end ? end + 1 : end;
    } while (*p);
}

EX int ex_int(const char *name, const char *text, int lowest) {
    char *end;
    long v = strtol(text ? text : "", &end, 10);
    if (!text || end == text || *end || v < lowest || v > 1000000)
        ex_die("%s: '%s' is not a whole number in range", name, text ? text : "");
    return (int)v;
}

EX void ex_begin(ex_args *args, int argc, char **argv, const char *name, const char *what,
                 const ex_key *keys, int key_count, int size, int frames) {
    memset(args, 0, sizeof *args);
    args->name = name;
    args->keys = keys;
    args->key_count = key_count;
    args->size = size;
    args->frames = frames;
    for (int i = 0; i < key_count; i++)
        args->value[i] = keys[i].value;
    for (int i = 1; i < argc; i++) {
        const char *v = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(argv[i], "--help")) {
            ex_help(args, what);
            exit(0);
        } else if (!strcmp(argv[i], "--size"))
            args->size = ex_int("--size", v, 4), i++;
        else if (!strcmp(argv[i], "--frames"))
            args->frames = ex_int("--frames", v, 1), i++;
        else if (!strcmp(argv[i], "--threads"))
            args->threads = ex_int("--threads", v, 1), i++;
        else if (!strcmp(argv[i], "--out") && v)
            args->out = v, i++;
        else if (!strcmp(argv[i], "--set") && v && strchr(v, '=')) {
            char key[64];
            snprintf(key, sizeof key, "%.*s", (int)(strchr(v, '=') - v), v);
            int k;
            if ((k = ex_find(args, key)) < 0 && !strcmp(key, "view")) {
                static const ex_key view = {"view", "", "", "files", 0, 0, "files,term"};
                ex_check(&view, strchr(v, '=') + 1);
                args->term = !strcmp(strchr(v, '='), "=term");
            } else if (k < 0)
                ex_die("unknown key '%s'; %s --help lists them", key, name);
            else
                ex_check(&keys[k], args->value[k] = strchr(v, '=') + 1);
            i++;
        } else
            ex_die("unknown option '%s'; %s --help lists them", argv[i], name);
    }
#ifdef _OPENMP
    if (args->threads)
        omp_set_num_threads(args->threads);
#endif
    if (args->out)
        ex_folder(args->out);
    else if (args->term)
        args->out = EX_NOWHERE;
    args->begin = ex_now();
}

/* The value of a key: as number, as word, as list (count returned). The key must exist. */
EX double ex_number(const ex_args *args, const char *key) {
    return strtod(args->value[ex_find(args, key)], NULL);
}

EX const char *ex_word(const ex_args *args, const char *key) {
    return args->value[ex_find(args, key)];
}

EX int ex_is(const ex_args *args, const char *key, const char *word) {
    return !strcmp(ex_word(args, key), word);
}

EX int ex_list(const ex_args *args, const char *key, double *out, int most) {
    const char *p = ex_word(args, key);
    int n = 0;
    while (*p && n < most) {
        char *end;
        out[n++] = strtod(p, &end);
        p = *end ? end + 1 : end;
    }
    return n;
}

/* A bar with the time left; only on a terminal. */
EX void ex_progress(ex_args *args, int frame) {
    double now = ex_now(), part = (double)(frame + 1) / args->frames;
    if (args->term || !isatty(2) || (now - args->shown < 0.1 && frame + 1 < args->frames))
        return;
    args->shown = now;
    fprintf(stderr, "\r%s [", args->name);
    for (int i = 0; i < 40; i++)
        fputc(i < (int)(40 * part) ? '#' : ' ', stderr);
    fprintf(stderr, "] %3.0f %%, %.0f s left  %s", 100 * part,
            (now - args->begin) * (1 - part) / part, frame + 1 < args->frames ? "" : "\n");
    fflush(stderr);
}

EX void ex_result(const char *key, const char *format, ...) {
    printf("result %s=", key);
    va_list list;
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

EX void ex_put(ex_bytes *bytes, int byte) {
    if (bytes->size == bytes->room) {
        bytes->room = bytes->room ? 2 * bytes->room : 65536;
        bytes->at = (uint8_t *)realloc(bytes->at, bytes->room);
        if (!bytes->at)
            ex_die("%s%s", "out of memory", "");
    }
    bytes->at[bytes->size++] = (uint8_t)byte;
}

EX void ex_put32(ex_bytes *bytes, uint32_t v) {
    for (int s = 24; s >= 0; s -= 8)
        ex_put(bytes, (int)(v >> s & 255));
}

/* least significant bit first */
EX void ex_bits(ex_bytes *bytes, uint32_t value, int count) {
    bytes->bits |= value << bytes->bit_count;
    for (bytes->bit_count += count; bytes->bit_count >= 8; bytes->bit_count -= 8, bytes->bits >>= 8)
        ex_put(bytes, (int)(bytes->bits & 255));
}

/* a Huffman code: most significant bit first */
EX void ex_code(ex_bytes *bytes, uint32_t code, int count) {
    uint32_t r = 0;
    for (int i = 0; i < count; i++)
        r |= (code >> i & 1) << (count - 1 - i);
    ex_bits(bytes, r, count);
}

/* the fixed code of the deflate format */
EX void ex_literal(ex_bytes *bytes, int v) {
    if (v < 144)
        ex_code(bytes, (uint32_t)(0x30 + v), 8);
    else if (v < 256)
        ex_code(bytes, (uint32_t)(0x190 + v - 144), 9);
    else if (v < 280)
        ex_code(bytes, (uint32_t)(v - 256), 7);
    else
        ex_code(bytes, (uint32_t)(0xc0 + v - 280), 8);
}

/* Length and distance codes grow by extra bits: base value and bits of code n follow from n alone.
 */
EX void ex_match(ex_bytes *bytes, int length, int distance) {
    int n, extra;
    if (length == 258)
        ex_literal(bytes, 285);
    else {
        int l = length - 3;
        for (extra = 0; (l >> extra) >= 8; extra++) {
        }
        n = extra * 4 + (l >> extra);
        ex_literal(bytes, 257 + n);
        ex_bits(bytes, (uint32_t)(l & ((1 << extra) - 1)), extra);
    }
    int base = distance - 1;
    for (extra = 0; (base >> extra) >= 4; extra++) {
    }
    n = extra * 2 + (base >> extra);
    ex_code(bytes, (uint32_t)n, 5);
    ex_bits(bytes, (uint32_t)(base & ((1 << extra) - 1)), extra);
}

/* zlib stream of data: LZ77 with hash chains, fixed Huffman codes. */
EX void ex_deflate(ex_bytes *bytes, const uint8_t *data, int size) {
    enum {
        HASH = 1 << 15,
        WINDOW = 1 << 15
    };

    int *head = (int *)malloc(HASH * sizeof(int)), *prev = (int *)malloc(WINDOW * sizeof(int));
    uint32_t a = 1, c = 0;
    for (int i = 0; i < HASH; i++)
        head[i] = -1;
    ex_put(bytes, 0x78);
    ex_put(bytes, 0x01);
    ex_bits(bytes, 1, 1);
    ex_bits(bytes, 1, 2);
    for (int i = 0; i < size;) {
        int best = 0, distance = 0, h = 0, tries = 24, most = size - i < 258 ? size - i : 258, k;
        if (most >= 3) {
            h = (data[i] << 10 ^ data[i + 1] << 5 ^ data[i + 2]) & (HASH - 1);
            for (int j = head[h]; j >= 0 && i - j <= WINDOW - 1 && tries--;
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
            best = 1, ex_literal(bytes, data[i]);
        else
            ex_match(bytes, best, distance);
        for (k = 0; k < best; k++, i++)
            if (i + 2 < size) {
                h = (data[i] << 10 ^ data[i + 1] << 5 ^ data[i + 2]) & (HASH - 1);
                prev[i & (WINDOW - 1)] = head[h];
                head[h] = i;
            }
    }
    ex_literal(bytes, 256);
    ex_bits(bytes, 0, 7);
    bytes->bits = 0;
    bytes->bit_count = 0;
    for (int i = 0; i < size; i++)
        a = (a + data[i]) % 65521, c = (c + a) % 65521;
    ex_put32(bytes, c << 16 | a);
    free(head);
    free(prev);
}

EX void ex_chunk(FILE *file, const char *type, const uint8_t *data, size_t size) {
    static uint32_t table[256];
    uint32_t crc = 0xffffffffu;
    uint8_t w[8];
    if (!table[1])
        for (uint32_t n = 0; n < 256; n++) {
            uint32_t v = n;
            for (uint32_t k = 0; k < 8; k++)
                v = v & 1 ? 0xedb88320u ^ v >> 1 : v >> 1;
            table[n] = v;
        }
    for (size_t i = 0; i < 4; i++)
        w[i] = (uint8_t)(size >> (24 - 8 * i)), w[4 + i] = (uint8_t)type[i];
    fwrite(w, 1, 8, file);
    if (size)
        fwrite(data, 1, size, file);
    for (size_t i = 0; i < 4; i++)
        crc = table[(crc ^ w[4 + i]) & 255] ^ crc >> 8;
    for (size_t i = 0; i < size; i++)
        crc = table[(crc ^ data[i]) & 255] ^ crc >> 8;
    crc ^= 0xffffffffu;
    for (size_t i = 0; i < 4; i++)
        w[i] = (uint8_t)(crc >> (24 - 8 * i));
    fwrite(w, 1, 4, file);
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
    ex_color color;
    color.r = (uint8_t)r;
    color.g = (uint8_t)g;
    color.b = (uint8_t)b;
    return color;
}

EX void ex_clear(ex_image *image, ex_color color) {
    for (int i = 0; i < image->w * image->h; i++)
        image->rgb[3 * i] = color.r, image->rgb[3 * i + 1] = color.g,
                       image->rgb[3 * i + 2] = color.b;
    if (image->depth)
        for (int i = 0; i < image->w * image->h; i++)
            image->depth[i] = 1e30f;
}

EX void ex_paste(ex_image *image, const ex_image *part, int x, int y) { /* part must fit */
    for (int i = 0; i < part->h; i++)
        memcpy(image->rgb + 3 * ((size_t)(y + i) * (size_t)image->w + (size_t)x),
               part->rgb + 3 * (size_t)i * (size_t)part->w, 3 * (size_t)part->w);
}

EX ex_image ex_image_make(int w, int h) {
    ex_image image;
    image.w = w;
    image.h = h;
    image.rgb = (uint8_t *)malloc((size_t)w * (size_t)h * 3);
    image.depth = (float *)malloc((size_t)w * (size_t)h * sizeof(float));
    if (!image.rgb || !image.depth)
        ex_die("%s%s", "out of memory", "");
    ex_clear(&image, ex_rgb(255, 255, 255));
    return image;
}

EX void ex_image_free(ex_image *image) {
    free(image->rgb);
    free(image->depth);
    image->rgb = NULL;
    image->depth = NULL;
}

/* Compressed pixels of a picture: the 'up' or 'sub' filter per row, whichever leaves less. */
EX ex_bytes ex_image_data(const ex_image *image) {
    size_t row = (size_t)image->w * 3;
    uint8_t *raw = (uint8_t *)malloc((row + 1) * (size_t)image->h), *q = raw;
    ex_bytes bytes;
    memset(&bytes, 0, sizeof bytes);
    for (int y = 0; y < image->h; y++) {
        const uint8_t *p = image->rgb + row * (size_t)y, *up = y ? p - row : NULL;
        long sub_cost = 0, up_cost = 0;
        for (size_t x = 0; x < row; x++) {
            sub_cost += abs((int8_t)(p[x] - (x >= 3 ? p[x - 3] : 0)));
            up_cost += up ? abs((int8_t)(p[x] - up[x])) : 255;
        }
        *q++ = up_cost <= sub_cost ? 2 : 1;
        for (size_t x = 0; x < row; x++)
            *q++ = (uint8_t)(p[x] - (up_cost <= sub_cost ? up[x] : x >= 3 ? p[x - 3] : 0));
    }
    ex_deflate(&bytes, raw, (int)(q - raw));
    free(raw);
    return bytes;
}

EX void ex_png_head(FILE *file, int w, int h) {
    static const uint8_t magic[8] = {137, 80, 78, 71, 13, 10, 26, 10};
    ex_bytes bytes;
    memset(&bytes, 0, sizeof bytes);
    fwrite(magic, 1, 8, file);
    ex_put32(&bytes, (uint32_t)w);
    ex_put32(&bytes, (uint32_t)h);
    ex_put(&bytes, 8);
    ex_put(&bytes, 2);
    ex_put(&bytes, 0);
    ex_put(&bytes, 0);
    ex_put(&bytes, 0);
    ex_chunk(file, "IHDR", bytes.at, bytes.size);
    free(bytes.at);
}

EX int ex_png(const char *path, const ex_image *image) {
    FILE *file = fopen(path, "wb");
    if (!file)
        return 0;
    ex_bytes bytes = ex_image_data(image);
    ex_png_head(file, image->w, image->h);
    ex_chunk(file, "IDAT", bytes.at, bytes.size);
    ex_chunk(file, "IEND", NULL, 0);
    free(bytes.at);
    return fclose(file) == 0;
}

/* Mean colour of the box of pixels that (column, row) of a grid of columns x rows covers. */
EX ex_color ex_average(const ex_image *image, int column, int columns, int row, int rows) {
    int x0 = image->w * column / columns, x1 = image->w * (column + 1) / columns,
        y0 = image->h * row / rows, y1 = image->h * (row + 1) / rows;
    long sum[3] = {0, 0, 0}, n = (long)(x1 - x0) * (y1 - y0);
    for (int y = y0; y < y1; y++)
        for (int x = x0; x < x1; x++)
            for (int c = 0; c < 3; c++)
                sum[c] += image->rgb[3 * ((size_t)y * (size_t)image->w + (size_t)x) + (size_t)c];
    return n > 0 ? ex_rgb((int)(sum[0] / n), (int)(sum[1] / n), (int)(sum[2] / n))
                 : ex_rgb(0, 0, 0);
}

/* The picture in the terminal: two pixels a character in colour; piped: five shades of blocks, dark
 * is full. */
EX void ex_term(FILE *file, const ex_image *image, int columns, int color, int again) {
    static const char *shade[5] = {"\xe2\x96\x88", "\xe2\x96\x93", "\xe2\x96\x92", "\xe2\x96\x91",
                                   " "};
    int rows = image->h * columns / (2 * image->w);
    if (rows < 1)
        rows = 1;
    if (color && again)
        fprintf(file, "\x1b[%dA", rows); /* over the frame before */
    for (int j = 0; j < rows; j++, fputs(color ? "\x1b[0m\n" : "\n", file))
        for (int i = 0; i < columns; i++)
            if (color) {
                ex_color a = ex_average(image, i, columns, 2 * j, 2 * rows),
                         b = ex_average(image, i, columns, 2 * j + 1, 2 * rows);
                fprintf(file, "\x1b[38;2;%d;%d;%dm\x1b[48;2;%d;%d;%dm\xe2\x96\x80", a.r, a.g, a.b,
                        b.r, b.g, b.b);
            } else {
                ex_color a = ex_average(image, i, columns, j, rows);
                fputs(shade[(2 * a.r + 5 * a.g + a.b) * 5 / 2048], file);
            }
    fflush(file);
}

EX void ex_term_frame(const ex_args *args, const ex_image *image) {
    int columns = 80, color = isatty(1);
#ifdef TIOCGWINSZ
    struct winsize size;
    if (color && ioctl(1, TIOCGWINSZ, &size) == 0 && size.ws_col > 8 && size.ws_row > 8) {
        /* as high as the window, at most as wide */
        columns = 2 * image->w * (size.ws_row - 4) / image->h;
        if (columns > size.ws_col)
            columns = size.ws_col;
    }
#endif
    ex_term(stdout, image, columns, color, args->written > 0);
}

/* One frame: DIR/NAME_0000.png, and the same frame appended to the animated DIR/NAME.png (25 frames
 * per second). */
EX void ex_frame(ex_args *args, const ex_image *image) {
    char path[512];
    if (args->term)
        ex_term_frame(args, image);
    if (!args->out || !strcmp(args->out, EX_NOWHERE)) {
        args->written++;
        return;
    }
    snprintf(path, sizeof path, "%s/%s_%04d.png", args->out, args->name, args->written);
    if (!ex_png(path, image))
        ex_die("cannot write %s%s", path, "");
    if (!args->movie) {
        static const uint8_t none[8] = {0};
        snprintf(path, sizeof path, "%s/%s.png", args->out, args->name);
        if (!(args->movie = fopen(path, "wb")))
            ex_die("cannot write %s%s", path, "");
        args->movie_w = image->w;
        args->movie_h = image->h;
        ex_png_head(args->movie, image->w, image->h);
        args->movie_count_at = ftell(args->movie);
        ex_chunk(args->movie, "acTL", none, 8);
    }
    if (image->w != args->movie_w || image->h != args->movie_h)
        return;
    ex_bytes head;
    memset(&head, 0, sizeof head);
    ex_put32(&head, args->movie_serial++);
    ex_put32(&head, (uint32_t)image->w);
    ex_put32(&head, (uint32_t)image->h);
    ex_put32(&head, 0);
    ex_put32(&head, 0);
    ex_put(&head, 0);
    ex_put(&head, 1);
    ex_put(&head, 0);
    ex_put(&head, 25);
    ex_put(&head, 0);
    ex_put(&head, 0);
    ex_chunk(args->movie, "fcTL", head.at, head.size);
    ex_bytes data = ex_image_data(image);
    if (args->written == 0)
        ex_chunk(args->movie, "IDAT", data.at, data.size);
    else {
        ex_bytes body;
        memset(&body, 0, sizeof body);
        ex_put32(&body, args->movie_serial++);
        for (size_t i = 0; i < data.size; i++)
            ex_put(&body, data.at[i]);
        ex_chunk(args->movie, "fdAT", body.at, body.size);
        free(body.at);
    }
    free(head.at);
    free(data.at);
    args->written++;
}

/* Closes the movie and prints the lines every example prints. Returns main's status. */
EX int ex_end(ex_args *args, long steps, int stable) {
    double seconds = ex_now() - args->begin;
    if (args->movie) {
        ex_bytes bytes;
        memset(&bytes, 0, sizeof bytes);
        ex_chunk(args->movie, "IEND", NULL, 0);
        ex_put32(&bytes, (uint32_t)args->written);
        ex_put32(&bytes, 0);
        fseek(args->movie, args->movie_count_at, SEEK_SET);
        ex_chunk(args->movie, "acTL", bytes.at, bytes.size);
        fclose(args->movie);
        free(bytes.at);
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
    ex_view view;
    view.x0 = x0;
    view.y0 = y0;
    view.x1 = x1;
    view.y1 = y1;
    view.left = left;
    view.top = top;
    view.w = w;
    view.h = h;
    return view;
}

EX double ex_px(const ex_view *view, double x) {
    return view->left + (x - view->x0) / (view->x1 - view->x0) * view->w;
}

EX double ex_py(const ex_view *view, double y) {
    return view->top + (view->y1 - y) / (view->y1 - view->y0) * view->h;
}

EX void ex_blend(ex_image *image, int x, int y, ex_color color, double alpha) {
    if (x < 0 || y < 0 || x >= image->w || y >= image->h || !(alpha > 0))
        return;
    if (alpha > 1)
        alpha = 1;
    uint8_t *p = image->rgb + 3 * ((size_t)y * (size_t)image->w + (size_t)x);
    p[0] = (uint8_t)(p[0] + alpha * (color.r - p[0]));
    p[1] = (uint8_t)(p[1] + alpha * (color.g - p[1]));
    p[2] = (uint8_t)(p[2] + alpha * (color.b - p[2]));
}

/* Colour maps on [0, 1]: 0 dark to bright (speed, smoke), 1 blue-white-red (signed), 2 white to
 * grey (smoke on white), 3 water depth. */
EX ex_color ex_map(int map, double t) {
    static const double stops[4][5][3] = {
        {{13, 8, 60}, {84, 20, 120}, {190, 55, 84}, {245, 140, 40}, {252, 250, 170}},
        {{33, 80, 170}, {140, 180, 225}, {246, 246, 246}, {230, 150, 120}, {170, 30, 45}},
        {{255, 255, 255}, {205, 208, 214}, {150, 154, 165}, {95, 98, 112}, {45, 47, 60}},
        {{222, 240, 250}, {150, 205, 235}, {80, 160, 215}, {35, 110, 180}, {12, 60, 125}}};
    if (!(t > 0))
        t = 0;
    if (t > 1)
        t = 1;
    int i = t >= 1 ? 3 : (int)(t * 4);
    double f = t * 4 - i;
    return ex_rgb((int)(stops[map][i][0] + f * (stops[map][i + 1][0] - stops[map][i][0])),
                  (int)(stops[map][i][1] + f * (stops[map][i + 1][1] - stops[map][i][1])),
                  (int)(stops[map][i][2] + f * (stops[map][i + 1][2] - stops[map][i][2])));
}

/* Bilinear value of a cell-centred field that covers the view's world box. */
EX double ex_field_at(const fsi_real *f, int nx, int ny, double sx, double sy) {
    double x = sx * nx - 0.5, y = sy * ny - 0.5;
    x = x < 0 ? 0 : x > nx - 1 ? nx - 1 : x;
    y = y < 0 ? 0 : y > ny - 1 ? ny - 1 : y;
    int i = (int)x < nx - 1 ? (int)x : nx - 2 < 0 ? 0 : nx - 2;
    int j = (int)y < ny - 1 ? (int)y : ny - 2 < 0 ? 0 : ny - 2;
    double a = x - i;
    double b = y - j;
    {
        int i1 = i + 1 < nx ? i + 1 : i, j1 = j + 1 < ny ? j + 1 : j;
        double f00 = (double)f[i + nx * j], f10 = (double)f[i1 + nx * j],
               f01 = (double)f[i + nx * j1], f11 = (double)f[i1 + nx * j1];
        return (1 - b) * ((1 - a) * f00 + a * f10) + b * ((1 - a) * f01 + a * f11);
    }
}

EX void ex_draw_field(ex_image *image, const ex_view *view, int nx, int ny, const fsi_real *f,
                      double lo, double hi, int map) {
    for (int y = 0; y < view->h; y++)
        for (int x = 0; x < view->w; x++) {
            double t = (ex_field_at(f, nx, ny, (x + 0.5) / view->w, 1 - (y + 0.5) / view->h) - lo)
                       / (hi - lo);
            ex_blend(image, view->left + x, view->top + y, ex_map(map, t), 1);
        }
}

/* Liquid where phi < 0 (cell-centred, metres; h = cell size): filled with smooth edges and a dark
 * rim. */
EX void ex_draw_liquid(ex_image *image, const ex_view *view, int nx, int ny, const fsi_real *phi,
                       ex_color color) {
    double pixel = (view->x1 - view->x0) / view->w;
    for (int y = 0; y < view->h; y++)
        for (int x = 0; x < view->w; x++) {
            double d =
                ex_field_at(phi, nx, ny, (x + 0.5) / view->w, 1 - (y + 0.5) / view->h) / pixel;
            ex_blend(image, view->left + x, view->top + y, color, 0.5 - d);
            ex_blend(image, view->left + x, view->top + y,
                     ex_rgb(color.r / 2, color.g / 2, color.b / 2), 0.7 - 0.35 * fabs(d + 1));
        }
}

/* A line in pixels with round smooth edges. */
EX void ex_line(ex_image *image, double x0, double y0, double x1, double y1, double width,
                ex_color color) {
    double r = width / 2 + 1, dx = x1 - x0, dy = y1 - y0, l2 = dx * dx + dy * dy;
    if (!(fabs(x0) < 1e5 && fabs(x1) < 1e5 && fabs(y0) < 1e5 && fabs(y1) < 1e5))
        return;
    int xa = (int)floor((x0 < x1 ? x0 : x1) - r);
    int xb = (int)ceil((x0 > x1 ? x0 : x1) + r);
    int ya = (int)floor((y0 < y1 ? y0 : y1) - r);
    int yb = (int)ceil((y0 > y1 ? y0 : y1) + r);
    if (xa < 0)
        xa = 0;
    if (ya < 0)
        ya = 0;
    if (xb > image->w - 1)
        xb = image->w - 1;
    if (yb > image->h - 1)
        yb = image->h - 1;
    for (int y = ya; y <= yb; y++)
        for (int x = xa; x <= xb; x++) {
            double px = x + 0.5 - x0, py = y + 0.5 - y0, t = l2 > 0 ? (px * dx + py * dy) / l2 : 0;
            t = t < 0 ? 0 : t > 1 ? 1 : t;
            px -= t * dx;
            py -= t * dy;
            ex_blend(image, x, y, color, width / 2 + 0.5 - sqrt(px * px + py * py));
        }
}

EX void ex_disk(ex_image *image, double x, double y, double r, ex_color color) {
    ex_line(image, x, y, x, y, 2 * r, color);
}

/* A 2D surface: closed ones filled (even-odd over its segments, 4 x 4 samples a pixel) with a rim,
 * shells as lines. */
EX void ex_draw_surface(ex_image *image, const ex_view *view, const fsi_surface *surface,
                        ex_color color) {
    if (surface->closed) {
        float *cover = (float *)calloc((size_t)image->w, sizeof(float));
        double cross[256];
        for (int y = view->top; y < view->top + view->h && y < image->h; y++) {
            memset(cover, 0, (size_t)image->w * sizeof(float));
            for (int sub = 0; sub < 4; sub++) {
                double py = y + (sub + 0.5) / 4;
                int n = 0;
                for (int e = 0; e < surface->element_count && n < 256; e++) {
                    const fsi_real *p = surface->x + 3 * surface->index[2 * e],
                                   *q = surface->x + 3 * surface->index[2 * e + 1];
                    double ax = ex_px(view, (double)p[0]), ay = ex_py(view, (double)p[1]),
                           bx = ex_px(view, (double)q[0]), by = ex_py(view, (double)q[1]);
                    if ((ay <= py) != (by <= py))
                        cross[n++] = ax + (py - ay) / (by - ay) * (bx - ax);
                }
                for (int i = 1; i < n; i++)
                    for (int j = i; j > 0 && cross[j] < cross[j - 1]; j--) {
                        double t = cross[j];
                        cross[j] = cross[j - 1];
                        cross[j - 1] = t;
                    }
                for (int i = 0; i + 1 < n; i += 2) {
                    int a = (int)floor(cross[i]), b = (int)ceil(cross[i + 1]);
                    for (int x = a < 0 ? 0 : a; x < b && x < image->w; x++) {
                        double lo = cross[i] > x ? cross[i] : x,
                               hi = cross[i + 1] < x + 1 ? cross[i + 1] : x + 1;
                        if (hi > lo)
                            cover[x] += (float)((hi - lo) / 4);
                    }
                }
            }
            for (int x = 0; x < image->w; x++)
                ex_blend(image, x, y, color, (double)cover[x]);
        }
        free(cover);
    }
    for (int e = 0; e < surface->element_count; e++) {
        const fsi_real *p = surface->x + 3 * surface->index[2 * e],
                       *q = surface->x + 3 * surface->index[2 * e + 1];
        ex_line(image, ex_px(view, (double)p[0]), ex_py(view, (double)p[1]),
                ex_px(view, (double)q[0]), ex_py(view, (double)q[1]), surface->closed ? 1.2 : 2.5,
                surface->closed ? ex_rgb(color.r / 2, color.g / 2, color.b / 2) : color);
    }
}

/* Text in a 5 x 7 face, capitals and small letters alike; size is the height of a dot in pixels. */
EX void ex_text(ex_image *image, int x, int y, int size, ex_color color, const char *text) {
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
        if (!at)
            continue;
        for (int i = 0; i < 5; i++)
            for (int j = 0; j < 7; j++)
                if (font[at - order][i] >> j & 1)
                    for (int a = 0; a < size; a++)
                        for (int b = 0; b < size; b++)
                            ex_blend(image, x + i * size + a, y + j * size + b, color, 1);
    }
}

/* A colour bar at the right edge of the view, with its two ends and a title. */
EX void ex_colorbar(ex_image *image, const ex_view *view, int map, double lo, double hi,
                    const char *title) {
    char text[32];
    int x = view->left + view->w + 8;
    for (int y = 0; y < view->h; y++)
        for (int i = 0; i < 12; i++)
            ex_blend(image, x + i, view->top + y, ex_map(map, 1 - (double)y / view->h), 1);
    snprintf(text, sizeof text, "%.3g", hi);
    ex_text(image, x + 16, view->top, 1, ex_rgb(40, 40, 40), text);
    snprintf(text, sizeof text, "%.3g", lo);
    ex_text(image, x + 16, view->top + view->h - 8, 1, ex_rgb(40, 40, 40), text);
    ex_text(image, x, view->top - 12, 1, ex_rgb(40, 40, 40), title);
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

EX int ex_plot_value(const ex_axis *axis, double v, double *out) {
    *out = axis->log ? (v > 0 ? log10(v) : -1e301) : v;
    return fabs(*out) < 1e300;
}

EX int ex_plot_point(const ex_axis *axis, const ex_curve *curve, int k, double p[2]) {
    return ex_plot_value(&axis[0], curve->x[k], &p[0])
           && ex_plot_value(&axis[1], curve->y[k], &p[1]);
}

/* Ticks at 1, 2, 5 times a power of ten, at most seven; decades (and 2, 5 inside where they are
 * few) on a logarithmic axis. */
EX void ex_axis_ticks(ex_axis *axis) {
    double step = pow(10, floor(log10((axis->hi - axis->lo) / 6)));
    static const double part[3] = {0, 0.30102999566398, 0.69897000433602}; /* log10 of 1, 2, 5 */
    int few = axis->hi - axis->lo < 2.5;
    axis->ticks = 0;
    if (axis->log) {
        int every = (int)((axis->hi - axis->lo) / 7) + 1;
        for (double t = floor(axis->lo); t <= axis->hi; t += few ? 1 : every)
            for (int i = 0; i < (few ? 3 : 1); i++)
                if (t + part[i] >= axis->lo - 1e-9 && t + part[i] <= axis->hi + 1e-9
                    && axis->ticks < 16)
                    axis->tick[axis->ticks++] = t + part[i];
        return;
    }
    for (int i = 0; (axis->hi - axis->lo) / step > 7; i++)
        step *= i % 3 == 1 ? 2.5 : 2;
    for (double t = ceil(axis->lo / step - 1e-9);
         t * step <= axis->hi + 1e-9 * step && axis->ticks < 16; t++)
        axis->tick[axis->ticks++] = t * step;
}

EX void ex_plot_axes(const ex_curve *curve, int curves, int log_x, int log_y, ex_axis axis[2]) {
    memset(axis, 0, 2 * sizeof *axis);
    axis[0].log = log_x;
    axis[1].log = log_y;
    for (int k = 0; k < 2; k++)
        axis[k].lo = 1e300, axis[k].hi = -1e300;
    for (int i = 0; i < curves; i++)
        for (int j = 0; j < curve[i].n; j++) {
            double p[2];
            for (int k = 0; k < 2 && ex_plot_point(axis, &curve[i], j, p); k++) {
                if (p[k] < axis[k].lo)
                    axis[k].lo = p[k];
                if (p[k] > axis[k].hi)
                    axis[k].hi = p[k];
            }
        }
    for (int k = 0; k < 2; k++) {
        if (axis[k].lo > axis[k].hi)
            axis[k].lo = 0, axis[k].hi = 1;
        double pad = axis[k].hi > axis[k].lo ? 0.05 * (axis[k].hi - axis[k].lo)
                     : axis[k].hi != 0       ? 0.1 * fabs(axis[k].hi)
                                             : 1;
        /* show zero where it is near */
        if (k && !axis[k].log && axis[k].lo >= 0 && axis[k].lo < 0.7 * axis[k].hi)
            axis[k].lo = 0;
        else
            axis[k].lo -= pad;
        axis[k].hi += pad;
        ex_axis_ticks(&axis[k]);
    }
}

EX void ex_plot_tick(const ex_axis *axis, int k, char text[32]) {
    double v = axis->log                                             ? pow(10, axis->tick[k])
               : fabs(axis->tick[k]) < 1e-12 * (axis->hi - axis->lo) ? 0
                                                                     : axis->tick[k];
    snprintf(text, 32, "%.4g", v);
}

/* Axes with ticks and curves into a picture; log_x, log_y for powers of ten. */
EX void ex_plot(ex_image *image, const char *title, const char *xname, const char *yname,
                const ex_curve *curve, int curves, int log_x, int log_y) {
    ex_axis axis[2];
    char text[32];
    ex_plot_axes(curve, curves, log_x, log_y, axis);
    ex_view view = ex_view_make(axis[0].lo, axis[1].lo, axis[0].hi, axis[1].hi, 70, 44,
                                image->w - 90, image->h - 98);
    int i;
    for (i = 0; i < axis[0].ticks; i++) {
        double at = ex_px(&view, axis[0].tick[i]);
        ex_line(image, at, view.top, at, view.top + view.h, 1, ex_rgb(225, 225, 225));
        ex_plot_tick(&axis[0], i, text);
        ex_text(image, (int)at - 3 * (int)strlen(text), view.top + view.h + 8, 1,
                ex_rgb(60, 60, 60), text);
    }
    for (i = 0; i < axis[1].ticks; i++) {
        double y = ex_py(&view, axis[1].tick[i]);
        ex_line(image, view.left, y, view.left + view.w, y, 1, ex_rgb(225, 225, 225));
        ex_plot_tick(&axis[1], i, text);
        ex_text(image, view.left - 6 - 6 * (int)strlen(text), (int)y - 3, 1, ex_rgb(60, 60, 60),
                text);
    }
    ex_text(image, view.left, 8, 2, ex_rgb(20, 20, 20), title);
    ex_text(image, view.left + view.w / 2 - 3 * (int)strlen(xname), image->h - 16, 1,
            ex_rgb(20, 20, 20), xname);
    ex_text(image, 8, 30, 1, ex_rgb(20, 20, 20), yname);
    /* names in the margin above, in the order of the curves */
    int x;
    for (i = curves, x = view.left + view.w; i-- > 0;) {
        ex_text(image, x -= 6 * (int)strlen(curve[i].name), view.top - 12, 1, curve[i].color,
                curve[i].name);
        x -= 18;
    }
    for (i = 0; i < curves; i++) {
        double p[2], q[2] = {0, 0};
        int last = 0;
        for (int j = 0; j < curve[i].n; j++) {
            int ok = ex_plot_point(axis, &curve[i], j, p);
            if (ok && last)
                ex_line(image, ex_px(&view, q[0]), ex_py(&view, q[1]), ex_px(&view, p[0]),
                        ex_py(&view, p[1]), 2, curve[i].color);
            if (ok && curve[i].n <= 40)
                ex_disk(image, ex_px(&view, p[0]), ex_py(&view, p[1]), 3, curve[i].color);
            last = ok;
            q[0] = p[0];
            q[1] = p[1];
        }
    }
}

/* Axes around a view of the world (a field, a scene): ticks outside its left and lower edge. Leave
 * 40 pixels on the left, 26 below. */
EX void ex_axes(ex_image *image, const ex_view *view, const char *xname, const char *yname) {
    ex_color dark = ex_rgb(40, 40, 40);
    ex_axis axis[2];
    char text[32];
    memset(axis, 0, sizeof axis);
    axis[0].lo = view->x0;
    axis[0].hi = view->x1;
    axis[1].lo = view->y0;
    axis[1].hi = view->y1;
    int i;
    for (int k = 0; k < 2; k++)
        for (ex_axis_ticks(&axis[k]), i = 0; i < axis[k].ticks; i++) {
            double x = k ? view->left : ex_px(view, axis[0].tick[i]),
                   y = k ? ex_py(view, axis[1].tick[i]) : view->top + view->h;
            ex_line(image, x, y, k ? x - 4 : x, k ? y : y + 4, 1, dark);
            ex_plot_tick(&axis[k], i, text);
            ex_text(image, (int)x - (k ? 7 + 6 * (int)strlen(text) : 3 * (int)strlen(text)),
                    (int)y + (k ? -3 : 7), 1, dark, text);
        }
    ex_line(image, view->left, view->top, view->left, view->top + view->h, 1, dark);
    ex_line(image, view->left, view->top + view->h, view->left + view->w, view->top + view->h, 1,
            dark);
    ex_text(image, view->left + view->w / 2 - 3 * (int)strlen(xname), view->top + view->h + 18, 1,
            dark, xname);
    ex_text(image, view->left, view->top - 12, 1, dark, yname);
}

EX void ex_svg_text(FILE *file, double x, double y, const char *anchor, const char *style,
                    const char *text) {
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" %s>", x, y, anchor, style);
    for (; *text; text++) {
        if (*text == '<')
            fputs("&lt;", file);
        else if (*text == '>')
            fputs("&gt;", file);
        else if (*text == '&')
            fputs("&amp;", file);
        else
            fputc(*text, file);
    }
    fputs("</text>\n", file);
}

EX void ex_svg_curve(FILE *file, const ex_view *view, const ex_axis *axis, const ex_curve *curve) {
    double p[2];
    int last = 0;
    fprintf(file, "<path fill=\"none\" stroke=\"#%02x%02x%02x\" stroke-width=\"2\" d=\"",
            curve->color.r, curve->color.g, curve->color.b);
    for (int j = 0; j < curve->n; j++) {
        int ok = ex_plot_point(axis, curve, j, p);
        if (ok)
            fprintf(file, "%c%.1f %.1f", last ? 'L' : 'M', ex_px(view, p[0]), ex_py(view, p[1]));
        last = ok;
    }
    fprintf(file, "\"/>\n<g fill=\"#%02x%02x%02x\">", curve->color.r, curve->color.g,
            curve->color.b);
    for (int j = 0; j < curve->n && curve->n <= 40; j++)
        if (ex_plot_point(axis, curve, j, p))
            fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>", ex_px(view, p[0]),
                    ex_py(view, p[1]));
    fputs("</g>\n", file);
}

/* The same plot as a text file: 640 x 400 SVG. 0 if it cannot be written. */
EX int ex_plot_svg(const char *path, const char *title, const char *xname, const char *yname,
                   const ex_curve *curve, int curves, int log_x, int log_y) {
    FILE *file = fopen(path, "w");
    ex_axis axis[2];
    int right = 620;
    char text[64];
    if (!file)
        return 0;
    ex_plot_axes(curve, curves, log_x, log_y, axis);
    ex_view view = ex_view_make(axis[0].lo, axis[1].lo, axis[0].hi, axis[1].hi, 66, 44, 554, 300);
    fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 400\" "
                  "font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n"
                  "<rect width=\"640\" height=\"400\" fill=\"#fff\"/>\n");
    for (int i = 0; i < axis[0].ticks; i++) {
        double x = ex_px(&view, axis[0].tick[i]);
        fprintf(file, "<path stroke=\"#ddd\" d=\"M%.1f 44V344\"/>\n", x);
        ex_plot_tick(&axis[0], i, text);
        ex_svg_text(file, x, 360, "middle", "", text);
    }
    for (int i = 0; i < axis[1].ticks; i++) {
        double y = ex_py(&view, axis[1].tick[i]);
        fprintf(file, "<path stroke=\"#ddd\" d=\"M66 %.1fH620\"/>\n", y);
        ex_plot_tick(&axis[1], i, text);
        ex_svg_text(file, 60, y + 4, "end", "", text);
    }
    fputs("<rect x=\"66\" y=\"44\" width=\"554\" height=\"300\" fill=\"none\" stroke=\"#999\"/>\n",
          file);
    ex_svg_text(file, 66, 20, "start", "font-size=\"16\"", title);
    ex_svg_text(file, 343, 388, "middle", "", xname);
    ex_svg_text(file, 66, 38, "start", "", yname);
    /* names in the margin above */
    for (int i = curves; i-- > 0; right -= 7 * (int)strlen(curve[i].name) + 16) {
        ex_svg_curve(file, &view, axis, &curve[i]);
        snprintf(text, sizeof text, "fill=\"#%02x%02x%02x\"", curve[i].color.r, curve[i].color.g,
                 curve[i].color.b);
        ex_svg_text(file, right, 38, "end", text, curve[i].name);
    }
    fputs("</svg>\n", file);
    return fclose(file) == 0;
}

/* ------------------------------------------------------------------------------------------------
 * 3D drawing */
/* zoom: 1 / tan(half the field of view) */
typedef struct ex_camera {
    double eye[3], right[3], up[3], ahead[3], zoom;
} ex_camera;

EX void ex_unit(double *a) {
    double n = sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2]);
    for (int i = 0; i < 3 && n > 0; i++)
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
    double up[3] = {0, 0, 0};
    up[up_axis] = 1;
    ex_camera camera;
    camera.eye[0] = ex;
    camera.eye[1] = ey;
    camera.eye[2] = ez;
    camera.ahead[0] = tx - ex;
    camera.ahead[1] = ty - ey;
    camera.ahead[2] = tz - ez;
    ex_unit(camera.ahead);
    ex_cross(camera.ahead, up, camera.right);
    ex_unit(camera.right);
    ex_cross(camera.right, camera.ahead, camera.up);
    camera.zoom = 1 / tan(degrees * 3.14159265358979 / 360);
    return camera;
}

/* Pixel and depth of a point; 0 when it is behind the eye. */
EX int ex_project(const ex_image *image, const ex_camera *camera, const double *p, double *out) {
    double d[3], x = 0, y = 0, z = 0;
    for (int i = 0; i < 3; i++)
        d[i] = p[i] - camera->eye[i], x += d[i] * camera->right[i], y += d[i] * camera->up[i],
        z += d[i] * camera->ahead[i];
    if (!(z > 1e-6))
        return 0;
    out[0] = image->w / 2.0 + x / z * camera->zoom * image->h / 2;
    out[1] = image->h / 2.0 - y / z * camera->zoom * image->h / 2;
    out[2] = z;
    return 1;
}

EX void ex_line3(ex_image *image, const ex_camera *camera, const double *a, const double *b,
                 ex_color color) {
    double p[3], q[3];
    if (!ex_project(image, camera, a, p) || !ex_project(image, camera, b, q))
        return;
    int n = (int)(fabs(p[0] - q[0]) + fabs(p[1] - q[1])) + 1;
    for (int i = 0; i <= n && n < 20000; i++) {
        double t = (double)i / n, z = 1 / ((1 - t) / p[2] + t / q[2]);
        int x = (int)(p[0] + t * (q[0] - p[0])), y = (int)(p[1] + t * (q[1] - p[1]));
        if (x >= 0 && y >= 0 && x < image->w && y < image->h
            && z < (double)image->depth[y * image->w + x] * 1.002)
            ex_blend(image, x, y, color, 0.7);
    }
}

EX void ex_box3(ex_image *image, const ex_camera *camera, const double *lo, const double *hi,
                ex_color color) {
    for (int e = 0; e < 12; e++) {
        int axis = e / 4, u = (axis + 1) % 3, v = (axis + 2) % 3;
        double a[3], b[3];
        a[axis] = lo[axis];
        b[axis] = hi[axis];
        a[u] = b[u] = e & 1 ? hi[u] : lo[u];
        a[v] = b[v] = e & 2 ? hi[v] : lo[v];
        ex_line3(image, camera, a, b, color);
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

EX void ex_face_normal(const ex_mesh *mesh, int t, double *c) {
    const fsi_real *p[3];
    double a[3], b[3];
    for (int k = 0; k < 3; k++)
        p[k] = mesh->x + 3 * mesh->index[3 * t + k];
    for (int k = 0; k < 3; k++)
        a[k] = (double)(p[1][k] - p[0][k]), b[k] = (double)(p[2][k] - p[0][k]);
    ex_cross(a, b, c);
}

/* n [3 * vertices]: of the vertices, faces weighted by their area. */
EX void ex_normals(const ex_mesh *mesh, double *n) {
    double c[3];
    memset(n, 0, (size_t)mesh->vertices * 3 * sizeof *n);
    for (int t = 0; t < mesh->triangles; t++) {
        ex_face_normal(mesh, t, c);
        for (int k = 0; k < 3; k++)
            for (int i = 0; i < 3; i++)
                n[3 * mesh->index[3 * t + k] + i] += c[i];
    }
    for (int k = 0; k < mesh->vertices; k++)
        ex_unit(n + 3 * k);
}

/* n [9 * triangles]: those of the vertices v, but of the face where they differ by more than 41
 * degrees: boxes keep their edges. */
EX void ex_corner_normals(const ex_mesh *mesh, const double *v, double *n) {
    double c[3];
    for (int t = 0; t < mesh->triangles; t++) {
        ex_face_normal(mesh, t, c);
        ex_unit(c);
        for (int k = 0; k < 3; k++) {
            const double *smooth = v + 3 * mesh->index[3 * t + k];
            int sharp = smooth[0] * c[0] + smooth[1] * c[1] + smooth[2] * c[2] < 0.75;
            for (int i = 0; i < 3; i++)
                n[9 * t + 3 * k + i] = sharp ? c[i] : smooth[i];
        }
    }
}

/* Light from above left: ambient from the sky, diffuse, a highlight. */
EX ex_color ex_shade(const ex_camera *camera, const double *n0, ex_color base, double gloss) {
    static const double light[3] = {-0.40, 0.80, 0.45};
    double n[3] = {n0[0], n0[1], n0[2]}, d = 0, face = 0, half[3], s = 0;
    ex_unit(n);
    for (int i = 0; i < 3; i++)
        face += n[i] * camera->ahead[i];
    for (int i = 0; i < 3; i++) {
        if (face > 0)
            n[i] = -n[i];
        half[i] = light[i] - camera->ahead[i];
    }
    ex_unit(half);
    for (int i = 0; i < 3; i++)
        d += n[i] * light[i], s += n[i] * half[i];
    double k = 0.42 + 0.12 * n[1] + 0.5 * (d > 0 ? d : 0);
    s = s > 0 ? gloss * 255 * pow(s, 40) : 0;
    return ex_rgb((int)fmin(255, k * base.r + s), (int)fmin(255, k * base.g + s),
                  (int)fmin(255, k * base.b + s));
}

/* Calls per covered pixel: pass 0 writes depth only into z, pass 1 shades where z is met. */
EX void ex_raster(ex_image *image, const ex_camera *camera, const ex_mesh *mesh, const double *n,
                  float *z, int pass) {
    for (int t = 0; t < mesh->triangles; t++) {
        double p[3][3], w[3];
        int ok = 1;
        for (int k = 0; k < 3; k++) {
            double q[3];
            for (int i = 0; i < 3; i++)
                q[i] = (double)mesh->x[3 * mesh->index[3 * t + k] + i];
            ok = ok && ex_project(image, camera, q, p[k]);
        }
        double area = ok ? (p[1][0] - p[0][0]) * (p[2][1] - p[0][1])
                               - (p[2][0] - p[0][0]) * (p[1][1] - p[0][1])
                         : 0;
        if (!(fabs(area) > 1e-9) || !(fabs(area) < 1e9))
            continue;
        int xa = (int)floor(fmin(p[0][0], fmin(p[1][0], p[2][0])));
        int xb = (int)ceil(fmax(p[0][0], fmax(p[1][0], p[2][0])));
        int ya = (int)floor(fmin(p[0][1], fmin(p[1][1], p[2][1])));
        int yb = (int)ceil(fmax(p[0][1], fmax(p[1][1], p[2][1])));
        for (int y = ya < 0 ? 0 : ya; y <= yb && y < image->h; y++)
            for (int x = xa < 0 ? 0 : xa; x <= xb && x < image->w; x++) {
                double px = x + 0.5, py = y + 0.5, normal[3] = {0, 0, 0};
                float *at = z + y * image->w + x;
                w[0] = ((p[1][0] - px) * (p[2][1] - py) - (p[2][0] - px) * (p[1][1] - py)) / area;
                w[1] = ((p[2][0] - px) * (p[0][1] - py) - (p[0][0] - px) * (p[2][1] - py)) / area;
                w[2] = 1 - w[0] - w[1];
                if (w[0] < -1e-9 || w[1] < -1e-9 || w[2] < -1e-9)
                    continue;
                double depth = 1 / (w[0] / p[0][2] + w[1] / p[1][2] + w[2] / p[2][2]);
                if (pass == 0) {
                    if (depth < (double)*at)
                        *at = (float)depth;
                    continue;
                }
                if (depth > (double)*at * 1.0000005 + 1e-7)
                    continue;
                for (int k = 0; k < 3; k++)
                    for (int i = 0; i < 3; i++)
                        normal[i] += w[k] * n[9 * t + 3 * k + i];
                if (mesh->glass > 0) {
                    double behind = (double)image->depth[y * image->w + x] - depth;
                    if (behind > 0)
                        ex_blend(image, x, y, ex_shade(camera, normal, mesh->color, 0.7),
                                 0.25 + 0.65 * (1 - exp(-behind / mesh->glass)));
                    *at = -1; /* blend once */
                } else
                    ex_blend(image, x, y, ex_shade(camera, normal, mesh->color, 0.25), 1);
            }
    }
}

/* Draw all solid meshes first, then the clear ones. */
EX void ex_draw_mesh(ex_image *image, const ex_camera *camera, const ex_mesh *mesh) {
    double *v =
        (double *)malloc((size_t)(mesh->vertices > 0 ? mesh->vertices : 1) * 3 * sizeof(double));
    double *n =
        (double *)malloc((size_t)(mesh->triangles > 0 ? mesh->triangles : 1) * 9 * sizeof(double));
    ex_normals(mesh, v);
    ex_corner_normals(mesh, v, n);
    free(v);
    if (mesh->glass > 0) {
        float *z = (float *)malloc((size_t)image->w * (size_t)image->h * sizeof(float));
        for (int i = 0; i < image->w * image->h; i++)
            z[i] = 1e30f;
        ex_raster(image, camera, mesh, n, z, 0);
        ex_raster(image, camera, mesh, n, z, 1);
        free(z);
    } else {
        ex_raster(image, camera, mesh, n, image->depth, 0);
        ex_raster(image, camera, mesh, n, image->depth, 1);
    }
    free(n);
}

EX void ex_draw_surface3(ex_image *image, const ex_camera *camera, const fsi_surface *surface,
                         ex_color color) {
    ex_mesh mesh;
    mesh.vertices = surface->vertex_count;
    mesh.triangles = surface->element_count;
    mesh.x = surface->x;
    mesh.index = surface->index;
    mesh.color = color;
    mesh.glass = 0;
    ex_draw_mesh(image, camera, &mesh);
}

/* Shadow of a surface on the floor at height y, light from above and a little from the side: draw
 * after the floor, before the surface. */
EX void ex_shadow(ex_image *image, const ex_camera *camera, const fsi_surface *surface, double y) {
    fsi_real *x = (fsi_real *)malloc(3 * (size_t)surface->vertex_count * sizeof *x + 1);
    fsi_surface flat = *surface;
    for (int i = 0; x && i < surface->vertex_count; i++) {
        fsi_real up = surface->x[3 * i + 1] - (fsi_real)y;
        x[3 * i] = surface->x[3 * i] + up * (fsi_real)0.3;
        x[3 * i + 1] = (fsi_real)y;
        x[3 * i + 2] = surface->x[3 * i + 2] - up * (fsi_real)0.15;
    }
    flat.x = x;
    if (x)
        ex_draw_surface3(image, camera, &flat, ex_rgb(128, 128, 130));
    free(x);
}

/* Liquid where phi < 0 (cell-centred, metres) as a clear body; draw it after the solids. */
EX void ex_draw_water(ex_image *image, const ex_camera *camera, int nx, int ny, int nz, double h,
                      const fsi_real *phi, ex_color color, double glass) {
    fsi_iso_desc desc;
    memset(&desc, 0, sizeof desc);
    fsi_iso_mesh mesh;
    memset(&mesh, 0, sizeof mesh);
    desc.nx = nx;
    desc.ny = ny;
    desc.nz = nz;
    desc.h = (fsi_real)h;
    desc.value = phi;
    desc.closed = 1;
    desc.origin = fsi_vec((fsi_real)(h / 2), (fsi_real)(h / 2), (fsi_real)(h / 2));
    if (fsi_iso_build(&desc, &mesh) != FSI_OK)
        return;
    ex_mesh s;
    s.vertices = mesh.vertex_count;
    s.triangles = mesh.element_count;
    s.x = mesh.x;
    s.index = mesh.index;
    s.color = color;
    s.glass = glass;
    ex_draw_mesh(image, camera, &s);
    fsi_iso_free(&mesh);
}

/* Value of a cell-centred field at a point in cells, linear; 0 outside. */
EX double ex_volume_at(const fsi_real *f, const int *n, const double *p) {
    double w[3], sum = 0;
    int b[3];
    for (int a = 0; a < 3; a++) {
        double x = p[a] - 0.5;
        b[a] = (int)floor(x);
        w[a] = x - b[a];
    }
    for (int q = 0; q < 8; q++) {
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
    for (int j = n[1] - 1; lit && j >= 0; j--)
        for (int k = 0; k < n[2]; k++)
            for (int i = 0; i < n[0]; i++) {
                double x = i + slant[0], z = k + slant[1], sum = 0;
                int x0 = (int)floor(x), z0 = (int)floor(z);
                for (int q = 0; q < 4; q++) {
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
EX void ex_draw_smoke(ex_image *image, const ex_camera *camera, int nx, int ny, int nz, double h,
                      const fsi_real *density, double clear, ex_color color) {
    const int n[3] = {nx, ny, nz};
    fsi_real *lit = ex_smoke_light(n, density, h / clear);
    int lo[3] = {nx, ny, nz}, hi[3] = {0, 0, 0};
    for (int i = 0; i < nx * ny * nz; i++) { /* the part of the box that holds smoke */
        int at[3];
        if (!((double)density[i] > 1e-3))
            continue;
        at[0] = i % nx;
        at[1] = i / nx % ny;
        at[2] = i / nx / ny;
        for (int a = 0; a < 3; a++) {
            if (at[a] < lo[a])
                lo[a] = at[a];
            if (at[a] >= hi[a])
                hi[a] = at[a] + 1;
        }
    }
    for (int y = 0; lit && y < image->h; y++)
        for (int x = 0; x < image->w; x++) {
            double px = (x + 0.5 - image->w / 2.0) * 2 / (image->h * camera->zoom),
                   py = (image->h / 2.0 - y - 0.5) * 2 / (image->h * camera->zoom), d[3],
                   near_it = 0, far_it = (double)image->depth[y * image->w + x];
            double through = 1, light = 0;
            for (int a = 0; a < 3; a++) {
                d[a] = camera->ahead[a] + px * camera->right[a] + py * camera->up[a];
                if (fabs(d[a]) < 1e-9)
                    d[a] = 1e-9;
                double p = ((lo[a] - 1) * h - camera->eye[a]) / d[a];
                double q = ((hi[a] + 1) * h - camera->eye[a]) / d[a];
                near_it = fmax(near_it, fmin(p, q));
                far_it = fmin(far_it, fmax(p, q));
            }
            for (double t = near_it; t < far_it && through > 0.005; t += h) {
                double p[3], step = fmin(h, far_it - t);
                for (int a = 0; a < 3; a++)
                    p[a] = (camera->eye[a] + (t + step / 2) * d[a]) / h;
                double v = ex_volume_at(density, n, p);
                if (!(v > 1e-4))
                    continue;
                double part = through * (1 - exp(-v * step / clear));
                light += part * (0.3 + 0.75 * ex_volume_at(lit, n, p));
                through -= part;
            }
            if (through < 1) {
                uint8_t *o = image->rgb + 3 * ((size_t)y * (size_t)image->w + (size_t)x);
                o[0] = (uint8_t)fmin(255, o[0] * through + color.r * light);
                o[1] = (uint8_t)fmin(255, o[1] * through + color.g * light);
                o[2] = (uint8_t)fmin(255, o[2] * through + color.b * light);
            }
        }
    free(lit);
}

/* A checkered floor in the plane 'up = height'. */
EX void ex_floor(ex_image *image, const ex_camera *camera, const double *lo, const double *hi,
                 int up_axis, double height, double tile) {
    int u = up_axis == 1 ? 0 : 0, v = up_axis == 1 ? 2 : 1, nu = (int)ceil((hi[u] - lo[u]) / tile),
        nv = (int)ceil((hi[v] - lo[v]) / tile);
    static const int32_t index[6] = {0, 1, 2, 0, 2, 3};
    for (int i = 0; i < nu; i++)
        for (int j = 0; j < nv; j++) {
            fsi_real x[12];
            for (int k = 0; k < 4; k++) {
                x[3 * k + up_axis] = (fsi_real)height;
                x[3 * k + u] = (fsi_real)fmin(hi[u], lo[u] + tile * (i + (k == 1 || k == 2)));
                x[3 * k + v] = (fsi_real)fmin(hi[v], lo[v] + tile * (j + (k >= 2)));
            }
            ex_mesh mesh;
            mesh.vertices = 4;
            mesh.triangles = 2;
            mesh.x = x;
            mesh.index = index;
            mesh.glass = 0;
            mesh.color = (i + j) & 1 ? ex_rgb(205, 205, 200) : ex_rgb(235, 235, 230);
            ex_draw_mesh(image, camera, &mesh);
        }
}

/* ------------------------------------------------------------------------------------------------
 * files */
/* Legacy VTK with one cell-centred scalar field. */
EX int ex_vtk(const char *path, int nx, int ny, int nz, double h, const char *name,
              const fsi_real *f) {
    FILE *file = fopen(path, "w");
    if (!file)
        return 0;
    fprintf(file,
            "# vtk DataFile Version 3.0\n%s\nASCII\nDATASET STRUCTURED_POINTS\nDIMENSIONS %d %d "
            "%d\nORIGIN 0 0 0\nSPACING %g %g %g\nCELL_DATA %d\nSCALARS %s double 1\nLOOKUP_TABLE "
            "default\n",
            name, nx + 1, ny + 1, nz + 1, h, h, h, nx * ny * nz, name);
    for (int i = 0; i < nx * ny * nz; i++)
        fprintf(file, "%.9g\n", (double)f[i]);
    return fclose(file) == 0;
}

EX int ex_obj_write(const char *path, int vertices, const fsi_real *x, int triangles,
                    const int32_t *index) {
    FILE *file = fopen(path, "w");
    if (!file)
        return 0;
    for (int i = 0; i < vertices; i++)
        fprintf(file, "v %.9g %.9g %.9g\n", (double)x[3 * i], (double)x[3 * i + 1],
                (double)x[3 * i + 2]);
    for (int i = 0; i < triangles; i++)
        fprintf(file, "f %d %d %d\n", index[3 * i] + 1, index[3 * i + 1] + 1, index[3 * i + 2] + 1);
    return fclose(file) == 0;
}

/* Reads vertices and faces (polygons become fans). Arrays are malloc'ed, the caller frees them. 0
 * on any error. */
EX int ex_obj_read(const char *path, int *vertices, fsi_real **x, int *triangles, int32_t **index) {
    FILE *file = fopen(path, "r");
    char line[1024];
    int nv = 0, nt = 0, vroom = 0, troom = 0, ok = 1;
    *x = NULL;
    *index = NULL;
    if (!file)
        return 0;
    while (ok && fgets(line, sizeof line, file)) {
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
            int corner[64], n = 0;
            char *p2 = line + 1;
            while (n < 64 && sscanf(p2 += strspn(p2, " \t"), "%d", &corner[n]) == 1) {
                corner[n] = corner[n] < 0 ? nv + corner[n] : corner[n] - 1;
                ok = ok && corner[n] >= 0 && corner[n] < nv;
                n++;
                p2 += strcspn(p2, " \t\r\n");
            }
            for (int k = 2; k < n; k++, nt++) {
                if (nt == troom)
                    *index = (int32_t *)realloc(*index, sizeof(int32_t) * 3
                                                            * (size_t)(troom = 2 * troom + 256));
                (*index)[3 * nt] = corner[0];
                (*index)[3 * nt + 1] = corner[k - 1];
                (*index)[3 * nt + 2] = corner[k];
            }
        }
    }
    fclose(file);
    *vertices = nv;
    *triangles = nt;
    if (ok && nv && nt)
        return 1;
    free(*x);
    free(*index);
    return 0;
}
#endif
