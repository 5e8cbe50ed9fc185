/* cap.h: a half circle (2D) or half sphere (3D) of cloth standing on the floor, for balloon.c: its
   mesh, the volume under it, and a view into it. */
#ifndef CAP_H
#define CAP_H
/* Radius at rest, and x (and z) of the middle on the floor, m. */
static const double radius = 0.18, middle = 0.5, pi = 3.14159265358979;

/* Nodes about a cell apart: an arc, or rings of so many nodes and a pole. */
typedef struct cap_mesh {
    int rings;
    int around;
    int nodes;
    fsi_real *x;
    int32_t *index;
    int corners; /* entries of index */
    unsigned char *pin;
} cap_mesh;

/* Node i at its place; those on the floor are held. */
static void cap_node(cap_mesh *mesh, int dim, int i) {
    int flat = dim == 2;
    int ring = i / mesh->around;
    double last = mesh->nodes - 1;
    double up = flat ? pi * i / last : pi / 2 * ring / (mesh->rings - 1);
    double turn = flat ? 0 : 2 * pi * (i % mesh->around) / mesh->around;
    fsi_real *x = mesh->x + 3 * i;
    x[0] = middle + radius * cos(up) * cos(turn);
    x[1] = radius * sin(up);
    if (!flat)
        x[2] = middle + radius * cos(up) * sin(turn);
    int on_floor = i < mesh->around || (flat && i == mesh->nodes - 1);
    mesh->pin[i] = on_floor ? 7 : 0;
}

/* The two triangles from node i to its neighbour and the next ring; one to the pole at the top. */
static void cap_triangles(cap_mesh *mesh, int i) {
    int around = mesh->around;
    int pole = mesh->nodes - 1;
    int beside = i / around * around + (i + 1) % around;
    int top = i + around >= pole;
    int above = top ? pole : i + around;
    const int corner[6] = {beside, i, above, beside, above, beside + around};
    for (int k = 0; k < (top ? 3 : 6); k++)
        mesh->index[mesh->corners++] = corner[k];
}

/* Completes the desc, whose dim and material are set, and initialises the cap; h: cell size. */
static void cap_make(fsi_soft *cap, fsi_soft_desc *desc, double h) {
    int flat = desc->dim == 2;
    cap_mesh mesh = {.rings = (int)(pi / 2 * radius / (0.9 * h)) + 2};
    mesh.around = flat ? 1 : (int)(2 * pi * radius / (1.2 * h));
    mesh.nodes = flat ? 2 * mesh.rings - 1 : mesh.around * (mesh.rings - 1) + 1;
    mesh.x = (fsi_real *)ex_alloc((size_t)mesh.nodes, 3 * sizeof(fsi_real));
    mesh.index = (int32_t *)ex_alloc((size_t)mesh.nodes, 6 * sizeof(int32_t));
    mesh.pin = (unsigned char *)ex_alloc((size_t)mesh.nodes, 1);

    for (int i = 0; i < mesh.nodes; i++)
        cap_node(&mesh, desc->dim, i);
    for (int i = 0; i < mesh.nodes - 1; i++) {
        if (flat) {
            mesh.index[mesh.corners++] = i;
            mesh.index[mesh.corners++] = i + 1;
        } else
            cap_triangles(&mesh, i);
    }

    desc->vertex_count = mesh.nodes;
    desc->x = mesh.x;
    desc->pin = mesh.pin;
    if (flat) {
        desc->segment_count = mesh.corners / 2;
        desc->segment = mesh.index;
    } else {
        desc->triangle_count = mesh.corners / 3;
        desc->triangle = mesh.index;
        desc->stretch_poisson = 0.3;
    }

    ex_need(fsi_soft_init(cap, desc));
    free(mesh.x);
    free(mesh.index);
    free(mesh.pin);
}

/* Volume between the cap and the floor: prisms under its elements. */
static double cap_volume(const fsi_soft *cap) {
    fsi_surface surface = fsi_soft_surface(cap);
    int dim = surface.dim;
    double volume = 0;
    for (int e = 0; e < surface.element_count; e++) {
        const int32_t *corner = surface.index + dim * e;
        const fsi_real *a = surface.x + 3 * corner[0];
        const fsi_real *b = surface.x + 3 * corner[1];
        const fsi_real *c = surface.x + 3 * corner[dim - 1];
        if (dim == 2) {
            volume += 0.5 * (a[1] + b[1]) * (a[0] - b[0]);
            continue;
        }

        double height = (a[1] + b[1] + c[1]) / 3;
        double ground = (b[2] - a[2]) * (c[0] - a[0]) - (b[0] - a[0]) * (c[2] - a[2]);
        volume += height * 0.5 * ground;
    }

    return fabs(volume);
}

/* Its half away from an eye at (x, z) = (middle + 0.8, middle + 1.2). */
static void cap_draw_open(ex_image *image, const ex_camera *camera, const fsi_soft *cap) {
    fsi_surface surface = fsi_soft_surface(cap);
    int32_t *half = (int32_t *)ex_alloc((size_t)surface.element_count, 3 * sizeof *half);
    int kept = 0;
    for (int e = 0; e < surface.element_count; e++) {
        const int32_t *corner = surface.index + 3 * e;
        const fsi_real *x = surface.x + 3 * corner[0];
        double towards_eye = 0.8 * (x[0] - middle) + 1.2 * (x[2] - middle);
        if (towards_eye < 0)
            memcpy(half + 3 * kept++, corner, 3 * sizeof *half);
    }

    surface.index = half;
    surface.element_count = kept;
    ex_draw_surface3(image, camera, &surface, ex_rgb(215, 60, 70));
    free(half);
}
#endif
