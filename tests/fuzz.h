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

    fsi_mg_desc d;
    fsi_mg mg;
    fsi_mg_solve_desc sd;
    fsi_report report;
    uint8_t *cell;
    fsi_real *b, *p, *w[3];
    const fsi_real *weights[3];
    size_t cells, i;
    int k, a, weighted = gene_int(g, 0, 2) == 0;
    memset(&d, 0, sizeof d);
    memset(&sd, 0, sizeof sd);
    memset(&mg, 0, sizeof mg);
    d.nx = gene_int(g, 0, 17);
    d.ny = gene_int(g, 0, 9);
    d.nz = gene_int(g, 0, 5);
    for (k = 0; k < 6; k++)
        d.open[k] = gene_int(g, 0, 1);
    d.levels = gene_int(g, 0, 4);
    d.sweeps = gene_int(g, 0, 3);
    d.band_sweeps = gene_int(g, 0, 3) - 1;
    sd.max_iterations = gene_int(g, 0, 60);
    if (fsi_mg_init(&mg, &d) != FSI_OK)
        return;
    cells = (size_t)d.nx * (size_t)d.ny * (size_t)d.nz;
    cell = (uint8_t *)malloc(cells);
    b = (fsi_real *)malloc(cells * sizeof *b);
    p = (fsi_real *)calloc(cells, sizeof *p);
    for (a = 0; a < 3; a++)
        w[a] = (fsi_real *)malloc((cells + MOST) * sizeof(fsi_real));
    for (k = 0; k < 3; k++) { /* three masks on one hierarchy */
        fsi_result r;
        for (i = 0; i < cells; i++) {
            cell[i] = (uint8_t)gene_int(g, 0, 2);
            b[i] = gene_real(g, -1, 1);
        }
        for (a = 0; a < 3; a++) {
            for (i = 0; i < cells + MOST; i++)
                w[a][i] = gene_real(g, 0, 1);
            weights[a] = w[a];
        }
        r = fsi_mg_update(&mg, cell, weighted ? weights : NULL);
        if (r < 0)
            continue;
        r = fsi_mg_solve(&mg, &sd, b, p, &report);
        if (r >= 0)
            fuzz_finite(cells, p, "pressure of multigrid");
        if (r < 0)
            memset(p, 0, cells * sizeof *p);
    }
    fsi_mg_free(&mg);
    free(cell);
    free(b);
    free(p);
    for (a = 0; a < 3; a++)
        free(w[a]);
}

/* ---- 1: grids alone */
static fsi_real fuzz_level(fsi_vec3 x, void *user) {
    return x.y - *(const fsi_real *)user;
}

static fsi_grid_desc fuzz_grid_desc(gene *g) {
    fsi_grid_desc d;
    memset(&d, 0, sizeof d);
    d.nx = gene_int(g, 1, 14);
    d.ny = gene_int(g, 1, 14);
    d.nz = gene_int(g, 0, 2) ? 1 : gene_int(g, 0, 7);
    d.h = gene_real(g, 0.01, 0.2);
    d.rho = gene_real(g, 0.1, 2000);
    d.gravity = gene_vec(g, -20, 20);
    for (int k = 0; k < 6; k++) {
        d.side[k].kind = (fsi_side_kind)gene_int(g, 0, 3);
        d.side[k].velocity = gene_vec(g, -1, 1);
    }
    d.liquid = gene_int(g, 0, 1);
    d.smoke = gene_int(g, 0, 1);
    d.scalars = gene_int(g, 0, 2);
    d.shells = gene_int(g, 0, 1);
    d.advect_velocity = (fsi_advection)gene_int(g, 0, 1);
    d.confinement = gene_real(g, 0, 1);
    d.viscosity = gene_int(g, 0, 1) ? gene_real(g, 0, 1) : 0;
    d.buoyancy_density = gene_real(g, -1, 1);
    d.particles = gene_int(g, 0, 3) - 1;
    d.volume_correction = gene_int(g, 0, 1);
    return d;
}

