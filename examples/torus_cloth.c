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
    SIDE = 16, /* squares along the cloth */
    TRACERS = 600,
    KEEP = 16, /* steps of a tracer's trail */
    TORUS = 0  /* the first body of the rigid world */
};

/* The two radii of the torus, height of torus and cloth at first, in a box of 1 m. */
static const double ring = 0.2, tube = 0.08, torus_height = 0.82, cloth_height = 0.62;

typedef struct pond {
    sheet sheet;
    fsi_solids rigid;
    fsi_shape torus;
    fsi_shape floor;
    fsi_external touch; /* the cloth as the rigid world sees it */
} pond;

/* Before the solve: forces on both, and the velocity of the torus for the coupling. */
static fsi_result begin(fsi_real dt, void *user) {
    pond *self = (pond *)user;
    fsi_result result;
    if ((result = fsi_solids_forces(&self->rigid, dt)) < 0)
        return result;
    if ((result = sheet_begin(dt, &self->sheet)) < 0)
        return result;
    return fsi_solids_couple(&self->rigid, TORUS, &self->sheet.list[1]);
}

/* After it: contact of both and motion of the torus, then motion of the cloth. */
static fsi_result move(fsi_real dt, void *user) {
    pond *self = (pond *)user;
    fsi_result result;
    if ((result = fsi_solids_take(&self->rigid, TORUS)) < 0)
        return result;
    if ((result = fsi_solids_move(&self->rigid, dt)) < 0)
        return result;
    return sheet_move(dt, &self->sheet);
}

/* How deep a point is inside the torus, m; negative: outside. */
static double depth(const pond *self, const fsi_real *point) {
    const fsi_rigid *body = &self->rigid.body[TORUS];
    const fsi_real *turn = body->rotation.m;
    fsi_vec3 axis = fsi_vec(turn[1], turn[4], turn[7]);
    fsi_vec3 from_centre = fsi_vec_sub(fsi_vec_load(point), body->x);
    double up = fsi_vec_dot(from_centre, axis);
    double outward = sqrt(fmax(0, fsi_vec_dot(from_centre, from_centre) - up * up)) - ring;
    return tube - hypot(up, outward);
}

/* ---- set-up */
static void make_rigid(pond *self, const ex_args *args) {
    fsi_shape_desc torus = {.kind = FSI_SHAPE_TORUS, .length = ring, .radius = tube};
    fsi_shape_desc plane = {.kind = FSI_SHAPE_PLANE};
    ex_need(fsi_shape_init(&self->torus, &torus));
    ex_need(fsi_shape_init(&self->floor, &plane));

    fsi_solids_desc desc = {
        .dim = 3,
        .max_bodies = 2,
        .max_contacts = 2000,
        .gravity = fsi_vec(0, -9.81, 0),
    };
    fsi_rigid_desc body = {
        .kind = FSI_RIGID_DYNAMIC,
        .shape = &self->torus,
        .x = fsi_vec(0.5, torus_height, 0.5),
        .q = fsi_quat_from_rotation(fsi_vec(ex_number(args, "tilt"), 0, 0)),
        .density = ex_number(args, "density"),
        .friction = 0.3,
    };
    fsi_rigid_desc ground = {.kind = FSI_RIGID_FIXED, .shape = &self->floor};
    ex_need(fsi_solids_init(&self->rigid, &desc));
    ex_need(fsi_solids_add(&self->rigid, &body, NULL));
    ex_need(fsi_solids_add(&self->rigid, &ground, NULL));
}

static void make_air_and_cloth(pond *self, const fsi_mesh *mesh, const ex_args *args,
                               double coefficient) {
    fsi_grid_desc air = {
        .nx = args->size,
        .ny = args->size,
        .nz = args->size,
        .h = 1.0 / args->size,
        .rho = 1.2,
        .gravity = fsi_vec(0, -9.81, 0),
        .shells = 1,
        .side[FSI_TOP].kind = FSI_SIDE_OPEN,
    };
    fsi_soft_desc cloth = {
        .dim = 3,
        .area_density = ex_number(args, "cloth"),
        .stretch = 200,
        .bend = 0.0005,
        .damping_stiffness = 0.01,
        .gravity = fsi_vec(0, -9.81, 0),
        .thickness = 0.02,
        .friction = 0.3,
    };
    sheet_make(&self->sheet, &air, &cloth, mesh, coefficient, TRACERS);
}

