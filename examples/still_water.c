/* still_water: water at rest pushes a body of any shape exactly as Archimedes says.

     box     0.4 m x 0.15 m, a barge         wedge   a triangle, in 3D a prism
     ball    a polygon or polyhedron         star    five points
     mesh    an L; or any closed mesh: --set file=PATH.obj, scaled to 0.4 m

       build/still_water --set shape=star --set angle=0.3 --set sink=0.5
       build/still_water --set shape=box --set density=500 --set held=0 --out out

   The tank is 1 m wide, deep and high. `offset` shifts body and surface against the cells, `sink`
   is the share of the body's height that is under water: 1 all of it, 2 twice its height. On a grid
   every form of boundary rounds the body to cells in some way; the load of still water (chapter
   still water of fsi_couple.h) makes up for that, for the pressure of water at rest.

   Held: the worst force over the run against rho g V, and the worst torque against rho g V times
   the height, both from the part of the mesh that is cut off by the surface. Free: the body begins
   at rest where its weight is that of the water it displaces (a neutral one where `sink` says) and
   is left alone for 10 s. What is then left of drift, spin and flow is the error of the method. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

static const double RHO = 1000, GRAVITY = 9.81;

/* A closed mesh; the arrays are malloc's. */
typedef struct mesh {
    int dim, vertices, elements;
    fsi_real *x;
    int32_t *index;
} mesh;

/* The water that a body displaces: its volume, m^3 (m^2 in 2D), and the centre of that. */
typedef struct displaced {
    double volume;
    fsi_vec3 centre;
} displaced;

static fsi_surface surface_of(const mesh *m) {
    fsi_surface surface = {
        .dim = m->dim,
        .closed = 1,
        .vertex_count = m->vertices,
        .element_count = m->elements,
        .x = m->x,
        .index = m->index,
    };
    return surface;
}

/* The part of an element below a height: up to four corners. */
static int clip_below(const fsi_surface *s, int e, double height, fsi_vec3 *corner) {
    int count = 0;
    for (int k = 0; k < s->dim; k++) {
        const int32_t *index = s->index + s->dim * e;
        fsi_vec3 a = fsi_surface_place(s, index[k]);
        fsi_vec3 b = fsi_surface_place(s, index[(k + 1) % s->dim]);
        double above_a = (double)a.y - height;
        double above_b = (double)b.y - height;
        if (above_a < 0)
            corner[count++] = a;
        int crosses = (above_a < 0) != (above_b < 0);
        if (crosses && (s->dim == 3 || k == 0)) {
            double share = above_a / (above_a - above_b);
            corner[count++] = fsi_vec_mad(a, fsi_vec_sub(b, a), (fsi_real)share);
        }
    }
    return count;
}

/* By cones from a point of the water's surface, to which the cut face adds nothing. */
static displaced displace(const fsi_surface *s, double height) {
    fsi_vec3 apex = fsi_vec(FSI_R(0.5), height, s->dim == 3 ? FSI_R(0.5) : 0);
    double volume = 0;
    double moment[3] = {0, 0, 0};
    for (int e = 0; e < s->element_count; e++) {
        fsi_vec3 corner[4];
        int count = clip_below(s, e, height, corner);
        for (int k = s->dim - 1; k < count; k++) {
            fsi_vec3 a = fsi_vec_sub(corner[0], apex);
            fsi_vec3 b = fsi_vec_sub(corner[s->dim == 2 ? 1 : k - 1], apex);
            fsi_vec3 c = fsi_vec_sub(corner[k], apex);
            double part = s->dim == 2 ? (double)fsi_vec_cross(a, b).z / 2
                                      : (double)fsi_vec_dot(a, fsi_vec_cross(b, c)) / 6;
            fsi_vec3 sum = fsi_vec_add(a, b);
            if (s->dim == 3)
                sum = fsi_vec_add(sum, c);
            volume += part;
            moment[0] += part * (double)sum.x / (s->dim + 1);
            moment[1] += part * (double)sum.y / (s->dim + 1);
            moment[2] += part * (double)sum.z / (s->dim + 1);
        }
    }
    displaced water = {volume, apex};
    if (volume > 0) {
        fsi_vec3 arm = fsi_vec(moment[0] / volume, moment[1] / volume, moment[2] / volume);
        water.centre = fsi_vec_add(apex, arm);
    }
    return water;
}

