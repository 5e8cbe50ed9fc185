/* Fluids and reduced deformable bodies (REDUCED, docs/mathematics.md): the coupled system with 6 +
 * modes columns per body. */
#define FSI_IMPLEMENTATION
#define FSI_SOLIDS_IMPLEMENTATION /* it looks inside, so it compiles this one itself */
#define FSI_COUPLE_IMPLEMENTATION /* it looks inside, so it compiles this one itself */
#include "fsi_couple.h"
#include "greatest.h"
#include "check.h"
#include "../examples/forms.h"

#define MOST 4

typedef struct scene {
    fsi_grid grid;
    fsi_couple couple;
    fsi_mesh mesh[MOST];
    fsi_reduced_model model[MOST];
    fsi_reduced body[MOST];
    fsi_reduced_group group[MOST];
    fsi_coupled door[MOST];
    fsi_coupled *list[MOST];
    int bodies, groups, doors;
} scene;

static scene S, T;
static uint64_t seed = 7;
static const fsi_real DT = FSI_R(0.01);

static fsi_real rnd(void) {
    return (fsi_real)check_random(&seed);
}

static fsi_vec3 random_velocity(fsi_vec3 x, double t, void *user) {
    (void)x;
    (void)t;
    (void)user;
    return fsi_vec(rnd(), rnd(), rnd());
}

/* closed but for the top, density 1, h = 1/8 */
static int open_scene(scene *s, int nx, int ny, int nz, fsi_couple_solver solver) {
    memset(s, 0, sizeof *s);
    fsi_grid_desc desc;
    memset(&desc, 0, sizeof desc);
    fsi_couple_desc given;
    memset(&given, 0, sizeof given);
    desc.nx = nx;
    desc.ny = ny;
    desc.nz = nz;
    desc.h = FSI_R(0.125);
    desc.rho = 1;
    desc.side[FSI_TOP].kind = FSI_SIDE_OPEN;
    desc.tolerance = TOL(1e-13, 1e-5);
    desc.max_iterations = 2000;
    given.solver = solver;
    given.boundary =
        FSI_BOUNDARY_VOXEL; /* the dense twins count half cells of fluid at the sides */
    return fsi_grid_init(&s->grid, &desc) == FSI_OK
           && fsi_couple_init(&s->couple, &s->grid, &given) == FSI_OK;
}

static void close_scene(scene *s) {
    fsi_couple_free(&s->couple);
    fsi_grid_free(&s->grid);
    for (int i = 0; i < MOST; i++) {
        fsi_reduced_group_free(&s->group[i]);
        fsi_reduced_free(&s->body[i]);
        fsi_reduced_model_free(&s->model[i]);
        fsi_mesh_free(&s->mesh[i]);
    }
}

/* A soft brick of nx x ny x nz cubes around (x, y, z). modes -1: a full basis. */
static int add_brick(scene *s, int nx, int ny, int nz, int modes, double x, double y, double z,
                     double density) {
    int k = s->bodies;
    fsi_reduced_desc desc;
    fsi_real *basis = NULL;
    memset(&desc, 0, sizeof desc);
    if (fsi_mesh_box(&s->mesh[k], fsi_vec(-FSI_R(0.24), -FSI_R(0.17), -FSI_R(0.16)),
                     fsi_vec(FSI_R(0.24), FSI_R(0.17), FSI_R(0.16)), nx, ny, nz, 1, NULL)
        != FSI_OK)
        return 0;
    int n = 3 * s->mesh[k].vertex_count;
    /* unit vectors but for the last node: with the rigid frame all motions */
    if (modes < 0) {
        modes = n - 3;
        basis = (fsi_real *)calloc((size_t)(modes * n), sizeof *basis);
        for (int i = 0; i < modes; i++)
            basis[i * n + i] = 1;
    }
    desc.mesh = &s->mesh[k];
    desc.modes = modes;
    desc.basis = basis;
    desc.density = (fsi_real)density;
    desc.young = 500;
    desc.poisson = FSI_R(0.3);
    desc.field = 8;
    desc.damping_stiffness = basis ? 0 : FSI_R(1e-3);
    fsi_result result = fsi_reduced_model_init(&s->model[k], &desc);
    free(basis);
    s->bodies++;
    return result == FSI_OK
           && fsi_reduced_init(&s->body[k], &s->model[k],
                               fsi_vec((fsi_real)x, (fsi_real)y, (fsi_real)z), NULL)
                  == FSI_OK;
}

static int add_group(scene *s, int first, int count, const fsi_reduced_joint *joint, int joints) {
    fsi_reduced *list[MOST];
    for (int i = 0; i < count; i++)
        list[i] = &s->body[first + i];
    s->list[s->doors] = &s->door[s->doors];
    s->doors++;
    return fsi_reduced_group_init(&s->group[s->groups++], list, count, joint, joints, NULL, NULL)
           == FSI_OK;
}

/* Turned, moving, bent on request. */
static void stir(fsi_reduced *reduced, double bend) {
    fsi_quat q;
    q.w = 1;
    q.x = q.y = q.z = 0;
    if (bend > 0)
        q.x = FSI_R(0.1) * rnd(), q.y = FSI_R(0.1) * rnd(), q.z = FSI_R(0.3) * rnd();
    fsi_reduced_place(reduced, reduced->rigid->position, q, fsi_vec(rnd(), rnd(), rnd()),
                      fsi_vec(rnd(), rnd(), rnd()));
    for (int k = 0; k < reduced->model->modes; k++) {
        reduced->q[k] = (fsi_real)bend * rnd();
        reduced->dq[k] = FSI_R(0.1) * rnd();
    }
    fsi__reduced_update(reduced);
}

/* Forces, doors, interface; random fluid. */
static int ready(scene *s, int random) {
    for (int i = 0; i < s->bodies; i++)
        if (fsi_reduced_forces(&s->body[i], DT) != FSI_OK)
            return 0;
    for (int i = 0; i < s->groups; i++)
        if (fsi_reduced_group_couple(&s->group[i], DT, &s->door[i]) != FSI_OK)
            return 0;
    if (random && fsi_grid_set_velocity(&s->grid, random_velocity, NULL) != FSI_OK)
        return 0;
    return fsi_couple_detect(&s->couple, s->list, s->doors) == FSI_OK;
}

/* ---- Every velocity there is: open faces, sides, solids. The slow, obvious twin of the solve
 * works on these. */
typedef struct everything {
    int n, faces, sides; /* all; open faces; sides (then solids) */
    int axis[8000];
    size_t face[8000];
    fsi_vec3 at[8000];
    double mass[8000], v[8000]; /* mass of faces and sides */
} everything;

static everything before, after;

static size_t stride(const fsi_interface *iface, int a) {
    return a == 0 ? 1 : a == 1 ? (size_t)iface->nx : (size_t)iface->nx * (size_t)iface->ny;
}

static void collect(const scene *s, everything *e, const fsi_real *side_u) {
    const fsi_interface *iface = &s->couple.iface;
    double m = (double)(s->grid.desc.rho * s->grid.h * s->grid.h * s->grid.h),
           h = (double)s->grid.h;
    e->n = 0;
    for (int a = 0; a < 3; a++)
        for (size_t n = 0; n < s->grid.faces[a]; n++) {
            int at[3];
            fsi__face_ijk(iface, a, n, at);
            /* only the top is open */
            if (at[a] == 0 || iface->blocked[a][n] || (at[a] == iface->n[a] && a != 1))
                continue;
            size_t c = (size_t)at[0]
                       + (size_t)iface->nx * ((size_t)at[1] + (size_t)iface->ny * (size_t)at[2]);
            if (iface->covered[c - stride(iface, a)] || (at[a] < iface->n[a] && iface->covered[c]))
                continue;
            e->axis[e->n] = a;
            e->face[e->n] = n;
            e->mass[e->n] = m;
            e->v[e->n] = (double)s->grid.u[a][n];
            e->at[e->n++] = fsi_vec((fsi_real)(h * (at[0] + (a == 0 ? 0 : 0.5))),
                                    (fsi_real)(h * (at[1] + (a == 1 ? 0 : 0.5))),
                                    (fsi_real)(h * (at[2] + (a == 2 ? 0 : 0.5))));
        }
    e->faces = e->n;
    e->sides = iface->sides;
    for (int i = 0; i < iface->sides; i++) {
        e->axis[e->n] = iface->side[i].axis;
        e->mass[e->n] = (double)iface->side[i].mass;
        e->v[e->n] = (double)side_u[i];
        e->at[e->n++] = fsi_interface_centre(iface, iface->side + i);
    }
    for (int k = 0; k < s->doors; k++)
        for (int i = 0; i < s->door[k].dof; i++)
            e->v[e->n++] = (double)s->door[k].v[i];
}

/* Linear momentum and angular momentum about the origin of fluid and groups. */
static void ledger(const scene *s, const everything *e, double *out) {
    int at = e->faces + e->sides;
    memset(out, 0, 6 * sizeof *out);
    int a;
    for (int i = 0; i < e->faces + e->sides; i++) {
        double x[3], p = e->mass[i] * e->v[i];
        x[0] = (double)e->at[i].x;
        x[1] = (double)e->at[i].y;
        x[2] = (double)e->at[i].z;
        a = e->axis[i];
        out[a] += p;
        out[3 + (a + 1) % 3] += x[(a + 2) % 3] * p; /* x cross p e_a */
        out[3 + (a + 2) % 3] -= x[(a + 1) % 3] * p;
    }
    for (int k = 0; k < s->groups; k++)
        for (int i = 0; i < s->group[k].body_count; i++) {
            const fsi_reduced *reduced = s->group[k].body[i];
            int n = 6 + reduced->model->modes;
            fsi_real mass[64 * 64];
            double p[3], x[3];
            fsi_reduced_mass(reduced, 0, mass, NULL);
            for (a = 0; a < 3; a++) {
                p[a] = (double)reduced->model->mass * e->v[at + a];
                x[a] = (double)fsi__get(reduced->rigid->position, a);
                out[a] += p[a];
            }
            for (a = 0; a < 3; a++) {
                out[3 + a] += x[(a + 1) % 3] * p[(a + 2) % 3] - x[(a + 2) % 3] * p[(a + 1) % 3];
                for (int c = 0; c < 3; c++)
                    out[3 + a] += (double)mass[(3 + a) * n + 3 + c] * e->v[at + 3 + c];
            }
            at += n;
        }
}

