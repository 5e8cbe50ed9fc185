/* stage.h: what every scene of the live page stands on. A scene makes solvers and hands them to the
   stage as parts; the stage then knows how to save, restore, measure, hash and draw them, and how a
   hand pulls at them. Everything goes through the public functions of the library.

       setting   a number that a user may change: a slider, or a choice
       part      one solver with a state
       body      a rigid body that can be seen, weighed and grabbed
       solid     anything solid that moves, as a script sees it: where, how dense, how deep
       hand      the mouse, finger or script that pulls */
#ifndef STAGE_H
#define STAGE_H
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    STAGE_SETTINGS = 6,
    STAGE_PARTS = 32,
    STAGE_BODIES = 32,
    STAGE_SHAPES = 24,
    STAGE_BYTES = 8 /* alignment of every part in a saved state */
};

typedef struct setting {
    const char *key;
    double lo, hi;
    double first; /* value of a fresh scene */
    int remakes;  /* 1: a change makes the scene anew; 0: it acts at once */
    double value; /* now */
} setting;

typedef enum part_kind {
    PART_WORLD,
    PART_GRID,
    PART_SOLIDS,
    PART_SOFT,
    PART_SPH,
    PART_SPH_RIGID,
    PART_TLED,
    PART_REDUCED,
    PART_SCHEME,
    PART_SLIP,
    PART_NUMBERS /* plain doubles of the scene's own */
} part_kind;

typedef struct part {
    part_kind kind;
    void *object;
    size_t size; /* PART_NUMBERS: bytes */
} part;

/* A solid as a script sees it. */
typedef struct stage_solid {
    fsi_vec3 x, v;    /* of its centre of mass */
    double density;   /* over the fluid's; 1 where a scene moves it itself */
    double submerged; /* share of it that is in the fluid */
    part *part;       /* what a hand at its centre holds; NULL: a body, or of the scene's own */
    int body;         /* among the bodies of the stage; -1: it is none */
} stage_solid;

typedef struct scene {
    const char *name;
    setting setting[STAGE_SETTINGS]; /* the first without a key ends the list */
    double dt;                       /* of one step, s */
    double most_speed;               /* of a body, m/s: above it the scene is broken; 0 = 200 */
    fsi_result (*make)(void);
    /* One step; NULL: fsi_world_step of the stage's world. */
    fsi_result (*step)(fsi_real dt, fsi_report *report);
    void (*before)(fsi_real dt);  /* motors and muscles, before each step; may be NULL */
    void (*change)(setting *own); /* a setting that acts at once was changed; may be NULL */
    void (*end)(void);            /* frees what is no part of the stage; may be NULL */
    void (*draw)(void);           /* adds what the stage does not know; may be NULL */
    int (*grab)(fsi_vec3 at);     /* 1: it has put a solid of its own into the hand; may be NULL */
    int (*solids)(stage_solid *); /* lists its own solids and says how many; may be NULL */
} scene;

/* A rigid body of the stage. */
typedef struct stage_body {
    int id;         /* among the solids */
    double density; /* over the fluid's */
    fsi_rigid_desc desc;
} stage_body;

/* What the hand holds. */
typedef enum hand_kind {
    HAND_EMPTY,
    HAND_BODY,
    HAND_SOFT,
    HAND_TLED,
    HAND_REDUCED,
    HAND_SCENE, /* a solid of the scene's own, which reads hand.target */
    HAND_FLUID  /* nothing: it stirs */
} hand_kind;

typedef struct stage_hand {
    hand_kind kind;
    void *object;
    int index;           /* body, or node; -1: all of it, by its centre */
    fsi_vec3 learned;    /* what it takes to stay where the hand wants it, m s */
    fsi_vec3 offset;     /* from the pointer to what is held */
    fsi_vec3 target;     /* where that should be */
    fsi_vec3 at, before; /* of the pointer, now and at the last step */
} stage_hand;

static struct stage {
    scene *scene;
    part part[STAGE_PARTS];
    int parts;

    /* Where the parts are that the stage looks for itself; NULL where a scene has none. */
    fsi_world *world;
    const fsi_grid *grid;
    fsi_solids *solids;
    fsi_sph *sph;

    /* Of the stage's own world: made again where a density changes. */
    fsi_world own_world;
    fsi_world_desc world_desc;
    stage_body body[STAGE_BODIES];
    int bodies;
    fsi_shape shape[STAGE_SHAPES];
    int shapes;

    stage_hand hand;
    double fluid_density; /* kg/m^3 */
    fsi_vec3 lo, hi;      /* what is shown, m */
    int steps;
    double time;       /* s */
    fsi_result result; /* of the last step */
    fsi_report report;
    double volume_at_first; /* of the liquid */
    double volume_added;    /* since then by taps less drains */
    int reweighs;           /* 1: the world is its grid and bodies alone: stage_weigh works */
    int broken;             /* 1: a step failed or something flew apart; it stands still then */
} stage;

/* ------------------------------------------------------------------------------------------------
 * settings */
static int setting_count(void) {
    int count = 0;
    while (count < STAGE_SETTINGS && stage.scene->setting[count].key)
        count++;
    return count;
}

static setting *setting_find(const char *key) {
    for (int i = 0; i < setting_count(); i++)
        if (strcmp(stage.scene->setting[i].key, key) == 0)
            return &stage.scene->setting[i];
    return NULL;
}

static double value_of(const char *key) {
    const setting *own = setting_find(key);
    return own ? own->value : 0;
}

/* ------------------------------------------------------------------------------------------------
 * parts: state and hash */
static void stage_keep(part_kind kind, void *object, size_t size) {
    part *next = &stage.part[stage.parts++];
    next->kind = kind;
    next->object = object;
    next->size = size;
}

