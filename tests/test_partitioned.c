/* Partitioned coupling on exact model problems: catalogue P-01 .. P-05, P-08 .. P-10, C-23, C-24.
 */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "greatest.h"
#include "boundary.h"
#include "check.h"

/* Linear boxes: out = A in + b. */
typedef struct linear_box {
    int in, out, calls, fail_at;
    const double *A, *b;
    double mean;
} linear_box;

static fsi_result linear_solve(const fsi_real *in, fsi_real *out, void *user) {
    linear_box *l = (linear_box *)user;
    for (int i = 0; i < l->out; i++) {
        double s = l->b[i];
        for (int j = 0; j < l->in; j++)
            s += l->A[i * l->in + j] * (double)in[j];
        out[i] = (fsi_real)s;
    }
    if (l->fail_at == ++l->calls)
        out[0] = (fsi_real)sqrt(-(double)l->calls);
    return FSI_OK;
}

static fsi_blackbox linear_door(linear_box *l) {
    fsi_blackbox box;
    memset(&box, 0, sizeof box);
    box.solve_fn = linear_solve;
    box.user = l;
    return box;
}

/* Piston: F(x) = mu x + f (load), S(p) = g - p: the Gauss-Seidel factor is -mu. */
typedef struct piston {
    linear_box f, s;
    double fa, fb, sa, sb;
} piston;

static void piston_make(piston *p, double mu) {
    memset(p, 0, sizeof *p);
    p->fa = mu;
    p->fb = 0.3;
    p->sa = -1;
    p->sb = 0.7;
    p->f.in = p->f.out = p->s.in = p->s.out = 1;
    p->f.A = &p->fa;
    p->f.b = &p->fb;
    p->s.A = &p->sa;
    p->s.b = &p->sb;
}

static fsi_result piston_run(piston *p, fsi_partitioned_desc desc, double *x, fsi_report *report) {
    fsi_blackbox box = linear_door(&p->f), blackbox = linear_door(&p->s);
    fsi_real X = (fsi_real)*x, P = 0;
    desc.n = desc.m = 1;
    fsi_partitioned partitioned;
    if (fsi_partitioned_init(&partitioned, &desc) != FSI_OK)
        return FSI_ERR_MEMORY;
    fsi_result result = fsi_partitioned_step(&partitioned, 1, 1, &box, &blackbox, &X, &P, report);
    *x = (double)X;
    fsi_partitioned_free(&partitioned);
    return result;
}

TEST P_01_gauss_seidel_factor(void) {
    static const double mu[5] = {.5, .9, 1.1, 2, 10};
    for (int i = 0; i < 5; i++) {
        fsi_partitioned_desc desc;
        double x = 0;
        memset(&desc, 0, sizeof desc);
        desc.scheme = FSI_SCHEME_RELAXED;
        desc.omega = 1;
        desc.tolerance = FSI_R(1e-30);
        piston p;
        piston_make(&p, mu[i]);
        desc.max_iterations = 3;
        fsi_report a;
        ASSERT(piston_run(&p, desc, &x, &a) == FSI_NOT_CONVERGED);
        desc.max_iterations = 4;
        x = 0;
        piston_make(&p, mu[i]);
        fsi_report b;
        ASSERT(piston_run(&p, desc, &x, &b) == FSI_NOT_CONVERGED);
        CHECK_NEAR(mu[i], b.residual / a.residual, TOL(1e-10, 1e-5));
    }
    PASS();
}

TEST P_02_omega_window(void) {
    static const double mu[3] = {.5, 2, 10}, share[2] = {1.9, 2.1};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 2; k++) {
            fsi_partitioned_desc desc;
            double x = 0;
            memset(&desc, 0, sizeof desc);
            desc.scheme = FSI_SCHEME_RELAXED;
            desc.omega = (fsi_real)(share[k] / (1 + mu[i]));
            desc.tolerance = FSI_R(1e-30);
            desc.max_iterations = 5;
            piston p;
            piston_make(&p, mu[i]);
            fsi_report a;
            piston_run(&p, desc, &x, &a);
            desc.max_iterations = 6;
            x = 0;
            piston_make(&p, mu[i]);
            fsi_report b;
            piston_run(&p, desc, &x, &b);
            CHECK_NEAR(fabs(1 - share[k]), b.residual / a.residual, TOL(1e-8, 1e-4));
        }
    PASS();
}

/* Random linear pair with n modes; F has rank r; spectral radius of S F scaled to rho by power
 * iteration. */
typedef struct pair_box {
    linear_box f, s;
    double F[256], S[256], bf[16], bs[16];
} pair_box;

