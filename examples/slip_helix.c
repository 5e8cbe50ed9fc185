/* slip_helix: a surface that is no solid steers smoke (Robinson-Mosher et al. 2009, fig. 1): a jet
   rises inside a helical tube whose wall only forbids flow through it. With slip the smoke slides
   along the tube, without it sticks to it.

       build/slip_helix --out out

   Result: share of the smoke outside the tube (leak), mean height of the smoke. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "slip_sheet.h"

enum {
    ALONG = 72,
    AROUND = 16,
    VERTICES = (ALONG + 1) * AROUND,
    TRIANGLES = 2 * ALONG * AROUND
};

/* The tube: its radius, that of the helix it winds along, where the helix starts and ends, m. It
   stands in a box of 1 m x 2 m x 1 m. */
static const double tube = 0.21, coil = 0.22, straight = 0.2, high = 1.7;
static const double pi = 3.14159265358979323846;

/* The middle of the tube at a height. */
static fsi_vec3 axis_at(double y) {
    double risen = fmax(0, y - straight) / (high - straight);
    double angle = 2 * pi * 1.25 * risen;
    return fsi_vec(0.5 + coil * cos(angle), y, 0.5 + coil * sin(angle));
}

/* Level circles of vertices: simple, and enough for a steep tube. */
static void place_vertices(fsi_real *x) {
    for (int i = 0; i <= ALONG; i++)
        for (int j = 0; j < AROUND; j++) {
            fsi_vec3 at = axis_at(high * i / ALONG);
            double angle = 2 * pi * j / AROUND;
            at.x += tube * cos(angle);
            at.z += tube * sin(angle);
            fsi_vec_store(x + 3 * (AROUND * i + j), at);
        }
}

/* Two triangles between each pair of neighbours and the pair above. */
static void make_triangles(int32_t *index) {
    for (int i = 0; i < ALONG; i++)
        for (int j = 0; j < AROUND; j++) {
            int next = (j + 1) % AROUND;
            int here = AROUND * i;
            int above = AROUND * (i + 1);
            int32_t *triangles = index + 6 * (here + j);
            triangles[0] = here + j;
            triangles[1] = above + j;
            triangles[2] = here + next;
            triangles[3] = here + next;
            triangles[4] = above + j;
            triangles[5] = above + next;
        }
}

/* The tube as a shell that stands still: it has no degrees of freedom. */
static fsi_coupled make_tube(void) {
    static fsi_real x[3 * VERTICES];
    static int32_t index[3 * TRIANGLES];
    place_vertices(x);
    make_triangles(index);
    return (fsi_coupled){
        .surface.dim = 3,
        .surface.vertex_count = VERTICES,
        .surface.element_count = TRIANGLES,
        .surface.x = x,
        .surface.index = index,
    };
}

/* The box, open above, with a jet of hot smoke into the lower end of the tube. */
static void make_box(fsi_grid *grid, int size) {
    fsi_grid_desc desc = {
        .nx = size / 2,
        .ny = size,
        .nz = size / 2,
        .h = 2.0 / size,
        .rho = 1,
        .smoke = 1,
        .shells = 1,
        .side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .buoyancy_temperature = 1,
        .up = fsi_vec(0, 1, 0),
    };
    ex_need(fsi_grid_init(grid, &desc));

    fsi_vec3 foot = axis_at(0);
    fsi_grid_source jet = {
        .lo = fsi_vec(foot.x - 0.12, 0, foot.z - 0.12),
        .hi = fsi_vec(foot.x + 0.12, 0.2, foot.z + 0.12),
        .set = FSI_SOURCE_VELOCITY | FSI_SOURCE_DENSITY | FSI_SOURCE_TEMPERATURE
               | FSI_SOURCE_DIVERGENCE,
        .velocity = fsi_vec(0, 1, 0),
        .density = 1,
        .temperature = 1,
        .divergence = 2,
    };
    ex_need(fsi_grid_add_source(grid, &jet));
}

/* The share of the smoke that is outside the tube, and the mean height of all. */
typedef struct findings {
    double outside;
    double height;
} findings;

static findings measure(const fsi_grid *grid) {
    double all = 0;
    double outside = 0;
    double moment = 0;
    for (int k = 0; k < grid->nz; k++)
        for (int j = 0; j < grid->ny; j++)
            for (int i = 0; i < grid->nx; i++) {
                fsi_vec3 at = fsi_grid_cell_centre(grid, i, j, k);
                double smoke = grid->density[i + grid->nx * (j + grid->ny * k)];
                all += smoke;
                moment += smoke * at.y;
                fsi_vec3 arm = fsi_vec_sub(at, axis_at(at.y));
                int beside = hypot(arm.x, arm.z) > tube + 0.5 * grid->h;
                if (at.y <= high && beside)
                    outside += smoke;
            }
    findings found = {0};
    if (all > 0) {
        found.outside = outside / all;
        found.height = moment / all;
    }
    return found;
}

