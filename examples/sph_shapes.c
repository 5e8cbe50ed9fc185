/* sph_shapes: a light ball, a heavy cylinder and a torus in a fluid of particles (Akbay et al.
   2018, fig. 16: density ratios 0.05, 2 and 0.7). scene=drop: they fall into a tank; scene=fall: a
   block of fluid falls on them. All three are coupled at once.

       build/sph_shapes --out out
       build/sph_shapes --set scene=fall
       build/sph_shapes --size 29          the 24,389 particles of the paper

   The scene: a tank of 1 m x 1.6 m x 1 m, half a metre of fluid, three bodies whose surfaces carry
   boundary particles, and one coupling for all. swim.h holds the tank and the step.

   Result: fastest speed, iterations a step, particles lost. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "swim.h"

enum {
    BALL,
    CYLINDER,
    TORUS,
    SHAPES,
    CORNERS = 24 /* of the cylinder's circles */
};

/* An empty tank. */
static void make_tank(swim *tank, const ex_args *args) {
    int n = args->size;
    fsi_sph_desc fluid = {
        .capacity = n * n * (n + 1) / 2 + n * n,
        .boundary_capacity = 40 * n * n + 8000,
        .spacing = 1.0 / n,
        .viscosity = 1,
        .gravity = fsi_vec(0, -ex_number(args, "gravity"), 0),
        .dt_max = ex_number(args, "dt"),
    };
    swim_begin(tank, fluid, fsi_vec(1, 1.6, 1), 8);
}

/* A closed cylinder along y: a circle of corners below, one above, and two centres. */
static fsi_surface cylinder(double radius, double half, fsi_real *x, int32_t *index) {
    int below = 2 * CORNERS;
    int above = below + 1;
    fsi_vec_store(x + 3 * below, fsi_vec(0, -half, 0));
    fsi_vec_store(x + 3 * above, fsi_vec(0, half, 0));
    for (int i = 0; i < CORNERS; i++) {
        double angle = 6.283185307 * i / CORNERS;
        double along = radius * cos(angle);
        double across = -radius * sin(angle);
        fsi_vec_store(x + 3 * i, fsi_vec(along, -half, across));
        fsi_vec_store(x + 3 * (i + CORNERS), fsi_vec(along, half, across));

        /* Two triangles of the wall, one of the bottom, one of the top. */
        int j = (i + 1) % CORNERS;
        const int32_t triangles[12] = {
            i,     j, j + CORNERS, i,     j + CORNERS, i + CORNERS,
            below, j, i,           above, i + CORNERS, j + CORNERS,
        };
        memcpy(index + 12 * i, triangles, sizeof triangles);
    }

    return (fsi_surface){
        .dim = 3,
        .closed = 1,
        .vertex_count = 2 * CORNERS + 2,
        .element_count = 4 * CORNERS,
        .x = x,
        .index = index,
    };
}

/* The shapes one after another. */
static void make_shape(swim *tank, int i) {
    fsi_real x[3 * (2 * CORNERS + 2)];
    int32_t index[12 * CORNERS];
    fsi_surface hull = cylinder(0.1, 0.13, x, index);
    const fsi_shape_desc desc[SHAPES] = {
        [BALL].kind = FSI_SHAPE_SPHERE,
        [BALL].radius = 0.14,
        [CYLINDER].kind = FSI_SHAPE_MESH,
        [CYLINDER].surface = &hull,
        [TORUS].kind = FSI_SHAPE_TORUS,
        [TORUS].radius = 0.065,
        [TORUS].length = 0.15,
    };
    ex_need(fsi_shape_init(&tank->shape[i], &desc[i]));
}

/* The vertices of a shape, moved inwards along their normals and to where the body is. */
static void shrink(const fsi_surface *shape, const fsi_rigid_desc *body, double inwards,
                   fsi_real *x) {
    ex_mesh mesh = {
        .vertices = shape->vertex_count,
        .triangles = shape->element_count,
        .x = shape->x,
        .index = shape->index,
    };
    double *normals = (double *)ex_alloc((size_t)mesh.vertices, 3 * sizeof *normals);
    ex_normals(&mesh, normals);
    for (int i = 0; i < mesh.vertices; i++) {
        const double *n = normals + 3 * i;
        fsi_vec3 normal = fsi_vec(n[0], n[1], n[2]);
        fsi_vec3 inside = fsi_vec_mad(fsi_vec_load(shape->x + 3 * i), normal, -inwards);
        fsi_vec_store(x + 3 * i, fsi_vec_add(body->x, fsi_quat_rotate(body->q, inside)));
    }

    free(normals);
}

/* Shape i as a body, a little apart from the others and tilted. */
static void add_shape(swim *tank, int i, double height, double density) {
    static const double place[SHAPES][2] = {{0.25, 0.3}, {0.7, 0.25}, {0.55, 0.7}};
    static const double tilt[SHAPES] = {0, 0.9, 0.4};
    make_shape(tank, i);
    fsi_rigid_desc body = {
        .density = 1000 * density,
        .x = fsi_vec(place[i][0], height + 0.02 * i, place[i][1]),
        .q = fsi_quat_from_rotation(fsi_vec(tilt[i], 0, 0)),
        .friction = 0.2,
    };

    /* Its boundary particles lie half a spacing inside its surface. */
    fsi_surface skin = tank->shape[i].surface;
    fsi_real *x = (fsi_real *)ex_alloc((size_t)skin.vertex_count, 3 * sizeof *x);
    shrink(&skin, &body, tank->sph.desc.spacing / 2, x);
    skin.x = x;
    skin.v = NULL;
    swim_add(tank, body, &skin);
    free(x);
}

