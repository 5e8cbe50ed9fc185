/* Contact in the coupled step: rigid bodies that rest, slide, pile up and leave under water
 * (fsi_solids_hold, which fsi_world calls by itself). */
#include "fsi_couple.h"
#include "check.h"
#include "greatest.h"

#define BODIES 16
#define DT FSI_R(0.01)
#define RHO 1000.0

static int verbose(void) {
    return getenv("FSI_VERBOSE") != NULL;
}

/* ---- A tank 1 m wide and high, n cells a side (3D: half as deep), water 0.8 m deep, or full and
 * open above. */
typedef struct tank {
    fsi_world w;
    fsi_shape shape[BODIES];
    int shapes;
} tank;

static tank T;

static fsi_real surface_at(fsi_vec3 x, void *user) {
    (void)user;
    return x.y - FSI_R(0.8);
}

/* Of the tanks to come. In single precision cut cells and the kept volume stir thin films of water
 * between bodies: the bars there are those of the older form, voxels without it. */
static fsi_boundary_kind tank_boundary = FSI_BOUNDARY_DEFAULT;
static const fsi_boundary_kind for_films =
    sizeof(fsi_real) == 4 ? FSI_BOUNDARY_VOXEL : FSI_BOUNDARY_DEFAULT;

static int tank_open(tank *t, int n, int dim, int full, double rho, double damping) {
    memset(t, 0, sizeof *t);
    fsi_world_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.grid.nx = desc.grid.ny = n;
    desc.grid.nz = dim == 3 ? n / 2 : 1;
    desc.grid.h = 1 / (fsi_real)n;
    desc.grid.rho = (fsi_real)rho;
    desc.grid.gravity = fsi_vec(0, -10, 0);
    /* no markers: they take time and have no part in contact */
    desc.grid.liquid = !full;
    desc.grid.particles = -1;
    if (full)
        desc.grid.side[FSI_TOP].kind = FSI_SIDE_OPEN;
    desc.max_bodies = BODIES;
    desc.max_guests = 1;
    desc.damping = (fsi_real)damping;
    desc.couple.boundary = tank_boundary;
    desc.grid.volume_correction =
        tank_boundary == FSI_BOUNDARY_VOXEL && tank_boundary == for_films ? -1 : 0;
    if (fsi_world_init(&t->w, &desc) != FSI_OK)
        return 0;
    return full || fsi_grid_set_field(&t->w.grid, FSI_FIELD_PHI, surface_at, NULL) == FSI_OK;
}

/* A ball (b = 0: radius a), box (half sizes a, b) or, a = 0, a fixed plane that only solids see;
 * density over water's, turned by angle about z. Returns its number or -1. */
static int tank_add(tank *t, double a, double b, double x, double y, double angle, double density,
                    double friction) {
    fsi_shape_desc desc;
    int deep = t->w.grid.dim == 3;
    memset(&desc, 0, sizeof desc);
    fsi_rigid_desc given;
    memset(&given, 0, sizeof given);
    desc.kind = !(a > 0) ? FSI_SHAPE_PLANE : b > 0 ? FSI_SHAPE_BOX : FSI_SHAPE_SPHERE;
    desc.dim = t->w.grid.dim;
    desc.radius = (fsi_real)a;
    desc.half = fsi_vec((fsi_real)a, (fsi_real)b, deep ? (fsi_real)a : 0);
    if (fsi_shape_init(&t->shape[t->shapes], &desc) != FSI_OK)
        return -1;
    given.kind = density > 0 ? FSI_RIGID_DYNAMIC : FSI_RIGID_FIXED;
    given.shape = &t->shape[t->shapes++];
    given.density = (fsi_real)(density * RHO);
    given.friction = (fsi_real)friction;
    given.x = fsi_vec((fsi_real)x, (fsi_real)y, deep ? FSI_R(0.25) : 0);
    given.q = fsi_quat_from_rotation(fsi_vec(0, 0, (fsi_real)angle));
    return fsi_world_add(&t->w, &given);
}

static void tank_close(tank *t) {
    fsi_world_free(&t->w);
    for (int i = 0; i < t->shapes; i++)
        fsi_shape_free(&t->shape[i]);
}

/* The step by its stages, for comparison: without hold, which is how it was. */
static fsi_result plain_move(fsi_real dt, void *user) {
    fsi_solids *solids = &((tank *)user)->w.solids;
    for (int i = 0; i < solids->body_count; i++)
        if (solids->body[i].kind == FSI_RIGID_DYNAMIC && fsi_solids_take(solids, i) != FSI_OK)
            return FSI_ERR_STATE;
    return fsi_solids_move(solids, dt);
}

