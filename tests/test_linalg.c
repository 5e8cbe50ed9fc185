/* Tests of the solvers in fsi_linalg.h: sparse and dense matrices, Krylov methods, factorisations,
   eigenproblems. Multigrid has its own file. Every fast solver is held against a slow obvious one
   written here (dense elimination, dense products). */
#define FSI_IMPLEMENTATION
#define FSI_LINALG_IMPLEMENTATION /* it looks inside, so it compiles this one itself */
#include "fsi_linalg.h"
#include "greatest.h"
#include "check.h"
#include "reference.h"

/* ------------------------------------------------------------------------------------------------
 * helpers */
typedef struct triplets {
    int32_t *i, *j;
    fsi_real *v;
    size_t count, room;
} triplets;

static void put(triplets *t, int i, int j, double v) {
    if (t->count == t->room) {
        t->room = t->room ? 2 * t->room : 256;
        t->i = (int32_t *)realloc(t->i, t->room * sizeof *t->i);
        t->j = (int32_t *)realloc(t->j, t->room * sizeof *t->j);
        t->v = (fsi_real *)realloc(t->v, t->room * sizeof *t->v);
    }
    t->i[t->count] = i;
    t->j[t->count] = j;
    t->v[t->count++] = (fsi_real)v;
}

static fsi_csr build(triplets *t, int rows, int cols) {
    fsi_csr matrix = {0, 0, NULL, NULL, NULL};
    if (fsi_csr_from_triplets(&matrix, rows, cols, t->count, t->i, t->j, t->v, NULL) != FSI_OK) {
        printf("matrix failed\n");
        exit(1);
    }
    free(t->i);
    free(t->j);
    free(t->v);
    memset(t, 0, sizeof *t);
    return matrix;
}

/* Laplacian on nx * ny * nz nodes; dirichlet: walls one node outside, value 0; otherwise no term
 * there. plus is added to the diagonal. */
static fsi_csr laplacian(int nx, int ny, int nz, int dirichlet, double plus) {
    triplets t = {NULL, NULL, NULL, 0, 0};
    int n[3], c[3];
    n[0] = nx;
    n[1] = ny;
    n[2] = nz;
    for (c[2] = 0; c[2] < nz; c[2]++)
        for (c[1] = 0; c[1] < ny; c[1]++)
            for (c[0] = 0; c[0] < nx; c[0]++) {
                int at = c[0] + nx * (c[1] + ny * c[2]), step = 1;
                double d = plus;
                for (int a = 0; a < 3; a++) {
                    for (int s = -1; s <= 1; s += 2) {
                        int inside = c[a] + s >= 0 && c[a] + s < n[a];
                        if (n[a] == 1)
                            continue;
                        if (inside)
                            put(&t, at, at + s * step, -1);
                        if (inside || dirichlet)
                            d += 1;
                    }
                    step *= n[a];
                }
                put(&t, at, at, d);
            }
    return build(&t, nx * ny * nz, nx * ny * nz);
}

static fsi_real *vector(size_t n) {
    return (fsi_real *)calloc(n ? n : 1, sizeof(fsi_real));
}

static fsi_real *random_vector(size_t n, uint64_t seed) {
    fsi_real *x = vector(n);
    for (size_t i = 0; i < n; i++)
        x[i] = (fsi_real)check_random(&seed);
    return x;
}

/* Dense A = Q diag(w) Q^T with Q a product of n random reflections (of 8 when n is large) */
static fsi_real *spectrum(int n, const double *w, uint64_t seed) {
    double *A = (double *)calloc((size_t)n * (size_t)n, sizeof(double)),
           *v = (double *)calloc((size_t)n, sizeof(double));
    fsi_real *out = vector((size_t)n * (size_t)n);
    for (int i = 0; i < n; i++)
        A[i * n + i] = w[i];
    for (int k = 0; k < 8; k++) {
        double vv = 0;
        for (int i = 0; i < n; i++) {
            v[i] = check_random(&seed);
            vv += v[i] * v[i];
        }
        for (int i = 0; i < n; i++) {
            double s = 0;
            for (int j = 0; j < n; j++)
                s += A[i * n + j] * v[j];
            for (int j = 0; j < n; j++)
                A[i * n + j] -= 2 * s / vv * v[j];
        }
        for (int j = 0; j < n; j++) {
            double s = 0;
            for (int i = 0; i < n; i++)
                s += A[i * n + j] * v[i];
            for (int i = 0; i < n; i++)
                A[i * n + j] -= 2 * s / vv * v[i];
        }
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            out[i * n + j] = (fsi_real)((A[i * n + j] + A[j * n + i]) / 2);
    free(A);
    free(v);
    return out;
}

typedef struct dense {
    int n;
    const fsi_real *A;
} dense;

static void dense_apply(const fsi_real *x, fsi_real *y, void *user) {
    const dense *d = (const dense *)user;
    for (int i = 0; i < d->n; i++) {
        double s = 0;
        for (int j = 0; j < d->n; j++)
            s += (double)d->A[i * d->n + j] * (double)x[j];
        y[i] = (fsi_real)s;
    }
}

static fsi_operator op_of(fsi_apply_fn fn, void *user) {
    fsi_operator operator;
    operator.apply_fn = fn;
    operator.user = user;
    return operator;
}

static double *dense_of(const fsi_csr *matrix) {
    double *D = (double *)calloc((size_t)matrix->rows * (size_t)matrix->cols + 1, sizeof(double));
    for (int i = 0; i < matrix->rows; i++)
        for (int k = matrix->row[i]; k < matrix->row[i + 1]; k++)
            D[i * matrix->cols + matrix->col[k]] += (double)matrix->val[k];
    return D;
}

/* The slow obvious solver: Gauss-Jordan with full row pivoting in double; A and b are copied. */
static double *gauss(int n, const double *A0, const double *b0) {
    double *A = (double *)malloc((size_t)n * (size_t)n * sizeof(double)),
           *b = (double *)malloc((size_t)n * sizeof(double));
    memcpy(A, A0, (size_t)n * (size_t)n * sizeof(double));
    memcpy(b, b0, (size_t)n * sizeof(double));
    for (int k = 0; k < n; k++) {
        int p = k;
        for (int i = k; i < n; i++)
            if (fabs(A[i * n + k]) > fabs(A[p * n + k]))
                p = i;
        double t;
        for (int j = 0; j < n; j++) {
            t = A[k * n + j];
            A[k * n + j] = A[p * n + j];
            A[p * n + j] = t;
        }
        t = b[k];
        b[k] = b[p];
        b[p] = t;
        for (int i = 0; i < n; i++) {
            double f = i == k ? 0 : A[i * n + k] / A[k * n + k];
            if (f == 0)
                continue;
            for (int j = k; j < n; j++)
                A[i * n + j] -= f * A[k * n + j];
            b[i] -= f * b[k];
        }
    }
    for (int i = 0; i < n; i++)
        b[i] /= A[i * n + i];
    free(A);
    return b;
}

static double *doubles(size_t n, const fsi_real *x) {
    double *d = (double *)malloc((n ? n : 1) * sizeof(double));
    for (size_t i = 0; i < n; i++)
        d[i] = (double)x[i];
    return d;
}

/* |x - y| / |y| */
static double distance(size_t n, const fsi_real *x, const double *y) {
    double s = 0, t = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)x[i] - y[i];
        s += d * d;
        t += y[i] * y[i];
    }
    return sqrt(s / (t > 0 ? t : 1));
}

static double residual_of(const fsi_krylov_desc *desc, const fsi_real *b, const fsi_real *x) {
    fsi_real *r = vector(desc->n);
    desc->A.apply_fn(x, r, desc->A.user);
    fsi_xpay(desc->n, b, -1, r);
    double s = fsi_norm(desc->n, r);
    free(r);
    return s;
}

static fsi_krylov_desc krylov(size_t n, fsi_operator operator, double tolerance) {
    fsi_krylov_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.n = n;
    desc.A = operator;
    desc.tolerance = tolerance;
    return desc;
}

typedef struct mean {
    size_t n;
} mean;

static void remove_mean(fsi_real *x, void *user) {
    size_t n = ((mean *)user)->n;
    fsi_real m = (fsi_real)(fsi_sum(n, x) / (double)n);
    for (size_t i = 0; i < n; i++)
        x[i] -= m;
}

typedef fsi_result (*solver)(const fsi_krylov_desc *, const fsi_real *, fsi_real *, void *, size_t,
                             fsi_report *);
static const solver solvers[3] = {fsi_cg_solve, fsi_symmqmr_solve, fsi_gmres_solve};

/* ------------------------------------------------------------------------------------------------
 * base */
static void note(int level, const char *text, void *user) {
    snprintf((char *)user, 32, "%d %s", level, text);
}

