/* fsi_solids.h: contact between all kinds of solids through the rigid world: momentum, energy,
 * speed. */
#define FSI_IMPLEMENTATION
#define FSI_SOLIDS_IMPLEMENTATION /* it looks inside, so it compiles this one itself */
#include "fsi_solids.h"
#include "greatest.h"
#include "check.h"
#include "../examples/forms.h"

enum {
    BALL,
    BOX,
    CLOTH,
    TETS,
    REDUCED,
    KINDS
};

static const char *kind_name[KINDS] = {"ball", "box", "cloth", "tetrahedra", "reduced"};

/* at: body or external */
typedef struct actor {
    int kind, at;
    fsi_soft soft;
    fsi_reduced copy;
    fsi_reduced_model model;
    fsi_real *x;
} actor;

typedef struct stage {
    fsi_solids w;
    fsi_external external[2];
    int externals;
    actor a[2];
    fsi_shape ball, box;
    fsi_real restitution;
} stage;

static void add(stage *s, int which, int kind, double x, double speed,
                fsi_soft_integrator integrator, int cg) {
    actor *a = s->a + which;
    memset(a, 0, sizeof *a);
    fsi_mesh mesh;
    memset(&mesh, 0, sizeof mesh);
    a->kind = kind;
    if (kind == BALL || kind == BOX) {
        fsi_rigid_desc desc;
        memset(&desc, 0, sizeof desc);
        desc.kind = FSI_RIGID_DYNAMIC;
        desc.shape = kind == BOX ? &s->box : &s->ball;
        desc.density = 300;
        desc.friction = FSI_R(0.5);
        desc.restitution = s->restitution;
        desc.x = fsi_vec((fsi_real)x, FSI_R(0.05), FSI_R(0.03));
        desc.v = fsi_vec((fsi_real)speed, 0, 0);
        desc.spin = fsi_vec(1, FSI_R(0.5), 2);
        if (fsi_solids_add(&s->w, &desc, &a->at) != FSI_OK)
            printf("\n  body refused\n");
        return;
    }
    a->at = s->externals++;
    if (kind == CLOTH)
        fsi_mesh_sheet(&mesh, fsi_vec((fsi_real)x, FSI_R(-0.5), FSI_R(-0.5)), fsi_vec(0, 1, 0),
                       fsi_vec(FSI_R(0.1), 0, 1), 10, 10, 1, NULL, NULL, NULL);
    else
        fsi_mesh_box(&mesh, fsi_vec((fsi_real)(x - .2), FSI_R(-0.2), FSI_R(-0.2)),
                     fsi_vec((fsi_real)(x + .2), FSI_R(0.2), FSI_R(0.2)), 3, 3, 3, 1, NULL);
    if (kind == REDUCED) {
        fsi_reduced_desc desc;
        fsi_quat q = {1, 0, 0, 0};
        memset(&desc, 0, sizeof desc);
        desc.mesh = &mesh;
        desc.modes = 10;
        desc.density = 300;
        desc.young = FSI_R(2e5);
        desc.poisson = FSI_R(0.3);
        desc.damping_stiffness = FSI_R(0.002);
        desc.field = 20;
        if (fsi_reduced_model_init(&a->model, &desc) != FSI_OK
            || fsi_reduced_init(&a->copy, &a->model, fsi_vec(0, 0, 0), NULL) != FSI_OK)
            printf("\n  model refused\n");
        fsi_reduced_place(&a->copy, fsi_vec((fsi_real)x, 0, 0), q, fsi_vec((fsi_real)speed, 0, 0),
                          fsi_vec(FSI_R(0.3), 0, FSI_R(0.2)));
        a->x = (fsi_real *)malloc(3 * (size_t)a->model.sample_count * sizeof *a->x);
    } else {
        fsi_soft_desc desc;
        memset(&desc, 0, sizeof desc);
        desc.dim = 3;
        desc.x = mesh.x;
        desc.vertex_count = mesh.vertex_count;
        desc.friction = FSI_R(0.5);
        desc.integrator = integrator;
        desc.use_cg = cg;
        if (integrator != FSI_SOFT_EXPLICIT)
            desc.damping_stiffness = FSI_R(0.002);
        if (kind == CLOTH) {
            desc.triangle = mesh.index;
            desc.triangle_count = mesh.element_count;
            desc.area_density = 20;
            desc.stretch = 2000;
            desc.bend = FSI_R(0.01);
            desc.thickness = FSI_R(0.02);
        } else {
            desc.tet = mesh.tet;
            desc.tet_count = mesh.tet_count;
            desc.density = 300;
            desc.young = FSI_R(2e5);
            desc.poisson = FSI_R(0.3);
            desc.thickness = FSI_R(0.01);
        }
        if (fsi_soft_init(&a->soft, &desc) != FSI_OK)
            printf("\n  soft body refused\n");
        for (int i = 0; i < mesh.vertex_count; i++)
            a->soft.v[3 * i] = (fsi_real)speed;
        fsi_soft_external(&a->soft, s->external + a->at);
        s->external[a->at].restitution = s->restitution;
    }
    fsi_mesh_free(&mesh);
}

