/* fsi_solids.h: rigid bodies, contact, joints (catalogue R-01 .. R-10), doors, memory, determinism.
 */
#define FSI_IMPLEMENTATION
#define FSI_SOLIDS_IMPLEMENTATION /* it looks inside, so it compiles this one itself */
#include "fsi_solids.h"
#include "greatest.h"
#include "check.h"

#define G FSI_R(9.81)

static fsi_shape make_shape(fsi_shape_kind kind, int dim, double radius, double length, double hx,
                            double hy, double hz) {
    fsi_shape_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.kind = kind;
    desc.dim = dim;
    desc.radius = (fsi_real)radius;
    desc.length = (fsi_real)length;
    desc.half = fsi_vec((fsi_real)hx, (fsi_real)hy, (fsi_real)hz);
    fsi_shape shape;
    if (fsi_shape_init(&shape, &desc) != FSI_OK)
        printf("\n  shape %d refused\n", (int)kind);
    return shape;
}

static fsi_solids make_world(int dim, int bodies, int joints, fsi_vec3 gravity) {
    fsi_solids_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.dim = dim;
    desc.max_bodies = bodies;
    desc.max_joints = joints;
    desc.gravity = gravity;
    fsi_solids solids;
    if (fsi_solids_init(&solids, &desc) != FSI_OK)
        printf("\n  world refused\n");
    return solids;
}

static fsi_rigid_desc body_at(fsi_rigid_kind kind, const fsi_shape *shape, double x, double y,
                              double z) {
    fsi_rigid_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.kind = kind;
    desc.shape = shape;
    desc.x = fsi_vec((fsi_real)x, (fsi_real)y, (fsi_real)z);
    desc.density = 1000;
    desc.friction = FSI_R(0.5);
    return desc;
}

/* ------------------------------------------------------------------------------------------------
 * free rotation */
static fsi_solids top(double ix, double iy, double iz, double wx, double wy, double wz,
                      const fsi_shape *shape, int substeps) {
    fsi_solids_desc desc;
    fsi_rigid_desc given = body_at(FSI_RIGID_DYNAMIC, shape, 0, 0, 0);
    memset(&desc, 0, sizeof desc);
    desc.dim = 3;
    desc.max_bodies = 1;
    desc.substeps = substeps;
    fsi_solids solids;
    fsi_solids_init(&solids, &desc);
    given.inertia = fsi_vec((fsi_real)ix, (fsi_real)iy, (fsi_real)iz);
    given.spin = fsi_vec((fsi_real)wx, (fsi_real)wy, (fsi_real)wz);
    given.mass = 1;
    fsi_solids_add(&solids, &given, NULL);
    return solids;
}

static fsi_vec3 body_spin(const fsi_solids *solids) {
    return fsi_mat3_tmul_vec(&solids->body[0].rotation, solids->body[0].spin);
}

TEST R_01_symmetric_top(void) {
    fsi_shape shape = make_shape(FSI_SHAPE_SPHERE, 3, 1, 0, 0, 0, 0);
    fsi_solids solids = top(1, 1, 2, .1, 0, 1, &shape, 1);
    /* ten periods 2 pi at dt = 0.01 (to 0.0015 of a step) */
    int n = 6283;
    double dt = 20 * 3.14159265358979323846 / n;
    for (int i = 0; i < n; i++)
        CHECK_OK(fsi_solids_step(&solids, (fsi_real)dt));
    fsi_vec3 v = body_spin(&solids);
    CHECK_MOST(fabs(atan2((double)v.y, (double)v.x)), 1e-3); /* back at phase 0 */
    for (int i = 0; i < n / 40; i++)
        fsi_solids_step(&solids, (fsi_real)dt);
    v = body_spin(&solids);
    ASSERTm("precesses from x to y", v.y > FSI_R(0.09));
    fsi_solids_free(&solids);
    fsi_shape_free(&shape);
    PASS();
}

TEST R_02_asymmetric_top_order(void) {
    fsi_shape shape = make_shape(FSI_SHAPE_SPHERE, 3, 1, 0, 0, 0, 0);
    double error[2];
    int steps[2] = {40, 80};
    for (int k = 0; k < 2; k++) {
        fsi_solids solids = top(1, 2, 3, .3, 0, 1, &shape, 1);
        for (int i = 0; i < steps[k]; i++)
            fsi_solids_step(&solids, (fsi_real)(6.33112137 / steps[k]));
        fsi_vec3 v = body_spin(&solids);
        error[k] = sqrt(pow((double)v.x - .3, 2) + pow((double)v.y, 2) + pow((double)v.z - 1, 2));
        fsi_solids_free(&solids);
    }
    CHECK_MOST(error[1], TOL(1e-4, 1e-4));
#ifndef FSI_SINGLE
    ASSERTm("at least second order", log2(error[0] / error[1]) > 1.9);
#endif
    fsi_shape_free(&shape);
    PASS();
}

TEST R_03_dzhanibekov(void) {
    fsi_shape shape = make_shape(FSI_SHAPE_SPHERE, 3, 1, 0, 0, 0, 0);
    fsi_solids solids = top(1, 2, 3, .001, 1, .001, &shape, 1);
    double at[2] = {0, 0}, last = 1, L0[3], t = 0, dt = TOL(1e-3, 1e-2);
    int found = 0;
    L0[0] = (double)solids.body[0].L.x;
    L0[1] = (double)solids.body[0].L.y;
    L0[2] = (double)solids.body[0].L.z;
    for (int i = 0; i < 60000 && found < 2; i++, t += dt) {
        fsi_solids_step(&solids, (fsi_real)dt);
        double v = (double)body_spin(&solids).y;
        if (v * last < 0)
            at[found++] = t + dt * last / (last - v);
        last = v;
    }
    CHECK_REL(14.90594, at[0], .01);
    /* single: rounding feeds the instability */
    CHECK_REL(42.43678, at[1], TOL(.01, .05));
    ASSERTm("L fixed to the bit", (double)solids.body[0].L.x == L0[0]
                                      && (double)solids.body[0].L.y == L0[1]
                                      && (double)solids.body[0].L.z == L0[2]);
    fsi_solids_free(&solids);
    fsi_shape_free(&shape);
    PASS();
}

TEST R_04_conservation_in_free_flight(void) {
    fsi_shape shape = make_shape(FSI_SHAPE_BOX, 3, 0, 0, .5, .2, .1);
    fsi_solids solids = make_world(3, 8, 0, fsi_vec(0, 0, 0));
    fsi_vec3 v0[8], L0[8];
    uint64_t seed = 4;
    for (int i = 0; i < 8; i++) {
        fsi_rigid_desc desc = body_at(FSI_RIGID_DYNAMIC, &shape, 2 * i, 0, 0);
        desc.team = 1;
        desc.v = fsi_vec((fsi_real)check_random(&seed), (fsi_real)check_random(&seed),
                         (fsi_real)check_random(&seed));
        desc.spin = fsi_vec((fsi_real)check_random(&seed), (fsi_real)check_random(&seed),
                            (fsi_real)check_random(&seed));
        CHECK_OK(fsi_solids_add(&solids, &desc, NULL));
        v0[i] = solids.body[i].v;
        L0[i] = solids.body[i].L;
    }
    fsi_solids_report a;
    fsi_solids_measure(&solids, &a);
    for (int i = 0; i < 10000; i++)
        CHECK_OK(fsi_solids_step(&solids, FSI_R(0.01)));
    fsi_solids_report b;
    fsi_solids_measure(&solids, &b);
    for (int i = 0; i < 3; i++) {
        CHECK_NEAR(a.momentum[i], b.momentum[i], TOL(1e-12, 1e-5) * 1000);
        /* positions reach 100 m and are rounded 4e4 times */
        CHECK_NEAR(a.angular_momentum[i], b.angular_momentum[i], TOL(1e-12, 1e-3) * 1e5);
    }
    CHECK_REL(a.kinetic, b.kinetic, TOL(1e-9, 1e-4));
    for (int i = 0; i < 8; i++)
        ASSERTm("v and L of every body to the bit",
                !memcmp(&solids.body[i].v, v0 + i, sizeof *v0)
                    && !memcmp(&solids.body[i].L, L0 + i, sizeof *L0));
    fsi_solids_free(&solids);
    fsi_shape_free(&shape);
    PASS();
}

TEST R_04_parabola_is_exact(void) {
    fsi_shape shape = make_shape(FSI_SHAPE_SPHERE, 3, .1, 0, 0, 0, 0);
    fsi_solids solids = make_world(3, 1, 0, fsi_vec(0, -G, 0));
    fsi_rigid_desc desc = body_at(FSI_RIGID_DYNAMIC, &shape, 0, 0, 0);
    desc.v = fsi_vec(3, 4, 0);
    fsi_solids_add(&solids, &desc, NULL);
    for (int i = 0; i < 100; i++)
        fsi_solids_step(&solids, FSI_R(0.01));
    CHECK_NEAR(3, solids.body[0].x.x, TOL(1e-12, 1e-4));
    CHECK_NEAR(4 - 9.81 / 2, solids.body[0].x.y, TOL(1e-12, 1e-4));
    fsi_solids_free(&solids);
    fsi_shape_free(&shape);
    PASS();
}

/* ------------------------------------------------------------------------------------------------
 * contact */
TEST R_05_impact_of_two_spheres(void) {
    fsi_shape shape = make_shape(FSI_SHAPE_SPHERE, 3, .5, 0, 0, 0, 0);
    double e[3] = {0, .5, 1};
    for (int dim = 2; dim <= 3; dim++) {
        fsi_shape disk = make_shape(FSI_SHAPE_SPHERE, dim, .5, 0, 0, 0, 0);
        for (int k = 0; k < 3; k++) {
            fsi_solids solids = make_world(dim, 2, 0, fsi_vec(0, 0, 0));
            fsi_rigid_desc desc = body_at(FSI_RIGID_DYNAMIC, &disk, 0, 0, 0),
                           given = body_at(FSI_RIGID_DYNAMIC, &disk, 2, 0, 0);
            double m1 = 1, m2 = 3, v1 = 2, v2 = -1;
            desc.mass = 1;
            given.mass = 3;
            desc.v = fsi_vec(2, 0, 0);
            given.v = fsi_vec(-1, 0, 0);
            desc.restitution = given.restitution = (fsi_real)e[k];
            fsi_solids_add(&solids, &desc, NULL);
            fsi_solids_add(&solids, &given, NULL);
            for (int i = 0; i < 60; i++)
                CHECK_OK(fsi_solids_step(&solids, FSI_R(0.01)));
            CHECK_NEAR((m1 * v1 + m2 * v2 - m2 * e[k] * (v1 - v2)) / (m1 + m2), solids.body[0].v.x,
                       TOL(1e-12, 1e-5));
            CHECK_NEAR((m1 * v1 + m2 * v2 + m1 * e[k] * (v1 - v2)) / (m1 + m2), solids.body[1].v.x,
                       TOL(1e-12, 1e-5));
            fsi_solids_free(&solids);
        }
        fsi_shape_free(&disk);
    }
    fsi_shape_free(&shape);
    PASS();
}

/* Box on a slope in the plane, sliding direction turned by phi about the slope's normal: a pyramid
 * would show here. */
static double slope(double mu, double phi, double seconds, double *creep) {
    fsi_shape plane = make_shape(FSI_SHAPE_PLANE, 3, 0, 0, 0, 0, 0),
              box = make_shape(FSI_SHAPE_BOX, 3, 0, 0, .5, .25, .5);
    double th = 20 * 3.14159265358979323846 / 180, v0 = 0, dt = 1. / 120;
    fsi_solids solids =
        make_world(3, 2, 0,
                   fsi_vec((fsi_real)(9.81 * sin(th) * cos(phi)), (fsi_real)(-9.81 * cos(th)),
                           (fsi_real)(9.81 * sin(th) * sin(phi))));
    fsi_rigid_desc desc = body_at(FSI_RIGID_FIXED, &plane, 0, 0, 0),
                   given = body_at(FSI_RIGID_DYNAMIC, &box, 0, .25, 0);
    int n = (int)(seconds / dt + .5);
    double p[2];
    desc.friction = given.friction = (fsi_real)mu;
    fsi_solids_add(&solids, &desc, NULL);
    fsi_solids_add(&solids, &given, NULL);
    for (int i = 0; i < 120; i++)
        fsi_solids_step(&solids, (fsi_real)dt); /* one second to settle */
    v0 = hypot((double)solids.body[1].v.x, (double)solids.body[1].v.z);
    p[0] = (double)solids.body[1].x.x;
    p[1] = (double)solids.body[1].x.z;
    double y0 = 0;
    for (int i = 0; i < n; i++)
        fsi_solids_step(&solids, (fsi_real)dt);
    double v1 = hypot((double)solids.body[1].v.x, (double)solids.body[1].v.z);
    *creep = hypot((double)solids.body[1].x.x - p[0], (double)solids.body[1].x.z - p[1]) + y0;
    fsi_solids_free(&solids);
    fsi_shape_free(&plane);
    fsi_shape_free(&box);
    return (v1 - v0) / seconds;
}

