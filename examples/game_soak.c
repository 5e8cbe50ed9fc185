/* game_soak: a pool as a game uses it, for as long as one likes. Bodies of many densities are
   pushed at random, now and then one is put somewhere else, and a paddle moves to and fro.

       build/game_soak --set steps=2000
       build/game_soak --set dim=3 --set seed=4 --set paddle=0

   Nothing may burst, leave the tank or grow in memory. Steps are of 1/120 s (3D: 1/60 s).

   Result: the largest speed of a body; the largest kinetic energy of fluid and bodies together, J;
   the worst relative change of the liquid's volume; bytes more than after the first hundred steps;
   bodies outside the tank at the end. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

enum {
    SHAPES = 4,
    MOST = 40
};

typedef struct scene {
    fsi_world world;
    fsi_shape shape[SHAPES];
    fsi_shape paddle_shape;
    int paddle; /* -1: there is none */
    int body[MOST];
    int bodies;
    double width, depth; /* of the tank, m */
    uint64_t random;
} scene;

/* Bytes that the library holds. */
static size_t held_bytes;

static void *take(size_t size, size_t align, void *user) {
    void *memory = NULL;
    (void)user;
    if (posix_memalign(&memory, align < 64 ? 64 : align, size))
        return NULL;
    held_bytes += size;
    return memory;
}

static void give(void *memory, size_t size, void *user) {
    (void)user;
    if (memory)
        held_bytes -= size;
    free(memory);
}

/* A random number between two. */
static double between(scene *s, double low, double high) {
    uint64_t z = s->random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return low + (high - low) * (double)(z >> 11) / 9007199254740992.0;
}

static fsi_real water(fsi_vec3 at, void *user) {
    (void)user;
    return at.y - 1;
}

/* A place in the part of the tank that the paddle does not reach. */
static fsi_vec3 somewhere(scene *s) {
    double x = between(s, 0.8, s->width - 0.3);
    double y = between(s, 0.3, 1.6);
    return fsi_vec(x, y, s->depth > 0 ? between(s, 0.3, s->depth - 0.3) : 0);
}

static void make_tank(scene *s, int dim) {
    fsi_world_desc desc = {
        .grid =
            {
                .nx = dim == 2 ? 96 : 32,
                .ny = dim == 2 ? 64 : 32,
                .nz = dim == 2 ? 1 : 32,
                .h = dim == 2 ? 3.0 / 96 : 1.0 / 16,
                .rho = 1000,
                .gravity = fsi_vec(0, -9.81, 0),
                .liquid = 1,
                .side[FSI_TOP].kind = FSI_SIDE_OPEN,
                .allocator = {.alloc_fn = take, .free_fn = give},
            },
        .max_bodies = MOST + 1,
    };
    ex_need(fsi_world_init(&s->world, &desc));
    ex_need(fsi_grid_set_field(&s->world.grid, FSI_FIELD_PHI, water, NULL));
    s->width = dim == 2 ? 3 : 2;
    s->depth = dim == 2 ? 0 : 2;
}

/* Boxes and balls of 50 to 5,000 kg/m^3, and the paddle. */
static void add_bodies(scene *s, int dim, int bodies, int paddle) {
    static const double density[] = {50, 300, 700, 1200, 5000};
    for (int i = 0; i < SHAPES; i++) {
        fsi_shape_desc form = {.kind = i % 2 ? FSI_SHAPE_SPHERE : FSI_SHAPE_BOX, .dim = dim};
        form.half = fsi_vec(0.08 + 0.03 * i, 0.08, dim == 3 ? 0.1 : 0);
        form.radius = 0.08 + 0.02 * i;
        ex_need(fsi_shape_init(&s->shape[i], &form));
    }
    fsi_shape_desc plate = {.kind = FSI_SHAPE_BOX, .dim = dim};
    plate.half = fsi_vec(0.06, 0.5, dim == 3 ? 0.6 : 0);
    ex_need(fsi_shape_init(&s->paddle_shape, &plate));
    s->paddle = -1;
    if (paddle) {
        fsi_rigid_desc desc = {.kind = FSI_RIGID_SCRIPTED, .shape = &s->paddle_shape};
        desc.x = fsi_vec(0.4, 0.6, s->depth / 2);
        s->paddle = fsi_world_add(&s->world, &desc);
    }
    for (int i = 0; i < bodies && i < MOST; i++) {
        fsi_rigid_desc desc = {
            .kind = FSI_RIGID_DYNAMIC,
            .shape = &s->shape[i % SHAPES],
            .density = density[i % 5],
            .friction = 0.4,
            .x = somewhere(s),
        };
        s->body[s->bodies++] = fsi_world_add(&s->world, &desc);
    }
}

