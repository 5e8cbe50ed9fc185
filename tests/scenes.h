/* Fifteen small scenes, one for every solver and coupling scheme, behind one door: make, step, size
   of the state, save, restore, drop. test_trust.c runs them for determinism, snapshots, rollback
   and soak; golden.c prints their hashes. Include after fsi_couple.h and check.h. */
#ifndef SCENES_H
#define SCENES_H

/* One saved object: a size query, a copy out, a copy in. */
typedef enum scene_what {
    PART_GRID,
    PART_SOLIDS,
    PART_SOFT,
    PART_REDUCED,
    PART_WORLD,
    PART_COUPLE,
    PART_SLIP,
    PART_SCHEME,
    PART_SPH,
    PART_TLED,
    PART_CONTACTS,
    PART_SPH_RIGID,
    PART_OWN
} scene_what;

typedef struct scene_part {
    scene_what what;
    void *object;
} scene_part;

/* what scene square holds itself */
typedef struct scene_own {
    fsi_real centre[3], tracer[24];
} scene_own;

typedef struct scene_kind {
    const char *name;
    size_t bytes;                                            /* of the scene's struct */
    fsi_result (*make)(void *scene, const fsi_allocator *a); /* the struct is zeroed */
    fsi_result (*step)(void *scene);
    int (*parts)(void *scene, scene_part *part); /* what the state is made of, in order */
    /* safe on a zeroed or half-made scene */
    void (*drop)(void *scene);
    /* steps until what falls has landed: before that nothing is coupled and nothing in contact */
    int touch;
} scene_kind;

/* bytes for what changes its size: contacts, and the surfaces that slip remembers for its tracers
 */
enum {
    SCENE_PARTS = 8,
    SCENE_ROOM = 1 << 16
};

/* factors of all time steps and of the solids' densities: test_trust's bad numbers */
static fsi_real scene_hurry = 1, scene_weight = 1;

static size_t scene_part_size(const scene_part *p) {
    switch (p->what) {
    case PART_GRID:
        return fsi_grid_state_size((const fsi_grid *)p->object);
    case PART_SOLIDS:
        return fsi_solids_state_size((const fsi_solids *)p->object);
    case PART_SOFT:
        return fsi_soft_state_size((const fsi_soft *)p->object);
    case PART_REDUCED:
        return fsi_reduced_state_size((const fsi_reduced *)p->object);
    case PART_WORLD:
        return fsi_world_state_size((const fsi_world *)p->object);
    case PART_COUPLE:
        return fsi_couple_state_size((const fsi_couple *)p->object);
    case PART_SLIP:
        return SCENE_ROOM;
    case PART_SCHEME:
        return fsi_partitioned_state_size((const fsi_partitioned *)p->object);
    case PART_SPH:
        return fsi_sph_state_size((const fsi_sph *)p->object);
    case PART_TLED:
        return fsi_tled_state_size((const fsi_tled *)p->object);
    case PART_CONTACTS:
        return SCENE_ROOM;
    case PART_SPH_RIGID:
        return fsi_sph_rigid_state_size((const fsi_sph_rigid *)p->object);
    case PART_OWN:
        return sizeof(scene_own);
    }
    return 0;
}

static fsi_result scene_part_save(const scene_part *p, void *out) {
    switch (p->what) {
    case PART_GRID:
        return fsi_grid_save((const fsi_grid *)p->object, out);
    case PART_SOLIDS:
        return fsi_solids_save((const fsi_solids *)p->object, out);
    case PART_SOFT:
        return fsi_soft_save((const fsi_soft *)p->object, out);
    case PART_REDUCED:
        return fsi_reduced_save((const fsi_reduced *)p->object, out);
    case PART_WORLD:
        return fsi_world_save((const fsi_world *)p->object, out);
    case PART_COUPLE:
        return fsi_couple_save((const fsi_couple *)p->object, out);
    case PART_SLIP:
        return fsi_slip_state_size((const fsi_slip *)p->object) > SCENE_ROOM
                   ? FSI_ERR_SIZE
                   : fsi_slip_save((const fsi_slip *)p->object, out);
    case PART_SCHEME:
        return fsi_partitioned_save((const fsi_partitioned *)p->object, out);
    case PART_SPH:
        return fsi_sph_save((const fsi_sph *)p->object, out);
    case PART_TLED:
        return fsi_tled_save((const fsi_tled *)p->object, out);
    case PART_CONTACTS:
        return fsi_reduced_contacts_state_size((const fsi_reduced_contacts *)p->object) > SCENE_ROOM
                   ? FSI_ERR_SIZE
                   : fsi_reduced_contacts_save((const fsi_reduced_contacts *)p->object, out);
    case PART_SPH_RIGID:
        return fsi_sph_rigid_save((const fsi_sph_rigid *)p->object, out);
    case PART_OWN:
        memcpy(out, p->object, sizeof(scene_own));
        return FSI_OK;
    }
    return FSI_ERR_ARGUMENT;
}

/* Bytes of a block, which its head knows. */
static size_t scene_block_size(const void *block) {
    uint64_t bytes;
    memcpy(&bytes, (const unsigned char *)block + 16, sizeof bytes);
    return (size_t)bytes;
}

static size_t scene_part_restored_size(const scene_part *p, const void *in) {
    return p->what == PART_SLIP || p->what == PART_CONTACTS ? scene_block_size(in)
                                                            : scene_part_size(p);
}

static fsi_result scene_part_restore_sized(const scene_part *p, const void *in, size_t size) {
    switch (p->what) {
    case PART_GRID:
        return fsi_grid_restore((fsi_grid *)p->object, in, size);
    case PART_SOLIDS:
        return fsi_solids_restore((fsi_solids *)p->object, in, size);
    case PART_SOFT:
        return fsi_soft_restore((fsi_soft *)p->object, in, size);
    case PART_REDUCED:
        return fsi_reduced_restore((fsi_reduced *)p->object, in, size);
    case PART_WORLD:
        return fsi_world_restore((fsi_world *)p->object, in, size);
    case PART_COUPLE:
        return fsi_couple_restore((fsi_couple *)p->object, in, size);
    case PART_SLIP:
        return fsi_slip_restore((fsi_slip *)p->object, in, size);
    case PART_SCHEME:
        return fsi_partitioned_restore((fsi_partitioned *)p->object, in, size);
    case PART_SPH:
        return fsi_sph_restore((fsi_sph *)p->object, in, size);
    case PART_TLED:
        return fsi_tled_restore((fsi_tled *)p->object, in, size);
    case PART_CONTACTS:
        return fsi_reduced_contacts_restore((fsi_reduced_contacts *)p->object, in, size);
    case PART_SPH_RIGID:
        return fsi_sph_rigid_restore((fsi_sph_rigid *)p->object, in, size);
    case PART_OWN:
        memcpy(p->object, in, sizeof(scene_own));
        return FSI_OK;
    }
    return FSI_ERR_ARGUMENT;
}

