/* Tests of the geometric multigrid in fsi_linalg.h. The slow obvious version is `obvious`: the
   operator written cell by cell from the mask and the weights, with regions found by relabelling
   until nothing changes. */
#define FSI_IMPLEMENTATION
#define FSI_LINALG_IMPLEMENTATION /* it looks inside, so it compiles this one itself */
#include "fsi_linalg.h"
#include "greatest.h"
#include "check.h"

/* ------------------------------------------------------------------------------------------------
 * problems */
typedef struct problem {
    fsi_mg_desc desc;
    uint8_t *cell;
    fsi_real *w[3]; /* NULL = 1 */
    int cells;
} problem;

static uint64_t seed = 1;

static double unit(void) {
    return (check_random(&seed) + 1) / 2;
}

static problem make(int nx, int ny, int nz, int weighted) {
    problem p;
    int n[3];
    memset(&p, 0, sizeof p);
    p.desc.nx = nx;
    p.desc.ny = ny;
    p.desc.nz = nz;
    p.cells = nx * ny * nz;
    p.cell = (uint8_t *)calloc((size_t)p.cells, 1);
    n[0] = (nx + 1) * ny * nz;
    n[1] = nx * (ny + 1) * nz;
    n[2] = nx * ny * (nz + 1);
    for (int a = 0; a < 3 && weighted; a++) {
        p.w[a] = (fsi_real *)malloc((size_t)n[a] * sizeof(fsi_real));
        for (int i = 0; i < n[a]; i++)
            p.w[a][i] = 1;
    }
    return p;
}

static void drop(problem *p) {
    free(p->cell);
    free(p->w[0]);
    free(p->w[1]);
    free(p->w[2]);
}

static fsi_real *vector(const problem *p) {
    return (fsi_real *)calloc((size_t)p->cells, sizeof(fsi_real));
}

static int index_of(const problem *p, int i, int j, int k) {
    return i + p->desc.nx * (j + p->desc.ny * k);
}

static int size_of(const problem *p, int axis) {
    return axis == 0 ? p->desc.nx : axis == 1 ? p->desc.ny : p->desc.nz;
}

static int type_at(const problem *p, const int c[3]) {
    for (int a = 0; a < 3; a++) {
        int up = c[a] >= size_of(p, a);
        if (c[a] >= 0 && !up)
            continue;
        return a == 2 && p->desc.nz == 1  ? FSI_CELL_NEUMANN
               : p->desc.open[2 * a + up] ? FSI_CELL_DIRICHLET
                                          : FSI_CELL_NEUMANN;
    }
    return p->cell[index_of(p, c[0], c[1], c[2])];
}

static fsi_real *weight_at(const problem *p, int i, int j, int k, int d) {
    int a = d >> 1, nx = p->desc.nx + (a == 0), ny = p->desc.ny + (a == 1);
    if (!p->w[a])
        return NULL;
    i += d == 1;
    j += d == 3;
    k += d == 5;
    return p->w[a] + i + nx * (j + ny * k);
}

/* y = A x and the number of regions without Dirichlet cells; label may be NULL */
static int obvious(const problem *p, const fsi_real *x, fsi_real *y, int *label) {
    int changed = 1, regions = 0, c;
    size_t count = (size_t)(unsigned)p->cells;
    int *root = (int *)malloc(count * sizeof *root), *air = (int *)calloc(count, sizeof *air);
    for (c = 0; c < p->cells; c++)
        root[c] = c;
    int k;
    while (changed)
        for (changed = 0, k = 0; k < p->desc.nz; k++)
            for (int j = 0; j < p->desc.ny; j++)
                for (int i = 0; i < p->desc.nx; i++) {
                    double s = 0;
                    c = index_of(p, i, j, k);
                    for (int d = 0; d < 6 && p->cell[c] == FSI_CELL_FLUID; d++) {
                        int n[3];
                        const fsi_real *w = weight_at(p, i, j, k, d);
                        n[0] = i;
                        n[1] = j;
                        n[2] = k;
                        n[d >> 1] += d & 1 ? 1 : -1;
                        int t = type_at(p, n);
                        if (t == FSI_CELL_NEUMANN || (w && *w <= 0))
                            continue;
                        if (t == FSI_CELL_DIRICHLET) {
                            s += (w ? (double)*w : 1) * (double)x[c];
                            if (!air[c])
                                air[c] = changed = 1;
                            continue;
                        }
                        int o = index_of(p, n[0], n[1], n[2]);
                        s += (w ? (double)*w : 1) * ((double)x[c] - (double)x[o]);
                        if (root[o] < root[c]) {
                            root[c] = root[o];
                            changed = 1;
                        }
                        if (air[o] && !air[c])
                            air[c] = changed = 1;
                    }
                    y[c] = (fsi_real)s;
                }
    for (c = 0; c < p->cells; c++) {
        int closed = p->cell[c] == FSI_CELL_FLUID && !air[c];
        regions += closed && root[c] == c;
        if (label)
            label[c] = closed ? root[c] : -1;
    }
    free(root);
    free(air);
    return regions;
}

/* Noise on the fluid, without the mean of each closed region when label is given. */
static void noise(const problem *p, fsi_real *b, const int *label) {
    for (int c = 0; c < p->cells; c++)
        b[c] = p->cell[c] == FSI_CELL_FLUID ? (fsi_real)check_random(&seed) : 0;
    for (int r = 0; label && r < p->cells; r++) {
        double s = 0, n = 0;
        if (label[r] != r)
            continue;
        for (int c = r; c < p->cells; c++)
            if (label[c] == r) {
                s += (double)b[c];
                n++;
            }
        for (int c = r; c < p->cells; c++)
            if (label[c] == r)
                b[c] -= (fsi_real)(s / n);
    }
}

static fsi_result start(fsi_mg *mg, const problem *p) {
    fsi_result result = fsi_mg_init(mg, &p->desc);
    const fsi_real *w[3];
    w[0] = p->w[0];
    w[1] = p->w[1];
    w[2] = p->w[2];
    return result < 0 ? result : fsi_mg_update(mg, p->cell, w);
}

static double true_residual(const fsi_mg *mg, const problem *p, const fsi_real *b,
                            const fsi_real *x) {
    fsi_real *y = vector(p);
    double s = 0, t = 0;
    fsi_mg_apply(mg, x, y);
    for (int c = 0; c < p->cells; c++)
        if (p->cell[c] == FSI_CELL_FLUID) {
            s += pow((double)b[c] - (double)y[c], 2);
            t += pow((double)b[c], 2);
        }
    free(y);
    return t > 0 ? sqrt(s / t) : sqrt(s);
}

/* The scenes on n cells per side: 0 closed box, 1 open top, 2 sphere (disc) removed, 3 pool with
   boxes and air, 4 pool with a slanted surface and ghost-fluid weights, 5 plates with a gap, 6 a
   plate right across, 7 the same in a closed box, 8 a shell (closed sphere of faces). */
enum {
    BOX,
    OPEN,
    SPHERE,
    POOL,
    GHOST,
    PLATES,
    ACROSS,
    SPLIT,
    SHELL,
    SCENES
};

static double surface(double x, double y) {
    return 0.6 + 0.2 * (x - 0.5) + 0.05 * sin(12 * x) * cos(9 * y);
}

