/* Reduced deformable bodies of fsi_solids.h. Catalogue S-15 .. S-20. */
#define FSI_IMPLEMENTATION
#define FSI_SOLIDS_IMPLEMENTATION /* it looks inside, so it compiles this one itself */
#include "fsi_solids.h"
#include "greatest.h"
#include "check.h"
#include "../examples/forms.h"

static fsi_mesh beam;  /* S-04 mesh, nt = 2 */
static fsi_mesh brick; /* 2 x 1 x 1 cubes: small enough for dense matrices */

static fsi_reduced_desc reduced_desc(const fsi_mesh *mesh, int modes) {
    fsi_reduced_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.mesh = mesh;
    desc.modes = modes;
    desc.density = 1000;
    desc.young = FSI_R(1e6);
    desc.poisson = FSI_R(0.3);
    desc.field = 16;
    return desc;
}

/* A copy in a general state: turned, bent, moving. */
static void stir(fsi_reduced *reduced, uint64_t *seed, double size) {
    fsi_quat q;
    q.w = 1;
    q.x = (fsi_real)check_random(seed);
    q.y = (fsi_real)check_random(seed);
    q.z = (fsi_real)check_random(seed);
    fsi_reduced_place(reduced,
                      fsi_vec((fsi_real)check_random(seed), (fsi_real)check_random(seed),
                              (fsi_real)check_random(seed)),
                      q,
                      fsi_vec((fsi_real)check_random(seed), (fsi_real)check_random(seed),
                              (fsi_real)check_random(seed)),
                      fsi_vec((fsi_real)check_random(seed), (fsi_real)check_random(seed),
                              (fsi_real)check_random(seed)));
    for (int k = 0; k < reduced->model->modes; k++) {
        reduced->q[k] = (fsi_real)(size * check_random(seed));
        reduced->dq[k] = (fsi_real)(size * check_random(seed));
    }
    fsi__reduced_update(reduced);
}

/* ---------------------------------------------------------------- S-15 */
TEST S_15_modal_analysis(void) { /* the mesh of S-04 with nt = 4 */
    fsi_mesh fine;
    CHECK_OK(fsi_mesh_box(&fine, fsi_vec(0, 0, 0), fsi_vec(1, FSI_R(0.1), FSI_R(0.1)), 40, 4, 4, 0,
                          NULL));
    int n = 3 * fine.vertex_count;
    fsi_reduced_desc desc = reduced_desc(&fine, 10);
    fsi_reduced_model model;
    CHECK_OK(fsi_reduced_model_init(&model, &desc));
    fsi_soft_desc sd;
    memset(&sd, 0, sizeof sd);
    sd.dim = 3;
    sd.vertex_count = fine.vertex_count;
    sd.x = fine.x;
    sd.tet = fine.tet;
    sd.tet_count = fine.tet_count;
    sd.density = desc.density;
    sd.young = desc.young;
    sd.poisson = desc.poisson;
    sd.model = FSI_SOFT_LINEAR;
    sd.integrator = FSI_SOFT_EXPLICIT;
    fsi_soft soft;
    CHECK_OK(fsi_soft_init(&soft, &sd));
    CHECK_OK(fsi_soft_stiffness(&soft));
    fsi_real *f;
    f = (fsi_real *)malloc((size_t)n * sizeof *f);
    fsi_real *r;
    r = (fsi_real *)malloc((size_t)n * sizeof *r);
    for (int a = 0; a < 10; a++) { /* S^T K S = omega^2 */
        for (int i = 0; i < n; i++)
            r[i] = model.S[i * 10 + a];
        fsi_csr_mul(&soft.K, r, f);
        for (int b = 0; b < 10; b++) {
            double s = 0;
            for (int i = 0; i < n; i++)
                s += (double)(f[i] * model.S[i * 10 + b]);
            CHECK_NEAR(a == b ? (double)model.omega2[a] : 0, s,
                       TOL(1e-10, 1e-3) * (double)model.omega2[9]);
        }
    }
    /* six rigid modes: r . K r / r . M r below 1e-8 of the first vibration */
    for (int a = 0; a < 6; a++) {
        double den = 0;
        for (int i = 0; i < n / 3; i++)
            fsi_vec_store(r + 3 * i, a < 3 ? fsi_vec(a == 0, a == 1, a == 2)
                                           : fsi_vec_cross(fsi_vec(a == 3, a == 4, a == 5),
                                                           fsi_vec_load(model.x0 + 3 * i)));
        fsi_csr_mul(&soft.K, r, f);
        double num = fsi_dot((size_t)n, r, f);
        for (int i = 0; i < n; i++)
            den += (double)(soft.mass[i / 3] * r[i] * r[i]);
        CHECK_MOST(fabs(num), TOL(1e-8, 1e-2) * (double)model.omega2[0] * den);
    }
    fsi_soft_free(&soft);
    fsi_mesh_free(&fine);
    free(f);
    free(r);
    for (int a = 0; a < 10; a++)
        for (int b = 0; b <= a; b++) {
            double s = 0;
            for (int i = 0; i < n; i++)
                s += (double)(model.node_mass[i / 3] * model.S[i * 10 + a] * model.S[i * 10 + b]);
            CHECK_NEAR(a == b, s, TOL(1e-10, 1e-4));
        }
    /* free body: no rigid part left, linear and angular momentum zero at rest */
    for (int a = 0; a < 10; a++) {
        fsi_vec3 h = fsi__skew(model.G0 + 9 * a);
        double sum[3] = {0, 0, 0};
        for (int i = 0; i < n; i++)
            sum[i % 3] += (double)(model.node_mass[i / 3] * model.S[i * 10 + a]);
        for (int i = 0; i < 3; i++)
            CHECK_NEAR(0, sum[i], TOL(1e-9, 1e-3));
        CHECK_NEAR(0, fsi_vec_length(h), TOL(1e-9, 1e-3));
        ASSERT(a == 0 || model.omega2[a] >= model.omega2[a - 1]);
    }
    ASSERT(model.omega2[0] > 1);
    fsi_reduced_model_free(&model);
    PASS();
}

/* All modes of a small body, rigid ones included: their effective masses along every axis add up to
 * the body's. */
TEST S_15_effective_mass(void) {
    fsi_soft_desc sd;
    int n = 3 * brick.vertex_count;
    fsi_real *K = (fsi_real *)calloc((size_t)(n * n), sizeof *K),
             *M = (fsi_real *)calloc((size_t)(n * n), sizeof *M),
             *V = (fsi_real *)calloc((size_t)(n * n), sizeof *V),
             *w = (fsi_real *)calloc((size_t)n, sizeof *w);
    memset(&sd, 0, sizeof sd);
    sd.dim = 3;
    sd.vertex_count = brick.vertex_count;
    sd.x = brick.x;
    sd.tet = brick.tet;
    sd.tet_count = brick.tet_count;
    sd.density = 1000;
    sd.young = FSI_R(1e6);
    sd.poisson = FSI_R(0.3);
    sd.model = FSI_SOFT_LINEAR;
    sd.integrator = FSI_SOFT_EXPLICIT;
    fsi_soft soft;
    CHECK_OK(fsi_soft_init(&soft, &sd));
    CHECK_OK(fsi_soft_stiffness(&soft));
    for (int i = 0; i < n; i++) {
        M[i * n + i] = soft.mass[i / 3];
        for (int j = soft.K.row[i]; j < soft.K.row[i + 1]; j++)
            K[i * n + soft.K.col[j]] = soft.K.val[j];
    }
    CHECK_OK(fsi_eigen_dense(n, K, M, w, V, NULL));
    for (int a = 0; a < 3; a++) {
        double sum = 0, mass = 0;
        for (int i = 0; i < n / 3; i++)
            mass += (double)soft.mass[i];
        for (int j = 0; j < n; j++) {
            double g = 0;
            for (int i = 0; i < n / 3; i++)
                g += (double)(soft.mass[i] * V[j * n + 3 * i + a]);
            sum += g * g;
        }
        CHECK_REL(mass, sum, TOL(1e-10, 1e-3));
    }
    fsi_soft_free(&soft);
    free(K);
    free(M);
    free(V);
    free(w);
    PASS();
}

/* Free-free beam: first bending frequency of Euler-Bernoulli with beta L = 4.73004, TET4 locking as
 * in S-04. */
TEST S_15_free_beam_frequency(void) {
    fsi_reduced_desc desc = reduced_desc(&beam, 6);
    desc.poisson = 0;
    fsi_reduced_model model;
    CHECK_OK(fsi_reduced_model_init(&model, &desc));
    double f = sqrt((double)model.omega2[0]) / 6.283185307;
    double exact = 4.73004 * 4.73004 / 6.283185307 * sqrt(1e6 * (1e-4 / 12) / (1000 * 1e-2));
    if (getenv("FSI_VERBOSE"))
        printf("free beam f1 %.4f, exact %.4f, ratio %.3f\n", f, exact, f / exact);
    ASSERT(f / exact > 1 && f / exact < 1.4);
    fsi_reduced_model_free(&model);
    PASS();
}

