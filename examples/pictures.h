/* SPDX-License-Identifier: MIT OR Unlicense
   pictures.h: images, PNG and animated PNG, the view in the terminal, 2D drawing, plots. */
#ifndef PICTURES_H
#define PICTURES_H
#include "arguments.h"
#include <sys/ioctl.h>

/* ------------------------------------------------------------------------------------------------
 * compressed bytes: the deflate format */
/* Bytes that grow at their end. Bits that do not fill a byte yet wait in pending. */
typedef struct ex_bytes {
    uint8_t *at;
    size_t size;
    size_t room;
    uint32_t pending;
    int pending_count;
} ex_bytes;

EX void ex_put(ex_bytes *bytes, int byte) {
    if (bytes->size == bytes->room) {
        bytes->room = bytes->room ? 2 * bytes->room : 65536;
        bytes->at = (uint8_t *)realloc(bytes->at, bytes->room);
        if (!bytes->at)
            ex_die("out of memory");
    }

    bytes->at[bytes->size++] = (uint8_t)byte;
}

/* Four bytes, the highest first, as PNG has them. */
EX void ex_put32(ex_bytes *bytes, uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8)
        ex_put(bytes, (int)(value >> shift & 255));
}

/* Bits, the lowest first. */
EX void ex_bits(ex_bytes *bytes, uint32_t value, int count) {
    bytes->pending |= value << bytes->pending_count;
    bytes->pending_count += count;
    while (bytes->pending_count >= 8) {
        ex_put(bytes, (int)(bytes->pending & 255));
        bytes->pending >>= 8;
        bytes->pending_count -= 8;
    }
}

/* A Huffman code: bits, the highest first. */
EX void ex_code(ex_bytes *bytes, uint32_t code, int count) {
    uint32_t reversed = 0;
    for (int i = 0; i < count; i++)
        reversed |= (code >> i & 1) << (count - 1 - i);
    ex_bits(bytes, reversed, count);
}

/* A byte (below 256), the end mark (256) or a length code, in the fixed code of the format. */
EX void ex_literal(ex_bytes *bytes, int symbol) {
    if (symbol < 144)
        ex_code(bytes, (uint32_t)(0x30 + symbol), 8);
    else if (symbol < 256)
        ex_code(bytes, (uint32_t)(0x190 + symbol - 144), 9);
    else if (symbol < 280)
        ex_code(bytes, (uint32_t)(symbol - 256), 7);
    else
        ex_code(bytes, (uint32_t)(0xc0 + symbol - 280), 8);
}

/* Lengths and distances are written as a code and extra bits: value's highest bits choose the code,
   the rest follows as it is. keep is the power of two of codes without extra bits. Returns the code
   and the number of extra bits. */
EX int ex_extra_code(int value, int keep, int codes, int *extra) {
    *extra = 0;
    while ((value >> *extra) >= keep)
        (*extra)++;
    return *extra * codes + (value >> *extra);
}

/* The same bytes as those distance bytes ago, length of them. */
EX void ex_match(ex_bytes *bytes, int length, int distance) {
    int extra;
    if (length == 258)
        ex_literal(bytes, 285);
    else {
        int code = ex_extra_code(length - 3, 8, 4, &extra);
        ex_literal(bytes, 257 + code);
        ex_bits(bytes, (uint32_t)((length - 3) & ((1 << extra) - 1)), extra);
    }

    int code = ex_extra_code(distance - 1, 4, 2, &extra);
    ex_code(bytes, (uint32_t)code, 5);
    ex_bits(bytes, (uint32_t)((distance - 1) & ((1 << extra) - 1)), extra);
}

enum {
    EX_HASH = 1 << 15,   /* slots of the table of three-byte beginnings */
    EX_WINDOW = 1 << 15, /* how far back a match may be */
    EX_LONGEST = 258,    /* bytes in one match */
    EX_TRIES = 24        /* candidates looked at */
};

/* Places that begin with the same three bytes: the last one of each hash, and the one before each
   place. */
typedef struct ex_chains {
    int last[EX_HASH];
    int before[EX_WINDOW];
} ex_chains;

EX int ex_hash(const uint8_t *data) {
    return (data[0] << 10 ^ data[1] << 5 ^ data[2]) & (EX_HASH - 1);
}

/* The longest earlier piece equal to what stands at place; returns its length. */
EX int ex_longest(const ex_chains *chains, const uint8_t *data, int size, int place,
                  int *distance) {
    int most = size - place < EX_LONGEST ? size - place : EX_LONGEST;
    int best = 0;
    if (most < 3)
        return 0;

    int other = chains->last[ex_hash(data + place)];
    for (int tries = 0; tries < EX_TRIES && best < most; tries++) {
        int in_window = other >= 0 && place - other <= EX_WINDOW - 1;
        if (!in_window)
            break;
        int length = 0;
        while (length < most && data[other + length] == data[place + length])
            length++;
        if (length > best) {
            best = length;
            *distance = place - other;
        }

        other = chains->before[other & (EX_WINDOW - 1)];
    }

    return best;
}

/* The checksum of a zlib stream, Adler-32. */
EX uint32_t ex_adler(const uint8_t *data, int size) {
    uint32_t sum = 1;
    uint32_t sum_of_sums = 0;
    for (int i = 0; i < size; i++) {
        sum = (sum + data[i]) % 65521;
        sum_of_sums = (sum_of_sums + sum) % 65521;
    }

    return sum_of_sums << 16 | sum;
}

/* data as a zlib stream: repeated pieces are replaced by matches, codes are the fixed ones. */
EX void ex_deflate(ex_bytes *bytes, const uint8_t *data, int size) {
    ex_chains *chains = (ex_chains *)ex_alloc(1, sizeof *chains);
    for (int i = 0; i < EX_HASH; i++)
        chains->last[i] = -1;

    /* The head of the stream; one block, the last one, with fixed codes. */
    ex_put(bytes, 0x78);
    ex_put(bytes, 0x01);
    ex_bits(bytes, 1, 1);
    ex_bits(bytes, 1, 2);

    for (int place = 0; place < size;) {
        int distance = 0;
        int length = ex_longest(chains, data, size, place, &distance);
        if (length < 3) {
            length = 1;
            ex_literal(bytes, data[place]);
        } else
            ex_match(bytes, length, distance);

        /* What was written can be found from now on. */
        for (int end = place + length; place < end; place++) {
            if (place + 2 >= size)
                continue;
            int hash = ex_hash(data + place);
            chains->before[place & (EX_WINDOW - 1)] = chains->last[hash];
            chains->last[hash] = place;
        }
    }

    /* The end mark, bits up to a whole byte, the checksum. */
    ex_literal(bytes, 256);
    ex_bits(bytes, 0, 7);
    bytes->pending = 0;
    bytes->pending_count = 0;
    ex_put32(bytes, ex_adler(data, size));
    free(chains);
}

