/* Fuzz targets: bytes become descs, meshes, masks, body sets and step sequences with save and
   restore in between. What must hold for any bytes: an error code or a finite state, and no
   sanitizer report. fuzz.c runs them under libFuzzer or with random bytes; test_fuzz.c runs seeds.
 */
#ifndef FUZZ_H
#define FUZZ_H

/* ---- bytes to numbers; after the last byte everything is 0 */
typedef struct gene {
    const uint8_t *at, *end;
    int wild;
} gene;

static unsigned gene_byte(gene *g) {
    return g->at < g->end ? *g->at++ : 0;
}

static int gene_int(gene *g, int lo, int hi) {
    return lo + (int)((gene_byte(g) | gene_byte(g) << 8) % (unsigned)(hi - lo + 1));
}

/* In [lo, hi]; in wild inputs one time in 64 something nobody should pass. */
static fsi_real gene_real(gene *g, double lo, double hi) {
    static const double odd[] = {0, -1, 1e-30, 1e30, 1e-6, 1e6, -1e12, 1e300};
    unsigned k = gene_byte(g), v = gene_byte(g) | gene_byte(g) << 8;
    double inf = 1e300 * 1e300;
    if (g->wild && k >= 252)
        return k == 252 ? (fsi_real)inf : k == 253 ? (fsi_real)(inf - inf) : (fsi_real)odd[v % 8];
    return (fsi_real)(lo + (hi - lo) * v / 65535.0);
}

static fsi_vec3 gene_vec(gene *g, double lo, double hi) {
    fsi_real x = gene_real(g, lo, hi), y = gene_real(g, lo, hi);
    return fsi_vec(x, y, gene_real(g, lo, hi));
}

/* ---- the property */
static int fuzz_failures;

static void fuzz_expect(int holds, const char *what) {
    if (holds)
        return;
    printf("fuzz: %s\n", what);
    fuzz_failures++;
#ifdef FUZZ_ABORT
    abort();
#endif
}

static void fuzz_finite(size_t n, const fsi_real *x, const char *what) {
    if (n && x)
        fuzz_expect(fsi_all_finite(n, x), what);
}

/* ---- 0: sparse solvers and multigrid */
static void fuzz_linalg(gene *g) {
    enum {
        MOST = 1000
    };

    fsi_mg_desc desc;
    fsi_report report;
    fsi_real *w[3];
    const fsi_real *weights[3];
    int weighted = gene_int(g, 0, 2) == 0;
    memset(&desc, 0, sizeof desc);
    fsi_mg_solve_desc sd;
    memset(&sd, 0, sizeof sd);
    fsi_mg mg;
    memset(&mg, 0, sizeof mg);
    desc.nx = gene_int(g, 0, 17);
    desc.ny = gene_int(g, 0, 9);
    desc.nz = gene_int(g, 0, 5);
    for (int k = 0; k < 6; k++)
        desc.open[k] = gene_int(g, 0, 1);
    desc.levels = gene_int(g, 0, 4);
    desc.sweeps = gene_int(g, 0, 3);
    desc.band_sweeps = gene_int(g, 0, 3) - 1;
    sd.max_iterations = gene_int(g, 0, 60);
    if (fsi_mg_init(&mg, &desc) != FSI_OK)
        return;
    size_t cells = (size_t)desc.nx * (size_t)desc.ny * (size_t)desc.nz;
    uint8_t *cell = (uint8_t *)malloc(cells);
    fsi_real *b;
    b = (fsi_real *)malloc(cells * sizeof *b);
    fsi_real *p;
    p = (fsi_real *)calloc(cells, sizeof *p);
    for (int a = 0; a < 3; a++)
        w[a] = (fsi_real *)malloc((cells + MOST) * sizeof(fsi_real));
    for (int k = 0; k < 3; k++) { /* three masks on one hierarchy */
        for (size_t i = 0; i < cells; i++) {
            cell[i] = (uint8_t)gene_int(g, 0, 2);
            b[i] = gene_real(g, -1, 1);
        }
        for (int a = 0; a < 3; a++) {
            for (size_t i = 0; i < cells + MOST; i++)
                w[a][i] = gene_real(g, 0, 1);
            weights[a] = w[a];
        }
        fsi_result result = fsi_mg_update(&mg, cell, weighted ? weights : NULL);
        if (result < 0)
            continue;
        result = fsi_mg_solve(&mg, &sd, b, p, &report);
        if (result >= 0)
            fuzz_finite(cells, p, "pressure of multigrid");
        if (result < 0)
            memset(p, 0, cells * sizeof *p);
    }
    fsi_mg_free(&mg);
    free(cell);
    free(b);
    free(p);
    for (int a = 0; a < 3; a++)
        free(w[a]);
}

/* ---- 1: grids alone */
static fsi_real fuzz_level(fsi_vec3 x, void *user) {
    return x.y - *(const fsi_real *)user;
}