static void scene_cell(problem *p, int scene, int n, int i, int j, int k) {
    static const double box[4][6] = {{0.1, 0.3, 0.2, 0.4, 0.1, 0.35},
                                     {0.5, 0.8, 0.1, 0.3, 0.0, 0.2},
                                     {0.45, 0.6, 0.5, 0.75, 0.3, 0.62},
                                     {0.7, 0.75, 0.6, 0.9, 0.2, 0.5}};
    double x = (i + 0.5) / n, up = ((p->desc.nz > 1 ? k : j) + 0.5) / n,
           y = p->desc.nz > 1 ? (j + 0.5) / n : 0.5;
    uint8_t *c = p->cell + index_of(p, i, j, k);
    if (scene == SPHERE
        && (x - 0.5) * (x - 0.5) + (y - 0.5) * (y - 0.5) + (up - 0.5) * (up - 0.5) < 0.04)
        *c = FSI_CELL_NEUMANN;
    if (scene == POOL && up > 0.6)
        *c = FSI_CELL_DIRICHLET;
    if (scene == GHOST && up > surface(x, y))
        *c = FSI_CELL_DIRICHLET;
    for (int q = 0; q < 4 && scene == POOL; q++)
        if (x > box[q][0] && x < box[q][1] && (p->desc.nz == 1 || (y > box[q][2] && y < box[q][3]))
            && up > box[q][4] && up < box[q][5])
            *c = FSI_CELL_NEUMANN;
}

static double shell(const problem *p, int n, int i, int j, int k) {
    double x = (i + 0.5) / n - 0.5, y = (j + 0.5) / n - 0.5,
           z = p->desc.nz > 1 ? (k + 0.5) / n - 0.5 : 0;
    return sqrt(x * x + y * y + z * z) - 0.31;
}

static void scene_faces(problem *p, int scene, int n, int i, int j, int k) {
    int top = p->desc.nz > 1 ? 4 : 2, up = p->desc.nz > 1 ? k : j, c[3];
    for (int d = 0; d < 6; d += 2) { /* lower faces */
        fsi_real *w = weight_at(p, i, j, k, d);
        c[0] = i - (d == 0);
        c[1] = j - (d == 2);
        c[2] = k - (d == 4);
        if ((scene == PLATES && d == 0 && i == n / 2 + n / 8 + 1 && up < 0.8 * n)
            || (scene == PLATES && d == top && up == n / 3 && i < 0.4 * n)
            || ((scene == ACROSS || scene == SPLIT) && d == 0 && i == 5 * n / 8 + 1))
            *w = 0;
        if (scene == SHELL && shell(p, n, i, j, k) * shell(p, n, c[0], c[1], c[2]) < 0)
            *w = 0;
        if (scene == GHOST && c[d / 2] >= 0) {
            double h = 1.0 / n, fy = p->desc.nz > 1 ? (j + 0.5) * h : 0.5,
                   a = (up + 0.5) * h - surface((i + 0.5) * h, fy);
            double b = ((p->desc.nz > 1 ? c[2] : c[1]) + 0.5) * h
                       - surface((c[0] + 0.5) * h, p->desc.nz > 1 ? (c[1] + 0.5) * h : 0.5);
            int o = p->cell[index_of(p, i, j, k)] != p->cell[index_of(p, c[0], c[1], c[2])];
            if (o)
                *w = (fsi_real)(1
                                / fmin(1, fmax(0.002, (a < b ? a : b)
                                                          / ((a < b ? a : b) - (a < b ? b : a)))));
        }
    }
}

static problem scene_make(int scene, int dim, int n) {
    problem p = make(n, n, dim == 3 ? n : 1, scene >= GHOST);
    p.desc.open[dim == 3 ? 5 : 3] =
        scene == OPEN || scene == SPHERE || (scene >= PLATES && scene != SPLIT);
    for (int pass = 0; pass < 2; pass++)
        for (int k = 0; k < p.desc.nz; k++)
            for (int j = 0; j < n; j++)
                for (int i = 0; i < n; i++)
                    if (pass == 0)
                        scene_cell(&p, scene, n, i, j, k);
                    else if (scene >= GHOST)
                        scene_faces(&p, scene, n, i, j, k);
    return p;
}

/* Iterations on a scene; -1 on any failure. Label-free: closed regions are made compatible by
 * fsi_mg_project. */
static int scene_iterations(int scene, int dim, int n, double *bytes) {
    problem p = scene_make(scene, dim, n);
    fsi_mg_solve_desc desc;
    fsi_real *b = vector(&p), *x = vector(&p);
    memset(&desc, 0, sizeof desc);
    desc.tolerance = TOL(1e-6, 1e-4);
    fsi_mg mg;
    int ok = start(&mg, &p) == FSI_OK;
    noise(&p, b, NULL);
    fsi_mg_project(&mg, b);
    /* float: the rounding of p */
    fsi_report report;
    ok = ok && fsi_mg_solve(&mg, &desc, b, x, &report) == FSI_OK
         && true_residual(&mg, &p, b, x) <= TOL(1.001, 1.5) * desc.tolerance;
    if (bytes)
        *bytes = (double)mg.bytes / p.cells + 2 * sizeof(fsi_real);
    fsi_mg_free(&mg);
    drop(&p);
    free(b);
    free(x);
    return ok ? report.iterations : -1;
}

/* ------------------------------------------------------------------------------------------------
 * operator */
static double mode(int open, int k, int i, int n) {
    return open ? sin(3.14159265358979323846 * (k + 1) * (i + 1) / (n + 1))
                : cos(3.14159265358979323846 * k * (i + 0.5) / n);
}

static double eigen(int open, int k, int n) {
    return 2
           - 2
                 * cos(open ? 3.14159265358979323846 * (k + 1) / (n + 1)
                            : 3.14159265358979323846 * k / n);
}

static int spectrum(int dim, int open) {
    int n = 16, modes = dim == 3 ? 16 * 16 * 16 : 256;
    problem p = make(n, n, dim == 3 ? n : 1, 0);
    fsi_real *x = vector(&p), *y = vector(&p);
    double worst = 0;
    for (int s = 0; s < 6; s++)
        p.desc.open[s] = open;
    fsi_mg mg;
    if (start(&mg, &p) != FSI_OK)
        return 0;
    for (int m = 0; m < modes; m += dim == 3 ? 7 : 1) {
        int k0 = m % n, k1 = m / n % n, k2 = m / n / n;
        double lambda =
            eigen(open, k0, n) + eigen(open, k1, n) + (dim == 3 ? eigen(open, k2, n) : 0);
        for (int c = 0; c < p.cells; c++)
            x[c] = (fsi_real)(mode(open, k0, c % n, n) * mode(open, k1, c / n % n, n)
                              * (dim == 3 ? mode(open, k2, c / n / n, n) : 1));
        fsi_mg_apply(&mg, x, y);
        for (int c = 0; c < p.cells; c++)
            worst = fmax(worst, fabs((double)y[c] - lambda * (double)x[c]));
    }
    fsi_mg_free(&mg);
    drop(&p);
    free(x);
    free(y);
    return worst <= TOL(1e-12, 1e-5);
}

TEST L_03_spectra_of_the_mac_laplacian(void) {
    ASSERT(spectrum(2, 0));
    ASSERT(spectrum(2, 1));
    ASSERT(spectrum(3, 0));
    ASSERT(spectrum(3, 1));
    PASS();
}

static double dot(int n, const fsi_real *a, const fsi_real *b) {
    double s = 0;
    for (int i = 0; i < n; i++)
        s += (double)a[i] * (double)b[i];
    return s;
}

