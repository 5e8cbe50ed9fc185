/* sph_ball: a light ball and particles of fluid (Akbay et al. 2018, fig. 15, 17). scene=drop: it
   falls onto the surface of a tank. scene=fall: a block of fluid falls on the ball near the floor,
   the hard case. The usual exchange of boundary particles (scheme=weak) loses light balls; xpm
   repeats the step until both sides agree.

       build/sph_ball --out out
       build/sph_ball --set scene=fall --set density=0.01
       build/sph_ball --set scene=fall --set scheme=weak

   Result: fastest speed, iterations a step, particles lost. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "water.h"

static void draw(ex_args *args, const fsi_sph *sph, const fsi_rigid *ball, const double *hi) {
    ex_image image = ex_image_make(640, 480);
    ex_camera camera = ex_camera_make(hi[0] * 0.5, 1.05, 4.1, hi[0] / 2, 0.75, hi[2] / 2, 1, 34);
    double lo[3] = {0, 0, 0};
    ex_floor(&image, &camera, lo, hi, 1, -0.002, 0.2);
    fsi_mesh ball_mesh;
    if (fsi_mesh_sphere(&ball_mesh, ball->x, 0.2, 12, NULL) == FSI_OK) {
        fsi_surface surface = fsi_mesh_surface(&ball_mesh);
        ex_draw_surface3(&image, &camera, &surface, ex_rgb(225, 120, 50));
    }

    fsi_mesh_free(&ball_mesh);
    water_draw(&image, &camera, sph, lo, hi);
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

    fsi_report report;
    int stable = 1;
    int worst = 0;
    int capped = 0;
    int hard = 0;
    int last[20] = {0};
    long steps = 0;
    long lost = 0;
    double hi[3];
    double total = 0;
    double peak = 0;
    double density = 0;
    double momentum = 0;
    double hard_total = 0;
    double window = 0;
    double hardest = 0;
    fsi_real r = 0.2;

    ex_begin(&args, argc, argv, &about);
    double h = 0.7 / args.size;
    fsi_real fall = ex_is(&args, "scene", "fall") ? ex_number(&args, "height") : 0;

    /* 14 x 14 x 29 = 5684 particles */
    hi[0] = (2 * args.size + 1) * h;
    hi[1] = 2.2;
    hi[2] = args.size * h;
    int n = args.size * args.size * (2 * args.size + 1);

    fsi_sph_desc desc = {
        .capacity = n,
        .boundary_capacity = 60 * args.size * args.size + 4000,
        .solver = FSI_SPH_DFSPH,
        .spacing = h,
        .density = 1000,
        .gravity = fsi_vec(0, -ex_number(&args, "gravity"), 0),
        .viscosity = ex_number(&args, "viscosity"),
        .dt_max = ex_number(&args, "dt"),
        /* always five: the fluid's answer changes smoothly with the ball's motion */
        .density_error = 1e-12,
        .divergence_error = 1e-12,
        .max_iterations = 5,
    };

    fsi_solids_desc given = {
        .dim = 3,
        .max_bodies = 2,
        .gravity = desc.gravity,
        .substeps = 1,
    };

    fsi_sph sph;

    fsi_solids world;
    ex_need(fsi_sph_init(&sph, &desc));
    ex_need(fsi_solids_init(&world, &given));

    fsi_shape_desc sd = {
        .kind = FSI_SHAPE_ROOM,
        .half = fsi_vec(hi[0] / 2, hi[1] / 2, hi[2] / 2),
    };

    fsi_shape room;
    ex_need(fsi_shape_init(&room, &sd));

    fsi_rigid_desc options = {
        .shape = &room,
        .x = sd.half,
        .kind = FSI_RIGID_FIXED,
    };

    fsi_solids_add(&world, &options, NULL);
    sd.kind = FSI_SHAPE_SPHERE;
    sd.radius = r;

    fsi_shape ball;
    ex_need(fsi_shape_init(&ball, &sd));
    options.shape = &ball;
    options.kind = FSI_RIGID_DYNAMIC;
    options.density = 1000 * ex_number(&args, "density");
    options.x = fsi_vec(hi[0] / 2, fall > 0 ? r + 0.05 : 0.7 + r + 0.1, hi[2] / 2);
    int body;
    fsi_solids_add(&world, &options, &body);
    fsi_sph_add_block(&sph, fsi_vec(0, fall, 0), fsi_vec(hi[0], fall + 0.7, hi[2]),
                      fsi_vec(0, 0, 0), &n);
    water_disturb(&sph, (uint32_t)ex_number(&args, "seed"), 0.01 * h);
    fsi_sph_add_box_walls(&sph, fsi_vec(0, 0, 0), fsi_vec(hi[0], hi[1], hi[2]), 0, NULL);

    /* particles sit half a spacing inside the surface */
    fsi_mesh mesh;
    ex_need(fsi_mesh_sphere(&mesh, options.x, r - h / 2, 6, NULL));
    fsi_surface skin = fsi_mesh_surface(&mesh);
    int object;
    ex_need(fsi_sph_add_surface(&sph, &skin, options.x, 1, &object));

    fsi_sph_rigid_desc d = {
        .sph = &sph,
        .world = &world,
        .count = 1,
        .body = &body,
        .object = &object,
        .scheme = ex_is(&args, "scheme", "weak")     ? FSI_SPH_WEAK
                  : ex_is(&args, "scheme", "p")      ? FSI_SPH_RELAXED
                  : ex_is(&args, "scheme", "aitken") ? FSI_SPH_AITKEN
                                                     : FSI_SPH_XPM,
        .omega = ex_number(&args, "omega"),
        .tolerance = ex_number(&args, "tolerance"),
        .max_iterations = 200,
    };

    fsi_sph_rigid couple;
    ex_need(fsi_sph_rigid_init(&couple, &d));
    int frame;
    double time;

    for (frame = 0, time = 0; frame < args.frames && stable; frame++) {
        for (double start = time; time < start + 0.02 - 1e-9 && stable; steps++) {
            /* equal steps, no sliver at the end */
            double rest = start + 0.02 - time;
            double dt = rest / ceil(rest / fsi_sph_max_dt(&sph) - 1e-6);
            fsi_result result = ex_try(fsi_sph_rigid_step(&couple, dt, &report));
            double speed = fsi_vec_length(world.body[body].v);
            stable = result >= 0 && speed < 100;
            capped += result == FSI_NOT_CONVERGED || result == FSI_STALLED;
            time += dt;
            total += report.iterations;
            window += report.iterations - last[steps % 20];
            last[steps % 20] = report.iterations;
            hardest = fmax(hardest, window / 20);
            if (report.iterations > worst)
                worst = report.iterations;

            /* the ball is wet */
            if (sph.now.object[object].contact > 20) {
                hard++;
                hard_total += report.iterations;
            }
            peak = fmax(peak, speed);
            density = fmax(density, sph.stats.density_error);
            for (int i = 0; i < 3; i++)
                momentum = fmax(momentum, fabs(report.momentum[i]));
        }

        if (args.out)
            draw(&args, &sph, &world.body[body], hi);
        ex_progress(&args, frame);
    }

    for (int i = 0; i < sph.now.count; i++)
        lost += !(sph.x[i] > -h && sph.x[i] < hi[0] + h && sph.y[i] > -h && sph.y[i] < hi[1] + h
                  && sph.z[i] > -h && sph.z[i] < hi[2] + h);

    ex_result("particles", "%d", n);
    ex_result("mean_iterations", "%.3f", total / (steps > 0 ? steps : 1));
    ex_result("wet_iterations", "%.3f", hard_total / (hard > 0 ? hard : 1));
    ex_result("hard_iterations", "%.3f", hardest); /* mean of the hardest 20 steps */
    ex_result("max_iterations", "%d", worst);
    ex_result("capped", "%d", capped);
    ex_result("max_density_error", "%.5f", density);
    ex_result("peak_speed", "%.3f", peak);
    ex_result("height", "%.4f", world.body[body].x.y);
    ex_result("lost", "%ld", lost + n - sph.now.count);
    ex_result("momentum_error", "%.3g", momentum);
    fsi_sph_rigid_free(&couple);
    fsi_mesh_free(&mesh);
    fsi_solids_free(&world);
    fsi_shape_free(&ball);
    fsi_shape_free(&room);
    fsi_sph_free(&sph);
    return ex_end(&args, steps, stable && peak < 10);
}
