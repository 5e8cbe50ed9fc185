/* Trapped air that pushes: bubbles whose boundary is liquid and solids. Closed forms, 2D, SI units:
   a cup, a sealed hull, a bottle and a lid of boxes of 0.05 m, on the lines of a grid of 40. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "greatest.h"
#include "check.h"

static const double HALF_WIDTH = 0.2;
static const double HALF_HEIGHT = 0.15;
static const double WALL = 0.05;
static const double G = 9.81;

typedef struct vessel {
    fsi_world world;
    fsi_shape shape, wall[4];
    fsi_shape_part part[4];
    int id;
    double inside; /* height of the liquid inside, from the middle */
    double level;  /* of the pool; below zero: none */
    double y;      /* the vessel's middle */
} vessel;

static vessel V;

/* The pool, and in the cavity the liquid up to its own height. */
static fsi_real vessel_phi(fsi_vec3 x, void *user) {
    const vessel *v = (const vessel *)user;
    double dx = fabs((double)x.x - 0.5);
    double dy = (double)x.y - v->y;
    int within = dx < HALF_WIDTH - WALL / 2 && dy > -HALF_HEIGHT && dy < HALF_HEIGHT - WALL / 2;
    double phi = within ? fmin(dy - v->inside, 0.3) : (double)x.y - v->level;
    return (fsi_real)phi;
}

/* A box of the vessel by its corners. */
static void make_wall(fsi_shape_part *part, fsi_shape *shape, const double *corner) {
    fsi_shape_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.kind = FSI_SHAPE_BOX;
    desc.dim = 2;
    desc.half =
        fsi_vec((fsi_real)(corner[2] - corner[0]) / 2, (fsi_real)(corner[3] - corner[1]) / 2, 0);
    (void)fsi_shape_init(shape, &desc);
    part->shape = shape;
    part->x =
        fsi_vec((fsi_real)(corner[0] + corner[2]) / 2, (fsi_real)(corner[1] + corner[3]) / 2, 0);
}

/* walls: 3 = a cup upside down, 4 = sealed. density 0 = held. */
static int vessel_open(vessel *v, int walls, fsi_boundary_kind boundary, double density) {
    const double x = HALF_WIDTH;
    const double y = HALF_HEIGHT;
    const double corner[4][4] = {{-x, -y, -x + WALL, y},
                                 {x - WALL, -y, x, y},
                                 {-x + WALL, y - WALL, x - WALL, y},
                                 {-x + WALL, -y, x - WALL, -y + WALL}};
    fsi_world_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.grid.nx = desc.grid.ny = 40;
    desc.grid.nz = 1;
    desc.grid.h = FSI_R(1.0) / 40;
    desc.grid.rho = 1000;
    desc.grid.gravity = fsi_vec(0, (fsi_real)-G, 0);
    desc.grid.liquid = 1;
    desc.grid.tolerance = TOL(1e-9, 1e-5);
    desc.grid.side[FSI_TOP].kind = FSI_SIDE_OPEN;
    desc.couple.boundary = boundary;
    desc.couple.bubbles = 1;
    desc.max_bodies = 1;
    memset(v->part, 0, sizeof v->part);
    for (int i = 0; i < walls; i++)
        make_wall(v->part + i, v->wall + i, corner[i]);
    fsi_shape_desc shape;
    memset(&shape, 0, sizeof shape);
    shape.kind = FSI_SHAPE_COMPOUND;
    shape.dim = 2;
    shape.part = v->part;
    shape.part_count = walls;
    fsi_rigid_desc body;
    memset(&body, 0, sizeof body);
    body.kind = density > 0 ? FSI_RIGID_DYNAMIC : FSI_RIGID_SCRIPTED;
    body.density = (fsi_real)density;
    body.shape = &v->shape;
    fsi_result result = fsi_world_init(&v->world, &desc);
    if (result >= 0)
        result = fsi_shape_init(&v->shape, &shape);
    if (result < 0)
        return 0;

    body.x = fsi_vec(FSI_R(0.5), (fsi_real)v->y + v->shape.com.y, 0);
    v->id = fsi_world_add(&v->world, &body);
    result = fsi_grid_set_field(&v->world.grid, FSI_FIELD_PHI, vessel_phi, v);
    return v->id >= 0 && result >= 0;
}

static void vessel_close(vessel *v) {
    fsi_world_free(&v->world);
    fsi_shape_free(&v->shape);
    for (int i = 0; i < 4; i++)
        fsi_shape_free(v->wall + i);
    memset(v->wall, 0, sizeof v->wall);
}