/* worst |x.By - y.Bx| / (|x| |y| |B|) over random pairs and the smallest x.Bx / x.x */
static void symmetry(fsi_mg *mg, const problem *p, int cycle, int pairs, double *worst,
                     double *least) {
    fsi_real *x = vector(p), *y = vector(p), *bx = vector(p), *by = vector(p);
    *worst = 0;
    *least = 1e30;
    for (int q = 0; q < pairs; q++) {
        noise(p, x, NULL);
        noise(p, y, NULL);
        if (cycle) {
            fsi_mg_project(mg, x);
            fsi_mg_project(mg, y);
            fsi_mg_cycle(mg, x, bx);
            fsi_mg_cycle(mg, y, by);
        } else {
            fsi_mg_apply(mg, x, bx);
            fsi_mg_apply(mg, y, by);
        }
        double norm = sqrt(dot(p->cells, bx, bx) / dot(p->cells, x, x));
        *worst = fmax(*worst, fabs(dot(p->cells, x, by) - dot(p->cells, y, bx))
                                  / sqrt(dot(p->cells, x, x) * dot(p->cells, y, y)) / norm);
        *least = fmin(*least, dot(p->cells, x, bx) / dot(p->cells, x, x));
    }
    free(x);
    free(y);
    free(bx);
    free(by);
}

TEST L_20_L_21_symmetric_and_positive(void) {
    for (int scene = 0; scene < SCENES; scene++)
        for (int dim = 2; dim <= 3; dim++) {
            problem p = scene_make(scene, dim, dim == 2 ? 45 : 19);
            fsi_mg mg;
            CHECK_OK(start(&mg, &p));
            double worst;
            double least;
            symmetry(&mg, &p, 0, 20, &worst, &least);
            CHECK_MOST(worst, TOL(1e-13, 1e-5));
            ASSERT(least > 0);
            /* the cycle runs in float: symmetric to its rounding */
            symmetry(&mg, &p, 1, 50, &worst, &least);
            CHECK_MOST(worst, 2e-6);
            ASSERT(least > 0);
            fsi_mg_free(&mg);
            drop(&p);
        }
    PASS();
}

/* Random grids of any shape, masks with holes, closed faces, ghost-fluid weights, changing masks:
 * everything against the obvious version. */
static const char *random_case(int q) {
    int m = q % 4 == 3 ? 14 : 8, weighted = unit() < 0.6, fluid = 0;
    problem p = make(1 + (int)(unit() * m), 1 + (int)(unit() * m),
                     unit() < 0.4 ? 1 : 1 + (int)(unit() * m), weighted);
    double air = unit() < 0.5 ? 0 : 0.4 * unit(), solid = unit() < 0.4 ? 0 : 0.6 * unit(),
           shut = unit() < 0.5 ? 0 : 0.5 * unit(), tol = TOL(1e-9, 1e-3);
    fsi_real *x = vector(&p), *y = vector(&p), *z = vector(&p), *b = vector(&p);
    int *label = (int *)malloc((size_t)p.cells * sizeof *label);
    const char *error = NULL;
    fsi_mg_solve_desc desc;
    double size = 0;
    memset(&desc, 0, sizeof desc);
    desc.tolerance = tol;
    for (int d = 0; d < 6; d++)
        p.desc.open[d] = unit() < 0.3;
    for (int c = 0; c < p.cells; c++) {
        double u = unit();
        p.cell[c] = (uint8_t)(u < air ? 1 : u < air + solid ? 2 : 0);
        fluid += !p.cell[c];
    }
    for (int k = 0; k < p.desc.nz && weighted; k++)
        for (int j = 0; j < p.desc.ny; j++)
            for (int i = 0; i < p.desc.nx; i++)
                for (int d = 0; d < 6; d++) {
                    int n[3];
                    n[0] = i;
                    n[1] = j;
                    n[2] = k;
                    n[d >> 1] += d & 1 ? 1 : -1;
                    *weight_at(&p, i, j, k, d) = (fsi_real)(unit() < shut  ? 0
                                                            : unit() < 0.5 ? 1
                                                                           : 0.01 + unit());
                    if (type_at(&p, n) == FSI_CELL_DIRICHLET)
                        *weight_at(&p, i, j, k, d) = (fsi_real)(1 / fmax(0.001, unit()));
                }
    fsi_mg mg;
    if (fsi_mg_init(&mg, &p.desc) != FSI_OK)
        return "init";
    fsi_result got;
    {
        const fsi_real *w[3];
        w[0] = p.w[0];
        w[1] = p.w[1];
        w[2] = p.w[2];
        got = fsi_mg_update(&mg, p.cell, w);
    }
    if (got != (fluid ? FSI_OK : FSI_EMPTY))
        error = "update";
    /* also in cells that are not fluid */
    for (int c = 0; c < p.cells; c++)
        x[c] = (fsi_real)check_random(&seed);
    int regions = obvious(&p, x, y, label);
    fsi_mg_apply(&mg, x, z);
    for (int c = 0; c < p.cells; c++)
        if (!(fabs((double)y[c] - (double)z[c])
              <= TOL(1e-12, 2e-6) * (1 + 20 * fabs((double)y[c]) + 1000 * weighted * !!p.w[0])))
            error = "apply";
    if (regions != mg.regions || (size_t)fluid != mg.fluid)
        error = "regions";
    if (fluid > 1) {
        double worst;
        double least;
        symmetry(&mg, &p, 1, 2, &worst, &least);
        if (!(worst <= 5e-6) && regions == 0)
            error = "symmetry";
        if (!(least >= 0))
            error = "positive";
    }
    noise(&p, b, label);
    for (int c = 0; c < p.cells; c++) {
        x[c] = 7;
        if (p.cell[c])
            b[c] = (fsi_real)NAN;
    }
    fsi_report report;
    got = fsi_mg_solve(&mg, &desc, b, x, &report);
    for (int c = 0; c < p.cells; c++) {
        if (p.cell[c]) {
            b[c] = 0;
            if (x[c] != 0)
                error = "p outside the fluid";
        }
        size += fabs((double)b[c]);
    }
    if (got != (fluid ? FSI_OK : FSI_EMPTY)) {
        printf("\n  result %d after %d iterations", got, report.iterations);
        error = "result";
    }
    if (size > 1e-6 && !(true_residual(&mg, &p, b, x) <= TOL(1.001, 1000) * tol))
        error = "residual";
    fsi_mg_free(&mg);
    drop(&p);
    free(x);
    free(y);
    free(z);
    free(b);
    free(label);
    return error;
}

TEST M_04_random_masks_match_the_obvious_version(void) {
    for (int q = 0; q < 1500; q++) {
        const char *error = random_case(q);
        if (error) {
            printf("\n  case %d: %s\n", q, error);
            FAIL();
        }
    }
    PASS();
}

/* ------------------------------------------------------------------------------------------------
 * smoothing */
/* Removes the smooth half of the sine modes along every axis: matrix S[i][k] = sin(pi (i+1)(k+1) /
 * (n+1)), S S = (n+1)/2 I. */
static void transform(int n, int dim, double *v, const double *S) {
    int total = dim == 3 ? n * n * n : n * n, i, stride = 1;
    double line[64], out[64];
    for (int axis = 0; axis < dim; axis++, stride *= n)
        for (int c = 0; c < total; c++) {
            if (c / stride % n)
                continue;
            for (i = 0; i < n; i++)
                line[i] = v[c + i * stride];
            for (int k = 0; k < n; k++)
                for (out[k] = 0, i = 0; i < n; i++)
                    out[k] += S[i * n + k] * line[i];
            for (int k = 0; k < n; k++)
                v[c + k * stride] = out[k] * sqrt(2.0 / (n + 1));
        }
}

