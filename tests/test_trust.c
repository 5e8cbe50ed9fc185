/* What users of every header rely on, for all schemes at once: same bits for any number of threads,
   snapshots, rollback, no memory taken while it runs, clean errors when memory ends, bad numbers.
   The scenes are in scenes.h. FSI_TEST_FULL=1 runs the long soak. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "check.h"
#include "greatest.h"
#include "scenes.h"

static int full(void) {
    return getenv("FSI_TEST_FULL") != NULL;
}

static int slow(void) {
    return getenv("FSI_TEST_SANITIZER") != NULL;
}

/* Makes a scene and takes it through some steps. NULL: it failed, and the result was printed. */
static void *run(const scene_kind *k, const fsi_allocator *allocator, int steps) {
    void *scene = calloc(1, k->bytes);
    fsi_result result = k->make(scene, allocator);
    for (int i = 0; i < steps && result >= 0; i++)
        result = k->step(scene);
    if (result >= 0)
        return scene;
    printf("\n  %s: %s\n", k->name, fsi_result_text(result));
    k->drop(scene);
    free(scene);
    return NULL;
}

static void drop(const scene_kind *k, void *scene) {
    k->drop(scene);
    free(scene);
}

TEST same_bits_for_any_number_of_threads(void) {
    static const int threads[] = {1, 2, 3, 8};
    for (int i = 0; i < SCENES; i++) {
        const scene_kind *k = &scene_list[i];
        uint64_t first = 0;
        for (int t = 0; t < 4; t++) {
            check_threads(threads[t]);
            void *scene = run(k, NULL, k->touch + (slow() ? 2 : 6));
            ASSERTm(k->name, scene);
            void *block = malloc(scene_size(k, scene));
            uint64_t h = scene_hash(k, scene, block);
            if (t == 0)
                first = h;
            ASSERT_EQm(k->name, 1, first == h);
            drop(k, scene);
            free(block);
        }
    }
    check_threads(1);
    PASS();
}

/* A snapshot taken at a step, restored into a NEW object that has already lived another life,
 * continues bit for bit. */
TEST snapshot_into_a_new_object(void) {
    uint64_t seed = 7;
    /* the other life: shorter; longer and with other things touched and covered; the same and a
     * snapshot of the beginning; none */
    for (int i = 0; i < 4 * SCENES; i++) {
        const scene_kind *k = &scene_list[i / 4];
        int at = i % 4 == 2 ? 0 : k->touch + 2 + (int)(3 * (1 + check_random(&seed)));
        void *one = run(k, NULL, at);
        scene_hurry = FSI_R(1.1); /* and with longer steps */
        void *two = run(k, NULL, i % 4 == 3 ? 0 : i % 4 ? at + 15 : 3);
        scene_hurry = 1;
        ASSERTm(k->name, one && two);
        size_t size = scene_size(k, one);
        void *block = malloc(size);
        void *hash = malloc(size);
        for (int j = 0; j < 9; j++) {
            scene_meter m;
            memset(&m, 0, sizeof m);
            scene_meter n;
            memset(&n, 0, sizeof n);
            /* in every step: some state matters only when a contact opens */
            if (j < 6)
                ASSERTm(k->name,
                        scene_save(k, one, block) >= 0 && scene_restore(k, two, block) >= 0);
            scene_measure(k, one, &m);
            scene_measure(k, two, &n);
            /* what can be asked before the next step */
            ASSERTm(k->name, m.speed == n.speed && m.place == n.place);
            ASSERTm(k->name, k->step(one) >= 0 && k->step(two) >= 0);
            uint64_t a = scene_hash(k, one, hash);
            uint64_t b = scene_hash(k, two, hash);
            ASSERT_EQm(k->name, 1, a == b);
        }
        drop(k, one);
        drop(k, two);
        free(block);
        free(hash);
    }
    PASS();
}

/* Blocks that are cut off, damaged, of another object, precision or version are refused, and the
 * object is as it was. */
TEST state_from_strangers(void) {
    unsigned char *block = (unsigned char *)malloc(1 << 22);
    unsigned char *other = (unsigned char *)malloc(1 << 22);
    void *hash = malloc(1 << 22);
    for (int i = 0; i < SCENES; i++) {
        const scene_kind *k = &scene_list[i];
        scene_part part[SCENE_PARTS];
        void *scene = run(k, NULL, 2);
        ASSERTm(k->name, scene && scene_size(k, scene) <= 1 << 22);
        int n = k->parts(scene, part);
        uint64_t before = scene_hash(k, scene, hash);
        for (int j = 0; j < n; j++) {
            if (part[j].what == PART_OWN)
                continue;
            ASSERTm(k->name, scene_part_save(&part[j], block) >= 0);
            size_t size = scene_part_restored_size(&part[j], block);
            memcpy(other, block, size);
            for (size_t cut = 0; cut < 16; cut++)
                ASSERTm(k->name, scene_part_restore_sized(&part[j], block, cut * size / 16) < 0);
            ASSERTm(k->name, scene_part_restore_sized(&part[j], block, size + 8) < 0);

            /* Every 16th of the head and of the rest, one bit. */
            for (size_t at = 0; at < size; at += at < 32 ? 2 : size / 16 + 1) {
                other[at] = (unsigned char)(other[at] ^ 4);
                ASSERTm(k->name, scene_part_restore_sized(&part[j], other, size) < 0);
                other[at] = block[at];
            }
            for (int m = 0; m < n; m++)
                if (part[m].what != part[j].what && part[m].what != PART_OWN)
                    ASSERTm(k->name, scene_part_restore_sized(&part[m], block, size) < 0);
        }
        ASSERTm(k->name, scene_hash(k, scene, hash) == before);
        drop(k, scene);
    }
    free(block);
    free(other);
    free(hash);
    PASS();
}