/* ------------------------------------------------------------------------------------------------
 * images */
/* Row 0 is the top. depth belongs to the 3D renderer: distance of what is drawn in each pixel. */
typedef struct ex_image {
    int w;
    int h;
    uint8_t *rgb;
    float *depth;
} ex_image;

typedef struct ex_color {
    uint8_t r;
    uint8_t g;
    uint8_t b;
} ex_color;

EX ex_color ex_rgb(int r, int g, int b) {
    ex_color color = {(uint8_t)r, (uint8_t)g, (uint8_t)b};
    return color;
}

EX ex_color ex_grey(int bright) {
    return ex_rgb(bright, bright, bright);
}

/* Half as bright: edges of what is drawn in this colour. */
EX ex_color ex_darker(ex_color color) {
    return ex_rgb(color.r / 2, color.g / 2, color.b / 2);
}

/* The three bytes of a pixel. */
EX uint8_t *ex_pixel(const ex_image *image, int x, int y) {
    return image->rgb + 3 * ((size_t)y * (size_t)image->w + (size_t)x);
}

EX void ex_clear(ex_image *image, ex_color color) {
    int pixels = image->w * image->h;
    for (int i = 0; i < pixels; i++) {
        uint8_t *pixel = image->rgb + 3 * i;
        pixel[0] = color.r;
        pixel[1] = color.g;
        pixel[2] = color.b;
    }

    for (int i = 0; i < pixels && image->depth; i++)
        image->depth[i] = 1e30f;
}

/* Copies one picture into another, its upper left corner to (x, y); it must fit. */
EX void ex_paste(ex_image *image, const ex_image *part, int x, int y) {
    for (int row = 0; row < part->h; row++)
        memcpy(ex_pixel(image, x, y + row), ex_pixel(part, 0, row), 3 * (size_t)part->w);
}

/* A white picture. */
EX ex_image ex_image_make(int w, int h) {
    size_t pixels = (size_t)w * (size_t)h;
    ex_image image = {w, h, NULL, NULL};
    image.rgb = (uint8_t *)ex_alloc(pixels, 3);
    image.depth = (float *)ex_alloc(pixels, sizeof(float));
    ex_clear(&image, ex_grey(255));
    return image;
}

EX void ex_image_free(ex_image *image) {
    free(image->rgb);
    free(image->depth);
    image->rgb = NULL;
    image->depth = NULL;
}

/* ------------------------------------------------------------------------------------------------
 * PNG files */
/* The checksum of a chunk, CRC-32, continued over more bytes. */
EX uint32_t ex_crc(uint32_t crc, const uint8_t *data, size_t size) {
    static uint32_t table[256];
    if (!table[1]) {
        for (uint32_t n = 0; n < 256; n++) {
            uint32_t value = n;
            for (int bit = 0; bit < 8; bit++)
                value = value & 1 ? 0xedb88320u ^ value >> 1 : value >> 1;
            table[n] = value;
        }
    }

    for (size_t i = 0; i < size; i++)
        crc = table[(crc ^ data[i]) & 255] ^ crc >> 8;
    return crc;
}

EX void ex_write32(FILE *file, uint32_t value) {
    uint8_t byte[4];
    for (int i = 0; i < 4; i++)
        byte[i] = (uint8_t)(value >> (24 - 8 * i));
    fwrite(byte, 1, 4, file);
}

/* A chunk of a PNG file: length, four letters, data, checksum of letters and data. */
EX void ex_chunk(FILE *file, const char *type, const uint8_t *data, size_t size) {
    ex_write32(file, (uint32_t)size);
    fwrite(type, 1, 4, file);
    if (size)
        fwrite(data, 1, size, file);
    uint32_t crc = ex_crc(0xffffffffu, (const uint8_t *)type, 4);
    crc = ex_crc(crc, data, size);
    ex_write32(file, crc ^ 0xffffffffu);
}

/* What filter 1 (the pixel to the left) predicts of byte x of a row. */
EX int ex_left(const uint8_t *row, size_t x) {
    return x >= 3 ? row[x - 3] : 0;
}

/* The compressed pixels. Each row is written as differences, either to the pixel on its left
   (filter 1) or to the one above it (filter 2), whichever are smaller. */
EX ex_bytes ex_image_data(const ex_image *image) {
    size_t width = (size_t)image->w * 3;
    uint8_t *raw = (uint8_t *)ex_alloc((width + 1) * (size_t)image->h, 1);
    uint8_t *next = raw;

    for (int y = 0; y < image->h; y++) {
        const uint8_t *row = ex_pixel(image, 0, y);
        const uint8_t *above = y ? row - width : NULL;
        long left_cost = 0;
        long above_cost = 0;
        for (size_t x = 0; x < width; x++) {
            left_cost += abs((int8_t)(row[x] - ex_left(row, x)));
            above_cost += above ? abs((int8_t)(row[x] - above[x])) : 255;
        }

        int use_above = above_cost <= left_cost;
        *next++ = use_above ? 2 : 1;
        for (size_t x = 0; x < width; x++)
            *next++ = (uint8_t)(row[x] - (use_above ? above[x] : ex_left(row, x)));
    }

    ex_bytes bytes = {0};
    ex_deflate(&bytes, raw, (int)(next - raw));
    free(raw);
    return bytes;
}