static fsi_grid_desc fuzz_grid_desc(gene *g) {
    fsi_grid_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.nx = gene_int(g, 1, 14);
    desc.ny = gene_int(g, 1, 14);
    desc.nz = gene_int(g, 0, 2) ? 1 : gene_int(g, 0, 7);
    desc.h = gene_real(g, 0.01, 0.2);
    desc.rho = gene_real(g, 0.1, 2000);
    desc.gravity = gene_vec(g, -20, 20);
    for (int k = 0; k < 6; k++) {
        desc.side[k].kind = (fsi_side_kind)gene_int(g, 0, 3);
        desc.side[k].velocity = gene_vec(g, -1, 1);
    }
    desc.liquid = gene_int(g, 0, 1);
    desc.smoke = gene_int(g, 0, 1);
    desc.scalars = gene_int(g, 0, 2);
    desc.shells = gene_int(g, 0, 1);
    desc.advect_velocity = (fsi_advection)gene_int(g, 0, 1);
    desc.confinement = gene_real(g, 0, 1);
    desc.viscosity = gene_int(g, 0, 1) ? gene_real(g, 0, 1) : 0;
    desc.buoyancy_density = gene_real(g, -1, 1);
    desc.particles = gene_int(g, 0, 3) - 1;
    desc.volume_correction = gene_int(g, 0, 1);
    return desc;
}

static void fuzz_grid_state(const fsi_grid *grid) {
    for (int a = 0; a < grid->dim; a++)
        fuzz_finite(grid->faces[a], grid->u[a], "velocity of the grid");
    if (grid->phi)
        fuzz_finite(grid->cells, grid->phi, "level set");
    if (grid->density)
        fuzz_finite(grid->cells, grid->density, "density");
}

static void fuzz_grid(gene *g) {
    fsi_grid_desc desc = fuzz_grid_desc(g);
    fsi_grid grid;
    fsi_real level = gene_real(g, 0, 1);
    int steps = gene_int(g, 1, 6);
    if (fsi_grid_init(&grid, &desc) != FSI_OK)
        return;
    if (desc.liquid)
        (void)fsi_grid_set_field(&grid, FSI_FIELD_PHI, fuzz_level, &level);
    for (int k = gene_int(g, 0, 3); k > 0; k--) {
        fsi_grid_source source;
        memset(&source, 0, sizeof source);
        source.shape = (fsi_source_shape)gene_int(g, 0, 2);
        source.lo = gene_vec(g, -0.2, 1);
        source.hi = gene_vec(g, 0, 2);
        source.centre = gene_vec(g, 0, 1);
        source.radius = gene_real(g, 0, 0.5);
        source.set = (unsigned)gene_int(g, 0, 63);
        source.velocity = gene_vec(g, -3, 3);
        source.density = gene_real(g, 0, 1);
        source.divergence = gene_real(g, -5, 5);
        source.distance_fn = fuzz_level;
        source.user = &level;
        (void)fsi_grid_add_source(&grid, &source);
    }
    void *state = malloc(fsi_grid_state_size(&grid));
    fuzz_expect(fsi_grid_save(&grid, state) >= 0, "save of the grid");
    for (int k = 0; k < steps; k++) {
        fsi_report report;
        fsi_result result = fsi_grid_step(&grid, gene_real(g, 0.0001, 0.1), &report);
        if (result >= 0)
            fuzz_grid_state(&grid);
        if (result == FSI_ERR_NUMERIC || gene_int(g, 0, 4) == 0)
            fuzz_expect(fsi_grid_restore(&grid, state, fsi_grid_state_size(&grid)) >= 0,
                        "restore of the grid");
    }
    fsi_grid_free(&grid);
    free(state);
}

/* ---- 2: rigid bodies with joints */
static int fuzz_shape(gene *g, fsi_shape *shape, int dim) {
    fsi_shape_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.kind = (fsi_shape_kind)gene_int(g, 0, 5);
    desc.dim = dim;
    desc.radius = gene_real(g, 0.02, 0.3);
    desc.length = gene_real(g, 0, 0.5);
    desc.half = gene_vec(g, 0.02, 0.3);
    desc.resolution = gene_int(g, 0, 20);
    if (desc.kind == FSI_SHAPE_MESH)
        desc.kind = FSI_SHAPE_SPHERE;
    return fsi_shape_init(shape, &desc) == FSI_OK;
}

static fsi_rigid_desc fuzz_rigid(gene *g, const fsi_shape *shape, int dim) {
    fsi_rigid_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.kind = (fsi_rigid_kind)gene_int(g, 0, 2);
    desc.shape = shape;
    desc.x = gene_vec(g, 0, 1);
    desc.v = gene_vec(g, -3, 3);
    desc.spin = gene_vec(g, -10, 10);
    if (dim == 2)
        desc.x.z = desc.v.z = desc.spin.x = desc.spin.y = 0;
    desc.density = gene_real(g, 0.1, 5000);
    desc.friction = gene_real(g, 0, 1);
    desc.restitution = gene_real(g, 0, 1);
    return desc;
}

static void fuzz_solids_state(const fsi_solids *solids) {
    for (int i = 0; i < solids->body_count; i++) {
        const fsi_rigid *body = &solids->body[i];
        fsi_real all[10];
        fsi_vec_store(all, body->x);
        fsi_vec_store(all + 3, body->v);
        fsi_vec_store(all + 6, body->L);
        all[9] = body->q.w;
        fuzz_finite(10, all, "a rigid body");
    }
}

