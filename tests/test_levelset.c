/* The liquid surface alone: fsi_levelset of fsi_grid.h moved by given velocities. */
#define FSI_IMPLEMENTATION
#include "fsi_grid.h"
#include "greatest.h"
#include "check.h"

#define PI 3.14159265358979323846

typedef struct ball {
    double x, y, z, r;
} ball;

static fsi_real ball_fn(fsi_vec3 x, void *user) {
    const ball *b = (const ball *)user;
    double dx = (double)x.x - b->x, dy = (double)x.y - b->y, dz = (double)x.z - b->z;
    return (fsi_real)(sqrt(dx * dx + dy * dy + dz * dz) - b->r);
}

/* Disk R = 15 at (50, 75) with a slot 5 wide up to y = 85. */
static fsi_real zalesak_fn(fsi_vec3 p, void *user) {
    double dx = (double)p.x - 50, dy = (double)p.y - 75, qx = fabs(dx) - 2.5, qy = (double)p.y - 85;
    (void)user;
    double slot = qx > 0 && qy > 0 ? sqrt(qx * qx + qy * qy) : qx > qy ? qx : qy;
    dx = sqrt(dx * dx + dy * dy) - 15;
    return (fsi_real)(dx > -slot ? dx : -slot);
}

static fsi_real wrong_fn(fsi_vec3 p, void *user) {
    (void)p;
    (void)user;
    return (fsi_real)NAN;
}

static fsi_levelset_desc box(int nx, int ny, int nz, double h) {
    fsi_levelset_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.nx = nx;
    desc.ny = ny;
    desc.nz = nz;
    desc.h = (fsi_real)h;
    return desc;
}

/* Face velocities: kind 0 rigid rotation (Zalesak), 1 vortex in a box from its stream function, 2
 * the 3D field of LeVeque; f is the time factor. */
typedef struct flow {
    int n, kind, dim;
    fsi_real *u[3];
} flow;

static flow flow_make(int n, int kind) {
    flow w;
    memset(&w, 0, sizeof w);
    w.n = n;
    w.kind = kind;
    w.dim = kind == 2 ? 3 : 2;
    for (int a = 0; a < w.dim; a++)
        w.u[a] = (fsi_real *)calloc((size_t)(n + 1) * (size_t)n * (size_t)(w.dim == 3 ? n : 1),
                                    sizeof(fsi_real));
    return w;
}

static void flow_free(flow *w) {
    for (int a = 0; a < 3; a++)
        free(w->u[a]);
}

static double stream(double x, double y) {
    return pow(sin(PI * x) * sin(PI * y), 2) / PI;
}

static double flow_at(int kind, int axis, double x, double y, double z, double h) {
    if (kind == 0)
        return axis == 0 ? PI / 314 * (50 - y) : PI / 314 * (x - 50);
    if (kind == 1)
        return axis == 0 ? -(stream(x, y + h / 2) - stream(x, y - h / 2)) / h
                         : (stream(x + h / 2, y) - stream(x - h / 2, y)) / h;
    if (axis == 0)
        return 2 * pow(sin(PI * x), 2) * sin(2 * PI * y) * sin(2 * PI * z);
    if (axis == 1)
        return -sin(2 * PI * x) * pow(sin(PI * y), 2) * sin(2 * PI * z);
    return -sin(2 * PI * x) * sin(2 * PI * y) * pow(sin(PI * z), 2);
}

static void flow_set(flow *w, double h, double f) {
    int n = w->n;
    for (int a = 0; a < w->dim; a++)
        for (int k = 0; k < (w->dim == 3 ? n + (a == 2) : 1); k++)
            for (int j = 0; j < n + (a == 1); j++)
                for (int i = 0; i < n + (a == 0); i++)
                    w->u[a][i + (n + (a == 0)) * (j + (n + (a == 1)) * k)] =
                        (fsi_real)(f
                                   * flow_at(w->kind, a, (i + (a == 0 ? 0 : 0.5)) * h,
                                             (j + (a == 1 ? 0 : 0.5)) * h,
                                             (k + (a == 2 ? 0 : 0.5)) * h, h));
}

/* Runs a shape once round; returns the area (volume) after over before, *moved: cells whose sign
 * differs, as a share of the volume. */