static fsi_result scene_part_restore(const scene_part *p, const void *in) {
    return scene_part_restore_sized(p, in, scene_part_restored_size(p, in));
}

static size_t scene_round(size_t n) {
    return (n + 63) & ~(size_t)63;
}

static size_t scene_size(const scene_kind *k, void *scene) {
    scene_part part[SCENE_PARTS];
    int n = k->parts(scene, part);
    size_t bytes = 0;
    for (int i = 0; i < n; i++)
        bytes += scene_round(scene_part_size(&part[i]));
    return bytes;
}

static fsi_result scene_save(const scene_kind *k, void *scene, void *block) {
    scene_part part[SCENE_PARTS];
    int n = k->parts(scene, part);
    unsigned char *at = (unsigned char *)block;
    fsi_result result = FSI_OK;
    for (int i = 0; i < n && result >= 0; i++) {
        result = scene_part_save(&part[i], at);
        at += scene_round(scene_part_size(&part[i]));
    }
    return result;
}

static CHECK_UNUSED fsi_result scene_restore(const scene_kind *k, void *scene, const void *block) {
    scene_part part[SCENE_PARTS];
    int i, n = k->parts(scene, part);
    const unsigned char *at = (const unsigned char *)block;
    fsi_result r = FSI_OK;
    for (i = 0; i < n && r >= 0; i++) {
        r = scene_part_restore(&part[i], at);
        at += scene_round(scene_part_size(&part[i]));
    }
    return r;
}

/* A hash of the whole state; block has room for it. */
static CHECK_UNUSED uint64_t scene_hash(const scene_kind *k, void *scene, void *block) {
    size_t size = scene_size(k, scene);
    memset(block, 0, size);
    if (scene_save(k, scene, block) < 0)
        return 0;
    return check_hash(block, size, 1);
}

/* ------------------------------------------------------------------------------------------------
 * fluids alone */
static fsi_real scene_water(fsi_vec3 x, void *user) {
    (void)user;
    return x.x < FSI_R(0.4) ? x.y - FSI_R(0.6) : FSI_R(0.5) * (x.x - FSI_R(0.4)) + FSI_R(0.02);
}

static fsi_real scene_haze(fsi_vec3 x, void *user) {
    (void)user;
    return 1 + x.x * x.y;
}

static fsi_real scene_pool(fsi_vec3 x, void *user) {
    (void)user;
    return x.y - FSI_R(0.47);
}

static fsi_real scene_bubble(fsi_vec3 x, void *user) {
    fsi_vec3 d = fsi_vec_sub(x, fsi_vec(FSI_R(0.5), FSI_R(0.2), 0));
    return (fsi_real)fmax((double)scene_pool(x, user), 0.1 - sqrt((double)fsi_vec_dot(d, d)));
}

static fsi_grid_desc scene_grid(int n, int dim, int liquid, const fsi_allocator *a) {
    fsi_grid_desc g;
    memset(&g, 0, sizeof g);
    g.nx = n;
    g.ny = n + n / 4;
    g.nz = dim == 3 ? n - 1 : 1;
    g.h = 1 / (fsi_real)n;
    g.rho = liquid ? 1000 : 1;
    g.liquid = liquid;
    g.smoke = !liquid;
    g.gravity = fsi_vec(0, liquid ? FSI_R(-9.81) : 0, 0);
    g.side[FSI_TOP].kind = FSI_SIDE_OPEN;
    if (a)
        g.allocator = *a;
    return g;
}

static fsi_result scene_jet(fsi_grid *g) {
    fsi_grid_source s;
    memset(&s, 0, sizeof s);
    s.lo = fsi_vec(FSI_R(0.35), 0, 0);
    s.hi = fsi_vec(FSI_R(0.65), FSI_R(1.01) * g->h, 1);
    s.set = FSI_SOURCE_VELOCITY | FSI_SOURCE_DENSITY | FSI_SOURCE_DIVERGENCE;
    s.velocity = fsi_vec(0, FSI_R(0.5), 0);
    s.divergence = FSI_R(0.5) / g->h;
    s.density = 1;
    return fsi_grid_add_source(g, &s);
}

typedef struct scene_fluid {
    fsi_grid grid;
} scene_fluid;

static fsi_result smoke_make(void *scene, const fsi_allocator *allocator, int n, int dim) {
    fsi_grid *grid = &((scene_fluid *)scene)->grid;
    fsi_grid_desc desc = scene_grid(n, dim, 0, allocator);
    desc.confinement = FSI_R(0.2);
    fsi_result result = fsi_grid_init(grid, &desc);
    return result < 0 ? result : scene_jet(grid);
}

static fsi_result liquid_make(void *scene, const fsi_allocator *allocator, int n, int dim) {
    fsi_grid *grid = &((scene_fluid *)scene)->grid;
    fsi_grid_desc desc = scene_grid(n, dim, 1, allocator);
    desc.volume_correction = 1;
    fsi_result result = fsi_grid_init(grid, &desc);
    return result < 0 ? result : fsi_grid_set_field(grid, FSI_FIELD_PHI, scene_water, NULL);
}

static fsi_result smoke2_make(void *s, const fsi_allocator *allocator) {
    return smoke_make(s, allocator, 24, 2);
}

static fsi_result smoke3_make(void *s, const fsi_allocator *allocator) {
    return smoke_make(s, allocator, 12, 3);
}

static fsi_result liquid2_make(void *s, const fsi_allocator *allocator) {
    return liquid_make(s, allocator, 24, 2);
}

static fsi_result liquid3_make(void *s, const fsi_allocator *allocator) {
    return liquid_make(s, allocator, 12, 3);
}

static fsi_result fluid_step(void *scene) {
    fsi_grid *grid = &((scene_fluid *)scene)->grid;
    return fsi_grid_step(grid, scene_hurry * FSI_R(0.3) * grid->h, NULL);
}

static int fluid_parts(void *scene, scene_part *p) {
    p[0].what = PART_GRID;
    p[0].object = &((scene_fluid *)scene)->grid;
    return 1;
}

static void fluid_drop(void *scene) {
    fsi_grid_free(&((scene_fluid *)scene)->grid);
}

/* ------------------------------------------------------------------------------------------------
 * solids alone */
typedef struct scene_bodies {
    fsi_solids world;
    fsi_shape floor, box, ball;
} scene_bodies;

