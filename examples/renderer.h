/* SPDX-License-Identifier: MIT OR Unlicense
   renderer.h: a small renderer for 3D. Meshes are drawn into the picture's colours and depths:
   solid ones first, then the clear ones (water), then smoke. */
#ifndef RENDERER_H
#define RENDERER_H
#include "pictures.h"

/* ------------------------------------------------------------------------------------------------
 * camera */
/* Where the eye is and its three axes; zoom is 1 / tan(half the field of view). */
typedef struct ex_camera {
    double eye[3];
    double right[3];
    double up[3];
    double ahead[3];
    double zoom;
} ex_camera;

EX double ex_dot3(const double *a, const double *b) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

/* Makes a vector one long; a zero vector stays. */
EX void ex_unit(double *vector) {
    double length = sqrt(ex_dot3(vector, vector));
    for (int i = 0; i < 3 && length > 0; i++)
        vector[i] /= length;
}

EX void ex_cross(const double *a, const double *b, double *product) {
    product[0] = a[1] * b[2] - a[2] * b[1];
    product[1] = a[2] * b[0] - a[0] * b[2];
    product[2] = a[0] * b[1] - a[1] * b[0];
}

/* Looks from (ex, ey, ez) to (tx, ty, tz); up_axis is the axis against gravity, 1 (y) or 2 (z);
   degrees is the field of view from top to bottom. */
EX ex_camera ex_camera_make(double ex, double ey, double ez, double tx, double ty, double tz,
                            int up_axis, double degrees) {
    double up[3] = {0, 0, 0};
    up[up_axis] = 1;
    ex_camera camera = {.eye = {ex, ey, ez}, .ahead = {tx - ex, ty - ey, tz - ez}};
    ex_unit(camera.ahead);
    ex_cross(camera.ahead, up, camera.right);
    ex_unit(camera.right);
    ex_cross(camera.right, camera.ahead, camera.up);
    camera.zoom = 1 / tan(degrees * 3.14159265358979 / 360);
    return camera;
}

/* Pixel and depth of a point: column, row, distance ahead. 0 when it is behind the eye. */
EX int ex_project(const ex_image *image, const ex_camera *camera, const double *point,
                  double *projected) {
    double right = 0;
    double up = 0;
    double ahead = 0;
    for (int i = 0; i < 3; i++) {
        double from_eye = point[i] - camera->eye[i];
        right += from_eye * camera->right[i];
        up += from_eye * camera->up[i];
        ahead += from_eye * camera->ahead[i];
    }

    if (!(ahead > 1e-6))
        return 0;
    projected[0] = image->w / 2.0 + right / ahead * camera->zoom * image->h / 2;
    projected[1] = image->h / 2.0 - up / ahead * camera->zoom * image->h / 2;
    projected[2] = ahead;
    return 1;
}

/* ------------------------------------------------------------------------------------------------
 * lines */
/* A thin line from a to b, hidden by what stands in front of it. */
EX void ex_line3(ex_image *image, const ex_camera *camera, const double *a, const double *b,
                 ex_color color) {
    double p[3];
    double q[3];
    if (!ex_project(image, camera, a, p) || !ex_project(image, camera, b, q))
        return;
    int steps = (int)(fabs(p[0] - q[0]) + fabs(p[1] - q[1])) + 1;
    if (steps >= 20000)
        return;

    for (int i = 0; i <= steps; i++) {
        /* 1 / depth is linear along a line in the picture. */
        double share = (double)i / steps;
        double depth = 1 / ((1 - share) / p[2] + share / q[2]);
        int x = (int)(p[0] + share * (q[0] - p[0]));
        int y = (int)(p[1] + share * (q[1] - p[1]));
        int inside = x >= 0 && y >= 0 && x < image->w && y < image->h;
        if (inside && depth < image->depth[y * image->w + x] * 1.002)
            ex_blend(image, x, y, color, 0.7);
    }
}