/* The first bytes of a file and its size: eight bits each of red, green and blue. */
EX void ex_png_head(FILE *file, int w, int h) {
    static const uint8_t magic[8] = {137, 'P', 'N', 'G', 13, 10, 26, 10};
    static const uint8_t format[5] = {8, 2, 0, 0, 0};
    ex_bytes bytes = {0};
    fwrite(magic, 1, sizeof magic, file);
    ex_put32(&bytes, (uint32_t)w);
    ex_put32(&bytes, (uint32_t)h);
    for (size_t i = 0; i < sizeof format; i++)
        ex_put(&bytes, format[i]);
    ex_chunk(file, "IHDR", bytes.at, bytes.size);
    free(bytes.at);
}

/* 0 if it cannot be written. */
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

/* ------------------------------------------------------------------------------------------------
 * pictures in the terminal */
/* Mean colour of the pixels under one cell of a grid of columns x rows over the picture. */
EX ex_color ex_average(const ex_image *image, int column, int columns, int row, int rows) {
    int left = image->w * column / columns;
    int right = image->w * (column + 1) / columns;
    int top = image->h * row / rows;
    int bottom = image->h * (row + 1) / rows;
    long count = (long)(right - left) * (bottom - top);
    if (count <= 0)
        return ex_grey(0);

    long sum[3] = {0, 0, 0};
    for (int y = top; y < bottom; y++)
        for (int x = left; x < right; x++)
            for (int channel = 0; channel < 3; channel++)
                sum[channel] += ex_pixel(image, x, y)[channel];
    return ex_rgb((int)(sum[0] / count), (int)(sum[1] / count), (int)(sum[2] / count));
}

/* One character in colour: the upper half block shows two pixels, one above the other. */
EX void ex_term_color(FILE *file, const ex_image *image, int column, int columns, int row,
                      int rows) {
    ex_color upper = ex_average(image, column, columns, 2 * row, 2 * rows);
    ex_color lower = ex_average(image, column, columns, 2 * row + 1, 2 * rows);
    fprintf(file, "\x1b[38;2;%d;%d;%dm", upper.r, upper.g, upper.b);
    fprintf(file, "\x1b[48;2;%d;%d;%dm\xe2\x96\x80", lower.r, lower.g, lower.b);
}

/* One character without colour: five shades of blocks, dark is full. */
EX void ex_term_shade(FILE *file, ex_color color) {
    static const char *shade[5] = {"\xe2\x96\x88", "\xe2\x96\x93", "\xe2\x96\x92", "\xe2\x96\x91",
                                   " "};
    int bright = 2 * color.r + 5 * color.g + color.b;
    fputs(shade[bright * 5 / 2048], file);
}

/* The picture in the terminal, columns characters wide; again: over the frame before. */
EX void ex_term(FILE *file, const ex_image *image, int columns, int color, int again) {
    int rows = image->h * columns / (2 * image->w);
    if (rows < 1)
        rows = 1;
    if (color && again)
        fprintf(file, "\x1b[%dA", rows);

    for (int row = 0; row < rows; row++) {
        for (int column = 0; column < columns; column++) {
            if (color)
                ex_term_color(file, image, column, columns, row, rows);
            else
                ex_term_shade(file, ex_average(image, column, columns, row, rows));
        }

        fputs(color ? "\x1b[0m\n" : "\n", file);
    }

    fflush(file);
}

/* A frame on stdout: as high as the window and at most as wide; 80 characters when piped. */
EX void ex_term_frame(const ex_args *args, const ex_image *image) {
    int columns = 80;
    int color = isatty(1);
#ifdef TIOCGWINSZ
    struct winsize window;
    int known = color && ioctl(1, TIOCGWINSZ, &window) == 0;
    if (known && window.ws_col > 8 && window.ws_row > 8) {
        columns = 2 * image->w * (window.ws_row - 4) / image->h;
        if (columns > window.ws_col)
            columns = window.ws_col;
    }
#endif
    ex_term(stdout, image, columns, color, args->written > 0);
}

/* ------------------------------------------------------------------------------------------------
 * frames: numbered pictures and one animated picture */
/* Opens the animated picture. The number of frames is written when it is closed. */
EX void ex_movie_open(ex_args *args, const ex_image *image) {
    static const uint8_t none[8] = {0};
    char path[512];
    snprintf(path, sizeof path, "%s/%s.png", args->out, args->name);
    args->movie = fopen(path, "wb");
    if (!args->movie)
        ex_die("cannot write %s", path);
    args->movie_w = image->w;
    args->movie_h = image->h;
    ex_png_head(args->movie, image->w, image->h);
    args->movie_count_at = ftell(args->movie);
    ex_chunk(args->movie, "acTL", none, sizeof none);
}

/* The head of a frame: its size, its place, 1/25 s, and that it replaces the one before. */
EX void ex_movie_frame_head(ex_args *args, const ex_image *image) {
    static const uint8_t timing[6] = {0, 1, 0, 25, 0, 0};
    ex_bytes head = {0};
    ex_put32(&head, args->movie_serial++);
    ex_put32(&head, (uint32_t)image->w);
    ex_put32(&head, (uint32_t)image->h);
    ex_put32(&head, 0);
    ex_put32(&head, 0);
    for (size_t i = 0; i < sizeof timing; i++)
        ex_put(&head, timing[i]);
    ex_chunk(args->movie, "fcTL", head.at, head.size);
    free(head.at);
}

/* Appends a frame. The first one is also the picture that programs without animation show. */
EX void ex_movie_add(ex_args *args, const ex_image *image) {
    ex_movie_frame_head(args, image);
    ex_bytes data = ex_image_data(image);
    if (args->written == 0)
        ex_chunk(args->movie, "IDAT", data.at, data.size);
    else {
        ex_bytes body = {0};
        ex_put32(&body, args->movie_serial++);
        for (size_t i = 0; i < data.size; i++)
            ex_put(&body, data.at[i]);
        ex_chunk(args->movie, "fdAT", body.at, body.size);
        free(body.at);
    }

    free(data.at);
}

/* Writes the number of frames where it belongs, and closes the animated picture. */
EX void ex_movie_close(ex_args *args) {
    ex_bytes count = {0};
    ex_chunk(args->movie, "IEND", NULL, 0);
    ex_put32(&count, (uint32_t)args->written);
    ex_put32(&count, 0);
    fseek(args->movie, args->movie_count_at, SEEK_SET);
    ex_chunk(args->movie, "acTL", count.at, count.size);
    fclose(args->movie);
    free(count.at);
}