static fsi_result bodies_make(void *scene, const fsi_allocator *allocator) {
    scene_bodies *s = (scene_bodies *)scene;
    fsi_solids_desc desc;
    int id = 0, before = 0;
    memset(&desc, 0, sizeof desc);
    fsi_shape_desc given;
    memset(&given, 0, sizeof given);
    fsi_rigid_desc options;
    memset(&options, 0, sizeof options);
    fsi_joint_desc j;
    memset(&j, 0, sizeof j);
    if (allocator)
        desc.allocator = given.allocator = *allocator;
    desc.dim = 3;
    desc.max_bodies = 8;
    desc.max_joints = 2;
    desc.gravity = fsi_vec(0, FSI_R(-9.81), 0);
    fsi_result result = fsi_solids_init(&s->world, &desc);
    /* walls: on an open floor the ball rolls to the edge and falls for ever */
    given.kind = FSI_SHAPE_ROOM;
    given.half = fsi_vec(2, 2, 2);
    if (result >= 0)
        result = fsi_shape_init(&s->floor, &given);
    given.kind = FSI_SHAPE_BOX;
    given.half = fsi_vec(FSI_R(0.1), FSI_R(0.08), FSI_R(0.12));
    if (result >= 0)
        result = fsi_shape_init(&s->box, &given);
    given.kind = FSI_SHAPE_SPHERE;
    given.radius = FSI_R(0.1);
    if (result >= 0)
        result = fsi_shape_init(&s->ball, &given);
    options.shape = &s->floor;
    options.x = fsi_vec(0, 2, 0);
    options.kind = FSI_RIGID_FIXED;
    options.friction = FSI_R(0.4);
    if (result >= 0)
        result = fsi_solids_add(&s->world, &options, NULL);
    options.kind = FSI_RIGID_DYNAMIC;
    options.density = 500 * scene_weight;
    for (int i = 0; i < 6 && result >= 0; i++) {
        options.shape = i % 3 == 2 ? &s->ball : &s->box;
        options.x = fsi_vec(FSI_R(0.03) * (fsi_real)i, FSI_R(0.2) + FSI_R(0.25) * (fsi_real)i,
                            FSI_R(0.02) * (fsi_real)(i % 2));
        before = id;
        result = fsi_solids_add(&s->world, &options, &id);
    }
    j.kind = FSI_JOINT_POINT;
    j.a = before;
    j.b = id;
    j.anchor = fsi_vec(FSI_R(0.14), FSI_R(1.32), FSI_R(0.01));
    return result < 0 ? result : fsi_solids_join(&s->world, &j, NULL);
}

static fsi_result bodies_step(void *scene) {
    return fsi_solids_step(&((scene_bodies *)scene)->world, scene_hurry * FSI_R(0.01));
}

static int bodies_parts(void *scene, scene_part *p) {
    p[0].what = PART_SOLIDS;
    p[0].object = &((scene_bodies *)scene)->world;
    return 1;
}

static void bodies_drop(void *scene) {
    scene_bodies *s = (scene_bodies *)scene;
    fsi_solids_free(&s->world);
    fsi_shape_free(&s->floor);
    fsi_shape_free(&s->box);
    fsi_shape_free(&s->ball);
}

/* A soft body on the ground: cloth of 7 x 7 nodes, or a block of tetrahedra. */
typedef struct scene_soft {
    fsi_soft soft;
    fsi_mesh mesh;
    fsi_obstacle ground;
} scene_soft;

static fsi_real scene_ground(fsi_vec3 x, fsi_vec3 *normal, fsi_vec3 *velocity, void *user) {
    (void)user;
    *normal = fsi_vec(0, 1, 0);
    *velocity = fsi_vec(0, 0, 0);
    return x.y;
}

static fsi_result cloth_make(void *scene, const fsi_allocator *allocator) {
    scene_soft *s = (scene_soft *)scene;

    enum {
        N = 7
    };

    fsi_soft_desc desc;
    fsi_real x[3 * N * N];
    int32_t tri[6 * (N - 1) * (N - 1)];
    int t = 0;
    memset(&desc, 0, sizeof desc);
    for (int j = 0; j < N; j++)
        for (int i = 0; i < N; i++)
            fsi_vec_store(x + 3 * (i + N * j),
                          fsi_vec(FSI_R(0.1) * (fsi_real)i, FSI_R(0.15) + FSI_R(0.03) * (fsi_real)j,
                                  FSI_R(0.1) * (fsi_real)j));
    for (int j = 0; j + 1 < N; j++)
        for (int i = 0; i + 1 < N; i++) {
            int c = i + N * j;
            tri[t++] = c;
            tri[t++] = c + 1;
            tri[t++] = c + N;
            tri[t++] = c + 1;
            tri[t++] = c + N + 1;
            tri[t++] = c + N;
        }
    desc.dim = 3;
    desc.vertex_count = N * N;
    desc.x = x;
    desc.triangle_count = t / 3;
    desc.triangle = tri;
    desc.area_density = FSI_R(0.2) * scene_weight;
    desc.stretch = 500;
    desc.bend = FSI_R(1e-4);
    desc.damping_stiffness = FSI_R(0.005);
    desc.gravity = fsi_vec(0, FSI_R(-9.81), 0);
    if (allocator)
        desc.allocator = *allocator;
    s->ground.distance_fn = scene_ground;
    s->ground.friction = FSI_R(0.3);
    return fsi_soft_init(&s->soft, &desc);
}

static fsi_result tets_make(void *scene, const fsi_allocator *allocator) {
    scene_soft *s = (scene_soft *)scene;
    fsi_result result =
        fsi_mesh_box(&s->mesh, fsi_vec(0, FSI_R(0.1), 0),
                     fsi_vec(FSI_R(0.4), FSI_R(0.3), FSI_R(0.2)), 4, 2, 2, 0, allocator);
    if (result < 0)
        return result;
    fsi_soft_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.dim = 3;
    desc.vertex_count = s->mesh.vertex_count;
    desc.x = s->mesh.x;
    desc.tet_count = s->mesh.tet_count;
    desc.tet = s->mesh.tet;
    desc.density = 1000 * scene_weight;
    desc.young = FSI_R(5e4);
    desc.poisson = FSI_R(0.3);
    desc.model = FSI_SOFT_NEOHOOKEAN;
    desc.damping_stiffness = FSI_R(0.002);
    desc.gravity = fsi_vec(0, FSI_R(-9.81), 0);
    if (allocator)
        desc.allocator = *allocator;
    s->ground.distance_fn = scene_ground;
    s->ground.friction = FSI_R(0.3);
    return fsi_soft_init(&s->soft, &desc);
}

