/* reduced_spheres: five soft balls of growing density, ten modes each, in a tank (Lu et al. 2016,
   fig. 5). They settle where Archimedes says.

       build/reduced_spheres --out out
       build/reduced_spheres --set modes=0   the same balls, rigid

   Result: how deep each ball floats. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "swarm.h"

enum {
    MOST = 8
};

static swarm s;

static fsi_real water(fsi_vec3 x, void *user) {
    return x.y - *(double *)user;
}

static ex_color color(const swarm *q, int i) {
    (void)q;
    return ex_map(0, 0.85 - 0.13 * i);
}

/* Submerged depth over radius of a ball with density ratio q < 1: y^2 (3 - y) / 4 = q (C-07). */
static double archimedes(double q) {
    double lo = 0;
    double hi = 2;

    for (int i = 0; i < 60; i++) {
        double y = (lo + hi) / 2;
        if (y * y * (3 - y) / 4 < q)
            lo = y;
        else
            hi = y;
    }

    return lo;
}

static const ex_about about = {
    .name = "reduced_spheres",
    .what = "Soft balls of five densities in a tank.",
    .size = 60,
    .frames = 120,
    .keys =
        {
            EX_NUMBER("density", "", "list, over the water's", "0.3,0.6,0.9,1.0,1.2",
                      "1e-3 to 100"),
            EX_NUMBER("bodies", "", "balls; 0: one of each density; else densities in turn", "0",
                      "0 to 8"),
            EX_NUMBER("modes", "", "vibration modes per ball", "10", "0 to 40"),
            EX_NUMBER("tets", "", "tetrahedra per ball, about", "1500", "50 to 100000"),
            EX_NUMBER("young", "Pa", "stiffness", "2e4", "100 to 1e9"),
            EX_NUMBER("dt", "s", "time step", "0.01", "1e-5 to 0.1"),
            EX_NUMBER("damping", "1/s", "on bodies and fluid", "2", "0 to 100"),
            EX_NUMBER("fractions", "", "1: cut cells instead of voxel faces", "0", "0 to 1"),
        },
};