/* ---------------------------------------------------------------- S-16 */
TEST S_16_modal_step(void) {
    fsi_reduced_model model;
    fsi_reduced_desc desc = reduced_desc(&brick, 3);
    CHECK_OK(fsi_reduced_model_init(&model, &desc));
    fsi_reduced reduced;
    CHECK_OK(fsi_reduced_init(&reduced, &model, fsi_vec(0, 0, 0), NULL));
    fsi_real dt = FSI_R(0.3) / fsi__sqrt(model.omega2[1]);
    reduced.q[1] = FSI_R(1e-3);
    double last = (double)(model.omega2[1] * reduced.q[1] * reduced.q[1]);
    for (int n = 0; n < 20; n++) { /* energy falls by 1 / (1 + w^2 dt^2) */
        CHECK_OK(fsi_reduced_forces(&reduced, dt));
        CHECK_OK(fsi_reduced_move(&reduced, dt));
        double now =
            (double)(model.omega2[1] * reduced.q[1] * reduced.q[1] + reduced.dq[1] * reduced.dq[1]);
        CHECK_REL(last / 1.09, now, TOL(1e-10, 1e-4));
        last = now;
    }
    CHECK_NEAR(0, reduced.q[0], TOL(1e-16, 1e-9));
    fsi_reduced_free(&reduced);
    fsi_reduced_model_free(&model);
    PASS();
}

/* REDUCED section 6: q^(n+1) = q + dt v^(n+1/2), v^(n+1/2) from half a step, v^(n+1) from a whole
 * one; both backward Euler with the elastic force of q^n. */
TEST S_16_newmark_step(void) {
    fsi_reduced_desc desc = reduced_desc(&brick, 3);
    double q = 1e-3, v = 0.02, f = 3;
    desc.damping_stiffness = FSI_R(1e-4);
    fsi_reduced_model model;
    CHECK_OK(fsi_reduced_model_init(&model, &desc));
    fsi_reduced reduced;
    CHECK_OK(fsi_reduced_init(&reduced, &model, fsi_vec(0, 0, 0), NULL));
    double w2 = (double)model.omega2[1];
    double dt = 0.4 / sqrt(w2);
    double c = 1e-4 * w2;
    reduced.q[1] = (fsi_real)q;
    reduced.dq[1] = (fsi_real)v;
    ASSERT(fsi_reduced_rewind(&reduced) == FSI_ERR_STATE); /* nothing begun */
    for (int n = 0; n < 40; n++) {
        double h = dt / 2, half = (v + h * (f - w2 * q)) / (1 + h * c + h * h * w2),
               next = (v + dt * (f - w2 * q)) / (1 + dt * c + dt * dt * w2);
        reduced.force[7] = (fsi_real)f;
        CHECK_OK(fsi_reduced_half(&reduced, (fsi_real)dt));
        CHECK_REL(half, reduced.dq[1], TOL(1e-11, 1e-3));
        CHECK_OK(fsi_reduced_move(&reduced, (fsi_real)dt));
        CHECK_OK(fsi_reduced_rewind(&reduced));
        CHECK_NEAR(v, reduced.dq[1], TOL(1e-14, 1e-5));
        CHECK_OK(fsi_reduced_forces(&reduced, (fsi_real)dt));
        q += dt * half;
        v = next;
        CHECK_NEAR(q, reduced.q[1], TOL(1e-13, 1e-6));
        CHECK_NEAR(v, reduced.dq[1], TOL(1e-12, 1e-4));
    }
    fsi_reduced_free(&reduced);
    fsi_reduced_model_free(&model);
    PASS();
}

/* Two dimensions: a flat sheet has three rigid motions and modes inside its plane. A free-free beam
 * of plane stress, first bending frequency. */
TEST S_15_flat(void) {
    fsi_mesh sheet;
    fsi_real inverse[100];
    CHECK_OK(fsi_mesh_sheet(&sheet, fsi_vec(2, 1, 0), fsi_vec(1, 0, 0), fsi_vec(0, FSI_R(0.1), 0),
                            40, 4, 1, NULL, NULL, NULL));
    fsi_reduced_desc desc = reduced_desc(&sheet, 4);
    desc.dim = 2;
    desc.poisson = 0;
    fsi_reduced_model model;
    CHECK_OK(fsi_reduced_model_init(&model, &desc));
    fsi_reduced reduced;
    CHECK_OK(fsi_reduced_init(&reduced, &model, fsi_vec(0, 0, 0), NULL));
    CHECK_REL(1000 * 0.1, model.mass, TOL(1e-12, 1e-5));
    CHECK_NEAR(2.5, model.centre.x, TOL(1e-12, 1e-5));
    ASSERT_EQ(88, model.element_count); /* the rim, the sheet on its left */
    for (int k = 0; k < 4; k++) {
        ASSERT(model.omega2[k] > 0);
        for (int l = 0; l < 4; l++) {
            double sum = 0;
            for (int i = 0; i < 3 * model.vertex_count; i++)
                sum += (double)(model.S[i * 4 + k] * model.S[i * 4 + l] * model.node_mass[i / 3]);
            CHECK_NEAR(k == l, sum, TOL(1e-10, 1e-4));
        }
        for (int i = 0; i < model.vertex_count; i++)
            CHECK_NEAR(0, model.S[(3 * i + 2) * 4 + k], TOL(1e-12, 1e-5));
        /* no spin in a mode */
        CHECK_NEAR(0, fsi__skew(model.G0 + 9 * k).z, TOL(1e-9, 1e-3));
    }
    double f = sqrt((double)model.omega2[0]) / 6.283185307;
    double exact = 4.73004 * 4.73004 / 6.283185307 * sqrt(1e6 * (1e-3 / 12) / (1000 * 0.1));
    if (getenv("FSI_VERBOSE"))
        printf("flat beam f1 %.4f, exact %.4f, ratio %.3f\n", f, exact, f / exact);
    ASSERT(f / exact > 0.95 && f / exact < 1.1);
    fsi_reduced_mass(&reduced, 0, NULL, inverse);
    /* 3 + modes move */
    for (int i = 0; i < 10; i++)
        ASSERT((inverse[11 * i] > 0) == (i < 2 || i > 4));
    for (int i = 0; i < model.nx * model.ny; i++)
        for (int k = 1; k < model.nz; k++)
            ASSERT(!(fsi__abs(model.phi[i] - model.phi[i + k * model.nx * model.ny]) > 0));
    fsi_reduced_free(&reduced);
    fsi_reduced_model_free(&model);
    sheet.x[2] = FSI_R(0.1); /* not flat: refused */
    ASSERT(fsi_reduced_model_init(&model, &desc) < 0);
    fsi_mesh_free(&sheet);
    PASS();
}

/* ---------------------------------------------------------------- dense twins of
 * docs/mathematics.md
 */
/* J [n*6], RS [n*k], P_rig [n*n], P_d, B = P_d^T R S */
typedef struct dense {
    int n, k;
    double *M, *J, *Mrig, *Minv, *RS, *P, *Pd, *B;
} dense;

static void invert(int n, const double *A, double *out) {
    double *w = (double *)malloc(sizeof(double) * (size_t)(2 * n * n));
    for (int i = 0; i < n; i++)
        for (int j = 0; j < 2 * n; j++)
            w[i * 2 * n + j] = j < n ? A[i * n + j] : j - n == i;
    for (int k = 0; k < n; k++) {
        int p = k;
        for (int i = k + 1; i < n; i++)
            if (fabs(w[i * 2 * n + k]) > fabs(w[p * 2 * n + k]))
                p = i;
        for (int j = 0; j < 2 * n; j++) {
            double t = w[k * 2 * n + j];
            w[k * 2 * n + j] = w[p * 2 * n + j];
            w[p * 2 * n + j] = t;
        }
        for (int i = 0; i < n; i++) {
            if (i == k)
                continue;
            double f = w[i * 2 * n + k] / w[k * 2 * n + k];
            for (int j = 0; j < 2 * n; j++)
                w[i * 2 * n + j] -= f * w[k * 2 * n + j];
        }
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            out[i * n + j] = w[i * 2 * n + n + j] / w[i * 2 * n + i];
    free(w);
}

static dense dense_make(const fsi_reduced *reduced) {
    dense d;
    const fsi_reduced_model *model = reduced->model;
    int n = 3 * model->vertex_count, k = model->modes;
    fsi_mat3 R = reduced->axes;
    d.n = n;
    d.k = k;
    d.M = (double *)calloc((size_t)n, sizeof(double));
    d.J = (double *)calloc((size_t)(6 * n), sizeof(double));
    d.RS = (double *)calloc((size_t)(n * (k + 1)), sizeof(double));
    d.Mrig = (double *)calloc(36, sizeof(double));
    d.Minv = (double *)calloc(36, sizeof(double));
    d.P = (double *)calloc((size_t)(n * n), sizeof(double));
    d.Pd = (double *)calloc((size_t)(n * n), sizeof(double));
    d.B = (double *)calloc((size_t)(n * (k + 1)), sizeof(double));
    for (int i = 0; i < model->vertex_count; i++) {
        fsi_vec3 r = fsi_vec_sub(fsi_reduced_point(reduced, i), reduced->rigid->position);
        double x[3];
        x[0] = (double)r.x;
        x[1] = (double)r.y;
        x[2] = (double)r.z;
        for (int a = 0; a < 3; a++) {
            d.M[3 * i + a] = (double)model->node_mass[i];
            d.J[6 * (3 * i + a) + a] = 1; /* v = v + w x r */
            d.J[6 * (3 * i + a) + 3 + (a + 1) % 3] = x[(a + 2) % 3];
            d.J[6 * (3 * i + a) + 3 + (a + 2) % 3] = -x[(a + 1) % 3];
            for (int j = 0; j < k; j++)
                for (int c = 0; c < 3; c++)
                    d.RS[(3 * i + a) * k + j] +=
                        (double)(R.m[3 * a + c] * model->S[(3 * i + c) * k + j]);
        }
    }
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            for (int a = 0; a < n; a++)
                d.Mrig[6 * i + j] += d.J[6 * a + i] * d.M[a] * d.J[6 * a + j];
    invert(6, d.Mrig, d.Minv);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double s = 0;
            for (int a = 0; a < 6; a++)
                for (int c = 0; c < 6; c++)
                    s += d.M[i] * d.J[6 * i + a] * d.Minv[6 * a + c] * d.J[6 * j + c];
            d.P[i * n + j] = s;
            d.Pd[i * n + j] = (i == j) - s;
        }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < k; j++)
            for (int a = 0; a < n; a++)
                d.B[i * k + j] += d.Pd[a * n + i] * d.RS[a * k + j];
    return d;
}