static void pair_make(pair_box *p, int n, int rank, double rho, uint64_t seed) {
    double v[16], w[16], norm = 1;
    memset(p, 0, sizeof *p);
    int i;
    int j;
    for (i = 0; i < n; i++)
        for (j = 0; j < n; j++) {
            p->S[i * n + j] = check_random(&seed) + (i == j ? -2 : 0);
            if (rank >= n)
                p->F[i * n + j] = check_random(&seed) + (i == j ? 2 : 0);
        }
    for (int k = 0; k < rank && rank < n; k++) {
        for (i = 0; i < n; i++)
            v[i] = check_random(&seed), w[i] = check_random(&seed);
        for (i = 0; i < n; i++)
            for (j = 0; j < n; j++)
                p->F[i * n + j] += v[i] * w[j];
    }
    for (i = 0; i < n; i++)
        p->bf[i] = check_random(&seed), p->bs[i] = check_random(&seed), v[i] = 1;
    for (int k = 0; k < 300; k++) {
        for (i = 0; i < n; i++)
            for (w[i] = 0, j = 0; j < n; j++)
                w[i] += p->F[i * n + j] * v[j];
        for (norm = 0, i = 0; i < n; i++) {
            for (v[i] = 0, j = 0; j < n; j++)
                v[i] += p->S[i * n + j] * w[j];
            norm += v[i] * v[i];
        }
        norm = sqrt(norm);
        for (i = 0; i < n; i++)
            v[i] /= norm;
    }
    for (i = 0; i < n * n; i++)
        p->F[i] *= rho / norm;
    p->f.in = p->f.out = p->s.in = p->s.out = n;
    p->f.A = p->F;
    p->f.b = p->bf;
    p->s.A = p->S;
    p->s.b = p->bs;
}

/* Steps that end at the cap, piston (mass 1) and fluid (added mass mu) keep the velocities of their
   last calls: what they differ by is multiplied by -mu (1 - omega (1 + mu))^(cap - 1) per step. So
   omega has a lower limit too, and there more added mass (impulses: the dual cell's) is stable
   where less is not; at the upper limit it is the other way round. */
typedef struct lagging {
    double mu, fluid, solid;
} lagging;

static fsi_result lagging_fluid(const fsi_real *in, fsi_real *out, void *user) {
    lagging *l = (lagging *)user;
    out[0] = (fsi_real)(-l->mu * ((double)in[0] - l->fluid));
    return FSI_OK;
}

static fsi_result lagging_solid(const fsi_real *in, fsi_real *out, void *user) {
    lagging *l = (lagging *)user;
    out[0] = (fsi_real)(l->solid + (double)in[0]);
    return FSI_OK;
}

TEST P_02_growth_at_the_cap(void) {
    static const double mu[6] = {3.5, 8.5, 61, 66, 2, 2}, omega[6] = {.008, .008, .03, .03, .1, .3};
    static const int grows[6] = {1, 0, 0, 1, 0, 0};
    for (int i = 0; i < 6; i++) {
        fsi_partitioned_desc desc;
        double factor = -mu[i] * pow(1 - omega[i] * (1 + mu[i]), 29);
        memset(&desc, 0, sizeof desc);
        fsi_blackbox box;
        memset(&box, 0, sizeof box);
        lagging l;
        l.mu = mu[i];
        l.fluid = 0;
        l.solid = 1;
        desc.n = desc.m = 1;
        desc.scheme = FSI_SCHEME_RELAXED;
        desc.omega = (fsi_real)omega[i];
        desc.tolerance = FSI_R(1e-30);
        box.solve_fn = lagging_fluid;
        box.user = &l;
        fsi_blackbox blackbox = box;
        blackbox.solve_fn = lagging_solid;
        fsi_partitioned partitioned;
        CHECK_OK(fsi_partitioned_init(&partitioned, &desc));
        for (int step = 0; step < 3; step++) {
            fsi_real x = (fsi_real)l.solid, p = 0;
            double before = l.solid - l.fluid;
            CHECK_RESULT(FSI_NOT_CONVERGED,
                         fsi_partitioned_step(&partitioned, 1, 1, &box, &blackbox, &x, &p, NULL));
            l.fluid = (double)x;
            l.solid += (double)p;
            CHECK_NEAR(factor, (l.solid - l.fluid) / before, TOL(1e-6, 1e-2) * (1 + fabs(factor)));
            if (fabs(factor) < 1e-3)
                break; /* what is left is round-off */
        }
        ASSERT_EQ(grows[i], fabs(factor) > 1);
        fsi_partitioned_free(&partitioned);
    }
    PASS();
}

/* The exact answer: (I - S F) x = S bf + bs by elimination. */
static void pair_exact(const pair_box *p, int n, fsi_real *x) {
    fsi_real A[256];
    int32_t pivot[16];
    for (int i = 0; i < n; i++) {
        double s = p->bs[i];
        for (int j = 0; j < n; j++) {
            double a = i == j;
            s += p->S[i * n + j] * p->bf[j];
            for (int k = 0; k < n; k++)
                a -= p->S[i * n + k] * p->F[k * n + j];
            A[i * n + j] = (fsi_real)a;
        }
        x[i] = (fsi_real)s;
    }
    fsi_dense_lu(n, A, pivot);
    fsi_dense_lu_solve(n, A, pivot, x);
}