static void wall_impulse(const scene *s, double *out) {
    const fsi_interface *iface = &s->couple.iface;
    double h = (double)s->grid.h;
    int i[3];
    memset(out, 0, 6 * sizeof *out);
    for (i[2] = 0; i[2] < iface->nz; i[2]++)
        for (i[1] = 0; i[1] < iface->ny; i[1]++)
            for (i[0] = 0; i[0] < iface->nx; i[0]++)
                for (int a = 0; a < 3; a++)
                    for (int up = 0; up < 2; up++) {
                        size_t c =
                            (size_t)i[0]
                            + (size_t)iface->nx * ((size_t)i[1] + (size_t)iface->ny * (size_t)i[2]);
                        double x[3];
                        if (i[a] != (up ? iface->n[a] - 1 : 0) || (a == 1 && up)
                            || iface->covered[c])
                            continue;
                        double p = (double)s->grid.pressure[c] * h * h * (up ? -1 : 1);
                        x[0] = h * (i[0] + 0.5);
                        x[1] = h * (i[1] + 0.5);
                        x[2] = h * (i[2] + 0.5);
                        x[a] = h * (i[a] + up);
                        out[a] += p;
                        out[3 + (a + 1) % 3] += x[(a + 2) % 3] * p;
                        out[3 + (a + 2) % 3] -= x[(a + 1) % 3] * p;
                    }
}

/* Interface and samples as they are before the solve. */
static int sides_before(scene *s, fsi_real *u) {
    if (fsi_grid_classify(&s->grid) < 0 || fsi_interface_sides(&s->couple.iface, &s->grid) != FSI_OK
        || fsi_grid_build_pressure(&s->grid, DT) < 0)
        return 0;
    for (int i = 0; i < s->couple.iface.sides; i++)
        u[i] = fsi_interface_sample(&s->grid, s->couple.iface.side + i);
    return 1;
}

static int crowd(scene *s, fsi_couple_solver solver) { /* one bent brick, two jointed ones */
    /* 3 x 3 x 3 vertices: the last of one on the first of the other */
    static const fsi_reduced_joint corner = {{0, 1}, {26, 0}};
    seed = 21;
    if (!open_scene(s, 12, 16, 10, solver))
        return 0;
    if (!add_brick(s, 2, 2, 2, 8, 0.51, 0.42, 0.62, 0.3)
        || !add_brick(s, 2, 2, 2, 6, 0.46, 1.12, 0.42, 2.0)
        || !add_brick(s, 2, 2, 2, 6, 0.94, 1.46, 0.74, 0.8))
        return 0;
    if (!add_group(s, 0, 1, NULL, 0) || !add_group(s, 1, 2, &corner, 1))
        return 0;
    for (int i = 0; i < 3; i++)
        stir(&s->body[i], i ? 0 : 0.01);
    return ready(s, 1);
}

static fsi_real side_u[4000];

/* ---- what the solve sees does not know how many tetrahedra there are. */
TEST A_12_size_independent_of_tetrahedra(void) {
    size_t bytes[2] = {0, 0};
    for (int pass = 0; pass < 2; pass++) {
        scene *s = pass ? &T : &S;
        int n = pass ? 6 : 2;
        ASSERT(open_scene(s, 8, 12, 8, FSI_COUPLE_DEFLATED));
        ASSERT(add_brick(s, n, n, n, 10, 0.51, 0.73, 0.49, 0.5));
        ASSERT(add_group(s, 0, 1, NULL, 0));
        ASSERT(ready(s, 1));
        ASSERT(fsi_couple_solve(&s->couple, DT, NULL) >= 0);
        bytes[pass] = fsi__list_bytes(s->couple.lists) + fsi__list_bytes(s->couple.region_lists);
    }
    ASSERT(T.mesh[0].tet_count >= 27 * S.mesh[0].tet_count);
    ASSERT(S.couple.iface.sides > 40);
    ASSERT_EQ(16, S.couple.columns);
    ASSERT_EQ(S.couple.columns, T.couple.columns);
    ASSERT_EQ(S.couple.iface.sides, T.couple.iface.sides);
    ASSERT_EQ(S.couple.iface.entries, T.couple.iface.entries);
    ASSERT(bytes[0] == bytes[1]);
    ASSERT(fsi_reduced_state_size(&S.body[0]) == fsi_reduced_state_size(&T.body[0]));
    if (getenv("FSI_VERBOSE"))
        printf("A-12: %d and %d tets: %d sides, %d entries, %d columns in both\n",
               S.mesh[0].tet_count, T.mesh[0].tet_count, S.couple.iface.sides,
               S.couple.iface.entries, S.couple.columns);
    close_scene(&S);
    close_scene(&T);
    PASS();
}

/* ---- S = 0 is the rigid system. modes 0, and three modes whose columns are zeroed. */
TEST A_13_no_modes_is_rigid(void) {
    for (int pass = 0; pass < 2; pass++) {
        fsi_body rigid;
        fsi_real mass[81];
        int n = pass ? 9 : 6;
        memset(&rigid, 0, sizeof rigid);
        seed = 3;
        ASSERT(open_scene(&S, 8, 12, 8, FSI_COUPLE_DEFLATED));
        ASSERT(add_brick(&S, 2, 2, 2, n - 6, 0.51, 0.73, 0.49, 0.5));
        if (pass) {
            fsi_fill((size_t)(9 * S.model[0].vertex_count), 0, S.model[0].S);
            fsi_fill(27, 0, S.model[0].G0);
            fsi_fill(81, 0, S.model[0].G);
        }
        stir(&S.body[0], pass ? 0 : 1);
        fsi_fill((size_t)(n - 6), 0, S.body[0].dq);
        ASSERT(add_group(&S, 0, 1, NULL, 0));
        ASSERT(ready(&S, 1));
        fsi_reduced_mass(&S.body[0], 0, mass, NULL);
        rigid.mass = mass[0];
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < 3; k++)
                rigid.inertia.m[3 * i + k] = mass[(3 + i) * n + 3 + k];
        rigid.centre = S.body[0].rigid->position;
        rigid.velocity = fsi_vec_load(S.group[0].v);
        rigid.spin = fsi_vec_load(S.group[0].v + 3);
        seed = 3;
        ASSERT(open_scene(&T, 8, 12, 8, FSI_COUPLE_DEFLATED));
        for (int i = 0; i < 3; i++)
            fsi_copy(S.grid.faces[i], S.grid.u[i], T.grid.u[i]);
        CHECK_OK(fsi_body_couple(&rigid, &S.door[0].surface, &T.door[0]));
        T.list[0] = &T.door[0];
        T.doors = 1;
        CHECK_OK(fsi_couple_detect(&T.couple, T.list, 1));
        CHECK_OK(fsi_couple_solve(&S.couple, DT, NULL));
        CHECK_OK(fsi_couple_solve(&T.couple, DT, NULL));
        ASSERT_EQ(T.couple.iface.sides, S.couple.iface.sides);
        for (int i = 0; i < S.couple.iface.sides; i++) { /* the rows themselves */
            const fsi_side *a = S.couple.iface.side + i, *b = T.couple.iface.side + i;
            for (int k = 0; k < n; k++) {
                double va = 0, vb = 0;
                for (int e = a->row; e < a->row_end; e++)
                    if (S.couple.iface.col[e] == k)
                        va += (double)S.couple.iface.val[e];
                for (int e = b->row; e < b->row_end; e++)
                    if (T.couple.iface.col[e] == k)
                        vb += (double)T.couple.iface.val[e];
                CHECK_NEAR(vb, va, TOL(1e-14, 1e-6));
            }
        }
        fsi_body_take(&rigid);
        for (int i = 0; i < 3; i++) {
            CHECK_NEAR(T.door[0].v[i], S.door[0].v[i], TOL(1e-11, 1e-4));
            CHECK_NEAR(T.door[0].v[3 + i], S.door[0].v[3 + i], TOL(1e-11, 1e-3));
        }
        for (int i = 6; i < n; i++)
            CHECK_NEAR(0, S.door[0].v[i], 0);
        for (int i = 0; i < (int)S.grid.cells; i++)
            CHECK_NEAR(T.grid.pressure[i], S.grid.pressure[i], TOL(1e-11, 1e-4));
        close_scene(&S);
        close_scene(&T);
    }
    PASS();
}

/* ---- C-14 and the slow twin: the velocities nearest to u*, v* in the mass norm with no divergence
   and u = J v at the sides, y = y* - M^-1 C^T (C M^-1 C^T)^-1 C y*, all dense. C M^-1 C^T is the
   system of eq. (45); third: with the joints of the only group as a third block of unknowns of
   their own, K_lambda of the bodies apart and v* before the joints: eq. (49) as printed. */
static void bodies_apart(const fsi_reduced_group *group, double *K, double *v) {
    int at = 0;
    for (int k = 0; k < group->body_count; k++) {
        fsi_real inverse[64 * 64];
        int d = 6 + group->body[k]->model->modes;
        fsi_reduced_mass(group->body[k], DT, NULL, inverse);
        for (int i = 0; i < d && K; i++)
            for (int j = 0; j < d; j++)
                K[(at + i) * group->dof + at + j] = (double)inverse[i * d + j];
        fsi_vec3 lin = fsi__reduced_drift(group->body[k]);
        fsi_vec3 ang = fsi__reduced_spin(group->body[k]);
        for (int i = 0; i < 3 && v; i++) {
            v[at + i] = (double)fsi__get(lin, i);
            v[at + 3 + i] = (double)fsi__get(ang, i);
        }
        for (int i = 6; i < d && v; i++)
            v[at + i] = (double)group->body[k]->dq[i - 6];
        at += d;
    }
}