static fsi_result tank_step(tank *t, int hold) {
    fsi_coupled *list[BODIES];
    fsi_solids *solids = &t->w.solids;
    fsi_real keep = 1 / (1 + DT * t->w.damping);
    if (hold)
        return fsi_world_step(&t->w, DT, NULL);
    fsi_scene sc;
    memset(&sc, 0, sizeof sc);
    for (int a = 0; a < t->w.grid.dim; a++)
        for (size_t f = 0; f < t->w.grid.faces[a]; f++)
            t->w.grid.u[a][f] *= keep;
    if (fsi_solids_forces(solids, DT) != FSI_OK)
        return FSI_ERR_STATE;
    for (int i = 0; i < solids->body_count; i++)
        if (solids->body[i].shape->surface.vertex_count > 0
            && fsi_solids_couple(solids, i, &list[sc.count++]) != FSI_OK)
            return FSI_ERR_STATE;
    sc.solid = list;
    sc.stages.move_fn = plain_move;
    sc.stages.user = t;
    return fsi_couple_step(&t->w.couple, &sc, DT, NULL);
}

/* over faces of liquid cells: above the surface u is only a continuation */
static double fastest_water(const tank *t) {
    const fsi_grid *grid = &t->w.grid;
    const size_t n[3] = {(size_t)grid->nx, (size_t)grid->ny, (size_t)grid->nz};
    double most = 0;
    size_t i[3];
    for (size_t c = 0; c < grid->cells; c++) {
        if (grid->phi && grid->phi[c] > 0)
            continue;
        i[0] = c % n[0];
        i[1] = c / n[0] % n[1];
        i[2] = c / n[0] / n[1];
        for (int k = 0; k < 2 * grid->dim; k++) {
            int a = k / 2;
            i[a] += (size_t)(k % 2);
            most = fmax(
                most,
                fabs((double)
                         grid->u[a][i[0] + (n[0] + (a == 0)) * (i[1] + (n[1] + (a == 1)) * i[2])]));
            i[a] -= (size_t)(k % 2);
        }
    }
    return most;
}

static double fastest_body(const tank *t) {
    double most = 0;
    for (int i = 0; i < t->w.solids.body_count; i++)
        most = fmax(most, (double)fsi_vec_length(t->w.solids.body[i].v));
    return most;
}

/* ---- At rest: nothing moves, water included. */
typedef struct still {
    double water, body, sunk;
    int steps;
} still;

/* kind 0: ball, 1: box, 2: three boxes, 3: heap of 12 (two balls below boxes), densities 1.2 .. 8
 */
static int lie(int n, int dim, int kind, int hold, int steps, still *out) {
    double size = dim == 3 ? 0.09 : 0.07;
    int moved = 0, ok = tank_open(&T, n, dim, 0, RHO, 2);
    if (kind == 0)
        ok = ok && tank_add(&T, 0.1, 0, 0.5, 0.1, 0, 2, 0.3) >= 0;
    int i;
    for (i = 0; i < (kind == 1 ? 1 : kind == 2 ? 3 : 0); i++)
        ok = ok && tank_add(&T, 0.1, 0.1, 0.5, 0.1 + 0.2 * i, 0, 2, 0.3) >= 0;
    for (i = 0; i < (kind == 3 ? 12 : 0); i++)
        ok = ok
             && tank_add(&T, size,
                         i < 3 && i != 1 ? 0
                         : i % 2         ? size
                                         : 0.6 * size,
                         0.3 + 2.6 * size * (i % 3) + 0.01 * (i / 3),
                         1.3 * size + 2.3 * size * (i / 3), 0.2 * i,
                         i % 4 == 0   ? 1.2
                         : i % 4 == 1 ? 8
                         : i % 4 == 2 ? 2
                                      : 4,
                         0.4)
                    >= 0;
    /* the fastest of the last ten steps */
    for (out->water = 0, i = 0; i < steps && ok; i++) {
        ok = tank_step(&T, hold) >= 0;
        if (fastest_body(&T) > 0.02)
            moved = i + 1;
        if (kind == 3 && hold)
            steps = moved + 200 < 800 ? moved + 200 : 800;
        if (i >= steps - 10)
            out->water = fmax(out->water, fastest_water(&T));
    }
    out->steps = steps;
    out->body = fastest_body(&T);
    out->sunk = 0.1 - (double)T.w.solids.body[0].x.y;
    tank_close(&T);
    return ok;
}

static int lie_both(const char *name, int n, int dim, int kind, int steps, still out[2]) {
    int ok = lie(n, dim, kind, 1, steps, &out[1]) && lie(n, dim, kind, 0, out[1].steps, &out[0]);
    if (verbose())
        printf("  %s, %dD: fastest water %.1e m/s, body %.1e m/s; contact not held %.1e and %.1e\n",
               name, dim, out[1].water, out[1].body, out[0].water, out[0].body);
    return ok;
}

TEST at_rest_on_the_floor(void) {
    static const char *const name[3] = {"ball", "box", "three boxes"};
    still s[2];
    for (int kind = 0; kind < 3; kind++)
        for (int dim = 2; dim < 4; dim++) {
            ASSERT(lie_both(name[kind], dim == 3 ? 16 : 32, dim, kind, 150, s));
            CHECK_MOST(0.05, s[0].water);
            CHECK_MOST(s[1].water, 2e-3);
            CHECK_MOST(s[1].body, 1e-3);
            CHECK_MOST(fabs(s[1].sunk), 2e-3);
        }
    PASS();
}