/* One frame: DIR/NAME_0000.png, and the same appended to the animated DIR/NAME.png. */
EX void ex_frame(ex_args *args, const ex_image *image) {
    if (args->term)
        ex_term_frame(args, image);
    int to_files = args->out && strcmp(args->out, EX_NOWHERE);
    if (to_files) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s_%04d.png", args->out, args->name, args->written);
        if (!ex_png(path, image))
            ex_die("cannot write %s", path);
        if (!args->movie)
            ex_movie_open(args, image);
        /* All frames of an animation have one size; others stand alone. */
        if (image->w != args->movie_w || image->h != args->movie_h)
            return;
        ex_movie_add(args, image);
    }

    args->written++;
}

/* Closes the movie and prints the lines every example prints. Returns main's status. */
EX int ex_end(ex_args *args, long steps, int stable) {
    double seconds = ex_now() - args->begin;
    if (args->movie)
        ex_movie_close(args);
    ex_result("stable", "%d", stable);
    ex_result("seconds_per_step", "%.6f", steps > 0 ? seconds / (double)steps : 0.0);
    ex_result("steps", "%ld", steps);
    return 0;
}

/* ------------------------------------------------------------------------------------------------
 * 2D drawing */
/* A window onto the world: [x0, x1] x [y0, y1] fills w x h pixels from (left, top), y upward. */
typedef struct ex_view {
    double x0;
    double y0;
    double x1;
    double y1;
    int left;
    int top;
    int w;
    int h;
} ex_view;

EX ex_view ex_view_make(double x0, double y0, double x1, double y1, int left, int top, int w,
                        int h) {
    ex_view view = {x0, y0, x1, y1, left, top, w, h};
    return view;
}

/* The pixel column of x. */
EX double ex_px(const ex_view *view, double x) {
    return view->left + (x - view->x0) / (view->x1 - view->x0) * view->w;
}

/* The pixel row of y. */
EX double ex_py(const ex_view *view, double y) {
    return view->top + (view->y1 - y) / (view->y1 - view->y0) * view->h;
}

/* Mixes a colour into a pixel: alpha 0 leaves it, 1 replaces it. Outside the picture: nothing. */
EX void ex_blend(ex_image *image, int x, int y, ex_color color, double alpha) {
    int inside = x >= 0 && y >= 0 && x < image->w && y < image->h;
    if (!inside || !(alpha > 0))
        return;
    if (alpha > 1)
        alpha = 1;
    uint8_t *pixel = ex_pixel(image, x, y);
    pixel[0] = (uint8_t)(pixel[0] + alpha * (color.r - pixel[0]));
    pixel[1] = (uint8_t)(pixel[1] + alpha * (color.g - pixel[1]));
    pixel[2] = (uint8_t)(pixel[2] + alpha * (color.b - pixel[2]));
}

/* Colour maps on [0, 1]. */
enum {
    EX_HEAT,   /* dark to bright: speed, hot smoke */
    EX_SIGNED, /* blue, white, red */
    EX_SMOKE,  /* white to grey */
    EX_DEPTH   /* of water: light to dark blue */
};

EX ex_color ex_map(int map, double value) {
    static const double stops[4][5][3] = {
        {{13, 8, 60}, {84, 20, 120}, {190, 55, 84}, {245, 140, 40}, {252, 250, 170}},
        {{33, 80, 170}, {140, 180, 225}, {246, 246, 246}, {230, 150, 120}, {170, 30, 45}},
        {{255, 255, 255}, {205, 208, 214}, {150, 154, 165}, {95, 98, 112}, {45, 47, 60}},
        {{222, 240, 250}, {150, 205, 235}, {80, 160, 215}, {35, 110, 180}, {12, 60, 125}},
    };
    if (!(value > 0))
        value = 0;
    if (value > 1)
        value = 1;

    /* Between two of the five colours. */
    int lower = value >= 1 ? 3 : (int)(value * 4);
    double share = value * 4 - lower;
    const double *from = stops[map][lower];
    const double *to = stops[map][lower + 1];
    return ex_rgb((int)(from[0] + share * (to[0] - from[0])),
                  (int)(from[1] + share * (to[1] - from[1])),
                  (int)(from[2] + share * (to[2] - from[2])));
}

/* value between low and high. */
EX double ex_clamp(double value, double low, double high) {
    if (value < low)
        return low;
    return value > high ? high : value;
}

/* Bilinear value of a cell-centred field at (sx, sy), both 0 .. 1 across the field. */
EX double ex_field_at(const fsi_real *field, int nx, int ny, double sx, double sy) {
    double x = ex_clamp(sx * nx - 0.5, 0, nx - 1);
    double y = ex_clamp(sy * ny - 0.5, 0, ny - 1);

    /* The cell below left, and the one above right where there is one. */
    int i = (int)ex_clamp((int)x, 0, nx < 2 ? 0 : nx - 2);
    int j = (int)ex_clamp((int)y, 0, ny < 2 ? 0 : ny - 2);
    int right = i + 1 < nx ? i + 1 : i;
    int above = j + 1 < ny ? j + 1 : j;

    double a = x - i;
    double b = y - j;
    const fsi_real *lower_row = field + nx * j;
    const fsi_real *upper_row = field + nx * above;
    double lower = (1 - a) * lower_row[i] + a * lower_row[right];
    double upper = (1 - a) * upper_row[i] + a * upper_row[right];
    return (1 - b) * lower + b * upper;
}

/* A cell-centred field over the whole view: low .. high in the colours of map. */
EX void ex_draw_field(ex_image *image, const ex_view *view, int nx, int ny, const fsi_real *field,
                      double low, double high, int map) {
    for (int y = 0; y < view->h; y++)
        for (int x = 0; x < view->w; x++) {
            double sx = (x + 0.5) / view->w;
            double sy = 1 - (y + 0.5) / view->h;
            double value = (ex_field_at(field, nx, ny, sx, sy) - low) / (high - low);
            ex_blend(image, view->left + x, view->top + y, ex_map(map, value), 1);
        }
}

