/* Water at rest: forces and torques are those of Archimedes for any shape, place and form of the
   boundary, and what is in equilibrium stays. Bodies of boxes and balls, SI units. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "greatest.h"
#include "check.h"

static const double G = 9.81;

typedef struct pool {
    fsi_world world;
    fsi_shape shape;
    int id;
    double level;
} pool;

static pool P;

static fsi_real pool_phi(fsi_vec3 x, void *user) {
    return x.y - (fsi_real)((const pool *)user)->level;
}

/* A tank of 1 m with a box of 0.3 m x 0.14 m (x 0.2 m), or a ball of radius 0.12 m, turned. */
typedef struct setting {
    int n, dim, ball;
    fsi_boundary_kind boundary;
    double density; /* 0: held */
    double angle, x, y;
} setting;

static int pool_open(pool *p, const setting *s) {
    fsi_world_desc desc;
    fsi_shape_desc shape;
    fsi_rigid_desc body;
    memset(&desc, 0, sizeof desc);
    memset(&shape, 0, sizeof shape);
    memset(&body, 0, sizeof body);
    desc.grid.nx = desc.grid.ny = s->n;
    desc.grid.nz = s->dim == 3 ? s->n : 1;
    desc.grid.h = 1 / (fsi_real)s->n;
    desc.grid.rho = 1000;
    desc.grid.gravity.y = (fsi_real)-G;
    desc.grid.liquid = 1;
    desc.grid.tolerance = TOL(1e-12, 1e-6);
    desc.grid.side[FSI_TOP].kind = FSI_SIDE_OPEN;
    desc.couple.boundary = s->boundary;
    desc.max_bodies = 1;
    if (fsi_world_init(&p->world, &desc) < 0)
        return 0;
    shape.kind = s->ball ? FSI_SHAPE_SPHERE : FSI_SHAPE_BOX;
    shape.dim = s->dim;
    shape.radius = FSI_R(0.12);
    shape.half = fsi_vec(FSI_R(0.15), FSI_R(0.07), FSI_R(0.1));
    if (fsi_shape_init(&p->shape, &shape) < 0)
        return 0;
    body.kind = s->density > 0 ? FSI_RIGID_DYNAMIC : FSI_RIGID_SCRIPTED;
    body.shape = &p->shape;
    body.density = (fsi_real)(s->density > 0 ? s->density : 1000);
    body.x = fsi_vec((fsi_real)s->x, (fsi_real)s->y, s->dim == 3 ? FSI_R(0.507) : 0);
    body.q = fsi_quat_from_rotation(fsi_vec(0, 0, (fsi_real)s->angle));
    p->id = fsi_world_add(&p->world, &body);
    return p->id >= 0 && fsi_grid_set_field(&p->world.grid, FSI_FIELD_PHI, pool_phi, p) >= 0;
}

static void pool_close(pool *p) {
    fsi_world_free(&p->world);
    fsi_shape_free(&p->shape);
}

/* Volume and first moment of the surface below a height, by cones from a point at that height. */
static double below(const fsi_surface *s, double height, double *moment) {
    double volume = 0;
    moment[0] = moment[1] = moment[2] = 0;
    for (int e = 0; e < s->element_count; e++) {
        double c[4][3];
        int count = 0;
        for (int k = 0; k < s->dim; k++) {
            fsi_vec3 a = fsi_surface_place(s, s->index[s->dim * e + k]);
            fsi_vec3 b = fsi_surface_place(s, s->index[s->dim * e + (k + 1) % s->dim]);
            double ya = (double)a.y - height;
            double yb = (double)b.y - height;
            double t = ya / (ya - yb);
            double at[2][3] = {{(double)a.x, ya, (double)a.z}, {0, 0, 0}};
            at[1][0] = (double)a.x + t * (double)(b.x - a.x);
            at[1][2] = (double)a.z + t * (double)(b.z - a.z);
            if (ya < 0)
                memcpy(c[count++], at[0], sizeof at[0]);
            if ((ya < 0) != (yb < 0) && (s->dim == 3 || k == 0))
                memcpy(c[count++], at[1], sizeof at[1]);
        }
        for (int k = s->dim - 1; k < count; k++) {
            const double *a = c[0];
            const double *b = c[k];
            const double *m = c[k - 1];
            double part = (a[0] * b[1] - a[1] * b[0]) / 2;
            if (s->dim == 3)
                part = (a[0] * (m[1] * b[2] - m[2] * b[1]) + a[1] * (m[2] * b[0] - m[0] * b[2])
                        + a[2] * (m[0] * b[1] - m[1] * b[0]))
                       / 6;
            volume += part;
            for (int axis = 0; axis < 3; axis++)
                moment[axis] +=
                    part * (a[axis] + b[axis] + (s->dim == 3 ? m[axis] : 0)) / (s->dim + 1);
        }
    }
    moment[1] += height * volume;
    return volume;
}

