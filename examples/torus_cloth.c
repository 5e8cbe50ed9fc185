/* torus_cloth: a light cloth falls in air, a rigid torus falls onto it and drags it down, slip
   beside no-slip (Robinson-Mosher et al. 2009, fig. 12). Cloth and torus are both in the coupled
   solve and touch each other in both directions. The tracers begin in layers, one colour each.

       build/torus_cloth --out out

   Result: leak, tracers that got through the cloth or into the torus; dragged, mean way down of
   those that began above the cloth, m. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "slip_sheet.h"

enum {
    SIDE = 16,
    TRACERS = 600,
    KEEP = 16
};

/* m: torus; height of the cloth at first; box 1 x 1 x 1 */
static const double ring = 0.2, tube = 0.08, start = 0.62;

typedef struct pond {
    sheet s;
    fsi_solids rigid;
    fsi_shape torus, floor;
    fsi_external touch;
} pond;

static fsi_result begin(void *user, fsi_real dt) {
    pond *p = (pond *)user;
    fsi_result result = fsi_solids_forces(&p->rigid, dt);
    if (result >= 0)
        result = sheet_begin(&p->s, dt);
    return result < 0 ? result : fsi_solids_couple(&p->rigid, 0, &p->s.list[1]);
}

static fsi_result move(void *user, fsi_real dt) {
    pond *p = (pond *)user;
    fsi_result result = fsi_solids_take(&p->rigid, 0);

    /* contact of both, motion of the torus */
    if (result >= 0)
        result = fsi_solids_move(&p->rigid, dt);
    return result < 0 ? result : sheet_move(&p->s, dt);
}

/* of a point inside the torus, m; negative: outside */
static double depth(const pond *p, const fsi_real *x) {
    const fsi_rigid *body = &p->rigid.body[0];
    fsi_vec3 d = fsi_vec_sub(fsi_vec_load(x), body->x);
    fsi_vec3 y = fsi_vec(body->rotation.m[1], body->rotation.m[4], body->rotation.m[7]);
    double up = fsi_vec_dot(d, y);
    double out = sqrt(fmax(0, fsi_vec_dot(d, d) - up * up)) - ring;
    return tube - hypot(up, out);
}

/* where the tracers were, for the picture */
static fsi_real trail[2][KEEP][3 * TRACERS];
/* began above the cloth: drawn red */
static int above[TRACERS];

/* tracers in a slice through the middle, none in the torus */
static void seed(pond *p) {
    int n = 0;

    for (int i = 0; n < TRACERS; i++) {
        double a = i * 0.8191725134;
        double b = i * 0.6710436067;
        double c = i * 0.5497004779;
        fsi_real *x = p->s.point + 3 * n;
        x[0] = (0.05 + 0.9 * (a - floor(a)));
        x[1] = (0.05 + 0.9 * (b - floor(b)));
        x[2] = (0.44 + 0.12 * (c - floor(c)));
        above[n] = x[1] > start;
        if (depth(p, x) < -0.005 && fabs(x[1] - start) > 0.005)
            n++;
    }
}

static double dragged(const pond *p) { /* in the last step, m */
    double sum = 0;
    double n = 0;

    for (int i = 0; i < TRACERS; i++)
        if (above[i]) {
            sum += p->s.before[3 * i + 1] - p->s.point[3 * i + 1];
            n++;
        }
    return sum / n;
}