static void fuzz_grid_state(const fsi_grid *g) {
    int a;
    for (a = 0; a < g->dim; a++)
        fuzz_finite(g->faces[a], g->u[a], "velocity of the grid");
    if (g->phi)
        fuzz_finite(g->cells, g->phi, "level set");
    if (g->density)
        fuzz_finite(g->cells, g->density, "density");
}

static void fuzz_grid(gene *g) {
    fsi_grid_desc d = fuzz_grid_desc(g);
    fsi_grid grid;
    void *state;
    fsi_real level = gene_real(g, 0, 1);
    int steps = gene_int(g, 1, 6);
    if (fsi_grid_init(&grid, &d) != FSI_OK)
        return;
    if (d.liquid)
        (void)fsi_grid_set_field(&grid, FSI_FIELD_PHI, fuzz_level, &level);
    for (int k = gene_int(g, 0, 3); k > 0; k--) {
        fsi_grid_source s;
        memset(&s, 0, sizeof s);
        s.shape = (fsi_source_shape)gene_int(g, 0, 2);
        s.lo = gene_vec(g, -0.2, 1);
        s.hi = gene_vec(g, 0, 2);
        s.centre = gene_vec(g, 0, 1);
        s.radius = gene_real(g, 0, 0.5);
        s.set = (unsigned)gene_int(g, 0, 63);
        s.velocity = gene_vec(g, -3, 3);
        s.density = gene_real(g, 0, 1);
        s.divergence = gene_real(g, -5, 5);
        s.distance_fn = fuzz_level;
        s.user = &level;
        (void)fsi_grid_add_source(&grid, &s);
    }
    state = malloc(fsi_grid_state_size(&grid));
    fuzz_expect(fsi_grid_save(&grid, state) >= 0, "save of the grid");
    for (int k = 0; k < steps; k++) {
        fsi_report report;
        fsi_result r = fsi_grid_step(&grid, gene_real(g, 0.0001, 0.1), &report);
        if (r >= 0)
            fuzz_grid_state(&grid);
        if (r == FSI_ERR_NUMERIC || gene_int(g, 0, 4) == 0)
            fuzz_expect(fsi_grid_restore(&grid, state) >= 0, "restore of the grid");
    }
    fsi_grid_free(&grid);
    free(state);
}

/* ---- 2: rigid bodies with joints */
static int fuzz_shape(gene *g, fsi_shape *shape, int dim) {
    fsi_shape_desc d;
    memset(&d, 0, sizeof d);
    d.kind = (fsi_shape_kind)gene_int(g, 0, 5);
    d.dim = dim;
    d.radius = gene_real(g, 0.02, 0.3);
    d.length = gene_real(g, 0, 0.5);
    d.half = gene_vec(g, 0.02, 0.3);
    d.resolution = gene_int(g, 0, 20);
    if (d.kind == FSI_SHAPE_MESH)
        d.kind = FSI_SHAPE_SPHERE;
    return fsi_shape_init(shape, &d) == FSI_OK;
}

static fsi_rigid_desc fuzz_rigid(gene *g, const fsi_shape *shape, int dim) {
    fsi_rigid_desc b;
    memset(&b, 0, sizeof b);
    b.kind = (fsi_rigid_kind)gene_int(g, 0, 2);
    b.shape = shape;
    b.x = gene_vec(g, 0, 1);
    b.v = gene_vec(g, -3, 3);
    b.w = gene_vec(g, -10, 10);
    if (dim == 2)
        b.x.z = b.v.z = b.w.x = b.w.y = 0;
    b.density = gene_real(g, 0.1, 5000);
    b.friction = gene_real(g, 0, 1);
    b.restitution = gene_real(g, 0, 1);
    return b;
}

