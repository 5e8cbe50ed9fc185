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

enum {
    SMALL_PISTON,
    LARGE_PISTON,
    DIVIDER, /* the wall between them, open below */
    PARTS
};

/* Sizes in cells. */
enum {
    THICK = 4,  /* of pistons and divider */
    GAP = 12,   /* under the divider */
    LEVEL = 20, /* of the fluid */
    HEIGHT = 36
};

/* A box that moves along y: one degree of freedom. */
typedef struct block {
    fsi_coupled door;
    fsi_real x[12]; /* corners */
    fsi_real v;
    fsi_real impulse;
    fsi_real mass;
    fsi_real inverse_mass;
    double lo[2]; /* corners, m */
    double hi[2];
    double load; /* force along y, N */
} block;

typedef struct scene {
    fsi_grid grid;
    block part[PARTS];
    int held; /* the large piston */

    int monolithic;
    fsi_couple couple; /* by one solve */
    fsi_coupled *list[PARTS];

    fsi_interface face; /* by exchange */
    fsi_partitioned scheme;
    fsi_partitioned_scene exchange;
    fsi_guest guest[PARTS];
    fsi_coupled *doors[PARTS];
} scene;

/* How a push along dir at any point moves the block: only its part along y counts. */
static void row(const fsi_coupled *self, int element, const fsi_real *weight, fsi_vec3 point,
                fsi_vec3 dir, fsi_real *out) {
    (void)self;
    (void)element;
    (void)weight;
    (void)point;
    out[0] = dir.y;
}

/* The corners as the block is now. */
static void place_corners(block *b) {
    for (int i = 0; i < 4; i++) {
        int right = i == 1 || i == 2;
        int upper = i >= 2;
        b->x[3 * i] = right ? b->hi[0] : b->lo[0];
        b->x[3 * i + 1] = upper ? b->hi[1] : b->lo[1];
    }
}

static void make_block(block *b, double left, double bottom, double right, double top,
                       double mass) {
    static const int32_t edge[8] = {0, 1, 1, 2, 2, 3, 3, 0};
    b->lo[0] = left;
    b->lo[1] = bottom;
    b->hi[0] = right;
    b->hi[1] = top;
    b->mass = mass;
    b->door = (fsi_coupled){
        .dof = 1,
        .v = &b->v,
        .impulse = &b->impulse,
        .mass = &b->mass,
        .inverse_mass = &b->inverse_mass,
        .row_fn = row,
        .surface =
            {
                .dim = 2,
                .closed = 1,
                .vertex_count = 4,
                .element_count = 4,
                .x = b->x,
                .index = edge,
            },
    };
}

/* First stage of a step: loads on what is free. */
static fsi_result begin(fsi_real dt, void *user) {
    scene *s = (scene *)user;
    for (int i = 0; i < PARTS; i++) {
        block *b = &s->part[i];
        int fixed = i == DIVIDER || (i == LARGE_PISTON && s->held);
        b->inverse_mass = fixed ? 0 : 1 / b->mass;
        b->v = fixed ? 0 : b->v + dt * b->load * b->inverse_mass;
        place_corners(b);
    }
    return FSI_OK;
}

/* Last stage: the pistons move. */
static fsi_result move(fsi_real dt, void *user) {
    scene *s = (scene *)user;
    for (int i = 0; i < DIVIDER; i++) {
        s->part[i].lo[1] += dt * s->part[i].v;
        s->part[i].hi[1] += dt * s->part[i].v;
    }
    return FSI_OK;
}

/* Pistons on closed fluid left and right of the divider. */
static void make_press(scene *s, const ex_args *args) {
    int ratio = ex_whole(args, "area_ratio");
    int small_cells = (args->size - THICK) / (1 + ratio);
    if (small_cells < 1)
        small_cells = 1;
    double h = 1.0 / args->size;
    fsi_grid_desc desc = {
        .nx = small_cells * (1 + ratio) + THICK,
        .ny = HEIGHT,
        .nz = 1,
        .h = h,
        .rho = 1000,
        .side[FSI_TOP].kind = FSI_SIDE_OPEN,
    };
    ex_need(fsi_grid_init(&s->grid, &desc));

    double left = small_cells * h;
    double right = (small_cells + THICK) * h;
    double bottom = LEVEL * h;
    double top = (LEVEL + THICK) * h;
    double mass = ex_number(args, "mass") * 1000 * left * THICK * h;
    make_block(&s->part[SMALL_PISTON], 0, bottom, left, top, mass);
    make_block(&s->part[LARGE_PISTON], right, bottom, desc.nx * h, top, mass * ratio);
    make_block(&s->part[DIVIDER], left, GAP * h, right, HEIGHT * h, 1);

    /* 10 N on the small piston, and half of what would balance on the large one. */
    s->part[SMALL_PISTON].load = -10;
    s->part[LARGE_PISTON].load = -5.0 * ratio;
}

static fsi_scheme scheme_of(const ex_args *args) {
    if (ex_is(args, "scheme", "aitken"))
        return FSI_SCHEME_AITKEN;
    int relaxed = ex_word(args, "scheme")[0] == 'p';
    return relaxed ? FSI_SCHEME_RELAXED : FSI_SCHEME_REDUCED;
}