TEST base_memory_results_and_log(void) {
    static const int known[] = {0, -1, -2, -3, -4, -5, -6, -7, -8, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    fail_allocator f = fail_begin(-1);
    fsi_allocator allocator = fail_make(&f);
    fsi_arena arena = {NULL, 0, 0, 0};
    char said[32] = "";
    size_t product = 7;
#ifdef FSI__GUARD
    /* a closed gap behind every array */
    const size_t step = 128;
#else
    const size_t step = 64;
#endif
    for (int k = 0; k < 18; k++) {
        const char *text = fsi_result_text((fsi_result)known[k]);
        ASSERT(text && strlen(text) > 1 && strcmp(text, fsi_result_text((fsi_result)12345)));
        for (int i = 0; i < k; i++)
            ASSERT(strcmp(text, fsi_result_text((fsi_result)known[i])));
    }
    fsi_allocator none;
    memset(&none, 0, sizeof none);
    fsi_allocator half = allocator;
    half.free_fn = NULL;
    ASSERT(fsi_allocator_valid(NULL) && fsi_allocator_valid(&none)
           && fsi_allocator_valid(&allocator) && !fsi_allocator_valid(&half));
    /* NULL, zero, the caller's: aligned, zeroed, given back with its size */
    for (int k = 0; k < 3; k++) {
        const fsi_allocator *use = k == 0 ? NULL : k == 1 ? &none : &allocator;
        static const size_t size[] = {1, 63, 64, 65, 100000};
        for (int i = 0; i < 5; i++) {
            unsigned char *p = (unsigned char *)fsi_alloc(use, size[i]);
            ASSERT(p && ((uintptr_t)p & 63u) == 0);
            for (size_t c = 0; c < size[i]; c++)
                ASSERT(p[c] == 0);
            memset(p, 255, size[i]);
            fsi_free(use, p, size[i]);
        }
        ASSERT(!fsi_alloc(use, 0) && !fsi_alloc(use, (size_t)-1));
        fsi_free(use, NULL, 5);
    }
    ASSERT_EQ_FMT(0L, f.live, "%ld");
    ASSERT(fsi_size_mul(0, (size_t)-1, &product) && product == 0);
    ASSERT(fsi_size_mul((size_t)-1, 1, &product) && product == (size_t)-1);
    ASSERT(!fsi_size_mul((size_t)-1 / 2 + 1, 2, &product) && product == (size_t)-1);
    /* one layout function, run twice */
    for (int pass = 0; pass < 2; pass++) {
        char *x = (char *)fsi_arena_take(&arena, 3, 10), *y = (char *)fsi_arena_take(&arena, 1, 1);
        ASSERT_EQ_FMT(2 * step, arena.used, "%lu");
        if (pass) {
            ASSERT(y - x == (ptrdiff_t)step);
            free(arena.base);
            break;
        }
        ASSERT(!x && !y);
        arena.size = arena.used;
        arena.used = 0;
        arena.base = (unsigned char *)malloc(arena.size);
    }
    memset(&arena, 0, sizeof arena);
    (void)fsi_arena_take(&arena, (size_t)-1, 2);
    ASSERT_EQ(1, arena.failed);
    fsi_logger logger;
    logger.log_fn = note;
    logger.user = said;
    fsi_log(NULL, 0, "nobody");
    fsi_log(&logger, 2, "told");
    ASSERT_STR_EQ("2 told", said);
    PASS();
}

static fsi_quat turn(uint64_t *seed) {
    fsi_real s = FSI_R(2.5), x = (fsi_real)check_random(seed), y = (fsi_real)check_random(seed),
             z = (fsi_real)check_random(seed);
    return fsi_quat_from_rotation(fsi_vec(s * x, s * y, s * z));
}

TEST base_rotations_and_matrices(void) {
    const double tol = TOL(1e-14, 2e-6);
    uint64_t seed = 3;
    for (int k = 0; k < 200; k++) {
        fsi_quat a = turn(&seed), b = turn(&seed);
        fsi_mat3 A = fsi_quat_matrix(a), B = fsi_quat_matrix(b), AB = fsi_mat3_mul(&A, &B),
                 C = fsi_quat_matrix(fsi_quat_mul(a, b)), At = fsi_mat3_transpose(&A);
        fsi_vec3 v = fsi_vec((fsi_real)check_random(&seed), (fsi_real)check_random(&seed),
                             (fsi_real)check_random(&seed)),
                 u = fsi_quat_rotate(a, v), w = fsi_mat3_mul_vec(&A, v);
        fsi_mat3 inertia = fsi_mat3_mul(&A, &At);
        fsi_mat3 M;
        for (int i = 0; i < 9; i++) {
            CHECK_NEAR(AB.m[i], C.m[i], 4 * tol);
            CHECK_NEAR(i % 4 == 0, inertia.m[i], 4 * tol);
            M.m[i] = (fsi_real)check_random(&seed);
        }
        CHECK_NEAR(1, fsi_mat3_det(&A), 4 * tol);
        CHECK_NEAR(0, fsi_vec_length(fsi_vec_sub(u, w)), 8 * tol);
        CHECK_NEAR(0, fsi_vec_length(fsi_vec_sub(fsi_mat3_tmul_vec(&A, w), v)), 8 * tol);
        CHECK_NEAR(fsi_vec_length(v), fsi_vec_length(u), 8 * tol);
        /* R M R^T v = R (M (R^T v)) */
        fsi_mat3 T = fsi_mat3_rotate(&A, &M);
        w = fsi_mat3_mul_vec(&M, fsi_mat3_tmul_vec(&A, v));
        CHECK_NEAR(0, fsi_vec_length(fsi_vec_sub(fsi_mat3_mul_vec(&T, v), fsi_mat3_mul_vec(&A, w))),
                   20 * tol);
        if (fabs((double)fsi_mat3_det(&M)) < 0.05)
            continue;
        ASSERT(fsi_mat3_inverse(&M, &T));
        inertia = fsi_mat3_mul(&M, &T);
        for (int i = 0; i < 9; i++)
            CHECK_NEAR(i % 4 == 0, inertia.m[i], 2000 * tol);
    }
    {
        fsi_mat3 zero;
        fsi_quat q = fsi_quat_from_rotation(fsi_vec(0, 0, FSI_R(1e-6))); /* the series near zero */
        fsi_vec3 quarter =
            fsi_quat_rotate(fsi_quat_from_rotation(fsi_vec(0, 0, FSI_PI / 2)), fsi_vec(1, 0, 0));
        memset(&zero, 0, sizeof zero);
        fsi_mat3 keep;
        keep.m[0] = 5;
        ASSERT(!fsi_mat3_inverse(&zero, &keep) && keep.m[0] >= 5 && keep.m[0] <= 5);
        CHECK_NEAR(5e-7, q.z, 1e-12);
        CHECK_NEAR(cos(5e-7), q.w, tol);
        CHECK_NEAR(0, quarter.x, tol);
        CHECK_NEAR(1, quarter.y, tol); /* counter-clockwise */
        q.w = q.x = q.y = q.z = 0;
        q = fsi_quat_unit(q);
        CHECK_NEAR(1, q.w, 0);
    }
    PASS();
}

static double square_sum(size_t begin, size_t end, void *user) {
    const fsi_real *x = (const fsi_real *)user;
    double s = 0;
    for (; begin < end; begin++)
        s += (double)x[begin] * (double)x[begin];
    return s;
}

TEST base_arrays_and_reductions(void) {
    static const size_t size[] = {0, 1, 3, 255, 256, 257, 1023, 1024, 8191, 8193, 100003};
    static const int threads[] = {1, 2, 3, 8};
    for (int k = 0; k < 11; k++) {
        size_t n = size[k];
        fsi_real *x = random_vector(n, 4), *y = random_vector(n, 5), *z = vector(n);
        double sum = 0, dot = 0, square = 0, most = 0, first[4] = {0, 0, 0, 0};
        for (size_t i = 0; i < n; i++) {
            sum += (double)x[i];
            dot += (double)x[i] * (double)y[i];
            square += (double)x[i] * (double)x[i];
            most = fmax(most, fabs((double)x[i]));
        }
        for (int t = 0; t < 4; t++) {
            double now[4];
            check_threads(threads[t]);
            now[0] = fsi_sum(n, x);
            now[1] = fsi_dot(n, x, y);
            now[2] = fsi_norm(n, x);
            now[3] = fsi_reduce(n, square_sum, x);
            if (t == 0)
                memcpy(first, now, sizeof first);
            ASSERT(!memcmp(first, now, sizeof first)); /* the same bits */
        }
        check_threads(1);
        CHECK_NEAR(sum, first[0], 1e-10);
        CHECK_NEAR(dot, first[1], 1e-10);
        CHECK_NEAR(sqrt(square), first[2], 1e-10);
        CHECK_REL(square, first[3], 1e-12);
        CHECK_NEAR(most, fsi_max_abs(n, x), 0);
        /* z = (x - (x + 2 y)) / 2 = -y */
        fsi_copy(n, x, z);
        fsi_axpy(n, 2, y, z);
        fsi_xpay(n, x, -1, z);
        fsi_scale(n, FSI_R(0.5), z);
        for (size_t i = 0; i < n; i++)
            CHECK_NEAR(-(double)y[i], z[i], TOL(1e-15, 1e-6));
        fsi_fill(n, 3, z);
        CHECK_NEAR(3.0 * (double)n, fsi_sum(n, z), 0);
        ASSERT(fsi_all_finite(n, z));
        if (n) {
            z[n - 1] = (fsi_real)NAN;
            ASSERT(!fsi_all_finite(n, z));
            {
                fsi_real m = fsi_max_abs(n, z);
                ASSERT(!fsi_all_finite(1, &m));
            }
            z[n - 1] = (fsi_real)-INFINITY;
            ASSERT(!fsi_all_finite(n, z));
        }
        free(x);
        free(y);
        free(z);
    }
    PASS();
}

/* ------------------------------------------------------------------------------------------------
 * csr */
TEST csr_against_dense(void) {
    enum {
        R = 37,
        C = 23,
        N = 900
    };

    triplets t = {NULL, NULL, NULL, 0, 0};
    double D[R * C];
    fsi_real *x = random_vector(R + C, 3), y[R + C];
    uint64_t seed = 1;
    memset(D, 0, sizeof D);
    for (int k = 0; k < N; k++) { /* many duplicates */
        int r = (int)((check_random(&seed) + 1) / 2 * R),
            c = (int)((check_random(&seed) + 1) / 2 * C);
        double v = (double)(fsi_real)check_random(&seed);
        put(&t, r, c, v);
        D[r * C + c] += v;
    }
    fsi_csr A = build(&t, R, C);
    CHECK_OK(fsi_csr_check(&A));
    fsi_csr_mul(&A, x, y);
    double Dt;
    int i;
    int j;
    for (i = 0; i < R; i++) {
        for (Dt = 0, j = 0; j < C; j++)
            Dt += D[i * C + j] * (double)x[j];
        CHECK_NEAR(Dt, y[i], TOL(1e-13, 1e-5));
    }
    fsi_csr_tmul(&A, x, y);
    for (j = 0; j < C; j++) {
        for (Dt = 0, i = 0; i < R; i++)
            Dt += D[i * C + j] * (double)x[i];
        CHECK_NEAR(Dt, y[j], TOL(1e-13, 1e-5));
    }
    fsi_csr T;
    CHECK_OK(fsi_csr_transpose(&A, &T, NULL));
    CHECK_OK(fsi_csr_check(&T));
    ASSERT_EQ(C, T.rows);
    ASSERT_EQ(R, T.cols);
    for (i = 0; i < T.rows; i++)
        for (int k = T.row[i]; k < T.row[i + 1]; k++)
            CHECK_NEAR(D[T.col[k] * C + i], T.val[k], TOL(1e-14, 1e-6));
    ASSERT(csr_asymmetry(&A) > 1e29);
    fsi_csr_free(&A, NULL);
    fsi_csr_free(&A, NULL);
    fsi_csr_free(&T, NULL);
    free(x);
    PASS();
}

TEST csr_symmetry_and_refusals(void) {
    triplets t = {NULL, NULL, NULL, 0, 0};
    int32_t i[2] = {0, 1}, j[2] = {1, 5};
    fsi_real v[2] = {1, 1};
    fsi_csr A = laplacian(5, 4, 3, 1, 0), B = {0, 0, NULL, NULL, NULL};
    CHECK_NEAR(0, csr_asymmetry(&A), 0);
    A.val[1] = FSI_R(-1.5);
    CHECK_NEAR(0.5 / 6, csr_asymmetry(&A), 1e-6);
    fsi_csr_free(&A, NULL);
    /* column 5 of 2 */
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_csr_from_triplets(&B, 2, 2, 2, i, j, v, NULL));
    j[1] = 0;
    v[1] = (fsi_real)HUGE_VAL;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_csr_from_triplets(&B, 2, 2, 2, i, j, v, NULL));
    v[1] = 1;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_csr_from_triplets(&B, -1, 2, 2, i, j, v, NULL));
    ASSERT(B.row == NULL);
    /* empty matrices are fine */
    B = build(&t, 0, 0);
    CHECK_OK(fsi_csr_check(&B));
    fsi_csr_mul(&B, v, v);
    fsi_csr_free(&B, NULL);
    PASS();
}

/* ------------------------------------------------------------------------------------------------
 * cg */
TEST L_01_cg_finite_termination(void) {
    enum {
        N = 200
    };

    static const double level[5] = {1, 2, 5, 10, 100};
    double w[N];
    fsi_real *b = random_vector(N, 5), x[N] = {0};
    for (int i = 0; i < N; i++)
        w[i] = level[i % 5];
    fsi_real *A = spectrum(N, w, 11);
    dense d;
    d.n = N;
    d.A = A;
    fsi_krylov_desc desc = krylov(N, op_of(dense_apply, &d), TOL(1e-10, 1e-4));
    fsi_report report;
    CHECK_OK(fsi_cg_solve(&desc, b, x, NULL, 0, &report));
    CHECK_MOST(report.iterations, 6);
    CHECK_MOST(residual_of(&desc, b, x), TOL(1e-10, 1e-4) * 1.0001 * fsi_norm(N, b));
    printf("  cg with 5 distinct eigenvalues: %d iterations\n", report.iterations);
    free(A);
    free(b);
    PASS();
}

typedef struct energy_log {
    const double *exact;
    double e[400];
    int count;
} energy_log;

static int energy_history(int iteration, double residual, const fsi_real *x, void *user) {
    energy_log *g = (energy_log *)user;
    double s = 0, left = 0;
    int n = 127;
    (void)residual;
    /* e.A e = sum of squared differences */
    for (int i = 0; i <= n; i++) {
        double e = i < n ? (double)x[i] - g->exact[i] : 0;
        s += (e - left) * (e - left);
        left = e;
    }
    if (iteration < 400) {
        g->e[iteration] = sqrt(s);
        g->count = iteration;
    }
    return 0;
}

TEST L_02_cg_error_bound(void) {
    enum {
        N = 127
    };

    fsi_csr matrix = laplacian(N, 1, 1, 1, 0);
    fsi_real *b = random_vector(N, 2), x[N] = {0};
    double *D = dense_of(&matrix), *bd = doubles(N, b), *exact = gauss(N, D, bd);
    fsi_krylov_desc desc = krylov(N, fsi_csr_operator(&matrix), TOL(1e-12, 1e-4));
    energy_log g;
    memset(&g, 0, sizeof g);
    g.exact = exact;
    desc.history_fn = energy_history;
    desc.history_user = &g;
    CHECK_OK(fsi_cg_solve(&desc, b, x, NULL, 0, NULL));
    double kappa = 1 / pow(tan(3.14159265358979323846 / (2 * (N + 1))), 2);
    double q = (sqrt(kappa) - 1) / (sqrt(kappa) + 1);
    for (int k = 1; k <= g.count; k++) {
        CHECK_MOST(g.e[k], 2 * pow(q, k) * g.e[0] + TOL(1e-9, 1e-2) * g.e[0]);
        CHECK_MOST(g.e[k], g.e[k - 1] * (1 + TOL(1e-10, 1e-3)) + TOL(1e-11, 1e-3) * g.e[0]);
    }
    CHECK_MOST(distance(N, x, exact), TOL(1e-9, 3e-2));
    fsi_csr_free(&matrix, NULL);
    free(b);
    free(D);
    free(bd);
    free(exact);
    PASS();
}

TEST L_05_singular_consistent(void) {
    enum {
        M = 32,
        N = M * M
    };

    fsi_csr A = laplacian(M, M, 1, 0, 0), P = laplacian(M, M, 1, 0, 0);
    fsi_real *b = random_vector(N, 9), *x = vector(N);
    mean m = {N};
    double tol = TOL(1e-10, 1e-5);
    fsi_krylov_desc desc = krylov(N, fsi_csr_operator(&A), tol);
    remove_mean(b, &m);
    fsi_ic ic;
    CHECK_OK(fsi_ic_init(&ic, &A, NULL));
    desc.precondition = fsi_ic_operator(&ic);
    desc.project_fn = remove_mean;
    desc.project_user = &m;
    fsi_report free_floating;
    CHECK_OK(fsi_cg_solve(&desc, b, x, NULL, 0, &free_floating));
    CHECK_MOST(residual_of(&desc, b, x), 1.1 * tol * fsi_norm(N, b));
    CHECK_NEAR(0, fsi_sum(N, x) / N, TOL(1e-12, 1e-5));
    fsi_ic_free(&ic);
    for (int k = P.row[0]; k < P.row[1]; k++)
        P.val[k] = P.col[k] == 0 ? 1 : 0; /* pin cell 0 */
    for (int k = 1; k < P.row[N]; k++)
        if (P.col[k] == 0 && k >= P.row[1])
            P.val[k] = 0;
    b[0] = 0;
    desc.A = fsi_csr_operator(&P);
    desc.project_fn = NULL;
    CHECK_OK(fsi_ic_init(&ic, &P, NULL));
    fsi_report pinned;
    CHECK_OK(fsi_cg_solve(&desc, b, x, NULL, 0, &pinned));
    printf("  all-Neumann 32^2: %d iterations with projector, %d pinned\n",
           free_floating.iterations, pinned.iterations);
    CHECK_MOST(free_floating.iterations, 1.2 * pinned.iterations);
    fsi_ic_free(&ic);
    fsi_csr_free(&A, NULL);
    fsi_csr_free(&P, NULL);
    free(b);
    free(x);
    PASS();
}

TEST L_06_singular_inconsistent(void) {
    enum {
        M = 32,
        N = M * M
    };

    fsi_csr matrix = laplacian(M, M, 1, 0, 0);
    fsi_real *b = vector(N), *x = vector(N);
    mean m = {N};
    fsi_krylov_desc desc = krylov(N, fsi_csr_operator(&matrix), TOL(1e-8, 1e-5));
    fsi_report report;
    for (int with = 0; with < 2; with++) {
        desc.project_fn = with ? remove_mean : NULL;
        desc.project_user = &m;
        fsi_fill(N, 1, b);
        CHECK_RESULT(FSI_INCOMPATIBLE, fsi_cg_solve(&desc, b, x, NULL, 0, &report));
        ASSERT(fsi_all_finite(N, x));
        CHECK_MOST(report.iterations, 2);
        fsi_real *c = random_vector(N, 4);
        for (int i = 0; i < N; i++)
            c[i] += FSI_R(0.3);
        CHECK_RESULT(FSI_INCOMPATIBLE, fsi_cg_solve(&desc, c, x, NULL, 0, &report));
        ASSERT(fsi_all_finite(N, x));
        CHECK_MOST(report.iterations, 2000);
        CHECK_MOST(fabs((double)fsi_max_abs(N, x)), 100);
        printf("  incompatible, projector %d: %d iterations, residual %.3g (|mean| sqrt n = %.3g), "
               "max |x| %.3g\n",
               with, report.iterations, report.residual, fabs(fsi_sum(N, c)) / sqrt((double)N),
               (double)fsi_max_abs(N, x));
        /* the compatible part was solved */
        if (with) {
            remove_mean(c, &m);
            CHECK_MOST(residual_of(&desc, c, x), TOL(2e-8, 2e-5) * fsi_norm(N, c));
        }
        free(c);
    }
    fsi_csr_free(&matrix, NULL);
    free(b);
    free(x);
    PASS();
}