/* What lies between the stages of a step is not state: after a restore the next stage must be asked
 * for from the first one on, and nothing of the other life shows. */
static fsi_result begin_step(const scene_part *p, scene_reduced *heap) {
    const fsi_real dt = FSI_R(1e-4);
    switch (p->what) {
    case PART_SPH:
        return fsi_sph_prepare((fsi_sph *)p->object, dt);
    case PART_TLED:
        return fsi_tled_accelerate((fsi_tled *)p->object, dt);
    case PART_SOFT:
        return fsi_soft_forces((fsi_soft *)p->object, dt);
    case PART_REDUCED:
        return fsi_reduced_half((fsi_reduced *)p->object, dt);
    case PART_CONTACTS:
        return fsi_reduced_contact_hold((fsi_reduced_contacts *)p->object, heap->list, 3, dt);
    default:
        return FSI_OK;
    }
}

TEST restore_forgets_stages(void) {
    void *block = malloc(1 << 22), *hash = malloc(1 << 22);
    for (int i = 0; i < SCENES; i++) {
        const scene_kind *k = &scene_list[i];
        void *scene = run(k, NULL, k->touch + 4);
        scene_part part[SCENE_PARTS];
        int n = k->parts(scene, part);
        ASSERTm(k->name, scene && scene_size(k, scene) <= 1 << 22);
        ASSERTm(k->name, scene_save(k, scene, block) >= 0 && k->step(scene) >= 0);
        uint64_t expected = scene_hash(k, scene, hash);
        for (int j = 0; j < n; j++)
            ASSERTm(k->name, begin_step(&part[j], (scene_reduced *)scene) >= 0);
        ASSERTm(k->name, scene_restore(k, scene, block) >= 0);
        for (int j = 0; j < n; j++) {
            void *o = part[j].object;
            if (part[j].what == PART_SPH)
                CHECK_RESULT(FSI_ERR_STATE, fsi_sph_accelerate((fsi_sph *)o, FSI_R(1e-4), NULL));
            if (part[j].what == PART_SPH)
                CHECK_RESULT(FSI_ERR_STATE, fsi_sph_move((fsi_sph *)o, FSI_R(1e-4)));
            if (part[j].what == PART_TLED)
                CHECK_RESULT(FSI_ERR_STATE, fsi_tled_move((fsi_tled *)o, FSI_R(1e-4)));
            if (part[j].what == PART_WORLD)
                ASSERT_EQ(0, ((fsi_world *)o)->couple.iface.sides);
            if (part[j].what == PART_COUPLE)
                ASSERT_EQ(0, ((fsi_couple *)o)->iface.sides);
            if (part[j].what == PART_SLIP)
                ASSERT_EQ(0, ((fsi_slip *)o)->iface.sides);
        }
        ASSERTm(k->name, k->step(scene) >= 0);
        ASSERT_EQm(k->name, 1, expected == scene_hash(k, scene, hash));
        drop(k, scene);
    }
    free(block);
    free(hash);
    PASS();
}

/* Network games: every frame the world goes 8 frames back and replays them; the replay must give
 * what was there. */
TEST rollback_loop(void) {
    static const char *names[] = {"world", "bodies", "xpm_cloth"};

    enum {
        BACK = 8
    };

    int frames = full() ? 1000 : 24;
    for (int n = 0; n < 3; n++)
        for (int i = 0; i < SCENES; i++) {
            const scene_kind *k = &scene_list[i];
            uint64_t expected[BACK];
            if (strcmp(k->name, names[n]) != 0)
                continue;
            void *scene = run(k, NULL, k->touch);
            ASSERTm(k->name, scene);
            size_t size = scene_size(k, scene);
            unsigned char *ring = (unsigned char *)malloc(BACK * size);
            void *block = malloc(size);
            for (int f = 0; f < BACK; f++) {
                ASSERTm(k->name, scene_save(k, scene, ring + (size_t)f * size) >= 0);
                ASSERTm(k->name, k->step(scene) >= 0);
                expected[f] = scene_hash(k, scene, block);
            }
            for (int f = BACK; f < frames; f++) {
                int first = f % BACK;
                /* BACK frames ago */
                ASSERTm(k->name, scene_restore(k, scene, ring + (size_t)first * size) >= 0);
                for (int j = 0; j < BACK; j++) {
                    ASSERTm(k->name, k->step(scene) >= 0);
                    ASSERT_EQm(k->name, 1,
                               expected[(first + j) % BACK] == scene_hash(k, scene, block));
                }
                ASSERTm(k->name, scene_save(k, scene, ring + (size_t)first * size) >= 0);
                ASSERTm(k->name, k->step(scene) >= 0);
                expected[first] = scene_hash(k, scene, block);
            }
            drop(k, scene);
            free(ring);
            free(block);
        }
    PASS();
}