/* Liquid where phi < 0 (cell-centred, metres): filled, with smooth edges and a dark rim. */
EX void ex_draw_liquid(ex_image *image, const ex_view *view, int nx, int ny, const fsi_real *phi,
                       ex_color color) {
    double pixel = (view->x1 - view->x0) / view->w;
    ex_color rim = ex_darker(color);
    for (int y = 0; y < view->h; y++)
        for (int x = 0; x < view->w; x++) {
            double sx = (x + 0.5) / view->w;
            double sy = 1 - (y + 0.5) / view->h;
            double distance = ex_field_at(phi, nx, ny, sx, sy) / pixel;
            ex_blend(image, view->left + x, view->top + y, color, 0.5 - distance);
            ex_blend(image, view->left + x, view->top + y, rim, 0.7 - 0.35 * fabs(distance + 1));
        }
}

/* A line in pixels with round ends and smooth edges. */
EX void ex_line(ex_image *image, double x0, double y0, double x1, double y1, double width,
                ex_color color) {
    int start_sane = fabs(x0) < 1e5 && fabs(y0) < 1e5;
    int end_sane = fabs(x1) < 1e5 && fabs(y1) < 1e5;
    if (!start_sane || !end_sane)
        return;

    /* The pixels it can touch. */
    double reach = width / 2 + 1;
    int left = (int)ex_clamp(floor(fmin(x0, x1) - reach), 0, image->w);
    int right = (int)ex_clamp(ceil(fmax(x0, x1) + reach), -1, image->w - 1);
    int top = (int)ex_clamp(floor(fmin(y0, y1) - reach), 0, image->h);
    int bottom = (int)ex_clamp(ceil(fmax(y0, y1) + reach), -1, image->h - 1);

    double dx = x1 - x0;
    double dy = y1 - y0;
    double length2 = dx * dx + dy * dy;
    for (int y = top; y <= bottom; y++)
        for (int x = left; x <= right; x++) {
            /* The vector from the nearest point of the line to the middle of the pixel. */
            double px = x + 0.5 - x0;
            double py = y + 0.5 - y0;
            double along = length2 > 0 ? (px * dx + py * dy) / length2 : 0;
            along = ex_clamp(along, 0, 1);
            px -= along * dx;
            py -= along * dy;
            ex_blend(image, x, y, color, width / 2 + 0.5 - sqrt(px * px + py * py));
        }
}

EX void ex_disk(ex_image *image, double x, double y, double radius, ex_color color) {
    ex_line(image, x, y, x, y, 2 * radius, color);
}

enum {
    EX_CROSSINGS = 256 /* most edges of a polygon that one line of pixels meets */
};

/* The two ends of segment e of a 2D surface, in pixels. */
EX void ex_segment(const ex_view *view, const fsi_surface *surface, int e, double a[2],
                   double b[2]) {
    const fsi_real *from = surface->x + 3 * surface->index[2 * e];
    const fsi_real *to = surface->x + 3 * surface->index[2 * e + 1];
    a[0] = ex_px(view, from[0]);
    a[1] = ex_py(view, from[1]);
    b[0] = ex_px(view, to[0]);
    b[1] = ex_py(view, to[1]);
}

/* Where the line at height y meets the surface, from left to right; returns how often. */
EX int ex_crossings(const ex_view *view, const fsi_surface *surface, double y, double *cross) {
    int count = 0;
    for (int e = 0; e < surface->element_count && count < EX_CROSSINGS; e++) {
        double a[2];
        double b[2];
        ex_segment(view, surface, e, a, b);
        if ((a[1] <= y) == (b[1] <= y))
            continue;
        double at = a[0] + (y - a[1]) / (b[1] - a[1]) * (b[0] - a[0]);

        int place = count++;
        while (place > 0 && cross[place - 1] > at) {
            cross[place] = cross[place - 1];
            place--;
        }
        cross[place] = at;
    }

    return count;
}

/* Adds to each pixel of a row which share of it lies between from and to. */
EX void ex_cover(float *cover, int width, double from, double to, double weight) {
    int first = (int)floor(from);
    int end = (int)ceil(to);
    for (int x = first < 0 ? 0 : first; x < end && x < width; x++) {
        double low = fmax(from, x);
        double high = fmin(to, x + 1);
        if (high > low)
            cover[x] += (float)((high - low) / weight);
    }
}

/* The inside of a closed surface: between the first and second crossing of a line, the third and
   fourth and so on. Four lines through each row of pixels make the edges smooth. */
EX void ex_fill_surface(ex_image *image, const ex_view *view, const fsi_surface *surface,
                        ex_color color) {
    float *cover = (float *)ex_alloc((size_t)image->w, sizeof(float));
    double cross[EX_CROSSINGS];
    int bottom = view->top + view->h < image->h ? view->top + view->h : image->h;

    for (int y = view->top; y < bottom; y++) {
        memset(cover, 0, (size_t)image->w * sizeof(float));
        for (int line = 0; line < 4; line++) {
            int count = ex_crossings(view, surface, y + (line + 0.5) / 4, cross);
            for (int i = 0; i + 1 < count; i += 2)
                ex_cover(cover, image->w, cross[i], cross[i + 1], 4);
        }

        for (int x = 0; x < image->w; x++)
            ex_blend(image, x, y, color, cover[x]);
    }

    free(cover);
}

/* A 2D surface: closed ones filled and with a rim, shells as lines. */
EX void ex_draw_surface(ex_image *image, const ex_view *view, const fsi_surface *surface,
                        ex_color color) {
    if (surface->closed)
        ex_fill_surface(image, view, surface, color);
    double width = surface->closed ? 1.2 : 2.5;
    ex_color edge = surface->closed ? ex_darker(color) : color;
    for (int e = 0; e < surface->element_count; e++) {
        double a[2];
        double b[2];
        ex_segment(view, surface, e, a, b);
        ex_line(image, a[0], a[1], b[0], b[1], width, edge);
    }
}

/* ------------------------------------------------------------------------------------------------
 * text */
/* The letters in 5 x 7 dots, six columns from one to the next. */
typedef struct ex_font {
    const char *letters;
    const char *row[7];
} ex_font;