TEST C_21_warm_start_energy(void) {
    enum {
        N = 100
    };

    fsi_csr matrix = laplacian(10, 10, 1, 1, 0);
    fsi_real *b = random_vector(N, 8), *x = vector(N), *bad = random_vector(N, 9);
    fsi_krylov_desc desc = krylov(N, fsi_csr_operator(&matrix), TOL(1e-10, 1e-5));
    fsi_report report;
    CHECK_OK(fsi_cg_solve(&desc, b, x, NULL, 0, &report));
    desc.guess = 1;
    /* x0 exact: nothing to do */
    CHECK_OK(fsi_cg_solve(&desc, b, x, NULL, 0, &report));
    ASSERT_EQ(0, report.iterations);
    ASSERT_EQ(0, report.restarts);
    fsi_scale(N, FSI_R(0.9), x);
    desc.max_iterations = 1;
    CHECK_RESULT(FSI_NOT_CONVERGED, fsi_cg_solve(&desc, b, x, NULL, 0, &report));
    ASSERT_EQ(0, report.restarts); /* q(x0) < 0: kept */
    fsi_scale(N, 100, bad);
    CHECK_RESULT(FSI_NOT_CONVERGED, fsi_cg_solve(&desc, b, bad, NULL, 0, &report));
    ASSERT_EQ(1, report.restarts); /* q(x0) > 0: dropped */
    CHECK_NEAR(fsi_norm(N, b), report.residual_start, 1e-5);
    fsi_csr_mul(&matrix, bad, x);
    CHECK_MOST(fsi_dot(N, bad, x) / 2 - fsi_dot(N, b, bad), 0); /* energy only fell */
    fsi_csr_free(&matrix, NULL);
    free(b);
    free(x);
    free(bad);
    PASS();
}

/* ------------------------------------------------------------------------------------------------
 * incomplete Cholesky */
TEST L_07_ic_exact_without_fill(void) {
    enum {
        N = 400
    };

    for (int kind = 0; kind < 2; kind++) {
        triplets t = {NULL, NULL, NULL, 0, 0};
        uint64_t seed = 3;
        fsi_real *b = random_vector(N, 1), *x = vector(N);
        for (int i = 0; i < N; i++)
            put(&t, i, i, 1);
        /* chain, or a tree whose nodes come before their parent */
        for (int i = 0; i + 1 < N; i++) {
            int p = kind == 0
                        ? i + 1
                        : i + 1 + (int)((check_random(&seed) + 1) / 2 * fsi__imin(7, N - 1 - i));
            put(&t, i, p, -1);
            put(&t, p, i, -1);
            put(&t, i, i, 1);
            put(&t, p, p, 1);
        }
        fsi_csr matrix = build(&t, N, N);
        fsi_ic ic;
        CHECK_OK(fsi_ic_init(&ic, &matrix, NULL));
        fsi_krylov_desc desc = krylov(N, fsi_csr_operator(&matrix), TOL(1e-10, 2e-6));
        desc.precondition = fsi_ic_operator(&ic);
        fsi_report report;
        CHECK_OK(fsi_cg_solve(&desc, b, x, NULL, 0, &report));
        CHECK_MOST(report.iterations, TOL(1, 2));
        fsi_ic_free(&ic);
        fsi_ic_free(&ic);
        fsi_csr_free(&matrix, NULL);
        free(b);
        free(x);
    }
    PASS();
}

TEST L_08_ic_breakdown_kershaw(void) {
    static const double K[16] = {3, -2, 0, 2, -2, 3, -2, 0, 0, -2, 3, -2, 2, 0, -2, 3};
    triplets t = {NULL, NULL, NULL, 0, 0};
    fsi_real b[4] = {1, 2, 3, 5}, x[4] = {0};
    for (int i = 0; i < 16; i++)
        if (K[i] != 0)
            put(&t, i / 4, i % 4, K[i]);
    fsi_csr matrix = build(&t, 4, 4);
    fsi_ic ic;
    CHECK_RESULT(FSI_SHIFTED, fsi_ic_init(&ic, &matrix, NULL));
    ASSERT(ic.shift > 0);
    fsi_krylov_desc desc = krylov(4, fsi_csr_operator(&matrix), TOL(1e-10, 1e-5));
    desc.precondition = fsi_ic_operator(&ic);
    fsi_report report;
    CHECK_OK(fsi_cg_solve(&desc, b, x, NULL, 0, &report));
    CHECK_MOST(report.iterations, 4);
    printf("  Kershaw: shift %.3g, %d iterations\n", ic.shift, report.iterations);
    fsi_ic_free(&ic);
    matrix.val[0] = -3;
    CHECK_RESULT(FSI_ERR_SINGULAR, fsi_ic_init(&ic, &matrix, NULL));
    fsi_csr_free(&matrix, NULL);
    PASS();
}

/* Root of the condition of P A: extreme eigenvalues of the tridiagonal matrix that the coefficients
 * of conjugate gradients make (Lanczos). */
static double condition_root(const fsi_csr *matrix, const fsi_ic *ic) {
    enum {
        MOST = 400
    };

    size_t N = (size_t)matrix->rows;
    fsi_real *r = random_vector(N, 6), *z = vector(N), *p = vector(N), *q = vector(N),
             *T = vector(MOST * MOST), w[MOST];
    double rz = 0, alpha = 1, first = fsi_norm(N, r);
    int m = 0;
    for (int k = 0; k < MOST && fsi_norm(N, r) > TOL(1e-10, 1e-5) * first; k++) {
        double was = alpha, old = rz;
        fsi_ic_solve(ic, r, z);
        rz = fsi_dot(N, r, z);
        double beta = k ? rz / old : 0;
        fsi_xpay(N, z, (fsi_real)beta, p);
        fsi_csr_mul(matrix, p, q);
        alpha = rz / fsi_dot(N, p, q);
        fsi_axpy(N, (fsi_real)-alpha, q, r);
        T[k * MOST + k] = (fsi_real)(1 / alpha + beta / was);
        if (k)
            T[k * MOST + k - 1] = (fsi_real)(sqrt(beta) / was);
        m = k + 1;
    }
    for (int k = 1; k < m; k++)
        for (int i = 0; i <= k; i++)
            T[k * m + i] = T[k * MOST + i];
    if (fsi_eigen_dense(m, T, NULL, w, NULL, NULL) != FSI_OK)
        w[0] = -1;
    rz = sqrt((double)w[m - 1] / (double)w[0]);
    free(r);
    free(z);
    free(p);
    free(q);
    free(T);
    return rz;
}

/* Iterations grow as the root of the condition: n with IC(0), sqrt n with MIC(0), whatever the
   right-hand side. For IC(0) far from the boundary, d = 4 - 2/d gives the pivot 2 + sqrt 2; the
   dropped fill adds 2 cos(a - b) / d to the symbol of A, so the condition is 4/(4 - 2/d) / (2 pi^2
   / (n+1)^2 / (2/d)) and its root 0.1865 (n+1). Counts of iterations add what a single right-hand
   side does (few smooth modes in noise: fewer steps; Ritz values that settle early: jumps of 5 %),
   so for them the growth over the three doublings together is asked for. */
TEST L_09_ic_and_mic_scaling(void) {
    /* right-hand side: 0 smooth, 1 noise */
    int its[2][2][4];
    double root[2][4];
    for (int k = 0; k < 4; k++) {
        int n = 32 << k;
        size_t N = (size_t)(n * n);
        fsi_csr matrix = laplacian(n, n, 1, 1, 0);
        for (int form = 0; form < 2; form++) {
            fsi_ic_desc how;
            memset(&how, 0, sizeof how);
            how.modified = form;
            fsi_ic ic;
            ASSERT(fsi_ic_init(&ic, &matrix, &how) >= 0);
            root[form][k] = condition_root(&matrix, &ic);
            /* same numbers, same factor */
            ASSERT(fsi_ic_update(&ic, &matrix) >= 0);
            /* the smooth solution is out of reach in single precision */
            for (int side = TOL(0, 1); side < 2; side++) {
                fsi_real *b = random_vector(N, 6), *x = vector(N);
                fsi_krylov_desc desc = krylov(N, fsi_csr_operator(&matrix), TOL(1e-6, 1e-4));
                for (int i = 0; side == 0 && i < n * n; i++) {
                    double X = (i % n + 1) / (n + 1.0), Y = (i / n + 1) / (n + 1.0);
                    b[i] = (fsi_real)(X * (1 - X) * exp(X * Y) + sin(3 * Y + 5 * X));
                }
                desc.precondition = fsi_ic_operator(&ic);
                fsi_report report;
                CHECK_OK(fsi_cg_solve(&desc, b, x, NULL, 0, &report));
                its[side][form][k] = report.iterations;
                free(b);
                free(x);
            }
            fsi_ic_free(&ic);
        }
        fsi_csr_free(&matrix, NULL);
        CHECK_REL(0.1865 * (n + 1), root[0][k], 0.03);
    }
    for (int form = 0; form < 2; form++) {
        /* 1.35 to 1.5; 1.9 to 2.1 */
        const double middle = form ? 1.425 : 2, wide = form ? 0.075 : 0.1;
        printf("  2D Poisson 32 64 128 256, %s: root of the condition %.2f %.2f %.2f %.2f, ratios "
               "%.3f %.3f %.3f\n",
               form ? "MIC(0)" : "IC(0) ", root[form][0], root[form][1], root[form][2],
               root[form][3], root[form][1] / root[form][0], root[form][2] / root[form][1],
               root[form][3] / root[form][2]);
        for (int k = 1; k < 4; k++)
            CHECK_NEAR(middle, root[form][k] / root[form][k - 1], wide);
        for (int side = TOL(0, 1); side < 2; side++) {
            const int *c = its[side][form];
            printf("    %s: %d %d %d %d iterations, ratios %.2f %.2f %.2f\n",
                   side ? "noise " : "smooth", c[0], c[1], c[2], c[3], (double)c[1] / c[0],
                   (double)c[2] / c[1], (double)c[3] / c[2]);
            CHECK_NEAR(middle, pow((double)c[3] / c[0], 1.0 / 3), wide);
            if (side == 0)
                for (int k = 2; k < 4; k++)
                    CHECK_NEAR(middle, (double)c[k] / c[k - 1], wide + 1e-9);
        }
    }
    PASS();
}

/* ------------------------------------------------------------------------------------------------
 * gmres */
TEST L_10_gmres_optimal(void) {
    enum {
        N = 40,
        S = 20
    };

    double X[N * N], e[N];
    fsi_real A[N * N], *b = random_vector(N, 21), x[N] = {0}, shift[S * S], c[S] = {1}, y[S] = {0};
    uint64_t seed = 31;
    for (int i = 0; i < N * N; i++)
        X[i] = check_random(&seed) + (i % (N + 1) == 0 ? 4 : 0);
    /* A = X^-1 diag X, column by column: not symmetric */
    for (int j = 0; j < N; j++) {
        static const double level[3] = {1, 3, -2};
        for (int i = 0; i < N; i++)
            e[i] = level[i % 3] * X[i * N + j];
        double *col = gauss(N, X, e);
        for (int i = 0; i < N; i++)
            A[i * N + j] = (fsi_real)col[i];
        free(col);
    }
    dense d;
    d.n = N;
    d.A = A;
    fsi_krylov_desc desc = krylov(N, op_of(dense_apply, &d), TOL(1e-10, 1e-4));
    fsi_report report;
    CHECK_OK(fsi_gmres_solve(&desc, b, x, NULL, 0, &report));
    ASSERT_EQ(3, report.iterations);
    for (int i = 0; i < S; i++)
        for (int j = 0; j < S; j++)
            shift[i * S + j] = FSI_R((i + 1) % S == j);
    d.n = S;
    d.A = shift;
    desc = krylov(S, op_of(dense_apply, &d), 1e-5);
    /* stagnates until the last one */
    for (int k = 1; k <= S; k++) {
        desc.max_iterations = k;
        CHECK_RESULT(k < S ? FSI_NOT_CONVERGED : FSI_OK,
                     fsi_gmres_solve(&desc, c, y, NULL, 0, &report));
        CHECK_NEAR(k < S ? 1 : 0, report.residual, 1e-6);
        ASSERT_EQ(k, report.iterations);
    }
    desc.max_iterations = 0;
    desc.restart = 10;
    CHECK_RESULT(FSI_STALLED, fsi_gmres_solve(&desc, c, y, NULL, 0, &report));
    ASSERT(fsi_all_finite(S, y));
    free(b);
    PASS();
}

typedef struct rmi {
    int n, k;
    const fsi_real *V, *P, *S, *QR, *tau;
    const int32_t *pivot;
    int rank;
} rmi;

/* y = P argmin |V c - x| */
static void rmi_hat(const rmi *r, const fsi_real *x, fsi_real *y) {
    fsi_real *b = vector((size_t)r->n), c[16];
    fsi_copy((size_t)r->n, x, b);
    fsi_qr_solve(r->n, r->k, r->QR, r->tau, r->pivot, r->rank, b, c, NULL);
    for (int i = 0; i < r->n; i++) {
        double s = 0;
        for (int j = 0; j < r->k; j++)
            s += (double)r->P[j * r->n + i] * (double)c[j];
        y[i] = (fsi_real)s;
    }
    free(b);
}

static void rmi_apply(const fsi_real *x, fsi_real *y, void *user) { /* x - S^ F^ x */
    const rmi *r = (const rmi *)user;
    fsi_real *t = vector((size_t)r->n);
    rmi_hat(r, x, t);
    dense d;
    d.n = r->n;
    d.A = r->S;
    dense_apply(t, y, &d);
    fsi_xpay((size_t)r->n, x, -1, y);
    free(t);
}

