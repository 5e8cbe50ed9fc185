/* drops: the small calls around particles, soft nodes and rays. A drop is added by hand and falls
   over a lid that is drawn away before it arrives; a jelly cube hangs by its upper nodes until they
   are let go; rays look through a ball that swells.

       build/drops --out out
       build/drops --set lid=1   the lid stays: the drop does not arrive

   Result: each value beside the one that school physics expects. */
#define FSI_IMPLEMENTATION
#include "fsi_sph.h"
#include "fsi_solids.h"
#include "common.h"

static const double gravity = 9.81; /* m/s^2 */
static const double spacing = 0.02; /* of particles, m */
static const double seconds = 0.4;  /* of the whole run */

enum {
    LID = 40 /* boundary particles of the lid */
};

/* ---- a drop of particles over a lid, in 2D */
/* An empty space with memory for a drop of side x side particles and for the lid. */
static void make_space(fsi_sph *sph, int side) {
    fsi_sph_desc desc = {
        .dim = 2,
        .capacity = side * side,
        .boundary_capacity = LID,
        .solver = FSI_SPH_DFSPH,
        .spacing = spacing,
        .density = 1000,
        .gravity = fsi_vec(0, -gravity, 0),
        .dt_max = 0.002,
    };
    ex_need(fsi_sph_init(sph, &desc));
}

/* Particles may be added anywhere; here they make a square above the lid. */
static void add_drop(fsi_sph *sph, int side) {
    int count = side * side;
    fsi_real *x = ex_alloc(3 * (size_t)count, sizeof *x);
    for (int i = 0; i < count; i++) {
        double across = (i % side - 0.5 * (side - 1)) * spacing;
        double up = (i / side + 0.5) * spacing;
        fsi_vec_store(x + 3 * i, fsi_vec(across, 0.4 + up, 0));
    }
    ex_need(fsi_sph_add(sph, count, x, NULL, NULL));
    free(x);
}

/* A row of boundary particles around a place on the x axis. */
static void place_lid(fsi_real x[3 * LID], double centre) {
    for (int i = 0; i < LID; i++) {
        double along = (i - 0.5 * (LID - 1)) * spacing;
        fsi_vec_store(x + 3 * i, fsi_vec(centre + along, 0, 0));
    }
}

static int add_lid(fsi_sph *sph) {
    fsi_real x[3 * LID];
    int lid;
    place_lid(x, 0);
    ex_need(fsi_sph_add_boundary(sph, LID, x, fsi_vec(0, 0, 0), 1, &lid));
    return lid;
}

/* A lid that is far away holds nothing. */
static void draw_lid_away(fsi_sph *sph, int lid) {
    fsi_real x[3 * LID];
    place_lid(x, 100);
    ex_need(fsi_sph_object_set(sph, lid, x, NULL));
}

/* ---- a cube of jelly that hangs by its upper nodes */
static const double ceiling = 0.6; /* height of those nodes, m */

static void hang_cube(fsi_tled *cube) {
    fsi_mesh mesh;
    fsi_vec3 lo = fsi_vec(0.5, ceiling - 0.2, 0);
    fsi_vec3 hi = fsi_vec(0.7, ceiling, 0.2);
    ex_need(fsi_mesh_box(&mesh, lo, hi, 4, 4, 4, 1, NULL));
    fsi_tled_desc desc = {
        .nodes = mesh.vertex_count,
        .tets = mesh.tet_count,
        .x = mesh.x,
        .tet = mesh.tet,
        .density = 1000,
        .young = 5e4,
        .poisson = 0.3,
        .gravity = fsi_vec(0, -gravity, 0),
    };
    ex_need(fsi_tled_init(cube, &desc));
    fsi_mesh_free(&mesh);

    for (int i = 0; i < cube->nodes; i++)
        if (cube->x0[3 * i + 1] > ceiling - 0.01)
            ex_need(fsi_tled_fix(cube, i, fsi_vec(0, 0, 0)));
}

static void let_go(fsi_tled *cube) {
    for (int i = 0; i < cube->nodes; i++)
        if (cube->inverse_mass[i] == 0)
            ex_need(fsi_tled_unfix(cube, i));
}

/* Explicit dynamics takes equal steps no longer than the advised one. */
static void advance_cube(fsi_tled *cube, double duration) {
    int steps = (int)ceil(duration / fsi_tled_max_dt(cube));
    for (int i = 0; i < steps; i++)
        ex_try(fsi_tled_step(cube, (fsi_real)(duration / steps)));
}

/* Upward momentum, N s. */
static double cube_momentum(const fsi_tled *cube) {
    double momentum[3];
    fsi_tled_totals(cube, NULL, NULL, momentum, NULL);
    return momentum[1];
}

/* ---- rays through a ball that swells */
typedef struct swelling {
    fsi_mesh ball;
    fsi_bvh tree;
    fsi_real scale; /* of the mesh now */
} swelling;

static void make_ball(swelling *s) {
    ex_need(fsi_mesh_sphere(&s->ball, fsi_vec(0, 0, 0), 1, 8, NULL));
    ex_need(fsi_bvh_init(&s->tree, s->ball.element_count, NULL));
    fsi_surface surface = fsi_mesh_surface(&s->ball);
    ex_need(fsi_bvh_build(&s->tree, &surface));
    s->scale = 1;
}

/* Vertices move and the triangles stay: the tree is fitted again, which is cheaper than a new one.
 */