/* The k-th allocation fails, for all k: a negative result, everything given back, and the next try
 * works. */
TEST allocation_failure_at_any_point(void) {
    for (int i = 0; i < SCENES; i++) {
        const scene_kind *k = &scene_list[i];
        const int steps = 2 + k->touch;
        long stride = slow() ? 7 : 1;
        for (long at = 0;; at += stride) {
            fail_allocator f = fail_begin(at);
            fsi_allocator allocator = fail_make(&f);
            void *scene = calloc(1, k->bytes);
            /* what comes after it works: a failure that nobody looked at shows */
            f.once = 1;
            fsi_result result = k->make(scene, &allocator);
            for (int j = 0; j < steps && result >= 0; j++)
                result = k->step(scene);
            if (f.calls > at ? result != FSI_ERR_MEMORY : result < 0) {
                printf("\n  %s: allocation %ld: %s\n", k->name, at, fsi_result_text(result));
                FAIL();
            }
            drop(k, scene);
            ASSERT_EQm(k->name, 0, (int)f.live);
            if (f.calls <= at)
                break;
            ASSERTm(k->name, at < 3000);
        }
    }
    PASS();
}

/* Soak: no memory is taken once it runs, the ledger stays closed, liquid stays, nothing creeps or
 * speeds up. 20,000 steps with FSI_TEST_FULL=1. */
typedef struct soak_log {
    double volume, volume_error, ledger, ledger_sum, scale, speed, place;
} soak_log;

static fsi_result soak(const scene_kind *k, void *scene, int steps, soak_log *log) {
    scene_meter m;
    fsi_result result = FSI_OK;
    memset(&m, 0, sizeof m);
    memset(log, 0, sizeof *log);
    for (int j = 0; j < steps && result >= 0; j++) {
        result = k->step(scene);
        if (result < 0)
            break;
        /* its rigid world has no walls: a guide keeps the ball over the water */
        if (strcmp(k->name, "sph_float") == 0) {
            fsi_rigid *body = &((scene_float *)scene)->world.body[0];
            body->x.x = body->x.z = FSI_R(0.24);
            body->v.x = body->v.z = body->v_start.x = body->v_start.z = 0;
        }
        scene_measure(k, scene, &m);
        if (j == 0)
            log->volume = m.volume;
        if (j == steps / 2)
            log->place = m.place;
        log->volume_error = scene_most(log->volume_error, fabs(m.volume - log->volume)
                                                              / scene_most(log->volume, 1e-9));
        log->ledger = scene_most(log->ledger, m.ledger);
        log->ledger_sum += m.ledger;
        log->scale += m.scale;
        if (2 * j >= steps)
            log->speed = scene_most(log->speed, m.speed);
        if (!(m.speed < 1e3)) {
            printf("\n  %s: %g m/s in step %d", k->name, m.speed, j);
            return FSI_ERR_NUMERIC;
        }
    }
    log->place = fabs(m.place - log->place);
    return result;
}

TEST soak_without_growth(void) {
    int warm = slow() ? 20 : 60, steps = full() ? 20000 : slow() ? 5 : 60;
    if (full())
        printf("\n  %d steps    bytes  alloc.  liquid lost  ledger/step  of what passed  speed in "
               "2nd half  creep in 2nd half",
               steps);
    for (int i = 0; i < SCENES; i++) {
        const scene_kind *k = &scene_list[i];
        fail_allocator f = fail_begin(-1);
        fsi_allocator allocator = fail_make(&f);
        void *scene = run(k, &allocator, k->touch + warm);
        size_t bytes = f.bytes;
        long calls = f.calls;
        ASSERTm(k->name, scene);
        soak_log log;
        fsi_result result = soak(k, scene, steps, &log);
        if (full()) {
            printf("\n  %-11s %8lu %+7ld %11.1e %12.1e %15.1e %14.2e m/s %14.1e m", k->name,
                   (unsigned long)f.bytes, f.calls - calls, log.volume_error, log.ledger,
                   log.scale > 0 ? log.ledger_sum / log.scale : 0.0, log.speed, log.place);
            fflush(stdout);
        } else if (f.bytes > bytes || f.calls > calls)
            printf("\n  %s: bytes %lu -> %lu, %ld allocations", k->name, (unsigned long)bytes,
                   (unsigned long)f.bytes, f.calls - calls);
        ASSERTm(k->name, result >= 0);
        /* lists may outgrow their room, never without bound */
        ASSERTm(k->name, f.bytes <= 2 * bytes);
        ASSERTm(k->name, f.calls - calls <= 40);
        /* F-17's figure for 20 cells */
        CHECK_MOST(log.volume_error, 0.03);
        /* of the impulses that passed */
        CHECK_MOST(log.ledger_sum, TOL(1e-9, 1e-3) * scene_most(log.scale, 1e-9));
        /* of FSI_SPH_XPM: exact */
        ASSERTm("round-off shows in a ledger that is kept",
                log.ledger_sum > 0 || log.scale == 0 || strcmp(k->name, "sph_float") == 0);
        drop(k, scene);
        ASSERT_EQm(k->name, 0, (int)f.live);
    }
    PASS();
}