/* Two seconds after the last body moved at 0.02 m/s (one may slide down a wall for 4 s; 8 s are too
 * long): damping has left 2 % of the currents (e^-2t), 14 % of waves (e^-t). */
TEST heap_comes_to_rest(void) {
    still s[2];
    tank_boundary = for_films;
    ASSERT(lie_both("heap of 12", 40, 2, 3, 800, s));
    CHECK_MOST(s[1].steps, 799);
    CHECK_MOST(s[1].water, 0.2 * s[0].water);
    CHECK_MOST(s[1].water, 0.03);
    CHECK_MOST(s[1].body, 0.02);
    int opened = lie(16, 3, 3, 1, 800, s);
    tank_boundary = FSI_BOUNDARY_DEFAULT;
    ASSERT(opened);
    if (verbose())
        printf("  heap of 12, 3D: fastest water %.1e m/s, body %.1e m/s after %d steps\n",
               s[0].water, s[0].body, s[0].steps);
    CHECK_MOST(s[0].steps, 799);
    CHECK_MOST(s[0].water, 0.03);
    CHECK_MOST(s[0].body, 0.02);
    PASS();
}

/* ---- Friction. In air on a slope of 20 degrees (the floor with gravity tilted): a = g (sin - mu
   cos), or none. Under water pushed sideways by 0.8 and 1.3 times mu times what the floor really
   carries: the first stays, the second goes. */
static int slope(double friction, double *way) {
    double angle = 0.349065850398866;
    /* the walls have 0.3 */
    int ok = tank_open(&T, 40, 2, 1, 1.2, 0),
        box = ok ? tank_add(&T, 0.1, 0.1, 0.3, 0.1, 0, 2, friction * friction / 0.3) : -1;
    T.w.grid.desc.gravity = T.w.solids.desc.gravity =
        fsi_vec((fsi_real)(10 * sin(angle)), (fsi_real)(-10 * cos(angle)), 0);
    for (int i = 0; i < 30 && box >= 0 && ok; i++)
        ok = tank_step(&T, 1) >= 0;
    if (box >= 0)
        *way = (double)T.w.solids.body[box].x.x - 0.3;
    tank_close(&T);
    return ok && box >= 0;
}

TEST slope_with_friction(void) {
    double way, a = 10 * (sin(0.349065850398866) - 0.2 * cos(0.349065850398866));
    ASSERT(slope(0.5, &way));
    if (verbose())
        printf("  slope, friction 0.5: moved %.1e m", way);
    CHECK_MOST(fabs(way), 1e-3);
    ASSERT(slope(0.2, &way));
    if (verbose())
        printf("; friction 0.2: %.4f m of %.4f\n", way, a * 0.3 * 0.3 / 2);
    CHECK_REL(a * 0.3 * 0.3 / 2, way, 0.03);
    PASS();
}

TEST friction_under_water(void) {
    double x[2];
    for (int k = 0; k < 2; k++) {
        fsi_real N = 0;
        ASSERT(tank_open(&T, 40, 2, 0, RHO, 2));
        int box = tank_add(&T, 0.1, 0.1, 0.3, 0.1, 0, 4, 0.3);
        ASSERT(box >= 0);
        for (int i = 0; i < 60; i++) {
            if (i == 40)
                N = T.w.solids.body[box].push.linear.y / DT;
            if (i >= 40)
                T.w.solids.body[box].force.x = (k ? FSI_R(1.3) : FSI_R(0.8)) * FSI_R(0.3) * N;
            ASSERT(tank_step(&T, 1) >= 0);
            if (i == 39)
                x[k] = (double)T.w.solids.body[box].x.x;
        }
        x[k] = (double)T.w.solids.body[box].x.x - x[k];
        tank_close(&T);
    }
    if (verbose())
        printf("  under water, pushed by 0.8 of its friction: moved %.1e m; by 1.3: %.1e m\n", x[0],
               x[1]);
    CHECK_MOST(fabs(x[0]), 1e-4);
    ASSERT(x[1] > 0.01);
    PASS();
}

/* ---- Leaving. A ball on a plane (no water is shut in by it) that was pressed down and is let go,
 * or is pulled off, goes as one does that nothing held. */
/* forces over the weight of the displaced water; v: speeds of the steps after */
static int leave(double density, double press, double pull, int hold, double *v) {
    int ok = tank_open(&T, 40, 2, 0, RHO, 4) && tank_add(&T, 0, 0, 0.5, 0.2, 0, 0, 0.3) >= 0;
    double size = 3.14159265 * 0.1 * 0.1 * RHO * 10;
    int id = ok ? tank_add(&T, 0.1, 0, 0.5, 0.3, 0, density, 0.3) : -1;
    for (int i = press == 0 ? 100 : 0; i < 104 && id >= 0 && ok; i++) {
        T.w.solids.body[id].force.y = (fsi_real)((i < 100 ? press : pull) * size);
        if (i == 100)
            T.w.damping = 0;
        ok = tank_step(&T, hold) >= 0;
        if (i >= 100)
            v[i - 100] = (double)T.w.solids.body[id].v.y;
    }
    tank_close(&T);
    return ok && id >= 0;
}