static double go_round(int kind, int n, double cfl, int particles, double *moved) {
    double size = kind == 0 ? 100 : 1, h = size / n,
           T = kind == 0   ? 628
               : kind == 1 ? 8
                           : 3,
           top = kind == 0   ? PI / 314 * 50
                 : kind == 1 ? 1
                             : 2;
    int steps = (int)ceil(T * top / (cfl * h));
    fsi_levelset_desc desc = box(n, n, kind == 2 ? n : 1, h);
    flow w = flow_make(n, kind);
    ball b;
    size_t differ = 0;
    b.x = kind == 2 ? 0.35 : 0.5;
    b.y = kind == 2 ? 0.35 : 0.75;
    b.z = kind == 2 ? 0.35 : 0;
    b.r = 0.15;
    desc.particles = particles;
    fsi_levelset ls;
    if (fsi_levelset_init(&ls, &desc) != FSI_OK)
        return 0;
    if (fsi_levelset_shape(&ls, kind == 0 ? zalesak_fn : ball_fn, &b, 1, NULL) != FSI_OK)
        return 0;
    double before = ls.state->target;
    fsi_real *start;
    start = (fsi_real *)malloc(ls.cells * sizeof *start);
    fsi_copy(ls.cells, ls.phi, start);
    for (int s = 0; s < steps; s++) {
        const fsi_real *u[3];
        if (kind > 0 || s == 0)
            flow_set(&w, h, kind == 0 ? 1.0 : cos(PI * (s + 0.5) / steps));
        u[0] = w.u[0];
        u[1] = w.u[1];
        u[2] = w.u[2];
        if (fsi_levelset_advance(&ls, u, NULL, (fsi_real)(T / steps), NULL) < 0)
            break;
    }
    for (size_t c = 0; c < ls.cells; c++)
        differ += (start[c] < 0) != (ls.phi[c] < 0);
    double after = fsi_levelset_volume(&ls, NULL, NULL);
    if (moved)
        *moved = (double)differ * h * h * (kind == 2 ? h : 1) / before;
    fsi_levelset_free(&ls);
    flow_free(&w);
    free(start);
    return after / before;
}

TEST F_07_zalesak_disk(void) {
    double moved, with = go_round(0, 100, 0.5, 0, &moved);
    printf("  100^2, one revolution: particle level set %+.2f %% of the area, %.1f %% of the cells "
           "differ\n",
           100 * (with - 1), 100 * moved);
    CHECK_NEAR(1.0, with, 0.01);
    CHECK_MOST(moved, 0.10);
    double without = go_round(0, 100, 1.0, -1, &moved);
    printf("  level set alone %+.2f %%, %.1f %% differ\n", 100 * (without - 1), 100 * moved);
    CHECK_NEAR(1.0, without, 0.10);
    PASS();
}

TEST F_08_vortex_in_a_box(void) {
    int full = getenv("FSI_TEST_FULL") != NULL;
    double moved;
    double a = go_round(1, 64, 2.0, 0, &moved);
    printf("  64^2, T = 8: %+.2f %% of the area, %.1f %% of the cells differ\n", 100 * (a - 1),
           100 * moved);
    CHECK_NEAR(1.0, a, 0.08);
    if (!full)
        SKIPm("the 128^2 run needs FSI_TEST_FULL");
    for (full = 1; full <= 2; full++) {
        a = go_round(1, 128, full, 0, &moved);
        printf("  128^2, T = 8, CFL %d: %+.2f %% of the area, %.1f %% of the cells differ\n", full,
               100 * (a - 1), 100 * moved);
        CHECK_NEAR(1.0, a, 0.01);
        CHECK_MOST(moved, 0.05);
    }
    PASS();
}

TEST F_08_enright_3d(void) {
    double moved, a;
    if (!getenv("FSI_TEST_FULL")) {
        /* too coarse to keep the sheet: runs and stays finite */
        a = go_round(2, 24, 4.0, 2, &moved);
        CHECK_NEAR(1.0, a, 0.5);
        PASS();
    }
    /* the catalogue's size; its 2.6 % is recalled, so 6 % is the gate */
    a = go_round(2, 100, 2.0, 0, &moved);
    printf("  100^3, T = 3: %+.2f %% of the volume, %.1f %% of the cells differ\n", 100 * (a - 1),
           100 * moved);
    CHECK_NEAR(1.0, a, 0.06);
    PASS();
}

