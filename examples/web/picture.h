/* picture.h: the stage as flat arrays that a renderer reads: one or two fields on cells, edges of
   flat solids, triangles of others, and points. */
#ifndef PICTURE_H
#define PICTURE_H
#include "stage.h"

enum {
    PICTURE_EDGES = 16384,
    PICTURE_PIECES = 64,
    PICTURE_POINTS = 20000,
    PICTURE_VERTICES = 24000,
    PICTURE_TRIANGLES = 40000,
    PICTURE_CELLS = 200000
};

/* What a piece is made of; the renderer has a colour for each. */
typedef enum piece_kind {
    PIECE_BODY = 0,   /* by its density */
    PIECE_FIXED = 1,  /* scripted or fixed */
    PIECE_CLOTH = 2,  /* a line, or a thin sheet */
    PIECE_RUBBER = 3, /* soft and thick */
    PIECE_ALIVE = 4
} piece_kind;

typedef struct piece {
    float kind;
    float tone;         /* log10 of its density over the fluid's */
    float first, count; /* its edges, or its triangles */
    float closed;
    float held; /* 1: in the hand */
} piece;

/* Addresses and counts in one table: what JavaScript reads. */
typedef struct picture_table {
    intptr_t dim;
    intptr_t nx, ny, nz;
    intptr_t phi;   /* liquid; 0 = none */
    intptr_t shade; /* smoke, speed or pressure; 0 = none */
    intptr_t edge;  /* x y x y each */
    intptr_t edges;
    intptr_t piece;
    intptr_t pieces;
    intptr_t point; /* x y z and a tone each */
    intptr_t points;
    intptr_t vertex; /* x y z and a normal each */
    intptr_t vertices;
    intptr_t index;
    intptr_t indices;
} picture_table;

static struct picture {
    picture_table table;
    float edge[4 * PICTURE_EDGES];
    piece piece[PICTURE_PIECES];
    float point[4 * PICTURE_POINTS];
    float vertex[6 * PICTURE_VERTICES];
    uint32_t index[3 * PICTURE_TRIANGLES];
    float shade[PICTURE_CELLS];
    fsi_real place[3 * PICTURE_VERTICES]; /* of a rigid surface */
} picture;

static float tone_of(double density) {
    return (float)log10(density > 1e-6 ? density : 1e-6);
}

static void picture_begin(void) {
    memset(&picture.table, 0, sizeof picture.table);
    picture.table.dim = stage.grid ? stage.grid->dim : 2;
    picture.table.edge = (intptr_t)picture.edge;
    picture.table.piece = (intptr_t)picture.piece;
    picture.table.point = (intptr_t)picture.point;
    picture.table.vertex = (intptr_t)picture.vertex;
    picture.table.index = (intptr_t)picture.index;
}

static piece *picture_piece(piece_kind kind, double density, int closed) {
    if (picture.table.pieces == PICTURE_PIECES)
        picture.table.pieces--;
    piece *next = &picture.piece[picture.table.pieces++];
    memset(next, 0, sizeof *next);
    next->kind = (float)kind;
    next->tone = tone_of(density);
    next->closed = (float)closed;
    return next;
}

/* A flat solid: its edges, moved up by `lift`. */
static piece *picture_edges(const fsi_surface *surface, piece_kind kind, double density,
                            double lift) {
    piece *next = picture_piece(kind, density, surface->closed);
    next->first = (float)picture.table.edges;
    for (int e = 0; e < surface->element_count; e++) {
        if (picture.table.edges == PICTURE_EDGES)
            break;
        float *edge = picture.edge + 4 * picture.table.edges++;
        for (int end = 0; end < 2; end++) {
            const fsi_real *x = surface->x + 3 * surface->index[2 * e + end];
            edge[2 * end] = (float)x[0];
            edge[2 * end + 1] = (float)(x[1] + lift);
        }
    }
    next->count = (float)picture.table.edges - next->first;
    return next;
}

/* Normals: every triangle gives its own, weighted by its area, to its corners. */
static void picture_normals(const uint32_t *index, size_t corners, size_t first, size_t end) {
    for (size_t i = first; i < end; i++)
        memset(picture.vertex + 6 * i + 3, 0, 3 * sizeof(float));
    for (size_t k = 0; k + 2 < corners; k += 3) {
        fsi_vec3 corner[3];
        for (int c = 0; c < 3; c++) {
            const float *x = picture.vertex + 6 * index[k + (size_t)c];
            corner[c] = fsi_vec(x[0], x[1], x[2]);
        }
        fsi_vec3 one = fsi_vec_sub(corner[1], corner[0]);
        fsi_vec3 two = fsi_vec_sub(corner[2], corner[0]);
        fsi_vec3 normal = fsi_vec_cross(one, two);
        for (int c = 0; c < 3; c++) {
            float *sum = picture.vertex + 6 * index[k + (size_t)c] + 3;
            sum[0] += (float)normal.x;
            sum[1] += (float)normal.y;
            sum[2] += (float)normal.z;
        }
    }
}