static double smoothing_factor(int dim, int n) {
    problem p = make(n, n, dim == 3 ? n : 1, 0);
    double *v = (double *)malloc((size_t)p.cells * sizeof *v),
           *S = (double *)malloc((size_t)(n * n) * sizeof *S), factor = 0, norm;
    int c;
    for (c = 0; c < 6; c++)
        p.desc.open[c] = 1;
    for (c = 0; c < n * n; c++)
        S[c] = sin(3.14159265358979323846 * (c / n + 1) * (c % n + 1) / (n + 1));
    fsi_mg mg;
    if (start(&mg, &p) != FSI_OK)
        return -1;
    for (c = 0; c < p.cells; c++)
        v[c] = check_random(&seed);
    /* power iteration on (drop smooth modes) (one red-black sweep) */
    for (int it = 0; it < 60; it++) {
        transform(n, dim, v, S);
        for (c = 0, norm = 0; c < p.cells; c++) {
            int low = c % n < n / 2 && c / n % n < n / 2 && (dim == 2 || c / n / n < n / 2);
            if (low)
                v[c] = 0;
            norm += v[c] * v[c];
        }
        transform(n, dim, v, S);
        factor = sqrt(norm);
        for (c = 0; c < p.cells; c++) {
            int i = c % n, j = dim == 3 ? c / n % n : 0, q = dim == 3 ? c / n / n : c / n;
            mg.level[0].x[fsi__mg_id(mg.level, i, j, q)] = (float)(v[c] / factor);
            mg.level[0].f[fsi__mg_id(mg.level, i, j, q)] = 0;
        }
        for (c = 0; c < 2; c++)
            for (int k = 0; k < mg.n[2]; k++)
                fsi__mg_sweep(mg.level, c, k, 0);
        for (c = 0; c < p.cells; c++)
            v[c] = (double)mg.level[0].x[fsi__mg_id(mg.level, c % n, dim == 3 ? c / n % n : 0,
                                                    dim == 3 ? c / n / n : c / n)];
    }
    fsi_mg_free(&mg);
    drop(&p);
    free(v);
    free(S);
    return factor;
}

TEST M_01_red_black_smoothing_factors(void) {
    CHECK_REL(0.25, smoothing_factor(2, 31), 0.10);
    CHECK_REL(4.0 / 9.0, smoothing_factor(3, 15), 0.10);
    PASS();
}

/* ------------------------------------------------------------------------------------------------
 * iterations */
TEST M_02_iterations_do_not_grow(void) {
    int full = getenv("FSI_TEST_FULL") != NULL;
    for (int dim = 2; dim <= 3; dim++)
        for (int scene = 0; scene < SCENES; scene++) {
            int first = 0, last = dim == 2 || full ? 256 : 64;
            for (int n = 32; n <= last; n *= 2) {
                int it = scene_iterations(scene, dim, n, NULL);
                if (full)
                    printf("  %dD scene %d n %d: %d iterations\n", dim, scene, n, it);
                ASSERTm("solve failed", it >= 0);
                if (n == 32)
                    first = it;
                CHECK_MOST(it - first, scene == BOX && dim == 2 ? 1 : 2);
                CHECK_MOST(it, scene < PLATES ? 9 : 12);
            }
        }
    PASS();
}

TEST M_02_any_size(void) {
    static const int size[] = {31, 33, 37, 50, 61, 63, 65, 97, 101};
    for (int scene = 0; scene < SCENES; scene++)
        for (int q = 0; q < 9; q++) {
            int it = scene_iterations(scene, 2, size[q], NULL);
            ASSERTm("solve failed", it >= 0);
            CHECK_MOST(it, scene < PLATES ? 9 : 12);
        }
    for (int scene = 0; scene < SCENES; scene++)
        CHECK_MOST(scene_iterations(scene, 3, 37, NULL), scene < PLATES ? 9 : 12);
    PASS();
}

TEST M_03_hole_costs_little(void) {
    CHECK_MOST(scene_iterations(SPHERE, 2, 128, NULL), 1.5 * scene_iterations(OPEN, 2, 128, NULL));
    CHECK_MOST(scene_iterations(SPHERE, 3, 48, NULL), 1.5 * scene_iterations(OPEN, 3, 48, NULL));
    PASS();
}

TEST iterations_and_memory_at_128(void) {
    double bytes;
    CHECK_MOST(scene_iterations(SPHERE, 3, 128, &bytes), 8);
    CHECK_MOST(bytes, 80);
    CHECK_MOST(scene_iterations(POOL, 3, 128, NULL), 10);
    PASS();
}

/* ------------------------------------------------------------------------------------------------
 * singular systems */
TEST L_05_L_06_closed_box(void) {
    problem p = make(32, 32, 1, 0);
    fsi_real *b = vector(&p), *x = vector(&p);
    fsi_mg_solve_desc desc;
    double mean = 0;
    memset(&desc, 0, sizeof desc);
    desc.tolerance = TOL(1e-10, 1e-4);
    fsi_mg mg;
    CHECK_OK(start(&mg, &p));
    ASSERT_EQ(1, mg.regions);
    noise(&p, b, NULL);
    fsi_mg_project(&mg, b);
    CHECK_MOST(fsi__mg_imbalance(&mg, b, 0), TOL(1e-14, 1e-6));
    fsi_report report;
    CHECK_OK(fsi_mg_solve(&mg, &desc, b, x, &report));
    CHECK_MOST(true_residual(&mg, &p, b, x), 1.001 * desc.tolerance);
    for (int c = 0; c < p.cells; c++)
        mean += (double)x[c] / p.cells;
    CHECK_NEAR(0, mean, TOL(1e-12, 1e-4));
    /* no part of it is in the range */
    for (int c = 0; c < p.cells; c++)
        b[c] = 1;
    CHECK_NEAR(1, fsi__mg_imbalance(&mg, b, 0), 1e-12);
    CHECK_RESULT(FSI_INCOMPATIBLE, fsi_mg_solve(&mg, &desc, b, x, &report));
    CHECK_MOST((double)fsi_max_abs((size_t)p.cells, x), TOL(1e-10, 1e-4));
    noise(&p, b, NULL);
    /* the compatible part is solved */
    for (int c = 0; c < p.cells; c++)
        b[c] += (fsi_real)0.5;
    CHECK_RESULT(FSI_INCOMPATIBLE, fsi_mg_solve(&mg, &desc, b, x, &report));
    fsi_mg_project(&mg, b);
    CHECK_MOST(true_residual(&mg, &p, b, x), 2 * desc.tolerance);
    fsi_mg_free(&mg);
    drop(&p);
    free(b);
    free(x);
    PASS();
}

