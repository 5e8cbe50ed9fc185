/* cap.h: a half circle (2D) or half sphere (3D) of cloth standing on the floor, for balloon.c: its
 * mesh, the volume under it, and a view into it. */
#ifndef CAP_H
#define CAP_H
/* rest radius, centre on the floor */
static const double R = 0.18, CX = 0.5, PI = 3.14159265358979;

/* Completes and initialises c, whose dim is set: a half circle or rings of a half sphere whose rim
 * is pinned to the floor, nodes about a cell apart. */
static int cap_make(fsi_soft *cap, fsi_soft_desc *c, double h) {
    int rings = (int)(PI / 2 * R / (0.9 * h)) + 2,
        around = c->dim == 2 ? 1 : (int)(2 * PI * R / (1.2 * h)), i, k, f = 0, ok;
    int nodes = c->dim == 2 ? 2 * rings - 1 : around * (rings - 1) + 1;
    fsi_real *x = (fsi_real *)calloc((size_t)nodes * 3, sizeof(fsi_real));
    int32_t *index = (int32_t *)calloc((size_t)nodes * 6, sizeof(int32_t));
    unsigned char *pin = (unsigned char *)calloc((size_t)nodes, 1);
    if (!x || !index || !pin)
        return 0;
    for (i = 0; i < nodes; i++) {
        double t = c->dim == 2 ? PI * i / (nodes - 1) : PI / 2 * (i / around) / (rings - 1),
               p = c->dim == 2 ? 0 : 2 * PI * (i % around) / around;
        x[3 * i] = (fsi_real)(CX + R * cos(t) * cos(p));
        x[3 * i + 1] = (fsi_real)(R * sin(t));
        if (c->dim == 3)
            x[3 * i + 2] = (fsi_real)(CX + R * cos(t) * sin(p));
        pin[i] = i < around || (c->dim == 2 && i == nodes - 1) ? 7 : 0;
    }
    for (i = 0; c->dim == 2 && i + 1 < nodes; i++)
        index[f++] = i, index[f++] = i + 1;
    /* a quad to the next ring, at the top a triangle to the pole */
    for (i = 0; c->dim == 3 && i < nodes - 1; i++) {
        int a = i, b = i / around * around + (i + 1) % around, top = a + around >= nodes - 1, q[6];
        q[0] = q[3] = b;
        q[1] = a;
        q[2] = q[4] = top ? nodes - 1 : a + around;
        q[5] = b + around;
        for (k = 0; k < (top ? 3 : 6); k++)
            index[f++] = q[k];
    }
    c->vertex_count = nodes;
    c->x = x;
    c->pin = pin;
    if (c->dim == 2)
        c->segment_count = f / 2, c->segment = index;
    else
        c->triangle_count = f / 3, c->triangle = index, c->stretch_poisson = FSI_R(0.3);
    ok = fsi_soft_init(cap, c) == FSI_OK;
    free(x);
    free(index);
    free(pin);
    return ok;
}

/* Volume between the cap and the floor. */
static double cap_volume(const fsi_soft *cap) {
    fsi_surface u = fsi_soft_surface(cap);
    double v = 0;
    int f;
    for (f = 0; f < u.element_count; f++) {
        const fsi_real *a = u.x + 3 * u.index[u.dim * f], *b = u.x + 3 * u.index[u.dim * f + 1],
                       *c = u.x + 3 * u.index[u.dim * f + u.dim - 1];
        if (u.dim == 2)
            v += 0.5 * (double)(a[1] + b[1]) * (double)(a[0] - b[0]);
        else
            v += (double)((a[1] + b[1] + c[1]) / 3) * 0.5
                 * (double)((b[2] - a[2]) * (c[0] - a[0]) - (b[0] - a[0]) * (c[2] - a[2]));
    }
    return fabs(v);
}

/* Its half away from an eye at (x, z) = (CX + 0.8, CX + 1.2). */
static void cap_draw_open(ex_image *m, const ex_camera *c, const fsi_soft *cap) {
    fsi_surface f = fsi_soft_surface(cap);
    int32_t *half = (int32_t *)malloc((size_t)f.element_count * 3 * sizeof *half);
    int e, n = 0;
    for (e = 0; half && e < f.element_count; e++) {
        const fsi_real *x = f.x + 3 * f.index[3 * e];
        if (0.8 * ((double)x[0] - CX) + 1.2 * ((double)x[2] - CX) < 0)
            memcpy(half + 3 * n++, f.index + 3 * e, 3 * sizeof *half);
    }
    f.index = half;
    f.element_count = n;
    ex_draw_surface3(m, c, &f, ex_rgb(215, 60, 70));
    free(half);
}
#endif