TEST L_11_gmres_low_rank_perturbation(void) {
    enum {
        N = 60,
        K = 5
    };

    fsi_real *V = random_vector(N * K, 1), *QR = random_vector(N * K, 1),
             *P = random_vector(N * K, 2), *S = random_vector(N * N, 3), tau[K],
             *b = random_vector(N, 4), x[N] = {0};
    int32_t pivot[K];
    rmi r;
    r.n = N;
    r.k = K;
    r.V = V;
    r.P = P;
    r.S = S;
    r.QR = QR;
    r.tau = tau;
    r.pivot = pivot;
    CHECK_OK(fsi_qr_factor(N, K, QR, tau, pivot, 0, &r.rank));
    ASSERT_EQ(K, r.rank);
    fsi_krylov_desc desc = krylov(N, op_of(rmi_apply, &r), TOL(1e-9, 2e-4));
    fsi_report report;
    CHECK_OK(fsi_gmres_solve(&desc, b, x, NULL, 0, &report));
    /* identity plus rank K: K + 1 eigenvalues */
    CHECK_MOST(report.iterations, K + 1);
    CHECK_MOST(residual_of(&desc, b, x), 2 * TOL(1e-9, 2e-4) * fsi_norm(N, b));
    free(V);
    free(QR);
    free(P);
    free(S);
    free(b);
    PASS();
}

/* ------------------------------------------------------------------------------------------------
 * symmqmr */
enum {
    SA = 256,
    SB = 10,
    SN = SA + SB
};

typedef struct saddle {
    fsi_csr A;
    fsi_cholesky chol;
    fsi_real B[SB * SA], S[SB * SB];
    double D[SN * SN];
    fsi_csr K;
} saddle;

static void saddle_make(saddle *s) {
    triplets t = {NULL, NULL, NULL, 0, 0};
    fsi_real z[SA];
    uint64_t seed = 77;
    s->A = laplacian(16, 16, 1, 1, 0);
    for (int i = 0; i < SB * SA; i++)
        s->B[i] = (fsi_real)check_random(&seed);
    for (int i = 0; i < SA; i++)
        for (int k = s->A.row[i]; k < s->A.row[i + 1]; k++)
            put(&t, i, s->A.col[k], (double)s->A.val[k]);
    for (int i = 0; i < SB; i++)
        for (int j = 0; j < SA; j++) {
            put(&t, SA + i, j, (double)s->B[i * SA + j]);
            put(&t, j, SA + i, (double)s->B[i * SA + j]);
        }
    s->K = build(&t, SN, SN);
    double *d = dense_of(&s->K);
    memcpy(s->D, d, sizeof s->D);
    free(d);
    memset(&s->chol, 0, sizeof s->chol);
    fsi_cholesky_init(&s->chol, &s->A, NULL);
    fsi_cholesky_factor(&s->chol, &s->A, 0, NULL);
    for (int j = 0; j < SB; j++) { /* S = B A^-1 B^T */
        fsi_cholesky_solve(&s->chol, s->B + j * SA, z);
        for (int i = 0; i < SB; i++)
            s->S[i * SB + j] = (fsi_real)fsi_dot(SA, s->B + i * SA, z);
    }
    fsi_dense_cholesky(SB, s->S);
}

static void saddle_free(saddle *s) {
    fsi_csr_free(&s->A, NULL);
    fsi_csr_free(&s->K, NULL);
    fsi_cholesky_free(&s->chol);
}

/* diag(A, B A^-1 B^T)^-1 */
static void saddle_ideal(const fsi_real *x, fsi_real *y, void *user) {
    saddle *s = (saddle *)user;
    fsi_cholesky_solve(&s->chol, x, y);
    fsi_copy(SB, x + SA, y + SA);
    fsi_dense_cholesky_solve(SB, s->S, y + SA);
}

TEST L_12_symmqmr_ideal_preconditioner(void) {
    saddle *s = (saddle *)calloc(1, sizeof *s);
    fsi_real *b = random_vector(SN, 5), *x = vector(SN);
    double *bd = doubles(SN, b);
    saddle_make(s);
    double *exact = gauss(SN, s->D, bd);
    fsi_krylov_desc desc = krylov(SN, fsi_csr_operator(&s->K), TOL(1e-10, 1e-4));
    desc.max_iterations = 5000;
    fsi_report plain;
    CHECK_OK(fsi_symmqmr_solve(&desc, b, x, NULL, 0, &plain));
    CHECK_MOST(residual_of(&desc, b, x), TOL(1e-10, 1e-4) * 1.0001 * fsi_norm(SN, b));
    CHECK_MOST(distance(SN, x, exact), TOL(1e-7, 1e-2));
    desc.precondition = op_of(saddle_ideal, s);
    fsi_report ideal;
    CHECK_OK(fsi_symmqmr_solve(&desc, b, x, NULL, 0, &ideal));
    CHECK_MOST(ideal.iterations, 4);
    CHECK_MOST(distance(SN, x, exact), TOL(1e-8, 1e-3));
    printf("  saddle point: %d iterations plain, %d with the ideal preconditioner\n",
           plain.iterations, ideal.iterations);
    saddle_free(s);
    free(s);
    free(b);
    free(x);
    free(bd);
    free(exact);
    PASS();
}

typedef struct slip {
    fsi_ic ic;
    int top, n;
} slip;

/* incomplete Cholesky above, -1 below: indefinite */
static void slip_precondition(const fsi_real *x, fsi_real *y, void *user) {
    const slip *s = (const slip *)user;
    fsi_ic_solve(&s->ic, x, y);
    for (int i = s->top; i < s->n; i++)
        y[i] = -x[i];
}

TEST L_13_symmqmr_indefinite_preconditioner(void) {
    /* [A B^T; B -M], M = mass of solids: blocks (+, +, -) */
    enum {
        T = 256,
        V = 12,
        N = T + V
    };

    triplets t = {NULL, NULL, NULL, 0, 0}, top = {NULL, NULL, NULL, 0, 0};
    fsi_csr L = laplacian(16, 16, 1, 1, 0);
    fsi_real *b = random_vector(N, 2), *x = vector(N), *D = vector(N * N), *y = vector(N);
    int32_t pivot[N];
    uint64_t seed = 5;
    for (int i = 0; i < T; i++)
        for (int k = L.row[i]; k < L.row[i + 1]; k++) {
            put(&t, i, L.col[k], (double)L.val[k]);
            put(&top, i, L.col[k], (double)L.val[k]);
        }
    for (int i = 0; i < V; i++) {
        for (int k = 0; k < 9; k++) {
            int j = (int)((check_random(&seed) + 1) / 2 * T);
            double v = check_random(&seed);
            put(&t, T + i, j, v);
            put(&t, j, T + i, v);
        }
        put(&t, T + i, T + i, -1.0 - 0.1 * i);
    }
    fsi_csr K = build(&t, N, N);
    fsi_csr A = build(&top, T, T);
    slip s;
    CHECK_OK(fsi_ic_init(&s.ic, &A, NULL));
    s.top = T;
    s.n = N;
    fsi_krylov_desc desc = krylov(N, fsi_csr_operator(&K), TOL(1e-12, 1e-5));
    fsi_report plain;
    CHECK_OK(fsi_symmqmr_solve(&desc, b, x, NULL, 0, &plain));
    desc.precondition = op_of(slip_precondition, &s);
    fsi_report good;
    CHECK_OK(fsi_symmqmr_solve(&desc, b, x, NULL, 0, &good));
    double *d = dense_of(&K);
    for (int i = 0; i < N * N; i++)
        D[i] = (fsi_real)d[i];
    CHECK_OK(fsi_dense_lu(N, D, pivot));
    fsi_copy(N, b, y);
    fsi_dense_lu_solve(N, D, pivot, y);
    double *yd = doubles(N, y);
    CHECK_MOST(distance(N, x, yd), TOL(1e-9, 1e-3));
    printf("  indefinite preconditioner: %d iterations, %d without\n", good.iterations,
           plain.iterations);
    ASSERT(good.iterations < plain.iterations);
    fsi_ic_free(&s.ic);
    fsi_csr_free(&L, NULL);
    fsi_csr_free(&A, NULL);
    fsi_csr_free(&K, NULL);
    free(b);
    free(x);
    free(D);
    free(y);
    free(d);
    free(yd);
    PASS();
}

TEST L_14_breakdown(void) {
    static const fsi_real A[4] = {0, 1, 1, 0};
    fsi_real b[2] = {1, 0}, x[2] = {7, 7};
    dense d = {2, A};
    fsi_krylov_desc desc = krylov(2, op_of(dense_apply, &d), 1e-6);
    fsi_report report;
    CHECK_RESULT(FSI_BREAKDOWN, fsi_cg_solve(&desc, b, x, NULL, 0, &report));
    ASSERT(fsi_all_finite(2, x));
    CHECK_RESULT(FSI_BREAKDOWN, fsi_symmqmr_solve(&desc, b, x, NULL, 0, &report));
    ASSERT(fsi_all_finite(2, x));
    CHECK_OK(fsi_gmres_solve(&desc, b, x, NULL, 0, &report));
    ASSERT_EQ(2, report.iterations);
    CHECK_NEAR(0, x[0], 1e-6);
    CHECK_NEAR(1, x[1], 1e-6);
    PASS();
}

static void poison(const fsi_real *x, fsi_real *y, void *user) {
    (void)x;
    y[0] = y[1] = (fsi_real)(HUGE_VAL * *(double *)user);
}

TEST L_15_trivial_and_refused(void) {
    fsi_real one[1] = {4}, b[2] = {0, 0}, x[2] = {1, 2}, endless = (fsi_real)HUGE_VAL;
    dense d;
    double sign = 1;
    fsi_report report;
    for (int k = 0; k < 3; k++) {
        d.n = 1;
        d.A = one;
        fsi_krylov_desc desc = krylov(1, op_of(dense_apply, &d), 1e-6);
        b[0] = 0;
        x[0] = 5;
        CHECK_OK(solvers[k](&desc, b, x, NULL, 0, &report)); /* b = 0 */
        ASSERT_EQ(0, report.iterations);
        ASSERT(x[0] == 0);
        b[0] = 8;
        CHECK_OK(solvers[k](&desc, b, x, NULL, 0, &report)); /* n = 1 */
        CHECK_NEAR(2, x[0], 1e-6);
        ASSERT_EQ(1, report.iterations);
        desc.guess = 1;
        x[0] = 2;
        CHECK_OK(solvers[k](&desc, b, x, NULL, 0, &report)); /* x0 exact */
        ASSERT_EQ(0, report.iterations);
        ASSERT(x[0] == 2);
        desc.n = 0;
        CHECK_OK(solvers[k](&desc, b, x, NULL, 0, &report)); /* n = 0 */
        desc.n = 1;
        b[0] = endless;
        x[0] = 3;
        CHECK_RESULT(FSI_ERR_ARGUMENT, solvers[k](&desc, b, x, NULL, 0, &report));
        b[0] = 1;
        desc.tolerance = -1;
        CHECK_RESULT(FSI_ERR_ARGUMENT, solvers[k](&desc, b, x, NULL, 0, &report));
        desc.tolerance = 0;
        CHECK_RESULT(FSI_ERR_SIZE, solvers[k](&desc, b, x, &report, 8, &report));
        CHECK_RESULT(FSI_ERR_ARGUMENT, solvers[k](NULL, b, x, NULL, 0, NULL));
        ASSERT(x[0] == 3);
        desc = krylov(2, op_of(poison, &sign), 1e-6);
        b[0] = b[1] = 1;
        CHECK_RESULT(FSI_ERR_NUMERIC, solvers[k](&desc, b, x, NULL, 0, &report));
        ASSERT(fsi_all_finite(2, x));
    }
    PASS();
}

static double fake_clock(void *user) {
    return *(double *)user += 1;
}

static int stop_at_three(int iteration, double residual, const fsi_real *x, void *user) {
    (void)residual;
    (void)x;
    (void)user;
    return iteration == 3;
}

TEST krylov_limits(void) {
    enum {
        N = 400
    };

    fsi_csr matrix = laplacian(20, 20, 1, 1, 0);
    fsi_real *b = random_vector(N, 8), *x = vector(N);
    fsi_report report;
    double now = 0;
    for (int k = 0; k < 3; k++) {
        fsi_krylov_desc desc = krylov(N, fsi_csr_operator(&matrix), 1e-5);
        size_t size = k == 0   ? fsi_cg_work_size(&desc)
                      : k == 1 ? fsi_symmqmr_work_size(&desc)
                               : fsi_gmres_work_size(&desc);
        unsigned char *work = (unsigned char *)malloc(size + 8);
        /* caller's block, not aligned to 64 */
        CHECK_OK(solvers[k](&desc, b, x, work + 8, size, &report));
        CHECK_RESULT(FSI_ERR_SIZE, solvers[k](&desc, b, x, work + 8, size - 64, &report));
        CHECK_MOST(residual_of(&desc, b, x), 1.0001e-5 * fsi_norm(N, b));
        desc.max_iterations = 4;
        CHECK_RESULT(FSI_NOT_CONVERGED, solvers[k](&desc, b, x, work + 8, size, &report));
        ASSERT_EQ(4, report.iterations);
        desc.max_iterations = 0;
        desc.clock_fn = fake_clock;
        desc.clock_user = &now;
        desc.seconds = 5;
        CHECK_RESULT(FSI_NOT_CONVERGED, solvers[k](&desc, b, x, work + 8, size, &report));
        ASSERT(report.iterations > 0 && report.iterations <= 5 && report.seconds > 4);
        desc.seconds = 0;
        desc.history_fn = stop_at_three;
        CHECK_RESULT(FSI_NOT_CONVERGED, solvers[k](&desc, b, x, work + 8, size, &report));
        ASSERT_EQ(3, report.iterations);
        /* more than rounding allows: an end, not a loop */
        desc = krylov(N, fsi_csr_operator(&matrix), 1e-18);
        ASSERT(solvers[k](&desc, b, x, work + 8, size, &report) > 0);
        CHECK_MOST(report.residual, TOL(1e-12, 1e-4) * fsi_norm(N, b));
        free(work);
    }
    fsi_csr_free(&matrix, NULL);
    free(b);
    free(x);
    PASS();
}

/* ------------------------------------------------------------------------------------------------
 * qr */