static fsi_result pair_run(pair_box *p, int n, int gmres, double tolerance, fsi_real *x,
                           fsi_report *report) {
    fsi_partitioned_desc desc;
    fsi_blackbox box = linear_door(&p->f), blackbox = linear_door(&p->s);
    fsi_real P[16];
    memset(&desc, 0, sizeof desc);
    desc.n = desc.m = n;
    desc.tolerance = (fsi_real)tolerance;
    desc.start = 1;
    desc.reuse = -1;
    desc.scheme = gmres ? FSI_SCHEME_PAPER_GMRES : FSI_SCHEME_REDUCED;
    desc.no_final_solve = 1;
    desc.min_iterations = 2;
    fsi_partitioned partitioned;
    if (fsi_partitioned_init(&partitioned, &desc) != FSI_OK)
        return FSI_ERR_MEMORY;
    memset(x, 0, (size_t)n * sizeof *x);
    fsi_result result = fsi_partitioned_step(&partitioned, n, n, &box, &blackbox, x, P, report);
    fsi_partitioned_free(&partitioned);
    return result;
}

TEST P_03_finite_termination(void) {
    static const int modes[6] = {1, 2, 3, 4, 6, 8};
    for (int g = 0; g < 2; g++)
        for (int i = 0; i < 6; i++) {
            pair_box p;
            fsi_real x[16], y[16];
            int n = modes[i];
            pair_make(&p, n, n, 40, (uint64_t)(11 + i));
            fsi_report report;
            CHECK_OK(pair_run(&p, n, g, TOL(1e-8, 2e-2), x, &report));
            pair_exact(&p, n, y);
            ASSERT(report.iterations <= n + 2);
            if (sizeof(fsi_real) == 8)
                ASSERT_EQ_FMT(n + 2, p.f.calls, "%d");
            for (int k = 0; k < n; k++)
                CHECK_NEAR(y[k], x[k], TOL(1e-8, 2e-2));
        }
    PASS();
}

TEST P_04_rank_deficient_interface(void) {
    pair_box p;
    fsi_real x[16], y[16];
    fsi_report report;
    for (int seed = 0; seed < 5; seed++) {
        pair_make(&p, 8, 2, 40, (uint64_t)(100 + seed));
        CHECK_OK(pair_run(&p, 8, 0, TOL(1e-8, 2e-2), x, &report));
        pair_exact(&p, 8, y);
        ASSERT(p.f.calls <= 2 + 3);
        for (int k = 0; k < 8; k++)
            CHECK_NEAR(y[k], x[k], TOL(1e-8, 2e-2));
    }
    PASS();
}

TEST P_04_gmres_equals_small_solve(void) {
    pair_box p;
    fsi_real x[16], y[16];
    pair_make(&p, 6, 6, 20, 7);
    fsi_report report;
    CHECK_OK(pair_run(&p, 6, 0, TOL(1e-9, 2e-2), x, &report));
    pair_make(&p, 6, 6, 20, 7);
    CHECK_OK(pair_run(&p, 6, 1, TOL(1e-9, 2e-2), y, &report));
    for (int k = 0; k < 6; k++)
        CHECK_NEAR(x[k], y[k], TOL(1e-8, 5e-2));
    PASS();
}

/* Spring-mass piston on a column of fluid in time: omega = sqrt(k / (m + m_a)), damping of backward
 * Euler 1 / sqrt(1 + w^2 dt^2) per step. */
typedef struct spring {
    double m, k, ma, dt, x0, v0;
} spring;

static fsi_result spring_fluid(const fsi_real *in, fsi_real *out, void *user) {
    spring *s = (spring *)user;
    out[0] = (fsi_real)(s->ma * (((double)in[0] - s->x0) / s->dt - s->v0) / s->dt);
    return FSI_OK;
}

static fsi_result spring_solid(const fsi_real *in, fsi_real *out, void *user) {
    spring *s = (spring *)user;
    out[0] = (fsi_real)((s->m * (s->x0 / (s->dt * s->dt) + s->v0 / s->dt) - (double)in[0])
                        / (s->m / (s->dt * s->dt) + s->k));
    return FSI_OK;
}

TEST P_08_piston_frequency(void) {
    /* single: positions of order 1 carry 1e-7, times m_a / (m dt^2) */
    static const double ma[3] = {.5, 5, TOL(50, 5)};
    for (int i = 0; i < 3; i++) {
        spring s = {1, 40, 0, 1e-2, 1, 0};
        double x = 1, v = 0;
        fsi_real P = 0;
        s.ma = ma[i];
        fsi_partitioned_desc desc;
        memset(&desc, 0, sizeof desc);
        fsi_blackbox box;
        memset(&box, 0, sizeof box);
        desc.n = desc.m = 1;
        desc.tolerance = FSI_R(TOL(2e-12, 1e-5));
        box.user = &s;
        fsi_blackbox blackbox = box;
        box.solve_fn = spring_fluid;
        blackbox.solve_fn = spring_solid;
        fsi_partitioned partitioned;
        CHECK_OK(fsi_partitioned_init(&partitioned, &desc));
        double w2 = s.k / (s.m + s.ma);
        for (int step = 0; step < 100; step++) {
            fsi_report report;
            fsi_real X = (fsi_real)(s.x0 + s.dt * s.v0);
            CHECK_OK(fsi_partitioned_step(&partitioned, 1, 1, &box, &blackbox, &X, &P, &report));
            s.v0 = ((double)X - s.x0) / s.dt;
            s.x0 = (double)X;
            /* the monolithic backward Euler step */
            x = (x + s.dt * v) / (1 + w2 * s.dt * s.dt);
            v = v - s.dt * w2 * x;
            CHECK_NEAR(x, s.x0, TOL(1e-8, 5e-3));
        }
        double e0 = w2;
        double e = w2 * s.x0 * s.x0 + s.v0 * s.v0;
        if (sizeof(fsi_real) == 8)
            CHECK_REL(e0 * pow(1 / (1 + w2 * s.dt * s.dt), 100), e, 1e-6);
        fsi_partitioned_free(&partitioned);
    }
    PASS();
}