TEST R_06_slope(void) {
    double creep, tan20 = tan(20 * 3.14159265358979323846 / 180),
                  exact = 9.81 * (sin(atan(tan20)) - .3 * cos(atan(tan20)));
    CHECK_NEAR(exact, slope(.3, 0, 2, &creep), 1e-3);
    CHECK_NEAR(.5897, exact, 1e-4);
    /* along the diagonal: a cone, not a pyramid */
    CHECK_NEAR(exact, slope(.3, .78539816, 2, &creep), 1e-3);
    slope(.4, 0, 10, &creep);
    CHECK_MOST(creep, 1e-4);
    slope(tan20 * 1.01, 0, 10, &creep);
    CHECK_MOST(creep, 1e-4);
    slope(tan20 * 1.01, .5, 10, &creep);
    CHECK_MOST(creep, 1e-4);
    slope(tan20 * .99, 0, 10, &creep);
    ASSERTm("slides", creep > .5);
    PASS();
}

TEST R_07_sliding_sphere_rolls(void) {
    for (int dim = 2; dim <= 3; dim++) {
        fsi_shape plane = make_shape(FSI_SHAPE_PLANE, dim, 0, 0, 0, 0, 0),
                  ball = make_shape(FSI_SHAPE_SPHERE, dim, .2, 0, 0, 0, 0);
        fsi_solids solids = make_world(dim, 2, 0, fsi_vec(0, -G, 0));
        fsi_rigid_desc desc = body_at(FSI_RIGID_FIXED, &plane, 0, 0, 0),
                       given = body_at(FSI_RIGID_DYNAMIC, &ball, 0, .2, 0);
        /* 2 v0/(7 mu g) in 3D */
        double mu = .3, v0 = 4, k = dim == 3 ? .4 : .5, t_roll = v0 / (mu * 9.81) * k / (1 + k),
               found = -1, dt = 1. / 240;
        double last = v0;
        desc.friction = given.friction = (fsi_real)mu;
        given.v = fsi_vec((fsi_real)v0, 0, 0);
        fsi_solids_add(&solids, &desc, NULL);
        fsi_solids_add(&solids, &given, NULL);
        for (int i = 1; i <= 480; i++) {
            fsi_solids_step(&solids, (fsi_real)dt);
            double slip = (double)solids.body[1].v.x + .2 * (double)solids.body[1].spin.z;
            /* the slip falls at mu g (1 + 1/k) to its end */
            if (slip < 1e-3 * v0 && found < 0)
                found = (i - 1) * dt + dt * last / (mu * 9.81 * (1 + 1 / k) * dt);
            last = slip;
        }
        CHECK_REL(t_roll, found, .01);
        /* 5 v0 / 7 in 3D, 2 v0 / 3 for a disk */
        CHECK_REL(v0 / (1 + k), solids.body[1].v.x, .01);
        fsi_solids_free(&solids);
        fsi_shape_free(&plane);
        fsi_shape_free(&ball);
    }
    PASS();
}

static fsi_solids stack_world(int dim, const fsi_shape *plane, const fsi_shape *box, int count,
                              int upside) {
    fsi_solids solids = make_world(dim, count + 1, 0, fsi_vec(0, -G, 0));
    fsi_rigid_desc desc = body_at(FSI_RIGID_FIXED, plane, 0, 0, 0);
    fsi_solids_add(&solids, &desc, NULL);
    for (int i = 0; i < count; i++) {
        fsi_rigid_desc given =
            body_at(FSI_RIGID_DYNAMIC, box, 0, .5 + (upside ? count - 1 - i : i), 0);
        fsi_solids_add(&solids, &given, NULL);
    }
    return solids;
}

TEST R_08_stack_of_ten(int dim, int upside) {
    fsi_shape plane = make_shape(FSI_SHAPE_PLANE, dim, 0, 0, 0, 0, 0),
              box = make_shape(FSI_SHAPE_BOX, dim, 0, 0, .5, .5, .5);
    fsi_solids solids = stack_world(dim, &plane, &box, 10, upside);
    fsi_solids_report report;
    double worst = 0, drift = 0, force = 0;
    fsi_solids_measure(&solids, &report);
    double energy = report.kinetic + report.potential;
    for (int i = 0; i < 600; i++) {
        CHECK_OK(fsi_solids_step(&solids, FSI_R(1.) / 60));
        fsi_solids_measure(&solids, &report);
        if (report.penetration > worst)
            worst = report.penetration;
        CHECK_MOST(report.kinetic + report.potential - report.work,
                   energy * (1 + TOL(1e-13, 1e-6)));
        energy = report.kinetic + report.potential;
    }
    for (int k = 1; k <= 10; k++)
        drift = fmax(drift, hypot((double)solids.body[k].x.x, (double)solids.body[k].x.z));
    CHECK_MOST(worst, .01);
    CHECK_MOST(drift, .01);
    CHECK_MOST(report.kinetic, TOL(1e-4, 1e-1));
    double weight = 10 * (double)solids.body[1].mass * 9.81;
    for (int i = 0; i < solids.contact_count; i++)
        if (solids.contact[i].a.solid == 0)
            force -= (double)(solids.contact[i].impulse * solids.contact[i].normal.y) * 240;
    /* the floor carries ten boxes */
    CHECK_REL(weight, force, 1e-3);
    fsi_solids_free(&solids);
    fsi_shape_free(&plane);
    fsi_shape_free(&box);
    PASS();
}

/* Every pair of shapes: dropped on each other in a room, nothing gets through, momentum of the pair
 * without gravity is exact. */
TEST contact_momentum_through_every_impulse(void) {
    fsi_shape shape[5];
    uint64_t seed = 11;
    shape[0] = make_shape(FSI_SHAPE_SPHERE, 3, .4, 0, 0, 0, 0);
    shape[1] = make_shape(FSI_SHAPE_BOX, 3, 0, 0, .5, .3, .4);
    shape[2] = make_shape(FSI_SHAPE_CAPSULE, 3, .3, .6, 0, 0, 0);
    shape[3] = make_shape(FSI_SHAPE_TORUS, 3, .15, .45, 0, 0, 0);
    shape[4] = make_shape(FSI_SHAPE_BOX, 3, 0, 0, .7, .05, .5);
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 5; k++) {
            fsi_solids solids = make_world(3, 2, 0, fsi_vec(0, 0, 0));
            fsi_rigid_desc desc = body_at(FSI_RIGID_DYNAMIC, shape + i, -1.2, .1, .05),
                           given = body_at(FSI_RIGID_DYNAMIC, shape + k, 1.2, 0, 0);
            int hit = 0;
            desc.v = fsi_vec(3, 0, 0);
            given.v = fsi_vec(-3, 0, 0);
            desc.spin = fsi_vec((fsi_real)check_random(&seed), (fsi_real)check_random(&seed),
                                (fsi_real)check_random(&seed));
            given.spin = fsi_vec((fsi_real)check_random(&seed), (fsi_real)check_random(&seed),
                                 (fsi_real)check_random(&seed));
            desc.restitution = FSI_R(0.3);
            fsi_solids_add(&solids, &desc, NULL);
            fsi_solids_add(&solids, &given, NULL);
            fsi_solids_report r0;
            fsi_solids_measure(&solids, &r0);
            fsi_solids_report r1;
            for (int step = 0; step < 120; step++) {
                CHECK_OK(fsi_solids_step(&solids, FSI_R(1.) / 100));
                fsi_solids_measure(&solids, &r1);
                hit |= r1.contacts > 0;
                CHECK_MOST(r1.kinetic, r0.kinetic * (1 + TOL(1e-12, 1e-5)));
            }
            ASSERTm("they met", hit);
            ASSERTm("nothing passed through",
                    solids.body[0].x.x < solids.body[1].x.x || i == 3 || k == 3);
            for (int c = 0; c < 3; c++) {
                CHECK_NEAR(r0.momentum[c], r1.momentum[c], TOL(1e-12, 1e-5) * 2000);
                CHECK_NEAR(r0.angular_momentum[c], r1.angular_momentum[c], TOL(1e-12, 1e-5) * 4000);
            }
            fsi_solids_free(&solids);
        }
    for (int i = 0; i < 5; i++)
        fsi_shape_free(shape + i);
    PASS();
}

/* Plates, balls and capsules at many body lengths a step against a thin plank and against each
 * other, flat, edge on and tumbling. */
TEST contact_fast_thin_bodies_do_not_tunnel(void) {
    fsi_shape plank = make_shape(FSI_SHAPE_BOX, 3, 0, 0, 1, .01, 1), shape[4];
    shape[0] = make_shape(FSI_SHAPE_SPHERE, 3, .05, 0, 0, 0, 0);
    shape[1] = make_shape(FSI_SHAPE_BOX, 3, 0, 0, .2, .01, .2);
    shape[2] = make_shape(FSI_SHAPE_CAPSULE, 3, .02, .3, 0, 0, 0);
    shape[3] = make_shape(FSI_SHAPE_TORUS, 3, .02, .1, 0, 0, 0);
    /* fixed plank; plank flying the other way */
    for (int both = 0; both < 2; both++)
        for (int k = 0; k < 4; k++)
            for (int turn = 0; turn < 4; turn++) {
                fsi_solids solids = make_world(3, 2, 0, fsi_vec(0, 0, 0));
                fsi_rigid_desc desc = body_at(both ? FSI_RIGID_DYNAMIC : FSI_RIGID_FIXED, &plank, 0,
                                              0, 0),
                               given = body_at(FSI_RIGID_DYNAMIC, shape + k, .1, 1, .1);
                given.v = fsi_vec(turn == 3 ? 40 : 0, -300, 0); /* 5 m a step through 2 cm */
                if (turn)
                    given.q = fsi_quat_from_rotation(
                        turn == 1 ? fsi_vec(0, 0, FSI_R(1.5707963))
                                  : fsi_vec(FSI_R(0.7), FSI_R(0.2), FSI_R(0.4)));
                if (turn == 2)
                    given.spin = fsi_vec(30, 10, 50);
                if (both)
                    desc.v = fsi_vec(0, 200, 0);
                fsi_solids_add(&solids, &desc, NULL);
                fsi_solids_add(&solids, &given, NULL);
                for (int i = 0; i < 10; i++) {
                    CHECK_OK(fsi_solids_step(&solids, FSI_R(1.) / 60));
                    /* later the oblique one leaves over the rim, and a plank that was hit tumbles
                     */
                    if (i < (turn == 3 ? 1 : both ? 4 : 10))
                        ASSERTm("still above the plank",
                                fsi_mat3_tmul_vec(&solids.body[0].rotation,
                                                  fsi_vec_sub(solids.body[1].x, solids.body[0].x))
                                        .y
                                    > 0);
                }
                fsi_solids_free(&solids);
            }
    fsi_shape_free(&plank);
    for (int k = 0; k < 4; k++)
        fsi_shape_free(shape + k);
    PASS();
}

/* A pile whose weight becomes 300 and up to 1e5 times larger: nothing is thrown out, balls stay
   within a seventh of their radius, and steps far too long are told. (Contacts whose points had
   left their bodies kept the masses of short arms: impulses grew from sweep to sweep and threw
   bodies 3e23 m.) */
TEST contact_under_absurd_gravity(void) {
    static const double g[] = {3e3, 1e5, 1e6};
    fsi_shape room = make_shape(FSI_SHAPE_ROOM, 3, 0, 0, 2, 2, 2),
              box = make_shape(FSI_SHAPE_BOX, 3, 0, 0, .1, .08, .12),
              ball = make_shape(FSI_SHAPE_SPHERE, 3, .1, 0, 0, 0, 0);
    for (int k = 0; k < 3; k++) {
        fsi_solids solids = make_world(3, 7, 0, fsi_vec(0, -G, 0));
        fsi_rigid_desc desc = body_at(FSI_RIGID_FIXED, &room, 0, 2, 0);
        int told = 0;
        CHECK_OK(fsi_solids_add(&solids, &desc, NULL));
        for (int i = 0; i < 6; i++) {
            desc = body_at(FSI_RIGID_DYNAMIC, i % 3 == 2 ? &ball : &box, .03 * i, .2 + .25 * i,
                           .02 * (i % 2));
            desc.friction = FSI_R(0.4);
            CHECK_OK(fsi_solids_add(&solids, &desc, NULL));
        }
        for (int n = 0; n < 230; n++) {
            fsi_result result = fsi_solids_step(&solids, FSI_R(0.01));
            if (n == 30)
                solids.desc.gravity = fsi_vec(0, (fsi_real)-g[k], 0);
            ASSERT(result >= 0);
            told += result == FSI_DT_TOO_LARGE;
            for (int i = 1; i < 7; i++)
                CHECK_MOST(fsi__length(solids.body[i].x), 1e3);
        }
        ASSERT(k == 0 || told > 190);
        ASSERT(k > 0 || told == 0);
        for (int i = 3; i < 7; i += 3)
            CHECK_NEAR(.1 - .0143, solids.body[i].x.y, k ? 2e-3 : 2e-2);
        for (int i = 1; i < 7 && k == 0; i++)
            ASSERT(solids.body[i].x.y > 0);
        fsi_solids_free(&solids);
    }
    fsi_shape_free(&room);
    fsi_shape_free(&box);
    fsi_shape_free(&ball);
    PASS();
}