static int dense_twin(const scene *s, const everything *e, double *y, double *least, int third) {
    const fsi_interface *iface = &s->couple.iface;
    static double apart[64 * 64];
    int cells = (int)s->grid.cells, joints = third ? 3 * s->group[0].joint_count : 0,
        m = cells + iface->sides + joints, n = e->n, i, a, d;
    double area = (double)(s->grid.h * s->grid.h),
           *C = (double *)calloc((size_t)m * (size_t)n, sizeof *C),
           *MC = (double *)calloc((size_t)m * (size_t)n, sizeof *C);
    double *A = (double *)calloc((size_t)m * (size_t)m, sizeof *A),
           *b = (double *)calloc((size_t)m, sizeof *b);
    int ok = 1;
    for (i = 0; i < e->faces; i++) {
        int at[3];
        a = e->axis[i];
        fsi__face_ijk(iface, a, e->face[i], at);
        size_t c =
            (size_t)at[0] + (size_t)iface->nx * ((size_t)at[1] + (size_t)iface->ny * (size_t)at[2]);
        C[(c - stride(iface, a)) * (size_t)n + (size_t)i] = area;
        if (at[a] < iface->n[a])
            C[c * (size_t)n + (size_t)i] = -area;
    }
    for (i = 0; i < iface->sides; i++) {
        const fsi_side *side = iface->side + i;
        int first = e->faces + e->sides;
        for (int k = 0; k < side->solid; k++)
            first += s->door[k].dof;
        C[(size_t)side->cell * (size_t)n + (size_t)(e->faces + i)] += area * side->sign;
        C[(size_t)(cells + i) * (size_t)n + (size_t)(e->faces + i)] = 1;
        for (int k = side->row; k < side->row_end; k++)
            C[(size_t)(cells + i) * (size_t)n + (size_t)(first + iface->col[k])] -=
                (double)iface->val[k];
    }
    memset(apart, 0, sizeof apart);
    if (third)
        bodies_apart(&s->group[0], apart, NULL);
    for (i = 0; i < joints; i++)
        for (int k = 0; k < s->group[0].dof; k++)
            C[(size_t)(cells + iface->sides + i) * (size_t)n + (size_t)(e->faces + e->sides + k)] =
                (double)s->group[0].joint_row[i * s->group[0].dof + k];
    int j;
    for (i = 0; i < m; i++) {
        const double *c = C + (size_t)i * (size_t)n;
        double *o = MC + (size_t)i * (size_t)n;
        int first = e->faces + e->sides;
        for (j = 0; j < first; j++)
            o[j] = c[j] / e->mass[j];
        for (int k = 0; k < s->doors; first += s->door[k++].dof)
            for (j = 0, d = s->door[k].dof; j < d; j++)
                for (a = 0; a < d; a++)
                    o[first + j] +=
                        (third ? apart[j * d + a] : (double)s->door[k].inverse_mass[j * d + a])
                        * c[first + a];
    }
    for (i = 0; i < m; i++) {
        for (j = 0; j < m; j++)
            for (int k = 0; k < n; k++)
                A[(size_t)i * (size_t)m + (size_t)j] +=
                    C[(size_t)i * (size_t)n + (size_t)k] * MC[(size_t)j * (size_t)n + (size_t)k];
        for (int k = 0; k < n; k++)
            b[i] += C[(size_t)i * (size_t)n + (size_t)k] * e->v[k];
    }
    for (i = 0; i < m; i++)
        for (j = 0; j < i; j++)
            if (!(fabs(A[(size_t)i * (size_t)m + (size_t)j] - A[(size_t)j * (size_t)m + (size_t)i])
                  <= 1e-12 * fabs(A[(size_t)i * (size_t)m + (size_t)i]) + 1e-13))
                ok = 0;
    /* no row of its own */
    for (i = 0; i < cells; i++)
        if (iface->covered[i])
            A[(size_t)i * (size_t)(m + 1)] = 1;
    *least = 1e300;
    /* Cholesky: positive pivots = positive definite */
    for (i = 0; i < m && ok; i++) {
        for (j = 0; j <= i; j++) {
            double sum = A[(size_t)i * (size_t)m + (size_t)j];
            for (int k = 0; k < j; k++)
                sum -= A[(size_t)i * (size_t)m + (size_t)k] * A[(size_t)j * (size_t)m + (size_t)k];
            if (i == j) {
                if (!(sum > 0))
                    ok = 0;
                *least = fmin(*least, sum);
                A[(size_t)i * (size_t)m + (size_t)i] = sqrt(sum);
            } else
                A[(size_t)i * (size_t)m + (size_t)j] = sum / A[(size_t)j * (size_t)m + (size_t)j];
        }
    }
    for (i = 0; i < m && ok; i++) {
        for (int k = 0; k < i; k++)
            b[i] -= A[(size_t)i * (size_t)m + (size_t)k] * b[k];
        b[i] /= A[(size_t)i * (size_t)(m + 1)];
    }
    for (i = m - 1; i >= 0 && ok; i--) {
        for (int k = i + 1; k < m; k++)
            b[i] -= A[(size_t)k * (size_t)m + (size_t)i] * b[k];
        b[i] /= A[(size_t)i * (size_t)(m + 1)];
    }
    for (int k = 0; k < n; k++)
        for (y[k] = e->v[k], i = 0; i < m; i++)
            y[k] -= MC[(size_t)i * (size_t)n + (size_t)k] * b[i];
    free(C);
    free(MC);
    free(A);
    free(b);
    return ok;
}

TEST C_14_symmetric_positive_and_dense_twin(void) {
    static double y[8000];
    static const fsi_reduced_joint corner = {{0, 1}, {7, 0}};
    double least, worst = 0;
    for (int joints = 0; joints < 3; joints++) { /* none; eliminated; as a third block */
        seed = 5;
        ASSERT(open_scene(&S, 8, 8, 5, FSI_COUPLE_DEFLATED));
        ASSERT(add_brick(&S, 1, 1, 1, 6, 0.37, 0.36, 0.24, 0.3)
               && add_brick(&S, 1, 1, 1, 4, 0.85, joints ? 0.70 : 0.62, joints ? 0.56 : 0.38, 3));
        ASSERT(joints ? add_group(&S, 0, 2, &corner, 1)
                      : add_group(&S, 0, 1, NULL, 0) && add_group(&S, 1, 1, NULL, 0));
        for (int i = 0; i < 2; i++)
            stir(&S.body[i], joints ? 0 : 0.005);
        ASSERT(ready(&S, 1));
        ASSERT(sides_before(&S, side_u));
        collect(&S, &before, side_u);
        ASSERT(S.couple.iface.sides > 30);
        if (joints == 2)
            bodies_apart(&S.group[0], NULL, before.v + before.faces + before.sides);
        ASSERT(dense_twin(&S, &before, y, &least, joints == 2));
        CHECK_OK(fsi_couple_solve(&S.couple, DT, NULL));
        collect(&S, &after, S.couple.side_velocity);
        ASSERT_EQ(before.n, after.n);
        for (int i = 0; i < after.n; i++) {
            CHECK_NEAR(y[i], after.v[i], TOL(1e-9, 2e-3));
            worst = fmax(worst, fabs(y[i] - after.v[i]));
        }
        if (getenv("FSI_VERBOSE"))
            printf("C-14: %d sides, least pivot %.3g, dense twin differs by %.2g\n",
                   S.couple.iface.sides, least, worst);
        close_scene(&S);
    }
    PASS();
}

/* The operator of the pressure solve and its preconditioners on the bigger scene. */
TEST C_14_operator(void) {
    ASSERT(crowd(&S, FSI_COUPLE_DEFLATED));
    CHECK_OK(fsi_couple_solve(&S.couple, DT, NULL));
    size_t n = S.grid.cells;
    fsi_real *m;
    m = (fsi_real *)calloc(4 * n, sizeof *m);
    fsi_real *x = m;
    fsi_real *y = m + n;
    fsi_real *ax = m + 2 * n;
    fsi_real *ay = m + 3 * n;
    for (int trial = 0; trial < 20; trial++) {
        for (size_t i = 0; i < n; i++) {
            x[i] = y[i] = 0;
            if (S.grid.cell[i] == FSI_CELL_FLUID) {
                x[i] = rnd();
                y[i] = rnd();
            }
        }
        memset(ax, 0, 2 * n * sizeof *ax);
        fsi_mg_apply(S.grid.mg, x, ax);
        fsi__extra(x, ax, &S.couple);
        fsi_mg_apply(S.grid.mg, y, ay);
        fsi__extra(y, ay, &S.couple);
        double scale = sqrt(fsi_dot(n, ax, ax) * fsi_dot(n, y, y));
        CHECK_NEAR(fsi_dot(n, x, ay), fsi_dot(n, y, ax), TOL(1e-12, 1e-4) * scale);
        ASSERT(fsi_dot(n, x, ax) > 0);
    }
    free(m);
    close_scene(&S);
    PASS();
}

/* ---- All solvers give one answer with reduced bodies and joints. */
TEST C_15_solvers_agree(void) {
    ASSERT(crowd(&T, FSI_COUPLE_DEFLATED));
    ASSERT(fsi_couple_solve(&T.couple, DT, NULL) >= 0);
    collect(&T, &before, T.couple.side_velocity);
    for (int k = 1; k <= FSI_COUPLE_INDEFINITE; k++) {
        double worst = 0;
        ASSERT(crowd(&S, (fsi_couple_solver)k));
        ASSERT(fsi_couple_solve(&S.couple, DT, NULL) >= 0);
        collect(&S, &after, S.couple.side_velocity);
        for (int i = 0; i < after.n; i++)
            worst = fmax(worst, fabs(after.v[i] - before.v[i]));
        if (getenv("FSI_VERBOSE"))
            printf("C-15: solver %d differs by %.2g, %d iterations\n", k, worst,
                   S.couple.report.iterations);
        CHECK_MOST(worst, TOL(1e-8, 2e-2));
        close_scene(&S);
    }
    close_scene(&T);
    PASS();
}