TEST leaves_at_once(void) {
    static const double c[5][3] = {
        {0.1, -2, 0}, {0.1, -2, 2}, {0.5, -1.5, 1}, {2, -1, 3}, {2, -1e-9, 2}};
    double v[4], plain[4], untouched[4];
    for (int k = 0; k < 5; k++) {
        ASSERT(leave(c[k][0], c[k][1], c[k][2], 1, v) && leave(c[k][0], c[k][1], c[k][2], 0, plain)
               && leave(c[k][0], 0, c[k][2], 1, untouched));
        if (verbose())
            printf("  density %g let go: %.4f %.4f %.4f %.4f m/s; not held: %.4f .. %.4f; never "
                   "pressed: %.4f %.4f %.4f %.4f\n",
                   c[k][0], v[0], v[1], v[2], v[3], plain[0], plain[3], untouched[0], untouched[1],
                   untouched[2], untouched[3]);
        /* later it covers other cells: it has rolled a little */
        for (int i = 0; i < 4; i++)
            CHECK_NEAR(untouched[i], v[i], (i ? 0.1 : 0.02) * fabs(untouched[i]) + 1e-3);
    }
    PASS();
}

/* What it rested on goes without a word: one step off by half the body's radius at most, then as
 * the others. */
TEST floor_that_goes(void) {
    static const double density[4] = {1e-4, 1e-2, 0.3, 1e4};
    for (int k = 0; k < 4; k++) {
        double side = density[k] < 1 ? 1 : -1;
        ASSERT(tank_open(&T, 40, 2, 0, RHO, 2));
        int slab = tank_add(&T, 0, 0, 0.5, 0.4, side > 0 ? 3.14159265358979 : 0, 0, 0.3);
        int id = tank_add(&T, 0.08, 0, 0.5, 0.4 - side * 0.08, 0, density[k], 0.3);
        ASSERT(slab >= 0 && id >= 0);
        for (int i = 0; i < 60; i++)
            ASSERT(tank_step(&T, 1) >= 0);
        double before = (double)T.w.solids.body[id].x.y;
        double size = (double)T.w.solids.body[id].shape->bound;
        CHECK_NEAR(0.4 - side * 0.08, before, 0.01);
        CHECK_OK(fsi_solids_set_pose(&T.w.solids, slab, fsi_vec(0, (fsi_real)(0.4 + 9 * side), 0),
                                     T.w.solids.body[slab].q));
        ASSERT(tank_step(&T, 1) >= 0);
        double after = (double)T.w.solids.body[id].x.y;
        if (verbose())
            printf("  density %g, its support gone: %.4f m in the first step\n", density[k],
                   after - before);
        CHECK_MOST(fabs(after - before), 0.5 * size + 0.01);
        for (int i = 0; i < 10; i++)
            ASSERT(tank_step(&T, 1) >= 0);
        CHECK_MOST(fastest_body(&T), 20);
        tank_close(&T);
    }
    PASS();
}

/* ---- Any mass ratio: held against a plane by weight or buoyancy, the water is never faster than
 * without hold; an impact is not repeated. */
TEST any_mass_ratio(void) {
    static const double density[8] = {1e-4, 1e-2, 0.1, 0.5, 1.5, 10, 100, 1e4};
    for (int k = 0; k < 8; k++) {
        double side = density[k] < 1 ? 1 : -1, water[2];
        for (int hold = 0; hold < 2; hold++) {
            tank_boundary = for_films;
            int opened = tank_open(&T, 40, 2, 0, RHO, 2);
            tank_boundary = FSI_BOUNDARY_DEFAULT;
            ASSERT(opened);
            ASSERT(tank_add(&T, 0, 0, 0.5, 0.4, side > 0 ? 3.14159265358979 : 0, 0, 0.3) >= 0);
            int id = tank_add(&T, 0.08, 0, 0.5, 0.4 - side * 0.08, 0, density[k], 0.3);
            ASSERT(id >= 0);
            for (int i = 0; i < 150; i++)
                ASSERT(tank_step(&T, hold) >= 0);
            water[hold] = fastest_water(&T);
            if (hold)
                CHECK_NEAR(0.4 - side * 0.08, T.w.solids.body[id].x.y, 0.01);
            tank_close(&T);
        }
        if (verbose())
            printf("  density %g against a plane: fastest water %.1e m/s, not held %.1e\n",
                   density[k], water[1], water[0]);
        CHECK_MOST(water[1], 1.05 * water[0]);
        /* light ones settle at once, too: the contact is inside the solve */
        CHECK_MOST(water[1], 0.01);
    }
    PASS();
}

/* A light box slides along the underside of a slope on two contacts: where the water turns it, one
   of them would have to pull. It stays for that step, and is not thrown off by what the move takes
   back (it turned by 0.3 rad at 20 rad/s); wrung off it leaves. */
