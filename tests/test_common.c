/* examples/common.h: options, pictures, plots and files. The compressor is read back by a small
 * inflate of its own here. */
#define FSI_IMPLEMENTATION
#include "fsi_linalg.h"
#include "greatest.h"
#include "check.h"
#include "../examples/common.h"
#include <sys/wait.h>

/* ---- zlib with fixed codes, read the slow obvious way */
typedef struct reader {
    const uint8_t *at;
    size_t bit, bits;
} reader;

/* least significant bit first; past the end: zeros */
static int read_bits(reader *r, int count) {
    int v = 0;
    for (int i = 0; i < count; i++, r->bit++)
        if (r->bit < r->bits)
            v |= (r->at[r->bit >> 3] >> (r->bit & 7) & 1) << i;
    return v;
}

static int read_literal(reader *r) { /* RFC 1951, 3.2.6 */
    int code = 0;
    for (int n = 1; n <= 9; n++) {
        code = code << 1 | read_bits(r, 1);
        if (n == 7 && code <= 23)
            return code + 256;
        if (n == 8 && code >= 48 && code <= 191)
            return code - 48;
        if (n == 8 && code >= 192 && code <= 199)
            return code - 192 + 280;
        if (n == 9)
            return code - 400 + 144;
    }
    return -1;
}