/* Vertical force on the vessel after some steps of 2 ms. */
static double vessel_force(vessel *v, int steps) {
    fsi_body_report report;
    memset(&report, 0, sizeof report);
    for (int i = 0; i < steps; i++)
        if (fsi_world_step(&v->world, FSI_R(0.002), NULL) < 0)
            return 1e30;
    (void)fsi_world_body(&v->world, v->id, &report);
    return (double)report.force.y;
}

/* A cup held upside down under water is lifted by the water that cup and air displace. */
TEST C_30_cup_of_air(void) {
    V.y = 0.5;
    V.level = 0.8;
    V.inside = -HALF_HEIGHT + 0.1;
    ASSERT(vessel_open(&V, 3, FSI_BOUNDARY_VOXEL, 0));
    double width = 2 * (HALF_WIDTH - WALL);
    double air = width * (2 * HALF_HEIGHT - WALL - 0.1);
    double lift = 1000 * G * ((double)V.shape.volume + air);
    CHECK_REL(lift, vessel_force(&V, 1), TOL(1e-6, 1e-3));
    CHECK_REL(lift, vessel_force(&V, 100), 0.005);
    ASSERT_EQ(1, V.world.couple.bubbles);
    CHECK_REL(V.world.couple.bubble[0].target, V.world.couple.bubble[0].volume, 0.005);
    vessel_close(&V);
    PASS();
}

/* A sealed box half full of water, held in air: its force is the weight of the water. The air in it
   has no row: nothing can change its volume. */
TEST C_30_half_full_box(void) {
    V.y = 0.5;
    V.level = -1;
    V.inside = 0;
    ASSERT(vessel_open(&V, 4, FSI_BOUNDARY_VOXEL, 0));
    double water = 2 * (HALF_WIDTH - WALL) * (HALF_HEIGHT - WALL);
    CHECK_REL(-1000 * G * water, vessel_force(&V, 1), TOL(1e-6, 1e-3));
    CHECK_REL(-1000 * G * water, vessel_force(&V, 100), 0.005);
    vessel_close(&V);
    PASS();
}

/* Sealed air in a hull is harmless, both boundaries, held and free: a hull of the weight of the
   water that it displaces stays. */
TEST C_30_sealed_hull(void) {
    for (int cut = 0; cut < 2; cut++) {
        V.y = 0.5;
        V.level = 0.8;
        V.inside = -1;
        fsi_boundary_kind boundary = cut ? FSI_BOUNDARY_CUT : FSI_BOUNDARY_VOXEL;
        ASSERT(vessel_open(&V, 4, boundary, 0));
        double outer = 4 * HALF_WIDTH * HALF_HEIGHT;
        double lift = 1000 * G * outer;
        CHECK_REL(lift, vessel_force(&V, 1), cut ? 0.2 : TOL(1e-6, 1e-3));
        double solid = (double)V.shape.volume;
        vessel_close(&V);

        ASSERT(vessel_open(&V, 4, boundary, 1000 * outer / solid));
        for (int i = 0; i < 50; i++)
            ASSERT(fsi_world_step(&V.world, FSI_R(0.002), NULL) >= 0);
        double speed = fabs((double)V.world.solids.body[V.id].v.y);
        CHECK_MOST(speed, cut ? 0.1 * G * 0.1 : TOL(1e-4, 1e-3));
        vessel_close(&V);
    }
    PASS();
}

/* A sealed bottle, half full, falls in air with g, and nothing in it has any pressure. */
TEST C_30_falling_bottle(void) {
    for (int cut = 0; cut < 2; cut++) {
        V.y = 0.7;
        V.level = -1;
        V.inside = 0;
        ASSERT(vessel_open(&V, 4, cut ? FSI_BOUNDARY_CUT : FSI_BOUNDARY_VOXEL, 900));
        for (int i = 0; i < 50; i++)
            ASSERT(fsi_world_step(&V.world, FSI_R(0.002), NULL) >= 0);
        CHECK_NEAR(-G * 0.1, V.world.solids.body[V.id].v.y, TOL(1e-8, 1e-4));
        vessel_close(&V);
    }
    PASS();
}

static fsi_real dry(fsi_vec3 x, void *user) {
    (void)user;
    return x.y - FSI_R(0.2);
}

/* A lid as wide as the tank rests on the air below it; and the row of the air holds: what leaves
   through liquid faces comes in with the lid. */