/* A box with memory that drifts with every call unless it is restored. */
typedef struct drift {
    double state, saved;
    int restores, saves;
} drift;

static fsi_result drift_solve(const fsi_real *in, fsi_real *out, void *user) {
    drift *d = (drift *)user;
    d->state += 1;
    out[0] = (fsi_real)(3 * (double)in[0] + d->state);
    return FSI_OK;
}

static fsi_result drift_save(void *user) {
    drift *d = (drift *)user;
    d->saved = d->state;
    d->saves++;
    return FSI_OK;
}

static fsi_result drift_restore(void *user) {
    drift *d = (drift *)user;
    d->state = d->saved;
    d->restores++;
    return FSI_OK;
}

TEST P_09_roll_back(void) {
    drift d = {5, 0, 0, 0};
    double A = -1, b = .2;
    linear_box l;
    fsi_real x = 0, p = 0;
    memset(&l, 0, sizeof l);
    fsi_partitioned_desc desc;
    memset(&desc, 0, sizeof desc);
    fsi_blackbox box;
    memset(&box, 0, sizeof box);
    l.in = l.out = 1;
    l.A = &A;
    l.b = &b;
    fsi_blackbox blackbox = linear_door(&l);
    box.solve_fn = drift_solve;
    box.save_fn = drift_save;
    box.restore_fn = drift_restore;
    box.user = &d;
    desc.n = desc.m = 1;
    desc.tolerance = FSI_R(TOL(1e-12, 1e-5));
    fsi_partitioned partitioned;
    CHECK_OK(fsi_partitioned_init(&partitioned, &desc));
    fsi_partitioned c2;
    CHECK_OK(fsi_partitioned_init(&c2, &desc));
    CHECK_OK(fsi_partitioned_step(&partitioned, 1, 1, &box, &blackbox, &x, &p, NULL));
    /* one step forward however many calls */
    ASSERT_EQ(6.0, d.state);
    CHECK_NEAR((.2 - 6) / 4, x, TOL(1e-11, 1e-5));
    ASSERT_EQ(1, d.saves);
    void *saved = malloc(fsi_partitioned_state_size(&partitioned));
    CHECK_OK(fsi_partitioned_save(&partitioned, saved));
    CHECK_OK(fsi_partitioned_restore(&c2, saved, fsi_partitioned_state_size(&c2)));
    {
        fsi_real x1 = x, x2 = x;
        drift_save(&d);
        fsi_real p1;
        CHECK_OK(fsi_partitioned_step(&partitioned, 1, 1, &box, &blackbox, &x1, &p1, NULL));
        drift_restore(&d);
        d.state = 6;
        fsi_real p2;
        CHECK_OK(fsi_partitioned_step(&c2, 1, 1, &box, &blackbox, &x2, &p2, NULL));
        ASSERT_EQ(x1, x2); /* bit for bit */
        ASSERT_EQ(p1, p2);
    }
    free(saved);
    fsi_partitioned_free(&partitioned);
    fsi_partitioned_free(&c2);
    PASS();
}

TEST P_10_aitken_scalar(void) {
    static const double mu[4] = {.5, 2, 10, 100};
    for (int i = 0; i < 4; i++) {
        fsi_partitioned_desc desc;
        double x = 0;
        memset(&desc, 0, sizeof desc);
        desc.scheme = FSI_SCHEME_AITKEN;
        desc.tolerance = FSI_R(TOL(1e-9, 1e-3));
        piston p;
        piston_make(&p, mu[i]);
        fsi_report report;
        CHECK_OK(piston_run(&p, desc, &x, &report));
        ASSERT_EQ_FMT(3, report.iterations, "%d");
        CHECK_NEAR((p.sb - p.fb) / (1 + mu[i]), x, TOL(1e-9, 1e-3));
    }
    PASS();
}

TEST P_03_pairs_of_earlier_steps_save_calls(void) {
    pair_box p;
    fsi_real x[16] = {0}, P[16];
    fsi_report report;
    int last = 0;
    pair_make(&p, 6, 6, 30, 3);
    fsi_partitioned_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.n = desc.m = 6;
    desc.tolerance = FSI_R(TOL(1e-8, 2e-2));
    fsi_blackbox box = linear_door(&p.f);
    fsi_blackbox blackbox = linear_door(&p.s);
    fsi_partitioned partitioned;
    CHECK_OK(fsi_partitioned_init(&partitioned, &desc));
    for (int step = 0; step < 12; step++) {
        for (int k = 0; k < 6; k++)
            p.bf[k] += .1 * sin(step + k), p.bs[k] -= .1 * cos(2 * step + k);
        CHECK_OK(fsi_partitioned_step(&partitioned, 6, 6, &box, &blackbox, x, P, &report));
        last = report.iterations;
    }
    /* 8 without pairs of earlier steps */
    ASSERT(last <= 5);
    /* five steps hold more pairs than there are directions */
    ASSERT(partitioned.filtered > 0);
    fsi_partitioned_free(&partitioned);
    PASS();
}

