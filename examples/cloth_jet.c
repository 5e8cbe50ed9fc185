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
    NX = 48,
    NY = 72
};

typedef struct scene {
    fsi_grid grid;
    fsi_soft cloth;
    fsi_soft_responder responder;
    fsi_interface face;
    fsi_partitioned scheme;
    fsi_real dt;
    int monolithic;
} scene;

static void make_grid(scene *s, int nx) {
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

    fsi_grid_init(&s->grid, &desc);

    /* the jet: 0.25 wide, 0.5 m/s, one row of cells that make volume */
    fsi_grid_source jet = {
        .lo = fsi_vec(0.375, 0, 0),
        .hi = fsi_vec(0.625, 1.01 * desc.h, 0),
        .set = FSI_SOURCE_VELOCITY | FSI_SOURCE_DENSITY | FSI_SOURCE_DIVERGENCE,
        .velocity = fsi_vec(0, 0.5, 0),
        .divergence = 0.5 / desc.h,
        .density = 1,
    };

    fsi_grid_add_source(&s->grid, &jet);
}

/* At rest 1.12 times as long as the distance of its pins, 14.3 cells above the floor. arc: it
   starts as a shallow arc, pressed together by a tenth (nonlinear, it buckles in the first two
   steps: those have no single answer); else as it is at rest. */
static void make_cloth(scene *s, double mass_ratio, int newton, int arc) {
    fsi_real x[3 * NODES] = {0};
    int32_t segment[2 * (NODES - 1)];
    unsigned char pin[NODES] = {0};
    const double h = 1.0 / NX;
    const double L = 16 * h;

    for (int i = 0; i < NODES; i++) {
        double t = (double)i / (NODES - 1);
        x[3 * i] = 0.5 + L * (t - 0.5);
        x[3 * i + 1] = 14.3 * h + 4 * 0.22 * L * t * (1 - t);
        if (i) {
            segment[2 * i - 2] = i - 1;
            segment[2 * i - 1] = i;
        }
    }

    pin[0] = pin[NODES - 1] = 7;

    fsi_soft_desc desc = {
        .dim = 2,
        .vertex_count = NODES,
        .x = x,
        .segment_count = NODES - 1,
        .segment = segment,
        .pin = pin,
        .area_density = mass_ratio * 2 * h,
        .stretch = 1,
        .bend = 1e-6,
        .damping_stiffness = 0.01,
        .newton = newton,
        .integrator = s->monolithic ? FSI_SOFT_SPLIT : FSI_SOFT_IMPLICIT,
    };

    fsi_soft_init(&s->cloth, &desc);

    for (int i = 0; i < NODES && arc; i++)
        s->cloth.x[3 * i + 1] =
            (14.3 * h + 0.2 * L * i * (NODES - 1 - i) / ((NODES - 1) * (NODES - 1)));
    s->responder.soft = &s->cloth;
}

/* scheme pcm: pc, and the cloth carries the mass D of the fluid in the dual cells it cuts: (m + D)
   v = m v* + impulse + D v_F, v_F what the fluid was told. The same answer when both agree; see
   docs/xpm.md. */
static fsi_result carry(void *user, fsi_real dt, const fsi_real *impulse, fsi_real *v) {
    scene *s = (scene *)user;
    fsi_real m[NODES];
    fsi_real push[3 * NODES];
    fsi_real D[3 * NODES] = {0};

    for (int i = 0; i < s->face.sides; i++)
        for (int k = s->face.side[i].row; k < s->face.side[i].row_end; k++)
            D[s->face.col[k]] += s->face.val[k] * s->face.side[i].mass;

    for (int i = 0; i < NODES; i++) {
        fsi_real most = D[3 * i] > D[3 * i + 1] ? D[3 * i] : D[3 * i + 1];
        for (int k = 3 * i; k < 3 * i + 3; k++)
            push[k] = impulse[k] + most * (s->scheme.last.x_f[k] / dt - v[k]);
        m[i] = s->cloth.mass[i];
        s->cloth.mass[i] += most;
    }

    fsi_result result = fsi_soft_respond(&s->responder, dt, push, v);

    for (int i = 0; i < NODES; i++)
        s->cloth.mass[i] = m[i];
    return result;
}