static void fuzz_solids(gene *g) {
    fsi_solids_desc desc;
    fsi_shape shape[3];
    int shapes = 0;
    memset(&desc, 0, sizeof desc);
    desc.dim = gene_int(g, 2, 3);
    desc.max_bodies = gene_int(g, 1, 8);
    desc.max_joints = gene_int(g, 0, 4);
    desc.gravity = gene_vec(g, -10, 10);
    if (desc.dim == 2)
        desc.gravity.z = 0;
    desc.max_contacts = gene_int(g, 0, 3) ? 0 : gene_int(g, 1, 20);
    fsi_solids solids;
    if (fsi_solids_init(&solids, &desc) != FSI_OK)
        return;
    for (int i = 0; i < 3; i++)
        if (fuzz_shape(g, &shape[shapes], desc.dim))
            shapes++;
    for (int i = 0; i < desc.max_bodies && shapes > 0; i++) {
        fsi_rigid_desc given = fuzz_rigid(g, &shape[gene_int(g, 0, shapes - 1)], desc.dim);
        (void)fsi_solids_add(&solids, &given, NULL);
    }
    for (int i = 0; i < desc.max_joints; i++) {
        fsi_joint_desc options;
        memset(&options, 0, sizeof options);
        options.kind = (fsi_joint_kind)gene_int(g, 0, 5);
        options.a = gene_int(g, 0, 8) - 1;
        options.b = gene_int(g, 0, 8) - 1;
        options.anchor = gene_vec(g, 0, 1);
        options.anchor_b = gene_vec(g, 0, 1);
        options.axis = gene_vec(g, -1, 1);
        options.motor = gene_int(g, 0, 1);
        options.motor_speed = gene_real(g, -5, 5);
        options.motor_limit = gene_real(g, 0, 100);
        options.stiffness = gene_real(g, 0, 1000);
        options.damping = gene_real(g, 0, 10);
        (void)fsi_solids_join(&solids, &options, NULL);
    }
    for (int steps = gene_int(g, 1, 20); steps > 0; steps--)
        if (fsi_solids_step(&solids, gene_real(g, 0.0001, 0.05)) >= 0)
            fuzz_solids_state(&solids);
    fsi_solids_free(&solids);
    for (int i = 0; i < shapes; i++)
        fsi_shape_free(&shape[i]);
}

/* ---- 3: soft bodies from random meshes */
static void fuzz_soft(gene *g) {
    enum {
        V = 12,
        E = 10
    };

    fsi_soft_desc desc;
    fsi_real x[3 * V];
    int32_t e[4 * E];
    unsigned char pin[V];
    int kind = gene_int(g, 0, 2), n = gene_int(g, 1, E), vertices = gene_int(g, 1, V);
    memset(&desc, 0, sizeof desc);
    fsi_obstacle ground;
    memset(&ground, 0, sizeof ground);
    for (int i = 0; i < 3 * V; i++)
        x[i] = gene_real(g, 0, 1);
    for (int i = 0; i < 4 * E; i++)
        e[i] = gene_int(g, 0, vertices + (gene_byte(g) == 255)) % (vertices + 1);
    for (int i = 0; i < 4 * E; i++)
        if (e[i] == vertices && gene_byte(g) < 250)
            e[i] = 0;
    for (int i = 0; i < V; i++)
        pin[i] = (unsigned char)(gene_int(g, 0, 3) == 0 ? 7 : 0);
    desc.dim = kind == 0 ? gene_int(g, 2, 3) : 3;
    desc.vertex_count = vertices;
    desc.x = x;
    desc.pin = pin;
    if (desc.dim == 2)
        for (int i = 0; i < V; i++)
            x[3 * i + 2] = 0;
    if (kind == 0) {
        desc.segment_count = n;
        desc.segment = e;
    } else if (kind == 1) {
        desc.triangle_count = n;
        desc.triangle = e;
    } else {
        desc.tet_count = n;
        desc.tet = e;
    }
    desc.density = gene_real(g, 1, 2000);
    desc.area_density = gene_real(g, 0.01, 2);
    desc.young = gene_real(g, 1e3, 1e6);
    desc.poisson = gene_real(g, 0, 0.45);
    desc.model = (fsi_soft_model)gene_int(g, 0, 2);
    desc.stretch = gene_real(g, 0, 1000);
    desc.bend = gene_real(g, 0, 0.01);
    desc.damping_stiffness = gene_real(g, 0, 0.1);
    desc.gravity = gene_vec(g, -10, 10);
    desc.thickness = gene_real(g, 0, 0.02);
    desc.self_collision = gene_int(g, 0, 1);
    desc.newton = gene_int(g, 0, 4);
    desc.use_cg = gene_int(g, 0, 1);
    desc.integrator = (fsi_soft_integrator)gene_int(g, 0, 3);
    ground.distance_fn = scene_ground;
    fsi_soft soft;
    if (fsi_soft_init(&soft, &desc) != FSI_OK)
        return;
    for (int steps = gene_int(g, 1, 8); steps > 0; steps--)
        if (fsi_soft_step(&soft, &ground, 1, gene_real(g, 0.0001, 0.02)) >= 0) {
            fuzz_finite((size_t)(3 * vertices), soft.x, "soft positions");
            fuzz_finite((size_t)(3 * vertices), soft.v, "soft velocities");
        } else
            break;
    fsi_soft_free(&soft);
}

