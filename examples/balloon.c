/* balloon: a rubber cap on the floor is blown up through a nozzle (Akbay et al. 2018, fig. 6, 8,
   9, 12). The fluid inside touches no free surface: without the boundary pressure projection
   (bpp=0) the rubber never feels its pressure and does not inflate; with it the balloon gains what
   is injected.

       build/balloon --out out
       build/balloon --set bpp=0                              it stays flat
       build/balloon --set fluid=water                        water inside, air outside
       build/balloon --set compare=1                          the monolithic solve beside it
       build/balloon --frames 540 --set rate=0.11 --set scheme=p   fig. 12: iterations as it grows

   Result: the volumes injected and gained, and how often both solvers were asked a step. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "scene.h"
#include "cap.h"

typedef struct balloon {
    fsi_world world;
    fsi_soft rubber;
    fsi_soft_responder responder;
    stepper run;
    int dim;
    double h;
    double volume_at_first;
} balloon;

/* Signed distance to the inside of the cap, where fluid=water begins. */
static fsi_real inside(fsi_vec3 x, void *user) {
    int dim = ((const balloon *)user)->dim;
    double across = x.x - middle;
    double deep = dim == 2 ? 0 : x.z - middle;
    return sqrt(across * across + x.y * x.y + deep * deep) - radius;
}

/* A box of 1 m, open above, with a nozzle in its floor that makes rate m^3 a second. */
static void make_fluid(balloon *self, const ex_args *args, double rate) {
    double h = self->h;
    int water = ex_is(args, "fluid", "water");
    fsi_world_desc desc = {
        .grid.nx = args->size,
        .grid.ny = args->size,
        .grid.nz = self->dim == 3 ? args->size : 1,
        .grid.h = h,
        .grid.rho = 1,
        .grid.shells = 1,
        .grid.smoke = !water,
        .grid.liquid = water,
        .grid.advect_velocity = FSI_ADVECT_LINEAR,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .max_guests = 1,
        .no_walls = 1,
    };
    ex_need(fsi_world_init(&self->world, &desc));
    if (water)
        ex_need(fsi_grid_set_field(&self->world.grid, FSI_FIELD_PHI, inside, self));

    /* One layer of cells; so many cell centres are inside along one axis. */
    double half = 0.08;
    double cells = floor((middle + half) / h - 0.5) - ceil((middle - half) / h - 0.5) + 1;
    double all = self->dim == 2 ? cells : cells * cells;
    fsi_grid_source nozzle = {
        .lo = fsi_vec(middle - half, 0, middle - half),
        .hi = fsi_vec(middle + half, 1.01 * h, middle + half),
        .set = FSI_SOURCE_DIVERGENCE | (water ? 0u : (unsigned)FSI_SOURCE_DENSITY),
        .density = 1,
        .divergence = rate / (all * pow(h, self->dim)),
    };
    ex_need(fsi_grid_add_source(&self->world.grid, &nozzle));
}

/* The rubber cap, a guest of the world. */
static void make_rubber(balloon *self, const ex_args *args, int monolithic) {
    fsi_soft_desc desc = {
        .dim = self->dim,
        .stretch = ex_number(args, "stiffness"),
        .bend = 1e-6,
        .damping_stiffness = 0.01,
        .area_density = ex_number(args, "mass_ratio") * 2 * self->h,
        .integrator = monolithic ? FSI_SOFT_SPLIT : FSI_SOFT_IMPLICIT,
        .newton = ex_whole(args, "newton"),
    };
    cap_make(&self->rubber, &desc, self->h);
    self->volume_at_first = cap_volume(&self->rubber);
    self->responder.soft = &self->rubber;
    fsi_guest guest = fsi_soft_guest(&self->responder);
    ex_need(fsi_world_add_guest(&self->world, &guest));
}