/* Largest distance error (cells) in a band around the circle, and largest displacement of the
 * crossings along grid lines. */
static double redistance_error(int n, int dim, int calls, double *shift) {
    double h = 1.0 / n, worst = 0, R = 0.3137;
    fsi_levelset_desc desc = box(n, n, dim == 3 ? n : 1, h);
    ball b;
    b.x = 0.503;
    b.y = 0.491;
    b.z = dim == 3 ? 0.512 : 0;
    b.r = R;
    desc.particles = -1;
    fsi_levelset ls;
    if (fsi_levelset_init(&ls, &desc) != FSI_OK)
        return 1e30;
    for (int c = 0; c < (int)ls.cells; c++) {
        fsi_vec3 x = fsi_vec((fsi_real)((c % n + 0.5) * h), (fsi_real)((c / n % n + 0.5) * h),
                             dim == 3 ? (fsi_real)((c / (n * n) + 0.5) * h) : 0);
        /* a slope of 1 to 3 instead of 1 */
        ls.phi[c] = ball_fn(x, &b) * (fsi_real)(2 + sin(10 * (double)x.x) * cos(7 * (double)x.y));
    }
    for (int i = 0; i < calls; i++)
        fsi_levelset_redistance(&ls);
    *shift = 0;
    for (int c = 0; c < (int)ls.cells; c++) {
        fsi_vec3 x = fsi_vec((fsi_real)((c % n + 0.5) * h), (fsi_real)((c / n % n + 0.5) * h),
                             dim == 3 ? (fsi_real)((c / (n * n) + 0.5) * h) : 0);
        double exact = (double)ball_fn(x, &b), e = fabs((double)ls.phi[c] - exact) / h;
        if (fabs(exact) < 5 * h && e > worst)
            worst = e;
        if (c % n + 1 < n && (ls.phi[c] < 0) != (ls.phi[c + 1] < 0)) {
            /* the crossing, off the exact circle by |.| */
            x.x += ls.phi[c] / (ls.phi[c] - ls.phi[c + 1]) * desc.h;
            e = fabs((double)ball_fn(x, &b)) / h;
            if (e > *shift)
                *shift = e;
        }
    }
    fsi_levelset_free(&ls);
    return worst;
}

TEST F_09_redistance_keeps_the_surface(void) {
    double shift;
    double e32 = redistance_error(32, 2, 1, &shift);
    double shift64;
    double e64 = redistance_error(64, 2, 1, &shift64);
    printf("  2D: distance error %.4f h (32), %.4f h (64); surface moved %.4f h, %.4f h\n", e32,
           e64, shift, shift64);
    CHECK_MOST(shift, 0.05);
    CHECK_MOST(shift64, 0.05);
    CHECK_MOST(e32, 0.2);
    /* in cells: first order or better */
    CHECK_MOST(e64, e32);
    double many = redistance_error(64, 2, 50, &shift64);
    printf("  2D, 50 calls: surface moved %.4f h, distance error %.4f h\n", shift64, many);
    CHECK_MOST(shift64, 0.05);
    e32 = redistance_error(32, 3, 1, &shift);
    printf("  3D: distance error %.4f h, surface moved %.4f h\n", e32, shift);
    CHECK_MOST(shift, 0.05);
    /* five cells off a ball of ten: first order marching */
    CHECK_MOST(e32, 0.3);
    PASS();
}

