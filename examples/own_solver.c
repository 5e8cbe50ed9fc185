/* own_solver: a solver of your own, here masses on a string of springs in short explicit steps,
   coupled to smoke on the grid as a black box: it takes impulses on its masses and says how far
   they move in this step. The coupling asks it a few times a step until fluid and string agree.

       build/own_solver --out out
       build/own_solver --set mass_ratio=0.1      lighter: harder

   Result: height of the middle of the string over the jet, and how often both were asked a step. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

/* ------------------------------------------------------------------------------------------------
 * Your solver: masses on a string, its two ends held. Nothing here knows of the library, except
 * that a box takes impulses [3 * MASSES] and gives displacements [3 * MASSES]. */
enum {
    MASSES = 17,
    SUBSTEPS = 100,
    REGIONS = 16 /* most closed regions of fluid */
};

static const double spring_length = 0.0234, spring_damping = 0.05; /* m, kg/s */

typedef struct string {
    double x[MASSES][2], v[MASSES][2];             /* after the last solve */
    double x_start[MASSES][2], v_start[MASSES][2]; /* when the step began */
    double mass;
    double spring;
    double dt;
    int regions;
} string;

/* Forces of all springs on their two masses: stretched length, and a little damping. */
static void string_forces(const string *self, double force[MASSES][2]) {
    memset(force, 0, MASSES * sizeof *force);
    for (int i = 0; i + 1 < MASSES; i++) {
        double dx = self->x[i + 1][0] - self->x[i][0];
        double dy = self->x[i + 1][1] - self->x[i][1];
        double stretch = 1 - spring_length / hypot(dx, dy);
        for (int k = 0; k < 2; k++) {
            double pull = self->spring * stretch * (self->x[i + 1][k] - self->x[i][k])
                          + spring_damping * (self->v[i + 1][k] - self->v[i][k]);
            force[i][k] += pull;
            force[i + 1][k] -= pull;
        }
    }
}

/* The black box. It begins from the same start every time it is asked, so there is nothing to save
   or to restore. */
static fsi_result string_solve(const fsi_real *impulse, fsi_real *move, void *user) {
    string *self = (string *)user;
    double h = self->dt / SUBSTEPS;
    memcpy(self->x, self->x_start, sizeof self->x);
    memcpy(self->v, self->v_start, sizeof self->v);

    /* Each substep gets its share of the impulse. */
    for (int step = 0; step < SUBSTEPS; step++) {
        double force[MASSES][2];
        string_forces(self, force);
        for (int i = 1; i + 1 < MASSES; i++)
            for (int k = 0; k < 2; k++) {
                self->v[i][k] += (h * force[i][k] + impulse[3 * i + k] / SUBSTEPS) / self->mass;
                self->x[i][k] += h * self->v[i][k];
            }
    }

    /* How far each mass moved. */
    for (int i = 0; i < MASSES; i++) {
        move[3 * i] = self->x[i][0] - self->x_start[i][0];
        move[3 * i + 1] = self->x[i][1] - self->x_start[i][1];
        move[3 * i + 2] = 0;
    }

    /* Pressures of closed regions of fluid come back as they are. */
    for (int i = 3 * MASSES; i < 3 * MASSES + self->regions; i++)
        move[i] = impulse[i];
    return FSI_OK;
}

/* A shallow arc over the jet. */
static void string_make(string *self, double mass_ratio, double spring, double dt) {
    memset(self, 0, sizeof *self);
    self->dt = dt;
    self->mass = mass_ratio * 2 * dt / 48;
    self->spring = spring;
    for (int i = 0; i < MASSES; i++) {
        self->x_start[i][0] = 1.0 / 3 + i / 48.0;
        self->x_start[i][1] = 0.3 + i * (MASSES - 1 - i) / 3840.0;
    }
}

/* The step is done: the string stays where it went in the last solve. */
static void string_accept(string *self) {
    memcpy(self->x_start, self->x, sizeof self->x);
    memcpy(self->v_start, self->v, sizeof self->v);
}

/* ------------------------------------------------------------------------------------------------
 * The fluid, and what it sees of the string. */
typedef struct scene {
    fsi_grid grid;
    fsi_interface cut;   /* where the string cuts the grid */
    fsi_fluid_box fluid; /* the fluid as a box: displacements in, impulses out */
    fsi_partitioned exchange;
    fsi_blackbox fluid_box;
    fsi_blackbox string_box;

    fsi_coupled door; /* where the grid finds the string */
    fsi_real x[3 * MASSES];
    fsi_real v[3 * MASSES];
    fsi_real mass[MASSES];
    int32_t segment[2 * MASSES];
    int32_t node[MASSES];
    string masses;
} scene;

/* A box of 1 m x 1.5 m, open above; a jet of smoke of 0.5 m/s enters through its floor. */
static void make_fluid(scene *rig, int size) {
    fsi_grid_desc desc = {
        .nx = size,
        .ny = size * 3 / 2,
        .nz = 1,
        .h = 1.0 / size,
        .rho = 1,
        .smoke = 1,
        .shells = 1,
        .side[FSI_TOP].kind = FSI_SIDE_OPEN,
    };
    fsi_grid_source jet = {
        .lo = fsi_vec(0.375, 0, 0),
        .hi = fsi_vec(0.625, 1.01 * desc.h, 0),
        .set = FSI_SOURCE_VELOCITY | FSI_SOURCE_DENSITY | FSI_SOURCE_DIVERGENCE,
        .velocity = fsi_vec(0, 0.5, 0),
        .divergence = 0.5 / desc.h,
        .density = 1,
    };
    ex_need(fsi_grid_init(&rig->grid, &desc));
    ex_need(fsi_grid_add_source(&rig->grid, &jet));
    ex_need(fsi_interface_init(&rig->cut, &rig->grid, NULL));
}