static void swell(swelling *s, double scale) {
    size_t numbers = 3 * (size_t)s->ball.vertex_count;
    fsi_scale(numbers, (fsi_real)scale / s->scale, s->ball.x);
    s->scale = (fsi_real)scale;
    fsi_surface surface = fsi_mesh_surface(&s->ball);
    ex_try(fsi_bvh_refit(&s->tree, &surface));
}

/* A ray through the centre goes in and comes out again. Distance between the two, m. */
static double measure_chord(const swelling *s, int *hits) {
    fsi_hit hit[8];
    fsi_vec3 from = fsi_vec(-5, -1, -2);
    fsi_vec3 to = fsi_vec(5, 1, 2);
    *hits = fsi_bvh_all_hits(&s->tree, from, to, hit, 8);
    if (*hits != 2)
        return 0;
    return (double)fsi_vec_length(fsi_vec_sub(hit[1].point, hit[0].point));
}

/* ---- the run */
typedef struct scene {
    fsi_sph sph;
    int lid;
    int lid_stays;
    fsi_tled cube;
    double hanging; /* momentum of the cube when it was let go, N s */
    swelling ball;
    double first_chord; /* before the ball swells, m */
    double chord_error; /* largest, relative */
    int odd_rays;       /* rays that met the ball other than twice */
} scene;

static void make_scene(scene *s, const ex_args *args) {
    make_space(&s->sph, args->size);
    add_drop(&s->sph, args->size);
    s->lid = add_lid(&s->sph);
    s->lid_stays = ex_whole(args, "lid");
    hang_cube(&s->cube);
    make_ball(&s->ball);
    int hits;
    s->first_chord = measure_chord(&s->ball, &hits);
}

/* One frame; part says how much of the run is over at its end. */
static void advance(scene *s, double duration, double part) {
    int steps;
    ex_try(fsi_sph_advance(&s->sph, (fsi_real)duration, 0, &steps, NULL));
    advance_cube(&s->cube, duration);

    double scale = 1 + part;
    int hits;
    swell(&s->ball, scale);
    double chord = measure_chord(&s->ball, &hits);
    s->chord_error = fmax(s->chord_error, fabs(chord / s->first_chord / scale - 1));
    s->odd_rays += hits != 2;
}

/* In the middle of the run the lid goes and the cube is let go. */
static void change(scene *s) {
    if (!s->lid_stays)
        draw_lid_away(&s->sph, s->lid);
    s->hanging = cube_momentum(&s->cube);
    let_go(&s->cube);
}

static void free_scene(scene *s) {
    fsi_sph_free(&s->sph);
    fsi_tled_free(&s->cube);
    fsi_bvh_free(&s->ball.tree);
    fsi_mesh_free(&s->ball.ball);
}

static void print_results(const scene *s, double falling) {
    double mass;
    double momentum[3];
    fsi_sph_totals(&s->sph, &mass, momentum, NULL, NULL);
    ex_result("speed", "%.5f", momentum[1] / mass);
    if (!s->lid_stays)
        ex_result("expected_speed", "%.5f", -gravity * s->sph.now.time);

    /* The cube weighs 8 kg and falls from the moment its nodes are free. */
    ex_result("cube_momentum", "%.5f", cube_momentum(&s->cube) - s->hanging);
    ex_result("expected_cube_momentum", "%.5f", -8 * gravity * falling);

    ex_result("chord_error", "%.2e", s->chord_error);
    ex_result("expected_chord_error", "0");
    ex_result("odd_rays", "%d", s->odd_rays);
    ex_result("expected_odd_rays", "0");

    /* All memory over the room for particles, and the part of it that a save would copy. */
    double saved = (double)fsi_sph_state_size(&s->sph) / s->sph.desc.capacity;
    ex_result("bytes_per_particle", "%.0f", fsi_sph_bytes_per_particle(&s->sph));
    ex_result("bytes_saved", "%.0f", saved);
}

/* ---- pictures */
static void draw(ex_args *args, const scene *s) {
    ex_image image = ex_image_make(480, 480);
    ex_view view = ex_view_make(-0.6, -0.6, 0.9, 0.9, 0, 0, 480, 480);
    for (int i = 0; i < s->sph.now.count; i++) {
        double x = ex_px(&view, s->sph.x[i]);
        double y = ex_py(&view, s->sph.y[i]);
        ex_disk(&image, x, y, 3, ex_rgb(60, 120, 200));
    }
    for (int i = 0; i < s->sph.now.boundary_count; i++) {
        double x = ex_px(&view, s->sph.bx[3 * i]);
        double y = ex_py(&view, s->sph.bx[3 * i + 1]);
        ex_disk(&image, x, y, 3, ex_grey(90));
    }
    for (int i = 0; i < s->cube.nodes; i++) {
        double x = ex_px(&view, s->cube.x[3 * i]);
        double y = ex_py(&view, s->cube.x[3 * i + 1]);
        ex_disk(&image, x, y, 4, ex_rgb(200, 90, 60));
    }
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "drops",
    .what = "A drop of particles (--size along its side), a jelly cube, and rays through a ball.",
    .size = 6,
    .frames = 40,
    .keys = {EX_NUMBER("lid", "", "1 = the lid stays under the drop", "0", "0 to 1")},
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    scene s = {0};
    make_scene(&s, &args);

    double duration = seconds / args.frames;
    int middle = args.frames / 2;
    int frame;
    for (frame = 0; frame < args.frames && ex_fine(); frame++) {
        if (frame == middle)
            change(&s);
        advance(&s, duration, (frame + 1.0) / args.frames);
        ex_progress(&args, frame);
        if (args.out)
            draw(&args, &s);
    }

    print_results(&s, duration * (frame - middle));
    free_scene(&s);
    return ex_end(&args, frame, ex_fine());
}
