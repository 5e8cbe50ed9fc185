/* cloth_jet: a strip of cloth pinned over a jet of smoke (Akbay et al. 2018, fig. 11, tables 1 and
   2), by every partitioned scheme and by one solve. The mass ratio M is the cloth over a layer of
   fluid two cells thick: small M is hard. Schemes: p under-relaxed, pc with conservative impulses,
   pcm see carry(), rmi with a reduced model of the interface, xpm that with conservative impulses.

       build/cloth_jet --out out
       build/cloth_jet --set mass_ratio=0.01
       build/cloth_jet --set scheme=p --set omega=0.05
       build/cloth_jet --set reuse=0                     Algorithm 1 as printed: no pairs kept

   Result: how often both solvers were asked a step. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

enum {
    NODES = 17,
    NX = 48, /* cells of the paper's grid; the cloth is as large on any other */
    NY = 72
};

typedef struct scene {
    fsi_grid grid;
    fsi_soft cloth;
    fsi_soft_responder responder;
    fsi_guest guest; /* the cloth with its stages */
    int monolithic;

    fsi_couple couple; /* by one solve */
    fsi_coupled *door[1];

    fsi_interface face; /* by exchange */
    fsi_partitioned scheme;
    fsi_partitioned_scene exchange;
    fsi_guest part;
    fsi_coupled *list[1];
} scene;

/* A box of 1 m x 1.5 m, open above. The jet is 0.25 m wide, with 0.5 m/s. */
static void make_jet(fsi_grid *grid, int nx) {
    fsi_grid_desc desc = {
        .nx = nx,
        .ny = nx * NY / NX,
        .nz = 1,
        .h = 1.0 / nx,
        .rho = 1,
        .smoke = 1,
        .shells = 1,
        .side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .advect_velocity = FSI_ADVECT_LINEAR,
    };
    ex_need(fsi_grid_init(grid, &desc));

    /* One row of cells that make volume. */
    fsi_grid_source jet = {
        .lo = fsi_vec(0.375, 0, 0),
        .hi = fsi_vec(0.625, 1.01 * desc.h, 0),
        .set = FSI_SOURCE_VELOCITY | FSI_SOURCE_DENSITY | FSI_SOURCE_DIVERGENCE,
        .velocity = fsi_vec(0, 0.5, 0),
        .divergence = 0.5 / desc.h,
        .density = 1,
    };
    ex_need(fsi_grid_add_source(grid, &jet));
}

/* The strip hangs between two pins that are span apart, 14.3 cells above the floor. At rest it is
   a parabola 1.12 times as long. */
static const double cell = 1.0 / NX, span = 16.0 / NX;

static void make_cloth(scene *s, const ex_args *args) {
    fsi_real x[3 * NODES] = {0};
    int32_t segment[2 * (NODES - 1)];
    unsigned char pin[NODES] = {0};
    for (int i = 0; i < NODES; i++) {
        double t = (double)i / (NODES - 1);
        x[3 * i] = 0.5 + span * (t - 0.5);
        x[3 * i + 1] = 14.3 * cell + 4 * 0.22 * span * t * (1 - t);
    }
    for (int i = 0; i < NODES - 1; i++) {
        segment[2 * i] = i;
        segment[2 * i + 1] = i + 1;
    }
    pin[0] = pin[NODES - 1] = 7; /* along x, y and z */

    fsi_soft_desc desc = {
        .dim = 2,
        .vertex_count = NODES,
        .x = x,
        .segment_count = NODES - 1,
        .segment = segment,
        .pin = pin,
        .area_density = ex_number(args, "mass_ratio") * 2 * cell,
        .stretch = 1,
        .bend = 1e-6,
        .damping_stiffness = 0.01,
        .newton = ex_whole(args, "newton"),
        .integrator = s->monolithic ? FSI_SOFT_SPLIT : FSI_SOFT_IMPLICIT,
    };
    ex_need(fsi_soft_init(&s->cloth, &desc));
    s->responder.soft = &s->cloth;
}

/* Starts the strip as a shallow arc, pressed together by a tenth. A nonlinear strip buckles in the
   first two steps, which have no single answer then. */