/* ---- S-19 in the fluid: a full basis is the fully deformable body. Same J: rows at the crossing
 * as nodal solids have them. */
static void (*group_row)(const fsi_coupled *self, int element, const fsi_real *weight,
                         fsi_vec3 point, fsi_vec3 dir, fsi_real *row);

static void row_at_surface(const fsi_coupled *self, int element, const fsi_real *weight,
                           fsi_vec3 point, fsi_vec3 dir, fsi_real *row) {
    point = fsi_vec(0, 0, 0);
    for (int a = 0; a < 3; a++)
        point = fsi_vec_mad(
            point, fsi_vec_load(self->surface.x + 3 * self->surface.index[3 * element + a]),
            weight[a]);
    group_row(self, element, weight, point, dir, row);
}

TEST S_19_full_basis_is_deformable(void) {
    fsi_coupled *one[1];
    double worst = 0;
    seed = 9;
    fsi_soft_desc desc;
    memset(&desc, 0, sizeof desc);
    ASSERT(open_scene(&S, 8, 12, 8, FSI_COUPLE_DEFLATED)
           && open_scene(&T, 8, 12, 8, FSI_COUPLE_DEFLATED));
    ASSERT(add_brick(&S, 2, 1, 1, -1, 0.51, 0.73, 0.49, 0.5));
    ASSERT(add_group(&S, 0, 1, NULL, 0));
    for (int i = 0; i < S.mesh[0].vertex_count; i++) { /* the same brick at its place */
        S.mesh[0].x[3 * i] += FSI_R(0.51);
        S.mesh[0].x[3 * i + 1] += FSI_R(0.73);
        S.mesh[0].x[3 * i + 2] += FSI_R(0.49);
    }
    desc.dim = 3;
    desc.vertex_count = S.mesh[0].vertex_count;
    desc.x = S.mesh[0].x;
    desc.tet = S.mesh[0].tet;
    desc.tet_count = S.mesh[0].tet_count;
    desc.density = FSI_R(0.5);
    desc.young = 500;
    desc.poisson = FSI_R(0.3);
    desc.model = FSI_SOFT_LINEAR;
    desc.integrator = FSI_SOFT_SPLIT;
    fsi_soft soft;
    CHECK_OK(fsi_soft_init(&soft, &desc));
    S.body[0].rigid->position =
        fsi_vec_add(S.model[0].centre, fsi_vec(FSI_R(0.51), FSI_R(0.73), FSI_R(0.49)));
    stir(&S.body[0], 0);
    for (int i = 0; i < desc.vertex_count; i++)
        fsi_vec_store(soft.v + 3 * i, fsi_reduced_velocity(&S.body[0], i));
    /* M^_r^-1 M_r q'* */
    for (int k = 0; k < S.model[0].modes; k++)
        S.body[0].dq[k] /= fsi__reduced_stiff(&S.model[0], k, DT);
    CHECK_OK(fsi_reduced_group_couple(&S.group[0], DT, &S.door[0]));
    group_row = S.door[0].row_fn;
    S.door[0].row_fn = row_at_surface;
    CHECK_OK(fsi_soft_forces(&soft, DT));
    fsi_soft_couple(&soft, &T.door[0]);
    one[0] = &T.door[0];
    CHECK_OK(fsi_grid_set_velocity(&S.grid, random_velocity, NULL));
    for (int a = 0; a < 3; a++)
        fsi_copy(S.grid.faces[a], S.grid.u[a], T.grid.u[a]);
    CHECK_OK(fsi_couple_detect(&S.couple, S.list, 1));
    CHECK_OK(fsi_couple_detect(&T.couple, one, 1));
    CHECK_OK(fsi_couple_solve(&S.couple, DT, NULL));
    CHECK_OK(fsi_couple_solve(&T.couple, DT, NULL));
    ASSERT_EQ(T.couple.iface.sides, S.couple.iface.sides);
    for (int a = 0; a < 3; a++)
        for (int i = 0; i < (int)S.grid.faces[a]; i++)
            worst = fmax(worst, fabs((double)(S.grid.u[a][i] - T.grid.u[a][i])));
    if (getenv("FSI_VERBOSE"))
        printf("S-19: %d modes, fluid differs by %.2g", S.model[0].modes, worst);
    CHECK_MOST(worst, TOL(1e-8, 1e-2));
    CHECK_OK(fsi_reduced_group_take(&S.group[0]));
    for (int i = 0; i < desc.vertex_count; i++)
        worst =
            fmax(worst, (double)fsi_vec_length(fsi_vec_sub(fsi_vec_load(T.door[0].v + 3 * i),
                                                           fsi_reduced_velocity(&S.body[0], i))));
    if (getenv("FSI_VERBOSE"))
        printf(", nodes by %.2g\n", worst);
    CHECK_MOST(worst, TOL(1e-8, 1e-2));
    fsi_soft_free(&soft);
    close_scene(&S);
    close_scene(&T);
    PASS();
}

/* The surface of the jointed pair as a skin: every vertex hangs on its own particle and a little on
 * the nearest ones of both bodies. */
static int skin_pair(scene *s, const fsi_reduced_joint *joint) {
    fsi_reduced *list[2] = {&s->body[1], &s->body[2]};
    fsi_surface surface = fsi_reduced_group_surface(&s->group[1]);
    static int32_t body[3000], vertex[3000], index[3000];
    static fsi_real weight[3000];
    int n = surface.vertex_count / 2;
    if (3 * surface.vertex_count > 3000 || 3 * surface.element_count > 3000)
        return 0;
    fsi_reduced_skin skin;
    memset(&skin, 0, sizeof skin);
    memcpy(index, surface.index, (size_t)(3 * surface.element_count) * sizeof *index);
    for (int i = 0; i < surface.vertex_count; i++)
        for (int k = 0; k < 3; k++) {
            int own = i >= n, b = k < 2 ? own : 1 - own;
            body[3 * i + k] = b;
            vertex[3 * i + k] = s->model[1 + b].surface[(i + (k == 1 ? 5 : 0)) % n];
            weight[3 * i + k] = k == 0 ? FSI_R(0.85) : k == 1 ? FSI_R(0.1) : FSI_R(0.05);
        }
    skin.vertex_count = surface.vertex_count;
    skin.element_count = surface.element_count;
    skin.index = index;
    skin.terms = 3;
    skin.body = body;
    skin.vertex = vertex;
    skin.weight = weight;
    fsi_reduced_group_free(&s->group[1]);
    int t = fsi_reduced_group_init(&s->group[1], list, 2, joint, 1, &skin, NULL) == FSI_OK;
    return t && ready(s, 0);
}

/* ---- Momentum of bodies and fluid: changed by the walls alone, in every step, converged or not,
 * with joints and through a skin. */
TEST C_16_17_momentum(void) {
    static const fsi_reduced_joint corner = {{0, 1}, {26, 0}};
    double a[6], b[6], w[6], worst[2] = {0, 0};
    for (int cap = 0; cap < 4; cap++) { /* 1, 4, all iterations; all with a skin */
        ASSERT(crowd(&S, FSI_COUPLE_DEFLATED));
        if (cap == 3)
            ASSERT(skin_pair(&S, &corner));
        S.couple.desc.max_iterations = cap == 0 ? 1 : cap == 1 ? 4 : 0;
        for (int step = 0; step < 6; step++) {
            if (step)
                ASSERT(ready(&S, 0));
            ASSERT(fsi_grid_forces(&S.grid, DT) >= 0);
            ASSERT(sides_before(&S, side_u));
            collect(&S, &before, side_u);
            ASSERT(fsi_couple_solve(&S.couple, DT, NULL) >= 0);
            collect(&S, &after, S.couple.side_velocity);
            ledger(&S, &before, a);
            ledger(&S, &after, b);
            wall_impulse(&S, w);
            for (int i = 0; i < 6; i++) {
                worst[i / 3] = fmax(worst[i / 3], fabs(b[i] - a[i] - w[i]));
                CHECK_NEAR(w[i], b[i] - a[i], TOL(1e-13, 1e-4));
            }
            for (int i = 0; i < S.groups; i++) {
                CHECK_OK(fsi_reduced_group_take(&S.group[i]));
                CHECK_OK(fsi_reduced_group_move(&S.group[i], DT));
            }
            ASSERT(fsi_grid_extrapolate(&S.grid) >= 0);
        }
        close_scene(&S);
    }
    if (getenv("FSI_VERBOSE"))
        printf("C-16: linear %.2g N s, angular %.2g N m s\n", worst[0], worst[1]);
    PASS();
}

/* ---- Joints hold in the coupled velocity: A v + gap / dt = 0 after the solve. */
TEST joints_after_the_solve(void) {
    double worst = 0;
    ASSERT(crowd(&S, FSI_COUPLE_DEFLATED));
    for (int step = 0; step < 10; step++) {
        if (step)
            ASSERT(ready(&S, 0));
        ASSERT(fsi_couple_solve(&S.couple, DT, NULL) >= 0);
        for (int i = 0; i < S.groups; i++)
            CHECK_OK(fsi_reduced_group_take(&S.group[i]));
        fsi_vec3 gap =
            fsi_vec_sub(fsi_reduced_point(&S.body[1], 26), fsi_reduced_point(&S.body[2], 0));
        fsi_vec3 v =
            fsi_vec_sub(fsi_reduced_velocity(&S.body[1], 26), fsi_reduced_velocity(&S.body[2], 0));
        CHECK_NEAR(0, fsi_vec_length(fsi_vec_mad(gap, v, DT)), TOL(1e-12, 1e-4));
        for (int i = 0; i < S.groups; i++)
            CHECK_OK(fsi_reduced_group_move(&S.group[i], DT));
        ASSERT(fsi_grid_extrapolate(&S.grid) >= 0);
        worst = fmax(worst, (double)S.group[1].joint_error);
    }
    CHECK_MOST(worst, TOL(1e-12, 1e-4));
    close_scene(&S);
    PASS();
}

/* ---- Rigid, fully deformable, reduced and jointed reduced bodies in one solve: all solvers agree,
 * the walls alone change linear momentum. */