static fsi_result soft_step(void *scene) {
    scene_soft *s = (scene_soft *)scene;
    return fsi_soft_step(&s->soft, &s->ground, 1, scene_hurry * FSI_R(0.005));
}

static int soft_parts(void *scene, scene_part *p) {
    p[0].what = PART_SOFT;
    p[0].object = &((scene_soft *)scene)->soft;
    return 1;
}

static void soft_drop(void *scene) {
    fsi_soft_free(&((scene_soft *)scene)->soft);
    fsi_mesh_free(&((scene_soft *)scene)->mesh);
}

/* Three reduced copies of one soft box fall onto the ground and each other. */
typedef struct scene_reduced {
    fsi_mesh mesh;
    fsi_reduced_model model;
    fsi_reduced body[3], *list[3];
    fsi_reduced_contacts contacts;
    fsi_obstacle ground;
} scene_reduced;

static fsi_result reduced_make(void *scene, const fsi_allocator *allocator) {
    scene_reduced *s = (scene_reduced *)scene;
    fsi_reduced_desc desc;
    fsi_result result =
        fsi_mesh_box(&s->mesh, fsi_vec(0, 0, 0), fsi_vec(FSI_R(0.4), FSI_R(0.1), FSI_R(0.2)), 4, 1,
                     2, 0, allocator);
    memset(&desc, 0, sizeof desc);
    if (result < 0)
        return result;
    desc.mesh = &s->mesh;
    desc.modes = 5;
    desc.density = 800 * scene_weight;
    desc.young = FSI_R(1e5);
    desc.poisson = FSI_R(0.3);
    desc.damping_stiffness = FSI_R(0.01);
    desc.samples = 30;
    desc.field = 12;
    if (allocator)
        desc.allocator = s->contacts.allocator = *allocator;
    result = fsi_reduced_model_init(&s->model, &desc);
    for (int i = 0; i < 3 && result >= 0; i++) {
        result = fsi_reduced_init(
            &s->body[i], &s->model,
            fsi_vec(FSI_R(0.1) * (fsi_real)i, FSI_R(0.1) + FSI_R(0.2) * (fsi_real)i, 0), allocator);
        s->body[i].gravity = fsi_vec(0, FSI_R(-9.81), 0);
        s->list[i] = &s->body[i];
    }
    s->contacts.friction = FSI_R(0.3);
    s->ground.distance_fn = scene_ground;
    s->ground.friction = FSI_R(0.3);
    return result;
}

static fsi_result reduced_step(void *scene) {
    scene_reduced *s = (scene_reduced *)scene;
    const fsi_real dt = scene_hurry * FSI_R(0.005);
    fsi_result result = FSI_OK;
    for (int i = 0; i < 3 && result >= 0; i++)
        result = fsi_reduced_forces(&s->body[i], dt);
    if (result >= 0)
        result = fsi_reduced_contact(&s->contacts, s->list, 3, &s->ground, 1, dt);
    for (int i = 0; i < 3 && result >= 0; i++)
        result = fsi_reduced_move(&s->body[i], dt);
    return result;
}

static int reduced_parts(void *scene, scene_part *p) {
    for (int i = 0; i < 3; i++) {
        p[i].what = PART_REDUCED;
        p[i].object = &((scene_reduced *)scene)->body[i];
    }
    p[3].what = PART_CONTACTS;
    p[3].object = &((scene_reduced *)scene)->contacts;
    return 4;
}

static void reduced_drop(void *scene) {
    scene_reduced *s = (scene_reduced *)scene;
    for (int i = 0; i < 3; i++)
        fsi_reduced_free(&s->body[i]);
    fsi_reduced_contacts_free(&s->contacts);
    fsi_reduced_model_free(&s->model);
    fsi_mesh_free(&s->mesh);
}

/* ------------------------------------------------------------------------------------------------
 * coupled on the grid */
/* A light and a heavy ball in a pool with a bubble: the whole world by one solve. */
typedef struct scene_world {
    fsi_world world;
    fsi_shape ball;
} scene_world;

static fsi_result world_make(void *scene, const fsi_allocator *allocator) {
    scene_world *s = (scene_world *)scene;
    fsi_world_desc desc;
    memset(&desc, 0, sizeof desc);
    fsi_shape_desc given;
    memset(&given, 0, sizeof given);
    fsi_rigid_desc options;
    memset(&options, 0, sizeof options);
    desc.grid = scene_grid(24, 2, 1, allocator);
    /* what cells hold that a body sets free shows in the smoke */
    desc.grid.volume_correction = 1;
    desc.grid.smoke = 1;
    desc.max_bodies = 2;
    desc.couple.bubbles = 1;
    if (allocator)
        given.allocator = *allocator;
    fsi_result result = fsi_world_init(&s->world, &desc);
    given.kind = FSI_SHAPE_SPHERE;
    given.dim = 2;
    given.radius = FSI_R(0.12);
    given.resolution = 24;
    if (result >= 0)
        result = fsi_shape_init(&s->ball, &given);
    options.kind = FSI_RIGID_DYNAMIC;
    options.shape = &s->ball;
    for (int i = 0; i < 2 && result >= 0; i++) {
        options.density = (i ? 3000 : 100) * scene_weight;
        /* one begins in the water */
        options.x = fsi_vec(i ? FSI_R(0.7) : FSI_R(0.3), i ? FSI_R(0.45) : FSI_R(0.7), 0);
        int id = fsi_world_add(&s->world, &options);
        result = id < 0 ? (fsi_result)id : FSI_OK;
    }
    if (result >= 0)
        result = fsi_grid_set_field(&s->world.grid, FSI_FIELD_DENSITY, scene_haze, NULL);
    return result < 0 ? result
                      : fsi_grid_set_field(&s->world.grid, FSI_FIELD_PHI, scene_bubble, NULL);
}

static fsi_result world_step(void *scene) {
    return fsi_world_step(&((scene_world *)scene)->world, scene_hurry * FSI_R(0.005), NULL);
}

static int world_parts(void *scene, scene_part *p) {
    p[0].what = PART_WORLD;
    p[0].object = &((scene_world *)scene)->world;
    return 1;
}

static void world_drop(void *scene) {
    fsi_world_free(&((scene_world *)scene)->world);
    fsi_shape_free(&((scene_world *)scene)->ball);
}

/* A strip of cloth over a jet of smoke: one solve (FSI_SOFT_SPLIT) or the partitioned scheme. */
typedef struct scene_strip {
    fsi_grid grid;
    fsi_soft cloth;
    fsi_coupled door, *list[1];
    fsi_couple couple;
    fsi_scene mono; /* one solve */
    /* partitioned */
    fsi_interface face;
    fsi_partitioned scheme;
    fsi_partitioned_scene parted;
    fsi_guest part;
    fsi_soft_responder responder;
} scene_strip;