static void fuzz_solids_state(const fsi_solids *w) {
    int i;
    for (i = 0; i < w->body_count; i++) {
        const fsi_rigid *b = &w->body[i];
        fsi_real all[10];
        fsi_vec_store(all, b->x);
        fsi_vec_store(all + 3, b->v);
        fsi_vec_store(all + 6, b->L);
        all[9] = b->q.w;
        fuzz_finite(10, all, "a rigid body");
    }
}

static void fuzz_solids(gene *g) {
    fsi_solids_desc d;
    fsi_solids w;
    fsi_shape shape[3];
    int shapes = 0, steps;
    memset(&d, 0, sizeof d);
    d.dim = gene_int(g, 2, 3);
    d.max_bodies = gene_int(g, 1, 8);
    d.max_joints = gene_int(g, 0, 4);
    d.gravity = gene_vec(g, -10, 10);
    if (d.dim == 2)
        d.gravity.z = 0;
    d.max_contacts = gene_int(g, 0, 3) ? 0 : gene_int(g, 1, 20);
    if (fsi_solids_init(&w, &d) != FSI_OK)
        return;
    int i;
    for (i = 0; i < 3; i++)
        if (fuzz_shape(g, &shape[shapes], d.dim))
            shapes++;
    for (i = 0; i < d.max_bodies && shapes > 0; i++) {
        fsi_rigid_desc b = fuzz_rigid(g, &shape[gene_int(g, 0, shapes - 1)], d.dim);
        (void)fsi_solids_add(&w, &b, NULL);
    }
    for (i = 0; i < d.max_joints; i++) {
        fsi_joint_desc j;
        memset(&j, 0, sizeof j);
        j.kind = (fsi_joint_kind)gene_int(g, 0, 5);
        j.a = gene_int(g, 0, 8) - 1;
        j.b = gene_int(g, 0, 8) - 1;
        j.anchor = gene_vec(g, 0, 1);
        j.anchor_b = gene_vec(g, 0, 1);
        j.axis = gene_vec(g, -1, 1);
        j.motor = gene_int(g, 0, 1);
        j.motor_speed = gene_real(g, -5, 5);
        j.motor_limit = gene_real(g, 0, 100);
        j.stiffness = gene_real(g, 0, 1000);
        j.damping = gene_real(g, 0, 10);
        (void)fsi_solids_join(&w, &j, NULL);
    }
    for (steps = gene_int(g, 1, 20); steps > 0; steps--)
        if (fsi_solids_step(&w, gene_real(g, 0.0001, 0.05)) >= 0)
            fuzz_solids_state(&w);
    fsi_solids_free(&w);
    for (i = 0; i < shapes; i++)
        fsi_shape_free(&shape[i]);
}