/* The twelve edges of a box: four along each axis. */
EX void ex_box3(ex_image *image, const ex_camera *camera, const double *lo, const double *hi,
                ex_color color) {
    for (int edge = 0; edge < 12; edge++) {
        int along = edge / 4;
        int second = (along + 1) % 3;
        int third = (along + 2) % 3;
        double from[3];
        double to[3];
        from[along] = lo[along];
        to[along] = hi[along];
        from[second] = to[second] = edge & 1 ? hi[second] : lo[second];
        from[third] = to[third] = edge & 2 ? hi[third] : lo[third];
        ex_line3(image, camera, from, to, color);
    }
}

/* ------------------------------------------------------------------------------------------------
 * meshes */
typedef struct ex_mesh {
    int vertices;
    int triangles;
    const fsi_real *x;
    const int32_t *index;
    ex_color color;
    double glass; /* 0 = solid; else it is clear and absorbs 63 % after so many metres */
} ex_mesh;

/* The normal of a triangle, twice as long as its area. */
EX void ex_face_normal(const ex_mesh *mesh, int triangle, double *normal) {
    const int32_t *corner = mesh->index + 3 * triangle;
    const fsi_real *origin = mesh->x + 3 * corner[0];
    const fsi_real *second = mesh->x + 3 * corner[1];
    const fsi_real *third = mesh->x + 3 * corner[2];
    double a[3];
    double b[3];
    for (int i = 0; i < 3; i++) {
        a[i] = second[i] - origin[i];
        b[i] = third[i] - origin[i];
    }

    ex_cross(a, b, normal);
}

/* Normals of the vertices, normal [3 * vertices]: those of the faces around, by their area. */
EX void ex_normals(const ex_mesh *mesh, double *normal) {
    memset(normal, 0, (size_t)mesh->vertices * 3 * sizeof *normal);
    for (int t = 0; t < mesh->triangles; t++) {
        double face[3];
        ex_face_normal(mesh, t, face);
        for (int k = 0; k < 3; k++) {
            double *sum = normal + 3 * mesh->index[3 * t + k];
            for (int i = 0; i < 3; i++)
                sum[i] += face[i];
        }
    }

    for (int vertex = 0; vertex < mesh->vertices; vertex++)
        ex_unit(normal + 3 * vertex);
}

/* Normals of the corners of each triangle, normal [9 * triangles]: that of the vertex, or that of
   the face where the two differ by more than 41 degrees, so that boxes keep their edges. */
EX void ex_corner_normals(const ex_mesh *mesh, const double *of_vertex, double *normal) {
    for (int t = 0; t < mesh->triangles; t++) {
        double face[3];
        ex_face_normal(mesh, t, face);
        ex_unit(face);
        for (int k = 0; k < 3; k++) {
            const double *smooth = of_vertex + 3 * mesh->index[3 * t + k];
            const double *chosen = ex_dot3(smooth, face) < 0.75 ? face : smooth;
            memcpy(normal + 9 * t + 3 * k, chosen, 3 * sizeof *normal);
        }
    }
}

/* Light from above left: some from the whole sky, more on what faces it, and a highlight. */
EX ex_color ex_shade(const ex_camera *camera, const double *normal, ex_color base, double gloss) {
    static const double light[3] = {-0.40, 0.80, 0.45};
    double n[3] = {normal[0], normal[1], normal[2]};
    ex_unit(n);

    /* Both sides of a shell are lit: turn the normal towards the eye. */
    if (ex_dot3(n, camera->ahead) > 0)
        for (int i = 0; i < 3; i++)
            n[i] = -n[i];

    /* The highlight is where the normal halves the angle between light and eye. */
    double half[3];
    for (int i = 0; i < 3; i++)
        half[i] = light[i] - camera->ahead[i];
    ex_unit(half);
    double towards = ex_dot3(n, light);
    double mirrored = ex_dot3(n, half);

    double bright = 0.42 + 0.12 * n[1] + 0.5 * (towards > 0 ? towards : 0);
    double highlight = mirrored > 0 ? gloss * 255 * pow(mirrored, 40) : 0;
    return ex_rgb((int)fmin(255, bright * base.r + highlight),
                  (int)fmin(255, bright * base.g + highlight),
                  (int)fmin(255, bright * base.b + highlight));
}

/* A triangle in the picture. */
typedef struct ex_flat {
    double corner[3][3]; /* column, row, depth */
    double area;         /* twice, signed, pixels */
    int left;
    int right;
    int top;
    int bottom;
} ex_flat;