/* ---- shapes */
/* A counter-clockwise outline as loop; in 3D a prism of the given depth, or with a tip on each side
   where the outline is a star around the origin. */
static mesh extrude(int dim, int count, double (*outline)[2], double depth, int tips) {
    mesh m = {.dim = dim};
    m.x = calloc(3 * (2 * (size_t)count + 2), sizeof *m.x);
    m.index = calloc(12 * (size_t)count, sizeof *m.index);
    for (int layer = 0; layer < (dim == 3 && !tips ? 2 : 1); layer++)
        for (int i = 0; i < count; i++) {
            double z = dim == 3 && !tips ? (layer ? depth / 2 : -depth / 2) : 0;
            fsi_vec_store(m.x + 3 * m.vertices++, fsi_vec(outline[i][0], outline[i][1], z));
        }
    int front = m.vertices; /* the middle of either side, where triangles meet */
    for (int side = 0; dim == 3 && side < 2; side++) {
        double centre[2] = {0, 0};
        for (int i = 0; !tips && i < count; i++)
            for (int k = 0; k < 2; k++)
                centre[k] += outline[i][k] / count;
        double z = side ? depth / 2 : -depth / 2;
        fsi_vec_store(m.x + 3 * m.vertices++, fsi_vec(centre[0], centre[1], z));
    }
    for (int i = 0; i < count; i++) {
        int32_t next = (i + 1) % count;
        int32_t upper = tips ? 0 : count;
        int32_t list[12] = {next, i,    front,        upper + i, upper + next, front + 1,
                            i,    next, upper + next, i,         upper + next, upper + i};
        int32_t segment[2] = {i, next};
        int entries = dim == 2 ? 2 : tips ? 6 : 12;
        memcpy(m.index + dim * m.elements, dim == 2 ? segment : list,
               (size_t)entries * sizeof *list);
        m.elements += entries / dim;
    }
    return m;
}

static mesh make_box(int dim) {
    double outline[4][2] = {{-0.2, -0.075}, {0.2, -0.075}, {0.2, 0.075}, {-0.2, 0.075}};
    return extrude(dim, 4, outline, 0.3, 0);
}

static mesh make_wedge(int dim) {
    double outline[3][2] = {{0, -0.15}, {0.2, 0.1}, {-0.2, 0.1}};
    return extrude(dim, 3, outline, 0.3, 0);
}

static mesh make_star(int dim) {
    double outline[10][2];
    for (int i = 0; i < 10; i++) {
        double radius = i % 2 ? 0.08 : 0.2;
        double angle = 3.14159265358979 * (0.5 + i / 5.0);
        outline[i][0] = radius * cos(angle);
        outline[i][1] = radius * sin(angle);
    }
    return extrude(dim, 10, outline, 0.25, 1);
}

/* An L. Its corners are seen from the middle of the inner one, so a fan of triangles closes it. */
static mesh make_bracket(int dim) {
    double outline[6][2] = {{-0.2, -0.15}, {0.2, -0.15}, {0.2, -0.05},
                            {-0.1, -0.05}, {-0.1, 0.15}, {-0.2, 0.15}};
    mesh m = extrude(dim, 6, outline, 0.25, 0);
    for (int side = 0; dim == 3 && side < 2; side++) {
        m.x[3 * (12 + side)] = FSI_R(-0.15);
        m.x[3 * (12 + side) + 1] = FSI_R(-0.1);
    }
    return m;
}