/* A solid in space: its triangles. */
static piece *picture_mesh(const fsi_surface *surface, piece_kind kind, double density) {
    size_t first = (size_t)picture.table.vertices;
    size_t corners = 3 * (size_t)surface->element_count;
    size_t end = first + (size_t)surface->vertex_count;
    piece *next = picture_piece(kind, density, surface->closed);
    next->first = (float)picture.table.indices;
    if (end > PICTURE_VERTICES
        || (size_t)picture.table.indices + corners > 3 * (size_t)PICTURE_TRIANGLES)
        return next;
    for (int i = 0; i < surface->vertex_count; i++) {
        float *x = picture.vertex + 6 * (first + (size_t)i);
        fsi_vec3 place = fsi_surface_place(surface, i);
        x[0] = (float)place.x;
        x[1] = (float)place.y;
        x[2] = (float)place.z;
    }

    uint32_t *index = picture.index + picture.table.indices;
    for (size_t k = 0; k < corners; k++)
        index[k] = (uint32_t)surface->index[k] + (uint32_t)first;
    picture_normals(index, corners, first, end);
    picture.table.vertices = (intptr_t)end;
    picture.table.indices += (intptr_t)corners;
    next->count = (float)corners;
    return next;
}

static void picture_surface(const fsi_surface *surface, piece_kind kind, double density, int held) {
    piece *next = surface->dim == 2 ? picture_edges(surface, kind, density, 0)
                                    : picture_mesh(surface, kind, density);
    next->held = (float)held;
}

static void picture_bodies(void) {
    for (int i = 0; i < stage.bodies; i++) {
        int id = stage.body[i].id;
        const fsi_rigid *body = &stage.solids->body[id];
        fsi_surface surface;
        if (body->shape->surface.vertex_count > PICTURE_VERTICES)
            continue;
        if (fsi_solids_surface(stage.solids, id, picture.place, NULL, &surface) < 0)
            continue;
        int held = stage.hand.kind == HAND_BODY && stage.hand.index == id;
        int dynamic = body->kind == FSI_RIGID_DYNAMIC;
        picture_surface(&surface, dynamic ? PIECE_BODY : PIECE_FIXED, stage.body[i].density, held);
    }
}

static void picture_point(double x, double y, double z, double tone) {
    if (picture.table.points == PICTURE_POINTS)
        return;
    float *point = picture.point + 4 * picture.table.points++;
    point[0] = (float)x;
    point[1] = (float)y;
    point[2] = (float)z;
    point[3] = (float)tone;
}

static void picture_particles(const fsi_sph *sph) {
    for (int i = 0; i < sph->now.count; i++) {
        double flat = hypot((double)sph->vx[i], (double)sph->vy[i]);
        double speed = hypot(flat, (double)sph->vz[i]);
        picture_point(sph->x[i], sph->y[i], sph->z[i], speed);
    }
}

/* Speed at the centre of a cell of a flat grid. */
static float cell_speed(const fsi_grid *grid, int i, int j) {
    size_t left = (size_t)(i + (grid->nx + 1) * j);
    size_t below = (size_t)(i + grid->nx * j);
    double along = 0.5 * (double)(grid->u[0][left] + grid->u[0][left + 1]);
    double up = 0.5 * (double)(grid->u[1][below] + grid->u[1][below + (size_t)grid->nx]);
    return (float)hypot(along, up);
}

/* Liquid shows its speed as foam; smoke its density. */
static void picture_fields(const fsi_grid *grid) {
    picture.table.nx = grid->nx;
    picture.table.ny = grid->ny;
    picture.table.nz = grid->nz;
    picture.table.phi = (intptr_t)grid->phi;
    if (grid->density) {
        picture.table.shade = (intptr_t)grid->density;
        return;
    }
    if (grid->dim == 3 || grid->cells > PICTURE_CELLS)
        return;
    for (int j = 0; j < grid->ny; j++)
        for (int i = 0; i < grid->nx; i++)
            picture.shade[i + grid->nx * j] = cell_speed(grid, i, j);
    picture.table.shade = (intptr_t)picture.shade;
}

static void picture_parts(void) {
    for (int i = 0; i < stage.parts; i++) {
        const part *own = &stage.part[i];
        int held = stage.hand.object == own->object && stage.hand.kind != HAND_EMPTY;
        if (own->kind == PART_SOFT) {
            fsi_surface surface = fsi_soft_surface(own->object);
            picture_surface(&surface, PIECE_CLOTH, 1, held);
        } else if (own->kind == PART_TLED) {
            fsi_surface surface = fsi_tled_surface(own->object);
            picture_surface(&surface, PIECE_RUBBER, 1, held);
        }
    }
}

static picture_table *picture_make(void) {
    picture_begin();
    if (stage.grid)
        picture_fields(stage.grid);
    if (stage.sph)
        picture_particles(stage.sph);
    if (stage.solids)
        picture_bodies();
    picture_parts();
    if (stage.scene->draw)
        stage.scene->draw();
    return &picture.table;
}
#endif