static void dense_free(dense *d) {
    free(d->M);
    free(d->J);
    free(d->RS);
    free(d->Mrig);
    free(d->Minv);
    free(d->P);
    free(d->Pd);
    free(d->B);
}

TEST S_17_projections(void) {
    fsi_reduced_model model;
    fsi_reduced_desc desc = reduced_desc(&brick, 5);
    uint64_t seed = 5;
    double worst = 0, worst_r = 0, worst_b = 0;
    CHECK_OK(fsi_reduced_model_init(&model, &desc));
    fsi_reduced reduced;
    CHECK_OK(fsi_reduced_init(&reduced, &model, fsi_vec(0, 0, 0), NULL));
    stir(&reduced, &seed, 1.0);
    dense D = dense_make(&reduced);
    int n = D.n;
    int k = D.k;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double s = 0, t = 0, pr = 0, prr = 0;
            for (int a = 0; a < n; a++)
                s += D.P[i * n + a] * D.P[a * n + j];
            worst = fmax(worst, fabs(s - D.P[i * n + j])); /* P^2 = P */
            /* P^T M^-1 = M^-1 P */
            t = D.P[j * n + i] / D.M[j] - D.P[i * n + j] / D.M[i];
            worst = fmax(worst, fabs(t) * D.M[0]);
            /* P_r = M R S S^T R^T (M_r = 1) */
            for (int a = 0; a < k; a++) {
                pr += D.M[i] * D.RS[i * k + a] * D.RS[j * k + a];
                for (int c = 0; c < k; c++) {
                    double g = 0;
                    for (int e = 0; e < n; e++)
                        g += D.RS[e * k + a] * D.M[e] * D.RS[e * k + c];
                    prr += D.M[i] * D.RS[i * k + a] * g * D.RS[j * k + c];
                }
            }
            worst_r = fmax(worst_r, fabs(pr - prr));
        }
    if (getenv("FSI_VERBOSE"))
        printf("projections: P %.1e, P_r %.1e\n", worst, worst_r);
    CHECK_NEAR(0, worst, TOL(1e-13, 1e-3));
    CHECK_NEAR(0, worst_r, TOL(1e-13, 1e-3));
    fsi_real *row;
    row = (fsi_real *)malloc((size_t)(6 + k) * sizeof *row);
    /* rows of (J_rig, P_d^T R S) agree with the dense matrices */
    for (int i = 0; i < n; i++) {
        int32_t v = i / 3;
        fsi__spot spot = fsi__spot_at(fsi_reduced_point(&reduced, v), &v);
        fsi_fill((size_t)(6 + k), 0, row);
        fsi__reduced_row_add(&reduced, &spot, fsi_vec(i % 3 == 0, i % 3 == 1, i % 3 == 2), row);
        for (int j = 0; j < 6; j++)
            worst_b = fmax(worst_b, fabs((double)row[j] - D.J[6 * i + j]));
        for (int j = 0; j < k; j++)
            worst_b = fmax(worst_b, fabs((double)row[6 + j] - D.B[i * k + j]));
    }
    CHECK_NEAR(0, worst_b, TOL(1e-12, 1e-4));
    free(row);
    dense_free(&D);
    fsi_reduced_free(&reduced);
    fsi_reduced_model_free(&model);
    PASS();
}

/* K_l of docs/mathematics.md from the dense projections against our inverse mass and rows; momentum
 * of any impulse; the update equations. */
static int kl_case(const fsi_reduced_model *model, double tol, int full) {
    fsi_reduced reduced;
    uint64_t seed = 11;
    int ok = 1;
    double worst = 0, momentum = 0, asym = 0, most = 0, rigid = 0;
    fsi_real dt = FSI_R(0.01);
    if (fsi_reduced_init(&reduced, model, fsi_vec(0, 0, 0), NULL) != FSI_OK)
        return 0;
    stir(&reduced, &seed, 0.5);
    dense D = dense_make(&reduced);
    int n = D.n;
    int k = D.k;
    double *K = (double *)calloc((size_t)(n * n), sizeof(double));
    fsi_real *inv;
    inv = (fsi_real *)malloc((size_t)((6 + k) * (6 + k)) * sizeof *inv);
    fsi_real *rows;
    rows = (fsi_real *)malloc((size_t)(n * (6 + k)) * sizeof *rows);
    fsi_reduced_mass(&reduced, full ? 0 : dt, NULL, inv);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double s = 0;
            for (int a = 0; a < n; a++)
                s += D.P[a * n + i] / D.M[a] * D.P[a * n + j];
            for (int a = 0; a < k; a++)
                s += D.B[i * k + a] * D.B[j * k + a]
                     / (full ? 1 : (double)fsi__reduced_stiff(model, a, dt));
            K[i * n + j] = s;
        }
    for (int i = 0; i < n; i++) {
        int32_t v = i / 3;
        fsi__spot spot = fsi__spot_at(fsi_reduced_point(&reduced, v), &v);
        fsi_fill((size_t)(6 + k), 0, rows + i * (6 + k));
        fsi__reduced_row_add(&reduced, &spot, fsi_vec(i % 3 == 0, i % 3 == 1, i % 3 == 2),
                             rows + i * (6 + k));
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double s = 0;
            for (int a = 0; a < 6 + k; a++)
                for (int c = 0; c < 6 + k; c++)
                    s += (double)(rows[i * (6 + k) + a] * inv[a * (6 + k) + c]
                                  * rows[j * (6 + k) + c]);
            worst = fmax(worst, fabs(s - K[i * n + j]));
            asym = fmax(asym, fabs(K[i * n + j] - K[j * n + i]));
            most = fmax(most, fabs(K[i * n + j]));
            /* all modes: K = M^-1 */
            if (full == 2)
                rigid = fmax(rigid, fabs(s - (i == j) / D.M[i]));
        }
    for (int j = 0; j < n; j++) /* J_rig^T M K = J_rig^T */
        for (int c = 0; c < 6; c++) {
            double s = 0;
            for (int a = 0; a < n; a++)
                s += D.J[6 * a + c] * D.M[a] * K[a * n + j];
            momentum = fmax(momentum, fabs(s - D.J[6 * j + c]));
        }
    if (getenv("FSI_VERBOSE"))
        printf("K_l: ours - dense %.2e, asymmetry %.2e, momentum %.2e, K - M^-1 %.2e (largest K "
               "%.2e)\n",
               worst / most, asym / most, momentum, rigid / most, most);
    ok = worst <= tol * most && asym <= tol * most && momentum <= tol * 10
         && (full != 2 || rigid <= 100 * tol * most);
    free(K);
    free(inv);
    free(rows);
    dense_free(&D);
    fsi_reduced_free(&reduced);
    return ok;
}

TEST S_18_impulse_factor(void) {
    fsi_reduced_model model;
    fsi_reduced_desc desc = reduced_desc(&brick, 6);
    uint64_t seed = 9;
    int n = 3 * brick.vertex_count;
    fsi_real *basis = (fsi_real *)malloc((size_t)(6 * n) * sizeof *basis);
    CHECK_OK(fsi_reduced_model_init(&model, &desc));
    ASSERT(kl_case(&model, TOL(1e-12, 1e-4), 0));
    fsi_reduced_model_free(&model);
    /* any basis: it carries angular momentum */
    for (int i = 0; i < 6 * n; i++)
        basis[i] = (fsi_real)check_random(&seed);
    desc.basis = basis;
    CHECK_OK(fsi_reduced_model_init(&model, &desc));
    ASSERT(fsi_vec_length(fsi__skew(model.G0)) > FSI_R(1e-3));
    ASSERT(kl_case(&model, TOL(1e-12, 1e-4), 0));
    fsi_reduced_model_free(&model);
    /* dependent columns are refused */
    for (int i = 0; i < n; i++)
        basis[i] = basis[n + i];
    ASSERT(fsi_reduced_model_init(&model, &desc) < 0);
    free(basis);
    PASS();
}

TEST S_19_rigid_and_full(void) {
    fsi_reduced_model model;
    fsi_reduced_desc desc = reduced_desc(&brick, 0);
    int n = 3 * brick.vertex_count;
    fsi_real *basis = (fsi_real *)calloc((size_t)((n - 3) * n), sizeof *basis);
    CHECK_OK(fsi_reduced_model_init(&model, &desc)); /* S = 0: rigid */
    ASSERT(kl_case(&model, TOL(1e-12, 1e-4), 1));
    {
        fsi_vec3 c;
        fsi_mat3 inertia;
        fsi_real volume, mass[36];
        fsi_surface surface = fsi_mesh_surface(&brick);
        CHECK_OK(fsi_mesh_mass(&surface, NULL, &volume, &c, &inertia));
        CHECK_REL(1000 * volume, model.mass, TOL(1e-12, 1e-5));
        fsi_reduced reduced;
        CHECK_OK(fsi_reduced_init(&reduced, &model, fsi_vec(0, 0, 0), NULL));
        fsi_reduced_mass(&reduced, 0, mass, NULL);
        CHECK_REL(model.mass, mass[0], TOL(1e-12, 1e-5));
        fsi_reduced_free(&reduced);
    }
    fsi_reduced_model_free(&model);
    /* unit vectors but for the last node: with the rigid frame all motions */
    for (int i = 0; i < n - 3; i++)
        basis[i * n + i] = 1;
    desc.basis = basis;
    desc.modes = n - 3;
    CHECK_OK(fsi_reduced_model_init(&model, &desc));
    ASSERT(kl_case(&model, TOL(1e-10, 1e-3), 2));
    fsi_reduced_model_free(&model);
    free(basis);
    PASS();
}