static mesh make_ball(int dim) {
    fsi_shape_desc desc = {
        .kind = FSI_SHAPE_SPHERE, .dim = dim, .radius = FSI_R(0.15), .resolution = 24};
    fsi_shape ball;
    ex_need(fsi_shape_init(&ball, &desc));
    mesh m = {dim, ball.surface.vertex_count, ball.surface.element_count, NULL, NULL};
    size_t numbers = 3 * (size_t)m.vertices;
    size_t corners = (size_t)dim * (size_t)m.elements;
    m.x = malloc(numbers * sizeof *m.x);
    m.index = malloc(corners * sizeof *m.index);
    memcpy(m.x, ball.surface.x, numbers * sizeof *m.x);
    memcpy(m.index, ball.surface.index, corners * sizeof *m.index);
    fsi_shape_free(&ball);
    return m;
}

/* A mesh from a file, scaled to 0.4 m. */
static mesh read_mesh(const char *path, int dim) {
    mesh m = {.dim = 3};
    if (dim != 3)
        ex_die("file: a mesh needs dim=3");
    if (!ex_obj_read(path, &m.vertices, &m.x, &m.elements, &m.index))
        ex_die("file: '%s' is no OBJ that can be read", path);
    double lo = 1e30;
    double hi = -1e30;
    double size = 0;
    for (int k = 0; k < 3; k++) {
        lo = 1e30;
        hi = -1e30;
        for (int i = 0; i < m.vertices; i++) {
            lo = fmin(lo, (double)m.x[3 * i + k]);
            hi = fmax(hi, (double)m.x[3 * i + k]);
        }
        size = fmax(size, hi - lo);
    }
    for (int i = 0; i < 3 * m.vertices; i++)
        m.x[i] *= (fsi_real)(0.4 / size);
    return m;
}

static mesh make_mesh(const ex_args *args) {
    int dim = ex_whole(args, "dim");
    if (ex_is(args, "shape", "mesh") && *ex_word(args, "file"))
        return read_mesh(ex_word(args, "file"), dim);
    if (ex_is(args, "shape", "mesh"))
        return make_bracket(dim);
    if (ex_is(args, "shape", "ball"))
        return make_ball(dim);
    if (ex_is(args, "shape", "star"))
        return make_star(dim);
    return ex_is(args, "shape", "wedge") ? make_wedge(dim) : make_box(dim);
}

/* ---- the scene */
typedef struct pool {
    fsi_world world;
    fsi_shape shape;
    mesh form;          /* turned by the angle, around its centre of mass */
    fsi_surface placed; /* the same where the body is */
    fsi_real *place;    /* memory of that */
    int id;
    double level;  /* of the water, m */
    double low;    /* lowest point of the body below its centre, m */
    double height; /* of the body */
} pool;

static fsi_real water(fsi_vec3 at, void *user) {
    return at.y - (fsi_real)((const pool *)user)->level;
}

/* The form in its own frame: its centre of mass at the origin, turned (in 3D about a slanted axis,
   so that no face stays upright). */
static void make_form(pool *p, const ex_args *args) {
    p->form = make_mesh(args);
    fsi_surface surface = surface_of(&p->form);
    double angle = ex_number(args, "angle");
    fsi_vec3 axis =
        p->form.dim == 3 ? fsi_vec(angle * 0.48, angle * 0.36, angle * 0.8) : fsi_vec(0, 0, angle);
    fsi_quat q = fsi_quat_from_rotation(axis);
    fsi_real volume;
    fsi_vec3 centre;
    fsi_mat3 inertia;
    ex_need(fsi_mesh_mass(&surface, NULL, &volume, &centre, &inertia));
    double top = -1e30;
    p->low = 1e30;
    for (int i = 0; i < p->form.vertices; i++) {
        fsi_vec3 x = fsi_vec_sub(fsi_vec_load(p->form.x + 3 * i), centre);
        x = fsi_quat_rotate(q, x);
        fsi_vec_store(p->form.x + 3 * i, x);
        p->low = fmin(p->low, (double)x.y);
        top = fmax(top, (double)x.y);
    }
    p->height = top - p->low;
    p->place = malloc(3 * (size_t)p->form.vertices * sizeof *p->place);
    p->placed = surface_of(&p->form);
    p->placed.x = p->place;
}