static void stage_make(stage *s, int first, int second, double apart, double speed,
                       double restitution, fsi_soft_integrator integrator, int cg) {
    memset(s, 0, sizeof *s);
    fsi_shape_desc desc;
    memset(&desc, 0, sizeof desc);
    fsi_solids_desc wd;
    memset(&wd, 0, sizeof wd);
    s->restitution = (fsi_real)restitution;
    desc.kind = FSI_SHAPE_SPHERE;
    desc.radius = FSI_R(0.2);
    if (fsi_shape_init(&s->ball, &desc) != FSI_OK)
        printf("\n  ball refused\n");
    desc.kind = FSI_SHAPE_BOX;
    desc.half = fsi_vec(FSI_R(0.2), FSI_R(0.15), FSI_R(0.25));
    if (fsi_shape_init(&s->box, &desc) != FSI_OK)
        printf("\n  box refused\n");
    wd.dim = 3;
    wd.max_bodies = 2;
    wd.max_contacts = 4000;
    if (fsi_solids_init(&s->w, &wd) != FSI_OK)
        printf("\n  world refused\n");
    add(s, 0, first, -apart, speed, integrator, cg);
    add(s, 1, second, apart, -speed, integrator, cg);
}

static void stage_free(stage *s) {
    for (int k = 0; k < 2; k++) {
        fsi_soft_free(&s->a[k].soft);
        fsi_reduced_free(&s->a[k].copy);
        fsi_reduced_model_free(&s->a[k].model);
        free(s->a[k].x);
    }
    fsi_solids_free(&s->w);
    fsi_shape_free(&s->ball);
    fsi_shape_free(&s->box);
}

/* p, L about the origin and energy of both into o[7]. */
static void measure(const stage *s, double *o) {
    memset(o, 0, 7 * sizeof *o);
    for (int k = 0; k < 2; k++) {
        const actor *a = s->a + k;
        int n = a->kind == CLOTH || a->kind == TETS ? a->soft.desc.vertex_count : 1;
        double e = 0, t = 0;
        for (int i = 0; i < n; i++) {
            const fsi_rigid *body = s->w.body + a->at;
            fsi_vec3 p, x, L = fsi_vec(0, 0, 0);
            if (a->kind == BALL || a->kind == BOX) {
                p = fsi_vec_scale(body->v, body->mass);
                x = body->x;
                L = body->L;
            } else if (a->kind == REDUCED) {
                p = a->copy.rigid->momentum;
                x = a->copy.rigid->position;
                L = a->copy.rigid->angular_momentum;
            } else {
                p = fsi_vec_scale(fsi_vec_load(a->soft.v + 3 * i), a->soft.mass[i]);
                x = fsi_vec_load(a->soft.x + 3 * i);
            }
            L = fsi_vec_add(L, fsi_vec_cross(x, p));
            o[0] += (double)p.x;
            o[1] += (double)p.y;
            o[2] += (double)p.z;
            o[3] += (double)L.x;
            o[4] += (double)L.y;
            o[5] += (double)L.z;
            if (a->kind == BALL || a->kind == BOX)
                t = (double)(fsi_vec_dot(body->v, p) + fsi_vec_dot(body->spin, body->L)) / 2;
        }
        if (a->kind == REDUCED)
            fsi_reduced_energy(&a->copy, &e, &t);
        else if (n > 1)
            fsi_soft_energy(&a->soft, &e, &t);
        o[6] += e + t;
    }
}

/* centre of mass; cloth: its middle vertex */
static fsi_vec3 middle(const stage *s, int k) {
    const actor *a = s->a + k;
    fsi_vec3 c = fsi_vec(0, 0, 0);
    int n = a->soft.desc.vertex_count;
    if (a->kind == BALL || a->kind == BOX)
        return s->w.body[a->at].x;
    if (a->kind == REDUCED)
        return a->copy.rigid->position;
    if (a->kind == CLOTH)
        return fsi_vec_load(a->soft.x + 3 * (n / 2));
    for (int i = 0; i < n; i++)
        c = fsi_vec_mad(c, fsi_vec_load(a->soft.x + 3 * i), 1 / (fsi_real)n);
    return c;
}

/* One step; the largest change of p, L by the move, and the energy after it. The trapezoidal rule
   moves along (v_old + v) / 2: its own part of the change of L, dt/2 sum m v_old x v, is in the
   forces of the next step again (it telescopes) and is left out. */
