/* Memory ends at the k-th allocation, for every k, in what no other test's failing allocator
   reaches: FSI_ERR_MEMORY, everything given back, and the next try works. allocs.sh says what is
   reached by which test, and that nothing is left out. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "check.h"
#include "greatest.h"
#include "scenes.h"

typedef fsi_result (*memory_case)(const fsi_allocator *a);

/* Runs a case until it has all it asks for. 1: it failed cleanly at every k before, whether more
 * memory came after that (once) or none. */
static int runs_out_cleanly(memory_case run, const char *name) {
    fsi_result r = FSI_ERR_MEMORY;
    long at, i;
    int all = 0;
    for (i = 0; !all && i < 4000; i++) {
        fail_allocator f = fail_begin(at = i / 2);
        fsi_allocator a = fail_make(&f);
        f.once = i % 2 == 0;
        r = run(&a);
        all = f.calls <= at;
        if ((all ? r < 0 : r != FSI_ERR_MEMORY && (r < 0 || strncmp(name, "slip", 4) != 0))
            || f.live) { /* slip: without its one block the solve takes many */
            printf("\n  %s: allocation %ld: %s, %ld left\n", name, at, fsi_result_text(r), f.live);
            return 0;
        }
    }
    return all && i > 2;
}

#define RUNS_OUT(run) ASSERTm(#run, runs_out_cleanly(run, #run))

static int not_the_middle(fsi_vec3 x, void *user) {
    (void)user;
    return fabs((double)x.x - 0.5) > 0.2;
}

static fsi_result meshes(const fsi_allocator *a) {
    fsi_mesh m;
    /* a maker writes it only on success */
    memset(&m, 0, sizeof m);
    fsi_result r = fsi_mesh_circle(&m, fsi_vec(0, 0, 0), 1, 8, a);
    fsi_mesh_free(&m);
    if (r >= 0) {
        r = fsi_mesh_strip(&m, fsi_vec(0, 0, 0), fsi_vec(1, 0, 0), 4, a);
        fsi_mesh_free(&m);
    }
    if (r >= 0) {
        r = fsi_mesh_torus(&m, fsi_vec(0, 0, 0), 1, FSI_R(0.2), 8, 6, a);
        fsi_mesh_free(&m);
    }
    if (r >= 0) {
        r = fsi_mesh_sheet(&m, fsi_vec(0, 0, 0), fsi_vec(1, 0, 0), fsi_vec(0, 0, 1), 8, 4, 1,
                           not_the_middle, NULL, a);
        fsi_mesh_free(&m);
    }
    return r;
}

/* An explicit soft body makes its matrix when it is first asked for one. */
static fsi_result soft_matrices(const fsi_allocator *a) {
    fsi_mesh m;
    fsi_soft_desc d;
    fsi_result r = fsi_mesh_box(&m, fsi_vec(0, FSI_R(0.1), 0), fsi_vec(1, FSI_R(0.3), FSI_R(0.2)),
                                2, 1, 1, 0, NULL);
    memset(&d, 0, sizeof d);
    fsi_soft s;
    memset(&s, 0, sizeof s);
    fsi_soft t;
    memset(&t, 0, sizeof t);
    d.dim = 3;
    d.vertex_count = m.vertex_count;
    d.x = m.x;
    d.tet_count = m.tet_count;
    d.tet = m.tet;
    d.density = 1000;
    d.young = FSI_R(1e5);
    d.poisson = FSI_R(0.3);
    d.integrator = FSI_SOFT_EXPLICIT;
    d.allocator = *a;
    if (r >= 0)
        r = fsi_soft_init(&s, &d);
    /* 0: it has no matrix */
    if (r >= 0 && !(fsi_soft_max_dt(&s) > 0))
        r = FSI_ERR_MEMORY;
    if (r >= 0)
        r = fsi_soft_init(&t, &d);
    if (r >= 0)
        r = fsi_soft_static(&t, 0, 3, NULL);
    fsi_soft_free(&s);
    fsi_soft_free(&t);
    fsi_mesh_free(&m);
    return r;
}

/* A flat reduced body with its own basis; a heap of bodies held by their contacts, and those
 * restored into a new list. */