TEST M_04_pockets_gaps_and_nothing(void) {
    problem p = make(40, 23, 17, 0);
    fsi_real *b = vector(&p), *x = vector(&p);
    for (int c = 0; c < p.cells; c++)
        p.cell[c] = FSI_CELL_NEUMANN;
    fsi_mg mg;
    CHECK_RESULT(FSI_EMPTY, start(&mg, &p));
    fsi_report report;
    CHECK_RESULT(FSI_EMPTY, fsi_mg_solve(&mg, NULL, b, x, &report));
    ASSERT_EQ(0, report.iterations);
    /* a single cell, closed */
    p.cell[index_of(&p, 5, 5, 5)] = FSI_CELL_FLUID;
    CHECK_OK(fsi_mg_update(&mg, p.cell, NULL));
    ASSERT_EQ(1, mg.regions);
    b[index_of(&p, 5, 5, 5)] = 1;
    CHECK_RESULT(FSI_INCOMPATIBLE, fsi_mg_solve(&mg, NULL, b, x, &report));
    ASSERT_EQ(0, x[index_of(&p, 5, 5, 5)]);
    p.cell[index_of(&p, 6, 5, 5)] = FSI_CELL_DIRICHLET; /* now it has air */
    CHECK_OK(fsi_mg_update(&mg, p.cell, NULL));
    CHECK_OK(fsi_mg_solve(&mg, NULL, b, x, &report));
    CHECK_NEAR(1, x[index_of(&p, 5, 5, 5)], 1e-5);
    /* gaps one cell wide between slabs, pockets in them */
    for (int c = 0; c < p.cells; c++) {
        int i = c % 40, j = c / 40 % 23, k = c / 40 / 23;
        p.cell[c] = (uint8_t)(k == 16 ? FSI_CELL_DIRICHLET
                              : i % 3 == 0 || (i % 3 == 1 && j > 3) || (i == 7 && j == 1)
                                  ? FSI_CELL_FLUID
                                  : FSI_CELL_NEUMANN);
    }
    CHECK_OK(fsi_mg_update(&mg, p.cell, NULL));
    noise(&p, b, NULL);
    fsi_mg_project(&mg, b);
    CHECK_OK(fsi_mg_solve(&mg, NULL, b, x, &report));
    CHECK_MOST(true_residual(&mg, &p, b, x), TOL(1.001e-6, 1e-3));
    ASSERT(fsi_all_finite((size_t)p.cells, x));
    fsi_mg_free(&mg);
    drop(&p);
    free(b);
    free(x);
    PASS();
}

TEST region_cut_off_between_updates(void) {
    problem p = scene_make(ACROSS, 3, 24);
    fsi_real *b = vector(&p), *x = vector(&p);
    const fsi_real *w[3];
    fsi_mg_solve_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.guess = 1;
    w[0] = p.w[0];
    w[1] = p.w[1];
    w[2] = p.w[2];
    fsi_mg mg;
    CHECK_OK(start(&mg, &p));
    ASSERT_EQ(0, mg.regions);
    noise(&p, b, NULL);
    fsi_report report;
    CHECK_OK(fsi_mg_solve(&mg, &desc, b, x, &report));
    /* the lid closes on one side of the plate */
    for (int j = 0; j < 24; j++)
        for (int i = 0; i < 24; i++)
            if (i < 16)
                *weight_at(&p, i, j, 23, 5) = 0;
    CHECK_OK(fsi_mg_update(&mg, p.cell, w));
    ASSERT_EQ(1, mg.regions);
    CHECK_RESULT(FSI_INCOMPATIBLE, fsi_mg_solve(&mg, &desc, b, x, &report));
    ASSERT(fsi_all_finite((size_t)p.cells, x));
    fsi_mg_project(&mg, b);
    CHECK_OK(fsi_mg_solve(&mg, &desc, b, x, &report));
    /* and that side is cut again */
    for (int k = 0; k < 24; k++)
        for (int j = 0; j < 24; j++)
            *weight_at(&p, 8, j, k, 0) = 0;
    CHECK_OK(fsi_mg_update(&mg, p.cell, w));
    ASSERT_EQ(2, mg.regions);
    fsi_mg_project(&mg, b);
    CHECK_OK(fsi_mg_solve(&mg, &desc, b, x, &report));
    CHECK_MOST(true_residual(&mg, &p, b, x), TOL(1.001e-6, 1e-4));
    fsi_mg_free(&mg);
    drop(&p);
    free(b);
    free(x);
    PASS();
}

/* Thousands of closed pockets of two cells each: one pass sums them all (64 at a time took
   minutes), and an extra term that makes them regular is seen in every one. */
static void add_tenth(const fsi_real *x, fsi_real *y, void *user) {
    for (int c = 0; c < *(int *)user; c++)
        y[c] += x[c] / 10;
}

TEST any_number_of_closed_regions(void) {
    problem p = make(60, 41, 41, 0);
    fsi_real *b = vector(&p), *x = vector(&p), *y = vector(&p);
    fsi_mg_solve_desc desc;
    fsi_report report;
    memset(&desc, 0, sizeof desc);
    desc.tolerance = TOL(1e-8, 1e-4);
    for (int c = 0; c < p.cells; c++)
        if (c % 60 % 3 == 2 || (c / 60 % 41) & 1 || (c / 60 / 41) & 1)
            p.cell[c] = FSI_CELL_NEUMANN;
    /* one pocket of a single cell */
    p.cell[0] = FSI_CELL_NEUMANN;
    fsi_mg mg;
    CHECK_OK(start(&mg, &p));
    ASSERT_EQ(20 * 21 * 21, mg.regions);
    noise(&p, b, NULL);
    CHECK_NEAR(1, fsi__mg_imbalance(&mg, b, 0), 1e-12);
    for (int extra = 0; extra < 2; extra++) {
        double rest = 0;
        if (extra) {
            desc.extra.apply_fn = add_tenth;
            desc.extra.user = &p.cells;
            CHECK_OK(fsi_mg_solve(&mg, &desc, b, x, &report));
        } else
            CHECK_RESULT(FSI_INCOMPATIBLE, fsi_mg_solve(&mg, &desc, b, x, &report));
        ASSERT_EQ(0, mg.hidden);
        for (int c = 0; c < p.cells; c++)
            y[c] = 0;
        fsi_mg_apply(&mg, x, y);
        if (extra)
            add_tenth(x, y, &p.cells);
        for (int c = 0; c < p.cells; c++)
            y[c] = p.cell[c] ? 0 : b[c] - y[c];
        /* the compatible part was solved */
        if (!extra)
            fsi_mg_project(&mg, y);
        for (int c = 0; c < p.cells; c++)
            rest += (double)y[c] * (double)y[c];
        CHECK_MOST(sqrt(rest / dot(p.cells, b, b)), 1.01 * desc.tolerance);
    }
    fsi_mg_free(&mg);
    drop(&p);
    free(b);
    free(x);
    free(y);
    PASS();
}

/* ------------------------------------------------------------------------------------------------
 * hooks */
typedef struct low_rank {
    int cells;
    fsi_real *u;
    fsi_mg *mg;
    int calls;
} low_rank;

static void add_low_rank(const fsi_real *x, fsi_real *y, void *user) { /* y += u u^T x */
    low_rank *e = (low_rank *)user;
    double s = dot(e->cells, e->u, x);
    for (int c = 0; c < e->cells; c++)
        y[c] += (fsi_real)(s * (double)e->u[c]);
}

static void one_cycle(const fsi_real *r, fsi_real *z, void *user) {
    low_rank *e = (low_rank *)user;
    e->calls++;
    fsi_mg_cycle(e->mg, r, z);
}

static double hook_residual(fsi_mg *mg, const problem *p, low_rank *e, const fsi_real *b,
                            const fsi_real *x) {
    fsi_real *y = vector(p);
    double s = 0;
    fsi_mg_apply(mg, x, y);
    add_low_rank(x, y, e);
    for (int c = 0; c < p->cells; c++)
        if (!p->cell[c])
            s += pow((double)b[c] - (double)y[c], 2);
    free(y);
    return sqrt(s / dot(p->cells, b, b));
}