TEST C_31_lid_on_air(void) {
    for (int cut = 0; cut < 2; cut++) {
        fsi_world_desc desc;
        memset(&desc, 0, sizeof desc);
        desc.grid.nx = desc.grid.ny = 40;
        desc.grid.nz = 1;
        desc.grid.h = FSI_R(1.0) / 40;
        desc.grid.rho = 1000;
        desc.grid.gravity = fsi_vec(0, (fsi_real)-G, 0);
        desc.grid.liquid = 1;
        desc.grid.tolerance = TOL(1e-9, 1e-5);
        desc.grid.side[FSI_TOP].kind = FSI_SIDE_OPEN;
        desc.couple.boundary = cut ? FSI_BOUNDARY_CUT : FSI_BOUNDARY_VOXEL;
        desc.max_bodies = 1;
        desc.no_walls = 1;
        fsi_world world;
        CHECK_OK(fsi_world_init(&world, &desc));
        fsi_shape_desc box;
        memset(&box, 0, sizeof box);
        box.kind = FSI_SHAPE_BOX;
        box.dim = 2;
        box.half = fsi_vec(FSI_R(0.6), FSI_R(0.1), 0);
        fsi_shape shape;
        CHECK_OK(fsi_shape_init(&shape, &box));
        fsi_rigid_desc body;
        memset(&body, 0, sizeof body);
        body.kind = FSI_RIGID_DYNAMIC;
        body.shape = &shape;
        body.density = 500;
        body.inertia = fsi_vec(FSI_R(1e6), FSI_R(1e6), FSI_R(1e6));
        body.x = fsi_vec(FSI_R(0.5), FSI_R(0.7), 0);
        int id = fsi_world_add(&world, &body);
        ASSERT(id >= 0);
        CHECK_OK(fsi_grid_set_field(&world.grid, FSI_FIELD_PHI, dry, NULL));
        for (int i = 0; i < 100; i++)
            ASSERT(fsi_world_step(&world, FSI_R(0.002), NULL) >= 0);
        double weight = 500 * G * 1.2 * 0.2;
        ASSERT_EQ(1, world.couple.bubbles);
        CHECK_REL(weight, world.couple.bubble[0].pressure, TOL(1e-6, 1e-3));
        CHECK_NEAR(0, world.solids.body[id].v.y, TOL(1e-7, 1e-4));
        CHECK_REL(world.couple.bubble[0].target, world.couple.bubble[0].volume, 1e-3);
        fsi_world_free(&world);
        fsi_shape_free(&shape);
    }
    PASS();
}

/* A free cup: the row of its air holds for every face of the boundary, liquid and solid, and what
   the cup gains of momentum is what it was given. */
TEST C_32_row_of_the_whole_boundary(void) {
    V.y = 0.5;
    V.level = 0.8;
    V.inside = -HALF_HEIGHT + 0.1;
    for (int cut = 0; cut < 2; cut++) {
        fsi_report report;
        ASSERT(vessel_open(&V, 3, cut ? FSI_BOUNDARY_CUT : FSI_BOUNDARY_VOXEL, 1500));
        ASSERT(fsi_world_step(&V.world, FSI_R(0.002), &report) >= 0);
        const fsi_couple *couple = &V.world.couple;
        const fsi_interface *iface = &couple->iface;
        double area = (double)iface->h;
        double flux = 0;
        double size = 0;
        ASSERT(couple->bubbles >= 1);
        for (int i = 0; i < iface->sides; i++) {
            const fsi_side *side = iface->side + i;
            if (!side->air || couple->bubble_cell[side->cell] != 1)
                continue;
            double out = area * (double)side->share * side->sign * (double)couple->side_velocity[i];
            flux += out;
            size += fabs(out);
        }
        ASSERT(size > 0);
        CHECK_NEAR(flux * 0.002, couple->bubble[0].swept, TOL(1e-12, 1e-7));
        CHECK_MOST(fabs(report.momentum[1]), TOL(1e-6, 1e-2));

        /* It rises: 67.5 kg against 90 kg displaced. */
        if (!cut)
            ASSERT((double)V.world.solids.body[V.id].v.y > 0);
        vessel_close(&V);
    }
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv) {
    GREATEST_MAIN_BEGIN();
    RUN_TEST(C_30_cup_of_air);
    RUN_TEST(C_30_half_full_box);
    RUN_TEST(C_30_sealed_hull);
    RUN_TEST(C_30_falling_bottle);
    RUN_TEST(C_31_lid_on_air);
    RUN_TEST(C_32_row_of_the_whole_boundary);
    GREATEST_MAIN_END();
}