TEST L_16_pivoted_qr(void) {
    enum {
        N = 60,
        R = 50,
        C = 8,
        K = 3
    };

    fsi_real *A = vector(N * N), tau[N], *U = random_vector(R * K, 1), *W = random_vector(C * K, 2),
             *b = random_vector(R, 3), *b0 = vector(R), x[C];
    int32_t pivot[N];
    double s = sqrt(1 - 0.285 * 0.285), scale = 1, *G = (double *)calloc(K * K, sizeof(double)),
           g[K], left = 0;
    int rank = 0;
    for (int i = 0; i < N; i++, scale *= s)
        for (int j = i; j < N; j++)
            A[j * N + i] = FSI_R(scale * (i == j ? 1 : -0.285));
    CHECK_OK(fsi_qr_factor(N, N, A, tau, pivot, 0, &rank));
    /* Kahan: nothing is swapped and the diagonal does not warn */
    for (int i = 0; i < N; i++)
        ASSERT_EQ(i, pivot[i]);
    CHECK_NEAR(8.2e-2, fabs((double)A[N * N - 1]), 1e-3);
    ASSERT_EQ(N, rank);
    for (int j = 0; j < C; j++)
        for (int i = 0; i < R; i++) {
            double sum = 0;
            for (int k = 0; k < K; k++)
                sum += (double)U[k * R + i] * (double)W[k * C + j];
            A[j * R + i] = (fsi_real)sum;
        }
    CHECK_RESULT(FSI_RANK_DEFICIENT, fsi_qr_factor(R, C, A, tau, pivot, TOL(1e-12, 1e-5), &rank));
    ASSERT_EQ(K, rank);
    for (int i = 1; i < rank; i++)
        CHECK_MOST(fabs((double)A[i * R + i]),
                   fabs((double)A[(i - 1) * R + i - 1]) * (1 + TOL(1e-13, 1e-5)));
    fsi_copy(R, b, b0);
    double residual;
    fsi_qr_solve(R, C, A, tau, pivot, rank, b, x, &residual);
    /* the slow way: normal equations in the basis U */
    for (int i = 0; i < K; i++) {
        g[i] = fsi_dot(R, U + i * R, b0);
        for (int j = 0; j < K; j++)
            G[i * K + j] = fsi_dot(R, U + i * R, U + j * R);
    }
    double *y = gauss(K, G, g);
    for (int i = 0; i < R; i++) {
        double r = (double)b0[i];
        for (int k = 0; k < K; k++)
            r -= y[k] * (double)U[k * R + i];
        left += r * r;
    }
    CHECK_NEAR(sqrt(left), residual, TOL(1e-10, 1e-4));
    fsi_copy(R, b, b0);
    fsi_qr_apply_q(R, rank, A, tau, 0, b0); /* Q Q^T = 1 */
    fsi_qr_apply_q(R, rank, A, tau, 1, b0);
    for (int i = 0; i < R; i++)
        CHECK_NEAR(b[i], b0[i], TOL(1e-13, 1e-5));
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_qr_factor(-1, 2, A, tau, pivot, 0, &rank));
    fsi_fill(R * C, 0, A);
    CHECK_RESULT(FSI_RANK_DEFICIENT, fsi_qr_factor(R, C, A, tau, pivot, 0, &rank));
    ASSERT_EQ(0, rank);
    fsi_qr_solve(R, C, A, tau, pivot, rank, b, x, &residual);
    ASSERT(x[0] == 0);
    free(A);
    free(U);
    free(W);
    free(b);
    free(b0);
    free(G);
    free(y);
    PASS();
}

TEST L_17_duplicated_columns(void) {
    enum {
        N = 60,
        K = 2
    };

    fsi_real *V = random_vector(N * K, 1), *P = random_vector(N * K, 2), *QR = vector(N * K),
             *w = random_vector(N, 4), tau[K], y[N];
    int32_t pivot[K];
    double most = 0;
    for (int i = 0; i < N; i++) {
        V[N + i] = V[i] + FSI_R(1e-14) * w[i];
        P[N + i] = P[i] + FSI_R(1e-14) * w[N - 1 - i];
    }
    fsi_copy(N * K, V, QR);
    rmi r;
    r.n = N;
    r.k = K;
    r.V = V;
    r.P = P;
    r.QR = QR;
    r.tau = tau;
    r.pivot = pivot;
    r.S = NULL;
    CHECK_RESULT(FSI_RANK_DEFICIENT,
                 fsi_qr_factor(N, K, QR, tau, pivot, TOL(1e-12, 1e-5), &r.rank));
    for (int k = 0; k < 50; k++) {
        fsi_real *x = random_vector(N, (uint64_t)(100 + k));
        rmi_hat(&r, x, y);
        if (fsi_norm(N, y) / fsi_norm(N, x) > most)
            most = fsi_norm(N, y) / fsi_norm(N, x);
        free(x);
    }
    rmi_hat(&r, V, y);
    if (fsi_norm(N, y) / fsi_norm(N, V) > most)
        most = fsi_norm(N, y) / fsi_norm(N, V);
    CHECK_MOST(most, 2 * fsi_norm(N, P) / fsi_norm(N, V));
    free(V);
    free(P);
    free(QR);
    free(w);
    PASS();
}

/* ------------------------------------------------------------------------------------------------
 * dense */
TEST dense_factors_against_gauss(void) {
    int sizes[6] = {1, 2, 3, 7, 20, 64};
    for (int s = 0; s < 6; s++)
        for (int kind = 0; kind < 3; kind++) { /* Cholesky, LU symmetric and not */
            int n = sizes[s];
            fsi_real *A = random_vector((size_t)(n * n), (uint64_t)(7 + s)),
                     *x = random_vector((size_t)n, 3);
            double *b = doubles((size_t)n, x);
            int32_t pivot[64];
            if (kind < 2)
                for (int i = 0; i < n; i++)
                    for (int j = 0; j < i; j++)
                        A[j * n + i] = A[i * n + j];
            if (kind == 0)
                for (int i = 0; i < n; i++)
                    A[i * n + i] += (fsi_real)n;
            /* indefinite: needs row pivots */
            if (kind == 1 && n > 2)
                for (int i = 0; i < n; i++)
                    A[i * n + i] = FSI_R(i % 3 == 0 ? 0.0 : 0.1);
            double *D = doubles((size_t)(n * n), A);
            double *y = gauss(n, D, b);
            CHECK_OK(kind == 0 ? fsi_dense_cholesky(n, A) : fsi_dense_lu(n, A, pivot));
            if (kind == 0)
                fsi_dense_cholesky_solve(n, A, x);
            else
                fsi_dense_lu_solve(n, A, pivot, x);
            CHECK_MOST(distance((size_t)n, x, y), TOL(1e-10, 2e-2));
            free(A);
            free(x);
            free(D);
            free(b);
            free(y);
        }
    {
        fsi_real Z[4] = {1, 2, 2, 4}, inertia[4] = {1, 2, 2, 1}, N[4] = {0, 0, 0, 0};
        int32_t pivot[2];
        CHECK_RESULT(FSI_ERR_SINGULAR, fsi_dense_cholesky(2, Z));
        CHECK_RESULT(FSI_ERR_SINGULAR, fsi_dense_cholesky(2, inertia)); /* indefinite */
        CHECK_RESULT(FSI_ERR_SINGULAR, fsi_dense_lu(2, N, pivot));
        N[1] = (fsi_real)HUGE_VAL;
        CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_dense_lu(2, N, pivot));
        CHECK_OK(fsi_dense_cholesky(0, NULL));
    }
    PASS();
}

/* ------------------------------------------------------------------------------------------------
 * sparse Cholesky */
/* max |L L^T - P A P^T| */
static double factor_error(const fsi_cholesky *factor, const fsi_csr *matrix) {
    int n = factor->n;
    double *D = dense_of(matrix), *L = (double *)calloc((size_t)n * (size_t)n, sizeof(double)),
           worst = 0;
    for (int j = 0; j < n; j++)
        for (size_t p = factor->col[j]; p < factor->col[j + 1]; p++)
            L[(size_t)factor->row[p] * (size_t)n + (size_t)j] = factor->val[p];
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            double s = 0;
            for (int k = 0; k <= j; k++)
                s += L[i * n + k] * L[j * n + k];
            s = fabs(s - D[factor->order[i] * n + factor->order[j]]);
            if (!(s <= worst))
                worst = s;
        }
    free(D);
    free(L);
    return worst;
}

TEST L_18_sparse_cholesky(void) {
    enum {
        M = 40,
        N = M * M,
        H = 50
    };

    fsi_csr matrix = laplacian(M, M, 1, 1, 0), little = laplacian(15, 14, 1, 1, 0), arrow[2];
    fsi_real *b = random_vector(N, 1), *x = vector(N), *r = vector(N);
    fsi_cholesky_desc how;
    memset(&how, 0, sizeof how);
    fsi_cholesky c;
    CHECK_OK(fsi_cholesky_init(&c, &matrix, NULL));
    CHECK_RESULT(FSI_ERR_STATE, fsi_cholesky_solve(&c, b, x));
    size_t best = c.entries;
    /* twice: refactoring is the same */
    for (int k = 0; k < 2; k++) {
        CHECK_OK(fsi_cholesky_factor(&c, &matrix, 0, NULL));
        CHECK_OK(fsi_cholesky_solve(&c, b, x));
        fsi_csr_mul(&matrix, x, r);
        fsi_axpy(N, -1, b, r);
        CHECK_MOST(fsi_norm(N, r), TOL(1e-12, 1e-4) * fsi_norm(N, b));
    }
    how.ordering = FSI_ORDERING_NATURAL;
    fsi_cholesky d;
    CHECK_OK(fsi_cholesky_init(&d, &matrix, &how));
    size_t natural = d.entries;
    printf("  entries of L, 40^2 Poisson: %lu natural, %lu by minimum degree\n",
           (unsigned long)natural, (unsigned long)best);
    ASSERT(best * 2 < natural);
    fsi_cholesky_free(&d);
    how.ordering = FSI_ORDERING_GIVEN;
    how.order = c.order;
    CHECK_OK(fsi_cholesky_init(&d, &matrix, &how));
    ASSERT(d.entries == best);
    fsi_cholesky_free(&c);
    fsi_cholesky_free(&d);
    fsi_cholesky_free(&d);
    CHECK_OK(fsi_cholesky_init(&c, &little, NULL));
    CHECK_OK(fsi_cholesky_factor(&c, &little, 0, NULL));
    CHECK_MOST(factor_error(&c, &little), 1e-12);
    /* + 2.5 I, same pattern */
    CHECK_OK(fsi_cholesky_factor(&c, &little, 2.5, NULL));
    for (int i = 0; i < little.rows; i++)
        for (int k = little.row[i]; k < little.row[i + 1]; k++)
            if (little.col[k] == i)
                little.val[k] += FSI_R(2.5);
    CHECK_MOST(factor_error(&c, &little), 1e-12);
    for (int i = 0; i < little.rows; i++)
        for (int k = little.row[i]; k < little.row[i + 1]; k++)
            if (little.col[k] == i && i == 33)
                little.val[k] = -1;
    CHECK_RESULT(FSI_ERR_SINGULAR, fsi_cholesky_factor(&c, &little, 0, NULL));
    ASSERT(c.failed >= 0 && !c.factored);
    CHECK_RESULT(FSI_ERR_SIZE, fsi_cholesky_factor(&c, &matrix, 0, NULL));
    fsi_cholesky_free(&c);
    for (int k = 0; k < 2; k++) {
        triplets t = {NULL, NULL, NULL, 0, 0};
        for (int i = 0; i < H; i++) {
            int hub = k ? H - 1 : 0;
            put(&t, i, i, i == hub ? H : 2);
            if (i != hub) {
                put(&t, i, hub, 1);
                put(&t, hub, i, 1);
            }
        }
        arrow[k] = build(&t, H, H);
        for (int i = 0; i < 2; i++) {
            how.ordering = i ? FSI_ORDERING_NATURAL : FSI_ORDERING_DEGREE;
            CHECK_OK(fsi_cholesky_init(&c, &arrow[k], &how));
            /* hub first fills everything, last nothing */
            ASSERT_EQ(i && !k ? H * (H + 1) / 2 : 2 * H - 1, (int)c.entries);
            CHECK_OK(fsi_cholesky_factor(&c, &arrow[k], 0, NULL));
            CHECK_MOST(factor_error(&c, &arrow[k]), 1e-12);
            fsi_cholesky_free(&c);
        }
        fsi_csr_free(&arrow[k], NULL);
    }
    fsi_csr_free(&matrix, NULL);
    fsi_csr_free(&little, NULL);
    free(b);
    free(x);
    free(r);
    PASS();
}

TEST cholesky_random_patterns(void) {
    for (int trial = 0; trial < 60; trial++) {
        triplets t = {NULL, NULL, NULL, 0, 0};
        uint64_t seed = (uint64_t)trial + 1000;
        int n = 1 + (int)((check_random(&seed) + 1) * 40),
            edges = (int)((check_random(&seed) + 1) * 2.0 * n);
        for (int k = 0; k < n; k++)
            put(&t, k, k, 1.5);
        for (int k = 0; k < edges; k++) {
            int i = (int)((check_random(&seed) + 1) / 2 * n),
                j = (int)((check_random(&seed) + 1) / 2 * n);
            put(&t, i, j, -0.5);
            put(&t, j, i, -0.5);
            put(&t, i, i, 1);
            put(&t, j, j, 1);
        }
        fsi_csr matrix = build(&t, n, n);
        fsi_cholesky factor;
        CHECK_OK(fsi_cholesky_init(&factor, &matrix, NULL));
        CHECK_OK(fsi_cholesky_factor(&factor, &matrix, 0, NULL));
        CHECK_MOST(factor_error(&factor, &matrix), 1e-11);
        fsi_cholesky_free(&factor);
        fsi_csr_free(&matrix, NULL);
    }
    PASS();
}

/* A random graph fills in so much that the ordering runs out of room for its elements and has to
 * move them together. */
TEST L_18_cholesky_of_a_random_graph(void) {
    enum {
        N = 800,
        DEGREE = 4
    };

    triplets t = {NULL, NULL, NULL, 0, 0};
    uint64_t seed = 7;
    fsi_real *b = random_vector(N, 3), *x = vector(N);
    int k;
    for (int i = 0; i < N; i++)
        for (put(&t, i, i, 4 * DEGREE + 1), k = 0; k < DEGREE; k++) {
            int j = (int)((check_random(&seed) + 1) / 2 * N);
            if (j != i) {
                put(&t, i, j, -1);
                put(&t, j, i, -1);
            }
        }
    fsi_csr matrix = build(&t, N, N);
    fsi_cholesky factor;
    CHECK_OK(fsi_cholesky_init(&factor, &matrix, NULL));
    CHECK_OK(fsi_cholesky_factor(&factor, &matrix, 0, NULL));
    CHECK_OK(fsi_cholesky_solve(&factor, b, x));
    fsi_krylov_desc desc = krylov(N, fsi_csr_operator(&matrix), 0);
    CHECK_MOST(residual_of(&desc, b, x), TOL(1e-13, 1e-5) * fsi_norm(N, b));
    /* of a full triangle with 0.5 N^2 */
    CHECK_MOST((double)factor.entries, 0.3 * N * N);
    fsi_cholesky_free(&factor);
    fsi_csr_free(&matrix, NULL);
    free(b);
    free(x);
    PASS();
}