/* How fluid and rubber are coupled. */
static void couple(balloon *self, const ex_args *args, int monolithic) {
    fsi_partitioned_desc desc = {
        .scheme = stepper_relaxed(args) ? FSI_SCHEME_RELAXED : FSI_SCHEME_REDUCED,
        .omega = ex_number(args, "omega"),
        .min_iterations = 2,
        .max_iterations = ex_whole(args, "cap"),
        .tolerance = ex_number(args, "tolerance") * self->h,
        .gentle = ex_whole(args, "newton") > 1,
    };
    if (ex_is(args, "scheme", "aitken"))
        desc.scheme = FSI_SCHEME_AITKEN;
    stepper_begin(&self->run, &self->world, monolithic, 3 * self->rubber.desc.vertex_count, desc);

    /* The pressure of the closed fluid: without it nothing blows the rubber up. */
    fsi_fluid_box *fluid = &self->run.exchange.fluid;
    fluid->bpp = ex_whole(args, "bpp");
    fluid->swept = ex_whole(args, "bpp");
    fluid->tolerance = 0;
    fluid->pressure_form = stepper_pressures(args);
}

static void make(balloon *self, const ex_args *args, int monolithic, double rate) {
    self->dim = ex_whole(args, "dim");
    self->h = 1.0 / args->size;
    make_fluid(self, args, rate);
    make_rubber(self, args, monolithic);
    couple(self, args, monolithic);
}

static void step(balloon *self) {
    stepper_step(&self->run, self->h);
    ex_check_speed(fsi_max_abs(3 * (size_t)self->rubber.desc.vertex_count, self->rubber.v), 50);
}

static void end(balloon *self) {
    stepper_end(&self->run);
    fsi_soft_responder_free(&self->responder);
    fsi_soft_free(&self->rubber);
    fsi_world_free(&self->world);
}

/* Largest distance of a node from the same node of another balloon, cells. */
static double shape_distance(const balloon *self, const balloon *other) {
    double most = 0;
    for (int i = 0; i < self->rubber.desc.vertex_count; i++) {
        fsi_vec3 here = fsi_vec_load(self->rubber.x + 3 * i);
        fsi_vec3 there = fsi_vec_load(other->rubber.x + 3 * i);
        most = fmax(most, fsi_vec_length(fsi_vec_sub(here, there)));
    }

    return most / self->h;
}

/* ---- pictures */
static void draw2(ex_image *image, const balloon *self) {
    const fsi_grid *grid = &self->world.grid;
    ex_view view = ex_view_make(0, 0, 1, 1, 20, 20, 400, 400);
    const fsi_real *field = grid->density ? grid->density : grid->pressure;
    fsi_surface surface = fsi_soft_surface(&self->rubber);
    ex_draw_field(image, &view, grid->nx, grid->ny, field, 0, 1, EX_SMOKE);
    if (grid->phi)
        ex_draw_liquid(image, &view, grid->nx, grid->ny, grid->phi, ex_rgb(70, 150, 215));
    else
        ex_colorbar(image, &view, EX_SMOKE, 0, 1, "SMOKE");
    ex_draw_surface(image, &view, &surface, ex_rgb(200, 50, 60));
    ex_line(image, 20, 420, 420, 420, 3, ex_grey(90));
}

static void draw3(ex_image *image, const balloon *self) {
    const fsi_grid *grid = &self->world.grid;
    ex_camera camera = ex_camera_make(1.3, 0.7, 1.7, middle, 0.2, middle, 1, 28);
    const double lo[3] = {0, 0, 0};
    const double hi[3] = {1, 1, 1};
    ex_clear(image, ex_rgb(246, 248, 250));
    ex_floor(image, &camera, lo, hi, 1, 0, 0.1);
    cap_draw_open(image, &camera, &self->rubber);
    if (grid->phi)
        ex_draw_water(image, &camera, grid->nx, grid->ny, grid->nz, self->h, grid->phi,
                      ex_rgb(70, 150, 215), 0.2);
    else
        ex_draw_smoke(image, &camera, grid->nx, grid->ny, grid->nz, self->h, grid->density, 0.06,
                      ex_rgb(110, 114, 125));
    ex_box3(image, &camera, lo, hi, ex_grey(120));
}