static size_t inflate_fixed(const uint8_t *z, size_t size, uint8_t *out, size_t room) {
    static const int length[29] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                   31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
    static const int distance[30] = {1,    2,    3,    4,    5,    7,    9,    13,    17,    25,
                                     33,   49,   65,   97,   129,  193,  257,  385,   513,   769,
                                     1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
    reader r;
    size_t n = 0;
    r.at = z + 2;
    r.bit = 0;
    r.bits = 8 * (size - 6);
    if (size < 6 || (z[0] * 256 + z[1]) % 31 || read_bits(&r, 3) != 3)
        return 0;
    for (;;) {
        int v = read_literal(&r), d = 0;
        if (v == 256 || v < 0 || n + 258 > room)
            break;
        if (v < 256) {
            out[n++] = (uint8_t)v;
            continue;
        }
        v -= 257;
        int len = length[v] + read_bits(&r, v < 8 || v == 28 ? 0 : v / 4 - 1);
        for (int i = 0; i < 5; i++)
            d = d << 1 | read_bits(&r, 1);
        d = distance[d] + read_bits(&r, d < 4 ? 0 : d / 2 - 1);
        if ((size_t)d > n)
            return 0;
        for (int i = 0; i < len; i++, n++)
            out[n] = out[n - (size_t)d];
    }
    return n;
}

TEST deflate_comes_back(void) {
    enum {
        N = 70000
    };

    uint8_t *data = (uint8_t *)malloc(N), *back = (uint8_t *)malloc(N + 1000);
    uint64_t seed = 5;
    int sizes[] = {0, 1, 2, 3, 258, 259, N};
    for (int kind = 0; kind < 4; kind++)
        for (int q = 0; q < 7; q++) {
            ex_bytes bytes;
            memset(&bytes, 0, sizeof bytes);
            for (int i = 0; i < sizes[q]; i++)
                data[i] = (uint8_t)(kind == 0   ? 7
                                    : kind == 1 ? (int)(127 * check_random(&seed))
                                    : kind == 2 ? i / 300
                                                : i % 253 * (i / 40000));
            ex_deflate(&bytes, data, sizes[q]);
            ASSERT_EQ_FMT((size_t)sizes[q], inflate_fixed(bytes.at, bytes.size, back, N + 1000),
                          "%lu");
            ASSERT(sizes[q] == 0 || !memcmp(data, back, (size_t)sizes[q]));
            if (q == 6 && kind != 1)
                ASSERTm("it compresses", bytes.size < N / 20);
            free(bytes.at);
        }
    free(data);
    free(back);
    PASS();
}

static size_t slurp(const char *path, uint8_t *out, size_t room) {
    FILE *file = fopen(path, "rb");
    size_t n = file ? fread(out, 1, room, file) : 0;
    if (file)
        fclose(file);
    remove(path);
    return n;
}

static uint32_t word(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint32_t crc(const uint8_t *p, size_t n) {
    uint32_t c = 0xffffffffu;
    int k;
    for (; n--; p++)
        for (c ^= *p, k = 0; k < 8; k++)
            c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
    return c ^ 0xffffffffu;
}

/* Number of chunks of a type; -1 when the file is not a chain of chunks with right checksums that
 * ends in IEND. */
static int chunks(const uint8_t *p, size_t n, const char *type) {
    size_t at = 8;
    int count = 0;
    while (at + 12 <= n) {
        size_t len = word(p + at);
        if (at + 12 + len > n || crc(p + at + 4, len + 4) != word(p + at + 8 + len))
            return -1;
        count += !memcmp(p + at + 4, type, 4);
        if (!memcmp(p + at + 4, "IEND", 4))
            return at + 12 == n ? count : -1;
        at += 12 + len;
    }
    return -1;
}

TEST png_frames_and_movie_are_whole(void) {
    static uint8_t file[200000];
    ex_args args;
    ex_image image = ex_image_make(60, 40);
    char name[32], path[64], first[80];
    memset(&args, 0, sizeof args);
    snprintf(name, sizeof name, "fsi_common_%ld", (long)getpid());
    args.name = name;
    args.out = "/tmp";
    for (int frame = 0; frame < 3; frame++) {
        ex_disk(&image, 10 + 10 * frame, 20, 8, ex_rgb(200, 30, 30));
        ex_frame(&args, &image);
    }
    ASSERT_EQ(3, args.written);
    ex_end(&args, 3, 1);
    size_t n;
    for (int frame = 0; frame < 3; frame++) {
        snprintf(first, sizeof first, "/tmp/%s_%04d.png", name, frame);
        n = slurp(first, file, sizeof file);
        ASSERT_EQ(1, chunks(file, n, "IDAT"));
        ASSERT_EQ_FMT(60u, word(file + 16), "%u");
    }
    snprintf(path, sizeof path, "/tmp/%s.png", name);
    n = slurp(path, file, sizeof file);
    ASSERT_EQ(3, chunks(file, n, "fcTL"));
    ASSERT_EQ(2, chunks(file, n, "fdAT"));
    ASSERT_EQ(1, chunks(file, n, "acTL"));
    /* frames in acTL, written at the end */
    ASSERT_EQ_FMT(3u, word(file + 41), "%u");
    ex_image_free(&image);
    PASS();
}

/* The pixels of a picture come back through inflate and the two row filters. */
TEST png_pixels_come_back(void) {
    enum {
        W = 61,
        H = 37
    };

    static uint8_t file[100000], raw[(3 * W + 1) * H + 1000];
    ex_image image = ex_image_make(W, H);
    char path[64];
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            ex_blend(&image, x, y, ex_rgb(x * 4, y * 6, (x * y) & 255), 1);
    ex_line(&image, 3, 3, 50, 30, 3, ex_grey(255));
    snprintf(path, sizeof path, "/tmp/fsi_common_%ld_p.png", (long)getpid());
    ASSERT(ex_png(path, &image));
    size_t n = slurp(path, file, sizeof file);
    size_t at;
    for (at = 8; at + 12 <= n && memcmp(file + at + 4, "IDAT", 4); at += 12 + word(file + at)) {
    }
    size_t len = word(file + at);
    ASSERT_EQ_FMT((size_t)((3 * W + 1) * H), inflate_fixed(file + at + 8, len, raw, sizeof raw),
                  "%lu");
    for (int y = 0; y < H; y++)
        for (int x = 0; x < 3 * W; x++) {
            uint8_t *row = raw + (3 * W + 1) * y, *p = row + 1 + x;
            ASSERT(row[0] == 1 || row[0] == 2);
            *p = (uint8_t)(*p + (row[0] == 2 ? (y ? p[-(3 * W + 1)] : 0) : x >= 3 ? p[-3] : 0));
            ASSERT_EQ(image.rgb[3 * W * y + x], *p);
        }
    ex_image_free(&image);
    PASS();
}

static int bright(const ex_image *image, int x, int y) {
    const uint8_t *p = image->rgb + 3 * (y * image->w + x);
    return p[0] + p[1] + p[2];
}

TEST fields_and_liquid_are_drawn(void) {
    fsi_real f[8 * 4], phi[8 * 4];
    ex_image image = ex_image_make(100, 60);
    ex_view view = ex_view_make(0, 0, 8, 4, 10, 10, 80, 40);
    /* a ramp along x; liquid below y = 2 */
    for (int i = 0; i < 32; i++) {
        f[i] = (fsi_real)(i % 8);
        phi[i] = (fsi_real)(i / 8 + 0.5 - 2);
    }
    ex_draw_field(&image, &view, 8, 4, f, 0, 7, 0);
    /* dark to bright */
    for (int x = 11; x < 90; x++)
        ASSERT(bright(&image, x, 30) >= bright(&image, x - 1, 30));
    ASSERT(bright(&image, 12, 30) < 150 && bright(&image, 88, 30) > 600
           && bright(&image, 5, 30) == 765 && bright(&image, 30, 55) == 765);
    CHECK_NEAR(3.5, ex_field_at(f, 8, 4, 0.5, 0.5), 1e-6);
    ex_clear(&image, ex_grey(255));
    ex_draw_liquid(&image, &view, 8, 4, phi, ex_rgb(0, 0, 255));
    /* above and below the surface at pixel row 30 */
    ASSERT(bright(&image, 50, 15) == 765 && bright(&image, 50, 45) == 255);
    f[0] = (fsi_real)NAN;
    /* not finite: some colour, no crash */
    ex_draw_field(&image, &view, 8, 4, f, 0, 7, 1);
    ex_image_free(&image);
    PASS();
}

/* A ball as level set and as mesh: covers what it should, is lit from above, and the nearer of two
 * hides the other in any order. */
TEST meshes_and_level_sets_are_drawn(void) {
    enum {
        N = 20
    };

    static fsi_real phi[N * N * N], far_x[3 * 4000];
    const double h = 1.0 / N;
    ex_camera camera = ex_camera_make(0.5, 0.5, 4, 0.5, 0.5, 0.5, 1, 30);
    ex_image m = ex_image_make(80, 80), o = ex_image_make(80, 80);
    double corner[3] = {0.5, 0.5, 0.5}, out[3];
    int i, covered = 0;
    for (i = 0; i < N * N * N; i++)
        phi[i] =
            (fsi_real)(sqrt(pow((i % N + 0.5) * h - 0.5, 2) + pow((i / N % N + 0.5) * h - 0.5, 2)
                            + pow((i / N / N + 0.5) * h - 0.5, 2))
                       - 0.3);
    fsi_iso_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.nx = desc.ny = desc.nz = N;
    desc.h = (fsi_real)h;
    desc.value = phi;
    desc.origin = fsi_vec((fsi_real)(h / 2), (fsi_real)(h / 2), (fsi_real)(h / 2));
    fsi_iso_mesh ball;
    CHECK_OK(fsi_iso_build(&desc, &ball));
    ASSERT(ball.vertex_count < 4000);
    ex_mesh near_ball;
    near_ball.vertices = ball.vertex_count;
    near_ball.triangles = ball.element_count;
    near_ball.x = ball.x;
    near_ball.index = ball.index;
    near_ball.color = ex_rgb(200, 40, 40);
    near_ball.glass = 0;
    ex_mesh far_ball = near_ball;
    far_ball.color = ex_rgb(40, 40, 200);
    far_ball.x = far_x;
    for (i = 0; i < 3 * ball.vertex_count; i++)
        far_x[i] = ball.x[i] - (fsi_real)(i % 3 == 2 ? 1.5 : 0);
    for (int order = 0; order < 2; order++) {
        ex_clear(&m, ex_grey(255));
        ex_draw_mesh(&m, &camera, order ? &far_ball : &near_ball);
        ex_draw_mesh(&m, &camera, order ? &near_ball : &far_ball);
        /* red in front */
        ASSERT(m.rgb[3 * (80 * 40 + 40)] > 2 * m.rgb[3 * (80 * 40 + 40) + 2]);
        if (order)
            ASSERT(!memcmp(m.rgb, o.rgb, 3 * 80 * 80));
        else
            memcpy(o.rgb, m.rgb, 3 * 80 * 80);
    }
    /* background; lit from above */
    ASSERT(bright(&m, 2, 2) == 765 && bright(&m, 40, 30) > bright(&m, 40, 50));
    for (i = 0; i < 80 * 80; i++)
        covered += m.depth[i] < 1e29f;
    /* the disc its silhouette fills */
    CHECK_REL(3.14159 * pow(0.3 / sqrt(3.5 * 3.5 - 0.09) / tan(15 * 3.14159265 / 180) * 40, 2),
              covered, 0.03);
    ASSERT(ex_project(&m, &camera, corner, out) && fabs(out[0] - 40) < 1e-9
           && fabs(out[2] - 3.5) < 1e-9);
    ex_clear(&m, ex_grey(255));
    ex_draw_mesh(&m, &camera, &far_ball);
    i = bright(&m, 40, 40);
    /* the level set itself, clear: what is behind shines through */
    ex_draw_water(&m, &camera, N, N, N, h, phi, ex_rgb(80, 155, 215), 0.3);
    ASSERT(bright(&m, 40, 40) != i && bright(&m, 40, 40) < 765 && bright(&m, 2, 2) == 765);
    fsi_iso_free(&ball);
    ex_image_free(&m);
    ex_image_free(&o);
    PASS();
}

TEST vtk_files_are_whole(void) {
    static uint8_t file[10000];
    fsi_real f[24];
    char path[64];
    int i;
    for (i = 0; i < 24; i++)
        f[i] = (fsi_real)(i * 0.25 - 3);
    snprintf(path, sizeof path, "/tmp/fsi_common_%ld.vtk", (long)getpid());
    ASSERT(ex_vtk(path, 4, 3, 2, 0.5, "pressure", f));
    size_t n = slurp(path, file, sizeof file - 1);
    file[n] = 0;
    ASSERT_STRN_EQ("# vtk DataFile Version 3.0\n", (char *)file, 27);
    ASSERT(strstr((char *)file,
                  "DATASET STRUCTURED_POINTS\nDIMENSIONS 5 4 3\nORIGIN 0 0 0\nSPACING "
                  "0.5 0.5 0.5\nCELL_DATA 24\nSCALARS pressure double 1\n"));
    char *at = strstr((char *)file, "LOOKUP_TABLE default\n");
    ASSERT(at != NULL);
    for (at += 21, i = 0; i < 24; i++)
        CHECK_NEAR(f[i], strtod(at, &at), 0);
    ASSERT_FALSE(ex_vtk("/nowhere/x.vtk", 4, 3, 2, 0.5, "p", f));
    PASS();
}

/* exit status of ex_begin on these arguments, in a child */
static int status_of(const char *arg, const char *value) {
    static const ex_about about = {
        .name = "x",
        .what = "Nothing.",
        .size = 64,
        .frames = 10,
        .keys =
            {
                EX_NUMBER("density", "kg/m^3", "of the body", "500", "1 to 1000"),
                EX_WORD("scheme", "coupling", "xpm", "xpm,weak"),
            },
    };
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        char *argv[4];
        argv[0] = (char *)(uintptr_t) "x";
        argv[1] = (char *)(uintptr_t)arg;
        argv[2] = (char *)(uintptr_t)value;
        argv[3] = NULL;
        if (!freopen("/dev/null", "w", stderr) || !freopen("/dev/null", "w", stdout))
            _exit(9);
        ex_args args;
        ex_begin(&args, value ? 3 : 2, argv, &about);
        _exit(0);
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST options_are_checked(void) {
    ASSERT_EQ(0, status_of("--help", NULL));
    ASSERT_EQ(0, status_of("--set", "density=3,4,5"));
    ASSERT_EQ(0, status_of("--set", "scheme=weak"));
    ASSERT_EQ(0, status_of("--set", "view=term"));
    ASSERT_EQ(0, status_of("--size", "12"));
    ASSERT_EQ(2, status_of("--set", "density=0.5"));
    ASSERT_EQ(2, status_of("--set", "density=nan"));
    ASSERT_EQ(2, status_of("--set", "density=5x"));
    ASSERT_EQ(2, status_of("--set", "scheme=wea"));
    ASSERT_EQ(2, status_of("--set", "view=window"));
    ASSERT_EQ(2, status_of("--set", "densit=5"));
    ASSERT_EQ(2, status_of("--set", "density"));
    ASSERT_EQ(2, status_of("--size", "-3"));
    ASSERT_EQ(2, status_of("--size", "12.5"));
    ASSERT_EQ(2, status_of("--frames", NULL));
    ASSERT_EQ(2, status_of("--verbose", NULL));
    PASS();
}

TEST plots_and_terminal(void) {
    static uint8_t file[100000];
    double x[5] = {1, 10, 100, 1000, 10000}, y[5] = {2, NAN, 1e-3, 0, 1e-6};
    ex_curve curve[2];
    ex_axis axis[2];
    ex_image image = ex_image_make(640, 400);
    char path[64];
    int dark = 0;
    curve[0].name = "a < b";
    curve[0].n = 5;
    curve[0].x = x;
    curve[0].y = y;
    curve[0].color = ex_rgb(200, 30, 30);
    curve[1] = curve[0];
    curve[1].n = 0;
    ex_plot_axes(curve, 2, 1, 1, axis);
    ASSERT_EQ(5, axis[0].ticks);
    /* NaN and 0 are left out of a logarithmic axis */
    CHECK_NEAR(-6, axis[1].lo + 0.05 / 1.1 * (axis[1].hi - axis[1].lo), 1e-9);
    /* linear ticks: two to eight, round numbers, inside */
    int i;
    for (i = 0; i < 40; i++) {
        axis[0].log = 0;
        axis[0].lo = pow(10, i % 9 - 4) * (i % 5 - 2);
        axis[0].hi = axis[0].lo + pow(1.7, i - 15);
        ex_axis_ticks(&axis[0]);
        ASSERT(axis[0].ticks >= 2 && axis[0].ticks <= 8);
        ASSERT(axis[0].tick[0] >= axis[0].lo - 1e-6 * (axis[0].hi - axis[0].lo)
               && axis[0].tick[axis[0].ticks - 1] <= axis[0].hi + 1e-6 * (axis[0].hi - axis[0].lo));
    }
    ex_plot(&image, "title", "x", "y", curve, 2, 1, 1);
    for (i = 0; i < 640 * 400; i++)
        dark += image.rgb[3 * i] == 200 && image.rgb[3 * i + 1] == 30;
    ASSERT(dark > 50);
    snprintf(path, sizeof path, "/tmp/fsi_common_%ld.svg", (long)getpid());
    ASSERT(ex_plot_svg(path, "t & u", "x", "y", curve, 2, 1, 1));
    size_t n = slurp(path, file, sizeof file - 1);
    file[n] = 0;
    ASSERT(n > 500 && strstr((char *)file, "a &lt; b") && strstr((char *)file, "</svg>")
           && !strstr((char *)file, "nan"));
    FILE *f = tmpfile();
    ASSERT(f != NULL);
    ex_term(f, &image, 40, 0, 0);
    ex_term(f, &image, 40, 1, 1);
    rewind(f);
    n = fread(file, 1, sizeof file, f);
    for (dark = 0, i = 0; i < (int)n; i++)
        dark += file[i] == '\n';
    /* 400 * 40 / (2 * 640) lines each */
    ASSERT_EQ(2 * 12, dark);
    fclose(f);
    ex_image_free(&image);
    PASS();
}

TEST obj_files_come_back(void) {
    fsi_real x[12] = {0, 0, 0, 1, 0, 0, 0, FSI_R(0.5), 0, 0, 0, FSI_R(-2.25)};
    int32_t index[12] = {0, 2, 1, 0, 1, 3, 1, 2, 3, 2, 0, 3};
    char path[64];
    snprintf(path, sizeof path, "/tmp/fsi_common_%ld.obj", (long)getpid());
    ASSERT(ex_obj_write(path, 4, x, 4, index));
    fsi_real *y;
    int32_t *back;
    int nv;
    int nt;
    ASSERT(ex_obj_read(path, &nv, &y, &nt, &back));
    ASSERT_EQ(4, nv);
    ASSERT_EQ(4, nt);
    ASSERT(!memcmp(x, y, sizeof x) && !memcmp(index, back, sizeof index));
    free(y);
    free(back);
    FILE *file = fopen(path, "w");
    /* a polygon with texture indices, the last one relative */
    fprintf(file, "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1/1/1 2//2 3 -1\n");
    fclose(file);
    ASSERT(ex_obj_read(path, &nv, &y, &nt, &back));
    ASSERT(nv == 4 && nt == 2 && back[5] == 3);
    free(y);
    free(back);
    file = fopen(path, "w");
    fprintf(file, "v 0 0 0\nv 1 0 0\nf 1 2 7\n");
    fclose(file);
    ASSERT_FALSE(ex_obj_read(path, &nv, &y, &nt, &back));
    remove(path);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv) {
    GREATEST_MAIN_BEGIN();
    RUN_TEST(deflate_comes_back);
    RUN_TEST(png_frames_and_movie_are_whole);
    RUN_TEST(png_pixels_come_back);
    RUN_TEST(fields_and_liquid_are_drawn);
    RUN_TEST(meshes_and_level_sets_are_drawn);
    RUN_TEST(vtk_files_are_whole);
    RUN_TEST(options_are_checked);
    RUN_TEST(plots_and_terminal);
    RUN_TEST(obj_files_come_back);
    GREATEST_MAIN_END();
}