TEST contacts_do_not_pull(void) {
    const double a = 3.14159265358979 + 0.3, turned = 0.3;
    double most = 0, off = 0;
    tank_boundary = FSI_BOUNDARY_VOXEL;
    int opened = tank_open(&T, 40, 2, 0, RHO, 0);
    tank_boundary = FSI_BOUNDARY_DEFAULT;
    ASSERT(opened);
    ASSERT(tank_add(&T, 0, 0, 0.5, 0.4, a, 0, 0) >= 0);
    int id =
        tank_add(&T, 0.08, 0.06, 0.5 - 0.0601 * sin(a), 0.4 + 0.0601 * cos(a), turned, 1e-4, 0);
    ASSERT(id >= 0);
    const fsi_rigid *body = &T.w.solids.body[id];
    for (int i = 0; i < 60; i++) {
        ASSERT(tank_step(&T, 1) >= 0);
        most = fmax(most, fabs(2 * atan2((double)body->q.z, (double)body->q.w) - turned));
        off = fmax(off, -(double)(body->x.x - FSI_R(0.5)) * sin(a)
                            + (double)(body->x.y - FSI_R(0.4)) * cos(a) - 0.06);
    }
    if (verbose())
        printf("  light box under a slope: turned by %.4f rad, %.1e m off it, %.2f m/s\n", most,
               off, (double)fsi_vec_length(body->v));
    CHECK_MOST(most, 0.03);
    CHECK_MOST(off, 1e-3);
    ASSERT(fsi_vec_length(body->v) > FSI_R(0.2));
    /* three times what its buoyancy can hold */
    T.w.solids.body[id].torque.z =
        3 * (4 * FSI_R(0.08) * FSI_R(0.06) * FSI_R(RHO) * 10) * FSI_R(0.08);
    for (int i = 0; i < 10; i++)
        ASSERT(tank_step(&T, 1) >= 0);
    if (verbose())
        printf("  wrung off: turned by %.3f rad\n",
               2 * atan2((double)body->q.z, (double)body->q.w) - turned);
    CHECK_MOST(0.1, 2 * atan2((double)body->q.z, (double)body->q.w) - turned);
    tank_close(&T);
    PASS();
}

TEST impact_is_not_repeated(void) {
    int hit = -1;
    ASSERT(tank_open(&T, 40, 2, 0, RHO, 0));
    int id = tank_add(&T, 0.1, 0, 0.5, 0.125, 0, 8, 0.3);
    ASSERT(id >= 0);
    CHECK_OK(fsi_solids_set_velocity(&T.w.solids, id, fsi_vec(0, -2, 0), fsi_vec(0, 0, 0)));
    for (int i = 0; i < 10; i++) {
        const fsi_rigid *body = &T.w.solids.body[id];
        ASSERT(tank_step(&T, 1) >= 0);
        if (hit < 0 && body->push.linear.y > 0)
            hit = i;
        if (hit == i)
            CHECK_MOST(body->mass, body->push.linear.y); /* more than 1 m/s was stopped */
        /* what is held after the impact: what contact does now, no more */
        if (i == hit + 1 && hit >= 0) {
            CHECK_OK(fsi_solids_forces(&T.w.solids, DT));
            CHECK_OK(fsi_solids_hold(&T.w.solids, DT));
            CHECK_MOST(body->held.linear.y, body->push.linear.y * (1 + 1e-6));
            CHECK_MOST(body->held.linear.y, 0.5 * body->mass);
            break;
        }
    }
    ASSERT(hit >= 0);
    tank_close(&T);
    PASS();
}

/* ---- Momentum: forces, contact and water together are what a body gains; the hold comes back to
 * the last bit it can. */
static void pile(tank *t) {
    for (int i = 0; i < 6; i++)
        (void)tank_add(t, 0.07, i % 2 ? 0.07 : 0, 0.35 + 0.15 * (i % 3), 0.08 + 0.15 * (i / 3),
                       0.1 * i, 1.5 + i, 0.4);
}

TEST C_16_17_momentum_with_contact(void) {
    double worst = 0, size = 0;
    ASSERT(tank_open(&T, 40, 2, 0, RHO, 0));
    pile(&T);
    for (int step = 0; step < 30; step++) {
        fsi_rigid old[BODIES];
        memcpy(old, T.w.solids.body, (size_t)T.w.solids.body_count * sizeof *old);
        ASSERT(tank_step(&T, 1) >= 0);
        for (int i = 0; i < T.w.solids.body_count; i++) {
            const fsi_rigid *body = &T.w.solids.body[i];
            fsi_body_report report;
            fsi_vec3 sum = fsi_vec_add(body->load.linear, body->push.linear),
                     gain = fsi_vec_scale(fsi_vec_sub(body->v, old[i].v), body->mass);
            CHECK_OK(fsi_world_body(&T.w, i, &report));
            sum = fsi_vec_mad(sum, report.force, DT);
            worst = fmax(worst, (double)fsi_vec_length(fsi_vec_sub(sum, gain)));
            worst = fmax(worst, fabs((double)(body->load.angular.z + body->push.angular.z
                                              + DT * report.torque.z - (body->L.z - old[i].L.z))));
            size = fmax(size, (double)fsi_vec_length(body->load.linear));
        }
    }
    if (verbose())
        printf("  momentum: off by %.1e of %.1e N s\n", worst, size);
    CHECK_MOST(worst, TOL(1e-11, 1e-3) * size);
    tank_close(&T);
    PASS();
}