/* Shapes of all kinds in a room with a bumpy floor come to rest inside it, and energy never grows.
 */
static fsi_surface tetra(void) {
    static const fsi_real x[12] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1};
    static const int32_t t[12] = {0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3};
    fsi_surface surface;
    memset(&surface, 0, sizeof surface);
    surface.dim = 3;
    surface.vertex_count = 4;
    surface.element_count = 4;
    surface.closed = 1;
    surface.x = x;
    surface.index = t;
    return surface;
}

typedef struct zoo {
    fsi_shape s[9];
    fsi_solids w;
} zoo;

static void zoo_make(zoo *z, int bodies) {
    fsi_surface surface = tetra();
    fsi_shape_part part[2];
    static fsi_real height[17 * 17];
    z->s[0] = make_shape(FSI_SHAPE_SPHERE, 3, .3, 0, 0, 0, 0);
    z->s[1] = make_shape(FSI_SHAPE_BOX, 3, 0, 0, .3, .2, .25);
    z->s[2] = make_shape(FSI_SHAPE_CAPSULE, 3, .2, .4, 0, 0, 0);
    z->s[3] = make_shape(FSI_SHAPE_TORUS, 3, .12, .3, 0, 0, 0);
    fsi_shape_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.kind = FSI_SHAPE_MESH;
    desc.surface = &surface;
    desc.sdf_cells = 16;
    if (fsi_shape_init(z->s + 4, &desc) != FSI_OK)
        printf("\n  mesh refused\n");
    memset(part, 0, sizeof part);
    part[0].shape = z->s;
    part[0].x = fsi_vec(-.4f, 0, 0);
    part[1].shape = z->s + 1;
    part[1].x = fsi_vec(.2f, 0, 0);
    memset(&desc, 0, sizeof desc);
    desc.kind = FSI_SHAPE_COMPOUND;
    desc.part = part;
    desc.part_count = 2;
    if (fsi_shape_init(z->s + 5, &desc) != FSI_OK)
        printf("\n  compound refused\n");
    z->s[6] = make_shape(FSI_SHAPE_ROOM, 3, 0, 0, 2, 4, 2);
    for (int i = 0; i < 17 * 17; i++)
        height[i] = (fsi_real)(.15 * sin(1.3 * (i % 17)) * cos(1.1 * (i / 17)));
    memset(&desc, 0, sizeof desc);
    desc.kind = FSI_SHAPE_HEIGHT;
    desc.height = height;
    desc.nx = desc.nz = 17;
    desc.spacing = FSI_R(0.25);
    if (fsi_shape_init(z->s + 7, &desc) != FSI_OK)
        printf("\n  height field refused\n");
    z->w = make_world(3, bodies + 2, 0, fsi_vec(0, -G, 0));
    for (int i = 0; i < bodies + 2; i++) {
        fsi_rigid_desc given = body_at(i < 2 ? FSI_RIGID_FIXED : FSI_RIGID_DYNAMIC,
                                       z->s
                                           + (i == 0   ? 6
                                              : i == 1 ? 7
                                                       : i % 6),
                                       0, i == 0 ? 4 : 0, 0);
        if (i >= 2) {
            given.x = fsi_vec((fsi_real)(-1.2 + 1.2 * (i % 3)), (fsi_real)(.8 + .9 * (i / 9)),
                              (fsi_real)(-1.2 + 1.2 * (i / 3 % 3)));
            given.spin = fsi_vec(1, (fsi_real)(i % 5), 0);
        }
        given.angular_damping = given.linear_damping = FSI_R(0.05);
        if (fsi_solids_add(&z->w, &given, NULL) != FSI_OK)
            printf("\n  body refused\n");
    }
}

static void zoo_free(zoo *z) {
    fsi_solids_free(&z->w);
    for (int i = 0; i < 8; i++)
        fsi_shape_free(z->s + i);
}

TEST contact_all_kinds_settle_in_a_room(void) {
    zoo z;
    double grown = 0, worked = 0;
    zoo_make(&z, 27);
    fsi_solids_report report;
    fsi_solids_measure(&z.w, &report);
    double start;
    double energy = start = report.kinetic + report.potential;
    for (int i = 0; i < 600; i++) {
        CHECK_OK(fsi_solids_step(&z.w, FSI_R(1.) / 120));
        fsi_solids_measure(&z.w, &report);
        grown = fmax(grown, report.kinetic + report.potential - energy - report.work);
        worked = fmax(worked, report.work);
        energy = report.kinetic + report.potential;
    }
    if (getenv("FSI_VERBOSE"))
        printf("room: energy %.0f -> %.0f J, largest rise in a step %.2e J beyond the work of "
               "opening overlaps (at most %.2e J), kinetic %.3g\n",
               start, energy, grown, worked, report.kinetic);
    /* lifting bodies out of overlap is all the solver may add */
    CHECK_MOST(grown, TOL(1e-12, 1e-5) * start);
    CHECK_MOST(worked, 1e-3 * start);
    CHECK_MOST(report.penetration, .03);
    CHECK_MOST(report.kinetic, 20); /* of some 40 kJ dropped */
    for (int k = 2; k < z.w.body_count; k++) {
        fsi_vec3 x = z.w.body[k].x;
        ASSERTm("inside the room",
                fabs((double)x.x) < 2 && fabs((double)x.z) < 2 && x.y > FSI_R(-0.15));
    }
    zoo_free(&z);
    PASS();
}

/* Elastic spheres in a box without gravity: energy is kept through hundreds of impacts. */
TEST contact_elastic_gas_keeps_energy(void) {
    fsi_shape ball = make_shape(FSI_SHAPE_SPHERE, 3, .1, 0, 0, 0, 0),
              room = make_shape(FSI_SHAPE_ROOM, 3, 0, 0, 1, 1, 1);
    fsi_solids solids = make_world(3, 28, 0, fsi_vec(0, 0, 0));
    fsi_rigid_desc desc = body_at(FSI_RIGID_FIXED, &room, 0, 0, 0);
    uint64_t seed = 5;
    desc.friction = 0;
    desc.restitution = 1;
    fsi_solids_add(&solids, &desc, NULL);
    for (int i = 0; i < 27; i++) {
        fsi_rigid_desc given = body_at(FSI_RIGID_DYNAMIC, &ball, .5 * (i % 3 - 1),
                                       .5 * (i / 3 % 3 - 1), .5 * (i / 9 - 1));
        given.restitution = 1;
        given.friction = 0;
        given.v = fsi_vec((fsi_real)check_random(&seed), (fsi_real)check_random(&seed),
                          (fsi_real)check_random(&seed));
        fsi_solids_add(&solids, &given, NULL);
    }
    fsi_solids_report a;
    fsi_solids_measure(&solids, &a);
    fsi_solids_report b;
    for (int i = 0; i < 2000; i++) {
        CHECK_OK(fsi_solids_step(&solids, FSI_R(0.005)));
        fsi_solids_measure(&solids, &b);
        CHECK_MOST(b.kinetic, a.kinetic * (1 + TOL(1e-9, 5e-3)));
    }
    CHECK_REL(a.kinetic, b.kinetic, .05);
    fsi_solids_free(&solids);
    fsi_shape_free(&ball);
    fsi_shape_free(&room);
    PASS();
}

/* ------------------------------------------------------------------------------------------------
 * joints */
TEST R_09_pendulum_of_ten_links(void) {
    fsi_shape rod = make_shape(FSI_SHAPE_BOX, 3, 0, 0, .5, .05, .05),
              ball = make_shape(FSI_SHAPE_SPHERE, 3, .05, 0, 0, 0, 0);
    fsi_solids solids = make_world(3, 11, 10, fsi_vec(0, -G, 0));
    fsi_rigid_desc desc = body_at(FSI_RIGID_FIXED, &ball, 0, 0, 0);
    double worst = 0, high = 0;
    desc.team = 1; /* links pass the pin freely */
    fsi_solids_add(&solids, &desc, NULL);
    for (int i = 0; i < 10; i++) {
        fsi_rigid_desc given = body_at(FSI_RIGID_DYNAMIC, &rod, .5 + i, 0, 0);
        given.team = 1;
        fsi_solids_add(&solids, &given, NULL);
        fsi_joint_desc options;
        memset(&options, 0, sizeof options);
        options.kind = i % 2 ? FSI_JOINT_POINT : FSI_JOINT_HINGE;
        options.a = i + 1;
        options.b = i;
        options.anchor = fsi_vec((fsi_real)i, 0, 0);
        CHECK_OK(fsi_solids_join(&solids, &options, NULL));
    }
    fsi_solids_report report;
    fsi_solids_measure(&solids, &report);
    double e0 = report.kinetic + report.potential;
    for (int i = 0; i < 60 * 240; i++) {
        fsi_solids_step(&solids, FSI_R(1.) / 240);
        fsi_solids_measure(&solids, &report);
        if (report.joint_error > worst)
            worst = report.joint_error;
        if (report.kinetic + report.potential - e0 > high)
            high = report.kinetic + report.potential - e0;
    }
    CHECK_MOST(worst, 1e-3);
    /* conservative: E - E0 below 1e-3 of m g L (100 kg, 10 m) at all times */
    CHECK_MOST(high, 1e-3 * 100 * 9.81 * 10);
    fsi_solids_free(&solids);
    fsi_shape_free(&rod);
    fsi_shape_free(&ball);
    PASS();
}

TEST R_09_rod_period(void) {
    for (int dim = 2; dim <= 3; dim++) {
        fsi_shape rod = make_shape(FSI_SHAPE_BOX, dim, 0, 0, .005, .5, .005),
                  ball = make_shape(FSI_SHAPE_SPHERE, dim, .05, 0, 0, 0, 0);
        fsi_solids solids = make_world(dim, 2, 1, fsi_vec(0, -G, 0));
        fsi_rigid_desc desc = body_at(FSI_RIGID_FIXED, &ball, 0, 0, 0);
        double th = .02, exact = 2 * 3.14159265358979323846 * sqrt(2. / (3 * 9.81)), t = 0,
               last = th, cross[3], dt = 1. / 240;
        int found = 0;
        fsi_rigid_desc given = body_at(FSI_RIGID_DYNAMIC, &rod, .5 * sin(th), -.5 * cos(th), 0);
        given.q = fsi_quat_from_rotation(fsi_vec(0, 0, (fsi_real)th));
        fsi_solids_add(&solids, &desc, NULL);
        fsi_solids_add(&solids, &given, NULL);
        fsi_joint_desc options;
        memset(&options, 0, sizeof options);
        options.kind = FSI_JOINT_HINGE;
        options.a = 1;
        options.b = 0;
        CHECK_OK(fsi_solids_join(&solids, &options, NULL));
        for (int i = 0; i < 1200 && found < 3; i++) {
            fsi_solids_step(&solids, (fsi_real)dt);
            t += dt;
            double x = (double)solids.body[1].x.x;
            if (x * last < 0)
                cross[found++] = t - dt * x / (x - last);
            last = x;
        }
        ASSERT_EQ(3, found);
        CHECK_REL(exact, cross[2] - cross[0], .005);
        fsi_solids_free(&solids);
        fsi_shape_free(&rod);
        fsi_shape_free(&ball);
    }
    PASS();
}

static fsi_joint_desc joint_of(fsi_joint_kind kind, int a, int b, fsi_vec3 at, fsi_vec3 axis) {
    fsi_joint_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.kind = kind;
    desc.a = a;
    desc.b = b;
    desc.anchor = at;
    desc.axis = axis;
    return desc;
}