TEST mixed_with_rigid_and_deformable(void) {
    static double first[8000];
    int i, a, at, n = 0;
    for (int k = 0; k <= FSI_COUPLE_INDEFINITE; k++) {
        double w[6], p[3] = {0, 0, 0}, worst = 0;
        static fsi_real x[3 * 200], keep[3 * 200];
        ASSERT(crowd(&S, (fsi_couple_solver)k));
        fsi_soft_desc desc;
        memset(&desc, 0, sizeof desc);
        fsi_body rigid;
        memset(&rigid, 0, sizeof rigid);
        fsi_shape_desc sd;
        memset(&sd, 0, sizeof sd);
        fsi_mesh mesh;
        CHECK_OK(fsi_mesh_box(&mesh, fsi_vec(FSI_R(0.98), FSI_R(0.3), FSI_R(0.2)),
                              fsi_vec(FSI_R(1.35), FSI_R(0.62), FSI_R(0.6)), 2, 2, 2, 1, NULL));
        desc.dim = 3;
        desc.vertex_count = mesh.vertex_count;
        desc.x = mesh.x;
        desc.tet = mesh.tet;
        desc.tet_count = mesh.tet_count;
        desc.density = FSI_R(0.7);
        desc.young = 300;
        desc.poisson = FSI_R(0.3);
        desc.integrator = FSI_SOFT_SPLIT;
        fsi_soft soft;
        CHECK_OK(fsi_soft_init(&soft, &desc));
        for (i = 0; i < 3 * desc.vertex_count; i++)
            soft.v[i] = rnd();
        CHECK_OK(fsi_soft_forces(&soft, DT));
        fsi_soft_couple(&soft, &S.door[2]);
        sd.kind = FSI_SHAPE_BOX;
        sd.dim = 3;
        sd.half = fsi_vec(FSI_R(0.2), FSI_R(0.2), FSI_R(0.2));
        fsi_shape shape;
        CHECK_OK(fsi_shape_init(&shape, &sd));
        rigid.mass = FSI_R(0.02);
        rigid.inertia.m[0] = rigid.inertia.m[4] = rigid.inertia.m[8] = FSI_R(5e-4);
        rigid.centre = fsi_vec(FSI_R(1.2), FSI_R(1.03), FSI_R(0.3));
        rigid.velocity = fsi_vec(rnd(), rnd(), rnd());
        rigid.spin = fsi_vec(rnd(), rnd(), rnd());
        fsi_surface surface = shape.surface;
        ASSERT(surface.vertex_count <= 200);
        for (i = 0; i < surface.vertex_count; i++)
            fsi_vec_store(x + 3 * i, fsi_vec_add(fsi_vec_load(surface.x + 3 * i), rigid.centre));
        surface.x = x;
        CHECK_OK(fsi_body_couple(&rigid, &surface, &S.door[3]));
        S.list[2] = &S.door[2];
        S.list[3] = &S.door[3];
        S.doors = 4;
        CHECK_OK(fsi_couple_detect(&S.couple, S.list, 4));
        ASSERT(sides_before(&S, side_u));
        collect(&S, &before, side_u);
        memcpy(keep, soft.v, (size_t)(3 * desc.vertex_count) * sizeof *keep);
        ASSERT(fsi_couple_solve(&S.couple, DT, NULL) >= 0);
        collect(&S, &after, S.couple.side_velocity);
        for (i = 0; i < after.n; i++) {
            if (!k)
                first[i] = after.v[i];
            worst = fmax(worst, fabs(after.v[i] - first[i]));
        }
        if (getenv("FSI_VERBOSE"))
            printf("mixed: solver %d differs by %.2g, %d iterations\n", k, worst,
                   S.couple.report.iterations);
        CHECK_MOST(worst, TOL(1e-8, 2e-2));
        n = after.faces + after.sides;
        for (i = 0; i < n; i++)
            p[after.axis[i]] += after.mass[i] * (after.v[i] - before.v[i]);
        /* bodies of the two groups: mass times velocity of the centre */
        for (at = n, i = 0; i < 3; i++) {
            for (a = 0; a < 3; a++)
                p[a] += (double)S.model[i].mass * (after.v[at + a] - before.v[at + a]);
            at += 6 + S.model[i].modes;
        }
        for (i = 0; i < 3 * desc.vertex_count; i++)
            p[i % 3] += (double)soft.mass[i / 3] * (after.v[at + i] - before.v[at + i]);
        for (at += 3 * desc.vertex_count, a = 0; a < 3; a++)
            p[a] += (double)rigid.mass * (after.v[at + a] - before.v[at + a]);
        wall_impulse(&S, w);
        for (a = 0; a < 3; a++)
            CHECK_NEAR(w[a], p[a], TOL(k == FSI_COUPLE_INDEFINITE ? 1e-9 : 1e-11, 1e-3));
        fsi_shape_free(&shape);
        fsi_soft_free(&soft);
        fsi_mesh_free(&mesh);
        close_scene(&S);
    }
    PASS();
}

/* ---- Two dimensions: 3 + modes columns; without modes the rigid body's answer. */
static int open_flat(scene *s, int modes) {
    memset(s, 0, sizeof *s);
    fsi_grid_desc desc;
    memset(&desc, 0, sizeof desc);
    fsi_reduced_desc given;
    memset(&given, 0, sizeof given);
    desc.nx = 16;
    desc.ny = 20;
    desc.nz = 1;
    desc.h = FSI_R(0.125);
    desc.rho = 1;
    desc.side[FSI_TOP].kind = FSI_SIDE_OPEN;
    desc.tolerance = TOL(1e-13, 1e-5);
    desc.max_iterations = 2000;
    fsi_couple_desc solver = {.boundary = FSI_BOUNDARY_VOXEL};
    if (fsi_grid_init(&s->grid, &desc) != FSI_OK
        || fsi_couple_init(&s->couple, &s->grid, &solver) != FSI_OK)
        return 0;
    if (fsi_mesh_sheet(&s->mesh[0], fsi_vec(-FSI_R(0.4), -FSI_R(0.25), 0),
                       fsi_vec(FSI_R(0.8), 0, 0), fsi_vec(0, FSI_R(0.5), 0), 8, 5, 1, NULL, NULL,
                       NULL)
        != FSI_OK)
        return 0;
    given.mesh = &s->mesh[0];
    given.dim = 2;
    given.modes = modes;
    given.density = FSI_R(0.6);
    given.young = 200;
    given.poisson = FSI_R(0.3);
    given.field = 12;
    if (fsi_reduced_model_init(&s->model[0], &given) != FSI_OK
        || fsi_reduced_init(&s->body[0], &s->model[0], fsi_vec(1, FSI_R(1.2), 0), NULL) != FSI_OK)
        return 0;
    s->bodies = 1;
    return add_group(s, 0, 1, NULL, 0);
}

/* open faces, sides, body */
static void flat_momentum(const scene *s, const fsi_real *side, double sign, double *p) {
    const fsi_interface *iface = &s->couple.iface;
    double m = (double)(s->grid.h * s->grid.h * s->grid.desc.rho);
    int at[3];
    for (int a = 0; a < 2; a++) {
        for (int i = 0; i < (int)s->grid.faces[a]; i++) {
            fsi__face_ijk(iface, a, (size_t)i, at);
            size_t c = (size_t)at[0] + (size_t)iface->nx * (size_t)at[1];
            if (at[a] == 0 || (at[a] == iface->n[a] && a != 1) || iface->blocked[a][i]
                || iface->covered[c - stride(iface, a)]
                || (at[a] < iface->n[a] && iface->covered[c]))
                continue;
            p[a] += sign * m * (double)s->grid.u[a][i];
        }
        p[a] += sign * (double)(s->model[0].mass * s->door[0].v[a]);
    }
    for (int i = 0; i < iface->sides; i++)
        p[iface->side[i].axis] += sign * (double)iface->side[i].mass * (double)side[i];
}

TEST A_12_13_two_dimensions(void) {
    fsi_quat turn;
    fsi_body rigid;
    double p[2], wall[2];
    turn.w = 1;
    turn.x = turn.y = 0;
    turn.z = FSI_R(0.2);
    for (int modes = 0; modes < 6; modes += 5) {
        seed = 17;
        ASSERT(open_flat(&S, modes));
        CHECK_OK(fsi_reduced_place(&S.body[0], fsi_vec(1, FSI_R(1.2), 0), turn,
                                   fsi_vec(FSI_R(0.3), -1, 0), fsi_vec(0, 0, FSI_R(0.7))));
        for (int i = 0; i < modes; i++) {
            S.body[0].q[i] = FSI_R(0.005) * rnd();
            S.body[0].dq[i] = FSI_R(0.1) * rnd();
        }
        fsi__reduced_update(&S.body[0]);
        ASSERT(ready(&S, 1));
        if (!modes) {
            memset(&rigid, 0, sizeof rigid);
            memset(&T, 0, sizeof T);
            ASSERT(open_flat(&T, 0));
            for (int a = 0; a < 2; a++)
                fsi_copy(S.grid.faces[a], S.grid.u[a], T.grid.u[a]);
            rigid.mass = S.model[0].mass;
            rigid.inertia.m[8] = S.model[0].C0[0] + S.model[0].C0[4];
            rigid.centre = S.body[0].rigid->position;
            rigid.velocity = fsi_vec(FSI_R(0.3), -1, 0);
            rigid.spin = fsi_vec(0, 0, FSI_R(0.7));
            CHECK_OK(fsi_body_couple(&rigid, &S.door[0].surface, &T.door[0]));
            CHECK_OK(fsi_couple_detect(&T.couple, T.list, 1));
            /* sets the samples on closed faces, as below */
            ASSERT(sides_before(&T, side_u));
            CHECK_OK(fsi_couple_solve(&T.couple, DT, NULL));
        }
        ASSERT(sides_before(&S, side_u));
        p[0] = p[1] = wall[0] = wall[1] = 0;
        flat_momentum(&S, side_u, -1, p);
        CHECK_OK(fsi_couple_solve(&S.couple, DT, NULL));
        ASSERT_EQ(3 + modes, S.couple.columns);
        flat_momentum(&S, S.couple.side_velocity, 1, p);
        for (int j = 0; j < S.grid.ny; j++)
            wall[0] += (double)S.grid.h
                       * (double)(S.grid.pressure[S.grid.nx * j]
                                  - S.grid.pressure[S.grid.nx * j + S.grid.nx - 1]);
        for (int i = 0; i < S.grid.nx; i++)
            wall[1] += (double)S.grid.h * (double)S.grid.pressure[i];
        for (int a = 0; a < 2; a++)
            CHECK_NEAR(wall[a], p[a], TOL(1e-12, 1e-4));
        for (int i = 2; i < 5; i++)
            CHECK_NEAR(0, S.door[0].v[i], 0);
        if (!modes) {
            for (int i = 0; i < 6; i++)
                CHECK_NEAR(T.door[0].v[i], S.door[0].v[i], TOL(1e-11, 1e-4));
            close_scene(&T);
        }
        for (int i = 0; i < 5; i++) { /* and it moves on, in its plane */
            CHECK_OK(fsi_reduced_group_take(&S.group[0]));
            CHECK_OK(fsi_reduced_group_move(&S.group[0], DT));
            ASSERT(fsi_grid_extrapolate(&S.grid) >= 0);
            ASSERT(ready(&S, 0));
            ASSERT(fsi_couple_solve(&S.couple, DT, NULL) >= 0);
        }
        CHECK_NEAR(0, S.body[0].rigid->position.z, 0);
        CHECK_NEAR(0, S.body[0].rigid->rotation.x, TOL(1e-14, 1e-6));
        close_scene(&S);
    }
    PASS();
}