static void draw(ex_args *args, scene *s) {
    ex_image image = ex_image_make(420, 560);
    ex_view view = ex_view_make(0, 0, 1, (double)NY / NX, 30, 30, 340, 510);
    fsi_surface cloth = fsi_soft_surface(&s->cloth);
    ex_draw_field(&image, &view, s->grid.nx, s->grid.ny, s->grid.density, 0, 1, 2);
    ex_colorbar(&image, &view, 2, 0, 1, "SMOKE");
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
    static scene s;
    static fsi_partitioned_scene p;

    fsi_couple mono = {0};
    fsi_scene solids = {0};

    fsi_coupled *list[1];
    fsi_coupled *list2[1];
    ex_args args;
    int stable = 1;
    int most = 0;
    int capped = 0;
    double total = 0;
    double peak = 0;

    ex_begin(&args, argc, argv, &about);
    s.monolithic = ex_is(&args, "scheme", "monolithic");
    make_grid(&s, args.size);
    s.dt = s.grid.h;
    make_cloth(&s, ex_number(&args, "mass_ratio"), ex_whole(&args, "newton"),
               ex_is(&args, "begin", "arc"));

    fsi_partitioned_desc desc = {
        .n = 3 * NODES + 64,
        .m = 3 * NODES + 64,
        .group = 3,
        .tolerance = 0.05 * s.grid.h,
        .min_iterations = 2,
        .scheme = ex_is(&args, "scheme", "aitken")     ? FSI_SCHEME_AITKEN
                  : ex_word(&args, "scheme")[0] == 'p' ? FSI_SCHEME_RELAXED
                                                       : FSI_SCHEME_REDUCED,
        .omega = ex_number(&args, "omega"),
        .reuse = ex_whole(&args, "reuse"),
        .gentle = ex_number(&args, "newton") > 1,
        .filter = ex_number(&args, "filter"),
        .start = ex_number(&args, "start"),
    };

    if (desc.reuse == 0) {
        desc.reuse = -1;
        desc.start = 1;
    }

    fsi_partitioned_init(&s.scheme, &desc);
    fsi_guest guest = fsi_soft_guest(&s.responder);
    list[0] = guest.door;

    if (s.monolithic)
        fsi_couple_init(&mono, &s.grid, NULL);
    else
        fsi_interface_init(&s.face, &s.grid, NULL);

    fsi_guest part = {
        .door = guest.door,
        .respond_fn = guest.respond_fn,
        .user = guest.user,
    };

    if (ex_is(&args, "scheme", "pcm")) {
        part.respond_fn = carry;
        part.user = &s;
    }

    p.grid = &s.grid;
    p.face = &s.face;
    p.scheme = &s.scheme;
    p.list = list2;
    p.solids.part = &part;
    p.solids.count = 1;
    p.fluid.pressure_form = ex_is(&args, "scheme", "p") || ex_is(&args, "scheme", "rmi");
    p.fluid.bpp = 1;
    p.fluid.follow = ex_whole(&args, "follow");
    p.begin_fn = solids.begin_fn = guest.begin_fn;
    p.move_fn = solids.move_fn = guest.move_fn;
    p.user = solids.user = guest.user;
    solids.solid = list;
    solids.count = 1;
    int frame;

    for (frame = 0; frame < args.frames && stable; frame++) {
        fsi_report report;
        fsi_result result = s.monolithic ? ex_try(fsi_couple_step(&mono, &solids, s.dt, &report))
                                         : ex_try(fsi_partitioned_scene_step(&p, s.dt, &report));
        double speed = fsi_max_abs(3 * NODES, s.cloth.v);
        if (result < 0 || !(speed <= 10))
            stable = 0;
        if (speed > peak)
            peak = speed;
        total += report.iterations;
        if (report.iterations > most)
            most = report.iterations;
        capped += result == FSI_NOT_CONVERGED || result == FSI_STALLED;
        if (args.out)
            draw(&args, &s);
        ex_progress(&args, frame);
    }

    ex_result("mean_iterations", "%.3f", total / (frame > 0 ? frame : 1));
    ex_result("max_iterations", "%d", most);
    ex_result("capped_steps", "%d", capped);
    ex_result("modes", "%.2f", s.scheme.now.used_columns);
    ex_result("peak_speed", "%.4f", peak);
    fsi_partitioned_scene_free(&p);
    fsi_partitioned_free(&s.scheme);
    fsi_soft_responder_free(&s.responder);
    fsi_soft_free(&s.cloth);
    fsi_interface_free(&s.face);
    fsi_couple_free(&mono);
    fsi_grid_free(&s.grid);
    return ex_end(&args, frame, stable);
}