static fsi_result reduced_own_basis(const fsi_allocator *a) {
    fsi_mesh m;
    fsi_reduced_desc d;
    fsi_real basis[3 * 45];
    fsi_result r = fsi_mesh_sheet(&m, fsi_vec(0, 0, 0), fsi_vec(1, 0, 0), fsi_vec(0, FSI_R(0.2), 0),
                                  8, 4, 1, NULL, NULL, NULL);
    memset(&d, 0, sizeof d);
    fsi_reduced_model model;
    memset(&model, 0, sizeof model);
    if (r < 0 || m.vertex_count != 45)
        return FSI_ERR_STATE;
    for (int i = 0; i < 45; i++)
        fsi_vec_store(basis + 3 * i, fsi_vec(0, m.x[3 * i] * m.x[3 * i], 0));
    d.mesh = &m;
    d.dim = 2;
    d.modes = 1;
    d.basis = basis;
    d.density = 800;
    d.young = FSI_R(1e5);
    d.poisson = FSI_R(0.3);
    d.samples = 20;
    d.field = 12;
    d.allocator = *a;
    r = fsi_reduced_model_init(&model, &d);
    fsi_reduced_model_free(&model);
    fsi_mesh_free(&m);
    return r;
}

/* The Newmark step keeps where it began; a body without room for that can still take the ordinary
 * step. */
static fsi_result reduced_halves(const fsi_allocator *a) {
    scene_reduced *s = (scene_reduced *)calloc(1, sizeof *s);
    fsi_result r = reduced_make(s, NULL), half = FSI_OK;
    fsi_reduced_free(&s->body[0]);
    if (r >= 0)
        r = fsi_reduced_init(&s->body[0], &s->model, fsi_vec(0, 0, 0), a);
    if (r >= 0)
        half = fsi_reduced_half(&s->body[0], FSI_R(0.02));
    if (r >= 0)
        r = half >= 0                                          ? fsi_reduced_rewind(&s->body[0])
            : fsi_reduced_rewind(&s->body[0]) == FSI_ERR_STATE ? FSI_OK
                                                               : FSI_ERR_ARGUMENT;
    if (r >= 0)
        r = fsi_reduced_forces(&s->body[0], FSI_R(0.02));
    reduced_drop(s);
    free(s);
    return r < 0 ? r : half;
}

static fsi_result reduced_contacts(const fsi_allocator *a) {
    scene_reduced *s = (scene_reduced *)calloc(1, sizeof *s);
    fsi_reduced_contacts fresh;
    void *past = NULL;
    fsi_result r = reduced_make(s, NULL);
    memset(&fresh, 0, sizeof fresh);
    s->contacts.allocator = fresh.allocator = *a;
    for (int k = 0; k < 12 && r >= 0; k++) {
        for (int i = 0; i < 3 && r >= 0; i++)
            r = fsi_reduced_forces(&s->body[i], FSI_R(0.02));
        if (r >= 0)
            r = fsi_reduced_contact(&s->contacts, s->list, 3, &s->ground, 1, FSI_R(0.02));
        if (r >= 0)
            r = fsi_reduced_contact_hold(&s->contacts, s->list, 3, FSI_R(0.02));
        for (int i = 0; i < 3 && r >= 0; i++)
            r = fsi_reduced_move(&s->body[i], FSI_R(0.02));
    }
    if (r >= 0 && s->contacts.count == 0)
        r = FSI_ERR_STATE; /* they must touch */
    if (r >= 0) {
        past = calloc(1, fsi_reduced_contacts_state_size(&s->contacts));
        r = fsi_reduced_contacts_save(&s->contacts, past);
    }
    if (r >= 0)
        r = fsi_reduced_contacts_restore(&fresh, past);
    fsi_reduced_contacts_free(&fresh);
    reduced_drop(s);
    free(past);
    free(s);
    return r;
}