/* ---- REDUCED section 6: the half step leaves the fluid alone; both solves are the ordinary one,
 * by hand on a second scene. */
TEST newmark_in_the_fluid(void) {
    fsi_real *u[3];
    ASSERT(crowd(&S, FSI_COUPLE_DEFLATED));
    ASSERT(crowd(&T, FSI_COUPLE_DEFLATED));
    for (int k = 0; k < 2; k++) { /* undo the forces crowd applied */
        scene *s = k ? &T : &S;
        seed = 33;
        for (int i = 0; i < 3; i++)
            stir(&s->body[i], i ? 0 : 0.01);
    }
    for (int a = 0; a < 3; a++) {
        u[a] = (fsi_real *)malloc(S.grid.faces[a] * sizeof(fsi_real));
        fsi_copy(S.grid.faces[a], S.grid.u[a], u[a]);
        fsi_copy(S.grid.faces[a], S.grid.u[a], T.grid.u[a]);
    }
    S.grid.desc.gravity = T.grid.desc.gravity = fsi_vec(0, -10, 0);
    for (int i = 0; i < 3; i++)
        S.body[i].gravity = T.body[i].gravity = fsi_vec(0, -10, 0);
    for (int i = 0; i < 3; i++)
        CHECK_OK(fsi_reduced_half(&S.body[i], DT));
    for (int i = 0; i < 2; i++)
        CHECK_OK(fsi_reduced_group_couple(&S.group[i], DT / 2, &S.door[i]));
    ASSERT(fsi_couple_half(&S.couple, S.list, 2, DT, NULL) >= 0);
    for (int a = 0; a < 3; a++)
        ASSERT(!memcmp(u[a], S.grid.u[a], S.grid.faces[a] * sizeof(fsi_real)));
    for (int i = 0; i < 3; i++)
        CHECK_OK(fsi_reduced_forces(&T.body[i], DT / 2));
    for (int i = 0; i < 2; i++)
        CHECK_OK(fsi_reduced_group_couple(&T.group[i], DT / 2, &T.door[i]));
    CHECK_OK(fsi_couple_detect(&T.couple, T.list, 2));
    CHECK_OK(fsi_grid_forces(&T.grid, DT / 2));
    ASSERT(fsi_couple_solve(&T.couple, DT / 2, NULL) >= 0);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < S.door[k].dof; i++)
            CHECK_NEAR(T.door[k].v[i], S.door[k].v[i], TOL(1e-11, 1e-4));
    for (int k = 0; k < 2; k++) {
        CHECK_OK(fsi_reduced_group_take(&S.group[k]));
        CHECK_OK(fsi_reduced_group_take(&T.group[k]));
    }
    for (int k = 0; k < 2; k++) {
        CHECK_OK(fsi_reduced_group_move(&S.group[k], DT));
        CHECK_OK(fsi_reduced_group_move(&T.group[k], DT));
    }
    for (int i = 0; i < 3; i++)
        CHECK_OK(fsi_reduced_rewind(&S.body[i]));
    /* v^n of the twin: stirred again, then put at x^(n+1); the elastic force is that of q^n */
    seed = 33;
    for (int i = 0; i < 3; i++) {
        fsi_reduced *reduced = &T.body[i];
        fsi_real pose[7], q[64];
        int n = reduced->model->modes;
        memcpy(pose, reduced->state, sizeof pose);
        fsi_copy((size_t)n, reduced->q, q);
        stir(reduced, i ? 0 : 0.01);
        for (int k = 0; k < n; k++)
            reduced->force[6 + k] = reduced->model->omega2[k] * (q[k] - reduced->q[k]);
        memcpy(reduced->state, pose, sizeof pose);
        fsi_copy((size_t)n, q, reduced->q);
        fsi__reduced_update(reduced);
    }
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++) {
            CHECK_NEAR(fsi__get(T.body[i].rigid->momentum, k),
                       fsi__get(S.body[i].rigid->momentum, k), TOL(1e-12, 1e-5));
            CHECK_NEAR(fsi__get(T.body[i].rigid->angular_momentum, k),
                       fsi__get(S.body[i].rigid->angular_momentum, k), TOL(1e-12, 1e-5));
        }
        CHECK_OK(fsi_reduced_forces(&S.body[i], DT));
        CHECK_OK(fsi_reduced_forces(&T.body[i], DT));
    }
    for (int a = 0; a < 3; a++)
        fsi_copy(S.grid.faces[a], u[a], T.grid.u[a]);
    for (int k = 0; k < 2; k++) {
        scene *s = k ? &T : &S;
        for (int i = 0; i < 2; i++)
            CHECK_OK(fsi_reduced_group_couple(&s->group[i], DT, &s->door[i]));
        CHECK_OK(fsi_couple_detect(&s->couple, s->list, 2));
        CHECK_OK(fsi_grid_forces(&s->grid, DT));
        ASSERT(fsi_couple_solve(&s->couple, DT, NULL) >= 0);
    }
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < S.door[k].dof; i++)
            CHECK_NEAR(T.door[k].v[i], S.door[k].v[i], TOL(1e-9, 1e-3));
    for (int a = 0; a < 3; a++)
        free(u[a]);
    close_scene(&S);
    close_scene(&T);
    PASS();
}

/* ---- Two bricks lie on each other under water. With the contacts held in the solve nothing moves,
 * water included; without, the water is pumped at g dt. */
static fsi_real tank_floor(fsi_vec3 x, fsi_vec3 *n, fsi_vec3 *v, void *user) {
    (void)user;
    *n = fsi_vec(0, 1, 0);
    *v = fsi_vec(0, 0, 0);
    return x.y;
}

/* linear and angular about the origin; returns the largest of them */
static double momentum_of(const scene *s, double *p) {
    double most = 0;
    memset(p, 0, 6 * sizeof *p);
    for (int i = 0; i < s->bodies; i++) {
        fsi_vec3 q = s->body[i].rigid->momentum,
                 L = fsi_vec_add(s->body[i].rigid->angular_momentum,
                                 fsi_vec_cross(s->body[i].rigid->position, q));
        p[0] += (double)q.x;
        p[1] += (double)q.y;
        p[2] += (double)q.z;
        p[3] += (double)L.x;
        p[4] += (double)L.y;
        p[5] += (double)L.z;
    }
    for (int i = 0; i < 6; i++)
        most = fmax(most, fabs(p[i]));
    return most;
}