TEST P_bad_input_and_partners(void) {
    fsi_partitioned_desc desc;
    fsi_real x = 0, P = 0;
    memset(&desc, 0, sizeof desc);
    fsi_partitioned partitioned;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_partitioned_init(&partitioned, &desc));
    desc.n = desc.m = 1;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_partitioned_init(&partitioned, &desc)); /* no tolerance */
    desc.tolerance = FSI_R(1e-3);
    for (long k = 0;; k++) {
        fail_allocator fail = fail_begin(k);
        desc.allocator = fail_make(&fail);
        fsi_result result = fsi_partitioned_init(&partitioned, &desc);
        fsi_partitioned_free(&partitioned);
        ASSERT_EQ(0, fail.live);
        if (result == FSI_OK)
            break;
        CHECK_RESULT(FSI_ERR_MEMORY, result);
    }
    memset(&desc.allocator, 0, sizeof desc.allocator);
    CHECK_OK(fsi_partitioned_init(&partitioned, &desc));
    piston p;
    piston_make(&p, 3);
    fsi_blackbox box = linear_door(&p.f);
    fsi_blackbox blackbox = linear_door(&p.s);
    p.f.fail_at = 2; /* NaN out of the second call */
    CHECK_RESULT(FSI_ERR_NUMERIC,
                 fsi_partitioned_step(&partitioned, 1, 1, &box, &blackbox, &x, &P, NULL));
    p.f.fail_at = 0;
    x = 0;
    ASSERT(fsi_partitioned_step(&partitioned, 1, 1, &box, &blackbox, &x, &P, NULL) == FSI_OK);
    CHECK_NEAR((p.sb - p.fb) / 4, x, 1e-3);
    CHECK_RESULT(FSI_ERR_ARGUMENT,
                 fsi_partitioned_step(&partitioned, 2, 1, &box, &blackbox, &x, &P, NULL));
    fsi_partitioned_free(&partitioned);
    PASS();
}

/* Boxes that misbehave: what comes back is a clear result, and the scheme works on. */
typedef struct odd {
    int calls, fail_at, kind;
    uint64_t seed;
} odd;

static fsi_result odd_solve(const fsi_real *in, fsi_real *out, void *user) {
    odd *o = (odd *)user;
    /* gives up */
    if (++o->calls == o->fail_at && o->kind == 0)
        return FSI_ERR_MEMORY;
    out[0] = -3 * in[0] + FSI_R(1);
    out[1] = in[1] / 2;
    if (o->calls == o->fail_at && o->kind == 1)
        out[1] = (fsi_real)HUGE_VAL;
    /* noise: no fixed point */
    if (o->kind == 2)
        out[0] += (fsi_real)check_random(&o->seed), out[1] += (fsi_real)check_random(&o->seed);
    /* runs away for ever */
    if (o->kind == 3)
        out[0] = in[0] + 1, out[1] = in[1];
    /* says it did its best */
    return o->kind == 4 ? FSI_CAPPED : FSI_OK;
}

static fsi_result odd_back(void *user) {
    return ((odd *)user)->kind == 5 ? FSI_ERR_STATE : FSI_OK;
}

static fsi_result same_solve(const fsi_real *in, fsi_real *out, void *user) {
    (void)user;
    out[0] = in[0];
    out[1] = in[1];
    return FSI_OK;
}

TEST P_boxes_that_misbehave(void) {
    static const fsi_result expected[6] = {FSI_ERR_MEMORY, FSI_ERR_NUMERIC, FSI_NOT_CONVERGED,
                                           FSI_STALLED,    FSI_OK,          FSI_ERR_STATE};
    for (int scheme = 0; scheme < 3; scheme++)
        for (int kind = 0; kind < 6; kind++) {
            fsi_partitioned_desc desc;
            fsi_real x[2] = {0, 0}, p[2] = {0, 0};
            memset(&desc, 0, sizeof desc);
            fsi_blackbox box;
            memset(&box, 0, sizeof box);
            odd o;
            memset(&o, 0, sizeof o);
            desc.n = desc.m = 2;
            desc.scheme = (fsi_scheme)scheme;
            desc.tolerance = FSI_R(1e-3);
            desc.omega = FSI_R(0.2);
            fsi_partitioned partitioned;
            CHECK_OK(fsi_partitioned_init(&partitioned, &desc));
            o.kind = kind;
            o.fail_at = 2;
            o.seed = 5;
            box.solve_fn = odd_solve;
            box.restore_fn = odd_back;
            box.user = &o;
            fsi_blackbox blackbox = box;
            blackbox.solve_fn = same_solve;
            blackbox.restore_fn = NULL;
            fsi_report report;
            fsi_result result =
                fsi_partitioned_step(&partitioned, 2, 2, &box, &blackbox, x, p, &report);
            if (kind == 2 || kind == 3)
                ASSERT(result == FSI_NOT_CONVERGED || result == FSI_STALLED
                       || result == FSI_ERR_NUMERIC);
            else
                CHECK_RESULT(expected[kind], result);
            ASSERT_EQ(result, report.reason);
            if (kind == 4)
                ASSERT(partitioned.told[0] == FSI_CAPPED && partitioned.told[1] == FSI_OK);
            o.kind = 4;
            o.calls = 0;
            x[0] = x[1] = 0;
            /* and it works on */
            CHECK_OK(fsi_partitioned_step(&partitioned, 2, 2, &box, &blackbox, x, p, &report));
            CHECK_NEAR(.25, x[0], 1e-3);
            CHECK_OK(fsi_partitioned_step(&partitioned, 2, 2, &box, &blackbox, x, p, &report));
            fsi_partitioned_free(&partitioned);
        }
    PASS();
}