static fsi_result strip_begin(fsi_real dt, void *user) {
    scene_strip *s = (scene_strip *)user;
    fsi_result result = s->mono.count ? fsi_soft_forces(&s->cloth, dt) : FSI_OK;
    if (result < 0)
        return result;
    fsi_soft_couple(&s->cloth, &s->door);
    return s->mono.count ? FSI_OK : fsi_soft_responder_begin(&s->responder);
}

static fsi_result strip_move(fsi_real dt, void *user) {
    scene_strip *s = (scene_strip *)user;
    fsi_result result = s->mono.count ? fsi_soft_finish(&s->cloth) : FSI_OK;
    return result < 0 ? result : fsi_soft_move(&s->cloth, dt);
}

static fsi_result strip_base(scene_strip *s, const fsi_allocator *allocator, int split) {
    enum {
        N = 9
    };

    fsi_grid_desc desc = scene_grid(24, 2, 0, allocator);
    fsi_soft_desc given;
    fsi_real x[3 * N];
    int32_t segment[2 * (N - 1)];
    unsigned char pin[N] = {0};
    memset(&given, 0, sizeof given);
    desc.shells = 1;
    fsi_result result = fsi_grid_init(&s->grid, &desc);
    if (result >= 0)
        result = scene_jet(&s->grid);
    for (int i = 0; i < N; i++) {
        fsi_vec_store(x + 3 * i,
                      fsi_vec(FSI_R(0.33) + FSI_R(0.34) * (fsi_real)i / (N - 1),
                              FSI_R(0.31) + FSI_R(0.01) * (fsi_real)(i * (N - 1 - i)) / N, 0));
        if (i)
            segment[2 * i - 2] = i - 1, segment[2 * i - 1] = i;
    }
    pin[0] = pin[N - 1] = 7;
    given.dim = 2;
    given.vertex_count = N;
    given.x = x;
    given.segment_count = N - 1;
    given.segment = segment;
    given.pin = pin;
    given.area_density = FSI_R(0.05) * scene_weight;
    given.stretch = 1;
    given.bend = FSI_R(1e-6);
    given.damping_stiffness = FSI_R(0.01);
    given.integrator = split ? FSI_SOFT_SPLIT : FSI_SOFT_IMPLICIT;
    if (allocator)
        given.allocator = *allocator;
    s->list[0] = &s->door;
    return result < 0 ? result : fsi_soft_init(&s->cloth, &given);
}

static fsi_result mono_make(void *scene, const fsi_allocator *allocator) {
    scene_strip *s = (scene_strip *)scene;
    fsi_couple_desc desc;
    fsi_result result = strip_base(s, allocator, 1);
    memset(&desc, 0, sizeof desc);
    if (allocator)
        desc.allocator = *allocator;
    s->mono.solid = s->list;
    s->mono.count = 1;
    s->mono.stages.begin_fn = strip_begin;
    s->mono.stages.move_fn = strip_move;
    s->mono.stages.user = s;
    return result < 0 ? result : fsi_couple_init(&s->couple, &s->grid, &desc);
}

static fsi_result xpm_make(void *scene, const fsi_allocator *allocator) {
    scene_strip *s = (scene_strip *)scene;
    fsi_partitioned_desc desc;
    fsi_result result = strip_base(s, allocator, 0);
    memset(&desc, 0, sizeof desc);
    fsi_interface_desc given;
    memset(&given, 0, sizeof given);
    if (allocator)
        desc.allocator = given.allocator = s->responder.allocator = s->parted.allocator =
            s->parted.fluid.allocator = s->parted.solids.allocator = *allocator;
    desc.n = desc.m = 27 + 16;
    desc.per_node = 3;
    desc.tolerance = FSI_R(0.01) * s->grid.h;
    s->responder.soft = &s->cloth;
    s->part.door = &s->door;
    s->part.stages.respond_fn = fsi_soft_respond;
    s->part.stages.user = &s->responder;
    s->parted.grid = &s->grid;
    s->parted.face = &s->face;
    s->parted.scheme = &s->scheme;
    s->parted.list = s->list;
    s->parted.solids.part = &s->part;
    s->parted.solids.count = 1;
    s->parted.fluid.bpp = 1;
    s->parted.stages.begin_fn = strip_begin;
    s->parted.stages.move_fn = strip_move;
    s->parted.stages.user = s;
    if (result >= 0)
        result = fsi_interface_init(&s->face, &s->grid, &given);
    return result < 0 ? result : fsi_partitioned_init(&s->scheme, &desc);
}

static fsi_result mono_step(void *scene) {
    scene_strip *s = (scene_strip *)scene;
    return fsi_couple_step(&s->couple, &s->mono, scene_hurry * FSI_R(0.02), NULL);
}

static fsi_result xpm_step(void *scene) {
    scene_strip *s = (scene_strip *)scene;
    return fsi_partitioned_scene_step(&s->parted, scene_hurry * FSI_R(0.02), NULL);
}

static int mono_parts(void *scene, scene_part *p) {
    scene_strip *s = (scene_strip *)scene;
    p[0].what = PART_GRID;
    p[0].object = &s->grid;
    p[1].what = PART_SOFT;
    p[1].object = &s->cloth;
    p[2].what = PART_COUPLE;
    p[2].object = &s->couple;
    return 3;
}

static int xpm_parts(void *scene, scene_part *p) {
    scene_strip *s = (scene_strip *)scene;
    p[0].what = PART_GRID;
    p[0].object = &s->grid;
    p[1].what = PART_SOFT;
    p[1].object = &s->cloth;
    p[2].what = PART_SCHEME;
    p[2].object = &s->scheme;
    return 3;
}

static void strip_drop(void *scene) {
    scene_strip *s = (scene_strip *)scene;
    fsi_partitioned_scene_free(&s->parted);
    fsi_partitioned_free(&s->scheme);
    fsi_soft_responder_free(&s->responder);
    fsi_interface_free(&s->face);
    fsi_couple_free(&s->couple);
    fsi_soft_free(&s->cloth);
    fsi_grid_free(&s->grid);
}

/* A stream along a sloping plate with slip. */
typedef struct scene_slip {
    fsi_grid grid;
    fsi_slip slip;
    fsi_coupled door, *list[1];
    fsi_scene step;
    fsi_real x[6];
} scene_slip;

