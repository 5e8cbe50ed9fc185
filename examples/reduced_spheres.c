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
    MOST = 8 /* balls */
};

static const double radius = 0.17, length = 2.5; /* of balls and tank, m */

static swarm s;

/* Signed distance to the surface of the water, negative inside. */
static fsi_real water(fsi_vec3 x, void *user) {
    (void)user;
    return x.y - 0.55;
}

/* A tank of 2.5 m x 1 m x 0.5 m, open above. */
static void make_tank(fsi_world *world, const ex_args *args, int balls) {
    fsi_world_desc desc = {
        .grid.nx = args->size,
        .grid.ny = args->size * 2 / 5,
        .grid.nz = args->size / 5,
        .grid.h = length / args->size,
        .grid.rho = 1000,
        .grid.gravity = fsi_vec(0, -9.81, 0),
        .grid.liquid = 1,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .couple.boundary = ex_is(args, "boundary", "voxel") ? FSI_BOUNDARY_VOXEL : FSI_BOUNDARY_CUT,
        .max_guests = balls,
        .damping = ex_number(args, "damping"),
    };
    ex_need(fsi_world_init(world, &desc));
    ex_need(fsi_grid_set_field(&world->grid, FSI_FIELD_PHI, water, NULL));
    ex_need(fsi_grid_classify(&world->grid));
}

/* Balls as dense as water begin in it, all others above. */
static int is_neutral(double density) {
    return density >= 1 && density < 1.1;
}

/* Ball number i of a row: a model of its own density, and one body of it. */
static void add_ball(fsi_world *world, fsi_reduced_model *model, const fsi_mesh *mesh,
                     double density, double x, int i, const ex_args *args) {
    fsi_reduced_desc desc = {
        .mesh = mesh,
        .modes = ex_whole(args, "modes"),
        .density = 1000 * density,
        .young = ex_number(args, "young"),
        .poisson = 0.4,
        .damping_stiffness = 0.01,
        .samples = 100,
        .field = 20,
    };
    ex_need(fsi_reduced_model_init(model, &desc));
    fsi_vec3 at = fsi_vec(x, is_neutral(density) ? 0.3 : 0.6, 0.25);
    int added = swarm_add(&s, world, model, at, swarm_turn(0, 0.3 * i, 0));
    if (!added || !swarm_group(&s, 1, NULL, 0, NULL))
        ex_die("reduced_spheres: no room for ball %d", i);
}

/* Depth under water over radius of a ball with density ratio q < 1: y^2 (3 - y) / 4 = q (C-07). */
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

static double lowest_point(const fsi_reduced *ball) {
    double lowest = 1e9;
    for (int k = 0; k < ball->model->surface_count; k++)
        lowest = fmin(lowest, fsi_reduced_point(ball, ball->model->surface[k]).y);
    return lowest;
}

/* The level of the water at rest around the balls: its volume and what they displace. */
static double final_level(const fsi_world *world, int balls) {
    double below = 0;
    for (int i = 0; i < balls; i++) {
        fsi_body_report report;
        if (fsi_couple_body(&world->couple, i, &report) == FSI_OK)
            below += report.submerged;
    }
    const fsi_grid *grid = &world->grid;
    return (grid->stats.liquid_volume + below) / (length * (grid->h * grid->nz));
}

/* Appends a number to a comma list. */
static void append(char list[256], double value) {
    size_t used = strlen(list);
    snprintf(list + used, 256 - used, "%s%.4f", used ? "," : "", value);
}