/* A flat box's two contacts take all of its motion but sideways: to the solve it is not free, and
 * its ledger knows no other impulse than the water's. */
TEST C_16_ledger_of_pressed_boxes(void) {
    for (int k = 0; k < 3; k++) {
        const double density = k == 0 ? 1.3 : k == 1 ? 4 : 1e4;
        ASSERT(tank_open(&T, 32, 2, 0, RHO, 0));
        int id = tank_add(&T, 0.1, 0.1, 0.4 + 0.013 * k, 0.1, 0, density, 0.3);
        for (int i = 0; i < 20; i++) {
            fsi_report report;
            ASSERT(fsi_world_step(&T.w, DT, &report) >= 0);
            CHECK_MOST(fabs(report.momentum[1]),
                       TOL(1e-11, 1e-3) * (double)T.w.solids.body[id].mass);
            CHECK_OK(fsi_solids_forces(&T.w.solids, DT));
            CHECK_OK(fsi_solids_hold(&T.w.solids, DT));
            fsi_coupled *door;
            CHECK_OK(fsi_solids_couple(&T.w.solids, id, &door));
            if (i > 10)
                ASSERT(door->inverse_mass[7] == 0 && door->inverse_mass[35] == 0
                       && door->inverse_mass[0] > 0);
            CHECK_OK(fsi_solids_move(&T.w.solids, DT));
        }
        tank_close(&T);
    }
    PASS();
}

/* without a fluid: the same motion with and without */
TEST hold_alone_changes_nothing(void) {
    static tank U;
    ASSERT(tank_open(&T, 8, 2, 1, RHO, 0) && tank_open(&U, 8, 2, 1, RHO, 0));
    pile(&T);
    pile(&U);
    for (int step = 0; step < 40; step++) {
        CHECK_OK(fsi_solids_step(&T.w.solids, DT));
        CHECK_OK(fsi_solids_forces(&U.w.solids, DT));
        CHECK_OK(fsi_solids_hold(&U.w.solids, DT));
        if (step % 2)
            CHECK_OK(fsi_solids_hold(&U.w.solids, DT)); /* twice is once */
        CHECK_OK(fsi_solids_move(&U.w.solids, DT));
        for (int i = 0; i < T.w.solids.body_count; i++) {
            CHECK_NEAR(T.w.solids.body[i].x.x, U.w.solids.body[i].x.x, TOL(1e-9, 1e-3));
            CHECK_NEAR(T.w.solids.body[i].x.y, U.w.solids.body[i].x.y, TOL(1e-9, 1e-3));
        }
    }
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_solids_hold(&U.w.solids, 0));
    CHECK_RESULT(FSI_ERR_STATE, fsi_solids_hold(NULL, DT));
    tank_close(&T);
    tank_close(&U);
    PASS();
}

/* ---- State and threads. */
static uint64_t tank_hash(const tank *t) {
    uint64_t h = check_hash(t->w.grid.u[1], t->w.grid.faces[1] * sizeof(fsi_real), 1);
    for (int i = 0; i < t->w.solids.body_count; i++) {
        h = check_hash(&t->w.solids.body[i].x, sizeof(fsi_vec3), h);
        h = check_hash(&t->w.solids.body[i].push, sizeof(fsi_wrench), h);
    }
    return h;
}

TEST restore_and_threads(void) {
    static const int threads[3] = {1, 2, 3};
    uint64_t first = 0, h[2];
    for (int k = 0; k < 3; k++) {
        check_threads(threads[k]);
        ASSERT(tank_open(&T, 24, 2, 0, RHO, 0));
        pile(&T);
        for (int i = 0; i < 8; i++)
            ASSERT(tank_step(&T, 1) >= 0);
        void *state = malloc(fsi_world_state_size(&T.w));
        ASSERT(state);
        CHECK_OK(fsi_world_save(&T.w, state));
        for (int run = 0; run < 2; run++) {
            for (int i = 0; i < 6; i++)
                ASSERT(tank_step(&T, 1) >= 0);
            h[run] = tank_hash(&T);
            if (run == 0)
                CHECK_OK(fsi_world_restore(&T.w, state, fsi_world_state_size(&T.w)));
        }
        ASSERT(h[0] == h[1]);
        if (k == 0)
            first = h[0];
        ASSERT(h[0] == first);
        free(state);
        tank_close(&T);
    }
    check_threads(1);
    PASS();
}

/* ---- The energy account. */