TEST F_09_planes_are_exact(void) {
    uint64_t seed = 5;
    for (int trial = 0; trial < 12; trial++) {
        int dim = trial & 1 ? 3 : 2, n = 20;
        fsi_levelset_desc desc = box(n, n, dim == 3 ? n : 1, 0.05);
        fsi_vec3 m = fsi_vec((fsi_real)check_random(&seed), (fsi_real)check_random(&seed),
                             dim == 3 ? (fsi_real)check_random(&seed) : 0);
        m = fsi_vec_unit(m);
        desc.particles = -1;
        fsi_levelset ls;
        CHECK_OK(fsi_levelset_init(&ls, &desc));
        for (int rep = 0; rep < 2; rep++) {
            for (int c = 0; c < (int)ls.cells; c++) {
                fsi_vec3 x = fsi_vec((fsi_real)(c % n - 9), (fsi_real)(c / n % n - 9),
                                     dim == 3 ? (fsi_real)(c / (n * n) - 9) : 0);
                fsi_real exact = (fsi_vec_dot(m, x) + FSI_R(0.21)) * desc.h;
                /* must lie between samples */
                fsi_vec3 foot = fsi_vec_mad(x, m, -exact / desc.h);
                if (!rep)
                    ls.phi[c] = 2 * exact;
                else if (fabs((double)foot.x - 0.5) > 9.5 || fabs((double)foot.y - 0.5) > 9.5
                         || fabs((double)foot.z - 0.5) > 9.5)
                    continue;
                else if (fabs((double)exact) < 0.99 * 0.05)
                    CHECK_NEAR(exact, ls.phi[c], 0.05 * TOL(1e-9, 1e-4));
            }
            fsi_levelset_redistance(&ls);
        }
        fsi_levelset_free(&ls);
    }
    PASS();
}

TEST V_01_volume_of_planes_and_balls(void) {
    int n = 24, q = 16;
    uint64_t seed = 9;
    fsi_levelset_desc desc = box(n, n, 1, 1.0 / n);
    desc.particles = -1;
    fsi_levelset ls;
    CHECK_OK(fsi_levelset_init(&ls, &desc));
    /* brute force: sub-samples of the plane */
    for (int trial = 0; trial < 6; trial++) {
        double a = check_random(&seed) * PI, o = check_random(&seed) * 0.1, sum = 0;
        for (int c = 0; c < n * n; c++) {
            double x = (c % n + 0.5) / n - 0.5, y = (c / n + 0.5) / n - 0.5;
            ls.phi[c] = (fsi_real)(cos(a) * x + sin(a) * y + o);
            for (int i = 0; i < q * q; i++)
                sum += cos(a) * (x + ((i % q + 0.5) / q - 0.5) / n)
                           + sin(a) * (y + ((i / q + 0.5) / q - 0.5) / n) + o
                       < 0;
        }
        CHECK_NEAR(sum / (n * n * q * q), fsi_levelset_volume(&ls, NULL, NULL), 2e-4);
    }
    fsi_levelset_free(&ls);
    desc = box(n, n, n, 1.0 / n);
    desc.particles = -1;
    ball b;
    b.x = 0.49;
    b.y = 0.52;
    b.z = 0.505;
    b.r = 0.33;
    CHECK_OK(fsi_levelset_init(&ls, &desc));
    CHECK_OK(fsi_levelset_shape(&ls, ball_fn, &b, 1, NULL));
    CHECK_REL(4.0 / 3 * PI * 0.33 * 0.33 * 0.33, fsi_levelset_volume(&ls, NULL, NULL), 6e-3);
    fsi_levelset_free(&ls);
    PASS();
}

TEST V_02_volume_correction_reports(void) {
    fsi_levelset_desc desc = box(40, 40, 1, 0.025);
    fsi_levelset_report rep;
    memset(&rep, 0, sizeof rep);
    ball b;
    b.x = 0.5;
    b.y = 0.5;
    b.z = 0;
    b.r = 0.3;
    fsi_levelset ls;
    CHECK_OK(fsi_levelset_init(&ls, &desc));
    CHECK_RESULT(FSI_EMPTY, fsi_levelset_correct_volume(&ls, NULL, FSI_R(0.5), &rep));
    CHECK_OK(fsi_levelset_shape(&ls, ball_fn, &b, 1, NULL));
    double before = ls.state->target;
    ls.state->target *= 1.02;
    CHECK_OK(fsi_levelset_correct_volume(&ls, NULL, FSI_R(0.5), &rep));
    CHECK_REL(1.02 * before, fsi_levelset_volume(&ls, NULL, NULL), TOL(1e-8, 1e-5));
    CHECK_REL(0.02 * before, rep.volume_change, 1e-3);
    CHECK_REL(0.003, rep.shift, 0.02); /* dR = R / 2 * dA / A */
    ls.state->target *= 2;
    CHECK_RESULT(FSI_CAPPED, fsi_levelset_correct_volume(&ls, NULL, FSI_R(0.1), &rep));
    CHECK_NEAR(0.0025, rep.shift, 1e-6);
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_levelset_correct_volume(&ls, NULL, FSI_R(-1.0), &rep));
    fsi_levelset_free(&ls);
    PASS();
}