/* The volume that the grid reports is the level set's own. */
TEST reported_volume(void) {
    scene_fluid *s = (scene_fluid *)run(&scene_list[2], NULL, 5);
    ASSERT(s);
    CHECK_REL(fsi_levelset_volume(&s->grid.levelset, NULL, NULL), s->grid.stats.liquid_volume,
              TOL(1e-9, 1e-4));
    drop(&scene_list[2], s);
    PASS();
}

/* Nonsense is refused where it enters and changes nothing. */
TEST bad_steps_change_nothing(void) {
    static const double bad[] = {-1, 0, 1e300 * 1e300, -1e300 * 1e300};
    scene_world *s = (scene_world *)run(&scene_list[8], NULL, 3);
    ASSERT(s);
    void *block = malloc(scene_size(&scene_list[8], s));
    uint64_t before = scene_hash(&scene_list[8], s, block);
    for (size_t i = 0; i < 5; i++) {
        double dt = i < 4 ? bad[i] : bad[2] - bad[2]; /* the last: NaN */
        ASSERT(fsi_world_step(&s->world, (fsi_real)dt, NULL) < 0);
        ASSERT_EQ(1, before == scene_hash(&scene_list[8], s, block));
    }
    ASSERT(fsi_world_step(&s->world, FSI_R(0.005), NULL) >= 0);
    drop(&scene_list[8], s);
    free(block);
    PASS();
}

/* Density ratios 1e-6 and 1e6, steps 100 times too long, gravity 1e6, bodies that cross 10 cells a
 * step: finite, or a clear result. */
static fsi_result extreme(double density, double dt, double gravity, double speed, int *finite) {
    scene_world s;
    fsi_result worst = FSI_OK;
    int id = 0;
    memset(&s, 0, sizeof s);
    fsi_world_desc desc;
    memset(&desc, 0, sizeof desc);
    fsi_shape_desc given;
    memset(&given, 0, sizeof given);
    fsi_rigid_desc options;
    memset(&options, 0, sizeof options);
    desc.grid = scene_grid(16, 2, 1, NULL);
    desc.grid.gravity = fsi_vec(0, (fsi_real)-gravity, 0);
    desc.max_bodies = 1;
    fsi_result result = fsi_world_init(&s.world, &desc);
    given.kind = FSI_SHAPE_BOX;
    given.dim = 2;
    given.half = fsi_vec(FSI_R(0.13), FSI_R(0.1), 0);
    if (result >= 0)
        result = fsi_shape_init(&s.ball, &given);
    options.kind = FSI_RIGID_DYNAMIC;
    options.shape = &s.ball;
    options.density = (fsi_real)(1000 * density);
    options.x = fsi_vec(FSI_R(0.5), FSI_R(0.6), 0);
    options.v = fsi_vec(0, (fsi_real)-speed, 0);
    if (result >= 0)
        id = fsi_world_add(&s.world, &options);
    result = id < 0 ? (fsi_result)id : FSI_OK;
    if (result >= 0)
        result = fsi_grid_set_field(&s.world.grid, FSI_FIELD_PHI, scene_pool, NULL);
    for (int i = 0; i < 20 && result >= 0; i++) {
        result = fsi_world_step(&s.world, (fsi_real)dt, NULL);
        if (result > worst)
            worst = result;
    }
    *finite = isfinite((double)s.world.solids.body[id].x.y)
              && isfinite((double)fsi_max_abs((int)s.world.grid.faces[1], s.world.grid.u[1]));
    world_drop(&s);
    return result < 0 ? result : worst;
}

TEST bad_numbers_stay_finite(void) {
    static const double c[][4] = {{1e-6, 0.005, 9.81, 0}, {1e6, 0.005, 9.81, 0},
                                  {0.5, 0.5, 9.81, 0},    {0.5, 0.005, 1e6, 0},
                                  {5, 0.01, 9.81, 65},    {1e-6, 0.5, 9.81, 100}};
    int finite;
    for (int i = 0; i < 6; i++) {
        fsi_result result = extreme(c[i][0], c[i][1], c[i][2], c[i][3], &finite);
        if (!finite || (i >= 3 && result == FSI_OK))
            printf("\n  case %d: %s\n", i, fsi_result_text(result));
        ASSERT(finite);
        if (i >= 3)
            ASSERTm("a step far too long is told", result != FSI_OK);
    }
    PASS();
}