static void press_into_arc(fsi_soft *cloth) {
    const int last = NODES - 1;
    for (int i = 0; i < NODES; i++)
        cloth->x[3 * i + 1] = 14.3 * cell + 0.2 * span * i * (last - i) / (last * last);
}

/* Scheme pcm: pc, and the cloth carries the mass D of the fluid in the dual cells it cuts:
       (m + D) v = m v* + impulse + D v_F,   v_F what the fluid was told.
   The answer is the same when both agree; see docs/xpm.md. */
static fsi_result carry(const fsi_real *impulse, fsi_real *v, fsi_real dt, void *user) {
    scene *s = (scene *)user;
    fsi_real carried[3 * NODES] = {0};
    for (int i = 0; i < s->face.sides; i++) {
        const fsi_side *side = &s->face.side[i];
        for (int k = side->row; k < side->row_end; k++)
            carried[s->face.col[k]] += s->face.val[k] * side->mass;
    }

    fsi_real mass[NODES];
    fsi_real push[3 * NODES];
    for (int i = 0; i < NODES; i++) {
        fsi_real most = fmax(carried[3 * i], carried[3 * i + 1]);
        for (int k = 3 * i; k < 3 * i + 3; k++)
            push[k] = impulse[k] + most * (s->scheme.last.x_f[k] / dt - v[k]);
        mass[i] = s->cloth.mass[i];
        s->cloth.mass[i] += most;
    }

    fsi_result result = fsi_soft_respond(push, v, dt, &s->responder);
    for (int i = 0; i < NODES; i++)
        s->cloth.mass[i] = mass[i];
    return result;
}

static fsi_scheme scheme_of(const ex_args *args) {
    if (ex_is(args, "scheme", "aitken"))
        return FSI_SCHEME_AITKEN;
    int relaxed = ex_word(args, "scheme")[0] == 'p';
    return relaxed ? FSI_SCHEME_RELAXED : FSI_SCHEME_REDUCED;
}

/* An exchange between smoke and cloth until they agree within a twentieth of a cell. */
static void make_exchange(scene *s, const ex_args *args) {
    int unknowns = 3 * NODES + 64;
    fsi_partitioned_desc desc = {
        .n = unknowns,
        .m = unknowns,
        .per_node = 3,
        .tolerance = 0.05 * s->grid.h,
        .min_iterations = 2,
        .scheme = scheme_of(args),
        .omega = ex_number(args, "omega"),
        .reuse = ex_whole(args, "reuse"),
        .gentle = ex_number(args, "newton") > 1,
        .filter = ex_number(args, "filter"),
        .start = ex_number(args, "start"),
    };

    /* Algorithm 1 as printed. */
    if (desc.reuse == 0) {
        desc.reuse = -1;
        desc.start = 1;
    }
    ex_need(fsi_partitioned_init(&s->scheme, &desc));
    ex_need(fsi_interface_init(&s->face, &s->grid, NULL));

    s->part = s->guest;
    if (ex_is(args, "scheme", "pcm")) {
        s->part.stages.respond_fn = carry;
        s->part.stages.user = s;
    }
    int pressures = ex_is(args, "scheme", "p") || ex_is(args, "scheme", "rmi");
    s->exchange = (fsi_partitioned_scene){
        .grid = &s->grid,
        .face = &s->face,
        .scheme = &s->scheme,
        .list = s->list,
        .solids.part = &s->part,
        .solids.count = 1,
        .fluid.pressure_form = pressures,
        .fluid.bpp = 1,
        .fluid.follow = ex_whole(args, "follow"),
        .stages = s->guest.stages,
    };
}

/* One step by one solve or by exchange. */
static fsi_result step(scene *s, fsi_real dt, fsi_report *report) {
    if (!s->monolithic)
        return ex_try(fsi_partitioned_scene_step(&s->exchange, dt, report));

    s->door[0] = s->guest.door;
    fsi_scene solids = {
        .solid = s->door,
        .count = 1,
        .stages = s->guest.stages,
    };
    return ex_try(fsi_couple_step(&s->couple, &solids, dt, report));
}