static double account_sum(const fsi_report *r) {
    return r->energy_gravity + r->energy_driven + r->energy_contact + r->energy_solve
           + r->energy_advection;
}

/* A paddle that starts at once in water at rest: its impulse p gives it the work p v, of which one
   half is the water's kinetic energy and the solve takes the other. */
TEST C_40_account_of_a_sudden_start(void) {
    for (int form = 0; form < 2; form++) {
        tank_boundary = form ? FSI_BOUNDARY_CUT : FSI_BOUNDARY_VOXEL;
        ASSERT(tank_open(&T, 24, 2, 0, RHO, 0));
        T.w.grid.desc.gravity = T.w.solids.desc.gravity = fsi_vec(0, 0, 0);
        int paddle = tank_add(&T, 0.13, 0.11, 0.52, 0.4, 0.2, 0, 0.3);
        ASSERT(paddle >= 0);
        T.w.solids.body[paddle].kind = FSI_RIGID_SCRIPTED;
        fsi_quat turn = T.w.solids.body[paddle].q;
        fsi_vec3 to = fsi_vec_add(T.w.solids.body[paddle].x, fsi_vec(FSI_R(0.004), 0, 0));
        CHECK_OK(fsi_solids_script(&T.w.solids, paddle, to, turn, DT));
        fsi_report r;
        CHECK_OK(fsi_world_step(&T.w, DT, &r));
        ASSERT(r.energy > 1);
        CHECK_REL(r.energy, r.energy_change, 1e-12);
        CHECK_REL(2 * r.energy_change, r.energy_driven, TOL(1e-5, 1e-3));
        CHECK_REL(-r.energy_change, r.energy_solve, TOL(1e-5, 1e-3));
        CHECK_NEAR(0, r.energy_advection, 1e-9);
        CHECK_NEAR(0, r.energy_contact, 1e-9);
        CHECK_REL(r.energy_change, account_sum(&r), TOL(1e-12, 1e-6));
        tank_close(&T);
    }
    tank_boundary = FSI_BOUNDARY_DEFAULT;
    PASS();
}

/* Boxes fall onto each other: the parts add up in every step, and the solve never gives. */
TEST C_40_account_of_falling_boxes(void) {
    for (int form = 0; form < 2; form++) {
        tank_boundary = form ? FSI_BOUNDARY_CUT : FSI_BOUNDARY_VOXEL;
        ASSERT(tank_open(&T, 32, 2, 0, RHO, 0));
        ASSERT(tank_add(&T, 0.1, 0.06, 0.5, 0.2, 0.1, 3, 0.3) >= 0);
        ASSERT(tank_add(&T, 0.1, 0.06, 0.53, 0.45, 0.4, 0.3, 0.3) >= 0);
        double weight = 0;
        for (int i = 0; i < 100; i++) {
            fsi_solids_report before, after;
            fsi_report r;
            CHECK_OK(fsi_solids_measure(&T.w.solids, &before));
            ASSERT(fsi_world_step(&T.w, DT, &r) >= 0);
            CHECK_OK(fsi_solids_measure(&T.w.solids, &after));
            CHECK_NEAR(r.energy_change, account_sum(&r), TOL(1e-9, 1e-3) * (1 + r.energy));
            CHECK_MOST(r.energy_solve, TOL(1e-6, 1e-3) * (1 + r.energy));
            CHECK_NEAR(0, r.energy_driven, TOL(1e-9, 1e-3) * (1 + r.energy));
            ASSERT(r.energy >= after.kinetic);
            weight += before.potential - after.potential;
        }
        ASSERT(weight > 10);
        tank_close(&T);
    }
    tank_boundary = FSI_BOUNDARY_DEFAULT;
    PASS();
}

/* Somebody kicks a body in the middle of a step. */
static fsi_result kick(fsi_real dt, void *user) {
    fsi_solids *solids = &((tank *)user)->w.solids;
    (void)dt;
    fsi_vec3 push = fsi_vec(0, 3 * solids->body[0].mass, 0);
    return fsi_solids_impulse(solids, 0, solids->body[0].x, push);
}

TEST C_40_energy_from_nowhere_is_told(void) {
    fsi_coupled nothing;
    memset(&nothing, 0, sizeof nothing);
    nothing.surface.dim = 2;
    fsi_guest guest;
    memset(&guest, 0, sizeof guest);
    guest.door = &nothing;
    guest.stages.move_fn = kick;
    guest.stages.user = &T;
    ASSERT(tank_open(&T, 24, 2, 0, RHO, 0));
    ASSERT(tank_add(&T, 0.1, 0.06, 0.5, 0.3, 0, 1, 0.3) >= 0);
    fsi_report r;
    for (int i = 0; i < 5; i++)
        CHECK_OK(fsi_world_step(&T.w, DT, &r));
    CHECK_OK(fsi_world_add_guest(&T.w, &guest));
    CHECK_RESULT(FSI_GAINED, fsi_world_step(&T.w, DT, &r));
    CHECK_RESULT(FSI_GAINED, r.reason);
    ASSERT(r.energy_contact > 0.9 * 4.5 * (double)T.w.solids.body[0].mass);
    tank_close(&T);
    PASS();
}