/* ---- 4: particles */
static void fuzz_sph(gene *g) {
    enum {
        N = 60
    };

    fsi_sph_desc desc;
    fsi_real x[3 * N], v[3 * N];
    int n = gene_int(g, 1, N);
    memset(&desc, 0, sizeof desc);
    desc.dim = gene_int(g, 0, 4) ? gene_int(g, 2, 3) : 0;
    desc.capacity = gene_int(g, 1, 120);
    desc.boundary_capacity = gene_int(g, 0, 3) ? 0 : 600;
    desc.solver = (fsi_sph_solver)gene_int(g, 0, 1);
    desc.kernel = (fsi_kernel)gene_int(g, 0, 4);
    desc.spacing = gene_real(g, 0.02, 0.2);
    desc.support = gene_int(g, 0, 1) ? gene_real(g, 0.02, 0.5) : 0;
    desc.density = gene_real(g, 1, 2000);
    desc.sound_speed = gene_real(g, 1, 100);
    desc.viscosity = gene_real(g, 0, 10);
    desc.artificial = gene_real(g, 0, 0.2);
    desc.xsph = gene_real(g, 0, 1);
    desc.delta = gene_int(g, 0, 1) ? gene_real(g, 0, 0.2) : 0;
    desc.gravity = gene_vec(g, -10, 10);
    desc.skin = gene_int(g, 0, 1) ? gene_real(g, 0, 0.1) : 0;
    desc.neighbors = gene_int(g, 0, 2) ? 0 : gene_int(g, 1, 30);
    desc.tension = gene_int(g, 0, 1);
    fsi_sph sph;
    if (fsi_sph_init(&sph, &desc) != FSI_OK)
        return;
    int i;
    for (i = 0; i < 3 * N; i++) {
        x[i] = gene_int(g, 0, 3) ? gene_real(g, 0, 1) : FSI_R(0.5);
        v[i] = gene_real(g, -3, 3);
    }
    if (fsi_sph_add(&sph, n, x, gene_int(g, 0, 1) ? v : NULL, NULL) < 0)
        (void)fsi_sph_add_block(&sph, fsi_vec(0, 0, 0), fsi_vec(FSI_R(0.3), FSI_R(0.3), FSI_R(0.3)),
                                fsi_vec(0, 0, 0), &i);
    if (desc.boundary_capacity)
        (void)fsi_sph_add_box_walls(&sph, gene_vec(g, -1, 0), gene_vec(g, 0.5, 2),
                                    (unsigned)gene_int(g, 0, 63), NULL);
    if (gene_int(g, 0, 1)) {
        fsi_sph_emitter emitter;
        memset(&emitter, 0, sizeof emitter);
        emitter.centre = gene_vec(g, -1, 2);
        emitter.direction = gene_vec(g, -1, 1);
        emitter.radius = gene_real(g, 0.01, 0.5);
        emitter.speed = gene_real(g, 0.1, 10);
        (void)fsi_sph_add_emitter(&sph, &emitter);
    }
    for (int steps = gene_int(g, 1, 6); steps > 0; steps--)
        if (fsi_sph_step(&sph, gene_real(g, 0.00001, 0.01), NULL) >= 0) {
            fuzz_finite((size_t)sph.now.count, sph.y, "particle positions");
            fuzz_finite((size_t)sph.now.count, sph.vy, "particle velocities");
        } else
            break;
    fsi_sph_free(&sph);
}

/* ---- 5: bodies in a fluid */
static void fuzz_world(gene *g) {
    fsi_world_desc desc;
    fsi_shape shape[2];
    fsi_real level = gene_real(g, 0, 1);
    int shapes = 0;
    memset(&desc, 0, sizeof desc);
    desc.grid = fuzz_grid_desc(g);
    desc.grid.viscosity = 0;
    int dim = desc.grid.nz == 1 ? 2 : 3;
    desc.max_bodies = gene_int(g, 0, 4);
    desc.max_joints = gene_int(g, 0, 2);
    desc.couple.boundary = (fsi_boundary_kind)gene_int(g, 0, 1);
    desc.couple.bubbles = gene_int(g, -1, 1);
    desc.couple.warm_start = gene_int(g, 0, 1);
    desc.couple.max_iterations = gene_int(g, 0, 1) ? gene_int(g, 0, 20) : 0;
    fsi_world world;
    if (fsi_world_init(&world, &desc) != FSI_OK)
        return;
    for (int i = 0; i < 2; i++)
        if (fuzz_shape(g, &shape[shapes], dim))
            shapes++;
    for (int i = 0; i < desc.max_bodies && shapes > 0; i++) {
        fsi_rigid_desc given = fuzz_rigid(g, &shape[gene_int(g, 0, shapes - 1)], dim);
        (void)fsi_world_add(&world, &given);
    }
    for (int i = 0; i < desc.max_joints; i++) { /* bodies on joints are one door */
        fsi_joint_desc options;
        memset(&options, 0, sizeof options);
        options.kind = (fsi_joint_kind)gene_int(g, 0, 5);
        options.a = gene_int(g, 0, 4) - 1;
        options.b = gene_int(g, 0, 4) - 1;
        options.anchor = gene_vec(g, 0, 1);
        options.axis = gene_vec(g, -1, 1);
        options.motor = gene_int(g, 0, 1);
        options.motor_speed = gene_real(g, -5, 5);
        options.motor_limit = gene_real(g, 0, 100);
        options.stiffness = gene_real(g, 0, 1000);
        (void)fsi_solids_join(&world.solids, &options, NULL);
    }
    if (desc.grid.liquid)
        (void)fsi_grid_set_field(&world.grid, FSI_FIELD_PHI, fuzz_level, &level);
    void *state = malloc(fsi_world_state_size(&world));
    fuzz_expect(fsi_world_save(&world, state) >= 0, "save of the world");
    for (int steps = gene_int(g, 1, 5); steps > 0; steps--) {
        fsi_report report;
        fsi_result result = fsi_world_step(&world, gene_real(g, 0.0001, 0.05), &report);
        if (result >= 0) {
            fuzz_grid_state(&world.grid);
            fuzz_solids_state(&world.solids);
        }
        if (result < 0 || gene_int(g, 0, 3) == 0)
            fuzz_expect(fsi_world_restore(&world, state, fsi_world_state_size(&world)) >= 0,
                        "restore of the world");
    }
    fsi_world_free(&world);
    for (int i = 0; i < shapes; i++)
        fsi_shape_free(&shape[i]);
    free(state);
}