TEST joints_motor_limit_spring_weld(void) {
    fsi_shape box = make_shape(FSI_SHAPE_BOX, 3, 0, 0, .5, .1, .1);
    fsi_solids solids = make_world(3, 7, 6, fsi_vec(0, -G, 0));
    for (int i = 0; i < 7; i++) {
        fsi_rigid_desc desc =
            body_at(i ? FSI_RIGID_DYNAMIC : FSI_RIGID_FIXED, &box, i == 1 ? .5 : 0, 0, 3 * i);
        fsi_solids_add(&solids, &desc, NULL);
    }
    fsi_joint_desc desc = joint_of(FSI_JOINT_HINGE, 1, 0, fsi_vec(0, 0, 3), fsi_vec(0, 0, 1));
    desc.limit = 1;
    desc.lower = FSI_R(-0.5);
    desc.upper = 1;
    CHECK_OK(fsi_solids_join(&solids, &desc, NULL)); /* falls onto its lower stop */
    desc = joint_of(FSI_JOINT_HINGE, 2, 0, fsi_vec(0, 0, 6), fsi_vec(1, 0, 0));
    desc.motor = 1;
    desc.motor_speed = 3;
    desc.motor_limit = 1e4f;
    CHECK_OK(fsi_solids_join(&solids, &desc, NULL)); /* turns at 3 rad/s */
    desc = joint_of(FSI_JOINT_PRISMATIC, 3, 0, fsi_vec(0, 0, 9), fsi_vec(0, 1, 0));
    desc.stiffness = 4000;
    desc.damping = 400;
    CHECK_OK(fsi_solids_join(&solids, &desc, NULL)); /* sags by m g / k */
    desc = joint_of(FSI_JOINT_WELD, 4, 0, fsi_vec(-.5f, 0, 12), fsi_vec(0, 0, 0));
    CHECK_OK(fsi_solids_join(&solids, &desc, NULL));
    desc = joint_of(FSI_JOINT_SPRING, 5, 0, fsi_vec(0, 0, 15), fsi_vec(0, 0, 0));
    desc.anchor_b = fsi_vec(0, 2, 15);
    desc.stiffness = 4000;
    desc.damping = 400;
    CHECK_OK(fsi_solids_join(&solids, &desc, NULL));
    desc = joint_of(FSI_JOINT_PRISMATIC, 6, 0, fsi_vec(0, 0, 18), fsi_vec(1, 0, 0));
    desc.motor = 1;
    desc.motor_speed = FSI_R(0.5);
    desc.motor_limit = 1e4f;
    CHECK_OK(fsi_solids_join(&solids, &desc, NULL));
    CHECK_RESULT(FSI_ERR_SIZE, fsi_solids_join(&solids, &desc, NULL));
    for (int i = 0; i < 960; i++)
        CHECK_OK(fsi_solids_step(&solids, FSI_R(1.) / 240));
    fsi_solids_report report;
    fsi_solids_measure(&solids, &report);
    CHECK_MOST(report.joint_error, TOL(1e-4, 1e-3));
    CHECK_NEAR(-.5 * sin(.5), solids.body[1].x.y, 2e-3);
    CHECK_NEAR(3, solids.body[2].spin.x, 1e-3);
    CHECK_NEAR(-(double)solids.body[3].mass * 9.81 / 4000, solids.body[3].x.y, 1e-3);
    CHECK_NEAR(0, solids.body[4].x.y, TOL(1e-4, 1e-3));
    CHECK_NEAR(-(double)solids.body[5].mass * 9.81 / 4000, solids.body[5].x.y, 2e-3);
    CHECK_NEAR(2, solids.body[6].x.x, 1e-2);
    desc.a = desc.b;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_solids_join(&solids, &desc, NULL));
    fsi_solids_free(&solids);
    fsi_shape_free(&box);
    PASS();
}

/* A weight hangs on a joint that holds half of it: it falls at g / 2. A joint torn apart comes back
 * without flinging its bodies. */
TEST joints_have_limits(void) {
    fsi_shape box = make_shape(FSI_SHAPE_BOX, 3, 0, 0, .5, .1, .1);
    fsi_solids solids = make_world(3, 4, 2, fsi_vec(0, -G, 0));
    fsi_quat one = {1, 0, 0, 0};
    double fast = 0;
    for (int i = 0; i < 4; i++) {
        fsi_rigid_desc desc =
            body_at(i % 2 ? FSI_RIGID_DYNAMIC : FSI_RIGID_FIXED, &box, 0, 0, i < 2 ? 0 : 9);
        fsi_solids_add(&solids, &desc, NULL);
    }
    fsi_joint_desc desc = joint_of(FSI_JOINT_PRISMATIC, 1, 0, fsi_vec(0, 0, 0), fsi_vec(1, 0, 0));
    desc.max_force = solids.body[1].mass * G / 2;
    CHECK_OK(fsi_solids_join(&solids, &desc, NULL));
    desc = joint_of(FSI_JOINT_WELD, 3, 2, fsi_vec(0, 0, 9), fsi_vec(0, 0, 0));
    CHECK_OK(fsi_solids_join(&solids, &desc, NULL));
    for (int i = 0; i < 60; i++)
        CHECK_OK(fsi_solids_step(&solids, FSI_R(1.) / 60));
    CHECK_NEAR(-9.81 / 2, solids.body[1].v.y, .02);
    fsi_solids_report report;
    fsi_solids_measure(&solids, &report);
    ASSERT_EQ(1, report.joints_limited);
    CHECK_OK(fsi_solids_set_pose(&solids, 3, fsi_vec(3, 0, 9), one));
    for (int i = 0; i < 240; i++) {
        CHECK_OK(fsi_solids_step(&solids, FSI_R(1.) / 60));
        fast = fmax(fast, (double)fsi_vec_length(solids.body[3].v));
    }
    CHECK_NEAR(0, solids.body[3].x.x, 1e-3);
    /* it moved 3 m, its velocity never knew */
    CHECK_MOST(fast, .1);
    desc.max_force = -1;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_solids_join(&solids, &desc, NULL));
    fsi_solids_free(&solids);
    fsi_shape_free(&box);
    PASS();
}

/* Three tumbling bodies on two joints, the second of which slips beyond 100 N, 30 N m: nobody
   drives them, so energy only falls. Shortening the impulse after a solve for all joints had
   doubled it every few steps. Momentum stays as it is. */
TEST joints_with_limits_add_no_energy(void) {
    uint64_t seed = 7;
    int slipped = 0;
    for (int dim = 2; dim < 4; dim++)
        for (int first = FSI_JOINT_POINT; first <= FSI_JOINT_WELD; first++)
            for (int second = FSI_JOINT_POINT; second <= FSI_JOINT_WELD; second++)
                for (int trial = 0; trial < 4; trial++) {
                    fsi_shape box = make_shape(FSI_SHAPE_BOX, dim, 0, 0, .4, .3, .5);
                    fsi_solids solids = make_world(dim, 3, 2, fsi_vec(0, 0, 0));
                    fsi_vec3 axis = dim == 3 ? fsi_vec(FSI_R(0.3), 1, FSI_R(0.2))
                                             : fsi_vec(0,
                                                       first == FSI_JOINT_PRISMATIC
                                                           || second == FSI_JOINT_PRISMATIC,
                                                       0);
                    for (int i = 0; i < 3; i++) {
                        fsi_rigid_desc desc =
                            body_at(FSI_RIGID_DYNAMIC, &box, FSI_R(1.3) * (fsi_real)i, 0, 0);
                        fsi_real v[6];
                        for (int k = 0; k < 6; k++)
                            v[k] = (fsi_real)(2 * check_random(&seed));
                        desc.density = 300 + 100 * (fsi_real)i;
                        desc.v = fsi_vec(v[0], v[1], dim == 3 ? v[2] : 0);
                        desc.spin = fsi_vec(dim == 3 ? v[3] : 0, dim == 3 ? v[4] : 0, v[5]);
                        fsi_solids_add(&solids, &desc, NULL);
                    }
                    fsi_joint_desc desc =
                        joint_of((fsi_joint_kind)first, 0, 1, fsi_vec(FSI_R(0.65), 0, 0), axis);
                    CHECK_OK(fsi_solids_join(&solids, &desc, NULL));
                    desc = joint_of((fsi_joint_kind)second, 1, 2, fsi_vec(FSI_R(1.95), 0, 0), axis);
                    desc.max_force = 100;
                    desc.max_torque = 30;
                    CHECK_OK(fsi_solids_join(&solids, &desc, NULL));
                    fsi_solids_report a;
                    fsi_solids_measure(&solids, &a);
                    fsi_solids_report r;
                    for (int i = 0; i < 100; i++) {
                        CHECK_OK(fsi_solids_step(&solids, FSI_R(1.) / 60));
                        fsi_solids_measure(&solids, &r);
                        slipped += r.joints_limited;
                        CHECK_MOST(r.kinetic, 1.02 * a.kinetic);
                    }
                    for (int k = 0; k < 3; k++)
                        CHECK_NEAR(a.momentum[k], r.momentum[k], TOL(1e-9, 1e-1));
                    fsi_solids_free(&solids);
                    fsi_shape_free(&box);
                }
    ASSERT(slipped > 1000);
    PASS();
}

/* A scripted arm presses a box into the floor for two seconds and draws it away: no impulses fit,
   and those the arm starts from must not grow meanwhile (to 47,000 N s in a substep they did). How
   fast the box pops out at last is not held: contact's own guess still throws it in one of the
   cases. */
TEST joint_against_a_floor(void) {
    for (int dim = 2; dim < 4; dim++)
        for (int kind = FSI_JOINT_POINT; kind <= FSI_JOINT_WELD; kind++) {
            fsi_shape box = make_shape(FSI_SHAPE_BOX, dim, 0, 0, .3, .2, .3),
                      slab = make_shape(FSI_SHAPE_BOX, dim, 0, 0, 2, .5, 2);
            fsi_solids solids = make_world(dim, 3, 1, fsi_vec(0, -G, 0));
            fsi_rigid_desc desc[3] = {body_at(FSI_RIGID_FIXED, &slab, 0, -.5, 0),
                                      body_at(FSI_RIGID_DYNAMIC, &box, .05, .2, 0),
                                      body_at(FSI_RIGID_SCRIPTED, &box, 0, 1, 0)};
            fsi_joint_desc given = joint_of((fsi_joint_kind)kind, 1, 2,
                                            fsi_vec(FSI_R(0.05), FSI_R(0.5), 0), fsi_vec(0, 1, 0));
            double most = 0;
            desc[2].v = fsi_vec(FSI_R(0.05), FSI_R(-0.25), 0);
            for (int i = 0; i < 3; i++)
                fsi_solids_add(&solids, desc + i, NULL);
            given.limit = kind == FSI_JOINT_PRISMATIC;
            given.lower = FSI_R(-0.1);
            given.upper = FSI_R(0.1);
            CHECK_OK(fsi_solids_join(&solids, &given, NULL));
            for (int i = 0; i < 240; i++) {
                if (i == 120)
                    solids.body[2].v = fsi_vec(1, FSI_R(0.25), 0);
                CHECK_OK(fsi_solids_step(&solids, FSI_R(1.) / 60));
                most = fmax(most, fabs((double)solids.joint[0].impulse[1])
                                      + fabs((double)solids.joint[0].impulse_limit));
            }
            /* N s in a substep: 3 m/s of the box */
            CHECK_MOST(most, 3 * (double)solids.body[1].mass);
            fsi_solids_free(&solids);
            fsi_shape_free(&box);
            fsi_shape_free(&slab);
        }
    PASS();
}

TEST joints_keep_momentum(void) {
    fsi_shape box = make_shape(FSI_SHAPE_BOX, 3, 0, 0, .5, .2, .1);
    fsi_solids solids = make_world(3, 5, 4, fsi_vec(0, 0, 0));
    fsi_joint_kind kind[4] = {FSI_JOINT_POINT, FSI_JOINT_HINGE, FSI_JOINT_WELD,
                              FSI_JOINT_PRISMATIC};
    uint64_t seed = 9;
    for (int i = 0; i < 5; i++) {
        fsi_rigid_desc desc = body_at(FSI_RIGID_DYNAMIC, &box, i, 0, 0);
        desc.v = fsi_vec((fsi_real)check_random(&seed), (fsi_real)check_random(&seed),
                         (fsi_real)check_random(&seed));
        desc.spin = fsi_vec((fsi_real)check_random(&seed), (fsi_real)check_random(&seed),
                            (fsi_real)check_random(&seed));
        desc.team = 1;
        fsi_solids_add(&solids, &desc, NULL);
        if (i > 0) {
            fsi_joint_desc given = joint_of(
                kind[i - 1], i, i - 1, fsi_vec((fsi_real)i - FSI_R(0.5), 0, 0), fsi_vec(0, 1, 0));
            CHECK_OK(fsi_solids_join(&solids, &given, NULL));
        }
    }
    fsi_solids_report a;
    fsi_solids_measure(&solids, &a);
    for (int i = 0; i < 1000; i++)
        CHECK_OK(fsi_solids_step(&solids, FSI_R(0.01)));
    fsi_solids_report b;
    fsi_solids_measure(&solids, &b);
    for (int c = 0; c < 3; c++) {
        CHECK_NEAR(a.momentum[c], b.momentum[c], TOL(1e-10, 1e-2));
        CHECK_NEAR(a.angular_momentum[c], b.angular_momentum[c], TOL(1e-9, 1e-1));
    }
    CHECK_MOST(b.kinetic, a.kinetic);
    fsi_solids_free(&solids);
    fsi_shape_free(&box);
    PASS();
}

/* ------------------------------------------------------------------------------------------------
 * energy */
/* The zoo with all that does work: a motor's paddle, a scripted plate that shoves, springs, forces,
   torques, damping, bounces, a heavy body on light ones. After every step the energy is at most
   what it was and the reported work. */
