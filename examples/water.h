/* water.h: what the particle examples share: the fluid drawn as a shaded body, and seeded noise on
 * its particles. */
#ifndef WATER_H
#define WATER_H

/* The fluid inside lo .. hi as a shaded surface; clear = 1: as glass, draw it after the solids; 0:
 * opaque, for fluid inside a clear solid. */
EX void water_draw_as(ex_image *image, const ex_camera *camera, const fsi_sph *sph,
                      const double *lo, const double *hi, int clear) {
    fsi_iso_desc desc;
    double a[3], b[3];
    double h = 0.5 * sph->desc.spacing;
    int i;
    memset(&desc, 0, sizeof desc);
    fsi_iso_mesh mesh;
    memset(&mesh, 0, sizeof mesh);

    for (int k = 0; k < 3; k++) { /* only where there is fluid */
        const fsi_real *x = k == 0 ? sph->x : k == 1 ? sph->y : sph->z;
        for (a[k] = hi[k], b[k] = lo[k], i = 0; i < sph->now.count; i++) {
            a[k] = fmin(a[k], x[i]);
            b[k] = fmax(b[k], x[i]);
        }

        a[k] = fmax(lo[k], a[k] - 4 * h);
        b[k] = fmin(hi[k], b[k] + 4 * h);
        if (!(a[k] < b[k]))
            return;
    }

    desc.nx = (int)ceil((b[0] - a[0]) / h) + 3;
    desc.ny = (int)ceil((b[1] - a[1]) / h) + 3;
    desc.nz = (int)ceil((b[2] - a[2]) / h) + 3;
    desc.h = h;
    desc.origin = fsi_vec(a[0] - h, a[1] - h, a[2] - h);
    fsi_real *phi;
    phi = (fsi_real *)malloc((size_t)desc.nx * (size_t)desc.ny * (size_t)desc.nz * sizeof *phi);
    desc.value = phi;
    if (phi
        && fsi_sph_level(sph, desc.origin, desc.h, desc.nx, desc.ny, desc.nz,
                         0.6 * sph->desc.spacing, phi)
               == FSI_OK
        && fsi_iso_build(&desc, &mesh) == FSI_OK) {
        ex_mesh e;
        e.vertices = mesh.vertex_count;
        e.triangles = mesh.element_count;
        e.x = mesh.x;
        e.index = mesh.index;
        e.color = clear ? ex_rgb(60, 130, 205) : ex_rgb(80, 150, 220);
        e.glass = clear ? 8 * sph->desc.spacing : 0;
        ex_draw_mesh(image, camera, &e);
        fsi_iso_free(&mesh);
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
        for (int k = 0; k < 3; k++) {
            fsi_real *x = (k == 0 ? sph->x : k == 1 ? sph->y : sph->z) + i;
            noise = noise * 1664525u + 1013904223u;
            *x += size * ((double)noise / 2147483648.0 - 1);
        }
}
#endif