/* Began above the cloth: drawn red. */
static int above[TRACERS];

/* Where the tracers were, for the picture. */
static fsi_real trail[WALLS][KEEP][3 * TRACERS];

static double fraction(double value) {
    return value - floor(value);
}

/* Tracers in a slice through the middle, none in the torus or in the cloth. */
static void seed(pond *self) {
    int count = 0;
    for (int i = 0; count < TRACERS; i++) {
        fsi_real *x = self->sheet.point + 3 * count;
        x[0] = 0.05 + 0.9 * fraction(i * 0.8191725134);
        x[1] = 0.05 + 0.9 * fraction(i * 0.6710436067);
        x[2] = 0.44 + 0.12 * fraction(i * 0.5497004779);
        above[count] = x[1] > cloth_height;
        count += depth(self, x) < -0.005 && fabs(x[1] - cloth_height) > 0.005;
    }
}

/* Torus and cloth are solids of one scene, and touch each other. */
static void make(pond *self, const fsi_mesh *mesh, const ex_args *args, double coefficient) {
    make_rigid(self, args);
    make_air_and_cloth(self, mesh, args, coefficient);
    fsi_soft_external(&self->sheet.cloth, &self->touch);
    ex_need(fsi_solids_set_externals(&self->rigid, &self->touch, 1));
    ex_need(fsi_solids_couple(&self->rigid, TORUS, &self->sheet.list[1]));
    self->sheet.scene.count = 2;
    self->sheet.scene.stages.begin_fn = begin;
    self->sheet.scene.stages.move_fn = move;
    self->sheet.scene.stages.user = self;
    seed(self);
}

/* ---- what is measured */
/* Mean way down in the last step of the tracers that began above the cloth, m. */
static double dragged(const pond *self) {
    double sum = 0;
    double count = 0;
    for (int i = 0; i < TRACERS; i++)
        if (above[i]) {
            sum += self->sheet.before[3 * i + 1] - self->sheet.point[3 * i + 1];
            count++;
        }

    return sum / count;
}

/* Tracers more than a quarter of a cell inside the torus. */
static int count_inside(const pond *self) {
    int inside = 0;
    for (int i = 0; i < TRACERS; i++)
        inside += depth(self, self->sheet.point + 3 * i) > 0.25 * self->sheet.grid.h;
    return inside;
}

static double fell(const pond *self) {
    return torus_height - self->rigid.body[TORUS].x.y;
}

/* ---- pictures */
/* A tracer with its way in the last steps. */
static void draw_tracer(ex_image *image, const ex_camera *camera, const pond *self, int wall,
                        int frame, int i) {
    ex_color color = above[i] ? ex_rgb(215, 40, 40) : ex_rgb(0, 130, 120);
    for (int k = frame >= KEEP ? frame - KEEP + 1 : 0; k < frame; k++) {
        const fsi_real *from = trail[wall][k % KEEP] + 3 * i;
        const fsi_real *to = trail[wall][(k + 1) % KEEP] + 3 * i;
        const double a[3] = {from[0], from[1], from[2]};
        const double b[3] = {to[0], to[1], to[2]};
        ex_line3(image, camera, a, b, color);
    }

    fsi_mesh dot;
    fsi_vec3 at = fsi_vec_load(self->sheet.point + 3 * i);
    if (fsi_mesh_sphere(&dot, at, 0.008, 3, NULL) != FSI_OK)
        return;
    fsi_surface surface = fsi_mesh_surface(&dot);
    ex_draw_surface3(image, camera, &surface, color);
    fsi_mesh_free(&dot);
}

