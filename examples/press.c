/* press: a hydraulic press (Akbay et al. 2018, fig. 10): closed fluid under two pistons, the large
   one area_ratio times as wide. First the large piston is held: it must feel area_ratio times the
   force on the small one. Then it is free and carries half of what would balance: the small one
   goes down area_ratio times as fast as the large one goes up.

       build/press --out out
       build/press --set area_ratio=3
       build/press --set bpp=0          without the pressure of closed fluid both fall

   Result: force_ratio and speed_ratio, both area_ratio when right. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

/* a box that moves along y: one degree of freedom */
typedef struct block {
    fsi_coupled door;
    fsi_real x[12];
    fsi_real v;
    fsi_real impulse;
    fsi_real mass;
    fsi_real inverse_mass;
    double lo[2], hi[2], load; /* corners, m; force along y, N */
} block;

/* small piston, large piston, dividing wall */
typedef struct scene {
    block part[3];
    int held;
} scene;

static void row(const fsi_coupled *self, int element, const fsi_real *weight, fsi_vec3 point,
                fsi_vec3 dir, fsi_real *out) {
    (void)self;
    (void)element;
    (void)weight;
    (void)point;
    out[0] = dir.y;
}

static void make(block *b, double x0, double y0, double x1, double y1, double mass) {
    static const int32_t index[8] = {0, 1, 1, 2, 2, 3, 3, 0};
    fsi_surface *surface = &b->door.surface;
    b->lo[0] = x0;
    b->lo[1] = y0;
    b->hi[0] = x1;
    b->hi[1] = y1;
    b->mass = mass > 0 ? mass : 1;
    b->inverse_mass = mass > 0 ? 1 / mass : 0;
    surface->dim = 2;
    surface->vertex_count = surface->element_count = 4;
    surface->closed = 1;
    surface->x = b->x;
    surface->index = index;
    b->door.dof = 1;
    b->door.v = &b->v;
    b->door.impulse = &b->impulse;
    b->door.mass = &b->mass;
    b->door.inverse_mass = &b->inverse_mass;
    b->door.row_fn = row;
}

static void refresh(block *b) {
    for (int i = 0; i < 4; i++) {
        b->x[3 * i] = i == 1 || i == 2 ? b->hi[0] : b->lo[0];
        b->x[3 * i + 1] = i >= 2 ? b->hi[1] : b->lo[1];
    }
}

static fsi_result begin(void *user, fsi_real dt) {
    scene *s = (scene *)user;

    for (int i = 0; i < 3; i++) {
        block *b = &s->part[i];
        b->inverse_mass = i == 2 || (i == 1 && s->held) ? 0 : 1 / b->mass;
        if (b->inverse_mass > 0)
            b->v += dt * b->load * b->inverse_mass;
        else
            b->v = 0;
        refresh(b);
    }

    return FSI_OK;
}

static fsi_result move(void *user, fsi_real dt) {
    scene *s = (scene *)user;

    for (int i = 0; i < 2; i++) {
        s->part[i].lo[1] += dt * s->part[i].v;
        s->part[i].hi[1] += dt * s->part[i].v;
    }

    return FSI_OK;
}

static void draw(ex_args *args, scene *s, const fsi_grid *grid) {
    int tall = (int)(560.0 * grid->ny / grid->nx);
    ex_image image = ex_image_make(660, tall + 40);
    ex_view view = ex_view_make(0, 0, grid->nx * grid->h, grid->ny * grid->h, 20, 20, 560, tall);
    double lo = 0;
    double hi = 1e-9;

    /* less the mean of the closed chamber */
    for (size_t i = 0; i < grid->cells; i++) {
        lo = fmin(lo, grid->pressure[i]);
        hi = fmax(hi, grid->pressure[i]);
    }

    ex_draw_field(&image, &view, grid->nx, grid->ny, grid->pressure, lo, hi, 3);

    for (size_t i = 0; i < 3; i++) {
        refresh(&s->part[i]);
        ex_draw_surface(&image, &view, &s->part[i].door.surface,
                        i == 2 ? ex_grey(150) : ex_rgb(205, 120, 60));
    }

    ex_colorbar(&image, &view, 3, lo, hi, "P DT");
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "press",
    .what = "A hydraulic press: force and speed ratios of two pistons over closed fluid.",
    .size = 64,
    .frames = 60,
    .keys =
        {
            EX_NUMBER("area_ratio", "", "large piston over small piston", "5", "1 to 20"),
            EX_NUMBER("bpp", "", "1: boundary pressure projection", "1", "0 to 1"),
            EX_WORD("scheme", "coupling", "xpm", "p,pc,xpm,rmi,aitken,monolithic"),
            EX_NUMBER("omega", "", "relaxation of p and pc", "0.1", "1e-4 to 1.9"),
            EX_NUMBER("mass", "", "of the small piston over the fluid it displaces", "0.5",
                      "1e-3 to 1e4"),
        },
};

