/* air.h: thin and soft solids in a fluid that fills its box: cloth in a jet, a balloon, a hydraulic
   press, and balls in smoke in space. The first three are coupled by exchange: fluid and solid are
   two closed solvers that ask each other until they agree. */
#ifndef AIR_SCENES_H
#define AIR_SCENES_H
#include "picture.h"

enum {
    EXCHANGE_PARTS = 4,
    CLOTH_NODES = 25,
    RUBBER_NODES = 41
};

/* What the scenes by exchange need beside the world. */
static struct exchange {
    fsi_soft soft;
    fsi_soft_responder responder;
    fsi_partitioned scheme;
    fsi_partitioned_scene scene;
    fsi_guest part[EXCHANGE_PARTS];
    fsi_coupled *list[EXCHANGE_PARTS];
} exchange;

/* The scheme with a reduced model of both sides (XPM); closed fluid is made compatible. */
static fsi_result exchange_begin(int dof, double tolerance, int closed) {
    fsi_partitioned_desc desc = {
        .n = dof + 16,
        .m = dof + 16,
        .per_node = 3,
        .tolerance = tolerance,
        .min_iterations = 2,
        .max_iterations = 20,
        .scheme = FSI_SCHEME_REDUCED,
    };
    fsi_result result = fsi_partitioned_init(&exchange.scheme, &desc);
    exchange.scene.scheme = &exchange.scheme;
    exchange.scene.list = exchange.list;
    exchange.scene.solids.part = exchange.part;
    exchange.scene.fluid.bpp = closed;
    exchange.scene.fluid.swept = closed;
    exchange.scene.fluid.tolerance = 1e-4;
    stage_keep(PART_SCHEME, &exchange.scheme, 0);
    return result;
}

static fsi_result exchange_step(fsi_real dt, fsi_report *report) {
    return fsi_world_exchange(stage.world, &exchange.scene, dt, report);
}

static void exchange_end(void) {
    fsi_partitioned_scene_free(&exchange.scene);
    fsi_partitioned_free(&exchange.scheme);
    fsi_soft_responder_free(&exchange.responder);
    fsi_soft_free(&exchange.soft);
    memset(&exchange, 0, sizeof exchange);
}

/* The soft body becomes a part of the stage and a guest of its world. */
static fsi_result exchange_soft(const fsi_soft_desc *desc) {
    fsi_result result = fsi_soft_init(&exchange.soft, desc);
    if (result < 0)
        return result;
    exchange.responder.soft = &exchange.soft;
    fsi_guest guest = fsi_soft_guest(&exchange.responder);
    stage_keep(PART_SOFT, &exchange.soft, 0);
    return fsi_world_add_guest(stage.world, &guest);
}

/* A flat room of smoke for one thin solid, open above. */
static fsi_result smoke_room(int nx, int ny, double h, double dissipation) {
    fsi_world_desc desc = {
        .grid.nx = nx,
        .grid.ny = ny,
        .grid.nz = 1,
        .grid.h = h,
        .grid.rho = 1,
        .grid.smoke = 1,
        .grid.shells = 1,
        .grid.dissipation = dissipation,
        .grid.advect_velocity = FSI_ADVECT_LINEAR,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .max_guests = 1,
        .no_walls = 1,
    };
    return stage_world(&desc);
}

/* A chain of nodes, the first and the last one pinned. */
static fsi_result exchange_strip(int nodes, const fsi_real *x, fsi_soft_desc *desc) {
    int32_t segment[2 * RUBBER_NODES];
    unsigned char pin[RUBBER_NODES] = {0};
    for (int i = 0; i + 1 < nodes; i++) {
        segment[2 * i] = i;
        segment[2 * i + 1] = i + 1;
    }
    pin[0] = pin[nodes - 1] = 7;
    desc->dim = 2;
    desc->vertex_count = nodes;
    desc->x = x;
    desc->segment_count = nodes - 1;
    desc->segment = segment;
    desc->pin = pin;
    desc->integrator = FSI_SOFT_IMPLICIT;
    return exchange_soft(desc);
}

/* ------------------------------------------------------------------------------------------------
 * cloth: a strip over a jet of smoke */
static const double cloth_width = 1.2; /* of the room, m */