TEST P_lengths_may_change(void) {
    pair_box p[2];
    fsi_partitioned_desc desc;
    fsi_real x[16], y[16], P[16];
    memset(&desc, 0, sizeof desc);
    desc.n = desc.m = 8;
    desc.tolerance = FSI_R(TOL(1e-8, 2e-2));
    fsi_partitioned partitioned;
    CHECK_OK(fsi_partitioned_init(&partitioned, &desc));
    pair_make(&p[0], 6, 6, 20, 1);
    pair_make(&p[1], 3, 3, 20, 2);
    /* solids come and go: pairs of another length are forgotten */
    for (int step = 0; step < 8; step++) {
        pair_box *q = &p[step / 2 % 2];
        int n = q->f.in;
        fsi_blackbox box = linear_door(&q->f), blackbox = linear_door(&q->s);
        memset(x, 0, sizeof x);
        CHECK_OK(fsi_partitioned_step(&partitioned, n, n, &box, &blackbox, x, P, NULL));
        pair_exact(q, n, y);
        for (int i = 0; i < n; i++)
            CHECK_NEAR(y[i], x[i], TOL(1e-7, 4e-2));
    }
    CHECK_RESULT(FSI_ERR_ARGUMENT,
                 fsi_partitioned_step(&partitioned, 9, 9, NULL, NULL, x, P, NULL));
    fsi_partitioned_free(&partitioned);
    PASS();
}

/* Near-dependence is said: a fluid of rank 1 makes the third pair repeat the others. */
TEST P_dependent_pairs_are_told(void) {
    fsi_partitioned_desc desc;
    fsi_real x[16] = {0}, P[16];
    memset(&desc, 0, sizeof desc);
    pair_box p;
    pair_make(&p, 1, 1, 40, 9);
    desc.n = desc.m = 1;
    desc.tolerance = FSI_R(1e-30);
    desc.reuse = -1;
    desc.start = 1;
    desc.max_iterations = 8;
    desc.no_final_solve = 1;
    fsi_blackbox box = linear_door(&p.f);
    fsi_blackbox blackbox = linear_door(&p.s);
    fsi_partitioned partitioned;
    CHECK_OK(fsi_partitioned_init(&partitioned, &desc));
    fsi_report report;
    ASSERT(fsi_partitioned_step(&partitioned, 1, 1, &box, &blackbox, x, P, &report) >= 0);
    ASSERT(partitioned.dependent > 0 && report.restarts >= partitioned.dependent);
    fsi_partitioned_free(&partitioned);
    PASS();
}

/* F(x) = x, S(p) = p + 1: the reduced model is singular, there is nothing to find. Stall and
 * dropped models are said, and the next step is not harmed. */
TEST P_stall_is_told(void) {
    static const double one = 1, shift[2] = {0, 1};
    for (int scheme = 0; scheme < 3; scheme++) {
        linear_box f;
        fsi_real x = 0, p = 0;
        double half = -.5;
        memset(&f, 0, sizeof f);
        fsi_partitioned_desc desc;
        memset(&desc, 0, sizeof desc);
        f.in = f.out = 1;
        f.A = &one;
        f.b = shift;
        linear_box s = f;
        s.b = shift + 1;
        fsi_blackbox box = linear_door(&f);
        fsi_blackbox blackbox = linear_door(&s);
        desc.n = desc.m = 1;
        desc.tolerance = FSI_R(1e-3);
        desc.scheme = (fsi_scheme)scheme;
        fsi_partitioned partitioned;
        CHECK_OK(fsi_partitioned_init(&partitioned, &desc));
        fsi_report report;
        CHECK_RESULT(scheme == FSI_SCHEME_REDUCED ? FSI_STALLED : FSI_NOT_CONVERGED,
                     fsi_partitioned_step(&partitioned, 1, 1, &box, &blackbox, &x, &p, &report));
        ASSERT_EQ(scheme == FSI_SCHEME_REDUCED,
                  partitioned.now.stalled == 1 && partitioned.now.capped == 0 && report.restarts > 0
                      && report.iterations < 30);
        ASSERT_EQ(scheme != FSI_SCHEME_REDUCED, partitioned.now.capped == 1);
        CHECK_NEAR(1, report.residual, TOL(1e-12, 1e-4));
        s.A = &half;
        x = 0;
        CHECK_OK(fsi_partitioned_step(&partitioned, 1, 1, &box, &blackbox, &x, &p, &report));
        CHECK_NEAR(1 / 1.5, x, 1e-3);
        fsi_partitioned_free(&partitioned);
    }
    PASS();
}

