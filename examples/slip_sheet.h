/* slip_sheet.h: a piece of cloth in a grid with slip walls, and tracers that must not get through
   it: what cloth_pull, cloth_fall and torus_cloth share. */
#ifndef SLIP_SHEET_H
#define SLIP_SHEET_H

/* What each example compares. */
enum {
    SLIP,
    NOSLIP,
    WALLS
};

/* 1 when this wall is to run: wall=both, or the one that is named. */
EX int wall_runs(const ex_args *args, int wall) {
    return !ex_is(args, "wall", wall == SLIP ? "noslip" : "slip");
}

/* result KEY_slip=VALUE or KEY_noslip=VALUE. */
EX void wall_result(const char *key, int wall, const char *format, double value) {
    char name[64];
    snprintf(name, sizeof name, "%s_%s", key, wall == SLIP ? "slip" : "noslip");
    ex_result(name, format, value);
}

typedef struct sheet {
    fsi_grid grid;
    fsi_slip slip;
    fsi_soft cloth;
    fsi_coupled door;
    fsi_coupled *list[3];
    fsi_scene scene;
    fsi_real coefficient[3]; /* slip of each solid: 1 slip, 0 no-slip */
    fsi_report report;

    fsi_obstacle wall[2]; /* what the cloth cannot enter */
    int walls;
    int hits;

    int points;       /* tracers */
    fsi_real *point;  /* where they are */
    fsi_real *before; /* where they were before the step */
    fsi_real *was;    /* where the cloth was before the step */
    int crossed;      /* tracers that got through it */
} sheet;

/* The stages around the coupled solve: forces before it, contact and motion after it. */
EX fsi_result sheet_begin(fsi_real dt, void *user) {
    sheet *self = (sheet *)user;
    fsi_result result = fsi_soft_forces(&self->cloth, dt);
    fsi_soft_couple(&self->cloth, &self->door);
    return result;
}

EX fsi_result sheet_move(fsi_real dt, void *user) {
    sheet *self = (sheet *)user;
    fsi_result result = fsi_soft_take(&self->cloth);
    if (result >= 0 && self->walls)
        result = fsi_soft_contact(&self->cloth, self->wall, self->walls, dt, &self->hits);
    return result < 0 ? result : fsi_soft_move(&self->cloth, dt);
}

/* Cloth of the mesh, with the material given, in a grid; coefficient: its slip. */
EX void sheet_make(sheet *self, const fsi_grid_desc *desc, const fsi_soft_desc *given,
                   const fsi_mesh *mesh, double coefficient, int points) {
    ex_need(fsi_grid_init(&self->grid, desc));
    for (int i = 0; i < 3; i++)
        self->coefficient[i] = coefficient;
    fsi_slip_desc options = {.coefficient = self->coefficient, .passes = 2};
    ex_need(fsi_slip_init(&self->slip, &self->grid, &options));

    /* Stretching and bending stay in the coupled solve: the integrator is split. */
    fsi_soft_desc cloth = *given;
    cloth.vertex_count = mesh->vertex_count;
    cloth.x = mesh->x;
    cloth.integrator = FSI_SOFT_SPLIT;
    if (given->dim == 2) {
        cloth.segment_count = mesh->element_count;
        cloth.segment = mesh->index;
    } else {
        cloth.triangle_count = mesh->element_count;
        cloth.triangle = mesh->index;
    }
    ex_need(fsi_soft_init(&self->cloth, &cloth));

    /* One solid in the scene of a step; callers may add more. */
    self->list[0] = &self->door;
    self->scene = (fsi_scene){
        .solid = self->list,
        .count = 1,
        .stages = {.begin_fn = sheet_begin, .move_fn = sheet_move, .user = self},
    };

    size_t room = 3 * sizeof(fsi_real);
    self->points = points;
    self->point = (fsi_real *)ex_alloc((size_t)points, room);
    self->before = (fsi_real *)ex_alloc((size_t)points, room);
    self->was = (fsi_real *)ex_alloc((size_t)mesh->vertex_count, room);
    self->slip.tracer = points ? self->point : NULL;
    self->slip.tracers = points;
}

EX void sheet_free(sheet *self) {
    fsi_slip_free(&self->slip);
    fsi_soft_free(&self->cloth);
    fsi_grid_free(&self->grid);
    free(self->point);
    free(self->before);
    free(self->was);
}

/* a at time 0, b at time 1. */
static double between(double time, fsi_real a, fsi_real b) {
    return (1 - time) * a + time * b;
}

/* Signed height of tracer p over element e of the cloth, at a time between the begin (0) and the
   end (1) of the step; inside = its foot lies in the element. */
