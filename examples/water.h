/* water.h: what the particle examples share: the fluid drawn as a clear body, and seeded noise on its particles. */
#ifndef WATER_H
#define WATER_H
/* The fluid inside lo .. hi as a shaded, clear surface; draw it after the solids. */
EX void water_draw(ex_image *m, const ex_camera *c, const fsi_sph *s, const double *lo, const double *hi) {
    fsi_iso_desc d;
    fsi_iso_mesh mesh;
    ex_mesh e;
    double h = 0.55 * (double)s->desc.spacing;
    fsi_real *phi;
    memset(&d, 0, sizeof d); memset(&mesh, 0, sizeof mesh);
    d.nx = (int)ceil((hi[0] - lo[0]) / h) + 3; d.ny = (int)ceil((hi[1] - lo[1]) / h) + 3; d.nz = (int)ceil((hi[2] - lo[2]) / h) + 3;
    d.h = (fsi_real)h;
    d.origin = fsi_vec((fsi_real)(lo[0] - h), (fsi_real)(lo[1] - h), (fsi_real)(lo[2] - h));
    phi = (fsi_real *)malloc((size_t)d.nx * (size_t)d.ny * (size_t)d.nz * sizeof *phi);
    d.value = phi;
    if (phi && fsi_sph_level(s, d.origin, d.h, d.nx, d.ny, d.nz, FSI_R(0.6) * s->desc.spacing, phi) == FSI_OK && fsi_iso_build(&d, &mesh) == FSI_OK) {
        e.vertices = mesh.vertex_count; e.triangles = mesh.element_count; e.x = mesh.x; e.index = mesh.index;
        e.color = ex_rgb(60, 130, 205); e.glass = 8 * (double)s->desc.spacing;
        ex_draw_mesh(m, c, &e);
        fsi_iso_free(&mesh);
    }
    free(phi);
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
