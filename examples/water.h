/* water.h: what the particle examples share: the fluid drawn as a shaded body, and seeded noise on
   its particles. */
#ifndef WATER_H
#define WATER_H

/* The coordinates of all particles along an axis. */
EX fsi_real *water_axis(const fsi_sph *sph, int axis) {
    fsi_real *const coordinates[3] = {sph->x, sph->y, sph->z};
    return coordinates[axis];
}

/* Where particle i is. */
EX fsi_vec3 water_point(const fsi_sph *sph, int i) {
    return fsi_vec(sph->x[i], sph->y[i], sph->z[i]);
}

/* How many particles are outside lo .. hi by more than a margin. */
EX long water_outside(const fsi_sph *sph, const double *lo, const double *hi, double margin) {
    long outside = 0;
    for (int i = 0; i < sph->now.count; i++) {
        int inside = 1;
        for (int axis = 0; axis < 3; axis++) {
            double x = water_axis(sph, axis)[i];
            inside = inside && x > lo[axis] - margin && x < hi[axis] + margin;
        }
        outside += !inside;
    }

    return outside;
}

/* The part of lo .. hi that holds particles, with a margin; 0 when there is none. */
EX int water_bounds(const fsi_sph *sph, const double *lo, const double *hi, double margin,
                    double from[3], double to[3]) {
    for (int axis = 0; axis < 3; axis++) {
        const fsi_real *x = water_axis(sph, axis);
        from[axis] = hi[axis];
        to[axis] = lo[axis];
        for (int i = 0; i < sph->now.count; i++) {
            from[axis] = fmin(from[axis], x[i]);
            to[axis] = fmax(to[axis], x[i]);
        }

        from[axis] = fmax(lo[axis], from[axis] - margin);
        to[axis] = fmin(hi[axis], to[axis] + margin);
        if (!(from[axis] < to[axis]))
            return 0;
    }

    return 1;
}

/* The fluid inside lo .. hi as a shaded surface; clear = 1: as glass, draw it after the solids; 0:
   opaque, for fluid inside a clear solid. */
EX void water_draw_as(ex_image *image, const ex_camera *camera, const fsi_sph *sph,
                      const double *lo, const double *hi, int clear) {
    double spacing = sph->desc.spacing;
    double h = 0.5 * spacing;
    double from[3];
    double to[3];
    if (!water_bounds(sph, lo, hi, 4 * h, from, to))
        return;

    /* A level set on a lattice of half the spacing, and its surface. */
    fsi_iso_desc desc = {
        .nx = (int)ceil((to[0] - from[0]) / h) + 3,
        .ny = (int)ceil((to[1] - from[1]) / h) + 3,
        .nz = (int)ceil((to[2] - from[2]) / h) + 3,
        .h = h,
        .origin = fsi_vec(from[0] - h, from[1] - h, from[2] - h),
    };
    size_t count = (size_t)desc.nx * (size_t)desc.ny * (size_t)desc.nz;
    fsi_real *phi = (fsi_real *)ex_alloc(count, sizeof *phi);
    desc.value = phi;
    fsi_result result =
        fsi_sph_level(sph, desc.origin, desc.h, desc.nx, desc.ny, desc.nz, 0.6 * spacing, phi);
    fsi_iso_mesh surface = {0};
    if (result == FSI_OK)
        result = fsi_iso_build(&desc, &surface);

    if (result == FSI_OK) {
        ex_mesh mesh = {
            .vertices = surface.vertex_count,
            .triangles = surface.element_count,
            .x = surface.x,
            .index = surface.index,
            .color = clear ? ex_rgb(60, 130, 205) : ex_rgb(80, 150, 220),
            .glass = clear ? 8 * spacing : 0,
        };
        ex_draw_mesh(image, camera, &mesh);
        fsi_iso_free(&surface);
    }

    free(phi);
}

EX void water_draw(ex_image *image, const ex_camera *camera, const fsi_sph *sph, const double *lo,
                   const double *hi) {
    water_draw_as(image, camera, sph, lo, hi, 1);
}

/* Moves every particle by at most size m along each axis: another run of the same scene. */
EX void water_disturb(fsi_sph *sph, uint32_t seed, double size) {
    uint32_t noise = seed * 2654435761u + 12345u;
    for (int i = 0; i < sph->now.count; i++)
        for (int axis = 0; axis < 3; axis++) {
            noise = noise * 1664525u + 1013904223u;
            double signed_noise = (double)noise / 2147483648.0 - 1;
            water_axis(sph, axis)[i] += size * signed_noise;
        }
}
#endif