/* Two balls on a hinge in the pool, by one solve; a saved world into one that has not run. */
static fsi_result world_jointed(const fsi_allocator *a) {
    scene_world *s = (scene_world *)calloc(1, sizeof *s), *t = (scene_world *)calloc(1, sizeof *t);
    fsi_world_desc d;
    void *past = NULL;
    memset(&d, 0, sizeof d);
    fsi_shape_desc f;
    memset(&f, 0, sizeof f);
    fsi_rigid_desc b;
    memset(&b, 0, sizeof b);
    fsi_joint_desc j;
    memset(&j, 0, sizeof j);
    f.kind = FSI_SHAPE_SPHERE;
    f.dim = 2;
    f.radius = FSI_R(0.12);
    f.resolution = 16;
    fsi_result r = fsi_shape_init(&s->ball, &f);
    if (r >= 0)
        r = fsi_shape_init(&t->ball, &f);
    for (int k = 0; k < 2 && r >= 0; k++) {
        scene_world *w = k ? t : s;
        d.grid = scene_grid(12, 2, 1, k ? a : NULL);
        /* the air under the lid is a bubble */
        d.grid.side[3].kind = FSI_SIDE_SLIP;
        d.max_bodies = 2;
        d.max_joints = 1;
        d.couple.bubbles = 1;
        r = fsi_world_init(&w->world, &d);
        b.kind = FSI_RIGID_DYNAMIC;
        b.shape = &w->ball;
        b.density = 300;
        b.group = 1;
        for (int i = 0; i < 2 && r >= 0; i++) {
            b.x = fsi_vec(i ? FSI_R(0.62) : FSI_R(0.38), FSI_R(0.5), 0);
            r = fsi_world_add(&w->world, &b, i ? &j.b : &j.a);
        }
        j.kind = FSI_JOINT_POINT;
        j.anchor = fsi_vec(FSI_R(0.5), FSI_R(0.5), 0);
        if (r >= 0)
            r = fsi_solids_join(&w->world.solids, &j, NULL);
        if (r >= 0)
            r = fsi_grid_set_field(&w->world.grid, FSI_FIELD_PHI, scene_pool, NULL);
        if (r >= 0 && !k)
            r = fsi_world_step(&w->world, FSI_R(0.005), NULL);
        if (r >= 0 && !k) {
            past = malloc(fsi_world_state_size(&w->world));
            r = fsi_world_save(&w->world, past);
        }
    }
    if (r >= 0)
        r = fsi_world_restore(&t->world, past);
    if (r >= 0)
        r = fsi_world_step(&t->world, FSI_R(0.005), NULL);
    world_drop(s);
    world_drop(t);
    free(s);
    free(t);
    free(past);
    return r;
}

/* The full system with incomplete Cholesky, the half step, and a coupling restored. */
static fsi_result couple_full(const fsi_allocator *a) {
    scene_strip *s = (scene_strip *)calloc(1, sizeof *s);
    fsi_couple_desc d;
    void *past = NULL;
    fsi_result r = mono_make(s, NULL);
    memset(&d, 0, sizeof d);
    fsi_couple fresh;
    memset(&fresh, 0, sizeof fresh);
    if (r >= 0) {
        past = calloc(1, fsi_couple_state_size(&s->couple));
        r = fsi_couple_save(&s->couple, past);
    }
    d.solver = FSI_COUPLE_FULL;
    d.precondition = FSI_PRECONDITION_IC;
    d.bubbles = 1;
    d.allocator = *a;
    if (r >= 0)
        r = fsi_couple_init(&fresh, &s->grid, &d);
    if (r >= 0)
        r = strip_begin(s, FSI_R(0.02));
    if (r >= 0)
        r = fsi_couple_half(&fresh, s->list, 1, FSI_R(0.02), NULL);
    if (r >= 0)
        r = fsi_couple_step(&fresh, &s->mono, FSI_R(0.02), NULL);
    if (r >= 0)
        r = fsi_couple_restore(&fresh, past);
    fsi_couple_free(&fresh);
    strip_drop(s);
    free(s);
    free(past);
    return r;
}

/* Slip: the paper's system and ours by every solver around a free plate, friction on it, and on
 * cloth; saved, restored, and the surface's velocity. */