static int make(pond *p, const fsi_mesh *mesh, int size, double coefficient, double density,
                double cloth, double tilt) {
    fsi_shape_desc f = {0};

    fsi_grid_desc desc = {
        .nx = size,
        .ny = size,
        .nz = size,
        .h = 1.0 / size,
        .rho = 1.2,
        .gravity.y = -9.81,
        .shells = 1,
        .side[FSI_TOP].kind = FSI_SIDE_OPEN,
    };

    fsi_soft_desc given = {
        .dim = 3,
        .area_density = cloth,
        .stretch = 200,
        .bend = 0.0005,
        .damping_stiffness = 0.01,
        .gravity.y = -9.81,
        .thickness = 0.02,
        .friction = 0.3,
    };

    fsi_shape_desc t = {
        .kind = FSI_SHAPE_TORUS,
        .length = ring,
        .radius = tube,
    };

    f.kind = FSI_SHAPE_PLANE;

    fsi_solids_desc options = {
        .dim = 3,
        .max_bodies = 2,
        .max_contacts = 2000,
        .gravity.y = -9.81,
    };

    fsi_rigid_desc b = {
        .kind = FSI_RIGID_DYNAMIC,
        .shape = &p->torus,
        .x = fsi_vec(0.5, 0.82, 0.5),
        .q = fsi_quat_from_rotation(fsi_vec(tilt, 0, 0)),
        .density = density,
        .friction = 0.3,
    };

    fsi_rigid_desc ground = {
        .kind = FSI_RIGID_FIXED,
        .shape = &p->floor,
    };

    if (fsi_shape_init(&p->torus, &t) != FSI_OK || fsi_shape_init(&p->floor, &f) != FSI_OK
        || fsi_solids_init(&p->rigid, &options) != FSI_OK)
        return 0;
    if (fsi_solids_add(&p->rigid, &b, NULL) != FSI_OK
        || fsi_solids_add(&p->rigid, &ground, NULL) != FSI_OK)
        return 0;
    if (!sheet_make(&p->s, &desc, &given, mesh, coefficient, TRACERS))
        return 0;
    fsi_soft_external(&p->s.cloth, &p->touch);
    if (fsi_solids_set_externals(&p->rigid, &p->touch, 1) != FSI_OK
        || fsi_solids_couple(&p->rigid, 0, &p->s.list[1]) != FSI_OK)
        return 0;
    p->s.scene.count = 2;
    p->s.scene.begin_fn = begin;
    p->s.scene.move_fn = move;
    p->s.scene.user = p;
    seed(p);
    return 1;
}

static void draw(ex_image *all, pond *p, int at, int frame) {
    ex_image image = ex_image_make(640, 600);
    ex_camera camera = ex_camera_make(0.5, 1, 2.9, 0.5, 0.48, 0.5, 1, 32);
    const double lo[3] = {0, 0, 0};
    const double hi[3] = {1, 1, 1};
    const ex_color color[2] = {ex_rgb(0, 130, 120), ex_rgb(215, 40, 40)};
    fsi_surface cloth = fsi_soft_surface(&p->s.cloth);
    char text[32];
    ex_clear(&image, ex_rgb(240, 246, 250));
    ex_floor(&image, &camera, lo, hi, 1, 0, 0.125);
    if (fsi_solids_couple(&p->rigid, 0, &p->s.list[1]) == FSI_OK)
        ex_draw_surface3(&image, &camera, &p->s.list[1]->surface, ex_rgb(225, 170, 60));
    ex_draw_surface3(&image, &camera, &cloth, ex_rgb(150, 175, 225));

    for (int i = 0; i < TRACERS; i++) {
        for (int k = frame >= KEEP ? frame - KEEP + 1 : 0; k < frame; k++) {
            const fsi_real *u = trail[at][k % KEEP] + 3 * i;
            const fsi_real *v = trail[at][(k + 1) % KEEP] + 3 * i;
            const double q[2][3] = {{u[0], u[1], u[2]}, {v[0], v[1], v[2]}};
            ex_line3(&image, &camera, q[0], q[1], color[above[i]]);
        }

        fsi_mesh dot;
        if (fsi_mesh_sphere(&dot, fsi_vec_load(p->s.point + 3 * i), 0.008, 3, NULL) != FSI_OK)
            continue;
        fsi_surface surface = fsi_mesh_surface(&dot);
        ex_draw_surface3(&image, &camera, &surface, color[above[i]]);
        fsi_mesh_free(&dot);
    }

    ex_box3(&image, &camera, lo, hi, ex_rgb(120, 120, 120));
    ex_text(&image, 14, 12, 3, ex_rgb(20, 20, 20), at ? "NO-SLIP" : "SLIP");
    snprintf(text, sizeof text, "FELL %.0f MM", 1e3 * (0.82 - p->rigid.body[0].x.y));
    ex_text(&image, 14, 40, 2, ex_rgb(90, 90, 90), text);
    ex_paste(all, &image, at * image.w, 0);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "torus_cloth",
    .what = "A torus falls onto a light cloth in air and drags it down, slip beside no-slip.",
    .size = 20,
    .frames = 60,
    .keys =
        {
            EX_WORD("wall", "of cloth and torus", "both", "both,slip,noslip"),
            EX_NUMBER("density", "kg/m^3", "of the torus; the air has 1.2", "60", 1, 10000),
            EX_NUMBER("cloth", "kg/m^2", "of the cloth", "0.1", 0.01, 10),
            EX_NUMBER("tilt", "rad", "of the torus at first", "0.25", -1.5, 1.5),
            EX_NUMBER("dt", "s", "time step", "0.005", 1e-4, 0.02),
        },
};