static fsi_result stage_step(stage *s, fsi_real dt, double *dp, double *dl, double *energy) {
    double b[7], o[7];
    for (int k = 0; k < 2; k++) {
        actor *a = s->a + k;
        if (a->kind == REDUCED) {
            fsi_reduced_external(&a->copy, a->x, s->external + a->at);
            s->external[a->at].friction = FSI_R(0.5);
            s->external[a->at].restitution = s->restitution;
            fsi_reduced_forces(&a->copy, dt);
        }
        if (a->kind == CLOTH || a->kind == TETS) {
            if (fsi_soft_forces(&a->soft, dt) < 0 || fsi_soft_finish(&a->soft) < 0)
                return FSI_ERR_NUMERIC;
        }
    }
    fsi_result result = fsi_solids_set_externals(&s->w, s->external, s->externals);
    if (result == FSI_OK)
        result = fsi_solids_forces(&s->w, dt);
    measure(s, b);
    for (int k = 0; k < 2; k++) {
        const fsi_soft *soft = &s->a[k].soft;
        for (int i = 0; soft->block && soft->desc.integrator == FSI_SOFT_NEWMARK
                        && i < soft->desc.vertex_count;
             i++) {
            fsi_vec3 l = fsi_vec_scale(fsi_vec_cross(fsi_vec_load(soft->work->jump + 3 * i),
                                                     fsi_vec_load(soft->v + 3 * i)),
                                       soft->mass[i]);
            b[3] += (double)l.x;
            b[4] += (double)l.y;
            b[5] += (double)l.z;
        }
    }
    if (result == FSI_OK)
        result = fsi_solids_move(&s->w, dt);
    for (int k = 0; k < 2; k++) {
        if (s->a[k].kind == REDUCED)
            fsi_reduced_move(&s->a[k].copy, dt);
        if (s->a[k].kind == CLOTH || s->a[k].kind == TETS)
            fsi_soft_move(&s->a[k].soft, dt);
    }
    measure(s, o);
    for (int k = 0; k < 3; k++) {
        *dp = fmax(*dp, fabs(o[k] - b[k]));
        *dl = fmax(*dl, fabs(o[3 + k] - b[3 + k]));
    }
    *energy = o[6];
    return result;
}

/* Every kind against every kind: momentum to round-off through every impulse, energy never grows,
 * nothing gets through, bounces bounce. */
TEST every_pair_keeps_momentum_and_energy(void) {
    for (int bounce = 0; bounce < 2; bounce++)
        for (int i = 0; i < KINDS; i++)
            for (int k = i; k < KINDS; k++) {
                stage s;
                double dp = 0, dl = 0, gain = 0, e = 0, o[7];
                stage_make(&s, i, k, .4, 2, bounce ? .5 : 0, FSI_SOFT_IMPLICIT, 0);
                measure(&s, o);
                double last = o[6];
                for (int n = 0; n < 30; n++) {
                    CHECK_OK(stage_step(&s, FSI_R(0.01), &dp, &dl, &e));
                    gain = fmax(gain, e - last);
                    last = e;
                }
                if (getenv("FSI_VERBOSE"))
                    printf("%s - %s, restitution %.1f: momentum %.1e %.1e, energy %.1f -> %.1f J, "
                           "largest rise %.1e\n",
                           kind_name[i], kind_name[k], bounce ? .5 : 0., dp, dl, o[6], e, gain);
                CHECK_MOST(dp, TOL(1e-12, 2e-4)); /* N s, of some 20 */
                CHECK_MOST(dl, TOL(1e-12, 2e-4));
                CHECK_MOST(gain, TOL(1e-4, 1e-2)); /* J, of some 70 */
                ASSERTm("they met", e < .8 * o[6]);
                ASSERTm("nothing got through", middle(&s, 0).x < middle(&s, 1).x);
                stage_free(&s);
            }
    PASS();
}

/* The other integrators and the other linear solver. Explicit steps are small: lumped masses
 * answer. */
TEST integrators_in_contact(void) {
    static const fsi_soft_integrator kind[4] = {FSI_SOFT_EXPLICIT, FSI_SOFT_NEWMARK, FSI_SOFT_SPLIT,
                                                FSI_SOFT_IMPLICIT};
    for (int i = 0; i < 8; i++) {
        stage s;
        fsi_real dt = kind[i / 2] == FSI_SOFT_EXPLICIT ? FSI_R(0.001) : FSI_R(0.01);
        double dp = 0, dl = 0, e = 0, o[7], top = 0;
        stage_make(&s, i & 1 ? CLOTH : BOX, TETS, .4, 2, 0, kind[i / 2], 1);
        measure(&s, o);
        for (int n = 0; n < (kind[i / 2] == FSI_SOFT_EXPLICIT ? 300 : 30); n++) {
            CHECK_OK(stage_step(&s, dt, &dp, &dl, &e));
            top = fmax(top, e);
        }
        if (getenv("FSI_VERBOSE"))
            printf("integrator %d, %s - tetrahedra: momentum %.1e %.1e, energy %.1f -> %.1f J, "
                   "highest %.1f\n",
                   (int)kind[i / 2], i & 1 ? "cloth" : "box", dp, dl, o[6], e, top);
        CHECK_MOST(dp, TOL(1e-11, 2e-4));
        CHECK_MOST(dl, TOL(1e-11, 2e-4));
        CHECK_MOST(top, o[6] * 1.001);
        ASSERTm("they met", e < .9 * o[6]);
        ASSERTm("nothing got through", middle(&s, 0).x < middle(&s, 1).x);
        stage_free(&s);
    }
    PASS();
}