TEST extra_and_precondition(void) {
    /* 0: u keeps the constant null; 1: a piston makes the closed box regular; 2: open top */
    for (int scene = 0; scene < 3; scene++) {
        problem p = scene_make(scene == 2 ? OPEN : BOX, 3, 20);
        fsi_real *b = vector(&p), *x = vector(&p);
        fsi_mg_solve_desc desc;
        memset(&desc, 0, sizeof desc);
        low_rank e;
        memset(&e, 0, sizeof e);
        desc.tolerance = TOL(1e-8, 1e-4);
        fsi_mg mg;
        CHECK_OK(start(&mg, &p));
        e.cells = p.cells;
        e.u = vector(&p);
        e.mg = &mg;
        for (int c = 0; c < 20; c++) {
            e.u[index_of(&p, 10, c, 10)] = (fsi_real)0.3;
            e.u[index_of(&p, 11, c, 10)] = (fsi_real)(scene == 0 ? -0.3 : 0.1);
        }
        desc.extra.apply_fn = add_low_rank;
        desc.extra.user = &e;
        noise(&p, b, NULL);
        if (scene == 0)
            fsi_mg_project(&mg, b);
        fsi_report plain;
        CHECK_OK(fsi_mg_solve(&mg, &desc, b, x, &plain));
        CHECK_MOST(hook_residual(&mg, &p, &e, b, x), 1.01 * desc.tolerance);
        /* the public cycle is projected: for a regular closed region the caller adds a coarse part
         */
        fsi_report hooked;
        if (scene != 1) {
            desc.precondition.apply_fn = one_cycle;
            desc.precondition.user = &e;
            CHECK_OK(fsi_mg_solve(&mg, &desc, b, x, &hooked));
            CHECK_MOST(hook_residual(&mg, &p, &e, b, x), 1.01 * desc.tolerance);
            CHECK_NEAR(plain.iterations, hooked.iterations, 2);
            ASSERT(e.calls >= hooked.iterations);
        }
        ASSERT_EQ(0, mg.hidden);
        if (scene == 0) {
            for (int c = 0; c < p.cells; c++)
                b[c] += 1;
            CHECK_RESULT(FSI_INCOMPATIBLE, fsi_mg_solve(&mg, &desc, b, x, &hooked));
        }
        fsi_mg_free(&mg);
        drop(&p);
        free(b);
        free(x);
        free(e.u);
    }
    PASS();
}

/* Two bundles of two columns, heavy: the cycle that takes them along needs no more iterations than
 * the fluid alone; the answer is the same. */
enum {
    COLUMNS = 2,
    BUNDLES = 2,
    ENTRIES = 60
};

typedef struct columns {
    int32_t cell[BUNDLES][ENTRIES];
    fsi_real factor[ENTRIES], val[BUNDLES][ENTRIES * COLUMNS], K[COLUMNS * COLUMNS];
    fsi_mg_bundle bundle[BUNDLES];
    int cells;
} columns;

static void columns_fill(columns *z, const problem *p) {
    memset(z, 0, sizeof *z);
    z->cells = p->cells;
    z->K[0] = z->K[3] = FSI_R(0.01);
    z->K[1] = z->K[2] = FSI_R(0.002);
    for (int g = 0; g < BUNDLES; g++) {
        for (int e = 0; e < ENTRIES; e++) {
            z->cell[g][e] = index_of(p, 4 + 9 * g + e % 4, 5 + e / 4 % 5, 6 + e / 20);
            z->factor[e] = e % 4 < 2 ? 1 : -1;
            z->val[g][COLUMNS * e] = 1;
            z->val[g][COLUMNS * e + 1] = (fsi_real)(e / 4 % 5 - 2);
        }
        z->bundle[g].columns = COLUMNS;
        z->bundle[g].entries = ENTRIES;
        z->bundle[g].cell = z->cell[g];
        z->bundle[g].factor = z->factor;
        z->bundle[g].val = z->val[g];
        z->bundle[g].K = z->K;
    }
}

static void columns_add(const fsi_real *x, fsi_real *y, void *user) { /* y += Z K^-1 Z^T x */
    const columns *z = (const columns *)user;
    double det = (double)z->K[0] * (double)z->K[3] - (double)z->K[1] * (double)z->K[2], t[2], u[2];
    int e;
    for (int g = 0; g < BUNDLES; g++) {
        for (t[0] = t[1] = 0, e = 0; e < ENTRIES; e++) {
            t[0] += (double)z->factor[e] * (double)z->val[g][2 * e] * (double)x[z->cell[g][e]];
            t[1] += (double)z->factor[e] * (double)z->val[g][2 * e + 1] * (double)x[z->cell[g][e]];
        }
        u[0] = ((double)z->K[3] * t[0] - (double)z->K[1] * t[1]) / det;
        u[1] = ((double)z->K[0] * t[1] - (double)z->K[2] * t[0]) / det;
        for (e = 0; e < ENTRIES; e++)
            y[z->cell[g][e]] += (fsi_real)((double)z->factor[e]
                                           * (u[0] * (double)z->val[g][2 * e]
                                              + u[1] * (double)z->val[g][2 * e + 1]));
    }
}

TEST low_rank_through_the_cycle(void) {
    problem p = scene_make(OPEN, 3, 20);
    fsi_real *b = vector(&p), *x = vector(&p), *y = vector(&p);
    fsi_mg_solve_desc desc;
    uint64_t hash = 0;
    int done = 0;
    static const int threads[] = {1, 2, 3, 8};
    memset(&desc, 0, sizeof desc);
    desc.tolerance = TOL(1e-9, 1e-4);
    columns z;
    columns_fill(&z, &p);
    fsi_mg mg;
    CHECK_OK(start(&mg, &p));
    noise(&p, b, NULL);
    fsi_report alone;
    CHECK_OK(fsi_mg_solve(&mg, &desc, b, x, &alone));
    desc.extra.apply_fn = columns_add;
    desc.extra.user = &z;
    fsi_report without;
    CHECK_OK(fsi_mg_solve(&mg, &desc, b, x, &without));
    /* every allocation fails once; after that it works in what it has */
    fsi_mg_rank rank;
    for (int k = 0; k < 30 && !done; k++) {
        fail_allocator f = fail_begin(k);
        memset(&rank, 0, sizeof rank);
        rank.allocator = fail_make(&f);
        fsi_result result = fsi_mg_rank_build(&rank, &mg, z.bundle, BUNDLES);
        if (result == FSI_OK) {
            long calls = f.calls;
            done = 1;
            CHECK_OK(fsi_mg_rank_build(&rank, &mg, z.bundle, BUNDLES));
            ASSERT_EQ_FMT(calls, f.calls, "%ld");
        } else
            CHECK_RESULT(FSI_ERR_MEMORY, result);
        fsi_mg_rank_free(&rank);
        fsi_mg_rank_free(&rank);
        ASSERT_EQ_FMT(0L, f.live, "%ld");
    }
    ASSERT(done);
    memset(&rank, 0, sizeof rank);
    fsi_report with;
    for (int k = 0; k < 4; k++) {
        check_threads(threads[k]);
        CHECK_OK(fsi_mg_rank_build(&rank, &mg, z.bundle, BUNDLES));
        desc.rank = &rank;
        CHECK_OK(fsi_mg_solve(&mg, &desc, b, y, &with));
        uint64_t now = check_hash(y, (size_t)p.cells * sizeof *y, 0);
        if (k == 0)
            hash = now;
        ASSERT(now == hash);
    }
    check_threads(1);
    ASSERT_EQ(BUNDLES * COLUMNS, rank.columns);
    CHECK_MOST(with.iterations, alone.iterations + 2);
    ASSERT(without.iterations > with.iterations);
    for (int c = 0; c < p.cells; c++)
        CHECK_NEAR(x[c], y[c], TOL(1e-7, 2e-3));
    mg.rank = &rank;
    double worst;
    double least;
    symmetry(&mg, &p, 1, 20, &worst, &least); /* L-20, L-21 with the columns */
    CHECK_MOST(worst, 5e-6);
    ASSERT(least > 0);
    fsi_mg_rank_free(&rank);
    fsi_mg_free(&mg);
    drop(&p);
    free(b);
    free(x);
    free(y);
    PASS();
}