/* Projects triangle t; 0 when it cannot be seen. */
EX int ex_flat_make(const ex_image *image, const ex_camera *camera, const ex_mesh *mesh, int t,
                    ex_flat *flat) {
    for (int k = 0; k < 3; k++) {
        const fsi_real *vertex = mesh->x + 3 * mesh->index[3 * t + k];
        double point[3] = {vertex[0], vertex[1], vertex[2]};
        if (!ex_project(image, camera, point, flat->corner[k]))
            return 0;
    }

    const double *a = flat->corner[0];
    const double *b = flat->corner[1];
    const double *c = flat->corner[2];
    flat->area = (b[0] - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (b[1] - a[1]);
    if (!(fabs(flat->area) > 1e-9) || !(fabs(flat->area) < 1e9))
        return 0;
    flat->left = (int)fmax(0, floor(fmin(a[0], fmin(b[0], c[0]))));
    flat->right = (int)fmin(image->w - 1, ceil(fmax(a[0], fmax(b[0], c[0]))));
    flat->top = (int)fmax(0, floor(fmin(a[1], fmin(b[1], c[1]))));
    flat->bottom = (int)fmin(image->h - 1, ceil(fmax(a[1], fmax(b[1], c[1]))));
    return 1;
}

/* The shares of the three corners at the middle of a pixel; 0 when it lies outside. */
EX int ex_flat_shares(const ex_flat *flat, int x, int y, double share[3]) {
    double px = x + 0.5;
    double py = y + 0.5;
    const double *a = flat->corner[0];
    const double *b = flat->corner[1];
    const double *c = flat->corner[2];
    share[0] = ((b[0] - px) * (c[1] - py) - (c[0] - px) * (b[1] - py)) / flat->area;
    share[1] = ((c[0] - px) * (a[1] - py) - (a[0] - px) * (c[1] - py)) / flat->area;
    share[2] = 1 - share[0] - share[1];
    return share[0] >= -1e-9 && share[1] >= -1e-9 && share[2] >= -1e-9;
}

EX double ex_flat_depth(const ex_flat *flat, const double share[3]) {
    const double(*corner)[3] = flat->corner;
    return 1 / (share[0] / corner[0][2] + share[1] / corner[1][2] + share[2] / corner[2][2]);
}

/* Colours one pixel of a mesh. Clear ones hide more, the further away what is behind them is. */
EX void ex_mesh_pixel(ex_image *image, const ex_camera *camera, const ex_mesh *mesh, int x, int y,
                      double depth, const double *normal) {
    if (mesh->glass > 0) {
        double behind = image->depth[y * image->w + x] - depth;
        double alpha = 0.25 + 0.65 * (1 - exp(-behind / mesh->glass));
        if (behind > 0)
            ex_blend(image, x, y, ex_shade(camera, normal, mesh->color, 0.7), alpha);
    } else
        ex_blend(image, x, y, ex_shade(camera, normal, mesh->color, 0.25), 1);
}

/* All triangles, in two passes over the same pixels: first (shade = 0) the depth of the nearest
   triangle goes into nearest, then (shade = 1) that triangle is coloured. */
EX void ex_raster(ex_image *image, const ex_camera *camera, const ex_mesh *mesh,
                  const double *normals, float *nearest, int shade) {
    for (int t = 0; t < mesh->triangles; t++) {
        ex_flat flat;
        if (!ex_flat_make(image, camera, mesh, t, &flat))
            continue;
        for (int y = flat.top; y <= flat.bottom; y++)
            for (int x = flat.left; x <= flat.right; x++) {
                double share[3];
                if (!ex_flat_shares(&flat, x, y, share))
                    continue;
                double depth = ex_flat_depth(&flat, share);
                float *at = nearest + y * image->w + x;
                if (!shade) {
                    if (depth < *at)
                        *at = (float)depth;
                    continue;
                }

                int hidden = depth > *at * 1.0000005 + 1e-7;
                if (hidden)
                    continue;
                double normal[3] = {0, 0, 0};
                for (int k = 0; k < 3; k++)
                    for (int i = 0; i < 3; i++)
                        normal[i] += share[k] * normals[9 * t + 3 * k + i];
                ex_mesh_pixel(image, camera, mesh, x, y, depth, normal);

                /* Two triangles that meet in this pixel: a clear one is blended only once. */
                if (mesh->glass > 0)
                    *at = -1;
            }
    }
}

/* Draw all solid meshes first, then the clear ones. */
EX void ex_draw_mesh(ex_image *image, const ex_camera *camera, const ex_mesh *mesh) {
    double *of_vertex = (double *)ex_alloc((size_t)mesh->vertices, 3 * sizeof(double));
    double *of_corner = (double *)ex_alloc((size_t)mesh->triangles, 9 * sizeof(double));
    ex_normals(mesh, of_vertex);
    ex_corner_normals(mesh, of_vertex, of_corner);

    /* A clear mesh leaves the picture's depths: what is behind it is still seen. */
    size_t pixels = (size_t)image->w * (size_t)image->h;
    float *own = NULL;
    if (mesh->glass > 0) {
        own = (float *)ex_alloc(pixels, sizeof(float));
        for (size_t i = 0; i < pixels; i++)
            own[i] = 1e30f;
    }

    float *nearest = own ? own : image->depth;
    ex_raster(image, camera, mesh, of_corner, nearest, 0);
    ex_raster(image, camera, mesh, of_corner, nearest, 1);
    free(own);
    free(of_corner);
    free(of_vertex);
}

/* A surface of the library in 3D. */
EX void ex_draw_surface3(ex_image *image, const ex_camera *camera, const fsi_surface *surface,
                         ex_color color) {
    ex_mesh mesh = {
        .vertices = surface->vertex_count,
        .triangles = surface->element_count,
        .x = surface->x,
        .index = surface->index,
        .color = color,
    };
    ex_draw_mesh(image, camera, &mesh);
}

/* Shadow of a surface on the floor at height y, light from above and a little from the side: draw
   it after the floor and before the surface. */
EX void ex_shadow(ex_image *image, const ex_camera *camera, const fsi_surface *surface, double y) {
    fsi_real *x = (fsi_real *)ex_alloc((size_t)surface->vertex_count, 3 * sizeof *x);
    for (int i = 0; i < surface->vertex_count; i++) {
        const fsi_real *point = surface->x + 3 * i;
        fsi_real up = point[1] - y;
        x[3 * i] = point[0] + up * 0.3;
        x[3 * i + 1] = y;
        x[3 * i + 2] = point[2] - up * 0.15;
    }

    fsi_surface flat = *surface;
    flat.x = x;
    ex_draw_surface3(image, camera, &flat, ex_rgb(128, 128, 130));
    free(x);
}

/* A checkered floor in the plane where the axis up_axis is height. */
EX void ex_floor(ex_image *image, const ex_camera *camera, const double *lo, const double *hi,
                 int up_axis, double height, double tile) {
    static const int32_t index[6] = {0, 1, 2, 0, 2, 3};
    int u = 0;
    int v = up_axis == 1 ? 2 : 1;
    int columns = (int)ceil((hi[u] - lo[u]) / tile);
    int rows = (int)ceil((hi[v] - lo[v]) / tile);
    for (int i = 0; i < columns; i++)
        for (int j = 0; j < rows; j++) {
            fsi_real x[12];
            for (int k = 0; k < 4; k++) {
                int to_right = k == 1 || k == 2;
                int further = k >= 2;
                x[3 * k + up_axis] = height;
                x[3 * k + u] = fmin(hi[u], lo[u] + tile * (i + to_right));
                x[3 * k + v] = fmin(hi[v], lo[v] + tile * (j + further));
            }

            int dark = (i + j) & 1;
            ex_mesh mesh = {
                .vertices = 4,
                .triangles = 2,
                .x = x,
                .index = index,
                .color = dark ? ex_rgb(205, 205, 200) : ex_rgb(235, 235, 230),
            };
            ex_draw_mesh(image, camera, &mesh);
        }
}

/* Liquid where phi < 0 (cell-centred, metres) as a clear body; draw it after the solids. */
EX void ex_draw_water(ex_image *image, const ex_camera *camera, int nx, int ny, int nz, double h,
                      const fsi_real *phi, ex_color color, double glass) {
    fsi_iso_desc desc = {
        .nx = nx,
        .ny = ny,
        .nz = nz,
        .h = h,
        .value = phi,
        .closed = 1,
        .origin = fsi_vec(h / 2, h / 2, h / 2),
    };
    fsi_iso_mesh surface = {0};
    if (fsi_iso_build(&desc, &surface) != FSI_OK)
        return;

    ex_mesh mesh = {
        .vertices = surface.vertex_count,
        .triangles = surface.element_count,
        .x = surface.x,
        .index = surface.index,
        .color = color,
        .glass = glass,
    };
    ex_draw_mesh(image, camera, &mesh);
    fsi_iso_free(&surface);
}

/* ------------------------------------------------------------------------------------------------
 * smoke */
/* A cell-centred field in the box from the origin. */
typedef struct ex_volume {
    int n[3];
    double h;
    const fsi_real *density;
    fsi_real *light;  /* how much light reaches each cell, 0 .. 1 */
    int lo[3], hi[3]; /* the cells that hold smoke */
} ex_volume;

EX int ex_volume_has(const ex_volume *volume, int i, int j, int k) {
    const int *n = volume->n;
    int in_front = i >= 0 && j >= 0 && k >= 0;
    return in_front && i < n[0] && j < n[1] && k < n[2];
}

EX int ex_volume_index(const ex_volume *volume, int i, int j, int k) {
    return i + volume->n[0] * (j + volume->n[1] * k);
}

/* Value of a field of the volume at a point in cells, linear between the eight cells around; 0
   outside. */
EX double ex_volume_at(const ex_volume *volume, const fsi_real *field, const double *point) {
    int base[3];
    double upper[3]; /* share of the upper neighbour along each axis */
    for (int axis = 0; axis < 3; axis++) {
        double x = point[axis] - 0.5;
        base[axis] = (int)floor(x);
        upper[axis] = x - base[axis];
    }

    double sum = 0;
    for (int corner = 0; corner < 8; corner++) {
        int di = corner & 1;
        int dj = corner >> 1 & 1;
        int dk = corner >> 2;
        if (!ex_volume_has(volume, base[0] + di, base[1] + dj, base[2] + dk))
            continue;
        int at = ex_volume_index(volume, base[0] + di, base[1] + dj, base[2] + dk);
        double share_x = di ? upper[0] : 1 - upper[0];
        double share_y = dj ? upper[1] : 1 - upper[1];
        double share_z = dk ? upper[2] : 1 - upper[2];
        sum += field[at] * share_x * share_y * share_z;
    }

    return sum;
}

/* The light that leaves the row above downward to (x, z) of the row below; 1 from outside. */
EX double ex_light_from(const ex_volume *volume, double absorb, double x, int row, double z) {
    int x0 = (int)floor(x);
    int z0 = (int)floor(z);
    double sum = 0;
    for (int corner = 0; corner < 4; corner++) {
        int i = x0 + (corner & 1);
        int k = z0 + (corner >> 1);
        double share_x = corner & 1 ? x - x0 : 1 - x + x0;
        double share_z = corner & 2 ? z - z0 : 1 - z + z0;
        double share = share_x * share_z;
        if (ex_volume_has(volume, i, row, k)) {
            int at = ex_volume_index(volume, i, row, k);
            double passed = exp(-absorb * 1.25 * volume->density[at]);
            sum += share * volume->light[at] * passed;
        } else
            sum += share;
    }

    return sum;
}

/* Fills volume->light from above left, row of cells by row of cells downward; absorb is per cell of
   density 1. The slant is that of the light of ex_shade. */
EX void ex_smoke_light(ex_volume *volume, double absorb) {
    const int *n = volume->n;
    for (int j = n[1] - 1; j >= 0; j--)
        for (int k = 0; k < n[2]; k++)
            for (int i = 0; i < n[0]; i++) {
                double light = ex_light_from(volume, absorb, i - 0.5, j + 1, k + 0.5625);
                volume->light[ex_volume_index(volume, i, j, k)] = light;
            }
}

/* The smallest box of cells that holds all smoke: rays need not be followed outside. */
EX void ex_smoke_bounds(ex_volume *volume) {
    for (int axis = 0; axis < 3; axis++) {
        volume->lo[axis] = volume->n[axis];
        volume->hi[axis] = 0;
    }

    int cells = volume->n[0] * volume->n[1] * volume->n[2];
    for (int cell = 0; cell < cells; cell++) {
        if (!(volume->density[cell] > 1e-3))
            continue;
        int rest = cell;
        for (int axis = 0; axis < 3; axis++) {
            int at = rest % volume->n[axis];
            rest /= volume->n[axis];
            if (at < volume->lo[axis])
                volume->lo[axis] = at;
            if (at >= volume->hi[axis])
                volume->hi[axis] = at + 1;
        }
    }
}

/* The part of a ray inside the smoke's box: distances from the eye in units of the direction. */
EX void ex_smoke_clip(const ex_volume *volume, const ex_camera *camera, const double *direction,
                      double *begin, double *end) {
    for (int axis = 0; axis < 3; axis++) {
        double from_eye = (volume->lo[axis] - 1) * volume->h - camera->eye[axis];
        double to_end = (volume->hi[axis] + 1) * volume->h - camera->eye[axis];
        double p = from_eye / direction[axis];
        double q = to_end / direction[axis];
        *begin = fmax(*begin, fmin(p, q));
        *end = fmin(*end, fmax(p, q));
    }
}

/* Follows a ray through the smoke, a cell a step. Returns the share of what is behind that comes
   through, and adds up the light that smoke on the way scatters towards the eye. */
EX double ex_smoke_ray(const ex_volume *volume, const ex_camera *camera, const double *direction,
                       double begin, double end, double clear, double *light) {
    double h = volume->h;
    double through = 1;
    for (double at = begin; at < end && through > 0.005; at += h) {
        double step = fmin(h, end - at);
        double point[3];
        for (int axis = 0; axis < 3; axis++)
            point[axis] = (camera->eye[axis] + (at + step / 2) * direction[axis]) / h;
        double density = ex_volume_at(volume, volume->density, point);
        if (!(density > 1e-4))
            continue;
        double stopped = through * (1 - exp(-density * step / clear));
        *light += stopped * (0.3 + 0.75 * ex_volume_at(volume, volume->light, point));
        through -= stopped;
    }

    return through;
}

/* Smoke in the box from the origin, over and behind what is drawn already. clear: metres of density
   1 that let 37 % of the light through. */
EX void ex_draw_smoke(ex_image *image, const ex_camera *camera, int nx, int ny, int nz, double h,
                      const fsi_real *density, double clear, ex_color color) {
    ex_volume volume = {.n = {nx, ny, nz}, .h = h, .density = density};
    size_t cells = (size_t)nx * (size_t)ny * (size_t)nz;
    volume.light = (fsi_real *)ex_alloc(cells, sizeof *volume.light);
    ex_smoke_light(&volume, h / clear);
    ex_smoke_bounds(&volume);

    for (int y = 0; y < image->h; y++)
        for (int x = 0; x < image->w; x++) {
            /* The ray through the middle of the pixel; ahead it is one long. */
            double px = (x + 0.5 - image->w / 2.0) * 2 / (image->h * camera->zoom);
            double py = (image->h / 2.0 - y - 0.5) * 2 / (image->h * camera->zoom);
            double direction[3];
            for (int axis = 0; axis < 3; axis++) {
                direction[axis] =
                    camera->ahead[axis] + px * camera->right[axis] + py * camera->up[axis];
                if (fabs(direction[axis]) < 1e-9)
                    direction[axis] = 1e-9;
            }

            double begin = 0;
            double end = image->depth[y * image->w + x];
            ex_smoke_clip(&volume, camera, direction, &begin, &end);
            double light = 0;
            double through = ex_smoke_ray(&volume, camera, direction, begin, end, clear, &light);
            if (through >= 1)
                continue;
            uint8_t *pixel = ex_pixel(image, x, y);
            pixel[0] = (uint8_t)fmin(255, pixel[0] * through + color.r * light);
            pixel[1] = (uint8_t)fmin(255, pixel[1] * through + color.g * light);
            pixel[2] = (uint8_t)fmin(255, pixel[2] * through + color.b * light);
        }

    free(volume.light);
}
#endif
