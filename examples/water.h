/* water.h: what the particle examples share: the fluid drawn as a shaded body, and seeded noise on
 * its particles. */
#ifndef WATER_H
#define WATER_H

/* The fluid inside lo .. hi as a shaded surface; clear = 1: as glass, draw it after the solids; 0:
 * opaque, for fluid inside a clear solid. */
EX void water_draw_as(ex_image *m, const ex_camera *c, const fsi_sph *s, const double *lo,
                      const double *hi, int clear) {
    fsi_iso_desc d;
    fsi_iso_mesh mesh;
    ex_mesh e;
    double h = 0.5 * (double)s->desc.spacing, a[3], b[3];
    fsi_real *phi;
    int i, k;
    memset(&d, 0, sizeof d);
    memset(&mesh, 0, sizeof mesh);
    for (k = 0; k < 3; k++) { /* only where there is fluid */
        const fsi_real *x = k == 0 ? s->x : k == 1 ? s->y : s->z;
        for (a[k] = hi[k], b[k] = lo[k], i = 0; i < s->now.count; i++) {
            a[k] = fmin(a[k], (double)x[i]);
            b[k] = fmax(b[k], (double)x[i]);
        }
        a[k] = fmax(lo[k], a[k] - 4 * h);
        b[k] = fmin(hi[k], b[k] + 4 * h);
        if (!(a[k] < b[k]))
            return;
    }
    d.nx = (int)ceil((b[0] - a[0]) / h) + 3;
    d.ny = (int)ceil((b[1] - a[1]) / h) + 3;
    d.nz = (int)ceil((b[2] - a[2]) / h) + 3;
    d.h = (fsi_real)h;
    d.origin = fsi_vec((fsi_real)(a[0] - h), (fsi_real)(a[1] - h), (fsi_real)(a[2] - h));
    phi = (fsi_real *)malloc((size_t)d.nx * (size_t)d.ny * (size_t)d.nz * sizeof *phi);
    d.value = phi;
    if (phi
        && fsi_sph_level(s, d.origin, d.h, d.nx, d.ny, d.nz, FSI_R(0.6) * s->desc.spacing, phi)
               == FSI_OK
        && fsi_iso_build(&d, &mesh) == FSI_OK) {
        e.vertices = mesh.vertex_count;
        e.triangles = mesh.element_count;
        e.x = mesh.x;
        e.index = mesh.index;
        e.color = clear ? ex_rgb(60, 130, 205) : ex_rgb(80, 150, 220);
        e.glass = clear ? 8 * (double)s->desc.spacing : 0;
        ex_draw_mesh(m, c, &e);
        fsi_iso_free(&mesh);
    }
    free(phi);
}

EX void water_draw(ex_image *m, const ex_camera *c, const fsi_sph *s, const double *lo,
                   const double *hi) {
    water_draw_as(m, c, s, lo, hi, 1);
}

/* Moves every particle by at most size m along each axis: another run of the same scene. */
EX void water_disturb(fsi_sph *s, uint32_t seed, double size) {
    uint32_t noise = seed * 2654435761u + 12345u;
    int i, k;
    for (i = 0; i < s->now.count; i++)
        for (k = 0; k < 3; k++) {
            fsi_real *x = (k == 0 ? s->x : k == 1 ? s->y : s->z) + i;
            noise = noise * 1664525u + 1013904223u;
            *x += (fsi_real)(size * ((double)noise / 2147483648.0 - 1));
        }
}
#endif