/* One solve, or an exchange between fluid and pistons until they agree. */
static void make_coupling(scene *s, const ex_args *args) {
    for (int i = 0; i < PARTS; i++) {
        s->list[i] = &s->part[i].door;
        s->guest[i].door = &s->part[i].door;
    }
    s->monolithic = ex_is(args, "scheme", "monolithic");
    if (s->monolithic) {
        fsi_couple_desc desc = {.tolerance = 1e-10};
        ex_need(fsi_couple_init(&s->couple, &s->grid, &desc));
        return;
    }

    fsi_scheme scheme = scheme_of(args);
    fsi_partitioned_desc desc = {
        .n = 16,
        .m = 16,
        .tolerance = 1e-10 * s->grid.h,
        .omega = ex_number(args, "omega"),
        .scheme = scheme,
        .max_iterations = scheme == FSI_SCHEME_REDUCED ? 60 : 1000,
    };
    ex_need(fsi_partitioned_init(&s->scheme, &desc));
    ex_need(fsi_interface_init(&s->face, &s->grid, NULL));
    int pressures = ex_is(args, "scheme", "rmi") || ex_is(args, "scheme", "p");
    s->exchange = (fsi_partitioned_scene){
        .grid = &s->grid,
        .face = &s->face,
        .scheme = &s->scheme,
        .list = s->doors,
        .solids.part = s->guest,
        .solids.count = PARTS,
        .fluid.bpp = ex_whole(args, "bpp"),
        .fluid.pressure_form = pressures,
        .stages = {.begin_fn = begin, .move_fn = move, .user = s},
    };
}

static void step(scene *s, fsi_real dt, fsi_report *report) {
    fsi_scene solids = {
        .solid = s->list,
        .count = PARTS,
        .stages = {.begin_fn = begin, .move_fn = move, .user = s},
    };
    if (s->monolithic)
        ex_try(fsi_couple_step(&s->couple, &solids, dt, report));
    else
        ex_try(fsi_partitioned_scene_step(&s->exchange, dt, report));
}

static void end(scene *s) {
    fsi_partitioned_scene_free(&s->exchange);
    fsi_partitioned_free(&s->scheme);
    fsi_interface_free(&s->face);
    fsi_couple_free(&s->couple);
    fsi_grid_free(&s->grid);
}

/* ---- pictures: the pressure less its mean in the closed chamber */
static void draw(ex_args *args, scene *s) {
    const fsi_grid *grid = &s->grid;
    double lo = 0;
    double hi = 1e-9;
    for (size_t i = 0; i < grid->cells; i++) {
        lo = fmin(lo, grid->pressure[i]);
        hi = fmax(hi, grid->pressure[i]);
    }

    int tall = 560 * grid->ny / grid->nx;
    ex_image image = ex_image_make(660, tall + 40);
    ex_view view = ex_view_make(0, 0, grid->nx * grid->h, grid->ny * grid->h, 20, 20, 560, tall);
    ex_draw_field(&image, &view, grid->nx, grid->ny, grid->pressure, lo, hi, EX_DEPTH);
    for (int i = 0; i < PARTS; i++) {
        ex_color color = i == DIVIDER ? ex_grey(150) : ex_rgb(205, 120, 60);
        place_corners(&s->part[i]);
        ex_draw_surface(&image, &view, &s->part[i].door.surface, color);
    }
    ex_colorbar(&image, &view, EX_DEPTH, lo, hi, "P DT");
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
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    static scene s;
    make_press(&s, &args);
    make_coupling(&s, &args);
    const block *narrow = &s.part[SMALL_PISTON];
    const block *wide = &s.part[LARGE_PISTON];
    double h = s.grid.h;
    double dt = 0.2 * sqrt(narrow->mass * h / 10.0);

    /* First half: the large piston is held and its force is read. Then it is free, and speeds
       are. */
    double start[2] = {narrow->lo[1], wide->lo[1]};
    double force[2] = {0, 0};
    double speed_ratio = 0;
    double iterations = 0;
    int frame;
    for (frame = 0; frame < args.frames && ex_fine(); frame++) {
        fsi_report report = {0};
        s.held = frame < args.frames / 2;
        step(&s, dt, &report);
        iterations += report.iterations;
        if (s.held) {
            force[0] = narrow->impulse / dt;
            force[1] = wide->impulse / dt;
        } else
            speed_ratio = -narrow->v / wide->v;
        if (args.out)
            draw(&args, &s);
        ex_progress(&args, frame);
    }

    /* The share of its load that the fluid bears under the small piston while the large one is
       held; how many cells both went down, below 0: lifted. */
    ex_result("force_ratio", "%.9f", force[1] / force[0]);
    ex_result("speed_ratio", "%.9f", speed_ratio);
    ex_result("support", "%.6f", force[0] / 10.0);
    ex_result("fall", "%.6f", (start[0] - narrow->lo[1]) / h);
    ex_result("fall_large", "%.6f", (start[1] - wide->lo[1]) / h);
    ex_result("mean_iterations", "%.3f", iterations / (frame > 0 ? frame : 1));
    end(&s);
    return ex_end(&args, frame, ex_fine());
}