static int energy_scene(int kind, int steps, double *worst, double *scale, double *driven,
                        double *opened) {
    zoo z;
    fsi_shape plate = make_shape(FSI_SHAPE_BOX, 3, 0, 0, .1, .5, 1.5);
    zoo_make(&z, 0);
    fsi_solids solids = make_world(3, 24, 8, fsi_vec(0, kind == 3 ? 0 : -G, 0));
    for (int i = 0; i < 20; i++) {
        fsi_rigid_desc desc = body_at(i < 2 ? FSI_RIGID_FIXED : FSI_RIGID_DYNAMIC,
                                      z.s
                                          + (i == 0   ? 6
                                             : i == 1 ? 7
                                                      : i % 6),
                                      0, i == 0 ? 4 : 0, 0);
        if (i >= 2)
            desc.x = fsi_vec((fsi_real)(-1 + (i % 3)), (fsi_real)(.7 + .9 * (i / 9)),
                             (fsi_real)(-1 + (i / 3 % 3)));
        if (i == 19)
            desc.density = 20000;
        desc.restitution = kind == 2 || kind == 3 ? 1 : FSI_R(0.2);
        desc.friction = kind == 3 ? 0 : FSI_R(0.6);
        if (kind == 3 && i >= 2)
            desc.v = fsi_vec((fsi_real)(3 * sin(5. * i)), (fsi_real)(3 * cos(3. * i)),
                             (fsi_real)(i % 4 - 2));
        if (fsi_solids_add(&solids, &desc, NULL) != FSI_OK)
            return 0;
    }
    {
        fsi_rigid_desc desc = body_at(FSI_RIGID_SCRIPTED, &plate, -1.8, .6, 0),
                       given = body_at(FSI_RIGID_DYNAMIC, z.s + 1, 0, 3, 0);
        if (fsi_solids_add(&solids, &desc, NULL) != FSI_OK
            || fsi_solids_add(&solids, &given, NULL) != FSI_OK)
            return 0;
        fsi_joint_desc options =
            joint_of(FSI_JOINT_HINGE, 21, 1, fsi_vec(0, 3, 0), fsi_vec(0, 0, 1));
        options.motor = 1;
        options.motor_speed = 6;
        options.motor_limit = 2000;
        if (kind != 3 && fsi_solids_join(&solids, &options, NULL) != FSI_OK)
            return 0;
        options = joint_of(FSI_JOINT_SPRING, 5, 1, solids.body[5].x, fsi_vec(0, 0, 0));
        options.anchor_b = fsi_vec(0, 3, 0);
        options.stiffness = 3000;
        options.rest = 1;
        if (fsi_solids_join(&solids, &options, NULL) != FSI_OK)
            return 0;
        options = joint_of(FSI_JOINT_SPRING, 7, 8, solids.body[7].x, fsi_vec(0, 0, 0));
        options.anchor_b = solids.body[8].x;
        options.stiffness = 20000;
        options.damping = 30;
        if (fsi_solids_join(&solids, &options, NULL) != FSI_OK)
            return 0;
        /* hangs on the scripted plate */
        options = joint_of(FSI_JOINT_POINT, 10, 20, fsi_vec(FSI_R(-1.6), FSI_R(1.2), 0),
                           fsi_vec(0, 0, 0));
        if (kind == 1 && fsi_solids_join(&solids, &options, NULL) != FSI_OK)
            return 0;
    }
    fsi_solids_report report;
    fsi_solids_measure(&solids, &report);
    double energy = report.kinetic + report.potential;
    *worst = *scale = *driven = *opened = 0;
    for (int i = 0; i < steps; i++) {
        double s = sin(.05 * i);
        if (kind != 3)
            fsi_solids_set_velocity(&solids, 20,
                                    fsi_vec((fsi_real)(2 * cos(.04 * i)), 0, (fsi_real)(.5 * s)),
                                    fsi_vec(0, (fsi_real)s, (fsi_real)(.5 * s)));
        for (int k = 2; k < 20 && kind == 1; k += 3) {
            solids.body[k].force = fsi_vec((fsi_real)(3000 * s), 500, 0);
            solids.body[k].torque = fsi_vec(0, (fsi_real)(100 * s), 50);
        }
        if (fsi_solids_step(&solids, FSI_R(1.) / (kind == 2 ? 60 : 120)) != FSI_OK)
            return 0;
        fsi_solids_measure(&solids, &report);
        *worst = fmax(*worst, report.kinetic + report.potential - energy - report.work
                                  - report.drive - report.others - report.applied);
        *scale = fmax(*scale, fabs(report.potential) + report.kinetic);
        *driven += fabs(report.drive) + fabs(report.applied);
        *opened += report.work;
        energy = report.kinetic + report.potential;
    }
    if (getenv("FSI_VERBOSE"))
        printf("energy scene %d: worst growth beyond work %.2e of %.2e J; driven %.2e J, opened "
               "%.2e J, end %.2e J, kinetic %.2e J\n",
               kind, *worst, *scale, *driven, *opened, energy, report.kinetic);
    fsi_solids_free(&solids);
    fsi_shape_free(&plate);
    zoo_free(&z);
    return 1;
}

TEST energy_never_grows_without_work(int kind) {
    double worst, scale, driven, opened;
    ASSERT(energy_scene(kind, 240, &worst, &scale, &driven, &opened));
    CHECK_MOST(worst, TOL(1e-12, 2e-5) * scale);
    ASSERTm("something was driven", kind == 3 || driven > 10);
    /* and lifting out of overlaps is little of it */
    CHECK_MOST(opened, .02 * (scale + driven));
    PASS();
}

/* In free flight the report is exact: force, torque and damping are all there is. A swinging mass
 * on a spring keeps its energy but for damping. */
TEST energy_report_is_exact(void) {
    fsi_shape box = make_shape(FSI_SHAPE_BOX, 3, 0, 0, .3, .2, .25),
              ball = make_shape(FSI_SHAPE_SPHERE, 3, .1, 0, 0, 0, 0);
    fsi_solids solids = make_world(3, 1, 0, fsi_vec(0, -G, 0));
    fsi_rigid_desc desc = body_at(FSI_RIGID_DYNAMIC, &box, 0, 0, 0);
    desc.v = fsi_vec(1, 2, 3);
    desc.spin = fsi_vec(1, 5, 2);
    desc.linear_damping = FSI_R(0.3);
    desc.angular_damping = FSI_R(0.1);
    fsi_solids_add(&solids, &desc, NULL);
    fsi_solids_report a;
    fsi_solids_report b;
    for (int i = 0; i < 50; i++) {
        fsi_solids_measure(&solids, &a);
        solids.body[0].force = fsi_vec(100, 50, -20);
        solids.body[0].torque = fsi_vec(3, (fsi_real)i, 1);
        CHECK_OK(fsi_solids_step(&solids, FSI_R(0.01)));
        fsi_solids_measure(&solids, &b);
        /* the spin turns within the step */
        CHECK_NEAR(b.kinetic + b.potential - a.kinetic - a.potential, b.applied,
                   TOL(2e-5, 2e-3) * a.kinetic);
        CHECK_NEAR(0, fabs(b.work) + fabs(b.drive) + fabs(b.others), 0);
    }
    fsi_solids_free(&solids);
    solids = make_world(3, 2, 1, fsi_vec(0, 0, 0));
    desc = body_at(FSI_RIGID_FIXED, &ball, 0, 0, 0);
    fsi_solids_add(&solids, &desc, NULL);
    desc = body_at(FSI_RIGID_DYNAMIC, &ball, 1, 0, 0);
    desc.mass = 1;
    desc.v = fsi_vec(0, 3, 1);
    fsi_solids_add(&solids, &desc, NULL);
    fsi_joint_desc given = joint_of(FSI_JOINT_SPRING, 1, 0, fsi_vec(1, 0, 0), fsi_vec(0, 0, 0));
    given.stiffness = 50;
    given.rest = FSI_R(0.5);
    CHECK_OK(fsi_solids_join(&solids, &given, NULL));
    fsi_solids_measure(&solids, &a);
    double low;
    double e0 = low = a.kinetic + a.potential;
    for (int i = 0; i < 480; i++) {
        CHECK_OK(fsi_solids_step(&solids, FSI_R(1.) / 240));
        fsi_solids_measure(&solids, &b);
        CHECK_MOST(b.kinetic + b.potential, low + b.work + TOL(1e-12, 1e-4));
        low = b.kinetic + b.potential;
        CHECK_MOST(fabs(b.drive) + fabs(b.applied), 0);
    }
    if (getenv("FSI_VERBOSE"))
        printf("mass on a spring: %.4f -> %.4f J in 2 s\n", e0, low);
    ASSERTm("not damped away", low > .9 * e0);
    fsi_solids_free(&solids);
    fsi_shape_free(&box);
    fsi_shape_free(&ball);
    PASS();
}

/* ------------------------------------------------------------------------------------------------
 * meshes and shapes */
TEST R_10_mass_of_meshes(void) {
    fsi_shape box = make_shape(FSI_SHAPE_BOX, 3, 0, 0, .5, 1, 1.5),
              torus = make_shape(FSI_SHAPE_TORUS, 3, .3, 1, 0, 0, 0);
    fsi_surface surface = box.surface, outline = tetra();
    fsi_real volume = 0, x[24];
    for (int i = 0; i < 24; i++)
        x[i] = surface.x[i] + (i % 3 == 0 ? 10 : i % 3 == 1 ? -20 : 30);
    surface.x = x;
    fsi_vec3 com;
    fsi_mat3 inertia;
    CHECK_OK(fsi_mesh_mass(&surface, NULL, &volume, &com, &inertia));
    CHECK_REL(6, volume, TOL(1e-12, 1e-5));
    CHECK_NEAR(10, com.x, TOL(1e-12, 1e-4));
    CHECK_NEAR(-20, com.y, TOL(1e-12, 1e-4));
    CHECK_NEAR(30, com.z, TOL(1e-12, 1e-4));
    CHECK_REL(6 * (4 + 9) / 12., inertia.m[0], TOL(1e-12, 1e-5));
    CHECK_REL(6 * (1 + 9) / 12., inertia.m[4], TOL(1e-12, 1e-5));
    CHECK_REL(6 * (1 + 4) / 12., inertia.m[8], TOL(1e-12, 1e-5));
    CHECK_NEAR(0, inertia.m[1], TOL(1e-12, 1e-4));
    /* unit corner tetrahedron: exact integrals */
    CHECK_OK(fsi_mesh_mass(&outline, NULL, &volume, &com, &inertia));
    CHECK_REL(1. / 6, volume, TOL(1e-12, 1e-5));
    CHECK_NEAR(.25, com.x, TOL(1e-12, 1e-6));
    CHECK_REL(2 * (1. / 60 - 1. / 96), inertia.m[0], TOL(1e-12, 1e-4));
    /* -(int xy - V/16) = -(1/120 - 1/96) */
    CHECK_NEAR(1. / 480, -(double)inertia.m[1] * -1, TOL(1e-12, 1e-6));
    CHECK_OK(fsi_mesh_mass(&torus.surface, NULL, &volume, &com, &inertia));
    /* the tessellation has the exact volume */
    CHECK_REL(torus.volume, volume, TOL(1e-6, 1e-4));
    CHECK_REL(torus.inertia.m[4], inertia.m[4], .02);
    /* exact for polyhedra: the same mesh 100 m away */
    fsi_vec3 com2;
    {
        fsi_surface far_off = torus.surface;
        fsi_real *y = (fsi_real *)malloc(3 * (size_t)far_off.vertex_count * sizeof *y);
        for (int i = 0; i < 3 * far_off.vertex_count; i++)
            y[i] = far_off.x[i] + 64;
        far_off.x = y;
        fsi_real v2;
        fsi_mat3 J;
        CHECK_OK(fsi_mesh_mass(&far_off, NULL, &v2, &com2, &J));
        CHECK_REL(volume, v2, TOL(1e-12, 1e-4));
        for (int i = 0; i < 9; i++)
            CHECK_NEAR(inertia.m[i], J.m[i], TOL(1e-12, 1e-4) * (double)inertia.m[4]);
        CHECK_NEAR(64, com2.y, TOL(1e-12, 1e-4) * 64);
        free(y);
    }
    com2 = com;
    fsi_mat3 I2 = inertia;
    {
        int32_t bad[12];
        fsi_surface o = outline;
        memcpy(bad, outline.index, sizeof bad);
        o.index = bad;
        /* open */
        o.element_count = 3;
        CHECK_RESULT(FSI_ERR_GEOMETRY, fsi_mesh_mass(&o, NULL, &volume, &com, &inertia));
        o.element_count = 4;
        for (int i = 0; i < 12; i += 3) {
            int32_t k = bad[i];
            bad[i] = bad[i + 1];
            bad[i + 1] = k;
        }
        /* inside-out */
        CHECK_RESULT(FSI_ERR_GEOMETRY, fsi_mesh_mass(&o, NULL, &volume, &com, &inertia));
        /* degenerate */
        bad[0] = bad[1];
        CHECK_RESULT(FSI_ERR_GEOMETRY, fsi_mesh_mass(&o, NULL, &volume, &com, &inertia));
        bad[0] = 77;
        CHECK_RESULT(FSI_ERR_GEOMETRY, fsi_mesh_mass(&o, NULL, &volume, &com, &inertia));
    }
    ASSERTm("nothing written on refusal",
            memcmp(&com, &com2, sizeof com) == 0 && memcmp(&inertia, &I2, sizeof inertia) == 0);
    fsi_shape_free(&box);
    fsi_shape_free(&torus);
    PASS();
}