/* ------------------------------------------------------------------------------------------------
 * woodbury */
TEST L_19_woodbury_equals_cholesky(void) {
    enum {
        N = 90,
        BODIES = 3,
        K = 6 * BODIES
    };

    for (int e = -4; e <= 4; e++) {
        triplets t = {NULL, NULL, NULL, 0, 0};
        uint64_t seed = 4;
        double ratio = pow(10, e), D[N * N], arm = TOL(1e-8, 2e-2);
        fsi_real d[N], C[K * K], *b = random_vector(N, 6), x[N];
        memset(C, 0, sizeof C);
        memset(D, 0, sizeof D);
        woodbury_desc desc;
        memset(&desc, 0, sizeof desc);
        /* each face: normal and arm x normal of its body */
        for (int i = 0; i < N; i++) {
            double n[3], r[3], row[6];
            d[i] = FSI_R(1 + 0.5 * check_random(&seed));
            for (int a = 0; a < 3; a++) {
                n[a] = a == i % 3;
                r[a] = check_random(&seed);
            }
            for (int a = 0; a < 3; a++) {
                row[a] = n[a];
                row[3 + a] = r[(a + 1) % 3] * n[(a + 2) % 3] - r[(a + 2) % 3] * n[(a + 1) % 3];
            }
            for (int a = 0; a < 6; a++)
                if (row[a] != 0)
                    put(&t, i, 6 * (i * BODIES / N) + a, row[a]);
        }
        fsi_csr matrix = build(&t, N, K);
        /* inverse mass, fluid density 1 */
        for (int j = 0; j < K; j++)
            C[j * K + j] = FSI_R((j % 6 < 3 ? 0.1 : 0.3) / ratio);
        for (int i = 0; i < N; i++)
            D[i * N + i] = (double)d[i];
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++)
                for (int a = matrix.row[i]; a < matrix.row[i + 1]; a++)
                    for (int c = matrix.row[j]; c < matrix.row[j + 1]; c++)
                        D[i * N + j] += (double)matrix.val[a]
                                        * (double)C[matrix.col[a] * K + matrix.col[c]]
                                        * (double)matrix.val[c];
        desc.n = N;
        desc.diagonal = d;
        desc.U = &matrix;
        desc.C = C;
        woodbury wood;
        CHECK_OK(woodbury_init(&wood, &desc));
        woodbury_solve(&wood, b, x);
        double *bd = doubles(N, b);
        double *exact = gauss(N, D, bd);
        CHECK_MOST(distance(N, x, exact), arm);
        woodbury_free(&wood);
        woodbury_free(&wood);
        /* a fixed direction is fine, a negative mass is not */
        C[0] = 0;
        CHECK_OK(woodbury_init(&wood, &desc));
        woodbury_free(&wood);
        C[0] = -1;
        CHECK_RESULT(FSI_ERR_SINGULAR, woodbury_init(&wood, &desc));
        fsi_csr_free(&matrix, NULL);
        free(b);
        free(exact);
        free(bd);
    }
    PASS();
}

/* ------------------------------------------------------------------------------------------------
 * L-20, L-21 */
static int symmetric_positive(fsi_operator op, size_t n, const char *name, double tol,
                              int definite) {
    fsi_real *Ax = vector(n), *Ay = vector(n);
    double size = 0, worst = 0;
    int good = 1;
    for (int k = 0; k < 50; k++) {
        fsi_real *x = random_vector(n, (uint64_t)(2 * k + 1)),
                 *y = random_vector(n, (uint64_t)(2 * k + 2));
        double xx = fsi_norm(n, x), yy = fsi_norm(n, y);
        op.apply_fn(x, Ax, op.user);
        op.apply_fn(y, Ay, op.user);
        if (fsi_norm(n, Ax) / xx > size)
            size = fsi_norm(n, Ax) / xx;
        double d = fabs(fsi_dot(n, y, Ax) - fsi_dot(n, x, Ay)) / (xx * yy);
        if (k < 20 && d > worst)
            worst = d;
        if (definite && !(fsi_dot(n, x, Ax) > 0))
            good = 0;
        free(x);
        free(y);
    }
    if (!(worst <= tol * size)) {
        printf("  %s is not symmetric: %.3g\n", name, worst / size);
        good = 0;
    }
    free(Ax);
    free(Ay);
    return good;
}

TEST L_20_L_21_symmetric_and_positive(void) {
    enum {
        N = 300
    };

    fsi_csr A = laplacian(10, 6, 5, 1, 0);
    triplets t = {NULL, NULL, NULL, 0, 0};
    uint64_t seed = 2;
    fsi_real diag[N], C[36];
    fsi_ic_desc how;
    double tol = TOL(1e-13, 1e-5);
    memset(&how, 0, sizeof how);
    woodbury_desc wd;
    memset(&wd, 0, sizeof wd);
    memset(C, 0, sizeof C);
    how.modified = 1;
    fsi_ic ic;
    CHECK_OK(fsi_ic_init(&ic, &A, NULL));
    fsi_ic mic;
    CHECK_OK(fsi_ic_init(&mic, &A, &how));
    fsi_cholesky factor;
    CHECK_OK(fsi_cholesky_init(&factor, &A, NULL));
    CHECK_OK(fsi_cholesky_factor(&factor, &A, 0, NULL));
    for (int i = 0; i < N; i++) {
        diag[i] = FSI_R(2 + check_random(&seed));
        put(&t, i, i % 6, check_random(&seed));
    }
    for (int i = 0; i < 6; i++)
        C[7 * i] = 3;
    fsi_csr U = build(&t, N, 6);
    wd.n = N;
    wd.diagonal = diag;
    wd.U = &U;
    wd.C = C;
    woodbury wood;
    CHECK_OK(woodbury_init(&wood, &wd));
    ASSERT(symmetric_positive(fsi_csr_operator(&A), N, "laplacian", tol, 1));
    ASSERT(symmetric_positive(fsi_ic_operator(&ic), N, "ic", tol, 1));
    ASSERT(symmetric_positive(fsi_ic_operator(&mic), N, "mic", tol, 1));
    ASSERT(symmetric_positive(fsi_cholesky_operator(&factor), N, "cholesky", tol, 1));
    ASSERT(symmetric_positive(woodbury_operator(&wood), N, "woodbury", tol, 1));
    fsi_ic_free(&ic);
    fsi_ic_free(&mic);
    fsi_cholesky_free(&factor);
    woodbury_free(&wood);
    fsi_csr_free(&A, NULL);
    fsi_csr_free(&U, NULL);
    PASS();
}

/* ------------------------------------------------------------------------------------------------
 * eigen */
static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* All eigenvalues of the grid Laplacian, ascending */
static double *grid_spectrum(int n, int dim, int dirichlet) {
    int total = dim == 2 ? n * n : n * n * n, a, m;
    double *w = (double *)malloc((size_t)total * sizeof(double)), pi = 3.14159265358979323846;
    for (int k = 0; k < total; k++)
        for (w[k] = 0, m = k, a = 0; a < dim; a++, m /= n) {
            int q = m % n + (dirichlet ? 1 : 0);
            w[k] += 2 - 2 * cos(q * pi / (dirichlet ? n + 1 : n));
        }
    qsort(w, (size_t)total, sizeof(double), by_value);
    return w;
}

TEST L_03_spectra(void) {
    int full = getenv("FSI_TEST_FULL") != NULL;
    for (int dim = 2; dim <= 3; dim++)
        for (int wall = 0; wall < 2; wall++) {
            int n = dim == 2 ? 16 : full ? 12 : 6, total = dim == 2 ? n * n : n * n * n;
            fsi_csr matrix = laplacian(n, n, dim == 2 ? 1 : n, wall, 0);
            double *D = dense_of(&matrix), *exact = grid_spectrum(n, dim, wall);
            fsi_real *d = vector((size_t)(total * total)), *w = vector((size_t)total);
            for (int k = 0; k < total * total; k++)
                d[k] = (fsi_real)D[k];
            CHECK_OK(fsi_eigen_dense(total, d, NULL, w, d, NULL));
            for (int k = 0; k < total; k++)
                CHECK_NEAR(exact[k], w[k], TOL(1e-12, 2e-6));
            fsi_csr_free(&matrix, NULL);
            free(D);
            free(exact);
            free(d);
            free(w);
        }
    /* 16^3 by Lanczos: triple and sixfold eigenvalues */
    for (int wall = 0; wall < 2; wall++) {
        enum {
            C = 30
        };

        fsi_csr matrix = laplacian(16, 16, 16, wall, 0);
        double *exact = grid_spectrum(16, 3, wall);
        fsi_real w[C], *V = vector((size_t)C * 4096);
        fsi_modes_desc desc;
        memset(&desc, 0, sizeof desc);
        desc.K = &matrix;
        desc.count = C;
        fsi_report report;
        CHECK_OK(fsi_modes_solve(&desc, w, V, &report));
        for (int k = 0; k < C; k++)
            CHECK_NEAR(exact[k], w[k], TOL(1e-8, 1e-5));
        printf("  16^3 %s: %d modes in %d solves, %d restarts\n", wall ? "Dirichlet" : "Neumann", C,
               report.iterations, report.restarts);
        fsi_csr_free(&matrix, NULL);
        free(exact);
        free(V);
    }
    PASS();
}

/* Largest |A v - w B v| and |V B V^T - 1|, and the trace */
static void eigen_errors(int n, const double *A, const double *B, const fsi_real *w,
                         const fsi_real *V, double *residual, double *orthogonal) {
    double *BV = (double *)malloc((size_t)(n * n) * sizeof(double));
    *residual = *orthogonal = 0;
    for (int k = 0; k < n; k++)
        for (int i = 0; i < n; i++) {
            double a = 0, b = 0;
            for (int j = 0; j < n; j++) {
                a += A[i * n + j] * (double)V[k * n + j];
                b += (B ? B[i * n + j] : i == j) * (double)V[k * n + j];
            }
            BV[k * n + i] = b;
            a = fabs(a - (double)w[k] * b);
            if (!(a <= *residual))
                *residual = a;
        }
    for (int k = 0; k < n; k++)
        for (int i = 0; i < n; i++) {
            double s = -(i == k);
            for (int j = 0; j < n; j++)
                s += (double)V[i * n + j] * BV[k * n + j];
            if (!(fabs(s) <= *orthogonal))
                *orthogonal = fabs(s);
        }
    free(BV);
}

TEST L_04_symmetric_eigen(void) {
    enum {
        N = 24
    };

    double W[N], A[N * N], B[N * N], residual, orthogonal, trace, eps = (double)FSI_REAL_EPS, top;
    fsi_real a[N * N], b[N * N], w[N], V[N * N], *s;
    int i;
    for (int kind = 0; kind < 4; kind++) {
        int n = kind == 0 ? 21 : kind == 1 ? 8 : N;
        memset(a, 0, sizeof a);
        memset(b, 0, sizeof b);
        if (kind == 0)
            for (i = 0; i < n; i++) { /* Wilkinson W21+ */
                a[i * n + i] = FSI_R(abs(i - 10));
                if (i)
                    a[i * n + i - 1] = a[(i - 1) * n + i] = 1;
            }
        else if (kind == 1)
            for (i = 0; i < n * n; i++)
                a[i] = (fsi_real)(1.0 / (i / n + i % n + 1));
        else {
            for (i = 0; i < n; i++)
                W[i] = i < 3 ? 2.5 : 3 + 0.7 * i;
            s = spectrum(n, W, 5);
            memcpy(a, s, (size_t)(n * n) * sizeof *a);
            free(s);
        }
        if (kind == 3) {
            for (i = 0; i < n; i++)
                W[i] = 1 + 0.1 * i;
            s = spectrum(n, W, 6);
            memcpy(b, s, (size_t)(n * n) * sizeof *b);
            free(s);
        }
        for (trace = 0, top = 0, i = 0; i < n * n; i++) {
            A[i] = (double)a[i];
            B[i] = (double)b[i];
        }
        for (i = 0; i < n; i++) {
            double row = 0;
            trace += A[i * n + i];
            for (int j = 0; j < n; j++)
                row += fabs(A[i * n + j]);
            if (row > top)
                top = row;
        }
        CHECK_OK(fsi_eigen_dense(n, a, kind == 3 ? b : NULL, w, V, NULL));
        eigen_errors(n, A, kind == 3 ? B : NULL, w, V, &residual, &orthogonal);
        CHECK_MOST(residual, 50 * eps * top);
        CHECK_MOST(orthogonal, 50 * eps);
        for (i = 0; i < n; i++)
            trace -= kind == 3 ? 0 : (double)w[i];
        if (kind < 3)
            CHECK_NEAR(0, trace, TOL(1e-12, 1e-4));
        /* the gap itself */
        if (kind == 0)
            CHECK_NEAR(7.1e-14, (double)w[20] - (double)w[19], TOL(3e-14, 2e-6));
        if (kind == 2)
            CHECK_NEAR(w[0], w[2], TOL(1e-13, 1e-5));
        for (i = 1; i < n; i++)
            ASSERT(w[i] >= w[i - 1]);
    }
    b[0] = -1;
    CHECK_RESULT(FSI_ERR_SINGULAR, fsi_eigen_dense(N, a, b, w, V, NULL));
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_eigen_dense(-1, a, NULL, w, V, NULL));
    CHECK_OK(fsi_eigen_dense(0, NULL, NULL, NULL, NULL, NULL));
    PASS();
}

/* Sparse modes of a chain and of random pairs against the dense solver, rigid modes skipped or kept
 * out */