/* A corrected surface stays where it was put: its markers go with it, none of them counts as
 * escaped and takes the correction back. */
TEST V_04_markers_follow_the_correction(void) {
    for (int dim = 2; dim <= 3; dim++)
        for (int sign = -1; sign <= 1; sign += 2) {
            const int n = dim == 3 ? 24 : 40;
            fsi_levelset_desc desc = box(n, n, dim == 3 ? n : 1, 1.0 / n);
            fsi_levelset_report rep;
            const fsi_real *u[3];
            memset(&rep, 0, sizeof rep);
            ball b;
            b.x = 0.5;
            b.y = 0.5;
            b.z = dim == 3 ? 0.5 : 0;
            b.r = 0.3;
            fsi_levelset ls;
            CHECK_OK(fsi_levelset_init(&ls, &desc));
            CHECK_OK(fsi_levelset_shape(&ls, ball_fn, &b, 1, NULL));
            fsi_real *zero;
            zero = (fsi_real *)calloc((size_t)(n + 1) * (size_t)n * (size_t)(dim == 3 ? n : 1),
                                      sizeof *zero);
            u[0] = u[1] = u[2] = zero;
            ls.state->target *= 1 + 0.08 * sign;
            double target = ls.state->target;
            CHECK_OK(fsi_levelset_correct_volume(&ls, NULL, FSI_R(1.0), &rep));
            /* more than the smallest radius of a marker */
            ASSERT(fabs(rep.shift) * n > 0.15);
            for (int s = 0; s < 12; s++) {
                CHECK_OK(fsi_levelset_advance(&ls, u, NULL, FSI_R(0.1), &rep));
                CHECK_MOST((double)rep.escaped, 0.002 * (double)rep.markers);
            }
            CHECK_REL(target, rep.volume, 0.004);
            fsi_levelset_free(&ls);
            free(zero);
        }
    PASS();
}

TEST V_03_shapes_add_cut_and_keep_the_books(void) {
    fsi_levelset_desc desc = box(50, 50, 1, 0.02);
    ball b;
    b.x = 0.4;
    b.y = 0.5;
    b.z = 0;
    b.r = 0.2;
    fsi_levelset ls;
    CHECK_OK(fsi_levelset_init(&ls, &desc));
    CHECK_OK(fsi_levelset_shape(&ls, ball_fn, &b, 1, NULL));
    CHECK_REL(PI * 0.04, ls.state->target, 5e-3);
    b.r = 0.1;
    CHECK_OK(fsi_levelset_shape(&ls, ball_fn, &b, 0, NULL));
    CHECK_REL(PI * 0.03, ls.state->target, 1e-2);
    CHECK_REL(ls.state->target, fsi_levelset_volume(&ls, NULL, NULL), 1e-6);
    CHECK_RESULT(FSI_ERR_CALLBACK, fsi_levelset_shape(&ls, wrong_fn, NULL, 1, NULL));
    CHECK_REL(PI * 0.03, fsi_levelset_volume(&ls, NULL, NULL), 1e-2);
    fsi_levelset_free(&ls);
    PASS();
}