/* A small ball at 60 m/s, a metre a step, does not pass a cloth. */
TEST cloth_stops_a_bullet(void) {
    stage s;
    double dp = 0, dl = 0, e = 0;
    stage_make(&s, BALL, CLOTH, .4, 0, 0, FSI_SOFT_IMPLICIT, 0);
    CHECK_OK(fsi_solids_set_velocity(&s.w, 0, fsi_vec(60, 0, 0), fsi_vec(0, 0, 0)));
    double v0 = 60;
    for (int n = 0; n < 3; n++)
        CHECK_OK(stage_step(&s, FSI_R(1.) / 60, &dp, &dl, &e));
    ASSERTm("behind the cloth's middle", s.w.body[0].x.x < middle(&s, 1).x + FSI_R(0.05));
    CHECK_MOST(s.w.body[0].v.x, .9 * v0);
    CHECK_MOST(dp, TOL(1e-11, 2e-3));
    stage_free(&s);
    PASS();
}

/* Ribbons without vertices in the middle: across each other, over the edge of a rigid box, over a
 * rod, and two cubes of tetrahedra edge to edge: only edges meet. */
static fsi_result edge_actor(fsi_soft *soft, int cube, double y, double speed, int across) {
    fsi_mesh mesh;
    fsi_result result;
    if (cube)
        result = fsi_mesh_box(&mesh, fsi_vec(-1, FSI_R(-0.1), FSI_R(-0.1)),
                              fsi_vec(1, FSI_R(0.1), FSI_R(0.1)), 1, 1, 1, 0, NULL);
    else
        result = fsi_mesh_sheet(&mesh, fsi_vec(-1, 0, FSI_R(-0.06)), fsi_vec(2, 0, 0),
                                fsi_vec(0, 0, FSI_R(0.12)), 1, 1, 0, NULL, NULL, NULL);
    if (result != FSI_OK)
        return result;
    /* cubes stand on an edge; the second lies across */
    for (int i = 0; i < mesh.vertex_count; i++) {
        fsi_real a = mesh.x[3 * i], b = mesh.x[3 * i + 1], c = mesh.x[3 * i + 2],
                 q = FSI_R(0.70710678);
        if (cube) {
            fsi_real e = b;
            b = q * (e - c);
            c = q * (e + c);
        }
        mesh.x[3 * i] = across ? c : a;
        mesh.x[3 * i + 1] = b + (fsi_real)y;
        mesh.x[3 * i + 2] = across ? -a : c;
    }
    fsi_soft_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.dim = 3;
    desc.x = mesh.x;
    desc.vertex_count = mesh.vertex_count;
    desc.friction = FSI_R(0.3);
    desc.thickness = FSI_R(0.02);
    if (cube) {
        desc.tet = mesh.tet;
        desc.tet_count = mesh.tet_count;
        desc.density = 200;
        desc.young = FSI_R(1e6);
        desc.poisson = FSI_R(0.3);
    } else {
        desc.triangle = mesh.index;
        desc.triangle_count = mesh.element_count;
        desc.area_density = 2;
        desc.stretch = 2000;
        desc.bend = FSI_R(0.01);
    }
    result = fsi_soft_init(soft, &desc);
    fsi_mesh_free(&mesh);
    for (int i = 0; i < (int)desc.vertex_count && result == FSI_OK; i++)
        soft->v[3 * i + 1] = (fsi_real)speed;
    return result;
}

