/* fsi_solids.h - v1.00 - rigid, soft and reduced solids with contact and joints, part of fsi, a
   library for two-way solid-fluid coupling in C99 and C++11
   SPDX-License-Identifier: MIT OR Unlicense          (full text at the end of the file)

   Solids in 2D and 3D that stand alone or are handed to a fluid: each kind gives out its surface
   and an "apply the inverse mass".

   QUICK START
       #define FSI_IMPLEMENTATION // in exactly one file, before the include
       #include "fsi_solids.h"
       #include <stdio.h>

       int main(void) { // a box falls on the floor
           fsi_shape_desc shape = {0};
           fsi_shape floor, box;
           fsi_solids_desc desc = {0};
           fsi_solids world;
           fsi_rigid_desc body = {0};
           int id;
           shape.kind = FSI_SHAPE_PLANE;
           if (fsi_shape_init(&floor, &shape) < 0)
               return 1;
           shape.kind = FSI_SHAPE_BOX;
           shape.half = fsi_vec(FSI_R(0.5), FSI_R(0.5), FSI_R(0.5));
           if (fsi_shape_init(&box, &shape) < 0)
               return 1;
           desc.dim = 3;
           desc.max_bodies = 2;
           desc.gravity = fsi_vec(0, FSI_R(-9.81), 0);
           if (fsi_solids_init(&world, &desc) < 0)
               return 1;
           body.shape = &floor;
           body.friction = FSI_R(0.5);
           fsi_solids_add(&world, &body, NULL); // kind 0: fixed
           body.kind = FSI_RIGID_DYNAMIC;
           body.shape = &box;
           body.density = 500;
           body.x.y = 2;
           fsi_solids_add(&world, &body, &id);
           for (int step = 0; step < 120; step++)
               fsi_solids_step(&world, FSI_R(1) / 60);
           printf("the box rests at y = %g\n", (double)world.body[id].x.y);
           fsi_solids_free(&world);
           fsi_shape_free(&box);
           fsi_shape_free(&floor);
       }
   Compile: cc main.c -lm          (add -fopenmp for threads)

   WHAT IT DOES
   - fsi_solids: rigid bodies (sphere, box, capsule, torus, closed mesh, compound; fixed, scripted,
     dynamic), static planes, rooms and height fields, contact with Coulomb friction and
     restitution, joints (point, hinge, prismatic, weld, spring; motors, stops).
   - fsi_soft: cloth, shells, balloons, strips and tetrahedra.   fsi_reduced: modal bodies, many
     copies of one model, articulated groups.
   - fsi_mesh: tetrahedra from distance functions, procedural meshes, surface samples.
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
     FSI_IMPLEMENTATION, FSI_SINGLE, FSI_STATIC, FSI_API, FSI_NO_OPENMP: as in fsi_linalg.h;
   FSI_SOLIDS_IMPLEMENTATION: only this header's code.

   UNITS AND CONVENTIONS
   SI. 2D lives in z = 0 and is one metre deep: density in kg/m^2, inertia in kg m^2 about z. A
   body's frame starts at its centre of mass;
   quaternions turn body to world. Contact normals point from side b to side a. Surfaces have
   outward normals.
   A desc struct may be zeroed: a numerical knob at 0 takes its default, a physical quantity at 0
   is really 0, a size or density at 0 is refused.

   USAGE
   First calls to know: fsi_shape_init, fsi_solids_init, fsi_solids_add, fsi_solids_join,
   fsi_solids_step, fsi_solids_measure.
   1. One step: fsi_solids_forces (v* = v + dt f / m), [a coupling changes velocities],
      fsi_solids_move (contact, joints, positions). What forces and coupling have added to v and L
      is spread evenly over the substeps of the move.
   2. Coupling: fsi_solids_coupled(&world, id, &c), solve, fsi_solids_take_coupled(&world, id).
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
   - Contact: sequential impulses with warm starts over desc.substeps; overlap is pushed out by a
     soft constraint, and the velocity of the push is taken away again. Ten boxes for 10 s at dt =
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
   - Impulses act at one common point of both sides: linear and angular momentum are kept to
     round-off by every contact and joint.
   - A box 30 times heavier on two light ones overlaps by .6 %, 100 times by 3 %, 300 times
     squeezes them out: raise desc.substeps there.
   - Soft contact gives way by 1/35 of the impulse in every sweep: under a body's own weight that
     is an overlap of 0.41 g h^2, h = dt / substeps (3e-5 m at dt = 0.01), and .14 radii at most.
     Above g h^2 = half a radius (gravity 1e5; FSI_DT_TOO_LARGE) balls still rest so, but what has
     corners turns by more than contacts follow and sinks.
   - fsi_solids_max_dt advises a step; larger ones are stable but less exact.

   MEMORY
   One block per shape, one per world (about 0.9 KB per body, 0.5 KB per contact point with its
   copy, 5.6 KB per joint), one per coupled body on first use.
   Nothing is allocated in a step.

   ERRORS
   Functions return an fsi_result. Negative: refused, nothing changed. FSI_DT_TOO_LARGE from a
   move: see fsi_solids_step. FSI_CAPPED: room for contacts was short and
   the rest was solved, or bodies met so fast that their impulses overflowed and they were stopped
   where they were.
   Open, degenerate and inside-out meshes: FSI_ERR_GEOMETRY. Poses and velocities that are not
   finite: FSI_ERR_ARGUMENT.

   THREADS AND DETERMINISM
   No file-scope state, no threads of our own. Bounds, narrow phase and motion use OpenMP; impulses
   are sequential, from the ground up. The same
   binary gives the same bits for any number of threads; a restored run continues bit for bit.
   Callbacks run on the caller's thread.

   REFERENCES
   Guendelman, Bridson, Fedkiw 2003 (order of collision and contact). Weinstein, Teran, Fedkiw 2006
   (pre-stabilised joints). Macklin et al. 2019
   (small steps). Catto 2024 (soft contact with relaxation). Mirtich 1996 (mass properties).

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
#ifdef FSI_SINGLE /* the precision is part of every symbol: a mismatch is a link error */
#define fsi_shape_init fsi_shape_init_f32
#define fsi_shape_free fsi_shape_free_f32
#define fsi_shape_distance fsi_shape_distance_f32
#define fsi_mesh_mass fsi_mesh_mass_f32
#define fsi_solids_init fsi_solids_init_f32
#define fsi_solids_free fsi_solids_free_f32
#define fsi_solids_add fsi_solids_add_f32
#define fsi_solids_join fsi_solids_join_f32
#define fsi_solids_step fsi_solids_step_f32
#define fsi_solids_forces fsi_solids_forces_f32
#define fsi_solids_hold fsi_solids_hold_f32
#define fsi_solids_move fsi_solids_move_f32
#define fsi_solids_set_externals fsi_solids_set_externals_f32
#define fsi_solids_set_pose fsi_solids_set_pose_f32
#define fsi_solids_set_velocity fsi_solids_set_velocity_f32
#define fsi_solids_script fsi_solids_script_f32
#define fsi_solids_velocity fsi_solids_velocity_f32
#define fsi_solids_inverse_mass fsi_solids_inverse_mass_f32
#define fsi_solids_impulse fsi_solids_impulse_f32
#define fsi_solids_closest fsi_solids_closest_f32
#define fsi_solids_surface fsi_solids_surface_f32
#define fsi_solids_coupled fsi_solids_coupled_f32
#define fsi_solids_coupled_joined fsi_solids_coupled_joined_f32
#define fsi_solids_joined_part fsi_solids_joined_part_f32
#define fsi_solids_take_coupled fsi_solids_take_coupled_f32
#define fsi_solids_state_size fsi_solids_state_size_f32
#define fsi_solids_save fsi_solids_save_f32
#define fsi_solids_restore fsi_solids_restore_f32
#define fsi_solids_measure fsi_solids_measure_f32
#define fsi_solids_max_dt fsi_solids_max_dt_f32
#define fsi_solids_lines fsi_solids_lines_f32
#define fsi_form_distance fsi_form_distance_f32
#define fsi_mesh_free fsi_mesh_free_f32
#define fsi_mesh_from_sdf fsi_mesh_from_sdf_f32
#define fsi_mesh_box fsi_mesh_box_f32
#define fsi_mesh_sheet fsi_mesh_sheet_f32
#define fsi_mesh_strip fsi_mesh_strip_f32
#define fsi_mesh_circle fsi_mesh_circle_f32
#define fsi_mesh_sphere fsi_mesh_sphere_f32
#define fsi_mesh_torus fsi_mesh_torus_f32
#define fsi_mesh_boundary fsi_mesh_boundary_f32
#define fsi_mesh_surface fsi_mesh_surface_f32
#define fsi_surface_sample fsi_surface_sample_f32
#define fsi_soft_init fsi_soft_init_f32
#define fsi_soft_free fsi_soft_free_f32
#define fsi_soft_forces fsi_soft_forces_f32
#define fsi_soft_coupled fsi_soft_coupled_f32
#define fsi_soft_finish fsi_soft_finish_f32
#define fsi_soft_contact fsi_soft_contact_f32
#define fsi_soft_move fsi_soft_move_f32
#define fsi_soft_step fsi_soft_step_f32
#define fsi_soft_static fsi_soft_static_f32
#define fsi_soft_energy fsi_soft_energy_f32
#define fsi_soft_max_dt fsi_soft_max_dt_f32
#define fsi_soft_volume fsi_soft_volume_f32
#define fsi_soft_stiffness fsi_soft_stiffness_f32
#define fsi_soft_elastic_force fsi_soft_elastic_force_f32
#define fsi_soft_surface fsi_soft_surface_f32
#define fsi_soft_external fsi_soft_external_f32
#define fsi_soft_state_size fsi_soft_state_size_f32
#define fsi_soft_save fsi_soft_save_f32
#define fsi_soft_restore fsi_soft_restore_f32
#define fsi_reduced_model_init fsi_reduced_model_init_f32
#define fsi_reduced_model_free fsi_reduced_model_free_f32
#define fsi_reduced_init fsi_reduced_init_f32
#define fsi_reduced_free fsi_reduced_free_f32
#define fsi_reduced_place fsi_reduced_place_f32
#define fsi_reduced_point fsi_reduced_point_f32
#define fsi_reduced_velocity fsi_reduced_velocity_f32
#define fsi_reduced_push fsi_reduced_push_f32
#define fsi_reduced_impulse fsi_reduced_impulse_f32
#define fsi_reduced_row fsi_reduced_row_f32
#define fsi_reduced_mass fsi_reduced_mass_f32
#define fsi_reduced_forces fsi_reduced_forces_f32
#define fsi_reduced_half fsi_reduced_half_f32
#define fsi_reduced_rewind fsi_reduced_rewind_f32
#define fsi_reduced_couple fsi_reduced_couple_f32
#define fsi_reduced_take fsi_reduced_take_f32
#define fsi_reduced_move fsi_reduced_move_f32
#define fsi_reduced_energy fsi_reduced_energy_f32
#define fsi_reduced_external fsi_reduced_external_f32
#define fsi_reduced_state_size fsi_reduced_state_size_f32
#define fsi_reduced_save fsi_reduced_save_f32
#define fsi_reduced_restore fsi_reduced_restore_f32
#define fsi_reduced_group_init fsi_reduced_group_init_f32
#define fsi_reduced_group_free fsi_reduced_group_free_f32
#define fsi_reduced_group_couple fsi_reduced_group_couple_f32
#define fsi_reduced_group_take fsi_reduced_group_take_f32
#define fsi_reduced_group_move fsi_reduced_group_move_f32
#define fsi_reduced_group_surface fsi_reduced_group_surface_f32
#define fsi_reduced_contact fsi_reduced_contact_f32
#define fsi_reduced_contact_hold fsi_reduced_contact_hold_f32
#define fsi_reduced_contacts_state_size fsi_reduced_contacts_state_size_f32
#define fsi_reduced_contacts_save fsi_reduced_contacts_save_f32
#define fsi_reduced_contacts_restore fsi_reduced_contacts_restore_f32
#define fsi_reduced_contacts_free fsi_reduced_contacts_free_f32
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

/* Makes a shape. FSI_ERR_GEOMETRY: open, degenerate or inside-out mesh. On error s is zeroed and
 * holds nothing. */
FSI_API fsi_result fsi_shape_init(fsi_shape *s, const fsi_shape_desc *desc);
/* Frees; s may be zero. No body may use it any more. */
FSI_API void fsi_shape_free(fsi_shape *s);
/* Signed distance of p (shape frame), negative inside; normal (may be NULL) points out of the
   solid. Exact for the analytic kinds (height fields: first order; meshes: trilinear on the grid
   inside it, a lower bound beyond). */
FSI_API fsi_real fsi_shape_distance(const fsi_shape *s, fsi_vec3 p, fsi_vec3 *normal);
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
    fsi_vec3 w;             /* angular velocity, rad/s, world frame */
    fsi_real density;       /* kg/m^3 (2D: kg/m^2); dynamic bodies: > 0 unless mass is given */
    fsi_real mass;          /* kg; 0 = density * volume */
    /* principal moments in the body frame, kg m^2; zero = from the shape */
    fsi_vec3 inertia;
    fsi_real friction;        /* Coulomb, >= 0; a pair uses the geometric mean */
    fsi_real restitution;     /* 0 .. 1; a pair uses the larger */
    fsi_real linear_damping;  /* 1/s, >= 0: dv/dt = -d v */
    fsi_real angular_damping; /* 1/s, >= 0 */
    int group;                /* bodies of the same non-zero group do not collide */
    int ghost;                /* 1: takes no part in contact */
    int user;                 /* free for the caller */
} fsi_rigid_desc;

/* A rigid body; world->body[i]. Read freely; write only through the functions below (force and
 * torque may be added to). */
typedef struct fsi_rigid {
    fsi_vec3 x; /* centre of mass, m */
    fsi_quat q; /* unit, body to world */
    fsi_vec3 v; /* m/s */
    /* angular momentum about the centre of mass, world frame, N m s: the state (scripted: 0) */
    fsi_vec3 L;
    fsi_vec3 w; /* angular velocity, rad/s, world frame: I^-1 L (scripted: given) */
    /* N, N m about the centre of mass; used and cleared by fsi_solids_forces */
    fsi_vec3 force, torque;
    /* velocity and angular momentum at the start of the step: what forces and coupling add is
     * spread over substeps */
    fsi_vec3 v_start, L_start;
    fsi_mat3 rotation;        /* of q */
    fsi_mat3 inverse_inertia; /* world frame, 1/(kg m^2); zero when not dynamic */
    fsi_mat3 inertia_body, inverse_inertia_body; /* body frame, kg m^2 */
    fsi_real mass, inverse_mass;                 /* kg, 1/kg; both 0 when not dynamic */
    fsi_real friction, restitution, linear_damping, angular_damping;
    const fsi_shape *shape;
    fsi_rigid_kind kind;
    int32_t group, ghost, user;
    int32_t touching; /* contacts and joints of the last step */
    /* Impulse and moment about the centre of mass, N s, N m s */
    /* that contact and joints gave in the last move, and in the one before */
    fsi_vec3 push[2], push_before[2];
    /* that forces gave in the last fsi_solids_forces, and in the one before */
    fsi_vec3 load[2], load_before[2];
    /* that fsi_solids_hold and contacts inside a door gave, until the next move takes it back */
    fsi_vec3 held[2];
    /* that contacts inside a door gave beyond that: the move leaves it and counts it as push */
    fsi_vec3 kept[2];
} fsi_rigid;

/* ------------------------------------------------------------------------------------------------
 * >>contact */
/* One contact point; world->contact[i]. A side is a rigid body (< max_bodies) or max_bodies + k for
   external solid k; a < b. Rigid pairs come first, then pairs with externals, each sorted by (a,
   b). The normal points from b to a. */
typedef struct fsi_contact {
    int32_t a, b; /* sides */
    /* which point of the pair: the same number next step means the same point */
    uint32_t feature;
    int32_t point_a, point_b; /* external sides: point index for its callbacks; else -1 */
    /* the side it moves with during a step: the smaller of two bodies, or whose point it is */
    int32_t lead;
    int32_t bounced;       /* 1: restitution acted in the last step */
    fsi_vec3 at;           /* world position, m; both sides get their impulses exactly here */
    fsi_vec3 normal;       /* unit, from b to a */
    fsi_vec3 tangent;      /* unit; the second tangent is normal x tangent */
    fsi_vec3 ra, rb;       /* arms from the centres of mass (external: 0) */
    fsi_real gap;          /* m, negative = overlap; follows the motion during the step */
    fsi_real impulse;      /* N s along the normal in the last substep, >= 0 */
    fsi_real impulse_t[2]; /* N s along the tangents; length <= friction * impulse (a cone) */
    /* largest normal impulse of the step: tells restitution who was hit */
    fsi_real impulse_max;
    fsi_real approach; /* normal velocity before the step, m/s (negative: approaching) */
    fsi_real friction, restitution;
    fsi_real size;   /* bounding radius of the smaller side: the slop's scale, m */
    fsi_real mass_n; /* effective mass along the normal, kg */
    fsi_real mass_t; /* effective mass along the tangents, kg */
    /* impulse and normal velocity when restitution began: what it gave can be told and taken back
     */
    fsi_real start[2];
} fsi_contact;

/* A solid of another kind (cloth, tetrahedra, reduced, a user's own) that takes part in contact
   with the rigid world and with other externals. It offers points; velocity and impulse at a point
   go through its callbacks, so contact does not know the kind. Impulses arrive equal and opposite
   at the same world point on both sides. Owned by the caller. */
typedef struct fsi_external {
    int point_count;   /* contact points, usually surface vertices */
    const fsi_real *x; /* [3 * point_count] world positions at the start of the step, m */
    fsi_real radius;   /* the points are spheres of this radius (half thickness), m, >= 0 */
    fsi_real friction, restitution; /* as for rigid bodies */
    int group;                      /* as for rigid bodies */
    int edge_count;                 /* edges between points that look for contact, too; 0 = none */
    /* [3 * edge_count] two points, and what the callbacks take for a place between them */
    const int32_t *edge;
    void *user; /* handed to the callbacks */
    /* m/s of point at world position at */
    fsi_vec3 (*velocity_fn)(void *user, int point, fsi_vec3 at);
    /* K j = velocity change there by impulse j, 1/kg */
    void (*inverse_mass_fn)(void *user, int point, fsi_vec3 at, fsi_mat3 *K);
    /* takes impulse j, N s */
    void (*impulse_fn)(void *user, int point, fsi_vec3 at, fsi_vec3 j);
    /* NULL, or: signed distance of world point p, outward unit normal, and the own point nearest to
       it (for the callbacks above). Then samples of rigid bodies and points of other externals
       collide with this one too. */
    fsi_real (*distance_fn)(void *user, fsi_vec3 p, fsi_vec3 *normal, int *point);
    /* NULL: it moves itself after fsi_solids_move. Or: h = 0 gets it ready for distance_fn, h > 0
       moves it for h seconds at its present velocity, h < 0 ends the step: contact then sees it
       move in every substep, opens its overlaps without leaving a velocity behind, and angular
       momentum is exact. */
    void (*advance_fn)(void *user, fsi_real h);
    /* NULL, or: told of every contact point before the other calls */
    void (*touch_fn)(void *user, int point, fsi_vec3 at);
    /* NULL, or, called when a step ends. take = 0: J that contact has brought it beyond what it
       had, or would have without contact. take > 0: takes up to so many J out of the motion inside
       it, momentum unchanged, and returns what it took. With it the energy of all together never
       grows without work. */
    double (*energy_fn)(void *user, double take);
} fsi_external;

/* Answer of a distance query. */
typedef struct fsi_solids_hit {
    int body;          /* nearest rigid body or -1 */
    fsi_real distance; /* m, negative inside */
    fsi_vec3 normal;   /* unit, out of that body */
    fsi_vec3 velocity; /* of the body at the point, m/s */
} fsi_solids_hit;

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
    int32_t a, b;
    fsi_vec3 pa, pb;                     /* anchors in the body frames, m */
    fsi_vec3 axis_a, axis_b;             /* axis in the body frames */
    fsi_quat q0;                         /* rotation of a relative to b at rest */
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
    int body_count, joint_count, contact_count;
    fsi_rigid *body;  /* [max_bodies] */
    fsi_joint *joint; /* [max_joints] */
    /* [max_contacts] of the last step; kept for warm starts and drawing */
    fsi_contact *contact;
    const fsi_external *external; /* [external_count] set by the caller */
    int external_count;
    double time; /* s */
    /* the one allocation; the first state_size bytes are the dynamic state */
    void *block;
    size_t block_size, state_size;
    struct fsi__solids_work *work; /* scratch, inside block */
} fsi_solids;

/* What a world holds now. */
typedef struct fsi_solids_report {
    double kinetic, potential; /* J; potential of gravity against the origin, and of springs */
    double momentum[3];        /* N s of the dynamic bodies */
    double angular[3];         /* N m s about the origin */
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
FSI_API fsi_result fsi_solids_init(fsi_solids *w, const fsi_solids_desc *desc);
/* Frees everything; w may be zero. */
FSI_API void fsi_solids_free(fsi_solids *w);
/* Adds a body; *id (may be NULL) receives its number. FSI_ERR_SIZE when full, FSI_ERR_ARGUMENT on
 * bad numbers; nothing changes then. */
FSI_API fsi_result fsi_solids_add(fsi_solids *w, const fsi_rigid_desc *desc, int *id);
/* Adds a joint at the present poses; *id may be NULL. */
FSI_API fsi_result fsi_solids_join(fsi_solids *w, const fsi_joint_desc *desc, int *id);
/* One uncoupled step of dt seconds: forces, then move. FSI_CAPPED when contacts were left out for
   lack of room or overflowing bodies were stopped, FSI_DT_TOO_LARGE when forces alone carry a
   touching body half its radius in a substep; the step is done. */
FSI_API fsi_result fsi_solids_step(fsi_solids *w, fsi_real dt);

/* The stages of a step, in order: forces (v*), [coupling changes velocities], move (contact, joints
 * and positions together). */
FSI_API fsi_result fsi_solids_forces(fsi_solids *w, fsi_real dt);
/* Optional, between forces and a coupled solve: contacts and joints press once more as they did for
   two steps, and fsi_solids_move takes that back before it solves them anew. A fluid then sees
   bodies at rest at rest; without it every solve begins with bodies that fall for dt. Changes
   velocities only; momentum stays exact. */
FSI_API fsi_result fsi_solids_hold(fsi_solids *w, fsi_real dt);
/* Finds contacts, then in every substep: a share of the step's velocity change, impulses of
   contacts and joints, new positions. Externals get their impulses here and move themselves
   afterwards. */
FSI_API fsi_result fsi_solids_move(fsi_solids *w, fsi_real dt);
/* Externals for the next moves: count structs that stay the caller's (NULL, 0 = none). Set again
 * after a restore. */
FSI_API fsi_result fsi_solids_set_externals(fsi_solids *w, const fsi_external *external, int count);

/* Poses and velocities. Non-finite input is refused. q zero = identity. */
FSI_API fsi_result fsi_solids_set_pose(fsi_solids *w, int body, fsi_vec3 x, fsi_quat q);
/* Sets both velocities (dynamic and scripted bodies), m/s, rad/s. */
FSI_API fsi_result fsi_solids_set_velocity(fsi_solids *w, int body, fsi_vec3 v, fsi_vec3 angular);
/* Scripted bodies: sets the velocities that carry the body to this pose within the next dt. */
FSI_API fsi_result fsi_solids_script(fsi_solids *w, int body, fsi_vec3 x, fsi_quat q, fsi_real dt);
/* Velocity of the material point of the body at world position p, m/s. */
FSI_API fsi_vec3 fsi_solids_velocity(const fsi_solids *w, int body, fsi_vec3 p);
/* K with K j = velocity change at p caused by impulse j at p, 1/kg; zero unless dynamic. */
FSI_API void fsi_solids_inverse_mass(const fsi_solids *w, int body, fsi_vec3 p, fsi_mat3 *K);
/* Impulse j, N s, at world position p: changes v and L at once. Ignored unless dynamic. */
FSI_API fsi_result fsi_solids_impulse(fsi_solids *w, int body, fsi_vec3 p, fsi_vec3 j);
/* Nearest colliding rigid body to p within reach metres, bodies of the non-zero group left out;
 * hit->body = -1 when none. */
FSI_API fsi_result fsi_solids_closest(const fsi_solids *w, fsi_vec3 p, fsi_real reach, int group,
                                      fsi_solids_hit *hit);

/* Doors. The surface in world coordinates: x, v are [3 * shape->surface.vertex_count], the caller's
 * (v may be NULL). */
FSI_API fsi_result fsi_solids_surface(const fsi_solids *w, int body, fsi_real *x, fsi_real *v,
                                      fsi_surface *out);
/* The body as a coupled solid (dense, 6 degrees of freedom) in its present state: *out points into
   the world, filled again by every call (memory per body is allocated on the first one). After the
   solve hand the velocities back with fsi_solids_take_coupled. Joints with fixed or scripted bodies
   are part of the door: a hinged body has only its turning left in inverse_mass. */
FSI_API fsi_result fsi_solids_coupled(fsi_solids *w, int body, fsi_coupled **out);
/* The same for a body and all others that joints tie to it, as one solid of 6 degrees of freedom
   each: the joints are part of its inverse mass, so a coupled solve answers with velocities that
   obey them (motors, springs and stops act in fsi_solids_move). *out = NULL: one of a lower number
   among them has the door. Every body hands its velocities back by fsi_solids_take_coupled. */
FSI_API fsi_result fsi_solids_coupled_joined(fsi_solids *w, int body, fsi_coupled **out);
/* Where a body is in the door it was last coupled through: number of the body that has the door,
 * first element and elements of its surface there. */
FSI_API fsi_result fsi_solids_joined_part(const fsi_solids *w, int body, int *owner, int *first,
                                          int *elements);
/* Takes (*out)->v after a solve: the body's velocity and angular momentum change. */
FSI_API fsi_result fsi_solids_take_coupled(fsi_solids *w, int body);

/* Save, restore, look. */
FSI_API size_t fsi_solids_state_size(const fsi_solids *w); /* bytes */
/* copies the dynamic state out */
FSI_API fsi_result fsi_solids_save(const fsi_solids *w, void *state);
/* Copies it back into a world with the same desc and the same bodies added in the same order (each
   keeps its own shape); continues bit for bit. FSI_ERR_SIZE: made by another desc; FSI_ERR_STATE:
   it has bodies this world never had. */
FSI_API fsi_result fsi_solids_restore(fsi_solids *w, const void *state);
/* Energies, momenta, overlap; contacts are those of the last step. */
FSI_API fsi_result fsi_solids_measure(const fsi_solids *w, fsi_solids_report *report);
/* Largest advised step, s: no body moves more than its thinnest extent or turns more than a radian
 * per substep. FSI_REAL_MAX at rest. */
FSI_API fsi_real fsi_solids_max_dt(const fsi_solids *w);
/* Lines for drawing, 6 reals each (from, to): bit 1 contact normals (scaled by depth of impulse), 2
   joints, 4 body axes, 8 surfaces' edges. Writes at most room lines, returns how many there are.
   lines may be NULL when room is 0. */
FSI_API int fsi_solids_lines(const fsi_solids *w, unsigned what, fsi_real scale, fsi_real *lines,
                             int room);

/* ------------------------------------------------------------------------------------------------
 * >>mesh */
/* A signed distance, m: negative inside. Only its sign and its values near the surface matter for
 * meshing. */
typedef fsi_real (*fsi_sdf_fn)(fsi_vec3 x, void *user);

/* Procedural forms as signed distances; fsi_form_distance with user = the form is an fsi_sdf_fn.
   All are centred at the origin before they are moved to center. Lengths in m; a form with a length
   <= 0 where one is needed counts as empty (distance 1e30). */
typedef enum fsi_form_kind {
    FSI_FORM_SPHERE = 0, /* a: radius */
    FSI_FORM_BOX = 1,    /* a, b, c: half sizes along x, y, z */
    FSI_FORM_TORUS = 2,  /* axis y; a: radius of the ring, b: radius of the tube */
    /* in the x-z plane; a: radius to the tips, b: half thickness in the middle, c: radius of an arm
     * at its root; count arms (0 = 5) */
    FSI_FORM_STARFISH = 3,
    /* jellyfish bell, open towards -y; a: radius, b: thickness at the top, c: height */
    FSI_FORM_BELL = 4,
    /* jellyfish arm hanging along -y from the origin; a: length, b: radius at the root, c: radius
     * at the tip */
    FSI_FORM_ARM = 5,
    /* along y; a: radius of the coil, b: radius of the wire, c: height; count turns (0 = 3) */
    FSI_FORM_HELIX = 6
} fsi_form_kind;

typedef struct fsi_form {
    fsi_form_kind kind;
    fsi_real a, b, c; /* see the kind, m */
    int count;        /* arms or turns */
    fsi_vec3 center;  /* m */
} fsi_form;

/* Signed distance to the fsi_form behind user (exact for sphere, box, torus; a bound of the same
 * sign for the others). */
FSI_API fsi_real fsi_form_distance(fsi_vec3 x, void *user);

/* Vertices with a surface and, for solids, tetrahedra. All arrays in one block of the allocator. */
typedef struct fsi_mesh {
    int dim; /* 3: index holds triangles; 2: segments */
    int vertex_count, element_count, tet_count;
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
                                     fsi_vec3 hi, fsi_real h, const fsi_allocator *a);
/* A box of nx * ny * nz cubes cut into tetrahedra; vertex i + (nx + 1) * (j + (ny + 1) * k).
   alternate 0: six per cube, all alike; 1: five per cube, mirrored from cube to cube (stiffens
   bending less). */
FSI_API fsi_result fsi_mesh_box(fsi_mesh *mesh, fsi_vec3 lo, fsi_vec3 hi, int nx, int ny, int nz,
                                int alternate, const fsi_allocator *a);
/* A flat sheet of nx * ny squares (two triangles each) spanned by origin, along_x, along_y; vertex
   i + (nx + 1) * j. alternate 1: diagonals mirrored from square to square. keep_fn(centre of a
   square, user) == 0 leaves a hole; NULL = no holes; unused vertices are dropped. */
FSI_API fsi_result fsi_mesh_sheet(fsi_mesh *mesh, fsi_vec3 origin, fsi_vec3 along_x,
                                  fsi_vec3 along_y, int nx, int ny, int alternate,
                                  int (*keep_fn)(fsi_vec3 center, void *user), void *user,
                                  const fsi_allocator *a);
/* A chain of n segments from p to q (2D strip of cloth). */
FSI_API fsi_result fsi_mesh_strip(fsi_mesh *mesh, fsi_vec3 p, fsi_vec3 q, int n,
                                  const fsi_allocator *a);
/* A closed loop of n >= 3 segments around center (2D balloon or disk), counter-clockwise. */
FSI_API fsi_result fsi_mesh_circle(fsi_mesh *mesh, fsi_vec3 center, fsi_real radius, int n,
                                   const fsi_allocator *a);
/* Closed triangle surfaces: a sphere (icosahedron, every edge cut into n >= 1 parts) and a torus
 * about the y axis (nu around, nv across). */
FSI_API fsi_result fsi_mesh_sphere(fsi_mesh *mesh, fsi_vec3 center, fsi_real radius, int n,
                                   const fsi_allocator *a);
FSI_API fsi_result fsi_mesh_torus(fsi_mesh *mesh, fsi_vec3 center, fsi_real ring, fsi_real tube,
                                  int nu, int nv, const fsi_allocator *a);
/* The faces of tet [4 * tet_count] that belong to one tetrahedron only, oriented outwards. triangle
 *[3 * room] may be NULL to count; count is always set. scratch comes from a. FSI_ERR_SIZE when room
 *is too small, FSI_ERR_GEOMETRY for bad indices. */
FSI_API fsi_result fsi_mesh_boundary(int vertex_count, int tet_count, const int32_t *tet,
                                     int32_t *triangle, int room, int *count,
                                     const fsi_allocator *a);
/* The mesh's surface as a door (at rest). */
FSI_API fsi_surface fsi_mesh_surface(const fsi_mesh *mesh);
/* Points on a surface at most spacing apart: every element is cut into n^(dim-1) equal parts, a
   point in the middle of each. Writes position [3 * room], element [room], weight [dim * room]
   (each may be NULL) and area represented by each point, m^2 (m in 2D); returns the number of
   points there are (nothing beyond room is written), 0 for a bad surface or spacing. */
FSI_API size_t fsi_surface_sample(const fsi_surface *s, fsi_real spacing, fsi_real *position,
                                  int32_t *element, fsi_real *weight, fsi_real *area, size_t room);

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
    int segment_count, triangle_count, tet_count;
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
    size_t size, state_size;
} fsi_soft;

/* Copies everything it needs. FSI_ERR_GEOMETRY: degenerate elements, bad indices; FSI_ERR_ARGUMENT:
 * bad numbers. s is written only on success. */
FSI_API fsi_result fsi_soft_init(fsi_soft *s, const fsi_soft_desc *desc);
/* Frees everything; safe on a zeroed struct and twice. */
FSI_API void fsi_soft_free(fsi_soft *s);
/* Stage 1: forces over dt > 0 s; afterwards v is v* (implicit kinds: the end velocity without
   fluid; FSI_SOFT_SPLIT: as before). FSI_NOT_CONVERGED: Newton stopped early. FSI_ERR_NUMERIC
   leaves x and v as before. */
FSI_API fsi_result fsi_soft_forces(fsi_soft *s, fsi_real dt);
/* Stage 2: what a coupling scheme sees; valid until the object moves. FSI_SOFT_SPLIT hands out
 * implicit = B and push, the others lumped mass only. */
FSI_API void fsi_soft_coupled(fsi_soft *s, fsi_coupled *out);
/* Stage 2 without a fluid, FSI_SOFT_SPLIT only: v = (M + B^T B)^-1 (M v + push); nothing to do for
 * the others. */
FSI_API fsi_result fsi_soft_finish(fsi_soft *s);
/* Stage 3: contact of the vertices with obstacles and of the surface with itself by impulses on v,
   so that after moving by dt no gap is closed. Self-collision keeps linear and angular momentum.
   Overlaps are opened by moving nodes, not through v (contact_work). May be called before or after
   fsi_soft_move. *contacts may be NULL. */
FSI_API fsi_result fsi_soft_contact(fsi_soft *s, const fsi_obstacle *obstacle, int count,
                                    fsi_real dt, int *contacts);
/* Stage 4: x += dt v (Newmark: the trapezoidal position); less what the rigid world has moved it
 * already. */
FSI_API fsi_result fsi_soft_move(fsi_soft *s, fsi_real dt);
/* All stages for a life without fluid. */
FSI_API fsi_result fsi_soft_step(fsi_soft *s, fsi_real dt, const fsi_obstacle *obstacle, int count);
/* Equilibrium under gravity, force, pressure and pins by Newton with line search; linear = 1: one
   linear solve from the rest shape. max_iterations 0 = 100. v becomes 0. */
FSI_API fsi_result fsi_soft_static(fsi_soft *s, int linear, int max_iterations, fsi_report *report);
/* Elastic (with pressure) and kinetic energy, J; gravity excluded. Either pointer may be NULL. */
FSI_API void fsi_soft_energy(const fsi_soft *s, double *elastic, double *kinetic);
/* Largest dt of the explicit integrator, s: 2 / omega_max by power iteration on M^-1 K at the
 * present shape, times 0.9. */
FSI_API fsi_real fsi_soft_max_dt(fsi_soft *s);
/* Enclosed volume (area in 2D) of a closed surface, m^3. */
FSI_API fsi_real fsi_soft_volume(const fsi_soft *s);
/* K of the present shape (exact tangent, pins not applied) into s->K, for tests and modal analysis.
 */
FSI_API fsi_result fsi_soft_stiffness(fsi_soft *s);
/* Elastic force at the present shape into f [3 * vertex_count], N. */
FSI_API void fsi_soft_elastic_force(const fsi_soft *s, fsi_real *f);
/* What the fluid and the contact see. */
FSI_API fsi_surface fsi_soft_surface(const fsi_soft *s);
/* Contact in both directions with the rigid world and the other externals: vertices are points, the
   surface is what they collide with; friction is desc.friction, restitution the caller's to set in
   *out. Call once after init (it points into s). fsi_solids_move then moves s, too, and
   fsi_soft_move has nothing left to do. */
FSI_API void fsi_soft_external(fsi_soft *s, fsi_external *out);
/* State: bytes, copy out, copy in. A restored run continues bit for bit. */
FSI_API size_t fsi_soft_state_size(const fsi_soft *s);
FSI_API fsi_result fsi_soft_save(const fsi_soft *s, void *out);
FSI_API fsi_result fsi_soft_restore(fsi_soft *s, const void *in);

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
    int vertex_count, element_count, modes, dim;
    fsi_real mass; /* kg */
    /* of a sphere about the centre of mass that holds the rest shape, m */
    fsi_real radius;
    fsi_vec3 center;     /* centre of mass in the mesh's coordinates, m */
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

FSI_API fsi_result fsi_reduced_model_init(fsi_reduced_model *m, const fsi_reduced_desc *desc);
FSI_API void fsi_reduced_model_free(fsi_reduced_model *m);

typedef struct fsi_reduced {
    const fsi_reduced_model *model; /* shared, must outlive the copy */
    fsi_real *state;                /* [13 + 2 modes] the state range: T .. dq point into it */
    fsi_real *T;                    /* [3] centre of mass, m */
    fsi_real *Q;                    /* [4] rotation of the frame, w x y z */
    fsi_real *p, *L;  /* [3] momentum, N s; angular momentum about T, N m s; world frame */
    fsi_real *q, *dq; /* [modes] modal displacement and velocity */
    /* [27 + 3 modes] R, I (body), I^-1 (body), H = sum m r x s_k; follows the state */
    fsi_real *cache;
    /* [6 + modes] generalised force (force, torque about T, modal), cleared by fsi_reduced_forces
     */
    fsi_real *push;
    /* [6 + modes] velocity between fsi_reduced_couple and fsi_reduced_take */
    fsi_real *v;
    fsi_real *aside; /* [modes] private: q while a move is tried out */
    /* [12 + 3 modes] private: p, L, q, q' and push at the start of a Newmark step; from the first
     * one on */
    fsi_real *begin;
    int half;         /* 1: between fsi_reduced_half and fsi_reduced_forces */
    fsi_vec3 gravity; /* m/s^2 */
    int fixed;        /* 1: does not move */
    fsi_real dt;      /* of the running step */
    /* s of the running step that the rigid world's move has already moved it */
    fsi_real moved;
    /* private: J when the step began; the most it may have at its end but for the work of others */
    double energy, reference;
    int touched; /* private: others touch it in this step */
    fsi_allocator allocator;
    void *block;
    size_t size; /* the one allocation */
} fsi_reduced;

/* A copy at rest at position T with the identity rotation. allocator may be NULL. */
FSI_API fsi_result fsi_reduced_init(fsi_reduced *b, const fsi_reduced_model *m, fsi_vec3 T,
                                    const fsi_allocator *allocator);
FSI_API void fsi_reduced_free(fsi_reduced *b);
/* Sets pose and rigid velocity (velocity of the centre of mass, angular velocity); deformation and
 * modal velocity become 0. NaN is refused. */
FSI_API fsi_result fsi_reduced_place(fsi_reduced *b, fsi_vec3 T, fsi_quat Q, fsi_vec3 velocity,
                                     fsi_vec3 spin);
/* World position and velocity of mesh vertex i. */
FSI_API fsi_vec3 fsi_reduced_point(const fsi_reduced *b, int i);
FSI_API fsi_vec3 fsi_reduced_velocity(const fsi_reduced *b, int i);
/* Adds a force, N, at mesh vertex i for the next fsi_reduced_forces (actuation, springs). */
FSI_API void fsi_reduced_push(fsi_reduced *b, int i, fsi_vec3 force);
/* Applies an impulse, N s, at mesh vertex i at once; implicit = 1 uses M^_r of the running step, 0
 * M_r. */
FSI_API void fsi_reduced_impulse(fsi_reduced *b, int i, fsi_vec3 impulse, int implicit);
/* Row of J for dir at the world point x that moves with the weighted vertices (count of them):
 * row[6 + modes]. */
FSI_API void fsi_reduced_row(const fsi_reduced *b, fsi_vec3 x, int count, const int32_t *vertex,
                             const fsi_real *weight, fsi_vec3 dir, fsi_real *row);
/* Generalised mass and inverse [(6 + modes)^2]: M_rig and M^_r of the running step (dt = 0: M_r).
 * Either may be NULL. */
FSI_API void fsi_reduced_mass(const fsi_reduced *b, fsi_real dt, fsi_real *mass, fsi_real *inverse);
/* Stage 2 of a copy on its own (no joint, no skin: those are a group's), for fsi_couple with at
   most 58 modes: fills out after fsi_reduced_forces. Places and masses are worked out when the
   solve asks for them: beside the door the copy needs no memory. */
FSI_API fsi_result fsi_reduced_couple(fsi_reduced *b, fsi_coupled *out);
/* Stage 2, after the solve: momenta and q' from b->v. */
FSI_API fsi_result fsi_reduced_take(fsi_reduced *b);
/* Stage 1: gravity, push, fictitious and internal forces; dq becomes M^_r^-1 M_r q'*, the answer
 * without fluid. */
FSI_API fsi_result fsi_reduced_forces(fsi_reduced *b, fsi_real dt);
/* The Newmark step (REDUCED section 6), two coupled solves a step:
       fsi_reduced_half; couple and solve with dt / 2, take       v^(n+1/2), v^n kept aside
       fsi_reduced_group_move (or fsi_reduced_move) by dt         x^(n+1)
       fsi_reduced_rewind; fsi_reduced_contact                    v^n, then without collisions, at
   x^(n+1) fsi_reduced_forces; couple and solve with dt, take         v^(n+1): elastic force K (q^n
   + dt q'^(n+1)), rest at x^(n+1) fsi_reduced_half: stage 1 for dt / 2. fsi_reduced_rewind: v^n and
   the pushes come back, places stay. */
FSI_API fsi_result fsi_reduced_half(fsi_reduced *b, fsi_real dt);
FSI_API fsi_result fsi_reduced_rewind(fsi_reduced *b);
/* Stage 4: q += dt q', T += dt v, frame turned by its own angular velocity. */
FSI_API fsi_result fsi_reduced_move(fsi_reduced *b, fsi_real dt);
/* Kinetic and elastic energy, J. */
FSI_API void fsi_reduced_energy(const fsi_reduced *b, double *elastic, double *kinetic);
/* Contact in both directions with the rigid world and the other externals: the samples are points;
   x is the caller's [3 * model->sample_count], filled by each call: call before every step.
   Friction and restitution are the caller's to set in *out. fsi_solids_move then moves b, too, and
   fsi_reduced_move has nothing left to do. */
FSI_API void fsi_reduced_external(fsi_reduced *b, fsi_real *x, fsi_external *out);
/* State: bytes, copy out, copy in. */
FSI_API size_t fsi_reduced_state_size(const fsi_reduced *b);
FSI_API fsi_result fsi_reduced_save(const fsi_reduced *b, void *out);
FSI_API fsi_result fsi_reduced_restore(fsi_reduced *b, const void *in);

/* A group: one or more copies, joined at points, seen by the fluid as one dense coupled solid
   (joint impulses eliminated from the inverse mass). A skin replaces the copies' own surfaces.
   Scratch of the coupling lives here, not in the copies. */
typedef struct fsi_reduced_joint {
    int body[2];   /* numbers in the group */
    int vertex[2]; /* mesh vertex of each that share their place */
} fsi_reduced_joint;

typedef struct fsi_reduced_skin {
    int vertex_count, element_count;
    const int32_t *index; /* [dim * element_count] */
    int terms;            /* component vertices per skin vertex, 1 .. 16, of at most 4 bodies */
    const int32_t *body, *vertex; /* [terms * vertex_count] */
    const fsi_real *weight;       /* [terms * vertex_count] >= 0, sum 1 */
} fsi_reduced_skin;

typedef struct fsi_reduced_group {
    int body_count, joint_count, dof;
    fsi_reduced **body;       /* [body_count] */
    fsi_reduced_joint *joint; /* [joint_count] */
    fsi_reduced_skin skin;    /* copied; terms 0 = none */
    /* [3 * surface vertices]; velocity NULL for one body without skin: the rows give it */
    fsi_real *x, *velocity;
    int32_t *index; /* surface elements; one body without skin: the model's */
    /* [skin vertices] body it hangs on most; [body_count] first degree of freedom of each body */
    int32_t *owner, *first;
    int vertex_count, element_count; /* of the surface */
    fsi_real *v, *impulse;           /* [dof] */
    fsi_real *mass, *inverse;        /* [dof * dof] */
    fsi_real *A, *AK, *LA; /* joints: [3 joints * dof], [3 joints * dof], [(3 joints)^2] */
    fsi_real *scratch;     /* [dof * dof] for several bodies */
    /* joints: [dof + bodies] place, rotation and q of the bodies before they move */
    fsi_real *pose;
    int32_t *skin_body;
    fsi_real *skin_weight; /* the copy behind skin */
    fsi_real joint_error;  /* largest distance of joined points when last coupled, m */
    fsi_allocator allocator;
    void *block;
    size_t size;
} fsi_reduced_group;

/* Copies the lists (body pointers, joints, skin); the bodies belong to the caller. joint, skin and
 * allocator may be NULL. */
FSI_API fsi_result fsi_reduced_group_init(fsi_reduced_group *g, fsi_reduced **body, int body_count,
                                          const fsi_reduced_joint *joint, int joint_count,
                                          const fsi_reduced_skin *skin,
                                          const fsi_allocator *allocator);
FSI_API void fsi_reduced_group_free(fsi_reduced_group *g);
/* Stage 2: fills out for the coupled solve (after fsi_reduced_forces of all its bodies); v obeys
 * the joints, drift included. */
FSI_API fsi_result fsi_reduced_group_couple(fsi_reduced_group *g, fsi_real dt, fsi_coupled *out);
/* Stage 2, after the solve (or at once without fluid): the bodies take the velocities in g->v. */
FSI_API fsi_result fsi_reduced_group_take(fsi_reduced_group *g);
/* Stage 4 for all bodies of the group: impulses in the joints (pre-stabilisation) so that the
   joined points meet at the end of the move. Balanced, at points that meet at its start: momentum
   and angular momentum stay. Points further apart than a quarter of the smaller radius come nearer
   by that much. */
FSI_API fsi_result fsi_reduced_group_move(fsi_reduced_group *g, fsi_real dt);
/* Surface of bodies or skin at the present state (arrays of the group). */
FSI_API fsi_surface fsi_reduced_group_surface(fsi_reduced_group *g);

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
    fsi_real friction, restitution;       /* between copies */
    fsi_real slop;                        /* depth that is left alone, m */
    int iterations;                       /* 0 = 20 */
    int count, room;                      /* contacts of the last call */
    struct fsi__reduced_contact *contact; /* [room] */
    fsi_real *row, *u;
    size_t row_room, u_room; /* private */
    int parts;               /* private: bodies behind one contact at most */
    /* private: [bodies] group + 1 of each body, then the bodies' numbers group after group */
    int32_t *where;
    size_t where_room;
    /* private: impulses of the call before, sorted */
    struct fsi__reduced_past *past;
    size_t past_room;
    int past_count;
    /* private: [all degrees of freedom] what fsi_reduced_contact_hold gave */
    fsi_real *held;
    size_t held_room;
    int bodies, holds; /* private: bodies of the last call; 1: held is in their velocities */
    fsi_real dt;       /* private: of the last call */
    fsi_real depth;    /* deepest overlap met by the last call, m */
    /* energy that opening overlaps and moving obstacles put in during the last call, J: without it
     * energy never grows */
    double work;
    fsi_allocator allocator;
} fsi_reduced_contacts;

/* Stage 3: between fsi_reduced_forces (and the coupling) and fsi_reduced_move. Zero-initialise c,
 * set its knobs. */
FSI_API fsi_result fsi_reduced_contact(fsi_reduced_contacts *c, fsi_reduced **body, int body_count,
                                       const fsi_obstacle *obstacle, int obstacle_count,
                                       fsi_real dt);
/* Optional, between fsi_reduced_forces and the coupled solve: the contacts of the last call press
   once more as they did for two steps, at the present places, and fsi_reduced_contact takes that
   back before it solves anew. A fluid then sees resting bodies at rest. Without it every solve
   begins with bodies that fall for dt: a heap pumps water through itself at g dt. Same bodies in
   the same order as in the last call, else nothing is held. */
FSI_API fsi_result fsi_reduced_contact_hold(fsi_reduced_contacts *c, fsi_reduced **body,
                                            int body_count, fsi_real dt);
/* The impulses that the next call starts from: bytes now, copy out, copy in (may allocate). With
 * the bodies' own states a run continues bit for bit. */
FSI_API size_t fsi_reduced_contacts_state_size(const fsi_reduced_contacts *c);
FSI_API fsi_result fsi_reduced_contacts_save(const fsi_reduced_contacts *c, void *out);
FSI_API fsi_result fsi_reduced_contacts_restore(fsi_reduced_contacts *c, const void *in);
FSI_API void fsi_reduced_contacts_free(fsi_reduced_contacts *c);

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
   reaches from 0 (excess(0) <= 0 is taken for granted), by the parabola through three points, then
   between a safe and an unsafe share. excess is called with the result last, so that its state is
   of that share. */
static double fsi__safe_share(double (*excess)(double share, void *user), void *user) {
    double e[3], lo = 0, hi = 1;
    e[2] = excess(1, user);
    if (!(e[2] > 0))
        return 1;
    e[1] = excess(0.5, user);
    e[0] = excess(0, user);
    /* a t^2 + b t + e[0], its larger zero */
    double a = 2 * (e[2] - 2 * e[1] + e[0]);
    double b = e[2] - e[0] - a;
    double root = b * b - 4 * a * e[0];
    double t = root < 0 ? 0 : b > 0 ? -2 * e[0] / (b + sqrt(root)) : (sqrt(root) - b) / (2 * a);
    if (!(e[1] > 0)) {
        lo = 0.5;
        e[0] = e[1];
    } else {
        hi = 0.5;
        e[2] = e[1];
    }
    for (int k = 0; k < 8; k++) {
        if (!(t > lo && t < hi))
            t = (lo + hi) / 2;
        double at = excess(t, user);
        if (at > 0) {
            hi = t;
            e[2] = at;
        } else {
            lo = t;
            e[0] = at;
        }
        if (at <= 0 && at > -1e-6 * e[2])
            break;
        t = lo + (hi - lo) * e[0] / (e[0] - e[2]);
    }
    if (t != lo)
        excess(lo, user);
    return lo;
}

/* ------------------------------------------------------------------------------------------------
 * >>mesh mass */
/* Closed: the directed edges (2D: the ends of segments) pair up, each with exactly one opposite. */
static fsi_result fsi__mesh_closed(const fsi_surface *m, const fsi_allocator *al) {
    size_t n = (size_t)m->element_count, edges = n * (size_t)m->dim,
           bytes = 2 * edges * sizeof(uint64_t);
    uint64_t *key = (uint64_t *)fsi_alloc(al, bytes);
    fsi_result r = FSI_OK;
    if (!key)
        return FSI_ERR_MEMORY;
    for (size_t i = 0; i < edges; i++) {
        size_t k = i % (size_t)m->dim;
        int a = m->index[i], b = m->dim == 3 ? m->index[i - k + (k + 1) % 3] : 0;
        key[i] = m->dim == 3 ? fsi__pair_key(a, b) : fsi__pair_key(a, (int)k);
    }
    uint64_t *sorted = fsi__sort_keys(edges, key, key + edges);
    for (size_t i = 0; i < edges && r == FSI_OK; i++) {
        int a = (int)(sorted[i] >> 32), b = (int)(sorted[i] & 0xffffffffu);
        uint64_t back = m->dim == 3 ? fsi__pair_key(b, a) : fsi__pair_key(a, 1 - b);
        size_t at = fsi__lower_bound(edges, sorted, back);
        if ((i > 0 && sorted[i] == sorted[i - 1]) || at == edges || sorted[at] != back)
            r = FSI_ERR_GEOMETRY;
    }
    fsi_free(al, key, bytes);
    return r;
}

/* Moments of the cone from origin o to every element: m[0] volume, m[1..3] first, m[4..9] second xx
 * yy zz xy xz yz. */
static void fsi__mesh_moments(const fsi_surface *s, fsi_vec3 o, double *m) {
    for (int i = 0; i < 10; i++)
        m[i] = 0;
    for (int e = 0; e < s->element_count; e++) {
        double p[3][3] = {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}}, t[3];
        const int32_t *id = s->index + (size_t)s->dim * (size_t)e;
        for (int k = 0; k < s->dim; k++) {
            const fsi_real *x = s->x + 3 * (size_t)id[k];
            p[k][0] = (double)(x[0] - o.x);
            p[k][1] = (double)(x[1] - o.y);
            p[k][2] = s->dim == 3 ? (double)(x[2] - o.z) : 0;
        }
        double v;
        if (s->dim == 3)
            v = (p[0][0] * (p[1][1] * p[2][2] - p[1][2] * p[2][1])
                 + p[0][1] * (p[1][2] * p[2][0] - p[1][0] * p[2][2]) +
                 /* a . (b x c) / 6 */
                 p[0][2] * (p[1][0] * p[2][1] - p[1][1] * p[2][0]))
                / 6;
        /* a x b / 2 */
        else
            v = (p[0][0] * p[1][1] - p[0][1] * p[1][0]) / 2;
        for (int i = 0; i < 3; i++)
            t[i] = p[0][i] + p[1][i] + p[2][i];
        m[0] += v;
        for (int i = 0; i < 3; i++)
            m[1 + i] += v * t[i] / (s->dim + 1);
        /* int x_a x_b = V/20 (sum p_a p_b + t_a t_b); 2D: A/12 */
        for (int i = 0; i < 6; i++) {
            int a = i < 3 ? i : i < 5 ? 0 : 1, b = i < 3 ? i : i == 3 ? 1 : 2;
            m[4 + i] += v
                        * (p[0][a] * p[0][b] + p[1][a] * p[1][b] + p[2][a] * p[2][b] + t[a] * t[b])
                        / (s->dim == 3 ? 20 : 12);
        }
    }
}

FSI_API fsi_result fsi_mesh_mass(const fsi_surface *mesh, const fsi_allocator *allocator,
                                 fsi_real *volume, fsi_vec3 *com, fsi_mat3 *inertia) {
    double m[10], c[3];
    if (!mesh || !volume || !com || !inertia || !fsi_allocator_valid(allocator))
        return FSI_ERR_ARGUMENT;
    fsi_result r = fsi_surface_check(mesh);
    if (r != FSI_OK)
        return r;
    if (mesh->element_count == 0)
        return FSI_ERR_GEOMETRY;
    for (int e = 0; e < mesh->element_count; e++) {
        const int32_t *id = mesh->index + (size_t)mesh->dim * (size_t)e;
        fsi_real longest = 0, area = fsi__length(fsi_surface_normal(mesh, e));
        for (int k = 0; k < mesh->dim; k++) {
            fsi_vec3 d = fsi_vec_sub(fsi_vec_load(mesh->x + 3 * (size_t)id[k]),
                                     fsi_vec_load(mesh->x + 3 * (size_t)id[(k + 1) % mesh->dim]));
            longest = fsi__max(longest, fsi_vec_dot(d, d));
        }
        if (!(area > 64 * FSI_REAL_EPS * (mesh->dim == 3 ? longest : fsi__sqrt(longest))))
            return FSI_ERR_GEOMETRY;
    }
    r = fsi__mesh_closed(mesh, allocator);
    if (r != FSI_OK)
        return r;
    /* near the mesh: no cancellation far from the origin */
    fsi_vec3 o = fsi_vec_load(mesh->x + 3 * (size_t)mesh->index[0]);
    fsi__mesh_moments(mesh, o, m);
    if (!(m[0] > 0))
        return FSI_ERR_GEOMETRY; /* inside-out */
    for (int k = 0; k < 3; k++)
        c[k] = m[1 + k] / m[0];
    double xx = m[4] - m[0] * c[0] * c[0];
    double yy = m[5] - m[0] * c[1] * c[1];
    double zz = m[6] - m[0] * c[2] * c[2];
    double xy = m[7] - m[0] * c[0] * c[1];
    double xz = m[8] - m[0] * c[0] * c[2];
    double yz = m[9] - m[0] * c[1] * c[2];
    *volume = (fsi_real)m[0];
    *com = fsi_vec_add(
        o, fsi_vec((fsi_real)c[0], (fsi_real)c[1], mesh->dim == 3 ? (fsi_real)c[2] : -o.z));
    memset(inertia, 0, sizeof *inertia);
    inertia->m[8] = (fsi_real)(xx + yy);
    if (mesh->dim == 2)
        return FSI_OK;
    inertia->m[0] = (fsi_real)(yy + zz);
    inertia->m[4] = (fsi_real)(xx + zz);
    inertia->m[1] = inertia->m[3] = (fsi_real)-xy;
    inertia->m[2] = inertia->m[6] = (fsi_real)-xz;
    inertia->m[5] = inertia->m[7] = (fsi_real)-yz;
    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>tessellation */
#define FSI__TORUS_POINTS 32

/* n around; rings of the profile; loop: closed profile */
typedef struct fsi__tess {
    int n, rings, loop, vertices, elements;
} fsi__tess;

static fsi__tess fsi__tess_size(const fsi_shape_desc *d) {
    fsi__tess t;
    int round = d->kind == FSI_SHAPE_SPHERE || d->kind == FSI_SHAPE_CAPSULE;
    memset(&t, 0, sizeof t);
    t.n = d->resolution;
    t.loop = d->kind == FSI_SHAPE_TORUS;
    if (d->kind == FSI_SHAPE_BOX) {
        t.vertices = d->dim == 3 ? 8 : 4;
        t.elements = d->dim == 3 ? 12 : 4;
    } else if (round && d->dim == 2) {
        if (d->kind == FSI_SHAPE_CAPSULE)
            t.n += t.n & 1;
        t.vertices = t.elements = t.n + (d->kind == FSI_SHAPE_CAPSULE ? 2 : 0);
    } else if (round) {
        t.rings =
            d->resolution / 2 - 1 + (d->kind == FSI_SHAPE_CAPSULE ? 1 + d->resolution / 2 % 2 : 0);
        t.vertices = t.n * t.rings + 2;
        t.elements = 2 * t.n * t.rings;
    } else if (t.loop) {
        t.rings = d->resolution / 2 > 6 ? d->resolution / 2 : 6;
        t.vertices = t.n * t.rings;
        t.elements = 2 * t.n * t.rings;
    }
    return t;
}

/* Ring i (0 .. rings - 1) of the profile: distance from the axis and position along it. */
static void fsi__tess_profile(const fsi_shape *s, const fsi__tess *t, int i, fsi_real radius,
                              fsi_real *r, fsi_real *along) {
    if (t->loop) {
        fsi_real a = 2 * FSI_PI * (fsi_real)i / (fsi_real)t->rings;
        *r = s->length + radius * fsi__sin(a);
        *along = radius * fsi__cos(a);
        /* both hemispheres end in a ring at the equator */
    } else if (s->kind == FSI_SHAPE_CAPSULE) {
        int half = t->rings / 2;
        fsi_real a = FSI_PI / 2 * (fsi_real)(i < half ? i + 1 : i) / (fsi_real)half;
        *r = radius * fsi__sin(a);
        *along = radius * fsi__cos(a) + (i < half ? s->length / 2 : -s->length / 2);
    } else {
        fsi_real a = FSI_PI * (fsi_real)(i + 1) / (fsi_real)(t->rings + 1);
        *r = radius * fsi__sin(a);
        *along = radius * fsi__cos(a);
    }
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

static void fsi__tess_round3(const fsi_shape *s, const fsi__tess *t, fsi_real radius, fsi_real *x,
                             int32_t *id) {
    int n = t->n, first = t->loop ? 0 : 1, last = t->rings - (t->loop ? 0 : 1),
        end = t->vertices - 1;
    fsi_real tip = radius + (s->kind == FSI_SHAPE_CAPSULE ? s->length / 2 : 0);
    if (!t->loop)
        x = fsi__put(x, tip, 0, 0);
    for (int i = 0; i < t->rings; i++)
        for (int j = 0; j < n; j++) {
            fsi_real r, along, a = 2 * FSI_PI * (fsi_real)j / (fsi_real)n;
            fsi__tess_profile(s, t, i, radius, &r, &along);
            fsi_real c = r * fsi__cos(a);
            fsi_real d = r * fsi__sin(a);
            /* axes cyclic: orientation is kept */
            x = t->loop ? fsi__put(x, d, along, c) : fsi__put(x, along, c, d);
        }
    if (!t->loop)
        (void)fsi__put(x, -tip, 0, 0);
    for (int i = 0; i < last; i++)
        /* profile direction x direction around = outward */
        for (int j = 0; j < n; j++) {
            int i1 = (i + 1) % t->rings, j1 = (j + 1) % n, a = first + i * n + j,
                b = first + i1 * n + j, c = first + i1 * n + j1, d = first + i * n + j1;
            id = fsi__triangle(fsi__triangle(id, a, b, c), a, c, d);
        }
    for (int j = 0; j < n && !t->loop; j++) {
        id = fsi__triangle(id, 0, 1 + j, 1 + (j + 1) % n);
        id = fsi__triangle(id, end, end - n + (j + 1) % n, end - n + j);
    }
}

static void fsi__tess_round2(const fsi_shape *s, const fsi__tess *t, fsi_real radius, fsi_real *x,
                             int32_t *id) {
    int half = t->n / 2, capsule = s->kind == FSI_SHAPE_CAPSULE;
    for (int i = 0; i < t->vertices; i++) {
        /* capsule: two half circles of half + 1 vertices */
        int right = i <= half;
        fsi_real a = 2 * FSI_PI * (fsi_real)(capsule && !right ? i - 1 : i) / (fsi_real)t->n
                     - (capsule ? FSI_PI / 2 : 0);
        x = fsi__put(
            x, radius * fsi__cos(a) + (capsule ? (right ? s->length / 2 : -s->length / 2) : 0),
            radius * fsi__sin(a), 0);
        *id++ = i;
        *id++ = (i + 1) % t->vertices;
    }
}

static void fsi__tess_box(const fsi_shape *s, fsi_real *x, int32_t *id) {
    static const int8_t face[36] = {0, 4, 6, 0, 6, 2, 1, 3, 7, 1, 7, 5, 0, 1, 5, 0, 5, 4,
                                    2, 6, 7, 2, 7, 3, 0, 2, 3, 0, 3, 1, 4, 5, 7, 4, 7, 6};
    static const int8_t loop[8] = {0, 1, 1, 3, 3, 2, 2, 0};
    for (int i = 0; i < (s->dim == 3 ? 8 : 4); i++)
        x = fsi__put(x, i & 1 ? s->half.x : -s->half.x, i & 2 ? s->half.y : -s->half.y,
                     s->dim == 2 ? 0
                     : i & 4     ? s->half.z
                                 : -s->half.z);
    for (int i = 0; i < (s->dim == 3 ? 36 : 8); i++)
        id[i] = s->dim == 3 ? face[i] : loop[i];
}

/* Fills the surface of an analytic kind. Round ones are blown up slightly so that the volume is
 * exact: buoyancy comes out right. */
static void fsi__tess_fill(fsi_shape *s, const fsi__tess *t, fsi_real *x, int32_t *id) {
    fsi_real radius = s->radius;
    if (s->kind == FSI_SHAPE_BOX) {
        fsi__tess_box(s, x, id);
        return;
    }
    for (int pass = 0; pass < 24; pass++) {
        double m[10];
        if (s->dim == 3)
            fsi__tess_round3(s, t, radius, x, id);
        else
            fsi__tess_round2(s, t, radius, x, id);
        fsi__mesh_moments(&s->surface, fsi_vec(0, 0, 0), m);
        radius *= 1 + FSI_R(0.4) * (s->volume / (fsi_real)m[0] - 1);
    }
}

/* ------------------------------------------------------------------------------------------------
 * >>shapes */
static void fsi__inertia_diag(fsi_shape *s, fsi_real xx, fsi_real yy, fsi_real zz) {
    if (s->dim == 3) {
        s->inertia.m[0] = s->volume * xx;
        s->inertia.m[4] = s->volume * yy;
    }
    s->inertia.m[8] = s->volume * zz;
}

static void fsi__shape_analytic(fsi_shape *s) {
    fsi_real r = s->radius, l = s->length, rr = r * r;
    fsi_vec3 h = s->half;
    int d3 = s->dim == 3;
    switch (s->kind) {
    case FSI_SHAPE_SPHERE:
        s->volume = d3 ? 4 * FSI_PI / 3 * rr * r : FSI_PI * rr;
        fsi__inertia_diag(s, FSI_R(0.4) * rr, FSI_R(0.4) * rr, (d3 ? FSI_R(0.4) : FSI_R(0.5)) * rr);
        s->hi = fsi_vec(r, r, d3 ? r : 0);
        s->bound = r;
        s->thin = r;
        break;
    case FSI_SHAPE_BOX:
        s->volume = 4 * h.x * h.y * (d3 ? 2 * h.z : 1);
        fsi__inertia_diag(s, (h.y * h.y + h.z * h.z) / 3, (h.x * h.x + h.z * h.z) / 3,
                          (h.x * h.x + h.y * h.y) / 3);
        s->hi = h;
        s->bound = fsi__length(h);
        s->thin = d3 ? fsi__min(h.z, fsi__min(h.x, h.y)) : fsi__min(h.x, h.y);
        break;
    case FSI_SHAPE_CAPSULE: {
        /* straight part, caps */
        fsi_real a = d3 ? FSI_PI * rr * l : 2 * r * l,
                 b = d3 ? 4 * FSI_PI / 3 * rr * r : FSI_PI * rr, v = a + b;
        fsi_real cross =
            d3 ? (a * (rr / 4 + l * l / 12)
                  + b * (FSI_R(0.4) * rr + l * l / 4 + FSI_R(0.375) * l * r))
                     / v
               : (a * (l * l + 4 * rr) / 12 + b * (rr / 2 + l * l / 4 + l * 4 * r / (3 * FSI_PI)))
                     / v;
        s->volume = v;
        fsi__inertia_diag(s, (a / 2 + FSI_R(0.4) * b) * rr / v, cross, cross);
        s->hi = fsi_vec(l / 2 + r, r, d3 ? r : 0);
        s->bound = l / 2 + r;
        s->thin = r;
        break;
    }
    default: /* torus */
        s->volume = 2 * FSI_PI * FSI_PI * l * rr;
        fsi__inertia_diag(s, l * l / 2 + FSI_R(0.625) * rr, l * l + FSI_R(0.75) * rr,
                          l * l / 2 + FSI_R(0.625) * rr);
        s->hi = fsi_vec(l + r, r, l + r);
        s->bound = l + r;
        s->thin = r;
        break;
    }
    s->lo = fsi_vec_scale(s->hi, -1);
}

static int fsi__shape_static(fsi_shape_kind k) {
    return k == FSI_SHAPE_PLANE || k == FSI_SHAPE_ROOM || k == FSI_SHAPE_HEIGHT;
}

static int fsi__positive(fsi_real x) {
    return fsi__finite(x) && x > 0;
}

static fsi_result fsi__shape_check(const fsi_shape_desc *d) {
    int box = fsi__positive(d->half.x) && fsi__positive(d->half.y)
              && (d->dim == 2 || fsi__positive(d->half.z));
    size_t n;
    if ((d->dim != 2 && d->dim != 3) || !fsi_allocator_valid(&d->allocator) || d->resolution < 6
        || d->resolution > 4096)
        return FSI_ERR_ARGUMENT;
    switch (d->kind) {
    case FSI_SHAPE_SPHERE:
        return fsi__positive(d->radius) ? FSI_OK : FSI_ERR_ARGUMENT;
    case FSI_SHAPE_BOX:
    case FSI_SHAPE_ROOM:
        return box ? FSI_OK : FSI_ERR_ARGUMENT;
    case FSI_SHAPE_CAPSULE:
        return fsi__positive(d->radius) && fsi__finite(d->length) && d->length >= 0
                   ? FSI_OK
                   : FSI_ERR_ARGUMENT;
    case FSI_SHAPE_TORUS:
        return d->dim == 3 && fsi__positive(d->radius) && fsi__finite(d->length)
                       && d->length > d->radius
                   ? FSI_OK
                   : FSI_ERR_ARGUMENT;
    case FSI_SHAPE_MESH:
        return d->surface && d->surface->dim == d->dim && d->sdf_cells >= 4 && d->sdf_cells <= 512
                   ? FSI_OK
                   : FSI_ERR_ARGUMENT;
    case FSI_SHAPE_PLANE:
        return FSI_OK;
    case FSI_SHAPE_HEIGHT:
        if (!d->height || d->nx < 2 || !fsi__positive(d->spacing)
            || (d->dim == 3 ? d->nz < 2 : d->nz != 1))
            return FSI_ERR_ARGUMENT;
        return fsi_size_mul((size_t)d->nx, (size_t)d->nz, &n) && n < 0x7fffffffu
                       && fsi_all_finite(n, d->height)
                   ? FSI_OK
                   : FSI_ERR_ARGUMENT;
    case FSI_SHAPE_COMPOUND:
        if (!d->part || d->part_count < 1 || d->part_count > 4096)
            return FSI_ERR_ARGUMENT;
        for (int i = 0; i < d->part_count; i++) {
            const fsi_shape_part *p = d->part + i;
            if (!p->shape || p->shape->dim != d->dim || fsi__shape_static(p->shape->kind)
                || p->shape->kind == FSI_SHAPE_COMPOUND)
                return FSI_ERR_ARGUMENT;
            if (!fsi__finite_vec(p->x) || !fsi__finite(p->density) || p->density < 0)
                return FSI_ERR_ARGUMENT;
            if (!fsi__finite(p->q.w) || !fsi__finite_vec(fsi_vec(p->q.x, p->q.y, p->q.z)))
                return FSI_ERR_ARGUMENT;
        }
        return FSI_OK;
    default:
        return FSI_ERR_ARGUMENT;
    }
}

static void fsi__grow(fsi_vec3 *lo, fsi_vec3 *hi, fsi_vec3 p) {
    lo->x = fsi__min(lo->x, p.x);
    lo->y = fsi__min(lo->y, p.y);
    lo->z = fsi__min(lo->z, p.z);
    hi->x = fsi__max(hi->x, p.x);
    hi->y = fsi__max(hi->y, p.y);
    hi->z = fsi__max(hi->z, p.z);
}

/* I += R A R^T + m (|d|^2 1 - d d^T): A moved by d (parallel axes) */
static void fsi__inertia_add(fsi_mat3 *I, const fsi_mat3 *A, fsi_quat q, fsi_real density,
                             fsi_real m, fsi_vec3 d, int dim) {
    fsi_mat3 R = fsi_quat_matrix(q), B = fsi_mat3_rotate(&R, A);
    fsi_real dd = fsi_vec_dot(d, d), c[3];
    fsi_vec_store(c, d);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            if (dim == 3 || (i == 2 && j == 2))
                I->m[3 * i + j] += density * B.m[3 * i + j] + m * ((i == j ? dd : 0) - c[i] * c[j]);
}

/* Parts are copied, their poses moved to the common centre of mass; mass properties of parts are
 * added. */
static void fsi__shape_compound(fsi_shape *s, const fsi_shape_desc *d) {
    fsi_vec3 c = fsi_vec(0, 0, 0);
    fsi_real m = 0;
    for (int i = 0; i < d->part_count; i++) {
        fsi_shape_part *p = s->part + i;
        *p = d->part[i];
        p->q = fsi_quat_unit(p->q);
        if (p->density == 0)
            p->density = 1;
        s->volume += p->shape->volume;
        m += p->density * p->shape->volume;
        c = fsi_vec_mad(c, p->x, p->density * p->shape->volume);
    }
    s->com = fsi_vec_scale(c, 1 / m);
    s->thin = FSI_REAL_MAX;
    for (int i = 0; i < d->part_count; i++) {
        fsi_shape_part *p = s->part + i;
        p->x = fsi_vec_sub(p->x, s->com);
        s->thin = fsi__min(s->thin, p->shape->thin);
        fsi__inertia_add(&s->inertia, &p->shape->inertia, p->q, p->density,
                         p->density * p->shape->volume, p->x, s->dim);
    }
    s->density_mean = m / s->volume;
}

/* Joined surfaces of the parts, in the compound's frame. */
static void fsi__compound_surface(fsi_shape *s, fsi_real *x, int32_t *id) {
    int first = 0;
    for (int i = 0; i < s->part_count; i++) {
        const fsi_shape_part *p = s->part + i;
        const fsi_surface *f = &p->shape->surface;
        for (int j = 0; j < f->vertex_count; j++, x += 3)
            fsi_vec_store(
                x, fsi_vec_add(p->x, fsi_quat_rotate(p->q, fsi_vec_load(f->x + 3 * (size_t)j))));
        for (int j = 0; j < f->element_count * f->dim; j++)
            *id++ = first + f->index[j];
        first += f->vertex_count;
    }
}

/* One row of the distance grid. The sign changes only where the surface can be between two nodes:
 * |d| + |d'| <= spacing. */
static void fsi__sdf_row(const fsi_shape *s, const fsi_bvh *bvh, fsi_real *out, int j, int k) {
    fsi_real before = 0;
    int inside = 0;
    for (int i = 0; i < s->nx; i++) {
        fsi_vec3 p = fsi_vec_add(
            s->origin, fsi_vec_scale(fsi_vec((fsi_real)i, (fsi_real)j, (fsi_real)k), s->spacing));
        fsi_hit hit;
        fsi_real d = fsi_bvh_closest(bvh, p, FSI_REAL_MAX, &hit) ? hit.t : 0;
        if (i > 0 && before + d <= s->spacing * FSI_R(1.001))
            inside = fsi_bvh_inside(bvh, p);
        out[i] = inside ? -d : d;
        before = d;
    }
}

static fsi_result fsi__sdf_fill(fsi_shape *s, fsi_real *grid, const fsi_allocator *al) {
    fsi_bvh bvh;
    fsi_result r = fsi_bvh_init(&bvh, s->surface.element_count, al);
    ptrdiff_t rows = (ptrdiff_t)s->ny * s->nz;
    if (r != FSI_OK)
        return r;
    r = fsi_bvh_build(&bvh, &s->surface);
    if (r == FSI_OK) {
        FSI__OMP(parallel for schedule(static))
        for (ptrdiff_t row = 0; row < rows; row++)
            fsi__sdf_row(s, &bvh, grid + row * s->nx, (int)(row % s->ny), (int)(row / s->ny));
    }
    fsi_bvh_free(&bvh);
    return r;
}

/* Size of the distance grid: two cells of room around the mesh, so its border is outside. */
static void fsi__sdf_size(fsi_shape *s, const fsi_shape_desc *d) {
    fsi_vec3 e = fsi_vec_sub(s->hi, s->lo);
    s->spacing = fsi__max(e.x, fsi__max(e.y, e.z)) / (fsi_real)d->sdf_cells;
    s->nx = (int)fsi__ceil(e.x / s->spacing) + 5;
    s->ny = (int)fsi__ceil(e.y / s->spacing) + 5;
    s->nz = s->dim == 3 ? (int)fsi__ceil(e.z / s->spacing) + 5 : 1;
    s->origin = fsi_vec_sub(
        s->lo, fsi_vec_scale(fsi_vec(1, 1, s->dim == 3 ? FSI_R(1.) : FSI_R(0.)), 2 * s->spacing));
}

typedef struct fsi__shape_arrays {
    fsi_real *x, *point, *grid;
    int32_t *index;
} fsi__shape_arrays;

static void fsi__shape_layout(fsi_shape *s, fsi__shape_arrays *a, fsi_arena *arena) {
    size_t cells = s->grid_cells;
    FSI__TAKE(s->part, fsi_shape_part, arena, (size_t)s->part_count);
    FSI__TAKE(a->x, fsi_real, arena, 3 * (size_t)s->surface.vertex_count);
    FSI__TAKE(a->index, int32_t, arena, (size_t)s->dim * (size_t)s->surface.element_count);
    FSI__TAKE(a->point, fsi_real, arena, 3 * (size_t)s->point_count);
    FSI__TAKE(a->grid, fsi_real, arena, cells);
}

/* Counts of everything the block will hold, and the mass properties of a mesh. */
static fsi_result fsi__shape_plan(fsi_shape *s, const fsi_shape_desc *d) {
    fsi__tess t = fsi__tess_size(d);
    size_t n = 0;
    s->kind = d->kind;
    s->dim = d->dim;
    s->radius = d->radius;
    s->length = d->length;
    s->half = d->half;
    s->allocator = d->allocator;
    if (s->dim == 2)
        s->half.z = 0;
    s->surface.dim = d->dim;
    s->surface.closed = 1;
    s->surface.vertex_count = t.vertices;
    s->surface.element_count = t.elements;
    s->point_radius = d->kind == FSI_SHAPE_BOX ? 0 : s->radius;
    s->point_count = d->kind == FSI_SHAPE_SPHERE    ? 1
                     : d->kind == FSI_SHAPE_BOX     ? t.vertices
                     : d->kind == FSI_SHAPE_CAPSULE ? 2
                     : d->kind == FSI_SHAPE_TORUS   ? FSI__TORUS_POINTS
                                                    : 0;
    if (d->kind == FSI_SHAPE_MESH) {
        fsi_result r = fsi_mesh_mass(d->surface, &d->allocator, &s->volume, &s->com, &s->inertia);
        if (r != FSI_OK)
            return r;
        s->point_radius = 0;
        s->surface.vertex_count = s->point_count = d->surface->vertex_count;
        s->surface.element_count = d->surface->element_count;
        s->lo = fsi_vec(FSI_REAL_MAX, FSI_REAL_MAX, FSI_REAL_MAX);
        s->hi = fsi_vec_scale(s->lo, -1);
        for (size_t i = 0; i < (size_t)d->surface->vertex_count; i++)
            fsi__grow(&s->lo, &s->hi, fsi_vec_sub(fsi_vec_load(d->surface->x + 3 * i), s->com));
        if (s->dim == 2)
            s->lo.z = s->hi.z = 0;
        fsi__sdf_size(s, d);
        if (!fsi_size_mul((size_t)s->nx * (size_t)s->ny, (size_t)s->nz, &n))
            return FSI_ERR_SIZE;
    } else if (d->kind == FSI_SHAPE_COMPOUND) {
        s->part_count = d->part_count;
        for (size_t i = 0; i < (size_t)d->part_count; i++) {
            s->surface.vertex_count += d->part[i].shape->surface.vertex_count;
            s->surface.element_count += d->part[i].shape->surface.element_count;
        }
    } else if (d->kind == FSI_SHAPE_HEIGHT) {
        s->nx = d->nx;
        s->ny = 1;
        s->nz = d->nz;
        s->spacing = d->spacing;
        s->origin = fsi_vec((fsi_real)(d->nx - 1) * d->spacing / -2, 0,
                            (fsi_real)(d->nz - 1) * d->spacing / -2);
        n = (size_t)d->nx * (size_t)d->nz;
    }
    s->grid_cells = n;
    return FSI_OK;
}

/* Fills the arrays of a planned shape. */
static fsi_result fsi__shape_fill(fsi_shape *s, const fsi_shape_desc *d, fsi__shape_arrays *a) {
    fsi__tess t = fsi__tess_size(d);
    fsi_result r = FSI_OK;
    s->surface.x = a->x;
    s->surface.index = a->index;
    s->point = a->point;
    s->grid = a->grid;
    if (fsi__shape_static(d->kind)) {
        s->hi = fsi_vec(FSI_REAL_MAX, FSI_REAL_MAX, FSI_REAL_MAX);
        s->lo = fsi_vec_scale(s->hi, -1);
        s->bound = s->thin = FSI_REAL_MAX;
        if (d->kind == FSI_SHAPE_HEIGHT)
            fsi_copy(s->grid_cells, d->height, a->grid);
        return FSI_OK;
    }
    if (d->kind == FSI_SHAPE_MESH) {
        for (int i = 0; i < s->point_count; i++) {
            fsi_vec3 p = fsi_vec_sub(fsi_vec_load(d->surface->x + 3 * (size_t)i), s->com);
            if (s->dim == 2)
                p.z = 0;
            s->bound = fsi__max(s->bound, fsi__length(p));
            fsi_vec_store(a->x + 3 * (size_t)i, p);
            fsi_vec_store(a->point + 3 * (size_t)i, p);
        }
        memcpy(a->index, d->surface->index,
               (size_t)s->dim * (size_t)s->surface.element_count * sizeof(int32_t));
        r = fsi__sdf_fill(s, a->grid, &d->allocator);
        s->thin = s->spacing;
    } else if (d->kind == FSI_SHAPE_COMPOUND) {
        fsi__shape_compound(s, d);
        fsi__compound_surface(s, a->x, a->index);
        s->lo = fsi_vec(FSI_REAL_MAX, FSI_REAL_MAX, FSI_REAL_MAX);
        s->hi = fsi_vec_scale(s->lo, -1);
        for (int i = 0; i < s->surface.vertex_count; i++)
            fsi__grow(&s->lo, &s->hi, fsi_vec_load(a->x + 3 * (size_t)i));
        for (int i = 0; i < s->part_count; i++)
            s->bound = fsi__max(s->bound, fsi__length(s->part[i].x) + s->part[i].shape->bound);
    } else {
        fsi__shape_analytic(s);
        fsi__tess_fill(s, &t, a->x, a->index);
        if (d->kind == FSI_SHAPE_BOX)
            fsi_copy(3 * (size_t)t.vertices, a->x, a->point);
        if (d->kind == FSI_SHAPE_CAPSULE) {
            a->point[0] = d->length / 2;
            a->point[3] = -d->length / 2;
        }
        for (int i = 0; i < FSI__TORUS_POINTS && d->kind == FSI_SHAPE_TORUS; i++) {
            fsi_real ang = 2 * FSI_PI * (fsi_real)i / FSI__TORUS_POINTS;
            fsi__put(a->point + 3 * i, d->length * fsi__sin(ang), 0, d->length * fsi__cos(ang));
        }
    }
    return r;
}

FSI_API fsi_result fsi_shape_init(fsi_shape *s, const fsi_shape_desc *desc) {
    if (!s)
        return FSI_ERR_ARGUMENT;
    memset(s, 0, sizeof *s);
    fsi_arena arena;
    memset(&arena, 0, sizeof arena);
    fsi__shape_arrays a;
    memset(&a, 0, sizeof a);
    if (!desc)
        return FSI_ERR_ARGUMENT;
    fsi_shape_desc d = *desc;
    if (d.dim == 0)
        d.dim = 3;
    if (d.resolution == 0)
        d.resolution = 24;
    if (d.sdf_cells == 0)
        d.sdf_cells = 32;
    fsi_result r = fsi__shape_check(&d);
    if (r == FSI_OK)
        r = fsi__shape_plan(s, &d);
    if (r != FSI_OK) {
        memset(s, 0, sizeof *s);
        return r;
    }
    s->density_mean = 1;
    fsi__shape_layout(s, &a, &arena);
    if (arena.failed || arena.used > 0)
        r = fsi__arena_block(&arena, &s->allocator, &s->block, &s->block_size);
    if (r != FSI_OK) {
        memset(s, 0, sizeof *s);
        return r;
    }
    if (s->block)
        fsi__shape_layout(s, &a, &arena);
    r = fsi__shape_fill(s, &d, &a);
    /* sizes overflow */
    if (r == FSI_OK && !(fsi__finite(s->volume) && fsi_all_finite(9, s->inertia.m)))
        r = FSI_ERR_ARGUMENT;
    if (r != FSI_OK)
        fsi_shape_free(s);
    return r;
}

FSI_API void fsi_shape_free(fsi_shape *s) {
    if (!s)
        return;
    fsi_free(&s->allocator, s->block, s->block_size);
    memset(s, 0, sizeof *s);
}

/* ------------------------------------------------------------------------------------------------
 * >>distance */
static fsi_real fsi__sign(fsi_real x) {
    return x < 0 ? FSI_R(-1.) : FSI_R(1.);
}

/* of q; n: unit along it with the sign in s */
static fsi_real fsi__largest_axis(fsi_vec3 q, fsi_vec3 s, fsi_vec3 *n) {
    if (q.x >= q.y && q.x >= q.z) {
        *n = fsi_vec(s.x, 0, 0);
        return q.x;
    }
    if (q.y >= q.z) {
        *n = fsi_vec(0, s.y, 0);
        return q.y;
    }
    *n = fsi_vec(0, 0, s.z);
    return q.z;
}

static fsi_real fsi__distance_box(fsi_vec3 h, int dim, fsi_vec3 p, fsi_vec3 *n) {
    fsi_vec3 q = fsi_vec(fsi__abs(p.x) - h.x, fsi__abs(p.y) - h.y,
                         dim == 3 ? fsi__abs(p.z) - h.z : -FSI_REAL_MAX);
    fsi_vec3 s = fsi_vec(fsi__sign(p.x), fsi__sign(p.y), fsi__sign(p.z));
    /* inside: nearest face */
    if (q.x <= 0 && q.y <= 0 && q.z <= 0)
        return fsi__largest_axis(q, s, n);
    fsi_vec3 o = fsi_vec(fsi__max(q.x, 0), fsi__max(q.y, 0), fsi__max(q.z, 0));
    fsi_real d = fsi__length(o);
    *n = fsi_vec(s.x * o.x / d, s.y * o.y / d, s.z * o.z / d);
    return d;
}

/* nearest of the walls */
static fsi_real fsi__distance_room(fsi_vec3 h, int dim, fsi_vec3 p, fsi_vec3 *n) {
    fsi_vec3 q = fsi_vec(fsi__abs(p.x) - h.x, fsi__abs(p.y) - h.y,
                         dim == 3 ? fsi__abs(p.z) - h.z : -FSI_REAL_MAX);
    return -fsi__largest_axis(q, fsi_vec(-fsi__sign(p.x), -fsi__sign(p.y), -fsi__sign(p.z)), n);
}

/* |v| - r with its gradient */
static fsi_real fsi__from_axis(fsi_vec3 v, fsi_real r, fsi_vec3 fallback, fsi_vec3 *n) {
    fsi_real d = fsi__length(v);
    *n = d > 0 ? fsi_vec_scale(v, 1 / d) : fallback;
    return d - r;
}

/* Cell of x on n nodes of the given spacing: index and fraction, clamped to the grid. */
static int fsi__cell(fsi_real x, int n, fsi_real *f) {
    x = fsi__clamp(x, 0, (fsi_real)(n - 1));
    int i = fsi__imin((int)x, fsi__imax(n - 2, 0));
    *f = x - (fsi_real)i;
    return i;
}

static fsi_real fsi__distance_height(const fsi_shape *s, fsi_vec3 p, fsi_vec3 *n) {
    fsi_real fx, fz;
    int i = fsi__cell((p.x - s->origin.x) / s->spacing, s->nx, &fx),
        k = fsi__cell((p.z - s->origin.z) / s->spacing, s->nz, &fz);
    const fsi_real *g = s->grid + (size_t)k * (size_t)s->nx + (size_t)i;
    size_t up = s->nz > 1 ? (size_t)s->nx : 0;
    fsi_real h00 = g[0];
    fsi_real h10 = g[1];
    fsi_real h01 = g[up];
    fsi_real h11 = g[up + 1];
    fsi_real h = (h00 * (1 - fx) + h10 * fx) * (1 - fz) + (h01 * (1 - fx) + h11 * fx) * fz;
    fsi_real dx = ((h10 - h00) * (1 - fz) + (h11 - h01) * fz) / s->spacing;
    fsi_real dz = ((h01 - h00) * (1 - fx) + (h11 - h10) * fx) / s->spacing;
    *n = fsi__unit(fsi_vec(-dx, 1, -dz));
    return (p.y - h) * n->y;
}

static fsi_real fsi__distance_grid(const fsi_shape *s, fsi_vec3 p, fsi_vec3 *n) {
    fsi_real f[3], d = 0, g[3] = {0, 0, 0};
    int i = fsi__cell((p.x - s->origin.x) / s->spacing, s->nx, f),
        j = fsi__cell((p.y - s->origin.y) / s->spacing, s->ny, f + 1);
    int k = fsi__cell((p.z - s->origin.z) / s->spacing, s->nz, f + 2);
    size_t sy = (size_t)s->nx, sz = s->nz > 1 ? (size_t)s->nx * (size_t)s->ny : 0;
    const fsi_real *v =
        s->grid + ((size_t)k * (size_t)s->ny + (size_t)j) * (size_t)s->nx + (size_t)i;
    fsi_vec3 at = fsi_vec_mad(
        s->origin, fsi_vec((fsi_real)i + f[0], (fsi_real)j + f[1], (fsi_real)k + f[2]), s->spacing);
    for (int c = 0; c < 8; c++) {
        fsi_real wx = c & 1 ? f[0] : 1 - f[0], wy = c & 2 ? f[1] : 1 - f[1],
                 wz = c & 4 ? f[2] : 1 - f[2];
        fsi_real a = v[(c & 1 ? 1 : 0) + (c & 2 ? sy : 0) + (c & 4 ? sz : 0)];
        d += wx * wy * wz * a;
        g[0] += (c & 1 ? a : -a) * wy * wz;
        g[1] += (c & 2 ? a : -a) * wx * wz;
        g[2] += (c & 4 ? a : -a) * wx * wy;
    }
    *n = fsi__unit(fsi_vec(g[0], g[1], s->dim == 3 ? g[2] : 0));
    fsi_real out = fsi__length(fsi_vec_sub(p, at));
    if (!(out > s->spacing * FSI_R(1e-3)))
        return d;
    /* beyond the grid: distance to the surface point found from its rim */
    fsi_vec3 surface = fsi_vec_mad(at, *n, -d);
    return fsi__from_axis(fsi_vec_sub(p, surface), 0, *n, n);
}

static fsi_quat fsi__quat_back(fsi_quat q) {
    q.x = -q.x;
    q.y = -q.y;
    q.z = -q.z;
    return q;
}

FSI_API fsi_real fsi_shape_distance(const fsi_shape *s, fsi_vec3 p, fsi_vec3 *normal) {
    fsi_vec3 n = fsi_vec(0, 1, 0), c;
    fsi_real d = FSI_REAL_MAX, ring;
    if (s->dim == 2)
        p.z = 0;
    switch (s->kind) {
    case FSI_SHAPE_SPHERE:
        d = fsi__from_axis(p, s->radius, n, &n);
        break;
    case FSI_SHAPE_BOX:
        d = fsi__distance_box(s->half, s->dim, p, &n);
        break;
    case FSI_SHAPE_CAPSULE:
        c = fsi_vec(fsi__clamp(p.x, -s->length / 2, s->length / 2), 0, 0);
        d = fsi__from_axis(fsi_vec_sub(p, c), s->radius, n, &n);
        break;
    case FSI_SHAPE_TORUS:
        ring = fsi__sqrt(p.x * p.x + p.z * p.z);
        c = ring > 0 ? fsi_vec(p.x * s->length / ring, 0, p.z * s->length / ring)
                     : fsi_vec(s->length, 0, 0);
        d = fsi__from_axis(fsi_vec_sub(p, c), s->radius, n, &n);
        break;
    case FSI_SHAPE_MESH:
        d = fsi__distance_grid(s, p, &n);
        break;
    case FSI_SHAPE_PLANE:
        d = p.y;
        break;
    case FSI_SHAPE_ROOM:
        d = fsi__distance_room(s->half, s->dim, p, &n);
        break;
    case FSI_SHAPE_HEIGHT:
        d = fsi__distance_height(s, p, &n);
        break;
    case FSI_SHAPE_COMPOUND:
        for (int i = 0; i < s->part_count; i++) {
            const fsi_shape_part *part = s->part + i;
            fsi_real e = fsi_shape_distance(
                part->shape, fsi_quat_rotate(fsi__quat_back(part->q), fsi_vec_sub(p, part->x)), &c);
            if (e < d) {
                d = e;
                n = fsi_quat_rotate(part->q, c);
            }
        }
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
/* R, world inverse inertia and angular velocity from q and L. In 2D only zz is kept. */
static void fsi__rigid_refresh(fsi_rigid *b, int dim) {
    b->rotation = fsi_quat_matrix(b->q);
    if (b->kind != FSI_RIGID_DYNAMIC)
        return;
    if (dim == 2)
        b->inverse_inertia.m[8] = b->inverse_inertia_body.m[8];
    else
        b->inverse_inertia = fsi_mat3_rotate(&b->rotation, &b->inverse_inertia_body);
    b->w = fsi_mat3_mul_vec(&b->inverse_inertia, b->L); /* w = I^-1 L */
}

/* dq/dt = q (0, w_body) / 2, w_body = I_body^-1 R^T L */
static fsi_quat fsi__quat_rate(const fsi_rigid *b, fsi_quat q) {
    fsi_vec3 w =
        fsi_mat3_mul_vec(&b->inverse_inertia_body, fsi_quat_rotate(fsi__quat_back(q), b->L));
    fsi_quat o;
    o.w = 0;
    o.x = w.x / 2;
    o.y = w.y / 2;
    o.z = w.z / 2;
    return fsi_quat_mul(q, o);
}

static fsi_quat fsi__quat_mad(fsi_quat q, fsi_quat d, fsi_real h) {
    q.w += h * d.w;
    q.x += h * d.x;
    q.y += h * d.y;
    q.z += h * d.z;
    return q;
}

/* Turns the body for h seconds with L fixed: free rotation by the classical fourth order
 * Runge-Kutta method; exact in 2D and for scripts. */
static void fsi__rigid_turn(fsi_rigid *b, fsi_real h, int dim) {
    if (b->kind != FSI_RIGID_DYNAMIC || dim == 2) {
        if (b->w.x == 0 && b->w.y == 0 && b->w.z == 0)
            return;
        b->q = fsi_quat_mul(fsi_quat_from_rotation(fsi_vec_scale(b->w, h)), b->q);
    } else {
        fsi_quat k1 = fsi__quat_rate(b, b->q),
                 k2 = fsi__quat_rate(b, fsi_quat_unit(fsi__quat_mad(b->q, k1, h / 2)));
        fsi_quat k3 = fsi__quat_rate(b, fsi_quat_unit(fsi__quat_mad(b->q, k2, h / 2))),
                 k4 = fsi__quat_rate(b, fsi_quat_unit(fsi__quat_mad(b->q, k3, h)));
        b->q = fsi__quat_mad(fsi__quat_mad(b->q, k1, h / 6), k2, h / 3);
        b->q = fsi__quat_mad(fsi__quat_mad(b->q, k3, h / 3), k4, h / 6);
    }
    b->q = fsi_quat_unit(b->q);
}

/* ------------------------------------------------------------------------------------------------
 * >>narrow phase */
/* Every pair is handled by the same rule: contact samples of one shape against the signed distance
   of the other, both ways. Samples are spheres, so balls, capsule ends and torus rings are exact;
   curves add their deepest point. Box against box needs faces and edges: separating axes and
   clipping. Contacts with a positive gap are kept within reach: the solver then only limits the
   approach to gap / h, so nothing tunnels. */
#define FSI__CANDIDATES 48
#define FSI__MANIFOLD 8

typedef struct fsi__pose {
    fsi_vec3 x;
    fsi_mat3 R;
} fsi__pose;

typedef struct fsi__point {
    fsi_vec3 at, normal;
    fsi_real gap;
    uint32_t feature;
} fsi__point;

typedef struct fsi__manifold {
    int count, limit;
    fsi_real reach, size; /* largest gap kept; length scale of the smaller shape */
    fsi__point p[FSI__CANDIDATES];
} fsi__manifold;

static fsi_vec3 fsi__pose_point(const fsi__pose *f, fsi_vec3 p) {
    return fsi_vec_add(f->x, fsi_mat3_mul_vec(&f->R, p));
}

static fsi_vec3 fsi__pose_local(const fsi__pose *f, fsi_vec3 p) {
    return fsi_mat3_tmul_vec(&f->R, fsi_vec_sub(p, f->x));
}

static void fsi__manifold_add(fsi__manifold *m, fsi_vec3 at, fsi_vec3 n, fsi_real gap,
                              uint32_t feature) {
    int worst = 0;
    if (!(gap < m->reach))
        return;
    if (m->count < FSI__CANDIDATES)
        worst = m->count++;
    else {
        for (int i = 1; i < m->count; i++)
            if (m->p[i].gap > m->p[worst].gap)
                worst = i;
        if (gap >= m->p[worst].gap)
            return;
    }
    m->p[worst].at = at;
    m->p[worst].normal = n;
    m->p[worst].gap = gap;
    m->p[worst].feature = feature;
}

/* Keeps the deepest point and then, again and again, the one farthest from those kept. */
static void fsi__manifold_reduce(fsi__manifold *m) {
    fsi_real near2[FSI__CANDIDATES], least = m->size * m->size * FSI_R(1e-4);
    int best = 0;
    for (int i = 0; i < m->count; i++) {
        near2[i] = FSI_REAL_MAX;
        if (m->p[i].gap < m->p[best].gap)
            best = i;
    }
    int kept;
    for (kept = 0; kept < m->count && kept < m->limit; kept++) {
        fsi__point p = m->p[best];
        fsi_real d2 = near2[best];
        if (kept > 0 && d2 < least)
            break; /* only copies are left */
        m->p[best] = m->p[kept];
        near2[best] = near2[kept];
        m->p[kept] = p;
        best = kept + 1;
        for (int i = kept + 1; i < m->count; i++) {
            fsi_vec3 d = fsi_vec_sub(m->p[i].at, p.at);
            near2[i] = fsi__min(near2[i], fsi_vec_dot(d, d));
            if (near2[i] > near2[best])
                best = i;
        }
    }
    m->count = kept;
}

typedef struct fsi__side {
    const fsi_shape *s;
    fsi__pose f;
} fsi__side;

/* Sphere of radius r at world point c, part of side A, against the distance of B; flip: A is the
 * second of the pair. */
static fsi_real fsi__sample(fsi__manifold *m, const fsi__side *B, fsi_vec3 c, fsi_real r, int flip,
                            uint32_t feature, int add) {
    fsi_vec3 n;
    fsi_real d = fsi_shape_distance(B->s, fsi__pose_local(&B->f, c), &n);
    if (add) {
        n = fsi_mat3_mul_vec(&B->f.R, n);
        fsi__manifold_add(m, fsi_vec_mad(c, n, -(r + d) / 2), flip ? fsi_vec_scale(n, -1) : n,
                          d - r, feature);
    }
    return d;
}

/* capsule: axis, t in 0..1; torus: ring, t in samples */
static fsi_vec3 fsi__curve(const fsi_shape *s, fsi_real t) {
    fsi_real a = 2 * FSI_PI * t / FSI__TORUS_POINTS;
    if (s->kind == FSI_SHAPE_CAPSULE)
        return fsi_vec(s->length * (FSI_R(0.5) - t), 0, 0);
    return fsi_vec(s->length * fsi__sin(a), 0, s->length * fsi__cos(a));
}

/* Deepest point of A's curve between t0 and t1: golden section (the distance of a convex B along a
 * segment is convex). */
static void fsi__curve_deepest(fsi__manifold *m, const fsi__side *A, const fsi__side *B,
                               fsi_real t0, fsi_real t1, int flip) {
    const fsi_real g = FSI_R(0.6180339887498949);
    fsi_real a = t0, b = t1, x = b - g * (b - a), y = a + g * (b - a);
    fsi_real fx = fsi__sample(m, B, fsi__pose_point(&A->f, fsi__curve(A->s, x)), 0, flip, 0, 0);
    fsi_real fy = fsi__sample(m, B, fsi__pose_point(&A->f, fsi__curve(A->s, y)), 0, flip, 0, 0);
    for (int i = 0; i < 20; i++) {
        if (fx < fy) {
            b = y;
            y = x;
            fy = fx;
            x = b - g * (b - a);
            fx = fsi__sample(m, B, fsi__pose_point(&A->f, fsi__curve(A->s, x)), 0, flip, 0, 0);
        } else {
            a = x;
            x = y;
            fx = fy;
            y = a + g * (b - a);
            fy = fsi__sample(m, B, fsi__pose_point(&A->f, fsi__curve(A->s, y)), 0, flip, 0, 0);
        }
    }
    x = (a + b) / 2;
    /* an end: has its own sample */
    if (x - t0 < FSI_R(0.01) * (t1 - t0) || t1 - x < FSI_R(0.01) * (t1 - t0))
        return;
    fsi__sample(m, B, fsi__pose_point(&A->f, fsi__curve(A->s, x)), A->s->point_radius, flip, 1000u,
                1);
}

/* All samples of A against B. */
static void fsi__collide_samples(fsi__manifold *m, const fsi__side *A, const fsi__side *B, int flip,
                                 uint32_t feature) {
    const fsi_shape *a = A->s, *b = B->s;
    fsi_real r = a->point_radius, least = FSI_REAL_MAX, room = r + m->reach;
    int best = 0, bounded = !fsi__shape_static(b->kind);
    if (b->kind == FSI_SHAPE_PLANE && fsi__pose_local(&B->f, A->f.x).y > a->bound + m->reach)
        return;
    for (int i = 0; i < a->point_count; i++) {
        fsi_vec3 c = fsi__pose_point(&A->f, fsi_vec_load(a->point + 3 * (size_t)i));
        if (bounded) {
            fsi_vec3 p = fsi__pose_local(&B->f, c);
            if (p.x < b->lo.x - room || p.x > b->hi.x + room || p.y < b->lo.y - room
                || p.y > b->hi.y + room || p.z < b->lo.z - room || p.z > b->hi.z + room)
                continue;
        }
        fsi_real d = fsi__sample(m, B, c, r, flip, feature + (uint32_t)i, 1);
        if (d < least) {
            least = d;
            best = i;
        }
    }
    if (a->kind == FSI_SHAPE_CAPSULE && bounded)
        fsi__curve_deepest(m, A, B, 0, 1, flip);
    if (a->kind == FSI_SHAPE_TORUS && least < room)
        fsi__curve_deepest(m, A, B, (fsi_real)best - 1, (fsi_real)best + 1, flip);
}

/* Points along the edges of box A against a mesh B: ridges longer than the box do not slip through
 * between corners. */
static void fsi__collide_edges(fsi__manifold *m, const fsi__side *A, const fsi__side *B, int flip) {
    fsi_vec3 h = A->s->half;
    int dims = A->s->dim;
    for (int e = 0; e < (dims == 3 ? 12 : 4); e++) {
        fsi_real s1 = e & 1 ? FSI_R(1.) : FSI_R(-1.), s2 = e & 2 ? FSI_R(1.) : FSI_R(-1.);
        int axis = dims == 3 ? e / 4 : e / 2;
        for (int i = 1; i < 8; i++) {
            fsi_real t = (fsi_real)i / 4 - 1;
            fsi_vec3 p = axis == 0   ? fsi_vec(t * h.x, s1 * h.y, s2 * h.z)
                         : axis == 1 ? fsi_vec(s1 * h.x, t * h.y, s2 * h.z)
                                     : fsi_vec(s1 * h.x, s2 * h.y, t * h.z);
            fsi__sample(m, B, fsi__pose_point(&A->f, p), 0, flip, 2000u + (uint32_t)(8 * e + i), 1);
        }
    }
}

/* The walls of a room one by one: a corner touches several at once. */
static void fsi__collide_room(fsi__manifold *m, const fsi__side *A, const fsi__side *B, int flip) {
    fsi_shape plane;
    fsi_real h[3];
    memset(&plane, 0, sizeof plane);
    plane.kind = FSI_SHAPE_PLANE;
    plane.dim = B->s->dim;
    fsi_vec_store(h, B->s->half);
    fsi__side wall;
    wall.s = &plane;
    for (int k = 0; k < 2 * B->s->dim; k++) {
        fsi_real c[3] = {0, 0, 0}, sign = k & 1 ? FSI_R(1.) : FSI_R(-1.);
        int axis = k / 2;
        c[axis] = sign * h[axis];
        /* the wall's y axis points into the room */
        fsi_mat3 T;
        memset(&T, 0, sizeof T);
        T.m[3 * axis + 1] = -sign;
        T.m[3 * ((axis + 1) % 3) + (axis == 1 ? 2 : 0)] = 1;
        T.m[3 * ((axis + 2) % 3) + (axis == 1 ? 0 : 2)] = 1;
        wall.f.x = fsi__pose_point(&B->f, fsi_vec_load(c));
        wall.f.R = fsi_mat3_mul(&B->f.R, &T);
        fsi__collide_samples(m, A, &wall, flip, 4096u * (uint32_t)(k + 1));
    }
}

/* Peaks of a height field against the distance of A: nodes under its bounds. */
static void fsi__collide_peaks(fsi__manifold *m, const fsi__side *A, const fsi__side *B, int flip) {
    const fsi_shape *f = B->s;
    fsi_vec3 c = fsi__pose_local(&B->f, A->f.x);
    fsi_real r = A->s->bound + m->reach, skip;
    int i0 = fsi__cell((c.x - r - f->origin.x) / f->spacing, f->nx, &skip),
        i1 = fsi__cell((c.x + r - f->origin.x) / f->spacing, f->nx, &skip) + 1;
    int k0 = fsi__cell((c.z - r - f->origin.z) / f->spacing, f->nz, &skip),
        k1 = fsi__cell((c.z + r - f->origin.z) / f->spacing, f->nz, &skip) + 1;
    for (int k = k0; k <= fsi__imin(k1, f->nz - 1); k++)
        for (int i = i0; i <= i1; i++) {
            fsi_real h = f->grid[(size_t)k * (size_t)f->nx + (size_t)i];
            fsi_vec3 p =
                fsi__pose_point(&B->f, fsi_vec_add(f->origin, fsi_vec((fsi_real)i * f->spacing, h,
                                                                      (fsi_real)k * f->spacing)));
            fsi__sample(m, A, p, 0, !flip, 8192u + (uint32_t)(k * f->nx + i), 1);
        }
}

/* ------------------------------------------------------------------------------------------------
 * >>box against box */
/* kind 0 face of A, 1 face of B, 2 edges; n from B to A */
typedef struct fsi__sat {
    fsi_real sep;
    fsi_vec3 n;
    int kind, i, j;
} fsi__sat;

static fsi_vec3 fsi__column(const fsi_mat3 *R, int k) {
    return fsi_vec(R->m[k], R->m[3 + k], R->m[6 + k]);
}

static fsi_real fsi__box_extent(const fsi__side *s, fsi_vec3 n) { /* half width along n */
    fsi_vec3 l = fsi_mat3_tmul_vec(&s->f.R, n);
    return fsi__abs(l.x) * s->s->half.x + fsi__abs(l.y) * s->s->half.y
           + fsi__abs(l.z) * s->s->half.z;
}

static void fsi__sat_test(fsi__sat *best, const fsi__side *A, const fsi__side *B, fsi_vec3 n,
                          int kind, int i, int j, fsi_real bonus) {
    fsi_real d = fsi_vec_dot(n, fsi_vec_sub(A->f.x, B->f.x));
    if (d < 0) {
        n = fsi_vec_scale(n, -1);
        d = -d;
    }
    fsi_real sep = d - fsi__box_extent(A, n) - fsi__box_extent(B, n);
    if (sep > best->sep + bonus) {
        best->sep = sep;
        best->n = n;
        best->kind = kind;
        best->i = i;
        best->j = j;
    }
}

/* Axis of largest separation; an earlier kind is kept unless the next is clearly better, so the
 * choice does not flicker. */
static fsi__sat fsi__box_axes(const fsi__side *A, const fsi__side *B, fsi_real tol) {
    fsi__sat best;
    int dim = A->s->dim;
    memset(&best, 0, sizeof best);
    best.sep = -FSI_REAL_MAX;
    for (int i = 0; i < dim; i++)
        fsi__sat_test(&best, A, B, fsi__column(&A->f.R, i), 0, i, 0, i ? tol : 0);
    for (int i = 0; i < dim; i++)
        fsi__sat_test(&best, A, B, fsi__column(&B->f.R, i), 1, i, 0, tol);
    for (int i = 0; i < 3 && dim == 3; i++)
        for (int j = 0; j < 3; j++) {
            fsi_vec3 n = fsi_vec_cross(fsi__column(&A->f.R, i), fsi__column(&B->f.R, j));
            fsi_real len = fsi__length(n);
            if (len > FSI_R(0.02))
                fsi__sat_test(&best, A, B, fsi_vec_scale(n, 1 / len), 2, i, j, 2 * tol);
        }
    return best;
}

/* corner farthest along n; axis skip centred */
static fsi_vec3 fsi__box_support(const fsi__side *s, fsi_vec3 n, int skip) {
    fsi_vec3 l = fsi_mat3_tmul_vec(&s->f.R, n), h = s->s->half;
    return fsi__pose_point(&s->f, fsi_vec(skip == 0 ? 0
                                          : l.x < 0 ? -h.x
                                                    : h.x,
                                          skip == 1 ? 0
                                          : l.y < 0 ? -h.y
                                                    : h.y,
                                          skip == 2 ? 0
                                          : l.z < 0 ? -h.z
                                                    : h.z));
}

/* Edge against edge: the points where the two lines come closest. */
static void fsi__box_edges(fsi__manifold *m, const fsi__side *A, const fsi__side *B,
                           const fsi__sat *s) {
    fsi_vec3 p = fsi__box_support(A, fsi_vec_scale(s->n, -1), s->i),
             q = fsi__box_support(B, s->n, s->j), d = fsi_vec_sub(p, q);
    fsi_vec3 u = fsi__column(&A->f.R, s->i), v = fsi__column(&B->f.R, s->j);
    fsi_real uv = fsi_vec_dot(u, v), du = fsi_vec_dot(d, u), dv = fsi_vec_dot(d, v),
             det = 1 - uv * uv;
    fsi_real ha = fsi__get(A->s->half, s->i), hb = fsi__get(B->s->half, s->j);
    fsi_real a = fsi__clamp((uv * dv - du) / det, -ha, ha);
    fsi_real b = fsi__clamp((dv - uv * du) / det, -hb, hb);
    p = fsi_vec_mad(p, u, a);
    q = fsi_vec_mad(q, v, b);
    fsi__manifold_add(m, fsi_vec_scale(fsi_vec_add(p, q), FSI_R(0.5)), s->n, s->sep,
                      64u + (uint32_t)(3 * s->i + s->j));
}

typedef struct fsi__clipped {
    fsi_vec3 p;
    uint32_t id;
} fsi__clipped;

/* Keeps the part of the polygon with n . p <= d; points within tol of the plane count as inside, so
 * aligned faces keep their corners. */
static int fsi__clip(fsi__clipped *v, int count, fsi_vec3 n, fsi_real d, fsi_real tol,
                     uint32_t plane) {
    fsi__clipped out[16];
    int k = 0;
    for (int i = 0; i < count && k < 14; i++) {
        fsi__clipped a = v[i], b = v[(i + 1) % count];
        fsi_real sa = fsi_vec_dot(n, a.p) - d, sb = fsi_vec_dot(n, b.p) - d;
        int in_a = sa <= tol, in_b = sb <= tol;
        if (in_a)
            out[k++] = a;
        if (in_a != in_b) {
            out[k].p = fsi_vec_mad(a.p, fsi_vec_sub(b.p, a.p), fsi__clamp(sa / (sa - sb), 0, 1));
            out[k++].id = 8u + 4u * plane + (in_a ? a.id : b.id) % 4u;
        }
    }
    memcpy(v, out, (size_t)k * sizeof *v);
    return k;
}

/* Face against face: the incident face of I clipped by the sides of the reference face of R; n
 * points out of R. */
static void fsi__box_faces(fsi__manifold *m, const fsi__side *R, const fsi__side *I, fsi_vec3 n,
                           int axis, int flip, fsi_real tol) {
    fsi__clipped v[16];
    fsi_vec3 l = fsi_mat3_tmul_vec(&I->f.R, n);
    fsi_real hi[3], hr[3], c[3], face = fsi_vec_dot(n, R->f.x) + fsi__get(R->s->half, axis);
    int dim = R->s->dim, inc = 0, count = dim == 3 ? 4 : 2;
    fsi_vec_store(hi, I->s->half);
    fsi_vec_store(hr, R->s->half);
    fsi_vec_store(c, l);
    for (int i = 1; i < dim; i++)
        if (fsi__abs(c[i]) > fsi__abs(c[inc]))
            inc = i;
    /* corners of the incident face, around */
    for (int i = 0; i < count; i++) {
        int a1 = dim == 3 ? (inc + 1) % 3 : 1 - inc, a2 = dim == 3 ? (inc + 2) % 3 : 2;
        fsi_real q[3];
        q[inc] = c[inc] > 0 ? -hi[inc] : hi[inc];
        q[a1] = (dim == 3 ? i == 1 || i == 2 : i == 1) ? hi[a1] : -hi[a1];
        q[a2] = dim == 3 ? (i >= 2 ? hi[a2] : -hi[a2]) : 0;
        v[i].p = fsi__pose_point(&I->f, fsi_vec_load(q));
        v[i].id = (uint32_t)i;
    }
    for (int k = 0; k < dim && count > 0; k++) {
        fsi_vec3 u = fsi__column(&R->f.R, k);
        fsi_real d = fsi_vec_dot(u, R->f.x);
        if (k == axis)
            continue;
        count = fsi__clip(v, count, u, d + hr[k], tol, (uint32_t)(2 * k));
        if (count > 0)
            count =
                fsi__clip(v, count, fsi_vec_scale(u, -1), hr[k] - d, tol, (uint32_t)(2 * k + 1));
    }
    for (int i = 0; i < count; i++) {
        fsi_real sep = fsi_vec_dot(n, v[i].p) - face;
        fsi__manifold_add(m, fsi_vec_mad(v[i].p, n, -sep / 2), flip ? n : fsi_vec_scale(n, -1), sep,
                          v[i].id + 128u * (uint32_t)(1 + axis + 3 * flip));
    }
}

static void fsi__collide_boxes(fsi__manifold *m, const fsi__side *A, const fsi__side *B) {
    fsi_real tol = FSI_R(1e-3) * m->size;
    fsi__sat s = fsi__box_axes(A, B, tol);
    if (s.sep >= m->reach)
        return;
    m->limit = 4;
    if (s.kind == 2)
        fsi__box_edges(m, A, B, &s);
    else if (s.kind == 0)
        fsi__box_faces(m, A, B, fsi_vec_scale(s.n, -1), s.i, 0, tol);
    else
        fsi__box_faces(m, B, A, s.n, s.i, 1, tol);
    /* far apart diagonally: corners */
    if (m->count == 0) {
        fsi__collide_samples(m, A, B, 0, 2048u);
        fsi__collide_samples(m, B, A, 1, 3072u);
    }
}

/* Any two shapes without parts. Normals point from B to A. */
static void fsi__collide_simple(fsi__manifold *m, const fsi__side *A, const fsi__side *B) {
    fsi_shape_kind a = A->s->kind, b = B->s->kind;
    int flip = fsi__shape_static(a);
    /* S is static geometry if any is */
    const fsi__side *M = flip ? B : A, *S = flip ? A : B;
    if (fsi__shape_static(S->s->kind)) {
        if (fsi__shape_static(M->s->kind))
            return;
        if (S->s->kind == FSI_SHAPE_ROOM)
            fsi__collide_room(m, M, S, flip);
        else
            fsi__collide_samples(m, M, S, flip, 0);
        if (S->s->kind == FSI_SHAPE_HEIGHT && M->s->kind != FSI_SHAPE_SPHERE)
            fsi__collide_peaks(m, M, S, flip);
        return;
    }
    if (a == FSI_SHAPE_BOX && b == FSI_SHAPE_BOX) {
        fsi__collide_boxes(m, A, B);
        return;
    }
    /* a sphere is its one sample */
    if (a == FSI_SHAPE_SPHERE || b != FSI_SHAPE_SPHERE)
        fsi__collide_samples(m, A, B, 0, 0);
    if (a != FSI_SHAPE_SPHERE)
        fsi__collide_samples(m, B, A, 1, 1u << 20);
    if (a == FSI_SHAPE_BOX && b == FSI_SHAPE_MESH)
        fsi__collide_edges(m, A, B, 0);
    if (b == FSI_SHAPE_BOX && a == FSI_SHAPE_MESH)
        fsi__collide_edges(m, B, A, 1);
}

static int fsi__part_count(const fsi_shape *s) {
    return s->kind == FSI_SHAPE_COMPOUND ? s->part_count : 1;
}

static fsi__side fsi__part_side(const fsi_rigid *b, int i) {
    fsi__side side;
    side.s = b->shape;
    side.f.x = b->x;
    side.f.R = b->rotation;
    if (b->shape->kind == FSI_SHAPE_COMPOUND) {
        const fsi_shape_part *p = b->shape->part + i;
        fsi_mat3 R = fsi_quat_matrix(p->q);
        side.s = p->shape;
        side.f.x = fsi_vec_add(b->x, fsi_mat3_mul_vec(&b->rotation, p->x));
        side.f.R = fsi_mat3_mul(&b->rotation, &R);
    }
    return side;
}

/* Manifold of two bodies; features of part pairs are kept apart. */
static void fsi__collide_bodies(fsi__manifold *m, const fsi_rigid *a, const fsi_rigid *b,
                                fsi_real dt) {
    fsi_real size = fsi__min(a->shape->bound, b->shape->bound), spin = 0;
    if (fsi__length(a->w) > 0)
        spin += fsi__length(a->w) * fsi__min(a->shape->bound, size * 4);
    if (fsi__length(b->w) > 0)
        spin += fsi__length(b->w) * fsi__min(b->shape->bound, size * 4);
    m->count = 0;
    m->limit = FSI__MANIFOLD;
    m->size = size;
    m->reach = FSI_R(0.02) * size + dt * (fsi__length(fsi_vec_sub(a->v, b->v)) + spin);
    for (int i = 0; i < fsi__part_count(a->shape); i++)
        for (int j = 0; j < fsi__part_count(b->shape); j++) {
            fsi__side A = fsi__part_side(a, i), B = fsi__part_side(b, j);
            int before = m->count;
            fsi__collide_simple(m, &A, &B);
            if (i + j > 0)
                for (int k = before; k < m->count; k++)
                    m->p[k].feature += (uint32_t)(i * 64 + j) << 22;
        }
    fsi__manifold_reduce(m);
}

/* ------------------------------------------------------------------------------------------------
 * >>contact solver */
/* Soft-constraint sequential impulses over substeps with warm starts (after Macklin et al. 2019,
   Catto 2024): per substep  v += share of (v* - v);  apply last impulses;  solve with push-out;
   move;  solve again without push-out. Symbols: h substep, jn, jt accumulated impulses of a
   substep, n normal from b to a, s gap.  */
/* what the solver touches of a body: 16 reals */
typedef struct fsi__velocity {
    fsi_vec3 v, w;
    fsi_real inverse_mass;
    fsi_mat3 I; /* world inverse inertia */
} fsi__velocity;

/* push-out rate 1/s, scales of the new and the old impulse */
typedef struct fsi__soft {
    fsi_real rate, mass, impulse;
} fsi__soft;

struct fsi__solids_work {
    fsi__velocity *vel;            /* [max_bodies] */
    fsi_contact *old;              /* [max_contacts] contacts of the step before */
    fsi__manifold *batch;          /* [FSI__PAIR_BATCH] */
    uint64_t *pair, *pair_scratch; /* [max_pairs] */
    /* [contacts] in pair's place: low 32 bits are contacts in solving order */
    uint64_t *order;
    uint64_t *cell, *cell_scratch;       /* [max_bodies] */
    uint64_t *jointed, *jointed_scratch; /* [max_joints] sorted pairs that do not collide */
    fsi_vec3 *lo, *hi;                   /* [max_bodies] bounds of the coming step */
    /* [2 * max_bodies] impulse and its moment that bodies without inverse mass took in the substep,
     * N s, N m s */
    fsi_vec3 *taken;
    fsi_rigid *before;            /* [max_bodies] as the move found them */
    fsi_real *extent;             /* [max_bodies] */
    int32_t *large;               /* [max_bodies] bodies outside the broad phase grid */
    struct fsi__joint_rows *rows; /* [max_joints] */
    fsi_real *joint_k, *joint_x;  /* [6 max_joints * band] factor, [6 max_joints] right-hand side */
    int32_t *joint_begin;         /* [6 max_joints] first column of a row */
    int direct;                   /* 1: joints are solved directly */
    struct fsi__door **door;      /* [max_bodies] coupled solids made so far */
    /* [2 * bound_room] lower and upper corners of the externals, a block of its own */
    fsi_vec3 *bound;
    int bound_room;
    size_t max_pairs, pairs, rigid_pairs;
    int large_count, jointed_count, capped;
    fsi_real hold_dt; /* of the last fsi_solids_hold, s */
};

/* A spring of a quarter of the substep rate with damping ratio zeta, implicit Euler: as stiff as
 * the substep can carry. */
static fsi__soft fsi__soft_make(fsi_real zeta, fsi_real h) {
    fsi__soft s;
    fsi_real omega = 2 * FSI_PI * FSI_R(0.25) / h, a1 = 2 * zeta + h * omega, a2 = h * omega * a1;
    s.rate = omega / a1;
    s.mass = a2 / (1 + a2);
    s.impulse = 1 / (1 + a2);
    return s;
}

FSI__INLINE fsi_vec3 fsi__side_velocity(const fsi_solids *w, int side, int point, fsi_vec3 r,
                                        fsi_vec3 at) {
    if (side < w->desc.max_bodies) {
        const fsi__velocity *b = w->work->vel + side;
        return fsi_vec_add(b->v, fsi_vec_cross(b->w, r)); /* v + w x r */
    } else {
        const fsi_external *e = w->external + (side - w->desc.max_bodies);
        return e->velocity_fn(e->user, point, at);
    }
}

/* Impulse j and its moment l about the centre of mass. What scripted bodies take is added up: with
 * their velocity it is their work. */
FSI__INLINE void fsi__body_impulse(const fsi_solids *w, int body, fsi_vec3 j, fsi_vec3 l) {
    fsi__velocity *b = w->work->vel + body;
    fsi_vec3 *taken = w->work->taken + 2 * body;
    if (b->inverse_mass == 0) {
        taken[0] = fsi_vec_add(taken[0], j);
        taken[1] = fsi_vec_add(taken[1], l);
        return;
    }
    b->v = fsi_vec_mad(b->v, j, b->inverse_mass);
    b->w = fsi_vec_add(b->w, fsi_mat3_mul_vec(&b->I, l));
}

FSI__INLINE void fsi__side_impulse(const fsi_solids *w, int side, int point, fsi_vec3 r,
                                   fsi_vec3 at, fsi_vec3 j) {
    if (side < w->desc.max_bodies)
        fsi__body_impulse(w, side, j, fsi_vec_cross(r, j));
    else {
        const fsi_external *e = w->external + (side - w->desc.max_bodies);
        e->impulse_fn(e->user, point, at, j);
    }
}

/* of a relative to b */
FSI__INLINE fsi_vec3 fsi__contact_velocity(const fsi_solids *w, const fsi_contact *c) {
    return fsi_vec_sub(fsi__side_velocity(w, c->a, c->point_a, c->ra, c->at),
                       fsi__side_velocity(w, c->b, c->point_b, c->rb, c->at));
}

/* +j on a, -j on b, at the same point */
FSI__INLINE void fsi__contact_apply(const fsi_solids *w, const fsi_contact *c, fsi_vec3 j) {
    fsi__side_impulse(w, c->a, c->point_a, c->ra, c->at, j);
    fsi__side_impulse(w, c->b, c->point_b, c->rb, c->at, fsi_vec_scale(j, -1));
}

FSI__INLINE fsi_vec3 fsi__tangent_impulse(const fsi_contact *c, fsi_real t, fsi_real u) {
    return fsi_vec_add(fsi_vec_scale(c->tangent, t),
                       fsi_vec_scale(fsi_vec_cross(c->normal, c->tangent), u));
}

/* K d of one side: velocity change at the point by a unit impulse along d. */
static fsi_vec3 fsi__side_response(const fsi_solids *w, int side, const fsi_mat3 *K, fsi_vec3 r,
                                   fsi_vec3 d) {
    const fsi__velocity *b = w->work->vel + side;
    if (side >= w->desc.max_bodies)
        return fsi_mat3_mul_vec(K, d);
    if (b->inverse_mass == 0)
        return fsi_vec(0, 0, 0);
    return fsi_vec_add(fsi_vec_scale(d, b->inverse_mass),
                       fsi_vec_cross(fsi_mat3_mul_vec(&b->I, fsi_vec_cross(r, d)), r));
}

/* Effective masses: 1 / (n . K n), and one number for both tangents: with it the sliding impulse
 * ends exactly opposite to the slip. */
static void fsi__contact_masses(const fsi_solids *w, fsi_contact *c) {
    fsi_vec3 dir[3], k[3];
    int m = w->desc.max_bodies;
    dir[0] = c->normal;
    dir[1] = c->tangent;
    dir[2] = fsi_vec_cross(c->normal, c->tangent);
    fsi_mat3 Ka;
    if (c->a >= m)
        w->external[c->a - m].inverse_mass_fn(w->external[c->a - m].user, c->point_a, c->at, &Ka);
    fsi_mat3 Kb;
    if (c->b >= m)
        w->external[c->b - m].inverse_mass_fn(w->external[c->b - m].user, c->point_b, c->at, &Kb);
    for (int i = 0; i < 3; i++)
        k[i] = fsi_vec_add(fsi__side_response(w, c->a, &Ka, c->ra, dir[i]),
                           fsi__side_response(w, c->b, &Kb, c->rb, dir[i]));
    fsi_real kn = fsi_vec_dot(dir[0], k[0]);
    fsi_real tt = fsi_vec_dot(dir[1], k[1]);
    fsi_real tu = fsi_vec_dot(dir[1], k[2]);
    fsi_real uu = fsi_vec_dot(dir[2], k[2]);
    c->mass_n = kn > 0 ? 1 / kn : 0;
    /* largest eigenvalue of the tangent block */
    kn = (tt + uu) / 2 + fsi__sqrt((tt - uu) * (tt - uu) / 4 + tu * tu);
    c->mass_t = kn > 0 ? 1 / kn : 0;
}

static void fsi__contact_prepare(const fsi_solids *w, fsi_contact *c) {
    fsi__contact_masses(w, c);
    c->approach = fsi_vec_dot(c->normal, fsi__contact_velocity(w, c));
    c->impulse_max = 0;
    c->bounced = 0;
}

/* the impulses so far once more */
static void fsi__contact_warm(const fsi_solids *w, const fsi_contact *c, fsi_real scale) {
    if (c->impulse == 0 && c->impulse_t[0] == 0 && c->impulse_t[1] == 0)
        return;
    fsi__contact_apply(
        w, c,
        fsi_vec_scale(fsi_vec_mad(fsi__tangent_impulse(c, c->impulse_t[0], c->impulse_t[1]),
                                  c->normal, c->impulse),
                      scale));
}

/* Coulomb's cone: the tangent velocity is stopped, and the impulse brought back to |jt| <= mu jn
 * along its own direction. */
static void fsi__contact_friction(const fsi_solids *w, fsi_contact *c) {
    fsi_vec3 dv = fsi__contact_velocity(w, c), u = fsi_vec_cross(c->normal, c->tangent);
    fsi_real vt = fsi_vec_dot(dv, c->tangent), vu = fsi_vec_dot(dv, u),
             limit = c->friction * c->impulse;
    fsi_real t = c->impulse_t[0] - c->mass_t * vt, s = c->impulse_t[1] - c->mass_t * vu;
    fsi_real len = fsi__sqrt(t * t + s * s);
    if (len > limit) {
        t *= limit / len;
        s *= limit / len;
    }
    fsi__contact_apply(w, c, fsi__tangent_impulse(c, t - c->impulse_t[0], s - c->impulse_t[1]));
    c->impulse_t[0] = t;
    c->impulse_t[1] = s;
}

/* One normal impulse. push: with push-out of overlap by a tenth of a radius at most, for which the
   spring gives way by a hundredth at most: under any weight less. A gap only limits the approach to
   gap / h. Returns how far beyond that it was met, over its size. */
static fsi_real fsi__contact_normal(const fsi_solids *w, fsi_contact *c, fsi_real h, fsi_real slop,
                                    const fsi__soft *soft, int push) {
    fsi_real vn = fsi_vec_dot(fsi__contact_velocity(w, c), c->normal), bias = 0, ms = 1, give = 0,
             before = c->impulse;
    if (c->gap > 0)
        bias = c->gap / h;
    else if (push) {
        bias = fsi__max(soft->rate * fsi__min(0, c->gap + slop), FSI_R(-0.1) * c->size / h);
        ms = soft->mass;
        give = fsi__min(soft->impulse * before, FSI_R(0.01) * c->mass_n * c->size / h);
    }
    fsi_real j = fsi__max(0, before - c->mass_n * ms * (vn + bias) - give);
    if (j == before)
        return 0;
    c->impulse = j;
    if (j > c->impulse_max)
        c->impulse_max = j;
    fsi__contact_apply(w, c, fsi_vec_scale(c->normal, j - before));
    return c->b < w->desc.max_bodies ? -h * (vn + fsi__max(bias, 0)) / c->size : 0;
}

/* Where the body hit faster than the threshold, the normal velocity becomes -e times the approach.
   Swept until all agree. Impulses d from normal velocities v0 to v1 give sum d (v0 + v1) / 2: where
   that is more than the impact has lost (many contacts at once), all bounce by the share that is
   not. Returns what they gave, J. */
static double fsi__contact_restitution(fsi_solids *w, fsi_real threshold, double lost) {
    double a = 0, b = 0, share = 1;
    int any = 1;
    for (int i = 0; i < w->contact_count; i++) {
        fsi_contact *c = w->contact + i;
        if (c->restitution == 0 || c->approach > -threshold || c->impulse_max == 0)
            continue;
        c->bounced = 1;
        c->start[0] = c->impulse;
        c->start[1] = fsi_vec_dot(fsi__contact_velocity(w, c), c->normal);
    }
    for (int pass = 0; pass < 20 && any; pass++) {
        any = 0;
        for (int i = 0; i < w->contact_count; i++) {
            fsi_contact *c = w->contact + i;
            fsi_real before = c->impulse;
            if (!c->bounced)
                continue;
            fsi_real vn = fsi_vec_dot(fsi__contact_velocity(w, c), c->normal);
            fsi_real j = fsi__max(0, before - c->mass_n * (vn + c->restitution * c->approach));
            if (fsi__abs(j - before) > 8 * FSI_REAL_EPS * j)
                any = 1;
            c->impulse = j;
            fsi__contact_apply(w, c, fsi_vec_scale(c->normal, j - before));
        }
    }
    /* share s of the impulses gives a s^2 + b s */
    for (int i = 0; i < w->contact_count; i++) {
        const fsi_contact *c = w->contact + i;
        double d = (double)(c->impulse - c->start[0]), v0 = (double)c->start[1];
        if (!c->bounced)
            continue;
        a += d * ((double)fsi_vec_dot(fsi__contact_velocity(w, c), c->normal) - v0) / 2;
        b += d * v0;
    }
    if (a + b > lost && a > 0)
        share = (double)fsi__clamp((fsi_real)((sqrt(b * b + 4 * a * lost) - b) / (2 * a)), 0, 1);
    for (int i = 0; i < w->contact_count; i++) {
        fsi_contact *c = w->contact + i;
        if (!c->bounced)
            continue;
        if (share < 1)
            fsi__contact_apply(
                w, c, fsi_vec_scale(c->normal, (fsi_real)(share - 1) * (c->impulse - c->start[0])));
        /* a bounce is no guess for the next step */
        c->impulse = c->impulse_t[0] = c->impulse_t[1] = 0;
    }
    return share * (a * share + b);
}

/* ------------------------------------------------------------------------------------------------
 * >>joints */
/* Rows of a joint: velocity error l . (va - vb) + a . wa - b . wb with position error C. Both
   bodies get the impulse at the same world point (the anchor of a), so momentum is exact even while
   there is drift. The equality rows of all joints are solved at once, directly in a band, so chains
   are exact; drift is corrected in every substep before the positions move, and the velocity is
   solved again without the correction afterwards, so that it adds no energy. Row 6 is the free
   coordinate: motor, spring, stops. */
#define FSI__JOINT_FREE 6
#define FSI__JOINT_SWEEPS 8 /* sweeps where the direct solve has no room */
#define FSI__BAND 96        /* widest coupling of rows for the direct solve: 16 joints of 6 */
#define FSI__JOINT_RATE FSI_R(0.2) /* share of the drift removed per substep */

struct fsi__joint_rows {
    int first; /* lowest joint coupled with this one */
    /* equality rows; 1 when row 6 is used; number of the first row among all joints */
    int n, free, at;
    fsi_vec3 l[7], a[7], b[7];
    fsi_vec3 ra, rb; /* arms of the anchor of a */
    fsi_real C[7];
    fsi_real mass_free; /* 1 / (J M^-1 J^T) of row 6 */
};
typedef struct fsi__joint_rows fsi__joint_rows;

static void fsi__row_point(fsi__joint_rows *r, int i, fsi_vec3 dir, fsi_vec3 ra, fsi_vec3 rb,
                           fsi_vec3 d) {
    r->l[i] = dir;
    r->a[i] = fsi_vec_cross(ra, dir);
    r->b[i] = fsi_vec_cross(rb, dir);
    r->C[i] = fsi_vec_dot(dir, d);
}

static void fsi__row_angle(fsi__joint_rows *r, int i, fsi_vec3 dir, fsi_vec3 error) {
    r->l[i] = fsi_vec(0, 0, 0);
    r->a[i] = r->b[i] = dir;
    r->C[i] = fsi_vec_dot(dir, error);
}

/* unit, perpendicular to the unit vector n; z in 2D goes last */
static fsi_vec3 fsi__any_tangent(fsi_vec3 n) {
    fsi_vec3 t = fsi__abs(n.z) < FSI_R(0.7) ? fsi_vec(n.y, -n.x, 0) : fsi_vec(0, -n.z, n.y);
    return fsi__unit(t);
}

/* Rotation of a away from its rest pose at b, world frame: twice the vector part of q_a (q_b
 * q0)^-1. */
static fsi_quat fsi__joint_turn(const fsi_rigid *a, const fsi_rigid *b, const fsi_joint *j) {
    fsi_quat e = fsi_quat_mul(a->q, fsi__quat_back(fsi_quat_mul(b->q, j->q0)));
    if (e.w < 0) {
        e.w = -e.w;
        e.x = -e.x;
        e.y = -e.y;
        e.z = -e.z;
    }
    return e;
}

/* Geometry of the joint at the present poses. */
static void fsi__joint_geometry(const fsi_solids *w, const fsi_joint *j, fsi__joint_rows *r) {
    static const fsi_real unit[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    const fsi_rigid *a = w->body + j->a, *b = w->body + j->b;
    fsi_vec3 ra = fsi_mat3_mul_vec(&a->rotation, j->pa), rb = fsi_mat3_mul_vec(&b->rotation, j->pb);
    fsi_vec3 d = fsi_vec_sub(fsi_vec_add(a->x, ra), fsi_vec_add(b->x, rb)),
             ua = fsi_mat3_mul_vec(&a->rotation, j->axis_a);
    fsi_vec3 ub = fsi_mat3_mul_vec(&b->rotation, j->axis_b), t1 = fsi__any_tangent(ub),
             t2 = fsi_vec_cross(ub, t1);
    fsi_quat e = fsi__joint_turn(a, b, j);
    /* the anchor of a, seen from b */
    rb = fsi_vec_add(rb, d);
    fsi_vec3 error = fsi_vec(2 * e.x, 2 * e.y, 2 * e.z);
    r->ra = ra;
    r->rb = rb;
    r->n = r->free = 0;
    if (j->kind == FSI_JOINT_POINT || j->kind == FSI_JOINT_HINGE || j->kind == FSI_JOINT_WELD)
        for (int i = 0; i < 3; i++)
            fsi__row_point(r, r->n++, fsi_vec_load(unit[i]), ra, rb, d);
    if (j->kind == FSI_JOINT_HINGE) {
        fsi_vec3 tilt = fsi_vec_cross(ub, ua);
        fsi__row_angle(r, r->n++, t1, tilt);
        fsi__row_angle(r, r->n++, t2, tilt);
        fsi__row_angle(r, FSI__JOINT_FREE, ub, error);
        /* twist angle */
        r->C[FSI__JOINT_FREE] = 2 * fsi__atan2(fsi_vec_dot(ub, fsi_vec(e.x, e.y, e.z)), e.w);
    }
    if (j->kind == FSI_JOINT_PRISMATIC) {
        fsi__row_point(r, r->n++, t1, ra, rb, d);
        fsi__row_point(r, r->n++, t2, ra, rb, d);
        fsi__row_point(r, FSI__JOINT_FREE, ub, ra, rb, d);
    }
    if (j->kind == FSI_JOINT_PRISMATIC || j->kind == FSI_JOINT_WELD)
        for (int i = 0; i < 3; i++)
            fsi__row_angle(r, r->n++, fsi_vec_load(unit[i]), error);
    if (j->kind == FSI_JOINT_SPRING) {
        fsi_real len = fsi__length(d);
        fsi__row_point(r, FSI__JOINT_FREE, len > 0 ? fsi_vec_scale(d, 1 / len) : fsi_vec(0, 1, 0),
                       ra, fsi_vec_sub(rb, d), d);
        r->C[FSI__JOINT_FREE] = len;
    }
    r->free = j->kind == FSI_JOINT_SPRING || j->motor || j->limit
              || ((j->kind == FSI_JOINT_HINGE || j->kind == FSI_JOINT_PRISMATIC)
                  && (j->stiffness > 0 || j->damping > 0));
}

/* (J M^-1 J^T) between row i of joint p and row k of joint q: through the bodies they share. A
 * joint at its limit is solved alone. */
static fsi_real fsi__row_coupling(const fsi_solids *w, int p, int i, int q, int k) {
    const fsi__joint_rows *r = w->work->rows + p, *s = w->work->rows + q;
    fsi_real sum = 0;
    if (p != q && (w->joint[p].limited || w->joint[q].limited))
        return 0;
    for (int side = 0; side < 2; side++)
        for (int other = 0; other < 2; other++) {
            int body = side ? w->joint[p].b : w->joint[p].a;
            const fsi__velocity *v = w->work->vel + body;
            if (v->inverse_mass == 0 || body != (other ? w->joint[q].b : w->joint[q].a))
                continue;
            fsi_real x = v->inverse_mass * fsi_vec_dot(r->l[i], s->l[k])
                         + fsi_vec_dot(side ? r->b[i] : r->a[i],
                                       fsi_mat3_mul_vec(&v->I, other ? s->b[k] : s->a[k]));
            sum += side == other ? x : -x;
        }
    return sum;
}

/* First joint whose rows joint j is coupled with through earlier joints (j itself: none, or the
 * band is too narrow for a direct solve). */
static void fsi__joint_profile(fsi_solids *w) {
    struct fsi__solids_work *k = w->work;
    int at = 0;
    k->direct = 1;
    for (int i = 0; i < w->joint_count; i++)
        /* first joint of a body */
        for (int side = 0; side < 2; side++)
            k->large[side ? w->joint[i].b : w->joint[i].a] = w->joint_count;
    for (int i = 0; i < w->joint_count; i++) {
        fsi__joint_rows *r = k->rows + i;
        r->at = at;
        r->first = i;
        for (int side = 0; side < 2; side++) {
            int body = side ? w->joint[i].b : w->joint[i].a;
            if (k->vel[body].inverse_mass == 0)
                continue;
            if (k->large[body] > i)
                k->large[body] = i;
            r->first = fsi__imin(r->first, k->large[body]);
        }
        at += r->n;
        if (at - k->rows[r->first].at > FSI__BAND)
            k->direct = 0;
    }
    for (int i = 0; i < w->joint_count && !k->direct; i++)
        k->rows[i].first = i;
}

/* K = J M^-1 J^T of all joints = L D L^T in a band; rows without mass or repeated get D = 0 and
 * stay out. K(i, c) is at [i * band + i - c]. */
static void fsi__joint_factor(fsi_solids *w) {
    fsi_real *K = w->work->joint_k;
    for (int j = 0; j < w->joint_count; j++)
        fsi__joint_geometry(w, w->joint + j, w->work->rows + j);
    fsi__joint_profile(w);
    for (int j = 0; j < w->joint_count; j++) {
        const fsi__joint_rows *r = w->work->rows + j;
        fsi_real k = r->free ? fsi__row_coupling(w, j, FSI__JOINT_FREE, j, FSI__JOINT_FREE) : 0;
        int begin = w->work->rows[r->first].at;
        w->work->rows[j].mass_free = k > 0 ? 1 / k : 0;
        for (int p = 0; p < r->n; p++) {
            int i = r->at + p;
            fsi_real *row = K + (size_t)i * FSI__BAND + i; /* row[-c] is K(i, c) */
            for (int q = r->first; q <= j; q++)
                for (int e = 0; e < w->work->rows[q].n && w->work->rows[q].at + e <= i; e++)
                    row[-(w->work->rows[q].at + e)] = fsi__row_coupling(w, j, p, q, e);
            w->work->joint_begin[i] = begin;
            for (int c = begin; c < i; c++) { /* g = L D, row by row */
                const fsi_real *other = K + (size_t)c * FSI__BAND + c;
                for (int e = fsi__imax(begin, w->work->joint_begin[c]); e < c; e++)
                    row[-c] -= row[-e] * other[-e];
            }
            fsi_real full = row[-i];
            for (int c = begin; c < i; c++) {
                fsi_real d = K[(size_t)c * FSI__BAND], l = d > 0 ? row[-c] / d : 0;
                row[-i] -= l * row[-c];
                row[-c] = l;
            }
            if (!(row[-i] > 4096 * FSI_REAL_EPS * full))
                row[-i] = 0;
        }
    }
}

/* x = K^-1 x for rows begin .. end - 1, which no row outside is coupled with. */
static void fsi__joint_backsolve(const fsi_solids *w, int begin, int end, fsi_real *x) {
    const fsi_real *K = w->work->joint_k;
    for (int i = begin; i < end; i++)
        for (int c = w->work->joint_begin[i]; c < i; c++)
            x[i] -= K[(size_t)i * FSI__BAND + (size_t)(i - c)] * x[c];
    for (int i = begin; i < end; i++)
        x[i] = K[(size_t)i * FSI__BAND] > 0 ? x[i] / K[(size_t)i * FSI__BAND] : 0;
    for (int i = end - 1; i >= begin; i--)
        for (int c = w->work->joint_begin[i]; c < i; c++)
            x[c] -= K[(size_t)i * FSI__BAND + (size_t)(i - c)] * x[i];
}

static fsi_real fsi__row_velocity(const fsi_solids *w, const fsi_joint *j, const fsi__joint_rows *r,
                                  int i) {
    const fsi__velocity *a = w->work->vel + j->a, *b = w->work->vel + j->b;
    return fsi_vec_dot(r->l[i], fsi_vec_sub(a->v, b->v)) + fsi_vec_dot(r->a[i], a->w)
           - fsi_vec_dot(r->b[i], b->w);
}

static void fsi__row_apply(const fsi_solids *w, const fsi_joint *j, const fsi__joint_rows *r, int i,
                           fsi_real s) {
    fsi__body_impulse(w, j->a, fsi_vec_scale(r->l[i], s), fsi_vec_scale(r->a[i], s));
    fsi__body_impulse(w, j->b, fsi_vec_scale(r->l[i], -s), fsi_vec_scale(r->b[i], -s));
}

static void fsi__joint_warm(const fsi_solids *w, const fsi_joint *j, const fsi__joint_rows *r,
                            fsi_real scale) {
    for (int i = 0; i < r->n; i++)
        fsi__row_apply(w, j, r, i, scale * j->impulse[i]);
    if (r->free)
        fsi__row_apply(w, j, r, FSI__JOINT_FREE, scale * (j->impulse_free + j->impulse_limit));
}

/* Motor: speed with a force limit. Spring: implicit, k and d folded into the effective mass, stable
 * for any stiffness. Stops: one-sided. */
static void fsi__joint_free(const fsi_solids *w, fsi_joint *j, const fsi__joint_rows *r, fsi_real h,
                            const fsi__soft *soft, int push) {
    fsi_real m = r->mass_free, v = fsi__row_velocity(w, j, r, FSI__JOINT_FREE),
             before = j->impulse_free, next = before;
    if (j->motor)
        next =
            fsi__clamp(before - m * (v - j->motor_speed), -h * j->motor_limit, h * j->motor_limit);
    else if (m > 0 && (j->stiffness > 0 || j->damping > 0)) {
        fsi_real gamma = 1 / (h * (j->damping + h * j->stiffness));
        next = before
               - (v + (r->C[FSI__JOINT_FREE] - j->rest) * h * j->stiffness * gamma + gamma * before)
                     / (1 / m + gamma);
    }
    if (next != before)
        fsi__row_apply(w, j, r, FSI__JOINT_FREE, next - before);
    j->impulse_free = next;
    if (j->limit && m > 0) {
        int low = r->C[FSI__JOINT_FREE] - j->lower < j->upper - r->C[FSI__JOINT_FREE];
        fsi_real sign = low ? FSI_R(1.) : FSI_R(-1.),
                 gap = low ? r->C[FSI__JOINT_FREE] - j->lower : j->upper - r->C[FSI__JOINT_FREE],
                 bias = 0;
        v = sign * fsi__row_velocity(w, j, r, FSI__JOINT_FREE);
        bias = gap > 0 ? gap / h : push ? soft->rate * gap : 0;
        fsi_real s = fsi__max(0, sign * j->impulse_limit - m * (v + bias)) * sign;
        fsi__row_apply(w, j, r, FSI__JOINT_FREE, s - j->impulse_limit);
        j->impulse_limit = s;
    }
}

/* How much the mean velocity of an arm r turning with w for h differs from w x r. */
static fsi_vec3 fsi__arc(fsi_vec3 w, fsi_vec3 r, fsi_real h) {
    fsi_vec3 c = fsi_vec_cross(w, r);
    fsi_real t = fsi__length(w) * h, a = t > FSI_R(0.01) ? fsi__sin(t) / t - 1 : -t * t / 6,
             b = t > FSI_R(0.01) ? (1 - fsi__cos(t)) / (t * t) : FSI_R(0.5) - t * t / 24;
    return fsi_vec_add(fsi_vec_scale(c, a), fsi_vec_scale(fsi_vec_cross(w, c), b * h));
}

/* Pre-stabilisation: anchors run on arcs, so what is driven to zero is the position error after the
 * move, C + h (C' + difference of the arcs). */
static void fsi__joint_residual(const fsi_solids *w, int j, fsi_real h, int push, fsi_real *x) {
    const fsi__joint_rows *r = w->work->rows + j;
    fsi_vec3 bend = fsi_vec(0, 0, 0);
    fsi_real reach =
        FSI_R(0.25)
        * fsi__min(w->body[w->joint[j].a].shape->bound, w->body[w->joint[j].b].shape->bound);
    if (push)
        bend = fsi_vec_sub(fsi__arc(w->work->vel[w->joint[j].a].w, r->ra, h),
                           fsi__arc(w->work->vel[w->joint[j].b].w, r->rb, h));
    /* a joint torn apart comes back no faster than from a quarter of a radius (radian) */
    for (int i = 0; i < r->n; i++) {
        fsi_real far = fsi_vec_dot(r->l[i], r->l[i]) > 0 ? reach : FSI_R(0.25);
        x[r->at + i] = fsi__row_velocity(w, w->joint + j, r, i)
                       + (push ? FSI__JOINT_RATE / h * fsi__clamp(r->C[i], -far, far) : 0)
                       + fsi_vec_dot(r->l[i], bend);
    }
}

/* The joint's impulses after a solve, shortened to what max_force and max_torque allow; 1 where
 * they were. */
static int fsi__joint_limit(const fsi_solids *w, int j, const fsi_real *x, fsi_real h,
                            fsi_real *next) {
    const fsi__joint_rows *r = w->work->rows + j;
    const fsi_joint *q = w->joint + j;
    fsi_real sum[2] = {0, 0}, keep[2] = {1, 1}; /* forces, torques */
    int limited = 0;
    for (int i = 0; i < r->n; i++) {
        next[i] = q->impulse[i] - x[r->at + i];
        sum[fsi_vec_dot(r->l[i], r->l[i]) > 0 ? 0 : 1] += next[i] * next[i];
    }
    for (int i = 0; i < 2; i++) {
        fsi_real most = h * (i ? q->max_torque : q->max_force), size = fsi__sqrt(sum[i]);
        if (most > 0 && size > most) {
            keep[i] = most / size;
            limited = 1;
        }
    }
    for (int i = 0; i < r->n; i++)
        next[i] *= keep[fsi_vec_dot(r->l[i], r->l[i]) > 0 ? 0 : 1];
    return limited;
}

static void fsi__joint_apply(const fsi_solids *w, int j, const fsi_real *x, fsi_real h) {
    fsi_joint *q = w->joint + j;
    fsi_real next[6];
    if (fsi__joint_limit(w, j, x, h, next))
        q->limited = 1;
    for (int i = 0; i < w->work->rows[j].n; i++) {
        fsi__row_apply(w, q, w->work->rows + j, i, next[i] - q->impulse[i]);
        q->impulse[i] = next[i];
    }
}

/* its rows with all other joints as they are */
static void fsi__joint_alone(fsi_solids *w, int j, fsi_real h, int push) {
    fsi_real *x = w->work->joint_x;
    fsi__joint_residual(w, j, h, push, x);
    fsi__joint_backsolve(w, w->work->rows[j].at, w->work->rows[j].at + w->work->rows[j].n, x);
    fsi__joint_apply(w, j, x, h);
}

/* All joints at once. One that would pull harder than it may leaves K for the rest of the step: its
   impulse is bounded, the others are solved with that as it is. (Shortening it after the solve for
   all gave its neighbours the impulses of a joint that holds, and energy from nowhere.) */
static void fsi__joints_direct(fsi_solids *w, fsi_real h, int push) {
    fsi_real *x = w->work->joint_x, next[6];
    int j, n = w->joint_count, rows = w->work->rows[n - 1].at + w->work->rows[n - 1].n, left = 1;
    while (left) {
        for (j = 0; j < n; j++)
            if (w->joint[j].limited)
                fsi__joint_alone(w, j, h, push);
        for (j = 0; j < n; j++)
            if (w->joint[j].limited)
                fsi_fill((size_t)w->work->rows[j].n, 0, x + w->work->rows[j].at);
            else
                fsi__joint_residual(w, j, h, push, x);
        fsi__joint_backsolve(w, 0, rows, x);
        for (left = 0, j = 0; j < n; j++)
            if (!w->joint[j].limited && fsi__joint_limit(w, j, x, h, next))
                w->joint[j].limited = left = 1;
        if (left)
            fsi__joint_factor(w);
    }
    for (j = 0; j < n; j++)
        if (!w->joint[j].limited)
            fsi__joint_apply(w, j, x, h);
}

/* All joints: motors, springs and stops one by one, then the equality rows in one direct solve.
   Where many joints meet in one body and the band is too narrow: joint by joint, sweeping there and
   back. */
static void fsi__joints_solve(fsi_solids *w, fsi_real h, const fsi__soft *soft, int push) {
    int n = w->joint_count;
    for (int pass = 0; pass < (w->work->direct ? 1 : FSI__JOINT_SWEEPS) && n > 0; pass++) {
        for (int k = 0; k < n; k++) {
            int j = pass & 1 ? n - 1 - k : k;
            if (w->work->rows[j].free)
                fsi__joint_free(w, w->joint + j, w->work->rows + j, h, soft, push);
            if (!w->work->direct)
                fsi__joint_alone(w, j, h, push);
        }
        if (w->work->direct)
            fsi__joints_direct(w, h, push);
    }
}

static int fsi__joint_valid(const fsi_solids *w, const fsi_joint_desc *d) {
    const fsi_real v[] = {
        d->motor_speed, d->motor_limit, d->lower,     d->upper,      d->stiffness,
        d->damping,     d->rest,        d->max_force, d->max_torque, fsi_vec_dot(d->axis, d->axis)};
    int coordinate = d->kind == FSI_JOINT_HINGE || d->kind == FSI_JOINT_PRISMATIC;
    if (d->kind < FSI_JOINT_POINT || d->kind > FSI_JOINT_SPRING)
        return 0;
    if (!fsi_all_finite(sizeof v / sizeof *v, v) || !fsi__finite_vec(d->anchor)
        || !fsi__finite_vec(d->anchor_b))
        return 0;
    if (d->a < 0 || d->b < 0 || d->a >= w->body_count || d->b >= w->body_count || d->a == d->b)
        return 0;
    if (w->body[d->a].inverse_mass == 0 && w->body[d->b].inverse_mass == 0)
        return 0;
    if (d->motor_limit < 0 || d->stiffness < 0 || d->damping < 0 || d->max_force < 0
        || d->max_torque < 0 || (d->limit && !(d->lower <= d->upper)))
        return 0;
    if (!coordinate && (d->motor || d->limit))
        return 0;
    if (d->motor && (d->stiffness > 0 || d->damping > 0))
        return 0;
    if (d->kind == FSI_JOINT_SPRING && !(d->stiffness > 0 || d->damping > 0))
        return 0;
    return d->kind != FSI_JOINT_HINGE || !d->limit || (d->lower > -FSI_PI && d->upper < FSI_PI);
}

FSI_API fsi_result fsi_solids_join(fsi_solids *w, const fsi_joint_desc *desc, int *id) {
    if (!w || !w->block || !desc || !fsi__joint_valid(w, desc))
        return FSI_ERR_ARGUMENT;
    if (w->joint_count >= w->desc.max_joints)
        return FSI_ERR_SIZE;
    const fsi_rigid *a = w->body + desc->a;
    const fsi_rigid *b = w->body + desc->b;
    fsi_vec3 axis = fsi__length(desc->axis) > 0 ? fsi__unit(desc->axis) : fsi_vec(0, 0, 1);
    if (w->desc.dim == 2 && desc->kind == FSI_JOINT_HINGE)
        axis = fsi_vec(0, 0, 1);
    if (w->desc.dim == 2 && desc->kind == FSI_JOINT_PRISMATIC && axis.z != 0)
        return FSI_ERR_ARGUMENT;
    fsi_joint *j = w->joint + w->joint_count;
    memset(j, 0, sizeof *j);
    j->kind = desc->kind;
    j->a = desc->a;
    j->b = desc->b;
    j->motor = desc->motor != 0;
    j->limit = desc->limit != 0;
    j->collide = desc->collide != 0;
    j->motor_speed = desc->motor_speed;
    j->motor_limit = desc->motor_limit;
    j->lower = desc->lower;
    j->upper = desc->upper;
    j->stiffness = desc->stiffness;
    j->damping = desc->damping;
    j->rest = desc->rest;
    j->max_force = desc->max_force;
    j->max_torque = desc->max_torque;
    fsi_vec3 pb = desc->kind == FSI_JOINT_SPRING ? desc->anchor_b : desc->anchor;
    j->pa = fsi_mat3_tmul_vec(&a->rotation, fsi_vec_sub(desc->anchor, a->x));
    j->pb = fsi_mat3_tmul_vec(&b->rotation, fsi_vec_sub(pb, b->x));
    j->axis_a = fsi_mat3_tmul_vec(&a->rotation, axis);
    j->axis_b = fsi_mat3_tmul_vec(&b->rotation, axis);
    j->q0 = fsi_quat_mul(fsi__quat_back(b->q), a->q);
    fsi__joint_rows rows;
    fsi__joint_geometry(w, j, &rows);
    j->rows = rows.n;
    if (desc->kind == FSI_JOINT_SPRING && desc->rest == 0)
        j->rest = rows.C[FSI__JOINT_FREE];
    if (id)
        *id = w->joint_count;
    w->joint_count++;
    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>world */
#define FSI__PAIR_BATCH 256 /* pairs per round of the narrow phase */
#define FSI__STATE_TAG 0x52494749u

typedef struct fsi__solids_head { /* first bytes of the state */
    uint32_t tag;
    int32_t dim, max_bodies, max_joints, max_contacts, bodies, joints, contacts;
    /* substep of the last move: impulses are scaled when it changes */
    fsi_real h;
    double time, work, drive, others, applied; /* s; J in the last move: see fsi_solids_report */
} fsi__solids_head;

struct fsi__door {
    fsi_coupled c;
    fsi_real v[6], impulse[6], mass[36], inverse_mass[36];
    fsi_vec3 x;
    size_t size;
    /* where the solve left its velocity: v, or its part of a joined door's */
    const fsi_real *from;
    int owner, first;   /* body that has the door, and the first element there */
    int pressed;        /* contacts in it */
    fsi_coupled joined; /* owner: the door of all */
    int parts;          /* their number */
    void *memory;
    size_t room; /* of joined */
};
typedef struct fsi__door fsi__door;

static void fsi__solids_layout(fsi_solids *w, fsi_arena *arena) {
    const fsi_solids_desc *d = &w->desc;
    size_t n = (size_t)d->max_bodies, nj = (size_t)d->max_joints, nc = (size_t)d->max_contacts;
    struct fsi__solids_work work;
    memset(&work, 0, sizeof work);
    fsi_arena_take(arena, 1, sizeof(fsi__solids_head));
    FSI__TAKE(w->body, fsi_rigid, arena, n);
    FSI__TAKE(w->joint, fsi_joint, arena, nj);
    FSI__TAKE(w->contact, fsi_contact, arena, nc);
    w->state_size = arena->used;
    w->work = (struct fsi__solids_work *)fsi_arena_take(arena, 1, sizeof *w->work);
    work.max_pairs = nc + 64;
    FSI__TAKE(work.vel, fsi__velocity, arena, n);
    FSI__TAKE(work.old, fsi_contact, arena, nc);
    FSI__TAKE(work.batch, fsi__manifold, arena, FSI__PAIR_BATCH);
    FSI__TAKE(work.pair, uint64_t, arena, work.max_pairs);
    FSI__TAKE(work.pair_scratch, uint64_t, arena, work.max_pairs);
    FSI__TAKE(work.cell, uint64_t, arena, n);
    FSI__TAKE(work.cell_scratch, uint64_t, arena, n);
    FSI__TAKE(work.jointed, uint64_t, arena, nj);
    FSI__TAKE(work.jointed_scratch, uint64_t, arena, nj);
    FSI__TAKE(work.lo, fsi_vec3, arena, n);
    FSI__TAKE(work.hi, fsi_vec3, arena, n);
    FSI__TAKE(work.taken, fsi_vec3, arena, 2 * n);
    FSI__TAKE(work.before, fsi_rigid, arena, n);
    FSI__TAKE(work.extent, fsi_real, arena, n);
    FSI__TAKE(work.large, int32_t, arena, n);
    FSI__TAKE(work.rows, fsi__joint_rows, arena, nj);
    FSI__TAKE(work.joint_k, fsi_real, arena, 6 * nj * FSI__BAND);
    FSI__TAKE(work.joint_x, fsi_real, arena, 6 * nj);
    FSI__TAKE(work.joint_begin, int32_t, arena, 6 * nj);
    FSI__TAKE(work.door, fsi__door *, arena, n);
    if (w->work)
        *w->work = work;
}

FSI_API fsi_result fsi_solids_init(fsi_solids *w, const fsi_solids_desc *desc) {
    if (!w)
        return FSI_ERR_ARGUMENT;
    memset(w, 0, sizeof *w);
    fsi_arena arena;
    memset(&arena, 0, sizeof arena);
    if (!desc || (desc->dim != 2 && desc->dim != 3) || desc->max_bodies < 1
        || desc->max_bodies >= 1 << 24)
        return FSI_ERR_ARGUMENT;
    if (desc->max_joints < 0 || desc->max_contacts < 0 || desc->substeps < 0 || desc->substeps > 64
        || desc->iterations < 0 || desc->iterations > 64)
        return FSI_ERR_ARGUMENT;
    if (!fsi__finite_vec(desc->gravity) || (desc->dim == 2 && desc->gravity.z != 0)
        || !fsi__finite(desc->bounce_speed) || desc->bounce_speed < 0 || !fsi__finite(desc->slop)
        || desc->slop < 0 || !fsi_allocator_valid(&desc->allocator))
        return FSI_ERR_ARGUMENT;
    w->desc = *desc;
    if (w->desc.max_contacts == 0)
        w->desc.max_contacts = fsi__imin(24 * desc->max_bodies, 0x3fffffff);
    if (w->desc.substeps == 0)
        w->desc.substeps = 4;
    if (w->desc.iterations == 0)
        w->desc.iterations = 2;
    if (w->desc.slop == 0)
        w->desc.slop = FSI_R(1e-3);
    fsi__solids_layout(w, &arena);
    fsi_result r = fsi__arena_block(&arena, &w->desc.allocator, &w->block, &w->block_size);
    if (r != FSI_OK) {
        memset(w, 0, sizeof *w);
        return r;
    }
    fsi__solids_layout(w, &arena);
    return FSI_OK;
}

FSI_API void fsi_solids_free(fsi_solids *w) {
    if (!w)
        return;
    for (int i = 0; w->block && i < w->desc.max_bodies; i++)
        if (w->work->door[i]) {
            fsi_free(&w->desc.allocator, w->work->door[i]->memory, w->work->door[i]->room);
            fsi_free(&w->desc.allocator, w->work->door[i], w->work->door[i]->size);
        }
    if (w->block)
        fsi_free(&w->desc.allocator, w->work->bound,
                 2 * (size_t)w->work->bound_room * sizeof(fsi_vec3));
    fsi_free(&w->desc.allocator, w->block, w->block_size);
    memset(w, 0, sizeof *w);
}

static int fsi__solids_has(const fsi_solids *w, int body) {
    return w && w->block && body >= 0 && body < w->body_count;
}

static int fsi__pose_valid(const fsi_solids *w, fsi_vec3 x, fsi_quat q) {
    if (!fsi__finite_vec(x) || !fsi__finite(q.w) || !fsi__finite_vec(fsi_vec(q.x, q.y, q.z)))
        return 0;
    return w->desc.dim == 3 || (x.z == 0 && q.x == 0 && q.y == 0);
}

static int fsi__motion_valid(const fsi_solids *w, fsi_vec3 v, fsi_vec3 angular) {
    if (!fsi__finite_vec(v) || !fsi__finite_vec(angular))
        return 0;
    return w->desc.dim == 3 || (v.z == 0 && angular.x == 0 && angular.y == 0);
}

static void fsi__set_spin(fsi_rigid *b, fsi_vec3 angular) { /* L = R I R^T w */
    b->w = angular;
    if (b->kind == FSI_RIGID_DYNAMIC)
        b->L = fsi_mat3_mul_vec(
            &b->rotation,
            fsi_mat3_mul_vec(&b->inertia_body, fsi_mat3_tmul_vec(&b->rotation, angular)));
}

/* Mass and inertia from density, mass or given moments; 0 when they are not positive and finite. */
static int fsi__rigid_mass(fsi_rigid *b, const fsi_rigid_desc *d, int dim) {
    const fsi_shape *s = d->shape;
    fsi_real m = s->volume * s->density_mean;
    b->mass = d->mass > 0 ? d->mass : d->density * m;
    if (!fsi__positive(b->mass) || !(m > 0))
        return 0;
    fsi_real scale = b->mass / m;
    for (int i = 0; i < 9; i++)
        b->inertia_body.m[i] = s->inertia.m[i] * scale;
    if (d->inertia.x != 0 || d->inertia.y != 0 || d->inertia.z != 0) {
        memset(&b->inertia_body, 0, sizeof b->inertia_body);
        b->inertia_body.m[0] = d->inertia.x;
        b->inertia_body.m[4] = d->inertia.y;
        b->inertia_body.m[8] = d->inertia.z;
    }
    b->inverse_mass = 1 / b->mass;
    if (dim == 2) {
        b->inverse_inertia_body.m[8] = 1 / b->inertia_body.m[8];
        return fsi__positive(b->inverse_mass) && fsi__positive(b->inertia_body.m[8])
               && fsi__positive(b->inverse_inertia_body.m[8]);
    }
    if (!fsi__positive(b->inertia_body.m[0]) || !fsi__positive(b->inertia_body.m[4])
        || !fsi__positive(b->inertia_body.m[8]))
        return 0;
    return fsi__positive(b->inverse_mass)
           && fsi_mat3_inverse(&b->inertia_body, &b->inverse_inertia_body);
}

FSI_API fsi_result fsi_solids_add(fsi_solids *w, const fsi_rigid_desc *desc, int *id) {
    fsi_real v[8];
    if (!w || !w->block || !desc || !desc->shape || desc->shape->kind == FSI_SHAPE_NONE
        || desc->shape->dim != w->desc.dim)
        return FSI_ERR_ARGUMENT;
    v[0] = desc->density;
    v[1] = desc->mass;
    v[2] = desc->friction;
    v[3] = desc->restitution;
    v[4] = desc->linear_damping;
    v[5] = desc->angular_damping;
    v[6] = fsi__min(desc->inertia.x, fsi__min(desc->inertia.y, desc->inertia.z));
    v[7] = fsi_vec_dot(desc->inertia, desc->inertia);
    if (!fsi_all_finite(8, v) || desc->restitution > 1)
        return FSI_ERR_ARGUMENT;
    for (int i = 0; i < 7; i++)
        if (v[i] < 0)
            return FSI_ERR_ARGUMENT;
    if (!fsi__pose_valid(w, desc->x, desc->q) || !fsi__motion_valid(w, desc->v, desc->w))
        return FSI_ERR_ARGUMENT;
    if (desc->kind < FSI_RIGID_FIXED || desc->kind > FSI_RIGID_DYNAMIC)
        return FSI_ERR_ARGUMENT;
    if (w->body_count >= w->desc.max_bodies)
        return FSI_ERR_SIZE;
    fsi_rigid b;
    memset(&b, 0, sizeof b);
    b.kind = desc->kind;
    b.shape = desc->shape;
    b.x = desc->x;
    b.q = fsi_quat_unit(desc->q);
    b.friction = desc->friction;
    b.restitution = desc->restitution;
    b.linear_damping = desc->linear_damping;
    b.angular_damping = desc->angular_damping;
    b.group = desc->group;
    b.ghost = desc->ghost != 0;
    b.user = desc->user;
    if (b.kind == FSI_RIGID_DYNAMIC
        && (fsi__shape_static(desc->shape->kind) || !fsi__rigid_mass(&b, desc, w->desc.dim)))
        return FSI_ERR_ARGUMENT;
    fsi__rigid_refresh(&b, w->desc.dim);
    if (b.kind != FSI_RIGID_FIXED) {
        b.v = desc->v;
        fsi__set_spin(&b, desc->w);
    }
    b.v_start = b.v;
    b.L_start = b.L;
    w->body[w->body_count] = b;
    if (id)
        *id = w->body_count;
    w->body_count++;
    return FSI_OK;
}

FSI_API fsi_result fsi_solids_set_pose(fsi_solids *w, int body, fsi_vec3 x, fsi_quat q) {
    if (!fsi__solids_has(w, body) || !fsi__pose_valid(w, x, q))
        return FSI_ERR_ARGUMENT;
    fsi_rigid *b = w->body + body;
    b->x = x;
    b->q = fsi_quat_unit(q);
    /* what it touched is not there */
    b->push[0] = b->push[1] = fsi_vec(0, 0, 0);
    for (int i = 0; i < w->contact_count; i++)
        if (w->contact[i].a == body || w->contact[i].b == body)
            w->contact[i].impulse = 0;
    fsi__rigid_refresh(b, w->desc.dim);
    return FSI_OK;
}

FSI_API fsi_result fsi_solids_set_velocity(fsi_solids *w, int body, fsi_vec3 v, fsi_vec3 angular) {
    if (!fsi__solids_has(w, body) || !fsi__motion_valid(w, v, angular)
        || w->body[body].kind == FSI_RIGID_FIXED)
        return FSI_ERR_ARGUMENT;
    fsi_rigid *b = w->body + body;
    b->v = b->v_start = v;
    fsi__set_spin(b, angular);
    b->L_start = b->L;
    return FSI_OK;
}

FSI_API fsi_result fsi_solids_script(fsi_solids *w, int body, fsi_vec3 x, fsi_quat q, fsi_real dt) {
    if (!fsi__solids_has(w, body) || !fsi__pose_valid(w, x, q) || !fsi__positive(dt)
        || w->body[body].kind != FSI_RIGID_SCRIPTED)
        return FSI_ERR_ARGUMENT;
    const fsi_rigid *b = w->body + body;
    fsi_quat e = fsi_quat_mul(fsi_quat_unit(q), fsi__quat_back(b->q));
    if (e.w < 0) {
        e.w = -e.w;
        e.x = -e.x;
        e.y = -e.y;
        e.z = -e.z;
    }
    fsi_vec3 axis = fsi_vec(e.x, e.y, e.z);
    fsi_real s = fsi__length(axis);
    fsi_real angle = 2 * fsi__atan2(s, e.w);
    return fsi_solids_set_velocity(w, body, fsi_vec_scale(fsi_vec_sub(x, b->x), 1 / dt),
                                   s > 0 ? fsi_vec_scale(axis, angle / (s * dt)) : axis);
}

FSI_API fsi_vec3 fsi_solids_velocity(const fsi_solids *w, int body, fsi_vec3 p) {
    if (!fsi__solids_has(w, body))
        return fsi_vec(0, 0, 0);
    const fsi_rigid *b = w->body + body;
    return fsi_vec_add(b->v, fsi_vec_cross(b->w, fsi_vec_sub(p, b->x)));
}

FSI_API void fsi_solids_inverse_mass(const fsi_solids *w, int body, fsi_vec3 p, fsi_mat3 *K) {
    if (!K)
        return;
    memset(K, 0, sizeof *K);
    if (!fsi__solids_has(w, body) || w->body[body].inverse_mass == 0)
        return;
    fsi_vec3 r = fsi_vec_sub(p, w->body[body].x);
    /* column i: e / m + (I^-1 (r x e)) x r */
    for (int i = 0; i < w->desc.dim; i++) {
        fsi_vec3 e = fsi_vec(i == 0 ? FSI_R(1.) : FSI_R(0.), i == 1 ? FSI_R(1.) : FSI_R(0.),
                             i == 2 ? FSI_R(1.) : FSI_R(0.));
        e = fsi_vec_mad(
            fsi_vec_cross(fsi_mat3_mul_vec(&w->body[body].inverse_inertia, fsi_vec_cross(r, e)), r),
            e, w->body[body].inverse_mass);
        K->m[i] = e.x;
        K->m[3 + i] = e.y;
        K->m[6 + i] = e.z;
    }
}

FSI_API fsi_result fsi_solids_impulse(fsi_solids *w, int body, fsi_vec3 p, fsi_vec3 j) {
    if (!fsi__solids_has(w, body) || !fsi__finite_vec(p) || !fsi__finite_vec(j))
        return FSI_ERR_ARGUMENT;
    fsi_rigid *b = w->body + body;
    if (b->inverse_mass == 0)
        return FSI_OK;
    if (w->desc.dim == 2)
        j.z = 0;
    b->v = fsi_vec_mad(b->v, j, b->inverse_mass);
    j = fsi_vec_cross(fsi_vec_sub(p, b->x), j);
    b->L = fsi_vec_add(b->L, w->desc.dim == 2 ? fsi_vec(0, 0, j.z) : j);
    b->w = fsi_mat3_mul_vec(&b->inverse_inertia, b->L);
    return FSI_OK;
}

FSI_API fsi_result fsi_solids_closest(const fsi_solids *w, fsi_vec3 p, fsi_real reach, int group,
                                      fsi_solids_hit *hit) {
    if (!w || !w->block || !hit || !fsi__finite_vec(p) || !(reach >= 0))
        return FSI_ERR_ARGUMENT;
    memset(hit, 0, sizeof *hit);
    hit->body = -1;
    hit->distance = reach;
    for (int i = 0; i < w->body_count; i++) {
        const fsi_rigid *b = w->body + i;
        fsi_vec3 r = fsi_vec_sub(p, b->x);
        fsi_real d = b->shape->bound + hit->distance;
        if (b->ghost || (group != 0 && b->group == group) || fsi_vec_dot(r, r) > d * d)
            continue;
        fsi_vec3 n;
        d = fsi_shape_distance(b->shape, fsi_mat3_tmul_vec(&b->rotation, r), &n);
        if (d >= hit->distance)
            continue;
        hit->body = i;
        hit->distance = d;
        hit->normal = fsi_mat3_mul_vec(&b->rotation, n);
    }
    if (hit->body >= 0)
        hit->velocity = fsi_solids_velocity(w, hit->body, p);
    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>broad phase */
/* Bodies of ordinary size are sorted into the cells of a uniform grid (cell = largest of them);
   neighbours are found by walking the sorted list with one moving pointer per neighbour row. Large
   and infinite bodies are tested against all. n log n. */
static void fsi__bounds_make(const fsi_solids *w, int i, fsi_real dt) {
    const fsi_rigid *b = w->body + i;
    const fsi_shape *s = b->shape;
    struct fsi__solids_work *k = w->work;
    const fsi_real *R = b->rotation.m;
    if (fsi__shape_static(s->kind)) {
        k->lo[i] = s->lo;
        k->hi[i] = s->hi;
        k->extent[i] = FSI_REAL_MAX;
        return;
    }
    fsi_vec3 c = fsi_vec_add(
        b->x, fsi_mat3_mul_vec(&b->rotation, fsi_vec_scale(fsi_vec_add(s->lo, s->hi), FSI_R(0.5))));
    fsi_vec3 e = fsi_vec_scale(fsi_vec_sub(s->hi, s->lo), FSI_R(0.5));
    if (s->kind != FSI_SHAPE_SPHERE)
        e = fsi_vec(fsi__abs(R[0]) * e.x + fsi__abs(R[1]) * e.y + fsi__abs(R[2]) * e.z,
                    fsi__abs(R[3]) * e.x + fsi__abs(R[4]) * e.y + fsi__abs(R[5]) * e.z,
                    fsi__abs(R[6]) * e.x + fsi__abs(R[7]) * e.y + fsi__abs(R[8]) * e.z);
    fsi_vec3 v = fsi_vec(fsi__max(fsi__abs(b->v.x), fsi__abs(b->v_start.x)),
                         fsi__max(fsi__abs(b->v.y), fsi__abs(b->v_start.y)),
                         fsi__max(fsi__abs(b->v.z), fsi__abs(b->v_start.z)));
    fsi_real grow = FSI_R(0.02) * s->bound + fsi__min(dt * fsi__length(b->w), 4) * s->bound;
    e = fsi_vec_add(fsi_vec_mad(e, v, dt), fsi_vec(grow, grow, grow));
    k->lo[i] = fsi_vec_sub(c, e);
    k->hi[i] = fsi_vec_add(c, e);
    k->extent[i] = fsi__max(e.x, fsi__max(e.y, e.z));
}

static int fsi__boxes_meet(fsi_vec3 alo, fsi_vec3 ahi, fsi_vec3 blo, fsi_vec3 bhi) {
    return alo.x <= bhi.x && blo.x <= ahi.x && alo.y <= bhi.y && blo.y <= ahi.y && alo.z <= bhi.z
           && blo.z <= ahi.z;
}

static void fsi__pair_push(fsi_solids *w, uint64_t key) {
    struct fsi__solids_work *k = w->work;
    if (k->pairs < k->max_pairs)
        k->pair[k->pairs++] = key;
    else
        k->capped = 1;
}

static void fsi__pair_try(fsi_solids *w, int i, int j) {
    struct fsi__solids_work *k = w->work;
    if (i > j) {
        int t = i;
        i = j;
        j = t;
    }
    const fsi_rigid *a = w->body + i;
    const fsi_rigid *b = w->body + j;
    if (a->inverse_mass == 0 && b->inverse_mass == 0)
        return;
    if (a->ghost || b->ghost || (a->group != 0 && a->group == b->group))
        return;
    if (!fsi__boxes_meet(k->lo[i], k->hi[i], k->lo[j], k->hi[j]))
        return;
    uint64_t key = fsi__pair_key(i, j);
    size_t at = fsi__lower_bound((size_t)k->jointed_count, k->jointed, key);
    if (at < (size_t)k->jointed_count && k->jointed[at] == key)
        return;
    fsi__pair_push(w, key);
}

static void fsi__jointed_make(fsi_solids *w) {
    struct fsi__solids_work *k = w->work;
    int n = 0;
    for (int i = 0; i < w->joint_count; i++)
        if (!w->joint[i].collide)
            k->jointed[n++] = fsi__pair_key(fsi__imin(w->joint[i].a, w->joint[i].b),
                                            fsi__imax(w->joint[i].a, w->joint[i].b));
    uint64_t *sorted = fsi__sort_keys((size_t)n, k->jointed, k->jointed_scratch);
    if (sorted != k->jointed)
        memcpy(k->jointed, sorted, (size_t)n * sizeof *sorted);
    k->jointed_count = n;
}

/* Splits bodies: large ones (over four times the mean half extent of the finite ones) go to a list.
 * Returns the cell size. */
static fsi_real fsi__split_sizes(fsi_solids *w, fsi_vec3 *lo, fsi_vec3 *hi, int *small) {
    struct fsi__solids_work *k = w->work;
    fsi_real cell = 0, mean = 0;
    int n = 0;
    for (int i = 0; i < w->body_count; i++)
        if (k->extent[i] < FSI_REAL_MAX) {
            mean += k->extent[i];
            n++;
        }
    mean = n > 0 ? mean / (fsi_real)n : 0;
    *lo = fsi_vec(FSI_REAL_MAX, FSI_REAL_MAX, FSI_REAL_MAX);
    *hi = fsi_vec_scale(*lo, -1);
    k->large_count = 0;
    *small = 0;
    for (int i = 0; i < w->body_count; i++) {
        if (k->extent[i] > 4 * mean) {
            k->large[k->large_count++] = i;
            continue;
        }
        cell = fsi__max(cell, 2 * k->extent[i]);
        fsi__grow(lo, hi, k->lo[i]);
        fsi__grow(lo, hi, k->hi[i]);
        (*small)++;
    }
    for (int i = 0; i < 3 && *small > 0; i++)
        cell = fsi__max(cell, (fsi__get(*hi, i) - fsi__get(*lo, i)) / 8000);
    return cell;
}

/* Cells are numbered from 1, so that neighbours never wrap. */
static uint64_t fsi__cell_key(const fsi_solids *w, int i, fsi_vec3 lo, fsi_real cell) {
    fsi_vec3 c = fsi_vec_scale(fsi_vec_add(w->work->lo[i], w->work->hi[i]), FSI_R(0.5));
    uint64_t x = 1 + (uint64_t)((c.x - lo.x) / cell), y = 1 + (uint64_t)((c.y - lo.y) / cell),
             z = 1 + (uint64_t)((c.z - lo.z) / cell);
    return (z << 26 | y << 13 | x) << 24 | (uint64_t)i; /* 13 bits each, then the body */
}

#define FSI__ROW ((uint64_t)1 << 13) /* from a cell to the next in y and in z */
#define FSI__LAYER ((uint64_t)1 << 26)

static void fsi__broad_phase(fsi_solids *w, fsi_real dt) {
    static const uint64_t ahead[4] = {FSI__ROW, FSI__LAYER - FSI__ROW, FSI__LAYER,
                                      FSI__LAYER + FSI__ROW};
    struct fsi__solids_work *k = w->work;
    ptrdiff_t i, n = w->body_count;
    size_t row[4] = {0, 0, 0, 0};
    int rows = w->desc.dim == 3 ? 4 : 1;
    k->pairs = 0;
    k->capped = 0;
    FSI__OMP(parallel for schedule(static) if (n > 512))
    for (i = 0; i < n; i++)
        fsi__bounds_make(w, (int)i, dt);
    fsi_vec3 lo;
    fsi_vec3 hi;
    int small;
    fsi_real cell = fsi__split_sizes(w, &lo, &hi, &small);
    int c;
    for (c = 0; c < k->large_count; c++)
        for (int j = 0; j < w->body_count; j++)
            if (k->extent[k->large[c]] > k->extent[j]
                || (k->extent[k->large[c]] == k->extent[j] && k->large[c] < j))
                fsi__pair_try(w, k->large[c], j);
    size_t s;
    for (i = 0, s = 0, c = 0; i < n; i++) {
        if (c < k->large_count && k->large[c] == i) {
            c++;
            continue;
        }
        k->cell[s++] = fsi__cell_key(w, (int)i, lo, cell);
    }
    uint64_t *key = fsi__sort_keys((size_t)small, k->cell, k->cell_scratch);
    for (s = 0; s < (size_t)small; s++) {
        uint64_t at = key[s] >> 24;
        int a = (int)(key[s] & 0xffffffu);
        for (size_t t = s + 1; t < (size_t)small && (key[t] >> 24) <= at + 1; t++)
            fsi__pair_try(w, a, (int)(key[t] & 0xffffffu));
        for (c = 0; c < rows; c++) {
            uint64_t beside = at + ahead[c];
            while (row[c] < (size_t)small && (key[row[c]] >> 24) + 1 < beside)
                row[c]++;
            for (size_t t = row[c]; t < (size_t)small && (key[t] >> 24) <= beside + 1; t++)
                fsi__pair_try(w, a, (int)(key[t] & 0xffffffu));
        }
    }
}

/* Pairs with externals, by bounds. */
static void fsi__external_bounds(const fsi_external *e, fsi_real dt, fsi_vec3 *lo, fsi_vec3 *hi) {
    fsi_real grow = e->radius, fast = 0;
    *lo = fsi_vec(FSI_REAL_MAX, FSI_REAL_MAX, FSI_REAL_MAX);
    *hi = fsi_vec_scale(*lo, -1);
    for (int i = 0; i < e->point_count; i++) {
        fsi_vec3 p = fsi_vec_load(e->x + 3 * (size_t)i), v = e->velocity_fn(e->user, i, p);
        fsi__grow(lo, hi, p);
        fast = fsi__max(fast, fsi_vec_dot(v, v));
    }
    grow += dt * fsi__sqrt(fast);
    if (e->point_count == 0)
        return;
    grow += FSI_R(0.01) * fsi__length(fsi_vec_sub(*hi, *lo));
    *lo = fsi_vec_sub(*lo, fsi_vec(grow, grow, grow));
    *hi = fsi_vec_add(*hi, fsi_vec(grow, grow, grow));
}

static void fsi__external_pairs(fsi_solids *w, fsi_real dt) {
    int m = w->desc.max_bodies;
    fsi_vec3 *bound = w->work->bound;
    for (int i = 0; i < w->external_count; i++) {
        if (w->external[i].advance_fn)
            w->external[i].advance_fn(w->external[i].user, 0);
        fsi__external_bounds(w->external + i, dt, bound + 2 * i, bound + 2 * i + 1);
    }
    for (int i = 0; i < w->external_count; i++) {
        const fsi_external *e = w->external + i;
        fsi_vec3 lo = bound[2 * i], hi = bound[2 * i + 1];
        for (int j = 0; j < w->body_count; j++)
            if (!w->body[j].ghost && (e->group == 0 || e->group != w->body[j].group)
                && fsi__boxes_meet(lo, hi, w->work->lo[j], w->work->hi[j]))
                fsi__pair_push(w, (uint64_t)1 << 63 | fsi__pair_key(j, m + i));
        for (int j = i + 1; j < w->external_count; j++) {
            if ((e->group != 0 && e->group == w->external[j].group)
                || (!e->distance_fn && !w->external[j].distance_fn))
                continue;
            if (fsi__boxes_meet(lo, hi, bound[2 * j], bound[2 * j + 1]))
                fsi__pair_push(w, (uint64_t)1 << 63 | fsi__pair_key(m + i, m + j));
        }
    }
}

/* ------------------------------------------------------------------------------------------------
 * >>collide */
/* old contacts of the same pair */
typedef struct fsi__match {
    int begin, end, at;
} fsi__match;

static void fsi__match_pair(const fsi_solids *w, int old_count, fsi__match *m, uint64_t key) {
    int mb = w->desc.max_bodies;
    const fsi_contact *o = w->work->old;
    for (m->begin = m->end; m->begin < old_count; m->begin++)
        if (((uint64_t)(o[m->begin].b >= mb) << 63 | fsi__pair_key(o[m->begin].a, o[m->begin].b))
            >= key)
            break;
    for (m->end = m->begin; m->end < old_count; m->end++)
        if (((uint64_t)(o[m->end].b >= mb) << 63 | fsi__pair_key(o[m->end].a, o[m->end].b)) != key)
            break;
    m->at = m->begin;
}

/* Warm start: the impulses of the same point in the last step, its tangent impulse turned into the
 * new tangents. */
static void fsi__contact_inherit(const fsi_solids *w, fsi_contact *c, fsi__match *m,
                                 fsi_real scale) {
    const fsi_contact *o = w->work->old;
    int n = m->end - m->begin;
    for (int i = 0; i < n; i++) {
        int k = m->begin + (m->at - m->begin + i) % n;
        if (o[k].feature != c->feature)
            continue;
        m->at = k + 1 < m->end ? k + 1 : m->begin;
        fsi_vec3 j =
            fsi_vec_scale(fsi__tangent_impulse(o + k, o[k].impulse_t[0], o[k].impulse_t[1]), scale);
        c->impulse = scale * o[k].impulse;
        c->impulse_t[0] = fsi_vec_dot(j, c->tangent);
        c->impulse_t[1] = fsi_vec_dot(j, fsi_vec_cross(c->normal, c->tangent));
        return;
    }
}

static fsi_contact *fsi__contact_push(fsi_solids *w, int a, int b, const fsi__point *p,
                                      fsi__match *m, fsi_real scale) {
    if (w->contact_count >= w->desc.max_contacts) {
        w->work->capped = 1;
        return NULL;
    }
    fsi_contact *c = w->contact + w->contact_count++;
    memset(c, 0, sizeof *c);
    c->a = a;
    c->b = b;
    c->feature = p->feature;
    c->point_a = c->point_b = -1;
    c->at = p->at;
    c->normal = p->normal;
    c->gap = p->gap;
    c->tangent = fsi__any_tangent(p->normal);
    if (a < w->desc.max_bodies) {
        c->ra = fsi_vec_sub(c->at, w->body[a].x);
        w->body[a].touching++;
    }
    if (b < w->desc.max_bodies) {
        c->rb = fsi_vec_sub(c->at, w->body[b].x);
        w->body[b].touching++;
    }
    fsi__contact_inherit(w, c, m, scale);
    return c;
}

static void fsi__material(const fsi_solids *w, int side, fsi_real *friction, fsi_real *restitution,
                          int *group) {
    int m = w->desc.max_bodies;
    if (side < m) {
        *friction = w->body[side].friction;
        *restitution = w->body[side].restitution;
        *group = w->body[side].group;
    } else {
        *friction = w->external[side - m].friction;
        *restitution = w->external[side - m].restitution;
        *group = w->external[side - m].group;
    }
}

static void fsi__contact_material(const fsi_solids *w, fsi_contact *c) {
    fsi_real fa, ra;
    int g;
    fsi__material(w, c->a, &fa, &ra, &g);
    fsi_real fb;
    fsi_real rb;
    fsi__material(w, c->b, &fb, &rb, &g);
    c->friction = fsi__sqrt(fa * fb);
    c->restitution = fsi__max(ra, rb);
}

static void fsi__collide_rigid(fsi_solids *w, const uint64_t *pair, size_t count, fsi_real dt,
                               fsi_real scale, int old_count, fsi__match *match) {
    for (size_t begin = 0; begin < count; begin += FSI__PAIR_BATCH) {
        ptrdiff_t n =
            (ptrdiff_t)(count - begin < FSI__PAIR_BATCH ? count - begin : FSI__PAIR_BATCH);
        fsi__manifold *batch = w->work->batch;
        FSI__OMP(parallel for schedule(static) if (n > 64))
        for (ptrdiff_t k = 0; k < n; k++)
            fsi__collide_bodies(batch + k, w->body + (pair[begin + (size_t)k] >> 32),
                                w->body + (pair[begin + (size_t)k] & 0xffffffffu), dt);
        for (ptrdiff_t k = 0; k < n; k++) {
            uint64_t key = pair[begin + (size_t)k];
            if (batch[k].count == 0)
                continue;
            fsi__match_pair(w, old_count, match, key);
            for (int i = 0; i < batch[k].count; i++) {
                fsi_contact *c = fsi__contact_push(w, (int)(key >> 32), (int)(key & 0xffffffffu),
                                                   batch[k].p + i, match, scale);
                if (c)
                    fsi__contact_material(w, c);
            }
        }
    }
}

/* Distance of p from the other side, a rigid body or an external with a distance; *v: velocity
 * there, *point: for the other's callbacks. */
static fsi_real fsi__other_distance(const fsi_solids *w, int other, fsi_vec3 p, fsi_vec3 *n,
                                    fsi_vec3 *v, int *point) {
    int m = w->desc.max_bodies;
    *point = -1;
    *v = fsi_vec(0, 0, 0);
    fsi_real d;
    if (other < m) {
        const fsi_rigid *b = w->body + other;
        fsi_vec3 r = fsi_vec_sub(p, b->x);
        *v = fsi_vec_add(b->v, fsi_vec_cross(b->w, r));
        d = fsi_shape_distance(b->shape, fsi_mat3_tmul_vec(&b->rotation, r), n);
        *n = fsi_mat3_mul_vec(&b->rotation, *n);
        return d;
    }
    d = w->external[other - m].distance_fn(w->external[other - m].user, p, n, point);
    if (d < FSI_REAL_MAX && *point >= 0)
        *v = w->external[other - m].velocity_fn(w->external[other - m].user, *point, p);
    return d;
}

static fsi_real fsi__other_radius(const fsi_solids *w, int other) {
    return other < w->desc.max_bodies ? 0 : w->external[other - w->desc.max_bodies].radius;
}

static int fsi__other_near(const fsi_solids *w, int other, fsi_vec3 lo, fsi_vec3 hi,
                           fsi_real grow) {
    const fsi_vec3 *bound = w->work->bound + 2 * (other - w->desc.max_bodies);
    fsi_vec3 room = fsi_vec(grow, grow, grow);
    if (other < w->desc.max_bodies)
        return fsi__boxes_meet(fsi_vec_sub(lo, room), fsi_vec_add(hi, room), w->work->lo[other],
                               w->work->hi[other]);
    return fsi__boxes_meet(fsi_vec_sub(lo, room), fsi_vec_add(hi, room), bound[0], bound[1]);
}

/* Contact of place `point` of external eside at p, at distance d (less radii: gap) from the other
 * side along n. */
static void fsi__external_push(fsi_solids *w, int eside, int point, int other, int hit, fsi_vec3 p,
                               fsi_vec3 n, fsi_real gap, uint32_t feature, fsi_real scale,
                               fsi__match *match) {
    fsi__point q;
    /* at the point itself: a node takes no torque */
    q.at = p;
    q.gap = gap;
    /* from the higher side to the lower */
    q.normal = eside < other ? n : fsi_vec_scale(n, -1);
    q.feature = feature + (eside < other ? 0u : 1u << 31);
    fsi_contact *c =
        fsi__contact_push(w, fsi__imin(eside, other), fsi__imax(eside, other), &q, match, scale);
    if (!c)
        return;
    c->point_a = eside < other ? point : hit;
    c->point_b = eside < other ? hit : point;
    c->lead = eside;
    fsi__contact_material(w, c);
}

/* Point i of external e (side eside) against the other side. */
static void fsi__external_point(fsi_solids *w, int eside, int i, int other, fsi_real dt,
                                fsi_real scale, fsi__match *match) {
    const fsi_external *e = w->external + (eside - w->desc.max_bodies);
    fsi_vec3 p = fsi_vec_load(e->x + 3 * (size_t)i), v = e->velocity_fn(e->user, i, p);
    fsi_real r = e->radius + fsi__other_radius(w, other);
    if (!fsi__other_near(w, other, p, p, dt * fsi__length(v) + r))
        return;
    fsi_vec3 n;
    fsi_vec3 u;
    int hit;
    fsi_real d = fsi__other_distance(w, other, p, &n, &u, &hit);
    if (d - r < dt * fsi__length(fsi_vec_sub(v, u)) + FSI_R(0.1) * r)
        fsi__external_push(w, eside, i, other, hit, p, n, d - r, (uint32_t)i, scale, match);
}

/* Edge k of external e against the other side: its nearest place between the ends, by golden
 * section. Where that is hardly nearer than an end, the ends do. */
static void fsi__external_edge(fsi_solids *w, int eside, int k, int other, fsi_real dt,
                               fsi_real scale, fsi__match *match) {
    const fsi_external *e = w->external + (eside - w->desc.max_bodies);
    const int32_t *edge = e->edge + 3 * (size_t)k;
    const fsi_real g = FSI_R(0.6180339887498949);
    fsi_vec3 p = fsi_vec_load(e->x + 3 * (size_t)edge[0]),
             along = fsi_vec_sub(fsi_vec_load(e->x + 3 * (size_t)edge[1]), p), lo = p, hi = p;
    fsi_real len = fsi__length(along), r = e->radius + fsi__other_radius(w, other), a = 0, b = 1,
             s = 1 - g, t = g;
    fsi__grow(&lo, &hi, fsi_vec_add(p, along));
    fsi_vec3 v = e->velocity_fn(e->user, edge[2], fsi_vec_mad(p, along, FSI_R(0.5)));
    if (!fsi__other_near(w, other, lo, hi, dt * fsi__length(v) + r))
        return;
    fsi_vec3 n;
    fsi_vec3 u;
    int hit;
    fsi_real d = fsi__other_distance(w, other, fsi_vec_mad(p, along, FSI_R(0.5)), &n, &u, &hit);
    fsi_real way = dt * fsi__length(fsi_vec_sub(v, u));
    if (!(d - len / 2 - r < way + FSI_R(0.1) * r))
        return;
    fsi_real end = fsi__min(fsi__other_distance(w, other, p, &n, &u, &hit),
                            fsi__other_distance(w, other, fsi_vec_add(p, along), &n, &u, &hit));
    fsi_real near_s = fsi__other_distance(w, other, fsi_vec_mad(p, along, s), &n, &u, &hit);
    fsi_real near_t = fsi__other_distance(w, other, fsi_vec_mad(p, along, t), &n, &u, &hit);
    for (int i = 0; i < 8; i++) {
        if (near_s < near_t) {
            b = t;
            t = s;
            near_t = near_s;
            s = b - g * (b - a);
            near_s = fsi__other_distance(w, other, fsi_vec_mad(p, along, s), &n, &u, &hit);
        } else {
            a = s;
            s = t;
            near_s = near_t;
            t = a + g * (b - a);
            near_t = fsi__other_distance(w, other, fsi_vec_mad(p, along, t), &n, &u, &hit);
        }
    }
    p = fsi_vec_mad(p, along, (a + b) / 2);
    d = fsi__other_distance(w, other, p, &n, &u, &hit);
    if (!(d < end - (way > r ? 0 : fsi__max(FSI_R(0.25) * r, FSI_R(0.01) * len)))
        || !(d - r < way + FSI_R(0.1) * r))
        return;
    fsi__external_push(w, eside, edge[2], other, hit, p, n, d - r, 1u << 29 | (uint32_t)k, scale,
                       match);
}

/* All points and edges of external e against the other side. Along a plane an edge is nearest at an
 * end. */
static void fsi__external_all(fsi_solids *w, int eside, int other, fsi_real dt, fsi_real scale,
                              fsi__match *match) {
    const fsi_external *e = w->external + (eside - w->desc.max_bodies);
    int flat = other < w->desc.max_bodies
               && (w->body[other].shape->kind == FSI_SHAPE_PLANE
                   || w->body[other].shape->kind == FSI_SHAPE_ROOM);
    for (int i = 0; i < e->point_count; i++)
        fsi__external_point(w, eside, i, other, dt, scale, match);
    for (int i = 0; i < e->edge_count && !flat; i++)
        fsi__external_edge(w, eside, i, other, dt, scale, match);
}

/* Samples of rigid body a against the distance of external b. */
static void fsi__external_samples(fsi_solids *w, int a, int b, fsi_real dt, fsi_real scale,
                                  fsi__match *match) {
    const fsi_external *o = w->external + (b - w->desc.max_bodies);
    const fsi_rigid *body = w->body + a;
    for (int part = 0; part < fsi__part_count(body->shape); part++) {
        fsi__side A = fsi__part_side(body, part);
        for (int i = 0; i < A.s->point_count; i++) {
            fsi_vec3 p = fsi__pose_point(&A.f, fsi_vec_load(A.s->point + 3 * (size_t)i));
            fsi_real r = A.s->point_radius + o->radius;
            int hit = -1;
            fsi_vec3 n;
            fsi_real d = o->distance_fn(o->user, p, &n, &hit);
            if (hit < 0 || !(d < FSI_REAL_MAX))
                continue;
            fsi_vec3 v =
                fsi_vec_sub(fsi_vec_add(body->v, fsi_vec_cross(body->w, fsi_vec_sub(p, body->x))),
                            o->velocity_fn(o->user, hit, p));
            if (!(d - r < dt * fsi__length(v) + FSI_R(0.02) * body->shape->bound))
                continue;
            fsi__point q;
            q.at = fsi_vec_mad(p, n, -d);
            q.gap = d - r;
            q.normal = n;
            q.feature = 1u << 30 | (uint32_t)part << 20 | (uint32_t)i;
            fsi_contact *c = fsi__contact_push(w, a, b, &q, match, scale);
            if (!c)
                return;
            c->point_b = hit;
            c->lead = a;
            fsi__contact_material(w, c);
        }
    }
}

static void fsi__collide_external(fsi_solids *w, uint64_t key, fsi_real dt, fsi_real scale,
                                  int old_count, fsi__match *match) {
    int a = (int)((key >> 32) & 0x7fffffffu), b = (int)(key & 0xffffffffu), m = w->desc.max_bodies;
    const fsi_external *eb = w->external + (b - m);
    fsi__match_pair(w, old_count, match, key);
    if (a < m || w->external[a - m].distance_fn)
        fsi__external_all(w, b, a, dt, scale, match);
    if (a >= m && eb->distance_fn)
        fsi__external_all(w, a, b, dt, scale, match);
    if (a < m && eb->distance_fn && !fsi__shape_static(w->body[a].shape->kind))
        fsi__external_samples(w, a, b, dt, scale, match);
}

/* All contacts of the coming step, in a fixed order. */
static void fsi__collide(fsi_solids *w, fsi_real dt, fsi_real scale) {
    struct fsi__solids_work *k = w->work;
    fsi__match match;
    int old_count = w->contact_count;
    memset(&match, 0, sizeof match);
    memcpy(k->old, w->contact, (size_t)old_count * sizeof *k->old);
    w->contact_count = 0;
    for (int i = 0; i < w->body_count; i++)
        w->body[i].touching = 0;
    for (int i = 0; i < w->joint_count; i++) {
        w->body[w->joint[i].a].touching++;
        w->body[w->joint[i].b].touching++;
    }
    fsi__jointed_make(w);
    fsi__broad_phase(w, dt);
    k->rigid_pairs = k->pairs;
    fsi__external_pairs(w, dt);
    /* external pairs carry the top bit: they stay behind */
    uint64_t *pair = fsi__sort_keys(k->pairs, k->pair, k->pair_scratch);
    fsi__collide_rigid(w, pair, k->rigid_pairs, dt, scale, old_count, &match);
    for (size_t s = k->rigid_pairs; s < k->pairs; s++)
        fsi__collide_external(w, pair[s], dt, scale, old_count, &match);
}

/* ------------------------------------------------------------------------------------------------
 * >>step */
/* ---- What contact and joints will do, for a solve that must know before the move. Body of mass m,
   fluid of mass m_a that moves with it at u, their net load G, held impulse h: the solve gives w =
   (G + h + m_a u) / (m + m_a), contact then j = max(0, h - m w). With h = the last j the error h +
   G and w shrink by sqrt(m_a / (m + m_a)) a step for any masses; with h = 0 the fluid ends at G / m
   and stays there. Contacts with bodies that are not pushed go into the door besides
   (fsi__door_contacts), so the error is zero at once where m_a is large. The smaller of two pushes:
   an impact is not repeated. Less what the forces no longer ask for: who is pulled off leaves. And
   where the push does not come (the floor has gone) a body is off by h dt / m for one step: half
   its size at most. */
/* p . M^-1 q */
static fsi_real fsi__load_dot(const fsi_rigid *b, const fsi_vec3 *p, const fsi_vec3 *q) {
    return b->inverse_mass * fsi_vec_dot(p[0], q[0])
           + fsi_vec_dot(p[1], fsi_mat3_mul_vec(&b->inverse_inertia, q[1]));
}

/* held times share into the velocities */
static void fsi__hold_give(fsi_rigid *b, fsi_real share) {
    b->v = fsi_vec_mad(b->v, b->held[0], share * b->inverse_mass);
    b->L = fsi_vec_mad(b->L, b->held[1], share);
    b->w = fsi_mat3_mul_vec(&b->inverse_inertia, b->L);
}

static void fsi__hold_release(fsi_solids *w) {
    for (int i = 0; i < w->body_count; i++) {
        fsi_rigid *b = w->body + i;
        if (fsi__load_dot(b, b->held, b->held) > 0)
            fsi__hold_give(b, -1);
        b->held[0] = b->held[1] = fsi_vec(0, 0, 0);
    }
}

FSI_API fsi_result fsi_solids_hold(fsi_solids *w, fsi_real dt) {
    if (!w || !w->block)
        return FSI_ERR_STATE;
    if (!fsi__positive(dt))
        return FSI_ERR_ARGUMENT;
    fsi__hold_release(w);
    w->work->hold_dt = dt;
    fsi_real last = ((const fsi__solids_head *)w->block)->h * (fsi_real)w->desc.substeps;
    for (int i = 0; i < w->body_count && last > 0; i++) {
        fsi_rigid *b = w->body + i;
        fsi_real scale = dt / last, pp = fsi__load_dot(b, b->push, b->push);
        if (!(pp > 0))
            continue;
        fsi_real share = fsi__min(1, fsi__load_dot(b, b->push, b->push_before) / pp);
        share = fsi__min(share, 1 + fsi__load_dot(b, b->push, b->load_before) / pp
                                    - fsi__load_dot(b, b->push, b->load) / (pp * scale));
        share = fsi__min(share, FSI_R(0.5) * b->shape->bound
                                    / (dt * scale * fsi__sqrt(pp * b->inverse_mass)));
        for (int k = 0; k < 2 && share > 0; k++)
            b->held[k] = fsi_vec_scale(b->push[k], share * scale);
        if (share > 0)
            fsi__hold_give(b, 1);
    }
    return FSI_OK;
}

FSI_API fsi_result fsi_solids_forces(fsi_solids *w, fsi_real dt) {
    if (!w || !w->block)
        return FSI_ERR_STATE;
    if (!fsi__positive(dt))
        return FSI_ERR_ARGUMENT;
    ptrdiff_t n = w->body_count;
    for (ptrdiff_t i = 0; i < n; i++)
        if (!fsi__finite_vec(w->body[i].force) || !fsi__finite_vec(w->body[i].torque))
            return FSI_ERR_NUMERIC;
    fsi__hold_release(w);
    for (ptrdiff_t i = 0; i < n; i++) {
        fsi_rigid *b = w->body + i;
        b->v_start = b->v;
        b->L_start = b->L;
        if (b->kind == FSI_RIGID_DYNAMIC) {
            /* v* = v + dt (g + F/m) */
            b->v = fsi_vec_mad(b->v, fsi_vec_mad(w->desc.gravity, b->force, b->inverse_mass), dt);
            b->L = fsi_vec_mad(b->L, b->torque, dt);
            if (w->desc.dim == 2) {
                b->v.z = 0;
                b->L.x = b->L.y = 0;
            }
            if (b->linear_damping > 0)
                b->v = fsi_vec_scale(b->v, fsi__exp(-dt * b->linear_damping));
            if (b->angular_damping > 0)
                b->L = fsi_vec_scale(b->L, fsi__exp(-dt * b->angular_damping));
            b->w = fsi_mat3_mul_vec(&b->inverse_inertia, b->L);
            b->load_before[0] = b->load[0];
            b->load_before[1] = b->load[1];
            b->load[0] = fsi_vec_scale(fsi_vec_sub(b->v, b->v_start), b->mass);
            b->load[1] = fsi_vec_sub(b->L, b->L_start);
        }
        b->force = b->torque = fsi_vec(0, 0, 0);
    }
    return FSI_OK;
}

/* The solver's velocities become the bodies': L takes I (w' - w), so bodies that were not touched
 * keep L to the bit. */
static void fsi__velocity_take(fsi_rigid *b, const fsi__velocity *s) {
    fsi_vec3 d = fsi_vec_sub(s->w, b->w);
    if (b->kind != FSI_RIGID_DYNAMIC)
        return;
    b->v = s->v;
    if (d.x == 0 && d.y == 0 && d.z == 0)
        return;
    b->L = fsi_vec_add(
        b->L, fsi_mat3_mul_vec(&b->rotation, fsi_mat3_mul_vec(&b->inertia_body,
                                                              fsi_mat3_tmul_vec(&b->rotation, d))));
    b->w = s->w;
}

static void fsi__velocity_give(const fsi_rigid *b, fsi__velocity *s) {
    s->v = b->v;
    s->w = b->w;
    s->inverse_mass = b->inverse_mass;
    s->I = b->inverse_inertia;
}

/* lost: J that impulses took in the step */
typedef struct fsi__step {
    fsi_real h, share, slop;
    int n;
    fsi__soft contact;
    double lost;
} fsi__step;

/* v += (v* - v) / n, L the same; v* was kept in force and torque's place: see fsi_solids_move. */
static void fsi__substep_begin(fsi_solids *w, const fsi__step *st) {
    ptrdiff_t n = w->body_count;
    FSI__OMP(parallel for schedule(static) if (n > 512))
    for (ptrdiff_t i = 0; i < n; i++) {
        fsi_rigid *b = w->body + i;
        if (b->kind == FSI_RIGID_DYNAMIC) {
            b->v = fsi_vec_mad(b->v, b->v_start, st->share);
            b->L = fsi_vec_mad(b->L, b->L_start, st->share);
            b->w = fsi_mat3_mul_vec(&b->inverse_inertia, b->L);
        }
        fsi__velocity_give(b, w->work->vel + i);
        w->work->taken[2 * i] = w->work->taken[2 * i + 1] = fsi_vec(0, 0, 0);
    }
}

#define FSI__SWEEPS                                                                                \
    32 /* most sweeps of a violent substep: one where contacts are still met a hundredth of their  \
          size too far */

static void fsi__substep_solve(fsi_solids *w, const fsi__step *st, int push) {
    fsi_real left = 0;
    for (int pass = 0; pass < w->desc.iterations || (left > FSI_R(0.01) && pass < FSI__SWEEPS);
         pass++) {
        left = 0;
        fsi__joints_solve(w, st->h, &st->contact, push);
        for (int i = 0; i < w->contact_count; i++) {
            fsi_contact *c = w->contact + (w->work->order[i] & 0xffffffffu);
            /* what is still far does not rub */
            if (c->friction > 0 && c->gap < FSI_R(0.1) * c->size)
                fsi__contact_friction(w, c);
            left = fsi__max(
                left, fsi__contact_normal(w, c, st->h, st->slop * c->size, &st->contact, push));
        }
    }
}

/* ---- energy of a substep. From v over v' = v + h f / m to v'' after the impulses kinetic energy
   less the work of the forces changes by E(v'') - E(v) - (p' - p) . v'' = -|v'' - v|^2 / 2 +
   impulses . v''. The last term is <= 0 for contacts, joints and springs that are solved to the
   end; motors, scripted bodies and other solids add their own work. What is left above 0 comes from
   unfinished sweeps: a share of all impulses is then taken back. */
/* kinetic, of the solver's velocities, J */
static double fsi__touching_energy(const fsi_solids *w) {
    double e = 0;
    for (int i = 0; i < w->body_count; i++) {
        const fsi_rigid *b = w->body + i;
        const fsi__velocity *s = w->work->vel + i;
        fsi_vec3 l = fsi_mat3_tmul_vec(&b->rotation, s->w);
        if (b->kind == FSI_RIGID_DYNAMIC && b->touching)
            e += (double)(b->mass * fsi_vec_dot(s->v, s->v)
                          + fsi_vec_dot(l, fsi_mat3_mul_vec(&b->inertia_body, l)))
                 / 2;
    }
    return e;
}

/* of the joints' springs at the present poses (work->rows), J */
static double fsi__spring_energy(const fsi_solids *w) {
    double e = 0;
    for (int i = 0; i < w->joint_count; i++) {
        const fsi_joint *j = w->joint + i;
        double s = (double)(w->work->rows[i].C[FSI__JOINT_FREE] - j->rest);
        if (w->work->rows[i].free && j->stiffness > 0)
            e += (double)j->stiffness * s * s / 2;
    }
    return e;
}

/* Work of the externals on the others through the impulses of the substep: minus impulse times
 * velocity at their end. known: of those with energy_fn. */
static double fsi__others_work(const fsi_solids *w, double *known) {
    double sum = 0;
    int m = w->desc.max_bodies;
    *known = 0;
    for (int i = 0; i < w->contact_count; i++) {
        const fsi_contact *c = w->contact + i;
        fsi_vec3 j = fsi_vec_mad(fsi__tangent_impulse(c, c->impulse_t[0], c->impulse_t[1]),
                                 c->normal, c->impulse);
        if (c->b < m || (j.x == 0 && j.y == 0 && j.z == 0))
            continue;
        for (int side = c->a < m; side < 2; side++) {
            int e = side ? c->b : c->a;
            double x =
                (double)fsi_vec_dot(j, fsi__side_velocity(w, e, side ? c->point_b : c->point_a,
                                                          side ? c->rb : c->ra, c->at));
            if (!side)
                x = -x;
            sum += x;
            if (w->external[e - m].energy_fn)
                *known += x;
        }
    }
    return sum;
}

/* of motors, with a share of their impulses, and of scripted bodies, J */
static double fsi__drive_work(const fsi_solids *w, double share) {
    double sum = 0;
    for (int i = 0; i < w->joint_count; i++)
        if (w->joint[i].motor)
            sum += share
                   * (double)(w->joint[i].impulse_free
                              * fsi__row_velocity(w, w->joint + i, w->work->rows + i,
                                                  FSI__JOINT_FREE));
    for (int i = 0; i < w->body_count; i++)
        if (w->body[i].kind == FSI_RIGID_SCRIPTED)
            sum -= (double)(fsi_vec_dot(w->work->taken[2 * i], w->body[i].v)
                            + fsi_vec_dot(w->work->taken[2 * i + 1], w->body[i].w));
    return sum;
}

/* with a share of the impulses in the solver's velocities */
static double fsi__substep_balance(const fsi_solids *w, const fsi__step *st, double share) {
    double e = fsi__touching_energy(w) - fsi__drive_work(w, share), known;
    if (w->external_count)
        e -= share * fsi__others_work(w, &known);
    for (int i = 0; i < w->body_count; i++) {
        const fsi_rigid *b = w->body + i;
        const fsi__velocity *s = w->work->vel + i;
        if (b->kind == FSI_RIGID_DYNAMIC && b->touching)
            e -= (double)(st->share
                          * (b->mass * fsi_vec_dot(b->v_start, s->v)
                             + fsi_vec_dot(b->L_start, s->w)));
    }
    return e;
}

static void fsi__impulses_again(fsi_solids *w, double share) {
    for (int i = 0; i < w->joint_count; i++)
        fsi__joint_warm(w, w->joint + i, w->work->rows + i, (fsi_real)share);
    for (int i = 0; i < w->contact_count; i++)
        fsi__contact_warm(w, w->contact + i, (fsi_real)share);
}

/* energy: kinetic of the start less what springs have gained since. Returns the share of the
 * impulses that stays; *left: J gained (+) or lost (-). */
static double fsi__substep_guard(fsi_solids *w, const fsi__step *st, double energy, double *left) {
    double c[3], s = 0;
    c[0] = fsi__substep_balance(w, st, 1) - energy;
    *left = c[0];
    if (!(c[0] > 4 * (double)FSI_REAL_EPS * fabs(energy)))
        return 1;
    fsi__impulses_again(w, -0.5);
    c[1] = fsi__substep_balance(w, st, 0.5) - energy;
    fsi__impulses_again(w, -0.5);
    c[2] = fsi__substep_balance(w, st, 0) - energy;
    /* the parabola a s^2 + b s + c[0] for the share s taken back */
    double a = 2 * (c[0] - 2 * c[1] + c[2]);
    double b = 4 * c[1] - 3 * c[0] - c[2];
    double root = b * b - 4 * a * c[0];
    /* its first zero, or its lowest point */
    if (b < 0)
        s = root >= 0 ? 2 * c[0] / (sqrt(root) - b) : -b / (2 * a);
    s = s > 0 ? s < 1 ? s : 1 : 0;
    fsi__impulses_again(w, 1 - s);
    *left = (a * s + b) * s + c[0];
    return 1 - s;
}

/* Work of the substep for the report. Bodies that touch nothing fly the exact parabola: force times
 * the mean velocity; else times the last. */
static void fsi__substep_ledger(const fsi_solids *w, fsi__step *st, fsi__solids_head *head,
                                double share, double left, double *known) {
    double mine = 0;
    head->drive += fsi__drive_work(w, share);
    if (w->external_count)
        head->others += share * fsi__others_work(w, &mine);
    *known += share * mine;
    st->lost -= left < 0 ? left : 0;
    head->work += left > 0 ? left : 0;
    for (int i = 0; i < w->body_count; i++) {
        const fsi_rigid *b = w->body + i;
        const fsi__velocity *s = w->work->vel + i;
        fsi_real mean = b->touching ? 0 : st->share / 2;
        fsi_vec3 dp = fsi_vec_sub(fsi_vec_scale(b->v_start, st->share),
                                  fsi_vec_scale(w->desc.gravity, st->h)),
                 v = fsi_vec_mad(s->v, b->v_start, -mean);
        fsi_vec3 turn = fsi_vec_mad(s->w, fsi_mat3_mul_vec(&b->inverse_inertia, b->L_start), -mean);
        if (b->kind == FSI_RIGID_DYNAMIC)
            head->applied +=
                (double)(b->mass * fsi_vec_dot(dp, v) + st->share * fsi_vec_dot(b->L_start, turn));
    }
}

/* All together: what the bodies gained from the externals beside what those have. An excess is
 * taken out of the motion inside them. */
static void fsi__step_balance(fsi_solids *w, fsi__solids_head *head, double gained) {
    for (int i = 0; i < w->external_count; i++)
        if (w->external[i].energy_fn)
            gained += w->external[i].energy_fn(w->external[i].user, 0);
    for (int i = 0; i < w->external_count && gained > 0; i++)
        if (w->external[i].energy_fn)
            gained -= w->external[i].energy_fn(w->external[i].user, gained);
    if (gained > 0)
        head->work += gained;
}

/* Has the point of a contact left the body? With the masses of shorter arms its impulses would grow
 * from sweep to sweep. */
static int fsi__arm_long(const fsi_solids *w, int side, fsi_vec3 r) {
    const fsi_rigid *b = w->body + side;
    return side < w->desc.max_bodies && b->inverse_mass > 0
           && fsi_vec_dot(r, r) > 4 * b->shape->bound * b->shape->bound;
}

/* Gaps follow the normal velocity, bodies move; the point goes with the smaller side, and both arms
 * end in it: momentum stays exact. */
static void fsi__substep_move(fsi_solids *w, const fsi__step *st) {
    ptrdiff_t n = w->body_count;
    /* first: a soft body settles its velocities when it moves */
    for (int k = 0; k < w->external_count; k++)
        if (w->external[k].advance_fn)
            w->external[k].advance_fn(w->external[k].user, st->h);
    for (int k = 0; k < w->contact_count; k++) {
        fsi_contact *c = w->contact + k;
        fsi_vec3 va = fsi__side_velocity(w, c->a, c->point_a, c->ra, c->at),
                 vb = fsi__side_velocity(w, c->b, c->point_b, c->rb, c->at);
        fsi_real open = fsi__max(c->gap, 0);
        c->gap += st->h * fsi_vec_dot(c->normal, fsi_vec_sub(va, vb));
        /* the point lies in the middle of the gap: it comes nearer as that closes */
        open = (open - fsi__max(c->gap, 0)) / 2;
        if (c->lead == c->a)
            c->ra = fsi_vec_mad(c->ra, c->normal, open);
        else
            c->rb = fsi_vec_mad(c->rb, c->normal, -open);
        if (c->lead >= w->desc.max_bodies)
            c->at = fsi_vec_mad(c->at, c->lead == c->a ? va : vb, st->h);
    }
    FSI__OMP(parallel for schedule(static) if (n > 512))
    for (ptrdiff_t i = 0; i < n; i++) {
        fsi_rigid *b = w->body + i;
        if (b->kind == FSI_RIGID_FIXED)
            continue;
        fsi__velocity_take(b, w->work->vel + i);
        b->x = fsi_vec_mad(b->x, b->v, st->h);
        /* free flight: the exact parabola */
        if (b->touching == 0 && b->kind == FSI_RIGID_DYNAMIC)
            b->x = fsi_vec_mad(b->x, b->v_start, -st->h * st->share / 2);
        fsi__rigid_turn(b, st->h, w->desc.dim);
        fsi__rigid_refresh(b, w->desc.dim);
        fsi__velocity_give(b, w->work->vel + i);
    }
    for (int k = 0; k < w->contact_count; k++) {
        fsi_contact *c = w->contact + k;
        if (c->lead < w->desc.max_bodies)
            c->at = fsi_vec_add(w->body[c->lead].x, c->lead == c->a ? c->ra : c->rb);
        if (c->a < w->desc.max_bodies)
            c->ra = fsi_vec_sub(c->at, w->body[c->a].x);
        if (c->b < w->desc.max_bodies)
            c->rb = fsi_vec_sub(c->at, w->body[c->b].x);
        if (fsi__arm_long(w, c->a, c->ra) || fsi__arm_long(w, c->b, c->rb))
            fsi__contact_masses(w, c);
    }
    fsi__joint_factor(w);
}

/* other solids: their points stand for a twentieth of them */
static fsi_real fsi__side_size(const fsi_solids *w, int side) {
    if (side < w->desc.max_bodies)
        return w->body[side].shape->bound;
    const fsi_vec3 *bound = w->work->bound + 2 * (side - w->desc.max_bodies);
    return fsi__max(w->external[side - w->desc.max_bodies].radius,
                    FSI_R(0.05) * fsi__length(fsi_vec_sub(bound[1], bound[0])));
}

/* Does a joint fight against something it cannot move (a scripted body, a wall): its rows are not
   met, though its impulse alone would throw the lighter body a hundredth of its radius in the
   substep? */
static int fsi__joint_fights(const fsi_solids *w, const fsi_joint *j, const fsi__joint_rows *r,
                             fsi_real h) {
    const fsi_rigid *a = w->body + j->a, *b = w->body + j->b;
    fsi_real size = fsi__min(a->shape->bound, b->shape->bound),
             inverse = fsi__max(a->inverse_mass, b->inverse_mass), pull = 0, open = 0;
    for (int i = 0; i < r->n; i++) {
        /* m of a turn, N s of a twist */
        fsi_real arm = fsi_vec_dot(r->l[i], r->l[i]) > 0 ? FSI_R(1.) : size;
        pull = fsi__max(pull, fsi__abs(j->impulse[i]) / arm);
        open = fsi__max(open, fsi__abs(fsi__row_velocity(w, j, r, i)) * arm);
    }
    if (r->free && j->impulse_limit != 0) {
        fsi_real arm = j->kind == FSI_JOINT_HINGE ? size : FSI_R(1.),
                 v = fsi__row_velocity(w, j, r, FSI__JOINT_FREE);
        pull = fsi__max(pull, fsi__abs(j->impulse_limit) / arm);
        open = fsi__max(open, (j->impulse_limit > 0 ? -v : v) * arm);
    }
    return pull * inverse * h > FSI_R(0.01) * size && open * h > FSI_R(1e-4) * size;
}

/* Where contacts and joints contradict each other (a body between closing walls) no impulses fit,
   and the guess for the next substep would grow without bound: where the sweep left an approach of
   a tenth of a radius a substep, contact and joints of both bodies start from nothing. */
static void fsi__guess_drop(fsi_solids *w, const fsi__step *st) {
    int32_t *bad = w->work->large;
    memset(bad, 0, (size_t)w->desc.max_bodies * sizeof *bad);
    for (int i = 0; i < w->contact_count; i++) {
        fsi_contact *c = w->contact + i;
        fsi_real vn = fsi_vec_dot(fsi__contact_velocity(w, c), c->normal);
        if (vn * st->h >= FSI_R(-0.1) * c->size - fsi__max(0, c->gap))
            continue;
        c->impulse = c->impulse_t[0] = c->impulse_t[1] = 0;
        for (int side = 0; side < 2; side++)
            if ((side ? c->b : c->a) < w->desc.max_bodies)
                bad[side ? c->b : c->a] = 1;
    }
    for (int i = 0; i < w->joint_count; i++) {
        fsi_joint *j = w->joint + i;
        if (!bad[j->a] && !bad[j->b] && !fsi__joint_fights(w, j, w->work->rows + i, st->h))
            continue;
        memset(j->impulse, 0, sizeof j->impulse);
        j->impulse_free = j->impulse_limit = 0;
    }
}

/* Contacts are solved from the ground up: impulses then carry through a pile in one sweep. 1024
 * layers, each in list order. */
static void fsi__contact_order(fsi_solids *w) {
    fsi_real lo = FSI_REAL_MAX, hi = -FSI_REAL_MAX;
    fsi_vec3 g = w->desc.gravity;
    for (int i = 0; i < w->contact_count; i++) {
        fsi_real y = -fsi_vec_dot(g, w->contact[i].at);
        lo = fsi__min(lo, y);
        hi = fsi__max(hi, y);
    }
    fsi_real scale = hi > lo ? 1023 / (hi - lo) : 0;
    for (int i = 0; i < w->contact_count; i++)
        w->work->pair[i] =
            (uint64_t)((-fsi_vec_dot(g, w->contact[i].at) - lo) * scale) << 32 | (uint64_t)i;
    w->work->order = fsi__sort_keys((size_t)w->contact_count, w->work->pair, w->work->pair_scratch);
}

/* Do forces alone carry a touching body half its radius in a substep? No contact can follow that.
 */
static int fsi__step_long(const fsi_solids *w, const fsi__step *st) {
    for (int i = 0; i < w->body_count; i++) {
        const fsi_rigid *b = w->body + i;
        if (b->kind == FSI_RIGID_DYNAMIC && b->touching
            && st->h * st->share * fsi__length(b->v_start) > b->shape->bound / 2)
            return 1;
    }
    return 0;
}

/* Rates and masses of the step; approach speeds are those before the forces, so resting contacts do
 * not bounce. */
static void fsi__step_prepare(fsi_solids *w, fsi__step *st, fsi_real dt) {
    int m = w->desc.max_bodies;
    st->n = w->desc.substeps;
    st->h = dt / (fsi_real)st->n;
    st->share = 1 / (fsi_real)st->n;
    st->slop = w->desc.slop;
    st->contact = fsi__soft_make(10, st->h);
    st->lost = 0;
    /* v_start, L_start become the change of this step */
    for (int i = 0; i < w->body_count; i++) {
        fsi_rigid *b = w->body + i;
        fsi_vec3 v = b->v, L = b->L;
        if (b->kind == FSI_RIGID_DYNAMIC) {
            b->v = b->v_start;
            b->v_start = fsi_vec_sub(v, b->v_start);
            b->L = b->L_start;
            b->L_start = fsi_vec_sub(L, b->L_start);
            b->w = fsi_mat3_mul_vec(&b->inverse_inertia, b->L);
        }
        fsi__velocity_give(b, w->work->vel + i);
    }
    for (int i = 0; i < w->contact_count; i++) {
        const fsi_contact *c = w->contact + i;
        if (c->a >= m && w->external[c->a - m].touch_fn)
            w->external[c->a - m].touch_fn(w->external[c->a - m].user, c->point_a, c->at);
        if (c->b >= m && w->external[c->b - m].touch_fn)
            w->external[c->b - m].touch_fn(w->external[c->b - m].user, c->point_b, c->at);
    }
    for (int i = 0; i < w->contact_count; i++) {
        fsi_contact *c = w->contact + i;
        c->size = fsi__min(fsi__side_size(w, c->a), fsi__side_size(w, c->b));
        if (c->b < m)
            c->lead = c->size == fsi__side_size(w, c->a) ? c->a : c->b;
        fsi__contact_prepare(w, c);
    }
    fsi__joint_factor(w);
}

static void fsi__substep(fsi_solids *w, fsi__step *st, fsi__solids_head *head, double *known) {
    double energy = fsi__touching_energy(w) + fsi__spring_energy(w);
    fsi__substep_begin(w, st);
    fsi__impulses_again(w, 1); /* the guess */
    fsi__substep_solve(w, st, 1);
    fsi__substep_move(w, st);
    fsi__substep_solve(w, st, 0);
    /* moved by v, keeps vel: the difference opened overlaps against gravity */
    for (int i = 0; i < w->body_count; i++)
        if (w->body[i].kind == FSI_RIGID_DYNAMIC)
            head->work -=
                (double)(st->h * w->body[i].mass * fsi_vec_dot(w->desc.gravity, w->body[i].v));
    double left;
    double share = fsi__substep_guard(w, st, energy - fsi__spring_energy(w), &left);
    fsi__substep_ledger(w, st, head, share, left, known);
    for (int i = 0; i < w->body_count; i++) {
        fsi_rigid *b = w->body + i;
        fsi__velocity_take(b, w->work->vel + i);
        if (b->kind == FSI_RIGID_DYNAMIC)
            head->work += (double)(st->h * b->mass * fsi_vec_dot(w->desc.gravity, b->v));
    }
    fsi__guess_drop(w, st);
}

/* Bodies that meet at many times their size per step can drive the impulses out of range: these
 * bodies stop where they were, with nothing to start from. */
static int fsi__step_rescue(fsi_solids *w) {
    int lost = 0;
    for (int i = 0; i < w->body_count; i++) {
        fsi_rigid *b = w->body + i;
        if (fsi__finite_vec(b->x) && fsi__finite_vec(b->v) && fsi__finite_vec(b->w)
            && fsi__finite_vec(b->L) && fsi__finite(b->q.w))
            continue;
        *b = w->work->before[i];
        b->v = b->w = b->L = b->v_start = b->L_start = b->push[0] = b->push[1] = fsi_vec(0, 0, 0);
        lost++;
    }
    if (!lost)
        return 0;
    w->contact_count = 0;
    for (int i = 0; i < w->joint_count; i++) {
        for (int k = 0; k < 6; k++)
            w->joint[i].impulse[k] = 0;
        w->joint[i].impulse_free = w->joint[i].impulse_limit = 0;
    }
    return lost;
}

FSI_API fsi_result fsi_solids_move(fsi_solids *w, fsi_real dt) {
    double known = 0;
    if (!w || !w->block)
        return FSI_ERR_STATE;
    if (!fsi__positive(dt))
        return FSI_ERR_ARGUMENT;
    for (int i = 0; i < w->body_count; i++)
        if (!fsi__finite_vec(w->body[i].v) || !fsi__finite_vec(w->body[i].L))
            return FSI_ERR_NUMERIC;
    fsi__hold_release(w);
    memcpy(w->work->before, w->body, (size_t)w->body_count * sizeof *w->body);
    fsi__solids_head *head = (fsi__solids_head *)w->block;
    /* a longer step never multiplies the guess */
    fsi_real scale = head->h > 0 ? fsi__min(1, dt / (fsi_real)w->desc.substeps / head->h) : 0;
    fsi_real threshold =
        w->desc.bounce_speed > 0 ? w->desc.bounce_speed : 4 * dt * fsi__length(w->desc.gravity);
    head->work = head->drive = head->others = head->applied = 0;
    fsi__collide(w, dt, scale);
    fsi__contact_order(w);
    fsi__step st;
    fsi__step_prepare(w, &st, dt);
    int too_long = fsi__step_long(w, &st);
    for (int i = 0; i < w->joint_count; i++) {
        for (int k = 0; k < 6; k++)
            w->joint[i].impulse[k] *= scale;
        w->joint[i].impulse_free *= scale;
        w->joint[i].impulse_limit *= scale;
        w->joint[i].limited = 0;
    }
    for (int k = 0; k < st.n; k++)
        fsi__substep(w, &st, head, &known);
    memset(w->work->taken, 0, 2 * (size_t)w->body_count * sizeof *w->work->taken);
    double kinetic = fsi__touching_energy(w);
    double bounce = fsi__contact_restitution(w, threshold, st.lost);
    kinetic = fsi__touching_energy(w) - kinetic;
    double driven = fsi__drive_work(w, 0);
    head->drive += driven;
    /* minus what restitution gave to other solids */
    head->others += kinetic - driven - bounce;
    for (int i = 0; i < w->external_count; i++)
        if (w->external[i].advance_fn)
            w->external[i].advance_fn(w->external[i].user, -1);
    if (w->external_count)
        fsi__step_balance(w, head, known - st.lost + kinetic - driven);
    for (int i = 0; i < w->body_count; i++) {
        fsi_rigid *b = w->body + i;
        fsi__velocity_take(b, w->work->vel + i);
        b->v_start = b->v;
        b->L_start = b->L;
        b->push_before[0] = b->push[0];
        b->push_before[1] = b->push[1];
        b->push[0] =
            fsi_vec_scale(fsi_vec_sub(b->v, w->work->before[i].v), b->touching ? b->mass : 0);
        b->push[1] = fsi_vec_scale(fsi_vec_sub(b->L, w->work->before[i].L), b->touching ? 1 : 0);
        for (int k = 0; k < 2; k++) {
            b->push[k] = fsi_vec_add(b->push[k], b->kept[k]);
            b->kept[k] = fsi_vec(0, 0, 0);
        }
    }
    head->h = st.h;
    w->time += (double)dt;
    return fsi__step_rescue(w) || w->work->capped ? FSI_CAPPED
           : too_long                             ? FSI_DT_TOO_LARGE
                                                  : FSI_OK;
}

FSI_API fsi_result fsi_solids_step(fsi_solids *w, fsi_real dt) {
    fsi_result r = fsi_solids_forces(w, dt);
    return r == FSI_OK ? fsi_solids_move(w, dt) : r;
}

FSI_API fsi_result fsi_solids_set_externals(fsi_solids *w, const fsi_external *external,
                                            int count) {
    if (!w || !w->block || count < 0 || (count > 0 && !external))
        return FSI_ERR_ARGUMENT;
    for (int i = 0; i < count; i++) {
        const fsi_external *e = external + i;
        if (e->point_count < 0 || (e->point_count > 0 && !e->x) || !e->velocity_fn
            || !e->inverse_mass_fn || !e->impulse_fn)
            return FSI_ERR_ARGUMENT;
        if (e->edge_count < 0 || (e->edge_count > 0 && !e->edge))
            return FSI_ERR_ARGUMENT;
        if (!fsi__finite(e->radius) || e->radius < 0 || !fsi__finite(e->friction)
            || e->friction < 0)
            return FSI_ERR_ARGUMENT;
        if (!fsi__finite(e->restitution) || e->restitution < 0 || e->restitution > 1)
            return FSI_ERR_ARGUMENT;
    }
    if (count > w->work->bound_room) {
        fsi_vec3 *bound =
            (fsi_vec3 *)fsi_alloc(&w->desc.allocator, 2 * (size_t)count * sizeof *bound);
        if (!bound)
            return FSI_ERR_MEMORY;
        fsi_free(&w->desc.allocator, w->work->bound,
                 2 * (size_t)w->work->bound_room * sizeof *bound);
        w->work->bound = bound;
        w->work->bound_room = count;
    }
    w->external = external;
    w->external_count = count;
    return FSI_OK;
}

FSI_API fsi_real fsi_solids_max_dt(const fsi_solids *w) {
    fsi_real dt = FSI_REAL_MAX;
    for (int i = 0; w && i < w->body_count; i++) {
        const fsi_rigid *b = w->body + i;
        fsi_real v = fsi__length(b->v), s = fsi__length(b->w);
        if (v > 0 && b->shape->thin < FSI_REAL_MAX)
            dt = fsi__min(dt, b->shape->thin / v);
        if (s > 0)
            dt = fsi__min(dt, (fsi_real)w->desc.substeps / s);
    }
    return dt;
}

/* ------------------------------------------------------------------------------------------------
 * >>doors of rigid bodies */
FSI_API fsi_result fsi_solids_surface(const fsi_solids *w, int body, fsi_real *x, fsi_real *v,
                                      fsi_surface *out) {
    if (!fsi__solids_has(w, body) || !x || !out)
        return FSI_ERR_ARGUMENT;
    const fsi_rigid *b = w->body + body;
    const fsi_surface *s = &b->shape->surface;
    for (int i = 0; i < s->vertex_count; i++) {
        fsi_vec3 r = fsi_mat3_mul_vec(&b->rotation, fsi_vec_load(s->x + 3 * (size_t)i));
        fsi_vec_store(x + 3 * (size_t)i, fsi_vec_add(b->x, r));
        if (v)
            fsi_vec_store(v + 3 * (size_t)i, fsi_vec_add(b->v, fsi_vec_cross(b->w, r)));
    }
    *out = *s;
    out->x = x;
    out->v = v;
    return FSI_OK;
}

static void fsi__rigid_row(const fsi_coupled *self, int element, const fsi_real *weight,
                           fsi_vec3 point, fsi_vec3 dir, fsi_real *row) {
    const fsi__door *d = (const fsi__door *)self->user;
    (void)element;
    (void)weight;
    /* dir . (v + w x r) = dir . v + (r x dir) . w */
    fsi_vec_store(row, dir);
    fsi_vec_store(row + 3, fsi_vec_cross(fsi_vec_sub(point, d->x), dir));
}

/* Row r of a constraint r.v = target inside the door: v += g (target - r.v) / r.g, M^-1 -= g g^T /
 * r.g with g = M^-1 r. Rows already held stay held. */
static void fsi__door_row(const fsi_rigid *b, const fsi_real *r, fsi_real target, fsi__door *d) {
    fsi_real g[6], full = 0, rg = 0, rv = 0;
    int k;
    for (int i = 0; i < 6; i++) {
        for (g[i] = 0, k = 0; k < 6; k++)
            g[i] += d->inverse_mass[6 * i + k] * r[k];
        full += r[i] * r[i] * (i < 3 ? b->inverse_mass : b->inverse_inertia.m[4 * (i - 3)]);
        rg += r[i] * g[i];
        rv += r[i] * d->v[i];
    }
    /* already held by other rows */
    if (!(rg > 64 * FSI_REAL_EPS * full))
        return;
    for (int i = 0; i < 6; i++) {
        d->v[i] += g[i] * (target - rv) / rg;
        for (k = 0; k < 6; k++)
            d->inverse_mass[6 * i + k] -= g[i] * g[k] / rg;
    }
}

/* Directions that rows have taken are zero, not round-off: who factors M^-1 goes by its own
 * diagonal. */
static void fsi__door_clean(int n, const fsi_real *mass, fsi_real *inverse) {
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n && !(inverse[i * n + i] * mass[i * n + i] > 64 * FSI_REAL_EPS); k++)
            inverse[i * n + k] = inverse[k * n + i] = 0;
}

/* Joints with bodies that are not pushed (posts, walls, scripted ones) inside the door: v and M^-1
 * on the motions they leave. Returns the number of all joints of the body. */
static int fsi__door_joints(const fsi_solids *w, int body, fsi__door *d) {
    int count = 0;
    for (int n = 0; n < w->joint_count; n++) {
        const fsi_joint *joint = w->joint + n;
        int first = joint->a == body, other = first ? joint->b : joint->a;
        if (!first && joint->b != body)
            continue;
        count++;
        if (w->body[other].kind == FSI_RIGID_DYNAMIC)
            continue;
        fsi__joint_rows rows;
        fsi__joint_geometry(w, joint, &rows);
        for (int j = 0; j < rows.n; j++) {
            fsi_real r[6];
            fsi_vec_store(r, rows.l[j]);
            fsi_vec_store(r + 3, first ? rows.a[j] : rows.b[j]);
            fsi__door_row(w->body + body, r,
                          fsi_vec_dot(rows.l[j], w->body[other].v)
                              + fsi_vec_dot(first ? rows.b[j] : rows.a[j], w->body[other].w),
                          d);
        }
    }
    return count;
}

/* The same for contacts of a held body with such bodies: a hold alone repeats the last push, and
   for m much below m_a that settles too slowly (see >>step). Those that pushed in the last move:
   list, and row[2 n], row[2 n + 1]: their unit push on the body and its moment. */
enum {
    FSI__DOOR_CONTACTS = 24
};

static int fsi__door_contacts(const fsi_solids *w, int body, const fsi_contact **list,
                              fsi_vec3 *row) {
    const fsi_rigid *b = w->body + body;
    int count = 0;
    for (int n = 0; n < w->contact_count && count < FSI__DOOR_CONTACTS; n++) {
        const fsi_contact *c = w->contact + n;
        int first = c->a == body, other = first ? c->b : c->a;
        if ((!first && c->b != body) || other >= w->body_count
            || w->body[other].kind == FSI_RIGID_DYNAMIC || !(c->impulse > 0) || c->bounced)
            continue;
        row[2 * count] = fsi_vec_scale(c->normal, first ? FSI_R(1.0) : FSI_R(-1.0));
        row[2 * count + 1] = fsi_vec_cross(fsi_vec_sub(c->at, b->x), row[2 * count]);
        list[count++] = c;
    }
    return count;
}

static void fsi__door_press(const fsi_solids *w, int body, fsi__door *d) {
    const fsi_contact *list[FSI__DOOR_CONTACTS];
    fsi_vec3 row[2 * FSI__DOOR_CONTACTS];
    const fsi_rigid *b = w->body + body;
    if (!(fsi__load_dot(b, b->held, b->held) > 0))
        return;
    d->pressed = fsi__door_contacts(w, body, list, row);
    for (int n = 0; n < d->pressed; n++) {
        fsi_real r[6];
        fsi_vec_store(r, row[2 * n]);
        fsi_vec_store(r + 3, row[2 * n + 1]);
        fsi__door_row(b, r,
                      fsi_vec_dot(row[2 * n], fsi_solids_velocity(
                                                  w, list[n]->a == body ? list[n]->b : list[n]->a,
                                                  list[n]->at)),
                      d);
    }
}

FSI_API fsi_result fsi_solids_coupled(fsi_solids *w, int body, fsi_coupled **out) {
    if (!fsi__solids_has(w, body) || !out)
        return FSI_ERR_ARGUMENT;
    const fsi_rigid *b = w->body + body;
    const fsi_surface *s = &b->shape->surface;
    fsi__door *d = w->work->door[body];
    if (!d) {
        size_t size = sizeof *d + 6 * (size_t)s->vertex_count * sizeof(fsi_real);
        d = (fsi__door *)fsi_alloc(&w->desc.allocator, size);
        if (!d)
            return FSI_ERR_MEMORY;
        d->size = size;
        w->work->door[body] = d;
    }
    fsi_real *x = (fsi_real *)(void *)(d + 1);
    fsi_solids_surface(w, body, x, x + 3 * (size_t)s->vertex_count, &d->c.surface);
    memset(d->mass, 0, sizeof d->mass);
    memset(d->inverse_mass, 0, sizeof d->inverse_mass);
    memset(d->impulse, 0, sizeof d->impulse);
    fsi_mat3 I = fsi_mat3_rotate(&b->rotation, &b->inertia_body);
    for (int i = 0; i < 3; i++) {
        d->mass[7 * i] = b->mass;
        if (i < w->desc.dim)
            d->inverse_mass[7 * i] = b->inverse_mass;
        for (int k = 0; k < 3; k++) {
            d->mass[6 * (i + 3) + k + 3] = I.m[3 * i + k];
            d->inverse_mass[6 * (i + 3) + k + 3] = b->inverse_inertia.m[3 * i + k];
        }
    }
    fsi_vec_store(d->v, b->v);
    fsi_vec_store(d->v + 3, b->w);
    d->x = b->x;
    d->c.dof = 6;
    d->c.v = d->v;
    d->c.impulse = d->impulse;
    d->c.mass = d->mass;
    d->c.inverse_mass = d->inverse_mass;
    d->c.node = NULL;
    d->c.implicit = NULL;
    d->c.row_fn = fsi__rigid_row;
    d->c.user = d;
    d->pressed = 0;
    if (b->kind == FSI_RIGID_DYNAMIC && !fsi__door_joints(w, body, d))
        fsi__door_press(w, body, d);
    if (b->kind == FSI_RIGID_DYNAMIC)
        fsi__door_clean(6, d->mass, d->inverse_mass);
    d->from = d->v;
    d->owner = body;
    d->first = 0;
    *out = &d->c;
    return FSI_OK;
}

/* ---- joined bodies as one coupled solid */
static void fsi__joined_row(const fsi_coupled *self, int element, const fsi_real *weight,
                            fsi_vec3 point, fsi_vec3 dir, fsi_real *row) {
    const fsi_solids *w = (const fsi_solids *)self->user;
    const fsi__door *d = NULL;
    int k = self->dof / 6;
    const int *member =
        (const int *)(const void *)(self->inverse_mass + (size_t)self->dof * (size_t)self->dof);
    (void)weight;
    do
        d = w->work->door[member[--k]];
    while (k > 0 && element < d->first);
    for (int i = 0; i < self->dof; i++)
        row[i] = 0;
    fsi_vec_store(row + 6 * k, dir);
    fsi_vec_store(row + 6 * k + 3, fsi_vec_cross(fsi_vec_sub(point, d->x), dir));
}

/* two bodies that the fluid pushes, by rows that hold */
FSI__INLINE int fsi__joint_ties(const fsi_solids *w, const fsi_joint *j) {
    const fsi_rigid *a = w->body + j->a, *b = w->body + j->b;
    return j->rows > 0 && !(j->max_force > 0) && !(j->max_torque > 0)
           && a->kind == FSI_RIGID_DYNAMIC && b->kind == FSI_RIGID_DYNAMIC
           && a->shape->surface.element_count > 0 && b->shape->surface.element_count > 0
           && a->shape->surface.closed == b->shape->surface.closed;
}

/* large[i] = lowest number among the bodies tied to i. */
static void fsi__joined_labels(fsi_solids *w) {
    int32_t *label = w->work->large;
    int i, more = 1;
    for (i = 0; i < w->body_count; i++)
        label[i] = i;
    while (more)
        for (more = 0, i = 0; i < w->joint_count; i++) {
            int32_t *a = label + w->joint[i].a, *b = label + w->joint[i].b;
            if (*a == *b || !fsi__joint_ties(w, w->joint + i))
                continue;
            *a = *b = fsi__imin(*a, *b);
            more = 1;
        }
}

/* v and M^-1 of all obey the rows of the joints between them, one after the other, as in
 * fsi__door_row. g: [n] scratch. */
static void fsi__joined_hold(const fsi_solids *w, int owner, const int *place, int n, fsi_real *v,
                             fsi_real *inverse, fsi_real *g) {
    int s;
    for (int q = 0; q < w->joint_count; q++) {
        const fsi_joint *joint = w->joint + q;
        int at[2];
        if (!fsi__joint_ties(w, joint) || w->work->large[joint->a] != owner)
            continue;
        fsi__joint_rows rows;
        fsi__joint_geometry(w, joint, &rows);
        at[0] = 6 * place[joint->a];
        at[1] = 6 * place[joint->b];
        for (int j = 0; j < rows.n; j++) {
            fsi_real r[2][6], full = 0, rg = 0, rv = 0;
            for (s = 0; s < 2; s++) {
                const fsi_rigid *b = w->body + (s ? joint->b : joint->a);
                fsi_vec_store(r[s], fsi_vec_scale(rows.l[j], s ? -1 : 1));
                fsi_vec_store(r[s] + 3, fsi_vec_scale(s ? rows.b[j] : rows.a[j], s ? -1 : 1));
                for (int i = 0; i < 6; i++) {
                    full += r[s][i] * r[s][i]
                            * (i < 3 ? b->inverse_mass : b->inverse_inertia.m[4 * (i - 3)]);
                    rv += r[s][i] * v[at[s] + i];
                }
            }
            for (int i = 0; i < n; i++)
                for (g[i] = 0, s = 0; s < 2; s++)
                    for (int k = 0; k < 6; k++)
                        g[i] += inverse[i * n + at[s] + k] * r[s][k];
            for (s = 0; s < 2; s++)
                for (int i = 0; i < 6; i++)
                    rg += r[s][i] * g[at[s] + i];
            if (!(rg > 64 * FSI_REAL_EPS * full))
                continue;
            for (int i = 0; i < n; i++) {
                v[i] -= g[i] * rv / rg;
                for (int k = 0; k < n; k++)
                    inverse[i * n + k] -= g[i] * g[k] / rg;
            }
        }
    }
}

/* Memory of a joined door: v, impulse, x and velocities of the vertices, scratch, mass, inverse,
 * members, index; places of bodies at the end. */
static fsi_result fsi__joined_room(fsi_solids *w, fsi__door *d, int vertices, int elements) {
    size_t n = 6 * (size_t)d->parts, reals = 3 * n + 6 * (size_t)vertices + 2 * n * n;
    size_t bytes =
        reals * sizeof(fsi_real)
        + ((size_t)d->parts + (size_t)w->body_count + (size_t)w->desc.dim * (size_t)elements)
              * sizeof(int32_t);
    if (bytes <= d->room)
        return FSI_OK;
    void *p = fsi_alloc(&w->desc.allocator, bytes);
    if (!p)
        return FSI_ERR_MEMORY;
    fsi_free(&w->desc.allocator, d->memory, d->room);
    d->memory = p;
    d->room = bytes;
    return FSI_OK;
}

static void fsi__joined_fill(fsi_solids *w, int owner, int vertices, int elements) {
    fsi__door *d = w->work->door[owner];
    int n = 6 * d->parts, k = 0, at = 0, first = 0, dim = w->desc.dim;
    fsi_real *v = (fsi_real *)d->memory, *impulse = v + n, *x = impulse + n,
             *u = x + 3 * (size_t)vertices, *scratch = u + 3 * (size_t)vertices,
             *mass = scratch + n;
    fsi_real *inverse = mass + (size_t)n * (size_t)n;
    int *member = (int *)(void *)(inverse + (size_t)n * (size_t)n);
    int *place = member + d->parts;
    int32_t *index = (int32_t *)(place + w->body_count);
    memset(mass, 0, 2 * (size_t)n * (size_t)n * sizeof *mass);
    fsi_fill((size_t)n, 0, impulse);
    for (int i = owner; i < w->body_count; i++) {
        fsi__door *m = w->work->door[i];
        if (w->work->large[i] != owner)
            continue;
        const fsi_surface *s = &m->c.surface;
        member[k] = i;
        place[i] = k;
        m->from = v + 6 * k;
        m->owner = owner;
        m->first = first;
        memcpy(v + 6 * k, m->v, sizeof m->v);
        memcpy(x + 3 * at, s->x, 3 * (size_t)s->vertex_count * sizeof *x);
        memcpy(u + 3 * at, s->v, 3 * (size_t)s->vertex_count * sizeof *u);
        for (int j = 0; j < dim * s->element_count; j++)
            index[dim * first + j] = s->index[j] + at;
        for (int j = 0; j < 36; j++) {
            size_t to = (size_t)(6 * k + j / 6) * (size_t)n + (size_t)(6 * k + j % 6);
            mass[to] = m->mass[j];
            inverse[to] = m->inverse_mass[j];
        }
        at += s->vertex_count;
        first += s->element_count;
        k++;
    }
    fsi__joined_hold(w, owner, place, n, v, inverse, scratch);
    fsi__door_clean(n, mass, inverse);
    d->joined = d->c;
    d->joined.surface.vertex_count = vertices;
    d->joined.surface.element_count = elements;
    d->joined.surface.x = x;
    d->joined.surface.v = u;
    d->joined.surface.index = index;
    d->joined.dof = n;
    d->joined.v = v;
    d->joined.impulse = impulse;
    d->joined.mass = mass;
    d->joined.inverse_mass = inverse;
    d->joined.row_fn = fsi__joined_row;
    d->joined.user = w;
}

FSI_API fsi_result fsi_solids_coupled_joined(fsi_solids *w, int body, fsi_coupled **out) {
    int parts = 0, vertices = 0, elements = 0;
    if (!fsi__solids_has(w, body) || !out)
        return FSI_ERR_ARGUMENT;
    fsi__joined_labels(w);
    *out = NULL;
    if (w->work->large[body] != body)
        return FSI_OK;
    fsi_result r;
    for (int i = body; i < w->body_count; i++) {
        if (w->work->large[i] != body)
            continue;
        fsi_coupled *c;
        if ((r = fsi_solids_coupled(w, i, &c)) != FSI_OK)
            return r;
        parts++;
        vertices += c->surface.vertex_count;
        elements += c->surface.element_count;
    }
    fsi__door *d = w->work->door[body];
    *out = &d->c;
    if (parts == 1)
        return FSI_OK;
    d->parts = parts;
    if ((r = fsi__joined_room(w, d, vertices, elements)) != FSI_OK) {
        *out = NULL;
        return r;
    }
    fsi__joined_fill(w, body, vertices, elements);
    *out = &d->joined;
    return FSI_OK;
}

FSI_API fsi_result fsi_solids_joined_part(const fsi_solids *w, int body, int *owner, int *first,
                                          int *elements) {
    if (!fsi__solids_has(w, body) || !owner || !first || !elements)
        return FSI_ERR_ARGUMENT;
    if (!w->work->door[body])
        return FSI_ERR_STATE;
    *owner = w->work->door[body]->owner;
    *first = w->work->door[body]->first;
    *elements = w->body[body].shape->surface.element_count;
    return FSI_OK;
}

/* What rows of `count` contacts (each at least `least`) leave of p, nearest to zero in M^-1:
 * Gauss-Seidel. */
static void fsi__door_rest(const fsi_rigid *b, const fsi_vec3 *row, int count, fsi_real least,
                           fsi_vec3 *p) {
    fsi_real given[FSI__DOOR_CONTACTS] = {0};
    for (int sweep = 0; sweep < FSI__DOOR_CONTACTS; sweep++)
        for (int n = 0; n < count; n++) {
            const fsi_vec3 *r = row + 2 * n;
            fsi_real old = given[n];
            given[n] = fsi__max(least, old + fsi__load_dot(b, r, p) / fsi__load_dot(b, r, r));
            p[0] = fsi_vec_mad(p[0], r[0], old - given[n]);
            p[1] = fsi_vec_mad(p[1], r[1], old - given[n]);
        }
}

/* What hold and contacts inside the door gave: H = M (v - v*) - the fluid's impulse. Where a
   contact pulled, the body stays for this step, and the contact is no row in the next: the pull is
   kept. The rest is taken back by the move, as all of a hold, up to half the body's size for dt:
   contact then finds it again. */
static void fsi__hold_take(fsi_solids *w, int body, const fsi__door *d, fsi_vec3 v, fsi_vec3 L) {
    const fsi_contact *list[FSI__DOOR_CONTACTS];
    fsi_vec3 row[2 * FSI__DOOR_CONTACTS], H[2], pull[2], side[2];
    fsi_rigid *b = w->body + body;
    int count = fsi__door_contacts(w, body, list, row);
    H[0] = fsi_vec_sub(fsi_vec_mad(b->held[0], fsi_vec_sub(b->v, v), b->mass),
                       fsi_vec_load(d->impulse));
    H[1] = fsi_vec_sub(fsi_vec_add(b->held[1], fsi_vec_sub(b->L, L)), fsi_vec_load(d->impulse + 3));
    if (w->desc.dim == 2) {
        H[0].z = 0;
        H[1].x = H[1].y = 0;
    }
    for (int k = 0; k < 2; k++)
        pull[k] = H[k];
    fsi__door_rest(b, row, count, 0, pull);
    for (int k = 0; k < 2; k++)
        side[k] = pull[k];
    /* not along the rows: friction that was held */
    fsi__door_rest(b, row, count, -FSI_REAL_MAX, side);
    for (int k = 0; k < 2; k++)
        b->held[k] = fsi_vec_add(fsi_vec_sub(H[k], pull[k]), side[k]);
    fsi_real share =
        fsi__min(1, FSI_R(0.5) * b->shape->bound
                        / (w->work->hold_dt
                           * fsi__sqrt(fsi__load_dot(b, b->held, b->held) * b->inverse_mass)));
    for (int k = 0; k < 2; k++) {
        b->held[k] = fsi_vec_scale(b->held[k], share);
        b->kept[k] = fsi_vec_sub(H[k], b->held[k]);
    }
}

FSI_API fsi_result fsi_solids_take_coupled(fsi_solids *w, int body) {
    if (!fsi__solids_has(w, body))
        return FSI_ERR_ARGUMENT;
    const fsi__door *d = w->work->door[body];
    if (!d)
        return FSI_ERR_STATE;
    if (!fsi_all_finite(6, d->from))
        return FSI_ERR_NUMERIC;
    fsi__velocity s;
    s.v = fsi_vec_load(d->from);
    s.w = fsi_vec_load(d->from + 3);
    if (w->desc.dim == 2) {
        s.v.z = 0;
        s.w.x = s.w.y = 0;
    }
    fsi_vec3 v = w->body[body].v;
    fsi_vec3 L = w->body[body].L;
    fsi__velocity_take(w->body + body, &s);
    if (d->pressed)
        fsi__hold_take(w, body, d, v, L);
    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>state and measures of the world */
FSI_API size_t fsi_solids_state_size(const fsi_solids *w) {
    return w ? w->state_size : 0;
}

static fsi__solids_head fsi__solids_stamp(const fsi_solids *w) {
    fsi__solids_head h;
    /* padding, too: the same state gives the same bytes */
    memcpy(&h, w->block, sizeof h);
    h.tag = FSI__STATE_TAG;
    h.dim = w->desc.dim;
    h.max_bodies = w->desc.max_bodies;
    h.max_joints = w->desc.max_joints;
    h.max_contacts = w->desc.max_contacts;
    h.bodies = w->body_count;
    h.joints = w->joint_count;
    h.contacts = w->contact_count;
    h.time = w->time;
    return h;
}

FSI_API fsi_result fsi_solids_save(const fsi_solids *w, void *state) {
    if (!w || !w->block)
        return FSI_ERR_STATE;
    if (!state)
        return FSI_ERR_ARGUMENT;
    fsi__solids_head h = fsi__solids_stamp(w);
    memcpy(state, w->block, w->state_size);
    memcpy(state, &h, sizeof h);
    /* addresses are not state: the same scene gives the same bytes everywhere */
    for (int i = 0; i < w->desc.max_bodies; i++)
        memset((unsigned char *)state
                   + ((const unsigned char *)&w->body[i].shape - (const unsigned char *)w->block),
               0, sizeof w->body[i].shape);
    return FSI_OK;
}

FSI_API fsi_result fsi_solids_restore(fsi_solids *w, const void *state) {
    if (!w || !w->block)
        return FSI_ERR_STATE;
    if (!state)
        return FSI_ERR_ARGUMENT;
    fsi__solids_head h;
    memcpy(&h, state, sizeof h);
    fsi__solids_head mine = fsi__solids_stamp(w);
    if (h.tag != mine.tag || h.dim != mine.dim || h.max_bodies != mine.max_bodies
        || h.max_joints != mine.max_joints || h.max_contacts != mine.max_contacts || h.bodies < 0
        || h.bodies > h.max_bodies || h.joints < 0 || h.joints > h.max_joints || h.contacts < 0
        || h.contacts > h.max_contacts)
        return FSI_ERR_SIZE;
    for (int i = 0; i < h.bodies; i++)
        if (!w->body[i].shape)
            return FSI_ERR_STATE;
    memcpy(w->block, state, (size_t)((unsigned char *)w->body - (unsigned char *)w->block));
    for (int i = 0; i < w->desc.max_bodies; i++) { /* every body keeps its own shape */
        const fsi_shape *shape = w->body[i].shape;
        memcpy(&w->body[i],
               (const unsigned char *)state
                   + ((unsigned char *)&w->body[i] - (unsigned char *)w->block),
               sizeof w->body[i]);
        w->body[i].shape = shape;
    }
    size_t rest = (size_t)((unsigned char *)w->joint - (unsigned char *)w->block);
    memcpy((unsigned char *)w->block + rest, (const unsigned char *)state + rest,
           w->state_size - rest);
    w->body_count = h.bodies;
    w->joint_count = h.joints;
    w->contact_count = h.contacts;
    w->time = h.time;
    return FSI_OK;
}

FSI_API fsi_result fsi_solids_measure(const fsi_solids *w, fsi_solids_report *r) {
    if (!w || !w->block || !r)
        return FSI_ERR_ARGUMENT;
    const fsi__solids_head *head = (const fsi__solids_head *)w->block;
    memset(r, 0, sizeof *r);
    for (int i = 0; i < w->body_count; i++) {
        const fsi_rigid *b = w->body + i;
        fsi_vec3 p = fsi_vec_scale(b->v, b->mass), a = fsi_vec_add(fsi_vec_cross(b->x, p), b->L);
        if (b->kind != FSI_RIGID_DYNAMIC)
            continue;
        /* (m v^2 + w . L) / 2 */
        r->kinetic += (double)(fsi_vec_dot(b->v, p) + fsi_vec_dot(b->w, b->L)) / 2;
        r->potential -= (double)(b->mass * fsi_vec_dot(w->desc.gravity, b->x));
        r->momentum[0] += (double)p.x;
        r->momentum[1] += (double)p.y;
        r->momentum[2] += (double)p.z;
        r->angular[0] += (double)a.x;
        r->angular[1] += (double)a.y;
        r->angular[2] += (double)a.z;
    }
    for (int i = 0; i < w->contact_count; i++) {
        const fsi_contact *c = w->contact + i;
        if (c->impulse_max > 0 || c->gap < 0)
            r->contacts++;
        if ((double)-c->gap > r->penetration)
            r->penetration = (double)-c->gap;
    }
    for (int i = 0; i < w->joint_count; i++) {
        fsi__joint_rows rows;
        double e = 0;
        fsi__joint_geometry(w, w->joint + i, &rows);
        for (int k = 0; k < rows.n; k++)
            if (fsi_vec_dot(rows.l[k], rows.l[k]) > 0)
                e += (double)(rows.C[k] * rows.C[k]);
        if (sqrt(e) > r->joint_error)
            r->joint_error = sqrt(e);
        r->joints_limited += w->joint[i].limited;
        if (rows.free && w->joint[i].stiffness > 0) {
            double s = (double)(rows.C[FSI__JOINT_FREE] - w->joint[i].rest);
            r->potential += 0.5 * (double)w->joint[i].stiffness * s * s;
        }
    }
    r->pairs = (int)w->work->pairs;
    r->work = head->work;
    r->drive = head->drive;
    r->others = head->others;
    r->applied = head->applied;
    return FSI_OK;
}

static void fsi__line(fsi_real *lines, int room, int *count, fsi_vec3 a, fsi_vec3 b) {
    if (*count < room) {
        fsi_vec_store(lines + 6 * (size_t)*count, a);
        fsi_vec_store(lines + 6 * (size_t)*count + 3, b);
    }
    (*count)++;
}

FSI_API int fsi_solids_lines(const fsi_solids *w, unsigned what, fsi_real scale, fsi_real *lines,
                             int room) {
    int count = 0;
    if (!w || !w->block || !lines)
        room = 0;
    if (!w || !w->block)
        return 0;
    for (int i = 0; i < w->contact_count && what & 1u; i++) {
        const fsi_contact *c = w->contact + i;
        if (c->impulse_max > 0)
            fsi__line(lines, room, &count, c->at, fsi_vec_mad(c->at, c->normal, scale));
    }
    for (int i = 0; i < w->joint_count && what & 2u; i++) {
        const fsi_joint *j = w->joint + i;
        fsi_vec3 a = w->body[j->a].x, b = w->body[j->b].x,
                 p = fsi_vec_add(a, fsi_mat3_mul_vec(&w->body[j->a].rotation, j->pa));
        fsi__line(lines, room, &count, a, p);
        fsi__line(lines, room, &count, p,
                  fsi_vec_add(b, fsi_mat3_mul_vec(&w->body[j->b].rotation, j->pb)));
    }
    for (int i = 0; i < w->body_count && what & 12u; i++) {
        const fsi_rigid *b = w->body + i;
        const fsi_surface *s = &b->shape->surface;
        for (int k = 0; k < w->desc.dim && what & 4u; k++)
            fsi__line(lines, room, &count, b->x,
                      fsi_vec_mad(b->x, fsi__column(&b->rotation, k), scale));
        for (int k = 0; k < s->element_count * s->dim && what & 8u; k++) {
            int next = s->dim == 2 ? (k % 2 == 0 ? k + 1 : -1) : (k % 3 == 2 ? k - 2 : k + 1);
            /* every edge once */
            if (next < 0 || (s->dim == 3 && s->index[k] > s->index[next]))
                continue;
            fsi__line(
                lines, room, &count,
                fsi_vec_add(b->x, fsi_mat3_mul_vec(&b->rotation,
                                                   fsi_vec_load(s->x + 3 * (size_t)s->index[k]))),
                fsi_vec_add(b->x,
                            fsi_mat3_mul_vec(&b->rotation,
                                             fsi_vec_load(s->x + 3 * (size_t)s->index[next]))));
        }
    }
    return count;
}

/* ------------------------------------------------------------------------------------------------
 * >>forms */
/* radius linear from a to b */
static fsi_real fsi__capsule_distance(fsi_vec3 x, fsi_vec3 a, fsi_vec3 b, fsi_real ra,
                                      fsi_real rb) {
    fsi_real w[2], d = fsi__sqrt(fsi_closest_on_segment(x, a, b, w));
    return d - (ra * w[0] + rb * w[1]);
}

static fsi_real fsi__starfish_distance(const fsi_form *f, fsi_vec3 x) {
    fsi_real d = FSI_REAL_MAX, thick = f->b / f->c;
    int n = f->count > 0 ? f->count : 5;
    x.y /= thick; /* flat: measured where the arms are round */
    for (int i = 0; i < n; i++) {
        fsi_real t = 2 * FSI_PI * (fsi_real)i / (fsi_real)n, tip = f->c * FSI_R(0.45),
                 reach = f->a - tip;
        d = fsi__min(d, fsi__capsule_distance(x, fsi_vec(0, 0, 0),
                                              fsi_vec(reach * fsi__cos(t), 0, reach * fsi__sin(t)),
                                              f->c, tip));
    }
    return d * fsi__min(thick, 1);
}

static fsi_real fsi__bell_distance(const fsi_form *f, fsi_vec3 x) {
    fsi_real r = fsi__sqrt(x.x * x.x + x.z * x.z), d = FSI_REAL_MAX;
    fsi_vec3 p = fsi_vec(r, x.y, 0), a = fsi_vec(0, f->c, 0);
    /* profile: quarter of an ellipse, thinner towards the rim */
    int n = 24;
    fsi_real ra = f->b / 2;
    for (int i = 1; i <= n; i++) {
        fsi_real t = FSI_PI / 2 * (fsi_real)i / (fsi_real)n,
                 rb = f->b / 2 * (1 - FSI_R(0.4) * (fsi_real)i / (fsi_real)n);
        fsi_vec3 b = fsi_vec(f->a * fsi__sin(t), f->c * fsi__cos(t), 0);
        d = fsi__min(d, fsi__capsule_distance(p, a, b, ra, rb));
        a = b;
        ra = rb;
    }
    return d;
}

static fsi_real fsi__helix_distance(const fsi_form *f, fsi_vec3 x) {
    fsi_real d = FSI_REAL_MAX, turns = f->count > 0 ? (fsi_real)f->count : 3;
    int n = 32 * (f->count > 0 ? f->count : 3);
    fsi_vec3 a = fsi_vec(f->a, -f->c / 2, 0);
    for (int i = 1; i <= n; i++) {
        fsi_real s = (fsi_real)i / (fsi_real)n, t = 2 * FSI_PI * turns * s;
        fsi_vec3 b = fsi_vec(f->a * fsi__cos(t), f->c * (s - FSI_R(0.5)), f->a * fsi__sin(t));
        d = fsi__min(d, fsi__capsule_distance(x, a, b, f->b, f->b));
        a = b;
    }
    return d;
}

FSI_API fsi_real fsi_form_distance(fsi_vec3 x, void *user) {
    const fsi_form *f = (const fsi_form *)user;
    fsi_vec3 n;
    fsi_real u;
    x = fsi_vec_sub(x, f->center);
    if (!(f->a > 0) || (f->kind != FSI_FORM_SPHERE && !(f->b > 0))
        || (f->kind != FSI_FORM_SPHERE && f->kind != FSI_FORM_TORUS && !(f->c > 0)))
        return FSI_R(1e30);
    switch (f->kind) {
    case FSI_FORM_SPHERE:
        return fsi__length(x) - f->a;
    case FSI_FORM_BOX:
        return fsi__distance_box(fsi_vec(f->a, f->b, f->c), 3, x, &n);
    case FSI_FORM_TORUS:
        u = fsi__sqrt(x.x * x.x + x.z * x.z) - f->a;
        return fsi__sqrt(u * u + x.y * x.y) - f->b;
    case FSI_FORM_STARFISH:
        return fsi__starfish_distance(f, x);
    case FSI_FORM_BELL:
        return fsi__bell_distance(f, x);
    case FSI_FORM_ARM:
        return fsi__capsule_distance(x, fsi_vec(0, 0, 0), fsi_vec(0, -f->a, 0), f->b, f->c);
    case FSI_FORM_HELIX:
        return fsi__helix_distance(f, x);
    }
    return FSI_R(1e30);
}

/* ------------------------------------------------------------------------------------------------
 * >>mesh memory */
static fsi_result fsi__mesh_alloc(fsi_mesh *m, int dim, int vertices, int elements, int tets,
                                  const fsi_allocator *a) {
    memset(m, 0, sizeof *m);
    if (!fsi_allocator_valid(a))
        return FSI_ERR_ARGUMENT;
    fsi_arena arena;
    memset(&arena, 0, sizeof arena);
    for (int pass = 0; pass < 2; pass++) {
        m->x = (fsi_real *)fsi_arena_take(&arena, (size_t)vertices, 3 * sizeof(fsi_real));
        m->index =
            (int32_t *)fsi_arena_take(&arena, (size_t)elements, (size_t)dim * sizeof(int32_t));
        m->tet = (int32_t *)fsi_arena_take(&arena, (size_t)tets, 4 * sizeof(int32_t));
        if (pass)
            break;
        fsi_result r = fsi__arena_block(&arena, a, &m->block, &m->size);
        if (r != FSI_OK) {
            memset(m, 0, sizeof *m);
            return r;
        }
    }
    if (!tets)
        m->tet = NULL;
    m->dim = dim;
    m->vertex_count = vertices;
    m->element_count = elements;
    m->tet_count = tets;
    if (a)
        m->allocator = *a;
    return FSI_OK;
}

FSI_API void fsi_mesh_free(fsi_mesh *m) {
    if (!m)
        return;
    fsi_free(&m->allocator, m->block, m->size);
    memset(m, 0, sizeof *m);
}

FSI_API fsi_surface fsi_mesh_surface(const fsi_mesh *m) {
    fsi_surface s;
    memset(&s, 0, sizeof s);
    s.dim = m->dim;
    s.vertex_count = m->vertex_count;
    s.element_count = m->element_count;
    s.closed = m->closed;
    s.x = m->x;
    s.index = m->index;
    return s;
}

static fsi_real fsi__tet_volume6(const fsi_real *x, const int32_t *t) { /* 6 V, signed */
    fsi_vec3 o = fsi_vec_load(x + 3 * t[0]);
    fsi_vec3 a = fsi_vec_sub(fsi_vec_load(x + 3 * t[1]), o),
             b = fsi_vec_sub(fsi_vec_load(x + 3 * t[2]), o);
    return fsi_vec_dot(fsi_vec_cross(a, b), fsi_vec_sub(fsi_vec_load(x + 3 * t[3]), o));
}

static void fsi__mesh_angle(fsi_mesh *m, fsi_vec3 u, fsi_vec3 v) { /* between u and v */
    fsi_real angle = fsi__acos(fsi__clamp(fsi_vec_dot(fsi__unit(u), fsi__unit(v)), -1, 1));
    m->angle_min = fsi__min(m->angle_min, angle);
    m->angle_max = fsi__max(m->angle_max, angle);
}

/* A finished mesh goes out to the caller, with its quality: dihedral angles of tetrahedra, or
 * corner angles of triangles. */
static fsi_result fsi__mesh_finish(fsi_mesh *out, fsi_mesh *m, int closed) {
    fsi_vec3 x[4];
    int n = m->dim == 2    ? 0
            : m->tet_count ? m->tet_count
                           : m->element_count,
        corners = m->tet_count ? 4 : 3;
    m->closed = closed;
    if (n)
        m->angle_min = FSI_PI;
    for (int e = 0; e < n; e++) {
        for (int i = 0; i < corners; i++)
            x[i] = fsi_vec_load(m->x + 3 * (m->tet_count ? m->tet : m->index)[corners * e + i]);
        for (int i = 0; i < 3 && corners == 3; i++)
            fsi__mesh_angle(m, fsi_vec_sub(x[(i + 1) % 3], x[i]),
                            fsi_vec_sub(x[(i + 2) % 3], x[i]));
        for (int i = 0; i < 3 && corners == 4; i++)
            /* faces opposite to i and j meet in the edge of the other two, k and 6 - i - j - k */
            for (int j = i + 1; j < 4; j++) {
                int k = i > 0 ? 0 : j > 1 ? 1 : 2;
                fsi_vec3 d = fsi__unit(fsi_vec_sub(x[6 - i - j - k], x[k])),
                         u = fsi_vec_sub(x[i], x[k]), v = fsi_vec_sub(x[j], x[k]);
                fsi__mesh_angle(m, fsi_vec_mad(u, d, -fsi_vec_dot(u, d)),
                                fsi_vec_mad(v, d, -fsi_vec_dot(v, d)));
            }
    }
    *out = *m;
    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>boundary */
typedef struct fsi__face {
    int32_t key[3];
    int32_t from;
} fsi__face;

static int fsi__face_order(const void *pa, const void *pb) {
    const fsi__face *a = (const fsi__face *)pa, *b = (const fsi__face *)pb;
    for (int i = 0; i < 3; i++)
        if (a->key[i] != b->key[i])
            return a->key[i] < b->key[i] ? -1 : 1;
    return a->from < b->from ? -1 : a->from > b->from;
}

/* outwards for positive volume */
static const int fsi__tet_faces[4][3] = {{1, 2, 3}, {0, 3, 2}, {0, 1, 3}, {0, 2, 1}};

FSI_API fsi_result fsi_mesh_boundary(int vertex_count, int tet_count, const int32_t *tet,
                                     int32_t *triangle, int room, int *count,
                                     const fsi_allocator *a) {
    int used = 0;
    if (vertex_count < 0 || tet_count < 0 || (tet_count && !tet) || !count)
        return FSI_ERR_ARGUMENT;
    *count = 0;
    if (!tet_count)
        return FSI_OK;
    size_t n = 4 * (size_t)tet_count;
    for (size_t i = 0; i < n; i++)
        if (tet[i] < 0 || tet[i] >= vertex_count)
            return FSI_ERR_GEOMETRY;
    fsi__face *f;
    size_t size;
    if (!fsi_size_mul(n, sizeof *f, &size))
        return FSI_ERR_SIZE;
    f = (fsi__face *)fsi_alloc(a, size);
    if (!f)
        return FSI_ERR_MEMORY;
    for (size_t i = 0; i < n; i++) {
        const int *c = fsi__tet_faces[i % 4];
        int32_t p = tet[i - i % 4 + (size_t)c[0]], q = tet[i - i % 4 + (size_t)c[1]],
                r = tet[i - i % 4 + (size_t)c[2]], t;
        if (p > q) {
            t = p;
            p = q;
            q = t;
        }
        if (q > r) {
            t = q;
            q = r;
            r = t;
        }
        if (p > q) {
            t = p;
            p = q;
            q = t;
        }
        f[i].key[0] = p;
        f[i].key[1] = q;
        f[i].key[2] = r;
        f[i].from = (int32_t)i;
    }
    qsort(f, n, sizeof *f, fsi__face_order);
    for (size_t i = 0; i < n; i++) {
        size_t j = i + 1;
        while (j < n && !memcmp(f[i].key, f[j].key, sizeof f[i].key))
            j++;
        if (j == i + 1) {
            int32_t from = f[i].from;
            if (triangle && used < room)
                for (int k = 0; k < 3; k++)
                    triangle[3 * used + k] = tet[from - from % 4 + fsi__tet_faces[from % 4][k]];
            used++;
        }
        i = j - 1;
    }
    fsi_free(a, f, size);
    *count = used;
    return triangle && used > room ? FSI_ERR_SIZE : FSI_OK;
}

/* The mesh of given vertices and tetrahedra with its boundary and quality. */
static fsi_result fsi__mesh_solid(fsi_mesh *mesh, int vertices, const fsi_real *x, int tets,
                                  const int32_t *tet, const fsi_allocator *a) {
    int faces;
    fsi_result r = fsi_mesh_boundary(vertices, tets, tet, NULL, 0, &faces, a);
    if (r != FSI_OK)
        return r;
    fsi_mesh m;
    r = fsi__mesh_alloc(&m, 3, vertices, faces, tets, a);
    if (r != FSI_OK)
        return r;
    memcpy(m.x, x, (size_t)vertices * 3 * sizeof *x);
    memcpy(m.tet, tet, (size_t)tets * 4 * sizeof *tet);
    r = fsi_mesh_boundary(vertices, tets, tet, m.index, faces, &faces, a);
    if (r != FSI_OK) {
        fsi_mesh_free(&m);
        return r;
    }
    return fsi__mesh_finish(mesh, &m, 1);
}

/* ------------------------------------------------------------------------------------------------
 * >>stuffing */
/* Isosurface stuffing on a body-centred cubic lattice. Coordinates of nodes count halves of h: all
   even at a corner of a cube, all odd at a centre. Every node owns 7 of its 14 edges: long ones to
   its own kind along +x, +y, +z, short ones to the four nodes of the other kind below it. */
typedef struct fsi__stuff {
    int n[3]; /* cubes */
    /* corners first, then centres, as many (their last layers are not used) */
    int nodes;
    /* position (warped) and value (0 when warped onto the surface) of each node */
    fsi_real *x, *phi;
    /* [8 nodes] output vertex in the cut of each own edge, then at the node; -1 = none yet */
    int32_t *id;
    fsi_real *out_x;
    int32_t *out_tet;
    int vertices, tets; /* NULL in the counting pass */
} fsi__stuff;

/* number of the node there; -1: outside */
FSI__INLINE int fsi__stuff_node(const fsi__stuff *s, const int c[3]) {
    if (c[0] < 0 || c[1] < 0 || c[2] < 0 || c[0] > 2 * s->n[0] || c[1] > 2 * s->n[1]
        || c[2] > 2 * s->n[2])
        return -1;
    return (c[0] >> 1)
           + (s->n[0] + 1)
                 * ((c[1] >> 1) + (s->n[1] + 1) * ((c[2] >> 1) + (s->n[2] + 1) * (c[0] & 1)));
}

static void fsi__stuff_place(const fsi__stuff *s, int node, int c[3]) {
    int nx = s->n[0] + 1, ny = s->n[1] + 1, corners = s->nodes / 2, centre = node >= corners;
    node %= corners;
    c[0] = 2 * (node % nx) + centre;
    c[1] = 2 * (node / nx % ny) + centre;
    c[2] = 2 * (node / (nx * ny)) + centre;
}

/* other end of own edge e of the node at c, or -1 */
static int fsi__stuff_other(const fsi__stuff *s, const int c[3], int e) {
    int d[3] = {c[0], c[1], c[2]}, sign = c[0] & 1 ? 1 : -1;
    if (e < 3)
        d[e] += 2;
    else {
        d[0] += (e - 3) & 1 ? sign : -sign;
        d[1] += (e - 3) & 2 ? sign : -sign;
        d[2]--;
    }
    return fsi__stuff_node(s, d);
}

static int32_t *fsi__stuff_cut_id(const fsi__stuff *s, int a, int b) {
    int c[3];
    for (int swap = 0; swap < 2; swap++) {
        int own = swap ? b : a, other = swap ? a : b;
        fsi__stuff_place(s, own, c);
        for (int e = 0; e < 7; e++)
            if (fsi__stuff_other(s, c, e) == other)
                return s->id + 8 * own + e;
    }
    return NULL;
}

/* zero of phi on the edge, linear */
static fsi_vec3 fsi__stuff_cut(const fsi__stuff *s, int a, int b) {
    fsi_real t = s->phi[a] / (s->phi[a] - s->phi[b]);
    fsi_vec3 p = fsi_vec_load(s->x + 3 * a);
    return fsi_vec_mad(p, fsi_vec_sub(fsi_vec_load(s->x + 3 * b), p), t);
}

/* at the node itself (other < 0) or in the cut between the two */
static int32_t fsi__stuff_vertex(fsi__stuff *s, int in, int other) {
    int32_t *id = other < 0 ? s->id + 8 * in + 7 : fsi__stuff_cut_id(s, in, other);
    if (*id < 0) {
        *id = s->vertices++;
        if (s->out_x)
            fsi_vec_store(s->out_x + 3 * *id,
                          other < 0 ? fsi_vec_load(s->x + 3 * in) : fsi__stuff_cut(s, in, other));
    }
    return *id;
}

static void fsi__stuff_tet(fsi__stuff *s, int32_t a, int32_t b, int32_t c, int32_t d) {
    int32_t t[4];
    if (a == b || a == c || a == d || b == c || b == d || c == d)
        return;
    t[0] = a;
    t[1] = b;
    t[2] = c;
    t[3] = d;
    if (s->out_tet) {
        if (fsi__tet_volume6(s->out_x, t) < 0) {
            t[2] = d;
            t[3] = c;
        }
        memcpy(s->out_tet + 4 * s->tets, t, sizeof t);
    }
    s->tets++;
}

/* The inside part of one lattice tetrahedron: p nodes inside, z on the surface, n outside. */
static void fsi__stuff_clip(fsi__stuff *s, const int *node) {
    int p[4], z[4], n[4], np = 0, nz = 0, nn = 0, i;
    int32_t a[4], b[3];
    for (i = 0; i < 4; i++) {
        fsi_real f = s->phi[node[i]];
        if (f < 0)
            p[np++] = node[i];
        else if (f > 0)
            n[nn++] = node[i];
        else
            z[nz++] = node[i];
    }
    if (!np)
        return;
    for (i = 1; i < np; i++)
        for (int j = i; j > 0 && p[j - 1] > p[j]; j--) {
            int t = p[j];
            p[j] = p[j - 1];
            p[j - 1] = t;
        }
    if (nn == 0 || np == 1) { /* whole, or one corner cut off */
        for (i = 0; i < np; i++)
            a[i] = fsi__stuff_vertex(s, p[i], -1);
        for (int j = 0; j < nz; j++)
            a[i++] = fsi__stuff_vertex(s, z[j], -1);
        for (int j = 0; j < nn; j++)
            a[i++] = fsi__stuff_vertex(s, p[0], n[j]);
        fsi__stuff_tet(s, a[0], a[1], a[2], a[3]);
        return;
    }
    if (nn == 2) { /* wedge: triangles (p0, cuts), (p1, cuts) */
        for (i = 0; i < 3; i++)
            a[i] = fsi__stuff_vertex(s, p[0], i ? n[i - 1] : -1);
        for (i = 0; i < 3; i++)
            b[i] = fsi__stuff_vertex(s, p[1], i ? n[i - 1] : -1);
        /* one outside: frustum, a surface node closes it to a point */
    } else {
        for (i = 0; i < 3; i++) {
            a[i] = fsi__stuff_vertex(s, i < np ? p[i] : z[0], -1);
            b[i] = i < np ? fsi__stuff_vertex(s, p[i], n[0]) : a[i];
        }
    }
    /* prism from a to b; diagonals leave the a with the smaller number: neighbours agree */
    fsi__stuff_tet(s, a[0], a[1], a[2], b[2]);
    fsi__stuff_tet(s, a[0], a[1], b[1], b[2]);
    fsi__stuff_tet(s, a[0], b[0], b[1], b[2]);
}

/* Nodes whose surface cut lies close are moved onto it (Labelle and Shewchuk's limits for long and
 * short edges). */
static void fsi__stuff_snap(fsi__stuff *s, fsi_real *best, fsi_real *goal) {
    int c[3];
    for (int n = 0; n < s->nodes; n++)
        best[n] = 1;
    for (int n = 0; n < s->nodes; n++) {
        fsi__stuff_place(s, n, c);
        for (int e = 0; e < 7 && fsi__stuff_node(s, c) >= 0; e++) {
            int m = fsi__stuff_other(s, c, e);
            if (m < 0 || !(s->phi[n] * s->phi[m] < 0))
                continue;
            for (int side = 0; side < 2; side++) {
                int u = side ? m : n, v = side ? n : m;
                /* distance of the cut from u over the edge */
                fsi_real t = s->phi[u] / (s->phi[u] - s->phi[v]);
                if (t < (e < 3 ? FSI_R(0.25) : FSI_R(0.41189)) && t < best[u]) {
                    best[u] = t;
                    fsi_vec_store(goal + 3 * u, fsi__stuff_cut(s, u, v));
                }
            }
        }
    }
    for (int n = 0; n < s->nodes; n++)
        if (best[n] < 1) {
            memcpy(s->x + 3 * n, goal + 3 * n, 3 * sizeof(fsi_real));
            s->phi[n] = 0;
        }
}

/* 4 tetrahedra around every pair of neighbouring centres */
static void fsi__stuff_all(fsi__stuff *s) {
    static const int ring[4][2] = {{-1, -1}, {1, -1}, {1, 1}, {-1, 1}};
    for (int i = 0; i < 8 * s->nodes; i++)
        s->id[i] = -1;
    s->vertices = s->tets = 0;
    for (int axis = 0; axis < 3; axis++)
        for (int k = 0; k < s->n[2]; k++)
            for (int j = 0; j < s->n[1]; j++)
                for (int i = 0; i < s->n[0]; i++) {
                    int c[3] = {2 * i + 1, 2 * j + 1, 2 * k + 1}, node[4], corner[4];
                    node[0] = fsi__stuff_node(s, c);
                    c[axis] += 2;
                    node[1] = fsi__stuff_node(s, c);
                    if (node[1] < 0)
                        continue;
                    for (int r = 0; r < 4; r++) { /* of the square between them */
                        int d[3] = {c[0], c[1], c[2]};
                        d[axis]--;
                        d[(axis + 1) % 3] += ring[r][0];
                        d[(axis + 2) % 3] += ring[r][1];
                        corner[r] = fsi__stuff_node(s, d);
                    }
                    for (int r = 0; r < 4; r++) {
                        node[2] = corner[r];
                        node[3] = corner[(r + 1) % 4];
                        fsi__stuff_clip(s, node);
                    }
                }
}

static fsi_result fsi__stuff_sample(fsi__stuff *s, fsi_vec3 lo, fsi_real h, fsi_sdf_fn sdf,
                                    void *user) {
    int c[3];
    for (int n = 0; n < s->nodes; n++) {
        fsi__stuff_place(s, n, c);
        fsi_vec3 x =
            fsi_vec_mad(lo, fsi_vec((fsi_real)c[0] / 2, (fsi_real)c[1] / 2, (fsi_real)c[2] / 2), h);
        fsi_vec_store(s->x + 3 * n, x);
        s->phi[n] = fsi__stuff_node(s, c) < 0 ? 1 : sdf(x, user);
        if (!fsi__finite(s->phi[n]))
            return FSI_ERR_CALLBACK;
    }
    return FSI_OK;
}

FSI_API fsi_result fsi_mesh_from_sdf(fsi_mesh *mesh, fsi_sdf_fn sdf, void *user, fsi_vec3 lo,
                                     fsi_vec3 hi, fsi_real h, const fsi_allocator *a) {
    fsi_vec3 d = fsi_vec_sub(hi, lo);
    if (!mesh || !sdf || !fsi_allocator_valid(a) || !fsi__finite_vec(lo) || !fsi__finite_vec(hi)
        || !fsi__finite(h))
        return FSI_ERR_ARGUMENT;
    if (!(h > 0) || !(d.x > 0) || !(d.y > 0) || !(d.z > 0))
        return FSI_ERR_ARGUMENT;
    if (d.x / h > 2000 || d.y / h > 2000 || d.z / h > 2000
        || (d.x / h + 2) * (d.y / h + 2) * (d.z / h + 2) > FSI_R(1e8))
        return FSI_ERR_SIZE;
    fsi__stuff s;
    memset(&s, 0, sizeof s);
    size_t n;
    for (n = 0; n < 3; n++)
        s.n[n] = (int)fsi__ceil(fsi__get(d, (int)n) / h - FSI_R(1e-4));
    s.nodes = 2 * (s.n[0] + 1) * (s.n[1] + 1) * (s.n[2] + 1);
    n = (size_t)s.nodes;
    size_t size = n * (8 * sizeof(fsi_real) + 8 * sizeof(int32_t));
    s.x = (fsi_real *)fsi_alloc(a, size);
    if (!s.x)
        return FSI_ERR_MEMORY;
    s.phi = s.x + 3 * n;
    s.id = (int32_t *)(void *)(s.phi + 5 * n);
    fsi_result r = fsi__stuff_sample(&s, lo, h, sdf, user);
    if (r == FSI_OK) {
        fsi__stuff_snap(&s, s.phi + n, s.phi + 2 * n);
        fsi__stuff_all(&s); /* counts */
        r = s.tets ? FSI_OK : FSI_EMPTY;
    }
    if (r == FSI_OK) {
        size_t out_size =
            (size_t)s.vertices * 3 * sizeof(fsi_real) + (size_t)s.tets * 4 * sizeof(int32_t);
        s.out_x = (fsi_real *)fsi_alloc(a, out_size);
        if (!s.out_x)
            r = FSI_ERR_MEMORY;
        else {
            s.out_tet = (int32_t *)(void *)(s.out_x + 3 * s.vertices);
            fsi__stuff_all(&s);
            r = fsi__mesh_solid(mesh, s.vertices, s.out_x, s.tets, s.out_tet, a);
            fsi_free(a, s.out_x, out_size);
        }
    }
    fsi_free(a, s.x, size);
    return r;
}

/* ------------------------------------------------------------------------------------------------
 * >>regular meshes */
static const int fsi__cube_six[6][4] = {{0, 1, 3, 7}, {0, 3, 2, 7}, {0, 2, 6, 7},
                                        {0, 6, 4, 7}, {0, 4, 5, 7}, {0, 5, 1, 7}};
static const int fsi__cube_five[5][4] = {
    {0, 1, 3, 5}, {0, 3, 2, 6}, {0, 5, 6, 4}, {3, 6, 5, 7}, {0, 3, 6, 5}};

FSI_API fsi_result fsi_mesh_box(fsi_mesh *mesh, fsi_vec3 lo, fsi_vec3 hi, int nx, int ny, int nz,
                                int alternate, const fsi_allocator *a) {
    fsi_vec3 d = fsi_vec_sub(hi, lo);
    int per = alternate ? 5 : 6, tets = 0;
    if (!mesh || !fsi_allocator_valid(a) || !fsi__finite_vec(lo) || !fsi__finite_vec(hi) || nx < 1
        || ny < 1 || nz < 1)
        return FSI_ERR_ARGUMENT;
    if (!(d.x > 0) || !(d.y > 0) || !(d.z > 0))
        return FSI_ERR_ARGUMENT;
    if ((double)nx * ny * nz > 1e8 || nx > 100000 || ny > 100000 || nz > 100000)
        return FSI_ERR_SIZE;
    int vertices = (nx + 1) * (ny + 1) * (nz + 1);
    fsi_real *x;
    int32_t *tet;
    size_t size =
        (size_t)vertices * 3 * sizeof *x + (size_t)(nx * ny * nz) * (size_t)(4 * per) * sizeof *tet;
    x = (fsi_real *)fsi_alloc(a, size);
    if (!x)
        return FSI_ERR_MEMORY;
    tet = (int32_t *)(void *)(x + 3 * vertices);
    for (int i = 0; i < vertices; i++)
        fsi_vec_store(x + 3 * i,
                      fsi_vec(lo.x + d.x * (fsi_real)(i % (nx + 1)) / (fsi_real)nx,
                              lo.y + d.y * (fsi_real)(i / (nx + 1) % (ny + 1)) / (fsi_real)ny,
                              lo.z + d.z * (fsi_real)(i / ((nx + 1) * (ny + 1))) / (fsi_real)nz));
    for (int k = 0; k < nz; k++)
        for (int j = 0; j < ny; j++)
            for (int i = 0; i < nx; i++)
                for (int t = 0; t < per; t++, tets++) {
                    for (int c = 0; c < 4; c++) {
                        /* odd cubes: mirrored in x */
                        int v = alternate ? fsi__cube_five[t][c] ^ ((i + j + k) & 1)
                                          : fsi__cube_six[t][c];
                        tet[4 * tets + c] =
                            i + (v & 1) + (nx + 1) * (j + (v >> 1 & 1) + (ny + 1) * (k + (v >> 2)));
                    }
                    if (fsi__tet_volume6(x, tet + 4 * tets) < 0) {
                        int32_t swap = tet[4 * tets];
                        tet[4 * tets] = tet[4 * tets + 1];
                        tet[4 * tets + 1] = swap;
                    }
                }
    fsi_result r = fsi__mesh_solid(mesh, vertices, x, tets, tet, a);
    fsi_free(a, x, size);
    return r;
}

/* Drops vertices no element uses. */
static fsi_result fsi__mesh_compact(fsi_mesh *m) {
    int n = 0, count = m->dim * m->element_count;
    size_t size = (size_t)m->vertex_count * sizeof(int32_t);
    /* 0 until used; then the new one + 1 */
    int32_t *number = (int32_t *)fsi_alloc(&m->allocator, size);
    if (!number)
        return FSI_ERR_MEMORY;
    for (int i = 0; i < count; i++)
        number[m->index[i]] = 1;
    for (int i = 0; i < m->vertex_count; i++)
        if (number[i]) {
            memmove(m->x + 3 * n, m->x + 3 * i, 3 * sizeof *m->x);
            number[i] = ++n;
        }
    for (int i = 0; i < count; i++)
        m->index[i] = number[m->index[i]] - 1;
    m->vertex_count = n;
    fsi_free(&m->allocator, number, size);
    return FSI_OK;
}

FSI_API fsi_result fsi_mesh_sheet(fsi_mesh *mesh, fsi_vec3 origin, fsi_vec3 along_x,
                                  fsi_vec3 along_y, int nx, int ny, int alternate,
                                  int (*keep_fn)(fsi_vec3 center, void *user), void *user,
                                  const fsi_allocator *a) {
    int n = 0;
    if (!mesh || nx < 1 || ny < 1 || (double)nx * ny > 1e8)
        return FSI_ERR_ARGUMENT;
    if (!fsi__finite_vec(origin) || !fsi__finite(fsi__length(along_x))
        || !(fsi__length(fsi_vec_cross(along_x, along_y)) > 0))
        return FSI_ERR_ARGUMENT;
    fsi_mesh m;
    fsi_result r = fsi__mesh_alloc(&m, 3, (nx + 1) * (ny + 1), 2 * nx * ny, 0, a);
    if (r != FSI_OK)
        return r;
    for (int i = 0; i < m.vertex_count; i++)
        fsi_vec_store(m.x + 3 * i, fsi_vec_mad(fsi_vec_mad(origin, along_x,
                                                           (fsi_real)(i % (nx + 1)) / (fsi_real)nx),
                                               along_y, (fsi_real)(i / (nx + 1)) / (fsi_real)ny));
    for (int j = 0; j < ny; j++)
        for (int i = 0; i < nx; i++) {
            int v[4], flip = alternate && ((i + j) & 1);
            static const int cut[2][6] = {{0, 1, 3, 0, 3, 2}, {0, 1, 2, 1, 3, 2}};
            for (int c = 0; c < 4; c++)
                v[c] = i + (c & 1) + (nx + 1) * (j + (c >> 1));
            if (keep_fn
                && !keep_fn(fsi_vec_scale(fsi_vec_add(fsi_vec_load(m.x + 3 * v[0]),
                                                      fsi_vec_load(m.x + 3 * v[3])),
                                          FSI_R(0.5)),
                            user))
                continue;
            for (int c = 0; c < 6; c++)
                m.index[6 * n + c] = v[cut[flip][c]];
            n++;
        }
    m.element_count = 2 * n;
    r = !n ? FSI_EMPTY : keep_fn ? fsi__mesh_compact(&m) : FSI_OK;
    if (r != FSI_OK) {
        fsi_mesh_free(&m);
        return r;
    }
    return fsi__mesh_finish(mesh, &m, 0);
}

FSI_API fsi_result fsi_mesh_strip(fsi_mesh *mesh, fsi_vec3 p, fsi_vec3 q, int n,
                                  const fsi_allocator *a) {
    if (!mesh || n < 1 || n > 100000000 || !fsi__finite_vec(p) || !fsi__finite_vec(q)
        || !(fsi__length(fsi_vec_sub(q, p)) > 0))
        return FSI_ERR_ARGUMENT;
    fsi_mesh m;
    fsi_result r = fsi__mesh_alloc(&m, 2, n + 1, n, 0, a);
    if (r != FSI_OK)
        return r;
    for (int i = 0; i <= n; i++)
        fsi_vec_store(m.x + 3 * i, fsi_vec_mad(p, fsi_vec_sub(q, p), (fsi_real)i / (fsi_real)n));
    for (int i = 0; i < 2 * n; i++)
        m.index[i] = (i + 1) / 2;
    return fsi__mesh_finish(mesh, &m, 0);
}

FSI_API fsi_result fsi_mesh_circle(fsi_mesh *mesh, fsi_vec3 center, fsi_real radius, int n,
                                   const fsi_allocator *a) {
    if (!mesh || n < 3 || n > 100000000 || !fsi__finite_vec(center) || !fsi__finite(radius)
        || !(radius > 0))
        return FSI_ERR_ARGUMENT;
    fsi_mesh m;
    fsi_result r = fsi__mesh_alloc(&m, 2, n, n, 0, a);
    if (r != FSI_OK)
        return r;
    for (int i = 0; i < n; i++) {
        fsi_real t = 2 * FSI_PI * (fsi_real)i / (fsi_real)n;
        fsi_vec_store(m.x + 3 * i, fsi_vec(center.x + radius * fsi__cos(t),
                                           center.y + radius * fsi__sin(t), center.z));
        m.index[2 * i] = i;
        m.index[2 * i + 1] = (i + 1) % n;
    }
    return fsi__mesh_finish(mesh, &m, 1);
}

/* Icosahedron, vertex numbers of its faces, outward. */
static const int fsi__ico_face[20][3] = {
    {0, 11, 5},  {0, 5, 1},  {0, 1, 7},  {0, 7, 10}, {0, 10, 11}, {1, 5, 9}, {5, 11, 4},
    {11, 10, 2}, {10, 7, 6}, {7, 1, 8},  {3, 9, 4},  {3, 4, 2},   {3, 2, 6}, {3, 6, 8},
    {3, 8, 9},   {4, 9, 5},  {2, 4, 11}, {6, 2, 10}, {8, 6, 7},   {9, 8, 1}};

static fsi_vec3 fsi__ico_vertex(int i) { /* (+-1, +-g, 0) and its rotations */
    fsi_real g = FSI_R(1.6180339887498949), u = i & 1 ? 1 : -1, v = i & 2 ? -g : g;
    return i < 4 ? fsi_vec(u, v, 0) : i < 8 ? fsi_vec(0, u, v) : fsi_vec(v, 0, u);
}

/* Vertex number of lattice point (i, j) of face f: corners, edges (shared by both faces, in the
 * direction of the smaller corner), inside. */
static int fsi__ico_number(int edge_of[12][12], int f, int i, int j, int n) {
    const int *c = fsi__ico_face[f];
    int k = n - i - j;
    if (i == n)
        return c[1];
    if (j == n)
        return c[2];
    if (k == n)
        return c[0];
    int p;
    int q;
    int along;
    if (j == 0) {
        p = c[0];
        q = c[1];
        along = i;
    } else if (k == 0) {
        p = c[1];
        q = c[2];
        along = j;
    } else if (i == 0) {
        p = c[0];
        q = c[2];
        along = j;
    } else
        return 12 + 30 * (n - 1) + f * ((n - 1) * (n - 2) / 2) + (j - 1) * (n - 1) - (j - 1) * j / 2
               + (i - 1);
    if (p > q) {
        int t = p;
        p = q;
        q = t;
        along = n - along;
    }
    return 12 + edge_of[p][q] * (n - 1) + along - 1;
}

FSI_API fsi_result fsi_mesh_sphere(fsi_mesh *mesh, fsi_vec3 center, fsi_real radius, int n,
                                   const fsi_allocator *a) {
    int edge_of[12][12], edges = 0;
    if (!mesh || n < 1 || n > 2000 || !fsi__finite_vec(center) || !fsi__finite(radius)
        || !(radius > 0))
        return FSI_ERR_ARGUMENT;
    fsi_mesh m;
    fsi_result r = fsi__mesh_alloc(&m, 3, 10 * n * n + 2, 20 * n * n, 0, a);
    if (r != FSI_OK)
        return r;
    memset(edge_of, 0, sizeof edge_of);
    int32_t *t = m.index;
    for (int f = 0; f < 20; f++)
        for (int i = 0; i < 3; i++) {
            int p = fsi__ico_face[f][i], q = fsi__ico_face[f][(i + 1) % 3];
            /* each edge once: the other face has it the other way round */
            if (p < q)
                edge_of[p][q] = edges++;
        }
    for (int f = 0; f < 20; f++) {
        const int *c = fsi__ico_face[f];
        for (int j = 0; j <= n; j++)
            for (int i = 0; i + j <= n; i++) {
                fsi_vec3 p = fsi_vec_scale(fsi__ico_vertex(c[0]), (fsi_real)(n - i - j));
                p = fsi_vec_mad(fsi_vec_mad(p, fsi__ico_vertex(c[1]), (fsi_real)i),
                                fsi__ico_vertex(c[2]), (fsi_real)j);
                fsi_vec_store(m.x + 3 * fsi__ico_number(edge_of, f, i, j, n),
                              fsi_vec_mad(center, fsi__unit(p), radius));
            }
        for (int j = 0; j < n; j++)
            for (int i = 0; i + j < n; i++) {
                int p = fsi__ico_number(edge_of, f, i, j, n),
                    q = fsi__ico_number(edge_of, f, i + 1, j, n),
                    s = fsi__ico_number(edge_of, f, i, j + 1, n);
                t = fsi__triangle(t, p, q, s);
                if (i + j + 1 < n)
                    t = fsi__triangle(t, q, fsi__ico_number(edge_of, f, i + 1, j + 1, n), s);
            }
    }
    return fsi__mesh_finish(mesh, &m, 1);
}

FSI_API fsi_result fsi_mesh_torus(fsi_mesh *mesh, fsi_vec3 center, fsi_real ring, fsi_real tube,
                                  int nu, int nv, const fsi_allocator *a) {
    if (!mesh || nu < 3 || nv < 3 || (double)nu * nv > 1e8 || !fsi__finite_vec(center)
        || !fsi__finite(ring))
        return FSI_ERR_ARGUMENT;
    if (!(tube > 0) || !(ring > tube))
        return FSI_ERR_ARGUMENT;
    fsi_mesh m;
    fsi_result r = fsi__mesh_alloc(&m, 3, nu * nv, 2 * nu * nv, 0, a);
    if (r != FSI_OK)
        return r;
    for (int j = 0; j < nu; j++)
        for (int i = 0; i < nv; i++) {
            fsi_real u = 2 * FSI_PI * (fsi_real)j / (fsi_real)nu,
                     v = 2 * FSI_PI * (fsi_real)i / (fsi_real)nv, d = ring + tube * fsi__cos(v);
            int p = i + nv * j, q = (i + 1) % nv + nv * j, s = i + nv * ((j + 1) % nu),
                t = (i + 1) % nv + nv * ((j + 1) % nu);
            fsi_vec_store(
                m.x + 3 * p,
                fsi_vec_add(center, fsi_vec(d * fsi__cos(u), tube * fsi__sin(v), d * fsi__sin(u))));
            (void)fsi__triangle(fsi__triangle(m.index + 6 * p, p, q, t), p, t, s);
        }
    return fsi__mesh_finish(mesh, &m, 1);
}

/* ------------------------------------------------------------------------------------------------
 * >>sampling */
FSI_API size_t fsi_surface_sample(const fsi_surface *s, fsi_real spacing, fsi_real *position,
                                  int32_t *element, fsi_real *weight, fsi_real *area, size_t room) {
    size_t used = 0;
    int c;
    if (!s || fsi_surface_check(s) != FSI_OK || !fsi__finite(spacing) || !(spacing > 0))
        return 0;
    for (int e = 0; e < s->element_count; e++) {
        fsi_real longest = 0, whole = fsi__length(fsi_surface_normal(s, e)), w[3];
        fsi_vec3 p;
        for (c = 0; c < s->dim; c++)
            longest = fsi__max(
                longest, fsi__length(fsi_vec_sub(
                             fsi_vec_load(s->x + 3 * s->index[s->dim * e + c]),
                             fsi_vec_load(s->x + 3 * s->index[s->dim * e + (c + 1) % s->dim]))));
        int n = fsi__imax(1, (int)fsi__min(fsi__ceil(longest / spacing - FSI_R(1e-6)), 10000));
        for (int j = 0; j < (s->dim == 3 ? n : 1); j++)
            for (int i = 0; i < (s->dim == 3 ? 2 * (n - j) - 1 : n); i++, used++) {
                if (used >= room)
                    continue;
                if (s->dim == 2) {
                    w[1] = ((fsi_real)i + FSI_R(0.5)) / (fsi_real)n;
                    w[0] = 1 - w[1];
                }
                /* row j: triangles standing (even i) and hanging (odd i) */
                else {
                    fsi_real third = (i & 1) ? FSI_R(2.0) / 3 : FSI_R(1.0) / 3;
                    w[1] = ((fsi_real)(i / 2) + third) / (fsi_real)n;
                    w[2] = ((fsi_real)j + third) / (fsi_real)n;
                    w[0] = 1 - w[1] - w[2];
                }
                for (p = fsi_vec(0, 0, 0), c = 0; c < s->dim; c++) {
                    p = fsi_vec_mad(p, fsi_vec_load(s->x + 3 * s->index[s->dim * e + c]), w[c]);
                    if (weight)
                        weight[(size_t)s->dim * used + (size_t)c] = w[c];
                }
                if (position)
                    fsi_vec_store(position + 3 * used, p);
                if (element)
                    element[used] = e;
                if (area)
                    area[used] = whole / (fsi_real)(s->dim == 3 ? n * n : n);
            }
    }
    return used;
}

/* ------------------------------------------------------------------------------------------------
   >>soft elements Symbols: x nodes now, X at rest, F = dx/dX, E = (F^T F - 1) / 2, S second and P
   first Piola stress, g_a gradient of shape function a at rest, lambda, mu Lame constants, V rest
   volume (area). Every element gives energy, force = -dE/dx, rows r (the positive semi-definite
   part of the stiffness is the sum of r^T r) and geo, the rest of the exact stiffness. */
enum {
    FSI__SEG,
    FSI__BEND,
    FSI__TRI,
    FSI__FOLD,
    FSI__TET,
    FSI__KINDS
};

static const int fsi__kind_nodes[FSI__KINDS] = {2, 3, 3, 4, 4};
/* rows; without the positive part of geo */
static const int fsi__kind_rows[FSI__KINDS] = {4, 1, 9, 1, 6},
                 fsi__kind_material[FSI__KINDS] = {1, 1, 3, 1, 6};
#define FSI__REST                                                                                  \
    10 /* numbers kept per element: Dm^-1 (up to 9) and V; hinges: rest angle and stiffness */
#define FSI__SOFT_BATCH                                                                            \
    1024 /* elements whose stiffness is computed (in parallel) before it is added (in order) */

typedef struct fsi__soft_work {
    int begin[FSI__KINDS + 1]; /* elements by kind */
    int32_t *node;             /* [4 elements] -1 = none */
    fsi_real *rest;            /* [FSI__REST elements] */
    fsi_real *rest_x;          /* [3 vertices] */
    fsi_real *element_force;   /* [12 elements] */
    fsi_real *element_energy;  /* [elements] */
    /* [vertices + 1], [corners]: 4 * element + corner around each vertex */
    int32_t *first, *corner;
    unsigned char *fixed; /* [3 vertices] 1 = prescribed coordinate */
    fsi_real *batch;      /* [FSI__SOFT_BATCH * 144] */
    /* matrix memory; [16 elements] place of the block of two corners in its block row */
    void *slot_block;
    int32_t *slot;
    size_t slot_size;
    /* [3 vertices] each; x0: v before the forces, until contact; z: push of the door, until contact
     */
    fsi_real *x0, *y, *z, *trial, *step, *residual, *gradient, *other, *jump, *precondition;
    /* damping stiffness, values on the pattern of K; NULL without */
    fsi_real *kd;
    fsi_real rest_volume;
    void *cg_work;
    size_t cg_size;
    /* dv = response * (matrix of the last solve)^-1 impulse; 0: no such matrix */
    fsi_real response;
    /* contact with other solids; NULL until fsi_soft_external */
    struct fsi__patch *patch;
    /* 1: fsi_soft_external was called; 1: others touch it in this step */
    int watched, touched;
    /* J when the step began; the most it may have at its end but for the work of others */
    double energy, reference;
    int edge_count; /* edges of the surface in 3D, each once */
    /* [3 edge_count] two nodes and vertices + the element it is taken from, by element; [surface +
     * 1] */
    int32_t *edge, *edge_first;
    unsigned char *outside; /* [vertices] 1: node of the surface */
    /* [vertices] another node of the same impact zone, itself: the last */
    int32_t *zone;
    /* 1: jump is still to be added to x (Newmark: dt/2 (v_old - v); then x moves with v like the
     * others) */
    int jumps;
} fsi__soft_work;

typedef struct fsi__elem {
    fsi_real energy, force[12], row[9][12], geo[12][12];
    int rows, has_geo;
} fsi__elem;

/* Eigenvalues w (any order) and vectors (columns of V) of symmetric 3x3 A by Jacobi rotations. */
static void fsi__eigen3(const fsi_mat3 *S, fsi_real w[3], fsi_mat3 *V) {
    fsi_real a[3][3];
    for (int i = 0; i < 9; i++) {
        a[i / 3][i % 3] = S->m[i];
        V->m[i] = i % 4 == 0;
    }
    for (int sweep = 0; sweep < 12; sweep++) {
        fsi_real off = fsi__abs(a[0][1]) + fsi__abs(a[0][2]) + fsi__abs(a[1][2]);
        if (off <= FSI_REAL_EPS * (fsi__abs(a[0][0]) + fsi__abs(a[1][1]) + fsi__abs(a[2][2])) / 8)
            break;
        for (int i = 0; i < 2; i++)
            for (int j = i + 1; j < 3; j++) {
                fsi_real h = a[i][j];
                if (h == 0)
                    continue;
                fsi_real theta = (a[j][j] - a[i][i]) / (2 * h);
                fsi_real t = (theta >= 0 ? 1 : FSI_R(-1.0))
                             / (fsi__abs(theta) + fsi__sqrt(theta * theta + 1));
                fsi_real c = 1 / fsi__sqrt(t * t + 1);
                fsi_real s = t * c;
                for (int k = 0; k < 3; k++) {
                    fsi_real u = a[k][i], v = a[k][j];
                    a[k][i] = c * u - s * v;
                    a[k][j] = s * u + c * v;
                }
                for (int k = 0; k < 3; k++) {
                    fsi_real u = a[i][k], v = a[j][k];
                    a[i][k] = c * u - s * v;
                    a[j][k] = s * u + c * v;
                }
                for (int k = 0; k < 3; k++) {
                    fsi_real u = V->m[3 * k + i], v = V->m[3 * k + j];
                    V->m[3 * k + i] = c * u - s * v;
                    V->m[3 * k + j] = s * u + c * v;
                }
            }
    }
    for (int i = 0; i < 3; i++)
        w[i] = a[i][i];
}

/* R of F = R U with det R = +1, inverted and flat elements included: the weakest direction is
 * flipped. */
static fsi_mat3 fsi__polar(const fsi_mat3 *F) {
    fsi_mat3 Ft = fsi_mat3_transpose(F), C = fsi_mat3_mul(&Ft, F), V;
    fsi_vec3 v[3], u[3];
    fsi_real w[3];
    int order[3] = {0, 1, 2};
    fsi__eigen3(&C, w, &V);
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2 - i; j++)
            if (w[order[j]] < w[order[j + 1]]) {
                int t = order[j];
                order[j] = order[j + 1];
                order[j + 1] = t;
            }
    for (int i = 0; i < 3; i++)
        v[i] = fsi_vec(V.m[order[i]], V.m[3 + order[i]], V.m[6 + order[i]]);
    v[2] = fsi_vec_cross(v[0], v[1]);
    u[0] = fsi__unit(fsi_mat3_mul_vec(F, v[0]));
    if (!(fsi_vec_dot(u[0], u[0]) > 0))
        u[0] = v[0];
    u[1] = fsi_mat3_mul_vec(F, v[1]);
    u[1] = fsi__unit(fsi_vec_mad(u[1], u[0], -fsi_vec_dot(u[1], u[0])));
    if (!(fsi_vec_dot(u[1], u[1]) > 0))
        u[1] = fsi__unit(fsi_vec_cross(
            fsi__abs(u[0].x) < FSI_R(0.7) ? fsi_vec(1, 0, 0) : fsi_vec(0, 1, 0), u[0]));
    u[2] = fsi_vec_cross(u[0], u[1]);
    fsi_mat3 R;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) /* R = sum u v^T */
            R.m[3 * i + j] = fsi__get(u[0], i) * fsi__get(v[0], j)
                             + fsi__get(u[1], i) * fsi__get(v[1], j)
                             + fsi__get(u[2], i) * fsi__get(v[2], j);
    return R;
}

static void fsi__elem_segment(fsi_real EA, fsi_real L, const fsi_vec3 *x, fsi__elem *o) {
    fsi_vec3 d = fsi_vec_sub(x[1], x[0]);
    fsi_real l = fsi__length(d), e = l / L - 1, N = EA * e, n[3], c = fsi__sqrt(EA / L),
             t = l > 0 ? N / l : 0, g = fsi__sqrt(fsi__max(t, 0));
    fsi_vec_store(n, fsi__unit(d));
    o->energy = N * e * L / 2;
    o->rows = 4;
    o->has_geo = 1;
    for (int i = 0; i < 3; i++)
        for (int a = 0; a < 2; a++) {
            fsi_real sign = a ? 1 : FSI_R(-1.0);
            o->force[3 * a + i] = -sign * N * n[i];
            o->row[0][3 * a + i] = sign * c * n[i];
            for (int j = 0; j < 3; j++) {
                fsi_real p = (i == j ? FSI_R(1.0) : FSI_R(0.0)) - n[i] * n[j];
                o->row[1 + j][3 * a + i] = sign * g * p; /* tension only */
                for (int b = 0; b < 2; b++)
                    o->geo[3 * a + i][3 * b + j] = (a == b ? t : -t) * p;
            }
        }
}

static fsi_real fsi__wrap(fsi_real a) {
    return a > FSI_PI ? a - 2 * FSI_PI : a < -FSI_PI ? a + 2 * FSI_PI : a;
}

/* 2D hinge: angle from b - a to c - b. */
static fsi_real fsi__bend_angle(const fsi_vec3 *x) {
    fsi_vec3 d = fsi_vec_sub(x[1], x[0]), e = fsi_vec_sub(x[2], x[1]);
    return fsi__atan2(d.x * e.y - d.y * e.x, d.x * e.x + d.y * e.y);
}

static void fsi__elem_bend(fsi_real angle, fsi_real k, const fsi_vec3 *x, fsi__elem *o) {
    fsi_real theta = fsi__wrap(fsi__bend_angle(x) - angle), c = fsi__sqrt(k);
    o->energy = k * theta * theta / 2;
    o->rows = 1;
    o->has_geo = 1;
    for (int s = 0; s < 2; s++) { /* angle = phi(second) - phi(first) */
        fsi_vec3 d = fsi_vec_sub(x[s + 1], x[s]);
        fsi_real l2 = fsi__max(d.x * d.x + d.y * d.y, FSI_R(1e-30)), t[2], n[2],
                 sign = s ? 1 : FSI_R(-1.0);
        t[0] = d.x;
        t[1] = d.y;
        n[0] = -d.y;
        n[1] = d.x;
        for (int i = 0; i < 2; i++)
            for (int a = 0; a < 2; a++) {
                fsi_real grad = (a ? sign : -sign) * n[i] / l2; /* dphi/dd = n / l */
                o->row[0][3 * (s + a) + i] += c * grad;
                o->force[3 * (s + a) + i] -= k * theta * grad;
                for (int j = 0; j < 2; j++) {
                    /* d2phi/dd2 = -(n t + t n) / l^2 */
                    fsi_real H = -sign * k * theta * (n[i] * t[j] + t[i] * n[j]) / (l2 * l2);
                    for (int b = 0; b < 2; b++)
                        o->geo[3 * (s + a) + i][3 * (s + b) + j] += a == b ? H : -H;
                }
            }
    }
}

/* Dihedral angle at the edge x0 x1 between the triangles (x0 x1 x2) and (x1 x0 x3), and its
 * gradient. */
static fsi_real fsi__fold_angle(const fsi_vec3 *x, fsi_vec3 *grad) {
    fsi_vec3 e = fsi_vec_sub(x[1], x[0]),
             n = fsi_vec_cross(fsi_vec_sub(x[2], x[0]), fsi_vec_sub(x[2], x[1]));
    fsi_vec3 m = fsi_vec_cross(fsi_vec_sub(x[3], x[1]), fsi_vec_sub(x[3], x[0]));
    fsi_real l = fsi__length(e), nn = fsi_vec_dot(n, n), mm = fsi_vec_dot(m, m);
    if (!(l > 0) || !(nn > 0) || !(mm > 0)) {
        if (grad)
            memset(grad, 0, 4 * sizeof *grad);
        return 0;
    }
    if (grad) {
        fsi_vec3 u = fsi_vec_scale(n, 1 / nn), w = fsi_vec_scale(m, 1 / mm);
        grad[2] = fsi_vec_scale(u, -l);
        grad[3] = fsi_vec_scale(w, -l);
        grad[0] = fsi_vec_add(fsi_vec_scale(u, -fsi_vec_dot(fsi_vec_sub(x[2], x[1]), e) / l),
                              fsi_vec_scale(w, -fsi_vec_dot(fsi_vec_sub(x[3], x[1]), e) / l));
        grad[1] = fsi_vec_add(fsi_vec_scale(u, fsi_vec_dot(fsi_vec_sub(x[2], x[0]), e) / l),
                              fsi_vec_scale(w, fsi_vec_dot(fsi_vec_sub(x[3], x[0]), e) / l));
    }
    return fsi__atan2(fsi_vec_dot(fsi_vec_cross(n, m), e) / l, fsi_vec_dot(n, m));
}

static void fsi__elem_fold(fsi_real angle, fsi_real k, const fsi_vec3 *x, fsi__elem *o) {
    fsi_vec3 grad[4];
    fsi_real theta = fsi__wrap(fsi__fold_angle(x, grad) - angle), c = fsi__sqrt(k);
    o->energy = k * theta * theta / 2;
    o->rows = 1;
    for (int a = 0; a < 4; a++)
        for (int i = 0; i < 3; i++) {
            o->row[0][3 * a + i] = c * fsi__get(grad[a], i);
            o->force[3 * a + i] = -k * theta * fsi__get(grad[a], i);
        }
}

/* Rows of the material stiffness for strain increments sym(Q^T dF), dF = e_k g_b^T: isotropic C =
 * (a 1 + b 1 1^T)^2 on the normal strains. */
static void fsi__elem_rows(int d, const fsi_mat3 *Q, fsi_real lambda, fsi_real mu, fsi_real V,
                           fsi_real g[4][3], fsi__elem *o) {
    fsi_real v = fsi__sqrt(V), a = fsi__sqrt(2 * mu),
             b = (fsi__sqrt(fsi__max(2 * mu + (fsi_real)d * lambda, 0)) - a) / (fsi_real)d,
             s = fsi__sqrt(mu);
    o->rows = d == 2 ? 3 : 6;
    for (int n = 0; n <= d; n++)
        for (int k = 0; k < 3; k++) {
            const fsi_real *q = Q->m + 3 * k; /* row k of Q */
            fsi_real trace = 0;
            for (int i = 0; i < d; i++)
                trace += q[i] * g[n][i];
            for (int i = 0; i < d; i++)
                o->row[i][3 * n + k] = v * (a * q[i] * g[n][i] + b * trace);
            for (int r = d; r < o->rows; r++) {
                /* shears 01, 02, 12 */
                int p = r - d == 2 ? 1 : 0, w = r - d == 0 ? 1 : 2;
                o->row[r][3 * n + k] = v * s * (q[p] * g[n][w] + q[w] * g[n][p]);
            }
        }
}

/* Geometric stiffness V g_a . S g_b and, for membranes, the rows of its positive part. */
static void fsi__elem_geo(int d, const fsi_mat3 *S, fsi_real V, fsi_real g[4][3], fsi__elem *o) {
    for (int a = 0; a <= d; a++)
        for (int b = 0; b <= d; b++) {
            fsi_real c = 0;
            for (int i = 0; i < d; i++)
                for (int j = 0; j < d; j++)
                    c += V * g[a][i] * S->m[3 * i + j] * g[b][j];
            for (int k = 0; k < 3; k++)
                o->geo[3 * a + k][3 * b + k] += c;
        }
    o->has_geo = 1;
    if (d == 2) { /* S = sum w_i n_i n_i^T */
        fsi_real h = (S->m[0] + S->m[4]) / 2,
                 q = fsi__sqrt((S->m[0] - S->m[4]) * (S->m[0] - S->m[4]) / 4 + S->m[1] * S->m[1]);
        fsi_real t = fsi__atan2(2 * S->m[1], S->m[0] - S->m[4]) / 2;
        for (int i = 0; i < 2; i++) {
            fsi_real w = fsi__sqrt(V * fsi__max(i ? h - q : h + q, 0)),
                     nx = i ? -fsi__sin(t) : fsi__cos(t), ny = i ? fsi__cos(t) : fsi__sin(t);
            for (int a = 0; a <= d; a++)
                for (int k = 0; k < 3; k++)
                    o->row[3 + 3 * i + k][3 * a + k] = w * (nx * g[a][0] + ny * g[a][1]);
        }
        o->rows = 9;
    }
}

/* P = mu F + f(J) cof F with f = (lambda L - mu) L', L = ln J above 0.1, its parabola below:
 * defined for inverted elements. */
static fsi_mat3 fsi__neohookean(const fsi_mat3 *F, fsi_real lambda, fsi_real mu, fsi_real V,
                                fsi_real g[4][3], int hessian, fsi__elem *o) {
    const fsi_real J0 = FSI_R(0.1);
    const fsi_real *m = F->m;
    fsi_real J = fsi_mat3_det(F), I1 = 0, c[4][3];
    fsi_mat3 cof;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            int p = (i + 1) % 3, q = (i + 2) % 3, r = (j + 1) % 3, s = (j + 2) % 3;
            cof.m[3 * i + j] = m[3 * p + r] * m[3 * q + s] - m[3 * p + s] * m[3 * q + r];
            I1 += m[3 * i + j] * m[3 * i + j];
        }
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
    fsi_real df = lambda * dL * dL + (lambda * L - mu) * ddL;
    o->energy = V * (mu * (I1 - 3) / 2 - mu * L + lambda * L * L / 2);
    fsi_mat3 P;
    for (int i = 0; i < 9; i++)
        P.m[i] = mu * m[i] + f * cof.m[i];
    if (!hessian)
        return P;
    for (int a = 0; a < 4; a++)
        for (int i = 0; i < 3; i++)
            c[a][i] =
                cof.m[3 * i] * g[a][0] + cof.m[3 * i + 1] * g[a][1] + cof.m[3 * i + 2] * g[a][2];
    if (hessian == 2) { /* linear elasticity in the turned frame */
        fsi_mat3 R = fsi__polar(F);
        fsi__elem_rows(3, &R, lambda, mu, V, g, o);
        return P;
    }
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++) {
            fsi_vec3 ga = fsi_vec_load(g[a]), gb = fsi_vec_load(g[b]);
            /* d cof: eps_ikm w_m */
            fsi_vec3 w = fsi_vec_scale(fsi_mat3_mul_vec(F, fsi_vec_cross(ga, gb)), V * f);
            fsi_real d = V * mu * fsi_vec_dot(ga, gb);
            for (int i = 0; i < 3; i++)
                for (int j = 0; j < 3; j++)
                    o->geo[3 * a + i][3 * b + j] = V * df * c[a][i] * c[b][j] + (i == j ? d : 0);
            o->geo[3 * a][3 * b + 1] += w.z;
            o->geo[3 * a + 1][3 * b] -= w.z;
            o->geo[3 * a + 1][3 * b + 2] += w.x;
            o->geo[3 * a + 2][3 * b + 1] -= w.x;
            o->geo[3 * a + 2][3 * b] += w.y;
            o->geo[3 * a][3 * b + 2] -= w.y;
        }
    o->has_geo = 1;
    return P;
}

/* Membrane (d = 2, always St. Venant-Kirchhoff, plane stress) or tetrahedron (d = 3). hessian 0
 * none, 1 exact, 2 positive semi-definite. */
static void fsi__elem_solid(int d, fsi_soft_model model, fsi_real lambda, fsi_real mu,
                            const fsi_real *rest, const fsi_vec3 *x, int hessian, fsi__elem *o) {
    fsi_real g[4][3], V = rest[d == 2 ? 4 : 9], trace = 0, norm = 0;
    memset(g, 0, sizeof g);
    fsi_mat3 F;
    memset(&F, 0, sizeof F);
    for (int a = 1; a <= d; a++)
        for (int i = 0; i < d; i++) {
            g[a][i] = rest[d * (a - 1) + i];
            g[0][i] -= g[a][i];
        }
    for (int a = 0; a <= d; a++)
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < d; j++)
                F.m[3 * i + j] += fsi__get(x[a], i) * g[a][j];
    fsi_mat3 P;
    if (model == FSI_SOFT_NEOHOOKEAN) {
        P = fsi__neohookean(&F, lambda, mu, V, g, hessian, o);
    } else {
        fsi_mat3 Q;
        memset(&Q, 0, sizeof Q);
        for (int i = 0; i < 3; i++)
            Q.m[4 * i] = 1;
        if (model == FSI_SOFT_COROTATED)
            Q = fsi__polar(&F);
        if (model == FSI_SOFT_STVK)
            Q = F;
        fsi_mat3 S;
        memset(&S, 0, sizeof S);
        fsi_mat3 e;
        memset(&e, 0, sizeof e);
        for (int i = 0; i < d; i++)
            for (int j = 0; j < d; j++) {
                fsi_real c = 0;
                for (int k = 0; k < 3; k++)
                    c += Q.m[3 * k + i] * F.m[3 * k + j] + Q.m[3 * k + j] * F.m[3 * k + i];
                c = c / 2 - (i == j ? FSI_R(1.0) : FSI_R(0.0));
                e.m[3 * i + j] = model == FSI_SOFT_STVK ? c / 2 : c;
                norm += e.m[3 * i + j] * e.m[3 * i + j];
                if (i == j)
                    trace += e.m[3 * i + j];
            }
        o->energy = V * (mu * norm + lambda * trace * trace / 2);
        for (int i = 0; i < d; i++)
            for (int j = 0; j < d; j++)
                S.m[3 * i + j] = 2 * mu * e.m[3 * i + j] + (i == j ? lambda * trace : 0);
        P = fsi_mat3_mul(&Q, &S);
        if (hessian) {
            fsi__elem_rows(d, &Q, lambda, mu, V, g, o);
            if (model == FSI_SOFT_STVK && (d == 2 || hessian == 1))
                fsi__elem_geo(d, &S, V, g, o);
        }
    }
    for (int a = 0; a <= d; a++)
        for (int i = 0; i < 3; i++)
            o->force[3 * a + i] = -V
                                  * (P.m[3 * i] * g[a][0] + P.m[3 * i + 1] * g[a][1]
                                     + (d == 3 ? P.m[3 * i + 2] * g[a][2] : 0));
}

static int fsi__soft_kind(const fsi__soft_work *w, int e) {
    int k = 0;
    while (e >= w->begin[k + 1])
        k++;
    return k;
}

static void fsi__soft_eval(const fsi_soft *s, int e, const fsi_real *x, int hessian, fsi__elem *o) {
    const fsi__soft_work *w = s->work;
    const fsi_soft_desc *d = &s->desc;
    const fsi_real *rest = w->rest + (size_t)FSI__REST * (size_t)e;
    int kind = fsi__soft_kind(w, e);
    fsi_vec3 p[4];
    /* what is not written: no need to clear 2 KB each time */
    memset(o, 0,
           kind != FSI__FOLD && (hessian || kind < FSI__TRI) ? sizeof *o
                                                             : offsetof(fsi__elem, row));
    o->rows = o->has_geo = 0;
    for (int a = 0; a < fsi__kind_nodes[kind]; a++)
        p[a] = fsi_vec_load(x + 3 * w->node[4 * e + a]);
    if (kind == FSI__SEG)
        fsi__elem_segment(d->stretch, rest[0], p, o);
    else if (kind == FSI__BEND)
        fsi__elem_bend(rest[0], rest[1], p, o);
    else if (kind == FSI__FOLD)
        fsi__elem_fold(rest[0], rest[1], p, o);
    else if (kind == FSI__TRI)
        fsi__elem_solid(2, FSI_SOFT_STVK,
                        d->stretch * d->stretch_poisson
                            / (1 - d->stretch_poisson * d->stretch_poisson),
                        d->stretch / (2 * (1 + d->stretch_poisson)), rest, p, hessian, o);
    else
        fsi__elem_solid(3, d->model,
                        d->young * d->poisson / ((1 + d->poisson) * (1 - 2 * d->poisson)),
                        d->young / (2 * (1 + d->poisson)), rest, p, hessian, o);
}

/* ------------------------------------------------------------------------------------------------
 * >>soft forces */
/* f = sum of element forces, in fixed order */
static void fsi__soft_gather(const fsi_soft *s, fsi_real *f) {
    const fsi__soft_work *w = s->work;
    ptrdiff_t n = s->desc.vertex_count;
    FSI__OMP(parallel for schedule(static) if (n > 2000))
    for (ptrdiff_t i = 0; i < n; i++) {
        fsi_real a = 0, b = 0, c = 0;
        for (int32_t k = w->first[i]; k < w->first[i + 1]; k++) {
            const fsi_real *p = w->element_force + 3 * (size_t)w->corner[k];
            a += p[0];
            b += p[1];
            c += p[2];
        }
        f[3 * i] = a;
        f[3 * i + 1] = b;
        f[3 * i + 2] = c;
    }
}

/* Volume of the closed surface and its gradient (added times scale), m^3. */
static fsi_real fsi__soft_volume(const fsi_soft *s, const fsi_real *x, fsi_real scale,
                                 fsi_real *grad) {
    double V = 0;
    int n = s->desc.dim;
    for (int e = 0; e < s->surface_count; e++) {
        const int32_t *t = s->surface + n * e;
        fsi_vec3 p[3];
        for (int a = 0; a < n; a++)
            p[a] = fsi_vec_load(x + 3 * t[a]);
        if (n == 2) {
            V += (double)(p[0].x * p[1].y - p[0].y * p[1].x) / 2;
            if (grad) {
                grad[3 * t[0]] += scale * p[1].y / 2;
                grad[3 * t[0] + 1] -= scale * p[1].x / 2;
                grad[3 * t[1]] -= scale * p[0].y / 2;
                grad[3 * t[1] + 1] += scale * p[0].x / 2;
            }
        } else {
            V += (double)fsi_vec_dot(p[0], fsi_vec_cross(p[1], p[2])) / 6;
            for (int a = 0; grad && a < 3; a++) {
                fsi_real *q = grad + 3 * t[a];
                fsi_vec_store(q, fsi_vec_mad(fsi_vec_load(q),
                                             fsi_vec_cross(p[(a + 1) % 3], p[(a + 2) % 3]),
                                             scale / 6));
            }
        }
    }
    return (fsi_real)V;
}

static int fsi__soft_has_pressure(const fsi_soft *s) {
    return s->closed && (s->desc.pressure != 0 || s->desc.volume_stiffness > 0);
}

/* f (may be NULL) = elastic and pressure force at x; returns the energy. */
static double fsi__soft_internal(const fsi_soft *s, const fsi_real *x, fsi_real *f) {
    fsi__soft_work *w = s->work;
    ptrdiff_t n = s->element_count;
    FSI__OMP(parallel for schedule(static) if (n > 4000))
    for (ptrdiff_t e = 0; e < n; e++) {
        fsi__elem o;
        fsi__soft_eval(s, (int)e, x, 0, &o);
        memcpy(w->element_force + 12 * e, o.force, sizeof o.force);
        w->element_energy[e] = o.energy;
    }
    if (f)
        fsi__soft_gather(s, f);
    double energy = fsi_sum((size_t)n, w->element_energy);
    if (fsi__soft_has_pressure(s)) { /* E = -p V + k (V - V_target)^2 / (2 V_0) */
        fsi_real V = fsi__soft_volume(s, x, 0, NULL), c = s->desc.volume_stiffness / w->rest_volume,
                 gap = V - s->volume_target[0];
        if (f)
            fsi__soft_volume(s, x, s->desc.pressure - c * gap, f);
        energy += (double)(-s->desc.pressure * V + c * gap * gap / 2);
    }
    return energy;
}

FSI_API void fsi_soft_elastic_force(const fsi_soft *s, fsi_real *f) {
    if (s && s->block && f)
        fsi__soft_internal(s, s->x, f);
}

/* f += gravity and external force */
static void fsi__soft_external(const fsi_soft *s, fsi_real *f) {
    for (int i = 0; i < s->desc.vertex_count; i++) {
        fsi_vec3 g = fsi_vec_mad(fsi_vec_load(s->force + 3 * i), s->desc.gravity, s->mass[i]);
        fsi_vec_store(f + 3 * i, fsi_vec_add(fsi_vec_load(f + 3 * i), g));
    }
}

static double fsi__soft_kinetic(const fsi_soft *s, const fsi_real *v) {
    double e = 0;
    for (int i = 0; i < s->desc.vertex_count; i++)
        e += (double)(s->mass[i] * fsi_vec_dot(fsi_vec_load(v + 3 * i), fsi_vec_load(v + 3 * i))
                      / 2);
    return e;
}

FSI_API void fsi_soft_energy(const fsi_soft *s, double *elastic, double *kinetic) {
    int ready = s && s->block;
    if (elastic)
        *elastic = ready ? fsi__soft_internal(s, s->x, NULL) : 0;
    if (kinetic)
        *kinetic = ready ? fsi__soft_kinetic(s, s->v) : 0;
}

/* Energy with the nodes at x and velocities v, J: elastic, pressure, gravity's, the constant
 * forces', kinetic. f (may be NULL): the first two as forces. */
static double fsi__soft_total(const fsi_soft *s, const fsi_real *x, const fsi_real *v,
                              fsi_real *f) {
    double e = fsi__soft_internal(s, x, f);
    for (int i = 0; i < s->desc.vertex_count; i++)
        e -= (double)fsi_vec_dot(
            fsi_vec_mad(fsi_vec_load(s->force + 3 * i), s->desc.gravity, s->mass[i]),
            fsi_vec_load(x + 3 * i));
    return e + fsi__soft_kinetic(s, v);
}

FSI_API fsi_real fsi_soft_volume(const fsi_soft *s) {
    return s && s->block ? fsi__soft_volume(s, s->x, 0, NULL) : 0;
}

/* ------------------------------------------------------------------------------------------------
 * >>soft matrix */
/* Sorted neighbours of vertex i (itself included) into list; returns how many. */
static int fsi__soft_neighbours(const fsi__soft_work *w, int i, int32_t *list) {
    int n = 0, j;
    for (int k = w->first[i]; k < w->first[i + 1]; k++)
        for (int a = 0; a < 4; a++) {
            int32_t v = w->node[4 * (w->corner[k] / 4) + a];
            if (v < 0)
                continue;
            for (j = n; j > 0 && list[j - 1] > v; j--) {
            }
            if (j > 0 && list[j - 1] == v)
                continue;
            memmove(list + j + 1, list + j, (size_t)(n - j) * sizeof *list);
            list[j] = v;
            n++;
        }
    return n;
}

/* Pattern of K, place of every element block in it, and of B. Once per object. */
static fsi_result fsi__soft_matrix(fsi_soft *s) {
    fsi__soft_work *w = s->work;
    int n = s->desc.vertex_count, most = 1;
    size_t blocks = 0, b_rows = 0, b_entries = 0;
    if (w->slot_block)
        return FSI_OK;
    for (int i = 0; i < n; i++)
        most = fsi__imax(most, 4 * (w->first[i + 1] - w->first[i]) + 1);
    int32_t *list;
    list = (int32_t *)fsi_alloc(&s->desc.allocator, (size_t)most * sizeof *list);
    if (!list)
        return FSI_ERR_MEMORY;
    for (int i = 0; i < n; i++)
        blocks += (size_t)fsi__soft_neighbours(w, i, list);
    for (int k = 0; k < FSI__KINDS; k++) {
        size_t rows = (size_t)(w->begin[k + 1] - w->begin[k]) * (size_t)fsi__kind_rows[k];
        b_rows += rows;
        b_entries += rows * 3 * (size_t)fsi__kind_nodes[k];
    }
    if (s->desc.damping_mass > 0) {
        b_rows += 3 * (size_t)n;
        b_entries += 3 * (size_t)n;
    }
    if (s->closed && s->desc.volume_stiffness > 0) {
        b_rows++;
        b_entries += 3 * (size_t)n;
    }
    if (s->desc.integrator != FSI_SOFT_SPLIT)
        b_rows = b_entries = 0;
    fsi_arena arena;
    memset(&arena, 0, sizeof arena);
    if (9 * blocks > 0x7fffffff || b_entries > 0x7fffffff)
        arena.failed = 1;
    for (int k = 0; k < 2 && !arena.failed; k++) {
        FSI__TAKE(s->K.val, fsi_real, &arena, 9 * blocks);
        w->kd = s->desc.damping_stiffness > 0
                    ? (fsi_real *)fsi_arena_take(&arena, 9 * blocks, sizeof(fsi_real))
                    : NULL;
        FSI__TAKE(s->K.col, int32_t, &arena, 9 * blocks);
        FSI__TAKE(s->K.row, int32_t, &arena, 3 * (size_t)n + 1);
        FSI__TAKE(w->slot, int32_t, &arena, 16 * (size_t)s->element_count);
        FSI__TAKE(s->B.val, fsi_real, &arena, b_entries);
        FSI__TAKE(s->B.col, int32_t, &arena, b_entries);
        FSI__TAKE(s->B.row, int32_t, &arena, b_rows + 1);
        if (!k)
            arena.failed =
                fsi__arena_block(&arena, &s->desc.allocator, &w->slot_block, &w->slot_size)
                != FSI_OK;
    }
    for (int i = 0; i < n && !arena.failed; i++) {
        int count = fsi__soft_neighbours(w, i, list);
        for (int a = 0; a < 3; a++) {
            int32_t at = s->K.row[3 * i + a];
            for (int j = 0; j < 3 * count; j++)
                s->K.col[at + j] = 3 * list[j / 3] + j % 3;
            s->K.row[3 * i + a + 1] = at + 3 * count;
        }
        for (int k = w->first[i]; k < w->first[i + 1]; k++)
            for (int b = 0; b < 4; b++)
                for (int j = 0; j < count; j++)
                    if (list[j] == w->node[4 * (w->corner[k] / 4) + b])
                        w->slot[4 * w->corner[k] + b] = j;
    }
    fsi_free(&s->desc.allocator, list, (size_t)most * sizeof *list);
    if (arena.failed) {
        memset(&s->K, 0, sizeof s->K);
        memset(&s->B, 0, sizeof s->B);
        return FSI_ERR_MEMORY;
    }
    s->K.rows = s->K.cols = 3 * n;
    s->B.rows = (int)b_rows;
    s->B.cols = 3 * n;
    return FSI_OK;
}

/* K at x: exact (1) or positive semi-definite (2). Elements in parallel, sums in element order. */
static void fsi__soft_assemble(fsi_soft *s, const fsi_real *x, int hessian) {
    fsi__soft_work *w = s->work;
    int i, j, r;
    memset(s->K.val, 0, (size_t)s->K.row[s->K.rows] * sizeof(fsi_real));
    for (int begin = 0; begin < s->element_count; begin += FSI__SOFT_BATCH) {
        ptrdiff_t count = fsi__imin(FSI__SOFT_BATCH, s->element_count - begin);
        FSI__OMP(parallel for schedule(static) private(i, j, r) if (s->element_count > 4000))
        for (ptrdiff_t k = 0; k < count; k++) {
            fsi__elem o;
            fsi_real *ke = w->batch + 144 * k;
            int kind = fsi__soft_kind(w, begin + (int)k), n = 3 * fsi__kind_nodes[kind];
            fsi__soft_eval(s, begin + (int)k, x, hessian, &o);
            int exact = hessian == 1 && o.has_geo;
            /* exact: geo instead of its positive rows */
            if (hessian == 1)
                o.rows = fsi__imin(o.rows, fsi__kind_material[kind]);
            for (i = 0; i < n; i++)
                /* rows alone: symmetric to the bit */
                for (j = 0; j < (exact ? n : i + 1); j++) {
                    fsi_real c = exact ? o.geo[i][j] : 0;
                    for (r = 0; r < o.rows; r++)
                        c += o.row[r][i] * o.row[r][j];
                    ke[12 * i + j] = c;
                    if (!exact)
                        ke[12 * j + i] = c;
                }
        }
        for (ptrdiff_t k = 0; k < count; k++) {
            const int32_t *node = w->node + 4 * (begin + k);
            for (int a = 0; a < 4 && node[a] >= 0; a++)
                for (int b = 0; b < 4 && node[b] >= 0; b++) {
                    int32_t slot = w->slot[16 * (begin + k) + 4 * a + b];
                    for (i = 0; i < 3; i++)
                        for (j = 0; j < 3; j++)
                            s->K.val[s->K.row[3 * node[a] + i] + 3 * slot + j] +=
                                w->batch[144 * k + 12 * (3 * a + i) + 3 * b + j];
                }
        }
    }
}

FSI_API fsi_result fsi_soft_stiffness(fsi_soft *s) {
    if (!s || !s->block)
        return FSI_ERR_STATE;
    fsi_result r = fsi__soft_matrix(s);
    if (r == FSI_OK)
        fsi__soft_assemble(s, s->x, 1);
    return r;
}

/* Rows of B with B^T B = dt^2 K + dt C, columns of prescribed coordinates zero: elements (positive
 * semi-definite part), mass damping, volume stiffness. */
static void fsi__soft_factor_rows(fsi_soft *s, fsi_real dt) {
    const fsi__soft_work *w = s->work;
    const fsi_real scale = fsi__sqrt(dt * (dt + s->desc.damping_stiffness));
    int i, all = 3 * s->desc.vertex_count;
    int32_t row = 0, at = 0;
    for (int e = 0; e < s->element_count; e++) {
        int order[4] = {0, 1, 2, 3};
        const int32_t *node = w->node + 4 * e;
        int kind = fsi__soft_kind(w, e);
        int n = fsi__kind_nodes[kind];
        fsi__elem o;
        fsi__soft_eval(s, e, s->x, 2, &o);
        for (int a = 1; a < n; a++)
            for (i = a; i > 0 && node[order[i - 1]] > node[order[i]]; i--) {
                int t = order[i];
                order[i] = order[i - 1];
                order[i - 1] = t;
            }
        for (int r = 0; r < fsi__kind_rows[kind]; r++) {
            s->B.row[row++] = at;
            for (int a = 0; a < n; a++)
                for (i = 0; i < 3; i++, at++) {
                    int c = 3 * node[order[a]] + i;
                    s->B.col[at] = c;
                    s->B.val[at] =
                        w->fixed[c] || r >= o.rows ? 0 : scale * o.row[r][3 * order[a] + i];
                }
        }
    }
    for (i = 0; i < all && row + all <= s->B.rows; i++, at++) {
        s->B.row[row + i] = at;
        s->B.col[at] = i;
        s->B.val[at] = w->fixed[i] ? 0 : fsi__sqrt(dt * s->desc.damping_mass * s->mass[i / 3]);
    }
    if (i > 0)
        row += all;
    if (row < s->B.rows) {
        s->B.row[row++] = at;
        fsi_fill((size_t)all, 0, s->B.val + at);
        fsi__soft_volume(s, s->x, dt * fsi__sqrt(s->desc.volume_stiffness / w->rest_volume),
                         s->B.val + at);
        for (i = 0; i < all; i++, at++) {
            s->B.col[at] = i;
            if (w->fixed[i])
                s->B.val[at] = 0;
        }
    }
    s->B.row[row] = at;
}

/* ------------------------------------------------------------------------------------------------
 * >>soft solve */
/* (cm M + ck K + cd Kd + cp g g^T) dx = r, dx given on prescribed coordinates */
typedef struct fsi__soft_system {
    fsi_real cm, ck, cd, cp;
} fsi__soft_system;

/* M + dt^2 K + dt C */
static fsi__soft_system fsi__soft_velocity_system(const fsi_soft *s, fsi_real dt) {
    fsi__soft_system q;
    q.cm = 1 + dt * s->desc.damping_mass;
    q.ck = dt * (dt + s->desc.damping_stiffness);
    q.cd = 0;
    q.cp =
        fsi__soft_has_pressure(s) ? dt * dt * s->desc.volume_stiffness / s->work->rest_volume : 0;
    return q;
}

static void fsi__soft_diagonal(const fsi_real *x, fsi_real *y, void *user) {
    const fsi_soft *s = (const fsi_soft *)user;
    for (int i = 0; i < s->K.rows; i++)
        y[i] = s->work->precondition[i] * x[i];
}

/* K.val becomes the system matrix; prescribed rows and columns are taken out, their dx goes to the
 * right-hand side. */
static void fsi__soft_system_build(fsi_soft *s, const fsi__soft_system *q, fsi_real *r,
                                   const fsi_real *given) {
    fsi__soft_work *w = s->work;
    fsi_csr *K = &s->K;
    FSI__OMP(parallel for schedule(static) if (K->rows > 4000))
    for (ptrdiff_t i = 0; i < K->rows; i++) {
        double shift = 0;
        for (int32_t k = K->row[i]; k < K->row[i + 1]; k++) {
            int32_t j = K->col[k];
            fsi_real a = q->ck * K->val[k] + (w->kd && q->cd > 0 ? q->cd * w->kd[k] : 0)
                         + (j == i ? q->cm * s->mass[i / 3] : 0);
            if (w->fixed[j])
                shift += (double)(a * given[j]);
            if (w->fixed[i] || w->fixed[j])
                a = j == i ? FSI_R(1.0) : FSI_R(0.0);
            K->val[k] = a;
            if (j == i)
                w->precondition[i] = a > 0 ? 1 / a : FSI_R(1.0);
        }
        r[i] = w->fixed[i] ? given[i] : r[i] - (fsi_real)shift;
    }
}

static fsi_result fsi__soft_symbolic(fsi_soft *s) { /* once: memory and order of the factor */
    if (s->desc.use_cg || s->factor.block)
        return FSI_OK;
    fsi_cholesky_desc d;
    memset(&d, 0, sizeof d);
    d.allocator = s->desc.allocator;
    return fsi_cholesky_init(&s->factor, &s->K, &d);
}

static fsi_result fsi__soft_factor(fsi_soft *s) {
    fsi_result r = fsi__soft_symbolic(s);
    return r < 0 || s->desc.use_cg ? r : fsi_cholesky_factor(&s->factor, &s->K, 0, NULL);
}

static fsi_result fsi__soft_linear(fsi_soft *s, const fsi_real *b, fsi_real *x) {
    fsi__soft_work *w = s->work;
    if (!s->desc.use_cg)
        return fsi_cholesky_solve(&s->factor, b, x);
    fsi_krylov_desc d;
    memset(&d, 0, sizeof d);
    d.n = (size_t)s->K.rows;
    d.A = fsi_csr_operator(&s->K);
    d.precondition.apply_fn = fsi__soft_diagonal;
    d.precondition.user = s;
    d.tolerance = s->desc.tolerance > 1e-5 ? s->desc.tolerance / 10 : 1e-6;
    d.max_iterations = 500; /* an inexact Newton step is still one */
    d.allocator = s->desc.allocator;
    fsi_report report;
    fsi_result r = fsi_cg_solve(&d, b, x, w->cg_work, w->cg_size, &report);
    return r == FSI_NOT_CONVERGED || r == FSI_STALLED ? FSI_OK : r;
}

/* Solves for step: r is overwritten. hessian 1 falls back to 2 when the exact matrix is indefinite,
 * 2 to a small shift. */
static fsi_result fsi__soft_solve(fsi_soft *s, const fsi_real *x, const fsi__soft_system *q,
                                  int hessian, fsi_real *r, const fsi_real *given, fsi_real *step) {
    fsi__soft_work *w = s->work;
    size_t n = 3 * (size_t)s->desc.vertex_count;
    fsi_result result = FSI_ERR_SINGULAR;
    fsi_copy(n, r, w->other);
    for (; hessian <= 3; hessian++) {
        fsi_copy(n, w->other, r);
        fsi__soft_assemble(s, x, fsi__imin(hessian, 2));
        fsi__soft_system_build(s, q, r, given);
        /* static: cloth without tension or bending stiffness leaves flat directions */
        if (hessian == 3) {
            fsi_real tau = fsi__max(FSI_R(1e-9), 16 * FSI_REAL_EPS)
                           * fsi_max_abs((size_t)s->K.row[s->K.rows], s->K.val);
            for (size_t i = 0; i < n; i++) {
                int32_t k = s->K.row[i];
                while (s->K.col[k] != (int32_t)i)
                    k++;
                s->K.val[k] += tau;
            }
        }
        result = fsi__soft_factor(s);
        if (result == FSI_OK)
            result = fsi__soft_linear(s, r, step);
        if (result != FSI_ERR_SINGULAR && result != FSI_BREAKDOWN && result != FSI_ERR_NUMERIC)
            break;
    }
    if (result < 0 || q->cp == 0)
        return result;
    /* rank one of the volume stiffness: Sherman-Morrison */
    for (size_t i = 0; i < n; i++)
        w->gradient[i] = 0;
    fsi__soft_volume(s, x, 1, w->gradient);
    for (size_t i = 0; i < n; i++)
        if (w->fixed[i])
            w->gradient[i] = 0;
    result = fsi__soft_linear(s, w->gradient, w->other);
    if (result < 0)
        return result;
    {
        double gy = fsi_dot(n, w->gradient, step), gz = fsi_dot(n, w->gradient, w->other);
        fsi_axpy(n, (fsi_real)(-(double)q->cp * gy / (1 + (double)q->cp * gz)), w->other, step);
    }
    return FSI_OK;
}

/* Energy of the implicit step: elastic + cm/2 |x - y|_M^2 + cd/2 (x - z) Kd (x - z) - external . x;
 * r (may be NULL) = minus its gradient. */
static double fsi__soft_merit(fsi_soft *s, const fsi_real *x, const fsi__soft_system *q,
                              fsi_real *r) {
    fsi__soft_work *w = s->work;
    int n = 3 * s->desc.vertex_count;
    double energy = fsi__soft_internal(s, x, r);
    if (r)
        fsi__soft_external(s, r);
    for (int i = 0; i < n; i++) {
        fsi_real m = s->mass[i / 3], d = x[i] - w->y[i], damp = 0;
        double out = (double)s->force[i] + (double)(m * fsi__get(s->desc.gravity, i % 3));
        if (q->cd > 0) {
            for (int32_t k = s->K.row[i]; k < s->K.row[i + 1]; k++)
                damp += w->kd[k] * (x[s->K.col[k]] - w->z[s->K.col[k]]);
            energy += 0.5 * (double)(q->cd * damp * (x[i] - w->z[i]));
        }
        energy += 0.5 * (double)(q->cm * m * d * d) - out * (double)(x[i] - w->rest_x[i]);
        if (r)
            r[i] = w->fixed[i] ? 0 : r[i] - q->cm * m * d - q->cd * damp;
    }
    return energy;
}

/* Newton from x (in place) with halving of the step until the energy falls. given: prescribed
 * change of fixed coordinates, done in the first step. */
static fsi_result fsi__soft_newton(fsi_soft *s, fsi_real *x, const fsi__soft_system *q,
                                   int iterations, fsi_real *given) {
    fsi__soft_work *w = s->work;
    size_t n = 3 * (size_t)s->desc.vertex_count;
    int hessian = iterations > 1 ? 1 : 2, cut, stalled = 0;
    /* whole: the first step is taken without a search */
    int whole = iterations == 1 || fsi_max_abs(n, given) > 0;
    double energy = fsi__soft_merit(s, x, q, w->residual), next = 0;
    fsi_result r = FSI_OK;
    memset(&s->report, 0, sizeof s->report);
    fsi_fill(n, 0, w->trial);
    fsi__soft_external(s, w->trial);
    s->report.residual_start = s->report.residual = fsi_norm(n, w->residual);
    double scale = s->desc.tolerance * (fsi_norm(n, w->trial) + s->report.residual_start);
    for (int k = 0; k < iterations && !stalled && (whole || s->report.residual > scale); k++) {
        fsi_real t = 1;
        r = fsi__soft_solve(s, x, q, hessian, w->residual, given, w->step);
        if (r < 0)
            return r;
        if (!fsi_all_finite(n, w->step))
            return FSI_ERR_NUMERIC;
        fsi__soft_merit(s, x, q, w->residual);
        double slope = fsi_dot(n, w->residual, w->step); /* > 0: downhill */
        for (cut = 0;; cut++, t /= 2) {
            fsi_copy(n, x, w->trial);
            fsi_axpy(n, t, w->step, w->trial);
            next = fsi__soft_merit(s, w->trial, q, w->residual);
            if (whole || next <= energy - 1e-4 * (double)t * slope + 1e-13 * fabs(energy)
                || cut >= 30)
                break;
        }
        if (!fsi__finite((fsi_real)next))
            return FSI_ERR_NUMERIC;
        fsi_copy(n, w->trial, x);
        s->report.iterations++;
        s->report.restarts += cut;
        /* stalled: no better point along the step, or neither energy nor residual falls */
        slope = fsi_norm(n, w->residual);
        stalled = cut >= 30
                  || (!whole && fabs(energy - next) <= 1e-13 * fabs(next)
                      && slope > s->report.residual / 2);
        s->report.residual = slope;
        energy = next;
        if (whole)
            fsi_fill(n, 0, given);
        whole = 0;
    }
    r = iterations == 1 || s->report.residual <= scale ? FSI_OK
        : stalled                                      ? FSI_STALLED
                                                       : FSI_NOT_CONVERGED;
    return s->report.reason = r;
}

/* ------------------------------------------------------------------------------------------------
 * >>soft stages */
static int fsi__soft_ready(const fsi_soft *s, fsi_real dt) {
    return s && s->block && fsi__finite(dt) && dt > 0;
}

/* v += dt M^-1 f, damped; FSI_SOFT_SPLIT: dt f into z, for the door's push */
static fsi_result fsi__soft_explicit(fsi_soft *s, fsi_real dt) {
    fsi__soft_work *w = s->work;
    int n = 3 * s->desc.vertex_count, split = s->desc.integrator == FSI_SOFT_SPLIT;
    fsi_real beta = split ? 0 : s->desc.damping_stiffness,
             keep = 1 / (1 + dt * s->desc.damping_mass);
    fsi_copy((size_t)n, s->v, w->x0);
    fsi__soft_internal(s, s->x, w->residual);
    /* stiffness damping: (f(x + h v) - f(x)) / h */
    if (beta > 0) {
        fsi_real h = FSI_R(1e-4) * dt;
        fsi_copy((size_t)n, s->x, w->trial);
        fsi_axpy((size_t)n, h, s->v, w->trial);
        fsi__soft_internal(s, w->trial, w->step);
        for (int i = 0; i < n; i++)
            w->residual[i] += beta / h * (w->step[i] - w->residual[i]);
    }
    fsi__soft_external(s, w->residual);
    if (!fsi_all_finite((size_t)n, w->residual))
        return FSI_ERR_NUMERIC;
    for (int i = 0; i < n; i++) {
        w->z[i] = w->fixed[i] ? 0 : dt * w->residual[i];
        if (w->fixed[i] || !split)
            s->v[i] = w->fixed[i] ? s->drive[i] : keep * (s->v[i] + w->z[i] / s->mass[i / 3]);
    }
    return FSI_OK;
}

/* Backward Euler or trapezoidal rule: x minimises the step's energy, v follows. */
static fsi_result fsi__soft_implicit(fsi_soft *s, fsi_real dt) {
    fsi__soft_work *w = s->work;
    int newmark = s->desc.integrator == FSI_SOFT_NEWMARK;
    size_t n = 3 * (size_t)s->desc.vertex_count;
    fsi_real alpha = s->desc.damping_mass, h = newmark ? dt / 2 : dt;
    fsi__soft_system q;
    q.cm = 1 / (h * h) + alpha / h;
    q.ck = 1;
    q.cd = s->desc.damping_stiffness / h;
    q.cp = fsi__soft_has_pressure(s) ? s->desc.volume_stiffness / w->rest_volume : 0;
    if (w->kd) {
        fsi__soft_assemble(s, s->x, 2);
        fsi_copy((size_t)s->K.row[n], s->K.val, w->kd);
    }
    if (newmark) { /* w->step = a_0 M */
        fsi__soft_internal(s, s->x, w->step);
        fsi__soft_external(s, w->step);
        if (w->kd)
            fsi_csr_mul(&s->K, s->v, w->trial);
    }
    for (size_t i = 0; i < n; i++) {
        fsi_real x = s->x[i], v = s->v[i], push = 0;
        /* = a_0 + alpha v_0 */
        if (newmark)
            push = (w->step[i] - (w->kd ? s->desc.damping_stiffness * w->trial[i] : 0))
                   / s->mass[i / 3];
        w->y[i] = ((x + dt * v) / (h * h) + push + alpha / h * x) / q.cm;
        w->z[i] = newmark ? x + h * v : x;
        w->x0[i] = x;
        /* the given change, until after the solve */
        w->jump[i] = w->fixed[i] ? (newmark ? h * (v + s->drive[i]) : dt * s->drive[i]) : 0;
    }
    fsi_result r = fsi__soft_newton(s, w->x0, &q, s->desc.newton, w->jump);
    if (r < 0)
        return r;
    /* (cm M + K + ...) dx = f, dv = dx / h, f = j / h */
    w->response = s->report.iterations > 0 ? 1 / (h * h) : 0;
    for (size_t i = 0; i < n; i++) {
        fsi_real before = s->v[i];
        s->v[i] = w->fixed[i] ? s->drive[i]
                  : newmark   ? 2 * (w->x0[i] - s->x[i]) / dt - before
                              : (w->x0[i] - s->x[i]) / dt;
        w->jump[i] = dt / 2 * (before - s->v[i]);
        w->x0[i] = before;
    }
    w->jumps = newmark;
    return r;
}

FSI_API fsi_result fsi_soft_forces(fsi_soft *s, fsi_real dt) {
    if (!s || !s->block)
        return FSI_ERR_STATE;
    if (!fsi__soft_ready(s, dt))
        return FSI_ERR_ARGUMENT;
    s->dt = dt;
    s->moved = s->work->response = 0;
    s->work->jumps = 0;
    if (s->work->watched)
        s->work->energy = fsi__soft_total(s, s->x, s->v, NULL);
    fsi_fill(3 * (size_t)s->desc.vertex_count, 0, s->impulse);
    if (s->desc.integrator == FSI_SOFT_IMPLICIT || s->desc.integrator == FSI_SOFT_NEWMARK) {
        if (!fsi_all_finite(6 * (size_t)s->desc.vertex_count, s->x))
            return FSI_ERR_NUMERIC;
        return fsi__soft_implicit(s, dt);
    }
    fsi_result r = fsi__soft_explicit(s, dt);
    if (r == FSI_OK && s->desc.integrator == FSI_SOFT_SPLIT)
        fsi__soft_factor_rows(s, dt);
    return r;
}

FSI_API fsi_result fsi_soft_finish(fsi_soft *s) {
    if (!s || !s->block || !(s->dt > 0))
        return FSI_ERR_STATE;
    if (s->desc.integrator != FSI_SOFT_SPLIT)
        return FSI_OK;
    fsi__soft_work *w = s->work;
    int n = 3 * s->desc.vertex_count;
    fsi__soft_system q = fsi__soft_velocity_system(s, s->dt);
    for (int i = 0; i < n; i++) {
        w->residual[i] = s->mass[i / 3] * s->v[i] + w->z[i];
        w->y[i] = w->fixed[i] ? s->drive[i] : 0;
    }
    fsi_result r = fsi__soft_solve(s, s->x, &q, 2, w->residual, w->y, w->step);
    if (r < 0)
        return r;
    if (!fsi_all_finite((size_t)n, w->step))
        return FSI_ERR_NUMERIC;
    fsi_copy((size_t)n, w->step, s->v);
    w->response = 1; /* (M + B^T B) dv = j */
    return r;
}

FSI_API void fsi_soft_coupled(fsi_soft *s, fsi_coupled *out) {
    memset(out, 0, sizeof *out);
    if (!s || !s->block)
        return;
    out->surface = fsi_soft_surface(s);
    out->dof = 3 * s->desc.vertex_count;
    out->v = s->v;
    out->impulse = s->impulse;
    out->mass = s->mass;
    out->inverse_mass = s->inverse_mass;
    out->node = s->surface_node;
    out->implicit = s->desc.integrator == FSI_SOFT_SPLIT ? &s->B : NULL;
    out->push = s->desc.integrator == FSI_SOFT_SPLIT ? s->work->z : NULL;
    out->user = s;
}

FSI_API fsi_surface fsi_soft_surface(const fsi_soft *s) {
    fsi_surface f;
    memset(&f, 0, sizeof f);
    if (!s || !s->block)
        return f;
    f.dim = s->desc.dim;
    f.vertex_count = s->desc.vertex_count;
    f.element_count = s->surface_count;
    f.closed = s->desc.tet_count ? 1 : 0;
    f.x = s->x;
    f.v = s->v;
    f.index = s->surface;
    return f;
}

FSI_API fsi_result fsi_soft_step(fsi_soft *s, fsi_real dt, const fsi_obstacle *obstacle,
                                 int count) {
    fsi_result r = fsi_soft_forces(s, dt);
    if (r < 0)
        return r;
    fsi_result t = fsi_soft_finish(s);
    if (t == FSI_OK)
        t = fsi_soft_contact(s, obstacle, count, dt, NULL);
    if (t == FSI_OK)
        t = fsi_soft_move(s, dt);
    return t < 0 ? t : r;
}

FSI_API fsi_result fsi_soft_static(fsi_soft *s, int linear, int max_iterations,
                                   fsi_report *report) {
    if (!s || !s->block)
        return FSI_ERR_STATE;
    if (max_iterations < 0)
        return FSI_ERR_ARGUMENT;
    fsi_result r = fsi__soft_matrix(s);
    if (r != FSI_OK)
        return r;
    fsi__soft_work *w = s->work;
    size_t n = 3 * (size_t)s->desc.vertex_count;
    fsi__soft_system q;
    memset(&q, 0, sizeof q);
    q.ck = 1;
    q.cp = fsi__soft_has_pressure(s) ? s->desc.volume_stiffness / w->rest_volume : 0;
    fsi_copy(n, linear ? w->rest_x : s->x, w->x0);
    fsi_fill(n, 0, w->jump);
    r = fsi__soft_newton(s, w->x0, &q, linear ? 1 : max_iterations ? max_iterations : 100, w->jump);
    if (report)
        *report = s->report;
    if (r < 0)
        return r;
    fsi_copy(n, w->x0, s->x);
    fsi_fill(n, 0, s->v);
    return r;
}

/* omega_max^2 by power iteration on M^-1 K */
FSI_API fsi_real fsi_soft_max_dt(fsi_soft *s) {
    double omega2 = 0;
    if (!s || !s->block || fsi__soft_matrix(s) != FSI_OK)
        return 0;
    fsi__soft_work *w = s->work;
    size_t n = 3 * (size_t)s->desc.vertex_count;
    fsi__soft_assemble(s, s->x, 2);
    for (size_t i = 0; i < n; i++)
        w->step[i] =
            w->fixed[i] ? 0 : FSI_R(0.5) + (fsi_real)(i * 7919 % 101) / 101 - (fsi_real)(i & 1);
    for (int k = 0; k < 80; k++) {
        fsi_csr_mul(&s->K, w->step, w->trial);
        for (size_t i = 0; i < n; i++)
            w->trial[i] = w->fixed[i] ? 0 : w->trial[i] / s->mass[i / 3];
        double norm = fsi_norm(n, w->trial);
        if (!(norm > 0))
            return FSI_REAL_MAX;
        omega2 = norm / fsi_norm(n, w->step);
        for (size_t i = 0; i < n; i++)
            w->step[i] = (fsi_real)((double)w->trial[i] / norm);
    }
    return (fsi_real)(1.8 / sqrt(omega2));
}

/* ------------------------------------------------------------------------------------------------
 * >>soft contact */
/* A site is a place where a body is touched: a vertex, or the world point `at` carried by a surface
   element. An impulse j at `at` becomes f_a = w_a j + (I^-1 (d x j)) x r_a on the element's nodes:
   w weights of the nearest point c of the element, d = at - c, r_a arms from the nodes' mean, I =
   sum |r|^2 - r r^T. Then sum f = j and sum x_a x f_a = at x j, so linear and angular momentum are
   exact at any distance. The velocity there is the transpose: u = sum w_a v_a + (I^-1 sum r_a x
   v_a) x d. */
typedef struct fsi__site {
    int count;
    int32_t node[3];
    fsi_real weight[3];
    fsi_vec3 arm[3], off;
    fsi_mat3 inverse; /* zero: nothing to turn, or an element without width */
} fsi__site;

/* mass (|r|^2 - r r^T) */
static void fsi__inertia_point(fsi_mat3 *I, fsi_vec3 r, fsi_real mass) {
    for (int k = 0; k < 9; k++)
        I->m[k] +=
            mass * ((k % 4 == 0 ? fsi_vec_dot(r, r) : 0) - fsi__get(r, k / 3) * fsi__get(r, k % 3));
}

/* 0 where there is none; 2D: about z only */
static fsi_mat3 fsi__inertia_inverse(const fsi_mat3 *I, int dim) {
    fsi_mat3 inverse;
    memset(&inverse, 0, sizeof inverse);
    if (dim == 2)
        inverse.m[8] = I->m[8] > 0 ? 1 / I->m[8] : 0;
    else
        fsi_mat3_inverse(I, &inverse);
    return inverse;
}

static void fsi__site_make(const fsi_soft *s, int point, fsi_vec3 at, fsi__site *q) {
    fsi_vec3 x[3], mean = fsi_vec(0, 0, 0);
    int n = s->desc.dim;
    memset(q, 0, sizeof *q);
    q->count = 1;
    q->node[0] = point;
    q->weight[0] = 1;
    if (point < s->desc.vertex_count)
        return;
    q->count = n;
    for (int a = 0; a < n; a++) {
        q->node[a] = s->surface[n * (point - s->desc.vertex_count) + a];
        x[a] = fsi_vec_load(s->x + 3 * q->node[a]);
        mean = fsi_vec_mad(mean, x[a], 1 / (fsi_real)n);
    }
    if (n == 2)
        fsi_closest_on_segment(at, x[0], x[1], q->weight);
    else
        fsi_closest_on_triangle(at, x[0], x[1], x[2], q->weight);
    q->off = at;
    fsi_mat3 I;
    memset(&I, 0, sizeof I);
    for (int a = 0; a < n; a++) {
        fsi_vec3 r = q->arm[a] = fsi_vec_sub(x[a], mean);
        q->off = fsi_vec_mad(q->off, x[a], -q->weight[a]);
        fsi__inertia_point(&I, r, 1);
    }
    if (n == 2 || fsi_mat3_det(&I) > FSI_R(1e-6) * I.m[0] * I.m[4] * I.m[8])
        q->inverse = fsi__inertia_inverse(&I, n);
}

/* u from the velocities of its nodes */
static fsi_vec3 fsi__site_gather(const fsi__site *q, const fsi_vec3 *v) {
    fsi_vec3 u = fsi_vec(0, 0, 0), spin = u;
    for (int a = 0; a < q->count; a++) {
        u = fsi_vec_mad(u, v[a], q->weight[a]);
        spin = fsi_vec_add(spin, fsi_vec_cross(q->arm[a], v[a]));
    }
    return fsi_vec_add(u, fsi_vec_cross(fsi_mat3_mul_vec(&q->inverse, spin), q->off));
}

static fsi_vec3 fsi__site_velocity(const fsi__site *q, const fsi_real *v) {
    fsi_vec3 u[3];
    for (int a = 0; a < q->count; a++)
        u[a] = fsi_vec_load(v + 3 * q->node[a]);
    return fsi__site_gather(q, u);
}

/* Nodes touched by other solids in this step. With an implicit integrator they answer through its
   matrix, dv = A^-1 f, or a hit would squeeze the first layer of elements before elasticity knows:
   C is the part of A^-1 between them. The other nodes follow when the body moves
   (fsi__patch_flush). */
#define FSI__PATCH 200

typedef struct fsi__patch {
    /* nodes; most of them; 1: C is there, 0: lumped masses answer */
    int count, room, ready;
    int32_t *place, *node; /* [vertices] place in the patch or -1; [room] */
    /* [(3 room)^2], [3 vertices] not yet handed to the others, [3 room] velocities at the last
     * flush */
    fsi_real *C, *impulse, *base;
    size_t size;
} fsi__patch;

static fsi_vec3 fsi__site_force(const fsi__site *q, int a, fsi_vec3 j) { /* f_a */
    return fsi_vec_mad(
        fsi_vec_cross(fsi_mat3_mul_vec(&q->inverse, fsi_vec_cross(q->off, j)), q->arm[a]), j,
        q->weight[a]);
}

/* velocity change of a node (own: q's a-th) by j at q */
static fsi_vec3 fsi__node_answer(const fsi_soft *s, const fsi__site *q, int node, int own,
                                 fsi_vec3 j) {
    const fsi__patch *p = s->work->patch;
    const unsigned char *fixed = s->work->fixed + 3 * node;
    fsi_vec3 u = fsi_vec(0, 0, 0);
    if (!p || !p->ready) {
        u = fsi_vec_scale(fsi__site_force(q, own, j), s->inverse_mass[node]);
        return fsi_vec(fixed[0] ? 0 : u.x, fixed[1] ? 0 : u.y, fixed[2] ? 0 : u.z);
    }
    int n = 3 * p->count;
    for (int b = 0; b < q->count; b++) {
        const fsi_real *C =
            p->C + (size_t)(3 * p->place[node]) * (size_t)n + 3 * p->place[q->node[b]];
        fsi_vec3 f = fsi__site_force(q, b, j);
        u = fsi_vec_add(u, fsi_vec(fsi_vec_dot(fsi_vec_load(C), f),
                                   fsi_vec_dot(fsi_vec_load(C + n), f),
                                   fsi_vec_dot(fsi_vec_load(C + 2 * n), f)));
    }
    return u;
}

/* v: velocities, or positions for j in kg m */
static void fsi__site_impulse(const fsi_soft *s, const fsi__site *q, fsi_vec3 j, fsi_real *v) {
    const fsi__patch *p = s->work->patch;
    int n = p && p->ready ? p->count : q->count;
    for (int a = 0; a < n; a++) {
        int node = p && p->ready ? p->node[a] : q->node[a];
        fsi_vec_store(v + 3 * node,
                      fsi_vec_add(fsi_vec_load(v + 3 * node), fsi__node_answer(s, q, node, a, j)));
    }
    for (int a = 0; p && p->ready && a < q->count; a++) {
        fsi_real *f = p->impulse + 3 * q->node[a];
        fsi_vec_store(f, fsi_vec_add(fsi_vec_load(f), fsi__site_force(q, a, j)));
    }
}

/* velocity change there by impulse j there */
static fsi_vec3 fsi__site_response(const fsi_soft *s, const fsi__site *q, fsi_vec3 j) {
    fsi_vec3 u[3];
    for (int a = 0; a < q->count; a++)
        u[a] = fsi__node_answer(s, q, q->node[a], a, j);
    return fsi__site_gather(q, u);
}

/* w->step = A^-1 f, prescribed coordinates stay */
static fsi_result fsi__patch_solve(fsi_soft *s, const fsi_real *f) {
    fsi__soft_work *w = s->work;
    size_t n = 3 * (size_t)s->desc.vertex_count;
    for (size_t i = 0; i < n; i++)
        w->residual[i] = w->fixed[i] ? 0 : w->response * f[i];
    return fsi__soft_linear(s, w->residual, w->step);
}

/* velocities from which the next flush counts */
static void fsi__patch_base(fsi_soft *s) {
    fsi__patch *p = s->work->patch;
    for (int i = 0; p && p->ready && i < p->count; i++)
        memcpy(p->base + 3 * i, s->v + 3 * p->node[i], 3 * sizeof(fsi_real));
}

/* columns of A^-1 at the nodes */
static void fsi__patch_make(fsi_soft *s) {
    fsi__patch *p = s->work->patch;
    int n = 3 * p->count;
    for (int i = 0; i < n; i++) {
        int at = 3 * p->node[i / 3] + i % 3;
        p->impulse[at] = 1;
        fsi_result r = fsi__patch_solve(s, p->impulse);
        p->impulse[at] = 0;
        if (r < 0)
            return;
        for (int k = 0; k < n; k++)
            p->C[(size_t)k * (size_t)n + (size_t)i] = s->work->step[3 * p->node[k / 3] + k % 3];
    }
    p->ready = 1;
    fsi__patch_base(s);
}

static int fsi__in_zone(const fsi_soft *s, int32_t root, int i) {
    return root < 0 || fsi__root(s->work->zone, i) == root;
}

/* Nodes seen as one rigid body: all (root -1) or those of the zone of root. */
typedef struct fsi__soft_body {
    fsi_real mass;
    fsi_vec3 c, p, L; /* centre of mass, momentum, angular momentum about c */
    fsi_mat3 inverse; /* of the inertia */
    /* mean velocity and number of the nodes with prescribed coordinates */
    fsi_vec3 driven;
    int held;
} fsi__soft_body;

static fsi__soft_body fsi__soft_gather_body(const fsi_soft *s, int32_t root) {
    const unsigned char *fixed = s->work->fixed;
    fsi__soft_body b;
    int n = s->desc.vertex_count;
    memset(&b, 0, sizeof b);
    fsi_mat3 I;
    memset(&I, 0, sizeof I);
    for (int i = 0; i < n; i++) {
        fsi_vec3 v = fsi_vec_load(s->v + 3 * i);
        if (!fsi__in_zone(s, root, i))
            continue;
        b.mass += s->mass[i];
        b.c = fsi_vec_mad(b.c, fsi_vec_load(s->x + 3 * i), s->mass[i]);
        b.p = fsi_vec_mad(b.p, v, s->mass[i]);
        if (fixed[3 * i] || fixed[3 * i + 1] || (fixed[3 * i + 2] && s->desc.dim == 3)) {
            b.driven = fsi_vec_add(b.driven, v);
            b.held++;
        }
    }
    b.c = fsi_vec_scale(b.c, 1 / b.mass);
    if (b.held)
        b.driven = fsi_vec_scale(b.driven, 1 / (fsi_real)b.held);
    for (int i = 0; i < n; i++) {
        fsi_vec3 r = fsi_vec_sub(fsi_vec_load(s->x + 3 * i), b.c);
        if (!fsi__in_zone(s, root, i))
            continue;
        b.L = fsi_vec_mad(b.L, fsi_vec_cross(r, fsi_vec_load(s->v + 3 * i)), s->mass[i]);
        fsi__inertia_point(&I, r, s->mass[i]);
    }
    b.inverse = fsi__inertia_inverse(&I, s->desc.dim);
    return b;
}

/* Velocity of node i in the rigid motion of b with momentum p and angular momentum L. */
static fsi_vec3 fsi__soft_rigid(const fsi_soft *s, const fsi__soft_body *b, fsi_vec3 p, fsi_vec3 L,
                                int i) {
    return fsi_vec_add(fsi_vec_scale(p, 1 / b->mass),
                       fsi_vec_cross(fsi_mat3_mul_vec(&b->inverse, L),
                                     fsi_vec_sub(fsi_vec_load(s->x + 3 * i), b->c)));
}

/* adds momenta as a rigid motion, if it is free to move */
static void fsi__soft_balance(fsi_soft *s, const fsi__soft_body *b, fsi_vec3 p, fsi_vec3 L) {
    for (int i = 0; i < s->desc.vertex_count && !b->held; i++) {
        fsi_vec3 u = fsi__soft_rigid(s, b, p, L, i);
        for (int k = 0; k < s->desc.dim; k++)
            s->v[3 * i + k] += fsi__get(u, k);
    }
}

/* the other nodes take their part of the impulses */
static void fsi__patch_flush(fsi_soft *s) {
    fsi__patch *p = s->work->patch;
    size_t n = 3 * (size_t)s->desc.vertex_count;
    fsi_real *dv = s->work->step;
    fsi_vec3 lost = fsi_vec(0, 0, 0), turn = lost;
    if (!p || !p->ready || !(fsi_max_abs(n, p->impulse) > 0) || fsi__patch_solve(s, p->impulse) < 0)
        return;
    for (size_t i = 0; i < n; i++) {
        int at = p->place[i / 3];
        if (at >= 0)
            dv[i] = s->v[i] - p->base[3 * at + (int)(i % 3)];
        else
            s->v[i] += dv[i];
    }
    fsi__soft_body b = fsi__soft_gather_body(s, -1);
    /* what the tangent matrix of a strained body has lost of the impulses */
    for (size_t i = 0; i < n / 3; i++) {
        fsi_vec3 e =
            fsi_vec_mad(fsi_vec_load(p->impulse + 3 * i), fsi_vec_load(dv + 3 * i), -s->mass[i]);
        lost = fsi_vec_add(lost, e);
        turn = fsi_vec_add(turn, fsi_vec_cross(fsi_vec_sub(fsi_vec_load(s->x + 3 * i), b.c), e));
    }
    fsi__soft_balance(s, &b, lost, turn);
    fsi_fill(n, 0, p->impulse);
    fsi__patch_base(s);
}

/* Site a against site b (NULL: an obstacle with velocity other): normal velocity becomes at least
 * target, then Coulomb friction. Returns what was missing, m/s. */
static fsi_real fsi__soft_hit(fsi_soft *s, const fsi__site *a, const fsi__site *b, fsi_vec3 n,
                              fsi_vec3 other, fsi_real target, fsi_real friction) {
    fsi_real jn = 0, vt, missing = 0;
    fsi_vec3 dir = n;
    for (int pass = 0; pass < 2; pass++) { /* along n, then along what slips */
        fsi_vec3 v =
            fsi_vec_sub(fsi__site_velocity(a, s->v), b ? fsi__site_velocity(b, s->v) : other);
        fsi_real vn = fsi_vec_dot(v, n);
        if (pass) {
            dir = fsi_vec_mad(v, n, -vn);
            vt = fsi__length(dir);
            /* no width: a central impulse only */
            if (!(vt > 0) || (b && !(b->inverse.m[8] + b->inverse.m[0] + b->inverse.m[4] > 0)))
                return missing;
            dir = fsi_vec_scale(dir, -1 / vt);
        } else if (!(vn < target))
            return 0;
        else
            missing = target - vn;
        fsi_real k = fsi_vec_dot(dir, fsi__site_response(s, a, dir))
                     + (b ? fsi_vec_dot(dir, fsi__site_response(s, b, dir)) : 0);
        if (!(k > 0))
            return pass ? missing : 0;
        fsi_real jt = pass ? fsi__min(friction * jn, vt / k) : (target - vn) / k;
        if (!pass)
            jn = jt;
        fsi__site_impulse(s, a, fsi_vec_scale(dir, jt), s->v);
        if (b)
            fsi__site_impulse(s, b, fsi_vec_scale(dir, -jt), s->v);
    }
    return missing;
}

/* A quarter of an overlap is opened by moving nodes; velocities do not know. */
static int fsi__soft_open(fsi_soft *s, const fsi__site *a, const fsi__site *b, fsi_vec3 n,
                          fsi_real gap) {
    fsi_real depth = -gap - FSI_R(0.01) * s->desc.thickness;
    if (!(depth > 0))
        return 0;
    fsi_real k = fsi_vec_dot(n, fsi__site_response(s, a, n))
                 + (b ? fsi_vec_dot(n, fsi__site_response(s, b, n)) : 0);
    if (!(k > 0))
        return 0;
    fsi__site_impulse(s, a, fsi_vec_scale(n, depth / (4 * k)), s->x);
    if (b)
        fsi__site_impulse(s, b, fsi_vec_scale(n, -depth / (4 * k)), s->x);
    return 1;
}

/* a gap is not closed within dt */
static fsi_real fsi__soft_target(fsi_real gap, fsi_real dt) {
    return gap > 0 ? -gap / dt : 0;
}

/* limit velocities; open overlaps by moving nodes; who would pass through whom on the way */
enum {
    FSI__SELF_HIT,
    FSI__SELF_OPEN,
    FSI__SELF_CHECK
};

typedef struct fsi__soft_pairs {
    fsi_soft *s;
    int what, own, hits; /* own: vertex or edge that looks for others */
    /* s of the move; largest velocity that was missing in a pass, m/s */
    fsi_real dt, missing;
    fsi_vec3 lo, hi;   /* box of the query: who is outside cannot be met */
    const fsi_real *u; /* way of every node, m per dt */
} fsi__soft_pairs;

/* Points *a and *b where edges e and f come closest, and their distance; *inside 0: at an end, a
 * vertex, which looks for itself. */
static fsi_real fsi__edges_distance(const fsi_real *x, const int32_t *e, const int32_t *f,
                                    fsi_vec3 *a, fsi_vec3 *b, int *inside) {
    fsi_vec3 p = fsi_vec_load(x + 3 * e[0]), q = fsi_vec_load(x + 3 * f[0]),
             u = fsi_vec_sub(fsi_vec_load(x + 3 * e[1]), p);
    fsi_vec3 v = fsi_vec_sub(fsi_vec_load(x + 3 * f[1]), q), d = fsi_vec_sub(p, q);
    fsi_real uu = fsi_vec_dot(u, u), vv = fsi_vec_dot(v, v), uv = fsi_vec_dot(u, v),
             du = fsi_vec_dot(d, u), dv = fsi_vec_dot(d, v), det = uu * vv - uv * uv, s = 0;
    /* else parallel: any s */
    if (det > FSI_R(1e-4) * uu * vv)
        s = fsi__clamp((uv * dv - vv * du) / det, 0, 1);
    fsi_real t = fsi__clamp((s * uv + dv) / vv, 0, 1);
    s = fsi__clamp((t * uv - du) / uu, 0, 1);
    *inside = s > 0 && s < 1 && t > 0 && t < 1;
    *a = fsi_vec_mad(p, u, s);
    *b = fsi_vec_mad(q, v, t);
    return fsi__length(fsi_vec_sub(*a, *b));
}

/* A pair is a vertex a and an element b (first = 1) or two edges (first = 2): the first `first` of
   its dim + 1 nodes are a's. Their distance at positions x, and the nearest points *p and *r of
   both. */
FSI__INLINE fsi_real fsi__pair_distance(const fsi_soft *s, const fsi_real *x, int first,
                                        const int32_t *a, const int32_t *b, fsi_vec3 *p,
                                        fsi_vec3 *r, int *inside) {
    fsi_vec3 c[3];
    fsi_real w[3];
    int dim = s->desc.dim;
    if (first == 2)
        return fsi__edges_distance(x, a, b, p, r, inside);
    int k;
    for (k = 0; k < dim; k++)
        c[k] = fsi_vec_load(x + 3 * b[k]);
    *inside = 1;
    *p = fsi_vec_load(x + 3 * a[0]);
    fsi_real d2 = dim == 2 ? fsi_closest_on_segment(*p, c[0], c[1], w)
                           : fsi_closest_on_triangle(*p, c[0], c[1], c[2], w);
    for (*r = fsi_vec(0, 0, 0), k = 0; k < dim; k++)
        *r = fsi_vec_mad(*r, c[k], w[k]);
    return fsi__sqrt(d2);
}

/* How far the nodes of a pair can come together in q->dt, m. */
static fsi_real fsi__soft_way(const fsi__soft_pairs *q, int first, const int32_t *a,
                              const int32_t *b) {
    fsi_real most = 0;
    for (int i = 0; i < first; i++)
        for (int k = 0; k < q->s->desc.dim + 1 - first; k++) {
            fsi_vec3 d = fsi_vec_sub(fsi_vec_load(q->u + 3 * a[i]), fsi_vec_load(q->u + 3 * b[k]));
            most = fsi__max(most, fsi_vec_dot(d, d));
        }
    return q->dt * fsi__sqrt(most);
}

/* Does a pair come together on its way u within dt? Distances change by no more than the nodes move
   against each other, so time goes on by distance over speed (conservative advancement). Those who
   meet become one impact zone. d: distance now. */
static void fsi__soft_collides(fsi__soft_pairs *q, int first, const int32_t *a, const int32_t *b,
                               fsi_real d) {
    static const int32_t local[4] = {0, 1, 2, 3};
    fsi_soft *s = q->s;
    fsi_real x[12], fast = fsi__soft_way(q, first, a, b),
                    near = fsi__min(FSI_R(0.1) * s->desc.thickness, d / 2), t = 0;
    int n = s->desc.dim + 1, inside;
    int32_t node[4];
    for (int i = 0; i < n; i++)
        node[i] = i < first ? a[i] : b[i - first];
    for (int k = 0; k < 100 && d > near; k++) {
        if ((1 - t) * fast < d - near / 2)
            return; /* not within what is left */
        t += (d - near / 2) / fast;
        for (int i = 0; i < 3 * n; i++)
            x[i] = s->x[3 * node[i / 3] + i % 3] + t * q->dt * q->u[3 * node[i / 3] + i % 3];
        fsi_vec3 p;
        fsi_vec3 r;
        d = fsi__pair_distance(s, x, first, local, local + first, &p, &r, &inside);
    }
    q->hits++;
    for (int i = 1; i < n; i++)
        s->work->zone[fsi__root(s->work->zone, node[i])] = fsi__root(s->work->zone, node[0]);
}

/* Both sides of a pair are touched at `at`, n from b to a: velocities so that the gap is not
 * closed, or an overlap opened. */
static void fsi__soft_respond(fsi__soft_pairs *q, int site_a, int site_b, fsi_vec3 at, fsi_vec3 n,
                              fsi_real gap) {
    fsi_soft *s = q->s;
    fsi__site a;
    fsi__site_make(s, site_a, at, &a);
    fsi__site b;
    fsi__site_make(s, site_b, at, &b);
    if (q->what == FSI__SELF_OPEN) {
        q->hits += fsi__soft_open(s, &a, &b, n, gap);
        return;
    }
    fsi_real missing = fsi__soft_hit(s, &a, &b, n, fsi_vec(0, 0, 0), fsi__soft_target(gap, q->dt),
                                     s->desc.friction);
    q->hits += missing > 0;
    q->missing = fsi__max(q->missing, missing);
}

/* One pair of the own surface, touched at site_a and site_b. Neighbours keep the distance they have
 * at rest. */
static void fsi__soft_pair(fsi__soft_pairs *q, int first, const int32_t *a, const int32_t *b,
                           int site_a, int site_b) {
    const fsi_soft *s = q->s;
    fsi_real thick = s->desc.thickness, rest = FSI_REAL_MAX;
    fsi_vec3 p, r, skip[2];
    int inside;
    fsi_real d = fsi__pair_distance(s, s->x, first, a, b, &p, &r, &inside);
    if (!(d > 0))
        return;
    if (q->what == FSI__SELF_CHECK) {
        fsi__soft_collides(q, first, a, b, d);
        return;
    }
    if (!inside || (q->what == FSI__SELF_HIT && d - thick > fsi__soft_way(q, first, a, b)))
        return;
    if (d < 2 * thick)
        rest = fsi__pair_distance(s, s->work->rest_x, first, a, b, skip, skip + 1, &inside);
    fsi__soft_respond(
        q, site_a, site_b, first == 1 ? p : fsi_vec_scale(fsi_vec_add(p, r), FSI_R(0.5)),
        fsi_vec_scale(fsi_vec_sub(p, r), 1 / d), d - fsi__min(thick, rest * FSI_R(0.9)));
}

/* vertex against element */
static int fsi__soft_visit(int element, void *user) {
    fsi__soft_pairs *q = (fsi__soft_pairs *)user;
    const int32_t *t = q->s->surface + q->s->desc.dim * element, vertex = q->own;
    for (int k = 0; k < q->s->desc.dim; k++)
        if (t[k] == vertex)
            return 0;
    fsi__soft_pair(q, 1, &vertex, t, q->own, q->s->desc.vertex_count + element);
    return 0;
}

static int fsi__edge_outside(const fsi_real *a, const fsi_real *b, const fsi__soft_pairs *q) {
    return fsi__max(a[0], b[0]) < q->lo.x || fsi__min(a[0], b[0]) > q->hi.x
           || fsi__max(a[1], b[1]) < q->lo.y || fsi__min(a[1], b[1]) > q->hi.y
           || fsi__max(a[2], b[2]) < q->lo.z || fsi__min(a[2], b[2]) > q->hi.z;
}

/* edge against the edges of an element */
static int fsi__soft_visit_edges(int element, void *user) {
    fsi__soft_pairs *q = (fsi__soft_pairs *)user;
    const fsi_soft *s = q->s;
    const int32_t *mine = s->work->edge + 3 * q->own;
    for (int k = fsi__imax(s->work->edge_first[element], q->own + 1);
         k < s->work->edge_first[element + 1]; k++) {
        const int32_t *other = s->work->edge + 3 * k;
        if (mine[0] == other[0] || mine[0] == other[1] || mine[1] == other[0]
            || mine[1] == other[1])
            continue;
        if (!fsi__edge_outside(s->x + 3 * other[0], s->x + 3 * other[1], q))
            fsi__soft_pair(q, 2, mine, other, mine[2], other[2]);
    }
    return 0;
}

/* All pairs of the own surface that may meet within dt, vertices against elements and edges against
   edges. u: ways of the nodes, m per dt. Returns how many changed something; *missing grows to the
   largest velocity that was missing. */
static int fsi__soft_visit_all(fsi_soft *s, const fsi_real *u, fsi_real dt, int what,
                               fsi_real *missing) {
    fsi__soft_pairs q;
    fsi_vec3 mean = fsi_vec(0, 0, 0);
    fsi_real fast = 0,
             thick = what == FSI__SELF_CHECK ? FSI_R(0.1) * s->desc.thickness : s->desc.thickness;
    int n = s->desc.vertex_count;
    memset(&q, 0, sizeof q);
    q.s = s;
    q.u = u;
    q.dt = dt;
    q.what = what;
    for (int i = 0; i < n; i++)
        mean = fsi_vec_mad(mean, fsi_vec_load(u + 3 * i), 1 / (fsi_real)n);
    for (int i = 0; i < n; i++)
        fast = fsi__max(fast, fsi__length(fsi_vec_sub(fsi_vec_load(u + 3 * i), mean)));
    for (int i = 0; i < n + s->work->edge_count; i++) {
        /* vertices, then edges; a and b: both ends, or twice the vertex */
        int own = i < n ? i : i - n;
        int a = i < n ? i : s->work->edge[3 * own], b = i < n ? i : s->work->edge[3 * own + 1];
        /* both may come towards each other: the own way and the longest */
        if (i < n && !s->work->outside[i])
            continue;
        q.own = own;
        fsi_real reach = fsi__max(fsi__length(fsi_vec_sub(fsi_vec_load(u + 3 * a), mean)),
                                  fsi__length(fsi_vec_sub(fsi_vec_load(u + 3 * b), mean)));
        reach = thick + (what == FSI__SELF_OPEN ? 0 : dt * (reach + fast));
        fsi_vec3 box = fsi_vec(reach, reach, reach);
        fsi_vec3 hi;
        fsi_vec3 lo = hi = fsi_vec_load(s->x + 3 * a);
        fsi__grow(&lo, &hi, fsi_vec_load(s->x + 3 * b));
        q.lo = fsi_vec_sub(lo, box);
        q.hi = fsi_vec_add(hi, box);
        fsi_bvh_overlap(&s->bvh, q.lo, q.hi, i < n ? fsi__soft_visit : fsi__soft_visit_edges, &q);
    }
    *missing = fsi__max(*missing, q.missing);
    return q.hits;
}

/* Velocities, so that no gap that can be reached is closed (passes go on while something would
   still sink by a twentieth of the thickness), or overlaps. Returns how many pairs changed
   something. */
#define FSI__SELF_PASSES 8

static int fsi__soft_self(fsi_soft *s, fsi_real dt, int what) {
    fsi_real missing = 0;
    int hits = 0;
    for (int pass = 0; pass < (what == FSI__SELF_OPEN ? 1 : FSI__SELF_PASSES)
                       && (pass < 1 || missing * dt > FSI_R(0.05) * s->desc.thickness);
         pass++) {
        missing = 0;
        hits += fsi__soft_visit_all(s, s->v, dt, what, &missing);
    }
    return hits;
}

/* Who would pass through whom on the way u dt becomes one zone; zones are made, when first is 1, or
 * grown. */
static int fsi__soft_meet(fsi_soft *s, const fsi_real *u, fsi_real dt, int first) {
    fsi_real missing = 0;
    for (int i = 0; first && i < s->desc.vertex_count; i++)
        s->work->zone[i] = i;
    return fsi__soft_visit_all(s, u, dt, FSI__SELF_CHECK, &missing);
}

/* The nodes of a zone move on like a rigid body with their momentum and angular momentum; like the
 * held ones where some are held. */
static void fsi__zone_stiffen(fsi_soft *s, int32_t root) {
    fsi__soft_body b = fsi__soft_gather_body(s, root);
    for (int i = 0; i < s->desc.vertex_count; i++) {
        fsi_vec3 u = b.held ? b.driven : fsi__soft_rigid(s, &b, b.p, b.L, i);
        for (int k = 0; k < s->desc.dim && fsi__in_zone(s, root, i); k++)
            if (!s->work->fixed[3 * i + k])
                s->v[3 * i + k] = fsi__get(u, k);
    }
}

/* Before every move: nothing passes through itself, whatever has been done to v. Zones grow until
 * nobody meets; in the end all are one, and no distance shrinks. */
#define FSI__ZONE_ROUNDS 12

static void fsi__soft_zones(fsi_soft *s, fsi_real dt) {
    fsi_surface f = fsi_soft_surface(s);
    if (!s->desc.self_collision || fsi_bvh_build(&s->bvh, &f) != FSI_OK)
        return;
    int round;
    for (round = 0; round < FSI__ZONE_ROUNDS && fsi__soft_meet(s, s->v, dt, round == 0); round++) {
        if (round == FSI__ZONE_ROUNDS - 1)
            for (int32_t i = 0; i < s->desc.vertex_count; i++)
                s->work->zone[fsi__root(s->work->zone, i)] = fsi__root(s->work->zone, 0);
        fsi_fill((size_t)s->desc.vertex_count, 0, s->work->trial);
        /* every zone of more than one node once */
        for (int32_t i = 0; i < s->desc.vertex_count; i++)
            if (s->work->zone[i] != i && s->work->trial[fsi__root(s->work->zone, i)]++ == 0)
                fsi__zone_stiffen(s, s->work->zone[i]);
    }
    if (round)
        fsi__patch_base(s);
}

/* What contact changes in v from z on, and the energy it may leave. Nodes that walls push: the
   walls' velocity is in work->gradient, weighted by the impulses in work->other, 0 at all others.
 */
typedef struct fsi__soft_push {
    fsi_soft *s;
    fsi_real dt;
    int hits;
    /* s: elasticity spread the impulses, it weighs (dt + beta) times its change of force; 0: the
     * masses alone took them */
    fsi_real spread;
    double given; /* work of the walls' impulses as they were given, J */
    /* largest energy allowed but for the work; work of the share that was tried last */
    double most, work;
} fsi__soft_push;

static fsi__soft_push fsi__soft_push_begin(fsi_soft *s, fsi_real dt) {
    fsi__soft_push p;
    memset(&p, 0, sizeof p);
    p.s = s;
    p.dt = dt;
    return p;
}

/* Speed after a bounce: restitution acts on the approach before the step's forces (they pull on by
 * `more`), and gives back no more than falling that far takes. */
static fsi_real fsi__soft_bounce(fsi_real restitution, fsi_real before, fsi_real now) {
    fsi_real more = fsi__max(0, before - now);
    return restitution > 0 && before < 0
               ? fsi__min(-restitution * before, fsi__sqrt(more * more + before * before) - more)
               : 0;
}

/* Vertices against obstacles: velocities, or overlaps (open). */
static fsi_result fsi__soft_walls(fsi__soft_push *push, const fsi_obstacle *o, int count,
                                  int open) {
    fsi_soft *s = push->s;
    for (int k = 0; k < count; k++)
        for (int i = 0; i < s->desc.vertex_count; i++) {
            fsi_vec3 n = fsi_vec(0, 0, 0), v = n, x = fsi_vec_load(s->x + 3 * i),
                     before = fsi_vec_load(s->v + 3 * i),
                     mean = fsi_vec_load(s->work->gradient + 3 * i);
            if (s->inverse_mass[i] == 0)
                continue;
            fsi_real gap = o[k].distance_fn(x, &n, &v, o[k].user) - s->desc.thickness / 2;
            if (!fsi__finite(gap) || !fsi__finite_vec(n))
                return FSI_ERR_CALLBACK;
            fsi__site a;
            fsi__site_make(s, i, x, &a);
            if (open) {
                push->hits += fsi__soft_open(s, &a, NULL, n, gap);
                continue;
            }
            fsi_real vn = fsi_vec_dot(fsi_vec_sub(before, v), n);
            fsi_real target = fsi__soft_target(gap, push->dt);
            if (vn < target)
                target = fsi__max(
                    target,
                    fsi__soft_bounce(
                        o[k].restitution,
                        fsi_vec_dot(fsi_vec_sub(fsi_vec_load(s->work->x0 + 3 * i), v), n), vn));
            vn = fsi__soft_hit(s, &a, NULL, n, v, target, o[k].friction);
            if (!(vn > 0))
                continue;
            push->hits++;
            push->given +=
                (double)(s->mass[i]
                         * fsi_vec_dot(v, fsi_vec_sub(fsi_vec_load(s->v + 3 * i), before)));
            /* mean velocity of what pushes here */
            s->work->other[i] += vn;
            fsi_vec_store(s->work->gradient + 3 * i,
                          fsi_vec_mad(mean, fsi_vec_sub(v, mean), vn / s->work->other[i]));
        }
    return FSI_OK;
}

/* Contact changed v of some nodes against w->z. The others follow through the implicit elasticity,
   (M + dt^2 K + dt C) dv = 0 with dv given there: otherwise a hit squeezes the first layer of
   elements flat before the next step sees it. */
static fsi_result fsi__soft_spread(fsi_soft *s, fsi_real dt) {
    fsi__soft_work *w = s->work;
    size_t n = 3 * (size_t)s->desc.vertex_count;
    fsi__soft_system q = fsi__soft_velocity_system(s, dt);
    for (size_t i = 0; i < n; i++) {
        w->y[i] = s->v[i] - w->z[i];
        w->residual[i] = 0;
        if (w->y[i] != 0)
            w->fixed[i] |= 2;
    }
    fsi_result r = fsi__soft_solve(s, s->x, &q, 2, w->residual, w->y, w->step);
    for (size_t i = 0; i < n; i++) {
        if (r >= 0 && !w->fixed[i])
            s->v[i] += w->step[i];
        w->fixed[i] &= 1;
    }
    return r < 0 ? r : FSI_OK;
}

/* Energy after dt with the velocities z + share (v - z), less the work of the walls until then and
   what is allowed, J. Their impulse is m dv - (dt + beta) (f - f_0) where elasticity spread it to
   all nodes, f_0 (in work->other): forces without them. */
static double fsi__soft_excess(double share, void *user) {
    fsi__soft_push *p = (fsi__soft_push *)user;
    fsi_soft *s = p->s;
    fsi__soft_work *w = s->work;
    int n = 3 * s->desc.vertex_count;
    for (int i = 0; i < n; i++) {
        w->step[i] = w->z[i] + (fsi_real)share * (s->v[i] - w->z[i]);
        w->trial[i] = s->x[i] + p->dt * w->step[i];
    }
    double e = fsi__soft_total(s, w->trial, w->step, p->spread > 0 ? w->residual : NULL);
    p->work = (double)(fsi_real)share * p->given;
    for (int i = 0; i < n && p->spread > 0 && share > 0; i++)
        p->work -= (double)(p->spread * (w->residual[i] - w->other[i]) * w->gradient[i]);
    return e - p->work - p->most;
}

/* Energy when the step began, J: v of then is in x0, Newmark has added jump to x. */
static double fsi__soft_began(fsi_soft *s, int jumped) {
    size_t n = 3 * (size_t)s->desc.vertex_count;
    fsi_copy(n, s->x, s->work->trial);
    if (jumped)
        fsi_axpy(n, -1, s->work->jump, s->work->trial);
    return fsi__soft_total(s, s->work->trial, s->work->x0, NULL);
}

/* Contact changed v from z. A bounce, or elasticity that was solved without it, can then give back
   more than was lost: the share of the change stays that leaves the energy less the work of walls
   at what it was (began) or would be without contact. */
static void fsi__soft_calm(fsi__soft_push *p, double began) {
    fsi_soft *s = p->s;
    size_t n = 3 * (size_t)s->desc.vertex_count;
    p->most = began;
    /* most often: no need to look further */
    if (!(p->spread > 0) && !(fsi__soft_excess(1, p) > 0))
        return;
    p->most = 0;
    p->most = fsi__soft_excess(0, p);
    fsi_copy(n, s->work->residual, s->work->other);
    if (began > p->most)
        p->most = began;
    double share = fsi__safe_share(fsi__soft_excess, p);
    for (size_t i = 0; i < n && share < 1; i++)
        s->v[i] = s->work->z[i] + (fsi_real)share * (s->v[i] - s->work->z[i]);
}

/* From z to x nodes were moved to open overlaps. Where others would meet on the way, all go back.
 */
static int fsi__soft_keep_open(fsi_soft *s) {
    fsi__soft_work *w = s->work;
    size_t n = 3 * (size_t)s->desc.vertex_count;
    for (size_t i = 0; i < n; i++) {
        w->trial[i] = s->x[i] - w->z[i];
        s->x[i] = w->z[i];
    }
    if (fsi__soft_meet(s, w->trial, 1, 1))
        return 0;
    fsi_axpy(n, 1, w->trial, s->x);
    return 1;
}

static void fsi__soft_jump(fsi_soft *s) {
    if (s->work->jumps)
        fsi_axpy(3 * (size_t)s->desc.vertex_count, 1, s->work->jump, s->x);
    s->work->jumps = 0;
}

static double fsi__soft_after(fsi_soft *s, fsi_real dt) { /* energy after a move of dt, J */
    size_t n = 3 * (size_t)s->desc.vertex_count;
    fsi_copy(n, s->x, s->work->trial);
    fsi_axpy(n, dt, s->v, s->work->trial);
    return fsi__soft_total(s, s->work->trial, s->v, NULL);
}

/* Stage 3 after the velocities: overlaps are opened. What that puts into elasticity and gravity is
 * work. */
static fsi_result fsi__soft_part(fsi_soft *s, const fsi_obstacle *obstacle, int count, fsi_real dt,
                                 int own) {
    double before = fsi__soft_after(s, dt);
    fsi__soft_push push = fsi__soft_push_begin(s, dt);
    fsi_copy(3 * (size_t)s->desc.vertex_count, s->x, s->work->z);
    if (own)
        push.hits = fsi__soft_self(s, dt, FSI__SELF_OPEN);
    if (push.hits)
        push.hits = fsi__soft_keep_open(s);
    /* moving parts that pass each other apart turns the body: m dx x v is taken from its spin */
    if (push.hits) {
        fsi__soft_body b = fsi__soft_gather_body(s, -1);
        fsi_vec3 turn = fsi_vec(0, 0, 0);
        for (int i = 0; i < s->desc.vertex_count; i++)
            turn = fsi_vec_mad(turn,
                               fsi_vec_cross(fsi_vec_sub(fsi_vec_load(s->x + 3 * i),
                                                         fsi_vec_load(s->work->z + 3 * i)),
                                             fsi_vec_load(s->v + 3 * i)),
                               -s->mass[i]);
        fsi__soft_balance(s, &b, fsi_vec(0, 0, 0), turn);
    }
    fsi_result r = fsi__soft_walls(&push, obstacle, count, 1);
    if (push.hits && r == FSI_OK)
        s->contact_work += fsi__soft_after(s, dt) - before;
    return r;
}

FSI_API fsi_result fsi_soft_contact(fsi_soft *s, const fsi_obstacle *obstacle, int count,
                                    fsi_real dt, int *contacts) {
    fsi_result r = FSI_OK;
    int own = 0;
    double began = 0;
    if (!s || !s->block)
        return FSI_ERR_STATE;
    if (!fsi__soft_ready(s, dt) || count < 0 || (count && !obstacle))
        return FSI_ERR_ARGUMENT;
    size_t n = 3 * (size_t)s->desc.vertex_count;
    fsi__soft_work *w = s->work;
    int jumped = w->jumps;
    s->contact_work = 0;
    fsi__soft_push push = fsi__soft_push_begin(s, dt);
    fsi__soft_jump(s);
    fsi_copy(n, s->v, w->z);
    if (s->desc.self_collision) {
        fsi_surface f = fsi_soft_surface(s);
        r = fsi_bvh_build(&s->bvh, &f);
        if (r != FSI_OK)
            return r;
        /* before the walls: only theirs is spread, so momentum of these stays exact */
        own = fsi__soft_self(s, dt, FSI__SELF_HIT);
        if (own) {
            began = fsi__soft_began(s, jumped);
            fsi__soft_calm(&push, began);
        }
        fsi_copy(n, s->v, w->z);
    }
    fsi_fill(n, 0, w->gradient);
    fsi_fill(n, 0, w->other);
    r = fsi__soft_walls(&push, obstacle, count, 0);
    if (contacts)
        *contacts = own + push.hits;
    if (push.hits && s->desc.tet_count && s->K.rows && r == FSI_OK) {
        r = fsi__soft_spread(s, dt);
        push.spread = dt + s->desc.damping_stiffness;
    }
    if (own + push.hits == 0 || r != FSI_OK)
        return r;
    if (push.hits) {
        fsi__soft_calm(&push, own ? began : fsi__soft_began(s, jumped));
        s->contact_work = push.work;
    }
    return fsi__soft_part(s, obstacle, count, dt, own);
}

static void fsi__soft_touch(void *user, int point, fsi_vec3 at) {
    fsi_soft *s = (fsi_soft *)user;
    fsi__soft_work *w = s->work;
    fsi__patch *p = w->patch;
    /* what it would have without contact, or had */
    if (!w->touched) {
        w->reference = fsi__soft_after(s, s->dt);
        if (w->energy > w->reference)
            w->reference = w->energy;
        w->touched = 1;
    }
    if (!p || !(w->response > 0))
        return;
    fsi__site q;
    fsi__site_make(s, point, at, &q);
    for (int a = 0; a < q.count && p->count <= p->room; a++)
        if (p->place[q.node[a]] < 0) {
            if (p->count < p->room)
                p->node[p->count] = q.node[a];
            /* one too many: the step does without */
            p->place[q.node[a]] = p->count++;
        }
}

/* See fsi_external. Motion inside: what is left of v without the rigid motion of the same momenta
 * (a body that is held: all of v). */
static double fsi__soft_surplus(void *user, double take) {
    fsi_soft *s = (fsi_soft *)user;
    double inside = 0, keep = 0;
    if (!s->work->touched)
        return 0;
    if (!(take > 0))
        return fsi__soft_total(s, s->x, s->v, NULL) - s->work->reference;
    fsi__soft_body b = fsi__soft_gather_body(s, -1);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < s->desc.vertex_count; i++) {
            fsi_vec3 u = b.held ? fsi_vec(0, 0, 0) : fsi__soft_rigid(s, &b, b.p, b.L, i);
            for (int k = 0; k < s->desc.dim; k++) {
                fsi_real *q = s->v + 3 * i + k, d = *q - fsi__get(u, k);
                if (s->work->fixed[3 * i + k])
                    continue;
                if (pass)
                    *q = fsi__get(u, k) + (fsi_real)keep * d;
                else
                    inside += 0.5 * (double)(s->mass[i] * d * d);
            }
        }
        if (!pass) {
            take = take < inside ? take : inside;
            keep = inside > 0 ? sqrt(1 - take / inside) : 1;
        }
    }
    return take;
}

/* What the rigid world and other externals see: points 0 .. vertices - 1 are vertices, beyond them
 * elements of the surface. */
static fsi_vec3 fsi__soft_point_velocity(void *user, int point, fsi_vec3 at) {
    fsi__site q;
    fsi__site_make((const fsi_soft *)user, point, at, &q);
    return fsi__site_velocity(&q, ((const fsi_soft *)user)->v);
}

static void fsi__soft_point_inverse(void *user, int point, fsi_vec3 at, fsi_mat3 *K) {
    fsi__patch *p = ((fsi_soft *)user)->work->patch;
    if (p && !p->ready && p->count > 0 && p->count <= p->room)
        fsi__patch_make((fsi_soft *)user);
    fsi__site q;
    fsi__site_make((const fsi_soft *)user, point, at, &q);
    for (int j = 0; j < 3; j++) {
        fsi_vec3 u =
            fsi__site_response((const fsi_soft *)user, &q, fsi_vec(j == 0, j == 1, j == 2));
        K->m[j] = u.x;
        K->m[3 + j] = u.y;
        K->m[6 + j] = u.z;
    }
}

static void fsi__soft_point_impulse(void *user, int point, fsi_vec3 at, fsi_vec3 j) {
    fsi__site q;
    fsi__site_make((const fsi_soft *)user, point, at, &q);
    fsi__site_impulse((const fsi_soft *)user, &q, j, ((fsi_soft *)user)->v);
}

/* Tetrahedra: signed. Shells: both sides are outside. */
static fsi_real fsi__soft_point_distance(void *user, fsi_vec3 p, fsi_vec3 *normal, int *point) {
    const fsi_soft *s = (const fsi_soft *)user;
    fsi_hit hit;
    if (!fsi_bvh_closest(&s->bvh, p, FSI_REAL_MAX, &hit))
        return FSI_REAL_MAX;
    *point = s->desc.vertex_count + hit.element;
    *normal = hit.t > 0 ? fsi_vec_scale(fsi_vec_sub(p, hit.point), 1 / hit.t)
                        : fsi__unit(fsi_surface_normal(&s->bvh.surface, hit.element));
    if (!fsi_bvh_inside(&s->bvh, p))
        return hit.t;
    *normal = fsi_vec_scale(*normal, -1);
    return -hit.t;
}

static void fsi__soft_advance(void *user, fsi_real h) {
    fsi_soft *s = (fsi_soft *)user;
    fsi__patch *p = s->work->patch;
    size_t n = 3 * (size_t)s->desc.vertex_count;
    fsi__soft_jump(s);
    if (h == 0) {
        fsi_surface f = fsi_soft_surface(s);
        /* positions that are not finite: nobody meets them */
        if (fsi_bvh_build(&s->bvh, &f) != FSI_OK)
            s->bvh.nodes = 0;
    } else
        fsi__patch_flush(s);
    if (h == 0)
        s->work->touched = 0;
    /* a step begins or ends: no patch */
    if (h <= 0 && p) {
        p->count = p->ready = 0;
        for (size_t i = 0; i < n / 3; i++)
            p->place[i] = -1;
    }
    if (!(h > 0))
        return;
    fsi__soft_zones(s, h);
    fsi_axpy(n, h, s->v, s->x);
    s->moved += h;
}

FSI_API fsi_result fsi_soft_move(fsi_soft *s, fsi_real dt) {
    if (!s || !s->block)
        return FSI_ERR_STATE;
    if (!fsi__soft_ready(s, dt))
        return FSI_ERR_ARGUMENT;
    if (!fsi_all_finite(3 * (size_t)s->desc.vertex_count, s->v))
        return FSI_ERR_NUMERIC;
    dt -= s->moved;
    if (dt > 16 * FSI_REAL_EPS * s->moved)
        fsi__soft_advance(s, dt);
    s->moved = 0;
    return fsi_all_finite(3 * (size_t)s->desc.vertex_count, s->x) ? FSI_OK : FSI_ERR_NUMERIC;
}

FSI_API void fsi_soft_external(fsi_soft *s, fsi_external *out) {
    memset(out, 0, sizeof *out);
    if (!s || !s->block)
        return;
    if (!s->work->patch && s->desc.integrator != FSI_SOFT_EXPLICIT) {
        fsi__patch *p;
        size_t n = (size_t)s->desc.vertex_count, room = n < FSI__PATCH ? n : FSI__PATCH;
        size_t size = sizeof *p + (9 * room * room + 3 * n + 3 * room) * sizeof(fsi_real)
                      + (n + room) * sizeof(int32_t);
        p = (fsi__patch *)fsi_alloc(&s->desc.allocator, size);
        if (p) {
            p->room = (int)room;
            p->size = size;
            p->C = (fsi_real *)(void *)(p + 1);
            p->impulse = p->C + 9 * room * room;
            p->base = p->impulse + 3 * n;
            p->place = (int32_t *)(void *)(p->base + 3 * room);
            p->node = p->place + n;
            s->work->patch = p;
        }
    }
    out->point_count = s->desc.vertex_count;
    out->x = s->x;
    out->radius = s->desc.thickness / 2;
    out->friction = s->desc.friction;
    out->user = s;
    out->velocity_fn = fsi__soft_point_velocity;
    out->inverse_mass_fn = fsi__soft_point_inverse;
    out->impulse_fn = fsi__soft_point_impulse;
    out->advance_fn = fsi__soft_advance;
    out->touch_fn = fsi__soft_touch;
    out->energy_fn = fsi__soft_surplus;
    out->edge_count = s->work->edge_count;
    out->edge = s->work->edge;
    s->work->watched = 1;
    if (s->surface_count)
        out->distance_fn = fsi__soft_point_distance;
}

/* ------------------------------------------------------------------------------------------------
 * >>soft setup */
static fsi_result fsi__soft_check(const fsi_soft_desc *d) {
    const fsi_real numbers[] = {d->density,
                                d->area_density,
                                d->young,
                                d->stretch,
                                d->bend,
                                d->damping_mass,
                                d->damping_stiffness,
                                d->volume_stiffness,
                                d->thickness,
                                d->friction};
    const int32_t *list[4];
    int count[4];
    if (!fsi_allocator_valid(&d->allocator) || (d->dim != 2 && d->dim != 3) || d->vertex_count < 1
        || d->vertex_count > 200000000 || !d->x)
        return FSI_ERR_ARGUMENT;
    for (int i = 0; i < (int)(sizeof numbers / sizeof *numbers); i++)
        if (!fsi__finite(numbers[i]) || numbers[i] < 0)
            return FSI_ERR_ARGUMENT;
    if (!fsi__finite(d->poisson) || d->poisson <= -1 || d->poisson >= FSI_R(0.5))
        return FSI_ERR_ARGUMENT;
    if (!fsi__finite(d->stretch_poisson) || d->stretch_poisson <= -1 || d->stretch_poisson >= 1)
        return FSI_ERR_ARGUMENT;
    if (!fsi__finite(d->pressure) || !fsi__finite_vec(d->gravity) || d->newton < 0
        || !(d->tolerance >= 0))
        return FSI_ERR_ARGUMENT;
    if ((unsigned)d->model > FSI_SOFT_NEOHOOKEAN || (unsigned)d->integrator > FSI_SOFT_SPLIT)
        return FSI_ERR_ARGUMENT;
    if ((d->tet_count && !(d->density > 0))
        || ((d->triangle_count || d->segment_count) && !(d->area_density > 0)))
        return FSI_ERR_ARGUMENT;
    if (d->self_collision && !(d->thickness > 0))
        return FSI_ERR_ARGUMENT;
    if (!fsi_all_finite(3 * (size_t)d->vertex_count, d->x))
        return FSI_ERR_ARGUMENT;
    list[0] = d->segment;
    list[1] = d->triangle;
    list[2] = d->tet;
    list[3] = d->surface;
    count[0] = d->segment_count;
    count[1] = d->triangle_count;
    count[2] = d->tet_count;
    count[3] = d->surface_count;
    for (int k = 0; k < 4; k++) {
        int per = k < 3 ? k + 2 : d->dim;
        if (count[k] < 0 || count[k] > 100000000 || (count[k] && !list[k])
            || (k == 2 && count[k] && d->dim == 2))
            return FSI_ERR_ARGUMENT;
        for (int i = 0; i < per * count[k]; i++)
            if (list[k][i] < 0 || list[k][i] >= d->vertex_count)
                return FSI_ERR_GEOMETRY;
    }
    return d->segment_count + d->triangle_count + d->tet_count > 0 ? FSI_OK : FSI_ERR_ARGUMENT;
}

/* Hinges: the nodes of 2D bends and of folds between triangles into out [4 each]; both return their
 * number, -1 without memory. */
static int fsi__soft_bends(const fsi_soft_desc *d, int32_t *out) {
    int n = 0;
    size_t size = 2 * (size_t)d->vertex_count * sizeof(int32_t);
    /* [vertices] where the segment comes from and goes to, + 1; -1: more than one does */
    if (d->dim != 2 || !d->segment_count || !(d->bend > 0))
        return 0;
    int32_t *before = (int32_t *)fsi_alloc(&d->allocator, size);
    if (!before)
        return -1;
    int32_t *after = before + d->vertex_count;
    for (int i = 0; i < d->segment_count; i++) {
        int32_t a = d->segment[2 * i], b = d->segment[2 * i + 1];
        after[a] = after[a] ? -1 : b + 1;
        before[b] = before[b] ? -1 : a + 1;
    }
    for (int i = 0; i < d->vertex_count; i++)
        if (before[i] > 0 && after[i] > 0) {
            out[4 * n] = before[i] - 1;
            out[4 * n + 1] = i;
            out[4 * n++ + 2] = after[i] - 1;
        }
    fsi_free(&d->allocator, before, size);
    return n;
}

/* edges of triangles, sorted: the same ones side by side */
static void fsi__face_edges(int edges, const int32_t *triangle, fsi__face *f) {
    for (int i = 0; i < edges; i++) {
        int32_t a = triangle[i], b = triangle[i - i % 3 + (i + 1) % 3];
        f[i].key[0] = a < b ? a : b;
        f[i].key[1] = a < b ? b : a;
        f[i].from = i;
    }
    qsort(f, (size_t)edges, sizeof *f, fsi__face_order);
}

static int fsi__soft_folds(const fsi_soft_desc *d, int32_t *out) {
    int n = 0, edges = 3 * d->triangle_count;
    size_t size = (size_t)edges * sizeof(fsi__face);
    if (!edges || !(d->bend > 0) || d->dim == 2)
        return 0;
    fsi__face *f = (fsi__face *)fsi_alloc(&d->allocator, size);
    if (!f)
        return -1;
    fsi__face_edges(edges, d->triangle, f);
    for (int i = 0; i + 1 < edges; i++)
        if (!memcmp(f[i].key, f[i + 1].key, sizeof f[i].key)
            && (i + 2 >= edges || memcmp(f[i].key, f[i + 2].key, sizeof f[i].key))) {
            int32_t p = f[i].from, q = f[++i].from, *node = out + 4 * n++;
            node[0] = d->triangle[p];
            node[1] = d->triangle[p - p % 3 + (p + 1) % 3];
            node[2] = d->triangle[p - p % 3 + (p + 2) % 3];
            node[3] = d->triangle[q - q % 3 + (q + 2) % 3];
        }
    fsi_free(&d->allocator, f, size);
    return n;
}

static void fsi__soft_layout(fsi_soft *s, fsi_arena *m) {
    fsi__soft_work *w = (fsi__soft_work *)fsi_arena_take(m, 1, sizeof *w);
    size_t n = (size_t)s->desc.vertex_count, e = (size_t)s->element_count,
           surface = (size_t)s->surface_count;
    /* state: x, v, drive, force, volume_target */
    FSI__TAKE(s->x, fsi_real, m, 3 * n * 4 + 1);
    s->state_size = (12 * n + 1) * sizeof(fsi_real);
    if (s->x) {
        s->v = s->x + 3 * n;
        s->drive = s->v + 3 * n;
        s->force = s->drive + 3 * n;
        s->volume_target = s->force + 3 * n;
    }
    FSI__TAKE(s->mass, fsi_real, m, n);
    FSI__TAKE(s->inverse_mass, fsi_real, m, n);
    FSI__TAKE(s->impulse, fsi_real, m, 3 * n);
    FSI__TAKE(s->surface, int32_t, m, surface * (size_t)s->desc.dim);
    FSI__TAKE(s->surface_node, int32_t, m, n);
    s->work = w;
    fsi__soft_work none;
    if (!w)
        w = &none;
    FSI__TAKE(w->node, int32_t, m, 4 * e);
    FSI__TAKE(w->rest, fsi_real, m, FSI__REST * e);
    FSI__TAKE(w->element_force, fsi_real, m, 12 * e);
    FSI__TAKE(w->element_energy, fsi_real, m, e);
    FSI__TAKE(w->first, int32_t, m, n + 1);
    FSI__TAKE(w->corner, int32_t, m, 4 * e);
    FSI__TAKE(w->fixed, unsigned char, m, 3 * n);
    FSI__TAKE(w->outside, unsigned char, m, n);
    FSI__TAKE(w->zone, int32_t, m, n);
    FSI__TAKE(w->edge, int32_t, m, s->desc.dim == 3 ? 9 * surface : 0);
    FSI__TAKE(w->edge_first, int32_t, m, surface + 1);
    FSI__TAKE(w->batch, fsi_real, m, 144 * (e < FSI__SOFT_BATCH ? e : FSI__SOFT_BATCH));
    FSI__TAKE(w->rest_x, fsi_real, m, 3 * n);
    FSI__TAKE(w->x0, fsi_real, m, 3 * n);
    FSI__TAKE(w->y, fsi_real, m, 3 * n);
    FSI__TAKE(w->z, fsi_real, m, 3 * n);
    FSI__TAKE(w->trial, fsi_real, m, 3 * n);
    FSI__TAKE(w->step, fsi_real, m, 3 * n);
    FSI__TAKE(w->residual, fsi_real, m, 3 * n);
    FSI__TAKE(w->gradient, fsi_real, m, 3 * n);
    FSI__TAKE(w->other, fsi_real, m, 3 * n);
    FSI__TAKE(w->jump, fsi_real, m, 3 * n);
    FSI__TAKE(w->precondition, fsi_real, m, 3 * n);
    if (s->desc.use_cg) {
        fsi_krylov_desc k;
        memset(&k, 0, sizeof k);
        k.n = 3 * n;
        k.A.apply_fn = fsi__soft_diagonal;
        w->cg_size = fsi_cg_work_size(&k);
        w->cg_work = fsi_arena_take(m, w->cg_size, 1);
    }
}

/* Rest data of element e; adds its mass to the nodes. 0 when degenerate. */
static int fsi__soft_rest(fsi_soft *s, int e, int kind, const unsigned char *held) {
    fsi__soft_work *w = s->work;
    fsi_real *rest = w->rest + (size_t)FSI__REST * (size_t)e, size = 0, per = s->desc.area_density;
    const int32_t *node = w->node + 4 * e;
    fsi_vec3 p[4], d[3];
    int n = fsi__kind_nodes[kind];
    for (int a = 0; a < n; a++)
        p[a] = fsi_vec_load(w->rest_x + 3 * node[a]);
    for (int a = 1; a < n; a++)
        d[a - 1] = fsi_vec_sub(p[a], p[0]);
    if (kind == FSI__SEG)
        rest[0] = size = fsi__length(d[0]);
    /* k = EI / half the free length around the hinge */
    else if (kind == FSI__BEND) {
        fsi_real l = (held[node[0]] && held[node[1]] ? 0 : fsi__length(d[0]))
                     + (held[node[2]] && held[node[1]] ? 0 : fsi__length(fsi_vec_sub(p[2], p[1])));
        rest[0] = fsi__bend_angle(p);
        rest[1] = l > 0 ? 2 * s->desc.bend / l : 0;
        return 1;
        /* k = D |e|^2 / (area of both triangles), held ones not counted */
    } else if (kind == FSI__FOLD) {
        fsi_real area = 0;
        for (int a = 2; a < 4; a++)
            if (!(held[node[0]] && held[node[1]] && held[node[a]]))
                area += fsi__length(fsi_vec_cross(d[0], d[a - 1])) / 2;
        rest[0] = fsi__fold_angle(p, NULL);
        rest[1] = area > 0 ? s->desc.bend * fsi_vec_dot(d[0], d[0]) / area : 0;
        return 1;
        /* Dm = [l, u; 0, h] in the plane of the triangle */
    } else if (kind == FSI__TRI) {
        fsi_vec3 ex = fsi__unit(d[0]);
        fsi_real l = fsi__length(d[0]), u = fsi_vec_dot(d[1], ex),
                 h = fsi__length(fsi_vec_mad(d[1], ex, -u));
        size = l * h / 2;
        if (!(size > FSI_R(1e-4) * FSI_REAL_EPS * (l * l + u * u + h * h))
            || !(h > 16 * FSI_REAL_EPS * (l + fsi__abs(u))))
            return 0;
        rest[0] = 1 / l;
        rest[1] = -u / (l * h);
        rest[2] = 0;
        rest[3] = 1 / h;
        rest[4] = size;
    } else {
        fsi_mat3 Dm;
        fsi_real scale = fsi__length(d[0]) * fsi__length(d[1]) * fsi__length(d[2]);
        for (int a = 0; a < 3; a++) {
            Dm.m[a] = d[a].x;
            Dm.m[3 + a] = d[a].y;
            Dm.m[6 + a] = d[a].z;
        }
        size = fsi_mat3_det(&Dm) / 6;
        fsi_mat3 inv;
        if (!(size > 16 * FSI_REAL_EPS * scale) || !fsi_mat3_inverse(&Dm, &inv))
            return 0;
        memcpy(rest, inv.m, sizeof inv.m);
        rest[9] = size;
        per = s->desc.density;
    }
    if (!(size > 0))
        return 0;
    for (int a = 0; a < n; a++)
        s->mass[node[a]] += per * size / (fsi_real)n;
    return 1;
}

static void fsi__soft_corners(fsi_soft *s) { /* vertex -> corners, counting sort */
    fsi__soft_work *w = s->work;
    int n = 4 * s->element_count;
    for (int i = 0; i < n; i++)
        if (w->node[i] >= 0)
            w->first[w->node[i] + 1]++;
    for (int i = 0; i < s->desc.vertex_count; i++)
        w->first[i + 1] += w->first[i];
    for (int i = 0; i < n; i++)
        if (w->node[i] >= 0)
            w->corner[w->first[w->node[i]]++] = i;
    for (int i = s->desc.vertex_count; i > 0; i--)
        w->first[i] = w->first[i - 1];
    w->first[0] = 0;
}

/* Nodes and edges of the surface; an edge goes with the first element that has it. 0: no memory. */
static int fsi__soft_edges(fsi_soft *s) {
    fsi__soft_work *w = s->work;
    int corners = s->desc.dim * s->surface_count;
    size_t size = (size_t)corners * sizeof(fsi__face);
    for (int i = 0; i < corners; i++)
        w->outside[s->surface[i]] = 1;
    if (s->desc.dim == 2 || !corners)
        return 1;
    fsi__face *f = (fsi__face *)fsi_alloc(&s->desc.allocator, size);
    if (!f)
        return 0;
    fsi__face_edges(corners, s->surface, f);
    /* mark the first of each in the place of its element */
    for (int i = 0; i < corners; i++)
        f[f[i].from].key[2] = i == 0 || memcmp(f[i].key, f[i - 1].key, 2 * sizeof f[i].key[0]);
    for (int i = 0; i < corners; i++) {
        if (i % 3 == 0)
            w->edge_first[i / 3] = w->edge_count;
        if (!f[i].key[2])
            continue;
        int k = 3 * w->edge_count++;
        w->edge[k] = s->surface[i];
        w->edge[k + 1] = s->surface[i - i % 3 + (i + 1) % 3];
        w->edge[k + 2] = s->desc.vertex_count + i / 3;
    }
    w->edge_first[s->surface_count] = w->edge_count;
    fsi_free(&s->desc.allocator, f, size);
    return 1;
}

/* What others see as far as it is given or made of shells; NULL: the boundary of the tetrahedra. */
static const int32_t *fsi__soft_skin(const fsi_soft_desc *d, int *count) {
    *count = d->surface_count ? d->surface_count
             : d->dim == 2    ? d->segment_count
                              : d->triangle_count;
    return d->surface_count ? d->surface : !*count ? NULL : d->dim == 2 ? d->segment : d->triangle;
}

/* All elements, kind after kind, and the masses they give to the nodes. held: fully prescribed
 * vertices. */
static fsi_result fsi__soft_elements(fsi_soft *s, const fsi_soft_desc *d,
                                     const unsigned char *held) {
    fsi__soft_work *w = s->work;
    const int32_t *list[FSI__KINDS] = {NULL, NULL, NULL, NULL, NULL};
    int count[FSI__KINDS] = {0, 0, 0, 0, 0}, e = 0;
    list[FSI__SEG] = d->segment;
    list[FSI__TRI] = d->triangle;
    list[FSI__TET] = d->tet;
    count[FSI__SEG] = d->segment_count;
    count[FSI__TRI] = d->triangle_count;
    count[FSI__TET] = d->tet_count;
    for (int i = 0; i < 4 * s->element_count; i++)
        w->node[i] = -1;
    for (int k = 0; k < FSI__KINDS; k++) {
        int nodes = fsi__kind_nodes[k], first = w->begin[k] = e;
        if (k == FSI__BEND)
            count[k] = fsi__soft_bends(d, w->node + 4 * e);
        if (k == FSI__FOLD)
            count[k] = fsi__soft_folds(d, w->node + 4 * e);
        if (count[k] < 0)
            return FSI_ERR_MEMORY;
        for (; e < first + count[k]; e++) {
            for (int i = 0; list[k] && i < nodes; i++)
                w->node[4 * e + i] = list[k][nodes * (e - first) + i];
            if (!fsi__soft_rest(s, e, k, held))
                return FSI_ERR_GEOMETRY;
        }
    }
    s->element_count = w->begin[FSI__KINDS] = e;
    return FSI_OK;
}

/* Elements, masses, surface into the placed block. */
static fsi_result fsi__soft_fill(fsi_soft *s, const fsi_soft_desc *d) {
    fsi__soft_work *w = s->work;
    int i, n = d->vertex_count, moving = d->dim == 2 ? 3 : 7;
    const int32_t *skin = fsi__soft_skin(d, &i);
    unsigned char *held = (unsigned char *)w->zone; /* scratch */
    fsi_copy(3 * (size_t)n, d->x, s->x);
    fsi_copy(3 * (size_t)n, d->x, w->rest_x);
    for (i = 0; i < n; i++) {
        int pin = (d->pin ? d->pin[i] : 0) | (d->dim == 2 ? 4 : 0);
        for (int a = 0; a < 3; a++)
            w->fixed[3 * i + a] = (unsigned char)(pin >> a & 1);
        held[i] = (unsigned char)((pin & moving) == moving);
        s->surface_node[i] = i;
    }
    fsi_result r = fsi__soft_elements(s, d, held);
    if (r != FSI_OK)
        return r;
    for (i = 0; i < n; i++) {
        if (!(s->mass[i] > 0))
            return FSI_ERR_GEOMETRY;
        s->inverse_mass[i] = held[i] ? 0 : 1 / s->mass[i];
    }
    fsi__soft_corners(s);
    if (skin)
        memcpy(s->surface, skin, (size_t)(d->dim * s->surface_count) * sizeof(int32_t));
    else
        r = fsi_mesh_boundary(n, d->tet_count, d->tet, s->surface, s->surface_count, &i,
                              &d->allocator);
    if (r != FSI_OK)
        return r;
    if (!fsi__soft_edges(s))
        return FSI_ERR_MEMORY;
    s->closed = d->closed || d->tet_count > 0;
    w->rest_volume = s->volume_target[0] = s->closed ? fsi__soft_volume(s, s->x, 0, NULL) : 0;
    return fsi__soft_has_pressure(s) && !(w->rest_volume > 0) ? FSI_ERR_GEOMETRY : FSI_OK;
}

FSI_API fsi_result fsi_soft_init(fsi_soft *out, const fsi_soft_desc *desc) {
    if (!out || !desc)
        return FSI_ERR_ARGUMENT;
    fsi_result r = fsi__soft_check(desc);
    if (r != FSI_OK)
        return r;
    fsi_soft s;
    memset(&s, 0, sizeof s);
    fsi_arena arena;
    memset(&arena, 0, sizeof arena);
    s.desc = *desc;
    if (!s.desc.newton)
        s.desc.newton = 1;
    if (!(s.desc.tolerance > 0))
        s.desc.tolerance = sizeof(fsi_real) == 4 ? 1e-5 : 1e-8;
    if (!fsi__soft_skin(desc, &s.surface_count))
        r = fsi_mesh_boundary(desc->vertex_count, desc->tet_count, desc->tet, NULL, 0,
                              &s.surface_count, &desc->allocator);
    if (r != FSI_OK)
        return r;
    /* at most */
    int hinges = !(desc->bend > 0) ? 0
                 : desc->dim == 2  ? (desc->segment_count ? desc->vertex_count : 0)
                                   : 3 * desc->triangle_count / 2;
    s.element_count = desc->segment_count + desc->triangle_count + desc->tet_count + hinges;
    fsi__soft_layout(&s, &arena);
    r = fsi__arena_block(&arena, &desc->allocator, &s.block, &s.size);
    if (r != FSI_OK)
        return r;
    fsi__soft_layout(&s, &arena);
    r = fsi__soft_fill(&s, desc);
    s.desc.x = s.work->rest_x;
    s.desc.segment = s.desc.triangle = s.desc.tet = s.desc.surface = NULL;
    s.desc.pin = NULL;
    if (r == FSI_OK && s.desc.integrator != FSI_SOFT_EXPLICIT)
        r = fsi__soft_matrix(&s);
    if (r == FSI_OK && s.desc.integrator != FSI_SOFT_EXPLICIT)
        r = fsi__soft_symbolic(&s);
    if (r == FSI_OK && s.surface_count)
        r = fsi_bvh_init(&s.bvh, s.surface_count, &desc->allocator);
    if (r < 0) {
        fsi_soft_free(&s);
        return r;
    }
    *out = s;
    return FSI_OK;
}

FSI_API void fsi_soft_free(fsi_soft *s) {
    if (!s || !s->block)
        return;
    fsi_cholesky_free(&s->factor);
    fsi_bvh_free(&s->bvh);
    if (s->work->patch)
        fsi_free(&s->desc.allocator, s->work->patch, s->work->patch->size);
    fsi_free(&s->desc.allocator, s->work->slot_block, s->work->slot_size);
    fsi_free(&s->desc.allocator, s->block, s->size);
    memset(s, 0, sizeof *s);
}

FSI_API size_t fsi_soft_state_size(const fsi_soft *s) {
    return s ? s->state_size : 0;
}

FSI_API fsi_result fsi_soft_save(const fsi_soft *s, void *out) {
    if (!s || !s->block || !out)
        return FSI_ERR_ARGUMENT;
    memcpy(out, s->x, s->state_size);
    return FSI_OK;
}

FSI_API fsi_result fsi_soft_restore(fsi_soft *s, const void *in) {
    if (!s || !s->block || !in)
        return FSI_ERR_ARGUMENT;
    memcpy(s->x, in, s->state_size);
    /* stages of a step that another life began */
    s->moved = 0;
    s->work->jumps = 0;
    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
   >>reduced model Symbols (REDUCED): x = R (S q + x0) + T, r = S q + x0 in the body frame, m_i
   lumped masses, s_k mode k, I inertia about T (body frame), H = sum m r x s (3 x modes), A_k = sum
   m s_k r^T. J_rig^T M R S = (0, R H): so P_d^T R S q' = R (S q' - (I^-1 H q') x r). */
/* sum m r x s of A = sum m s r^T */
static fsi_vec3 fsi__skew(const fsi_real *A) {
    return fsi_vec(A[7] - A[5], A[2] - A[6], A[3] - A[1]);
}

/* what init works with, one temporary block besides soft */
typedef struct fsi__reduced_build {
    fsi_soft soft;
    fsi_real *V, *w, *null; /* [modes * 3n] vectors, [modes], [6 * 3n] */
    int32_t *map;           /* [n] mesh vertex -> surface vertex or -1 */
    const int32_t *index;   /* the surface: triangles of the mesh, 2D: edge below */
    /* 2D: directed edges, sorted; then the segments of the boundary in the same block */
    uint64_t *edge;
    size_t edges;
    void *block;
    size_t size;
} fsi__reduced_build;

static void fsi__reduced_layout(fsi_reduced_model *m, fsi_arena *a, int cells) {
    size_t n = (size_t)m->vertex_count, k = (size_t)m->modes;
    FSI__TAKE(m->x0, fsi_real, a, 3 * n);
    FSI__TAKE(m->node_mass, fsi_real, a, n);
    FSI__TAKE(m->S, fsi_real, a, 3 * n * k);
    FSI__TAKE(m->omega2, fsi_real, a, k);
    FSI__TAKE(m->C0, fsi_real, a, 9);
    FSI__TAKE(m->G0, fsi_real, a, 9 * k);
    FSI__TAKE(m->G, fsi_real, a, 9 * k * k);
    FSI__TAKE(m->surface, int32_t, a, (size_t)m->surface_count);
    FSI__TAKE(m->index, int32_t, a, (size_t)m->dim * (size_t)m->element_count);
    FSI__TAKE(m->sample, int32_t, a, (size_t)m->sample_count);
    FSI__TAKE(m->phi, fsi_real, a, (size_t)cells);
    FSI__TAKE(m->near_vertex, int32_t, a, (size_t)cells);
}

/* K of a flat sheet has nothing across its plane: a spring on every vertex above all its own
 * frequencies. */
static void fsi__reduced_flat(fsi_soft *s) {
    fsi_real most = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < s->K.rows; i++)
            for (int j = s->K.row[i]; j < s->K.row[i + 1]; j++)
                if (s->K.col[j] == i) {
                    if (!pass)
                        most = fsi__max(most, s->K.val[j] / s->mass[i / 3]);
                    else if (i % 3 == 2)
                        s->K.val[j] = 4 * most * s->mass[i / 3];
                }
}

/* The edges of a sheet that belong to one triangle only, the sheet on their left. */
static fsi_result fsi__reduced_edges(fsi_reduced_model *m, fsi__reduced_build *t,
                                     const fsi_mesh *mesh) {
    size_t n = 3 * (size_t)mesh->element_count, i;
    for (i = 0; i < n; i++)
        if (mesh->index[i] < 0 || mesh->index[i] >= mesh->vertex_count)
            return FSI_ERR_GEOMETRY;
    for (i = 0; i < (size_t)mesh->vertex_count; i++)
        if (fsi__abs(mesh->x[3 * i + 2]) > 0)
            return FSI_ERR_GEOMETRY;
    for (i = 0; i < n; i += 3)
        if (!(fsi_vec_cross(fsi_vec_sub(fsi_vec_load(mesh->x + 3 * mesh->index[i + 1]),
                                        fsi_vec_load(mesh->x + 3 * mesh->index[i])),
                            fsi_vec_sub(fsi_vec_load(mesh->x + 3 * mesh->index[i + 2]),
                                        fsi_vec_load(mesh->x + 3 * mesh->index[i])))
                  .z
              > 0))
            return FSI_ERR_GEOMETRY;
    t->edges = n;
    t->edge = (uint64_t *)fsi_alloc(&m->desc.allocator, 3 * n * sizeof *t->edge);
    if (!t->edge)
        return FSI_ERR_MEMORY;
    for (i = 0; i < n; i++)
        t->edge[i] = fsi__pair_key(mesh->index[i], mesh->index[i - i % 3 + (i + 1) % 3]);
    uint64_t *sorted = fsi__sort_keys(n, t->edge, t->edge + n);
    int32_t *out = (int32_t *)(void *)(t->edge + 2 * n);
    t->index = out;
    for (m->element_count = 0, i = 0; i < n; i++) {
        uint64_t back = sorted[i] >> 32 | sorted[i] << 32;
        size_t at = fsi__lower_bound(n, sorted, back);
        if (i && sorted[i] == sorted[i - 1])
            return FSI_ERR_GEOMETRY;
        if (at < n && sorted[at] == back)
            continue;
        out[2 * m->element_count] = (int32_t)(sorted[i] >> 32);
        out[2 * m->element_count++ + 1] = (int32_t)(sorted[i] & 0xffffffffu);
    }
    return FSI_OK;
}

/* Modes of the free body by the eigen solver, or the given basis turned into eigenvectors of its
 * own M_r, K_r. */
static fsi_result fsi__reduced_modes(fsi_reduced_model *m, fsi__reduced_build *t,
                                     const fsi_reduced_desc *d) {
    int n = 3 * m->vertex_count, k = m->modes;
    fsi_soft *s = &t->soft;
    fsi_result r;
    if (!d->basis) {
        fsi_modes_desc e;
        memset(&e, 0, sizeof e);
        fsi_csr M;
        M.rows = M.cols = n;
        M.row = (int32_t *)fsi_alloc(&d->allocator, (size_t)(2 * n + 1) * sizeof(int32_t)
                                                        + (size_t)n * sizeof(fsi_real) + 16);
        if (!M.row)
            return FSI_ERR_MEMORY;
        M.col = M.row + n + 1;
        M.val = (fsi_real *)(void *)(M.row + 2 * n + 2);
        for (int i = 0; i < n; i++) {
            M.row[i] = M.col[i] = i;
            M.val[i] = s->mass[i / 3];
        }
        M.row[n] = n;
        /* rigid motions: translations, x -> e_a x r */
        for (int i = 0; i < n / 3; i++) {
            fsi_vec3 x = fsi_vec_load(m->x0 + 3 * i);
            for (int a = 0; a < 3; a++) {
                t->null[a * n + 3 * i + a] = 1;
                fsi_vec_store(t->null + (3 + a) * n + 3 * i,
                              fsi_vec_cross(fsi_vec(a == 0, a == 1, a == 2), x));
            }
        }
        e.null_count = 6;
        /* x, y and the turn about z; across the plane far stiffer than anything inside it */
        if (m->dim == 2) {
            fsi__reduced_flat(s);
            fsi_copy((size_t)n, t->null + 5 * n, t->null + 2 * n);
            e.null_count = 3;
        }
        e.K = &s->K;
        e.M = &M;
        e.count = k;
        e.null_vectors = t->null;
        e.allocator = d->allocator;
        r = fsi_modes_solve(&e, t->w, t->V, NULL);
        fsi_free(&d->allocator, M.row,
                 (size_t)(2 * n + 1) * sizeof(int32_t) + (size_t)n * sizeof(fsi_real) + 16);
        for (int i = 2; i < k * n && m->dim == 2; i += 3)
            t->V[i] = 0;
        return r < 0 ? r : r == FSI_NOT_CONVERGED ? FSI_ERR_NUMERIC : FSI_OK;
    }
    fsi_copy((size_t)k * (size_t)n, d->basis, t->V);
    for (int i = 2; i < k * n && m->dim == 2; i += 3)
        t->V[i] = 0;
    for (int a = 0; a < 3 * k; a++) { /* mass-weighted column sums become zero */
        double sum = 0;
        fsi_real *v = t->V + (size_t)(a / 3) * (size_t)n + a % 3;
        for (int i = 0; i < n / 3; i++)
            sum += (double)(s->mass[i] * v[3 * i]);
        for (int i = 0; i < n / 3; i++)
            v[3 * i] -= (fsi_real)(sum / (double)m->mass);
    }
    {
        size_t kk = (size_t)k * (size_t)k, bytes = (3 * kk + (size_t)n) * sizeof(fsi_real);
        fsi_real *M_r = (fsi_real *)fsi_alloc(&d->allocator, bytes), *K_r = M_r + kk, *Y = K_r + kk,
                 *f = Y + kk;
        if (!M_r)
            return FSI_ERR_MEMORY;
        for (int a = 0; a < k; a++) {
            fsi_real *va = t->V + (size_t)a * (size_t)n;
            fsi_csr_mul(&s->K, va, f);
            for (int b = 0; b < k; b++) {
                const fsi_real *vb = t->V + (size_t)b * (size_t)n;
                double sum = 0;
                for (int i = 0; i < n; i++)
                    sum += (double)(s->mass[i / 3] * va[i] * vb[i]);
                M_r[a * k + b] = (fsi_real)sum;
                K_r[a * k + b] = (fsi_real)fsi_dot((size_t)n, f, vb);
            }
        }
        r = fsi_eigen_dense(k, K_r, M_r, t->w, Y, &d->allocator);
        /* V <- Y V, one particle coordinate after the other */
        for (int i = 0; i < n && r == FSI_OK; i++) {
            for (int a = 0; a < k; a++)
                f[a] = t->V[(size_t)a * (size_t)n + (size_t)i];
            for (int a = 0; a < k; a++) {
                double sum = 0;
                for (int b = 0; b < k; b++)
                    sum += (double)(Y[a * k + b] * f[b]);
                M_r[a] = (fsi_real)sum;
            }
            for (int a = 0; a < k; a++)
                t->V[(size_t)a * (size_t)n + (size_t)i] = M_r[a];
        }
        fsi_free(&d->allocator, M_r, bytes);
    }
    for (int a = 0; a < k; a++)
        t->w[a] = fsi__max(t->w[a], 0);
    return r;
}

static void fsi__reduced_integrals(fsi_reduced_model *m) {
    int i, n = m->modes;
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++) {
            double c = 0;
            for (i = 0; i < m->vertex_count; i++)
                c += (double)(m->node_mass[i] * m->x0[3 * i + a] * m->x0[3 * i + b]);
            m->C0[3 * a + b] = (fsi_real)c;
            for (int k = 0; k < n; k++) {
                for (c = 0, i = 0; i < m->vertex_count; i++)
                    c += (double)(m->node_mass[i] * m->S[(3 * i + a) * n + k] * m->x0[3 * i + b]);
                m->G0[9 * k + 3 * a + b] = (fsi_real)c;
                for (int l = 0; l < n; l++) {
                    for (c = 0, i = 0; i < m->vertex_count; i++)
                        c += (double)(m->node_mass[i] * m->S[(3 * i + a) * n + k]
                                      * m->S[(3 * i + b) * n + l]);
                    m->G[9 * (k * n + l) + 3 * a + b] = (fsi_real)c;
                }
            }
        }
}

static int fsi__reduced_node(const fsi_reduced_model *m, int i, int j, int k) {
    return i + m->nx * (j + m->ny * k);
}

/* Distance field of the rest shape, nearest surface vertices, and contact samples (each next one
 * farthest from the others). */
static fsi_result fsi__reduced_field(fsi_reduced_model *m, fsi_real *apart) {
    fsi_surface s;
    memset(&s, 0, sizeof s);
    int i;
    for (i = 0; i < m->surface_count; i++)
        memcpy(apart + 3 * i, m->x0 + 3 * m->surface[i], 3 * sizeof *apart);
    s.dim = m->dim;
    s.closed = 1;
    s.vertex_count = m->surface_count;
    s.element_count = m->element_count;
    s.x = apart;
    s.index = m->index;
    fsi_result r = fsi_bvh_init(&m->tree, m->element_count, &m->desc.allocator);
    /* boxes are shared, corners have to be worked out: let boxes decide */
    m->tree.leaf = 1;
    if (r == FSI_OK)
        r = fsi_bvh_build(&m->tree, &s);
    int k;
    int best;
    for (k = 0; k < m->nz && r == FSI_OK; k++)
        for (int j = 0; j < m->ny; j++)
            for (i = 0; i < m->nx; i++) {
                fsi_vec3 p =
                    fsi_vec_mad(m->origin, fsi_vec((fsi_real)i, (fsi_real)j, (fsi_real)k), m->h);
                int at = fsi__reduced_node(m, i, j, k);
                if (m->dim == 2)
                    p.z = 0; /* every layer is the plane */
                fsi_hit hit;
                if (!fsi_bvh_closest(&m->tree, p, FSI_R(1e18), &hit)) {
                    r = FSI_ERR_GEOMETRY;
                    break;
                }
                best = hit.weight[1] > hit.weight[0] ? 1 : 0;
                if (m->dim == 3 && hit.weight[2] > hit.weight[best])
                    best = 2;
                m->near_vertex[at] = m->surface[m->index[m->dim * hit.element + best]];
                m->phi[at] = fsi_bvh_inside(&m->tree, p) ? -hit.t : hit.t;
            }
    /* from now on for copies only, which have places of their own */
    m->tree.surface.x = NULL;
    for (i = 0; i < m->surface_count; i++)
        apart[i] = FSI_REAL_MAX;
    for (best = 0, k = 0; k < m->sample_count; k++) {
        fsi_vec3 c = fsi_vec_load(m->x0 + 3 * m->surface[best]);
        m->sample[k] = m->surface[best];
        for (i = 0; i < m->surface_count; i++) {
            fsi_vec3 d = fsi_vec_sub(fsi_vec_load(m->x0 + 3 * m->surface[i]), c);
            apart[i] = fsi__min(apart[i], fsi_vec_dot(d, d));
        }
        for (best = 0, i = 1; i < m->surface_count; i++)
            if (apart[i] > apart[best])
                best = i;
    }
    return r;
}

/* Places the block and fills everything that needs no eigen solver. */
static fsi_result fsi__reduced_place(fsi_reduced_model *m, fsi__reduced_build *t,
                                     const fsi_mesh *mesh) {
    double c[3] = {0, 0, 0};
    int n = mesh->vertex_count;
    fsi_real mass = 0;
    for (int i = 0; i < n; i++)
        t->map[i] = -1;
    for (int i = 0; i < m->dim * m->element_count; i++)
        if (t->map[t->index[i]] < 0)
            t->map[t->index[i]] = m->surface_count++;
    for (int i = 0; i < n; i++) {
        mass += t->soft.mass[i];
        for (int a = 0; a < 3; a++)
            c[a] += (double)(t->soft.mass[i] * mesh->x[3 * i + a]);
    }
    m->mass = mass;
    m->center = fsi_vec((fsi_real)(c[0] / (double)mass), (fsi_real)(c[1] / (double)mass),
                        (fsi_real)(c[2] / (double)mass));
    fsi_vec3 hi;
    fsi_vec3 lo = hi = fsi_vec_sub(fsi_vec_load(mesh->x), m->center);
    for (int i = 0; i < n; i++) {
        fsi_vec3 x = fsi_vec_sub(fsi_vec_load(mesh->x + 3 * i), m->center);
        lo = fsi_vec(fsi__min(lo.x, x.x), fsi__min(lo.y, x.y), fsi__min(lo.z, x.z));
        hi = fsi_vec(fsi__max(hi.x, x.x), fsi__max(hi.y, x.y), fsi__max(hi.z, x.z));
        m->radius = fsi__max(m->radius, fsi__length(x));
    }
    fsi_real size = fsi__max(hi.x - lo.x, fsi__max(hi.y - lo.y, hi.z - lo.z));
    m->h = size / (fsi_real)m->desc.field;
    m->origin = fsi_vec_mad(lo, fsi_vec(1, 1, 1), -2 * m->h);
    m->nx = (int)fsi__ceil((hi.x - lo.x) / m->h) + 5;
    m->ny = (int)fsi__ceil((hi.y - lo.y) / m->h) + 5;
    m->nz = (int)fsi__ceil((hi.z - lo.z) / m->h) + 5;
    m->sample_count = fsi__imin(m->desc.samples, m->surface_count);
    fsi_arena arena;
    memset(&arena, 0, sizeof arena);
    fsi__reduced_layout(m, &arena, m->nx * m->ny * m->nz);
    fsi_result r = fsi__arena_block(&arena, &m->desc.allocator, &m->block, &m->size);
    if (r != FSI_OK)
        return r;
    fsi__reduced_layout(m, &arena, m->nx * m->ny * m->nz);
    for (int i = 0; i < n; i++) {
        fsi_vec_store(m->x0 + 3 * i, fsi_vec_sub(fsi_vec_load(mesh->x + 3 * i), m->center));
        m->node_mass[i] = t->soft.mass[i];
        if (t->map[i] >= 0)
            m->surface[t->map[i]] = i;
    }
    for (int i = 0; i < m->dim * m->element_count; i++)
        m->index[i] = t->map[t->index[i]];
    return FSI_OK;
}

/* The elastic body behind the modes: lumped masses and K. */
static fsi_result fsi__reduced_soft(fsi_reduced_model *m, fsi__reduced_build *t,
                                    const fsi_reduced_desc *desc) {
    const fsi_mesh *mesh = desc->mesh;
    fsi_soft_desc d;
    memset(&d, 0, sizeof d);
    d.dim = m->dim;
    d.vertex_count = m->vertex_count;
    d.x = mesh->x;
    d.model = FSI_SOFT_LINEAR;
    d.integrator = FSI_SOFT_EXPLICIT;
    if (m->dim == 3) {
        d.tet = mesh->tet;
        d.tet_count = mesh->tet_count;
        d.density = desc->density;
        d.young = desc->young;
        d.poisson = desc->poisson;
    } else {
        d.triangle = mesh->index;
        d.triangle_count = mesh->element_count;
        d.area_density = desc->density;
        d.stretch = desc->young;
        d.stretch_poisson = desc->poisson;
    }
    d.damping_mass = desc->damping_mass;
    d.damping_stiffness = desc->damping_stiffness;
    d.allocator = desc->allocator;
    t->index = mesh->index;
    return fsi_soft_init(&t->soft, &d);
}

FSI_API fsi_result fsi_reduced_model_init(fsi_reduced_model *out, const fsi_reduced_desc *desc) {
    if (!out || !desc || !desc->mesh || !fsi_allocator_valid(&desc->allocator)
        || (desc->dim != 0 && desc->dim != 2 && desc->dim != 3))
        return FSI_ERR_ARGUMENT;
    if (desc->dim == 2 ? desc->mesh->dim != 3 || desc->mesh->element_count < 1
                       : desc->mesh->tet_count < 1)
        return FSI_ERR_ARGUMENT;
    if (desc->modes < 0 || desc->modes > 3 * desc->mesh->vertex_count || !(desc->density > 0)
        || (desc->modes && !(desc->young > 0)))
        return FSI_ERR_ARGUMENT;
    if (desc->samples < 0 || desc->field < 0 || desc->field > 512)
        return FSI_ERR_ARGUMENT;
    fsi_reduced_model m;
    memset(&m, 0, sizeof m);
    fsi__reduced_build t;
    memset(&t, 0, sizeof t);
    m.desc = *desc;
    m.desc.mesh = NULL;
    m.desc.basis = NULL;
    m.dim = m.desc.dim = desc->dim == 2 ? 2 : 3;
    if (!m.desc.samples)
        m.desc.samples = 200;
    if (!m.desc.field)
        m.desc.field = 32;
    m.vertex_count = desc->mesh->vertex_count;
    m.element_count = desc->mesh->element_count;
    m.modes = desc->modes;
    size_t n = 3 * (size_t)m.vertex_count;
    size_t k = (size_t)m.modes;
    if (desc->basis && !fsi_all_finite(n * k, desc->basis))
        return FSI_ERR_ARGUMENT;
    fsi_result r = fsi__reduced_soft(&m, &t, desc);
    if (r != FSI_OK)
        return r;
    if (m.dim == 2)
        r = fsi__reduced_edges(&m, &t, desc->mesh);
    t.size = (k * n + k + 7 * n) * sizeof(fsi_real) + n * sizeof(int32_t);
    if (r == FSI_OK && !(t.block = fsi_alloc(&desc->allocator, t.size)))
        r = FSI_ERR_MEMORY;
    t.V = (fsi_real *)t.block;
    if (r == FSI_OK) {
        t.w = t.V + k * n;
        t.null = t.w + k;
        t.map = (int32_t *)(void *)(t.null + 7 * n);
        r = fsi__reduced_place(&m, &t, desc->mesh);
    }
    if (r == FSI_OK && k)
        r = fsi_soft_stiffness(&t.soft);
    if (r == FSI_OK && k)
        r = fsi__reduced_modes(&m, &t, desc);
    if (r == FSI_OK) {
        for (size_t a = 0; a < k; a++) {
            m.omega2[a] = t.w[a];
            for (size_t i = 0; i < n; i++)
                m.S[i * k + a] = t.V[a * n + i];
        }
        fsi__reduced_integrals(&m);
        r = fsi__reduced_field(&m, t.null);
    }
    fsi_free(&desc->allocator, t.block, t.size);
    fsi_free(&desc->allocator, t.edge, 3 * t.edges * sizeof *t.edge);
    fsi_soft_free(&t.soft);
    if (r != FSI_OK) {
        fsi_reduced_model_free(&m);
        return r;
    }
    *out = m;
    return FSI_OK;
}

FSI_API void fsi_reduced_model_free(fsi_reduced_model *m) {
    if (!m)
        return;
    fsi_bvh_free(&m->tree);
    fsi_free(&m->desc.allocator, m->block, m->size);
    memset(m, 0, sizeof *m);
}

/* ------------------------------------------------------------------------------------------------
 * >>reduced body */
/* 0: R, 1: I, 2: I^-1 */
static fsi_mat3 fsi__reduced_matrix(const fsi_reduced *b, int which) {
    fsi_mat3 m;
    memcpy(m.m, b->cache + 9 * which, sizeof m.m);
    return m;
}

/* A_k = sum m s_k r^T at q. */
static void fsi__reduced_A(const fsi_reduced_model *m, const fsi_real *q, int k,
                           const fsi_real *start, fsi_real *A) {
    for (int i = 0; i < 9; i++)
        A[i] = start ? start[i] : 0;
    for (int l = 0; l < m->modes; l++)
        for (int i = 0; i < 9; i++)
            A[i] += q[l] * m->G[9 * (k * m->modes + l) + i];
}

/* R, I(q) = tr(C) - C with C = sum m r r^T, its inverse, H(q). */
static void fsi__reduced_update(fsi_reduced *b) {
    const fsi_reduced_model *m = b->model;
    fsi_quat Q;
    fsi_real C[9], A[9];
    Q.w = b->Q[0];
    Q.x = b->Q[1];
    Q.y = b->Q[2];
    Q.z = b->Q[3];
    fsi_mat3 R = fsi_quat_matrix(Q);
    memcpy(C, m->C0, sizeof C);
    for (int k = 0; k < m->modes; k++) {
        fsi__reduced_A(m, b->q, k, m->G0 + 9 * k, A);
        fsi_vec_store(b->cache + 27 + 3 * k, fsi__skew(A));
        for (int i = 0; i < 9; i++)
            C[i] += b->q[k] * (A[i] + m->G0[9 * k + 3 * (i % 3) + i / 3]);
    }
    fsi_real trace = C[0] + C[4] + C[8];
    fsi_mat3 I;
    for (int i = 0; i < 9; i++)
        I.m[i] = (i % 4 == 0 ? trace : 0) - C[i];
    fsi_mat3 inverse;
    memset(&inverse, 0, sizeof inverse);
    fsi_mat3_inverse(&I, &inverse);
    memcpy(b->cache, R.m, sizeof R.m);
    memcpy(b->cache + 9, I.m, sizeof I.m);
    memcpy(b->cache + 18, inverse.m, sizeof inverse.m);
}

FSI_API fsi_result fsi_reduced_init(fsi_reduced *b, const fsi_reduced_model *m, fsi_vec3 T,
                                    const fsi_allocator *allocator) {
    if (!b || !m || !m->block || !fsi_allocator_valid(allocator) || !fsi__finite_vec(T))
        return FSI_ERR_ARGUMENT;
    memset(b, 0, sizeof *b);
    size_t k = (size_t)m->modes;
    size_t n = 13 + 2 * k + 27 + 3 * k + 2 * (6 + k) + k;
    b->size = n * sizeof(fsi_real);
    b->block = fsi_alloc(allocator, b->size);
    if (!b->block) {
        memset(b, 0, sizeof *b);
        return FSI_ERR_MEMORY;
    }
    if (allocator)
        b->allocator = *allocator;
    b->model = m;
    b->state = (fsi_real *)b->block;
    b->T = b->state;
    b->Q = b->T + 3;
    b->p = b->Q + 4;
    b->L = b->p + 3;
    b->q = b->L + 3;
    b->dq = b->q + k;
    b->cache = b->dq + k;
    b->push = b->cache + 27 + 3 * k;
    b->v = b->push + 6 + k;
    b->aside = b->v + 6 + k;
    fsi_vec_store(b->T, T);
    b->Q[0] = 1;
    fsi__reduced_update(b);
    return FSI_OK;
}

FSI_API void fsi_reduced_free(fsi_reduced *b) {
    if (!b)
        return;
    if (b->begin)
        fsi_free(&b->allocator, b->begin, (12 + 3 * (size_t)b->model->modes) * sizeof *b->begin);
    fsi_free(&b->allocator, b->block, b->size);
    memset(b, 0, sizeof *b);
}

/* r = x0 + S q, body frame */
static fsi_vec3 fsi__reduced_lever(const fsi_reduced *b, int i) {
    const fsi_reduced_model *m = b->model;
    fsi_real r[3];
    for (int a = 0; a < 3; a++) {
        const fsi_real *S = m->S + (3 * i + a) * m->modes;
        r[a] = m->x0[3 * i + a];
        for (int k = 0; k < m->modes; k++)
            r[a] += S[k] * b->q[k];
    }
    return fsi_vec_load(r);
}

/* w: velocity of the centre of mass and angular velocity of the momentum, world; *frame (may be
 * NULL): angular velocity of the frame, world. */
static void fsi__reduced_spin(const fsi_reduced *b, fsi_vec3 *v, fsi_vec3 *w, fsi_vec3 *frame) {
    fsi_mat3 R = fsi__reduced_matrix(b, 0), inverse = fsi__reduced_matrix(b, 2);
    fsi_vec3 L = fsi_mat3_tmul_vec(&R, fsi_vec_load(b->L));
    if (v)
        *v = fsi_vec_scale(fsi_vec_load(b->p), 1 / b->model->mass);
    if (w)
        *w = fsi_mat3_mul_vec(&R, fsi_mat3_mul_vec(&inverse, L));
    if (!frame)
        return;
    for (int k = 0; k < b->model->modes; k++)
        L = fsi_vec_mad(L, fsi_vec_load(b->cache + 27 + 3 * k), -b->dq[k]);
    *frame = fsi_mat3_mul_vec(&R, fsi_mat3_mul_vec(&inverse, L)); /* I^-1 (L - H q') */
}

FSI_API fsi_result fsi_reduced_place(fsi_reduced *b, fsi_vec3 T, fsi_quat Q, fsi_vec3 velocity,
                                     fsi_vec3 spin) {
    if (!b || !b->block)
        return FSI_ERR_STATE;
    if (!fsi__finite_vec(T) || !fsi__finite_vec(velocity) || !fsi__finite_vec(spin)
        || !fsi__finite(Q.w) || !fsi__finite_vec(fsi_vec(Q.x, Q.y, Q.z)))
        return FSI_ERR_ARGUMENT;
    Q = fsi_quat_unit(Q);
    fsi_vec_store(b->T, T);
    b->Q[0] = Q.w;
    b->Q[1] = Q.x;
    b->Q[2] = Q.y;
    b->Q[3] = Q.z;
    for (int k = 0; k < 2 * b->model->modes; k++)
        b->q[k] = 0;
    fsi__reduced_update(b);
    fsi_mat3 R = fsi__reduced_matrix(b, 0);
    fsi_mat3 I = fsi__reduced_matrix(b, 1);
    fsi_vec_store(b->p, fsi_vec_scale(velocity, b->model->mass));
    fsi_vec_store(b->L, fsi_mat3_mul_vec(&R, fsi_mat3_mul_vec(&I, fsi_mat3_tmul_vec(&R, spin))));
    return FSI_OK;
}

FSI_API fsi_vec3 fsi_reduced_point(const fsi_reduced *b, int i) {
    fsi_mat3 R = fsi__reduced_matrix(b, 0);
    return fsi_vec_add(fsi_vec_load(b->T), fsi_mat3_mul_vec(&R, fsi__reduced_lever(b, i)));
}

/* R S q' + v + frame x R r */
FSI_API fsi_vec3 fsi_reduced_velocity(const fsi_reduced *b, int i) {
    const fsi_reduced_model *m = b->model;
    fsi_mat3 R = fsi__reduced_matrix(b, 0);
    fsi_vec3 v, frame;
    fsi_real u[3];
    fsi__reduced_spin(b, &v, NULL, &frame);
    int k;
    for (int a = 0; a < 3; a++)
        for (u[a] = 0, k = 0; k < m->modes; k++)
            u[a] += m->S[(3 * i + a) * m->modes + k] * b->dq[k];
    v = fsi_vec_add(v, fsi_vec_cross(frame, fsi_mat3_mul_vec(&R, fsi__reduced_lever(b, i))));
    return fsi_vec_add(v, fsi_mat3_mul_vec(&R, fsi_vec_load(u)));
}

/* M^_r of mode k; 1 for dt = 0 */
static fsi_real fsi__reduced_stiff(const fsi_reduced_model *m, int k, fsi_real dt) {
    return 1 + dt * (m->desc.damping_mass + m->desc.damping_stiffness * m->omega2[k])
           + dt * dt * m->omega2[k];
}

/* Adds J^T j: j to linear, arm x j to angular, S^T R^-1 P_d j over M^_r(dt) to modal. Force,
 * impulse and row of J are all this one map. */
static void fsi__reduced_apply(const fsi_reduced *b, fsi_vec3 x, int count, const int32_t *vertex,
                               const fsi_real *weight, fsi_vec3 j, fsi_real dt, fsi_real *linear,
                               fsi_real *angular, fsi_real *modal) {
    const fsi_reduced_model *m = b->model;
    fsi_mat3 R = fsi__reduced_matrix(b, 0), inverse = fsi__reduced_matrix(b, 2);
    fsi_vec3 turn = fsi_vec_cross(fsi_vec_sub(x, fsi_vec_load(b->T)), j),
             d = fsi_mat3_tmul_vec(&R, j);
    int n = m->modes;
    fsi_vec_store(linear, fsi_vec_add(fsi_vec_load(linear), j));
    fsi_vec_store(angular, fsi_vec_add(fsi_vec_load(angular), turn));
    /* I^-1 (r x j), body frame */
    fsi_vec3 y = fsi_mat3_mul_vec(&inverse, fsi_mat3_tmul_vec(&R, turn));
    for (int k = 0; k < n; k++) {
        fsi_real f = -fsi_vec_dot(fsi_vec_load(b->cache + 27 + 3 * k), y);
        for (int c = 0; c < count; c++) {
            const fsi_real *S = m->S + 3 * vertex[c] * n + k;
            f += weight[c] * (S[0] * d.x + S[n] * d.y + S[2 * n] * d.z);
        }
        modal[k] += dt > 0 ? f / fsi__reduced_stiff(m, k, dt) : f;
    }
}

FSI_API void fsi_reduced_row(const fsi_reduced *b, fsi_vec3 x, int count, const int32_t *vertex,
                             const fsi_real *weight, fsi_vec3 dir, fsi_real *row) {
    memset(row, 0, (size_t)(6 + b->model->modes) * sizeof *row);
    fsi__reduced_apply(b, x, count, vertex, weight, dir, 0, row, row + 3, row + 6);
}

FSI_API void fsi_reduced_push(fsi_reduced *b, int i, fsi_vec3 force) {
    int32_t v = i;
    fsi_real one = 1;
    fsi__reduced_apply(b, fsi_reduced_point(b, i), 1, &v, &one, force, 0, b->push, b->push + 3,
                       b->push + 6);
}

FSI_API void fsi_reduced_impulse(fsi_reduced *b, int i, fsi_vec3 impulse, int implicit) {
    int32_t v = i;
    fsi_real one = 1;
    if (!b->fixed)
        fsi__reduced_apply(b, fsi_reduced_point(b, i), 1, &v, &one, impulse, implicit ? b->dt : 0,
                           b->p, b->L, b->dq);
}

FSI_API void fsi_reduced_mass(const fsi_reduced *b, fsi_real dt, fsi_real *mass,
                              fsi_real *inverse) {
    int n = 6 + b->model->modes;
    for (int which = 0; which < 2; which++) {
        fsi_real *out = which ? inverse : mass;
        fsi_mat3 R = fsi__reduced_matrix(b, 0), I = fsi__reduced_matrix(b, 1 + which);
        if (!out)
            continue;
        memset(out, 0, (size_t)(n * n) * sizeof *out);
        if (which && b->fixed)
            continue;
        I = fsi_mat3_rotate(&R, &I);
        for (int i = 0; i < 3; i++) {
            out[i * (n + 1)] = which ? 1 / b->model->mass : b->model->mass;
            for (int j = 0; j < 3; j++)
                out[(3 + i) * n + 3 + j] = (I.m[3 * i + j] + I.m[3 * j + i]) / 2;
        }
        for (int i = 6; i < n; i++) {
            fsi_real s = fsi__reduced_stiff(b->model, i - 6, dt);
            out[i * (n + 1)] = which ? 1 / s : s;
        }
        /* z and the spins about x and y do not move */
        for (int i = 2; i < 5 && which && b->model->dim == 2; i++)
            for (int j = 2; j < 5; j++)
                out[i * n + j] = 0;
    }
}

/* kinetic energy of q' alone: q' (1 - H^T I^-1 H) q' / 2 */
static double fsi__reduced_inside(const fsi_reduced *b) {
    fsi_mat3 inverse = fsi__reduced_matrix(b, 2);
    fsi_vec3 h = fsi_vec(0, 0, 0);
    double t = 0;
    for (int k = 0; k < b->model->modes; k++) {
        t += 0.5 * (double)(b->dq[k] * b->dq[k]);
        h = fsi_vec_mad(h, fsi_vec_load(b->cache + 27 + 3 * k), b->dq[k]);
    }
    return t - 0.5 * (double)fsi_vec_dot(h, fsi_mat3_mul_vec(&inverse, h));
}

FSI_API void fsi_reduced_energy(const fsi_reduced *b, double *elastic, double *kinetic) {
    fsi_vec3 v, w;
    fsi__reduced_spin(b, &v, &w, NULL);
    int k;
    if (elastic)
        for (*elastic = 0, k = 0; k < b->model->modes; k++)
            *elastic += 0.5 * (double)(b->model->omega2[k] * b->q[k] * b->q[k]);
    if (kinetic)
        *kinetic = fsi__reduced_inside(b)
                   + 0.5
                         * (double)(fsi_vec_dot(fsi_vec_load(b->p), v)
                                    + fsi_vec_dot(fsi_vec_load(b->L), w));
}

/* elastic, kinetic and gravity's energy */
static double fsi__reduced_total(const fsi_reduced *b) {
    double e, k;
    fsi_reduced_energy(b, &e, &k);
    return e + k - (double)(b->model->mass * fsi_vec_dot(b->gravity, fsi_vec_load(b->T)));
}

/* P_d-projected fictitious force of mode k (times M): centrifugal and Coriolis; the Euler force is
 * a rigid field and drops out. w: body frame. */
static fsi_real fsi__reduced_fictitious(const fsi_reduced *b, int k, fsi_vec3 w, fsi_vec3 y) {
    const fsi_reduced_model *m = b->model;
    fsi_real A[9], D[9], u[3], ww = fsi_vec_dot(w, w);
    fsi__reduced_A(m, b->q, k, m->G0 + 9 * k, A);
    fsi__reduced_A(m, b->dq, k, NULL, D);
    fsi_vec_store(u, w);
    fsi_real f =
        2 * fsi_vec_dot(w, fsi__skew(D)) - fsi_vec_dot(fsi_vec_load(b->cache + 27 + 3 * k), y);
    for (int i = 0; i < 3; i++)
        /* s . w x (w x r) */
        for (int j = 0; j < 3; j++)
            f += A[3 * i + j] * (u[i] * u[j] - (i == j ? ww : 0));
    return f;
}

FSI_API fsi_result fsi_reduced_forces(fsi_reduced *b, fsi_real dt) {
    if (!b || !b->block)
        return FSI_ERR_STATE;
    if (!fsi__finite(dt) || !(dt > 0))
        return FSI_ERR_ARGUMENT;
    const fsi_reduced_model *m = b->model;
    if (!fsi_all_finite(13 + 2 * (size_t)m->modes, b->state)
        || !fsi_all_finite(6 + (size_t)m->modes, b->push))
        return FSI_ERR_NUMERIC;
    b->dt = dt;
    b->moved = 0;
    if (b->fixed) {
        memset(b->push, 0, (size_t)(6 + m->modes) * sizeof *b->push);
        return FSI_OK;
    }
    fsi__reduced_update(b);
    b->energy = fsi__reduced_total(b);
    fsi_mat3 R = fsi__reduced_matrix(b, 0);
    fsi_mat3 I = fsi__reduced_matrix(b, 1);
    fsi_mat3 inverse = fsi__reduced_matrix(b, 2);
    fsi_vec3 w;
    fsi__reduced_spin(b, NULL, NULL, &w);
    w = fsi_mat3_tmul_vec(&R, w);
    /* sum m r x (w x (w x r)) */
    fsi_vec3 torque = fsi_vec_cross(w, fsi_mat3_mul_vec(&I, w));
    /* + 2 sum m r x (w x s_l) q'_l = 2 (tr A_l - A_l) w q'_l */
    for (int l = 0; l < m->modes; l++) {
        fsi_mat3 A;
        fsi__reduced_A(m, b->q, l, m->G0 + 9 * l, A.m);
        torque = fsi_vec_mad(
            torque,
            fsi_vec_sub(fsi_vec_scale(w, A.m[0] + A.m[4] + A.m[8]), fsi_mat3_mul_vec(&A, w)),
            2 * b->dq[l]);
    }
    torque = fsi_mat3_mul_vec(&inverse, torque);
    for (int k = 0; k < m->modes; k++) /* push is the scratch: all see the old q' */
        /* q'* */
        b->push[6 + k] = b->dq[k]
                         + dt
                               * (b->push[6 + k] - fsi__reduced_fictitious(b, k, w, torque)
                                  - m->omega2[k] * (b->half ? b->begin[6 + k] : b->q[k]));
    b->half = 0;
    /* M^_r^-1 M_r q'* */
    for (int k = 0; k < m->modes; k++)
        b->dq[k] = b->push[6 + k] / fsi__reduced_stiff(m, k, dt);
    fsi_vec_store(b->p, fsi_vec_mad(fsi_vec_load(b->p),
                                    fsi_vec_mad(fsi_vec_load(b->push), b->gravity, m->mass), dt));
    fsi_vec_store(b->L, fsi_vec_mad(fsi_vec_load(b->L), fsi_vec_load(b->push + 3), dt));
    memset(b->push, 0, (size_t)(6 + m->modes) * sizeof *b->push);
    return FSI_OK;
}

FSI_API fsi_result fsi_reduced_half(fsi_reduced *b, fsi_real dt) {
    if (!b || !b->block)
        return FSI_ERR_STATE;
    b->half = 0;
    if (!b->begin
        && !(b->begin = (fsi_real *)fsi_alloc(&b->allocator, (12 + 3 * (size_t)b->model->modes)
                                                                 * sizeof *b->begin)))
        return FSI_ERR_MEMORY;
    /* p, L, q, q' lie side by side */
    memcpy(b->begin, b->p, (6 + 2 * (size_t)b->model->modes) * sizeof *b->begin);
    memcpy(b->begin + 6 + 2 * b->model->modes, b->push,
           (6 + (size_t)b->model->modes) * sizeof *b->begin);
    fsi_result r = fsi_reduced_forces(b, dt / 2);
    b->half = r >= 0;
    return r;
}

FSI_API fsi_result fsi_reduced_rewind(fsi_reduced *b) {
    if (!b || !b->block || !b->half)
        return FSI_ERR_STATE;
    size_t n = (size_t)b->model->modes;
    memcpy(b->p, b->begin, 6 * sizeof *b->p);
    memcpy(b->dq, b->begin + 6 + n, n * sizeof *b->dq);
    memcpy(b->push, b->begin + 6 + 2 * n, (6 + n) * sizeof *b->push);
    return FSI_OK;
}

static void fsi__reduced_turn(fsi_reduced *b, const fsi_real *from, fsi_vec3 rotation) {
    fsi_quat q, r = fsi_quat_from_rotation(rotation);
    q.w = from[0];
    q.x = from[1];
    q.y = from[2];
    q.z = from[3];
    q = fsi_quat_unit(fsi_quat_mul(r, q));
    b->Q[0] = q.w;
    b->Q[1] = q.x;
    b->Q[2] = q.y;
    b->Q[3] = q.z;
    fsi__reduced_update(b);
}

static void fsi__reduced_advance(void *user, fsi_real dt) {
    fsi_reduced *b = (fsi_reduced *)user;
    fsi_real from[4];
    if (dt == 0)
        b->touched = 0;
    if (b->fixed || !(dt > 0))
        return;
    memcpy(from, b->Q, sizeof from);
    fsi_vec3 v;
    fsi_vec3 frame;
    fsi__reduced_spin(b, &v, NULL, &frame);
    for (int k = 0; k < b->model->modes; k++)
        b->q[k] += dt / 2 * b->dq[k];
    /* midpoint: L stays, the frame's spin follows the shape */
    fsi__reduced_turn(b, from, fsi_vec_scale(frame, dt / 2));
    fsi__reduced_spin(b, NULL, NULL, &frame);
    for (int k = 0; k < b->model->modes; k++)
        b->q[k] += dt / 2 * b->dq[k];
    fsi__reduced_turn(b, from, fsi_vec_scale(frame, dt));
    fsi_vec_store(b->T, fsi_vec_mad(fsi_vec_load(b->T), v, dt));
    b->moved += dt;
}

/* energy at the end of the running step if nothing else happens: tried out */
static double fsi__reduced_next(fsi_reduced *b) {
    fsi_real pose[7], moved = b->moved, *q = b->aside;
    if (b->fixed || !(b->dt > 0))
        return fsi__reduced_total(b);
    memcpy(pose, b->T, sizeof pose); /* T and Q lie side by side */
    fsi_copy((size_t)b->model->modes, b->q, q);
    fsi__reduced_advance(b, b->dt);
    double e = fsi__reduced_total(b);
    memcpy(b->T, pose, sizeof pose);
    fsi_copy((size_t)b->model->modes, q, b->q);
    b->moved = moved;
    fsi__reduced_update(b);
    return e;
}

FSI_API fsi_result fsi_reduced_move(fsi_reduced *b, fsi_real dt) {
    if (!b || !b->block)
        return FSI_ERR_STATE;
    if (!fsi__finite(dt) || !(dt > 0))
        return FSI_ERR_ARGUMENT;
    if (!fsi_all_finite(13 + 2 * (size_t)b->model->modes, b->state))
        return FSI_ERR_NUMERIC;
    dt -= b->moved;
    if (dt > 16 * FSI_REAL_EPS * b->moved)
        fsi__reduced_advance(b, dt);
    b->moved = 0;
    return FSI_OK;
}

FSI_API size_t fsi_reduced_state_size(const fsi_reduced *b) {
    return b && b->model ? (13 + 2 * (size_t)b->model->modes) * sizeof(fsi_real) : 0;
}

FSI_API fsi_result fsi_reduced_save(const fsi_reduced *b, void *out) {
    if (!b || !b->block || !out)
        return FSI_ERR_ARGUMENT;
    memcpy(out, b->state, fsi_reduced_state_size(b));
    return FSI_OK;
}

FSI_API fsi_result fsi_reduced_restore(fsi_reduced *b, const void *in) {
    if (!b || !b->block || !in)
        return FSI_ERR_ARGUMENT;
    memcpy(b->state, in, fsi_reduced_state_size(b));
    b->half = 0;
    b->moved = 0;
    fsi__reduced_update(b);
    return FSI_OK;
}

/* ---- A copy on its own as a coupled solid. */
/* Between v [6 + modes] and the state. */
static void fsi__reduced_exchange(fsi_reduced *b, fsi_real *v, int take) {
    size_t n = (size_t)b->model->modes;
    if (take) {
        fsi_mat3 R = fsi__reduced_matrix(b, 0), I = fsi__reduced_matrix(b, 1);
        if (b->fixed)
            return;
        I = fsi_mat3_rotate(&R, &I);
        fsi_vec_store(b->p, fsi_vec_scale(fsi_vec_load(v), b->model->mass));
        fsi_vec_store(b->L, fsi_mat3_mul_vec(&I, fsi_vec_load(v + 3)));
        fsi_copy(n, v + 6, b->dq);
    } else {
        fsi_vec3 lin;
        fsi_vec3 ang;
        fsi__reduced_spin(b, &lin, &ang, NULL);
        fsi_vec_store(v, lin);
        fsi_vec_store(v + 3, ang);
        fsi_copy(n, b->dq, v + 6);
    }
}

/* place of a surface vertex */
static void fsi__reduced_at(const void *user, int vertex, fsi_real *x) {
    const fsi_reduced *b = (const fsi_reduced *)user;
    fsi_vec_store(x, fsi_reduced_point(b, b->model->surface[vertex]));
}

/* Row of J: the point's own arm, the element's vertices for the modes. */
static void fsi__reduced_element_row(const fsi_reduced *b, const int32_t *corner, int first,
                                     const fsi_real *weight, fsi_vec3 point, fsi_vec3 dir,
                                     fsi_real *row) {
    int32_t vertex[3];
    for (int a = 0; a < b->model->dim; a++)
        vertex[a] = b->model->surface[corner[a] - first];
    fsi__reduced_apply(b, point, b->model->dim, vertex, weight, dir, 0, row, row + 3, row + 6);
}

static void fsi__reduced_door_row(const fsi_coupled *self, int element, const fsi_real *weight,
                                  fsi_vec3 point, fsi_vec3 dir, fsi_real *row) {
    const fsi_reduced *b = (const fsi_reduced *)self->user;
    memset(row, 0, (size_t)self->dof * sizeof *row);
    fsi__reduced_element_row(b, b->model->index + b->model->dim * element, 0, weight, point, dir,
                             row);
}

static void fsi__reduced_door_mass(const fsi_coupled *self, fsi_real *mass, fsi_real *inverse) {
    const fsi_reduced *b = (const fsi_reduced *)self->user;
    fsi_reduced_mass(b, b->dt, mass, inverse);
}

FSI_API fsi_result fsi_reduced_couple(fsi_reduced *b, fsi_coupled *out) {
    fsi_real most = 0;
    if (!b || !b->block || !(b->dt > 0))
        return FSI_ERR_STATE;
    const fsi_reduced_model *m = b->model;
    if (!out || 6 + m->modes > FSI__ROW_MOST)
        return FSI_ERR_ARGUMENT;
    /* how far S q takes the surface at most */
    for (int i = 0; i < m->surface_count && m->modes; i++) {
        fsi_vec3 d = fsi_vec_sub(fsi__reduced_lever(b, m->surface[i]),
                                 fsi_vec_load(m->x0 + 3 * m->surface[i]));
        most = fsi__max(most, fsi_vec_dot(d, d));
    }
    fsi__reduced_exchange(b, b->v, 0);
    memset(out, 0, sizeof *out);
    out->surface.dim = m->dim;
    out->surface.closed = 1;
    out->surface.vertex_count = m->surface_count;
    out->surface.element_count = m->element_count;
    out->surface.index = m->index;
    out->surface.place_fn = fsi__reduced_at;
    out->surface.user = b;
    out->surface.rest = &m->tree;
    out->surface.R = b->cache;
    out->surface.T = b->T;
    out->surface.off = fsi__sqrt(most);
    out->dof = 6 + m->modes;
    out->v = b->v;
    out->mass_fn = fsi__reduced_door_mass;
    out->row_fn = fsi__reduced_door_row;
    out->user = b;
    return FSI_OK;
}

FSI_API fsi_result fsi_reduced_take(fsi_reduced *b) {
    if (!b || !b->block)
        return FSI_ERR_STATE;
    if (!fsi_all_finite(6 + (size_t)b->model->modes, b->v))
        return FSI_ERR_NUMERIC;
    fsi__reduced_exchange(b, b->v, 1);
    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>reduced group */
enum {
    FSI__REDUCED_PARTS = 4
}; /* bodies behind one skin vertex at most */

static void fsi__group_layout(fsi_reduced_group *g, fsi_arena *a) {
    size_t r = sizeof(fsi_real), n = (size_t)g->dof, j = 3 * (size_t)g->joint_count,
           v = (size_t)g->vertex_count, k = (size_t)g->skin.terms * (size_t)g->skin.vertex_count;
    /* one body without skin shares what its model has */
    int several = g->body_count > 1, own = several || g->skin.terms;
    g->body = (fsi_reduced **)fsi_arena_take(a, (size_t)g->body_count, sizeof *g->body);
    g->joint = (fsi_reduced_joint *)fsi_arena_take(a, (size_t)g->joint_count, sizeof *g->joint);
    g->x = (fsi_real *)fsi_arena_take(a, 3 * v, r);
    g->velocity = own || g->dof > FSI__ROW_MOST ? (fsi_real *)fsi_arena_take(a, 3 * v, r) : NULL;
    /* [dim * elements] */
    g->index =
        (int32_t *)fsi_arena_take(a, own ? 3 * (size_t)g->element_count : 0, sizeof(int32_t));
    g->owner = (int32_t *)fsi_arena_take(a, (size_t)g->skin.vertex_count + (size_t)g->body_count,
                                         sizeof(int32_t));
    g->first = g->owner ? g->owner + g->skin.vertex_count : NULL;
    g->v = (fsi_real *)fsi_arena_take(a, n, r);
    g->impulse = (fsi_real *)fsi_arena_take(a, n, r);
    g->mass = (fsi_real *)fsi_arena_take(a, n * n, r);
    g->inverse = (fsi_real *)fsi_arena_take(a, n * n, r);
    g->A = (fsi_real *)fsi_arena_take(a, j * n, r);
    g->AK = (fsi_real *)fsi_arena_take(a, j * n, r);
    g->LA = (fsi_real *)fsi_arena_take(a, j * j + 2 * j, r);
    g->scratch = (fsi_real *)fsi_arena_take(a, several ? n * n : 0, r);
    g->pose = (fsi_real *)fsi_arena_take(a, j ? n + (size_t)g->body_count : 0, r);
    g->skin_body = (int32_t *)fsi_arena_take(a, 2 * k, sizeof(int32_t));
    g->skin_weight = (fsi_real *)fsi_arena_take(a, k, r);
}

static int fsi__group_check(fsi_reduced_group *g, fsi_reduced **body,
                            const fsi_reduced_joint *joint, const fsi_reduced_skin *skin) {
    for (int i = 0; i < g->body_count; i++) {
        if (!body[i] || !body[i]->block || body[i]->model->dim != body[0]->model->dim)
            return 0;
        g->dof += 6 + body[i]->model->modes;
        if (!skin) {
            g->vertex_count += body[i]->model->surface_count;
            g->element_count += body[i]->model->element_count;
        }
    }
    for (int i = 0; i < g->joint_count; i++)
        for (int s = 0; s < 2; s++)
            if (joint[i].body[s] < 0 || joint[i].body[s] >= g->body_count
                || joint[i].body[0] == joint[i].body[1] || joint[i].vertex[s] < 0
                || joint[i].vertex[s] >= body[joint[i].body[s]]->model->vertex_count)
                return 0;
    if (!skin)
        return 1;
    if (skin->terms < 1 || skin->terms > 16 || skin->vertex_count < 1 || skin->element_count < 1
        || !skin->index || !skin->body || !skin->vertex || !skin->weight)
        return 0;
    for (int i = 0; i < body[0]->model->dim * skin->element_count; i++)
        if (skin->index[i] < 0 || skin->index[i] >= skin->vertex_count)
            return 0;
    for (int i = 0; i < skin->terms * skin->vertex_count; i++) {
        int t = i - i % skin->terms, other = 0, k;
        if (skin->body[i] < 0 || skin->body[i] >= g->body_count || skin->vertex[i] < 0
            || !fsi__finite(skin->weight[i])
            || skin->vertex[i] >= body[skin->body[i]]->model->vertex_count)
            return 0;
        for (; t < i; t++) { /* bodies met before this one, each once */
            for (k = i - i % skin->terms; k < t && skin->body[k] != skin->body[t]; k++) {
            }
            if (k == t && skin->body[t] != skin->body[i])
                other++;
        }
        if (other >= FSI__REDUCED_PARTS)
            return 0;
    }
    g->skin = *skin;
    g->vertex_count = skin->vertex_count;
    g->element_count = skin->element_count;
    return 1;
}

/* The body that carries most of each skin vertex. */
static void fsi__group_owners(fsi_reduced_group *g, const fsi_reduced_skin *skin) {
    for (int i = 0; i < skin->vertex_count; i++) {
        fsi_real most = -1;
        for (int k = skin->terms * i; k < skin->terms * (i + 1); k++) {
            fsi_real share = 0;
            for (int t = skin->terms * i; t < skin->terms * (i + 1); t++)
                share += skin->body[t] == skin->body[k] ? skin->weight[t] : 0;
            if (share > most)
                most = share, g->owner[i] = skin->body[k];
        }
    }
}

FSI_API fsi_result fsi_reduced_group_init(fsi_reduced_group *out, fsi_reduced **body,
                                          int body_count, const fsi_reduced_joint *joint,
                                          int joint_count, const fsi_reduced_skin *skin,
                                          const fsi_allocator *allocator) {
    int vertex = 0, element = 0, dof = 0;
    if (!out || !body || body_count < 1 || joint_count < 0 || (joint_count && !joint)
        || !fsi_allocator_valid(allocator))
        return FSI_ERR_ARGUMENT;
    fsi_reduced_group g;
    memset(&g, 0, sizeof g);
    g.body_count = body_count;
    g.joint_count = joint_count;
    if (!fsi__group_check(&g, body, joint, skin))
        return FSI_ERR_ARGUMENT;
    fsi_arena arena;
    memset(&arena, 0, sizeof arena);
    fsi__group_layout(&g, &arena);
    fsi_result r = fsi__arena_block(&arena, allocator, &g.block, &g.size);
    if (r != FSI_OK)
        return r;
    fsi__group_layout(&g, &arena);
    if (allocator)
        g.allocator = *allocator;
    if (joint_count)
        memcpy(g.joint, joint, (size_t)joint_count * sizeof *joint);
    for (int i = 0; i < body_count; i++) {
        const fsi_reduced_model *m = body[i]->model;
        g.body[i] = body[i];
        g.first[i] = dof;
        dof += 6 + m->modes;
        if (!skin && body_count == 1)
            g.index = m->index;
        else
            for (int k = 0; !skin && k < m->dim * m->element_count; k++)
                g.index[m->dim * element + k] = m->index[k] + vertex;
        vertex += m->surface_count;
        element += m->element_count;
    }
    if (skin) {
        size_t n = (size_t)skin->terms * (size_t)skin->vertex_count;
        memcpy(g.index, skin->index,
               (size_t)body[0]->model->dim * (size_t)skin->element_count * sizeof(int32_t));
        memcpy(g.skin_body, skin->body, n * sizeof(int32_t));
        memcpy(g.skin_body + n, skin->vertex, n * sizeof(int32_t));
        memcpy(g.skin_weight, skin->weight, n * sizeof(fsi_real));
        fsi__group_owners(&g, skin);
        g.skin.index = g.index;
        g.skin.body = g.skin_body;
        g.skin.vertex = g.skin_body + n;
        g.skin.weight = g.skin_weight;
    }
    *out = g;
    return FSI_OK;
}

FSI_API void fsi_reduced_group_free(fsi_reduced_group *g) {
    if (!g)
        return;
    fsi_free(&g->allocator, g->block, g->size);
    memset(g, 0, sizeof *g);
}

FSI_API fsi_surface fsi_reduced_group_surface(fsi_reduced_group *g) {
    fsi_surface s;
    int vertex = 0;
    memset(&s, 0, sizeof s);
    if (!g || !g->block)
        return s;
    for (int i = 0; i < g->body_count && !g->skin.terms; i++)
        for (int k = 0; k < g->body[i]->model->surface_count; k++, vertex++) {
            fsi_vec_store(g->x + 3 * vertex,
                          fsi_reduced_point(g->body[i], g->body[i]->model->surface[k]));
            if (g->velocity)
                fsi_vec_store(g->velocity + 3 * vertex,
                              fsi_reduced_velocity(g->body[i], g->body[i]->model->surface[k]));
        }
    for (int i = 0; i < g->skin.vertex_count; i++) {
        fsi_vec3 x = fsi_vec(0, 0, 0), v = x;
        for (int t = g->skin.terms * i; t < g->skin.terms * (i + 1); t++) {
            const fsi_reduced *b = g->body[g->skin.body[t]];
            x = fsi_vec_mad(x, fsi_reduced_point(b, g->skin.vertex[t]), g->skin.weight[t]);
            v = fsi_vec_mad(v, fsi_reduced_velocity(b, g->skin.vertex[t]), g->skin.weight[t]);
        }
        fsi_vec_store(g->x + 3 * i, x);
        fsi_vec_store(g->velocity + 3 * i, v);
    }
    s.dim = g->body[0]->model->dim;
    s.closed = 1;
    s.vertex_count = g->vertex_count;
    s.element_count = g->element_count;
    s.x = g->x;
    s.v = g->velocity;
    s.index = g->index;
    return s;
}

/* Row of J at a point of a surface element: the element's vertices, or through the skin's weights
   the particles behind them. The arms are those of the point (each particle's is moved by what the
   point is off the surface), so torques are exact. */
static void fsi__group_row(const fsi_coupled *self, int element, const fsi_real *weight,
                           fsi_vec3 point, fsi_vec3 dir, fsi_real *row) {
    const fsi_reduced_group *g = (const fsi_reduced_group *)self->user;
    int dim = g->body[0]->model->dim;
    const int32_t *t = g->index + dim * element;
    memset(row, 0, (size_t)g->dof * sizeof *row);
    int k;
    if (!g->skin.terms) {
        int body = 0;
        for (k = 0; t[0] - k >= g->body[body]->model->surface_count; body++)
            k += g->body[body]->model->surface_count;
        fsi__reduced_element_row(g->body[body], t, k, weight, point, dir, row + g->first[body]);
        return;
    }
    /* from the skin to the face's centre */
    for (int a = 0; a < dim; a++)
        point = fsi_vec_mad(point, fsi_vec_load(g->x + 3 * t[a]), -weight[a]);
    for (int a = 0; a < dim; a++)
        for (k = g->skin.terms * t[a]; k < g->skin.terms * (t[a] + 1); k++) {
            const fsi_reduced *b = g->body[g->skin.body[k]];
            fsi_real *r = row + g->first[g->skin.body[k]], one = 1;
            fsi__reduced_apply(b, fsi_vec_add(fsi_reduced_point(b, g->skin.vertex[k]), point), 1,
                               g->skin.vertex + k, &one,
                               fsi_vec_scale(dir, weight[a] * g->skin.weight[k]), 0, r, r + 3,
                               r + 6);
        }
}

/* What the joined points are apart, [3 joints]; the longest of them, m. */
static fsi_real fsi__group_gaps(const fsi_reduced_group *g, fsi_real *gap) {
    fsi_real most = 0;
    for (int i = 0; i < g->joint_count; i++) {
        fsi_vec3 x[2];
        for (int k = 0; k < 2; k++)
            x[k] = fsi_reduced_point(g->body[g->joint[i].body[k]], g->joint[i].vertex[k]);
        fsi_vec_store(gap + 3 * i, fsi_vec_sub(x[0], x[1]));
        most = fsi__max(most, fsi__length(fsi_vec_load(gap + 3 * i)));
    }
    return most;
}

/* The part of a gap that one step may close: torn apart, a quarter of a radius. */
static fsi_vec3 fsi__group_closes(const fsi_reduced_group *g, int joint, fsi_vec3 gap) {
    fsi_real far = FSI_R(0.25)
                   * fsi__min(g->body[g->joint[joint].body[0]]->model->radius,
                              g->body[g->joint[joint].body[1]]->model->radius);
    return fsi__length(gap) > far ? fsi_vec_scale(gap, far / fsi__length(gap)) : gap;
}

/* Joint impulses eliminated: K <- K - K A^T (A K A^T)^-1 A K, v <- v - K A^T (A K A^T)^-1 (A v +
 * gap / dt). A = J_0 - J_1. */
static fsi_result fsi__group_joints(fsi_reduced_group *g, fsi_real dt) {
    int n = g->dof, m = 3 * g->joint_count;
    fsi_real *rhs = g->LA + m * m, most = 0;
    memset(g->A, 0, (size_t)(m * n) * sizeof *g->A);
    g->joint_error = fsi__group_gaps(g, rhs);
    for (int i = 0; i < g->joint_count; i++) {
        for (int s = 0; s < 2; s++) {
            fsi_reduced *b = g->body[g->joint[i].body[s]];
            int32_t vertex = g->joint[i].vertex[s];
            fsi_real one = 1;
            for (int k = 0; k < 3; k++) {
                fsi_real *r = g->A + (3 * i + k) * n + g->first[g->joint[i].body[s]],
                         sign = s ? FSI_R(-1.0) : FSI_R(1.0);
                fsi__reduced_apply(b, fsi_reduced_point(b, vertex), 1, &vertex, &one,
                                   fsi_vec(k == 0 ? sign : 0, k == 1 ? sign : 0, k == 2 ? sign : 0),
                                   0, r, r + 3, r + 6);
            }
        }
        fsi_vec_store(rhs + 3 * i,
                      fsi_vec_scale(fsi__group_closes(g, i, fsi_vec_load(rhs + 3 * i)), 1 / dt));
    }
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++) {
            fsi_real c = 0;
            for (int k = 0; k < n; k++)
                c += g->A[i * n + k] * g->inverse[k * n + j];
            g->AK[i * n + j] = c;
        }
        for (int j = 0; j < n; j++)
            rhs[i] += g->A[i * n + j] * g->v[j];
    }
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < m; j++) {
            fsi_real c = 0;
            for (int k = 0; k < n; k++)
                c += g->AK[i * n + k] * g->A[j * n + k];
            g->LA[i * m + j] = c;
        }
        most = fsi__max(most, g->LA[i * m + i]);
    }
    /* joints may be redundant */
    for (int i = 0; i < m; i++)
        g->LA[i * m + i] += 64 * FSI_REAL_EPS * most;
    if (fsi_dense_cholesky(m, g->LA) != FSI_OK)
        return FSI_ERR_SINGULAR;
    fsi_dense_cholesky_solve(m, g->LA, rhs);
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++)
            g->v[j] -= g->AK[i * n + j] * rhs[i];
    /* column j of (A K A^T)^-1 A K, one at a time */
    for (int j = 0; j < n; j++) {
        for (int i = 0; i < m; i++)
            rhs[i] = g->AK[i * n + j];
        fsi_dense_cholesky_solve(m, g->LA, rhs);
        for (int k = 0; k < n; k++) {
            fsi_real c = 0;
            for (int i = 0; i < m; i++)
                c += g->AK[i * n + k] * rhs[i];
            g->inverse[k * n + j] -= c;
        }
    }
    for (int j = 0; j < n; j++)
        for (int k = 0; k < j; k++)
            g->inverse[k * n + j] = g->inverse[j * n + k] =
                (g->inverse[k * n + j] + g->inverse[j * n + k]) / 2;
    return FSI_OK;
}

/* Body k's block between g->v and its state. */
static void fsi__group_exchange(fsi_reduced_group *g, int k, int take) {
    fsi__reduced_exchange(g->body[k], g->v + g->first[k], take);
}

FSI_API fsi_result fsi_reduced_group_couple(fsi_reduced_group *g, fsi_real dt, fsi_coupled *out) {
    fsi_result r = FSI_OK;
    if (!g || !g->block)
        return FSI_ERR_STATE;
    if (!fsi__finite(dt) || !(dt > 0))
        return FSI_ERR_ARGUMENT;
    int n = g->dof;
    memset(g->mass, 0, (size_t)(n * n) * sizeof *g->mass);
    memset(g->inverse, 0, (size_t)(n * n) * sizeof *g->inverse);
    for (int k = 0; k < g->body_count; k++) {
        int first = g->first[k], m = 6 + g->body[k]->model->modes;
        fsi__group_exchange(g, k, 0);
        for (int which = 0; which < 2; which++) {
            fsi_real *to = which ? g->inverse : g->mass, *from = m == n ? to : g->scratch;
            fsi_reduced_mass(g->body[k], dt, which ? NULL : from, which ? from : NULL);
            for (int i = 0; i < m && m < n; i++)
                memcpy(to + (first + i) * n + first, from + i * m, (size_t)m * sizeof *to);
        }
    }
    if (g->joint_count)
        r = fsi__group_joints(g, dt);
    if (r != FSI_OK)
        return r;
    fsi_fill((size_t)n, 0, g->impulse);
    if (!out)
        return FSI_OK;
    memset(out, 0, sizeof *out);
    out->surface = fsi_reduced_group_surface(g);
    out->dof = n;
    out->v = g->v;
    out->impulse = g->impulse;
    out->mass = g->mass;
    out->inverse_mass = g->inverse;
    out->row_fn = fsi__group_row;
    out->user = g;
    return FSI_OK;
}

FSI_API fsi_result fsi_reduced_group_take(fsi_reduced_group *g) {
    if (!g || !g->block)
        return FSI_ERR_STATE;
    if (!fsi_all_finite((size_t)g->dof, g->v))
        return FSI_ERR_NUMERIC;
    for (int k = 0; k < g->body_count; k++)
        fsi__group_exchange(g, k, 1);
    return FSI_OK;
}

/* Place, rotation and q of all bodies to or from g->pose. */
static void fsi__group_pose(fsi_reduced_group *g, int back) {
    fsi_real *p = g->pose;
    for (int k = 0; k < g->body_count; k++) {
        fsi_reduced *b = g->body[k];
        size_t n = (size_t)b->model->modes;
        /* T and Q lie side by side */
        memcpy(back ? b->T : p, back ? p : b->T, 7 * sizeof *p);
        memcpy(back ? b->q : p + 7, back ? p + 7 : b->q, n * sizeof *p);
        if (back)
            fsi__reduced_update(b);
        p += 7 + n;
    }
}

/* Fixed-point iteration with the matrices of the last fsi_reduced_group_couple: each pass takes the
 * gap down by about the angle turned in a step. */
FSI_API fsi_result fsi_reduced_group_move(fsi_reduced_group *g, fsi_real dt) {
    fsi_real least = 0;
    fsi_result r = FSI_OK;
    if (!g || !g->block)
        return FSI_ERR_STATE;
    int m = 3 * g->joint_count;
    int n = g->dof;
    for (int k = 0; !m && k < g->body_count && r == FSI_OK; k++)
        r = fsi_reduced_move(g->body[k], dt);
    if (!m)
        return r;
    fsi_real *gap = g->LA + m * m;
    fsi_real *left = gap + m;
    fsi__group_pose(g, 0);
    fsi__group_gaps(g, left);
    for (int i = 0; i < g->joint_count; i++) { /* what is to be left of them */
        fsi_vec3 all = fsi_vec_load(left + 3 * i);
        fsi_vec_store(left + 3 * i, fsi_vec_sub(all, fsi__group_closes(g, i, all)));
    }
    for (int k = 0; k < g->body_count; k++) {
        fsi__group_exchange(g, k, 0);
        least = fsi__max(
            least, 64 * FSI_REAL_EPS
                       * (g->body[k]->model->radius + fsi__length(fsi_vec_load(g->body[k]->T))));
    }
    for (int pass = 0;; pass++) {
        fsi_real moved = g->body[0]->moved;
        for (int k = 0; k < g->body_count && r == FSI_OK; k++)
            r = fsi_reduced_move(g->body[k], dt);
        if (r != FSI_OK)
            return r;
        fsi__group_gaps(g, gap);
        fsi_axpy((size_t)m, -1, left, gap);
        if (pass == 15 || moved > 0 || !(fsi_max_abs((size_t)m, gap) > least))
            return FSI_OK;
        fsi_dense_cholesky_solve(m, g->LA, gap);
        for (int j = 0; j < n; j++)
            for (int i = 0; i < m; i++)
                g->v[j] -= g->AK[i * n + j] * gap[i] / dt;
        fsi__group_pose(g, 1);
        for (int k = 0; k < g->body_count; k++)
            fsi__group_exchange(g, k, 1);
    }
}

/* ------------------------------------------------------------------------------------------------
 * >>reduced contact */
/* Signed distance of world point p to the deformed body: the displacement of the nearest surface
 * vertex is taken back, then the rest field is read. */
static fsi_real fsi__reduced_distance(const fsi_reduced *b, fsi_vec3 p, fsi_vec3 *normal,
                                      int *vertex) {
    const fsi_reduced_model *m = b->model;
    fsi_mat3 R = fsi__reduced_matrix(b, 0);
    fsi_vec3 local = fsi_mat3_tmul_vec(&R, fsi_vec_sub(p, fsi_vec_load(b->T))), x = local;
    fsi_real f[8], c[3];
    int nearest = 0;
    for (int pass = 0; pass < 2; pass++) {
        c[0] = (x.x - m->origin.x) / m->h;
        c[1] = (x.y - m->origin.y) / m->h;
        c[2] = (x.z - m->origin.z) / m->h;
        if (!(c[0] >= 0 && c[1] >= 0 && c[2] >= 0 && c[0] < (fsi_real)(m->nx - 1)
              && c[1] < (fsi_real)(m->ny - 1) && c[2] < (fsi_real)(m->nz - 1)))
            return FSI_REAL_MAX;
        nearest = m->near_vertex[fsi__reduced_node(
            m, (int)(c[0] + FSI_R(0.5)), (int)(c[1] + FSI_R(0.5)), (int)(c[2] + FSI_R(0.5)))];
        x = fsi_vec_sub(
            local, fsi_vec_sub(fsi__reduced_lever(b, nearest), fsi_vec_load(m->x0 + 3 * nearest)));
    }
    c[0] = fsi__clamp((x.x - m->origin.x) / m->h, 0, (fsi_real)(m->nx - 1) - FSI_R(1e-3));
    c[1] = fsi__clamp((x.y - m->origin.y) / m->h, 0, (fsi_real)(m->ny - 1) - FSI_R(1e-3));
    c[2] = fsi__clamp((x.z - m->origin.z) / m->h, 0, (fsi_real)(m->nz - 1) - FSI_R(1e-3));
    int i = (int)c[0];
    int j = (int)c[1];
    int k = (int)c[2];
    fsi_real u = c[0] - (fsi_real)i;
    fsi_real v = c[1] - (fsi_real)j;
    fsi_real w = c[2] - (fsi_real)k;
    for (int pass = 0; pass < 8; pass++)
        f[pass] =
            m->phi[fsi__reduced_node(m, i + (pass & 1), j + (pass >> 1 & 1), k + (pass >> 2))];
    fsi_vec3 g;
    g.x = (1 - w) * ((1 - v) * (f[1] - f[0]) + v * (f[3] - f[2]))
          + w * ((1 - v) * (f[5] - f[4]) + v * (f[7] - f[6]));
    g.y = (1 - w) * ((1 - u) * (f[2] - f[0]) + u * (f[3] - f[1]))
          + w * ((1 - u) * (f[6] - f[4]) + u * (f[7] - f[5]));
    g.z = (1 - v) * ((1 - u) * (f[4] - f[0]) + u * (f[5] - f[1]))
          + v * ((1 - u) * (f[6] - f[2]) + u * (f[7] - f[3]));
    *normal = fsi_mat3_mul_vec(&R, fsi__unit(g));
    *vertex = nearest;
    return (1 - w) * ((1 - v) * ((1 - u) * f[0] + u * f[1]) + v * ((1 - u) * f[2] + u * f[3]))
           + w * ((1 - v) * ((1 - u) * f[4] + u * f[5]) + v * ((1 - u) * f[6] + u * f[7]));
}

typedef struct fsi__reduced_contact {
    int32_t body[2], vertex[2]; /* second body -1 - number of the obstacle */
    /* group + 1 whose skin vertex is vertex[0]; 0 = a vertex of body[0] */
    int32_t skin;
    /* bodies that take part: those behind the first point, then body[1] */
    int32_t parts, part[FSI__REDUCED_PARTS + 1];
    fsi_real share[FSI__REDUCED_PARTS + 1]; /* of the impulse; negative for body[1] */
    /* dir[0] normal, out of the second; velocity of the obstacle */
    fsi_vec3 at, dir[3], velocity;
    /* weight: 1 / (row . row) */
    fsi_real gap, target, friction, restitution, impulse[3], weight[3];
    /* impulse that opens the overlap; normal impulse of the call before, 0 = new */
    fsi_real open, before;
} fsi__reduced_contact;

/* body, vertex, other; N s, on body */
typedef struct fsi__reduced_past {
    int32_t name[3];
    fsi_vec3 impulse;
} fsi__reduced_past;

/* keeps the content */
static fsi_result fsi__reduced_grow(const fsi_allocator *a, void **p, size_t *room, size_t need,
                                    size_t item) {
    size_t next = need + need / 2 + 64;
    if (need <= *room)
        return FSI_OK;
    size_t bytes;
    if (!fsi_size_mul(next, item, &bytes))
        return FSI_ERR_SIZE;
    void *q = fsi_alloc(a, bytes);
    if (!q)
        return FSI_ERR_MEMORY;
    if (*p)
        memcpy(q, *p, *room * item);
    fsi_free(a, *p, *room * item);
    *p = q;
    *room = next;
    return FSI_OK;
}

static fsi_result fsi__reduced_contact_room(fsi_reduced_contacts *c, int count) {
    void *p = c->contact;
    size_t room = (size_t)c->room;
    fsi_result r = fsi__reduced_grow(&c->allocator, &p, &room, (size_t)count, sizeof *c->contact);
    c->contact = (fsi__reduced_contact *)p;
    c->room = (int)room;
    return r;
}

static fsi_result fsi__reduced_add(fsi_reduced_contacts *c, const fsi__reduced_contact *from) {
    fsi_result r = fsi__reduced_contact_room(c, c->count + 1);
    if (r != FSI_OK)
        return r;
    fsi__reduced_contact *q = &c->contact[c->count++];
    *q = *from;
    q->dir[1] = fsi__unit(fsi_vec_cross(
        q->dir[0], fsi__abs(q->dir[0].x) < FSI_R(0.7) ? fsi_vec(1, 0, 0) : fsi_vec(0, 1, 0)));
    q->dir[2] = fsi_vec_cross(q->dir[0], q->dir[1]);
    c->depth = fsi__max(c->depth, -q->gap);
    return FSI_OK;
}

/* Points first .. last - 1 of body a against body b's field, or against an obstacle (b < 0).
 * bound[4]: centre and radius of each body. */
/* places; vertices of body or skin; where each body's begin */
typedef struct fsi__reduced_points {
    fsi_real *x;
    int32_t *name, *first;
} fsi__reduced_points;

static fsi_result fsi__reduced_narrow(fsi_reduced_contacts *c, fsi_reduced **body, int a, int b,
                                      const fsi_obstacle *o, const fsi__reduced_points *p,
                                      const fsi_real *bound, fsi_real dt) {
    fsi__reduced_contact q;
    const fsi_reduced_model *m = body[a]->model;
    fsi_result r = FSI_OK;
    int nearest = 0;
    memset(&q, 0, sizeof q);
    q.body[0] = a;
    q.body[1] = b; /* b < 0: obstacle */
    q.skin = c->where[a] && c->group[c->where[a] - 1]->skin.terms ? c->where[a] : 0;
    q.friction = o ? o->friction : c->friction;
    q.restitution = o ? o->restitution : c->restitution;
    for (int i = p->first[a]; i < p->first[a + 1] && r == FSI_OK; i++) {
        fsi_vec3 x = fsi_vec_load(p->x + 3 * i), d;
        if (o)
            q.gap = o->distance_fn(x, &q.dir[0], &q.velocity, o->user);
        else {
            d = fsi_vec_sub(x, fsi_vec_load(bound + 4 * b));
            if (fsi_vec_dot(d, d) > bound[4 * b + 3] * bound[4 * b + 3])
                continue;
            q.gap = fsi__reduced_distance(body[b], x, &q.dir[0], &nearest);
        }
        if (!(q.gap < bound[4 * a + 3]))
            continue;
        if (!fsi__finite_vec(q.dir[0]))
            return FSI_ERR_CALLBACK;
        q.vertex[0] = p->name[i];
        q.vertex[1] = nearest;
        d = q.skin ? fsi_vec_load(c->group[q.skin - 1]->velocity + 3 * q.vertex[0])
                   : fsi_reduced_velocity(body[a], q.vertex[0]);
        d = fsi_vec_sub(d, o ? q.velocity : fsi_reduced_velocity(body[b], nearest));
        /* does not touch within this step */
        if (q.gap + dt * fsi_vec_dot(d, q.dir[0]) > m->h / 4)
            continue;
        q.at = x;
        r = fsi__reduced_add(c, &q);
    }
    return r;
}

/* p and L of unit-mass coordinates, L = C u */
static void fsi__reduced_momentum(fsi_reduced *b, const fsi_real *u, const fsi_real *C) {
    for (int i = 0; i < 3; i++)
        b->p[i] = u[i] * fsi__sqrt(b->model->mass);
    b->L[0] = C[0] * u[3];
    b->L[1] = C[3] * u[3] + C[4] * u[4];
    b->L[2] = C[6] * u[3] + C[7] * u[4] + C[8] * u[5];
}

/* Velocity of every body in coordinates with unit mass: u = (sqrt(m) v, C^T w, sqrt(M^) q'), world
 * inertia I = C C^T. fold -1: back to the state. */
static void fsi__reduced_unit(fsi_reduced *b, fsi_real dt, fsi_real *u, fsi_real *C, int back) {
    const fsi_reduced_model *m = b->model;
    fsi_mat3 R = fsi__reduced_matrix(b, 0), I = fsi__reduced_matrix(b, 1);
    if (!back) {
        I = fsi_mat3_rotate(&R, &I);
        memcpy(C, I.m, sizeof I.m);
        fsi_dense_cholesky(3, C);
        fsi_vec3 v;
        fsi_vec3 w;
        fsi__reduced_spin(b, &v, &w, NULL);
        fsi_vec_store(u, fsi_vec_scale(v, fsi__sqrt(m->mass)));
        u[3] = C[0] * w.x + C[3] * w.y + C[6] * w.z;
        u[4] = C[4] * w.y + C[7] * w.z;
        u[5] = C[8] * w.z;
        for (int k = 0; k < m->modes; k++)
            u[6 + k] = b->dq[k] * fsi__sqrt(fsi__reduced_stiff(m, k, dt));
        return;
    }
    if (b->fixed)
        return;
    fsi__reduced_momentum(b, u, C);
    for (int k = 0; k < m->modes; k++)
        b->dq[k] = u[6 + k] / fsi__sqrt(fsi__reduced_stiff(m, k, dt));
}

/* Row of one body in unit-mass coordinates. */
static void fsi__reduced_unit_row(const fsi_reduced *b, fsi_vec3 at, int count,
                                  const int32_t *vertex, const fsi_real *weight, fsi_vec3 dir,
                                  fsi_real dt, const fsi_real *C, fsi_real *row) {
    fsi_real s = 1 / fsi__sqrt(b->model->mass);
    fsi_reduced_row(b, at, count, vertex, weight, dir, row);
    if (b->fixed)
        s = 0;
    for (int k = 0; k < 3; k++)
        row[k] *= s;
    row[3] /= C[0]; /* C^-1 of the angular part */
    row[4] = (row[4] - C[3] * row[3]) / C[4];
    row[5] = (row[5] - C[6] * row[3] - C[7] * row[4]) / C[8];
    for (int k = 0; k < b->model->modes; k++)
        row[6 + k] /= fsi__sqrt(fsi__reduced_stiff(b->model, k, dt));
    for (int k = 3; b->fixed && k < 6 + b->model->modes; k++)
        row[k] = 0;
}

static double fsi__reduced_dot(const fsi_real *a, const fsi_real *b, int n) {
    fsi_real s = 0;
    for (int k = 0; k < n; k++)
        s += a[k] * b[k];
    return (double)s;
}

/* Rows of contact i along direction d, one per part; two parts where no skin is about. */
static fsi_real *fsi__reduced_row_of(const fsi_reduced_contacts *c, int i, int d, int stride) {
    return c->row + (size_t)(3 * i + d) * (size_t)c->parts * (size_t)stride;
}

/* One sweep of sequential impulses: normal, then friction inside the cone. */
static void fsi__reduced_sweep(fsi_reduced_contacts *c, const int32_t *dof, int stride) {
    for (int i = 0; i < c->count; i++) {
        fsi__reduced_contact *q = &c->contact[i];
        fsi_real lambda[3];
        for (int d = 0; d < 3; d++) {
            fsi_real *row = fsi__reduced_row_of(c, i, d, stride),
                     vel = -fsi_vec_dot(q->velocity, q->dir[d]);
            for (int s = 0; s < q->parts; s++)
                vel += (fsi_real)fsi__reduced_dot(row + s * stride, c->u + dof[q->part[s]],
                                                  dof[q->part[s] + 1] - dof[q->part[s]]);
            lambda[d] = q->impulse[d] + q->weight[d] * ((d ? 0 : q->target) - vel);
            if (d == 0)
                lambda[0] = fsi__max(lambda[0], 0);
            else {
                fsi_real most = q->friction * q->impulse[0];
                lambda[d] = fsi__clamp(lambda[d], -most, most);
                if (d == 2 && lambda[2] * lambda[2] + q->impulse[1] * q->impulse[1] > most * most) {
                    fsi_real left =
                        fsi__sqrt(fsi__max(most * most - q->impulse[1] * q->impulse[1], 0));
                    lambda[2] = fsi__clamp(lambda[2], -left, left);
                }
            }
            fsi_real change = lambda[d] - q->impulse[d];
            q->impulse[d] = lambda[d];
            for (int s = 0; s < q->parts; s++) {
                fsi_real *u = c->u + dof[q->part[s]];
                int n = dof[q->part[s] + 1] - dof[q->part[s]];
                for (int k = 0; k < n; k++)
                    u[k] += change * row[s * stride + k];
            }
        }
    }
}

static int fsi__reduced_sweep_order(const void *pa, const void *pb) {
    const fsi_real *a = (const fsi_real *)pa, *b = (const fsi_real *)pb;
    return a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : a[1] < b[1] ? -1 : a[1] > b[1];
}

/* Candidates: samples in world space, spheres around them, sweep along x. */
static fsi_result fsi__reduced_broad(fsi_reduced_contacts *c, fsi_reduced **body, int n,
                                     const fsi_obstacle *o, int obstacles, fsi_real dt,
                                     fsi_real *bound, fsi_real *order,
                                     const fsi__reduced_points *p) {
    fsi_result r = FSI_OK;
    for (int i = 0; i < n; i++) {
        const fsi_reduced_model *m = body[i]->model;
        fsi_vec3 T = fsi_vec_load(body[i]->T);
        fsi_real apart = 0;
        for (int k = p->first[i]; k < p->first[i + 1]; k++)
            apart = fsi__max(apart, fsi__length(fsi_vec_sub(fsi_vec_load(p->x + 3 * k), T)));
        fsi_vec_store(bound + 4 * i, T);
        bound[4 * i + 3] = apart + m->h + dt * fsi__length(fsi_vec_load(body[i]->p)) / m->mass;
        order[2 * i] = T.x - bound[4 * i + 3];
        order[2 * i + 1] = (fsi_real)i;
    }
    qsort(order, (size_t)n, 2 * sizeof *order, fsi__reduced_sweep_order);
    for (int i = 0; i < n && r == FSI_OK; i++) {
        int a = (int)order[2 * i + 1];
        for (int k = 0; k < obstacles && r == FSI_OK && !body[a]->fixed; k++)
            r = fsi__reduced_narrow(c, body, a, -1 - k, o + k, p, bound, dt);
        for (int j = i + 1; j < n && r == FSI_OK && order[2 * j] < bound[4 * a] + bound[4 * a + 3];
             j++) {
            int b = (int)order[2 * j + 1];
            fsi_vec3 d = fsi_vec_sub(fsi_vec_load(bound + 4 * a), fsi_vec_load(bound + 4 * b));
            fsi_real reach = bound[4 * a + 3] + bound[4 * b + 3];
            if (fsi_vec_dot(d, d) > reach * reach || (body[a]->fixed && body[b]->fixed)
                || (c->where[a] && c->where[a] == c->where[b]))
                continue;
            r = fsi__reduced_narrow(c, body, a, b, NULL, p, bound, dt);
            if (r == FSI_OK)
                r = fsi__reduced_narrow(c, body, b, a, NULL, p, bound, dt);
        }
    }
    return r;
}

/* Numbers of a group's bodies in the list given: behind the groups of all n bodies. */
static const int32_t *fsi__reduced_numbers(const fsi_reduced_contacts *c, int n, int group) {
    const int32_t *at = c->where + n;
    while (group-- > 0)
        at += c->group[group]->body_count;
    return at;
}

/* Parts of contact i and their rows: the bodies behind its first point, then the one it touches. */
static void fsi__reduced_part_rows(fsi_reduced_contacts *c, fsi_reduced **body, int n, int i,
                                   int stride, fsi_real dt, const fsi_real *chol) {
    fsi__reduced_contact *q = &c->contact[i];
    const fsi_reduced_group *g = q->skin ? c->group[q->skin - 1] : NULL;
    const int32_t *number = g ? fsi__reduced_numbers(c, n, q->skin - 1) : NULL;
    int s, terms = g ? g->skin.terms : 1, from = g ? terms * q->vertex[0] : 0;
    q->parts = 0;
    for (int k = from; k < from + terms; k++) { /* each body once, with all its particles */
        int32_t vertex[16], count = 0, b = g ? number[g->skin.body[k]] : q->body[0];
        fsi_real weight[16], share = 0;
        fsi_vec3 at = fsi_vec(0, 0, 0);
        for (s = 0; s < q->parts && q->part[s] != b; s++) {
        }
        if (s < q->parts)
            continue;
        for (int t = k; t < from + terms; t++) {
            if (g && g->skin.body[t] != g->skin.body[k])
                continue;
            vertex[count] = g ? g->skin.vertex[t] : q->vertex[0];
            weight[count] = g ? g->skin.weight[t] : 1;
            if (g)
                at = fsi_vec_mad(at, fsi_reduced_point(body[b], vertex[count]), weight[count]);
            share += weight[count++];
        }
        if (!(fsi__abs(share) > 0))
            continue;
        for (int t = 0; t < count; t++)
            weight[t] /= share;
        q->part[q->parts] = b;
        q->share[q->parts] = share;
        for (int d = 0; d < 3; d++)
            fsi__reduced_unit_row(body[b], g ? fsi_vec_scale(at, 1 / share) : q->at, count, vertex,
                                  weight, fsi_vec_scale(q->dir[d], share), dt, chol + 9 * b,
                                  fsi__reduced_row_of(c, i, d, stride) + q->parts * stride);
        q->parts++;
    }
    if (q->body[1] >= 0) {
        fsi_real one = 1;
        q->part[q->parts] = q->body[1];
        q->share[q->parts] = -1;
        for (int d = 0; d < 3; d++)
            fsi__reduced_unit_row(body[q->body[1]], q->at, 1, q->vertex + 1, &one,
                                  fsi_vec_scale(q->dir[d], -1), dt, chol + 9 * q->body[1],
                                  fsi__reduced_row_of(c, i, d, stride) + q->parts * stride);
        q->parts++;
    }
}

/* Rows, weights and wanted normal velocities of all contacts. */
static fsi_result fsi__reduced_prepare(fsi_reduced_contacts *c, fsi_reduced **body, int n,
                                       const int32_t *dof, const fsi_real *chol, int stride,
                                       fsi_real dt) {
    void *p = c->row;
    fsi_result r = fsi__reduced_grow(&c->allocator, &p, &c->row_room,
                                     (size_t)c->count * 3 * (size_t)c->parts * (size_t)stride,
                                     sizeof(fsi_real));
    c->row = (fsi_real *)p;
    for (int i = 0; i < c->count && r == FSI_OK; i++) {
        fsi__reduced_contact *q = &c->contact[i];
        const fsi_reduced_model *m = body[q->body[0]]->model;
        fsi__reduced_part_rows(c, body, n, i, stride, dt, chol);
        for (int d = 0; d < 3; d++) {
            fsi_real *row = fsi__reduced_row_of(c, i, d, stride),
                     vel = -fsi_vec_dot(q->velocity, q->dir[d]);
            double k = 0;
            for (int s = 0; s < q->parts; s++) {
                int b = q->part[s], m_b = dof[b + 1] - dof[b];
                k += fsi__reduced_dot(row + s * stride, row + s * stride, m_b);
                vel += (fsi_real)fsi__reduced_dot(row + s * stride, c->u + dof[b], m_b);
            }
            q->weight[d] = k > 0 ? (fsi_real)(1 / k) : 0;
            if (d)
                continue;
            q->target = q->gap > 0 ? -q->gap / dt : 0;
            if (vel < -m->radius)
                q->target = fsi__max(q->target, -q->restitution * vel);
        }
    }
    return r;
}

/* A fifth of every overlap is opened by moving the bodies: the same impulses without friction on
   velocities of their own (c->u from zero), which move the bodies for dt and are forgotten.
   Momentum and modal velocity stay. */
static void fsi__reduced_open(fsi_reduced_contacts *c, fsi_reduced **body, int n,
                              const int32_t *dof, const fsi_real *chol, int stride, fsi_real dt) {
    fsi_real keep[6];
    int any = 0;
    fsi_fill((size_t)dof[n], 0, c->u);
    for (int i = 0; i < c->count; i++) {
        fsi__reduced_contact *q = &c->contact[i];
        q->target = fsi__min(fsi__max(-q->gap - c->slop, 0) * FSI_R(0.2) / dt,
                             body[q->body[0]]->model->radius);
        q->open = 0;
        any |= q->target > 0;
    }
    for (int pass = 0; any && pass < (c->iterations ? c->iterations : 20); pass++)
        for (int i = 0; i < c->count; i++) {
            fsi__reduced_contact *q = &c->contact[i];
            fsi_real vel = 0;
            if (q->gap > 0)
                continue;
            fsi_real *row = fsi__reduced_row_of(c, i, 0, stride);
            for (int s = 0; s < q->parts; s++)
                vel += (fsi_real)fsi__reduced_dot(row + s * stride, c->u + dof[q->part[s]],
                                                  dof[q->part[s] + 1] - dof[q->part[s]]);
            fsi_real next = fsi__max(q->open + q->weight[0] * (q->target - vel), 0);
            for (int s = 0; s < q->parts; s++)
                fsi_axpy((size_t)(dof[q->part[s] + 1] - dof[q->part[s]]), next - q->open,
                         row + s * stride, c->u + dof[q->part[s]]);
            q->open = next;
        }
    /* the move that follows crosses with it */
    for (int i = 0; i < n && any; i++)
        c->work -= fsi__reduced_next(body[i]);
    for (int i = 0; i < n && any; i++) {
        fsi_reduced *b = body[i];
        size_t modes = (size_t)b->model->modes;
        fsi_real *u = c->u + dof[i];
        if (b->fixed || !(fsi_max_abs(6 + modes, u) > 0))
            continue;
        memcpy(keep, b->p, sizeof keep); /* p and L lie side by side */
        for (int k = 0; k < (int)modes; k++) {
            fsi_real dq = b->dq[k];
            b->dq[k] = u[6 + k] / fsi__sqrt(fsi__reduced_stiff(b->model, k, dt));
            u[6 + k] = dq;
        }
        fsi__reduced_momentum(b, u, chol + 9 * i);
        fsi__reduced_advance(b, dt);
        b->moved -= dt;
        memcpy(b->p, keep, sizeof keep);
        fsi_copy(modes, u + 6, b->dq);
    }
    /* moving two bodies that pass each other apart turns them: m dx x v is taken from their spin */
    for (int i = 0; i < c->count && any; i++) {
        fsi__reduced_contact *q = &c->contact[i];
        fsi_vec3 turn = fsi_vec(0, 0, 0);
        if (q->gap > 0 || q->body[1] < 0 || body[q->body[0]]->fixed || body[q->body[1]]->fixed)
            continue;
        for (int s = 0; s < q->parts; s++)
            turn = fsi_vec_mad(turn, fsi_vec_load(body[q->part[s]]->p),
                               q->share[s] / body[q->part[s]]->model->mass);
        turn = fsi_vec_scale(fsi_vec_cross(q->dir[0], turn), -dt * q->open / 2);
        for (int s = 0; s < 2; s++)
            fsi_vec_store(body[q->body[s]]->L,
                          fsi_vec_add(fsi_vec_load(body[q->body[s]]->L), turn));
    }
    for (int i = 0; i < n && any; i++)
        c->work += fsi__reduced_next(body[i]);
}

/* Which group each body is in; how many points touch in all, or -1 when a group's body is not in
 * the list. Skins come up to date. */
static int fsi__reduced_gather(fsi_reduced_contacts *c, fsi_reduced **body, int n) {
    int32_t *at = c->where + n;
    int points = 0;
    c->parts = 2;
    memset(c->where, 0, (size_t)n * sizeof *c->where);
    int i;
    for (int j = 0; j < c->group_count; j++) {
        fsi_reduced_group *g = c->group[j];
        for (int k = 0; k < g->body_count; k++) {
            for (i = 0; i < n && body[i] != g->body[k]; i++) {
            }
            if (i == n || c->where[i])
                return -1;
            c->where[i] = j + 1;
            *at++ = i;
        }
        if (!g->skin.terms)
            continue;
        points += g->skin.vertex_count;
        c->parts = FSI__REDUCED_PARTS + 1;
        fsi_reduced_group_surface(g);
    }
    for (i = 0; i < n; i++)
        if (!c->where[i] || !c->group[c->where[i] - 1]->skin.terms)
            points += body[i]->model->sample_count;
    return points;
}

/* Points of all bodies: samples, or the vertices of the skin that hang on the body most. */
static void fsi__reduced_sample(const fsi_reduced_contacts *c, fsi_reduced **body, int n,
                                const fsi__reduced_points *p) {
    int at = 0;
    for (int i = 0; i < n; i++) {
        const fsi_reduced_model *m = body[i]->model;
        const fsi_reduced_group *g = c->where[i] ? c->group[c->where[i] - 1] : NULL;
        p->first[i] = at;
        for (int k = 0; g && k < g->skin.vertex_count; k++)
            if (g->body[g->owner[k]] == body[i]) {
                p->name[at] = k;
                fsi_vec_store(p->x + 3 * at++, fsi_vec_load(g->x + 3 * k));
            }
        for (int k = 0; k < m->sample_count && !(g && g->skin.terms); k++) {
            p->name[at] = m->sample[k];
            fsi_vec_store(p->x + 3 * at++, fsi_reduced_point(body[i], m->sample[k]));
        }
    }
    p->first[n] = at;
}

/* Energy at the end of the step, of all bodies with the velocities start + share (u - start), J. */
static double fsi__reduced_ahead(fsi_reduced_contacts *c, fsi_reduced **body, int n,
                                 const int32_t *dof, fsi_real *chol, fsi_real dt, double share) {
    fsi_real *start = c->u + dof[n];
    double e = 0;
    for (int i = 0; i < n; i++) {
        fsi_real *u = c->u + dof[i], *v = start + dof[i];
        for (int k = 0; k < dof[i + 1] - dof[i]; k++) {
            fsi_real x = u[k];
            u[k] = v[k] + (fsi_real)share * (u[k] - v[k]);
            v[k] = v[k] - x;
        }
        fsi__reduced_unit(body[i], dt, u, chol + 9 * i, 1);
        for (int k = 0; k < dof[i + 1] - dof[i]; k++) {
            fsi_real d = v[k];
            v[k] = u[k] + (fsi_real)share * d;
            u[k] = v[k] - d;
        }
        e += fsi__reduced_next(body[i]);
    }
    return e;
}

typedef struct fsi__reduced_trial {
    fsi_reduced_contacts *c;
    fsi_reduced **body;
    int n;
    const int32_t *dof;
    fsi_real *chol;
    fsi_real dt;
    double allowed, work;
} fsi__reduced_trial;

static double fsi__reduced_excess(double share, void *user) {
    const fsi__reduced_trial *q = (const fsi__reduced_trial *)user;
    return fsi__reduced_ahead(q->c, q->body, q->n, q->dof, q->chol, q->dt, share) - q->allowed
           - share * q->work;
}

/* The bodies take the velocities u. Their energy at the end of the step is at most what they had,
   or would have without contact (allowed), and the work of obstacles that move: where bounces at
   many points would add some, a share of all impulses is taken back. */
static void fsi__reduced_take(fsi_reduced_contacts *c, fsi_reduced **body, int n,
                              const int32_t *dof, fsi_real *chol, fsi_real dt, double allowed) {
    fsi__reduced_trial q;
    q.c = c;
    q.body = body;
    q.n = n;
    q.dof = dof;
    q.chol = chol;
    q.dt = dt;
    q.allowed = allowed;
    q.work = 0;
    for (int i = 0; i < c->count; i++)
        for (int d = 0; d < 3; d++)
            q.work += (double)(c->contact[i].impulse[d]
                               * fsi_vec_dot(c->contact[i].velocity, c->contact[i].dir[d]));
    double share = fsi__safe_share(fsi__reduced_excess, &q);
    c->work += share * q.work;
    for (int i = 0; i < c->count && share < 1; i++)
        for (int d = 0; d < 3; d++)
            c->contact[i].impulse[d] *= (fsi_real)share;
}

static int fsi__reduced_past_order(const void *pa, const void *pb) {
    const fsi__reduced_past *a = (const fsi__reduced_past *)pa, *b = (const fsi__reduced_past *)pb;
    int k;
    for (k = 0; k < 2 && a->name[k] == b->name[k]; k++) {
    }
    return a->name[k] < b->name[k] ? -1 : a->name[k] > b->name[k];
}

static fsi__reduced_past fsi__reduced_named(const fsi__reduced_contact *q) {
    fsi__reduced_past p;
    p.name[0] = q->body[0];
    p.name[1] = q->vertex[0];
    p.name[2] = q->body[1];
    int d;
    for (p.impulse = fsi_vec(0, 0, 0), d = 0; d < 3; d++)
        p.impulse = fsi_vec_mad(p.impulse, q->dir[d], q->impulse[d]);
    return p;
}

/* The impulses of the last call, as they would be in a step of dt. */
static fsi_result fsi__reduced_remember(fsi_reduced_contacts *c, int n, fsi_real dt) {
    void *p = c->past;
    c->past_count = 0;
    if (n != c->bodies || !(c->dt > 0))
        return FSI_OK;
    fsi_result r =
        fsi__reduced_grow(&c->allocator, &p, &c->past_room, (size_t)c->count, sizeof *c->past);
    c->past = (fsi__reduced_past *)p;
    if (r != FSI_OK)
        return r;
    for (int i = 0; i < c->count; i++) {
        c->past[i] = fsi__reduced_named(&c->contact[i]);
        c->past[i].impulse = fsi_vec_scale(c->past[i].impulse, dt / c->dt);
    }
    c->past_count = c->count;
    if (c->count)
        qsort(c->past, (size_t)c->count, sizeof *c->past, fsi__reduced_past_order);
    return FSI_OK;
}

/* Adds share times the impulses of contact q to the velocities u. */
static void fsi__reduced_press(fsi_reduced_contacts *c, int i, const int32_t *dof, int stride,
                               fsi_real share) {
    const fsi__reduced_contact *q = &c->contact[i];
    for (int d = 0; d < 3; d++)
        for (int s = 0; s < q->parts; s++)
            fsi_axpy((size_t)(dof[q->part[s] + 1] - dof[q->part[s]]), share * q->impulse[d],
                     fsi__reduced_row_of(c, i, d, stride) + s * stride, c->u + dof[q->part[s]]);
}

/* Warm start: a contact of the same vertex with the same body or obstacle begins with what it
 * carried. */
static void fsi__reduced_inherit(fsi_reduced_contacts *c, const int32_t *dof, int stride) {
    for (int i = 0; i < c->count; i++) {
        fsi__reduced_contact *q = &c->contact[i];
        fsi__reduced_past name = fsi__reduced_named(q), *was = NULL;
        if (c->past_count)
            was = (fsi__reduced_past *)bsearch(&name, c->past, (size_t)c->past_count, sizeof name,
                                               fsi__reduced_past_order);
        if (!was || !(fsi_vec_dot(was->impulse, q->dir[0]) > 0))
            continue;
        for (int d = 0; d < 3; d++)
            q->impulse[d] = fsi_vec_dot(was->impulse, q->dir[d]);
        q->before = q->impulse[0];
        fsi_real side = fsi__sqrt(q->impulse[1] * q->impulse[1] + q->impulse[2] * q->impulse[2]);
        for (int d = 1; d < 3 && side > q->friction * q->impulse[0]; d++)
            q->impulse[d] *= q->friction * q->impulse[0] / side;
        fsi__reduced_press(c, i, dof, stride, 1);
    }
}

/* Work space of a call: velocities u in unit-mass coordinates at dof, their start behind them. */
typedef struct fsi__reduced_work {
    fsi_real *bound, *order, *chol;
    fsi__reduced_points point;
    int32_t *dof;
    int dofs, stride;
} fsi__reduced_work;

static fsi_result fsi__reduced_room(fsi_reduced_contacts *c, fsi_reduced **body, int n,
                                    fsi__reduced_work *t) {
    int members = 0;
    void *p = c->where;
    t->stride = 6;
    t->dofs = 0;
    int i;
    for (i = 0; i < n; i++) {
        if (!body[i] || !body[i]->block)
            return FSI_ERR_ARGUMENT;
        t->stride = fsi__imax(t->stride, 6 + body[i]->model->modes);
        t->dofs += 6 + body[i]->model->modes;
    }
    for (i = 0; i < c->group_count; i++) {
        if (!c->group[i] || !c->group[i]->block)
            return FSI_ERR_ARGUMENT;
        members += c->group[i]->body_count;
    }
    fsi_result r = fsi__reduced_grow(&c->allocator, &p, &c->where_room, (size_t)n + (size_t)members,
                                     sizeof *c->where);
    c->where = (int32_t *)p;
    if (r != FSI_OK || !n)
        return r;
    int points = fsi__reduced_gather(c, body, n);
    if (points < 0)
        return FSI_ERR_ARGUMENT;
    p = c->u;
    r = fsi__reduced_grow(&c->allocator, &p, &c->u_room,
                          2 * (size_t)t->dofs + 17 * (size_t)n + 4 * (size_t)points + 4,
                          sizeof(fsi_real));
    c->u = (fsi_real *)p;
    if (r != FSI_OK)
        return r;
    t->bound = c->u + 2 * t->dofs;
    t->order = t->bound + 4 * n;
    t->chol = t->order + 2 * n;
    t->point.x = t->chol + 9 * n;
    t->point.first = (int32_t *)(void *)(t->point.x + 3 * points);
    t->dof = t->point.first + n + 1;
    t->point.name = t->dof + n + 1;
    for (t->dof[0] = 0, i = 0; i < n; i++)
        t->dof[i + 1] = t->dof[i] + 6 + body[i]->model->modes;
    return FSI_OK;
}

/* Takes back what fsi_reduced_contact_hold gave. */
static void fsi__reduced_release(fsi_reduced_contacts *c, fsi_reduced **body, int n,
                                 const fsi__reduced_work *t, fsi_real dt) {
    int any = c->holds && n == c->bodies;
    c->holds = 0;
    for (int i = 0; i < n && any; i++) {
        fsi__reduced_unit(body[i], dt, c->u + t->dof[i], t->chol + 9 * i, 0);
        fsi_axpy((size_t)(t->dof[i + 1] - t->dof[i]), -1, c->held + t->dof[i], c->u + t->dof[i]);
        fsi__reduced_unit(body[i], dt, c->u + t->dof[i], t->chol + 9 * i, 1);
    }
    for (int i = 0; i < c->group_count && any; i++)
        if (c->group[i]->skin.terms)
            fsi_reduced_group_surface(c->group[i]);
}

/* the list may have changed: nothing outside it is read */
static int fsi__reduced_knows(const fsi_reduced_contacts *c, fsi_reduced **body,
                              const fsi__reduced_contact *q) {
    int count = q->skin > c->group_count ? 0
                : q->skin                ? c->group[q->skin - 1]->skin.vertex_count
                                         : body[q->body[0]]->model->vertex_count;
    return (!q->skin || c->where[q->body[0]] == q->skin) && q->vertex[0] < count
           && (q->body[1] < 0 || q->vertex[1] < body[q->body[1]]->model->vertex_count);
}

FSI_API fsi_result fsi_reduced_contact_hold(fsi_reduced_contacts *c, fsi_reduced **body, int n,
                                            fsi_real dt) {
    if (!c || n < 0 || (n && !body) || !fsi__finite(dt) || !(dt > 0) || c->group_count < 0
        || (c->group_count && !c->group) || !fsi_allocator_valid(&c->allocator))
        return FSI_ERR_ARGUMENT;
    c->holds = 0;
    if (!c->count || n != c->bodies)
        return FSI_OK;
    fsi__reduced_work t;
    fsi_result r = fsi__reduced_room(c, body, n, &t);
    if (r != FSI_OK)
        return r;
    void *p = c->held;
    r = fsi__reduced_grow(&c->allocator, &p, &c->held_room, (size_t)t.dofs, sizeof *c->held);
    c->held = (fsi_real *)p;
    if (r != FSI_OK)
        return r;
    p = c->row;
    r = fsi__reduced_grow(&c->allocator, &p, &c->row_room,
                          (size_t)c->count * 3 * (size_t)c->parts * (size_t)t.stride,
                          sizeof(fsi_real));
    c->row = (fsi_real *)p;
    if (r != FSI_OK)
        return r;
    for (int i = 0; i < n; i++)
        fsi__reduced_unit(body[i], dt, c->u + t.dof[i], t.chol + 9 * i, 0);
    fsi_copy((size_t)t.dofs, c->u, c->u + t.dofs);
    for (int i = 0; i < c->count; i++) {
        fsi__reduced_contact *q = &c->contact[i];
        /* an impact lasts one step: the fluid is not to meet it again */
        fsi_real still = fsi__min(q->impulse[0], q->before);
        if (!(still > 0) || !fsi__reduced_knows(c, body, q))
            continue;
        if (!q->skin)
            q->at = fsi_reduced_point(body[q->body[0]], q->vertex[0]);
        fsi__reduced_part_rows(c, body, n, i, t.stride, dt, t.chol);
        fsi__reduced_press(c, i, t.dof, t.stride, still / q->impulse[0] * dt / c->dt);
    }
    if (!fsi_all_finite((size_t)t.dofs, c->u))
        return FSI_ERR_NUMERIC;
    for (int i = 0; i < t.dofs; i++)
        c->held[i] = c->u[i] - c->u[t.dofs + i];
    for (int i = 0; i < n; i++)
        fsi__reduced_unit(body[i], dt, c->u + t.dof[i], t.chol + 9 * i, 1);
    c->holds = 1;
    return FSI_OK;
}

FSI_API fsi_result fsi_reduced_contact(fsi_reduced_contacts *c, fsi_reduced **body, int n,
                                       const fsi_obstacle *obstacle, int obstacle_count,
                                       fsi_real dt) {
    double allowed = 0;
    if (!c || n < 0 || (n && !body) || obstacle_count < 0 || (obstacle_count && !obstacle)
        || !fsi__finite(dt) || !(dt > 0))
        return FSI_ERR_ARGUMENT;
    if (!(c->friction >= 0) || !(c->restitution >= 0) || !(c->slop >= 0) || c->iterations < 0
        || !fsi_allocator_valid(&c->allocator))
        return FSI_ERR_ARGUMENT;
    if (c->group_count < 0 || (c->group_count && !c->group))
        return FSI_ERR_ARGUMENT;
    fsi__reduced_work t;
    fsi_result r = fsi__reduced_room(c, body, n, &t);
    if (r == FSI_OK)
        r = fsi__reduced_remember(c, n, dt);
    c->count = 0;
    c->depth = 0;
    c->work = 0;
    if (r != FSI_OK || !n)
        return r;
    fsi__reduced_release(c, body, n, &t, dt);
    c->bodies = n;
    c->dt = dt;
    fsi__reduced_sample(c, body, n, &t.point);
    r = fsi__reduced_broad(c, body, n, obstacle, obstacle_count, dt, t.bound, t.order, &t.point);
    for (int i = 0; i < n && r == FSI_OK; i++)
        fsi__reduced_unit(body[i], dt, c->u + t.dof[i], t.chol + 9 * i, 0);
    if (r == FSI_OK)
        r = fsi__reduced_prepare(c, body, n, t.dof, t.chol, t.stride, dt);
    if (r != FSI_OK)
        return r;
    fsi_copy((size_t)t.dofs, c->u, c->u + t.dofs);
    for (int i = 0; i < n && c->count; i++) {
        double next = fsi__reduced_next(body[i]);
        allowed += next > body[i]->energy ? next : body[i]->energy;
    }
    fsi__reduced_inherit(c, t.dof, t.stride);
    for (int i = 0; i < (c->iterations ? c->iterations : 20); i++)
        fsi__reduced_sweep(c, t.dof, t.stride);
    if (!fsi_all_finite((size_t)t.dofs, c->u))
        return FSI_ERR_NUMERIC;
    if (c->count)
        fsi__reduced_take(c, body, n, t.dof, t.chol, dt, allowed);
    fsi__reduced_open(c, body, n, t.dof, t.chol, t.stride, dt);
    return FSI_OK;
}

/* then the contacts */
typedef struct fsi__reduced_state {
    double dt;
    int32_t count, bodies;
} fsi__reduced_state;

FSI_API size_t fsi_reduced_contacts_state_size(const fsi_reduced_contacts *c) {
    return sizeof(fsi__reduced_state) + (c ? (size_t)c->count * sizeof(fsi__reduced_contact) : 0);
}

FSI_API fsi_result fsi_reduced_contacts_save(const fsi_reduced_contacts *c, void *out) {
    if (!c || !out)
        return FSI_ERR_ARGUMENT;
    fsi__reduced_state s;
    s.dt = (double)c->dt;
    s.count = c->count;
    s.bodies = c->bodies;
    memcpy(out, &s, sizeof s);
    if (c->count)
        memcpy((unsigned char *)out + sizeof s, c->contact, (size_t)c->count * sizeof *c->contact);
    return FSI_OK;
}

FSI_API fsi_result fsi_reduced_contacts_restore(fsi_reduced_contacts *c, const void *in) {
    if (!c || !in || !fsi_allocator_valid(&c->allocator))
        return FSI_ERR_ARGUMENT;
    fsi__reduced_state s;
    memcpy(&s, in, sizeof s);
    fsi_result r = fsi__reduced_contact_room(c, s.count);
    if (r != FSI_OK)
        return r;
    if (s.count)
        memcpy(c->contact, (const unsigned char *)in + sizeof s,
               (size_t)s.count * sizeof *c->contact);
    c->dt = (fsi_real)s.dt;
    c->count = s.count;
    c->bodies = s.bodies;
    c->holds = 0;
    return FSI_OK;
}

FSI_API void fsi_reduced_contacts_free(fsi_reduced_contacts *c) {
    if (!c)
        return;
    fsi_free(&c->allocator, c->contact, (size_t)c->room * sizeof *c->contact);
    fsi_free(&c->allocator, c->row, c->row_room * sizeof *c->row);
    fsi_free(&c->allocator, c->u, c->u_room * sizeof *c->u);
    fsi_free(&c->allocator, c->where, c->where_room * sizeof *c->where);
    fsi_free(&c->allocator, c->past, c->past_room * sizeof *c->past);
    fsi_free(&c->allocator, c->held, c->held_room * sizeof *c->held);
    c->contact = NULL;
    c->row = c->u = c->held = NULL;
    c->where = NULL;
    c->past = NULL;
    c->room = c->count = c->past_count = c->bodies = c->holds = 0;
    c->row_room = c->u_room = c->where_room = c->past_room = c->held_room = 0;
}

/* The rigid world's view: points are the samples. */
static fsi_vec3 fsi__reduced_point_velocity(void *user, int point, fsi_vec3 at) {
    (void)at;
    return fsi_reduced_velocity((fsi_reduced *)user, ((fsi_reduced *)user)->model->sample[point]);
}

static void fsi__reduced_point_impulse(void *user, int point, fsi_vec3 at, fsi_vec3 j) {
    fsi_reduced *b = (fsi_reduced *)user;
    fsi_real one = 1;
    if (!b->fixed)
        fsi__reduced_apply(b, at, 1, b->model->sample + point, &one, j, b->dt, b->p, b->L, b->dq);
}

/* J M^-1 J^T, body frame first */
static void fsi__reduced_point_inverse(void *user, int point, fsi_vec3 at, fsi_mat3 *K) {
    const fsi_reduced *b = (const fsi_reduced *)user;
    const fsi_reduced_model *m = b->model;
    fsi_mat3 R = fsi__reduced_matrix(b, 0), inverse = fsi__reduced_matrix(b, 2);
    fsi_vec3 r = fsi_mat3_tmul_vec(&R, fsi_vec_sub(at, fsi_vec_load(b->T)));
    int n = m->modes;
    memset(K, 0, sizeof *K);
    if (b->fixed)
        return;
    for (int j = 0; j < 3; j++) {
        fsi_vec3 e = fsi_vec(j == 0, j == 1, j == 2),
                 c = fsi_vec_cross(fsi_mat3_mul_vec(&inverse, fsi_vec_cross(r, e)), r);
        for (int i = 0; i < 3; i++)
            K->m[3 * i + j] = fsi__get(c, i) + (i == j ? 1 / m->mass : 0);
    }
    /* column of P_d^T S at the point: s - (I^-1 h) x r */
    for (int k = 0; k < n; k++) {
        const fsi_real *S = m->S + 3 * m->sample[point] * n + k;
        fsi_vec3 u = fsi_vec_sub(
            fsi_vec(S[0], S[n], S[2 * n]),
            fsi_vec_cross(fsi_mat3_mul_vec(&inverse, fsi_vec_load(b->cache + 27 + 3 * k)), r));
        for (int i = 0; i < 9; i++)
            K->m[i] += fsi__get(u, i / 3) * fsi__get(u, i % 3) / fsi__reduced_stiff(m, k, b->dt);
    }
    *K = fsi_mat3_rotate(&R, K);
}

/* nearest sample, for the callbacks above */
static fsi_real fsi__reduced_point_distance(void *user, fsi_vec3 p, fsi_vec3 *normal, int *point) {
    const fsi_reduced *b = (const fsi_reduced *)user;
    fsi_real least = FSI_REAL_MAX;
    int vertex = 0;
    *point = 0;
    fsi_real d = fsi__reduced_distance(b, p, normal, &vertex);
    for (int i = 0; i < b->model->sample_count && d < b->model->radius; i++) {
        fsi_vec3 e = fsi_vec_sub(fsi_vec_load(b->model->x0 + 3 * b->model->sample[i]),
                                 fsi_vec_load(b->model->x0 + 3 * vertex));
        if (fsi_vec_dot(e, e) < least) {
            least = fsi_vec_dot(e, e);
            *point = i;
        }
    }
    return d;
}

/* what it would have without contact, or had */
static void fsi__reduced_touch(void *user, int point, fsi_vec3 at) {
    fsi_reduced *b = (fsi_reduced *)user;
    (void)point;
    (void)at;
    if (b->touched)
        return;
    b->reference = fsi__reduced_next(b);
    if (b->energy > b->reference)
        b->reference = b->energy;
    b->touched = 1;
}

/* see fsi_external; motion inside is q' */
static double fsi__reduced_surplus(void *user, double take) {
    fsi_reduced *b = (fsi_reduced *)user;
    if (!b->touched || b->fixed)
        return 0;
    if (!(take > 0))
        return fsi__reduced_total(b) - b->reference;
    double inside = fsi__reduced_inside(b);
    if (!(inside > 0))
        return 0;
    if (take > inside)
        take = inside;
    fsi_scale((size_t)b->model->modes, (fsi_real)sqrt(1 - take / inside), b->dq);
    return take;
}

FSI_API void fsi_reduced_external(fsi_reduced *b, fsi_real *x, fsi_external *out) {
    memset(out, 0, sizeof *out);
    if (!b || !b->block || !x)
        return;
    for (int i = 0; i < b->model->sample_count; i++)
        fsi_vec_store(x + 3 * i, fsi_reduced_point(b, b->model->sample[i]));
    out->point_count = b->model->sample_count;
    out->x = x;
    out->user = b;
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