static size_t part_size(const part *own) {
    switch (own->kind) {
    case PART_WORLD:
        return fsi_world_state_size(own->object);
    case PART_GRID:
        return fsi_grid_state_size(own->object);
    case PART_SOLIDS:
        return fsi_solids_state_size(own->object);
    case PART_SOFT:
        return fsi_soft_state_size(own->object);
    case PART_SPH:
        return fsi_sph_state_size(own->object);
    case PART_SPH_RIGID:
        return fsi_sph_rigid_state_size(own->object);
    case PART_TLED:
        return fsi_tled_state_size(own->object);
    case PART_REDUCED:
        return fsi_reduced_state_size(own->object);
    case PART_SCHEME:
        return fsi_partitioned_state_size(own->object);
    case PART_SLIP:
        return fsi_slip_state_size(own->object);
    default:
        return own->size;
    }
}

static fsi_result part_save(const part *own, void *block) {
    switch (own->kind) {
    case PART_WORLD:
        return fsi_world_save(own->object, block);
    case PART_GRID:
        return fsi_grid_save(own->object, block);
    case PART_SOLIDS:
        return fsi_solids_save(own->object, block);
    case PART_SOFT:
        return fsi_soft_save(own->object, block);
    case PART_SPH:
        return fsi_sph_save(own->object, block);
    case PART_SPH_RIGID:
        return fsi_sph_rigid_save(own->object, block);
    case PART_TLED:
        return fsi_tled_save(own->object, block);
    case PART_REDUCED:
        return fsi_reduced_save(own->object, block);
    case PART_SCHEME:
        return fsi_partitioned_save(own->object, block);
    case PART_SLIP:
        return fsi_slip_save(own->object, block);
    default:
        memcpy(block, own->object, own->size);
        return FSI_OK;
    }
}

static fsi_result part_restore(const part *own, const void *block) {
    switch (own->kind) {
    case PART_WORLD:
        return fsi_world_restore(own->object, block, fsi_world_state_size(own->object));
    case PART_GRID:
        return fsi_grid_restore(own->object, block, fsi_grid_state_size(own->object));
    case PART_SOLIDS:
        return fsi_solids_restore(own->object, block, fsi_solids_state_size(own->object));
    case PART_SOFT:
        return fsi_soft_restore(own->object, block, fsi_soft_state_size(own->object));
    case PART_SPH:
        return fsi_sph_restore(own->object, block, fsi_sph_state_size(own->object));
    case PART_SPH_RIGID:
        return fsi_sph_rigid_restore(own->object, block, fsi_sph_rigid_state_size(own->object));
    case PART_TLED:
        return fsi_tled_restore(own->object, block, fsi_tled_state_size(own->object));
    case PART_REDUCED:
        return fsi_reduced_restore(own->object, block, fsi_reduced_state_size(own->object));
    case PART_SCHEME:
        return fsi_partitioned_restore(own->object, block, fsi_partitioned_state_size(own->object));
    case PART_SLIP:
        return fsi_slip_restore(own->object, block, fsi_slip_state_size(own->object));
    default:
        memcpy(own->object, block, own->size);
        return FSI_OK;
    }
}

/* A saved state begins with this; the parts follow. */
typedef struct stage_head {
    uint32_t magic;
    int32_t steps;
    double time;
    double volume_at_first;
    double value[STAGE_SETTINGS];
} stage_head;

static const uint32_t stage_magic = 0x66736977; /* "fsiw" */

static size_t stage_padded(size_t size) {
    return (size + STAGE_BYTES - 1) / STAGE_BYTES * STAGE_BYTES;
}

static size_t stage_state_size(void) {
    size_t size = stage_padded(sizeof(stage_head));
    for (int i = 0; i < stage.parts; i++)
        size += stage_padded(part_size(&stage.part[i]));
    return size;
}

static fsi_result stage_save(unsigned char *block) {
    stage_head head = {stage_magic, stage.steps, stage.time, stage.volume_at_first, {0}};
    for (int i = 0; i < setting_count(); i++)
        head.value[i] = stage.scene->setting[i].value;
    memcpy(block, &head, sizeof head);
    block += stage_padded(sizeof head);

    for (int i = 0; i < stage.parts; i++) {
        fsi_result result = part_save(&stage.part[i], block);
        if (result < 0)
            return result;
        block += stage_padded(part_size(&stage.part[i]));
    }
    return FSI_OK;
}

/* The scene must have been made with the settings of the state. */
static fsi_result stage_restore_parts(const unsigned char *block) {
    block += stage_padded(sizeof(stage_head));
    for (int i = 0; i < stage.parts; i++) {
        fsi_result result = part_restore(&stage.part[i], block);
        if (result < 0)
            return result;
        block += stage_padded(part_size(&stage.part[i]));
    }
    return FSI_OK;
}

/* FNV-1a, 32 bits, over the bytes of numbers. */
static uint32_t hash_bytes(uint32_t hash, const void *bytes, size_t size) {
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ byte[i]) * 16777619u;
    return hash;
}

static uint32_t hash_reals(uint32_t hash, const fsi_real *x, size_t count) {
    return x ? hash_bytes(hash, x, count * sizeof *x) : hash;
}

static uint32_t hash_grid(uint32_t hash, const fsi_grid *grid) {
    for (int axis = 0; axis < grid->dim; axis++)
        hash = hash_reals(hash, grid->u[axis], grid->faces[axis]);
    hash = hash_reals(hash, grid->phi, grid->cells);
    return hash_reals(hash, grid->density, grid->cells);
}

static uint32_t hash_solids(uint32_t hash, const fsi_solids *solids) {
    for (int i = 0; i < solids->body_count; i++) {
        const fsi_rigid *body = &solids->body[i];
        const fsi_vec3 moves[3] = {body->x, body->v, body->spin};
        hash = hash_bytes(hash, moves, sizeof moves);
        hash = hash_bytes(hash, &body->q, sizeof body->q);
    }
    return hash;
}