TEST modes_against_dense(void) {
    for (int n = 5; n <= 120; n += 23)
        for (int way = 0; way < 3; way++) {
            triplets k = {NULL, NULL, NULL, 0, 0}, m = {NULL, NULL, NULL, 0, 0};
            int count = n < 12 ? n - 2 : 9;
            fsi_real *w = vector((size_t)n), *V = vector((size_t)(count * n)),
                     *dk = vector((size_t)(n * n)), *dm = vector((size_t)(n * n)),
                     *one = vector((size_t)n);
            fsi_real *wd = vector((size_t)n), *t = vector((size_t)n), *u = vector((size_t)n);
            fsi_report report;
            /* a free bar with consistent mass */
            for (int i = 0; i < n; i++) {
                one[i] = 1;
                put(&m, i, i, i % 3 ? 0.4 : 0.9);
                if (i == 0)
                    continue;
                put(&k, i, i, 1 + 0.2 * (i % 2));
                put(&k, i - 1, i - 1, 1 + 0.2 * (i % 2));
                put(&k, i, i - 1, -1 - 0.2 * (i % 2));
                put(&k, i - 1, i, -1 - 0.2 * (i % 2));
                put(&m, i, i - 1, 0.1);
                put(&m, i - 1, i, 0.1);
            }
            fsi_csr K = build(&k, n, n);
            fsi_csr M = build(&m, n, n);
            double *D = dense_of(&K);
            for (int i = 0; i < n * n; i++)
                dk[i] = (fsi_real)D[i];
            free(D);
            D = dense_of(&M);
            for (int i = 0; i < n * n; i++)
                dm[i] = (fsi_real)D[i];
            free(D);
            CHECK_OK(fsi_eigen_dense(n, dk, dm, wd, NULL, NULL));
            fsi_modes_desc desc;
            memset(&desc, 0, sizeof desc);
            desc.K = &K;
            desc.M = &M;
            desc.count = count;
            if (way == 1)
                desc.skip = 1;
            if (way == 2) {
                desc.null_count = 1;
                desc.null_vectors = one;
            }
            CHECK_OK(fsi_modes_solve(&desc, w, V, &report));
            for (int c = 0; c < count; c++)
                CHECK_NEAR(wd[c + (way > 0)], w[c], TOL(1e-9, 1e-5));
            for (int c = 0; c < count; c++) {
                fsi_csr_mul(&M, V + c * n, t);
                for (int i = 0; i <= c; i++)
                    CHECK_NEAR(i == c, fsi_dot((size_t)n, V + i * n, t), TOL(1e-10, 2e-5));
                fsi_csr_mul(&K, V + c * n, u);
                fsi_axpy((size_t)n, -w[c], t, u);
                CHECK_MOST(fsi_norm((size_t)n, u), TOL(1e-8, 1e-4));
            }
            fsi_csr_free(&K, NULL);
            fsi_csr_free(&M, NULL);
            free(w);
            free(V);
            free(dk);
            free(dm);
            free(one);
            free(wd);
            free(t);
            free(u);
        }
    PASS();
}

TEST modes_refusals(void) {
    fsi_csr matrix = laplacian(5, 1, 1, 1, 0);
    fsi_real w[5], V[25], two[10] = {1, 1, 1, 1, 1, 2, 2, 2, 2, 2};
    fsi_modes_desc desc;
    memset(&desc, 0, sizeof desc);
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_modes_solve(&desc, w, V, NULL));
    desc.K = &matrix;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_modes_solve(&desc, w, V, NULL)); /* count 0 */
    desc.count = 6;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_modes_solve(&desc, w, V, NULL));
    desc.count = 3;
    desc.null_count = 2;
    desc.null_vectors = two;
    /* dependent null vectors */
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_modes_solve(&desc, w, V, NULL));
    desc.null_count = 0;
    desc.count = 5;
    CHECK_OK(fsi_modes_solve(&desc, w, V, NULL));
    CHECK_NEAR(2 - 2 * cos(3.14159265358979323846 / 6), w[0], TOL(1e-12, 1e-6));
    fsi_csr_free(&matrix, NULL);
    PASS();
}

/* The same problem in other units: every answer is the one in ordinary units, scaled. (Found by
 * scaling: squares overflowed or vanished.) */
TEST any_magnitude(void) {
    enum {
        N = 6,
        M = 12
    };

    static const double scale[] = {TOL(1e-290, 1e-30), TOL(1e-170, 1e-20), TOL(1e160, 1e20),
                                   TOL(1e290, 1e30)};
    fsi_real one[6][N], R[N * N], tau[N], b[N], c[N], long_one[2000];
    double first_norm = 0;
    int32_t pivot[N];
    int rank;
    for (int q = -1; q < 4; q++) { /* -1: ordinary units */
        double s = q < 0 ? 1 : scale[q], tol = TOL(1e-11, 2e-3);
        fsi_real A[N * N], S[N * N], got[6][N];
        fsi_csr matrix = laplacian(M, 1, 1, 1, 0);
        fsi_modes_desc md;
        fsi_krylov_desc kd = krylov(M, fsi_csr_operator(&matrix), TOL(1e-10, 1e-4));
        fsi_real w[3], V[3 * M], x[M], f[M];
        uint64_t seed = 5;
        memset(&md, 0, sizeof md);
        for (int i = 0; i < N * N; i++)
            A[i] = (fsi_real)check_random(&seed);
        for (int i = 0; i < N; i++)
            b[i] = (fsi_real)check_random(&seed);
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) {
                double t = i == j ? 0.5 : 0;
                for (int k = 0; k < N; k++)
                    t += (double)A[i * N + k] * (double)A[j * N + k];
                S[i * N + j] = (fsi_real)(t * s);
            }
        memcpy(R, S, sizeof R);
        memcpy(got[0], b, sizeof b);
        CHECK_OK(fsi_dense_cholesky(N, R));
        fsi_dense_cholesky_solve(N, R, got[0]);
        memcpy(R, S, sizeof R);
        memcpy(got[1], b, sizeof b);
        CHECK_OK(fsi_dense_lu(N, R, pivot));
        fsi_dense_lu_solve(N, R, pivot, got[1]);
        memcpy(got[2], got[1], sizeof got[2]);
        for (int i = 0; i < N * N; i++)
            R[i] = (fsi_real)((double)A[i] * s);
        memcpy(c, b, sizeof c);
        CHECK_OK(fsi_qr_factor(N, N, R, tau, pivot, 0, &rank));
        fsi_qr_solve(N, N, R, tau, pivot, rank, c, got[3], NULL);
        CHECK_OK(fsi_eigen_dense(N, S, NULL, got[4], R, NULL));
        for (int i = 0; i < matrix.row[M]; i++)
            matrix.val[i] *= (fsi_real)s;
        for (int i = 0; i < M; i++) {
            f[i] = FSI_R(q < 0 ? 1 : s);
            x[i] = 0;
        }
        md.K = &matrix;
        md.count = 3;
        CHECK_OK(fsi_modes_solve(&md, w, V, NULL));
        for (int i = 0; i < 3; i++)
            got[5][i] = w[i];
        for (int k = 0; k < 3; k++) {
            CHECK_OK(solvers[k](&kd, f, x, NULL, 0, NULL));
            got[5][3 + k] = x[5];
            CHECK_NEAR(21, x[5], 21 * TOL(1e-8, 2e-3));
        }
        for (int i = 0; i < 2000; i++)
            long_one[i] = FSI_R(s * (i % 7 - 3));
        if (q < 0) {
            memcpy(one, got, sizeof one);
            first_norm = fsi_norm(2000, long_one);
        }
        for (int k = 0; k < 5; k++)
            for (int i = 0; i < N; i++)
                CHECK_NEAR(1, (double)got[k][i] / (double)one[k][i] * (k < 4 ? s : 1 / s), tol);
        for (int i = 0; i < 3; i++)
            CHECK_NEAR(1, (double)got[5][i] / (double)one[5][i] / s, tol);
        CHECK_NEAR(1, fsi_norm(2000, long_one) / first_norm / s, 1e-6);
        {
            fsi_vec3 u = fsi_vec_unit(fsi_vec(FSI_R(3 * s), 0, FSI_R(-4 * s)));
            fsi_quat h = {0, 0, 0, 0};
            CHECK_NEAR(0.6, u.x, 1e-6);
            CHECK_NEAR(-0.8, u.z, 1e-6);
            CHECK_NEAR(5, (double)fsi_vec_length(fsi_vec(FSI_R(3 * s), 0, FSI_R(-4 * s))) / s,
                       1e-5);
            h.y = FSI_R(-s);
            h = fsi_quat_unit(h);
            CHECK_NEAR(-1, h.y, 1e-6);
            CHECK_NEAR(0, h.w, 1e-6);
        }
        fsi_csr_free(&matrix, NULL);
    }
    PASS();
}

/* What cannot be answered is said, and nothing is changed. */
TEST impossible_input_is_told(void) {
    static const int32_t i[4] = {0, 0, 1, 1}, j[4] = {0, 0, 1, 0};
    fsi_real big[4] = {FSI_REAL_MAX, FSI_REAL_MAX, 1, 1}, C[4] = {0, 1, 1, 0}, d[2] = {1, 1},
             b[2] = {1, (fsi_real)NAN}, x[2] = {7, 7}, z[2], r[2] = {1, 2};
    fsi_csr A = {0, 0, NULL, NULL, NULL};
    triplets t = {NULL, NULL, NULL, 0, 0};
    /* a sum of duplicates overflows */
    CHECK_RESULT(FSI_ERR_NUMERIC, fsi_csr_from_triplets(&A, 2, 2, 4, i, j, big, NULL));
    ASSERT(A.row == NULL);
    put(&t, 0, 0, 1);
    put(&t, 1, 1, 1);
    fsi_csr U = build(&t, 2, 2);
    woodbury_desc wd;
    memset(&wd, 0, sizeof wd);
    wd.n = 2;
    wd.diagonal = d;
    wd.U = &U;
    wd.C = C;
    /* zeros on the diagonal, but not zero: indefinite */
    woodbury wb;
    CHECK_RESULT(FSI_ERR_SINGULAR, woodbury_init(&wb, &wd));
    C[0] = C[3] = 1;
    CHECK_OK(woodbury_init(&wb, &wd)); /* rank one */
    woodbury_solve(&wb, r, x);
    CHECK_NEAR(0, x[0], 1e-6);
    CHECK_NEAR(1, x[1], 1e-6);
    woodbury_free(&wb);
    fsi_cholesky factor;
    CHECK_OK(fsi_cholesky_init(&factor, &U, NULL));
    CHECK_OK(fsi_cholesky_factor(&factor, &U, 0, NULL));
    x[0] = x[1] = 7;
    CHECK_RESULT(FSI_ERR_NUMERIC, fsi_cholesky_solve(&factor, b, x));
    ASSERT(x[0] >= 7 && x[0] <= 7);
    fsi_cholesky_free(&factor);
    put(&t, 0, 0, 1);
    put(&t, 1, 1, 1);
    put(&t, 0, 1, 0.5);
    put(&t, 1, 0, 0.5);
    fsi_csr S = build(&t, 2, 2);
    fsi_ic ic;
    CHECK_OK(fsi_ic_init(&ic, &S, NULL));
    S.val[1] = S.val[2] = TOL(FSI_R(1e40), FSI_R(1e30));
    S.val[0] = TOL(FSI_R(1e-40), FSI_R(1e-30));
    /* no shift helps: the diagonal is what is left */
    CHECK_RESULT(FSI_ERR_SINGULAR, fsi_ic_update(&ic, &S));
    fsi_ic_solve(&ic, r, z);
    ASSERT(fsi_all_finite(2, z));
    CHECK_NEAR(2, z[1], 1e-6);
    fsi_ic_free(&ic);
    fsi_csr_free(&U, NULL);
    fsi_csr_free(&S, NULL);
    PASS();
}

/* ------------------------------------------------------------------------------------------------
 * allocator, threads */