/* Puts the body so that so much of its height is under water. */
static fsi_vec3 put(pool *p, double sink, double offset) {
    double z = p->form.dim == 3 ? 0.5 + 0.7 * offset : 0;
    fsi_vec3 centre = fsi_vec(0.5 + offset, p->level - sink * p->height - p->low, z);
    for (int i = 0; i < p->form.vertices; i++) {
        fsi_vec3 x = fsi_vec_load(p->form.x + 3 * i);
        fsi_vec_store(p->place + 3 * i, fsi_vec_add(centre, x));
    }
    return centre;
}

/* How deep a body of this density floats: its share of height under water. */
static double floating_sink(pool *p, double density) {
    put(p, 1, 0);
    double whole = displace(&p->placed, p->level).volume;
    double lo = 0;
    double hi = 1;
    for (int i = 0; i < 100; i++) {
        double middle = (lo + hi) / 2;
        put(p, middle, 0);
        if (displace(&p->placed, p->level).volume * RHO < density * whole)
            lo = middle;
        else
            hi = middle;
    }
    return (lo + hi) / 2;
}

static void start(pool *p, const ex_args *args) {
    int dim = ex_whole(args, "dim");
    int held = ex_whole(args, "held");
    double density = ex_number(args, "density");
    double h = 1.0 / args->size;
    double offset = h * ex_number(args, "offset");
    fsi_world_desc desc = {
        .grid.nx = args->size,
        .grid.ny = args->size,
        .grid.nz = dim == 3 ? args->size : 1,
        .grid.h = h,
        .grid.rho = RHO,
        .grid.gravity = fsi_vec(0, -GRAVITY, 0),
        .grid.liquid = 1,
        .grid.tolerance = sizeof(fsi_real) == 8 ? 1e-12 : 1e-6,
        .grid.volume_correction = 1,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .couple.boundary = ex_is(args, "boundary", "voxel") ? FSI_BOUNDARY_VOXEL : FSI_BOUNDARY_CUT,
        .max_bodies = 1,
    };
    ex_need(fsi_world_init(&p->world, &desc));

    p->level = 0.65 + offset;
    make_form(p, args);
    int floats = !held && density < RHO;
    double sink = floats ? floating_sink(p, density) : ex_number(args, "sink");
    if (sink * p->height > 0.9 * p->level)
        ex_die("sink: the body would reach the floor");
    fsi_vec3 centre = put(p, sink, offset);

    fsi_surface surface = surface_of(&p->form);
    fsi_shape_desc shape = {.kind = FSI_SHAPE_MESH, .dim = dim, .surface = &surface};
    ex_need(fsi_shape_init(&p->shape, &shape));
    fsi_rigid_desc body = {
        .kind = held ? FSI_RIGID_SCRIPTED : FSI_RIGID_DYNAMIC,
        .shape = &p->shape,
        .density = density,
        .x = centre,
    };
    p->id = ex_need(fsi_world_add(&p->world, &body));
    ex_need(fsi_grid_set_field(&p->world.grid, FSI_FIELD_PHI, water, p));
}

static void stop(pool *p) {
    fsi_world_free(&p->world);
    fsi_shape_free(&p->shape);
    free(p->form.x);
    free(p->form.index);
    free(p->place);
}

/* ---- what is measured */
typedef struct findings {
    double force_error;
    double torque_error;
    double iterations;
} findings;