static uint32_t hash_sph(uint32_t hash, const fsi_sph *sph) {
    const fsi_real *const list[6] = {sph->x, sph->y, sph->z, sph->vx, sph->vy, sph->vz};
    for (int i = 0; i < 6; i++)
        hash = hash_reals(hash, list[i], (size_t)sph->now.count);
    return hash;
}

/* What was computed, not how it is stored: the same number on every machine. */
static uint32_t stage_hash(void) {
    uint32_t hash = 2166136261u;
    for (int i = 0; i < stage.parts; i++) {
        const part *own = &stage.part[i];
        if (own->kind == PART_WORLD) {
            const fsi_world *world = own->object;
            hash = hash_solids(hash_grid(hash, &world->grid), &world->solids);
        } else if (own->kind == PART_GRID) {
            hash = hash_grid(hash, own->object);
        } else if (own->kind == PART_SOLIDS) {
            hash = hash_solids(hash, own->object);
        } else if (own->kind == PART_SOFT) {
            const fsi_soft *soft = own->object;
            hash = hash_reals(hash, soft->x, 3 * (size_t)soft->desc.vertex_count);
            hash = hash_reals(hash, soft->v, 3 * (size_t)soft->desc.vertex_count);
        } else if (own->kind == PART_SPH) {
            hash = hash_sph(hash, own->object);
        } else if (own->kind == PART_SPH_RIGID) {
            const fsi_sph_rigid *both = own->object;
            hash = hash_solids(hash_sph(hash, both->desc.sph), both->desc.world);
        } else if (own->kind == PART_TLED) {
            const fsi_tled *tled = own->object;
            hash = hash_reals(hash, tled->x, 3 * (size_t)tled->nodes);
        } else if (own->kind == PART_REDUCED) {
            const fsi_reduced *reduced = own->object;
            hash = hash_reals(hash, reduced->state, 13 + 2 * (size_t)reduced->model->modes);
        }
    }
    return hash;
}

/* ------------------------------------------------------------------------------------------------
 * shapes, bodies and the world they are in */
static const fsi_shape *stage_shape(const fsi_shape_desc *desc) {
    if (stage.shapes == STAGE_SHAPES)
        return NULL;
    fsi_shape *shape = &stage.shape[stage.shapes];
    return fsi_shape_init(shape, desc) == FSI_OK ? &stage.shape[stage.shapes++] : NULL;
}

static const fsi_shape *stage_box(double half_x, double half_y) {
    fsi_shape_desc desc = {.kind = FSI_SHAPE_BOX, .dim = 2};
    desc.half = fsi_vec(half_x, half_y, 0);
    return stage_shape(&desc);
}

static const fsi_shape *stage_ball(int dim, double radius, int resolution) {
    fsi_shape_desc desc = {.kind = FSI_SHAPE_SPHERE, .dim = dim, .radius = radius};
    desc.resolution = resolution;
    return stage_shape(&desc);
}

/* The stage's own world becomes a part, and what is shown and grabbed. */
static fsi_result stage_world(const fsi_world_desc *desc) {
    stage.world_desc = *desc;
    fsi_result result = fsi_world_init(&stage.own_world, desc);
    if (result < 0)
        return result;
    const fsi_grid *grid = &stage.own_world.grid;
    stage.world = &stage.own_world;
    stage.grid = grid;
    stage.solids = &stage.own_world.solids;
    stage.fluid_density = desc->grid.rho;
    stage.lo = desc->grid.origin;
    fsi_vec3 cells = fsi_vec(grid->nx, grid->ny, grid->nz);
    stage.hi = fsi_vec_mad(stage.lo, cells, grid->h);
    stage.reweighs = desc->max_guests == 0;
    stage_keep(PART_WORLD, stage.world, 0);
    return result;
}

/* Adds a body to the solids of the stage; density over the fluid's. */
static fsi_result stage_add(const fsi_rigid_desc *given, double density) {
    stage_body *body = &stage.body[stage.bodies];
    if (stage.bodies == STAGE_BODIES || !given->shape)
        return FSI_ERR_SIZE;
    body->desc = *given;
    body->density = density;
    body->desc.density = density * stage.fluid_density;
    if (stage.world)
        body->id = fsi_world_add(stage.world, &body->desc);
    else if (fsi_solids_add(stage.solids, &body->desc, &body->id) < 0)
        body->id = -1;
    if (body->id < 0)
        return FSI_ERR_SIZE;
    stage.bodies++;
    return FSI_OK;
}

/* Density of a body over the fluid's, as it is in the world: with the hand around it, none is
   lighter than half the fluid. A hand weighs something; and a spring that can push a bubble of air
   under water would throw it where it comes out. */
static double stage_density(const stage_body *own) {
    int held = stage.hand.kind == HAND_BODY && stage.hand.index == own->id;
    return held && own->density < 0.5 ? 0.5 : own->density;
}

/* Bodies keep their mass for life. Where a density changes, the world is made again around the
   same fluid: grid and coupling are saved and restored, bodies added at their present poses. */