static int rest_under_water(int hold, double *water, double *speed, double *balance) {
    fsi_reduced *list[2] = {&S.body[0], &S.body[1]};
    fsi_reduced_contacts contacts;
    int ok = open_scene(&S, 8, 10, 6, FSI_COUPLE_DEFLATED)
             && add_brick(&S, 2, 2, 2, 6, .5, .171, .4, 2)
             && add_brick(&S, 2, 2, 2, 6, .53, .515, .42, 2);
    memset(&contacts, 0, sizeof contacts);
    fsi_obstacle obstacle;
    memset(&obstacle, 0, sizeof obstacle);
    obstacle.distance_fn = tank_floor;
    obstacle.friction = contacts.friction = FSI_R(0.5);
    contacts.iterations = 50;
    contacts.slop = FSI_R(1e-3);
    int i;
    for (i = 0; i < 2; i++)
        ok = ok && add_group(&S, i, 1, NULL, 0);
    S.grid.desc.gravity = S.body[0].gravity = S.body[1].gravity = fsi_vec(0, -10, 0);
    *balance = 0;
    for (int step = 0; step < 90 && ok; step++) {
        for (i = 0; i < 2; i++)
            ok = ok && fsi_reduced_forces(&S.body[i], DT) == FSI_OK;
        /* given and taken back: the state comes back; pressed between two bodies: momentum stays */
        if (hold) {
            double p[2][6], size = momentum_of(&S, p[0]);
            ok = ok && fsi_reduced_contact_hold(&contacts, list, 2, DT) == FSI_OK;
            for (momentum_of(&S, p[1]), i = 0; i < 6; i++)
                p[1][i] -= p[0][i];
            for (i = 0; i < contacts.count && contacts.holds; i++) { /* what the floor pressed */
                const fsi_contact *contact = contacts.solids.contact + i;
                int floor = contact->b.solid == 3; /* behind body 0 of the world and two bricks */
                if (!(contact->impulse > 0) || !floor)
                    continue;
                fsi_vec3 J = fsi_vec_scale(fsi__contact_impulse(contact),
                                           fsi__min(contact->impulse, contacts.ends[i].before)
                                               / contact->impulse);
                fsi_vec3 L = fsi_vec_cross(contact->at, J);
                p[1][0] -= (double)J.x;
                p[1][1] -= (double)J.y;
                p[1][2] -= (double)J.z;
                p[1][3] -= (double)L.x;
                p[1][4] -= (double)L.y;
                p[1][5] -= (double)L.z;
            }
            for (i = 0; i < 6; i++)
                *balance = fmax(*balance, fabs(p[1][i]) / fmax(size, 1e-3));
        }
        for (i = 0; i < 2; i++)
            ok = ok && fsi_reduced_group_couple(&S.group[i], DT, &S.door[i]) == FSI_OK;
        ok = ok && fsi_couple_detect(&S.couple, S.list, 2) == FSI_OK
             && fsi_grid_advect(&S.grid, DT) >= 0 && fsi_grid_forces(&S.grid, DT) >= 0;
        ok = ok && fsi_couple_solve(&S.couple, DT, NULL) >= 0 && fsi_grid_extrapolate(&S.grid) >= 0;
        /* what the start stirred up dies out */
        for (int a = 0; a < 3; a++)
            for (size_t k = 0; k < S.grid.faces[a]; k++)
                S.grid.u[a][k] *= FSI_R(0.9);
        for (i = 0; i < 2; i++)
            ok = ok && fsi_reduced_group_take(&S.group[i]) == FSI_OK;
        ok = ok && fsi_reduced_contact(&contacts, list, 2, &obstacle, 1, DT) == FSI_OK;
        for (i = 0; i < 2; i++)
            ok = ok && fsi_reduced_group_move(&S.group[i], DT) == FSI_OK;
    }
    *speed = *water = 0;
    for (i = 0; i < 2; i++)
        *speed =
            fmax(*speed, (double)(fsi_vec_length(S.body[i].rigid->momentum) / S.model[i].mass));
    for (int a = 0; a < 3; a++)
        for (size_t k = 0; k < S.grid.faces[a]; k++)
            *water = fmax(*water, fabs((double)S.grid.u[a][k]));
    fsi_reduced_contacts_free(&contacts);
    close_scene(&S);
    return ok;
}

TEST at_rest_under_water(void) {
    double water[2], speed[2], balance[2];
    ASSERT(rest_under_water(0, &water[0], &speed[0], &balance[0]));
    ASSERT(rest_under_water(1, &water[1], &speed[1], &balance[1]));
    if (getenv("FSI_VERBOSE"))
        printf("at rest: fastest water %.2e m/s, bodies %.2e m/s; contacts not held: %.2e and "
               "%.2e; momentum %.1e\n",
               water[1], speed[1], water[0], speed[0], balance[1]);
    CHECK_MOST(water[1], 0.05 * water[0]);
    CHECK_MOST(water[1], 5e-3);
    CHECK_MOST(speed[1], 1e-3);
    CHECK_MOST(balance[1], TOL(1e-12, 1e-4));
    PASS();
}

/* ---- Many solids: a ray asks those near it only and finds what asking all of them finds. */
TEST rays_of_many_solids(void) {
    enum {
        BODIES = 40 /* more than a bin has bits */
    };

    static fsi_body rigid[BODIES];
    static fsi_coupled door[BODIES];
    fsi_coupled *list[BODIES];
    static fsi_real x[BODIES][3 * 64];
    fsi_shape_desc sd;
    int hits = 0;
    memset(&sd, 0, sizeof sd);
    memset(rigid, 0, sizeof rigid);
    sd.kind = FSI_SHAPE_BOX;
    sd.dim = 3;
    sd.half = fsi_vec(FSI_R(0.15), FSI_R(0.1), FSI_R(0.2));
    fsi_shape shape;
    CHECK_OK(fsi_shape_init(&shape, &sd));
    ASSERT(shape.surface.vertex_count <= 64);
    ASSERT(open_scene(&S, 12, 16, 10, FSI_COUPLE_DEFLATED));
    seed = 8;
    /* some reach out of the box, two are the same */
    for (int k = 0; k < BODIES; k++) {
        fsi_surface surface = shape.surface;
        fsi_vec3 c = fsi_vec(FSI_R(0.75) + FSI_R(0.8) * rnd(), 1 + FSI_R(1.1) * rnd(),
                             FSI_R(0.6) + FSI_R(0.7) * rnd());
        if (k == 7)
            c = rigid[3].centre;
        for (int i = 0; i < surface.vertex_count; i++)
            fsi_vec_store(x[k] + 3 * i, fsi_vec_add(fsi_vec_load(surface.x + 3 * i), c));
        surface.x = x[k];
        rigid[k].centre = c;
        CHECK_OK(fsi_body_couple(&rigid[k], &surface, &door[k]));
        list[k] = &door[k];
    }
    CHECK_OK(fsi_couple_detect(&S.couple, list, BODIES));
    ASSERT(S.couple.iface.bins[0] > 1);
    for (int i = 0; i < 2000; i++) {
        fsi_interface *iface = &S.couple.iface;
        fsi_vec3 a = fsi_vec(FSI_R(0.75) + rnd(), 1 + FSI_R(1.3) * rnd(), FSI_R(0.6) + rnd());
        fsi_vec3 b = fsi_vec_mad(a, fsi_vec(rnd(), rnd(), rnd()), i % 3 ? FSI_R(0.4) : 3);
        fsi_hit hit[2];
        int solid[2] = {-1, -1};
        int found = fsi_interface_first_hit(iface, a, b, &hit[0], &solid[0]);
        int all = 0;
        hit[1].t = FSI_REAL_MAX;
        for (int k = 0; k < BODIES; k++)
            fsi__interface_try(iface, k, a, b, &hit[1], &solid[1], &all);
        ASSERT_EQ(all, found);
        ASSERT_EQ(solid[1], solid[0]);
        if (found) {
            hits++;
            ASSERT_EQ(hit[1].element, hit[0].element);
            CHECK_NEAR(hit[1].t, hit[0].t, 0);
        }
    }
    ASSERT(hits > 100);
    fsi_shape_free(&shape);
    close_scene(&S);
    PASS();
}

TEST same_bits(void) {
    static const int threads[4] = {1, 2, 3, 8};
    uint64_t first = 0;
    for (int t = 0; t < 4; t++) {
        uint64_t h = 1;
        check_threads(threads[t]);
        ASSERT(crowd(&S, FSI_COUPLE_DEFLATED));
        for (int step = 0; step < 3; step++) {
            if (step)
                ASSERT(ready(&S, 0));
            ASSERT(fsi_couple_solve(&S.couple, DT, NULL) >= 0);
            for (int i = 0; i < S.groups; i++)
                CHECK_OK(fsi_reduced_group_take(&S.group[i]));
            for (int i = 0; i < S.bodies; i++)
                CHECK_OK(fsi_reduced_move(&S.body[i], DT));
        }
        for (int a = 0; a < 3; a++)
            h = check_hash(S.grid.u[a], S.grid.faces[a] * sizeof(fsi_real), h);
        for (int i = 0; i < S.bodies; i++)
            h = check_hash(S.body[i].state, fsi_reduced_state_size(&S.body[i]), h);
        if (!t)
            first = h;
        ASSERT(h == first);
        close_scene(&S);
    }
    check_threads(1);
    PASS();
}

/* A copy that works out places and masses when asked is the same solid as a group of one, bit for
 * bit; so are rays, nearest points and boxes on it. */
static int twins(int fractions) { /* S: groups, T: copies on their own */
    scene *s[2];
    s[0] = &S;
    s[1] = &T;
    for (int k = 0; k < 2; k++) {
        seed = 21;
        if (!open_scene(s[k], 12, 14, 10, FSI_COUPLE_DEFLATED))
            return 0;
        fsi_boundary_kind kind = fractions ? FSI_BOUNDARY_CUT : FSI_BOUNDARY_VOXEL;
        s[k]->couple.desc.boundary = s[k]->couple.iface.desc.boundary = kind;
        s[k]->couple.iface.desc.smooth = fractions;
        if (!add_brick(s[k], 2, 2, 2, 6, 0.45, 0.7, 0.6, 0.6)
            || !add_brick(s[k], 3, 2, 2, 4, 1.03, 0.8, 0.63, 2))
            return 0;
        for (int i = 0; i < 2; i++) {
            stir(&s[k]->body[i], 0.02);
            if (k == 0 && !add_group(s[k], i, 1, NULL, 0))
                return 0;
            s[k]->list[i] = &s[k]->door[i];
        }
        s[k]->doors = 2;
    }
    return 1;
}

