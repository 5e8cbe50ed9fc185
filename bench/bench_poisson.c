/* Benchmarks of the multigrid in fsi_linalg.h. bench NAME VALUE UNIT.
   Problems: smoke = unit box, open top, solid ball of radius 0.2; pool = 60 % full, air above,
   eight boxes. Arguments (used by bench/peers.sh): N kind rhs prints one line in the peers' form:
   name, problem, N, unknowns, threads, tolerance, set-up s (memory and all), solve s, iterations,
   residual, MB, ns per unknown and digit, then the solve in Laplacian applies, a new mask over a
   solve, bytes per cell with b and p. kind 0 smoke, 1 pool; rhs 0 noise, 1 smooth. */
#include "fsi_linalg.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench.h"

typedef struct bench_case {
    int n, kind;
    size_t cells;
    uint8_t *cell;
    fsi_real *b, *p;
    fsi_mg mg;
} bench_case;

/* A number in [0, 1) from any other (splitmix64). */
static double mix(uint64_t z) {
    z += (uint64_t)0x9e3779b9u << 32 | 0x7f4a7c15u;
    z = (z ^ (z >> 30)) * ((uint64_t)0xbf58476du << 32 | 0x1ce4e5b9u);
    z = (z ^ (z >> 27)) * ((uint64_t)0x94d049bbu << 32 | 0x133111ebu);
    return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

/* The next number in [0, 1) of a sequence (linear congruential generator). */
static double next_random(uint64_t *seed) {
    const uint64_t factor = (uint64_t)0x5851f42du << 32 | 0x4c957f2du;
    const uint64_t term = (uint64_t)0x14057b7eu << 32 | 0xf767814fu;
    *seed = *seed * factor + term;
    return (double)(*seed >> 11) / 9007199254740992.0;
}

/* Obstacles of the pool, the same in every run. */
enum {
    BOXES = 8
};

typedef struct bench_box {
    double lo[3];
    double hi[3];
} bench_box;

static void make_boxes(bench_box box[BOXES]) {
    uint64_t seed = 12345;
    for (int n = 0; n < BOXES; n++) {
        double random[6];
        for (int i = 0; i < 6; i++)
            random[i] = next_random(&seed);
        for (int axis = 0; axis < 3; axis++) {
            double across = 0.1 + 0.8 * random[axis];
            double upward = 0.05 + 0.5 * random[axis];
            double centre = axis < 2 ? across : upward;
            double half = 0.03 + 0.07 * random[3 + axis];
            box[n].lo[axis] = centre - half;
            box[n].hi[axis] = centre + half;
        }
    }
}

static int in_box(const bench_box *box, const double x[3]) {
    for (int axis = 0; axis < 3; axis++)
        if (!(x[axis] > box->lo[axis] && x[axis] < box->hi[axis]))
            return 0;
    return 1;
}

/* Smoke: a solid ball in the middle. */
static int smoke_cell(const double x[3]) {
    double squared = 0;
    for (int axis = 0; axis < 3; axis++)
        squared += (x[axis] - 0.5) * (x[axis] - 0.5);
    return squared < 0.04 ? FSI_CELL_NEUMANN : FSI_CELL_FLUID;
}

/* Pool: boxes, water up to 0.6, air above. */
static int pool_cell(const double x[3], const bench_box box[BOXES]) {
    for (int n = 0; n < BOXES; n++)
        if (in_box(&box[n], x))
            return FSI_CELL_NEUMANN;
    return x[2] >= 0.6 ? FSI_CELL_DIRICHLET : FSI_CELL_FLUID;
}

/* Indices of cell c along the three axes. */
static void cell_at(const bench_case *t, size_t c, int at[3]) {
    size_t n = (size_t)t->n;
    at[0] = (int)(c % n);
    at[1] = (int)(c / n % n);
    at[2] = (int)(c / n / n);
}

static size_t cell_index(const bench_case *t, const int at[3]) {
    size_t n = (size_t)t->n;
    return (size_t)at[0] + n * ((size_t)at[1] + n * (size_t)at[2]);
}

/* Type of a cell that may lie outside the box, which is open above. */
static int type_at(const bench_case *t, const int at[3]) {
    for (int axis = 0; axis < 3; axis++) {
        int above = axis == 2 && at[axis] >= t->n;
        if (above)
            return FSI_CELL_DIRICHLET;
        if (at[axis] < 0 || at[axis] >= t->n)
            return FSI_CELL_NEUMANN;
    }
    return t->cell[cell_index(t, at)];
}

/* A smooth flow: its component along an axis. */
static double smooth_flow(int axis, const double x[3]) {
    const double tau = 6.283185307179586;
    switch (axis) {
    case 0:
        return sin(tau * x[1]) * cos(tau * x[2]);
    case 1:
        return 0.3 * cos(tau * x[0]);
    default:
        return -1;
    }
}

/* Divergence of the smooth flow with no flux through solids: what a fluid step asks for. */
static double smooth_rhs(const bench_case *t, const int at[3]) {
    double h = 1.0 / t->n;
    double sum = 0;
    for (int face = 0; face < 6; face++) {
        int axis = face >> 1;
        int sign = face & 1 ? 1 : -1;
        int beside[3] = {at[0], at[1], at[2]};
        double x[3] = {(at[0] + 0.5) * h, (at[1] + 0.5) * h, (at[2] + 0.5) * h};
        beside[axis] += sign;
        x[axis] = (at[axis] + 0.5 + 0.5 * sign) * h;
        if (type_at(t, beside) != FSI_CELL_NEUMANN)
            sum -= sign * smooth_flow(axis, x);
    }
    return sum;
}

/* Types of all cells. Pockets without air become solid, as the peers have it. */
static void make_cells(bench_case *t) {
    bench_box box[BOXES];
    make_boxes(box);
    for (size_t c = 0; c < t->cells; c++) {
        int at[3];
        cell_at(t, c, at);
        double x[3];
        for (int axis = 0; axis < 3; axis++)
            x[axis] = (at[axis] + 0.5) / t->n;
        t->cell[c] = (uint8_t)(t->kind == 0 ? smoke_cell(x) : pool_cell(x, box));
    }
    fsi_mg_update(&t->mg, t->cell, NULL);
    for (size_t c = 0; c < t->cells; c++)
        if (t->mg.label[c] >= 0)
            t->cell[c] = FSI_CELL_NEUMANN;
    fsi_mg_update(&t->mg, t->cell, NULL);
}

/* rhs 0: noise, 1: smooth. */
static void make_rhs(bench_case *t, int rhs) {
    const uint64_t salt = (uint64_t)0x1234567 * (uint64_t)t->n;
    for (size_t c = 0; c < t->cells; c++) {
        int at[3];
        cell_at(t, c, at);
        if (t->cell[c] == FSI_CELL_FLUID)
            t->b[c] = (fsi_real)(rhs ? smooth_rhs(t, at) : 2 * mix(c + salt) - 1);
    }
}

static int case_make(bench_case *t, int n, int kind, int rhs) {
    memset(t, 0, sizeof *t);
    t->n = n;
    t->kind = kind;
    t->cells = (size_t)n * (size_t)n * (size_t)n;
    t->cell = (uint8_t *)malloc(t->cells);
    t->b = (fsi_real *)calloc(t->cells, sizeof *t->b);
    t->p = (fsi_real *)calloc(t->cells, sizeof *t->p);
    if (!t->cell || !t->b || !t->p)
        return 0;

    fsi_mg_desc desc = {.nx = n, .ny = n, .nz = n};
    desc.open[5] = 1;
    if (fsi_mg_init(&t->mg, &desc) < 0)
        return 0;
    make_cells(t);
    make_rhs(t, rhs);
    return 1;
}

static void case_free(bench_case *t) {
    fsi_mg_free(&t->mg);
    free(t->cell);
    free(t->b);
    free(t->p);
}

/* b - A p of a cell, without the library. */
static double cell_residual(const bench_case *t, size_t c) {
    int at[3];
    cell_at(t, c, at);
    double rest = (double)t->b[c];
    for (int face = 0; face < 6; face++) {
        int axis = face >> 1;
        int beside[3] = {at[0], at[1], at[2]};
        beside[axis] += face & 1 ? 1 : -1;
        int type = type_at(t, beside);
        if (type == FSI_CELL_NEUMANN)
            continue;
        double p_beside = type == FSI_CELL_FLUID ? (double)t->p[cell_index(t, beside)] : 0;
        rest -= (double)t->p[c] - p_beside;
    }
    return rest;
}

/* Residual |b - A p| / |b|. */
static double residual(const bench_case *t) {
    double squares = 0;
    double squares_b = 0;
    for (size_t c = 0; c < t->cells; c++) {
        if (t->cell[c] != FSI_CELL_FLUID)
            continue;
        double rest = cell_residual(t, c);
        squares += rest * rest;
        squares_b += (double)t->b[c] * (double)t->b[c];
    }
    return sqrt(squares / squares_b);
}

/* The yardstick: one 7-point Laplacian without masks, compiled like the library. */
static void plain_laplacian(int n, const fsi_real *x, fsi_real *y) {
    ptrdiff_t sy = n;
    ptrdiff_t sz = (ptrdiff_t)n * n;
#ifdef _OPENMP
#pragma omp parallel for schedule(static)
#endif
    for (int k = 1; k < n - 1; k++) {
        for (int j = 1; j < n - 1; j++) {
            const fsi_real *a = x + sz * k + sy * j;
            fsi_real *b = y + sz * k + sy * j;
            for (int i = 1; i < n - 1; i++)
                b[i] =
                    6 * a[i] - a[i - 1] - a[i + 1] - a[i - sy] - a[i + sy] - a[i - sz] - a[i + sz];
        }
    }
}

typedef struct timing {
    double setup, solve, apply, cycle, plain;
    int iterations;
    fsi_result result;
} timing;

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

#define REPEATS 5

/* Medians after one warm-up. */
static timing measure(bench_case *t, double tolerance) {
    double s[5][REPEATS];
    fsi_mg_solve_desc desc;
    memset(&desc, 0, sizeof desc);
    timing out;
    memset(&out, 0, sizeof out);
    desc.tolerance = tolerance;
    fsi_report report;
    fsi_mg_solve(&t->mg, &desc, t->b, t->p, &report);

    for (int q = 0; q < REPEATS; q++) {
        double t0 = now();
        fsi_mg_update(&t->mg, t->cell, NULL);
        s[0][q] = now() - t0;
        fsi_mg_apply(&t->mg, t->b, t->p);
        t0 = now();
        fsi_mg_apply(&t->mg, t->b, t->p);
        s[2][q] = now() - t0;
        t0 = now();
        plain_laplacian(t->n, t->b, t->p);
        s[4][q] = now() - t0;
        t0 = now();
        fsi_mg_cycle(&t->mg, t->b, t->p);
        s[3][q] = now() - t0;
        t0 = now();
        out.result = fsi_mg_solve(&t->mg, &desc, t->b, t->p, &report);
        s[1][q] = now() - t0;
    }

    for (int q = 0; q < 5; q++)
        qsort(s[q], REPEATS, sizeof(double), by_value);
    out.setup = s[0][REPEATS / 2];
    out.solve = s[1][REPEATS / 2];
    out.apply = s[2][REPEATS / 2];
    out.cycle = s[3][REPEATS / 2];
    out.plain = s[4][REPEATS / 2];
    out.iterations = report.iterations;
    return out;
}

/* Copy bandwidth in GB/s: bytes read plus bytes written. */
static double copy_bandwidth(void) {
    ptrdiff_t n = 8 << 20;
    double *a = (double *)calloc((size_t)n, sizeof *a);
    double *b = (double *)calloc((size_t)n, sizeof *b);
    double best = 1e30;
    if (!a || !b)
        return 0;

    for (ptrdiff_t i = 0; i < n; i++)
        a[i] = (double)i;

    for (int q = 0; q < 6; q++) {
        double t0 = now();
#ifdef _OPENMP
#pragma omp parallel for schedule(static)
#endif
        for (ptrdiff_t i = 0; i < n; i++)
            b[i] = a[i];
        if (now() - t0 < best)
            best = now() - t0;
    }

    free(a);
    free(b);
    return 16e-9 * (double)n / best;
}

static void bench_problem(const char *name, int n, int kind, int threads, double alone[1]) {
    char full[64];
    use_threads(threads);
    bench_case t;
    if (!case_make(&t, n, kind, 0)) {
        printf("bench %s 0 out_of_memory\n", name);
        return;
    }

    timing m = measure(&t, sizeof(fsi_real) == 8 ? 1e-6 : 1e-4);
    snprintf(full, sizeof full, "%s_t%d", name, threads);
    printf("bench %s %.4f s\n", full, m.solve);
    if (threads > 1)
        printf("bench %s_speedup %.2f x\n", full, alone[0] / m.solve);
    else
        alone[0] = m.solve;
    printf("bench %s_iterations %d iterations\n", full, m.iterations);
    printf("bench %s_applies %.1f applies\n", full, m.solve / m.plain);
    printf("bench %s_newmask %.4f s\n", full, m.setup);
    printf("bench %s_newmask_share %.3f x\n", full, m.setup / m.solve);
    printf("bench %s_residual %.2e relative\n", full, residual(&t));
    if (threads == most_threads()) {
        bench_pair(name, alone[0], m.solve, "s");
        printf("bench %s_iterations %d iterations\nbench %s_applies %.1f applies\n", name,
               m.iterations, name, m.solve / m.plain);
    }

    if (threads == 1)
        printf("bench %s_memory %.1f bytes_per_cell\n", name,
               (double)t.mg.bytes / (double)t.cells + 2.0 * sizeof(fsi_real));
    case_free(&t);
}

/* Bytes a fused pass must move: apply reads x and the count, writes y; the cycle reads f and kinds
 * on both ways and writes x, levels 8/7. */
static void bench_kernels(int n, int threads, double alone[4]) {
    use_threads(threads);
    bench_case t;
    if (!case_make(&t, n, 0, 0))
        return;
    double cells = (double)t.cells;
    timing m = measure(&t, 1e-2);
    double copy = copy_bandwidth();
    double apply = (2.0 * sizeof(fsi_real) + 1) * cells / m.apply * 1e-9;

    /* with r in, z out and the projection's look at both */
    double cycle = (8.0 / 7.0 * (2 * 5 + 2 * 4) + 5.0 * sizeof(fsi_real)) * cells / m.cycle * 1e-9;
    printf("bench copy_t%d %.1f GB/s\n", threads, copy);
    printf("bench laplacian_%d_t%d %.1f GB/s\nbench laplacian_%d_t%d_share %.2f x\n", n, threads,
           apply, n, threads, apply / copy);
    printf("bench vcycle_%d_t%d %.1f GB/s\nbench vcycle_%d_t%d_share %.2f x\n", n, threads, cycle,
           n, threads, cycle / copy);
    printf("bench vcycle_%d_t%d_applies %.2f applies\n", n, threads, m.cycle / m.plain);
    if (threads == 1) {
        alone[0] = m.apply;
        alone[1] = m.cycle;
        alone[2] = apply;
        alone[3] = cycle;
    }

    if (threads == most_threads()) {
        printf("bench laplacian %.4g GB/s\nbench laplacian_1thread %.4g GB/s\nbench "
               "laplacian_speedup %.2f x\nbench laplacian_share %.2f x\n",
               apply, alone[2], alone[0] / m.apply, apply / copy);
        printf("bench vcycle %.4g GB/s\nbench vcycle_1thread %.4g GB/s\nbench vcycle_speedup %.2f "
               "x\nbench vcycle_share %.2f x\n",
               cycle, alone[3], alone[1] / m.cycle, cycle / copy);
    }

    case_free(&t);
}

static int peer_line(int n, int kind, int rhs) {
    bench_case t;
    if (n < 4 || !case_make(&t, n, kind, rhs))
        return 1;
    timing m = measure(&t, 1e-6);
    double r = residual(&t);
    double bytes = (double)t.mg.bytes + 2.0 * (double)t.cells * sizeof(fsi_real);
    double whole = now();
    {
        fsi_mg mg;
        if (fsi_mg_init(&mg, &t.mg.desc) < 0)
            return 1;
        fsi_mg_update(&mg, t.cell, NULL);
        whole = now() - whole;
        fsi_mg_free(&mg);
    }

    printf("fsi,%s%s,%d,%ld,%d,1e-06,%.4f,%.4f,%d,%.3e,%.0f,%.1f,%.2f,%.3f,%.1f\n",
           kind ? "pool" : "smoke", rhs ? "-grav" : "", n, (long)t.mg.fluid, max_threads(), whole,
           m.solve, m.iterations, r, bytes / 1048576.0,
           1e9 * m.solve / (double)t.mg.fluid / -log10(r), m.solve / m.plain, m.setup / m.solve,
           bytes / (double)t.cells);
    case_free(&t);
    return m.result < 0;
}

/* Iterations to 1e-6 from 32 to 256 cells a side: box (closed), sphere (removed, open top), pool
 * (boxes and air), plate (closed faces right across). */
static int scene_iterations(int scene, int dim, int n) {
    static const double box[3][6] = {{0.1, 0.3, 0.2, 0.4, 0.1, 0.35},
                                     {0.5, 0.8, 0.1, 0.3, 0.0, 0.2},
                                     {0.45, 0.6, 0.5, 0.75, 0.3, 0.62}};
    int nz = dim == 3 ? n : 1;
    size_t cells = (size_t)n * (size_t)n * (size_t)nz;
    size_t wide = (size_t)(n + 1) * (size_t)n * (size_t)nz;
    uint8_t *cell = (uint8_t *)calloc(cells, 1);
    fsi_real *b = (fsi_real *)calloc(cells, sizeof *b);
    fsi_real *p = (fsi_real *)calloc(cells, sizeof *p);
    fsi_real *wx = scene == 3 ? (fsi_real *)malloc(wide * sizeof *wx) : NULL;
    const fsi_real *w[3] = {NULL, NULL, NULL};
    fsi_mg_desc desc;
    memset(&desc, 0, sizeof desc);
    fsi_mg_solve_desc given;
    memset(&given, 0, sizeof given);
    fsi_report report;
    memset(&report, 0, sizeof report);
    given.tolerance = sizeof(fsi_real) == 8 ? 1e-6 : 1e-4;
    desc.nx = desc.ny = n;
    desc.nz = nz;
    desc.open[dim == 3 ? 5 : 3] = scene == 1 || scene == 3;

    for (size_t c = 0; c < wide && wx; c++)
        wx[c] = c % (size_t)(n + 1) == (size_t)(5 * n / 8 + 1) ? 0 : 1;
    w[0] = wx;
    int q;

    for (size_t c = 0; c < cells && cell; c++) {
        double x = ((double)(c % (size_t)n) + 0.5) / n;
        double y = ((double)(c / (size_t)n % (size_t)n) + 0.5) / n;
        double z = dim == 3 ? ((double)(c / (size_t)n / (size_t)n) + 0.5) / n : 0.5;
        double up = dim == 3 ? z : y;
        double side = dim == 3 ? y : 0.25;
        if (scene == 1
            && (x - 0.5) * (x - 0.5) + (y - 0.5) * (y - 0.5) + (z - 0.5) * (z - 0.5) < 0.04)
            cell[c] = FSI_CELL_NEUMANN;
        if (scene == 2 && up > 0.6)
            cell[c] = FSI_CELL_DIRICHLET;
        for (q = 0; q < 3 && scene == 2; q++)
            if (x > box[q][0] && x < box[q][1] && side > box[q][2] && side < box[q][3]
                && up > box[q][4] && up < box[q][5])
                cell[c] = FSI_CELL_NEUMANN;
        if (b && cell[c] == FSI_CELL_FLUID)
            b[c] = (fsi_real)(2 * mix(c) - 1);
    }

    q = -1;

    fsi_mg mg;
    if (cell && b && p && (scene != 3 || wx) && fsi_mg_init(&mg, &desc) == FSI_OK) {
        fsi_mg_update(&mg, cell, w);
        fsi_mg_project(&mg, b);
        if (fsi_mg_solve(&mg, &given, b, p, &report) == FSI_OK)
            q = report.iterations;
        fsi_mg_free(&mg);
    }

    free(cell);
    free(b);
    free(p);
    free(wx);
    return q;
}

static void bench_growth(void) {
    static const char *const name[4] = {"box", "sphere", "pool", "plate"};

    for (int dim = 2; dim <= 3; dim++)
        for (int scene = 0; scene < 4; scene++) {
            int first = 0;
            int worst = 0;
            for (int n = 32; n <= 256; n *= 2) {
                int it = scene_iterations(scene, dim, n);
                if (n == 32)
                    first = it;
                if (it < 0 || it - first > worst)
                    worst = it < 0 ? 999 : it - first;
                printf("bench poisson_%s_%dd_%d %d iterations\n", name[scene], dim, n, it);
            }
            printf("bench poisson_%s_%dd_growth %d iterations\n", name[scene], dim, worst);
        }
}

int main(int argc, char **argv) {
    double alone[3][1];
    double kernels[4] = {0, 0, 0, 0};
    int limit = most_threads();
    if (argc > 3)
        return peer_line(atoi(argv[1]), atoi(argv[2]), atoi(argv[3]));

    for (int threads = 1; threads <= limit; threads++) {
        bench_problem("poisson_smoke_128", 128, 0, threads, alone[0]);
        bench_problem("poisson_pool_128", 128, 1, threads, alone[1]);
        bench_problem("poisson_smoke_256", 256, 0, threads, alone[2]);
        bench_kernels(128, threads, kernels);
    }

    bench_growth();
    return 0;
}
