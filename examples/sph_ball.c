/* sph_ball: a light ball and particles of fluid (Akbay et al. 2018, fig. 15, 17). scene=drop: it
   falls onto the surface of a tank. scene=fall: a block of fluid falls on the ball near the floor,
   the hard case. The usual exchange of boundary particles (scheme=weak) loses light balls; xpm
   repeats the step until both sides agree.

       build/sph_ball --out out
       build/sph_ball --set scene=fall --set density=0.01
       build/sph_ball --set scene=fall --set scheme=weak

   The scene: a tank, one block of fluid in it, one ball whose surface carries boundary particles,
   and the coupling between fluid and ball. swim.h holds the tank and the step.

   Result: fastest speed, iterations a step, particles lost. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "swim.h"

static const double radius = 0.2, depth = 0.7; /* of the ball and of the block of fluid: m */

/* An empty tank as deep as the block of fluid and twice as long, plus one particle: in the middle
   is a particle, not a gap. Size 14 makes 14 x 14 x 29 = 5684 particles. */
static void make_tank(swim *tank, const ex_args *args) {
    int n = args->size;
    double h = depth / n;
    fsi_sph_desc fluid = {
        .capacity = n * n * (2 * n + 1),
        .boundary_capacity = 60 * n * n + 4000,
        .spacing = h,
        .gravity = fsi_vec(0, -ex_number(args, "gravity"), 0),
        .viscosity = ex_number(args, "viscosity"),
        .dt_max = ex_number(args, "dt"),
    };
    swim_begin(tank, fluid, fsi_vec((2 * n + 1) * h, 2.2, n * h), 0);
}

/* The ball, with boundary particles half a spacing inside its surface. */
static void add_ball(swim *tank, double height, double density) {
    fsi_shape_desc round = {
        .kind = FSI_SHAPE_SPHERE,
        .radius = radius,
    };
    ex_need(fsi_shape_init(&tank->shape[0], &round));
    fsi_rigid_desc ball = {
        .density = 1000 * density,
        .x = fsi_vec(tank->corner.x / 2, height, tank->corner.z / 2),
    };

    fsi_mesh mesh;
    ex_need(fsi_mesh_sphere(&mesh, ball.x, radius - tank->sph.desc.spacing / 2, 6, NULL));
    fsi_surface skin = fsi_mesh_surface(&mesh);
    swim_add(tank, ball, &skin);
    fsi_mesh_free(&mesh);
}

/* Tank, fluid, ball and coupling. Either the ball or the fluid starts above the other. */
static void make_scene(swim *tank, const ex_args *args) {
    int fall = ex_is(args, "scene", "fall");
    double bottom = fall ? ex_number(args, "height") : 0;
    make_tank(tank, args);
    swim_fill(tank, bottom, bottom + depth, (uint32_t)ex_number(args, "seed"), 0.01);
    add_ball(tank, fall ? radius + 0.05 : depth + radius + 0.1, ex_number(args, "density"));

    fsi_sph_rigid_desc coupling = {
        .scheme = swim_scheme(args),
        .omega = ex_number(args, "omega"),
        .tolerance = ex_number(args, "tolerance"),
        .max_iterations = 200,
    };
    swim_couple(tank, coupling);
}

/* ---- results: iterations while it is hard */
enum {
    WINDOW = 20 /* steps */
};

typedef struct hardship {
    int wet_steps; /* with a wet ball */
    double wet_iterations;
    int last[WINDOW]; /* iterations of the last steps, in a ring */
    double window;    /* their sum */
    double hardest;   /* the largest mean over a window */
} hardship;

/* Notes the last step. */
static void note(hardship *hard, const swim *tank) {
    int iterations = tank->last_iterations;
    int *oldest = &hard->last[(tank->steps - 1) % WINDOW];
    hard->window += iterations - *oldest;
    hard->hardest = fmax(hard->hardest, hard->window / WINDOW);
    *oldest = iterations;

    int wet = tank->sph.now.object[tank->object[0]].contact > 20;
    if (wet) {
        hard->wet_steps++;
        hard->wet_iterations += iterations;
    }
}

static void print_results(const swim *tank, const hardship *hard) {
    int wet_steps = hard->wet_steps > 0 ? hard->wet_steps : 1;
    ex_result("particles", "%d", tank->particles);
    ex_result("mean_iterations", "%.3f", swim_mean_iterations(tank));
    ex_result("wet_iterations", "%.3f", hard->wet_iterations / wet_steps);
    ex_result("hard_iterations", "%.3f", hard->hardest);
    ex_result("max_iterations", "%d", tank->most_iterations);
    ex_result("capped", "%d", tank->capped);
    ex_result("max_density_error", "%.5f", tank->error);
    ex_result("peak_speed", "%.3f", tank->peak);
    ex_result("height", "%.4f", swim_position(tank, 0).y);
    ex_result("lost", "%ld", swim_lost(tank));
    ex_result("momentum_error", "%.3g", tank->momentum);
}

/* ---- pictures */
static void draw(ex_args *args, const swim *tank) {
    ex_image image = ex_image_make(640, 480);
    double lo[3] = {0, 0, 0};
    double hi[3] = {tank->corner.x, tank->corner.y, tank->corner.z};
    ex_camera camera = ex_camera_make(hi[0] / 2, 1.05, 4.1, hi[0] / 2, 0.75, hi[2] / 2, 1, 34);

    ex_floor(&image, &camera, lo, hi, 1, -0.002, 0.2);
    swim_draw_body(&image, &camera, tank, 0, ex_rgb(225, 120, 50));
    water_draw(&image, &camera, &tank->sph, lo, hi);
    ex_box3(&image, &camera, lo, hi, ex_grey(120));
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "sph_ball",
    .what = "A light rigid ball in a fluid of particles.",
    .size = 14,
    .frames = 30,
    .keys =
        {
            EX_NUMBER("density", "", "ball over fluid", "0.05", "1e-3 to 100"),
            EX_WORD("scheme", "coupling", "xpm", "weak,p,aitken,xpm"),
            EX_WORD("scene", "what falls", "fall", "drop,fall"),
            EX_NUMBER("seed", "", "disturbs the particles by 1 % of their spacing", "1",
                      "0 to 1e6"),
            EX_NUMBER("omega", "", "under-relaxation of p", "0.05", "1e-3 to 1"),
            EX_NUMBER("tolerance", "", "of the motion, over the particle radius", "0.1",
                      "1e-6 to 10"),
            EX_NUMBER("dt", "s", "largest step", "0.002", "1e-5 to 0.05"),
            EX_NUMBER("height", "m", "fall: of the fluid's lower side above the floor", "0.5",
                      "0.46 to 1.4"),
            EX_NUMBER("viscosity", "Pa s", "of the fluid", "1", "0 to 100"),
            EX_NUMBER("gravity", "m/s^2", "downwards", "9.81", "0 to 100"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    static swim tank;
    make_scene(&tank, &args);

    hardship hard = {0};
    for (int frame = 0; frame < args.frames && tank.stable; frame++) {
        double end = tank.time + 0.02;
        while (swim_before(&tank, end)) {
            swim_step(&tank, swim_dt(&tank, end));
            note(&hard, &tank);
        }

        if (args.out)
            draw(&args, &tank);
        ex_progress(&args, frame);
    }

    print_results(&tank, &hard);
    int stable = tank.stable && tank.peak < 10;
    swim_end(&tank);
    return ex_end(&args, tank.steps, stable);
}
