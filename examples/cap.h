/* cap.h: a half circle (2D) or half sphere (3D) of cloth standing on the floor, for balloon.c: its
 * mesh, the volume under it, and a view into it. */
#ifndef CAP_H
#define CAP_H
/* rest radius, centre on the floor */
static const double R = 0.18, CX = 0.5, PI = 3.14159265358979;

/* Completes and initialises c, whose dim is set: a half circle or rings of a half sphere whose rim
 * is pinned to the floor, nodes about a cell apart. */
static int cap_make(fsi_soft *cap, fsi_soft_desc *desc, double h) {
    int rings = (int)(PI / 2 * R / (0.9 * h)) + 2;
    int around = desc->dim == 2 ? 1 : (int)(2 * PI * R / (1.2 * h));
    int f = 0;
    int nodes = desc->dim == 2 ? 2 * rings - 1 : around * (rings - 1) + 1;
    fsi_real *x = (fsi_real *)calloc((size_t)nodes * 3, sizeof(fsi_real));
    int32_t *index = (int32_t *)calloc((size_t)nodes * 6, sizeof(int32_t));
    unsigned char *pin = (unsigned char *)calloc((size_t)nodes, 1);
    if (!x || !index || !pin)
        return 0;

    for (int i = 0; i < nodes; i++) {
        double t = desc->dim == 2 ? PI * i / (nodes - 1) : PI / 2 * (i / around) / (rings - 1);
        double p = desc->dim == 2 ? 0 : 2 * PI * (i % around) / around;
        x[3 * i] = CX + R * cos(t) * cos(p);
        x[3 * i + 1] = R * sin(t);
        if (desc->dim == 3)
            x[3 * i + 2] = CX + R * cos(t) * sin(p);
        pin[i] = i < around || (desc->dim == 2 && i == nodes - 1) ? 7 : 0;
    }

    for (int i = 0; desc->dim == 2 && i + 1 < nodes; i++) {
        index[f++] = i;
        index[f++] = i + 1;
    }

    /* a quad to the next ring, at the top a triangle to the pole */
    for (int i = 0; desc->dim == 3 && i < nodes - 1; i++) {
        int q[6];
        int a = i;
        int b = i / around * around + (i + 1) % around;
        int top = a + around >= nodes - 1;
        q[0] = q[3] = b;
        q[1] = a;
        q[2] = q[4] = top ? nodes - 1 : a + around;
        q[5] = b + around;
        for (int k = 0; k < (top ? 3 : 6); k++)
            index[f++] = q[k];
    }

    desc->vertex_count = nodes;
    desc->x = x;
    desc->pin = pin;
    if (desc->dim == 2) {
        desc->segment_count = f / 2;
        desc->segment = index;
    } else {
        desc->triangle_count = f / 3;
        desc->triangle = index;
        desc->stretch_poisson = 0.3;
    }

    int ok = fsi_soft_init(cap, desc) == FSI_OK;
    free(x);
    free(index);
    free(pin);
    return ok;
}

/* Volume between the cap and the floor. */
static double cap_volume(const fsi_soft *cap) {
    fsi_surface surface = fsi_soft_surface(cap);
    double v = 0;

    for (int f = 0; f < surface.element_count; f++) {
        const fsi_real *a = surface.x + 3 * surface.index[surface.dim * f];
        const fsi_real *b = surface.x + 3 * surface.index[surface.dim * f + 1];
        const fsi_real *c = surface.x + 3 * surface.index[surface.dim * f + surface.dim - 1];
        if (surface.dim == 2)
            v += 0.5 * (a[1] + b[1]) * (a[0] - b[0]);
        else
            v += ((a[1] + b[1] + c[1]) / 3) * 0.5
                 * ((b[2] - a[2]) * (c[0] - a[0]) - (b[0] - a[0]) * (c[2] - a[2]));
    }

    return fabs(v);
}

/* Its half away from an eye at (x, z) = (CX + 0.8, CX + 1.2). */
static void cap_draw_open(ex_image *image, const ex_camera *camera, const fsi_soft *cap) {
    fsi_surface surface = fsi_soft_surface(cap);
    int32_t *half = (int32_t *)malloc((size_t)surface.element_count * 3 * sizeof *half);
    int n = 0;

    for (int e = 0; half && e < surface.element_count; e++) {
        const fsi_real *x = surface.x + 3 * surface.index[3 * e];
        if (0.8 * (x[0] - CX) + 1.2 * (x[2] - CX) < 0)
            memcpy(half + 3 * n++, surface.index + 3 * e, 3 * sizeof *half);
    }

    surface.index = half;
    surface.element_count = n;
    ex_draw_surface3(image, camera, &surface, ex_rgb(215, 60, 70));
    free(half);
}
#endif