/* Worst of the errors of force and torque after two steps, over the whole body's. */
static double archimedes_error(pool *p) {
    fsi_body_report is;
    double moment[3], none[3];
    for (int i = 0; i < 2; i++)
        if (fsi_world_step(&p->world, FSI_R(0.01), NULL) < 0)
            return 1;
    if (fsi_world_body(&p->world, p->id, &is) < 0)
        return 1;
    const fsi_surface *surface = &p->world.couple.iface.solid[0]->surface;
    double whole = 1000 * G * below(surface, 10, none);
    double lift = 1000 * G * below(surface, p->level, moment);
    double arm_x = 1000 * G * moment[0] - (double)is.about.x * lift;
    double arm_z = 1000 * G * moment[2] - (double)is.about.z * lift;
    double force =
        fabs((double)is.force.x) + fabs((double)is.force.y - lift) + fabs((double)is.force.z);
    double torque = fabs((double)is.torque.z - arm_x) + fabs((double)is.torque.x + arm_z)
                    + fabs((double)is.torque.y);
    return fmax(force, torque / 0.3) / whole;
}

/* Held, in both forms, 2D and 3D, half and wholly under water, five angles, ten places. */
TEST C_50_archimedes_for_any_shape(void) {
    double worst = 0;
    for (int k = 0; k < 40; k++) {
        setting s = {24, 2, 0, FSI_BOUNDARY_CUT, 0, 0, 0, 0};
        if (k % 2)
            s.boundary = FSI_BOUNDARY_VOXEL;
        s.ball = k % 3 == 2;
        s.dim = k % 8 == 7 ? 3 : 2;
        s.n = s.dim == 3 ? 16 : 24;
        s.angle = 0.29 * (k % 5);
        double offset = (k % 10) / (10.0 * s.n);
        P.level = 0.7431 + offset;
        s.x = 0.5 + offset;
        s.y = k % 4 < 2 ? P.level - 0.02 : 0.4 + offset;
        ASSERT(pool_open(&P, &s));
        worst = fmax(worst, archimedes_error(&P));
        pool_close(&P);
    }
    CHECK_MOST(worst, TOL(1e-10, 1e-4));
    PASS();
}

/* Bodies of the water's density stay, anywhere; a flat barge at its depth lies still. */
TEST C_51_equilibrium_stays(void) {
    for (int k = 0; k < 8; k++) {
        setting s = {24, 2, 0, FSI_BOUNDARY_CUT, 1000, 0.37, 0.51, 0.4};
        if (k % 2)
            s.boundary = FSI_BOUNDARY_VOXEL;
        if (k / 4) {
            s.density = 500;
            s.angle = 0;
        }
        s.y += k / 2 % 2 * 0.017;
        P.level = k / 4 ? s.y : 0.7431;
        ASSERT(pool_open(&P, &s));
        for (int i = 0; i < 100; i++)
            ASSERT(fsi_world_step(&P.world, FSI_R(0.01), NULL) >= 0);
        const fsi_rigid *body = fsi_world_rigid(&P.world, P.id);
        CHECK_MOST(fabs((double)body->x.y - s.y) + fabs((double)body->x.x - s.x), TOL(1e-8, 1e-3));
        CHECK_MOST(fabs((double)body->spin.z), TOL(1e-7, 1e-2));
        CHECK_MOST(P.world.grid.stats.max_speed, TOL(1e-6, 1e-2));
        pool_close(&P);
    }
    PASS();
}

/* The impulse handed to a held body is that of the report, load included. */
TEST C_52_impulse_is_the_reports(void) {
    setting s = {24, 2, 0, FSI_BOUNDARY_CUT, 0, 0.3, 0.51, 0.4};
    P.level = 0.7431;
    ASSERT(pool_open(&P, &s));
    CHECK_OK(fsi_world_step(&P.world, FSI_R(0.01), NULL));
    fsi_body_report is;
    CHECK_OK(fsi_world_body(&P.world, P.id, &is));
    const fsi_interface *iface = &P.world.couple.iface;
    ASSERT(iface->still_loads && iface->still_solid[0].first >= 0);
    const fsi_coupled *door = iface->solid[0];
    if (door->impulse && door->dof >= 3)
        CHECK_REL((double)is.force.y, (double)door->impulse[1] / 0.01, TOL(1e-9, 1e-4));
    pool_close(&P);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv) {
    GREATEST_MAIN_BEGIN();
    RUN_TEST(C_50_archimedes_for_any_shape);
    RUN_TEST(C_51_equilibrium_stays);
    RUN_TEST(C_52_impulse_is_the_reports);
    GREATEST_MAIN_END();
}