static void draw(ex_image *all, pond *self, int wall, int frame) {
    ex_image image = ex_image_make(640, 600);
    ex_camera camera = ex_camera_make(0.5, 1, 2.9, 0.5, 0.48, 0.5, 1, 32);
    const double lo[3] = {0, 0, 0};
    const double hi[3] = {1, 1, 1};
    ex_clear(&image, ex_rgb(240, 246, 250));
    ex_floor(&image, &camera, lo, hi, 1, 0, 0.125);

    fsi_surface cloth = fsi_soft_surface(&self->sheet.cloth);
    if (fsi_solids_couple(&self->rigid, TORUS, &self->sheet.list[1]) == FSI_OK)
        ex_draw_surface3(&image, &camera, &self->sheet.list[1]->surface, ex_rgb(225, 170, 60));
    ex_draw_surface3(&image, &camera, &cloth, ex_rgb(150, 175, 225));
    for (int i = 0; i < TRACERS; i++)
        draw_tracer(&image, &camera, self, wall, frame, i);
    ex_box3(&image, &camera, lo, hi, ex_grey(120));

    char text[32];
    snprintf(text, sizeof text, "FELL %.0f MM", 1e3 * fell(self));
    ex_text(&image, 14, 12, 3, ex_grey(20), wall == SLIP ? "SLIP" : "NO-SLIP");
    ex_text(&image, 14, 40, 2, ex_grey(90), text);
    ex_paste(all, &image, wall * image.w, 0);
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
            EX_NUMBER("density", "kg/m^3", "of the torus; the air has 1.2", "60", "1 to 10000"),
            EX_NUMBER("cloth", "kg/m^2", "of the cloth", "0.1", "0.01 to 10"),
            EX_NUMBER("tilt", "rad", "of the torus at first", "0.25", "-1.5 to 1.5"),
            EX_NUMBER("dt", "s", "time step", "0.005", "1e-4 to 0.02"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    double dt = ex_number(&args, "dt");

    /* The same scene twice, with slip coefficients of 1 and 0. */
    static pond ponds[WALLS];
    fsi_vec3 corner = fsi_vec(0.15, cloth_height, 0.85);
    fsi_mesh mesh;
    ex_need(fsi_mesh_sheet(&mesh, corner, fsi_vec(0.7, 0, 0), fsi_vec(0, 0, -0.7), SIDE, SIDE, 1,
                           NULL, NULL, NULL));
    for (int wall = SLIP; wall < WALLS; wall++)
        make(&ponds[wall], &mesh, &args, wall == SLIP);

    double iterations = 0;
    double deepest = 0;
    double down[WALLS] = {0, 0};
    long steps = 0;
    for (int frame = 0; frame < args.frames && ex_fine(); frame++) {
        for (int wall = SLIP; wall < WALLS && ex_fine(); wall++) {
            pond *self = &ponds[wall];
            if (!wall_runs(&args, wall))
                continue;
            sheet_step(&self->sheet, dt);
            fsi_solids_report report;
            fsi_solids_measure(&self->rigid, &report);
            deepest = fmax(deepest, report.penetration);
            down[wall] += dragged(self);
            memcpy(trail[wall][frame % KEEP], self->sheet.point, sizeof trail[wall][0]);
            iterations += self->sheet.report.iterations;
            steps++;
        }

        if (args.out && frame % 3 == 2) {
            ex_image image = ex_image_make(1280, 600);
            for (int wall = SLIP; wall < WALLS; wall++)
                draw(&image, &ponds[wall], wall, frame);
            ex_frame(&args, &image);
            ex_image_free(&image);
        }

        ex_progress(&args, frame);
    }

    /* The plain names are those of slip, unless only no-slip was run. */
    int stable = ex_fine();
    int shown = ex_is(&args, "wall", "noslip") ? NOSLIP : SLIP;
    const pond *plain = &ponds[shown];
    const pond *noslip = &ponds[NOSLIP];
    int inside = stable ? count_inside(plain) : 0;
    ex_result("leak", "%.5f", (double)(plain->sheet.crossed + inside) / TRACERS);
    ex_result("crossed", "%d", plain->sheet.crossed);
    ex_result("crossed_noslip", "%d", noslip->sheet.crossed);
    ex_result("inside", "%d", inside);
    ex_result("inside_noslip", "%d", stable ? count_inside(noslip) : 0);
    ex_result("fell", "%.4f", stable ? fell(plain) : 0);
    ex_result("fell_noslip", "%.4f", stable ? fell(noslip) : 0);
    ex_result("dragged", "%.4f", down[shown]);
    ex_result("dragged_noslip", "%.4f", down[NOSLIP]);
    ex_result("penetration", "%.5f", deepest); /* of cloth into torus, m */
    ex_result("stretch", "%.4f", stable ? sheet_stretch(&plain->sheet, &mesh) : 0);
    ex_result("iterations", "%.2f", iterations / (double)(steps > 0 ? steps : 1));

    for (int wall = SLIP; wall < WALLS; wall++) {
        sheet_free(&ponds[wall].sheet);
        fsi_solids_free(&ponds[wall].rigid);
        fsi_shape_free(&ponds[wall].torus);
        fsi_shape_free(&ponds[wall].floor);
    }

    fsi_mesh_free(&mesh);
    return ex_end(&args, steps, stable);
}