/* ---- Crushing: a box between a scripted paddle and the wall, with nowhere to go. */

typedef struct crushed {
    double speed; /* largest of the box, m/s */
    int told;     /* steps that did not return FSI_OK */
    int outside;  /* 1: the box has left the tank */
    int escaped;  /* 1: it went past the paddle and is not crushed */
} crushed;

static int crush(double density, double speed, crushed *out) {
    memset(out, 0, sizeof *out);
    if (!tank_open(&T, 32, 2, 0, RHO, 0))
        return 0;
    int paddle = tank_add(&T, 0.05, 0.3, 0.5, 0.35, 0, 0, 0.3);
    int box = tank_add(&T, 0.12, 0.07, 0.15, 0.4, 0, density, 0.4);
    if (paddle < 0 || box < 0)
        return 0;
    fsi_rigid *body = T.w.solids.body;
    body[paddle].kind = FSI_RIGID_SCRIPTED;
    double stop = 0.12;
    int steps = (int)(0.4 / speed / (double)DT) + 60;
    for (int i = 0; i < steps; i++) {
        double x = fmax(stop, 0.5 - speed * (i + 1) * (double)DT);
        fsi_vec3 to = fsi_vec((fsi_real)x, FSI_R(0.35), 0);
        if (fsi_solids_script(&T.w.solids, paddle, to, body[paddle].q, DT) != FSI_OK)
            return 0;
        fsi_result result = fsi_world_step(&T.w, DT, NULL);
        if (result < 0)
            return 0;
        out->told += result == FSI_INFEASIBLE;
        out->speed = fmax(out->speed, (double)fsi_vec_length(body[box].v));
    }
    fsi_vec3 end = body[box].x;
    out->outside = end.x < 0 || end.x > 1 || end.y < 0 || end.y > 1;
    out->escaped = end.x > FSI_R(0.17) || end.y > FSI_R(0.65);
    tank_close(&T);
    return 1;
}

TEST C_41_crushed_boxes_are_held_not_thrown(void) {
    static const double density[3] = {0.1, 0.3, 3};
    for (int form = 0; form < 2; form++)
        for (int k = 0; k < 3; k++) {
            crushed out;
            tank_boundary = form ? FSI_BOUNDARY_CUT : FSI_BOUNDARY_VOXEL;
            ASSERT(crush(density[k], 0.4, &out));
            if (verbose())
                printf("crushed, form %d, density %g: %.3f m/s, told %d, outside %d, escaped %d\n",
                       form, density[k], out.speed, out.told, out.outside, out.escaped);
            CHECK_MOST(out.speed, 3 * 0.4 + sqrt(2 * 10 * 0.8));
            ASSERT(out.told > 30 || out.escaped);
            ASSERT_FALSE(out.outside);
        }
    tank_boundary = FSI_BOUNDARY_DEFAULT;
    PASS();
}

/* A body that is faster than half its size a step is told in that very step, and max_dt knows. */
TEST C_43_too_fast_a_body_is_told_at_once(void) {
    ASSERT(tank_open(&T, 24, 2, 0, RHO, 0));
    int box = tank_add(&T, 0.1, 0.06, 0.5, 0.3, 0, 5, 0.3);
    ASSERT(box >= 0);
    CHECK_OK(fsi_world_step(&T.w, DT, NULL));
    CHECK_OK(fsi_solids_set_velocity(&T.w.solids, box, fsi_vec(30, 0, 0), fsi_vec(0, 0, 0)));
    ASSERT(fsi_world_max_dt(&T.w) < FSI_R(0.1) / 30);
    CHECK_RESULT(FSI_DT_TOO_LARGE, fsi_world_step(&T.w, DT, NULL));
    tank_close(&T);
    PASS();
}

SUITE(hold) {
    RUN_TEST(at_rest_on_the_floor);
    RUN_TEST(heap_comes_to_rest);
    RUN_TEST(slope_with_friction);
    RUN_TEST(friction_under_water);
    RUN_TEST(leaves_at_once);
    RUN_TEST(floor_that_goes);
    RUN_TEST(any_mass_ratio);
    RUN_TEST(contacts_do_not_pull);
    RUN_TEST(impact_is_not_repeated);
    RUN_TEST(C_16_17_momentum_with_contact);
    RUN_TEST(C_16_ledger_of_pressed_boxes);
    RUN_TEST(hold_alone_changes_nothing);
    RUN_TEST(restore_and_threads);
    RUN_TEST(C_40_account_of_a_sudden_start);
    RUN_TEST(C_40_account_of_falling_boxes);
    RUN_TEST(C_40_energy_from_nowhere_is_told);
    RUN_TEST(C_41_crushed_boxes_are_held_not_thrown);
    RUN_TEST(C_43_too_fast_a_body_is_told_at_once);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv) {
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(hold);
    GREATEST_MAIN_END();
}