TEST E_01_extrapolation_is_constant_along_normals(void) {
    fsi_levelset_desc desc = box(64, 64, 1, 1.0 / 64);
    fsi_real *u[3];
    ball b;
    double worst = 0;
    b.x = 0.5;
    b.y = 0.5;
    b.z = 0;
    b.r = 0.25;
    desc.particles = -1;
    fsi_levelset ls;
    CHECK_OK(fsi_levelset_init(&ls, &desc));
    CHECK_OK(fsi_levelset_shape(&ls, ball_fn, &b, 1, NULL));
    u[0] = (fsi_real *)calloc(65 * 64, sizeof(fsi_real));
    u[1] = (fsi_real *)calloc(65 * 64, sizeof(fsi_real));
    u[2] = NULL;
    for (int j = 0; j < 64; j++)
        for (int i = 0; i < 65; i++)
            u[0][i + 65 * j] = (fsi_real)cos(2 * atan2((j + 0.5) / 64 - 0.5, i / 64.0 - 0.5));
    fsi_levelset_extrapolate(&ls, u, NULL, 5);
    for (int j = 0; j < 64; j++)
        for (int i = 0; i < 65; i++) {
            double y = (j + 0.5) / 64 - 0.5, x = i / 64.0 - 0.5, r = sqrt(x * x + y * y);
            double e = fabs((double)u[0][i + 65 * j] - cos(2 * atan2(y, x)));
            if (r > 0.2 && r < 0.25 + 3.5 / 64 && e > worst)
                worst = e;
            if (r > 0.25 + 8.0 / 64)
                ASSERT(u[0][i + 65 * j] == 0);
        }
    printf("  largest error of cos 2 theta three cells out: %.4f\n", worst);
    CHECK_MOST(worst, 0.12);
    free(u[0]);
    free(u[1]);
    fsi_levelset_free(&ls);
    PASS();
}

TEST E_02_solid_cells_continue_the_surface(void) {
    fsi_levelset_desc desc = box(20, 20, 1, 0.05);
    fsi_levelset_walls walls;
    uint8_t solid[400];
    fsi_real u0[420], u1[420];
    const fsi_real *u[3];
    memset(&walls, 0, sizeof walls);
    memset(u0, 0, sizeof u0);
    memset(u1, 0, sizeof u1);
    for (int c = 0; c < 400; c++)
        solid[c] = c % 20 > 7 && c % 20 < 12; /* a wall in the middle */
    walls.solid = solid;
    fsi_levelset ls;
    CHECK_OK(fsi_levelset_init(&ls, &desc));
    for (int c = 0; c < 400; c++)
        ls.phi[c] = (fsi_real)((c / 20 + 0.5) * 0.05 - 0.41);
    CHECK_OK(fsi_levelset_reset(&ls, &walls));
    double v = ls.state->target;
    CHECK_NEAR(0.41 * 0.8, v, TOL(1e-10, 1e-6));
    u[0] = u0;
    u[1] = u1;
    u[2] = NULL;
    for (int s = 0; s < 20; s++)
        CHECK_OK(fsi_levelset_advance(&ls, u, &walls, FSI_R(0.1), NULL));
    CHECK_NEAR(v, fsi_levelset_volume(&ls, solid, NULL), TOL(1e-10, 1e-6));
    for (int c = 0; c < 400; c++)
        ASSERT((ls.phi[c] < 0) == (c / 20 < 8));
    fsi_levelset_free(&ls);
    PASS();
}

/* A few steps of the vortex; the hash of the whole state. */
/* A shell with water on its left only, in the left or right half of a cell: phi is interpolated
 * across it, but a marker is put only where its own side has it so. */
static fsi_vec3 shell_clip(fsi_vec3 from, fsi_vec3 to, void *user) {
    const double at = *(const double *)user;
    if (((double)from.x < at) == ((double)to.x < at))
        return to;
    return fsi_vec_mad(from, fsi_vec_sub(to, from),
                       (fsi_real)(0.99 * (at - (double)from.x) / (double)(to.x - from.x)));
}

static fsi_real left_fn(fsi_vec3 x, void *user) {
    return (double)x.x < *(const double *)user ? FSI_R(-0.1) : FSI_R(0.1);
}

TEST E_03_seeds_stay_on_their_side_of_a_shell(void) {
    static const double place[4] = {0.45, 0.47, 0.51, 0.54};
    for (int k = 0; k < 8; k++) {
        fsi_levelset_desc desc = box(10, 10, k % 2 ? 10 : 1, 0.1);
        double at = place[k / 2];
        size_t wrong = 0;
        int dim = k % 2 ? 3 : 2;
        fsi_levelset_walls walls;
        memset(&walls, 0, sizeof walls);
        walls.clip_fn = shell_clip;
        walls.user = &at;
        fsi_levelset ls;
        CHECK_OK(fsi_levelset_init(&ls, &desc));
        CHECK_OK(fsi_levelset_shape(&ls, left_fn, &at, 1, &walls));
        CHECK_OK(fsi_levelset_reset(&ls, &walls));
        for (size_t p = 0; p < ls.state->count; p++)
            wrong += (ls.marker_radius[p] < 0) != ((double)ls.marker_x[p] < at);
        if (getenv("FSI_VERBOSE"))
            printf("  shell at %g, %dD: %d of %d markers on the wrong side\n", at, dim, (int)wrong,
                   (int)ls.state->count);
        ASSERT(ls.state->count > 100);
        ASSERT_EQ(0, (int)wrong);
        fsi_levelset_free(&ls);
    }
    PASS();
}