EX double sheet_height(const sheet *self, const fsi_surface *surface, int e, int p, double time,
                       int *inside) {
    /* Corners of the element; in the plane the third direction is z. */
    double corner[3][3] = {{0}};
    for (int i = 0; i < surface->dim; i++) {
        int vertex = surface->index[surface->dim * e + i];
        for (int k = 0; k < 3; k++)
            corner[i][k] = between(time, self->was[3 * vertex + k], surface->x[3 * vertex + k]);
    }

    double from[3];
    double u[3];
    double v[3];
    for (int k = 0; k < 3; k++) {
        from[k] = between(time, self->before[3 * p + k], self->point[3 * p + k]) - corner[0][k];
        u[k] = corner[1][k] - corner[0][k];
        v[k] = surface->dim == 3 ? corner[2][k] - corner[0][k] : k == 2;
    }

    /* Shares of the second and third corner at the foot. */
    double normal[3];
    double by_v[3];
    double by_u[3];
    ex_cross(u, v, normal);
    ex_cross(from, v, by_v);
    ex_cross(u, from, by_u);
    double square = ex_dot3(normal, normal);
    double second = ex_dot3(by_v, normal) / square;
    double third = surface->dim == 3 ? ex_dot3(by_u, normal) / square : 0;
    *inside = second >= 0 && third >= 0 && second + third <= 1;
    return ex_dot3(normal, from);
}

/* 1 when tracer p got to the other side of element e in this step: its height changed sign, and
   its foot was inside when it was zero (found by halving). */
EX int sheet_passed(const sheet *self, const fsi_surface *surface, int e, int p) {
    int inside;
    int below = sheet_height(self, surface, e, p, 0, &inside) < 0;
    if (below == (sheet_height(self, surface, e, p, 1, &inside) < 0))
        return 0;
    double early = 0;
    double late = 1;
    for (int k = 0; k < 40; k++) {
        double middle = (early + late) / 2;
        if ((sheet_height(self, surface, e, p, middle, &inside) < 0) == below)
            early = middle;
        else
            late = middle;
    }

    return inside;
}

/* One step; counts the tracers that got through the cloth. */
EX fsi_result sheet_step(sheet *self, double dt) {
    size_t room = 3 * sizeof(fsi_real);
    memcpy(self->before, self->point, (size_t)self->points * room);
    memcpy(self->was, self->cloth.x, (size_t)self->cloth.desc.vertex_count * room);
    fsi_result result = ex_try(fsi_slip_step(&self->slip, &self->scene, dt, &self->report));

    fsi_surface surface = fsi_soft_surface(&self->cloth);
    for (int p = 0; p < self->points; p++) {
        int passed = 0;
        for (int e = 0; e < surface.element_count && !passed; e++)
            passed = sheet_passed(self, &surface, e, p);
        self->crossed += passed;
    }

    if (!fsi_all_finite(3 * (size_t)self->cloth.desc.vertex_count, self->cloth.x))
        ex_try(FSI_ERR_NUMERIC);
    return result;
}

/* Square of the distance of two vertices. */
EX double sheet_distance2(const fsi_real *x, int first, int second) {
    const fsi_real *a = x + 3 * first;
    const fsi_real *b = x + 3 * second;
    double square = pow(a[0] - b[0], 2);
    square += pow(a[1] - b[1], 2);
    square += pow(a[2] - b[2], 2);
    return square;
}

/* The largest stretch of an edge over its length at rest. */
EX double sheet_stretch(const sheet *self, const fsi_mesh *rest) {
    fsi_surface surface = fsi_soft_surface(&self->cloth);
    int edges = surface.dim == 2 ? 1 : 3;
    double most = 0;
    for (int e = 0; e < surface.element_count; e++)
        for (int i = 0; i < edges; i++) {
            const int32_t *corner = surface.index + surface.dim * e;
            int from = corner[i];
            int to = corner[(i + 1) % surface.dim];
            double now = sheet_distance2(surface.x, from, to);
            double at_rest = sheet_distance2(rest->x, from, to);
            most = fmax(most, sqrt(now / at_rest) - 1);
        }

    return most;
}

/* A sheet in the plane: a line through its nodes. */
EX void sheet_draw2(ex_image *image, const ex_view *view, const fsi_real *x, int nodes,
                    double width, ex_color color) {
    for (int i = 0; i + 1 < nodes; i++) {
        const fsi_real *from = x + 3 * i;
        const fsi_real *to = from + 3;
        ex_line(image, ex_px(view, from[0]), ex_py(view, from[1]), ex_px(view, to[0]),
                ex_py(view, to[1]), width, color);
    }
}
#endif