/* Tank, fluid, bodies and coupling. Either the bodies or the fluid start above the others. */
static void make_scene(swim *tank, const ex_args *args, const double *density) {
    int fall = ex_is(args, "scene", "fall");
    make_tank(tank, args);
    double bottom = fall ? 0.6 : 0;
    uint32_t seed = (uint32_t)ex_number(args, "seed");
    swim_fill(tank, bottom, fall ? 1.1 : 0.5, seed, 0.01);
    for (int i = 0; i < SHAPES; i++)
        add_shape(tank, i, fall ? 0.2 : 0.72, density[i]);

    fsi_sph_rigid_desc coupling = {
        .scheme = swim_scheme(args),
        .omega = ex_number(args, "omega"),
        .tolerance = ex_number(args, "tolerance"),
        .max_iterations = 100,
    };
    swim_couple(tank, coupling);
}

/* The densities over the fluid's: one for all, or one each. */
static void read_densities(const ex_args *args, double *density) {
    int given = ex_list(args, "density", density, SHAPES);
    if (given != 1 && given != SHAPES)
        ex_die("sph_shapes: density takes one or three numbers");
    for (int i = given; i < SHAPES; i++)
        density[i] = density[0];
}

/* ---- results and pictures */
static void print_results(const swim *tank) {
    double height[SHAPES];
    for (int i = 0; i < SHAPES; i++)
        height[i] = swim_position(tank, i).y;

    ex_result("particles", "%d", tank->particles);
    ex_result("mean_iterations", "%.3f", swim_mean_iterations(tank));
    ex_result("max_iterations", "%d", tank->most_iterations);
    ex_result("capped", "%d", tank->capped);
    ex_result("max_density_error", "%.5f", tank->error);
    ex_result("peak_speed", "%.3f", tank->peak);
    ex_result("height", "%.3f,%.3f,%.3f", height[BALL], height[CYLINDER], height[TORUS]);
    ex_result("lost", "%ld", swim_lost(tank));
    ex_result("momentum_error", "%.3g", tank->momentum);
}

static void draw(ex_args *args, const swim *tank) {
    const ex_color color[SHAPES] = {
        [BALL] = ex_rgb(225, 120, 50),
        [CYLINDER] = ex_rgb(110, 115, 125),
        [TORUS] = ex_rgb(200, 60, 90),
    };
    ex_image image = ex_image_make(720, 520);
    ex_camera camera = ex_camera_make(1.9, 1.5, 2.5, 0.5, 0.42, 0.5, 1, 33);
    double lo[3] = {0, 0, 0};
    double hi[3] = {tank->corner.x, tank->corner.y, tank->corner.z};
    double floor_lo[3] = {-1.2, 0, -1.2};
    double floor_hi[3] = {2.2, 0, 2.2};

    ex_floor(&image, &camera, floor_lo, floor_hi, 1, -0.003, 0.25);
    for (int i = 0; i < SHAPES; i++)
        swim_draw_body(&image, &camera, tank, i, color[i]);
    water_draw(&image, &camera, &tank->sph, lo, hi);
    ex_box3(&image, &camera, lo, hi, ex_grey(110));
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "sph_shapes",
    .what = "Ball, cylinder and torus in a fluid of particles.",
    .size = 18,
    .frames = 50,
    .keys =
        {
            EX_NUMBER("density", "", "ball, cylinder, torus over fluid", "0.05,2,0.7",
                      "1e-3 to 100"),
            EX_WORD("scheme", "coupling", "xpm", "weak,p,aitken,xpm"),
            EX_WORD("scene", "what falls", "drop", "drop,fall"),
            EX_NUMBER("seed", "", "disturbs the particles by 1 % of their spacing", "1",
                      "0 to 1e6"),
            EX_NUMBER("omega", "", "under-relaxation of p", "0.05", "1e-3 to 1"),
            EX_NUMBER("tolerance", "", "of the motion, over the particle radius", "0.1",
                      "1e-6 to 10"),
            EX_NUMBER("dt", "s", "largest step", "0.002", "1e-5 to 0.05"),
            EX_NUMBER("gravity", "m/s^2", "downwards", "9.81", "0 to 100"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    double density[SHAPES];
    read_densities(&args, density);
    static swim tank;
    make_scene(&tank, &args, density);

    for (int frame = 0; frame < args.frames && tank.stable; frame++) {
        double end = tank.time + 0.03;
        while (swim_before(&tank, end))
            swim_step(&tank, swim_dt(&tank, end));

        if (args.out)
            draw(&args, &tank);
        ex_progress(&args, frame);
    }

    print_results(&tank);
    swim_end(&tank);
    return ex_end(&args, tank.steps, tank.stable);
}