/* A hash of everything that a step changes. */
static uint64_t state_hash(const fsi_levelset *ls) {
    size_t size = fsi_levelset_state_size(ls);
    void *block = malloc(size);
    fsi_levelset_save(ls, block);
    uint64_t hash = check_hash(block, size, 1);
    free(block);
    return hash;
}

static uint64_t short_run(int threads, int dim, int steps, void *save_at, int restore) {
    int n = dim == 3 ? 24 : 48;
    fsi_levelset_desc desc = box(n, n, dim == 3 ? n : 1, 1.0 / n);
    flow w = flow_make(n, dim == 3 ? 2 : 1);
    ball b;
    b.x = 0.4;
    b.y = 0.6;
    b.z = dim == 3 ? 0.4 : 0;
    b.r = 0.2;
    desc.reseed = 4;
    desc.redistance = 3;
    desc.seed = 77;
    check_threads(threads);
    fsi_levelset ls;
    if (fsi_levelset_init(&ls, &desc) != FSI_OK)
        return 0;
    if (fsi_levelset_shape(&ls, ball_fn, &b, 1, NULL) != FSI_OK)
        return 0;
    if (restore && fsi_levelset_restore(&ls, save_at, fsi_levelset_state_size(&ls)) != FSI_OK)
        return 0;
    flow_set(&w, 1.0 / n, 1.0);
    for (int s = restore ? steps / 2 : 0; s < steps; s++) {
        const fsi_real *u[3];
        if (save_at && !restore && s == steps / 2)
            fsi_levelset_save(&ls, save_at);
        u[0] = w.u[0];
        u[1] = w.u[1];
        u[2] = w.u[2];
        if (fsi_levelset_advance(&ls, u, NULL, (fsi_real)(0.7 / n), NULL) < 0)
            return 0;
    }
    uint64_t hash = state_hash(&ls);
    if (!save_at)
        hash += check_hash(ls.phi, ls.cells * sizeof *ls.phi, 2);
    fsi_levelset_free(&ls);
    flow_free(&w);
    check_threads(1);
    return hash;
}

TEST G_01_same_bits_for_any_thread_count(void) {
    for (int dim = 2; dim <= 3; dim++) {
        uint64_t one = short_run(1, dim, 10, NULL, 0);
        ASSERT(one != 0);
        ASSERT(short_run(2, dim, 10, NULL, 0) == one);
        ASSERT(short_run(3, dim, 10, NULL, 0) == one);
        ASSERT(short_run(8, dim, 10, NULL, 0) == one);
    }
    PASS();
}

TEST G_02_restored_run_continues_bit_for_bit(void) {
    for (int dim = 2; dim <= 3; dim++) {
        int n = dim == 3 ? 24 : 48;
        fsi_levelset_desc desc = box(n, n, dim == 3 ? n : 1, 1.0 / n);
        fsi_levelset ls;
        CHECK_OK(fsi_levelset_init(&ls, &desc));
        void *block = malloc(fsi_levelset_state_size(&ls));
        fsi_levelset_free(&ls);
        uint64_t straight = short_run(1, dim, 14, block, 0);
        ASSERT(straight != 0);
        ASSERT(short_run(1, dim, 14, block, 1) == straight);
        free(block);
    }
    PASS();
}