/* The jet enters through a slot in the floor: one row of cells that make volume. */
static fsi_grid_source cloth_jet(double speed) {
    double h = stage.grid->h;
    fsi_grid_source jet = {
        .lo = fsi_vec(cloth_width / 2 - 0.12, 0, 0),
        .hi = fsi_vec(cloth_width / 2 + 0.12, 1.01 * h, 0),
        .set = FSI_SOURCE_VELOCITY | FSI_SOURCE_DENSITY | FSI_SOURCE_DIVERGENCE,
        .velocity = fsi_vec(0, speed, 0),
        .divergence = speed / h,
        .density = 1,
    };
    return jet;
}

static fsi_result cloth_strip(double mass_ratio) {
    fsi_real x[3 * CLOTH_NODES] = {0};
    double h = stage.grid->h;
    for (int i = 0; i < CLOTH_NODES; i++) {
        double along = (double)i / (CLOTH_NODES - 1);
        x[3 * i] = cloth_width / 2 + 0.5 * (along - 0.5);
        x[3 * i + 1] = 0.42 + 0.42 * along * (1 - along);
    }
    fsi_soft_desc desc = {
        .area_density = mass_ratio * 2 * h,
        .stretch = 2,
        .bend = FSI_R(2e-6),
        .damping_stiffness = FSI_R(0.01),
        .newton = 1,
    };
    return exchange_strip(CLOTH_NODES, x, &desc);
}

static fsi_result cloth_make(void) {
    fsi_result result = smoke_room(60, 60, cloth_width / 60, 0.15);
    if (result < 0)
        return result;
    fsi_grid_source jet = cloth_jet(value_of("speed"));
    result = fsi_grid_add_source(&stage.world->grid, &jet);
    if (result >= 0)
        result = cloth_strip(value_of("mass"));
    if (result >= 0)
        result = exchange_begin(3 * CLOTH_NODES, 0.05 * (double)stage.grid->h, 0);
    return result;
}

static void cloth_change(setting *own) {
    if (strcmp(own->key, "speed") == 0)
        stage.world->grid.source[0] = cloth_jet(own->value);
}

/* ------------------------------------------------------------------------------------------------
 * balloon: a rubber arch on the floor, blown up through a nozzle */
static const double balloon_radius = 0.2, balloon_middle = 0.6; /* m */
static double balloon_injected;                                 /* m^2 */

/* Fluid a second through the nozzle, m^2/s: in and out again, unless the slider says otherwise. */
static double balloon_rate(void) {
    double rest = 1.5707963 * balloon_radius * balloon_radius;
    return rest * value_of("pump") * wave_at(stage.time / 5);
}

static void balloon_before(fsi_real dt) {
    fsi_grid_source *nozzle = &stage.world->grid.source[0];
    double cell = stage.grid->h * stage.grid->h;
    double across = nozzle->hi.x - nozzle->lo.x;
    double cells = floor(across / (double)stage.grid->h + 0.5);
    nozzle->divergence = balloon_rate() / (cells * cell);
    balloon_injected += balloon_rate() * (double)dt;
}

static fsi_result balloon_rubber(double stiffness) {
    fsi_real x[3 * RUBBER_NODES] = {0};
    for (int i = 0; i < RUBBER_NODES; i++) {
        double up = 3.14159265 * i / (RUBBER_NODES - 1);
        x[3 * i] = balloon_middle + balloon_radius * cos(up);
        x[3 * i + 1] = i && i < RUBBER_NODES - 1 ? balloon_radius * sin(up) : 0;
    }
    fsi_soft_desc desc = {
        .area_density = FSI_R(0.8) * 2 * stage.grid->h,
        .stretch = stiffness,
        .bend = FSI_R(1e-6),
        .damping_stiffness = FSI_R(0.01),
        .newton = 1,
    };
    return exchange_strip(RUBBER_NODES, x, &desc);
}

static fsi_result balloon_make(void) {
    fsi_result result = smoke_room(60, 45, 1.2 / 60, 0);
    if (result < 0)
        return result;
    double h = stage.grid->h;
    fsi_grid_source nozzle = {
        .lo = fsi_vec(balloon_middle - 4 * h, 0, 0),
        .hi = fsi_vec(balloon_middle + 4 * h, 1.01 * h, 0),
        .set = FSI_SOURCE_DIVERGENCE | FSI_SOURCE_DENSITY,
        .density = 1,
    };
    result = fsi_grid_add_source(&stage.world->grid, &nozzle);
    balloon_injected = 0;
    stage_keep(PART_NUMBERS, &balloon_injected, sizeof balloon_injected);
    if (result >= 0)
        result = balloon_rubber(value_of("stiffness"));
    if (result >= 0)
        result = exchange_begin(3 * RUBBER_NODES, 0.05 * h, value_of("closed") > 0);
    return result;
}

