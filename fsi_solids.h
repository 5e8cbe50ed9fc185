/* fsi_solids.h - v1.00 - rigid, soft and reduced solids with contact and joints, part of fsi, a
   library for two-way solid-fluid coupling in C99 and C++11
   SPDX-License-Identifier: MIT OR Unlicense          (full text at the end of the file)

   Solids in 2D and 3D that stand alone or are handed to a fluid: each kind gives out its surface
   and an "apply the inverse mass".

   QUICK START
       #define FSI_IMPLEMENTATION // in exactly one file, before the include
       #include "fsi_solids.h"
       #include <stdio.h>

       // A box falls on the floor.
       int main(void) {
           // Shapes: the plane y = 0, and a cube with edges of 1 m.
           fsi_shape_desc plane = {.kind = FSI_SHAPE_PLANE};
           fsi_shape_desc cube = {
               .kind = FSI_SHAPE_BOX,
               .half = fsi_vec(FSI_R(0.5), FSI_R(0.5), FSI_R(0.5)),
           };
           fsi_shape plane_shape, cube_shape;
           if (fsi_shape_init(&plane_shape, &plane) < 0 || fsi_shape_init(&cube_shape, &cube) < 0)
               return 1;

           // A world with room for two bodies.
           fsi_solids_desc desc = {
               .dim = 3,
               .max_bodies = 2,
               .gravity = fsi_vec(0, FSI_R(-9.81), 0),
           };
           fsi_solids world;
           if (fsi_solids_init(&world, &desc) < 0)
               return 1;

           // The floor does not move; the box starts two metres above it.
           fsi_rigid_desc ground = {
               .kind = FSI_RIGID_FIXED,
               .shape = &plane_shape,
               .friction = FSI_R(0.5),
           };
           fsi_rigid_desc box = {
               .kind = FSI_RIGID_DYNAMIC,
               .shape = &cube_shape,
               .density = 500,
               .friction = FSI_R(0.5),
               .x = fsi_vec(0, 2, 0),
           };
           int id;
           fsi_solids_add(&world, &ground, NULL);
           fsi_solids_add(&world, &box, &id);

           // Two seconds: it falls, hits the floor and comes to rest.
           for (int step = 0; step < 120; step++)
               if (fsi_solids_step(&world, FSI_R(1) / 60) < 0)
                   return 1;
           printf("the box rests at y = %g\n", (double)world.body[id].x.y);
           fsi_solids_free(&world);
           fsi_shape_free(&cube_shape);
           fsi_shape_free(&plane_shape);
           return 0;
       }
   Compile: cc main.c -lm          (add -fopenmp for threads)

   WHAT IT DOES
   - fsi_solids: rigid bodies (sphere, box, capsule, torus, closed mesh, compound; fixed, scripted,
     dynamic), static planes, rooms and height fields, contact with Coulomb friction and
     restitution, joints (point, hinge, prismatic, weld, spring; motors, stops).
   - fsi_soft: cloth, shells, balloons, strips and tetrahedra.   fsi_reduced: modal bodies, many
     copies of one model, articulated groups.
   - fsi_mesh: tetrahedra from distance functions, regular meshes.
   - Any solid, also yours, takes part in rigid contact as an fsi_external and in coupling as an
     fsi_coupled.
   WHAT IT DOES NOT
   - No sleeping, no fracture, no rolling friction, no removal of single bodies (make them ghosts
     and fixed, or restore).
   - Rigid meshes and reduced bodies collide by their vertices and a distance grid: an edge of one
     can sink into an edge of another by up to a grid cell.
   - One very large body among small ones is tested against all of them; many sizes of both kinds
     slow the broad phase down.

   CONFIGURATION (define before the include)
   FSI_IMPLEMENTATION, FSI_SINGLE, FSI_STATIC, FSI_API, FSI_NO_OPENMP: as in fsi_linalg.h.
   FSI_SOLIDS_IMPLEMENTATION: only this header's code.

   UNITS AND CONVENTIONS
   SI. 2D lives in z = 0 and is one metre deep: density in kg/m^2, inertia in kg m^2 about z.
   A body's frame starts at its centre of mass; quaternions turn body to world.
   Contact normals point from end b to end a. Surfaces have outward normals.
   A desc struct may be zeroed: a numerical knob at 0 takes its default, a physical quantity at 0
   is really 0, a size or density at 0 is refused.

   GLOSSARY
   door      what a solid hands to a coupling scheme: the struct fsi_coupled
   guest     a solid that other code moves and that takes part through callbacks
   end       one of the two solids of a contact, at the contact point: a rigid body or an external
   external  a solid of another kind in rigid contact, through callbacks: the struct fsi_external
   hold      the part of a contact push that is repeated while the fluid is solved
   opening   moving solids apart that overlap, or joints that have drifted
   push      impulse of one step, N s: of contacts, of stiff forces
   row       one scalar constraint, or the line of a matrix that gives its velocity
   wrench    an impulse and its moment about the centre of mass: the struct fsi_wrench
   shell     a surface without inside, wet on both sides
   room      space that is left: items a list or an array can take

   USAGE
   First calls to know: fsi_shape_init, fsi_solids_init, fsi_solids_add, fsi_solids_join,
   fsi_solids_step, fsi_solids_measure.
   1. One step: fsi_solids_forces (v* = v + dt f / m), [a coupling changes velocities],
      fsi_solids_move (contact, joints, positions). What forces and coupling have added to v and L
      is spread evenly over the substeps of the move.
   2. Coupling: fsi_solids_couple(&world, id, &c), solve, fsi_solids_take(&world, id).
      Generalised velocity: v, then angular velocity.
   3. Scripted bodies: set their velocity (or fsi_solids_script for a pose) before every step; they
      push and are never pushed.
   4. Other solids in contact, with bodies and with each other: fill an fsi_external
      (fsi_soft_external, fsi_reduced_external do), fsi_solids_set_externals, step their forces,
      fsi_solids_forces, fsi_solids_move; then call their own move.
   5. Meshes: FSI_SHAPE_MESH with a closed surface; mass properties come by the divergence theorem.
      Share shapes between bodies.

   NUMERICAL NOTES
   - State: position, velocity, quaternion, angular momentum. Free rotation is fourth order with L
     fixed to the bit, free flight the exact parabola. Symmetric top: phase error below 1e-3 after
     ten periods at dt = .01 (R_01); asymmetric: R_02, R_03.
   - Contact: sequential impulses with warm starts over desc.substeps; overlap is opened by a
     stiff spring, and the velocity that opens it is taken away again. Ten boxes for 10 s at dt =
     1/60: overlap .22 %, drift .4 % of the edge (R_08). Slope of 20 degrees: acceleration to 1e-5,
     stick and slip within 1 % of the angle (R_06). Friction is a cone.
   - Impacts: restitution acts on the approach before the forces of the step; two spheres to 1e-12
     (R_05).
   - Energy never grows without work: kinetic + potential of the bodies rises in a step by at most
     report.work + drive + others + applied, for the bodies with all externals that have energy_fn
     (soft and reduced do) by work + drive + applied. Impulses that are not solved to the end and
     would add some are taken back by a share, bounces give back no more than the impact took, and
     what a soft or reduced body gains too much leaves its inner motion, momentum unchanged.
     Measured beyond the work: 6e-11 of 3e4 J with motors, springs, scripted bodies, forces and
     bounces (test_solids), 0 of 5 kJ with all kinds at once (test_contact). fsi_soft_contact and
     fsi_reduced_contact report their own work and keep to it: 7e-17 of 2 J for cloth, 0 of 10 kJ
     for tetrahedra, 0 of 109 J for reduced bodies on floors that go up and down with bounces
     (test_soft, test_reduced). Explicit and trapezoidal soft bodies swing about their energy.
   - Soft bodies with an implicit integrator answer other solids through the integrator's matrix
     (up to 200 touched nodes, else lumped masses).
   - Cloth and tetrahedra: vertices against elements and edges against edges, in self-collision and
     against others. With self_collision nothing passes through itself at any speed: before every
     move pairs that would meet on the way (conservative advancement) become impact zones that move
     on like rigid bodies with their momenta; sheets crumpled at 2, 8 and 20 m/s: no edge pierces a
     triangle (test_soft).
   - Contacts ahead (positive gap) limit the approach to gap / h, so a 2 cm plank stops a ball at
     300 m/s. The price: a body that would just miss another by less than its motion in a step may
     be brushed.
   - Joints: all equality rows in one direct solve (up to 16 joints deep in a band; else sweeps),
     prediction along arcs. Ten links for 60 s at dt = 1/240: error 2e-5 of a link, energy within
     1e-3 of m g L (R_09). Impacts on links: a few 1e-3 for a moment. Joints torn apart come back
     slowly, max_force and max_torque limit what holds them.
   - Impulses act at one common point of both ends: linear and angular momentum are kept to
     round-off by every contact and joint.
   - A box 30 times heavier on two light ones overlaps by .6 %, 100 times by 3 %, 300 times
     squeezes them out: raise desc.substeps there.
   - The spring of a contact gives way by 1/35 of the impulse in every sweep: under a body's own
     weight that is an overlap of 0.41 g h^2, h = dt / substeps (3e-5 m at dt = 0.01), and .14
     radii at most. Above g h^2 = half a radius (gravity 1e5; FSI_DT_TOO_LARGE) balls still rest
     so, but what has corners turns by more than contacts follow and sinks.
   - fsi_solids_max_dt advises a step; larger ones are stable but less exact.

   MEMORY
   One block per shape, one per world (about 0.9 KB per body, 0.5 KB per contact point with its
   copy, 5.6 KB per joint), two per coupled body on first use.
   Nothing is allocated in a step.

   ERRORS
   Functions return an fsi_result. Negative: refused, nothing changed.
   FSI_DT_TOO_LARGE    from a move: see fsi_solids_step
   FSI_CAPPED          there was no room for some contacts and the others were solved, or bodies met
                       so fast that their impulses overflowed: those stopped where they were
   FSI_ERR_GEOMETRY    open, degenerate and inside-out meshes
   FSI_ERR_ARGUMENT    poses and velocities that are not finite

   THREADS AND DETERMINISM
   No file-scope state, no threads of our own. Bounds, narrow phase and motion use OpenMP; impulses
   are sequential, from the ground up. The same binary gives the same bits for any number of
   threads; a restored run gives identical bits. Callbacks run on the caller's thread.

   REFERENCES
   Guendelman, Bridson, Fedkiw 2003    order of collision and contact
   Weinstein, Teran, Fedkiw 2006       joints that are corrected before the move
   Macklin et al. 2019                 small steps
   Catto 2024                          contact springs, and the second solve without them
   Mirtich 1996                        mass properties of polyhedra
   REDUCED                             the paper behind modal bodies: docs/reduced.md

   CHANGELOG
   1.00  first release.

   LICENCE
   MIT or public domain, as you prefer; text at the end of the file. */
#if defined(FSI_IMPLEMENTATION) && !defined(FSI_DECLARATIONS_ONLY)                                 \
    && !defined(FSI_SOLIDS_IMPLEMENTATION)
#define FSI_SOLIDS_IMPLEMENTATION
#endif
#include "fsi_linalg.h"

#ifndef FSI_SOLIDS_H
#define FSI_SOLIDS_H
#if FSI_LINALG_VERSION != 100
#error "vendor all fsi_*.h files from the same release"
#endif
#ifdef FSI_SINGLE /* first calls of a user: a mixture of precisions does not link */
#define fsi_shape_init fsi_shape_init_f32
#define fsi_solids_init fsi_solids_init_f32
#define fsi_mesh_from_sdf fsi_mesh_from_sdf_f32
#define fsi_soft_init fsi_soft_init_f32
#define fsi_reduced_model_init fsi_reduced_model_init_f32
#define fsi_reduced_init fsi_reduced_init_f32
#define fsi_reduced_group_init fsi_reduced_group_init_f32
#endif
#ifdef __cplusplus
extern "C" {
#endif

#define FSI_SOLIDS_VERSION FSI_VERSION

/* ------------------------------------------------------------------------------------------------
 * >>shapes */
/* A shape is shared by any number of bodies and never changes. Its frame has the centre of mass at
   the origin. PLANE, ROOM and HEIGHT have no volume: they are the static world, for fixed and
   scripted bodies only, and hand out no surface. */
typedef enum fsi_shape_kind {
    FSI_SHAPE_NONE = 0, /* refused */
    FSI_SHAPE_SPHERE,   /* radius (a disk in 2D) */
    FSI_SHAPE_BOX,      /* half: half edges (a rectangle in 2D); also planks */
    FSI_SHAPE_CAPSULE,  /* radius, length of the straight part along x */
    /* length = radius of the ring around the y axis, radius of the tube; 3D only */
    FSI_SHAPE_TORUS,
    FSI_SHAPE_MESH, /* surface: closed triangle mesh, in 2D closed loops of segments */
    /* part: convex or mesh shapes at fixed poses; they must not overlap much, masses are added */
    FSI_SHAPE_COMPOUND,
    FSI_SHAPE_PLANE, /* solid half space below the origin plane, outward normal +y */
    FSI_SHAPE_ROOM,  /* the outside of the box |x| < half is solid */
    /* solid below y = height(x, z), bilinear between samples, flat beyond the rim */
    FSI_SHAPE_HEIGHT,
    FSI_SHAPE_FORCE_INT = 0x7fffffff
} fsi_shape_kind;

struct fsi_shape;

/* One part of a compound. */
typedef struct fsi_shape_part {
    /* SPHERE, BOX, CAPSULE, TORUS or MESH; must outlive the compound */
    const struct fsi_shape *shape;
    /* its origin in the compound's frame, m (shifted by init to the common centre of mass) */
    fsi_vec3 x;
    fsi_quat q;       /* its rotation; zero = identity */
    fsi_real density; /* relative to the body's density; 0 = 1 */
} fsi_shape_part;

/* Zero-initialise, set kind and what it needs. Lengths in m; a length the kind needs must be > 0.
 */
typedef struct fsi_shape_desc {
    fsi_shape_kind kind; /* required */
    /* 2 or 3; 0 = 3. 2D lives in the plane z = 0, quantities are per metre of depth */
    int dim;
    fsi_real radius;            /* SPHERE, CAPSULE, TORUS (tube) */
    fsi_real length;            /* CAPSULE: straight part, >= 0; TORUS: ring radius > radius */
    fsi_vec3 half;              /* BOX, ROOM: half edges (z not used in 2D) */
    const fsi_surface *surface; /* MESH: read during init only; normals out */
    const fsi_shape_part *part; /* COMPOUND: read during init only */
    int part_count;             /* COMPOUND: > 0 */
    /* HEIGHT: [nx * nz], x fastest, m; read during init only; 2D: nz = 1 */
    const fsi_real *height;
    int nx, nz;       /* HEIGHT: samples, >= 2 (nz 1 in 2D) */
    fsi_real spacing; /* HEIGHT: distance of samples; the field is centred on the origin */
    int resolution;   /* segments around a round surface handed to fluids, >= 6; 0 = 24 */
    /* MESH: cells of the distance grid along the longest side, 4 .. 512; 0 = 32 */
    int sdf_cells;
    fsi_allocator allocator; /* zero = malloc */
} fsi_shape_desc;

/* All fields are read only. */
typedef struct fsi_shape {
    fsi_shape_kind kind;
    int dim;
    fsi_real radius, length; /* m */
    fsi_vec3 half;           /* m */
    fsi_real volume;         /* m^3 (m^2 in 2D); 0 for the static kinds */
    /* centre of mass in the coordinates of the desc; the shape's own frame starts there */
    fsi_vec3 com;
    fsi_mat3 inertia; /* about the centre of mass for density 1, m^5 (2D: only zz) */
    fsi_vec3 lo, hi;  /* bounds in the shape's frame; +-FSI_REAL_MAX for the static kinds */
    fsi_real bound;   /* radius of the bounding sphere about the origin */
    fsi_real thin;    /* smallest extent: the length that may not be skipped in a step */
    /* tessellation at the origin (vertex_count 0 for the static kinds); owned */
    fsi_surface surface;
    int point_count;       /* contact samples */
    const fsi_real *point; /* [3 * point_count] owned; contact radius below */
    fsi_real point_radius; /* samples are spheres of this radius */
    fsi_shape_part *part;  /* [part_count] owned copy; COMPOUND */
    int part_count;
    int nx, ny, nz;        /* nodes of the distance grid (MESH) or of the height field */
    fsi_real spacing;      /* of the grid or field */
    fsi_vec3 origin;       /* first grid node */
    const fsi_real *grid;  /* [nx * ny * nz] signed distance, or heights; owned */
    size_t grid_cells;     /* nx * ny * nz */
    fsi_real density_mean; /* COMPOUND: mass over volume for density 1; else 1 */
    fsi_allocator allocator;
    void *block; /* the one allocation */
    size_t block_size;
} fsi_shape;

/* Makes a shape. FSI_ERR_GEOMETRY: open, degenerate or inside-out mesh. On error the shape is
 * zeroed and holds nothing. */
FSI_API fsi_result fsi_shape_init(fsi_shape *shape, const fsi_shape_desc *desc);
/* Frees a shape, which may be zero. No body may use it any more. */
FSI_API void fsi_shape_free(fsi_shape *shape);
/* Signed distance of p (shape frame), negative inside; normal (may be NULL) points out of the
   solid. Exact for the analytic kinds (height fields: first order; meshes: trilinear on the grid
   inside it, a lower bound beyond). */
FSI_API fsi_real fsi_shape_distance(const fsi_shape *shape, fsi_vec3 p, fsi_vec3 *normal);
/* Volume (area), centre of mass and inertia about it for density 1 of a closed surface, by the
   divergence theorem: exact for polyhedra. FSI_ERR_GEOMETRY when open, degenerate, not oriented
   consistently or inside-out; nothing is written then. In 2D only inertia->m[8] is set. The
   allocator (may be NULL) gives scratch for the edge check. */
FSI_API fsi_result fsi_mesh_mass(const fsi_surface *mesh, const fsi_allocator *allocator,
                                 fsi_real *volume, fsi_vec3 *com, fsi_mat3 *inertia);

/* ------------------------------------------------------------------------------------------------
 * >>rigid */
typedef enum fsi_rigid_kind {
    FSI_RIGID_FIXED = 0, /* never moves */
    FSI_RIGID_SCRIPTED,  /* moves with the velocity its owner sets; pushes, is never pushed */
    FSI_RIGID_DYNAMIC,   /* obeys Newton and Euler */
    FSI_RIGID_FORCE_INT = 0x7fffffff
} fsi_rigid_kind;

/* A new body. Zero-initialise; shape is required. */
typedef struct fsi_rigid_desc {
    fsi_rigid_kind kind;
    const fsi_shape *shape; /* must outlive the body */
    fsi_vec3 x;             /* centre of mass, m */
    fsi_quat q;             /* body to world; zero = identity; normalised by init */
    fsi_vec3 v;             /* velocity of the centre of mass, m/s */
    fsi_vec3 spin;          /* angular velocity, rad/s, world frame */
    fsi_real density;       /* kg/m^3 (2D: kg/m^2); dynamic bodies: > 0 unless mass is given */
    fsi_real mass;          /* kg; 0 = density * volume */
    /* principal moments in the body frame, kg m^2; zero = from the shape */
    fsi_vec3 inertia;
    fsi_real friction;        /* Coulomb, >= 0; a pair uses the geometric mean */
    fsi_real restitution;     /* 0 .. 1; a pair uses the larger */
    fsi_real linear_damping;  /* 1/s, >= 0: dv/dt = -d v */
    fsi_real angular_damping; /* 1/s, >= 0 */
    int team;                 /* bodies of the same non-zero team do not collide */
    int ghost;                /* 1: takes no part in contact */
    int user;                 /* free for the caller */
} fsi_rigid_desc;

/* An impulse, N s, and its moment about the centre of mass, N m s. */
typedef struct fsi_wrench {
    fsi_vec3 linear;
    fsi_vec3 angular;
} fsi_wrench;

/* A rigid body; world->body[i]. Read freely; write only through the functions below (force and
 * torque may be added to). */
typedef struct fsi_rigid {
    const fsi_shape *shape;
    fsi_vec3 x; /* centre of mass, m */
    fsi_quat q; /* unit, body to world */
    fsi_vec3 v; /* m/s */
    /* angular momentum about the centre of mass, world frame, N m s: the state (scripted: 0) */
    fsi_vec3 L;
    fsi_vec3 spin; /* angular velocity, rad/s, world frame: I^-1 L (scripted: given) */
    /* N, N m about the centre of mass; used and cleared by fsi_solids_forces */
    fsi_vec3 force, torque;
    /* velocity and angular momentum at the start of the step: what forces and coupling add is
     * spread over substeps */
    fsi_vec3 v_start, L_start;
    fsi_mat3 rotation;        /* of q */
    fsi_mat3 inverse_inertia; /* world frame, 1/(kg m^2); zero when not dynamic */
    fsi_mat3 inertia_body, inverse_inertia_body; /* body frame, kg m^2 */
    fsi_real mass, inverse_mass;                 /* kg, 1/kg; both 0 when not dynamic */
    fsi_real friction;
    fsi_real restitution;
    fsi_real linear_damping;
    fsi_real angular_damping;
    fsi_rigid_kind kind;
    int32_t team;
    int32_t ghost;
    int32_t user;
    int32_t touching;       /* contacts and joints of the last step */
    fsi_wrench push;        /* that contact and joints gave in the last move */
    fsi_wrench push_before; /* and in the move before it */
    fsi_wrench load;        /* that forces gave in the last fsi_solids_forces */
    fsi_wrench load_before; /* and in the one before it */
    fsi_wrench held; /* of fsi_solids_hold and contacts in a door; the next move takes it back */
    fsi_wrench kept; /* of contacts in a door beyond that; the move counts it as push */
} fsi_rigid;

/* ------------------------------------------------------------------------------------------------
 * >>contact */
/* One end of a contact. */
typedef struct fsi_contact_end {
    int32_t solid; /* a rigid body (< max_bodies) or max_bodies + k for external solid k */
    int32_t point; /* external: the point for its callbacks; else -1 */
    fsi_vec3 arm;  /* from the centre of mass to the contact point, m (external: 0) */
} fsi_contact_end;

/* One contact point; world->contact[i]. a.solid < b.solid. Rigid pairs come first, then pairs with
   externals, each sorted by (a, b). The normal points from b to a. */
typedef struct fsi_contact {
    fsi_contact_end a;
    fsi_contact_end b;
    /* which point of the pair: the same number next step means the same point */
    uint32_t feature;
    /* the solid it moves with during a step: the smaller of two bodies, or whose point it is */
    int32_t lead;
    int32_t bounced;       /* 1: restitution acted in the last step */
    fsi_vec3 at;           /* world position, m; both ends get their impulses exactly here */
    fsi_vec3 normal;       /* unit, from b to a */
    fsi_vec3 tangent;      /* unit; the second tangent is normal x tangent */
    fsi_real gap;          /* m, negative = overlap; follows the motion during the step */
    fsi_real impulse;      /* N s along the normal in the last substep, >= 0 */
    fsi_real impulse_t[2]; /* N s along the tangents; length <= friction * impulse (a cone) */
    fsi_real impulse_max;  /* largest impulse of the step: tells restitution who was hit */
    fsi_real approach;     /* normal velocity before the step, m/s (negative: approaching) */
    fsi_real friction;
    fsi_real restitution;
    fsi_real size;   /* bounding radius of the smaller end: the slop's scale, m */
    fsi_real mass_n; /* effective mass along the normal, kg */
    fsi_real mass_t; /* effective mass along the tangents, kg */
    /* impulse and normal velocity when restitution began: what it gave can be taken back */
    fsi_real bounce_impulse, bounce_velocity;
} fsi_contact;

/* A solid of another kind (cloth, tetrahedra, reduced, a user's own) that takes part in contact
   with the rigid world and with other externals. It offers points; velocity and impulse at a point
   go through its callbacks, so contact does not know the kind. Impulses arrive equal and opposite
   at the same world point on both sides. Owned by the caller. */
typedef struct fsi_external {
    /* contact points, usually surface vertices; without any, distance_fn reaches everywhere */
    int point_count;
    const fsi_real *x; /* [3 * point_count] world positions at the start of the step, m */
    fsi_real radius;   /* the points are spheres of this radius (half thickness), m, >= 0 */
    fsi_real friction, restitution; /* as for rigid bodies */
    int team;                       /* as for rigid bodies */
    int edge_count;                 /* edges between points that look for contact, too; 0 = none */
    /* [3 * edge_count] two points, and what the callbacks take for a place between them */
    const int32_t *edge;
    void *user; /* handed to the callbacks */
    /* m/s of point at world position at */
    fsi_vec3 (*velocity_fn)(int point, fsi_vec3 at, void *user);
    /* K j = velocity change there by impulse j, 1/kg */
    void (*inverse_mass_fn)(int point, fsi_vec3 at, fsi_mat3 *K, void *user);
    /* takes impulse j, N s */
    void (*impulse_fn)(int point, fsi_vec3 at, fsi_vec3 j, void *user);
    /* NULL, or: signed distance of world point p, outward unit normal, and the own point nearest to
       it (for the callbacks above). Then samples of rigid bodies and points of other externals
       collide with this one too. */
    fsi_real (*distance_fn)(fsi_vec3 p, fsi_vec3 *normal, int *point, void *user);
    /* NULL: it moves itself after fsi_solids_move. Or: h = 0 gets it ready for distance_fn, h > 0
       moves it for h seconds at its present velocity, h < 0 ends the step: contact then sees it
       move in every substep, opens its overlaps without leaving a velocity behind, and angular
       momentum is exact. */
    void (*advance_fn)(fsi_real h, void *user);
    /* NULL, or: told of every contact point before the other calls */
    void (*touch_fn)(int point, fsi_vec3 at, void *user);
    /* NULL, or, called when a step ends. take = 0: J that contact has brought it beyond what it
       had, or would have without contact. take > 0: takes up to so many J out of the motion inside
       it, momentum unchanged, and returns what it took. With it the energy of all together never
       grows without work. */
    double (*energy_fn)(double take, void *user);
} fsi_external;

/* ------------------------------------------------------------------------------------------------
 * >>joints */
typedef enum fsi_joint_kind {
    FSI_JOINT_NONE = 0, /* refused */
    FSI_JOINT_POINT,    /* ball and socket: the anchors stay together */
    /* and only rotation about axis is free (in 2D: axis z, same as POINT) */
    FSI_JOINT_HINGE,
    FSI_JOINT_PRISMATIC, /* only sliding along axis is free */
    FSI_JOINT_WELD,      /* nothing is free */
    FSI_JOINT_SPRING,    /* distance spring between the anchors: stiffness, damping, length */
    FSI_JOINT_FORCE_INT = 0x7fffffff
} fsi_joint_kind;

/* A new joint between bodies a and b at their present poses. Zero-initialise. */
typedef struct fsi_joint_desc {
    fsi_joint_kind kind;
    int a, b;             /* body numbers, different; one may be fixed or scripted */
    fsi_vec3 anchor;      /* world position now, m (SPRING: on a) */
    fsi_vec3 anchor_b;    /* SPRING: world position on b now, m; others: not used */
    fsi_vec3 axis;        /* HINGE, PRISMATIC: world direction now; zero = z */
    int motor;            /* HINGE, PRISMATIC: 1 drives the free motion of a against b */
    fsi_real motor_speed; /* rad/s or m/s */
    fsi_real motor_limit; /* largest torque N m or force N, >= 0 */
    /* HINGE, PRISMATIC: 1 keeps the coordinate in [lower, upper]; the present pose is 0 */
    int limit;
    fsi_real lower, upper; /* rad (within +-pi) or m */
    /* N/m (HINGE: N m/rad, PRISMATIC: N/m; pulls the coordinate to rest), >= 0 */
    fsi_real stiffness;
    fsi_real damping; /* N s/m or N m s, >= 0 */
    fsi_real rest;    /* rest length m or coordinate; SPRING: 0 = distance now */
    /* largest force that holds the anchors together, N, >= 0; 0 = no limit */
    fsi_real max_force;
    fsi_real max_torque; /* largest torque that holds the angles, N m, >= 0; 0 = no limit */
    int collide;         /* 1: the two bodies still collide */
} fsi_joint_desc;

/* A joint; world->joint[i]. Read only, except motor_speed, motor_limit, stiffness, damping, rest,
 * max_force, max_torque. */
typedef struct fsi_joint {
    fsi_joint_kind kind;
    int32_t a;
    int32_t b;
    fsi_vec3 anchor_a, anchor_b;         /* anchors in the body frames, m */
    fsi_vec3 axis_a, axis_b;             /* axis in the body frames */
    fsi_quat rest_rotation;              /* rotation of a relative to b at rest */
    int32_t motor, limit, collide, rows; /* rows: equality rows */
    int32_t limited; /* 1: max_force or max_torque was reached in the last step */
    fsi_real motor_speed, motor_limit, lower, upper, stiffness, damping, rest, max_force,
        max_torque;
    fsi_real impulse[6];    /* N s, N m s of the rows in the last substep */
    fsi_real impulse_free;  /* along the free coordinate: motor and spring */
    fsi_real impulse_limit; /* along the free coordinate: stop (positive = lower stop) */
} fsi_joint;

/* ------------------------------------------------------------------------------------------------
 * >>world */
/* Zero-initialise; dim, max_bodies are required. */
typedef struct fsi_solids_desc {
    int dim;               /* 2 (motion in x, y, rotation about z) or 3 */
    int max_bodies;        /* room, > 0 */
    int max_joints;        /* room, >= 0 */
    int max_contacts;      /* room for contact points; 0 = 24 * max_bodies */
    fsi_vec3 gravity;      /* m/s^2 */
    int substeps;          /* per step, 1 .. 64; 0 = 4 */
    int iterations;        /* solver sweeps per substep, 1 .. 64; 0 = 2 */
    fsi_real bounce_speed; /* slower impacts do not bounce, m/s; 0 = 4 |gravity| dt */
    /* overlap that is left alone, over the smaller body's size; 0 = 1e-3 */
    fsi_real slop;
    fsi_allocator allocator; /* zero = malloc */
} fsi_solids_desc;

/* The rigid world. Fields are read only. */
typedef struct fsi_solids {
    fsi_solids_desc desc; /* defaults filled in */
    int body_count;
    int joint_count;
    int contact_count;
    int enclosed;     /* 1: body[max_bodies - 1] is what fsi_solids_enclose was given */
    fsi_rigid *body;  /* [max_bodies] */
    fsi_joint *joint; /* [max_joints] */
    /* [max_contacts] of the last step; kept for warm starts and drawing */
    fsi_contact *contact;
    const fsi_external *external; /* [external_count] set by the caller */
    int external_count;
    double time; /* s */
    void *block; /* the one allocation */
    size_t block_size;
    struct fsi__solids_work *work; /* private, inside block */
} fsi_solids;

/* What a world holds now. */
typedef struct fsi_solids_report {
    double kinetic, potential;  /* J; potential of gravity against the origin, and of springs */
    double momentum[3];         /* N s of the dynamic bodies */
    double angular_momentum[3]; /* N m s about the origin */
    /* Work in the last step, J: kinetic + potential grows by no more than the four together. */
    /* of opening overlaps and joint drift, against gravity and inside other solids */
    double work;
    double drive; /* of motors and of scripted bodies */
    /* of the externals on the bodies (negative: they took more than they gave) */
    double others;
    double applied;     /* of force, torque, couplings and, negative, of damping */
    double penetration; /* deepest overlap among contacts, m, >= 0 */
    double joint_error; /* largest distance of joint anchors, m (PRISMATIC: off the axis) */
    /* contact points with an impulse or overlap; body pairs near each other */
    int contacts, pairs;
    /* joints whose max_force or max_torque was reached in the last step */
    int joints_limited;
} fsi_solids_report;

/* Primary: make, fill, step, free. */
FSI_API fsi_result fsi_solids_init(fsi_solids *solids, const fsi_solids_desc *desc);
/* Frees everything; the world may be zero. */
FSI_API void fsi_solids_free(fsi_solids *solids);
/* Adds a body. *id receives its number: world->body[id] is the body, and all functions below take
   the id. Bodies are numbered 0, 1, 2 ... in the order they are added; id may be NULL. FSI_ERR_SIZE
   when the world is full, FSI_ERR_ARGUMENT on bad numbers; nothing changes then. */
FSI_API fsi_result fsi_solids_add(fsi_solids *solids, const fsi_rigid_desc *desc, int *id);
/* Gives the bodies something fixed to touch that is not one of them: walls, a floor. It takes the
   last place, max_bodies - 1, which contacts name; body_count and ids leave it out. The shape is a
   plane, a room or a height field. */
FSI_API fsi_result fsi_solids_enclose(fsi_solids *solids, const fsi_rigid_desc *desc);
/* Adds a joint at the present poses; *id may be NULL. */
FSI_API fsi_result fsi_solids_join(fsi_solids *solids, const fsi_joint_desc *desc, int *id);
/* One uncoupled step of dt seconds: forces, then move. FSI_CAPPED when contacts were left out for
   lack of room or overflowing bodies were stopped, FSI_INFEASIBLE when no velocities
   fit (contacts push without end, which is let go, or a body is pressed a tenth of the smaller
   one's size into a scripted one), FSI_DT_TOO_LARGE when forces alone carry a touching body half
   its radius in a substep; the step is done. */
FSI_API fsi_result fsi_solids_step(fsi_solids *solids, fsi_real dt);

/* The stages of a step, in order: forces (v*), [coupling changes velocities], move (contact, joints
 * and positions together). */
FSI_API fsi_result fsi_solids_forces(fsi_solids *solids, fsi_real dt);
/* Optional, between forces and a coupled solve: contacts and joints press once more as they did for
   two steps, and fsi_solids_move takes that back before it solves them anew. A fluid then sees
   bodies at rest at rest; without it every solve begins with bodies that fall for dt. Changes
   velocities only; momentum stays exact. */
FSI_API fsi_result fsi_solids_hold(fsi_solids *solids, fsi_real dt);
/* Finds contacts, then in every substep: a share of the step's velocity change, impulses of
   contacts and joints, new positions. Externals get their impulses here and move themselves
   afterwards. */
FSI_API fsi_result fsi_solids_move(fsi_solids *solids, fsi_real dt);
/* Externals for the next moves: count structs that stay the caller's (NULL, 0 = none). Set again
 * after a restore. */
FSI_API fsi_result fsi_solids_set_externals(fsi_solids *solids, const fsi_external *external,
                                            int count);

/* Poses and velocities. Non-finite input is refused. q zero = identity. */
FSI_API fsi_result fsi_solids_set_pose(fsi_solids *solids, int body, fsi_vec3 x, fsi_quat q);
/* Sets both velocities (dynamic and scripted bodies), m/s, rad/s. */
FSI_API fsi_result fsi_solids_set_velocity(fsi_solids *solids, int body, fsi_vec3 v, fsi_vec3 spin);
/* Scripted bodies: sets the velocities that carry the body to this pose within the next dt. */
FSI_API fsi_result fsi_solids_script(fsi_solids *solids, int body, fsi_vec3 x, fsi_quat q,
                                     fsi_real dt);
/* Velocity of the material point of the body at world position p, m/s. */
FSI_API fsi_vec3 fsi_solids_velocity(const fsi_solids *solids, int body, fsi_vec3 p);
/* Impulse j, N s, at world position p: changes v and L at once. Ignored unless dynamic. */
FSI_API fsi_result fsi_solids_impulse(fsi_solids *solids, int body, fsi_vec3 p, fsi_vec3 j);

/* Doors. The surface in world coordinates: x, v are [3 * shape->surface.vertex_count], the caller's
 * (v may be NULL). */
FSI_API fsi_result fsi_solids_surface(const fsi_solids *solids, int body, fsi_real *x, fsi_real *v,
                                      fsi_surface *out);
/* The body as a coupled solid (dense, 6 degrees of freedom) in its present state: *out points into
   the world, filled again by every call (memory per body is allocated on the first one). After the
   solve hand the velocities back with fsi_solids_take. Joints with fixed or scripted bodies
   are part of the door: a hinged body has only its turning left in inverse_mass. */
FSI_API fsi_result fsi_solids_couple(fsi_solids *solids, int body, fsi_coupled **out);
/* The same for a body and all others that joints tie to it, as one solid of 6 degrees of freedom
   each: the joints are part of its inverse mass, so a coupled solve answers with velocities that
   obey them (motors, springs and stops act in fsi_solids_move). *out = NULL: one of a lower number
   among them has the door. Every body hands its velocities back by fsi_solids_take. */
FSI_API fsi_result fsi_solids_couple_joined(fsi_solids *solids, int body, fsi_coupled **out);
/* Where a body is in the door it was last coupled through: number of the body that has the door,
 * first element and elements of its surface there. */
FSI_API fsi_result fsi_solids_joined_part(const fsi_solids *solids, int body, int *owner,
                                          int *first, int *elements);
/* Takes (*out)->v after a solve: the body's velocity and angular momentum change. */
FSI_API fsi_result fsi_solids_take(fsi_solids *solids, int body);

/* Save, restore, look. */
FSI_API size_t fsi_solids_state_size(const fsi_solids *solids); /* bytes */
/* copies the dynamic state out */
FSI_API fsi_result fsi_solids_save(const fsi_solids *solids, void *block);
/* Copies it back into a world with the same desc and the same bodies added in the same order (each
   keeps its own shape); continues bit for bit. size: bytes of the block, which may come from
   anywhere (FSI_ERR_DATA: refused). FSI_ERR_SIZE: made by another desc; FSI_ERR_STATE: it has
   bodies this world never had. Nothing changes then. */
FSI_API fsi_result fsi_solids_restore(fsi_solids *solids, const void *block, size_t size);
/* What restore would say, without restoring. */
FSI_API fsi_result fsi_solids_check(const fsi_solids *solids, const void *block, size_t size);
/* Energies, momenta, overlap; contacts are those of the last step. */
FSI_API fsi_result fsi_solids_measure(const fsi_solids *solids, fsi_solids_report *report);
/* Largest advised step, s: no body moves more than its thinnest extent or turns more than a radian
 * per substep. FSI_REAL_MAX at rest. */
FSI_API fsi_real fsi_solids_max_dt(const fsi_solids *solids);

/* ------------------------------------------------------------------------------------------------
 * >>mesh */
/* A signed distance, m: negative inside. Only its sign and its values near the surface matter for
 * meshing. */
typedef fsi_real (*fsi_sdf_fn)(fsi_vec3 x, void *user);

/* Vertices with a surface and, for solids, tetrahedra. All arrays in one block of the allocator. */
typedef struct fsi_mesh {
    int dim; /* 3: index holds triangles; 2: segments */
    int vertex_count;
    int element_count;
    int tet_count;
    int closed;     /* 1: the surface encloses its inside */
    fsi_real *x;    /* [3 * vertex_count] m */
    int32_t *index; /* [dim * element_count] surface, oriented outwards */
    int32_t *tet;   /* [4 * tet_count] positive volume; NULL without */
    /* smallest and largest dihedral angle of the tetrahedra (3D surfaces: corner angle), rad:
     * element quality */
    fsi_real angle_min, angle_max;
    fsi_allocator allocator;
    void *block;
    size_t size; /* the one allocation */
} fsi_mesh;

/* Frees the block; safe on a zeroed struct and twice. Every maker below writes its mesh only on
 * success: zero it first where it is freed in any case. */
FSI_API void fsi_mesh_free(fsi_mesh *mesh);

/* Tetrahedra of the inside of sdf in the box [lo, hi]: body-centred cubic lattice with cubes of
   size h, cut at the surface with snapping (isosurface stuffing), and the boundary as surface. The
   form should stay at least h away from the box. FSI_EMPTY: nothing inside. lo < hi, h > 0. a may
   be NULL. */
FSI_API fsi_result fsi_mesh_from_sdf(fsi_mesh *mesh, fsi_sdf_fn sdf, void *user, fsi_vec3 lo,
                                     fsi_vec3 hi, fsi_real h, const fsi_allocator *allocator);

/* A box of nx * ny * nz cubes cut into tetrahedra; vertex i + (nx + 1) * (j + (ny + 1) * k).
   alternate 0: six per cube, all alike; 1: five per cube, mirrored from cube to cube (stiffens
   bending less). */
FSI_API fsi_result fsi_mesh_box(fsi_mesh *mesh, fsi_vec3 lo, fsi_vec3 hi, int nx, int ny, int nz,
                                int alternate, const fsi_allocator *allocator);

/* A flat sheet of nx * ny squares (two triangles each) spanned by origin, along_x, along_y; vertex
   i + (nx + 1) * j. alternate 1: diagonals mirrored from square to square. keep_fn(centre of a
   square, user) == 0 leaves a hole; NULL = no holes; unused vertices are dropped. */
FSI_API fsi_result fsi_mesh_sheet(fsi_mesh *mesh, fsi_vec3 origin, fsi_vec3 along_x,
                                  fsi_vec3 along_y, int nx, int ny, int alternate,
                                  int (*keep_fn)(fsi_vec3 centre, void *user), void *user,
                                  const fsi_allocator *allocator);

/* A chain of n segments (2D strip of cloth). */
FSI_API fsi_result fsi_mesh_strip(fsi_mesh *mesh, fsi_vec3 from, fsi_vec3 to, int n,
                                  const fsi_allocator *allocator);

/* A closed loop of n >= 3 segments around centre (2D balloon or disk), counter-clockwise. */
FSI_API fsi_result fsi_mesh_circle(fsi_mesh *mesh, fsi_vec3 centre, fsi_real radius, int n,
                                   const fsi_allocator *allocator);

/* A closed sphere of triangles: an icosahedron with every edge cut into n >= 1 parts. */
FSI_API fsi_result fsi_mesh_sphere(fsi_mesh *mesh, fsi_vec3 centre, fsi_real radius, int n,
                                   const fsi_allocator *allocator);

/* The faces of tet [4 * tet_count] that belong to one tetrahedron only, oriented outwards. triangle
 *[3 * room] may be NULL to count; count is always set. scratch comes from a. FSI_ERR_SIZE when room
 *is too small, FSI_ERR_GEOMETRY for bad indices. */
FSI_API fsi_result fsi_mesh_boundary(int vertex_count, int tet_count, const int32_t *tet,
                                     int32_t *triangle, int room, int *count,
                                     const fsi_allocator *allocator);

/* The mesh's surface as a door (at rest). */
FSI_API fsi_surface fsi_mesh_surface(const fsi_mesh *mesh);

/* What deformables collide with, one way: static or scripted geometry with a signed distance.
   Contact in both directions goes through fsi_external (fsi_soft_external, fsi_reduced_external)
   and the rigid world. */
typedef struct fsi_obstacle {
    /* Signed distance of x, m, negative inside; *normal = unit outward normal there; *velocity =
     * velocity of the obstacle at x, m/s. */
    fsi_real (*distance_fn)(fsi_vec3 x, fsi_vec3 *normal, fsi_vec3 *velocity, void *user);
    fsi_real friction;    /* Coulomb coefficient, >= 0 */
    fsi_real restitution; /* 0 .. 1, of the approach before the step's forces */
    void *user;           /* handed to distance_fn */
} fsi_obstacle;

/* ------------------------------------------------------------------------------------------------
 * >>soft */
/* Cloth, shells, balloons, 2D strips and tetrahedra in one object: nodes with lumped mass and any
 * mix of elements. */
typedef enum fsi_soft_model {
    /* linear elasticity in the frame turned with the element: the robust default */
    FSI_SOFT_COROTATED = 0,
    FSI_SOFT_LINEAR = 1, /* small displacements only */
    FSI_SOFT_STVK = 2,   /* St. Venant-Kirchhoff; collapses under strong compression */
    /* mu/2 (I1 - 3) - mu ln J + lambda/2 ln^2 J; ln continued by its parabola below J = 0.1, so
     * inverted elements come back */
    FSI_SOFT_NEOHOOKEAN = 3
} fsi_soft_model;

typedef enum fsi_soft_integrator {
    /* backward Euler; newton iterations with line search on the step's energy (1 = linearly
     * implicit) */
    FSI_SOFT_IMPLICIT = 0,
    FSI_SOFT_EXPLICIT = 1, /* symplectic Euler; dt below fsi_soft_max_dt */
    FSI_SOFT_NEWMARK = 2,  /* trapezoidal rule, newton iterations: no numerical damping */
    /* fsi_soft_forces leaves v; its forces are the door's push, elasticity and damping stay in
     * B^T B for the coupled solve. Without a fluid fsi_soft_finish solves (M + B^T B) v = M v +
     * push */
    FSI_SOFT_SPLIT = 3
} fsi_soft_integrator;

typedef struct fsi_soft_desc {
    int dim;           /* 2: z is fixed; 3 */
    int vertex_count;  /* >= 1 */
    const fsi_real *x; /* [3 * vertex_count] rest shape, m; also where it starts */
    int segment_count;
    int triangle_count;
    int tet_count;
    /* [2 * segment_count] strips and ropes; bending in 2D where two segments a -> b -> c meet */
    const int32_t *segment;
    const int32_t *triangle; /* [3 * triangle_count] shells; plane-stress membranes, in 2D too */
    const int32_t *tet;      /* [4 * tet_count] solids, positive volume */
    /* elements of surface; 0 = segments (2D), triangles if there are any, else boundary of the
     * tetrahedra */
    int surface_count;
    const int32_t *surface; /* [dim * surface_count] what others see */
    /* shells and loops: 1 = closed, so volume and pressure mean something. Tetrahedra are always
     * closed */
    int closed;
    fsi_real density;        /* tetrahedra kg/m^3, required with them */
    fsi_real area_density;   /* triangles kg/m^2 (segments kg/m), required with them */
    fsi_soft_model model;    /* of tetrahedra */
    fsi_real young, poisson; /* tetrahedra: Pa, >= 0; -1 < poisson < 0.5 */
    /* triangles: Young's modulus times thickness, N/m; segments: E A, N; >= 0 */
    fsi_real stretch;
    fsi_real stretch_poisson; /* triangles: -1 .. 0.5 */
    /* triangles: bending stiffness D, N m; segments: E I, N m^2 (2D: per depth); >= 0 */
    fsi_real bend;
    fsi_real damping_mass;      /* Rayleigh alpha, 1/s, >= 0 */
    fsi_real damping_stiffness; /* Rayleigh beta, s, >= 0 */
    fsi_real pressure;          /* closed: overpressure inside, Pa */
    /* closed: adds volume_stiffness * (volume_target / V - 1)-like pressure, Pa, linear in V; 0 =
     * none */
    fsi_real volume_stiffness;
    /* [vertex_count] bits 1, 2, 4: x, y, z of the vertex are prescribed (velocity from
     * fsi_soft.drive); NULL = none */
    const unsigned char *pin;
    fsi_vec3 gravity;   /* m/s^2 */
    fsi_real thickness; /* collision distance of the surface, m, >= 0 */
    fsi_real friction;  /* against itself, >= 0 */
    /* 1: the surface does not pass through itself (in fsi_soft_contact and every move); needs
     * thickness > 0 */
    int self_collision;
    fsi_soft_integrator integrator;
    int newton; /* iterations per step at most; 0 = 1 */
    /* 1: conjugate gradients inside instead of sparse Cholesky (less memory, often faster) */
    int use_cg;
    /* Newton: residual over force scale; 0 = 1e-8. CG inside: a tenth of it, at least 1e-6 */
    double tolerance;
    fsi_allocator allocator; /* zero = malloc */
} fsi_soft_desc;

typedef struct fsi_soft {
    fsi_soft_desc desc; /* as given, knobs resolved; pointers into the block */
    int element_count;  /* all elements of all kinds, hinges included */
    /* state, one range: x, v, drive, volume_target */
    fsi_real *x, *v; /* [3 * vertex_count] m, m/s; write them only between steps */
    /* [3 * vertex_count] velocity of pinned coordinates, m/s; the caller's to set */
    fsi_real *drive;
    fsi_real *volume_target; /* [1] m^3 (m^2): starts as the rest volume */
    /* not state */
    /* [3 * vertex_count] external force, N: the caller's to set, kept until changed */
    fsi_real *force;
    /* [vertex_count] kg, 1/kg; inverse 0 where all moving coordinates are pinned */
    fsi_real *mass, *inverse_mass;
    fsi_real *impulse; /* [3 * vertex_count] received through fsi_coupled, N s */
    int32_t *surface;
    int surface_count;
    int closed;
    int32_t *surface_node; /* [vertex_count] 0, 1, 2 ...: the surface uses the nodes' numbers */
    fsi_csr K;             /* tangent matrix (pattern fixed), 3 vertex_count rows */
    fsi_csr B;             /* FSI_SOFT_SPLIT: rows of sqrt(dt^2 K + dt C) */
    fsi_cholesky factor;
    fsi_report report;           /* of the last solve: iterations = Newton, residuals in N */
    struct fsi__soft_work *work; /* private tables */
    fsi_bvh bvh;                 /* surface, for self collision and other solids */
    /* of the running step, s; how much of it the rigid world's move has already moved it */
    fsi_real dt, moved;
    /* energy that opening overlaps (into elasticity and gravity) and obstacles that move put in by
     * the last fsi_soft_contact, J */
    double contact_work;
    void *block;
    size_t size;
} fsi_soft;

/* Copies everything it needs. FSI_ERR_GEOMETRY: degenerate elements, bad indices; FSI_ERR_ARGUMENT:
 * bad numbers. soft is written only on success. */
FSI_API fsi_result fsi_soft_init(fsi_soft *soft, const fsi_soft_desc *desc);

/* Frees everything; safe on a zeroed struct and twice. */
FSI_API void fsi_soft_free(fsi_soft *soft);

/* Stage 1: forces over dt > 0 s; afterwards v is v* (implicit kinds: the end velocity without
   fluid; FSI_SOFT_SPLIT: as before). FSI_NOT_CONVERGED: Newton stopped early. FSI_ERR_NUMERIC
   leaves x and v as before. */
FSI_API fsi_result fsi_soft_forces(fsi_soft *soft, fsi_real dt);

/* Stage 2: what a coupling scheme sees; valid until the object moves. FSI_SOFT_SPLIT hands out
 * implicit = B and push, the others lumped mass only. */
FSI_API fsi_result fsi_soft_couple(fsi_soft *soft, fsi_coupled *out);

/* Stage 2, after the solve: v is taken as it stands in the door. FSI_ERR_NUMERIC: not finite. */
FSI_API fsi_result fsi_soft_take(fsi_soft *soft);

/* Stage 2 without a fluid, FSI_SOFT_SPLIT only: v = (M + B^T B)^-1 (M v + push); nothing to do for
 * the others. */
FSI_API fsi_result fsi_soft_finish(fsi_soft *soft);

/* Stage 3: contact of the vertices with obstacles and of the surface with itself by impulses on v,
   so that after moving by dt no gap is closed. Self-collision keeps linear and angular momentum.
   Overlaps are opened by moving nodes, not through v (contact_work). May be called before or after
   fsi_soft_move. *contacts may be NULL. */
FSI_API fsi_result fsi_soft_contact(fsi_soft *soft, const fsi_obstacle *obstacle, int count,
                                    fsi_real dt, int *contacts);

/* Stage 4: x += dt v (Newmark: the trapezoidal position); less what the rigid world has moved it
 * already. */
FSI_API fsi_result fsi_soft_move(fsi_soft *soft, fsi_real dt);

/* All stages for a life without fluid. */
FSI_API fsi_result fsi_soft_step(fsi_soft *soft, const fsi_obstacle *obstacle, int count,
                                 fsi_real dt);

/* Equilibrium under gravity, force, pressure and pins by Newton with line search; linear = 1: one
   linear solve from the rest shape. max_iterations 0 = 100. v becomes 0. */
FSI_API fsi_result fsi_soft_static(fsi_soft *soft, int linear, int max_iterations,
                                   fsi_report *report);

/* Elastic (with pressure) and kinetic energy, J; gravity excluded. Either pointer may be NULL. */
FSI_API void fsi_soft_energy(const fsi_soft *soft, double *elastic, double *kinetic);

/* Largest dt of the explicit integrator, s: 2 / omega_max by power iteration on M^-1 K at the
 * present shape, times 0.9. */
FSI_API fsi_real fsi_soft_max_dt(fsi_soft *soft);

/* Enclosed volume (area in 2D) of a closed surface, m^3. */
FSI_API fsi_real fsi_soft_volume(const fsi_soft *soft);

/* K of the present shape (exact tangent, pins not applied) into soft->K, for tests and modal
 * analysis.
 */
FSI_API fsi_result fsi_soft_stiffness(fsi_soft *soft);

/* Elastic force at the present shape into f [3 * vertex_count], N. */
FSI_API void fsi_soft_elastic_force(const fsi_soft *soft, fsi_real *f);

/* What the fluid and the contact see. */
FSI_API fsi_surface fsi_soft_surface(const fsi_soft *soft);

/* Contact in both directions with the rigid world and the other externals: vertices are points, the
   surface is what they collide with; friction is desc.friction, restitution the caller's to set in
   *out. Call once after init (it points into soft). fsi_solids_move then moves it, too, and
   fsi_soft_move has nothing left to do. */
FSI_API void fsi_soft_external(fsi_soft *soft, fsi_external *out);

/* State: bytes, copy out, copy in. A restored run continues bit for bit. */
FSI_API size_t fsi_soft_state_size(const fsi_soft *soft);
FSI_API fsi_result fsi_soft_save(const fsi_soft *soft, void *block);
FSI_API fsi_result fsi_soft_restore(fsi_soft *soft, const void *block, size_t size);

/* ------------------------------------------------------------------------------------------------
 * >>reduced */
/* Reduced deformable bodies: x = R (S q + x0) + T. All that copies share is in the model, a copy
   holds 13 + 2 modes numbers. The velocity of a copy is (w, q'): w = M_rig^-1 (momentum, angular
   momentum), q' modal velocities; v = J_rig w + P_d^T R S q'. In these coordinates the mass is
   block diagonal and an impulse f gives J_rig^T f to w and S^T R^-1 P_d f to q': momentum is exact.
 */
typedef struct fsi_reduced_desc {
    /* tetrahedra and surface at rest; dim 2: a flat sheet of triangles (fsi_mesh_sheet); read
     * during init only; required */
    const fsi_mesh *mesh;
    /* 0, 3: tetrahedra; 2: triangles in the plane z = 0 (plane stress), per metre of depth: 3 +
     * modes move */
    int dim;
    int modes; /* vibration modes, 0 = rigid */
    /* [modes * 3 * vertex_count] own basis, vector after vector, instead of modal analysis; its
     * mean translation is taken out, its span is kept; NULL = the lowest vibration modes */
    const fsi_real *basis;
    fsi_real density;                         /* kg/m^3, > 0 */
    fsi_real young, poisson;                  /* Pa, > 0 with modes; -1 < poisson < 0.5 */
    fsi_real damping_mass, damping_stiffness; /* Rayleigh, 1/s and s, >= 0 */
    int samples;                              /* contact points on the surface at most; 0 = 200 */
    int field;               /* cells of the distance field along the longest side; 0 = 32 */
    fsi_allocator allocator; /* zero = malloc */
} fsi_reduced_desc;

typedef struct fsi_reduced_model {
    fsi_reduced_desc desc; /* resolved; mesh and basis pointers are NULL */
    int vertex_count;
    int element_count;
    int modes;
    int dim;
    fsi_real mass; /* kg */
    /* of a sphere about the centre of mass that holds the rest shape, m */
    fsi_real radius;
    fsi_vec3 centre;     /* centre of mass in the mesh's coordinates, m */
    fsi_real *x0;        /* [3 * vertex_count] rest positions about the centre of mass, m */
    fsi_real *node_mass; /* [vertex_count] kg, lumped */
    /* [vertex_count * 3 * modes] S[(3 i + axis) * modes + k], 1/sqrt(kg): M_r = S^T M S = 1 */
    fsi_real *S;
    /* [modes] K_r = S^T K S is diagonal, 1/s^2 (own bases are turned into their eigenvectors) */
    fsi_real *omega2;
    int surface_count;
    int32_t *surface; /* [surface_count] mesh vertex of each surface vertex */
    int32_t *index;   /* [dim * element_count] surface, numbers of surface vertices */
    fsi_real *C0;     /* [9] sum m x0 x0^T */
    fsi_real *G0;     /* [modes * 9] sum m s_k x0^T */
    fsi_real *G;      /* [modes * modes * 9] sum m s_k s_l^T */
    int sample_count;
    int32_t *sample; /* [sample_count] surface vertices that look for contact */
    /* distance field of the rest shape: node i + nx * (j + ny * k) */
    int nx, ny, nz;
    fsi_real h;
    fsi_vec3 origin;
    fsi_real *phi;        /* [nx * ny * nz] m, negative inside */
    int32_t *near_vertex; /* [nx * ny * nz] surface vertex nearest to the node */
    fsi_bvh tree;         /* over the surface at rest, for all copies */
    void *block;
    size_t size;
} fsi_reduced_model;

FSI_API fsi_result fsi_reduced_model_init(fsi_reduced_model *model, const fsi_reduced_desc *desc);
FSI_API void fsi_reduced_model_free(fsi_reduced_model *model);

/* Rigid part of the state of a copy: 13 reals side by side. */
typedef struct fsi_reduced_rigid {
    fsi_vec3 position;         /* centre of mass, m */
    fsi_quat rotation;         /* of the frame: body to world */
    fsi_vec3 momentum;         /* N s, world frame */
    fsi_vec3 angular_momentum; /* about the centre of mass, N m s, world frame */
} fsi_reduced_rigid;

typedef struct fsi_reduced {
    const fsi_reduced_model *model; /* shared, must outlive the copy */
    fsi_real *state;                /* [13 + 2 modes] the state range: rigid, q, dq */
    fsi_reduced_rigid *rigid;
    fsi_real *q, *dq; /* [modes] modal displacement and velocity */
    /* These follow the state: the rotation as a matrix, inertia about the centre of mass and its
       inverse (body frame), H = sum m r x s_k [modes]. */
    fsi_mat3 axes;
    fsi_mat3 inertia;
    fsi_mat3 inverse_inertia;
    fsi_vec3 *H;
    /* [6 + modes] generalised force (force, torque about the centre, modal), cleared by
       fsi_reduced_forces */
    fsi_real *force;
    /* [6 + modes] velocity between fsi_reduced_couple and fsi_reduced_take */
    fsi_real *v;
    fsi_real *aside; /* [modes] private: q while a move is tried out */
    /* [12 + 3 modes] private: momenta, q, q' and force at the start of a Newmark step; from the
       first one on */
    fsi_real *start;
    int half;         /* 1: between fsi_reduced_half and fsi_reduced_forces */
    fsi_vec3 gravity; /* m/s^2 */
    int fixed;        /* 1: does not move */
    fsi_real dt;      /* of the running step */
    /* s of the running step that the rigid world's move has already moved it */
    fsi_real moved;
    /* private: J when the step began; the most it may have at its end but for the work of others */
    double energy, reference;
    int touched; /* private: others touch it in this step */
    int number;  /* private: its place in the list of the last fsi_reduced_contact */
    fsi_allocator allocator;
    void *block;
    size_t size; /* the one allocation */
} fsi_reduced;

/* A copy at rest at a position with the identity rotation. allocator may be NULL. */
FSI_API fsi_result fsi_reduced_init(fsi_reduced *reduced, const fsi_reduced_model *model,
                                    fsi_vec3 position, const fsi_allocator *allocator);
FSI_API void fsi_reduced_free(fsi_reduced *reduced);

/* Sets pose and rigid velocity (velocity of the centre of mass, angular velocity); deformation and
 * modal velocity become 0. NaN is refused. */
FSI_API fsi_result fsi_reduced_place(fsi_reduced *reduced, fsi_vec3 position, fsi_quat rotation,
                                     fsi_vec3 velocity, fsi_vec3 spin);

/* World position and velocity of mesh vertex i. */
FSI_API fsi_vec3 fsi_reduced_point(const fsi_reduced *reduced, int i);
FSI_API fsi_vec3 fsi_reduced_velocity(const fsi_reduced *reduced, int i);

/* Adds a force, N, at mesh vertex i for the next fsi_reduced_forces (actuation, springs). */
FSI_API void fsi_reduced_add_force(fsi_reduced *reduced, int i, fsi_vec3 force);

/* Generalised mass and inverse [(6 + modes)^2]: M_rig and M^_r of the running step (dt = 0: M_r).
 * Either may be NULL. */
FSI_API void fsi_reduced_mass(const fsi_reduced *reduced, fsi_real dt, fsi_real *mass,
                              fsi_real *inverse);

/* Stage 2 of a copy on its own (no joint, no skin: those are a group's), for fsi_couple with at
   most 58 modes: fills out after fsi_reduced_forces. Places and masses are worked out when the
   solve asks for them: beside the door the copy needs no memory. */
FSI_API fsi_result fsi_reduced_couple(fsi_reduced *reduced, fsi_coupled *out);

/* Stage 2, after the solve: momenta and q' from reduced->v. */
FSI_API fsi_result fsi_reduced_take(fsi_reduced *reduced);

/* Stage 1: gravity, added, fictitious and internal forces; dq becomes M^_r^-1 M_r q'*, the answer
   without fluid. */
FSI_API fsi_result fsi_reduced_forces(fsi_reduced *reduced, fsi_real dt);

/* The Newmark step of REDUCED, two coupled solves a step (docs/reduced.md):

       fsi_reduced_half; couple and solve with dt / 2, take    v^(n+1/2); v^n is kept aside
       fsi_reduced_group_move (or fsi_reduced_move) by dt      x^(n+1)
       fsi_reduced_rewind; fsi_reduced_contact                 v^n without collisions at x^(n+1)
       fsi_reduced_forces; couple and solve with dt, take      v^(n+1)

   The last one takes the elastic force K (q^n + dt q'^(n+1)), all else at x^(n+1).
   fsi_reduced_half is stage 1 for dt / 2; fsi_reduced_rewind brings v^n and the forces back, places
   stay. */
FSI_API fsi_result fsi_reduced_half(fsi_reduced *reduced, fsi_real dt);
FSI_API fsi_result fsi_reduced_rewind(fsi_reduced *reduced);

/* Stage 4: q += dt q', position += dt v, the frame turns by its own angular velocity. */
FSI_API fsi_result fsi_reduced_move(fsi_reduced *reduced, fsi_real dt);

/* Elastic and kinetic energy, J; either pointer may be NULL. */
FSI_API void fsi_reduced_energy(const fsi_reduced *reduced, double *elastic, double *kinetic);

/* Contact in both directions with the rigid world and the other externals: the samples are points;
   x is the caller's [3 * model->sample_count], filled by each call: call before every step.
   Friction and restitution are the caller's to set in *out. fsi_solids_move then moves the copy,
   too, and fsi_reduced_move has nothing left to do. */
FSI_API void fsi_reduced_external(fsi_reduced *reduced, fsi_real *x, fsi_external *out);

/* State: bytes, copy out, copy in. */
FSI_API size_t fsi_reduced_state_size(const fsi_reduced *reduced);
FSI_API fsi_result fsi_reduced_save(const fsi_reduced *reduced, void *block);
FSI_API fsi_result fsi_reduced_restore(fsi_reduced *reduced, const void *block, size_t size);

/* A group: one or more copies, joined at points, seen by the fluid as one dense coupled solid
   (joint impulses eliminated from the inverse mass). A skin replaces the copies' own surfaces.
   Scratch of the coupling lives here, not in the copies. */
typedef struct fsi_reduced_joint {
    int body[2];   /* numbers in the group */
    int vertex[2]; /* mesh vertex of each that share their place */
} fsi_reduced_joint;

typedef struct fsi_reduced_skin {
    int vertex_count;
    int element_count;
    const int32_t *index;         /* [dim * element_count] */
    int terms;                    /* component vertices per skin vertex, of one body or several */
    const int32_t *body, *vertex; /* [terms * vertex_count] */
    const fsi_real *weight;       /* [terms * vertex_count] >= 0, sum 1 */
} fsi_reduced_skin;

typedef struct fsi_reduced_group {
    int body_count;
    int joint_count;
    int dof;
    fsi_reduced **body;       /* [body_count] */
    fsi_reduced_joint *joint; /* [joint_count] */
    fsi_reduced_skin skin;    /* copied; terms 0 = none */
    /* [3 * surface vertices]; velocity NULL for one body without skin: the rows give it */
    fsi_real *x, *velocity;
    int32_t *index; /* surface elements */
    /* [skin vertices] body it hangs on most; [body_count] first degree of freedom of each body */
    int32_t *owner, *first;
    int vertex_count, element_count; /* of the surface */
    fsi_real *v, *impulse;           /* [dof] */
    fsi_real *mass, *inverse;        /* [dof * dof] */
    /* private: rows of the joints and what the bodies answer to them [3 joints * dof], what the row
       itself answers, gaps now and what a move leaves of them [3 joints] */
    fsi_real *joint_row;
    fsi_real *joint_answer;
    fsi_real *joint_weight;
    fsi_real *joint_gap;
    fsi_real *joint_left;
    /* private, [dof]: diagonal of the inverse mass without joints, change of velocity in a move */
    fsi_real *free, *change;
    /* joints: [dof + bodies] place, rotation and q of the bodies before they move */
    fsi_real *pose;
    int32_t *skin_body;
    int32_t *skin_vertex;
    fsi_real *skin_weight; /* the copy behind skin */
    fsi_real joint_error;  /* largest distance of joined points when last coupled, m */
    fsi_allocator allocator;
    void *block;
    size_t size;
} fsi_reduced_group;

/* Copies the lists (body pointers, joints, skin); the bodies belong to the caller. joint, skin and
 * allocator may be NULL. */
FSI_API fsi_result fsi_reduced_group_init(fsi_reduced_group *group, fsi_reduced **body,
                                          int body_count, const fsi_reduced_joint *joint,
                                          int joint_count, const fsi_reduced_skin *skin,
                                          const fsi_allocator *allocator);
FSI_API void fsi_reduced_group_free(fsi_reduced_group *group);

/* Stage 2: fills out for the coupled solve (after fsi_reduced_forces of all its bodies); v obeys
 * the joints, drift included. */
FSI_API fsi_result fsi_reduced_group_couple(fsi_reduced_group *group, fsi_real dt,
                                            fsi_coupled *out);

/* Stage 2, after the solve (or at once without fluid): the bodies take the velocities in group->v.
 */
FSI_API fsi_result fsi_reduced_group_take(fsi_reduced_group *group);

/* Stage 4 for all bodies of the group: impulses in the joints (pre-stabilisation) so that the
   joined points meet at the end of the move. Balanced, at points that meet at its start: momentum
   and angular momentum stay. Points further apart than a quarter of the smaller radius come nearer
   by that much. */
FSI_API fsi_result fsi_reduced_group_move(fsi_reduced_group *group, fsi_real dt);

/* Surface of bodies or skin at the present state (arrays of the group). */
FSI_API fsi_surface fsi_reduced_group_surface(fsi_reduced_group *group);

/* Contact among many copies and with obstacles: sample points against the distance fields of the
   others (deformation taken back at the nearest vertex), sequential impulses with friction.
   Overlaps are opened by moving the bodies, never through their velocities: what that puts into
   gravity, elasticity and rotation is reported as work. Memory grows when contacts outgrow it,
   never shrinks. Bodies of one group do not touch each other. A group with a skin touches others
   with the vertices of its skin: a skin vertex moves as the weighted particles behind it and hands
   impulses on to them with the same weights. */
typedef struct fsi_reduced_contacts {
    /* groups of the bodies given (all of their bodies must be given, too); the caller's; none =
     * every body on its own */
    fsi_reduced_group *const *group;
    int group_count;
    fsi_real friction, restitution; /* between copies */
    fsi_real slop;                  /* depth that is left alone, m */
    int iterations;                 /* 0 = 20 */
    int count;                      /* contacts of the last call */
    /* private: a world without bodies, in which the copies and the obstacles are externals;
       solids.contact [count] are the contacts of the last call */
    fsi_solids solids;
    /* private lists: what the world does not know of them, the rows of their ends, memory of a
       call */
    struct fsi__reduced_ends *ends;
    struct fsi__reduced_column *column;
    unsigned char *memory;
    /* private: [all degrees of freedom] what fsi_reduced_contact_hold gave */
    fsi_real *held;
    int bodies, obstacles; /* private: of the last call */
    int holds;             /* private: 1: held is in the velocities of the bodies */
    fsi_real depth;        /* deepest overlap met by the last call, m */
    /* energy that opening overlaps and moving obstacles put in during the last call, J: without it
     * energy never grows */
    double work;
    fsi_allocator allocator;
} fsi_reduced_contacts;

/* Stage 3: between fsi_reduced_forces (and the coupling) and fsi_reduced_move. Zero the
   contacts first and set their knobs. */
FSI_API fsi_result fsi_reduced_contact(fsi_reduced_contacts *contacts, fsi_reduced **body,
                                       int body_count, const fsi_obstacle *obstacle,
                                       int obstacle_count, fsi_real dt);

/* Optional, between fsi_reduced_forces and the coupled solve: the contacts of the last call press
   once more as they did for two steps, at the present places, and fsi_reduced_contact takes that
   back before it solves anew. A fluid then sees resting bodies at rest. Without it every solve
   begins with bodies that fall for dt: a heap pumps water through itself at g dt. Same bodies in
   the same order as in the last call, else nothing is held. */
FSI_API fsi_result fsi_reduced_contact_hold(fsi_reduced_contacts *contacts, fsi_reduced **body,
                                            int body_count, fsi_real dt);

/* The impulses that the next call starts from: bytes now, copy out, copy in (may allocate). With
 * the bodies' own states a run continues bit for bit. */
FSI_API size_t fsi_reduced_contacts_state_size(const fsi_reduced_contacts *contacts);
FSI_API fsi_result fsi_reduced_contacts_save(const fsi_reduced_contacts *contacts, void *block);
FSI_API fsi_result fsi_reduced_contacts_restore(fsi_reduced_contacts *contacts, const void *block,
                                                size_t size);
FSI_API void fsi_reduced_contacts_free(fsi_reduced_contacts *contacts);

#ifdef __cplusplus
}
#endif
#endif /* FSI_SOLIDS_H */
/* Stop here if you only need the API. */

#if defined(FSI_SOLIDS_IMPLEMENTATION) && !defined(FSI_SOLIDS_IMPLEMENTED)
#define FSI_SOLIDS_IMPLEMENTED
#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------
 * >>shares */
/* The share in 0 .. 1 of a change that keeps excess <= 0: 1, or the end of the safe range that
   reaches from 0 (excess(0) <= 0 is taken for granted). First the zero of the parabola through
   three points, then regula falsi between a safe and an unsafe share. excess is called with the
   result last, so that its state is of that share. */
static double fsi__safe_share(double (*excess)(double share, void *user), void *user) {
    double above = excess(1, user);
    if (!(above > 0))
        return 1;

    double half = excess(0.5, user);
    double below = excess(0, user);

    /* The larger zero of a t^2 + b t + below. */
    double a = 2 * (above - 2 * half + below);
    double b = above - below - a;
    double root = b * b - 4 * a * below;
    double t = 0;
    if (root >= 0)
        t = b > 0 ? -2 * below / (b + sqrt(root)) : (sqrt(root) - b) / (2 * a);

    /* Between `lo`, which is safe by `below`, and `hi`, which is not by `above`. */
    double lo = 0;
    double hi = 1;

    if (half > 0) {
        hi = 0.5;
        above = half;
    } else {
        lo = 0.5;
        below = half;
    }
    for (int k = 0; k < 8; k++) {
        if (!(t > lo && t < hi))
            t = (lo + hi) / 2;
        double at = excess(t, user);
        if (at > 0) {
            hi = t;
            above = at;
        } else {
            lo = t;
            below = at;
        }
        if (at <= 0 && at > -1e-6 * above)
            break;
        t = lo + (hi - lo) * below / (below - above);
    }
    if (t != lo)
        excess(lo, user);

    return lo;
}

/* Where fn is smallest between a and b, for one lowest point: golden section. */
static fsi_real fsi__golden_section(fsi_real (*fn)(fsi_real t, void *user), void *user, fsi_real a,
                                    fsi_real b, int steps) {
    const fsi_real ratio = FSI_R(0.6180339887498949);
    fsi_real s = b - ratio * (b - a);
    fsi_real t = a + ratio * (b - a);
    fsi_real at_s = fn(s, user);
    fsi_real at_t = fn(t, user);

    for (int i = 0; i < steps; i++) {
        if (at_s < at_t) {
            b = t;
            t = s;
            at_t = at_s;
            s = b - ratio * (b - a);
            at_s = fn(s, user);
        } else {
            a = s;
            s = t;
            at_s = at_t;
            t = a + ratio * (b - a);
            at_t = fn(t, user);
        }
    }

    return (a + b) / 2;
}

/* ------------------------------------------------------------------------------------------------
 * >>boundary */
/* Sorts a handful of vertex numbers. */
static void fsi__sort_few(int count, int32_t *list) {
    for (int i = 1; i < count; i++)
        for (int j = i; j > 0 && list[j - 1] > list[j]; j--) {
            int32_t swap = list[j];
            list[j] = list[j - 1];
            list[j - 1] = swap;
        }
}

/* A face of a simplex: an end of a segment, an edge of a triangle, a face of a tetrahedron. `key`
   holds its sorted vertices (the rest is 0), `from` counts corners of all simplices: that end of a
   segment, the edge from that corner of a triangle to the next, the face opposite to that corner of
   a tetrahedron. */
typedef struct fsi__face {
    int32_t key[3];
    int32_t from;
} fsi__face;

static int fsi__face_order(const void *pa, const void *pb) {
    const fsi__face *a = (const fsi__face *)pa;
    const fsi__face *b = (const fsi__face *)pb;
    for (int i = 0; i < 3; i++)
        if (a->key[i] != b->key[i])
            return a->key[i] < b->key[i] ? -1 : 1;
    return a->from < b->from ? -1 : a->from > b->from;
}

/* Faces of a tetrahedron, opposite to each corner, which is the last of its row; outwards for
   positive volume. */
static const int fsi__tet_faces[4][4] = {{1, 2, 3, 0}, {0, 3, 2, 1}, {0, 1, 3, 2}, {0, 2, 1, 3}};

/* Vertex k of face `from` of simplices with 2, 3 or 4 corners; the simplex lies to its left, or
   behind it. The last k of a segment or triangle is the corner that is not of the face. */
FSI__INLINE int32_t fsi__face_vertex(int corners, const int32_t *simplex, int from, int k) {
    int own = from % corners;
    return simplex[from - own + (corners == 4 ? fsi__tet_faces[own][k] : (own + k) % corners)];
}

/* All faces of `count` simplices, sorted: the same ones stand side by side. */
static void fsi__faces_sorted(int corners, int count, const int32_t *simplex, fsi__face *face) {
    for (int i = 0; i < corners * count; i++) {
        for (int k = 0; k < corners - 1; k++)
            face[i].key[k] = fsi__face_vertex(corners, simplex, i, k);
        fsi__sort_few(corners - 1, face[i].key);
        face[i].from = i;
    }
    qsort(face, (size_t)corners * (size_t)count, sizeof *face, fsi__face_order);
}

/* How many of the sorted faces from i on are the same. */
static int fsi__face_run(const fsi__face *face, int i, int count) {
    int end = i + 1;
    while (end < count && !memcmp(face[i].key, face[end].key, sizeof face[i].key))
        end++;
    return end - i;
}

/* Do segments or triangles overlap at a face: more than two of them, or two in the same direction?
 */
static int fsi__face_repeated(const fsi__face *face, int run, int corners, const int32_t *simplex) {
    if (run != 2)
        return run > 2;
    if (corners == 2)
        return face[0].from % 2 == face[1].from % 2;
    return fsi__face_vertex(3, simplex, face[0].from, 0)
           == fsi__face_vertex(3, simplex, face[1].from, 0);
}

/* Does a list of vertex numbers stay within so many vertices? */
static int fsi__numbers_valid(int count, const int32_t *list, int vertices) {
    for (int i = 0; i < count; i++)
        if (list[i] < 0 || list[i] >= vertices)
            return 0;
    return 1;
}

/* Faces that belong to one simplex only, [corners - 1] vertices each, at most `room` of them; *used
   counts all. FSI_ERR_GEOMETRY: bad indices, segments or triangles that overlap. */
static fsi_result fsi__boundary(int corners, int vertex_count, int count, const int32_t *simplex,
                                int32_t *out, int room, int *used, const fsi_allocator *allocator) {
    *used = 0;
    if (!count)
        return FSI_OK;

    int faces = corners * count;
    if (!fsi__numbers_valid(faces, simplex, vertex_count))
        return FSI_ERR_GEOMETRY;

    fsi__face *face = NULL;
    fsi_result result = FSI__LIST_ROOM(face, faces, allocator);
    if (result != FSI_OK)
        return result;

    fsi__faces_sorted(corners, count, simplex, face);
    int run;
    int overlap = 0;
    for (int i = 0; i < faces; i += run) {
        run = fsi__face_run(face, i, faces);
        overlap |= corners < 4 && fsi__face_repeated(face + i, run, corners, simplex);
        if (run > 1)
            continue;
        for (int k = 0; out && *used < room && k < corners - 1; k++)
            out[(corners - 1) * *used + k] = fsi__face_vertex(corners, simplex, face[i].from, k);
        ++*used;
    }
    FSI__LIST_FREE(face, allocator);
    if (overlap)
        return FSI_ERR_GEOMETRY;
    return out && *used > room ? FSI_ERR_SIZE : FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>mesh mass */
/* Is an element without area, for its size? */
static int fsi__element_degenerate(const fsi_surface *surface, int element) {
    const int32_t *id = surface->index + (size_t)surface->dim * (size_t)element;
    fsi_real area = fsi__length(fsi_surface_normal(surface, element));
    fsi_real longest = 0;
    for (int k = 0; k < surface->dim; k++) {
        fsi_vec3 a = fsi__vec_at(surface->x, id[k]);
        fsi_vec3 b = fsi__vec_at(surface->x, id[(k + 1) % surface->dim]);
        fsi_vec3 edge = fsi_vec_sub(a, b);
        longest = fsi__max(longest, fsi_vec_dot(edge, edge));
    }
    return !(area > 64 * FSI_REAL_EPS * (surface->dim == 3 ? longest : fsi__sqrt(longest)));
}

/* Integrals over the inside of a surface. */
typedef struct fsi__moments {
    double volume;
    double first[3];  /* of x, y, z */
    double second[6]; /* of xx, yy, zz, xy, xz, yz */
} fsi__moments;

static const int8_t fsi__second_row[6] = {0, 1, 2, 0, 0, 1};
static const int8_t fsi__second_column[6] = {0, 1, 2, 1, 2, 2};

/* Volume of the cone from the origin over an element: a . (b x c) / 6; in 2D a x b / 2. */
static double fsi__cone_volume(const double *a, const double *b, const double *c, int dim) {
    if (dim == 2)
        return (a[0] * b[1] - a[1] * b[0]) / 2;
    return (a[0] * (b[1] * c[2] - b[2] * c[1]) + a[1] * (b[2] * c[0] - b[0] * c[2])
            + a[2] * (b[0] * c[1] - b[1] * c[0]))
           / 6;
}

/* Moments about `origin`: the sum of the cones from there to every element. */
static fsi__moments fsi__mesh_moments(const fsi_surface *surface, fsi_vec3 origin) {
    fsi__moments sum = FSI__ZERO;

    for (int e = 0; e < surface->element_count; e++) {
        const int32_t *id = surface->index + (size_t)surface->dim * (size_t)e;
        double p[3][3] = {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
        double total[3];
        for (int k = 0; k < surface->dim; k++)
            for (int i = 0; i < surface->dim; i++)
                p[k][i] = (double)(surface->x[3 * (size_t)id[k] + (size_t)i] - fsi__get(origin, i));
        double volume = fsi__cone_volume(p[0], p[1], p[2], surface->dim);
        sum.volume += volume;
        for (int i = 0; i < 3; i++) {
            total[i] = p[0][i] + p[1][i] + p[2][i];
            sum.first[i] += volume * total[i] / (surface->dim + 1);
        }

        /* int x_i x_j = volume / 20 (sum over corners p_i p_j + total_i total_j); 2D: area / 12 */
        for (int k = 0; k < 6; k++) {
            int i = fsi__second_row[k];
            int j = fsi__second_column[k];
            double corners = p[0][i] * p[0][j] + p[1][i] * p[1][j] + p[2][i] * p[2][j];
            sum.second[k] +=
                volume * (corners + total[i] * total[j]) / (surface->dim == 3 ? 20 : 12);
        }
    }

    return sum;
}

FSI_API fsi_result fsi_mesh_mass(const fsi_surface *mesh, const fsi_allocator *allocator,
                                 fsi_real *volume, fsi_vec3 *com, fsi_mat3 *inertia) {
    if (!mesh || !volume || !com || !inertia || !fsi_allocator_valid(allocator))
        return FSI_ERR_ARGUMENT;

    fsi_result result = fsi_surface_check(mesh);
    if (result != FSI_OK)
        return result;
    if (mesh->element_count == 0)
        return FSI_ERR_GEOMETRY;

    for (int e = 0; e < mesh->element_count; e++)
        if (fsi__element_degenerate(mesh, e))
            return FSI_ERR_GEOMETRY;

    /* Closed: no end or edge belongs to one element alone. */
    int open;
    result = fsi__boundary(mesh->dim, mesh->vertex_count, mesh->element_count, mesh->index, NULL, 0,
                           &open, allocator);
    if (result != FSI_OK || open)
        return result != FSI_OK ? result : FSI_ERR_GEOMETRY;

    /* About a point of the mesh: nothing cancels where it lies at a distance from the origin. */
    fsi_vec3 origin = fsi__vec_at(mesh->x, mesh->index[0]);
    fsi__moments sum = fsi__mesh_moments(mesh, origin);
    if (!(sum.volume > 0))
        return FSI_ERR_GEOMETRY; /* inside-out */

    double centre[3];
    double second[6];
    for (int i = 0; i < 3; i++)
        centre[i] = sum.first[i] / sum.volume;
    *volume = (fsi_real)sum.volume;
    *com = fsi_vec_add(origin, fsi_vec((fsi_real)centre[0], (fsi_real)centre[1],
                                       mesh->dim == 3 ? (fsi_real)centre[2] : -origin.z));

    /* Inertia about the centre of mass: xx + yy and so on, and -xy beside the diagonal. */
    for (int k = 0; k < 6; k++)
        second[k] =
            sum.second[k] - sum.volume * centre[fsi__second_row[k]] * centre[fsi__second_column[k]];
    memset(inertia, 0, sizeof *inertia);
    inertia->m[8] = (fsi_real)(second[0] + second[1]);
    if (mesh->dim == 2)
        return FSI_OK;

    inertia->m[0] = (fsi_real)(second[1] + second[2]);
    inertia->m[4] = (fsi_real)(second[0] + second[2]);
    for (int k = 3; k < 6; k++) {
        int i = fsi__second_row[k];
        int j = fsi__second_column[k];
        inertia->m[3 * i + j] = inertia->m[3 * j + i] = (fsi_real)-second[k];
    }

    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>tessellation */
/* Surfaces of the analytic kinds, handed to fluids. A round one in 3D is a profile turned about an
   axis: rings of vertices around it, with a tip at either end unless the profile is a loop.

       sphere, capsule (axis x)              torus (axis y)

          ring 0 .. rings - 1                  the profile is the circle of the tube;
       tip  |  |  |  |  tip                    ring i is one position on it             */
#define FSI__TORUS_POINTS 32

typedef struct fsi__tess {
    int around; /* vertices of a ring */
    int rings;
    int loop; /* 1: the profile is closed and there are no tips */
    int vertices;
    int elements;
    int samples; /* of contact */
} fsi__tess;

static fsi__tess fsi__tess_size(const fsi_shape_desc *desc) {
    fsi__tess tess;
    int capsule = desc->kind == FSI_SHAPE_CAPSULE;
    int half = desc->resolution / 2;
    memset(&tess, 0, sizeof tess);
    tess.around = desc->resolution;
    tess.loop = desc->kind == FSI_SHAPE_TORUS;
    if (desc->kind == FSI_SHAPE_BOX) {
        tess.vertices = tess.samples = desc->dim == 3 ? 8 : 4;
        tess.elements = desc->dim == 3 ? 12 : 4;
        return tess;
    }
    if (!tess.loop && !capsule && desc->kind != FSI_SHAPE_SPHERE)
        return tess;
    tess.samples = capsule ? 2 : 1;
    if (desc->dim == 2) { /* a capsule has two half circles, each with both its ends */
        if (capsule)
            tess.around += tess.around & 1;
        tess.vertices = tess.elements = tess.around + (capsule ? 2 : 0);
        return tess;
    }
    tess.rings = half - 1 + (capsule ? 1 + half % 2 : 0);
    if (tess.loop) {
        tess.rings = fsi__imax(half, 6);
        tess.samples = FSI__TORUS_POINTS;
    }
    tess.vertices = tess.around * tess.rings + (tess.loop ? 0 : 2);
    tess.elements = 2 * tess.around * tess.rings;

    return tess;
}

/* Ring i of the profile: distance from the axis and position along it. */
static void fsi__tess_profile(const fsi_shape *shape, const fsi__tess *tess, int i, fsi_real radius,
                              fsi_real *distance, fsi_real *along) {
    fsi_real angle;
    fsi_real ring = 0;
    fsi_real shift = 0;
    if (tess->loop) {
        angle = 2 * FSI_PI * (fsi_real)i / (fsi_real)tess->rings;
        ring = shape->length;
    } else if (shape->kind == FSI_SHAPE_CAPSULE) { /* both hemispheres end in an equator */
        int half = tess->rings / 2;
        int first = i < half;
        angle = FSI_PI / 2 * (fsi_real)(first ? i + 1 : i) / (fsi_real)half;
        shift = first ? shape->length / 2 : -shape->length / 2;
    } else
        angle = FSI_PI * (fsi_real)(i + 1) / (fsi_real)(tess->rings + 1);
    *distance = ring + radius * fsi__sin(angle);
    *along = radius * fsi__cos(angle) + shift;
}

static fsi_real *fsi__put(fsi_real *x, fsi_real a, fsi_real b, fsi_real c) {
    x[0] = a;
    x[1] = b;
    x[2] = c;
    return x + 3;
}

static int32_t *fsi__triangle(int32_t *id, int a, int b, int c) {
    id[0] = a;
    id[1] = b;
    id[2] = c;
    return id + 3;
}

static void fsi__tess_round3(const fsi_shape *shape, const fsi__tess *tess, fsi_real radius,
                             fsi_real *x, int32_t *id) {
    int n = tess->around;
    int tips = !tess->loop;
    int end = tess->vertices - 1;
    fsi_real tip = radius + (shape->kind == FSI_SHAPE_CAPSULE ? shape->length / 2 : 0);
    if (tips)
        x = fsi__put(x, tip, 0, 0);
    for (int i = 0; i < tess->rings; i++)
        for (int j = 0; j < n; j++) {
            fsi_real distance;
            fsi_real along;
            fsi_real angle = 2 * FSI_PI * (fsi_real)j / (fsi_real)n;
            fsi__tess_profile(shape, tess, i, radius, &distance, &along);
            fsi_real cosine = distance * fsi__cos(angle);
            fsi_real sine = distance * fsi__sin(angle);

            /* Axes are swapped cyclically: orientation is kept. */
            x = tips ? fsi__put(x, along, cosine, sine) : fsi__put(x, sine, along, cosine);
        }
    if (tips)
        (void)fsi__put(x, -tip, 0, 0);

    /* Two triangles between neighbouring rings: along the profile x around = outward. */
    for (int i = 0; i < tess->rings - tips; i++)
        for (int j = 0; j < n; j++) {
            int ring = tips + i * n;
            int next = tips + (i + 1) % tess->rings * n;
            int k = (j + 1) % n;
            id = fsi__triangle(id, ring + j, next + j, next + k);
            id = fsi__triangle(id, ring + j, next + k, ring + k);
        }
    for (int j = 0; j < n && tips; j++) {
        id = fsi__triangle(id, 0, 1 + j, 1 + (j + 1) % n);
        id = fsi__triangle(id, end, end - n + (j + 1) % n, end - n + j);
    }
}

static void fsi__tess_round2(const fsi_shape *shape, const fsi__tess *tess, fsi_real radius,
                             fsi_real *x, int32_t *id) {
    int half = tess->around / 2;
    int capsule = shape->kind == FSI_SHAPE_CAPSULE;
    for (int i = 0; i < tess->vertices; i++) {
        int right = i <= half;
        int number = capsule && !right ? i - 1 : i;
        fsi_real start = capsule ? FSI_PI / 2 : 0;
        fsi_real angle = 2 * FSI_PI * (fsi_real)number / (fsi_real)tess->around - start;
        fsi_real shift = right ? shape->length / 2 : -shape->length / 2;
        x = fsi__put(x, radius * fsi__cos(angle) + (capsule ? shift : 0), radius * fsi__sin(angle),
                     0);
        *id++ = i;
        *id++ = (i + 1) % tess->vertices;
    }
}

/* Corner i lies at +half along x, y, z where bit 1, 2, 4 of i is set. */
static void fsi__tess_box(const fsi_shape *shape, const fsi__tess *tess, fsi_real *x, int32_t *id) {
    static const int8_t face[36] = {0, 4, 6, 0, 6, 2, 1, 3, 7, 1, 7, 5, 0, 1, 5, 0, 5, 4,
                                    2, 6, 7, 2, 7, 3, 0, 2, 3, 0, 3, 1, 4, 5, 7, 4, 7, 6};
    static const int8_t loop[8] = {0, 1, 1, 3, 3, 2, 2, 0};
    const int8_t *corner = shape->dim == 3 ? face : loop;
    fsi_vec3 hi = shape->half;
    fsi_vec3 lo = fsi_vec_sub(fsi_vec(0, 0, 0), hi);
    for (int i = 0; i < tess->vertices; i++)
        x = fsi__put(x, i & 1 ? hi.x : lo.x, i & 2 ? hi.y : lo.y, i & 4 ? hi.z : lo.z);
    for (int i = 0; i < shape->dim * tess->elements; i++)
        id[i] = corner[i];
}

/* Fills the surface of an analytic kind. Round ones are blown up slightly so that the volume is
 * exact: buoyancy comes out right. */
static void fsi__tess_fill(fsi_shape *shape, const fsi__tess *tess, fsi_real *x, int32_t *id) {
    fsi_real radius = shape->radius;
    if (shape->kind == FSI_SHAPE_BOX) {
        fsi__tess_box(shape, tess, x, id);
        return;
    }
    for (int pass = 0; pass < 24; pass++) {
        if (shape->dim == 3)
            fsi__tess_round3(shape, tess, radius, x, id);
        else
            fsi__tess_round2(shape, tess, radius, x, id);
        double volume = fsi__mesh_moments(&shape->surface, fsi_vec(0, 0, 0)).volume;
        radius *= 1 + FSI_R(0.4) * (shape->volume / (fsi_real)volume - 1);
    }
}

/* ------------------------------------------------------------------------------------------------
 * >>shapes */
/* A shape is planned (counts, masses of a mesh), laid out in one block, and filled. */

/* Moments about the axes over the volume: xx, yy, zz. */
static void fsi__inertia_diag(fsi_shape *shape, fsi_real xx, fsi_real yy, fsi_real zz) {
    if (shape->dim == 3) {
        shape->inertia.m[0] = shape->volume * xx;
        shape->inertia.m[4] = shape->volume * yy;
    }
    shape->inertia.m[8] = shape->volume * zz;
}

static void fsi__shape_box(fsi_shape *shape) {
    fsi_vec3 h = shape->half;
    int solid = shape->dim == 3;
    shape->volume = 4 * h.x * h.y * (solid ? 2 * h.z : 1);
    fsi__inertia_diag(shape, (h.y * h.y + h.z * h.z) / 3, (h.x * h.x + h.z * h.z) / 3,
                      (h.x * h.x + h.y * h.y) / 3);
    shape->hi = h;
    shape->bound = fsi__length(h);
    shape->thin = fsi__min(h.x, h.y);
    if (solid)
        shape->thin = fsi__min(h.z, shape->thin);
}

/* Symbols: r radius, l length of the straight part. */
static void fsi__shape_capsule(fsi_shape *shape) {
    fsi_real r = shape->radius;
    fsi_real l = shape->length;
    fsi_real rr = r * r;
    fsi_real ll = l * l;
    int solid = shape->dim == 3;
    fsi_real straight = solid ? FSI_PI * rr * l : 2 * r * l;
    fsi_real caps = solid ? 4 * FSI_PI / 3 * rr * r : FSI_PI * rr;
    fsi_real volume = straight + caps;
    fsi_real across;
    if (solid)
        across = (straight * (rr / 4 + ll / 12)
                  + caps * (FSI_R(0.4) * rr + ll / 4 + FSI_R(0.375) * l * r))
                 / volume;
    else
        across =
            (straight * (ll + 4 * rr) / 12 + caps * (rr / 2 + ll / 4 + l * 4 * r / (3 * FSI_PI)))
            / volume;
    shape->volume = volume;
    fsi__inertia_diag(shape, (straight / 2 + FSI_R(0.4) * caps) * rr / volume, across, across);
    shape->hi = fsi_vec(l / 2 + r, r, solid ? r : 0);
    shape->bound = l / 2 + r;
    shape->thin = r;
}

/* Mass properties and bounds of the analytic kinds. */
static void fsi__shape_analytic(fsi_shape *shape) {
    fsi_real r = shape->radius;
    fsi_real l = shape->length;
    fsi_real rr = r * r;
    fsi_real ll = l * l;
    int solid = shape->dim == 3;
    switch (shape->kind) {
    case FSI_SHAPE_BOX:
        fsi__shape_box(shape);
        break;
    case FSI_SHAPE_CAPSULE:
        fsi__shape_capsule(shape);
        break;
    case FSI_SHAPE_SPHERE:
        shape->volume = solid ? 4 * FSI_PI / 3 * rr * r : FSI_PI * rr;
        fsi__inertia_diag(shape, FSI_R(0.4) * rr, FSI_R(0.4) * rr,
                          (solid ? FSI_R(0.4) : FSI_R(0.5)) * rr);
        shape->hi = fsi_vec(r, r, solid ? r : 0);
        shape->bound = r;
        shape->thin = r;
        break;
    default: /* torus */
        shape->volume = 2 * FSI_PI * FSI_PI * l * rr;
        fsi__inertia_diag(shape, ll / 2 + FSI_R(0.625) * rr, ll + FSI_R(0.75) * rr,
                          ll / 2 + FSI_R(0.625) * rr);
        shape->hi = fsi_vec(l + r, r, l + r);
        shape->bound = l + r;
        shape->thin = r;
        break;
    }
    shape->lo = fsi_vec_scale(shape->hi, -1);
}

/* The static world: no volume, no surface, no bounds. */
static int fsi__shape_static(fsi_shape_kind kind) {
    return kind == FSI_SHAPE_PLANE || kind == FSI_SHAPE_ROOM || kind == FSI_SHAPE_HEIGHT;
}

static fsi_vec3 fsi__quat_axis(fsi_quat q) {
    return fsi_vec(q.x, q.y, q.z);
}

static int fsi__quat_finite(fsi_quat q) {
    return fsi__finite(q.w) && fsi__finite_vec(fsi__quat_axis(q));
}

static int fsi__height_valid(const fsi_shape_desc *desc) {
    size_t count;
    int rows = desc->dim == 3 ? desc->nz >= 2 : desc->nz == 1;
    if (!desc->height || desc->nx < 2 || !rows || !fsi__positive(desc->spacing))
        return 0;
    return fsi_size_mul((size_t)desc->nx, (size_t)desc->nz, &count) && count < 0x7fffffffu
           && fsi_all_finite(count, desc->height);
}

static int fsi__parts_valid(const fsi_shape_desc *desc) {
    if (!desc->part || desc->part_count < 1 || desc->part_count > 4096)
        return 0;

    for (int i = 0; i < desc->part_count; i++) {
        const fsi_shape_part *part = desc->part + i;
        const fsi_shape *shape = part->shape;
        if (!shape || shape->dim != desc->dim || fsi__shape_static(shape->kind)
            || shape->kind == FSI_SHAPE_COMPOUND)
            return 0;
        if (!fsi__finite(part->density) || part->density < 0)
            return 0;
        if (!fsi__finite_vec(part->x) || !fsi__quat_finite(part->q))
            return 0;
    }
    return 1;
}

static int fsi__shape_desc_valid(const fsi_shape_desc *desc) {
    int round = fsi__positive(desc->radius) && fsi__finite(desc->length);
    if ((desc->dim != 2 && desc->dim != 3) || !fsi_allocator_valid(&desc->allocator))
        return 0;
    if (desc->resolution < 6 || desc->resolution > 4096)
        return 0;

    switch (desc->kind) {
    case FSI_SHAPE_PLANE:
        return 1;

    case FSI_SHAPE_SPHERE:
        return fsi__positive(desc->radius);

    case FSI_SHAPE_BOX:
    case FSI_SHAPE_ROOM:
        return fsi__positive(desc->half.x) && fsi__positive(desc->half.y)
               && (desc->dim == 2 || fsi__positive(desc->half.z));
    case FSI_SHAPE_CAPSULE:
        return round && desc->length >= 0;

    case FSI_SHAPE_TORUS:
        return round && desc->dim == 3 && desc->length > desc->radius;

    case FSI_SHAPE_MESH:
        return desc->surface && desc->surface->dim == desc->dim && desc->sdf_cells >= 4
               && desc->sdf_cells <= 512;
    case FSI_SHAPE_HEIGHT:
        return fsi__height_valid(desc);

    case FSI_SHAPE_COMPOUND:
        return fsi__parts_valid(desc);

    default:
        return 0;
    }
}

/* Bounds of nothing: the first point that is added makes them. */
static void fsi__bounds_empty(fsi_vec3 *lo, fsi_vec3 *hi) {
    *lo = fsi_vec(FSI_REAL_MAX, FSI_REAL_MAX, FSI_REAL_MAX);
    *hi = fsi_vec_scale(*lo, -1);
}

/* The smaller and the larger of two vectors, and absolute values, component by component. */
static fsi_vec3 fsi__vec_min(fsi_vec3 a, fsi_vec3 b) {
    return fsi_vec(fsi__min(a.x, b.x), fsi__min(a.y, b.y), fsi__min(a.z, b.z));
}

static fsi_vec3 fsi__vec_max(fsi_vec3 a, fsi_vec3 b) {
    return fsi_vec(fsi__max(a.x, b.x), fsi__max(a.y, b.y), fsi__max(a.z, b.z));
}

static fsi_vec3 fsi__vec_abs(fsi_vec3 a) {
    return fsi_vec(fsi__abs(a.x), fsi__abs(a.y), fsi__abs(a.z));
}

/* Bounds grow to hold p. */
static void fsi__grow(fsi_vec3 *lo, fsi_vec3 *hi, fsi_vec3 p) {
    *lo = fsi__vec_min(*lo, p);
    *hi = fsi__vec_max(*hi, p);
}

/* Do box a, grown by `grow` on all sides, and box b meet? */
static int fsi__boxes_meet(fsi_vec3 alo, fsi_vec3 ahi, fsi_real grow, fsi_vec3 blo, fsi_vec3 bhi) {
    int in_x = alo.x - grow <= bhi.x && blo.x <= ahi.x + grow;
    int in_y = alo.y - grow <= bhi.y && blo.y <= ahi.y + grow;
    int in_z = alo.z - grow <= bhi.z && blo.z <= ahi.z + grow;
    return in_x && in_y && in_z;
}

/* Adds the inertia of a part: turned, times density, and moved by its place d (parallel axes,
 * mass (|d|^2 - d d^T)). */
static void fsi__inertia_add(fsi_shape *shape, const fsi_shape_part *part) {
    fsi_mat3 turn = fsi_quat_matrix(part->q);
    fsi_mat3 own = fsi_mat3_rotate(&turn, &part->shape->inertia);
    fsi_real mass = part->density * part->shape->volume;
    fsi_real square = fsi_vec_dot(part->x, part->x);
    fsi_real d[3];
    fsi_vec_store(d, part->x);
    for (int i = shape->dim == 3 ? 0 : 2; i < 3; i++)
        for (int j = shape->dim == 3 ? 0 : 2; j < 3; j++)
            shape->inertia.m[3 * i + j] +=
                part->density * own.m[3 * i + j] + mass * ((i == j ? square : 0) - d[i] * d[j]);
}

/* Parts are copied, their poses moved to the common centre of mass; mass properties of parts are
 * added. */
static void fsi__compound_mass(fsi_shape *shape, const fsi_shape_desc *desc) {
    fsi_vec3 moment = FSI__ZERO;
    fsi_real mass = 0;

    for (int i = 0; i < desc->part_count; i++) {
        fsi_shape_part *part = shape->part + i;
        *part = desc->part[i];
        part->q = fsi_quat_unit(part->q);
        if (part->density == 0)
            part->density = 1;
        shape->volume += part->shape->volume;
        mass += part->density * part->shape->volume;
        moment = fsi_vec_mad(moment, part->x, part->density * part->shape->volume);
    }
    shape->com = fsi_vec_scale(moment, 1 / mass);
    shape->density_mean = mass / shape->volume;
    shape->thin = FSI_REAL_MAX;

    for (int i = 0; i < desc->part_count; i++) {
        fsi_shape_part *part = shape->part + i;
        part->x = fsi_vec_sub(part->x, shape->com);
        shape->thin = fsi__min(shape->thin, part->shape->thin);
        shape->bound = fsi__max(shape->bound, fsi__length(part->x) + part->shape->bound);
        fsi__inertia_add(shape, part);
    }
}

/* Joined surfaces of the parts, in the compound's frame, and their bounds. */
static void fsi__compound_surface(fsi_shape *shape, fsi_real *x, int32_t *id) {
    int first = 0;
    fsi__bounds_empty(&shape->lo, &shape->hi);
    for (int i = 0; i < shape->part_count; i++) {
        const fsi_shape_part *part = shape->part + i;
        const fsi_surface *surface = &part->shape->surface;
        for (int j = 0; j < surface->vertex_count; j++, x += 3) {
            fsi_vec3 turned = fsi_quat_rotate(part->q, fsi__vec_at(surface->x, j));
            fsi_vec3 p = fsi_vec_add(part->x, turned);
            fsi_vec_store(x, p);
            fsi__grow(&shape->lo, &shape->hi, p);
        }
        for (int j = 0; j < surface->element_count * surface->dim; j++)
            *id++ = first + surface->index[j];
        first += surface->vertex_count;
    }
}

/* Values of a signed distance on a lattice, node i + nx * (j + ny * k); 2D: nz = 1. */
typedef struct fsi__sdf {
    int nx;
    int ny;
    int nz;
    fsi_real spacing;
    fsi_vec3 origin;
    const fsi_real *value;
} fsi__sdf;

/* One row of a distance grid. The sign changes only where the surface can be between two nodes:
 * |d| + |d'| <= spacing. nearest (may be NULL): the vertex of the surface nearest to each node. */
static void fsi__sdf_row(const fsi__sdf *sdf, const fsi_bvh *bvh, ptrdiff_t row, fsi_real *value,
                         int32_t *nearest) {
    fsi_real before = 0;
    int inside = 0;
    for (int i = 0; i < sdf->nx; i++) {
        ptrdiff_t at = row * sdf->nx + i;
        fsi_vec3 node = fsi_vec((fsi_real)i, (fsi_real)(row % sdf->ny), (fsi_real)(row / sdf->ny));
        fsi_vec3 p = fsi_vec_mad(sdf->origin, node, sdf->spacing);
        fsi_hit hit;
        memset(&hit, 0, sizeof hit);
        fsi_bvh_closest(bvh, p, FSI_REAL_MAX, &hit);
        if (i > 0 && before + hit.t <= sdf->spacing * FSI_R(1.001))
            inside = fsi_bvh_inside(bvh, p);
        value[at] = inside ? -hit.t : hit.t;
        before = hit.t;

        int corner = hit.weight[1] > hit.weight[0] ? 1 : 0;
        if (bvh->surface.dim == 3 && hit.weight[2] > hit.weight[corner])
            corner = 2;
        if (nearest)
            nearest[at] = bvh->surface.index[bvh->surface.dim * hit.element + corner];
    }
}

/* The distance grid of a surface. */
static void fsi__sdf_fill(const fsi__sdf *sdf, const fsi_bvh *bvh, fsi_real *value,
                          int32_t *nearest) {
    ptrdiff_t rows = (ptrdiff_t)sdf->ny * sdf->nz;
    FSI__OMP(parallel for schedule(static))
    for (ptrdiff_t row = 0; row < rows; row++)
        fsi__sdf_row(sdf, bvh, row, value, nearest);
}

/* A lattice around a box: `cells` cells along the box's longest side, and two more on every side,
   so that all nodes of its border are outside, as fsi__sdf_row expects. */
static fsi__sdf fsi__sdf_cover(fsi_vec3 lo, fsi_vec3 hi, int dim, int cells) {
    fsi_vec3 extent = fsi_vec_sub(hi, lo);
    fsi_real deep = dim == 3 ? FSI_R(1.) : FSI_R(0.);
    fsi__sdf sdf;
    sdf.spacing = fsi__max(extent.x, fsi__max(extent.y, extent.z)) / (fsi_real)cells;

    /* Two cells on each side, and one more node than cells. */
    sdf.nx = (int)fsi__ceil(extent.x / sdf.spacing) + 5;
    sdf.ny = (int)fsi__ceil(extent.y / sdf.spacing) + 5;
    sdf.nz = dim == 3 ? (int)fsi__ceil(extent.z / sdf.spacing) + 5 : 1;
    sdf.origin = fsi_vec_sub(lo, fsi_vec_scale(fsi_vec(1, 1, deep), 2 * sdf.spacing));
    sdf.value = NULL;
    return sdf;
}

/* The distance grid of a mesh. */
static fsi__sdf fsi__shape_sdf(const fsi_shape *shape) {
    fsi__sdf sdf = {shape->nx, shape->ny, shape->nz, shape->spacing, shape->origin, shape->grid};
    return sdf;
}

/* Size of the distance grid of a mesh. */
static void fsi__sdf_size(fsi_shape *shape, const fsi_shape_desc *desc) {
    fsi__sdf sdf = fsi__sdf_cover(shape->lo, shape->hi, shape->dim, desc->sdf_cells);
    shape->spacing = sdf.spacing;
    shape->nx = sdf.nx;
    shape->ny = sdf.ny;
    shape->nz = sdf.nz;
    shape->origin = sdf.origin;
}

/* Vertex i of the desc's mesh, seen from the centre of mass. */
static fsi_vec3 fsi__mesh_vertex(const fsi_shape *shape, const fsi_shape_desc *desc, int i) {
    fsi_vec3 p = fsi_vec_sub(fsi__vec_at(desc->surface->x, i), shape->com);
    if (shape->dim == 2)
        p.z = 0;
    return p;
}

static fsi_result fsi__mesh_plan(fsi_shape *shape, const fsi_shape_desc *desc) {
    fsi_result result = fsi_mesh_mass(desc->surface, &desc->allocator, &shape->volume, &shape->com,
                                      &shape->inertia);
    if (result != FSI_OK)
        return result;

    shape->point_radius = 0;
    shape->surface.vertex_count = shape->point_count = desc->surface->vertex_count;
    shape->surface.element_count = desc->surface->element_count;
    fsi__bounds_empty(&shape->lo, &shape->hi);
    for (int i = 0; i < shape->point_count; i++) {
        fsi_vec3 p = fsi__mesh_vertex(shape, desc, i);
        fsi__grow(&shape->lo, &shape->hi, p);
        shape->bound = fsi__max(shape->bound, fsi__length(p));
    }
    fsi__sdf_size(shape, desc);
    shape->thin = shape->spacing;
    size_t layer = (size_t)shape->nx * (size_t)shape->ny;

    return fsi_size_mul(layer, (size_t)shape->nz, &shape->grid_cells) ? FSI_OK : FSI_ERR_SIZE;
}

/* Counts of everything the block will hold, and the mass properties of a mesh. */
static fsi_result fsi__shape_plan(fsi_shape *shape, const fsi_shape_desc *desc) {
    fsi__tess tess = fsi__tess_size(desc);
    shape->kind = desc->kind;
    shape->dim = desc->dim;
    shape->radius = desc->radius;
    shape->length = desc->length;
    shape->half = desc->half;
    shape->allocator = desc->allocator;
    shape->density_mean = 1;
    if (shape->dim == 2)
        shape->half.z = 0;
    shape->surface.dim = desc->dim;
    shape->surface.closed = 1;
    shape->surface.vertex_count = tess.vertices;
    shape->surface.element_count = tess.elements;
    shape->point_radius = desc->kind == FSI_SHAPE_BOX ? 0 : shape->radius;
    shape->point_count = tess.samples;
    if (desc->kind == FSI_SHAPE_MESH)
        return fsi__mesh_plan(shape, desc);
    if (desc->kind == FSI_SHAPE_COMPOUND) {
        shape->part_count = desc->part_count;
        for (int i = 0; i < desc->part_count; i++) {
            shape->surface.vertex_count += desc->part[i].shape->surface.vertex_count;
            shape->surface.element_count += desc->part[i].shape->surface.element_count;
        }
    }
    if (desc->kind == FSI_SHAPE_HEIGHT) {
        shape->nx = desc->nx;
        shape->ny = 1;
        shape->nz = desc->nz;
        shape->spacing = desc->spacing;
        shape->origin = fsi_vec((fsi_real)(desc->nx - 1) * desc->spacing / -2, 0,
                                (fsi_real)(desc->nz - 1) * desc->spacing / -2);
        shape->grid_cells = (size_t)desc->nx * (size_t)desc->nz;
    }

    return FSI_OK;
}

/* The arrays of a shape while they may still be written. */
typedef struct fsi__shape_arrays {
    fsi_real *x;
    fsi_real *point;
    fsi_real *grid;
    int32_t *index;
} fsi__shape_arrays;

static void fsi__shape_layout(fsi_shape *shape, fsi__shape_arrays *arrays, fsi_arena *arena) {
    size_t entries = (size_t)shape->dim * (size_t)shape->surface.element_count;
    FSI__TAKE(shape->part, arena, (size_t)shape->part_count);
    FSI__TAKE(arrays->x, arena, 3 * (size_t)shape->surface.vertex_count);
    FSI__TAKE(arrays->index, arena, entries);
    FSI__TAKE(arrays->point, arena, 3 * (size_t)shape->point_count);
    FSI__TAKE(arrays->grid, arena, shape->grid_cells);
    shape->surface.x = arrays->x;
    shape->surface.index = arrays->index;
    shape->point = arrays->point;
    shape->grid = arrays->grid;
}

static fsi_result fsi__mesh_fill(fsi_shape *shape, const fsi_shape_desc *desc,
                                 const fsi__shape_arrays *arrays) {
    for (int i = 0; i < shape->point_count; i++) {
        fsi_vec3 p = fsi__mesh_vertex(shape, desc, i);
        fsi__vec_put(arrays->x, i, p);
        fsi__vec_put(arrays->point, i, p);
    }
    memcpy(arrays->index, desc->surface->index,
           (size_t)shape->dim * (size_t)shape->surface.element_count * sizeof(int32_t));
    fsi_bvh bvh;
    fsi_result result = fsi_bvh_init(&bvh, shape->surface.element_count, &desc->allocator);
    if (result != FSI_OK)
        return result;

    result = fsi_bvh_build(&bvh, &shape->surface);
    fsi__sdf sdf = fsi__shape_sdf(shape);
    if (result == FSI_OK)
        fsi__sdf_fill(&sdf, &bvh, arrays->grid, NULL);
    fsi_bvh_free(&bvh);
    return result;
}

/* Surface and contact samples of an analytic kind. */
static void fsi__analytic_fill(fsi_shape *shape, const fsi_shape_desc *desc,
                               const fsi__shape_arrays *arrays) {
    fsi__tess tess = fsi__tess_size(desc);
    fsi__shape_analytic(shape);
    fsi__tess_fill(shape, &tess, arrays->x, arrays->index);
    if (desc->kind == FSI_SHAPE_BOX)
        fsi_copy(3 * (size_t)tess.vertices, arrays->x, arrays->point);
    if (desc->kind == FSI_SHAPE_CAPSULE) {
        arrays->point[0] = desc->length / 2;
        arrays->point[3] = -desc->length / 2;
    }
    for (int i = 0; i < FSI__TORUS_POINTS && desc->kind == FSI_SHAPE_TORUS; i++) {
        fsi_real angle = 2 * FSI_PI * (fsi_real)i / FSI__TORUS_POINTS;
        fsi__put(arrays->point + 3 * i, desc->length * fsi__sin(angle), 0,
                 desc->length * fsi__cos(angle));
    }
}

/* Fills the arrays of a planned shape. */
static fsi_result fsi__shape_fill(fsi_shape *shape, const fsi_shape_desc *desc,
                                  const fsi__shape_arrays *arrays) {
    if (desc->kind == FSI_SHAPE_MESH)
        return fsi__mesh_fill(shape, desc, arrays);
    if (desc->kind == FSI_SHAPE_COMPOUND) {
        fsi__compound_mass(shape, desc);
        fsi__compound_surface(shape, arrays->x, arrays->index);
    } else if (fsi__shape_static(desc->kind)) {
        fsi__bounds_empty(&shape->hi, &shape->lo);
        shape->bound = shape->thin = FSI_REAL_MAX;
        if (desc->kind == FSI_SHAPE_HEIGHT)
            fsi_copy(shape->grid_cells, desc->height, arrays->grid);
    } else
        fsi__analytic_fill(shape, desc, arrays);
    return FSI_OK;
}

/* Makes a shape of a valid desc without zeros; on error the caller frees what there is. */
static fsi_result fsi__shape_make(fsi_shape *shape, const fsi_shape_desc *desc) {
    fsi_arena arena = FSI__ZERO;
    fsi__shape_arrays arrays;
    fsi_result result = fsi__shape_plan(shape, desc);
    if (result != FSI_OK)
        return result;

    fsi__shape_layout(shape, &arrays, &arena);
    if (arena.failed || arena.used > 0)
        result = fsi__arena_block(&arena, &shape->allocator, &shape->block, &shape->block_size);
    if (result != FSI_OK)
        return result;
    if (shape->block)
        fsi__shape_layout(shape, &arrays, &arena);
    result = fsi__shape_fill(shape, desc, &arrays);

    /* Sizes that overflow are refused. */
    if (result == FSI_OK && !(fsi__finite(shape->volume) && fsi_all_finite(9, shape->inertia.m)))
        result = FSI_ERR_ARGUMENT;

    return result;
}

FSI_API fsi_result fsi_shape_init(fsi_shape *shape, const fsi_shape_desc *desc) {
    if (!shape)
        return FSI_ERR_ARGUMENT;

    memset(shape, 0, sizeof *shape);
    if (!desc)
        return FSI_ERR_ARGUMENT;

    fsi_shape_desc given = *desc;
    if (given.dim == 0)
        given.dim = 3;
    if (given.resolution == 0)
        given.resolution = 24;
    if (given.sdf_cells == 0)
        given.sdf_cells = 32;
    if (!fsi__shape_desc_valid(&given))
        return FSI_ERR_ARGUMENT;

    fsi_result result = fsi__shape_make(shape, &given);
    if (result != FSI_OK)
        fsi_shape_free(shape);

    return result;
}

FSI_API void fsi_shape_free(fsi_shape *shape) {
    if (!shape)
        return;
    fsi_free(&shape->allocator, shape->block, shape->block_size);
    memset(shape, 0, sizeof *shape);
}

/* ------------------------------------------------------------------------------------------------
 * >>distance */
static fsi_real fsi__sign(fsi_real x) {
    return x < 0 ? FSI_R(-1.) : FSI_R(1.);
}

/* How far p is outside the faces of a box around the origin, along each axis; 2D has no faces in z.
 */
static fsi_vec3 fsi__beyond_faces(fsi_vec3 half, int dim, fsi_vec3 p) {
    fsi_vec3 beyond = fsi_vec_sub(fsi__vec_abs(p), half);
    if (dim == 2)
        beyond.z = -FSI_REAL_MAX;
    return beyond;
}

/* The largest of the three; *n: unit vector along that axis, to the side where p is. */
static fsi_real fsi__largest_axis(fsi_vec3 beyond, fsi_vec3 p, fsi_vec3 *n) {
    int axis = beyond.y >= beyond.z ? 1 : 2;
    if (beyond.x >= beyond.y && beyond.x >= beyond.z)
        axis = 0;
    *n = fsi_vec_scale(fsi__axis(axis), fsi__sign(fsi__get(p, axis)));
    return fsi__get(beyond, axis);
}

/* Inside: the nearest face; outside: the nearest point of face, edge or corner. */
static fsi_real fsi__distance_box(fsi_vec3 half, int dim, fsi_vec3 p, fsi_vec3 *n) {
    fsi_vec3 beyond = fsi__beyond_faces(half, dim, p);
    if (beyond.x <= 0 && beyond.y <= 0 && beyond.z <= 0)
        return fsi__largest_axis(beyond, p, n);

    fsi_vec3 out = fsi__vec_max(beyond, fsi_vec(0, 0, 0));
    fsi_real d = fsi__length(out);
    *n =
        fsi_vec(fsi__sign(p.x) * out.x / d, fsi__sign(p.y) * out.y / d, fsi__sign(p.z) * out.z / d);
    return d;
}

/* The nearest of the walls; normals point into the room. */
static fsi_real fsi__distance_room(fsi_vec3 half, int dim, fsi_vec3 p, fsi_vec3 *n) {
    fsi_real d = fsi__largest_axis(fsi__beyond_faces(half, dim, p), p, n);
    *n = fsi_vec_scale(*n, -1);
    return -d;
}

/* |v| - r with its gradient, which is `fallback` where v is zero. */
static fsi_real fsi__from_axis(fsi_vec3 v, fsi_real r, fsi_vec3 fallback, fsi_vec3 *n) {
    fsi_real d = fsi__length(v);
    *n = d > 0 ? fsi_vec_scale(v, 1 / d) : fallback;
    return d - r;
}

/* Cell of x on n nodes: number and fraction, clamped to the grid. */
static int fsi__cell(fsi_real x, int n, fsi_real *fraction) {
    x = fsi__clamp(x, 0, (fsi_real)(n - 1));
    int i = fsi__imin((int)x, fsi__imax(n - 2, 0));
    *fraction = x - (fsi_real)i;
    return i;
}

/* Column and row of a height field: the cell in which x or z lies. */
static int fsi__height_column(const fsi_shape *shape, fsi_real x, fsi_real *fraction) {
    return fsi__cell((x - shape->origin.x) / shape->spacing, shape->nx, fraction);
}

static int fsi__height_row(const fsi_shape *shape, fsi_real z, fsi_real *fraction) {
    return fsi__cell((z - shape->origin.z) / shape->spacing, shape->nz, fraction);
}

/* Height above the field, bilinear, times the cosine of its slope. */
static fsi_real fsi__distance_height(const fsi_shape *shape, fsi_vec3 p, fsi_vec3 *n) {
    fsi_real fx;
    fsi_real fz;
    fsi_real spacing = shape->spacing;
    int i = fsi__height_column(shape, p.x, &fx);
    int k = fsi__height_row(shape, p.z, &fz);
    size_t up = shape->nz > 1 ? (size_t)shape->nx : 0;
    const fsi_real *node = shape->grid + (size_t)k * (size_t)shape->nx + (size_t)i;
    fsi_real h00 = node[0];
    fsi_real h10 = node[1];
    fsi_real h01 = node[up];
    fsi_real h11 = node[up + 1];
    fsi_real h = (h00 * (1 - fx) + h10 * fx) * (1 - fz) + (h01 * (1 - fx) + h11 * fx) * fz;
    fsi_real dx = ((h10 - h00) * (1 - fz) + (h11 - h01) * fz) / spacing;
    fsi_real dz = ((h01 - h00) * (1 - fx) + (h11 - h10) * fx) / spacing;
    *n = fsi__unit(fsi_vec(-dx, 1, -dz));
    return (p.y - h) * n->y;
}

/* Distance at p, trilinear, p clamped to the lattice: *at; *slope per cell. */
FSI__INLINE fsi_real fsi__sdf_read(const fsi__sdf *sdf, fsi_vec3 p, fsi_vec3 *slope, fsi_vec3 *at) {
    fsi_real fx;
    fsi_real fy;
    fsi_real fz;
    int i = fsi__cell((p.x - sdf->origin.x) / sdf->spacing, sdf->nx, &fx);
    int j = fsi__cell((p.y - sdf->origin.y) / sdf->spacing, sdf->ny, &fy);
    int k = fsi__cell((p.z - sdf->origin.z) / sdf->spacing, sdf->nz, &fz);
    size_t row = (size_t)sdf->nx;
    size_t layer = sdf->nz > 1 ? row * (size_t)sdf->ny : 0;
    const fsi_real *node = sdf->value + ((size_t)k * (size_t)sdf->ny + (size_t)j) * row + (size_t)i;

    /* Differences of neighbours, then their means: in single precision that keeps the slope. */
    fsi_real f[8];
    for (int c = 0; c < 8; c++)
        f[c] = node[(c & 1 ? 1 : 0) + (c & 2 ? row : 0) + (c & 4 ? layer : 0)];
    fsi_real ax = 1 - fx;
    fsi_real ay = 1 - fy;
    fsi_real az = 1 - fz;
    slope->x = az * (ay * (f[1] - f[0]) + fy * (f[3] - f[2]))
               + fz * (ay * (f[5] - f[4]) + fy * (f[7] - f[6]));
    slope->y = az * (ax * (f[2] - f[0]) + fx * (f[3] - f[1]))
               + fz * (ax * (f[6] - f[4]) + fx * (f[7] - f[5]));
    slope->z = ay * (ax * (f[4] - f[0]) + fx * (f[5] - f[1]))
               + fy * (ax * (f[6] - f[2]) + fx * (f[7] - f[3]));
    fsi_real lower = ay * (ax * f[0] + fx * f[1]) + fy * (ax * f[2] + fx * f[3]);
    fsi_real upper = ay * (ax * f[4] + fx * f[5]) + fy * (ax * f[6] + fx * f[7]);
    fsi_real distance = az * lower + fz * upper;
    if (sdf->nz == 1)
        slope->z = 0;
    fsi_vec3 place = fsi_vec((fsi_real)i + fx, (fsi_real)j + fy, (fsi_real)k + fz);
    *at = fsi_vec_mad(sdf->origin, place, sdf->spacing);

    return distance;
}

/* The distance grid of a mesh, trilinear. Beyond it: the distance to the surface point that is
 * found from its rim. */
static fsi_real fsi__distance_grid(const fsi_shape *shape, fsi_vec3 p, fsi_vec3 *n) {
    fsi__sdf sdf = fsi__shape_sdf(shape);
    fsi_vec3 slope;
    fsi_vec3 at;
    fsi_real d = fsi__sdf_read(&sdf, p, &slope, &at);
    *n = fsi__unit(slope);
    if (!(fsi__length(fsi_vec_sub(p, at)) > shape->spacing * FSI_R(1e-3)))
        return d;
    fsi_vec3 surface = fsi_vec_mad(at, *n, -d);
    return fsi__from_axis(fsi_vec_sub(p, surface), 0, *n, n);
}

/* The inverse rotation. */
static fsi_quat fsi__quat_back(fsi_quat q) {
    q.x = -q.x;
    q.y = -q.y;
    q.z = -q.z;
    return q;
}

/* Point of a capsule's axis or a torus' ring that is nearest to p. */
static fsi_vec3 fsi__curve_nearest(const fsi_shape *shape, fsi_vec3 p) {
    fsi_real length = shape->length;
    if (shape->kind == FSI_SHAPE_CAPSULE)
        return fsi_vec(fsi__clamp(p.x, -length / 2, length / 2), 0, 0);
    fsi_real ring = fsi__sqrt(p.x * p.x + p.z * p.z);
    return ring > 0 ? fsi_vec(p.x * length / ring, 0, p.z * length / ring) : fsi_vec(length, 0, 0);
}

/* The nearest part. */
static fsi_real fsi__distance_parts(const fsi_shape *shape, fsi_vec3 p, fsi_vec3 *n) {
    fsi_real least = FSI_REAL_MAX;
    for (int i = 0; i < shape->part_count; i++) {
        const fsi_shape_part *part = shape->part + i;
        fsi_vec3 local = fsi_quat_rotate(fsi__quat_back(part->q), fsi_vec_sub(p, part->x));
        fsi_vec3 normal;
        fsi_real d = fsi_shape_distance(part->shape, local, &normal);
        if (d < least) {
            least = d;
            *n = fsi_quat_rotate(part->q, normal);
        }
    }
    return least;
}

FSI_API fsi_real fsi_shape_distance(const fsi_shape *shape, fsi_vec3 p, fsi_vec3 *normal) {
    fsi_vec3 n = fsi_vec(0, 1, 0);
    fsi_real d = FSI_REAL_MAX;
    if (shape->dim == 2)
        p.z = 0;
    switch (shape->kind) {
    case FSI_SHAPE_SPHERE:
        d = fsi__from_axis(p, shape->radius, n, &n);
        break;
    case FSI_SHAPE_BOX:
        d = fsi__distance_box(shape->half, shape->dim, p, &n);
        break;
    case FSI_SHAPE_CAPSULE:
    case FSI_SHAPE_TORUS:
        d = fsi__from_axis(fsi_vec_sub(p, fsi__curve_nearest(shape, p)), shape->radius, n, &n);
        break;
    case FSI_SHAPE_MESH:
        d = fsi__distance_grid(shape, p, &n);
        break;
    case FSI_SHAPE_PLANE:
        d = p.y;
        break;
    case FSI_SHAPE_ROOM:
        d = fsi__distance_room(shape->half, shape->dim, p, &n);
        break;
    case FSI_SHAPE_HEIGHT:
        d = fsi__distance_height(shape, p, &n);
        break;
    case FSI_SHAPE_COMPOUND:
        d = fsi__distance_parts(shape, p, &n);
        break;
    default:
        break;
    }
    if (normal)
        *normal = n;

    return d;
}

/* ------------------------------------------------------------------------------------------------
 * >>rigid motion */
/* A dynamic body has angular momentum L: its spin is I^-1 L. */
static void fsi__rigid_turned(fsi_rigid *body, fsi_vec3 L) {
    body->L = L;
    body->spin = fsi_mat3_mul_vec(&body->inverse_inertia, L);
}

/* A share of an impulse goes into the velocities. */
static void fsi__rigid_push(fsi_rigid *body, const fsi_wrench *push, fsi_real share) {
    body->v = fsi_vec_mad(body->v, push->linear, share * body->inverse_mass);
    fsi__rigid_turned(body, fsi_vec_mad(body->L, push->angular, share));
}

/* Rotation, world inverse inertia and spin from q and L. In 2D only zz is kept. */
static void fsi__rigid_refresh(fsi_rigid *body, int dim) {
    body->rotation = fsi_quat_matrix(body->q);
    if (body->kind != FSI_RIGID_DYNAMIC)
        return;
    if (dim == 2)
        body->inverse_inertia.m[8] = body->inverse_inertia_body.m[8];
    else
        body->inverse_inertia = fsi_mat3_rotate(&body->rotation, &body->inverse_inertia_body);
    fsi__rigid_turned(body, body->L);
}

/* dq/dt = q (0, w) / 2 with w = I_body^-1 R^T L, the spin in the body's frame. */
static fsi_quat fsi__quat_rate(const fsi_rigid *body, fsi_quat q) {
    fsi_vec3 local = fsi_quat_rotate(fsi__quat_back(q), body->L);
    fsi_vec3 w = fsi_mat3_mul_vec(&body->inverse_inertia_body, local);
    fsi_quat half;
    half.w = 0;
    half.x = w.x / 2;
    half.y = w.y / 2;
    half.z = w.z / 2;
    return fsi_quat_mul(q, half);
}

/* q + h rate, not normalised. */
static fsi_quat fsi__quat_mad(fsi_quat q, fsi_quat rate, fsi_real h) {
    q.w += h * rate.w;
    q.x += h * rate.x;
    q.y += h * rate.y;
    q.z += h * rate.z;
    return q;
}

/* Turns the body for h seconds with L fixed: free rotation by the classical fourth order
 * Runge-Kutta method; exact in 2D and for scripts. */
static void fsi__rigid_turn(fsi_rigid *body, fsi_real h, int dim) {
    fsi_quat q = body->q;
    if (body->kind != FSI_RIGID_DYNAMIC || dim == 2) {
        if (body->spin.x == 0 && body->spin.y == 0 && body->spin.z == 0)
            return;
        q = fsi_quat_mul(fsi_quat_from_rotation(fsi_vec_scale(body->spin, h)), q);
    } else {
        fsi_quat k1 = fsi__quat_rate(body, q);
        fsi_quat k2 = fsi__quat_rate(body, fsi_quat_unit(fsi__quat_mad(q, k1, h / 2)));
        fsi_quat k3 = fsi__quat_rate(body, fsi_quat_unit(fsi__quat_mad(q, k2, h / 2)));
        fsi_quat k4 = fsi__quat_rate(body, fsi_quat_unit(fsi__quat_mad(q, k3, h)));
        q = fsi__quat_mad(fsi__quat_mad(q, k1, h / 6), k2, h / 3);
        q = fsi__quat_mad(fsi__quat_mad(q, k3, h / 3), k4, h / 6);
    }
    body->q = fsi_quat_unit(q);
}

/* ------------------------------------------------------------------------------------------------
 * >>narrow phase */
/* Every pair is handled by the same rule: contact samples of one shape against the signed distance
   of the other, both ways. Samples are spheres, so balls, capsule ends and torus rings are exact;
   curves add their deepest point. Box against box needs faces and edges: separating axes and
   clipping. Contacts with a positive gap are kept within reach: the solver then only limits the
   approach to gap / h, so nothing tunnels.

   Normals point from the second shape to the first. A function that looks at the pair the other way
   round gets flip = 1 and turns its normals. `feature` names a point of a pair: the same number in
   the next step means the same point. */
#define FSI__CANDIDATES 48
#define FSI__MANIFOLD 8

typedef struct fsi__pose {
    fsi_vec3 x;
    fsi_mat3 rotation;
} fsi__pose;

/* A shape in its place in the world. */
typedef struct fsi__placed {
    const fsi_shape *shape;
    fsi__pose pose;
} fsi__placed;

/* A point of contact. */
typedef struct fsi__point {
    fsi_vec3 at;
    fsi_vec3 normal;
    fsi_real gap;
    uint32_t feature;
} fsi__point;

/* The contact points of a pair. */
typedef struct fsi__manifold {
    int count;
    int limit;
    fsi_real reach; /* largest gap kept */
    fsi_real size;  /* length scale of the smaller shape */
    fsi__point point[FSI__CANDIDATES];
} fsi__manifold;

static fsi_vec3 fsi__pose_point(const fsi__pose *pose, fsi_vec3 p) {
    return fsi_vec_add(pose->x, fsi_mat3_mul_vec(&pose->rotation, p));
}

static fsi_vec3 fsi__pose_local(const fsi__pose *pose, fsi_vec3 p) {
    return fsi_mat3_tmul_vec(&pose->rotation, fsi_vec_sub(p, pose->x));
}

/* Adds a point within reach; a full manifold gives up the one with the largest gap. */
static void fsi__manifold_add(fsi__manifold *manifold, fsi_vec3 at, fsi_vec3 normal, fsi_real gap,
                              uint32_t feature) {
    fsi__point *point = manifold->point;
    int worst = 0;
    if (!(gap < manifold->reach))
        return;
    if (manifold->count < FSI__CANDIDATES)
        worst = manifold->count++;
    else {
        for (int i = 1; i < manifold->count; i++)
            if (point[i].gap > point[worst].gap)
                worst = i;
        if (gap >= point[worst].gap)
            return;
    }
    point[worst].at = at;
    point[worst].normal = normal;
    point[worst].gap = gap;
    point[worst].feature = feature;
}

/* Keeps the deepest point and then, again and again, the one farthest from those kept. */
static void fsi__manifold_reduce(fsi__manifold *manifold) {
    fsi__point *point = manifold->point;
    fsi_real apart[FSI__CANDIDATES]; /* squared distance from the nearest point kept */
    fsi_real least = manifold->size * manifold->size * FSI_R(1e-4);
    int best = 0;
    int kept = 0;
    for (int i = 0; i < manifold->count; i++) {
        apart[i] = FSI_REAL_MAX;
        if (point[i].gap < point[best].gap)
            best = i;
    }
    for (; kept < manifold->count && kept < manifold->limit; kept++) {
        if (kept > 0 && apart[best] < least)
            break; /* only copies are left */
        fsi__point chosen = point[best];
        point[best] = point[kept];
        apart[best] = apart[kept];
        point[kept] = chosen;
        best = kept + 1;
        for (int i = kept + 1; i < manifold->count; i++) {
            fsi_vec3 d = fsi_vec_sub(point[i].at, chosen.at);
            apart[i] = fsi__min(apart[i], fsi_vec_dot(d, d));
            if (apart[i] > apart[best])
                best = i;
        }
    }
    manifold->count = kept;
}

/* Distance of a point from a shape that is turned, r from its origin; the outward normal is in
 * world axes. */
static fsi_real fsi__turned_distance(const fsi_shape *shape, const fsi_mat3 *rotation, fsi_vec3 r,
                                     fsi_vec3 *normal) {
    fsi_real d = fsi_shape_distance(shape, fsi_mat3_tmul_vec(rotation, r), normal);
    *normal = fsi_mat3_mul_vec(rotation, *normal);
    return d;
}

/* Sphere of radius r at world point c against the distance of `other`. Returns the distance of c.

         c o  <- sphere of the sample
           |
           x  <- the contact lies in the middle of the gap between both surfaces
       ----+----  other */
static fsi_real fsi__sample(fsi__manifold *manifold, const fsi__placed *other, fsi_vec3 c,
                            fsi_real r, int flip, uint32_t feature) {
    fsi_vec3 n;
    fsi_vec3 arm = fsi_vec_sub(c, other->pose.x);
    fsi_real d = fsi__turned_distance(other->shape, &other->pose.rotation, arm, &n);
    fsi__manifold_add(manifold, fsi_vec_mad(c, n, -(r + d) / 2), flip ? fsi_vec_scale(n, -1) : n,
                      d - r, feature);
    return d;
}

/* The curve inside a round shape: the axis of a capsule for t in 0 .. 1, the ring of a torus for t
 * in samples. */
static fsi_vec3 fsi__curve(const fsi_shape *shape, fsi_real t) {
    if (shape->kind == FSI_SHAPE_CAPSULE)
        return fsi_vec(shape->length * (FSI_R(0.5) - t), 0, 0);
    fsi_real angle = 2 * FSI_PI * t / FSI__TORUS_POINTS;
    return fsi_vec(shape->length * fsi__sin(angle), 0, shape->length * fsi__cos(angle));
}

/* The curve of one shape beside another, for the search of its deepest point. */
typedef struct fsi__curve_beside {
    const fsi__placed *own;
    const fsi__placed *other;
} fsi__curve_beside;

static fsi_real fsi__curve_distance(fsi_real t, void *user) {
    const fsi__curve_beside *pair = (const fsi__curve_beside *)user;
    const fsi__placed *other = pair->other;
    fsi_vec3 p = fsi__pose_point(&pair->own->pose, fsi__curve(pair->own->shape, t));
    return fsi_shape_distance(other->shape, fsi__pose_local(&other->pose, p), NULL);
}

/* Deepest point of a curve between t0 and t1 (the distance of a convex shape along a segment is
 * convex). An end has its own sample. */
static void fsi__curve_deepest(fsi__manifold *manifold, const fsi__placed *own,
                               const fsi__placed *other, fsi_real t0, fsi_real t1, int flip) {
    fsi__curve_beside pair;
    pair.own = own;
    pair.other = other;
    fsi_real t = fsi__golden_section(fsi__curve_distance, &pair, t0, t1, 20);
    fsi_real rim = FSI_R(0.01) * (t1 - t0);
    if (t - t0 < rim || t1 - t < rim)
        return;
    fsi__sample(manifold, other, fsi__pose_point(&own->pose, fsi__curve(own->shape, t)),
                own->shape->point_radius, flip, 1000u);
}

/* All samples of a shape against the other. */
static void fsi__collide_samples(fsi__manifold *manifold, const fsi__placed *own,
                                 const fsi__placed *other, int flip, uint32_t feature) {
    const fsi_shape *shape = own->shape;
    const fsi_shape *form = other->shape;
    fsi_real r = shape->point_radius;
    fsi_real least = FSI_REAL_MAX;
    fsi_real room = r + manifold->reach;
    int best = 0;
    int bounded = !fsi__shape_static(form->kind);
    if (form->kind == FSI_SHAPE_PLANE
        && fsi__pose_local(&other->pose, own->pose.x).y > shape->bound + manifold->reach)
        return;

    for (int i = 0; i < shape->point_count; i++) {
        fsi_vec3 c = fsi__pose_point(&own->pose, fsi__vec_at(shape->point, i));
        fsi_vec3 local = fsi__pose_local(&other->pose, c);
        if (bounded && !fsi__boxes_meet(form->lo, form->hi, room, local, local))
            continue;
        fsi_real d = fsi__sample(manifold, other, c, r, flip, feature + (uint32_t)i);
        if (d < least) {
            least = d;
            best = i;
        }
    }
    if (shape->kind == FSI_SHAPE_CAPSULE && bounded)
        fsi__curve_deepest(manifold, own, other, 0, 1, flip);
    if (shape->kind == FSI_SHAPE_TORUS && least < room)
        fsi__curve_deepest(manifold, own, other, (fsi_real)best - 1, (fsi_real)best + 1, flip);
}

/* Points along the edges of a box against a mesh: ridges longer than the box do not slip through
 * between corners. */
static void fsi__collide_edges(fsi__manifold *manifold, const fsi__placed *box,
                               const fsi__placed *mesh, int flip) {
    int dim = box->shape->dim;
    fsi_real half[3];
    fsi_vec_store(half, box->shape->half);
    for (int e = 0; e < (dim == 3 ? 12 : 4); e++) {
        int axis = dim == 3 ? e / 4 : e / 2;
        int first = axis == 0 ? 1 : 0;
        int second = axis == 2 ? 1 : 2;
        fsi_real p[3];
        p[first] = (e & 1 ? FSI_R(1.) : FSI_R(-1.)) * half[first];
        p[second] = (e & 2 ? FSI_R(1.) : FSI_R(-1.)) * half[second];
        for (int i = 1; i < 8; i++) {
            p[axis] = ((fsi_real)i / 4 - 1) * half[axis];
            fsi__sample(manifold, mesh, fsi__pose_point(&box->pose, fsi_vec_load(p)), 0, flip,
                        2000u + (uint32_t)(8 * e + i));
        }
    }
}

/* The walls of a room one by one, as planes: a corner touches several at once. */
static void fsi__collide_room(fsi__manifold *manifold, const fsi__placed *own,
                              const fsi__placed *room, int flip) {
    fsi_shape plane;
    fsi_real half[3];
    memset(&plane, 0, sizeof plane);
    plane.kind = FSI_SHAPE_PLANE;
    plane.dim = room->shape->dim;
    fsi_vec_store(half, room->shape->half);
    fsi__placed wall;
    wall.shape = &plane;

    for (int k = 0; k < 2 * room->shape->dim; k++) {
        int axis = k / 2;
        fsi_real middle[3] = FSI__ZERO;
        fsi_real sign = k & 1 ? FSI_R(1.) : FSI_R(-1.);
        middle[axis] = sign * half[axis];

        /* The wall's y axis points into the room. */
        fsi_mat3 turn = FSI__ZERO;
        turn.m[3 * axis + 1] = -sign;
        turn.m[3 * ((axis + 1) % 3) + (axis == 1 ? 2 : 0)] = 1;
        turn.m[3 * ((axis + 2) % 3) + (axis == 1 ? 0 : 2)] = 1;
        wall.pose.x = fsi__pose_point(&room->pose, fsi_vec_load(middle));
        wall.pose.rotation = fsi_mat3_mul(&room->pose.rotation, &turn);
        fsi__collide_samples(manifold, own, &wall, flip, 4096u * (uint32_t)(k + 1));
    }
}

/* Peaks of a height field against the distance of a shape: nodes under its bounds. */
static void fsi__collide_peaks(fsi__manifold *manifold, const fsi__placed *own,
                               const fsi__placed *field, int flip) {
    const fsi_shape *shape = field->shape;
    fsi_real spacing = shape->spacing;
    fsi_real r = own->shape->bound + manifold->reach;
    fsi_real skip;
    fsi_vec3 c = fsi__pose_local(&field->pose, own->pose.x);
    int i0 = fsi__height_column(shape, c.x - r, &skip);
    int i1 = fsi__height_column(shape, c.x + r, &skip) + 1;
    int k0 = fsi__height_row(shape, c.z - r, &skip);
    int k1 = fsi__height_row(shape, c.z + r, &skip) + 1;
    for (int k = k0; k <= fsi__imin(k1, shape->nz - 1); k++)
        for (int i = i0; i <= i1; i++) {
            fsi_real height = shape->grid[(size_t)k * (size_t)shape->nx + (size_t)i];
            fsi_vec3 node = fsi_vec((fsi_real)i * spacing, height, (fsi_real)k * spacing);
            fsi_vec3 p = fsi__pose_point(&field->pose, fsi_vec_add(shape->origin, node));
            fsi__sample(manifold, own, p, 0, !flip, 8192u + (uint32_t)(k * shape->nx + i));
        }
}

/* ------------------------------------------------------------------------------------------------
 * >>box against box */
/* Two boxes touch along the axis of their largest separation. Face axes lead to a polygon: the
   incident face of one box, clipped by the sides of the reference face of the other.

           +-----------+                    x  contact points: corners of the incident face
           | incident  |                       that lie within the reference face
        +--x===========x--+
        |    reference    |
        +-----------------+

   An axis across two edges leads to the point where those come closest. */
typedef enum fsi__separation_kind {
    FSI__FACE_A,
    FSI__FACE_B,
    FSI__EDGES
} fsi__separation_kind;

/* An axis of separation. */
typedef struct fsi__separation {
    fsi_real separation;
    fsi_vec3 normal; /* from b to a */
    fsi__separation_kind kind;
    int i, j; /* axis of the face; EDGES: of the edge of a, of b */
} fsi__separation;

/* Axis k of a box in the world: a column of its rotation. */
static fsi_vec3 fsi__box_axis(const fsi__placed *box, int k) {
    const fsi_real *m = box->pose.rotation.m;
    return fsi_vec(m[k], m[3 + k], m[6 + k]);
}

/* Half width of a box along n. */
static fsi_real fsi__box_extent(const fsi__placed *box, fsi_vec3 n) {
    fsi_vec3 local = fsi_mat3_tmul_vec(&box->pose.rotation, n);
    return fsi_vec_dot(fsi__vec_abs(local), box->shape->half);
}

/* The axis replaces the best one if its separation is larger by more than `bonus`. */
static void fsi__separation_try(fsi__separation *best, const fsi__placed *a, const fsi__placed *b,
                                fsi__separation axis, fsi_real bonus) {
    fsi_real d = fsi_vec_dot(axis.normal, fsi_vec_sub(a->pose.x, b->pose.x));
    if (d < 0) {
        axis.normal = fsi_vec_scale(axis.normal, -1);
        d = -d;
    }
    axis.separation = d - fsi__box_extent(a, axis.normal) - fsi__box_extent(b, axis.normal);
    if (axis.separation > best->separation + bonus)
        *best = axis;
}

/* Axis of largest separation; an earlier kind is kept unless the next is clearly better, so the
 * choice does not flicker. */
static fsi__separation fsi__box_axes(const fsi__placed *a, const fsi__placed *b,
                                     fsi_real tolerance) {
    fsi__separation best;
    fsi__separation axis;
    int dim = a->shape->dim;
    memset(&best, 0, sizeof best);
    memset(&axis, 0, sizeof axis);
    best.separation = -FSI_REAL_MAX;
    for (int face = 0; face < 2 * dim; face++) {
        axis.kind = face < dim ? FSI__FACE_A : FSI__FACE_B;
        axis.i = face % dim;
        axis.normal = fsi__box_axis(face < dim ? a : b, axis.i);
        fsi__separation_try(&best, a, b, axis, face ? tolerance : 0);
    }
    axis.kind = FSI__EDGES;
    for (axis.i = 0; axis.i < 3 && dim == 3; axis.i++)
        for (axis.j = 0; axis.j < 3; axis.j++) {
            fsi_vec3 n = fsi_vec_cross(fsi__box_axis(a, axis.i), fsi__box_axis(b, axis.j));
            fsi_real length = fsi__length(n);
            if (!(length > FSI_R(0.02)))
                continue; /* almost parallel */
            axis.normal = fsi_vec_scale(n, 1 / length);
            fsi__separation_try(&best, a, b, axis, 2 * tolerance);
        }

    return best;
}

/* Middle of the edge along axis `edge` that lies farthest along n. */
static fsi_vec3 fsi__box_edge(const fsi__placed *box, fsi_vec3 n, int edge) {
    fsi_real local[3];
    fsi_real corner[3];
    fsi_vec_store(local, fsi_mat3_tmul_vec(&box->pose.rotation, n));
    fsi_vec_store(corner, box->shape->half);
    for (int k = 0; k < 3; k++)
        if (local[k] < 0)
            corner[k] = -corner[k];
    corner[edge] = 0;
    return fsi__pose_point(&box->pose, fsi_vec_load(corner));
}

/* Edge against edge: the points where the two lines come closest. */
static void fsi__box_edges(fsi__manifold *manifold, const fsi__placed *a, const fsi__placed *b,
                           const fsi__separation *axis) {
    fsi_vec3 p = fsi__box_edge(a, fsi_vec_scale(axis->normal, -1), axis->i);
    fsi_vec3 q = fsi__box_edge(b, axis->normal, axis->j);
    fsi_vec3 u = fsi__box_axis(a, axis->i);
    fsi_vec3 v = fsi__box_axis(b, axis->j);
    fsi_vec3 d = fsi_vec_sub(p, q);
    fsi_real uv = fsi_vec_dot(u, v);
    fsi_real du = fsi_vec_dot(d, u);
    fsi_real dv = fsi_vec_dot(d, v);
    fsi_real det = 1 - uv * uv;
    fsi_real half_a = fsi__get(a->shape->half, axis->i);
    fsi_real half_b = fsi__get(b->shape->half, axis->j);
    p = fsi_vec_mad(p, u, fsi__clamp((uv * dv - du) / det, -half_a, half_a));
    q = fsi_vec_mad(q, v, fsi__clamp((dv - uv * du) / det, -half_b, half_b));
    fsi__manifold_add(manifold, fsi_vec_scale(fsi_vec_add(p, q), FSI_R(0.5)), axis->normal,
                      axis->separation, 64u + (uint32_t)(3 * axis->i + axis->j));
}

/* A corner of a clipped polygon. */
typedef struct fsi__clipped {
    fsi_vec3 p;
    uint32_t id;
} fsi__clipped;

/* Keeps the part of the polygon with n . p <= d; points within tolerance of the plane count as
 * inside, so aligned faces keep their corners. Returns the number of corners. */
static int fsi__clip(fsi__clipped *corner, int count, fsi_vec3 n, fsi_real d, fsi_real tolerance,
                     uint32_t plane) {
    fsi__clipped out[16];
    int kept = 0;
    for (int i = 0; i < count && kept < 14; i++) {
        fsi__clipped a = corner[i];
        fsi__clipped b = corner[(i + 1) % count];
        fsi_real above_a = fsi_vec_dot(n, a.p) - d;
        fsi_real above_b = fsi_vec_dot(n, b.p) - d;
        int in_a = above_a <= tolerance;
        int in_b = above_b <= tolerance;
        if (in_a)
            out[kept++] = a;
        if (in_a == in_b)
            continue;
        fsi_real t = fsi__clamp(above_a / (above_a - above_b), 0, 1);
        out[kept].p = fsi_vec_mad(a.p, fsi_vec_sub(b.p, a.p), t);
        out[kept++].id = 8u + 4u * plane + (in_a ? a.id : b.id) % 4u;
    }
    memcpy(corner, out, (size_t)kept * sizeof *corner);

    return kept;
}

/* Corners, in order, of the face of a box that looks most against n. Returns their number. */
static int fsi__incident_face(const fsi__placed *box, fsi_vec3 n, fsi__clipped *corner) {
    int dim = box->shape->dim;
    int face = 0;
    int count = dim == 3 ? 4 : 2;
    fsi_real half[3];
    fsi_real local[3];
    fsi_vec_store(half, box->shape->half);
    fsi_vec_store(local, fsi_mat3_tmul_vec(&box->pose.rotation, n));
    for (int i = 1; i < dim; i++)
        if (fsi__abs(local[i]) > fsi__abs(local[face]))
            face = i;
    int first = dim == 3 ? (face + 1) % 3 : 1 - face;
    int second = dim == 3 ? (face + 2) % 3 : 2;

    for (int i = 0; i < count; i++) {
        fsi_real p[3];
        p[face] = local[face] > 0 ? -half[face] : half[face];
        p[first] = i == 1 || i == 2 ? half[first] : -half[first];
        p[second] = i >= 2 ? half[second] : -half[second];
        if (dim == 2)
            p[second] = 0;
        corner[i].p = fsi__pose_point(&box->pose, fsi_vec_load(p));
        corner[i].id = (uint32_t)i;
    }

    return count;
}

/* Face against face: the incident face clipped by the sides of the reference face; n points out of
 * the reference box. */
static void fsi__box_faces(fsi__manifold *manifold, const fsi__placed *reference,
                           const fsi__placed *incident, fsi_vec3 n, int axis, int flip,
                           fsi_real tolerance) {
    fsi__clipped corner[16];
    int count = fsi__incident_face(incident, n, corner);

    for (int k = 0; k < reference->shape->dim; k++) {
        if (k == axis)
            continue;
        fsi_vec3 u = fsi__box_axis(reference, k);
        fsi_real centre = fsi_vec_dot(u, reference->pose.x);
        fsi_real half = fsi__get(reference->shape->half, k);
        uint32_t plane = (uint32_t)(2 * k);
        count = fsi__clip(corner, count, u, centre + half, tolerance, plane);
        count = fsi__clip(corner, count, fsi_vec_scale(u, -1), half - centre, tolerance, plane + 1);
    }
    fsi_real face = fsi_vec_dot(n, reference->pose.x) + fsi__get(reference->shape->half, axis);
    for (int i = 0; i < count; i++) {
        fsi_real gap = fsi_vec_dot(n, corner[i].p) - face;
        fsi__manifold_add(manifold, fsi_vec_mad(corner[i].p, n, -gap / 2),
                          flip ? n : fsi_vec_scale(n, -1), gap,
                          corner[i].id + 128u * (uint32_t)(1 + axis + 3 * flip));
    }
}

static void fsi__collide_boxes(fsi__manifold *manifold, const fsi__placed *a,
                               const fsi__placed *b) {
    fsi_real tolerance = FSI_R(1e-3) * manifold->size;
    fsi__separation axis = fsi__box_axes(a, b, tolerance);
    if (axis.separation >= manifold->reach)
        return;

    manifold->limit = 4;
    if (axis.kind == FSI__EDGES)
        fsi__box_edges(manifold, a, b, &axis);
    else if (axis.kind == FSI__FACE_A)
        fsi__box_faces(manifold, a, b, fsi_vec_scale(axis.normal, -1), axis.i, 0, tolerance);
    else
        fsi__box_faces(manifold, b, a, axis.normal, axis.i, 1, tolerance);

    /* Diagonally beside each other the faces do not overlap: corners. */
    if (manifold->count == 0) {
        fsi__collide_samples(manifold, a, b, 0, 2048u);
        fsi__collide_samples(manifold, b, a, 1, 3072u);
    }
}

/* A shape against static geometry; flip: the static one is the first of the pair. */
static void fsi__collide_static(fsi__manifold *manifold, const fsi__placed *own,
                                const fsi__placed *ground, int flip) {
    if (fsi__shape_static(own->shape->kind))
        return;
    if (ground->shape->kind == FSI_SHAPE_ROOM)
        fsi__collide_room(manifold, own, ground, flip);
    else
        fsi__collide_samples(manifold, own, ground, flip, 0);
    if (ground->shape->kind == FSI_SHAPE_HEIGHT && own->shape->kind != FSI_SHAPE_SPHERE)
        fsi__collide_peaks(manifold, own, ground, flip);
}

/* Any two shapes without parts. */
static void fsi__collide_simple(fsi__manifold *manifold, const fsi__placed *a,
                                const fsi__placed *b) {
    fsi_shape_kind kind_a = a->shape->kind;
    fsi_shape_kind kind_b = b->shape->kind;
    if (fsi__shape_static(kind_a)) {
        fsi__collide_static(manifold, b, a, 1);
        return;
    }
    if (fsi__shape_static(kind_b)) {
        fsi__collide_static(manifold, a, b, 0);
        return;
    }
    if (kind_a == FSI_SHAPE_BOX && kind_b == FSI_SHAPE_BOX) {
        fsi__collide_boxes(manifold, a, b);
        return;
    }

    /* Samples both ways; a sphere is its one sample. */
    if (kind_a == FSI_SHAPE_SPHERE || kind_b != FSI_SHAPE_SPHERE)
        fsi__collide_samples(manifold, a, b, 0, 0);
    if (kind_a != FSI_SHAPE_SPHERE)
        fsi__collide_samples(manifold, b, a, 1, 1u << 20);
    if (kind_a == FSI_SHAPE_BOX && kind_b == FSI_SHAPE_MESH)
        fsi__collide_edges(manifold, a, b, 0);
    if (kind_b == FSI_SHAPE_BOX && kind_a == FSI_SHAPE_MESH)
        fsi__collide_edges(manifold, b, a, 1);
}

static int fsi__part_count(const fsi_shape *shape) {
    return shape->kind == FSI_SHAPE_COMPOUND ? shape->part_count : 1;
}

/* Part i of a body's shape in its place; a shape without parts is its only part. */
static fsi__placed fsi__placed_part(const fsi_rigid *body, int i) {
    fsi__placed placed;
    placed.shape = body->shape;
    placed.pose.x = body->x;
    placed.pose.rotation = body->rotation;
    if (body->shape->kind == FSI_SHAPE_COMPOUND) {
        const fsi_shape_part *part = body->shape->part + i;
        fsi_mat3 turn = fsi_quat_matrix(part->q);
        placed.shape = part->shape;
        placed.pose.x = fsi_vec_add(body->x, fsi_mat3_mul_vec(&body->rotation, part->x));
        placed.pose.rotation = fsi_mat3_mul(&body->rotation, &turn);
    }
    return placed;
}

/* Speed of the rim of a body, as far out as a contact with one of `size` can be, m/s. */
static fsi_real fsi__rim_speed(const fsi_rigid *body, fsi_real size) {
    fsi_real spin = fsi__length(body->spin);
    return spin > 0 ? spin * fsi__min(body->shape->bound, size * 4) : 0;
}

/* Manifold of two bodies; features of part pairs are kept apart. */
static void fsi__collide_bodies(fsi__manifold *manifold, const fsi_rigid *body_a,
                                const fsi_rigid *body_b, fsi_real dt) {
    fsi_real size = fsi__min(body_a->shape->bound, body_b->shape->bound);
    fsi_real rim = fsi__rim_speed(body_a, size) + fsi__rim_speed(body_b, size);
    fsi_real speed = fsi__length(fsi_vec_sub(body_a->v, body_b->v)) + rim;
    manifold->count = 0;
    manifold->limit = FSI__MANIFOLD;
    manifold->size = size;
    manifold->reach = FSI_R(0.02) * size + dt * speed;
    for (int i = 0; i < fsi__part_count(body_a->shape); i++)
        for (int j = 0; j < fsi__part_count(body_b->shape); j++) {
            fsi__placed a = fsi__placed_part(body_a, i);
            fsi__placed b = fsi__placed_part(body_b, j);
            int before = manifold->count;
            fsi__collide_simple(manifold, &a, &b);
            for (int k = before; k < manifold->count; k++)
                manifold->point[k].feature += (uint32_t)(i * 64 + j) << 22;
        }
    fsi__manifold_reduce(manifold);
}

/* ------------------------------------------------------------------------------------------------
 * >>contact solver */
/* Sequential impulses with warm starts over substeps (after Macklin et al. 2019, Catto 2024). Every
   substep
     - adds its share of what forces and coupling have changed,
     - applies the impulses of the substep before as a guess,
     - solves contacts and joints, with overlaps and drift opened,
     - moves the bodies,
     - solves again without opening: the velocity that opened an overlap is forgotten.

   A contact has two ends, a and b. An end is a rigid body or an external; both offer the velocity
   of a point and take an impulse there.

                 normal ^   end a              arm: from the centre of mass of a body to `at`
                        |                      gap: along the normal, negative where they overlap
     -------------------at------- tangent
                            end b

   Symbols: h length of a substep (s), K velocity change by a unit impulse (1/kg). */

/* What the solver touches of a body: 16 reals. */
typedef struct fsi__velocity {
    fsi_vec3 v;
    fsi_vec3 spin;
    fsi_real inverse_mass;
    fsi_mat3 inverse_inertia; /* in world axes */
} fsi__velocity;

/* The spring that opens overlaps: rate, 1/s, and scales of the new and of the old impulse. */
typedef struct fsi__spring {
    fsi_real rate;
    fsi_real mass;
    fsi_real impulse;
} fsi__spring;

/* A step of n substeps. */
typedef struct fsi__step {
    fsi_real h, share; /* of one substep: s, and 1 / n */
    fsi_real slop;     /* overlap that is left alone, over the contact's size */
    int n;
    fsi__spring spring;
    double lost;  /* J that impulses took in the step */
    double known; /* J that externals with energy_fn gave the bodies in the step */
} fsi__step;

/* Where the energy of a move came from, J: see fsi_solids_report. */
typedef struct fsi__ledger {
    double work;
    double drive;
    double others;
    double applied;
} fsi__ledger;

/* What a world has beside bodies, joints and contacts: scratch, doors, and the last move. */
struct fsi__solids_work {
    fsi__velocity *vel;            /* [max_bodies] */
    fsi_contact *old;              /* [max_contacts] contacts of the step before */
    fsi__manifold *batch;          /* [FSI__PAIR_BATCH] */
    uint64_t *pair, *pair_scratch; /* [max_pairs] */
    /* [contacts] in pair's place: low 32 bits are contacts in solving order */
    uint64_t *order;
    uint64_t *jointed, *jointed_scratch; /* [max_joints] sorted pairs that do not collide */
    /* of all solids, by the numbers that ends of contacts have: cells, bounds of the coming step,
       largest half width of the bounds, solids outside the broad phase grid, 1 where the contacts
       of one contradict each other */
    uint64_t *cell, *cell_scratch;
    fsi_vec3 *lo, *hi;
    fsi_real *extent;
    int32_t *large;
    int32_t *stuck;
    unsigned char *broad; /* list: where these are while there are externals */
    fsi_wrench *taken;    /* [max_bodies] that bodies without inverse mass took in the substep */
    fsi_wrench *change;   /* [max_bodies] of v and L by forces and coupling in this step */
    fsi_rigid *before;    /* [max_bodies] as the move found them */
    int32_t *first_joint; /* [max_bodies] lowest joint of a body */
    /* [max_bodies] lowest number among the bodies tied to it: by joints for a door, by contacts in
       a move */
    int32_t *label;
    fsi_real *most; /* [max_bodies] by label: N s that a contact of the pile can have to carry */
    struct fsi__joint_rows *rows; /* [max_joints] */
    fsi_real *joint_k, *joint_x;  /* [6 max_joints * band] factor, [6 max_joints] right-hand side */
    int32_t *joint_begin;         /* [6 max_joints] first column of a row */
    int direct;                   /* 1: joints are solved directly */
    struct fsi__door **door;      /* [max_bodies] coupled solids made so far */
    size_t max_pairs;
    size_t pairs;
    int large_count;
    int jointed_count;
    int capped;
    int infeasible;     /* 1: contacts contradicted each other in the last move */
    fsi_real hold_dt;   /* of the last fsi_solids_hold, s */
    fsi_real last_h;    /* substep of the last move: impulses are scaled when it changes, s */
    fsi__ledger ledger; /* of the last move */
};

static int fsi__solids_has(const fsi_solids *solids, int body) {
    return solids && solids->block && body >= 0 && body < solids->body_count;
}

/* A spring of a quarter of the substep rate with damping ratio zeta, implicit Euler: as stiff as
 * the substep can carry. */
static fsi__spring fsi__spring_make(fsi_real zeta, fsi_real h) {
    fsi_real omega = 2 * FSI_PI * FSI_R(0.25) / h;
    fsi_real damped = 2 * zeta + h * omega;
    fsi_real stiff = h * omega * damped;

    fsi__spring spring;
    spring.rate = omega / damped;
    spring.mass = stiff / (1 + stiff);
    spring.impulse = 1 / (1 + stiff);
    return spring;
}

/* The external with this number, NULL for a rigid body. */
FSI__INLINE const fsi_external *fsi__external_of(const fsi_solids *solids, int solid) {
    int bodies = solids->desc.max_bodies;
    return solid < bodies ? NULL : solids->external + (solid - bodies);
}

/* Velocity of one end at the contact point. */
FSI__INLINE fsi_vec3 fsi__end_velocity(const fsi_solids *solids, const fsi_contact_end *end,
                                       fsi_vec3 at) {
    const fsi_external *external = fsi__external_of(solids, end->solid);
    if (external)
        return external->velocity_fn(end->point, at, external->user);
    const fsi__velocity *velocity = solids->work->vel + end->solid;
    return fsi_vec_add(velocity->v, fsi_vec_cross(velocity->spin, end->arm)); /* v + w x r */
}

/* A body takes an impulse and its moment about the centre of mass. What a body without inverse
 * mass takes is added up: with the velocity of a scripted body it is its work. */
FSI__INLINE void fsi__body_impulse(const fsi_solids *solids, int body, fsi_vec3 impulse,
                                   fsi_vec3 moment) {
    fsi__velocity *velocity = solids->work->vel + body;
    fsi_wrench *taken = solids->work->taken + body;
    if (velocity->inverse_mass == 0) {
        taken->linear = fsi_vec_add(taken->linear, impulse);
        taken->angular = fsi_vec_add(taken->angular, moment);
        return;
    }
    fsi_vec3 turn = fsi_mat3_mul_vec(&velocity->inverse_inertia, moment);
    velocity->v = fsi_vec_mad(velocity->v, impulse, velocity->inverse_mass);
    velocity->spin = fsi_vec_add(velocity->spin, turn);
}

/* One end takes an impulse at the contact point. */
FSI__INLINE void fsi__end_impulse(const fsi_solids *solids, const fsi_contact_end *end, fsi_vec3 at,
                                  fsi_vec3 impulse) {
    const fsi_external *external = fsi__external_of(solids, end->solid);
    if (external)
        external->impulse_fn(end->point, at, impulse, external->user);
    else
        fsi__body_impulse(solids, end->solid, impulse, fsi_vec_cross(end->arm, impulse));
}

/* Velocity of end a relative to end b. */
FSI__INLINE fsi_vec3 fsi__contact_velocity(const fsi_solids *solids, const fsi_contact *contact) {
    return fsi_vec_sub(fsi__end_velocity(solids, &contact->a, contact->at),
                       fsi__end_velocity(solids, &contact->b, contact->at));
}

/* Its part along the normal: negative while the ends come nearer. */
FSI__INLINE fsi_real fsi__normal_velocity(const fsi_solids *solids, const fsi_contact *contact) {
    return fsi_vec_dot(fsi__contact_velocity(solids, contact), contact->normal);
}

/* The impulse on a, its opposite on b, at the same point: both momenta are kept. */
FSI__INLINE void fsi__contact_apply(const fsi_solids *solids, const fsi_contact *contact,
                                    fsi_vec3 impulse) {
    fsi__end_impulse(solids, &contact->a, contact->at, impulse);
    fsi__end_impulse(solids, &contact->b, contact->at, fsi_vec_scale(impulse, -1));
}

/* The second tangent. */
FSI__INLINE fsi_vec3 fsi__bitangent(const fsi_contact *contact) {
    return fsi_vec_cross(contact->normal, contact->tangent);
}

/* A pair of numbers along the two tangents as a vector. */
FSI__INLINE fsi_vec3 fsi__tangent_vector(const fsi_contact *contact, fsi_real along,
                                         fsi_real across) {
    return fsi_vec_add(fsi_vec_scale(contact->tangent, along),
                       fsi_vec_scale(fsi__bitangent(contact), across));
}

/* The impulse on end a in this substep so far. */
FSI__INLINE fsi_vec3 fsi__contact_impulse(const fsi_contact *contact) {
    fsi_vec3 rub = fsi__tangent_vector(contact, contact->impulse_t[0], contact->impulse_t[1]);
    return fsi_vec_mad(rub, contact->normal, contact->impulse);
}

/* Velocity change at arm r of a body by a unit impulse there along d: d / m + (I^-1 (r x d)) x r.
 */
static fsi_vec3 fsi__body_response(fsi_real inverse_mass, const fsi_mat3 *inverse_inertia,
                                   fsi_vec3 r, fsi_vec3 d) {
    fsi_vec3 turn = fsi_mat3_mul_vec(inverse_inertia, fsi_vec_cross(r, d));
    return fsi_vec_add(fsi_vec_scale(d, inverse_mass), fsi_vec_cross(turn, r));
}

/* The same for an end; K is that of an external. */
static fsi_vec3 fsi__end_response(const fsi_solids *solids, const fsi_contact_end *end,
                                  const fsi_mat3 *K, fsi_vec3 d) {
    if (fsi__external_of(solids, end->solid))
        return fsi_mat3_mul_vec(K, d);

    const fsi__velocity *velocity = solids->work->vel + end->solid;
    if (velocity->inverse_mass == 0)
        return fsi_vec(0, 0, 0);
    return fsi__body_response(velocity->inverse_mass, &velocity->inverse_inertia, end->arm, d);
}

/* Effective masses: 1 / (n . K n), and one number for both tangents: with it the sliding impulse
 * ends exactly opposite to the slip. */
static void fsi__contact_masses(const fsi_solids *solids, fsi_contact *contact) {
    const fsi_contact_end *end[2] = {&contact->a, &contact->b};
    fsi_vec3 tangent = contact->tangent;
    fsi_vec3 bitangent = fsi__bitangent(contact);
    fsi_vec3 by_normal = FSI__ZERO;
    fsi_vec3 by_tangent = by_normal;
    fsi_vec3 by_bitangent = by_normal;

    for (int i = 0; i < 2; i++) {
        const fsi_external *external = fsi__external_of(solids, end[i]->solid);
        fsi_mat3 K;
        if (external)
            external->inverse_mass_fn(end[i]->point, contact->at, &K, external->user);
        by_normal = fsi_vec_add(by_normal, fsi__end_response(solids, end[i], &K, contact->normal));
        by_tangent = fsi_vec_add(by_tangent, fsi__end_response(solids, end[i], &K, tangent));
        by_bitangent = fsi_vec_add(by_bitangent, fsi__end_response(solids, end[i], &K, bitangent));
    }
    fsi_real normal = fsi_vec_dot(contact->normal, by_normal);
    contact->mass_n = normal > 0 ? 1 / normal : 0;

    /* The larger eigenvalue of the block of the tangents. */
    fsi_real tt = fsi_vec_dot(tangent, by_tangent);
    fsi_real tb = fsi_vec_dot(tangent, by_bitangent);
    fsi_real bb = fsi_vec_dot(bitangent, by_bitangent);
    fsi_real largest = (tt + bb) / 2 + fsi__sqrt((tt - bb) * (tt - bb) / 4 + tb * tb);
    contact->mass_t = largest > 0 ? 1 / largest : 0;
}

/* A contact at the beginning of a step, before any impulse. */
static void fsi__contact_prepare(const fsi_solids *solids, fsi_contact *contact) {
    fsi__contact_masses(solids, contact);
    contact->approach = fsi__normal_velocity(solids, contact);
    contact->impulse_max = 0;
    contact->bounced = 0;
}

/* Does the contact carry nothing? */
FSI__INLINE int fsi__contact_idle(const fsi_contact *contact) {
    return contact->impulse == 0 && contact->impulse_t[0] == 0 && contact->impulse_t[1] == 0;
}

/* Applies a share of the impulses so far once more. */
static void fsi__contact_warm(const fsi_solids *solids, const fsi_contact *contact,
                              fsi_real share) {
    if (fsi__contact_idle(contact))
        return;
    fsi__contact_apply(solids, contact, fsi_vec_scale(fsi__contact_impulse(contact), share));
}

/* Coulomb's law: a pair of tangent impulses is at most `limit` long, along its own direction. */
FSI__INLINE void fsi__coulomb_cone(fsi_real limit, fsi_real *along, fsi_real *across) {
    fsi_real length = fsi__sqrt(*along * *along + *across * *across);
    if (length > limit) {
        *along *= limit / length;
        *across *= limit / length;
    }
}

/* Friction: the impulse that stops the tangent velocity, as far as Coulomb's cone allows. */
static void fsi__contact_friction(const fsi_solids *solids, fsi_contact *contact) {
    if (fsi__contact_idle(contact))
        return;

    fsi_vec3 slip = fsi__contact_velocity(solids, contact);
    fsi_real *old = contact->impulse_t;
    fsi_real along = old[0] - contact->mass_t * fsi_vec_dot(slip, contact->tangent);
    fsi_real across = old[1] - contact->mass_t * fsi_vec_dot(slip, fsi__bitangent(contact));
    fsi__coulomb_cone(contact->friction * contact->impulse, &along, &across);

    fsi_vec3 change = fsi__tangent_vector(contact, along - old[0], across - old[1]);
    fsi__contact_apply(solids, contact, change);
    old[0] = along;
    old[1] = across;
}

/* One normal impulse. A gap limits the approach to gap / h. Opening: an overlap is opened, by a
   tenth of the contact's size at most, and the spring gives way by a hundredth of it at most.
   Returns by how much of its size the approach was beyond what is allowed. */
static fsi_real fsi__contact_normal(const fsi_solids *solids, fsi_contact *contact,
                                    const fsi__step *step, int opening) {
    fsi_real h = step->h;
    fsi_real slop = step->slop * contact->size;
    fsi_real velocity = fsi__normal_velocity(solids, contact);
    fsi_real bias = 0;
    fsi_real scale = 1;
    fsi_real give = 0;
    fsi_real before = contact->impulse;
    if (contact->gap > 0)
        bias = contact->gap / h;
    else if (opening) {
        bias = fsi__max(step->spring.rate * fsi__min(0, contact->gap + slop),
                        FSI_R(-0.1) * contact->size / h);
        scale = step->spring.mass;
        give = fsi__min(step->spring.impulse * before,
                        FSI_R(0.01) * contact->mass_n * contact->size / h);
    }
    fsi_real impulse = fsi__max(0, before - contact->mass_n * scale * (velocity + bias) - give);
    if (impulse == before)
        return 0;

    contact->impulse = impulse;
    if (impulse > contact->impulse_max)
        contact->impulse_max = impulse;
    fsi__contact_apply(solids, contact, fsi_vec_scale(contact->normal, impulse - before));
    if (fsi__external_of(solids, contact->b.solid))
        return 0;
    return -h * (velocity + fsi__max(bias, 0)) / contact->size;
}

/* Approach from which contacts bounce in a step of dt: what rests is never that fast. */
static fsi_real fsi__bounce_speed(const fsi_solids *solids, fsi_real dt) {
    fsi_real given = solids->desc.bounce_speed;
    return given > 0 ? given : 4 * dt * fsi__length(solids->desc.gravity);
}

/* Marks the contacts that bounce: those with restitution that approached at the threshold or faster
   and were pressed in this step. Impulse and velocity are kept for the balance of energy. */
static void fsi__bounce_begin(fsi_solids *solids, fsi_real threshold) {
    for (int i = 0; i < solids->contact_count; i++) {
        fsi_contact *contact = solids->contact + i;
        if (contact->restitution == 0 || contact->approach > -threshold
            || contact->impulse_max == 0)
            continue;
        contact->bounced = 1;
        contact->bounce_impulse = contact->impulse;
        contact->bounce_velocity = fsi__normal_velocity(solids, contact);
    }
}

/* One sweep over the contacts that bounce: the normal velocity becomes minus restitution times the
 * approach. Returns 1 while impulses still change. */
static int fsi__bounce_sweep(fsi_solids *solids) {
    int changed = 0;
    for (int i = 0; i < solids->contact_count; i++) {
        fsi_contact *contact = solids->contact + i;
        if (!contact->bounced)
            continue;
        fsi_real before = contact->impulse;
        fsi_real wanted = contact->restitution * contact->approach;
        fsi_real excess = fsi__normal_velocity(solids, contact) + wanted;
        fsi_real impulse = fsi__max(0, before - contact->mass_n * excess);
        if (fsi__abs(impulse - before) > 8 * FSI_REAL_EPS * impulse)
            changed = 1;
        contact->impulse = impulse;
        fsi__contact_apply(solids, contact, fsi_vec_scale(contact->normal, impulse - before));
    }

    return changed;
}

/* Restitution, swept until all contacts agree. Impulses d that lead from normal velocities v0 to v1
   give the energy sum d (v0 + v1) / 2. Where that is more than the impact has lost (many contacts
   at once), all bounce by the share that is not. Returns what they gave, J. */
static double fsi__contact_restitution(fsi_solids *solids, fsi_real threshold, double lost) {
    fsi__bounce_begin(solids, threshold);
    for (int pass = 0; pass < 20; pass++)
        if (!fsi__bounce_sweep(solids))
            break;

    /* A share s of the impulses gives a s^2 + b s. */
    double a = 0;
    double b = 0;
    double share = 1;

    for (int i = 0; i < solids->contact_count; i++) {
        const fsi_contact *contact = solids->contact + i;
        if (!contact->bounced)
            continue;
        double impulse = (double)(contact->impulse - contact->bounce_impulse);
        double start = (double)contact->bounce_velocity;
        a += impulse * ((double)fsi__normal_velocity(solids, contact) - start) / 2;
        b += impulse * start;
    }
    if (a + b > lost && a > 0)
        share = (double)fsi__clamp((fsi_real)((sqrt(b * b + 4 * a * lost) - b) / (2 * a)), 0, 1);

    /* Take the rest back. A bounce is no guess for the next step. */
    for (int i = 0; i < solids->contact_count; i++) {
        fsi_contact *contact = solids->contact + i;
        if (!contact->bounced)
            continue;
        fsi_real back = (fsi_real)(share - 1) * (contact->impulse - contact->bounce_impulse);
        if (share < 1)
            fsi__contact_apply(solids, contact, fsi_vec_scale(contact->normal, back));
        contact->impulse = contact->impulse_t[0] = contact->impulse_t[1] = 0;
    }

    return share * (a * share + b);
}

/* ------------------------------------------------------------------------------------------------
 * >>joints */
/* A joint is a list of rows. A row has the velocity error
       line . (va - vb) + turn_a . spin_a - turn_b . spin_b
   and a position error. All kinds are built from two sorts of rows:

       kind        the anchors stay together      angles are held      row FSI__JOINT_FREE
       POINT       in x, y, z                     -                    -
       HINGE       in x, y, z                     across the axis      twist about the axis
       PRISMATIC   across the axis                about x, y, z        way along the axis
       WELD        in x, y, z                     about x, y, z        -
       SPRING      -                              -                    distance of the anchors

   Both bodies get the impulse at the same world point (the anchor of a), so momentum is exact even
   while there is drift. The equality rows of all joints are solved at once, directly in a band, so
   chains are exact. Drift is corrected in every substep before the positions move, and the velocity
   is solved again without the correction afterwards, so that it adds no energy. The free row has
   motor, spring and stops.

   Symbols: h length of a substep (s), K = J M^-1 J^T of all equality rows. */
#define FSI__JOINT_FREE 6
#define FSI__JOINT_SWEEPS 8 /* sweeps where the direct solve has no room */
#define FSI__BAND 96        /* widest coupling of rows for the direct solve: 16 joints of 6 */
#define FSI__JOINT_RATE FSI_R(0.2) /* share of the drift removed per substep */

/* One row; line is zero where it holds an angle. */
typedef struct fsi__row {
    fsi_vec3 line;
    fsi_vec3 turn_a;
    fsi_vec3 turn_b;
    fsi_real error; /* m or rad */
} fsi__row;

struct fsi__joint_rows {
    int first; /* lowest joint coupled with this one */
    int n;     /* equality rows */
    int free;  /* 1: the free row is used */
    int at;    /* number of the first row among all joints */
    fsi__row row[FSI__JOINT_FREE + 1];
    fsi_vec3 arm_a, arm_b; /* of the anchor of a */
    fsi_real mass_free;    /* 1 / K of the free row */
};
typedef struct fsi__joint_rows fsi__joint_rows;

/* 1: the row holds a distance and its impulse is a force; 0: an angle, a torque. */
static int fsi__row_is_force(const fsi__row *row) {
    return fsi_vec_dot(row->line, row->line) > 0;
}

/* The anchors, `apart` from each other, stay together along dir. */
static void fsi__row_point(fsi__row *row, fsi_vec3 dir, fsi_vec3 arm_a, fsi_vec3 arm_b,
                           fsi_vec3 apart) {
    row->line = dir;
    row->turn_a = fsi_vec_cross(arm_a, dir);
    row->turn_b = fsi_vec_cross(arm_b, dir);
    row->error = fsi_vec_dot(dir, apart);
}

/* The angle about dir is held. */
static void fsi__row_angle(fsi__row *row, fsi_vec3 dir, fsi_vec3 error) {
    row->line = fsi_vec(0, 0, 0);
    row->turn_a = row->turn_b = dir;
    row->error = fsi_vec_dot(dir, error);
}

/* A unit vector perpendicular to the unit vector n; in 2D it lies in the plane. */
static fsi_vec3 fsi__any_tangent(fsi_vec3 n) {
    fsi_vec3 t = fsi__abs(n.z) < FSI_R(0.7) ? fsi_vec(n.y, -n.x, 0) : fsi_vec(0, -n.z, n.y);
    return fsi__unit(t);
}

/* The same rotation by the shorter way: w >= 0. */
static fsi_quat fsi__quat_shorter(fsi_quat q) {
    if (q.w < 0) {
        q.w = -q.w;
        q.x = -q.x;
        q.y = -q.y;
        q.z = -q.z;
    }
    return q;
}

/* Does the joint have a coordinate that is free to move? */
static int fsi__joint_slides(fsi_joint_kind kind) {
    return kind == FSI_JOINT_HINGE || kind == FSI_JOINT_PRISMATIC;
}

/* Geometry of the joint at the present poses. */
static void fsi__joint_geometry(const fsi_solids *solids, const fsi_joint *joint,
                                fsi__joint_rows *rows) {
    const fsi_rigid *body_a = solids->body + joint->a;
    const fsi_rigid *body_b = solids->body + joint->b;
    fsi_joint_kind kind = joint->kind;
    fsi__row *row = rows->row;
    fsi__row *slide = row + FSI__JOINT_FREE;

    /* Where the anchors are, and the axis with two directions across it. */
    fsi_vec3 arm_a = fsi_mat3_mul_vec(&body_a->rotation, joint->anchor_a);
    fsi_vec3 own_b = fsi_mat3_mul_vec(&body_b->rotation, joint->anchor_b);
    fsi_vec3 apart = fsi_vec_sub(fsi_vec_add(body_a->x, arm_a), fsi_vec_add(body_b->x, own_b));
    fsi_vec3 arm_b = fsi_vec_add(own_b, apart); /* the anchor of a, seen from b */
    fsi_vec3 axis = fsi_mat3_mul_vec(&body_b->rotation, joint->axis_b);
    fsi_vec3 across = fsi__any_tangent(axis);
    fsi_vec3 across2 = fsi_vec_cross(axis, across);

    /* Rotation of a away from its rest pose at b; its vector is twice the vector part. */
    fsi_quat rest = fsi_quat_mul(body_b->q, joint->rest_rotation);
    fsi_quat turn = fsi__quat_shorter(fsi_quat_mul(body_a->q, fsi__quat_back(rest)));
    fsi_vec3 error = fsi_vec(2 * turn.x, 2 * turn.y, 2 * turn.z);

    rows->arm_a = arm_a;
    rows->arm_b = arm_b;
    if (kind == FSI_JOINT_POINT || kind == FSI_JOINT_HINGE || kind == FSI_JOINT_WELD)
        for (int i = 0; i < 3; i++)
            fsi__row_point(row++, fsi__axis(i), arm_a, arm_b, apart);
    if (kind == FSI_JOINT_HINGE) {
        fsi_vec3 tilt = fsi_vec_cross(axis, fsi_mat3_mul_vec(&body_a->rotation, joint->axis_a));
        fsi__row_angle(row++, across, tilt);
        fsi__row_angle(row++, across2, tilt);
        fsi__row_angle(slide, axis, error);
        slide->error = 2 * fsi__atan2(fsi_vec_dot(axis, fsi__quat_axis(turn)), turn.w);
    }
    if (kind == FSI_JOINT_PRISMATIC) {
        fsi__row_point(row++, across, arm_a, arm_b, apart);
        fsi__row_point(row++, across2, arm_a, arm_b, apart);
        fsi__row_point(slide, axis, arm_a, arm_b, apart);
    }
    if (kind == FSI_JOINT_PRISMATIC || kind == FSI_JOINT_WELD)
        for (int i = 0; i < 3; i++)
            fsi__row_angle(row++, fsi__axis(i), error);
    if (kind == FSI_JOINT_SPRING) {
        fsi_real length = fsi__length(apart);
        fsi_vec3 dir = length > 0 ? fsi_vec_scale(apart, 1 / length) : fsi__axis(1);
        fsi__row_point(slide, dir, arm_a, fsi_vec_sub(arm_b, apart), apart);
        slide->error = length;
    }
    rows->n = (int)(row - rows->row);
    int sprung = joint->stiffness > 0 || joint->damping > 0;
    rows->free = kind == FSI_JOINT_SPRING || joint->motor || joint->limit
                 || (fsi__joint_slides(kind) && sprung);
}

/* K between a row of joint p and a row of joint q: through the bodies they share. A joint at its
 * limit is solved alone. */
static fsi_real fsi__row_coupling(const fsi_solids *solids, int p, const fsi__row *row_p, int q,
                                  const fsi__row *row_q) {
    if (p != q && (solids->joint[p].limited || solids->joint[q].limited))
        return 0;

    int body_p[2] = {solids->joint[p].a, solids->joint[p].b};
    int body_q[2] = {solids->joint[q].a, solids->joint[q].b};
    fsi_vec3 turn_p[2] = {row_p->turn_a, row_p->turn_b};
    fsi_vec3 turn_q[2] = {row_q->turn_a, row_q->turn_b};
    fsi_real sum = 0;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) {
            const fsi__velocity *velocity = solids->work->vel + body_p[i];
            if (velocity->inverse_mass == 0 || body_p[i] != body_q[k])
                continue;
            fsi_vec3 turn = fsi_mat3_mul_vec(&velocity->inverse_inertia, turn_q[k]);
            fsi_real x = velocity->inverse_mass * fsi_vec_dot(row_p->line, row_q->line)
                         + fsi_vec_dot(turn_p[i], turn);
            sum += i == k ? x : -x;
        }

    return sum;
}

/* First joint that each joint is coupled with through earlier joints. Where a band would be too
 * wide, joints are solved one by one: each begins with itself. */
static void fsi__joint_profile(fsi_solids *solids) {
    struct fsi__solids_work *work = solids->work;
    int at = 0;
    work->direct = 1;
    for (int i = 0; i < solids->joint_count; i++) {
        work->first_joint[solids->joint[i].a] = solids->joint_count;
        work->first_joint[solids->joint[i].b] = solids->joint_count;
    }
    for (int i = 0; i < solids->joint_count; i++) {
        fsi__joint_rows *rows = work->rows + i;
        int body[2] = {solids->joint[i].a, solids->joint[i].b};
        rows->at = at;
        rows->first = i;
        for (int k = 0; k < 2; k++) {
            int32_t *first = work->first_joint + body[k];
            if (work->vel[body[k]].inverse_mass == 0)
                continue;
            if (*first > i)
                *first = i;
            rows->first = fsi__imin(rows->first, *first);
        }
        at += rows->n;
        if (at - work->rows[rows->first].at > FSI__BAND)
            work->direct = 0;
    }
    for (int i = 0; i < solids->joint_count && !work->direct; i++)
        work->rows[i].first = i;
}

/* Row i of the band: row[-c] is K(i, c). */
static fsi_real *fsi__band_row(const fsi_solids *solids, int i) {
    return solids->work->joint_k + (size_t)i * FSI__BAND + i;
}

/* Row i of K = L D L^T, from column begin on. A row without mass, or one that repeats others, gets
 * D = 0 and stays out. */
static void fsi__joint_factor_row(fsi_solids *solids, int i, int begin) {
    fsi_real *row = fsi__band_row(solids, i);
    solids->work->joint_begin[i] = begin;

    /* First the products L D, then L and D. */
    for (int c = begin; c < i; c++) {
        const fsi_real *other = fsi__band_row(solids, c);
        for (int e = fsi__imax(begin, solids->work->joint_begin[c]); e < c; e++)
            row[-c] -= row[-e] * other[-e];
    }
    fsi_real full = row[-i];
    for (int c = begin; c < i; c++) {
        fsi_real pivot = fsi__band_row(solids, c)[-c];
        fsi_real lower = pivot > 0 ? row[-c] / pivot : 0;
        row[-i] -= lower * row[-c];
        row[-c] = lower;
    }
    if (!(row[-i] > 4096 * FSI_REAL_EPS * full))
        row[-i] = 0;
}

/* Geometry and K of all joints at the present poses, factored in a band. */
static void fsi__joint_factor(fsi_solids *solids) {
    fsi__joint_rows *all = solids->work->rows;
    for (int j = 0; j < solids->joint_count; j++)
        fsi__joint_geometry(solids, solids->joint + j, all + j);
    fsi__joint_profile(solids);

    for (int j = 0; j < solids->joint_count; j++) {
        fsi__joint_rows *rows = all + j;
        const fsi__row *slide = rows->row + FSI__JOINT_FREE;
        fsi_real k = rows->free ? fsi__row_coupling(solids, j, slide, j, slide) : 0;
        rows->mass_free = k > 0 ? 1 / k : 0;
        for (int p = 0; p < rows->n; p++) {
            int i = rows->at + p;
            fsi_real *row = fsi__band_row(solids, i);
            for (int q = rows->first; q <= j; q++)
                for (int e = 0; e < all[q].n && all[q].at + e <= i; e++)
                    row[-(all[q].at + e)] =
                        fsi__row_coupling(solids, j, rows->row + p, q, all[q].row + e);
            fsi__joint_factor_row(solids, i, all[rows->first].at);
        }
    }
}

/* x = K^-1 x for rows begin .. end - 1, which no row outside is coupled with. */
static void fsi__joint_backsolve(const fsi_solids *solids, int begin, int end, fsi_real *x) {
    const int32_t *column = solids->work->joint_begin;
    for (int i = begin; i < end; i++) {
        const fsi_real *row = fsi__band_row(solids, i);
        for (int c = column[i]; c < i; c++)
            x[i] -= row[-c] * x[c];
    }
    for (int i = begin; i < end; i++) {
        fsi_real pivot = fsi__band_row(solids, i)[-i];
        x[i] = pivot > 0 ? x[i] / pivot : 0;
    }
    for (int i = end - 1; i >= begin; i--) {
        const fsi_real *row = fsi__band_row(solids, i);
        for (int c = column[i]; c < i; c++)
            x[c] -= row[-c] * x[i];
    }
}

static fsi_real fsi__row_velocity(const fsi_solids *solids, const fsi_joint *joint,
                                  const fsi__row *row) {
    const fsi__velocity *a = solids->work->vel + joint->a;
    const fsi__velocity *b = solids->work->vel + joint->b;
    return fsi_vec_dot(row->line, fsi_vec_sub(a->v, b->v)) + fsi_vec_dot(row->turn_a, a->spin)
           - fsi_vec_dot(row->turn_b, b->spin);
}

static void fsi__row_apply(const fsi_solids *solids, const fsi_joint *joint, const fsi__row *row,
                           fsi_real impulse) {
    fsi__body_impulse(solids, joint->a, fsi_vec_scale(row->line, impulse),
                      fsi_vec_scale(row->turn_a, impulse));
    fsi__body_impulse(solids, joint->b, fsi_vec_scale(row->line, -impulse),
                      fsi_vec_scale(row->turn_b, -impulse));
}

/* Applies a share of the impulses so far once more. */
static void fsi__joint_warm(const fsi_solids *solids, const fsi_joint *joint,
                            const fsi__joint_rows *rows, fsi_real share) {
    for (int i = 0; i < rows->n; i++)
        fsi__row_apply(solids, joint, rows->row + i, share * joint->impulse[i]);
    if (rows->free)
        fsi__row_apply(solids, joint, rows->row + FSI__JOINT_FREE,
                       share * (joint->impulse_free + joint->impulse_limit));
}

/* Scales the impulses a joint starts the next substep with. */
static void fsi__joint_scale(fsi_joint *joint, fsi_real scale) {
    for (int i = 0; i < 6; i++)
        joint->impulse[i] *= scale;
    joint->impulse_free *= scale;
    joint->impulse_limit *= scale;
}

/* A joint whose impulses are no guess any more begins with none. */
static void fsi__joint_forget(fsi_joint *joint) {
    memset(joint->impulse, 0, sizeof joint->impulse);
    joint->impulse_free = joint->impulse_limit = 0;
}

/* A motor keeps its speed within its force. A spring is implicit, stiffness and damping are folded
 * into the effective mass: stable for any stiffness. */
static void fsi__joint_drive(const fsi_solids *solids, fsi_joint *joint,
                             const fsi__joint_rows *rows, fsi_real h) {
    const fsi__row *row = rows->row + FSI__JOINT_FREE;
    fsi_real mass = rows->mass_free;
    fsi_real before = joint->impulse_free;
    fsi_real next = before;
    fsi_real speed = fsi__row_velocity(solids, joint, row);
    if (joint->motor)
        next = fsi__clamp(before - mass * (speed - joint->motor_speed), -h * joint->motor_limit,
                          h * joint->motor_limit);
    else if (mass > 0 && (joint->stiffness > 0 || joint->damping > 0)) {
        fsi_real gamma = 1 / (h * (joint->damping + h * joint->stiffness));
        fsi_real pull = (row->error - joint->rest) * h * joint->stiffness * gamma;
        next = before - (speed + pull + gamma * before) / (1 / mass + gamma);
    }
    if (next != before)
        fsi__row_apply(solids, joint, row, next - before);
    joint->impulse_free = next;
}

/* The nearer one of the two stops acts, to one side only. */
static void fsi__joint_stop(const fsi_solids *solids, fsi_joint *joint, const fsi__joint_rows *rows,
                            const fsi__step *step, int opening) {
    const fsi__row *row = rows->row + FSI__JOINT_FREE;
    fsi_real above = row->error - joint->lower;
    fsi_real below = joint->upper - row->error;
    fsi_real sign = above < below ? FSI_R(1.) : FSI_R(-1.);
    fsi_real gap = above < below ? above : below;
    fsi_real bias = opening ? step->spring.rate * gap : 0;
    if (gap > 0)
        bias = gap / step->h;
    fsi_real speed = sign * fsi__row_velocity(solids, joint, row);
    fsi_real next =
        fsi__max(0, sign * joint->impulse_limit - rows->mass_free * (speed + bias)) * sign;
    fsi__row_apply(solids, joint, row, next - joint->impulse_limit);
    joint->impulse_limit = next;
}

/* How much the mean velocity of an arm r that turns with w for h differs from w x r. */
static fsi_vec3 fsi__arc(fsi_vec3 w, fsi_vec3 r, fsi_real h) {
    fsi_vec3 along = fsi_vec_cross(w, r);
    fsi_real t = fsi__length(w) * h;
    int series = !(t > FSI_R(0.01)); /* where the closed forms cancel */
    fsi_real shorter = series ? -t * t / 6 : fsi__sin(t) / t - 1;
    fsi_real inward = series ? FSI_R(0.5) - t * t / 24 : (1 - fsi__cos(t)) / (t * t);
    return fsi_vec_add(fsi_vec_scale(along, shorter),
                       fsi_vec_scale(fsi_vec_cross(w, along), inward * h));
}

/* What the rows of joint j miss. Opening: anchors run on arcs, so what is driven to zero is the
 * position error after the move, error + h (rate + difference of the arcs). */
static void fsi__joint_residual(const fsi_solids *solids, int j, fsi_real h, int opening,
                                fsi_real *x) {
    const fsi__joint_rows *rows = solids->work->rows + j;
    const fsi_joint *joint = solids->joint + j;
    fsi_vec3 bend = FSI__ZERO;
    if (opening)
        bend = fsi_vec_sub(fsi__arc(solids->work->vel[joint->a].spin, rows->arm_a, h),
                           fsi__arc(solids->work->vel[joint->b].spin, rows->arm_b, h));

    /* A joint torn apart comes back no faster than from a quarter of a radius (radian). */
    fsi_real smaller =
        fsi__min(solids->body[joint->a].shape->bound, solids->body[joint->b].shape->bound);
    for (int i = 0; i < rows->n; i++) {
        const fsi__row *row = rows->row + i;
        fsi_real most = fsi__row_is_force(row) ? FSI_R(0.25) * smaller : FSI_R(0.25);
        fsi_real drift = FSI__JOINT_RATE / h * fsi__clamp(row->error, -most, most);
        x[rows->at + i] = fsi__row_velocity(solids, joint, row) + (opening ? drift : 0)
                          + fsi_vec_dot(row->line, bend);
    }
}

/* The joint's impulses after a solve, shortened to what max_force and max_torque allow; 1 where
 * they were. */
static int fsi__joint_limit(const fsi_solids *solids, int j, const fsi_real *x, fsi_real h,
                            fsi_real *next) {
    const fsi__joint_rows *rows = solids->work->rows + j;
    const fsi_joint *joint = solids->joint + j;
    fsi_real most[2] = {h * joint->max_torque, h * joint->max_force};
    fsi_real sum[2] = FSI__ZERO;
    fsi_real keep[2] = {1, 1}; /* torques, forces */
    int limited = 0;
    for (int i = 0; i < rows->n; i++) {
        next[i] = joint->impulse[i] - x[rows->at + i];
        sum[fsi__row_is_force(rows->row + i)] += next[i] * next[i];
    }
    for (int i = 0; i < 2; i++) {
        fsi_real size = fsi__sqrt(sum[i]);
        if (most[i] > 0 && size > most[i]) {
            keep[i] = most[i] / size;
            limited = 1;
        }
    }
    for (int i = 0; i < rows->n; i++)
        next[i] *= keep[fsi__row_is_force(rows->row + i)];

    return limited;
}

static void fsi__joint_apply(const fsi_solids *solids, int j, const fsi_real *x, fsi_real h) {
    fsi_joint *joint = solids->joint + j;
    const fsi__joint_rows *rows = solids->work->rows + j;
    fsi_real next[6];
    if (fsi__joint_limit(solids, j, x, h, next))
        joint->limited = 1;
    for (int i = 0; i < rows->n; i++) {
        fsi__row_apply(solids, joint, rows->row + i, next[i] - joint->impulse[i]);
        joint->impulse[i] = next[i];
    }
}

/* Solves the rows of one joint with all other joints as they are. */
static void fsi__joint_alone(fsi_solids *solids, int j, fsi_real h, int opening) {
    const fsi__joint_rows *rows = solids->work->rows + j;
    fsi_real *x = solids->work->joint_x;
    fsi__joint_residual(solids, j, h, opening, x);
    fsi__joint_backsolve(solids, rows->at, rows->at + rows->n, x);
    fsi__joint_apply(solids, j, x, h);
}

/* Solves all joints without a limit at once; 1 where one of them would then pull harder than it
 * may: it is marked as limited and nothing is applied. */
static int fsi__joints_try(fsi_solids *solids, fsi_real h, int opening) {
    fsi_real *x = solids->work->joint_x;
    fsi_real next[6];
    const fsi__joint_rows *rows = solids->work->rows;
    int n = solids->joint_count;
    int found = 0;
    for (int j = 0; j < n; j++)
        if (solids->joint[j].limited)
            fsi_fill((size_t)rows[j].n, 0, x + rows[j].at);
        else
            fsi__joint_residual(solids, j, h, opening, x);
    fsi__joint_backsolve(solids, 0, rows[n - 1].at + rows[n - 1].n, x);
    for (int j = 0; j < n; j++)
        if (!solids->joint[j].limited && fsi__joint_limit(solids, j, x, h, next))
            solids->joint[j].limited = found = 1;
    return found;
}

/* All joints at once. One that would pull harder than it may leaves K for the rest of the step: its
   impulse is bounded, and the others are solved with that as it is. (Shortening it after the solve
   would leave its neighbours the impulses of a joint that holds, and energy from nowhere.) */
static void fsi__joints_direct(fsi_solids *solids, fsi_real h, int opening) {
    int n = solids->joint_count;
    int again = 1;
    while (again) {
        for (int j = 0; j < n; j++)
            if (solids->joint[j].limited)
                fsi__joint_alone(solids, j, h, opening);
        again = fsi__joints_try(solids, h, opening);
        if (again)
            fsi__joint_factor(solids);
    }
    for (int j = 0; j < n; j++)
        if (!solids->joint[j].limited)
            fsi__joint_apply(solids, j, solids->work->joint_x, h);
}

/* All joints: motors, springs and stops one by one, then the equality rows in one direct solve.
   Where many joints meet in one body and the band is too narrow: joint by joint, sweeping there and
   back. */
static void fsi__joints_solve(fsi_solids *solids, const fsi__step *step, int opening) {
    int n = solids->joint_count;
    int direct = solids->work->direct;
    int sweeps = direct ? 1 : FSI__JOINT_SWEEPS;
    for (int sweep = 0; sweep < sweeps && n > 0; sweep++) {
        for (int k = 0; k < n; k++) {
            int j = sweep & 1 ? n - 1 - k : k;
            fsi_joint *joint = solids->joint + j;
            const fsi__joint_rows *rows = solids->work->rows + j;
            if (rows->free)
                fsi__joint_drive(solids, joint, rows, step->h);
            if (rows->free && joint->limit && rows->mass_free > 0)
                fsi__joint_stop(solids, joint, rows, step, opening);
            if (!direct)
                fsi__joint_alone(solids, j, step->h, opening);
        }
        if (direct)
            fsi__joints_direct(solids, step->h, opening);
    }
}

/* Are all of these finite, and none negative? */
static int fsi__none_negative(size_t n, const fsi_real *value) {
    for (size_t i = 0; i < n; i++)
        if (!fsi__finite(value[i]) || value[i] < 0)
            return 0;
    return 1;
}

static int fsi__joint_valid(const fsi_solids *solids, const fsi_joint_desc *desc) {
    const fsi_real number[] = {desc->motor_speed, desc->lower, desc->upper, desc->rest,
                               fsi_vec_dot(desc->axis, desc->axis)};
    const fsi_real positive[] = {desc->motor_limit, desc->stiffness, desc->damping, desc->max_force,
                                 desc->max_torque};
    int sprung = desc->stiffness > 0 || desc->damping > 0;
    if (desc->kind < FSI_JOINT_POINT || desc->kind > FSI_JOINT_SPRING)
        return 0;
    if (!fsi_all_finite(sizeof number / sizeof *number, number)
        || !fsi__none_negative(sizeof positive / sizeof *positive, positive))
        return 0;
    if (!fsi__finite_vec(desc->anchor) || !fsi__finite_vec(desc->anchor_b))
        return 0;

    /* Two different bodies, at least one of which moves. */
    if (!fsi__solids_has(solids, desc->a) || !fsi__solids_has(solids, desc->b)
        || desc->a == desc->b)
        return 0;
    if (solids->body[desc->a].inverse_mass == 0 && solids->body[desc->b].inverse_mass == 0)
        return 0;

    /* Motors and stops need a coordinate, a spring needs a spring. */
    if ((desc->motor || desc->limit) && !fsi__joint_slides(desc->kind))
        return 0;
    if ((desc->motor && sprung) || (desc->kind == FSI_JOINT_SPRING && !sprung))
        return 0;
    if (desc->limit && !(desc->lower <= desc->upper))
        return 0;
    return desc->kind != FSI_JOINT_HINGE || !desc->limit
           || (desc->lower > -FSI_PI && desc->upper < FSI_PI);
}

FSI_API fsi_result fsi_solids_join(fsi_solids *solids, const fsi_joint_desc *desc, int *id) {
    if (!solids || !solids->block || !desc || !fsi__joint_valid(solids, desc))
        return FSI_ERR_ARGUMENT;
    if (solids->joint_count >= solids->desc.max_joints)
        return FSI_ERR_SIZE;

    const fsi_rigid *body_a = solids->body + desc->a;
    const fsi_rigid *body_b = solids->body + desc->b;
    fsi_vec3 axis = fsi__length(desc->axis) > 0 ? fsi__unit(desc->axis) : fsi_vec(0, 0, 1);
    if (solids->desc.dim == 2 && desc->kind == FSI_JOINT_HINGE)
        axis = fsi_vec(0, 0, 1);
    if (solids->desc.dim == 2 && desc->kind == FSI_JOINT_PRISMATIC && axis.z != 0)
        return FSI_ERR_ARGUMENT;

    fsi_joint *joint = solids->joint + solids->joint_count;
    memset(joint, 0, sizeof *joint);
    joint->kind = desc->kind;
    joint->a = desc->a;
    joint->b = desc->b;
    joint->motor = desc->motor != 0;
    joint->limit = desc->limit != 0;
    joint->collide = desc->collide != 0;
    joint->motor_speed = desc->motor_speed;
    joint->motor_limit = desc->motor_limit;
    joint->lower = desc->lower;
    joint->upper = desc->upper;
    joint->stiffness = desc->stiffness;
    joint->damping = desc->damping;
    joint->rest = desc->rest;
    joint->max_force = desc->max_force;
    joint->max_torque = desc->max_torque;

    /* Anchors, axis and relative rotation as the bodies see them now. */
    fsi_vec3 on_b = desc->kind == FSI_JOINT_SPRING ? desc->anchor_b : desc->anchor;
    joint->anchor_a = fsi_mat3_tmul_vec(&body_a->rotation, fsi_vec_sub(desc->anchor, body_a->x));
    joint->anchor_b = fsi_mat3_tmul_vec(&body_b->rotation, fsi_vec_sub(on_b, body_b->x));
    joint->axis_a = fsi_mat3_tmul_vec(&body_a->rotation, axis);
    joint->axis_b = fsi_mat3_tmul_vec(&body_b->rotation, axis);
    joint->rest_rotation = fsi_quat_mul(fsi__quat_back(body_b->q), body_a->q);
    fsi__joint_rows rows;
    fsi__joint_geometry(solids, joint, &rows);
    joint->rows = rows.n;
    if (desc->kind == FSI_JOINT_SPRING && desc->rest == 0)
        joint->rest = rows.row[FSI__JOINT_FREE].error;
    if (id)
        *id = solids->joint_count;
    solids->joint_count++;

    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>world */
#define FSI__PAIR_BATCH 256 /* pairs per round of the narrow phase */

/* A rigid body as a coupled solid; see >>doors of rigid bodies. */
struct fsi__door {
    /* the door that it owns, of itself and of the bodies joined to it, and its arrays, for n = 6
       degrees of freedom of each */
    fsi_coupled coupled;
    fsi_real *v, *impulse;  /* [n] */
    fsi_real *free;         /* [n] diagonal of the inverse mass without joints and contacts */
    fsi_real *row, *answer; /* [n] scratch */
    fsi_real *mass, *inverse_mass; /* [n * n] */
    fsi_real *x, *velocity;        /* [3 * vertices] */
    int32_t *index;                /* [dim * elements] */
    int *member;                   /* [n / 6] bodies */
    struct fsi__door **all;        /* [max_bodies] doors of all bodies */
    unsigned char *memory;         /* list: holds the arrays */
    /* its place in the door of `owner`: which part, the first element, where the solve leaves its
       velocity */
    int owner, part, first;
    const fsi_real *from;
    fsi_vec3 centre;
    int pressed; /* contacts in it */
};
typedef struct fsi__door fsi__door;

/* Lays out what the broad phase needs for so many solids. */
static void fsi__broad_layout(struct fsi__solids_work *work, fsi_arena *arena, size_t solids) {
    FSI__TAKE(work->cell, arena, solids);
    FSI__TAKE(work->cell_scratch, arena, solids);
    FSI__TAKE(work->lo, arena, solids);
    FSI__TAKE(work->hi, arena, solids);
    FSI__TAKE(work->extent, arena, solids);
    FSI__TAKE(work->large, arena, solids);
    FSI__TAKE(work->stuck, arena, solids);
}

/* Lays the world out in its block. */
static void fsi__solids_layout(fsi_solids *solids, fsi_arena *arena) {
    const fsi_solids_desc *desc = &solids->desc;
    size_t bodies = (size_t)desc->max_bodies;
    size_t joints = (size_t)desc->max_joints;
    size_t contacts = (size_t)desc->max_contacts;
    struct fsi__solids_work work = FSI__ZERO;
    FSI__TAKE(solids->body, arena, bodies);
    FSI__TAKE(solids->joint, arena, joints);
    FSI__TAKE(solids->contact, arena, contacts);
    solids->work = (struct fsi__solids_work *)fsi_arena_take(arena, 1, sizeof *solids->work);
    work.max_pairs = contacts + 64;
    FSI__TAKE(work.vel, arena, bodies);
    FSI__TAKE(work.old, arena, contacts);
    FSI__TAKE(work.batch, arena, FSI__PAIR_BATCH);
    FSI__TAKE(work.pair, arena, work.max_pairs);
    FSI__TAKE(work.pair_scratch, arena, work.max_pairs);
    FSI__TAKE(work.jointed, arena, joints);
    FSI__TAKE(work.jointed_scratch, arena, joints);
    FSI__TAKE(work.taken, arena, bodies);
    FSI__TAKE(work.change, arena, bodies);
    FSI__TAKE(work.before, arena, bodies);
    FSI__TAKE(work.first_joint, arena, bodies);
    FSI__TAKE(work.most, arena, bodies);
    FSI__TAKE(work.label, arena, bodies);
    FSI__TAKE(work.rows, arena, joints);
    FSI__TAKE(work.joint_k, arena, 6 * joints * FSI__BAND);
    FSI__TAKE(work.joint_x, arena, 6 * joints);
    FSI__TAKE(work.joint_begin, arena, 6 * joints);
    FSI__TAKE(work.door, arena, bodies);
    fsi__broad_layout(&work, arena, bodies);
    if (solids->work)
        *solids->work = work;
}

static int fsi__solids_desc_valid(const fsi_solids_desc *desc) {
    if (!desc || (desc->dim != 2 && desc->dim != 3))
        return 0;
    if (desc->max_bodies < 1 || desc->max_bodies >= 1 << 24)
        return 0;
    if (desc->max_joints < 0 || desc->max_contacts < 0)
        return 0;
    if (desc->substeps < 0 || desc->substeps > 64)
        return 0;
    if (desc->iterations < 0 || desc->iterations > 64)
        return 0;
    if (!fsi__finite_vec(desc->gravity) || (desc->dim == 2 && desc->gravity.z != 0))
        return 0;
    return fsi__none_negative(1, &desc->bounce_speed) && fsi__none_negative(1, &desc->slop)
           && fsi_allocator_valid(&desc->allocator);
}

FSI_API fsi_result fsi_solids_init(fsi_solids *solids, const fsi_solids_desc *desc) {
    if (!solids)
        return FSI_ERR_ARGUMENT;

    memset(solids, 0, sizeof *solids);
    if (!fsi__solids_desc_valid(desc))
        return FSI_ERR_ARGUMENT;

    /* Numerical knobs at zero take their defaults. */
    solids->desc = *desc;
    if (desc->max_contacts == 0)
        solids->desc.max_contacts = fsi__imin(24 * desc->max_bodies, 0x3fffffff);
    if (desc->substeps == 0)
        solids->desc.substeps = 4;
    if (desc->iterations == 0)
        solids->desc.iterations = 2;
    if (desc->slop == 0)
        solids->desc.slop = FSI_R(1e-3);

    fsi_arena arena = FSI__ZERO;
    fsi__solids_layout(solids, &arena);
    fsi_result result =
        fsi__arena_block(&arena, &solids->desc.allocator, &solids->block, &solids->block_size);
    if (result != FSI_OK) {
        memset(solids, 0, sizeof *solids);
        return result;
    }
    fsi__solids_layout(solids, &arena);

    return FSI_OK;
}

FSI_API void fsi_solids_free(fsi_solids *solids) {
    if (!solids)
        return;

    const fsi_allocator *allocator = &solids->desc.allocator;
    if (solids->block) {
        struct fsi__solids_work *work = solids->work;
        for (int i = 0; i < solids->desc.max_bodies; i++)
            if (work->door[i]) {
                FSI__LIST_FREE(work->door[i]->memory, allocator);
                fsi_free(allocator, work->door[i], sizeof *work->door[i]);
            }
        FSI__LIST_FREE(work->broad, allocator);
    }
    fsi_free(allocator, solids->block, solids->block_size);
    memset(solids, 0, sizeof *solids);
}

static int fsi__pose_valid(const fsi_solids *solids, fsi_vec3 x, fsi_quat q) {
    if (!fsi__finite_vec(x) || !fsi__quat_finite(q))
        return 0;
    return solids->desc.dim == 3 || (x.z == 0 && q.x == 0 && q.y == 0);
}

static int fsi__motion_valid(const fsi_solids *solids, fsi_vec3 v, fsi_vec3 spin) {
    if (!fsi__finite_vec(v) || !fsi__finite_vec(spin))
        return 0;
    return solids->desc.dim == 3 || (v.z == 0 && spin.x == 0 && spin.y == 0);
}

/* I w in world axes: R I_body R^T w. */
static fsi_vec3 fsi__inertia_mul(const fsi_rigid *body, fsi_vec3 w) {
    fsi_vec3 local = fsi_mat3_tmul_vec(&body->rotation, w);
    return fsi_mat3_mul_vec(&body->rotation, fsi_mat3_mul_vec(&body->inertia_body, local));
}

static void fsi__set_spin(fsi_rigid *body, fsi_vec3 spin) {
    body->spin = spin;
    if (body->kind == FSI_RIGID_DYNAMIC)
        body->L = fsi__inertia_mul(body, spin);
}

/* Mass and inertia from density, mass or given moments; 0 when they are not positive and finite. */
static int fsi__rigid_mass(fsi_rigid *body, const fsi_rigid_desc *desc, int dim) {
    const fsi_shape *shape = desc->shape;
    fsi_real *inertia = body->inertia_body.m;
    fsi_real unit = shape->volume * shape->density_mean; /* mass for density 1 */
    body->mass = desc->mass > 0 ? desc->mass : desc->density * unit;
    if (!fsi__positive(body->mass) || !(unit > 0))
        return 0;

    fsi_real scale = body->mass / unit;
    for (int i = 0; i < 9; i++)
        inertia[i] = shape->inertia.m[i] * scale;
    if (desc->inertia.x != 0 || desc->inertia.y != 0 || desc->inertia.z != 0) {
        memset(&body->inertia_body, 0, sizeof body->inertia_body);
        inertia[0] = desc->inertia.x;
        inertia[4] = desc->inertia.y;
        inertia[8] = desc->inertia.z;
    }
    body->inverse_mass = 1 / body->mass;
    if (!fsi__positive(body->inverse_mass) || !fsi__positive(inertia[8]))
        return 0;
    if (dim == 2) {
        body->inverse_inertia_body.m[8] = 1 / inertia[8];
        return fsi__positive(body->inverse_inertia_body.m[8]);
    }

    return fsi__positive(inertia[0]) && fsi__positive(inertia[4])
           && fsi_mat3_inverse(&body->inertia_body, &body->inverse_inertia_body);
}

static int fsi__rigid_desc_valid(const fsi_solids *solids, const fsi_rigid_desc *desc) {
    if (!desc || !desc->shape || desc->shape->kind == FSI_SHAPE_NONE
        || desc->shape->dim != solids->desc.dim)
        return 0;
    if (desc->kind < FSI_RIGID_FIXED || desc->kind > FSI_RIGID_DYNAMIC)
        return 0;

    const fsi_real positive[] = {desc->density,     desc->mass,           desc->friction,
                                 desc->restitution, desc->linear_damping, desc->angular_damping,
                                 desc->inertia.x,   desc->inertia.y,      desc->inertia.z};
    if (!fsi__none_negative(sizeof positive / sizeof *positive, positive))
        return 0;
    return desc->restitution <= 1 && fsi__pose_valid(solids, desc->x, desc->q)
           && fsi__motion_valid(solids, desc->v, desc->spin);
}

FSI_API fsi_result fsi_solids_add(fsi_solids *solids, const fsi_rigid_desc *desc, int *id) {
    if (!solids || !solids->block || !fsi__rigid_desc_valid(solids, desc))
        return FSI_ERR_ARGUMENT;
    if (solids->body_count + solids->enclosed >= solids->desc.max_bodies)
        return FSI_ERR_SIZE;

    fsi_rigid body = FSI__ZERO;
    body.kind = desc->kind;
    body.shape = desc->shape;
    body.x = desc->x;
    body.q = fsi_quat_unit(desc->q);
    body.friction = desc->friction;
    body.restitution = desc->restitution;
    body.linear_damping = desc->linear_damping;
    body.angular_damping = desc->angular_damping;
    body.team = desc->team;
    body.ghost = desc->ghost != 0;
    body.user = desc->user;
    if (body.kind == FSI_RIGID_DYNAMIC
        && (fsi__shape_static(desc->shape->kind)
            || !fsi__rigid_mass(&body, desc, solids->desc.dim)))
        return FSI_ERR_ARGUMENT;

    fsi__rigid_refresh(&body, solids->desc.dim);
    if (body.kind != FSI_RIGID_FIXED) {
        body.v = desc->v;
        fsi__set_spin(&body, desc->spin);
    }
    body.v_start = body.v;
    body.L_start = body.L;
    solids->body[solids->body_count] = body;
    if (id)
        *id = solids->body_count;
    solids->body_count++;

    return FSI_OK;
}

FSI_API fsi_result fsi_solids_enclose(fsi_solids *solids, const fsi_rigid_desc *desc) {
    if (!solids || solids->body_count >= solids->desc.max_bodies)
        return FSI_ERR_SIZE;

    /* It is added as if every other place were taken. */
    int bodies = solids->body_count;
    int last = solids->desc.max_bodies - 1;
    solids->body_count = last;
    fsi_result result = fsi_solids_add(solids, desc, NULL);
    solids->body_count = bodies;
    if (result < 0)
        return result;

    solids->enclosed = fsi__shape_static(solids->body[last].shape->kind);
    return solids->enclosed ? FSI_OK : FSI_ERR_ARGUMENT;
}

FSI_API fsi_result fsi_solids_set_pose(fsi_solids *solids, int body, fsi_vec3 x, fsi_quat q) {
    if (!fsi__solids_has(solids, body) || !fsi__pose_valid(solids, x, q))
        return FSI_ERR_ARGUMENT;

    fsi_rigid *rigid = solids->body + body;
    rigid->x = x;
    rigid->q = fsi_quat_unit(q);

    /* What it touched is not there any more. */
    memset(&rigid->push, 0, sizeof rigid->push);
    for (int i = 0; i < solids->contact_count; i++)
        if (solids->contact[i].a.solid == body || solids->contact[i].b.solid == body)
            solids->contact[i].impulse = 0;
    fsi__rigid_refresh(rigid, solids->desc.dim);
    return FSI_OK;
}

FSI_API fsi_result fsi_solids_set_velocity(fsi_solids *solids, int body, fsi_vec3 v,
                                           fsi_vec3 spin) {
    if (!fsi__solids_has(solids, body) || !fsi__motion_valid(solids, v, spin)
        || solids->body[body].kind == FSI_RIGID_FIXED)
        return FSI_ERR_ARGUMENT;

    fsi_rigid *rigid = solids->body + body;
    rigid->v = rigid->v_start = v;
    fsi__set_spin(rigid, spin);
    rigid->L_start = rigid->L;
    return FSI_OK;
}

FSI_API fsi_result fsi_solids_script(fsi_solids *solids, int body, fsi_vec3 x, fsi_quat q,
                                     fsi_real dt) {
    if (!fsi__solids_has(solids, body) || !fsi__pose_valid(solids, x, q) || !fsi__positive(dt)
        || solids->body[body].kind != FSI_RIGID_SCRIPTED)
        return FSI_ERR_ARGUMENT;

    const fsi_rigid *rigid = solids->body + body;
    fsi_quat turn = fsi__quat_shorter(fsi_quat_mul(fsi_quat_unit(q), fsi__quat_back(rigid->q)));
    fsi_vec3 axis = fsi__quat_axis(turn);
    fsi_real sine = fsi__length(axis);
    fsi_real angle = 2 * fsi__atan2(sine, turn.w);
    return fsi_solids_set_velocity(solids, body, fsi_vec_scale(fsi_vec_sub(x, rigid->x), 1 / dt),
                                   sine > 0 ? fsi_vec_scale(axis, angle / (sine * dt)) : axis);
}

/* In 2D nothing moves along z or turns about x and y. */
static void fsi__wrench_flatten(const fsi_solids *solids, fsi_wrench *wrench) {
    if (solids->desc.dim == 2) {
        wrench->linear.z = 0;
        wrench->angular.x = wrench->angular.y = 0;
    }
}

/* Velocity of the material point of a body at arm r from its centre of mass. */
static fsi_vec3 fsi__rigid_velocity(const fsi_rigid *body, fsi_vec3 r) {
    return fsi_vec_add(body->v, fsi_vec_cross(body->spin, r));
}

FSI_API fsi_vec3 fsi_solids_velocity(const fsi_solids *solids, int body, fsi_vec3 p) {
    if (!fsi__solids_has(solids, body))
        return fsi_vec(0, 0, 0);
    const fsi_rigid *rigid = solids->body + body;
    return fsi__rigid_velocity(rigid, fsi_vec_sub(p, rigid->x));
}

FSI_API fsi_result fsi_solids_impulse(fsi_solids *solids, int body, fsi_vec3 p, fsi_vec3 j) {
    if (!fsi__solids_has(solids, body) || !fsi__finite_vec(p) || !fsi__finite_vec(j))
        return FSI_ERR_ARGUMENT;

    fsi_rigid *rigid = solids->body + body;
    if (rigid->inverse_mass == 0)
        return FSI_OK;
    fsi_wrench push;
    push.linear = j;
    push.angular = fsi_vec_cross(fsi_vec_sub(p, rigid->x), j);
    fsi__wrench_flatten(solids, &push);
    fsi__rigid_push(rigid, &push, 1);
    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>broad phase */
/* Solids of ordinary size, bodies and externals alike, are sorted into the cells of a uniform grid
   (cell = largest of them); neighbours are found by walking the sorted list with one moving pointer
   per neighbour row. Large and infinite solids are tested against all. n log n.

       z next   z next   z next        A cell looks at the rest of its own row and at the rows
       row -    row      row +         ahead: one in y, three in z. The rows behind have looked
                 own     row +         at it already. */

/* Bounds of body i for the coming step: its box, grown by its motion. */
static void fsi__bounds_make(const fsi_solids *solids, int i, fsi_real dt) {
    const fsi_rigid *body = solids->body + i;
    const fsi_shape *shape = body->shape;
    struct fsi__solids_work *work = solids->work;
    const fsi_real *R = body->rotation.m;
    if (fsi__shape_static(shape->kind)) {
        work->lo[i] = shape->lo;
        work->hi[i] = shape->hi;
        work->extent[i] = FSI_REAL_MAX;
        return;
    }
    fsi_vec3 middle = fsi_vec_scale(fsi_vec_add(shape->lo, shape->hi), FSI_R(0.5));
    fsi_vec3 centre = fsi_vec_add(body->x, fsi_mat3_mul_vec(&body->rotation, middle));
    fsi_vec3 half = fsi_vec_scale(fsi_vec_sub(shape->hi, shape->lo), FSI_R(0.5));
    if (shape->kind != FSI_SHAPE_SPHERE)
        half = fsi_vec(fsi_vec_dot(fsi__vec_abs(fsi_vec_load(R)), half),
                       fsi_vec_dot(fsi__vec_abs(fsi_vec_load(R + 3)), half),
                       fsi_vec_dot(fsi__vec_abs(fsi_vec_load(R + 6)), half));
    fsi_vec3 speed = fsi__vec_max(fsi__vec_abs(body->v), fsi__vec_abs(body->v_start));
    fsi_real turn = fsi__min(dt * fsi__length(body->spin), 4);
    fsi_real grow = FSI_R(0.02) * shape->bound + turn * shape->bound;
    half = fsi_vec_add(fsi_vec_mad(half, speed, dt), fsi_vec(grow, grow, grow));
    work->lo[i] = fsi_vec_sub(centre, half);
    work->hi[i] = fsi_vec_add(centre, half);
    work->extent[i] = fsi__max(half.x, fsi__max(half.y, half.z));
}

/* Calls advance_fn of all externals. */
static void fsi__externals_advance(const fsi_solids *solids, fsi_real h) {
    for (int k = 0; k < solids->external_count; k++)
        if (solids->external[k].advance_fn)
            solids->external[k].advance_fn(h, solids->external[k].user);
}

/* Bounds of external k for the coming step: its points, grown by their motion. One that has a
 * distance but no points reaches everywhere. */
static void fsi__external_bounds(const fsi_solids *solids, int k, fsi_real dt) {
    const fsi_external *external = solids->external + k;
    fsi_vec3 *lo = solids->work->lo + solids->desc.max_bodies + k;
    fsi_vec3 *hi = solids->work->hi + solids->desc.max_bodies + k;
    fsi_real *extent = solids->work->extent + solids->desc.max_bodies + k;
    *extent = FSI_REAL_MAX;
    if (external->point_count == 0 && external->distance_fn) {
        fsi__bounds_empty(hi, lo);
        return;
    }
    fsi_real fastest = 0;
    fsi__bounds_empty(lo, hi);
    for (int i = 0; i < external->point_count; i++) {
        fsi_vec3 p = fsi__vec_at(external->x, i);
        fsi_vec3 v = external->velocity_fn(i, p, external->user);
        fsi__grow(lo, hi, p);
        fastest = fsi__max(fastest, fsi_vec_dot(v, v));
    }
    if (external->point_count == 0)
        return;

    fsi_real grow = external->radius + dt * fsi__sqrt(fastest);
    grow += FSI_R(0.01) * fsi__length(fsi_vec_sub(*hi, *lo));
    *lo = fsi_vec_sub(*lo, fsi_vec(grow, grow, grow));
    *hi = fsi_vec_add(*hi, fsi_vec(grow, grow, grow));
    fsi_vec3 width = fsi_vec_sub(*hi, *lo);
    *extent = FSI_R(0.5) * fsi__max(width.x, fsi__max(width.y, width.z));
}

/* Do two solids of these teams leave each other alone? */
static int fsi__same_team(int a, int b) {
    return a != 0 && a == b;
}

/* Do solids low < high leave each other alone: both immovable, joined, ghosts, of one team?
 * Externals touch each other where one of the two offers a distance. */
static int fsi__pair_idle(const fsi_solids *solids, int low, int high) {
    const fsi_external *external_low = fsi__external_of(solids, low);
    const fsi_external *external_high = fsi__external_of(solids, high);
    if (external_low)
        return fsi__same_team(external_low->team, external_high->team)
               || (!external_low->distance_fn && !external_high->distance_fn);

    const fsi_rigid *first = solids->body + low;
    if (external_high)
        return first->ghost || fsi__same_team(first->team, external_high->team);

    const fsi_rigid *second = solids->body + high;
    if (first->inverse_mass == 0 && second->inverse_mass == 0)
        return 1;
    if (first->ghost || second->ghost || fsi__same_team(first->team, second->team))
        return 1;

    const struct fsi__solids_work *work = solids->work;
    uint64_t key = fsi__pair_key(low, high);
    size_t at = fsi__lower_bound((size_t)work->jointed_count, work->jointed, key);
    return at < (size_t)work->jointed_count && work->jointed[at] == key;
}

/* Order of pairs in the list of contacts; those with externals carry the top bit. */
#define FSI__EXTERNAL_PAIR ((uint64_t)1 << 63)

static uint64_t fsi__contact_key(const fsi_solids *solids, int a, int b) {
    return (b >= solids->desc.max_bodies ? FSI__EXTERNAL_PAIR : 0) | fsi__pair_key(a, b);
}

/* Adds the pair unless it cannot collide. */
static void fsi__pair_try(fsi_solids *solids, int i, int j) {
    struct fsi__solids_work *work = solids->work;
    int low = fsi__imin(i, j);
    int high = fsi__imax(i, j);
    if (!fsi__boxes_meet(work->lo[low], work->hi[low], 0, work->lo[high], work->hi[high])
        || fsi__pair_idle(solids, low, high))
        return;
    if (work->pairs < work->max_pairs)
        work->pair[work->pairs++] = fsi__contact_key(solids, low, high);
    else
        work->capped = 1;
}

/* Sorted list of the pairs that a joint keeps from colliding. */
static void fsi__jointed_make(fsi_solids *solids) {
    struct fsi__solids_work *work = solids->work;
    int n = 0;
    for (int i = 0; i < solids->joint_count; i++) {
        const fsi_joint *joint = solids->joint + i;
        if (!joint->collide)
            work->jointed[n++] =
                fsi__pair_key(fsi__imin(joint->a, joint->b), fsi__imax(joint->a, joint->b));
    }
    uint64_t *sorted = fsi__sort_keys((size_t)n, work->jointed, work->jointed_scratch);
    if (sorted != work->jointed)
        memcpy(work->jointed, sorted, (size_t)n * sizeof *sorted);
    work->jointed_count = n;
}

/* Bodies, what encloses them and externals of the coming step, and the number of the i-th of all.
 */
static int fsi__solid_count(const fsi_solids *solids) {
    return solids->body_count + solids->enclosed + solids->external_count;
}

static int fsi__solid_number(const fsi_solids *solids, int i) {
    int behind = i - solids->body_count;
    return behind < 0 ? i : solids->desc.max_bodies - solids->enclosed + behind;
}

/* The grid of the solids of ordinary size: lower corner, edge of a cell, how many they are. */
typedef struct fsi__broad_grid {
    fsi_vec3 lo;
    fsi_real cell;
    int count;
} fsi__broad_grid;

/* Solids over four times the mean half extent of the finite ones go to the list of large ones; the
 * grid holds the others, their cells in the list `cell`. */
static fsi__broad_grid fsi__broad_split(fsi_solids *solids) {
    struct fsi__solids_work *work = solids->work;
    fsi_real mean = 0;
    int finite = 0;
    for (int i = 0; i < fsi__solid_count(solids); i++) {
        fsi_real extent = work->extent[fsi__solid_number(solids, i)];
        if (extent < FSI_REAL_MAX) {
            mean += extent;
            finite++;
        }
    }
    mean = finite > 0 ? mean / (fsi_real)finite : 0;

    fsi__broad_grid grid = FSI__ZERO;
    fsi_vec3 hi;
    fsi__bounds_empty(&grid.lo, &hi);
    work->large_count = 0;

    for (int i = 0; i < fsi__solid_count(solids); i++) {
        int solid = fsi__solid_number(solids, i);
        if (work->extent[solid] > 4 * mean) {
            work->large[work->large_count++] = solid;
            continue;
        }
        grid.cell = fsi__max(grid.cell, 2 * work->extent[solid]);
        fsi__grow(&grid.lo, &hi, work->lo[solid]);
        fsi__grow(&grid.lo, &hi, work->hi[solid]);
        work->cell[grid.count++] = (uint64_t)solid;
    }

    /* A cell's number has 13 bits along each axis. */
    for (int i = 0; i < 3 && grid.count > 0; i++)
        grid.cell = fsi__max(grid.cell, (fsi__get(hi, i) - fsi__get(grid.lo, i)) / 8000);

    return grid;
}

#define FSI__SOLID_BITS 24
#define FSI__SOLID_MASK 0xffffffu
#define FSI__ROW ((uint64_t)1 << 13) /* from a cell to the next in y and in z */
#define FSI__LAYER ((uint64_t)1 << 26)

/* Cell of solid i, then the solid. Cells are numbered from 1, so that neighbours never wrap. */
static uint64_t fsi__cell_key(const fsi_solids *solids, uint64_t i, const fsi__broad_grid *grid) {
    fsi_vec3 centre =
        fsi_vec_scale(fsi_vec_add(solids->work->lo[i], solids->work->hi[i]), FSI_R(0.5));
    uint64_t x = 1 + (uint64_t)((centre.x - grid->lo.x) / grid->cell);
    uint64_t y = 1 + (uint64_t)((centre.y - grid->lo.y) / grid->cell);
    uint64_t z = 1 + (uint64_t)((centre.z - grid->lo.z) / grid->cell);
    return (z << 26 | y << 13 | x) << FSI__SOLID_BITS | i;
}

/* Large solids against all smaller ones, and against each other once. */
static void fsi__broad_large(fsi_solids *solids) {
    const struct fsi__solids_work *work = solids->work;
    for (int k = 0; k < work->large_count; k++) {
        int i = work->large[k];
        for (int n = 0; n < fsi__solid_count(solids); n++) {
            int j = fsi__solid_number(solids, n);
            int larger = work->extent[i] > work->extent[j];
            int first = i < j && work->extent[i] == work->extent[j];
            if (larger || first)
                fsi__pair_try(solids, i, j);
        }
    }
}

/* The others by cells: neighbours in the own row, then in the rows ahead. */
static void fsi__broad_cells(fsi_solids *solids, const uint64_t *key, size_t count) {
    static const uint64_t ahead[4] = {FSI__ROW, FSI__LAYER - FSI__ROW, FSI__LAYER,
                                      FSI__LAYER + FSI__ROW};
    size_t first[4] = FSI__ZERO; /* where each row ahead begins in the list */
    int rows = solids->desc.dim == 3 ? 4 : 1;

    for (size_t i = 0; i < count; i++) {
        uint64_t cell = key[i] >> FSI__SOLID_BITS;
        int body = (int)(key[i] & FSI__SOLID_MASK);
        for (size_t k = i + 1; k < count && (key[k] >> FSI__SOLID_BITS) <= cell + 1; k++)
            fsi__pair_try(solids, body, (int)(key[k] & FSI__SOLID_MASK));
        for (int row = 0; row < rows; row++) {
            uint64_t beside = cell + ahead[row];
            size_t k = first[row];
            while (k < count && (key[k] >> FSI__SOLID_BITS) + 1 < beside)
                k++;
            first[row] = k;
            for (; k < count && (key[k] >> FSI__SOLID_BITS) <= beside + 1; k++)
                fsi__pair_try(solids, body, (int)(key[k] & FSI__SOLID_MASK));
        }
    }
}

/* All pairs of solids whose bounds meet. */
static void fsi__broad_phase(fsi_solids *solids, fsi_real dt) {
    struct fsi__solids_work *work = solids->work;
    ptrdiff_t n = solids->body_count + solids->enclosed;
    work->pairs = 0;
    work->capped = 0;
    FSI__PARALLEL(n > 512)
    for (ptrdiff_t i = 0; i < n; i++)
        fsi__bounds_make(solids, fsi__solid_number(solids, (int)i), dt);
    fsi__externals_advance(solids, 0);
    for (int k = 0; k < solids->external_count; k++)
        fsi__external_bounds(solids, k, dt);
    fsi__broad_grid grid = fsi__broad_split(solids);
    fsi__broad_large(solids);
    for (int k = 0; k < grid.count; k++)
        work->cell[k] = fsi__cell_key(solids, work->cell[k], &grid);
    uint64_t *key = fsi__sort_keys((size_t)grid.count, work->cell, work->cell_scratch);
    fsi__broad_cells(solids, key, (size_t)grid.count);
}

/* ------------------------------------------------------------------------------------------------
 * >>collide */
/* All contacts of the coming step, in a fixed order: pairs of rigid bodies first, then pairs with
   externals. A contact inherits the impulses of the same point in the step before. */

/* What every function of this chapter needs of a search. */
typedef struct fsi__search {
    fsi_solids *solids;
    fsi_real dt;
    fsi_real scale;     /* of inherited impulses: a new substep over the last one */
    int old_count;      /* contacts of the step before */
    int begin, end, at; /* those of the same pair, and the next one to look at */
} fsi__search;

/* Moves on to the old contacts of the pair with this key; pairs come in ascending order. */
static void fsi__search_pair(fsi__search *search, uint64_t key) {
    const fsi_solids *solids = search->solids;
    const fsi_contact *old = solids->work->old;
    int i = search->end;
    while (i < search->old_count && fsi__contact_key(solids, old[i].a.solid, old[i].b.solid) < key)
        i++;
    search->begin = search->at = i;
    while (i < search->old_count && fsi__contact_key(solids, old[i].a.solid, old[i].b.solid) == key)
        i++;
    search->end = i;
}

/* Warm start: the impulses of the same point in the last step, its tangent impulse turned into the
 * new tangents. Points mostly come in the same order, so the search begins behind the last hit. */
static void fsi__contact_inherit(fsi__search *search, fsi_contact *contact) {
    int count = search->end - search->begin;
    for (int i = 0; i < count; i++) {
        int k = search->begin + (search->at - search->begin + i) % count;
        const fsi_contact *old = search->solids->work->old + k;
        if (old->feature != contact->feature)
            continue;
        search->at = k + 1 < search->end ? k + 1 : search->begin;
        fsi_vec3 rub = fsi_vec_scale(fsi__tangent_vector(old, old->impulse_t[0], old->impulse_t[1]),
                                     search->scale);
        contact->impulse = search->scale * old->impulse;
        contact->impulse_t[0] = fsi_vec_dot(rub, contact->tangent);
        contact->impulse_t[1] = fsi_vec_dot(rub, fsi__bitangent(contact));
        return;
    }
}

/* One end of a new contact: `point` is for the callbacks of an external. */
static void fsi__end_make(fsi_solids *solids, fsi_contact_end *end, int solid, int point,
                          fsi_vec3 at) {
    end->solid = solid;
    end->point = point;
    if (solid < solids->desc.max_bodies) {
        end->arm = fsi_vec_sub(at, solids->body[solid].x);
        solids->body[solid].touching++;
    }
}

static void fsi__material(const fsi_solids *solids, int solid, fsi_real *friction,
                          fsi_real *restitution) {
    const fsi_external *external = fsi__external_of(solids, solid);
    *friction = external ? external->friction : solids->body[solid].friction;
    *restitution = external ? external->restitution : solids->body[solid].restitution;
}

/* Adds a contact between solids a < b that moves with `lead`, if there is room. */
static void fsi__contact_add(fsi__search *search, int a, int point_a, int b, int point_b, int lead,
                             const fsi__point *point) {
    fsi_solids *solids = search->solids;
    if (solids->contact_count >= solids->desc.max_contacts) {
        solids->work->capped = 1;
        return;
    }
    fsi_contact *contact = solids->contact + solids->contact_count++;
    memset(contact, 0, sizeof *contact);
    contact->feature = point->feature;
    contact->lead = lead;
    contact->at = point->at;
    contact->normal = point->normal;
    contact->gap = point->gap;
    contact->tangent = fsi__any_tangent(point->normal);
    fsi__end_make(solids, &contact->a, a, point_a, point->at);
    fsi__end_make(solids, &contact->b, b, point_b, point->at);
    fsi__contact_inherit(search, contact);

    /* Friction is the geometric mean of both, restitution the larger. */
    fsi_real friction_a;
    fsi_real friction_b;
    fsi_real restitution_a;
    fsi_real restitution_b;
    fsi__material(solids, a, &friction_a, &restitution_a);
    fsi__material(solids, b, &friction_b, &restitution_b);
    contact->friction = fsi__sqrt(friction_a * friction_b);
    contact->restitution = fsi__max(restitution_a, restitution_b);
}

/* Pairs of rigid bodies in batches: manifolds in parallel, contacts in order. */
static void fsi__collide_rigid(fsi__search *search, const uint64_t *pair, size_t count) {
    const fsi_rigid *body = search->solids->body;
    fsi__manifold *batch = search->solids->work->batch;

    for (size_t begin = 0; begin < count; begin += FSI__PAIR_BATCH) {
        const uint64_t *key = pair + begin;
        ptrdiff_t n =
            (ptrdiff_t)(count - begin < FSI__PAIR_BATCH ? count - begin : FSI__PAIR_BATCH);
        FSI__PARALLEL(n > 64)
        for (ptrdiff_t k = 0; k < n; k++)
            fsi__collide_bodies(batch + k, body + (key[k] >> 32), body + (key[k] & 0xffffffffu),
                                search->dt);
        for (ptrdiff_t k = 0; k < n; k++) {
            int a = (int)(key[k] >> 32);
            int b = (int)(key[k] & 0xffffffffu);
            if (batch[k].count == 0)
                continue;
            fsi__search_pair(search, key[k]);
            for (int i = 0; i < batch[k].count; i++)
                fsi__contact_add(search, a, -1, b, -1, a, batch[k].point + i);
        }
    }
}

/* A point beside a solid: distance, outward normal, velocity there, and for an external the own
 * point nearest to it. */
typedef struct fsi__nearest {
    fsi_real distance;
    fsi_vec3 normal;
    fsi_vec3 velocity;
    int point;
} fsi__nearest;

/* Where p is beside a rigid body or an external with a distance. */
static fsi__nearest fsi__nearest_to(const fsi_solids *solids, int solid, fsi_vec3 p) {
    const fsi_external *external = fsi__external_of(solids, solid);
    fsi__nearest out;
    out.point = -1;
    out.velocity = fsi_vec(0, 0, 0);
    if (external) {
        out.distance = external->distance_fn(p, &out.normal, &out.point, external->user);
        if (out.distance < FSI_REAL_MAX && out.point >= 0)
            out.velocity = external->velocity_fn(out.point, p, external->user);
        return out;
    }
    const fsi_rigid *body = solids->body + solid;
    fsi_vec3 r = fsi_vec_sub(p, body->x);
    out.velocity = fsi__rigid_velocity(body, r);
    out.distance = fsi__turned_distance(body->shape, &body->rotation, r, &out.normal);

    return out;
}

/* Thickness of both: points of an external and what they meet. */
static fsi_real fsi__thickness(const fsi_solids *solids, const fsi_external *external, int other) {
    const fsi_external *second = fsi__external_of(solids, other);
    return external->radius + (second ? second->radius : 0);
}

/* Can a box, grown by `grow`, meet the other solid in this step? */
static int fsi__may_meet(const fsi_solids *solids, int other, fsi_vec3 lo, fsi_vec3 hi,
                         fsi_real grow) {
    const struct fsi__solids_work *work = solids->work;
    return fsi__boxes_meet(lo, hi, grow, work->lo[other], work->hi[other]);
}

/* Contact of place `point` of `solid` at p with the other solid. That of an external acts at the
 * point itself: a node takes no torque. */
static void fsi__external_add(fsi__search *search, int solid, int point, int other, fsi_vec3 p,
                              const fsi__nearest *beside, fsi_real gap, uint32_t feature) {
    fsi__point found;
    found.at = p;
    found.gap = gap;
    if (solid < other) {
        found.normal = beside->normal;
        found.feature = feature;
        fsi__contact_add(search, solid, point, other, beside->point, solid, &found);
    } else {
        found.normal = fsi_vec_scale(beside->normal, -1);
        found.feature = feature + (1u << 31);
        fsi__contact_add(search, other, beside->point, solid, point, solid, &found);
    }
}

/* Point i of external `solid` against the other solid. */
static void fsi__external_point(fsi__search *search, int solid, int i, int other) {
    const fsi_solids *solids = search->solids;
    const fsi_external *external = fsi__external_of(solids, solid);
    fsi_vec3 p = fsi__vec_at(external->x, i);
    fsi_vec3 v = external->velocity_fn(i, p, external->user);
    fsi_real thickness = fsi__thickness(solids, external, other);
    if (!fsi__may_meet(solids, other, p, p, search->dt * fsi__length(v) + thickness))
        return;

    fsi__nearest beside = fsi__nearest_to(solids, other, p);
    fsi_real gap = beside.distance - thickness;
    fsi_real way = search->dt * fsi__length(fsi_vec_sub(v, beside.velocity));
    if (gap < way + FSI_R(0.1) * thickness)
        fsi__external_add(search, solid, i, other, p, &beside, gap, (uint32_t)i);
}

/* An edge of an external beside another solid, for the search of its nearest place. */
typedef struct fsi__edge_beside {
    const fsi_solids *solids;
    int other;
    fsi_vec3 from;
    fsi_vec3 along;
} fsi__edge_beside;

static fsi_real fsi__edge_distance(fsi_real t, void *user) {
    const fsi__edge_beside *edge = (const fsi__edge_beside *)user;
    fsi_vec3 p = fsi_vec_mad(edge->from, edge->along, t);
    return fsi__nearest_to(edge->solids, edge->other, p).distance;
}

/* Edge k of external `solid` against the other solid: its nearest place between the ends. Where
 * that is hardly nearer than an end, the ends do. */
static void fsi__external_edge(fsi__search *search, int solid, int k, int other) {
    const fsi_solids *solids = search->solids;
    const fsi_external *external = fsi__external_of(solids, solid);
    const int32_t *place = external->edge + 3 * (size_t)k;
    fsi_real thickness = fsi__thickness(solids, external, other);
    fsi__edge_beside edge;
    edge.solids = solids;
    edge.other = other;
    edge.from = fsi__vec_at(external->x, place[0]);
    edge.along = fsi_vec_sub(fsi__vec_at(external->x, place[1]), edge.from);

    /* Quick tests: bounds, then the middle. */
    fsi_vec3 middle = fsi_vec_mad(edge.from, edge.along, FSI_R(0.5));
    fsi_vec3 v = external->velocity_fn(place[2], middle, external->user);
    fsi_vec3 end = fsi_vec_add(edge.from, edge.along);
    fsi_vec3 lo = edge.from;
    fsi_vec3 hi = edge.from;
    fsi__grow(&lo, &hi, end);
    if (!fsi__may_meet(solids, other, lo, hi, search->dt * fsi__length(v) + thickness))
        return;

    fsi__nearest beside = fsi__nearest_to(solids, other, middle);
    fsi_real length = fsi__length(edge.along);
    fsi_real way = search->dt * fsi__length(fsi_vec_sub(v, beside.velocity));
    fsi_real reach = way + FSI_R(0.1) * thickness;
    if (!(beside.distance - length / 2 - thickness < reach))
        return;

    /* The nearest place against the nearer end. */
    fsi_real at_ends = fsi__min(fsi__nearest_to(solids, other, edge.from).distance,
                                fsi__nearest_to(solids, other, end).distance);
    fsi_real nearest = fsi__golden_section(fsi__edge_distance, &edge, 0, 1, 8);
    fsi_vec3 p = fsi_vec_mad(edge.from, edge.along, nearest);
    beside = fsi__nearest_to(solids, other, p);
    fsi_real gap = beside.distance - thickness;
    fsi_real clearly =
        way > thickness ? 0 : fsi__max(FSI_R(0.25) * thickness, FSI_R(0.01) * length);
    if (beside.distance < at_ends - clearly && gap < reach)
        fsi__external_add(search, solid, place[2], other, p, &beside, gap, 1u << 29 | (uint32_t)k);
}

/* All points and edges of an external against the other solid. Along a plane an edge is nearest at
 * an end. */
static void fsi__external_all(fsi__search *search, int solid, int other) {
    const fsi_solids *solids = search->solids;
    const fsi_external *external = fsi__external_of(solids, solid);
    int flat = 0;
    if (other < solids->desc.max_bodies) {
        fsi_shape_kind kind = solids->body[other].shape->kind;
        flat = kind == FSI_SHAPE_PLANE || kind == FSI_SHAPE_ROOM;
    }
    for (int i = 0; i < external->point_count; i++)
        fsi__external_point(search, solid, i, other);
    for (int i = 0; i < external->edge_count && !flat; i++)
        fsi__external_edge(search, solid, i, other);
}

/* Samples of rigid body a against the distance of external b. */
static void fsi__external_samples(fsi__search *search, int a, int b) {
    const fsi_external *external = fsi__external_of(search->solids, b);
    const fsi_rigid *body = search->solids->body + a;

    for (int part = 0; part < fsi__part_count(body->shape); part++) {
        fsi__placed placed = fsi__placed_part(body, part);
        const fsi_shape *shape = placed.shape;
        fsi_real thickness = shape->point_radius + external->radius;
        for (int i = 0; i < shape->point_count; i++) {
            fsi_vec3 p = fsi__pose_point(&placed.pose, fsi__vec_at(shape->point, i));
            fsi__nearest beside = fsi__nearest_to(search->solids, b, p);
            if (beside.point < 0 || !(beside.distance < FSI_REAL_MAX))
                continue;
            fsi_vec3 v = fsi__rigid_velocity(body, fsi_vec_sub(p, body->x));
            fsi_real way = search->dt * fsi__length(fsi_vec_sub(v, beside.velocity));
            fsi_real gap = beside.distance - thickness;
            fsi_vec3 at = fsi_vec_mad(p, beside.normal, -beside.distance);
            uint32_t feature = 1u << 30 | (uint32_t)part << 20 | (uint32_t)i;
            if (gap < way + FSI_R(0.02) * body->shape->bound)
                fsi__external_add(search, a, -1, b, at, &beside, gap, feature);
        }
    }
}

/* A pair of which b, or both, are externals. */
static void fsi__collide_external(fsi__search *search, uint64_t key) {
    const fsi_solids *solids = search->solids;
    int a = (int)((key >> 32) & 0x7fffffffu);
    int b = (int)(key & 0xffffffffu);
    const fsi_external *external_a = fsi__external_of(solids, a);
    const fsi_external *external_b = fsi__external_of(solids, b);
    fsi__search_pair(search, key);
    if (!external_a || external_a->distance_fn)
        fsi__external_all(search, b, a);
    if (!external_b->distance_fn)
        return;
    if (external_a)
        fsi__external_all(search, a, b);
    else if (!fsi__shape_static(solids->body[a].shape->kind))
        fsi__external_samples(search, a, b);
}

/* Finds all contacts of the coming step; `scale` is that of inherited impulses. */
static void fsi__collide(fsi_solids *solids, fsi_real dt, fsi_real scale) {
    struct fsi__solids_work *work = solids->work;
    fsi__search search = FSI__ZERO;
    search.solids = solids;
    search.dt = dt;
    search.scale = scale;
    search.old_count = solids->contact_count;
    memcpy(work->old, solids->contact, (size_t)search.old_count * sizeof *work->old);
    solids->contact_count = 0;
    for (int i = 0; i < solids->body_count + solids->enclosed; i++)
        solids->body[fsi__solid_number(solids, i)].touching = 0;
    for (int i = 0; i < solids->joint_count; i++) {
        solids->body[solids->joint[i].a].touching++;
        solids->body[solids->joint[i].b].touching++;
    }

    /* Pairs by their bounds, sorted; pairs with externals carry the top bit and stay behind. */
    fsi__jointed_make(solids);
    fsi__broad_phase(solids, dt);
    const uint64_t *pair = fsi__sort_keys(work->pairs, work->pair, work->pair_scratch);
    size_t rigid_pairs = fsi__lower_bound(work->pairs, pair, FSI__EXTERNAL_PAIR);
    fsi__collide_rigid(&search, pair, rigid_pairs);
    for (size_t i = rigid_pairs; i < work->pairs; i++)
        fsi__collide_external(&search, pair[i]);
}

/* ------------------------------------------------------------------------------------------------
 * >>step */
/* One step is fsi_solids_forces, [fsi_solids_hold, a coupled solve,] fsi_solids_move. A move is
     - all contacts of the step, in solving order,
     - for every substep: velocities, impulses, positions, impulses again, energy,
     - restitution,
     - what externals and bodies have gained from each other. */

/* p . M^-1 q of a body: for p = q twice the energy that the impulse gives to a body at rest. */
static fsi_real fsi__load_dot(const fsi_rigid *body, const fsi_wrench *p, const fsi_wrench *q) {
    fsi_vec3 turn = fsi_mat3_mul_vec(&body->inverse_inertia, q->angular);
    return body->inverse_mass * fsi_vec_dot(p->linear, q->linear) + fsi_vec_dot(p->angular, turn);
}

static fsi_wrench fsi__wrench_scale(fsi_wrench p, fsi_real scale) {
    p.linear = fsi_vec_scale(p.linear, scale);
    p.angular = fsi_vec_scale(p.angular, scale);
    return p;
}

/* p + scale q */
static fsi_wrench fsi__wrench_mad(fsi_wrench p, fsi_wrench q, fsi_real scale) {
    p.linear = fsi_vec_mad(p.linear, q.linear, scale);
    p.angular = fsi_vec_mad(p.angular, q.angular, scale);
    return p;
}

/* ---- hold: what contacts and joints will do, for a solve that must know before the move.

   A body of mass m and the fluid of mass m_a that moves with it have the net load G; the hold gives
   the impulse h. The solve then finds the velocity (G + h + m_a u) / (m + m_a), where the fluid had
   u, and contact answers with j = max(0, h - m times that). With h = the last j the error h + G
   shrinks by sqrt(m_a / (m + m_a)) a step for any masses; with h = 0 the fluid ends at G / m and
   stays there. Contacts with bodies that are not pushed go into the door besides
   (fsi__door_contacts), so the error is zero at once where m_a is large. */

static int fsi__is_held(const fsi_rigid *body) {
    return fsi__load_dot(body, &body->held, &body->held) > 0;
}

/* Takes back all that is held. */
static void fsi__hold_release(fsi_solids *solids) {
    for (int i = 0; i < solids->body_count; i++) {
        fsi_rigid *body = solids->body + i;
        if (fsi__is_held(body))
            fsi__rigid_push(body, &body->held, -1);
        memset(&body->held, 0, sizeof body->held);
    }
}

/* Repeats a share of the body's last push; scale is this step over the last one. */
static void fsi__hold_body(fsi_rigid *body, fsi_real dt, fsi_real scale) {
    const fsi_wrench *push = &body->push;
    fsi_real energy = fsi__load_dot(body, push, push);
    if (!(energy > 0))
        return;

    /* Three bounds on the share. */
    /* 1. Only what the last two pushes have in common: an impact is not repeated. */
    fsi_real common = fsi__load_dot(body, push, &body->push_before) / energy;

    /* 2. Less what the applied forces no longer ask for: a body pulled off its floor leaves at
     * once. */
    fsi_real needed = 1 + fsi__load_dot(body, push, &body->load_before) / energy
                      - fsi__load_dot(body, push, &body->load) / (energy * scale);

    /* 3. If the floor is gone, the body is thrown by at most half its own size. */
    fsi_real shove = dt * scale * fsi__sqrt(energy * body->inverse_mass);
    fsi_real safe = FSI_R(0.5) * body->shape->bound / shove;

    fsi_real share = fsi__min(fsi__min(fsi__min(1, common), needed), safe);
    if (!(share > 0))
        return;
    body->held = fsi__wrench_scale(*push, share * scale);
    fsi__rigid_push(body, &body->held, 1);
}

FSI_API fsi_result fsi_solids_hold(fsi_solids *solids, fsi_real dt) {
    if (!solids || !solids->block)
        return FSI_ERR_STATE;
    if (!fsi__positive(dt))
        return FSI_ERR_ARGUMENT;

    fsi__hold_release(solids);
    solids->work->hold_dt = dt;
    fsi_real last = solids->work->last_h * (fsi_real)solids->desc.substeps;
    for (int i = 0; i < solids->body_count && last > 0; i++)
        fsi__hold_body(solids->body + i, dt, dt / last);
    return FSI_OK;
}

/* ---- forces */

/* v* = v + dt (g + F / m), L* = L + dt T, then damping. */
static void fsi__body_forces(const fsi_solids *solids, fsi_rigid *body, fsi_real dt) {
    fsi_vec3 acceleration = fsi_vec_mad(solids->desc.gravity, body->force, body->inverse_mass);
    body->v = fsi_vec_mad(body->v, acceleration, dt);
    body->L = fsi_vec_mad(body->L, body->torque, dt);
    if (solids->desc.dim == 2) {
        body->v.z = 0;
        body->L.x = body->L.y = 0;
    }
    if (body->linear_damping > 0)
        body->v = fsi_vec_scale(body->v, fsi__exp(-dt * body->linear_damping));
    if (body->angular_damping > 0)
        body->L = fsi_vec_scale(body->L, fsi__exp(-dt * body->angular_damping));
    fsi__rigid_turned(body, body->L);

    body->load_before = body->load;
    body->load.linear = fsi_vec_scale(fsi_vec_sub(body->v, body->v_start), body->mass);
    body->load.angular = fsi_vec_sub(body->L, body->L_start);
}

FSI_API fsi_result fsi_solids_forces(fsi_solids *solids, fsi_real dt) {
    if (!solids || !solids->block)
        return FSI_ERR_STATE;
    if (!fsi__positive(dt))
        return FSI_ERR_ARGUMENT;

    for (int i = 0; i < solids->body_count; i++)
        if (!fsi__finite_vec(solids->body[i].force) || !fsi__finite_vec(solids->body[i].torque))
            return FSI_ERR_NUMERIC;
    fsi__hold_release(solids);
    for (int i = 0; i < solids->body_count; i++) {
        fsi_rigid *body = solids->body + i;
        body->v_start = body->v;
        body->L_start = body->L;
        if (body->kind == FSI_RIGID_DYNAMIC)
            fsi__body_forces(solids, body, dt);
        body->force = body->torque = fsi_vec(0, 0, 0);
    }

    return FSI_OK;
}

/* ---- a substep */

/* The solver's velocities become the bodies': L takes I (w' - w), so bodies that were not touched
 * keep L to the bit. */
static void fsi__velocity_take(fsi_rigid *body, const fsi__velocity *velocity) {
    if (body->kind != FSI_RIGID_DYNAMIC)
        return;

    fsi_vec3 turn = fsi_vec_sub(velocity->spin, body->spin);
    body->v = velocity->v;
    if (turn.x == 0 && turn.y == 0 && turn.z == 0)
        return;
    body->L = fsi_vec_add(body->L, fsi__inertia_mul(body, turn));
    body->spin = velocity->spin;
}

/* The solver's copy of a body. */
static void fsi__velocity_give(const fsi_rigid *body, fsi__velocity *velocity) {
    velocity->v = body->v;
    velocity->spin = body->spin;
    velocity->inverse_mass = body->inverse_mass;
    velocity->inverse_inertia = body->inverse_inertia;
}

/* Every body gets the substep's share of what forces and coupling have changed. */
static void fsi__substep_begin(fsi_solids *solids, const fsi__step *step) {
    struct fsi__solids_work *work = solids->work;
    ptrdiff_t n = solids->body_count;
    FSI__PARALLEL(n > 512)
    for (ptrdiff_t i = 0; i < n; i++) {
        fsi_rigid *body = solids->body + i;
        const fsi_wrench *change = work->change + i;
        if (body->kind == FSI_RIGID_DYNAMIC) {
            body->v = fsi_vec_mad(body->v, change->linear, step->share);
            fsi__rigid_turned(body, fsi_vec_mad(body->L, change->angular, step->share));
        }
        fsi__velocity_give(body, work->vel + i);
        memset(work->taken + i, 0, sizeof *work->taken);
    }
}

/* Most sweeps of a violent substep: one where contacts are still met a hundredth of their size too
 * far. */
#define FSI__SWEEPS 32

/* Sweeps over all joints and contacts. */
static void fsi__substep_solve(fsi_solids *solids, const fsi__step *step, int opening) {
    fsi_real left = 0;
    for (int pass = 0; pass < solids->desc.iterations || (left > FSI_R(0.01) && pass < FSI__SWEEPS);
         pass++) {
        left = 0;
        fsi__joints_solve(solids, step, opening);
        for (int i = 0; i < solids->contact_count; i++) {
            fsi_contact *contact = solids->contact + (solids->work->order[i] & 0xffffffffu);
            int touches = contact->gap < FSI_R(0.1) * contact->size;
            if (contact->friction > 0 && touches)
                fsi__contact_friction(solids, contact);
            left = fsi__max(left, fsi__contact_normal(solids, contact, step, opening));
        }
    }
}

/* ---- energy of a substep. From v over v' = v + h f / m to v'' after the impulses, kinetic energy
   less the work of the forces changes by
       E(v'') - E(v) - (p' - p) . v'' = -|v'' - v|^2 / 2 + impulses . v''.
   The last term is <= 0 for contacts, joints and springs that are solved to the end; motors,
   scripted bodies and other solids add their own work. What is left above 0 comes from unfinished
   sweeps: a share of all impulses is then taken back. */

/* Does contact or a joint act on the body in this step? */
static int fsi__is_touched(const fsi_rigid *body) {
    return body->kind == FSI_RIGID_DYNAMIC && body->touching;
}

/* Kinetic energy of the touched bodies at the solver's velocities, J. */
static double fsi__touching_energy(const fsi_solids *solids) {
    double energy = 0;
    for (int i = 0; i < solids->body_count; i++) {
        const fsi_rigid *body = solids->body + i;
        const fsi__velocity *velocity = solids->work->vel + i;
        if (!fsi__is_touched(body))
            continue;
        fsi_vec3 spin = fsi_mat3_tmul_vec(&body->rotation, velocity->spin);
        fsi_real twice = body->mass * fsi_vec_dot(velocity->v, velocity->v)
                         + fsi_vec_dot(spin, fsi_mat3_mul_vec(&body->inertia_body, spin));
        energy += (double)twice / 2;
    }
    return energy;
}

/* Energy of a joint's spring, J. */
static double fsi__spring_energy(const fsi_joint *joint, const fsi__joint_rows *rows) {
    if (!rows->free || !(joint->stiffness > 0))
        return 0;
    double stretch = (double)(rows->row[FSI__JOINT_FREE].error - joint->rest);
    return (double)joint->stiffness * stretch * stretch / 2;
}

/* Of all springs at the present poses (work->rows), J. */
static double fsi__springs_energy(const fsi_solids *solids) {
    double energy = 0;
    for (int i = 0; i < solids->joint_count; i++)
        energy += fsi__spring_energy(solids->joint + i, solids->work->rows + i);
    return energy;
}

/* Work of the externals on the others through the impulses of the substep: minus impulse times
 * velocity at their end. *known: of those with energy_fn. */
static double fsi__others_work(const fsi_solids *solids, double *known) {
    double sum = 0;
    *known = 0;

    for (int i = 0; i < solids->contact_count; i++) {
        const fsi_contact *contact = solids->contact + i;
        const fsi_contact_end *end[2] = {&contact->a, &contact->b};
        fsi_vec3 impulse = fsi__contact_impulse(contact);
        if (impulse.x == 0 && impulse.y == 0 && impulse.z == 0)
            continue;
        for (int k = 0; k < 2; k++) {
            const fsi_external *external = fsi__external_of(solids, end[k]->solid);
            if (!external)
                continue;
            double work =
                (double)fsi_vec_dot(impulse, fsi__end_velocity(solids, end[k], contact->at));
            if (end[k] == &contact->a)
                work = -work;
            sum += work;
            if (external->energy_fn)
                *known += work;
        }
    }

    return sum;
}

/* Work of motors, with a share of their impulses, and of scripted bodies, J. */
static double fsi__drive_work(const fsi_solids *solids, double share) {
    double sum = 0;
    for (int i = 0; i < solids->joint_count; i++) {
        const fsi_joint *joint = solids->joint + i;
        const fsi__row *row = solids->work->rows[i].row + FSI__JOINT_FREE;
        if (joint->motor)
            sum += share * (double)(joint->impulse_free * fsi__row_velocity(solids, joint, row));
    }
    for (int i = 0; i < solids->body_count; i++) {
        const fsi_rigid *body = solids->body + i;
        const fsi_wrench *taken = solids->work->taken + i;
        if (body->kind == FSI_RIGID_SCRIPTED)
            sum -= (double)(fsi_vec_dot(taken->linear, body->v)
                            + fsi_vec_dot(taken->angular, body->spin));
    }

    return sum;
}

/* Energy less work with this share of the impulses in the solver's velocities, J. */
static double fsi__substep_balance(const fsi_solids *solids, const fsi__step *step, double share) {
    double energy = fsi__touching_energy(solids) - fsi__drive_work(solids, share);
    double known;
    if (solids->external_count)
        energy -= share * fsi__others_work(solids, &known);
    for (int i = 0; i < solids->body_count; i++) {
        const fsi_rigid *body = solids->body + i;
        const fsi__velocity *velocity = solids->work->vel + i;
        const fsi_wrench *change = solids->work->change + i;
        if (fsi__is_touched(body))
            energy -= (double)(step->share
                               * (body->mass * fsi_vec_dot(change->linear, velocity->v)
                                  + fsi_vec_dot(change->angular, velocity->spin)));
    }
    return energy;
}

/* Applies a share of all impulses of the substep once more. */
static void fsi__impulses_again(fsi_solids *solids, double share) {
    for (int i = 0; i < solids->joint_count; i++)
        fsi__joint_warm(solids, solids->joint + i, solids->work->rows + i, (fsi_real)share);
    for (int i = 0; i < solids->contact_count; i++)
        fsi__contact_warm(solids, solids->contact + i, (fsi_real)share);
}

/* Takes back the smallest share of the impulses that leaves no energy from nowhere. energy: kinetic
   at the start less what springs have gained since. Returns the share that stays; *left: J gained
   (+) or lost (-). Not fsi__safe_share: while a spring is stretched, no impulses at all are not
   safe either, and the lowest point is then the best there is. */
static double fsi__substep_guard(fsi_solids *solids, const fsi__step *step, double energy,
                                 double *left) {
    double all = fsi__substep_balance(solids, step, 1) - energy;
    *left = all;
    if (!(all > 4 * (double)FSI_REAL_EPS * fabs(energy)))
        return 1;

    fsi__impulses_again(solids, -0.5);
    double half = fsi__substep_balance(solids, step, 0.5) - energy;
    fsi__impulses_again(solids, -0.5);
    double none = fsi__substep_balance(solids, step, 0) - energy;

    /* The parabola a s^2 + b s + all for the share s taken back: its first zero, or its lowest
     * point. */
    double a = 2 * (all - 2 * half + none);
    double b = 4 * half - 3 * all - none;
    double root = b * b - 4 * a * all;
    double back = 0;
    if (b < 0)
        back = root >= 0 ? 2 * all / (sqrt(root) - b) : -b / (2 * a);
    if (!(back > 0))
        back = 0;
    if (!(back < 1))
        back = 1;
    fsi__impulses_again(solids, 1 - back);
    *left = (a * back + b) * back + all;

    return 1 - back;
}

/* Work of the substep for the report. Bodies that touch nothing fly the exact parabola: force times
 * the mean velocity; else times the last. */
static void fsi__substep_ledger(const fsi_solids *solids, fsi__step *step, double share,
                                double left) {
    fsi__ledger *ledger = &solids->work->ledger;
    double known = 0;
    ledger->drive += fsi__drive_work(solids, share);
    if (solids->external_count)
        ledger->others += share * fsi__others_work(solids, &known);
    step->known += share * known;
    step->lost -= left < 0 ? left : 0;
    ledger->work += left > 0 ? left : 0;

    for (int i = 0; i < solids->body_count; i++) {
        const fsi_rigid *body = solids->body + i;
        const fsi__velocity *velocity = solids->work->vel + i;
        const fsi_wrench *change = solids->work->change + i;
        if (body->kind != FSI_RIGID_DYNAMIC)
            continue;
        fsi_real mean = body->touching ? 0 : step->share / 2;
        fsi_vec3 dv = fsi_vec_sub(fsi_vec_scale(change->linear, step->share),
                                  fsi_vec_scale(solids->desc.gravity, step->h));
        fsi_vec3 v = fsi_vec_mad(velocity->v, change->linear, -mean);
        fsi_vec3 turn = fsi_mat3_mul_vec(&body->inverse_inertia, change->angular);
        fsi_vec3 spin = fsi_vec_mad(velocity->spin, turn, -mean);
        ledger->applied += (double)(body->mass * fsi_vec_dot(dv, v)
                                    + step->share * fsi_vec_dot(change->angular, spin));
    }
}

/* Gaps follow the normal velocity. The point lies in the middle of a gap: it comes nearer as that
 * closes. */
static void fsi__gap_move(const fsi_solids *solids, fsi_contact *contact, fsi_real h) {
    fsi_vec3 va = fsi__end_velocity(solids, &contact->a, contact->at);
    fsi_vec3 vb = fsi__end_velocity(solids, &contact->b, contact->at);
    int lead_a = contact->lead == contact->a.solid;
    fsi_real before = fsi__max(contact->gap, 0);
    contact->gap += h * fsi_vec_dot(contact->normal, fsi_vec_sub(va, vb));
    fsi_real closed = (before - fsi__max(contact->gap, 0)) / 2;
    if (lead_a)
        contact->a.arm = fsi_vec_mad(contact->a.arm, contact->normal, closed);
    else
        contact->b.arm = fsi_vec_mad(contact->b.arm, contact->normal, -closed);
    if (fsi__external_of(solids, contact->lead))
        contact->at = fsi_vec_mad(contact->at, lead_a ? va : vb, h);
}

static void fsi__body_move(fsi_solids *solids, int i, const fsi__step *step) {
    fsi_rigid *body = solids->body + i;
    if (body->kind == FSI_RIGID_FIXED)
        return;

    fsi__velocity_take(body, solids->work->vel + i);
    body->x = fsi_vec_mad(body->x, body->v, step->h);

    /* Free flight: the exact parabola. */
    if (body->touching == 0 && body->kind == FSI_RIGID_DYNAMIC)
        body->x = fsi_vec_mad(body->x, solids->work->change[i].linear, -step->h * step->share / 2);
    fsi__rigid_turn(body, step->h, solids->desc.dim);
    fsi__rigid_refresh(body, solids->desc.dim);
    fsi__velocity_give(body, solids->work->vel + i);
}

/* The arm of an end ends in the contact point. Returns 1 when the point has left the body: with the
 * masses of shorter arms its impulses would grow from sweep to sweep. */
static int fsi__arm_move(const fsi_solids *solids, fsi_contact_end *end, fsi_vec3 at) {
    if (end->solid >= solids->desc.max_bodies)
        return 0;

    const fsi_rigid *body = solids->body + end->solid;
    fsi_real bound = body->shape->bound;
    end->arm = fsi_vec_sub(at, body->x);
    return body->inverse_mass > 0 && fsi_vec_dot(end->arm, end->arm) > 4 * bound * bound;
}

/* Everything moves for h; a contact's point goes with its leading end, and both arms end in it:
 * momentum stays exact. */
static void fsi__substep_move(fsi_solids *solids, const fsi__step *step) {
    ptrdiff_t n = solids->body_count;

    /* First the externals: a soft body settles its velocities when it moves. */
    fsi__externals_advance(solids, step->h);
    for (int k = 0; k < solids->contact_count; k++)
        fsi__gap_move(solids, solids->contact + k, step->h);
    FSI__PARALLEL(n > 512)
    for (ptrdiff_t i = 0; i < n; i++)
        fsi__body_move(solids, (int)i, step);
    for (int k = 0; k < solids->contact_count; k++) {
        fsi_contact *contact = solids->contact + k;
        const fsi_contact_end *lead = contact->lead == contact->a.solid ? &contact->a : &contact->b;
        if (contact->lead < solids->desc.max_bodies)
            contact->at = fsi_vec_add(solids->body[contact->lead].x, lead->arm);
        int long_a = fsi__arm_move(solids, &contact->a, contact->at);
        int long_b = fsi__arm_move(solids, &contact->b, contact->at);
        if (long_a || long_b)
            fsi__contact_masses(solids, contact);
    }
    fsi__joint_factor(solids);
}

/* Does a joint fight against something it cannot move (a scripted body, a wall): its rows are not
   met, though its impulse alone would throw the lighter body a hundredth of its radius in the
   substep? */
static int fsi__joint_fights(const fsi_solids *solids, const fsi_joint *joint,
                             const fsi__joint_rows *rows, fsi_real h) {
    const fsi_rigid *body_a = solids->body + joint->a;
    const fsi_rigid *body_b = solids->body + joint->b;
    fsi_real size = fsi__min(body_a->shape->bound, body_b->shape->bound);
    fsi_real inverse_mass = fsi__max(body_a->inverse_mass, body_b->inverse_mass);
    fsi_real pull = 0;
    fsi_real open = 0;
    for (int i = 0; i < rows->n; i++) {
        const fsi__row *row = rows->row + i;
        fsi_real arm = fsi__row_is_force(row) ? FSI_R(1.) : size; /* m of a turn, N s of a twist */
        pull = fsi__max(pull, fsi__abs(joint->impulse[i]) / arm);
        open = fsi__max(open, fsi__abs(fsi__row_velocity(solids, joint, row)) * arm);
    }
    if (rows->free && joint->impulse_limit != 0) {
        fsi_real arm = joint->kind == FSI_JOINT_HINGE ? size : FSI_R(1.);
        fsi_real speed = fsi__row_velocity(solids, joint, rows->row + FSI__JOINT_FREE);
        pull = fsi__max(pull, fsi__abs(joint->impulse_limit) / arm);
        open = fsi__max(open, (joint->impulse_limit > 0 ? -speed : speed) * arm);
    }

    return pull * inverse_mass * h > FSI_R(0.01) * size && open * h > FSI_R(1e-4) * size;
}

/* The number of the pile that a body is in. */
static int fsi__pile_of(const fsi_solids *solids, int body) {
    int32_t *label = solids->work->label;
    while (label[body] != body) {
        label[body] = label[label[body]];
        body = label[body];
    }
    return body;
}

/* Bodies tied by contacts become one pile with lower number; an end that is no dynamic body ties
   nothing. */
static void fsi__pile_join(const fsi_solids *solids, int a, int b) {
    int bodies = solids->body_count;
    if (a >= bodies || b >= bodies || !(solids->body[a].inverse_mass > 0)
        || !(solids->body[b].inverse_mass > 0))
        return;
    a = fsi__pile_of(solids, a);
    b = fsi__pile_of(solids, b);
    solids->work->label[fsi__imax(a, b)] = fsi__imin(a, b);
}

/* What one contact of a pile can have to carry: a few times the momentum that all of it has, gets
   in this step, or would have at the speed of the fastest body that pushes it and is not pushed.
   Joints and other solids may press harder. */
static void fsi__pile_limits(fsi_solids *solids) {
    struct fsi__solids_work *work = solids->work;
    fsi_real fastest = 0;
    for (int i = 0; i < solids->body_count; i++) {
        work->label[i] = i;
        work->most[i] = 0;
    }
    for (int i = 0; i < solids->contact_count; i++) {
        const fsi_contact *contact = solids->contact + i;
        fsi__pile_join(solids, contact->a.solid, contact->b.solid);
    }
    for (int i = 0; i < solids->body_count; i++)
        if (solids->body[i].kind == FSI_RIGID_SCRIPTED && solids->body[i].touching)
            fastest = fsi__max(fastest, fsi__length(solids->body[i].v)
                                            + fsi__length(solids->body[i].spin)
                                                  * solids->body[i].shape->bound);
    for (int i = 0; i < solids->body_count; i++) {
        const fsi_rigid *body = solids->body + i;
        fsi_real speed = fastest + fsi__length(body->v) + fsi__length(work->change[i].linear)
                         + body->shape->bound * fsi__length(body->spin);
        if (body->inverse_mass > 0)
            work->most[fsi__pile_of(solids, i)] += 8 * body->mass * speed;
    }
    for (int i = 0; i < solids->joint_count; i++) {
        work->most[fsi__pile_of(solids, solids->joint[i].a)] = FSI_REAL_MAX;
        work->most[fsi__pile_of(solids, solids->joint[i].b)] = FSI_REAL_MAX;
    }
}

/* Does the contact carry more than its pile can ask for? */
static int fsi__contact_fights(const fsi_solids *solids, const fsi_contact *contact) {
    int end[2] = {contact->a.solid, contact->b.solid};
    fsi_real most = 0;
    for (int k = 0; k < 2; k++) {
        if (fsi__external_of(solids, end[k]))
            return 0;
        if (end[k] < solids->body_count)
            most = fsi__max(most, solids->work->most[fsi__pile_of(solids, end[k])]);
    }
    return contact->impulse > most;
}

/* Where contacts and joints contradict each other (a body between closing walls) no impulses fit,
   and the guess for the next substep would grow without bound: where the sweep left an approach of
   a tenth of a radius a substep, or a contact carries more than its pile can ask for, contact and
   joints of both bodies start from nothing. */
static void fsi__guess_drop(fsi_solids *solids, const fsi__step *step) {
    int32_t *stuck = solids->work->stuck;
    for (int i = 0; i < fsi__solid_count(solids); i++)
        stuck[fsi__solid_number(solids, i)] = 0;

    for (int i = 0; i < solids->contact_count; i++) {
        fsi_contact *contact = solids->contact + i;
        fsi_real allowed = FSI_R(-0.1) * contact->size - fsi__max(0, contact->gap);
        int fights = fsi__contact_fights(solids, contact);
        if (!fights && fsi__normal_velocity(solids, contact) * step->h >= allowed)
            continue;
        solids->work->infeasible |= fights;
        contact->impulse = contact->impulse_t[0] = contact->impulse_t[1] = 0;
        stuck[contact->a.solid] = stuck[contact->b.solid] = 1;
    }
    for (int i = 0; i < solids->joint_count; i++) {
        fsi_joint *joint = solids->joint + i;
        if (stuck[joint->a] || stuck[joint->b]
            || fsi__joint_fights(solids, joint, solids->work->rows + i, step->h))
            fsi__joint_forget(joint);
    }
}

/* Work of gravity on the bodies as they move for h, J. */
static double fsi__gravity_work(const fsi_solids *solids, fsi_real h, double sum, double sign) {
    for (int i = 0; i < solids->body_count; i++) {
        const fsi_rigid *body = solids->body + i;
        if (body->kind == FSI_RIGID_DYNAMIC)
            sum += sign * (double)(h * body->mass * fsi_vec_dot(solids->desc.gravity, body->v));
    }
    return sum;
}

static void fsi__substep(fsi_solids *solids, fsi__step *step) {
    fsi__ledger *ledger = &solids->work->ledger;
    double energy = fsi__touching_energy(solids) + fsi__springs_energy(solids);
    fsi__substep_begin(solids, step);
    fsi__impulses_again(solids, 1);
    fsi__substep_solve(solids, step, 1);
    fsi__substep_move(solids, step);
    fsi__substep_solve(solids, step, 0);

    /* Bodies moved by v and keep the solver's velocity: the difference opened overlaps against
     * gravity. */
    ledger->work = fsi__gravity_work(solids, step->h, ledger->work, -1);
    double left;
    double share = fsi__substep_guard(solids, step, energy - fsi__springs_energy(solids), &left);
    fsi__substep_ledger(solids, step, share, left);
    for (int i = 0; i < solids->body_count; i++)
        fsi__velocity_take(solids->body + i, solids->work->vel + i);
    ledger->work = fsi__gravity_work(solids, step->h, ledger->work, 1);
    fsi__guess_drop(solids, step);
}

/* ---- a step */

/* Contacts are solved from the ground up: impulses then carry through a pile in one sweep. 1024
 * layers, each in list order. */
static void fsi__contact_order(fsi_solids *solids) {
    struct fsi__solids_work *work = solids->work;
    fsi_vec3 gravity = solids->desc.gravity;
    fsi_real lo = FSI_REAL_MAX;
    fsi_real hi = -FSI_REAL_MAX;
    for (int i = 0; i < solids->contact_count; i++) {
        fsi_real height = -fsi_vec_dot(gravity, solids->contact[i].at);
        lo = fsi__min(lo, height);
        hi = fsi__max(hi, height);
    }
    fsi_real scale = hi > lo ? 1023 / (hi - lo) : 0;
    for (int i = 0; i < solids->contact_count; i++) {
        fsi_real height = -fsi_vec_dot(gravity, solids->contact[i].at);
        work->pair[i] = (uint64_t)((height - lo) * scale) << 32 | (uint64_t)i;
    }
    work->order = fsi__sort_keys((size_t)solids->contact_count, work->pair, work->pair_scratch);
}

/* Do forces alone carry a touching body half its radius in a substep? No contact can follow that.
 */
static int fsi__step_long(const fsi_solids *solids, const fsi__step *step) {
    for (int i = 0; i < solids->body_count; i++) {
        const fsi_rigid *body = solids->body + i;
        fsi_real way = step->h * step->share * fsi__length(solids->work->change[i].linear);
        if (fsi__is_touched(body) && way > body->shape->bound / 2)
            return 1;
    }
    return 0;
}

/* Length scale of one end of a contact: points of other solids stand for a twentieth of them. */
static fsi_real fsi__end_size(const fsi_solids *solids, const fsi_contact_end *end) {
    const fsi_external *external = fsi__external_of(solids, end->solid);
    if (!external)
        return solids->body[end->solid].shape->bound;
    fsi_vec3 width = fsi_vec_sub(solids->work->hi[end->solid], solids->work->lo[end->solid]);
    return fsi__max(external->radius, FSI_R(0.05) * fsi__length(width));
}

/* An external is told of the contact point. */
static void fsi__end_touch(const fsi_solids *solids, const fsi_contact_end *end, fsi_vec3 at) {
    const fsi_external *external = fsi__external_of(solids, end->solid);
    if (external && external->touch_fn)
        external->touch_fn(end->point, at, external->user);
}

/* Rates and masses of the step. Bodies go back to the velocities before the forces: approach speeds
 * are those, so resting contacts do not bounce. */
static void fsi__step_prepare(fsi_solids *solids, fsi__step *step, fsi_real dt) {
    memset(step, 0, sizeof *step);
    step->n = solids->desc.substeps;
    step->h = dt / (fsi_real)step->n;
    step->share = 1 / (fsi_real)step->n;
    step->slop = solids->desc.slop;
    step->spring = fsi__spring_make(10, step->h);

    for (int i = 0; i < solids->body_count; i++) {
        fsi_rigid *body = solids->body + i;
        fsi_wrench *change = solids->work->change + i;
        if (body->kind == FSI_RIGID_DYNAMIC) {
            change->linear = fsi_vec_sub(body->v, body->v_start);
            change->angular = fsi_vec_sub(body->L, body->L_start);
            body->v = body->v_start;
            fsi__rigid_turned(body, body->L_start);
        }
        fsi__velocity_give(body, solids->work->vel + i);
    }
    for (int i = 0; i < solids->contact_count; i++) {
        const fsi_contact *contact = solids->contact + i;
        fsi__end_touch(solids, &contact->a, contact->at);
        fsi__end_touch(solids, &contact->b, contact->at);
    }
    for (int i = 0; i < solids->contact_count; i++) {
        fsi_contact *contact = solids->contact + i;
        fsi_real size_a = fsi__end_size(solids, &contact->a);
        contact->size = fsi__min(size_a, fsi__end_size(solids, &contact->b));
        if (!fsi__external_of(solids, contact->b.solid))
            contact->lead = contact->size == size_a ? contact->a.solid : contact->b.solid;
        fsi__contact_prepare(solids, contact);
    }
    fsi__joint_factor(solids);
}

/* All together: what the bodies gained from the externals beside what those have. An excess is
 * taken out of the motion inside them. */
static void fsi__step_balance(fsi_solids *solids, double gained) {
    for (int i = 0; i < solids->external_count; i++)
        if (solids->external[i].energy_fn)
            gained += solids->external[i].energy_fn(0, solids->external[i].user);
    for (int i = 0; i < solids->external_count && gained > 0; i++)
        if (solids->external[i].energy_fn)
            gained -= solids->external[i].energy_fn(gained, solids->external[i].user);
    if (gained > 0)
        solids->work->ledger.work += gained;
}

/* Restitution, the end of the externals' step, and the energy of both. */
static void fsi__step_bounce(fsi_solids *solids, const fsi__step *step, fsi_real threshold) {
    fsi__ledger *ledger = &solids->work->ledger;
    memset(solids->work->taken, 0, (size_t)solids->body_count * sizeof *solids->work->taken);
    double before = fsi__touching_energy(solids);
    double bounce = fsi__contact_restitution(solids, threshold, step->lost);
    double kinetic = fsi__touching_energy(solids) - before;
    double driven = fsi__drive_work(solids, 0);
    ledger->drive += driven;
    ledger->others += kinetic - driven - bounce; /* minus what restitution gave to other solids */
    fsi__externals_advance(solids, -1);
    if (solids->external_count)
        fsi__step_balance(solids, step->known - step->lost + kinetic - driven);
}

/* The body after a move: its velocity, and what contact and joints gave it. */
static void fsi__body_finish(fsi_solids *solids, int i) {
    fsi_rigid *body = solids->body + i;
    const fsi_rigid *before = solids->work->before + i;
    fsi_wrench push;
    fsi__velocity_take(body, solids->work->vel + i);
    body->v_start = body->v;
    body->L_start = body->L;
    push.linear = fsi_vec_scale(fsi_vec_sub(body->v, before->v), body->touching ? body->mass : 0);
    push.angular = fsi_vec_scale(fsi_vec_sub(body->L, before->L), body->touching ? 1 : 0);
    body->push_before = body->push;
    body->push = fsi__wrench_mad(push, body->kept, 1);
    memset(&body->kept, 0, sizeof body->kept);
}

/* Bodies that meet at many times their size per step can drive the impulses out of range: these
 * bodies stop where they were, with nothing to start from. */
static int fsi__step_rescue(fsi_solids *solids) {
    int lost = 0;
    for (int i = 0; i < solids->body_count; i++) {
        fsi_rigid *body = solids->body + i;
        int placed = fsi__finite_vec(body->x) && fsi__finite(body->q.w);
        int moves = fsi__finite_vec(body->v) && fsi__finite_vec(body->spin);
        if (placed && moves && fsi__finite_vec(body->L))
            continue;
        *body = solids->work->before[i];
        body->v = body->spin = body->L = body->v_start = body->L_start = fsi_vec(0, 0, 0);
        memset(&body->push, 0, sizeof body->push);
        lost++;
    }
    if (!lost)
        return 0;

    solids->contact_count = 0;
    for (int i = 0; i < solids->joint_count; i++)
        fsi__joint_forget(solids->joint + i);

    return lost;
}

/* Is a body pressed into a scripted one by a tenth of the smaller one's size or more? */
static int fsi__any_crushed(const fsi_solids *solids) {
    for (int i = 0; i < solids->contact_count; i++) {
        const fsi_contact *contact = solids->contact + i;
        int end[2] = {contact->a.solid, contact->b.solid};
        int scripted = 0;
        for (int k = 0; k < 2; k++)
            scripted |=
                end[k] < solids->body_count && solids->body[end[k]].kind == FSI_RIGID_SCRIPTED;
        if (scripted && contact->impulse > 0 && contact->gap < FSI_R(-0.1) * contact->size)
            return 1;
    }
    return 0;
}

FSI_API fsi_result fsi_solids_move(fsi_solids *solids, fsi_real dt) {
    if (!solids || !solids->block)
        return FSI_ERR_STATE;
    if (!fsi__positive(dt))
        return FSI_ERR_ARGUMENT;

    for (int i = 0; i < solids->body_count; i++)
        if (!fsi__finite_vec(solids->body[i].v) || !fsi__finite_vec(solids->body[i].L))
            return FSI_ERR_NUMERIC;
    fsi__ledger *ledger = &solids->work->ledger;
    fsi__hold_release(solids);
    memcpy(solids->work->before, solids->body, (size_t)solids->body_count * sizeof *solids->body);
    memset(ledger, 0, sizeof *ledger);

    /* Contacts and joints begin with the impulses of the last step; a longer step never multiplies
     * them. */
    fsi_real h = dt / (fsi_real)solids->desc.substeps;
    fsi_real last = solids->work->last_h;
    fsi_real scale = last > 0 ? fsi__min(1, h / last) : 0;
    fsi__collide(solids, dt, scale);
    fsi__contact_order(solids);
    fsi__step step;
    fsi__step_prepare(solids, &step, dt);
    int too_long = fsi__step_long(solids, &step);
    fsi__pile_limits(solids);
    solids->work->infeasible = 0;
    for (int i = 0; i < solids->joint_count; i++) {
        fsi__joint_scale(solids->joint + i, scale);
        solids->joint[i].limited = 0;
    }

    for (int k = 0; k < step.n; k++)
        fsi__substep(solids, &step);

    fsi__step_bounce(solids, &step, fsi__bounce_speed(solids, dt));

    for (int i = 0; i < solids->body_count; i++)
        fsi__body_finish(solids, i);
    solids->work->last_h = step.h;
    solids->time += (double)dt;
    if (fsi__step_rescue(solids) || solids->work->capped)
        return FSI_CAPPED;
    if (too_long)
        return FSI_DT_TOO_LARGE;
    return solids->work->infeasible || fsi__any_crushed(solids) ? FSI_INFEASIBLE : FSI_OK;
}

FSI_API fsi_result fsi_solids_step(fsi_solids *solids, fsi_real dt) {
    fsi_result result = fsi_solids_forces(solids, dt);
    return result == FSI_OK ? fsi_solids_move(solids, dt) : result;
}

static int fsi__external_valid(const fsi_external *external) {
    if (!external->velocity_fn || !external->inverse_mass_fn || !external->impulse_fn)
        return 0;
    if (external->point_count < 0 || (external->point_count > 0 && !external->x))
        return 0;
    if (external->edge_count < 0 || (external->edge_count > 0 && !external->edge))
        return 0;
    return fsi__none_negative(1, &external->radius) && fsi__none_negative(1, &external->friction)
           && external->restitution >= 0 && external->restitution <= 1;
}

FSI_API fsi_result fsi_solids_set_externals(fsi_solids *solids, const fsi_external *external,
                                            int count) {
    if (!solids || !solids->block || count < 0 || (count > 0 && !external))
        return FSI_ERR_ARGUMENT;

    for (int i = 0; i < count; i++)
        if (!fsi__external_valid(external + i))
            return FSI_ERR_ARGUMENT;
    size_t all = (size_t)solids->desc.max_bodies + (size_t)count;
    if (all > FSI__SOLID_MASK)
        return FSI_ERR_SIZE;
    struct fsi__solids_work *work = solids->work;
    struct fsi__solids_work next = *work;
    fsi_arena arena = FSI__ZERO;
    fsi__broad_layout(&next, &arena, all);
    fsi_result result = fsi__arena_reopen(&arena, &work->broad, &solids->desc.allocator);
    if (result < 0)
        return result;

    fsi__broad_layout(work, &arena, all);
    solids->external = external;
    solids->external_count = count;
    return FSI_OK;
}

FSI_API fsi_real fsi_solids_max_dt(const fsi_solids *solids) {
    fsi_real dt = FSI_REAL_MAX;
    for (int i = 0; solids && i < solids->body_count; i++) {
        const fsi_rigid *body = solids->body + i;
        fsi_real speed = fsi__length(body->v);
        fsi_real spin = fsi__length(body->spin);
        if (speed > 0 && body->shape->thin < FSI_REAL_MAX)
            dt = fsi__min(dt, body->shape->thin / speed);
        if (spin > 0)
            dt = fsi__min(dt, (fsi_real)solids->desc.substeps / spin);
    }
    return dt;
}

/* ------------------------------------------------------------------------------------------------
 * >>doors of rigid bodies */
/* A rigid body as a coupled solid has the generalised velocity (v, spin) and the rows
       dir . (v + spin x r) = dir . v + (r x dir) . spin.
   Joints with bodies that are not pushed, and contacts of a held body with such bodies, are rows
   inside the door: they are taken out of its velocity and of its inverse mass. Bodies that joints
   tie to each other share one door, with 6 degrees of freedom each. */
FSI_API fsi_result fsi_solids_surface(const fsi_solids *solids, int body, fsi_real *x, fsi_real *v,
                                      fsi_surface *out) {
    if (!fsi__solids_has(solids, body) || !x || !out)
        return FSI_ERR_ARGUMENT;

    const fsi_rigid *rigid = solids->body + body;
    const fsi_surface *surface = &rigid->shape->surface;
    for (int i = 0; i < surface->vertex_count; i++) {
        fsi_vec3 r = fsi_mat3_mul_vec(&rigid->rotation, fsi__vec_at(surface->x, i));
        fsi__vec_put(x, i, fsi_vec_add(rigid->x, r));
        if (v)
            fsi__vec_put(v, i, fsi__rigid_velocity(rigid, r));
    }
    *out = *surface;
    out->x = x;
    out->v = v;
    return FSI_OK;
}

static void fsi__rigid_row(const fsi_coupled *self, int element, const fsi_real *weight,
                           fsi_vec3 point, fsi_vec3 dir, fsi_real *row) {
    const fsi__door *door = (const fsi__door *)self->user;
    int part = self->dof / 6 - 1;
    (void)weight;
    while (part > 0 && element < door->all[door->member[part]]->first)
        part--;
    fsi_fill((size_t)self->dof, 0, row);
    fsi_vec3 arm = fsi_vec_sub(point, door->all[door->member[part]]->centre);
    fsi_vec_store(row + 6 * part, dir);
    fsi_vec_store(row + 6 * part + 3, fsi_vec_cross(arm, dir));
}

/* Takes row r out of an inverse mass [n * n] for good: g = M^-1 r and M^-1 -= g g^T / r . g. free
 * is its diagonal before any row. Returns r . g, 0 where rows taken before leave less than `least`
 * of this one. */
static fsi_real fsi__motion_take(int n, fsi_real *inverse_mass, const fsi_real *free,
                                 const fsi_real *r, fsi_real least, fsi_real *g) {
    fsi_real full = 0;
    fsi_real rg = 0;
    for (int i = 0; i < n; i++) {
        g[i] = 0;
        for (int k = 0; k < n; k++)
            g[i] += inverse_mass[n * i + k] * r[k];
        full += r[i] * r[i] * free[i];
        rg += r[i] * g[i];
    }
    if (!(rg > least * full))
        return 0;

    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            inverse_mass[n * i + k] -= g[i] * g[k] / rg;
    return rg;
}

/* Row r with its answers g and rg gets r . v = target; rows taken before it keep theirs. */
static void fsi__motion_meet(int n, fsi_real *v, const fsi_real *r, const fsi_real *g, fsi_real rg,
                             fsi_real target) {
    fsi_real rv = 0;
    for (int i = 0; i < n; i++)
        rv += r[i] * v[i];
    for (int i = 0; i < n && rg > 0; i++)
        v[i] += g[i] * (target - rv) / rg;
}

/* The row of the door gets row . v = target for good. */
static void fsi__door_hold(const fsi__door *door, fsi_real target, fsi_real least) {
    int n = door->coupled.dof;
    fsi_real rg =
        fsi__motion_take(n, door->inverse_mass, door->free, door->row, least, door->answer);
    fsi__motion_meet(n, door->v, door->row, door->answer, rg, target);
}

/* Directions that rows have taken are zero, not round-off: who factors M^-1 goes by its own
 * diagonal. */
static void fsi__door_clean(const fsi__door *door) {
    int n = door->coupled.dof;
    fsi_real *inverse = door->inverse_mass;
    for (int i = 0; i < n; i++) {
        if (inverse[i * n + i] * door->mass[i * n + i] > 64 * FSI_REAL_EPS)
            continue;
        for (int k = 0; k < n; k++)
            inverse[i * n + k] = inverse[k * n + i] = 0;
    }
}

/* A joint inside the door: of two bodies of it, or of one and a body that is not pushed (a post, a
 * wall, a scripted one), which keeps its velocity. */
static void fsi__door_joint(const fsi_solids *solids, const fsi__door *door,
                            const fsi_joint *joint) {
    const int body[2] = {joint->a, joint->b};
    fsi__joint_rows rows;
    fsi__joint_geometry(solids, joint, &rows);
    for (int j = 0; j < rows.n; j++) {
        const fsi__row *row = rows.row + j;
        fsi_real target = 0;
        fsi_fill((size_t)door->coupled.dof, 0, door->row);
        for (int k = 0; k < 2; k++) {
            const fsi_rigid *rigid = solids->body + body[k];
            fsi_real sign = k ? FSI_R(-1.) : FSI_R(1.);
            fsi_vec3 line = fsi_vec_scale(row->line, sign);
            fsi_vec3 turn = fsi_vec_scale(k ? row->turn_b : row->turn_a, sign);
            if (rigid->kind == FSI_RIGID_DYNAMIC) {
                fsi_real *r = door->row + 6 * door->all[body[k]]->part;
                fsi_vec_store(r, line);
                fsi_vec_store(r + 3, turn);
            } else
                target -= fsi_vec_dot(line, rigid->v) + fsi_vec_dot(turn, rigid->spin);
        }
        fsi__door_hold(door, target, 64 * FSI_REAL_EPS);
    }
}

/* Joints of a body with bodies that are not pushed. Returns the number of all its joints. */
static int fsi__door_joints(const fsi_solids *solids, int body, const fsi__door *door) {
    int count = 0;
    for (int n = 0; n < solids->joint_count; n++) {
        const fsi_joint *joint = solids->joint + n;
        int other = joint->a == body ? joint->b : joint->a;
        if (joint->a != body && joint->b != body)
            continue;
        count++;
        if (solids->body[other].kind != FSI_RIGID_DYNAMIC)
            fsi__door_joint(solids, door, joint);
    }
    return count;
}

/* A contact of a held body with one that is not pushed: a hold alone repeats the last push, and for
 * a body much lighter than the fluid around it that settles too slowly (see >>step). */
#define FSI__DOOR_CONTACTS 24
/* Share of a contact's row that must be new: walls that close on a body from two sides ask for
   different velocities by rows that are nearly the same, and a small difference would carry all of
   it, many times over. */
#define FSI__DOOR_NEW FSI_R(0.05)

typedef struct fsi__door_contact {
    fsi_wrench unit; /* unit push on the body and its moment */
    fsi_real target; /* velocity of the other one along it, m/s */
} fsi__door_contact;

/* Those that pushed in the last move; returns their number. */
static int fsi__door_contacts(const fsi_solids *solids, int body, fsi__door_contact *list) {
    const fsi_rigid *rigid = solids->body + body;
    int count = 0;
    for (int n = 0; n < solids->contact_count && count < FSI__DOOR_CONTACTS; n++) {
        const fsi_contact *contact = solids->contact + n;
        int first = contact->a.solid == body;
        int other = first ? contact->b.solid : contact->a.solid;
        int mine = first || contact->b.solid == body;
        int pushed = contact->impulse > 0 && !contact->bounced;
        if (!mine || !pushed || fsi__external_of(solids, other)
            || solids->body[other].kind == FSI_RIGID_DYNAMIC)
            continue;
        fsi__door_contact *found = list + count++;
        fsi_vec3 dir = fsi_vec_scale(contact->normal, first ? FSI_R(1.0) : FSI_R(-1.0));
        found->unit.linear = dir;
        found->unit.angular = fsi_vec_cross(fsi_vec_sub(contact->at, rigid->x), dir);
        found->target = fsi_vec_dot(dir, fsi_solids_velocity(solids, other, contact->at));
    }

    return count;
}

/* Contacts of a held body inside its door; returns their number. */
static int fsi__door_press(const fsi_solids *solids, int body, const fsi__door *door) {
    fsi__door_contact list[FSI__DOOR_CONTACTS];
    if (!fsi__is_held(solids->body + body))
        return 0;

    int count = fsi__door_contacts(solids, body, list);
    fsi_real *r = door->row + 6 * door->all[body]->part;
    fsi_fill((size_t)door->coupled.dof, 0, door->row);
    for (int n = 0; n < count; n++) {
        fsi_vec_store(r, list[n].unit.linear);
        fsi_vec_store(r + 3, list[n].unit.angular);
        fsi__door_hold(door, list[n].target, FSI__DOOR_NEW);
    }
    return count;
}

/* Mass and inverse mass of a body as matrices over (v, spin), in its part of the door. */
static void fsi__door_masses(const fsi_solids *solids, const fsi_rigid *rigid,
                             const fsi__door *door, int part) {
    fsi_mat3 inertia = fsi_mat3_rotate(&rigid->rotation, &rigid->inertia_body);
    int n = door->coupled.dof;
    for (int i = 0; i < 3; i++) {
        int line = 6 * part + i;
        int turn = line + 3;
        door->mass[line * n + line] = rigid->mass;
        if (i < solids->desc.dim)
            door->inverse_mass[line * n + line] = rigid->inverse_mass;
        for (int k = 0; k < 3; k++) {
            int entry = turn * n + 6 * part + 3 + k;
            door->mass[entry] = inertia.m[3 * i + k];
            door->inverse_mass[entry] = rigid->inverse_inertia.m[3 * i + k];
        }
        door->free[line] = rigid->inverse_mass;
        door->free[turn] = rigid->inverse_inertia.m[4 * i];
    }
}

/* The door of a body, made on the first call. */
static fsi__door *fsi__door_of(fsi_solids *solids, int body) {
    fsi__door **door = solids->work->door + body;
    if (!*door)
        *door = (fsi__door *)fsi_alloc(&solids->desc.allocator, sizeof **door);
    return *door;
}

static void fsi__joined_layout(fsi__door *door, fsi_arena *arena) {
    const fsi_surface *surface = &door->coupled.surface;
    size_t n = (size_t)door->coupled.dof;
    size_t vertices = (size_t)surface->vertex_count;
    FSI__TAKE(door->v, arena, n);
    FSI__TAKE(door->impulse, arena, n);
    FSI__TAKE(door->free, arena, n);
    FSI__TAKE(door->row, arena, n);
    FSI__TAKE(door->answer, arena, n);
    FSI__TAKE(door->mass, arena, n * n);
    FSI__TAKE(door->inverse_mass, arena, n * n);
    FSI__TAKE(door->x, arena, 3 * vertices);
    FSI__TAKE(door->velocity, arena, 3 * vertices);
    FSI__TAKE(door->index, arena, (size_t)surface->dim * (size_t)surface->element_count);
    FSI__TAKE(door->member, arena, n / 6);
}

/* Body i, free, becomes a part of the door, its surface at the vertex and the element given. */
static void fsi__joined_add(const fsi_solids *solids, fsi__door *door, int owner, int i, int part,
                            int vertex, int element) {
    const fsi_rigid *rigid = solids->body + i;
    fsi__door *own = solids->work->door[i];
    fsi_surface surface;
    fsi_solids_surface(solids, i, door->x + 3 * vertex, door->velocity + 3 * vertex, &surface);
    int32_t *index = door->index + surface.dim * element;
    for (int j = 0; j < surface.dim * surface.element_count; j++)
        index[j] = surface.index[j] + vertex;
    fsi__door_masses(solids, rigid, door, part);
    fsi_vec_store(door->v + 6 * part, rigid->v);
    fsi_vec_store(door->v + 6 * part + 3, rigid->spin);
    door->member[part] = i;
    own->owner = owner;
    own->part = part;
    own->first = element;
    own->from = door->v + 6 * part;
    own->centre = rigid->x;
    own->pressed = 0;
}

/* Does the fluid push this body? */
static int fsi__is_pushed(const fsi_rigid *body) {
    return body->kind == FSI_RIGID_DYNAMIC && body->shape->surface.element_count > 0;
}

/* Does the joint tie two bodies that the fluid pushes, by rows that always hold? */
static int fsi__joint_ties(const fsi_solids *solids, const fsi_joint *joint) {
    const fsi_rigid *body_a = solids->body + joint->a;
    const fsi_rigid *body_b = solids->body + joint->b;
    int holds = joint->rows > 0 && !(joint->max_force > 0) && !(joint->max_torque > 0);
    return holds && fsi__is_pushed(body_a) && fsi__is_pushed(body_b)
           && body_a->shape->surface.closed == body_b->shape->surface.closed;
}

/* Takes out of the door's velocity and inverse mass what joints and contacts hold. */
static void fsi__joined_hold(const fsi_solids *solids, int owner) {
    fsi__door *door = solids->work->door[owner];
    int parts = door->coupled.dof / 6;
    for (int part = 0; part < parts; part++) {
        int i = door->member[part];
        if (solids->body[i].kind == FSI_RIGID_DYNAMIC && !fsi__door_joints(solids, i, door))
            door->all[i]->pressed = fsi__door_press(solids, i, door);
    }
    if (solids->body[owner].kind == FSI_RIGID_DYNAMIC)
        fsi__door_clean(door);
    if (parts == 1)
        return;

    for (int q = 0; q < solids->joint_count; q++) {
        const fsi_joint *joint = solids->joint + q;
        if (solids->work->label[joint->a] == owner && fsi__joint_ties(solids, joint))
            fsi__door_joint(solids, door, joint);
    }
    fsi__door_clean(door);
}

/* The door of the bodies from `owner` to `end` - 1 with the owner's label. */
static fsi_result fsi__joined_make(fsi_solids *solids, int owner, int end, fsi_coupled **out) {
    const int32_t *label = solids->work->label;
    int parts = 0;
    int vertices = 0;
    int elements = 0;
    for (int i = owner; i < end; i++) {
        const fsi_surface *surface = &solids->body[i].shape->surface;
        if (label[i] != owner)
            continue;
        if (!fsi__door_of(solids, i))
            return FSI_ERR_MEMORY;
        parts++;
        vertices += surface->vertex_count;
        elements += surface->element_count;
    }

    fsi__door *door = solids->work->door[owner];
    fsi_coupled *coupled = &door->coupled;
    fsi_arena arena = FSI__ZERO;
    coupled->surface = solids->body[owner].shape->surface;
    coupled->surface.vertex_count = vertices;
    coupled->surface.element_count = elements;
    coupled->dof = 6 * parts;
    fsi__joined_layout(door, &arena);
    fsi_result result = fsi__arena_reopen(&arena, &door->memory, &solids->desc.allocator);
    if (result < 0)
        return result;

    fsi__joined_layout(door, &arena);
    size_t n = (size_t)coupled->dof;
    fsi_fill(n * n, 0, door->mass);
    fsi_fill(n * n, 0, door->inverse_mass);
    fsi_fill(n, 0, door->impulse);
    coupled->surface.x = door->x;
    coupled->surface.v = door->velocity;
    coupled->surface.index = door->index;
    coupled->v = door->v;
    coupled->impulse = door->impulse;
    coupled->mass = door->mass;
    coupled->inverse_mass = door->inverse_mass;
    coupled->row_fn = fsi__rigid_row;
    coupled->user = door;
    door->all = solids->work->door;

    parts = vertices = elements = 0;
    for (int i = owner; i < end; i++) {
        const fsi_surface *surface = &solids->body[i].shape->surface;
        if (label[i] != owner)
            continue;
        fsi__joined_add(solids, door, owner, i, parts++, vertices, elements);
        vertices += surface->vertex_count;
        elements += surface->element_count;
    }
    fsi__joined_hold(solids, owner);
    *out = coupled;

    return FSI_OK;
}

FSI_API fsi_result fsi_solids_couple(fsi_solids *solids, int body, fsi_coupled **out) {
    if (!fsi__solids_has(solids, body) || !out)
        return FSI_ERR_ARGUMENT;
    solids->work->label[body] = body;
    return fsi__joined_make(solids, body, body + 1, out);
}

/* work->label[i] = lowest number among the bodies tied to i. */
static void fsi__joined_labels(fsi_solids *solids) {
    int32_t *label = solids->work->label;
    for (int i = 0; i < solids->body_count; i++)
        label[i] = i;
    for (int more = 1; more;) {
        more = 0;
        for (int i = 0; i < solids->joint_count; i++) {
            int32_t *a = label + solids->joint[i].a;
            int32_t *b = label + solids->joint[i].b;
            if (*a == *b || !fsi__joint_ties(solids, solids->joint + i))
                continue;
            *a = *b = fsi__imin(*a, *b);
            more = 1;
        }
    }
}

FSI_API fsi_result fsi_solids_couple_joined(fsi_solids *solids, int body, fsi_coupled **out) {
    if (!fsi__solids_has(solids, body) || !out)
        return FSI_ERR_ARGUMENT;

    *out = NULL;
    fsi__joined_labels(solids);
    if (solids->work->label[body] != body)
        return FSI_OK;

    return fsi__joined_make(solids, body, solids->body_count, out);
}

FSI_API fsi_result fsi_solids_joined_part(const fsi_solids *solids, int body, int *owner,
                                          int *first, int *elements) {
    if (!fsi__solids_has(solids, body) || !owner || !first || !elements)
        return FSI_ERR_ARGUMENT;

    const fsi__door *door = solids->work->door[body];
    if (!door)
        return FSI_ERR_STATE;

    *owner = door->owner;
    *first = door->first;
    *elements = solids->body[body].shape->surface.element_count;
    return FSI_OK;
}

/* What the pushes of these contacts, each at least `least`, leave of p: the part nearest to zero in
 * M^-1, by Gauss-Seidel. */
static fsi_wrench fsi__door_rest(const fsi_rigid *body, const fsi__door_contact *list, int count,
                                 fsi_real least, fsi_wrench p) {
    fsi_real given[FSI__DOOR_CONTACTS] = {0};
    for (int sweep = 0; sweep < FSI__DOOR_CONTACTS; sweep++)
        for (int n = 0; n < count; n++) {
            const fsi_wrench *unit = &list[n].unit;
            fsi_real before = given[n];
            fsi_real change = fsi__load_dot(body, unit, &p) / fsi__load_dot(body, unit, unit);
            given[n] = fsi__max(least, before + change);
            p = fsi__wrench_mad(p, *unit, before - given[n]);
        }
    return p;
}

/* What hold and contacts inside the door gave: H = M (v - v*) less the fluid's impulse, for v* = v,
   L before the solve. Where a contact pulled, the body stays for this step, and the contact is no
   row in the next: the pull is kept. The rest is taken back by the move, as all of a hold, up to
   half the body's size for dt: contact then finds it again. */
static void fsi__hold_take(fsi_solids *solids, int body, fsi_vec3 v, fsi_vec3 L) {
    fsi__door_contact list[FSI__DOOR_CONTACTS];
    const fsi__door *door = solids->work->door[body];
    fsi_rigid *rigid = solids->body + body;
    fsi_wrench H;
    H.linear = fsi_vec_mad(rigid->held.linear, fsi_vec_sub(rigid->v, v), rigid->mass);
    H.linear = fsi_vec_sub(H.linear, fsi_vec_load(door->impulse));
    H.angular = fsi_vec_add(rigid->held.angular, fsi_vec_sub(rigid->L, L));
    H.angular = fsi_vec_sub(H.angular, fsi_vec_load(door->impulse + 3));
    fsi__wrench_flatten(solids, &H);

    /* The part that contacts pulled, and of that the part across them: friction that was held. */
    int count = fsi__door_contacts(solids, body, list);
    fsi_wrench pull = fsi__door_rest(rigid, list, count, 0, H);
    fsi_wrench friction = fsi__door_rest(rigid, list, count, -FSI_REAL_MAX, pull);
    fsi_wrench held = fsi__wrench_mad(fsi__wrench_mad(H, pull, -1), friction, 1);

    fsi_real speed = fsi__sqrt(fsi__load_dot(rigid, &held, &held) * rigid->inverse_mass);
    fsi_real most = FSI_R(0.5) * rigid->shape->bound / (solids->work->hold_dt * speed);
    rigid->held = fsi__wrench_scale(held, fsi__min(1, most));
    rigid->kept = fsi__wrench_mad(H, rigid->held, -1);
}

FSI_API fsi_result fsi_solids_take(fsi_solids *solids, int body) {
    if (!fsi__solids_has(solids, body))
        return FSI_ERR_ARGUMENT;

    const fsi__door *door = solids->work->door[body];
    if (!door)
        return FSI_ERR_STATE;
    if (!fsi_all_finite(6, door->from))
        return FSI_ERR_NUMERIC;

    fsi__velocity velocity;
    velocity.v = fsi_vec_load(door->from);
    velocity.spin = fsi_vec_load(door->from + 3);
    if (solids->desc.dim == 2) {
        velocity.v.z = 0;
        velocity.spin.x = velocity.spin.y = 0;
    }
    fsi_rigid *rigid = solids->body + body;
    fsi_vec3 v = rigid->v;
    fsi_vec3 L = rigid->L;
    fsi__velocity_take(rigid, &velocity);
    if (door->pressed)
        fsi__hold_take(solids, body, v, L);

    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>state and measures of the world */
/* One body; its shape is an address and stays with the world. */
static void fsi__rigid_state(fsi_rigid *body, int alive, fsi__state *state) {
    fsi_rigid copy = *body;
    fsi__state_copy(state, (unsigned char *)&copy + offsetof(fsi_rigid, x), 1,
                    sizeof copy - offsetof(fsi_rigid, x));
    if (alive) {
        fsi__state_require(state, copy.kind >= FSI_RIGID_FIXED && copy.kind <= FSI_RIGID_DYNAMIC);
        fsi__state_finite(state, &copy, offsetof(fsi_rigid, x), offsetof(fsi_rigid, kind));
        fsi__state_finite(state, &copy, offsetof(fsi_rigid, push), sizeof copy);
        fsi_real length =
            copy.q.w * copy.q.w + copy.q.x * copy.q.x + copy.q.y * copy.q.y + copy.q.z * copy.q.z;
        fsi__state_require(state, fsi__abs(length - 1) < FSI_R(1e-3));
        fsi__state_require(state, copy.mass >= 0 && copy.inverse_mass >= 0);
    }
    if (fsi__state_loads(state))
        *body = copy;
}

/* Between bodies below `bodies`. */
static void fsi__joint_state(fsi_joint *joint, int bodies, fsi__state *state) {
    fsi_joint copy = *joint;
    fsi__state_copy(state, &copy, 1, sizeof copy);
    fsi__state_require(state, copy.kind >= FSI_JOINT_POINT && copy.kind <= FSI_JOINT_SPRING);
    fsi__state_require(state, copy.a >= 0 && copy.a < bodies && copy.a != copy.b);
    fsi__state_require(state, copy.b >= 0 && copy.b < bodies);
    fsi__state_require(state, copy.rows >= 0 && copy.rows <= 6);
    fsi__state_finite(state, &copy, offsetof(fsi_joint, anchor_a), offsetof(fsi_joint, motor));
    fsi__state_finite(state, &copy, offsetof(fsi_joint, motor_speed), sizeof copy);
    if (fsi__state_loads(state))
        *joint = copy;
}

/* A copy of a contact between solids from `first` to `last` - 1. */
static void fsi__contact_state(fsi_contact *copy, int first, int last, fsi__state *state) {
    fsi__state_copy(state, copy, 1, sizeof *copy);
    const int32_t solid[] = {copy->a.solid, copy->b.solid, copy->lead};
    for (int i = 0; i < 3; i++)
        fsi__state_require(state, solid[i] >= first && solid[i] < last);
    fsi__state_finite(state, &copy->a, offsetof(fsi_contact_end, arm), sizeof copy->a);
    fsi__state_finite(state, &copy->b, offsetof(fsi_contact_end, arm), sizeof copy->b);
    fsi__state_finite(state, copy, offsetof(fsi_contact, at), sizeof *copy);
}

/* Everything that a step changes, listed once; see fsi__state in the base. */
static void fsi__solids_state(void *object, fsi__state *state) {
    fsi_solids *solids = (fsi_solids *)object;
    const fsi_solids_desc *desc = &solids->desc;
    const int room = desc->max_bodies - solids->enclosed;
    fsi__state_match(state, (size_t)desc->dim);
    fsi__state_match(state, (size_t)room);
    fsi__state_match(state, (size_t)desc->max_joints);
    fsi__state_match(state, (size_t)desc->max_contacts);

    /* The world knows the shapes of the bodies it has now, or had. */
    int bodies = (int)fsi__state_integer(state, solids->body_count, 0, room);
    int joints = (int)fsi__state_integer(state, solids->joint_count, 0, desc->max_joints);
    int contacts = (int)fsi__state_integer(state, solids->contact_count, 0, desc->max_contacts);
    for (int i = 0; i < bodies && state->result >= 0; i++)
        if (!solids->body[i].shape)
            state->result = FSI_ERR_STATE;

    double numbers[] = {solids->time, (double)solids->work->last_h};
    fsi__ledger ledger = solids->work->ledger;
    fsi__state_copy(state, numbers, 2, sizeof *numbers);
    fsi__state_copy(state, &ledger, 1, sizeof ledger);
    fsi__state_require(state, fsi__finite64(numbers[0]) && fsi__finite64(numbers[1]));
    if (fsi__state_loads(state)) {
        solids->body_count = bodies;
        solids->joint_count = joints;
        solids->contact_count = contacts;
        solids->time = numbers[0];
        solids->work->last_h = (fsi_real)numbers[1];
        solids->work->ledger = ledger;
    }

    /* Then what is alive, and places without a body, joint or contact, so that the size of a state
       never changes. */
    for (int i = 0; i < room; i++)
        fsi__rigid_state(solids->body + i, i < bodies, state);
    for (int i = 0; i < joints; i++)
        fsi__joint_state(solids->joint + i, desc->max_bodies, state);
    for (int i = joints; i < desc->max_joints; i++)
        fsi__state_field(state, solids->joint + i, 1, sizeof *solids->joint);
    for (int i = 0; i < contacts; i++) {
        fsi_contact copy = solids->contact[i];
        fsi__contact_state(&copy, 0, INT32_MAX, state);
        if (fsi__state_loads(state))
            solids->contact[i] = copy;
    }
    for (int i = contacts; i < desc->max_contacts; i++)
        fsi__state_field(state, solids->contact + i, 1, sizeof *solids->contact);
}

#define FSI__STATE_SOLIDS FSI__STATE_OF('s', 'o', 'l', 'i')

FSI_API size_t fsi_solids_state_size(const fsi_solids *solids) {
    return solids && solids->block ? fsi__state_size(fsi__solids_state, solids) : 0;
}

FSI_API fsi_result fsi_solids_save(const fsi_solids *solids, void *block) {
    if (!solids || !solids->block)
        return FSI_ERR_STATE;
    return fsi__state_save(fsi__solids_state, FSI__STATE_SOLIDS, solids, block);
}

FSI_API fsi_result fsi_solids_check(const fsi_solids *solids, const void *block, size_t size) {
    if (!solids || !solids->block)
        return FSI_ERR_STATE;
    return fsi__state_check(fsi__solids_state, FSI__STATE_SOLIDS, solids, block, size);
}

FSI_API fsi_result fsi_solids_restore(fsi_solids *solids, const void *block, size_t size) {
    if (!solids || !solids->block)
        return FSI_ERR_STATE;
    return fsi__state_restore(fsi__solids_state, FSI__STATE_SOLIDS, solids, block, size);
}

FSI_API fsi_result fsi_solids_measure(const fsi_solids *solids, fsi_solids_report *report) {
    if (!solids || !solids->block || !report)
        return FSI_ERR_ARGUMENT;

    const fsi__ledger *ledger = &solids->work->ledger;
    memset(report, 0, sizeof *report);

    for (int i = 0; i < solids->body_count; i++) {
        const fsi_rigid *body = solids->body + i;
        if (body->kind != FSI_RIGID_DYNAMIC)
            continue;
        fsi_vec3 momentum = fsi_vec_scale(body->v, body->mass);
        fsi_vec3 angular = fsi_vec_add(fsi_vec_cross(body->x, momentum), body->L);

        /* (m v^2 + w . L) / 2 */
        report->kinetic +=
            (double)(fsi_vec_dot(body->v, momentum) + fsi_vec_dot(body->spin, body->L)) / 2;
        report->potential -= (double)(body->mass * fsi_vec_dot(solids->desc.gravity, body->x));
        for (int k = 0; k < 3; k++) {
            report->momentum[k] += (double)fsi__get(momentum, k);
            report->angular_momentum[k] += (double)fsi__get(angular, k);
        }
    }
    for (int i = 0; i < solids->contact_count; i++) {
        const fsi_contact *contact = solids->contact + i;
        double overlap = (double)-contact->gap;
        if (contact->impulse_max > 0 || contact->gap < 0)
            report->contacts++;
        if (overlap > report->penetration)
            report->penetration = overlap;
    }
    for (int i = 0; i < solids->joint_count; i++) {
        const fsi_joint *joint = solids->joint + i;
        fsi__joint_rows rows;
        fsi__joint_geometry(solids, joint, &rows);
        double squares = 0;
        for (int k = 0; k < rows.n; k++)
            if (fsi__row_is_force(rows.row + k))
                squares += (double)(rows.row[k].error * rows.row[k].error);
        if (sqrt(squares) > report->joint_error)
            report->joint_error = sqrt(squares);
        report->joints_limited += joint->limited;
        report->potential += fsi__spring_energy(joint, &rows);
    }
    report->pairs = (int)solids->work->pairs;
    report->work = ledger->work;
    report->drive = ledger->drive;
    report->others = ledger->others;
    report->applied = ledger->applied;

    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>mesh memory */
/* An empty mesh with room for so many vertices, elements and tetrahedra, in one block. */
static fsi_result fsi__mesh_alloc(fsi_mesh *mesh, int dim, int vertices, int elements, int tets,
                                  const fsi_allocator *allocator) {
    memset(mesh, 0, sizeof *mesh);
    if (!fsi_allocator_valid(allocator))
        return FSI_ERR_ARGUMENT;

    fsi_arena arena = FSI__ZERO;

    for (int pass = 0; pass < 2; pass++) {
        FSI__TAKE(mesh->x, &arena, 3 * (size_t)vertices);
        FSI__TAKE(mesh->index, &arena, (size_t)dim * (size_t)elements);
        FSI__TAKE(mesh->tet, &arena, 4 * (size_t)tets);
        if (pass)
            break;
        fsi_result result = fsi__arena_block(&arena, allocator, &mesh->block, &mesh->size);
        if (result != FSI_OK) {
            memset(mesh, 0, sizeof *mesh);
            return result;
        }
    }

    if (!tets)
        mesh->tet = NULL;
    mesh->dim = dim;
    mesh->vertex_count = vertices;
    mesh->element_count = elements;
    mesh->tet_count = tets;
    if (allocator)
        mesh->allocator = *allocator;

    return FSI_OK;
}

FSI_API void fsi_mesh_free(fsi_mesh *mesh) {
    if (!mesh)
        return;
    fsi_free(&mesh->allocator, mesh->block, mesh->size);
    memset(mesh, 0, sizeof *mesh);
}

/* A surface at rest. */
static fsi_surface fsi__surface_of(int dim, int vertices, const fsi_real *x, int elements,
                                   const int32_t *index) {
    fsi_surface surface = FSI__ZERO;
    surface.dim = dim;
    surface.closed = 1;
    surface.vertex_count = vertices;
    surface.element_count = elements;
    surface.x = x;
    surface.index = index;
    return surface;
}

FSI_API fsi_surface fsi_mesh_surface(const fsi_mesh *mesh) {
    fsi_surface surface =
        fsi__surface_of(mesh->dim, mesh->vertex_count, mesh->x, mesh->element_count, mesh->index);
    surface.closed = mesh->closed;
    return surface;
}

/* Six times the signed volume of a tetrahedron. */
static fsi_real fsi__tet_volume6(const fsi_real *x, const int32_t *tet) {
    fsi_vec3 origin = fsi__vec_at(x, tet[0]);
    fsi_vec3 a = fsi_vec_sub(fsi__vec_at(x, tet[1]), origin);
    fsi_vec3 b = fsi_vec_sub(fsi__vec_at(x, tet[2]), origin);
    fsi_vec3 c = fsi_vec_sub(fsi__vec_at(x, tet[3]), origin);
    return fsi_vec_dot(fsi_vec_cross(a, b), c);
}

/* The angle between two directions goes into the mesh's smallest and largest. */
static void fsi__mesh_angle(fsi_mesh *mesh, fsi_vec3 u, fsi_vec3 v) {
    fsi_real angle = fsi__acos(fsi__clamp(fsi_vec_dot(fsi__unit(u), fsi__unit(v)), -1, 1));
    mesh->angle_min = fsi__min(mesh->angle_min, angle);
    mesh->angle_max = fsi__max(mesh->angle_max, angle);
}

/* The three corner angles of a triangle. */
static void fsi__triangle_angles(fsi_mesh *mesh, const int32_t *corner) {
    for (int i = 0; i < 3; i++) {
        fsi_vec3 here = fsi__vec_at(mesh->x, corner[i]);
        fsi__mesh_angle(mesh, fsi_vec_sub(fsi__vec_at(mesh->x, corner[(i + 1) % 3]), here),
                        fsi_vec_sub(fsi__vec_at(mesh->x, corner[(i + 2) % 3]), here));
    }
}

/* The six dihedral angles of a tetrahedron: the faces opposite to corners i and j meet in the edge
   of the other two corners. */
static void fsi__tet_angles(fsi_mesh *mesh, const int32_t *corner) {
    for (int i = 0; i < 3; i++)
        for (int j = i + 1; j < 4; j++) {
            int from = 2;
            if (i > 0)
                from = 0;
            else if (j > 1)
                from = 1;
            int to = 6 - i - j - from;

            /* What is left of both directions across the edge spans the angle. */
            fsi_vec3 start = fsi__vec_at(mesh->x, corner[from]);
            fsi_vec3 edge = fsi__unit(fsi_vec_sub(fsi__vec_at(mesh->x, corner[to]), start));
            fsi_vec3 u = fsi_vec_sub(fsi__vec_at(mesh->x, corner[i]), start);
            fsi_vec3 v = fsi_vec_sub(fsi__vec_at(mesh->x, corner[j]), start);
            fsi__mesh_angle(mesh, fsi_vec_mad(u, edge, -fsi_vec_dot(u, edge)),
                            fsi_vec_mad(v, edge, -fsi_vec_dot(v, edge)));
        }
}

/* A finished mesh goes out to the caller, with the angles that tell its quality. */
static fsi_result fsi__mesh_finish(fsi_mesh *out, fsi_mesh *mesh, int closed) {
    mesh->closed = closed;
    if (mesh->dim == 3)
        mesh->angle_min = FSI_PI;
    for (int i = 0; i < mesh->tet_count; i++)
        fsi__tet_angles(mesh, mesh->tet + 4 * i);
    if (mesh->dim == 3 && !mesh->tet_count)
        for (int i = 0; i < mesh->element_count; i++)
            fsi__triangle_angles(mesh, mesh->index + 3 * i);
    *out = *mesh;
    return FSI_OK;
}

FSI_API fsi_result fsi_mesh_boundary(int vertex_count, int tet_count, const int32_t *tet,
                                     int32_t *triangle, int room, int *count,
                                     const fsi_allocator *allocator) {
    if (vertex_count < 0 || tet_count < 0 || tet_count > 500000000)
        return FSI_ERR_ARGUMENT;
    if ((tet_count && !tet) || !count)
        return FSI_ERR_ARGUMENT;
    return fsi__boundary(4, vertex_count, tet_count, tet, triangle, room, count, allocator);
}

/* The mesh of given vertices and tetrahedra with its boundary and quality; `solid` is freed. */
static fsi_result fsi__mesh_solid(fsi_mesh *out, fsi_mesh *solid) {
    int vertices = solid->vertex_count;
    int tets = solid->tet_count;
    const fsi_allocator *allocator = &solid->allocator;
    for (int i = 0; i < tets; i++) {
        int32_t *corner = solid->tet + 4 * i;
        if (fsi__tet_volume6(solid->x, corner) < 0) {
            int32_t swap = corner[0];
            corner[0] = corner[1];
            corner[1] = swap;
        }
    }

    int faces;
    fsi_mesh mesh = FSI__ZERO;
    fsi_result result = fsi_mesh_boundary(vertices, tets, solid->tet, NULL, 0, &faces, allocator);
    if (result == FSI_OK)
        result = fsi__mesh_alloc(&mesh, 3, vertices, faces, tets, allocator);
    if (result == FSI_OK) {
        fsi_copy(3 * (size_t)vertices, solid->x, mesh.x);
        memcpy(mesh.tet, solid->tet, (size_t)tets * 4 * sizeof *mesh.tet);
        result = fsi_mesh_boundary(vertices, tets, mesh.tet, mesh.index, faces, &faces, allocator);
    }
    fsi_mesh_free(solid);
    if (result == FSI_OK)
        return fsi__mesh_finish(out, &mesh, 1);
    fsi_mesh_free(&mesh);
    return result;
}

/* ---- Meshes of named corners. A maker lists its triangles or tetrahedra corner by corner. Each
   corner is a number that tells its place; corners of the same number are one vertex. */
typedef struct fsi__corners {
    size_t count;
    uint64_t *name; /* a list */
    fsi_result result;
    const fsi_allocator *allocator;
} fsi__corners;

/* One more corner; a list that cannot grow says so in the end. */
static void fsi__corner_add(fsi__corners *corners, uint64_t name) {
    if (corners->result == FSI_OK)
        corners->result = FSI__LIST_ROOM(corners->name, corners->count + 1, corners->allocator);
    if (corners->result == FSI_OK)
        corners->name[corners->count++] = name;
}

/* Sorts n keys [2 n, the second half is scratch]; returns those that are left when each is kept
   once, and their number. */
static uint64_t *fsi__keys_once(size_t n, uint64_t *key, size_t *left) {
    uint64_t *sorted = fsi__sort_keys(n, key, key + n);
    *left = 0;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || sorted[i] != sorted[*left - 1])
            sorted[(*left)++] = sorted[i];
    return sorted;
}

/* The mesh of listed triangles (per = 3) or tetrahedra (4), vertices in the order of their numbers.
   Frees the list. FSI_EMPTY: nothing listed. */
static fsi_result fsi__corners_mesh(fsi__corners *corners, int per, fsi_mesh *mesh,
                                    fsi_vec3 (*place_fn)(uint64_t name, const void *user),
                                    const void *user) {
    size_t n = corners->count;
    int simplices = (int)(n / (size_t)per);
    uint64_t *copy = NULL;
    fsi_result result = corners->result;
    if (result == FSI_OK)
        result = n ? FSI__LIST_ROOM(copy, 2 * n, corners->allocator) : FSI_EMPTY;

    size_t vertices = 0;
    uint64_t *sorted = NULL;
    if (result == FSI_OK) {
        memcpy(copy, corners->name, n * sizeof *copy);
        sorted = fsi__keys_once(n, copy, &vertices);
        result = fsi__mesh_alloc(mesh, 3, (int)vertices, per == 3 ? simplices : 0,
                                 per == 4 ? simplices : 0, corners->allocator);
    }
    if (result == FSI_OK) {
        int32_t *corner = per == 3 ? mesh->index : mesh->tet;
        for (size_t i = 0; i < vertices; i++)
            fsi__vec_put(mesh->x, (ptrdiff_t)i, place_fn(sorted[i], user));
        for (size_t i = 0; i < n; i++)
            corner[i] = (int32_t)fsi__lower_bound(vertices, sorted, corners->name[i]);
    }
    FSI__LIST_FREE(copy, corners->allocator);
    FSI__LIST_FREE(corners->name, corners->allocator);
    return result;
}

/* ------------------------------------------------------------------------------------------------
 * >>stuffing */
/* Isosurface stuffing on a body-centred cubic lattice. Places of nodes count halves of h: all even
   at a corner of a cube, all odd at a centre. Edges between nodes of one kind are long, the others
   short. An output vertex is named by the two nodes of the edge that is cut, or twice by its
   node. */
typedef struct fsi__stuff {
    int cubes[3];
    /* corners first, then centres, as many (their last layers are not used) */
    int nodes;
    /* position (moved onto the surface where it is close) and distance (then 0) of each node */
    fsi_real *x, *phi;
    /* share of an edge at which the nearest cut of each node lies, and the cut */
    fsi_real *best, *goal;
    fsi__corners corners; /* of the output */
} fsi__stuff;

/* Number of the node at a place; -1 outside the lattice. */
FSI__INLINE int fsi__stuff_node(const fsi__stuff *stuff, const int place[3]) {
    int number = place[0] & 1;
    for (int axis = 2; axis >= 0; axis--) {
        if (place[axis] < 0 || place[axis] > 2 * stuff->cubes[axis])
            return -1;
        number = (place[axis] >> 1) + (stuff->cubes[axis] + 1) * number;
    }
    return number;
}

static void fsi__stuff_place(const fsi__stuff *stuff, int node, int place[3]) {
    int corners = stuff->nodes / 2;
    int centre = node >= corners;
    if (centre)
        node -= corners;
    for (int axis = 0; axis < 3; axis++) {
        place[axis] = 2 * (node % (stuff->cubes[axis] + 1)) + centre;
        node /= stuff->cubes[axis] + 1;
    }
}

/* Share of the edge from a to b at which the linear distance is zero. */
static fsi_real fsi__stuff_share(const fsi__stuff *stuff, int a, int b) {
    return stuff->phi[a] / (stuff->phi[a] - stuff->phi[b]);
}

static fsi_vec3 fsi__stuff_cut(const fsi__stuff *stuff, int a, int b) {
    fsi_vec3 from = fsi__vec_at(stuff->x, a);
    fsi_vec3 along = fsi_vec_sub(fsi__vec_at(stuff->x, b), from);
    return fsi_vec_mad(from, along, fsi__stuff_share(stuff, a, b));
}

/* Place of an output vertex. */
static fsi_vec3 fsi__stuff_vertex(uint64_t name, const void *user) {
    const fsi__stuff *stuff = (const fsi__stuff *)user;
    int a = (int)(name >> 32);
    int b = (int)(name & 0xffffffffu);
    return a == b ? fsi__vec_at(stuff->x, a) : fsi__stuff_cut(stuff, a, b);
}

/* Puts out a tetrahedron, unless two of its corners are one. */
static void fsi__stuff_tet(fsi__stuff *stuff, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    if (a == b || a == c || a == d)
        return;
    if (b == c || b == d || c == d)
        return;
    fsi__corner_add(&stuff->corners, a);
    fsi__corner_add(&stuff->corners, b);
    fsi__corner_add(&stuff->corners, c);
    fsi__corner_add(&stuff->corners, d);
}

/* The inside part of one lattice tetrahedron. With its nodes inside, on and outside the surface:

     none outside, or one inside   a smaller tetrahedron
     two outside                   a wedge: each inside node with its two cuts is a triangle
     one outside                   a frustum: inside nodes and their cuts; a node on the surface
                                   closes it to a point

   Wedge and frustum are prisms from triangle a to triangle b. */
static void fsi__stuff_clip(fsi__stuff *stuff, const int *node) {
    int32_t inside[4];
    int32_t on[4];
    int32_t outside[4];
    int insides = 0;
    int ons = 0;
    int outsides = 0;

    for (int i = 0; i < 4; i++) {
        fsi_real phi = stuff->phi[node[i]];
        if (phi < 0)
            inside[insides++] = node[i];
        else if (phi > 0)
            outside[outsides++] = node[i];
        else
            on[ons++] = node[i];
    }
    if (!insides)
        return;

    fsi__sort_few(insides, inside);

    uint64_t a[4];
    uint64_t b[3];

    if (outsides == 0 || insides == 1) {
        int count = 0;
        for (int i = 0; i < insides; i++)
            a[count++] = fsi__pair_key(inside[i], inside[i]);
        for (int i = 0; i < ons; i++)
            a[count++] = fsi__pair_key(on[i], on[i]);
        for (int i = 0; i < outsides; i++)
            a[count++] = fsi__pair_key(inside[0], outside[i]);
        fsi__stuff_tet(stuff, a[0], a[1], a[2], a[3]);
        return;
    }
    for (int i = 0; i < 3; i++) {
        if (outsides == 2) {
            a[i] = fsi__pair_key(inside[0], i ? outside[i - 1] : inside[0]);
            b[i] = fsi__pair_key(inside[1], i ? outside[i - 1] : inside[1]);
        } else {
            int32_t own = i < insides ? inside[i] : on[0];
            a[i] = fsi__pair_key(own, own);
            b[i] = i < insides ? fsi__pair_key(own, outside[0]) : a[i];
        }
    }

    /* Diagonals leave the a with the smaller number: neighbours cut their common face alike. */
    fsi__stuff_tet(stuff, a[0], a[1], a[2], b[2]);
    fsi__stuff_tet(stuff, a[0], a[1], b[1], b[2]);
    fsi__stuff_tet(stuff, a[0], b[0], b[1], b[2]);
}

/* The nearest cut of each node on the edges of a tetrahedron, as far as it is close (Labelle and
   Shewchuk's limits for long and short edges). */
static void fsi__stuff_near(fsi__stuff *stuff, const int *node) {
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            int from = node[i];
            int to = node[j];
            if (!(stuff->phi[from] * stuff->phi[to] < 0))
                continue;
            int corners = stuff->nodes / 2;
            int is_long = (from < corners) == (to < corners);
            fsi_real share = fsi__stuff_share(stuff, from, to);
            if (share < (is_long ? FSI_R(0.25) : FSI_R(0.41189)) && share < stuff->best[from]) {
                stuff->best[from] = share;
                fsi__vec_put(stuff->goal, from, fsi__stuff_cut(stuff, from, to));
            }
        }
}

/* The four tetrahedra around the edge from a cube's centre to the next one along an axis: the edge
   and two neighbouring corners of the square between both cubes. */
static void fsi__stuff_ring(fsi__stuff *stuff, const int cube[3], int axis,
                            void (*visit_fn)(fsi__stuff *stuff, const int *node)) {
    static const int ring[4][2] = {{-1, -1}, {1, -1}, {1, 1}, {-1, 1}};
    int place[3] = {2 * cube[0] + 1, 2 * cube[1] + 1, 2 * cube[2] + 1};
    int node[4];
    int corner[4];
    node[0] = fsi__stuff_node(stuff, place);
    place[axis] += 2;
    node[1] = fsi__stuff_node(stuff, place);
    if (node[1] < 0)
        return;

    for (int i = 0; i < 4; i++) {
        int there[3] = {place[0], place[1], place[2]};
        there[axis]--;
        there[(axis + 1) % 3] += ring[i][0];
        there[(axis + 2) % 3] += ring[i][1];
        corner[i] = fsi__stuff_node(stuff, there);
    }
    for (int i = 0; i < 4; i++) {
        node[2] = corner[i];
        node[3] = corner[(i + 1) % 4];
        visit_fn(stuff, node);
    }
}

/* All tetrahedra of the lattice. */
static void fsi__stuff_visit(fsi__stuff *stuff,
                             void (*visit_fn)(fsi__stuff *stuff, const int *node)) {
    for (int axis = 0; axis < 3; axis++)
        for (int k = 0; k < stuff->cubes[2]; k++)
            for (int j = 0; j < stuff->cubes[1]; j++)
                for (int i = 0; i < stuff->cubes[0]; i++) {
                    int cube[3] = {i, j, k};
                    fsi__stuff_ring(stuff, cube, axis, visit_fn);
                }
}

/* Position and distance of every node; unused ones count as outside. */
static fsi_result fsi__stuff_sample(fsi__stuff *stuff, fsi_vec3 lo, fsi_real h, fsi_sdf_fn sdf,
                                    void *user) {
    for (int node = 0; node < stuff->nodes; node++) {
        int place[3];
        fsi__stuff_place(stuff, node, place);
        fsi_vec3 halves =
            fsi_vec((fsi_real)place[0] / 2, (fsi_real)place[1] / 2, (fsi_real)place[2] / 2);
        fsi_vec3 x = fsi_vec_mad(lo, halves, h);
        fsi__vec_put(stuff->x, node, x);
        stuff->phi[node] = fsi__stuff_node(stuff, place) < 0 ? 1 : sdf(x, user);
        if (!fsi__finite(stuff->phi[node]))
            return FSI_ERR_CALLBACK;
    }
    return FSI_OK;
}

/* The tetrahedra of a sampled lattice. Nodes whose surface cut lies close are moved onto it first,
   so that no sliver is cut off. */
static fsi_result fsi__stuff_mesh(fsi__stuff *stuff, fsi_mesh *mesh) {
    fsi_fill((size_t)stuff->nodes, 1, stuff->best);
    fsi__stuff_visit(stuff, fsi__stuff_near);
    for (int node = 0; node < stuff->nodes; node++)
        if (stuff->best[node] < 1) {
            fsi__vec_put(stuff->x, node, fsi__vec_at(stuff->goal, node));
            stuff->phi[node] = 0;
        }
    fsi__stuff_visit(stuff, fsi__stuff_clip);
    fsi_mesh solid;
    fsi_result result = fsi__corners_mesh(&stuff->corners, 4, &solid, fsi__stuff_vertex, stuff);
    return result == FSI_OK ? fsi__mesh_solid(mesh, &solid) : result;
}

/* Finite corners with a volume between them. */
static int fsi__box_valid(fsi_vec3 lo, fsi_vec3 hi) {
    int finite = fsi__finite_vec(lo) && fsi__finite_vec(hi);
    return finite && hi.x - lo.x > 0 && hi.y - lo.y > 0 && hi.z - lo.z > 0;
}

FSI_API fsi_result fsi_mesh_from_sdf(fsi_mesh *mesh, fsi_sdf_fn sdf, void *user, fsi_vec3 lo,
                                     fsi_vec3 hi, fsi_real h, const fsi_allocator *allocator) {
    if (!mesh || !sdf || !fsi_allocator_valid(allocator))
        return FSI_ERR_ARGUMENT;
    if (!fsi__box_valid(lo, hi) || !fsi__positive(h))
        return FSI_ERR_ARGUMENT;

    fsi_vec3 cells = fsi_vec_sub(hi, lo);
    cells = fsi_vec(cells.x / h, cells.y / h, cells.z / h);
    if (cells.x > 2000 || cells.y > 2000 || cells.z > 2000
        || (cells.x + 2) * (cells.y + 2) * (cells.z + 2) > FSI_R(1e8))
        return FSI_ERR_SIZE;

    fsi__stuff stuff = FSI__ZERO;
    stuff.corners.allocator = allocator;
    stuff.nodes = 2;
    for (int axis = 0; axis < 3; axis++) {
        stuff.cubes[axis] = (int)fsi__ceil(fsi__get(cells, axis) - FSI_R(1e-4));
        stuff.nodes *= stuff.cubes[axis] + 1;
    }

    /* One block. */
    size_t n = (size_t)stuff.nodes;
    fsi_result result = FSI__LIST_ROOM(stuff.x, 8 * n, allocator);
    if (result != FSI_OK)
        return result;

    stuff.goal = stuff.x + 3 * n;
    stuff.phi = stuff.goal + 3 * n;
    stuff.best = stuff.phi + n;
    result = fsi__stuff_sample(&stuff, lo, h, sdf, user);
    if (result == FSI_OK)
        result = fsi__stuff_mesh(&stuff, mesh);
    FSI__LIST_FREE(stuff.x, allocator);

    return result;
}

/* ------------------------------------------------------------------------------------------------
 * >>regular meshes */
/* Tetrahedra of a cube whose corner c stands at (c & 1, c >> 1 & 1, c >> 2). */
static const int fsi__cube_six[6][4] = {{0, 1, 3, 7}, {0, 3, 2, 7}, {0, 2, 6, 7},
                                        {0, 6, 4, 7}, {0, 4, 5, 7}, {0, 5, 1, 7}};
static const int fsi__cube_five[5][4] = {
    {0, 1, 3, 5}, {0, 3, 2, 6}, {0, 5, 6, 4}, {3, 6, 5, 7}, {0, 3, 6, 5}};

/* (i / n) as a real number. */
static fsi_real fsi__share_of(int i, int n) {
    return (fsi_real)i / (fsi_real)n;
}

/* A box or a sheet of equal tiles: n of them along each side; a sheet has no third one, n = 0. Its
   vertices are named i + (n[0] + 1) * (j + (n[1] + 1) * k). */
typedef struct fsi__tiles {
    fsi_vec3 origin, side[3];
    int n[3];
} fsi__tiles;

/* Name of corner c of tile (i, j, k). */
static uint64_t fsi__tiles_name(const fsi__tiles *tiles, int i, int j, int k, int c) {
    int row = j + (c >> 1 & 1) + (tiles->n[1] + 1) * (k + (c >> 2));
    int vertex = i + (c & 1) + (tiles->n[0] + 1) * row;
    return (uint64_t)vertex;
}

static fsi_vec3 fsi__tiles_vertex(uint64_t name, const void *user) {
    const fsi__tiles *tiles = (const fsi__tiles *)user;
    fsi_vec3 x = tiles->origin;
    int rest = (int)name;
    for (int axis = 0; axis < 3; axis++) {
        int count = tiles->n[axis] + 1;
        int at = rest % count;
        if (at)
            x = fsi_vec_mad(x, tiles->side[axis], fsi__share_of(at, tiles->n[axis]));
        rest /= count;
    }
    return x;
}

FSI_API fsi_result fsi_mesh_box(fsi_mesh *mesh, fsi_vec3 lo, fsi_vec3 hi, int nx, int ny, int nz,
                                int alternate, const fsi_allocator *allocator) {
    if (!mesh || !fsi_allocator_valid(allocator) || !fsi__box_valid(lo, hi))
        return FSI_ERR_ARGUMENT;
    if (nx < 1 || ny < 1 || nz < 1)
        return FSI_ERR_ARGUMENT;
    if ((double)nx * ny * nz > 1e8 || fsi__imax(nx, fsi__imax(ny, nz)) > 100000)
        return FSI_ERR_SIZE;

    fsi_vec3 size = fsi_vec_sub(hi, lo);
    fsi__tiles tiles = {
        lo, {fsi_vec(size.x, 0, 0), fsi_vec(0, size.y, 0), fsi_vec(0, 0, size.z)}, {nx, ny, nz}};
    fsi__corners corners = {0, NULL, FSI_OK, allocator};
    for (int k = 0; k < nz; k++)
        for (int j = 0; j < ny; j++)
            for (int i = 0; i < nx; i++)
                for (int c = 0; c < (alternate ? 20 : 24); c++) {
                    /* Odd cubes are mirrored in x. */
                    int own = alternate ? fsi__cube_five[c / 4][c % 4] ^ ((i + j + k) & 1)
                                        : fsi__cube_six[c / 4][c % 4];
                    fsi__corner_add(&corners, fsi__tiles_name(&tiles, i, j, k, own));
                }

    fsi_mesh solid;
    fsi_result result = fsi__corners_mesh(&corners, 4, &solid, fsi__tiles_vertex, &tiles);
    return result == FSI_OK ? fsi__mesh_solid(mesh, &solid) : result;
}

FSI_API fsi_result fsi_mesh_sheet(fsi_mesh *out, fsi_vec3 origin, fsi_vec3 along_x,
                                  fsi_vec3 along_y, int nx, int ny, int alternate,
                                  int (*keep_fn)(fsi_vec3 centre, void *user), void *user,
                                  const fsi_allocator *allocator) {
    if (!out || nx < 1 || ny < 1 || !fsi_allocator_valid(allocator))
        return FSI_ERR_ARGUMENT;
    if ((double)nx * ny > 1e8 || !fsi__finite_vec(origin) || !fsi__finite(fsi__length(along_x)))
        return FSI_ERR_ARGUMENT;
    if (!(fsi__length(fsi_vec_cross(along_x, along_y)) > 0))
        return FSI_ERR_ARGUMENT;

    /* Squares with corners 0 1 / 2 3, cut along the diagonal 0 3 or 1 2. */
    static const int cut[2][6] = {{0, 1, 3, 0, 3, 2}, {0, 1, 2, 1, 3, 2}};
    fsi__tiles tiles = {origin, {along_x, along_y, fsi_vec(0, 0, 0)}, {nx, ny, 0}};
    fsi__corners corners = {0, NULL, FSI_OK, allocator};
    for (int j = 0; j < ny; j++)
        for (int i = 0; i < nx; i++) {
            fsi_vec3 sum =
                fsi_vec_add(fsi__tiles_vertex(fsi__tiles_name(&tiles, i, j, 0, 0), &tiles),
                            fsi__tiles_vertex(fsi__tiles_name(&tiles, i, j, 0, 3), &tiles));
            int flip = alternate && ((i + j) & 1);
            if (keep_fn && !keep_fn(fsi_vec_scale(sum, FSI_R(0.5)), user))
                continue;
            for (int c = 0; c < 6; c++)
                fsi__corner_add(&corners, fsi__tiles_name(&tiles, i, j, 0, cut[flip][c]));
        }

    fsi_mesh mesh;
    fsi_result result = fsi__corners_mesh(&corners, 3, &mesh, fsi__tiles_vertex, &tiles);
    return result == FSI_OK ? fsi__mesh_finish(out, &mesh, 0) : result;
}

/* A chain of n segments through so many vertices, which are still to be placed: one more than
   segments, or as many where it is closed. */
static fsi_result fsi__mesh_chain(fsi_mesh *mesh, int vertices, int n,
                                  const fsi_allocator *allocator) {
    fsi_result result = fsi__mesh_alloc(mesh, 2, vertices, n, 0, allocator);
    for (int i = 0; i < 2 * n && result == FSI_OK; i++)
        mesh->index[i] = (i + 1) / 2 % vertices;
    return result;
}

FSI_API fsi_result fsi_mesh_strip(fsi_mesh *out, fsi_vec3 from, fsi_vec3 to, int n,
                                  const fsi_allocator *allocator) {
    fsi_vec3 along = fsi_vec_sub(to, from);
    if (!out || n < 1 || n > 100000000)
        return FSI_ERR_ARGUMENT;
    if (!fsi__finite_vec(from) || !fsi__finite_vec(to) || !(fsi__length(along) > 0))
        return FSI_ERR_ARGUMENT;

    fsi_mesh mesh;
    fsi_result result = fsi__mesh_chain(&mesh, n + 1, n, allocator);
    if (result != FSI_OK)
        return result;

    for (int i = 0; i <= n; i++)
        fsi__vec_put(mesh.x, i, fsi_vec_mad(from, along, fsi__share_of(i, n)));
    return fsi__mesh_finish(out, &mesh, 0);
}

/* A finite centre and a radius. */
static int fsi__ball_valid(fsi_vec3 centre, fsi_real radius) {
    return fsi__finite_vec(centre) && fsi__positive(radius);
}

FSI_API fsi_result fsi_mesh_circle(fsi_mesh *out, fsi_vec3 centre, fsi_real radius, int n,
                                   const fsi_allocator *allocator) {
    if (!out || n < 3 || n > 100000000 || !fsi__ball_valid(centre, radius))
        return FSI_ERR_ARGUMENT;

    fsi_mesh mesh;
    fsi_result result = fsi__mesh_chain(&mesh, n, n, allocator);
    if (result != FSI_OK)
        return result;

    for (int i = 0; i < n; i++) {
        fsi_real angle = 2 * FSI_PI * (fsi_real)i / (fsi_real)n;
        fsi_vec3 out_to = fsi_vec(fsi__cos(angle), fsi__sin(angle), 0);
        fsi__vec_put(mesh.x, i, fsi_vec_mad(centre, out_to, radius));
    }
    return fsi__mesh_finish(out, &mesh, 1);
}

/* Faces of an icosahedron, outward. */
static const int fsi__ico_face[20][3] = {
    {0, 11, 5},  {0, 5, 1},  {0, 1, 7},  {0, 7, 10}, {0, 10, 11}, {1, 5, 9}, {5, 11, 4},
    {11, 10, 2}, {10, 7, 6}, {7, 1, 8},  {3, 9, 4},  {3, 4, 2},   {3, 2, 6}, {3, 6, 8},
    {3, 8, 9},   {4, 9, 5},  {2, 4, 11}, {6, 2, 10}, {8, 6, 7},   {9, 8, 1}};

/* Its vertices: (+-1, +-golden ratio, 0) and the rotations of that. */
static fsi_vec3 fsi__ico_vertex(int i) {
    fsi_real golden = FSI_R(1.6180339887498949);
    fsi_real u = i & 1 ? 1 : -1;
    fsi_real v = i & 2 ? -golden : golden;
    if (i < 4)
        return fsi_vec(u, v, 0);
    return i < 8 ? fsi_vec(0, u, v) : fsi_vec(v, 0, u);
}

/* A face whose edges are cut into n parts. Point (i, j) lies i steps towards corner 1 and j towards
   corner 2:

     2
     | \       i = 0 along the left edge, j = 0 along the bottom,
     |   \     i + j = n along the third
     0 --- 1

   It is the mean of the corners with the weights n - i - j, i and j. Its name holds 15 bits for
   each corner with a weight, smallest first: number << 11 | weight. Neighbouring faces agree. */
static void fsi__ico_add(fsi__corners *corners, const int *corner, int n, int i, int j) {
    const int weight[3] = {n - i - j, i, j};
    int32_t part[3];
    for (int c = 0; c < 3; c++)
        part[c] = weight[c] ? corner[c] << 11 | weight[c] : 0;
    fsi__sort_few(3, part);
    fsi__corner_add(corners, (uint64_t)part[2] << 30 | (uint64_t)part[1] << 15 | (uint64_t)part[0]);
}

/* Direction of a named point from the centre. */
static fsi_vec3 fsi__ico_point(uint64_t name, const void *user) {
    fsi_vec3 x = FSI__ZERO;
    (void)user;
    for (; name; name >>= 15)
        x = fsi_vec_mad(x, fsi__ico_vertex((int)(name >> 11 & 15)), (fsi_real)(name & 2047));
    return fsi__unit(x);
}

FSI_API fsi_result fsi_mesh_sphere(fsi_mesh *out, fsi_vec3 centre, fsi_real radius, int n,
                                   const fsi_allocator *allocator) {
    if (!out || n < 1 || n > 2000 || !fsi__ball_valid(centre, radius))
        return FSI_ERR_ARGUMENT;
    if (!fsi_allocator_valid(allocator))
        return FSI_ERR_ARGUMENT;

    fsi__corners corners = {0, NULL, FSI_OK, allocator};
    for (int face = 0; face < 20; face++)
        for (int j = 0; j < n; j++)
            for (int i = 0; i + j < n; i++) {
                const int *corner = fsi__ico_face[face];
                fsi__ico_add(&corners, corner, n, i, j);
                fsi__ico_add(&corners, corner, n, i + 1, j);
                fsi__ico_add(&corners, corner, n, i, j + 1);
                if (i + j + 1 == n)
                    continue;
                fsi__ico_add(&corners, corner, n, i + 1, j);
                fsi__ico_add(&corners, corner, n, i + 1, j + 1);
                fsi__ico_add(&corners, corner, n, i, j + 1);
            }

    fsi_mesh mesh;
    fsi_result result = fsi__corners_mesh(&corners, 3, &mesh, fsi__ico_point, NULL);
    if (result != FSI_OK)
        return result;

    for (int i = 0; i < mesh.vertex_count; i++)
        fsi__vec_put(mesh.x, i, fsi_vec_mad(centre, fsi__vec_at(mesh.x, i), radius));
    return fsi__mesh_finish(out, &mesh, 1);
}

/* ------------------------------------------------------------------------------------------------
 * >>soft elements */
/* Symbols:

     x, X         nodes now and at rest           F = dx/dX   deformation gradient
     E            (F^T F - 1) / 2                 S, P        second and first Piola stress
     g_a          gradient of shape function a at rest
     lambda, mu   Lame constants                  V           rest volume (area)
     Q            frame of the strain: 1 linear, R corotated, F St. Venant-Kirchhoff

   Every element gives its energy, force = -dE/dx, rows r (the positive semi-definite part of the
   stiffness is the sum of r^T r) and geo, the rest of the exact stiffness. */
enum {
    FSI__SEG,
    FSI__BEND,
    FSI__TRI,
    FSI__FOLD,
    FSI__TET,
    FSI__KINDS
};

enum {
    FSI__EXACT = 1, /* stiffness: the exact one */
    FSI__POSITIVE   /* its positive semi-definite part */
};

static const int fsi__kind_nodes[FSI__KINDS] = {2, 3, 3, 4, 4};
/* rows; those without the positive part of geo */
static const int fsi__kind_rows[FSI__KINDS] = {4, 1, 9, 1, 6};
static const int fsi__kind_material[FSI__KINDS] = {1, 1, 3, 1, 6};

enum {
    FSI__REST = 10, /* numbers kept per element: Dm^-1 and V; hinges: rest angle, stiffness */
    FSI__SOFT_BATCH =
        1024 /* elements whose stiffness is computed in parallel, then added in order */
};

/* Nodes touched by other solids in this step, see >>soft contact. */
typedef struct fsi__patch {
    int count, room;       /* nodes; most of them, 0: no memory */
    int ready;             /* 1: C is there; 0: lumped masses answer */
    int32_t *place, *node; /* [vertices] place in the patch or -1; [room] */
    fsi_real *C;           /* [(3 room)^2] */
    fsi_real *impulse;     /* [3 vertices] not yet handed to the others */
    fsi_real *base;        /* [3 room] velocities at the last flush */
    unsigned char *memory; /* a list */
} fsi__patch;

typedef struct fsi__soft_work {
    size_t dof;                /* 3 vertices */
    int begin[FSI__KINDS + 1]; /* elements by kind */
    int32_t *node;             /* [4 elements] -1 = none */
    fsi_real *rest;            /* [FSI__REST elements] */
    fsi_real *rest_x;          /* [3 vertices] */
    fsi_real rest_volume;
    fsi_real *element_force;  /* [12 elements] */
    fsi_real *element_energy; /* [elements] */
    /* [vertices + 1], [corners]: 4 * element + corner around each vertex */
    int32_t *first, *corner;
    unsigned char *fixed; /* [3 vertices] 1 = prescribed coordinate */
    fsi_real *batch;      /* [FSI__SOFT_BATCH * 144] */
    /* matrix memory; [16 elements] place of the block of two corners in its block row */
    void *slot_block;
    int32_t *slot;
    size_t slot_size;
    /* damping stiffness, values on the pattern of K; NULL without */
    fsi_real *kd;

    /* Vectors of a step, [3 vertices] each. Kept from the forces to contact: */
    fsi_real *v_before; /* velocities before the forces */
    fsi_real *push;     /* FSI_SOFT_SPLIT: impulse of the forces, for the door */
    fsi_real *jump;     /* still to be added to x where jumps is 1 */
    int jumps;          /* Newmark: jump = dt/2 (v_old - v); then x moves with v like the others */
    /* Of a Newton solve: */
    fsi_real *guess;     /* positions that are found */
    fsi_real *inertial;  /* where masses would go without elasticity */
    fsi_real *damp_from; /* positions from which damping counts */
    fsi_real *given;     /* change of prescribed coordinates */
    fsi_real *residual;
    fsi_real *step;
    fsi_real *trial;
    fsi_real *right;
    fsi_real *precondition;
    fsi_real *volume_gradient;
    fsi_real *volume_answer; /* matrix^-1 volume_gradient */
    /* Of contact: */
    fsi_real *contact_start; /* velocities before it */
    fsi_real *open_start;    /* positions before overlaps are opened */
    fsi_real *wall_velocity; /* of what pushes each node */
    fsi_real *wall_weight;   /* [vertices] how much did */
    fsi_real *force_without; /* elastic forces without walls */

    void *cg_work;
    size_t cg_size;
    /* dv = response * (matrix of the last solve)^-1 impulse; 0: no such matrix */
    fsi_real response;
    fsi__patch patch; /* contact with other solids; from fsi_soft_external on */
    /* 1: fsi_soft_external was called; 1: others touch it in this step */
    int watched, touched;
    /* J when the step began; the most it may have at its end but for the work of others */
    double energy, reference;
    int edge_count; /* edges of the surface in 3D, each once */
    /* [3 edge_count] two nodes and vertices + the element it is taken from, by element; [surface +
       1] */
    int32_t *edge;
    int32_t *edge_first;
    unsigned char *outside; /* [vertices] 1: node of the surface */
    /* [vertices] another node of the same impact zone, itself: the last */
    int32_t *zone;
} fsi__soft_work;

typedef struct fsi__elem {
    fsi_real energy;
    fsi_real force[12];
    fsi_real row[9][12];
    fsi_real geo[12][12];
    int rows;
    int has_geo;
} fsi__elem;

/* One Jacobi rotation on two numbers. */
FSI__INLINE void fsi__rotate_pair(fsi_real *a, fsi_real *b, fsi_real cosine, fsi_real sine) {
    fsi_real u = *a;
    fsi_real v = *b;
    *a = cosine * u - sine * v;
    *b = sine * u + cosine * v;
}

/* Eigenvalues (any order) and vectors (rows of V) of symmetric 3x3 A by Jacobi rotations. */
static void fsi__eigen3(const fsi_mat3 *A, fsi_real value[3], fsi_mat3 *V) {
    fsi_real a[3][3];
    for (int i = 0; i < 9; i++) {
        a[i / 3][i % 3] = A->m[i];
        V->m[i] = i % 4 == 0;
    }
    for (int sweep = 0; sweep < 12; sweep++) {
        fsi_real off = fsi__abs(a[0][1]) + fsi__abs(a[0][2]) + fsi__abs(a[1][2]);
        fsi_real size = fsi__abs(a[0][0]) + fsi__abs(a[1][1]) + fsi__abs(a[2][2]);
        if (off <= FSI_REAL_EPS * size / 8)
            break;
        for (int i = 0; i < 2; i++)
            for (int j = i + 1; j < 3; j++) {
                if (a[i][j] == 0)
                    continue;
                fsi_real theta = (a[j][j] - a[i][i]) / (2 * a[i][j]);
                fsi_real tangent = (theta >= 0 ? 1 : FSI_R(-1.0))
                                   / (fsi__abs(theta) + fsi__sqrt(theta * theta + 1));
                fsi_real cosine = 1 / fsi__sqrt(tangent * tangent + 1);
                fsi_real sine = tangent * cosine;
                for (int k = 0; k < 3; k++)
                    fsi__rotate_pair(&a[k][i], &a[k][j], cosine, sine);
                for (int k = 0; k < 3; k++)
                    fsi__rotate_pair(&a[i][k], &a[j][k], cosine, sine);
                for (int k = 0; k < 3; k++)
                    fsi__rotate_pair(&V->m[3 * i + k], &V->m[3 * j + k], cosine, sine);
            }
    }
    for (int i = 0; i < 3; i++)
        value[i] = a[i][i];
}

/* R of F = R U with det R = +1, inverted and flat elements included: the weakest direction is
   flipped. */
static fsi_mat3 fsi__polar(const fsi_mat3 *F) {
    /* Principal stretches, the largest first. */
    fsi_mat3 Ft = fsi_mat3_transpose(F);
    fsi_mat3 C = fsi_mat3_mul(&Ft, F);
    fsi_mat3 V;
    fsi_real stretch[3];
    int order[3] = {0, 1, 2};
    fsi__eigen3(&C, stretch, &V);
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2 - i; j++)
            if (stretch[order[j]] < stretch[order[j + 1]]) {
                int swap = order[j];
                order[j] = order[j + 1];
                order[j + 1] = swap;
            }

    /* Their directions at rest, v, and now, u. */
    fsi_vec3 v[3];
    fsi_vec3 u[3];
    for (int i = 0; i < 3; i++)
        v[i] = fsi_mat3_row(&V, order[i]);
    v[2] = fsi_vec_cross(v[0], v[1]);
    u[0] = fsi__unit(fsi_mat3_mul_vec(F, v[0]));
    if (!(fsi_vec_dot(u[0], u[0]) > 0))
        u[0] = v[0];
    u[1] = fsi_mat3_mul_vec(F, v[1]);
    u[1] = fsi__unit(fsi_vec_mad(u[1], u[0], -fsi_vec_dot(u[1], u[0])));
    if (!(fsi_vec_dot(u[1], u[1]) > 0)) {
        int axis = fsi__abs(u[0].x) < FSI_R(0.7) ? 0 : 1;
        u[1] = fsi__unit(fsi_vec_cross(fsi__axis(axis), u[0]));
    }
    u[2] = fsi_vec_cross(u[0], u[1]);

    /* sum u v^T */
    fsi_mat3 U;
    for (int i = 0; i < 3; i++) {
        fsi__vec_put(U.m, i, u[i]);
        fsi__vec_put(V.m, i, v[i]);
    }
    fsi_mat3 Ut = fsi_mat3_transpose(&U);
    return fsi_mat3_mul(&Ut, &V);
}

/* A spring of rest length `rest` and stiffness EA: N = EA strain. */
static void fsi__elem_segment(fsi_real EA, fsi_real rest, const fsi_vec3 *x, fsi__elem *elem) {
    fsi_vec3 d = fsi_vec_sub(x[1], x[0]);
    fsi_real length = fsi__length(d);
    fsi_real strain = length / rest - 1;
    fsi_real N = EA * strain;
    fsi_real stiff = fsi__sqrt(EA / rest);
    fsi_real tension = length > 0 ? N / length : 0;
    fsi_real pull = fsi__sqrt(fsi__max(tension, 0));
    fsi_real n[3];
    fsi_vec_store(n, fsi__unit(d));
    elem->energy = N * strain * rest / 2;
    elem->rows = 4;
    elem->has_geo = 1;
    for (int i = 0; i < 3; i++)
        for (int a = 0; a < 2; a++) {
            fsi_real sign = a ? 1 : FSI_R(-1.0);
            elem->force[3 * a + i] = -sign * N * n[i];
            elem->row[0][3 * a + i] = sign * stiff * n[i];
            for (int j = 0; j < 3; j++) {
                fsi_real across = (i == j ? FSI_R(1.0) : FSI_R(0.0)) - n[i] * n[j];
                elem->row[1 + j][3 * a + i] = sign * pull * across; /* tension only */
                for (int b = 0; b < 2; b++)
                    elem->geo[3 * a + i][3 * b + j] = (a == b ? tension : -tension) * across;
            }
        }
}

/* An angle between -pi and pi. */
static fsi_real fsi__wrap(fsi_real angle) {
    if (angle > FSI_PI)
        return angle - 2 * FSI_PI;
    return angle < -FSI_PI ? angle + 2 * FSI_PI : angle;
}

/* 2D hinge: angle from b - a to c - b. */
static fsi_real fsi__bend_angle(const fsi_vec3 *x) {
    fsi_vec3 d = fsi_vec_sub(x[1], x[0]);
    fsi_vec3 e = fsi_vec_sub(x[2], x[1]);
    return fsi__atan2(d.x * e.y - d.y * e.x, d.x * e.x + d.y * e.y);
}

/* The angle is phi(second segment) - phi(first), where dphi/dd = n / l and d2phi/dd2 = -(n t + t n)
   / l^2 with t along the segment and n across it, both of length l here. */
static void fsi__elem_bend(fsi_real rest, fsi_real k, const fsi_vec3 *x, fsi__elem *elem) {
    fsi_real theta = fsi__wrap(fsi__bend_angle(x) - rest);
    fsi_real root = fsi__sqrt(k);
    elem->energy = k * theta * theta / 2;
    elem->rows = 1;
    elem->has_geo = 1;

    for (int s = 0; s < 2; s++) {
        fsi_vec3 d = fsi_vec_sub(x[s + 1], x[s]);
        fsi_real l2 = fsi__max(d.x * d.x + d.y * d.y, FSI_R(1e-30));
        fsi_real t[2] = {d.x, d.y};
        fsi_real n[2] = {-d.y, d.x};
        fsi_real sign = s ? 1 : FSI_R(-1.0);
        for (int i = 0; i < 2; i++)
            for (int a = 0; a < 2; a++) {
                int at = 3 * (s + a) + i;
                fsi_real slope = (a ? sign : -sign) * n[i] / l2;
                elem->row[0][at] += root * slope;
                elem->force[at] -= k * theta * slope;
                for (int j = 0; j < 2; j++) {
                    fsi_real H = -sign * k * theta * (n[i] * t[j] + t[i] * n[j]) / (l2 * l2);
                    for (int b = 0; b < 2; b++)
                        elem->geo[at][3 * (s + b) + j] += a == b ? H : -H;
                }
            }
    }
}

/* Dihedral angle at the edge x0 x1 between the triangles (x0 x1 x2) and (x1 x0 x3), and its
   gradient (may be NULL). */
static fsi_real fsi__fold_angle(const fsi_vec3 *x, fsi_vec3 *slope) {
    fsi_vec3 edge = fsi_vec_sub(x[1], x[0]);
    fsi_vec3 x20 = fsi_vec_sub(x[2], x[0]);
    fsi_vec3 x21 = fsi_vec_sub(x[2], x[1]);
    fsi_vec3 x30 = fsi_vec_sub(x[3], x[0]);
    fsi_vec3 x31 = fsi_vec_sub(x[3], x[1]);
    fsi_vec3 n = fsi_vec_cross(x20, x21);
    fsi_vec3 m = fsi_vec_cross(x31, x30);
    fsi_real length = fsi__length(edge);
    fsi_real nn = fsi_vec_dot(n, n);
    fsi_real mm = fsi_vec_dot(m, m);
    int flat = !(length > 0) || !(nn > 0) || !(mm > 0);
    if (slope && flat)
        memset(slope, 0, 4 * sizeof *slope);
    if (flat)
        return 0;
    if (slope) {
        fsi_vec3 u = fsi_vec_scale(n, 1 / nn);
        fsi_vec3 w = fsi_vec_scale(m, 1 / mm);
        slope[0] = fsi_vec_add(fsi_vec_scale(u, -fsi_vec_dot(x21, edge) / length),
                               fsi_vec_scale(w, -fsi_vec_dot(x31, edge) / length));
        slope[1] = fsi_vec_add(fsi_vec_scale(u, fsi_vec_dot(x20, edge) / length),
                               fsi_vec_scale(w, fsi_vec_dot(x30, edge) / length));
        slope[2] = fsi_vec_scale(u, -length);
        slope[3] = fsi_vec_scale(w, -length);
    }

    return fsi__atan2(fsi_vec_dot(fsi_vec_cross(n, m), edge) / length, fsi_vec_dot(n, m));
}

static void fsi__elem_fold(fsi_real rest, fsi_real k, const fsi_vec3 *x, fsi__elem *elem) {
    fsi_vec3 slope[4];
    fsi_real theta = fsi__wrap(fsi__fold_angle(x, slope) - rest);
    fsi_real root = fsi__sqrt(k);
    elem->energy = k * theta * theta / 2;
    elem->rows = 1;
    for (int i = 0; i < 12; i++) {
        fsi_real part = fsi__get(slope[i / 3], i % 3);
        elem->row[0][i] = root * part;
        elem->force[i] = -k * theta * part;
    }
}

/* A membrane (dim 2) or a tetrahedron (dim 3): Lame constants, size, gradients. */
typedef struct fsi__solid {
    int dim;
    fsi_real lambda;
    fsi_real mu;
    fsi_real V;
    fsi_real g[4][3];
} fsi__solid;

/* Rows of the material stiffness for strain increments sym(Q^T dF), dF = e_k g_b^T: the isotropic
   stiffness is (a 1 + b 1 1^T)^2 on the normal strains. */
static void fsi__elem_rows(const fsi__solid *solid, const fsi_mat3 *Q, fsi__elem *elem) {
    int dim = solid->dim;
    fsi_real root = fsi__sqrt(solid->V);
    fsi_real a = fsi__sqrt(2 * solid->mu);
    fsi_real all = fsi__sqrt(fsi__max(2 * solid->mu + (fsi_real)dim * solid->lambda, 0));
    fsi_real b = (all - a) / (fsi_real)dim;
    fsi_real shear = fsi__sqrt(solid->mu);
    elem->rows = dim == 2 ? 3 : 6;
    for (int n = 0; n <= dim; n++)
        for (int k = 0; k < 3; k++) {
            const fsi_real *q = Q->m + 3 * k;
            const fsi_real *g = solid->g[n];
            fsi_real trace = 0;
            for (int i = 0; i < dim; i++)
                trace += q[i] * g[i];
            for (int i = 0; i < dim; i++)
                elem->row[i][3 * n + k] = root * (a * q[i] * g[i] + b * trace);
            /* shears 01, 02, 12 */
            for (int r = dim; r < elem->rows; r++) {
                int i = r - dim == 2 ? 1 : 0;
                int j = r - dim == 0 ? 1 : 2;
                elem->row[r][3 * n + k] = root * shear * (q[i] * g[j] + q[j] * g[i]);
            }
        }
}

/* Membranes: rows of the positive part of the geometric stiffness, S = sum w_i n_i n_i^T. */
static void fsi__elem_tension(const fsi__solid *solid, const fsi_mat3 *S, fsi__elem *elem) {
    fsi_real xx = S->m[0];
    fsi_real yy = S->m[4];
    fsi_real xy = S->m[1];
    fsi_real mean = (xx + yy) / 2;
    fsi_real radius = fsi__sqrt((xx - yy) * (xx - yy) / 4 + xy * xy);
    fsi_real angle = fsi__atan2(2 * xy, xx - yy) / 2;
    fsi_real cosine = fsi__cos(angle);
    fsi_real sine = fsi__sin(angle);
    for (int i = 0; i < 2; i++) {
        fsi_real pull = fsi__max(i ? mean - radius : mean + radius, 0);
        fsi_real root = fsi__sqrt(solid->V * pull);
        fsi_real nx = i ? -sine : cosine;
        fsi_real ny = i ? cosine : sine;
        for (int a = 0; a <= 2; a++) {
            fsi_real value = root * (nx * solid->g[a][0] + ny * solid->g[a][1]);
            for (int k = 0; k < 3; k++)
                elem->row[3 + 3 * i + k][3 * a + k] = value;
        }
    }
    elem->rows = 9;
}

/* Geometric stiffness V g_a . S g_b. */
static void fsi__elem_geo(const fsi__solid *solid, const fsi_mat3 *S, fsi__elem *elem) {
    int dim = solid->dim;
    for (int a = 0; a <= dim; a++)
        for (int b = 0; b <= dim; b++) {
            fsi_real sum = 0;
            for (int i = 0; i < dim; i++)
                for (int j = 0; j < dim; j++)
                    sum += solid->V * solid->g[a][i] * S->m[3 * i + j] * solid->g[b][j];
            for (int k = 0; k < 3; k++)
                elem->geo[3 * a + k][3 * b + k] += sum;
        }
    elem->has_geo = 1;
    if (dim == 2)
        fsi__elem_tension(solid, S, elem);
}

/* Exact stiffness of the Neo-Hookean tetrahedron; f and slope: f(J) and its derivative. */
static void fsi__neohookean_geo(const fsi__solid *solid, const fsi_mat3 *F, const fsi_mat3 *cof,
                                fsi_real f, fsi_real slope, fsi__elem *elem) {
    fsi_vec3 g[4];
    fsi_vec3 c[4];
    for (int a = 0; a < 4; a++) {
        g[a] = fsi_vec_load(solid->g[a]);
        c[a] = fsi_mat3_mul_vec(cof, g[a]);
    }
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++) {
            fsi_real diagonal = solid->V * solid->mu * fsi_vec_dot(g[a], g[b]);
            for (int i = 0; i < 3; i++)
                for (int j = 0; j < 3; j++)
                    elem->geo[3 * a + i][3 * b + j] =
                        solid->V * slope * fsi__get(c[a], i) * fsi__get(c[b], j)
                        + (i == j ? diagonal : 0);
            /* derivative of cof: eps_ikm w_m */
            fsi_vec3 w =
                fsi_vec_scale(fsi_mat3_mul_vec(F, fsi_vec_cross(g[a], g[b])), solid->V * f);
            for (int m = 0; m < 3; m++) {
                int i = (m + 1) % 3;
                int j = (m + 2) % 3;
                elem->geo[3 * a + i][3 * b + j] += fsi__get(w, m);
                elem->geo[3 * a + j][3 * b + i] -= fsi__get(w, m);
            }
        }
    elem->has_geo = 1;
}

/* P = mu F + f(J) cof F with f = (lambda L - mu) L', L = ln J above 0.1, its parabola below:
   defined for inverted elements. */
static fsi_mat3 fsi__neohookean(const fsi__solid *solid, const fsi_mat3 *F, int stiffness,
                                fsi__elem *elem) {
    const fsi_real J0 = FSI_R(0.1);
    const fsi_real lambda = solid->lambda;
    const fsi_real mu = solid->mu;
    fsi_real J = fsi_mat3_det(F);
    fsi_mat3 cof;
    for (int i = 0; i < 3; i++)
        fsi__vec_put(cof.m, i,
                     fsi_vec_cross(fsi_mat3_row(F, (i + 1) % 3), fsi_mat3_row(F, (i + 2) % 3)));

    /* L and its derivatives. */
    fsi_real L;
    fsi_real dL;
    fsi_real ddL;

    if (J > J0) {
        L = fsi__log(J);
        dL = 1 / J;
        ddL = -dL * dL;
    } else {
        fsi_real t = (J - J0) / J0;
        L = fsi__log(J0) + t - t * t / 2;
        dL = (1 - t) / J0;
        ddL = -1 / (J0 * J0);
    }
    fsi_real f = (lambda * L - mu) * dL;
    fsi_real I1 = 0;
    fsi_mat3 P;
    for (int i = 0; i < 9; i++) {
        I1 += F->m[i] * F->m[i];
        P.m[i] = mu * F->m[i] + f * cof.m[i];
    }
    elem->energy = solid->V * (mu * (I1 - 3) / 2 - mu * L + lambda * L * L / 2);

    /* The positive part is that of linear elasticity in the turned frame. */
    if (stiffness == FSI__POSITIVE) {
        fsi_mat3 R = fsi__polar(F);
        fsi__elem_rows(solid, &R, elem);
    }
    if (stiffness == FSI__EXACT)
        fsi__neohookean_geo(solid, F, &cof, f, lambda * dL * dL + (lambda * L - mu) * ddL, elem);

    return P;
}

/* P = Q S of the models with a linear law, S = 2 mu e + lambda tr(e), e = sym(Q^T F) - 1 (half of
   that for St. Venant-Kirchhoff). */
static fsi_mat3 fsi__hookean(const fsi__solid *solid, fsi_soft_model model, const fsi_mat3 *F,
                             int stiffness, fsi__elem *elem) {
    int dim = solid->dim;
    fsi_mat3 Q;
    fsi_mat3 S;
    fsi_mat3 e;
    memset(&Q, 0, sizeof Q);
    memset(&S, 0, sizeof S);
    memset(&e, 0, sizeof e);
    for (int i = 0; i < 3; i++)
        Q.m[4 * i] = 1;
    if (model == FSI_SOFT_COROTATED)
        Q = fsi__polar(F);
    if (model == FSI_SOFT_STVK)
        Q = *F;

    fsi_real trace = 0;
    fsi_real norm = 0;
    for (int i = 0; i < dim; i++)
        for (int j = 0; j < dim; j++) {
            fsi_real sum = 0;
            for (int k = 0; k < 3; k++)
                sum += Q.m[3 * k + i] * F->m[3 * k + j] + Q.m[3 * k + j] * F->m[3 * k + i];
            sum = sum / 2 - (i == j ? FSI_R(1.0) : FSI_R(0.0));
            fsi_real strain = model == FSI_SOFT_STVK ? sum / 2 : sum;
            e.m[3 * i + j] = strain;
            norm += strain * strain;
            if (i == j)
                trace += strain;
        }
    elem->energy = solid->V * (solid->mu * norm + solid->lambda * trace * trace / 2);
    for (int i = 0; i < dim; i++)
        for (int j = 0; j < dim; j++)
            S.m[3 * i + j] = 2 * solid->mu * e.m[3 * i + j] + (i == j ? solid->lambda * trace : 0);

    if (stiffness)
        fsi__elem_rows(solid, &Q, elem);
    if (model == FSI_SOFT_STVK && stiffness && (dim == 2 || stiffness == FSI__EXACT))
        fsi__elem_geo(solid, &S, elem);

    return fsi_mat3_mul(&Q, &S);
}

/* Membrane (always St. Venant-Kirchhoff, plane stress) or tetrahedron. stiffness 0: none. */
static void fsi__elem_solid(fsi__solid *solid, fsi_soft_model model, const fsi_real *rest,
                            const fsi_vec3 *x, int stiffness, fsi__elem *elem) {
    int dim = solid->dim;
    fsi_mat3 F = FSI__ZERO;
    memset(solid->g, 0, sizeof solid->g);
    solid->V = rest[dim * dim];
    for (int a = 1; a <= dim; a++)
        for (int i = 0; i < dim; i++) {
            solid->g[a][i] = rest[dim * (a - 1) + i];
            solid->g[0][i] -= solid->g[a][i];
        }
    for (int a = 0; a <= dim; a++)
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < dim; j++)
                F.m[3 * i + j] += fsi__get(x[a], i) * solid->g[a][j];

    fsi_mat3 P = model == FSI_SOFT_NEOHOOKEAN ? fsi__neohookean(solid, &F, stiffness, elem)
                                              : fsi__hookean(solid, model, &F, stiffness, elem);
    for (int a = 0; a <= dim; a++)
        for (int i = 0; i < 3; i++) {
            const fsi_real *row = P.m + 3 * i;
            const fsi_real *g = solid->g[a];
            fsi_real sum = row[0] * g[0] + row[1] * g[1] + (dim == 3 ? row[2] * g[2] : 0);
            elem->force[3 * a + i] = -solid->V * sum;
        }
}

static int fsi__soft_kind(const fsi__soft_work *work, int e) {
    int kind = 0;
    while (e >= work->begin[kind + 1])
        kind++;
    return kind;
}

/* Lame constants of triangles (plane stress) or tetrahedra. */
static fsi__solid fsi__soft_material(const fsi_soft_desc *desc, int dim) {
    fsi__solid solid;
    fsi_real nu = dim == 2 ? desc->stretch_poisson : desc->poisson;
    fsi_real young = dim == 2 ? desc->stretch : desc->young;
    solid.dim = dim;
    solid.mu = young / (2 * (1 + nu));
    solid.lambda = dim == 2 ? young * nu / (1 - nu * nu) : young * nu / ((1 + nu) * (1 - 2 * nu));
    return solid;
}

/* Element e with the nodes at x. */
static void fsi__soft_eval(const fsi_soft *soft, int e, const fsi_real *x, int stiffness,
                           fsi__elem *elem) {
    const fsi__soft_work *work = soft->work;
    const fsi_real *rest = work->rest + (size_t)FSI__REST * (size_t)e;
    int kind = fsi__soft_kind(work, e);

    /* What is written in any case need not be cleared: 2 KB each time. */
    int all = kind != FSI__FOLD && (stiffness || kind < FSI__TRI);
    memset(elem, 0, all ? sizeof *elem : offsetof(fsi__elem, row));
    elem->rows = elem->has_geo = 0;
    fsi_vec3 p[4];
    for (int a = 0; a < fsi__kind_nodes[kind]; a++)
        p[a] = fsi__vec_at(x, work->node[4 * e + a]);
    if (kind == FSI__SEG)
        fsi__elem_segment(soft->desc.stretch, rest[0], p, elem);
    else if (kind == FSI__BEND)
        fsi__elem_bend(rest[0], rest[1], p, elem);
    else if (kind == FSI__FOLD)
        fsi__elem_fold(rest[0], rest[1], p, elem);
    else {
        int dim = kind == FSI__TRI ? 2 : 3;
        fsi__solid solid = fsi__soft_material(&soft->desc, dim);
        fsi__elem_solid(&solid, dim == 2 ? FSI_SOFT_STVK : soft->desc.model, rest, p, stiffness,
                        elem);
    }
}

/* ------------------------------------------------------------------------------------------------
 * >>soft forces */
/* f = sum of element forces around each vertex, in fixed order. */
static void fsi__soft_gather(const fsi_soft *soft, fsi_real *f) {
    const fsi__soft_work *work = soft->work;
    ptrdiff_t n = soft->desc.vertex_count;
    FSI__PARALLEL(n > 2000)
    for (ptrdiff_t i = 0; i < n; i++) {
        fsi_vec3 sum = FSI__ZERO;
        for (int32_t k = work->first[i]; k < work->first[i + 1]; k++)
            sum = fsi_vec_add(sum, fsi__vec_at(work->element_force, work->corner[k]));
        fsi__vec_put(f, i, sum);
    }
}

/* Volume of the closed surface (area in 2D), m^3; its gradient times scale is added. */
static fsi_real fsi__soft_volume(const fsi_soft *soft, const fsi_real *x, fsi_real scale,
                                 fsi_real *gradient) {
    int dim = soft->desc.dim;
    int parts = dim == 2 ? 2 : 6;
    double volume = 0;

    for (int e = 0; e < soft->surface_count; e++) {
        const int32_t *corner = soft->surface + dim * e;
        fsi_vec3 p[3] = {fsi_vec(0, 0, 0), fsi_vec(0, 0, 0), fsi__axis(2)}; /* 2D: per depth */
        for (int a = 0; a < dim; a++)
            p[a] = fsi__vec_at(x, corner[a]);
        volume += (double)fsi_vec_dot(p[0], fsi_vec_cross(p[1], p[2])) / parts;
        for (int a = 0; gradient && a < dim; a++) {
            fsi_vec3 normal = fsi_vec_cross(p[(a + 1) % 3], p[(a + 2) % 3]);
            fsi__vec_add_at(gradient, corner[a], fsi_vec_scale(normal, scale / (fsi_real)parts));
        }
    }

    return (fsi_real)volume;
}

static int fsi__soft_has_pressure(const fsi_soft *soft) {
    return soft->closed && (soft->desc.pressure != 0 || soft->desc.volume_stiffness > 0);
}

/* Second derivative of the energy by the volume, Pa/m^3. */
static fsi_real fsi__soft_volume_stiffness(const fsi_soft *soft) {
    return fsi__soft_has_pressure(soft) ? soft->desc.volume_stiffness / soft->work->rest_volume : 0;
}

/* f (may be NULL) = elastic and pressure force at x; returns the energy. */
static double fsi__soft_internal(const fsi_soft *soft, const fsi_real *x, fsi_real *f) {
    fsi__soft_work *work = soft->work;
    ptrdiff_t n = soft->element_count;
    FSI__PARALLEL(n > 4000)
    for (ptrdiff_t e = 0; e < n; e++) {
        fsi__elem elem;
        fsi__soft_eval(soft, (int)e, x, 0, &elem);
        memcpy(work->element_force + 12 * e, elem.force, sizeof elem.force);
        work->element_energy[e] = elem.energy;
    }
    if (f)
        fsi__soft_gather(soft, f);
    double energy = fsi_sum((size_t)n, work->element_energy);
    if (!fsi__soft_has_pressure(soft))
        return energy;

    /* E = -p V + k (V - V_target)^2 / (2 V_0) */
    fsi_real volume = fsi__soft_volume(soft, x, 0, NULL);
    fsi_real gap = volume - soft->volume_target[0];
    fsi_real stiff = fsi__soft_volume_stiffness(soft);
    if (f)
        fsi__soft_volume(soft, x, soft->desc.pressure - stiff * gap, f);

    return energy + (double)(-soft->desc.pressure * volume + stiff * gap * gap / 2);
}

FSI_API void fsi_soft_elastic_force(const fsi_soft *soft, fsi_real *f) {
    if (soft && soft->block && f)
        fsi__soft_internal(soft, soft->x, f);
}

/* Gravity and external force on vertex i. */
static fsi_vec3 fsi__soft_load(const fsi_soft *soft, int i) {
    return fsi_vec_mad(fsi__vec_at(soft->force, i), soft->desc.gravity, soft->mass[i]);
}

/* f += gravity and external force */
static void fsi__soft_loads(const fsi_soft *soft, fsi_real *f) {
    for (int i = 0; i < soft->desc.vertex_count; i++)
        fsi__vec_add_at(f, i, fsi__soft_load(soft, i));
}

static double fsi__soft_kinetic(const fsi_soft *soft, const fsi_real *v) {
    double energy = 0;
    for (int i = 0; i < soft->desc.vertex_count; i++) {
        fsi_vec3 u = fsi__vec_at(v, i);
        energy += (double)(soft->mass[i] * fsi_vec_dot(u, u) / 2);
    }
    return energy;
}

FSI_API void fsi_soft_energy(const fsi_soft *soft, double *elastic, double *kinetic) {
    int ready = soft && soft->block;
    if (elastic)
        *elastic = ready ? fsi__soft_internal(soft, soft->x, NULL) : 0;
    if (kinetic)
        *kinetic = ready ? fsi__soft_kinetic(soft, soft->v) : 0;
}

/* Energy with the nodes at x and velocities v, J: elastic, pressure, gravity's, the constant
   forces', kinetic. f (may be NULL): the first two as forces. */
static double fsi__soft_total(const fsi_soft *soft, const fsi_real *x, const fsi_real *v,
                              fsi_real *f) {
    double energy = fsi__soft_internal(soft, x, f);
    for (int i = 0; i < soft->desc.vertex_count; i++)
        energy -= (double)fsi_vec_dot(fsi__soft_load(soft, i), fsi__vec_at(x, i));
    return energy + fsi__soft_kinetic(soft, v);
}

FSI_API fsi_real fsi_soft_volume(const fsi_soft *soft) {
    return soft && soft->block ? fsi__soft_volume(soft, soft->x, 0, NULL) : 0;
}

/* ------------------------------------------------------------------------------------------------
 * >>soft matrix */
/* Rows and entries of B: elements, mass damping, volume stiffness. */
static void fsi__soft_count_rows(const fsi_soft *soft, size_t *rows, size_t *entries) {
    const fsi__soft_work *work = soft->work;
    *rows = *entries = 0;
    if (soft->desc.integrator != FSI_SOFT_SPLIT)
        return;

    for (int k = 0; k < FSI__KINDS; k++) {
        size_t own = (size_t)(work->begin[k + 1] - work->begin[k]) * (size_t)fsi__kind_rows[k];
        *rows += own;
        *entries += own * 3 * (size_t)fsi__kind_nodes[k];
    }
    if (soft->desc.damping_mass > 0) {
        *rows += work->dof;
        *entries += work->dof;
    }
    if (soft->closed && soft->desc.volume_stiffness > 0) {
        *rows += 1;
        *entries += work->dof;
    }
}

/* Memory of K with `blocks` blocks of 3 x 3, and of B. */
static fsi_result fsi__soft_matrix_block(fsi_soft *soft, size_t blocks) {
    fsi__soft_work *work = soft->work;
    size_t rows;
    size_t entries;
    fsi__soft_count_rows(soft, &rows, &entries);
    if (9 * blocks > 0x7fffffff || entries > 0x7fffffff)
        return FSI_ERR_MEMORY;

    fsi_arena arena = FSI__ZERO;

    for (int pass = 0; pass < 2; pass++) {
        FSI__TAKE(soft->K.val, &arena, 9 * blocks);
        if (soft->desc.damping_stiffness > 0)
            FSI__TAKE(work->kd, &arena, 9 * blocks);
        FSI__TAKE(soft->K.col, &arena, 9 * blocks);
        FSI__TAKE(soft->K.row, &arena, work->dof + 1);
        FSI__TAKE(work->slot, &arena, 16 * (size_t)soft->element_count);
        FSI__TAKE(soft->B.val, &arena, entries);
        FSI__TAKE(soft->B.col, &arena, entries);
        FSI__TAKE(soft->B.row, &arena, rows + 1);
        if (pass)
            break;
        if (fsi__arena_block(&arena, &soft->desc.allocator, &work->slot_block, &work->slot_size)
            != FSI_OK) {
            memset(&soft->K, 0, sizeof soft->K);
            memset(&soft->B, 0, sizeof soft->B);
            work->kd = NULL;
            return FSI_ERR_MEMORY;
        }
    }
    soft->K.rows = soft->K.cols = soft->B.cols = (int)work->dof;
    soft->B.rows = (int)rows;

    return FSI_OK;
}

/* Both nodes of block k of an element, as one number; 0 where there is none. */
static int fsi__soft_block(const fsi__soft_work *work, size_t k, uint64_t *pair) {
    const int32_t *node = work->node + 4 * (k / 16);
    int32_t a = node[k % 16 / 4];
    int32_t b = node[k % 4];
    *pair = fsi__pair_key(a, b);
    return a >= 0 && b >= 0;
}

/* Memory and pattern of K and B. Once per object. */
static fsi_result fsi__soft_matrix(fsi_soft *soft) {
    fsi__soft_work *work = soft->work;
    if (work->slot_block)
        return FSI_OK;

    /* Blocks of K: nodes that share an element, each pair once. */
    size_t all = 16 * (size_t)soft->element_count;
    size_t pairs = 0;
    size_t blocks;
    uint64_t *list = NULL;
    fsi_result result = FSI__LIST_ROOM(list, 2 * all, &soft->desc.allocator);
    if (result != FSI_OK)
        return result;

    for (size_t k = 0; k < all; k++)
        pairs += (size_t)fsi__soft_block(work, k, list + pairs);
    const uint64_t *block = fsi__keys_once(pairs, list, &blocks);
    result = fsi__soft_matrix_block(soft, blocks);

    /* The three rows of each vertex, and the places of its elements' blocks in them. */
    size_t first = 0;
    for (int i = 0; i < soft->desc.vertex_count && result == FSI_OK; i++) {
        size_t end = fsi__lower_bound(blocks, block, fsi__pair_key(i + 1, 0));
        int32_t width = (int32_t)(3 * (end - first));
        for (int row = 3 * i; row < 3 * i + 3; row++) {
            int32_t at = soft->K.row[row];
            for (int32_t j = 0; j < width; j++)
                soft->K.col[at + j] =
                    (int32_t)(3 * (block[first + (size_t)j / 3] & 0xffffffffu)) + j % 3;
            soft->K.row[row + 1] = at + width;
        }
        first = end;
    }
    for (size_t k = 0; k < all && result == FSI_OK; k++) {
        uint64_t pair;
        if (fsi__soft_block(work, k, &pair))
            work->slot[k] =
                (int32_t)fsi__lower_bound(blocks, block, pair) - soft->K.row[3 * (pair >> 32)] / 9;
    }
    FSI__LIST_FREE(list, &soft->desc.allocator);

    return result;
}

/* Stiffness of element e, [12 * 12]. */
static void fsi__soft_element_matrix(const fsi_soft *soft, int e, const fsi_real *x, int stiffness,
                                     fsi_real *out) {
    fsi__elem elem;
    int kind = fsi__soft_kind(soft->work, e);
    int n = 3 * fsi__kind_nodes[kind];
    fsi__soft_eval(soft, e, x, stiffness, &elem);

    /* Exact: geo instead of its positive rows. Rows alone are symmetric to the bit. */
    int exact = stiffness == FSI__EXACT && elem.has_geo;
    if (stiffness == FSI__EXACT)
        elem.rows = fsi__imin(elem.rows, fsi__kind_material[kind]);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < (exact ? n : i + 1); j++) {
            fsi_real sum = exact ? elem.geo[i][j] : 0;
            for (int r = 0; r < elem.rows; r++)
                sum += elem.row[r][i] * elem.row[r][j];
            out[12 * i + j] = sum;
            if (!exact)
                out[12 * j + i] = sum;
        }
}

/* Adds the stiffness of an element to K. */
static void fsi__soft_scatter(fsi_soft *soft, ptrdiff_t e, const fsi_real *own) {
    const int32_t *node = soft->work->node + 4 * e;
    const int32_t *slot = soft->work->slot + 16 * e;
    for (int a = 0; a < 4 && node[a] >= 0; a++)
        for (int i = 0; i < 3; i++) {
            fsi_real *row = soft->K.val + soft->K.row[3 * node[a] + i];
            const fsi_real *from = own + 12 * (3 * a + i);
            for (int b = 0; b < 4 && node[b] >= 0; b++)
                for (int j = 0; j < 3; j++)
                    row[3 * slot[4 * a + b] + j] += from[3 * b + j];
        }
}

/* K at x. Elements in parallel, sums in element order. */
static void fsi__soft_assemble(fsi_soft *soft, const fsi_real *x, int stiffness) {
    fsi_real *batch = soft->work->batch;
    fsi_fill((size_t)soft->K.row[soft->K.rows], 0, soft->K.val);
    for (int begin = 0; begin < soft->element_count; begin += FSI__SOFT_BATCH) {
        ptrdiff_t count = fsi__imin(FSI__SOFT_BATCH, soft->element_count - begin);
        FSI__PARALLEL(soft->element_count > 4000)
        for (ptrdiff_t k = 0; k < count; k++)
            fsi__soft_element_matrix(soft, begin + (int)k, x, stiffness, batch + 144 * k);
        for (ptrdiff_t k = 0; k < count; k++)
            fsi__soft_scatter(soft, begin + k, batch + 144 * k);
    }
}

FSI_API fsi_result fsi_soft_stiffness(fsi_soft *soft) {
    if (!soft || !soft->block)
        return FSI_ERR_STATE;

    fsi_result result = fsi__soft_matrix(soft);
    if (result == FSI_OK)
        fsi__soft_assemble(soft, soft->x, FSI__EXACT);
    return result;
}

/* The rows of element e in B from `row` on; returns where the next entry goes. Columns ascend. */
static int32_t fsi__soft_element_rows(fsi_soft *soft, int e, fsi_real scale, int32_t row,
                                      int32_t at) {
    const fsi__soft_work *work = soft->work;
    const int32_t *node = work->node + 4 * e;
    int kind = fsi__soft_kind(work, e);
    int n = fsi__kind_nodes[kind];
    fsi__elem elem;
    fsi__soft_eval(soft, e, soft->x, FSI__POSITIVE, &elem);
    int32_t sorted[4];
    memcpy(sorted, node, sizeof sorted);
    fsi__sort_few(n, sorted);

    for (int r = 0; r < fsi__kind_rows[kind]; r++) {
        soft->B.row[row + r] = at;
        for (int a = 0; a < n; a++) {
            int own = 0;
            while (node[own] != sorted[a])
                own++;
            for (int i = 0; i < 3; i++, at++) {
                int col = 3 * sorted[a] + i;
                int empty = work->fixed[col] || r >= elem.rows;
                soft->B.col[at] = col;
                soft->B.val[at] = empty ? 0 : scale * elem.row[r][3 * own + i];
            }
        }
    }

    return at;
}

/* Rows of B with B^T B = dt^2 K + dt C, columns of prescribed coordinates zero: elements (positive
   semi-definite part), mass damping, volume stiffness. */
static void fsi__soft_factor_rows(fsi_soft *soft, fsi_real dt) {
    const fsi__soft_work *work = soft->work;
    const fsi_real scale = fsi__sqrt(dt * (dt + soft->desc.damping_stiffness));
    fsi_csr *B = &soft->B;
    int all = (int)work->dof;
    int32_t row = 0;
    int32_t at = 0;
    for (int e = 0; e < soft->element_count; e++) {
        at = fsi__soft_element_rows(soft, e, scale, row, at);
        row += fsi__kind_rows[fsi__soft_kind(work, e)];
    }
    for (int i = 0; i < all && soft->desc.damping_mass > 0; i++, at++) {
        fsi_real damping = fsi__sqrt(dt * soft->desc.damping_mass * soft->mass[i / 3]);
        B->row[row++] = at;
        B->col[at] = i;
        B->val[at] = work->fixed[i] ? 0 : damping;
    }
    if (row < B->rows) {
        fsi_real stiff = soft->desc.volume_stiffness / work->rest_volume;
        B->row[row++] = at;
        fsi_fill((size_t)all, 0, B->val + at);
        fsi__soft_volume(soft, soft->x, dt * fsi__sqrt(stiff), B->val + at);
        for (int i = 0; i < all; i++, at++) {
            B->col[at] = i;
            if (work->fixed[i])
                B->val[at] = 0;
        }
    }
    B->row[row] = at;
}

/* ------------------------------------------------------------------------------------------------
 * >>soft solve */
/* (mass M + stiff K + damp Kd + volume g g^T) dx = r, dx given on prescribed coordinates. */
typedef struct fsi__soft_system {
    fsi_real mass;
    fsi_real stiff;
    fsi_real damp;
    fsi_real volume;
} fsi__soft_system;

static void fsi__soft_diagonal(const fsi_real *x, fsi_real *y, void *user) {
    const fsi_soft *soft = (const fsi_soft *)user;
    for (int i = 0; i < soft->K.rows; i++)
        y[i] = soft->work->precondition[i] * x[i];
}

/* K.val becomes the system matrix; prescribed rows and columns are taken out, their dx goes to the
   right-hand side. */
static void fsi__soft_system_build(fsi_soft *soft, const fsi__soft_system *system) {
    fsi__soft_work *work = soft->work;
    fsi_csr *matrix = &soft->K;
    fsi_real *r = work->residual;
    const fsi_real *given = work->given;
    FSI__PARALLEL(matrix->rows > 4000)
    for (ptrdiff_t i = 0; i < matrix->rows; i++) {
        double shift = 0;
        for (int32_t k = matrix->row[i]; k < matrix->row[i + 1]; k++) {
            int32_t j = matrix->col[k];
            fsi_real damp = work->kd && system->damp > 0 ? system->damp * work->kd[k] : 0;
            fsi_real mass = j == i ? system->mass * soft->mass[i / 3] : 0;
            fsi_real entry = system->stiff * matrix->val[k] + damp + mass;
            if (work->fixed[j])
                shift += (double)(entry * given[j]);
            if (work->fixed[i] || work->fixed[j])
                entry = j == i ? FSI_R(1.0) : FSI_R(0.0);
            matrix->val[k] = entry;
            if (j == i)
                work->precondition[i] = entry > 0 ? 1 / entry : FSI_R(1.0);
        }
        r[i] = work->fixed[i] ? given[i] : r[i] - (fsi_real)shift;
    }
}

/* Memory and order of the factor, once. */
static fsi_result fsi__soft_symbolic(fsi_soft *soft) {
    if (soft->desc.use_cg || soft->factor.block)
        return FSI_OK;

    fsi_cholesky_desc desc = FSI__ZERO;
    desc.allocator = soft->desc.allocator;
    return fsi_cholesky_init(&soft->factor, &soft->K, &desc);
}

static fsi_result fsi__soft_factor(fsi_soft *soft) {
    fsi_result result = fsi__soft_symbolic(soft);
    if (result < 0 || soft->desc.use_cg)
        return result;
    return fsi_cholesky_factor(&soft->factor, &soft->K, 0, NULL);
}

/* x = matrix^-1 b with the matrix of the last solve. */
static fsi_result fsi__soft_linear(fsi_soft *soft, const fsi_real *b, fsi_real *x) {
    fsi__soft_work *work = soft->work;
    if (!soft->desc.use_cg)
        return fsi_cholesky_solve(&soft->factor, b, x);

    fsi_krylov_desc desc = FSI__ZERO;
    desc.n = work->dof;
    desc.A = fsi_csr_operator(&soft->K);
    desc.precondition.apply_fn = fsi__soft_diagonal;
    desc.precondition.user = soft;
    desc.tolerance = soft->desc.tolerance > 1e-5 ? soft->desc.tolerance / 10 : 1e-6;
    desc.max_iterations = 500; /* an inexact Newton step is still one */
    desc.allocator = soft->desc.allocator;
    fsi_report report;
    fsi_result result = fsi_cg_solve(&desc, b, x, work->cg_work, work->cg_size, &report);

    return result == FSI_NOT_CONVERGED || result == FSI_STALLED ? FSI_OK : result;
}

/* Diagonal entry i of a matrix. */
static fsi_real *fsi__csr_diagonal(fsi_csr *matrix, int i) {
    int32_t at = matrix->row[i];
    while (matrix->col[at] != i)
        at++;
    return matrix->val + at;
}

/* The volume stiffness is a matrix of rank one, added to the solution by Sherman and Morrison's
   formula. */
static fsi_result fsi__soft_solve_volume(fsi_soft *soft, const fsi_real *x, fsi_real volume) {
    fsi__soft_work *work = soft->work;
    fsi_real *gradient = work->volume_gradient;
    fsi_fill(work->dof, 0, gradient);
    fsi__soft_volume(soft, x, 1, gradient);
    for (size_t i = 0; i < work->dof; i++)
        if (work->fixed[i])
            gradient[i] = 0;
    fsi_result result = fsi__soft_linear(soft, gradient, work->volume_answer);
    if (result < 0)
        return result;

    double along = fsi_dot(work->dof, gradient, work->step);
    double own = fsi_dot(work->dof, gradient, work->volume_answer);
    double share = -(double)volume * along / (1 + (double)volume * own);
    fsi_axpy(work->dof, (fsi_real)share, work->volume_answer, work->step);

    return FSI_OK;
}

/* Solves for work->step with the stiffness at x, work->residual (overwritten) and work->given. The
   exact stiffness falls back to the positive one when it is
   indefinite, and that to a slight shift: cloth without tension or bending stiffness leaves flat
   directions. */
static fsi_result fsi__soft_solve(fsi_soft *soft, const fsi_real *x, const fsi__soft_system *system,
                                  int stiffness) {
    fsi__soft_work *work = soft->work;
    fsi_result result = FSI_ERR_SINGULAR;
    fsi_copy(work->dof, work->residual, work->right);

    for (int shifted = 0; shifted < 2;) {
        fsi_copy(work->dof, work->right, work->residual);
        fsi__soft_assemble(soft, x, stiffness);
        fsi__soft_system_build(soft, system);
        if (shifted) {
            fsi_real most = fsi_max_abs((size_t)soft->K.row[soft->K.rows], soft->K.val);
            fsi_real shift = fsi__max(FSI_R(1e-9), 16 * FSI_REAL_EPS) * most;
            for (int i = 0; i < soft->K.rows; i++)
                *fsi__csr_diagonal(&soft->K, i) += shift;
        }
        result = fsi__soft_factor(soft);
        if (result == FSI_OK)
            result = fsi__soft_linear(soft, work->residual, work->step);
        if (result != FSI_ERR_SINGULAR && result != FSI_BREAKDOWN && result != FSI_ERR_NUMERIC)
            break;
        shifted += stiffness == FSI__POSITIVE;
        stiffness = FSI__POSITIVE;
    }
    if (result < 0 || system->volume == 0)
        return result;
    return fsi__soft_solve_volume(soft, x, system->volume);
}

/* The same for velocities over dt: M + dt^2 K + dt C. */
static fsi_result fsi__soft_solve_velocity(fsi_soft *soft, fsi_real dt) {
    fsi__soft_system system = FSI__ZERO;
    system.mass = 1 + dt * soft->desc.damping_mass;
    system.stiff = dt * (dt + soft->desc.damping_stiffness);
    if (fsi__soft_has_pressure(soft))
        system.volume = dt * dt * soft->desc.volume_stiffness / soft->work->rest_volume;
    return fsi__soft_solve(soft, soft->x, &system, FSI__POSITIVE);
}

/* Energy of the implicit step: elastic + mass/2 |x - inertial|_M^2 + damp/2 (x - damp_from) Kd (x -
   damp_from) - loads . x; r (may be NULL) = minus its gradient. */
static double fsi__soft_merit(fsi_soft *soft, const fsi_real *x, const fsi__soft_system *system,
                              fsi_real *r) {
    fsi__soft_work *work = soft->work;
    const fsi_csr *K = &soft->K;
    double energy = fsi__soft_internal(soft, x, r);
    if (r)
        fsi__soft_loads(soft, r);
    for (int i = 0; i < K->rows; i++) {
        fsi_real mass = soft->mass[i / 3];
        fsi_real off = x[i] - work->inertial[i];
        fsi_real damp = 0;
        double load = (double)soft->force[i] + (double)(mass * fsi__get(soft->desc.gravity, i % 3));
        if (system->damp > 0) {
            for (int32_t k = K->row[i]; k < K->row[i + 1]; k++)
                damp += work->kd[k] * (x[K->col[k]] - work->damp_from[K->col[k]]);
            energy += 0.5 * (double)(system->damp * damp * (x[i] - work->damp_from[i]));
        }
        energy += 0.5 * (double)(system->mass * mass * off * off)
                  - load * (double)(x[i] - work->rest_x[i]);
        if (r)
            r[i] = work->fixed[i] ? 0 : r[i] - system->mass * mass * off - system->damp * damp;
    }

    return energy;
}

/* Halves the step until the energy falls (whole: takes all of it); work->trial is the new point,
   work->residual its residual. Returns how often it was cut; *energy becomes that of the point. */
static int fsi__soft_search(fsi_soft *soft, const fsi_real *x, const fsi__soft_system *system,
                            int whole, double *energy) {
    fsi__soft_work *work = soft->work;
    fsi__soft_merit(soft, x, system, work->residual);
    double slope = fsi_dot(work->dof, work->residual, work->step); /* > 0: downhill */
    double slack = 1e-13 * fabs(*energy);
    double next = 0;
    fsi_real share = 1;
    int cut = 0;
    for (;; cut++, share /= 2) {
        fsi_copy(work->dof, x, work->trial);
        fsi_axpy(work->dof, share, work->step, work->trial);
        next = fsi__soft_merit(soft, work->trial, system, work->residual);
        if (whole || cut >= 30 || next <= *energy - 1e-4 * (double)share * slope + slack)
            break;
    }
    *energy = next;

    return cut;
}

/* Newton from work->guess (in place) with halving of the step until the energy falls. work->given:
   prescribed change of fixed coordinates, done in the first step, which is taken whole then. */
static fsi_result fsi__soft_newton(fsi_soft *soft, const fsi__soft_system *system, int iterations) {
    fsi__soft_work *work = soft->work;
    fsi_real *x = work->guess;
    fsi_report *report = &soft->report;
    size_t n = work->dof;
    int stiffness = iterations > 1 ? FSI__EXACT : FSI__POSITIVE;
    int whole = iterations == 1 || fsi_max_abs(n, work->given) > 0;
    int stalled = 0;
    double energy = fsi__soft_merit(soft, x, system, work->residual);
    memset(report, 0, sizeof *report);
    fsi_fill(n, 0, work->trial);
    fsi__soft_loads(soft, work->trial);
    report->residual_start = report->residual = fsi_norm(n, work->residual);
    double goal = soft->desc.tolerance * (fsi_norm(n, work->trial) + report->residual_start);

    for (int k = 0; k < iterations && !stalled && (whole || report->residual > goal); k++) {
        fsi_result result = fsi__soft_solve(soft, x, system, stiffness);
        if (result < 0)
            return result;
        if (!fsi_all_finite(n, work->step))
            return FSI_ERR_NUMERIC;
        double before = energy;
        int cut = fsi__soft_search(soft, x, system, whole, &energy);
        if (!fsi__finite((fsi_real)energy))
            return FSI_ERR_NUMERIC;
        fsi_copy(n, work->trial, x);
        report->iterations++;
        report->restarts += cut;

        /* Stalled: no better point along the step, or neither energy nor residual falls. */
        double residual = fsi_norm(n, work->residual);
        int level = !whole && fabs(before - energy) <= 1e-13 * fabs(energy);
        stalled = cut >= 30 || (level && residual > report->residual / 2);
        report->residual = residual;
        if (whole)
            fsi_fill(n, 0, work->given);
        whole = 0;
    }
    report->reason = stalled ? FSI_STALLED : FSI_NOT_CONVERGED;
    if (iterations == 1 || report->residual <= goal)
        report->reason = FSI_OK;

    return report->reason;
}

/* ------------------------------------------------------------------------------------------------
 * >>soft stages */
static int fsi__soft_ready(const fsi_soft *soft, fsi_real dt) {
    return soft && soft->block && fsi__finite(dt) && dt > 0;
}

/* v += dt M^-1 f, damped; FSI_SOFT_SPLIT: dt f is the door's push. */
static fsi_result fsi__soft_explicit(fsi_soft *soft, fsi_real dt) {
    fsi__soft_work *work = soft->work;
    size_t n = work->dof;
    int split = soft->desc.integrator == FSI_SOFT_SPLIT;
    fsi_real beta = split ? 0 : soft->desc.damping_stiffness;
    fsi_real keep = 1 / (1 + dt * soft->desc.damping_mass);
    fsi_real *force = work->residual;
    fsi__soft_internal(soft, soft->x, force);

    /* stiffness damping: (f(x + h v) - f(x)) / h */
    if (beta > 0) {
        fsi_real h = FSI_R(1e-4) * dt;
        fsi_copy(n, soft->x, work->trial);
        fsi_axpy(n, h, soft->v, work->trial);
        fsi__soft_internal(soft, work->trial, work->step);
        for (size_t i = 0; i < n; i++)
            force[i] += beta / h * (work->step[i] - force[i]);
    }
    fsi__soft_loads(soft, force);
    if (!fsi_all_finite(n, force))
        return FSI_ERR_NUMERIC;

    for (size_t i = 0; i < n; i++) {
        work->push[i] = work->fixed[i] ? 0 : dt * force[i];
        if (work->fixed[i])
            soft->v[i] = soft->drive[i];
        else if (!split)
            soft->v[i] = keep * (soft->v[i] + work->push[i] / soft->mass[i / 3]);
    }

    return FSI_OK;
}

/* What the minimisation of an implicit step starts from: Backward Euler over h = dt, or the
   trapezoidal rule (Newmark) over h = dt / 2. */
static void fsi__soft_implicit_start(fsi_soft *soft, fsi_real dt, fsi_real h,
                                     const fsi__soft_system *system) {
    fsi__soft_work *work = soft->work;
    int newmark = soft->desc.integrator == FSI_SOFT_NEWMARK;
    fsi_real alpha = soft->desc.damping_mass;
    fsi_real *force = work->step;
    fsi_real *damping = work->trial;
    if (work->kd) {
        fsi__soft_assemble(soft, soft->x, FSI__POSITIVE);
        fsi_copy((size_t)soft->K.row[soft->K.rows], soft->K.val, work->kd);
    }
    if (newmark) {
        fsi__soft_internal(soft, soft->x, force);
        fsi__soft_loads(soft, force);
        if (work->kd)
            fsi_csr_mul(&soft->K, soft->v, damping);
    }
    for (size_t i = 0; i < work->dof; i++) {
        fsi_real x = soft->x[i];
        fsi_real v = soft->v[i];
        fsi_real start = 0;

        /* Newmark: the acceleration now + alpha v */
        if (newmark) {
            fsi_real damped = work->kd ? soft->desc.damping_stiffness * damping[i] : 0;
            start = (force[i] - damped) / soft->mass[i / 3];
        }
        fsi_real driven = newmark ? h * (v + soft->drive[i]) : dt * soft->drive[i];
        work->inertial[i] = ((x + dt * v) / (h * h) + start + alpha / h * x) / system->mass;
        work->damp_from[i] = newmark ? x + h * v : x;
        work->guess[i] = x;
        work->given[i] = work->fixed[i] ? driven : 0;
    }
}

/* Backward Euler or trapezoidal rule: x minimises the step's energy, v follows. */
static fsi_result fsi__soft_implicit(fsi_soft *soft, fsi_real dt) {
    fsi__soft_work *work = soft->work;
    int newmark = soft->desc.integrator == FSI_SOFT_NEWMARK;
    fsi_real h = newmark ? dt / 2 : dt;
    fsi__soft_system system;
    system.mass = 1 / (h * h) + soft->desc.damping_mass / h;
    system.stiff = 1;
    system.damp = soft->desc.damping_stiffness / h;
    system.volume = fsi__soft_volume_stiffness(soft);
    fsi__soft_implicit_start(soft, dt, h, &system);
    fsi_result result = fsi__soft_newton(soft, &system, soft->desc.newton);
    if (result < 0)
        return result;

    /* (mass M + K + ...) dx = f, dv = dx / h, f = j / h */
    work->response = soft->report.iterations > 0 ? 1 / (h * h) : 0;

    for (size_t i = 0; i < work->dof; i++) {
        fsi_real way = work->guess[i] - soft->x[i];
        fsi_real before = soft->v[i];
        if (work->fixed[i])
            soft->v[i] = soft->drive[i];
        else
            soft->v[i] = newmark ? 2 * way / dt - before : way / dt;
        work->jump[i] = dt / 2 * (before - soft->v[i]);
    }
    work->jumps = newmark;

    return result;
}

FSI_API fsi_result fsi_soft_forces(fsi_soft *soft, fsi_real dt) {
    if (!soft || !soft->block)
        return FSI_ERR_STATE;
    if (!fsi__soft_ready(soft, dt))
        return FSI_ERR_ARGUMENT;

    fsi__soft_work *work = soft->work;
    soft->dt = dt;
    soft->moved = work->response = 0;
    work->jumps = 0;
    if (work->watched)
        work->energy = fsi__soft_total(soft, soft->x, soft->v, NULL);
    fsi_fill(work->dof, 0, soft->impulse);
    fsi_copy(work->dof, soft->v, work->v_before);
    if (soft->desc.integrator == FSI_SOFT_IMPLICIT || soft->desc.integrator == FSI_SOFT_NEWMARK) {
        /* x and v lie side by side */
        if (!fsi_all_finite(2 * work->dof, soft->x))
            return FSI_ERR_NUMERIC;
        return fsi__soft_implicit(soft, dt);
    }
    fsi_result result = fsi__soft_explicit(soft, dt);
    if (result == FSI_OK && soft->desc.integrator == FSI_SOFT_SPLIT)
        fsi__soft_factor_rows(soft, dt);

    return result;
}

/* B^T B is dt^2 K + dt C, so without a fluid this is the velocity solve of the implicit kinds, with
   their matrix, preconditioner and prescribed nodes. The coupling, which knows only the door, has
   the rows of B and conjugate gradients (fsi__k_solve in fsi_couple.h). */
FSI_API fsi_result fsi_soft_finish(fsi_soft *soft) {
    if (!soft || !soft->block || !(soft->dt > 0))
        return FSI_ERR_STATE;
    if (soft->desc.integrator != FSI_SOFT_SPLIT)
        return FSI_OK;

    fsi__soft_work *work = soft->work;
    for (size_t i = 0; i < work->dof; i++) {
        work->residual[i] = soft->mass[i / 3] * soft->v[i] + work->push[i];
        work->given[i] = work->fixed[i] ? soft->drive[i] : 0;
    }
    fsi_result result = fsi__soft_solve_velocity(soft, soft->dt);
    if (result < 0)
        return result;
    if (!fsi_all_finite(work->dof, work->step))
        return FSI_ERR_NUMERIC;

    fsi_copy(work->dof, work->step, soft->v);
    work->response = 1; /* (M + B^T B) dv = j */
    return result;
}

FSI_API fsi_result fsi_soft_couple(fsi_soft *soft, fsi_coupled *out) {
    if (!out)
        return FSI_ERR_ARGUMENT;

    memset(out, 0, sizeof *out);
    if (!soft || !soft->block)
        return FSI_ERR_STATE;

    out->surface = fsi_soft_surface(soft);
    out->dof = (int)soft->work->dof;
    out->v = soft->v;
    out->impulse = soft->impulse;
    out->mass = soft->mass;
    out->inverse_mass = soft->inverse_mass;
    out->node = soft->surface_node;
    if (soft->desc.integrator == FSI_SOFT_SPLIT) {
        out->implicit = &soft->B;
        out->push = soft->work->push;
    }
    out->user = soft;

    return FSI_OK;
}

FSI_API fsi_result fsi_soft_take(fsi_soft *soft) {
    if (!soft || !soft->block)
        return FSI_ERR_STATE;
    return fsi_all_finite(soft->work->dof, soft->v) ? FSI_OK : FSI_ERR_NUMERIC;
}

FSI_API fsi_surface fsi_soft_surface(const fsi_soft *soft) {
    fsi_surface surface = FSI__ZERO;
    if (!soft || !soft->block)
        return surface;

    surface = fsi__surface_of(soft->desc.dim, soft->desc.vertex_count, soft->x, soft->surface_count,
                              soft->surface);
    surface.closed = soft->desc.tet_count ? 1 : 0;
    surface.v = soft->v;
    return surface;
}

FSI_API fsi_result fsi_soft_step(fsi_soft *soft, const fsi_obstacle *obstacle, int count,
                                 fsi_real dt) {
    fsi_result forces = fsi_soft_forces(soft, dt);
    if (forces < 0)
        return forces;

    fsi_result result = fsi_soft_finish(soft);
    if (result == FSI_OK)
        result = fsi_soft_contact(soft, obstacle, count, dt, NULL);
    if (result == FSI_OK)
        result = fsi_soft_move(soft, dt);
    return result < 0 ? result : forces;
}

FSI_API fsi_result fsi_soft_static(fsi_soft *soft, int linear, int max_iterations,
                                   fsi_report *report) {
    if (!soft || !soft->block)
        return FSI_ERR_STATE;
    if (max_iterations < 0)
        return FSI_ERR_ARGUMENT;

    fsi_result result = fsi__soft_matrix(soft);
    if (result != FSI_OK)
        return result;

    fsi__soft_work *work = soft->work;
    fsi__soft_system system = FSI__ZERO;
    system.stiff = 1;
    system.volume = fsi__soft_volume_stiffness(soft);
    fsi_copy(work->dof, linear ? work->rest_x : soft->x, work->guess);
    fsi_fill(work->dof, 0, work->given);
    int iterations = max_iterations ? max_iterations : 100;
    result = fsi__soft_newton(soft, &system, linear ? 1 : iterations);
    if (report)
        *report = soft->report;
    if (result < 0)
        return result;

    fsi_copy(work->dof, work->guess, soft->x);
    fsi_fill(work->dof, 0, soft->v);

    return result;
}

/* omega_max^2 by power iteration on M^-1 K. */
FSI_API fsi_real fsi_soft_max_dt(fsi_soft *soft) {
    if (!soft || !soft->block || fsi__soft_matrix(soft) != FSI_OK)
        return 0;

    fsi__soft_work *work = soft->work;
    size_t n = work->dof;
    double omega2 = 0;
    fsi__soft_assemble(soft, soft->x, FSI__POSITIVE);
    for (size_t i = 0; i < n; i++) {
        fsi_real mixed = FSI_R(0.5) + (fsi_real)(i * 7919 % 101) / 101 - (fsi_real)(i & 1);
        work->step[i] = work->fixed[i] ? 0 : mixed;
    }
    for (int k = 0; k < 80; k++) {
        fsi_csr_mul(&soft->K, work->step, work->trial);
        for (size_t i = 0; i < n; i++)
            work->trial[i] = work->fixed[i] ? 0 : work->trial[i] / soft->mass[i / 3];
        double norm = fsi_norm(n, work->trial);
        if (!(norm > 0))
            return FSI_REAL_MAX;
        omega2 = norm / fsi_norm(n, work->step);
        for (size_t i = 0; i < n; i++)
            work->step[i] = (fsi_real)((double)work->trial[i] / norm);
    }

    return (fsi_real)(1.8 / sqrt(omega2));
}

/* ------------------------------------------------------------------------------------------------
 * >>soft contact */
/* A site is a place where a body is touched: a vertex, or the world point `at` carried by a surface
   element. An impulse j at `at` becomes f_a = w_a j + (I^-1 (d x j)) x r_a on the element's nodes:

     w_a   weights of the nearest point c of the element       d = at - c
     r_a   arms from the nodes' mean                           I = sum |r|^2 - r r^T

   Then sum f = j and sum x_a x f_a = at x j, so linear and angular momentum are exact at any
   distance. The velocity there is the transpose: u = sum w_a v_a + (I^-1 sum r_a x v_a) x d. */
typedef struct fsi__site {
    int count;
    int32_t node[3];
    fsi_real weight[3];
    fsi_vec3 arm[3], off; /* r_a, d */
    fsi_mat3 inverse;     /* I^-1; zero: nothing to turn, or an element without width */
} fsi__site;

/* Adds mass (|r|^2 - r r^T). */
static void fsi__inertia_point(fsi_mat3 *inertia, fsi_vec3 r, fsi_real mass) {
    fsi_real square = fsi_vec_dot(r, r);
    for (int k = 0; k < 9; k++)
        inertia->m[k] +=
            mass * ((k % 4 == 0 ? square : 0) - fsi__get(r, k / 3) * fsi__get(r, k % 3));
}

/* Inverse of an inertia; 0 where there is none. 2D: about z only. */
static fsi_mat3 fsi__inertia_inverse(const fsi_mat3 *inertia, int dim) {
    fsi_mat3 inverse = FSI__ZERO;
    if (dim == 2)
        inverse.m[8] = inertia->m[8] > 0 ? 1 / inertia->m[8] : 0;
    else
        fsi_mat3_inverse(inertia, &inverse);
    return inverse;
}

/* Squared distance of p to an element with the nodes at x, and the weights of its nearest point. */
static fsi_real fsi__closest_on_element(int dim, fsi_vec3 p, const fsi_real *x,
                                        const int32_t *corner, fsi_real *weight) {
    fsi_vec3 a = fsi__vec_at(x, corner[0]);
    fsi_vec3 b = fsi__vec_at(x, corner[1]);
    if (dim == 2)
        return fsi_closest_on_segment(p, a, b, weight);
    return fsi_closest_on_triangle(p, a, b, fsi__vec_at(x, corner[2]), weight);
}

/* The site of a point of fsi_external: vertices first, then elements of the surface. */
static fsi__site fsi__site_at(const fsi_soft *soft, int point, fsi_vec3 at) {
    fsi__site site = FSI__ZERO;
    site.count = 1;
    site.node[0] = point;
    site.weight[0] = 1;
    if (point < soft->desc.vertex_count)
        return site;

    int dim = site.count = soft->desc.dim;
    fsi_vec3 x[3];
    fsi_vec3 mean = FSI__ZERO;
    for (int a = 0; a < dim; a++) {
        site.node[a] = soft->surface[dim * (point - soft->desc.vertex_count) + a];
        x[a] = fsi__vec_at(soft->x, site.node[a]);
        mean = fsi_vec_mad(mean, x[a], 1 / (fsi_real)dim);
    }
    fsi__closest_on_element(dim, at, soft->x, site.node, site.weight);
    site.off = at;
    fsi_mat3 inertia = FSI__ZERO;
    for (int a = 0; a < dim; a++) {
        site.arm[a] = fsi_vec_sub(x[a], mean);
        site.off = fsi_vec_mad(site.off, x[a], -site.weight[a]);
        fsi__inertia_point(&inertia, site.arm[a], 1);
    }
    fsi_real size = inertia.m[0] * inertia.m[4] * inertia.m[8];
    if (dim == 2 || fsi_mat3_det(&inertia) > FSI_R(1e-6) * size)
        site.inverse = fsi__inertia_inverse(&inertia, dim);

    return site;
}

/* u from the velocities of its nodes. */
static fsi_vec3 fsi__site_gather(const fsi__site *site, const fsi_vec3 *v) {
    fsi_vec3 u = FSI__ZERO;
    fsi_vec3 spin = u;
    for (int a = 0; a < site->count; a++) {
        u = fsi_vec_mad(u, v[a], site->weight[a]);
        spin = fsi_vec_add(spin, fsi_vec_cross(site->arm[a], v[a]));
    }
    return fsi_vec_add(u, fsi_vec_cross(fsi_mat3_mul_vec(&site->inverse, spin), site->off));
}

static fsi_vec3 fsi__site_velocity(const fsi__site *site, const fsi_real *v) {
    fsi_vec3 u[3];
    for (int a = 0; a < site->count; a++)
        u[a] = fsi__vec_at(v, site->node[a]);
    return fsi__site_gather(site, u);
}

/* f_a of an impulse j. */
static fsi_vec3 fsi__site_force(const fsi__site *site, int a, fsi_vec3 j) {
    fsi_vec3 turn = fsi_mat3_mul_vec(&site->inverse, fsi_vec_cross(site->off, j));
    return fsi_vec_mad(fsi_vec_cross(turn, site->arm[a]), j, site->weight[a]);
}

/* ---- Nodes touched by other solids in this step. With an implicit integrator they answer through
   its matrix, dv = A^-1 f, or a hit would squeeze the first layer of elements before elasticity
   knows: C is the part of A^-1 between them. The other nodes follow when the body moves
   (fsi__patch_flush). */
#define FSI__PATCH 200

/* The patch whose matrix answers, or NULL. */
static fsi__patch *fsi__patch_of(const fsi_soft *soft) {
    fsi__patch *patch = &soft->work->patch;
    return patch->ready ? patch : NULL;
}

/* Velocity change of a node by j at a site; own: its number there (lumped masses). */
static fsi_vec3 fsi__node_answer(const fsi_soft *soft, const fsi__site *site, int node, int own,
                                 fsi_vec3 j) {
    const fsi__patch *patch = fsi__patch_of(soft);
    fsi_vec3 u = FSI__ZERO;
    if (!patch) {
        const unsigned char *fixed = soft->work->fixed + 3 * node;
        u = fsi_vec_scale(fsi__site_force(site, own, j), soft->inverse_mass[node]);
        return fsi_vec(fixed[0] ? 0 : u.x, fixed[1] ? 0 : u.y, fixed[2] ? 0 : u.z);
    }
    int n = 3 * patch->count;
    for (int b = 0; b < site->count; b++) {
        const fsi_real *C = patch->C + (size_t)(3 * patch->place[node]) * (size_t)n
                            + 3 * patch->place[site->node[b]];
        fsi_vec3 f = fsi__site_force(site, b, j);
        u = fsi_vec_add(u, fsi_vec(fsi_vec_dot(fsi_vec_load(C), f),
                                   fsi_vec_dot(fsi_vec_load(C + n), f),
                                   fsi_vec_dot(fsi_vec_load(C + 2 * n), f)));
    }

    return u;
}

/* Impulse j at a site. v: velocities, or positions for j in kg m. */
static void fsi__site_impulse(const fsi_soft *soft, const fsi__site *site, fsi_vec3 j,
                              fsi_real *v) {
    const fsi__patch *patch = fsi__patch_of(soft);
    const int32_t *node = patch ? patch->node : site->node;
    for (int a = 0; a < (patch ? patch->count : site->count); a++)
        fsi__vec_add_at(v, node[a], fsi__node_answer(soft, site, node[a], a, j));
    for (int a = 0; patch && a < site->count; a++)
        fsi__vec_add_at(patch->impulse, site->node[a], fsi__site_force(site, a, j));
}

/* Velocity change at a site by impulse j there. */
static fsi_vec3 fsi__site_response(const fsi_soft *soft, const fsi__site *site, fsi_vec3 j) {
    fsi_vec3 u[3];
    for (int a = 0; a < site->count; a++)
        u[a] = fsi__node_answer(soft, site, site->node[a], a, j);
    return fsi__site_gather(site, u);
}

/* All of it: K j is the response to j. */
static void fsi__site_inverse(const fsi_soft *soft, const fsi__site *site, fsi_mat3 *K) {
    for (int j = 0; j < 3; j++) {
        fsi_vec3 u = fsi__site_response(soft, site, fsi__axis(j));
        for (int i = 0; i < 3; i++)
            K->m[3 * i + j] = fsi__get(u, i);
    }
}

/* work->step = A^-1 f; prescribed coordinates stay. */
static fsi_result fsi__patch_solve(fsi_soft *soft, const fsi_real *f) {
    fsi__soft_work *work = soft->work;
    for (size_t i = 0; i < work->dof; i++)
        work->residual[i] = work->fixed[i] ? 0 : work->response * f[i];
    return fsi__soft_linear(soft, work->residual, work->step);
}

/* Velocities from which the next flush counts. */
static void fsi__patch_base(fsi_soft *soft) {
    const fsi__patch *patch = fsi__patch_of(soft);
    for (int i = 0; patch && i < patch->count; i++)
        fsi__vec_put(patch->base, i, fsi__vec_at(soft->v, patch->node[i]));
}

/* Columns of A^-1 at the nodes of the patch. */
static void fsi__patch_make(fsi_soft *soft) {
    fsi__patch *patch = &soft->work->patch;
    int n = 3 * patch->count;
    for (int i = 0; i < n; i++) {
        int at = 3 * patch->node[i / 3] + i % 3;
        patch->impulse[at] = 1;
        fsi_result result = fsi__patch_solve(soft, patch->impulse);
        patch->impulse[at] = 0;
        if (result < 0)
            return;
        for (int k = 0; k < n; k++)
            patch->C[(size_t)k * (size_t)n + (size_t)i] =
                soft->work->step[3 * patch->node[k / 3] + k % 3];
    }
    patch->ready = 1;
    fsi__patch_base(soft);
}

/* ---- Nodes seen as one rigid body: all (root -1) or those of the impact zone of root. */
typedef struct fsi__soft_body {
    fsi_real mass;
    fsi_vec3 centre, momentum, angular_momentum; /* about the centre */
    fsi_mat3 inverse;                            /* of the inertia */
    /* mean velocity and number of the nodes with prescribed coordinates */
    fsi_vec3 driven;
    int held;
} fsi__soft_body;

static int fsi__in_zone(const fsi_soft *soft, int32_t root, int i) {
    return root < 0 || fsi__root(soft->work->zone, i) == root;
}

static fsi__soft_body fsi__soft_gather_body(const fsi_soft *soft, int32_t root) {
    fsi__soft_body body = FSI__ZERO;

    for (int i = 0; i < soft->desc.vertex_count; i++) {
        if (!fsi__in_zone(soft, root, i))
            continue;
        const unsigned char *fixed = soft->work->fixed + 3 * i;
        fsi_vec3 v = fsi__vec_at(soft->v, i);
        body.mass += soft->mass[i];
        body.centre = fsi_vec_mad(body.centre, fsi__vec_at(soft->x, i), soft->mass[i]);
        body.momentum = fsi_vec_mad(body.momentum, v, soft->mass[i]);
        if (fixed[0] || fixed[1] || (fixed[2] && soft->desc.dim == 3)) {
            body.driven = fsi_vec_add(body.driven, v);
            body.held++;
        }
    }
    body.centre = fsi_vec_scale(body.centre, 1 / body.mass);
    if (body.held)
        body.driven = fsi_vec_scale(body.driven, 1 / (fsi_real)body.held);

    fsi_mat3 inertia = FSI__ZERO;

    for (int i = 0; i < soft->desc.vertex_count; i++) {
        if (!fsi__in_zone(soft, root, i))
            continue;
        fsi_vec3 arm = fsi_vec_sub(fsi__vec_at(soft->x, i), body.centre);
        fsi_vec3 turning = fsi_vec_cross(arm, fsi__vec_at(soft->v, i));
        body.angular_momentum = fsi_vec_mad(body.angular_momentum, turning, soft->mass[i]);
        fsi__inertia_point(&inertia, arm, soft->mass[i]);
    }
    body.inverse = fsi__inertia_inverse(&inertia, soft->desc.dim);

    return body;
}

/* Velocity of node i in the rigid motion of a body with momentum p and angular momentum L. */
static fsi_vec3 fsi__soft_rigid(const fsi_soft *soft, const fsi__soft_body *body, fsi_vec3 p,
                                fsi_vec3 L, int i) {
    fsi_vec3 arm = fsi_vec_sub(fsi__vec_at(soft->x, i), body->centre);
    fsi_vec3 spin = fsi_mat3_mul_vec(&body->inverse, L);
    return fsi_vec_add(fsi_vec_scale(p, 1 / body->mass), fsi_vec_cross(spin, arm));
}

/* The same with the momenta the body has. */
static fsi_vec3 fsi__soft_carried(const fsi_soft *soft, const fsi__soft_body *body, int i) {
    return fsi__soft_rigid(soft, body, body->momentum, body->angular_momentum, i);
}

/* Adds momenta as a rigid motion, if the body is free to move. */
static void fsi__soft_balance(fsi_soft *soft, const fsi__soft_body *body, fsi_vec3 p, fsi_vec3 L) {
    for (int i = 0; i < soft->desc.vertex_count && !body->held; i++) {
        fsi_vec3 u = fsi__soft_rigid(soft, body, p, L, i);
        for (int k = 0; k < soft->desc.dim; k++)
            soft->v[3 * i + k] += fsi__get(u, k);
    }
}

/* The nodes outside the patch take their part of the impulses. */
static void fsi__patch_flush(fsi_soft *soft) {
    fsi__patch *patch = fsi__patch_of(soft);
    size_t n = soft->work->dof;
    fsi_real *dv = soft->work->step;
    if (!patch || !(fsi_max_abs(n, patch->impulse) > 0))
        return;
    if (fsi__patch_solve(soft, patch->impulse) < 0)
        return;

    for (size_t i = 0; i < n; i++) {
        int at = patch->place[i / 3];
        if (at >= 0)
            dv[i] = soft->v[i] - patch->base[3 * at + (int)(i % 3)];
        else
            soft->v[i] += dv[i];
    }

    /* What the tangent matrix of a strained body has lost of the impulses comes back. */
    fsi__soft_body body = fsi__soft_gather_body(soft, -1);
    fsi_vec3 lost = FSI__ZERO;
    fsi_vec3 turn = lost;

    for (int i = 0; i < soft->desc.vertex_count; i++) {
        fsi_vec3 missing =
            fsi_vec_mad(fsi__vec_at(patch->impulse, i), fsi__vec_at(dv, i), -soft->mass[i]);
        fsi_vec3 arm = fsi_vec_sub(fsi__vec_at(soft->x, i), body.centre);
        lost = fsi_vec_add(lost, missing);
        turn = fsi_vec_add(turn, fsi_vec_cross(arm, missing));
    }
    fsi__soft_balance(soft, &body, lost, turn);
    fsi_fill(n, 0, patch->impulse);
    fsi__patch_base(soft);
}

/* ---- One contact: a site against another site or against a wall. It goes through >>contact solver
   as the only contact of a world whose only external has two points, the ends a and b. */
typedef struct fsi__soft_touch {
    fsi_soft *soft;
    fsi__site site[2];   /* of both ends; b without nodes: a wall */
    fsi_vec3 wall;       /* its velocity */
    fsi_real *moves;     /* what impulses change: v, or x by impulses in kg m */
    fsi_contact contact; /* normal from b to a */
    fsi_external external;
    fsi_solids world;
} fsi__soft_touch;

static fsi_vec3 fsi__touch_velocity(int end, fsi_vec3 at, void *user) {
    const fsi__soft_touch *touch = (const fsi__soft_touch *)user;
    const fsi__site *site = touch->site + end;
    (void)at;
    return site->count ? fsi__site_velocity(site, touch->soft->v) : touch->wall;
}

static void fsi__touch_inverse(int end, fsi_vec3 at, fsi_mat3 *K, void *user) {
    const fsi__soft_touch *touch = (const fsi__soft_touch *)user;
    (void)at;
    fsi__site_inverse(touch->soft, touch->site + end, K);
}

static void fsi__touch_impulse(int end, fsi_vec3 at, fsi_vec3 j, void *user) {
    fsi__soft_touch *touch = (fsi__soft_touch *)user;
    (void)at;
    fsi__site_impulse(touch->soft, touch->site + end, j, touch->moves);
}

static void fsi__touch_begin(fsi__soft_touch *touch, fsi_soft *soft, fsi_real *moves) {
    memset(touch, 0, sizeof *touch);
    touch->soft = soft;
    touch->moves = moves;
    touch->external.user = touch;
    touch->external.velocity_fn = fsi__touch_velocity;
    touch->external.inverse_mass_fn = fsi__touch_inverse;
    touch->external.impulse_fn = fsi__touch_impulse;
    touch->contact.b.point = 1;
    touch->contact.bounced = 1;
    touch->world.external = &touch->external;
    touch->world.contact = &touch->contact;
    touch->world.contact_count = 1;
}

/* The normal velocity becomes at least target, as if bouncing with it, then Coulomb friction.
   Returns what was missing, m/s. */
static fsi_real fsi__soft_hit(fsi__soft_touch *touch, fsi_real target) {
    fsi_contact *contact = &touch->contact;
    fsi_vec3 v = fsi__contact_velocity(&touch->world, contact);
    fsi_real missing = target - fsi_vec_dot(v, contact->normal);
    if (!(missing > 0))
        return 0;

    contact->tangent = fsi__any_tangent(contact->normal);
    fsi__contact_masses(&touch->world, contact);
    if (contact->mass_n == 0)
        return 0;

    contact->impulse = contact->impulse_t[0] = contact->impulse_t[1] = 0;
    contact->restitution = 1;
    contact->approach = -target;
    fsi__bounce_sweep(&touch->world);

    /* An element without width takes central impulses only. */
    const fsi_real *turns = touch->site[1].inverse.m;
    if (!touch->site[1].count || turns[8] + turns[0] + turns[4] > 0)
        fsi__contact_friction(&touch->world, contact);
    return missing;
}

/* A quarter of an overlap is opened by moving nodes; velocities do not know. */
static int fsi__soft_open(fsi__soft_touch *touch) {
    fsi_contact *contact = &touch->contact;
    fsi_real depth = -contact->gap - FSI_R(0.01) * touch->soft->desc.thickness;
    if (!(depth > 0))
        return 0;

    fsi__contact_masses(&touch->world, contact);
    fsi_real impulse = depth / 4 * contact->mass_n;
    fsi__contact_apply(&touch->world, contact, fsi_vec_scale(contact->normal, impulse));
    return impulse > 0;
}

/* Smallest normal velocity with which a gap is not closed within dt. */
static fsi_real fsi__soft_target(fsi_real gap, fsi_real dt) {
    return gap > 0 ? -gap / dt : 0;
}

/* ---- The surface against itself. */
enum {
    FSI__SELF_HIT,  /* limit velocities */
    FSI__SELF_OPEN, /* open overlaps by moving nodes */
    FSI__SELF_CHECK /* who would pass through whom on the way? */
};

typedef struct fsi__soft_pairs {
    fsi_soft *soft;
    int what, own, hits; /* own: vertex or edge that looks for others */
    /* s of the move; largest velocity that was missing in a pass, m/s */
    fsi_real dt, missing;
    fsi_vec3 lo, hi;     /* box of the query: who is outside cannot be met */
    const fsi_real *way; /* how every node moves, m/s */
    fsi__soft_touch touch;
} fsi__soft_pairs;

/* Two edges p + s u and q + t v, each parameter in 0 .. 1. */
typedef struct fsi__pair_points {
    fsi_vec3 a, b; /* nearest points of both */
    /* 1: both lie within their edges; 0: one is an end, which is found as a vertex */
    int inside;
} fsi__pair_points;

/* Where edges e and f come closest, and their distance. */
static fsi_real fsi__edges_distance(const fsi_real *x, const int32_t *e, const int32_t *f,
                                    fsi__pair_points *out) {
    fsi_vec3 p = fsi__vec_at(x, e[0]);
    fsi_vec3 q = fsi__vec_at(x, f[0]);
    fsi_vec3 u = fsi_vec_sub(fsi__vec_at(x, e[1]), p);
    fsi_vec3 v = fsi_vec_sub(fsi__vec_at(x, f[1]), q);
    fsi_vec3 d = fsi_vec_sub(p, q);
    fsi_real uu = fsi_vec_dot(u, u);
    fsi_real vv = fsi_vec_dot(v, v);
    fsi_real uv = fsi_vec_dot(u, v);
    fsi_real du = fsi_vec_dot(d, u);
    fsi_real dv = fsi_vec_dot(d, v);
    fsi_real det = uu * vv - uv * uv;

    /* Edges within 0.6 degrees of each other count as parallel: any s will do, and where they cross
       the distance comes out too large by at most a hundredth of an edge. */
    fsi_real s = 0;
    if (det > FSI_R(1e-4) * uu * vv)
        s = fsi__clamp((uv * dv - vv * du) / det, 0, 1);
    fsi_real t = fsi__clamp((s * uv + dv) / vv, 0, 1);
    s = fsi__clamp((t * uv - du) / uu, 0, 1);
    out->inside = s > 0 && s < 1 && t > 0 && t < 1;
    out->a = fsi_vec_mad(p, u, s);
    out->b = fsi_vec_mad(q, v, t);

    return fsi__length(fsi_vec_sub(out->a, out->b));
}

/* A pair is a vertex a and an element b (first = 1) or two edges (first = 2): the first `first` of
   its dim + 1 nodes are a's. Its distance with the nodes at x. */
FSI__INLINE fsi_real fsi__pair_distance(const fsi_soft *soft, const fsi_real *x, int first,
                                        const int32_t *a, const int32_t *b, fsi__pair_points *out) {
    if (first == 2)
        return fsi__edges_distance(x, a, b, out);

    fsi_real weight[3];
    out->inside = 1;
    out->a = fsi__vec_at(x, a[0]);
    fsi_real squared = fsi__closest_on_element(soft->desc.dim, out->a, x, b, weight);
    out->b = fsi_vec(0, 0, 0);
    for (int k = 0; k < soft->desc.dim; k++)
        out->b = fsi_vec_mad(out->b, fsi__vec_at(x, b[k]), weight[k]);
    return fsi__sqrt(squared);
}

/* How far the nodes of a pair can come together in dt, m. */
static fsi_real fsi__soft_approach(const fsi__soft_pairs *pairs, int first, const int32_t *a,
                                   const int32_t *b) {
    fsi_real most = 0;
    for (int i = 0; i < first; i++)
        for (int k = 0; k < pairs->soft->desc.dim + 1 - first; k++) {
            fsi_vec3 d = fsi_vec_sub(fsi__vec_at(pairs->way, a[i]), fsi__vec_at(pairs->way, b[k]));
            most = fsi__max(most, fsi_vec_dot(d, d));
        }
    return pairs->dt * fsi__sqrt(most);
}

/* Does a pair come together on its way within dt? Distances change by no more than the nodes move
   against each other, so time goes on by distance over speed (conservative advancement). Those who
   meet become one impact zone. */
static void fsi__soft_collides(fsi__soft_pairs *pairs, int first, const int32_t *a,
                               const int32_t *b, fsi_real distance) {
    static const int32_t local[4] = {0, 1, 2, 3};
    fsi_soft *soft = pairs->soft;
    fsi_real fast = fsi__soft_approach(pairs, first, a, b);
    fsi_real close = fsi__min(FSI_R(0.1) * soft->desc.thickness, distance / 2);
    int n = soft->desc.dim + 1;
    int32_t node[4];
    for (int i = 0; i < n; i++)
        node[i] = i < first ? a[i] : b[i - first];

    fsi_real time = 0;

    for (int k = 0; k < 100 && distance > close; k++) {
        if ((1 - time) * fast < distance - close / 2)
            return; /* not within what is left */
        time += (distance - close / 2) / fast;
        fsi_real x[12];
        for (int i = 0; i < 3 * n; i++) {
            int at = 3 * node[i / 3] + i % 3;
            x[i] = soft->x[at] + time * pairs->dt * pairs->way[at];
        }
        fsi__pair_points nearest;
        distance = fsi__pair_distance(soft, x, first, local, local + first, &nearest);
    }
    pairs->hits++;
    int32_t *zone = soft->work->zone;
    for (int i = 1; i < n; i++)
        zone[fsi__root(zone, node[i])] = fsi__root(zone, node[0]);
}

/* Both sites of a pair are touched at `at`: velocities so that the gap is not closed, or an overlap
   opened. */
static void fsi__soft_respond(fsi__soft_pairs *pairs, int site_a, int site_b, fsi_vec3 at,
                              fsi_vec3 normal, fsi_real gap) {
    fsi__soft_touch *touch = &pairs->touch;
    touch->site[0] = fsi__site_at(pairs->soft, site_a, at);
    touch->site[1] = fsi__site_at(pairs->soft, site_b, at);
    touch->contact.normal = normal;
    touch->contact.gap = gap;
    if (pairs->what == FSI__SELF_OPEN) {
        pairs->hits += fsi__soft_open(touch);
        return;
    }
    fsi_real missing = fsi__soft_hit(touch, fsi__soft_target(gap, pairs->dt));
    pairs->hits += missing > 0;
    pairs->missing = fsi__max(pairs->missing, missing);
}

/* One pair of the own surface, touched at site_a and site_b. Neighbours keep the distance they have
   at rest. */
static void fsi__soft_pair(fsi__soft_pairs *pairs, int first, const int32_t *a, const int32_t *b,
                           int site_a, int site_b) {
    const fsi_soft *soft = pairs->soft;
    fsi_real thick = soft->desc.thickness;
    fsi__pair_points nearest;
    fsi_real distance = fsi__pair_distance(soft, soft->x, first, a, b, &nearest);
    if (!(distance > 0))
        return;
    if (pairs->what == FSI__SELF_CHECK) {
        fsi__soft_collides(pairs, first, a, b, distance);
        return;
    }
    if (!nearest.inside)
        return;
    if (pairs->what == FSI__SELF_HIT && distance - thick > fsi__soft_approach(pairs, first, a, b))
        return;

    fsi_real rest = FSI_REAL_MAX;
    fsi__pair_points unused;
    if (distance < 2 * thick)
        rest = fsi__pair_distance(soft, soft->work->rest_x, first, a, b, &unused);
    fsi_vec3 at = nearest.a;
    if (first == 2)
        at = fsi_vec_scale(fsi_vec_add(nearest.a, nearest.b), FSI_R(0.5));
    fsi__soft_respond(pairs, site_a, site_b, at,
                      fsi_vec_scale(fsi_vec_sub(nearest.a, nearest.b), 1 / distance),
                      distance - fsi__min(thick, rest * FSI_R(0.9)));
}

/* Vertex against element. */
static int fsi__soft_visit(int element, void *user) {
    fsi__soft_pairs *pairs = (fsi__soft_pairs *)user;
    const fsi_soft *soft = pairs->soft;
    const int32_t *corner = soft->surface + soft->desc.dim * element;
    const int32_t vertex = pairs->own;
    for (int k = 0; k < soft->desc.dim; k++)
        if (corner[k] == vertex)
            return 0;
    fsi__soft_pair(pairs, 1, &vertex, corner, vertex, soft->desc.vertex_count + element);
    return 0;
}

/* Is the edge from a to b outside the box of the query? */
static int fsi__edge_outside(const fsi_real *a, const fsi_real *b, const fsi__soft_pairs *pairs) {
    for (int axis = 0; axis < 3; axis++)
        if (fsi__max(a[axis], b[axis]) < fsi__get(pairs->lo, axis)
            || fsi__min(a[axis], b[axis]) > fsi__get(pairs->hi, axis))
            return 1;
    return 0;
}

/* Edge against the edges of an element, of each pair once. */
static int fsi__soft_visit_edges(int element, void *user) {
    fsi__soft_pairs *pairs = (fsi__soft_pairs *)user;
    const fsi_soft *soft = pairs->soft;
    const fsi__soft_work *work = soft->work;
    const int32_t *mine = work->edge + 3 * pairs->own;
    for (int k = fsi__imax(work->edge_first[element], pairs->own + 1);
         k < work->edge_first[element + 1]; k++) {
        const int32_t *other = work->edge + 3 * k;
        int shares_first = mine[0] == other[0] || mine[0] == other[1];
        if (shares_first || mine[1] == other[0] || mine[1] == other[1])
            continue;
        if (!fsi__edge_outside(soft->x + 3 * other[0], soft->x + 3 * other[1], pairs))
            fsi__soft_pair(pairs, 2, mine, other, mine[2], other[2]);
    }
    return 0;
}

/* All pairs of the own surface that may meet within dt, vertices against elements and edges against
   edges. way: velocities of the nodes, m/s. Returns how many changed something; *missing grows to
   the largest velocity that was missing. */
static int fsi__soft_visit_all(fsi_soft *soft, const fsi_real *way, fsi_real dt, int what,
                               fsi_real *missing) {
    const fsi__soft_work *work = soft->work;
    int n = soft->desc.vertex_count;
    fsi__soft_pairs pairs = FSI__ZERO;
    pairs.soft = soft;
    pairs.way = way;
    pairs.dt = dt;
    pairs.what = what;
    fsi__touch_begin(&pairs.touch, soft, what == FSI__SELF_OPEN ? soft->x : soft->v);
    pairs.touch.contact.friction = soft->desc.friction;

    /* Ways are counted from their mean: what all do together brings nobody closer. */
    fsi_vec3 mean = FSI__ZERO;
    for (int i = 0; i < n; i++)
        mean = fsi_vec_mad(mean, fsi__vec_at(way, i), 1 / (fsi_real)n);
    fsi_real fast = 0;
    for (int i = 0; i < n; i++)
        fast = fsi__max(fast, fsi__length(fsi_vec_sub(fsi__vec_at(way, i), mean)));

    for (int i = 0; i < n + work->edge_count; i++) {
        /* Vertices, then edges; a and b are both ends, or twice the vertex. */
        if (i < n && !work->outside[i])
            continue;
        int own = i < n ? i : i - n;
        int a = i < n ? i : work->edge[3 * own];
        int b = i < n ? i : work->edge[3 * own + 1];
        pairs.own = own;

        /* Both may come towards each other: the own way and the longest. */
        fsi_real reach = fsi__max(fsi__length(fsi_vec_sub(fsi__vec_at(way, a), mean)),
                                  fsi__length(fsi_vec_sub(fsi__vec_at(way, b), mean)));
        fsi_real thick =
            what == FSI__SELF_CHECK ? FSI_R(0.1) * soft->desc.thickness : soft->desc.thickness;
        reach = thick + (what == FSI__SELF_OPEN ? 0 : dt * (reach + fast));
        fsi_vec3 margin = fsi_vec(reach, reach, reach);
        fsi_vec3 lo = fsi__vec_at(soft->x, a);
        fsi_vec3 hi = lo;
        fsi__grow(&lo, &hi, fsi__vec_at(soft->x, b));
        pairs.lo = fsi_vec_sub(lo, margin);
        pairs.hi = fsi_vec_add(hi, margin);
        fsi_bvh_overlap(&soft->bvh, pairs.lo, pairs.hi,
                        i < n ? fsi__soft_visit : fsi__soft_visit_edges, &pairs);
    }
    *missing = fsi__max(*missing, pairs.missing);

    return pairs.hits;
}

/* Velocities, so that no gap that can be reached is closed (passes go on while something would
   still sink by a twentieth of the thickness), or overlaps. Returns how many pairs changed
   something. */
#define FSI__SELF_PASSES 8

static int fsi__soft_self(fsi_soft *soft, fsi_real dt, int what) {
    int passes = what == FSI__SELF_OPEN ? 1 : FSI__SELF_PASSES;
    int hits = 0;
    for (int pass = 0; pass < passes; pass++) {
        fsi_real missing = 0;
        hits += fsi__soft_visit_all(soft, soft->v, dt, what, &missing);
        if (!(missing * dt > FSI_R(0.05) * soft->desc.thickness))
            break;
    }
    return hits;
}

/* ---- Impact zones. */
/* Who would pass through whom on the way becomes one zone; zones are made, when first is 1, or
   grown. */
static int fsi__soft_meet(fsi_soft *soft, const fsi_real *way, fsi_real dt, int first) {
    fsi_real missing = 0;
    for (int i = 0; first && i < soft->desc.vertex_count; i++)
        soft->work->zone[i] = i;
    return fsi__soft_visit_all(soft, way, dt, FSI__SELF_CHECK, &missing);
}

/* The nodes of a zone move on like a rigid body with their momentum and angular momentum; like the
   held ones where some are held. */
static void fsi__zone_stiffen(fsi_soft *soft, int32_t root) {
    fsi__soft_body body = fsi__soft_gather_body(soft, root);
    for (int i = 0; i < soft->desc.vertex_count; i++) {
        if (!fsi__in_zone(soft, root, i))
            continue;
        fsi_vec3 u = body.held ? body.driven : fsi__soft_carried(soft, &body, i);
        for (int k = 0; k < soft->desc.dim; k++)
            if (!soft->work->fixed[3 * i + k])
                soft->v[3 * i + k] = fsi__get(u, k);
    }
}

/* The tree over the surface where it is now. */
static fsi_result fsi__soft_tree(fsi_soft *soft) {
    fsi_surface surface = fsi_soft_surface(soft);
    return fsi_bvh_build(&soft->bvh, &surface);
}

/* Before every move: nothing passes through itself, whatever has been done to v. Zones grow until
   nobody meets; in the end all are one, and no distance shrinks. */
#define FSI__ZONE_ROUNDS 12

static void fsi__soft_zones(fsi_soft *soft, fsi_real dt) {
    int32_t n = soft->desc.vertex_count;
    int32_t *zone = soft->work->zone;
    fsi_real *met = soft->work->trial;
    if (!soft->desc.self_collision || fsi__soft_tree(soft) != FSI_OK)
        return;

    int round = 0;

    while (round < FSI__ZONE_ROUNDS && fsi__soft_meet(soft, soft->v, dt, round == 0)) {
        if (round == FSI__ZONE_ROUNDS - 1)
            for (int32_t i = 0; i < n; i++)
                zone[fsi__root(zone, i)] = fsi__root(zone, 0);
        /* Every zone of more than one node once. */
        fsi_fill((size_t)n, 0, met);
        for (int32_t i = 0; i < n; i++)
            if (zone[i] != i && met[fsi__root(zone, i)]++ == 0)
                fsi__zone_stiffen(soft, zone[i]);
        round++;
    }
    if (round)
        fsi__patch_base(soft);
}

/* ---- Walls, and the energy that contact may leave. */
/* What contact changes in v from work->contact_start on. Nodes that walls push: the walls' velocity
   is in work->wall_velocity, 0 at all others. */
typedef struct fsi__soft_change {
    fsi_soft *soft;
    fsi_real dt;
    int hits;
    /* s: elasticity spread the impulses, it weighs (dt + beta) times its change of force; 0: the
       masses alone took them */
    fsi_real spread;
    double given; /* work of the walls' impulses as they were given, J */
    /* largest energy allowed but for the work; work of the share that was tried last */
    double most, work;
} fsi__soft_change;

static fsi__soft_change fsi__soft_change_begin(fsi_soft *soft, fsi_real dt) {
    fsi__soft_change change = FSI__ZERO;
    change.soft = soft;
    change.dt = dt;
    return change;
}

/* Speed after a bounce: restitution acts on the approach before the step's forces (they pull on by
   `more`), and gives back no more than falling that far takes. */
static fsi_real fsi__soft_bounce(fsi_real restitution, fsi_real before, fsi_real now) {
    if (!(restitution > 0) || !(before < 0))
        return 0;
    fsi_real more = fsi__max(0, before - now);
    return fsi__min(-restitution * before, fsi__sqrt(more * more + before * before) - more);
}

/* Vertex i against a wall: a velocity with which the gap is not closed, and the work of it. */
static void fsi__soft_wall_hit(fsi__soft_change *change, fsi__soft_touch *touch,
                               fsi_real restitution, int i) {
    fsi_soft *soft = change->soft;
    fsi__soft_work *work = soft->work;
    fsi_vec3 before = fsi__vec_at(soft->v, i);
    fsi_real speed = fsi_vec_dot(fsi_vec_sub(before, touch->wall), touch->contact.normal);
    fsi_real target = fsi__soft_target(touch->contact.gap, change->dt);
    if (speed < target) {
        fsi_vec3 came = fsi_vec_sub(fsi__vec_at(work->v_before, i), touch->wall);
        target = fsi__max(
            target, fsi__soft_bounce(restitution, fsi_vec_dot(came, touch->contact.normal), speed));
    }
    fsi_real missing = fsi__soft_hit(touch, target);
    if (!(missing > 0))
        return;

    change->hits++;
    fsi_vec3 gained = fsi_vec_sub(fsi__vec_at(soft->v, i), before);
    change->given += (double)(soft->mass[i] * fsi_vec_dot(touch->wall, gained));

    /* Mean velocity of what pushes here. */
    work->wall_weight[i] += missing;
    fsi_vec3 mean = fsi__vec_at(work->wall_velocity, i);
    fsi__vec_put(work->wall_velocity, i,
                 fsi_vec_mad(mean, fsi_vec_sub(touch->wall, mean), missing / work->wall_weight[i]));
}

/* Vertices against obstacles: velocities, or overlaps (open). */
static fsi_result fsi__soft_walls(fsi__soft_change *change, const fsi_obstacle *obstacle, int count,
                                  int open) {
    fsi_soft *soft = change->soft;
    fsi__soft_touch touch;
    fsi__touch_begin(&touch, soft, open ? soft->x : soft->v);

    for (int k = 0; k < count; k++)
        for (int i = 0; i < soft->desc.vertex_count; i++) {
            if (soft->inverse_mass[i] == 0)
                continue;
            fsi_contact *contact = &touch.contact;
            fsi_vec3 x = fsi__vec_at(soft->x, i);
            fsi_real distance =
                obstacle[k].distance_fn(x, &contact->normal, &touch.wall, obstacle[k].user);
            contact->gap = distance - soft->desc.thickness / 2;
            contact->friction = obstacle[k].friction;
            if (!fsi__finite(contact->gap) || !fsi__finite_vec(contact->normal))
                return FSI_ERR_CALLBACK;
            touch.site[0] = fsi__site_at(soft, i, x);
            if (open)
                change->hits += fsi__soft_open(&touch);
            else
                fsi__soft_wall_hit(change, &touch, obstacle[k].restitution, i);
        }

    return FSI_OK;
}

/* Contact changed v of some nodes against work->contact_start. The others follow through the
   implicit elasticity, (M + dt^2 K + dt C) dv = 0 with dv given there: otherwise a hit squeezes the
   first layer of elements flat before the next step sees it. */
static fsi_result fsi__soft_spread(fsi_soft *soft, fsi_real dt) {
    fsi__soft_work *work = soft->work;
    for (size_t i = 0; i < work->dof; i++) {
        work->given[i] = soft->v[i] - work->contact_start[i];
        work->residual[i] = 0;
        if (work->given[i] != 0)
            work->fixed[i] |= 2;
    }
    fsi_result result = fsi__soft_solve_velocity(soft, dt);
    for (size_t i = 0; i < work->dof; i++) {
        if (result >= 0 && !work->fixed[i])
            soft->v[i] += work->step[i];
        work->fixed[i] &= 1;
    }

    return result < 0 ? result : FSI_OK;
}

/* Energy after dt with `share` of the change of v, less the work of the walls until then and what
   is allowed, J. Their impulse is m dv - (dt + beta) (f - f_0) where elasticity spread it to all
   nodes, f_0 (work->force_without): forces without them. */
static double fsi__soft_excess(double share, void *user) {
    fsi__soft_change *change = (fsi__soft_change *)user;
    fsi_soft *soft = change->soft;
    fsi__soft_work *work = soft->work;
    const fsi_real *start = work->contact_start;
    for (size_t i = 0; i < work->dof; i++) {
        work->step[i] = start[i] + (fsi_real)share * (soft->v[i] - start[i]);
        work->trial[i] = soft->x[i] + change->dt * work->step[i];
    }
    int spread = change->spread > 0;
    double energy = fsi__soft_total(soft, work->trial, work->step, spread ? work->residual : NULL);
    change->work = (double)(fsi_real)share * change->given;
    for (size_t i = 0; i < work->dof && spread && share > 0; i++) {
        fsi_real more = work->residual[i] - work->force_without[i];
        change->work -= (double)(change->spread * more * work->wall_velocity[i]);
    }

    return energy - change->work - change->most;
}

/* Energy with velocities v and the nodes moved by share * way, J. */
static double fsi__soft_total_moved(fsi_soft *soft, fsi_real share, const fsi_real *way,
                                    const fsi_real *v) {
    fsi__soft_work *work = soft->work;
    fsi_copy(work->dof, soft->x, work->trial);
    fsi_axpy(work->dof, share, way, work->trial);
    return fsi__soft_total(soft, work->trial, v, NULL);
}

/* Energy when the step began, J; Newmark has added jump to x. */
static double fsi__soft_began(fsi_soft *soft, int jumped) {
    return fsi__soft_total_moved(soft, jumped ? FSI_R(-1.0) : 0, soft->work->jump,
                                 soft->work->v_before);
}

/* A bounce, or elasticity that was solved without contact, can give back more than was lost: the
   share of the change stays that leaves the energy less the work of walls at what it was (began) or
   would be without contact. */
static void fsi__soft_calm(fsi__soft_change *change, double began) {
    fsi_soft *soft = change->soft;
    fsi__soft_work *work = soft->work;
    change->most = began;

    /* Most often there is no need to look further. */
    if (!(change->spread > 0) && !(fsi__soft_excess(1, change) > 0))
        return;

    change->most = 0;
    change->most = fsi__soft_excess(0, change);
    fsi_copy(work->dof, work->residual, work->force_without);
    if (began > change->most)
        change->most = began;
    double share = fsi__safe_share(fsi__soft_excess, change);
    const fsi_real *start = work->contact_start;
    for (size_t i = 0; i < work->dof && share < 1; i++)
        soft->v[i] = start[i] + (fsi_real)share * (soft->v[i] - start[i]);
}

/* Energy after a move of dt, J. */
static double fsi__soft_after(fsi_soft *soft, fsi_real dt) {
    return fsi__soft_total_moved(soft, dt, soft->v, soft->v);
}

/* Nodes were moved from work->open_start to open overlaps. Where others would meet on the way, all
   go back: 0. Moving parts that pass each other apart turns the body: m dx x v is taken from its
   spin. */
static int fsi__soft_keep_open(fsi_soft *soft) {
    fsi__soft_work *work = soft->work;
    for (size_t i = 0; i < work->dof; i++) {
        work->trial[i] = soft->x[i] - work->open_start[i];
        soft->x[i] = work->open_start[i];
    }
    if (fsi__soft_meet(soft, work->trial, 1, 1))
        return 0;

    fsi_axpy(work->dof, 1, work->trial, soft->x);

    fsi__soft_body body = fsi__soft_gather_body(soft, -1);
    fsi_vec3 turn = FSI__ZERO;
    for (int i = 0; i < soft->desc.vertex_count; i++) {
        fsi_vec3 moved = fsi_vec_sub(fsi__vec_at(soft->x, i), fsi__vec_at(work->open_start, i));
        turn = fsi_vec_mad(turn, fsi_vec_cross(moved, fsi__vec_at(soft->v, i)), -soft->mass[i]);
    }
    fsi__soft_balance(soft, &body, fsi_vec(0, 0, 0), turn);

    return 1;
}

/* Stage 3 after the velocities: overlaps are opened, of the surface with itself where `own` says
   so. What that puts into elasticity and gravity is work. */
static fsi_result fsi__soft_part(fsi_soft *soft, const fsi_obstacle *obstacle, int count,
                                 fsi_real dt, int own) {
    double before = fsi__soft_after(soft, dt);
    fsi__soft_change change = fsi__soft_change_begin(soft, dt);
    fsi_copy(soft->work->dof, soft->x, soft->work->open_start);
    if (own && fsi__soft_self(soft, dt, FSI__SELF_OPEN))
        change.hits = fsi__soft_keep_open(soft);
    fsi_result result = fsi__soft_walls(&change, obstacle, count, 1);
    if (change.hits && result == FSI_OK)
        soft->contact_work += fsi__soft_after(soft, dt) - before;
    return result;
}

/* Newmark: x takes its jump; from then on it moves with v like the others. */
static void fsi__soft_jump(fsi_soft *soft) {
    if (soft->work->jumps)
        fsi_axpy(soft->work->dof, 1, soft->work->jump, soft->x);
    soft->work->jumps = 0;
}

FSI_API fsi_result fsi_soft_contact(fsi_soft *soft, const fsi_obstacle *obstacle, int count,
                                    fsi_real dt, int *contacts) {
    if (!soft || !soft->block)
        return FSI_ERR_STATE;
    if (!fsi__soft_ready(soft, dt) || count < 0 || (count && !obstacle))
        return FSI_ERR_ARGUMENT;

    fsi__soft_work *work = soft->work;
    fsi__soft_change change = fsi__soft_change_begin(soft, dt);
    int jumped = work->jumps;
    int own = 0;
    double began = 0;
    soft->contact_work = 0;
    fsi__soft_jump(soft);

    /* With itself, before the walls: only theirs is spread, so momentum of these stays exact. */
    if (soft->desc.self_collision) {
        fsi_result result = fsi__soft_tree(soft);
        if (result != FSI_OK)
            return result;
        fsi_copy(work->dof, soft->v, work->contact_start);
        own = fsi__soft_self(soft, dt, FSI__SELF_HIT);
        if (own) {
            began = fsi__soft_began(soft, jumped);
            fsi__soft_calm(&change, began);
        }
    }

    /* With walls. */
    fsi_copy(work->dof, soft->v, work->contact_start);
    fsi_fill(work->dof, 0, work->wall_velocity);
    fsi_fill((size_t)soft->desc.vertex_count, 0, work->wall_weight);
    fsi_result result = fsi__soft_walls(&change, obstacle, count, 0);
    if (contacts)
        *contacts = own + change.hits;
    if (change.hits && soft->desc.tet_count && soft->K.rows && result == FSI_OK) {
        result = fsi__soft_spread(soft, dt);
        change.spread = dt + soft->desc.damping_stiffness;
    }
    if (own + change.hits == 0 || result != FSI_OK)
        return result;
    if (change.hits) {
        fsi__soft_calm(&change, own ? began : fsi__soft_began(soft, jumped));
        soft->contact_work = change.work;
    }

    return fsi__soft_part(soft, obstacle, count, dt, own);
}

/* ---- What the rigid world and other externals see: points 0 .. vertices - 1 are vertices, beyond
   them elements of the surface. */
/* First touch in a step: what the body would have without contact, or had, bounds its energy. Every
   touch: its nodes belong to the patch. */
static void fsi__soft_touched(int point, fsi_vec3 at, void *user) {
    fsi_soft *soft = (fsi_soft *)user;
    fsi__soft_work *work = soft->work;
    fsi__patch *patch = &work->patch;
    if (!work->touched) {
        work->reference = fsi__soft_after(soft, soft->dt);
        if (work->energy > work->reference)
            work->reference = work->energy;
        work->touched = 1;
    }
    if (!patch->room || !(work->response > 0))
        return;

    fsi__site site = fsi__site_at(soft, point, at);

    for (int a = 0; a < site.count && patch->count <= patch->room; a++) {
        int32_t *place = patch->place + site.node[a];
        if (*place >= 0)
            continue;
        /* One too many: the step does without the patch. */
        if (patch->count < patch->room)
            patch->node[patch->count] = site.node[a];
        *place = patch->count++;
    }
}

/* energy_fn of fsi_external. The motion inside is what is left of v without the rigid motion of the
   same momenta (a body that is held: all of v). */
static double fsi__soft_surplus(double take, void *user) {
    fsi_soft *soft = (fsi_soft *)user;
    if (!soft->work->touched)
        return 0;
    if (!(take > 0))
        return fsi__soft_total(soft, soft->x, soft->v, NULL) - soft->work->reference;

    /* First measure the motion inside, then scale it down. */
    fsi__soft_body body = fsi__soft_gather_body(soft, -1);
    double inside = 0;
    double keep = 0;

    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < soft->desc.vertex_count; i++) {
            fsi_vec3 u = body.held ? fsi_vec(0, 0, 0) : fsi__soft_carried(soft, &body, i);
            for (int k = 0; k < soft->desc.dim; k++) {
                fsi_real *v = soft->v + 3 * i + k;
                fsi_real d = *v - fsi__get(u, k);
                if (soft->work->fixed[3 * i + k])
                    continue;
                if (pass)
                    *v = fsi__get(u, k) + (fsi_real)keep * d;
                else
                    inside += 0.5 * (double)(soft->mass[i] * d * d);
            }
        }
        if (!pass) {
            take = take < inside ? take : inside;
            keep = inside > 0 ? sqrt(1 - take / inside) : 1;
        }
    }

    return take;
}

static fsi_vec3 fsi__soft_point_velocity(int point, fsi_vec3 at, void *user) {
    const fsi_soft *soft = (const fsi_soft *)user;
    fsi__site site = fsi__site_at(soft, point, at);
    return fsi__site_velocity(&site, soft->v);
}

static void fsi__soft_point_inverse(int point, fsi_vec3 at, fsi_mat3 *K, void *user) {
    fsi_soft *soft = (fsi_soft *)user;
    const fsi__patch *patch = &soft->work->patch;
    if (!patch->ready && patch->count > 0 && patch->count <= patch->room)
        fsi__patch_make(soft);
    fsi__site site = fsi__site_at(soft, point, at);
    fsi__site_inverse(soft, &site, K);
}

static void fsi__soft_point_impulse(int point, fsi_vec3 at, fsi_vec3 j, void *user) {
    fsi_soft *soft = (fsi_soft *)user;
    fsi__site site = fsi__site_at(soft, point, at);
    fsi__site_impulse(soft, &site, j, soft->v);
}

/* Tetrahedra: signed. Shells: both sides are outside. */
static fsi_real fsi__soft_point_distance(fsi_vec3 p, fsi_vec3 *normal, int *point, void *user) {
    const fsi_soft *soft = (const fsi_soft *)user;
    fsi_hit hit;
    if (!fsi_bvh_closest(&soft->bvh, p, FSI_REAL_MAX, &hit))
        return FSI_REAL_MAX;

    *point = soft->desc.vertex_count + hit.element;
    *normal = hit.t > 0 ? fsi_vec_scale(fsi_vec_sub(p, hit.point), 1 / hit.t)
                        : fsi__unit(fsi_surface_normal(&soft->bvh.surface, hit.element));
    if (!fsi_bvh_inside(&soft->bvh, p))
        return hit.t;
    *normal = fsi_vec_scale(*normal, -1);
    return -hit.t;
}

/* advance_fn of fsi_external: h > 0 moves for h; h = 0 begins a step of the rigid world, h < 0 ends
   it, and neither leaves a patch. */
static void fsi__soft_advance(fsi_real h, void *user) {
    fsi_soft *soft = (fsi_soft *)user;
    fsi__soft_work *work = soft->work;
    fsi__soft_jump(soft);

    if (h == 0) {
        work->touched = 0;
        /* Positions that are not finite: nobody meets them. */
        if (fsi__soft_tree(soft) != FSI_OK)
            soft->bvh.nodes = 0;
    } else
        fsi__patch_flush(soft);
    if (h <= 0 && work->patch.room) {
        work->patch.count = work->patch.ready = 0;
        for (int i = 0; i < soft->desc.vertex_count; i++)
            work->patch.place[i] = -1;
    }
    if (!(h > 0))
        return;

    fsi__soft_zones(soft, h);
    fsi_axpy(work->dof, h, soft->v, soft->x);
    soft->moved += h;
}

FSI_API fsi_result fsi_soft_move(fsi_soft *soft, fsi_real dt) {
    if (!soft || !soft->block)
        return FSI_ERR_STATE;
    if (!fsi__soft_ready(soft, dt))
        return FSI_ERR_ARGUMENT;
    if (!fsi_all_finite(soft->work->dof, soft->v))
        return FSI_ERR_NUMERIC;

    dt -= soft->moved;
    if (dt > 16 * FSI_REAL_EPS * soft->moved)
        fsi__soft_advance(dt, soft);
    soft->moved = 0;
    return fsi_all_finite(soft->work->dof, soft->x) ? FSI_OK : FSI_ERR_NUMERIC;
}

static void fsi__patch_layout(fsi__patch *patch, size_t vertices, size_t room, fsi_arena *arena) {
    FSI__TAKE(patch->C, arena, 9 * room * room);
    FSI__TAKE(patch->impulse, arena, 3 * vertices);
    FSI__TAKE(patch->base, arena, 3 * room);
    FSI__TAKE(patch->place, arena, vertices);
    FSI__TAKE(patch->node, arena, room);
}

/* Memory of the patch; without it lumped masses answer. */
static void fsi__patch_init(fsi_soft *soft) {
    fsi__patch *patch = &soft->work->patch;
    size_t vertices = (size_t)soft->desc.vertex_count;
    size_t room = vertices < FSI__PATCH ? vertices : FSI__PATCH;
    if (patch->room || soft->desc.integrator == FSI_SOFT_EXPLICIT)
        return;

    fsi_arena arena = FSI__ZERO;
    fsi__patch_layout(patch, vertices, room, &arena);
    if (fsi__arena_reopen(&arena, &patch->memory, &soft->desc.allocator) != FSI_OK)
        return;
    fsi__patch_layout(patch, vertices, room, &arena);
    patch->room = (int)room;
}

FSI_API void fsi_soft_external(fsi_soft *soft, fsi_external *out) {
    memset(out, 0, sizeof *out);
    if (!soft || !soft->block)
        return;

    fsi__patch_init(soft);
    soft->work->watched = 1;
    out->point_count = soft->desc.vertex_count;
    out->x = soft->x;
    out->radius = soft->desc.thickness / 2;
    out->friction = soft->desc.friction;
    out->user = soft;
    out->velocity_fn = fsi__soft_point_velocity;
    out->inverse_mass_fn = fsi__soft_point_inverse;
    out->impulse_fn = fsi__soft_point_impulse;
    out->advance_fn = fsi__soft_advance;
    out->touch_fn = fsi__soft_touched;
    out->energy_fn = fsi__soft_surplus;
    out->edge_count = soft->work->edge_count;
    out->edge = soft->work->edge;
    if (soft->surface_count)
        out->distance_fn = fsi__soft_point_distance;
}

/* ------------------------------------------------------------------------------------------------
 * >>soft setup */
/* A list of elements in the desc: `corners` vertices each. */
static fsi_result fsi__soft_check_list(const fsi_soft_desc *desc, int corners, int count,
                                       const int32_t *list) {
    if (count < 0 || count > 100000000 || (count && !list))
        return FSI_ERR_ARGUMENT;
    return fsi__numbers_valid(corners * count, list, desc->vertex_count) ? FSI_OK
                                                                         : FSI_ERR_GEOMETRY;
}

static fsi_result fsi__soft_check(const fsi_soft_desc *desc) {
    if (!fsi_allocator_valid(&desc->allocator) || (desc->dim != 2 && desc->dim != 3))
        return FSI_ERR_ARGUMENT;
    if (desc->vertex_count < 1 || desc->vertex_count > 200000000 || !desc->x)
        return FSI_ERR_ARGUMENT;
    if (!fsi_all_finite(3 * (size_t)desc->vertex_count, desc->x))
        return FSI_ERR_ARGUMENT;

    /* Numbers and knobs. */
    const fsi_real numbers[] = {desc->density,
                                desc->area_density,
                                desc->young,
                                desc->stretch,
                                desc->bend,
                                desc->damping_mass,
                                desc->damping_stiffness,
                                desc->volume_stiffness,
                                desc->thickness,
                                desc->friction};
    for (int i = 0; i < (int)(sizeof numbers / sizeof *numbers); i++)
        if (!fsi__natural(numbers[i]))
            return FSI_ERR_ARGUMENT;
    if (!(desc->poisson > -1) || !(desc->poisson < FSI_R(0.5)))
        return FSI_ERR_ARGUMENT;
    if (!(desc->stretch_poisson > -1) || !(desc->stretch_poisson < 1))
        return FSI_ERR_ARGUMENT;
    if (!fsi__finite(desc->pressure) || !fsi__finite_vec(desc->gravity))
        return FSI_ERR_ARGUMENT;
    if (desc->newton < 0 || !(desc->tolerance >= 0))
        return FSI_ERR_ARGUMENT;
    if ((unsigned)desc->model > FSI_SOFT_NEOHOOKEAN || (unsigned)desc->integrator > FSI_SOFT_SPLIT)
        return FSI_ERR_ARGUMENT;

    /* What some need others for. */
    int thin = desc->triangle_count || desc->segment_count;
    if ((desc->tet_count && !(desc->density > 0)) || (thin && !(desc->area_density > 0)))
        return FSI_ERR_ARGUMENT;
    if (desc->self_collision && !(desc->thickness > 0))
        return FSI_ERR_ARGUMENT;
    if (desc->tet_count && desc->dim == 2)
        return FSI_ERR_ARGUMENT;
    if (!thin && !desc->tet_count)
        return FSI_ERR_ARGUMENT;

    fsi_result result = fsi__soft_check_list(desc, 2, desc->segment_count, desc->segment);
    if (result == FSI_OK)
        result = fsi__soft_check_list(desc, 3, desc->triangle_count, desc->triangle);
    if (result == FSI_OK)
        result = fsi__soft_check_list(desc, 4, desc->tet_count, desc->tet);
    if (result == FSI_OK)
        result = fsi__soft_check_list(desc, desc->dim, desc->surface_count, desc->surface);

    return result;
}

/* What bends: segments in 2D, triangles in 3D. The surface is made of them, too, unless another is
   given. */
static const int32_t *fsi__soft_shell(const fsi_soft_desc *desc, int *count) {
    *count = desc->dim == 2 ? desc->segment_count : desc->triangle_count;
    return desc->dim == 2 ? desc->segment : desc->triangle;
}

/* The nodes of hinges into out [4 each]: vertices where two segments a -> b -> c meet, edges of two
   triangles. Returns their number, -1 without memory. */
static int fsi__soft_hinges(const fsi_soft_desc *desc, int32_t *out) {
    int corners = desc->dim;
    int shells;
    const int32_t *shell = fsi__soft_shell(desc, &shells);
    int faces = corners * shells;
    if (!faces || !(desc->bend > 0))
        return 0;

    fsi__face *face = NULL;
    if (FSI__LIST_ROOM(face, faces, &desc->allocator) != FSI_OK)
        return -1;

    fsi__faces_sorted(corners, shells, shell, face);
    int count = 0;
    int run;
    for (int i = 0; i < faces; i += run) {
        run = fsi__face_run(face, i, faces);
        int overlap = corners == 2 && fsi__face_repeated(face + i, run, 2, shell);
        if (run != 2 || overlap)
            continue;

        /* All nodes of one shell (of the segment that ends here), the last one of the other. */
        int one = corners == 2 && face[i].from % 2 == 0 ? i + 1 : i;
        int other = 2 * i + 1 - one;
        int32_t *node = out + 4 * count++;
        for (int k = 0; k < corners; k++)
            node[k] = fsi__face_vertex(corners, shell, face[one].from, corners == 2 ? 1 - k : k);
        node[corners] = fsi__face_vertex(corners, shell, face[other].from, corners - 1);
    }
    FSI__LIST_FREE(face, &desc->allocator);

    return count;
}

static void fsi__soft_layout(fsi_soft *soft, fsi_arena *arena) {
    fsi__soft_work *work;
    fsi__soft_work none;
    FSI__TAKE(work, arena, 1);
    soft->work = work;
    size_t n = (size_t)soft->desc.vertex_count;
    size_t e = (size_t)soft->element_count;
    size_t surface = (size_t)soft->surface_count;
    size_t dof = 3 * n;

    /* State, side by side: x, v, drive, force, volume_target. */
    FSI__TAKE(soft->x, arena, 4 * dof + 1);
    if (soft->x) {
        soft->v = soft->x + dof;
        soft->drive = soft->v + dof;
        soft->force = soft->drive + dof;
        soft->volume_target = soft->force + dof;
    }
    FSI__TAKE(soft->mass, arena, n);
    FSI__TAKE(soft->inverse_mass, arena, n);
    FSI__TAKE(soft->impulse, arena, dof);
    FSI__TAKE(soft->surface, arena, surface * (size_t)soft->desc.dim);
    FSI__TAKE(soft->surface_node, arena, n);

    if (!work)
        work = &none;
    work->dof = dof;
    FSI__TAKE(work->node, arena, 4 * e);
    FSI__TAKE(work->rest, arena, FSI__REST * e);
    FSI__TAKE(work->element_force, arena, 12 * e);
    FSI__TAKE(work->element_energy, arena, e);
    FSI__TAKE(work->first, arena, n + 1);
    FSI__TAKE(work->corner, arena, 4 * e);
    FSI__TAKE(work->fixed, arena, dof);
    FSI__TAKE(work->outside, arena, n);
    FSI__TAKE(work->zone, arena, n);
    FSI__TAKE(work->edge, arena, soft->desc.dim == 3 ? 9 * surface : 0);
    FSI__TAKE(work->edge_first, arena, surface + 1);
    int batch = fsi__imin(soft->element_count, FSI__SOFT_BATCH);
    FSI__TAKE(work->batch, arena, 144 * (size_t)batch);
    FSI__TAKE(work->wall_weight, arena, n);
    fsi_real **vectors[] = {&work->rest_x,        &work->v_before,      &work->push,
                            &work->jump,          &work->guess,         &work->inertial,
                            &work->damp_from,     &work->given,         &work->residual,
                            &work->step,          &work->trial,         &work->right,
                            &work->precondition,  &work->contact_start, &work->open_start,
                            &work->wall_velocity, &work->force_without, &work->volume_gradient,
                            &work->volume_answer};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        FSI__TAKE(*vectors[i], arena, dof);
    if (soft->desc.use_cg) {
        fsi_krylov_desc desc = FSI__ZERO;
        desc.n = dof;
        desc.A.apply_fn = fsi__soft_diagonal;
        work->cg_size = fsi_cg_work_size(&desc);
        work->cg_work = fsi_arena_take(arena, work->cg_size, 1);
    }
}

/* 1: every coordinate of vertex i is prescribed. */
static int fsi__soft_is_held(const fsi_soft *soft, int i) {
    const unsigned char *fixed = soft->work->fixed + 3 * i;
    return fixed[0] && fixed[1] && fixed[2];
}

/* Stiffness of a 2D bend: EI / half the length around it that is not held. */
static fsi_real fsi__soft_bend_stiffness(const fsi_soft *soft, const int32_t *node,
                                         const fsi_vec3 *p) {
    fsi_real length = 0;
    for (int a = 0; a < 2; a++)
        if (!fsi__soft_is_held(soft, node[a]) || !fsi__soft_is_held(soft, node[a + 1]))
            length += fsi__length(fsi_vec_sub(p[a + 1], p[a]));
    return length > 0 ? 2 * soft->desc.bend / length : 0;
}

/* Stiffness of a fold: D |edge|^2 / the area of both triangles that is not held. */
static fsi_real fsi__soft_fold_stiffness(const fsi_soft *soft, const int32_t *node,
                                         const fsi_vec3 *d) {
    const int edge_held = fsi__soft_is_held(soft, node[0]) && fsi__soft_is_held(soft, node[1]);
    fsi_real area = 0;
    for (int a = 2; a < 4; a++)
        if (!edge_held || !fsi__soft_is_held(soft, node[a]))
            area += fsi__length(fsi_vec_cross(d[0], d[a - 1])) / 2;
    return area > 0 ? soft->desc.bend * fsi_vec_dot(d[0], d[0]) / area : 0;
}

/* Triangle: Dm = [l, u; 0, h] in its plane. Returns its area, 0 when degenerate. */
static fsi_real fsi__soft_rest_triangle(const fsi_vec3 *d, fsi_real *rest) {
    fsi_vec3 along = fsi__unit(d[0]);
    fsi_real l = fsi__length(d[0]);
    fsi_real u = fsi_vec_dot(d[1], along);
    fsi_real h = fsi__length(fsi_vec_mad(d[1], along, -u));
    fsi_real area = l * h / 2;
    if (!(area > FSI_R(1e-4) * FSI_REAL_EPS * (l * l + u * u + h * h))
        || !(h > 16 * FSI_REAL_EPS * (l + fsi__abs(u))))
        return 0;

    rest[0] = 1 / l;
    rest[1] = -u / (l * h);
    rest[2] = 0;
    rest[3] = 1 / h;
    rest[4] = area;
    return area;
}

/* Tetrahedron: Dm has its edges as columns. Returns its volume, 0 when degenerate. */
static fsi_real fsi__soft_rest_tet(const fsi_vec3 *d, fsi_real *rest) {
    fsi_mat3 Dm;
    fsi_mat3 inverse;
    for (int i = 0; i < 9; i++)
        Dm.m[i] = fsi__get(d[i % 3], i / 3);
    fsi_real volume = fsi_mat3_det(&Dm) / 6;
    fsi_real scale = fsi__length(d[0]) * fsi__length(d[1]) * fsi__length(d[2]);
    if (!(volume > 16 * FSI_REAL_EPS * scale) || !fsi_mat3_inverse(&Dm, &inverse))
        return 0;

    memcpy(rest, inverse.m, sizeof inverse.m);
    rest[9] = volume;
    return volume;
}

/* Rest data of element e; adds its mass to the nodes. 0 when degenerate. */
static int fsi__soft_rest(fsi_soft *soft, int e, int kind) {
    fsi__soft_work *work = soft->work;
    fsi_real *rest = work->rest + (size_t)FSI__REST * (size_t)e;
    fsi_real size = 0;
    const int32_t *node = work->node + 4 * e;
    fsi_vec3 p[4];
    fsi_vec3 d[3];
    int n = fsi__kind_nodes[kind];
    for (int a = 0; a < n; a++)
        p[a] = fsi__vec_at(work->rest_x, node[a]);
    for (int a = 1; a < n; a++)
        d[a - 1] = fsi_vec_sub(p[a], p[0]);
    if (kind == FSI__BEND) {
        rest[0] = fsi__bend_angle(p);
        rest[1] = fsi__soft_bend_stiffness(soft, node, p);
        return 1;
    }
    if (kind == FSI__FOLD) {
        rest[0] = fsi__fold_angle(p, NULL);
        rest[1] = fsi__soft_fold_stiffness(soft, node, d);
        return 1;
    }
    if (kind == FSI__SEG)
        rest[0] = size = fsi__length(d[0]);
    else
        size = kind == FSI__TRI ? fsi__soft_rest_triangle(d, rest) : fsi__soft_rest_tet(d, rest);
    if (!(size > 0))
        return 0;

    fsi_real density = kind == FSI__TET ? soft->desc.density : soft->desc.area_density;
    for (int a = 0; a < n; a++)
        soft->mass[node[a]] += density * size / (fsi_real)n;

    return 1;
}

/* Corners around each vertex, by counting. */
static void fsi__soft_corners(fsi_soft *soft) {
    fsi__soft_work *work = soft->work;
    int corners = 4 * soft->element_count;
    int n = soft->desc.vertex_count;
    for (int i = 0; i < corners; i++)
        if (work->node[i] >= 0)
            work->first[work->node[i] + 1]++;
    for (int i = 0; i < n; i++)
        work->first[i + 1] += work->first[i];
    for (int i = 0; i < corners; i++)
        if (work->node[i] >= 0)
            work->corner[work->first[work->node[i]]++] = i;
    for (int i = n; i > 0; i--)
        work->first[i] = work->first[i - 1];
    work->first[0] = 0;
}

/* Nodes and edges of the surface; an edge goes with the first element that has it. */
static fsi_result fsi__soft_edges(fsi_soft *soft) {
    fsi__soft_work *work = soft->work;
    int corners = soft->desc.dim * soft->surface_count;
    for (int i = 0; i < corners; i++)
        work->outside[soft->surface[i]] = 1;
    if (soft->desc.dim == 2 || !corners)
        return FSI_OK;

    fsi__face *face = NULL;
    fsi_result result = FSI__LIST_ROOM(face, corners, &soft->desc.allocator);
    if (result != FSI_OK)
        return result;

    /* The last number of an edge marks the first corner that has it, until edges move up. */
    fsi__faces_sorted(3, soft->surface_count, soft->surface, face);
    for (int i = 0; i < corners; i += fsi__face_run(face, i, corners))
        work->edge[3 * face[i].from + 2] = 1;
    FSI__LIST_FREE(face, &soft->desc.allocator);
    for (int i = 0; i < corners; i++) {
        if (i % 3 == 0)
            work->edge_first[i / 3] = work->edge_count;
        if (!work->edge[3 * i + 2])
            continue;
        int32_t *edge = work->edge + 3 * work->edge_count++;
        edge[0] = fsi__face_vertex(3, soft->surface, i, 0);
        edge[1] = fsi__face_vertex(3, soft->surface, i, 1);
        edge[2] = soft->desc.vertex_count + i / 3;
    }
    work->edge_first[soft->surface_count] = work->edge_count;

    return FSI_OK;
}

/* What others see as far as it is given or made of shells; NULL: the boundary of the tetrahedra. */
static const int32_t *fsi__soft_skin(const fsi_soft_desc *desc, int *count) {
    *count = desc->surface_count;
    const int32_t *skin = *count ? desc->surface : fsi__soft_shell(desc, count);
    return *count ? skin : NULL;
}

/* All elements, kind after kind, and the masses they give to the nodes. */
static fsi_result fsi__soft_elements(fsi_soft *soft, const fsi_soft_desc *desc) {
    fsi__soft_work *work = soft->work;
    const int32_t *list[FSI__KINDS] = {desc->segment, NULL, desc->triangle, NULL, desc->tet};
    int count[FSI__KINDS] = {desc->segment_count, 0, desc->triangle_count, 0, desc->tet_count};
    int e = 0;
    for (int i = 0; i < 4 * soft->element_count; i++)
        work->node[i] = -1;
    for (int k = 0; k < FSI__KINDS; k++) {
        int nodes = fsi__kind_nodes[k];
        int first = work->begin[k] = e;
        if (k == (desc->dim == 2 ? FSI__BEND : FSI__FOLD))
            count[k] = fsi__soft_hinges(desc, work->node + 4 * e);
        if (count[k] < 0)
            return FSI_ERR_MEMORY;
        for (; e < first + count[k]; e++) {
            for (int i = 0; list[k] && i < nodes; i++)
                work->node[4 * e + i] = list[k][nodes * (e - first) + i];
            if (!fsi__soft_rest(soft, e, k))
                return FSI_ERR_GEOMETRY;
        }
    }
    soft->element_count = work->begin[FSI__KINDS] = e;

    return FSI_OK;
}

/* Elements, masses, surface into the placed block. */
static fsi_result fsi__soft_fill(fsi_soft *soft, const fsi_soft_desc *desc) {
    fsi__soft_work *work = soft->work;
    int n = desc->vertex_count;
    fsi_copy(work->dof, desc->x, soft->x);
    fsi_copy(work->dof, desc->x, work->rest_x);

    for (int i = 0; i < n; i++) {
        int pin = (desc->pin ? desc->pin[i] : 0) | (desc->dim == 2 ? 4 : 0);
        for (int axis = 0; axis < 3; axis++)
            work->fixed[3 * i + axis] = (unsigned char)(pin >> axis & 1);
        soft->surface_node[i] = i;
    }
    fsi_result result = fsi__soft_elements(soft, desc);
    if (result != FSI_OK)
        return result;

    for (int i = 0; i < n; i++) {
        if (!(soft->mass[i] > 0))
            return FSI_ERR_GEOMETRY;
        soft->inverse_mass[i] = fsi__soft_is_held(soft, i) ? 0 : 1 / soft->mass[i];
    }
    fsi__soft_corners(soft);

    /* The surface: given, or the boundary of the tetrahedra. */
    int count;
    const int32_t *skin = fsi__soft_skin(desc, &count);
    if (skin)
        memcpy(soft->surface, skin, (size_t)(desc->dim * soft->surface_count) * sizeof(int32_t));
    else
        result = fsi_mesh_boundary(n, desc->tet_count, desc->tet, soft->surface,
                                   soft->surface_count, &count, &desc->allocator);
    if (result == FSI_OK)
        result = fsi__soft_edges(soft);
    if (result != FSI_OK)
        return result;

    soft->closed = desc->closed || desc->tet_count > 0;
    work->rest_volume = soft->closed ? fsi__soft_volume(soft, soft->x, 0, NULL) : 0;
    soft->volume_target[0] = work->rest_volume;

    return fsi__soft_has_pressure(soft) && !(work->rest_volume > 0) ? FSI_ERR_GEOMETRY : FSI_OK;
}

FSI_API fsi_result fsi_soft_init(fsi_soft *out, const fsi_soft_desc *desc) {
    if (!out || !desc)
        return FSI_ERR_ARGUMENT;

    fsi_result result = fsi__soft_check(desc);
    if (result != FSI_OK)
        return result;

    fsi_soft soft = FSI__ZERO;
    soft.desc = *desc;
    if (!soft.desc.newton)
        soft.desc.newton = 1;
    if (!(soft.desc.tolerance > 0))
        soft.desc.tolerance = sizeof(fsi_real) == 4 ? 1e-5 : 1e-8;
    if (!fsi__soft_skin(desc, &soft.surface_count))
        result = fsi_mesh_boundary(desc->vertex_count, desc->tet_count, desc->tet, NULL, 0,
                                   &soft.surface_count, &desc->allocator);
    if (result != FSI_OK)
        return result;

    int shells;
    fsi__soft_shell(desc, &shells);
    int most_hinges = desc->bend > 0 ? desc->dim * shells / 2 : 0;
    soft.element_count = desc->segment_count + desc->triangle_count + desc->tet_count + most_hinges;

    fsi_arena arena = FSI__ZERO;
    fsi__soft_layout(&soft, &arena);
    result = fsi__arena_block(&arena, &desc->allocator, &soft.block, &soft.size);
    if (result != FSI_OK)
        return result;

    fsi__soft_layout(&soft, &arena);
    result = fsi__soft_fill(&soft, desc);
    soft.desc.x = soft.work->rest_x;
    soft.desc.segment = soft.desc.triangle = soft.desc.tet = soft.desc.surface = NULL;
    soft.desc.pin = NULL;
    int has_matrix = soft.desc.integrator != FSI_SOFT_EXPLICIT;
    if (result == FSI_OK && has_matrix)
        result = fsi__soft_matrix(&soft);
    if (result == FSI_OK && has_matrix)
        result = fsi__soft_symbolic(&soft);
    if (result == FSI_OK && soft.surface_count)
        result = fsi_bvh_init(&soft.bvh, soft.surface_count, &desc->allocator);
    if (result < 0) {
        fsi_soft_free(&soft);
        return result;
    }
    *out = soft;

    return FSI_OK;
}

FSI_API void fsi_soft_free(fsi_soft *soft) {
    if (!soft || !soft->block)
        return;

    fsi_cholesky_free(&soft->factor);
    fsi_bvh_free(&soft->bvh);
    FSI__LIST_FREE(soft->work->patch.memory, &soft->desc.allocator);
    fsi_free(&soft->desc.allocator, soft->work->slot_block, soft->work->slot_size);
    fsi_free(&soft->desc.allocator, soft->block, soft->size);
    memset(soft, 0, sizeof *soft);
}

static void fsi__soft_state(void *object, fsi__state *state) {
    fsi_soft *soft = (fsi_soft *)object;
    size_t reals = 12 * (size_t)soft->desc.vertex_count + 1;
    fsi__state_match(state, reals);
    fsi__state_reals(state, soft->x, reals);

    /* Stages of a step that another life began. */
    if (fsi__state_loads(state)) {
        soft->moved = 0;
        soft->work->jumps = 0;
    }
}

FSI_API size_t fsi_soft_state_size(const fsi_soft *soft) {
    return soft && soft->block ? fsi__state_size(fsi__soft_state, soft) : 0;
}

FSI_API fsi_result fsi_soft_save(const fsi_soft *soft, void *block) {
    if (!soft || !soft->block)
        return FSI_ERR_STATE;
    return fsi__state_save(fsi__soft_state, FSI__STATE_OF('s', 'o', 'f', 't'), soft, block);
}

FSI_API fsi_result fsi_soft_restore(fsi_soft *soft, const void *block, size_t size) {
    if (!soft || !soft->block)
        return FSI_ERR_STATE;
    return fsi__state_restore(fsi__soft_state, FSI__STATE_OF('s', 'o', 'f', 't'), soft, block,
                              size);
}

/* ------------------------------------------------------------------------------------------------
 * >>reduced model */
/* Symbols of REDUCED (docs/reduced.md):

     x = R r + T       place of a particle, r = S q + x0 in the body frame
     m_i               lumped masses            s_k, S      mode k, all modes
     I                 inertia about T, body frame
     H = sum m r x s   angular momentum of each mode at unit speed (3 x modes)
     C0, G0, G         sum m x0 x0^T, sum m s_k x0^T, sum m s_k s_l^T
     A_k = sum m s_k r^T = G0_k + sum over l of q_l G_kl
     P_d               takes the rigid motion out of a velocity field

   J_rig^T M R S = (0, R H), so P_d^T R S q' = R (S q' - (I^-1 H q') x r). */

/* sum m r x s of A = sum m s r^T */
static fsi_vec3 fsi__skew(const fsi_real *A) {
    return fsi_vec(A[7] - A[5], A[2] - A[6], A[3] - A[1]);
}

/* What init works with, besides the model. */
typedef struct fsi__reduced_build {
    fsi_soft soft;        /* the elastic body: masses and K */
    int32_t *edge;        /* 2D: segments of the sheet's boundary; a list */
    const int32_t *index; /* the surface: triangles of the mesh, or edge */
    fsi_real *V, *omega2; /* [modes * 3 vertices] vectors, [modes] */
    fsi_real *rigid;      /* [6 * 3 vertices] rigid motions; later the surface's vertices */
    int32_t *map;         /* [vertices] mesh vertex -> surface vertex or -1 */
    void *block;
    size_t size;
} fsi__reduced_build;

static void fsi__reduced_layout(fsi_reduced_model *model, fsi_arena *arena) {
    size_t n = (size_t)model->vertex_count;
    size_t k = (size_t)model->modes;
    size_t nodes = (size_t)model->nx * (size_t)model->ny * (size_t)model->nz;
    FSI__TAKE(model->x0, arena, 3 * n);
    FSI__TAKE(model->node_mass, arena, n);
    FSI__TAKE(model->S, arena, 3 * n * k);
    FSI__TAKE(model->omega2, arena, k);
    FSI__TAKE(model->C0, arena, 9);
    FSI__TAKE(model->G0, arena, 9 * k);
    FSI__TAKE(model->G, arena, 9 * k * k);
    FSI__TAKE(model->surface, arena, (size_t)model->surface_count);
    FSI__TAKE(model->index, arena, (size_t)model->dim * (size_t)model->element_count);
    FSI__TAKE(model->sample, arena, (size_t)model->sample_count);
    FSI__TAKE(model->phi, arena, nodes);
    FSI__TAKE(model->near_vertex, arena, nodes);
}

static void fsi__reduced_build_layout(const fsi_reduced_model *model, fsi__reduced_build *build,
                                      fsi_arena *arena) {
    size_t n = 3 * (size_t)model->vertex_count;
    size_t k = (size_t)model->modes;
    FSI__TAKE(build->V, arena, k * n);
    FSI__TAKE(build->omega2, arena, k);
    FSI__TAKE(build->rigid, arena, 6 * n);
    FSI__TAKE(build->map, arena, n);
}

/* K of a flat sheet has nothing across its plane: a spring on every vertex, above all its own
   frequencies. */
static void fsi__reduced_flat(fsi_soft *soft) {
    fsi_real most = 0;
    for (int i = 0; i < soft->K.rows; i++)
        most = fsi__max(most, *fsi__csr_diagonal(&soft->K, i) / soft->mass[i / 3]);
    for (int i = 2; i < soft->K.rows; i += 3)
        *fsi__csr_diagonal(&soft->K, i) = 4 * most * soft->mass[i / 3];
}

/* The surface of a sheet in the plane z = 0: the edges of single triangles, the sheet on their
   left. */
static fsi_result fsi__reduced_edges(fsi_reduced_model *model, fsi__reduced_build *build,
                                     const fsi_mesh *mesh) {
    const fsi_allocator *allocator = &model->desc.allocator;
    int edges;
    fsi_result result = fsi__boundary(3, mesh->vertex_count, mesh->element_count, mesh->index, NULL,
                                      0, &edges, allocator);
    if (result == FSI_OK)
        result = FSI__LIST_ROOM(build->edge, 2 * (size_t)edges, allocator);
    if (result == FSI_OK)
        result = fsi__boundary(3, mesh->vertex_count, mesh->element_count, mesh->index, build->edge,
                               edges, &edges, allocator);
    if (result != FSI_OK)
        return result;

    build->index = build->edge;
    model->element_count = edges;

    for (int i = 0; i < mesh->vertex_count; i++)
        if (fsi__abs(mesh->x[3 * i + 2]) > 0)
            return FSI_ERR_GEOMETRY;
    fsi_surface sheet = fsi_mesh_surface(mesh);
    for (int i = 0; i < mesh->element_count; i++)
        if (!(fsi_surface_normal(&sheet, i).z > 0))
            return FSI_ERR_GEOMETRY;

    return FSI_OK;
}

/* The lowest vibration modes of the free body. */
static fsi_result fsi__reduced_vibration(const fsi_reduced_model *model,
                                         fsi__reduced_build *build) {
    fsi_soft *soft = &build->soft;
    const fsi_allocator *allocator = &model->desc.allocator;
    int n = 3 * model->vertex_count;

    /* The lumped masses as a matrix. */
    size_t size = (size_t)n * sizeof(fsi_real) + (2 * (size_t)n + 1) * sizeof(int32_t);
    fsi_csr mass;
    mass.rows = mass.cols = n;
    mass.val = (fsi_real *)fsi_alloc(allocator, size);
    if (!mass.val)
        return FSI_ERR_MEMORY;

    mass.row = (int32_t *)(void *)(mass.val + n);
    mass.col = mass.row + n + 1;
    for (int i = 0; i < n; i++) {
        mass.row[i] = mass.col[i] = i;
        mass.val[i] = soft->mass[i / 3];
    }
    mass.row[n] = n;

    /* Rigid motions: translations, and x -> e_a x r. */
    for (int i = 0; i < n / 3; i++)
        for (int axis = 0; axis < 3; axis++) {
            fsi__vec_put(build->rigid + axis * n, i, fsi__axis(axis));
            fsi__vec_put(build->rigid + (3 + axis) * n, i,
                         fsi_vec_cross(fsi__axis(axis), fsi__vec_at(model->x0, i)));
        }
    fsi_modes_desc desc = FSI__ZERO;
    desc.null_count = 6;

    /* 2D: x, y and the turn about z; across the plane it is far stiffer than anything inside. */
    if (model->dim == 2) {
        fsi__reduced_flat(soft);
        fsi_copy((size_t)n, build->rigid + 5 * n, build->rigid + 2 * n);
        desc.null_count = 3;
    }
    desc.K = &soft->K;
    desc.M = &mass;
    desc.count = model->modes;
    desc.null_vectors = build->rigid;
    desc.allocator = *allocator;
    fsi_result result = fsi_modes_solve(&desc, build->omega2, build->V, NULL);
    fsi_free(allocator, mass.val, size);
    if (result == FSI_NOT_CONVERGED)
        return FSI_ERR_NUMERIC;
    return result < 0 ? result : FSI_OK;
}

/* Takes the mean translation out of the vectors V. */
static void fsi__reduced_centre_basis(const fsi_reduced_model *model, fsi__reduced_build *build) {
    const fsi_real *mass = build->soft.mass;
    for (int k = 0; k < model->modes; k++) {
        fsi_real *mode = build->V + (size_t)k * build->soft.work->dof;
        for (int axis = 0; axis < 3; axis++) {
            double sum = 0;
            for (int i = 0; i < model->vertex_count; i++)
                sum += (double)(mass[i] * mode[3 * i + axis]);
            for (int i = 0; i < model->vertex_count; i++)
                mode[3 * i + axis] -= (fsi_real)(sum / (double)model->mass);
        }
    }
}

/* V <- Y V, one particle coordinate after the other. old: [modes] scratch. */
static void fsi__reduced_turn_basis(size_t modes, size_t n, const fsi_real *Y, fsi_real *V,
                                    fsi_real *old) {
    for (size_t i = 0; i < n; i++) {
        for (size_t a = 0; a < modes; a++)
            old[a] = V[a * n + i];
        for (size_t a = 0; a < modes; a++) {
            double sum = 0;
            for (size_t b = 0; b < modes; b++)
                sum += (double)(Y[a * modes + b] * old[b]);
            V[a * n + i] = (fsi_real)sum;
        }
    }
}

/* A given basis: its mean translation is taken out, and it is turned into the eigenvectors of its
   own M_r = V M V^T and K_r = V K V^T. */
static fsi_result fsi__reduced_own_basis(const fsi_reduced_model *model, fsi__reduced_build *build,
                                         const fsi_real *basis) {
    const fsi_soft *soft = &build->soft;
    const fsi_allocator *allocator = &model->desc.allocator;
    size_t n = soft->work->dof;
    size_t modes = (size_t)model->modes;
    size_t square = modes * modes;
    fsi_copy(modes * n, basis, build->V);
    fsi__reduced_centre_basis(model, build);
    fsi_real *M_r = NULL;
    fsi_result result = FSI__LIST_ROOM(M_r, 3 * square + n + modes, allocator);
    if (result != FSI_OK)
        return result;

    fsi_real *K_r = M_r + square;
    fsi_real *Y = K_r + square;
    fsi_real *force = Y + square;
    for (size_t a = 0; a < modes; a++) {
        const fsi_real *va = build->V + a * n;
        fsi_csr_mul(&soft->K, va, force);
        for (size_t b = 0; b < modes; b++) {
            const fsi_real *vb = build->V + b * n;
            double sum = 0;
            for (size_t i = 0; i < n; i++)
                sum += (double)(soft->mass[i / 3] * va[i] * vb[i]);
            M_r[a * modes + b] = (fsi_real)sum;
            K_r[a * modes + b] = (fsi_real)fsi_dot(n, force, vb);
        }
    }

    result = fsi_eigen_dense(model->modes, K_r, M_r, build->omega2, Y, allocator);
    if (result == FSI_OK)
        fsi__reduced_turn_basis(modes, n, Y, build->V, force + n);
    FSI__LIST_FREE(M_r, allocator);
    for (size_t a = 0; a < modes; a++)
        build->omega2[a] = fsi__max(build->omega2[a], 0);
    return result;
}

/* Modes of the free body or the given basis, into S and omega2. */
static fsi_result fsi__reduced_modes(fsi_reduced_model *model, fsi__reduced_build *build,
                                     const fsi_real *basis) {
    size_t n = 3 * (size_t)model->vertex_count;
    size_t modes = (size_t)model->modes;
    if (!modes)
        return FSI_OK;

    fsi_result result = fsi_soft_stiffness(&build->soft);
    if (result == FSI_OK)
        result = basis ? fsi__reduced_own_basis(model, build, basis)
                       : fsi__reduced_vibration(model, build);
    for (size_t a = 0; a < modes && result == FSI_OK; a++) {
        model->omega2[a] = build->omega2[a];
        for (size_t i = 0; i < n; i++)
            model->S[i * modes + a] = model->dim == 2 && i % 3 == 2 ? 0 : build->V[a * n + i];
    }
    return result;
}

/* sum over all particles of m a_i b_i, where a and b stand stride_a and stride_b apart. */
static fsi_real fsi__reduced_sum(const fsi_reduced_model *model, const fsi_real *a, int stride_a,
                                 const fsi_real *b, int stride_b) {
    double sum = 0;
    for (int i = 0; i < model->vertex_count; i++)
        sum += (double)(model->node_mass[i] * a[i * stride_a] * b[i * stride_b]);
    return (fsi_real)sum;
}

/* C0, G0 and G. */
static void fsi__reduced_integrals(fsi_reduced_model *model) {
    int n = model->modes;
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++) {
            const fsi_real *xa = model->x0 + a;
            const fsi_real *xb = model->x0 + b;
            const fsi_real *Sa = model->S + a * n;
            const fsi_real *Sb = model->S + b * n;
            int at = 3 * a + b;
            model->C0[at] = fsi__reduced_sum(model, xa, 3, xb, 3);
            for (int k = 0; k < n; k++) {
                model->G0[9 * k + at] = fsi__reduced_sum(model, Sa + k, 3 * n, xb, 3);
                for (int l = 0; l < n; l++)
                    model->G[9 * (k * n + l) + at] =
                        fsi__reduced_sum(model, Sa + k, 3 * n, Sb + l, 3 * n);
            }
        }
}

/* The distance field of the rest shape. */
static fsi__sdf fsi__reduced_sdf(const fsi_reduced_model *model) {
    fsi__sdf sdf = {model->nx, model->ny, model->nz, model->h, model->origin, model->phi};
    return sdf;
}

/* Tree over the rest surface and distance field of the rest shape. x [3 * surface_count]. */
static fsi_result fsi__reduced_field(fsi_reduced_model *model, fsi_real *x) {
    for (int i = 0; i < model->surface_count; i++)
        fsi__vec_put(x, i, fsi__vec_at(model->x0, model->surface[i]));
    fsi_surface surface =
        fsi__surface_of(model->dim, model->surface_count, x, model->element_count, model->index);
    fsi_result result = fsi_bvh_init(&model->tree, model->element_count, &model->desc.allocator);

    /* Boxes are shared by all copies, corners have to be worked out: boxes decide. */
    model->tree.leaf = 1;
    if (result == FSI_OK)
        result = fsi_bvh_build(&model->tree, &surface);
    fsi__sdf sdf = fsi__reduced_sdf(model);
    if (result == FSI_OK)
        fsi__sdf_fill(&sdf, &model->tree, model->phi, model->near_vertex);
    for (int i = 0; i < model->nx * model->ny * model->nz && result == FSI_OK; i++)
        model->near_vertex[i] = model->surface[model->near_vertex[i]];

    /* From now on the tree serves copies only, which have places of their own. */
    model->tree.surface.x = NULL;
    return result;
}

/* Contact samples: each next one is the surface vertex farthest from all before it. apart:
   [surface_count] scratch. */
static void fsi__reduced_samples(fsi_reduced_model *model, fsi_real *apart) {
    for (int i = 0; i < model->surface_count; i++)
        apart[i] = FSI_REAL_MAX;
    int farthest = 0;
    for (int k = 0; k < model->sample_count; k++) {
        fsi_vec3 here = fsi__vec_at(model->x0, model->surface[farthest]);
        model->sample[k] = model->surface[farthest];
        farthest = 0;
        for (int i = 0; i < model->surface_count; i++) {
            fsi_vec3 d = fsi_vec_sub(fsi__vec_at(model->x0, model->surface[i]), here);
            apart[i] = fsi__min(apart[i], fsi_vec_dot(d, d));
            if (apart[i] > apart[farthest])
                farthest = i;
        }
    }
}

/* Mass, centre of mass, radius and the lattice of the distance field. */
static void fsi__reduced_measure(fsi_reduced_model *model, const fsi_soft *soft,
                                 const fsi_mesh *mesh) {
    double sum[3] = FSI__ZERO;
    for (int i = 0; i < mesh->vertex_count; i++) {
        model->mass += soft->mass[i];
        for (int axis = 0; axis < 3; axis++)
            sum[axis] += (double)(soft->mass[i] * mesh->x[3 * i + axis]);
    }
    double mass = (double)model->mass;
    model->centre =
        fsi_vec((fsi_real)(sum[0] / mass), (fsi_real)(sum[1] / mass), (fsi_real)(sum[2] / mass));

    fsi_vec3 lo = fsi_vec_sub(fsi_vec_load(mesh->x), model->centre);
    fsi_vec3 hi = lo;
    for (int i = 0; i < mesh->vertex_count; i++) {
        fsi_vec3 x = fsi_vec_sub(fsi__vec_at(mesh->x, i), model->centre);
        fsi__grow(&lo, &hi, x);
        model->radius = fsi__max(model->radius, fsi__length(x));
    }
    fsi__sdf sdf = fsi__sdf_cover(lo, hi, model->dim, model->desc.field);
    model->h = sdf.spacing;
    model->origin = sdf.origin;
    model->nx = sdf.nx;
    model->ny = sdf.ny;
    model->nz = sdf.nz;
}

/* Numbers the surface vertices, places the block and fills everything that needs no eigen solver.
 */
static fsi_result fsi__reduced_arrange(fsi_reduced_model *model, fsi__reduced_build *build,
                                       const fsi_mesh *mesh) {
    int n = mesh->vertex_count;
    int corners = model->dim * model->element_count;
    for (int i = 0; i < n; i++)
        build->map[i] = -1;
    for (int i = 0; i < corners; i++)
        if (build->map[build->index[i]] < 0)
            build->map[build->index[i]] = model->surface_count++;
    fsi__reduced_measure(model, &build->soft, mesh);
    model->sample_count = fsi__imin(model->desc.samples, model->surface_count);

    fsi_arena arena = FSI__ZERO;
    fsi__reduced_layout(model, &arena);
    fsi_result result =
        fsi__arena_block(&arena, &model->desc.allocator, &model->block, &model->size);
    if (result != FSI_OK)
        return result;

    fsi__reduced_layout(model, &arena);
    for (int i = 0; i < n; i++) {
        fsi__vec_put(model->x0, i, fsi_vec_sub(fsi__vec_at(mesh->x, i), model->centre));
        model->node_mass[i] = build->soft.mass[i];
        if (build->map[i] >= 0)
            model->surface[build->map[i]] = i;
    }
    for (int i = 0; i < corners; i++)
        model->index[i] = build->map[build->index[i]];

    return FSI_OK;
}

/* The elastic body behind the modes: lumped masses and K. */
static fsi_result fsi__reduced_soft(fsi_reduced_model *model, fsi__reduced_build *build,
                                    const fsi_reduced_desc *desc) {
    const fsi_mesh *mesh = desc->mesh;
    fsi_soft_desc given = FSI__ZERO;
    given.dim = model->dim;
    given.vertex_count = model->vertex_count;
    given.x = mesh->x;
    given.model = FSI_SOFT_LINEAR;
    given.integrator = FSI_SOFT_EXPLICIT;

    if (model->dim == 3) {
        given.tet = mesh->tet;
        given.tet_count = mesh->tet_count;
        given.density = desc->density;
        given.young = desc->young;
        given.poisson = desc->poisson;
    } else {
        given.triangle = mesh->index;
        given.triangle_count = mesh->element_count;
        given.area_density = desc->density;
        given.stretch = desc->young;
        given.stretch_poisson = desc->poisson;
    }
    given.damping_mass = desc->damping_mass;
    given.damping_stiffness = desc->damping_stiffness;
    given.allocator = desc->allocator;
    build->index = mesh->index;

    return fsi_soft_init(&build->soft, &given);
}

/* What set-up needs before the elastic body exists; fsi_soft_init checks Poisson's ratio and
   damping, fsi__reduced_edges that a sheet is flat. */
static int fsi__reduced_desc_valid(const fsi_reduced_desc *desc) {
    const fsi_mesh *mesh = desc->mesh;
    if (!mesh || !fsi_allocator_valid(&desc->allocator))
        return 0;
    if (desc->dim != 0 && desc->dim != 2 && desc->dim != 3)
        return 0;

    int has_elements =
        desc->dim == 2 ? mesh->dim == 3 && mesh->element_count > 0 : mesh->tet_count > 0;
    if (!has_elements || desc->modes < 0 || desc->modes > 3 * mesh->vertex_count)
        return 0;
    if (!(desc->density > 0) || (desc->modes && !(desc->young > 0)))
        return 0;
    if (desc->samples < 0 || desc->field < 0 || desc->field > 512)
        return 0;
    size_t reals = 3 * (size_t)mesh->vertex_count * (size_t)desc->modes;

    return !desc->basis || fsi_all_finite(reals, desc->basis);
}

/* All of init once the elastic body is there. */
static fsi_result fsi__reduced_model_fill(fsi_reduced_model *model, fsi__reduced_build *build,
                                          const fsi_reduced_desc *desc) {
    fsi_result result = FSI_OK;
    if (model->dim == 2)
        result = fsi__reduced_edges(model, build, desc->mesh);
    if (result != FSI_OK)
        return result;

    fsi_arena arena = FSI__ZERO;
    fsi__reduced_build_layout(model, build, &arena);
    result = fsi__arena_block(&arena, &desc->allocator, &build->block, &build->size);
    if (result != FSI_OK)
        return result;

    fsi__reduced_build_layout(model, build, &arena);

    result = fsi__reduced_arrange(model, build, desc->mesh);
    if (result == FSI_OK)
        result = fsi__reduced_modes(model, build, desc->basis);
    if (result != FSI_OK)
        return result;

    fsi__reduced_integrals(model);
    result = fsi__reduced_field(model, build->rigid);
    if (result == FSI_OK)
        fsi__reduced_samples(model, build->rigid);

    return result;
}

FSI_API fsi_result fsi_reduced_model_init(fsi_reduced_model *out, const fsi_reduced_desc *desc) {
    if (!out || !desc || !fsi__reduced_desc_valid(desc))
        return FSI_ERR_ARGUMENT;

    fsi_reduced_model model = FSI__ZERO;
    model.desc = *desc;
    model.desc.mesh = NULL;
    model.desc.basis = NULL;
    model.dim = model.desc.dim = desc->dim == 2 ? 2 : 3;
    if (!model.desc.samples)
        model.desc.samples = 200;
    if (!model.desc.field)
        model.desc.field = 32;
    model.vertex_count = desc->mesh->vertex_count;
    model.element_count = desc->mesh->element_count;
    model.modes = desc->modes;

    fsi__reduced_build build = FSI__ZERO;
    fsi_result result = fsi__reduced_soft(&model, &build, desc);
    if (result == FSI_OK)
        result = fsi__reduced_model_fill(&model, &build, desc);
    fsi_free(&desc->allocator, build.block, build.size);
    FSI__LIST_FREE(build.edge, &desc->allocator);
    fsi_soft_free(&build.soft);
    if (result != FSI_OK) {
        fsi_reduced_model_free(&model);
        return result;
    }
    *out = model;

    return FSI_OK;
}

FSI_API void fsi_reduced_model_free(fsi_reduced_model *model) {
    if (!model)
        return;

    fsi_bvh_free(&model->tree);
    fsi_free(&model->desc.allocator, model->block, model->size);
    memset(model, 0, sizeof *model);
}

/* ------------------------------------------------------------------------------------------------
 * >>reduced body */
FSI__INLINE fsi_vec3 fsi__to_world(const fsi_reduced *reduced, fsi_vec3 v) {
    return fsi_mat3_mul_vec(&reduced->axes, v);
}

FSI__INLINE fsi_vec3 fsi__to_body(const fsi_reduced *reduced, fsi_vec3 v) {
    return fsi_mat3_tmul_vec(&reduced->axes, v);
}

/* Reals of the state: the rigid part, then q and q'. Momenta are 6 of them side by side. */
static size_t fsi__reduced_reals(const fsi_reduced *reduced) {
    return 13 + 2 * (size_t)reduced->model->modes;
}

static fsi_real *fsi__reduced_momenta(const fsi_reduced *reduced) {
    return reduced->state + 7;
}

/* start + sum over l of q_l G_kl: A_k with start = G0_k, its derivative along q without start. */
static fsi_mat3 fsi__reduced_A(const fsi_reduced_model *model, const fsi_real *q, int k,
                               const fsi_real *start) {
    fsi_mat3 A;
    for (int i = 0; i < 9; i++)
        A.m[i] = start ? start[i] : 0;
    for (int l = 0; l < model->modes; l++)
        for (int i = 0; i < 9; i++)
            A.m[i] += q[l] * model->G[9 * (k * model->modes + l) + i];
    return A;
}

/* What follows the state: axes, inertia tr(C) - C with C = sum m r r^T, its inverse, H. */
static void fsi__reduced_update(fsi_reduced *reduced) {
    const fsi_reduced_model *model = reduced->model;
    fsi_real C[9];
    memcpy(C, model->C0, sizeof C);
    for (int k = 0; k < model->modes; k++) {
        fsi_mat3 A = fsi__reduced_A(model, reduced->q, k, model->G0 + 9 * k);
        reduced->H[k] = fsi__skew(A.m);
        for (int i = 0; i < 9; i++)
            C[i] += reduced->q[k] * (A.m[i] + model->G0[9 * k + 3 * (i % 3) + i / 3]);
    }

    fsi_real trace = C[0] + C[4] + C[8];
    for (int i = 0; i < 9; i++)
        reduced->inertia.m[i] = (i % 4 == 0 ? trace : 0) - C[i];
    memset(&reduced->inverse_inertia, 0, sizeof reduced->inverse_inertia);
    fsi_mat3_inverse(&reduced->inertia, &reduced->inverse_inertia);
    reduced->axes = fsi_quat_matrix(reduced->rigid->rotation);
}

FSI_API fsi_result fsi_reduced_init(fsi_reduced *reduced, const fsi_reduced_model *model,
                                    fsi_vec3 position, const fsi_allocator *allocator) {
    if (!reduced || !model || !model->block)
        return FSI_ERR_ARGUMENT;
    if (!fsi_allocator_valid(allocator) || !fsi__finite_vec(position))
        return FSI_ERR_ARGUMENT;

    memset(reduced, 0, sizeof *reduced);
    size_t modes = (size_t)model->modes;
    reduced->size = (13 + 2 * modes + 3 * modes + 2 * (6 + modes) + modes) * sizeof(fsi_real);
    reduced->block = fsi_alloc(allocator, reduced->size);
    if (!reduced->block) {
        memset(reduced, 0, sizeof *reduced);
        return FSI_ERR_MEMORY;
    }

    if (allocator)
        reduced->allocator = *allocator;
    reduced->model = model;
    reduced->state = (fsi_real *)reduced->block;
    reduced->rigid = (fsi_reduced_rigid *)reduced->block;
    reduced->q = reduced->state + 13;
    reduced->dq = reduced->q + modes;
    reduced->H = (fsi_vec3 *)(void *)(reduced->dq + modes);
    reduced->force = (fsi_real *)(void *)(reduced->H + modes);
    reduced->v = reduced->force + 6 + modes;
    reduced->aside = reduced->v + 6 + modes;
    reduced->rigid->position = position;
    reduced->rigid->rotation.w = 1;
    fsi__reduced_update(reduced);

    return FSI_OK;
}

FSI_API void fsi_reduced_free(fsi_reduced *reduced) {
    if (!reduced)
        return;
    FSI__LIST_FREE(reduced->start, &reduced->allocator);
    fsi_free(&reduced->allocator, reduced->block, reduced->size);
    memset(reduced, 0, sizeof *reduced);
}

/* x0 + sum over k of S_k a_k at mesh vertex i, body frame; x0 may be left out. */
static fsi_vec3 fsi__reduced_blend(const fsi_reduced_model *model, int i, const fsi_real *amount,
                                   const fsi_real *x0) {
    fsi_real sum[3];
    for (int axis = 0; axis < 3; axis++) {
        const fsi_real *S = model->S + (3 * i + axis) * model->modes;
        sum[axis] = x0 ? x0[3 * i + axis] : 0;
        for (int k = 0; k < model->modes; k++)
            sum[axis] += S[k] * amount[k];
    }
    return fsi_vec_load(sum);
}

/* r = x0 + S q of mesh vertex i. */
static fsi_vec3 fsi__reduced_lever(const fsi_reduced *reduced, int i) {
    return fsi__reduced_blend(reduced->model, i, reduced->q, reduced->model->x0);
}

/* Velocity of the centre of mass. */
static fsi_vec3 fsi__reduced_drift(const fsi_reduced *reduced) {
    return fsi_vec_scale(reduced->rigid->momentum, 1 / reduced->model->mass);
}

/* Angular velocity that carries the angular momentum L (body frame), world frame. */
static fsi_vec3 fsi__reduced_turning(const fsi_reduced *reduced, fsi_vec3 L) {
    return fsi__to_world(reduced, fsi_mat3_mul_vec(&reduced->inverse_inertia, L));
}

/* w of the velocity (w, q'): all of the angular momentum belongs to it. */
static fsi_vec3 fsi__reduced_spin(const fsi_reduced *reduced) {
    return fsi__reduced_turning(reduced, fsi__to_body(reduced, reduced->rigid->angular_momentum));
}

/* Angular velocity of the frame: the modes carry H q' of the angular momentum. */
static fsi_vec3 fsi__reduced_frame_spin(const fsi_reduced *reduced) {
    fsi_vec3 L = fsi__to_body(reduced, reduced->rigid->angular_momentum);
    for (int k = 0; k < reduced->model->modes; k++)
        L = fsi_vec_mad(L, reduced->H[k], -reduced->dq[k]);
    return fsi__reduced_turning(reduced, L);
}

FSI_API fsi_result fsi_reduced_place(fsi_reduced *reduced, fsi_vec3 position, fsi_quat rotation,
                                     fsi_vec3 velocity, fsi_vec3 spin) {
    if (!reduced || !reduced->block)
        return FSI_ERR_STATE;

    if (!fsi__finite_vec(position) || !fsi__quat_finite(rotation))
        return FSI_ERR_ARGUMENT;
    if (!fsi__finite_vec(velocity) || !fsi__finite_vec(spin))
        return FSI_ERR_ARGUMENT;

    fsi_reduced_rigid *rigid = reduced->rigid;
    rigid->position = position;
    rigid->rotation = fsi_quat_unit(rotation);
    fsi_fill(2 * (size_t)reduced->model->modes, 0, reduced->q);
    fsi__reduced_update(reduced);
    rigid->momentum = fsi_vec_scale(velocity, reduced->model->mass);
    rigid->angular_momentum =
        fsi__to_world(reduced, fsi_mat3_mul_vec(&reduced->inertia, fsi__to_body(reduced, spin)));

    return FSI_OK;
}

FSI_API fsi_vec3 fsi_reduced_point(const fsi_reduced *reduced, int i) {
    return fsi_vec_add(reduced->rigid->position,
                       fsi__to_world(reduced, fsi__reduced_lever(reduced, i)));
}

/* v + spin x lever + R S q' of mesh vertex i, for the spin of the frame and the lever R r. */
static fsi_vec3 fsi__reduced_velocity_at(const fsi_reduced *reduced, int i, fsi_vec3 spin,
                                         fsi_vec3 lever) {
    fsi_vec3 turning = fsi_vec_cross(spin, lever);
    fsi_vec3 inner = fsi__reduced_blend(reduced->model, i, reduced->dq, NULL);
    return fsi_vec_add(fsi_vec_add(fsi__reduced_drift(reduced), turning),
                       fsi__to_world(reduced, inner));
}

FSI_API fsi_vec3 fsi_reduced_velocity(const fsi_reduced *reduced, int i) {
    return fsi__reduced_velocity_at(reduced, i, fsi__reduced_frame_spin(reduced),
                                    fsi__to_world(reduced, fsi__reduced_lever(reduced, i)));
}

/* M^_r of mode k: mass, damping and stiffness of an implicit step; 1 for dt = 0. */
static fsi_real fsi__reduced_stiff(const fsi_reduced_model *model, int k, fsi_real dt) {
    return 1 + dt * (model->desc.damping_mass + model->desc.damping_stiffness * model->omega2[k])
           + dt * dt * model->omega2[k];
}

/* Where a body is touched: the world point x, which moves with `count` weighted mesh vertices. */
typedef struct fsi__spot {
    fsi_vec3 x;
    int count;
    const int32_t *vertex;
    const fsi_real *weight;
} fsi__spot;

static fsi__spot fsi__spot_of(fsi_vec3 x, int count, const int32_t *vertex,
                              const fsi_real *weight) {
    fsi__spot spot;
    spot.x = x;
    spot.count = count;
    spot.vertex = vertex;
    spot.weight = weight;
    return spot;
}

/* The spot of a single mesh vertex; x its place, or what counts as it. */
static fsi__spot fsi__spot_at(fsi_vec3 x, const int32_t *vertex) {
    static const fsi_real one = 1;
    return fsi__spot_of(x, 1, vertex, &one);
}

/* Adds J^T j: j and arm x j to rigid[6], S^T R^-1 P_d j over M^_r(dt) to modal. Force, impulse and
   row of J are all this one map. */
static void fsi__reduced_apply(const fsi_reduced *reduced, const fsi__spot *spot, fsi_vec3 j,
                               fsi_real dt, fsi_real *rigid, fsi_real *modal) {
    const fsi_reduced_model *model = reduced->model;
    int n = model->modes;
    fsi_vec3 torque = fsi_vec_cross(fsi_vec_sub(spot->x, reduced->rigid->position), j);
    fsi__vec_add_at(rigid, 0, j);
    fsi__vec_add_at(rigid, 1, torque);

    /* In the body frame: j, and what the projection P_d takes off, I^-1 (r x j). */
    fsi_vec3 d = fsi__to_body(reduced, j);
    fsi_vec3 turn = fsi_mat3_mul_vec(&reduced->inverse_inertia, fsi__to_body(reduced, torque));
    for (int k = 0; k < n; k++) {
        fsi_real f = -fsi_vec_dot(reduced->H[k], turn);
        for (int c = 0; c < spot->count; c++) {
            const fsi_real *S = model->S + 3 * spot->vertex[c] * n + k;
            f += spot->weight[c] * (S[0] * d.x + S[n] * d.y + S[2 * n] * d.z);
        }
        modal[k] += dt > 0 ? f / fsi__reduced_stiff(model, k, dt) : f;
    }
}

/* Adds the row of J along dir to row[6 + modes]. */
static void fsi__reduced_row_add(const fsi_reduced *reduced, const fsi__spot *spot, fsi_vec3 dir,
                                 fsi_real *row) {
    fsi__reduced_apply(reduced, spot, dir, 0, row, row + 6);
}

/* An impulse at a spot changes momenta and q' at once, with the masses of a step of dt. */
static void fsi__reduced_impulse(fsi_reduced *reduced, const fsi__spot *spot, fsi_vec3 impulse,
                                 fsi_real dt) {
    if (!reduced->fixed)
        fsi__reduced_apply(reduced, spot, impulse, dt, fsi__reduced_momenta(reduced), reduced->dq);
}

FSI_API void fsi_reduced_add_force(fsi_reduced *reduced, int i, fsi_vec3 force) {
    int32_t vertex = i;
    fsi__spot spot = fsi__spot_at(fsi_reduced_point(reduced, i), &vertex);
    fsi__reduced_row_add(reduced, &spot, force, reduced->force);
}

/* Mass matrix [(6 + modes)^2] or its inverse, in a matrix of zeros with rows of length n. */
static void fsi__reduced_matrix(const fsi_reduced *reduced, fsi_real dt, int inverse, int n,
                                fsi_real *out) {
    const fsi_reduced_model *model = reduced->model;
    if (inverse && reduced->fixed)
        return;

    fsi_mat3 inertia =
        fsi_mat3_rotate(&reduced->axes, inverse ? &reduced->inverse_inertia : &reduced->inertia);
    for (int i = 0; i < 3; i++) {
        out[i * (n + 1)] = inverse ? 1 / model->mass : model->mass;
        for (int j = 0; j < 3; j++)
            out[(3 + i) * n + 3 + j] = (inertia.m[3 * i + j] + inertia.m[3 * j + i]) / 2;
    }
    for (int i = 6; i < 6 + model->modes; i++) {
        fsi_real stiff = fsi__reduced_stiff(model, i - 6, dt);
        out[i * (n + 1)] = inverse ? 1 / stiff : stiff;
    }

    /* 2D: z and the spins about x and y do not move. */
    for (int i = 2; i < 5 && inverse && model->dim == 2; i++)
        for (int j = 2; j < 5; j++)
            out[i * n + j] = 0;
}

FSI_API void fsi_reduced_mass(const fsi_reduced *reduced, fsi_real dt, fsi_real *mass,
                              fsi_real *inverse) {
    int n = 6 + reduced->model->modes;
    for (int inverted = 0; inverted < 2; inverted++) {
        fsi_real *out = inverted ? inverse : mass;
        if (!out)
            continue;
        fsi_fill((size_t)n * (size_t)n, 0, out);
        fsi__reduced_matrix(reduced, dt, inverted, n, out);
    }
}

/* Kinetic energy of q' alone: q' (1 - H^T I^-1 H) q' / 2. */
static double fsi__reduced_inside(const fsi_reduced *reduced) {
    fsi_vec3 carried = FSI__ZERO;
    double energy = 0;
    for (int k = 0; k < reduced->model->modes; k++) {
        energy += 0.5 * (double)(reduced->dq[k] * reduced->dq[k]);
        carried = fsi_vec_mad(carried, reduced->H[k], reduced->dq[k]);
    }
    fsi_vec3 spin = fsi_mat3_mul_vec(&reduced->inverse_inertia, carried);
    return energy - 0.5 * (double)fsi_vec_dot(carried, spin);
}

FSI_API void fsi_reduced_energy(const fsi_reduced *reduced, double *elastic, double *kinetic) {
    const fsi_reduced_model *model = reduced->model;
    if (elastic) {
        *elastic = 0;
        for (int k = 0; k < model->modes; k++)
            *elastic += 0.5 * (double)(model->omega2[k] * reduced->q[k] * reduced->q[k]);
    }
    if (kinetic) {
        fsi_real linear = fsi_vec_dot(reduced->rigid->momentum, fsi__reduced_drift(reduced));
        fsi_real angular =
            fsi_vec_dot(reduced->rigid->angular_momentum, fsi__reduced_spin(reduced));
        *kinetic = fsi__reduced_inside(reduced) + 0.5 * (double)(linear + angular);
    }
}

/* Elastic, kinetic and gravity's energy. */
static double fsi__reduced_total(const fsi_reduced *reduced) {
    double elastic;
    double kinetic;
    fsi_reduced_energy(reduced, &elastic, &kinetic);
    fsi_real height = fsi_vec_dot(reduced->gravity, reduced->rigid->position);
    return elastic + kinetic - (double)(reduced->model->mass * height);
}

/* Fictitious force on mode k, centrifugal and Coriolis, with the rigid part taken out: the Euler
   force is a rigid field and drops out. w: spin of the frame, y: I^-1 of the fictitious torque,
   both in the body frame. */
static fsi_real fsi__reduced_fictitious(const fsi_reduced *reduced, int k, fsi_vec3 w, fsi_vec3 y) {
    const fsi_reduced_model *model = reduced->model;
    fsi_mat3 A = fsi__reduced_A(model, reduced->q, k, model->G0 + 9 * k);
    fsi_mat3 A_rate = fsi__reduced_A(model, reduced->dq, k, NULL);
    fsi_real force = 2 * fsi_vec_dot(w, fsi__skew(A_rate.m)) - fsi_vec_dot(reduced->H[k], y);

    /* s . w x (w x r), summed over all particles */
    fsi_real ww = fsi_vec_dot(w, w);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            force += A.m[3 * i + j] * (fsi__get(w, i) * fsi__get(w, j) - (i == j ? ww : 0));
    return force;
}

/* I^-1 of the fictitious torque: sum m r x (w x (w x r)) + 2 sum m r x (w x s_l) q'_l, where the
   last sum is 2 (tr A_l - A_l) w q'_l. Body frame. */
static fsi_vec3 fsi__reduced_fictitious_turn(const fsi_reduced *reduced, fsi_vec3 w) {
    const fsi_reduced_model *model = reduced->model;
    fsi_vec3 torque = fsi_vec_cross(w, fsi_mat3_mul_vec(&reduced->inertia, w));
    for (int l = 0; l < model->modes; l++) {
        fsi_mat3 A = fsi__reduced_A(model, reduced->q, l, model->G0 + 9 * l);
        fsi_vec3 all = fsi_vec_scale(w, A.m[0] + A.m[4] + A.m[8]);
        torque = fsi_vec_mad(torque, fsi_vec_sub(all, fsi_mat3_mul_vec(&A, w)), 2 * reduced->dq[l]);
    }
    return fsi_mat3_mul_vec(&reduced->inverse_inertia, torque);
}

FSI_API fsi_result fsi_reduced_forces(fsi_reduced *reduced, fsi_real dt) {
    if (!reduced || !reduced->block)
        return FSI_ERR_STATE;
    if (!fsi__positive(dt))
        return FSI_ERR_ARGUMENT;

    const fsi_reduced_model *model = reduced->model;
    size_t dof = 6 + (size_t)model->modes;
    if (!fsi_all_finite(fsi__reduced_reals(reduced), reduced->state)
        || !fsi_all_finite(dof, reduced->force))
        return FSI_ERR_NUMERIC;

    reduced->dt = dt;
    reduced->moved = 0;
    if (reduced->fixed) {
        fsi_fill(dof, 0, reduced->force);
        return FSI_OK;
    }

    /* Modal forces become q'* in place, so that all of them see the old q'. */
    fsi__reduced_update(reduced);
    reduced->energy = fsi__reduced_total(reduced);
    fsi_vec3 w = fsi__to_body(reduced, fsi__reduced_frame_spin(reduced));
    fsi_vec3 turn = fsi__reduced_fictitious_turn(reduced, w);
    fsi_real *modal = reduced->force + 6;
    const fsi_real *q = reduced->half ? reduced->start + 6 : reduced->q;
    for (int k = 0; k < model->modes; k++) {
        fsi_real force = modal[k] - fsi__reduced_fictitious(reduced, k, w, turn);
        modal[k] = reduced->dq[k] + dt * (force - model->omega2[k] * q[k]);
    }
    reduced->half = 0;

    /* M^_r^-1 M_r q'*, and the momenta. */
    for (int k = 0; k < model->modes; k++)
        reduced->dq[k] = modal[k] / fsi__reduced_stiff(model, k, dt);
    fsi_reduced_rigid *rigid = reduced->rigid;
    fsi_vec3 force = fsi_vec_mad(fsi_vec_load(reduced->force), reduced->gravity, model->mass);
    rigid->momentum = fsi_vec_mad(rigid->momentum, force, dt);
    rigid->angular_momentum =
        fsi_vec_mad(rigid->angular_momentum, fsi_vec_load(reduced->force + 3), dt);
    fsi_fill(dof, 0, reduced->force);

    return FSI_OK;
}

FSI_API fsi_result fsi_reduced_half(fsi_reduced *reduced, fsi_real dt) {
    if (!reduced || !reduced->block)
        return FSI_ERR_STATE;

    reduced->half = 0;
    size_t modes = (size_t)reduced->model->modes;
    fsi_result result = FSI__LIST_ROOM(reduced->start, 12 + 3 * modes, &reduced->allocator);
    if (result != FSI_OK)
        return result;

    /* Momenta, q and q' lie side by side; the forces follow them. */
    fsi_copy(6 + 2 * modes, fsi__reduced_momenta(reduced), reduced->start);
    fsi_copy(6 + modes, reduced->force, reduced->start + 6 + 2 * modes);
    result = fsi_reduced_forces(reduced, dt / 2);
    reduced->half = result >= 0;

    return result;
}

FSI_API fsi_result fsi_reduced_rewind(fsi_reduced *reduced) {
    if (!reduced || !reduced->block || !reduced->half)
        return FSI_ERR_STATE;

    size_t modes = (size_t)reduced->model->modes;
    fsi_copy(6, reduced->start, fsi__reduced_momenta(reduced));
    fsi_copy(modes, reduced->start + 6 + modes, reduced->dq);
    fsi_copy(6 + modes, reduced->start + 6 + 2 * modes, reduced->force);
    return FSI_OK;
}

/* The frame turns from a rotation on. */
static void fsi__reduced_turn(fsi_reduced *reduced, fsi_quat from, fsi_vec3 rotation) {
    reduced->rigid->rotation = fsi_quat_unit(fsi_quat_mul(fsi_quat_from_rotation(rotation), from));
    fsi__reduced_update(reduced);
}

/* Moves for dt with the present momenta and q', by the midpoint rule: the angular momentum stays,
   the frame's spin follows the shape. dt = 0 begins a step of the rigid world. */
static void fsi__reduced_advance(fsi_real dt, void *user) {
    fsi_reduced *reduced = (fsi_reduced *)user;
    if (dt == 0)
        reduced->touched = 0;
    if (reduced->fixed || !(dt > 0))
        return;

    fsi_quat from = reduced->rigid->rotation;
    fsi_vec3 drift = fsi__reduced_drift(reduced);
    for (int half = 1; half <= 2; half++) {
        fsi_vec3 spin = fsi__reduced_frame_spin(reduced);
        for (int k = 0; k < reduced->model->modes; k++)
            reduced->q[k] += dt / 2 * reduced->dq[k];
        fsi__reduced_turn(reduced, from, fsi_vec_scale(spin, half == 1 ? dt / 2 : dt));
    }
    reduced->rigid->position = fsi_vec_mad(reduced->rigid->position, drift, dt);
    reduced->moved += dt;
}

/* Place with rotation (side by side in the state) and q to pose [7] and q [modes], or back. */
static void fsi__reduced_pose(fsi_reduced *reduced, fsi_real *pose, fsi_real *q, int back) {
    size_t modes = (size_t)reduced->model->modes;
    fsi_copy(7, back ? pose : reduced->state, back ? reduced->state : pose);
    fsi_copy(modes, back ? q : reduced->q, back ? reduced->q : q);
    if (back)
        fsi__reduced_update(reduced);
}

/* Energy at the end of the running step if nothing else happens: the move is tried out. */
static double fsi__reduced_next(fsi_reduced *reduced) {
    if (!(reduced->dt > 0))
        return fsi__reduced_total(reduced);

    fsi_real pose[7];
    fsi_real moved = reduced->moved;
    fsi__reduced_pose(reduced, pose, reduced->aside, 0);
    fsi__reduced_advance(reduced->dt, reduced);
    double energy = fsi__reduced_total(reduced);
    fsi__reduced_pose(reduced, pose, reduced->aside, 1);
    reduced->moved = moved;
    return energy;
}

FSI_API fsi_result fsi_reduced_move(fsi_reduced *reduced, fsi_real dt) {
    if (!reduced || !reduced->block)
        return FSI_ERR_STATE;
    if (!fsi__positive(dt))
        return FSI_ERR_ARGUMENT;
    if (!fsi_all_finite(fsi__reduced_reals(reduced), reduced->state))
        return FSI_ERR_NUMERIC;

    dt -= reduced->moved;
    if (dt > 16 * FSI_REAL_EPS * reduced->moved)
        fsi__reduced_advance(dt, reduced);
    reduced->moved = 0;
    return FSI_OK;
}

static void fsi__reduced_state(void *object, fsi__state *state) {
    fsi_reduced *reduced = (fsi_reduced *)object;
    size_t reals = fsi__reduced_reals(reduced);
    fsi__state_match(state, reals);
    fsi__state_reals(state, reduced->state, reals);
    if (fsi__state_loads(state)) {
        reduced->half = 0;
        reduced->moved = 0;
        fsi__reduced_update(reduced);
    }
}

FSI_API size_t fsi_reduced_state_size(const fsi_reduced *reduced) {
    return reduced && reduced->block ? fsi__state_size(fsi__reduced_state, reduced) : 0;
}

FSI_API fsi_result fsi_reduced_save(const fsi_reduced *reduced, void *block) {
    if (!reduced || !reduced->block)
        return FSI_ERR_STATE;
    return fsi__state_save(fsi__reduced_state, FSI__STATE_OF('r', 'e', 'd', 'u'), reduced, block);
}

FSI_API fsi_result fsi_reduced_restore(fsi_reduced *reduced, const void *block, size_t size) {
    if (!reduced || !reduced->block)
        return FSI_ERR_STATE;
    return fsi__state_restore(fsi__reduced_state, FSI__STATE_OF('r', 'e', 'd', 'u'), reduced, block,
                              size);
}

/* ---- A copy on its own as a coupled solid. */
/* The velocity (v, w, q') of the state into v[6 + modes]. */
static void fsi__reduced_velocity_out(const fsi_reduced *reduced, fsi_real *v) {
    fsi_vec_store(v, fsi__reduced_drift(reduced));
    fsi_vec_store(v + 3, fsi__reduced_spin(reduced));
    fsi_copy((size_t)reduced->model->modes, reduced->dq, v + 6);
}

/* And back: the state takes the velocity v[6 + modes]. */
static void fsi__reduced_velocity_in(fsi_reduced *reduced, const fsi_real *v) {
    if (reduced->fixed)
        return;

    fsi_mat3 inertia = fsi_mat3_rotate(&reduced->axes, &reduced->inertia);
    reduced->rigid->momentum = fsi_vec_scale(fsi_vec_load(v), reduced->model->mass);
    reduced->rigid->angular_momentum = fsi_mat3_mul_vec(&inertia, fsi_vec_load(v + 3));
    fsi_copy((size_t)reduced->model->modes, v + 6, reduced->dq);
}

/* Place of a surface vertex. */
static void fsi__reduced_at(int vertex, fsi_real *x, const void *user) {
    const fsi_reduced *reduced = (const fsi_reduced *)user;
    fsi_vec_store(x, fsi_reduced_point(reduced, reduced->model->surface[vertex]));
}

/* Adds the row of J at a point of a surface element: the point's own arm, the element's vertices
   for the modes. `first` is the number of the body's first surface vertex. */
static void fsi__reduced_element_row(const fsi_reduced *reduced, const int32_t *corner, int first,
                                     const fsi_real *weight, fsi_vec3 point, fsi_vec3 dir,
                                     fsi_real *row) {
    int32_t vertex[3];
    for (int a = 0; a < reduced->model->dim; a++)
        vertex[a] = reduced->model->surface[corner[a] - first];
    fsi__spot spot = fsi__spot_of(point, reduced->model->dim, vertex, weight);
    fsi__reduced_row_add(reduced, &spot, dir, row);
}

static void fsi__reduced_door_row(const fsi_coupled *self, int element, const fsi_real *weight,
                                  fsi_vec3 point, fsi_vec3 dir, fsi_real *row) {
    const fsi_reduced *reduced = (const fsi_reduced *)self->user;
    fsi_fill((size_t)self->dof, 0, row);
    fsi__reduced_element_row(reduced, reduced->model->index + reduced->model->dim * element, 0,
                             weight, point, dir, row);
}

static void fsi__reduced_door_mass(const fsi_coupled *self, fsi_real *mass, fsi_real *inverse) {
    const fsi_reduced *reduced = (const fsi_reduced *)self->user;
    fsi_reduced_mass(reduced, reduced->dt, mass, inverse);
}

/* What S q adds to the rest place of a mesh vertex, body frame. */
static fsi_vec3 fsi__reduced_deformed(const fsi_reduced *reduced, int i) {
    return fsi_vec_sub(fsi__reduced_lever(reduced, i), fsi__vec_at(reduced->model->x0, i));
}

FSI_API fsi_result fsi_reduced_couple(fsi_reduced *reduced, fsi_coupled *out) {
    if (!reduced || !reduced->block || !(reduced->dt > 0))
        return FSI_ERR_STATE;

    const fsi_reduced_model *model = reduced->model;
    if (!out || 6 + model->modes > FSI__ROW_MOST)
        return FSI_ERR_ARGUMENT;

    /* How far the deformation takes the surface at most: the tree of the rest shape is searched
       that much wider. */
    fsi_real most = 0;
    for (int i = 0; i < model->surface_count && model->modes; i++) {
        fsi_vec3 moved = fsi__reduced_deformed(reduced, model->surface[i]);
        most = fsi__max(most, fsi_vec_dot(moved, moved));
    }
    fsi__reduced_velocity_out(reduced, reduced->v);
    memset(out, 0, sizeof *out);
    out->surface =
        fsi__surface_of(model->dim, model->surface_count, NULL, model->element_count, model->index);
    out->surface.place_fn = fsi__reduced_at;
    out->surface.user = reduced;
    out->surface.rest = &model->tree;
    out->surface.R = reduced->axes.m;
    out->surface.T = reduced->state;
    out->surface.off = fsi__sqrt(most);
    out->dof = 6 + model->modes;
    out->v = reduced->v;
    out->mass_fn = fsi__reduced_door_mass;
    out->row_fn = fsi__reduced_door_row;
    out->user = reduced;

    return FSI_OK;
}

FSI_API fsi_result fsi_reduced_take(fsi_reduced *reduced) {
    if (!reduced || !reduced->block)
        return FSI_ERR_STATE;
    if (!fsi_all_finite(6 + (size_t)reduced->model->modes, reduced->v))
        return FSI_ERR_NUMERIC;
    fsi__reduced_velocity_in(reduced, reduced->v);
    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>reduced group */
/* K: inverse mass of all bodies, A = J_0 - J_1: rows of the joints (three each), A v = relative
   velocity of the joined points. */

static void fsi__group_layout(fsi_reduced_group *group, fsi_arena *arena) {
    size_t dof = (size_t)group->dof;
    size_t rows = 3 * (size_t)group->joint_count;
    size_t bodies = (size_t)group->body_count;
    size_t vertices = 3 * (size_t)group->vertex_count;
    size_t skin = (size_t)group->skin.vertex_count;
    size_t terms = (size_t)group->skin.terms * skin;

    /* One body without skin: the rows give its velocities. */
    int rows_do = group->body_count == 1 && !group->skin.terms && group->dof <= FSI__ROW_MOST;
    FSI__TAKE(group->body, arena, bodies);
    FSI__TAKE(group->joint, arena, (size_t)group->joint_count);
    FSI__TAKE(group->x, arena, vertices);
    FSI__TAKE(group->velocity, arena, rows_do ? 0 : vertices);
    FSI__TAKE(group->index, arena, 3 * (size_t)group->element_count);
    FSI__TAKE(group->owner, arena, skin);
    FSI__TAKE(group->first, arena, bodies);
    FSI__TAKE(group->v, arena, dof);
    FSI__TAKE(group->impulse, arena, dof);
    FSI__TAKE(group->mass, arena, dof * dof);
    FSI__TAKE(group->inverse, arena, dof * dof);
    FSI__TAKE(group->joint_row, arena, rows * dof);
    FSI__TAKE(group->joint_answer, arena, rows * dof);
    FSI__TAKE(group->joint_weight, arena, rows);
    FSI__TAKE(group->joint_gap, arena, rows);
    FSI__TAKE(group->joint_left, arena, rows);
    FSI__TAKE(group->free, arena, dof);
    FSI__TAKE(group->change, arena, dof);
    FSI__TAKE(group->pose, arena, rows ? dof + bodies : 0);
    FSI__TAKE(group->skin_body, arena, terms);
    FSI__TAKE(group->skin_vertex, arena, terms);
    FSI__TAKE(group->skin_weight, arena, terms);
    if (rows_do)
        group->velocity = NULL;
}

/* Does every term of the skin name a vertex of a body? */
static int fsi__skin_valid(const fsi_reduced_skin *skin, fsi_reduced **body, int body_count) {
    if (skin->vertex_count < 1 || skin->element_count < 1 || !skin->index)
        return 0;
    if (skin->terms < 1 || skin->terms > 0x7fffffff / skin->vertex_count)
        return 0;
    if (!skin->body || !skin->vertex || !skin->weight)
        return 0;

    int corners = body[0]->model->dim * skin->element_count;
    if (!fsi__numbers_valid(corners, skin->index, skin->vertex_count))
        return 0;
    for (int i = 0; i < skin->terms * skin->vertex_count; i++) {
        int number = skin->body[i];
        if (number < 0 || number >= body_count || !fsi__finite(skin->weight[i]))
            return 0;
        if (skin->vertex[i] < 0 || skin->vertex[i] >= body[number]->model->vertex_count)
            return 0;
    }
    return 1;
}

/* Counts degrees of freedom, vertices and elements; 0 where something given is not valid. */
static int fsi__group_check(fsi_reduced_group *group, fsi_reduced **body,
                            const fsi_reduced_joint *joint, const fsi_reduced_skin *skin) {
    for (int i = 0; i < group->body_count; i++) {
        if (!body[i] || !body[i]->block || body[i]->model->dim != body[0]->model->dim)
            return 0;
        group->dof += 6 + body[i]->model->modes;
        group->vertex_count += body[i]->model->surface_count;
        group->element_count += body[i]->model->element_count;
    }
    for (int i = 0; i < 2 * group->joint_count; i++) {
        int number = joint[i / 2].body[i % 2];
        int vertex = joint[i / 2].vertex[i % 2];
        if (number < 0 || number >= group->body_count)
            return 0;
        if (joint[i / 2].body[0] == joint[i / 2].body[1])
            return 0;
        if (vertex < 0 || vertex >= body[number]->model->vertex_count)
            return 0;
    }
    if (!skin)
        return 1;
    if (!fsi__skin_valid(skin, body, group->body_count))
        return 0;

    group->skin = *skin;
    group->vertex_count = skin->vertex_count;
    group->element_count = skin->element_count;

    return 1;
}

/* Copies the skin, and finds the body that carries most of each of its vertices. */
static void fsi__group_skin(fsi_reduced_group *group, const fsi_reduced_skin *skin, int dim) {
    size_t terms = (size_t)skin->terms * (size_t)skin->vertex_count;
    memcpy(group->index, skin->index, (size_t)dim * (size_t)skin->element_count * sizeof(int32_t));
    memcpy(group->skin_body, skin->body, terms * sizeof(int32_t));
    memcpy(group->skin_vertex, skin->vertex, terms * sizeof(int32_t));
    memcpy(group->skin_weight, skin->weight, terms * sizeof(fsi_real));
    group->skin.index = group->index;
    group->skin.body = group->skin_body;
    group->skin.vertex = group->skin_vertex;
    group->skin.weight = group->skin_weight;

    for (int i = 0; i < skin->vertex_count; i++) {
        fsi_real most = -1;
        int first = skin->terms * i;
        int end = first + skin->terms;
        for (int k = first; k < end; k++) {
            fsi_real share = 0;
            for (int t = first; t < end; t++)
                share += skin->body[t] == skin->body[k] ? skin->weight[t] : 0;
            if (share > most) {
                most = share;
                group->owner[i] = skin->body[k];
            }
        }
    }
}

FSI_API fsi_result fsi_reduced_group_init(fsi_reduced_group *out, fsi_reduced **body,
                                          int body_count, const fsi_reduced_joint *joint,
                                          int joint_count, const fsi_reduced_skin *skin,
                                          const fsi_allocator *allocator) {
    if (!out || !body || body_count < 1)
        return FSI_ERR_ARGUMENT;
    if (joint_count < 0 || (joint_count && !joint) || !fsi_allocator_valid(allocator))
        return FSI_ERR_ARGUMENT;

    fsi_reduced_group group = FSI__ZERO;
    group.body_count = body_count;
    group.joint_count = joint_count;
    if (!fsi__group_check(&group, body, joint, skin))
        return FSI_ERR_ARGUMENT;

    fsi_arena arena = FSI__ZERO;
    fsi__group_layout(&group, &arena);
    fsi_result result = fsi__arena_block(&arena, allocator, &group.block, &group.size);
    if (result != FSI_OK)
        return result;

    fsi__group_layout(&group, &arena);
    if (allocator)
        group.allocator = *allocator;
    if (joint_count)
        memcpy(group.joint, joint, (size_t)joint_count * sizeof *joint);

    /* The bodies stand one after the other, and so do their surfaces where no skin covers them. */
    int vertex = 0;
    int corner = 0;
    int dof = 0;

    for (int i = 0; i < body_count; i++) {
        const fsi_reduced_model *model = body[i]->model;
        group.body[i] = body[i];
        group.first[i] = dof;
        dof += 6 + model->modes;
        for (int k = 0; !skin && k < model->dim * model->element_count; k++)
            group.index[corner++] = model->index[k] + vertex;
        vertex += model->surface_count;
    }
    if (skin)
        fsi__group_skin(&group, skin, body[0]->model->dim);
    *out = group;

    return FSI_OK;
}

FSI_API void fsi_reduced_group_free(fsi_reduced_group *group) {
    if (!group)
        return;
    fsi_free(&group->allocator, group->block, group->size);
    memset(group, 0, sizeof *group);
}

/* Places and velocities of the bodies' own surface vertices. */
static void fsi__group_places(fsi_reduced_group *group) {
    int vertex = 0;
    for (int i = 0; i < group->body_count; i++) {
        const fsi_reduced *reduced = group->body[i];
        for (int k = 0; k < reduced->model->surface_count; k++, vertex++) {
            int at = reduced->model->surface[k];
            fsi__vec_put(group->x, vertex, fsi_reduced_point(reduced, at));
            if (group->velocity)
                fsi__vec_put(group->velocity, vertex, fsi_reduced_velocity(reduced, at));
        }
    }
}

/* The same for the skin: weighted means of the vertices behind it. */
static void fsi__group_skin_places(fsi_reduced_group *group) {
    const fsi_reduced_skin *skin = &group->skin;
    for (int i = 0; i < skin->vertex_count; i++) {
        fsi_vec3 x = FSI__ZERO;
        fsi_vec3 v = x;
        for (int t = skin->terms * i; t < skin->terms * (i + 1); t++) {
            const fsi_reduced *reduced = group->body[skin->body[t]];
            x = fsi_vec_mad(x, fsi_reduced_point(reduced, skin->vertex[t]), skin->weight[t]);
            v = fsi_vec_mad(v, fsi_reduced_velocity(reduced, skin->vertex[t]), skin->weight[t]);
        }
        fsi__vec_put(group->x, i, x);
        fsi__vec_put(group->velocity, i, v);
    }
}

FSI_API fsi_surface fsi_reduced_group_surface(fsi_reduced_group *group) {
    fsi_surface surface = FSI__ZERO;
    if (!group || !group->block)
        return surface;

    if (group->skin.terms)
        fsi__group_skin_places(group);
    else
        fsi__group_places(group);
    surface = fsi__surface_of(group->body[0]->model->dim, group->vertex_count, group->x,
                              group->element_count, group->index);
    surface.v = group->velocity;
    return surface;
}

/* Row of J at a point of a surface element: the element's vertices, or through the skin's weights
   the particles behind them. The arms are those of the point (each particle's is moved by what the
   point is off the surface), so torques are exact. */
static void fsi__group_row(const fsi_coupled *self, int element, const fsi_real *weight,
                           fsi_vec3 point, fsi_vec3 dir, fsi_real *row) {
    const fsi_reduced_group *group = (const fsi_reduced_group *)self->user;
    const fsi_reduced_skin *skin = &group->skin;
    int dim = group->body[0]->model->dim;
    const int32_t *corner = group->index + dim * element;
    fsi_fill((size_t)group->dof, 0, row);

    if (!skin->terms) {
        int body = 0;
        int first = 0;
        while (corner[0] - first >= group->body[body]->model->surface_count)
            first += group->body[body++]->model->surface_count;
        fsi__reduced_element_row(group->body[body], corner, first, weight, point, dir,
                                 row + group->first[body]);
        return;
    }

    /* From the skin to the point. */
    fsi_vec3 off = point;
    for (int a = 0; a < dim; a++)
        off = fsi_vec_mad(off, fsi__vec_at(group->x, corner[a]), -weight[a]);
    for (int a = 0; a < dim; a++)
        for (int t = skin->terms * corner[a]; t < skin->terms * (corner[a] + 1); t++) {
            const fsi_reduced *reduced = group->body[skin->body[t]];
            fsi_vec3 x = fsi_vec_add(fsi_reduced_point(reduced, skin->vertex[t]), off);
            fsi__spot spot = fsi__spot_at(x, skin->vertex + t);
            fsi__reduced_row_add(reduced, &spot, fsi_vec_scale(dir, weight[a] * skin->weight[t]),
                                 row + group->first[skin->body[t]]);
        }
}

/* What the joined points are apart, into joint_gap; returns the longest of them, m. */
static fsi_real fsi__group_gaps(fsi_reduced_group *group) {
    fsi_real most = 0;
    for (int i = 0; i < group->joint_count; i++) {
        const fsi_reduced_joint *joint = group->joint + i;
        fsi_vec3 gap =
            fsi_vec_sub(fsi_reduced_point(group->body[joint->body[0]], joint->vertex[0]),
                        fsi_reduced_point(group->body[joint->body[1]], joint->vertex[1]));
        fsi__vec_put(group->joint_gap, i, gap);
        most = fsi__max(most, fsi__length(gap));
    }
    return most;
}

/* The part of a joint's gap that one step may close: where it is torn apart, a quarter of the
   smaller radius. */
static fsi_vec3 fsi__group_closes(const fsi_reduced_group *group, int i) {
    fsi_vec3 gap = fsi__vec_at(group->joint_gap, i);
    fsi_real most = FSI_R(0.25)
                    * fsi__min(group->body[group->joint[i].body[0]]->model->radius,
                               group->body[group->joint[i].body[1]]->model->radius);
    return fsi__length(gap) > most ? fsi_vec_scale(gap, most / fsi__length(gap)) : gap;
}

/* A: three rows for each joint. */
static void fsi__group_joint_rows(fsi_reduced_group *group) {
    int n = group->dof;
    fsi_fill(3 * (size_t)group->joint_count * (size_t)n, 0, group->joint_row);
    for (int i = 0; i < 2 * group->joint_count; i++) {
        int end = i % 2;
        int body = group->joint[i / 2].body[end];
        const fsi_reduced *reduced = group->body[body];
        int32_t vertex = group->joint[i / 2].vertex[end];
        fsi__spot spot = fsi__spot_at(fsi_reduced_point(reduced, vertex), &vertex);
        for (int axis = 0; axis < 3; axis++)
            fsi__reduced_row_add(reduced, &spot,
                                 fsi_vec_scale(fsi__axis(axis), end ? FSI_R(-1.0) : FSI_R(1.0)),
                                 group->joint_row + (3 * (i / 2) + axis) * n + group->first[body]);
    }
}

/* The relative velocities A v become -gap / dt, joint after joint. */
static void fsi__group_pull(const fsi_reduced_group *group, const fsi_real *gap, fsi_real dt,
                            fsi_real *v) {
    int n = group->dof;
    for (int i = 0; i < 3 * group->joint_count; i++)
        fsi__motion_meet(n, v, group->joint_row + i * n, group->joint_answer + i * n,
                         group->joint_weight[i], -gap[i] / dt);
}

/* Joint impulses eliminated: K <- K - K A^T (A K A^T)^-1 A K, v <- v - K A^T (A K A^T)^-1 (A v +
   gap / dt), one row of A after the other. */
static void fsi__group_joints(fsi_reduced_group *group, fsi_real dt) {
    int n = group->dof;
    for (int i = 0; i < n; i++)
        group->free[i] = group->inverse[i * (n + 1)];
    fsi__group_joint_rows(group);
    for (int i = 0; i < 3 * group->joint_count; i++)
        group->joint_weight[i] =
            fsi__motion_take(n, group->inverse, group->free, group->joint_row + i * n,
                             64 * FSI_REAL_EPS, group->joint_answer + i * n);

    group->joint_error = fsi__group_gaps(group);
    for (int i = 0; i < group->joint_count; i++)
        fsi__vec_put(group->joint_gap, i, fsi__group_closes(group, i));
    fsi__group_pull(group, group->joint_gap, dt, group->v);
}

/* One matrix of the group, block after block of its bodies. */
static void fsi__group_matrix(fsi_reduced_group *group, fsi_real dt, int inverse, fsi_real *out) {
    int n = group->dof;
    fsi_fill((size_t)n * (size_t)n, 0, out);
    for (int k = 0; k < group->body_count; k++)
        fsi__reduced_matrix(group->body[k], dt, inverse, n, out + group->first[k] * (n + 1));
}

/* The velocities of all bodies to group->v, and back. */
static void fsi__group_velocity_out(fsi_reduced_group *group) {
    for (int k = 0; k < group->body_count; k++)
        fsi__reduced_velocity_out(group->body[k], group->v + group->first[k]);
}

static void fsi__group_velocity_in(fsi_reduced_group *group) {
    for (int k = 0; k < group->body_count; k++)
        fsi__reduced_velocity_in(group->body[k], group->v + group->first[k]);
}

FSI_API fsi_result fsi_reduced_group_couple(fsi_reduced_group *group, fsi_real dt,
                                            fsi_coupled *out) {
    if (!group || !group->block)
        return FSI_ERR_STATE;
    if (!fsi__positive(dt))
        return FSI_ERR_ARGUMENT;

    fsi__group_velocity_out(group);
    fsi__group_matrix(group, dt, 0, group->mass);
    fsi__group_matrix(group, dt, 1, group->inverse);
    fsi__group_joints(group, dt);
    fsi_fill((size_t)group->dof, 0, group->impulse);
    if (!out)
        return FSI_OK;

    memset(out, 0, sizeof *out);
    out->surface = fsi_reduced_group_surface(group);
    out->dof = group->dof;
    out->v = group->v;
    out->impulse = group->impulse;
    out->mass = group->mass;
    out->inverse_mass = group->inverse;
    out->row_fn = fsi__group_row;
    out->user = group;

    return FSI_OK;
}

FSI_API fsi_result fsi_reduced_group_take(fsi_reduced_group *group) {
    if (!group || !group->block)
        return FSI_ERR_STATE;
    if (!fsi_all_finite((size_t)group->dof, group->v))
        return FSI_ERR_NUMERIC;
    fsi__group_velocity_in(group);
    return FSI_OK;
}

/* The poses of all bodies to group->pose, or back. */
static void fsi__group_pose(fsi_reduced_group *group, int back) {
    for (int k = 0; k < group->body_count; k++) {
        fsi_real *pose = group->pose + group->first[k] + k;
        fsi__reduced_pose(group->body[k], pose, pose + 7, back);
    }
}

static fsi_result fsi__group_move_all(fsi_reduced_group *group, fsi_real dt) {
    fsi_result result = FSI_OK;
    for (int k = 0; k < group->body_count && result == FSI_OK; k++)
        result = fsi_reduced_move(group->body[k], dt);
    return result;
}

/* Fixed-point iteration with the matrices of the last fsi_reduced_group_couple: each pass takes the
   gap down by about the angle turned in a step. */
FSI_API fsi_result fsi_reduced_group_move(fsi_reduced_group *group, fsi_real dt) {
    if (!group || !group->block)
        return FSI_ERR_STATE;
    if (!group->joint_count)
        return fsi__group_move_all(group, dt);

    /* What is to be left of the gaps, and what counts as closed. */
    size_t rows = 3 * (size_t)group->joint_count;
    fsi_real *gap = group->joint_gap;
    fsi__group_pose(group, 0);
    fsi__group_gaps(group);
    for (int i = 0; i < group->joint_count; i++)
        fsi__vec_put(group->joint_left, i,
                     fsi_vec_sub(fsi__vec_at(gap, i), fsi__group_closes(group, i)));
    fsi__group_velocity_out(group);
    fsi_real least = 0;
    for (int k = 0; k < group->body_count; k++) {
        const fsi_reduced *reduced = group->body[k];
        fsi_real reach = reduced->model->radius + fsi__length(reduced->rigid->position);
        least = fsi__max(least, 64 * FSI_REAL_EPS * reach);
    }

    for (int pass = 0;; pass++) {
        /* The rigid world has moved them already: nothing is tried again. */
        int moved = group->body[0]->moved > 0;
        fsi_result result = fsi__group_move_all(group, dt);
        if (result != FSI_OK)
            return result;
        fsi__group_gaps(group);
        fsi_axpy(rows, -1, group->joint_left, gap);
        if (pass == 15 || moved || !(fsi_max_abs(rows, gap) > least))
            return FSI_OK;
        fsi_fill((size_t)group->dof, 0, group->change);
        fsi__group_pull(group, gap, dt, group->change);
        fsi_axpy((size_t)group->dof, 1, group->change, group->v);
        fsi__group_pose(group, 1);
        fsi__group_velocity_in(group);
    }
}

/* ------------------------------------------------------------------------------------------------
 * >>reduced contact */
/* Copies and obstacles are the externals of a world without bodies, which finds and solves their
   contacts (fsi__collide, fsi__substep_solve). Here is what differs: the call changes velocities
   only, because bodies move later, after coupling and joints, and a fluid sees the held velocities
   (fsi_reduced_contact_hold); overlaps are opened by moving the bodies at once; the energy at the
   end of the step is bounded as a whole.

   The velocities of all bodies are one vector u of (v, w, q') after (v, w, q'). */

/* Number of the lattice node nearest to x (body frame); -1 outside the lattice. */
static int fsi__reduced_nearest_node(const fsi_reduced_model *model, fsi_vec3 x) {
    const int size[3] = {model->nx, model->ny, model->nz};
    int node[3] = FSI__ZERO;
    for (int axis = 0; axis < model->dim; axis++) {
        fsi_real cell = (fsi__get(x, axis) - fsi__get(model->origin, axis)) / model->h;
        if (!(cell >= 0 && cell < (fsi_real)(size[axis] - 1)))
            return -1;
        node[axis] = (int)(cell + FSI_R(0.5));
    }
    return node[0] + model->nx * (node[1] + model->ny * node[2]);
}

/* Signed distance of world point p to the deformed body: the displacement of the nearest surface
   vertex is taken back, then the rest field is read. */
static fsi_real fsi__reduced_distance(const fsi_reduced *reduced, fsi_vec3 p, fsi_vec3 *normal,
                                      int *vertex) {
    const fsi_reduced_model *model = reduced->model;
    fsi_vec3 local = fsi__to_body(reduced, fsi_vec_sub(p, reduced->rigid->position));
    fsi_vec3 x = local;
    for (int pass = 0; pass < 2; pass++) {
        int node = fsi__reduced_nearest_node(model, x);
        if (node < 0)
            return FSI_REAL_MAX;

        *vertex = model->near_vertex[node];
        x = fsi_vec_sub(local, fsi__reduced_deformed(reduced, *vertex));
    }

    fsi__sdf sdf = fsi__reduced_sdf(model);
    fsi_vec3 slope;
    fsi_vec3 at;
    fsi_real distance = fsi__sdf_read(&sdf, x, &slope, &at);
    *normal = fsi__to_world(reduced, fsi__unit(slope));
    return distance;
}

/* Velocity of a spot by a unit of q'_k while the angular momentum stays: R (s - (I^-1 h) x r). */
static fsi_vec3 fsi__mode_velocity(const fsi_reduced *reduced, const fsi__spot *spot, int k) {
    const fsi_reduced_model *model = reduced->model;
    fsi_vec3 arm = fsi__to_body(reduced, fsi_vec_sub(spot->x, reduced->rigid->position));
    fsi_vec3 turn = fsi_mat3_mul_vec(&reduced->inverse_inertia, reduced->H[k]);
    fsi_vec3 v = fsi_vec_cross(arm, turn);
    for (int c = 0; c < spot->count; c++) {
        const fsi_real *S = model->S + 3 * spot->vertex[c] * model->modes + k;
        v = fsi_vec_mad(v, fsi_vec(S[0], S[model->modes], S[2 * model->modes]), spot->weight[c]);
    }
    return fsi__to_world(reduced, v);
}

/* K += a b^T */
static void fsi__outer_add(fsi_mat3 *K, fsi_vec3 a, fsi_vec3 b) {
    fsi__vec_add_at(K->m, 0, fsi_vec_scale(b, a.x));
    fsi__vec_add_at(K->m, 1, fsi_vec_scale(b, a.y));
    fsi__vec_add_at(K->m, 2, fsi_vec_scale(b, a.z));
}

/* What the world does not know of a contact. */
typedef struct fsi__reduced_ends {
    int32_t point[2];  /* of its ends, as the search numbers them */
    int32_t column[3]; /* columns of end a: from column[0] on; of end b: column[1] to column[2] */
    fsi_vec3 velocity; /* of end b, if that is an obstacle, m/s */
    fsi_real before;   /* normal impulse of the call before; 0: new */
} fsi__reduced_ends;

/* A degree of freedom behind an end. */
typedef struct fsi__reduced_column {
    int32_t dof;     /* in u */
    fsi_vec3 row;    /* velocity of the end by a unit of it: a column of J */
    fsi_vec3 answer; /* what unit impulses on the end give it: a row of M^-1 J^T */
} fsi__reduced_column;

/* One call of contact or hold: who takes part, and its memory. */
typedef struct fsi__reduced_call {
    fsi_reduced_contacts *contacts;
    fsi_reduced **body;
    const fsi_obstacle *obstacle;
    int bodies, obstacles;
    fsi_real dt;
    int dofs;                         /* of all bodies */
    int32_t *dof;                     /* [bodies + 1] first degree of freedom of each */
    int32_t *group_of;                /* [bodies] group + 1 of each */
    fsi_real *u, *start;              /* [dofs] velocities now and before contact */
    fsi_real *trial;                  /* [dofs] velocities that are tried out */
    struct fsi__reduced_guest *guest; /* [bodies + obstacles], and what the world knows of them */
    fsi_external *external;
    /* points that look for contact: places, velocities, vertices of body or skin, where each
       body's begin */
    int points;
    fsi_real *point_x, *point_v;
    int32_t *point_vertex;
    int32_t *point_first;
    int columns; /* of the ends so far */
    /* largest energy but for the work of obstacles; that work for all of the impulses; energy at
       the end of the step with the velocities last tried, J */
    double allowed, work, next;
} fsi__reduced_call;

/* A copy or an obstacle (they follow the copies) as the world sees it. */
typedef struct fsi__reduced_guest {
    fsi__reduced_call *call;
    int number;
    fsi_vec3 velocity; /* obstacle: at the place last asked for, m/s */
} fsi__reduced_guest;

static int fsi__reduced_dofs(const fsi_reduced *reduced) {
    return 6 + reduced->model->modes;
}

/* Group of a body with a skin, which touches others in place of its bodies; else NULL. */
static fsi_reduced_group *fsi__reduced_hide(const fsi__reduced_call *call, int body) {
    int group = call->group_of[body];
    return group && call->contacts->group[group - 1]->skin.terms ? call->contacts->group[group - 1]
                                                                 : NULL;
}

/* ---- Memory of a call. */
/* Which group each body is in. FSI_ERR_ARGUMENT when a group's body is not in the list, or in two
   groups. */
static fsi_result fsi__reduced_members(fsi__reduced_call *call) {
    const fsi_reduced_contacts *contacts = call->contacts;
    for (int i = 0; i < call->bodies; i++) {
        call->body[i]->number = i;
        call->group_of[i] = 0;
    }
    for (int j = 0; j < contacts->group_count; j++)
        for (int k = 0; k < contacts->group[j]->body_count; k++) {
            const fsi_reduced *member = contacts->group[j]->body[k];
            int i = member->number;
            if (i >= call->bodies || call->body[i] != member || call->group_of[i])
                return FSI_ERR_ARGUMENT;
            call->group_of[i] = j + 1;
        }

    return FSI_OK;
}

static void fsi__reduced_call_layout(fsi__reduced_call *call, fsi_arena *arena) {
    size_t n = (size_t)call->bodies;
    size_t guests = n + (size_t)call->obstacles;
    size_t dofs = (size_t)call->dofs;
    size_t points = (size_t)call->points;
    FSI__TAKE(call->u, arena, dofs);
    FSI__TAKE(call->start, arena, dofs);
    FSI__TAKE(call->trial, arena, dofs);
    FSI__TAKE(call->guest, arena, guests);
    FSI__TAKE(call->external, arena, guests);
    FSI__TAKE(call->dof, arena, n + 1);
    FSI__TAKE(call->group_of, arena, n);
    FSI__TAKE(call->point_first, arena, n + 1);
    FSI__TAKE(call->point_x, arena, 3 * points);
    FSI__TAKE(call->point_v, arena, 3 * points);
    FSI__TAKE(call->point_vertex, arena, points);
}

/* The velocities of all bodies into u, and back. */
static void fsi__reduced_velocities_out(const fsi__reduced_call *call) {
    for (int i = 0; i < call->bodies; i++)
        fsi__reduced_velocity_out(call->body[i], call->u + call->dof[i]);
}

static void fsi__reduced_velocities_in(const fsi__reduced_call *call, const fsi_real *u) {
    for (int i = 0; i < call->bodies; i++)
        fsi__reduced_velocity_in(call->body[i], u + call->dof[i]);
}

/* Takes back what fsi_reduced_contact_hold gave. */
static void fsi__reduced_release(fsi__reduced_call *call) {
    fsi_reduced_contacts *contacts = call->contacts;
    if (contacts->holds && call->bodies == contacts->bodies) {
        fsi__reduced_velocities_out(call);
        fsi_axpy((size_t)call->dofs, -1, contacts->held, call->u);
        fsi__reduced_velocities_in(call, call->u);
    }
    contacts->holds = 0;
}

/* Checks what is given and makes room for everything but contacts. What the last call held is given
   back; u are the velocities, and skins are where they are. */
static fsi_result fsi__reduced_call_begin(fsi__reduced_call *call, fsi_reduced_contacts *contacts,
                                          fsi_reduced **body, int n, int obstacles, fsi_real dt) {
    memset(call, 0, sizeof *call);
    call->contacts = contacts;
    call->body = body;
    call->bodies = n;
    call->obstacles = obstacles;
    call->dt = dt;
    for (int i = 0; i < n; i++) {
        if (!body[i] || !body[i]->block)
            return FSI_ERR_ARGUMENT;
        call->dofs += fsi__reduced_dofs(body[i]);
        call->points += body[i]->model->sample_count;
    }
    for (int i = 0; i < contacts->group_count; i++) {
        if (!contacts->group[i] || !contacts->group[i]->block)
            return FSI_ERR_ARGUMENT;
        call->points += contacts->group[i]->skin.vertex_count;
    }

    fsi_arena arena = FSI__ZERO;
    fsi__reduced_call_layout(call, &arena);
    fsi_result result = fsi__arena_reopen(&arena, &contacts->memory, &contacts->allocator);
    if (result != FSI_OK)
        return result;

    fsi__reduced_call_layout(call, &arena);
    result = fsi__reduced_members(call);
    if (result != FSI_OK)
        return result;

    call->dof[0] = 0;
    for (int i = 0; i < n; i++)
        call->dof[i + 1] = call->dof[i] + fsi__reduced_dofs(body[i]);
    fsi__reduced_release(call);
    fsi__reduced_velocities_out(call);
    fsi_copy((size_t)call->dofs, call->u, call->start);
    for (int i = 0; i < contacts->group_count; i++)
        if (contacts->group[i]->skin.terms)
            fsi_reduced_group_surface(contacts->group[i]);

    return FSI_OK;
}

/* ---- Finding contacts. */
/* Points of all bodies: samples, or the vertices of the skin that hang on the body most. */
static void fsi__reduced_sample(const fsi__reduced_call *call) {
    int at = 0;
    for (int i = 0; i < call->bodies; i++) {
        const fsi_reduced *reduced = call->body[i];
        const fsi_reduced_group *group = fsi__reduced_hide(call, i);
        fsi_vec3 spin = fsi__reduced_frame_spin(reduced);
        call->point_first[i] = at;
        for (int k = 0; group && k < group->skin.vertex_count; k++)
            if (group->body[group->owner[k]] == reduced) {
                call->point_vertex[at] = k;
                fsi__vec_put(call->point_v, at, fsi__vec_at(group->velocity, k));
                fsi__vec_put(call->point_x, at++, fsi__vec_at(group->x, k));
            }
        for (int k = 0; !group && k < reduced->model->sample_count; k++) {
            int vertex = reduced->model->sample[k];
            fsi_vec3 x = fsi_reduced_point(reduced, vertex);
            fsi_vec3 lever = fsi_vec_sub(x, reduced->rigid->position);
            call->point_vertex[at] = vertex;
            fsi__vec_put(call->point_v, at, fsi__reduced_velocity_at(reduced, vertex, spin, lever));
            fsi__vec_put(call->point_x, at++, x);
        }
    }
    call->point_first[call->bodies] = at;
}

/* Number of a body's points; the numbers behind them are its mesh vertices. */
static int fsi__reduced_points(const fsi__reduced_call *call, int body) {
    return call->point_first[body + 1] - call->point_first[body];
}

/* velocity_fn and distance_fn of a copy while contacts are searched. */
static fsi_vec3 fsi__guest_velocity(int point, fsi_vec3 at, void *user) {
    const fsi__reduced_guest *guest = (const fsi__reduced_guest *)user;
    const fsi__reduced_call *call = guest->call;
    int points = fsi__reduced_points(call, guest->number);
    (void)at;
    if (point < points)
        return fsi__vec_at(call->point_v, call->point_first[guest->number] + point);
    return fsi_reduced_velocity(call->body[guest->number], point - points);
}

static fsi_real fsi__guest_distance(fsi_vec3 p, fsi_vec3 *normal, int *point, void *user) {
    const fsi__reduced_guest *guest = (const fsi__reduced_guest *)user;
    int vertex = 0;
    fsi_real distance = fsi__reduced_distance(guest->call->body[guest->number], p, normal, &vertex);
    *point = fsi__reduced_points(guest->call, guest->number) + vertex;
    return distance;
}

/* The same of an obstacle. */
static fsi_vec3 fsi__obstacle_velocity(int point, fsi_vec3 at, void *user) {
    (void)point;
    (void)at;
    return ((const fsi__reduced_guest *)user)->velocity;
}

static fsi_real fsi__obstacle_distance(fsi_vec3 p, fsi_vec3 *normal, int *point, void *user) {
    fsi__reduced_guest *guest = (fsi__reduced_guest *)user;
    const fsi_obstacle *obstacle = guest->call->obstacle + guest->number - guest->call->bodies;
    *point = 0;
    return obstacle->distance_fn(p, normal, &guest->velocity, obstacle->user);
}

/* ---- Ends of contacts for the solver: contact i has the points 2 i and 2 i + 1. */
static fsi_vec3 fsi__rows_velocity(int point, fsi_vec3 at, void *user) {
    const fsi__reduced_call *call = ((const fsi__reduced_guest *)user)->call;
    const fsi__reduced_ends *ends = call->contacts->ends + point / 2;
    int end = point % 2;
    fsi_vec3 v = end ? ends->velocity : fsi_vec(0, 0, 0);
    (void)at;
    for (int i = ends->column[end]; i < ends->column[end + 1]; i++) {
        const fsi__reduced_column *column = call->contacts->column + i;
        v = fsi_vec_mad(v, column->row, call->u[column->dof]);
    }
    return v;
}

static void fsi__rows_impulse(int point, fsi_vec3 at, fsi_vec3 j, void *user) {
    fsi__reduced_call *call = ((const fsi__reduced_guest *)user)->call;
    const fsi__reduced_ends *ends = call->contacts->ends + point / 2;
    int end = point % 2;
    (void)at;
    if (end)
        call->work -= (double)fsi_vec_dot(j, ends->velocity);
    for (int i = ends->column[end]; i < ends->column[end + 1]; i++) {
        const fsi__reduced_column *column = call->contacts->column + i;
        call->u[column->dof] += fsi_vec_dot(column->answer, j);
    }
}

/* K = J M^-1 J^T */
static void fsi__rows_inverse(int point, fsi_vec3 at, fsi_mat3 *K, void *user) {
    const fsi__reduced_call *call = ((const fsi__reduced_guest *)user)->call;
    const fsi__reduced_ends *ends = call->contacts->ends + point / 2;
    (void)at;
    memset(K, 0, sizeof *K);
    for (int i = ends->column[point % 2]; i < ends->column[point % 2 + 1]; i++) {
        const fsi__reduced_column *column = call->contacts->column + i;
        fsi__outer_add(K, column->row, column->answer);
    }
}

/* Copies and obstacles become the externals of the world. */
static fsi_result fsi__reduced_invite(fsi__reduced_call *call) {
    fsi_reduced_contacts *contacts = call->contacts;
    int count = call->bodies + call->obstacles;
    memset(call->external, 0, (size_t)count * sizeof *call->external);
    for (int i = 0; i < count; i++) {
        fsi_external *external = call->external + i;
        call->guest[i].call = call;
        call->guest[i].number = i;
        external->user = call->guest + i;
        external->velocity_fn = fsi__obstacle_velocity;
        external->distance_fn = fsi__obstacle_distance;
        external->inverse_mass_fn = fsi__rows_inverse;
        external->impulse_fn = fsi__rows_impulse;
        if (i >= call->bodies)
            continue;
        external->point_count = fsi__reduced_points(call, i);
        external->x = call->point_x + 3 * call->point_first[i];
        external->friction = contacts->friction;
        external->restitution = contacts->restitution;
        external->team = call->group_of[i];
        external->velocity_fn = fsi__guest_velocity;
        external->distance_fn = fsi__guest_distance;
    }
    contacts->obstacles = call->obstacles;
    return fsi_solids_set_externals(&contacts->solids, call->external, count);
}

/* A world with room for so many contacts, which begins with those in `known`. */
static fsi_result fsi__reduced_world(fsi_reduced_contacts *contacts, int room,
                                     const fsi_contact *known, int count) {
    fsi_solids world;
    fsi_solids_desc desc = FSI__ZERO;
    desc.dim = 3;
    desc.max_bodies = 1;
    desc.max_contacts = room;
    desc.substeps = 1;
    desc.allocator = contacts->allocator;
    fsi_result result = fsi_solids_init(&world, &desc);
    if (result != FSI_OK)
        return result;

    if (count > 0)
        memcpy(world.contact, known, (size_t)count * sizeof *known);
    world.contact_count = count;
    fsi_solids_free(&contacts->solids);
    contacts->solids = world;
    return FSI_OK;
}

/* All contacts, in a world that grows until it holds them. */
static fsi_result fsi__reduced_find(fsi__reduced_call *call, fsi_real scale) {
    fsi_reduced_contacts *contacts = call->contacts;
    fsi_solids *solids = &contacts->solids;
    int known = solids->contact_count;
    fsi_result result = fsi__reduced_invite(call);
    while (result == FSI_OK) {
        fsi__collide(solids, call->dt, scale);
        if (!solids->work->capped)
            return FSI__LIST_ROOM(contacts->ends, solids->contact_count, &contacts->allocator);
        result =
            fsi__reduced_world(contacts, 2 * solids->desc.max_contacts, solids->work->old, known);
        if (result == FSI_OK)
            result = fsi__reduced_invite(call);
    }
    return result;
}

/* ---- Rows of a contact. */
/* Body b takes `share` of the impulses on an end, at a spot. The end has the columns from `first`
   on; those it has of this body already are added to. */
static fsi_result fsi__reduced_columns_add(fsi__reduced_call *call, int first, int b,
                                           const fsi__spot *spot, fsi_real share) {
    fsi_reduced_contacts *contacts = call->contacts;
    const fsi_reduced *reduced = call->body[b];
    int dofs = fsi__reduced_dofs(reduced);
    while (first < call->columns && contacts->column[first].dof != call->dof[b])
        first++;
    if (first == call->columns) {
        call->columns += dofs;
        fsi_result result = FSI__LIST_ROOM(contacts->column, call->columns, &contacts->allocator);
        if (result != FSI_OK)
            return result;
        memset(contacts->column + first, 0, (size_t)dofs * sizeof *contacts->column);
    }

    fsi__reduced_column *column = contacts->column + first;
    fsi_mat3 turning = fsi_mat3_rotate(&reduced->axes, &reduced->inverse_inertia);
    fsi_vec3 arm = fsi_vec_sub(spot->x, reduced->rigid->position);
    fsi_real movable = reduced->fixed ? 0 : share;

    /* Row and answer of v: e and e / m; of w: e x r and I^-1 of it; of q': s and s / M^_r. */
    for (int k = 0; k < dofs; k++) {
        fsi_vec3 row = k < 6 ? fsi__axis(k % 3) : fsi__mode_velocity(reduced, spot, k - 6);
        fsi_vec3 answer;
        if (k < 3)
            answer = fsi_vec_scale(row, 1 / reduced->model->mass);
        else if (k < 6) {
            answer = fsi_vec_cross(fsi__vec_at(turning.m, k - 3), arm);
            row = fsi_vec_cross(row, arm);
        } else
            answer = fsi_vec_scale(row, 1 / fsi__reduced_stiff(reduced->model, k - 6, call->dt));
        column[k].dof = call->dof[b] + k;
        column[k].row = fsi_vec_mad(column[k].row, row, share);
        column[k].answer = fsi_vec_mad(column[k].answer, answer, movable);
    }
    return FSI_OK;
}

/* The bodies behind a skin vertex of a group. */
static fsi_result fsi__reduced_skin_columns(fsi__reduced_call *call, const fsi_reduced_group *group,
                                            int skin_vertex) {
    int first = call->columns;
    fsi_result result = FSI_OK;
    for (int k = 0; k < group->skin.terms && result == FSI_OK; k++) {
        int term = group->skin.terms * skin_vertex + k;
        const fsi_reduced *body = group->body[group->skin.body[term]];
        const int32_t *vertex = group->skin.vertex + term;
        fsi__spot spot = fsi__spot_at(fsi_reduced_point(body, *vertex), vertex);
        if (group->skin.weight[term] != 0)
            result = fsi__reduced_columns_add(call, first, body->number, &spot,
                                              group->skin.weight[term]);
    }
    return result;
}

/* Number of the body at an end; an obstacle has one from `bodies` on. */
static int fsi__reduced_number(const fsi__reduced_call *call, int solid) {
    return solid - call->contacts->solids.desc.max_bodies;
}

/* The columns of an end. */
static fsi_result fsi__reduced_end_columns(fsi__reduced_call *call, int solid, int point,
                                           fsi_vec3 at) {
    int body = fsi__reduced_number(call, solid);
    if (body >= call->bodies)
        return FSI_OK;

    int points = fsi__reduced_points(call, body);
    int32_t vertex =
        point < points ? call->point_vertex[call->point_first[body] + point] : point - points;
    const fsi_reduced_group *group = fsi__reduced_hide(call, body);
    if (point < points && group)
        return fsi__reduced_skin_columns(call, group, vertex);

    fsi__spot spot = fsi__spot_at(at, &vertex);
    return fsi__reduced_columns_add(call, call->columns, body, &spot, 1);
}

/* Is what an old contact touched still there? The list of bodies may have changed. */
static int fsi__reduced_knows(const fsi__reduced_call *call, int solid, int point) {
    int body = fsi__reduced_number(call, solid);
    return body >= call->bodies
           || point < fsi__reduced_points(call, body) + call->body[body]->model->vertex_count;
}

/* Columns of all contacts, which stand where their leading points are now. */
static fsi_result fsi__reduced_rows(fsi__reduced_call *call) {
    fsi_reduced_contacts *contacts = call->contacts;
    const fsi_solids *solids = &contacts->solids;
    fsi_result result = FSI_OK;

    for (int i = 0; i < solids->contact_count && result == FSI_OK; i++) {
        fsi_contact *contact = solids->contact + i;
        fsi__reduced_ends *ends = contacts->ends + i;
        int lead_b = contact->lead == contact->b.solid;
        int other = lead_b ? contact->a.solid : contact->b.solid;
        int lead = fsi__reduced_number(call, contact->lead);
        int point = ends->point[lead_b];
        ends->column[0] = ends->column[1] = ends->column[2] = call->columns;
        if (point >= fsi__reduced_points(call, lead)
            || !fsi__reduced_knows(call, other, ends->point[!lead_b]))
            continue;
        contact->at = fsi__vec_at(call->point_x, call->point_first[lead] + point);
        result = fsi__reduced_end_columns(call, contact->a.solid, ends->point[0], contact->at);
        ends->column[1] = call->columns;
        if (result == FSI_OK)
            result = fsi__reduced_end_columns(call, contact->b.solid, ends->point[1], contact->at);
        ends->column[2] = call->columns;
    }

    for (int i = 0; i < solids->external_count; i++)
        call->external[i].velocity_fn = fsi__rows_velocity;
    return result;
}

/* The contacts found get their points for the solver and what only obstacles know. */
static fsi_result fsi__reduced_meet(fsi__reduced_call *call) {
    fsi_reduced_contacts *contacts = call->contacts;
    const fsi_solids *solids = &contacts->solids;

    for (int i = 0; i < solids->contact_count; i++) {
        fsi_contact *contact = solids->contact + i;
        fsi__reduced_ends *ends = contacts->ends + i;
        int obstacle = fsi__reduced_number(call, contact->b.solid) - call->bodies;
        if (!fsi__finite_vec(contact->normal))
            return FSI_ERR_CALLBACK;
        memset(ends, 0, sizeof *ends);
        ends->point[0] = contact->a.point;
        ends->point[1] = contact->b.point;
        ends->before = contact->impulse;
        contact->a.point = 2 * i;
        contact->b.point = 2 * i + 1;
        if (obstacle >= 0) {
            const fsi_obstacle *wall = call->obstacle + obstacle;
            fsi_vec3 normal;
            wall->distance_fn(contact->at, &normal, &ends->velocity, wall->user);
            contact->friction = wall->friction;
            contact->restitution = wall->restitution;
        }
        contacts->depth = fsi__max(contacts->depth, -contact->gap);
    }
    contacts->count = solids->contact_count;
    return fsi__reduced_rows(call);
}

/* ---- Energy and overlaps. */
/* Energy of all bodies at the end of the step, J. */
static double fsi__reduced_next_all(const fsi__reduced_call *call) {
    double energy = 0;
    for (int i = 0; i < call->bodies; i++)
        energy += fsi__reduced_next(call->body[i]);
    return energy;
}

/* Energy at the end of the step beyond what is allowed, with `share` of all impulses, J. The bodies
   keep the velocities of the share. */
static double fsi__reduced_excess(double share, void *user) {
    fsi__reduced_call *call = (fsi__reduced_call *)user;
    for (int k = 0; k < call->dofs; k++)
        call->trial[k] = call->start[k] + (fsi_real)share * (call->u[k] - call->start[k]);
    fsi__reduced_velocities_in(call, call->trial);
    call->next = fsi__reduced_next_all(call);
    return call->next - call->allowed - share * call->work;
}

/* The bodies take the velocities u. Their energy at the end of the step is at most what they had,
   or would have without contact (allowed), and the work of obstacles that move: where bounces at
   many points would add some, a share of all impulses is taken back. */
static void fsi__reduced_settle(fsi__reduced_call *call) {
    fsi_reduced_contacts *contacts = call->contacts;
    double share = fsi__safe_share(fsi__reduced_excess, call);
    contacts->work += share * call->work;
    for (int i = 0; i < contacts->count && share < 1; i++) {
        fsi_contact *contact = contacts->solids.contact + i;
        contact->impulse *= (fsi_real)share;
        contact->impulse_t[0] *= (fsi_real)share;
        contact->impulse_t[1] *= (fsi_real)share;
    }
}

/* The body moves for dt with the velocity u and keeps its own velocity. */
static void fsi__reduced_shift(fsi__reduced_call *call, int i, const fsi_real *u) {
    fsi_reduced *reduced = call->body[i];
    size_t modes = (size_t)reduced->model->modes;
    if (reduced->fixed || !(fsi_max_abs(6 + modes, u) > 0))
        return;

    fsi_real momenta[6];
    fsi_copy(6, fsi__reduced_momenta(reduced), momenta);
    fsi_copy(modes, reduced->dq, reduced->aside);
    fsi__reduced_velocity_in(reduced, u);
    fsi__reduced_advance(call->dt, reduced);
    reduced->moved -= call->dt;
    fsi_copy(6, momenta, fsi__reduced_momenta(reduced));
    fsi_copy(modes, reduced->aside, reduced->dq);
}

/* Moving two bodies that pass each other apart turns them: m dx x v is taken from their spin. u are
   the velocities of their centres of mass. */
static void fsi__reduced_unturn(const fsi__reduced_call *call, const fsi_contact *contact) {
    int a = fsi__reduced_number(call, contact->a.solid);
    int b = fsi__reduced_number(call, contact->b.solid);
    if (b >= call->bodies || call->body[a]->fixed || call->body[b]->fixed)
        return;

    fsi_vec3 passing = fsi__contact_velocity(&call->contacts->solids, contact);
    fsi_vec3 turn =
        fsi_vec_scale(fsi_vec_cross(contact->normal, passing), -call->dt * contact->impulse / 2);
    fsi__vec_add_at(fsi__reduced_momenta(call->body[a]), 1, turn);
    fsi__vec_add_at(fsi__reduced_momenta(call->body[b]), 1, turn);
}

/* A fifth of every overlap is opened by moving the bodies: impulses without friction on velocities
   of their own (u from zero), which move the bodies for dt and are forgotten. Momentum and modal
   velocity stay. */
static void fsi__reduced_open(fsi__reduced_call *call, fsi__step *step) {
    fsi_reduced_contacts *contacts = call->contacts;
    fsi_solids *solids = &contacts->solids;
    if (!(contacts->depth > contacts->slop))
        return;

    size_t bytes = (size_t)contacts->count * sizeof *solids->contact;
    memcpy(solids->work->old, solids->contact, bytes);
    for (int i = 0; i < contacts->count; i++) {
        fsi_contact *contact = solids->contact + i;
        contact->impulse = contact->friction = 0;
        contact->gap += contacts->slop;
        contacts->ends[i].velocity = fsi_vec(0, 0, 0);
    }
    step->slop = 0;
    step->spring.rate = FSI_R(0.2) / step->h;
    step->spring.mass = 1;
    step->spring.impulse = 0;
    fsi_fill((size_t)call->dofs, 0, call->u);
    fsi__substep_solve(solids, step, 1);

    /* What this puts into elasticity, gravity and rotation by the end of the step is work. */
    contacts->work -= call->next;
    for (int i = 0; i < call->bodies; i++) {
        fsi_real *u = call->u + call->dof[i];
        fsi__reduced_shift(call, i, u);
        fsi_fill((size_t)fsi__reduced_dofs(call->body[i]), 0, u);
        fsi_vec_store(u, fsi__reduced_drift(call->body[i]));
    }
    for (int i = 0; i < contacts->count; i++)
        fsi__reduced_unturn(call, solids->contact + i);
    contacts->work += fsi__reduced_next_all(call);
    memcpy(solids->contact, solids->work->old, bytes);
}

/* Is what both public calls are given valid? */
static int fsi__reduced_call_valid(const fsi_reduced_contacts *contacts, fsi_reduced **body, int n,
                                   fsi_real dt) {
    if (!contacts || !fsi_allocator_valid(&contacts->allocator))
        return 0;
    if (n < 0 || (n && !body) || !fsi__positive(dt))
        return 0;
    return contacts->group_count >= 0 && (!contacts->group_count || contacts->group);
}

FSI_API fsi_result fsi_reduced_contact_hold(fsi_reduced_contacts *contacts, fsi_reduced **body,
                                            int n, fsi_real dt) {
    if (!fsi__reduced_call_valid(contacts, body, n, dt))
        return FSI_ERR_ARGUMENT;

    contacts->holds = 0;
    if (!contacts->count || n != contacts->bodies)
        return FSI_OK;

    fsi__reduced_call call;
    fsi_result result = fsi__reduced_call_begin(&call, contacts, body, n, contacts->obstacles, dt);
    if (result == FSI_OK)
        result = FSI__LIST_ROOM(contacts->held, call.dofs, &contacts->allocator);
    if (result != FSI_OK)
        return result;

    fsi__reduced_sample(&call);
    result = fsi__reduced_invite(&call);
    if (result == FSI_OK)
        result = fsi__reduced_rows(&call);
    if (result != FSI_OK)
        return result;

    /* The impulses of the last call at the present places, as far as they have lasted for two
       steps: the fluid is not to meet an impact again. */
    for (int i = 0; i < contacts->count; i++) {
        const fsi_contact *contact = contacts->solids.contact + i;
        fsi_real lasting = fsi__min(contact->impulse, contacts->ends[i].before);
        fsi_real scale = dt / contacts->solids.work->last_h;
        if (lasting > 0)
            fsi__contact_warm(&contacts->solids, contact, lasting / contact->impulse * scale);
    }
    if (!fsi_all_finite((size_t)call.dofs, call.u))
        return FSI_ERR_NUMERIC;

    for (int i = 0; i < call.dofs; i++)
        contacts->held[i] = call.u[i] - call.start[i];
    fsi__reduced_velocities_in(&call, call.u);
    contacts->holds = 1;

    return FSI_OK;
}

/* Impulses, the share of them that energy allows, overlaps. */
static fsi_result fsi__reduced_respond(fsi__reduced_call *call) {
    fsi_reduced_contacts *contacts = call->contacts;
    fsi_solids *solids = &contacts->solids;
    fsi__step step;
    for (int i = 0; i < call->bodies; i++) {
        double next = fsi__reduced_next(call->body[i]);
        call->allowed += next > call->body[i]->energy ? next : call->body[i]->energy;
    }
    fsi__contact_order(solids);
    fsi__step_prepare(solids, &step, call->dt);
    fsi__impulses_again(solids, 1);
    fsi__substep_solve(solids, &step, 0);
    fsi__contact_restitution(solids, fsi__bounce_speed(solids, call->dt), (double)FSI_REAL_MAX);
    if (!fsi_all_finite((size_t)call->dofs, call->u))
        return FSI_ERR_NUMERIC;

    fsi__reduced_settle(call);
    fsi__reduced_open(call, &step);
    return FSI_OK;
}

FSI_API fsi_result fsi_reduced_contact(fsi_reduced_contacts *contacts, fsi_reduced **body, int n,
                                       const fsi_obstacle *obstacle, int obstacle_count,
                                       fsi_real dt) {
    if (!fsi__reduced_call_valid(contacts, body, n, dt))
        return FSI_ERR_ARGUMENT;
    if (obstacle_count < 0 || (obstacle_count && !obstacle) || contacts->iterations < 0)
        return FSI_ERR_ARGUMENT;
    if (!(contacts->friction >= 0) || !(contacts->restitution >= 0) || !(contacts->slop >= 0))
        return FSI_ERR_ARGUMENT;

    contacts->count = 0;
    contacts->depth = 0;
    contacts->work = 0;
    if (!n)
        return FSI_OK;

    fsi__reduced_call call;
    fsi_result result = fsi__reduced_call_begin(&call, contacts, body, n, obstacle_count, dt);
    call.obstacle = obstacle;
    if (result == FSI_OK && !contacts->solids.block)
        result = fsi__reduced_world(contacts, 64 + 4 * n, NULL, 0);
    if (result != FSI_OK)
        return result;

    /* The impulses of the last call are where this one starts. */
    fsi_solids *solids = &contacts->solids;
    if (n != contacts->bodies)
        solids->contact_count = 0;
    contacts->bodies = n;
    solids->desc.gravity = body[0]->gravity;
    solids->desc.iterations = contacts->iterations ? contacts->iterations : 20;
    fsi_real scale = solids->work->last_h > 0 ? dt / solids->work->last_h : 0;

    /* Who touches whom? */
    if (!fsi_all_finite((size_t)call.dofs, call.u))
        return FSI_ERR_NUMERIC;
    fsi__reduced_sample(&call);
    result = fsi__reduced_find(&call, scale);
    if (result != FSI_OK)
        return result;

    solids->work->last_h = dt;
    result = fsi__reduced_meet(&call);
    return result == FSI_OK && contacts->count ? fsi__reduced_respond(&call) : result;
}

/* ---- State: the impulses that the next call starts from. */
static void fsi__reduced_contact_state(fsi_contact *contact, fsi__reduced_ends *ends, int bodies,
                                       int obstacles, fsi__state *state) {
    fsi_contact copy = FSI__ZERO;
    fsi__reduced_ends copied = FSI__ZERO;
    if (contact) {
        copy = *contact;
        copied = *ends;
    }
    fsi__state_copy(state, &copied, 1, sizeof copied);
    fsi__state_finite(state, &copied, offsetof(fsi__reduced_ends, velocity), sizeof copied);
    fsi__state_require(state, copied.point[0] >= 0 && copied.point[1] >= 0);
    fsi__contact_state(&copy, 1, 1 + bodies + obstacles, state);

    /* The world of the contacts has one body, and numbers begin behind it. */
    fsi__state_require(state, copy.lead <= bodies);
    if (fsi__state_loads(state)) {
        *contact = copy;
        *ends = copied;
    }
}

static void fsi__reduced_contacts_state(void *object, fsi__state *state) {
    fsi_reduced_contacts *contacts = (fsi_reduced_contacts *)object;
    double dt = contacts->solids.block ? (double)contacts->solids.work->last_h : 0;
    fsi__state_copy(state, &dt, 1, sizeof dt);
    fsi__state_require(state, dt >= 0 && fsi__finite64(dt));
    int bodies = (int)fsi__state_integer(state, contacts->bodies, 0, 1 << 24);
    int obstacles = (int)fsi__state_integer(state, contacts->obstacles, 0, 1 << 24);

    /* A block has the bytes of as many contacts as it claims, else it is refused. */
    int64_t most = state->from ? (int64_t)(state->size / sizeof(fsi_contact)) : INT32_MAX;
    int count = (int)fsi__state_integer(state, contacts->count, 0, most);
    if (fsi__state_loads(state)) {
        state->result = FSI__LIST_ROOM(contacts->ends, count, &contacts->allocator);
        if (state->result >= 0)
            state->result = fsi__reduced_world(contacts, count + 64, NULL, 0);
    }
    if (fsi__state_loads(state)) {
        contacts->solids.work->last_h = (fsi_real)dt;
        contacts->solids.contact_count = count;
        contacts->count = count;
        contacts->bodies = bodies;
        contacts->obstacles = obstacles;
        contacts->holds = 0;
    }
    int checks = state->purpose == FSI__STATE_CHECK;
    for (int i = 0; i < count && state->result >= 0; i++)
        fsi__reduced_contact_state(checks ? NULL : contacts->solids.contact + i,
                                   checks ? NULL : contacts->ends + i, bodies, obstacles, state);
}

FSI_API size_t fsi_reduced_contacts_state_size(const fsi_reduced_contacts *contacts) {
    return contacts ? fsi__state_size(fsi__reduced_contacts_state, contacts) : 0;
}

#define FSI__STATE_CONTACTS FSI__STATE_OF('c', 'o', 'n', 't')

FSI_API fsi_result fsi_reduced_contacts_save(const fsi_reduced_contacts *contacts, void *block) {
    if (!contacts)
        return FSI_ERR_ARGUMENT;
    return fsi__state_save(fsi__reduced_contacts_state, FSI__STATE_CONTACTS, contacts, block);
}

FSI_API fsi_result fsi_reduced_contacts_restore(fsi_reduced_contacts *contacts, const void *block,
                                                size_t size) {
    if (!contacts || !fsi_allocator_valid(&contacts->allocator))
        return FSI_ERR_ARGUMENT;
    return fsi__state_restore(fsi__reduced_contacts_state, FSI__STATE_CONTACTS, contacts, block,
                              size);
}

FSI_API void fsi_reduced_contacts_free(fsi_reduced_contacts *contacts) {
    if (!contacts)
        return;

    fsi_solids_free(&contacts->solids);
    FSI__LIST_FREE(contacts->ends, &contacts->allocator);
    FSI__LIST_FREE(contacts->column, &contacts->allocator);
    FSI__LIST_FREE(contacts->memory, &contacts->allocator);
    FSI__LIST_FREE(contacts->held, &contacts->allocator);
    contacts->count = contacts->bodies = contacts->holds = 0;
}

/* ---- The rigid world's view: points are the samples. */
static fsi_vec3 fsi__reduced_point_velocity(int point, fsi_vec3 at, void *user) {
    const fsi_reduced *reduced = (const fsi_reduced *)user;
    (void)at;
    return fsi_reduced_velocity(reduced, reduced->model->sample[point]);
}

static void fsi__reduced_point_impulse(int point, fsi_vec3 at, fsi_vec3 j, void *user) {
    fsi_reduced *reduced = (fsi_reduced *)user;
    fsi__spot spot = fsi__spot_at(at, reduced->model->sample + point);
    fsi__reduced_impulse(reduced, &spot, j, reduced->dt);
}

/* J M^-1 J^T of a point, 3 x 3. */
static void fsi__reduced_point_inverse(int point, fsi_vec3 at, fsi_mat3 *K, void *user) {
    const fsi_reduced *reduced = (const fsi_reduced *)user;
    const fsi_reduced_model *model = reduced->model;
    fsi__spot spot = fsi__spot_at(at, model->sample + point);
    fsi_mat3 turning = fsi_mat3_rotate(&reduced->axes, &reduced->inverse_inertia);
    fsi_vec3 arm = fsi_vec_sub(at, reduced->rigid->position);
    memset(K, 0, sizeof *K);
    if (reduced->fixed)
        return;

    for (int j = 0; j < 3; j++) {
        fsi_vec3 dir = fsi__axis(j);
        fsi__outer_add(K, fsi__body_response(1 / model->mass, &turning, arm, dir), dir);
    }
    for (int k = 0; k < model->modes; k++) {
        fsi_vec3 row = fsi__mode_velocity(reduced, &spot, k);
        fsi_real stiff = fsi__reduced_stiff(model, k, reduced->dt);
        fsi__outer_add(K, row, fsi_vec_scale(row, 1 / stiff));
    }
}

/* Distance of p; *point: nearest sample, for the functions above. */
static fsi_real fsi__reduced_point_distance(fsi_vec3 p, fsi_vec3 *normal, int *point, void *user) {
    const fsi_reduced *reduced = (const fsi_reduced *)user;
    const fsi_reduced_model *model = reduced->model;
    fsi_real least = FSI_REAL_MAX;
    int vertex = 0;
    *point = 0;
    fsi_real distance = fsi__reduced_distance(reduced, p, normal, &vertex);
    for (int i = 0; i < model->sample_count && distance < model->radius; i++) {
        fsi_vec3 d =
            fsi_vec_sub(fsi__vec_at(model->x0, model->sample[i]), fsi__vec_at(model->x0, vertex));
        if (fsi_vec_dot(d, d) < least) {
            least = fsi_vec_dot(d, d);
            *point = i;
        }
    }

    return distance;
}

/* First touch in a step: what the body would have without contact, or had, bounds its energy. */
static void fsi__reduced_touch(int point, fsi_vec3 at, void *user) {
    fsi_reduced *reduced = (fsi_reduced *)user;
    (void)point;
    (void)at;
    if (reduced->touched)
        return;

    reduced->reference = fsi__reduced_next(reduced);
    if (reduced->energy > reduced->reference)
        reduced->reference = reduced->energy;
    reduced->touched = 1;
}

/* energy_fn of fsi_external: the motion inside is q'. */
static double fsi__reduced_surplus(double take, void *user) {
    fsi_reduced *reduced = (fsi_reduced *)user;
    if (!reduced->touched || reduced->fixed)
        return 0;
    if (!(take > 0))
        return fsi__reduced_total(reduced) - reduced->reference;

    double inside = fsi__reduced_inside(reduced);
    if (!(inside > 0))
        return 0;
    if (take > inside)
        take = inside;
    fsi_scale((size_t)reduced->model->modes, (fsi_real)sqrt(1 - take / inside), reduced->dq);
    return take;
}

FSI_API void fsi_reduced_external(fsi_reduced *reduced, fsi_real *x, fsi_external *out) {
    memset(out, 0, sizeof *out);
    if (!reduced || !reduced->block || !x)
        return;

    for (int i = 0; i < reduced->model->sample_count; i++)
        fsi__vec_put(x, i, fsi_reduced_point(reduced, reduced->model->sample[i]));
    out->point_count = reduced->model->sample_count;
    out->x = x;
    out->user = reduced;
    out->velocity_fn = fsi__reduced_point_velocity;
    out->inverse_mass_fn = fsi__reduced_point_inverse;
    out->impulse_fn = fsi__reduced_point_impulse;
    out->distance_fn = fsi__reduced_point_distance;
    out->advance_fn = fsi__reduced_advance;
    out->touch_fn = fsi__reduced_touch;
    out->energy_fn = fsi__reduced_surplus;
}

#ifdef __cplusplus
}
#endif
#endif /* FSI_SOLIDS_IMPLEMENTATION */

/*
------------------------------------------------------------------------------------------------
This software is available under two licences: choose the one you prefer.
------------------------------------------------------------------------------------------------
A: MIT License. Copyright (c) 2026 the fsi authors
Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the "Software"), to deal in the Software without restriction,
including without limitation the rights to use, copy, modify, merge, publish, distribute,
sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions: The above copyright notice and this
permission notice shall be included in all copies or substantial portions of the Software. THE
SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT
LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT.
IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
------------------------------------------------------------------------------------------------
B: Public Domain (www.unlicense.org)
Anyone is free to copy, modify, publish, use, compile, sell, or distribute this software, in source
or binary form, for any purpose, commercial or non-commercial, and by any means. The authors
dedicate any and all copyright interest in the software to the public domain. The software is
provided "as is", without warranty of any kind, as in licence A.
------------------------------------------------------------------------------------------------
*/