static fsi_result slip_solvers(const fsi_allocator *a, int form, int solver, int cloth) {
    static const fsi_real friction[1] = {0}; /* no-slip */
    scene_strip *s = (scene_strip *)calloc(1, sizeof *s);
    fsi_slip slip;
    fsi_real x[6] = {FSI_R(0.35), FSI_R(0.4), 0, FSI_R(0.7), FSI_R(0.52), 0};
    int32_t index[2] = {0, 1};
    void *past = NULL;
    fsi_result r = mono_make(s, NULL);
    memset(&slip, 0, sizeof slip);
    fsi_slip fresh;
    memset(&fresh, 0, sizeof fresh);
    fsi_slip_desc d;
    memset(&d, 0, sizeof d);
    fsi_body body;
    memset(&body, 0, sizeof body);
    fsi_surface plate;
    memset(&plate, 0, sizeof plate);
    fsi_scene one;
    memset(&one, 0, sizeof one);
    plate.dim = 2;
    plate.vertex_count = 2;
    plate.element_count = 1;
    plate.x = x;
    plate.index = index;
    body.mass = 1;
    body.inertia.m[0] = body.inertia.m[4] = body.inertia.m[8] = FSI_R(0.1);
    body.centre = fsi_vec(FSI_R(0.5), FSI_R(0.46), 0);
    d.form = (fsi_slip_form)form;
    d.solver = (fsi_slip_solver)solver;
    d.coefficient = friction;
    d.allocator = *a;
    if (r >= 0)
        r = fsi_slip_init(&slip, &s->grid, &d);
    if (r >= 0)
        r = cloth ? strip_begin(s, FSI_R(0.02)) : fsi_body_give(&body, &plate, &s->door);
    one.solid = s->list;
    one.count = 1;
    if (r >= 0)
        r = fsi_slip_step(&slip, &one, FSI_R(0.02), NULL);
    if (r >= 0)
        r = fsi_slip_surface(&slip);
    if (r >= 0) {
        past = calloc(1, fsi_slip_state_size(&slip));
        r = fsi_slip_save(&slip, past);
    }
    if (r >= 0)
        r = fsi_slip_init(&fresh, &s->grid, &d);
    if (r >= 0)
        r = fsi_slip_restore(&fresh, past);
    if (r >= 0)
        r = fsi_slip_detect(&fresh, s->list, 1);
    if (r >= 0)
        r = fsi_slip_surface(&fresh);
    fsi_slip_free(&slip);
    fsi_slip_free(&fresh);
    strip_drop(s);
    free(s);
    free(past);
    return r;
}

static fsi_result slip_paper_cg(const fsi_allocator *a) {
    return slip_solvers(a, FSI_SLIP_PAPER, FSI_SLIP_CG, 0);
}

static fsi_result slip_paper_indefinite(const fsi_allocator *a) {
    return slip_solvers(a, FSI_SLIP_PAPER, FSI_SLIP_INDEFINITE, 0);
}

static fsi_result slip_cg(const fsi_allocator *a) {
    return slip_solvers(a, FSI_SLIP_REPAIRED, FSI_SLIP_CG, 0);
}

static fsi_result slip_indefinite(const fsi_allocator *a) {
    return slip_solvers(a, FSI_SLIP_REPAIRED, FSI_SLIP_INDEFINITE, 0);
}

static fsi_result slip_cloth(const fsi_allocator *a) {
    return slip_solvers(a, FSI_SLIP_REPAIRED, FSI_SLIP_CG, 1);
}

/* A pool in a closed tank, a ball and a strip of cloth by exchange: closed regions, geometry that
 * follows. */
static fsi_result exchange(const fsi_allocator *a) {
    scene_strip *s = (scene_strip *)calloc(1, sizeof *s);
    fsi_world_desc d;
    fsi_solid_part part[2];
    fsi_coupled *doors[2];
    fsi_real X[60] = {0};
    fsi_result r = strip_base(s, NULL, 0);
    memset(&d, 0, sizeof d);
    fsi_world w;
    memset(&w, 0, sizeof w);
    fsi_shape ball;
    memset(&ball, 0, sizeof ball);
    fsi_shape_desc sd;
    memset(&sd, 0, sizeof sd);
    fsi_rigid_desc b;
    memset(&b, 0, sizeof b);
    fsi_partitioned_desc pd;
    memset(&pd, 0, sizeof pd);
    d.grid = scene_grid(12, 2, 0, a);
    d.grid.side[3].kind = FSI_SIDE_SLIP;
    d.grid.shells = 1;
    d.max_bodies = d.max_guests = 1;
    sd.dim = 2;
    sd.kind = FSI_SHAPE_SPHERE;
    sd.radius = FSI_R(0.12);
    sd.resolution = 16;
    b.kind = FSI_RIGID_DYNAMIC;
    b.shape = &ball;
    b.density = 2;
    b.x = fsi_vec(FSI_R(0.5), FSI_R(0.8), 0);
    b.v.y = -1;
    s->responder.soft = &s->cloth;
    pd.n = pd.m = 60;
    pd.group = 3;
    pd.tolerance = FSI_R(0.01);
    pd.max_iterations = 4;
    pd.allocator = *a;
    s->responder.allocator = s->parted.allocator = s->parted.fluid.allocator =
        s->parted.solids.allocator = *a;
    if (r >= 0)
        r = fsi_shape_init(&ball, &sd);
    if (r >= 0)
        r = fsi_world_init(&w, &d);
    if (r >= 0)
        r = fsi_world_add(&w, &b, NULL);
    fsi_guest guest = fsi_soft_guest(&s->responder);
    if (r >= 0)
        r = fsi_world_add_guest(&w, &guest);
    if (r >= 0)
        r = fsi_partitioned_init(&s->scheme, &pd);
    s->parted.scheme = &s->scheme;
    s->parted.list = doors;
    s->parted.solids.part = part;
    s->parted.fluid.bpp = 1;
    s->parted.fluid.follow = 6;
    if (r >= 0)
        r = fsi_world_exchange(&w, &s->parted, FSI_R(0.01), NULL);
    if (r >= 0)
        r = fsi_world_exchange(&w, &s->parted, FSI_R(0.01), NULL);
    /* folded: it cuts far more faces */
    for (int i = 0; i < 9; i++)
        X[6 + 3 * i + 1] = i % 2 ? FSI_R(0.25) : FSI_R(-0.25);
    if (r >= 0)
        r = fsi_fluid_box_follow(&s->parted.fluid, X);
    fsi_world_free(&w);
    strip_drop(s);
    fsi_shape_free(&ball);
    free(s);
    return r;
}