static void draw(ex_args *args, const balloon *self) {
    ex_image image = ex_image_make(480, 480);
    if (self->dim == 2)
        draw2(&image, self);
    else
        draw3(&image, self);
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "balloon",
    .what = "A rubber cap is blown up through a nozzle in the floor.",
    .size = 48,
    .frames = 120,
    .keys =
        {
            EX_NUMBER("dim", "", "2 or 3", "2", "2 to 3"),
            EX_WORD("fluid", "what is blown in", "smoke", "smoke,water"),
            EX_NUMBER("bpp", "", "1: boundary pressure projection", "1", "0 to 1"),
            EX_WORD("scheme", "coupling", "xpm", "p,pc,aitken,rmi,xpm,monolithic"),
            EX_NUMBER("omega", "", "relaxation of p and pc, aitken's first", "0.2", "1e-3 to 1.9"),
            EX_NUMBER("mass_ratio", "", "rubber over a fluid layer two cells thick", "0.8",
                      "1e-6 to 1e3"),
            EX_NUMBER("rate", "1/s", "volume injected per second over the rest volume", "0.6",
                      "0 to 10"),
            EX_NUMBER("stiffness", "N/m", "of the rubber", "2", "0 to 1e6"),
            EX_NUMBER("tolerance", "cells", "residual of the partitioned schemes", "0.05",
                      "1e-9 to 1"),
            EX_NUMBER("cap", "", "most iterations of a step", "30", "2 to 1000"),
            EX_NUMBER("newton", "", "most Newton iterations of the rubber in a step", "1",
                      "1 to 100"),
            EX_NUMBER("compare", "", "1: the monolithic solve beside it", "0", "0 to 1"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    int compare = ex_whole(&args, "compare");

    /* Volume at rest of a half circle or half sphere; what the nozzle makes of it a second. */
    double disk = pi / 2 * radius * radius;
    double ball = 2 * pi / 3 * radius * radius * radius;
    double rate = ex_number(&args, "rate") * (ex_number(&args, "dim") < 3 ? disk : ball);

    static balloon self, other;
    make(&self, &args, ex_is(&args, "scheme", "monolithic"), rate);
    if (compare)
        make(&other, &args, 1, rate);

    double injected = 0;
    double leak = 0;
    double shape_error = 0;
    double third[3] = {0, 0, 0}; /* iterations in each third of the run */
    int frame;
    for (frame = 0; frame < args.frames && ex_fine(); frame++) {
        double before = self.run.iterations;
        step(&self);
        injected += rate * self.h;
        leak += self.run.exchange.fluid.leak;
        third[3 * frame / args.frames] += self.run.iterations - before;
        if (compare && ex_fine()) {
            step(&other);
            shape_error = fmax(shape_error, shape_distance(&self, &other));
        }

        if (args.out)
            draw(&args, &self);
        ex_progress(&args, frame);
    }

    double gained = cap_volume(&self.rubber) - self.volume_at_first;
    ex_result("injected", "%.8f", injected);
    ex_result("gained", "%.8f", gained);
    ex_result("volume_error", "%.6f", (gained - injected) / injected);

    /* What the residuals of the steps left over, summed: it explains volume_error. */
    if (!self.run.monolithic)
        ex_result("leak", "%.6f", leak / injected);

    /* Cells from the surface of the monolithic solve, the largest of all steps. */
    if (compare)
        ex_result("shape_error", "%.4f", shape_error);
    ex_result("mean_iterations", "%.3f", stepper_mean_iterations(&self.run));
    ex_result("mean_iterations_first_third", "%.3f", third[0] / (args.frames / 3.0));
    ex_result("mean_iterations_last_third", "%.3f", third[2] / (args.frames / 3.0));
    ex_result("max_iterations", "%d", self.run.most_iterations);
    if (!self.run.monolithic)
        ex_result("capped_steps", "%d", self.run.capped);
    end(&self);
    if (compare)
        end(&other);
    return ex_end(&args, frame, ex_fine());
}
