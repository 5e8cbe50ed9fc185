/* A piece of cloth in a grid with slip walls: what cloth_pull, cloth_fall and torus_cloth share. */
#ifndef SLIP_SHEET_H
#define SLIP_SHEET_H

typedef struct sheet {
    fsi_grid grid;
    fsi_slip slip;
    fsi_soft cloth;
    fsi_coupled door, *list[3];
    fsi_scene scene;
    fsi_obstacle wall[2];
    int walls, points, crossed, hits;
    /* tracers, their places and the cloth's before the step */
    fsi_real coefficient[3], *point, *before, *was;
    fsi_report report;
} sheet;

static fsi_result sheet_begin(void *user, fsi_real dt) {
    sheet *s = (sheet *)user;
    fsi_result result = fsi_soft_forces(&s->cloth, dt);
    fsi_soft_coupled(&s->cloth, &s->door);
    return result;
}

static fsi_result sheet_move(void *user, fsi_real dt) {
    sheet *s = (sheet *)user;
    fsi_result result =
        s->walls ? fsi_soft_contact(&s->cloth, s->wall, s->walls, dt, &s->hits) : FSI_OK;
    return result < 0 ? result : fsi_soft_move(&s->cloth, dt);
}

static int sheet_make(sheet *s, const fsi_grid_desc *desc, const fsi_soft_desc *given,
                      const fsi_mesh *mesh, double coefficient, int points) {
    fsi_soft_desc cloth = *given;
    cloth.vertex_count = mesh->vertex_count;
    cloth.x = mesh->x;
    if (given->dim == 2) {
        cloth.segment_count = mesh->element_count;
        cloth.segment = mesh->index;
    } else {
        cloth.triangle_count = mesh->element_count;
        cloth.triangle = mesh->index;
    }

    /* stretching and bending stay in the coupled solve */
    cloth.integrator = FSI_SOFT_SPLIT;
    s->coefficient[0] = s->coefficient[1] = s->coefficient[2] = coefficient;

    fsi_slip_desc options = {
        .coefficient = s->coefficient,
        .passes = 2,
    };

    s->points = points;
    s->point = (fsi_real *)calloc(3 * (size_t)points + 1, sizeof(fsi_real));
    s->before = (fsi_real *)calloc(3 * (size_t)points + 1, sizeof(fsi_real));
    s->was = (fsi_real *)calloc(3 * (size_t)mesh->vertex_count, sizeof(fsi_real));
    int ok = s->point && s->before && s->was && fsi_grid_init(&s->grid, desc) == FSI_OK
             && fsi_slip_init(&s->slip, &s->grid, &options) == FSI_OK
             && fsi_soft_init(&s->cloth, &cloth) == FSI_OK;
    s->list[0] = &s->door;
    s->scene.solid = s->list;
    s->scene.count = 1;
    s->scene.begin_fn = sheet_begin;
    s->scene.move_fn = sheet_move;
    s->scene.user = s;
    s->slip.tracer = points ? s->point : NULL;
    s->slip.tracers = points;
    return ok;
}

static void sheet_free(sheet *s) {
    fsi_slip_free(&s->slip);
    fsi_soft_free(&s->cloth);
    fsi_grid_free(&s->grid);
    free(s->point);
    free(s->before);
    free(s->was);
}

/* Signed height of p over element e of the cloth, t of the way from where it was; in = its foot is
 * inside. */
static double sheet_height(const sheet *s, const fsi_surface *surface, int e, const fsi_real *p,
                           const fsi_real *q, double t, int *in) {
    double c[3], u[3], v[3], n[3], w[3];
    double x[3][3] = {{0}};
    double d = 0;
    double nn = 0;

    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < surface->dim; i++) {
            size_t at = 3 * (size_t)surface->index[surface->dim * e + i] + (size_t)k;
            x[i][k] = (1 - t) * s->was[at] + t * surface->x[at];
        }

        c[k] = (1 - t) * p[k] + t * q[k] - x[0][k];
        u[k] = x[1][k] - x[0][k];
        v[k] = surface->dim == 3 ? x[2][k] - x[0][k] : k == 2;
    }

    ex_cross(u, v, n);

    for (int k = 0; k < 3; k++) {
        d += n[k] * c[k];
        nn += n[k] * n[k];
    }

    /* weight of corner 1 */
    ex_cross(c, v, w);
    u[0] = (w[0] * n[0] + w[1] * n[1] + w[2] * n[2]) / nn;

    for (int k = 0; k < 3; k++)
        u[k] = k ? x[1][k] - x[0][k] : u[0];
    w[0] = u[0];
    u[0] = x[1][0] - x[0][0];
    ex_cross(u, c, v);
    w[1] = surface->dim == 3 ? (v[0] * n[0] + v[1] * n[1] + v[2] * n[2]) / nn : 0;
    *in = w[0] >= 0 && w[1] >= 0 && w[0] + w[1] <= 1;
    return d;
}

/* One step; counts the tracers that got to the other side of an element: height changed its sign
 * while the foot was inside. */
static fsi_result sheet_step(sheet *s, double dt) {
    int in;
    memcpy(s->before, s->point, 3 * (size_t)s->points * sizeof(fsi_real));
    memcpy(s->was, s->cloth.x, 3 * (size_t)s->cloth.desc.vertex_count * sizeof(fsi_real));
    fsi_result result = fsi_slip_step(&s->slip, &s->scene, dt, &s->report);
    fsi_surface surface = fsi_soft_surface(&s->cloth);

    for (int p = 0; p < s->points; p++)
        for (int e = 0; e < surface.element_count; e++) {
            const fsi_real *a = s->before + 3 * p;
            const fsi_real *b = s->point + 3 * p;
            double h0 = sheet_height(s, &surface, e, a, b, 0, &in);
            double h1 = sheet_height(s, &surface, e, a, b, 1, &in);
            double lo = 0;
            double hi = 1;
            if ((h0 < 0) == (h1 < 0))
                continue;
            for (int k = 0; k < 40; k++) {
                double mid = (lo + hi) / 2;
                if ((sheet_height(s, &surface, e, a, b, mid, &in) < 0) == (h0 < 0))
                    lo = mid;
                else
                    hi = mid;
            }
            if (in) {
                s->crossed++;
                break;
            }
        }
    return result;
}

/* Mean stretch of the cloth's edges over their length at rest, and the largest. */
static double sheet_stretch(const sheet *s, const fsi_mesh *rest) {
    fsi_surface surface = fsi_soft_surface(&s->cloth);
    double most = 0;

    for (int e = 0; e < surface.element_count; e++)
        for (int i = 0; i < (surface.dim == 2 ? 1 : 3); i++) {
            double l = 0;
            double m = 0;
            for (int k = 0; k < 3; k++) {
                int a = 3 * surface.index[surface.dim * e + i] + k;
                int b = 3 * surface.index[surface.dim * e + (i + 1) % surface.dim] + k;
                l += pow(surface.x[a] - surface.x[b], 2);
                m += pow(rest->x[a] - rest->x[b], 2);
            }
            if (sqrt(l / m) - 1 > most)
                most = sqrt(l / m) - 1;
        }
    return most;
}
#endif