static const ex_font ex_fonts[4] = {
    {
        "0123456789AB",
        {
            ".###. ..#.. .###. ##### ...#. ##### ..##. ##### .###. .###. .###. ####.",
            "#...# .##.. #...# ...#. ..##. #.... .#... ....# #...# #...# #...# #...#",
            "#..## ..#.. ....# ..#.. .#.#. ####. #.... ...#. #...# #...# #...# #...#",
            "#.#.# ..#.. ...#. ...#. #..#. ....# ####. ..#.. .###. .#### #...# ####.",
            "##..# ..#.. ..#.. ....# ##### ....# #...# .#... #...# ....# ##### #...#",
            "#...# ..#.. .#... #...# ...#. #...# #...# .#... #...# ...#. #...# #...#",
            ".###. .###. ##### .###. ...#. .###. .###. .#... .###. .##.. #...# ####.",
        },
    },
    {
        "CDEFGHIJKLMN",
        {
            ".###. ###.. ##### ##### .###. #...# .###. ..### #...# #.... #...# #...#",
            "#...# #..#. #.... #.... #...# #...# ..#.. ...#. #..#. #.... ##.## #...#",
            "#.... #...# #.... #.... #.... #...# ..#.. ...#. #.#.. #.... #.#.# ##..#",
            "#.... #...# ####. ####. #.### ##### ..#.. ...#. ##... #.... #.#.# #.#.#",
            "#.... #...# #.... #.... #...# #...# ..#.. ...#. #.#.. #.... #...# #..##",
            "#...# #..#. #.... #.... #...# #...# ..#.. #..#. #..#. #.... #...# #...#",
            ".###. ###.. ##### #.... .#### #...# .###. .##.. #...# ##### #...# #...#",
        },
    },
    {
        "OPQRSTUVWXYZ",
        {
            ".###. ####. .###. ####. .#### ##### #...# #...# #...# #...# #...# #####",
            "#...# #...# #...# #...# #.... ..#.. #...# #...# #...# #...# #...# ....#",
            "#...# #...# #...# #...# #.... ..#.. #...# #...# #...# .#.#. #...# ...#.",
            "#...# ####. #...# ####. .###. ..#.. #...# #...# #.#.# ..#.. .#.#. ..#..",
            "#...# #.... #.#.# #.#.. ....# ..#.. #...# #...# #.#.# .#.#. ..#.. .#...",
            "#...# #.... #..#. #..#. ....# ..#.. #...# .#.#. #.#.# #...# ..#.. #....",
            ".###. #.... .##.# #...# ####. ..#.. .###. ..#.. .#.#. #...# ..#.. #####",
        },
    },
    {
        ".-/:=()+%^",
        {
            "..... ..... ..... ..... ..... ...#. .#... ..... ##... ..#..",
            "..... ..... ....# .##.. ..... ..#.. ..#.. ..#.. ##..# .#.#.",
            "..... ..... ...#. .##.. ##### .#... ...#. ..#.. ...#. #...#",
            "..... ##### ..#.. ..... ..... .#... ...#. ##### ..#.. .....",
            "..... ..... .#... .##.. ##### .#... ...#. ..#.. .#... .....",
            ".##.. ..... #.... .##.. ..... ..#.. ..#.. ..#.. #..## .....",
            ".##.. ..... ..... ..... ..... ...#. .#... ..... ...## .....",
        },
    },
};

/* One dot of a letter: size x size pixels. */
EX void ex_dot(ex_image *image, int x, int y, int size, ex_color color) {
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++)
            ex_blend(image, x + i, y + j, color, 1);
}

EX void ex_letter(ex_image *image, int x, int y, int size, ex_color color, char letter) {
    if (letter >= 'a' && letter <= 'z')
        letter = (char)(letter - 'a' + 'A');
    for (int font = 0; font < 4; font++) {
        const char *at = strchr(ex_fonts[font].letters, letter);
        if (!at)
            continue;
        int first = 6 * (int)(at - ex_fonts[font].letters);
        for (int i = 0; i < 5; i++)
            for (int j = 0; j < 7; j++)
                if (ex_fonts[font].row[j][first + i] == '#')
                    ex_dot(image, x + i * size, y + j * size, size, color);
    }
}

/* Text from its upper left corner; all letters are capitals, size is that of a dot in pixels. */
EX void ex_text(ex_image *image, int x, int y, int size, ex_color color, const char *text) {
    for (; *text; text++) {
        ex_letter(image, x, y, size, color, *text);
        x += 6 * size;
    }
}

/* Width of text in the smallest size, pixels. */
EX int ex_text_width(const char *text) {
    return 6 * (int)strlen(text);
}

/* A colour bar at the right edge of the view, with its two ends and a title. */
EX void ex_colorbar(ex_image *image, const ex_view *view, int map, double low, double high,
                    const char *title) {
    ex_color dark = ex_grey(40);
    char text[32];
    int x = view->left + view->w + 8;
    for (int y = 0; y < view->h; y++)
        for (int i = 0; i < 12; i++)
            ex_blend(image, x + i, view->top + y, ex_map(map, 1 - (double)y / view->h), 1);

    snprintf(text, sizeof text, "%.3g", high);
    ex_text(image, x + 16, view->top, 1, dark, text);
    snprintf(text, sizeof text, "%.3g", low);
    ex_text(image, x + 16, view->top + view->h - 8, 1, dark, text);
    ex_text(image, x, view->top - 12, 1, dark, title);
}

/* ------------------------------------------------------------------------------------------------
 * plots */
/* A curve with a name. Points that are not finite, or not positive on a logarithmic axis, are left
   out. */
typedef struct ex_curve {
    const char *name;
    int n;
    const double *x;
    const double *y;
    ex_color color;
} ex_curve;

enum {
    EX_TICKS = 16,      /* most ticks of an axis */
    EX_FEW_POINTS = 40, /* curves of up to so many points show each of them */
};

/* Range and ticks of an axis, in what is drawn: log10 of the value where log is set. */
typedef struct ex_axis {
    double lo;
    double hi;
    double tick[EX_TICKS];
    int log;
    int ticks;
} ex_axis;

/* What is drawn of a value; 0 when it cannot be drawn. */
EX int ex_plot_value(const ex_axis *axis, double value, double *drawn) {
    if (!axis->log)
        *drawn = value;
    else
        *drawn = value > 0 ? log10(value) : -1e301;
    return fabs(*drawn) < 1e300;
}

