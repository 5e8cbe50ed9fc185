/* SPDX-License-Identifier: MIT OR Unlicense
   meshes.h: meshes and fields as files that other programs read. */
#ifndef MESHES_H
#define MESHES_H
#include "arguments.h"

/* Legacy VTK with one cell-centred scalar field. 0 if it cannot be written. */
EX int ex_vtk(const char *path, int nx, int ny, int nz, double h, const char *name,
              const fsi_real *field) {
    FILE *file = fopen(path, "w");
    if (!file)
        return 0;
    int cells = nx * ny * nz;
    fprintf(file, "# vtk DataFile Version 3.0\n%s\nASCII\n", name);
    fprintf(file, "DATASET STRUCTURED_POINTS\nDIMENSIONS %d %d %d\n", nx + 1, ny + 1, nz + 1);
    fprintf(file, "ORIGIN 0 0 0\nSPACING %g %g %g\n", h, h, h);
    fprintf(file, "CELL_DATA %d\nSCALARS %s double 1\nLOOKUP_TABLE default\n", cells, name);

    for (int i = 0; i < cells; i++)
        fprintf(file, "%.9g\n", field[i]);
    return fclose(file) == 0;
}

/* A triangle mesh as Wavefront OBJ. 0 if it cannot be written. */
EX int ex_obj_write(const char *path, int vertices, const fsi_real *x, int triangles,
                    const int32_t *index) {
    FILE *file = fopen(path, "w");
    if (!file)
        return 0;
    for (int i = 0; i < vertices; i++) {
        const fsi_real *point = x + 3 * i;
        fprintf(file, "v %.9g %.9g %.9g\n", point[0], point[1], point[2]);
    }

    /* OBJ counts vertices from 1. */
    for (int i = 0; i < triangles; i++) {
        const int32_t *corner = index + 3 * i;
        fprintf(file, "f %d %d %d\n", corner[0] + 1, corner[1] + 1, corner[2] + 1);
    }

    return fclose(file) == 0;
}

/* The mesh while it is read. */
typedef struct ex_obj {
    fsi_real *x;
    int32_t *index;
    int vertices;
    int triangles;
    int vertex_room;
    int triangle_room;
} ex_obj;

EX void ex_obj_vertex(ex_obj *mesh, double x, double y, double z) {
    if (mesh->vertices == mesh->vertex_room) {
        mesh->vertex_room = 2 * mesh->vertex_room + 256;
        size_t bytes = 3 * (size_t)mesh->vertex_room * sizeof *mesh->x;
        mesh->x = (fsi_real *)realloc(mesh->x, bytes);
        if (!mesh->x)
            ex_die("out of memory");
    }

    fsi_real *point = mesh->x + 3 * mesh->vertices++;
    point[0] = x;
    point[1] = y;
    point[2] = z;
}

EX void ex_obj_triangle(ex_obj *mesh, int a, int b, int c) {
    if (mesh->triangles == mesh->triangle_room) {
        mesh->triangle_room = 2 * mesh->triangle_room + 256;
        size_t bytes = 3 * (size_t)mesh->triangle_room * sizeof *mesh->index;
        mesh->index = (int32_t *)realloc(mesh->index, bytes);
        if (!mesh->index)
            ex_die("out of memory");
    }

    int32_t *corner = mesh->index + 3 * mesh->triangles++;
    corner[0] = a;
    corner[1] = b;
    corner[2] = c;
}

/* A line "f 1 2/5 -1 ..." becomes a fan of triangles. Negative numbers count from the last vertex;
   what follows a slash is skipped. 0 if a corner does not exist. */
EX int ex_obj_face(ex_obj *mesh, const char *text) {
    enum {
        MOST = 64
    };

    int corner[MOST];
    int count = 0;
    while (count < MOST) {
        int number;
        text += strspn(text, " \t");
        if (sscanf(text, "%d", &number) != 1)
            break;
        int at = number < 0 ? mesh->vertices + number : number - 1;
        if (at < 0 || at >= mesh->vertices)
            return 0;
        corner[count++] = at;
        text += strcspn(text, " \t\r\n");
    }

    for (int k = 2; k < count; k++)
        ex_obj_triangle(mesh, corner[0], corner[k - 1], corner[k]);
    return 1;
}

/* Reads vertices and faces. The arrays come from malloc, the caller frees them. 0 on any error. */
EX int ex_obj_read(const char *path, int *vertices, fsi_real **x, int *triangles, int32_t **index) {
    FILE *file = fopen(path, "r");
    *x = NULL;
    *index = NULL;
    if (!file)
        return 0;

    ex_obj mesh = {0};
    char line[1024];
    int ok = 1;
    while (ok && fgets(line, sizeof line, file)) {
        double px;
        double py;
        double pz;
        if (sscanf(line, "v %lf %lf %lf", &px, &py, &pz) == 3)
            ex_obj_vertex(&mesh, px, py, pz);
        else if (line[0] == 'f' && line[1] == ' ')
            ok = ex_obj_face(&mesh, line + 1);
    }

    fclose(file);
    if (!ok || !mesh.vertices || !mesh.triangles) {
        free(mesh.x);
        free(mesh.index);
        return 0;
    }

    *vertices = mesh.vertices;
    *x = mesh.x;
    *triangles = mesh.triangles;
    *index = mesh.index;
    return 1;
}
#endif
