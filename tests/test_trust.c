/* What users of every header rely on, for all schemes at once: same bits for any number of threads, snapshots, rollback, no memory taken while
   it runs, clean errors when memory ends, bad numbers. The scenes are in scenes.h. FSI_TEST_FULL=1 runs the long soak. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "check.h"
#include "greatest.h"
#include "scenes.h"

static int full(void) { return getenv("FSI_TEST_FULL") != NULL; }
static int slow(void) { return getenv("FSI_TEST_SANITIZER") != NULL; }

/* Makes a scene and takes it through some steps. NULL: it failed, and the result was printed. */
static void *run(const scene_kind *k, const fsi_allocator *a, int steps) {
    void *scene = calloc(1, k->bytes);
    fsi_result r = k->make(scene, a);
    int i;
    for (i = 0; i < steps && r >= 0; i++) r = k->step(scene);
    if (r >= 0) return scene;
    printf("\n  %s: %s\n", k->name, fsi_result_text(r));
    k->drop(scene);
    free(scene);
    return NULL;
}
static void drop(const scene_kind *k, void *scene) { k->drop(scene); free(scene); }

TEST same_bits_for_any_number_of_threads(void) {
    static const int threads[] = {1, 2, 3, 8};
    int i, t;
    for (i = 0; i < SCENES; i++) {
        const scene_kind *k = &scene_list[i];
        uint64_t first = 0;
        for (t = 0; t < 4; t++) {
            void *scene, *block;
            uint64_t h;
            check_threads(threads[t]);
            scene = run(k, NULL, slow() ? 2 : 6);
            ASSERTm(k->name, scene);
            block = malloc(scene_size(k, scene));
            h = scene_hash(k, scene, block);
            if (t == 0) first = h;
            ASSERT_EQm(k->name, 1, first == h);
            drop(k, scene); free(block);
        }
    }
    check_threads(1);
    PASS();
}

/* A snapshot taken at a step, restored into a NEW object that has already lived another life, continues bit for bit. */
TEST snapshot_into_a_new_object(void) {
    uint64_t seed = 7;
    int i;
    for (i = 0; i < SCENES; i++) {
        const scene_kind *k = &scene_list[i];
        int at = 2 + (int)(3 * (1 + check_random(&seed))), j;
        void *one = run(k, NULL, at), *two = run(k, NULL, 3), *block, *hash;
        size_t size;
        ASSERTm(k->name, one && two);
        size = scene_size(k, one);
        block = malloc(size); hash = malloc(size);
        ASSERTm(k->name, scene_save(k, one, block) >= 0);
        ASSERTm(k->name, scene_restore(k, two, block) >= 0);
        for (j = 0; j < 4; j++) {
            uint64_t a, b;
            ASSERTm(k->name, k->step(one) >= 0 && k->step(two) >= 0);
            a = scene_hash(k, one, hash);
            b = scene_hash(k, two, hash);
            ASSERT_EQm(k->name, 1, a == b);
        }
        drop(k, one); drop(k, two); free(block); free(hash);
    }
    PASS();
}

/* Network games: every frame the world goes 8 frames back and replays them; the replay must give what was there. */
TEST rollback_loop(void) {
    static const char *names[] = {"world", "bodies", "xpm_cloth"};
    enum { BACK = 8 };
    int i, n, frames = full() ? 1000 : 24;
    for (n = 0; n < 3; n++) for (i = 0; i < SCENES; i++) {
        const scene_kind *k = &scene_list[i];
        unsigned char *ring;
        void *scene, *block;
        size_t size;
        uint64_t expected[BACK];
        int f, j;
        if (strcmp(k->name, names[n]) != 0) continue;
        scene = run(k, NULL, 0);
        ASSERTm(k->name, scene);
        size = scene_size(k, scene);
        ring = (unsigned char *)malloc(BACK * size); block = malloc(size);
        for (f = 0; f < BACK; f++) {
            ASSERTm(k->name, scene_save(k, scene, ring + (size_t)f * size) >= 0);
            ASSERTm(k->name, k->step(scene) >= 0);
            expected[f] = scene_hash(k, scene, block);
        }
        for (f = BACK; f < frames; f++) {
            int first = f % BACK;
            ASSERTm(k->name, scene_restore(k, scene, ring + (size_t)first * size) >= 0);   /* BACK frames ago */
            for (j = 0; j < BACK; j++) {
                ASSERTm(k->name, k->step(scene) >= 0);
                ASSERT_EQm(k->name, 1, expected[(first + j) % BACK] == scene_hash(k, scene, block));
            }
            ASSERTm(k->name, scene_save(k, scene, ring + (size_t)first * size) >= 0);
            ASSERTm(k->name, k->step(scene) >= 0);
            expected[first] = scene_hash(k, scene, block);
        }
        drop(k, scene); free(ring); free(block);
    }
    PASS();
}

/* The k-th allocation fails, for all k: a negative result, everything given back, and the next try works. */
TEST allocation_failure_at_any_point(void) {
    int i, steps = 2;
    for (i = 0; i < SCENES; i++) {
        const scene_kind *k = &scene_list[i];
        long at, stride = slow() ? 7 : 1;
        for (at = 0;; at += stride) {
            fail_allocator f = fail_begin(at);
            fsi_allocator a = fail_make(&f);
            void *scene = calloc(1, k->bytes);
            fsi_result r = k->make(scene, &a);
            int j;
            for (j = 0; j < steps && r >= 0; j++) r = k->step(scene);
            if (r < 0 && r != FSI_ERR_MEMORY) printf("\n  %s: allocation %ld\n", k->name, at);
            if (r < 0) CHECK_RESULT(FSI_ERR_MEMORY, r);
            drop(k, scene);
            ASSERT_EQm(k->name, 0, (int)f.live);
            if (r >= 0) break;
            ASSERTm(k->name, at < 3000);
        }
    }
    PASS();
}