TEST edges_meet_edges(void) {
    static const double speed[3] = {1, 6, 30};
    for (int kind = 0; kind < 4; kind++)
        for (int k = 0; k < 3; k++) {
            fsi_soft soft[2];
            fsi_external external[2];
            int softs = kind < 2 ? 2 : 1, touched = 0;
            double p0 = 0, p1 = 0, low = 1;
            memset(soft, 0, sizeof soft);
            fsi_solids_desc wd;
            memset(&wd, 0, sizeof wd);
            fsi_shape_desc sd;
            memset(&sd, 0, sizeof sd);
            fsi_rigid_desc desc;
            memset(&desc, 0, sizeof desc);
            wd.dim = 3;
            wd.max_bodies = 1;
            wd.max_contacts = 2000;
            fsi_solids solids;
            CHECK_OK(fsi_solids_init(&solids, &wd));
            sd.kind = kind == 2 ? FSI_SHAPE_BOX : FSI_SHAPE_CAPSULE;
            sd.half = fsi_vec(FSI_R(0.1), FSI_R(0.1), 1);
            sd.radius = FSI_R(0.03);
            sd.length = FSI_R(1.5);
            fsi_shape shape;
            CHECK_OK(fsi_shape_init(&shape, &sd));
            desc.kind = FSI_RIGID_DYNAMIC;
            desc.shape = &shape;
            desc.mass = 1;
            desc.friction = FSI_R(0.3);
            desc.q = fsi_quat_from_rotation(kind == 2 ? fsi_vec(0, 0, FSI_R(0.78539816))
                                                      : fsi_vec(0, FSI_R(1.5707963), 0));
            if (softs == 1)
                CHECK_OK(fsi_solids_add(&solids, &desc, NULL));
            int i;
            for (i = 0; i < softs; i++) {
                CHECK_OK(edge_actor(soft + i, kind == 1, (softs == 1 || i) ? .4 : 0,
                                    (softs == 1 || i) ? -speed[k] : 0, i));
                fsi_soft_external(soft + i, external + i);
            }
            CHECK_OK(fsi_solids_set_externals(&solids, external, softs));
            for (int n = 0; n < 80; n++) {
                double y[2] = {0, 0};
                if (n * .005 * speed[k] > .8)
                    break;
                for (i = 0; i < softs; i++)
                    CHECK_OK(fsi_soft_forces(soft + i, FSI_R(0.005)));
                for (p0 = 0, i = 0; i < softs; i++)
                    for (int q = 0; q < soft[i].desc.vertex_count; q++)
                        p0 += (double)(soft[i].mass[q] * soft[i].v[3 * q + 1]);
                if (softs == 1)
                    p0 += (double)solids.body[0].v.y;
                CHECK_OK(fsi_solids_step(&solids, FSI_R(0.005)));
                for (p1 = 0, i = 0; i < softs; i++)
                    for (int q = 0; q < soft[i].desc.vertex_count; q++)
                        p1 += (double)(soft[i].mass[q] * soft[i].v[3 * q + 1]);
                if (softs == 1)
                    p1 += (double)solids.body[0].v.y;
                for (i = 0; i < softs; i++)
                    CHECK_OK(fsi_soft_move(soft + i, FSI_R(0.005)));
                touched |= solids.contact_count > 0;
                CHECK_NEAR(p0, p1, TOL(1e-12, 1e-4) * speed[k]);
                for (i = 0; i < softs; i++)
                    for (int q = 0; q < soft[i].desc.vertex_count; q++)
                        y[i] += (double)soft[i].x[3 * q + 1] / soft[i].desc.vertex_count;
                low = fmin(low, softs == 1 ? y[0] - (double)solids.body[0].x.y : y[1] - y[0]);
            }
            if (getenv("FSI_VERBOSE"))
                printf("edges %d at %.0f m/s: nearest %.3f\n", kind, speed[k], low);
            ASSERT(touched);
            ASSERTm("did not pass", low > (kind == 1   ? .2
                                           : kind == 2 ? .1
                                           : kind == 3 ? .03
                                                       : .01));
            for (i = 0; i < 2; i++)
                fsi_soft_free(soft + i);
            fsi_solids_free(&solids);
            fsi_shape_free(&shape);
        }
    PASS();
}

/* Memory may fail at any allocation of a soft body in contact: refused or, for the contact patch
 * alone, lumped masses; nothing leaks. Steps take none. */
TEST every_allocation_may_fail(void) {
    int done = 0;
    fsi_mesh mesh;
    CHECK_OK(fsi_mesh_box(&mesh, fsi_vec(0, 0, 0), fsi_vec(1, 1, 1), 2, 2, 2, 1, NULL));
    for (long k = 0; k < 60 && !done; k++) {
        fail_allocator f = fail_begin(k);
        fsi_soft_desc desc;
        memset(&desc, 0, sizeof desc);
        fsi_solids_desc wd;
        memset(&wd, 0, sizeof wd);
        fsi_soft soft;
        memset(&soft, 0, sizeof soft);
        fsi_solids solids;
        memset(&solids, 0, sizeof solids);
        desc.dim = 3;
        desc.x = mesh.x;
        desc.vertex_count = mesh.vertex_count;
        desc.tet = mesh.tet;
        desc.tet_count = mesh.tet_count;
        desc.density = 300;
        desc.young = FSI_R(1e5);
        desc.allocator = fail_make(&f);
        wd.dim = 3;
        wd.max_bodies = 2;
        wd.max_contacts = 200;
        wd.allocator = fail_make(&f);
        fsi_result result = fsi_soft_init(&soft, &desc);
        if (result == FSI_OK)
            result = fsi_solids_init(&solids, &wd);
        /* The solids keep the address: it lives as long as they step. */
        fsi_external external;
        if (result == FSI_OK) {
            fsi_soft_external(&soft, &external);
            result = fsi_solids_set_externals(&solids, &external, 1);
        }
        long calls = f.calls;
        for (int i = 0; i < 3 && result == FSI_OK; i++) {
            CHECK_OK(fsi_soft_forces(&soft, FSI_R(0.01)));
            CHECK_OK(fsi_solids_step(&solids, FSI_R(0.01)));
            CHECK_OK(fsi_soft_move(&soft, FSI_R(0.01)));
            done = 1;
        }
        ASSERT(done || result == FSI_ERR_MEMORY);
        ASSERT_EQ(calls, f.calls);
        fsi_soft_free(&soft);
        fsi_solids_free(&solids);
        ASSERT_EQ(0, f.live);
    }
    ASSERT(done);
    fsi_mesh_free(&mesh);
    PASS();
}

/* ---------------------------------------------------------------- all kinds in one scene */
/* A floor with a heap of boxes, balls and capsules, a motor's paddle, a scripted plate, a chain of
   joints; on them a cloth, a cube of tetrahedra and two reduced stars. */
enum {
    MIXED_BODIES = 14,
    MIXED_OTHERS = 4
};

typedef struct mixed {
    fsi_shape shape[5];
    fsi_solids w;
    fsi_soft cloth, cube;
    fsi_reduced_model model;
    fsi_reduced star[2];
    fsi_real *x[2];
    fsi_external external[MIXED_OTHERS];
    int steps;
} mixed;