/* What players do: pushes, and now and then a body that is put elsewhere. */
static void play(scene *s, int step) {
    fsi_solids *solids = &s->world.solids;
    if (step % 14 == 0 && s->bodies) {
        int id = s->body[(int)between(s, 0, s->bodies)];
        double mass = solids->body[id].mass;
        double side = between(s, -3, 3) * mass;
        fsi_vec3 push = fsi_vec(side, between(s, -3, 6) * mass, 0);
        if (s->depth > 0)
            push.z = between(s, -1, 1) * mass;
        ex_need(fsi_solids_impulse(solids, id, solids->body[id].x, push));
    }
    if (step % 194 == 0 && s->bodies) {
        int id = s->body[(int)between(s, 0, s->bodies)];
        ex_need(fsi_solids_set_pose(solids, id, somewhere(s), solids->body[id].q));
    }
}

static int is_outside(const scene *s, fsi_vec3 x) {
    int beside = x.x < -0.1 || x.x > s->width + 0.1;
    int before = s->depth > 0 && (x.z < -0.1 || x.z > s->depth + 0.1);
    return beside || before || x.y < -0.1;
}

static const ex_about about = {
    .name = "game_soak",
    .what = "A pool as a game uses it, for thousands of steps.",
    .size = 96,
    .frames = 0,
    .keys =
        {
            EX_NUMBER("steps", "", "to go", "2000", "1 to 1000000"),
            EX_NUMBER("seed", "", "of the random pushes", "1", "0 to 1000000"),
            EX_NUMBER("bodies", "", "in the pool", "20", "0 to 40"),
            EX_NUMBER("dim", "", "2 or 3", "2", "2 to 3"),
            EX_NUMBER("paddle", "", "1: it moves to and fro", "1", "0 to 1"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    int dim = ex_whole(&args, "dim");
    int steps = ex_whole(&args, "steps");
    double dt = dim == 2 ? 1.0 / 120 : 1.0 / 60;
    static scene s;
    s.random = (uint64_t)ex_whole(&args, "seed") + 1;
    make_tank(&s, dim);
    add_bodies(&s, dim, ex_whole(&args, "bodies"), ex_whole(&args, "paddle"));

    double peak = 0, energy = 0, volume = 0, worst = 0;
    size_t bytes = 0;
    int step = 0;
    for (; step < steps && ex_fine(); step++) {
        fsi_solids *solids = &s.world.solids;
        play(&s, step);
        if (s.paddle >= 0) {
            double x = 0.4 + 0.25 * sin(1.7 * dt * (step + 1));
            fsi_vec3 to = fsi_vec(x, 0.6, s.depth / 2);
            ex_need(fsi_solids_script(solids, s.paddle, to, solids->body[s.paddle].q, dt));
        }
        fsi_report report = {0};
        ex_try(fsi_world_step(&s.world, dt, &report));

        energy = fmax(energy, report.energy);
        for (int i = 0; i < s.bodies; i++)
            peak = fmax(peak, (double)fsi_vec_length(solids->body[s.body[i]].v));
        double now = s.world.grid.stats.liquid_volume;
        if (step == 20)
            volume = now;
        if (step > 20)
            worst = fmax(worst, fabs(now / volume - 1));
        if (step == 100)
            bytes = held_bytes;
    }

    int lost = 0;
    for (int i = 0; i < s.bodies; i++)
        lost += is_outside(&s, fsi_world_position(&s.world, s.body[i]));
    ex_result("peak_speed", "%.4f", peak);
    ex_result("energy_peak", "%.2f", energy);
    ex_result("volume_error", "%.6f", worst);
    ex_result("bytes_grown", "%ld", step > 100 ? (long)held_bytes - (long)bytes : 0L);
    ex_result("lost", "%d", lost);
    fsi_world_free(&s.world);
    for (int i = 0; i < SHAPES; i++)
        fsi_shape_free(&s.shape[i]);
    fsi_shape_free(&s.paddle_shape);
    return ex_end(&args, step, ex_fine());
}