static fsi_result slip_make(void *scene, const fsi_allocator *allocator) {
    static const int32_t index[2] = {0, 1};
    scene_slip *s = (scene_slip *)scene;
    fsi_grid_desc desc = scene_grid(24, 2, 0, allocator);
    fsi_slip_desc given;
    memset(&given, 0, sizeof given);
    if (allocator)
        given.allocator = *allocator;
    desc.shells = 1;
    fsi_result result = fsi_grid_init(&s->grid, &desc);
    if (result >= 0)
        result = scene_jet(&s->grid);
    fsi_vec_store(s->x, fsi_vec(FSI_R(0.35), FSI_R(0.4), 0));
    fsi_vec_store(s->x + 3, fsi_vec(FSI_R(0.7), FSI_R(0.55), 0));
    s->door.surface.dim = 2;
    s->door.surface.vertex_count = 2;
    s->door.surface.element_count = 1;
    s->door.surface.x = s->x;
    s->door.surface.index = index;
    s->list[0] = &s->door;
    s->step.solid = s->list;
    s->step.count = 1;
    return result < 0 ? result : fsi_slip_init(&s->slip, &s->grid, &given);
}

static fsi_result slip_step(void *scene) {
    scene_slip *s = (scene_slip *)scene;
    return fsi_slip_step(&s->slip, &s->step, scene_hurry * FSI_R(0.02), NULL);
}

static int slip_parts(void *scene, scene_part *p) {
    p[0].what = PART_GRID;
    p[0].object = &((scene_slip *)scene)->grid;
    p[1].what = PART_SLIP;
    p[1].object = &((scene_slip *)scene)->slip;
    return 2;
}

static void slip_drop(void *scene) {
    fsi_slip_free(&((scene_slip *)scene)->slip);
    fsi_grid_free(&((scene_slip *)scene)->grid);
}

/* A square goes on its way through smoke with slip, tracers before it: without shells (corners of
 * other shapes are some in passing) it is of second order in time. */
typedef struct scene_square {
    fsi_grid grid;
    fsi_slip slip;
    fsi_coupled door, *list[1];
    fsi_scene step;
    fsi_body body;
    fsi_surface surface;
    fsi_real x[12];
    scene_own own;
} scene_square;

static fsi_result square_begin(fsi_real dt, void *user) {
    scene_square *s = (scene_square *)user;
    (void)dt;
    s->body.centre = fsi_vec_load(s->own.centre);
    for (int i = 0; i < 4; i++)
        fsi_vec_store(s->x + 3 * i,
                      fsi_vec_add(s->body.centre, fsi_vec(i % 3 ? FSI_R(0.12) : FSI_R(-0.12),
                                                          i / 2 ? FSI_R(0.12) : FSI_R(-0.12), 0)));
    return fsi_body_couple(&s->body, &s->surface, &s->door);
}

static fsi_result square_move(fsi_real dt, void *user) {
    scene_square *s = (scene_square *)user;
    fsi_vec_store(s->own.centre, fsi_vec_mad(s->body.centre, s->body.velocity, dt));
    return FSI_OK;
}

static fsi_result square_make(void *scene, const fsi_allocator *allocator) {
    static const int32_t index[8] = {0, 1, 1, 2, 2, 3, 3, 0};
    scene_square *s = (scene_square *)scene;
    fsi_grid_desc desc = scene_grid(24, 2, 0, allocator);
    fsi_slip_desc given;
    memset(&given, 0, sizeof given);
    if (allocator)
        given.allocator = *allocator;
    fsi_result result = fsi_grid_init(&s->grid, &desc);
    if (result >= 0)
        result = scene_jet(&s->grid);
    /* no mass: it goes where it is told */
    s->body.velocity = fsi_vec(FSI_R(0.3), FSI_R(0.1), 0);
    fsi_vec_store(s->own.centre, fsi_vec(FSI_R(0.4), FSI_R(0.45), 0));
    for (int i = 0; i < 8; i++)
        fsi_vec_store(s->own.tracer + 3 * i,
                      fsi_vec(FSI_R(0.55), FSI_R(0.35) + FSI_R(0.03) * (fsi_real)i, 0));
    s->surface.dim = 2;
    s->surface.vertex_count = s->surface.element_count = 4;
    s->surface.closed = 1;
    s->surface.x = s->x;
    s->surface.index = index;
    s->list[0] = &s->door;
    s->step.solid = s->list;
    s->step.count = 1;
    s->step.stages.begin_fn = square_begin;
    s->step.stages.move_fn = square_move;
    s->step.stages.user = s;
    if (result >= 0)
        result = fsi_slip_init(&s->slip, &s->grid, &given);
    s->slip.tracer = s->own.tracer;
    s->slip.tracers = 8;
    return result;
}

static fsi_result square_step(void *scene) {
    scene_square *s = (scene_square *)scene;
    return fsi_slip_step(&s->slip, &s->step, scene_hurry * FSI_R(0.02), NULL);
}

static int square_parts(void *scene, scene_part *p) {
    p[0].what = PART_GRID;
    p[0].object = &((scene_square *)scene)->grid;
    p[1].what = PART_SLIP;
    p[1].object = &((scene_square *)scene)->slip;
    p[2].what = PART_OWN;
    p[2].object = &((scene_square *)scene)->own;
    return 3;
}

static void square_drop(void *scene) {
    fsi_slip_free(&((scene_square *)scene)->slip);
    fsi_grid_free(&((scene_square *)scene)->grid);
}

/* ------------------------------------------------------------------------------------------------
 * particles */
/* Water falls on a soft plate that is held at two edges: proxy particles. */
typedef struct scene_proxy {
    fsi_sph sph;
    fsi_tled plate;
    fsi_mesh mesh;
    fsi_proxy proxy;
    fsi_proxy_solid solid;
} scene_proxy;