/* ---- 6: partners that misbehave behind the black-box door: NaN, stalls, jumps, errors */
typedef struct fuzz_box {
    gene *g;
    int n, mood;
    fsi_real gain;
} fuzz_box;

static fsi_result fuzz_solve(const fsi_real *in, fsi_real *out, void *user) {
    fuzz_box *b = (fuzz_box *)user;
    int odd = gene_int(b->g, 0, 63);
    for (int i = 0; i < b->n; i++)
        out[i] = b->mood == 1   ? FSI_R(1)
                 : b->mood == 2 ? gene_real(b->g, -1, 1)
                                : b->gain * in[(i + 1) % b->n] + FSI_R(0.1);
    if (odd == 63)
        out[0] = (fsi_real)(1e300 * 1e300 - 1e300 * 1e300);
    return odd == 62 ? FSI_ERR_STATE : FSI_OK;
}

static void fuzz_parted(gene *g) {
    enum {
        N = 12
    };

    fsi_partitioned_desc desc;
    fsi_real x[N] = {0}, p[N] = {0};
    memset(&desc, 0, sizeof desc);
    fsi_blackbox fluid;
    memset(&fluid, 0, sizeof fluid);
    fsi_blackbox solid;
    memset(&solid, 0, sizeof solid);
    desc.n = desc.m = N;
    desc.scheme = (fsi_scheme)gene_int(g, 0, 2);
    desc.omega = gene_real(g, 0.01, 1.9);
    desc.tolerance = gene_real(g, 1e-8, 1e-2);
    desc.max_iterations = gene_int(g, 0, 20);
    desc.reuse = gene_int(g, 0, 6) - 1;
    if (gene_int(g, 0, 1) && desc.scheme == FSI_SCHEME_REDUCED)
        desc.scheme = FSI_SCHEME_PAPER_GMRES;
    desc.start = gene_real(g, 0.05, 1);
    desc.per_node = gene_int(g, 0, 3);
    desc.no_final_solve = gene_int(g, 0, 1);
    fsi_partitioned partitioned;
    if (fsi_partitioned_init(&partitioned, &desc) != FSI_OK)
        return;
    fuzz_box one;
    fuzz_box two;
    one.g = two.g = g;
    one.mood = gene_int(g, 0, 2);
    two.mood = gene_int(g, 0, 2);
    one.gain = gene_real(g, -50, 50);
    two.gain = gene_real(g, -1, 1);
    fluid.solve_fn = solid.solve_fn = fuzz_solve;
    fluid.user = &one;
    solid.user = &two;
    for (int steps = gene_int(g, 1, 6); steps > 0; steps--) {
        /* sizes that change from step to step */
        int n = gene_int(g, 0, 3) ? N : gene_int(g, 0, N);
        one.n = two.n = n > 0 ? n : 1;
        if (fsi_partitioned_step(&partitioned, n, n, &fluid, &solid, x, p, NULL) >= 0)
            fuzz_finite((size_t)n, x, "interface of the exchange");
        else
            memset(x, 0, sizeof x);
    }
    fsi_partitioned_free(&partitioned);
}

/* ---- 7: every scheme of scenes.h with other densities, gravity and steps, saved and restored in
 * between */