/* ---------------------------------------------------------------- motion */
static void momentum_by_points(const fsi_reduced *reduced, double *p, double *L) {
    for (int i = 0; i < 3; i++)
        p[i] = L[i] = 0;
    for (int i = 0; i < reduced->model->vertex_count; i++) {
        fsi_vec3 v = fsi_vec_scale(fsi_reduced_velocity(reduced, i), reduced->model->node_mass[i]),
                 l = fsi_vec_cross(
                     fsi_vec_sub(fsi_reduced_point(reduced, i), reduced->rigid->position), v);
        p[0] += (double)v.x;
        p[1] += (double)v.y;
        p[2] += (double)v.z;
        L[0] += (double)l.x;
        L[1] += (double)l.y;
        L[2] += (double)l.z;
    }
}

/* Free tumbling of a soft body: state momenta are those of the particles, nothing changes them,
 * energy never grows, acceleration is consistent. */
TEST free_flight(void) {
    fsi_reduced_desc desc = reduced_desc(&brick, 8);
    uint64_t seed = 21;
    double p[3], L[3], p0[3], L0[3], last = 1e300, first = 0;
    desc.young = FSI_R(2e4);
    desc.damping_stiffness = FSI_R(0.002);
    fsi_reduced_model model;
    CHECK_OK(fsi_reduced_model_init(&model, &desc));
    fsi_reduced reduced;
    CHECK_OK(fsi_reduced_init(&reduced, &model, fsi_vec(0, 0, 0), NULL));
    stir(&reduced, &seed, 0.3);
    reduced.rigid->angular_momentum = fsi_vec_scale(reduced.rigid->angular_momentum, 2);
    double e;
    double t;
    fsi_reduced_energy(&reduced, &e, &t);
    momentum_by_points(&reduced, p0, L0);
    for (int i = 0; i < 3; i++) {
        CHECK_NEAR(fsi__get(reduced.rigid->momentum, i), p0[i], TOL(1e-10, 1e-2));
        CHECK_NEAR(fsi__get(reduced.rigid->angular_momentum, i), L0[i], TOL(1e-10, 1e-2));
    }
    {
        double k = 0;
        for (int i = 0; i < model.vertex_count; i++) {
            fsi_vec3 v = fsi_reduced_velocity(&reduced, i);
            k += 0.5 * (double)(model.node_mass[i] * fsi_vec_dot(v, v));
        }
        CHECK_REL(k, t, TOL(1e-10, 1e-4));
    }
    for (int n = 0; n < 2000; n++) {
        CHECK_OK(fsi_reduced_forces(&reduced, FSI_R(0.002)));
        CHECK_OK(fsi_reduced_move(&reduced, FSI_R(0.002)));
        fsi_reduced_energy(&reduced, &e, &t);
        if (n == 0)
            first = e + t;
        CHECK_MOST(e + t, last * (1 + TOL(1e-5, 1e-4)));
        last = fmin(last, e + t);
    }
    if (getenv("FSI_VERBOSE"))
        printf("tumbling: energy %.6f -> %.6f\n", first, last);
    momentum_by_points(&reduced, p, L);
    for (int i = 0; i < 3; i++) {
        CHECK_NEAR(p0[i], p[i], TOL(1e-9, 1e-2));
        CHECK_NEAR(L0[i], L[i], TOL(1e-9, 1e-2));
    }
    fsi_reduced_free(&reduced);
    fsi_reduced_model_free(&model);
    PASS();
}

/* Impulses: momentum changes by exactly the impulse for both masses. */
TEST impulses(void) {
    fsi_reduced_model model;
    fsi_reduced_desc desc = reduced_desc(&brick, 8);
    uint64_t seed = 4;
    double p[3], L[3], p0[3], L0[3];
    CHECK_OK(fsi_reduced_model_init(&model, &desc));
    fsi_reduced reduced;
    CHECK_OK(fsi_reduced_init(&reduced, &model, fsi_vec(0, 0, 0), NULL));
    for (int implicit = 0; implicit < 2; implicit++) {
        fsi_vec3 j = fsi_vec(3, -2, 1);
        stir(&reduced, &seed, 0.3);
        reduced.dt = FSI_R(0.01);
        momentum_by_points(&reduced, p0, L0);
        fsi_vec3 l =
            fsi_vec_cross(fsi_vec_sub(fsi_reduced_point(&reduced, 7), reduced.rigid->position), j);
        int32_t vertex = 7;
        fsi__spot spot = fsi__spot_at(fsi_reduced_point(&reduced, 7), &vertex);
        fsi__reduced_impulse(&reduced, &spot, j, implicit ? reduced.dt : 0);
        momentum_by_points(&reduced, p, L);
        for (int i = 0; i < 3; i++) {
            CHECK_NEAR(p0[i] + (double)fsi__get(j, i), p[i], TOL(1e-11, 1e-2));
            CHECK_NEAR(L0[i] + (double)fsi__get(l, i), L[i], TOL(1e-11, 1e-2));
        }
    }
    fsi_reduced_free(&reduced);
    fsi_reduced_model_free(&model);
    PASS();
}

/* Actuation: a pair of forces bends the body and moves nothing, a single one accelerates it. */
TEST actuation(void) {
    fsi_reduced_model model;
    fsi_reduced_desc desc = reduced_desc(&brick, 6);
    CHECK_OK(fsi_reduced_model_init(&model, &desc));
    fsi_reduced reduced;
    CHECK_OK(fsi_reduced_init(&reduced, &model, fsi_vec(0, 0, 0), NULL));
    for (int i = 0; i < 50; i++) {
        fsi_vec3 along = fsi_vec_scale(fsi_vec_unit(fsi_vec_sub(fsi_reduced_point(&reduced, 0),
                                                                fsi_reduced_point(&reduced, 11))),
                                       500);
        fsi_reduced_add_force(&reduced, 0, along);
        fsi_reduced_add_force(&reduced, 11, fsi_vec_scale(along, -1));
        CHECK_OK(fsi_reduced_forces(&reduced, FSI_R(0.01)));
        CHECK_OK(fsi_reduced_move(&reduced, FSI_R(0.01)));
    }
    ASSERT(
        fsi_vec_length(fsi_vec_sub(fsi_reduced_point(&reduced, 0), fsi_reduced_point(&reduced, 11)))
        > fsi_vec_length(fsi_vec_sub(fsi_vec_load(model.x0), fsi_vec_load(model.x0 + 33)))
              * FSI_R(1.0001));
    for (int i = 0; i < 3; i++) {
        CHECK_NEAR(0, fsi__get(reduced.rigid->momentum, i), TOL(1e-12, 1e-4));
        CHECK_NEAR(0, fsi__get(reduced.rigid->angular_momentum, i), TOL(1e-12, 1e-4));
    }
    fsi_reduced_add_force(&reduced, 3, fsi_vec(0, 7, 0));
    CHECK_OK(fsi_reduced_forces(&reduced, FSI_R(0.01)));
    CHECK_NEAR(0.07, reduced.rigid->momentum.y, TOL(1e-12, 1e-5));
    fsi_reduced_free(&reduced);
    fsi_reduced_model_free(&model);
    PASS();
}