static void end(scene *s) {
    fsi_partitioned_scene_free(&s->exchange);
    fsi_partitioned_free(&s->scheme);
    fsi_soft_responder_free(&s->responder);
    fsi_soft_free(&s->cloth);
    fsi_interface_free(&s->face);
    fsi_couple_free(&s->couple);
    fsi_grid_free(&s->grid);
}

/* ---- pictures */
static void draw(ex_args *args, const scene *s) {
    const fsi_grid *grid = &s->grid;
    ex_image image = ex_image_make(420, 560);
    ex_view view = ex_view_make(0, 0, 1, (double)NY / NX, 30, 30, 340, 510);
    fsi_surface cloth = fsi_soft_surface(&s->cloth);
    ex_draw_field(&image, &view, grid->nx, grid->ny, grid->density, 0, 1, EX_SMOKE);
    ex_colorbar(&image, &view, EX_SMOKE, 0, 1, "SMOKE");
    ex_draw_surface(&image, &view, &cloth, ex_rgb(200, 60, 30));
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "cloth_jet",
    .what = "A strip of cloth over a jet of smoke, by partitioned schemes and by one solve.",
    .size = NX,
    .frames = 120,
    .keys =
        {
            EX_NUMBER("mass_ratio", "", "cloth over a fluid layer two cells thick", "1",
                      "1e-6 to 1e3"),
            EX_WORD("scheme", "how they are coupled", "xpm", "p,pc,pcm,rmi,xpm,aitken,monolithic"),
            EX_NUMBER("omega", "", "relaxation of p and pc", "0.05", "1e-4 to 1.9"),
            EX_NUMBER("reuse", "steps", "whose pairs rmi and xpm keep; 0 = the paper's algorithm",
                      "5", "0 to 16"),
            EX_NUMBER("newton", "", "iterations of the cloth: 1 = linear in a step", "1",
                      "1 to 50"),
            EX_NUMBER("follow", "",
                      "most times a step finds the geometry anew at its end; 0 = frozen", "0",
                      "0 to 30"),
            EX_WORD("begin", "shape at first: a shallow arc, or as at rest", "arc", "arc,rest"),
            EX_NUMBER("filter", "", "share of a kept pair that must be new", "0.1", "1e-6 to 0.99"),
            EX_NUMBER("start", "", "share of the first load", "0.1", "1e-3 to 1"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);

    static scene s;
    s.monolithic = ex_is(&args, "scheme", "monolithic");
    make_jet(&s.grid, args.size);
    make_cloth(&s, &args);
    if (ex_is(&args, "begin", "arc"))
        press_into_arc(&s.cloth);
    s.guest = fsi_soft_guest(&s.responder);
    if (s.monolithic)
        ex_need(fsi_couple_init(&s.couple, &s.grid, NULL));
    else
        make_exchange(&s, &args);

    /* The jet goes half a cell a step. */
    double dt = s.grid.h;
    double iterations = 0;
    double peak_speed = 0;
    int most = 0;
    int capped = 0;
    int frame;
    for (frame = 0; frame < args.frames && ex_fine(); frame++) {
        fsi_report report = {0};
        fsi_result result = step(&s, dt, &report);
        double speed = fsi_max_abs(3 * NODES, s.cloth.v);
        ex_check_speed(speed, 10);
        peak_speed = fmax(peak_speed, speed);
        iterations += report.iterations;
        most = report.iterations > most ? report.iterations : most;
        capped += result == FSI_NOT_CONVERGED || result == FSI_STALLED;
        if (args.out)
            draw(&args, &s);
        ex_progress(&args, frame);
    }

    ex_result("mean_iterations", "%.3f", iterations / (frame > 0 ? frame : 1));
    ex_result("max_iterations", "%d", most);
    ex_result("capped_steps", "%d", capped);
    ex_result("modes", "%.2f", s.scheme.now.used_columns);
    ex_result("peak_speed", "%.4f", peak_speed);
    end(&s);
    return ex_end(&args, frame, ex_fine());
}