TEST shapes_surfaces_are_closed_and_exact(void) {
    fsi_shape_kind kind[4] = {FSI_SHAPE_SPHERE, FSI_SHAPE_BOX, FSI_SHAPE_CAPSULE, FSI_SHAPE_TORUS};
    for (int dim = 2; dim <= 3; dim++)
        for (int k = 0; k < (dim == 3 ? 4 : 3); k++) {
            fsi_shape_desc desc;
            memset(&desc, 0, sizeof desc);
            desc.kind = kind[k];
            desc.dim = dim;
            desc.radius = FSI_R(0.3);
            desc.length = 1;
            desc.half = fsi_vec(1, 2, 3);
            desc.resolution = 64;
            fsi_shape shape;
            CHECK_OK(fsi_shape_init(&shape, &desc));
            fsi_real volume;
            fsi_vec3 com;
            fsi_mat3 inertia;
            CHECK_OK(fsi_mesh_mass(&shape.surface, NULL, &volume, &com, &inertia));
            CHECK_REL(shape.volume, volume, TOL(1e-5, 1e-4));
            CHECK_REL(shape.inertia.m[8], inertia.m[8], .01);
            if (dim == 3) {
                CHECK_REL(shape.inertia.m[0], inertia.m[0], .01);
                CHECK_REL(shape.inertia.m[4], inertia.m[4], .01);
            }
            CHECK_NEAR(0, com.x, TOL(1e-9, 1e-5));
            CHECK_NEAR(0, com.y, TOL(1e-9, 1e-5));
            fsi_shape_free(&shape);
        }
    PASS();
}

/* The distance grid of a box mesh against the exact box distance; gradients of all distances by
 * differences. */
TEST shapes_distance(void) {
    fsi_shape box = make_shape(FSI_SHAPE_BOX, 3, 0, 0, .5, .7, .4), shape[4];
    fsi_shape_desc desc;
    uint64_t seed = 3;
    memset(&desc, 0, sizeof desc);
    desc.kind = FSI_SHAPE_MESH;
    desc.surface = &box.surface;
    desc.sdf_cells = 28;
    fsi_shape mesh;
    CHECK_OK(fsi_shape_init(&mesh, &desc));
    CHECK_REL(box.volume, mesh.volume, TOL(1e-12, 1e-5));
    for (int i = 0; i < 500; i++) {
        fsi_vec3 p = fsi_vec((fsi_real)check_random(&seed), (fsi_real)check_random(&seed),
                             (fsi_real)check_random(&seed)),
                 n;
        fsi_real e = fsi_shape_distance(&box, p, NULL), g = fsi_shape_distance(&mesh, p, &n);
        CHECK_NEAR(e, g, .02 + (e > FSI_R(0.1) ? .1 : 0));
        CHECK_NEAR(1, fsi_vec_length(n), 1e-3);
    }
    shape[0] = make_shape(FSI_SHAPE_SPHERE, 3, .4, 0, 0, 0, 0);
    shape[1] = box;
    shape[2] = make_shape(FSI_SHAPE_CAPSULE, 3, .3, .6, 0, 0, 0);
    shape[3] = make_shape(FSI_SHAPE_TORUS, 3, .15, .45, 0, 0, 0);
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 200; i++) {
            fsi_vec3 p = fsi_vec((fsi_real)check_random(&seed), (fsi_real)check_random(&seed),
                                 (fsi_real)check_random(&seed)),
                     n;
            fsi_real e = fsi_shape_distance(shape + k, p, &n);
            /* the foot point lies on the surface */
            fsi_vec3 q = fsi_vec_mad(p, n, -e);
            fsi_real f = fsi_shape_distance(shape + k, q, NULL);
            CHECK_NEAR(0, f, TOL(1e-9, 1e-5));
        }
    for (int k = 0; k < 4; k++)
        fsi_shape_free(shape + k);
    fsi_shape_free(&mesh);
    PASS();
}

/* ------------------------------------------------------------------------------------------------
 * doors */
TEST doors_coupled_body(void) {
    for (int dim = 2; dim <= 3; dim++) {
        fsi_shape box = make_shape(FSI_SHAPE_BOX, dim, 0, 0, .5, .2, .1);
        fsi_solids solids = make_world(dim, 1, 0, fsi_vec(0, 0, 0));
        fsi_rigid_desc desc = body_at(FSI_RIGID_DYNAMIC, &box, 1, 2, 0);
        fsi_real row[6], weight[3] = {1, 0, 0};
        fsi_vec3 p = fsi_vec(FSI_R(1.3), FSI_R(2.1), 0), dir = fsi_vec(FSI_R(0.6), FSI_R(0.8), 0);
        double k = 0, j = 5;
        desc.q = fsi_quat_from_rotation(fsi_vec(0, 0, 1));
        desc.v = fsi_vec(1, 2, 0);
        desc.spin = fsi_vec(0, 0, 3);
        fsi_solids_add(&solids, &desc, NULL);
        CHECK_RESULT(FSI_ERR_STATE, fsi_solids_take(&solids, 0));
        fsi_coupled *door;
        CHECK_OK(fsi_solids_couple(&solids, 0, &door));
        ASSERT_EQ(6, door->dof);
        ASSERT_EQ(box.surface.vertex_count, door->surface.vertex_count);
        CHECK_OK(fsi_surface_check(&door->surface));
        for (int i = 0; i < door->surface.vertex_count; i++) {
            fsi_vec3 v = fsi_solids_velocity(&solids, 0, fsi_vec_load(door->surface.x + 3 * i));
            CHECK_NEAR(v.x, door->surface.v[3 * i], 1e-5);
            CHECK_NEAR(v.y, door->surface.v[3 * i + 1], 1e-5);
        }
        door->row_fn(door, 0, weight, p, dir, row);
        double before = fsi_dot(6, row, door->v);
        CHECK_NEAR(fsi_vec_dot(dir, fsi_solids_velocity(&solids, 0, p)), before, TOL(1e-12, 1e-5));
        for (int i = 0; i < 6; i++)
            for (int l = 0; l < 6; l++) {
                double a = (double)(row[i] * door->inverse_mass[6 * i + l] * row[l]);
                k += a;
                door->v[i] += (fsi_real)j * door->inverse_mass[6 * i + l] * row[l];
            }
        CHECK_OK(fsi_solids_take(&solids, 0));
        double after = (double)fsi_vec_dot(dir, fsi_solids_velocity(&solids, 0, p));
        CHECK_NEAR(before + k * j, after, TOL(1e-12, 1e-4));
        /* the same impulse through the other door */
        fsi_solids w2 = make_world(dim, 1, 0, fsi_vec(0, 0, 0));
        fsi_solids_add(&w2, &desc, NULL);
        CHECK_OK(fsi_solids_impulse(&w2, 0, p, fsi_vec_scale(dir, (fsi_real)j)));
        CHECK_NEAR(w2.body[0].v.x, solids.body[0].v.x, TOL(1e-12, 1e-5));
        CHECK_NEAR(w2.body[0].L.z, solids.body[0].L.z, TOL(1e-11, 1e-3));
        fsi_solids_free(&solids);
        fsi_solids_free(&w2);
        fsi_shape_free(&box);
    }
    PASS();
}

/* An external solid: point masses (a net of three) falling on a rigid box that lies on the floor.
 */
typedef struct net {
    fsi_real x[9], v[9], mass;
} net;

static fsi_vec3 net_velocity(int point, fsi_vec3 at, void *user) {
    (void)at;
    return fsi_vec_load(((net *)user)->v + 3 * point);
}

static void net_inverse_mass(int point, fsi_vec3 at, fsi_mat3 *K, void *user) {
    (void)point;
    (void)at;
    memset(K, 0, sizeof *K);
    K->m[0] = K->m[4] = K->m[8] = 1 / ((net *)user)->mass;
}

static void net_impulse(int point, fsi_vec3 at, fsi_vec3 j, void *user) {
    net *n = (net *)user;
    (void)at;
    fsi_vec_store(n->v + 3 * point, fsi_vec_mad(fsi_vec_load(n->v + 3 * point), j, 1 / n->mass));
}

TEST external_points_rest_on_a_body(void) {
    fsi_shape plane = make_shape(FSI_SHAPE_PLANE, 3, 0, 0, 0, 0, 0),
              box = make_shape(FSI_SHAPE_BOX, 3, 0, 0, .5, .5, .5);
    fsi_solids solids = stack_world(3, &plane, &box, 1, 0);
    net n = {{-.3f, 1.3f, 0, .3f, 1.3f, .2f, .1f, 1.4f, -.3f}, {0, 0, 0, 0, 0, 0, 0, 0, 0}, 20};
    fsi_external external;
    memset(&external, 0, sizeof external);
    external.point_count = 3;
    external.x = n.x;
    external.radius = FSI_R(0.01);
    external.friction = FSI_R(0.5);
    external.user = &n;
    external.velocity_fn = net_velocity;
    external.inverse_mass_fn = net_inverse_mass;
    external.impulse_fn = net_impulse;
    CHECK_OK(fsi_solids_set_externals(&solids, &external, 1));
    for (int i = 0; i < 480; i++) {
        double p0 = 0, p1 = 0, floor = 0;
        for (int k = 0; k < 3; k++)
            n.v[3 * k + 1] -= G / 240;
        fsi_solids_forces(&solids, FSI_R(1.) / 240);
        p0 = (double)(solids.body[1].mass * solids.body[1].v.x)
             + 20 * (double)(n.v[0] + n.v[3] + n.v[6]);
        CHECK_OK(fsi_solids_move(&solids, FSI_R(1.) / 240));
        p1 = (double)(solids.body[1].mass * solids.body[1].v.x)
             + 20 * (double)(n.v[0] + n.v[3] + n.v[6]);
        for (int k = 0; k < solids.contact_count; k++)
            if (solids.contact[k].a.solid == 0)
                floor += fabs((double)solids.contact[k].impulse_t[0]);
        /* side pushes come from the floor alone */
        CHECK_NEAR(p0, p1, 4 * floor + TOL(1e-10, 1e-2));
        for (int k = 0; k < 9; k++)
            n.x[k] += n.v[k] / 240;
    }
    for (int k = 0; k < 3; k++)
        CHECK_NEAR(1.01, n.x[3 * k + 1], 5e-3);
    external.impulse_fn = NULL;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_solids_set_externals(&solids, &external, 1));
    fsi_solids_free(&solids);
    fsi_shape_free(&plane);
    fsi_shape_free(&box);
    PASS();
}

/* K of a body is its answer to unit impulses; distances of rooms and compounds; twenty spokes on
 * one hub (sweeps instead of the direct solve). */
TEST inverse_mass_room_compound_and_hub(void) {
    zoo z;
    fsi_vec3 p = fsi_vec(FSI_R(0.1), FSI_R(0.2), FSI_R(0.3));
    zoo_make(&z, 6);
    p = fsi_vec_add(p, z.w.body[3].x);
    const fsi_rigid *third = z.w.body + 3;
    for (int k = 0; k < 3; k++) {
        fsi_vec3 expected =
            fsi__body_response(third->inverse_mass, &third->inverse_inertia,
                               fsi_vec_sub(p, third->x), fsi_vec(k == 0, k == 1, k == 2));
        fsi_vec3 v = fsi_solids_velocity(&z.w, 3, p);
        CHECK_OK(fsi_solids_impulse(&z.w, 3, p, fsi_vec(k == 0, k == 1, k == 2)));
        v = fsi_vec_sub(fsi_solids_velocity(&z.w, 3, p), v);
        CHECK_NEAR(expected.x, v.x, TOL(1e-13, 1e-6));
        CHECK_NEAR(expected.y, v.y, TOL(1e-13, 1e-6));
        CHECK_NEAR(expected.z, v.z, TOL(1e-13, 1e-6));
    }
    fsi_vec3 n;
    CHECK_NEAR(.5, fsi_shape_distance(z.s + 6, fsi_vec(FSI_R(1.5), 0, 0), &n), TOL(1e-12, 1e-6));
    CHECK_NEAR(-1, n.x, 0);
    CHECK_NEAR(.25, fsi_shape_distance(z.s + 6, fsi_vec(0, FSI_R(-3.75), 0), &n), TOL(1e-12, 1e-6));
    CHECK_NEAR(1, n.y, 0);
    CHECK_NEAR(.125, fsi_shape_distance(z.s + 6, fsi_vec(0, 0, FSI_R(1.875)), &n),
               TOL(1e-12, 1e-6));
    CHECK_NEAR(-1, n.z, 0);
    /* above the ball of the compound */
    p = fsi_vec_sub(fsi_vec(FSI_R(-0.4), 1, 0), z.s[5].com);
    CHECK_NEAR(.7, fsi_shape_distance(z.s + 5, p, &n), 1e-6);
    CHECK_NEAR(1, n.y, 1e-6);
    fsi_solids solids = make_world(3, 21, 20, fsi_vec(0, 0, 0));
    for (int i = 0; i < 21; i++) {
        fsi_rigid_desc desc =
            body_at(FSI_RIGID_DYNAMIC, z.s, i ? cos(.3 * i) : 0, i ? sin(.3 * i) : 0, 0);
        desc.team = 1;
        desc.spin = fsi_vec(0, 0, i ? FSI_R(0.) : FSI_R(5.));
        fsi_solids_add(&solids, &desc, NULL);
        fsi_joint_desc given = joint_of(
            FSI_JOINT_POINT, i, 0, fsi_vec((fsi_real)cos(.3 * i) / 2, (fsi_real)sin(.3 * i) / 2, 0),
            fsi_vec(0, 0, 0));
        if (i)
            CHECK_OK(fsi_solids_join(&solids, &given, NULL));
    }
    for (int i = 0; i < 60; i++)
        CHECK_OK(fsi_solids_step(&solids, FSI_R(1.) / 240));
    fsi_solids_report report;
    fsi_solids_measure(&solids, &report);
    CHECK_MOST(report.joint_error, 5e-3);
    fsi_solids_free(&solids);
    zoo_free(&z);
    PASS();
}