/* ------------------------------------------------------------------------------------------------
 * press: closed fluid under two pistons */
enum {
    PRESS_BLOCKS = 3, /* small piston, large piston, the wall between them */
    PRESS_NX = 66,
    PRESS_NY = 40
};

static const double press_density = 500; /* of a piston, kg/m^3 */

/* A box that moves along y: a solid of our own with one degree of freedom. */
typedef struct press_block {
    fsi_coupled door;
    fsi_real x[12];
    fsi_real velocity, impulse, mass, inverse_mass;
    double left, right;     /* m */
    double *bottom, height; /* m; bottom is state */
} press_block;

static struct press {
    press_block block[PRESS_BLOCKS];
    double state[2 * PRESS_BLOCKS]; /* bottoms and velocities */
    double area_ratio;
    double pull; /* of the hand, N */
} press;

static void press_row(const fsi_coupled *self, int element, const fsi_real *weight, fsi_vec3 point,
                      fsi_vec3 direction, fsi_real *row) {
    (void)self;
    (void)element;
    (void)weight;
    (void)point;
    row[0] = direction.y;
}

static void press_corners(press_block *block) {
    for (int i = 0; i < 4; i++) {
        block->x[3 * i] = i == 1 || i == 2 ? block->right : block->left;
        block->x[3 * i + 1] = *block->bottom + (i >= 2 ? block->height : 0);
    }
}

static void press_block_make(int i, double left, double right, double bottom, double height) {
    static const int32_t index[8] = {0, 1, 1, 2, 2, 3, 3, 0};
    press_block *block = &press.block[i];
    block->left = left;
    block->right = right;
    block->bottom = &press.state[2 * i];
    *block->bottom = bottom;
    block->height = height;
    block->mass = press_density * (right - left) * height;
    fsi_coupled *door = &block->door;
    door->surface.dim = 2;
    door->surface.closed = 1;
    door->surface.vertex_count = door->surface.element_count = 4;
    door->surface.x = block->x;
    door->surface.index = index;
    door->dof = 1;
    door->v = &block->velocity;
    door->impulse = &block->impulse;
    door->mass = &block->mass;
    door->inverse_mass = &block->inverse_mass;
    door->row_fn = press_row;
    press_corners(block);
}

/* What pushes a piston down, N: the slider on the small one, a weight that it balances on the
   large one, and the hand. */
static double press_load(int i) {
    double load = i == 0 ? -value_of("push") : -value_of("weight");
    if (stage.hand.kind == HAND_SCENE && stage.hand.index == i)
        load += press.pull;
    return load;
}

/* The hand feels a piston and the water that every piston moves. */
static void press_before(fsi_real dt) {
    const double moved = 200; /* kg */
    int i = stage.hand.index;
    press.pull = 0;
    if (stage.hand.kind != HAND_SCENE)
        return;
    fsi_vec3 place = fsi_vec(stage.hand.target.x, *press.block[i].bottom, 0);
    fsi_vec3 velocity = fsi_vec(0, press.state[2 * i + 1], 0);
    press.pull = moved * (double)hand_hold_at(place, velocity, 12, dt).y;
}

/* Both pistons; the wall does not move. */
static int press_solids(stage_solid *list) {
    for (int i = 0; i < 2; i++) {
        const press_block *block = &press.block[i];
        list[i].x =
            fsi_vec(0.5 * (block->left + block->right), *block->bottom + 0.5 * block->height, 0);
        list[i].v = fsi_vec(0, press.state[2 * i + 1], 0);
        list[i].density = press_density / stage.fluid_density;
        list[i].submerged = 0;
    }
    return 2;
}

/* Where a piston wants to go, N: what pushes it up, less what pushes the other one up and reaches
   it through the water. */
static double press_lift(int i) {
    const press_block *own = &press.block[i];
    const press_block *other = &press.block[1 - i];
    double areas = (own->right - own->left) / (other->right - other->left);
    return press_load(i) - areas * press_load(1 - i);
}