/* ---- 3: soft bodies from random meshes */
static void fuzz_soft(gene *g) {
    enum {
        V = 12,
        E = 10
    };

    fsi_soft_desc d;
    fsi_soft s;
    fsi_obstacle ground;
    fsi_real x[3 * V];
    int32_t e[4 * E];
    unsigned char pin[V];
    int i, kind = gene_int(g, 0, 2), n = gene_int(g, 1, E), vertices = gene_int(g, 1, V);
    memset(&d, 0, sizeof d);
    memset(&ground, 0, sizeof ground);
    for (i = 0; i < 3 * V; i++)
        x[i] = gene_real(g, 0, 1);
    for (i = 0; i < 4 * E; i++)
        e[i] = gene_int(g, 0, vertices + (gene_byte(g) == 255)) % (vertices + 1);
    for (i = 0; i < 4 * E; i++)
        if (e[i] == vertices && gene_byte(g) < 250)
            e[i] = 0;
    for (i = 0; i < V; i++)
        pin[i] = (unsigned char)(gene_int(g, 0, 3) == 0 ? 7 : 0);
    d.dim = kind == 0 ? gene_int(g, 2, 3) : 3;
    d.vertex_count = vertices;
    d.x = x;
    d.pin = pin;
    if (d.dim == 2)
        for (i = 0; i < V; i++)
            x[3 * i + 2] = 0;
    if (kind == 0) {
        d.segment_count = n;
        d.segment = e;
    } else if (kind == 1) {
        d.triangle_count = n;
        d.triangle = e;
    } else {
        d.tet_count = n;
        d.tet = e;
    }
    d.density = gene_real(g, 1, 2000);
    d.area_density = gene_real(g, 0.01, 2);
    d.young = gene_real(g, 1e3, 1e6);
    d.poisson = gene_real(g, 0, 0.45);
    d.model = (fsi_soft_model)gene_int(g, 0, 2);
    d.stretch = gene_real(g, 0, 1000);
    d.bend = gene_real(g, 0, 0.01);
    d.damping_stiffness = gene_real(g, 0, 0.1);
    d.gravity = gene_vec(g, -10, 10);
    d.thickness = gene_real(g, 0, 0.02);
    d.self_collision = gene_int(g, 0, 1);
    d.newton = gene_int(g, 0, 4);
    d.use_cg = gene_int(g, 0, 1);
    d.integrator = (fsi_soft_integrator)gene_int(g, 0, 3);
    ground.distance_fn = scene_ground;
    if (fsi_soft_init(&s, &d) != FSI_OK)
        return;
    for (int steps = gene_int(g, 1, 8); steps > 0; steps--)
        if (fsi_soft_step(&s, gene_real(g, 0.0001, 0.02), &ground, 1) >= 0) {
            fuzz_finite((size_t)(3 * vertices), s.x, "soft positions");
            fuzz_finite((size_t)(3 * vertices), s.v, "soft velocities");
        } else
            break;
    fsi_soft_free(&s);
}

/* ---- 4: particles */
static void fuzz_sph(gene *g) {
    enum {
        N = 60
    };

    fsi_sph_desc d;
    fsi_sph s;
    fsi_real x[3 * N], v[3 * N];
    int n = gene_int(g, 1, N);
    memset(&d, 0, sizeof d);
    d.dim = gene_int(g, 0, 4) ? gene_int(g, 2, 3) : 0;
    d.capacity = gene_int(g, 1, 120);
    d.boundary_capacity = gene_int(g, 0, 3) ? 0 : 600;
    d.solver = (fsi_sph_solver)gene_int(g, 0, 1);
    d.kernel = (fsi_kernel)gene_int(g, 0, 4);
    d.spacing = gene_real(g, 0.02, 0.2);
    d.support = gene_int(g, 0, 1) ? gene_real(g, 0.02, 0.5) : 0;
    d.density = gene_real(g, 1, 2000);
    d.sound_speed = gene_real(g, 1, 100);
    d.viscosity = gene_real(g, 0, 10);
    d.artificial = gene_real(g, 0, 0.2);
    d.xsph = gene_real(g, 0, 1);
    d.delta = gene_int(g, 0, 1) ? gene_real(g, 0, 0.2) : 0;
    d.gravity = gene_vec(g, -10, 10);
    d.skin = gene_int(g, 0, 1) ? gene_real(g, 0, 0.1) : 0;
    d.neighbors = gene_int(g, 0, 2) ? 0 : gene_int(g, 1, 30);
    d.tension = gene_int(g, 0, 1);
    if (fsi_sph_init(&s, &d) != FSI_OK)
        return;
    int i;
    for (i = 0; i < 3 * N; i++) {
        x[i] = gene_int(g, 0, 3) ? gene_real(g, 0, 1) : FSI_R(0.5);
        v[i] = gene_real(g, -3, 3);
    }
    if (fsi_sph_add(&s, n, x, gene_int(g, 0, 1) ? v : NULL, NULL) < 0)
        (void)fsi_sph_add_block(&s, fsi_vec(0, 0, 0), fsi_vec(FSI_R(0.3), FSI_R(0.3), FSI_R(0.3)),
                                fsi_vec(0, 0, 0), &i);
    if (d.boundary_capacity)
        (void)fsi_sph_add_box_walls(&s, gene_vec(g, -1, 0), gene_vec(g, 0.5, 2),
                                    (unsigned)gene_int(g, 0, 63), NULL);
    if (gene_int(g, 0, 1)) {
        fsi_sph_emitter e;
        memset(&e, 0, sizeof e);
        e.centre = gene_vec(g, -1, 2);
        e.direction = gene_vec(g, -1, 1);
        e.radius = gene_real(g, 0.01, 0.5);
        e.speed = gene_real(g, 0.1, 10);
        (void)fsi_sph_add_emitter(&s, &e);
    }
    for (int steps = gene_int(g, 1, 6); steps > 0; steps--)
        if (fsi_sph_step(&s, gene_real(g, 0.00001, 0.01), NULL) >= 0) {
            fuzz_finite((size_t)s.now.count, s.y, "particle positions");
            fuzz_finite((size_t)s.now.count, s.vy, "particle velocities");
        } else
            break;
    fsi_sph_free(&s);
}