static fsi_result proxy_make(void *scene, const fsi_allocator *allocator) {
    scene_proxy *s = (scene_proxy *)scene;
    fsi_sph_desc desc;
    fsi_result result =
        fsi_mesh_box(&s->mesh, fsi_vec(0, 0, 0), fsi_vec(FSI_R(0.4), FSI_R(0.04), FSI_R(0.4)), 6, 1,
                     6, 0, allocator);
    memset(&desc, 0, sizeof desc);
    fsi_tled_desc given;
    memset(&given, 0, sizeof given);
    fsi_proxy_desc options;
    memset(&options, 0, sizeof options);
    if (result < 0)
        return result;
    if (allocator)
        desc.allocator = given.allocator = options.allocator = *allocator;
    given.nodes = s->mesh.vertex_count;
    given.tets = s->mesh.tet_count;
    given.x = s->mesh.x;
    given.tet = s->mesh.tet;
    given.density = 1000 * scene_weight;
    given.young = FSI_R(2e5);
    given.poisson = FSI_R(0.3);
    given.damping = 4;
    given.gravity = fsi_vec(0, FSI_R(-9.81), 0);
    result = fsi_tled_init(&s->plate, &given);
    for (int i = 0; result >= 0 && i < s->plate.nodes; i++)
        if (s->mesh.x[3 * i] < FSI_R(0.01) || s->mesh.x[3 * i] > FSI_R(0.39))
            result = fsi_tled_fix(&s->plate, i, fsi_vec(0, 0, 0));
    desc.capacity = 300;
    desc.spacing = FSI_R(0.04);
    desc.density = 1000;
    desc.sound_speed = 20;
    desc.viscosity = 1;
    desc.artificial = FSI_R(0.1);
    desc.gravity = given.gravity;
    if (result >= 0)
        result = fsi_sph_init(&s->sph, &desc);
    int n;
    if (result >= 0)
        result =
            fsi_sph_add_block(&s->sph, fsi_vec(FSI_R(0.1), FSI_R(0.08), FSI_R(0.1)),
                              fsi_vec(FSI_R(0.3), FSI_R(0.32), FSI_R(0.3)), fsi_vec(0, -1, 0), &n);
    s->solid.tled = &s->plate;
    s->solid.slip = FSI_R(0.5);
    options.sph = &s->sph;
    options.solid = &s->solid;
    options.count = 1;
    return result < 0 ? result : fsi_proxy_init(&s->proxy, &options);
}

static fsi_result proxy_step(void *scene) {
    return fsi_proxy_step(&((scene_proxy *)scene)->proxy, scene_hurry * FSI_R(0.0006), NULL);
}

static int proxy_parts(void *scene, scene_part *p) {
    p[0].what = PART_SPH;
    p[0].object = &((scene_proxy *)scene)->sph;
    p[1].what = PART_TLED;
    p[1].object = &((scene_proxy *)scene)->plate;
    return 2;
}

static void proxy_drop(void *scene) {
    scene_proxy *s = (scene_proxy *)scene;
    fsi_proxy_free(&s->proxy);
    fsi_sph_free(&s->sph);
    fsi_tled_free(&s->plate);
    fsi_mesh_free(&s->mesh);
}

/* A light ball in DFSPH water: strong coupling with a rigid world. */
typedef struct scene_float {
    fsi_sph sph;
    fsi_solids world;
    fsi_shape ball;
    fsi_mesh mesh;
    fsi_sph_rigid couple;
} scene_float;

static fsi_result float_make(void *scene, const fsi_allocator *allocator) {
    scene_float *s = (scene_float *)scene;
    fsi_sph_desc desc;
    int body = 0, object = 0;
    memset(&desc, 0, sizeof desc);
    fsi_solids_desc given;
    memset(&given, 0, sizeof given);
    fsi_shape_desc sd;
    memset(&sd, 0, sizeof sd);
    fsi_rigid_desc options;
    memset(&options, 0, sizeof options);
    fsi_sph_rigid_desc d;
    memset(&d, 0, sizeof d);
    if (allocator)
        desc.allocator = given.allocator = sd.allocator = d.allocator = *allocator;
    desc.capacity = 800;
    desc.boundary_capacity = 4000;
    desc.solver = FSI_SPH_DFSPH;
    desc.spacing = FSI_R(0.06);
    desc.density = 1000;
    desc.viscosity = 1;
    desc.gravity = given.gravity = fsi_vec(0, FSI_R(-9.81), 0);
    desc.dt_max = FSI_R(0.002);
    given.dim = 3;
    given.max_bodies = 1;
    sd.kind = FSI_SHAPE_SPHERE;
    sd.radius = FSI_R(0.12);
    fsi_result result = fsi_sph_init(&s->sph, &desc);
    if (result >= 0)
        result = fsi_solids_init(&s->world, &given);
    if (result >= 0)
        result = fsi_shape_init(&s->ball, &sd);
    options.kind = FSI_RIGID_DYNAMIC;
    options.shape = &s->ball;
    options.density = 200 * scene_weight;
    options.x = fsi_vec(FSI_R(0.24), FSI_R(0.5), FSI_R(0.24));
    if (result >= 0)
        result = fsi_solids_add(&s->world, &options, &body);
    int n;
    if (result >= 0)
        result =
            fsi_sph_add_block(&s->sph, fsi_vec(0, 0, 0),
                              fsi_vec(FSI_R(0.48), FSI_R(0.3), FSI_R(0.48)), fsi_vec(0, 0, 0), &n);
    if (result >= 0)
        result = fsi_sph_add_box_walls(&s->sph, fsi_vec(0, 0, 0),
                                       fsi_vec(FSI_R(0.48), 1, FSI_R(0.48)), 0, NULL);
    if (result >= 0)
        result = fsi_mesh_sphere(&s->mesh, options.x, FSI_R(0.09), 4, allocator);
    if (result < 0)
        return result;
    fsi_surface skin = fsi_mesh_surface(&s->mesh);
    result = fsi_sph_add_surface(&s->sph, &skin, options.x, 1, &object);
    /* so small that it iterates and learns K */
    d.sph = &s->sph;
    d.world = &s->world;
    d.count = 1;
    d.body = &body;
    d.object = &object;
    d.tolerance = FSI_R(2e-4);
    return result < 0 ? result : fsi_sph_rigid_init(&s->couple, &d);
}

static fsi_result float_step(void *scene) {
    return fsi_sph_rigid_step(&((scene_float *)scene)->couple, scene_hurry * FSI_R(0.002), NULL);
}

static int float_parts(void *scene, scene_part *p) {
    scene_float *s = (scene_float *)scene;
    p[0].what = PART_SPH;
    p[0].object = &s->sph;
    p[1].what = PART_SOLIDS;
    p[1].object = &s->world;
    p[2].what = PART_SPH_RIGID;
    p[2].object = &s->couple;
    return 3;
}

static void float_drop(void *scene) {
    scene_float *s = (scene_float *)scene;
    fsi_sph_rigid_free(&s->couple);
    fsi_mesh_free(&s->mesh);
    fsi_shape_free(&s->ball);
    fsi_solids_free(&s->world);
    fsi_sph_free(&s->sph);
}

/* ------------------------------------------------------------------------------------------------
 * what a soak looks at */
/* Sums over the parts of a scene after a step. The ledger is what one side of a coupling gained
   less what the other gave: with walls, gravity and held nodes taken into account nothing may be
   left but round-off (world: of the solve; sph_float: of the exchange; proxy: of the fluid against
   its own sum). */
typedef struct scene_meter {
    double volume; /* liquid, m^3 (m^2); 0 without */
    /* largest speed component of grid and solids, m/s */
    double speed;
    /* sum of the heights of bodies and nodes, m: creep shows here */
    double place;
    /* N s, of this step; what passed between the two in it */
    double ledger, scale;
    /* N s, momentum of the particles after the step before */
    double last_fluid[3];
    int steps;
} scene_meter;