/* ---------------------------------------------------------------- S-20 */
TEST S_20_articulation(void) {
    fsi_reduced reduced[2], *list[2];
    fsi_reduced_joint joint[3];
    fsi_reduced_desc desc = reduced_desc(&brick, 8);
    double before[6], after[6], worst = 0;
    int joints = 0;
    fsi_quat one;
    one.w = 1;
    one.x = one.y = one.z = 0;
    desc.young = FSI_R(1e5);
    fsi_reduced_model model;
    CHECK_OK(fsi_reduced_model_init(&model, &desc));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(fsi_reduced_init(&reduced[i], &model, fsi_vec((fsi_real)(2 * i), 0, 0), NULL));
        list[i] = &reduced[i];
        CHECK_OK(fsi_reduced_place(&reduced[i], fsi_vec((fsi_real)(2 * i), 0, 0), one,
                                   fsi_vec(0, (fsi_real)i, 0), fsi_vec((fsi_real)i, 0, 1)));
    }
    for (int i = 0; i < model.vertex_count && joints < 3; i++)
        for (int k = 0; k < model.vertex_count && joints < 3; k++)
            if (fsi_vec_length(fsi_vec_sub(fsi_reduced_point(&reduced[0], i),
                                           fsi_reduced_point(&reduced[1], k)))
                < FSI_R(1e-5)) {
                joint[joints].body[0] = 0;
                joint[joints].body[1] = 1;
                joint[joints].vertex[0] = i;
                joint[joints].vertex[1] = k;
                joints++;
            }
    ASSERT_EQ(3, joints);
    fsi_reduced_group group;
    CHECK_OK(fsi_reduced_group_init(&group, list, 2, joint, 3, NULL, NULL));
    for (int n = 0; n < 100; n++) {
        double p[2][3], L[2][3];
        fsi_coupled door;
        for (int i = 0; i < 2; i++)
            CHECK_OK(fsi_reduced_forces(&reduced[i], FSI_R(0.01)));
        for (int k = 0; k < 2; k++) {
            double *out = k ? after : before;
            for (int i = 0; i < 2; i++)
                momentum_by_points(&reduced[i], p[i], L[i]);
            for (int i = 0; i < 3; i++) {
                int a = (i + 1) % 3, e = (i + 2) % 3;
                out[i] = p[0][i] + p[1][i];
                out[3 + i] = L[0][i] + L[1][i]
                             + (double)fsi__get(reduced[0].rigid->position, a) * p[0][e]
                             - (double)fsi__get(reduced[0].rigid->position, e) * p[0][a]
                             + (double)fsi__get(reduced[1].rigid->position, a) * p[1][e]
                             - (double)fsi__get(reduced[1].rigid->position, e) * p[1][a];
            }
            if (!k) {
                CHECK_OK(fsi_reduced_group_couple(&group, FSI_R(0.01), &door));
                CHECK_OK(fsi_reduced_group_take(&group));
            }
        }
        worst = fmax(worst, (double)group.joint_error);
        for (int i = 0; i < 6; i++)
            CHECK_NEAR(before[i], after[i], TOL(1e-8, 2e-1));
        for (int i = 0; i < 3; i++) {
            fsi_vec3 gap = fsi_vec_sub(fsi_reduced_point(&reduced[0], joint[i].vertex[0]),
                                       fsi_reduced_point(&reduced[1], joint[i].vertex[1]));
            fsi_vec3 v = fsi_vec_sub(fsi_reduced_velocity(&reduced[0], joint[i].vertex[0]),
                                     fsi_reduced_velocity(&reduced[1], joint[i].vertex[1]));
            CHECK_NEAR(0, fsi_vec_length(fsi_vec_mad(v, gap, 1 / FSI_R(0.01))), TOL(1e-8, 1e-1));
        }
        /* pre-stabilisation: momentum stays, points meet */
        CHECK_OK(fsi_reduced_group_move(&group, FSI_R(0.01)));
        for (int i = 0; i < 2; i++)
            momentum_by_points(&reduced[i], p[i], L[i]);
        for (int i = 0; i < 3; i++) {
            int a = (i + 1) % 3, e = (i + 2) % 3;
            CHECK_NEAR(after[i], p[0][i] + p[1][i], TOL(1e-8, 2e-1));
            CHECK_NEAR(after[3 + i],
                       L[0][i] + L[1][i] + (double)fsi__get(reduced[0].rigid->position, a) * p[0][e]
                           - (double)fsi__get(reduced[0].rigid->position, e) * p[0][a]
                           + (double)fsi__get(reduced[1].rigid->position, a) * p[1][e]
                           - (double)fsi__get(reduced[1].rigid->position, e) * p[1][a],
                       TOL(1e-8, 2e-1));
        }
    }
    if (getenv("FSI_VERBOSE"))
        printf("joint error %.2e of size 2\n", worst);
    CHECK_MOST(worst, TOL(1e-12, 1e-4));
    ASSERT_EQ(28, group.dof);
    fsi_reduced_group_free(&group);
    for (int i = 0; i < 2; i++)
        fsi_reduced_free(&reduced[i]);
    fsi_reduced_model_free(&model);
    PASS();
}

/* ---------------------------------------------------------------- contact */
/* floor y = 0.15 sin(3x) sin(3z) between walls at |x|, |z| = 1.5 */
static fsi_real bumpy(fsi_vec3 x, fsi_vec3 *n, fsi_vec3 *v, void *user) {
    fsi_real h = FSI_R(0.15) * fsi__sin(3 * x.x) * fsi__sin(3 * x.z);
    fsi_vec3 g = fsi_vec(FSI_R(-0.45) * fsi__cos(3 * x.x) * fsi__sin(3 * x.z), 1,
                         FSI_R(-0.45) * fsi__sin(3 * x.x) * fsi__cos(3 * x.z));
    (void)user;
    *v = fsi_vec(0, 0, 0);
    fsi_real d = (x.y - h) / fsi_vec_length(g);
    *n = fsi_vec_unit(g);
    if (FSI_R(1.5) - fsi__abs(x.x) < d) {
        d = FSI_R(1.5) - fsi__abs(x.x);
        *n = fsi_vec(x.x > 0 ? FSI_R(-1.0) : FSI_R(1.0), 0, 0);
    }
    if (FSI_R(1.5) - fsi__abs(x.z) < d) {
        d = FSI_R(1.5) - fsi__abs(x.z);
        *n = fsi_vec(0, 0, x.z > 0 ? FSI_R(-1.0) : FSI_R(1.0));
    }
    return d;
}

static fsi_result star_model(fsi_reduced_model *model, int modes, const fsi_allocator *allocator) {
    form_body form;
    memset(&form, 0, sizeof form);
    form.kind = FORM_STARFISH;
    form.a = FSI_R(0.25);
    form.b = FSI_R(0.05);
    form.c = FSI_R(0.07);
    fsi_mesh mesh;
    fsi_result result = fsi_mesh_from_sdf(
        &mesh, form_distance, &form, fsi_vec(-FSI_R(0.3), -FSI_R(0.1), -FSI_R(0.3)),
        fsi_vec(FSI_R(0.3), FSI_R(0.1), FSI_R(0.3)), FSI_R(0.045), allocator);
    if (result != FSI_OK)
        return result;
    fsi_reduced_desc desc = reduced_desc(&mesh, modes);
    desc.young = FSI_R(2e5);
    desc.damping_stiffness = FSI_R(0.005);
    desc.samples = 80;
    desc.field = 28;
    if (allocator)
        desc.allocator = *allocator;
    result = fsi_reduced_model_init(model, &desc);
    fsi_mesh_free(&mesh);
    return result;
}

static double pile_energy(fsi_reduced *reduced, int count, double *kinetic) {
    double sum = 0, e, k;
    *kinetic = 0;
    for (int i = 0; i < count; i++) {
        fsi_reduced_energy(&reduced[i], &e, &k);
        *kinetic += k;
        sum += e + k + (double)(reduced[i].model->mass * 10 * reduced[i].rigid->position.y);
    }
    return sum;
}

/* count starfish fall onto the bumpy floor. Returns a hash of the state. */
static int pile(int count, int steps, int threads, int restart, uint64_t *hash, double *kinetic,
                double *growth, double *worked, double *depth, double *out) {
    fsi_reduced *reduced = (fsi_reduced *)calloc((size_t)count, sizeof *reduced),
                **list = (fsi_reduced **)calloc((size_t)count, sizeof *list);
    uint64_t seed = 3;
    fsi_real dt = FSI_R(0.01);
    int ok = 1;
    check_threads(threads);
    fsi_reduced_contacts contacts;
    memset(&contacts, 0, sizeof contacts);
    fsi_obstacle obstacle;
    memset(&obstacle, 0, sizeof obstacle);
    obstacle.distance_fn = bumpy;
    obstacle.friction = contacts.friction = FSI_R(0.4);
    contacts.slop = FSI_R(0.002);
    fsi_reduced_model model;
    if (star_model(&model, 20, NULL) != FSI_OK)
        return 0;
    for (int i = 0; i < count; i++) {
        fsi_quat q;
        q.w = 1;
        q.x = (fsi_real)(0.5 * check_random(&seed));
        q.y = (fsi_real)check_random(&seed);
        q.z = (fsi_real)(0.5 * check_random(&seed));
        ok &= fsi_reduced_init(&reduced[i], &model, fsi_vec(0, 0, 0), NULL) == FSI_OK;
        fsi_reduced_place(&reduced[i],
                          fsi_vec((fsi_real)(i % 5 - 2) * FSI_R(0.55),
                                  FSI_R(0.5) + (fsi_real)(i / 25) * FSI_R(0.35),
                                  (fsi_real)(i / 5 % 5 - 2) * FSI_R(0.55)),
                          q, fsi_vec(0, 0, 0), fsi_vec(0, 0, 0));
        reduced[i].gravity = fsi_vec(0, -10, 0);
        list[i] = &reduced[i];
    }
    size_t bytes = fsi_reduced_state_size(&reduced[0]);
    unsigned char *keep = (unsigned char *)malloc(bytes * (size_t)count);
    double last = pile_energy(reduced, count, kinetic);
    *growth = *worked = *depth = *out = 0;
    for (int n = 0; n < steps && ok; n++) {
        if (restart && n == steps / 2) {
            size_t size = fsi_reduced_contacts_state_size(&contacts);
            void *past = malloc(size);
            ok &= contacts.count > 0 && fsi_reduced_contacts_save(&contacts, past) == FSI_OK;
            for (int i = 0; i < count; i++)
                fsi_reduced_save(&reduced[i], keep + bytes * (size_t)i);
            for (int i = 0; i < count; i++)
                fsi_reduced_forces(&reduced[i], dt);
            ok &= fsi_reduced_contact(&contacts, list, count, &obstacle, 1, dt) == FSI_OK;
            for (int i = 0; i < count; i++)
                fsi_reduced_move(&reduced[i], dt);
            for (int i = 0; i < count; i++)
                fsi_reduced_restore(&reduced[i], keep + bytes * (size_t)i, bytes);
            ok &= fsi_reduced_contacts_restore(&contacts, past, size) == FSI_OK;
            free(past);
        }
        for (int i = 0; i < count; i++)
            ok &= fsi_reduced_forces(&reduced[i], dt) == FSI_OK;
        ok &= fsi_reduced_contact(&contacts, list, count, &obstacle, 1, dt) == FSI_OK;
        for (int i = 0; i < count; i++)
            ok &= fsi_reduced_move(&reduced[i], dt) == FSI_OK;
        double e = pile_energy(reduced, count, kinetic);
        *growth = fmax(*growth, e - last - contacts.work);
        *worked = fmax(*worked, contacts.work);
        last = e;
        *depth = (double)contacts.depth;
        if (getenv("FSI_VERBOSE") && count > 50 && n % 50 == 49)
            printf("  step %d: energy %.2f J, kinetic %.3f J, %d contacts, depth %.4f\n", n + 1, e,
                   *kinetic, contacts.count, *depth);
    }
    for (int i = 0; i < count; i++) {
        fsi_reduced_save(&reduced[i], keep + bytes * (size_t)i);
        fsi_vec3 nn;
        fsi_vec3 v;
        *out = fmax(*out, -(double)bumpy(reduced[i].rigid->position, &nn, &v, NULL));
        fsi_reduced_free(&reduced[i]);
    }
    *hash = check_hash(keep, bytes * (size_t)count, 1);
    fsi_reduced_contacts_free(&contacts);
    fsi_reduced_model_free(&model);
    free(reduced);
    free(list);
    free(keep);
    check_threads(1);
    return ok;
}