static fsi_result mixed_soft(mixed *s, int tets, const fsi_allocator *allocator) {
    fsi_soft *out = tets ? &s->cube : &s->cloth;
    fsi_mesh mesh;
    fsi_result result =
        tets ? fsi_mesh_box(&mesh, fsi_vec(FSI_R(-0.3), FSI_R(1.9), FSI_R(-0.3)),
                            fsi_vec(FSI_R(0.3), FSI_R(2.5), FSI_R(0.3)), 2, 2, 2, 1, allocator)
             : fsi_mesh_sheet(&mesh, fsi_vec(-1, FSI_R(1.5), -1), fsi_vec(2, 0, 0),
                              fsi_vec(0, FSI_R(0.1), 2), 9, 9, 1, NULL, NULL, allocator);
    if (result != FSI_OK)
        return result;
    fsi_soft_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.dim = 3;
    desc.x = mesh.x;
    desc.vertex_count = mesh.vertex_count;
    desc.friction = FSI_R(0.4);
    desc.damping_stiffness = FSI_R(0.004);
    desc.gravity = fsi_vec(0, -10, 0);
    desc.newton = 8;
    desc.tolerance = TOL(1e-10, 1e-5);
    if (tets) {
        desc.tet = mesh.tet;
        desc.tet_count = mesh.tet_count;
        desc.density = 400;
        desc.young = FSI_R(1e5);
        desc.poisson = FSI_R(0.3);
        desc.thickness = FSI_R(0.01);
    } else {
        desc.triangle = mesh.index;
        desc.triangle_count = mesh.element_count;
        desc.area_density = 2;
        desc.stretch = 500;
        desc.bend = FSI_R(0.005);
        desc.thickness = FSI_R(0.03);
        desc.self_collision = 1;
    }
    if (allocator)
        desc.allocator = *allocator;
    result = fsi_soft_init(out, &desc);
    fsi_mesh_free(&mesh);
    if (result == FSI_OK)
        fsi_soft_external(out, s->external + tets);
    return result;
}

static fsi_result mixed_stars(mixed *s, const fsi_allocator *allocator) {
    form_body form;
    memset(&form, 0, sizeof form);
    fsi_reduced_desc desc;
    memset(&desc, 0, sizeof desc);
    form.kind = FORM_STARFISH;
    form.a = FSI_R(0.5);
    form.b = FSI_R(0.12);
    form.c = FSI_R(0.15);
    fsi_mesh mesh;
    fsi_result result = fsi_mesh_from_sdf(
        &mesh, form_distance, &form, fsi_vec(FSI_R(-0.7), FSI_R(-0.3), FSI_R(-0.7)),
        fsi_vec(FSI_R(0.7), FSI_R(0.3), FSI_R(0.7)), FSI_R(0.12), allocator);
    if (result != FSI_OK)
        return result;
    desc.mesh = &mesh;
    desc.modes = 8;
    desc.density = 500;
    desc.young = FSI_R(2e5);
    desc.poisson = FSI_R(0.3);
    desc.damping_stiffness = FSI_R(0.004);
    desc.field = 16;
    desc.samples = 40;
    if (allocator)
        desc.allocator = *allocator;
    result = fsi_reduced_model_init(&s->model, &desc);
    fsi_mesh_free(&mesh);
    for (int k = 0; k < 2 && result == FSI_OK; k++) {
        result = fsi_reduced_init(s->star + k, &s->model,
                                  fsi_vec(FSI_R(0.4) * (fsi_real)(2 * k - 1),
                                          FSI_R(2.9) + FSI_R(0.4) * (fsi_real)k, FSI_R(0.1)),
                                  allocator);
        s->star[k].gravity = fsi_vec(0, -10, 0);
        s->x[k] = (fsi_real *)calloc(3 * (size_t)s->model.sample_count, sizeof **s->x);
    }
    return result;
}