int main(int argc, char **argv) {
    static pond p[2];
    ex_args args;
    double its = 0;
    double deepest = 0;
    double from = 0;
    double down[2] = {0, 0};
    int frame = 0;
    int inside[2] = {0, 0};
    int stable = 1;
    long steps = 0;

    ex_begin(&args, argc, argv, &about);

    /* whose results have the plain names */
    int main_one = ex_is(&args, "wall", "noslip");
    fsi_mesh mesh;
    ex_need(fsi_mesh_sheet(&mesh, fsi_vec(0.15, start, 0.85), fsi_vec(0.7, 0, 0),
                           fsi_vec(0, 0, -0.7), SIDE, SIDE, 1, NULL, NULL, NULL));

    for (int w = 0; w < 2; w++)
        stable = make(&p[w], &mesh, args.size, !w, ex_number(&args, "density"),
                      ex_number(&args, "cloth"), ex_number(&args, "tilt"))
                 && stable;
    from = stable ? p[0].rigid.body[0].x.y : 0;

    for (; frame < args.frames && stable; frame++) {
        for (int w = 0; w < 2 && stable; w++) {
            if (ex_is(&args, "wall", w ? "slip" : "noslip"))
                continue;
            stable = sheet_step(&p[w].s, ex_number(&args, "dt")) >= 0
                     && fsi_all_finite(3 * (size_t)mesh.vertex_count, p[w].s.cloth.x);
            fsi_solids_report report;
            fsi_solids_measure(&p[w].rigid, &report);
            deepest = fmax(deepest, report.penetration);
            down[w] += dragged(&p[w]);
            memcpy(trail[w][frame % KEEP], p[w].s.point, sizeof trail[w][0]);
            its += p[w].s.report.iterations;
            steps++;
        }

        if (args.out && frame % 3 == 2) {
            ex_image image = ex_image_make(1280, 600);
            for (int w = 0; w < 2; w++)
                draw(&image, &p[w], w, frame);
            ex_frame(&args, &image);
            ex_image_free(&image);
        }

        ex_progress(&args, frame);
    }

    for (int w = 0; w < 2; w++)
        for (int i = 0; i < TRACERS && stable; i++)
            inside[w] += depth(&p[w], p[w].s.point + 3 * i) > 0.25 * p[w].s.grid.h;

    ex_result("leak", "%.5f", (double)(p[main_one].s.crossed + inside[main_one]) / TRACERS);
    ex_result("crossed", "%d", p[main_one].s.crossed);
    ex_result("crossed_noslip", "%d", p[1].s.crossed);
    ex_result("inside", "%d", inside[main_one]);
    ex_result("inside_noslip", "%d", inside[1]);
    ex_result("fell", "%.4f", stable ? from - p[main_one].rigid.body[0].x.y : 0);
    ex_result("fell_noslip", "%.4f", stable ? from - p[1].rigid.body[0].x.y : 0);
    ex_result("dragged", "%.4f", down[main_one]);
    ex_result("dragged_noslip", "%.4f", down[1]);
    ex_result("penetration", "%.5f", deepest); /* of cloth into torus, m */
    ex_result("stretch", "%.4f", stable ? sheet_stretch(&p[main_one].s, &mesh) : 0);
    ex_result("iterations", "%.2f", its / (double)(steps > 0 ? steps : 1));

    for (int w = 0; w < 2; w++) {
        sheet_free(&p[w].s);
        fsi_solids_free(&p[w].rigid);
        fsi_shape_free(&p[w].torus);
        fsi_shape_free(&p[w].floor);
    }

    fsi_mesh_free(&mesh);
    return ex_end(&args, steps, stable);
}