/* Stars that bounce on a floor which itself moves up and down: energy grows by no more than the
 * reported work. */
static fsi_real shaker(fsi_vec3 x, fsi_vec3 *n, fsi_vec3 *v, void *user) {
    const double *t = (const double *)user;
    fsi_real d = bumpy(fsi_vec(x.x, x.y - (fsi_real)(.1 * sin(8 * *t)), x.z), n, v, NULL);
    *v = fsi_vec(0, (fsi_real)(.8 * cos(8 * *t)), 0);
    return d;
}

TEST moving_floor_energy(void) {
    fsi_reduced reduced[6], *list[6];
    fsi_reduced_contacts contacts;
    double t = 0, growth = 0, put = 0;
    memset(&contacts, 0, sizeof contacts);
    fsi_obstacle obstacle;
    memset(&obstacle, 0, sizeof obstacle);
    obstacle.distance_fn = shaker;
    obstacle.user = &t;
    obstacle.friction = contacts.friction = FSI_R(0.4);
    obstacle.restitution = contacts.restitution = FSI_R(0.9);
    contacts.slop = FSI_R(0.002);
    fsi_reduced_model model;
    CHECK_OK(star_model(&model, 12, NULL));
    for (int i = 0; i < 6; i++) {
        CHECK_OK(fsi_reduced_init(&reduced[i], &model,
                                  fsi_vec((fsi_real)(i % 3 - 1) * FSI_R(0.5),
                                          FSI_R(0.5) + FSI_R(0.3) * (fsi_real)(i / 3),
                                          (fsi_real)(i % 2) * FSI_R(0.1)),
                                  NULL));
        reduced[i].gravity = fsi_vec(0, -10, 0);
        list[i] = &reduced[i];
    }
    double k;
    double last = pile_energy(reduced, 6, &k);
    for (int n = 0; n < 200; n++, t += .01) {
        for (int i = 0; i < 6; i++)
            CHECK_OK(fsi_reduced_forces(&reduced[i], FSI_R(0.01)));
        CHECK_OK(fsi_reduced_contact(&contacts, list, 6, &obstacle, 1, FSI_R(0.01)));
        for (int i = 0; i < 6; i++)
            CHECK_OK(fsi_reduced_move(&reduced[i], FSI_R(0.01)));
        double e = pile_energy(reduced, 6, &k);
        growth = fmax(growth, e - last - contacts.work);
        put += fmax(contacts.work, 0);
        last = e;
    }
    if (getenv("FSI_VERBOSE"))
        printf("moving floor: put in %.2f J, largest growth beyond %.2e J, energy %.2f J\n", put,
               growth, last);
    ASSERT(put > 1);
    CHECK_MOST(growth, TOL(1e-9, 1e-4) * put);
    for (int i = 0; i < 6; i++)
        fsi_reduced_free(&reduced[i]);
    fsi_reduced_contacts_free(&contacts);
    fsi_reduced_model_free(&model);
    PASS();
}

TEST pile_settles(void) {
    uint64_t h;
    double k, growth, worked, depth, out;
    int count = getenv("FSI_TEST_FULL") ? 150 : 40;
    ASSERT(pile(count, count == 150 ? 500 : 250, 1, 0, &h, &k, &growth, &worked, &depth, &out));
    if (getenv("FSI_VERBOSE"))
        printf("pile of %d: kinetic %.4f J, largest growth of energy in a step %.2e J beyond the "
               "work of opening overlaps (at most %.4f J), depth %.4f, out %.4f\n",
               count, k, growth, worked, depth, out);
    CHECK_MOST(k, 0.05 * count * 0.02 + 0.5);
    CHECK_MOST(out, 0);
    CHECK_MOST(depth, 0.03);
    /* of 3 kJ dropped: nothing but the reported work */
    CHECK_MOST(growth, TOL(1e-9, 1e-3));
    CHECK_MOST(worked, 0.0125 * count);
    PASS();
}

TEST same_bits(void) {
    uint64_t first;
    double k, g, w, d, o;
    static const int threads[] = {2, 3, 8};
    ASSERT(pile(6, 60, 1, 0, &first, &k, &g, &w, &d, &o));
    uint64_t h;
    for (int t = 0; t < 3; t++) {
        ASSERT(pile(6, 60, threads[t], 0, &h, &k, &g, &w, &d, &o));
        ASSERT(h == first);
    }
    ASSERT(pile(6, 60, 1, 1, &h, &k, &g, &w, &d, &o));
    ASSERT(h == first);
    PASS();
}

/* Two bodies collide in free space: momentum is kept by every impulse. */
TEST collision_momentum(void) {
    fsi_reduced reduced[2], *list[2];
    fsi_quat one;
    int touched = 0;
    double p0[3], p[3], L0[3], L[3];
    one.w = 1;
    one.x = FSI_R(0.3);
    one.y = FSI_R(0.1);
    one.z = 0;
    fsi_reduced_contacts contacts;
    memset(&contacts, 0, sizeof contacts);
    contacts.friction = FSI_R(0.5);
    fsi_reduced_model model;
    CHECK_OK(star_model(&model, 20, NULL));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(fsi_reduced_init(&reduced[i], &model, fsi_vec(0, 0, 0), NULL));
        CHECK_OK(fsi_reduced_place(&reduced[i],
                                   fsi_vec(FSI_R(0.05) * (fsi_real)i, FSI_R(0.3) * (fsi_real)i, 0),
                                   one, fsi_vec(0, i ? -2 : 0, 0), fsi_vec(0, 1, 0)));
        list[i] = &reduced[i];
    }
    for (int n = -1; n < 60; n++) {
        for (int i = 0; i < 2 && n >= 0; i++)
            CHECK_OK(fsi_reduced_forces(&reduced[i], FSI_R(0.005)));
        if (n >= 0)
            CHECK_OK(fsi_reduced_contact(&contacts, list, 2, NULL, 0, FSI_R(0.005)));
        touched += contacts.count;
        for (int i = 0; i < 2 && n >= 0; i++)
            CHECK_OK(fsi_reduced_move(&reduced[i], FSI_R(0.005)));
        for (int i = 0; i < 3; i++) {
            int a = (i + 1) % 3, e = (i + 2) % 3;
            double *P = n < 0 ? p0 : p, *A = n < 0 ? L0 : L;
            P[i] = A[i] = 0;
            for (int k = 0; k < 2; k++) {
                P[i] += (double)fsi__get(reduced[k].rigid->momentum, i);
                A[i] += (double)fsi__get(reduced[k].rigid->angular_momentum, i)
                        + (double)fsi__get(reduced[k].rigid->position, a)
                              * (double)fsi__get(reduced[k].rigid->momentum, e)
                        - (double)fsi__get(reduced[k].rigid->position, e)
                              * (double)fsi__get(reduced[k].rigid->momentum, a);
            }
        }
    }
    ASSERT(touched > 10);
    for (int i = 0; i < 3; i++) {
        CHECK_NEAR(p0[i], p[i], TOL(1e-12, 1e-4));
        CHECK_NEAR(L0[i], L[i], TOL(1e-12, 1e-4));
    }
    ASSERT((double)reduced[0].rigid->momentum.y < -0.1 * (double)model.mass); /* it was hit */
    for (int i = 0; i < 2; i++)
        fsi_reduced_free(&reduced[i]);
    fsi_reduced_contacts_free(&contacts);
    fsi_reduced_model_free(&model);
    PASS();
}

/* Two bodies put into each other while they pass: opened by moving them, and momentum is kept all
 * the same. */
TEST opening_overlaps_keeps_momentum(void) {
    fsi_reduced reduced[2], *list[2];
    fsi_quat one;
    double sum[2][6];
    one.w = 1;
    one.x = FSI_R(0.3);
    one.y = FSI_R(0.1);
    one.z = 0;
    fsi_reduced_contacts contacts;
    memset(&contacts, 0, sizeof contacts);
    fsi_reduced_model model;
    CHECK_OK(star_model(&model, 20, NULL));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(fsi_reduced_init(&reduced[i], &model, fsi_vec(0, 0, 0), NULL));
        CHECK_OK(fsi_reduced_place(
            &reduced[i], fsi_vec(FSI_R(0.05) * (fsi_real)i, FSI_R(0.06) * (fsi_real)i, 0), one,
            fsi_vec((fsi_real)(2 * i), 0, FSI_R(0.5)), fsi_vec(0, 1, 0)));
        list[i] = &reduced[i];
    }
    for (int k = 0; k < 2; k++) {
        memset(sum[k], 0, sizeof sum[k]);
        for (int i = 0; i < 2; i++) {
            fsi_vec3 l =
                fsi_vec_add(reduced[i].rigid->angular_momentum,
                            fsi_vec_cross(reduced[i].rigid->position, reduced[i].rigid->momentum));
            for (int n = 0; n < 3; n++) {
                sum[k][n] += (double)fsi__get(reduced[i].rigid->momentum, n);
                sum[k][3 + n] += (double)fsi__get(l, n);
            }
        }
        for (int n = 0; n < 10 && !k; n++) {
            for (int i = 0; i < 2; i++)
                CHECK_OK(fsi_reduced_forces(&reduced[i], FSI_R(0.005)));
            CHECK_OK(fsi_reduced_contact(&contacts, list, 2, NULL, 0, FSI_R(0.005)));
            ASSERT(n || contacts.depth > FSI_R(0.01));
            for (int i = 0; i < 2; i++)
                CHECK_OK(fsi_reduced_move(&reduced[i], FSI_R(0.005)));
        }
    }
    ASSERT(contacts.depth < FSI_R(0.01));
    for (int n = 0; n < 6; n++)
        CHECK_NEAR(sum[0][n], sum[1][n], TOL(1e-12, 1e-4));
    for (int i = 0; i < 2; i++)
        fsi_reduced_free(&reduced[i]);
    fsi_reduced_contacts_free(&contacts);
    fsi_reduced_model_free(&model);
    PASS();
}