EX int ex_plot_point(const ex_axis *axis, const ex_curve *curve, int k, double point[2]) {
    return ex_plot_value(&axis[0], curve->x[k], &point[0])
           && ex_plot_value(&axis[1], curve->y[k], &point[1]);
}

EX void ex_axis_add(ex_axis *axis, double tick) {
    if (axis->ticks < EX_TICKS)
        axis->tick[axis->ticks++] = tick;
}

/* A logarithmic axis: decades, and 2 and 5 times them where they are few. */
EX void ex_axis_decades(ex_axis *axis) {
    static const double part[3] = {0, 0.30102999566398, 0.69897000433602}; /* log10 of 1, 2, 5 */
    int few = axis->hi - axis->lo < 2.5;
    int parts = few ? 3 : 1;
    int every = few ? 1 : (int)((axis->hi - axis->lo) / 7) + 1;
    for (double decade = floor(axis->lo); decade <= axis->hi; decade += every)
        for (int i = 0; i < parts; i++) {
            double tick = decade + part[i];
            if (tick >= axis->lo - 1e-9 && tick <= axis->hi + 1e-9)
                ex_axis_add(axis, tick);
        }
}

/* Ticks at 1, 2 or 5 times a power of ten, at most seven. */
EX void ex_axis_ticks(ex_axis *axis) {
    axis->ticks = 0;
    if (axis->log) {
        ex_axis_decades(axis);
        return;
    }

    double step = pow(10, floor(log10((axis->hi - axis->lo) / 6)));
    for (int i = 0; (axis->hi - axis->lo) / step > 7; i++)
        step *= i % 3 == 1 ? 2.5 : 2;
    double end = axis->hi + 1e-9 * step;
    for (double n = ceil(axis->lo / step - 1e-9); n * step <= end && axis->ticks < EX_TICKS; n++)
        ex_axis_add(axis, n * step);
}

/* Room around the curves; an axis upward starts at zero where zero is not far. */
EX void ex_axis_pad(ex_axis *axis, int upward) {
    if (axis->lo > axis->hi) {
        axis->lo = 0;
        axis->hi = 1;
    }

    double pad = 1;
    if (axis->hi > axis->lo)
        pad = 0.05 * (axis->hi - axis->lo);
    else if (axis->hi != 0)
        pad = 0.1 * fabs(axis->hi);

    int near_zero = axis->lo >= 0 && axis->lo < 0.7 * axis->hi;
    if (upward && !axis->log && near_zero)
        axis->lo = 0;
    else
        axis->lo -= pad;
    axis->hi += pad;
}

/* The two axes that show all curves. */
EX void ex_plot_axes(const ex_curve *curve, int curves, int log_x, int log_y, ex_axis axis[2]) {
    for (int k = 0; k < 2; k++) {
        ex_axis empty = {.lo = 1e300, .hi = -1e300, .log = k ? log_y : log_x};
        axis[k] = empty;
    }

    for (int i = 0; i < curves; i++)
        for (int j = 0; j < curve[i].n; j++) {
            double point[2];
            if (!ex_plot_point(axis, &curve[i], j, point))
                continue;
            for (int k = 0; k < 2; k++) {
                axis[k].lo = fmin(axis[k].lo, point[k]);
                axis[k].hi = fmax(axis[k].hi, point[k]);
            }
        }

    for (int k = 0; k < 2; k++) {
        ex_axis_pad(&axis[k], k == 1);
        ex_axis_ticks(&axis[k]);
    }
}

/* The number beside tick k. */
EX void ex_plot_tick(const ex_axis *axis, int k, char text[32]) {
    double value = axis->tick[k];
    if (axis->log)
        value = pow(10, value);
    else if (fabs(value) < 1e-12 * (axis->hi - axis->lo))
        value = 0;
    snprintf(text, 32, "%.4g", value);
}

/* Lines across the plot at the ticks, with their numbers in the margin. */
EX void ex_plot_grid(ex_image *image, const ex_view *view, const ex_axis axis[2]) {
    ex_color light = ex_grey(225);
    ex_color grey = ex_grey(60);
    int bottom = view->top + view->h;
    int right = view->left + view->w;
    char text[32];
    for (int i = 0; i < axis[0].ticks; i++) {
        double x = ex_px(view, axis[0].tick[i]);
        ex_line(image, x, view->top, x, bottom, 1, light);
        ex_plot_tick(&axis[0], i, text);
        ex_text(image, (int)x - ex_text_width(text) / 2, bottom + 8, 1, grey, text);
    }

    for (int i = 0; i < axis[1].ticks; i++) {
        double y = ex_py(view, axis[1].tick[i]);
        ex_line(image, view->left, y, right, y, 1, light);
        ex_plot_tick(&axis[1], i, text);
        ex_text(image, view->left - 6 - ex_text_width(text), (int)y - 3, 1, grey, text);
    }
}

/* One curve: lines between neighbours that can both be drawn, and dots where points are few. */
EX void ex_plot_curve(ex_image *image, const ex_view *view, const ex_axis axis[2],
                      const ex_curve *curve) {
    double last_x = 0;
    double last_y = 0;
    int connected = 0;
    for (int j = 0; j < curve->n; j++) {
        double point[2];
        int drawn = ex_plot_point(axis, curve, j, point);
        if (drawn) {
            double x = ex_px(view, point[0]);
            double y = ex_py(view, point[1]);
            if (connected)
                ex_line(image, last_x, last_y, x, y, 2, curve->color);
            if (curve->n <= EX_FEW_POINTS)
                ex_disk(image, x, y, 3, curve->color);
            last_x = x;
            last_y = y;
        }

        connected = drawn;
    }
}