/* The surface door: closed, at the pose, velocities of the points; static shapes hand out none; bad
 * arguments. */
TEST doors_surface(void) {
    zoo z;
    fsi_real *x = (fsi_real *)malloc(3 * 4096 * sizeof *x),
             *v = (fsi_real *)malloc(3 * 4096 * sizeof *v);
    zoo_make(&z, 9);
    for (int i = 0; i < 5; i++)
        fsi_solids_step(&z.w, FSI_R(0.01));
    fsi_surface surface;
    for (int k = 0; k < z.w.body_count; k++) {
        fsi_mat3 inertia;
        CHECK_OK(fsi_solids_surface(&z.w, k, x, v, &surface));
        ASSERT_EQ(z.w.body[k].shape->surface.vertex_count, surface.vertex_count);
        if (k < 2) {
            ASSERT_EQ(0, surface.vertex_count);
            continue;
        }
        ASSERT(surface.vertex_count <= 4096 && surface.x == x && surface.v == v);
        for (int i = 0; i < surface.vertex_count; i++) {
            fsi_vec3 u = fsi_solids_velocity(&z.w, k, fsi_vec_load(x + 3 * i));
            CHECK_NEAR(0, fsi_vec_length(fsi_vec_sub(u, fsi_vec_load(v + 3 * i))),
                       TOL(1e-12, 1e-4));
        }
        CHECK_OK(fsi_solids_surface(&z.w, k, x, NULL, &surface));
        ASSERT(surface.v == NULL);
        /* its parts may overlap */
        if (z.w.body[k].shape->kind == FSI_SHAPE_COMPOUND)
            continue;
        fsi_real volume;
        fsi_vec3 com;
        CHECK_OK(fsi_mesh_mass(&surface, NULL, &volume, &com, &inertia));
        CHECK_REL(z.w.body[k].shape->volume, volume, TOL(1e-4, 1e-3));
        CHECK_NEAR(0, fsi_vec_length(fsi_vec_sub(com, z.w.body[k].x)), TOL(1e-6, 1e-4));
    }
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_solids_surface(&z.w, 99, x, v, &surface));
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_solids_surface(&z.w, 2, NULL, v, &surface));
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_solids_surface(&z.w, 2, x, v, NULL));
    free(x);
    free(v);
    zoo_free(&z);
    PASS();
}

/* Meshes that are no bodies, poses and numbers that are none, for every constructor and setter: a
 * clear result, and not a byte of the world changed. */
TEST refusals_change_nothing(void) {
    fsi_surface good = tetra(), bad;
    fsi_shape_desc sd;
    fsi_shape shape, part_of = make_shape(FSI_SHAPE_BOX, 3, 0, 0, .5, .5, .5),
                     plane = make_shape(FSI_SHAPE_PLANE, 3, 0, 0, 0, 0, 0);
    fsi_real x[12], zero = 0, none = zero / zero;
    int32_t index[12];
    fsi_quat q = {none, 0, 0, 0}, one = {1, 0, 0, 0};
    fsi_coupled *door;
    for (int i = 0; i < 7; i++) {
        static const fsi_result want[7] = {FSI_ERR_GEOMETRY, FSI_ERR_GEOMETRY, FSI_ERR_GEOMETRY,
                                           FSI_ERR_GEOMETRY, FSI_ERR_GEOMETRY, FSI_ERR_GEOMETRY,
                                           FSI_ERR_GEOMETRY};
        memcpy(x, good.x, sizeof x);
        memcpy(index, good.index, sizeof index);
        bad = good;
        bad.x = x;
        bad.index = index;
        if (i == 0)
            bad.element_count = 3; /* open */
        if (i == 1)
            index[1] = index[0]; /* degenerate */
        /* one triangle the wrong way round */
        if (i == 2) {
            int32_t k = index[0];
            index[0] = index[1];
            index[1] = k;
        }
        if (i == 3)
            index[5] = 4; /* no such vertex */
        if (i == 4)
            x[11] = 0; /* flat: no volume */
        if (i == 5)
            bad.element_count = 0;
        /* all in one line */
        if (i == 6) {
            x[3] = x[6] = x[9] = 0;
            x[4] = 0;
            x[8] = 0;
            x[7] = 0;
        }
        memset(&sd, 0, sizeof sd);
        sd.kind = FSI_SHAPE_MESH;
        sd.surface = &bad;
        sd.sdf_cells = 8;
        fsi_result result = fsi_shape_init(&shape, &sd);
        CHECK_RESULT(want[i], result);
        ASSERT(shape.block == NULL && shape.kind == FSI_SHAPE_NONE);
    }
    memcpy(x, good.x, sizeof x);
    x[4] = none;
    bad = good;
    bad.x = x;
    sd.surface = &bad;
    ASSERT(fsi_shape_init(&shape, &sd) < 0);
    ASSERT(shape.block == NULL);
    memset(&sd, 0, sizeof sd);
    fsi_shape_part part;
    memset(&part, 0, sizeof part);
    sd.kind = FSI_SHAPE_COMPOUND;
    sd.part = &part;
    sd.part_count = 1;
    part.shape = &plane;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_shape_init(&shape, &sd));
    part.shape = &part_of;
    part.q.x = none;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_shape_init(&shape, &sd));
    zoo z;
    zoo_make(&z, 9);
    for (int i = 0; i < 10; i++)
        fsi_solids_step(&z.w, FSI_R(0.01));
    void *before = malloc(fsi_solids_state_size(&z.w));
    void *after = malloc(fsi_solids_state_size(&z.w));
    fsi_solids_save(&z.w, before);
    fsi_rigid_desc desc = body_at(FSI_RIGID_DYNAMIC, &part_of, none, 0, 0);
    ASSERT(fsi_solids_add(&z.w, &desc, NULL) < 0);
    ASSERT(fsi_solids_set_pose(&z.w, 3, fsi_vec(0, 0, 0), q) < 0
           && fsi_solids_set_pose(&z.w, 3, fsi_vec(0, none, 0), one) < 0
           && fsi_solids_set_pose(&z.w, -1, fsi_vec(0, 0, 0), one) < 0);
    ASSERT(fsi_solids_set_velocity(&z.w, 3, fsi_vec(none, 0, 0), fsi_vec(0, 0, 0)) < 0
           && fsi_solids_set_velocity(&z.w, 0, fsi_vec(1, 0, 0), fsi_vec(0, 0, 0)) < 0);
    /* not a scripted body */
    ASSERT(fsi_solids_script(&z.w, 3, fsi_vec(0, 0, 0), one, 1) < 0);
    ASSERT(fsi_solids_impulse(&z.w, 3, fsi_vec(none, 0, 0), fsi_vec(1, 0, 0)) < 0
           && fsi_solids_impulse(&z.w, 3, fsi_vec(0, 0, 0), fsi_vec(0, 0, none)) < 0);
    fsi_joint_desc given = joint_of(FSI_JOINT_POINT, 2, 3, fsi_vec(none, 0, 0), fsi_vec(0, 0, 0));
    ASSERT(fsi_solids_join(&z.w, &given, NULL) < 0);
    given = joint_of(FSI_JOINT_HINGE, 2, 99, fsi_vec(0, 0, 0), fsi_vec(0, 0, 0));
    ASSERT(fsi_solids_join(&z.w, &given, NULL) < 0);
    given = joint_of(FSI_JOINT_NONE, 2, 3, fsi_vec(0, 0, 0), fsi_vec(0, 0, 0));
    ASSERT(fsi_solids_join(&z.w, &given, NULL) < 0);
    ASSERT(fsi_solids_forces(&z.w, none) < 0 && fsi_solids_move(&z.w, -1) < 0
           && fsi_solids_step(&z.w, 0) < 0);
    ASSERT(fsi_solids_couple(&z.w, 99, &door) < 0 && fsi_solids_take(&z.w, 99) < 0
           && fsi_solids_set_externals(&z.w, NULL, 1) < 0);
    ASSERT(fsi_solids_restore(&z.w, NULL, 0) < 0 && fsi_solids_save(&z.w, NULL) < 0);
    fsi_solids_save(&z.w, after);
    ASSERTm("not a byte changed", !memcmp(before, after, fsi_solids_state_size(&z.w)));
    free(before);
    free(after);
    zoo_free(&z);
    fsi_shape_free(&part_of);
    fsi_shape_free(&plane);
    PASS();
}

TEST scripted_body_reaches_its_pose(void) {
    fsi_shape box = make_shape(FSI_SHAPE_BOX, 3, 0, 0, .5, .2, .1);
    fsi_solids solids = make_world(3, 1, 0, fsi_vec(0, -G, 0));
    fsi_rigid_desc desc = body_at(FSI_RIGID_SCRIPTED, &box, 0, 0, 0);
    fsi_quat q = fsi_quat_from_rotation(fsi_vec(0, FSI_R(0.7), FSI_R(0.2)));
    fsi_solids_add(&solids, &desc, NULL);
    CHECK_OK(fsi_solids_script(&solids, 0, fsi_vec(1, 2, 3), q, FSI_R(0.1)));
    CHECK_OK(fsi_solids_step(&solids, FSI_R(0.1)));
    CHECK_NEAR(2, solids.body[0].x.y, TOL(1e-12, 1e-5));
    CHECK_NEAR(q.y, solids.body[0].q.y, TOL(1e-12, 1e-5));
    CHECK_NEAR(q.w, solids.body[0].q.w, TOL(1e-12, 1e-5));
    fsi_solids_free(&solids);
    fsi_shape_free(&box);
    PASS();
}

/* What encloses the bodies holds them, has no id and outlives a restore; bodies come later too. */
TEST what_encloses_is_no_body(void) {
    fsi_shape room = make_shape(FSI_SHAPE_ROOM, 3, 0, 0, 2, 2, 2);
    fsi_shape box = make_shape(FSI_SHAPE_BOX, 3, 0, 0, .25, .25, .25);
    fsi_rigid_desc walls = body_at(FSI_RIGID_FIXED, &room, 0, 0, 0);
    fsi_rigid_desc desc = body_at(FSI_RIGID_DYNAMIC, &box, 0, -1.5, 0);
    fsi_solids solids = make_world(3, 3, 1, fsi_vec(0, -G, 0));
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_solids_enclose(&solids, &desc));
    CHECK_OK(fsi_solids_enclose(&solids, &walls));
    CHECK_RESULT(FSI_ERR_SIZE, fsi_solids_enclose(&solids, &walls));

    int id = -1;
    ASSERT_EQ(0, solids.body_count);
    CHECK_OK(fsi_solids_add(&solids, &desc, &id));
    ASSERT_EQ(0, id);
    for (int i = 0; i < 100; i++)
        CHECK_OK(fsi_solids_step(&solids, FSI_R(0.01)));
    CHECK_NEAR(-1.75, solids.body[0].x.y, 2e-3);
    void *one = malloc(fsi_solids_state_size(&solids));
    CHECK_OK(fsi_solids_save(&solids, one));

    /* A second body lands on the first; then the world is full. */
    desc.x.y = -1;
    CHECK_OK(fsi_solids_add(&solids, &desc, &id));
    ASSERT_EQ(1, id);
    CHECK_RESULT(FSI_ERR_SIZE, fsi_solids_add(&solids, &desc, NULL));
    for (int i = 0; i < 100; i++)
        CHECK_OK(fsi_solids_step(&solids, FSI_R(0.01)));
    CHECK_NEAR(-1.25, solids.body[1].x.y, 4e-3);
    void *two = malloc(fsi_solids_state_size(&solids));
    CHECK_OK(fsi_solids_save(&solids, two));

    /* Back to one body and forth to two: the walls hold both times. */
    CHECK_OK(fsi_solids_restore(&solids, one, fsi_solids_state_size(&solids)));
    ASSERT_EQ(1, solids.body_count);
    CHECK_OK(fsi_solids_step(&solids, FSI_R(0.01)));
    CHECK_NEAR(-1.75, solids.body[0].x.y, 2e-3);
    CHECK_OK(fsi_solids_restore(&solids, two, fsi_solids_state_size(&solids)));
    CHECK_OK(fsi_solids_step(&solids, FSI_R(0.01)));
    CHECK_NEAR(-1.25, solids.body[1].x.y, 4e-3);

    /* It cannot be joined, moved or coupled. */
    fsi_joint_desc joint = joint_of(FSI_JOINT_POINT, 0, 2, fsi_vec(0, 0, 0), fsi_vec(0, 0, 0));
    ASSERT(fsi_solids_join(&solids, &joint, NULL) < 0);
    free(one);
    free(two);
    fsi_solids_free(&solids);
    fsi_shape_free(&room);
    fsi_shape_free(&box);
    PASS();
}