/* A rigid box lands on a reduced body through the rigid world; K of the callbacks is the answer to
 * unit impulses. */
TEST external_callbacks(void) {
    fsi_reduced_model model;
    uint64_t seed = 8;
    CHECK_OK(star_model(&model, 10, NULL));
    fsi_reduced reduced;
    CHECK_OK(fsi_reduced_init(&reduced, &model, fsi_vec(0, 0, 0), NULL));
    stir(&reduced, &seed, 0.01);
    reduced.dt = FSI_R(0.01);
    fsi_real *x;
    x = (fsi_real *)malloc(3 * (size_t)model.sample_count * sizeof *x);
    fsi_external ext;
    fsi_reduced_external(&reduced, x, &ext);
    fsi_mat3 K;
    ext.inverse_mass_fn(5, fsi_vec_load(x + 15), &K, ext.user);
    for (int j = 0; j < 3; j++) {
        fsi_vec3 v0 = ext.velocity_fn(5, fsi_vec_load(x + 15), ext.user);
        ext.impulse_fn(5, fsi_vec_load(x + 15), fsi_vec(j == 0, j == 1, j == 2), ext.user);
        fsi_vec3 v1 = fsi_vec_sub(ext.velocity_fn(5, fsi_vec_load(x + 15), ext.user), v0);
        for (int i = 0; i < 3; i++)
            CHECK_NEAR(K.m[3 * i + j], fsi__get(v1, i), TOL(1e-10, 1e-3));
    }
    {
        fsi_vec3 n;
        int point = -1;
        CHECK_NEAR(0, ext.distance_fn(fsi_vec_load(x + 15), &n, &point, ext.user), 0.01);
        ASSERT_EQ(5, point);
    }
    free(x);
    fsi_reduced_free(&reduced);
    fsi_reduced_model_free(&model);
    PASS();
}

/* Skin: rows of the group give the velocity of the skin; the door's numbers agree with the surface
 * handed out. */
TEST group_rows(void) {
    fsi_reduced_model model;
    fsi_reduced reduced[2], *list[2];
    fsi_reduced_group group;
    fsi_coupled door;
    uint64_t seed = 6;
    int32_t index[6] = {0, 1, 2, 0, 2, 3}, body[8] = {0, 1, 0, 1, 1, 0, 1, 0},
            vertex[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    fsi_real weight[8] = {1, 0, FSI_R(0.5), FSI_R(0.5), FSI_R(0.25), FSI_R(0.75), 0, 1};
    fsi_reduced_desc desc = reduced_desc(&brick, 6);
    CHECK_OK(fsi_reduced_model_init(&model, &desc));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(fsi_reduced_init(&reduced[i], &model, fsi_vec(0, 0, 0), NULL));
        stir(&reduced[i], &seed, 0.1);
        list[i] = &reduced[i];
    }
    fsi_reduced_joint joint;
    joint.body[0] = 0;
    joint.body[1] = 1;
    joint.vertex[0] = 3;
    joint.vertex[1] = 4;
    fsi_reduced_skin skin;
    skin.vertex_count = 4;
    skin.element_count = 2;
    skin.index = index;
    skin.terms = 2;
    skin.body = body;
    skin.vertex = vertex;
    skin.weight = weight;
    for (int with_skin = 0; with_skin < 2; with_skin++) {
        fsi_real row[64];
        CHECK_OK(
            fsi_reduced_group_init(&group, list, 2, &joint, 1, with_skin ? &skin : NULL, NULL));
        CHECK_OK(fsi_reduced_group_couple(&group, FSI_R(0.1), &door));
        CHECK_OK(fsi_reduced_group_take(&group));
        door.surface = fsi_reduced_group_surface(&group); /* velocities with the joint */
        ASSERT_EQ(24, door.dof);
        for (int e = 0; e < door.surface.element_count; e++) {
            fsi_real w[3] = {FSI_R(0.2), FSI_R(0.3), FSI_R(0.5)};
            fsi_vec3 x = fsi_vec(0, 0, 0), v = x;
            double dot[3] = {0, 0, 0};
            for (int a = 0; a < 3; a++) {
                x = fsi_vec_mad(x, fsi_vec_load(door.surface.x + 3 * door.surface.index[3 * e + a]),
                                w[a]);
                v = fsi_vec_mad(v, fsi_vec_load(door.surface.v + 3 * door.surface.index[3 * e + a]),
                                w[a]);
            }
            for (int a = 0; a < 3; a++) {
                door.row_fn(&door, e, w, x, fsi_vec(a == 0, a == 1, a == 2), row);
                for (int k = 0; k < door.dof; k++)
                    dot[a] += (double)(row[k] * door.v[k]);
                CHECK_NEAR(fsi__get(v, a), dot[a], TOL(1e-11, 1e-3));
            }
        }
        /* M^-1 M M^-1 = M^-1 with the joints eliminated */
        for (int i = 0; i < door.dof; i++)
            for (int k = 0; k < door.dof; k++)
                CHECK_NEAR(door.inverse_mass[i * door.dof + k], door.inverse_mass[k * door.dof + i],
                           TOL(1e-14, 1e-5));
        fsi_reduced_group_free(&group);
    }
    for (int i = 0; i < 2; i++)
        fsi_reduced_free(&reduced[i]);
    fsi_reduced_model_free(&model);
    PASS();
}

/* A skin vertex between two bodies meets a wall that neither body touches: it stops, and the bodies
 * share the impulse by its weights. */
static fsi_real wall_at(fsi_vec3 x, fsi_vec3 *n, fsi_vec3 *v, void *user) {
    *n = fsi_vec(0, 1, 0);
    *v = fsi_vec(0, 0, 0);
    return x.y - *(fsi_real *)user;
}