/* Axes with ticks and curves into a picture; log_x, log_y for powers of ten. */
EX void ex_plot(ex_image *image, const char *title, const char *xname, const char *yname,
                const ex_curve *curve, int curves, int log_x, int log_y) {
    ex_axis axis[2];
    ex_plot_axes(curve, curves, log_x, log_y, axis);
    ex_view view = ex_view_make(axis[0].lo, axis[1].lo, axis[0].hi, axis[1].hi, 70, 44,
                                image->w - 90, image->h - 98);
    ex_plot_grid(image, &view, axis);

    ex_color black = ex_grey(20);
    int middle = view.left + view.w / 2;
    ex_text(image, view.left, 8, 2, black, title);
    ex_text(image, middle - ex_text_width(xname) / 2, image->h - 16, 1, black, xname);
    ex_text(image, 8, 30, 1, black, yname);

    /* Their names in the margin above, from the right, in the order of the curves. */
    int x = view.left + view.w;
    for (int i = curves - 1; i >= 0; i--) {
        x -= ex_text_width(curve[i].name);
        ex_text(image, x, view.top - 12, 1, curve[i].color, curve[i].name);
        x -= 18;
    }

    for (int i = 0; i < curves; i++)
        ex_plot_curve(image, &view, axis, &curve[i]);
}

/* Axes around a view of the world (a field, a scene): ticks outside its left and lower edge. Leave
   40 pixels on the left and 26 below. */
EX void ex_axes(ex_image *image, const ex_view *view, const char *xname, const char *yname) {
    ex_color dark = ex_grey(40);
    ex_axis across = {.lo = view->x0, .hi = view->x1};
    ex_axis upward = {.lo = view->y0, .hi = view->y1};
    int bottom = view->top + view->h;
    int right = view->left + view->w;
    char text[32];

    ex_axis_ticks(&across);
    for (int i = 0; i < across.ticks; i++) {
        double x = ex_px(view, across.tick[i]);
        ex_line(image, x, bottom, x, bottom + 4, 1, dark);
        ex_plot_tick(&across, i, text);
        ex_text(image, (int)x - ex_text_width(text) / 2, bottom + 7, 1, dark, text);
    }

    ex_axis_ticks(&upward);
    for (int i = 0; i < upward.ticks; i++) {
        double y = ex_py(view, upward.tick[i]);
        ex_line(image, view->left, y, view->left - 4, y, 1, dark);
        ex_plot_tick(&upward, i, text);
        ex_text(image, view->left - 7 - ex_text_width(text), (int)y - 3, 1, dark, text);
    }

    ex_line(image, view->left, view->top, view->left, bottom, 1, dark);
    ex_line(image, view->left, bottom, right, bottom, 1, dark);
    int middle = view->left + view->w / 2;
    ex_text(image, middle - ex_text_width(xname) / 2, bottom + 18, 1, dark, xname);
    ex_text(image, view->left, view->top - 12, 1, dark, yname);
}

/* ------------------------------------------------------------------------------------------------
 * plots as SVG */
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

/* A colour as SVG writes it: #rrggbb. */
EX void ex_svg_color(ex_color color, char text[8]) {
    snprintf(text, 8, "#%02x%02x%02x", color.r, color.g, color.b);
}

EX void ex_svg_curve(FILE *file, const ex_view *view, const ex_axis *axis, const ex_curve *curve) {
    char color[8];
    double point[2];
    ex_svg_color(curve->color, color);

    /* A path: M moves to the first point of a piece, L draws on. */
    fprintf(file, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"2\" d=\"", color);
    int connected = 0;
    for (int j = 0; j < curve->n; j++) {
        int drawn = ex_plot_point(axis, curve, j, point);
        if (drawn)
            fprintf(file, "%c%.1f %.1f", connected ? 'L' : 'M', ex_px(view, point[0]),
                    ex_py(view, point[1]));
        connected = drawn;
    }

    fprintf(file, "\"/>\n<g fill=\"%s\">", color);
    for (int j = 0; j < curve->n && curve->n <= EX_FEW_POINTS; j++)
        if (ex_plot_point(axis, curve, j, point))
            fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>", ex_px(view, point[0]),
                    ex_py(view, point[1]));
    fputs("</g>\n", file);
}

/* Lines at the ticks with their numbers. The plot covers x 66 .. 620, y 44 .. 344. */
EX void ex_svg_grid(FILE *file, const ex_view *view, const ex_axis axis[2]) {
    char text[32];
    for (int i = 0; i < axis[0].ticks; i++) {
        double x = ex_px(view, axis[0].tick[i]);
        fprintf(file, "<path stroke=\"#ddd\" d=\"M%.1f 44V344\"/>\n", x);
        ex_plot_tick(&axis[0], i, text);
        ex_svg_text(file, x, 360, "middle", "", text);
    }

    for (int i = 0; i < axis[1].ticks; i++) {
        double y = ex_py(view, axis[1].tick[i]);
        fprintf(file, "<path stroke=\"#ddd\" d=\"M66 %.1fH620\"/>\n", y);
        ex_plot_tick(&axis[1], i, text);
        ex_svg_text(file, 60, y + 4, "end", "", text);
    }

    fputs("<rect x=\"66\" y=\"44\" width=\"554\" height=\"300\" fill=\"none\" stroke=\"#999\"/>\n",
          file);
}

/* The same plot as a text file: 640 x 400 SVG. 0 if it cannot be written. */
EX int ex_plot_svg(const char *path, const char *title, const char *xname, const char *yname,
                   const ex_curve *curve, int curves, int log_x, int log_y) {
    FILE *file = fopen(path, "w");
    if (!file)
        return 0;
    ex_axis axis[2];
    ex_plot_axes(curve, curves, log_x, log_y, axis);
    ex_view view = ex_view_make(axis[0].lo, axis[1].lo, axis[0].hi, axis[1].hi, 66, 44, 554, 300);
    fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 400\" "
                  "font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n"
                  "<rect width=\"640\" height=\"400\" fill=\"#fff\"/>\n");
    ex_svg_grid(file, &view, axis);
    ex_svg_text(file, 66, 20, "start", "font-size=\"16\"", title);
    ex_svg_text(file, 343, 388, "middle", "", xname);
    ex_svg_text(file, 66, 38, "start", "", yname);

    /* The curves, and their names in the margin above from the right. */
    int right = 620;
    for (int i = curves - 1; i >= 0; i--) {
        char color[8];
        char style[32];
        ex_svg_curve(file, &view, axis, &curve[i]);
        ex_svg_color(curve[i].color, color);
        snprintf(style, sizeof style, "fill=\"%s\"", color);
        ex_svg_text(file, right, 38, "end", style, curve[i].name);
        right -= 7 * (int)strlen(curve[i].name) + 16;
    }

    fputs("</svg>\n", file);
    return fclose(file) == 0;
}
#endif