TEST guesses_pass_an_energy_test(void) {
    problem p = scene_make(SPHERE, 3, 24);
    fsi_real *b = vector(&p), *x = vector(&p);
    fsi_mg_solve_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.tolerance = TOL(1e-6, 1e-4);
    fsi_mg mg;
    CHECK_OK(start(&mg, &p));
    noise(&p, b, NULL);
    fsi_report cold;
    CHECK_OK(fsi_mg_solve(&mg, &desc, b, x, &cold));
    desc.guess = 1;
    /* the answer as a guess: nothing left to do */
    fsi_report warm;
    CHECK_OK(fsi_mg_solve(&mg, &desc, b, x, &warm));
    ASSERT_EQ(0, warm.iterations);
    CHECK_MOST(warm.residual_start, 1.001 * desc.tolerance * cold.residual_start);
    for (int c = 0; c < p.cells; c++)
        x[c] *= (fsi_real)0.9;
    CHECK_OK(fsi_mg_solve(&mg, &desc, b, x, &warm));
    CHECK_MOST(warm.residual_start, 0.2 * cold.residual_start);
    /* raises the energy: dropped, and the solve is the cold one */
    for (int c = 0; c < p.cells; c++)
        x[c] *= -3;
    fsi_report wrong;
    CHECK_OK(fsi_mg_solve(&mg, &desc, b, x, &wrong));
    ASSERT(wrong.restarts >= 1);
    CHECK_REL(cold.residual_start, wrong.residual_start, 1e-6);
    CHECK_NEAR(cold.iterations, wrong.iterations, 0);
    fsi_mg_free(&mg);
    drop(&p);
    free(b);
    free(x);
    PASS();
}

/* ------------------------------------------------------------------------------------------------
 * behaviour */
TEST true_residual_at_tight_tolerances(void) {
#ifdef FSI_SINGLE
    SKIP();
#else
    static const double tol[] = {1e-2, 1e-6, 1e-8, 1e-10, 1e-12};
    for (int scene = 0; scene < SCENES; scene++)
        for (int q = 0; q < 5; q++) {
            problem p = scene_make(scene, 2, 61);
            fsi_real *b = vector(&p), *x = vector(&p);
            fsi_mg_solve_desc desc;
            memset(&desc, 0, sizeof desc);
            desc.tolerance = tol[q];
            fsi_mg mg;
            CHECK_OK(start(&mg, &p));
            noise(&p, b, NULL);
            fsi_mg_project(&mg, b);
            fsi_report report;
            CHECK_OK(fsi_mg_solve(&mg, &desc, b, x, &report));
            CHECK_MOST(true_residual(&mg, &p, b, x), 1.01 * tol[q]);
            CHECK_REL(true_residual(&mg, &p, b, x) * sqrt(dot(p.cells, b, b)), report.residual,
                      1e-2);
            fsi_mg_free(&mg);
            drop(&p);
            free(b);
            free(x);
        }
    PASS();
#endif
}

TEST scale_does_not_matter(void) {
    static const double scale[] = {1e-170, 1e-30, 1e-12, 1, 1e12, 1e30, 1e160};
    problem p = scene_make(GHOST, 2, 40);
    fsi_real *b = vector(&p), *x = vector(&p);
    fsi_report report, first;
    memset(&first, 0, sizeof first);
    fsi_mg_solve_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.tolerance = TOL(1e-6, 1e-4);
    fsi_mg mg;
    CHECK_OK(start(&mg, &p));
    for (int q = TOL(0, 1); q < TOL(7, 6); q++) {
        seed = 5;
        noise(&p, b, NULL);
        for (int c = 0; c < p.cells; c++)
            b[c] = (fsi_real)((double)b[c] * scale[q]);
        CHECK_OK(fsi_mg_solve(&mg, &desc, b, x, &report));
        if (q == TOL(0, 1))
            first = report;
        CHECK_NEAR(first.iterations, report.iterations, 1);
        CHECK_MOST(report.residual, desc.tolerance * report.residual_start * 1.001);
    }
    fsi_mg_free(&mg);
    drop(&p);
    free(b);
    free(x);
    PASS();
}

TEST same_bits_for_any_number_of_threads(void) {
    static const int count[] = {1, 2, 3, 8};
    uint64_t hash[4];
    for (int scene = SPHERE; scene <= SPLIT; scene++) {
        problem p = scene_make(scene, 3, 70);
        fsi_real *b = vector(&p), *x = vector(&p);
        for (int q = 0; q < 4; q++) {
            fsi_mg_solve_desc desc;
            memset(&desc, 0, sizeof desc);
            desc.tolerance = 1e-4;
            check_threads(count[q]);
            fsi_mg mg;
            CHECK_OK(start(&mg, &p));
            seed = 3;
            noise(&p, b, NULL);
            fsi_mg_project(&mg, b);
            CHECK_OK(fsi_mg_solve(&mg, &desc, b, x, NULL));
            hash[q] = check_hash(x, (size_t)p.cells * sizeof *x, 0);
            fsi_mg_cycle(&mg, b, x);
            hash[q] = check_hash(x, (size_t)p.cells * sizeof *x, hash[q]);
            fsi_mg_free(&mg);
            ASSERT(hash[q] == hash[0]);
        }
        drop(&p);
        free(b);
        free(x);
    }
    check_threads(1);
    PASS();
}

TEST one_allocation_and_it_may_fail(void) {
    problem p = scene_make(PLATES, 3, 20);
    fail_allocator f = fail_begin(0);
    fsi_real *b = vector(&p), *x = vector(&p);
    const fsi_real *w[3];
    w[0] = p.w[0];
    w[1] = p.w[1];
    w[2] = p.w[2];
    fsi_mg mg;
    memset(&mg, 0, sizeof mg);
    p.desc.allocator = fail_make(&f);
    CHECK_RESULT(FSI_ERR_MEMORY, fsi_mg_init(&mg, &p.desc));
    ASSERT_EQ(0, f.live);
    f = fail_begin(1);
    CHECK_OK(start(&mg, &p));
    /* everything in one block; what follows must not ask for more */
    ASSERT_EQ(1, f.calls);
    for (int q = 0; q < 3; q++) {
        noise(&p, b, NULL);
        fsi_mg_project(&mg, b);
        ASSERT(fsi_mg_solve(&mg, NULL, b, x, NULL) >= 0);
        CHECK_OK(fsi_mg_update(&mg, q ? NULL : p.cell, q == 1 ? NULL : w));
        CHECK_MOST((double)f.calls, 1);
    }
    fsi_mg_free(&mg);
    fsi_mg_free(&mg);
    ASSERT_EQ(0, f.live);
    drop(&p);
    free(b);
    free(x);
    PASS();
}

static double ticks(void *user) {
    return *(double *)user += 1;
}