/* ---- pictures */
/* The surface where the smoke has a quarter of its density. */
static void draw_smoke(ex_image *image, const ex_camera *camera, const fsi_grid *grid) {
    fsi_real *value = ex_alloc(grid->cells, sizeof *value);
    for (size_t i = 0; i < grid->cells; i++)
        value[i] = 0.25 - grid->density[i];
    fsi_iso_desc desc = {
        .nx = grid->nx,
        .ny = grid->ny,
        .nz = grid->nz,
        .h = grid->h,
        .value = value,
        .closed = 1,
        .origin = fsi_vec(grid->h / 2, grid->h / 2, grid->h / 2),
    };
    fsi_iso_mesh mesh = {0};
    if (fsi_iso_build(&desc, &mesh) == FSI_OK) {
        ex_mesh smoke = {
            .vertices = mesh.vertex_count,
            .triangles = mesh.element_count,
            .x = mesh.x,
            .index = mesh.index,
            .color = ex_rgb(90, 94, 105),
        };
        ex_draw_mesh(image, camera, &smoke);
        fsi_iso_free(&mesh);
    }
    free(value);
}

static void draw_box(ex_image *both, const fsi_grid *grid, const fsi_surface *surface, int wall) {
    const double lo[3] = {0, 0, 0};
    const double hi[3] = {1, 2, 1};
    ex_image image = ex_image_make(400, 600);
    ex_camera camera = ex_camera_make(2.6, 1.7, 3.4, 0.5, 0.95, 0.5, 1, 34);
    ex_mesh glass = {
        .vertices = surface->vertex_count,
        .triangles = surface->element_count,
        .x = surface->x,
        .index = surface->index,
        .color = ex_rgb(150, 190, 220),
        .glass = 3.0,
    };
    ex_floor(&image, &camera, lo, hi, 1, 0, 0.25);
    draw_smoke(&image, &camera, grid);
    ex_draw_mesh(&image, &camera, &glass);
    ex_box3(&image, &camera, lo, hi, ex_grey(130));
    ex_text(&image, 14, 14, 2, ex_grey(20), wall == NOSLIP ? "NO-SLIP" : "SLIP");
    ex_paste(both, &image, wall * image.w, 0);
    ex_image_free(&image);
}

static void draw(ex_args *args, const fsi_grid *grid, const fsi_surface *surface) {
    ex_image image = ex_image_make(800, 600);
    for (int wall = SLIP; wall < WALLS; wall++)
        draw_box(&image, &grid[wall], surface, wall);
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "slip_helix",
    .what = "A helical surface that is no solid steers a jet of smoke.",
    .size = 48,
    .frames = 60,
    .keys =
        {
            EX_WORD("wall", "of the tube", "both", "both,slip,noslip,none"),
            EX_NUMBER("dt", "s", "time step", "0.03", "1e-4 to 0.2"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    double dt = ex_number(&args, "dt");
    int no_tube = ex_is(&args, "wall", "none");

    /* The same box twice, around a tube with a slip coefficient of 1 and of 0. */
    static const fsi_real coefficient[WALLS] = {1, 0};
    fsi_grid grid[WALLS];
    fsi_slip slip[WALLS];
    for (int wall = SLIP; wall < WALLS; wall++) {
        fsi_slip_desc desc = {.coefficient = &coefficient[wall], .passes = 1};
        make_box(&grid[wall], args.size);
        ex_need(fsi_slip_init(&slip[wall], &grid[wall], &desc));
    }
    fsi_coupled door = make_tube();
    fsi_coupled *list[1] = {&door};
    fsi_scene scene = {.solid = list, .count = no_tube ? 0 : 1};

    double iterations = 0;
    long steps = 0;
    for (int frame = 0; frame < args.frames && ex_fine(); frame++) {
        for (int wall = SLIP; wall < WALLS && ex_fine(); wall++) {
            int runs = no_tube ? wall == SLIP : wall_runs(&args, wall);
            if (!runs)
                continue;
            fsi_report report = {0};
            ex_try(fsi_slip_step(&slip[wall], &scene, dt, &report));
            iterations += report.iterations;
            steps++;
        }
        if (args.out && frame % 3 == 2)
            draw(&args, grid, &door.surface);
        ex_progress(&args, frame);
    }

    /* The plain keys are those of slip, or of no-slip when it runs alone. */
    findings noslip = measure(&grid[NOSLIP]);
    findings shown = ex_is(&args, "wall", "noslip") ? noslip : measure(&grid[SLIP]);
    ex_result("leak", "%.5f", shown.outside);
    ex_result("height", "%.4f", shown.height);
    ex_result("leak_noslip", "%.5f", noslip.outside);
    ex_result("height_noslip", "%.4f", noslip.height);
    ex_result("iterations", "%.2f", iterations / (double)(steps > 0 ? steps : 1));

    for (int wall = SLIP; wall < WALLS; wall++) {
        fsi_slip_free(&slip[wall]);
        fsi_grid_free(&grid[wall]);
    }
    return ex_end(&args, steps, ex_fine());
}