static void observe(const pool *p, findings *found) {
    fsi_body_report body = {0};
    ex_need(fsi_world_body(&p->world, p->id, &body));
    displaced now = displace(&p->placed, p->level);
    double scale = RHO * GRAVITY * (double)p->shape.volume;
    fsi_vec3 lift = fsi_vec(0, RHO * GRAVITY * now.volume, 0);
    fsi_vec3 torque = fsi_vec_cross(fsi_vec_sub(now.centre, body.about), lift);
    double force_error = (double)fsi_vec_length(fsi_vec_sub(body.force, lift)) / scale;
    double torque_error =
        (double)fsi_vec_length(fsi_vec_sub(body.torque, torque)) / scale / p->height;
    found->force_error = fmax(found->force_error, force_error);
    found->torque_error = fmax(found->torque_error, torque_error);
}

/* ---- pictures: 2D, or the middle of the tank */
static void draw(const pool *p, ex_args *args) {
    const fsi_grid *grid = &p->world.grid;
    ex_image image = ex_image_make(440, 440);
    ex_view view = ex_view_make(0, 0, 1, 1, 20, 20, 400, 400);
    ex_clear(&image, ex_grey(255));
    size_t layer = (size_t)grid->nx * (size_t)grid->ny * (size_t)(grid->nz / 2);
    ex_draw_liquid(&image, &view, grid->nx, grid->ny, grid->phi + layer, ex_rgb(80, 155, 215));
    ex_draw_surface(&image, &view, &p->world.couple.iface.solid[0]->surface, ex_grey(150));
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "still_water",
    .what = "Still water pushes a body of any shape exactly.",
    .size = 40,
    .frames = 1000,
    .keys =
        {
            EX_WORD("shape", "of the body", "box", "box,wedge,ball,star,mesh"),
            EX_TEXT("file", "an OBJ for shape=mesh, dim=3; without it an L"),
            EX_NUMBER("dim", "", "2D or 3D", "2", "2 to 3"),
            EX_NUMBER("density", "kg/m^3", "of a free body", "1000", "1 to 1000"),
            EX_NUMBER("angle", "rad", "by which it is turned", "0", "-7 to 7"),
            EX_NUMBER("offset", "", "of body and surface, in cells", "0", "0 to 1"),
            EX_NUMBER("sink", "", "share of its height under water", "1.5", "0.01 to 3"),
            EX_WORD("boundary", "form of the solids", "cut", "cut,voxel,fraction"),
            EX_NUMBER("held", "", "1: held, 0: free for 10 s", "1", "0 to 1"),
            EX_NUMBER("dt", "s", "time step", "0.01", "1e-4 to 0.05"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    int held = ex_whole(&args, "held");
    double dt = ex_number(&args, "dt");
    static pool p;
    start(&p, &args);
    if (held && args.frames > 20)
        args.frames = 20; /* nothing moves: it is enough */

    fsi_vec3 begin = fsi_world_position(&p.world, p.id);
    findings found = {0};
    int frame = 0;
    for (; frame < args.frames && ex_fine(); frame++) {
        fsi_report report = {0};
        ex_try(fsi_world_step(&p.world, dt, &report));
        found.iterations += report.iterations;
        if (held)
            observe(&p, &found);
        if (args.out && frame % 10 == 0)
            draw(&p, &args);
        ex_progress(&args, frame);
    }

    fsi_vec3 way = fsi_vec_sub(fsi_world_position(&p.world, p.id), begin);
    if (held) {
        ex_result("force_error", "%.3e", found.force_error);
        ex_result("torque_error", "%.3e", found.torque_error);
    } else {
        ex_result("drift", "%.3e", (double)fsi_vec_length(way));
        ex_result("spin", "%.3e", (double)fsi_vec_length(fsi_world_rigid(&p.world, p.id)->spin));
    }
    ex_result("water_speed", "%.3e", p.world.grid.stats.max_speed);
    ex_result("iterations", "%.2f", found.iterations / (frame > 0 ? frame : 1));
    stop(&p);
    return ex_end(&args, frame, ex_fine());
}