/* Fewer pairs than modes and an added mass of 40: the step ends at its cap, and the solid keeps the
   load of the reduced model. Its answer is then nearer to what the fluid was told than the one to
   p_F would be, by which the next step would begin. */
TEST P_capped_step_leaves_solid_near_fluid(void) {
    for (int seed = 0; seed < 8; seed++) {
        pair_box b;
        fsi_real x[16] = {0}, p[16], pf[16], xs[16];
        double gap = 0, residual = 0;
        pair_make(&b, 8, 8, 40, (uint64_t)(31 + seed));
        fsi_blackbox box = linear_door(&b.f);
        fsi_blackbox blackbox = linear_door(&b.s);
        fsi_partitioned_desc desc;
        memset(&desc, 0, sizeof desc);
        desc.n = desc.m = 8;
        desc.tolerance = FSI_R(1e-9);
        desc.max_iterations = 6;
        fsi_partitioned partitioned;
        CHECK_OK(fsi_partitioned_init(&partitioned, &desc));
        CHECK_RESULT(FSI_NOT_CONVERGED,
                     fsi_partitioned_step(&partitioned, 8, 8, &box, &blackbox, x, p, NULL));
        for (int k = 0; k < 2; k++) {
            CHECK_OK(box.solve_fn(x, pf, box.user));
            CHECK_OK(blackbox.solve_fn(k ? pf : p, xs, blackbox.user));
            for (int i = 0; i < 8; i++)
                *(k ? &residual : &gap) =
                    fmax(*(k ? &residual : &gap), fabs((double)(xs[i] - x[i])));
        }
        if (getenv("FSI_VERBOSE"))
            printf("capped: solid off by %.3g, with p_F by %.3g\n", gap, residual);
        CHECK_MOST(gap, .9 * residual);
        fsi_partitioned_free(&partitioned);
    }
    PASS();
}

TEST P_no_allocation_in_a_step(void) {
    for (int gmres = 0; gmres < 2; gmres++) {
        fail_allocator count = fail_begin(-1);
        fsi_partitioned_desc desc;
        fsi_real x[16] = {0}, P[16];
        memset(&desc, 0, sizeof desc);
        desc.n = desc.m = 6;
        desc.tolerance = FSI_R(TOL(1e-8, 2e-2));
        desc.scheme = gmres ? FSI_SCHEME_PAPER_GMRES : FSI_SCHEME_REDUCED;
        desc.allocator = fail_make(&count);
        pair_box p;
        pair_make(&p, 6, 6, 20, 4);
        fsi_blackbox box = linear_door(&p.f);
        fsi_blackbox blackbox = linear_door(&p.s);
        fsi_partitioned partitioned;
        CHECK_OK(fsi_partitioned_init(&partitioned, &desc));
        long made = count.calls;
        for (int step = 0; step < 4; step++)
            CHECK_OK(fsi_partitioned_step(&partitioned, 6, 6, &box, &blackbox, x, P, NULL));
        ASSERT_EQ(made, count.calls);
        fsi_partitioned_free(&partitioned);
        ASSERT_EQ(0, count.live);
    }
    PASS();
}

/* ------------------------------------------------------------------------------------------------
 * boundary pressure projection */
typedef struct bpp {
    boundary_faces b;
    fsi_real area[64], mass[64], u[64];
    int32_t minus[64], plus[64];
    uint8_t fixed[64];
} bpp;

static void bpp_make(bpp *q, int faces, int regions, int fixed, uint64_t seed) {
    memset(q, 0, sizeof *q);
    for (int f = 0; f < faces; f++) {
        q->area[f] = (fsi_real)(1 + .5 * check_random(&seed));
        q->mass[f] = (fsi_real)(2 + check_random(&seed));
        q->u[f] = (fsi_real)check_random(&seed);
        q->minus[f] = f % (regions + 1) - 1;
        q->plus[f] = (f / 3) % (regions + 1) - 1;
        if (q->plus[f] == q->minus[f])
            q->plus[f] = -1;
        q->fixed[f] = (uint8_t)(f < fixed);
    }
    q->b.faces = faces;
    q->b.regions = regions;
    q->b.area = q->area;
    q->b.mass = q->mass;
    q->b.u = q->u;
    q->b.region_minus = q->minus;
    q->b.region_plus = q->plus;
    q->b.fixed = q->fixed;
}

static double bpp_flux(const bpp *q, int region) {
    double s = 0;
    for (int f = 0; f < q->b.faces; f++)
        s += (double)(q->area[f] * q->u[f]) * ((q->minus[f] == region) - (q->plus[f] == region));
    return s;
}