/* ---- 5: bodies in a fluid */
static void fuzz_world(gene *g) {
    fsi_world_desc d;
    fsi_world w;
    fsi_shape shape[2];
    fsi_real level = gene_real(g, 0, 1);
    void *state;
    int dim, shapes = 0;
    memset(&d, 0, sizeof d);
    d.grid = fuzz_grid_desc(g);
    d.grid.viscosity = 0;
    dim = d.grid.nz == 1 ? 2 : 3;
    d.max_bodies = gene_int(g, 0, 4);
    d.max_joints = gene_int(g, 0, 2);
    d.couple.fractions = gene_int(g, 0, 1);
    d.couple.bubbles = gene_int(g, 0, 1);
    d.couple.warm_start = gene_int(g, 0, 1);
    d.couple.max_iterations = gene_int(g, 0, 1) ? gene_int(g, 0, 20) : 0;
    if (fsi_world_init(&w, &d) != FSI_OK)
        return;
    int i;
    for (i = 0; i < 2; i++)
        if (fuzz_shape(g, &shape[shapes], dim))
            shapes++;
    for (i = 0; i < d.max_bodies && shapes > 0; i++) {
        fsi_rigid_desc b = fuzz_rigid(g, &shape[gene_int(g, 0, shapes - 1)], dim);
        (void)fsi_world_add(&w, &b, NULL);
    }
    for (i = 0; i < d.max_joints; i++) { /* bodies on joints are one door */
        fsi_joint_desc j;
        memset(&j, 0, sizeof j);
        j.kind = (fsi_joint_kind)gene_int(g, 0, 5);
        j.a = gene_int(g, 0, 4) - 1;
        j.b = gene_int(g, 0, 4) - 1;
        j.anchor = gene_vec(g, 0, 1);
        j.axis = gene_vec(g, -1, 1);
        j.motor = gene_int(g, 0, 1);
        j.motor_speed = gene_real(g, -5, 5);
        j.motor_limit = gene_real(g, 0, 100);
        j.stiffness = gene_real(g, 0, 1000);
        (void)fsi_solids_join(&w.solids, &j, NULL);
    }
    if (d.grid.liquid)
        (void)fsi_grid_set_field(&w.grid, FSI_FIELD_PHI, fuzz_level, &level);
    state = malloc(fsi_world_state_size(&w));
    fuzz_expect(fsi_world_save(&w, state) >= 0, "save of the world");
    for (int steps = gene_int(g, 1, 5); steps > 0; steps--) {
        fsi_report report;
        fsi_result r = fsi_world_step(&w, gene_real(g, 0.0001, 0.05), &report);
        if (r >= 0) {
            fuzz_grid_state(&w.grid);
            fuzz_solids_state(&w.solids);
        }
        if (r < 0 || gene_int(g, 0, 3) == 0)
            fuzz_expect(fsi_world_restore(&w, state) >= 0, "restore of the world");
    }
    fsi_world_free(&w);
    for (i = 0; i < shapes; i++)
        fsi_shape_free(&shape[i]);
    free(state);
}