static fsi_result stage_weigh(void) {
    fsi_world *world = stage.world;
    size_t grid_size = fsi_grid_state_size(&world->grid);
    size_t couple_size = fsi_couple_state_size(&world->couple);
    unsigned char *block = malloc(stage_padded(grid_size) + couple_size);
    if (!block)
        return FSI_ERR_MEMORY;
    fsi_grid_save(&world->grid, block);
    fsi_couple_save(&world->couple, block + stage_padded(grid_size));
    for (int i = 0; i < stage.bodies; i++) {
        const fsi_rigid *now = &world->solids.body[stage.body[i].id];
        fsi_rigid_desc *desc = &stage.body[i].desc;
        desc->x = now->x;
        desc->q = now->q;
        desc->v = now->v;
        desc->spin = now->spin;
        desc->density = stage_density(&stage.body[i]) * stage.fluid_density;
    }

    fsi_grid_source source[FSI_GRID_SOURCES];
    int sources = world->grid.source_count;
    memcpy(source, world->grid.source, sizeof source);
    fsi_real damping = world->damping;
    fsi_world_free(world);
    fsi_result result = fsi_world_init(world, &stage.world_desc);
    world->damping = damping;
    for (int i = 0; i < sources && result >= 0; i++)
        result = fsi_grid_add_source(&world->grid, &source[i]);
    for (int i = 0; i < stage.bodies && result >= 0; i++) {
        stage.body[i].id = fsi_world_add(world, &stage.body[i].desc);
        result = stage.body[i].id < 0 ? FSI_ERR_SIZE : FSI_OK;
    }
    if (result >= 0)
        result = fsi_grid_restore(&world->grid, block, fsi_grid_state_size(&world->grid));
    if (result >= 0)
        result = fsi_couple_restore(&world->couple, block + stage_padded(grid_size),
                                    fsi_couple_state_size(&world->couple));
    free(block);
    return result;
}

/* When a body comes into the hand or leaves it. Only light ones weigh more there. */
static void stage_weigh_in_hand(void) {
    for (int i = 0; i < stage.bodies; i++)
        if (stage.body[i].id == stage.hand.index && stage.body[i].density < 0.5 && stage.reweighs)
            stage.result = stage_weigh();
}

/* ------------------------------------------------------------------------------------------------
 * the hand */
static double distance_to(fsi_vec3 from, fsi_vec3 to) {
    fsi_vec3 way = fsi_vec_sub(to, from);
    return sqrt((double)fsi_vec_dot(way, way));
}

/* How high the particles between two places would stand as still water, m. */
static double water_between(const fsi_sph *sph, double left, double right) {
    double spacing = sph->desc.spacing;
    double depth = sph->desc.dim == 2 ? spacing : (double)(stage.hi.z - stage.lo.z);
    int inside = 0;
    left = fmax(left, (double)stage.lo.x);
    right = fmin(right, (double)stage.hi.x);
    for (int i = 0; i < sph->now.count; i++)
        inside += (double)sph->x[i] > left && (double)sph->x[i] < right;
    double volume = inside * pow(spacing, 3);
    return right > left ? (double)stage.lo.y + volume / ((right - left) * depth)
                        : (double)stage.lo.y;
}

/* Share of points that are lower than the water beside them: its level runs straight from the left
   of the solid to its right. */
static double share_under_water(const fsi_real *x, int count) {
    double left = stage.hi.x;
    double right = stage.lo.x;
    for (int i = 0; i < count; i++) {
        left = fmin(left, (double)x[3 * i]);
        right = fmax(right, (double)x[3 * i]);
    }
    double beside = 4 * (double)stage.sph->desc.spacing;
    double level_left = water_between(stage.sph, left - beside, left);
    double level_right = water_between(stage.sph, right, right + beside);
    int under = 0;
    for (int i = 0; i < count; i++) {
        double along = ((double)x[3 * i] - left) / (right - left);
        double level = level_left + along * (level_right - level_left);
        under += (double)x[3 * i + 1] < level;
    }
    return (double)under / count;
}

/* The same of a flat body among particles, by points all over it. */
static double body_under_water(const fsi_rigid *body) {
    enum {
        ACROSS = 16
    };

    fsi_real point[3 * ACROSS * ACROSS];
    int count = 0;
    for (int k = 0; k < ACROSS * ACROSS; k++) {
        double along = 2 * (k % ACROSS + 0.5) / ACROSS - 1;
        double up = 2 * (k / ACROSS + 0.5) / ACROSS - 1;
        fsi_vec3 arm = fsi_vec_scale(fsi_vec(along, up, 0), body->shape->bound);
        if (fsi_shape_distance(body->shape, arm, NULL) > 0)
            continue;
        fsi_vec3 place = fsi_vec_add(body->x, fsi_mat3_mul_vec(&body->rotation, arm));
        fsi_vec_store(point + 3 * count++, place);
    }
    return share_under_water(point, count);
}

/* What a body displaces of the fluid, kg: as deep as it was in the last step. */
static double displaced_mass(int id) {
    const fsi_world *world = stage.world;
    for (int i = 0; world && i < world->door_count; i++)
        if (world->door_body[i] == id)
            return stage.fluid_density * (double)world->couple.iface.submerged[i];
    if (world || !stage.sph)
        return 0;
    const fsi_rigid *body = &stage.solids->body[id];
    return body_under_water(body) * stage.fluid_density * (double)body->shape->volume;
}

/* ------------------------------------------------------------------------------------------------
 * all solids, as a script sees them */
enum {
    STAGE_SOLIDS = STAGE_BODIES + STAGE_PARTS
};

/* Centre of mass of nodes and its velocity. */
static void nodes_centre(const fsi_real *x, const fsi_real *v, const fsi_real *mass, int count,
                         stage_solid *out) {
    fsi_real sum = 0;
    out->x = out->v = fsi_vec(0, 0, 0);
    for (int i = 0; i < count; i++) {
        out->x = fsi_vec_mad(out->x, fsi_vec_load(x + 3 * i), mass[i]);
        out->v = fsi_vec_mad(out->v, fsi_vec_load(v + 3 * i), mass[i]);
        sum += mass[i];
    }
    out->x = fsi_vec_scale(out->x, 1 / sum);
    out->v = fsi_vec_scale(out->v, 1 / sum);
}

static void solid_of_body(const stage_body *own, stage_solid *out) {
    const fsi_rigid *body = &stage.solids->body[own->id];
    double volume = body->shape->volume;
    out->x = body->x;
    out->v = body->v;
    out->density = own->density;
    int fills_the_box = stage.grid && !stage.grid->phi;
    double displaced = displaced_mass(own->id);
    out->submerged = fills_the_box ? 1 : displaced / (stage.fluid_density * volume);
}