TEST G_03_bad_input_and_failing_allocator(void) {
    fsi_levelset_desc desc = box(10, 10, 1, 0.1);
    fsi_levelset ls;
    fsi_real u0[110], u1[110];
    const fsi_real *u[3];
    memset(&ls, 0, sizeof ls);
    fsi_levelset_free(&ls);
    fail_allocator f = fail_begin(0);
    desc.allocator = fail_make(&f);
    CHECK_RESULT(FSI_ERR_MEMORY, fsi_levelset_init(&ls, &desc));
    ASSERT_EQ(0, f.live);
    f = fail_begin(1);
    CHECK_OK(fsi_levelset_init(&ls, &desc));
    ASSERT_EQ(1, f.live);
    ball b;
    b.x = 0.5;
    b.y = 0.5;
    b.z = 0;
    b.r = 0.3;
    memset(u0, 0, sizeof u0);
    memset(u1, 0, sizeof u1);
    u[0] = u0;
    u[1] = u1;
    u[2] = NULL;
    CHECK_OK(fsi_levelset_shape(&ls, ball_fn, &b, 1, NULL));
    uint64_t before = state_hash(&ls);
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_levelset_advance(&ls, u, NULL, FSI_R(-0.1), NULL));
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_levelset_advance(&ls, u, NULL, (fsi_real)NAN, NULL));
    u1[50] = (fsi_real)INFINITY;
    CHECK_RESULT(FSI_ERR_NUMERIC, fsi_levelset_advance(&ls, u, NULL, FSI_R(0.1), NULL));
    ASSERT(before == state_hash(&ls));
    /* nothing allocated on the way */
    ASSERT_EQ(1, f.calls);
    fsi_levelset_free(&ls);
    fsi_levelset_free(&ls);
    ASSERT_EQ(0, f.live);
    desc = box(0, 10, 1, 0.1);
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_levelset_init(&ls, &desc));
    desc = box(10, 10, 1, 0.0);
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_levelset_init(&ls, &desc));
    desc = box(10, 10, 1, NAN);
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_levelset_init(&ls, &desc));
    desc = box(2000000000, 2000000000, 1000, 0.1);
    CHECK_RESULT(FSI_ERR_SIZE, fsi_levelset_init(&ls, &desc));
    desc = box(10, 10, 1, 0.1);
    desc.particles = 99;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_levelset_init(&ls, &desc));
    PASS();
}

TEST G_04_little_room_is_reported(void) {
    fsi_levelset_desc desc = box(30, 30, 1, 0.1);
    ball b;
    b.x = 1.5;
    b.y = 1.5;
    b.z = 0;
    b.r = 1;
    desc.particle_room = 100;
    fsi_levelset ls;
    CHECK_OK(fsi_levelset_init(&ls, &desc));
    CHECK_RESULT(FSI_CAPPED, fsi_levelset_shape(&ls, ball_fn, &b, 1, NULL));
    ASSERT_EQ(100, (int)ls.state->count);
    fsi_levelset_free(&ls);
    desc = box(64, 64, 64, 0.1);
    desc.particles = -1;
    CHECK_OK(fsi_levelset_init(&ls, &desc));
    printf("  %.0f bytes per cell without markers\n", (double)ls.block_size / (double)ls.cells);
    CHECK_MOST((double)ls.block_size / (double)ls.cells, 60);
    fsi_levelset_free(&ls);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv) {
    GREATEST_MAIN_BEGIN();
    RUN_TEST(F_07_zalesak_disk);
    RUN_TEST(F_08_vortex_in_a_box);
    RUN_TEST(F_08_enright_3d);
    RUN_TEST(F_09_redistance_keeps_the_surface);
    RUN_TEST(F_09_planes_are_exact);
    RUN_TEST(V_01_volume_of_planes_and_balls);
    RUN_TEST(V_02_volume_correction_reports);
    RUN_TEST(V_04_markers_follow_the_correction);
    RUN_TEST(V_03_shapes_add_cut_and_keep_the_books);
    RUN_TEST(E_01_extrapolation_is_constant_along_normals);
    RUN_TEST(E_02_solid_cells_continue_the_surface);
    RUN_TEST(E_03_seeds_stay_on_their_side_of_a_shell);
    RUN_TEST(G_01_same_bits_for_any_thread_count);
    RUN_TEST(G_02_restored_run_continues_bit_for_bit);
    RUN_TEST(G_03_bad_input_and_failing_allocator);
    RUN_TEST(G_04_little_room_is_reported);
    GREATEST_MAIN_END();
}