/* The result lines of the balls' depths. */
static void tell_depths(const fsi_world *world, int balls, const double *density) {
    double h = world->grid.h;
    double level = final_level(world, balls);
    double worst = 0;
    double gap = 0;
    char depths[256] = "";
    char exact[256] = "";
    for (int i = 0; i < balls; i++) {
        double lowest = lowest_point(&s.body[i]);
        double depth = (level - lowest) / radius;
        double expected = density[i] < 1 ? archimedes(density[i]) : 2;
        append(depths, depth);
        append(exact, expected);
        if (density[i] < 1)
            worst = fmax(worst, fabs(depth - expected) * radius / h);
        if (density[i] > 1)
            gap = lowest / h;
        double drift = s.body[i].rigid->position.y - 0.3;
        if (is_neutral(density[i]))
            ex_result("drift_neutral_cells", "%.3f", drift / h);
    }
    ex_result("depth", "%s", depths);
    swarm_results(&s, 2 * radius);

    /* What Archimedes says of those that float, just covered for the others; the worst error of
       those that float; how far above the floor the heavy one lies. */
    ex_result("depth_exact", "%s", exact);
    ex_result("depth_error_cells", "%.3f", worst);
    ex_result("sunk_gap_cells", "%.3f", gap);
}

/* ---- pictures */
static ex_color color(const swarm *q, int i) {
    (void)q;
    return ex_map(EX_HEAT, 0.85 - 0.13 * i);
}

static swarm_view make_view(void) {
    return (swarm_view){
        .width = 720,
        .height = 400,
        .camera = ex_camera_make(1.25, 1.15, 3, 1.25, 0.42, 0.25, 1, 42),
        .back = ex_rgb(245, 248, 250),
        .edge = ex_rgb(110, 110, 110),
        .color_fn = color,
        .tile = 0.125,
        .water = 0.5,
    };
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
            EX_BOUNDARY,
        },
};

/* The densities of the key, repeated in turn where more balls are asked for. */
static int list_densities(const ex_args *args, double density[MOST]) {
    int listed = ex_list(args, "density", density, MOST);
    int asked = ex_whole(args, "bodies");
    for (int i = listed; i < asked; i++)
        density[i] = density[i - listed];
    return asked > 0 ? asked : listed;
}

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    double dt = ex_number(&args, "dt");
    double density[MOST];
    int balls = list_densities(&args, density);

    fsi_world world;
    fsi_mesh mesh;
    fsi_reduced_model model[MOST];
    form_body form = {.kind = FORM_SPHERE, .a = radius};
    make_tank(&world, &args, balls);
    if (!swarm_mesh(&mesh, &form, fsi_vec(radius, radius, radius), ex_whole(&args, "tets")))
        ex_die("reduced_spheres: no mesh");
    for (int i = 0; i < balls; i++) {
        double x = length * (i + 0.5) / balls;
        add_ball(&world, &model[i], &mesh, density[i], x, i, &args);
    }
    s.damping = ex_number(&args, "damping");
    printf("damping=%g 1/s on bodies and fluid, %d tetrahedra per ball\n", s.damping,
           mesh.tet_count);

    /* The volume counts from the first step on: then the balls have pushed their place free. */
    swarm_view view = make_view();
    double iterations = 0;
    double volume_at_first = 1;
    int steps = 0;
    for (int frame = 0; frame < args.frames && ex_fine(); frame++) {
        for (int i = 0; i < 2 && ex_fine(); i++) {
            fsi_report report = {0};
            ex_try(fsi_world_step(&world, dt, &report));
            iterations += report.iterations;
            if (steps == 0)
                volume_at_first = world.grid.stats.liquid_volume;
            steps++;
        }
        if (args.out)
            swarm_draw(&args, &s, &view);
        ex_progress(&args, frame);
    }

    double volume = world.grid.stats.liquid_volume;
    tell_depths(&world, balls, density);
    ex_result("iterations", "%.2f", iterations / (steps ? steps : 1));
    ex_result("volume_error", "%.6f", (volume - volume_at_first) / volume_at_first);
    swarm_free(&s);
    for (int i = 0; i < balls; i++)
        fsi_reduced_model_free(&model[i]);
    fsi_mesh_free(&mesh);
    fsi_world_free(&world);
    return ex_end(&args, steps, ex_fine());
}