TEST copies_on_their_own(void) {
    int k, hits = 0;
    for (int fractions = 0; fractions < 2; fractions++) {
        ASSERT(twins(fractions));
        for (int step = 0; step < 4; step++) {
            uint64_t keep = seed;
            ASSERT(ready(&S, 1));
            seed = keep;
            for (int i = 0; i < 2; i++) {
                CHECK_OK(fsi_reduced_forces(&T.body[i], DT));
                CHECK_OK(fsi_reduced_couple(&T.body[i], &T.door[i]));
            }
            ASSERT(T.door[0].surface.x == NULL && T.door[0].inverse_mass == NULL
                   && T.door[0].surface.off > 0);
            CHECK_OK(fsi_grid_set_velocity(&T.grid, random_velocity, NULL));
            CHECK_OK(fsi_couple_detect(&T.couple, T.list, 2));
            for (int i = 0; i < 300; i++) {
                fsi_vec3 a = fsi_vec(FSI_R(0.75) + FSI_R(0.6) * rnd(),
                                     FSI_R(0.75) + FSI_R(0.4) * rnd(),
                                     FSI_R(0.6) + FSI_R(0.4) * rnd()),
                         b = fsi_vec_mad(a, fsi_vec(rnd(), rnd(), rnd()), i % 3 ? FSI_R(0.2) : 2);
                fsi_hit hit[2];
                memset(hit, 0, sizeof hit);
                k = fsi_bvh_first_hit(&S.couple.iface.bvh[i % 2], a, b, hit);
                ASSERT_EQ(k, fsi_bvh_first_hit(&T.couple.iface.bvh[i % 2], a, b, hit + 1));
                if (k) {
                    hits++;
                    ASSERT(memcmp(hit, hit + 1, sizeof hit[0]) == 0);
                }
                ASSERT(fsi_bvh_closest(&S.couple.iface.bvh[i % 2], a, 9, hit)
                       && fsi_bvh_closest(&T.couple.iface.bvh[i % 2], a, 9, hit + 1));
                ASSERT_EQ(hit[0].element, hit[1].element);
                CHECK_NEAR(hit[0].t, hit[1].t, 0);
                ASSERT_EQ(fsi_bvh_inside(&S.couple.iface.bvh[i % 2], a),
                          fsi_bvh_inside(&T.couple.iface.bvh[i % 2], a));
            }
            CHECK_OK(fsi_couple_solve(&S.couple, DT, NULL));
            CHECK_OK(fsi_couple_solve(&T.couple, DT, NULL));
            for (k = 0; k < 3; k++)
                ASSERT(memcmp(S.grid.u[k], T.grid.u[k], S.grid.faces[k] * sizeof(fsi_real)) == 0);
            ASSERT_EQ(S.couple.iface.sides, T.couple.iface.sides);
            for (int i = 0; i < 2; i++) {
                ASSERT(memcmp(S.group[i].v, T.body[i].v, (size_t)S.group[i].dof * sizeof(fsi_real))
                       == 0);
                CHECK_OK(fsi_reduced_group_take(&S.group[i]));
                CHECK_OK(fsi_reduced_take(&T.body[i]));
                CHECK_OK(fsi_reduced_move(&S.body[i], DT));
                CHECK_OK(fsi_reduced_move(&T.body[i], DT));
            }
        }
        close_scene(&S);
        close_scene(&T);
    }
    ASSERT(hits > 200);
    PASS();
}

/* Other schemes want arrays: they say so. */
TEST copies_on_their_own_elsewhere(void) {
    ASSERT(twins(0));
    fsi_reduced reduced;
    memset(&reduced, 0, sizeof reduced);
    fsi_coupled door;
    ASSERT_EQ(FSI_ERR_STATE, fsi_reduced_couple(&reduced, &door));
    /* no forces yet: no time step */
    ASSERT_EQ(FSI_ERR_STATE, fsi_reduced_couple(&T.body[0], &door));
    CHECK_OK(fsi_reduced_forces(&T.body[0], DT));
    ASSERT_EQ(FSI_ERR_ARGUMENT, fsi_reduced_couple(&T.body[0], NULL));
    CHECK_OK(fsi_reduced_couple(&T.body[0], &T.door[0]));
    fsi_slip slip;
    CHECK_OK(fsi_slip_init(&slip, &T.grid, NULL));
    ASSERT_EQ(FSI_ERR_ARGUMENT, fsi_slip_detect(&slip, T.list, 1));
    fsi_slip_free(&slip);
    T.body[0].v[0] = (fsi_real)NAN;
    ASSERT_EQ(FSI_ERR_NUMERIC, fsi_reduced_take(&T.body[0]));
    close_scene(&S);
    close_scene(&T);
    PASS();
}

/* What one more starfish (8 modes, about 400 tetrahedra) costs: all bytes that come from the
   allocator and all that the caller holds, with `more` of them less those without, over `more`.
   Beside the box they cut no face of the grid and have no coupling sides: that is what a body needs
   for itself. In the water comes what goes with its sides (crossings, rows of J, its columns in the
   V-cycle; those are bounded by fsi_mg_rank.max_columns for all bodies together). */
enum {
    STARS = 36
};

static fsi_real pool_level;

static fsi_real pool(fsi_vec3 x, void *user) {
    (void)user;
    return x.y - pool_level;
}

static fsi_result stars_begin(fsi_real dt, void *user) {
    fsi_result result = FSI_OK;
    fsi_scene *scene = (fsi_scene *)user;
    for (int i = 0; i < scene->count && result == FSI_OK; i++) {
        fsi_reduced *reduced = (fsi_reduced *)scene->solid[i]->user;
        result = fsi_reduced_forces(reduced, dt);
        if (result == FSI_OK)
            result = fsi_reduced_couple(reduced, scene->solid[i]);
    }
    return result;
}

static size_t stars(const fsi_reduced_model *model, int count, double aside, int *sides) {
    static fsi_reduced body[STARS];
    static fsi_coupled door[STARS], *list[STARS];
    fail_allocator counts = fail_begin(-1);
    fsi_allocator allocator = fail_make(&counts);
    fsi_grid_desc desc;
    size_t got = 0;
    int ok = 1;
    memset(&desc, 0, sizeof desc);
    fsi_couple_desc given;
    memset(&given, 0, sizeof given);
    fsi_scene scene;
    memset(&scene, 0, sizeof scene);
    desc.nx = desc.nz = 24;
    desc.ny = 30;
    desc.h = FSI_R(1.0) / 24;
    desc.rho = 1000;
    desc.gravity = fsi_vec(0, FSI_R(-9.81), 0);
    desc.liquid = 1;
    desc.side[FSI_TOP].kind = FSI_SIDE_OPEN;
    desc.allocator = given.allocator = allocator;
    pool_level = FSI_R(1.2);
    fsi_grid grid;
    fsi_couple couple;
    ok = fsi_grid_init(&grid, &desc) == FSI_OK && fsi_couple_init(&couple, &grid, &given) == FSI_OK
         && fsi_grid_set_field(&grid, FSI_FIELD_PHI, pool, NULL) == FSI_OK;
    for (int i = 0; i < count; i++) {
        ok = ok
             && fsi_reduced_init(
                    &body[i], model,
                    fsi_vec((fsi_real)aside + FSI_R(0.19) + FSI_R(0.3) * (fsi_real)(i % 3),
                            FSI_R(0.35) + FSI_R(0.14) * (fsi_real)(i / 9),
                            FSI_R(0.19) + FSI_R(0.3) * (fsi_real)(i / 3 % 3)),
                    &allocator)
                    == FSI_OK;
        door[i].user = &body[i];
        list[i] = &door[i];
    }
    scene.solid = list;
    scene.count = count;
    scene.stages.begin_fn = stars_begin;
    scene.stages.user = &scene;
    for (int k = 0; k < 2; k++)
        ok = ok && fsi_couple_step(&couple, &scene, FSI_R(0.005), NULL) >= 0;
    *sides = couple.iface.sides;
    if (ok)
        got = counts.bytes
              + (size_t)count * (sizeof(fsi_reduced) + sizeof(fsi_coupled) + sizeof(fsi_coupled *));
    for (int i = 0; i < count; i++)
        fsi_reduced_free(&body[i]);
    fsi_couple_free(&couple);
    fsi_grid_free(&grid);
    return counts.bytes ? 0 : got;
}

TEST bytes_of_one_more_body(void) {
    form_body form = {FORM_STARFISH, FSI_R(0.13), FSI_R(0.035), FSI_R(0.045), 5, {0, 0, 0}};
    fsi_reduced_desc desc;
    int sides[2];
    memset(&desc, 0, sizeof desc);
    fsi_mesh mesh;
    memset(&mesh, 0, sizeof mesh);
    CHECK_OK(fsi_mesh_from_sdf(&mesh, form_distance, &form,
                               fsi_vec(-FSI_R(0.2), -FSI_R(0.1), -FSI_R(0.2)),
                               fsi_vec(FSI_R(0.2), FSI_R(0.1), FSI_R(0.2)), FSI_R(0.033), NULL));
    desc.mesh = &mesh;
    desc.modes = 8;
    desc.density = 1600;
    desc.young = FSI_R(3e4);
    desc.poisson = FSI_R(0.4);
    desc.samples = 90;
    desc.field = 24;
    fsi_reduced_model model;
    CHECK_OK(fsi_reduced_model_init(&model, &desc));
    size_t few = stars(&model, 18, 2, sides);
    size_t many = stars(&model, STARS, 2, sides + 1);
    ASSERT(few > 0 && many > few);
    ASSERT_EQ(0, sides[0]);
    ASSERT_EQ(0, sides[1]);
    double own = (double)(many - few) / (STARS - 18);
    few = stars(&model, 18, 0, sides);
    many = stars(&model, STARS, 0, sides + 1);
    ASSERT(few > 0 && many > few && sides[1] > sides[0]);
    double wet = (double)(many - few) / (STARS - 18);
    printf("\none more starfish of %d tetrahedra, %d surface vertices: %.0f bytes; %.0f in water "
           "with %.0f sides: %.0f a side\n",
           mesh.tet_count, model.surface_count, own, wet,
           (double)(sides[1] - sides[0]) / (STARS - 18),
           (wet - own) * (STARS - 18) / (sides[1] - sides[0]));
    CHECK_MOST(own, 4096);
    fsi_reduced_model_free(&model);
    fsi_mesh_free(&mesh);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv) {
    GREATEST_MAIN_BEGIN();
    RUN_TEST(A_12_size_independent_of_tetrahedra);
    RUN_TEST(A_13_no_modes_is_rigid);
    RUN_TEST(C_14_symmetric_positive_and_dense_twin);
    RUN_TEST(C_14_operator);
    RUN_TEST(C_15_solvers_agree);
    RUN_TEST(S_19_full_basis_is_deformable);
    RUN_TEST(C_16_17_momentum);
    RUN_TEST(joints_after_the_solve);
    RUN_TEST(mixed_with_rigid_and_deformable);
    RUN_TEST(A_12_13_two_dimensions);
    RUN_TEST(newmark_in_the_fluid);
    RUN_TEST(at_rest_under_water);
    RUN_TEST(rays_of_many_solids);
    RUN_TEST(same_bits);
    RUN_TEST(copies_on_their_own);
    RUN_TEST(copies_on_their_own_elsewhere);
    RUN_TEST(bytes_of_one_more_body);
    GREATEST_MAIN_END();
}
