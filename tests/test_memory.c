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
    fsi_result result = FSI_ERR_MEMORY;
    long at, i;
    int all = 0;
    for (i = 0; !all && i < 4000; i++) {
        fail_allocator f = fail_begin(at = i / 2);
        fsi_allocator allocator = fail_make(&f);
        f.once = i % 2 == 0;
        result = run(&allocator);
        all = f.calls <= at;
        if ((all ? result < 0 : result != FSI_ERR_MEMORY) || f.live) {
            printf("\n  %s: allocation %ld: %s, %ld left\n", name, at, fsi_result_text(result),
                   f.live);
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

static fsi_result meshes(const fsi_allocator *allocator) {
    fsi_mesh mesh;
    /* a maker writes it only on success */
    memset(&mesh, 0, sizeof mesh);
    fsi_result result = fsi_mesh_circle(&mesh, fsi_vec(0, 0, 0), 1, 8, allocator);
    fsi_mesh_free(&mesh);
    if (result >= 0) {
        result = fsi_mesh_strip(&mesh, fsi_vec(0, 0, 0), fsi_vec(1, 0, 0), 4, allocator);
        fsi_mesh_free(&mesh);
    }
    if (result >= 0) {
        result = fsi_mesh_sheet(&mesh, fsi_vec(0, 0, 0), fsi_vec(1, 0, 0), fsi_vec(0, 0, 1), 8, 4,
                                1, not_the_middle, NULL, allocator);
        fsi_mesh_free(&mesh);
    }
    return result;
}

/* An explicit soft body makes its matrix when it is first asked for one. */
static fsi_result soft_matrices(const fsi_allocator *allocator) {
    fsi_mesh mesh;
    fsi_soft_desc desc;
    fsi_result result = fsi_mesh_box(&mesh, fsi_vec(0, FSI_R(0.1), 0),
                                     fsi_vec(1, FSI_R(0.3), FSI_R(0.2)), 2, 1, 1, 0, NULL);
    memset(&desc, 0, sizeof desc);
    fsi_soft s;
    memset(&s, 0, sizeof s);
    fsi_soft t;
    memset(&t, 0, sizeof t);
    desc.dim = 3;
    desc.vertex_count = mesh.vertex_count;
    desc.x = mesh.x;
    desc.tet_count = mesh.tet_count;
    desc.tet = mesh.tet;
    desc.density = 1000;
    desc.young = FSI_R(1e5);
    desc.poisson = FSI_R(0.3);
    desc.integrator = FSI_SOFT_EXPLICIT;
    desc.allocator = *allocator;
    if (result >= 0)
        result = fsi_soft_init(&s, &desc);
    /* 0: it has no matrix */
    if (result >= 0 && !(fsi_soft_max_dt(&s) > 0))
        result = FSI_ERR_MEMORY;
    if (result >= 0)
        result = fsi_soft_init(&t, &desc);
    if (result >= 0)
        result = fsi_soft_static(&t, 0, 3, NULL);
    fsi_soft_free(&s);
    fsi_soft_free(&t);
    fsi_mesh_free(&mesh);
    return result;
}

/* A flat reduced body with its own basis; a heap of bodies held by their contacts, and those
 * restored into a new list. */
static fsi_result reduced_own_basis(const fsi_allocator *allocator) {
    fsi_mesh mesh;
    fsi_reduced_desc desc;
    fsi_real basis[3 * 45];
    fsi_result result = fsi_mesh_sheet(&mesh, fsi_vec(0, 0, 0), fsi_vec(1, 0, 0),
                                       fsi_vec(0, FSI_R(0.2), 0), 8, 4, 1, NULL, NULL, NULL);
    memset(&desc, 0, sizeof desc);
    fsi_reduced_model model;
    memset(&model, 0, sizeof model);
    if (result < 0 || mesh.vertex_count != 45)
        return FSI_ERR_STATE;
    for (int i = 0; i < 45; i++)
        fsi_vec_store(basis + 3 * i, fsi_vec(0, mesh.x[3 * i] * mesh.x[3 * i], 0));
    desc.mesh = &mesh;
    desc.dim = 2;
    desc.modes = 1;
    desc.basis = basis;
    desc.density = 800;
    desc.young = FSI_R(1e5);
    desc.poisson = FSI_R(0.3);
    desc.samples = 20;
    desc.field = 12;
    desc.allocator = *allocator;
    result = fsi_reduced_model_init(&model, &desc);
    fsi_reduced_model_free(&model);
    fsi_mesh_free(&mesh);
    return result;
}

/* The Newmark step keeps where it began; a body without room for that can still take the ordinary
 * step. */
static fsi_result reduced_halves(const fsi_allocator *allocator) {
    scene_reduced *s = (scene_reduced *)calloc(1, sizeof *s);
    fsi_result result = reduced_make(s, NULL), half = FSI_OK;
    fsi_reduced_free(&s->body[0]);
    if (result >= 0)
        result = fsi_reduced_init(&s->body[0], &s->model, fsi_vec(0, 0, 0), allocator);
    if (result >= 0)
        half = fsi_reduced_half(&s->body[0], FSI_R(0.02));
    if (result >= 0)
        result = half >= 0 ? fsi_reduced_rewind(&s->body[0])
                 : fsi_reduced_rewind(&s->body[0]) == FSI_ERR_STATE ? FSI_OK
                                                                    : FSI_ERR_ARGUMENT;
    if (result >= 0)
        result = fsi_reduced_forces(&s->body[0], FSI_R(0.02));
    reduced_drop(s);
    free(s);
    return result < 0 ? result : half;
}

static fsi_result reduced_contacts(const fsi_allocator *allocator) {
    scene_reduced *s = (scene_reduced *)calloc(1, sizeof *s);
    fsi_reduced_contacts fresh;
    void *past = NULL;
    fsi_result result = reduced_make(s, NULL);
    memset(&fresh, 0, sizeof fresh);
    s->contacts.allocator = fresh.allocator = *allocator;
    for (int k = 0; k < 12 && result >= 0; k++) {
        for (int i = 0; i < 3 && result >= 0; i++)
            result = fsi_reduced_forces(&s->body[i], FSI_R(0.02));
        if (result >= 0)
            result = fsi_reduced_contact(&s->contacts, s->list, 3, &s->ground, 1, FSI_R(0.02));
        if (result >= 0)
            result = fsi_reduced_contact_hold(&s->contacts, s->list, 3, FSI_R(0.02));
        for (int i = 0; i < 3 && result >= 0; i++)
            result = fsi_reduced_move(&s->body[i], FSI_R(0.02));
    }
    if (result >= 0 && s->contacts.count == 0)
        result = FSI_ERR_STATE; /* they must touch */
    if (result >= 0) {
        past = calloc(1, fsi_reduced_contacts_state_size(&s->contacts));
        result = fsi_reduced_contacts_save(&s->contacts, past);
    }
    if (result >= 0)
        result = fsi_reduced_contacts_restore(&fresh, past,
                                              fsi_reduced_contacts_state_size(&s->contacts));
    fsi_reduced_contacts_free(&fresh);
    reduced_drop(s);
    free(past);
    free(s);
    return result;
}

/* Two balls on a hinge in the pool, by one solve; a saved world into one that has not run. */
static fsi_result world_jointed(const fsi_allocator *allocator) {
    scene_world *s = (scene_world *)calloc(1, sizeof *s), *t = (scene_world *)calloc(1, sizeof *t);
    fsi_world_desc desc;
    void *past = NULL;
    memset(&desc, 0, sizeof desc);
    fsi_shape_desc given;
    memset(&given, 0, sizeof given);
    fsi_rigid_desc options;
    memset(&options, 0, sizeof options);
    fsi_joint_desc j;
    memset(&j, 0, sizeof j);
    given.kind = FSI_SHAPE_SPHERE;
    given.dim = 2;
    given.radius = FSI_R(0.12);
    given.resolution = 16;
    fsi_result result = fsi_shape_init(&s->ball, &given);
    if (result >= 0)
        result = fsi_shape_init(&t->ball, &given);
    for (int k = 0; k < 2 && result >= 0; k++) {
        scene_world *w = k ? t : s;
        desc.grid = scene_grid(12, 2, 1, k ? allocator : NULL);
        /* the air under the lid is a bubble */
        desc.grid.side[FSI_TOP].kind = FSI_SIDE_SLIP;
        desc.max_bodies = 2;
        desc.max_joints = 1;
        desc.couple.bubbles = 1;
        result = fsi_world_init(&w->world, &desc);
        options.kind = FSI_RIGID_DYNAMIC;
        options.shape = &w->ball;
        options.density = 300;
        options.team = 1;
        for (int i = 0; i < 2 && result >= 0; i++) {
            options.x = fsi_vec(i ? FSI_R(0.62) : FSI_R(0.38), FSI_R(0.5), 0);
            int *id = i ? &j.b : &j.a;
            *id = fsi_world_add(&w->world, &options);
            result = *id < 0 ? (fsi_result)*id : FSI_OK;
        }
        j.kind = FSI_JOINT_POINT;
        j.anchor = fsi_vec(FSI_R(0.5), FSI_R(0.5), 0);
        if (result >= 0)
            result = fsi_solids_join(&w->world.solids, &j, NULL);
        if (result >= 0)
            result = fsi_grid_set_field(&w->world.grid, FSI_FIELD_PHI, scene_pool, NULL);
        if (result >= 0 && !k)
            result = fsi_world_step(&w->world, FSI_R(0.005), NULL);
        if (result >= 0 && !k) {
            past = malloc(fsi_world_state_size(&w->world));
            result = fsi_world_save(&w->world, past);
        }
    }
    if (result >= 0)
        result = fsi_world_restore(&t->world, past, fsi_world_state_size(&t->world));
    if (result >= 0)
        result = fsi_world_step(&t->world, FSI_R(0.005), NULL);
    world_drop(s);
    world_drop(t);
    free(s);
    free(t);
    free(past);
    return result;
}

/* The full system with incomplete Cholesky, the half step, and a coupling restored. */
static fsi_result couple_full(const fsi_allocator *allocator) {
    scene_strip *s = (scene_strip *)calloc(1, sizeof *s);
    fsi_couple_desc desc;
    void *past = NULL;
    fsi_result result = mono_make(s, NULL);
    memset(&desc, 0, sizeof desc);
    fsi_couple fresh;
    memset(&fresh, 0, sizeof fresh);
    if (result >= 0) {
        past = calloc(1, fsi_couple_state_size(&s->couple));
        result = fsi_couple_save(&s->couple, past);
    }
    desc.solver = FSI_COUPLE_FULL;
    desc.precondition = FSI_PRECONDITION_IC;
    desc.bubbles = 1;
    desc.allocator = *allocator;
    if (result >= 0)
        result = fsi_couple_init(&fresh, &s->grid, &desc);
    if (result >= 0)
        result = strip_begin(FSI_R(0.02), s);
    if (result >= 0)
        result = fsi_couple_half(&fresh, s->list, 1, FSI_R(0.02), NULL);
    if (result >= 0)
        result = fsi_couple_step(&fresh, &s->mono, FSI_R(0.02), NULL);
    if (result >= 0)
        result = fsi_couple_restore(&fresh, past, fsi_couple_state_size(&fresh));
    fsi_couple_free(&fresh);
    strip_drop(s);
    free(s);
    free(past);
    return result;
}

/* Slip: the paper's system and ours by every solver around a free plate, friction on it, and on
 * cloth; saved, restored, and the surface's velocity. */
static fsi_result slip_solvers(const fsi_allocator *allocator, int form, int solver, int cloth) {
    static const fsi_real friction[1] = {0}; /* no-slip */
    scene_strip *s = (scene_strip *)calloc(1, sizeof *s);
    fsi_slip slip;
    fsi_real x[6] = {FSI_R(0.35), FSI_R(0.4), 0, FSI_R(0.7), FSI_R(0.52), 0};
    int32_t index[2] = {0, 1};
    void *past = NULL;
    fsi_result result = mono_make(s, NULL);
    memset(&slip, 0, sizeof slip);
    fsi_slip fresh;
    memset(&fresh, 0, sizeof fresh);
    fsi_slip_desc desc;
    memset(&desc, 0, sizeof desc);
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
    desc.form = (fsi_slip_form)form;
    desc.solver = (fsi_slip_solver)solver;
    desc.coefficient = friction;
    desc.allocator = *allocator;
    if (result >= 0)
        result = fsi_slip_init(&slip, &s->grid, &desc);
    if (result >= 0)
        result = cloth ? strip_begin(FSI_R(0.02), s) : fsi_body_couple(&body, &plate, &s->door);
    one.solid = s->list;
    one.count = 1;
    if (result >= 0)
        result = fsi_slip_step(&slip, &one, FSI_R(0.02), NULL);
    if (result >= 0)
        result = fsi_slip_surface(&slip);
    if (result >= 0) {
        past = calloc(1, fsi_slip_state_size(&slip));
        result = fsi_slip_save(&slip, past);
    }
    if (result >= 0)
        result = fsi_slip_init(&fresh, &s->grid, &desc);
    if (result >= 0)
        result = fsi_slip_restore(&fresh, past, fsi_slip_state_size(&slip));
    if (result >= 0)
        result = fsi_slip_detect(&fresh, s->list, 1);
    if (result >= 0)
        result = fsi_slip_surface(&fresh);
    fsi_slip_free(&slip);
    fsi_slip_free(&fresh);
    strip_drop(s);
    free(s);
    free(past);
    return result;
}

static fsi_result slip_paper_cg(const fsi_allocator *allocator) {
    return slip_solvers(allocator, FSI_SLIP_PAPER, FSI_SLIP_CG, 0);
}

static fsi_result slip_paper_indefinite(const fsi_allocator *allocator) {
    return slip_solvers(allocator, FSI_SLIP_PAPER, FSI_SLIP_INDEFINITE, 0);
}

static fsi_result slip_cg(const fsi_allocator *allocator) {
    return slip_solvers(allocator, FSI_SLIP_REPAIRED, FSI_SLIP_CG, 0);
}

static fsi_result slip_indefinite(const fsi_allocator *allocator) {
    return slip_solvers(allocator, FSI_SLIP_REPAIRED, FSI_SLIP_INDEFINITE, 0);
}

static fsi_result slip_cloth(const fsi_allocator *allocator) {
    return slip_solvers(allocator, FSI_SLIP_REPAIRED, FSI_SLIP_CG, 1);
}

/* A pool in a closed tank, a ball and a strip of cloth by exchange: closed regions, geometry that
 * follows. */
static fsi_result exchange(const fsi_allocator *allocator) {
    scene_strip *s = (scene_strip *)calloc(1, sizeof *s);
    fsi_world_desc desc;
    fsi_guest part[2];
    fsi_coupled *doors[2];
    fsi_real X[60] = {0};
    fsi_result result = strip_base(s, NULL, 0);
    memset(&desc, 0, sizeof desc);
    fsi_world world;
    memset(&world, 0, sizeof world);
    fsi_shape ball;
    memset(&ball, 0, sizeof ball);
    fsi_shape_desc sd;
    memset(&sd, 0, sizeof sd);
    fsi_rigid_desc given;
    memset(&given, 0, sizeof given);
    fsi_partitioned_desc pd;
    memset(&pd, 0, sizeof pd);
    desc.grid = scene_grid(12, 2, 0, allocator);
    desc.grid.side[FSI_TOP].kind = FSI_SIDE_SLIP;
    desc.grid.shells = 1;
    desc.max_bodies = desc.max_guests = 1;
    sd.dim = 2;
    sd.kind = FSI_SHAPE_SPHERE;
    sd.radius = FSI_R(0.12);
    sd.resolution = 16;
    given.kind = FSI_RIGID_DYNAMIC;
    given.shape = &ball;
    given.density = 2;
    given.x = fsi_vec(FSI_R(0.5), FSI_R(0.8), 0);
    given.v.y = -1;
    s->responder.soft = &s->cloth;
    pd.n = pd.m = 60;
    pd.per_node = 3;
    pd.tolerance = FSI_R(0.01);
    pd.max_iterations = 4;
    pd.allocator = *allocator;
    s->responder.allocator = s->parted.allocator = s->parted.fluid.allocator =
        s->parted.solids.allocator = *allocator;
    if (result >= 0)
        result = fsi_shape_init(&ball, &sd);
    if (result >= 0)
        result = fsi_world_init(&world, &desc);
    if (result >= 0) {
        int id = fsi_world_add(&world, &given);
        result = id < 0 ? (fsi_result)id : FSI_OK;
    }
    fsi_guest guest = fsi_soft_guest(&s->responder);
    if (result >= 0)
        result = fsi_world_add_guest(&world, &guest);
    if (result >= 0)
        result = fsi_partitioned_init(&s->scheme, &pd);
    s->parted.scheme = &s->scheme;
    s->parted.list = doors;
    s->parted.solids.part = part;
    s->parted.fluid.bpp = 1;
    s->parted.fluid.follow = 6;
    if (result >= 0)
        result = fsi_world_exchange(&world, &s->parted, FSI_R(0.01), NULL);
    if (result >= 0)
        result = fsi_world_exchange(&world, &s->parted, FSI_R(0.01), NULL);
    /* folded: it cuts far more faces */
    for (int i = 0; i < 9; i++)
        X[6 + 3 * i + 1] = i % 2 ? FSI_R(0.25) : FSI_R(-0.25);
    if (result >= 0)
        result = fsi_fluid_box_follow(&s->parted.fluid, X);
    fsi_world_free(&world);
    strip_drop(s);
    fsi_shape_free(&ball);
    free(s);
    return result;
}

/* A soft flap clamped to a body, and a body's surface as points. */
static fsi_result clamp_and_points(const fsi_allocator *allocator) {
    scene_bodies *s = (scene_bodies *)calloc(1, sizeof *s);
    fsi_mesh mesh;
    fsi_coupled *door = NULL;
    static const int32_t node[2] = {0, 1};
    fsi_result result = bodies_make(s, NULL);
    memset(&mesh, 0, sizeof mesh);
    fsi_tled flap;
    memset(&flap, 0, sizeof flap);
    fsi_tled_desc desc;
    memset(&desc, 0, sizeof desc);
    fsi_clamp clamp;
    memset(&clamp, 0, sizeof clamp);
    fsi_embedded points;
    memset(&points, 0, sizeof points);
    if (result >= 0)
        result = fsi_mesh_box(&mesh, fsi_vec(0, 0, 0), fsi_vec(1, FSI_R(0.1), FSI_R(0.1)), 2, 1, 1,
                              0, NULL);
    desc.nodes = mesh.vertex_count;
    desc.tets = mesh.tet_count;
    desc.x = mesh.x;
    desc.tet = mesh.tet;
    desc.density = 500;
    desc.young = FSI_R(1e5);
    desc.poisson = FSI_R(0.3);
    if (result >= 0)
        result = fsi_tled_init(&flap, &desc);
    if (result >= 0)
        result = fsi_clamp_init(&clamp, &flap, &s->world, 1, node, 2, allocator);
    if (result >= 0)
        result = fsi_solids_couple(&s->world, 1, &door);
    points.inner = door;
    points.allocator = *allocator;
    if (result >= 0)
        result = fsi_embedded_begin(&points);
    fsi_embedded_free(&points);
    fsi_clamp_free(&clamp);
    fsi_tled_free(&flap);
    fsi_mesh_free(&mesh);
    bodies_drop(s);
    free(s);
    return result;
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