/* A thin solid is as dense as a layer of two cells of fluid that weighs the same. */
static void solid_of_soft(const fsi_soft *soft, stage_solid *out) {
    double layer = 2 * (double)stage.grid->h * stage.fluid_density;
    nodes_centre(soft->x, soft->v, soft->mass, soft->desc.vertex_count, out);
    out->density = (double)soft->desc.area_density / layer;
}

static void solid_of_tled(const fsi_tled *tled, stage_solid *out) {
    nodes_centre(tled->x, tled->v, tled->mass, tled->nodes, out);
    out->density = (double)tled->desc.density / stage.fluid_density;
    if (stage.sph)
        out->submerged = share_under_water(tled->x, tled->nodes);
}

static void solid_of_reduced(const fsi_reduced *reduced, stage_solid *out) {
    const fsi_reduced_model *model = reduced->model;
    out->x = reduced->rigid->position;
    out->v = fsi_vec_scale(reduced->rigid->momentum, 1 / model->mass);
    out->density = (double)model->desc.density / stage.fluid_density;
}

/* Rigid bodies first, in the order in which they were added; not those that follow a script. */
static int stage_list_solids(stage_solid *list) {
    int count = 0;
    memset(list, 0, STAGE_SOLIDS * sizeof *list);
    for (int i = 0; i < STAGE_SOLIDS; i++)
        list[i].body = -1;
    for (int i = 0; i < stage.bodies; i++) {
        if (stage.body[i].desc.kind != FSI_RIGID_DYNAMIC)
            continue;
        list[count].body = i;
        solid_of_body(&stage.body[i], &list[count++]);
    }
    for (int i = 0; i < stage.parts; i++) {
        part *own = &stage.part[i];
        stage_solid *out = &list[count];
        out->part = own;
        out->submerged = 1;
        if (own->kind == PART_SOFT)
            solid_of_soft(own->object, out);
        else if (own->kind == PART_TLED)
            solid_of_tled(own->object, out);
        else if (own->kind == PART_REDUCED)
            solid_of_reduced(own->object, out);
        else
            continue;
        count++;
    }
    if (stage.scene->solids)
        count += stage.scene->solids(list + count);
    return count;
}

/* ------------------------------------------------------------------------------------------------
 * how the hand pulls */
/* A spring and its damper towards where the hand wants the point to be, as an acceleration: that of
   backward Euler, so that no step is too long for it. */
static fsi_vec3 hand_acceleration(fsi_vec3 x, fsi_vec3 v, fsi_real rate, fsi_real dt) {
    fsi_vec3 way = fsi_vec_sub(stage.hand.target, x);
    fsi_vec3 ahead = fsi_vec_mad(way, v, -dt);
    fsi_vec3 pull = fsi_vec_scale(ahead, rate * rate);
    fsi_vec3 brake = fsi_vec_scale(v, 2 * rate);
    fsi_real soft = 1 + 2 * rate * dt + rate * rate * dt * dt;
    return fsi_vec_scale(fsi_vec_sub(pull, brake), 1 / soft);
}

/* The hand pulls at the centre, feels body and the water that moves with it, and carries both. A
   body in air weighs only itself: with more the spring would throw a light one. Among particles the
   depth is an estimate, and a body is not thrown where it is wrong. */
static void hand_pull_body(fsi_real dt) {
    fsi_rigid *body = &stage.solids->body[stage.hand.index];
    fsi_real displaced = displaced_mass(stage.hand.index);
    if (stage.sph && displaced > 4 * body->mass)
        displaced = 4 * body->mass;
    fsi_vec3 gravity = stage.world ? stage.grid->desc.gravity : stage.solids->desc.gravity;
    fsi_vec3 acceleration = hand_acceleration(body->x, body->v, 16, dt);
    fsi_vec3 force = fsi_vec_scale(acceleration, body->mass + displaced / 2);
    force = fsi_vec_mad(force, gravity, displaced - body->mass);
    body->force = fsi_vec_add(body->force, force);
}

/* The same for what is fastened or pushed otherwise: the hand learns what it takes to hold it
   where it should be. The sum is bounded: what cannot come does not let it grow. */
static fsi_vec3 hand_hold_at(fsi_vec3 x, fsi_vec3 v, fsi_real rate, fsi_real dt) {
    fsi_vec3 way = fsi_vec_sub(stage.hand.target, x);
    fsi_vec3 learned = fsi_vec_mad(stage.hand.learned, way, dt);
    fsi_real size = fsi_vec_length(learned);
    fsi_real most = 4 * (stage.hi.y - stage.lo.y) / rate;
    stage.hand.learned = size > most ? fsi_vec_scale(learned, most / size) : learned;
    fsi_vec3 acceleration = hand_acceleration(x, v, rate, dt);
    return fsi_vec_mad(acceleration, stage.hand.learned, rate * rate * rate / 2);
}

/* Each node feels the pull on itself and on the fluid that moves with it. */
static void hand_pull_soft(fsi_real dt) {
    fsi_soft *soft = stage.hand.object;
    int node = stage.hand.index;
    fsi_real layer = stage.fluid_density * stage.grid->h * stage.grid->h;
    stage_solid held = {0};
    if (node < 0)
        solid_of_soft(soft, &held);
    else
        nodes_centre(soft->x + 3 * node, soft->v + 3 * node, soft->mass + node, 1, &held);
    fsi_vec3 acceleration = hand_hold_at(held.x, held.v, 12, dt);
    for (int i = 0; i < soft->desc.vertex_count; i++)
        if (i == node || (node < 0 && soft->inverse_mass[i] > 0))
            fsi_vec_store(soft->force + 3 * i,
                          fsi_vec_scale(acceleration, soft->mass[i] + 6 * layer));
}