int main(int argc, char **argv) {
    ex_args args;

    form_body form = {FORM_SPHERE, 0, 0, 0, 0, {0, 0, 0}};
    fsi_reduced_model model[MOST];
    double density[MOST];
    double r = 0.17;
    double level = 0.55;
    double total = 0;
    double volume0 = 1;
    double worst = 0;
    double below = 0;
    double out_of = 0;
    int steps = 0;
    int stable = 1;

    swarm_view view = {
        720,  400, {{0}, {0}, {0}, {0}, 0}, {245, 248, 250}, {110, 110, 110}, color, 0.125, 0.5,
        NULL, 0};
    char text[256] = "";
    char exact[256] = "";

    ex_begin(&args, argc, argv, &about);
    int balls = ex_list(&args, "density", density, MOST);

    for (int i = balls; i < ex_whole(&args, "bodies"); i++)
        density[i] = density[i - balls];
    if (ex_number(&args, "bodies") > 0)
        balls = ex_whole(&args, "bodies");
    double dt = ex_number(&args, "dt");

    fsi_world_desc desc = {
        .grid.nx = args.size,
        .grid.ny = args.size * 2 / 5,
        .grid.nz = args.size / 5,
        .grid.h = 2.5 / args.size,
        .grid.rho = 1000,
        .grid.gravity = fsi_vec(0, -9.81, 0),
        .grid.liquid = 1,
        .grid.volume_correction = 1,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .max_guests = balls,
        .damping = ex_number(&args, "damping"),
        .couple.boundary = (fsi_boundary_kind)ex_number(&args, "fractions"),
    };

    fsi_world world;
    ex_need(fsi_world_init(&world, &desc));
    form.a = r;
    fsi_mesh mesh;
    if (!swarm_mesh(&mesh, &form, fsi_vec(r, r, r), ex_whole(&args, "tets")))
        return 1;

    for (int i = 0; i < balls; i++) {
        fsi_reduced_desc given = {
            .mesh = &mesh,
            .modes = ex_whole(&args, "modes"),
            .density = 1000 * density[i],
            .young = ex_number(&args, "young"),
            .poisson = 0.4,
            .damping_stiffness = 0.01,
            .samples = 100,
            .field = 20,
        };

        ex_need(fsi_reduced_model_init(&model[i], &given));
        if (!swarm_add(&s, &world, &model[i],
                       fsi_vec(2.5 * (i + 0.5) / balls,
                               density[i] >= 1 && density[i] < 1.1 ? 0.3 : 0.6, 0.25),
                       swarm_turn(0, 0.3 * i, 0)))
            return 1;
        if (!swarm_group(&s, 1, NULL, 0, NULL))
            return 1;
    }

    s.damping = desc.damping;
    view.camera = ex_camera_make(1.25, 1.15, 3, 1.25, 0.42, 0.25, 1, 42);
    fsi_grid_set_field(&world.grid, FSI_FIELD_PHI, water, &level);
    fsi_grid_classify(&world.grid);
    printf("damping=%g 1/s on bodies and fluid, %d tetrahedra per ball\n", desc.damping,
           mesh.tet_count);

    for (int frame = 0; frame < args.frames && stable; frame++) {
        for (int i = 0; i < 2 && stable; i++, steps++) {
            fsi_report report;
            stable = ex_try(fsi_world_step(&world, dt, &report)) >= 0;
            total += report.iterations;

            /* the balls have pushed their place free */
            if (steps == 0)
                volume0 = world.grid.stats.liquid_volume;
        }

        if (args.out)
            swarm_draw(&args, &s, &view);
        ex_progress(&args, frame);
    }

    for (int i = 0; i < balls; i++) {
        fsi_body_report b;
        if (fsi_couple_body(&world.couple, i, &b) == FSI_OK)
            below += b.submerged;
    }

    /* of the water at rest around them */
    level = (world.grid.stats.liquid_volume + below) / (2.5 * (world.grid.h * world.grid.nz));

    for (int i = 0; i < balls; i++) {
        const fsi_reduced *reduced = &s.body[i];
        double low = 1e9;
        double want = density[i] < 1 ? archimedes(density[i]) : 2;
        for (int k = 0; k < model[i].surface_count; k++)
            low = fmin(low, fsi_reduced_point(reduced, model[i].surface[k]).y);
        double depth = (level - low) / r;
        if (density[i] < 1)
            worst = fmax(worst, fabs(depth - want) * r / world.grid.h);
        if (density[i] > 1)
            out_of = low / world.grid.h;
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%.4f", i ? "," : "", depth);
        snprintf(exact + strlen(exact), sizeof exact - strlen(exact), "%s%.4f", i ? "," : "", want);
        if (density[i] >= 1 && density[i] < 1.1)
            ex_result("drift_neutral_cells", "%.3f",
                      (reduced->rigid->position.y - 0.3) / world.grid.h);
    }

    ex_result("depth", "%s", text);
    swarm_results(&s, 2 * r);

    /* floating ones; others just covered */
    ex_result("depth_exact", "%s", exact);
    ex_result("depth_error_cells", "%.3f", worst); /* of those that float */

    /* lowest point of the heavy one above the floor */
    ex_result("sunk_gap_cells", "%.3f", out_of);
    ex_result("iterations", "%.2f", total / (steps ? steps : 1));
    ex_result("volume_error", "%.6f", (world.grid.stats.liquid_volume - volume0) / volume0);
    swarm_free(&s);

    for (int i = 0; i < balls; i++)
        fsi_reduced_model_free(&model[i]);
    fsi_mesh_free(&mesh);
    fsi_world_free(&world);
    return ex_end(&args, steps, stable);
}