static void fuzz_scheme(gene *g) {
    const scene_kind *k = &scene_list[gene_int(g, 0, SCENES - 1)];
    void *scene = calloc(1, k->bytes), *block = NULL;
    fsi_result result;
    int steps = gene_int(g, 1, 6);
    scene_weight = (fsi_real)pow(10, (double)gene_real(g, -4, 4));
    result = k->make(scene, NULL);
    if (result >= 0) {
        block = malloc(scene_size(k, scene));
        result = scene_save(k, scene, block);
    }
    for (; steps > 0 && result >= 0; steps--) {
        scene_meter m;
        memset(&m, 0, sizeof m);
        scene_hurry = gene_int(g, 0, 3) ? gene_real(g, 0.01, 2) : gene_real(g, 0, 30);
        result = k->step(scene);
        if (result >= 0) {
            scene_measure(k, scene, &m);
            fuzz_expect(fabs(m.speed) < 1e300 && fabs(m.place) < 1e300 && fabs(m.volume) < 1e300,
                        k->name);
            if (strcmp(k->name, "world") == 0)
                fuzz_expect(m.ledger <= TOL(1e-6, 2e-3) * (m.scale + m.speed * m.scale),
                            "ledger of the world");
        }
        if (result < 0 || gene_int(g, 0, 3) == 0) {
            fuzz_expect(scene_restore(k, scene, block) >= 0, "restore of a scheme");
            result = FSI_OK;
        }
    }
    scene_hurry = scene_weight = 1;
    k->drop(scene);
    free(scene);
    free(block);
}

/* ---- 8: slip around a plate or a polygon, held, scripted or free, by every form and solver */
static void fuzz_slip(gene *g) {
    enum {
        N = 6
    };

    fsi_grid_desc desc = fuzz_grid_desc(g);
    fsi_slip_desc sd;
    fsi_coupled *list[1];
    fsi_real x[3 * N];
    int32_t index[2 * N];
    int n = gene_int(g, 2, N);
    memset(&sd, 0, sizeof sd);
    fsi_body body;
    memset(&body, 0, sizeof body);
    fsi_coupled door;
    memset(&door, 0, sizeof door);
    fsi_scene scene;
    memset(&scene, 0, sizeof scene);
    fsi_surface surface;
    memset(&surface, 0, sizeof surface);
    desc.nz = 1;
    desc.viscosity = 0;
    fsi_real level = gene_real(g, 0, 1);
    fsi_grid grid;
    if (fsi_grid_init(&grid, &desc) != FSI_OK)
        return;
    if (desc.liquid)
        (void)fsi_grid_set_field(&grid, FSI_FIELD_PHI, fuzz_level, &level);
    body.mass = gene_int(g, 0, 2) ? gene_real(g, 0.01, 500) : 0;
    body.centre = gene_vec(g, 0, 1);
    body.velocity = gene_vec(g, -2, 2);
    body.spin.z = gene_real(g, -5, 5);
    body.centre.z = body.velocity.z = 0;
    for (int i = 0; i < 9; i += 4)
        body.inertia.m[i] = body.mass * gene_real(g, 0.001, 0.1);
    fsi_real radius = gene_real(g, 0.02, 0.4);
    fsi_real friction = gene_real(g, 0, 1);
    for (int i = 0; i < n; i++) {
        index[2 * i] = i;
        index[2 * i + 1] = (i + 1) % n;
    }
    surface.dim = 2;
    surface.vertex_count = n;
    surface.element_count = n == 2 ? 1 : n;
    surface.closed = n > 2;
    surface.x = x;
    surface.index = index;
    sd.form = (fsi_slip_form)gene_int(g, 0, 2);
    sd.solver = (fsi_slip_solver)gene_int(g, 0, 3);
    sd.passes = gene_int(g, 0, 3);
    sd.boundary = (fsi_boundary_kind)gene_int(g, 0, 1);
    sd.first_order = gene_int(g, 0, 1);
    sd.coefficient = gene_int(g, 0, 1) ? &friction : NULL;
    sd.max_iterations = gene_int(g, 0, 1) ? gene_int(g, 0, 20) : 0;
    fsi_slip slip;
    if (fsi_slip_init(&slip, &grid, &sd) != FSI_OK) {
        fsi_grid_free(&grid);
        return;
    }
    list[0] = &door;
    scene.solid = list;
    scene.count = 1;
    size_t size = fsi_slip_state_size(&slip);
    void *state = calloc(1, size);
    fuzz_expect(fsi_slip_save(&slip, state) >= 0, "save of slip");
    for (int steps = gene_int(g, 1, 5); steps > 0; steps--) {
        fsi_real dt = gene_real(g, 0.0001, 0.05), all[4];
        for (int i = 0; i < n; i++) {
            double t = 6.283185307179586 * i / n + 0.3;
            fsi_vec_store(x + 3 * i, fsi_vec(body.centre.x + radius * (fsi_real)cos(t),
                                             body.centre.y + radius * (fsi_real)sin(t), 0));
        }
        if (fsi_body_couple(&body, &surface, &door) < 0
            || fsi_slip_step(&slip, &scene, dt, NULL) < 0)
            break;
        fsi_body_take(&body);
        fuzz_grid_state(&grid);
        fsi_vec_store(all, body.velocity);
        all[3] = body.spin.z;
        fuzz_finite(4, all, "a body with slip");
        body.centre = fsi_vec_mad(body.centre, body.velocity, dt);
        body.centre.z = body.velocity.z = 0;
        if (gene_int(g, 0, 3) == 0)
            fuzz_expect(fsi_slip_restore(&slip, state, size) >= 0, "restore of slip");
    }
    fsi_slip_free(&slip);
    fsi_grid_free(&grid);
    free(state);
}