static fsi_result mixed_make(mixed *s, const fsi_allocator *allocator) {
    static const fsi_shape_kind kind[5] = {FSI_SHAPE_PLANE, FSI_SHAPE_BOX, FSI_SHAPE_SPHERE,
                                           FSI_SHAPE_CAPSULE, FSI_SHAPE_BOX};
    fsi_result result = FSI_OK;
    memset(s, 0, sizeof *s);
    fsi_solids_desc wd;
    memset(&wd, 0, sizeof wd);
    for (int i = 0; i < 5 && result == FSI_OK; i++) {
        fsi_shape_desc desc;
        memset(&desc, 0, sizeof desc);
        desc.kind = kind[i];
        desc.radius = FSI_R(0.2);
        desc.length = FSI_R(0.3);
        desc.half = i == 4 ? fsi_vec(FSI_R(0.6), FSI_R(0.05), FSI_R(0.2))
                           : fsi_vec(FSI_R(0.25), FSI_R(0.2), FSI_R(0.2));
        if (allocator)
            desc.allocator = *allocator;
        result = fsi_shape_init(s->shape + i, &desc);
    }
    wd.dim = 3;
    wd.max_bodies = MIXED_BODIES;
    wd.max_joints = 4;
    wd.max_contacts = 6000;
    wd.gravity = fsi_vec(0, -10, 0);
    if (allocator)
        wd.allocator = *allocator;
    if (result == FSI_OK)
        result = fsi_solids_init(&s->w, &wd);
    for (int i = 0; i < MIXED_BODIES && result == FSI_OK; i++) {
        fsi_rigid_desc desc;
        memset(&desc, 0, sizeof desc);
        desc.kind = i == 0 ? FSI_RIGID_FIXED : i == 1 ? FSI_RIGID_SCRIPTED : FSI_RIGID_DYNAMIC;
        desc.shape = s->shape + (i == 0 ? 0 : i <= 2 ? 4 : 1 + i % 3);
        desc.density = 500;
        desc.friction = FSI_R(0.5);
        desc.restitution = FSI_R(0.1);
        desc.x = i == 0   ? fsi_vec(0, 0, 0)
                 : i == 1 ? fsi_vec(FSI_R(-1.6), FSI_R(0.4), 0)
                 : i == 2 ? fsi_vec(FSI_R(1.5), FSI_R(1.0), 0)
                          : fsi_vec((fsi_real)(i % 3 - 1) * FSI_R(0.6),
                                    FSI_R(0.3) + FSI_R(0.45) * (fsi_real)(i / 9),
                                    (fsi_real)(i / 3 % 3 - 1) * FSI_R(0.6));
        result = fsi_solids_add(&s->w, &desc, NULL);
    }
    fsi_joint_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.kind = FSI_JOINT_HINGE;
    desc.a = 2;
    desc.b = 0;
    desc.anchor = fsi_vec(FSI_R(1.5), 1, 0);
    desc.motor = 1;
    desc.motor_speed = 4;
    desc.motor_limit = 200;
    if (result == FSI_OK)
        result = fsi_solids_join(&s->w, &desc, NULL);
    for (int i = 3; i < 5 && result == FSI_OK; i++) {
        memset(&desc, 0, sizeof desc);
        desc.kind = FSI_JOINT_POINT;
        desc.a = i;
        desc.b = i + 1;
        desc.anchor = fsi_vec_scale(fsi_vec_add(s->w.body[i].x, s->w.body[i + 1].x), FSI_R(0.5));
        result = fsi_solids_join(&s->w, &desc, NULL);
    }
    if (result == FSI_OK)
        result = mixed_soft(s, 0, allocator);
    if (result == FSI_OK)
        result = mixed_soft(s, 1, allocator);
    if (result == FSI_OK)
        result = mixed_stars(s, allocator);
    return result;
}

static void mixed_free(mixed *s) {
    for (int i = 0; i < 2; i++) {
        fsi_reduced_free(s->star + i);
        free(s->x[i]);
    }
    fsi_reduced_model_free(&s->model);
    fsi_soft_free(&s->cloth);
    fsi_soft_free(&s->cube);
    fsi_solids_free(&s->w);
    for (int i = 0; i < 5; i++)
        fsi_shape_free(s->shape + i);
}

static fsi_result mixed_step(mixed *s, fsi_real dt) {
    fsi_solids_set_velocity(&s->w, 1, fsi_vec((fsi_real)cos(.05 * s->w.time / (double)dt), 0, 0),
                            fsi_vec(0, FSI_R(0.3), 0));
    fsi_result result = fsi_soft_forces(&s->cloth, dt);
    if (result >= 0)
        result = fsi_soft_contact(&s->cloth, NULL, 0, dt, NULL);
    if (result >= 0)
        result = fsi_soft_forces(&s->cube, dt);
    for (int k = 0; k < 2 && result >= 0; k++) {
        fsi_reduced_external(s->star + k, s->x[k], s->external + 2 + k);
        s->external[2 + k].friction = FSI_R(0.4);
        result = fsi_reduced_forces(s->star + k, dt);
    }
    if (result >= 0)
        result = fsi_solids_set_externals(&s->w, s->external, MIXED_OTHERS);
    if (result >= 0)
        result = fsi_solids_step(&s->w, dt);
    if (result >= 0)
        result = fsi_soft_move(&s->cloth, dt);
    if (result >= 0)
        result = fsi_soft_move(&s->cube, dt);
    for (int k = 0; k < 2 && result >= 0; k++)
        result = fsi_reduced_move(s->star + k, dt);
    return result;
}

static double mixed_energy(const mixed *s, fsi_solids_report *report) {
    double e, k;
    fsi_solids_measure(&s->w, report);
    double sum = report->kinetic + report->potential;
    for (int q = 0; q < 2; q++) {
        const fsi_soft *soft = q ? &s->cube : &s->cloth;
        fsi_soft_energy(soft, &e, &k);
        for (int i = 0; i < soft->desc.vertex_count; i++)
            e += 10 * (double)(soft->mass[i] * soft->x[3 * i + 1]);
        sum += e + k;
        fsi_reduced_energy(s->star + q, &e, &k);
        sum += e + k + 10 * (double)(s->model.mass * s->star[q].rigid->position.y);
    }
    return sum;
}