/* A soft flap clamped to a body, and a body's surface as points. */
static fsi_result clamp_and_points(const fsi_allocator *a) {
    scene_bodies *s = (scene_bodies *)calloc(1, sizeof *s);
    fsi_mesh m;
    fsi_coupled *door = NULL;
    static const int32_t node[2] = {0, 1};
    fsi_result r = bodies_make(s, NULL);
    memset(&m, 0, sizeof m);
    fsi_tled flap;
    memset(&flap, 0, sizeof flap);
    fsi_tled_desc t;
    memset(&t, 0, sizeof t);
    fsi_clamp clamp;
    memset(&clamp, 0, sizeof clamp);
    fsi_embedded points;
    memset(&points, 0, sizeof points);
    if (r >= 0)
        r = fsi_mesh_box(&m, fsi_vec(0, 0, 0), fsi_vec(1, FSI_R(0.1), FSI_R(0.1)), 2, 1, 1, 0,
                         NULL);
    t.nodes = m.vertex_count;
    t.tets = m.tet_count;
    t.x = m.x;
    t.tet = m.tet;
    t.density = 500;
    t.young = FSI_R(1e5);
    t.poisson = FSI_R(0.3);
    if (r >= 0)
        r = fsi_tled_init(&flap, &t);
    if (r >= 0)
        r = fsi_clamp_init(&clamp, &flap, &s->world, 1, node, 2, a);
    if (r >= 0)
        r = fsi_solids_coupled(&s->world, 1, &door);
    points.inner = door;
    points.allocator = *a;
    if (r >= 0)
        r = fsi_embedded_begin(&points);
    fsi_embedded_free(&points);
    fsi_clamp_free(&clamp);
    fsi_tled_free(&flap);
    fsi_mesh_free(&m);
    bodies_drop(s);
    free(s);
    return r;
}

TEST memory_ends_anywhere(void) { /* fail_begin: above */
    RUNS_OUT(meshes);
    RUNS_OUT(soft_matrices);
    RUNS_OUT(reduced_own_basis);
    RUNS_OUT(reduced_halves);
    RUNS_OUT(reduced_contacts);
    RUNS_OUT(clamp_and_points);
    PASS();
}

TEST memory_ends_anywhere_in_a_coupling(void) { /* fail_begin: above */
    RUNS_OUT(world_jointed);
    RUNS_OUT(couple_full);
    RUNS_OUT(slip_paper_cg);
    RUNS_OUT(slip_paper_indefinite);
    RUNS_OUT(slip_cg);
    RUNS_OUT(slip_indefinite);
    RUNS_OUT(slip_cloth);
    RUNS_OUT(exchange);
    PASS();
}

SUITE(memory) {
    RUN_TEST(memory_ends_anywhere);
    RUN_TEST(memory_ends_anywhere_in_a_coupling);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv) {
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(memory);
    GREATEST_MAIN_END();
}