/* ---- 9: cloth and soft blocks that touch themselves, rigid bodies and each other */
static void fuzz_contact(gene *g) {
    enum {
        N = 5
    };

    fsi_solids_desc desc;
    fsi_soft soft[2];
    fsi_mesh mesh[2];
    fsi_external external[2];
    fsi_result result = FSI_OK;
    int made = 0;
    memset(&desc, 0, sizeof desc);
    memset(soft, 0, sizeof soft);
    memset(mesh, 0, sizeof mesh);
    fsi_solids solids;
    memset(&solids, 0, sizeof solids);
    memset(external, 0, sizeof external);
    desc.dim = 3;
    desc.max_bodies = 2;
    desc.gravity = gene_vec(g, -10, 10);
    fsi_shape shape;
    int shaped = fuzz_shape(g, &shape, 3);
    if (fsi_solids_init(&solids, &desc) == FSI_OK) {
        for (int i = 0; i < 2 && shaped; i++) {
            fsi_rigid_desc given = fuzz_rigid(g, &shape, 3);
            (void)fsi_solids_add(&solids, &given, NULL);
        }
        for (int i = 0; i < 2; i++) {
            fsi_soft_desc options;
            fsi_vec3 at = gene_vec(g, 0, 1);
            memset(&options, 0, sizeof options);
            if (gene_int(g, 0, 1))
                result = fsi_mesh_sheet(&mesh[i], at, gene_vec(g, -0.5, 0.5),
                                        gene_vec(g, -0.5, 0.5), gene_int(g, 1, N),
                                        gene_int(g, 1, N), gene_int(g, 0, 1), NULL, NULL, NULL);
            else
                result =
                    fsi_mesh_box(&mesh[i], at, fsi_vec_add(at, gene_vec(g, 0.05, 0.5)),
                                 gene_int(g, 1, 2), gene_int(g, 1, 2), gene_int(g, 1, 2), 0, NULL);
            if (result < 0)
                continue;
            options.dim = 3;
            options.vertex_count = mesh[i].vertex_count;
            options.x = mesh[i].x;
            options.tet_count = mesh[i].tet_count;
            options.tet = mesh[i].tet;
            if (!options.tet_count) {
                options.triangle_count = mesh[i].element_count;
                options.triangle = mesh[i].index;
            }
            options.density = gene_real(g, 1, 2000);
            options.area_density = gene_real(g, 0.01, 2);
            options.young = gene_real(g, 1e3, 1e6);
            options.poisson = gene_real(g, 0, 0.45);
            options.stretch = gene_real(g, 0, 1000);
            options.damping_stiffness = gene_real(g, 0, 0.1);
            options.gravity = desc.gravity;
            options.thickness = gene_real(g, 0, 0.05);
            options.self_collision = gene_int(g, 0, 1);
            options.integrator = (fsi_soft_integrator)gene_int(g, 0, 3);
            if (fsi_soft_init(&soft[i], &options) == FSI_OK)
                fsi_soft_external(&soft[i], &external[made++]);
        }
        int steps;
        for (result = FSI_OK, steps = gene_int(g, 1, 8); steps > 0; steps--) {
            fsi_real dt = gene_real(g, 0.0001, 0.02);
            for (int i = 0; i < 2 && result >= 0; i++)
                if (soft[i].x)
                    result = fsi_soft_forces(&soft[i], dt);
            if (result >= 0)
                result = fsi_solids_set_externals(&solids, external, made);
            if (result >= 0)
                result = fsi_solids_step(&solids, dt);
            for (int i = 0; i < 2 && result >= 0; i++)
                if (soft[i].x)
                    result = fsi_soft_move(&soft[i], dt);
            if (result < 0)
                break;
            fuzz_solids_state(&solids);
            for (int i = 0; i < 2; i++)
                if (soft[i].x) {
                    fuzz_finite((size_t)(3 * soft[i].desc.vertex_count), soft[i].x,
                                "soft positions in contact");
                    fuzz_finite((size_t)(3 * soft[i].desc.vertex_count), soft[i].v,
                                "soft velocities in contact");
                }
        }
        fsi_solids_free(&solids);
    }
    for (int i = 0; i < 2; i++) {
        fsi_soft_free(&soft[i]);
        fsi_mesh_free(&mesh[i]);
    }
    if (shaped)
        fsi_shape_free(&shape);
}

/* ---- 10: blocks of state from a stranger, who knows how the sum of a block is made. A refused one
   changes nothing; after an accepted one the steps end with finite numbers or an error. */
static uint64_t fuzz_sum(const unsigned char *from, size_t bytes) {
    uint64_t lane[4] = {1, 2, 3, 4}, sum = bytes;
    for (size_t at = 0; at < bytes; at += 8) {
        uint64_t word;
        memcpy(&word, from + at, sizeof word);
        uint64_t mixed = (lane[at / 8 % 4] ^ word) * 0x9e3779b97f4a7c15u;
        lane[at / 8 % 4] = mixed ^ mixed >> 29;
    }
    for (int i = 0; i < 4; i++)
        sum = (sum ^ lane[i]) * 0x9e3779b97f4a7c15u;
    return sum;
}