/* Runs everything that allocates; the first result that is not a success ends it. */
static fsi_result allocate_all(const fsi_allocator *allocator, int *stage) {
    static const int32_t ti[4] = {0, 1, 0, 1}, tj[4] = {0, 1, 1, 0};
    static const fsi_real tv[4] = {2, 2, 1, 1};
    fsi_csr A = {0, 0, NULL, NULL, NULL}, T = {0, 0, NULL, NULL, NULL},
            L = laplacian(6, 5, 1, 1, 0);
    triplets t = {NULL, NULL, NULL, 0, 0};
    fsi_real b[30], x[30], d[30], C[4] = {1, 0, 0, 2}, w[4], V[120],
                                  D[9] = {2, 1, 0, 1, 2, 1, 0, 1, 2},
                                  E[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    fsi_krylov_desc desc = krylov(30, fsi_csr_operator(&L), 1e-5);
    fsi_ic_desc ih;
    memset(&ih, 0, sizeof ih);
    fsi_cholesky_desc ch;
    memset(&ch, 0, sizeof ch);
    woodbury_desc wh;
    memset(&wh, 0, sizeof wh);
    fsi_modes_desc mh;
    memset(&mh, 0, sizeof mh);
    fsi_ic ic;
    memset(&ic, 0, sizeof ic);
    fsi_cholesky factor;
    memset(&factor, 0, sizeof factor);
    woodbury wb;
    memset(&wb, 0, sizeof wb);
    for (int i = 0; i < 30; i++) {
        b[i] = FSI_R(i % 7);
        d[i] = 2;
        x[i] = 0;
        put(&t, i, i % 2, 1);
    }
    fsi_csr U = build(&t, 30, 2);
    desc.allocator = ih.allocator = ch.allocator = wh.allocator = mh.allocator = *allocator;
    wh.n = 30;
    wh.diagonal = d;
    wh.U = &U;
    wh.C = C;
    mh.K = &L;
    mh.count = 4;
    *stage = 0;
    fsi_result result = fsi_csr_from_triplets(&A, 2, 2, 4, ti, tj, tv, allocator);
    if (result == FSI_OK) {
        *stage = 1;
        result = fsi_csr_transpose(&A, &T, allocator);
    }
    for (int i = 0; i < 3; i++)
        if (result == FSI_OK) {
            *stage = 2 + i;
            result = solvers[i](&desc, b, x, NULL, 0, NULL);
        }
    if (result == FSI_OK) {
        *stage = 5;
        result = fsi_ic_init(&ic, &L, &ih);
    }
    if (result == FSI_OK) {
        *stage = 6;
        result = fsi_cholesky_init(&factor, &L, &ch);
    }
    if (result == FSI_OK) {
        *stage = 7;
        result = woodbury_init(&wb, &wh);
    }
    if (result == FSI_OK) {
        *stage = 8;
        result = fsi_eigen_dense(3, D, E, w, V, allocator);
    }
    if (result == FSI_OK) {
        *stage = 9;
        result = fsi_modes_solve(&mh, w, V, NULL);
    }
    fsi_csr_free(&A, allocator);
    fsi_csr_free(&T, allocator);
    fsi_ic_free(&ic);
    fsi_cholesky_free(&factor);
    woodbury_free(&wb);
    fsi_csr_free(&L, NULL);
    fsi_csr_free(&U, NULL);
    return result;
}

TEST failing_allocator_everywhere(void) {
    int k, stage = 0, last = -1;
    for (k = 0; k < 100; k++) {
        fail_allocator f = fail_begin(k);
        fsi_allocator allocator = fail_make(&f);
        fsi_result result = allocate_all(&allocator, &stage);
        ASSERT_EQ(0, (int)f.live);
        ASSERT(stage >= last);
        last = stage;
        if (result == FSI_OK)
            break;
        CHECK_RESULT(FSI_ERR_MEMORY, result);
    }
    ASSERT(k > 10 && k < 100);
    ASSERT_EQ(9, stage);
    {
        fsi_allocator half;
        memset(&half, 0, sizeof half);
        half.alloc_fn = fail_alloc_fn;
        CHECK_RESULT(FSI_ERR_ARGUMENT, allocate_all(&half, &stage));
    }
    PASS();
}

static uint64_t everything(int threads) {
    enum {
        M = 140,
        N = M * M
    };

    fsi_csr A = laplacian(M, M, 1, 1, 0), B = laplacian(25, 25, 20, 0, 0);
    fsi_real *b = random_vector(N, 8), *x = vector(N), *V = vector((size_t)B.rows * 3),
             *Q = random_vector(30000 * 4, 2), tau[4], w[3], c[4];
    fsi_report report;
    int32_t pivot[4];
    uint64_t h = 0;
    check_threads(threads);
    fsi_ic ic;
    fsi_ic_init(&ic, &A, NULL);
    for (int k = 0; k < 3; k++) {
        fsi_krylov_desc desc = krylov(N, fsi_csr_operator(&A), 1e-5);
        desc.precondition = fsi_ic_operator(&ic);
        desc.max_iterations = 40;
        solvers[k](&desc, b, x, NULL, 0, &report);
        h = check_hash(x, N * sizeof *x, h);
        h = check_hash(&report.residual, sizeof report.residual, h);
    }
    int rank;
    fsi_qr_factor(30000, 4, Q, tau, pivot, 0, &rank);
    fsi_qr_solve(30000, 4, Q, tau, pivot, rank, Q, c, NULL);
    h = check_hash(c, sizeof c, h);
    if (getenv("FSI_TEST_FULL")) {
        fsi_modes_desc mh;
        memset(&mh, 0, sizeof mh);
        mh.K = &B;
        mh.count = 3;
        fsi_modes_solve(&mh, w, V, NULL);
        h = check_hash(V, (size_t)B.rows * 3 * sizeof *V, h);
    }
    fsi_ic_free(&ic);
    fsi_csr_free(&A, NULL);
    fsi_csr_free(&B, NULL);
    free(b);
    free(x);
    free(V);
    free(Q);
    return h;
}

TEST same_bits_for_any_thread_count(void) {
    uint64_t one = everything(1);
    ASSERT(everything(2) == one);
    ASSERT(everything(3) == one);
    ASSERT(everything(8) == one);
    check_threads(1);
    PASS();
}

/* ------------------------------------------------------------------------------------------------
 * hostile systems */
enum {
    HOSTILE = 20
};

static int hostile_n;
static fsi_real hostile_A[HOSTILE * HOSTILE], hostile_P[HOSTILE * HOSTILE];

static void hostile_apply(const fsi_real *x, fsi_real *y, void *user) {
    const fsi_real *M = (const fsi_real *)user;
    for (int i = 0; i < hostile_n; i++) {
        double s = 0;
        for (int j = 0; j < hostile_n; j++)
            s += (double)M[i * hostile_n + j] * (double)x[j];
        y[i] = (fsi_real)s;
    }
}

/* |b - A x| from scratch; *size: the sum of absolute terms, what rounding is measured against.
 * Scaled, so that squares neither overflow nor vanish. */
static double hostile_residual(const fsi_real *b, const fsi_real *x, double *size) {
    double big = 0, s = 0, t = 0;
    int n = hostile_n;
    for (int i = 0; i < n; i++) {
        big = fmax(big, fabs((double)b[i]));
        for (int j = 0; j < n; j++)
            big = fmax(big, fabs((double)hostile_A[i * n + j] * (double)x[j]));
    }
    for (int i = 0; i < n && big > 0; i++) {
        double r = (double)b[i] / big, a = fabs(r);
        for (int j = 0; j < n; j++) {
            double v = (double)hostile_A[i * n + j] * (double)x[j] / big;
            r -= v;
            a += fabs(v);
        }
        s += r * r;
        t += a * a;
    }
    *size = sqrt(t) * big;
    return sqrt(s) * big;
}

/* Kinds: 0 positive definite, 1 singular, b in its range, 2 singular, b outside, 3 indefinite, 4
   unsymmetric, 5 rows of zeros, 6 all zero, 7 almost singular, 8 saddle. Returns the smallest
   eigenvalue's vector by which kind 2 is incompatible. */
static void hostile_matrix(int kind, double scale, uint64_t *seed, double *null_vector) {
    double Q[HOSTILE * HOSTILE], lambda[HOSTILE];
    int n = hostile_n;
    for (int i = 0; i < n * n; i++)
        Q[i] = check_random(seed);
    int k;
    for (int i = 0; i < n; i++) {
        double c;
        for (int pass = 0; pass < 2; pass++)
            for (int j = 0; j < i; j++) {
                for (c = 0, k = 0; k < n; k++)
                    c += Q[i * n + k] * Q[j * n + k];
                for (k = 0; k < n; k++)
                    Q[i * n + k] -= c * Q[j * n + k];
            }
        for (c = 0, k = 0; k < n; k++)
            c += Q[i * n + k] * Q[i * n + k];
        for (k = 0; k < n; k++)
            Q[i * n + k] /= sqrt(c);
        lambda[i] = pow(10, (kind == 7 ? -14 : -3) * (check_random(seed) + 1) / 2)
                    * (kind == 3 && check_random(seed) < 0 ? -1 : 1);
        if (kind == 6 || ((kind == 1 || kind == 2) && i >= n / 2))
            lambda[i] = 0;
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            double s = 0, m = 0;
            for (k = 0; k < n; k++) {
                s += lambda[k] * Q[k * n + i] * Q[k * n + j];
                m += (0.1 + k % 3) * Q[k * n + i] * Q[k * n + j];
            }
            if (kind == 8 && i >= n / 2 && j >= n / 2)
                s = 0;
            hostile_A[i * n + j] = hostile_A[j * n + i] = (fsi_real)(s * scale);
            hostile_P[i * n + j] = hostile_P[j * n + i] = (fsi_real)m;
        }
    for (int i = 0; i < n * n && kind == 4; i++)
        hostile_A[i] = (fsi_real)(scale * check_random(seed));
    for (int i = 0; i < n && kind == 5; i += 3)
        for (int j = 0; j < n; j++)
            hostile_A[i * n + j] = hostile_A[j * n + i] = 0;
    for (int i = 0; i < n; i++)
        null_vector[i] = Q[(n - 1) * n + i];
}

static const char *hostile_case(uint64_t seed) {
    static const char *const text[3] = {"cg", "symmqmr", "gmres"};
    static char where[80];
    const double far_off = TOL(120, 6);
    int kind = (int)(seed % 9), method = (int)(seed / 9 % 3);
    double null_vector[HOSTILE], norm = 0, outside = 0;
    fsi_real b[HOSTILE], x[HOSTILE], x0[HOSTILE];
    fsi_krylov_desc desc;
    memset(&desc, 0, sizeof desc);
    memset(x, 0, sizeof x);
    hostile_n = 1 + (int)((check_random(&seed) + 1) / 2 * (HOSTILE - 1));
    double scale = seed & 64 ? 1 : pow(10, far_off * check_random(&seed));
    double b_size = seed & 128 ? 1 : pow(10, far_off * check_random(&seed));
    if (seed % 31 == 0)
        b_size = TOL(1e170, 1e12);
    if (seed % 31 == 1)
        b_size = TOL(1e-170, 1e-12);
    hostile_matrix(kind, scale, &seed, null_vector);
    int i;
    for (i = 0; i < hostile_n; i++) {
        b[i] = (fsi_real)(check_random(&seed) * b_size);
        x[i] = (fsi_real)(check_random(&seed));
    }
    if (kind == 1 || kind == 5) {
        hostile_apply(x, b, hostile_A);
        for (i = 0; i < hostile_n; i++)
            b[i] = (fsi_real)((double)b[i] / scale * b_size);
    }
    for (i = 0; i < hostile_n; i++) {
        norm = fmax(norm, fabs((double)b[i]));
        x0[i] = x[i] =
            (fsi_real)((double)x[i]
                       * fmin(fmax(b_size / scale, TOL(1e-200, 1e-20)), TOL(1e200, 1e20)));
    }
    double left;
    for (left = 0, i = 0; i < hostile_n && norm > 0; i++) {
        left += pow((double)b[i] / norm, 2);
        outside += null_vector[i] * (double)b[i] / norm;
    }
    norm *= sqrt(left);
    desc.n = (size_t)hostile_n;
    desc.A.apply_fn = hostile_apply;
    desc.A.user = hostile_A;
    if (seed & 256) {
        desc.precondition.apply_fn = hostile_apply;
        desc.precondition.user = hostile_P;
    }
    double tolerance = desc.tolerance = pow(10, TOL(-10, -4) * (check_random(&seed) + 1) / 2);
    desc.max_iterations = seed & 512 ? 0 : 1 + (int)(seed % 7);
    desc.restart = seed & 1024 ? 0 : 1 + (int)(seed % 5);
    desc.guess = (seed & 2048) != 0;
    fsi_report report;
    fsi_result got = (method == 0   ? fsi_cg_solve
                      : method == 1 ? fsi_symmqmr_solve
                                    : fsi_gmres_solve)(&desc, b, x, NULL, 0, &report);
    snprintf(where, sizeof where, "%s, kind %d, n %d, result %d", text[method], kind, hostile_n,
             (int)got);
    if (!fsi_all_finite(desc.n, x) || report.residual - report.residual != 0)
        return "not finite";
    if (got < 0)
        return got == FSI_ERR_NUMERIC && (seed % 31 < 2 || !TOL(1, 0)) ? NULL : where;
    double size;
    left = hostile_residual(b, x, &size);
    size *= 64 * (double)FSI_REAL_EPS;
    /* converged is true */
    if (got == FSI_OK && left > 1.0001 * tolerance * norm + size)
        return where;
    /* what is reported is true */
    if (fabs(left - report.residual) > 1e-6 * left + size)
        return where;
    if (report.iterations > (desc.max_iterations ? desc.max_iterations : 10 * hostile_n + 100))
        return where;
    double given = desc.guess ? fmin(norm, hostile_residual(b, x0, &scale)) : norm;
    /* not worse than what was given */
    if (method && left > given * (1 + 1e-6) + size)
        return where;
    if (method == 0 && kind == 2 && hostile_n > 1 && !desc.max_iterations
        && fabs(outside) * 1e-3 > tolerance && got != FSI_INCOMPATIBLE && got != FSI_STALLED &&
        /* never a loop to the cap; float: rank is a matter of opinion */
        (TOL(1, 0) || got != FSI_BREAKDOWN))
        return where;
    /* and the easy ones are solved */
    if (kind == 0 && !desc.max_iterations && (method < 2 || !desc.restart) && got != FSI_OK
        && left > 100 * size)
        return where;
    return NULL;
}

TEST L_06_L_14_hostile_systems_are_told_true(void) {
    for (uint64_t q = 0; q < (getenv("FSI_TEST_FULL") ? 300000u : 6000u); q++) {
        const char *error = hostile_case(q);
        if (error) {
            printf("\n  case %lu: %s\n", (unsigned long)q, error);
            FAIL();
        }
    }
    PASS();
}

SUITE(base_suite) {
    RUN_TEST(base_memory_results_and_log);
    RUN_TEST(base_rotations_and_matrices);
    RUN_TEST(base_arrays_and_reductions);
}

SUITE(krylov_suite) {
    RUN_TEST(csr_against_dense);
    RUN_TEST(csr_symmetry_and_refusals);
    RUN_TEST(L_01_cg_finite_termination);
    RUN_TEST(L_02_cg_error_bound);
    RUN_TEST(L_05_singular_consistent);
    RUN_TEST(L_06_singular_inconsistent);
    RUN_TEST(C_21_warm_start_energy);
    RUN_TEST(L_07_ic_exact_without_fill);
    RUN_TEST(L_08_ic_breakdown_kershaw);
    RUN_TEST(L_09_ic_and_mic_scaling);
    RUN_TEST(L_10_gmres_optimal);
    RUN_TEST(L_11_gmres_low_rank_perturbation);
    RUN_TEST(L_12_symmqmr_ideal_preconditioner);
    RUN_TEST(L_13_symmqmr_indefinite_preconditioner);
    RUN_TEST(L_14_breakdown);
    RUN_TEST(L_15_trivial_and_refused);
    RUN_TEST(krylov_limits);
    RUN_TEST(L_06_L_14_hostile_systems_are_told_true);
}

SUITE(direct_suite) {
    RUN_TEST(L_16_pivoted_qr);
    RUN_TEST(L_17_duplicated_columns);
    RUN_TEST(dense_factors_against_gauss);
    RUN_TEST(L_18_sparse_cholesky);
    RUN_TEST(cholesky_random_patterns);
    RUN_TEST(L_18_cholesky_of_a_random_graph);
    RUN_TEST(L_19_woodbury_equals_cholesky);
    RUN_TEST(L_20_L_21_symmetric_and_positive);
    RUN_TEST(L_03_spectra);
    RUN_TEST(L_04_symmetric_eigen);
    RUN_TEST(modes_against_dense);
    RUN_TEST(modes_refusals);
    RUN_TEST(any_magnitude);
    RUN_TEST(impossible_input_is_told);
    RUN_TEST(failing_allocator_everywhere);
    RUN_TEST(same_bits_for_any_thread_count);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv) {
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(base_suite);
    RUN_SUITE(krylov_suite);
    RUN_SUITE(direct_suite);
    GREATEST_MAIN_END();
}