/* All nodes near the grabbed one share the pull. */
static void hand_pull_tled(fsi_real dt) {
    fsi_tled *tled = stage.hand.object;
    int node = stage.hand.index;
    stage_solid held = {0};
    if (node < 0)
        solid_of_tled(tled, &held);
    else
        nodes_centre(tled->x + 3 * node, tled->v + 3 * node, tled->mass + node, 1, &held);
    double reach = node < 0 ? 1e9 : 0.1 * (double)(stage.hi.y - stage.lo.y);
    fsi_vec3 acceleration = hand_hold_at(held.x, held.v, 40, dt);
    for (int i = 0; i < tled->nodes; i++) {
        int pulled = distance_to(held.x, fsi_vec_load(tled->x + 3 * i)) < reach;
        fsi_real share = pulled ? 6 * tled->mass[i] : 0;
        fsi_vec_store(tled->fext + 3 * i, fsi_vec_scale(acceleration, share));
    }
}

static void hand_pull_reduced(fsi_real dt) {
    fsi_reduced *reduced = stage.hand.object;
    stage_solid held = {0};
    solid_of_reduced(reduced, &held);
    fsi_vec3 acceleration = hand_hold_at(held.x, held.v, 8, dt);
    fsi_vec3 force = fsi_vec_scale(acceleration, FSI_R(1.5) * reduced->model->mass);
    fsi_vec_store(reduced->force, fsi_vec_add(fsi_vec_load(reduced->force), force));
}

/* How fast the pointer moved since the last step, m/s, at most 3. */
static fsi_vec3 hand_velocity(fsi_real dt) {
    fsi_vec3 way = fsi_vec_sub(stage.hand.at, stage.hand.before);
    fsi_vec3 velocity = fsi_vec_scale(way, 1 / dt);
    fsi_real speed = fsi_vec_length(velocity);
    return speed > 3 ? fsi_vec_scale(velocity, 3 / speed) : velocity;
}

/* 1 at the pointer, 0 from reach on. */
static fsi_real hand_near(fsi_vec3 x) {
    fsi_real reach = FSI_R(0.07) * (stage.hi.x - stage.lo.x);
    fsi_real along = (x.x - stage.hand.at.x) / reach;
    fsi_real up = (x.y - stage.hand.at.y) / reach;
    fsi_real share = 1 - along * along - up * up;
    return share > 0 ? share : 0;
}

static fsi_vec3 hand_stir_velocity;

static fsi_vec3 hand_stir_force(fsi_vec3 x, double time, void *user) {
    (void)time;
    (void)user;
    return fsi_vec_scale(hand_stir_velocity, 15 * hand_near(x));
}

static void hand_stir_particles(fsi_sph *sph, fsi_vec3 velocity) {
    for (int i = 0; i < sph->now.count; i++) {
        fsi_real share = FSI_R(0.3) * hand_near(fsi_vec(sph->x[i], sph->y[i], sph->z[i]));
        sph->vx[i] += share * (velocity.x - sph->vx[i]);
        sph->vy[i] += share * (velocity.y - sph->vy[i]);
    }
}

static void hand_stir(fsi_real dt) {
    hand_stir_velocity = hand_velocity(dt);
    if (stage.sph)
        hand_stir_particles(stage.sph, hand_stir_velocity);
    if (stage.world)
        stage.world->grid.desc.force_fn = hand_stir_force;
}

/* What the hand does in the coming step. */
static void hand_pull(fsi_real dt) {
    if (stage.world && stage.world->grid.desc.force_fn == hand_stir_force)
        stage.world->grid.desc.force_fn = NULL;
    if (stage.hand.kind == HAND_BODY)
        hand_pull_body(dt);
    else if (stage.hand.kind == HAND_SOFT)
        hand_pull_soft(dt);
    else if (stage.hand.kind == HAND_TLED)
        hand_pull_tled(dt);
    else if (stage.hand.kind == HAND_REDUCED)
        hand_pull_reduced(dt);
    else if (stage.hand.kind == HAND_FLUID)
        hand_stir(dt);
    stage.hand.before = stage.hand.at;
}

/* The node next to a point, within reach; -1 where there is none. Depth does not count. */
static int nearest_node(const fsi_real *x, int count, fsi_vec3 at, double reach) {
    int best = -1;
    for (int i = 0; i < count; i++) {
        double away = hypot((double)(x[3 * i] - at.x), (double)(x[3 * i + 1] - at.y));
        if (away < reach) {
            reach = away;
            best = i;
        }
    }
    return best;
}

static void hand_hold(hand_kind kind, void *object, int index, fsi_vec3 place) {
    stage.hand.kind = kind;
    stage.hand.object = object;
    stage.hand.index = index;
    stage.hand.target = place;
    stage.hand.offset = fsi_vec_sub(place, stage.hand.at);
    stage.hand.learned = fsi_vec(0, 0, 0);
}

static int hand_take_body(int id) {
    hand_hold(HAND_BODY, NULL, id, stage.solids->body[id].x);
    stage_weigh_in_hand();
    return 1;
}

/* A rigid body under the pointer; in 3D the ray goes along z. */
static int hand_grab_body(fsi_vec3 at, double reach) {
    int best = -1;
    double least = reach;
    for (int i = 0; i < stage.bodies; i++) {
        const fsi_rigid *body = &stage.solids->body[stage.body[i].id];
        if (body->kind != FSI_RIGID_DYNAMIC)
            continue;
        fsi_vec3 seen = fsi_vec(at.x, at.y, body->x.z);
        fsi_vec3 arm = fsi_vec_sub(seen, body->x);
        fsi_mat3 inward = fsi_mat3_transpose(&body->rotation);
        fsi_vec3 own = fsi_mat3_mul_vec(&inward, arm);
        double away = fsi_shape_distance(body->shape, own, NULL);
        if (away < least) {
            least = away;
            best = stage.body[i].id;
        }
    }
    return best >= 0 && hand_take_body(best);
}