/* Makes the sums of all blocks side by side fit; a block knows its bytes. */
static void fuzz_seal(unsigned char *block, size_t size) {
    enum {
        HEAD = 32
    };

    for (size_t at = 0; at + HEAD <= size;) {
        uint64_t bytes;
        memcpy(&bytes, block + at + 16, sizeof bytes);
        if (bytes < HEAD || bytes % 8 || bytes > size - at)
            return;
        uint64_t sum = fuzz_sum(block + at + HEAD, (size_t)bytes - HEAD);
        memcpy(block + at + 24, &sum, sizeof sum);
        at += (size_t)bytes;
    }
}

/* Something that a number of a state should not be, or a small one. */
static void fuzz_bend(gene *g, unsigned char *block, size_t size) {
    static const double real[] = {NAN, INFINITY, -INFINITY, 1e300, -1e300, 1e30, 0, -1};
    static const int32_t whole[] = {-1, 0, 1, 0x7fffffff, (int32_t)0x80000000, 1 << 20, 7, 100000};
    size_t reach = gene_int(g, 0, 1) ? size : size < 512 ? size : 512;
    size_t at = (size_t)gene_int(g, 0, 255) * 256 + (size_t)gene_int(g, 0, 255);
    at = (at * 131 + (size_t)gene_int(g, 0, 255)) % reach & ~(size_t)3;
    int which = gene_int(g, 0, 7);
    if (gene_int(g, 0, 1) && at + 8 <= size) {
        fsi_real number = (fsi_real)real[which];
        memcpy(block + at, &number, sizeof number);
    } else if (at + 4 <= size)
        memcpy(block + at, whole + which, sizeof *whole);
}

static void fuzz_restore(gene *g) {
    const scene_kind *k = &scene_list[gene_int(g, 0, SCENES - 1)];
    scene_part part[SCENE_PARTS];
    void *scene = calloc(1, k->bytes);
    fsi_result result = k->make(scene, NULL);
    for (int steps = gene_int(g, 0, 3); steps > 0 && result >= 0; steps--)
        result = k->step(scene);
    if (result < 0) {
        k->drop(scene);
        free(scene);
        return;
    }

    const scene_part *own = part + gene_int(g, 0, k->parts(scene, part) - 1);
    size_t whole = scene_size(k, scene);
    unsigned char *work = (unsigned char *)malloc(whole);
    for (int tries = 0; tries < 8 && own->what != PART_OWN; tries++) {
        size_t room = scene_part_size(own);
        unsigned char *block = (unsigned char *)calloc(1, room);
        fuzz_expect(scene_part_save(own, block) >= 0, "saving before a bad restore");
        size_t size = scene_part_restored_size(own, block);
        uint64_t before = scene_hash(k, scene, work);
        for (int bends = gene_int(g, 1, 4); bends > 0; bends--)
            fuzz_bend(g, block, size);
        if (gene_int(g, 0, 7) == 0)
            size = (size_t)gene_int(g, 0, 255) * size / 256;
        if (gene_int(g, 0, 7))
            fuzz_seal(block, size);

        /* Exactly as long as it says, so that a sanitizer sees who reads on. */
        unsigned char *sent = (unsigned char *)malloc(size ? size : 1);
        memcpy(sent, block, size);
        result = scene_part_restore_sized(own, sent, size);
        free(sent);
        free(block);
        if (result < 0) {
            fuzz_expect(scene_hash(k, scene, work) == before, "a refused block changes nothing");
            continue;
        }
        for (int steps = 0; steps < 2 && result >= 0; steps++) {
            scene_meter m;
            memset(&m, 0, sizeof m);
            if ((result = k->step(scene)) < 0)
                break;
            scene_measure(k, scene, &m);
            /* what a stranger sends may be as fast as 1e300 m/s */
            fuzz_expect(!isnan(m.speed) && !isnan(m.place) && !isnan(m.volume), k->name);
        }
        break;
    }
    k->drop(scene);
    free(scene);
    free(work);
}

typedef struct fuzz_target {
    const char *name;
    void (*run)(gene *g);
} fuzz_target;

static const fuzz_target fuzz_list[] = {
    {"linalg", fuzz_linalg},   {"grid", fuzz_grid},      {"solids", fuzz_solids},
    {"soft", fuzz_soft},       {"sph", fuzz_sph},        {"world", fuzz_world},
    {"parted", fuzz_parted},   {"scheme", fuzz_scheme},  {"slip", fuzz_slip},
    {"contact", fuzz_contact}, {"restore", fuzz_restore}};

enum {
    FUZZ_TARGETS = (int)(sizeof fuzz_list / sizeof fuzz_list[0])
};

static void fuzz_run(int target, const uint8_t *data, size_t size) {
    gene g;
    g.at = data;
    g.end = data + size;
    g.wild = 0;
    g.wild = gene_byte(&g) % 3 == 0;
    fuzz_list[target].run(&g);
}

/* A target with the bytes a seed makes: every finding can be written as (target, seed). */
static CHECK_UNUSED void fuzz_seed(int target, unsigned long seed) {
    uint8_t bytes[6000];
    uint64_t state = seed;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(128 + 127.99 * check_random(&state));
    fuzz_run(target, bytes, sizeof bytes);
}
#endif