/* ------------------------------------------------------------------------------------------------
 * robustness */
TEST bad_input_is_refused(void) {
    fsi_shape box = make_shape(FSI_SHAPE_BOX, 3, 0, 0, .5, .5, .5),
              plane = make_shape(FSI_SHAPE_PLANE, 3, 0, 0, 0, 0, 0);
    fsi_solids solids = make_world(3, 2, 0, fsi_vec(0, -G, 0));
    fsi_rigid_desc desc = body_at(FSI_RIGID_DYNAMIC, &box, 0, 0, 0);
    fsi_real nan_value = (fsi_real)strtod("nan", NULL);
    fsi_quat q = {nan_value, 0, 0, 0}, one = {1, 0, 0, 0};
    fsi_solids_add(&solids, &desc, NULL);
    fsi_rigid_desc given = desc;
    given.x.x = nan_value;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_solids_add(&solids, &given, NULL));
    given = desc;
    given.q.x = nan_value;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_solids_add(&solids, &given, NULL));
    given = desc;
    given.density = 0;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_solids_add(&solids, &given, NULL));
    given = desc;
    given.density = -1;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_solids_add(&solids, &given, NULL));
    given = desc;
    given.restitution = 2;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_solids_add(&solids, &given, NULL));
    given = desc;
    given.shape = &plane;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_solids_add(&solids, &given, NULL));
    given = desc;
    given.shape = NULL;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_solids_add(&solids, &given, NULL));
    ASSERT_EQ(1, solids.body_count);
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_solids_set_pose(&solids, 0, fsi_vec(nan_value, 0, 0), one));
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_solids_set_pose(&solids, 0, fsi_vec(0, 0, 0), q));
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_solids_set_pose(&solids, 7, fsi_vec(0, 0, 0), one));
    CHECK_RESULT(FSI_ERR_ARGUMENT,
                 fsi_solids_set_velocity(&solids, 0, fsi_vec(0, 0, 0), fsi_vec(nan_value, 0, 0)));
    CHECK_RESULT(FSI_ERR_ARGUMENT,
                 fsi_solids_impulse(&solids, 0, fsi_vec(0, 0, 0), fsi_vec(nan_value, 0, 0)));
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_solids_step(&solids, 0));
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_solids_step(&solids, nan_value));
    solids.body[0].force.x = nan_value;
    CHECK_RESULT(FSI_ERR_NUMERIC, fsi_solids_step(&solids, 1));
    solids.body[0].force.x = 0;
    CHECK_NEAR(0, solids.body[0].x.y, 0);
    CHECK_NEAR(0, solids.body[0].v.y, 0);
    CHECK_OK(fsi_solids_add(&solids, &desc, NULL));
    CHECK_RESULT(FSI_ERR_SIZE, fsi_solids_add(&solids, &desc, NULL));
    fsi_solids_desc wd;
    memset(&wd, 0, sizeof wd);
    fsi_solids bad;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_solids_init(&bad, &wd));
    wd.dim = 3;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_solids_init(&bad, &wd));
    wd.max_bodies = 1;
    wd.gravity.x = nan_value;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_solids_init(&bad, &wd));
    CHECK_RESULT(FSI_ERR_STATE, fsi_solids_step(&bad, 1));
    fsi_shape_desc sd;
    memset(&sd, 0, sizeof sd);
    fsi_shape shape;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_shape_init(&shape, &sd));
    sd.kind = FSI_SHAPE_SPHERE;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_shape_init(&shape, &sd));
    sd.radius = nan_value;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_shape_init(&shape, &sd));
    sd.radius = -1;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_shape_init(&shape, &sd));
    fsi_shape_free(&shape);
    fsi_solids_free(&bad);
    fsi_solids_free(&solids);
    fsi_shape_free(&box);
    fsi_shape_free(&plane);
    PASS();
}

TEST every_allocation_may_fail(void) {
    int done = 0;
    fsi_surface surface = tetra();
    for (long k = 0; k < 20 && !done; k++) {
        fail_allocator f = fail_begin(k);
        fsi_shape_desc sd;
        memset(&sd, 0, sizeof sd);
        fsi_solids_desc wd;
        memset(&wd, 0, sizeof wd);
        fsi_solids solids;
        memset(&solids, 0, sizeof solids);
        sd.kind = FSI_SHAPE_MESH;
        sd.surface = &surface;
        sd.sdf_cells = 8;
        sd.allocator = fail_make(&f);
        wd.dim = 3;
        wd.max_bodies = 4;
        wd.allocator = fail_make(&f);
        fsi_shape shape;
        fsi_result result = fsi_shape_init(&shape, &sd);
        if (result == FSI_OK)
            result = fsi_solids_init(&solids, &wd);
        if (result == FSI_OK) {
            fsi_rigid_desc desc = body_at(FSI_RIGID_DYNAMIC, &shape, 0, 0, 0);
            CHECK_OK(fsi_solids_add(&solids, &desc, NULL));
            fsi_coupled *door;
            result = fsi_solids_couple(&solids, 0, &door);
            if (result == FSI_OK) {
                long calls = f.calls;
                done = 1;
                CHECK_OK(fsi_solids_step(&solids, FSI_R(0.01)));
                CHECK_OK(fsi_solids_couple(&solids, 0, &door));
                ASSERT_EQ(calls, f.calls);
            }
        }
        if (!done)
            CHECK_RESULT(FSI_ERR_MEMORY, result);
        fsi_solids_free(&solids);
        fsi_shape_free(&shape);
        ASSERT_EQ(0, f.live);
    }
    ASSERTm("succeeded in the end", done);
    PASS();
}

TEST restore_continues_bit_for_bit(void) {
    zoo z;
    zoo_make(&z, 27);
    for (int i = 0; i < 100; i++)
        fsi_solids_step(&z.w, FSI_R(1.) / 120);
    void *state = malloc(fsi_solids_state_size(&z.w));
    CHECK_OK(fsi_solids_save(&z.w, state));
    for (int i = 0; i < 50; i++)
        fsi_solids_step(&z.w, FSI_R(1.) / 120);
    uint64_t h1 = check_hash(z.w.body, (size_t)z.w.body_count * sizeof *z.w.body, 0);
    for (int i = 0; i < 30; i++)
        fsi_solids_step(&z.w, FSI_R(1.) / 100);
    CHECK_OK(fsi_solids_restore(&z.w, state, fsi_solids_state_size(&z.w)));
    for (int i = 0; i < 50; i++)
        fsi_solids_step(&z.w, FSI_R(1.) / 120);
    uint64_t h2 = check_hash(z.w.body, (size_t)z.w.body_count * sizeof *z.w.body, 0);
    ASSERTm("same bits", h1 == h2);
    memset(state, 0, 16);
    CHECK_RESULT(FSI_ERR_DATA, fsi_solids_restore(&z.w, state, fsi_solids_state_size(&z.w)));
    free(state);
    zoo_free(&z);
    PASS();
}

TEST same_bits_for_any_thread_count(void) {
    uint64_t h[4];
    int threads[4] = {1, 2, 3, 8};
    for (int k = 0; k < 4; k++) {
        check_threads(threads[k]);
        zoo z;
        zoo_make(&z, 81);
        for (int i = 0; i < 60; i++)
            fsi_solids_step(&z.w, FSI_R(1.) / 120);
        h[k] = check_hash(z.w.body, (size_t)z.w.body_count * sizeof *z.w.body, 0);
        h[k] = check_hash(z.s[4].grid, z.s[4].grid_cells * sizeof(fsi_real), h[k]);
        zoo_free(&z);
    }
    check_threads(1);
    /* shape pointers inside the bodies differ between runs only if the struct moves: z is on the
     * same stack slot */
    ASSERTm("1 = 2 threads", h[0] == h[1]);
    ASSERTm("1 = 3 threads", h[0] == h[2]);
    ASSERTm("1 = 8 threads", h[0] == h[3]);
    PASS();
}

/* The grid broad phase finds the same pairs as all against all. */
TEST broad_phase_agrees_with_brute_force(void) {
    fsi_shape ball = make_shape(FSI_SHAPE_SPHERE, 3, .1, 0, 0, 0, 0),
              big = make_shape(FSI_SHAPE_BOX, 3, 0, 0, 2, .1, .1);
    fsi_solids solids = make_world(3, 400, 0, fsi_vec(0, 0, 0));
    uint64_t seed = 77;
    int brute = 0;
    for (int i = 0; i < 400; i++) {
        fsi_rigid_desc desc =
            body_at(FSI_RIGID_DYNAMIC, i % 40 == 7 ? &big : &ball, 2 * check_random(&seed),
                    2 * check_random(&seed), 2 * check_random(&seed));
        fsi_solids_add(&solids, &desc, NULL);
    }
    fsi__collide(&solids, FSI_R(0.01), 0);
    for (int i = 0; i < 400; i++)
        for (int k = i + 1; k < 400; k++)
            brute += fsi__boxes_meet(solids.work->lo[i], solids.work->hi[i], 0, solids.work->lo[k],
                                     solids.work->hi[k]);
    ASSERT_EQ(brute, (int)solids.work->pairs);
    fsi_solids_free(&solids);
    fsi_shape_free(&ball);
    fsi_shape_free(&big);
    PASS();
}

TEST contacts_are_counted_and_max_dt_is_small(void) {
    fsi_shape plane = make_shape(FSI_SHAPE_PLANE, 3, 0, 0, 0, 0, 0),
              box = make_shape(FSI_SHAPE_BOX, 3, 0, 0, .5, .5, .5);
    fsi_solids solids = stack_world(3, &plane, &box, 2, 0);
    fsi_solids_report report;
    fsi_solids_step(&solids, FSI_R(0.01));
    fsi_solids_measure(&solids, &report);
    ASSERT_EQ(8, report.contacts);
    ASSERTm("moving bodies ask for small steps", fsi_solids_max_dt(&solids) > 0);
    fsi_solids_free(&solids);
    fsi_shape_free(&plane);
    fsi_shape_free(&box);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv) {
    GREATEST_MAIN_BEGIN();
    check_threads(1);
    RUN_TEST(R_01_symmetric_top);
    RUN_TEST(R_02_asymmetric_top_order);
    RUN_TEST(R_03_dzhanibekov);
    RUN_TEST(R_04_conservation_in_free_flight);
    RUN_TEST(R_04_parabola_is_exact);
    RUN_TEST(R_05_impact_of_two_spheres);
    RUN_TEST(R_06_slope);
    RUN_TEST(R_07_sliding_sphere_rolls);
    RUN_TESTp(R_08_stack_of_ten, 3, 0);
    RUN_TESTp(R_08_stack_of_ten, 3, 1);
    RUN_TESTp(R_08_stack_of_ten, 2, 0);
    RUN_TEST(contact_momentum_through_every_impulse);
    RUN_TEST(contact_fast_thin_bodies_do_not_tunnel);
    RUN_TEST(contact_under_absurd_gravity);
    RUN_TEST(contact_all_kinds_settle_in_a_room);
    RUN_TEST(contact_elastic_gas_keeps_energy);
    RUN_TEST(R_09_pendulum_of_ten_links);
    RUN_TEST(R_09_rod_period);
    RUN_TEST(joints_motor_limit_spring_weld);
    RUN_TEST(joints_have_limits);
    RUN_TEST(joints_with_limits_add_no_energy);
    RUN_TEST(joint_against_a_floor);
    RUN_TEST(joints_keep_momentum);
    RUN_TESTp(energy_never_grows_without_work, 0);
    RUN_TESTp(energy_never_grows_without_work, 1);
    RUN_TESTp(energy_never_grows_without_work, 2);
    RUN_TESTp(energy_never_grows_without_work, 3);
    RUN_TEST(energy_report_is_exact);
    RUN_TEST(R_10_mass_of_meshes);
    RUN_TEST(shapes_surfaces_are_closed_and_exact);
    RUN_TEST(shapes_distance);
    RUN_TEST(doors_coupled_body);
    RUN_TEST(doors_surface);
    RUN_TEST(refusals_change_nothing);
    RUN_TEST(external_points_rest_on_a_body);
    RUN_TEST(inverse_mass_room_compound_and_hub);
    RUN_TEST(scripted_body_reaches_its_pose);
    RUN_TEST(what_encloses_is_no_body);
    RUN_TEST(bad_input_is_refused);
    RUN_TEST(every_allocation_may_fail);
    RUN_TEST(restore_continues_bit_for_bit);
    RUN_TEST(same_bits_for_any_thread_count);
    RUN_TEST(broad_phase_agrees_with_brute_force);
    RUN_TEST(contacts_are_counted_and_max_dt_is_small);
    GREATEST_MAIN_END();
}