/* A piston at the end of its way cannot go on; then the other one cannot either. */
static int press_stopped(int i) {
    const double bottom = *press.block[i].bottom;
    int down = bottom < 0.24 && press_lift(i) < 0;
    int up = bottom > 0.5 && press_lift(i) > 0;
    return down || up;
}

static fsi_result press_begin(fsi_real dt, void *user) {
    press_block *block = user;
    int i = (int)(block - press.block);
    int fixed = i == 2 || press_stopped(i);
    block->inverse_mass = fixed ? 0 : 1 / block->mass;
    block->velocity = fixed ? 0 : press.state[2 * i + 1];
    block->velocity += dt * press_load(i) * block->inverse_mass;
    block->velocity *= 1 / (1 + 2 * dt);
    press_corners(block);
    return FSI_OK;
}

static fsi_result press_move(fsi_real dt, void *user) {
    press_block *block = user;
    int i = (int)(block - press.block);
    press.state[2 * i + 1] = block->velocity;
    *block->bottom += dt * block->velocity;
    press_corners(block);
    return FSI_OK;
}

static fsi_result press_make(void) {
    double h = 1.2 / PRESS_NX;
    fsi_world_desc desc = {
        .grid.nx = PRESS_NX,
        .grid.ny = PRESS_NY,
        .grid.nz = 1,
        .grid.h = h,
        .grid.rho = 1000,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .couple.tolerance = 1e-5,
        .max_guests = PRESS_BLOCKS,
        .no_walls = 1,
    };
    fsi_result result = stage_world(&desc);
    if (result < 0)
        return result;
    int wall = 4;
    int narrow = (int)floor((PRESS_NX - wall) / (1 + value_of("ratio")) + 0.5);
    memset(&press, 0, sizeof press);
    press.area_ratio = (double)(PRESS_NX - wall - narrow) / narrow;
    press_block_make(0, 0, narrow * h, 0.36, 0.08);
    press_block_make(1, (narrow + wall) * h, 1.2, 0.36, 0.08);
    press_block_make(2, narrow * h, (narrow + wall) * h, 0.2, PRESS_NY * h - 0.2);
    stage_keep(PART_NUMBERS, press.state, sizeof press.state);
    for (int i = 0; i < PRESS_BLOCKS && result >= 0; i++) {
        fsi_guest guest = {
            .door = &press.block[i].door,
            .stages = {.begin_fn = press_begin, .move_fn = press_move, .user = &press.block[i]},
        };
        result = fsi_world_add_guest(stage.world, &guest);
    }
    return result;
}

/* The hand holds a piston by its bottom. */
static int press_grab(fsi_vec3 at) {
    for (int i = 0; i < 2; i++) {
        const press_block *block = &press.block[i];
        double up = at.y - *block->bottom;
        int across = at.x > block->left && at.x < block->right;
        if (!across || up < -0.03 || up > block->height + 0.03)
            continue;
        hand_hold(HAND_SCENE, NULL, i, fsi_vec(at.x, *block->bottom, 0));
        return 1;
    }
    return 0;
}

/* Is the cell above a piston or in the wall? The fluid there is only air to look at. */
static int press_above(int i, int j) {
    double x = (i + 0.5) * (double)stage.grid->h;
    double y = (j + 0.5) * (double)stage.grid->h;
    for (int k = 0; k < PRESS_BLOCKS; k++)
        if (x > press.block[k].left && x < press.block[k].right)
            return y > *press.block[k].bottom;
    return 0;
}

/* The pressure of the fluid over the push of the slider's middle, and the three blocks. */
static void press_draw(void) {
    const fsi_grid *grid = stage.grid;
    for (int j = 0; j < grid->ny; j++)
        for (int i = 0; i < grid->nx; i++) {
            int cell = i + grid->nx * j;
            double pressure = (double)grid->pressure[cell] / stage.scene->dt;
            double shown = pressure > 0 ? pressure : 0;
            picture.shade[cell] = press_above(i, j) ? -1 : (float)shown;
        }
    for (int i = 0; i < PRESS_BLOCKS; i++) {
        piece_kind kind = i == 2 ? PIECE_FIXED : PIECE_BODY;
        piece *next = picture_edges(&press.block[i].door.surface, kind, 0.5, 0);
        next->held = stage.hand.kind == HAND_SCENE && stage.hand.index == i;
    }
}