/* The same for every scheme. What a scene is made of is pushed or weighed generically; after each
   step everything must be finite and the result not negative: a scheme that cannot take the numbers
   says so with a positive one. The explicit one (proxy) may fail after that. Steps of no length are
   refused and change nothing. */
static void bad_gravity(const scene_part *p, fsi_vec3 g) {
    if (p->what == PART_GRID)
        ((fsi_grid *)p->object)->desc.gravity = g;
    if (p->what == PART_WORLD) {
        ((fsi_world *)p->object)->grid.desc.gravity = g;
        ((fsi_world *)p->object)->solids.desc.gravity = g;
    }
    if (p->what == PART_SOLIDS)
        ((fsi_solids *)p->object)->desc.gravity = g;
    if (p->what == PART_SOFT)
        ((fsi_soft *)p->object)->desc.gravity = g;
    if (p->what == PART_REDUCED)
        ((fsi_reduced *)p->object)->gravity = g;
    if (p->what == PART_SPH)
        ((fsi_sph *)p->object)->desc.gravity = g;
    if (p->what == PART_TLED)
        ((fsi_tled *)p->object)->desc.gravity = g;
}

static void bad_speed(const scene_part *p, fsi_vec3 v) {
    fsi_solids *solids = p->what == PART_WORLD    ? &((fsi_world *)p->object)->solids
                         : p->what == PART_SOLIDS ? (fsi_solids *)p->object
                                                  : NULL;
    fsi_reduced *reduced = p->what == PART_REDUCED ? (fsi_reduced *)p->object : NULL;
    int n = p->what == PART_SOFT   ? ((fsi_soft *)p->object)->desc.vertex_count
            : p->what == PART_TLED ? ((fsi_tled *)p->object)->nodes
                                   : 0;
    fsi_real *x = p->what == PART_SOFT   ? ((fsi_soft *)p->object)->v
                  : p->what == PART_TLED ? ((fsi_tled *)p->object)->v
                                         : NULL;
    for (int i = 0; i < n; i++)
        fsi_vec_store(x + 3 * i, v);
    for (int i = 0; solids && i < solids->body_count; i++)
        if (solids->body[i].kind == FSI_RIGID_DYNAMIC)
            solids->body[i].v = v;
    if (reduced)
        (void)fsi_reduced_place(reduced, reduced->rigid->position,
                                fsi_quat_from_rotation(fsi_vec(0, 0, 0)), v, fsi_vec(0, 0, 0));
}

typedef struct bad_case {
    const char *name;
    double weight, hurry, gravity, cells;
} bad_case;

static fsi_result bad_run(const scene_kind *k, const bad_case *c, int *finite, fsi_result *worst) {
    void *scene = calloc(1, k->bytes);
    scene_part part[SCENE_PARTS];
    scene_meter m;
    memset(&m, 0, sizeof m);
    *finite = 1;
    *worst = FSI_OK;
    scene_weight = (fsi_real)c->weight;
    fsi_result result = k->make(scene, NULL);
    /* one good step, so that the bad numbers meet a running scene */
    if (result >= 0)
        result = k->step(scene);
    scene_hurry = (fsi_real)c->hurry;
    int i;
    int n;
    for (n = result >= 0 ? k->parts(scene, part) : 0, i = 0; i < n; i++) {
        if (c->gravity > 0)
            bad_gravity(&part[i], fsi_vec(0, (fsi_real)-c->gravity, 0));
        if (c->cells > 0)
            bad_speed(&part[i], fsi_vec((fsi_real)(c->cells / 3), (fsi_real)-c->cells, 0));
    }
    for (i = 0; i < 8 && result >= 0; i++) {
        result = k->step(scene);
        if (result > *worst)
            *worst = result;
        if (result >= 0)
            scene_measure(k, scene, &m);
        if (!(fabs(m.speed) < 1e300) || !(fabs(m.place) < 1e300) || !(fabs(m.volume) < 1e300))
            *finite = 0;
    }
    scene_hurry = scene_weight = 1;
    drop(k, scene);
    return result;
}

TEST bad_numbers_for_every_scheme(void) {
    static const bad_case c[] = {{"density 1e-6", 1e-6, 1, 0, 0},
                                 {"density 1e6", 1e6, 1, 0, 0},
                                 {"dt 100 times", 1, 100, 0, 0},
                                 {"gravity 1e6", 1, 1, 1e6, 0},
                                 {"10 cells per step", 1, 1, 0, 300}};
    static const bad_case none = {"dt = 0", 1, 0, 0, 0};
    int bad = 0, finite;
    for (int i = 0; i < SCENES; i++) {
        const scene_kind *k = &scene_list[i];
        fsi_result worst, result = bad_run(k, &none, &finite, &worst);
        if (result != FSI_ERR_ARGUMENT) {
            printf("\n  %s, %s: %s", k->name, none.name, fsi_result_text(result));
            bad++;
        }
        for (int j = 0; j < 5; j++) {
            result = bad_run(k, &c[j], &finite, &worst);
            int ended = result < 0 && (worst == FSI_OK || strcmp(k->name, "proxy") != 0);
            if (full() || ended || !finite)
                printf("\n  %s, %s: %s, then %s%s", k->name, c[j].name, fsi_result_text(worst),
                       result < 0 ? fsi_result_text(result) : "on", finite ? "" : ", not finite");
            /* only what steps explicitly may end with an error, once it has said that dt is too
             * long */
            bad += ended || !finite;
        }
    }
    ASSERT_EQ(0, bad);
    PASS();
}

