/* smoke_ball: light balls thrown about by a plume of smoke (SCHUR fig. 1).
   cc -O2 -I. -Iexamples examples/smoke_ball.c -o smoke_ball -lm */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

enum {
    MOST = 64
};

static void draw(ex_args *a, fsi_world *w) {
    static fsi_real x[3 * 4096], v[3 * 4096];
    ex_image m = ex_image_make(400, 560);
    fsi_grid *g = &w->grid;
    fsi_surface s;
    if (g->dim == 2) {
        ex_view view = ex_view_make(0, 0, 1, 1.5, 20, 20, 340, 510);
        ex_draw_field(&m, &view, g->nx, g->ny, g->density, 0, 1, 2);
        ex_colorbar(&m, &view, 2, 0, 1, "SMOKE");
        for (int i = 0; i < w->door_count; i++) {
            fsi_solids_surface(&w->solids, w->door_body[i], x, v, &s);
            ex_draw_surface(&m, &view, &s, ex_map(0, 0.3 + 0.6 * i / (w->door_count + 1.0)));
        }
    } else {
        ex_camera c = ex_camera_make(1.9, 1.6, 2.7, 0.5, 0.7, 0.5, 1, 36);
        const double lo[3] = {0, 0, 0}, hi[3] = {1, 1.5, 1};
        fsi_iso_desc d = {0};
        fsi_iso_mesh mesh = {0};
        ex_clear(&m, ex_rgb(246, 248, 250));
        ex_floor(&m, &c, lo, hi, 1, 0, 0.125);
        for (int i = 0; i < w->door_count; i++) {
            fsi_solids_surface(&w->solids, w->door_body[i], x, v, &s);
            ex_draw_surface3(&m, &c, &s, ex_map(0, 0.3 + 0.6 * i / (w->door_count + 1.0)));
        }
        for (int i = 0; i < (int)g->cells; i++)
            g->scratch[0][i] = FSI_R(0.3) - g->density[i];
        d.nx = g->nx;
        d.ny = g->ny;
        d.nz = g->nz;
        d.h = g->h;
        d.value = g->scratch[0];
        d.closed = 1;
        d.origin = fsi_vec(g->h / 2, g->h / 2, g->h / 2);
        if (fsi_iso_build(&d, &mesh) == FSI_OK) {
            ex_mesh smoke = {mesh.vertex_count, mesh.element_count, mesh.x,
                             mesh.index,        {120, 124, 135},    0.25};
            ex_draw_mesh(&m, &c, &smoke);
            fsi_iso_free(&mesh);
        }
        ex_box3(&m, &c, lo, hi, ex_rgb(130, 130, 130));
    }
    ex_frame(a, &m);
    ex_image_free(&m);
}

int main(int argc, char **argv) {
    static const ex_key keys[] = {{"dim", "", "2 or 3", "2", 2, 3, NULL},
                                  {"bodies", "", "number of balls", "3", 1, MOST, NULL},
                                  {"density", "", "over the smoke's", "0.2", 1e-4, 1e4, NULL},
                                  {"dt", "s", "time step", "0.02", 1e-4, 0.2, NULL}};
    fsi_world_desc d = {0};
    fsi_shape_desc sd = {0};
    fsi_grid_source jet = {0};
    ex_args a;
    int stable = 1;
    double total = 0;
    ex_begin(&a, argc, argv, "smoke_ball", "Light balls in a plume of smoke.", keys, 4, 72, 160);
    int dim = (int)ex_number(&a, "dim");
    int bodies = (int)ex_number(&a, "bodies");
    double dt = ex_number(&a, "dt");
    d.grid.ny = a.size;
    d.grid.nx = a.size * 2 / 3;
    d.grid.nz = dim == 3 ? a.size * 2 / 3 : 1;
    d.grid.h = FSI_R(1.5) / (fsi_real)d.grid.ny;
    d.grid.rho = 1;
    d.grid.smoke = 1;
    d.grid.side[3].kind = FSI_SIDE_OPEN;
    d.grid.buoyancy_temperature = 1;
    d.grid.up = fsi_vec(0, 1, 0);
    d.grid.confinement = FSI_R(0.1);
    d.max_bodies = bodies;
    fsi_world w;
    if (fsi_world_init(&w, &d) != FSI_OK)
        return 1;
    jet.lo = fsi_vec(FSI_R(0.4), 0, FSI_R(0.4));
    jet.hi = fsi_vec(FSI_R(0.6), FSI_R(1.01) * w.grid.h, FSI_R(0.6));
    jet.set =
        FSI_SOURCE_DENSITY | FSI_SOURCE_TEMPERATURE | FSI_SOURCE_VELOCITY | FSI_SOURCE_DIVERGENCE;
    jet.velocity = fsi_vec(0, FSI_R(0.6), 0);
    jet.divergence = FSI_R(0.6) / w.grid.h;
    jet.density = 1;
    jet.temperature = 1;
    fsi_grid_add_source(&w.grid, &jet);
    sd.kind = FSI_SHAPE_SPHERE;
    sd.dim = dim;
    sd.radius = FSI_R(0.08);
    fsi_shape ball;
    if (fsi_shape_init(&ball, &sd) != FSI_OK)
        return 1;
    for (int i = 0; i < bodies; i++) {
        fsi_rigid_desc b = {0};
        b.kind = FSI_RIGID_DYNAMIC;
        b.shape = &ball;
        b.density = (fsi_real)ex_number(&a, "density");
        b.restitution = FSI_R(0.3);
        b.x = fsi_vec((fsi_real)(0.5 + 0.04 * (i % 3 - 1)), (fsi_real)(0.25 + 0.19 * (i % 6)),
                      dim == 3 ? (fsi_real)(0.5 + 0.18 * (i / 6) + 0.03 * (i % 2)) : 0);
        if (fsi_world_add(&w, &b, NULL) < 0)
            return 1;
    }
    int frame;
    for (frame = 0; frame < a.frames && stable; frame++) {
        fsi_report report;
        stable = fsi_world_step(&w, (fsi_real)dt, &report) >= 0;
        total += report.iterations;
        if (a.out)
            draw(&a, &w);
        ex_progress(&a, frame);
    }
    ex_result("iterations", "%.2f", total / (frame > 0 ? frame : 1));
    fsi_world_free(&w);
    fsi_shape_free(&ball);
    return ex_end(&a, frame, stable);
}