/* ------------------------------------------------------------------------------------------------
 * smoke: balls in a plume, in space */
static fsi_result smoke_make(void) {
    fsi_world_desc desc = {
        .grid.nx = 24,
        .grid.ny = 36,
        .grid.nz = 24,
        .grid.h = FSI_R(1.5) / 36,
        .grid.rho = 1,
        .grid.smoke = 1,
        .grid.buoyancy_temperature = 1,
        .grid.up = fsi_vec(0, 1, 0),
        .grid.confinement = FSI_R(0.1),
        .grid.dissipation = FSI_R(0.05),
        .grid.tolerance = 1e-3,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .couple.warm_start = 1,
        .max_bodies = 4,
    };
    fsi_result result = stage_world(&desc);
    if (result < 0)
        return result;
    double speed = value_of("speed");
    fsi_grid_source jet = {
        .lo = fsi_vec(0.38, 0, 0.38),
        .hi = fsi_vec(0.62, 1.01 * (double)stage.grid->h, 0.62),
        .set = FSI_SOURCE_DENSITY | FSI_SOURCE_TEMPERATURE | FSI_SOURCE_VELOCITY
               | FSI_SOURCE_DIVERGENCE,
        .velocity = fsi_vec(0, speed, 0),
        .divergence = speed / (double)stage.grid->h,
        .density = 1,
        .temperature = 1,
    };
    result = fsi_grid_add_source(&stage.world->grid, &jet);
    const fsi_shape *ball = stage_ball(3, 0.11, 20);
    for (int i = 0; i < 3 && result >= 0; i++) {
        fsi_rigid_desc body = {.kind = FSI_RIGID_DYNAMIC, .shape = ball};
        body.restitution = FSI_R(0.3);
        body.x = fsi_vec(0.5 + 0.07 * (i - 1), 0.3 + 0.3 * i, 0.5 + 0.05 * (i % 2));
        result = stage_add(&body, value_of("density"));
    }
    return result;
}

/* The box is open above, for the smoke alone: a soft ceiling turns the balls back. */
static void smoke_before(fsi_real dt) {
    const fsi_real ceiling = FSI_R(1.25);
    (void)dt;
    for (int i = 0; i < stage.bodies; i++) {
        fsi_rigid *body = &stage.solids->body[stage.body[i].id];
        fsi_real above = body->x.y - ceiling;
        fsi_real moved = body->mass + stage.fluid_density * body->shape->volume;
        if (above > 0)
            body->force.y -= moved * (40 * above + 4 * body->v.y);
    }
}

static void smoke_change(setting *own) {
    if (strcmp(own->key, "density") != 0)
        return;
    for (int i = 0; i < stage.bodies; i++)
        stage.body[i].density = own->value;
    stage.result = stage_weigh();
}

/* ------------------------------------------------------------------------------------------------
 * the four */
static scene cloth_scene = {
    .name = "cloth",
    .setting = {{"mass", 1e-3, 100, 0.5, 1, 0}, {"speed", 0.1, 1, 0.5, 0, 0}},
    .dt = 1.0 / 60,
    .make = cloth_make,
    .step = exchange_step,
    .change = cloth_change,
    .end = exchange_end,
};

static scene balloon_scene = {
    .name = "balloon",
    .setting = {{"pump", 0, 2, 0.9, 0, 0},
                {"stiffness", 0.2, 20, 2, 1, 0},
                {"closed", 0, 1, 1, 1, 0}},
    .dt = 1.0 / 60,
    .make = balloon_make,
    .step = exchange_step,
    .before = balloon_before,
    .end = exchange_end,
};

static scene press_scene = {
    .name = "press",
    .setting = {{"push", 0, 200, 60, 0, 0},
                {"weight", 0, 600, 120, 0, 0},
                {"ratio", 1, 8, 4, 1, 0}},
    .dt = 1.0 / 60,
    .make = press_make,
    .before = press_before,
    .draw = press_draw,
    .grab = press_grab,
    .solids = press_solids,
};

static scene smoke_scene = {
    .name = "smoke",
    .setting = {{"density", 1e-4, 1e4, 0.2, 0, 0}, {"speed", 0.1, 1, 0.6, 1, 0}},
    .dt = 1.0 / 30,
    .make = smoke_make,
    .before = smoke_before,
    .change = smoke_change,
};
#endif
