/* fsi_couple.h - two-way coupling of fluids and solids (SPDX-License-Identifier: MIT OR Unlicense;
   full text at the end)

   QUICK START
       #define FSI_IMPLEMENTATION // in exactly one file, before the include
       #include "fsi_couple.h"
       #include <stdio.h>

       int main(void) { // a light box of your own engine rises in a closed tank
           fsi_real x[12] = {0}, dt = FSI_R(0.01), at = FSI_R(0.5),
                    speed = 0;                         // yours: corners, height of the centre
           int32_t loop[8] = {0, 1, 1, 2, 2, 3, 3, 0}; // counter-clockwise
           fsi_grid_desc desc = {0};
           fsi_grid grid;
           fsi_couple couple;
           fsi_body body = {0};
           fsi_surface outline = {0};
           fsi_coupled door, *list[1] = {&door};
           desc.nx = 32;
           desc.ny = 64;
           desc.nz = 1;
           desc.h = FSI_R(1) / 32;
           desc.rho = 1;
           desc.gravity.y = FSI_R(-9.81);
           if (fsi_grid_init(&grid, &desc) < 0 || fsi_couple_init(&couple, &grid, NULL) < 0)
               return 1;
           outline.dim = 2;
           outline.closed = 1;
           outline.vertex_count = outline.element_count = 4;
           outline.x = x;
           outline.index = loop;
           body.mass = FSI_R(0.01);
           body.inertia.m[8] =
               body.mass * FSI_R(0.08) / 12; // 0.2 m x 0.2 m, a quarter of the fluid's density
           for (int step = 0; step < 20; step++) {
               speed -= FSI_R(9.81) * dt; // your forces, then the fluid's, then you move it
               for (int k = 0; k < 4; k++) {
                   x[3 * k] = FSI_R(k == 0 || k == 3 ? 0.4 : 0.6);
                   x[3 * k + 1] = at + FSI_R(k < 2 ? -0.1 : 0.1);
               }
               body.centre = fsi_vec(FSI_R(0.5), at, 0);
               body.velocity = fsi_vec(0, speed, 0);
               fsi_body_give(&body, &outline, &door);
               fsi_couple_detect(&couple, list, 1);
               fsi_grid_advect(&grid, dt);
               fsi_grid_forces(&grid, dt);
               fsi_couple_solve(&couple, dt, NULL);
               fsi_body_take(&body);
               speed = body.velocity.y;
               at += dt * speed;
           }
           printf("after 0.2 s it rises at %.2f m/s\n", (double)speed);
           fsi_couple_free(&couple);
           fsi_grid_free(&grid);
           return 0;
       }
   Compile: cc main.c -lm          (bodies of ours: fsi_world, see README; a scene with callbacks:
   fsi_couple_step, see examples/box_lift.c)

   WHAT IT DOES
   interface     coupling sides by ray casts between cell centres; thin shells have two independent
                 sides; area fractions
   monolithic    one linear solve for pressure and all solids (rigid, reduced, cloth, tetrahedra),
                 several solvers, one answer
   bubbles       closed air regions keep their volume
   slip          only the normal velocity is shared, with friction from none to full; ghost cells
                 at thin shells
   partitioned   solvers that nobody looks into: reduced model interface, conservative impulses,
                 closed regions (XPM)
   particles     SPH with rigid bodies by exchange, SPH with total-Lagrangian tetrahedra by proxy
                 particles

   WHAT IT DOES NOT
   Viscous forces on solids. Contact between solids: the solids' own move does that
   (fsi_solids_hold tells the solve of it).

   CONFIGURATION (define before the include)
   Every includer: FSI_SINGLE (float), FSI_COUPLE_NO_GRID, FSI_COUPLE_NO_SPH (leave a part out).
   Implementation only: FSI_IMPLEMENTATION or FSI_COUPLE_IMPLEMENTATION, FSI_STATIC, FSI_NO_OPENMP.

   UNITS AND CONVENTIONS
   SI; in 2D masses and forces per metre of depth. p^ = pressure times dt, Pa s. Impulses N s.

   USAGE
   1. Everything of ours: fsi_world_init, fsi_world_add, fsi_world_step.
   2. Rigid bodies of your engine: fsi_body_give, fsi_couple_detect, fsi_grid_advect,
      fsi_grid_forces, fsi_couple_solve, fsi_body_take.
   3. A solid of your own: fill an fsi_coupled (base header); every scheme then takes it.
   4. A solver as a black box: fsi_blackbox for it, fsi_partitioned_step between it and
      fsi_fluid_box, or a whole scene by fsi_partitioned_scene_step.
   5. Slip at shells: fsi_slip_init in place of fsi_couple_init. Particles: fsi_sph_rigid_step,
      fsi_proxy_step.

   NUMERICAL NOTES
   - A solid face has the fluid's half of the dual mass, rho h^dim / 2: a box on grid lines feels
     exactly rho g V (C-01), a body of the fluid's density stays (C-02). Voxel added mass is first
     order (7.5 % at 16 cells per radius), area fractions 0.5 % (C-04).
   - Stopping early is stable from a zero start (C-20), and momentum is exact at any iterate (C-16,
     C-17). A warm start is dropped when it would add energy (C-21).
   - Iterations of the default solver are those of the fluid alone, at most 2 more, for any density
     (docs/schur.md).
   - Single precision: the solids' velocities are carried beside the pressure, so bodies 10,000
     times lighter than the fluid move as in double; take their velocity from the solve, not
     impulse over mass, which is small against the rounding of the pressure.
   - Two surfaces closer than a cell act as one wall; fluid between them is lost. Surfaces within
     round-off of cell centres are cut at the nearest point.

   MEMORY
   Cell and face arrays at init; lists grow when an interface outgrows them; nothing is allocated
   once they fit.

   ERRORS
   fsi_result; negative: nothing changed, positive: valid state, see fsi_report.

   THREADS AND DETERMINISM
   Same bits for any number of threads.

   REFERENCES
   Aanjaneya 2018 (SCHUR), Robinson-Mosher 2009 (SLIP) and 2011, Lu 2016 (REDUCED), Akbay 2018
   (XPM), Yang 2012 (PROXY), Batty 2007.

   CHANGELOG
   1.00  first release.

   LICENCE
   MIT or public domain, as you prefer; text at the end of the file. */
#if defined(FSI_IMPLEMENTATION) && !defined(FSI_DECLARATIONS_ONLY)                                 \
    && !defined(FSI_COUPLE_IMPLEMENTATION)
#define FSI_COUPLE_IMPLEMENTATION
#endif
#include "fsi_linalg.h"
#ifndef FSI_COUPLE_NO_GRID
#include "fsi_grid.h"
#endif
#include "fsi_solids.h"
#ifndef FSI_COUPLE_NO_SPH
#include "fsi_sph.h"
#endif

#ifndef FSI_COUPLE_H
#define FSI_COUPLE_H
#if FSI_LINALG_VERSION != 100
#error "vendor all fsi_*.h files from the same release"
#endif
#ifdef FSI_SINGLE /* the precision is part of every symbol: a mismatch is a link error */
#define fsi_interface_init fsi_interface_init_f32
#define fsi_interface_free fsi_interface_free_f32
#define fsi_interface_detect fsi_interface_detect_f32
#define fsi_interface_sides fsi_interface_sides_f32
#define fsi_interface_move_surface fsi_interface_move_surface_f32
#define fsi_interface_moved fsi_interface_moved_f32
#define fsi_interface_velocity fsi_interface_velocity_f32
#define fsi_interface_sample fsi_interface_sample_f32
#define fsi_interface_set_sample fsi_interface_set_sample_f32
#define fsi_interface_centre fsi_interface_centre_f32
#define fsi_interface_first_hit fsi_interface_first_hit_f32
#define fsi_couple_init fsi_couple_init_f32
#define fsi_couple_free fsi_couple_free_f32
#define fsi_couple_detect fsi_couple_detect_f32
#define fsi_couple_solve fsi_couple_solve_f32
#define fsi_couple_body fsi_couple_body_f32
#define fsi_couple_added_mass fsi_couple_added_mass_f32
#define fsi_couple_state_size fsi_couple_state_size_f32
#define fsi_couple_save fsi_couple_save_f32
#define fsi_couple_restore fsi_couple_restore_f32
#define fsi_couple_step fsi_couple_step_f32
#define fsi_couple_half fsi_couple_half_f32
#define fsi_body_give fsi_body_give_f32
#define fsi_body_take fsi_body_take_f32
#define fsi_world_init fsi_world_init_f32
#define fsi_world_free fsi_world_free_f32
#define fsi_world_add fsi_world_add_f32
#define fsi_world_add_guest fsi_world_add_guest_f32
#define fsi_soft_guest fsi_soft_guest_f32
#define fsi_world_step fsi_world_step_f32
#define fsi_world_body fsi_world_body_f32
#define fsi_world_state_size fsi_world_state_size_f32
#define fsi_world_save fsi_world_save_f32
#define fsi_world_restore fsi_world_restore_f32
#define fsi_slip_init fsi_slip_init_f32
#define fsi_slip_free fsi_slip_free_f32
#define fsi_slip_detect fsi_slip_detect_f32
#define fsi_slip_solve fsi_slip_solve_f32
#define fsi_slip_step fsi_slip_step_f32
#define fsi_slip_surface fsi_slip_surface_f32
#define fsi_slip_trace fsi_slip_trace_f32
#define fsi_slip_max_divergence fsi_slip_max_divergence_f32
#define fsi_slip_force fsi_slip_force_f32
#define fsi_slip_state_size fsi_slip_state_size_f32
#define fsi_slip_save fsi_slip_save_f32
#define fsi_slip_restore fsi_slip_restore_f32
#define fsi_partitioned_init fsi_partitioned_init_f32
#define fsi_partitioned_free fsi_partitioned_free_f32
#define fsi_partitioned_step fsi_partitioned_step_f32
#define fsi_partitioned_forget fsi_partitioned_forget_f32
#define fsi_partitioned_state_size fsi_partitioned_state_size_f32
#define fsi_partitioned_save fsi_partitioned_save_f32
#define fsi_partitioned_restore fsi_partitioned_restore_f32
#define fsi_boundary_project fsi_boundary_project_f32
#define fsi_fluid_box_begin fsi_fluid_box_begin_f32
#define fsi_fluid_box_door fsi_fluid_box_door_f32
#define fsi_fluid_box_follow fsi_fluid_box_follow_f32
#define fsi_fluid_box_finish fsi_fluid_box_finish_f32
#define fsi_fluid_box_free fsi_fluid_box_free_f32
#define fsi_solid_box_begin fsi_solid_box_begin_f32
#define fsi_solid_box_door fsi_solid_box_door_f32
#define fsi_solid_box_free fsi_solid_box_free_f32
#define fsi_soft_responder_begin fsi_soft_responder_begin_f32
#define fsi_soft_respond fsi_soft_respond_f32
#define fsi_soft_responder_free fsi_soft_responder_free_f32
#define fsi_partitioned_scene_step fsi_partitioned_scene_step_f32
#define fsi_partitioned_scene_free fsi_partitioned_scene_free_f32
#define fsi_closed_regions_begin fsi_closed_regions_begin_f32
#define fsi_closed_regions_finish fsi_closed_regions_finish_f32
#define fsi_closed_regions_free fsi_closed_regions_free_f32
#define fsi_world_exchange fsi_world_exchange_f32
#define fsi_embedded_begin fsi_embedded_begin_f32
#define fsi_embedded_respond fsi_embedded_respond_f32
#define fsi_embedded_free fsi_embedded_free_f32
#define fsi_proxy_init fsi_proxy_init_f32
#define fsi_proxy_free fsi_proxy_free_f32
#define fsi_proxy_step fsi_proxy_step_f32
#define fsi_proxy_collide fsi_proxy_collide_f32
#define fsi_proxy_correct fsi_proxy_correct_f32
#define fsi_proxy_response fsi_proxy_response_f32
#define fsi_proxy_closest fsi_proxy_closest_f32
#define fsi_clamp_init fsi_clamp_init_f32
#define fsi_clamp_free fsi_clamp_free_f32
#define fsi_clamp_advance fsi_clamp_advance_f32
#define fsi_sph_rigid_init fsi_sph_rigid_init_f32
#define fsi_sph_rigid_free fsi_sph_rigid_free_f32
#define fsi_sph_rigid_step fsi_sph_rigid_step_f32
#define fsi_sph_rigid_state_size fsi_sph_rigid_state_size_f32
#define fsi_sph_rigid_save fsi_sph_rigid_save_f32
#define fsi_sph_rigid_restore fsi_sph_rigid_restore_f32
#endif
#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------
 * >>interface */
#define FSI_COUPLE_VERSION FSI_VERSION
#ifndef FSI_COUPLE_NO_GRID
/* Where solids meet the fluid on the grid. Built once a step in two calls: fsi_interface_detect
   (after the solids moved, before the fluid is advected) finds which cells are solid and which
   faces are cut; fsi_interface_sides (after fsi_grid_classify) lists the coupling sides. All
   coupling schemes on the grid read this list. Its cost grows with the surface, not with the box.

   One coupling side = one fluid cell that meets a solid across one of its faces. A thin shell
   between two fluid cells makes two sides, which never share anything. With G, b = beta, W, J of
   the system (SCHUR eq. 15-17), A = h^(dim-1): velocity of the solid at the side along the face
   axis      (J v)_s = sum of val[e] * v[col[e]] over its row part of the cell's outward flux
   through the closed face    A * share * sign * (J v)_s impulse lambda on the fluid side, -lambda *
   row on the solid's degrees of freedom. */
typedef struct fsi_side {
    int32_t cell;    /* the fluid cell */
    int32_t face;    /* index in grid.u[axis] */
    int32_t solid;   /* number of the solid in the list given to detect */
    int32_t element; /* element of its surface */
    /* entries row .. row_end-1 of col and val: the row of J along the axis. Nodal: col = 3 node +
     * axis, val = weight */
    int32_t row, row_end;
    int8_t axis; /* 0, 1, 2 */
    /* +1: the face is the cell's upper one (outward = +axis); -1: the lower one */
    int8_t sign;
    int8_t shell; /* 1: fluid on the other side too (that side has its own entry) */
    /* 1: its velocity sample is grid.u_plus (where that exists), 0: grid.u */
    int8_t plus;
    /* closed share of the face: 1 (voxel form), or 0 .. 1 with area fractions */
    fsi_real share;
    /* fluid mass of the side, kg: rho h^dim / 2; 0 with area fractions (no velocity sample of its
     * own) */
    fsi_real mass;
    fsi_real t;         /* where the surface is: 0 = cell centre, 1 = neighbour's centre */
    fsi_real weight[3]; /* barycentric weights of that point on the element */
    /* unit normal of the surface there, towards the cell's side (shells: averaged over the dual
     * cell) */
    fsi_vec3 normal;
} fsi_side;

/* A crossing of the segment between two neighbouring cell centres (private list, sorted by face and
 * t). */
typedef struct fsi_crossing {
    int32_t face, solid, element;
    int8_t axis, side; /* side as in fsi_hit */
    fsi_real t, weight[3];
} fsi_crossing;

/* The share of a face that one closed solid closes (area fractions; private list). */
typedef struct fsi_cut {
    int32_t face, solid;
    int axis;
    fsi_real share;
} fsi_cut;

typedef struct fsi_interface_desc {
    /* 1: closed surfaces close a part of each face (area fractions, second order); 0: voxel faces
     * with half dual mass */
    int fractions;
    /* nodal solids: 1 = J averages over the surface in the dual cell (SLIP app. A), 0 = J at the
     * crossing */
    int average;
    /* given on to the grid: fsi_occlusion.smooth; may be changed before detect */
    int smooth;
    fsi_allocator allocator; /* zero = malloc */
} fsi_interface_desc;

typedef struct fsi_interface {
    fsi_interface_desc desc;
    int nx, ny, nz, n[3], dim; /* of the grid */
    fsi_real h;
    fsi_vec3 origin;
    size_t cells, faces[3];
    fsi_coupled *const *solid; /* [solids] as given to detect; read until the next detect */
    int solids;
    uint8_t *covered; /* [cells] 1: the cell is solid */
    uint8_t *mark;    /* [cells] private */
    /* [cells] number of the solid that covers the cell; undefined elsewhere */
    int32_t *owner;
    /* [faces] 1: a surface cuts the segment between the two cell centres */
    uint8_t *blocked[3];
    fsi_real *open[3];     /* [faces] open share */
    fsi_real *velocity[3]; /* [faces] solid velocity along the axis where closed, m/s */
    int shells;            /* 1: some cut face has fluid on both sides */
    fsi_side *side;        /* [sides] ordered by axis, face, minus cell first */
    int sides, side_room;
    int32_t *col;  /* [entries] degree of freedom of the side's solid */
    fsi_real *val; /* [entries] */
    int entries, entry_room, val_room;
    fsi_crossing *crossing; /* [crossings] */
    int crossings, crossing_room;
    uint64_t *order; /* [crossings] by axis, face, t */
    int order_room;
    fsi_cut *cut; /* [cuts] */
    int cuts, cut_room;
    int8_t *delta; /* [cells] private: winding number steps, zero between calls */
    /* [3 vertices of all open surfaces] where they were in the last detect */
    fsi_real *was;
    int was_count, was_room;
    int started; /* 1 after the first detect */
    /* private, set by fsi_couple: 1 = solids may work out places and masses when asked */
    int lean;
    fsi_bvh *bvh; /* [solids] tree over each surface */
    int bvh_room;
    /* private: the box in bins, so that a ray asks only the solids near it; 0 = few solids, asked
     * one after the other */
    int bins[3];
    /* [6 * solids] bins of each solid's bounds, then [all bins + 1] where each bin's list begins,
     * then the lists */
    int32_t *bin;
    int bin_room;
    /* [solids] volume of each solid below the liquid's surface (smoke: inside the box), m^3 (m^2 in
     * 2D) */
    double *submerged;
    int submerged_room;
    fsi_occlusion occlusion; /* what the grid is given */
    /* cell and face arrays; the lists grow on their own when they run out of room */
    void *block;
    size_t size;
} fsi_interface;

/* Memory for the grid's size. desc may be NULL. */
FSI_API fsi_result fsi_interface_init(fsi_interface *face, const fsi_grid *grid,
                                      const fsi_interface_desc *desc);
/* Frees everything; safe on a zeroed struct and twice. */
FSI_API void fsi_interface_free(fsi_interface *face);
/* Finds covered cells and cut faces for the surfaces as they are now and hands them to the grid
   (fsi_grid_set_occlusion). count may be 0. FSI_ERR_GEOMETRY / FSI_ERR_ARGUMENT: a surface or solid
   is bad; nothing changed. Parts outside the box are ignored. */
FSI_API fsi_result fsi_interface_detect(fsi_interface *face, fsi_grid *grid,
                                        fsi_coupled *const *solid, int count);
/* Lists the sides and their rows of J for the present classification of the grid
 * (fsi_grid_classify). */
FSI_API fsi_result fsi_interface_sides(fsi_interface *face, const fsi_grid *grid);
/* fsi_grid_move_surface, but the level set does not reach through thin surfaces: a cell beside one
 * stays liquid (or air) when all it sees was. */
FSI_API fsi_result fsi_interface_move_surface(fsi_interface *face, fsi_grid *grid, fsi_real dt,
                                              fsi_report *report);
/* After the solids moved in the same step: cells that an open surface passed over are on its other
   side now and take level set and scalars from there; markers it ran over go. The surfaces' arrays
   must be up to date. The number of cells that changed side goes to *passed (may be NULL). */
FSI_API fsi_result fsi_interface_moved(fsi_interface *face, fsi_grid *grid, int *passed);
/* (J v)_s of one side, m/s. v: generalised velocity of its solid. */
FSI_API fsi_real fsi_interface_velocity(const fsi_interface *face, const fsi_side *side,
                                        const fsi_real *v);
/* The fluid's velocity sample at a side, m/s; and setting it. */
FSI_API fsi_real fsi_interface_sample(const fsi_grid *grid, const fsi_side *side);
FSI_API void fsi_interface_set_sample(const fsi_interface *face, fsi_grid *grid,
                                      const fsi_side *side, fsi_real u);
/* Centre of the side's face, m. */
FSI_API fsi_vec3 fsi_interface_centre(const fsi_interface *face, const fsi_side *side);
/* First surface on a -> b over all solids: 1 and *hit, *solid, or 0. Safe from several threads. */
FSI_API int fsi_interface_first_hit(const fsi_interface *face, fsi_vec3 a, fsi_vec3 b, fsi_hit *hit,
                                    int *solid);
#endif

/* ------------------------------------------------------------------------------------------------
 * >>monolithic */
#ifndef FSI_COUPLE_NO_GRID
/* All of these give the same answer; they differ in speed. Symbols of math.md 2.1: Sigma = L_N + Z
 * K^-1 Z^T. */
typedef enum fsi_couple_solver {
    /* Sigma by CG: V-cycle on L_N that takes the solids' columns Z along (fsi_mg_rank). Any number
     * of bodies */
    FSI_COUPLE_DEFLATED = 0,
    /* the same with columns that are not cut off: (B^-1 + Z K^-1 Z^T)^-1 exactly, a little more
     * set-up */
    FSI_COUPLE_WOODBURY,
    FSI_COUPLE_NEUMANN, /* Sigma by CG: V-cycle on L_N only */
    FSI_COUPLE_SCHUR,   /* Sigma by CG with SCHUR's P(s), s = terms (-1: no preconditioner) */
    /* (p, lambda) by CG, SCHUR eq. 17, or RMSF11 with implicit solid forces; voxel form only */
    FSI_COUPLE_FULL,
    FSI_COUPLE_INDEFINITE, /* (p, v) by SYMMQMR */
    FSI_COUPLE_SOLVER_FORCE_INT = 0x7fffffff
} fsi_couple_solver;

typedef enum fsi_couple_precondition {
    FSI_PRECONDITION_MULTIGRID = 0,
    FSI_PRECONDITION_NONE,
    FSI_PRECONDITION_IC
} fsi_couple_precondition;

typedef struct fsi_couple_desc {
    fsi_couple_solver solver;
    /* SCHUR: s of P(s), 0 .. 16; -1 = no preconditioner. With area fractions P(0): there is no
     * lambda */
    int terms;
    /* FULL: for the pressure block; the rest is scaled by its diagonal (none: not at all) */
    fsi_couple_precondition precondition;
    /* 1: area fractions for closed solids (open shells keep the voxel form); 0: voxel faces */
    int fractions;
    /* nodal solids: 1 = J averages over the dual cell, 0 = J at the crossing */
    int average;
    int bubbles;      /* 1: closed air regions of a liquid keep their volume */
    double tolerance; /* relative residual; 0 = the grid's */
    /* budget; 0 = the grid's cap (FULL, INDEFINITE: 20000). Stopping early is stable: the energy
     * has only fallen */
    int max_iterations;
    double (*clock_fn)(void *user); /* optional: seconds, for the budget and reports */
    void *clock_user;
    double seconds; /* time budget of the solve; 0 = none; needs clock_fn */
    /* 1: start from the last pressure when that passes the energy test; 0: from zero */
    int warm_start;
    /* DEFLATED: cells by which a solid's columns may spread on each level, see fsi_mg_rank; 0 = 3,
     * with many 2, light solids with area fractions more */
    int band;
    fsi_allocator allocator; /* zero = malloc */
} fsi_couple_desc;

/* private */
typedef struct fsi__bubble_face {
    int32_t cell, face;
    int8_t axis, sign;
    fsi_real w;
} fsi__bubble_face;

/* A closed air region that keeps its volume. */
typedef struct fsi_bubble {
    int region;           /* number in grid.regions */
    double volume;        /* now, m^3 (m^2 in 2D) */
    double target;        /* should be */
    fsi_real pressure;    /* Pa, from the last solve */
    int first, last;      /* private: its faces */
    fsi_real weight, rhs; /* private: sum of face weights, right-hand side of its row */
    /* private: surface in m^2, correction of the surface and its last part in m, volume before that
     */
    double area, shift, step, before;
} fsi_bubble;

/* What the fluid did to one solid in the last solve. */
typedef struct fsi_body_report {
    fsi_vec3 force;   /* N, mean over the step */
    fsi_vec3 torque;  /* N m about the world origin's axes through `about` */
    fsi_vec3 about;   /* the point: mean of the surface's vertices */
    double submerged; /* volume below the liquid's surface, m^3 (m^2 in 2D) */
    int sides;        /* coupling sides */
} fsi_body_report;

typedef struct fsi__block {
    void *ptr;
    size_t bytes;
} fsi__block; /* private */

typedef struct fsi_couple {
    /* as given; solver, terms, tolerance, budgets, warm_start may be changed between solves */
    fsi_couple_desc desc;
    fsi_grid *grid; /* the caller's */
    fsi_interface interface;
    fsi_report report;  /* of the last solve */
    fsi_bubble *bubble; /* [bubbles] of the last solve */
    int bubbles;
    double dt;        /* of the last solve, s */
    fsi_real *lambda; /* [sides] impulse of the last solve on the fluid side, N s */
    /* [sides] fluid velocity along the axis at the side: u* before the solve, u after, m/s */
    fsi_real *side_velocity;
    /* private */
    fsi_mg second;     /* V-cycle on A11 (SCHUR, FULL); made when first needed */
    int columns;       /* all reduced degrees of freedom */
    int *offset;       /* [solids + 1] first column of each solid */
    int *first;        /* [solids + 1] first of each solid in by_solid */
    int32_t *by_solid; /* [sides] sides ordered by solid */
    size_t *row;       /* [sides] first entry of the side in q (dense solids) */
    /* v* of the dense solids that take impulses, one after the other: for the ledger */
    fsi_real *v_before;
    fsi_real *q; /* rows of J F, F F^T = M^-1 (dense solids) */
    /* dense: L, rows of its lower triangle, L L^T = I + F^T J^T beta J F; nodal: diagonal of K */
    fsi_real *K;
    size_t *K_at;        /* [solids + 1] */
    fsi_real *coef[8];   /* [columns] work; the last three only with nodal solids */
    fsi_real *cells[3];  /* [cells] work */
    fsi_mg_group *group; /* [solids] columns of the dense solids */
    fsi_mg_rank rank;
    int32_t *side_cell; /* [sides] cell and factor of Z, ordered by solid */
    fsi_real *side_factor;
    fsi_real *E, *coarse_work; /* [regions^2] factor; [regions] */
    /* [2 * regions * columns] Z^T 1 of the regions, and K^-1 times that */
    fsi_real *GY;
    int regions, region_of[64]; /* closed regions that solids feel */
    /* [label] pressure level p^ of closed regions, beside grid.pressure until the velocities are
     * made */
    double constant[64];
    int32_t *bubble_cell; /* [cells] bubble of the step before + 1; 0 = none, -1 = open air */
    /* [cells] 1 + the air region whose surface is next; 0 = far from all */
    int32_t *bubble_near;
    fsi__bubble_face *bubble_face; /* faces between fluid and bubbles, by bubble */
    fsi__block block[40];          /* the lists above */
} fsi_couple;

/* Ties a coupling to a grid (which must outlive it). Area fractions or shells need nothing special
   of the grid, shells work best with fsi_grid_desc.shells = 1. desc may be NULL. */
FSI_API fsi_result fsi_couple_init(fsi_couple *couple, fsi_grid *grid, const fsi_couple_desc *desc);
/* Frees everything; safe on a zeroed struct and twice. */
FSI_API void fsi_couple_free(fsi_couple *couple);
/* Where the solids are now: covered cells and cut faces, given to the grid. Before the fluid is
 * advected. */
FSI_API fsi_result fsi_couple_detect(fsi_couple *couple, fsi_coupled *const *solid, int count);
/* The coupled solve: u* and v* in, u, p and v out (grid.u, grid.pressure, solids' v and impulse).
   After advection, forces and viscosity. dt in s, > 0. report may be NULL. Positive results (not
   converged, ...) leave a valid state. */
FSI_API fsi_result fsi_couple_solve(fsi_couple *couple, fsi_real dt, fsi_report *report);
/* Force, torque and submerged volume of one solid in the last solve. */
FSI_API fsi_result fsi_couple_body(const fsi_couple *couple, int solid, fsi_body_report *out);
/* Added mass of one dense solid where it is now: out[dof * dof], kg (kg m, kg m^2); dof pressure
 * solves. After fsi_couple_solve. */
FSI_API fsi_result fsi_couple_added_mass(fsi_couple *couple, int solid, fsi_real *out);

/* What a coupling carries from step to step (bubbles' targets): bytes, copy out, copy back. Grid
 * and solids save themselves. */
FSI_API size_t fsi_couple_state_size(const fsi_couple *couple);
FSI_API fsi_result fsi_couple_save(const fsi_couple *couple, void *block);
FSI_API fsi_result fsi_couple_restore(fsi_couple *couple, const void *block);

/* A coupled scene and its solids, which may come from any engine. */
typedef struct fsi_scene {
    fsi_coupled *const *solid; /* [count] */
    int count;
    /* Explicit forces on the solids, v* into solid[i]->v, surfaces up to date. NULL = nothing to
     * do. Not FSI_OK (negative): the step stops. */
    fsi_result (*begin_fn)(void *user, fsi_real dt);
    /* Takes the new velocities, moves, resolves contact and joints, refreshes surfaces. NULL =
     * nothing to do. */
    fsi_result (*move_fn)(void *user, fsi_real dt);
    void *user;
} fsi_scene;

/* One coupled step, design.md's six lines. report: of the solve plus ledger; may be NULL. */
FSI_API fsi_result fsi_couple_step(fsi_couple *couple, const fsi_scene *scene, fsi_real dt,
                                   fsi_report *report);
/* First half of the Newmark step (REDUCED section 6, see fsi_reduced_half): explicit forces on the
   fluid for dt / 2 (no advection) and the coupled solve with dt / 2; the doors go in with v* of
   half a step and come out with v^(n+1/2), the fluid is left as it was. The second half, after the
   solids moved and got their v^n back, is fsi_couple_step with a move_fn that takes velocities
   only. dt in s, > 0, of the whole step; report may be NULL. */
FSI_API fsi_result fsi_couple_half(fsi_couple *couple, fsi_coupled *const *solid, int count,
                                   fsi_real dt, fsi_report *report);

/* A rigid body of your own engine: fill the first part each step, couple it, take velocity, spin
 * and impulse back. */
typedef struct fsi_body {
    /* kg (2D: kg per m), > 0; or 0 = scripted: pushes the fluid and is not pushed */
    fsi_real mass;
    /* about the centre of mass in the world frame, kg m^2 (2D: only m[8]) */
    fsi_mat3 inertia;
    fsi_vec3 centre;         /* centre of mass, m */
    fsi_vec3 velocity, spin; /* m/s, rad/s: v* before the solve, new ones after fsi_body_take */
    /* N s and N m s about the centre, of the last solve; after fsi_body_take */
    fsi_vec3 impulse, twist;
    /* private: what the coupling reads and writes */
    fsi_real v[6], j[6], mass_matrix[36], inverse_mass[36];
} fsi_body;

/* Door of the body with this surface (copied struct, arrays referenced). out and body must stay in
   place until fsi_body_take. surface->v, where given, is how fast it really moves (the fluid's
   advection asks); without it v* counts, which is far off when strong forces act on a light body.
 */
FSI_API fsi_result fsi_body_give(fsi_body *body, const fsi_surface *surface, fsi_coupled *out);
/* Copies velocity, spin, impulse and twist back. */
FSI_API void fsi_body_take(fsi_body *body);
#endif

/* ------------------------------------------------------------------------------------------------
 * >>world */
#ifndef FSI_COUPLE_NO_GRID
/* A fluid, rigid bodies and whatever else is coupled, in one object: the short way to a scene.
 * Everything inside stays reachable. */
typedef struct fsi_world_desc {
    fsi_grid_desc grid; /* as for fsi_grid_init */
    /* zero = deflated solve, voxel faces; zero allocator = the grid's, as for everything else here
     */
    fsi_couple_desc couple;
    int max_bodies; /* rigid bodies, >= 0 */
    int max_joints; /* >= 0 */
    /* further coupled solids (cloth, tetrahedra, reduced bodies, your own), >= 0 */
    int max_guests;
    /* 0: closed sides of the grid's box hold the bodies back; 1: bodies leave it */
    int no_walls;
    int substeps, iterations; /* of contact, 0 = fsi_solids' defaults */
    /* dv/dt = -damping v on rigid bodies and fluid, 1/s: to let a scene come to rest; 0 = none */
    fsi_real damping;
} fsi_world_desc;

/* A solid that is no rigid body of the world: its door, its stages. */
typedef struct fsi_guest {
    fsi_coupled *door; /* the caller's; v* in, answer out */
    /* explicit forces, v* and surface into the door; may be NULL */
    fsi_result (*begin_fn)(void *user, fsi_real dt);
    /* takes the door's velocity, moves; may be NULL */
    fsi_result (*move_fn)(void *user, fsi_real dt);
    void *user;
    /* fsi_world_exchange only: as in fsi_solid_part, called with respond_user; NULL = the door's
     * own mass */
    fsi_result (*respond_fn)(void *user, fsi_real dt, const fsi_real *impulse, fsi_real *v);
    void *respond_user;
} fsi_guest;

typedef struct fsi_world {
    fsi_grid grid;
    fsi_solids solids;
    fsi_couple couple;
    fsi_real damping; /* 1/s, may be changed */
    fsi_guest *guest; /* [guest_count] */
    int guest_count, guest_room;
    /* [door_count] of the last step: rigid bodies with a surface (jointed ones together), then
     * guests */
    fsi_coupled **door;
    /* [door_count] body number (the lowest of those together), -1 = guest */
    int *door_body;
    int door_count;
    fsi_shape room; /* the walls */
    void *block;
    size_t size;
} fsi_world;

/* Makes grid, rigid world and coupling; gravity of the grid acts on the bodies too. On failure *w
 * is zeroed. */
FSI_API fsi_result fsi_world_init(fsi_world *w, const fsi_world_desc *desc);
/* Frees everything; safe on a zeroed struct and twice. Shapes given to bodies are the caller's. */
FSI_API void fsi_world_free(fsi_world *w);
/* Adds a rigid body (see fsi_rigid_desc); *id may be NULL. */
FSI_API fsi_result fsi_world_add(fsi_world *w, const fsi_rigid_desc *desc, int *id);
/* Adds a guest (struct copied). */
FSI_API fsi_result fsi_world_add_guest(fsi_world *w, const fsi_guest *guest);
/* One coupled step. report may be NULL. */
FSI_API fsi_result fsi_world_step(fsi_world *w, fsi_real dt, fsi_report *report);
/* Force, torque, submerged volume of a rigid body in the last step; FSI_ERR_ARGUMENT when it was
 * not coupled. */
FSI_API fsi_result fsi_world_body(const fsi_world *w, int body, fsi_body_report *out);
/* State of grid, rigid bodies and coupling (guests save their own): bytes, copy out, copy in. A
 * restored run continues bit for bit. */
FSI_API size_t fsi_world_state_size(const fsi_world *w);
FSI_API fsi_result fsi_world_save(const fsi_world *w, void *block);
FSI_API fsi_result fsi_world_restore(fsi_world *w, const void *block);
#endif

/* ------------------------------------------------------------------------------------------------
 * >>slip */
#ifndef FSI_COUPLE_NO_GRID
/* Frictionless walls on a voxel grid (SLIP, with the repairs of docs/slip.md): the fluid crosses
   the stair steps of a sloping surface through ghost cells, so that it slides along the surface and
   never through it. Every coupling side of fsi_interface gets a flux of its own and a ghost cell
   behind it; ghosts of the same side of the surface are merged and linked, ghosts of different
   sides never. flux out of the fluid cell through a side      sign (J v)_s + (relative flux), the
   second also enters the ghost start of the relative flux                     sign * axis part of
   (I - N N^T)(V^ - V_s), V^ = mean of the cell's regular samples surface velocity after the solve
   V = V_s + (I - N N^T)(V^ - V_s)   (N.V = N.V_s exactly) friction, coefficient c < 1 wall stress
   -FSI_SLIP_STRESS (1 - c) / c rho |V - V_s| (V - V_s); c = 0: V = V_s For static closed solids
   area fractions (fsi_couple_desc.fractions) are more accurate; this is for thin shells, and for
   closed solids on voxels. Solids with inverse_mass 0 (or dof 0: surface.v) are static or scripted;
   others are moved by the solve (two-way). */
#define FSI__SLIP_GHOST_MASS                                                                       \
    FSI_R(30.0) /* mass of a ghost flux over that of a face (10 .. 10000 do the same) */
#define FSI_SLIP_STRESS FSI_R(0.05) /* wall stress over rho |V - V_s|^2 at coefficient 1/2 */

typedef enum fsi_slip_form {
    /* flux-consistent start, corner links, no reaction of the constraint on regular faces: first
     * order */
    FSI_SLIP_REPAIRED = 0,
    /* SLIP eq. 10, 12, 16 as printed (sign corrected), one pass: kept as reference. Does not
     * converge on a cylinder (docs/slip.md) */
    FSI_SLIP_PAPER,
    FSI_SLIP_FORM_FORCE_INT = 0x7fffffff
} fsi_slip_form;

typedef enum fsi_slip_solver {
    /* conjugate gradients with the grid's V-cycle: ghosts eliminated by sparse Cholesky, solids too
     */
    FSI_SLIP_CG = 0,
    /* two-way: velocities of the solids kept as unknowns, SYMMQMR (V-cycle; paper's form:
     * incomplete Cholesky); one-way: as CG */
    FSI_SLIP_INDEFINITE,
    FSI_SLIP_SOLVER_FORCE_INT = 0x7fffffff
} fsi_slip_solver;

typedef struct fsi_slip_desc {
    fsi_slip_form form;
    fsi_slip_solver solver;
    /* solves per call, each with fresh starts of the ghost fluxes from the same u*; 0 = 3. One is
     * enough in a slowly changing flow */
    int passes;
    /* [solids] 1 = slip, 0 = no-slip, between: friction (stress above; the same law for any
     * grid, step and viscosity); NULL = all 1. The caller's, read in every solve */
    const fsi_real *coefficient;
    /* 1: closed solids by area fractions in place of ghost cells (second order field); open shells
     * keep their ghosts. Fixed at init */
    int fractions;
    /* 0: steps are of second order in time (docs/slip.md: half of the last pressure gradient
     * travels with the fluid) while all solids are closed and scripted, there is no free surface
     * and max |u| dt / h <= 2; else, and with 1, of first. Fixed at init */
    int first_order;
    double tolerance;        /* relative residual; 0 = the grid's */
    int max_iterations;      /* 0 = 2000 */
    fsi_allocator allocator; /* zero = malloc */
} fsi_slip_desc;

/* flux from ghost a to ghost b; b = -1: out of the box */
typedef struct fsi_slip_link {
    int32_t a, b;
} fsi_slip_link;

typedef struct fsi_slip {
    /* as given; form, solver, passes, coefficient, tolerance may be changed between solves */
    fsi_slip_desc desc;
    fsi_grid *grid; /* the caller's */
    fsi_interface interface;
    fsi_report report; /* of the last solve, iterations of all passes */
    int ghosts, links, groups;
    int32_t *ghost;      /* [sides] ghost of each side */
    fsi_real *flux;      /* [sides] relative flux out of the fluid cell into the ghost, m/s */
    fsi_vec3 *velocity;  /* [sides] fluid velocity at the surface, m/s */
    fsi_slip_link *link; /* [links] sorted */
    fsi_real *link_flux; /* [links] m/s */
    int32_t *group;      /* [ghosts] number of the connected set of linked ghosts */
    uint8_t *group_open; /* [groups] 1: it reaches an open or inflow side of the box */
    /* the caller's, may be NULL: [3 * tracers] points, m, that fsi_slip_step moves with the fluid
     * and keeps on their side of every surface */
    fsi_real *tracer;
    int tracers;
    /* private: of the last solve, in the heap */
    struct fsi__slip_heap *heap;
    fsi_vec3 *body;    /* [sides] velocity of the solid */
    fsi_real *conduct; /* [sides] coefficient / ghost mass */
    /* [sides] dt times wall stress over rho h |V - V_s|: what friction takes in a step; no-slip:
     * FSI__SLIP_STUCK */
    fsi_real *rate;
    /* [sides] fluid that follows the solid along Y, kg; 0 in the paper's form */
    fsi_real *mass;
    fsi_real *wall; /* [sides] (J v)_s along the axis */
    /* [sides] part of u* along the axis that does not slide, then less the wall's */
    fsi_real *stick;
    fsi_real *push;      /* [sides] work */
    fsi_real *friction;  /* [3 * solids] force of the last solve's friction on the solids, N */
    uint64_t *spot;      /* [2 * sides] location << 32 | side, sorted */
    int32_t *root;       /* [regions + ghosts] */
    double *sum, *count; /* [regions + ghosts] */
    double *coarse;      /* [2 * regions] */
    fsi_real *vec[4];    /* [cells + ghosts + columns] */
    fsi_real *aux;       /* [ghosts] work */
    fsi_real *row;       /* longest row of J */
    int solids, columns, *offset; /* degrees of freedom of two-way solids; [solids + 1] */
    /* [columns] M + Y^T b Y + B^T B of all two-way solids, fixed degrees of freedom as identity */
    fsi_csr K;
    fsi_cholesky K_factor;
    size_t *K_at; /* [solids] where the entries of a solid begin while K is made */
    /* rows [sides]: what the solid's new velocity moves through a side: closed solids J, shells P N
     * N^T J */
    fsi_csr Z;
    /* the same of the fluid's mass at a side: P (k N N^T + (1 - k) I) J, k = 1 / (1 + rate) */
    fsi_csr Y;
    /* [5 * columns] v* after friction, v without pressure, v, work, v* as given */
    fsi_real *solid;
    fsi_cholesky start, block; /* links alone; block of the ghosts in the matrix */
    fsi_mg_group *group_of;    /* [solids] columns of the dense solids for the V-cycle */
    /* private: kept */
    fsi_mg_rank rank; /* what the V-cycle makes of them, as in the monolithic solve */
    fsi_real *u[3];   /* [faces] u* */
    /* second order: [faces] half of the last step's pressure gradient over rho, m/s */
    fsi_real *half[3];
    fsi_real *total; /* second order: [cells] p^ of the whole last step, Pa s */
    int stepped;     /* 1: total is of the last solve */
    fsi_real dt;     /* of the last solve */
    /* where all surfaces were when the tracers were last kept clear of them, 3 per vertex */
    fsi_real *was;
    int was_count, was_elements;
    fsi_real *from; /* [3 * tracers] where they were before the step */
    int link_room, was_room, from_room;
    void *memory;
    size_t size;
} fsi_slip;

/* Ties the scheme to a grid (which must outlive it; the struct may be moved); thin shells need
 * fsi_grid_desc.shells = 1 to be advected right. desc may be NULL. */
FSI_API fsi_result fsi_slip_init(fsi_slip *slip, fsi_grid *grid, const fsi_slip_desc *desc);
/* Frees everything; safe on a zeroed struct and twice. */
FSI_API void fsi_slip_free(fsi_slip *slip);
/* Where the solids are now; before the fluid is advected. As fsi_interface_detect. */
FSI_API fsi_result fsi_slip_detect(fsi_slip *slip, fsi_coupled *const *solid, int count);
/* The solve: u* and v* in; u, p, samples at the sides, v and impulse of the solids out. After
   advection, forces and viscosity. dt in s, > 0. Memory is taken in the first calls and when the
   interface outgrows it. report may be NULL. Positive results leave a valid state. */
FSI_API fsi_result fsi_slip_solve(fsi_slip *slip, fsi_real dt, fsi_report *report);
/* One step of fluid and solids, as fsi_couple_step. */
FSI_API fsi_result fsi_slip_step(fsi_slip *slip, const fsi_scene *scene, fsi_real dt,
                                 fsi_report *report);
/* Surface velocities (velocity) from the velocity on the grid as it is, without solving: for
 * measuring other schemes. After fsi_slip_detect. */
FSI_API fsi_result fsi_slip_surface(fsi_slip *slip);
/* Moves count tracer points x[3 * count] for dt (midpoint rule); a path ends just before the first
 * surface it meets, so none crosses a solid at rest. */
FSI_API fsi_result fsi_slip_trace(const fsi_slip *slip, fsi_real dt, int count, fsi_real *x);
/* Force of the fluid's pressure (along the face axes) and friction on a solid in the last solve, N
 * (2D: N/m): mean over the step. */
FSI_API fsi_vec3 fsi_slip_force(const fsi_slip *slip, int solid);
/* What the scheme carries from step to step beside the grid (the last pressure, the surfaces'
   places when there are tracers): bytes, which the first step with tracers changes, copy out, copy
   back. */
FSI_API size_t fsi_slip_state_size(const fsi_slip *slip);
FSI_API fsi_result fsi_slip_save(const fsi_slip *slip, void *block);
FSI_API fsi_result fsi_slip_restore(fsi_slip *slip, const void *block);
/* Largest |net outflow| / h over fluid cells and over ghosts after a solve, 1/s. */
FSI_API double fsi_slip_max_divergence(const fsi_slip *slip);
#endif

/* ------------------------------------------------------------------------------------------------
 * >>partitioned */
/* Partitioned coupling of two solvers nobody looks into (paper XPM). Symbols:
       X [n]   what the solid tells the fluid (positions of interface nodes, m)     F: X -> p   the
   fluid p [m]   what the fluid tells the solid (forces or impulses on those nodes)   S: p -> X the
   solid X_F, p_F   last input and output of F;   p_S, X_S   last input and output of S;   R =
   S(F(X)) - X   the residual F_X, S_p   reduced Jacobians from the pairs seen so far */

/* One black box. Every solve starts from the state of the last accepted step: either the box has no
   memory inside a step, or it gives save_fn and restore_fn. All callbacks return FSI_OK or a
   positive result, see fsi_partitioned.told; a negative one ends the step and is what it returns.
 */
typedef struct fsi_blackbox {
    /* required: one step of this solver with boundary values in */
    fsi_result (*solve_fn)(void *user, const fsi_real *in, fsi_real *out);
    /* once at the start of a step; NULL = no memory to save */
    fsi_result (*save_fn)(void *user);
    /* before every solve but the first; NULL = no memory to restore */
    fsi_result (*restore_fn)(void *user);
    void *user;
} fsi_blackbox;

typedef enum fsi_scheme {
    /* reduced model interface: eq. (6) before the fluid, (7) before the solid. XPM when p are
     * conservative impulses */
    FSI_SCHEME_REDUCED = 0,
    /* Gauss-Seidel with under-relaxation omega (P, and P-C with impulses) */
    FSI_SCHEME_RELAXED = 1,
    FSI_SCHEME_AITKEN = 2 /* the same with Aitken's omega */
} fsi_scheme;

typedef struct fsi_partitioned_desc {
    int n, m; /* largest lengths of X and p, >= 1 */
    /* components per node for the norm: largest length of a node's residual; 0 = 1 */
    int group;
    fsi_scheme scheme;  /* 0 = REDUCED */
    fsi_real omega;     /* RELAXED, and AITKEN's first: in (0, 2); 0 = 0.5 */
    fsi_real tolerance; /* |R| <= tolerance, unit of X, > 0 */
    int max_iterations; /* pairs of one fluid and one solid call; 0 = 30 */
    int min_iterations; /* 0 = 1; the paper's algorithm never ends before 2 */
    int reuse;          /* REDUCED: steps whose pairs are kept; 0 = 5, -1 = none */
    /* REDUCED: share of the way from the last step's load to p_F that the first solid call gets,
     * and of the second step taken while nothing is known, (0, 1]; 0 = 0.1. 1 = Algorithm 1 of
     * the paper, which multiplies the error by the added-mass ratio first */
    fsi_real start;
    /* REDUCED: 1 = the first load is mild in a first step too, from none (light nonlinear
     * solids; closed regions take longer then); 0 = it is p_F there */
    int gentle;
    fsi_real filter; /* REDUCED: an old pair is used if this share of it is new; 0 = 0.1 */
    /* REDUCED: 1 = eq. (6), (7) matrix-free by GMRES as in the paper, 0 = exactly by the small
     * system */
    int gmres;
    /* RELAXED: 1 = stop on omega |R| as the paper does (flatters small omega), 0 = on |R| */
    int relaxed_residual;
    /* 1: the solid keeps the load of the reduced model; 0: it is solved once more with p_F
     * itself, so that what the fluid lost is what the solid got, and |R| is the true one (that
     * call is not counted as an iteration) */
    int no_final_solve;
    double (*clock_fn)(void *user); /* optional: seconds, for fsi_partitioned.seconds */
    void *clock_user;               /* handed to clock_fn */
    fsi_allocator allocator;        /* zero = malloc */
} fsi_partitioned_desc;

/* Pairs of one solver. Inputs of this step are orthonormal, q_i -> y_i; those of earlier steps stay
   as they are, d_j -> e_j. With C = Q^T D and L L^T = D^T D - C^T C (what is new in D), Jacobian =
   [Y E] R [Q D]^T, R = [[1 + C W C^T, -C W], [-W C^T, W]], W = (L L^T)^-1. A product of two columns
   is formed once in their life, when first asked for, so an iteration costs some columns' length
   and no square of their number. */
typedef struct fsi__pairs {
    fsi_real *dq, *dy; /* [columns * in], [columns * out] unit differences, in slots */
    /* [columns] slots of the current step's, then of earlier steps', newest first; then free ones
     */
    int32_t *slot;
    /* [basis * in], [basis * out] those of this step made orthonormal, and their images */
    fsi_real *q, *y;
    int in, out;      /* lengths */
    int current, old; /* stored differences of this step and of earlier ones */
    int kept, chosen; /* columns in q; old ones in use */
    int used;         /* kept + chosen */
    int stale;        /* 1: chosen is not up to date */
    /* newest pairs of this step that said nothing new: round-off, or in the span of the others */
    int dependent;
    int columns, basis; /* room */
    int32_t *choice;    /* [columns] numbers of the old ones in use, newest first */
    /* [columns] an old pair that said nothing new: it cannot later in the same step, when more is
     * known */
    uint8_t *dropped;
    /* [basis * columns], [columns * columns] products q . d and d . d by slots; factor.
     * FSI_REAL_MAX = not formed yet */
    fsi_real *C, *G, *L;
    fsi_real *part; /* [columns] scratch */
    /* both: [most * most] products of the fluid's inputs with the solid's images, and of the
     * solid's with the fluid's */
    fsi_real *cross[2];
    size_t most; /* basis + columns */
} fsi__pairs;

typedef struct fsi_partitioned {
    fsi_partitioned_desc desc; /* defaults filled in */
    int n, m;                  /* lengths of the last step; another length forgets the pairs */
    int capped, stalled;       /* steps that ended at the cap, or without progress, since init */
    /* pairs of the last step that said nothing new and were left out (see report.restarts) */
    int dependent;
    /* pairs of earlier steps that the filter left out at the end of the last step, of both models
     */
    int filtered;
    /* positive results of the fluid's and the solid's last call, FSI_OK = none: they do not stop a
     * step */
    fsi_result told[2];
    int64_t steps, fluid_calls, solid_calls; /* since init; the final solid call is not counted */
    double used_columns; /* mean columns of the fluid's reduced model per step */
    /* since init, with clock_fn: in the fluid, in the solid, in the scheme itself */
    double seconds[3];
    fsi_real *xf; /* [n] X that the fluid was told last */
    /* [m] p_F, its answer: p less this is what the solid got and the fluid did not give */
    fsi_real *pf;
    /* private */
    int columns;                      /* room in fluid and solid */
    int step_columns[16], kept_steps; /* pairs stored per earlier step */
    fsi__pairs fluid, solid;
    fsi_real *xs, *ps;               /* X_S p_S */
    fsi_real *xf0, *xs0, *pf0, *ps0; /* of the pair before */
    fsi_real *xfb, *xsb, *pfb, *psb; /* of the pair with the smallest residual in this step */
    fsi_real *r, *r0, *p_last;       /* residual, the one before, load of the last step */
    fsi_real *small, *work;          /* k x k system, vectors of length n + m */
    int32_t *pivot;
    void *gmres;
    size_t gmres_size; /* its work space */
    int has_load;      /* p_last is valid */
    void *block;
    size_t size; /* the one allocation; state (pairs, p_last) is all of it */
} fsi_partitioned;

/* Makes the scheme's memory (one allocation). */
FSI_API fsi_result fsi_partitioned_init(fsi_partitioned *c, const fsi_partitioned_desc *desc);
/* Frees it; safe on a zeroed struct and twice. */
FSI_API void fsi_partitioned_free(fsi_partitioned *c);
/* One coupled step. x[n]: in the extrapolated X, out the X the fluid saw last; p[m]: out the load
   the solid got. n, m at most those of the desc. FSI_NOT_CONVERGED at the cap, FSI_STALLED when the
   residual no longer falls (both leave the solvers at their last call, and REDUCED the solid with
   the load of the reduced model: p_F itself would throw a light one off by the whole residual; what
   the two loads differ by is momentum lost); report: iterations = pairs, residual_start, residual =
   |R| in the unit of X, restarts = times the reduced model was dropped, plus pairs that were left
   out because they depend on others. */
FSI_API fsi_result fsi_partitioned_step(fsi_partitioned *c, int n, int m, const fsi_blackbox *fluid,
                                        const fsi_blackbox *solid, fsi_real *x, fsi_real *p,
                                        fsi_report *report);
/* Forgets all pairs of earlier steps, e.g. after a jump. */
FSI_API void fsi_partitioned_forget(fsi_partitioned *c);
/* Bytes of the memory that decides the next step; save and restore copy it, so a restored run
 * continues bit for bit. */
FSI_API size_t fsi_partitioned_state_size(const fsi_partitioned *c);
FSI_API fsi_result fsi_partitioned_save(const fsi_partitioned *c, void *block);
FSI_API fsi_result fsi_partitioned_restore(fsi_partitioned *c, const void *block);

/* Boundary pressure projection (XPM section 6): makes boundary velocities of closed regions
   compatible with incompressible fluid. Face f has area[f] (m^2), dual mass[f] (kg, of dynamic
   faces), velocity u[f] (m/s along its axis), region_minus[f] and region_plus[f]: the closed region
   on its lower and upper side (-1 = none), fixed[f] = 1 for sources and scripted faces (NULL =
   none). Outward sign: + on the minus side. Every closed region gets sum A u n = 0 with the least
   change of kinetic energy; p0[region] (Pa) is the pressure that does it in dt seconds. m regions:
   an m x m system, work[m * m + 2 m]. FSI_INCOMPATIBLE: a region with no dynamic face and net flow
   (it is left alone). */
typedef struct fsi_boundary_faces {
    int faces, regions;
    const fsi_real *area, *mass;
    const int32_t *region_minus, *region_plus;
    const uint8_t *fixed; /* may be NULL */
    fsi_real *u;          /* in U*, out U */
} fsi_boundary_faces;

FSI_API fsi_result fsi_boundary_project(const fsi_boundary_faces *b, fsi_real dt, fsi_real *p0,
                                        fsi_real *work);

/* ------------------------------------------------------------------------------------------------
 * >>boxes */
#ifndef FSI_COUPLE_NO_GRID
/* Our own solvers behind the black-box door. The interface variables are generalised: X = dt v of
   every solid's degrees of freedom, one after the other (a rigid body 6, cloth 3 per node), then
   one entry per closed fluid region; p = the impulses on the same degrees of freedom, N s, then the
   regions' pressure. Residuals are therefore displacements in one step, m (rotations: rad).

   Closed regions (boundary pressure projection, XPM section 6): the fluid makes the solids'
   velocities compatible and tells by which pressure. The paper hands that pressure p0 to the solid
   and forgets it, so it vanishes when the solid obeys and the fixed point is not the coupled
   solution. Here the region's pressure pi is carried along, pi' = pi + p0, and p0 = 0 is part of
   convergence. fsi_closed_regions does better (a scene's step uses it): the solids find the pi for
   which their answer is compatible, in every call, so X and p only have to agree on compatible
   motion. */
/* Solids as given to detect, and their doubles under X; velocities before the solve. */
typedef struct fsi__follow {
    fsi_coupled *const *given;
    fsi_coupled **list, *copy;
    fsi_real *x, *u[3], *plus[3];
    void *block;
    size_t size;
} fsi__follow;

typedef struct fsi_fluid_box {
    fsi_grid *grid;      /* the caller's; after advection, forces and viscosity */
    fsi_interface *face; /* the caller's; detected, see fsi_fluid_box_begin */
    /* 0: conservative impulses, XPM section 5; 1: pressure forces alone (P and RMI of the
     * paper), through the same rows of J; 2: pressure forces at the vertices, means of the faces
     * around each (XPM section 4.5): smoother, loses momentum */
    int pressure_form;
    /* 1: closed regions push the solids (a scene's step then calls them twice an iteration, and
     * once more per region and step); 0: velocities are made compatible, but the solids do not
     * feel it */
    int bpp;
    /* 1: a closed region grows by the volume that the elements of nodal surfaces around it
     * sweep, to round-off, and its pressure acts along their normals; they must lie in the box
     * and be oriented alike. 0: by the flux through the cut faces, and acts on these, as in the
     * monolithic solve (O(h) off) */
    int swept;
    /* 0: geometry stays where the step began. > 0: open nodal surfaces (cloth, rubber) are where
     * X takes them, see fsi_fluid_box_follow; fsi_partitioned_scene_step finds them anew and
     * exchanges again up to so many times, until X moves no more than the tolerance */
    int follow;
    double tolerance;        /* of the pressure solve; 0 = 1e-10 (single 1e-5) */
    fsi_allocator allocator; /* zero = malloc */
    /* set by fsi_fluid_box_begin */
    int n;            /* length of X and p */
    int dof, regions; /* n = dof + regions */
    fsi_real dt;
    int64_t solves, iterations; /* pressure solves and their iterations since begin */
    /* net volume that sources and scripted faces push into closed regions, m^3/s */
    double injected;
    /* follow: largest way of a node from where the fluid saw it to where it ended, m */
    double lag;
    /* volume that the closed regions gain too much in this step, m^3: by the last solve; after a
     * scene's step by the solids' motion */
    double leak;
    /* private */
    int *offset;           /* [solids + 1] first degree of freedom of each solid */
    fsi_real *rhs0;        /* [cells] right-hand side with the solids at rest */
    fsi_real *u, *u_star;  /* [sides] velocity at the sides, and the fluid's before the solve */
    fsi_real *area, *mass; /* [sides] */
    int32_t *minus, *plus; /* [sides] */
    /* [regions] pressure of the projection, C^T M^-1 C, flux by swept volumes less that through the
     * sides, m^3/s */
    fsi_real *p0, *stiff, *sweep;
    fsi_real *source; /* [regions] what sources and scripted faces push in, m^3/s */
    int region_room;
    /* swept: [2 * elements], [2 * vertices] closed region behind and before each, -1 none, -2 not
     * known */
    int32_t *element, *vertex;

    /* pressure_form 2: what a side adds to a vertex; [kernels] */
    struct fsi__kernel_entry {
        int32_t side, vertex;
        fsi_real weight;
    } * kernel;

    int kernels, kernel_room, vertices;
    fsi_real *push, *normal; /* [vertices] mean pressure, [3 * vertices] area normal */
    fsi_real *jump;          /* [sides] impulse, N s; pressure_form 2: signed pressure, Pa s */
    int32_t *stamp, *corner; /* [vertices] last side seen; an element of the vertex */
    fsi_real *row;           /* [dof of the largest dense solid] */
    fsi__follow moved;       /* follow */
    void *block;
    size_t size;
} fsi_fluid_box;

/* Lists the sides for the present solids, builds the pressure system and keeps it for all solves of
   the step. FSI_ERR_STATE without a detected interface. Allocates only when the interface outgrew
   its room. */
FSI_API fsi_result fsi_fluid_box_begin(fsi_fluid_box *box, fsi_real dt);
/* The door: X -> p. Has no memory: nothing to save or restore. */
FSI_API fsi_blackbox fsi_fluid_box_door(fsi_fluid_box *box);
/* Between two exchanges of a step, with follow set: finds open nodal surfaces anew where X takes
   them, from the same u*. Closed solids stay where they are. n and regions may change. The next
   fsi_interface_detect must see the surfaces where the step began (fsi_interface_moved compares
   with it). */
FSI_API fsi_result fsi_fluid_box_follow(fsi_fluid_box *box, const fsi_real *X);
/* Takes the last solve as the new state of the grid: velocities and pressure. */
FSI_API fsi_result fsi_fluid_box_finish(fsi_fluid_box *box);
/* Frees its memory; safe on a zeroed struct and twice. */
FSI_API void fsi_fluid_box_free(fsi_fluid_box *box);

/* One solid behind the door. */
typedef struct fsi_solid_part {
    fsi_coupled *solid; /* v = v* when the step begins, the answer when it ends */
    /* v[dof] of the end of the step under impulse[dof], from the state at the start of the step.
     * NULL: v = v* + (M + B^T B)^-1 impulse. */
    fsi_result (*respond_fn)(void *user, fsi_real dt, const fsi_real *impulse, fsi_real *v);
    void *user;
} fsi_solid_part;

typedef struct fsi_solid_box {
    fsi_solid_part *part; /* [count] the caller's, in the order of the interface */
    int count;
    int regions; /* as the fluid box says */
    fsi_real dt;
    fsi_allocator allocator;
    fsi_real *v0;
    size_t v0_room;    /* private: v*, then work space of doors with an implicit part */
    fsi_result status; /* last positive result of a respond_fn since begin, FSI_OK = none */
} fsi_solid_box;

/* Remembers v* of all solids. */
FSI_API fsi_result fsi_solid_box_begin(fsi_solid_box *box, fsi_real dt, int regions);
/* The door: p -> X; leaves the answer in every solid's v. */
FSI_API fsi_blackbox fsi_solid_box_door(fsi_solid_box *box);
FSI_API void fsi_solid_box_free(fsi_solid_box *box);

/* respond_fn of fsi_soft (any integrator, nonlinear too). The step begins with
 * fsi_soft_responder_begin, which keeps the soft body's state. */
/* door: of fsi_soft_guest */
typedef struct fsi_soft_responder {
    fsi_soft *soft;
    fsi_coupled door;
    void *state;
    size_t room;
    fsi_allocator allocator;
} fsi_soft_responder;

FSI_API fsi_result fsi_soft_responder_begin(fsi_soft_responder *r);
FSI_API fsi_result fsi_soft_respond(void *responder, fsi_real dt, const fsi_real *impulse,
                                    fsi_real *v);
FSI_API void fsi_soft_responder_free(fsi_soft_responder *r);
/* The soft body as a guest of a world, its door in the responder: for fsi_world_exchange, and with
 * FSI_SOFT_SPLIT for fsi_world_step too. */
FSI_API fsi_guest fsi_soft_guest(fsi_soft_responder *r);

/* Embedded points (XPM section 4.4): any dense solid (rigid, reduced, your own) that the schemes
   see by the points of its surface instead of its degrees of freedom. The surface should have its
   vertices 1 to 1.5 cells apart. begin after the solid's v* stands; then use door,
   fsi_embedded_respond and the struct as user in fsi_solid_part. The answer is in inner->v. */
typedef struct fsi_embedded {
    fsi_coupled *inner;      /* the caller's, dense */
    fsi_coupled door;        /* nodal: 3 per vertex of the surface */
    fsi_allocator allocator; /* zero = malloc */
    /* private */
    fsi_real *J; /* [3 vertices * inner->dof] rows */
    /* [3 vertices], [dof], [vertices], [dof], [vertices] x 2 */
    fsi_real *v, *v0, *ones, *load;
    int32_t *node, *element;
    void *block;
    size_t size;
} fsi_embedded;

FSI_API fsi_result fsi_embedded_begin(fsi_embedded *e);
FSI_API fsi_result fsi_embedded_respond(void *embedded, fsi_real dt, const fsi_real *impulse,
                                        fsi_real *v);
FSI_API void fsi_embedded_free(fsi_embedded *e);

/* Closed regions for every scheme: a door around the solids' door, ours or anybody's with the same
   X and p, that answers with compatible motion. fsi_closed_regions_begin after fsi_fluid_box_begin;
   then the fluid's door and this one go to fsi_partitioned_step. An iteration calls the solids
   twice, and the first of a step once more per region. */
typedef struct fsi_closed_regions {
    fsi_fluid_box *fluid;    /* the caller's, begun, with bpp = 1 */
    fsi_blackbox solid;      /* the solids' door */
    fsi_partitioned *scheme; /* the caller's: the one that will do the step */
    fsi_allocator allocator; /* zero = malloc */
    /* private: load, pi, answers to unit pressures, work space; those answers are measured */
    fsi_real *work;
    size_t room;
    int known;
} fsi_closed_regions;

/* *door: what to give to fsi_partitioned_step; the solids' own where no region is closed. Allocates
 * only when regions or solids outgrew the room. */
FSI_API fsi_result fsi_closed_regions_begin(fsi_closed_regions *c, fsi_blackbox *door);
/* After fsi_partitioned_step: p[n] becomes the load that the solids got, pressures of the regions
 * included; the next step starts from it. */
FSI_API void fsi_closed_regions_finish(fsi_closed_regions *c, fsi_real *p);
/* Frees its memory; safe on a zeroed struct and twice. */
FSI_API void fsi_closed_regions_free(fsi_closed_regions *c);

/* A whole partitioned step for a grid and solids: detect, advect, exchange until they agree, move.
 */
typedef struct fsi_partitioned_scene {
    fsi_grid *grid;
    fsi_interface *face;
    fsi_fluid_box fluid;  /* zero, with options set; grid and face are filled in */
    fsi_solid_box solids; /* part, count set */
    fsi_partitioned *scheme;
    fsi_coupled **list; /* [count] room for the doors */
    /* As in fsi_scene: explicit forces and v* into the doors, surfaces up to date; and motion after
     * the exchange. */
    fsi_result (*begin_fn)(void *user, fsi_real dt);
    fsi_result (*move_fn)(void *user, fsi_real dt);
    void *user;
    /* private: [room] X, load, X that the geometry was found at */
    fsi_real *x, *p, *seen;
    size_t room;
    fsi_closed_regions closed; /* private */
    fsi_allocator allocator;
} fsi_partitioned_scene;

/* Results: those of fsi_partitioned_step, FSI_INCOMPATIBLE where a closed region cannot take what
   is put in (fluid.leak), FSI_DT_TOO_LARGE; also report->reason. report->momentum: what the solids
   got less what the fluid gave; not 0 after a step that did not converge, or with pressure forms 1
   and 2. */
FSI_API fsi_result fsi_partitioned_scene_step(fsi_partitioned_scene *s, fsi_real dt,
                                              fsi_report *report);
FSI_API void fsi_partitioned_scene_free(fsi_partitioned_scene *s);
/* fsi_world_step by exchange instead of one solve: s gives scheme, options of the fluid box, and
   room for one solids.part and one list entry per rigid body and guest; grid, interface and
   callbacks are the world's. fsi_world_body then reports nothing. */
FSI_API fsi_result fsi_world_exchange(fsi_world *w, fsi_partitioned_scene *s, fsi_real dt,
                                      fsi_report *report);
#endif

/* ------------------------------------------------------------------------------------------------
 * >>proxy */
#ifndef FSI_COUPLE_NO_SPH
/* SPH with deformable solids by proxy particles (paper 004). Symbols:
       r0   radius of fluid and proxy particles         n_c   normal of a contact from all its
   triangles, eq. (6), (7) w_j  weights of the nodes around, m_j / d_j^2, normalised: proxy velocity
   (8) and impulse hand-out (14) use the same e    restitution (11)      delta   slip (12)     m_f,
   m_p   masses of fluid particle and proxy What we changed, and why: collisions are looked up with
   the relative motion of the coming step, so that a fast particle cannot jump a thin shell; a fluid
   particle stays on the side where it was, so shells are wet on both sides and fluid inside a
   closed skin's wall is not needed; where several proxies share a node its mass is split among
   them, 1/m_p = sum_j w_j W_j / m_j with W_j the sum of all weights at node j. Then kinetic energy
   cannot grow for any e, delta in [0, 1], however many particles hit at once. */
#define FSI_PROXY_NODES 12     /* most nodes of one proxy; further ones are left out */
#define FSI_PROXY_TRIANGLES 24 /* most triangles one particle is checked against */

/* One solid. Set tled or soft, or fill door (nodal kind) and advance_fn for a solid of your own. */
typedef struct fsi_proxy_solid {
    fsi_tled *tled; /* the caller's, or NULL */
    fsi_soft *soft; /* the caller's, or NULL */
    /* own solids: positions and velocities at the start of the step; else filled in by every step
     */
    fsi_coupled door;
    /* own solids: takes the velocities in door.v through a step of dt s */
    fsi_result (*advance_fn)(void *user, fsi_real dt);
    void *user;
    fsi_real restitution; /* e in [0, 1]; 0 = inelastic */
    fsi_real slip;        /* delta in [0, 1]; 0 = no slip, 1 = free slip */
    /* kg/m^3: the paper's proxy mass density * (2 r0)^dim as a bound of m_p; 0 = the nodes' share
     * of mass alone */
    fsi_real density;
    /* out: steps the solid took in the last step (TLED: as many as its stable step needs) */
    int substeps;
} fsi_proxy_solid;

typedef struct fsi_proxy_desc {
    fsi_sph *sph;                   /* the caller's; required, dim 3 */
    fsi_proxy_solid *solid;         /* [count] the caller's, must stay where it is; required */
    int count;                      /* >= 1 */
    fsi_real radius;                /* r0, m; 0 = spacing / 2 */
    int iterations;                 /* of the position correction; 0 = 12 */
    double (*clock_fn)(void *user); /* optional: seconds, for the times in fsi_proxy_stats */
    void *clock_user;
    fsi_allocator allocator; /* zero = malloc */
} fsi_proxy_desc;

/* Of the last step; the int64 ones are sums since init. */
typedef struct fsi_proxy_stats {
    int near;      /* particles that were looked at */
    int contacts;  /* proxies made */
    int corrected; /* particles moved by the position correction */
    int crossed;   /* particles that had crossed a surface and were taken back */
    /* conflicting normals without a way out: the particle was left where it does not cross */
    int skipped;
    int64_t all_contacts, all_corrected, all_crossed, all_skipped;
    fsi_vec3 impulse;     /* from the fluid to the solids, N s */
    fsi_vec3 held;        /* the part of it that fixed nodes took, N s */
    double energy_change; /* of fluid and solids through the collisions, J; never positive */
    /* largest |J x (x_p - sum w_j x_j)|, N m s: (14) conserves momentum, not angular momentum
     * (H-15) */
    double torque_defect;
    double arm;                                          /* the arm of that defect, m */
    double seconds_sph, seconds_solid, seconds_coupling; /* with clock_fn */
} fsi_proxy_stats;

typedef struct fsi__proxy_near {      /* private: a fluid particle near a surface */
    int32_t particle, solid, element; /* the element nearest to it at the start of the step */
    int32_t nodes;                    /* of its proxy; 0 = no contact */
    fsi_real weight[3];               /* of the nearest point */
    fsi_vec3 offset;                  /* from there to the particle */
    fsi_vec3 start;                   /* where the particle was then */
    fsi_vec3 normal;                  /* n_c */
    fsi_vec3 at;                      /* where the proxy is */
    fsi_vec3 impulse;                 /* on the proxy, N s */
    fsi_vec3 out;                     /* corrected position */
    int32_t state;                    /* of the correction: 1 moved, 2 crossed, 4 skipped */
} fsi__proxy_near;

typedef struct fsi_proxy {
    fsi_proxy_desc desc; /* defaults filled in */
    fsi_proxy_stats stats;
    /* private */
    fsi_lookup *lookup;    /* [count] surfaces at the last stage */
    int *offset;           /* [count + 1] first node of each solid in the common numbering */
    fsi__proxy_near *near; /* [capacity] */
    int32_t *mark;         /* [capacity] */
    int32_t *node;         /* [capacity * FSI_PROXY_NODES] */
    fsi_real *weight;      /* the same */
    int32_t *start;        /* [nodes + 2] entries of each node after sorting */
    int32_t *order;        /* [capacity * FSI_PROXY_NODES] entry numbers sorted by node */
    fsi_real *load;        /* [nodes] W_j */
    double *energy;        /* [nodes] */
    fsi_real *x_old;       /* [3 nodes] positions at the last collide */
    fsi_real moved;        /* the longest way of a node since then, m */
    int ready;             /* 1 after collide */
    void *block;
    size_t size; /* the one allocation besides the look-ups' */
} fsi_proxy;

/* Checks and allocates for the solids as they are. FSI_ERR_ARGUMENT: dense doors, e or delta
 * outside [0, 1], missing parts. */
FSI_API fsi_result fsi_proxy_init(fsi_proxy *c, const fsi_proxy_desc *desc);
/* Frees; safe on a zeroed struct and twice. */
FSI_API void fsi_proxy_free(fsi_proxy *c);
/* One coupled step of dt > 0 s: fluid forces, collide, both move, correct. report may be NULL (of
 * the fluid, with the ledger of the exchange). */
FSI_API fsi_result fsi_proxy_step(fsi_proxy *c, fsi_real dt, fsi_report *report);
/* The stages. Collide: after fsi_sph_accelerate, changes velocities of particles and solids. */
FSI_API fsi_result fsi_proxy_collide(fsi_proxy *c, fsi_real dt);
/* Correct: after fluid and solids have moved; moves fluid particles only. Between collide and
   correct the order of the particles must stay: a prepare in between may only find them sorted
   already (as a fluid step does right after another prepare). */
FSI_API fsi_result fsi_proxy_correct(fsi_proxy *c);
/* The two-body response (9)-(12): velocities v_f, v_p before, 1/m_f and 1/m_p >= 0 (not both 0),
   unit normal n from the solid to the fluid. Returns the impulse on the proxy; the fluid particle
   gets the opposite. */
FSI_API fsi_vec3 fsi_proxy_response(fsi_vec3 v_f, fsi_vec3 v_p, fsi_real inverse_f,
                                    fsi_real inverse_p, fsi_vec3 n, fsi_real restitution,
                                    fsi_real slip);
/* Nearest triangle of any solid to p within reach m, at the positions of the last stage: 1, *solid
 * and *hit (hit->t is the distance), or 0. */
FSI_API int fsi_proxy_closest(const fsi_proxy *c, fsi_vec3 p, fsi_real reach, int *solid,
                              fsi_hit *hit);

/* A flexible part clamped to a rigid body: some nodes of a TLED solid follow the body, and the body
   gets what they are pulled with. Internal forces sum to 0, so free nodes and body together keep
   their momentum to round-off; the mass of the clamped nodes is taken as part of the body. */
typedef struct fsi_clamp {
    fsi_tled *tled;    /* the caller's */
    fsi_solids *world; /* the caller's */
    int body;          /* dynamic or scripted body of world */
    int count;         /* clamped nodes */
    int substeps;      /* out: of the last advance */
    /* out: handed to the body in the last advance, N s and N m s about its centre */
    fsi_vec3 impulse, angular;
    /* private */
    int32_t *node;   /* [count] */
    fsi_real *local; /* [3 count] places in the body's frame */
    fsi_allocator allocator;
    void *block;
    size_t size;
} fsi_clamp;

/* Clamps the nodes where they are now. FSI_ERR_ARGUMENT: numbers out of range. */
FSI_API fsi_result fsi_clamp_init(fsi_clamp *c, fsi_tled *tled, fsi_solids *world, int body,
                                  const int32_t *node, int count, const fsi_allocator *allocator);
FSI_API void fsi_clamp_free(fsi_clamp *c);
/* Takes the solid through dt s in as many steps as it needs, its clamped nodes with the body's
   motion; what they feel (and what a collide before handed to them) becomes force and torque on the
   body, for the next step of world. An advance_fn with user = the clamp. */
FSI_API fsi_result fsi_clamp_advance(void *clamp, fsi_real dt);
#endif

/* ------------------------------------------------------------------------------------------------
 * >>sphrigid */
#ifndef FSI_COUPLE_NO_SPH
/* SPH fluid and rigid bodies that meet at boundary particles (Akinci et al. 2012; paper XPM,
   section 7.4). WEAK: the fluid sees the bodies' old velocities, its forces move the bodies: one
   call of each, conserves momentum, unstable for light bodies. The strong schemes repeat the step
   from the saved state until the motion the fluid saw is the motion its impulses cause: X = dt u, u
   = (velocity of the centre, angular velocity * radius) of every body after this step      p =
   (impulse, angular impulse / radius), N s so that the residual dt |S(F(u)) - u|, m, is the
   distance by which fluid and body disagree about the surface. XPM here: a fluid solve costs as
   much as a thousand solid solves, so only the fluid gets a reduced model, p(u) = p_F - K (u -
   u_F), K the added mass seen so far; eq. (6) is then solved with the solid itself, u = S(p(u)), by
   Newton's method. A linear model of the solid fails where a body leaves the floor: its pairs come
   from both sides of the kink. */
typedef enum fsi_sph_scheme {
    /* reduced model of the fluid over the 6 degrees of freedom of every body, the solid itself */
    FSI_SPH_XPM = 0,
    FSI_SPH_RELAXED = 1, /* Gauss-Seidel with under-relaxation omega */
    FSI_SPH_AITKEN = 2,  /* the same with Aitken's omega */
    FSI_SPH_WEAK = 3     /* no iteration: the reference */
} fsi_sph_scheme;

typedef struct fsi_sph_rigid_desc {
    fsi_sph *sph;      /* the caller's; required */
    fsi_solids *world; /* the caller's; required */
    int count;         /* coupled bodies, >= 1 */
    const int *body;   /* [count] numbers in world; copied */
    /* [count] two-way boundary objects of sph, each centred at its body's centre of mass when it
     * was added; copied */
    const int *object;
    fsi_sph_scheme scheme; /* 0 = XPM */
    fsi_real omega;        /* RELAXED, and AITKEN's first, (0, 1]; 0 = 0.05 */
    /* share of the particle radius (spacing / 2) that X may be wrong; 0 = 0.1 */
    fsi_real tolerance;
    int max_iterations;      /* 0 = 60 */
    fsi_allocator allocator; /* zero = malloc */
} fsi_sph_rigid_desc;

typedef struct fsi_sph_rigid {
    fsi_sph_rigid_desc desc; /* defaults filled in; body and object point to own copies */
    fsi_partitioned scheme;  /* of RELAXED and AITKEN; its counters count */
    fsi_report fluid;        /* of the last fluid solve */
    /* impulse the fluid gave less impulse the bodies took in the last step, N s; 0 but for the
     * residual of RELAXED */
    double momentum[3];
    int64_t fluid_calls, solid_calls; /* XPM and WEAK: since init */
    /* private */
    int *body, *object; /* [count] */
    fsi_vec3 *x0, *v0;
    fsi_quat *q0; /* [count] poses and velocities at the start of the step */
    /* [count] length that makes a rotation a displacement: bounding radius, m */
    fsi_real *turn;
    fsi_real *X, *p; /* [6 count] */
    /* [6 count squared] added mass seen so far, kg: kept from step to step */
    fsi_real *K;
    fsi_real *J;                   /* [6 count squared] I + S_p K */
    fsi_real *work;                /* [11 * 6 count] vectors of the iteration */
    int32_t *pivot;                /* [6 count] */
    void *sph_state, *world_state; /* saved at the start of the step */
    fsi_real dt;                   /* of the running step, s */
    void *block;
    size_t size; /* the one allocation besides the scheme's */
} fsi_sph_rigid;

/* Checks and allocates. FSI_ERR_ARGUMENT: missing parts, numbers out of range, objects that are not
 * two-way. */
FSI_API fsi_result fsi_sph_rigid_init(fsi_sph_rigid *c, const fsi_sph_rigid_desc *desc);
/* Frees; safe on a zeroed struct and twice. The solvers are the caller's. */
FSI_API void fsi_sph_rigid_free(fsi_sph_rigid *c);
/* One coupled step of dt > 0 s for fluid and world. report (may be NULL): iterations = fluid calls
   (each with a solid call; XPM's Newton steps use more of these, see solid_calls), residual in m,
   momentum. FSI_NOT_CONVERGED, FSI_STALLED: the step is done with the last exchange.
   FSI_ERR_NUMERIC: something is no longer finite. */
FSI_API fsi_result fsi_sph_rigid_step(fsi_sph_rigid *c, fsi_real dt, fsi_report *report);
/* Everything that decides the next step: fluid, world and what the coupling remembers. A restored
 * run continues bit for bit. */
FSI_API size_t fsi_sph_rigid_state_size(const fsi_sph_rigid *c); /* bytes */
FSI_API fsi_result fsi_sph_rigid_save(const fsi_sph_rigid *c, void *state);
FSI_API fsi_result fsi_sph_rigid_restore(fsi_sph_rigid *c, const void *state);
#endif

#ifdef __cplusplus
}
#endif
#endif /* FSI_COUPLE_H */
/* Stop here if you only need the API. */

#if defined(FSI_COUPLE_IMPLEMENTATION) && !defined(FSI_COUPLE_IMPLEMENTED)
#define FSI_COUPLE_IMPLEMENTED
#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------
 * >>interface */
#ifndef FSI_COUPLE_NO_GRID
static fsi_result fsi__fractions(fsi_interface *f);
static fsi_result fsi__fraction_sides(fsi_interface *f, const fsi_grid *g);

/* Grows *list to at least need items (keeps the first used ones); 0 on lack of memory, the old list
 * stays then. */
static int fsi__list_grow(const fsi_allocator *a, void **list, int *room, int used, size_t need,
                          size_t size) {
    size_t n = need + need / 2 + 64;
    if (need <= (size_t)*room)
        return 1;
    size_t bytes;
    if (n > 0x7fffffff || !fsi_size_mul(n, size, &bytes))
        return 0;
    void *p = fsi_alloc(a, bytes);
    if (!p)
        return 0;
    if (used)
        memcpy(p, *list, (size_t)used * size);
    fsi_free(a, *list, (size_t)*room * size);
    *list = p;
    *room = (int)n;
    return 1;
}

#define FSI__GROW(face, list, room, used, need)                                                    \
    fsi__list_grow(&(face)->desc.allocator, (void **)(void *)&(face)->list, &(face)->room, used,   \
                   (size_t)(need), sizeof *(face)->list)

static void fsi__interface_layout(fsi_interface *f, fsi_arena *arena) {
    FSI__TAKE(f->covered, uint8_t, arena, f->cells);
    FSI__TAKE(f->mark, uint8_t, arena, f->cells);
    FSI__TAKE(f->delta, int8_t, arena, f->cells);
    FSI__TAKE(f->owner, int32_t, arena, f->cells);
    for (int a = 0; a < f->dim; a++) {
        FSI__TAKE(f->blocked[a], uint8_t, arena, f->faces[a]);
        FSI__TAKE(f->open[a], fsi_real, arena, f->faces[a]);
        FSI__TAKE(f->velocity[a], fsi_real, arena, f->faces[a]);
    }
}

FSI_API fsi_result fsi_interface_init(fsi_interface *face, const fsi_grid *grid,
                                      const fsi_interface_desc *desc) {
    fsi_arena arena = {NULL, 0, 0, 0};
    if (!face || !grid || !grid->block || (desc && !fsi_allocator_valid(&desc->allocator)))
        return FSI_ERR_ARGUMENT;
    fsi_interface f;
    memset(&f, 0, sizeof f);
    if (desc)
        f.desc = *desc;
    f.nx = grid->nx;
    f.ny = grid->ny;
    f.nz = grid->nz;
    f.dim = grid->dim;
    f.h = grid->h;
    f.origin = grid->origin;
    f.n[0] = f.nx;
    f.n[1] = f.ny;
    f.n[2] = f.nz;
    f.cells = grid->cells;
    for (int a = 0; a < f.dim; a++)
        f.faces[a] = grid->faces[a];
    fsi__interface_layout(&f, &arena);
    fsi_result r = fsi__arena_block(&arena, &f.desc.allocator, &f.block, &f.size);
    if (r != FSI_OK)
        return r;
    fsi__interface_layout(&f, &arena);
    for (int a = 0; a < f.dim; a++)
        fsi_fill(f.faces[a], 1, f.open[a]);
    *face = f;
    return FSI_OK;
}

FSI_API void fsi_interface_free(fsi_interface *face) {
    if (!face || !face->block)
        return;
    const fsi_allocator *a = &face->desc.allocator;
    for (int i = 0; i < face->bvh_room; i++)
        fsi_bvh_free(face->bvh + i);
    fsi_free(a, face->bvh, (size_t)face->bvh_room * sizeof *face->bvh);
    fsi_free(a, face->bin, (size_t)face->bin_room * sizeof *face->bin);
    fsi_free(a, face->side, (size_t)face->side_room * sizeof *face->side);
    fsi_free(a, face->col, (size_t)face->entry_room * sizeof *face->col);
    fsi_free(a, face->val, (size_t)face->val_room * sizeof *face->val);
    fsi_free(a, face->crossing, (size_t)face->crossing_room * sizeof *face->crossing);
    fsi_free(a, face->order, (size_t)face->order_room * sizeof *face->order);
    fsi_free(a, face->cut, (size_t)face->cut_room * sizeof *face->cut);
    fsi_free(a, face->was, (size_t)face->was_room * sizeof *face->was);
    fsi_free(a, face->submerged, (size_t)face->submerged_room * sizeof *face->submerged);
    fsi_free(a, face->block, face->size);
    memset(face, 0, sizeof *face);
}

/* face (i) of an axis, lower face of cell (i) */
FSI__INLINE size_t fsi__face_index(const fsi_interface *f, int axis, const int *i) {
    size_t nx = (size_t)f->nx + (axis == 0), ny = (size_t)f->ny + (axis == 1);
    return (size_t)i[0] + nx * ((size_t)i[1] + ny * (size_t)i[2]);
}

FSI__INLINE size_t fsi__cell_index(const fsi_interface *f, const int *i) {
    return (size_t)i[0] + (size_t)f->nx * ((size_t)i[1] + (size_t)f->ny * (size_t)i[2]);
}

FSI__INLINE void fsi__cell_ijk(const fsi_interface *f, size_t c, int *i) {
    i[0] = (int)(c % (size_t)f->nx);
    i[1] = (int)(c / (size_t)f->nx % (size_t)f->ny);
    i[2] = (int)(c / ((size_t)f->nx * (size_t)f->ny));
}

FSI__INLINE void fsi__face_ijk(const fsi_interface *f, int axis, size_t face, int *i) {
    size_t nx = (size_t)f->nx + (axis == 0), ny = (size_t)f->ny + (axis == 1);
    i[0] = (int)(face % nx);
    i[1] = (int)(face / nx % ny);
    i[2] = (int)(face / (nx * ny));
}

static fsi_vec3 fsi__face_centre(const fsi_interface *f, int axis, size_t face) {
    int i[3];
    fsi__face_ijk(f, axis, face, i);
    return fsi_vec(
        f->origin.x + f->h * ((fsi_real)i[0] + (axis == 0 ? 0 : FSI_R(0.5))),
        f->origin.y + f->h * ((fsi_real)i[1] + (axis == 1 ? 0 : FSI_R(0.5))),
        f->dim == 2 ? 0 : f->origin.z + f->h * ((fsi_real)i[2] + (axis == 2 ? 0 : FSI_R(0.5))));
}

FSI__INLINE ptrdiff_t fsi__stride(const fsi_interface *f, int axis) {
    return axis == 0 ? 1 : axis == 1 ? f->nx : (ptrdiff_t)f->nx * f->ny;
}

/* The cell beside cell i in direction dir = 2 axis + up, or -1 outside the box; and the face
 * between them. */
FSI__INLINE ptrdiff_t fsi__beside(const fsi_interface *f, const int *i, int dir, size_t *face) {
    int j[3], axis = dir / 2, up = dir & 1;
    j[0] = i[0];
    j[1] = i[1];
    j[2] = i[2];
    j[axis] += up;
    *face = fsi__face_index(f, axis, j);
    if (up ? i[axis] + 1 >= f->n[axis] : i[axis] < 1)
        return -1;
    j[axis] = i[axis] + (up ? 1 : -1);
    return (ptrdiff_t)fsi__cell_index(f, j);
}

/* i runs over from <= i < to, x first; the range is not empty. */
FSI__INLINE void fsi__range_next(const int *from, const int *to, int *i) {
    if (++i[0] < to[0])
        return;
    i[0] = from[0];
    if (++i[1] < to[1])
        return;
    i[1] = from[1];
    i[2]++;
}

#define FSI__EACH_CELL(i, from, to)                                                                \
    for (memcpy(i, from, 3 * sizeof *(i)); (i)[2] < (to)[2]; fsi__range_next(from, to, i))

/* Cells whose centres lie in [lo, hi] of the surface's bounds, one more on each side, cut to the
 * box. 0: none. */
static int fsi__cell_range(const fsi_interface *f, const fsi_real *lo, const fsi_real *hi,
                           int *from, int *to) {
    from[2] = 0;
    to[2] = 1;
    for (int k = 0; k < f->dim; k++) {
        fsi_real o = fsi__get(f->origin, k), n = (fsi_real)f->n[k];
        from[k] = (int)fsi__clamp(fsi__floor((lo[k] - o) / f->h - FSI_R(0.5)) - 1, 0, n);
        to[k] = (int)fsi__clamp(fsi__ceil((hi[k] - o) / f->h - FSI_R(0.5)) + 2, 0, n);
        if (from[k] >= to[k])
            return 0;
    }
    return 1;
}

/* the same of a solid; 0: none, or it is not closed */
static int fsi__closed_range(const fsi_interface *f, int solid, int *from, int *to) {
    const fsi_surface *s = &f->solid[solid]->surface;
    return s->closed && s->element_count
           && fsi__cell_range(f, f->bvh[solid].lo, f->bvh[solid].hi, from, to);
}

static fsi_result fsi__coupled_check(const fsi_coupled *s, int dim, int lean) {
    if (!s)
        return FSI_ERR_ARGUMENT;
    fsi_result r = fsi_surface_check(&s->surface);
    if (r != FSI_OK)
        return r;
    if (s->surface.dim != dim || s->dof < 0
        || (s->dof && (!s->v || (!s->inverse_mass && !(lean && s->mass_fn && !s->node))))
        || (!s->node && s->dof && !s->row_fn))
        return FSI_ERR_ARGUMENT;
    if (s->surface.vertex_count && !s->surface.x && !(lean && s->surface.closed))
        return FSI_ERR_ARGUMENT;
    if (s->dof && !fsi_all_finite((size_t)s->dof, s->v))
        return FSI_ERR_ARGUMENT;
    if (!s->node)
        return !s->inverse_mass || fsi_all_finite((size_t)s->dof * (size_t)s->dof, s->inverse_mass)
                   ? FSI_OK
                   : FSI_ERR_ARGUMENT;
    int nodes = s->dof / 3;
    for (int i = 0; i < nodes; i++)
        if (!fsi__finite(s->inverse_mass[i]) || s->inverse_mass[i] < 0)
            return FSI_ERR_ARGUMENT;
    for (int i = 0; i < s->surface.vertex_count; i++)
        if (s->node[i] < 0 || s->node[i] >= nodes)
            return FSI_ERR_GEOMETRY;
    if (s->implicit && (s->implicit->cols != s->dof || fsi_csr_check(s->implicit) != FSI_OK))
        return FSI_ERR_ARGUMENT;
    return !s->push || fsi_all_finite((size_t)s->dof, s->push) ? FSI_OK : FSI_ERR_ARGUMENT;
}

static int fsi__crossing_add(fsi_interface *f, int axis, size_t face, int solid, const fsi_hit *hit,
                             fsi_real t) {
    if (!FSI__GROW(f, crossing, crossing_room, f->crossings, f->crossings + 1))
        return 0;
    fsi_crossing *c = f->crossing + f->crossings++;
    c->face = (int32_t)face;
    c->solid = solid;
    c->element = hit->element;
    c->axis = (int8_t)axis;
    c->side = (int8_t)hit->side;
    c->t = t;
    memcpy(c->weight, hit->weight, sizeof c->weight);
    f->blocked[axis][face] = 1;
    return 1;
}

/* All crossings of element e with the lines of cell centres along one axis. A line runs over all of
   the surface's bounds (lo, hi), so that the winding number starts at 0 outside: cells to the right
   of a crossing get -side (a closed surface is entered where side = -1). */
static int fsi__cross_lines(fsi_interface *f, int solid, int e, int axis, const fsi_real *lo,
                            const fsi_real *hi, const int *from, const int *to) {
    const fsi_surface *s = &f->solid[solid]->surface;
    fsi_real a[3], b[3], h = f->h, o = fsi__get(f->origin, axis), x[3];
    int i[3], first[3], last[3], u = (axis + 1) % 3, v = (axis + 2) % 3;
    int begin =
        fsi__imin(-1, (int)fsi__max(fsi__floor((lo[axis] - o) / h - FSI_R(0.5)), -1000000) - 1);
    int segments = fsi__imax(f->n[axis],
                             (int)fsi__min(fsi__ceil((hi[axis] - o) / h - FSI_R(0.5)), 1000000) + 1)
                   - begin;
    fsi_surface_bounds(s, e, a, b);
    for (int k = 0; k < 3; k++) {
        fsi_real ok = fsi__get(f->origin, k);
        first[k] = from[k];
        last[k] = to[k];
        if (k >= f->dim)
            continue;
        first[k] = fsi__imax(from[k],
                             (int)fsi__clamp(fsi__ceil((a[k] - ok) / h - FSI_R(0.5) - FSI_R(1e-3)),
                                             0, (fsi_real)f->n[k]));
        last[k] =
            fsi__imin(to[k], (int)fsi__clamp(fsi__floor((b[k] - ok) / h - FSI_R(0.5) + FSI_R(1e-3)),
                                             -1, (fsi_real)f->n[k])
                                 + 1);
    }
    for (i[v] = first[v]; i[v] < last[v]; i[v]++)
        for (i[u] = first[u]; i[u] < last[u]; i[u]++) {
            for (int k = 0; k < 3; k++)
                x[k] = fsi__get(f->origin, k)
                       + h * ((fsi_real)(k == axis ? begin : i[k]) + FSI_R(0.5));
            fsi_vec3 p = fsi_vec_load(x);
            x[axis] += h * (fsi_real)segments;
            fsi_vec3 q = fsi_vec_load(x);
            fsi_hit hit;
            if (!fsi_surface_cross(s, e, p, q, &hit))
                continue;
            fsi_real at = hit.t * (fsi_real)segments;
            int cut = fsi__imin((int)at, segments - 1);
            /* the crossing lies just below the centre of this cell */
            i[axis] = begin + 1 + cut;
            if (s->closed && axis == 0 && i[0] < f->nx) {
                int c0 = i[0];
                i[0] = fsi__imax(c0, from[0]);
                f->delta[fsi__cell_index(f, i)] =
                    (int8_t)(f->delta[fsi__cell_index(f, i)] - hit.side);
                i[0] = c0;
            }
            if (i[axis] < 1 || i[axis] >= f->n[axis])
                continue;
            if (!fsi__crossing_add(f, axis, fsi__face_index(f, axis, i), solid, &hit,
                                   at - (fsi_real)cut))
                return 0;
        }
    return 1;
}

/* Covered cells from the winding numbers along the rows of the range. */
static void fsi__cover(fsi_interface *f, int solid, const int *from, const int *to) {
    int i[3], winding;
    for (i[2] = from[2]; i[2] < to[2]; i[2]++)
        for (i[1] = from[1]; i[1] < to[1]; i[1]++)
            for (winding = 0, i[0] = from[0]; i[0] < f->nx; i[0]++) {
                size_t c = fsi__cell_index(f, i);
                winding += f->delta[c];
                if (i[0] >= to[0] && !winding)
                    break;
                f->delta[c] = 0;
                if (!winding)
                    continue;
                f->covered[c] = 1;
                f->owner[c] = solid;
            }
}

/* Faces between a covered and a free cell that no ray found cut (a surface within round-off of a
 * cell centre): cut them at the nearest point. */
static int fsi__cover_seams(fsi_interface *f, int solid, const int *from, const int *to) {
    int i[3];
    for (int axis = 0; axis < f->dim; axis++)
        FSI__EACH_CELL(i, from, to) {
            size_t c = fsi__cell_index(f, i), face;
            ptrdiff_t m = fsi__beside(f, i, 2 * axis, &face);
            if (m < 0 || f->covered[c] == f->covered[m] || f->blocked[axis][face]
                || f->owner[f->covered[c] ? c : (size_t)m] != solid)
                continue;
            fsi_hit hit;
            if (!fsi_bvh_closest(f->bvh + solid, fsi__face_centre(f, axis, face), FSI_REAL_MAX,
                                 &hit))
                continue;
            hit.side = f->covered[c] ? -1 : 1;
            if (!fsi__crossing_add(f, axis, face, solid, &hit, FSI_R(0.5)))
                return 0;
        }
    return 1;
}

/* order = crossings sorted by axis, face, t, number: by one key, then by insertion inside a face.
 */
static int fsi__crossing_sort(fsi_interface *f) {
    int n = f->crossings, j;
    if (!FSI__GROW(f, order, order_room, 0, 2 * (size_t)n + 1))
        return 0;
    for (int i = 0; i < n; i++)
        f->order[i] =
            (uint64_t)f->crossing[i].axis << 62 | (uint64_t)f->crossing[i].face << 31 | (uint64_t)i;
    const uint64_t *key = fsi__sort_keys((size_t)n, f->order, f->order + n);
    for (int i = 0; i < n; i++) {
        const fsi_crossing *c = f->crossing + (key[i] & 0x7fffffff);
        for (j = i; j > 0; j--) {
            const fsi_crossing *d = f->crossing + f->order[j - 1];
            if (d->face != c->face || d->axis != c->axis || d->t <= c->t)
                break;
            f->order[j] = f->order[j - 1];
        }
        f->order[j] = (uint64_t)(c - f->crossing);
    }
    return 1;
}

/* Velocity of a solid where a ray met it: from the surface where that has velocities, else from the
 * solid's own. */
static fsi_vec3 fsi__hit_velocity(const fsi_coupled *c, const fsi_hit *hit, fsi_vec3 at) {
    const fsi_surface *s = &c->surface;
    fsi_real row[FSI__ROW_MOST], out[3] = {0, 0, 0};
    for (int k = 0; k < s->dim && (s->v || c->node); k++) {
        int vertex = s->index[s->dim * hit->element + k];
        const fsi_real *v = s->v ? s->v + 3 * vertex : c->v + 3 * c->node[vertex];
        for (int i = 0; i < 3; i++)
            out[i] += hit->weight[k] * v[i];
    }
    for (int k = 0; k < s->dim && !s->v && !c->node && c->dof > 0 && c->dof <= FSI__ROW_MOST; k++) {
        c->row_fn(c, hit->element, hit->weight, at, fsi__axis(k), row);
        for (int i = 0; i < c->dof; i++)
            out[k] += row[i] * c->v[i];
    }
    return fsi_vec_load(out);
}

static int fsi__occlusion_hit(void *user, fsi_vec3 a, fsi_vec3 b, fsi_real *t, fsi_vec3 *normal,
                              fsi_vec3 *velocity) {
    const fsi_interface *f = (const fsi_interface *)user;
    fsi_hit hit;
    int solid;
    if (!fsi_interface_first_hit(f, a, b, &hit, &solid))
        return 0;
    const fsi_surface *s = &f->solid[solid]->surface;
    *t = hit.t;
    *normal = fsi__unit(fsi_surface_normal(s, hit.element));
    if (hit.side > 0)
        *normal = fsi_vec_scale(*normal, -1); /* towards a */
    *velocity = fsi__hit_velocity(f->solid[solid], &hit, fsi_vec_mad(a, fsi_vec_sub(b, a), hit.t));
    return 1;
}

/* Nearer hit of solid i, ties to the lower number. */
static void fsi__interface_try(const fsi_interface *face, int i, fsi_vec3 a, fsi_vec3 b,
                               fsi_hit *hit, int *solid, int *found) {
    const fsi_bvh *root = face->bvh + i;
    if (root->nodes == 0 || fsi__max(a.x, b.x) < root->lo[0] || fsi__min(a.x, b.x) > root->hi[0]
        || fsi__max(a.y, b.y) < root->lo[1] ||
        /* nowhere near; 2D surfaces ignore z */
        fsi__min(a.y, b.y) > root->hi[1])
        return;
    if (face->dim == 3 && (fsi__max(a.z, b.z) < root->lo[2] || fsi__min(a.z, b.z) > root->hi[2]))
        return;
    fsi_hit h;
    if (!fsi_bvh_first_hit(face->bvh + i, a, b, &h))
        return;
    if (*found && (h.t > hit->t || (!(h.t < hit->t) && i > *solid)))
        return;
    *hit = h;
    *solid = i;
    *found = 1;
}

/* Bins lo[3], hi[3] of a box; what lies outside the grid counts as its rim. */
static void fsi__interface_bins(const fsi_interface *f, fsi_vec3 lo, fsi_vec3 hi, int32_t *out) {
    for (int a = 0; a < 3; a++) {
        fsi_real scale = (fsi_real)f->bins[a] / ((fsi_real)f->n[a] * f->h),
                 most = (fsi_real)(f->bins[a] - 1), from = fsi__get(f->origin, a);
        out[a] =
            f->bins[a] > 1 ? (int32_t)fsi__clamp((fsi__get(lo, a) - from) * scale, 0, most) : 0;
        out[3 + a] =
            f->bins[a] > 1 ? (int32_t)fsi__clamp((fsi__get(hi, a) - from) * scale, 0, most) : 0;
    }
}

FSI_API int fsi_interface_first_hit(const fsi_interface *face, fsi_vec3 a, fsi_vec3 b, fsi_hit *hit,
                                    int *solid) {
    int32_t box[6];
    int found = 0;
    if (!face->bins[0]) {
        for (int i = 0; i < face->solids; i++)
            fsi__interface_try(face, i, a, b, hit, solid, &found);
        return found;
    }
    const int32_t *first = face->bin + 6 * face->solids;
    const int32_t *list = first + face->bins[0] * face->bins[1] * face->bins[2] + 1;
    fsi__interface_bins(face, fsi_vec(fsi__min(a.x, b.x), fsi__min(a.y, b.y), fsi__min(a.z, b.z)),
                        fsi_vec(fsi__max(a.x, b.x), fsi__max(a.y, b.y), fsi__max(a.z, b.z)), box);
    for (int k = box[2]; k <= box[5]; k++)
        for (int j = box[1]; j <= box[4]; j++)
            for (int i = box[0]; i <= box[3]; i++) {
                int at = i + face->bins[0] * (j + face->bins[1] * k);
                /* in the first bin that ray and solid share */
                for (int e = first[at]; e < first[at + 1]; e++) {
                    const int32_t *r = face->bin + 6 * list[e];
                    if (i == fsi__imax(box[0], r[0]) && j == fsi__imax(box[1], r[1])
                        && k == fsi__imax(box[2], r[2]))
                        fsi__interface_try(face, list[e], a, b, hit, solid, &found);
                }
            }
    return found;
}

/* Lists of the solids in every bin of about three cells. */
static fsi_result fsi__interface_sort(fsi_interface *f, int count) {
    size_t entries = 0;
    f->bins[0] = 0;
    if (count < 8)
        return FSI_OK;
    for (int a = 0; a < 3; a++)
        f->bins[a] = fsi__imax(1, fsi__imin(f->n[a] / 3, 64));
    int all = f->bins[0] * f->bins[1] * f->bins[2];
    if (!FSI__GROW(f, bin, bin_room, 0, 6 * (size_t)count)) {
        f->bins[0] = 0;
        return FSI_ERR_MEMORY;
    }
    for (int i = 0; i < count; i++) {
        const fsi_bvh *n = f->bvh + i;
        int32_t *r = f->bin + 6 * i;
        memset(r, 0, 6 * sizeof *r);
        /* no surface: nowhere */
        r[3] = -1;
        if (f->bvh[i].nodes)
            fsi__interface_bins(f, fsi_vec_load(n->lo), fsi_vec_load(n->hi), r);
        entries +=
            (size_t)(r[3] - r[0] + 1) * (size_t)(r[4] - r[1] + 1) * (size_t)(r[5] - r[2] + 1);
    }
    if (!FSI__GROW(f, bin, bin_room, 6 * count, 6 * (size_t)count + (size_t)all + 1 + entries)) {
        f->bins[0] = 0;
        return FSI_ERR_MEMORY;
    }
    int32_t *first = f->bin + 6 * count;
    int32_t *list = first + all + 1;
    memset(first, 0, (size_t)(all + 1) * sizeof *first);
    /* count, then fill backwards so that lists ascend */
    for (int pass = 0; pass < 2; pass++) {
        for (int i = count - 1; i >= 0; i--) {
            const int32_t *r = f->bin + 6 * i;
            for (int z = r[2]; z <= r[5]; z++)
                for (int y = r[1]; y <= r[4]; y++)
                    for (int x = r[0]; x <= r[3]; x++) {
                        int at = x + f->bins[0] * (y + f->bins[1] * z);
                        if (pass)
                            list[--first[at]] = i;
                        else
                            first[at]++;
                    }
        }
        for (int i = 1; i <= all && !pass; i++)
            first[i] += first[i - 1];
    }
    return FSI_OK;
}

/* Check and build the trees; the first thing of a detect, so that a bad solid changes nothing. */
static fsi_result fsi__interface_trees(fsi_interface *f, fsi_coupled *const *solid, int count) {
    fsi_result r;
    for (int i = 0; i < count; i++) {
        r = fsi__coupled_check(solid[i], f->dim, f->lean);
        if (r != FSI_OK)
            return r;
    }
    if (!FSI__GROW(f, bvh, bvh_room, f->bvh_room, count)
        || !FSI__GROW(f, submerged, submerged_room, 0, count))
        return FSI_ERR_MEMORY;
    for (int i = 0; i < count; i++) {
        const fsi_surface *s = &solid[i]->surface;
        if (s->element_count > f->bvh[i].capacity && !s->rest) {
            fsi_bvh_free(f->bvh + i);
            r = fsi_bvh_init(f->bvh + i, s->element_count, &f->desc.allocator);
            if (r != FSI_OK)
                return r;
        }
        if (f->bvh[i].block || s->rest)
            r = fsi_bvh_build(f->bvh + i, s);
        if (r != FSI_OK)
            return r;
    }
    return fsi__interface_sort(f, count);
}

static void fsi__interface_clear(fsi_interface *f) {
    for (int i = 0; i < f->crossings; i++) {
        const fsi_crossing *c = f->crossing + i;
        f->blocked[c->axis][c->face] = 0;
        f->open[c->axis][c->face] = 1;
        f->velocity[c->axis][c->face] = 0;
    }
    for (int i = 0; i < f->cuts; i++) {
        f->open[f->cut[i].axis][f->cut[i].face] = 1;
        f->velocity[f->cut[i].axis][f->cut[i].face] = 0;
    }
    f->cuts = 0;
    memset(f->covered, 0, f->cells);
    f->crossings = f->sides = f->entries = 0;
    f->shells = 0;
}

/* Every scalar of cell c (phi: the level set too) becomes the mean of those of n other cells. */
static void fsi__interface_mean(const fsi_grid *g, size_t c, const size_t *from, int n, int phi) {
    for (int q = FSI_FIELD_DENSITY; n && q < FSI_FIELD_SCALAR + FSI_GRID_SCALARS; q++) {
        fsi_real *field = q == FSI_FIELD_PHI && !phi ? NULL : fsi_grid_field(g, (fsi_field)q),
                 sum = 0;
        for (int k = 0; field && k < n; k++)
            sum += field[from[k]];
        if (field)
            field[c] = sum / (fsi_real)n;
    }
}

/* Smooth walls: the advection samples across them, so scalars, like the flow, go on a few cells
 * into closed solids: means of the layer before. */
static void fsi__interface_continue(fsi_interface *f, const fsi_grid *g) {
    enum {
        LAYERS = 4
    };

    int i[3], from[3], to[3];
    /* the last pass clears the marks */
    for (int layer = 1; layer <= LAYERS + 1; layer++)
        for (int s = 0; s < f->solids; s++) {
            if (!fsi__closed_range(f, s, from, to))
                continue;
            FSI__EACH_CELL(i, from, to) {
                size_t c = fsi__cell_index(f, i), face, near_it[6];
                int n = 0;
                if (layer > LAYERS) {
                    f->delta[c] = 0;
                    continue;
                }
                if (!f->covered[c] || f->delta[c])
                    continue;
                for (int dir = 0; dir < 2 * f->dim; dir++) {
                    ptrdiff_t m = fsi__beside(f, i, dir, &face);
                    if (m >= 0 && (!f->covered[m] || (f->delta[m] && f->delta[m] < layer)))
                        near_it[n++] = (size_t)m;
                }
                if (n)
                    f->delta[c] = (int8_t)layer;
                fsi__interface_mean(g, c, near_it, n, 0);
            }
        }
}

/* ---- Cells that a thin surface runs over. */
static int fsi__interface_remember(fsi_interface *f) {
    size_t n = 0;
    int i;
    for (i = 0; i < f->solids; i++)
        n += f->solid[i]->surface.closed ? 0 : 3 * (size_t)f->solid[i]->surface.vertex_count;
    if (!FSI__GROW(f, was, was_room, 0, n))
        return 0;
    f->was_count = (int)n;
    for (n = 0, i = 0; i < f->solids; i++) {
        const fsi_surface *s = &f->solid[i]->surface;
        if (s->closed)
            continue;
        memcpy(f->was + n, s->x, 3 * (size_t)s->vertex_count * sizeof(fsi_real));
        n += 3 * (size_t)s->vertex_count;
    }
    return 1;
}

/* Height of c over the element at time t of its way from a to b, times its area; w: weights of its
 * foot, not normalised. */
static fsi_real fsi__element_height(int dim, const fsi_vec3 *a, const fsi_vec3 *b, fsi_real t,
                                    fsi_vec3 c, fsi_real *w) {
    fsi_vec3 x[3];
    for (int k = 0; k < dim; k++)
        x[k] = fsi_vec_mad(a[k], fsi_vec_sub(b[k], a[k]), t);
    fsi_vec3 p = fsi_vec_sub(x[1], x[0]);
    fsi_vec3 q = fsi_vec_sub(c, x[0]);
    if (dim == 2) {
        w[1] = fsi_vec_dot(p, q);
        w[0] = fsi_vec_dot(p, p) - w[1];
        w[2] = 0;
        return p.x * q.y - p.y * q.x;
    }
    fsi_vec3 n = fsi_vec_cross(p, fsi_vec_sub(x[2], x[0]));
    for (int k = 0; k < 3; k++)
        w[k] = fsi_vec_dot(n, fsi_vec_cross(fsi_vec_sub(x[(k + 2) % 3], x[(k + 1) % 3]),
                                            fsi_vec_sub(c, x[(k + 1) % 3])));
    return fsi_vec_dot(n, q);
}

/* When the element goes over c on its way: 1 + the direction (2 axis + up) that leads most straight
 * to where it came from, else 0. */
static int fsi__element_passes(int dim, const fsi_vec3 *a, const fsi_vec3 *b, fsi_vec3 c) {
    fsi_real w[3], lo = 0, hi = 1;
    int below = fsi__element_height(dim, a, b, 0, c, w) < 0;
    if (below == (fsi__element_height(dim, a, b, 1, c, w) < 0))
        return 0;
    int k;
    for (k = 0; k < 30; k++) {
        fsi_real mid = (lo + hi) / 2;
        if ((fsi__element_height(dim, a, b, mid, c, w) < 0) == below)
            lo = mid;
        else
            hi = mid;
    }
    /* over a seam: both elements say so */
    lo = -FSI_R(1e-6) * (fsi__abs(w[0]) + fsi__abs(w[1]) + fsi__abs(w[2]));
    if (!(w[0] >= lo && w[1] >= lo && w[2] >= lo))
        return 0;
    fsi_vec3 n = fsi_vec_sub(a[1], a[0]);
    /* height grows along n: c came from above when it is below now */
    n = dim == 2 ? fsi_vec(-n.y, n.x, 0) : fsi_vec_cross(n, fsi_vec_sub(a[2], a[0]));
    if (!below)
        n = fsi_vec_scale(n, -1);
    for (k = 0; k < 3; k++)
        w[k] = fsi__get(n, k);
    k = fsi__abs(w[1]) > fsi__abs(w[0]) ? 1 : 0;
    if (dim == 3 && fsi__abs(w[2]) > fsi__abs(w[k]))
        k = 2;
    return 1 + 2 * k + (w[k] > 0);
}

/* Cells from <= i < to that a box meets, clipped to the grid; 0 when there are none. */
static int fsi__cells_met(const fsi_interface *f, const fsi_real *lo, const fsi_real *hi, int *from,
                          int *to) {
    from[2] = 0;
    to[2] = 1;
    for (int k = 0; k < f->dim; k++) {
        fsi_real o = fsi__get(f->origin, k), last = (fsi_real)(f->n[k] - 1);
        if (hi[k] < o || lo[k] > o + f->h * (last + 1))
            return 0;
        from[k] = (int)fsi__clamp(fsi__floor((lo[k] - o) / f->h), 0, last);
        to[k] = (int)fsi__clamp(fsi__floor((hi[k] - o) / f->h), 0, last) + 1;
    }
    return 1;
}

/* CAME * direction the surface came from */
enum {
    FSI__PASSED = 1,
    FSI__TOUCHED = 2,
    FSI__TAKEN = 4,
    FSI__TAKING = 8,
    FSI__CAME = 16
};

/* delta: cells whose centre a surface went over, and cells that any of them touched. Two layers
 * that go over a cell in one step are taken for one. */
static void fsi__interface_sweep(fsi_interface *f) {
    const fsi_real *was = f->was;
    int k, c[3], from[3], to[3];
    for (int i = 0; i < f->solids; i++) {
        const fsi_surface *s = &f->solid[i]->surface;
        if (s->closed)
            continue;
        for (int e = 0; e < s->element_count; e++) {
            fsi_vec3 a[3], b[3];
            fsi_real lo[3] = {FSI_REAL_MAX, FSI_REAL_MAX, FSI_REAL_MAX},
                     hi[3] = {-FSI_REAL_MAX, -FSI_REAL_MAX, -FSI_REAL_MAX};
            for (k = 0; k < 2 * s->dim; k++) {
                const fsi_real *x =
                    (k < s->dim ? was : s->x) + 3 * s->index[s->dim * e + k % s->dim];
                (k < s->dim ? a : b)[k % s->dim] = fsi_vec(x[0], x[1], x[2]);
                for (int q = 0; q < 3; q++)
                    lo[q] = fsi__min(lo[q], x[q]), hi[q] = fsi__max(hi[q], x[q]);
            }
            if (!fsi__cells_met(f, lo, hi, from, to))
                continue;
            FSI__EACH_CELL(c, from, to) {
                fsi_vec3 x = fsi_vec(
                    f->origin.x + f->h * ((fsi_real)c[0] + FSI_R(0.5)),
                    f->origin.y + f->h * ((fsi_real)c[1] + FSI_R(0.5)),
                    f->dim == 2 ? a[0].z : f->origin.z + f->h * ((fsi_real)c[2] + FSI_R(0.5)));
                int8_t *mark = f->delta + fsi__cell_index(f, c);
                *mark |= FSI__TOUCHED;
                if (!(*mark & FSI__PASSED) && (k = fsi__element_passes(f->dim, a, b, x)) != 0)
                    *mark = (int8_t)(*mark | FSI__PASSED | (k - 1) * FSI__CAME);
            }
        }
        was += 3 * (size_t)s->vertex_count;
    }
}

/* Cells on the new side of cell c: those that a surface hid from it and that stayed, and those that
 * came along and know already. */
static int fsi__interface_new_side(const fsi_interface *f, size_t c, size_t *out) {
    int n = 0, i[3];
    fsi__cell_ijk(f, c, i);
    for (int dir = 0; dir < 2 * f->dim; dir++) {
        size_t face;
        ptrdiff_t m = fsi__beside(f, i, dir, &face);
        int hidden = f->blocked[dir / 2][face];
        if (m < 0 || f->covered[m])
            continue;
        if (!(f->delta[m] & FSI__PASSED ? !hidden && (f->delta[m] & FSI__TAKEN) : hidden))
            continue;
        /* others may be hidden twice, by a fold */
        if (dir == f->delta[c] / FSI__CAME) {
            out[0] = (size_t)m;
            return 1;
        }
        out[n++] = (size_t)m;
    }
    return n;
}

static void fsi__interface_drop_markers(const fsi_interface *f, fsi_levelset *ls) {
    size_t n = 0;
    for (size_t p = 0; p < ls->state->count; p++) {
        fsi_real lo[3], hi[3];
        int from[3], to[3];
        lo[0] = hi[0] = ls->px[p];
        lo[1] = hi[1] = ls->py[p];
        lo[2] = hi[2] = f->dim == 3 ? ls->pz[p] : 0;
        if (fsi__cells_met(f, lo, hi, from, to)
            && (f->delta[fsi__cell_index(f, from)] & FSI__TOUCHED))
            continue;
        ls->px[n] = ls->px[p];
        ls->py[n] = ls->py[p];
        ls->pr[n] = ls->pr[p];
        if (f->dim == 3)
            ls->pz[n] = ls->pz[p];
        n++;
    }
    ls->state->count = n;
}

/* What a cell can see beside it: number of cells across open faces (into seen), or -1 when no face
 * of it is cut. */
static int fsi__interface_seen(const fsi_interface *f, size_t c, size_t *seen) {
    int n = 0, cut = 0, i[3];
    fsi__cell_ijk(f, c, i);
    for (int dir = 0; dir < 2 * f->dim; dir++) {
        size_t face;
        ptrdiff_t m = fsi__beside(f, i, dir, &face);
        if (m < 0)
            continue;
        if (f->blocked[dir / 2][face])
            cut = 1;
        else if (!f->covered[m])
            seen[n++] = (size_t)m;
    }
    return cut ? n : -1;
}

FSI_API fsi_result fsi_interface_move_surface(fsi_interface *face, fsi_grid *grid, fsi_real dt,
                                              fsi_report *report) {
    enum {
        LIQUID = 1,
        HELD = 2
    };

    size_t seen[6];
    ptrdiff_t cells;
    if (!face || !face->block || !grid || grid->cells != face->cells)
        return FSI_ERR_STATE;
    int guard = grid->phi && face->shells;
    uint8_t *mark = face->mark;
    cells = guard ? (ptrdiff_t)face->cells : 0;
    FSI__OMP(parallel for schedule(static) if (cells > 20000))
    for (ptrdiff_t q = 0; q < cells; q++) {
        size_t view[6];
        int same = 1, liquid = grid->phi[q] < 0,
            count = face->covered[q] ? -1 : fsi__interface_seen(face, (size_t)q, view);
        for (int m = 0; m < count; m++)
            same &= (grid->phi[view[m]] < 0) == liquid;
        mark[q] = (uint8_t)(liquid | (count >= 0 && same ? HELD : 0));
    }
    fsi_result r;
    if ((r = fsi_grid_move_surface(grid, dt, report)) < 0)
        return r;
    /* what the other side put near 0 comes back to half a cell at least: all it sees is far from a
     * surface */
    for (size_t c = 0; guard && c < face->cells; c++) {
        fsi_real sum = 0, sign = mark[c] & LIQUID ? FSI_R(-1.0) : FSI_R(1.0);
        if (!(mark[c] & HELD) || sign * grid->phi[c] >= face->h / 2)
            continue;
        int n = sign * grid->phi[c] > 0 ? 0 : fsi__interface_seen(face, c, seen);
        for (int k = 0; k < n; k++)
            if ((grid->phi[seen[k]] < 0) == (mark[c] & LIQUID))
                sum = fsi__max(sum, fsi__abs(grid->phi[seen[k]]));
        grid->phi[c] = sign * fsi__max(sum / 2, face->h / 2);
    }
    return r;
}

FSI_API fsi_result fsi_interface_moved(fsi_interface *face, fsi_grid *grid, int *passed) {
    size_t source[6];
    int n, count = 0, open = 0;
    if (passed)
        *passed = 0;
    if (!face || !face->block || !grid || grid->cells != face->cells)
        return FSI_ERR_STATE;
    for (int i = 0; i < face->solids; i++)
        open += face->solid[i]->surface.closed ? 0 : 3 * face->solid[i]->surface.vertex_count;
    if (!open || open != face->was_count)
        return FSI_OK;
    fsi__interface_sweep(face);
    /* several rounds where it ran over several layers */
    for (int round = 0; round < 8; round++) {
        for (size_t c = 0; c < face->cells; c++) {
            if ((face->delta[c] & (FSI__PASSED | FSI__TAKEN)) != FSI__PASSED || face->covered[c])
                continue;
            if ((n = fsi__interface_new_side(face, c, source)) == 0)
                continue;
            fsi__interface_mean(grid, c, source, n, 1);
            /* known from the next round on: no order of cells matters */
            face->delta[c] |= FSI__TAKING;
            count++;
        }
        for (size_t c = 0; c < face->cells; c++)
            if (face->delta[c] & FSI__TAKING)
                face->delta[c] = (int8_t)((face->delta[c] & ~FSI__TAKING) | FSI__TAKEN);
    }
    if (grid->phi)
        fsi__interface_drop_markers(face, &grid->levelset);
    memset(face->delta, 0, face->cells);
    if (passed)
        *passed = count;
    return FSI_OK;
}

/* Crossings, covered cells and closed faces of all solids; 0: no memory. */
static int fsi__interface_cross(fsi_interface *f) {
    int from[3], to[3];
    for (int s = 0; s < f->solids; s++) {
        const fsi_surface *surface = &f->solid[s]->surface;
        const fsi_bvh *root = f->bvh + s;
        if (!surface->element_count || !fsi__cell_range(f, root->lo, root->hi, from, to))
            continue;
        for (int e = 0; e < surface->element_count; e++)
            for (int axis = 0; axis < f->dim; axis++)
                if (!fsi__cross_lines(f, s, e, axis, root->lo, root->hi, from, to))
                    return 0;
        if (surface->closed)
            fsi__cover(f, s, from, to);
    }
    for (int s = 0; s < f->solids; s++)
        if (fsi__closed_range(f, s, from, to) && !fsi__cover_seams(f, s, from, to))
            return 0;
    for (int s = 0; s < f->crossings; s++) {
        const fsi_crossing *c = f->crossing + s;
        int i[3];
        if (!f->desc.fractions || !f->solid[c->solid]->surface.closed)
            f->open[c->axis][c->face] = 0;
        fsi__face_ijk(f, c->axis, (size_t)c->face, i);
        size_t cell = fsi__cell_index(f, i);
        if (!f->covered[cell] && !f->covered[cell - (size_t)fsi__stride(f, c->axis)])
            f->shells = 1;
    }
    return fsi__crossing_sort(f);
}

/* hands it to the grid */
static fsi_result fsi__interface_occlude(fsi_interface *f, fsi_grid *grid) {
    memset(&f->occlusion, 0, sizeof f->occlusion);
    f->occlusion.solid = f->covered;
    for (int axis = 0; axis < f->dim; axis++) {
        if (f->shells || f->desc.fractions)
            f->occlusion.open[axis] = f->open[axis];
        f->occlusion.blocked[axis] = f->blocked[axis];
        f->occlusion.velocity[axis] = f->velocity[axis];
    }
    f->occlusion.hit_fn = fsi__occlusion_hit;
    f->occlusion.user = f;
    f->occlusion.smooth = f->desc.smooth;
    return fsi_grid_set_occlusion(grid, &f->occlusion);
}

FSI_API fsi_result fsi_interface_detect(fsi_interface *face, fsi_grid *grid,
                                        fsi_coupled *const *solid, int count) {
    if (!face || !face->block || !grid || !grid->block || grid->cells != face->cells)
        return FSI_ERR_STATE;
    if (count < 0 || (count && !solid))
        return FSI_ERR_ARGUMENT;
    fsi_result r = fsi__interface_trees(face, solid, count);
    if (r != FSI_OK)
        return r;
    fsi__interface_clear(face);
    face->solid = solid;
    face->solids = count;
    if (!fsi__interface_remember(face) || !fsi__interface_cross(face))
        return FSI_ERR_MEMORY;
    if (face->desc.fractions) {
        r = fsi__fractions(face);
        if (r != FSI_OK)
            return r;
        /* the flow goes on into closed solids: only shells hide */
        for (int k = 0; k < face->crossings && face->desc.smooth; k++)
            if (solid[face->crossing[k].solid]->surface.closed)
                face->blocked[face->crossing[k].axis][face->crossing[k].face] = 0;
    }
    /* room for bodies inside the liquid */
    if (!face->started && grid->phi)
        grid->levelset.state->target = fsi_levelset_volume(&grid->levelset, face->covered, NULL);
    face->started = 1;
    if (face->desc.smooth)
        fsi__interface_continue(face, grid);
    return fsi__interface_occlude(face, grid);
}

/* ---- Rows of J. */
typedef struct fsi__average {
    const fsi_surface *surface;
    const int32_t *node;
    fsi_vec3 lo, hi, normal;
    fsi_real area, weight[64];
    int32_t id[64];
    int count;
} fsi__average;

static void fsi__average_add(fsi__average *a, int vertex, fsi_real w) {
    int32_t id = a->node ? a->node[vertex] : vertex;
    int k;
    for (k = 0; k < a->count && a->id[k] != id; k++) {
    }
    /* more than 64 nodes in one dual cell: the rest weighs little */
    if (k == 64)
        return;
    if (k == a->count) {
        a->count++;
        a->id[k] = id;
        a->weight[k] = 0;
    }
    a->weight[k] += w;
}

static int fsi__average_visit(int e, void *user) {
    fsi__average *a = (fsi__average *)user;
    fsi_clip part;
    if (!fsi_surface_clip(a->surface, e, a->lo, a->hi, &part))
        return 0;
    for (int k = 0; k < a->surface->dim; k++)
        if (part.weight[k] > 0)
            fsi__average_add(a, a->surface->index[a->surface->dim * e + k],
                             part.area * part.weight[k]);
    a->normal = fsi_vec_add(a->normal, part.normal);
    a->area += part.area;
    return 0;
}

/* Mean over the surface of the side's solid inside the dual cell (SLIP appendix A); the crossing
 * alone where nothing is found there. */
static void fsi__side_average(const fsi_interface *f, const fsi_side *s, fsi__average *a) {
    const fsi_coupled *body = f->solid[s->solid];
    fsi_vec3 c = fsi_interface_centre(f, s), half = fsi_vec(f->h / 2, f->h / 2, f->h / 2);
    double sum = 0;
    memset(a, 0, sizeof *a);
    a->surface = &body->surface;
    a->node = body->node;
    a->lo = fsi_vec_sub(c, half);
    a->hi = fsi_vec_add(c, half);
    (void)fsi_bvh_overlap(f->bvh + s->solid, a->lo, a->hi, fsi__average_visit, a);
    if (!(a->area > 0)) {
        a->count = 0;
        for (int k = 0; k < f->dim; k++)
            fsi__average_add(a, body->surface.index[f->dim * s->element + k], s->weight[k]);
    }
    for (int k = 0; k < a->count; k++)
        sum += (double)a->weight[k];
    /* rows sum to one: J^T loses nothing */
    for (int k = 0; k < a->count; k++)
        a->weight[k] = (fsi_real)((double)a->weight[k] / sum);
}

static void fsi__side_normal(const fsi_interface *f, fsi_side *s, const fsi__average *a) {
    fsi_vec3 n = fsi_surface_normal(&f->solid[s->solid]->surface, s->element);
    /* outward of the cell = away from it */
    int flip = fsi__get(n, s->axis) * (fsi_real)s->sign > 0;
    if (a && a->area > 0 && fsi__length(a->normal) > FSI_R(1e-6) * a->area) {
        if (fsi_vec_dot(a->normal, n) < 0)
            flip = !flip;
        n = a->normal;
    }
    s->normal = fsi__unit(fsi_vec_scale(n, flip ? -1 : 1));
}

static int fsi__side_row(fsi_interface *f, fsi_side *s) {
    const fsi_coupled *body = f->solid[s->solid];
    fsi__average a;
    int need = body->node ? 64 : body->dof;
    a.area = 0;
    if (!FSI__GROW(f, col, entry_room, f->entries, f->entries + need)
        || !FSI__GROW(f, val, val_room, f->entries, f->entries + need))
        return 0;
    s->row = f->entries;
    if (!body->node) {
        if (body->dof)
            body->row_fn(body, s->element, s->weight, fsi_interface_centre(f, s),
                         fsi__axis(s->axis), f->val + s->row);
        for (int k = 0; k < body->dof; k++)
            f->col[s->row + k] = k;
        f->entries += body->dof;
        if (s->shell)
            fsi__side_average(f, s, &a);
    } else {
        fsi__side_average(f, s, &a);
        if (!f->desc.average) {
            a.count = 0;
            for (int k = 0; k < f->dim; k++)
                fsi__average_add(&a, body->surface.index[f->dim * s->element + k], s->weight[k]);
        }
        for (int k = 0; k < a.count; k++) {
            f->col[s->row + k] = 3 * a.id[k] + s->axis;
            f->val[s->row + k] = a.weight[k];
        }
        f->entries += a.count;
    }
    s->row_end = f->entries;
    fsi__side_normal(f, s, a.area > 0 ? &a : NULL);
    return 1;
}

static int fsi__side_add(fsi_interface *f, const fsi_grid *g, const fsi_crossing *c, size_t cell,
                         int sign, int shell) {
    if (!FSI__GROW(f, side, side_room, f->sides, f->sides + 1))
        return 0;
    fsi_side *s = f->side + f->sides;
    memset(s, 0, sizeof *s);
    s->cell = (int32_t)cell;
    s->face = c->face;
    s->solid = c->solid;
    s->element = c->element;
    s->axis = c->axis;
    s->sign = (int8_t)sign;
    s->shell = (int8_t)shell;
    s->plus = sign < 0;
    s->share = 1;
    s->mass = g->desc.rho * f->h * f->h * (f->dim == 3 ? f->h : 1) / 2;
    s->t = sign > 0 ? c->t : 1 - c->t;
    memcpy(s->weight, c->weight, sizeof s->weight);
    if (!fsi__side_row(f, s))
        return 0;
    f->sides++;
    return 1;
}

/* Volume of a closed surface where n . x < d, by cones from a point o of that plane: the cut face
   has o in its plane and adds nothing. In 2D the area, by triangles from o. */
static double fsi__volume_below(const fsi_surface *s, fsi_vec3 n, fsi_real d) {
    fsi_vec3 o = fsi_vec_scale(n, d / fsi_vec_dot(n, n));
    double sum = 0;
    int m = s->dim;
    for (int e = 0; e < s->element_count; e++) {
        fsi_vec3 x[4];
        int count = 0;
        for (int k = 0; k < m; k++) {
            fsi_vec3 a = fsi_vec_sub(fsi_surface_place(s, s->index[m * e + k]), o),
                     b = fsi_vec_sub(fsi_surface_place(s, s->index[m * e + (k + 1) % m]), o);
            fsi_real ha = fsi_vec_dot(n, a), hb = fsi_vec_dot(n, b);
            if (m == 2) {
                a.z = b.z = 0;
            }
            if (ha < 0)
                x[count++] = a;
            if ((ha < 0) != (hb < 0) && (m == 3 || k == 0))
                x[count++] = fsi_vec_mad(a, fsi_vec_sub(b, a), ha / (ha - hb));
        }
        if (m == 2 && count == 2)
            sum += (double)(x[0].x * x[1].y - x[0].y * x[1].x) / 2;
        for (int k = 2; k < count; k++)
            sum += (double)fsi_vec_dot(x[0], fsi_vec_cross(x[k - 1], x[k])) / 6;
    }
    return fabs(sum); /* inside-out surfaces enclose the same */
}

/* The liquid's surface around a solid as a plane n . x = d: least squares of phi over the free
   cells within two cells of the surface, in the solid's bounds and three cells more. Too few of
   them, or far from level: level with their mean height. Returns 0: no surface near; *d = sign of
   phi there. */
static int fsi__waterline(const fsi_interface *f, const fsi_grid *g, const int *from, const int *to,
                          fsi_vec3 *n, fsi_real *d) {
    double S[16] = {0}, b[4] = {0}, count = 0, wet = 0;
    fsi_real A[16], x[4], c[3];
    fsi_vec3 up = fsi_vec_scale(g->desc.gravity, -1);
    int i[3], m = f->dim + 1;
    up = fsi__length(up) > 0 ? fsi__unit(up) : fsi_vec(0, 1, 0);
    int k;
    FSI__EACH_CELL(i, from, to) {
        size_t at = fsi__cell_index(f, i);
        double row[4] = {1, 0, 0, 0};
        if (f->covered[at])
            continue;
        wet += g->phi[at] < 0 ? 1 : -1;
        if (fsi__abs(g->phi[at]) > 2 * f->h)
            continue;
        /* in cells from the corner: well scaled */
        for (k = 0; k < f->dim; k++)
            row[1 + k] = (double)(i[k] - from[k]);
        for (int j = 0; j < m; j++) {
            for (k = 0; k < m; k++)
                S[m * j + k] += row[j] * row[k];
            b[j] += row[j] * (double)(g->phi[at] / f->h);
        }
        count++;
    }
    *d = wet > 0 ? FSI_R(-1.0) : FSI_R(1.0);
    if (count < 1)
        return 0;
    for (int j = 0; j < m * m; j++)
        A[j] = (fsi_real)(S[j] / count + (j % (m + 1) ? 0 : 1e-9));
    for (int j = 0; j < m; j++)
        x[j] = (fsi_real)(b[j] / count);
    for (k = 0; k < 3; k++)
        c[k] = fsi__get(f->origin, k) + (k < f->dim ? f->h * ((fsi_real)from[k] + FSI_R(0.5)) : 0);
    if (count > 2 * m && fsi_dense_cholesky(m, A) == FSI_OK) {
        fsi_dense_cholesky_solve(m, A, x);
        *n = fsi_vec(x[1], x[2], m == 4 ? x[3] : 0);
        double size = (double)fsi__length(*n);
        if (size > 0.3 && size < 3 && (double)fsi_vec_dot(*n, up) > 0.5 * size) {
            *d = fsi_vec_dot(*n, fsi_vec_load(c)) - x[0] * f->h;
            return 1;
        }
    }
    /* mean of up . x - phi, in cells */
    double level;
    for (level = -b[0] / count, k = 0; k < f->dim; k++)
        level += (double)fsi__get(up, k) * S[1 + k] / count;
    *n = up;
    *d = (fsi_real)level * f->h + fsi_vec_dot(up, fsi_vec_load(c));
    return 1;
}

/* Volume of a closed surface within lo .. hi below the liquid's surface, continued level through
 * the solid (phi inside solids is no surface). */
static double fsi__submerged(const fsi_interface *f, const fsi_grid *g, const fsi_surface *surface,
                             const fsi_real *lo, const fsi_real *hi) {
    fsi_vec3 n = fsi_vec(0, 1, 0);
    fsi_real d = hi[1] + f->h;
    int from[3], to[3];
    if (!surface->closed || !surface->element_count || !fsi__cell_range(f, lo, hi, from, to))
        return 0;
    for (int k = 0; k < f->dim; k++) {
        from[k] = fsi__imax(from[k] - 2, 0);
        to[k] = fsi__imin(to[k] + 2, f->n[k]);
    }
    if (g->phi && !fsi__waterline(f, g, from, to, &n, &d)) {
        if (d > 0)
            return 0;
        d = hi[1] + f->h;
    }
    return fsi__volume_below(surface, n, d);
}

/* Of every solid; in smoke what lies in the box. */
static void fsi__interface_submerged(fsi_interface *f, const fsi_grid *g) {
    double cell = (double)f->h * (double)f->h * (f->dim == 3 ? (double)f->h : 1);
    for (int s = 0; s < f->solids; s++)
        f->submerged[s] =
            g->phi && f->solid[s]->surface.element_count
                ? fsi__submerged(f, g, &f->solid[s]->surface, f->bvh[s].lo, f->bvh[s].hi)
                : 0;
    for (size_t c = 0; c < f->cells && !g->phi; c++)
        if (f->covered[c])
            f->submerged[f->owner[c]] += cell;
}

FSI_API fsi_result fsi_interface_sides(fsi_interface *face, const fsi_grid *grid) {
    int ijk[3];
    if (!face || !face->block || !grid || grid->cells != face->cells)
        return FSI_ERR_STATE;
    face->sides = face->entries = 0;
    int j;
    for (int i = 0; i < face->crossings; i = j) {
        const fsi_crossing *a = face->crossing + face->order[i], *b = a;
        for (j = i + 1; j < face->crossings; j++) {
            const fsi_crossing *c = face->crossing + face->order[j];
            if (c->face != a->face || c->axis != a->axis)
                break;
            b = c;
        }
        if (face->desc.fractions
            && (face->solid[a->solid]->surface.closed || face->solid[b->solid]->surface.closed))
            continue;
        fsi__face_ijk(face, a->axis, (size_t)a->face, ijk);
        size_t plus = fsi__cell_index(face, ijk);
        size_t minus = plus - (size_t)fsi__stride(face, a->axis);
        int shell = !face->covered[plus] && !face->covered[minus];
        if (grid->cell[minus] == FSI_CELL_FLUID && !fsi__side_add(face, grid, a, minus, 1, shell))
            return FSI_ERR_MEMORY;
        if (grid->cell[plus] == FSI_CELL_FLUID && !fsi__side_add(face, grid, b, plus, -1, shell))
            return FSI_ERR_MEMORY;
    }
    fsi__interface_submerged(face, grid);
    return face->desc.fractions ? fsi__fraction_sides(face, grid) : FSI_OK;
}

FSI_API fsi_real fsi_interface_velocity(const fsi_interface *face, const fsi_side *side,
                                        const fsi_real *v) {
    fsi_real sum = 0;
    for (int e = side->row; e < side->row_end; e++)
        sum += face->val[e] * v[face->col[e]];
    return sum;
}

FSI_API fsi_real fsi_interface_sample(const fsi_grid *grid, const fsi_side *side) {
    const fsi_real *plus = grid->u_plus[side->axis];
    return side->plus && plus ? plus[side->face] : grid->u[side->axis][side->face];
}

FSI_API void fsi_interface_set_sample(const fsi_interface *face, fsi_grid *grid,
                                      const fsi_side *side, fsi_real u) {
    fsi_real *plus = grid->u_plus[side->axis], *own = grid->u[side->axis];
    (void)face;
    if (!plus || !side->plus || !side->shell)
        own[side->face] = u;
    if (plus && (side->plus || !side->shell))
        plus[side->face] = u;
}

FSI_API fsi_vec3 fsi_interface_centre(const fsi_interface *face, const fsi_side *side) {
    return fsi__face_centre(face, side->axis, (size_t)side->face);
}
#endif

#ifndef FSI_COUPLE_NO_GRID
/* ------------------------------------------------------------------------------------------------
 * >>fractions */
/* Closed share of every face, exactly. In the plane of a face with axes (b, c), in cells, Green's
   theorem over the solid's cross-section gives, for the face [j, j+1] x [k, k+1], share = (closed
   part of its edge b = j+1) + sum over the cut lines inside the face of the integral of (b - j) dc
   because lines farther right add the edge's winding number and lines farther left nothing. In 2D a
   face is such an edge itself. Shares are summed in velocity[] (all zero during detect). Ties:
   planes and edges lie an epsilon to the plus side, as in fsi_surface_cross. */
FSI__INLINE void fsi__share_add(fsi_interface *f, int axis, const int *i, fsi_real x) {
    if (i[axis] < 1 || i[axis] >= f->n[axis])
        return;
    f->velocity[axis][fsi__face_index(f, axis, i)] += x;
}

/* Edges along c through the nodes of the plane: a crossing at s adds its winding step to the rest
 * of the line. */
static void fsi__share_edges(fsi_interface *f, const fsi_surface *s, int e, int a,
                             const fsi_real *lo, const fsi_real *hi, const int *from,
                             const int *to) {
    int b = f->dim == 3 ? (a + 1) % 3 : 2, c = f->dim == 3 ? (a + 2) % 3 : 1 - a, i[3], first[3],
        last[3];
    fsi_real el[3], eh[3], x[3], o = fsi__get(f->origin, c), h = f->h;
    int begin = (int)fsi__max(fsi__floor((lo[c] - o) / h), -1000000) - 1;
    int segments = (int)fsi__min(fsi__ceil((hi[c] - o) / h), 1000000) + 2 - begin;
    fsi_surface_bounds(s, e, el, eh);
    for (int k = 0; k < 3; k++) {
        fsi_real ok = fsi__get(f->origin, k);
        first[k] = 0;
        last[k] = 1;
        if (k >= f->dim || k == c)
            continue;
        first[k] =
            (int)fsi__clamp(fsi__floor((el[k] - ok) / h - FSI_R(1e-3)), 1, (fsi_real)f->n[k] + 1);
        last[k] = (int)fsi__clamp(fsi__ceil((eh[k] - ok) / h + FSI_R(1e-3)), 0,
                                  (fsi_real)(k == a ? f->n[k] - 1 : f->n[k]))
                  + 1;
    }
    for (i[a] = first[a]; i[a] < last[a]; i[a]++)
        for (i[b] = first[b]; i[b] < last[b]; i[b]++) {
            int j[3];
            x[2] = 0;
            for (int k = 0; k < f->dim; k++)
                x[k] = fsi__get(f->origin, k) + h * (fsi_real)(k == c ? begin : i[k]);
            fsi_vec3 p = fsi_vec_load(x);
            x[c] += h * (fsi_real)segments;
            fsi_hit hit;
            if (!fsi_surface_cross(s, e, p, fsi_vec_load(x), &hit))
                continue;
            fsi_real at = hit.t * (fsi_real)segments;
            int cut = (int)at;
            fsi_real step = (fsi_real)-hit.side;
            j[0] = i[0];
            j[1] = i[1];
            j[2] = i[2];
            if (f->dim == 3)
                j[b]--; /* the edge is the upper one of this face */
            j[c] = begin + cut;
            if (j[c] >= from[c] && j[c] < to[c])
                fsi__share_add(f, a, j, step * ((fsi_real)cut + 1 - at));
            for (j[c] = fsi__imax(j[c] + 1, from[c]); j[c] < to[c]; j[c]++)
                fsi__share_add(f, a, j, step);
        }
}

/* Lines where element e cuts the planes of the faces (3D): integral of (b - j) dc over each face
 * the line runs through. */
static void fsi__share_lines(fsi_interface *f, const fsi_surface *s, int e, int a) {
    int b = (a + 1) % 3, c = (a + 2) % 3, i[3], v, n;
    fsi_real x[3][3], lo = FSI_REAL_MAX, hi = -FSI_REAL_MAX;
    fsi_vec3 normal = fsi_surface_normal(s, e);
    for (v = 0; v < 3; v++)
        fsi_vec_store(
            x[v], fsi_vec_scale(fsi_vec_sub(fsi_surface_place(s, s->index[3 * e + v]), f->origin),
                                1 / f->h));
    for (v = 0; v < 3; v++) {
        lo = fsi__min(lo, x[v][a]);
        hi = fsi__max(hi, x[v][a]);
    }
    int first = (int)fsi__clamp(fsi__floor(lo), 1, (fsi_real)f->n[a]);
    int last = (int)fsi__clamp(fsi__ceil(hi), 0, (fsi_real)f->n[a] - 1);
    for (i[a] = first; i[a] <= last; i[a]++) {
        fsi_real at = (fsi_real)i[a], p[2][2], t0 = 0, d[2];
        for (v = 0, n = 0; v < 3; v++) {
            const fsi_real *q = x[v], *r = x[(v + 1) % 3];
            if ((q[a] > at) == (r[a] > at))
                continue;
            fsi_real t = (at - q[a]) / (r[a] - q[a]);
            p[n][0] = q[b] + t * (r[b] - q[b]);
            p[n][1] = q[c] + t * (r[c] - q[c]);
            n++;
        }
        if (n != 2)
            continue;
        d[0] = p[1][0] - p[0][0];
        d[1] = p[1][1] - p[0][1];
        /* the solid is to the left: outward (dc, -db) */
        if (d[1] * fsi__get(normal, b) - d[0] * fsi__get(normal, c) < 0) {
            p[0][0] = p[1][0];
            p[0][1] = p[1][1];
            d[0] = -d[0];
            d[1] = -d[1];
        }
        while (t0 < 1) { /* from one face to the next */
            fsi_real t1 = 1;
            for (v = 0; v < 2; v++) {
                fsi_real y = p[0][v] + t0 * d[v], next = d[v] > 0 ? fsi__floor(y + FSI_R(1e-9)) + 1
                                                                  : fsi__ceil(y - FSI_R(1e-9)) - 1;
                if (d[v] == 0)
                    continue;
                fsi_real t = (next - p[0][v]) / d[v];
                if (t > t0 && t < t1)
                    t1 = t;
            }
            fsi_real middle = (t0 + t1) / 2;
            i[b] = (int)fsi__ceil(p[0][0] + middle * d[0]) - 1;
            i[c] = (int)fsi__floor(p[0][1] + middle * d[1]);
            if (i[b] >= 0 && i[b] < f->n[b] && i[c] >= 0 && i[c] < f->n[c])
                fsi__share_add(f, a, i,
                               (p[0][0] + middle * d[0] - (fsi_real)i[b]) * d[1] * (t1 - t0));
            t0 = t1;
        }
    }
}

/* A solid smaller than a cell may close far more than it fills: the factor that makes its shares
 * along an axis add up to its volume, at most 1. */
static fsi_real fsi__share_grain(const fsi_interface *f, int solid, int axis, const int *from,
                                 const int *to) {
    const fsi_bvh *root = f->bvh + solid;
    double sum = 0;
    int i[3];
    for (int k = 0; k < f->dim; k++)
        if (root->hi[k] - root->lo[k] > f->h)
            return 1;
    FSI__EACH_CELL(i, from, to) sum += fabs((double)f->velocity[axis][fsi__face_index(f, axis, i)]);
    double volume =
        fsi__volume_below(&f->solid[solid]->surface, fsi_vec(0, 1, 0), root->hi[1] + f->h)
        / (double)(f->h * f->h * (f->dim == 3 ? f->h : 1));
    return sum > volume ? (fsi_real)(volume / sum) : 1;
}

/* Collects the shares of one solid into the list of cuts and into open[]. */
static int fsi__share_collect(fsi_interface *f, int solid, const int *from, const int *to) {
    int i[3];
    for (int axis = 0; axis < f->dim; axis++) {
        fsi_real grain = fsi__share_grain(f, solid, axis, from, to);
        FSI__EACH_CELL(i, from, to) {
            size_t face = fsi__face_index(f, axis, i);
            /* either orientation is solid, as in the voxel form */
            fsi_real share = grain * fsi__abs(f->velocity[axis][face]);
            f->velocity[axis][face] = 0;
            share = share > FSI_R(0.999) ? 1 : share < FSI_R(1e-3) ? 0 : share;
            share = fsi__min(share, f->open[axis][face]);
            if (!(share > 0))
                continue;
            fsi_cut *cut;
            if (!FSI__GROW(f, cut, cut_room, f->cuts, f->cuts + 1))
                return 0;
            cut = f->cut + f->cuts++;
            cut->face = (int32_t)face;
            cut->solid = solid;
            cut->axis = axis;
            cut->share = share;
            f->open[axis][face] -= share;
            if (f->open[axis][face] < FSI_R(1e-3))
                f->open[axis][face] = 0;
        }
    }
    return 1;
}

/* A cell is solid only when none of its faces is open. */
static void fsi__share_cover(fsi_interface *f, int solid, const int *from, const int *to) {
    int i[3];
    FSI__EACH_CELL(i, from, to) {
        size_t c = fsi__cell_index(f, i), face;
        int open = 0, inner = 0;
        for (int dir = 0; dir < 2 * f->dim; dir++)
            if (fsi__beside(f, i, dir, &face) >= 0) {
                inner++;
                open |= f->open[dir / 2][face] > 0;
            }
        if (open || !inner) {
            if (f->covered[c] && f->owner[c] == solid)
                f->covered[c] = 0;
        } else if (!f->covered[c]) {
            f->covered[c] = 1;
            f->owner[c] = solid;
        }
    }
}

static fsi_result fsi__fractions(fsi_interface *f) {
    int from[3], to[3];
    for (int k = 0; k < 2; k++)
        for (int s = 0; s < f->solids; s++) {
            const fsi_surface *surface = &f->solid[s]->surface;
            const fsi_bvh *root = f->bvh + s;
            if (!fsi__closed_range(f, s, from, to))
                continue;
            if (k == 1) {
                fsi__share_cover(f, s, from, to);
                continue;
            }
            for (int e = 0; e < surface->element_count; e++)
                for (int a = 0; a < f->dim; a++) {
                    fsi__share_edges(f, surface, e, a, root->lo, root->hi, from, to);
                    if (f->dim == 3)
                        fsi__share_lines(f, surface, e, a);
                }
            if (!fsi__share_collect(f, s, from, to))
                return FSI_ERR_MEMORY;
        }
    return FSI_OK;
}

static fsi_result fsi__fraction_sides(fsi_interface *f, const fsi_grid *g) {
    int i[3];
    for (int n = 0; n < f->cuts; n++) {
        const fsi_cut *cut = f->cut + n;
        fsi_crossing c;
        fsi_vec3 centre = fsi__face_centre(f, cut->axis, (size_t)cut->face);
        memset(&c, 0, sizeof c);
        fsi__face_ijk(f, cut->axis, (size_t)cut->face, i);
        size_t plus = fsi__cell_index(f, i);
        if (g->cell[plus] != FSI_CELL_FLUID
            && g->cell[plus - (size_t)fsi__stride(f, cut->axis)] != FSI_CELL_FLUID)
            continue;
        c.face = cut->face;
        c.solid = cut->solid;
        c.axis = (int8_t)cut->axis;
        c.t = FSI_R(0.5);
        /* the surface cuts the face: hardly ever farther than two cells */
        fsi_hit hit;
        if (!fsi_bvh_closest(f->bvh + cut->solid, centre, 2 * f->h, &hit)
            && !fsi_bvh_closest(f->bvh + cut->solid, centre, FSI_REAL_MAX, &hit))
            continue;
        c.element = hit.element;
        memcpy(c.weight, hit.weight, sizeof c.weight);
        for (int up = 0; up < 2; up++) {
            const size_t cell = up ? plus : plus - (size_t)fsi__stride(f, cut->axis);
            if (g->cell[cell] != FSI_CELL_FLUID)
                continue;
            if (!fsi__side_add(f, g, &c, cell, up ? -1 : 1, 0))
                return FSI_ERR_MEMORY;
            f->side[f->sides - 1].share = cut->share;
            f->side[f->sides - 1].mass = 0;
        }
    }
    return FSI_OK;
}
#endif

/* ------------------------------------------------------------------------------------------------
 * >>monolithic */
#ifndef FSI_COUPLE_NO_GRID
/* One system for everything (math.md 2, 2.1). Per solid: M^-1 = F F^T, v = v* + F a (nodal solids:
   F = 1). Per side s of cell c: U_s  row of J F          b_s  mass of the side          A =
   h^(dim-1)       o_s = sign, share_s: outward closed part of the face Z    = -A o share U^T in
   column s, row c:  G^T of the closed faces times J F K    = F^T M F + U^T b U  (dense: I + U^T b
   U)          k = U^T b (u* - J v*) (+ push - B^T B v* with implicit forces B) (L_N + Z K^-1 Z^T)
   p^ = G^T u*_open + Z_0 v* + Z K^-1 k,   a = K^-1 (k - Z^T p^) lambda = b (J v - u*) - A o share
   p^_c                     impulse on the solid = -J^T lambda The grid's matrix and right-hand side
   are rho h^(2-dim) times these: `scale`. */
#define FSI__REGIONS 64 /* closed regions told apart */
static void fsi__bubble_extra(const fsi_couple *c, const fsi_real *x, fsi_real *y);

enum {
    FSI__B_OFFSET,
    FSI__B_FIRST,
    FSI__B_BY,
    FSI__B_ROW,
    FSI__B_Q,
    FSI__B_K,
    FSI__B_KAT,
    FSI__B_COEF,
    FSI__B_CELLS,
    FSI__B_LAMBDA,
    FSI__B_VELOCITY,
    FSI__B_BEFORE,
    FSI__B_GROUP,
    FSI__B_SCELL,
    FSI__B_SFACTOR,
    FSI__B_E,
    FSI__B_CWORK,
    FSI__B_GY,
    FSI__B_BUBBLE,
    FSI__B_BW,
    FSI__B_BF,
    FSI__B_BNEAR,
    FSI__B_KRYLOV,
    FSI__B_VECTOR,
    FSI__B_WEIGHT,
    FSI__B_SMALL,
    FSI__B_BFACE,
    FSI__B_HALF,
    FSI__B_COUNT
};

/* Room for count items in list number slot; old contents are kept. NULL: no memory (the old list
 * stays). */
static void *fsi__room(fsi_couple *c, int slot, size_t count, size_t size) {
    fsi__block *b = c->block + slot;
    size_t bytes;
    if (!fsi_size_mul(count ? count : 1, size, &bytes))
        return NULL;
    if (bytes <= b->bytes)
        return b->ptr;
    if (b->bytes)
        bytes += bytes / 4; /* it has grown once: leave some room */
    void *p = fsi_alloc(&c->desc.allocator, bytes);
    if (!p)
        return NULL;
    if (b->bytes)
        memcpy(p, b->ptr, b->bytes);
    fsi_free(&c->desc.allocator, b->ptr, b->bytes);
    b->ptr = p;
    b->bytes = bytes;
    return p;
}

#define FSI__ROOM(c, field, type, slot, count)                                                     \
    (((c)->field = (type *)fsi__room(c, slot, (size_t)(count), sizeof(type))) != NULL)

FSI_API fsi_result fsi_couple_init(fsi_couple *couple, fsi_grid *grid,
                                   const fsi_couple_desc *desc) {
    if (!couple || !grid || !grid->block)
        return FSI_ERR_ARGUMENT;
    memset(couple, 0, sizeof *couple);
    if (desc)
        couple->desc = *desc;
    desc = &couple->desc;
    if (!fsi_allocator_valid(&desc->allocator) || desc->terms < -1 || desc->terms > 16
        || desc->max_iterations < 0 || desc->band < 0 || !(desc->tolerance >= 0)
        || !(desc->seconds >= 0) || (int)desc->solver < 0 || desc->solver > FSI_COUPLE_INDEFINITE) {
        memset(couple, 0, sizeof *couple);
        return FSI_ERR_ARGUMENT;
    }
    fsi_interface_desc id;
    memset(&id, 0, sizeof id);
    id.fractions = id.smooth = desc->fractions;
    id.average = desc->average;
    id.allocator = desc->allocator;
    fsi_result r = fsi_interface_init(&couple->interface, grid, &id);
    if (r != FSI_OK) {
        memset(couple, 0, sizeof *couple);
        return r;
    }
    couple->grid = grid;
    couple->rank.allocator = desc->allocator;
    return FSI_OK;
}

FSI_API void fsi_couple_free(fsi_couple *couple) {
    if (!couple || !couple->grid)
        return;
    for (int i = 0; i < FSI__B_COUNT; i++)
        fsi_free(&couple->desc.allocator, couple->block[i].ptr, couple->block[i].bytes);
    fsi_mg_free(&couple->second);
    fsi_mg_rank_free(&couple->rank);
    fsi_interface_free(&couple->interface);
    memset(couple, 0, sizeof *couple);
}

FSI_API fsi_result fsi_couple_detect(fsi_couple *couple, fsi_coupled *const *solid, int count) {
    if (!couple || !couple->grid)
        return FSI_ERR_STATE;
    couple->interface.lean = 1;
    return fsi_interface_detect(&couple->interface, couple->grid, solid, count);
}

/* ---- Small dense pieces. */
/* C = F F^T for a positive semi-definite C [n * n]; F [n * rank] row major; returns the rank. Fixed
 * directions have no column. */
static int fsi__psd_factor(int n, const fsi_real *C, fsi_real *F, fsi_real *work) {
    /* work [n * n]: columns one after the other */
    int rank = 0;
    for (int j = 0; j < n; j++) {
        double d = (double)C[j * n + j], full = d;
        fsi_real *col = work + rank * n;
        for (int k = 0; k < rank; k++)
            d -= (double)work[k * n + j] * (double)work[k * n + j];
        if (!(d > 256 * (double)FSI_REAL_EPS * full) || !(d > 0))
            continue;
        for (int i = 0; i < n; i++) {
            double s = (double)C[i * n + j];
            for (int k = 0; k < rank; k++)
                s -= (double)work[k * n + i] * (double)work[k * n + j];
            col[i] = i < j && C[i * n + i] == 0 ? 0 : (fsi_real)(s / sqrt(d));
        }
        rank++;
    }
    for (int i = 0; i < n; i++)
        for (int k = 0; k < rank; k++)
            F[i * rank + k] = work[k * n + i];
    return rank;
}

/* A = L L^T in place (lower triangle), dependent columns dropped: their diagonal becomes 0 and
 * solves give 0 there. */
static void fsi__psd_cholesky(int n, fsi_real *A) {
    for (int j = 0; j < n; j++) {
        double d = (double)A[j * n + j], full = d;
        for (int k = 0; k < j; k++)
            d -= (double)A[j * n + k] * (double)A[j * n + k];
        if (!(d > 1e4 * (double)FSI_REAL_EPS * full)) {
            for (int i = 0; i < n; i++)
                A[i >= j ? i * n + j : j * n + i] = 0;
            continue;
        }
        A[j * n + j] = (fsi_real)sqrt(d);
        for (int i = j + 1; i < n; i++) {
            double s = (double)A[i * n + j];
            for (int k = 0; k < j; k++)
                s -= (double)A[i * n + k] * (double)A[j * n + k];
            A[i * n + j] = (fsi_real)(s / (double)A[j * n + j]);
        }
    }
}

static void fsi__psd_solve(int n, const fsi_real *L, fsi_real *x) {
    for (int i = 0; i < n; i++) {
        double s = (double)x[i];
        for (int k = 0; k < i; k++)
            s -= (double)L[i * n + k] * (double)x[k];
        x[i] = L[i * n + i] > 0 ? (fsi_real)(s / (double)L[i * n + i]) : 0;
    }
    for (int i = n - 1; i >= 0; i--) {
        double s = (double)x[i];
        for (int k = i + 1; k < n; k++)
            s -= (double)L[k * n + i] * (double)x[k];
        x[i] = L[i * n + i] > 0 ? (fsi_real)(s / (double)L[i * n + i]) : 0;
    }
}

/* ---- Rows, K and right-hand side. */
FSI__INLINE fsi_real fsi__area(const fsi_interface *f) {
    return f->dim == 3 ? f->h * f->h : f->h;
}

FSI__INLINE fsi_real fsi__scale_of(const fsi_couple *c) {
    return c->grid->desc.rho / (c->interface.dim == 3 ? c->interface.h : 1);
}

FSI__INLINE fsi_real fsi__side_z(const fsi_interface *f, const fsi_side *s) {
    return -fsi__area(f) * s->share * (fsi_real)s->sign;
}

FSI__INLINE const fsi_side *fsi__side_of(const fsi_couple *c, int i) {
    return c->interface.side + c->by_solid[i];
}

/* Sides sorted by solid, columns of every solid. */
static int fsi__mono_lists(fsi_couple *c) {
    fsi_interface *f = &c->interface;
    size_t entries = 0, ks = 0;
    int biggest = 0;
    if (!FSI__ROOM(c, offset, int, FSI__B_OFFSET, f->solids + 1)
        || !FSI__ROOM(c, first, int, FSI__B_FIRST, f->solids + 2)
        || !FSI__ROOM(c, by_solid, int32_t, FSI__B_BY, f->sides)
        || !FSI__ROOM(c, row, size_t, FSI__B_ROW, f->sides)
        || !FSI__ROOM(c, K_at, size_t, FSI__B_KAT, f->solids + 1)
        || !FSI__ROOM(c, lambda, fsi_real, FSI__B_LAMBDA, f->sides)
        || !FSI__ROOM(c, side_velocity, fsi_real, FSI__B_VELOCITY, f->sides))
        return 0;
    memset(c->first, 0, (size_t)(f->solids + 2) * sizeof *c->first);
    for (int i = 0; i < f->sides; i++)
        c->first[f->side[i].solid + 2]++;
    for (int s = 0; s < f->solids; s++)
        c->first[s + 2] += c->first[s + 1];
    for (int i = 0; i < f->sides; i++)
        c->by_solid[c->first[f->side[i].solid + 1]++] = i;
    for (int s = 0; s < f->solids; s++) {
        const fsi_coupled *b = f->solid[s];
        size_t dof = (size_t)b->dof;
        c->K_at[s] = ks;
        if (!b->node) {
            ks += dof * (dof + 1) / 2;
            entries += dof * (size_t)(c->first[s + 1] - c->first[s]);
        } else
            ks += dof;
        if (!b->node)
            biggest = fsi__imax(biggest, b->dof);
    }
    c->K_at[f->solids] = ks;
    return FSI__ROOM(c, K, fsi_real, FSI__B_K, ks) && FSI__ROOM(c, q, fsi_real, FSI__B_Q, entries)
           && fsi__room(c, FSI__B_SMALL, 3 * (size_t)biggest * (size_t)biggest, sizeof(fsi_real))
                  != NULL;
}

/* F of a dense solid, F F^T = M^-1, [dof * rank] in scratch: the same bits whenever it is asked
 * for. Returns the rank. */
static int fsi__mono_factor(const fsi_couple *c, int s, fsi_real **F) {
    const fsi_coupled *b = c->interface.solid[s];
    size_t n = (size_t)b->dof * (size_t)b->dof;
    fsi_real *room = *F = (fsi_real *)c->block[FSI__B_SMALL].ptr;
    if (!b->inverse_mass && b->dof)
        b->mass_fn(b, NULL, room + 2 * n);
    return fsi__psd_factor(b->dof, b->inverse_mass ? b->inverse_mass : room + 2 * n, room,
                           room + n);
}

/* L in place of K = I + A, rows of the lower triangle: its pivots are at least 1, whatever rounding
 * says. */
static void fsi__k_factor(int n, fsi_real *K) {
    fsi_real *a = K, *b;
    int j;
    for (int i = 0; i < n; a += ++i)
        for (b = K, j = 0; j <= i; b += ++j) {
            double sum = (double)a[j];
            for (int k = 0; k < j; k++)
                sum -= (double)a[k] * (double)b[k];
            a[j] = (fsi_real)(j < i ? sum / (double)b[j] : sqrt(fmax(sum, 1)));
        }
}

/* Dense solid: rows J F and the factor L of K = I + U^T b U. */
static void fsi__mono_dense(fsi_couple *c, int s, size_t *entry) {
    fsi_interface *f = &c->interface;
    fsi_real *F, *K = c->K + c->K_at[s];
    int r = fsi__mono_factor(c, s, &F);
    c->offset[s + 1] = c->offset[s] + r;
    fsi_real *to;
    int j;
    for (to = K, j = 0; j < r; j++)
        for (int k = 0; k <= j; k++)
            *to++ = (fsi_real)(j == k);
    for (int i = c->first[s]; i < c->first[s + 1]; i++) {
        const fsi_side *side = fsi__side_of(c, i);
        fsi_real *q = c->q + *entry;
        c->row[i] = *entry;
        *entry += (size_t)r;
        for (int k = 0; k < r; k++)
            q[k] = 0;
        for (int e = side->row; e < side->row_end; e++)
            for (int k = 0; k < r; k++)
                q[k] += f->val[e] * F[f->col[e] * r + k];
        for (to = K, j = 0; j < r; j++)
            for (int k = 0; k <= j; k++)
                *to++ += side->mass * q[j] * q[k];
    }
    fsi__k_factor(r, K);
}

/* Nodal solid: diagonal of K = M + U^T b U + B^T B; 0 marks nodes that are fixed. */
static void fsi__mono_nodal(fsi_couple *c, int s) {
    fsi_interface *f = &c->interface;
    const fsi_coupled *b = f->solid[s];
    fsi_real *K = c->K + c->K_at[s];
    c->offset[s + 1] = c->offset[s] + b->dof;
    for (int i = 0; i < b->dof; i++)
        K[i] = b->inverse_mass[i / 3] > 0 ? 1 / b->inverse_mass[i / 3] : 0;
    for (int i = c->first[s]; i < c->first[s + 1]; i++) {
        const fsi_side *side = fsi__side_of(c, i);
        for (int e = side->row; e < side->row_end; e++)
            if (K[f->col[e]] > 0)
                K[f->col[e]] += side->mass * f->val[e] * f->val[e];
    }
    if (b->implicit)
        for (int e = 0; e < b->implicit->row[b->implicit->rows]; e++)
            if (K[b->implicit->col[e]] > 0)
                K[b->implicit->col[e]] += b->implicit->val[e] * b->implicit->val[e];
}

static fsi_result fsi__mono_rows(fsi_couple *c) {
    fsi_interface *f = &c->interface;
    size_t entry = 0;
    if (!fsi__mono_lists(c))
        return FSI_ERR_MEMORY;
    c->offset[0] = 0;
    int s;
    for (s = 0; s < f->solids; s++)
        if (f->solid[s]->node)
            fsi__mono_nodal(c, s);
        else
            fsi__mono_dense(c, s, &entry);
    c->columns = c->offset[f->solids];
    int k;
    for (s = 0, k = 5; s < f->solids; s++)
        if (f->solid[s]->node)
            k = 8;
    fsi_real *p;
    p = (fsi_real *)fsi__room(c, FSI__B_COEF, (size_t)k * (size_t)c->columns, sizeof *p);
    for (; p && k-- > 0;)
        c->coef[k] = p + (size_t)k * (size_t)c->columns;
    if (!p)
        return FSI_ERR_MEMORY;
    p = (fsi_real *)fsi__room(c, FSI__B_CELLS, 3 * f->cells, sizeof *p);
    for (k = 0; p && k < 3; k++)
        c->cells[k] = p + (size_t)k * f->cells;
    return p ? FSI_OK : FSI_ERR_MEMORY;
}

/* out += sum over the solid's sides of x_s times its row of U (x [sides], in side order). */
static void fsi__ut_add(const fsi_couple *c, int s, const fsi_real *x, fsi_real *out) {
    const fsi_interface *f = &c->interface;
    int r = c->offset[s + 1] - c->offset[s], nodal = f->solid[s]->node != NULL;
    const fsi_real *K = c->K + c->K_at[s];
    for (int i = c->first[s]; i < c->first[s + 1]; i++) {
        const fsi_side *side = fsi__side_of(c, i);
        fsi_real w = x[c->by_solid[i]];
        const fsi_real *q = c->q + c->row[i];
        if (w == 0)
            continue;
        if (!nodal)
            for (int k = 0; k < r; k++)
                out[k] += w * q[k];
        else
            for (int e = side->row; e < side->row_end; e++)
                if (K[f->col[e]] > 0)
                    out[f->col[e]] += w * f->val[e];
    }
}

/* U_s a for position i of by_solid. */
FSI__INLINE fsi_real fsi__u_row(const fsi_couple *c, int s, int i, const fsi_real *a) {
    const fsi_interface *f = &c->interface;
    const fsi_side *side = fsi__side_of(c, i);
    int r = c->offset[s + 1] - c->offset[s];
    fsi_real sum = 0;
    if (!f->solid[s]->node) {
        const fsi_real *q = c->q + c->row[i];
        for (int k = 0; k < r; k++)
            sum += q[k] * a[k];
        return sum;
    }
    /* a is 0 at fixed nodes */
    for (int e = side->row; e < side->row_end; e++)
        sum += f->val[e] * a[f->col[e]];
    return sum;
}

/* out = Z^T x for one solid; y += s Z a. */
static void fsi__zt(const fsi_couple *c, int s, const fsi_real *x, fsi_real *out) {
    const fsi_interface *f = &c->interface;
    int r = c->offset[s + 1] - c->offset[s];
    const fsi_real *K = c->K + c->K_at[s];
    /* summed in double: the pressures around a light body nearly cancel */
    if (!f->solid[s]->node) {
        for (int k0 = 0; k0 < r; k0 += 8) {
            double sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
            int n = fsi__imin(r - k0, 8);
            for (int i = c->first[s]; i < c->first[s + 1]; i++) {
                const fsi_side *side = fsi__side_of(c, i);
                const fsi_real *q = c->q + c->row[i] + k0;
                double w = (double)fsi__side_z(f, side) * (double)x[side->cell];
                for (int k = 0; k < n; k++)
                    sum[k] += w * (double)q[k];
            }
            for (int k = 0; k < n; k++)
                out[k0 + k] = (fsi_real)sum[k];
        }
        return;
    }
    for (int k = 0; k < r; k++)
        out[k] = 0;
    for (int i = c->first[s]; i < c->first[s + 1]; i++) {
        const fsi_side *side = fsi__side_of(c, i);
        fsi_real w = fsi__side_z(f, side) * x[side->cell];
        for (int e = side->row; e < side->row_end; e++)
            if (K[f->col[e]] > 0)
                out[f->col[e]] += w * f->val[e];
    }
}

static void fsi__z_add(const fsi_couple *c, int s, const fsi_real *a, fsi_real scale, fsi_real *y) {
    const fsi_interface *f = &c->interface;
    for (int i = c->first[s]; i < c->first[s + 1]; i++) {
        const fsi_side *side = fsi__side_of(c, i);
        y[side->cell] += scale * fsi__side_z(f, side) * fsi__u_row(c, s, i, a);
    }
}

/* y += scale B^T B x on the nodes that move. */
static void fsi__implicit_add(const fsi_couple *c, int s, const fsi_real *x, fsi_real scale,
                              fsi_real *y) {
    const fsi_csr *B = c->interface.solid[s]->implicit;
    const fsi_real *K = c->K + c->K_at[s];
    for (int i = 0; i < B->rows; i++) {
        fsi_real w = 0;
        for (int k = B->row[i]; k < B->row[i + 1]; k++)
            w += B->val[k] * x[B->col[k]];
        for (int k = B->row[i]; k < B->row[i + 1]; k++)
            if (K[B->col[k]] > 0)
                y[B->col[k]] += scale * w * B->val[k];
    }
}

/* y += push on the nodes that move. */
static void fsi__push_add(const fsi_couple *c, int s, fsi_real *y) {
    const fsi_coupled *b = c->interface.solid[s];
    for (int i = 0; b->node && b->push && i < b->dof; i++)
        if (c->K[c->K_at[s] + (size_t)i] > 0)
            y[i] += b->push[i];
}

/* y = K x of a nodal solid. */
static void fsi__k_apply(const fsi_couple *c, int s, const fsi_real *x, fsi_real *y) {
    const fsi_interface *f = &c->interface;
    const fsi_coupled *b = f->solid[s];
    const fsi_real *K = c->K + c->K_at[s];
    for (int i = 0; i < b->dof; i++)
        y[i] = K[i] > 0 ? x[i] / b->inverse_mass[i / 3] : 0;
    for (int i = c->first[s]; i < c->first[s + 1]; i++) {
        const fsi_side *side = fsi__side_of(c, i);
        fsi_real w = side->mass * fsi__u_row(c, s, i, x);
        for (int e = side->row; e < side->row_end; e++)
            if (K[f->col[e]] > 0)
                y[f->col[e]] += w * f->val[e];
    }
    if (b->implicit)
        fsi__implicit_add(c, s, x, 1, y);
}

/* x = K^-1 b with L of a dense solid; b may be x. */
static void fsi__k_back(int n, const fsi_real *L, const fsi_real *b, fsi_real *x) {
    const fsi_real *row = L;
    for (int i = 0; i < n; row += ++i) {
        double sum = (double)b[i];
        for (int k = 0; k < i; k++)
            sum -= (double)row[k] * (double)x[k];
        x[i] = (fsi_real)(sum / (double)row[i]);
    }
    /* row k of L begins k (k + 1) / 2 numbers behind its start */
    for (int i = n - 1; i >= 0; i--) {
        double sum = (double)x[i];
        for (int k = i + 1; k < n; k++)
            sum -= (double)L[k * (k + 1) / 2 + i] * (double)x[k];
        x[i] = (fsi_real)(sum / (double)L[i * (i + 1) / 2 + i]);
    }
}

/* x = K^-1 b of one solid. Nodal: conjugate gradients with the diagonal, to round-off; touches only
 * the solid, so it is cheap. */
static void fsi__k_solve(fsi_couple *c, int s, const fsi_real *b, fsi_real *x) {
    const fsi_real *K = c->K + c->K_at[s];
    int r = c->offset[s + 1] - c->offset[s];
    double rz = 0, start = 0;
    size_t n = (size_t)r;
    if (!c->interface.solid[s]->node) {
        fsi__k_back(r, K, b, x);
        return;
    }
    fsi_real *res = c->coef[5] + c->offset[s];
    fsi_real *d = c->coef[6] + c->offset[s];
    fsi_real *y = c->coef[7] + c->offset[s];
    int i;
    for (i = 0; i < r; i++) {
        x[i] = d[i] = 0;
        res[i] = K[i] > 0 ? b[i] : 0;
    }
    for (int it = 0; it < 1000; it++) {
        double old = rz;
        for (i = 0, rz = 0; i < r; i++)
            rz += K[i] > 0 ? (double)res[i] * (double)res[i] / (double)K[i] : 0;
        if (it == 0)
            start = rz;
        if (!(rz > start * (sizeof(fsi_real) == 8 ? 1e-28 : 1e-13)) || !(rz > 0))
            break;
        for (i = 0; i < r; i++)
            d[i] = (K[i] > 0 ? res[i] / K[i] : 0) + (fsi_real)(it ? rz / old : 0) * d[i];
        fsi__k_apply(c, s, d, y);
        double dy = fsi_dot(n, d, y);
        if (!(dy > 0))
            break;
        fsi_axpy(n, (fsi_real)(rz / dy), d, x);
        fsi_axpy(n, (fsi_real)(-rz / dy), y, res);
    }
}

/* a -= K^-1 G^T e with e = E^-1 G a: the part of the answer a that changes no closed region's
 * volume. e is left in coarse_work. */
static void fsi__keep_volumes(fsi_couple *c, fsi_real *a) {
    const size_t m = (size_t)c->columns;
    int n = c->regions;
    for (int k = 0; k < n; k++)
        c->coarse_work[k] = (fsi_real)fsi_dot(m, c->GY + (size_t)k * m, a);
    if (n)
        fsi__psd_solve(n, c->E, c->coarse_work);
    for (int k = 0; k < n; k++)
        fsi_axpy(m, -c->coarse_work[k], c->GY + (size_t)(n + k) * m, a);
}

/* coef[1] = K^-1 Z^T x of all solids, volumes of closed regions kept. */
static void fsi__respond(fsi_couple *c, const fsi_real *x) {
    for (int s = 0; s < c->interface.solids; s++) {
        fsi_real *a = c->coef[0] + c->offset[s];
        if (c->offset[s + 1] == c->offset[s])
            continue;
        fsi__zt(c, s, x, a);
        fsi__k_solve(c, s, a, c->coef[1] + c->offset[s]);
    }
    fsi__keep_volumes(c, c->coef[1]);
}

/* y += (Sigma - L_N) x. */
static void fsi__extra(const fsi_real *x, fsi_real *y, void *user) {
    fsi_couple *c = (fsi_couple *)user;
    fsi__respond(c, x);
    for (int s = 0; s < c->interface.solids; s++)
        if (c->offset[s + 1] > c->offset[s])
            fsi__z_add(c, s, c->coef[1] + c->offset[s], fsi__scale_of(c), y);
    fsi__bubble_extra(c, x, y);
}

/* k = U^T b (u* - J v*) into coef[2], a_hat = K^-1 k into coef[3], and the grid's right-hand side
 * completed with Z_0 v* (+ Z a_hat). */
static void fsi__mono_rhs(fsi_couple *c, int eliminate) {
    fsi_interface *f = &c->interface;
    fsi_real scale = fsi__scale_of(c);
    for (int i = 0; i < f->sides; i++) {
        const fsi_side *side = f->side + i;
        fsi_real v = fsi_interface_velocity(f, side, f->solid[side->solid]->v);
        c->grid->rhs[side->cell] += scale * fsi__side_z(f, side) * v;
        c->lambda[i] = side->mass * (c->side_velocity[i] - v);
    }
    fsi_fill((size_t)c->columns, 0, c->coef[2]);
    for (int s = 0; s < f->solids; s++) {
        fsi_real *k = c->coef[2] + c->offset[s], *a = c->coef[3] + c->offset[s];
        if (c->offset[s + 1] == c->offset[s])
            continue;
        fsi__ut_add(c, s, c->lambda, k);
        if (f->solid[s]->implicit)
            fsi__implicit_add(c, s, f->solid[s]->v, -1, k);
        fsi__push_add(c, s, k);
        fsi__k_solve(c, s, k, a);
        if (eliminate)
            fsi__z_add(c, s, a, scale, c->grid->rhs);
    }
}

/* v += F a. */
static void fsi__solid_add(fsi_couple *c, int s, const fsi_real *a) {
    const fsi_coupled *b = c->interface.solid[s];
    fsi_real *F = NULL;
    int r = b->node ? 0 : fsi__mono_factor(c, s, &F);
    for (int i = 0; i < b->dof; i++) {
        if (b->node) {
            b->v[i] += a[i];
            continue;
        }
        for (int k = 0; k < r; k++)
            b->v[i] += F[i * r + k] * a[k];
    }
}

/* coef[4] = start - K^-1 Z^T p, the solids' answer to p^ (start NULL: 0; may be coef[4] itself),
 * and the constants that go with it. */
static void fsi__answer(fsi_couple *c, const fsi_real *p, const fsi_real *start) {
    fsi__respond(c, p);
    for (int k = 0; k < c->columns; k++)
        c->coef[4][k] = (start ? start[k] : 0) - c->coef[1][k];
    for (int k = 0; k < c->regions; k++)
        c->constant[c->region_of[k]] -= (double)c->coarse_work[k];
}

/* The constant of the closed region that the cell belongs to. */
FSI__INLINE fsi_real fsi__constant_at(const fsi_couple *c, size_t cell) {
    int label = c->regions ? c->grid->mg->label[cell] : -1;
    return label >= 0 && label < FSI__REGIONS ? (fsi_real)c->constant[label] : 0;
}

/* Velocities and impulses that belong to p^ and the answer in coef[4]: exact momentum for any p^.
 */
static void fsi__mono_finish(fsi_couple *c, const fsi_real *p) {
    fsi_interface *f = &c->interface;
    for (int s = 0; s < f->solids; s++)
        if (c->offset[s + 1] > c->offset[s]) {
            /* a_hat - K^-1 Z^T p */
            fsi_axpy((size_t)(c->offset[s + 1] - c->offset[s]), 1, c->coef[3] + c->offset[s],
                     c->coef[4] + c->offset[s]);
            fsi__solid_add(c, s, c->coef[4] + c->offset[s]);
        }
    for (int i = 0; i < f->sides; i++) {
        const fsi_side *side = f->side + i;
        fsi_real v = fsi_interface_velocity(f, side, f->solid[side->solid]->v);
        c->lambda[i] =
            side->mass * (v - c->side_velocity[i])
            + fsi__side_z(f, side) * (p[side->cell] + fsi__constant_at(c, (size_t)side->cell));
        c->side_velocity[i] = v;
    }
}

/* ---- Closed regions. A constant pressure there moves no fluid, it only pushes solids: it is the
   multiplier of the constraint that their motion keeps the region's volume. With G_k = Z^T 1 on
   region k and E = G K^-1 G^T, K^-1 - K^-1 G^T E^-1 G K^-1 takes the place of K^-1 in Sigma
   (fsi__keep_volumes). All constants are null vectors then, which fsi_mg_solve takes out by itself,
   and a large one (a heavy solid with no room to fall) costs p^ no digits. */
typedef struct fsi__cellfaces {
    ptrdiff_t cell[6];
    fsi_real w[6];
    fsi_real diagonal;
} fsi__cellfaces;

/* Row c of L_N: fluid neighbours (or -1) and weights. */
static void fsi__cell_row(const fsi_couple *c, ptrdiff_t cell, fsi__cellfaces *out) {
    const fsi_interface *f = &c->interface;
    const fsi_grid *g = c->grid;
    int i[3];
    i[0] = (int)(cell % f->nx);
    i[1] = (int)(cell / f->nx % f->ny);
    i[2] = (int)(cell / ((ptrdiff_t)f->nx * f->ny));
    memset(out, 0, sizeof *out);
    for (int axis = 0; axis < 3; axis++)
        for (int up = 0; up < 2; up++) {
            int k = 2 * axis + up;
            ptrdiff_t n = cell + (up ? 1 : -1) * fsi__stride(f, axis);
            out->cell[k] = -1;
            out->w[k] = 0;
            if (axis >= f->dim)
                continue;
            int inside = up ? i[axis] + 1 < f->n[axis] : i[axis] > 0;
            if (inside && g->cell[n] == FSI_CELL_NEUMANN)
                continue;
            i[axis] += up;
            out->w[k] = g->weight[axis][fsi__face_index(f, axis, i)];
            i[axis] -= up;
            if (!(out->w[k] > 0))
                continue;
            out->diagonal += out->w[k];
            if (inside && g->cell[n] == FSI_CELL_FLUID)
                out->cell[k] = n;
        }
}

/* Which closed regions a solid that can move feels: those get a column; GY row = Z^T 1 on the
 * region. */
static void fsi__region_row(const fsi_couple *c, int region, fsi_real *out) {
    const fsi_interface *f = &c->interface;
    fsi_fill((size_t)c->columns, 0, out);
    for (int s = 0; s < f->solids; s++) {
        int r = c->offset[s + 1] - c->offset[s];
        const fsi_real *K = c->K + c->K_at[s];
        fsi_real *a = out + c->offset[s];
        if (!r)
            continue;
        for (int i = c->first[s]; i < c->first[s + 1]; i++) {
            const fsi_side *side = fsi__side_of(c, i);
            fsi_real z = fsi__side_z(f, side);
            if (c->grid->mg->label[side->cell] != region)
                continue;
            if (!f->solid[s]->node)
                for (int k = 0; k < r; k++)
                    a[k] += z * c->q[c->row[i] + (size_t)k];
            else
                for (int e = side->row; e < side->row_end; e++)
                    if (K[f->col[e]] > 0)
                        a[f->col[e]] += z * f->val[e];
        }
    }
}

static void fsi__coarse_regions(fsi_couple *c) {
    const fsi_interface *f = &c->interface;
    int n = fsi__imin(c->grid->mg->regions, FSI__REGIONS);
    c->regions = 0;
    for (int k = 0; k < n; k++) {
        double size = 0; /* the same sum without cancellation */
        fsi__region_row(c, k, c->coef[4]);
        for (int s = 0; s < f->solids; s++)
            for (int i = c->first[s]; i < c->first[s + 1] && c->offset[s + 1] > c->offset[s]; i++) {
                const fsi_side *side = fsi__side_of(c, i);
                double z = (double)fsi__side_z(f, side), u = f->solid[s]->node ? 1 : 0;
                if (c->grid->mg->label[side->cell] != k)
                    continue;
                for (int j = 0; !f->solid[s]->node && j < c->offset[s + 1] - c->offset[s]; j++)
                    u += (double)c->q[c->row[i] + (size_t)j] * (double)c->q[c->row[i] + (size_t)j];
                size += z * z * u;
            }
        if (fsi_norm((size_t)c->columns, c->coef[4])
            > (sizeof(fsi_real) == 8 ? 1e-6 : 1e-3) * sqrt(size))
            c->region_of[c->regions++] = k;
    }
}

/* G, K^-1 G^T and the factor of E of the felt regions. */
static int fsi__coarse_build(fsi_couple *c) {
    fsi_interface *f = &c->interface;
    size_t m = (size_t)c->columns;
    if (!c->columns || !c->grid->mg->regions)
        return 1;
    fsi__coarse_regions(c);
    int n = c->regions;
    c->regions = 0;
    if (!FSI__ROOM(c, E, fsi_real, FSI__B_E, n * n)
        || !FSI__ROOM(c, coarse_work, fsi_real, FSI__B_CWORK, n)
        || !FSI__ROOM(c, GY, fsi_real, FSI__B_GY, 2 * (size_t)n * m))
        return 0;
    c->regions = n;
    fsi_real *G = c->GY;
    fsi_real *KG = c->GY + (size_t)n * m;
    for (int k = 0; k < n; k++)
        fsi__region_row(c, c->region_of[k], G + (size_t)k * m);
    for (int j = 0; j < n; j++)
        for (int s = 0; s < f->solids; s++)
            if (c->offset[s + 1] > c->offset[s])
                fsi__k_solve(c, s, G + (size_t)j * m + c->offset[s],
                             KG + (size_t)j * m + c->offset[s]);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            c->E[i * n + j] = (fsi_real)fsi_dot(m, G + (size_t)i * m, KG + (size_t)j * m);
    fsi__psd_cholesky(n, c->E);
    return 1;
}

/* coarse_work = factor E^-1 (sums of x over the felt regions, numbered by label), and the same by
 * label. */
static void fsi__coarse_solve(fsi_couple *c, const int32_t *label, const fsi_real *x,
                              fsi_real factor, double *constant) {
    int n = c->regions;
    memset(constant, 0, FSI__REGIONS * sizeof *constant);
    for (size_t i = 0; n && i < c->interface.cells; i++)
        if (label[i] >= 0 && label[i] < FSI__REGIONS)
            constant[label[i]] += (double)x[i];
    for (int k = 0; k < n; k++)
        c->coarse_work[k] = factor * (fsi_real)constant[c->region_of[k]];
    if (n)
        fsi__psd_solve(n, c->E, c->coarse_work);
    memset(constant, 0, FSI__REGIONS * sizeof *constant);
    for (int k = 0; k < n; k++)
        constant[c->region_of[k]] = (double)c->coarse_work[k];
}

/* Constants that make up for the flux into the felt regions, and what they do to a_hat (coef[3])
 * and to the right-hand side. */
static void fsi__coarse_start(fsi_couple *c) {
    const size_t m = (size_t)c->columns;
    int n = c->regions;
    fsi__coarse_solve(c, c->grid->mg->label, c->grid->rhs, 1 / fsi__scale_of(c), c->constant);
    fsi_fill(m, 0, c->coef[1]);
    for (int k = 0; k < n; k++)
        fsi_axpy(m, -c->coarse_work[k], c->GY + (size_t)(n + k) * m, c->coef[1]);
    fsi_axpy(m, 1, c->coef[1], c->coef[3]);
    for (int s = 0; s < c->interface.solids && n; s++)
        if (c->offset[s + 1] > c->offset[s])
            fsi__z_add(c, s, c->coef[1] + c->offset[s], fsi__scale_of(c), c->grid->rhs);
}

/* For solvers that keep the constants among their unknowns: z += 1 (factor E^-1) 1^T r, the part
 * that a V-cycle leaves out. */
static void fsi__coarse_add(fsi_couple *c, const int32_t *label, const fsi_real *r, fsi_real factor,
                            fsi_real *z) {
    double constant[FSI__REGIONS];
    fsi__coarse_solve(c, label, r, factor, constant);
    for (size_t i = 0; c->regions && i < c->interface.cells; i++)
        if (label[i] >= 0 && label[i] < FSI__REGIONS)
            z[i] += (fsi_real)constant[label[i]];
}
#endif

#ifndef FSI_COUPLE_NO_GRID
/* ------------------------------------------------------------------------------------------------
 * >>bubbles */
/* A closed air region is one more unknown p_b: sum of w (p_b - p_c) over its faces = rhs_b.
   Eliminated, with W = sum of w: p_b = (rhs_b + sum w p_c) / W,  row of a fluid cell c: ... + w p_c
   - w (sum w p) / W = rhs_c + w rhs_b / W. */
static void fsi__bubble_extra(const fsi_couple *c, const fsi_real *x, fsi_real *y) {
    for (int b = 0; b < c->bubbles; b++) {
        const fsi_bubble *u = c->bubble + b;
        double sum = 0;
        for (int i = u->first; i < u->last; i++)
            sum += (double)(c->bubble_face[i].w * x[c->bubble_face[i].cell]);
        for (int i = u->first; i < u->last; i++)
            y[c->bubble_face[i].cell] -= c->bubble_face[i].w * (fsi_real)(sum / (double)u->weight);
    }
}

/* Volumes carried over: a new region takes each old bubble's target in proportion to the cells it
 * got from it; what opened to the air is gone. */
static void fsi__bubble_targets(fsi_couple *c, const fsi_bubble *old, int olds, const int *number,
                                int *share) {
    fsi_grid *g = c->grid;
    /* lost: of bubbles too small for the grid to hold: the largest one takes it on */
    double debt = 0, lost = 0;
    int largest = 0;
    /* [old][new], last column: all; last row: from the open air */
    memset(share, 0, (size_t)((olds + 1) * (c->bubbles + 1)) * sizeof *share);
    int b;
    int o;
    for (size_t n = 0; n < g->cells; n++) {
        o = c->bubble_cell[n] < 0 ? olds : c->bubble_cell[n] - 1;
        if (o < 0 || o > olds || g->region[n] < 0)
            continue;
        b = number[g->region[n]] - 1;
        if (b >= 0)
            share[o * (c->bubbles + 1) + b]++;
        share[o * (c->bubbles + 1) + c->bubbles]++;
    }
    for (o = 0; o < olds; o++)
        if (!share[o * (c->bubbles + 1) + c->bubbles])
            lost += old[o].target;
    for (b = 1; b < c->bubbles; b++)
        if (c->bubble[b].volume > c->bubble[largest].volume)
            largest = b;
    for (b = 0; b < c->bubbles; b++) {
        double target = b == largest ? lost : 0;
        int most = 0;
        for (o = 0; o < olds; o++) {
            int total = share[o * (c->bubbles + 1) + c->bubbles];
            if (!total)
                continue;
            if (share[o * (c->bubbles + 1) + b] > most) {
                most = share[o * (c->bubbles + 1) + b];
                c->bubble[b].pressure = old[o].pressure;
            }
            target += old[o].target * (double)share[o * (c->bubbles + 1) + b] / (double)total;
        }
        /* without a past: air caught from outside is new, a pocket that came off unseen is not */
        if (!(target > (b == largest ? lost : 0))) {
            target += c->bubble[b].volume;
            if (olds && !share[olds * (c->bubbles + 1) + b])
                debt += c->bubble[b].volume;
        }
        c->bubble[b].target = target;
    }
    if (c->bubbles)
        c->bubble[largest].target =
            fmax(c->bubble[largest].target - debt, c->bubble[largest].target / 2);
}

/* number[region]: its bubble + 1, -1 for open air. NULL: no memory. */
static const int *fsi__bubble_list(fsi_couple *c) {
    fsi_grid *g = c->grid;
    int r, olds = c->bubbles, count = 0;
    for (r = 0; r < g->region_count; r++)
        count += !g->regions[r].open && g->regions[r].cells > 0;
    fsi_bubble *list;
    list = (fsi_bubble *)fsi__room(c, FSI__B_BUBBLE, 2 * (size_t)(olds + count) + 1, sizeof *list);
    int *share;
    share = (int *)fsi__room(c, FSI__B_BW,
                             (size_t)(olds + 1) * (size_t)(count + 1) + (size_t)g->region_count,
                             sizeof *share);
    if (!list || !share || !FSI__ROOM(c, bubble_cell, int32_t, FSI__B_BF, g->cells))
        return NULL;
    /* one place more for the open surface, see fsi__bubble_settle */
    fsi_bubble *old = list + count + 1;
    int *number = share + (olds + 1) * (count + 1); /* [regions] */
    memmove(old, list, (size_t)olds * sizeof *list);
    c->bubble = list;
    for (r = 0, c->bubbles = 0; r < g->region_count; r++) {
        number[r] = -1;
        if (g->regions[r].open || g->regions[r].cells <= 0)
            continue;
        number[r] = c->bubbles + 1;
        memset(list + c->bubbles, 0, sizeof *list);
        list[c->bubbles].region = r;
        list[c->bubbles++].volume = g->regions[r].volume;
    }
    fsi__bubble_targets(c, old, olds, number, share);
    for (size_t n = 0; n < g->cells; n++)
        c->bubble_cell[n] = g->region[n] < 0 ? 0 : number[g->region[n]];
    return number;
}

/* The level set gains and loses volume by itself (a few 1e-5 of a bubble a step, per cents of the
   pieces when it breaks up). That is made good where it arises: the surface of every bubble moves
   by its own small shift until its volume is the target's, then the open surface's until the
   liquid's is. */
/* Volumes of the bubbles, and of the liquid in place of the open surface's (negative: it grows when
 * the surface goes outward). */
static void fsi__bubble_volumes(fsi_couple *c) {
    fsi_grid_air_volumes(c->grid, c->bubble_near);
    int b;
    for (b = 0; b < c->bubbles; b++)
        c->bubble[b].volume = c->grid->regions[c->bubble[b].region].volume;
    c->bubble[b].volume = -c->grid->stats.liquid_volume;
}

/* The bubble (after the last: the open surface) whose surface is next to cell n. */
static fsi_bubble *fsi__bubble_next(const fsi_couple *c, const int *number, size_t n) {
    int r = c->bubble_near[n] - 1;
    return r < 0 ? NULL : c->bubble + (number[r] < 0 ? c->bubbles : number[r] - 1);
}

/* phi, and at the end the markers: left behind they would soon count as escaped and undo the shift.
 */
static void fsi__bubble_shift(fsi_couple *c, const int *number, int markers) {
    fsi_levelset *ls = &c->grid->levelset;
    const fsi_interface *f = &c->interface;
    const fsi_real end = (fsi_real)ls->desc.band * ls->desc.h;
    const fsi_bubble *u;
    for (size_t n = 0; n < ls->cells && !markers; n++)
        if (fsi__abs(ls->phi[n]) < end && (u = fsi__bubble_next(c, number, n)) != NULL)
            ls->phi[n] -= (fsi_real)u->step;
    for (size_t n = 0; n < ls->state->count && markers; n++) {
        fsi_vec3 x = fsi_vec(ls->px[n], ls->py[n], f->dim == 3 ? ls->pz[n] : 0);
        fsi_real at[3];
        int from[3], to[3];
        fsi_vec_store(at, x);
        if (!fsi__cells_met(f, at, at, from, to)
            || (u = fsi__bubble_next(c, number, fsi__cell_index(f, from))) == NULL)
            continue;
        fsi_vec3 normal;
        fsi_levelset_sample(ls, x, &normal);
        x = fsi_vec_mad(x, fsi__unit(normal), (fsi_real)u->shift);
        fsi_vec_store(at, x);
        if (!fsi__cells_met(f, at, at, from, to) || f->covered[fsi__cell_index(f, from)])
            continue;
        ls->px[n] = x.x;
        ls->py[n] = x.y;
        if (f->dim == 3)
            ls->pz[n] = x.z;
    }
}

/* Pieces too small for the grid to hold, and from the third pass on all that are still off, are
 * left alone; the largest bubble makes up for them. */
static void fsi__bubble_lend(fsi_couple *c, int pass) {
    const double least = pass > 1 ? (double)FSI_REAL_MAX
                                  : (c->interface.dim == 3 ? 8 : 4) * (double)c->grid->h
                                        * (double)fsi__area(&c->interface);
    int largest = 0;
    for (int b = 1; b < c->bubbles; b++)
        if (c->bubble[b].volume > c->bubble[largest].volume)
            largest = b;
    for (int b = 0; b < c->bubbles; b++) {
        if (b == largest || c->bubble[b].volume >= least)
            continue;
        c->bubble[largest].target += c->bubble[b].target - c->bubble[b].volume;
        c->bubble[b].target = c->bubble[b].volume;
    }
}

/* Shifts, by secant steps, of at most a tenth of a cell. */
static void fsi__bubble_match(fsi_couple *c, const int *number, int pass) {
    fsi_grid *g = c->grid;
    const double most = 0.1 * (double)g->h;
    memset(c->bubble + c->bubbles, 0, sizeof *c->bubble); /* the open surface */
    c->bubble[c->bubbles].target = -g->levelset.state->target;
    for (int b = 0; b < c->bubbles; b++)
        c->bubble[b].area = c->bubble[b].shift = c->bubble[b].step = 0;
    fsi_bubble *u;
    for (size_t n = 0; n < g->cells; n++)
        if (fsi__abs(g->phi[n]) < 2 * g->h && (u = fsi__bubble_next(c, number, n)) != NULL)
            u->area += (double)fsi__area(&c->interface) / 4;
    int count = c->bubbles + (g->desc.volume_correction != 0);
    for (int round = 0; round < 4; round++) {
        fsi__bubble_volumes(c);
        fsi__bubble_lend(c, pass);
        for (int b = 0; b < count; b++) {
            u = c->bubble + b;
            if (fabs(u->step) > 1e-9 * (double)g->h
                && (u->before - u->volume) / u->step > 0.1 * u->area)
                u->area = (u->before - u->volume) / u->step;
            u->before = u->volume;
            u->step = u->area > 0
                          ? fmin(fmax(u->shift + (u->volume - u->target) / u->area, -most), most)
                                - u->shift
                          : 0;
            u->shift += u->step;
        }
        fsi__bubble_shift(c, number, 0);
    }
    fsi__bubble_shift(c, number, 1);
}

static fsi_result fsi__bubble_settle(fsi_couple *c) {
    fsi_grid *g = c->grid;
    const int *number;
    if (!c->desc.bubbles || !g->region || !c->bubbles)
        return FSI_OK;
    if (!FSI__ROOM(c, bubble_near, int32_t, FSI__B_BNEAR, g->cells))
        return FSI_ERR_MEMORY;
    /* again where a shift has parted or joined what it moved */
    for (int pass = 0; pass < 6; pass++) {
        double off = 0, all = 0;
        fsi_result r = fsi_grid_classify(g);
        if (r < 0)
            return r;
        if ((number = fsi__bubble_list(c)) == NULL)
            return FSI_ERR_MEMORY;
        fsi__bubble_lend(c, pass);
        for (int b = 0; b < c->bubbles; b++)
            off += fabs(c->bubble[b].volume - c->bubble[b].target), all += c->bubble[b].target;
        if (pass == 5 || (pass && off < 1e-3 * all))
            break;
        fsi_grid_air_near(g, c->bubble_near);
        fsi__bubble_match(c, number, pass);
    }
    return FSI_OK;
}

/* The face of air cell n on one side, when there is liquid behind it. */
static int fsi__bubble_face_at(const fsi_couple *c, size_t n, int axis, int up,
                               fsi__bubble_face *out) {
    const fsi_grid *g = c->grid;
    const fsi_interface *f = &c->interface;
    ptrdiff_t m = (ptrdiff_t)n + (up ? 1 : -1) * fsi__stride(f, axis);
    int i[3];
    fsi__cell_ijk(f, n, i);
    if ((up ? i[axis] + 1 >= f->n[axis] : i[axis] < 1) || g->cell[m] != FSI_CELL_FLUID)
        return 0;
    i[axis] += up;
    out->face = (int32_t)fsi__face_index(f, axis, i);
    out->cell = (int32_t)m;
    out->axis = (int8_t)axis;
    out->sign = (int8_t)(up ? 1 : -1);
    out->w = g->weight[axis][out->face];
    return out->w > 0;
}

/* Faces of all bubbles, those of one after the other: counted, then listed. */
static int fsi__bubble_faces(fsi_couple *c) {
    fsi__bubble_face face;
    int b, k, count = 0;
    for (b = 0; b < c->bubbles; b++)
        c->bubble[b].first = c->bubble[b].last = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t n = 0; n < c->grid->cells; n++)
            for (k = 0; k < 2 * c->interface.dim && c->bubble_cell[n] > 0; k++) {
                if (!fsi__bubble_face_at(c, n, k / 2, k % 2, &face))
                    continue;
                b = c->bubble[c->bubble_cell[n] - 1].last++;
                if (pass)
                    c->bubble_face[b] = face;
            }
        for (b = 0; b < c->bubbles && !pass; b++) {
            k = c->bubble[b].last;
            c->bubble[b].first = c->bubble[b].last = count;
            count += k;
        }
        if (!pass && !FSI__ROOM(c, bubble_face, fsi__bubble_face, FSI__B_BFACE, count + 1))
            return 0;
    }
    return 1;
}

/* The row of every bubble; adds w rhs_b / W to the grid's right-hand side. */
static fsi_result fsi__bubble_build(fsi_couple *c, fsi_real dt) {
    fsi_grid *g = c->grid;
    double h = (double)g->h, area = (double)fsi__area(&c->interface);
    int n;
    if (!c->desc.bubbles || !g->region) {
        c->bubbles = 0;
        return FSI_OK;
    }
    if (!fsi__bubble_list(c) || !fsi__bubble_faces(c))
        return FSI_ERR_MEMORY;
    for (int b = 0; b < c->bubbles; b++) {
        fsi_bubble *u = c->bubble + b;
        /* what fsi__bubble_settle could not mend */
        double flux = 0,
               change = fmin(fmax(u->target - u->volume, -0.03 * u->volume), 0.03 * u->volume);
        for (n = u->first, u->weight = 0; n < u->last; n++) {
            const fsi__bubble_face *face = c->bubble_face + n;
            /* out of the bubble */
            flux += face->sign * (double)g->u[face->axis][face->face];
            u->weight += face->w;
        }
        u->rhs = (fsi_real)(-(double)g->desc.rho * h * (flux - change / (double)dt / area));
        for (n = u->first; n < u->last; n++)
            g->rhs[c->bubble_face[n].cell] += c->bubble_face[n].w * u->rhs / u->weight;
    }
    return FSI_OK;
}

static void fsi__bubble_finish(fsi_couple *c, fsi_real dt) {
    for (int b = 0; b < c->bubbles; b++) {
        fsi_bubble *u = c->bubble + b;
        double sum = (double)u->rhs;
        for (int i = u->first; i < u->last; i++)
            sum += (double)(c->bubble_face[i].w * c->grid->pressure[c->bubble_face[i].cell]);
        u->pressure = u->weight > 0 ? (fsi_real)(sum / (double)u->weight) / dt : 0;
    }
    /* the grid reads the air's pressure when it takes the gradient */
    for (size_t n = 0; c->bubbles && n < c->grid->cells; n++)
        if (c->bubble_cell[n] > 0)
            c->grid->pressure[n] = c->bubble[c->bubble_cell[n] - 1].pressure * dt;
}

#endif

#ifndef FSI_COUPLE_NO_GRID
/* ------------------------------------------------------------------------------------------------
 * >>coupled solvers */
/* How far columns have to spread: what is cut off falls by about ten with every cell, and K^-1
   multiplies it. The largest diagonal entry of K^-1 Z^T Z against a face's weight is at most 2 with
   voxel faces, whose mass is in K; with area fractions it is the mass of the fluid at the surface
   over the body's. */
static int fsi__rank_reach(const fsi_couple *c) {
    double most = 0;
    for (int s = 0; s < c->interface.solids; s++) {
        const fsi_real *L = c->K + c->K_at[s];
        int n = c->interface.solid[s]->node ? 0 : c->offset[s + 1] - c->offset[s];
        for (int k = 0; k < n; L += ++k) {
            double K = 0, z = 0;
            for (int j = 0; j <= k; j++)
                K += (double)L[j] * (double)L[j];
            for (int i = c->first[s]; i < c->first[s + 1]; i++) {
                double w = (double)fsi__side_z(&c->interface, fsi__side_of(c, i))
                           * (double)c->q[c->row[i] + (size_t)k];
                z += w * w;
            }
            most = fmax(most, (double)fsi__scale_of(c) * z / K);
        }
    }
    return most > 2.5 ? 3 + (int)fmin(log10(most), 30) : 0;
}

/* The columns of the dense solids for the V-cycle. */
static fsi_result fsi__rank_build(fsi_couple *c) {
    fsi_interface *f = &c->interface;
    int full = 2 * (c->grid->mg->sweeps + c->grid->mg->band) + 3;
    if (!FSI__ROOM(c, group, fsi_mg_group, FSI__B_GROUP, f->solids)
        || !FSI__ROOM(c, side_cell, int32_t, FSI__B_SCELL, f->sides)
        || !FSI__ROOM(c, side_factor, fsi_real, FSI__B_SFACTOR, f->sides))
        return FSI_ERR_MEMORY;
    for (int i = 0; i < f->sides; i++) {
        const fsi_side *side = fsi__side_of(c, i);
        c->side_cell[i] = side->cell;
        c->side_factor[i] = fsi__side_z(f, side);
    }
    for (int s = 0; s < f->solids; s++) {
        fsi_mg_group *g = c->group + s;
        memset(g, 0, sizeof *g);
        if (f->solid[s]->node)
            continue;
        g->columns = c->offset[s + 1] - c->offset[s];
        g->entries = g->columns ? c->first[s + 1] - c->first[s] : 0;
        g->cell = c->side_cell + c->first[s];
        g->factor = c->side_factor + c->first[s];
        g->val = g->entries ? c->q + c->row[c->first[s]] : NULL;
        g->L = c->K + c->K_at[s];
        g->unit = 1 / fsi__scale_of(c);
    }
    c->rank.reach = c->desc.solver == FSI_COUPLE_WOODBURY ? full
                    : c->desc.band                        ? c->desc.band
                                                          : fsi__imin(fsi__rank_reach(c), full);
    fsi_result r = fsi_mg_rank_build(&c->rank, c->grid->mg, c->group, f->solids);
    return r == FSI_ERR_SINGULAR ? FSI_OK : r; /* then the plain V-cycle has to do */
}

/* Weight of a side in A11: G^T b^-1 G of its cell, in the grid's scale. */
FSI__INLINE fsi_real fsi__side_mu(const fsi_couple *c, const fsi_side *s) {
    fsi_real a = fsi__area(&c->interface);
    return s->mass > 0 ? a * a / s->mass * fsi__scale_of(c) : 0;
}

/* V-cycle for A11: solids become Dirichlet cells behind faces of weight mu. Shells stay closed (the
 * cycle only preconditions). */
static fsi_result fsi__second_build(fsi_couple *c) {
    fsi_interface *f = &c->interface;
    fsi_grid *g = c->grid;
    const fsi_real *w[3] = {NULL, NULL, NULL};
    size_t total = f->faces[0] + f->faces[1] + (f->dim == 3 ? f->faces[2] : 0);
    fsi_real *copy = (fsi_real *)fsi__room(c, FSI__B_WEIGHT, total, sizeof *copy);
    uint8_t *cell = (uint8_t *)c->cells[2];
    if (!copy)
        return FSI_ERR_MEMORY;
    fsi_result r;
    if (!c->second.block) {
        fsi_mg_desc d = g->mg->desc;
        d.allocator = c->desc.allocator;
        r = fsi_mg_init(&c->second, &d);
        if (r < 0)
            return r;
    }
    for (int a = 0; a < f->dim; copy += f->faces[a], a++) {
        memcpy(copy, g->weight[a], f->faces[a] * sizeof *copy);
        w[a] = copy;
    }
    copy = (fsi_real *)c->block[FSI__B_WEIGHT].ptr;
    for (size_t n = 0; n < f->cells; n++)
        cell[n] = f->covered[n] && g->cell[n] == FSI_CELL_NEUMANN ? (uint8_t)FSI_CELL_DIRICHLET
                                                                  : g->cell[n];
    for (int i = 0; i < f->sides; i++) {
        const fsi_side *s = f->side + i;
        size_t at =
            (size_t)s->face + (s->axis > 0 ? f->faces[0] : 0) + (s->axis > 1 ? f->faces[1] : 0);
        /* area fractions: the open share stays */
        if (!s->shell && s->mass > 0)
            copy[at] = fsi__side_mu(c, s);
    }
    r = fsi_mg_update(&c->second, cell, w);
    return r < 0 ? r : FSI_OK;
}

/* P(s) r, SCHUR algorithm 1: z = V r; s times z = V (r + A12 A22^-1 A21 z), and A12 A22^-1 A21 =
 * diag(mu) - Z K^-1 Z^T. */
static void fsi__schur_apply(fsi_couple *c, const fsi_real *r, fsi_real *z) {
    fsi_interface *f = &c->interface;
    fsi_real *t = c->cells[0];
    if (c->desc.terms < 0) {
        fsi_copy(f->cells, r, z);
        return;
    }
    fsi_mg_cycle(&c->second, r, z);
    /* no lambda to eliminate there, and no diag(mu) that keeps the sum definite */
    for (int term = 0; term < c->desc.terms && !c->desc.fractions; term++) {
        fsi_fill(f->cells, 0, t);
        fsi__extra(z, t, c);
        fsi_scale(f->cells, -1, t);
        for (int i = 0; i < f->sides; i++)
            t[f->side[i].cell] += fsi__side_mu(c, f->side + i) * z[f->side[i].cell];
        fsi_axpy(f->cells, 1, r, t);
        fsi_mg_cycle(&c->second, t, z);
    }
}

static void fsi__precondition(const fsi_real *r, fsi_real *z, void *user) {
    fsi__schur_apply((fsi_couple *)user, r, z);
}

static double fsi__tolerance(const fsi_couple *c) {
    return c->desc.tolerance > 0 ? c->desc.tolerance : c->grid->desc.tolerance;
}

/* Single precision: rounding of p times K^-1 Z^T is a large velocity for a light solid. The solids'
   answer a is kept beside p and improved with it: Sigma x = r = b - L_N p + Z a, p += x, a -= K^-1
   Z^T x. What rounding of x does to a shrinks with x. */
static fsi_result fsi__sigma_refine(fsi_couple *c, fsi_mg_solve_desc *d, double tolerance,
                                    fsi_report *report, fsi_result result) {
    fsi_grid *g = c->grid;
    fsi_real *r = c->cells[0], *x = c->cells[1], *t = c->cells[2];
    size_t n = c->interface.cells;
    double limit = tolerance * fsi_norm(n, g->rhs), last = 0;
    int cap = d->max_iterations;
    for (int pass = 0; pass < 4 && d->tolerance > tolerance && result != FSI_NOT_CONVERGED;
         pass++) {
        fsi_mg_apply(g->mg, g->pressure, r);
        fsi_fill(n, 0, t);
        fsi__bubble_extra(c, g->pressure, t);
        for (size_t i = 0; i < n; i++)
            r[i] = g->cell[i] == FSI_CELL_FLUID ? g->rhs[i] - r[i] - t[i] : 0;
        for (int s = 0; s < c->interface.solids; s++)
            if (c->offset[s + 1] > c->offset[s])
                fsi__z_add(c, s, c->coef[4] + c->offset[s], fsi__scale_of(c), r);
        double size = fsi_norm(n, r);
        if (!(size > 2 * limit) || (pass && size > last / 2))
            break;
        last = size;
        d->tolerance = fmin(fmax(limit / size, 1e-3), 0.1);
        d->guess = 0;
        if ((d->max_iterations = cap - report->iterations) < 1)
            return FSI_NOT_CONVERGED;
        fsi_fill(n, 0, x);
        fsi_report more;
        fsi_result again;
        if ((again = fsi_mg_solve(g->mg, d, r, x, &more)) < 0)
            return again;
        fsi_axpy(n, 1, x, g->pressure);
        fsi__answer(c, x, c->coef[4]);
        report->iterations += more.iterations;
        report->residual = more.residual;
    }
    return result;
}

/* Sigma p = b; b = grid.rhs, p = grid.pressure; the solids' answer to it into coef[4]. */
static fsi_result fsi__solve_sigma(fsi_couple *c, fsi_report *report) {
    fsi_grid *g = c->grid;
    fsi_mg_solve_desc d;
    size_t n = c->interface.cells;
    memset(&d, 0, sizeof d);
    d.tolerance = fsi__tolerance(c);
    d.max_iterations = c->desc.max_iterations ? c->desc.max_iterations : g->desc.max_iterations;
    d.clock_fn = c->desc.clock_fn;
    d.clock_user = c->desc.clock_user;
    d.seconds = c->desc.seconds;
    d.guess = c->desc.warm_start;
    if (!c->desc.warm_start)
        fsi_fill(n, 0, g->pressure);
    fsi_result r;
    if (c->columns || c->bubbles) {
        d.extra.apply_fn = fsi__extra;
        d.extra.user = c;
        if (c->desc.solver == FSI_COUPLE_SCHUR && (r = fsi__second_build(c)) < 0)
            return r;
        if (!fsi__coarse_build(c))
            return FSI_ERR_MEMORY;
        if (c->desc.solver <= FSI_COUPLE_WOODBURY && (r = fsi__rank_build(c)) < 0)
            return r;
        if (c->desc.solver <= FSI_COUPLE_WOODBURY)
            d.rank = &c->rank;
        if (c->desc.solver == FSI_COUPLE_SCHUR) {
            d.precondition.apply_fn = fsi__precondition;
            d.precondition.user = c;
        }
        for (size_t i = 0; i < n; i++)
            g->rhs[i] = g->cell[i] == FSI_CELL_FLUID ? g->rhs[i] : 0;
        fsi__coarse_start(c);
    }
    /* the rest by fsi__sigma_refine */
    if (sizeof(fsi_real) == 4 && c->columns && c->desc.solver != FSI_COUPLE_SCHUR)
        d.tolerance = fmax(d.tolerance, 1e-3);
    r = fsi_mg_solve(g->mg, &d, g->rhs, g->pressure, report);
    if (r < 0)
        return r;
    fsi__answer(c, g->pressure, NULL);
    return report->reason = fsi__sigma_refine(c, &d, fsi__tolerance(c), report, r);
}

/* ---- The full system in (p^, l, w), its v* with push in it, l = lambda / A, w = B v / A, all rows
   times scale (A for those of l and w): L_N p + sum mu (p + o l)                            = rhs*
   with the sides' own u* mu (o p + l) + A^2 scale J M^-1 (J^T l + B^T w)     = A scale (J v* - u*)
       A^2 scale (w + B M^-1 (J^T l + B^T w))              = A scale B v* (RMSF11) */
typedef struct fsi__full {
    fsi_couple *c;
    fsi_ic *ic;
    size_t cells, sides, rows;
    fsi_real *diagonal; /* [sides + rows] */
} fsi__full;

/* a = J^T l + B^T w per solid, then a = M^-1 a (in F coordinates for dense solids: a = U^T l). */
static void fsi__full_gather(const fsi__full *f, const fsi_real *l, const fsi_real *w) {
    fsi_couple *c = f->c;
    fsi_fill((size_t)c->columns, 0, c->coef[0]);
    for (int s = 0; s < c->interface.solids; s++) {
        const fsi_coupled *b = c->interface.solid[s];
        fsi_real *a = c->coef[0] + c->offset[s];
        fsi__ut_add(c, s, l, a);
        if (!b->node)
            continue;
        for (int i = 0; b->implicit && i < b->implicit->rows; i++, w++)
            for (int k = b->implicit->row[i]; k < b->implicit->row[i + 1]; k++)
                a[b->implicit->col[k]] += b->implicit->val[k] * *w;
        for (int i = 0; i < b->dof; i++)
            a[i] *= b->inverse_mass[i / 3];
    }
}

static void fsi__full_apply(const fsi_real *x, fsi_real *y, void *user) {
    const fsi__full *f = (const fsi__full *)user;
    fsi_couple *c = f->c;
    const fsi_real *l = x + f->cells, *w = l + f->sides;
    fsi_real *yl = y + f->cells, *yw = yl + f->sides,
             a2 = fsi__area(&c->interface) * fsi__area(&c->interface) * fsi__scale_of(c);
    fsi_mg_apply(c->grid->mg, x, y);
    fsi__full_gather(f, l, w);
    for (int s = 0; s < c->interface.solids; s++) {
        const fsi_coupled *b = c->interface.solid[s];
        const fsi_real *a = c->coef[0] + c->offset[s];
        for (int i = c->first[s]; i < c->first[s + 1]; i++) {
            const fsi_side *side = fsi__side_of(c, i);
            int n = c->by_solid[i];
            fsi_real mu = fsi__side_mu(c, side), o = (fsi_real)side->sign;
            y[side->cell] += mu * (x[side->cell] + o * l[n]);
            yl[n] = mu * (o * x[side->cell] + l[n]) + a2 * fsi__u_row(c, s, i, a);
        }
        for (int i = 0; b->node && b->implicit && i < b->implicit->rows; i++, w++, yw++) {
            fsi_real sum = *w;
            for (int k = b->implicit->row[i]; k < b->implicit->row[i + 1]; k++)
                sum += b->implicit->val[k] * a[b->implicit->col[k]];
            *yw = a2 * sum;
        }
    }
}

static void fsi__full_precondition(const fsi_real *r, fsi_real *z, void *user) {
    const fsi__full *f = (const fsi__full *)user;
    if (f->ic)
        fsi_ic_solve(f->ic, r, z);
    else {
        fsi_mg_cycle(&f->c->second, r, z);
        fsi__coarse_add(f->c, f->c->second.label, r, 1, z);
    }
    for (size_t i = 0; i < f->sides + f->rows; i++)
        z[f->cells + i] = r[f->cells + i] / f->diagonal[i];
}

static void fsi__full_diagonal(const fsi__full *f) {
    fsi_couple *c = f->c;
    fsi_real a2 = fsi__area(&c->interface) * fsi__area(&c->interface) * fsi__scale_of(c),
             *w = f->diagonal + f->sides;
    for (int s = 0; s < c->interface.solids; s++) {
        const fsi_coupled *b = c->interface.solid[s];
        int r = c->offset[s + 1] - c->offset[s];
        for (int i = c->first[s]; i < c->first[s + 1]; i++) {
            const fsi_side *side = fsi__side_of(c, i);
            fsi_real sum = 0;
            for (int k = 0; !b->node && k < r; k++)
                sum += c->q[c->row[i] + (size_t)k] * c->q[c->row[i] + (size_t)k];
            for (int e = side->row; b->node && e < side->row_end; e++)
                sum += c->interface.val[e] * c->interface.val[e]
                       * b->inverse_mass[c->interface.col[e] / 3];
            f->diagonal[c->by_solid[i]] = fsi__side_mu(c, side) + a2 * sum;
        }
        for (int i = 0; b->node && b->implicit && i < b->implicit->rows; i++, w++) {
            fsi_real sum = 1;
            for (int k = b->implicit->row[i]; k < b->implicit->row[i + 1]; k++)
                sum += b->implicit->val[k] * b->implicit->val[k]
                       * b->inverse_mass[b->implicit->col[k] / 3];
            *w = a2 * sum;
        }
    }
}

/* The V-cycle on A11 with closed shells: E = 1^T A11 1 of the regions that they cut off, the sum of
 * mu over their sides. */
static fsi_result fsi__full_regions(fsi_couple *c) {
    int n = fsi__imin(c->second.regions, FSI__REGIONS);
    if (!FSI__ROOM(c, E, fsi_real, FSI__B_E, n * n)
        || !FSI__ROOM(c, coarse_work, fsi_real, FSI__B_CWORK, n))
        return FSI_ERR_MEMORY;
    c->regions = n;
    fsi_fill((size_t)n * (size_t)n, 0, c->E);
    for (int i = 0; i < n; i++)
        c->region_of[i] = i;
    for (int i = 0; i < c->interface.sides; i++) {
        const fsi_side *s = c->interface.side + i;
        int k = c->second.label[s->cell];
        if (k >= 0 && k < n)
            c->E[k * n + k] += fsi__side_mu(c, s);
    }
    fsi__psd_cholesky(n, c->E);
    return FSI_OK;
}

/* A11 as a sparse matrix for IC (rows of cells that are not fluid: 1 on the diagonal). */
static fsi_result fsi__full_ic(const fsi__full *f, fsi_ic *ic) {
    fsi_couple *c = f->c;
    size_t n = f->cells, count = 0, cap = 7 * n + f->sides;
    const fsi_allocator *a = &c->desc.allocator;
    int32_t *ri = (int32_t *)fsi_alloc(a, cap * sizeof *ri),
            *rj = (int32_t *)fsi_alloc(a, cap * sizeof *rj);
    fsi_real *v = (fsi_real *)fsi_alloc(a, cap * sizeof *v);
    fsi_csr A;
    fsi__cellfaces row;
    fsi_result r = FSI_ERR_MEMORY;
    memset(&A, 0, sizeof A);
    fsi_ic_desc d;
    memset(&d, 0, sizeof d);
    d.allocator = *a;
    for (size_t i = 0; ri && rj && v && i < n; i++) {
        row.diagonal = 1;
        if (c->grid->cell[i] == FSI_CELL_FLUID) {
            fsi__cell_row(c, (ptrdiff_t)i, &row);
            for (int k = 0; k < 6; k++)
                if (row.cell[k] >= 0) {
                    ri[count] = (int32_t)i;
                    rj[count] = (int32_t)row.cell[k];
                    v[count++] = -row.w[k];
                }
        }
        ri[count] = rj[count] = (int32_t)i;
        v[count++] = row.diagonal > 0 ? row.diagonal : FSI_R(1e-3);
    }
    for (size_t i = 0; ri && rj && v && i < f->sides; i++) {
        const fsi_side *s = c->interface.side + i;
        ri[count] = rj[count] = s->cell;
        v[count++] = fsi__side_mu(c, s);
    }
    if (ri && rj && v)
        r = fsi_csr_from_triplets(&A, (int)n, (int)n, count, ri, rj, v, a);
    if (r == FSI_OK)
        r = fsi_ic_init(ic, &A, &d);
    fsi_csr_free(&A, a);
    fsi_free(a, ri, cap * sizeof *ri);
    fsi_free(a, rj, cap * sizeof *rj);
    fsi_free(a, v, cap * sizeof *v);
    return r < 0 ? r : FSI_OK;
}

/* The answer of the full system as velocities and impulses: u = u* + (lambda + A o p) / b,  v = v*
 * - M^-1 (J^T lambda + B^T w A). */
static void fsi__full_finish(const fsi__full *f, const fsi_real *x) {
    fsi_couple *c = f->c;
    fsi_interface *in = &c->interface;
    fsi_real area = fsi__area(in);
    fsi__full_gather(f, x + f->cells, x + f->cells + f->sides);
    for (int s = 0; s < in->solids; s++) {
        size_t n = (size_t)(c->offset[s + 1] - c->offset[s]);
        fsi_scale(n, -area, c->coef[0] + c->offset[s]);
        if (n)
            fsi__solid_add(c, s, c->coef[0] + c->offset[s]);
    }
    for (int i = 0; i < in->sides; i++) {
        const fsi_side *side = in->side + i;
        c->lambda[i] = area * x[f->cells + (size_t)i];
        c->side_velocity[i] +=
            (c->lambda[i] + area * (fsi_real)side->sign * x[side->cell]) / side->mass;
    }
}

static void fsi__full_star(fsi_couple *c) { /* v* += M^-1 push */
    for (int s = 0; s < c->interface.solids; s++) {
        const fsi_coupled *b = c->interface.solid[s];
        for (int i = 0; b->node && b->push && i < b->dof; i++)
            b->v[i] += b->inverse_mass[i / 3] * b->push[i];
    }
}

static fsi_result fsi__solve_full(fsi_couple *c, fsi_report *report) {
    fsi_interface *in = &c->interface;
    fsi__full f;
    fsi_real area = fsi__area(in), scale = fsi__scale_of(c);
    fsi_result r = FSI_OK;
    int e;
    memset(&f, 0, sizeof f);
    fsi_ic ic;
    memset(&ic, 0, sizeof ic);
    fsi_krylov_desc d;
    memset(&d, 0, sizeof d);
    f.c = c;
    f.cells = in->cells;
    f.sides = (size_t)in->sides;
    for (int s = 0; s < in->solids; s++)
        if (in->solid[s]->node && in->solid[s]->implicit)
            f.rows += (size_t)in->solid[s]->implicit->rows;
    size_t n = f.cells + f.sides + f.rows;
    d.n = n;
    d.A.apply_fn = fsi__full_apply;
    d.A.user = &f;
    d.tolerance = fsi__tolerance(c);
    d.max_iterations = c->desc.max_iterations ? c->desc.max_iterations : 20000;
    d.clock_fn = c->desc.clock_fn;
    d.clock_user = c->desc.clock_user;
    d.seconds = c->desc.seconds;
    d.guess = 0;
    size_t work = fsi_cg_work_size(&d);
    fsi_real *x;
    x = (fsi_real *)fsi__room(c, FSI__B_VECTOR, 2 * n + f.sides + f.rows, sizeof *x);
    if (!x || !fsi__room(c, FSI__B_KRYLOV, work, 1))
        return FSI_ERR_MEMORY;
    fsi_real *b = x + n;
    f.diagonal = b + n;
    fsi_real *wr = b + f.cells + f.sides;
    for (size_t i = 0; i < f.cells; i++)
        b[i] = c->grid->cell[i] == FSI_CELL_FLUID ? c->grid->rhs[i] : 0;
    for (size_t i = 0; i < f.sides; i++) {
        const fsi_side *side = in->side + i;
        fsi_real v = fsi_interface_velocity(in, side, in->solid[side->solid]->v);
        /* the side's own u* in place of J v* */
        b[side->cell] += scale * fsi__side_z(in, side) * (c->side_velocity[i] - v);
        b[f.cells + i] = area * scale * (v - c->side_velocity[i]);
    }
    for (int s = 0; s < in->solids; s++) {
        const fsi_coupled *body = in->solid[s];
        for (int k = 0; body->node && body->implicit && k < body->implicit->rows; k++, wr++)
            for (*wr = 0, e = body->implicit->row[k]; e < body->implicit->row[k + 1]; e++)
                *wr += area * scale * body->implicit->val[e] * body->v[body->implicit->col[e]];
    }
    fsi__full_diagonal(&f);
    if (c->desc.precondition == FSI_PRECONDITION_MULTIGRID && (r = fsi__second_build(c)) >= 0)
        r = fsi__full_regions(c);
    if (c->desc.precondition == FSI_PRECONDITION_IC) {
        r = fsi__full_ic(&f, &ic);
        f.ic = &ic;
    }
    if (c->desc.precondition != FSI_PRECONDITION_NONE) {
        d.precondition.apply_fn = fsi__full_precondition;
        d.precondition.user = &f;
    }
    if (r == FSI_OK)
        r = fsi_cg_solve(&d, b, x, c->block[FSI__B_KRYLOV].ptr, c->block[FSI__B_KRYLOV].bytes,
                         report);
    fsi_ic_free(&ic);
    c->regions = 0;
    if (r < 0)
        return r;
    fsi_copy(f.cells, x, c->grid->pressure);
    fsi__full_finish(&f, x);
    return r;
}

/* ---- The indefinite system in (p^, a), rows times scale: L_N p - scale Z a = rhs, -scale Z^T p -
 * scale K a = -scale k. */
static void fsi__indefinite_apply(const fsi_real *x, fsi_real *y, void *user) {
    fsi_couple *c = (fsi_couple *)user;
    const fsi_real *a = x + c->interface.cells;
    fsi_real *ya = y + c->interface.cells, scale = fsi__scale_of(c);
    fsi_mg_apply(c->grid->mg, x, y);
    for (int s = 0; s < c->interface.solids; s++) {
        int r = c->offset[s + 1] - c->offset[s], o = c->offset[s];
        if (!r)
            continue;
        fsi__z_add(c, s, a + o, -scale, y);
        fsi__zt(c, s, x, ya + o);
        if (c->interface.solid[s]->node)
            fsi__k_apply(c, s, a + o, c->coef[0] + o);
        else {
            for (int k = 0; k < r; k++)
                c->coef[0][o + k] = a[o + k];
            for (int i = c->first[s]; i < c->first[s + 1]; i++) {
                fsi_real w = fsi__side_of(c, i)->mass * fsi__u_row(c, s, i, a + o);
                for (int k = 0; k < r; k++)
                    c->coef[0][o + k] += w * c->q[c->row[i] + (size_t)k];
            }
        }
        for (int k = 0; k < r; k++)
            ya[o + k] = -scale * (ya[o + k] + c->coef[0][o + k]);
    }
}

static void fsi__indefinite_precondition(const fsi_real *r, fsi_real *z, void *user) {
    fsi_couple *c = (fsi_couple *)user;
    size_t n = c->interface.cells;
    fsi_mg_cycle(c->grid->mg, r, z);
    fsi__coarse_add(c, c->grid->mg->label, r, 1 / fsi__scale_of(c), z);
    for (int s = 0; s < c->interface.solids; s++) {
        const fsi_real *K = c->K + c->K_at[s], *ra = r + n + c->offset[s];
        fsi_real *za = z + n + c->offset[s];
        int m = c->offset[s + 1] - c->offset[s];
        if (c->interface.solid[s]->node)
            for (int k = 0; k < m; k++)
                za[k] = K[k] > 0 ? ra[k] / K[k] : 0;
        else
            fsi__k_solve(c, s, ra, za);
        for (int k = 0; k < m; k++)
            za[k] /= -fsi__scale_of(c);
    }
}

static fsi_result fsi__solve_indefinite(fsi_couple *c, fsi_report *report) {
    size_t cells = c->interface.cells, n = cells + (size_t)c->columns;
    fsi_krylov_desc d;
    memset(&d, 0, sizeof d);
    d.n = n;
    d.A.apply_fn = fsi__indefinite_apply;
    d.A.user = c;
    d.precondition.apply_fn = fsi__indefinite_precondition;
    d.precondition.user = c;
    d.tolerance = fsi__tolerance(c);
    d.max_iterations = c->desc.max_iterations ? c->desc.max_iterations : 20000;
    d.clock_fn = c->desc.clock_fn;
    d.clock_user = c->desc.clock_user;
    d.seconds = c->desc.seconds;
    fsi_real *x;
    x = (fsi_real *)fsi__room(c, FSI__B_VECTOR, 2 * n, sizeof *x);
    if (!x || !fsi__room(c, FSI__B_KRYLOV, fsi_symmqmr_work_size(&d), 1) || !fsi__coarse_build(c))
        return FSI_ERR_MEMORY;
    for (size_t i = 0; i < cells; i++)
        x[n + i] = c->grid->cell[i] == FSI_CELL_FLUID ? c->grid->rhs[i] : 0;
    for (size_t i = 0; i < (size_t)c->columns; i++)
        x[n + cells + i] = -fsi__scale_of(c) * c->coef[2][i];
    fsi_result r = fsi_symmqmr_solve(&d, x + n, x, c->block[FSI__B_KRYLOV].ptr,
                                     c->block[FSI__B_KRYLOV].bytes, report);
    c->regions = 0; /* the constants are in x */
    if (r < 0)
        return r;
    fsi_copy(cells, x, c->grid->pressure);
    fsi__answer(c, x, NULL);
    return r;
}

/* ---- The step. */
/* Solids' generalised impulses -J^T lambda. */
static void fsi__give_impulses(fsi_couple *c) {
    fsi_interface *f = &c->interface;
    for (int s = 0; s < f->solids; s++)
        if (f->solid[s]->impulse && f->solid[s]->dof)
            fsi_fill((size_t)f->solid[s]->dof, 0, f->solid[s]->impulse);
    for (int i = 0; i < f->sides; i++) {
        const fsi_side *side = f->side + i;
        fsi_real *out = f->solid[side->solid]->impulse;
        if (!out)
            continue;
        for (int e = side->row; e < side->row_end; e++)
            out[f->col[e]] -= c->lambda[i] * f->val[e];
    }
}

/* Keeps v* of the dense solids; afterwards: what they gained less what the fluid gave, mass (v -
 * v*) - impulse, over free ones. */
static int fsi__ledger_begin(fsi_couple *c) {
    fsi_interface *f = &c->interface;
    size_t n = 0;
    int s;
    for (s = 0; s < f->solids; s++)
        n += f->solid[s]->node || !f->solid[s]->impulse ? 0 : (size_t)f->solid[s]->dof;
    if (!FSI__ROOM(c, v_before, fsi_real, FSI__B_BEFORE, n))
        return 0;
    for (s = 0, n = 0; s < f->solids; s++) {
        if (f->solid[s]->node || !f->solid[s]->dof || !f->solid[s]->impulse)
            continue;
        fsi_copy((size_t)f->solid[s]->dof, f->solid[s]->v, c->v_before + n);
        n += (size_t)f->solid[s]->dof;
    }
    return 1;
}

static void fsi__ledger_end(const fsi_couple *c, fsi_report *rep) {
    const fsi_interface *f = &c->interface;
    const fsi_real *before = c->v_before;
    for (int s = 0; s < f->solids; s++) {
        const fsi_coupled *b = f->solid[s];
        if (b->node || !b->dof || !b->impulse)
            continue;
        for (int k = 0; k < f->dim && b->dof >= 6 && b->mass
                        && c->offset[s + 1] - c->offset[s] == b->dof - (f->dim == 2 ? 3 : 0);
             k++) {
            double gained = -(double)b->impulse[k];
            for (int i = 0; i < b->dof; i++)
                gained += (double)b->mass[k * b->dof + i] * (double)(b->v[i] - before[i]);
            rep->momentum[k] += gained;
        }
        before += b->dof;
    }
}

/* Puts the answer into the grid: pressure gradient on open faces, the sides' own samples, solid
 * velocities for whoever asks later. */
static fsi_result fsi__mono_write(fsi_couple *c) {
    fsi_interface *f = &c->interface;
    for (int i = 0; i < f->sides; i++) {
        const fsi_side *s = f->side + i;
        if (s->mass > 0)
            f->velocity[s->axis][s->face] = c->side_velocity[i];
        else
            f->velocity[s->axis][s->face] = fsi_interface_velocity(f, s, f->solid[s->solid]->v);
    }
    fsi_result r = fsi_grid_apply_pressure(c->grid);
    if (r < 0)
        return r;
    for (int i = 0; i < f->sides; i++)
        if (f->side[i].mass > 0)
            fsi_interface_set_sample(f, c->grid, f->side + i, c->side_velocity[i]);
    for (size_t n = 0; n < f->cells && c->regions; n++)
        c->grid->pressure[n] += fsi__constant_at(c, n);
    return r;
}

FSI_API fsi_result fsi_couple_solve(fsi_couple *couple, fsi_real dt, fsi_report *report) {
    fsi_couple *c = couple;
    if (!c || !c->grid)
        return FSI_ERR_STATE;
    if (!(dt > 0) || !fsi__finite(dt))
        return FSI_ERR_ARGUMENT;
    if (c->desc.fractions && c->desc.solver == FSI_COUPLE_FULL)
        return FSI_ERR_ARGUMENT;
    fsi_grid *g = c->grid;
    fsi_interface *f = &c->interface;
    fsi_report rep;
    memset(&rep, 0, sizeof rep);
    int low_rank = c->desc.solver <= FSI_COUPLE_SCHUR;
    c->regions = 0;
    c->dt = (double)dt;
    fsi_result r = fsi_grid_classify(g);
    if (r >= 0)
        r = fsi_interface_sides(f, g);
    if (r >= 0)
        r = fsi__mono_rows(c);
    if (r < 0)
        return r;
    for (int i = 0; i < f->sides; i++) {
        c->side_velocity[i] = fsi_interface_sample(g, f->side + i);
        f->velocity[f->side[i].axis][f->side[i].face] = 0;
    }
    r = fsi_grid_build_pressure(g, dt);
    if (r < 0)
        return r;
    r = fsi_mg_update(g->mg, g->cell,
                      g->weights_are_one ? NULL : (const fsi_real *const *)g->weight);
    if (r < 0)
        return r;
    r = fsi__bubble_build(c, dt);
    if (r < 0)
        return r;
    if (!fsi__ledger_begin(c))
        return FSI_ERR_MEMORY;
    if (c->desc.solver == FSI_COUPLE_FULL)
        fsi__full_star(c);
    fsi__mono_rhs(c, low_rank);
    if (c->desc.solver == FSI_COUPLE_FULL)
        r = fsi__solve_full(c, &rep);
    else if (c->desc.solver == FSI_COUPLE_INDEFINITE)
        r = fsi__solve_indefinite(c, &rep);
    else
        r = fsi__solve_sigma(c, &rep);
    if (r < 0)
        return r;
    if (r == FSI_OK && !g->mg->fluid)
        r = FSI_EMPTY;
    if (c->desc.solver != FSI_COUPLE_FULL)
        fsi__mono_finish(c, g->pressure);
    fsi__give_impulses(c);
    fsi__ledger_end(c, &rep);
    fsi__bubble_finish(c, dt);
    rep.reason = r;
    r = fsi__mono_write(c);
    if (r < 0)
        return r;
    c->report = rep;
    if (report)
        *report = rep;
    return rep.reason;
}

/* Of elements first .. last - 1 of a solid's surface. */
static void fsi__body_part(const fsi_couple *couple, int solid, int first, int last,
                           fsi_body_report *out) {
    const fsi_interface *f = &couple->interface;
    const fsi_surface *s = &f->solid[solid]->surface;
    fsi_vec3 sum = {0, 0, 0};
    int all = first == 0 && last == s->element_count;
    memset(out, 0, sizeof *out);
    int i;
    for (i = s->dim * first; i < s->dim * last && !all; i++)
        sum = fsi_vec_add(sum, fsi_surface_place(s, s->index[i]));
    for (i = 0; i < s->vertex_count && all; i++)
        sum = fsi_vec_add(sum, fsi_surface_place(s, i));
    i = all ? s->vertex_count : s->dim * (last - first);
    if (i)
        out->about = fsi_vec_scale(sum, 1 / (fsi_real)i);
    out->submerged = f->submerged[solid];
    if (!all) {
        fsi_real lo[3] = {FSI_REAL_MAX, FSI_REAL_MAX, FSI_REAL_MAX},
                 hi[3] = {-FSI_REAL_MAX, -FSI_REAL_MAX, -FSI_REAL_MAX};
        fsi_surface part = *s;
        for (i = 3 * s->dim * first; i < 3 * s->dim * last; i++) {
            fsi_real x = fsi__get(fsi_surface_place(s, s->index[i / 3]), i % 3);
            lo[i % 3] = fsi__min(lo[i % 3], x);
            hi[i % 3] = fsi__max(hi[i % 3], x);
        }
        part.index += s->dim * first;
        part.element_count = last - first;
        out->submerged = fsi__submerged(f, couple->grid, &part, lo, hi);
    }
    for (i = couple->first[solid]; i < couple->first[solid + 1]; i++) {
        const fsi_side *side = fsi__side_of(couple, i);
        fsi_real j = -couple->lambda[couple->by_solid[i]] / (fsi_real)couple->dt;
        fsi_vec3 force =
            fsi_vec(side->axis == 0 ? j : 0, side->axis == 1 ? j : 0, side->axis == 2 ? j : 0);
        if (side->element < first || side->element >= last)
            continue;
        out->force = fsi_vec_add(out->force, force);
        out->torque = fsi_vec_add(
            out->torque,
            fsi_vec_cross(fsi_vec_sub(fsi_interface_centre(f, side), out->about), force));
        out->sides++;
    }
}

FSI_API fsi_result fsi_couple_body(const fsi_couple *couple, int solid, fsi_body_report *out) {
    if (!couple || !couple->grid || !out)
        return FSI_ERR_ARGUMENT;
    if (solid < 0 || solid >= couple->interface.solids || !(couple->dt > 0))
        return FSI_ERR_ARGUMENT;
    fsi__body_part(couple, solid, 0, couple->interface.solid[solid]->surface.element_count, out);
    return FSI_OK;
}

/* m_a = J^T b J + Z^T L_N^-1 Z in the solid's own degrees of freedom. */
FSI_API fsi_result fsi_couple_added_mass(fsi_couple *couple, int solid, fsi_real *out) {
    fsi_couple *c = couple;
    fsi_result r = FSI_OK;
    if (!c || !c->grid || !out || solid < 0 || solid >= c->interface.solids)
        return FSI_ERR_ARGUMENT;
    fsi_interface *f = &c->interface;
    if (f->solid[solid]->node || !(c->dt > 0))
        return FSI_ERR_STATE;
    int dof = f->solid[solid]->dof;
    fsi_mg_solve_desc d;
    memset(&d, 0, sizeof d);
    d.tolerance = 1e-12;
    d.max_iterations = 500;
    for (int j = 0; j < dof; j++) {
        double norm = 0;
        fsi_fill(f->cells, 0, c->cells[0]);
        fsi_fill(f->cells, 0, c->cells[1]);
        for (int i = c->first[solid]; i < c->first[solid + 1]; i++) {
            const fsi_side *s = fsi__side_of(c, i);
            c->cells[0][s->cell] += fsi__scale_of(c) * fsi__side_z(f, s) * f->val[s->row + j];
            norm += fabs((double)f->val[s->row + j]);
        }
        if (norm > 0)
            r = fsi_mg_solve(c->grid->mg, &d, c->cells[0], c->cells[1], NULL);
        if (r < 0)
            return r;
        for (int k = 0; k < dof; k++)
            out[k * dof + j] = 0;
        for (int i = c->first[solid]; i < c->first[solid + 1]; i++) {
            const fsi_side *s = fsi__side_of(c, i);
            for (int k = 0; k < dof; k++)
                out[k * dof + j] +=
                    f->val[s->row + k]
                    * (s->mass * f->val[s->row + j] + fsi__side_z(f, s) * c->cells[1][s->cell]);
        }
    }
    return FSI_OK;
}

/* The result of a step: what the solve says, else whether the fluid moved further than advised. */
static fsi_result fsi__step_result(const fsi_grid *g, fsi_result solve) {
    return solve == FSI_OK && g->stats.cfl > (double)g->desc.cfl ? FSI_DT_TOO_LARGE : solve;
}

FSI_API fsi_result fsi_couple_step(fsi_couple *couple, const fsi_scene *scene, fsi_real dt,
                                   fsi_report *report) {
    fsi_result r = FSI_OK;
    if (!couple || !couple->grid || !scene)
        return FSI_ERR_ARGUMENT;
    if (!(dt > 0) || !fsi__finite(dt))
        return FSI_ERR_ARGUMENT;
    fsi_grid *g = couple->grid;
    fsi_report rep;
    memset(&rep, 0, sizeof rep);
    /* 1. solids: explicit forces, v* */
    if (scene->begin_fn)
        r = scene->begin_fn(scene->user, dt);
    /* 3. surfaces -> interface (the fluid's rays need it) */
    if (r >= 0)
        r = fsi_couple_detect(couple, scene->solid, scene->count);
    /* 2. fluid: u* */
    if (r >= 0)
        r = fsi_grid_advect(g, dt);
    if (r >= 0)
        r = fsi_grid_forces(g, dt);
    if (r >= 0)
        r = fsi_grid_viscosity(g, dt, NULL);
    if (r < 0)
        return r;
    /* 4., 5. one solve; pressures and impulses */
    fsi_result solve = fsi_couple_solve(couple, dt, &rep);
    if (solve < 0)
        return solve;
    r = fsi_grid_extrapolate(g);
    /* 6. the liquid's surface and the solids move */
    if (r >= 0)
        r = fsi_interface_move_surface(&couple->interface, g, dt, &rep);
    if (r >= 0)
        r = fsi__bubble_settle(couple);
    if (r >= 0 && scene->move_fn)
        r = scene->move_fn(scene->user, dt);
    if (r >= 0)
        r = fsi_interface_moved(&couple->interface, g, NULL);
    if (r < 0)
        return r;
    rep.reason = solve = fsi__step_result(g, solve);
    rep.iterations = couple->report.iterations;
    rep.residual = couple->report.residual;
    rep.residual_start = couple->report.residual_start;
    memcpy(rep.momentum, couple->report.momentum, sizeof rep.momentum);
    if (report) {
        rep.divergence = fsi_grid_max_divergence(g);
        *report = rep;
    }
    return solve;
}

/* ---- State: header, bubble of every cell, bubbles (room for as many as the grid can tell apart).
 */
typedef struct fsi__couple_state {
    int64_t cells;
    int32_t bubbles, started, tracked, unused;
} fsi__couple_state;

FSI_API size_t fsi_couple_state_size(const fsi_couple *couple) {
    if (!couple || !couple->grid)
        return 0;
    return sizeof(fsi__couple_state) + couple->interface.cells * sizeof(int32_t)
           + (size_t)couple->grid->desc.max_regions * sizeof(fsi_bubble);
}

FSI_API fsi_result fsi_couple_save(const fsi_couple *couple, void *block) {
    unsigned char *p = (unsigned char *)block;
    if (!couple || !couple->grid)
        return FSI_ERR_STATE;
    if (!block)
        return FSI_ERR_ARGUMENT;
    size_t cells = couple->interface.cells;
    memset(p, 0, fsi_couple_state_size(couple));
    fsi__couple_state h;
    memset(&h, 0, sizeof h);
    h.cells = (int64_t)cells;
    h.bubbles = couple->bubbles;
    h.started = couple->interface.started;
    h.tracked = couple->bubble_cell != NULL;
    memcpy(p, &h, sizeof h);
    if (h.tracked)
        memcpy(p + sizeof h, couple->bubble_cell, cells * sizeof(int32_t));
    if (h.bubbles)
        memcpy(p + sizeof h + cells * sizeof(int32_t), couple->bubble,
               (size_t)h.bubbles * sizeof(fsi_bubble));
    return FSI_OK;
}

FSI_API fsi_result fsi_couple_restore(fsi_couple *couple, const void *block) {
    const unsigned char *p = (const unsigned char *)block;
    if (!couple || !couple->grid)
        return FSI_ERR_STATE;
    if (!block)
        return FSI_ERR_ARGUMENT;
    size_t cells = couple->interface.cells;
    fsi__couple_state h;
    memcpy(&h, p, sizeof h);
    if (h.cells != (int64_t)cells || h.bubbles < 0 || h.bubbles > couple->grid->desc.max_regions)
        return FSI_ERR_SIZE;
    if (h.tracked
        && (!FSI__ROOM(couple, bubble_cell, int32_t, FSI__B_BF, cells)
            || !FSI__ROOM(couple, bubble, fsi_bubble, FSI__B_BUBBLE, 2 * (size_t)h.bubbles)))
        return FSI_ERR_MEMORY;
    /* what is covered and cut is found again by the next detect */
    fsi__interface_clear(&couple->interface);
    couple->interface.started = h.started;
    couple->bubbles = h.bubbles;
    if (h.tracked)
        memcpy(couple->bubble_cell, p + sizeof h, cells * sizeof(int32_t));
    if (h.bubbles)
        memcpy(couple->bubble, p + sizeof h + cells * sizeof(int32_t),
               (size_t)h.bubbles * sizeof(fsi_bubble));
    return FSI_OK;
}

FSI_API fsi_result fsi_couple_half(fsi_couple *couple, fsi_coupled *const *solid, int count,
                                   fsi_real dt, fsi_report *report) {
    fsi_result solve = FSI_OK;
    if (!couple || !couple->grid)
        return FSI_ERR_STATE;
    if (!(dt > 0) || !fsi__finite(dt))
        return FSI_ERR_ARGUMENT;
    size_t fluid = (fsi_grid_state_size(couple->grid) + 63) & ~(size_t)63;
    unsigned char *keep =
        (unsigned char *)fsi__room(couple, FSI__B_HALF, fluid + fsi_couple_state_size(couple), 1);
    if (!keep)
        return FSI_ERR_MEMORY;
    fsi_result r = fsi_grid_save(couple->grid, keep);
    if (r >= 0)
        r = fsi_couple_save(couple, keep + fluid);
    if (r < 0)
        return r;
    r = fsi_couple_detect(couple, solid, count);
    if (r >= 0)
        r = fsi_grid_forces(couple->grid, dt / 2);
    if (r >= 0)
        r = fsi_grid_viscosity(couple->grid, dt / 2, NULL);
    if (r >= 0)
        r = solve = fsi_couple_solve(couple, dt / 2, report);
    fsi_result back = fsi_grid_restore(couple->grid, keep);
    if (back >= 0)
        back = fsi_couple_restore(couple, keep + fluid);
    return r < 0 ? r : back < 0 ? back : solve;
}

/* ---- A body of somebody else's engine. */
static void fsi__body_row(const fsi_coupled *self, int element, const fsi_real *weight,
                          fsi_vec3 point, fsi_vec3 dir, fsi_real *row) {
    const fsi_body *b = (const fsi_body *)self->user;
    (void)element;
    (void)weight;
    fsi_vec_store(row, dir);
    /* (w x r) . d = w . (r x d) */
    fsi_vec_store(row + 3, fsi_vec_cross(fsi_vec_sub(point, b->centre), dir));
}

FSI_API fsi_result fsi_body_give(fsi_body *body, const fsi_surface *surface, fsi_coupled *out) {
    fsi_mat3 inverse = {{0}};
    if (!body || !surface || !out || !(body->mass >= 0) || !fsi__finite(body->mass)
        || !fsi__finite_vec(body->centre) || !fsi__finite_vec(body->velocity)
        || !fsi__finite_vec(body->spin))
        return FSI_ERR_ARGUMENT;
    if (body->mass > 0 && surface->dim == 3 && !fsi_mat3_inverse(&body->inertia, &inverse))
        return FSI_ERR_SINGULAR;
    if (body->mass > 0 && surface->dim == 2) {
        if (!(body->inertia.m[8] > 0))
            return FSI_ERR_SINGULAR;
        inverse.m[8] = 1 / body->inertia.m[8];
    }
    memset(out, 0, sizeof *out);
    memset(body->mass_matrix, 0, sizeof body->mass_matrix);
    memset(body->inverse_mass, 0, sizeof body->inverse_mass);
    for (int i = 0; i < 3; i++) {
        body->mass_matrix[7 * i] = body->mass;
        body->inverse_mass[7 * i] = body->mass > 0 && i < surface->dim ? 1 / body->mass : 0;
        for (int j = 0; j < 3; j++) {
            body->mass_matrix[6 * (i + 3) + j + 3] = body->inertia.m[3 * i + j];
            if (body->mass > 0)
                body->inverse_mass[6 * (i + 3) + j + 3] = inverse.m[3 * i + j];
        }
    }
    fsi_vec_store(body->v, body->velocity);
    fsi_vec_store(body->v + 3, body->spin);
    out->surface = *surface;
    out->dof = 6;
    out->v = body->v;
    out->impulse = body->j;
    out->mass = body->mass_matrix;
    out->inverse_mass = body->inverse_mass;
    out->row_fn = fsi__body_row;
    out->user = body;
    return FSI_OK;
}

FSI_API void fsi_body_take(fsi_body *body) {
    body->velocity = fsi_vec_load(body->v);
    body->spin = fsi_vec_load(body->v + 3);
    body->impulse = fsi_vec_load(body->j);
    body->twist = fsi_vec_load(body->j + 3);
}
#endif

/* ------------------------------------------------------------------------------------------------
 * >>world */
#ifndef FSI_COUPLE_NO_GRID
static void fsi__world_layout(fsi_world *w, fsi_arena *a, size_t bodies, size_t guests) {
    w->guest = (fsi_guest *)fsi_arena_take(a, guests, sizeof(fsi_guest));
    w->door = (fsi_coupled **)fsi_arena_take(a, bodies + guests, sizeof(fsi_coupled *));
    w->door_body = (int *)fsi_arena_take(a, bodies + guests, sizeof(int));
}

/* The room: a fixed body around the grid's box, moved far out at open sides. */
static fsi_result fsi__world_walls(fsi_world *w, const fsi_grid_desc *g) {
    fsi_real lo[3], hi[3];
    lo[0] = g->origin.x;
    lo[1] = g->origin.y;
    lo[2] = g->origin.z;
    hi[0] = lo[0] + (fsi_real)g->nx * g->h;
    hi[1] = lo[1] + (fsi_real)g->ny * g->h;
    hi[2] = lo[2] + (fsi_real)g->nz * g->h;
    fsi_real far_out = 100 * (hi[0] - lo[0] + hi[1] - lo[1] + hi[2] - lo[2]);
    for (int a = 0; a < 3; a++) {
        if (g->side[2 * a].kind >= FSI_SIDE_OPEN)
            lo[a] -= far_out;
        if (g->side[2 * a + 1].kind >= FSI_SIDE_OPEN)
            hi[a] += far_out;
    }
    fsi_shape_desc s;
    memset(&s, 0, sizeof s);
    fsi_rigid_desc b;
    memset(&b, 0, sizeof b);
    s.kind = FSI_SHAPE_ROOM;
    s.dim = w->grid.dim;
    s.allocator = g->allocator;
    s.half = fsi_vec((hi[0] - lo[0]) / 2, (hi[1] - lo[1]) / 2, (hi[2] - lo[2]) / 2);
    fsi_result r;
    if ((r = fsi_shape_init(&w->room, &s)) < 0)
        return r;
    b.shape = &w->room;
    b.x = fsi_vec((hi[0] + lo[0]) / 2, (hi[1] + lo[1]) / 2,
                  w->grid.dim == 2 ? 0 : (hi[2] + lo[2]) / 2);
    b.friction = FSI_R(0.3);
    return fsi_solids_add(&w->solids, &b, NULL);
}

FSI_API fsi_result fsi_world_init(fsi_world *w, const fsi_world_desc *desc) {
    if (!w || !desc)
        return FSI_ERR_ARGUMENT;
    memset(w, 0, sizeof *w);
    if (desc->max_bodies < 0 || desc->max_guests < 0 || desc->max_joints < 0
        || desc->max_bodies > 1000000 || desc->max_guests > 1000000 || !(desc->damping >= 0)
        || !fsi__finite(desc->damping))
        return FSI_ERR_ARGUMENT;
    fsi_result r;
    if ((r = fsi_grid_init(&w->grid, &desc->grid)) < 0)
        return r;
    fsi_solids_desc s;
    memset(&s, 0, sizeof s);
    s.dim = w->grid.dim;
    s.max_bodies = desc->max_bodies + 1;
    s.max_joints = desc->max_joints;
    s.gravity = desc->grid.gravity;
    s.substeps = desc->substeps;
    s.iterations = desc->iterations;
    s.allocator = desc->grid.allocator;
    r = fsi_solids_init(&w->solids, &s);
    fsi_couple_desc c = desc->couple;
    if (!c.allocator.alloc_fn && !c.allocator.free_fn)
        c.allocator = desc->grid.allocator;
    if (r >= 0)
        r = fsi_couple_init(&w->couple, &w->grid, &c);
    if (r >= 0 && !desc->no_walls)
        r = fsi__world_walls(w, &w->grid.desc);
    fsi_arena a;
    memset(&a, 0, sizeof a);
    fsi__world_layout(w, &a, (size_t)s.max_bodies, (size_t)desc->max_guests);
    w->size = a.used;
    if (r >= 0 && !(w->block = fsi_alloc(&desc->grid.allocator, w->size)))
        r = FSI_ERR_MEMORY;
    if (r < 0) {
        fsi_world_free(w);
        return r;
    }
    memset(&a, 0, sizeof a);
    a.base = (unsigned char *)w->block;
    a.size = w->size;
    fsi__world_layout(w, &a, (size_t)s.max_bodies, (size_t)desc->max_guests);
    w->guest_room = desc->max_guests;
    w->damping = desc->damping;
    return FSI_OK;
}

FSI_API void fsi_world_free(fsi_world *w) {
    if (!w)
        return;
    fsi_free(&w->grid.desc.allocator, w->block, w->size);
    fsi_couple_free(&w->couple);
    fsi_solids_free(&w->solids);
    fsi_shape_free(&w->room);
    fsi_grid_free(&w->grid);
    memset(w, 0, sizeof *w);
}

FSI_API fsi_result fsi_world_add(fsi_world *w, const fsi_rigid_desc *desc, int *id) {
    return w ? fsi_solids_add(&w->solids, desc, id) : FSI_ERR_ARGUMENT;
}

FSI_API fsi_result fsi_world_add_guest(fsi_world *w, const fsi_guest *guest) {
    if (!w || !guest || !guest->door)
        return FSI_ERR_ARGUMENT;
    if (w->guest_count == w->guest_room)
        return FSI_ERR_SIZE;
    w->guest[w->guest_count++] = *guest;
    return FSI_OK;
}

/* v* of all solids, and their doors. */
static fsi_result fsi__world_begin(fsi_world *w, fsi_real dt, int joined) {
    fsi_real keep = 1 / (1 + dt * w->damping);
    fsi_result r;
    int i;
    if (w->damping > 0) {
        for (int a = 0; a < w->grid.dim; a++)
            for (size_t f = 0; f < w->grid.faces[a]; f++)
                w->grid.u[a][f] *= keep;
        for (i = 0; i < w->solids.body_count; i++) {
            fsi_rigid *b = &w->solids.body[i];
            if (b->kind == FSI_RIGID_DYNAMIC
                && (r = fsi_solids_set_velocity(&w->solids, i, fsi_vec_scale(b->v, keep),
                                                fsi_vec_scale(b->w, keep)))
                       < 0)
                return r;
        }
    }
    if ((r = fsi_solids_forces(&w->solids, dt)) < 0)
        return r;
    if ((r = fsi_solids_hold(&w->solids, dt)) < 0)
        return r;
    for (w->door_count = 0, i = 0; i < w->solids.body_count; i++) {
        /* planes, rooms, height fields */
        if (w->solids.body[i].shape->surface.vertex_count == 0)
            continue;
        r = joined ? fsi_solids_coupled_joined(&w->solids, i, &w->door[w->door_count])
                   : fsi_solids_coupled(&w->solids, i, &w->door[w->door_count]);
        if (r < 0)
            return r;
        if (w->door[w->door_count])
            w->door_body[w->door_count++] = i;
    }
    for (i = 0; i < w->guest_count; i++) {
        if (w->guest[i].begin_fn && (r = w->guest[i].begin_fn(w->guest[i].user, dt)) < 0)
            return r;
        w->door[w->door_count] = w->guest[i].door;
        w->door_body[w->door_count++] = -1;
    }
    return FSI_OK;
}

/* Velocities back, contact and joints, new positions. */
static fsi_result fsi__world_move(void *user, fsi_real dt) {
    fsi_world *w = (fsi_world *)user;
    fsi_result r = FSI_OK;
    for (int i = 0; i < w->solids.body_count && r >= 0; i++)
        if (w->solids.body[i].shape->surface.vertex_count > 0
            && w->solids.body[i].kind == FSI_RIGID_DYNAMIC)
            r = fsi_solids_take_coupled(&w->solids, i);
    if (r >= 0)
        r = fsi_solids_move(&w->solids, dt);
    for (int i = 0; i < w->guest_count && r >= 0; i++)
        if (w->guest[i].move_fn)
            r = w->guest[i].move_fn(w->guest[i].user, dt);
    return r;
}

FSI_API fsi_result fsi_world_step(fsi_world *w, fsi_real dt, fsi_report *report) {
    if (!w || !w->block)
        return FSI_ERR_STATE;
    if (!(dt > 0) || !fsi__finite(dt))
        return FSI_ERR_ARGUMENT;
    fsi_scene scene;
    memset(&scene, 0, sizeof scene);
    fsi_result r;
    if ((r = fsi__world_begin(w, dt, 1)) < 0)
        return r;
    scene.solid = w->door;
    scene.count = w->door_count;
    scene.move_fn = fsi__world_move;
    scene.user = w;
    return fsi_couple_step(&w->couple, &scene, dt, report);
}

FSI_API fsi_result fsi_world_body(const fsi_world *w, int body, fsi_body_report *out) {
    int owner, first, elements;
    if (!w || !w->block || !out || !(w->couple.dt > 0)
        || fsi_solids_joined_part(&w->solids, body, &owner, &first, &elements) < 0)
        return FSI_ERR_ARGUMENT;
    for (int i = 0; i < w->door_count; i++)
        if (w->door_body[i] == owner) {
            fsi__body_part(&w->couple, i, first, first + elements, out);
            return FSI_OK;
        }
    return FSI_ERR_ARGUMENT;
}

/* State: grid, rigid bodies, coupling, each on a multiple of 64 bytes. */
static size_t fsi__world_at(const fsi_world *w, int part) {
    size_t at = 0;
    if (part > 0)
        at += (fsi_grid_state_size(&w->grid) + 63) & ~(size_t)63;
    if (part > 1)
        at += (fsi_solids_state_size(&w->solids) + 63) & ~(size_t)63;
    if (part > 2)
        at += fsi_couple_state_size(&w->couple);
    return at;
}

FSI_API size_t fsi_world_state_size(const fsi_world *w) {
    return w && w->block ? fsi__world_at(w, 3) : 0;
}

FSI_API fsi_result fsi_world_save(const fsi_world *w, void *block) {
    unsigned char *p = (unsigned char *)block;
    if (!w || !w->block || !block)
        return FSI_ERR_STATE;
    fsi_result r = fsi_grid_save(&w->grid, p);
    if (r >= 0)
        r = fsi_solids_save(&w->solids, p + fsi__world_at(w, 1));
    return r < 0 ? r : fsi_couple_save(&w->couple, p + fsi__world_at(w, 2));
}

FSI_API fsi_result fsi_world_restore(fsi_world *w, const void *block) {
    const unsigned char *p = (const unsigned char *)block;
    if (!w || !w->block || !block)
        return FSI_ERR_STATE;
    fsi_result r = fsi_grid_restore(&w->grid, p);
    if (r >= 0)
        r = fsi_solids_restore(&w->solids, p + fsi__world_at(w, 1));
    return r < 0 ? r : fsi_couple_restore(&w->couple, p + fsi__world_at(w, 2));
}
#endif

/* ------------------------------------------------------------------------------------------------
   >>slip Unknowns x = (pressure of the cells, pressure of the ghosts, then velocities of two-way
   solids in the indefinite form). paper       here                    meaning p           vec[0] p^
   = p dt, Pa s, of cells and ghosts v_ghost     flux, link_flux         relative flux through a
   side, flux along a link; conductance coefficient / ghost mass and 1 / ghost mass v_occ velocity .
   axis         sample at the side, not part of any divergence (recipe 7, 12) J           interface
   rows          velocity of the solid along the axis of a side N^T W       fsi__paper.C only in the
   paper's form K           K                       M + Y^T b Y + B^T B, b = mass: the fluid right
   at the wall follows it along the normal; B implicit forces v           solid                   v*
   given, v* after friction, v without pressure, v S, A        sign of a side in its cell, area of a
   face; Z, Y: rows of J, what pressure pushes and what the fluid's mass follows */
#ifndef FSI_COUPLE_NO_GRID
/* Memory of a solve: pieces cut from one block, all given back when the next solve begins. What
   does not fit comes from the caller's allocator, and the next solve starts with a block that would
   have held it all. */
/* 64 bytes before a piece that did not fit */
typedef struct fsi__slip_spill {
    struct fsi__slip_spill *next;
    size_t size;
} fsi__slip_spill;

struct fsi__slip_heap {
    fsi_allocator base;
    unsigned char *block;
    size_t size, used, over, most;
    fsi__slip_spill *spill;
    int failed;
};

static void *fsi__heap_alloc(size_t size, size_t align, void *user) {
    struct fsi__slip_heap *h = (struct fsi__slip_heap *)user;
    size_t at = (h->used + 63) / 64 * 64;
    (void)align;
    unsigned char *p;
    if (size <= h->size && at <= h->size - size) {
        h->used = at + size;
        p = h->block + at;
    } else {
        fsi__slip_spill *q = (fsi__slip_spill *)fsi_alloc(&h->base, size + 64);
        if (!q)
            return NULL;
        q->next = h->spill;
        q->size = size + 64;
        h->spill = q;
        h->over += q->size;
        p = (unsigned char *)q + 64;
    }
    if (h->used + h->over > h->most)
        h->most = h->used + h->over;
    return p;
}

/* only the last piece goes at once */
static void fsi__heap_free(void *ptr, size_t size, void *user) {
    struct fsi__slip_heap *h = (struct fsi__slip_heap *)user;
    unsigned char *p = (unsigned char *)ptr;
    fsi__slip_spill *q = h->spill;
    if (q && p == (unsigned char *)q + 64) {
        h->spill = q->next;
        h->over -= q->size;
        fsi_free(&h->base, q, q->size);
    } else if (h->used && p + size == h->block + h->used)
        h->used = (size_t)(p - h->block);
}

static fsi_allocator fsi__slip_memory(const fsi_slip *s) {
    fsi_allocator a;
    a.alloc_fn = fsi__heap_alloc;
    a.free_fn = fsi__heap_free;
    a.user = s->heap;
    return a;
}

/* count + 1 items, zeroed; NULL: heap->failed */
static void *fsi__slip_take(const fsi_slip *s, size_t count, size_t size) {
    const fsi_allocator memory = fsi__slip_memory(s);
    size_t bytes;
    void *p = fsi_size_mul(count + 1, size, &bytes) ? fsi_alloc(&memory, bytes) : NULL;
    if (!p)
        s->heap->failed = 1;
    return p;
}

#define FSI__SLIP_TAKE(s, list, T, count)                                                          \
    ((list) = (T *)fsi__slip_take(s, (size_t)(count), sizeof(T)))

/* Everything of the last solve away. */
static void fsi__slip_forget(fsi_slip *s) {
    struct fsi__slip_heap *h = s->heap;
    s->ghosts = s->links = s->groups = s->columns = s->solids = 0;
    memset(&s->start, 0, sizeof s->start);
    memset(&s->block, 0, sizeof s->block);
    while (h->spill)
        fsi__heap_free((unsigned char *)h->spill + 64, 0, h);
    h->used = 0;
    h->failed = 0;
}

/* A block that would have held all of the last solve; without memory for it the next one spills
 * again. */
static void fsi__slip_room(struct fsi__slip_heap *h) {
    if (h->most <= h->size)
        return;
    fsi_free(&h->base, h->block, h->size);
    h->size = h->most + h->most / 4;
    h->block = (unsigned char *)fsi_alloc(&h->base, h->size);
    if (!h->block)
        h->size = 0;
}

static void fsi__slip_layout(fsi_slip *s, fsi_arena *arena) {
    s->heap = (struct fsi__slip_heap *)fsi_arena_take(arena, 1, sizeof *s->heap);
    for (int a = 0; a < s->grid->dim; a++)
        s->u[a] = (fsi_real *)fsi_arena_take(arena, s->grid->faces[a], sizeof *s->u[a]);
    for (int a = 0; !s->desc.first_order && a < s->grid->dim; a++)
        s->half[a] = (fsi_real *)fsi_arena_take(arena, s->grid->faces[a], sizeof *s->half[a]);
    if (!s->desc.first_order)
        s->total = (fsi_real *)fsi_arena_take(arena, s->grid->cells, sizeof *s->total);
}

static int fsi__slip_desc_valid(const fsi_slip_desc *d) {
    return fsi_allocator_valid(&d->allocator) && d->passes >= 0 && d->passes <= 1000
           && d->max_iterations >= 0 && d->tolerance >= 0 && d->tolerance < 1
           && (unsigned)d->form <= FSI_SLIP_PAPER && (unsigned)d->solver <= FSI_SLIP_INDEFINITE;
}

FSI_API fsi_result fsi_slip_init(fsi_slip *slip, fsi_grid *grid, const fsi_slip_desc *desc) {
    fsi_arena arena = {NULL, 0, 0, 0};
    if (!slip)
        return FSI_ERR_ARGUMENT;
    memset(slip, 0, sizeof *slip);
    if (!grid || !grid->block || (desc && !fsi__slip_desc_valid(desc)))
        return FSI_ERR_ARGUMENT;
    fsi_slip s;
    memset(&s, 0, sizeof s);
    fsi_interface_desc fd;
    memset(&fd, 0, sizeof fd);
    if (desc)
        s.desc = *desc;
    s.grid = grid;
    fd.average = 1;
    fd.fractions = s.desc.fractions;
    fd.allocator = s.desc.allocator;
    fsi_result r = fsi_interface_init(&s.interface, grid, &fd);
    if (r != FSI_OK)
        return r;
    fsi__slip_layout(&s, &arena);
    r = fsi__arena_block(&arena, &s.desc.allocator, &s.memory, &s.size);
    if (r != FSI_OK) {
        fsi_interface_free(&s.interface);
        return r;
    }
    fsi__slip_layout(&s, &arena);
    s.heap->base = s.rank.allocator = s.desc.allocator;
    *slip = s;
    return FSI_OK;
}

FSI_API void fsi_slip_free(fsi_slip *slip) {
    fsi_slip *s = slip;
    if (!s || !s->memory)
        return;
    const fsi_allocator *a = &s->desc.allocator;
    fsi__slip_forget(s);
    fsi_free(a, s->heap->block, s->heap->size);
    fsi_free(a, s->link, (size_t)s->link_room * sizeof *s->link);
    fsi_free(a, s->was, (size_t)s->was_room * sizeof *s->was);
    fsi_free(a, s->from, (size_t)s->from_room * sizeof *s->from);
    fsi_mg_rank_free(&s->rank);
    fsi_interface_free(&s->interface);
    fsi_free(a, s->memory, s->size);
    memset(s, 0, sizeof *s);
}

FSI_API fsi_result fsi_slip_detect(fsi_slip *slip, fsi_coupled *const *solid, int count) {
    if (!slip || !slip->memory)
        return FSI_ERR_STATE;
    /* where all of it slides, the flow goes on into closed solids (fsi_grid_extrapolate) */
    slip->interface.desc.smooth = 1;
    for (int i = 0; slip->desc.coefficient && i < count; i++)
        if (!(slip->desc.coefficient[i] > 0))
            slip->interface.desc.smooth = 0;
    return fsi_interface_detect(&slip->interface, slip->grid, solid, count);
}

/* ---- Who sees whom. Directions 0 .. 2 dim - 1: axis = dir / 2, up = dir & 1. */
/* neighbour, -1 = outside; and the face between */
static ptrdiff_t fsi__slip_next(const fsi_interface *f, size_t c, int dir, size_t *face) {
    int i[3];
    fsi__cell_ijk(f, c, i);
    return fsi__beside(f, i, dir, face);
}

/* neighbour that c sees, or -1 */
static ptrdiff_t fsi__slip_seen(const fsi_interface *f, size_t c, int dir) {
    size_t face;
    ptrdiff_t m = fsi__slip_next(f, c, dir, &face);
    return m < 0 || f->blocked[dir / 2][face] || f->covered[m] ? -1 : m;
}

/* at most so many unoccluded steps apart */
static int fsi__slip_near(const fsi_interface *f, size_t c, size_t d, int steps) {
    if (c == d)
        return 1;
    for (int dir = 0; steps > 0 && dir < 2 * f->dim; dir++) {
        ptrdiff_t m = fsi__slip_seen(f, c, dir);
        if (m >= 0 && fsi__slip_near(f, (size_t)m, d, steps - 1))
            return 1;
    }
    return 0;
}

/* the cell across the side's face */
static size_t fsi__slip_location(const fsi_interface *f, const fsi_side *s) {
    return (size_t)((ptrdiff_t)s->cell + s->sign * fsi__stride(f, s->axis));
}

/* Side of a cell in a direction, or -1. Sides are ordered by axis, face, minus cell first. */
static int fsi__slip_side(const fsi_interface *f, size_t c, int dir) {
    int lo = 0, hi = f->sides, axis = dir / 2;
    size_t face;
    (void)fsi__slip_next(f, c, dir, &face);
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        const fsi_side *s = f->side + mid;
        if (s->axis < axis || (s->axis == axis && (size_t)s->face < face))
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < f->sides && f->side[lo].axis == axis && (size_t)f->side[lo].face == face; lo++)
        if ((size_t)f->side[lo].cell == c)
            return lo;
    return -1;
}

/* the side of a spot */
static int fsi__slip_at(const fsi_slip *s, int k) {
    return (int)(uint32_t)s->spot[k];
}

/* first .. end of spot[] at a location */
static int fsi__slip_spots(const fsi_slip *s, size_t location, int *end) {
    int first =
        (int)fsi__lower_bound((size_t)s->interface.sides, s->spot, fsi__pair_key((int)location, 0));
    for (*end = first; *end < s->interface.sides && s->spot[*end] >> 32 == location;)
        ++*end;
    return first;
}

static void fsi__slip_join(int32_t *root, int32_t a, int32_t b) {
    a = fsi__root(root, a);
    b = fsi__root(root, b);
    if (a < b)
        root[b] = a;
    else
        root[a] = b;
}

/* Recipe 3: a ghost across every side; those at one location are one where their fluid cells are at
 * most two unoccluded steps apart. */
static void fsi__slip_ghosts(fsi_slip *s) {
    const fsi_interface *f = &s->interface;
    int32_t *root = s->group; /* free until the groups are made */
    for (int i = 0; i < f->sides; i++) {
        s->spot[i] = fsi__pair_key((int)fsi__slip_location(f, f->side + i), i);
        root[i] = i;
    }
    s->spot = fsi__sort_keys((size_t)f->sides, s->spot, s->spot + f->sides);
    for (int i = 0; i < f->sides; i++)
        for (int j = i - 1; j >= 0 && s->spot[j] >> 32 == s->spot[i] >> 32; j--) {
            int a = fsi__slip_at(s, i), b = fsi__slip_at(s, j);
            if (fsi__slip_near(f, (size_t)f->side[a].cell, (size_t)f->side[b].cell, 2))
                fsi__slip_join(root, a, b);
        }
    for (int i = 0; i < f->sides; i++) { /* the first side of each ghost numbers it */
        int a = fsi__slip_at(s, i), first = fsi__root(root, a);
        s->ghost[a] = first == a ? s->ghosts++ : s->ghost[first];
    }
}

static int fsi__slip_link_add(fsi_slip *s, int32_t a, int32_t b) {
    if (b >= 0 && b < a) {
        int32_t t = a;
        a = b;
        b = t;
    }
    if (a == b)
        return 1;
    if (!FSI__GROW(s, link, link_room, s->links, s->links + 1))
        return 0;
    s->link[s->links].a = a;
    s->link[s->links++].b = b;
    return 1;
}

/* Recipe 4 - 6: links between ghosts at neighbouring locations, behind two perpendicular faces of
 * one cell, and out of the box. */
static int fsi__slip_links(fsi_slip *s) {
    const fsi_interface *f = &s->interface;
    int k, end;
    s->links = 0;
    int j;
    for (int i = 0; i < f->sides; i++) {
        const fsi_side *a = f->side + i;
        size_t at = fsi__slip_location(f, a), face;
        for (int dir = 0; dir < 2 * f->dim; dir++) {
            ptrdiff_t m = fsi__slip_next(f, at, dir, &face);
            if (m < 0) {
                fsi_side_kind kind = s->grid->desc.side[dir].kind;
                if ((kind == FSI_SIDE_OPEN || kind == FSI_SIDE_INFLOW)
                    && !fsi__slip_link_add(s, s->ghost[i], -1))
                    return 0;
                continue;
            }
            for (j = fsi__slip_spots(s, (size_t)m, &end); j < end; j++) {
                k = fsi__slip_at(s, j);
                if (s->ghost[k] > s->ghost[i]
                    && fsi__slip_near(f, (size_t)a->cell, (size_t)f->side[k].cell, 1)
                    && !fsi__slip_link_add(s, s->ghost[i], s->ghost[k]))
                    return 0;
            }
        }
        for (int dir = 0; dir < 2 * f->dim; dir++) {
            if (dir / 2 == a->axis || (k = fsi__slip_side(f, (size_t)a->cell, dir)) < 0
                || f->side[k].solid != a->solid)
                continue;
            if (!fsi__slip_link_add(s, s->ghost[i], s->ghost[k]))
                return 0;
        }
    }
    uint64_t *key;
    if (!FSI__SLIP_TAKE(s, key, uint64_t, 2 * s->links))
        return 0;
    for (int i = 0; i < s->links; i++)
        key[i] = fsi__pair_key(s->link[i].a, s->link[i].b + 1);
    key = fsi__sort_keys((size_t)s->links, key, key + s->links);
    for (int i = j = 0; i < s->links; i++) /* each once */
        if (!i || key[i] != key[i - 1]) {
            s->link[j].a = (int32_t)(key[i] >> 32);
            s->link[j++].b = (int32_t)(uint32_t)key[i] - 1;
        }
    s->links = j;
    return 1;
}

/* Connected sets of linked ghosts; after that root holds the regions without Dirichlet cells (first
 * the solver's, then ghosts). */
static void fsi__slip_regions(fsi_slip *s) {
    const fsi_interface *f = &s->interface;
    const fsi_mg *mg = s->grid->mg;
    int i, n = mg->regions + s->ghosts;
    for (i = 0; i < s->ghosts; i++)
        s->root[i] = i;
    for (i = 0; i < s->links; i++)
        if (s->link[i].b >= 0)
            fsi__slip_join(s->root, s->link[i].a, s->link[i].b);
    for (s->groups = 0, i = 0; i < s->ghosts; i++)
        s->group[i] = fsi__root(s->root, i) == i ? s->groups++ : s->group[fsi__root(s->root, i)];
    memset(s->group_open, 0, (size_t)s->groups);
    for (i = 0; i < s->links; i++)
        if (s->link[i].b < 0)
            s->group_open[s->group[s->link[i].a]] = 1;
    for (i = 0; i < n; i++) {
        s->root[i] = i;
        s->count[i] = 0;
    }
    for (i = 0; i < s->links; i++)
        if (s->link[i].b >= 0)
            fsi__slip_join(s->root, mg->regions + s->link[i].a, mg->regions + s->link[i].b);
    for (i = 0; i < f->sides; i++) {
        int32_t label = mg->label[f->side[i].cell];
        if (s->conduct[i] > 0 && label >= 0)
            fsi__slip_join(s->root, label, mg->regions + s->ghost[i]);
    }
    for (i = 0; i < f->sides; i++) /* count < 0: reaches a given pressure */
        if (s->conduct[i] > 0 && mg->label[f->side[i].cell] < 0)
            s->count[fsi__root(s->root, mg->regions + s->ghost[i])] = -1;
    for (i = 0; i < s->links; i++)
        if (s->link[i].b < 0)
            s->count[fsi__root(s->root, mg->regions + s->link[i].a)] = -1;
}

/* ---- Velocities at the sides. */
/* Velocity of the solid at a side: the two-way or scripted generalised velocity where there is one,
 * else the surface's own. */
static fsi_vec3 fsi__slip_body_velocity(const fsi_slip *s, const fsi_side *side) {
    const fsi_interface *f = &s->interface;
    const fsi_coupled *b = f->solid[side->solid];
    const fsi_surface *q = &b->surface;
    fsi_real v[3] = {0, 0, 0};
    if (b->dof && !b->node) {
        for (int axis = 0; axis < f->dim; axis++) {
            b->row_fn(b, side->element, side->weight, fsi_interface_centre(f, side),
                      fsi__axis(axis), s->row);
            for (int k = 0; k < b->dof; k++)
                v[axis] += s->row[k] * b->v[k];
        }
        return fsi_vec_load(v);
    }
    /* the row of J along the axis has the weights of all components */
    for (int k = side->row; b->dof && k < side->row_end; k++)
        for (int axis = 0; axis < f->dim; axis++)
            v[axis] += f->val[k] * b->v[f->col[k] - side->axis + axis];
    for (int k = 0; !b->dof && q->v && k < q->dim; k++)
        for (int axis = 0; axis < f->dim; axis++)
            v[axis] += side->weight[k] * q->v[3 * q->index[q->dim * side->element + k] + axis];
    return fsi_vec_load(v);
}

/* Sum and number of the regular samples along an axis of a cell and of all cells within so many
 * steps. */
static int fsi__slip_samples(const fsi_slip *s, size_t c, int axis, int steps, fsi_real *sum) {
    const fsi_interface *f = &s->interface;
    int n = 0;
    if (s->grid->cell[c] == FSI_CELL_FLUID)
        for (int dir = 2 * axis; dir < 2 * axis + 2; dir++) {
            size_t face;
            ptrdiff_t m = fsi__slip_next(f, c, dir, &face);
            if (f->desc.fractions
                    ? !(f->open[axis][face] > 0)
                          || (m >= 0 && f->covered[m] && !(s->grid->weight[axis][face] > 0))
                    : f->blocked[axis][face] || (m >= 0 && f->covered[m]))
                continue;
            *sum += s->grid->u[axis][face];
            n++;
        }
    for (int dir = 0; steps > 0 && dir < 2 * f->dim; dir++) {
        ptrdiff_t m = fsi__slip_seen(f, c, dir);
        if (m >= 0)
            n += fsi__slip_samples(s, (size_t)m, axis, steps - 1, sum);
    }
    return n;
}

static fsi_real fsi__slip_coefficient(const fsi_slip *s, int solid) {
    return s->desc.coefficient ? s->desc.coefficient[solid] : 1;
}

/* Recipe 8: surface velocity from the regular samples; the relative part slides (not with
   coefficient 0). What friction takes of it is taken from the samples themselves (fsi__slip_tie),
   so not here a second time; stick: what the solid feels of u* at the side, the normal part and
   what friction ties. */
static void fsi__slip_estimate(fsi_slip *s, int start) {
    const fsi_interface *f = &s->interface;
    FSI__OMP(parallel for schedule(static) if (f->sides > 2000))
    for (ptrdiff_t i = 0; i < f->sides; i++) {
        const fsi_side *side = f->side + i;
        fsi_real v[3] = {0, 0, 0},
                 slides = fsi__slip_coefficient(s, side->solid) > 0 ? 1 : (fsi_real)0;
        int ring, n;
        for (int axis = 0; axis < f->dim; axis++) {
            for (n = 0, ring = 0; ring <= 2 && !n; ring++) {
                v[axis] = 0;
                n = fsi__slip_samples(s, (size_t)side->cell, axis, ring, v + axis);
            }
            v[axis] = n ? v[axis] / (fsi_real)n - fsi__get(s->body[i], axis) : 0;
        }
        fsi_vec3 slide = fsi_vec_load(v);
        /* (I - N N^T)(V^ - V_s) */
        slide = fsi_vec_scale(fsi_vec_mad(slide, side->normal, -fsi_vec_dot(slide, side->normal)),
                              slides);
        s->velocity[i] = fsi_vec_add(s->body[i], slide);
        if (start)
            s->stick[i] = fsi__get(s->body[i], side->axis) + v[side->axis]
                          - fsi__get(slide, side->axis) / (1 + s->rate[i]);
        if (start)
            s->flux[i] = s->conduct[i] > 0 ? (fsi_real)side->sign * fsi__get(slide, side->axis) : 0;
    }
}

/* Recipe 9: link fluxes of least norm that carry what the sides bring: L q = inflow, flux a -> b =
 * q_a - q_b. Closed groups: but for the mean. */
static void fsi__slip_start(fsi_slip *s) {
    fsi_real *q = s->vec[1];
    for (int i = 0; i < s->groups; i++)
        s->sum[i] = s->count[i] = 0;
    for (int i = 0; i < s->ghosts; i++) {
        q[i] = 0;
        s->count[s->group[i]] += 1;
    }
    for (int i = 0; i < s->interface.sides; i++)
        q[s->ghost[i]] += s->flux[i];
    for (int i = 0; i < s->ghosts; i++)
        s->sum[s->group[i]] += (double)q[i];
    for (int i = 0; i < s->ghosts; i++)
        if (!s->group_open[s->group[i]])
            q[i] -= (fsi_real)(s->sum[s->group[i]] / s->count[s->group[i]]);
    if (s->ghosts)
        (void)fsi_cholesky_solve(&s->start, q, q);
    for (int i = 0; i < s->links; i++)
        s->link_flux[i] = q[s->link[i].a] - (s->link[i].b >= 0 ? q[s->link[i].b] : 0);
}

/* ---- The matrix: the grid's, and conductances between cells, ghosts and the outside. */
typedef struct fsi__slip_entries {
    int32_t *i, *j;
    fsi_real *v;
    size_t count, room;
} fsi__slip_entries;

static void fsi__slip_put(fsi__slip_entries *e, int32_t i, int32_t j, fsi_real v) {
    if (e->v && e->count < e->room) {
        e->i[e->count] = i;
        e->j[e->count] = j;
        e->v[e->count] = v;
    }
    e->count++;
}

/* k (x_i - x_j)^2 / 2; j < 0: x_j = 0 */
static void fsi__slip_put_pair(fsi__slip_entries *e, int32_t i, int32_t j, fsi_real k) {
    fsi__slip_put(e, i, i, k);
    if (j < 0)
        return;
    fsi__slip_put(e, j, j, k);
    fsi__slip_put(e, i, j, -k);
    fsi__slip_put(e, j, i, -k);
}

/* The graph of the ghosts. Alone: links with conductance one. Else: rows of the ghosts in the
   matrix. A group that nothing else holds is pinned at its first ghost. */
static void fsi__slip_fill(const fsi_slip *s, int alone, fsi__slip_entries *e) {
    const fsi_interface *f = &s->interface;
    e->count = 0;
    for (int i = 0; i < s->groups; i++)
        s->sum[i] = s->group_open[i];
    for (int i = 0; i < s->links; i++)
        fsi__slip_put_pair(e, s->link[i].a, s->link[i].b, alone ? 1 : 1 / FSI__SLIP_GHOST_MASS);
    for (int i = 0; i < f->sides; i++) {
        fsi__slip_put(e, s->ghost[i], s->ghost[i], alone ? 0 : s->conduct[i]);
        if (!alone && s->conduct[i] > 0)
            s->sum[s->group[s->ghost[i]]] = 1;
    }
    for (int i = 0; i < s->ghosts; i++)
        if (!(s->sum[s->group[i]] > 0)) {
            fsi__slip_put(e, i, i, 1);
            s->sum[s->group[i]] = 1;
        }
}

static fsi_result fsi__slip_entries_take(const fsi_slip *s, size_t room, fsi__slip_entries *e) {
    e->room = room;
    e->count = 0;
    FSI__SLIP_TAKE(s, e->i, int32_t, room);
    FSI__SLIP_TAKE(s, e->j, int32_t, room);
    FSI__SLIP_TAKE(s, e->v, fsi_real, room);
    return s->heap->failed ? FSI_ERR_MEMORY : FSI_OK;
}

/* The sum of the entries, and its Cholesky factor. */
static fsi_result fsi__slip_entries_factor(const fsi_slip *s, int n, const fsi__slip_entries *e,
                                           fsi_csr *A, fsi_cholesky *out) {
    fsi_cholesky_desc d;
    memset(&d, 0, sizeof d);
    d.allocator = fsi__slip_memory(s);
    fsi_result r = fsi_csr_from_triplets(A, n, n, e->count, e->i, e->j, e->v, &d.allocator);
    if (r == FSI_OK)
        r = fsi_cholesky_init(out, A, &d);
    return r == FSI_OK ? fsi_cholesky_factor(out, A, 0, NULL) : r;
}

static fsi_result fsi__slip_factor(const fsi_slip *s, int alone, fsi_cholesky *out) {
    fsi__slip_entries e = {NULL, NULL, NULL, 0, 0};
    if (!s->ghosts)
        return FSI_OK;
    fsi__slip_fill(s, alone, &e); /* counts */
    if (fsi__slip_entries_take(s, e.count, &e) != FSI_OK)
        return FSI_ERR_MEMORY;
    fsi__slip_fill(s, alone, &e);
    fsi_csr A;
    return fsi__slip_entries_factor(s, s->ghosts, &e, &A, out);
}

/* ---- Two-way solids: K v = M v* + Y^T b u*_stick + A (S Z)^T p^, K = M + Y^T b Y + B^T B, S =
   sign of each side in its cell, A = area of a face. Eliminated, the cells get rho h A S Z K^-1 (S
   Z)^T p^. Degrees of freedom without inverse mass keep v*. Y^T b Y is not lumped to the nodes: v*
   of a light sheet holds stiff forces over its own small mass, and lumped fluid would be given that
   velocity too, also where J sees none of it (it blew up). */
static int fsi__slip_movable(const fsi_coupled *b, int k) {
    return b->node ? b->inverse_mass[k / 3] > 0 : b->inverse_mass[k * b->dof + k] > 0;
}

static int fsi__slip_two_way(const fsi_coupled *b) {
    for (int i = 0; i < b->dof; i++)
        if (fsi__slip_movable(b, i))
            return 1;
    return 0;
}

typedef enum fsi__slip_v {
    FSI__V_STAR,
    FSI__V_FREE,
    FSI__V_NEW,
    FSI__V_WORK,
    FSI__V_GIVEN,
    FSI__V_COUNT
} fsi__slip_v;

static fsi_real *fsi__slip_v_of(const fsi_slip *s, fsi__slip_v which) {
    return s->solid + (size_t)which * (size_t)s->columns;
}

/* 0: not two-way */
static int fsi__slip_dof(const fsi_slip *s, int solid) {
    return s->offset[solid + 1] - s->offset[solid];
}

/* Most entries of a row of J at a side, any direction. */
static size_t fsi__slip_row_room(const fsi_slip *s, const fsi_side *d) {
    const fsi_coupled *b = s->interface.solid[d->solid];
    return b->node ? 3 * (size_t)(d->row_end - d->row) : (size_t)b->dof;
}

/* A list of rows R of J, to be filled by fsi__slip_row: movable degrees of freedom of two-way
 * solids only, in the order they come. */
static fsi_result fsi__slip_rows_take(const fsi_slip *s, int rows, size_t entries, fsi_csr *R) {
    R->rows = 0;
    R->cols = s->columns;
    FSI__SLIP_TAKE(s, R->row, int32_t, rows + 1);
    FSI__SLIP_TAKE(s, R->col, int32_t, entries);
    FSI__SLIP_TAKE(s, R->val, fsi_real, entries);
    return s->heap->failed ? FSI_ERR_MEMORY : FSI_OK;
}

/* The next row of R: d^T J at a side. */
static void fsi__slip_row(const fsi_slip *s, const fsi_side *side, fsi_vec3 d, fsi_csr *R) {
    const fsi_interface *f = &s->interface;
    const fsi_coupled *body = f->solid[side->solid];
    int at = s->offset[side->solid], two_way = s->offset[side->solid + 1] > at;
    int32_t n = R->row[R->rows];
    fsi_real length = fsi__length(d);
    if (two_way && !body->node && length > 0) {
        body->row_fn(body, side->element, side->weight, fsi_interface_centre(f, side),
                     fsi_vec_scale(d, 1 / length), s->row);
        for (int e = 0; e < body->dof; e++)
            if (fsi__slip_movable(body, e)) {
                R->col[n] = at + e;
                R->val[n++] = length * s->row[e];
            }
    }
    /* the row of J along the axis has the weights of all components */
    for (int e = side->row; two_way && body->node && e < side->row_end; e++)
        for (int b = 0; b < f->dim && fsi__slip_movable(body, f->col[e]); b++) {
            fsi_real v = f->val[e] * fsi__get(d, b);
            if (v < 0 || v > 0) {
                R->col[n] = at + f->col[e] + b - side->axis;
                R->val[n++] = v;
            }
        }
    R->row[++R->rows] = n;
}

/* Rows Z (what pressure pushes) and Y (what fluid at the side pushes). A shell is pushed along its
   normal only: the pressures in the two cells of a cut face belong to places h apart, and the
   difference along the shell must not move it (in water at rest a leaning sheet would rise). The
   fluid's mass at a side follows the solid along the normal, and across it by what friction ties.
 */
static fsi_result fsi__slip_rows(fsi_slip *s) {
    const fsi_interface *f = &s->interface;
    size_t room = 0;
    for (int i = 0; i < f->sides; i++)
        room += fsi__slip_row_room(s, f->side + i);
    if (fsi__slip_rows_take(s, f->sides, room, &s->Z) != FSI_OK
        || fsi__slip_rows_take(s, f->sides, room, &s->Y) != FSI_OK)
        return FSI_ERR_MEMORY;
    for (int i = 0; i < f->sides; i++) {
        const fsi_side *d = f->side + i;
        fsi_real c = 1 / (1 + s->rate[i]);
        fsi_vec3 axis = fsi__axis(d->axis),
                 across = fsi_vec_scale(d->normal, fsi__get(d->normal, d->axis));
        fsi__slip_row(s, d, d->shell ? across : axis, &s->Z);
        fsi__slip_row(s, d, fsi_vec_mad(fsi_vec_scale(across, c), axis, 1 - c), &s->Y);
    }
    return FSI_OK;
}

/* out = (S Z)^T cells */
static void fsi__slip_gather(const fsi_slip *s, const fsi_real *cells, fsi_real *out) {
    const fsi_interface *f = &s->interface;
    for (int i = 0; i < f->sides; i++)
        s->push[i] = f->side[i].share * (fsi_real)f->side[i].sign * cells[f->side[i].cell];
    fsi_csr_tmul(&s->Z, s->push, out);
}

/* (Z v)_s */
static fsi_real fsi__slip_through(const fsi_slip *s, int side, const fsi_real *v) {
    fsi_real t = 0;
    for (int32_t e = s->Z.row[side]; e < s->Z.row[side + 1]; e++)
        t += s->Z.val[e] * v[s->Z.col[e]];
    return t;
}

/* cells += scale S Z v */
static void fsi__slip_scatter(const fsi_slip *s, const fsi_real *v, fsi_real scale,
                              fsi_real *cells) {
    const fsi_interface *f = &s->interface;
    for (int i = 0; i < f->sides; i++)
        cells[f->side[i].cell] +=
            scale * f->side[i].share * (fsi_real)f->side[i].sign * fsi__slip_through(s, i, v);
}

/* ---- K = M + R^T m R + B^T B of all two-way solids, fixed degrees of freedom as identity. R: Y
 * for the solve, and the ties of friction before it. */
/* the last solid that begins at or before the column */
static int fsi__slip_solid_of(const fsi_slip *s, int column) {
    int lo = 0, hi = s->solids;
    while (lo + 1 < hi) {
        int mid = (lo + hi) / 2;
        if (s->offset[mid] <= column)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/* Entries of m r^T r, r = row i of R without the fixed columns of b (NULL: it has none). */
static void fsi__slip_put_row(const fsi_csr *R, int i, int at, fsi_real m, const fsi_coupled *b,
                              fsi__slip_entries *t) {
    for (int j = R->row[i]; j < R->row[i + 1]; j++)
        for (int k = R->row[i]; (!b || fsi__slip_movable(b, R->col[j])) && k < R->row[i + 1]; k++)
            if (!b || fsi__slip_movable(b, R->col[k]))
                fsi__slip_put(t, at + R->col[j], at + R->col[k], m * R->val[j] * R->val[k]);
}

/* The same of a dense solid, into the entries K of its mass. */
static void fsi__slip_add_row(const fsi_csr *R, int i, int at, fsi_real m, int n, fsi_real *K) {
    for (int j = R->row[i]; j < R->row[i + 1]; j++)
        for (int k = R->row[i]; k < R->row[i + 1]; k++)
            K[(R->col[j] - at) * n + R->col[k] - at] += m * R->val[j] * R->val[k];
}

static void fsi__slip_K_fill(const fsi_slip *s, const fsi_csr *R, const fsi_real *mass,
                             fsi__slip_entries *t) {
    t->count = 0;
    int solid;
    for (solid = 0; solid < s->solids; solid++) {
        const fsi_coupled *b = s->interface.solid[solid];
        int at = s->offset[solid], n = fsi__slip_dof(s, solid);
        s->K_at[solid] = t->count;
        for (int i = 0; i < n; i++) {
            if (b->node)
                fsi__slip_put(t, at + i, at + i, fsi__slip_movable(b, i) ? b->mass[i / 3] : 1);
            for (int j = 0; !b->node && j < n; j++)
                fsi__slip_put(t, at + i, at + j,
                              fsi__slip_movable(b, i) && fsi__slip_movable(b, j)
                                  ? b->mass[i * n + j]
                                  : (fsi_real)(i == j));
        }
        for (int i = 0; n && b->implicit && i < b->implicit->rows; i++)
            fsi__slip_put_row(b->implicit, i, at, 1, b, t);
    }
    for (int i = 0; i < R->rows; i++) {
        if (!(mass[i] > 0) || R->row[i] == R->row[i + 1])
            continue;
        solid = fsi__slip_solid_of(s, R->col[R->row[i]]);
        if (s->interface.solid[solid]->node)
            fsi__slip_put_row(R, i, 0, mass[i], NULL, t);
        else if (t->v)
            fsi__slip_add_row(R, i, s->offset[solid], mass[i], fsi__slip_dof(s, solid),
                              t->v + s->K_at[solid]);
    }
}

static fsi_result fsi__slip_K_factor(fsi_slip *s, const fsi_csr *R, const fsi_real *mass) {
    fsi__slip_entries t = {NULL, NULL, NULL, 0, 0};
    if (!s->columns)
        return FSI_OK;
    fsi__slip_K_fill(s, R, mass, &t); /* counts */
    if (fsi__slip_entries_take(s, t.count, &t) != FSI_OK)
        return FSI_ERR_MEMORY;
    fsi__slip_K_fill(s, R, mass, &t);
    return fsi__slip_entries_factor(s, s->columns, &t, &s->K, &s->K_factor);
}

/* v = K^-1 v */
static void fsi__slip_K_solve(fsi_slip *s, fsi_real *v) {
    if (s->columns)
        (void)fsi_cholesky_solve(&s->K_factor, v, v);
}

/* out += scale B^T B v, movable rows */
static void fsi__slip_implicit(const fsi_slip *s, const fsi_real *v, fsi_real scale,
                               fsi_real *out) {
    for (int i = 0; i < s->solids; i++) {
        const fsi_coupled *b = s->interface.solid[i];
        const fsi_csr *B = fsi__slip_dof(s, i) > 0 ? b->implicit : NULL;
        for (int k = 0; B && k < B->rows; k++) {
            fsi_real t = 0;
            for (int e = B->row[k]; e < B->row[k + 1]; e++)
                t += B->val[e] * v[s->offset[i] + B->col[e]];
            for (int e = B->row[k]; e < B->row[k + 1]; e++)
                if (fsi__slip_movable(b, B->col[e]))
                    out[s->offset[i] + B->col[e]] += scale * B->val[e] * t;
        }
    }
}

/* out += scale push, movable rows */
static void fsi__slip_push(const fsi_slip *s, fsi_real scale, fsi_real *out) {
    for (int i = 0; i < s->solids; i++) {
        const fsi_coupled *b = s->interface.solid[i];
        for (int k = 0; b->node && b->push && k < fsi__slip_dof(s, i); k++)
            if (fsi__slip_movable(b, k))
                out[s->offset[i] + k] += scale * b->push[k];
    }
}

/* Plastic collision of solids at `old` with fluid of mass m at the rows of R, gap = its velocity -
   R old (spoilt): K v = M old + push + R^T m u, that is v = old + K^-1 (R^T m gap + push - B^T B
   old). */
static void fsi__slip_collide(fsi_slip *s, const fsi_csr *R, const fsi_real *mass, fsi_real *gap,
                              const fsi_real *old, fsi_real *v) {
    for (int i = 0; i < R->rows; i++)
        gap[i] *= mass[i];
    fsi_csr_tmul(R, gap, v);
    fsi__slip_implicit(s, old, -1, v);
    fsi__slip_push(s, 1, v);
    fsi__slip_K_solve(s, v);
    for (int i = 0; i < s->columns; i++)
        v[i] += old[i];
}

/* Velocities v into the solids, and what they are at the sides. */
static void fsi__slip_give(fsi_slip *s, const fsi_real *v) {
    const fsi_interface *f = &s->interface;
    for (int i = 0; i < s->solids; i++)
        if (fsi__slip_dof(s, i) > 0)
            fsi_copy((size_t)f->solid[i]->dof, v + s->offset[i], f->solid[i]->v);
    for (int i = 0; s->columns && i < f->sides; i++)
        if (fsi__slip_dof(s, f->side[i].solid) > 0)
            s->body[i] = fsi__slip_body_velocity(s, f->side + i);
}

/* ---- Friction, coefficient c < 1. The wall's stress on the fluid is -C rho |V| V, V the sliding
   velocity, C = FSI_SLIP_STRESS (1 - c) / c: a number without unit, so the law knows neither grid
   nor step nor viscosity. It acts on the cell's samples along the axes other than the side's (those
   along it are mostly normal velocity, which the wall ties anyway). A side of axis a stands for the
   surface h^(dim-1) |N_a|, and the sides of all axes but k for 1 - N_k^2 of the surface, so
   component k takes h^(dim-1) |N_a| / (1 - N_k^2) of each: a plane at any angle has its whole area.
   Over a step du/dt = -k |u| u gives u / (1 + rate). Together with two-way solids it is a plastic
   collision by the share rate / (1 + rate): (M + sum m J^T J) v = M v* + sum m J^T u*, u = u* +
   share (J v - u*), m = share * mass of the sample: no momentum is lost, for any mass of the solid.
   c = 0: the share is 1. */
#define FSI__SLIP_STUCK FSI_R(1e12)

static void fsi__slip_rates(fsi_slip *s, fsi_real dt) {
    const fsi_interface *f = &s->interface;
    int any = 0;
    for (int i = 0; i < f->solids; i++)
        any |= fsi__slip_coefficient(s, i) < 1;
    if (!any)
        return;
    fsi__slip_estimate(s, 0);
    for (int i = 0; i < f->sides; i++) {
        fsi_real c = fsi__slip_coefficient(s, f->side[i].solid),
                 v = fsi__length(fsi_vec_sub(s->velocity[i], s->body[i]));
        s->rate[i] =
            c > 0 ? fsi__min(FSI_SLIP_STRESS * (1 - c) / c * v * dt / s->grid->h, FSI__SLIP_STUCK)
                  : FSI__SLIP_STUCK;
    }
}

typedef struct fsi__tie {
    int32_t side, face;
    int axis;
    fsi_real share, old;
} fsi__tie;

/* a sample between this cell and another that it sees */
static int fsi__tie_open(const fsi_slip *s, size_t cell, int dir, size_t *face) {
    ptrdiff_t m = fsi__slip_next(&s->interface, cell, dir, face);
    return m >= 0 && !s->interface.blocked[dir / 2][*face] && !s->interface.covered[m]
           && s->grid->weight[dir / 2][*face] > 0;
}

/* counts them; tie: fills it */
static int fsi__tie_list(fsi_slip *s, fsi__tie *tie) {
    const fsi_interface *f = &s->interface;
    int i, n = 0;
    /* s->u sums the rates of all sides that hold a sample */
    for (int round = 0; round < 3; round++)
        for (n = 0, i = 0; i < f->sides; i++) {
            const fsi_side *d = f->side + i;
            for (int dir = 0; s->rate[i] > 0 && dir < 2 * f->dim; dir++) {
                size_t face;
                fsi_real across = fsi__get(d->normal, dir / 2);
                if (dir / 2 == d->axis || !fsi__tie_open(s, (size_t)d->cell, dir, &face))
                    continue;
                fsi_real rate = s->rate[i] * fsi__abs(fsi__get(d->normal, d->axis))
                                / fsi__max(1 - across * across, FSI_R(0.25));
                size_t other;
                if (fsi__tie_open(s, (size_t)d->cell, dir ^ 1, &other))
                    rate /= 2;
                if (round < 2)
                    s->u[dir / 2][face] = round ? s->u[dir / 2][face] + rate : 0;
                else if (tie) {
                    tie[n].side = i;
                    tie[n].face = (int32_t)face;
                    tie[n].axis = dir / 2;
                    tie[n].share = rate / (1 + s->u[dir / 2][face]);
                    tie[n].old = s->grid->u[dir / 2][face];
                }
                n++;
            }
        }
    return n;
}

/* fluid before - solid now */
static void fsi__tie_gaps(const fsi_slip *s, const fsi__tie *tie, int n, fsi_real *gap) {
    for (int k = 0; k < n; k++)
        gap[k] = tie[k].old - fsi__get(s->body[tie[k].side], tie[k].axis);
}

/* The solids' v* in s->solid and the fluid's u* after the collision. Nodal solids get the v* that
   leads to their velocity once the implicit forces act: M v* = M v*_old + what the fluid lost. */
static fsi_result fsi__slip_tie(fsi_slip *s, fsi_real dt) {
    const fsi_interface *f = &s->interface;
    const fsi_real *given = fsi__slip_v_of(s, FSI__V_GIVEN);
    fsi_real *v = fsi__slip_v_of(s, FSI__V_STAR), *push = fsi__slip_v_of(s, FSI__V_WORK);
    int n = fsi__tie_list(s, NULL);
    size_t room = 0;
    if (!n)
        return FSI_OK;
    fsi__tie *tie;
    FSI__SLIP_TAKE(s, tie, fsi__tie, n);
    fsi_real *mass;
    FSI__SLIP_TAKE(s, mass, fsi_real, n);
    fsi_real *gap;
    FSI__SLIP_TAKE(s, gap, fsi_real, n);
    if (s->heap->failed)
        return FSI_ERR_MEMORY;
    (void)fsi__tie_list(s, tie);
    for (int k = 0; k < n; k++)
        room += fsi__slip_row_room(s, f->side + tie[k].side);
    fsi_csr R;
    if (fsi__slip_rows_take(s, n, room, &R) != FSI_OK)
        return FSI_ERR_MEMORY;
    for (int k = 0; k < n; k++) {
        fsi__slip_row(s, f->side + tie[k].side, fsi__axis(tie[k].axis), &R);
        mass[k] = tie[k].share * s->grid->desc.rho * s->grid->h * fsi__area(&s->interface);
    }
    fsi_result r = fsi__slip_K_factor(s, &R, mass);
    if (r != FSI_OK)
        return r;
    fsi__tie_gaps(s, tie, n, gap);
    fsi__slip_collide(s, &R, mass, gap, given, v);
    fsi__slip_give(s, v);
    fsi__tie_gaps(s, tie, n, gap);
    for (int k = 0; k < n; k++) {
        int axis = tie[k].axis, face = tie[k].face;
        s->grid->u[axis][face] -= tie[k].share * gap[k];
        if (s->grid->u_plus[axis])
            s->grid->u_plus[axis][face] = s->grid->u[axis][face];
        gap[k] *= mass[k];
        s->friction[3 * f->side[tie[k].side].solid + axis] += gap[k] / dt;
    }
    fsi_csr_tmul(&R, gap, push);
    for (int i = 0; i < s->solids; i++)
        for (int k = s->offset[i]; f->solid[i]->node && k < s->offset[i + 1]; k++)
            v[k] = given[k] + push[k] * f->solid[i]->inverse_mass[(k - s->offset[i]) / 3];
    /* the right-hand side of the new u* */
    return fsi_grid_build_pressure(s->grid, dt);
}

/* Degrees of freedom of the two-way solids, and their v*. */
static fsi_result fsi__slip_columns(fsi_slip *s) {
    const fsi_interface *f = &s->interface;
    FSI__SLIP_TAKE(s, s->K_at, size_t, f->solids);
    FSI__SLIP_TAKE(s, s->offset, int, f->solids);
    FSI__SLIP_TAKE(s, s->friction, fsi_real, 3 * f->solids);
    if (s->heap->failed)
        return FSI_ERR_MEMORY;
    for (int i = 0; i < f->solids; i++) {
        const fsi_coupled *b = f->solid[i];
        int dof = fsi__slip_two_way(b) ? b->dof : 0;
        if (dof && !b->mass)
            return FSI_ERR_ARGUMENT;
        s->offset[i + 1] = s->offset[i] + dof;
    }
    FSI__SLIP_TAKE(s, s->solid, fsi_real, FSI__V_COUNT * s->offset[f->solids]);
    if (s->heap->failed)
        return FSI_ERR_MEMORY;
    s->solids = f->solids;
    s->columns = s->offset[f->solids];
    for (int i = 0; i < f->solids; i++)
        if (fsi__slip_dof(s, i) > 0)
            fsi_copy((size_t)f->solid[i]->dof, f->solid[i]->v,
                     fsi__slip_v_of(s, FSI__V_GIVEN) + s->offset[i]);
    fsi_copy((size_t)s->columns, fsi__slip_v_of(s, FSI__V_GIVEN), fsi__slip_v_of(s, FSI__V_STAR));
    return FSI_OK;
}

/* Columns S Z and K / (rho h A) of the dense solids, which the V-cycle takes along (fsi_mg_rank):
 * rho h A S Z K^-1 (S Z)^T is the low-rank part of the matrix. */
static fsi_result fsi__slip_rank(fsi_slip *s) {
    const fsi_interface *f = &s->interface;
    size_t room = (size_t)f->sides, at = room, sides = 0;
    for (int i = 0; i < f->solids; i++)
        if (!f->solid[i]->node)
            room += (size_t)f->solid[i]->dof * (size_t)f->solid[i]->dof;
    for (int i = 0; i < f->sides; i++)
        if (!f->solid[f->side[i].solid]->node)
            room += (size_t)f->solid[f->side[i].solid]->dof;
    FSI__SLIP_TAKE(s, s->group_of, fsi_mg_group, f->solids);
    int32_t *cell;
    FSI__SLIP_TAKE(s, cell, int32_t, f->sides);
    fsi_real *val;
    FSI__SLIP_TAKE(s, val, fsi_real, room);
    if (s->heap->failed)
        return FSI_ERR_MEMORY;
    for (int solid = 0; solid < f->solids; solid++) {
        const fsi_coupled *b = f->solid[solid];
        fsi_mg_group *g = s->group_of + solid;
        fsi_real *K = val + at,
                 scale = 1 / (s->grid->desc.rho * s->grid->h * fsi__area(&s->interface));
        int dof = fsi__slip_dof(s, solid), first = s->offset[solid];
        if (!dof || b->node)
            continue;
        /* the movable part of K, full rows */
        for (int i = 0; i < dof; i++) {
            g->columns += fsi__slip_movable(b, i);
            for (int k = s->K.row[first + i];
                 fsi__slip_movable(b, i) && k < s->K.row[first + i + 1]; k++)
                if (fsi__slip_movable(b, s->K.col[k] - first))
                    val[at++] = scale * s->K.val[k];
        }
        g->K = K;
        g->cell = cell + sides;
        g->factor = val + sides;
        g->val = val + at;
        for (int i = 0; i < f->sides; i++) {
            if (f->side[i].solid != solid)
                continue;
            cell[sides] = f->side[i].cell;
            val[sides++] = f->side[i].share * (fsi_real)f->side[i].sign;
            for (int k = 0; k < g->columns; k++)
                val[at++] = s->Z.row[i] < s->Z.row[i + 1] ? s->Z.val[s->Z.row[i] + k] : 0;
            g->entries++;
        }
    }
    fsi_result r = fsi_mg_rank_build(&s->rank, s->grid->mg, s->group_of, f->solids);
    return r == FSI_ERR_SINGULAR ? FSI_OK : r; /* then the plain V-cycle has to do */
}

/* v without pressure, from v*: the fluid at the walls has struck it. First pass only. */
static void fsi__slip_free_velocity(fsi_slip *s) {
    for (int i = 0; i < s->interface.sides; i++)
        s->stick[i] -= s->wall[i];
    fsi__slip_collide(s, &s->Y, s->mass, s->stick, fsi__slip_v_of(s, FSI__V_STAR),
                      fsi__slip_v_of(s, FSI__V_FREE));
}

/* What the walls push before the solve adds Z (v - v0): closed solids J v0; shells slide with what
 * the starts of the fluxes were taken for, J v - Z (v - v0). */
static void fsi__slip_walls(fsi_slip *s, const fsi_real *v) {
    const fsi_interface *f = &s->interface;
    const fsi_real *v0 = fsi__slip_v_of(s, FSI__V_FREE);
    if (!s->columns)
        return;
    fsi__slip_give(s, v);
    for (int i = 0; i < f->sides; i++)
        if (fsi__slip_dof(s, f->side[i].solid) > 0)
            s->wall[i] = fsi_interface_velocity(f, f->side + i, f->solid[f->side[i].solid]->v)
                         - fsi__slip_through(s, i, v) + fsi__slip_through(s, i, v0);
}

static void fsi__slip_walls_moved(fsi_slip *s, const fsi_real *v) {
    for (int i = 0; s->columns && i < s->interface.sides; i++)
        s->wall[i] +=
            fsi__slip_through(s, i, v) - fsi__slip_through(s, i, fsi__slip_v_of(s, FSI__V_FREE));
}

/* M (v - v*) + B^T B v - push */
static void fsi__slip_impulses(const fsi_slip *s) {
    const fsi_interface *f = &s->interface;
    fsi_real *inner = fsi__slip_v_of(s, FSI__V_WORK);
    fsi_fill((size_t)s->columns, 0, inner);
    fsi__slip_implicit(s, fsi__slip_v_of(s, FSI__V_NEW), 1, inner);
    fsi__slip_push(s, -1, inner);
    for (int i = 0; i < f->solids; i++) {
        const fsi_coupled *b = f->solid[i];
        const fsi_real *old = fsi__slip_v_of(s, FSI__V_GIVEN) + s->offset[i];
        if (!fsi__slip_dof(s, i) || !b->impulse)
            continue;
        for (int j = 0; j < b->dof; j++) {
            b->impulse[j] =
                b->node ? b->mass[j / 3] * (b->v[j] - old[j]) + inner[s->offset[i] + j] : 0;
            for (int k = 0; !b->node && k < b->dof; k++)
                if (fsi__slip_movable(b, j) && fsi__slip_movable(b, k))
                    b->impulse[j] += b->mass[j * b->dof + k] * (b->v[k] - old[k]);
        }
    }
}

/* Does a constant pressure in these regions push a solid? */
static int fsi__slip_pushes(const fsi_slip *s, const int32_t *set, int n) {
    const fsi_interface *f = &s->interface;
    const fsi_mg *mg = s->grid->mg;
    fsi_real *x = s->vec[2], *w = fsi__slip_v_of(s, FSI__V_WORK);
    int any = 0;
    for (int i = 0; i < f->sides; i++) {
        int32_t label = mg->label[f->side[i].cell];
        int in = 0;
        for (int k = 0; label >= 0 && k < n; k++)
            in |= fsi__root(s->root, label) == set[k];
        x[f->side[i].cell] = (fsi_real)in;
        any |= in;
    }
    if (!any)
        return 0;
    fsi__slip_gather(s, x, w);
    return fsi_max_abs((size_t)s->columns, w) > FSI_R(1e-3);
}

/* Regions whose constant pressure pushes a solid are no null vectors. Several of them (both sides
 * of a plate) may be one together. */
static void fsi__slip_pushed(fsi_slip *s) {
    int32_t pushed[16];
    int n = 0;
    for (int32_t r = 0; s->columns && r < s->grid->mg->regions && n < 16; r++)
        if (fsi__root(s->root, r) == r && !(s->count[r] < 0) && fsi__slip_pushes(s, &r, 1))
            pushed[n++] = r;
    if (n && fsi__slip_pushes(s, pushed, n))
        for (int i = 0; i < n; i++)
            s->count[pushed[i]] = -1;
    else
        for (int i = 1; i < n; i++)
            fsi__slip_join(s->root, pushed[0], pushed[i]);
}

/* Pressure of the ghosts that goes with the cells' x: G^-1 (b + B^T x), B = conductances. */
static void fsi__slip_ghost_pressure(fsi_slip *s, const fsi_real *x, const fsi_real *b,
                                     fsi_real *out) {
    const fsi_interface *f = &s->interface;
    if (!s->ghosts)
        return;
    for (int i = 0; i < s->ghosts; i++)
        out[i] = b ? b[i] : 0;
    for (int i = 0; i < f->sides; i++)
        if (x)
            out[s->ghost[i]] += s->conduct[i] * x[f->side[i].cell];
    (void)fsi_cholesky_solve(&s->block, out, out);
}

/* Constants of the regions that the V-cycle leaves out: z += 1 (1.r) / (1.A 1). */
static void fsi__slip_coarse_build(fsi_slip *s) {
    const fsi_interface *f = &s->interface;
    const fsi_mg *mg = s->grid->mg;
    fsi_real k = s->grid->desc.rho * s->grid->h * fsi__area(&s->interface),
             *w = fsi__slip_v_of(s, FSI__V_WORK), *x = s->vec[2];
    for (int r = 0; r < 2 * mg->regions; r++)
        s->coarse[r] = 0;
    for (int r = 0; r < fsi__imin(mg->regions, 16); r++) {
        double most = 0;
        for (int i = 0; i < f->sides; i++)
            x[f->side[i].cell] = (fsi_real)(mg->label[f->side[i].cell] == r);
        fsi__slip_ghost_pressure(s, x, NULL, s->aux);
        for (int i = 0; i < f->sides; i++)
            if (mg->label[f->side[i].cell] == r) {
                s->coarse[r] += (double)(s->conduct[i] * (1 - s->aux[s->ghost[i]]));
                most += (double)s->conduct[i];
            }
        if (!(s->coarse[r] > 1e-6 * most))
            s->coarse[r] = 0;
        if (!s->columns)
            continue;
        fsi__slip_gather(s, x, w);
        fsi_copy((size_t)s->columns, w, fsi__slip_v_of(s, FSI__V_NEW));
        fsi__slip_K_solve(s, w);
        s->coarse[r] += (double)k * fsi_dot((size_t)s->columns, w, fsi__slip_v_of(s, FSI__V_NEW));
    }
}

static void fsi__slip_coarse(fsi_slip *s, const fsi_real *r, fsi_real *z) {
    const fsi_mg *mg = s->grid->mg;
    double *sum = s->coarse + mg->regions;
    if (!mg->regions)
        return;
    for (int i = 0; i < mg->regions; i++)
        sum[i] = 0;
    for (size_t c = 0; c < s->grid->cells; c++)
        if (mg->label[c] >= 0)
            sum[mg->label[c]] += (double)r[c];
    for (int i = 0; i < mg->regions; i++)
        sum[i] = s->coarse[i] > 0 ? sum[i] / s->coarse[i] : 0;
    for (size_t c = 0; c < s->grid->cells; c++)
        if (mg->label[c] >= 0)
            z[c] += (fsi_real)sum[mg->label[c]];
}

/* y = S x on the cells, ghosts eliminated: S = A + C - B G^-1 B^T. The correction is at most 1 /
 * ghost mass per side, so the V-cycle of A serves. */
static void fsi__slip_apply(const fsi_real *x, fsi_real *y, void *user) {
    fsi_slip *s = (fsi_slip *)user;
    const fsi_interface *f = &s->interface;
    fsi_mg_apply(s->grid->mg, x, y);
    fsi__slip_ghost_pressure(s, x, NULL, s->aux);
    for (int i = 0; i < f->sides; i++)
        y[f->side[i].cell] += s->conduct[i] * (x[f->side[i].cell] - s->aux[s->ghost[i]]);
}

/* solids eliminated */
static void fsi__slip_apply_two_way(const fsi_real *x, fsi_real *y, void *user) {
    fsi_slip *s = (fsi_slip *)user;
    fsi_real *w = fsi__slip_v_of(s, FSI__V_WORK);
    fsi__slip_apply(x, y, s);
    if (!s->columns)
        return;
    fsi__slip_gather(s, x, w);
    fsi__slip_K_solve(s, w);
    fsi__slip_scatter(s, w, s->grid->desc.rho * s->grid->h * fsi__area(&s->interface), y);
}

/* Unknowns (p, v): (A, rho h S J; rho h (S J)^T, -(rho h / A) K), symmetric and indefinite. */
static void fsi__slip_apply_indefinite(const fsi_real *x, fsi_real *y, void *user) {
    fsi_slip *s = (fsi_slip *)user;
    size_t n = s->grid->cells, m = (size_t)s->columns;
    fsi_real k = s->grid->desc.rho * s->grid->h, *w = fsi__slip_v_of(s, FSI__V_WORK);
    fsi__slip_apply(x, y, s);
    fsi__slip_scatter(s, x + n, k, y);
    fsi__slip_gather(s, x, y + n);
    fsi_csr_mul(&s->K, x + n, w);
    for (size_t i = 0; i < m; i++)
        y[n + i] = k * (y[n + i] - w[i] / fsi__area(&s->interface));
}

static void fsi__slip_precondition(const fsi_real *r, fsi_real *z, void *user) {
    fsi_slip *s = (fsi_slip *)user;
    fsi_mg_cycle(s->grid->mg, r, z);
    fsi__slip_coarse(s, r, z);
}

static void fsi__slip_precondition_indefinite(const fsi_real *r, fsi_real *z, void *user) {
    fsi_slip *s = (fsi_slip *)user;
    size_t n = s->grid->cells, m = (size_t)s->columns;
    fsi__slip_precondition(r, z, s);
    fsi_copy(m, r + n, z + n);
    fsi__slip_K_solve(s, z + n);
    for (size_t i = 0; i < m; i++)
        z[n + i] *= -fsi__area(&s->interface) / (s->grid->desc.rho * s->grid->h);
}

/* Takes the mean out of x over every region without given pressure. */
static void fsi__slip_project(fsi_real *x, void *user) {
    fsi_slip *s = (fsi_slip *)user;
    const fsi_mg *mg = s->grid->mg;
    size_t cells = s->grid->cells;
    int n = mg->regions + s->ghosts;
    for (int i = 0; i < n; i++) {
        s->sum[i] = 0;
        if (s->count[i] > 0)
            s->count[i] = 0;
    }
    for (size_t c = 0; c < cells; c++)
        if (mg->label[c] >= 0) {
            int32_t r = fsi__root(s->root, mg->label[c]);
            s->sum[r] += (double)x[c];
            if (s->count[r] >= 0)
                s->count[r] += 1;
        }
    for (int i = 0; i < n; i++)
        s->sum[i] = s->count[i] > 0 ? s->sum[i] / s->count[i] : 0;
    for (size_t c = 0; c < cells; c++)
        if (mg->label[c] >= 0)
            x[c] -= (fsi_real)s->sum[fsi__root(s->root, mg->label[c])];
}

/* ---- The solve. */
/* Sides, and what is known of the solids there. */
static fsi_result fsi__slip_sides(fsi_slip *s) {
    fsi_interface *f = &s->interface;
    int longest = 1;
    fsi__slip_forget(s);
    fsi__slip_room(s->heap);
    fsi_result r = fsi_grid_classify(s->grid);
    if (r >= 0)
        r = fsi_interface_sides(f, s->grid);
    if (r < 0)
        return r;
    for (int i = 0; i < f->solids; i++) {
        longest = fsi__imax(longest, f->solid[i]->dof);
        if (s->desc.coefficient && !(s->desc.coefficient[i] >= 0 && s->desc.coefficient[i] <= 1))
            return FSI_ERR_ARGUMENT;
    }
    int n = f->sides;
    FSI__SLIP_TAKE(s, s->ghost, int32_t, n);
    FSI__SLIP_TAKE(s, s->group, int32_t, n);
    FSI__SLIP_TAKE(s, s->group_open, uint8_t, n);
    FSI__SLIP_TAKE(s, s->spot, uint64_t, 2 * n);
    FSI__SLIP_TAKE(s, s->flux, fsi_real, n);
    FSI__SLIP_TAKE(s, s->velocity, fsi_vec3, n);
    FSI__SLIP_TAKE(s, s->body, fsi_vec3, n);
    FSI__SLIP_TAKE(s, s->wall, fsi_real, n);
    FSI__SLIP_TAKE(s, s->conduct, fsi_real, n);
    FSI__SLIP_TAKE(s, s->rate, fsi_real, n);
    FSI__SLIP_TAKE(s, s->mass, fsi_real, n);
    FSI__SLIP_TAKE(s, s->stick, fsi_real, n);
    FSI__SLIP_TAKE(s, s->push, fsi_real, n);
    FSI__SLIP_TAKE(s, s->row, fsi_real, longest);
    if (s->heap->failed)
        return FSI_ERR_MEMORY;
    for (int i = 0; i < f->sides; i++) {
        const fsi_side *side = f->side + i;
        s->conduct[i] =
            !(side->mass > 0) ? 0 : fsi__slip_coefficient(s, side->solid) / FSI__SLIP_GHOST_MASS;
        s->mass[i] = s->desc.form == FSI_SLIP_PAPER ? 0 : side->mass;
        s->body[i] = fsi__slip_body_velocity(s, side);
        s->wall[i] = f->solid[side->solid]->dof
                         ? fsi_interface_velocity(f, side, f->solid[side->solid]->v)
                         : fsi__get(s->body[i], side->axis);
    }
    return r;
}

static fsi_result fsi__slip_prepare(fsi_slip *s, fsi_real dt) {
    fsi_interface *f = &s->interface;
    fsi_grid *g = s->grid;
    fsi_result r = fsi__slip_sides(s);
    if (r < 0)
        return r;
    fsi__slip_rates(s, dt);
    for (int i = 0; i < f->sides; i++)
        f->velocity[f->side[i].axis][f->side[i].face] = 0;
    r = fsi_grid_build_pressure(g, dt);
    if (r >= 0)
        r = fsi_mg_update(g->mg, g->cell,
                          g->weights_are_one ? NULL : (const fsi_real *const *)g->weight);
    if (r < 0)
        return r;
    fsi__slip_ghosts(s);
    if (!fsi__slip_links(s))
        return FSI_ERR_MEMORY;
    r = fsi__slip_columns(s);
    if (r >= 0)
        r = fsi__slip_tie(s, dt);
    if (r >= 0)
        r = fsi__slip_rows(s);
    if (r >= 0)
        r = fsi__slip_K_factor(s, &s->Y, s->mass);
    if (r < 0)
        return r;
    fsi__slip_give(s, fsi__slip_v_of(s, FSI__V_STAR));
    for (int i = 0; i < f->sides; i++)
        if (fsi__slip_dof(s, f->side[i].solid) > 0)
            s->wall[i] = fsi_interface_velocity(f, f->side + i, f->solid[f->side[i].solid]->v);
    size_t n = (size_t)g->mg->regions + (size_t)s->ghosts;
    FSI__SLIP_TAKE(s, s->link_flux, fsi_real, s->links);
    FSI__SLIP_TAKE(s, s->root, int32_t, n);
    FSI__SLIP_TAKE(s, s->sum, double, n);
    FSI__SLIP_TAKE(s, s->count, double, n);
    FSI__SLIP_TAKE(s, s->coarse, double, 2 * g->mg->regions);
    FSI__SLIP_TAKE(s, s->aux, fsi_real, s->ghosts);
    for (int i = 0; i < 4; i++)
        FSI__SLIP_TAKE(s, s->vec[i], fsi_real, g->cells + (size_t)s->ghosts + (size_t)s->columns);
    if (s->heap->failed)
        return FSI_ERR_MEMORY;
    fsi__slip_regions(s);
    r = fsi__slip_factor(s, 1, &s->start);
    if (r == FSI_OK)
        r = fsi__slip_factor(s, 0, &s->block);
    if (r == FSI_OK)
        fsi__slip_coarse_build(s);
    s->rank.columns = 0;
    if (r == FSI_OK && s->columns && s->desc.solver == FSI_SLIP_CG
        && s->desc.form == FSI_SLIP_REPAIRED)
        r = fsi__slip_rank(s);
    return r;
}

/* scale times what flows out of every ghost */
static void fsi__slip_ghost_outflow(const fsi_slip *s, fsi_real scale, fsi_real *out) {
    fsi_fill((size_t)s->ghosts, 0, out);
    for (int i = 0; i < s->interface.sides; i++)
        out[s->ghost[i]] -= scale * s->flux[i];
    for (int i = 0; i < s->links; i++) {
        out[s->link[i].a] += scale * s->link_flux[i];
        if (s->link[i].b >= 0)
            out[s->link[i].b] -= scale * s->link_flux[i];
    }
}

/* b = -rho h * outflow of the starts, in cells and ghosts. */
static void fsi__slip_rhs(const fsi_slip *s, fsi_real *b) {
    const fsi_interface *f = &s->interface;
    fsi_real scale = -s->grid->desc.rho * s->grid->h;
    fsi_copy(s->grid->cells, s->grid->rhs, b);
    for (int i = 0; i < f->sides; i++)
        b[f->side[i].cell] +=
            scale * (s->flux[i] + f->side[i].share * (fsi_real)f->side[i].sign * s->wall[i]);
    fsi__slip_ghost_outflow(s, scale, b + s->grid->cells);
}

/* u = u* - grad p^ / rho; fluxes likewise. */
static fsi_result fsi__slip_update(fsi_slip *s, const fsi_real *p) {
    const fsi_interface *f = &s->interface;
    const fsi_real *pg = p + s->grid->cells, scale = 1 / (s->grid->desc.rho * s->grid->h),
                   k = scale / FSI__SLIP_GHOST_MASS;
    fsi_copy(s->grid->cells, p, s->grid->pressure);
    for (int i = 0; i < f->sides; i++)
        s->flux[i] += scale * s->conduct[i] * (p[f->side[i].cell] - pg[s->ghost[i]]);
    for (int i = 0; i < s->links; i++)
        s->link_flux[i] += k * (pg[s->link[i].a] - (s->link[i].b >= 0 ? pg[s->link[i].b] : 0));
    return fsi_grid_apply_pressure(s->grid);
}

/* b: cells, then ghosts; x likewise. pass > 0: x holds the pressure of the pass before. */
static fsi_result fsi__slip_cg(fsi_slip *s, const fsi_real *b, fsi_real *x, int pass,
                               fsi_report *report) {
    const fsi_interface *f = &s->interface;
    size_t n = s->grid->cells, m = (size_t)s->columns;
    fsi_real *v0 = fsi__slip_v_of(s, FSI__V_FREE), *v = fsi__slip_v_of(s, FSI__V_NEW),
             *B = s->vec[1], *X = s->vec[2];
    fsi_krylov_desc d;
    int indefinite = s->desc.solver == FSI_SLIP_INDEFINITE && m;
    memset(&d, 0, sizeof d);
    d.n = indefinite ? n + m : n;
    d.A.apply_fn = indefinite ? fsi__slip_apply_indefinite : fsi__slip_apply_two_way;
    d.precondition.apply_fn =
        indefinite ? fsi__slip_precondition_indefinite : fsi__slip_precondition;
    d.A.user = d.precondition.user = s;
    d.project_fn = fsi__slip_project;
    d.project_user = s;
    d.tolerance = s->desc.tolerance > 0 ? s->desc.tolerance : s->grid->desc.tolerance;
    d.tolerance_abs = s->grid->noise;
    d.max_iterations = s->desc.max_iterations ? s->desc.max_iterations : 2000;
    d.allocator = fsi__slip_memory(s);
    d.guess = pass > 0;
    fsi_copy(n, b, B);
    fsi__slip_ghost_pressure(s, NULL, b + n, s->aux);
    for (int k = 0; k < f->sides; k++)
        B[f->side[k].cell] += s->conduct[k] * s->aux[s->ghost[k]];
    fsi_fill(m, 0, B + n); /* v = v0 + what the pressure adds */
    if (d.guess) {
        fsi_copy(n, x, X);
        for (size_t i = 0; i < m; i++)
            X[n + i] = v[i] - v0[i];
    }
    s->grid->mg->rank = !indefinite && s->rank.columns ? &s->rank : NULL;
    fsi_result r = indefinite ? fsi_symmqmr_solve(&d, B, X, NULL, 0, report)
                              : fsi_cg_solve(&d, B, X, NULL, 0, report);
    s->grid->mg->rank = NULL;
    if (r < 0)
        return r;
    fsi_copy(n, X, x);
    fsi__slip_ghost_pressure(s, x, b + n, x + n);
    if (!m)
        return r;
    if (indefinite)
        fsi_copy(m, X + n, v);
    else {
        fsi__slip_gather(s, x, v);
        fsi__slip_K_solve(s, v);
        fsi_scale(m, fsi__area(&s->interface), v);
    }
    for (size_t i = 0; i < m; i++)
        v[i] += v0[i];
    return r;
}

/* ---- The paper's system (eq. 10, 12, 16, top right-hand side with its sign corrected), kept as
   reference. With mu = lambda + S p, S = sign N_axis of a side, its modified divergence becomes x =
   (p, mu), v = v* - D^T p - C^T mu, row s of C = N^T W: own v_occ along the axis, mean of the
   cell's two samples across it; C v = Q V, Q = N^T J; outflow of the cell through a side S Q V +
   v_ghost. Two-way K V = M V* + m Q^T (mu - S p), m = rho h^dim; eliminated the block m [-S, 1]^T Q
   K^-1 Q^T [-S, 1] is added (CG), kept it is (p, mu, V) by SYMMQMR with incomplete Cholesky of the
   (p, mu) block and -K below. */
typedef struct fsi__paper {
    fsi_slip *s;
    fsi_csr C, Q, A; /* A: assembled (p, mu) block with ghosts, compact cells (SYMMQMR) */
    fsi_ic ic;
    int32_t *map;                /* [cells + 1] compact numbers */
    fsi_real *z, *w;             /* [samples] regular faces of all axes, then v_occ of the sides */
    fsi_real *diagonal, *target; /* [sides] of C C^T; N^T V_s less what prescribed faces give */
    size_t base[4], samples;     /* where the faces of an axis begin, and v_occ */
} fsi__paper;

/* Row W of a side: the sample in a direction of its cell and its weight (own v_occ along the axis,
 * half of each sample across it), or -1. */
static ptrdiff_t fsi__paper_sample(const fsi__paper *q, int side, int dir, fsi_real *weight) {
    const fsi_interface *f = &q->s->interface;
    int axis = dir / 2, along = axis == f->side[side].axis,
        other = fsi__slip_side(f, (size_t)f->side[side].cell, dir);
    if (along && other != side)
        return -1;
    size_t face;
    (void)fsi__slip_next(f, (size_t)f->side[side].cell, dir, &face);
    *weight = along ? 1 : FSI_R(0.5);
    return (ptrdiff_t)(other >= 0 ? q->base[3] + (size_t)other : q->base[axis] + face);
}

/* C = N^T W. */
static fsi_result fsi__paper_rows(fsi__paper *q) {
    fsi_slip *s = q->s;
    const fsi_interface *f = &s->interface;
    const fsi_allocator memory = fsi__slip_memory(s);
    fsi__slip_entries e;
    if (fsi__slip_entries_take(s, (size_t)f->sides * 5, &e) != FSI_OK)
        return FSI_ERR_MEMORY;
    for (int k = 0; k < f->sides; k++) {
        q->target[k] = fsi_vec_dot(f->side[k].normal, s->body[k]);
        for (int dir = 0; dir < 2 * f->dim; dir++) {
            int axis = dir / 2;
            fsi_real c;
            ptrdiff_t at = fsi__paper_sample(q, k, dir, &c), face = at - (ptrdiff_t)q->base[axis];
            if (at < 0)
                continue;
            c *= fsi__get(f->side[k].normal, axis);
            if (at < (ptrdiff_t)q->base[3] && !(s->grid->weight[axis][face] > 0)) {
                q->target[k] -= c * s->grid->u[axis][face];
                continue;
            }
            fsi__slip_put(&e, k, (int32_t)at, c);
            q->diagonal[k] += c * c;
        }
    }
    return fsi_csr_from_triplets(&q->C, f->sides, (int)q->samples, e.count, e.i, e.j, e.v, &memory);
}

/* z += D^T x on regular faces (up = 0), or y += D z (up = 1). */
static void fsi__paper_faces(const fsi__paper *q, const fsi_real *x, fsi_real *y, int up) {
    const fsi_slip *s = q->s;
    size_t face;
    for (size_t c = 0; c < s->grid->cells; c++)
        for (int dir = 0; s->grid->cell[c] == FSI_CELL_FLUID && dir < 2 * s->grid->dim; dir++) {
            fsi_real sign = (fsi_real)(dir & 1 ? 1 : -1);
            (void)fsi__slip_next(&s->interface, c, dir, &face);
            if (!(s->grid->weight[dir / 2][face] > 0))
                continue;
            if (up)
                y[c] += sign * x[q->base[dir / 2] + face];
            else
                y[q->base[dir / 2] + face] += sign * x[c];
        }
}

static fsi_result fsi__paper_solid_rows(fsi__paper *q) { /* Q = N^T J */
    const fsi_interface *f = &q->s->interface;
    size_t room = 0;
    for (int k = 0; k < f->sides; k++)
        room += fsi__slip_row_room(q->s, f->side + k);
    if (fsi__slip_rows_take(q->s, f->sides, room, &q->Q) != FSI_OK)
        return FSI_ERR_MEMORY;
    for (int k = 0; k < f->sides; k++)
        fsi__slip_row(q->s, f->side + k, f->side[k].normal, &q->Q);
    return FSI_OK;
}

static fsi_real fsi__paper_S(const fsi_side *d) {
    return (fsi_real)d->sign * fsi__get(d->normal, d->axis);
}

/* w = Q^T (mu - S p) */
static void fsi__paper_push(const fsi__paper *q, const fsi_real *p, const fsi_real *mu,
                            fsi_real *w) {
    const fsi_interface *f = &q->s->interface;
    for (int k = 0; k < f->sides; k++)
        q->s->push[k] = mu[k] - fsi__paper_S(f->side + k) * p[f->side[k].cell];
    fsi_csr_tmul(&q->Q, q->s->push, w);
}

/* p, mu += scale [-S, 1]^T Q v */
static void fsi__paper_pull(const fsi__paper *q, const fsi_real *v, fsi_real scale, fsi_real *p,
                            fsi_real *mu) {
    const fsi_interface *f = &q->s->interface;
    fsi_csr_mul(&q->Q, v, q->s->push);
    for (int k = 0; k < f->sides; k++) {
        mu[k] += scale * q->s->push[k];
        p[f->side[k].cell] -= scale * fsi__paper_S(f->side + k) * q->s->push[k];
    }
}

static fsi_real fsi__paper_mass(const fsi_slip *s) {
    return s->grid->desc.rho * s->grid->h * fsi__area(&s->interface);
}

static void fsi__paper_apply(const fsi_real *x, fsi_real *y, void *user) {
    fsi__paper *q = (fsi__paper *)user;
    fsi_real *w = fsi__slip_v_of(q->s, FSI__V_WORK);
    size_t n = q->s->grid->cells;
    fsi__slip_apply(x, y, q->s);
    fsi_csr_tmul(&q->C, x + n, q->z); /* C^T mu */
    fsi__paper_faces(q, q->z, y, 1);
    fsi__paper_faces(q, x, q->z, 0);
    fsi_csr_mul(&q->C, q->z, y + n);
    if (!q->s->columns)
        return;
    fsi__paper_push(q, x, x + n, w);
    fsi__slip_K_solve(q->s, w);
    fsi__paper_pull(q, w, fsi__paper_mass(q->s), y, y + n);
}

static void fsi__paper_precondition(const fsi_real *r, fsi_real *z, void *user) {
    fsi__paper *q = (fsi__paper *)user;
    size_t n = q->s->grid->cells;
    fsi__slip_precondition(r, z, q->s);
    for (int k = 0; k < q->s->interface.sides; k++)
        z[n + (size_t)k] = r[n + (size_t)k] / fsi__max(q->diagonal[k], FSI_R(1e-3));
}

static void fsi__paper_project(fsi_real *x, void *user) {
    fsi__slip_project(x, ((fsi__paper *)user)->s);
}

/* The (p, mu) block assembled: cells and ghosts as in the matrix above, D C^T and C C^T through the
 * samples that rows of C share. */
static void fsi__paper_fill(const fsi__paper *q, const fsi_csr *T, fsi__slip_entries *e) {
    const fsi_slip *s = q->s;
    const fsi_interface *f = &s->interface;
    const int32_t ghosts = q->map[s->grid->cells], sides = ghosts + s->ghosts;
    size_t face;
    e->count = 0;
    for (int k = 0; k < s->links; k++)
        fsi__slip_put_pair(e, ghosts + s->link[k].a, s->link[k].b < 0 ? -1 : ghosts + s->link[k].b,
                           1 / FSI__SLIP_GHOST_MASS);
    for (int k = 0; k < f->sides; k++)
        fsi__slip_put_pair(e, ghosts + s->ghost[k], q->map[f->side[k].cell], s->conduct[k]);
    size_t j;
    for (size_t c = 0; c < s->grid->cells; c++)
        for (int dir = 0; q->map[c] >= 0 && dir < 2 * f->dim; dir++) {
            ptrdiff_t m = fsi__slip_next(f, c, dir, &face);
            fsi_real w = s->grid->weight[dir / 2][face];
            fsi__slip_put(e, q->map[c], q->map[c], w);
            if (m >= 0 && q->map[m] >= 0)
                fsi__slip_put(e, q->map[c], q->map[m], -w);
            if (!(w > 0))
                continue;
            j = q->base[dir / 2] + face;
            for (int k = T->row[j]; k < T->row[j + 1]; k++) {
                fsi_real v = (fsi_real)(dir & 1 ? 1 : -1) * T->val[k];
                fsi__slip_put(e, q->map[c], sides + T->col[k], v);
                fsi__slip_put(e, sides + T->col[k], q->map[c], v);
            }
        }
    for (j = 0; j < (size_t)T->rows; j++)
        for (int k = T->row[j]; k < T->row[j + 1]; k++)
            for (int l = T->row[j]; l < T->row[j + 1]; l++)
                fsi__slip_put(e, sides + T->col[k], sides + T->col[l], T->val[k] * T->val[l]);
}

static fsi_result fsi__paper_assemble(fsi__paper *q) {
    fsi_slip *s = q->s;
    fsi__slip_entries e = {NULL, NULL, NULL, 0, 0};
    fsi_ic_desc d;
    int k = 0;
    memset(&d, 0, sizeof d);
    d.allocator = fsi__slip_memory(s);
    if (!FSI__SLIP_TAKE(s, q->map, int32_t, s->grid->cells))
        return FSI_ERR_MEMORY;
    for (size_t c = 0; c < s->grid->cells; c++)
        q->map[c] = s->grid->cell[c] == FSI_CELL_FLUID ? k++ : -1;
    q->map[s->grid->cells] = k;
    int n = k + s->ghosts + s->interface.sides;
    fsi_csr T;
    fsi_result r = fsi_csr_transpose(&q->C, &T, &d.allocator);
    if (r != FSI_OK)
        return r;
    fsi__paper_fill(q, &T, &e); /* counts */
    r = fsi__slip_entries_take(s, e.count, &e);
    if (r != FSI_OK)
        return r;
    fsi__paper_fill(q, &T, &e);
    r = fsi_csr_from_triplets(&q->A, n, n, e.count, e.i, e.j, e.v, &d.allocator);
    return r == FSI_OK ? fsi_ic_init(&q->ic, &q->A, &d) : r;
}

/* (cells, sides) <-> compact (cells, ghosts, sides). */
static void fsi__paper_spread(const fsi__paper *q, const fsi_real *x, fsi_real *full,
                              fsi_real *mu) {
    size_t cells = q->s->grid->cells, sides = (size_t)q->map[cells] + (size_t)q->s->ghosts;
    for (size_t c = 0; c < cells; c++)
        full[c] = q->map[c] >= 0 ? x[q->map[c]] : 0;
    fsi_copy((size_t)q->s->interface.sides, x + sides, mu);
}

static void fsi__paper_apply_kept(const fsi_real *x, fsi_real *y, void *user) {
    fsi__paper *q = (fsi__paper *)user;
    fsi_slip *s = q->s;
    size_t n = (size_t)q->A.rows, m = (size_t)s->columns, sides = n - (size_t)s->interface.sides;
    fsi_real *p = s->vec[2], *mu = q->w, *w = fsi__slip_v_of(s, FSI__V_WORK);
    fsi_csr_mul(&q->A, x, y);
    fsi__paper_spread(q, x, p, mu);
    fsi__paper_push(q, p, mu, y + n);
    fsi_csr_mul(&s->K, x + n, w);
    for (size_t i = 0; i < m; i++)
        y[n + i] -= w[i] / fsi__paper_mass(s);
    fsi_fill(s->grid->cells, 0, p);
    fsi_fill((size_t)s->interface.sides, 0, mu);
    fsi__paper_pull(q, x + n, 1, p, mu);
    for (size_t i = 0; i < s->grid->cells; i++)
        if (q->map[i] >= 0)
            y[q->map[i]] += p[i];
    for (size_t i = 0; i < (size_t)s->interface.sides; i++)
        y[sides + i] += mu[i];
}

static void fsi__paper_precondition_kept(const fsi_real *r, fsi_real *z, void *user) {
    fsi__paper *q = (fsi__paper *)user;
    size_t n = (size_t)q->A.rows, m = (size_t)q->s->columns;
    (void)fsi_ic_solve(&q->ic, r, z);
    fsi_copy(m, r + n, z + n);
    fsi__slip_K_solve(q->s, z + n);
    fsi_scale(m, -fsi__paper_mass(q->s), z + n);
}

/* v* of all samples into z: regular faces and the starts of v_occ. */
static void fsi__paper_samples(const fsi__paper *q) {
    const fsi_slip *s = q->s;
    for (int a = 0; a < s->grid->dim; a++)
        fsi_copy(s->grid->faces[a], s->grid->u[a], q->z + q->base[a]);
    for (int k = 0; k < s->interface.sides; k++)
        q->z[q->base[3] + (size_t)k] = fsi__get(s->velocity[k], s->interface.side[k].axis);
}

/* W v at every side from the samples in z */
static void fsi__paper_surface(const fsi__paper *q) {
    const fsi_interface *f = &q->s->interface;
    for (int k = 0; k < f->sides; k++) {
        fsi_real v[3] = {0, 0, 0}, weight;
        for (int dir = 0; dir < 2 * f->dim; dir++) {
            ptrdiff_t at = fsi__paper_sample(q, k, dir, &weight);
            if (at >= 0)
                v[dir / 2] += weight * q->z[at];
        }
        q->s->velocity[k] = fsi_vec_load(v);
    }
}

/* b, x: cells, sides; bg: ghosts. */
static fsi_result fsi__paper_cg(fsi__paper *q, fsi_real *b, fsi_real *x, const fsi_real *bg,
                                fsi_krylov_desc *d, fsi_report *rep) {
    fsi_slip *s = q->s;
    const fsi_interface *f = &s->interface;
    fsi__slip_ghost_pressure(s, NULL, bg, s->aux);
    for (int k = 0; k < f->sides; k++)
        b[f->side[k].cell] += s->conduct[k] * s->aux[s->ghost[k]];
    d->n = s->grid->cells + (size_t)f->sides;
    d->A.apply_fn = fsi__paper_apply;
    d->precondition.apply_fn = fsi__paper_precondition;
    if (!s->columns)
        d->project_fn = fsi__paper_project;
    return fsi_cg_solve(d, b, x, NULL, 0, rep);
}

static fsi_result fsi__paper_qmr(fsi__paper *q, const fsi_real *b, fsi_real *x, const fsi_real *bg,
                                 fsi_krylov_desc *d, fsi_report *rep) {
    fsi_slip *s = q->s;
    size_t cells = s->grid->cells, sides = (size_t)s->interface.sides, m = (size_t)s->columns;
    fsi_result r = fsi__paper_assemble(q);
    if (r < 0)
        return r;
    size_t n = (size_t)q->A.rows;
    fsi_real *B;
    FSI__SLIP_TAKE(s, B, fsi_real, n + m);
    fsi_real *X;
    FSI__SLIP_TAKE(s, X, fsi_real, n + m);
    if (s->heap->failed)
        return FSI_ERR_MEMORY;
    for (size_t i = 0; i < cells; i++)
        if (q->map[i] >= 0)
            B[q->map[i]] = b[i];
    fsi_copy((size_t)s->ghosts, bg, B + q->map[cells]);
    fsi_copy(sides, b + cells, B + n - sides);
    d->n = n + m;
    d->A.apply_fn = fsi__paper_apply_kept;
    d->precondition.apply_fn = fsi__paper_precondition_kept;
    r = fsi_symmqmr_solve(d, B, X, NULL, 0, rep);
    if (r < 0)
        return r;
    fsi__paper_spread(q, X, x, x + cells);
    fsi_copy(m, X + n, fsi__slip_v_of(s, FSI__V_NEW));
    return r;
}

/* The solids' velocity v, and as the paper has it at the walls. */
static void fsi__paper_walls(fsi_slip *s, const fsi_real *v) {
    const fsi_interface *f = &s->interface;
    fsi__slip_give(s, v);
    for (int k = 0; k < f->sides; k++)
        s->wall[k] = fsi__get(f->side[k].normal, f->side[k].axis)
                     * fsi_vec_dot(f->side[k].normal, s->body[k]);
}

static void fsi__paper_finish(fsi__paper *q, const fsi_real *x, const fsi_real *bg, int kept) {
    fsi_slip *s = q->s;
    fsi_grid *g = s->grid;
    size_t n = g->cells, m = (size_t)s->columns;
    fsi_real scale = g->desc.rho * g->h, *v0 = fsi__slip_v_of(s, FSI__V_FREE),
             *v = fsi__slip_v_of(s, FSI__V_NEW);
    if (m && !kept) {
        fsi__paper_push(q, x, x + n, v);
        fsi__slip_K_solve(s, v);
        fsi_scale(m, fsi__paper_mass(s), v);
    }
    for (size_t i = 0; i < m; i++)
        v[i] += v0[i];
    if (m)
        fsi__paper_walls(s, v);
    fsi__slip_ghost_pressure(s, x, bg, s->vec[0] + n);
    for (size_t i = 0; i < n; i++)
        s->vec[0][i] = -scale * x[i];
    for (size_t i = 0; i < (size_t)s->ghosts; i++)
        s->vec[0][n + i] *= -scale;
    fsi_csr_tmul(&q->C, x + n, q->w);
    (void)fsi__slip_update(s, s->vec[0]);
    fsi__paper_samples(q);
    for (size_t i = 0; i < q->samples; i++)
        q->z[i] -= q->w[i];
    for (int a = 0; a < g->dim; a++)
        fsi_copy(g->faces[a], q->z + q->base[a], g->u[a]);
    fsi__paper_surface(q);
}

static fsi_result fsi__paper_solve(fsi_slip *s, fsi_report *rep) {
    fsi_grid *g = s->grid;
    size_t n = g->cells, sides = (size_t)s->interface.sides;
    fsi_real scale = g->desc.rho * g->h, *bg = s->vec[3] + n;
    int kept = s->columns && s->desc.solver == FSI_SLIP_INDEFINITE;
    fsi__paper q;
    memset(&q, 0, sizeof q);
    fsi_krylov_desc d;
    memset(&d, 0, sizeof d);
    q.s = s;
    for (int a = 0; a < g->dim; a++)
        q.base[a + 1] = q.base[a] + g->faces[a];
    q.base[3] = q.base[g->dim];
    q.samples = q.base[3] + sides;
    fsi_real *b;
    FSI__SLIP_TAKE(s, b, fsi_real, n + sides);
    fsi_real *x;
    FSI__SLIP_TAKE(s, x, fsi_real, n + sides);
    FSI__SLIP_TAKE(s, q.z, fsi_real, q.samples);
    FSI__SLIP_TAKE(s, q.w, fsi_real, q.samples);
    FSI__SLIP_TAKE(s, q.diagonal, fsi_real, sides);
    FSI__SLIP_TAKE(s, q.target, fsi_real, sides);
    if (s->heap->failed)
        return FSI_ERR_MEMORY;
    fsi__slip_estimate(s, 1);
    fsi__slip_free_velocity(s);
    fsi__slip_start(s);
    fsi__slip_regions(s);
    fsi__paper_walls(s, fsi__slip_v_of(s, FSI__V_FREE));
    fsi_result r = fsi__paper_rows(&q);
    if (r >= 0)
        r = fsi__paper_solid_rows(&q);
    if (r < 0)
        return r;
    fsi__slip_rhs(s, s->vec[3]);
    for (size_t i = 0; i < n; i++)
        b[i] = s->vec[3][i] / -scale; /* D v* */
    for (size_t i = 0; i < (size_t)s->ghosts; i++)
        bg[i] /= -scale;
    fsi__paper_samples(&q);
    fsi_csr_mul(&q.C, q.z, b + n);
    for (size_t i = 0; i < sides; i++)
        b[n + i] -= q.target[i];
    d.A.user = d.precondition.user = d.project_user = &q;
    d.tolerance = s->desc.tolerance > 0 ? s->desc.tolerance : g->desc.tolerance;
    d.max_iterations = s->desc.max_iterations ? s->desc.max_iterations : 20000;
    d.allocator = fsi__slip_memory(s);
    r = kept ? fsi__paper_qmr(&q, b, x, bg, &d, rep) : fsi__paper_cg(&q, b, x, bg, &d, rep);
    if (r >= 0)
        fsi__paper_finish(&q, x, bg, kept);
    return r;
}

static void fsi__slip_finish(fsi_slip *s) {
    fsi_interface *f = &s->interface;
    for (int i = 0; i < f->sides; i++) {
        const fsi_side *side = f->side + i;
        if (!side->shell)
            f->velocity[side->axis][side->face] = s->wall[i] + (fsi_real)side->sign * s->flux[i];
        if (side->mass > 0 || !(s->grid->weight[side->axis][side->face] > 0))
            fsi_interface_set_sample(f, s->grid, side, fsi__get(s->velocity[i], side->axis));
    }
}

static fsi_result fsi__slip_passes(fsi_slip *s, fsi_report *rep) {
    fsi_grid *g = s->grid;
    fsi_result r = FSI_OK, worst = FSI_OK;
    int passes = s->desc.passes ? s->desc.passes : 3;
    for (int k = 0; k < g->dim; k++)
        fsi_copy(g->faces[k], g->u[k], s->u[k]);
    for (int pass = 0; pass < passes && r >= 0; pass++) {
        fsi_report one;
        memset(&one, 0, sizeof one);
        fsi__slip_estimate(s, 1);
        if (!pass && s->columns) {
            fsi__slip_free_velocity(s);
            fsi__slip_give(s, fsi__slip_v_of(s, FSI__V_FREE));
            fsi__slip_estimate(s, 1);
        }
        fsi__slip_start(s);
        fsi__slip_regions(s);
        fsi__slip_pushed(s);
        fsi__slip_walls(s, fsi__slip_v_of(s, pass ? FSI__V_NEW : FSI__V_FREE));
        fsi__slip_rhs(s, s->vec[3]);
        for (int k = 0; k < g->dim; k++)
            fsi_copy(g->faces[k], s->u[k], g->u[k]);
        r = fsi__slip_cg(s, s->vec[3], s->vec[0], pass, &one);
        if (r < 0)
            break;
        worst = r > worst ? r : worst;
        rep->iterations += one.iterations;
        rep->residual = one.residual;
        if (!pass)
            rep->residual_start = one.residual_start;
        r = fsi__slip_update(s, s->vec[0]);
        fsi__slip_give(s, fsi__slip_v_of(s, FSI__V_NEW));
        fsi__slip_walls_moved(s, fsi__slip_v_of(s, FSI__V_NEW));
    }
    return r < 0 ? r : worst;
}

FSI_API fsi_result fsi_slip_solve(fsi_slip *slip, fsi_real dt, fsi_report *report) {
    fsi_slip *s = slip;
    if (!s || !s->memory)
        return FSI_ERR_STATE;
    if (!(dt > 0) || !fsi__finite(dt) || !fsi__slip_desc_valid(&s->desc))
        return FSI_ERR_ARGUMENT;
    fsi_report rep;
    memset(&rep, 0, sizeof rep);
    s->dt = dt;
    s->stepped = 0;
    fsi_result r = fsi__slip_prepare(s, dt);
    if (r >= 0)
        r = s->desc.form == FSI_SLIP_PAPER ? fsi__paper_solve(s, &rep) : fsi__slip_passes(s, &rep);
    if (r < 0) {
        fsi__slip_give(s, fsi__slip_v_of(s, FSI__V_GIVEN)); /* v* back */
        s->interface.sides = 0;                             /* their lists may be missing */
        return r;
    }
    fsi__slip_impulses(s);
    if (s->desc.form != FSI_SLIP_PAPER)
        fsi__slip_estimate(s, 0);
    fsi__slip_finish(s);
    rep.reason = r;
    s->report = rep;
    if (report)
        *report = rep;
    return r;
}

/* b, or the point of a -> b just before the first surface. */
static fsi_vec3 fsi__slip_until(const fsi_slip *s, fsi_vec3 a, fsi_vec3 b) {
    fsi_vec3 d = fsi_vec_sub(b, a);
    fsi_hit hit;
    int solid;
    if (!fsi_interface_first_hit(&s->interface, a, b, &hit, &solid))
        return b;
    return fsi_vec_mad(
        a, d,
        fsi__max(
            hit.t - FSI_R(1e-3) * s->grid->h / fsi__max(fsi__length(d), FSI_R(1e-6) * s->grid->h),
            0));
}

/* Where the flow carries a point over dt (midpoint rule), not beyond the box; the middle of the
 * path is looked up short of surfaces. */
static fsi_vec3 fsi__slip_drift(const fsi_slip *s, fsi_vec3 a, fsi_real dt) {
    const fsi_grid *g = s->grid;
    fsi_vec3 m = fsi__slip_until(s, a, fsi_vec_mad(a, fsi_grid_velocity_at(g, a), dt / 2));
    fsi_real x[3];
    fsi_vec_store(x, fsi_vec_mad(a, fsi_grid_velocity_at(g, m), dt));
    for (int k = 0; k < g->dim; k++)
        x[k] = fsi__clamp(x[k], fsi__get(g->origin, k),
                          fsi__get(g->origin, k) + g->h * (fsi_real)s->interface.n[k]);
    return fsi_vec_load(x);
}

/* count points with the flow; stop: before surfaces as they are now */
static void fsi__slip_flow(const fsi_slip *s, fsi_real dt, int count, fsi_real *x, int stop) {
    FSI__OMP(parallel for schedule(static) if (count > 1000))
    for (ptrdiff_t i = 0; i < count; i++) {
        fsi_vec3 a = fsi_vec_load(x + 3 * i), b = fsi__slip_drift(s, a, dt);
        fsi_vec_store(x + 3 * i, stop ? fsi__slip_until(s, a, b) : b);
    }
}

FSI_API fsi_result fsi_slip_trace(const fsi_slip *slip, fsi_real dt, int count, fsi_real *x) {
    if (!slip || !slip->memory)
        return FSI_ERR_STATE;
    if (!fsi__finite(dt) || count < 0 || (count && !x) || !fsi_all_finite(3 * (size_t)count, x))
        return FSI_ERR_ARGUMENT;
    fsi__slip_flow(slip, dt, count, x, 1);
    return FSI_OK;
}

/* ---- Tracers beside moving surfaces. Point and vertices move straight from their old to their new
   place; a point that would meet an element on the way slides along it, on its own side. */
typedef struct fsi__sweep_hit {
    fsi_real t, w[3];
    int solid, element, below;
    const fsi_real *was;
} fsi__sweep_hit;

/* Does the point p -> q meet the element a -> b? The height over it is a cubic in time (2D:
   quadratic): between its extrema it changes its sign at most once. A sign change while the foot is
   inside (a little more: over a seam both elements say so) is a hit; t: the last time before it. */
static int fsi__sweep_element(int dim, const fsi_vec3 *a, const fsi_vec3 *b, fsi_vec3 p, fsi_vec3 q,
                              fsi__sweep_hit *hit) {
    const fsi_vec3 zero = {0, 0, 0};
    fsi_vec3 x[3], y[3];
    fsi_real f[4], cut[4];
    int n = 1;
    for (int k = 0; k < dim; k++) {
        x[k] = fsi_vec_sub(a[k], p);
        y[k] = fsi_vec_sub(b[k], q);
    }
    /* all of it on one side of the point along an axis, all the time */
    for (int k = 0; k < dim; k++) {
        int more = 0, less = 0;
        for (int j = 0; j < dim; j++) {
            more += fsi__get(x[j], k) > 0 && fsi__get(y[j], k) > 0;
            less += fsi__get(x[j], k) < 0 && fsi__get(y[j], k) < 0;
        }
        if (more == dim || less == dim)
            return 0;
    }
    for (int k = 0; k < 4; k++)
        f[k] = fsi__element_height(dim, x, y, (fsi_real)k / 3, zero, hit->w);
    fsi_real A = FSI_R(13.5) * (3 * (f[1] - f[2]) + f[3] - f[0]);
    fsi_real B = 9 * (2 * f[0] - 5 * f[1] + 4 * f[2] - f[3]);
    fsi_real C = (18 * f[1] - 11 * f[0] - 9 * f[2] + 2 * f[3]) / 2;
    fsi_real d = B * B - 4 * A * C;
    cut[0] = 0;
    if (d > 0) { /* extrema: A t^2 + B t + C = 0 */
        d = (B < 0 ? fsi__sqrt(d) - B : -fsi__sqrt(d) - B) / 2;
        cut[1] = A < 0 || A > 0 ? d / A : 2;
        cut[2] = d < 0 || d > 0 ? C / d : 2;
        if (cut[2] < cut[1]) {
            d = cut[1];
            cut[1] = cut[2];
            cut[2] = d;
        }
        for (int k = 1; k < 3; k++)
            if (cut[k] > 0 && cut[k] < 1)
                cut[n++] = cut[k];
    }
    cut[n] = 1;
    for (int k = 0; k < n; k++) {
        fsi_real lo = cut[k], hi = cut[k + 1];
        int below = fsi__element_height(dim, x, y, lo, zero, hit->w) < 0;
        if (below == (fsi__element_height(dim, x, y, hi, zero, hit->w) < 0))
            continue;
        for (int j = 0; j < 45; j++) {
            fsi_real mid = (lo + hi) / 2;
            if ((fsi__element_height(dim, x, y, mid, zero, hit->w) < 0) == below)
                lo = mid;
            else
                hi = mid;
        }
        (void)fsi__element_height(dim, x, y, hi, zero, hit->w);
        fsi_real least = -64 * fsi__sqrt(FSI_REAL_EPS)
                         * (fsi__abs(hit->w[0]) + fsi__abs(hit->w[1]) + fsi__abs(hit->w[2]));
        if (!(hit->w[0] >= least && hit->w[1] >= least && (dim == 2 || hit->w[2] >= least)))
            continue;
        hit->t = lo;
        hit->below = below;
        return 1;
    }
    return 0;
}

/* at t of the way */
static void fsi__sweep_corners(const fsi_surface *q, int e, const fsi_real *was, fsi_real t,
                               fsi_vec3 *x) {
    for (int k = 0; k < q->dim; k++) {
        int v = 3 * q->index[q->dim * e + k];
        fsi_vec3 a = fsi_vec_load(was + v);
        x[k] = t < 1 ? fsi_vec_mad(a, fsi_vec_sub(fsi_vec_load(q->x + v), a), t)
                     : fsi_vec_load(q->x + v);
        if (q->dim == 2)
            x[k].z = 0;
    }
}

/* First element that the point p -> q meets while the surfaces go from t0 to t1 of their way. */
static int fsi__sweep_first(const fsi_slip *s, fsi_real t0, fsi_real t1, fsi_vec3 p, fsi_vec3 q,
                            fsi__sweep_hit *first) {
    const fsi_interface *f = &s->interface;
    const fsi_real *was = s->was;
    int found = 0;
    for (int i = 0; i < f->solids; i++) {
        const fsi_surface *u = &f->solid[i]->surface;
        for (int e = 0; e < u->element_count; e++) {
            fsi_vec3 a[3], b[3];
            fsi__sweep_corners(u, e, was, t0, a);
            fsi__sweep_corners(u, e, was, t1, b);
            fsi__sweep_hit h;
            if (!fsi__sweep_element(f->dim, a, b, p, q, &h) || (found && h.t >= first->t))
                continue;
            *first = h;
            first->solid = i;
            first->element = e;
            first->was = was;
            found = 1;
        }
        was += 3 * (size_t)u->vertex_count;
    }
    return found;
}

/* A place near `to` on the side of a hit element that the point came from: slid along it, or
 * (stuck) where the element's own point went, at a distance. */
static fsi_vec3 fsi__sweep_beside(const fsi_slip *s, const fsi__sweep_hit *h, fsi_real t1,
                                  fsi_vec3 to, int stuck, fsi_real distance) {
    const fsi_surface *u = &s->interface.solid[h->solid]->surface;
    fsi_vec3 x[3], at = fsi_vec(0, 0, 0);
    fsi_real sum = 0, w[3];
    fsi__sweep_corners(u, h->element, h->was, t1, x);
    fsi_vec3 n = fsi_vec_sub(x[1], x[0]);
    n = fsi__unit(u->dim == 2 ? fsi_vec(-n.y, n.x, 0) : fsi_vec_cross(n, fsi_vec_sub(x[2], x[0])));
    if (h->below)
        n = fsi_vec_scale(n, -1);
    if (!stuck)
        return fsi_vec_mad(to, n, distance - fsi_vec_dot(n, fsi_vec_sub(to, x[0])));
    for (int k = 0; k < u->dim; k++) {
        w[k] = fsi__max(h->w[k], 0);
        sum += w[k];
    }
    for (int k = 0; k < u->dim; k++)
        at = fsi_vec_mad(at, x[k], sum > 0 ? w[k] / sum : 1 / (fsi_real)u->dim);
    return fsi_vec_mad(at, n, distance);
}

/* Where a point ends that wants to go from p to q: as far as it can on straight ways that meet
 * nothing; where none is found the time is cut in two. */
static fsi_vec3 fsi__sweep(const fsi_slip *s, fsi_real t0, fsi_real t1, fsi_vec3 p, fsi_vec3 q,
                           int depth) {
    fsi_vec3 to = q;
    fsi__sweep_hit hit;
    if (s->grid->dim == 2)
        p.z = to.z = 0;
    for (int k = 0; k < 10; k++) {
        if (!fsi__sweep_first(s, t0, t1, p, to, &hit))
            return to;
        to = fsi__sweep_beside(s, &hit, t1, to, k > 2,
                               s->grid->h
                                   * (k < 6   ? FSI_R(1e-3)
                                      : k < 8 ? FSI_R(1e-4)
                                              : FSI_R(1e-5)));
    }
    if (!depth)
        return to;
    to = fsi__sweep(s, t0, (t0 + t1) / 2, p, fsi_vec_scale(fsi_vec_add(p, q), FSI_R(0.5)),
                    depth - 1);
    return fsi__sweep(s, (t0 + t1) / 2, t1, to, q, depth - 1);
}

/* All tracers from `from` (NULL: at rest) to where they are now, past the surfaces that went from
 * `was` to where they are now; those are remembered. */
static fsi_result fsi__slip_carry(fsi_slip *s, const fsi_real *from) {
    const fsi_interface *f = &s->interface;
    size_t n = 0;
    int elements = 0;
    if (!s->tracer) {
        s->was_count = 0;
        return FSI_OK;
    }
    int i;
    for (i = 0; i < f->solids; i++) {
        n += 3 * (size_t)f->solid[i]->surface.vertex_count;
        elements += f->solid[i]->surface.element_count;
    }
    if ((size_t)s->was_count == n && s->was_elements == elements) {
        FSI__OMP(parallel for schedule(static) if (s->tracers > 100))
        for (ptrdiff_t p = 0; p < s->tracers; p++) {
            fsi_real *x = s->tracer + 3 * p, z = x[2];
            fsi_vec_store(x, fsi__sweep(s, 0, 1, fsi_vec_load((from ? from : s->tracer) + 3 * p),
                                        fsi_vec_load(x), 5));
            if (f->dim == 2)
                x[2] = z;
        }
    }
    if (!FSI__GROW(s, was, was_room, 0, n + 1))
        return FSI_ERR_MEMORY;
    for (n = 0, i = 0; i < f->solids; n += 3 * (size_t)f->solid[i++]->surface.vertex_count)
        memcpy(s->was + n, f->solid[i]->surface.x,
               3 * (size_t)f->solid[i]->surface.vertex_count * sizeof(fsi_real));
    s->was_count = (int)n;
    s->was_elements = elements;
    return FSI_OK;
}

FSI_API fsi_result fsi_slip_surface(fsi_slip *slip) {
    if (!slip || !slip->memory)
        return FSI_ERR_STATE;
    fsi_result r = fsi__slip_sides(slip);
    if (r >= 0)
        fsi__slip_estimate(slip, 0);
    return r;
}

FSI_API double fsi_slip_max_divergence(const fsi_slip *slip) {
    double most = 0;
    int k;
    if (!slip || !slip->memory)
        return 0;
    const fsi_interface *f = &slip->interface;
    double h = (double)f->h;
    for (size_t c = 0; c < f->cells; c++) {
        double out = 0;
        if (slip->grid->cell[c] != FSI_CELL_FLUID)
            continue;
        for (int dir = 0; dir < 2 * f->dim; dir++) {
            size_t face;
            ptrdiff_t m = fsi__slip_next(f, c, dir, &face);
            if ((!f->blocked[dir / 2][face] && (m < 0 || !f->covered[m])) || f->desc.fractions)
                out += (dir & 1 ? 1 : -1) * (double)f->open[dir / 2][face]
                       * (double)slip->grid->u[dir / 2][face];
            if ((k = fsi__slip_side(f, c, dir)) >= 0)
                out += (double)slip->flux[k]
                       + (double)f->side[k].share * f->side[k].sign * (double)slip->wall[k];
        }
        if (fabs(out) / h > most)
            most = fabs(out) / h;
    }
    if (slip->ghosts)
        fsi__slip_ghost_outflow(slip, 1, slip->vec[1]);
    for (int i = 0; i < slip->ghosts; i++)
        if (fabs((double)slip->vec[1][i]) / h > most)
            most = fabs((double)slip->vec[1][i]) / h;
    return most;
}

/* Second order in time (docs/slip.md): the fluid carries w = u - G p / 2 along the paths of u, p
   the pressure of the whole last step, and the solve finds the rest of the new one. Without this
   the drag of a body in steady flow is of first order in dt. */
static void fsi__slip_reflect(fsi_slip *s) {
    for (int a = 0; a < s->grid->dim; a++) {
        for (size_t i = 0; i < s->grid->faces[a]; i++)
            s->u[a][i] = s->grid->u[a][i] - s->half[a][i];
        s->grid->carried[a] = s->u[a];
    }
}

/* After the solve: s->u = u*, so u* - u is the gradient of the new part. */
static void fsi__slip_reflected(fsi_slip *s, int on) {
    for (int a = 0; a < s->grid->dim; a++)
        for (size_t i = 0; i < s->grid->faces[a]; i++)
            s->half[a][i] = on && s->grid->weight[a][i] > 0
                                ? (s->half[a][i] + s->u[a][i] - s->grid->u[a][i]) / 2
                                : 0;
    for (size_t i = 0; i < s->grid->cells; i++)
        s->total[i] = (on ? s->total[i] / 2 : 0) + s->grid->pressure[i];
    s->stepped = 1;
}

FSI_API fsi_vec3 fsi_slip_force(const fsi_slip *slip, int solid) {
    fsi_real F[3] = {0, 0, 0};
    if (!slip || !slip->memory || !(slip->dt > 0))
        return fsi_vec(0, 0, 0);
    const fsi_real *p = slip->stepped ? slip->total : slip->grid->pressure;
    for (int i = 0; i < slip->interface.sides; i++) {
        const fsi_side *d = slip->interface.side + i;
        if (d->solid == solid)
            F[d->axis] +=
                d->share * (fsi_real)d->sign * p[d->cell] * fsi__area(&slip->interface) / slip->dt;
    }
    for (int i = 0; i < 3; i++)
        if (solid >= 0 && solid < slip->solids)
            F[i] += slip->friction[3 * solid + i];
    return fsi_vec_load(F);
}

/* Pieces of the state in their order, after a head; NULL after the last. `was` comes last. */
typedef struct fsi__slip_state {
    int32_t started, was_count, was_elements, cells;
} fsi__slip_state;

static void *fsi__slip_piece(const fsi_slip *s, int which, size_t *bytes) {
    *bytes = which == 0  ? s->grid->cells * sizeof *s->total
             : which < 4 ? s->grid->faces[which - 1] * sizeof(fsi_real)
                         : 0;
    return which == 0              ? (void *)s->total
           : which <= s->grid->dim ? (void *)s->half[which - 1]
                                   : NULL;
}

FSI_API size_t fsi_slip_state_size(const fsi_slip *slip) {
    size_t n = sizeof(fsi__slip_state);
    if (!slip || !slip->memory)
        return 0;
    size_t bytes;
    for (int k = 0; fsi__slip_piece(slip, k, &bytes); k++)
        n += bytes;
    return n + (size_t)slip->was_count * sizeof *slip->was;
}

FSI_API fsi_result fsi_slip_save(const fsi_slip *slip, void *block) {
    unsigned char *at = (unsigned char *)block;
    if (!slip || !slip->memory)
        return FSI_ERR_STATE;
    if (!block)
        return FSI_ERR_ARGUMENT;
    fsi__slip_state head;
    memset(&head, 0, sizeof head);
    head.started = slip->interface.started;
    head.was_count = slip->was_count;
    head.was_elements = slip->was_elements;
    head.cells = (int32_t)slip->grid->cells;
    memcpy(at, &head, sizeof head);
    const void *part;
    size_t bytes;
    int k;
    for (at += sizeof head, k = 0; (part = fsi__slip_piece(slip, k, &bytes)) != NULL;
         k++, at += bytes)
        memcpy(at, part, bytes);
    if (slip->was_count)
        memcpy(at, slip->was, (size_t)slip->was_count * sizeof *slip->was);
    return FSI_OK;
}

FSI_API fsi_result fsi_slip_restore(fsi_slip *slip, const void *block) {
    const unsigned char *at = (const unsigned char *)block;
    if (!slip || !slip->memory)
        return FSI_ERR_STATE;
    if (!block)
        return FSI_ERR_ARGUMENT;
    fsi__slip_state head;
    memcpy(&head, at, sizeof head);
    if (head.was_count < 0 || head.cells != (int32_t)slip->grid->cells)
        return FSI_ERR_SIZE;
    if (!FSI__GROW(slip, was, was_room, 0, head.was_count + 1))
        return FSI_ERR_MEMORY;
    /* what is covered and cut is found again by the next detect */
    fsi__interface_clear(&slip->interface);
    slip->interface.started = head.started != 0;
    void *part;
    size_t bytes;
    int k;
    for (at += sizeof head, k = 0; (part = fsi__slip_piece(slip, k, &bytes)) != NULL;
         k++, at += bytes)
        memcpy(part, at, bytes);
    slip->was_count = head.was_count;
    slip->was_elements = head.was_elements;
    if (slip->was_count)
        memcpy(slip->was, at, (size_t)slip->was_count * sizeof *slip->was);
    return FSI_OK;
}

FSI_API fsi_result fsi_slip_step(fsi_slip *slip, const fsi_scene *scene, fsi_real dt,
                                 fsi_report *report) {
    fsi_result r = FSI_OK;
    if (!slip || !slip->memory || !scene || !(dt > 0) || !fsi__finite(dt))
        return FSI_ERR_ARGUMENT;
    fsi_grid *g = slip->grid;
    if (scene->begin_fn)
        r = scene->begin_fn(scene->user, dt);
    if (r >= 0)
        r = fsi_slip_detect(slip, scene->solid, scene->count);
    /* begin_fn may have brought the surfaces up to date */
    if (r >= 0)
        r = fsi__slip_carry(slip, NULL);
    int reflect = slip->total && slip->desc.form == FSI_SLIP_REPAIRED && !slip->interface.shells
                  && !g->phi && fsi_grid_cfl(g, dt) <= 2;
    for (int i = 0; i < scene->count; i++)
        if (fsi__slip_two_way(scene->solid[i]))
            reflect = 0;
    if (reflect && r >= 0)
        fsi__slip_reflect(slip);
    if (r >= 0)
        r = fsi_grid_advect(g, dt);
    if (r >= 0)
        r = fsi_grid_forces(g, dt);
    if (r >= 0)
        r = fsi_grid_viscosity(g, dt, NULL);
    if (r < 0)
        return r;
    fsi_report rep;
    fsi_result solve = fsi_slip_solve(slip, dt, &rep);
    if (solve < 0)
        return solve;
    if (slip->total)
        fsi__slip_reflected(slip, reflect);
    r = fsi_grid_extrapolate(g);
    if (r >= 0)
        r = fsi_interface_move_surface(&slip->interface, g, dt, &rep);
    if (r >= 0 && slip->tracer) {
        if (slip->tracers < 0 || !fsi_all_finite(3 * (size_t)slip->tracers, slip->tracer))
            return FSI_ERR_ARGUMENT;
        if (!FSI__GROW(slip, from, from_room, 0, 3 * (size_t)slip->tracers + 1))
            return FSI_ERR_MEMORY;
        fsi_copy(3 * (size_t)slip->tracers, slip->tracer, slip->from);
        /* past surfaces: fsi__slip_carry brings them back when those have moved too */
        fsi__slip_flow(slip, dt, slip->tracers, slip->tracer, 0);
    }
    if (r >= 0 && scene->move_fn)
        r = scene->move_fn(scene->user, dt);
    if (r >= 0)
        r = fsi_interface_moved(&slip->interface, g, NULL);
    if (r >= 0)
        r = fsi__slip_carry(slip, slip->from);
    if (r < 0)
        return r;
    if (report) {
        *report = slip->report;
        report->divergence = fsi_slip_max_divergence(slip);
    }
    return solve;
}
#endif

/* ------------------------------------------------------------------------------------------------
 * >>partitioned */
#define FSI__BASIS 128 /* most pairs of one step in a reduced model */
#define FSI__KEEP                                                                                  \
    (sizeof(fsi_real) == 4                                                                         \
         ? 2e-4                                                                                    \
         : 1e-9) /* a pair of this step is kept unless it depends on newer ones to this share */

static void fsi__rmi_apply(const fsi_real *x, fsi_real *y, void *user);

#define FSI__REALS(p, a, n)                                                                        \
    ((p) = (fsi_real *)fsi_arena_take(a, n, sizeof(fsi_real))) /* p[n] and so on of an arena */
#define FSI__INTS(p, a, n) ((p) = (int32_t *)fsi_arena_take(a, n, sizeof(int32_t)))

/* Room for what the arena counted, in a block that is kept while it is large enough (new ones get a
 * share 1 / spare more); the arena is rewound. */
static fsi_result fsi__arena_room(fsi_arena *a, void **block, size_t *size, size_t spare,
                                  const fsi_allocator *allocator) {
    if (a->failed)
        return FSI_ERR_SIZE;
    if (a->used > *size) {
        fsi_free(allocator, *block, *size);
        *size = a->used + (spare ? a->used / spare : 0);
        if (!(*block = fsi_alloc(allocator, *size))) {
            *size = 0;
            return FSI_ERR_MEMORY;
        }
    }
    memset(a, 0, sizeof *a);
    a->base = (unsigned char *)*block;
    a->size = *size;
    return FSI_OK;
}

static void fsi__partitioned_layout(fsi_partitioned *c, fsi_arena *a) {
    size_t n = (size_t)c->desc.n, m = (size_t)c->desc.m, k = (size_t)c->columns,
           basis = (size_t)c->fluid.basis, most = k + basis;
    fsi__pairs *f = &c->fluid, *s = &c->solid;
    FSI__REALS(f->dq, a, k * n);
    FSI__REALS(f->dy, a, k * m);
    FSI__REALS(s->dq, a, k * m);
    FSI__REALS(s->dy, a, k * n);
    FSI__INTS(f->slot, a, k);
    FSI__INTS(s->slot, a, k);
    FSI__REALS(c->p_last, a, m);
    FSI__REALS(f->q, a, basis * n);
    FSI__REALS(f->y, a, basis * m);
    FSI__REALS(s->q, a, basis * m);
    FSI__REALS(s->y, a, basis * n);
    FSI__REALS(c->xf, a, n);
    FSI__REALS(c->xs, a, n);
    FSI__REALS(c->xf0, a, n);
    FSI__REALS(c->xs0, a, n);
    FSI__REALS(c->pf, a, m);
    FSI__REALS(c->ps, a, m);
    FSI__REALS(c->pf0, a, m);
    FSI__REALS(c->ps0, a, m);
    FSI__REALS(c->xfb, a, n);
    FSI__REALS(c->xsb, a, n);
    FSI__REALS(c->pfb, a, m);
    FSI__REALS(c->psb, a, m);
    FSI__REALS(c->r, a, n);
    FSI__REALS(c->r0, a, n);
    FSI__REALS(c->small, a, 3 * most * most + most);
    for (size_t i = 0; i < 2; i++)
        f->cross[i] = FSI__REALS(s->cross[i], a, most * most);
    f->most = s->most = most;
    FSI__REALS(c->work, a, 4 * (n + m));
    FSI__INTS(c->pivot, a, most);
    for (size_t i = 0; i < 2; i++) {
        fsi__pairs *p = i ? s : f;
        FSI__REALS(p->C, a, basis * k);
        FSI__REALS(p->G, a, k * k);
        FSI__REALS(p->L, a, k * k);
        FSI__REALS(p->part, a, most);
        FSI__INTS(p->choice, a, k);
        p->dropped = (uint8_t *)fsi_arena_take(a, k, 1);
    }
    c->gmres_size = 0;
    if (c->desc.gmres) {
        fsi_krylov_desc d;
        memset(&d, 0, sizeof d);
        d.n = n > m ? n : m;
        d.A.apply_fn = fsi__rmi_apply;
        d.restart = fsi__imin((int)d.n, c->columns + 2);
        c->gmres_size = fsi_gmres_work_size(&d);
        c->gmres = fsi_arena_take(a, c->gmres_size, 1);
    }
}

/* No product of two columns is known. */
static void fsi__pairs_unknown(fsi_partitioned *c) {
    fsi__pairs *f = &c->fluid, *s = &c->solid;
    size_t k = (size_t)c->columns;
    for (size_t i = 0; i < k * k; i++)
        f->G[i] = s->G[i] = FSI_REAL_MAX;
    for (size_t i = 0; i < f->most * f->most; i++)
        f->cross[0][i] = f->cross[1][i] = FSI_REAL_MAX;
}

FSI_API fsi_result fsi_partitioned_init(fsi_partitioned *c, const fsi_partitioned_desc *desc) {
    if (!c || !desc)
        return FSI_ERR_ARGUMENT;
    memset(c, 0, sizeof *c);
    fsi_partitioned_desc d = *desc;
    if (d.group == 0)
        d.group = 1;
    if (d.omega == 0)
        d.omega = FSI_R(0.5);
    if (d.max_iterations == 0)
        d.max_iterations = 30;
    if (d.min_iterations == 0)
        d.min_iterations = 1;
    d.reuse = d.reuse == 0 ? 5 : d.reuse < 0 ? 0 : d.reuse;
    if (d.start == 0)
        d.start = FSI_R(0.1);
    if (d.filter == 0)
        d.filter = FSI_R(0.1);
    if (d.n < 1 || d.m < 1 || d.group < 1 || d.max_iterations < 1 || d.max_iterations > 10000
        || d.min_iterations > d.max_iterations || d.reuse > 16 || !(d.omega > 0 && d.omega < 2)
        || !(d.tolerance > 0) || !(d.start > 0 && d.start <= 1) || !(d.filter > 0 && d.filter < 1)
        || (int)d.scheme < 0 || (int)d.scheme > 2 || !fsi__finite(d.tolerance)
        || !fsi_allocator_valid(&d.allocator))
        return FSI_ERR_ARGUMENT;
    c->desc = d;
    c->fluid.basis = c->solid.basis =
        d.scheme == FSI_SCHEME_REDUCED ? fsi__imin(d.max_iterations + 1, FSI__BASIS) : 1;
    /* old steps keep at most 8 pairs each on average */
    c->columns = d.scheme == FSI_SCHEME_REDUCED ? c->fluid.basis + 8 * d.reuse : 1;
    c->fluid.columns = c->solid.columns = c->columns;
    fsi_arena a;
    memset(&a, 0, sizeof a);
    fsi__partitioned_layout(c, &a);
    fsi_result r;
    if ((r = fsi__arena_room(&a, &c->block, &c->size, 0, &d.allocator)) < 0) {
        memset(c, 0, sizeof *c);
        return r;
    }
    fsi__partitioned_layout(c, &a);
    for (int i = 0; i < c->columns; i++)
        c->fluid.slot[i] = c->solid.slot[i] = i;
    fsi__pairs_unknown(c);
    return FSI_OK;
}

FSI_API void fsi_partitioned_free(fsi_partitioned *c) {
    if (!c)
        return;
    fsi_free(&c->desc.allocator, c->block, c->size);
    memset(c, 0, sizeof *c);
}

FSI_API void fsi_partitioned_forget(fsi_partitioned *c) {
    c->fluid.current = c->fluid.old = c->solid.current = c->solid.old = 0;
    c->kept_steps = 0;
    c->has_load = 0;
    if (c->block)
        memset(c->p_last, 0, (size_t)c->desc.m * sizeof(fsi_real));
}

/* Dynamic state: the counters, then the part of the block before q. No addresses, so the same run
 * gives the same bytes everywhere. */
typedef struct fsi__partitioned_head {
    size_t size;
    int64_t steps, fluid_calls, solid_calls;
    double used_columns;
    int columns, n, m, capped, stalled, kept_steps, has_load, current[2], old[2], step_columns[16];
} fsi__partitioned_head;

static size_t fsi__partitioned_kept(const fsi_partitioned *c) {
    return (size_t)((const unsigned char *)c->fluid.q - (const unsigned char *)c->block);
}

FSI_API size_t fsi_partitioned_state_size(const fsi_partitioned *c) {
    return c && c->block ? sizeof(fsi__partitioned_head) + fsi__partitioned_kept(c) : 0;
}

FSI_API fsi_result fsi_partitioned_save(const fsi_partitioned *c, void *block) {
    if (!c || !c->block || !block)
        return FSI_ERR_STATE;
    fsi__partitioned_head h;
    memset(&h, 0, sizeof h);
    h.size = c->size;
    h.columns = c->columns;
    h.n = c->n;
    h.m = c->m;
    h.capped = c->capped;
    h.stalled = c->stalled;
    h.steps = c->steps;
    h.fluid_calls = c->fluid_calls;
    h.solid_calls = c->solid_calls;
    h.used_columns = c->used_columns;
    h.kept_steps = c->kept_steps;
    h.has_load = c->has_load;
    h.current[0] = c->fluid.current;
    h.old[0] = c->fluid.old;
    h.current[1] = c->solid.current;
    h.old[1] = c->solid.old;
    memcpy(h.step_columns, c->step_columns, sizeof h.step_columns);
    memcpy(block, &h, sizeof h);
    memcpy((unsigned char *)block + sizeof h, c->block, fsi__partitioned_kept(c));
    return FSI_OK;
}

FSI_API fsi_result fsi_partitioned_restore(fsi_partitioned *c, const void *block) {
    if (!c || !c->block || !block)
        return FSI_ERR_STATE;
    fsi__partitioned_head h;
    memcpy(&h, block, sizeof h);
    if (h.size != c->size || h.columns != c->columns)
        return FSI_ERR_SIZE;
    c->n = h.n;
    c->m = h.m;
    c->capped = h.capped;
    c->stalled = h.stalled;
    c->steps = h.steps;
    c->fluid_calls = h.fluid_calls;
    c->solid_calls = h.solid_calls;
    c->used_columns = h.used_columns;
    c->kept_steps = h.kept_steps;
    c->has_load = h.has_load;
    c->fluid.current = h.current[0];
    c->fluid.old = h.old[0];
    c->solid.current = h.current[1];
    c->solid.old = h.old[1];
    memcpy(c->step_columns, h.step_columns, sizeof h.step_columns);
    memcpy(c->block, (const unsigned char *)block + sizeof h, fsi__partitioned_kept(c));
    fsi__pairs_unknown(c);
    return FSI_OK;
}

/* Largest length of a node's part of r. */
static fsi_real fsi__node_norm(int n, int group, const fsi_real *r) {
    fsi_real most = 0;
    for (int i = 0; i < n; i += group) {
        fsi_real s = 0;
        for (int j = i; j < i + group && j < n; j++)
            s += r[j] * r[j];
        if (!(s <= most))
            most = s;
    }
    return fsi__sqrt(most);
}

/* 1 when |a - a0| <= share |a| */
static int fsi__round_off(size_t n, const fsi_real *a, const fsi_real *a0, fsi_real share) {
    fsi_real d = 0, s = 0;
    for (size_t i = 0; i < n; i++)
        d += (a[i] - a0[i]) * (a[i] - a0[i]), s += a[i] * a[i];
    return !(d > s * share * share);
}

/* Old column j, and column i of those in use: its input, its image, its number among all products.
 */
FSI__INLINE int fsi__old_slot(const fsi__pairs *p, int j) {
    return p->slot[p->current + j];
}

FSI__INLINE fsi_real *fsi__old_input(const fsi__pairs *p, int j) {
    return p->dq + (size_t)fsi__old_slot(p, j) * (size_t)p->in;
}

FSI__INLINE fsi_real *fsi__old_image(const fsi__pairs *p, int j) {
    return p->dy + (size_t)fsi__old_slot(p, j) * (size_t)p->out;
}

FSI__INLINE const fsi_real *fsi__pair_input(const fsi__pairs *p, int i) {
    return i < p->kept ? p->q + (size_t)i * (size_t)p->in
                       : fsi__old_input(p, p->choice[i - p->kept]);
}

FSI__INLINE const fsi_real *fsi__pair_image(const fsi__pairs *p, int i) {
    return i < p->kept ? p->y + (size_t)i * (size_t)p->out
                       : fsi__old_image(p, p->choice[i - p->kept]);
}

FSI__INLINE int fsi__pair_number(const fsi__pairs *p, int i) {
    return i < p->kept ? i : p->basis + fsi__old_slot(p, p->choice[i - p->kept]);
}

/* a . b, formed when first asked for */
FSI__INLINE fsi_real fsi__once(fsi_real *slot, int n, const fsi_real *a, const fsi_real *b) {
    if (!(*slot < FSI_REAL_MAX))
        *slot = (fsi_real)fsi_dot((size_t)n, a, b);
    return *slot;
}

/* Products with columns from .. to - 1 (numbers among all products) are not known any more. */
static void fsi__pairs_changed(fsi__pairs *p, size_t from, size_t to) {
    for (size_t i = from; i < to; i++)
        for (size_t j = 0; j < p->most; j++)
            p->cross[0][i * p->most + j] = p->cross[0][j * p->most + i] =
                p->cross[1][i * p->most + j] = p->cross[1][j * p->most + i] = FSI_REAL_MAX;
}

/* The orthonormal columns of this step are about to change. */
static void fsi__pairs_restart(fsi__pairs *p) {
    for (size_t i = 0; i < (size_t)p->columns * (size_t)p->basis; i++)
        p->C[i] = FSI_REAL_MAX;
    fsi__pairs_changed(p, 0, (size_t)p->kept);
    p->kept = 0;
}

/* A new step: nothing of this step is known. */
static void fsi__pairs_begin(fsi__pairs *p) {
    fsi__pairs_restart(p);
    p->current = p->chosen = p->used = p->dependent = 0;
    p->stale = 1;
    memset(p->dropped, 0, (size_t)p->columns);
}

/* Difference c joins the orthonormal ones of this step (twice is enough); 0 when it says nothing
 * new. */
static int fsi__pairs_join(fsi__pairs *p, int c) {
    size_t in = (size_t)p->in, out = (size_t)p->out;
    fsi_real *q = p->q + (size_t)p->kept * in, *y = p->y + (size_t)p->kept * out, length = 1;
    if (p->kept == p->basis)
        return 0;
    fsi_copy(in, p->dq + (size_t)p->slot[c] * in, q);
    fsi_copy(out, p->dy + (size_t)p->slot[c] * out, y);
    memset(p->part, 0, (size_t)p->kept * sizeof(fsi_real));
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < p->kept; i++) {
            /* q -= q_i (q_i . q) */
            fsi_real s = (fsi_real)fsi_dot(in, p->q + (size_t)i * in, q);
            fsi_axpy(in, -s, p->q + (size_t)i * in, q);
            p->part[i] += s;
        }
    for (int i = 0; i < p->kept; i++)
        fsi_axpy(out, -p->part[i], p->y + (size_t)i * out, y);
    length = (fsi_real)fsi_norm(in, q);
    if (!(length > (fsi_real)FSI__KEEP) || !fsi_all_finite(out, y))
        return 0;
    fsi_scale(in, 1 / length, q);
    fsi_scale(out, 1 / length, y);
    p->kept++;
    return 1;
}

/* New difference (a - a0 -> b - b0) in front of all others; both scaled by the length of the input.
 */
static void fsi__pairs_push(fsi__pairs *p, const fsi_real *a, const fsi_real *a0, const fsi_real *b,
                            const fsi_real *b0) {
    size_t in = (size_t)p->in, out = (size_t)p->out, k = (size_t)p->columns,
           keep = (size_t)p->current + (size_t)p->old;
    /* a difference of round-off says nothing */
    if (fsi__round_off(in, a, a0, 256 * FSI_REAL_EPS)
        || (fsi__round_off(in, a, a0, fsi__sqrt(FSI_REAL_EPS))
            && fsi__round_off(out, b, b0, 256 * FSI_REAL_EPS))) {
        p->dependent++;
        return;
    }
    if (keep == k) {
        keep--;
        if (p->old > 0)
            p->old--;
        else
            p->current--;
    }
    size_t at = (size_t)p->slot[keep];
    fsi_real *dq = p->dq + at * in;
    fsi_real *dy = p->dy + at * out;
    size_t i;
    for (i = 0; i < in; i++)
        dq[i] = a[i] - a0[i];
    for (i = 0; i < out; i++)
        dy[i] = b[i] - b0[i];
    fsi_real length = (fsi_real)fsi_norm(in, dq);
    fsi_real s = length > 0 ? 1 / length : 0;
    if (!fsi__finite(s))
        s = 0;
    fsi_scale(in, s, dq);
    fsi_scale(out, s, dy);
    if (!fsi_all_finite(out, dy)) {
        p->dependent++;
        return;
    }
    memmove(p->slot + 1, p->slot, keep * sizeof *p->slot);
    p->slot[0] = (int32_t)at;
    for (i = 0; i < k; i++)
        p->G[at * k + i] = p->G[i * k + at] = FSI_REAL_MAX;
    fsi__pairs_changed(p, (size_t)p->basis + at, (size_t)p->basis + at + 1);
    p->current++;
    p->stale = 1;
    /* single: always newest first, round-off decides there */
    if (fsi__pairs_join(p, 0)) {
        if (sizeof(fsi_real) == 8)
            return;
    }
    /* the newest counts most: all anew, newest first, and older ones leave */
    else
        p->dependent++;
    for (fsi__pairs_restart(p), i = 0; i < (size_t)p->current && 4 * p->kept < 3 * p->basis; i++)
        (void)fsi__pairs_join(p, (int)i);
}

/* Chooses old pairs, newest first, where more than filter of one is new to this step's and to newer
 * ones: rows of L. */
static void fsi__pairs_build(fsi__pairs *p, fsi_real filter) {
    size_t k = (size_t)p->columns;
    if (!p->stale)
        return;
    p->stale = p->chosen = 0;
    for (int j = 0; j < p->old; j++) {
        fsi_real *row = p->L + (size_t)p->chosen * k;
        if (p->dropped[j])
            continue;
        /* d_j . d_l - (C^T C)_jl, then L row = L^-1 of it */
        for (int l = 0; l <= p->chosen; l++) {
            int o = l < p->chosen ? p->choice[l] : j;
            size_t sj = (size_t)fsi__old_slot(p, j), so = (size_t)fsi__old_slot(p, o);
            fsi_real sum =
                fsi__once(p->G + sj * k + so, p->in, fsi__old_input(p, j), fsi__old_input(p, o));
            for (int i = 0; i < p->kept; i++)
                sum -= fsi__once(p->C + (size_t)i * k + sj, p->in, p->q + (size_t)i * (size_t)p->in,
                                 fsi__old_input(p, j))
                       * p->C[(size_t)i * k + so];
            for (int m = 0; m < l; m++)
                sum -= row[m] * (l < p->chosen ? p->L[(size_t)l * k + (size_t)m] : row[m]);
            row[l] = l < p->chosen ? sum / p->L[(size_t)l * k + (size_t)l] : sum;
        }
        fsi_real rest = row[p->chosen];
        if (!(rest > filter * filter)) {
            p->dropped[j] = 1;
            continue;
        }
        row[p->chosen] = fsi__sqrt(rest);
        p->choice[p->chosen++] = j;
    }
    p->used = p->kept + p->chosen;
}

/* T = R T for count sets of coefficients of the columns in use, T[used * count] by columns in use.
 */
static void fsi__pairs_weigh(const fsi__pairs *p, int count, fsi_real *T) {
    size_t k = (size_t)p->columns, n = (size_t)count;
    fsi_real *W = T + (size_t)p->kept * n;
    for (int j = 0; j < p->chosen; j++) { /* W = (L L^T)^-1 (W - C^T T) */
        const fsi_real *C = p->C + fsi__old_slot(p, p->choice[j]), *L = p->L + (size_t)j * k;
        fsi_real *w = W + (size_t)j * n;
        for (int i = 0; i < p->kept; i++)
            fsi_axpy((size_t)count, -C[(size_t)i * k], T + (size_t)i * n, w);
        for (int i = 0; i < j; i++)
            fsi_axpy((size_t)count, -L[i], W + (size_t)i * n, w);
        for (int i = 0; i < count; i++)
            w[i] /= L[j];
    }
    for (int j = p->chosen - 1; j >= 0; j--) {
        const fsi_real *C = p->C + fsi__old_slot(p, p->choice[j]), *L = p->L + (size_t)j * k;
        fsi_real *w = W + (size_t)j * n;
        for (int i = 0; i < count; i++)
            w[i] /= L[j];
        for (int i = 0; i < j; i++)
            fsi_axpy((size_t)count, -L[i], w, W + (size_t)i * n);
        for (int i = 0; i < p->kept; i++)
            fsi_axpy((size_t)count, -C[(size_t)i * k], w, T + (size_t)i * n);
    }
}

/* y = J x from the pairs; add = 1: y += J x. */
static void fsi__pairs_apply(const fsi__pairs *p, const fsi_real *x, int add, fsi_real *y) {
    if (!add)
        memset(y, 0, (size_t)p->out * sizeof(fsi_real));
    for (int i = 0; i < p->used; i++)
        p->part[i] = (fsi_real)fsi_dot((size_t)p->in, fsi__pair_input(p, i), x);
    fsi__pairs_weigh(p, 1, p->part);
    for (int i = 0; i < p->used; i++)
        fsi_axpy((size_t)p->out, p->part[i], fsi__pair_image(p, i), y);
}

/* out[i * v->used + j] = product of input i of p with image j of v. */
static void fsi__rmi_products(fsi_partitioned *c, const fsi__pairs *p, const fsi__pairs *v,
                              fsi_real *out) {
    fsi_real *table = p->cross[p == &c->solid];
    for (int i = 0; i < p->used; i++) {
        fsi_real *at = table + (size_t)fsi__pair_number(p, i) * p->most;
        for (int j = 0; j < v->used; j++)
            *out++ = fsi__once(at + fsi__pair_number(v, j), p->in, fsi__pair_input(p, i),
                               fsi__pair_image(v, j));
    }
}

/* Product of inputs i and j, i <= j: the inverse of R, known from the choice of columns. */
static fsi_real fsi__pairs_gram(const fsi__pairs *p, int i, int j) {
    size_t k = (size_t)p->columns;
    if (j < p->kept)
        return (fsi_real)(i == j);
    size_t sj = (size_t)fsi__old_slot(p, p->choice[j - p->kept]);
    return i < p->kept ? p->C[(size_t)i * k + sj]
                       : p->G[sj * k + (size_t)fsi__old_slot(p, p->choice[i - p->kept])];
}

/* d solves (I - A B) d = r, where A maps p->X (or X->p) and B back. With the columns D and images Y
   of each and b = R_B D_B^T d: (R_B^-1 - D_B^T Y_A N) b = D_B^T r, d = r + Y_A N b, N = R_A D_A^T
   Y_B. */
static int fsi__rmi_solve(fsi_partitioned *c, const fsi__pairs *A, const fsi__pairs *B,
                          const fsi_real *r, fsi_real *d) {
    int ka = A->used, kb = B->used;
    size_t n = (size_t)A->out, sa = (size_t)ka, sb = (size_t)kb; /* d has length n = B->in */
    fsi_real *M = c->small, *N = M + sb * sb, *BA = N + sa * sb, *b = BA + sa * sb;
    fsi_copy(n, r, d);
    if (!ka || !kb)
        return 1;
    fsi__rmi_products(c, A, B, N);
    fsi__rmi_products(c, B, A, BA);
    fsi__pairs_weigh(A, kb, N);
    for (int i = 0; i < kb; i++) {
        fsi_real *row = M + (size_t)i * sb;
        for (int j = 0; j < kb; j++)
            row[j] = i <= j ? fsi__pairs_gram(B, i, j) : fsi__pairs_gram(B, j, i);
        for (int j = 0; j < ka; j++)
            fsi_axpy((size_t)kb, -BA[(size_t)i * sa + (size_t)j], N + (size_t)j * sb, row);
        b[i] = (fsi_real)fsi_dot(n, fsi__pair_input(B, i), r);
    }
    if (fsi_dense_lu(kb, M, c->pivot) != FSI_OK)
        return 0;
    fsi_dense_lu_solve(kb, M, c->pivot, b);
    for (int i = 0; i < ka; i++) {
        fsi_real s = 0;
        for (int j = 0; j < kb; j++)
            s += N[(size_t)i * sb + (size_t)j] * b[j];
        fsi_axpy(n, s, fsi__pair_image(A, i), d);
    }
    return fsi_all_finite(n, d);
}

typedef struct fsi__rmi_op {
    const fsi__pairs *A, *B;
    fsi_real *t;
} fsi__rmi_op;

/* y = x - A B x */
static void fsi__rmi_apply(const fsi_real *x, fsi_real *y, void *user) {
    const fsi__rmi_op *o = (const fsi__rmi_op *)user;
    fsi__pairs_apply(o->B, x, 0, o->t);
    fsi__pairs_apply(o->A, o->t, 0, y);
    for (size_t i = 0; i < (size_t)o->A->out; i++)
        y[i] = x[i] - y[i];
}

/* The same by GMRES, as the paper does: at most rank + 1 iterations. */
static int fsi__rmi_gmres(fsi_partitioned *c, const fsi__pairs *A, const fsi__pairs *B,
                          const fsi_real *rhs, fsi_real *x) {
    fsi_krylov_desc d;
    memset(&d, 0, sizeof d);
    fsi__rmi_op o;
    o.A = A;
    o.B = B;
    o.t = c->work + 2 * (size_t)(c->n + c->m);
    d.n = (size_t)A->out;
    d.A.apply_fn = fsi__rmi_apply;
    d.A.user = &o;
    d.restart = fsi__imin(A->out, B->used + 2);
    d.tolerance = sizeof(fsi_real) == 4 ? 1e-6 : 1e-12;
    d.allocator = c->desc.allocator;
    fsi_copy((size_t)A->out, rhs, x);
    fsi_result r = fsi_gmres_solve(&d, rhs, x, c->gmres, c->gmres_size, NULL);
    return r >= 0 && r != FSI_BREAKDOWN && fsi_all_finite((size_t)A->out, x);
}

/* Residual of the reduced monolithic model at a known input of one solver, in -> out, whose output
 * the other takes, from -> to: r = to - in + J (out - from). */
static void fsi__rmi_residual(fsi_partitioned *c, const fsi__pairs *other, const fsi_real *in,
                              const fsi_real *out, const fsi_real *from, const fsi_real *to,
                              fsi_real *r) {
    for (int i = 0; i < other->out; i++)
        r[i] = to[i] - in[i];
    for (int i = 0; i < other->in; i++)
        c->work[i] = out[i] - from[i];
    fsi__pairs_apply(other, c->work, 1, r);
}

/* in += d, the root of that model: (I - J J_own) d = r. Eq. (6) with own = fluid, (7) with own =
 * solid, less what holds at that input. */
static int fsi__rmi_predict(fsi_partitioned *c, const fsi__pairs *own, const fsi__pairs *other,
                            const fsi_real *r, fsi_real *in) {
    fsi_real *d = c->work + c->n + c->m;
    int done =
        c->desc.gmres ? fsi__rmi_gmres(c, other, own, r, d) : fsi__rmi_solve(c, other, own, r, d);
    for (int i = 0; done && i < own->in; i++)
        in[i] += d[i];
    return done;
}

static double fsi__partitioned_clock(const fsi_partitioned *c) {
    return c->desc.clock_fn ? c->desc.clock_fn(c->desc.clock_user) : 0;
}

/* One call of a black box from the state of the last accepted step; its time goes to
 * seconds[which]. */
static fsi_result fsi__box_solve(fsi_partitioned *c, int which, const fsi_blackbox *box, int first,
                                 const fsi_real *in, fsi_real *out, int out_count) {
    double start = fsi__partitioned_clock(c);
    fsi_result r = !first && box->restore_fn ? box->restore_fn(box->user) : FSI_OK;
    if (r >= 0)
        r = box->solve_fn(box->user, in, out);
    double took = fsi__partitioned_clock(c) - start;
    c->seconds[which] += took;
    c->seconds[2] -= took;
    if (r < 0)
        return r;
    c->told[which] = r;
    return fsi_all_finite((size_t)out_count, out) ? FSI_OK : FSI_ERR_NUMERIC;
}

/* The state of one step's iteration. */
typedef struct fsi__exchange {
    const fsi_blackbox *fluid, *solid;
    int k;             /* pairs done */
    int exact;         /* the solid got p_F itself: X_S - X_F is the true residual */
    int dropped, lean; /* reduced models given up; pairs without progress */
    fsi_real norm, best, omega;
    fsi_real nearest; /* norm of the pair kept in xfb, xsb, pfb, psb */
} fsi__exchange;

/* One pair of calls: p_F = F(X_F), then the solid with p_F, or with the prediction of eq. (7). */
static fsi_result fsi__call_pair(fsi_partitioned *c, fsi__exchange *e) {
    int n = c->n, m = c->m, reduced = c->desc.scheme == FSI_SCHEME_REDUCED;
    fsi_result r = fsi__box_solve(c, 0, e->fluid, e->k == 0, c->xf, c->pf, m);
    if (r < 0)
        return r;
    c->fluid_calls++;
    fsi_copy((size_t)m, c->pf, c->ps);
    e->exact = 1;
    if (reduced && e->k > 0) {
        fsi__pairs_push(&c->fluid, c->xf, c->xf0, c->pf, c->pf0);
        fsi__pairs_build(&c->fluid, c->desc.filter);
        /* eq. (7); the second start-up pair of Algorithm 1 takes p_F */
        if (e->k > 1 || c->solid.used > 0) {
            fsi_real *gap = c->work + 3 * (n + m);
            fsi__rmi_residual(c, &c->fluid, c->psb, c->xsb, c->xf, c->pf, gap);
            fsi_copy((size_t)m, c->psb, c->ps);
            if (fsi__rmi_predict(c, &c->solid, &c->fluid, gap, c->ps))
                e->exact = 0;
            else
                fsi_copy((size_t)m, c->pf, c->ps), e->dropped++;
        }
        /* mild start from the load of the last step, or from none */
    } else if (reduced && (c->has_load || c->desc.gentle) && c->desc.start < 1) {
        for (int i = 0; i < m; i++)
            c->ps[i] = c->p_last[i] + c->desc.start * (c->pf[i] - c->p_last[i]);
        e->exact = 0;
    }
    r = fsi__box_solve(c, 1, e->solid, e->k == 0, c->ps, c->xs, n);
    if (r < 0)
        return r;
    c->solid_calls++;
    if (reduced && e->k > 0) {
        fsi__pairs_push(&c->solid, c->ps, c->ps0, c->xs, c->xs0);
        fsi__pairs_build(&c->solid, c->desc.filter);
    }
    e->k++;
    return FSI_OK;
}

/* r = S(p_F) - X_F: exact, or estimated through the reduced solid X_S - X_F + S_p (p_F - p_S). */
static void fsi__residual(fsi_partitioned *c, fsi__exchange *e) {
    if (e->exact)
        for (int i = 0; i < c->n; i++)
            c->r[i] = c->xs[i] - c->xf[i];
    else
        fsi__rmi_residual(c, &c->solid, c->xf, c->pf, c->ps, c->xs, c->r);
    e->norm = fsi__node_norm(c->n, c->desc.group, c->r);
}

/* The solid once more with p_F itself: what the fluid lost is what the solid gets. */
static fsi_result fsi__final_solve(fsi_partitioned *c, fsi__exchange *e) {
    if (e->exact || c->desc.no_final_solve)
        return FSI_OK;
    fsi_copy((size_t)c->m, c->ps, c->ps0);
    fsi_copy((size_t)c->n, c->xs, c->xs0);
    fsi_copy((size_t)c->m, c->pf, c->ps);
    fsi_result r = fsi__box_solve(c, 1, e->solid, 0, c->ps, c->xs, c->n);
    if (r < 0)
        return r;
    if (c->desc.scheme == FSI_SCHEME_REDUCED)
        fsi__pairs_push(&c->solid, c->ps, c->ps0, c->xs, c->xs0);
    e->exact = 1;
    fsi__residual(c, e);
    return FSI_OK;
}

/* Predictions are made about the pair with the smallest residual: about a far one, rounding of
 * large numbers is what they would end with. */
static void fsi__keep_nearest(fsi_partitioned *c, fsi__exchange *e) {
    if (e->k > 1 && !(e->norm < e->nearest))
        return;
    /* the answer to a mild load says nothing */
    e->nearest = e->k == 1 && !e->exact ? FSI_REAL_MAX : e->norm;
    fsi_copy((size_t)c->n, c->xf, c->xfb);
    fsi_copy((size_t)c->n, c->xs, c->xsb);
    fsi_copy((size_t)c->m, c->pf, c->pfb);
    fsi_copy((size_t)c->m, c->ps, c->psb);
}

/* The next X_F: under-relaxed, Aitken, or eq. (6). */
static void fsi__next_input(fsi_partitioned *c, fsi__exchange *e) {
    size_t n = (size_t)c->n;
    fsi_real omega = c->desc.omega;
    /* omega' = -omega r0.(r - r0) / |r - r0|^2 */
    if (c->desc.scheme == FSI_SCHEME_AITKEN && e->k > 1) {
        double a = 0, b = 0, size = 0, least = 256 * (double)FSI_REAL_EPS;
        for (size_t i = 0; i < n; i++) {
            double d = (double)(c->r[i] - c->r0[i]);
            a += (double)c->r0[i] * d;
            b += d * d;
            size += (double)c->r[i] * (double)c->r[i];
        }
        if (b > least * least * size)
            e->omega = -e->omega * (fsi_real)(a / b);
        omega = e->omega;
    }
    fsi_copy(n, c->r, c->r0);
    fsi_copy(n, c->xf, c->xf0);
    fsi_copy(n, c->xs, c->xs0);
    fsi_copy((size_t)c->m, c->pf, c->pf0);
    fsi_copy((size_t)c->m, c->ps, c->ps0);
    if (c->desc.scheme == FSI_SCHEME_REDUCED) {
        fsi__keep_nearest(c, e);
        /* nothing known yet */
        if (e->k == 1 && c->fluid.old == 0)
            omega = c->desc.start;
        else {
            fsi__pairs_build(&c->solid, c->desc.filter);
            fsi__pairs_build(&c->fluid, c->desc.filter);
            if (e->norm > e->nearest)
                fsi__rmi_residual(c, &c->solid, c->xfb, c->pfb, c->psb, c->xsb, c->r0);
            fsi_copy(n, c->xfb, c->xf);
            if (fsi__rmi_predict(c, &c->fluid, &c->solid, c->r0, c->xf))
                return;
            fsi_copy(n, c->xf0, c->xf);
            e->dropped++;
            omega = c->desc.start;
        }
    }
    fsi_axpy(n, omega, c->r, c->xf); /* X + omega R */
}

/* The pairs of this step become the newest old ones; the oldest step leaves. */
static void fsi__pairs_age(fsi_partitioned *c) {
    int keep = c->desc.reuse, total = 0, newest = fsi__imin(c->fluid.current, c->solid.current);
    for (int i = fsi__imin(c->kept_steps, 15); i > 0; i--)
        c->step_columns[i] = c->step_columns[i - 1];
    c->step_columns[0] = newest;
    c->kept_steps = fsi__imin(c->kept_steps + 1, keep);
    for (int i = 0; i < c->kept_steps; i++)
        total += c->step_columns[i];
    c->fluid.old =
        fsi__imin(total, fsi__imin(c->fluid.current + c->fluid.old, c->columns - c->fluid.basis));
    c->solid.old =
        fsi__imin(total, fsi__imin(c->solid.current + c->solid.old, c->columns - c->fluid.basis));
    c->fluid.current = c->solid.current = 0;
}

/* 1 when the iteration may end: converged, capped or stalled. */
static int fsi__finished(fsi_partitioned *c, fsi__exchange *e, fsi_result *why) {
    fsi_real norm = c->desc.scheme == FSI_SCHEME_RELAXED && c->desc.relaxed_residual
                        ? c->desc.omega * e->norm
                        : e->norm;
    *why = FSI_OK;
    if (norm <= c->desc.tolerance && e->k >= c->desc.min_iterations)
        return 1;
    /* the solid's answer to a mild load: no measure of progress */
    if (e->k == 1 && !e->exact) {
    } else if (e->norm < FSI_R(0.999) * e->best)
        e->best = e->norm, e->lean = 0;
    /* pairs of earlier steps mislead: go on without them */
    else if (++e->lean == 5 && c->fluid.old + c->solid.old > 0) {
        memset(c->fluid.dropped, 1, (size_t)c->columns);
        memset(c->solid.dropped, 1, (size_t)c->columns);
        c->fluid.stale = c->solid.stale = 1;
        c->fluid.old = c->solid.old = 0;
        e->dropped++;
    }
    /* two fifths of the cap without progress, 12 to 24 */
    *why = e->k >= c->desc.max_iterations ? FSI_NOT_CONVERGED : FSI_STALLED;
    return e->k >= c->desc.max_iterations
           || (c->desc.scheme == FSI_SCHEME_REDUCED
               && e->lean >= fsi__imin(24, fsi__imax(12, 2 * c->desc.max_iterations / 5)));
}

static fsi_result fsi__partitioned_loop(fsi_partitioned *c, fsi__exchange *e, double *first) {
    fsi_result r, why = FSI_OK;
    for (;;) {
        if ((r = fsi__call_pair(c, e)) < 0)
            return r;
        fsi__residual(c, e);
        if (e->k == 1)
            *first = (double)e->norm, e->best = FSI_REAL_MAX;
        if (fsi__finished(c, e, &why)) {
            /* the true residual decides */
            if (why == FSI_OK && (r = fsi__final_solve(c, e)) < 0)
                return r;
            if (why != FSI_OK || e->norm <= c->desc.tolerance || c->desc.relaxed_residual
                || e->k >= c->desc.max_iterations)
                break;
        }
        fsi__next_input(c, e);
        if (!fsi_all_finite((size_t)c->n, c->xf))
            return FSI_ERR_NUMERIC;
    }
    if (why == FSI_OK && !(e->norm <= c->desc.tolerance) && !c->desc.relaxed_residual)
        why = FSI_NOT_CONVERGED;
    return why;
}

FSI_API fsi_result fsi_partitioned_step(fsi_partitioned *c, int n, int m, const fsi_blackbox *fluid,
                                        const fsi_blackbox *solid, fsi_real *x, fsi_real *p,
                                        fsi_report *report) {
    double first = 0;
    if (report)
        memset(report, 0, sizeof *report);
    if (!c || !c->block)
        return FSI_ERR_STATE;
    double start = fsi__partitioned_clock(c);
    if (!fluid || !solid || !fluid->solve_fn || !solid->solve_fn || !x || !p || n < 1 || m < 1
        || n > c->desc.n || m > c->desc.m || !fsi_all_finite((size_t)n, x))
        return FSI_ERR_ARGUMENT;
    if (n != c->n || m != c->m)
        fsi_partitioned_forget(c);
    c->n = c->fluid.in = c->solid.out = n;
    c->m = c->fluid.out = c->solid.in = m;
    if (c->desc.reuse == 0)
        c->fluid.old = c->solid.old = 0;
    fsi__pairs_begin(&c->fluid);
    fsi__pairs_begin(&c->solid);
    fsi__exchange e;
    memset(&e, 0, sizeof e);
    e.fluid = fluid;
    e.solid = solid;
    e.omega = c->desc.omega;
    fsi_result r;
    if ((fluid->save_fn && (r = fluid->save_fn(fluid->user)) < 0)
        || (solid->save_fn && (r = solid->save_fn(solid->user)) < 0))
        return r;
    if (c->desc.scheme == FSI_SCHEME_REDUCED) {
        fsi__pairs_build(&c->fluid, c->desc.filter);
        fsi__pairs_build(&c->solid, c->desc.filter);
    }
    fsi_copy((size_t)n, x, c->xf);
    c->seconds[2] -= start;
    r = fsi__partitioned_loop(c, &e, &first);
    c->steps++;
    c->capped += r == FSI_NOT_CONVERGED;
    c->stalled += r == FSI_STALLED;
    c->dependent = c->fluid.dependent + c->solid.dependent;
    c->filtered = c->fluid.old - c->fluid.chosen + c->solid.old - c->solid.chosen;
    c->used_columns += ((double)c->fluid.used - c->used_columns) / (double)c->steps;
    if (r >= 0) {
        fsi_copy((size_t)n, c->xf, x);
        fsi_copy((size_t)m, c->ps, p);
        fsi_copy((size_t)m, c->ps, c->p_last);
        c->has_load = 1;
        fsi__pairs_age(c);
    } else
        fsi_partitioned_forget(c);
    if (report) {
        report->reason = r;
        report->iterations = e.k;
        report->restarts = e.dropped + c->dependent;
        report->residual_start = first;
        report->residual = (double)e.norm;
    }
    c->seconds[2] += fsi__partitioned_clock(c);
    return r;
}

/* ------------------------------------------------------------------------------------------------
 * >>boundary pressure projection */
/* Adds sign * value to the regions on both sides: + where the face leaves the region (its minus
 * side), - on the other. */
static void fsi__region_add(const fsi_boundary_faces *b, int f, fsi_real value, fsi_real *sum) {
    if (b->region_minus[f] >= 0)
        sum[b->region_minus[f]] += value;
    if (b->region_plus[f] >= 0)
        sum[b->region_plus[f]] -= value;
}

/* x = K^-1 x for symmetric semi-definite K (overwritten) and x in its range: a pivot that vanishes
 * pins its unknown to zero. */
static void fsi__semidefinite_solve(int n, fsi_real *K, fsi_real *x) {
    for (int j = 0; j < n; j++) {
        fsi_real d = K[j * n + j], limit = d * FSI_REAL_EPS * (fsi_real)(64 * n);
        for (int k = 0; k < j; k++)
            d -= K[j * n + k] * K[j * n + k];
        d = d > limit ? fsi__sqrt(d) : 0;
        K[j * n + j] = d;
        for (int i = j + 1; i < n; i++) {
            fsi_real s = K[i * n + j];
            for (int k = 0; k < j; k++)
                s -= K[i * n + k] * K[j * n + k];
            K[i * n + j] = d > 0 ? s / d : 0;
        }
    }
    for (int i = 0; i < n; i++) { /* L y = x */
        for (int k = 0; k < i; k++)
            x[i] -= K[i * n + k] * x[k];
        x[i] = K[i * n + i] > 0 ? x[i] / K[i * n + i] : 0;
    }
    for (int i = n - 1; i >= 0; i--) { /* L^T x = y */
        for (int k = i + 1; k < n; k++)
            x[i] -= K[k * n + i] * x[k];
        x[i] = K[i * n + i] > 0 ? x[i] / K[i * n + i] : 0;
    }
}

FSI_API fsi_result fsi_boundary_project(const fsi_boundary_faces *b, fsi_real dt, fsi_real *p0,
                                        fsi_real *work) {
    fsi_result result = FSI_OK;
    if (!b || !p0 || !work || b->faces < 0 || b->regions < 0 || !(dt > 0) || !fsi__finite(dt))
        return FSI_ERR_ARGUMENT;
    int m = b->regions;
    fsi_real *K = work;
    fsi_real *flux = work + (size_t)m * (size_t)m;
    for (int f = 0; f < b->faces; f++)
        if (b->region_minus[f] >= m || b->region_plus[f] >= m || !fsi__finite(b->u[f])
            || !(b->area[f] >= 0) || (!(b->fixed && b->fixed[f]) && !(b->mass[f] > 0)))
            return FSI_ERR_ARGUMENT;
    memset(work, 0, ((size_t)m * (size_t)m + 2 * (size_t)m) * sizeof(fsi_real));
    for (int f = 0; f < b->faces; f++) {
        int r[2];
        r[0] = b->region_minus[f];
        r[1] = b->region_plus[f];
        /* C^T U, scripted faces included */
        fsi__region_add(b, f, b->area[f] * b->u[f], flux);
        if (b->fixed && b->fixed[f])
            continue;
        for (int s = 0; s < 2; s++)
            for (int t = 0; t < 2; t++)
                /* C^T M^-1 C */
                if (r[s] >= 0 && r[t] >= 0)
                    K[r[s] * m + r[t]] += (s == t ? 1 : -1) * b->area[f] * b->area[f] / b->mass[f];
    }
    for (int i = 0; i < m; i++)
        /* nothing here can move */
        if (!(K[i * m + i] > 0)) {
            if (fsi__abs(flux[i]) > 0)
                result = FSI_INCOMPATIBLE;
            K[i * m + i] = 1;
            flux[i] = 0;
        }
    for (int i = 0; i < m; i++)
        p0[i] = flux[i];
    /* dt p0 with the opposite sign */
    fsi__semidefinite_solve(m, K, p0);
    for (int f = 0; f < b->faces; f++) {
        fsi_real jump = (b->region_minus[f] >= 0 ? p0[b->region_minus[f]] : 0)
                        - (b->region_plus[f] >= 0 ? p0[b->region_plus[f]] : 0);
        /* U -= M^-1 C (C^T M^-1 C)^-1 C^T U */
        if (!(b->fixed && b->fixed[f]))
            b->u[f] -= b->area[f] / b->mass[f] * jump;
    }
    for (int i = 0; i < m; i++)
        p0[i] = -p0[i] / dt;
    return result;
}

/* ------------------------------------------------------------------------------------------------
 * >>boxes */
#ifndef FSI_COUPLE_NO_GRID
static void fsi__fluid_box_layout(fsi_fluid_box *b, fsi_arena *a, int sides) {
    size_t s = (size_t)(sides > 0 ? sides : 1);
    b->offset = (int *)fsi_arena_take(a, (size_t)b->face->solids + 1, sizeof(int));
    FSI__REALS(b->rhs0, a, b->grid->cells);
    FSI__REALS(b->u, a, s);
    FSI__REALS(b->u_star, a, s);
    FSI__REALS(b->area, a, s);
    FSI__REALS(b->mass, a, s);
    FSI__REALS(b->jump, a, s);
    FSI__INTS(b->minus, a, s);
    FSI__INTS(b->plus, a, s);
    if (b->swept) {
        size_t elements = 0, vertices = 0;
        for (int i = 0; i < b->face->solids; i++)
            elements += (size_t)b->face->solid[i]->surface.element_count,
                vertices += (size_t)b->face->solid[i]->surface.vertex_count;
        FSI__INTS(b->element, a, 2 * elements);
        FSI__INTS(b->vertex, a, 2 * vertices);
    }
    if (b->pressure_form == 2) {
        size_t vertices = 0, dof = 1;
        for (int i = 0; i < b->face->solids; i++) {
            vertices += (size_t)b->face->solid[i]->surface.vertex_count;
            if (!b->face->solid[i]->node && (size_t)b->face->solid[i]->dof > dof)
                dof = (size_t)b->face->solid[i]->dof;
        }
        b->vertices = (int)vertices;
        FSI__REALS(b->push, a, vertices);
        FSI__REALS(b->normal, a, 3 * vertices);
        FSI__INTS(b->stamp, a, vertices);
        FSI__INTS(b->corner, a, vertices);
        FSI__REALS(b->row, a, dof);
    }
}

/* Room for this many sides, with some to spare; keeps the block when it is large enough. */
static fsi_result fsi__fluid_box_reserve(fsi_fluid_box *b, int sides) {
    fsi_arena a;
    memset(&a, 0, sizeof a);
    fsi__fluid_box_layout(b, &a, sides);
    fsi_result r = fsi__arena_room(&a, &b->block, &b->size, 4, &b->allocator);
    if (r >= 0)
        fsi__fluid_box_layout(b, &a, sides);
    return r;
}

/* The same for closed regions, which are known only when the pressure system stands. */
static fsi_result fsi__fluid_box_regions(fsi_fluid_box *b, int regions) {
    if (regions > b->region_room) {
        fsi_free(&b->allocator, b->p0, 4 * (size_t)b->region_room * sizeof(fsi_real));
        b->region_room = regions + 8;
        b->p0 = (fsi_real *)fsi_alloc(&b->allocator, 4 * (size_t)b->region_room * sizeof(fsi_real));
        if (!b->p0) {
            b->region_room = 0;
            return FSI_ERR_MEMORY;
        }
        b->stiff = b->p0 + b->region_room;
        b->sweep = b->stiff + b->region_room;
        b->source = b->sweep + b->region_room;
    }
    b->regions = regions;
    return FSI_OK;
}

FSI_API void fsi_fluid_box_free(fsi_fluid_box *box) {
    if (!box)
        return;
    fsi_free(&box->allocator, box->block, box->size);
    fsi_free(&box->allocator, box->p0, 4 * (size_t)box->region_room * sizeof(fsi_real));
    fsi_free(&box->allocator, box->kernel, (size_t)box->kernel_room * sizeof *box->kernel);
    fsi_free(&box->allocator, box->moved.block, box->moved.size);
    memset(&box->moved, 0, sizeof box->moved);
    box->kernel = NULL;
    box->kernels = box->kernel_room = 0;
    box->block = NULL;
    box->p0 = NULL;
    box->size = 0;
    box->region_room = 0;
}

/* Closed region of a cell, or -1. */
static int fsi__closed_region(const fsi_grid *g, int32_t cell) {
    int32_t r = g->mg->label[cell];
    return r >= 0 ? (int)r : -1;
}

/* ---- Forces at the vertices (XPM section 4.5). f_i = A_i n_i sum_f K_if dp_f (n_f . n_i) / sum_f
   K_if |n_f . n_i| over the cut faces within 1.5 cells. The paper divides by sum K_if alone, which
   loses the mean of |n_f . n_i| on slanted surfaces; so divided a constant jump gives its exact
   force. */
typedef struct fsi__kernel_visit {
    fsi_fluid_box *b;
    const fsi_surface *u;
    fsi_vec3 centre;
    int side, first, failed;
    fsi_real share;
} fsi__kernel_visit;

static int fsi__kernel_add(int e, void *user) {
    fsi__kernel_visit *k = (fsi__kernel_visit *)user;
    fsi_fluid_box *b = k->b;
    const fsi_side *q = &b->face->side[k->side];
    fsi_real reach = FSI_R(1.5) * b->face->h;
    for (int c = 0; c < k->u->dim; c++) {
        int v = k->u->index[k->u->dim * e + c];
        const fsi_real *x = k->u->x + 3 * v, *n = b->normal + 3 * (k->first + v);
        fsi_vec3 d = fsi_vec_sub(fsi_vec(x[0], x[1], k->u->dim == 2 ? 0 : x[2]), k->centre);
        fsi_real r = fsi_vec_dot(d, d) / (reach * reach),
                 length = fsi__sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
        if (b->stamp[k->first + v] == k->side || !(r < 1) || !(length > 0))
            continue;
        /* a face around the corner of a closed body */
        if (k->u->closed && n[q->axis] * (fsi_real)q->sign > 0)
            continue;
        b->stamp[k->first + v] = k->side;
        if (!fsi__list_grow(&b->allocator, (void **)(void *)&b->kernel, &b->kernel_room, b->kernels,
                            (size_t)b->kernels + 1, sizeof *b->kernel)) {
            k->failed = 1;
            return 1;
        }
        fsi_real w = (1 - r) * (1 - r) * n[q->axis] / length;
        b->kernel[b->kernels].side = k->side;
        b->kernel[b->kernels].vertex = k->first + v;
        b->kernel[b->kernels++].weight = w;
        b->push[k->first + v] += k->share * fsi__abs(w);
    }
    return 0;
}

static fsi_result fsi__fluid_box_kernel(fsi_fluid_box *b) {
    const fsi_interface *f = b->face;
    fsi_real reach = FSI_R(1.5) * f->h;
    int first = 0;
    b->kernels = 0;
    memset(b->push, 0, (size_t)b->vertices * sizeof(fsi_real));
    memset(b->normal, 0, 3 * (size_t)b->vertices * sizeof(fsi_real));
    /* area normals, shared out to the vertices */
    int i;
    for (i = 0; i < f->solids; first += f->solid[i]->surface.vertex_count, i++) {
        const fsi_surface *u = &f->solid[i]->surface;
        for (int e = 0; e < u->element_count; e++)
            for (int c = 0; c < u->dim; c++) {
                fsi_vec3 n = fsi_vec_scale(fsi_surface_normal(u, e), 1 / (fsi_real)u->dim);
                fsi_real *to = b->normal + 3 * (first + u->index[u->dim * e + c]);
                to[0] += n.x;
                to[1] += n.y;
                to[2] += n.z;
                b->corner[first + u->index[u->dim * e + c]] = e;
            }
    }
    for (i = 0; i < b->vertices; i++)
        b->stamp[i] = -1;
    fsi__kernel_visit k;
    memset(&k, 0, sizeof k);
    k.b = b;
    for (int s = 0; s < f->sides && !k.failed; s++) {
        const fsi_side *q = &f->side[s];
        int twin = (s && q[-1].face == q->face && q[-1].axis == q->axis)
                   || (s + 1 < f->sides && q[1].face == q->face && q[1].axis == q->axis);
        for (k.first = 0, i = 0; i < q->solid; i++)
            k.first += f->solid[i]->surface.vertex_count;
        k.u = &f->solid[q->solid]->surface;
        k.side = s;
        k.centre = fsi_interface_centre(f, q);
        /* a face counts once, with fluid on one side or on both */
        k.share = twin && !k.u->closed ? FSI_R(0.5) : 1;
        (void)fsi_bvh_overlap(
            f->bvh + q->solid, fsi_vec_sub(k.centre, fsi_vec(reach, reach, reach)),
            fsi_vec_add(k.centre, fsi_vec(reach, reach, reach)), fsi__kernel_add, &k);
    }
    if (k.failed)
        return FSI_ERR_MEMORY;
    for (int e = 0; e < b->kernels; e++)
        if (b->push[b->kernel[e].vertex] > 0)
            b->kernel[e].weight /= b->push[b->kernel[e].vertex];
    return FSI_OK;
}

/* out += the impulses of the sides' signed pressures p, Pa s, at the vertices. */
static void fsi__fluid_box_push(fsi_fluid_box *b, const fsi_real *p, fsi_real *out) {
    const fsi_interface *f = b->face;
    int first = 0;
    memset(b->push, 0, (size_t)b->vertices * sizeof(fsi_real));
    for (int e = 0; e < b->kernels; e++)
        b->push[b->kernel[e].vertex] += b->kernel[e].weight * p[b->kernel[e].side];
    for (int i = 0; i < f->solids; first += f->solid[i]->surface.vertex_count, i++) {
        const fsi_coupled *o = f->solid[i];
        fsi_real *to = out + b->offset[i];
        for (int v = 0; v < o->surface.vertex_count; v++) {
            const fsi_real *x = o->surface.x + 3 * v;
            for (int c = 0; c < f->dim && b->push[first + v] != 0; c++) {
                fsi_real w[3] = {0, 0, 0},
                         push = b->push[first + v] * b->normal[3 * (first + v) + c];
                if (o->node) {
                    to[3 * o->node[v] + c] += push;
                    continue;
                }
                for (int k = 0; k < f->dim; k++)
                    w[k] = o->surface.index[f->dim * b->corner[first + v] + k] == v;
                o->row_fn(o, b->corner[first + v], w, fsi_vec(x[0], x[1], x[2]),
                          fsi_vec((fsi_real)(c == 0), (fsi_real)(c == 1), (fsi_real)(c == 2)),
                          b->row);
                for (int k = 0; k < o->dof; k++)
                    to[k] += b->row[k] * push;
            }
        }
    }
}

/* Which closed regions each element of a nodal surface lies between: told by the sides it makes,
   and carried on over shared vertices to elements that no line of cell centres meets. element[2 e +
   0] is behind the element (against its normal), [2 e + 1] before it. */
static void fsi__fluid_box_elements(fsi_fluid_box *b) {
    const fsi_interface *f = b->face;
    size_t first = 0, total = 0, corner = 0;
    int i, missing = 1;
    for (i = 0; i < f->solids; i++)
        total += (size_t)f->solid[i]->surface.element_count,
            corner += (size_t)f->solid[i]->surface.vertex_count;
    for (size_t e = 0; e < 2 * total; e++)
        b->element[e] = -2;
    for (size_t v = 0; v < 2 * corner; v++)
        b->vertex[v] = -2;
    int k;
    for (int s = 0; s < f->sides; s++) {
        const fsi_side *q = &f->side[s];
        fsi_vec3 n = fsi_surface_normal(&f->solid[q->solid]->surface, q->element);
        for (first = 0, i = 0; i < q->solid; i++)
            first += (size_t)f->solid[i]->surface.element_count;
        /* the cell lies where the normal points to */
        k = fsi__get(n, q->axis) * (fsi_real)q->sign < 0;
        b->element[2 * (first + (size_t)q->element) + (size_t)k] =
            b->minus[s] >= 0 ? b->minus[s] : b->plus[s];
    }
    for (int round = 0; missing && round < 64; round++)
        for (missing = 0, first = corner = 0, i = 0; i < f->solids;
             first += (size_t)f->solid[i]->surface.element_count,
            corner += (size_t)f->solid[i]->surface.vertex_count, i++) {
            const fsi_surface *u = &f->solid[i]->surface;
            /* known elements tell their vertices */
            for (int c = 0; c < 2 * u->element_count; c++) {
                int32_t r = b->element[2 * first + (size_t)c];
                for (k = 0; r != -2 && k < u->dim; k++)
                    b->vertex[2 * (corner + (size_t)u->index[u->dim * (c / 2) + k])
                              + (size_t)(c & 1)] = r;
            }
            /* and these the unknown ones */
            for (int c = 0; c < 2 * u->element_count; c++) {
                int32_t *r = &b->element[2 * first + (size_t)c];
                for (k = 0; *r == -2 && k < u->dim; k++)
                    *r = b->vertex[2 * (corner + (size_t)u->index[u->dim * (c / 2) + k])
                                   + (size_t)(c & 1)];
                missing |= *r == -2;
            }
        }
}

/* Volume that an element sweeps along its normal while its vertices go from x to x + d: in 2D twice
   the area of a quadrilateral's halves, in 3D the integral over the motion of area . velocity,
   exact for motion along straight lines. */
static double fsi__swept_volume(int dim, const fsi_vec3 *x, const fsi_vec3 *d) {
    fsi_vec3 p = fsi_vec_sub(x[1], x[0]), u = fsi_vec_sub(d[1], d[0]);
    /* mean displacement . normal (y, -x) of the mean edge */
    if (dim == 2) {
        fsi_vec3 m = fsi_vec_scale(fsi_vec_add(d[0], d[1]), FSI_R(0.5)),
                 e = fsi_vec_mad(p, u, FSI_R(0.5));
        return (double)m.x * (double)e.y - (double)m.y * (double)e.x;
    }
    fsi_vec3 q = fsi_vec_sub(x[2], x[0]);
    fsi_vec3 w = fsi_vec_sub(d[2], d[0]);
    /* mean displacement / 2 */
    fsi_vec3 sum = fsi_vec_scale(fsi_vec_add(fsi_vec_add(d[0], d[1]), d[2]), FSI_R(1) / 6);
    /* area normal n0 + t n1 + t^2 n2 */
    fsi_vec3 n0 = fsi_vec_cross(p, q);
    fsi_vec3 n1 = fsi_vec_add(fsi_vec_cross(p, w), fsi_vec_cross(u, q));
    fsi_vec3 n2 = fsi_vec_cross(u, w);
    return (double)fsi_vec_dot(sum, fsi_vec_mad(fsi_vec_mad(n0, n1, FSI_R(0.5)), n2, FSI_R(1) / 3));
}

/* sweep[region] += volume that the nodal surfaces around it sweep under X, per second, less what
 * their sides make of it. */
static void fsi__fluid_box_sweep(fsi_fluid_box *b, const fsi_real *X) {
    const fsi_interface *f = b->face;
    size_t first = 0;
    memset(b->sweep, 0, (size_t)b->regions * sizeof(fsi_real));
    for (int i = 0; i < f->solids; first += (size_t)f->solid[i]->surface.element_count, i++) {
        const fsi_coupled *o = b->follow ? b->moved.given[i] : f->solid[i];
        for (int e = 0; o->node && e < o->surface.element_count; e++) {
            int32_t back = b->element[2 * (first + (size_t)e)],
                    front = b->element[2 * (first + (size_t)e) + 1];
            fsi_vec3 x[3], d[3];
            if (back < 0 && front < 0)
                continue;
            for (int k = 0; k < o->surface.dim; k++) {
                int v = o->surface.index[o->surface.dim * e + k];
                const fsi_real *at = o->surface.x + 3 * v,
                               *move = X + b->offset[i] + 3 * o->node[v];
                x[k] = fsi_vec(at[0], at[1], at[2]);
                d[k] = fsi_vec(move[0], move[1], move[2]);
            }
            double volume = fsi__swept_volume(o->surface.dim, x, d) / (double)b->dt;
            if (back >= 0)
                b->sweep[back] += (fsi_real)volume;
            if (front >= 0)
                b->sweep[front] -= (fsi_real)volume;
        }
    }
    for (int s = 0; s < f->sides; s++) {
        int region = b->minus[s] >= 0 ? b->minus[s] : b->plus[s];
        if (region >= 0 && f->solid[f->side[s].solid]->node)
            b->sweep[region] -= (fsi_real)f->side[s].sign * b->area[s] * b->u[s];
    }
}

/* The pressure system for the sides of the present interface. */
static fsi_result fsi__fluid_box_system(fsi_fluid_box *box) {
    fsi_grid *g = box->grid;
    fsi_interface *f = box->face;
    const fsi_real *w[3];
    fsi_real area = g->dim == 2 ? g->h : g->h * g->h;
    fsi_result r;
    if ((r = fsi_interface_sides(f, g)) < 0 || (r = fsi__fluid_box_reserve(box, f->sides)) < 0)
        return r;
    int s;
    for (s = 0; s < f->sides; s++) {
        /* solids at rest; their flux is added in every solve */
        f->velocity[f->side[s].axis][f->side[s].face] = 0;
        /* build_pressure writes over it */
        box->u_star[s] = fsi_interface_sample(g, &f->side[s]);
    }
    if ((r = fsi_grid_build_pressure(g, box->dt)) < 0)
        return r;
    for (int a = 0; a < 3; a++)
        w[a] = g->weight[a];
    /* labels of the closed regions */
    if ((r = fsi_mg_update(g->mg, g->cell, w)) < 0)
        return r;
    fsi_copy(g->cells, g->rhs, box->rhs0);
    if ((r = fsi__fluid_box_regions(box, g->mg->regions)) < 0)
        return r;
    int c;
    for (c = 0; c < box->regions; c++)
        box->source[c] = 0;
    /* what the solids at rest leave over */
    for (c = 0; box->regions && c < (int)g->cells; c++)
        if (g->cell[c] == FSI_CELL_FLUID && fsi__closed_region(g, c) >= 0)
            box->source[fsi__closed_region(g, c)] += g->rhs[c] * area / (g->desc.rho * g->h);
    for (box->injected = 0, c = 0; c < box->regions; c++)
        box->injected += (double)box->source[c];
    for (box->offset[0] = 0, s = 0; s < f->solids; s++)
        box->offset[s + 1] = box->offset[s] + f->solid[s]->dof;
    box->dof = box->offset[f->solids];
    box->n = box->dof + box->regions;
    for (s = 0; s < f->sides; s++) {
        const fsi_side *q = &f->side[s];
        int region = fsi__closed_region(g, q->cell);
        box->area[s] = area * q->share;
        box->mass[s] = q->mass > 0 ? q->mass : area * g->h * g->desc.rho / 2;
        box->minus[s] = q->sign > 0 ? region : -1;
        box->plus[s] = q->sign > 0 ? -1 : region;
    }
    if (box->swept && box->regions)
        fsi__fluid_box_elements(box);
    return box->pressure_form == 2 ? fsi__fluid_box_kernel(box) : FSI_OK;
}

/* ---- Geometry that follows: doubles of the solids whose open nodal surfaces go where X says. */
static void fsi__follow_layout(fsi_fluid_box *b, fsi_arena *a) {
    const fsi_interface *f = b->face;
    fsi__follow *m = &b->moved;
    size_t vertices = 0;
    for (int i = 0; i < f->solids; i++)
        vertices += (size_t)f->solid[i]->surface.vertex_count;
    m->list = (fsi_coupled **)fsi_arena_take(a, (size_t)f->solids + 1, sizeof *m->list);
    m->copy = (fsi_coupled *)fsi_arena_take(a, (size_t)f->solids + 1, sizeof *m->copy);
    FSI__REALS(m->x, a, 3 * vertices + 1);
    for (int i = 0; i < b->grid->dim; i++) {
        FSI__REALS(m->u[i], a, b->grid->faces[i]);
        m->plus[i] = b->grid->u_plus[i]
                         ? (fsi_real *)fsi_arena_take(a, b->grid->faces[i], sizeof(fsi_real))
                         : NULL;
    }
}

static fsi_result fsi__follow_begin(fsi_fluid_box *b) {
    fsi__follow *m = &b->moved;
    fsi_arena a;
    memset(&a, 0, sizeof a);
    fsi__follow_layout(b, &a);
    fsi_result r;
    if ((r = fsi__arena_room(&a, &m->block, &m->size, 0, &b->allocator)) < 0)
        return r;
    fsi__follow_layout(b, &a);
    m->given = b->face->solid;
    for (int i = 0; i < b->face->solids; i++)
        m->list[i] = &m->copy[i];
    for (int i = 0; i < b->grid->dim; i++) {
        fsi_copy(b->grid->faces[i], b->grid->u[i], m->u[i]);
        if (m->plus[i])
            fsi_copy(b->grid->faces[i], b->grid->u_plus[i], m->plus[i]);
    }
    return FSI_OK;
}

FSI_API fsi_result fsi_fluid_box_follow(fsi_fluid_box *box, const fsi_real *X) {
    fsi_fluid_box *b = box;
    fsi__follow *m = &b->moved;
    fsi_interface *f = b->face;
    fsi_grid *g = b->grid;
    fsi_real *x = m->x;
    if (!b->follow || !m->block)
        return FSI_ERR_STATE;
    for (int i = 0; i < f->solids; X += m->given[i]->dof, i++) {
        const fsi_coupled *from = m->given[i];
        m->copy[i] = *from;
        if (!from->node || from->surface.closed)
            continue;
        for (int v = 0; v < from->surface.vertex_count; v++)
            for (int k = 0; k < 3; k++)
                x[3 * v + k] = from->surface.x[3 * v + k] + X[3 * from->node[v] + k];
        m->copy[i].surface.x = x;
        x += 3 * (size_t)from->surface.vertex_count;
    }
    fsi_result r;
    if ((r = fsi_interface_detect(f, g, m->list, f->solids)) < 0)
        return r;
    for (int i = 0; i < g->dim; i++) {
        fsi_copy(g->faces[i], m->u[i], g->u[i]);
        /* no longer cut: both sides' samples become one, momentum stays */
        for (size_t q = 0; m->plus[i] && q < g->faces[i]; q++)
            if (f->blocked[i][q])
                g->u_plus[i][q] = m->plus[i][q];
            else
                g->u[i][q] = g->u_plus[i][q] = (m->u[i][q] + m->plus[i][q]) / 2;
    }
    return fsi__fluid_box_system(b);
}

FSI_API fsi_result fsi_fluid_box_begin(fsi_fluid_box *box, fsi_real dt) {
    fsi_grid *g = box ? box->grid : NULL;
    if (!g || !box->face || !(dt > 0) || !fsi__finite(dt))
        return FSI_ERR_ARGUMENT;
    box->dt = dt;
    fsi_result r;
    if ((r = fsi_grid_classify(g)) < 0 || (box->follow && (r = fsi__follow_begin(box)) < 0)
        || (r = fsi__fluid_box_system(box)) < 0)
        return r;
    box->solves = box->iterations = 0;
    return FSI_OK;
}

/* 1: a flux of a closed region is more than round-off, by the part of a cell that it fills in the
 * step. */
static int fsi__fluid_box_excess(const fsi_fluid_box *b, fsi_real flux) {
    fsi_real cell = b->grid->h * b->grid->h * (b->grid->dim == 2 ? 1 : b->grid->h);
    return fsi__abs(flux) * b->dt > fsi__sqrt(FSI_REAL_EPS) * cell;
}

/* Makes box->u compatible with every closed region: sum over its sides of outward flux = what is
 * injected there. p0 in Pa s. */
static fsi_result fsi__fluid_box_project(fsi_fluid_box *b) {
    fsi_result result = FSI_OK;
    for (int i = 0; i < b->regions; i++)
        b->p0[i] = -b->source[i], b->stiff[i] = 0;
    b->leak = 0;
    for (int s = 0; s < b->face->sides; s++) {
        int region = b->minus[s] >= 0 ? b->minus[s] : b->plus[s];
        if (region < 0)
            continue;
        /* C^T U */
        b->p0[region] += (fsi_real)b->face->side[s].sign * b->area[s] * b->u[s];
        /* C^T M^-1 C: every side has its own sample, so regions do not mix here */
        b->stiff[region] += b->area[s] * b->area[s] / b->mass[s];
    }
    for (int i = 0; i < b->regions; i++) {
        b->leak += (double)((b->p0[i] + (b->swept ? b->sweep[i] : 0)) * b->dt);
        /* nothing can give way */
        if (!(b->stiff[i] > 0) && fsi__fluid_box_excess(b, b->p0[i]))
            result = FSI_INCOMPATIBLE;
        b->p0[i] = b->stiff[i] > 0 ? -b->p0[i] / b->stiff[i] : 0; /* p0 dt */
    }
    for (int s = 0; s < b->face->sides; s++) {
        int region = b->minus[s] >= 0 ? b->minus[s] : b->plus[s];
        if (region >= 0)
            b->u[s] += (fsi_real)b->face->side[s].sign * b->area[s] / b->mass[s] * b->p0[region];
    }
    for (int i = 0; b->swept && i < b->regions; i++)
        if (b->stiff[i] > 0)
            b->p0[i] -= b->sweep[i] / b->stiff[i];
    return result;
}

/* Pressure for the side velocities in box->u. */
static fsi_result fsi__fluid_box_pressure(fsi_fluid_box *b) {
    fsi_grid *g = b->grid;
    fsi_mg_solve_desc d;
    memset(&d, 0, sizeof d);
    d.tolerance = b->tolerance > 0 ? b->tolerance : sizeof(fsi_real) == 4 ? 1e-5 : 1e-10;
    fsi_copy(g->cells, b->rhs0, g->rhs);
    for (int s = 0; s < b->face->sides; s++) {
        const fsi_side *q = &b->face->side[s];
        g->rhs[q->cell] -= g->desc.rho * g->h * q->share * (fsi_real)q->sign * b->u[s];
    }
    /* round-off of the projection above */
    fsi_mg_project(g->mg, g->rhs);
    fsi_report report;
    fsi_result r = fsi_mg_solve(g->mg, &d, g->rhs, g->pressure, &report);
    b->solves++;
    b->iterations += report.iterations;
    return r;
}

/* Velocities at the sides for X, made compatible with the closed regions. */
static fsi_result fsi__fluid_box_sides(fsi_fluid_box *b, const fsi_real *X) {
    const fsi_interface *f = b->face;
    for (int s = 0; s < f->sides; s++) {
        const fsi_side *q = &f->side[s];
        const fsi_real *x = X + b->offset[q->solid];
        fsi_real v = 0;
        for (int e = q->row; e < q->row_end; e++)
            v += f->val[e] * x[f->col[e]];
        b->u[s] = v / b->dt; /* J v */
    }
    if (b->swept && b->regions)
        fsi__fluid_box_sweep(b, X);
    return fsi__fluid_box_project(b);
}

/* What the sides take in box->jump, handed to the solids: out += J^T jump, or the means around the
 * vertices. */
static void fsi__fluid_box_hand(fsi_fluid_box *b, int form, fsi_real *out) {
    const fsi_interface *f = b->face;
    if (form == 2) {
        fsi__fluid_box_push(b, b->jump, out);
        return;
    }
    for (int s = 0; s < f->sides; s++)
        for (int e = f->side[s].row; e < f->side[s].row_end; e++)
            out[b->offset[f->side[s].solid] + f->col[e]] += f->val[e] * b->jump[s];
}

/* out += share of what the last solve gives the solids in this form: -lambda = sign A p dt - beta
 * (u - u*), or pressure alone. */
static void fsi__fluid_box_give(fsi_fluid_box *b, int form, fsi_real share, fsi_real *out) {
    for (int s = 0; s < b->face->sides; s++) {
        const fsi_side *q = &b->face->side[s];
        b->jump[s] =
            share * (fsi_real)q->sign * (form == 2 ? 1 : b->area[s]) * b->grid->pressure[q->cell];
        if (!form)
            b->jump[s] -= share * q->mass * (b->u[s] - b->u_star[s]);
    }
    fsi__fluid_box_hand(b, form, out);
}

/* X entry of a region: its p dt over this. A displacement: that of half a dual cell under p. */
static fsi_real fsi__fluid_box_per_region(const fsi_fluid_box *b) {
    return b->grid->desc.rho * b->grid->h / (2 * b->dt);
}

/* out += what one pressure pi per region (as X entries) does to the solids: p dt times the gradient
   of the region's volume, which is the area of sides, or of the elements of nodal surfaces where
   the volume is what they sweep. */
static void fsi__fluid_box_inflate(fsi_fluid_box *b, const fsi_real *pi, fsi_real *out) {
    const fsi_interface *f = b->face;
    fsi_real per_region = fsi__fluid_box_per_region(b);
    size_t first = 0;
    for (int s = 0; s < f->sides; s++) {
        int region = b->minus[s] >= 0 ? b->minus[s] : b->plus[s],
            by_element = b->swept && f->solid[f->side[s].solid]->node != NULL;
        b->jump[s] = region >= 0 && !by_element
                         ? (fsi_real)f->side[s].sign * (b->pressure_form == 2 ? 1 : b->area[s])
                               * pi[region] * per_region
                         : 0;
    }
    fsi__fluid_box_hand(b, b->pressure_form, out);
    for (int i = 0; b->swept && i < f->solids;
         first += (size_t)f->solid[i]->surface.element_count, i++) {
        const fsi_coupled *o = f->solid[i];
        for (int e = 0; o->node && e < o->surface.element_count; e++) {
            int32_t back = b->element[2 * (first + (size_t)e)],
                    front = b->element[2 * (first + (size_t)e) + 1];
            fsi_real p = ((back >= 0 ? pi[back] : 0) - (front >= 0 ? pi[front] : 0)) * per_region
                         / (fsi_real)o->surface.dim;
            fsi_vec3 n = fsi_surface_normal(&o->surface, e);
            for (int k = 0; p != 0 && k < o->surface.dim; k++)
                for (int c = 0; c < f->dim; c++)
                    out[b->offset[i] + 3 * o->node[o->surface.index[o->surface.dim * e + k]] + c] +=
                        p * fsi__get(n, c);
        }
    }
}

static fsi_result fsi__fluid_box_solve(void *user, const fsi_real *in, fsi_real *out) {
    fsi_fluid_box *b = (fsi_fluid_box *)user;
    fsi_real per_region = fsi__fluid_box_per_region(b);
    fsi_result r, worst = fsi__fluid_box_sides(b, in);
    if ((r = fsi__fluid_box_pressure(b)) < 0)
        return r;
    memset(out, 0, (size_t)b->n * sizeof(fsi_real));
    for (int i = 0; i < b->regions; i++)
        out[b->dof + i] = in[b->dof + i] + (b->bpp ? b->p0[i] / per_region : 0);
    fsi__fluid_box_give(b, b->pressure_form, 1, out);
    if (b->bpp && b->regions)
        fsi__fluid_box_inflate(b, out + b->dof, out);
    return worst ? worst : r;
}

FSI_API fsi_blackbox fsi_fluid_box_door(fsi_fluid_box *box) {
    fsi_blackbox b;
    memset(&b, 0, sizeof b);
    b.solve_fn = fsi__fluid_box_solve;
    b.user = box;
    return b;
}

FSI_API fsi_result fsi_fluid_box_finish(fsi_fluid_box *box) {
    fsi_interface *f = box->face;
    for (int s = 0; s < f->sides; s++)
        f->velocity[f->side[s].axis][f->side[s].face] = box->u[s];
    fsi_result r;
    if ((r = fsi_grid_apply_pressure(box->grid)) < 0)
        return r;
    for (int s = 0; s < f->sides; s++)
        fsi_interface_set_sample(f, box->grid, &f->side[s], box->u[s]);
    return r;
}

/* ---- solids */
typedef struct fsi__implicit_mass {
    const fsi_coupled *s;
    fsi_real *t;
} fsi__implicit_mass;

/* y = (M + B^T B) x, fixed nodes as identity */
static void fsi__implicit_mass_apply(const fsi_real *x, fsi_real *y, void *user) {
    const fsi__implicit_mass *m = (const fsi__implicit_mass *)user;
    fsi_csr_mul(m->s->implicit, x, m->t);
    fsi_csr_tmul(m->s->implicit, m->t, y);
    for (int i = 0; i < m->s->dof; i++) {
        fsi_real w = m->s->inverse_mass[i / 3];
        y[i] = w > 0 ? y[i] + x[i] / w : x[i];
    }
}

/* The linear system of a door with an implicit part; m->t, b and x of length rows, dof, dof stand
 * at the head of its work space. */
static void fsi__door_system(const fsi_coupled *s, fsi__implicit_mass *m, fsi_krylov_desc *d) {
    memset(d, 0, sizeof *d);
    m->s = s;
    d->n = (size_t)s->dof;
    d->A.apply_fn = fsi__implicit_mass_apply;
    d->A.user = m;
    d->tolerance = sizeof(fsi_real) == 4 ? 1e-5 : 1e-12;
}

/* Reals of work space that the response of a door needs. */
static size_t fsi__door_work(const fsi_coupled *s) {
    if (!s->node || !s->implicit)
        return 0;
    fsi_krylov_desc d;
    fsi__implicit_mass m;
    fsi__door_system(s, &m, &d);
    return (size_t)s->implicit->rows + 2 * (size_t)s->dof + 16
           + fsi_cg_work_size(&d) / sizeof(fsi_real);
}

/* dv = (M + B^T B)^-1 (impulse + push) of one solid through its door. */
static fsi_result fsi__door_respond(const fsi_coupled *s, fsi_real *work, const fsi_real *impulse,
                                    fsi_real *v) {
    int n = s->dof;
    if (!s->node) {
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                v[i] += s->inverse_mass[i * n + j] * impulse[j];
        return FSI_OK;
    }
    if (!s->implicit) {
        for (int i = 0; i < n; i++)
            v[i] += s->inverse_mass[i / 3] * (impulse[i] + (s->push ? s->push[i] : 0));
        return FSI_OK;
    }
    /* (M + B^T B) v = M v* + push + impulse */
    {
        fsi_real *b = work + s->implicit->rows, *x = b + n;
        unsigned char *rest = (unsigned char *)(x + n);
        rest += (64 - (size_t)((uintptr_t)rest & 63)) & 63;
        fsi__implicit_mass m;
        m.t = work;
        fsi_krylov_desc d;
        fsi__door_system(s, &m, &d);
        for (int i = 0; i < n; i++)
            b[i] = s->inverse_mass[i / 3] > 0
                       ? v[i] / s->inverse_mass[i / 3] + impulse[i] + (s->push ? s->push[i] : 0)
                       : v[i];
        fsi_result r = fsi_cg_solve(&d, b, x, rest, fsi_cg_work_size(&d), NULL);
        if (r >= 0)
            fsi_copy((size_t)n, x, v);
        return r < 0 ? r : FSI_OK;
    }
}

FSI_API fsi_result fsi_solid_box_begin(fsi_solid_box *box, fsi_real dt, int regions) {
    size_t n = 0, work = 0;
    if (!box || (!box->part && box->count) || box->count < 0 || regions < 0 || !(dt > 0))
        return FSI_ERR_ARGUMENT;
    int i;
    for (i = 0; i < box->count; i++) {
        if (!box->part[i].solid || !box->part[i].solid->v)
            return FSI_ERR_ARGUMENT;
        n += (size_t)box->part[i].solid->dof;
        if (!box->part[i].respond_fn && fsi__door_work(box->part[i].solid) > work)
            work = fsi__door_work(box->part[i].solid);
    }
    if (n + work > box->v0_room) {
        fsi_free(&box->allocator, box->v0, box->v0_room * sizeof(fsi_real));
        /* rows of an implicit part may grow a little */
        box->v0_room = n + work + work / 8;
        box->v0 = (fsi_real *)fsi_alloc(&box->allocator, box->v0_room * sizeof(fsi_real));
        if (!box->v0) {
            box->v0_room = 0;
            return FSI_ERR_MEMORY;
        }
    }
    for (n = 0, i = 0; i < box->count; n += (size_t)box->part[i].solid->dof, i++)
        fsi_copy((size_t)box->part[i].solid->dof, box->part[i].solid->v, box->v0 + n);
    box->dt = dt;
    box->regions = regions;
    box->status = FSI_OK;
    return FSI_OK;
}

FSI_API void fsi_solid_box_free(fsi_solid_box *box) {
    if (!box)
        return;
    fsi_free(&box->allocator, box->v0, box->v0_room * sizeof(fsi_real));
    box->v0 = NULL;
    box->v0_room = 0;
}

static fsi_result fsi__solid_box_solve(void *user, const fsi_real *in, fsi_real *out) {
    fsi_solid_box *b = (fsi_solid_box *)user;
    fsi_result worst = FSI_OK;
    size_t at = 0;
    for (int i = 0; i < b->count; i++) {
        fsi_solid_part *p = &b->part[i];
        fsi_real *v = p->solid->v;
        fsi_copy((size_t)p->solid->dof, b->v0 + at, v);
        fsi_result r = p->respond_fn
                           ? p->respond_fn(p->user, b->dt, in + at, v)
                           : fsi__door_respond(
                               p->solid, b->v0 + b->v0_room - fsi__door_work(p->solid), in + at, v);
        if (r < 0)
            return r;
        if (r > 0)
            b->status = worst = r;
        if (p->solid->impulse)
            fsi_copy((size_t)p->solid->dof, in + at, p->solid->impulse);
        for (int k = 0; k < p->solid->dof; k++)
            out[at + (size_t)k] = b->dt * v[k];
        at += (size_t)p->solid->dof;
    }
    for (int k = 0; k < b->regions; k++)
        out[at + (size_t)k] = in[at + (size_t)k];
    return worst;
}

FSI_API fsi_blackbox fsi_solid_box_door(fsi_solid_box *box) {
    fsi_blackbox b;
    memset(&b, 0, sizeof b);
    b.solve_fn = fsi__solid_box_solve;
    b.user = box;
    return b;
}

FSI_API fsi_result fsi_soft_responder_begin(fsi_soft_responder *r) {
    size_t need = fsi_soft_state_size(r->soft);
    if (need > r->room) {
        fsi_free(&r->allocator, r->state, r->room);
        r->state = fsi_alloc(&r->allocator, need);
        r->room = r->state ? need : 0;
        if (!r->state)
            return FSI_ERR_MEMORY;
    }
    return fsi_soft_save(r->soft, r->state);
}

FSI_API fsi_result fsi_soft_respond(void *responder, fsi_real dt, const fsi_real *impulse,
                                    fsi_real *v) {
    fsi_soft_responder *r = (fsi_soft_responder *)responder;
    int n = 3 * r->soft->desc.vertex_count;
    fsi_result result = fsi_soft_restore(r->soft, r->state);
    if (result < 0)
        return result;
    for (int i = 0; i < n; i++)
        r->soft->force[i] += impulse[i] / dt;
    result = fsi_soft_forces(r->soft, dt);
    for (int i = 0; i < n; i++)
        r->soft->force[i] -= impulse[i] / dt;
    if (result < 0)
        return result;
    if ((result = fsi_soft_finish(r->soft)) < 0)
        return result;
    fsi_copy((size_t)n, r->soft->v, v);
    return result;
}

FSI_API void fsi_soft_responder_free(fsi_soft_responder *r) {
    if (!r)
        return;
    fsi_free(&r->allocator, r->state, r->room);
    r->state = NULL;
    r->room = 0;
}

static fsi_result fsi__soft_guest_begin(void *responder, fsi_real dt) {
    fsi_soft_responder *r = (fsi_soft_responder *)responder;
    fsi_result result =
        r->soft->desc.integrator == FSI_SOFT_SPLIT ? fsi_soft_forces(r->soft, dt) : FSI_OK;
    if (result < 0)
        return result;
    fsi_soft_coupled(r->soft, &r->door);
    return fsi_soft_responder_begin(r);
}

static fsi_result fsi__soft_guest_move(void *responder, fsi_real dt) {
    return fsi_soft_move(((fsi_soft_responder *)responder)->soft, dt);
}

FSI_API fsi_guest fsi_soft_guest(fsi_soft_responder *r) {
    fsi_guest g;
    memset(&g, 0, sizeof g);
    g.door = &r->door;
    g.begin_fn = fsi__soft_guest_begin;
    g.move_fn = fsi__soft_guest_move;
    g.user = g.respond_user = r;
    if (r->soft->desc.integrator != FSI_SOFT_SPLIT)
        g.respond_fn = fsi_soft_respond;
    return g;
}

/* ---- embedded points */
static void fsi__embedded_layout(fsi_embedded *e, fsi_arena *a) {
    size_t n = (size_t)e->inner->surface.vertex_count, dof = (size_t)e->inner->dof;
    FSI__REALS(e->J, a, 3 * n * dof);
    FSI__REALS(e->v, a, 3 * n);
    FSI__REALS(e->v0, a, dof);
    FSI__REALS(e->ones, a, n);
    FSI__REALS(e->load, a, dof);
    FSI__INTS(e->node, a, n);
    FSI__INTS(e->element, a, n);
}

FSI_API void fsi_embedded_free(fsi_embedded *e) {
    if (!e)
        return;
    fsi_free(&e->allocator, e->block, e->size);
    e->block = NULL;
    e->size = 0;
}

/* v = J v of the solid */
static void fsi__embedded_velocity(const fsi_embedded *e, fsi_real *v) {
    int k, dof = e->inner->dof;
    for (int i = 0; i < e->door.dof; i++)
        for (v[i] = 0, k = 0; k < dof; k++)
            v[i] += e->J[(size_t)i * (size_t)dof + (size_t)k] * e->inner->v[k];
}

FSI_API fsi_result fsi_embedded_begin(fsi_embedded *e) {
    if (!e || !e->inner || e->inner->node || !e->inner->row_fn)
        return FSI_ERR_ARGUMENT;
    const fsi_surface *u = &e->inner->surface;
    fsi_arena a;
    memset(&a, 0, sizeof a);
    fsi__embedded_layout(e, &a);
    fsi_result r;
    if ((r = fsi__arena_room(&a, &e->block, &e->size, 0, &e->allocator)) < 0)
        return r;
    fsi__embedded_layout(e, &a);
    for (int i = 0; i < u->element_count * u->dim; i++)
        e->element[u->index[i]] = i / u->dim;
    for (int i = 0; i < u->vertex_count; i++) {
        fsi_real w[3] = {0, 0, 0};
        e->node[i] = i;
        e->ones[i] = 1;
        for (int k = 0; k < u->dim; k++)
            w[k] = u->index[u->dim * e->element[i] + k] == i;
        for (int c = 0; c < 3; c++)
            e->inner->row_fn(e->inner, e->element[i], w,
                             fsi_vec(u->x[3 * i], u->x[3 * i + 1], u->x[3 * i + 2]),
                             fsi_vec((fsi_real)(c == 0), (fsi_real)(c == 1), (fsi_real)(c == 2)),
                             e->J + (size_t)(3 * i + c) * (size_t)e->inner->dof);
    }
    fsi_copy((size_t)e->inner->dof, e->inner->v, e->v0);
    memset(&e->door, 0, sizeof e->door);
    e->door.surface = *u;
    e->door.dof = 3 * u->vertex_count;
    e->door.node = e->node;
    e->door.mass = e->door.inverse_mass = e->ones;
    e->door.v = e->v;
    fsi__embedded_velocity(e, e->v);
    return FSI_OK;
}

FSI_API fsi_result fsi_embedded_respond(void *embedded, fsi_real dt, const fsi_real *impulse,
                                        fsi_real *v) {
    fsi_embedded *e = (fsi_embedded *)embedded;
    int n = e->inner->dof;
    (void)dt;
    memset(e->load, 0, (size_t)n * sizeof(fsi_real));
    /* force and torque */
    int k;
    for (int i = 0; i < e->door.dof; i++)
        for (k = 0; k < n; k++)
            e->load[k] += e->J[(size_t)i * (size_t)n + (size_t)k] * impulse[i];
    for (int i = 0; i < n; i++)
        for (e->inner->v[i] = e->v0[i], k = 0; k < n; k++)
            e->inner->v[i] += e->inner->inverse_mass[i * n + k] * e->load[k];
    if (e->inner->impulse)
        fsi_copy((size_t)n, e->load, e->inner->impulse);
    fsi__embedded_velocity(e, v);
    return FSI_OK;
}

/* ---- the whole step, design.md's six lines */
/* X = dt v of all solids */
static void fsi__scene_motion(fsi_partitioned_scene *s, fsi_real dt) {
    fsi_real *x = s->x;
    for (int i = 0; i < s->solids.count; x += s->list[i]->dof, i++)
        for (int k = 0; k < s->list[i]->dof; k++)
            x[k] = dt * s->list[i]->v[k];
}

/* Room for X and p of the present length; region entries of X from the last load, 0 where there is
 * none. */
static fsi_result fsi__scene_room(fsi_partitioned_scene *s) {
    size_t n = (size_t)fsi__imax(s->fluid.n, 1);
    if (n > s->room) {
        fsi_real *x = (fsi_real *)fsi_alloc(&s->allocator, 3 * n * sizeof(fsi_real));
        if (!x)
            return FSI_ERR_MEMORY;
        if (s->x)
            fsi_copy(s->room, s->x, x);
        fsi_free(&s->allocator, s->x, 3 * s->room * sizeof(fsi_real));
        s->x = x;
        s->p = x + n;
        s->seen = x + 2 * n;
        s->room = n;
    }
    memset(s->x + s->fluid.dof, 0, (size_t)s->fluid.regions * sizeof(fsi_real));
    if (s->scheme->has_load && s->scheme->n == s->fluid.n)
        fsi_copy((size_t)s->fluid.regions, s->scheme->p_last + s->fluid.dof, s->x + s->fluid.dof);
    s->solids.regions = s->fluid.regions;
    return FSI_OK;
}

/* ---- Closed regions. Handed to and fro like the rest, a region's pressure is slow to find: the
   solid obeys p0 by the ratio of dual to own mass, less for every bit of added mass (docs/xpm.md).
   So every scheme sees solids that keep the volumes themselves: their load is in + G pi with the m
   pressures pi for which the answer is compatible, by their answers W to one pressure each. All
   motion is then compatible, and the scheme has only that to agree on. */
typedef struct fsi__compatible {
    /* [n] load the solids got last; nearest answer and another; where volumes are looked at */
    fsi_real *load, *best, *other, *at;
    fsi_real *W; /* [m * n] answers to a unit of each region's pressure, S_p G */
    /* [m] pressures, their change in one correction, the last part of it */
    fsi_real *pi, *step, *more;
    /* [m] incompatibility, m^3/s, of what the fluid was told, of best and of other */
    fsi_real *told, *flux, *next;
    /* [m * m] C^T W; 0 on the diagonal: this region's pressure moves nobody. Its factor */
    fsi_real *K, *L;
} fsi__compatible;

static fsi__compatible fsi__compatible_room(const fsi_closed_regions *c) {
    size_t n = (size_t)c->fluid->n, m = (size_t)c->fluid->regions;
    fsi__compatible q;
    q.load = c->work;
    q.pi = q.load + n;
    q.W = q.pi + m;
    q.best = q.W + n * m;
    q.other = q.best + n;
    q.at = q.other + n;
    q.step = q.at + n;
    q.more = q.step + m;
    q.told = q.more + m;
    q.flux = q.told + m;
    q.next = q.flux + m;
    q.K = q.next + m;
    q.L = q.K + m * m;
    return q;
}

/* C^T v less what is injected, for X. */
static void fsi__compatible_sides(const fsi_closed_regions *c, const fsi_real *X, fsi_real *flux) {
    fsi_fluid_box *b = c->fluid;
    (void)fsi__fluid_box_sides(b, X);
    for (int i = 0; i < b->regions; i++)
        flux[i] = -b->p0[i] * b->stiff[i] / fsi__fluid_box_per_region(b);
}

/* The same, made solvable. Swept volumes are no linear function of X, and the answer of a light
   wall to a wrong load may be where no pressure makes them right. So they count as curved only
   within half a cell of X_F, what the fluid was told: with d = X - X_F and theta = min(1, h / (2
   |d|)) flux = flux(X_F) + (flux(X_F + theta d) - flux(X_F)) / theta. At the end, where X and X_F
   agree, this is the volume itself. */
static void fsi__compatible_flux(const fsi_closed_regions *c, const fsi__compatible *q,
                                 const fsi_real *X, fsi_real *flux) {
    const fsi_fluid_box *b = c->fluid;
    const fsi_real *told = c->scheme->xf;
    for (int i = 0; i < b->n; i++)
        q->at[i] = X[i] - told[i];
    fsi_real far = 2 * fsi__node_norm(b->dof, c->scheme->desc.group, q->at);
    fsi_real theta = far > b->grid->h ? b->grid->h / far : 1;
    for (int i = 0; i < b->n; i++)
        q->at[i] = told[i] + theta * q->at[i];
    fsi__compatible_sides(c, q->at, flux);
    for (int i = 0; i < b->regions; i++)
        flux[i] = (flux[i] - (1 - theta) * q->told[i]) / theta;
}

/* The largest of them that somebody can mend, as an X entry, m. */
static fsi_real fsi__compatible_most(const fsi_closed_regions *c, const fsi__compatible *q,
                                     const fsi_real *flux) {
    fsi_real most = 0;
    int m = c->fluid->regions;
    for (int i = 0; i < m; i++)
        if (q->K[i * m + i] > 0)
            most = fsi__max(most, fsi__abs(flux[i]) / c->fluid->stiff[i]);
    return most;
}

/* The solids' answer to in + G pi. */
static fsi_result fsi__compatible_answer(const fsi_closed_regions *c, const fsi__compatible *q,
                                         const fsi_real *in, fsi_real *out) {
    fsi_fluid_box *b = c->fluid;
    fsi_copy((size_t)b->n, in, q->load);
    fsi__fluid_box_inflate(b, q->pi, q->load);
    fsi_result r;
    if (c->solid.restore_fn && (r = c->solid.restore_fn(c->solid.user)) < 0)
        return r;
    if ((r = c->solid.solve_fn(c->solid.user, q->load, out)) < 0)
        return r;
    return fsi_all_finite((size_t)b->n, out) ? r : FSI_ERR_NUMERIC;
}

/* W through the door, about the best answer. */
static fsi_result fsi__compatible_measure(const fsi_closed_regions *c, const fsi__compatible *q,
                                          const fsi_real *in) {
    fsi_real unit = c->fluid->grid->h / 64;
    fsi_result r = FSI_OK;
    int n = c->fluid->n;
    for (int j = 0; r >= 0 && j < c->fluid->regions; j++) {
        fsi_real *w = q->W + (size_t)j * (size_t)n;
        q->pi[j] += unit;
        r = fsi__compatible_answer(c, q, in, w);
        q->pi[j] -= unit;
        for (int i = 0; i < n; i++)
            w[i] = (w[i] - q->best[i]) / unit;
    }
    return r;
}

/* What linear solids would answer after the step: other = best + W step, and its flux. */
static void fsi__compatible_model(const fsi_closed_regions *c, const fsi__compatible *q) {
    size_t n = (size_t)c->fluid->n;
    fsi_copy(n, q->best, q->other);
    for (size_t j = 0; j < (size_t)c->fluid->regions; j++)
        fsi_axpy(n, q->step[j], q->W + j * n, q->other);
    fsi__compatible_flux(c, q, q->other, q->next);
}

/* The step of pi that makes the model compatible, to round-off: Newton with the K of where it
 * begins, which asks no solids. 0: no step does, regions stand against each other. */
static int fsi__compatible_step(const fsi_closed_regions *c, const fsi__compatible *q) {
    const fsi_fluid_box *b = c->fluid;
    size_t m = (size_t)b->regions;
    fsi_real most = FSI_REAL_MAX;
    /* columns of K, by the volume of a 64th of a cell */
    for (size_t j = 0; j < m; j++) {
        fsi_real size = fsi_max_abs((size_t)b->dof, q->W + j * (size_t)b->n),
                 unit = size > 0 ? b->grid->h / (64 * size) : 1;
        memset(q->step, 0, m * sizeof(fsi_real));
        q->step[j] = unit;
        fsi__compatible_model(c, q);
        for (size_t i = 0; i < m; i++)
            q->K[i * m + j] = (q->next[i] - q->flux[i]) / unit;
        /* round-off: W by h / 64 */
        if (!(q->K[j * m + j] > 256 * FSI_REAL_EPS * b->stiff[j]))
            q->K[j * m + j] = 0;
    }
    memset(q->step, 0, m * sizeof(fsi_real));
    fsi_copy(m, q->flux, q->more);
    for (int round = 0; round < 16; round++) {
        for (size_t i = 0; i < m; i++)
            for (size_t j = 0; j < m; j++)
                q->L[i * m + j] = q->K[i * m + i] > 0 && q->K[j * m + j] > 0
                                      ? (q->K[i * m + j] + q->K[j * m + i]) / 2
                                      : 0;
        fsi__semidefinite_solve((int)m, q->L, q->more);
        fsi_axpy(m, -1, q->more, q->step);
        fsi__compatible_model(c, q);
        fsi_real now = fsi__compatible_most(c, q, q->next);
        /* the last one said nothing new */
        if (!(now < most / 2)) {
            if (round)
                fsi_axpy(m, 1, q->more, q->step);
            break;
        }
        most = now;
        fsi_copy(m, q->next, q->more);
    }
    return most <= fsi__compatible_most(c, q, q->flux) / 10;
}

/* The door: the solids' answer, corrected until it is compatible; linear solids need one
 * correction. */
static fsi_result fsi__compatible_solve(void *user, const fsi_real *in, fsi_real *out) {
    fsi_closed_regions *c = (fsi_closed_regions *)user;
    fsi__compatible q = fsi__compatible_room(c);
    size_t n = (size_t)c->fluid->n, m = (size_t)c->fluid->regions;
    fsi_real enough = c->scheme->desc.tolerance / 100, share = 1;
    int solvable = 1;
    fsi__compatible_sides(c, c->scheme->xf, q.told);
    fsi_result r;
    if ((r = fsi__compatible_answer(c, &q, in, q.best)) < 0
        || (!c->known && (r = fsi__compatible_measure(c, &q, in)) < 0))
        return r;
    c->known = 1;
    fsi__compatible_flux(c, &q, q.best, q.flux);
    for (int round = 0; round == 0 || (round < 4 && fsi__compatible_most(c, &q, q.flux) > enough);
         round++) {
        solvable = fsi__compatible_step(c, &q);
        fsi_axpy(m, share, q.step, q.pi);
        if ((r = fsi__compatible_answer(c, &q, in, q.other)) < 0)
            return r;
        fsi__compatible_flux(c, &q, q.other, q.next);
        if (fsi__compatible_most(c, &q, q.next)
            > fsi__max(enough, fsi__compatible_most(c, &q, q.flux))) {
            /* worse: not so far */
            fsi_axpy(m, -share, q.step, q.pi);
            share /= 4;
            continue;
        }
        fsi_real *t = q.best;
        q.best = q.other;
        q.other = t;
        fsi_copy(m, q.next, q.flux);
        share = 1;
    }
    /* the last call was not the best */
    if (share < 1 && (r = fsi__compatible_answer(c, &q, in, q.best)) < 0)
        return r;
    /* nobody can make room */
    for (size_t i = 0; i < m; i++)
        if ((!solvable || !(q.K[i * m + i] > 0))
            && fsi__fluid_box_excess(c->fluid, q.flux[i] * fsi__fluid_box_per_region(c->fluid)))
            r = FSI_INCOMPATIBLE;
    fsi_copy(n - m, q.best, out);
    fsi_copy(m, c->scheme->xf + n - m, out + n - m);
    /* what the fluid was told stays its last solve */
    (void)fsi__fluid_box_sides(c->fluid, c->scheme->xf);
    return r;
}

static fsi_result fsi__compatible_save(void *user) {
    fsi_closed_regions *c = (fsi_closed_regions *)user;
    return c->solid.save_fn ? c->solid.save_fn(c->solid.user) : FSI_OK;
}

FSI_API fsi_result fsi_closed_regions_begin(fsi_closed_regions *c, fsi_blackbox *door) {
    if (!c || !door || !c->fluid || !c->fluid->block || !c->scheme || !c->solid.solve_fn)
        return FSI_ERR_ARGUMENT;
    *door = c->solid;
    if (!c->fluid->regions || !c->fluid->bpp)
        return FSI_OK;
    size_t n = (size_t)c->fluid->n;
    size_t m = (size_t)c->fluid->regions;
    size_t need = 4 * n + n * m + 6 * m + 2 * m * m;
    if (need > c->room) {
        fsi_closed_regions_free(c);
        if (!(c->work = (fsi_real *)fsi_alloc(&c->allocator, need * sizeof(fsi_real))))
            return FSI_ERR_MEMORY;
        c->room = need;
    }
    memset(c->work + n, 0, m * sizeof(fsi_real));
    c->known = 0;
    door->solve_fn = fsi__compatible_solve;
    door->save_fn = fsi__compatible_save;
    door->restore_fn = NULL;
    door->user = c;
    return FSI_OK;
}

FSI_API void fsi_closed_regions_finish(fsi_closed_regions *c, fsi_real *p) {
    if (!c->fluid->regions || !c->fluid->bpp)
        return;
    size_t n = (size_t)c->fluid->n;
    size_t m = (size_t)c->fluid->regions;
    fsi_copy(n, c->work, p);
    for (size_t i = 0; i < m; i++)
        p[n - m + i] += c->work[n + i];
    fsi_copy(n, p, c->scheme->p_last);
}

FSI_API void fsi_closed_regions_free(fsi_closed_regions *c) {
    if (!c)
        return;
    fsi_free(&c->allocator, c->work, c->room * sizeof(fsi_real));
    c->work = NULL;
    c->room = 0;
}

/* Design's line 4: the exchange; where the geometry follows, again at the place that came out,
 * until it stays. */
static fsi_result fsi__scene_exchange(fsi_partitioned_scene *s, fsi_report *report) {
    fsi_blackbox fluid = fsi_fluid_box_door(&s->fluid), solid;
    fsi_report all, one;
    fsi_result r;
    memset(&all, 0, sizeof all);
    s->closed.fluid = &s->fluid;
    s->closed.solid = fsi_solid_box_door(&s->solids);
    s->closed.scheme = s->scheme;
    s->closed.allocator = s->allocator;
    for (int round = 0;; round++) {
        if (s->fluid.follow) {
            fsi_copy((size_t)s->fluid.dof, s->x, s->seen);
            if ((r = fsi_fluid_box_follow(&s->fluid, s->seen)) < 0)
                return r;
        }
        if ((r = fsi__scene_room(s)) < 0)
            return r;
        if (s->fluid.n > s->scheme->desc.n)
            return FSI_ERR_SIZE;
        /* nobody to exchange with */
        if (!s->fluid.n)
            return fluid.solve_fn(fluid.user, s->x, s->p);
        if ((r = fsi_closed_regions_begin(&s->closed, &solid)) < 0)
            return r;
        r = fsi_partitioned_step(s->scheme, s->fluid.n, s->fluid.n, &fluid, &solid, s->x, s->p,
                                 &one);
        one.iterations += all.iterations;
        one.restarts += all.restarts;
        if (round)
            one.residual_start = all.residual_start;
        all = one;
        *report = all;
        report->regions = s->fluid.regions;
        if (r >= 0)
            fsi_closed_regions_finish(&s->closed, s->p);
        /* a source where nobody makes room */
        if (!r
            && (s->scheme->told[0] == FSI_INCOMPATIBLE || s->scheme->told[1] == FSI_INCOMPATIBLE))
            r = FSI_INCOMPATIBLE;
        if (r < 0 || !s->fluid.follow)
            return r;
        for (int i = 0; i < s->fluid.dof; i++)
            s->p[i] = s->x[i] - s->seen[i];
        s->fluid.lag = (double)fsi__node_norm(s->fluid.dof, s->scheme->desc.group, s->p);
        if (r != FSI_OK || s->fluid.lag <= (double)s->scheme->desc.tolerance
            || round + 1 >= s->fluid.follow)
            return r;
    }
}

/* Ledger: what the free solids got less what the fluid gave, N s: 0 where the step ended with p_F
 * as impulses. Solids that have a momentum: nodal, and dense ones of 6 and more. */
static void fsi__scene_ledger(fsi_partitioned_scene *s, fsi_report *report) {
    fsi_fluid_box *b = &s->fluid;
    for (int k = 0; k < b->n; k++)
        s->seen[k] = s->scheme->ps[k] - s->scheme->pf[k];
    if (b->pressure_form)
        fsi__fluid_box_give(b, b->pressure_form, 1, s->seen),
            fsi__fluid_box_give(b, 0, -1, s->seen);
    for (int i = 0; i < s->solids.count; i++) {
        const fsi_coupled *o = s->list[i];
        for (int k = 0; k < (o->node ? o->dof : o->dof < 6 ? 0 : 3); k++)
            if (!o->inverse_mass || o->inverse_mass[o->node ? k / 3 : k * (o->dof + 1)] > 0)
                report->momentum[k % 3] += (double)s->seen[b->offset[i] + k];
    }
}

/* The step; every end of it is in report->reason. */
static fsi_result fsi__scene_step(fsi_partitioned_scene *s, fsi_real dt, fsi_report *report) {
    if (!s || !s->grid || !s->face || !s->scheme || !s->list)
        return FSI_ERR_ARGUMENT;
    s->fluid.grid = s->grid;
    s->fluid.face = s->face;
    /* 1. solids: v* */
    fsi_result r;
    if (s->begin_fn && (r = s->begin_fn(s->user, dt)) < 0)
        return r;
    int i;
    for (i = 0; i < s->solids.count; i++)
        s->list[i] = s->solids.part[i].solid;
    /* 3. surfaces -> interface */
    if ((r = fsi_interface_detect(s->face, s->grid, s->list, s->solids.count)) < 0)
        return r;
    /* 2. fluid: u* */
    if ((r = fsi_grid_advect(s->grid, dt)) < 0 || (r = fsi_grid_forces(s->grid, dt)) < 0)
        return r;
    if ((r = fsi_grid_viscosity(s->grid, dt, NULL)) < 0
        || (r = fsi_fluid_box_begin(&s->fluid, dt)) < 0)
        return r;
    if ((r = fsi_solid_box_begin(&s->solids, dt, s->fluid.regions)) < 0
        || (r = fsi__scene_room(s)) < 0)
        return r;
    /* extrapolated X: the velocity the solid has */
    fsi__scene_motion(s, dt);
    /* 4. the exchange; where it fails solids keep v* */
    if ((r = fsi__scene_exchange(s, report)) < 0) {
        size_t at = 0;
        for (i = 0; i < s->solids.count; at += (size_t)s->list[i]->dof, i++)
            fsi_copy((size_t)s->list[i]->dof, s->solids.v0 + at, s->list[i]->v);
        return r;
    }
    fsi__scene_ledger(s, report);
    /* 5. both take what they agreed on */
    if ((i = fsi_fluid_box_finish(&s->fluid)) < 0 || (i = fsi_grid_extrapolate(s->grid)) < 0)
        return (fsi_result)i;
    fsi__scene_motion(s, dt);
    /* leak: by the solids' own motion */
    (void)fsi__fluid_box_sides(&s->fluid, s->x);
    /* where the step began */
    if (s->fluid.follow
        && (i = fsi_interface_detect(s->face, s->grid, s->list, s->solids.count)) < 0)
        return (fsi_result)i;
    /* 6. the liquid's surface and the solids move */
    if ((i = fsi_interface_move_surface(s->face, s->grid, dt, NULL)) < 0)
        return (fsi_result)i;
    if (s->move_fn && (i = s->move_fn(s->user, dt)) < 0)
        return (fsi_result)i;
    if ((i = fsi_interface_moved(s->face, s->grid, NULL)) < 0)
        return (fsi_result)i;
    return fsi__step_result(s->grid, r);
}

FSI_API fsi_result fsi_partitioned_scene_step(fsi_partitioned_scene *s, fsi_real dt,
                                              fsi_report *report) {
    fsi_report own;
    if (!report)
        report = &own;
    memset(report, 0, sizeof *report);
    return report->reason = fsi__scene_step(s, dt, report);
}

FSI_API void fsi_partitioned_scene_free(fsi_partitioned_scene *s) {
    if (!s)
        return;
    fsi_fluid_box_free(&s->fluid);
    fsi_solid_box_free(&s->solids);
    fsi_free(&s->allocator, s->x, 3 * s->room * sizeof(fsi_real));
    fsi_closed_regions_free(&s->closed);
    s->x = s->p = s->seen = NULL;
    s->room = 0;
}

typedef struct fsi__world_boxes {
    fsi_world *w;
    fsi_partitioned_scene *s;
} fsi__world_boxes;

static fsi_result fsi__world_boxes_begin(void *user, fsi_real dt) {
    fsi__world_boxes *b = (fsi__world_boxes *)user;
    fsi_result r = fsi__world_begin(b->w, dt, 0);
    int guest = 0;
    for (int i = 0; r >= 0 && i < b->w->door_count; i++) {
        fsi_solid_part *part = &b->s->solids.part[i];
        memset(part, 0, sizeof *part);
        part->solid = b->w->door[i];
        if (b->w->door_body[i] >= 0)
            continue;
        part->respond_fn = b->w->guest[guest].respond_fn;
        part->user = b->w->guest[guest++].respond_user;
    }
    b->s->solids.count = b->w->door_count;
    return r;
}

static fsi_result fsi__world_boxes_move(void *user, fsi_real dt) {
    return fsi__world_move(((fsi__world_boxes *)user)->w, dt);
}

FSI_API fsi_result fsi_world_exchange(fsi_world *w, fsi_partitioned_scene *s, fsi_real dt,
                                      fsi_report *report) {
    if (!w || !w->block || !s || !s->solids.part)
        return FSI_ERR_ARGUMENT;
    fsi__world_boxes b;
    b.w = w;
    b.s = s;
    s->grid = &w->grid;
    s->face = &w->couple.interface;
    s->begin_fn = fsi__world_boxes_begin;
    s->move_fn = fsi__world_boxes_move;
    s->user = &b;
    fsi_result r = fsi_partitioned_scene_step(s, dt, report);
    s->user = NULL;
    return r;
}
#endif

/* ------------------------------------------------------------------------------------------------
 * >>proxy */
#ifndef FSI_COUPLE_NO_SPH
static fsi_coupled fsi__proxy_door(fsi_proxy_solid *s) { /* the solid as it is now */
    fsi_coupled d = s->door;
    if (s->tled)
        d = fsi_tled_coupled(s->tled);
    else if (s->soft)
        fsi_soft_coupled(s->soft, &d);
    return d;
}

static void fsi__proxy_layout(fsi_proxy *c, fsi_arena *a, int nodes) {
    size_t n = (size_t)c->desc.sph->desc.capacity, k = (size_t)c->desc.count;
    c->lookup = (fsi_lookup *)fsi_arena_take(a, k, sizeof(fsi_lookup));
    c->offset = (int *)fsi_arena_take(a, k + 1, sizeof(int));
    c->near = (fsi__proxy_near *)fsi_arena_take(a, n, sizeof(fsi__proxy_near));
    c->mark = (int32_t *)fsi_arena_take(a, n, sizeof(int32_t));
    c->node = (int32_t *)fsi_arena_take(a, n * FSI_PROXY_NODES, sizeof(int32_t));
    c->weight = (fsi_real *)fsi_arena_take(a, n * FSI_PROXY_NODES, sizeof(fsi_real));
    c->order = (int32_t *)fsi_arena_take(a, n * FSI_PROXY_NODES, sizeof(int32_t));
    c->start = (int32_t *)fsi_arena_take(a, (size_t)nodes + 2, sizeof(int32_t));
    c->load = (fsi_real *)fsi_arena_take(a, (size_t)nodes, sizeof(fsi_real));
    c->energy = (double *)fsi_arena_take(a, (size_t)nodes, sizeof(double));
    c->x_old = (fsi_real *)fsi_arena_take(a, 3 * (size_t)nodes, sizeof(fsi_real));
}

static fsi_result fsi__proxy_check(const fsi_proxy_desc *d, int *nodes) {
    if (!d || !d->sph || !d->sph->block || d->sph->desc.dim != 3 || !d->solid || d->count < 1
        || !(d->radius >= 0) || !fsi__finite(d->radius) || d->iterations < 0)
        return FSI_ERR_ARGUMENT;
    int i;
    for (*nodes = 0, i = 0; i < d->count; i++) {
        fsi_proxy_solid *s = &d->solid[i];
        fsi_coupled door = fsi__proxy_door(s);
        if (!(s->restitution >= 0 && s->restitution <= 1) || !(s->slip >= 0 && s->slip <= 1)
            || !(s->density >= 0) || !fsi__finite(s->density))
            return FSI_ERR_ARGUMENT;
        if (!door.node || door.dof < 3 || door.surface.dim != 3 || !door.v || !door.mass
            || !door.inverse_mass)
            return FSI_ERR_ARGUMENT;
        if (!s->tled && !s->soft && !s->advance_fn)
            return FSI_ERR_ARGUMENT;
        if (door.dof / 3 > INT32_MAX / 4 - *nodes)
            return FSI_ERR_SIZE;
        *nodes += door.dof / 3;
    }
    return FSI_OK;
}

FSI_API fsi_result fsi_proxy_init(fsi_proxy *c, const fsi_proxy_desc *desc) {
    if (!c)
        return FSI_ERR_ARGUMENT;
    memset(c, 0, sizeof *c);
    fsi_result r;
    int nodes;
    if ((r = fsi__proxy_check(desc, &nodes)) < 0)
        return r;
    c->desc = *desc;
    if (!(c->desc.radius > 0))
        c->desc.radius = desc->sph->desc.spacing / 2;
    if (c->desc.iterations == 0)
        c->desc.iterations = 12;
    fsi_arena a;
    memset(&a, 0, sizeof a);
    fsi__proxy_layout(c, &a, nodes);
    if (a.failed)
        return FSI_ERR_SIZE;
    c->size = a.used;
    c->block = fsi_alloc(&c->desc.allocator, c->size);
    if (!c->block) {
        memset(c, 0, sizeof *c);
        return FSI_ERR_MEMORY;
    }
    memset(&a, 0, sizeof a);
    a.base = (unsigned char *)c->block;
    a.size = c->size;
    fsi__proxy_layout(c, &a, nodes);
    for (int i = 0; i < desc->count && r >= 0; i++) {
        fsi_coupled door = fsi__proxy_door(&desc->solid[i]);
        c->offset[i + 1] = c->offset[i] + door.dof / 3;
        if ((r = fsi_lookup_init(&c->lookup[i], fsi__imax(door.surface.element_count, 1),
                                 &c->desc.allocator))
            >= 0)
            r = fsi_lookup_build(&c->lookup[i], &door.surface, c->desc.radius);
    }
    if (r < 0)
        fsi_proxy_free(c);
    return r;
}

FSI_API void fsi_proxy_free(fsi_proxy *c) {
    if (!c)
        return;
    for (int i = 0; c->block && i < c->desc.count; i++)
        fsi_lookup_free(&c->lookup[i]);
    fsi_free(&c->desc.allocator, c->block, c->size);
    memset(c, 0, sizeof *c);
}

static void fsi__proxy_doors(fsi_proxy *c) {
    for (int i = 0; i < c->desc.count; i++)
        c->desc.solid[i].door = fsi__proxy_door(&c->desc.solid[i]);
}

/* Look-ups of the present positions; reach: of most queries, m. */
static fsi_result fsi__proxy_look(fsi_proxy *c, fsi_real reach) {
    fsi_result r = FSI_OK;
    for (int i = 0; i < c->desc.count && r >= 0; i++)
        r = fsi_lookup_build(&c->lookup[i], &c->desc.solid[i].door.surface, reach);
    return r;
}

FSI_API int fsi_proxy_closest(const fsi_proxy *c, fsi_vec3 p, fsi_real reach, int *solid,
                              fsi_hit *hit) {
    fsi_hit h;
    int found = 0;
    for (int i = 0; c && c->block && i < c->desc.count; i++)
        if (fsi_lookup_closest(&c->lookup[i], p, reach, &h)) {
            reach = h.t;
            found = 1;
            if (solid)
                *solid = i;
            if (hit)
                *hit = h;
        }
    return found;
}

/* ---- what a particle at x touches, when it came from from */
typedef struct fsi__proxy_touch {
    int count; /* triangles */
    int32_t solid[FSI_PROXY_TRIANGLES], element[FSI_PROXY_TRIANGLES];
    fsi_real d[FSI_PROXY_TRIANGLES]; /* distances d_ij */
    fsi_vec3 n[FSI_PROXY_TRIANGLES]; /* normals n_j on the particle's side */
} fsi__proxy_touch;

/* The triangle of hit h at x, unless it is on the far side of a thin wall. */
static void fsi__proxy_add(fsi__proxy_touch *t, const fsi_surface *s, int solid, const fsi_hit *h,
                           fsi_vec3 from, fsi_vec3 x, fsi_real reach) {
    fsi_vec3 n = fsi__unit(fsi_surface_normal(s, h->element));
    fsi_hit h0;
    fsi_surface_closest(s, h->element, from, &h0);
    fsi_real side = fsi_vec_dot(fsi_vec_sub(from, h0.point), n);
    if ((s->closed && !(side > 0)) || t->count == FSI_PROXY_TRIANGLES)
        return;
    if (side < 0)
        n = fsi_vec_scale(n, -1);
    /* near a rim or hole the way out is beside the face, not above it */
    fsi_vec3 dir = fsi_vec_sub(x, h->point);
    if (h->t > FSI_R(1e-3) * reach && fsi_vec_dot(dir, n) < FSI_R(0.3) * h->t)
        n = fsi_vec_scale(dir, 1 / h->t);
    t->solid[t->count] = solid;
    t->element[t->count] = h->element;
    t->d[t->count] = h->t;
    t->n[t->count] = n;
    t->count++;
}

/* First crossing of from -> x with any solid: 1, and x becomes a point just before it. */
static int fsi__proxy_cross(const fsi_proxy *c, fsi_vec3 from, fsi_vec3 *x) {
    fsi_vec3 way = fsi_vec_sub(*x, from), n;
    fsi_real best = 2;
    fsi_hit h;
    for (int i = 0; i < c->desc.count; i++) {
        const fsi_surface *s = &c->lookup[i].surface;
        if (!fsi_lookup_first_hit(&c->lookup[i], from, *x, &h) || !(h.t < best))
            continue;
        /* leaves a solid it should not have been in: let it */
        if (s->closed && h.side > 0)
            continue;
        best = h.t;
        n = fsi__unit(fsi_surface_normal(s, h.element));
        if (fsi_vec_dot(n, way) > 0)
            n = fsi_vec_scale(n, -1);
    }
    if (best > 1)
        return 0;
    *x = fsi_vec_mad(fsi_vec_mad(from, way, best), n, FSI_R(0.01) * c->desc.radius);
    return 1;
}

/* Triangles nearer than reach to x; walls of thin solids show both sides, hence the room. */
static void fsi__proxy_gather(const fsi_proxy *c, fsi_vec3 from, fsi_vec3 x, fsi_real reach,
                              fsi__proxy_touch *t) {
    fsi_hit h[3 * FSI_PROXY_TRIANGLES];
    int i;
    for (t->count = i = 0; i < c->desc.count; i++) {
        int n = fsi__imin(fsi_lookup_sphere(&c->lookup[i], x, reach, h, 3 * FSI_PROXY_TRIANGLES),
                          3 * FSI_PROXY_TRIANGLES);
        for (int k = 0; k < n && h[k].t < reach; k++)
            fsi__proxy_add(t, &c->lookup[i].surface, i, &h[k], from, x, reach);
    }
}

/* n_c of eq. (6), (7); where the normals cancel, the nearest triangle's. */
static fsi_vec3 fsi__proxy_normal(const fsi__proxy_touch *t, fsi_real r0) {
    fsi_vec3 sum = fsi_vec(0, 0, 0);
    fsi_real all = 0;
    int nearest = 0;
    for (int j = 0; j < t->count; j++) {
        fsi_real w = fsi__max(0, (r0 - t->d[j]) / r0);
        sum = fsi_vec_mad(sum, t->n[j], w);
        all += w;
        if (t->d[j] < t->d[nearest])
            nearest = j;
    }
    return fsi__length(sum) > FSI_R(1e-3) * all ? fsi__unit(sum) : t->n[nearest];
}

/* ---- collisions */
/* nearest surface of particle i; mark = 1 when near */
static void fsi__proxy_find(fsi_proxy *c, int i, fsi_real dt, const fsi_real top) {
    const fsi_sph *s = c->desc.sph;
    fsi__proxy_near *q = &c->near[i];
    fsi_vec3 x = fsi_vec(s->x[i], s->y[i], s->z[i]), v = fsi_vec(s->vx[i], s->vy[i], s->vz[i]);
    fsi_real reach = FSI_R(1.5) * c->desc.radius + 2 * dt * (fsi__length(v) + top);
    fsi_hit h;
    c->mark[i] = 0;
    for (int k = 0; k < c->desc.count; k++) {
        if (!fsi_lookup_closest(&c->lookup[k], x, reach, &h))
            continue;
        reach = h.t;
        c->mark[i] = 1;
        q->particle = i;
        q->solid = k;
        q->element = h.element;
        q->weight[0] = h.weight[0];
        q->weight[1] = h.weight[1];
        q->weight[2] = h.weight[2];
        q->offset = fsi_vec_sub(x, h.point);
        q->start = x;
    }
}

/* nearest point, or its velocity, now */
static fsi_vec3 fsi__proxy_at(const fsi_coupled *d, const fsi__proxy_near *q, int velocity) {
    const int32_t *e = d->surface.index + 3 * (size_t)q->element;
    fsi_vec3 sum = fsi_vec(0, 0, 0);
    for (int k = 0; k < 3; k++)
        sum = fsi_vec_mad(sum,
                          fsi_vec_load(velocity ? d->v + 3 * (size_t)d->node[e[k]]
                                                : d->surface.x + 3 * (size_t)e[k]),
                          q->weight[k]);
    return sum;
}

/* Nodes and weights m_j / d_j^2 of the proxy, from the corners of the touched triangles. */
static void fsi__proxy_sample(fsi_proxy *c, const fsi__proxy_touch *t, fsi__proxy_near *q,
                              int32_t *node, fsi_real *w) {
    fsi_real sum = 0, least = FSI_R(1e-4) * c->desc.radius * c->desc.radius;
    int j, m;
    for (q->nodes = 0, j = 0; j < t->count; j++) {
        const fsi_coupled *d = &c->desc.solid[t->solid[j]].door;
        const int32_t *e = d->surface.index + 3 * (size_t)t->element[j];
        for (int k = 0; k < 3; k++) {
            int32_t id = c->offset[t->solid[j]] + d->node[e[k]];
            fsi_vec3 gap = fsi_vec_sub(fsi_vec_load(d->surface.x + 3 * (size_t)e[k]), q->at);
            for (m = 0; m < q->nodes && node[m] != id; m++) {
            }
            if (m < q->nodes || m == FSI_PROXY_NODES)
                continue;
            node[m] = id;
            w[m] = d->mass[d->node[e[k]]] / fsi__max(fsi_vec_dot(gap, gap), least);
            sum += w[m];
            q->nodes++;
        }
    }
    for (m = 0; m < q->nodes; m++)
        w[m] /= sum;
}

/* The proxy of near particle k: nodes 0 when the coming step brings no contact. */
static void fsi__proxy_make(fsi_proxy *c, int k, fsi_real dt) {
    fsi__proxy_near *q = &c->near[k];
    const fsi_sph *s = c->desc.sph;
    const fsi_coupled *d = &c->desc.solid[q->solid].door;
    int i = q->particle;
    fsi_vec3 from = fsi_vec(s->x[i], s->y[i], s->z[i]), x;
    q->nodes = 0;
    q->impulse = fsi_vec(0, 0, 0);
    /* relative motion: the surface stands still */
    x = fsi_vec_mad(from,
                    fsi_vec_sub(fsi_vec(s->vx[i], s->vy[i], s->vz[i]), fsi__proxy_at(d, q, 1)), dt);
    /* too far to touch anything */
    if (fsi__length(q->offset) - fsi__length(fsi_vec_sub(x, from)) > FSI_R(1.001) * c->desc.radius)
        return;
    fsi__proxy_cross(c, from, &x);
    fsi__proxy_touch t;
    fsi__proxy_gather(c, from, x, c->desc.radius, &t);
    if (!t.count)
        return;
    q->normal = fsi__proxy_normal(&t, c->desc.radius);
    q->at = fsi_vec_mad(x, q->normal, -c->desc.radius); /* behind the fluid particle */
    fsi__proxy_sample(c, &t, q, c->node + (size_t)k * FSI_PROXY_NODES,
                      c->weight + (size_t)k * FSI_PROXY_NODES);
}

/* Entries (near particle, slot) sorted by node: each node then sums its own, in one fixed order. */
static void fsi__proxy_sort(fsi_proxy *c) {
    int nodes = c->offset[c->desc.count];
    int32_t *start = c->start;
    memset(start, 0, ((size_t)nodes + 2) * sizeof *start);
    for (int k = 0; k < c->stats.near; k++)
        for (int m = 0; m < c->near[k].nodes; m++)
            start[c->node[k * FSI_PROXY_NODES + m] + 2]++;
    for (int k = 2; k < nodes + 2; k++)
        start[k] += start[k - 1];
    for (int k = 0; k < c->stats.near; k++)
        for (int m = 0; m < c->near[k].nodes; m++)
            c->order[start[c->node[k * FSI_PROXY_NODES + m] + 1]++] = k * FSI_PROXY_NODES + m;
}

/* solid of a node of the common numbering */
static int fsi__proxy_owner(const fsi_proxy *c, int node) {
    int i = 0;
    while (node >= c->offset[i + 1])
        i++;
    return i;
}

FSI_API fsi_vec3 fsi_proxy_response(fsi_vec3 v_f, fsi_vec3 v_p, fsi_real inverse_f,
                                    fsi_real inverse_p, fsi_vec3 n, fsi_real restitution,
                                    fsi_real slip) {
    fsi_vec3 rel = fsi_vec_sub(v_f, v_p);
    fsi_real along = fsi_vec_dot(rel, n), sum = inverse_f + inverse_p;
    if (!(sum > 0) || !(along < 0))
        return fsi_vec(0, 0, 0); /* parting */
    fsi_vec3 normal = fsi_vec_scale(n, along);
    return fsi_vec_scale(fsi_vec_add(fsi_vec_scale(normal, 1 + restitution),
                                     fsi_vec_scale(fsi_vec_sub(rel, normal), 1 - slip)),
                         1 / sum);
}

static void fsi__proxy_hit(fsi_proxy *c, int k) {
    fsi__proxy_near *q = &c->near[k];
    const fsi_sph *s = c->desc.sph;
    const fsi_proxy_solid *own = &c->desc.solid[q->solid];
    fsi_vec3 v = fsi_vec(0, 0, 0),
             vf = fsi_vec(s->vx[q->particle], s->vy[q->particle], s->vz[q->particle]);
    fsi_real inverse = 0, r = 2 * c->desc.radius;
    for (int m = 0; m < q->nodes; m++) {
        int id = c->node[k * FSI_PROXY_NODES + m], solid = fsi__proxy_owner(c, id),
            j = id - c->offset[solid];
        const fsi_coupled *d = &c->desc.solid[solid].door;
        fsi_real w = c->weight[k * FSI_PROXY_NODES + m];
        v = fsi_vec_mad(v, fsi_vec_load(d->v + 3 * (size_t)j), w); /* (8) */
        /* the mass of a node is shared by its proxies */
        inverse += w * c->load[id] * d->inverse_mass[j];
    }
    if (own->density > 0 && inverse > 0)
        inverse = fsi__max(inverse, 1 / (own->density * r * r * r));
    q->impulse = fsi_proxy_response(vf, v, 1 / s->mass[q->particle], inverse, q->normal,
                                    own->restitution, own->slip);
}

/* Node j takes its share of all impulses; energy gets its change of kinetic energy. */
static void fsi__proxy_give(fsi_proxy *c, int id) {
    int solid = fsi__proxy_owner(c, id), j = id - c->offset[solid];
    const fsi_coupled *d = &c->desc.solid[solid].door;
    fsi_vec3 sum = fsi_vec(0, 0, 0), v = fsi_vec_load(d->v + 3 * (size_t)j);
    for (int e = c->start[id]; e < c->start[id + 1]; e++)
        sum = fsi_vec_mad(sum, c->near[c->order[e] / FSI_PROXY_NODES].impulse,
                          c->weight[c->order[e]]);
    fsi_vec3 half = fsi_vec_mad(v, sum, d->inverse_mass[j] / 2);
    /* m/2 (v'^2 - v^2) = (v + dv/2) . J */
    c->energy[id] = d->inverse_mass[j] > 0 ? (double)fsi_vec_dot(half, sum) : 0;
    fsi_vec_store(d->v + 3 * (size_t)j, fsi_vec_mad(v, sum, d->inverse_mass[j]));
    if (d->impulse)
        fsi_vec_store(d->impulse + 3 * (size_t)j, sum);
}

/* Fluid particles take the opposite impulses; ledger. Serial: a few thousand contacts. */
static void fsi__proxy_account(fsi_proxy *c) {
    fsi_sph *s = c->desc.sph;
    double total[3] = {0, 0, 0}, held[3] = {0, 0, 0}, energy = 0;
    c->stats.contacts = 0;
    c->stats.torque_defect = c->stats.arm = 0;
    int id;
    for (int k = 0; k < c->stats.near; k++) {
        const fsi__proxy_near *q = &c->near[k];
        fsi_vec3 J = q->impulse,
                 v = fsi_vec(s->vx[q->particle], s->vy[q->particle], s->vz[q->particle]),
                 mean = fsi_vec(0, 0, 0);
        fsi_real inverse = 1 / s->mass[q->particle];
        if (!q->nodes)
            continue;
        c->stats.contacts++;
        energy -= (double)fsi_vec_dot(fsi_vec_mad(v, J, -inverse / 2), J);
        s->vx[q->particle] -= inverse * J.x;
        s->vy[q->particle] -= inverse * J.y;
        s->vz[q->particle] -= inverse * J.z;
        for (int m = 0; m < q->nodes; m++) {
            id = c->node[k * FSI_PROXY_NODES + m];
            int solid = fsi__proxy_owner(c, id);
            mean = fsi_vec_mad(mean,
                               fsi_vec_load(c->desc.solid[solid].door.surface.x
                                            + 3 * (size_t)(id - c->offset[solid])),
                               c->weight[k * FSI_PROXY_NODES + m]);
            for (int d = 0;
                 d < 3 && !(c->desc.solid[solid].door.inverse_mass[id - c->offset[solid]] > 0); d++)
                held[d] += (double)(fsi__get(J, d) * c->weight[k * FSI_PROXY_NODES + m]);
        }
        for (int d = 0; d < 3; d++)
            total[d] += (double)fsi__get(J, d);
        fsi_vec3 arm = fsi_vec_sub(q->at, mean);
        if ((double)fsi__length(fsi_vec_cross(J, arm)) > c->stats.torque_defect) {
            c->stats.torque_defect = (double)fsi__length(fsi_vec_cross(J, arm));
            c->stats.arm = (double)fsi__length(arm);
        }
    }
    for (id = 0; id < c->offset[c->desc.count]; id++)
        energy += c->energy[id];
    c->stats.all_contacts += c->stats.contacts;
    c->stats.energy_change = energy;
    c->stats.impulse = fsi_vec((fsi_real)total[0], (fsi_real)total[1], (fsi_real)total[2]);
    c->stats.held = fsi_vec((fsi_real)held[0], (fsi_real)held[1], (fsi_real)held[2]);
}

FSI_API fsi_result fsi_proxy_collide(fsi_proxy *c, fsi_real dt) {
    fsi_real top = 0, fast = 0;
    ptrdiff_t n, nodes;
    if (!c || !c->block)
        return FSI_ERR_STATE;
    if (!(dt > 0) || !fsi__finite(dt))
        return FSI_ERR_ARGUMENT;
    fsi__proxy_doors(c);
    n = c->desc.sph->now.count;
    nodes = c->offset[c->desc.count];
    ptrdiff_t i;
    for (int k = 0; k < c->desc.count; k++) {
        const fsi_coupled *d = &c->desc.solid[k].door;
        for (i = 0; i < d->dof / 3; i++)
            top = fsi__max(top, fsi__length(fsi_vec_load(d->v + 3 * i)));
        for (i = 0; i < d->surface.vertex_count; i++)
            fsi_vec_store(c->x_old + 3 * (c->offset[k] + d->node[i]),
                          fsi_vec_load(d->surface.x + 3 * i));
    }
    for (i = 0; i < n; i++)
        fast = fsi__max(
            fast, fsi__length(fsi_vec(c->desc.sph->vx[i], c->desc.sph->vy[i], c->desc.sph->vz[i])));
    if (!fsi__finite(top) || !fsi__finite(fast))
        return FSI_ERR_NUMERIC;
    /* a few may be faster */
    fsi_result r;
    if ((r = fsi__proxy_look(
             c, fsi__min(FSI_R(1.5) * c->desc.radius + 2 * dt * (fast + top), 4 * c->desc.radius)))
        < 0)
        return r;
    FSI__OMP(parallel for schedule(static) if (n > 256))
    for (i = 0; i < n; i++)
        fsi__proxy_find(c, (int)i, dt, top);
    for (c->stats.near = 0, i = 0; i < n; i++)
        if (c->mark[i])
            c->near[c->stats.near++] = c->near[i]; /* never ahead of i */
    n = c->stats.near;
    FSI__OMP(parallel for schedule(static) if (n > 64))
    for (i = 0; i < n; i++)
        fsi__proxy_make(c, (int)i, dt);
    fsi__proxy_sort(c);
    FSI__OMP(parallel for schedule(static) if (nodes > 256))
    for (i = 0; i < nodes; i++) {
        int e;
        for (c->load[i] = 0, e = c->start[i]; e < c->start[i + 1]; e++)
            c->load[i] += c->weight[c->order[e]];
    }
    FSI__OMP(parallel for schedule(static) if (n > 64))
    for (i = 0; i < n; i++)
        if (c->near[i].nodes)
            fsi__proxy_hit(c, (int)i);
    FSI__OMP(parallel for schedule(static) if (nodes > 256))
    for (i = 0; i < nodes; i++)
        fsi__proxy_give(c, (int)i);
    fsi__proxy_account(c);
    c->ready = 1;
    return FSI_OK;
}

/* ---- positions */
/* Displacement that takes the particle to r0 from all triangles it touches: along n_c by (15);
   where a normal points against n_c (the paper's figure 4 c, d) the least u with n_j . u >= r0 -
   d_j: u = sum l_j n_j with l_j >= 0, one l_j after the other (Hildreth). */
static fsi_vec3 fsi__proxy_way(const fsi__proxy_touch *t, fsi_real r0) {
    fsi_vec3 dir = fsi__proxy_normal(t, r0), u = fsi_vec(0, 0, 0);
    fsi_real dis = 0, worst = 1, push[FSI_PROXY_TRIANGLES] = {0};
    int j, moved = 1;
    for (j = 0; j < t->count; j++)
        worst = fsi__min(worst, fsi_vec_dot(t->n[j], dir));
    if (worst > FSI_R(0.7)) {
        for (j = 0; j < t->count; j++)
            dis = fsi__max(dis, (r0 - t->d[j]) * fsi_vec_dot(t->n[j], dir));
        return fsi_vec_scale(dir, dis);
    }
    for (int sweep = 0; sweep < 100 && moved; sweep++)
        for (moved = 0, j = 0; j < t->count; j++) {
            fsi_real gap = fsi__max(r0 - t->d[j] - fsi_vec_dot(t->n[j], u), -push[j]);
            u = fsi_vec_mad(u, t->n[j], gap);
            push[j] += gap;
            moved |= fsi__abs(gap) > FSI_R(1e-4) * r0;
        }
    return u;
}

static void fsi__proxy_settle(const fsi_proxy *c, fsi__proxy_near *q) {
    const fsi_sph *s = c->desc.sph;
    fsi_real r0 = c->desc.radius, ok = r0 * (1 - FSI_R(0.0009)), least = 0;
    fsi_vec3 x = fsi_vec(s->x[q->particle], s->y[q->particle], s->z[q->particle]), y;
    /* where it was, carried along by the surface */
    fsi_vec3 from = fsi_vec_add(fsi__proxy_at(&c->desc.solid[q->solid].door, q, 0), q->offset);
    fsi__proxy_touch t;
    int j;
    q->state = 0;
    q->out = x;
    /* nothing can be near */
    if (fsi__length(q->offset) - fsi__length(fsi_vec_sub(x, q->start)) - c->moved
        > FSI_R(1.001) * r0)
        return;
    q->state = fsi__proxy_cross(c, from, &x) ? 2 : 0;
    int k;
    for (y = x, k = 0; k <= c->desc.iterations; k++) {
        fsi__proxy_gather(c, from, y, r0, &t);
        for (least = r0, j = 0; j < t.count; j++)
            least = fsi__min(least, t.d[j]);
        if (least >= ok || k == c->desc.iterations)
            break;
        /* what lies behind counts too, or two walls of a wedge take turns */
        if (k)
            fsi__proxy_gather(c, from, y, FSI_R(1.25) * r0, &t);
        y = fsi_vec_add(y, fsi__proxy_way(&t, r0 * FSI_R(1.0002)));
        q->state |= 1;
        if (!(fsi__length(fsi_vec_sub(y, x)) < 4 * r0))
            break;
    }
    /* no way out, or one through a wall: stay on the own side, later steps will do */
    if (q->state & 1) {
        fsi_vec3 z = y;
        if (!(least >= ok) || fsi__proxy_cross(c, from, &z)) {
            q->state |= 4;
            if (fsi__proxy_cross(c, from, &y))
                y = q->state & 2 ? from : x;
        }
    }
    q->out = y;
}

FSI_API fsi_result fsi_proxy_correct(fsi_proxy *c) {
    ptrdiff_t n;
    if (!c || !c->block || !c->ready)
        return FSI_ERR_STATE;
    fsi__proxy_doors(c);
    fsi_result r;
    if ((r = fsi__proxy_look(c, FSI_R(1.25) * c->desc.radius)) < 0)
        return r;
    fsi_sph *s = c->desc.sph;
    n = c->stats.near;
    int k;
    for (c->moved = 0, k = 0; k < c->desc.count; k++) {
        const fsi_coupled *d = &c->desc.solid[k].door;
        for (ptrdiff_t i = 0; i < d->surface.vertex_count; i++)
            c->moved = fsi__max(
                c->moved,
                fsi__length(fsi_vec_sub(fsi_vec_load(c->x_old + 3 * (c->offset[k] + d->node[i])),
                                        fsi_vec_load(d->surface.x + 3 * i))));
    }
    FSI__OMP(parallel for schedule(static) if (n > 64))
    for (ptrdiff_t i = 0; i < n; i++)
        fsi__proxy_settle(c, &c->near[i]);
    c->stats.corrected = c->stats.crossed = c->stats.skipped = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const fsi__proxy_near *q = &c->near[i];
        if (q->state) {
            s->x[q->particle] = q->out.x;
            s->y[q->particle] = q->out.y;
            s->z[q->particle] = q->out.z;
        }
        c->stats.corrected += q->state & 1;
        c->stats.crossed += (q->state & 2) != 0;
        c->stats.skipped += (q->state & 4) != 0;
    }
    c->stats.all_corrected += c->stats.corrected;
    c->stats.all_crossed += c->stats.crossed;
    c->stats.all_skipped += c->stats.skipped;
    c->ready = 0;
    return FSI_OK;
}

static fsi_result fsi__proxy_advance(fsi_proxy_solid *s, fsi_real dt) {
    fsi_result r = FSI_OK, worst = FSI_OK;
    s->substeps = 1;
    if (s->soft)
        return fsi_soft_step(s->soft, dt, NULL, 0);
    if (!s->tled)
        return s->advance_fn(s->user, dt);
    s->substeps = (int)fsi__min(fsi__ceil(dt / fsi_tled_max_dt(s->tled) - FSI_R(1e-3)), FSI_R(1e6));
    s->substeps = fsi__imax(s->substeps, 1);
    for (int k = 0; k < s->substeps && r >= 0; k++)
        if ((r = fsi_tled_step(s->tled, dt / (fsi_real)s->substeps)) != FSI_OK)
            worst = r;
    return worst;
}

static double fsi__proxy_time(const fsi_proxy *c) {
    return c->desc.clock_fn ? c->desc.clock_fn(c->desc.clock_user) : 0;
}

FSI_API fsi_result fsi_proxy_step(fsi_proxy *c, fsi_real dt, fsi_report *report) {
    fsi_result worst = FSI_OK;
    double t[6];
    if (!c || !c->block)
        return FSI_ERR_STATE;
    t[0] = fsi__proxy_time(c);
    fsi_result r;
    if ((r = fsi_sph_prepare(c->desc.sph, dt)) < 0
        || (r = fsi_sph_accelerate(c->desc.sph, dt, report)) < 0)
        return r;
    if (r != FSI_EMPTY)
        worst = r;
    t[1] = fsi__proxy_time(c);
    if ((r = fsi_proxy_collide(c, dt)) < 0)
        return r;
    t[2] = fsi__proxy_time(c);
    if ((r = fsi_sph_move(c->desc.sph, dt)) < 0)
        return r;
    t[3] = fsi__proxy_time(c);
    for (int i = 0; i < c->desc.count; i++) {
        if ((r = fsi__proxy_advance(&c->desc.solid[i], dt)) < 0)
            return r;
        if (worst == FSI_OK)
            worst = r;
    }
    t[4] = fsi__proxy_time(c);
    if ((r = fsi_proxy_correct(c)) < 0)
        return r;
    t[5] = fsi__proxy_time(c);
    c->stats.seconds_sph = t[1] - t[0] + t[3] - t[2];
    c->stats.seconds_coupling = t[2] - t[1] + t[5] - t[4];
    c->stats.seconds_solid = t[4] - t[3];
    if (report)
        report->energy_change = c->stats.energy_change;
    return worst;
}

/* ---- clamp */
FSI_API fsi_result fsi_clamp_init(fsi_clamp *c, fsi_tled *tled, fsi_solids *world, int body,
                                  const int32_t *node, int count, const fsi_allocator *allocator) {
    size_t n = (size_t)(count > 0 ? count : 0);
    if (!c)
        return FSI_ERR_ARGUMENT;
    memset(c, 0, sizeof *c);
    if (!tled || !tled->block || !world || !world->block || body < 0 || body >= world->body_count
        || !node || count < 1)
        return FSI_ERR_ARGUMENT;
    for (int i = 0; i < count; i++)
        if (node[i] < 0 || node[i] >= tled->nodes)
            return FSI_ERR_ARGUMENT;
    if (allocator)
        c->allocator = *allocator;
    c->size = n * 3 * sizeof(fsi_real) + n * sizeof(int32_t);
    c->block = fsi_alloc(&c->allocator, c->size);
    if (!c->block) {
        memset(c, 0, sizeof *c);
        return FSI_ERR_MEMORY;
    }
    c->local = (fsi_real *)c->block;
    c->node = (int32_t *)(c->local + 3 * n);
    c->tled = tled;
    c->world = world;
    c->body = body;
    c->count = count;
    const fsi_rigid *b = &world->body[body];
    for (int i = 0; i < count; i++) {
        c->node[i] = node[i];
        fsi_vec_store(c->local + 3 * i,
                      fsi_mat3_tmul_vec(&b->rotation,
                                        fsi_vec_sub(fsi_vec_load(tled->x + 3 * node[i]), b->x)));
        fsi_tled_fix(tled, node[i], fsi_vec(0, 0, 0));
    }
    return FSI_OK;
}

FSI_API void fsi_clamp_free(fsi_clamp *c) {
    if (!c)
        return;
    fsi_free(&c->allocator, c->block, c->size);
    memset(c, 0, sizeof *c);
}

FSI_API fsi_result fsi_clamp_advance(void *clamp, fsi_real dt) {
    fsi_clamp *c = (fsi_clamp *)clamp;
    fsi_result r, worst = FSI_OK;
    if (!c || !c->block)
        return FSI_ERR_STATE;
    if (!(dt > 0) || !fsi__finite(dt))
        return FSI_ERR_ARGUMENT;
    fsi_tled *t = c->tled;
    fsi_rigid *b = &c->world->body[c->body];
    c->substeps =
        fsi__imax((int)fsi__min(fsi__ceil(dt / fsi_tled_max_dt(t) - FSI_R(1e-3)), FSI_R(1e6)), 1);
    fsi_real h = dt / (fsi_real)c->substeps;
    fsi_quat turn = fsi_quat_mul(fsi_quat_from_rotation(fsi_vec_scale(b->w, dt)), b->q);
    c->impulse = c->angular = fsi_vec(0, 0, 0);
    /* straight to where the body will be */
    for (int i = 0; i < c->count; i++) {
        fsi_vec3 x = fsi_vec_load(t->x + 3 * c->node[i]),
                 to = fsi_vec_mad(
                     fsi_vec_add(b->x, fsi_quat_rotate(turn, fsi_vec_load(c->local + 3 * i))), b->v,
                     dt);
        fsi_vec3 J = fsi_vec_load(t->impulse + 3 * c->node[i]);
        fsi_vec_store(t->drive + 3 * c->node[i], fsi_vec_scale(fsi_vec_sub(to, x), 1 / dt));
        fsi_vec_store(t->impulse + 3 * c->node[i], fsi_vec(0, 0, 0));
        c->impulse = fsi_vec_add(c->impulse, J);
        c->angular = fsi_vec_add(c->angular, fsi_vec_cross(fsi_vec_sub(x, b->x), J));
    }
    for (int k = 0; k < c->substeps; k++) {
        /* as fsi_tled_accelerate weighs the forces */
        fsi_real gain = ((fsi_real)t->clock[1] + h) / 2;
        gain /= 1 + t->desc.damping * gain / 2;
        if ((r = fsi_tled_accelerate(t, h)) < 0)
            return r;
        if (r != FSI_OK)
            worst = r;
        for (int i = 0; i < c->count; i++) {
            fsi_vec3 J = fsi_vec_scale(fsi_vec_load(t->force + 3 * c->node[i]), gain);
            c->impulse = fsi_vec_add(c->impulse, J);
            c->angular = fsi_vec_add(
                c->angular,
                fsi_vec_cross(fsi_vec_sub(fsi_vec_load(t->x + 3 * c->node[i]), b->x), J));
        }
        if ((r = fsi_tled_move(t, h)) < 0)
            return r;
    }
    b->force = fsi_vec_mad(b->force, c->impulse, 1 / dt);
    b->torque = fsi_vec_mad(b->torque, c->angular, 1 / dt);
    return worst;
}
#endif

/* ------------------------------------------------------------------------------------------------
 * >>sphrigid */
#ifndef FSI_COUPLE_NO_SPH
static void fsi__sph_rigid_layout(fsi_sph_rigid *c, fsi_arena *a) {
    size_t n = (size_t)c->desc.count;
    FSI__TAKE(c->body, int, a, n);
    FSI__TAKE(c->object, int, a, n);
    FSI__TAKE(c->x0, fsi_vec3, a, n);
    FSI__TAKE(c->v0, fsi_vec3, a, n);
    FSI__TAKE(c->q0, fsi_quat, a, n);
    FSI__TAKE(c->turn, fsi_real, a, n);
    FSI__TAKE(c->X, fsi_real, a, 6 * n);
    FSI__TAKE(c->p, fsi_real, a, 6 * n);
    FSI__TAKE(c->K, fsi_real, a, 36 * n * n);
    FSI__TAKE(c->J, fsi_real, a, 36 * n * n);
    FSI__TAKE(c->work, fsi_real, a, 66 * n);
    FSI__TAKE(c->pivot, int32_t, a, 6 * n);
    c->sph_state = fsi_arena_take(a, fsi_sph_state_size(c->desc.sph), 1);
    c->world_state = fsi_arena_take(a, fsi_solids_state_size(c->desc.world), 1);
}

static int fsi__sph_rigid_valid(const fsi_sph_rigid_desc *d) {
    if (!d || !d->sph || !d->sph->block || !d->world || !d->world->block || d->count < 1 || !d->body
        || !d->object)
        return 0;
    if ((int)d->scheme < 0 || (int)d->scheme > 3 || !(d->omega >= 0 && d->omega <= 1)
        || !(d->tolerance >= 0 && d->tolerance < 100) || d->max_iterations < 0)
        return 0;
    for (int i = 0; i < d->count; i++)
        if (d->body[i] < 0 || d->body[i] >= d->world->body_count || d->object[i] < 0
            || d->object[i] >= d->sph->now.objects || !d->sph->now.object[d->object[i]].two_way)
            return 0;
    return 1;
}

FSI_API fsi_result fsi_sph_rigid_init(fsi_sph_rigid *c, const fsi_sph_rigid_desc *desc) {
    if (!c)
        return FSI_ERR_ARGUMENT;
    memset(c, 0, sizeof *c);
    if (!fsi__sph_rigid_valid(desc))
        return FSI_ERR_ARGUMENT;
    c->desc = *desc;
    int n = desc->count;
    if (!(c->desc.omega > 0))
        c->desc.omega = FSI_R(0.05);
    if (!(c->desc.tolerance > 0))
        c->desc.tolerance = FSI_R(0.1);
    if (c->desc.max_iterations == 0)
        c->desc.max_iterations = 60;
    fsi_partitioned_desc s;
    memset(&s, 0, sizeof s);
    s.n = s.m = 6 * c->desc.count;
    s.group = 3;
    s.scheme = c->desc.scheme == FSI_SPH_RELAXED  ? FSI_SCHEME_RELAXED
               : c->desc.scheme == FSI_SPH_AITKEN ? FSI_SCHEME_AITKEN
                                                  : FSI_SCHEME_REDUCED;
    s.omega = c->desc.omega;
    s.tolerance = c->desc.tolerance * c->desc.sph->desc.spacing / 2;
    s.max_iterations = c->desc.max_iterations;
    s.allocator = c->desc.allocator;
    fsi_arena a;
    memset(&a, 0, sizeof a);
    fsi__sph_rigid_layout(c, &a);
    fsi_result r = fsi__arena_block(&a, &c->desc.allocator, &c->block, &c->size);
    if (r < 0) {
        memset(c, 0, sizeof *c);
        return r;
    }
    fsi__sph_rigid_layout(c, &a);
    for (int i = 0; i < c->desc.count; i++) {
        c->body[i] = desc->body[i];
        c->object[i] = desc->object[i];
        c->turn[i] = c->desc.world->body[c->body[i]].shape->bound;
        /* first guess: half the displaced fluid, as for a ball in the open */
        for (int k = 0; k < 6; k++)
            c->K[(6 * i + k) * (6 * n + 1)] = (k < 3 ? FSI_R(0.5) : FSI_R(0.02))
                                              * desc->sph->desc.density
                                              * c->desc.world->body[c->body[i]].shape->volume;
    }
    c->desc.body = c->body;
    c->desc.object = c->object;
    if ((r = fsi_partitioned_init(&c->scheme, &s)) < 0)
        fsi_sph_rigid_free(c);
    return r;
}

FSI_API void fsi_sph_rigid_free(fsi_sph_rigid *c) {
    if (!c)
        return;
    fsi_partitioned_free(&c->scheme);
    fsi_free(&c->desc.allocator, c->block, c->size);
    memset(c, 0, sizeof *c);
}

/* The fluid: boundary particles stay where the bodies are and move with X / dt; out come the
 * impulses on the bodies. */
static fsi_result fsi__sph_rigid_flow(void *user, const fsi_real *X, fsi_real *p) {
    fsi_sph_rigid *c = (fsi_sph_rigid *)user;
    fsi_sph *s = c->desc.sph;
    c->fluid_calls++;
    fsi_result r;
    for (int i = 0; i < c->desc.count; i++) {
        fsi_vec3 v = fsi_vec_scale(fsi_vec_load(X + 6 * i), 1 / c->dt),
                 w = fsi_vec_scale(fsi_vec_load(X + 6 * i + 3), 1 / (c->dt * c->turn[i]));
        if ((r = fsi_sph_object_pose(s, c->object[i], c->x0[i], c->q0[i], v, w)) < 0)
            return r;
    }
    if ((r = fsi_sph_prepare(s, c->dt)) < 0 || (r = fsi_sph_accelerate(s, c->dt, &c->fluid)) < 0)
        return r;
    for (int i = 0; i < c->desc.count; i++) {
        const fsi_sph_object *o = &s->now.object[c->object[i]];
        fsi_vec_store(p + 6 * i, fsi_vec_scale(o->force, c->dt));
        fsi_vec_store(p + 6 * i + 3, fsi_vec_scale(o->torque, c->dt / c->turn[i]));
    }
    return FSI_OK;
}

static fsi_result fsi__sph_rigid_flow_save(void *user) {
    return fsi_sph_save(((fsi_sph_rigid *)user)->desc.sph, ((fsi_sph_rigid *)user)->sph_state);
}

static fsi_result fsi__sph_rigid_flow_back(void *user) {
    return fsi_sph_restore(((fsi_sph_rigid *)user)->desc.sph, ((fsi_sph_rigid *)user)->sph_state);
}

/* The solid: a whole step of the world, contacts and joints included, with the impulses as forces;
   out comes dt times the velocity that the displacement tells: x - x0 = dt (v0 + f dv), f the
   world's share of the step's dv (it spreads the change over its substeps, a free body flies a
   parabola). Without contact this is the end velocity; where a contact stops the body it is the way
   to the contact, which changes continuously with the impulse, while the end velocity jumps from
   its value on arrival to 0. */
static fsi_result fsi__sph_rigid_move(void *user, const fsi_real *p, fsi_real *X) {
    fsi_sph_rigid *c = (fsi_sph_rigid *)user;
    fsi_solids *w = c->desc.world;
    c->solid_calls++;
    for (int i = 0; i < c->desc.count; i++) {
        fsi_rigid *b = &w->body[c->body[i]];
        b->force = fsi_vec_mad(b->force, fsi_vec_load(p + 6 * i), 1 / c->dt);
        b->torque = fsi_vec_mad(b->torque, fsi_vec_load(p + 6 * i + 3), c->turn[i] / c->dt);
    }
    fsi_result r;
    if ((r = fsi_solids_step(w, c->dt)) < 0)
        return r;
    for (int i = 0; i < c->desc.count; i++) {
        const fsi_rigid *b = &w->body[c->body[i]];
        fsi_real n = (fsi_real)w->desc.substeps, f = b->touching ? (n + 1) / (2 * n) : FSI_R(0.5);
        fsi_vec3 plain = fsi_vec_scale(c->v0[i], c->dt),
                 way = fsi_vec_sub(fsi_vec_sub(b->x, c->x0[i]), plain);
        fsi_vec_store(X + 6 * i, b->kind == FSI_RIGID_DYNAMIC ? fsi_vec_mad(plain, way, 1 / f)
                                                              : fsi_vec_scale(b->v, c->dt));
        fsi_vec_store(X + 6 * i + 3, fsi_vec_scale(b->w, c->dt * c->turn[i]));
    }
    return FSI_OK;
}

static fsi_result fsi__sph_rigid_move_save(void *user) {
    return fsi_solids_save(((fsi_sph_rigid *)user)->desc.world,
                           ((fsi_sph_rigid *)user)->world_state);
}

static fsi_result fsi__sph_rigid_move_back(void *user) {
    return fsi_solids_restore(((fsi_sph_rigid *)user)->desc.world,
                              ((fsi_sph_rigid *)user)->world_state);
}

/* ---- XPM. Vectors of length n = 6 count in c->work; X in m (dt u), K in kg: the model is p(X) =
 * p_b - K (X - X_b) / dt about the base b. */
typedef struct fsi__sph_xpm {
    fsi_real *X, *p, *s;    /* what the fluid sees, its impulses, the solid's answer to them */
    fsi_real *Xb, *pb, *rb; /* base: the best pair so far, and its residual */
    fsi_real *r, *pm, *d;   /* Newton: residual, impulses of the model, step */
    fsi_real *t, *rt;       /* trial point, its residual */
    fsi_real *e, *y;        /* differences */
    int n;
    fsi_real tolerance, best;
} fsi__sph_xpm;

static fsi_result fsi__sph_rigid_answer(fsi_sph_rigid *c, const fsi_real *p, fsi_real *X) {
    fsi_result r = fsi__sph_rigid_move_back(c);
    return r < 0 ? r : fsi__sph_rigid_move(c, p, X);
}

/* Residual of the reduced system at X: r = S(p(X)) - X, pm = p(X). */
static fsi_result fsi__sph_rigid_gap(fsi_sph_rigid *c, const fsi__sph_xpm *m, const fsi_real *X,
                                     fsi_real *pm, fsi_real *r, fsi_real *norm) {
    int j;
    for (int i = 0; i < m->n; i++)
        for (pm[i] = m->pb[i], j = 0; j < m->n; j++)
            pm[i] -= c->K[i * m->n + j] * (X[j] - m->Xb[j]) / c->dt;
    fsi_result result;
    if ((result = fsi__sph_rigid_answer(c, pm, r)) < 0)
        return result;
    for (int i = 0; i < m->n; i++)
        r[i] -= X[i];
    *norm = fsi__node_norm(m->n, 3, r);
    return FSI_OK;
}

/* d = (I + S_p K)^-1 r with S_p by differences: 6 solid calls per body. 0 = singular. */
static fsi_result fsi__sph_rigid_newton(fsi_sph_rigid *c, fsi__sph_xpm *m, int *ok) {
    int n = m->n;
    fsi_result result;
    for (int i = 0; i < n * n; i++)
        c->J[i] = i % (n + 1) == 0;
    for (int k = 0; k < n; k++) {
        const fsi_rigid *b = &c->desc.world->body[c->body[k / 6]];
        /* moves the body by about 0.02 tolerance */
        fsi_real was = m->pm[k], h = FSI_R(0.02) * m->tolerance * b->mass / c->dt;
        if (!(h > 0))
            continue;
        m->pm[k] += was < 0 ? -h : h;
        h = m->pm[k] - was;
        if ((result = fsi__sph_rigid_answer(c, m->pm, m->t)) < 0)
            return result;
        m->pm[k] = was;
        for (int i = 0; i < n; i++) {
            fsi_real slope = (m->t[i] - m->r[i] - m->s[i]) / h; /* s = X: r + X = S(pm) */
            for (int j = 0; j < n; j++)
                c->J[i * n + j] += slope * c->K[k * n + j] / c->dt;
        }
    }
    fsi_copy((size_t)n, m->r, m->d);
    *ok = fsi_dense_lu(n, c->J, c->pivot) == FSI_OK;
    if (*ok)
        fsi_dense_lu_solve(n, c->J, c->pivot, m->d);
    *ok = *ok && fsi_all_finite((size_t)n, m->d);
    return FSI_OK;
}

/* X = S(p(X)): Newton with halved steps where a contact opens or closes. m->X in: first guess, out:
 * the answer. */
static fsi_result fsi__sph_rigid_meet(fsi_sph_rigid *c, fsi__sph_xpm *m) {
    fsi_result result;
    fsi_real norm, next = 0;
    int ok;
    if ((result = fsi__sph_rigid_gap(c, m, m->X, m->pm, m->r, &norm)) < 0)
        return result;
    for (int it = 0; it < 20 && norm > FSI_R(1e-3) * m->tolerance; it++) {
        fsi_copy((size_t)m->n, m->X, m->s);
        if ((result = fsi__sph_rigid_newton(c, m, &ok)) < 0)
            return result;
        if (!ok)
            break;
        for (fsi_real t = 1; t > FSI_R(0.01); t /= 2) {
            for (int i = 0; i < m->n; i++)
                m->t[i] = m->X[i] + t * m->d[i];
            if ((result = fsi__sph_rigid_gap(c, m, m->t, m->e, m->rt, &next)) < 0)
                return result;
            if (next < (1 - t / 4) * norm)
                break;
        }
        if (!(next < norm))
            break;
        fsi_copy((size_t)m->n, m->t, m->X);
        fsi_copy((size_t)m->n, m->rt, m->r);
        fsi_copy((size_t)m->n, m->e, m->pm);
        norm = next;
    }
    return FSI_OK;
}

/* What the fluid said at X against the base: K e = y afterwards (Broyden's update). A passive fluid
 * resists: y . e >= 0 is enforced. */
static void fsi__sph_rigid_learn(fsi_sph_rigid *c, fsi__sph_xpm *m) {
    fsi_real ee = 0, ye = 0;
    int n = m->n;
    for (int i = 0; i < n; i++) {
        m->e[i] = (m->X[i] - m->Xb[i]) / c->dt;
        m->y[i] = m->pb[i] - m->p[i];
        ee += m->e[i] * m->e[i];
        ye += m->e[i] * m->y[i];
    }
    if (!(ee > 0) || !fsi__finite(1 / ee))
        return;
    if (ye < 0)
        for (int i = 0; i < n; i++)
            m->y[i] -= m->e[i] * ye / ee;
    /* y - K e */
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            m->y[i] -= c->K[i * n + j] * m->e[j];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            c->K[i * n + j] += m->y[i] * m->e[j] / ee;
}

static fsi_result fsi__sph_rigid_xpm(fsi_sph_rigid *c, fsi_report *report) {
    fsi__sph_xpm m;
    fsi_result why = FSI_NOT_CONVERGED;
    fsi_real *w = c->work;
    int n = 6 * c->desc.count;
    m.n = n;
    m.best = FSI_REAL_MAX;
    m.tolerance = c->desc.tolerance * c->desc.sph->desc.spacing / 2;
    m.X = c->X;
    m.p = c->p;
    m.s = w;
    m.Xb = w + n;
    m.pb = w + 2 * n;
    m.r = w + 3 * n;
    m.pm = w + 4 * n;
    m.d = w + 5 * n;
    m.t = w + 6 * n;
    m.rt = w + 7 * n;
    m.e = w + 8 * n;
    m.y = w + 9 * n;
    m.rb = w + 10 * n;
    fsi_result r;
    if ((r = fsi__sph_rigid_flow_save(c)) < 0 || (r = fsi__sph_rigid_move_save(c)) < 0)
        return r;
    fsi_real norm;
    int k;
    for (k = 1;; k++) {
        if (k > 1 && (r = fsi__sph_rigid_flow_back(c)) < 0)
            return r;
        if ((r = fsi__sph_rigid_flow(c, m.X, m.p)) < 0
            || (r = fsi__sph_rigid_answer(c, m.p, m.s)) < 0)
            return r;
        for (int i = 0; i < n; i++)
            m.r[i] = m.s[i] - m.X[i];
        norm = fsi__node_norm(n, 3, m.r);
        if (!fsi__finite(norm))
            return FSI_ERR_NUMERIC;
        if (k == 1)
            report->residual_start = (double)norm;
        if (norm <= m.tolerance) {
            why = FSI_OK;
            break;
        }
        if (k > c->desc.max_iterations)
            break; /* this was the best one again */
        if (k > 1)
            fsi__sph_rigid_learn(c, &m);
        if (norm < m.best) {
            m.best = norm;
            fsi_copy((size_t)n, m.X, m.Xb);
            fsi_copy((size_t)n, m.p, m.pb);
            fsi_copy((size_t)n, m.r, m.rb);
        }
        fsi_copy((size_t)n, m.Xb, m.X);
        if (k < c->desc.max_iterations && (r = fsi__sph_rigid_meet(c, &m)) < 0)
            return r;
        for (int i = 0; i < n && m.X[i] == m.Xb[i]; i++) {
        }
        /* no way down: relax, shorter each time */
        for (int i = i == n && k < c->desc.max_iterations ? n : 0; i > 0; i--) {
            fsi_real mass = c->desc.world->body[c->body[(i - 1) / 6]].mass;
            m.X[i - 1] +=
                m.rb[i - 1] * mass / ((mass + fsi__abs(c->K[(i - 1) * (n + 1)])) * (fsi_real)k);
        }
    }
    report->iterations = k;
    report->residual = (double)norm;
    report->reason = why;
    return why;
}

FSI_API fsi_result fsi_sph_rigid_step(fsi_sph_rigid *c, fsi_real dt, fsi_report *report) {
    if (!c || !c->block)
        return FSI_ERR_STATE;
    if (!(dt > 0) || !fsi__finite(dt))
        return FSI_ERR_ARGUMENT;
    fsi_report own;
    if (!report)
        report = &own;
    memset(report, 0, sizeof *report);
    c->dt = dt;
    /* first guess: everything goes on as it did */
    int i;
    for (i = 0; i < c->desc.count; i++) {
        const fsi_rigid *b = &c->desc.world->body[c->body[i]];
        c->x0[i] = b->x;
        c->q0[i] = b->q;
        c->v0[i] = b->v;
        fsi_vec_store(c->X + 6 * i, fsi_vec_scale(b->v, dt));
        fsi_vec_store(c->X + 6 * i + 3, fsi_vec_scale(b->w, dt * c->turn[i]));
    }
    fsi_result r;
    if (c->desc.scheme == FSI_SPH_WEAK) {
        report->iterations = 1;
        if ((r = fsi__sph_rigid_flow(c, c->X, c->p)) < 0
            || (r = fsi__sph_rigid_move(c, c->p, c->X)) < 0)
            return r;
    } else if (c->desc.scheme == FSI_SPH_XPM) {
        if ((r = fsi__sph_rigid_xpm(c, report)) < 0)
            return r;
    } else {
        fsi_blackbox fluid;
        fluid.solve_fn = fsi__sph_rigid_flow;
        fluid.save_fn = fsi__sph_rigid_flow_save;
        fluid.restore_fn = fsi__sph_rigid_flow_back;
        fluid.user = c;
        fsi_blackbox solid;
        solid.solve_fn = fsi__sph_rigid_move;
        solid.save_fn = fsi__sph_rigid_move_save;
        solid.restore_fn = fsi__sph_rigid_move_back;
        solid.user = c;
        if ((r = fsi_partitioned_step(&c->scheme, 6 * c->desc.count, 6 * c->desc.count, &fluid,
                                      &solid, c->X, c->p, report))
            < 0)
            return r;
    }
    for (int d = 0; d < 3; d++)
        for (report->momentum[d] = 0, i = 0; i < c->desc.count; i++)
            report->momentum[d] +=
                (double)(fsi__get(c->desc.sph->now.object[c->object[i]].force, d) * dt)
                - (double)c->p[6 * i + d];
    for (int d = 0; d < 3; d++)
        c->momentum[d] = report->momentum[d];
    fsi_result r2;
    if ((r2 = fsi_sph_move(c->desc.sph, dt)) < 0)
        return r2;
    for (i = 0; i < c->desc.count; i++) {
        const fsi_rigid *b = &c->desc.world->body[c->body[i]];
        if (!fsi__finite_vec(b->x) || !fsi__finite_vec(b->v))
            return FSI_ERR_NUMERIC;
        if ((r2 = fsi_sph_object_pose(c->desc.sph, c->object[i], b->x, b->q, b->v, b->w)) < 0)
            return r2;
    }
    return r;
}

/* where fluid, world, K and the scheme's pairs begin in the state; 4: its end */
static size_t fsi__sph_rigid_at(const fsi_sph_rigid *c, int part) {
    size_t n = 6 * (size_t)c->desc.count, at = 0;
    if (part > 0)
        at += fsi_sph_state_size(c->desc.sph);
    if (part > 1)
        at += fsi_solids_state_size(c->desc.world);
    if (part > 2)
        at += n * n * sizeof *c->K;
    return part > 3 ? at + fsi_partitioned_state_size(&c->scheme) : at;
}

FSI_API size_t fsi_sph_rigid_state_size(const fsi_sph_rigid *c) {
    return c && c->block ? fsi__sph_rigid_at(c, 4) : 0;
}

FSI_API fsi_result fsi_sph_rigid_save(const fsi_sph_rigid *c, void *state) {
    unsigned char *to = (unsigned char *)state;
    if (!c || !c->block)
        return FSI_ERR_STATE;
    if (!state)
        return FSI_ERR_ARGUMENT;
    fsi_result r;
    if ((r = fsi_sph_save(c->desc.sph, to)) < 0
        || (r = fsi_solids_save(c->desc.world, to + fsi__sph_rigid_at(c, 1))) < 0)
        return r;
    memcpy(to + fsi__sph_rigid_at(c, 2), c->K, fsi__sph_rigid_at(c, 3) - fsi__sph_rigid_at(c, 2));
    return fsi_partitioned_save(&c->scheme, to + fsi__sph_rigid_at(c, 3));
}

FSI_API fsi_result fsi_sph_rigid_restore(fsi_sph_rigid *c, const void *state) {
    const unsigned char *from = (const unsigned char *)state;
    if (!c || !c->block)
        return FSI_ERR_STATE;
    if (!state)
        return FSI_ERR_ARGUMENT;
    fsi_result r;
    if ((r = fsi_sph_restore(c->desc.sph, from)) < 0
        || (r = fsi_solids_restore(c->desc.world, from + fsi__sph_rigid_at(c, 1))) < 0)
        return r;
    memcpy(c->K, from + fsi__sph_rigid_at(c, 2), fsi__sph_rigid_at(c, 3) - fsi__sph_rigid_at(c, 2));
    return fsi_partitioned_restore(&c->scheme, from + fsi__sph_rigid_at(c, 3));
}
#endif

#ifdef __cplusplus
}
#endif
#endif /* FSI_COUPLE_IMPLEMENTATION */

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