static double scene_most(double a, double b) {
    return a > b ? a : b;
}

static void scene_meter_grid(const fsi_grid *grid, scene_meter *m) {
    for (int a = 0; a < grid->dim; a++)
        m->speed = scene_most(m->speed, (double)fsi_max_abs((int)grid->faces[a], grid->u[a]));
    if (grid->phi)
        m->volume += grid->stats.liquid_volume;
}

static void scene_meter_nodes(int n, const fsi_real *x, const fsi_real *v, scene_meter *m) {
    for (int i = 0; i < n; i++)
        m->place += (double)x[3 * i + 1];
    m->speed = scene_most(m->speed, (double)fsi_max_abs(3 * n, v));
}

static void scene_meter_rigid(const fsi_solids *solids, scene_meter *m) {
    for (int i = 0; i < solids->body_count; i++) {
        const fsi_rigid *body = &solids->body[i];
        m->place += (double)body->x.y;
        m->speed = scene_most(m->speed, sqrt((double)fsi_vec_dot(body->v, body->v)));
    }
}

static void scene_meter_ledger(void *scene, const char *name, scene_meter *m) {
    m->ledger = m->scale = 0;
    if (strcmp(name, "world") == 0) {
        const fsi_world *world = &((scene_world *)scene)->world;
        for (int k = 0; k < 2; k++)
            m->ledger = scene_most(m->ledger, fabs(world->couple.report.momentum[k]));
        for (int k = 0; k < world->solids.body_count; k++)
            m->scale += (double)world->solids.body[k].mass * 9.81 * 0.005;
    } else if (strcmp(name, "sph_float") == 0) {
        const scene_float *s = (const scene_float *)scene;
        for (int k = 0; k < 3; k++)
            m->ledger = scene_most(m->ledger, fabs(s->couple.momentum[k]));
        m->scale = (double)s->world.body[0].mass * 9.81 * 0.002;
        /* no walls: the fluid gains gravity less what it gave to the plate */
    } else if (strcmp(name, "proxy") == 0) {
        const scene_proxy *s = (const scene_proxy *)scene;
        const fsi_vec3 J = s->proxy.stats.impulse;
        const double given[3] = {(double)J.x, (double)J.y, (double)J.z};
        double mass, P[3];
        fsi_sph_totals(&s->sph, &mass, P, NULL, NULL);
        m->scale = mass * 9.81 * 0.0006;
        for (int k = 0; k < 3; k++) {
            double gained = P[k] - m->last_fluid[k] + (k == 1 ? m->scale : 0);
            if (m->steps)
                m->ledger = scene_most(m->ledger, fabs(gained + given[k]));
            m->last_fluid[k] = P[k];
        }
    }
}

static CHECK_UNUSED void scene_measure(const scene_kind *k, void *scene, scene_meter *m) {
    scene_part part[SCENE_PARTS];
    int n = k->parts(scene, part);
    m->volume = m->speed = m->place = 0;
    for (int i = 0; i < n; i++) {
        void *o = part[i].object;
        if (part[i].what == PART_GRID)
            scene_meter_grid((const fsi_grid *)o, m);
        if (part[i].what == PART_WORLD) {
            scene_meter_grid(&((const fsi_world *)o)->grid, m);
            scene_meter_rigid(&((const fsi_world *)o)->solids, m);
        }
        if (part[i].what == PART_SOLIDS)
            scene_meter_rigid((const fsi_solids *)o, m);
        if (part[i].what == PART_SOFT)
            scene_meter_nodes(((const fsi_soft *)o)->desc.vertex_count, ((const fsi_soft *)o)->x,
                              ((const fsi_soft *)o)->v, m);
        if (part[i].what == PART_TLED)
            scene_meter_nodes(((const fsi_tled *)o)->nodes, ((const fsi_tled *)o)->x,
                              ((const fsi_tled *)o)->v, m);
        if (part[i].what == PART_REDUCED) {
            const fsi_reduced *reduced = (const fsi_reduced *)o;
            m->place += (double)reduced->rigid->position.y;
            for (int j = 0; j < 8; j++) {
                fsi_vec3 v = fsi_reduced_velocity(reduced, j);
                m->speed = scene_most(m->speed, sqrt((double)fsi_vec_dot(v, v)));
            }
        }
        if (part[i].what == PART_SPH) {
            double mass;
            fsi_sph_totals((const fsi_sph *)o, &mass, NULL, NULL, NULL);
            m->volume += mass / (double)((const fsi_sph *)o)->desc.density;
        }
    }
    scene_meter_ledger(scene, k->name, m);
    m->steps++;
}

static const scene_kind scene_list[] = {
    {"smoke_2d", sizeof(scene_fluid), smoke2_make, fluid_step, fluid_parts, fluid_drop, 0},
    {"smoke_3d", sizeof(scene_fluid), smoke3_make, fluid_step, fluid_parts, fluid_drop, 0},
    {"liquid_2d", sizeof(scene_fluid), liquid2_make, fluid_step, fluid_parts, fluid_drop, 0},
    {"liquid_3d", sizeof(scene_fluid), liquid3_make, fluid_step, fluid_parts, fluid_drop, 0},
    {"bodies", sizeof(scene_bodies), bodies_make, bodies_step, bodies_parts, bodies_drop, 30},
    {"cloth", sizeof(scene_soft), cloth_make, soft_step, soft_parts, soft_drop, 50},
    {"tets", sizeof(scene_soft), tets_make, soft_step, soft_parts, soft_drop, 36},
    {"reduced", sizeof(scene_reduced), reduced_make, reduced_step, reduced_parts, reduced_drop, 60},
    {"world", sizeof(scene_world), world_make, world_step, world_parts, world_drop, 40},
    {"mono_cloth", sizeof(scene_strip), mono_make, mono_step, mono_parts, strip_drop, 0},
    {"xpm_cloth", sizeof(scene_strip), xpm_make, xpm_step, xpm_parts, strip_drop, 0},
    {"slip", sizeof(scene_slip), slip_make, slip_step, slip_parts, slip_drop, 0},
    {"square", sizeof(scene_square), square_make, square_step, square_parts, square_drop, 0},
    {"proxy", sizeof(scene_proxy), proxy_make, proxy_step, proxy_parts, proxy_drop, 80},
    {"sph_float", sizeof(scene_float), float_make, float_step, float_parts, float_drop, 80}};

enum {
    SCENES = (int)(sizeof scene_list / sizeof scene_list[0])
};
#endif