/* A field that is one everywhere stays one, whatever bodies do: cells that come free and cells
 * behind smooth walls take means of their neighbours. */
static fsi_real one_everywhere(fsi_vec3 x, void *user) {
    (void)x;
    (void)user;
    return 1;
}

static double away_from_one(const fsi_grid *grid, const uint8_t *covered) {
    double most = 0;
    for (size_t c = 0; c < grid->cells; c++)
        if (!covered[c])
            most = scene_most(most, fabs((double)grid->density[c] - 1));
    return most;
}

TEST smoke_of_one_value_around_a_moving_body(void) {
    scene_world s;
    int freed = 0;
    memset(&s, 0, sizeof s);
    fsi_world_desc desc;
    memset(&desc, 0, sizeof desc);
    fsi_shape_desc given;
    memset(&given, 0, sizeof given);
    fsi_rigid_desc options;
    memset(&options, 0, sizeof options);
    desc.grid = scene_grid(16, 2, 0, NULL);
    desc.max_bodies = 1;
    CHECK_OK(fsi_world_init(&s.world, &desc));
    given.kind = FSI_SHAPE_BOX;
    given.dim = 2;
    given.half = fsi_vec(FSI_R(0.13), FSI_R(0.1), 0);
    CHECK_OK(fsi_shape_init(&s.ball, &given));
    options.kind = FSI_RIGID_SCRIPTED;
    options.shape = &s.ball;
    options.x = fsi_vec(FSI_R(0.5), FSI_R(0.4), 0);
    options.v = fsi_vec(FSI_R(0.3), 1, 0);
    options.spin = fsi_vec(0, 0, 2);
    ASSERT(fsi_world_add(&s.world, &options) >= 0);
    CHECK_OK(fsi_grid_set_field(&s.world.grid, FSI_FIELD_DENSITY, one_everywhere, NULL));
    for (int i = 0; i < 20; i++) {
        uint8_t was[16 * 20];
        ASSERT_EQ(sizeof was, s.world.grid.cells);
        memcpy(was, s.world.couple.iface.covered, sizeof was);
        ASSERT(fsi_world_step(&s.world, FSI_R(0.02), NULL) >= 0);
        for (size_t c = 0; c < sizeof was; c++)
            freed += was[c] && !s.world.couple.iface.covered[c];
        CHECK_MOST(away_from_one(&s.world.grid, s.world.couple.iface.covered), TOL(1e-12, 1e-5));
    }
    ASSERTm("cells came free", freed > 20);
    world_drop(&s);
    PASS();
}

TEST smoke_of_one_value_around_a_smooth_wall(void) {
    static const int32_t index[8] = {0, 1, 1, 2, 2, 3, 3, 0};
    static const fsi_real x[12] = {FSI_R(0.33), FSI_R(0.31), 0, FSI_R(0.64), FSI_R(0.37), 0,
                                   FSI_R(0.58), FSI_R(0.66), 0, FSI_R(0.36), FSI_R(0.61), 0};
    scene_slip s;
    size_t inside = 0;
    memset(&s, 0, sizeof s);
    CHECK_OK(slip_make(&s, NULL));
    s.door.surface.vertex_count = s.door.surface.element_count = 4;
    s.door.surface.closed = 1;
    s.door.surface.x = x;
    s.door.surface.index = index;
    CHECK_OK(fsi_grid_set_field(&s.grid, FSI_FIELD_DENSITY, one_everywhere, NULL));
    for (int i = 0; i < 10; i++)
        ASSERT(slip_step(&s) >= 0);
    CHECK_MOST(away_from_one(&s.grid, s.slip.iface.covered), TOL(1e-12, 1e-5));
    for (size_t c = 0; c < s.grid.cells; c++)
        inside += s.slip.iface.covered[c];
    ASSERTm("cells are covered", inside > 20);
    slip_drop(&s);
    PASS();
}

/* Slip in water that a body displaces: what the liquid's volume is to be was found in the first
 * step, and a restored scheme does not find it again. */