int main(int argc, char **argv) {
    enum {
        WALL = 4,
        PLATE = 4,
        DEPTH = 12
    };

    static scene s;
    static fsi_partitioned_scene p;

    fsi_interface face = {0};
    fsi_couple mono = {0};
    fsi_couple_desc cd = {0};
    fsi_partitioned scheme = {0};

    fsi_guest part[3] = {{0}};
    fsi_coupled *list[3];
    fsi_coupled *doors[3];
    fsi_scene solids = {0};
    ex_args args;
    int stable = 1;
    double fall[2];
    double force[2] = {0, 0};
    double speed[2] = {0, 0};
    double total = 0;

    ex_begin(&args, argc, argv, &about);
    int ratio = ex_whole(&args, "area_ratio");
    int little = (args.size - WALL) / (1 + ratio);
    if (little < 1)
        little = 1;
    int monolithic = ex_is(&args, "scheme", "monolithic");

    fsi_grid_desc desc = {
        .nx = little * (1 + ratio) + WALL,
        .ny = 36,
        .nz = 1,
    };

    double h = 1.0 / args.size;
    desc.h = h;
    desc.rho = 1000;
    desc.side[FSI_TOP].kind = FSI_SIDE_OPEN;

    fsi_grid grid;
    ex_need(fsi_grid_init(&grid, &desc));
    double m1 = ex_number(&args, "mass") * 1000 * little * h * PLATE * h;
    make(&s.part[0], 0, 20 * h, little * h, (20 + PLATE) * h, m1);
    make(&s.part[1], (little + WALL) * h, 20 * h, desc.nx * h, (20 + PLATE) * h, m1 * ratio);
    make(&s.part[2], little * h, DEPTH * h, (little + WALL) * h, 36 * h, 0);

    /* N on the small plate, and half of what would balance on the large one */
    s.part[0].load = -10;
    s.part[1].load = -5.0 * ratio;
    double dt = 0.2 * sqrt(m1 * h / 10.0);

    fsi_partitioned_desc given = {
        .n = 16,
        .m = 16,
        .tolerance = 1e-10 * h,
        .omega = ex_number(&args, "omega"),
        .scheme = ex_is(&args, "scheme", "aitken")     ? FSI_SCHEME_AITKEN
                  : ex_word(&args, "scheme")[0] == 'p' ? FSI_SCHEME_RELAXED
                                                       : FSI_SCHEME_REDUCED,
    };

    given.max_iterations = given.scheme == FSI_SCHEME_REDUCED ? 60 : 1000;

    ex_need(fsi_partitioned_init(&scheme, &given));
    cd.tolerance = 1e-10;

    if ((monolithic ? fsi_couple_init(&mono, &grid, &cd) : fsi_interface_init(&face, &grid, NULL))
        != FSI_OK)
        return 1;

    for (int i = 0; i < 3; i++)
        part[i].door = list[i] = &s.part[i].door;
    p.grid = &grid;
    p.face = &face;
    p.scheme = &scheme;
    p.list = doors;
    p.solids.part = part;
    p.solids.count = 3;
    p.fluid.bpp = ex_whole(&args, "bpp");
    p.fluid.pressure_form = ex_is(&args, "scheme", "rmi") || ex_is(&args, "scheme", "p");
    p.begin_fn = begin;
    p.move_fn = move;
    p.user = &s;
    solids.solid = list;
    solids.count = 3;
    solids.begin_fn = begin;
    solids.move_fn = move;
    solids.user = &s;

    for (int i = 0; i < 2; i++)
        fall[i] = s.part[i].lo[1];
    int frame;

    for (frame = 0; frame < args.frames && stable; frame++) {
        s.held = frame < args.frames / 2;
        fsi_report report;
        stable = (monolithic ? ex_try(fsi_couple_step(&mono, &solids, dt, &report))
                             : ex_try(fsi_partitioned_scene_step(&p, dt, &report)))
                 >= 0;
        total += report.iterations;
        if (s.held)
            for (int i = 0; i < 2; i++)
                force[i] = s.part[i].impulse / dt;
        else
            for (int i = 0; i < 2; i++)
                speed[i] = s.part[i].v;
        if (args.out)
            draw(&args, &s, &grid);
        ex_progress(&args, frame);
    }

    for (int i = 0; i < 2; i++)
        fall[i] -= s.part[i].lo[1];

    ex_result("force_ratio", "%.9f", force[1] / force[0]);
    ex_result("speed_ratio", "%.9f", -speed[0] / speed[1]);

    /* share of the load that the fluid bears while the large piston is held */
    ex_result("support", "%.6f", force[0] / 10.0);
    ex_result("fall", "%.6f", fall[0] / h); /* cells the small plate went down */

    /* and the large one: < 0 = it was lifted */
    ex_result("fall_large", "%.6f", fall[1] / h);
    ex_result("mean_iterations", "%.3f", total / (frame > 0 ? frame : 1));
    fsi_partitioned_scene_free(&p);
    fsi_partitioned_free(&scheme);
    fsi_interface_free(&face);
    fsi_couple_free(&mono);
    fsi_grid_free(&grid);
    return ex_end(&args, frame, stable);
}