static int hand_grab_part(const part *own, fsi_vec3 at, double reach) {
    if (own->kind == PART_SOFT) {
        fsi_soft *soft = own->object;
        int node = nearest_node(soft->x, soft->desc.vertex_count, at, reach);
        if (node >= 0 && soft->inverse_mass[node] > 0)
            hand_hold(HAND_SOFT, soft, node, fsi_vec_load(soft->x + 3 * node));
    } else if (own->kind == PART_TLED) {
        fsi_tled *tled = own->object;
        int node = nearest_node(tled->x, tled->nodes, at, reach);
        if (node >= 0)
            hand_hold(HAND_TLED, tled, node, fsi_vec_load(tled->x + 3 * node));
    } else if (own->kind == PART_REDUCED) {
        fsi_reduced *reduced = own->object;
        fsi_vec3 middle = reduced->rigid->position;
        fsi_real place[3] = {middle.x, middle.y, middle.z};
        if (nearest_node(place, 1, at, 4 * reach) >= 0)
            hand_hold(HAND_REDUCED, reduced, 0, middle);
    }
    return stage.hand.kind != HAND_EMPTY;
}

/* The centre that is reported of a solid is a handle for all of it, even where it lies beside it:
   scripts and the keyboard take hold of it there. A mouse next to it by chance does the same. */
static int hand_grab_centre(fsi_vec3 at, double reach) {
    stage_solid list[STAGE_SOLIDS];
    const stage_solid *best = NULL;
    int count = stage_list_solids(list);
    for (int i = 0; i < count; i++) {
        double away = hypot((double)(list[i].x.x - at.x), (double)(list[i].x.y - at.y));
        int ours = list[i].part || list[i].body >= 0;
        if (!ours || away >= reach)
            continue;
        reach = away;
        best = &list[i];
    }
    if (!best)
        return 0;
    if (best->body >= 0)
        return hand_take_body(stage.body[best->body].id);
    part_kind kind = best->part->kind;
    hand_kind hand = kind == PART_SOFT ? HAND_SOFT : kind == PART_TLED ? HAND_TLED : HAND_REDUCED;
    hand_hold(hand, best->part->object, -1, best->x);
    return 1;
}

/* 1: something solid was grabbed; 0: the hand is in the fluid. */
static int stage_grab(fsi_vec3 at) {
    double reach = 0.04 * (double)(stage.hi.x - stage.lo.x);
    stage.hand.kind = HAND_EMPTY;
    stage.hand.at = stage.hand.before = at;
    if (stage.scene->grab && stage.scene->grab(at))
        return 1;
    if (hand_grab_centre(at, reach / 8))
        return 1;
    if (stage.solids && hand_grab_body(at, reach / 2))
        return 1;
    for (int i = 0; i < stage.parts; i++)
        if (hand_grab_part(&stage.part[i], at, reach))
            return 1;
    stage.hand.kind = HAND_FLUID;
    return 0;
}

/* A wave of period 1 between -1 and 1 made of parabolas: nearly a sine, but the same bits whatever
   library of mathematical functions there is. */
static double wave_at(double phase) {
    double place = 2 * (phase - floor(phase)) - 1;
    return -4 * place * (1 - fabs(place));
}

/* From 0 to 1 without a kink. */
static double ease(double share) {
    return share * share * (3 - 2 * share);
}

static fsi_real between(fsi_real lo, fsi_real x, fsi_real hi) {
    return x < lo ? lo : x > hi ? hi : x;
}

/* The hand stays in what is shown. */
static void stage_pull(fsi_vec3 at) {
    fsi_vec3 goal = fsi_vec_add(at, stage.hand.offset);
    stage.hand.at = at;
    goal.x = between(stage.lo.x, goal.x, stage.hi.x);
    goal.y = between(stage.lo.y, goal.y, stage.hi.y);
    goal.z = stage.hand.target.z;
    stage.hand.target = goal;
}

static void stage_release(void) {
    hand_kind kind = stage.hand.kind;
    stage.hand.kind = HAND_EMPTY;
    if (kind == HAND_BODY) {
        stage_weigh_in_hand();
    } else if (kind == HAND_SOFT) {
        fsi_soft *soft = stage.hand.object;
        memset(soft->force, 0, 3 * (size_t)soft->desc.vertex_count * sizeof *soft->force);
    } else if (kind == HAND_TLED) {
        fsi_tled *tled = stage.hand.object;
        memset(tled->fext, 0, 3 * (size_t)tled->nodes * sizeof *tled->fext);
    }
    if (stage.world && stage.world->grid.desc.force_fn == hand_stir_force)
        stage.world->grid.desc.force_fn = NULL;
}

/* ------------------------------------------------------------------------------------------------
 * what is measured */
typedef struct stage_totals {
    double kinetic, potential; /* J, of everything */
    double momentum[2];        /* N s */
    double volume;             /* of the fluid, m^3 (2D: m^2) */
} stage_totals;

/* Share of a cell that is liquid. */
static double cell_share(const fsi_grid *grid, size_t cell) {
    if (!grid->phi)
        return 1;
    double share = 0.5 - (double)(grid->phi[cell] / grid->h);
    return share < 0 ? 0 : share > 1 ? 1 : share;
}