TEST slip_in_water_restored(void) {
    static const int32_t index[8] = {0, 1, 1, 2, 2, 3, 3, 0};
    static const fsi_real x[12] = {FSI_R(0.31), FSI_R(0.21), 0, FSI_R(0.64), FSI_R(0.22), 0,
                                   FSI_R(0.58), FSI_R(0.42), 0, FSI_R(0.36), FSI_R(0.41), 0};
    fsi_grid_desc desc = scene_grid(16, 2, 1, NULL);
    scene_slip s[2];
    scene_part part[2];
    void *block[2];
    memset(s, 0, sizeof s);
    fsi_slip_desc sd;
    memset(&sd, 0, sizeof sd);
    desc.volume_correction = 1;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(fsi_grid_init(&s[i].grid, &desc));
        ASSERT(fsi_grid_set_field(&s[i].grid, FSI_FIELD_PHI, scene_water, NULL) >= 0);
        CHECK_OK(fsi_slip_init(&s[i].slip, &s[i].grid, &sd));
        s[i].door.surface.dim = 2;
        s[i].door.surface.vertex_count = s[i].door.surface.element_count = 4;
        s[i].door.surface.closed = 1;
        s[i].door.surface.x = x;
        s[i].door.surface.index = index;
        s[i].list[0] = &s[i].door;
        s[i].step.solid = s[i].list;
        s[i].step.count = 1;
    }
    for (int i = 0; i < 10; i++)
        ASSERT(slip_step(&s[0]) >= 0);
    ASSERT_EQ(2, slip_parts(&s[0], part));
    for (int i = 0; i < 2; i++) {
        block[i] = malloc(scene_part_size(&part[i]));
        ASSERT(scene_part_save(&part[i], block[i]) >= 0);
    }
    slip_parts(&s[1], part);
    for (int i = 0; i < 2; i++)
        ASSERT(scene_part_restore(&part[i], block[i]) >= 0);
    for (int j = 0; j < 5; j++) {
        ASSERT(slip_step(&s[0]) >= 0 && slip_step(&s[1]) >= 0);
        ASSERT_EQ(0, memcmp(s[0].grid.phi, s[1].grid.phi, s[0].grid.cells * sizeof *s[0].grid.phi));
    }
    slip_drop(&s[1]);
    fsi_grid_desc narrow = scene_grid(8, 2, 1, NULL);
    CHECK_OK(fsi_grid_init(&s[1].grid, &narrow));
    CHECK_OK(fsi_slip_init(&s[1].slip, &s[1].grid, &sd));
    CHECK_RESULT(FSI_ERR_SIZE,
                 fsi_slip_restore(&s[1].slip, block[1], fsi_slip_state_size(&s[1].slip)));
    for (int i = 0; i < 2; i++) {
        slip_drop(&s[i]);
        free(block[i]);
    }
    PASS();
}

/* Surface velocities of a stream that is the same everywhere, without a solve: the stream itself on
 * both sides of a plate along it. */
static fsi_vec3 even_stream(fsi_vec3 x, double t, void *user) {
    (void)x;
    (void)t;
    (void)user;
    return fsi_vec(FSI_R(0.7), 0, 0);
}

TEST surface_velocity_without_a_solve(void) {
    scene_slip s;
    int fluid = 0;
    memset(&s, 0, sizeof s);
    CHECK_RESULT(FSI_ERR_STATE, fsi_slip_surface(NULL));
    CHECK_RESULT(FSI_ERR_STATE, fsi_slip_surface(&s.slip));
    CHECK_OK(slip_make(&s, NULL));
    s.x[4] = s.x[1]; /* level */
    CHECK_OK(fsi_grid_set_velocity(&s.grid, even_stream, NULL));
    CHECK_OK(fsi_slip_detect(&s.slip, s.list, 1));
    CHECK_OK(fsi_slip_surface(&s.slip));
    for (int i = 0; i < s.slip.iface.sides; i++) {
        if (s.slip.iface.side[i].axis != 1)
            continue;
        CHECK_NEAR(0.7, s.slip.velocity[i].x, TOL(1e-12, 1e-6));
        CHECK_NEAR(0, s.slip.velocity[i].y, TOL(1e-12, 1e-6));
        fluid++;
    }
    ASSERTm("sides of the plate", fluid >= 14);
    slip_drop(&s);
    PASS();
}