/* ---- 6: partners that misbehave behind the black-box door: NaN, stalls, jumps, errors */
typedef struct fuzz_box {
    gene *g;
    int n, mood;
    fsi_real gain;
} fuzz_box;

static fsi_result fuzz_solve(void *user, const fsi_real *in, fsi_real *out) {
    fuzz_box *b = (fuzz_box *)user;
    int i, odd = gene_int(b->g, 0, 63);
    for (i = 0; i < b->n; i++)
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

    fsi_partitioned_desc d;
    fsi_partitioned c;
    fsi_blackbox fluid, solid;
    fsi_real x[N] = {0}, p[N] = {0};
    memset(&d, 0, sizeof d);
    memset(&fluid, 0, sizeof fluid);
    memset(&solid, 0, sizeof solid);
    d.n = d.m = N;
    d.scheme = (fsi_scheme)gene_int(g, 0, 2);
    d.omega = gene_real(g, 0.01, 1.9);
    d.tolerance = gene_real(g, 1e-8, 1e-2);
    d.max_iterations = gene_int(g, 0, 20);
    d.reuse = gene_int(g, 0, 6) - 1;
    d.gmres = gene_int(g, 0, 1);
    d.start = gene_real(g, 0.05, 1);
    d.group = gene_int(g, 0, 3);
    d.no_final_solve = gene_int(g, 0, 1);
    if (fsi_partitioned_init(&c, &d) != FSI_OK)
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
        if (fsi_partitioned_step(&c, n, n, &fluid, &solid, x, p, NULL) >= 0)
            fuzz_finite((size_t)n, x, "interface of the exchange");
        else
            memset(x, 0, sizeof x);
    }
    fsi_partitioned_free(&c);
}

/* ---- 7: every scheme of scenes.h with other densities, gravity and steps, saved and restored in
 * between */