TEST C_23_boundary_projection(void) {
    for (int regions = 1; regions <= 3; regions++) {
        bpp q;
        fsi_real p0[4], p1[4], work[32];
        double scale = 0;
        bpp_make(&q, 40, regions, 5, (uint64_t)(40 + regions));
        bpp q2 = q;
        q2.b.u = q2.u;
        CHECK_OK(boundary_project(&q.b, FSI_R(0.1), p0, work));
        /* C^T U = 0, sources included */
        for (int r = 0; r < regions; r++)
            CHECK_NEAR(0, bpp_flux(&q, r), TOL(1e-13, 1e-5));
        /* scripted faces keep theirs */
        for (int f = 0; f < 5; f++)
            ASSERT_EQ(q2.u[f], q.u[f]);
        for (int f = 5; f < 40; f++) {
            double jump = (q.minus[f] >= 0 ? (double)p0[q.minus[f]] : 0)
                          - (q.plus[f] >= 0 ? (double)p0[q.plus[f]] : 0);
            /* M U = M U* + dt C p0 */
            CHECK_NEAR((double)q2.u[f] + .1 * (double)q.area[f] * jump / (double)q.mass[f], q.u[f],
                       TOL(1e-13, 1e-5));
        }
        q2 = q;
        q2.b.u = q2.u;
        /* P^2 = P */
        CHECK_OK(boundary_project(&q2.b, FSI_R(0.1), p1, work));
        for (int f = 0; f < 40; f++) {
            CHECK_NEAR(q.u[f], q2.u[f], TOL(1e-13, 1e-5));
            scale += fabs((double)q.u[f]);
        }
        ASSERT(scale > 0);
    }
    PASS();
}

TEST C_23_equal_faces_give_mean_removal(void) {
    bpp q;
    fsi_real p0[2], work[8];
    double mean = 0;
    fsi_real u[64];
    bpp_make(&q, 12, 1, 0, 5);
    for (int f = 0; f < 12; f++)
        q.area[f] = 2, q.mass[f] = 3, q.minus[f] = 0, q.plus[f] = -1,
        mean += (double)(u[f] = q.u[f]) / 12;
    CHECK_OK(boundary_project(&q.b, 1, p0, work));
    /* I - N N^T / n */
    for (int f = 0; f < 12; f++)
        CHECK_NEAR((double)u[f] - mean, q.u[f], TOL(1e-13, 1e-5));
    PASS();
}

TEST C_24_compatible_is_untouched(void) {
    bpp q;
    fsi_real p0[2], work[8];
    bpp_make(&q, 12, 1, 0, 6);
    for (int f = 0; f < 12; f++)
        q.area[f] = 1, q.minus[f] = f < 6 ? 0 : -1, q.plus[f] = f < 6 ? -1 : 0,
        q.u[f] = FSI_R(0.25);
    CHECK_OK(boundary_project(&q.b, 1, p0, work));
    CHECK_NEAR(0, p0[0], TOL(1e-15, 1e-7));
    for (int f = 0; f < 12; f++)
        CHECK_NEAR(.25, q.u[f], TOL(1e-15, 1e-7));
    PASS();
}

TEST C_23_two_regions_that_share_all_faces(void) {
    bpp q;
    fsi_real p0[2], work[8];
    bpp_make(&q, 10, 2, 0, 8);
    /* a balloon in a closed box: singular, consistent */
    for (int f = 0; f < 10; f++)
        q.minus[f] = 0, q.plus[f] = 1;
    CHECK_OK(boundary_project(&q.b, 1, p0, work));
    CHECK_NEAR(0, bpp_flux(&q, 0), TOL(1e-12, 1e-4));
    CHECK_NEAR(0, bpp_flux(&q, 1), TOL(1e-12, 1e-4));
    for (int f = 0; f < 10; f++)
        q.fixed[f] = 1, q.u[f] = 1;
    /* nothing can give way: told */
    CHECK_RESULT(FSI_INCOMPATIBLE, boundary_project(&q.b, 1, p0, work));
    PASS();
}

SUITE(partitioned) {
    RUN_TEST(P_01_gauss_seidel_factor);
    RUN_TEST(P_02_omega_window);
    RUN_TEST(P_02_growth_at_the_cap);
    RUN_TEST(P_03_finite_termination);
    RUN_TEST(P_03_pairs_of_earlier_steps_save_calls);
    RUN_TEST(P_04_rank_deficient_interface);
    RUN_TEST(P_04_gmres_equals_small_solve);
    RUN_TEST(P_08_piston_frequency);
    RUN_TEST(P_09_roll_back);
    RUN_TEST(P_10_aitken_scalar);
    RUN_TEST(P_bad_input_and_partners);
    RUN_TEST(P_boxes_that_misbehave);
    RUN_TEST(P_lengths_may_change);
    RUN_TEST(P_dependent_pairs_are_told);
    RUN_TEST(P_stall_is_told);
    RUN_TEST(P_capped_step_leaves_solid_near_fluid);
    RUN_TEST(P_no_allocation_in_a_step);
}

SUITE(boundary_pressure) {
    RUN_TEST(C_23_boundary_projection);
    RUN_TEST(C_23_equal_faces_give_mean_removal);
    RUN_TEST(C_24_compatible_is_untouched);
    RUN_TEST(C_23_two_regions_that_share_all_faces);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv) {
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(partitioned);
    RUN_SUITE(boundary_pressure);
    GREATEST_MAIN_END();
}