/* A guest of a world is the same solid as one given to the coupling by hand: bit for bit. */
TEST guest_of_a_world(void) {
    scene_strip hand;
    memset(&hand, 0, sizeof hand);
    scene_strip own;
    memset(&own, 0, sizeof own);
    fsi_world_desc desc;
    memset(&desc, 0, sizeof desc);
    fsi_guest guest;
    memset(&guest, 0, sizeof guest);
    CHECK_OK(mono_make(&hand, NULL));
    CHECK_OK(mono_make(&own, NULL)); /* its grid stays unused */
    desc.grid = scene_grid(24, 2, 0, NULL);
    desc.grid.shells = 1;
    desc.max_guests = 1;
    fsi_world world;
    CHECK_OK(fsi_world_init(&world, &desc));
    CHECK_OK(scene_jet(&world.grid));
    guest.stages.begin_fn = strip_begin;
    guest.stages.move_fn = strip_move;
    guest.stages.user = &own;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_world_add_guest(&world, &guest)); /* no door */
    guest.door = &own.door;
    CHECK_OK(fsi_world_add_guest(&world, &guest));
    CHECK_RESULT(FSI_ERR_SIZE, fsi_world_add_guest(&world, &guest));
    for (int i = 0; i < 10; i++) {
        ASSERT(mono_step(&hand) >= 0);
        ASSERT(fsi_world_step(&world, FSI_R(0.02), NULL) >= 0);
        ASSERT_EQ(0, memcmp(hand.cloth.x, own.cloth.x, 27 * sizeof(fsi_real)));
        ASSERT_EQ(0,
                  memcmp(hand.grid.u[1], world.grid.u[1], world.grid.faces[1] * sizeof(fsi_real)));
    }
    ASSERT_EQ(1, world.door_count);
    ASSERT_EQ(-1, world.door_body[0]);
    fsi_world_free(&world);
    strip_drop(&hand);
    strip_drop(&own);
    PASS();
}

/* A flat patch holds water: boundary particles half a spacing behind it, none of the water comes
 * through. */
TEST plane_of_boundary_particles(void) {
    fsi_sph_desc desc;
    const fsi_vec3 corner = fsi_vec(FSI_R(-0.2), 0, FSI_R(-0.2)), u = fsi_vec(FSI_R(0.6), 0, 0),
                   v = fsi_vec(0, 0, FSI_R(0.6)), up = fsi_vec(0, 5, 0);
    int n = 0, object = -1;
    memset(&desc, 0, sizeof desc);
    desc.capacity = 400;
    desc.boundary_capacity = 2000;
    desc.spacing = FSI_R(0.04);
    desc.density = 1000;
    desc.sound_speed = 20;
    desc.viscosity = 1;
    desc.artificial = FSI_R(0.1);
    desc.gravity = fsi_vec(0, FSI_R(-9.81), 0);
    fsi_sph sph;
    CHECK_OK(fsi_sph_init(&sph, &desc));
    CHECK_RESULT(FSI_ERR_ARGUMENT,
                 fsi_sph_add_plane(&sph, corner, u, v, fsi_vec(0, 0, 0), &object));
    CHECK_RESULT(FSI_ERR_ARGUMENT,
                 fsi_sph_add_plane(&sph, corner, fsi_vec(0, 0, 0), v, up, &object));
    ASSERT_EQ(-1, object);
    CHECK_OK(fsi_sph_add_plane(&sph, corner, u, v, up, &object));
    ASSERT_EQ(0, object);
    ASSERT(sph.now.boundary_count >= 16 * 16 && sph.now.boundary_count % (16 * 16) == 0);
    /* the first layer */
    int i;
    for (i = 0; i < 16 * 16; i++)
        CHECK_NEAR(-0.02, sph.bx[3 * i + 1], 1e-6);
    for (; i < sph.now.boundary_count; i++)
        ASSERT(sph.bx[3 * i + 1] < FSI_R(-0.05));
    CHECK_OK(fsi_sph_add_block(&sph, fsi_vec(0, 0, 0), fsi_vec(FSI_R(0.2), FSI_R(0.2), FSI_R(0.2)),
                               fsi_vec(0, 0, 0), &n));
    ASSERT_EQ(125, n);
    for (i = 0; i < 100; i++)
        ASSERT(fsi_sph_step(&sph, FSI_R(0.0006), NULL) >= 0);
    for (i = 0; i < n; i++)
        ASSERTm("above the plane", sph.y[i] > 0);
    ASSERT(fsi_sph_bytes_per_particle(&sph) * 400 >= (double)fsi_sph_state_size(&sph));
    CHECK_NEAR((double)sph.block_size / 400, fsi_sph_bytes_per_particle(&sph), 1e-9);
    fsi_sph_free(&sph);
    ASSERT(fsi_sph_bytes_per_particle(&sph) == 0 && fsi_sph_bytes_per_particle(NULL) == 0);
    PASS();
}

SUITE(trust) {
    RUN_TEST(smoke_of_one_value_around_a_moving_body);
    RUN_TEST(smoke_of_one_value_around_a_smooth_wall);
    RUN_TEST(slip_in_water_restored);
    RUN_TEST(surface_velocity_without_a_solve);
    RUN_TEST(guest_of_a_world);
    RUN_TEST(plane_of_boundary_particles);
    RUN_TEST(same_bits_for_any_number_of_threads);
    RUN_TEST(snapshot_into_a_new_object);
    RUN_TEST(state_from_strangers);
    RUN_TEST(restore_forgets_stages);
    RUN_TEST(rollback_loop);
    RUN_TEST(allocation_failure_at_any_point);
    RUN_TEST(soak_without_growth);
    RUN_TEST(reported_volume);
    RUN_TEST(bad_steps_change_nothing);
    RUN_TEST(bad_numbers_stay_finite);
    RUN_TEST(bad_numbers_for_every_scheme);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv) {
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(trust);
    GREATEST_MAIN_END();
}