TEST bad_input_is_refused(void) {
    problem p = scene_make(PLATES, 3, 12);
    fsi_real *b = vector(&p), *x = vector(&p);
    const fsi_real *w[3];
    fsi_mg_solve_desc desc;
    double time = 0;
    memset(&desc, 0, sizeof desc);
    fsi_mg none;
    memset(&none, 0, sizeof none);
    fsi_mg mg;
    CHECK_OK(start(&mg, &p));
    noise(&p, b, NULL);
    fsi_mg_desc given = p.desc;
    given.nx = 0;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_mg_init(&none, &given));
    given = p.desc;
    given.ny = -1;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_mg_init(&none, &given));
    given = p.desc;
    given.levels = -1;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_mg_init(&none, &given));
    given = p.desc;
    given.nx = given.ny = given.nz = 1 << 30;
    CHECK_RESULT(FSI_ERR_SIZE, fsi_mg_init(&none, &given));
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_mg_init(NULL, &given));
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_mg_init(&none, NULL));
    CHECK_RESULT(FSI_ERR_STATE, fsi_mg_update(&none, NULL, NULL));
    CHECK_RESULT(FSI_ERR_STATE, fsi_mg_solve(&none, NULL, b, x, NULL));
    w[0] = p.w[0];
    w[1] = p.w[1];
    w[2] = p.w[2];
    fsi_real keep = p.w[0][40];
    p.w[0][40] = -1;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_mg_update(&mg, p.cell, w));
    p.w[0][40] = (fsi_real)NAN;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_mg_update(&mg, p.cell, w));
    p.w[0][40] = (fsi_real)INFINITY;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_mg_update(&mg, p.cell, w));
    p.w[0][40] = keep;
    p.cell[7] = 3;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_mg_update(&mg, p.cell, w));
    p.cell[7] = 0;
    fsi_report report;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_mg_solve(&mg, NULL, NULL, x, &report));
    desc.tolerance = NAN;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_mg_solve(&mg, &desc, b, x, &report));
    desc.tolerance = 0;
    desc.max_iterations = -1;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_mg_solve(&mg, &desc, b, x, &report));
    desc.max_iterations = 0;
    desc.seconds = 1;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_mg_solve(&mg, &desc, b, x, &report));
    desc.clock_fn = ticks;
    desc.clock_user = &time;
    desc.seconds = 2.5;
    desc.tolerance = 1e-12;
    /* the clock ticks once a look */
    CHECK_RESULT(FSI_NOT_CONVERGED, fsi_mg_solve(&mg, &desc, b, x, &report));
    ASSERT(report.iterations >= 1 && report.iterations <= 3
           && report.residual < report.residual_start);
    desc.seconds = 0;
    desc.clock_fn = NULL;
    desc.max_iterations = 2;
    CHECK_RESULT(FSI_NOT_CONVERGED, fsi_mg_solve(&mg, &desc, b, x, &report));
    ASSERT_EQ(2, report.iterations);
    keep = b[11];
    b[11] = (fsi_real)NAN;
    x[3] = 42;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_mg_solve(&mg, NULL, b, x, &report));
    ASSERT_EQ(42, x[3]); /* untouched */
    b[11] = keep;
    x[3] = (fsi_real)INFINITY;
    desc.guess = 1;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_mg_solve(&mg, &desc, b, x, &report));
    {
        fsi_mg_rank rank;
        int32_t cell = p.cells;
        fsi_real value = 1, K = 1;
        memset(&rank, 0, sizeof rank);
        fsi_mg_bundle bundle;
        bundle.columns = bundle.entries = 1;
        bundle.cell = &cell;
        bundle.factor = bundle.val = &value;
        bundle.K = &K;
        /* outside the grid */
        CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_mg_rank_build(&rank, &mg, &bundle, 1));
        cell = 100;
        value = (fsi_real)NAN;
        CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_mg_rank_build(&rank, &mg, &bundle, 1));
        value = 1;
        K = -1000;
        CHECK_RESULT(FSI_ERR_SINGULAR, fsi_mg_rank_build(&rank, &mg, &bundle, 1));
        K = 1;
        bundle.entries = -1;
        CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_mg_rank_build(&rank, &mg, &bundle, 1));
        bundle.entries = 1;
        bundle.val = NULL;
        CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_mg_rank_build(&rank, &mg, &bundle, 1));
        bundle.val = &value;
        CHECK_OK(fsi_mg_rank_build(&rank, &mg, &bundle, 1));
        /* of another grid */
        rank.cells--;
        desc.rank = &rank;
        desc.guess = 0;
        CHECK_RESULT(FSI_ERR_SIZE, fsi_mg_solve(&mg, &desc, b, x, &report));
        fsi_mg_rank_free(&rank);
        fsi_mg_cycle(&none, b, x); /* of nothing: nothing */
    }
    fsi_fill((size_t)p.cells, 0, b);
    CHECK_OK(fsi_mg_solve(&mg, NULL, b, x, &report)); /* b = 0: p = 0 at once */
    ASSERT_EQ(0, report.iterations);
    ASSERT(fsi_max_abs((size_t)p.cells, x) <= 0);
    fsi_mg_free(&mg);
    drop(&p);
    free(b);
    free(x);
    PASS();
}

TEST levels_and_sweeps_can_be_chosen(void) {
    for (int levels = 1; levels <= 4; levels++)
        /* and 0, 2, 3 extra sweeps along boundaries */
        for (int sweeps = 1; sweeps <= 3; sweeps++) {
            problem p = scene_make(POOL, 3, 20);
            fsi_real *b = vector(&p), *x = vector(&p);
            fsi_mg_solve_desc desc;
            memset(&desc, 0, sizeof desc);
            desc.tolerance = TOL(1e-6, 1e-4);
            p.desc.levels = levels;
            p.desc.sweeps = sweeps;
            p.desc.band_sweeps = sweeps == 1 ? -1 : sweeps;
            fsi_mg mg;
            CHECK_OK(start(&mg, &p));
            ASSERT_EQ(levels, mg.levels);
            noise(&p, b, NULL);
            fsi_report report;
            CHECK_OK(fsi_mg_solve(&mg, &desc, b, x, &report));
            CHECK_MOST(report.iterations, levels == 1 ? 40 : 14);
            fsi_mg_free(&mg);
            drop(&p);
            free(b);
            free(x);
        }
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv) {
    GREATEST_MAIN_BEGIN();
    RUN_TEST(L_03_spectra_of_the_mac_laplacian);
    RUN_TEST(L_20_L_21_symmetric_and_positive);
    RUN_TEST(M_04_random_masks_match_the_obvious_version);
    RUN_TEST(M_01_red_black_smoothing_factors);
    RUN_TEST(M_02_iterations_do_not_grow);
    RUN_TEST(M_02_any_size);
    RUN_TEST(M_03_hole_costs_little);
    RUN_TEST(iterations_and_memory_at_128);
    RUN_TEST(L_05_L_06_closed_box);
    RUN_TEST(M_04_pockets_gaps_and_nothing);
    RUN_TEST(region_cut_off_between_updates);
    RUN_TEST(any_number_of_closed_regions);
    RUN_TEST(extra_and_precondition);
    RUN_TEST(low_rank_through_the_cycle);
    RUN_TEST(guesses_pass_an_energy_test);
    RUN_TEST(true_residual_at_tight_tolerances);
    RUN_TEST(scale_does_not_matter);
    RUN_TEST(same_bits_for_any_number_of_threads);
    RUN_TEST(one_allocation_and_it_may_fail);
    RUN_TEST(bad_input_is_refused);
    RUN_TEST(levels_and_sweeps_can_be_chosen);
    GREATEST_MAIN_END();
}