static size_t mixed_size(const mixed *s) {
    return fsi_solids_state_size(&s->w) + fsi_soft_state_size(&s->cloth)
           + fsi_soft_state_size(&s->cube) + 2 * fsi_reduced_state_size(s->star);
}

static void mixed_state(mixed *s, unsigned char *at, int restore) {
    if (restore)
        fsi_solids_restore(&s->w, at, fsi_solids_state_size(&s->w));
    else
        fsi_solids_save(&s->w, at);
    at += fsi_solids_state_size(&s->w);
    for (int k = 0; k < 2; k++) {
        fsi_soft *soft = k ? &s->cube : &s->cloth;
        if (restore)
            fsi_soft_restore(soft, at, fsi_soft_state_size(soft));
        else
            fsi_soft_save(soft, at);
        at += fsi_soft_state_size(soft);
        if (restore)
            fsi_reduced_restore(s->star + k, at, fsi_reduced_state_size(s->star + k));
        else
            fsi_reduced_save(s->star + k, at);
        at += fsi_reduced_state_size(s->star + k);
    }
}

TEST mixed_scene_energy(void) {
    mixed s;
    double worst = 0, driven = 0, opened = 0;
    CHECK_OK(mixed_make(&s, NULL));
    fsi_solids_report report;
    double first;
    double last = first = mixed_energy(&s, &report);
    for (int i = 0; i < 90; i++) {
        ASSERT(mixed_step(&s, FSI_R(0.01)) >= 0);
        double e = mixed_energy(&s, &report);
        worst = fmax(worst,
                     e - last - report.work - report.drive - report.applied - s.cloth.contact_work);
        driven += fabs(report.drive);
        opened += report.work;
        last = e;
    }
    if (getenv("FSI_VERBOSE"))
        printf("mixed: energy %.2f -> %.2f J, driven %.2f J, opened %.3f J, worst growth beyond "
               "%.2e J, %d contacts\n",
               first, last, driven, opened, worst, report.contacts);
    CHECK_MOST(worst, TOL(1e-9, 1e-3) * first);
    CHECK_MOST(opened, .02 * first);
    ASSERT(driven > 1 && report.contacts > 20);
    mixed_free(&s);
    PASS();
}

TEST mixed_scene_same_bits(void) {
    static const int threads[5] = {1, 2, 3, 8, 1};
    uint64_t first = 0;
    /* the last: restored in the middle into a world that had another life */
    for (int t = 0; t < 5; t++) {
        check_threads(threads[t]);
        mixed s;
        CHECK_OK(mixed_make(&s, NULL));
        size_t size = mixed_size(&s);
        unsigned char *block = (unsigned char *)malloc(size);
        unsigned char *keep = (unsigned char *)malloc(size);
        for (int i = 0; i < 30; i++) {
            if (t == 4 && i == 15) {
                mixed_state(&s, keep, 0);
                mixed_free(&s);
                CHECK_OK(mixed_make(&s, NULL));
                for (int k = 0; k < 5; k++)
                    ASSERT(mixed_step(&s, FSI_R(0.012)) >= 0);
                mixed_state(&s, keep, 1);
            }
            ASSERT(mixed_step(&s, FSI_R(0.01)) >= 0);
        }
        mixed_state(&s, block, 0);
        uint64_t h = check_hash(block, size, 1);
        if (t == 0)
            first = h;
        ASSERTm(t == 4 ? "a restored run continues" : "threads", h == first);
        free(block);
        free(keep);
        mixed_free(&s);
    }
    check_threads(1);
    PASS();
}

TEST mixed_scene_allocations_may_fail(void) {
    fail_allocator f = fail_begin(-1);
    fsi_allocator allocator = fail_make(&f);
    mixed s;
    CHECK_OK(mixed_make(&s, &allocator));
    ASSERT(mixed_step(&s, FSI_R(0.01)) >= 0);
    long all = f.calls;
    for (int i = 0; i < 3; i++)
        ASSERT(mixed_step(&s, FSI_R(0.01)) >= 0);
    ASSERT_EQ(all, f.calls); /* nothing in the step loop */
    mixed_free(&s);
    ASSERT_EQ(0, f.live);
    for (long k = 0; k < all; k++) {
        f = fail_begin(k);
        fsi_result result = mixed_make(&s, &allocator);
        /* the contact patch alone may be missing: lumped masses */
        if (result == FSI_OK)
            result = mixed_step(&s, FSI_R(0.01));
        ASSERT(result >= 0 || result == FSI_ERR_MEMORY);
        mixed_free(&s);
        ASSERT_EQ(0, f.live);
    }
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv) {
    GREATEST_MAIN_BEGIN();
    check_threads(1);
    RUN_TEST(every_pair_keeps_momentum_and_energy);
    RUN_TEST(integrators_in_contact);
    RUN_TEST(cloth_stops_a_bullet);
    RUN_TEST(edges_meet_edges);
    RUN_TEST(every_allocation_may_fail);
    RUN_TEST(mixed_scene_energy);
    RUN_TEST(mixed_scene_same_bits);
    RUN_TEST(mixed_scene_allocations_may_fail);
    GREATEST_MAIN_END();
}