static void fuzz_scheme(gene *g) {
    const scene_kind *k = &scene_list[gene_int(g, 0, SCENES - 1)];
    void *scene = calloc(1, k->bytes), *block = NULL;
    fsi_result r;
    int steps = gene_int(g, 1, 6);
    scene_weight = (fsi_real)pow(10, (double)gene_real(g, -4, 4));
    r = k->make(scene, NULL);
    if (r >= 0) {
        block = malloc(scene_size(k, scene));
        r = scene_save(k, scene, block);
    }
    for (; steps > 0 && r >= 0; steps--) {
        scene_meter m;
        memset(&m, 0, sizeof m);
        scene_hurry = gene_int(g, 0, 3) ? gene_real(g, 0.01, 2) : gene_real(g, 0, 30);
        r = k->step(scene);
        if (r >= 0) {
            scene_measure(k, scene, &m);
            fuzz_expect(fabs(m.speed) < 1e300 && fabs(m.place) < 1e300 && fabs(m.volume) < 1e300,
                        k->name);
            if (strcmp(k->name, "world") == 0)
                fuzz_expect(m.ledger <= TOL(1e-6, 2e-3) * (m.scale + m.speed * m.scale),
                            "ledger of the world");
        }
        if (r < 0 || gene_int(g, 0, 3) == 0) {
            fuzz_expect(scene_restore(k, scene, block) >= 0, "restore of a scheme");
            r = FSI_OK;
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

    fsi_grid_desc d = fuzz_grid_desc(g);
    fsi_grid grid;
    fsi_slip slip;
    fsi_slip_desc sd;
    fsi_body body;
    fsi_coupled door, *list[1];
    fsi_scene scene;
    fsi_surface s;
    fsi_real x[3 * N], friction, radius, level;
    int32_t index[2 * N];
    void *state;
    int i, n = gene_int(g, 2, N);
    memset(&sd, 0, sizeof sd);
    memset(&body, 0, sizeof body);
    memset(&door, 0, sizeof door);
    memset(&scene, 0, sizeof scene);
    memset(&s, 0, sizeof s);
    d.nz = 1;
    d.viscosity = 0;
    level = gene_real(g, 0, 1);
    if (fsi_grid_init(&grid, &d) != FSI_OK)
        return;
    if (d.liquid)
        (void)fsi_grid_set_field(&grid, FSI_FIELD_PHI, fuzz_level, &level);
    body.mass = gene_int(g, 0, 2) ? gene_real(g, 0.01, 500) : 0;
    body.centre = gene_vec(g, 0, 1);
    body.velocity = gene_vec(g, -2, 2);
    body.spin.z = gene_real(g, -5, 5);
    body.centre.z = body.velocity.z = 0;
    for (i = 0; i < 9; i += 4)
        body.inertia.m[i] = body.mass * gene_real(g, 0.001, 0.1);
    radius = gene_real(g, 0.02, 0.4);
    friction = gene_real(g, 0, 1);
    for (i = 0; i < n; i++) {
        index[2 * i] = i;
        index[2 * i + 1] = (i + 1) % n;
    }
    s.dim = 2;
    s.vertex_count = n;
    s.element_count = n == 2 ? 1 : n;
    s.closed = n > 2;
    s.x = x;
    s.index = index;
    sd.form = (fsi_slip_form)gene_int(g, 0, 2);
    sd.solver = (fsi_slip_solver)gene_int(g, 0, 3);
    sd.passes = gene_int(g, 0, 3);
    sd.fractions = gene_int(g, 0, 1);
    sd.first_order = gene_int(g, 0, 1);
    sd.coefficient = gene_int(g, 0, 1) ? &friction : NULL;
    sd.max_iterations = gene_int(g, 0, 1) ? gene_int(g, 0, 20) : 0;
    if (fsi_slip_init(&slip, &grid, &sd) != FSI_OK) {
        fsi_grid_free(&grid);
        return;
    }
    list[0] = &door;
    scene.solid = list;
    scene.count = 1;
    state = calloc(1, fsi_slip_state_size(&slip));
    fuzz_expect(fsi_slip_save(&slip, state) >= 0, "save of slip");
    for (int steps = gene_int(g, 1, 5); steps > 0; steps--) {
        fsi_real dt = gene_real(g, 0.0001, 0.05), all[4];
        for (i = 0; i < n; i++) {
            double t = 6.283185307179586 * i / n + 0.3;
            fsi_vec_store(x + 3 * i, fsi_vec(body.centre.x + radius * (fsi_real)cos(t),
                                             body.centre.y + radius * (fsi_real)sin(t), 0));
        }
        if (fsi_body_give(&body, &s, &door) < 0 || fsi_slip_step(&slip, &scene, dt, NULL) < 0)
            break;
        fsi_body_take(&body);
        fuzz_grid_state(&grid);
        fsi_vec_store(all, body.velocity);
        all[3] = body.spin.z;
        fuzz_finite(4, all, "a body with slip");
        body.centre = fsi_vec_mad(body.centre, body.velocity, dt);
        body.centre.z = body.velocity.z = 0;
        if (gene_int(g, 0, 3) == 0)
            fuzz_expect(fsi_slip_restore(&slip, state) >= 0, "restore of slip");
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

    fsi_solids_desc d;
    fsi_solids w;
    fsi_soft soft[2];
    fsi_shape shape;
    fsi_mesh mesh[2];
    fsi_external external[2];
    fsi_result r = FSI_OK;
    int i, made = 0, shaped;
    memset(&d, 0, sizeof d);
    memset(soft, 0, sizeof soft);
    memset(mesh, 0, sizeof mesh);
    memset(&w, 0, sizeof w);
    memset(external, 0, sizeof external);
    d.dim = 3;
    d.max_bodies = 2;
    d.gravity = gene_vec(g, -10, 10);
    shaped = fuzz_shape(g, &shape, 3);
    if (fsi_solids_init(&w, &d) == FSI_OK) {
        for (i = 0; i < 2 && shaped; i++) {
            fsi_rigid_desc b = fuzz_rigid(g, &shape, 3);
            (void)fsi_solids_add(&w, &b, NULL);
        }
        for (i = 0; i < 2; i++) {
            fsi_soft_desc s;
            fsi_vec3 at = gene_vec(g, 0, 1);
            memset(&s, 0, sizeof s);
            if (gene_int(g, 0, 1))
                r = fsi_mesh_sheet(&mesh[i], at, gene_vec(g, -0.5, 0.5), gene_vec(g, -0.5, 0.5),
                                   gene_int(g, 1, N), gene_int(g, 1, N), gene_int(g, 0, 1), NULL,
                                   NULL, NULL);
            else
                r = fsi_mesh_box(&mesh[i], at, fsi_vec_add(at, gene_vec(g, 0.05, 0.5)),
                                 gene_int(g, 1, 2), gene_int(g, 1, 2), gene_int(g, 1, 2), 0, NULL);
            if (r < 0)
                continue;
            s.dim = 3;
            s.vertex_count = mesh[i].vertex_count;
            s.x = mesh[i].x;
            s.tet_count = mesh[i].tet_count;
            s.tet = mesh[i].tet;
            if (!s.tet_count) {
                s.triangle_count = mesh[i].element_count;
                s.triangle = mesh[i].index;
            }
            s.density = gene_real(g, 1, 2000);
            s.area_density = gene_real(g, 0.01, 2);
            s.young = gene_real(g, 1e3, 1e6);
            s.poisson = gene_real(g, 0, 0.45);
            s.stretch = gene_real(g, 0, 1000);
            s.damping_stiffness = gene_real(g, 0, 0.1);
            s.gravity = d.gravity;
            s.thickness = gene_real(g, 0, 0.05);
            s.self_collision = gene_int(g, 0, 1);
            s.integrator = (fsi_soft_integrator)gene_int(g, 0, 3);
            if (fsi_soft_init(&soft[i], &s) == FSI_OK)
                fsi_soft_external(&soft[i], &external[made++]);
        }
        int steps;
        for (r = FSI_OK, steps = gene_int(g, 1, 8); steps > 0; steps--) {
            fsi_real dt = gene_real(g, 0.0001, 0.02);
            for (i = 0; i < 2 && r >= 0; i++)
                if (soft[i].x)
                    r = fsi_soft_forces(&soft[i], dt);
            if (r >= 0)
                r = fsi_solids_set_externals(&w, external, made);
            if (r >= 0)
                r = fsi_solids_step(&w, dt);
            for (i = 0; i < 2 && r >= 0; i++)
                if (soft[i].x)
                    r = fsi_soft_move(&soft[i], dt);
            if (r < 0)
                break;
            fuzz_solids_state(&w);
            for (i = 0; i < 2; i++)
                if (soft[i].x) {
                    fuzz_finite((size_t)(3 * soft[i].desc.vertex_count), soft[i].x,
                                "soft positions in contact");
                    fuzz_finite((size_t)(3 * soft[i].desc.vertex_count), soft[i].v,
                                "soft velocities in contact");
                }
        }
        fsi_solids_free(&w);
    }
    for (i = 0; i < 2; i++) {
        fsi_soft_free(&soft[i]);
        fsi_mesh_free(&mesh[i]);
    }
    if (shaped)
        fsi_shape_free(&shape);
}

typedef struct fuzz_target {
    const char *name;
    void (*run)(gene *g);
} fuzz_target;

static const fuzz_target fuzz_list[] = {{"linalg", fuzz_linalg}, {"grid", fuzz_grid},
                                        {"solids", fuzz_solids}, {"soft", fuzz_soft},
                                        {"sph", fuzz_sph},       {"world", fuzz_world},
                                        {"parted", fuzz_parted}, {"scheme", fuzz_scheme},
                                        {"slip", fuzz_slip},     {"contact", fuzz_contact}};

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
    size_t i;
    for (i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(128 + 127.99 * check_random(&state));
    fuzz_run(target, bytes, sizeof bytes);
}
#endif