TEST contact_through_the_skin(void) {
    fsi_reduced_model model;
    fsi_reduced reduced[3], *list[3];
    fsi_reduced_group *groups[1];
    fsi_quat one = {1, 0, 0, 0};
    int32_t index[3] = {0, 1, 2}, body[6] = {0, 1, 0, 0, 1, 1}, vertex[6];
    fsi_real weight[6] = {FSI_R(0.75), FSI_R(0.25), 1, 0, 0, 1};
    double p[3][3], L[3][3], before[6] = {0}, after[6] = {0};
    fsi_reduced_desc desc = reduced_desc(&brick, 6);
    CHECK_OK(fsi_reduced_model_init(&model, &desc));
    /* a lowest and a highest one */
    int i;
    for (vertex[0] = vertex[1] = 0, i = 0; i < model.vertex_count; i++) {
        if (model.x0[3 * i + 1] < model.x0[3 * vertex[0] + 1])
            vertex[0] = i;
        if (model.x0[3 * i + 1] > model.x0[3 * vertex[1] + 1])
            vertex[1] = i;
    }
    for (i = 2; i < 6; i++)
        vertex[i] = vertex[1];
    vertex[1] = vertex[0];
    fsi_reduced_skin skin;
    memset(&skin, 0, sizeof skin);
    fsi_reduced_contacts contacts;
    memset(&contacts, 0, sizeof contacts);
    fsi_obstacle obstacle;
    memset(&obstacle, 0, sizeof obstacle);
    skin.vertex_count = 3;
    skin.element_count = 1;
    skin.index = index;
    skin.terms = 2;
    skin.body = body;
    skin.vertex = vertex;
    skin.weight = weight;
    for (i = 0; i < 3; i++) {
        CHECK_OK(fsi_reduced_init(&reduced[i], &model, fsi_vec(0, 0, 0), NULL));
        CHECK_OK(fsi_reduced_place(&reduced[i], fsi_vec((fsi_real)(4 * i), i == 1 ? 6 : 3, 0), one,
                                   fsi_vec(0, i == 2 ? 0 : -1, 0),
                                   fsi_vec(0, 0, i == 2 ? 0 : FSI_R(0.1))));
        list[i] = &reduced[i];
    }
    fsi_reduced_group group;
    CHECK_OK(fsi_reduced_group_init(&group, list, 2, NULL, 0, &skin, NULL));
    groups[0] = &group;
    contacts.group = groups;
    contacts.group_count = 1;
    /* the wall is at the first skin vertex: above the lowest points of the first body, which do not
     * count */
    fsi_real level = fsi_reduced_group_surface(&group).x[1];
    obstacle.distance_fn = wall_at;
    obstacle.user = &level;
    ASSERT(fsi_reduced_point(&reduced[0], vertex[0]).y < level - FSI_R(0.1));
    CHECK_OK(fsi_reduced_contact(&contacts, list, 2, &obstacle, 1, FSI_R(0.01)));
    ASSERT_EQ(1, contacts.count);
    /* the skin stopped */
    CHECK_NEAR(0, fsi_reduced_group_surface(&group).v[1], TOL(1e-12, 1e-4));
    CHECK_NEAR(0.75 / 0.25,
               (reduced[0].rigid->momentum.y / model.mass + 1)
                   / (reduced[1].rigid->momentum.y / model.mass + 1),
               TOL(1e-9, 1e-3));
    CHECK_NEAR(0, reduced[0].rigid->momentum.x, TOL(1e-12, 1e-4));
    for (i = 0; i < 2; i++)
        CHECK_OK(fsi_reduced_place(&reduced[i], fsi_vec((fsi_real)(4 * i), i == 1 ? 6 : 3, 0), one,
                                   fsi_vec(0, -1, 0), fsi_vec(FSI_R(0.2), 0, FSI_R(0.1))));
    /* the third body under the first skin vertex: momentum and angular momentum of all three stay
     */
    {
        fsi_vec3 x = fsi_vec_load(fsi_reduced_group_surface(&group).x),
                 top = fsi_vec_load(model.x0 + 3 * vertex[2]);
        CHECK_OK(fsi_reduced_place(
            &reduced[2], fsi_vec_sub(fsi_vec(x.x, x.y, x.z), fsi_vec(0, top.y - FSI_R(0.01), 0)),
            one, fsi_vec(0, 1, 0), fsi_vec(0, FSI_R(0.3), 0)));
    }
    for (int pass = 0; pass < 2; pass++) {
        double *out = pass ? after : before;
        for (i = 0; i < 3; i++) {
            momentum_by_points(&reduced[i], p[i], L[i]);
            for (int k = 0; k < 3; k++) {
                int a = (k + 1) % 3, e = (k + 2) % 3;
                out[k] += p[i][k];
                out[3 + k] += L[i][k] + (double)fsi__get(reduced[i].rigid->position, a) * p[i][e]
                              - (double)fsi__get(reduced[i].rigid->position, e) * p[i][a];
            }
        }
        if (!pass) {
            contacts.slop = 1;
            CHECK_OK(fsi_reduced_contact(&contacts, list, 3, NULL, 0, FSI_R(0.01)));
            ASSERT(contacts.count >= 1);
        }
    }
    for (int k = 0; k < 6; k++)
        CHECK_NEAR(before[k], after[k], TOL(1e-9, 1e-1));
    /* both took part */
    ASSERT(fsi__abs(reduced[0].rigid->momentum.y + model.mass) > FSI_R(1e-3)
           && fsi__abs(reduced[1].rigid->momentum.y + model.mass) > FSI_R(1e-3));
    /* a body of the group is missing */
    ASSERT(fsi_reduced_contact(&contacts, list + 1, 2, NULL, 0, FSI_R(0.01)) == FSI_ERR_ARGUMENT);
    fsi_reduced_contacts_free(&contacts);
    fsi_reduced_group_free(&group);
    for (i = 0; i < 3; i++)
        fsi_reduced_free(&reduced[i]);
    fsi_reduced_model_free(&model);
    PASS();
}

/* ---------------------------------------------------------------- house rules */
TEST copy_is_small(void) {
    fsi_reduced_model model;
    CHECK_OK(star_model(&model, 20, NULL));
    fsi_reduced reduced;
    CHECK_OK(fsi_reduced_init(&reduced, &model, fsi_vec(0, 0, 0), NULL));
    if (getenv("FSI_VERBOSE"))
        printf("copy with 20 modes: %d bytes (state %d), model %d KB, %d vertices\n",
               (int)(sizeof reduced + reduced.size), (int)fsi_reduced_state_size(&reduced),
               (int)(model.size / 1024), model.vertex_count);
    ASSERT(sizeof reduced + reduced.size <= 4096);
    fsi_reduced_free(&reduced);
    fsi_reduced_model_free(&model);
    PASS();
}

TEST failing_allocator(void) {
    int done = 0;
    for (long k = 0; k < 200 && !done; k++) {
        fail_allocator f = fail_begin(k);
        fsi_allocator allocator = fail_make(&f);
        fsi_reduced_model model;
        fsi_reduced *list[1];
        memset(&model, 0, sizeof model);
        fsi_reduced reduced;
        memset(&reduced, 0, sizeof reduced);
        fsi_reduced_group group;
        memset(&group, 0, sizeof group);
        fsi_reduced_contacts contacts;
        memset(&contacts, 0, sizeof contacts);
        fsi_obstacle obstacle;
        memset(&obstacle, 0, sizeof obstacle);
        obstacle.distance_fn = bumpy;
        contacts.allocator = allocator;
        list[0] = &reduced;
        fsi_result result = star_model(&model, 4, &allocator);
        if (result == FSI_OK)
            result = fsi_reduced_init(&reduced, &model, fsi_vec(0, 0, 0), &allocator);
        if (result == FSI_OK)
            result = fsi_reduced_group_init(&group, list, 1, NULL, 0, NULL, &allocator);
        if (result == FSI_OK)
            result = fsi_reduced_contact(&contacts, list, 1, &obstacle, 1, FSI_R(0.01));
        ASSERT(result == FSI_OK || result == FSI_ERR_MEMORY);
        done = result == FSI_OK;
        fsi_reduced_contacts_free(&contacts);
        fsi_reduced_group_free(&group);
        fsi_reduced_free(&reduced);
        fsi_reduced_model_free(&model);
        ASSERT_EQ(0, f.live);
    }
    ASSERT(done);
    PASS();
}

TEST bad_input(void) {
    fsi_reduced_desc desc = reduced_desc(&brick, 4);
    fsi_quat q;
    fsi_real zero = 0;
    q.w = 1;
    q.x = q.y = q.z = 0;
    desc.density = 0;
    fsi_reduced_model model;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_reduced_model_init(&model, &desc));
    desc = reduced_desc(&brick, -1);
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_reduced_model_init(&model, &desc));
    desc = reduced_desc(&brick, 1000);
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_reduced_model_init(&model, &desc));
    desc = reduced_desc(NULL, 4);
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_reduced_model_init(&model, &desc));
    desc = reduced_desc(&brick, 4);
    desc.poisson = FSI_R(0.5);
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_reduced_model_init(&model, &desc));
    desc = reduced_desc(&brick, 4);
    CHECK_OK(fsi_reduced_model_init(&model, &desc));
    fsi_reduced reduced;
    CHECK_OK(fsi_reduced_init(&reduced, &model, fsi_vec(0, 0, 0), NULL));
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_reduced_place(&reduced, fsi_vec(zero / zero, 0, 0), q,
                                                     fsi_vec(0, 0, 0), fsi_vec(0, 0, 0)));
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_reduced_forces(&reduced, -1));
    reduced.q[0] = zero / zero;
    CHECK_RESULT(FSI_ERR_NUMERIC, fsi_reduced_forces(&reduced, FSI_R(0.01)));
    fsi_reduced_free(&reduced);
    fsi_reduced_free(&reduced);
    fsi_reduced_model_free(&model);
    fsi_reduced_model_free(&model);
    PASS();
}

/* Two triangles that run along an edge in the same direction lie on top of each other. */
TEST overlapping_triangles_are_refused(void) {
    fsi_real x[12] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 1, 0};
    int32_t once[6] = {0, 1, 2, 2, 1, 3};
    int32_t twice[6] = {0, 1, 2, 0, 1, 3};
    fsi_mesh sheet;
    memset(&sheet, 0, sizeof sheet);
    sheet.dim = 3;
    sheet.vertex_count = 4;
    sheet.element_count = 2;
    sheet.x = x;
    sheet.index = once;
    fsi_reduced_desc desc = reduced_desc(&sheet, 1);
    desc.dim = 2;
    fsi_reduced_model model;
    CHECK_OK(fsi_reduced_model_init(&model, &desc));
    fsi_reduced_model_free(&model);
    sheet.index = twice;
    CHECK_RESULT(FSI_ERR_GEOMETRY, fsi_reduced_model_init(&model, &desc));
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv) {
    GREATEST_MAIN_BEGIN();
    fsi_mesh_box(&beam, fsi_vec(0, 0, 0), fsi_vec(1, FSI_R(0.1), FSI_R(0.1)), 20, 2, 2, 0, NULL);
    fsi_mesh_box(&brick, fsi_vec(0, 0, 0), fsi_vec(2, 1, 1), 2, 1, 1, 0, NULL);
    RUN_TEST(S_15_modal_analysis);
    RUN_TEST(S_15_free_beam_frequency);
    RUN_TEST(S_15_effective_mass);
    RUN_TEST(moving_floor_energy);
    RUN_TEST(S_15_flat);
    RUN_TEST(S_16_modal_step);
    RUN_TEST(S_16_newmark_step);
    RUN_TEST(S_17_projections);
    RUN_TEST(S_18_impulse_factor);
    RUN_TEST(S_19_rigid_and_full);
    RUN_TEST(free_flight);
    RUN_TEST(impulses);
    RUN_TEST(actuation);
    RUN_TEST(S_20_articulation);
    RUN_TEST(pile_settles);
    RUN_TEST(same_bits);
    RUN_TEST(collision_momentum);
    RUN_TEST(opening_overlaps_keeps_momentum);
    RUN_TEST(external_callbacks);
    RUN_TEST(group_rows);
    RUN_TEST(contact_through_the_skin);
    RUN_TEST(copy_is_small);
    RUN_TEST(failing_allocator);
    RUN_TEST(bad_input);
    RUN_TEST(overlapping_triangles_are_refused);
    fsi_mesh_free(&beam);
    fsi_mesh_free(&brick);
    GREATEST_MAIN_END();
}