/* Soak: nothing is allocated once it runs, memory does not grow, and the state stays finite. */
TEST soak_without_growth(void) {
    int i, warm = slow() ? 20 : 60, steps = full() ? 20000 : slow() ? 5 : 60;
    for (i = 0; i < SCENES; i++) {
        const scene_kind *k = &scene_list[i];
        fail_allocator f = fail_begin(-1);
        fsi_allocator a = fail_make(&f);
        void *scene = run(k, &a, warm);
        size_t bytes = f.bytes;
        long calls = f.calls;
        int j;
        fsi_result r = FSI_OK;
        ASSERTm(k->name, scene);
        for (j = 0; j < steps && r >= 0; j++) r = k->step(scene);
        if (full() || f.bytes > bytes || f.calls > calls)
            printf("\n  %-12s %d steps: bytes %lu -> %lu, %ld allocations after the first %d steps", k->name, steps, (unsigned long)bytes, (unsigned long)f.bytes, f.calls - calls, warm);
        ASSERTm(k->name, r >= 0);
        ASSERTm(k->name, f.bytes <= 2 * bytes);       /* lists may outgrow their room, never without bound */
        ASSERTm(k->name, f.calls - calls <= 40);
        drop(k, scene);
        ASSERT_EQm(k->name, 0, (int)f.live);
    }
    PASS();
}

/* Nonsense is refused where it enters and changes nothing. */
TEST bad_steps_change_nothing(void) {
    static const double bad[] = {-1, 0, 1e300 * 1e300, -1e300 * 1e300};
    scene_world *s = (scene_world *)run(&scene_list[8], NULL, 3);
    void *block;
    uint64_t before;
    size_t i;
    ASSERT(s);
    block = malloc(scene_size(&scene_list[8], s));
    before = scene_hash(&scene_list[8], s, block);
    for (i = 0; i < 5; i++) {
        double dt = i < 4 ? bad[i] : bad[2] - bad[2];          /* the last: NaN */
        ASSERT(fsi_world_step(&s->world, (fsi_real)dt, NULL) < 0);
        ASSERT_EQ(1, before == scene_hash(&scene_list[8], s, block));
    }
    ASSERT(fsi_world_step(&s->world, FSI_R(0.005), NULL) >= 0);
    drop(&scene_list[8], s); free(block);
    PASS();
}

/* Density ratios 1e-6 and 1e6, steps 100 times too long, gravity 1e6, bodies that cross 10 cells a step: finite, or a clear result. */
static fsi_result extreme(double density, double dt, double gravity, double speed, int *finite) {
    scene_world s;
    fsi_world_desc d;
    fsi_shape_desc f;
    fsi_rigid_desc b;
    fsi_result r, worst = FSI_OK;
    int i, id = 0;
    memset(&s, 0, sizeof s); memset(&d, 0, sizeof d); memset(&f, 0, sizeof f); memset(&b, 0, sizeof b);
    d.grid = scene_grid(16, 2, 1, NULL);
    d.grid.gravity = fsi_vec(0, (fsi_real)-gravity, 0);
    d.max_bodies = 1;
    r = fsi_world_init(&s.world, &d);
    f.kind = FSI_SHAPE_BOX; f.dim = 2; f.half = fsi_vec(FSI_R(0.13), FSI_R(0.1), 0);
    if (r >= 0) r = fsi_shape_init(&s.ball, &f);
    b.kind = FSI_RIGID_DYNAMIC; b.shape = &s.ball; b.density = (fsi_real)(1000 * density); b.x = fsi_vec(FSI_R(0.5), FSI_R(0.6), 0); b.v = fsi_vec(0, (fsi_real)-speed, 0);
    if (r >= 0) r = fsi_world_add(&s.world, &b, &id);
    if (r >= 0) r = fsi_grid_set_field(&s.world.grid, FSI_FIELD_PHI, scene_pool, NULL);
    for (i = 0; i < 20 && r >= 0; i++) { r = fsi_world_step(&s.world, (fsi_real)dt, NULL); if (r > worst) worst = r; }
    *finite = isfinite((double)s.world.solids.body[id].x.y) && isfinite((double)fsi_max_abs((int)s.world.grid.faces[1], s.world.grid.u[1]));
    world_drop(&s);
    return r < 0 ? r : worst;
}
TEST bad_numbers_stay_finite(void) {
    static const double c[][4] = {{1e-6, 0.005, 9.81, 0}, {1e6, 0.005, 9.81, 0}, {0.5, 0.5, 9.81, 0}, {0.5, 0.005, 1e6, 0}, {5, 0.01, 9.81, 65}, {1e-6, 0.5, 9.81, 100}};
    int i, finite;
    for (i = 0; i < 6; i++) {
        fsi_result r = extreme(c[i][0], c[i][1], c[i][2], c[i][3], &finite);
        if (!finite || (i >= 3 && r == FSI_OK)) printf("\n  case %d: %s\n", i, fsi_result_text(r));
        ASSERT(finite);
        if (i >= 3) ASSERTm("a step far too long is told", r != FSI_OK);
    }
    PASS();
}

SUITE(trust) {
    RUN_TEST(same_bits_for_any_number_of_threads);
    RUN_TEST(snapshot_into_a_new_object);
    RUN_TEST(rollback_loop);
    RUN_TEST(allocation_failure_at_any_point);
    RUN_TEST(soak_without_growth);
    RUN_TEST(bad_steps_change_nothing);
    RUN_TEST(bad_numbers_stay_finite);
}
GREATEST_MAIN_DEFS();
int main(int argc, char **argv) {
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(trust);
    GREATEST_MAIN_END();
}