/* The door: a chain of segments. Its masses are zero, they stay with the solver. */
static void make_door(scene *rig) {
    for (int i = 0; i < MASSES; i++) {
        rig->segment[2 * i] = i;
        rig->segment[2 * i + 1] = i + 1;
        rig->node[i] = i;
    }

    rig->door = (fsi_coupled){
        .surface.dim = 2,
        .surface.vertex_count = MASSES,
        .surface.element_count = MASSES - 1,
        .surface.x = rig->x,
        .surface.index = rig->segment,
        .dof = 3 * MASSES,
        .v = rig->v,
        .mass = rig->mass,
        .inverse_mass = rig->mass,
        .node = rig->node,
    };
}

/* The two boxes and the scheme that lets them agree within a twentieth of a cell. */
static void make_exchange(scene *rig) {
    fsi_partitioned_desc desc = {
        .n = 3 * MASSES + REGIONS,
        .m = 3 * MASSES + REGIONS,
        .per_node = 3,
        .tolerance = 0.05 * rig->grid.h,
    };
    ex_need(fsi_partitioned_init(&rig->exchange, &desc));
    rig->fluid = (fsi_fluid_box){.grid = &rig->grid, .face = &rig->cut, .bpp = 1};
    rig->fluid_box = fsi_fluid_box_door(&rig->fluid);
    rig->string_box = (fsi_blackbox){.solve_fn = string_solve, .user = &rig->masses};
}

/* Where the string is, for the grid. */
static void show_string(scene *rig) {
    for (int i = 0; i < MASSES; i++)
        fsi_vec_store(rig->x + 3 * i,
                      fsi_vec(rig->masses.x_start[i][0], rig->masses.x_start[i][1], 0));
}

/* One step. Returns how often both boxes were asked. */
static int step(scene *rig) {
    fsi_coupled *doors[1] = {&rig->door};
    fsi_real move[3 * MASSES + REGIONS] = {0};
    fsi_real load[3 * MASSES + REGIONS];
    fsi_report report = {0};
    fsi_real dt = rig->masses.dt;

    /* The first guess: every mass goes on as it did. */
    show_string(rig);
    for (int i = 0; i < MASSES; i++)
        for (int k = 0; k < 2; k++)
            move[3 * i + k] = rig->masses.dt * rig->masses.v_start[i][k];

    /* Where is the string, and how does the smoke move? */
    ex_try(fsi_interface_detect(&rig->cut, &rig->grid, doors, 1));
    ex_try(fsi_grid_advect(&rig->grid, dt));
    ex_try(fsi_grid_forces(&rig->grid, dt));

    /* Ask both boxes until they agree on displacements and impulses. */
    ex_try(fsi_fluid_box_begin(&rig->fluid, dt));
    int n = rig->fluid.n;
    if (n > 3 * MASSES + REGIONS)
        ex_try(FSI_ERR_ARGUMENT);
    rig->masses.regions = rig->fluid.regions;
    ex_try(fsi_partitioned_step(&rig->exchange, n, n, &rig->fluid_box, &rig->string_box, move, load,
                                &report));

    /* The fluid takes the result, and so does the string. */
    ex_try(fsi_fluid_box_finish(&rig->fluid));
    ex_try(fsi_grid_extrapolate(&rig->grid));
    string_accept(&rig->masses);

    /* Smoke that the string ran over stays on its side. */
    show_string(rig);
    ex_try(fsi_interface_moved(&rig->cut, &rig->grid, NULL));
    return report.iterations;
}

static void draw(ex_args *args, const scene *rig) {
    ex_image image = ex_image_make(420, 560);
    ex_view view = ex_view_make(0, 0, 1, 1.5, 30, 30, 340, 510);
    ex_draw_field(&image, &view, rig->grid.nx, rig->grid.ny, rig->grid.density, 0, 1, EX_SMOKE);
    ex_draw_surface(&image, &view, &rig->door.surface, ex_rgb(200, 60, 30));
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "own_solver",
    .what = "A hand-written spring-mass solver coupled to the grid.",
    .size = 48,
    .frames = 100,
    .keys =
        {
            EX_NUMBER("mass_ratio", "", "string over a layer of smoke two cells thick", "0.5",
                      "0.05 to 1e3"),
            EX_NUMBER("spring", "N/m", "stiffness of a spring", "48", "1 to 100"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);

    static scene rig;
    make_fluid(&rig, args.size);
    make_door(&rig);
    make_exchange(&rig);
    string_make(&rig.masses, ex_number(&args, "mass_ratio"), ex_number(&args, "spring"),
                rig.grid.h);

    double iterations = 0;
    int frame;
    for (frame = 0; frame < args.frames && ex_fine(); frame++) {
        iterations += step(&rig);
        if (args.out)
            draw(&args, &rig);
        ex_progress(&args, frame);
    }

    ex_result("mean_iterations", "%.3f", iterations / (frame > 0 ? frame : 1));
    ex_result("height", "%.5f", rig.masses.x_start[MASSES / 2][1]);
    fsi_partitioned_free(&rig.exchange);
    fsi_fluid_box_free(&rig.fluid);
    fsi_interface_free(&rig.cut);
    fsi_grid_free(&rig.grid);
    return ex_end(&args, frame, ex_fine());
}