static void measure_grid(const fsi_grid *grid, stage_totals *sum) {
    double rho = grid->desc.rho;
    double cell_mass = rho * pow((double)grid->h, grid->dim);
    double height = grid->origin.y + grid->h / 2;
    for (size_t cell = 0; cell < grid->cells; cell++) {
        int row = (int)(cell / (size_t)grid->nx) % grid->ny;
        size_t column = cell % (size_t)grid->nx;
        size_t line = cell / (size_t)grid->nx;
        double mass = cell_mass * cell_share(grid, cell);
        if (mass <= 0 || grid->cell[cell] == FSI_CELL_NEUMANN)
            continue;
        size_t face = column + (size_t)(grid->nx + 1) * line;
        size_t below = cell + (cell / (size_t)(grid->nx * grid->ny)) * (size_t)grid->nx;
        double along = 0.5 * (double)(grid->u[0][face] + grid->u[0][face + 1]);
        double up = 0.5 * (double)(grid->u[1][below] + grid->u[1][below + (size_t)grid->nx]);
        sum->momentum[0] += mass * along;
        sum->momentum[1] += mass * up;
        sum->potential -= mass * (double)grid->desc.gravity.y * (height + row * (double)grid->h);
    }
    sum->kinetic += fsi_grid_kinetic_energy(grid);
    sum->volume += grid->phi ? grid->stats.liquid_volume : 0;
}

static void measure_solids(const fsi_solids *solids, stage_totals *sum) {
    fsi_solids_report report;
    if (fsi_solids_measure(solids, &report) < 0)
        return;
    sum->kinetic += report.kinetic;
    sum->potential += report.potential;
    sum->momentum[0] += report.momentum[0];
    sum->momentum[1] += report.momentum[1];
}

static void measure_soft(const fsi_soft *soft, stage_totals *sum) {
    double elastic;
    double kinetic;
    fsi_soft_energy(soft, &elastic, &kinetic);
    sum->kinetic += kinetic;
    sum->potential += elastic;
    for (int i = 0; i < soft->desc.vertex_count; i++) {
        sum->momentum[0] += (double)(soft->mass[i] * soft->v[3 * i]);
        sum->momentum[1] += (double)(soft->mass[i] * soft->v[3 * i + 1]);
    }
}

static void measure_sph(const fsi_sph *sph, stage_totals *sum) {
    double mass;
    double momentum[3];
    double kinetic;
    fsi_sph_totals(sph, &mass, momentum, NULL, &kinetic);
    sum->kinetic += kinetic;
    sum->momentum[0] += momentum[0];
    sum->momentum[1] += momentum[1];
    sum->volume += mass / (double)sph->desc.density;
    for (int i = 0; i < sph->now.count; i++)
        sum->potential -= (double)(sph->mass[i] * sph->desc.gravity.y * sph->y[i]);
}

static void measure_tled(const fsi_tled *tled, stage_totals *sum) {
    double elastic;
    double kinetic;
    double momentum[3];
    fsi_tled_totals(tled, &elastic, &kinetic, momentum, NULL);
    sum->kinetic += kinetic;
    sum->potential += elastic;
    sum->momentum[0] += momentum[0];
    sum->momentum[1] += momentum[1];
}

static void measure_reduced(const fsi_reduced *reduced, stage_totals *sum) {
    double elastic;
    double kinetic;
    fsi_reduced_energy(reduced, &elastic, &kinetic);
    sum->kinetic += kinetic;
    sum->potential += elastic;
    sum->momentum[0] += (double)reduced->rigid->momentum.x;
    sum->momentum[1] += (double)reduced->rigid->momentum.y;
}

static stage_totals stage_measure(void) {
    stage_totals sum = {0, 0, {0, 0}, 0};
    for (int i = 0; i < stage.parts; i++) {
        const part *own = &stage.part[i];
        if (own->kind == PART_WORLD) {
            measure_grid(&((fsi_world *)own->object)->grid, &sum);
            measure_solids(&((fsi_world *)own->object)->solids, &sum);
        } else if (own->kind == PART_GRID) {
            measure_grid(own->object, &sum);
        } else if (own->kind == PART_SOLIDS) {
            measure_solids(own->object, &sum);
        } else if (own->kind == PART_SOFT) {
            measure_soft(own->object, &sum);
        } else if (own->kind == PART_SPH) {
            measure_sph(own->object, &sum);
        } else if (own->kind == PART_SPH_RIGID) {
            const fsi_sph_rigid *both = own->object;
            measure_sph(both->desc.sph, &sum);
            measure_solids(both->desc.world, &sum);
        } else if (own->kind == PART_TLED) {
            measure_tled(own->object, &sum);
        } else if (own->kind == PART_REDUCED) {
            measure_reduced(own->object, &sum);
        }
    }
    return sum;
}

/* ------------------------------------------------------------------------------------------------
 * make, step, end */
static void stage_clear(void) {
    if (stage.scene && stage.scene->end)
        stage.scene->end();
    fsi_world_free(&stage.own_world);
    for (int i = 0; i < stage.shapes; i++)
        fsi_shape_free(&stage.shape[i]);
    scene *own = stage.scene;
    memset(&stage, 0, sizeof stage);
    stage.scene = own;
}

static fsi_result stage_make(void) {
    stage_clear();
    fsi_result result = stage.scene->make();
    stage.broken = result < 0;
    stage.result = result;
    return result;
}

/* The fastest body, m/s. */
static double stage_speed(void) {
    double most = 0;
    for (int i = 0; i < stage.bodies; i++) {
        double speed = fsi_vec_length(stage.solids->body[stage.body[i].id].v);
        most = speed > most || speed != speed ? speed : most;
    }
    return most;
}

static fsi_result stage_step(void) {
    fsi_real dt = stage.scene->dt;
    if (stage.broken)
        return stage.result;
    if (stage.scene->before)
        stage.scene->before(dt);
    hand_pull(dt);
    memset(&stage.report, 0, sizeof stage.report);
    if (stage.scene->step)
        stage.result = stage.scene->step(dt, &stage.report);
    else
        stage.result = fsi_world_step(stage.world, dt, &stage.report);
    stage.steps++;
    stage.time += (double)dt;
    if (stage.steps == 1) /* only now the grid knows what of the water the bodies displace */
        stage.volume_at_first = stage_measure().volume;
    double most = stage.scene->most_speed > 0 ? stage.scene->most_speed : 200;
    stage.broken = stage.result < 0 || !(stage_speed() < most);
    return stage.result;
}
#endif
