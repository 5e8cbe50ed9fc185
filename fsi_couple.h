/* fsi_couple.h - two-way coupling of fluids and solids (SPDX-License-Identifier: MIT OR Unlicense;
   full text at the end)

   Closed solids are cut cells: second order, a few per cent of published falls, waves and added
   masses at 32 cells across a body. Voxel faces (FSI_BOUNDARY_VOXEL) are first order; they are the
   papers' form and that of thin shells.

   QUICK START
       #define FSI_IMPLEMENTATION // in exactly one file, before the include
       #include "fsi_couple.h"
       #include <stdio.h>

       // A light box of your own engine rises in a closed tank of gas.
       int main(void) {
           // The tank: 1 m x 2 m in 32 x 64 cells; one layer of cells makes it two-dimensional.
           fsi_grid_desc desc = {
               .nx = 32,
               .ny = 64,
               .nz = 1,
               .h = FSI_R(1) / 32,
               .rho = 1,
               .gravity = fsi_vec(0, FSI_R(-9.81), 0),
           };
           fsi_grid grid;
           fsi_couple couple;
           if (fsi_grid_init(&grid, &desc) < 0 || fsi_couple_init(&couple, &grid, NULL) < 0)
               return 1;

           // Yours: height and speed of a box of 0.2 m x 0.2 m, and its four corners.
           fsi_real height = FSI_R(0.5), speed = 0, dt = FSI_R(0.01);
           fsi_real corner[12] = {0};
           int32_t edge[8] = {0, 1, 1, 2, 2, 3, 3, 0}; // counter-clockwise

           // What the coupling sees of it: an outline and a mass, a quarter of the fluid's.
           fsi_surface outline = {
               .dim = 2,
               .closed = 1,
               .vertex_count = 4,
               .element_count = 4,
               .x = corner,
               .index = edge,
           };
           fsi_body body = {.mass = FSI_R(0.01)};
           body.inertia.m[8] = body.mass * FSI_R(0.08) / 12; // about the z axis
           fsi_coupled door;
           fsi_coupled *doors[1] = {&door};

           for (int step = 0; step < 20; step++) {
               // Your engine: its own forces, and where the corners are.
               speed -= FSI_R(9.81) * dt;
               fsi_vec_store(corner + 0, fsi_vec(FSI_R(0.4), height - FSI_R(0.1), 0));
               fsi_vec_store(corner + 3, fsi_vec(FSI_R(0.6), height - FSI_R(0.1), 0));
               fsi_vec_store(corner + 6, fsi_vec(FSI_R(0.6), height + FSI_R(0.1), 0));
               fsi_vec_store(corner + 9, fsi_vec(FSI_R(0.4), height + FSI_R(0.1), 0));

               // Hand pose and velocity over, and find out which cells the box covers.
               body.centre = fsi_vec(FSI_R(0.5), height, 0);
               body.velocity = fsi_vec(0, speed, 0);
               fsi_body_couple(&body, &outline, &door);
               fsi_couple_detect(&couple, doors, 1);

               // The fluid moves on; then both are solved for together.
               fsi_grid_advect(&grid, dt);
               fsi_grid_forces(&grid, dt);
               if (fsi_couple_solve(&couple, dt, NULL) < 0)
                   return 1;

               // Take the new velocity back and move the box with it.
               fsi_body_take(&body);
               speed = body.velocity.y;
               height += dt * speed;
           }
           printf("after 0.2 s it rises at %.2f m/s\n", (double)speed);
           fsi_couple_free(&couple);
           fsi_grid_free(&grid);
           return 0;
       }
   Compile: cc main.c -lm          (bodies of ours: fsi_world, see README; a scene with callbacks:
   fsi_couple_step, see examples/box_lift.c)

   WHAT IT DOES
   interface     finds coupling sides by ray casts between cell centres; thin shells have two
                 independent sides; cut cells for closed solids
   monolithic    solves once for pressure and all solids (rigid, reduced, cloth, tetrahedra)
   bubbles       keeps the volume of closed air regions
   slip          shares only the normal velocity, with friction from none to full; ghost cells at
                 thin shells
   partitioned   exchanges with closed (black-box) solvers: reduced interface model, conservative
                 impulses, closed regions
   particles     couples SPH with rigid bodies by exchange, and with total-Lagrangian tetrahedra by
                 proxy particles
   papers        solvers and forms that the papers' tables need; every one is an enum value

   WHAT IT DOES NOT
   Viscous forces on solids. Contact between solids: the solids' own move does that
   (fsi_solids_hold tells the solve of it).

   CONFIGURATION (define before the include)
   Every includer: FSI_SINGLE (float), FSI_COUPLE_NO_GRID, FSI_COUPLE_NO_SPH (leave a part out).
   Implementation only: FSI_IMPLEMENTATION or FSI_COUPLE_IMPLEMENTATION, FSI_STATIC, FSI_NO_OPENMP.

   UNITS AND CONVENTIONS
   SI; in 2D masses and forces per metre of depth. p^ = pressure times dt, Pa s. Impulses N s.

   GLOSSARY
   door      what a solid hands to a coupling scheme: the struct fsi_coupled
   guest     a solid that other code moves and that takes part through callbacks
   side      one face of one cell with fluid on it and a solid in it or behind it
   cut cell  a cell whose faces a surface leaves open in part
   shell     a surface without inside, wet on both sides
   region    fluid cells that are connected; closed without a free surface
   bubble    a closed region of air whose volume is kept
   hold      the part of a contact push that is repeated while the fluid is solved
   push      impulse of one step, N s: of contacts, of stiff forces
   box       black box: a solver that is only called, not looked into
   room      space that is left: items a list or an array can take

   USAGE
   1. Everything of ours: fsi_world_init, fsi_world_add, fsi_world_step.
   2. Rigid bodies of your engine: fsi_body_couple, fsi_couple_detect, fsi_grid_advect,
      fsi_grid_forces, fsi_couple_solve, fsi_body_take.
   3. A solid of your own: fill an fsi_coupled (base header); every scheme then takes it.
   4. A solver as a black box: fsi_blackbox for it, fsi_partitioned_step between it and
      fsi_fluid_box, or a whole scene by fsi_partitioned_scene_step.
   5. Slip at shells: fsi_slip_init in place of fsi_couple_init. Particles: fsi_sph_rigid_step,
      fsi_proxy_step.

   NUMERICAL NOTES
   - A voxel face carries half a cell of fluid, rho h^dim / 2: a box on grid lines feels exactly
     rho g V (C-01), and a body of the fluid's density stays where it is (C-02). The added mass of
     a disk is 7.5 % off with voxel faces at 16 cells per radius and 0.5 % with cut cells (C-04).
   - Stopping early is stable from a zero start (C-20), and momentum is exact at any iterate (C-16,
     C-17). A warm start is dropped when it would add energy (C-21).
   - The default solver takes as many iterations as the fluid alone, at most 2 more, for any density
     (docs/schur.md).
   - Single precision: the solids' velocities are carried beside the pressure, so bodies 10,000
     times lighter than the fluid move as in double. Take their velocity from the solve: impulse
     over mass is smaller than the rounding of the pressure.
   - Two surfaces closer than a cell act as one wall, and the fluid between them is lost. Surfaces
     within round-off of cell centres are cut at the nearest point.

   MEMORY
   Cell and face arrays are allocated at init; lists grow when an interface outgrows them. Nothing
   is allocated once they fit.

   ERRORS
   Functions return an fsi_result: negative means that nothing changed, positive that the state is
   valid and fsi_report has something to tell.

   THREADS AND DETERMINISM
   Same bits for any number of threads.

   REFERENCES
   SCHUR     Aanjaneya 2018: one solve for rigid bodies and fluid; P(s), FULL
   RMSF11    Robinson-Mosher, Schroeder, Fedkiw 2011: symmetric system with implicit solid forces
   SLIP      Robinson-Mosher, English, Fedkiw 2009: slip at thin shells, J as an average
   REDUCED   Lu et al. 2016: reduced deformable bodies, half steps
   XPM       Akbay et al. 2018: exchange between black boxes with a reduced interface model
   PROXY     Yang et al. 2012: particles and nonlinear finite elements
   Batty, Bertails, Bridson 2007: faces that are open in part, here cut cells

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
#ifdef FSI_SINGLE /* first calls of a user: a mixture of precisions does not link */
#define fsi_interface_init fsi_interface_init_f32
#define fsi_couple_init fsi_couple_init_f32
#define fsi_world_init fsi_world_init_f32
#define fsi_slip_init fsi_slip_init_f32
#define fsi_partitioned_init fsi_partitioned_init_f32
#define fsi_proxy_init fsi_proxy_init_f32
#define fsi_clamp_init fsi_clamp_init_f32
#define fsi_sph_rigid_init fsi_sph_rigid_init_f32
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

   One coupling side is one fluid cell that meets a solid across one of its faces. A thin shell
   between two fluid cells makes two sides, which never share anything:

       +-------+-------+          +-------+-------+
       | fluid |///////|          | fluid > fluid |
       |   s   |/solid/|          |   s   >   s   |       > a shell
       +-------+-------+          +-------+-------+

   With A = h^(dim-1), J the row of the side, v the velocity of its solid, lambda the impulse:
     velocity of the solid along the axis       J v = sum of val[e] * v[col[e]] over the row
     closed part of the cell's outward flux     A * share * sign * J v
     impulse                                    lambda on the fluid side, -J^T lambda on the solid
 */
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
    /* 1: the cell is air of a bubble, which pushes and yields without mass (fsi_couple only) */
    int8_t air;
    /* 1: its velocity sample is grid.u_plus (where that exists), 0: grid.u */
    int8_t plus;
    /* closed share of the face: 1 (voxel form), or 0 .. 1 with cut cells */
    fsi_real share;
    /* fluid mass of the side, kg: rho h^dim / 2; 0 with cut cells (no velocity sample of its
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

/* The share of a face that one closed solid closes (cut cells; private list). */
typedef struct fsi_cut {
    int32_t face, solid;
    int axis;
    fsi_real share;
} fsi_cut;

/* What a closed solid does to the faces of the grid that it cuts. */
typedef enum fsi_boundary_kind {
    /* Cut cells; the papers' solvers FSI_COUPLE_SCHUR and FSI_COUPLE_FULL and the form
     * FSI_SLIP_PAPER are made for voxel faces and take those. */
    FSI_BOUNDARY_DEFAULT = 0,
    /* A face is open or closed, and a closed one carries half a cell of fluid: first order. */
    FSI_BOUNDARY_VOXEL,
    /* Cut cells: a face is closed by the share that lies inside the solid: second order. */
    FSI_BOUNDARY_CUT,
    FSI_BOUNDARY_FORCE_INT = 0x7fffffff
} fsi_boundary_kind;

typedef struct fsi_interface_desc {
    /* of closed solids; open shells are voxel faces always */
    fsi_boundary_kind boundary;
    /* nodal solids: 1 = J averages over the surface in the dual cell (SLIP app. A), 0 = J at the
     * crossing */
    int average;
    /* given on to the grid: fsi_occlusion.smooth; init sets it with cut cells; may be changed
     * before detect */
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
    int8_t *mark;     /* [cells] private: marks of one pass, zero between calls */
    /* [cells] number of the solid that covers the cell or its centre; -1: none */
    int32_t *owner;
    /* [faces] 1: a surface cuts the segment between the two cell centres */
    uint8_t *blocked[3];
    fsi_real *open[3];     /* [faces] open share */
    fsi_real *free_share;  /* [cells] share that no closed solid fills (cut cells), about */
    fsi_real *velocity[3]; /* [faces] solid velocity along the axis where closed, m/s */
    int shells;            /* 1: some cut face has fluid on both sides */
    fsi_side *side;        /* [sides] ordered by axis, face, minus cell first */
    int sides;
    int32_t *col;  /* [entries] degree of freedom of the side's solid */
    fsi_real *val; /* [entries] */
    int entries;
    fsi_crossing *crossing; /* [crossings] */
    int crossings;
    uint64_t *order; /* [crossings] by axis, face, t */
    fsi_cut *cut;    /* [cuts] */
    int cuts;
    int8_t *winding; /* [cells] private: winding number steps, zero between calls */
    /* [3 vertices of all open surfaces] where they were in the last detect */
    fsi_real *was;
    int was_count;
    int started; /* 1 after the first detect */
    /* private, set by fsi_couple: 1 = solids may work out places and masses when asked */
    int lean;
    /* private, set by fsi_couple: [cells] > 0 in bubbles, whose cells get sides as well; NULL =
     * none
     */
    const int32_t *bubble_cell;
    fsi_bvh *bvh; /* [solids] tree over each surface */
    /* private: the box in bins, so that a ray asks only the solids near it */
    int bins[3];
    uint32_t *bin; /* [all bins] bit s % 32 is set where the bounds of solid s meet it */
    /* [solids] volume of each solid below the liquid's surface (smoke: inside the box), m^3 (m^2 in
     * 2D) */
    double *submerged;
    fsi_occlusion occlusion; /* what the grid is given */
    /* cell and face arrays; the lists grow on their own when they run out of room */
    void *block;
    size_t size;
} fsi_interface;

/* Memory for the grid's size. desc may be NULL. */
FSI_API fsi_result fsi_interface_init(fsi_interface *iface, const fsi_grid *grid,
                                      const fsi_interface_desc *desc);
/* Frees everything; safe on a zeroed struct and twice. */
FSI_API void fsi_interface_free(fsi_interface *iface);
/* Finds covered cells and cut faces for the surfaces as they are now and hands them to the grid
   (fsi_grid_set_occlusion). count may be 0. FSI_ERR_GEOMETRY / FSI_ERR_ARGUMENT: a surface or solid
   is bad; nothing changed. Parts outside the box are ignored. */
FSI_API fsi_result fsi_interface_detect(fsi_interface *iface, fsi_grid *grid,
                                        fsi_coupled *const *solid, int count);
/* Lists the sides and their rows of J for the present classification of the grid
 * (fsi_grid_classify). */
FSI_API fsi_result fsi_interface_sides(fsi_interface *iface, const fsi_grid *grid);
/* After the solids moved in the same step: cells that an open surface passed over are on its other
   side now and take level set and scalars from there; markers it ran over go. The surfaces' arrays
   must be up to date. The number of cells that changed side goes to *passed (may be NULL). */
FSI_API fsi_result fsi_interface_moved(fsi_interface *iface, fsi_grid *grid, int *passed);
/* (J v)_s of one side, m/s. v: generalised velocity of its solid. */
FSI_API fsi_real fsi_interface_velocity(const fsi_interface *iface, const fsi_side *side,
                                        const fsi_real *v);
/* The fluid's velocity sample at a side, m/s; and setting it. */
FSI_API fsi_real fsi_interface_sample(const fsi_grid *grid, const fsi_side *side);
FSI_API void fsi_interface_set_sample(fsi_grid *grid, const fsi_side *side, fsi_real u);
/* Centre of the side's face, m. */
FSI_API fsi_vec3 fsi_interface_centre(const fsi_interface *iface, const fsi_side *side);
/* First surface on a -> b over all solids: 1 and *hit, *solid, or 0. Safe from several threads. */
FSI_API int fsi_interface_first_hit(const fsi_interface *iface, fsi_vec3 a, fsi_vec3 b,
                                    fsi_hit *hit, int *solid);
#endif

/* ------------------------------------------------------------------------------------------------
 * >>monolithic */
#ifndef FSI_COUPLE_NO_GRID
/* All of these give the same answer; they differ in speed. Sigma = L_N + Z K^-1 Z^T is the fluid's
   matrix and what the solids add to it (docs/mathematics.md, monolithic system). Take the default;
   the others are here to compare with. */
typedef enum fsi_couple_solver {
    /* DEFLATED or NEUMANN, whichever is estimated to be done first, set-up included;
     * fsi_couple.solver says which it took. */
    FSI_COUPLE_AUTO = 0,
    /* Sigma by CG with a V-cycle on L_N that takes the solids' columns Z along (fsi_mg_rank). The
     * fewest iterations; set-up grows with the columns squared. */
    FSI_COUPLE_DEFLATED,
    /* The same with columns that are not cut off: (B^-1 + Z K^-1 Z^T)^-1 exactly; more set-up. */
    FSI_COUPLE_WOODBURY,
    /* Sigma by CG with a V-cycle on L_N only. */
    FSI_COUPLE_NEUMANN,
    /* Sigma by CG with SCHUR's P(s), s = terms. */
    FSI_COUPLE_SCHUR,
    /* (p, lambda) by CG, SCHUR eq. 17, or RMSF11 with implicit solid forces. Voxel faces only. */
    FSI_COUPLE_FULL,
    /* (p, v) by SYMMQMR. */
    FSI_COUPLE_INDEFINITE,
    FSI_COUPLE_SOLVER_FORCE_INT = 0x7fffffff
} fsi_couple_solver;

/* Of FSI_COUPLE_FULL. */
typedef enum fsi_couple_precondition {
    FSI_PRECONDITION_MULTIGRID = 0,
    FSI_PRECONDITION_NONE,
    FSI_PRECONDITION_IC
} fsi_couple_precondition;

typedef struct fsi_couple_desc {
    fsi_couple_solver solver;
    /* Of closed solids; open shells are voxel faces always. 0 = cut cells, with SCHUR and FULL
     * voxel faces. */
    fsi_boundary_kind boundary;
    /* Nodal solids: 1 = J averages over the dual cell, 0 = J at the crossing. */
    int average;
    /* Closed air regions of a liquid keep their volume and push on liquid and solids. 0: in a
     * liquid with gravity; 1: always; -1: never, closed air yields like open air. FULL and
     * INDEFINITE have no bubbles. */
    int bubbles;
    double tolerance; /* relative residual; 0 = the grid's */
    /* Budget; 0 = the grid's cap (FULL, INDEFINITE: 20000). Stopping early is stable: the energy
     * has only fallen. */
    int max_iterations;
    double (*clock_fn)(void *user); /* optional: seconds, for the budget and reports */
    void *clock_user;
    double seconds; /* time budget of the solve, set-up included; 0 = none; needs clock_fn */
    /* 1: start from the last pressure when that passes the energy test; 0: from zero. */
    int warm_start;
    /* DEFLATED: cells by which a solid's columns may spread on each level, see fsi_mg_rank; 0 = 3,
     * with many bodies 2, light ones with cut cells more. */
    int band;
    /* SCHUR: s of P(s), 0 .. 16; -1 = no preconditioner. With cut cells always P(0). */
    int terms;
    /* FULL: for the pressure block; the rest is scaled by its diagonal (NONE: not at all). */
    fsi_couple_precondition precondition;
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
    int region;         /* number in grid.regions */
    double volume;      /* once the solids have moved, m^3 (m^2 in 2D) */
    double target;      /* should be */
    fsi_real pressure;  /* Pa, from the last solve */
    int first, last;    /* private: its liquid faces */
    int row;            /* private: its row among the kept volumes, -1: none, its pressure is 0 */
    int component;      /* private: sealed or open part of liquid and bubbles it belongs to */
    double weight, rhs; /* private: sum of face weights, right-hand side of its row */
    double start, hat;  /* private: p^ is start + hat, start the part on the right-hand side */
    double swept;       /* private: volume the solids make room for in this step, m^3 */
    double bias;        /* private: what the grid counts beyond the volume, m^3 */
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

/* private: what one solid has in the system of a solve */
typedef struct fsi__solid_block {
    const fsi_coupled *door;
    int first, last;     /* its sides: first .. last - 1 of by_solid */
    int offset, columns; /* its columns among all: degrees of freedom, fixed directions left out */
    /* dense: L, rows of its lower triangle, L L^T = I + F^T J^T b J F; nodal: diagonal of K */
    fsi_real *K;
    fsi_cholesky *factor; /* nodal, of K where it pays (fsi_slip); NULL: conjugate gradients */
} fsi__solid_block;

struct fsi_couple;

/* What a paper's solver changes (private); all NULL for the others. */
typedef struct fsi__paper_hooks {
    fsi_result (*build_fn)(struct fsi_couple *couple); /* before the solves of a system */
    void (*cycle_fn)(const fsi_real *r, fsi_real *z, void *couple); /* in place of the V-cycle */
    /* in place of Sigma; it knows no bubbles */
    fsi_result (*solve_fn)(struct fsi_couple *couple, fsi_report *report);
} fsi__paper_hooks;

typedef struct fsi_couple {
    /* as given; solver, terms, tolerance, budgets, warm_start may be changed between solves */
    fsi_couple_desc desc;
    fsi_grid *grid; /* the caller's */
    fsi_interface iface;
    fsi_report report;        /* of the last solve */
    fsi_couple_solver solver; /* that it took */
    fsi_bubble *bubble;       /* [bubbles] of the last solve */
    int bubbles;
    double dt;        /* of the last solve, s */
    double begun;     /* private: when it began, by clock_fn */
    fsi_real *lambda; /* [sides] impulse of the last solve on the fluid side, N s */
    /* [sides] fluid velocity along the axis at the side: u* before the solve, u after, m/s */
    fsi_real *side_velocity;
    /* private: the system of the last solve, symbols as in chapter monolithic of the
     * implementation */
    int columns;             /* of Z, all solids */
    fsi__solid_block *block; /* [solids] */
    int32_t *by_solid;       /* [sides] sides ordered by solid */
    size_t *row;             /* [sides] first entry of the side in q (dense solids) */
    fsi_real *q;             /* rows of J F, F F^T = M^-1 (dense solids) */
    fsi_real *K;             /* memory of all K */
    fsi_real *k;             /* [columns] right-hand side of the solids */
    fsi_real *free_answer;   /* [columns] K^-1 k: the answer without pressure */
    fsi_real *answer;        /* [columns] the answer to the pressure */
    fsi_real *load;          /* [columns] work: Z^T p */
    fsi_real *reaction;      /* [columns] work: K^-1 Z^T p, volumes of closed regions kept */
    /* [columns] conjugate gradients of nodal solids */
    fsi_real *cg_residual, *cg_direction, *cg_image;
    fsi_real *mass_work; /* [3 * dof^2 of the largest dense solid] */
    fsi_real *v_before;  /* v* of all solids, one after the other: for the ledger */
    fsi_real *cell_residual, *cell_step, *cell_work; /* [cells] */
    double noise;        /* residual that counts as none (fsi_slip: grid.noise); 0: the tolerance */
    fsi_operator ghosts; /* y += what ghost cells add to L_N x (fsi_slip); none without them */
    fsi_mg_bundle *bundle; /* [solids] columns of the dense solids */
    fsi_mg_rank rank;
    int32_t *side_cell; /* [sides] cell and factor of Z, ordered by solid */
    fsi_real *side_factor;
    unsigned char *lists; /* memory of the lists above */
    /* private: closed regions that solids feel, [regions] of them */
    int regions, region_of[64];
    double *constant; /* [regions of mg] pressure level p^, beside grid.pressure until the end */
    fsi_real *E;      /* [rows^2] factor of G K^-1 G^T + bubbles' weights */
    /* [rows * columns] of the regions, then of the bubbles: Z^T 1, and K^-1 times that */
    fsi_real *G, *KG;
    int rows;                    /* regions and bubbles together */
    fsi_real *region_work;       /* [rows] */
    unsigned char *region_lists; /* memory of these */
    /* private: bubbles */
    /* [cells] bubble of the step before + 1; 0 = none, -1 = open air, -2 = solid */
    int32_t *bubble_cell;
    /* [cells] 1 + the air region whose surface is next; 0 = far from all */
    int32_t *bubble_near;
    fsi__bubble_face *bubble_face; /* faces between fluid and bubbles, by bubble */
    int *bubble_share;             /* cells that went from bubble to bubble */
    int32_t *component_stack;      /* [cells] a flood's cells whose neighbours wait */
    int settled; /* 1: the bubbles' volumes were measured after the surface moved */
    /* private: state of the fluid during fsi_couple_half; the papers' solvers and their memory */
    fsi__paper_hooks paper;
    unsigned char *kept, *paper_lists, *paper_vectors;
    fsi_mg second; /* V-cycle on A11 (SCHUR, FULL); made when first needed */
} fsi_couple;

/* Ties a coupling to a grid (which must outlive it). Cut cells or shells need nothing special
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

/* What a coupling carries from step to step (bubbles' targets): bytes, copy out, copy back. Grid
 * and solids save themselves. */
FSI_API size_t fsi_couple_state_size(const fsi_couple *couple);
FSI_API fsi_result fsi_couple_save(const fsi_couple *couple, void *block);
FSI_API fsi_result fsi_couple_restore(fsi_couple *couple, const void *block, size_t size);

/* What a solid, or several together, do in a step. NULL = nothing to do. Negative: the step stops.
 */
typedef struct fsi_solid_stages {
    /* Explicit forces, v* into the doors' v, surfaces up to date. */
    fsi_result (*begin_fn)(fsi_real dt, void *user);
    /* Takes the new velocities, moves, resolves contact and joints, refreshes surfaces. */
    fsi_result (*move_fn)(fsi_real dt, void *user);
    /* By exchange only, of one solid: v[dof] of the end of the step under impulse[dof], from the
       state at the start of the step. NULL: v = v* + (M + B^T B)^-1 impulse. */
    fsi_result (*respond_fn)(const fsi_real *impulse, fsi_real *v, fsi_real dt, void *user);
    void *user; /* handed to all three */
} fsi_solid_stages;

/* A coupled scene and its solids, which may come from any engine. */
typedef struct fsi_scene {
    fsi_coupled *const *solid; /* [count] */
    int count;
    fsi_solid_stages stages; /* of all of them */
} fsi_scene;

/* One coupled step, in the order of docs/architecture.md. report: of the solve plus ledger; may be
   NULL. FSI_GAINED: contact, solve and advection together have added more energy than FSI_GAIN of
   what there was and was put in (report.energy_change and its parts); it is not asked where
   sources, inflows, buoyancy, confinement or a force_fn do work of their own. */
#define FSI_GAIN 0.05
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
FSI_API fsi_result fsi_body_couple(fsi_body *body, const fsi_surface *surface, fsi_coupled *out);
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

/* A solid with its stages: one that is no rigid body of the world, or one part of an exchange. */
typedef struct fsi_guest {
    fsi_coupled *door; /* the caller's; v = v* when the solve begins, the answer when it ends */
    fsi_solid_stages stages;
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
    /* private: of the bodies when the last step began, potential of springs alone */
    fsi_solids_report before;
    void *block;
    size_t size;
} fsi_world;

/* Makes grid, rigid world and coupling; gravity of the grid acts on the bodies too. On failure *w
 * is zeroed. */
FSI_API fsi_result fsi_world_init(fsi_world *world, const fsi_world_desc *desc);
/* Frees everything; safe on a zeroed struct and twice. Shapes given to bodies are the caller's. */
FSI_API void fsi_world_free(fsi_world *world);
/* Adds a rigid body and returns its id, 0, 1, 2 ... in the order they are added, or a negative
   fsi_result. The id is its number in world->solids.body and in every function of world->solids. */
FSI_API int fsi_world_add(fsi_world *world, const fsi_rigid_desc *desc);
/* Where the centre of mass of a rigid body is now, m. */
FSI_API fsi_vec3 fsi_world_position(const fsi_world *world, int id);
/* All of its motion: x, q, v, spin and more, read only; NULL for an id that is no body of the
   world. The pointer is good until the next body is added. */
FSI_API const fsi_rigid *fsi_world_rigid(const fsi_world *world, int id);
/* Adds a guest (struct copied). */
FSI_API fsi_result fsi_world_add_guest(fsi_world *world, const fsi_guest *guest);
/* One coupled step. report may be NULL. Beside the results of the solve and of fsi_solids_move:
   FSI_DT_TOO_LARGE when a body has moved more than half its size, FSI_INFEASIBLE when contacts
   contradict each other (a body between closing walls is held, not thrown), FSI_GAINED. */
FSI_API fsi_result fsi_world_step(fsi_world *world, fsi_real dt, fsi_report *report);
/* Advised step, s: fsi_grid_max_dt for the fluid, and no body moves more than half its thinnest
   extent. */
FSI_API fsi_real fsi_world_max_dt(const fsi_world *world);
/* Force, torque, submerged volume of a rigid body in the last step; FSI_ERR_ARGUMENT when it was
 * not coupled. */
FSI_API fsi_result fsi_world_body(const fsi_world *world, int body, fsi_body_report *out);
/* State of grid, rigid bodies and coupling (guests save their own): bytes, copy out, copy in. A
 * restored run continues bit for bit. */
FSI_API size_t fsi_world_state_size(const fsi_world *world);
FSI_API fsi_result fsi_world_save(const fsi_world *world, void *block);
FSI_API fsi_result fsi_world_restore(fsi_world *world, const void *block, size_t size);

/* respond_fn of fsi_soft (any integrator, nonlinear too). The step begins with
 * fsi_soft_responder_begin, which keeps the soft body's state. */
typedef struct fsi_soft_responder {
    fsi_soft *soft;
    fsi_coupled door; /* of fsi_soft_guest */
    fsi_allocator allocator;
    unsigned char *state; /* private */
} fsi_soft_responder;

FSI_API fsi_result fsi_soft_responder_begin(fsi_soft_responder *responder);
FSI_API fsi_result fsi_soft_respond(const fsi_real *impulse, fsi_real *v, fsi_real dt,
                                    void *responder);
FSI_API void fsi_soft_responder_free(fsi_soft_responder *responder);
/* The soft body as a guest of a world, its door in the responder: for fsi_world_exchange, and with
 * FSI_SOFT_SPLIT for fsi_world_step too. */
FSI_API fsi_guest fsi_soft_guest(fsi_soft_responder *responder);
#endif

/* ------------------------------------------------------------------------------------------------
 * >>slip */
#ifndef FSI_COUPLE_NO_GRID
/* Frictionless walls on a voxel grid (SLIP, with the repairs of docs/slip.md): the fluid crosses
   the stair steps of a sloping surface through ghost cells, so that it slides along the surface and
   never through it. Every coupling side of fsi_interface gets a flux of its own and a ghost cell
   behind it; ghosts of the same side of the surface are merged and linked, ghosts of different
   sides never.

        fluid cell   | side |  ghost ---- link ---- ghost
        (pressure)   |----->|    |                    |
                       flux      surface runs between cells and ghosts

       flux out of the fluid cell     sign (J v)_s + (relative flux), the second also enters the
       through a side                 ghost
       start of the relative flux     sign * axis part of (I - N N^T)(V^ - V_s),
                                      V^ = mean of the cell's regular samples
       surface velocity after the     V = V_s + (I - N N^T)(V^ - V_s)   (N.V = N.V_s exactly)
       solve
       friction, coefficient c < 1    wall stress -FSI_SLIP_STRESS (1 - c) / c rho |V - V_s| (V -
                                      V_s); c = 0: V = V_s

   For static closed solids cut cells (the default) are more accurate; this is for thin shells,
   and for closed solids on voxels. Solids with inverse_mass 0 (or dof 0: surface.v) are static or
   scripted; others are moved by the solve (two-way). */
/* mass of a ghost flux over that of a face (10 .. 10000 do the same) */
#define FSI__SLIP_GHOST_MASS FSI_R(30.0)
#define FSI_SLIP_STRESS FSI_R(0.05) /* wall stress over rho |V - V_s|^2 at coefficient 1/2 */

typedef enum fsi_slip_form {
    /* flux-consistent start, corner links, no reaction of the constraint on regular faces: first
     * order */
    FSI_SLIP_REPAIRED = 0,
    /* papers: SLIP eq. 10, 12, 16 as printed (sign corrected), one pass. Does not converge on a
     * cylinder (docs/slip.md) */
    FSI_SLIP_PAPER,
    FSI_SLIP_FORM_FORCE_INT = 0x7fffffff
} fsi_slip_form;

typedef enum fsi_slip_solver {
    /* conjugate gradients with the grid's V-cycle: ghosts eliminated by sparse Cholesky, solids too
     */
    FSI_SLIP_CG = 0,
    /* papers: two-way solids keep their velocities as unknowns, SYMMQMR (V-cycle; paper's form:
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
    /* cut cells: closed solids have no ghost cells (second order field); open shells keep theirs.
     * Fixed at init */
    fsi_boundary_kind boundary;
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

/* A velocity sample that friction at a side holds (private). */
typedef struct fsi__tie {
    int32_t side, face;
    int axis;
    fsi_real share; /* of the difference that friction takes */
    fsi_real old;   /* velocity before */
} fsi__tie;

/* Entries of a sparse matrix in any order (private); row, col and val are lists. */
typedef struct fsi__slip_entries {
    int32_t *row, *col;
    fsi_real *val;
    size_t count;
    int failed;
} fsi__slip_entries;

typedef struct fsi_slip {
    /* as given; form, solver, passes, coefficient, tolerance may be changed between solves */
    fsi_slip_desc desc;
    fsi_grid *grid; /* the caller's */
    fsi_interface iface;
    fsi_report report; /* of the last solve, iterations of all passes */
    int ghosts, links, islands;
    int32_t *ghost;       /* [sides] ghost of each side */
    fsi_real *flux;       /* [sides] relative flux out of the fluid cell into the ghost, m/s */
    fsi_vec3 *velocity;   /* [sides] fluid velocity at the surface, m/s */
    fsi_slip_link *link;  /* [links] sorted */
    fsi_real *link_flux;  /* [links] m/s */
    int32_t *island;      /* [ghosts] number of the connected set of linked ghosts */
    uint8_t *island_open; /* [islands] 1: it reaches an open or inflow side of the box */
    /* the caller's, may be NULL: [3 * tracers] points, m, that fsi_slip_step moves with the fluid
     * and keeps on their side of every surface */
    fsi_real *tracer;
    int tracers;
    /* private: the rows of J of a side, and all passes, of the form of this solve */
    fsi_result (*rows_fn)(struct fsi_slip *slip, int side);
    fsi_result (*solve_fn)(struct fsi_slip *slip, fsi_report *report);
    /* private: the monolithic solve that this one is; its interface has our solids and, as sides,
     * rows of its own (see the implementation's chapter slip) */
    fsi_couple couple;
    /* private: of one solve */
    fsi_vec3 *body;              /* [sides] velocity of the solid */
    fsi_vec3 *gap;               /* [sides] what the fluid is faster */
    fsi_real *conduct;           /* [sides] coefficient / ghost mass */
    fsi_real *rate;              /* [sides] what friction takes: dt stress / (rho h |V - V_s|) */
    fsi_real *wall;              /* [sides] velocity of the wall along the axis that is not in Z */
    fsi_real *stick;             /* [sides] part of u* that does not slide, less the solid's */
    uint64_t *spot;              /* [2 * sides] location << 32 | side, sorted */
    fsi_real *row;               /* longest row of J */
    int32_t *root, *island_size; /* [sides] of sets being joined; [islands] ghosts */
    double *island_sum;          /* [islands] work */
    uint8_t *island_held;        /* [islands] 1: something holds it, it needs no pin */
    fsi_real *ghost_pressure, *ghost_rhs, *ghost_work; /* [ghosts] */
    fsi_real *v_given, *v_star; /* [dof of all solids] v* as given, v* after friction */
    int held;                   /* 1: v_given is of this solve */
    uint8_t *moves;             /* [solids] 1: two-way */
    fsi_real *friction;         /* [3 * solids] force of the last solve's friction, N */
    unsigned char *side_lists;  /* memory of these */
    uint64_t *key;              /* of all links */
    fsi__tie *tie;
    fsi_cholesky start_factor; /* of the links alone */
    fsi_cholesky ghost_factor; /* of the ghosts' block in the matrix */
    fsi_cholesky *K_factor;    /* [solids] of K of the nodal ones */
    unsigned char *factors;    /* memory of all factors */
    fsi__slip_entries triplets;
    /* private: kept */
    fsi_real *rhs;  /* [cells] the fluid's, over all passes */
    fsi_real *u[3]; /* [faces] u* */
    /* second order: [faces] half of the last step's pressure gradient over rho, m/s */
    fsi_real *half[3];
    fsi_real *total; /* second order: [cells] p^ of the whole last step, Pa s */
    int stepped;     /* 1: total is of the last solve */
    int reflecting;  /* 1: this step is of second order */
    fsi_real dt;     /* of the last solve */
    /* where all surfaces were when the tracers were last kept clear of them, 3 per vertex */
    fsi_real *was;
    int was_count, was_elements;
    fsi_real *from; /* [3 * tracers] where they were before the step */
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
 * surface it meets, so none crosses a solid at rest. fsi_grid_trace, which follows what a cell
 * sees, may let one through a plate (C-12). */
FSI_API fsi_result fsi_slip_trace(const fsi_slip *slip, int count, fsi_real *x, fsi_real dt);
/* Force of the fluid's pressure (along the face axes) and friction on a solid in the last solve, N
 * (2D: N/m): mean over the step. */
FSI_API fsi_vec3 fsi_slip_force(const fsi_slip *slip, int solid);
/* What the scheme carries from step to step beside the grid (the last pressure, the surfaces'
   places when there are tracers): bytes, which the first step with tracers changes, copy out, copy
   back. */
FSI_API size_t fsi_slip_state_size(const fsi_slip *slip);
FSI_API fsi_result fsi_slip_save(const fsi_slip *slip, void *block);
FSI_API fsi_result fsi_slip_restore(fsi_slip *slip, const void *block, size_t size);
/* Largest |net outflow| / h over fluid cells and over ghosts after a solve, 1/s. */
FSI_API double fsi_slip_max_divergence(const fsi_slip *slip);
#endif

/* ------------------------------------------------------------------------------------------------
 * >>partitioned */
/* Partitioned coupling of two closed (black-box) solvers (paper XPM). Symbols:

       X [n]       what the solid tells the fluid: positions of the interface's nodes, m
       p [m]       what the fluid tells the solid: forces or impulses on those nodes
       F: X -> p   the fluid            X_F, p_F   its last input and output
       S: p -> X   the solid            p_S, X_S   its last input and output
       R           the residual S(F(X)) - X
       F_X, S_p    reduced Jacobians, made of the pairs (input, output) seen so far */

/* One black box. Every solve starts from the state of the last accepted step: either the box has no
   memory inside a step, or it gives save_fn and restore_fn. All callbacks return FSI_OK or a
   positive result, see fsi_partitioned.told; a negative one ends the step and is what it returns.
 */
typedef struct fsi_blackbox {
    /* required: one step of this solver with boundary values in */
    fsi_result (*solve_fn)(const fsi_real *in, fsi_real *out, void *user);
    /* once at the start of a step; NULL = no memory to save */
    fsi_result (*save_fn)(void *user);
    /* before every solve but the first; NULL = no memory to restore */
    fsi_result (*restore_fn)(void *user);
    void *user;
} fsi_blackbox;

typedef enum fsi_scheme {
    /* reduced model interface: eq. (6) before the fluid, (7) before the solid. This is XPM when p
     * are conservative impulses */
    FSI_SCHEME_REDUCED = 0,
    FSI_SCHEME_RELAXED = 1, /* Gauss-Seidel with under-relaxation omega */
    FSI_SCHEME_AITKEN = 2,  /* the same with Aitken's omega */
    /* papers: REDUCED with eq. (6), (7) solved matrix-free by GMRES, not exactly by a small system
     */
    FSI_SCHEME_PAPER_GMRES = 3,
    /* papers: RELAXED as the paper's P and P-C stop, on omega |R|, which flatters a small omega */
    FSI_SCHEME_PAPER_RELAXED = 4
} fsi_scheme;

typedef struct fsi_partitioned_desc {
    int n, m; /* largest lengths of X and p, >= 1 */
    /* components per node for the norm: largest length of a node's residual; 0 = 1 */
    int per_node;
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
    /* 1: the solid keeps the load of the reduced model; 0: it is solved once more with p_F
     * itself, so that what the fluid lost is what the solid got, and |R| is the true one (that
     * call is not counted as an iteration) */
    int no_final_solve;
    double (*clock_fn)(void *user); /* optional: seconds, for fsi_partitioned.seconds */
    void *clock_user;               /* handed to clock_fn */
    fsi_allocator allocator;        /* zero = malloc */
} fsi_partitioned_desc;

/* One call of each solver: F(x_f) = p_f and S(p_s) = x_s. */
typedef struct fsi_exchange_pair {
    fsi_real *x_f, *p_f; /* [n], [m] */
    fsi_real *p_s, *x_s; /* [m], [n] */
} fsi_exchange_pair;

/* Counters, and what decides the next step beside the pairs. No addresses: a state holds it. */
typedef struct fsi_partitioned_now {
    int64_t steps, fluid_calls, solid_calls; /* since init; the final solid call is not counted */
    double used_columns;      /* mean columns of the fluid's reduced model per step */
    int32_t n, m;             /* lengths of the last step; another length forgets the pairs */
    int32_t capped, stalled;  /* steps that ended at the cap, or without progress, since init */
    int32_t has_load;         /* 1: the load of the last step is known */
    int32_t kept_steps;       /* earlier steps whose pairs are stored */
    int32_t step_columns[16]; /* pairs stored per earlier step */
} fsi_partitioned_now;

/* Reduced model of one solver (private), made of differences between its calls. Those of this step
   are made orthonormal, q_i -> y_i; those of earlier steps stay as they are, d_j -> e_j:

       Q, Y   columns q_i and their images y_i            D, E   columns d_j and their images e_j
       C      Q^T D                   G   D^T D           L L^T  G - C^T C: what is new in D
       W      (L L^T)^-1
       R      [[1 + C W C^T, -C W], [-W C^T, W]], the inverse of [Q D]^T [Q D]
       J      [Y E] R [Q D]^T, the Jacobian

   A product of two columns is formed once in their life, when it is first asked for, so an
   iteration costs some columns' length and no square of their number. */
typedef struct fsi__model {
    int in, out;      /* lengths of an input and of an output */
    int room;         /* differences that can be stored */
    int basis;        /* most columns of q */
    fsi_real *d, *e;  /* [room * in], [room * out] unit differences, in slots */
    int32_t *slot;    /* [room] slots of this step's, of earlier steps', newest first; free ones */
    fsi_real *q, *y;  /* [basis * in], [basis * out] */
    int current, old; /* stored differences of this step and of earlier ones */
    int kept, chosen; /* columns in q; old ones in use */
    int used;         /* kept + chosen */
    int stale;        /* 1: chosen is not up to date */
    int dependent;   /* differences of this step that said nothing new: round-off, or in the span */
    int32_t *choice; /* [room] numbers of the old ones in use, newest first */
    uint8_t *dropped; /* [room] 1: an old one that said nothing new; it cannot later in this step */
    fsi_real *C, *G;  /* [basis * room], [room * room] by slots; FSI_REAL_MAX = not formed yet */
    fsi_real *L;      /* [room * room] */
    fsi_real *weight; /* [basis + room] work: coefficients of the columns in use */
    size_t most;      /* basis + room */
    fsi_real *with_other; /* [most * most] products of these inputs with the other model's images */
    fsi_real *of_other;   /* the other model's with_other */
} fsi__model;

typedef struct fsi_partitioned {
    fsi_partitioned_desc desc; /* defaults filled in */
    fsi_partitioned_now now;
    /* pairs of the last step that said nothing new and were left out (see report.restarts) */
    int dependent;
    /* pairs of earlier steps that the filter left out at the end of the last step, of both models
     */
    int filtered;
    /* positive results of the fluid's and the solid's last call, FSI_OK = none: they do not stop a
     * step */
    fsi_result told[2];
    /* since init, with clock_fn: in the fluid, in the solid, in the scheme itself */
    double seconds[3];
    /* the last calls: p less last.p_f is what the solid got and the fluid did not give */
    fsi_exchange_pair last;
    /* private */
    fsi_exchange_pair before;  /* the calls before */
    fsi_exchange_pair nearest; /* those of this step with the smallest residual */
    fsi__model fluid, solid;
    fsi_real *residual, *residual_before; /* [n] */
    fsi_real *p_last;                     /* [m] load of the last step */
    fsi_real *gap, *change, *step;        /* [n + m] work of the predictions */
    fsi_real *matrix;                     /* their small system and its two factors */
    int32_t *pivot;
    /* d solves (I - A B) d = r with two reduced models; 0: it does not. NULL: no models */
    int (*predict_fn)(struct fsi_partitioned *scheme, const fsi__model *A, const fsi__model *B,
                      const fsi_real *r, fsi_real *d);
    fsi_real enough;    /* residual at which an exchange ends */
    void *papers;       /* memory of a paper's variant */
    size_t papers_size; /* 0 = it needs none */
    /* set by fsi_sph_rigid: writes the next x_f of `last` in place of the scheme; NULL = none */
    fsi_result (*next_fn)(int pairs, void *user);
    void *next_user;
    void *block;
    size_t size; /* the one allocation */
} fsi_partitioned;

/* Makes the scheme's memory (one allocation). */
FSI_API fsi_result fsi_partitioned_init(fsi_partitioned *scheme, const fsi_partitioned_desc *desc);
/* Frees it; safe on a zeroed struct and twice. */
FSI_API void fsi_partitioned_free(fsi_partitioned *scheme);
/* One coupled step. x[n]: in the extrapolated X, out the X the fluid saw last; p[m]: out the load
   the solid got. n, m are at most those of the desc.
   FSI_NOT_CONVERGED: the cap is reached. FSI_STALLED: the residual no longer falls. Both leave the
   solvers at their last call, and REDUCED leaves the solid with the load of the reduced model: p_F
   itself would throw a light one off by the whole residual; what the two loads differ by is
   momentum lost.
   report: iterations = pairs, residual_start, residual = |R| in the unit of X, restarts = times the
   reduced model was dropped, plus pairs that were left out because they depend on others. */
FSI_API fsi_result fsi_partitioned_step(fsi_partitioned *scheme, int n, int m,
                                        const fsi_blackbox *fluid, const fsi_blackbox *solid,
                                        fsi_real *x, fsi_real *p, fsi_report *report);
/* Forgets all pairs of earlier steps, e.g. after a jump. */
FSI_API void fsi_partitioned_forget(fsi_partitioned *scheme);
/* Bytes of the memory that decides the next step; save and restore copy it, and a restored run
 * gives identical bits. */
FSI_API size_t fsi_partitioned_state_size(const fsi_partitioned *scheme);
FSI_API fsi_result fsi_partitioned_save(const fsi_partitioned *scheme, void *block);
FSI_API fsi_result fsi_partitioned_restore(fsi_partitioned *scheme, const void *block, size_t size);

/* ------------------------------------------------------------------------------------------------
 * >>boxes */
#ifndef FSI_COUPLE_NO_GRID
/* Our own solvers behind the black-box door. The interface variables are generalised:

       X = [ dt v of every solid's degrees of freedom, one after the other | one entry per region ]
       p = [ impulses on the same degrees of freedom, N s                  | the regions' pressure ]

   A rigid body has 6 degrees of freedom, cloth 3 per node; the regions are the closed ones of the
   fluid. Residuals are therefore displacements in one step, m (rotations: rad).

   Closed regions (boundary pressure projection, XPM section 6): the fluid makes the solids'
   velocities compatible and tells by which pressure. The paper hands that pressure p0 to the solid
   and forgets it, so it vanishes when the solid obeys and the fixed point is not the coupled
   solution. Here the region's pressure pi is carried along, pi' = pi + p0, and p0 = 0 is part of
   convergence. fsi_closed_regions does better (a scene's step uses it): the solids find the pi for
   which their answer is compatible, in every call, so X and p only have to agree on compatible
   motion. */
typedef enum fsi_load_form {
    FSI_LOAD_IMPULSES = 0, /* conservative impulses, XPM section 5 */
    /* papers: pressure forces alone (P and RMI of the paper), through the same rows of J */
    FSI_LOAD_PAPER_PRESSURE = 1,
    /* papers: pressure forces at the vertices, means of the faces around each (XPM section 4.5):
     * smoother, loses momentum */
    FSI_LOAD_PAPER_VERTICES = 2
} fsi_load_form;

/* Solids as given to detect, and their doubles under X; velocities before the solve (private). */
typedef struct fsi__follow {
    fsi_coupled *const *given;
    fsi_coupled **list, *copy;
    fsi_real *x, *u[3], *plus[3];
    unsigned char *block;
} fsi__follow;

/* papers: what FSI_LOAD_PAPER_VERTICES keeps (private). */
typedef struct fsi__kernel_entry {
    int32_t side, vertex;
    fsi_real weight; /* of the side's pressure at the vertex */
} fsi__kernel_entry;

typedef struct fsi__paper_vertices {
    fsi__kernel_entry *kernel; /* [kernels] */
    int kernels, vertices;
    fsi_real *push;   /* [vertices] mean pressure */
    fsi_real *normal; /* [3 * vertices] area normal */
    int32_t *stamp;   /* [vertices] last side seen */
    int32_t *corner;  /* [vertices] an element of the vertex */
    fsi_real *row;    /* [dof of the largest dense solid] */
    unsigned char *block;
} fsi__paper_vertices;

typedef struct fsi_fluid_box {
    fsi_grid *grid;              /* the caller's; after advection, forces and viscosity */
    fsi_interface *face;         /* the caller's; detected, see fsi_fluid_box_begin */
    fsi_load_form pressure_form; /* 0 = conservative impulses */
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
    /* private: adds a share of the load of the last solve to out; hands the sides' impulses (jump)
     * to the solids */
    void (*give_fn)(struct fsi_fluid_box *box, fsi_real share, fsi_real *out);
    void (*hand_fn)(struct fsi_fluid_box *box, fsi_real *out);
    int *offset;           /* [solids + 1] first degree of freedom of each solid */
    int *first_element;    /* [solids + 1] first element of each solid's surface */
    fsi_real *rhs0;        /* [cells] right-hand side with the solids at rest */
    fsi_real *u, *u_star;  /* [sides] velocity at the sides, and the fluid's before the solve */
    fsi_real *area, *mass; /* [sides] */
    int32_t *region;       /* [sides] closed region of the side's cell, -1 none */
    fsi_real *jump;        /* [sides] impulse, N s; at vertices: signed pressure, Pa s */
    fsi_real *p0;          /* [regions] pressure of the projection, Pa s */
    fsi_real *stiff;       /* [regions] C^T M^-1 C */
    fsi_real *sweep;       /* [regions] flux by swept volumes less that through the sides, m^3/s */
    double *source;        /* [regions] what sources and scripted faces push in, m^3/s */
    int32_t *behind, *before; /* swept: [elements] closed region on either side, -1 none */
    int32_t *vertex;          /* swept: [vertices] work */
    fsi__follow moved;        /* follow */
    fsi__paper_vertices vertices;
    unsigned char *block, *region_block;
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

typedef struct fsi_solid_box {
    fsi_guest *part; /* [count] the caller's, in the order of the interface */
    int count;
    int regions; /* as the fluid box says */
    fsi_real dt;
    fsi_allocator allocator;
    fsi_result status; /* last positive result of a respond_fn since begin, FSI_OK = none */
    /* private */
    fsi_real *v0;   /* v* of all solids */
    fsi_real *work; /* of doors with an implicit part */
} fsi_solid_box;

/* Remembers v* of all solids. */
FSI_API fsi_result fsi_solid_box_begin(fsi_solid_box *box, int regions, fsi_real dt);
/* The door: p -> X; leaves the answer in every solid's v. */
FSI_API fsi_blackbox fsi_solid_box_door(fsi_solid_box *box);
FSI_API void fsi_solid_box_free(fsi_solid_box *box);

/* Closed regions for every scheme: a door around the solids' door, ours or anybody's with the same
   X and p, that answers with compatible motion. fsi_closed_regions_begin after fsi_fluid_box_begin;
   then the fluid's door and this one go to fsi_partitioned_step. An iteration calls the solids
   twice, and the first of a step once more per region. */
typedef struct fsi_closed_regions {
    fsi_fluid_box *fluid;    /* the caller's, begun, with bpp = 1 */
    fsi_blackbox solid;      /* the solids' door */
    fsi_partitioned *scheme; /* the caller's: the one that will do the step */
    fsi_allocator allocator; /* zero = malloc */
    /* private: n = length of X, m = regions */
    int measured;           /* 1: W is known in this step */
    fsi_real *load;         /* [n] what the solids got last */
    fsi_real *best, *other; /* [n] nearest answer, another */
    fsi_real *at;           /* [n] where volumes are looked at */
    fsi_real *W;            /* [m * n] answers to a unit of each region's pressure, S_p G */
    fsi_real *pi;           /* [m] pressures, as X entries */
    fsi_real *step, *more;  /* [m] change of pi in one correction, the last part of it */
    /* [m] incompatibility, m^3/s, of what the fluid was told, of best and of other */
    fsi_real *told, *flux, *next;
    /* [m * m] C^T W; 0 on the diagonal: this region's pressure moves nobody. Its factor */
    fsi_real *K, *L;
    unsigned char *block;
} fsi_closed_regions;

/* *door: what to give to fsi_partitioned_step; the solids' own where no region is closed. Allocates
 * only when regions or solids outgrew the room. */
FSI_API fsi_result fsi_closed_regions_begin(fsi_closed_regions *closed, fsi_blackbox *door);
/* After fsi_partitioned_step: p[n] becomes the load that the solids got, pressures of the regions
 * included; the next step starts from it. */
FSI_API void fsi_closed_regions_finish(fsi_closed_regions *closed, fsi_real *p);
/* Frees its memory; safe on a zeroed struct and twice. */
FSI_API void fsi_closed_regions_free(fsi_closed_regions *closed);

/* A whole partitioned step for a grid and solids: detect, advect, exchange until they agree, move.
 */
typedef struct fsi_partitioned_scene {
    fsi_grid *grid;
    fsi_interface *face;
    fsi_fluid_box fluid;  /* zero, with options set; grid and face are filled in */
    fsi_solid_box solids; /* part, count set */
    fsi_partitioned *scheme;
    fsi_coupled **list;      /* [count] room for the doors */
    fsi_solid_stages stages; /* of all solids: as in fsi_scene; those of the parts are not called */
    fsi_allocator allocator;
    /* private: [n] X, load, X that the geometry was found at */
    fsi_real *x, *p, *seen;
    fsi_closed_regions closed;
} fsi_partitioned_scene;

/* Results: those of fsi_partitioned_step, FSI_INCOMPATIBLE where a closed region cannot take what
   is put in (fluid.leak), FSI_DT_TOO_LARGE; also report->reason. report->momentum: what the solids
   got less what the fluid gave; not 0 after a step that did not converge, or with the papers' load
   forms. */
FSI_API fsi_result fsi_partitioned_scene_step(fsi_partitioned_scene *scene, fsi_real dt,
                                              fsi_report *report);
FSI_API void fsi_partitioned_scene_free(fsi_partitioned_scene *scene);
/* fsi_world_step by exchange instead of one solve: scene gives scheme, options of the fluid box,
   and room for one solids.part and one list entry per rigid body and guest; grid, interface and
   callbacks are the world's. fsi_world_body then reports nothing. */
FSI_API fsi_result fsi_world_exchange(fsi_world *world, fsi_partitioned_scene *scene, fsi_real dt,
                                      fsi_report *report);
#endif

/* ------------------------------------------------------------------------------------------------
 * >>proxy */
#ifndef FSI_COUPLE_NO_SPH
/* SPH with deformable solids by proxy particles (PROXY). Every fluid particle that is about to
   touch a solid meets a proxy: a particle behind the surface that stands for the nodes around.

       r0      radius of fluid and proxy particles, m
       n_c     normal of a contact, from all its triangles, eq. (6), (7)
       w_j     weights of the nodes around, m_j / d_j^2, normalised; the proxy's velocity (8) and
               the hand-out of its impulse (14) use the same
       e       restitution (11)
       delta   slip (12)
       m_f     mass of a fluid particle
       m_p     mass of a proxy

   Where this differs from the paper:
   - Collisions are looked up with the relative motion of the coming step, so that a fast particle
     cannot jump over a thin shell.
   - A fluid particle stays on the side where it is, so shells are wet on both sides.
   - Where several proxies share a node its mass is split among them, 1/m_p = sum_j w_j W_j / m_j
     with W_j the sum of all weights at node j. Then kinetic energy cannot grow for any e and delta
     in [0, 1], however many particles hit at once. */
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
    fsi_result (*advance_fn)(fsi_real dt, void *user);
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
    int nearby;    /* particles that were looked at */
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
    int32_t state;                    /* of the correction: FSI__PROXY_MOVED ... */
} fsi__proxy_near;

typedef struct fsi_proxy {
    fsi_proxy_desc desc; /* defaults filled in */
    fsi_proxy_stats stats;
    /* private */
    fsi_lookup *lookup;      /* [count] surfaces at the last stage */
    int *offset;             /* [count + 1] first node of each solid in the common numbering */
    fsi__proxy_near *nearby; /* [capacity] */
    int32_t *mark;           /* [capacity] */
    int32_t *node;           /* [capacity * FSI_PROXY_NODES] */
    fsi_real *weight;        /* the same */
    int32_t *start;          /* [nodes + 2] entries of each node after sorting */
    int32_t *order;          /* [capacity * FSI_PROXY_NODES] entry numbers sorted by node */
    fsi_real *load;          /* [nodes] W_j */
    double *energy;          /* [nodes] */
    fsi_real *x_old;         /* [3 nodes] positions at the last collide */
    fsi_real moved;          /* the longest way of a node since then, m */
    int ready;               /* 1 after collide */
    void *block;
    size_t size; /* the one allocation besides the look-ups' */
} fsi_proxy;

/* Checks and allocates for the solids as they are. FSI_ERR_ARGUMENT: dense doors, e or delta
 * outside [0, 1], missing parts. */
FSI_API fsi_result fsi_proxy_init(fsi_proxy *proxy, const fsi_proxy_desc *desc);
/* Frees; safe on a zeroed struct and twice. */
FSI_API void fsi_proxy_free(fsi_proxy *proxy);
/* One coupled step of dt > 0 s: fluid forces, collide, both move, correct. report may be NULL (of
 * the fluid, with the ledger of the exchange). */
FSI_API fsi_result fsi_proxy_step(fsi_proxy *proxy, fsi_real dt, fsi_report *report);
/* The stages. Collide: after fsi_sph_accelerate, changes velocities of particles and solids. */
FSI_API fsi_result fsi_proxy_collide(fsi_proxy *proxy, fsi_real dt);
/* Correct: after fluid and solids have moved; moves fluid particles only. Between collide and
   correct the order of the particles must stay: a prepare in between may only find them sorted
   already (as a fluid step does right after another prepare). */
FSI_API fsi_result fsi_proxy_correct(fsi_proxy *proxy);
/* The two-body response (9)-(12): velocities v_f, v_p before, 1/m_f and 1/m_p >= 0 (not both 0),
   unit normal n from the solid to the fluid. Returns the impulse on the proxy; the fluid particle
   gets the opposite. */
FSI_API fsi_vec3 fsi_proxy_response(fsi_vec3 v_f, fsi_vec3 v_p, fsi_real inverse_f,
                                    fsi_real inverse_p, fsi_vec3 n, fsi_real restitution,
                                    fsi_real slip);
/* Nearest triangle of any solid to p within reach m, at the positions of the last stage: 1, *solid
 * and *hit (hit->t is the distance), or 0. */
FSI_API int fsi_proxy_closest(const fsi_proxy *proxy, fsi_vec3 p, fsi_real reach, int *solid,
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
FSI_API fsi_result fsi_clamp_init(fsi_clamp *clamp, fsi_tled *tled, fsi_solids *world, int body,
                                  const int32_t *node, int count, const fsi_allocator *allocator);
FSI_API void fsi_clamp_free(fsi_clamp *clamp);
/* Takes the solid through dt s in as many steps as it needs, its clamped nodes with the body's
   motion; what they feel (and what a collide before handed to them) becomes force and torque on the
   body, for the next step of world. An advance_fn with user = the clamp. */
FSI_API fsi_result fsi_clamp_advance(fsi_real dt, void *user);
#endif

/* ------------------------------------------------------------------------------------------------
 * >>sphrigid */
#ifndef FSI_COUPLE_NO_SPH
/* SPH fluid and rigid bodies that meet at boundary particles (Akinci et al. 2012; paper XPM,
   section 7.4). WEAK: the fluid sees the bodies' old velocities, its forces move the bodies: one
   call of each, conserves momentum, unstable for light bodies. The strong schemes repeat the step
   from the saved state until the motion the fluid saw is the motion its impulses cause:

       X = dt u    u = (velocity of the centre, spin * radius) of every body after this step
       p           (impulse, angular impulse / radius), N s

   so that the residual dt |S(F(u)) - u|, m, is the distance by which fluid and body disagree about
   the surface. XPM here: a fluid solve costs as much as a thousand solid solves, so only the fluid
   gets a reduced model, p(u) = p_F - K (u - u_F), K the added mass seen so far; eq. (6) is then
   solved with the solid itself, u = S(p(u)), by Newton's method. A linear model of the solid, as
   fsi_partitioned has it, fails where a body leaves the floor: its pairs come from both sides of
   the kink. */
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

/* A coupled body (private). */
typedef struct fsi__sph_body {
    int body, object; /* numbers in world and sph */
    fsi_vec3 x0, v0;  /* place and velocity at the start of the step */
    fsi_quat q0;      /* attitude then */
    fsi_real radius;  /* bounding radius, m: makes a rotation a displacement */
} fsi__sph_body;

typedef struct fsi_sph_rigid {
    fsi_sph_rigid_desc desc; /* defaults filled in; body and object: NULL */
    fsi_partitioned scheme;  /* but for WEAK; its counters count */
    fsi_report fluid;        /* of the last fluid solve */
    /* impulse the fluid gave less impulse the bodies took in the last step, N s; 0 but for the
     * residual of RELAXED */
    double momentum[3];
    int64_t fluid_calls, solid_calls; /* since init */
    /* private; all vectors have n = 6 count entries */
    int n;
    fsi__sph_body *part;                   /* [count] */
    fsi_real *X, *p;                       /* what the fluid sees, its impulses */
    fsi_real *X_base, *p_base, *gap_base;  /* the best pair so far, and its residual, */
    fsi_real best;                         /* whose norm is this, m */
    fsi_real *gap, *p_model, *step;        /* Newton: residual, impulses of the model, step */
    fsi_real *trial, *gap_trial, *p_trial; /* a point along the step, its residual and impulses */
    fsi_real *dX, *dp;                     /* differences that K learns from */
    fsi_real *K;                           /* [n * n] added mass seen so far, kg: kept */
    fsi_real *J;                           /* [n * n] I + S_p K */
    int32_t *pivot;
    void *sph_state, *world_state; /* saved at the start of the step */
    fsi_real dt;                   /* of the running step, s */
    void *block;
    size_t size; /* the one allocation besides the scheme's */
} fsi_sph_rigid;

/* Checks and allocates. FSI_ERR_ARGUMENT: missing parts, numbers out of range, objects that are not
 * two-way. */
FSI_API fsi_result fsi_sph_rigid_init(fsi_sph_rigid *coupling, const fsi_sph_rigid_desc *desc);
/* Frees; safe on a zeroed struct and twice. The solvers are the caller's. */
FSI_API void fsi_sph_rigid_free(fsi_sph_rigid *coupling);
/* One coupled step of dt > 0 s for fluid and world. report (may be NULL): iterations = fluid calls
   (each with a solid call; XPM's Newton steps use more of these, see solid_calls), residual in m,
   momentum. FSI_NOT_CONVERGED, FSI_STALLED: the step is done with the last exchange.
   FSI_ERR_NUMERIC: something is no longer finite. */
FSI_API fsi_result fsi_sph_rigid_step(fsi_sph_rigid *coupling, fsi_real dt, fsi_report *report);
/* Everything that decides the next step: fluid, world and what the coupling remembers; bytes, copy
 * out, copy in. A restored run gives identical bits. */
FSI_API size_t fsi_sph_rigid_state_size(const fsi_sph_rigid *coupling);
FSI_API fsi_result fsi_sph_rigid_save(const fsi_sph_rigid *coupling, void *block);
FSI_API fsi_result fsi_sph_rigid_restore(fsi_sph_rigid *coupling, const void *block, size_t size);
#endif

/* ------------------------------------------------------------------------------------------------
 * >>papers */
#ifndef FSI_COUPLE_NO_GRID
/* Embedded points (XPM section 4.4): any dense solid (rigid, reduced, your own) that the
   schemes see by the points of its surface instead of its degrees of freedom. The surface should
   have its vertices 1 to 1.5 cells apart. begin after the solid's v* stands; then use door,
   fsi_embedded_respond and the struct as user in the stages of an fsi_guest. The answer is in
   inner->v. */
typedef struct fsi_embedded {
    fsi_coupled *inner;      /* the caller's, dense */
    fsi_coupled door;        /* nodal: 3 per vertex of the surface */
    fsi_allocator allocator; /* zero = malloc */
    /* private */
    fsi_real *v, *ones;        /* [3 vertices], [vertices] */
    fsi_real *v0, *load, *row; /* [inner->dof] v*, impulse, work */
    int32_t *node, *element;   /* [vertices] */
    unsigned char *block;
} fsi_embedded;

FSI_API fsi_result fsi_embedded_begin(fsi_embedded *embedded);
FSI_API fsi_result fsi_embedded_respond(const fsi_real *impulse, fsi_real *v, fsi_real dt,
                                        void *embedded);
FSI_API void fsi_embedded_free(fsi_embedded *embedded);
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

/* A vector of n numbers for each of a list of fields that NULL ends. */
FSI__INLINE void fsi__take_vectors(fsi_arena *arena, size_t n, fsi_real **const *field) {
    for (; *field; field++)
        FSI__TAKE(**field, arena, n);
}

/* ------------------------------------------------------------------------------------------------
 * >>interface */
#ifndef FSI_COUPLE_NO_GRID
/* From surfaces to coupling sides, in the order of the step:
     detect   trees over the surfaces; crossings of the lines between cell centres; covered cells;
              cut faces (chapter cut cells); what the grid has to know of it
     sides    one for each fluid cell that meets a solid across a face; the rows of J
     moved    cells that a thin surface has passed over change side */
static fsi_result fsi__cut_faces(fsi_interface *iface);
static fsi_result fsi__cut_sides(fsi_interface *iface, const fsi_grid *grid);

/* Cell and face arrays in one block. */
static void fsi__interface_layout(fsi_interface *iface, fsi_arena *arena) {
    FSI__TAKE(iface->covered, arena, iface->cells);
    FSI__TAKE(iface->mark, arena, iface->cells);
    FSI__TAKE(iface->winding, arena, iface->cells);
    FSI__TAKE(iface->owner, arena, iface->cells);
    FSI__TAKE(iface->free_share, arena, iface->cells);
    for (int a = 0; a < iface->dim; a++) {
        FSI__TAKE(iface->blocked[a], arena, iface->faces[a]);
        FSI__TAKE(iface->open[a], arena, iface->faces[a]);
        FSI__TAKE(iface->velocity[a], arena, iface->faces[a]);
    }
}

FSI_API fsi_result fsi_interface_init(fsi_interface *iface, const fsi_grid *grid,
                                      const fsi_interface_desc *desc) {
    if (!iface || !grid || !grid->block || (desc && !fsi_allocator_valid(&desc->allocator)))
        return FSI_ERR_ARGUMENT;

    fsi_interface next = FSI__ZERO;
    if (desc)
        next.desc = *desc;
    if (next.desc.boundary != FSI_BOUNDARY_VOXEL) {
        next.desc.boundary = FSI_BOUNDARY_CUT;
        next.desc.smooth = 1;
    }
    next.nx = next.n[0] = grid->nx;
    next.ny = next.n[1] = grid->ny;
    next.nz = next.n[2] = grid->nz;
    next.dim = grid->dim;
    next.h = grid->h;
    next.origin = grid->origin;
    next.cells = grid->cells;
    for (int a = 0; a < next.dim; a++)
        next.faces[a] = grid->faces[a];

    fsi_arena arena = FSI__ZERO;
    fsi__interface_layout(&next, &arena);
    fsi_result result = fsi__arena_block(&arena, &next.desc.allocator, &next.block, &next.size);
    if (result != FSI_OK)
        return result;

    fsi__interface_layout(&next, &arena);
    fsi_fill(next.cells, 1, next.free_share);
    for (int a = 0; a < next.dim; a++)
        fsi_fill(next.faces[a], 1, next.open[a]);
    *iface = next;
    return FSI_OK;
}

/* Is this an interface of the grid? */
static int fsi__interface_fits(const fsi_interface *iface, const fsi_grid *grid) {
    if (!iface || !iface->block || !grid || !grid->block)
        return 0;
    return grid->cells == iface->cells;
}

FSI_API void fsi_interface_free(fsi_interface *iface) {
    if (!iface || !iface->block)
        return;

    const fsi_allocator *allocator = &iface->desc.allocator;
    size_t trees = fsi__list_bytes(iface->bvh) / sizeof *iface->bvh;
    for (size_t i = 0; i < trees; i++)
        fsi_bvh_free(iface->bvh + i);
    FSI__LIST_FREE(iface->bvh, allocator);
    FSI__LIST_FREE(iface->bin, allocator);
    FSI__LIST_FREE(iface->side, allocator);
    FSI__LIST_FREE(iface->col, allocator);
    FSI__LIST_FREE(iface->val, allocator);
    FSI__LIST_FREE(iface->crossing, allocator);
    FSI__LIST_FREE(iface->order, allocator);
    FSI__LIST_FREE(iface->cut, allocator);
    FSI__LIST_FREE(iface->was, allocator);
    FSI__LIST_FREE(iface->submerged, allocator);
    fsi_free(allocator, iface->block, iface->size);
    memset(iface, 0, sizeof *iface);
}

/* ---- Cells and faces. Face (i, j, k) of an axis is the lower face of cell (i, j, k). */

/* The lattice of the faces of an axis, or of the cells (FSI__CELLS). */
FSI__INLINE fsi__lattice fsi__interface_lattice(const fsi_interface *iface, int axis) {
    return fsi__lattice_of(iface->nx, iface->ny, iface->nz, axis);
}

/* Number of face i of an axis in arrays over faces; FSI__CELLS: of a cell. */
FSI__INLINE size_t fsi__face_index(const fsi_interface *iface, int axis, const int *i) {
    fsi__lattice lattice = fsi__interface_lattice(iface, axis);
    return (size_t)fsi__lattice_at(&lattice, i);
}

/* Number of a cell in arrays over cells. */
FSI__INLINE size_t fsi__cell_index(const fsi_interface *iface, const int *i) {
    return fsi__face_index(iface, FSI__CELLS, i);
}

/* The inverse of fsi__face_index, */
FSI__INLINE void fsi__face_ijk(const fsi_interface *iface, int axis, size_t face, int *i) {
    fsi__lattice lattice = fsi__interface_lattice(iface, axis);
    fsi__lattice_place(&lattice, (ptrdiff_t)face, i);
}

/* and of fsi__cell_index. */
FSI__INLINE void fsi__cell_ijk(const fsi_interface *iface, size_t cell, int *i) {
    fsi__face_ijk(iface, FSI__CELLS, cell, i);
}

/* Centre of face i of an axis, or of a cell (FSI__CELLS); z = 0 in 2D. */
static fsi_vec3 fsi__centre_of(const fsi_interface *iface, int axis, const int *i) {
    fsi_real x[3] = FSI__ZERO;
    for (int k = 0; k < iface->dim; k++) {
        fsi_real half = axis == k ? 0 : FSI_R(0.5);
        x[k] = fsi__get(iface->origin, k) + iface->h * ((fsi_real)i[k] + half);
    }
    return fsi_vec_load(x);
}

/* The same by the number of the face. */
static fsi_vec3 fsi__face_centre(const fsi_interface *iface, int axis, size_t face) {
    int i[3];
    fsi__face_ijk(iface, axis, face, i);
    return fsi__centre_of(iface, axis, i);
}

/* The cells below and above a face. */
FSI__INLINE void fsi__face_cells(const fsi_interface *iface, int axis, size_t face, size_t *minus,
                                 size_t *plus) {
    fsi__lattice cells = fsi__interface_lattice(iface, FSI__CELLS);
    int i[3];
    fsi__face_ijk(iface, axis, face, i);
    *plus = (size_t)fsi__lattice_at(&cells, i);
    *minus = *plus - (size_t)cells.step[axis];
}

/* The cell beside cell i in direction dir = 2 axis + up, or -1 outside the box; and the face
   between them. */
FSI__INLINE ptrdiff_t fsi__beside(const fsi_interface *iface, const int *i, int dir, size_t *face) {
    fsi__lattice cells = fsi__interface_lattice(iface, FSI__CELLS);
    fsi__lattice faces = fsi__interface_lattice(iface, dir / 2);
    *face = (size_t)(fsi__lattice_at(&faces, i) + (dir & 1) * faces.step[dir / 2]);
    return fsi__lattice_beside(&cells, i, fsi__lattice_at(&cells, i), dir / 2, dir & 1);
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

/* A place along an axis in cells from the origin. */
FSI__INLINE fsi_real fsi__in_cells(const fsi_interface *iface, int axis, fsi_real place) {
    return (place - fsi__get(iface->origin, axis)) / iface->h;
}

/* Cells whose centres lie between lo and hi, one more on each side, clipped to the grid. 0: none.
 */
static int fsi__cell_range(const fsi_interface *iface, const fsi_real *lo, const fsi_real *hi,
                           int *from, int *to) {
    from[2] = 0;
    to[2] = 1;
    for (int k = 0; k < iface->dim; k++) {
        fsi_real n = (fsi_real)iface->n[k];
        fsi_real first = fsi__floor(fsi__in_cells(iface, k, lo[k]) - FSI_R(0.5)) - 1;
        fsi_real last = fsi__ceil(fsi__in_cells(iface, k, hi[k]) - FSI_R(0.5)) + 2;
        from[k] = (int)fsi__clamp(first, 0, n);
        to[k] = (int)fsi__clamp(last, 0, n);
        if (from[k] >= to[k])
            return 0;
    }
    return 1;
}

/* Cells that a box meets, clipped to the grid. 0: none. */
static int fsi__cells_met(const fsi_interface *iface, const fsi_real *lo, const fsi_real *hi,
                          int *from, int *to) {
    from[2] = 0;
    to[2] = 1;
    for (int k = 0; k < iface->dim; k++) {
        fsi_real begin = fsi__get(iface->origin, k);
        fsi_real last = (fsi_real)(iface->n[k] - 1);
        if (hi[k] < begin || lo[k] > begin + iface->h * (last + 1))
            return 0;

        from[k] = (int)fsi__clamp(fsi__floor(fsi__in_cells(iface, k, lo[k])), 0, last);
        to[k] = (int)fsi__clamp(fsi__floor(fsi__in_cells(iface, k, hi[k])), 0, last) + 1;
    }
    return 1;
}

/* fsi__cell_range of a solid's surface; 0: none. */
static int fsi__solid_range(const fsi_interface *iface, int solid, int *from, int *to) {
    const fsi_bvh *root = iface->bvh + solid;
    return iface->solid[solid]->surface.element_count
           && fsi__cell_range(iface, root->lo, root->hi, from, to);
}

/* The same of a closed solid; 0: none, or it is open. */
static int fsi__closed_range(const fsi_interface *iface, int solid, int *from, int *to) {
    return iface->solid[solid]->surface.closed && fsi__solid_range(iface, solid, from, to);
}

/* ---- Checks and search trees. */

/* Nodal solid: masses, nodes of the surface, implicit part. */
static fsi_result fsi__nodal_check(const fsi_coupled *door) {
    int nodes = door->dof / 3;
    for (int i = 0; i < nodes; i++)
        if (!fsi__finite(door->inverse_mass[i]) || door->inverse_mass[i] < 0)
            return FSI_ERR_ARGUMENT;

    for (int i = 0; i < door->surface.vertex_count; i++)
        if (door->node[i] < 0 || door->node[i] >= nodes)
            return FSI_ERR_GEOMETRY;

    const fsi_csr *implicit = door->implicit;
    if (implicit && (implicit->cols != door->dof || fsi_csr_check(implicit) != FSI_OK))
        return FSI_ERR_ARGUMENT;
    if (door->push && !fsi_all_finite((size_t)door->dof, door->push))
        return FSI_ERR_ARGUMENT;

    return FSI_OK;
}

/* Is the door complete and finite? lean: places and masses may come from callbacks. */
static fsi_result fsi__coupled_check(const fsi_coupled *door, int dim, int lean) {
    if (!door)
        return FSI_ERR_ARGUMENT;

    fsi_result result = fsi_surface_check(&door->surface);
    if (result != FSI_OK)
        return result;
    if (door->surface.dim != dim || door->dof < 0)
        return FSI_ERR_ARGUMENT;

    int places = door->surface.x || (lean && door->surface.closed);
    if (door->surface.vertex_count && !places)
        return FSI_ERR_ARGUMENT;

    size_t dof = (size_t)door->dof;
    int masses = door->inverse_mass || (lean && door->mass_fn && !door->node);
    int rows = door->node || door->row_fn;
    int complete = door->v && masses && rows;
    if (dof && (!complete || !fsi_all_finite(dof, door->v)))
        return FSI_ERR_ARGUMENT;
    if (door->node)
        return fsi__nodal_check(door);
    if (door->inverse_mass && !fsi_all_finite(dof * dof, door->inverse_mass))
        return FSI_ERR_ARGUMENT;

    return FSI_OK;
}

/* A tree over a surface, with more room where it has outgrown the old one. */
static fsi_result fsi__tree_build(fsi_bvh *bvh, const fsi_surface *surface,
                                  const fsi_allocator *allocator) {
    fsi_result result;
    if (surface->element_count > bvh->capacity && !surface->rest) {
        fsi_bvh_free(bvh);
        if ((result = fsi_bvh_init(bvh, surface->element_count, allocator)) != FSI_OK)
            return result;
    }
    return bvh->block || surface->rest ? fsi_bvh_build(bvh, surface) : FSI_OK;
}

/* Bins from <= i < to that a box meets; what lies outside the grid counts as its rim. */
static void fsi__interface_bins(const fsi_interface *iface, fsi_vec3 lo, fsi_vec3 hi, int *from,
                                int *to) {
    for (int a = 0; a < 3; a++) {
        fsi_real width = (fsi_real)iface->n[a] * iface->h / (fsi_real)iface->bins[a];
        fsi_real last = (fsi_real)(iface->bins[a] - 1);
        fsi_real begin = fsi__get(iface->origin, a);
        from[a] = (int)fsi__clamp((fsi__get(lo, a) - begin) / width, 0, last);
        to[a] = (int)fsi__clamp((fsi__get(hi, a) - begin) / width, 0, last) + 1;
    }
}

/* Bin i. */
FSI__INLINE uint32_t *fsi__bin_of(const fsi_interface *iface, const int *i) {
    return iface->bin + i[0] + iface->bins[0] * (i[1] + iface->bins[1] * i[2]);
}

/* Which solids are in every bin of about three cells. */
static fsi_result fsi__interface_sort(fsi_interface *iface, int count) {
    size_t all = 1;
    for (int a = 0; a < 3; a++) {
        iface->bins[a] = fsi__iclamp(iface->n[a] / 3, 1, 64);
        all *= (size_t)iface->bins[a];
    }
    fsi_result result = FSI__LIST_ROOM(iface->bin, all, &iface->desc.allocator);
    if (result < 0)
        return result;

    memset(iface->bin, 0, all * sizeof *iface->bin);
    for (int s = 0; s < count; s++) {
        const fsi_bvh *bvh = iface->bvh + s;
        int i[3], from[3], to[3];
        if (!bvh->nodes)
            continue;

        fsi__interface_bins(iface, fsi_vec_load(bvh->lo), fsi_vec_load(bvh->hi), from, to);
        FSI__EACH_CELL(i, from, to) {
            *fsi__bin_of(iface, i) |= (uint32_t)1 << s % 32;
        }
    }
    return FSI_OK;
}

/* Checks the solids and builds the trees; the first thing of a detect, so that a bad solid changes
   nothing. */
static fsi_result fsi__interface_trees(fsi_interface *iface, fsi_coupled *const *solid, int count) {
    const fsi_allocator *allocator = &iface->desc.allocator;
    fsi_result result;
    for (int i = 0; i < count; i++)
        if ((result = fsi__coupled_check(solid[i], iface->dim, iface->lean)) != FSI_OK)
            return result;
    if ((result = FSI__LIST_ROOM(iface->bvh, count, allocator)) < 0)
        return result;
    if ((result = FSI__LIST_ROOM(iface->submerged, count, allocator)) < 0)
        return result;

    for (int i = 0; i < count; i++)
        if ((result = fsi__tree_build(iface->bvh + i, &solid[i]->surface, allocator)) != FSI_OK)
            return result;
    return fsi__interface_sort(iface, count);
}

/* ---- Rays of others: the grid's advection asks what it meets. */

/* Do a .. b and lo .. hi have nothing in common? */
FSI__INLINE int fsi__apart(fsi_real a, fsi_real b, fsi_real lo, fsi_real hi) {
    return fsi__max(a, b) < lo || fsi__min(a, b) > hi;
}

/* Takes the hit of solid i when it is nearer, ties to the lower number. */
static void fsi__interface_try(const fsi_interface *iface, int i, fsi_vec3 a, fsi_vec3 b,
                               fsi_hit *hit, int *solid, int *found) {
    const fsi_bvh *bvh = iface->bvh + i;
    if (bvh->nodes == 0)
        return;

    if (fsi__apart(a.x, b.x, bvh->lo[0], bvh->hi[0])
        || fsi__apart(a.y, b.y, bvh->lo[1], bvh->hi[1]))
        return;
    if (iface->dim == 3 && fsi__apart(a.z, b.z, bvh->lo[2], bvh->hi[2]))
        return;
    fsi_hit candidate;
    if (!fsi_bvh_first_hit(bvh, a, b, &candidate))
        return;

    int tie = !(candidate.t < hit->t);
    if (*found && (candidate.t > hit->t || (tie && i > *solid)))
        return;

    *hit = candidate;
    *solid = i;
    *found = 1;
}

FSI_API int fsi_interface_first_hit(const fsi_interface *iface, fsi_vec3 a, fsi_vec3 b,
                                    fsi_hit *hit, int *solid) {
    /* Who is near? Looking costs as much as asking three. */
    uint32_t nearby = iface->solids <= 3 ? 7 : 0;
    if (!nearby) {
        fsi_vec3 lo = fsi_vec(fsi__min(a.x, b.x), fsi__min(a.y, b.y), fsi__min(a.z, b.z));
        fsi_vec3 hi = fsi_vec(fsi__max(a.x, b.x), fsi__max(a.y, b.y), fsi__max(a.z, b.z));
        int i[3], from[3], to[3];
        fsi__interface_bins(iface, lo, hi, from, to);
        FSI__EACH_CELL(i, from, to) {
            nearby |= *fsi__bin_of(iface, i);
        }
    }

    int found = 0;
    hit->t = FSI_REAL_MAX;
    for (int bit = 0; nearby; bit++) {
        for (int s = bit; nearby & 1 && s < iface->solids; s += 32)
            fsi__interface_try(iface, s, a, b, hit, solid, &found);
        nearby >>= 1;
    }

    return found;
}

/* Velocity of a solid's surface by its vertices, or by its nodes; 0 when it has neither. */
static fsi_vec3 fsi__surface_velocity(const fsi_coupled *door, int element,
                                      const fsi_real *weight) {
    const fsi_surface *surface = &door->surface;
    fsi_vec3 sum = FSI__ZERO;
    for (int k = 0; (surface->v || door->node) && k < surface->dim; k++) {
        int vertex = surface->index[surface->dim * element + k];
        const fsi_real *v = surface->v ? surface->v + 3 * vertex : door->v + 3 * door->node[vertex];
        sum = fsi_vec_mad(sum, fsi_vec_load(v), weight[k]);
    }
    return sum;
}

/* Velocity of a solid where a ray met it: from the surface where that has velocities, else from the
   solid's own. */
static fsi_vec3 fsi__hit_velocity(const fsi_coupled *door, const fsi_hit *hit, fsi_vec3 at) {
    const fsi_surface *surface = &door->surface;
    if (surface->v || door->node)
        return fsi__surface_velocity(door, hit->element, hit->weight);

    fsi_real out[3] = FSI__ZERO;
    fsi_real row[FSI__ROW_MOST];
    for (int k = 0; k < surface->dim && door->dof <= FSI__ROW_MOST; k++) {
        if (door->dof > 0)
            door->row_fn(door, hit->element, hit->weight, at, fsi__axis(k), row);
        for (int i = 0; i < door->dof; i++)
            out[k] += row[i] * door->v[i];
    }
    return fsi_vec_load(out);
}

/* The grid's question (fsi_occlusion): what is met first between a and b? */
static int fsi__occlusion_hit(fsi_vec3 a, fsi_vec3 b, fsi_real *t, fsi_vec3 *normal,
                              fsi_vec3 *velocity, void *user) {
    const fsi_interface *iface = (const fsi_interface *)user;
    fsi_hit hit;
    int solid;
    if (!fsi_interface_first_hit(iface, a, b, &hit, &solid))
        return 0;

    const fsi_coupled *door = iface->solid[solid];
    *t = hit.t;
    *normal = fsi__unit(fsi_surface_normal(&door->surface, hit.element));
    if (hit.side > 0) /* towards a */
        *normal = fsi_vec_scale(*normal, -1);
    *velocity = fsi__hit_velocity(door, &hit, fsi_vec_mad(a, fsi_vec_sub(b, a), hit.t));
    return 1;
}

/* ---- Crossings: where surfaces meet lines of lattice points. */

/* The lines along an axis through the points origin + h (i + shift): cell centres (shift 1/2) or
   corners (0). A line has points begin .. begin + segments, over all of the surface's bounds and of
   the box:

       o-----o--x--o-----o-----o      x: crossing at 1.5 segments from begin
     begin   1     2     3     4 = segments */
typedef struct fsi__lines {
    int axis;
    fsi_real shift;
    int begin, segments;
    int first[3], last[3]; /* lines that one element may meet: first <= i < last */
} fsi__lines;

/* The lines of a surface with these bounds. */
static fsi__lines fsi__lines_along(const fsi_interface *iface, const fsi_bvh *root, int axis,
                                   fsi_real shift) {
    fsi_real lowest = fsi__floor(fsi__in_cells(iface, axis, root->lo[axis]) - shift);
    fsi_real highest = fsi__ceil(fsi__in_cells(iface, axis, root->hi[axis]) - shift);
    fsi__lines lines = FSI__ZERO;
    lines.axis = axis;
    lines.shift = shift;
    lines.begin = (int)fsi__max(lowest, -1000000) - 1;
    int end = (int)fsi__min(highest, 1000000) + 2;

    /* Lines of cell centres reach beyond the grid. Those of cut faces end around the solid: the
     * shorter a line, the less its crossings suffer from single precision. */
    if (shift > 0) {
        lines.begin = fsi__imin(-1, lines.begin);
        end = fsi__imax(iface->n[axis], end - 1);
    }
    lines.segments = end - lines.begin;
    return lines;
}

/* The lines with from <= i < to that pass the bounds of element e. */
static void fsi__lines_near(const fsi_interface *iface, const fsi_surface *surface, int e,
                            const int *from, const int *to, fsi__lines *lines) {
    const fsi_real margin = FSI_R(1e-3);
    fsi_real lo[3], hi[3];
    fsi_surface_bounds(surface, e, lo, hi);
    for (int k = 0; k < 3; k++) {
        lines->first[k] = from[k];
        lines->last[k] = to[k];
        if (k >= iface->dim)
            continue;
        fsi_real least = (fsi_real)from[k];
        fsi_real most = (fsi_real)to[k];
        fsi_real first = fsi__in_cells(iface, k, lo[k]) - lines->shift - margin;
        fsi_real last = fsi__in_cells(iface, k, hi[k]) - lines->shift + margin;
        lines->first[k] = (int)fsi__clamp(fsi__ceil(first), least, most);
        lines->last[k] = (int)fsi__clamp(fsi__floor(last) + 1, least, most);
    }
}

/* Does element e cross line i? Then *at: how many segments from the begin. */
FSI__INLINE int fsi__line_cross(const fsi_interface *iface, const fsi_surface *surface, int e,
                                const fsi__lines *lines, const int *i, fsi_hit *hit, fsi_real *at) {
    fsi_real x[3];
    for (int k = 0; k < 3; k++) {
        fsi_real place = (fsi_real)(k == lines->axis ? lines->begin : i[k]);
        x[k] = fsi__get(iface->origin, k) + iface->h * (place + lines->shift);
    }
    fsi_vec3 begin = fsi_vec_load(x);
    x[lines->axis] += iface->h * (fsi_real)lines->segments;
    if (!fsi_surface_cross(surface, e, begin, fsi_vec_load(x), hit))
        return 0;

    *at = hit->t * (fsi_real)lines->segments;
    return 1;
}

/* Notes a crossing on a face, t of the way between its cell centres; the face hides what is behind.
 */
static fsi_result fsi__crossing_add(fsi_interface *iface, int axis, size_t face, int solid,
                                    const fsi_hit *hit, fsi_real t) {
    fsi_result result =
        FSI__LIST_ROOM(iface->crossing, iface->crossings + 1, &iface->desc.allocator);
    if (result < 0)
        return result;

    fsi_crossing *crossing = iface->crossing + iface->crossings++;
    crossing->face = (int32_t)face;
    crossing->solid = solid;
    crossing->element = hit->element;
    crossing->axis = (int8_t)axis;
    crossing->side = (int8_t)hit->side;
    crossing->t = t;
    memcpy(crossing->weight, hit->weight, sizeof crossing->weight);
    iface->blocked[axis][face] = 1;
    return FSI_OK;
}

/* All crossings of element e with the lines of cell centres along one axis, within the solid's
   range. The winding number starts at 0 outside: cells to the right of a crossing get -side (a
   closed surface is entered where side = -1). */
static fsi_result fsi__cross_lines(fsi_interface *iface, int solid, int e, fsi__lines *lines,
                                   const int *from, const int *to) {
    const fsi_surface *surface = &iface->solid[solid]->surface;
    int axis = lines->axis;
    int u = (axis + 1) % 3;
    int v = (axis + 2) % 3;
    int i[3];
    fsi__lines_near(iface, surface, e, from, to, lines);
    for (i[v] = lines->first[v]; i[v] < lines->last[v]; i[v]++)
        for (i[u] = lines->first[u]; i[u] < lines->last[u]; i[u]++) {
            fsi_hit hit;
            fsi_real at;
            if (!fsi__line_cross(iface, surface, e, lines, i, &hit, &at))
                continue;

            /* It lies just below the centre of cell i. */
            int segment = fsi__imin((int)at, lines->segments - 1);
            int above = lines->begin + 1 + segment;
            if (surface->closed && axis == 0 && above < iface->nx) {
                i[0] = fsi__imax(above, from[0]);
                int8_t *winding = iface->winding + fsi__cell_index(iface, i);
                *winding = (int8_t)(*winding - hit.side);
            }
            if (above < 1 || above >= iface->n[axis])
                continue;
            i[axis] = above;
            fsi_result result = fsi__crossing_add(iface, axis, fsi__face_index(iface, axis, i),
                                                  solid, &hit, at - (fsi_real)segment);
            if (result < 0)
                return result;
        }

    return FSI_OK;
}

/* Covered cells from the winding numbers along the rows of the range. */
static void fsi__cover(fsi_interface *iface, int solid, const int *from, const int *to) {
    int i[3];
    for (i[2] = from[2]; i[2] < to[2]; i[2]++)
        for (i[1] = from[1]; i[1] < to[1]; i[1]++) {
            int winding = 0;
            for (i[0] = from[0]; i[0] < iface->nx; i[0]++) {
                size_t cell = fsi__cell_index(iface, i);
                winding += iface->winding[cell];
                if (i[0] >= to[0] && !winding)
                    break;
                iface->winding[cell] = 0;
                if (!winding)
                    continue;
                iface->covered[cell] = 1;
                iface->owner[cell] = solid;
            }
        }
}

/* Faces between a covered and a free cell that no ray found cut (a surface within round-off of a
   cell centre): they are cut at the nearest point. */
static fsi_result fsi__cover_seams(fsi_interface *iface, int solid, const int *from,
                                   const int *to) {
    int i[3];
    for (int axis = 0; axis < iface->dim; axis++)
        FSI__EACH_CELL(i, from, to) {
            size_t cell = fsi__cell_index(iface, i);
            size_t face;
            ptrdiff_t below = fsi__beside(iface, i, 2 * axis, &face);
            if (below < 0 || iface->covered[cell] == iface->covered[below])
                continue;
            size_t inside = iface->covered[cell] ? cell : (size_t)below;
            if (iface->blocked[axis][face] || iface->owner[inside] != solid)
                continue;
            fsi_hit hit;
            fsi_vec3 centre = fsi__centre_of(iface, axis, i);
            if (!fsi_bvh_closest(iface->bvh + solid, centre, FSI_REAL_MAX, &hit))
                continue;
            hit.side = iface->covered[cell] ? -1 : 1;
            fsi_result result = fsi__crossing_add(iface, axis, face, solid, &hit, FSI_R(0.5));
            if (result < 0)
                return result;
        }

    return FSI_OK;
}

/* order: the crossings by axis, face, t, number; by one key, then by insertion inside a face. */
static fsi_result fsi__crossing_sort(fsi_interface *iface) {
    int n = iface->crossings;
    fsi_result result = FSI__LIST_ROOM(iface->order, 2 * n + 1, &iface->desc.allocator);
    if (result < 0)
        return result;

    for (int i = 0; i < n; i++) {
        const fsi_crossing *crossing = iface->crossing + i;
        uint64_t face = (uint64_t)crossing->axis << 62 | (uint64_t)crossing->face << 31;
        iface->order[i] = face | (uint64_t)i;
    }
    const uint64_t *key = fsi__sort_keys((size_t)n, iface->order, iface->order + n);
    for (int i = 0; i < n; i++) {
        uint64_t number = key[i] & 0x7fffffff;
        const fsi_crossing *crossing = iface->crossing + number;
        int j;
        for (j = i; j > 0; j--) {
            const fsi_crossing *other = iface->crossing + iface->order[j - 1];
            int same = other->face == crossing->face && other->axis == crossing->axis;
            if (!same || other->t <= crossing->t)
                break;
            iface->order[j] = iface->order[j - 1];
        }
        iface->order[j] = number;
    }
    return FSI_OK;
}

/* Crossings, covered cells and closed faces of all solids. */
static fsi_result fsi__interface_cross(fsi_interface *iface) {
    int from[3], to[3];
    fsi_result result;
    for (int s = 0; s < iface->solids; s++) {
        const fsi_surface *surface = &iface->solid[s]->surface;
        if (!fsi__solid_range(iface, s, from, to))
            continue;
        fsi__lines lines[3];
        for (int axis = 0; axis < iface->dim; axis++)
            lines[axis] = fsi__lines_along(iface, iface->bvh + s, axis, FSI_R(0.5));
        for (int e = 0; e < surface->element_count; e++)
            for (int axis = 0; axis < iface->dim; axis++)
                if ((result = fsi__cross_lines(iface, s, e, lines + axis, from, to)) < 0)
                    return result;
        if (surface->closed)
            fsi__cover(iface, s, from, to);
    }
    for (int s = 0; s < iface->solids; s++)
        if (fsi__closed_range(iface, s, from, to)
            && (result = fsi__cover_seams(iface, s, from, to)) < 0)
            return result;

    for (int i = 0; i < iface->crossings; i++) {
        const fsi_crossing *crossing = iface->crossing + i;
        int closed = iface->solid[crossing->solid]->surface.closed;
        if (!closed || iface->desc.boundary != FSI_BOUNDARY_CUT)
            iface->open[crossing->axis][crossing->face] = 0;
        size_t minus, plus;
        fsi__face_cells(iface, crossing->axis, (size_t)crossing->face, &minus, &plus);
        if (!iface->covered[minus] && !iface->covered[plus])
            iface->shells = 1;
    }
    return fsi__crossing_sort(iface);
}

/* ---- Detect. */

/* Takes back what the last detect wrote: only where it wrote. */
static void fsi__interface_clear(fsi_interface *iface) {
    for (int i = 0; i < iface->crossings; i++) {
        const fsi_crossing *crossing = iface->crossing + i;
        iface->blocked[crossing->axis][crossing->face] = 0;
        iface->open[crossing->axis][crossing->face] = 1;
        iface->velocity[crossing->axis][crossing->face] = 0;
    }
    for (int i = 0; i < iface->cuts; i++) {
        const fsi_cut *cut = iface->cut + i;
        size_t minus, plus;
        fsi__face_cells(iface, cut->axis, (size_t)cut->face, &minus, &plus);
        iface->free_share[minus] = iface->free_share[plus] = 1;
        iface->open[cut->axis][cut->face] = 1;
        iface->velocity[cut->axis][cut->face] = 0;
    }
    memset(iface->covered, 0, iface->cells);
    memset(iface->owner, 0xff, iface->cells * sizeof *iface->owner); /* -1 */
    iface->crossings = iface->cuts = iface->sides = iface->entries = 0;
    iface->shells = 0;
}

/* Numbers of the open surfaces' vertices. */
static size_t fsi__open_numbers(const fsi_interface *iface) {
    size_t n = 0;
    for (int i = 0; i < iface->solids; i++)
        if (!iface->solid[i]->surface.closed)
            n += 3 * (size_t)iface->solid[i]->surface.vertex_count;

    return n;
}

/* Keeps where the open surfaces are, for fsi_interface_moved. */
static fsi_result fsi__interface_remember(fsi_interface *iface) {
    size_t n = fsi__open_numbers(iface);
    fsi_result result = FSI__LIST_ROOM(iface->was, n, &iface->desc.allocator);
    if (result < 0)
        return result;
    iface->was_count = (int)n;
    fsi_real *to = iface->was;
    for (int i = 0; i < iface->solids; i++) {
        const fsi_surface *surface = &iface->solid[i]->surface;
        size_t numbers = 3 * (size_t)surface->vertex_count;
        if (surface->closed || !numbers)
            continue;
        fsi_copy(numbers, surface->x, to);
        to += numbers;
    }
    return FSI_OK;
}

/* Smooth walls: the advection samples across them, so scalars, like the flow, go on a few cells
   into closed solids. Each layer takes means of the ones before; mark holds its number. */
static void fsi__interface_continue(fsi_interface *iface, fsi_grid *grid) {
    enum {
        LAYERS = 4
    };

    int i[3], from[3], to[3];
    for (int layer = 1; layer <= LAYERS; layer++)
        for (int s = 0; s < iface->solids; s++) {
            if (!fsi__closed_range(iface, s, from, to))
                continue;
            FSI__EACH_CELL(i, from, to) {
                size_t cell = fsi__cell_index(iface, i);
                if (!iface->covered[cell] || iface->mark[cell])
                    continue;
                size_t known[6];
                int count = 0;
                for (int dir = 0; dir < 2 * iface->dim; dir++) {
                    size_t face;
                    ptrdiff_t other = fsi__beside(iface, i, dir, &face);
                    if (other < 0)
                        continue;
                    int before = iface->mark[other] && iface->mark[other] < layer;
                    if (!iface->covered[other] || before)
                        known[count++] = (size_t)other;
                }
                if (count)
                    iface->mark[cell] = (int8_t)layer;
                fsi_grid_take_mean(grid, cell, count, known, 0);
            }
        }
    memset(iface->mark, 0, iface->cells);
}

/* Hands it to the grid. */
static fsi_result fsi__interface_occlude(fsi_interface *iface, fsi_grid *grid) {
    fsi_occlusion *occlusion = &iface->occlusion;
    memset(occlusion, 0, sizeof *occlusion);
    occlusion->solid = iface->covered;
    if (iface->desc.boundary == FSI_BOUNDARY_CUT)
        occlusion->free_share = iface->free_share;
    for (int axis = 0; axis < iface->dim; axis++) {
        if (iface->shells || iface->desc.boundary == FSI_BOUNDARY_CUT)
            occlusion->open[axis] = iface->open[axis];
        occlusion->blocked[axis] = iface->blocked[axis];
        occlusion->velocity[axis] = iface->velocity[axis];
    }
    occlusion->hit_fn = fsi__occlusion_hit;
    occlusion->user = iface;
    occlusion->smooth = iface->desc.smooth;
    occlusion->shells = iface->shells;
    return fsi_grid_set_occlusion(grid, occlusion);
}

FSI_API fsi_result fsi_interface_detect(fsi_interface *iface, fsi_grid *grid,
                                        fsi_coupled *const *solid, int count) {
    if (!fsi__interface_fits(iface, grid))
        return FSI_ERR_STATE;
    if (count < 0 || (count && !solid))
        return FSI_ERR_ARGUMENT;

    fsi_result result = fsi__interface_trees(iface, solid, count);
    if (result != FSI_OK)
        return result;

    /* What is covered, cut and closed. */
    fsi__interface_clear(iface);
    iface->solid = solid;
    iface->solids = count;
    if ((result = fsi__interface_remember(iface)) < 0)
        return result;
    if ((result = fsi__interface_cross(iface)) < 0)
        return result;
    if (iface->desc.boundary == FSI_BOUNDARY_CUT && (result = fsi__cut_faces(iface)) < 0)
        return result;

    if (iface->desc.smooth)
        fsi__interface_continue(iface, grid);
    if ((result = fsi__interface_occlude(iface, grid)) < 0)
        return result;

    /* Bodies inside the liquid at the start displace it. */
    if (!iface->started && grid->phi)
        fsi_levelset_keep_volume(&grid->levelset, iface->covered);
    iface->started = 1;
    return result;
}

/* ---- Sides and rows of J. */

/* Mean of a surface over a box: weights of its vertices (or nodes), area, normal. */
typedef struct fsi__average {
    const fsi_surface *surface;
    const int32_t *node;
    fsi_vec3 lo, hi, normal;
    fsi_real area, weight[64];
    int32_t id[64];
    int count;
} fsi__average;

/* Adds to the weight of a vertex or its node. */
static void fsi__average_add(fsi__average *average, int vertex, fsi_real weight) {
    int32_t id = average->node ? average->node[vertex] : vertex;
    int k = 0;
    while (k < average->count && average->id[k] != id)
        k++;

    /* More than 64 nodes in one dual cell: the rest weighs little. */
    if (k == 64)
        return;
    if (k == average->count) {
        average->count++;
        average->id[k] = id;
        average->weight[k] = 0;
    }
    average->weight[k] += weight;
}

/* The element at the side's crossing alone. */
static void fsi__average_point(const fsi_interface *iface, const fsi_side *side,
                               fsi__average *average) {
    average->count = 0;
    for (int k = 0; k < iface->dim; k++) {
        int vertex = average->surface->index[iface->dim * side->element + k];
        fsi__average_add(average, vertex, side->weight[k]);
    }
}

/* The part of element e inside the box. */
static int fsi__average_visit(int e, void *user) {
    fsi__average *average = (fsi__average *)user;
    const fsi_surface *surface = average->surface;
    fsi_clip part;
    if (!fsi_surface_clip(surface, e, average->lo, average->hi, &part))
        return 0;

    for (int k = 0; k < surface->dim; k++)
        if (part.weight[k] > 0)
            fsi__average_add(average, surface->index[surface->dim * e + k],
                             part.area * part.weight[k]);
    average->normal = fsi_vec_add(average->normal, part.normal);
    average->area += part.area;
    return 0;
}

/* Mean over the surface of the side's solid inside the dual cell (SLIP appendix A); the crossing
   alone where nothing is found there. */
static void fsi__side_average(const fsi_interface *iface, const fsi_side *side,
                              fsi__average *average) {
    const fsi_coupled *door = iface->solid[side->solid];
    fsi_vec3 centre = fsi_interface_centre(iface, side);
    fsi_vec3 half = fsi_vec(iface->h / 2, iface->h / 2, iface->h / 2);
    memset(average, 0, sizeof *average);
    average->surface = &door->surface;
    average->node = door->node;
    average->lo = fsi_vec_sub(centre, half);
    average->hi = fsi_vec_add(centre, half);
    (void)fsi_bvh_overlap(iface->bvh + side->solid, average->lo, average->hi, fsi__average_visit,
                          average);
    if (!(average->area > 0))
        fsi__average_point(iface, side, average);

    /* Rows sum to one: J^T loses nothing. */
    double sum = 0;
    for (int k = 0; k < average->count; k++)
        sum += (double)average->weight[k];
    for (int k = 0; k < average->count; k++)
        average->weight[k] = (fsi_real)((double)average->weight[k] / sum);
}

/* Unit normal towards the cell's side: of the element, or the average's where there is one. */
static void fsi__side_normal(const fsi_interface *iface, fsi_side *side,
                             const fsi__average *average) {
    fsi_vec3 normal = fsi_surface_normal(&iface->solid[side->solid]->surface, side->element);
    int away = fsi__get(normal, side->axis) * (fsi_real)side->sign > 0;
    if (average->area > 0 && fsi__length(average->normal) > FSI_R(1e-6) * average->area) {
        if (fsi_vec_dot(average->normal, normal) < 0)
            away = !away;
        normal = average->normal;
    }
    side->normal = fsi__unit(fsi_vec_scale(normal, away ? -1 : 1));
}

/* The row of J of a side, and its normal. */
static fsi_result fsi__side_row(fsi_interface *iface, fsi_side *side) {
    const fsi_allocator *allocator = &iface->desc.allocator;
    const fsi_coupled *door = iface->solid[side->solid];
    int end = iface->entries + (door->node ? 64 : door->dof);
    fsi_result result;
    if ((result = FSI__LIST_ROOM(iface->col, end, allocator)) < 0)
        return result;
    if ((result = FSI__LIST_ROOM(iface->val, end, allocator)) < 0)
        return result;

    int32_t *col = iface->col + iface->entries;
    fsi_real *val = iface->val + iface->entries;
    fsi__average average;
    average.area = 0;
    if (door->node || side->shell)
        fsi__side_average(iface, side, &average);

    side->row = iface->entries;
    if (door->node) {
        if (!iface->desc.average)
            fsi__average_point(iface, side, &average);
        for (int k = 0; k < average.count; k++) {
            col[k] = 3 * average.id[k] + side->axis;
            val[k] = average.weight[k];
        }
        iface->entries += average.count;
    } else {
        if (door->dof)
            door->row_fn(door, side->element, side->weight, fsi_interface_centre(iface, side),
                         fsi__axis(side->axis), val);
        for (int k = 0; k < door->dof; k++)
            col[k] = k;
        iface->entries += door->dof;
    }
    side->row_end = iface->entries;
    fsi__side_normal(iface, side, &average);
    return FSI_OK;
}

/* One more side: a cell beside a crossing, below it (sign 1) or above (-1). */
static fsi_result fsi__side_add(fsi_interface *iface, const fsi_grid *grid,
                                const fsi_crossing *crossing, size_t cell, int sign,
                                const fsi_side *kind) {
    int air = iface->bubble_cell && iface->bubble_cell[cell] > 0;
    if (grid->cell[cell] != FSI_CELL_FLUID && !air)
        return FSI_OK;
    fsi_result result = FSI__LIST_ROOM(iface->side, iface->sides + 1, &iface->desc.allocator);
    if (result < 0)
        return result;
    fsi_side *side = iface->side + iface->sides;
    *side = *kind;
    side->cell = (int32_t)cell;
    side->face = crossing->face;
    side->solid = crossing->solid;
    side->element = crossing->element;
    side->axis = crossing->axis;
    side->sign = (int8_t)sign;
    side->plus = sign < 0;
    side->air = (int8_t)air;
    if (air)
        side->mass = 0;
    side->t = sign > 0 ? crossing->t : 1 - crossing->t;
    memcpy(side->weight, crossing->weight, sizeof side->weight);
    if ((result = fsi__side_row(iface, side)) < 0)
        return result;
    iface->sides++;
    return FSI_OK;
}

/* The sides of one face: the cell below it meets the first crossing, the cell above the last. A cut
   face closes a share and has no fluid mass of its own. */
static fsi_result fsi__face_sides(fsi_interface *iface, const fsi_grid *grid,
                                  const fsi_crossing *first, const fsi_crossing *last,
                                  const fsi_cut *cut) {
    size_t minus, plus;
    fsi__face_cells(iface, first->axis, (size_t)first->face, &minus, &plus);

    /* The same bubble on both sides of one surface pushes it from both. */
    const int32_t *bubble = iface->bubble_cell;
    if (bubble && first == last && bubble[minus] > 0 && bubble[minus] == bubble[plus])
        return FSI_OK;
    fsi_side kind = FSI__ZERO;
    if (cut)
        kind.share = cut->share;
    else {
        kind.share = 1;
        kind.shell = !iface->covered[plus] && !iface->covered[minus];
        kind.mass = grid->desc.rho * iface->h * iface->h * (iface->dim == 3 ? iface->h : 1) / 2;
    }
    fsi_result result = fsi__side_add(iface, grid, first, minus, 1, &kind);
    return result < 0 ? result : fsi__side_add(iface, grid, last, plus, -1, &kind);
}

/* Volume of a closed surface where n . x < d, by cones from a point of that plane: the cut face has
   that point in its plane and adds nothing. In 2D the area, by triangles. */
static double fsi__volume_below(const fsi_surface *surface, fsi_vec3 n, fsi_real d) {
    fsi_vec3 apex = fsi_vec_scale(n, d / fsi_vec_dot(n, n));
    int dim = surface->dim;
    double sum = 0;
    for (int e = 0; e < surface->element_count; e++) {
        /* The part of the element below the plane: a polygon of up to four corners. */
        fsi_vec3 corner[4];
        int count = 0;
        for (int k = 0; k < dim; k++) {
            const int32_t *index = surface->index + dim * e;
            fsi_vec3 a = fsi_vec_sub(fsi_surface_place(surface, index[k]), apex);
            fsi_vec3 b = fsi_vec_sub(fsi_surface_place(surface, index[(k + 1) % dim]), apex);
            fsi_real above_a = fsi_vec_dot(n, a);
            fsi_real above_b = fsi_vec_dot(n, b);
            if (dim == 2)
                a.z = b.z = 0;
            if (above_a < 0)
                corner[count++] = a;
            if ((above_a < 0) != (above_b < 0) && (dim == 3 || k == 0))
                corner[count++] = fsi_vec_mad(a, fsi_vec_sub(b, a), above_a / (above_a - above_b));
        }
        if (dim == 2 && count == 2)
            sum += (double)fsi_vec_cross(corner[0], corner[1]).z / 2;
        for (int k = 2; k < count; k++)
            sum += (double)fsi_vec_dot(corner[0], fsi_vec_cross(corner[k - 1], corner[k])) / 6;
    }
    return fabs(sum); /* inside-out surfaces enclose the same */
}

/* The liquid's surface around a solid as a plane n . x = d: least squares of phi over the free
   cells of a range within two cells of the surface. Too few of them, or far from level: level with
   their mean height. Returns 0: no surface near; *d = sign of phi there. */
static int fsi__waterline(const fsi_interface *iface, const fsi_grid *grid, const int *from,
                          const int *to, fsi_vec3 *n, fsi_real *d) {
    fsi_vec3 up = fsi_vec_scale(grid->desc.gravity, -1);
    up = fsi__length(up) > 0 ? fsi__unit(up) : fsi_vec(0, 1, 0);

    /* phi / h = x0 + x . i, i in cells from the corner: sums of the normal equations. */
    double square[16] = {0};
    double rhs[4] = {0};
    double count = 0;
    double wet = 0;
    int m = iface->dim + 1;
    int i[3];
    FSI__EACH_CELL(i, from, to) {
        size_t cell = fsi__cell_index(iface, i);
        if (iface->covered[cell])
            continue;
        wet += grid->phi[cell] < 0 ? 1 : -1;
        if (fsi__abs(grid->phi[cell]) > 2 * iface->h)
            continue;
        double row[4] = {1, 0, 0, 0};
        for (int k = 0; k < iface->dim; k++)
            row[1 + k] = (double)(i[k] - from[k]);
        for (int j = 0; j < m; j++) {
            for (int k = 0; k < m; k++)
                square[m * j + k] += row[j] * row[k];
            rhs[j] += row[j] * (double)(grid->phi[cell] / iface->h);
        }
        count++;
    }
    *d = wet > 0 ? FSI_R(-1.0) : FSI_R(1.0);
    if (count < 1)
        return 0;

    fsi_real A[16], x[4];
    for (int j = 0; j < m * m; j++)
        A[j] = (fsi_real)(square[j] / count + (j % (m + 1) ? 0 : 1e-9));
    for (int j = 0; j < m; j++)
        x[j] = (fsi_real)(rhs[j] / count);
    fsi_vec3 corner = fsi__centre_of(iface, FSI__CELLS, from);
    if (iface->dim == 2)
        corner.z = iface->origin.z;
    if (count > 2 * m && fsi_dense_cholesky(m, A) == FSI_OK) {
        fsi_dense_cholesky_solve(m, A, x);
        *n = fsi_vec(x[1], x[2], m == 4 ? x[3] : 0);
        double size = (double)fsi__length(*n);
        int level = (double)fsi_vec_dot(*n, up) > 0.5 * size;
        if (size > 0.3 && size < 3 && level) {
            *d = fsi_vec_dot(*n, corner) - x[0] * iface->h;
            return 1;
        }
    }

    /* Level, at the mean of up . x - phi, in cells. */
    double height = -rhs[0] / count;
    for (int k = 0; k < iface->dim; k++)
        height += (double)fsi__get(up, k) * square[1 + k] / count;
    *n = up;
    *d = (fsi_real)height * iface->h + fsi_vec_dot(up, corner);
    return 1;
}

/* Volume of a closed surface within lo .. hi below the liquid's surface, continued level through
   the solid (phi inside solids is no surface). */
static double fsi__submerged(const fsi_interface *iface, const fsi_grid *grid,
                             const fsi_surface *surface, const fsi_real *lo, const fsi_real *hi) {
    int from[3], to[3];
    if (!surface->closed || !surface->element_count || !fsi__cell_range(iface, lo, hi, from, to))
        return 0;

    for (int k = 0; k < iface->dim; k++) {
        from[k] = fsi__imax(from[k] - 2, 0);
        to[k] = fsi__imin(to[k] + 2, iface->n[k]);
    }
    fsi_vec3 n = fsi_vec(0, 1, 0);
    fsi_real d = hi[1] + iface->h;
    if (grid->phi && !fsi__waterline(iface, grid, from, to, &n, &d)) {
        if (d > 0)
            return 0;

        d = hi[1] + iface->h;
    }
    return fsi__volume_below(surface, n, d);
}

/* Of every solid; in smoke what lies in the box. */
static void fsi__interface_submerged(fsi_interface *iface, const fsi_grid *grid) {
    for (int s = 0; s < iface->solids; s++) {
        const fsi_surface *surface = &iface->solid[s]->surface;
        const fsi_bvh *root = iface->bvh + s;
        iface->submerged[s] = 0;
        if (grid->phi && surface->element_count)
            iface->submerged[s] = fsi__submerged(iface, grid, surface, root->lo, root->hi);
    }
    if (grid->phi)
        return;

    double volume = (double)iface->h * (double)iface->h * (iface->dim == 3 ? (double)iface->h : 1);
    for (size_t cell = 0; cell < iface->cells; cell++)
        if (iface->covered[cell])
            iface->submerged[iface->owner[cell]] += volume;
}

FSI_API fsi_result fsi_interface_sides(fsi_interface *iface, const fsi_grid *grid) {
    if (!fsi__interface_fits(iface, grid))
        return FSI_ERR_STATE;
    iface->sides = iface->entries = 0;
    fsi_result result;
    int next;
    for (int i = 0; i < iface->crossings; i = next) {
        /* The first and the last crossing of one face belong to the cells below and above it. */
        const fsi_crossing *first = iface->crossing + iface->order[i];
        const fsi_crossing *last = first;
        for (next = i + 1; next < iface->crossings; next++) {
            const fsi_crossing *other = iface->crossing + iface->order[next];
            if (other->face != first->face || other->axis != first->axis)
                break;
            last = other;
        }

        /* Closed solids have cut faces instead. */
        int closed =
            iface->solid[first->solid]->surface.closed || iface->solid[last->solid]->surface.closed;
        if (closed && iface->desc.boundary == FSI_BOUNDARY_CUT)
            continue;
        if ((result = fsi__face_sides(iface, grid, first, last, NULL)) < 0)
            return result;
    }
    fsi__interface_submerged(iface, grid);
    return iface->desc.boundary == FSI_BOUNDARY_CUT ? fsi__cut_sides(iface, grid) : FSI_OK;
}

FSI_API fsi_real fsi_interface_velocity(const fsi_interface *iface, const fsi_side *side,
                                        const fsi_real *v) {
    fsi_real sum = 0;
    for (int e = side->row; e < side->row_end; e++)
        sum += iface->val[e] * v[iface->col[e]];

    return sum;
}

FSI_API fsi_real fsi_interface_sample(const fsi_grid *grid, const fsi_side *side) {
    const fsi_real *plus = grid->u_plus[side->axis];
    return side->plus && plus ? plus[side->face] : grid->u[side->axis][side->face];
}

FSI_API void fsi_interface_set_sample(fsi_grid *grid, const fsi_side *side, fsi_real u) {
    fsi_real *plus = grid->u_plus[side->axis];
    fsi_real *own = grid->u[side->axis];
    if (!plus || !side->plus || !side->shell)
        own[side->face] = u;
    if (plus && (side->plus || !side->shell))
        plus[side->face] = u;
}

FSI_API fsi_vec3 fsi_interface_centre(const fsi_interface *iface, const fsi_side *side) {
    return fsi__face_centre(iface, side->axis, (size_t)side->face);
}

/* Velocity of the solid at one of its sides, along the axis. Without degrees of freedom it moves as
   the vertices of its surface do. */
FSI__INLINE fsi_real fsi__side_velocity(const fsi_interface *iface, const fsi_side *side) {
    const fsi_coupled *door = iface->solid[side->solid];
    if (door->dof)
        return fsi_interface_velocity(iface, side, door->v);
    return fsi__get(fsi__surface_velocity(door, side->element, side->weight), side->axis);
}

/* to += J^T impulse of one side; to: of its solid. */
FSI__INLINE void fsi__side_push(const fsi_interface *iface, const fsi_side *side, fsi_real impulse,
                                fsi_real *to) {
    for (int e = side->row; e < side->row_end; e++)
        to[iface->col[e]] += impulse * iface->val[e];
}

/* The grid's pressure system with walls at rest at all sides: a scheme adds the solids' motion by
   itself. u_star: [sides] the fluid's samples there, which are written over. */
static fsi_result fsi__sides_at_rest(fsi_interface *iface, fsi_grid *grid, fsi_real dt,
                                     fsi_real *u_star) {
    for (int i = 0; i < iface->sides; i++) {
        const fsi_side *side = iface->side + i;
        u_star[i] = fsi_interface_sample(grid, side);
        iface->velocity[side->axis][side->face] = 0;
    }
    fsi_result result = fsi_grid_build_pressure(grid, dt);
    if (result < 0)
        return result;

    const fsi_real *const *weight = (const fsi_real *const *)grid->weight;
    return fsi_mg_update(grid->mg, grid->cell, grid->weights_are_one ? NULL : weight);
}

/* Puts an answer into the grid: the pressure's gradient on open faces, u[sides] as the sides' own
   samples and as solid velocities for whoever asks later. */
static fsi_result fsi__sides_write(fsi_interface *iface, fsi_grid *grid, const fsi_real *u) {
    for (int i = 0; i < iface->sides; i++)
        iface->velocity[iface->side[i].axis][iface->side[i].face] = u[i];
    fsi_result result = fsi_grid_apply_pressure(grid);
    for (int i = 0; result >= 0 && i < iface->sides; i++)
        if (iface->side[i].mass > 0)
            fsi_interface_set_sample(grid, iface->side + i, u[i]);

    return result;
}

/* ---- Cells that a thin surface passes over. */

/* Height of point c over the element at time t of its way from a to b, times its area; foot:
   weights of the point below c, not normalised. */
static fsi_real fsi__element_height(int dim, const fsi_vec3 *a, const fsi_vec3 *b, fsi_real t,
                                    fsi_vec3 c, fsi_real *foot) {
    fsi_vec3 x[3];
    for (int k = 0; k < dim; k++)
        x[k] = fsi_vec_mad(a[k], fsi_vec_sub(b[k], a[k]), t);
    fsi_vec3 edge = fsi_vec_sub(x[1], x[0]);
    fsi_vec3 arm = fsi_vec_sub(c, x[0]);
    if (dim == 2) {
        foot[1] = fsi_vec_dot(edge, arm);
        foot[0] = fsi_vec_dot(edge, edge) - foot[1];
        foot[2] = 0;
        return edge.x * arm.y - edge.y * arm.x;
    }
    fsi_vec3 normal = fsi_vec_cross(edge, fsi_vec_sub(x[2], x[0]));
    for (int k = 0; k < 3; k++) {
        fsi_vec3 next = x[(k + 1) % 3];
        fsi_vec3 across = fsi_vec_sub(x[(k + 2) % 3], next);
        foot[k] = fsi_vec_dot(normal, fsi_vec_cross(across, fsi_vec_sub(c, next)));
    }
    return fsi_vec_dot(normal, arm);
}

/* The direction (2 axis + up) that leads most straight along n. */
static int fsi__direction_of(int dim, fsi_vec3 n) {
    int axis = fsi__abs(n.y) > fsi__abs(n.x) ? 1 : 0;
    if (dim == 3 && fsi__abs(n.z) > fsi__abs(fsi__get(n, axis)))
        axis = 2;

    return 2 * axis + (fsi__get(n, axis) > 0);
}

/* When the element goes over c on its way: 1 + the direction of where it came from, else 0. */
static int fsi__element_passes(int dim, const fsi_vec3 *a, const fsi_vec3 *b, fsi_vec3 c) {
    fsi_real foot[3];
    int below = fsi__element_height(dim, a, b, 0, c, foot) < 0;
    if (below == (fsi__element_height(dim, a, b, 1, c, foot) < 0))
        return 0;

    /* When? By bisection; then: does c lie on the element there? Over a seam both elements say so.
     */
    fsi_real lo = 0;
    fsi_real hi = 1;
    for (int round = 0; round < 30; round++) {
        fsi_real middle = (lo + hi) / 2;
        if ((fsi__element_height(dim, a, b, middle, c, foot) < 0) == below)
            lo = middle;
        else
            hi = middle;
    }
    fsi_real least = -FSI_R(1e-6) * (fsi__abs(foot[0]) + fsi__abs(foot[1]) + fsi__abs(foot[2]));
    if (!(foot[0] >= least && foot[1] >= least && foot[2] >= least))
        return 0;

    /* Height grows along the normal: it came from above when c was below. */
    fsi_vec3 edge = fsi_vec_sub(a[1], a[0]);
    fsi_vec3 normal = fsi_vec(-edge.y, edge.x, 0);
    if (dim == 3)
        normal = fsi_vec_cross(edge, fsi_vec_sub(a[2], a[0]));

    return 1 + fsi__direction_of(dim, below ? normal : fsi_vec_scale(normal, -1));
}

/* Bits of mark during fsi_interface_moved; above them the direction that the surface came from. */
enum {
    FSI__PASSED = 1,  /* a surface went over the cell's centre */
    FSI__TOUCHED = 2, /* some element touched the cell on its way */
    FSI__TAKEN = 4,   /* the cell has values of its new side, */
    FSI__TAKING = 8,  /* since this round */
    FSI__CAME = 16
};

/* Marks the cells that one element passes or touches on its way from a to b. */
static void fsi__element_sweep(fsi_interface *iface, const fsi_vec3 *a, const fsi_vec3 *b) {
    fsi_real lo[3] = {FSI_REAL_MAX, FSI_REAL_MAX, FSI_REAL_MAX};
    fsi_real hi[3] = {-FSI_REAL_MAX, -FSI_REAL_MAX, -FSI_REAL_MAX};
    for (int corner = 0; corner < iface->dim; corner++)
        for (int k = 0; k < 3; k++) {
            fsi_real p = fsi__get(a[corner], k);
            fsi_real q = fsi__get(b[corner], k);
            lo[k] = fsi__min(lo[k], fsi__min(p, q));
            hi[k] = fsi__max(hi[k], fsi__max(p, q));
        }
    int i[3], from[3], to[3];
    if (!fsi__cells_met(iface, lo, hi, from, to))
        return;

    FSI__EACH_CELL(i, from, to) {
        int8_t *mark = iface->mark + fsi__cell_index(iface, i);
        *mark |= FSI__TOUCHED;
        if (*mark & FSI__PASSED)
            continue;
        fsi_vec3 centre = fsi__centre_of(iface, FSI__CELLS, i);
        if (iface->dim == 2)
            centre.z = a[0].z;
        int came = fsi__element_passes(iface->dim, a, b, centre);
        if (came)
            *mark = (int8_t)(*mark | FSI__PASSED | (came - 1) * FSI__CAME);
    }
}

/* mark: cells whose centre a surface went over, and cells that any of them touched. Two layers that
   go over a cell in one step are taken for one. */
static void fsi__interface_sweep(fsi_interface *iface) {
    const fsi_real *was = iface->was;
    for (int i = 0; i < iface->solids; i++) {
        const fsi_surface *surface = &iface->solid[i]->surface;
        if (surface->closed)
            continue;
        for (int e = 0; e < surface->element_count; e++) {
            fsi_vec3 a[3], b[3];
            for (int k = 0; k < surface->dim; k++) {
                int vertex = surface->index[surface->dim * e + k];
                a[k] = fsi__vec_at(was, vertex);
                b[k] = fsi__vec_at(surface->x, vertex);
            }
            fsi__element_sweep(iface, a, b);
        }
        was += 3 * (size_t)surface->vertex_count;
    }
}

/* Cells on the new side of a cell: those that a surface hid from it and that stayed, and those that
   came along and know already. Only the one that the surface came from, if it is among them: others
   may be hidden twice, by a fold. */
static int fsi__interface_new_side(const fsi_interface *iface, size_t cell, size_t *out) {
    int count = 0;
    int i[3];
    fsi__cell_ijk(iface, cell, i);
    for (int dir = 0; dir < 2 * iface->dim; dir++) {
        size_t face;
        ptrdiff_t other = fsi__beside(iface, i, dir, &face);
        if (other < 0 || iface->covered[other])
            continue;
        int hidden = iface->blocked[dir / 2][face];
        int stayed = !(iface->mark[other] & FSI__PASSED);
        int knows = iface->mark[other] & FSI__TAKEN;
        if (stayed ? !hidden : hidden || !knows)
            continue;
        if (dir == iface->mark[cell] / FSI__CAME) {
            out[0] = (size_t)other;
            return 1;
        }
        out[count++] = (size_t)other;
    }
    return count;
}

FSI_API fsi_result fsi_interface_moved(fsi_interface *iface, fsi_grid *grid, int *passed) {
    int count = 0;
    if (passed)
        *passed = 0;
    if (!fsi__interface_fits(iface, grid))
        return FSI_ERR_STATE;

    size_t open = fsi__open_numbers(iface);
    if (!open || open != (size_t)iface->was_count)
        return FSI_OK;

    fsi__interface_sweep(iface);

    /* Several rounds where a surface ran over several layers of cells. */
    for (int round = 0; round < 8; round++) {
        for (size_t cell = 0; cell < iface->cells; cell++) {
            int waits = (iface->mark[cell] & (FSI__PASSED | FSI__TAKEN)) == FSI__PASSED;
            if (!waits || iface->covered[cell])
                continue;
            size_t source[6];
            int sources = fsi__interface_new_side(iface, cell, source);
            if (!sources)
                continue;
            fsi_grid_take_mean(grid, cell, sources, source, 1);
            iface->mark[cell] |= FSI__TAKING;
            count++;
        }

        /* Known from the next round on: the order of cells does not matter. */
        for (size_t cell = 0; cell < iface->cells; cell++)
            if (iface->mark[cell] & FSI__TAKING)
                iface->mark[cell] = (int8_t)((iface->mark[cell] & ~FSI__TAKING) | FSI__TAKEN);
    }
    if (grid->phi)
        fsi_levelset_drop_markers(&grid->levelset, iface->mark, FSI__TOUCHED);
    memset(iface->mark, 0, iface->cells);
    if (passed)
        *passed = count;

    return FSI_OK;
}
#endif

/* ------------------------------------------------------------------------------------------------
 * >>cut cells */
#ifndef FSI_COUPLE_NO_GRID
/* The closed share of every face, exactly. In the plane of a face with axes (b, c), in cells:

      k+1 +-------:-------+        Green's theorem over the solid's cross-section gives for the face
          |      /: solid |        [j, j+1] x [k, k+1]
        c |     / :       |
          |    /  :       |        share = closed part of its edge b = j+1
        k +---/---:-------+              + sum over the cut lines inside the face of the integral
          j       b      j+1               of (b - j) dc

   because lines farther right add the edge's winding number and lines farther left nothing. In 2D a
   face is such an edge itself. Shares are summed in velocity[] (all zero during detect). Ties:
   planes and edges lie an epsilon to the plus side, as in fsi_surface_cross. */
FSI__INLINE void fsi__share_add(fsi_interface *iface, int axis, const int *i, fsi_real x) {
    if (i[axis] >= 1 && i[axis] < iface->n[axis])
        iface->velocity[axis][fsi__face_index(iface, axis, i)] += x;
}

/* Edges of the faces of axis a: a crossing adds its winding step to the rest of its line along c.
 */
static void fsi__share_edges(fsi_interface *iface, const fsi_surface *surface, int e, int a,
                             fsi__lines *lines, const int *from, const int *to) {
    int c = lines->axis;
    int b = 3 - a - c;
    int begin[3] = {1, 1, 1};
    int end[3] = {iface->nx + 1, iface->ny + 1, iface->nz + 1};
    end[a] = iface->n[a];
    if (iface->dim == 2) {
        begin[2] = 0;
        end[2] = 1;
    }
    fsi__lines_near(iface, surface, e, begin, end, lines);
    int i[3];
    for (i[a] = lines->first[a]; i[a] < lines->last[a]; i[a]++)
        for (i[b] = lines->first[b]; i[b] < lines->last[b]; i[b]++) {
            fsi_hit hit;
            fsi_real at;
            if (!fsi__line_cross(iface, surface, e, lines, i, &hit, &at))
                continue;
            fsi_real step = (fsi_real)-hit.side;
            int segment = (int)at;
            int j[3] = {i[0], i[1], i[2]};
            if (iface->dim == 3)
                j[b]--; /* the edge is the upper one of this face */
            j[c] = lines->begin + segment;
            if (j[c] >= from[c] && j[c] < to[c])
                fsi__share_add(iface, a, j, step * ((fsi_real)segment + 1 - at));
            for (j[c] = fsi__imax(j[c] + 1, from[c]); j[c] < to[c]; j[c]++)
                fsi__share_add(iface, a, j, step);
        }
}

/* A straight line in the plane of faces i[a]: point + t way, 0 <= t <= 1, in cells along (b, c).
   The integral of (b - j) dc over each face that it runs through. */
static void fsi__share_line(fsi_interface *iface, int a, int *i, const fsi_real *point,
                            const fsi_real *way) {
    int b = (a + 1) % 3;
    int c = (a + 2) % 3;
    fsi_real begin = 0;
    while (begin < 1) {
        /* To where the line leaves this face. */
        fsi_real end = 1;
        for (int k = 0; k < 2; k++) {
            if (way[k] == 0)
                continue;
            fsi_real x = point[k] + begin * way[k];
            fsi_real next =
                way[k] > 0 ? fsi__floor(x + FSI_R(1e-9)) + 1 : fsi__ceil(x - FSI_R(1e-9)) - 1;
            fsi_real t = (next - point[k]) / way[k];
            if (t > begin && t < end)
                end = t;
        }
        fsi_real middle = (begin + end) / 2;
        fsi_real x = point[0] + middle * way[0];
        i[b] = (int)fsi__ceil(x) - 1;
        i[c] = (int)fsi__floor(point[1] + middle * way[1]);
        int inside_b = i[b] >= 0 && i[b] < iface->n[b];
        int inside_c = i[c] >= 0 && i[c] < iface->n[c];
        if (inside_b && inside_c)
            fsi__share_add(iface, a, i, (x - (fsi_real)i[b]) * way[1] * (end - begin));
        begin = end;
    }
}

/* Lines where element e cuts the planes of the faces of axis a (3D). */
static void fsi__share_lines(fsi_interface *iface, const fsi_surface *surface, int e, int a) {
    int b = (a + 1) % 3;
    int c = (a + 2) % 3;
    fsi_vec3 normal = fsi_surface_normal(surface, e);
    fsi_real corner[3][3]; /* in cells */
    fsi_real lo = FSI_REAL_MAX;
    fsi_real hi = -FSI_REAL_MAX;
    for (int v = 0; v < 3; v++) {
        fsi_vec3 x = fsi_surface_place(surface, surface->index[3 * e + v]);
        fsi_vec_store(corner[v], fsi_vec_scale(fsi_vec_sub(x, iface->origin), 1 / iface->h));
        lo = fsi__min(lo, corner[v][a]);
        hi = fsi__max(hi, corner[v][a]);
    }
    int first = (int)fsi__clamp(fsi__floor(lo), 1, (fsi_real)iface->n[a]);
    int last = (int)fsi__clamp(fsi__ceil(hi), 0, (fsi_real)iface->n[a] - 1);
    int i[3];
    for (i[a] = first; i[a] <= last; i[a]++) {
        /* Where do two edges of the triangle meet the plane? */
        fsi_real plane = (fsi_real)i[a];
        fsi_real end[2][2] = {{0, 0}, {0, 0}};
        int ends = 0;
        for (int v = 0; v < 3; v++) {
            const fsi_real *p = corner[v];
            const fsi_real *q = corner[(v + 1) % 3];
            if ((p[a] > plane) == (q[a] > plane))
                continue;
            fsi_real t = (plane - p[a]) / (q[a] - p[a]);
            end[ends][0] = p[b] + t * (q[b] - p[b]);
            end[ends][1] = p[c] + t * (q[c] - p[c]);
            ends++;
        }
        if (ends != 2)
            continue;

        /* Turned so that the solid is to its left: outward is (dc, -db). */
        fsi_real way[2] = {end[1][0] - end[0][0], end[1][1] - end[0][1]};
        int turned = way[1] * fsi__get(normal, b) - way[0] * fsi__get(normal, c) < 0;
        if (turned) {
            way[0] = -way[0];
            way[1] = -way[1];
        }
        fsi__share_line(iface, a, i, end[turned], way);
    }
}

/* A solid smaller than a cell may close far more than it fills: the factor that makes its shares
   along an axis add up to its volume, at most 1. */
static fsi_real fsi__share_grain(const fsi_interface *iface, int solid, int axis, const int *from,
                                 const int *to) {
    const fsi_surface *surface = &iface->solid[solid]->surface;
    const fsi_bvh *root = iface->bvh + solid;
    for (int k = 0; k < iface->dim; k++)
        if (root->hi[k] - root->lo[k] > iface->h)
            return 1;

    double sum = 0;
    int i[3];
    FSI__EACH_CELL(i, from, to) {
        size_t face = fsi__face_index(iface, axis, i);
        sum += fabs((double)iface->velocity[axis][face]);
    }
    fsi_vec3 up = fsi_vec(0, 1, 0);
    double cell = (double)(iface->h * iface->h * (iface->dim == 3 ? iface->h : 1));
    double volume = fsi__volume_below(surface, up, root->hi[1] + iface->h) / cell;
    return sum > volume ? (fsi_real)(volume / sum) : 1;
}

/* Collects the shares of one solid into the list of cuts and into open[]. Slivers count as nothing,
   and all but a sliver as all. */
static fsi_result fsi__share_collect(fsi_interface *iface, int solid, const int *from,
                                     const int *to) {
    const fsi_real sliver = FSI_R(1e-3);
    int i[3];
    for (int axis = 0; axis < iface->dim; axis++) {
        fsi_real grain = fsi__share_grain(iface, solid, axis, from, to);
        FSI__EACH_CELL(i, from, to) {
            size_t face = fsi__face_index(iface, axis, i);
            fsi_real *open = iface->open[axis] + face;

            /* Either orientation is solid, as with voxel faces. */
            fsi_real share = grain * fsi__abs(iface->velocity[axis][face]);
            iface->velocity[axis][face] = 0;
            if (share > FSI_R(0.999))
                share = 1;
            share = fsi__min(share, *open);
            if (share < sliver || !(share > 0))
                continue;
            fsi_result result = FSI__LIST_ROOM(iface->cut, iface->cuts + 1, &iface->desc.allocator);
            if (result < 0)
                return result;

            fsi_cut *cut = iface->cut + iface->cuts++;
            cut->face = (int32_t)face;
            cut->solid = solid;
            cut->axis = axis;
            cut->share = share;
            *open -= share;
            if (*open < sliver)
                *open = 0;
        }
    }
    return FSI_OK;
}

/* A cell is solid only when none of its faces is open. */
static void fsi__share_cover(fsi_interface *iface, int solid, const int *from, const int *to) {
    int i[3];
    FSI__EACH_CELL(i, from, to) {
        size_t cell = fsi__cell_index(iface, i);
        int open = 0;
        int inner = 0;
        for (int dir = 0; dir < 2 * iface->dim; dir++) {
            size_t face;
            if (fsi__beside(iface, i, dir, &face) < 0)
                continue;
            inner++;
            open |= iface->open[dir / 2][face] > 0;
        }
        int is_solid = inner && !open;
        if (is_solid && !iface->covered[cell])
            iface->owner[cell] = solid;
        if (is_solid || iface->owner[cell] == solid)
            iface->covered[cell] = (uint8_t)is_solid;
    }
}

/* Share of a cell that is not solid: the mean of two opposite faces, of the pair that differs
   least. Exact where the surface is flat and cuts neither face of the other pairs. */
static fsi_real fsi__cell_share(const fsi_interface *iface, size_t cell) {
    fsi_real least = 2;
    fsi_real share = 1;
    int i[3];
    fsi__cell_ijk(iface, cell, i);
    for (int axis = 0; axis < iface->dim; axis++) {
        size_t lower, upper;
        ptrdiff_t before = fsi__beside(iface, i, 2 * axis, &lower);
        ptrdiff_t after = fsi__beside(iface, i, 2 * axis + 1, &upper);
        fsi_real low = iface->open[axis][before < 0 ? upper : lower];
        fsi_real high = iface->open[axis][after < 0 ? lower : upper];
        if (fsi__abs(high - low) < least) {
            least = fsi__abs(high - low);
            share = (low + high) / 2;
        }
    }
    return share;
}

/* Shares of all closed solids. */
static fsi_result fsi__cut_faces(fsi_interface *iface) {
    int from[3], to[3];
    for (int s = 0; s < iface->solids; s++) {
        const fsi_surface *surface = &iface->solid[s]->surface;
        if (!fsi__closed_range(iface, s, from, to))
            continue;
        for (int a = 0; a < iface->dim; a++) {
            int c = iface->dim == 3 ? (a + 2) % 3 : 1 - a;
            fsi__lines lines = fsi__lines_along(iface, iface->bvh + s, c, 0);
            for (int e = 0; e < surface->element_count; e++) {
                fsi__share_edges(iface, surface, e, a, &lines, from, to);
                if (iface->dim == 3)
                    fsi__share_lines(iface, surface, e, a);
            }
        }
        fsi_result result = fsi__share_collect(iface, s, from, to);
        if (result < 0)
            return result;
    }
    for (int s = 0; s < iface->solids; s++)
        if (fsi__closed_range(iface, s, from, to))
            fsi__share_cover(iface, s, from, to);
    for (int i = 0; i < iface->cuts; i++) {
        const fsi_cut *cut = iface->cut + i;
        size_t minus, plus;
        fsi__face_cells(iface, cut->axis, (size_t)cut->face, &minus, &plus);
        iface->free_share[minus] = fsi__cell_share(iface, minus);
        iface->free_share[plus] = fsi__cell_share(iface, plus);
    }

    /* Where the flow goes on into closed solids, only shells hide. */
    for (int i = 0; i < iface->crossings && iface->desc.smooth; i++) {
        const fsi_crossing *crossing = iface->crossing + i;
        if (iface->solid[crossing->solid]->surface.closed)
            iface->blocked[crossing->axis][crossing->face] = 0;
    }
    return FSI_OK;
}

/* Sides of the cut faces, at the nearest point of the surface; without fluid mass of their own. */
static fsi_result fsi__cut_sides(fsi_interface *iface, const fsi_grid *grid) {
    for (int n = 0; n < iface->cuts; n++) {
        const fsi_cut *cut = iface->cut + n;
        size_t minus, plus;
        fsi__face_cells(iface, cut->axis, (size_t)cut->face, &minus, &plus);
        int wet = grid->cell[minus] == FSI_CELL_FLUID || grid->cell[plus] == FSI_CELL_FLUID;
        const int32_t *bubble = iface->bubble_cell;
        if (!wet && !(bubble && (bubble[minus] > 0 || bubble[plus] > 0)))
            continue;

        /* The surface cuts the face: it is hardly ever farther than two cells. */
        const fsi_bvh *bvh = iface->bvh + cut->solid;
        fsi_vec3 centre = fsi__face_centre(iface, cut->axis, (size_t)cut->face);
        fsi_hit hit;
        if (!fsi_bvh_closest(bvh, centre, 2 * iface->h, &hit)
            && !fsi_bvh_closest(bvh, centre, FSI_REAL_MAX, &hit))
            continue;
        fsi_crossing crossing = FSI__ZERO;
        crossing.face = cut->face;
        crossing.solid = cut->solid;
        crossing.axis = (int8_t)cut->axis;
        crossing.t = FSI_R(0.5);
        crossing.element = hit.element;
        memcpy(crossing.weight, hit.weight, sizeof crossing.weight);
        fsi_result result = fsi__face_sides(iface, grid, &crossing, &crossing, cut);
        if (result < 0)
            return result;
    }
    return FSI_OK;
}
#endif

/* ------------------------------------------------------------------------------------------------
 * >>monolithic */
#ifndef FSI_COUPLE_NO_GRID
/* One linear system for the fluid and all solids (docs/mathematics.md, monolithic system).

     p^      pressure times dt in every fluid cell: the unknowns
     u*, v*  velocities of fluid and solids before the solve
     s, c    a coupling side and its fluid cell
     A       area of a face, h^(dim-1)
     o       sign of the side: +1 when the face is the upper one of its cell
     b       fluid mass of the side
     J       row of the side: J v is the solid's velocity there along the axis of the face
     M, F    mass of a solid and a factor of its inverse, M^-1 = F F^T (nodal solids: F = 1)
     a       answer of a solid, one number a column: v = v* + F a
     U       row of J F
     Z       -A o share U^T in row c: what the solids' columns do to the divergence of the cells
     B       implicit forces of a nodal solid, M + B^T B in place of M
     K       F^T M F + U^T b U + B^T B (dense solids: I + U^T b U)
     k       U^T b (u* - J v*) + push - B^T B v*

     (L_N + Z K^-1 Z^T) p^ = G^T u*_open + Z_0 v* + Z K^-1 k,        a = K^-1 (k - Z^T p^)
     lambda = b (J v - u*) - A o share p^_c,                         impulse on the solid -J^T
   lambda

   Sigma is the matrix in brackets; L_N is the fluid's own one with closed faces at the solids. The
   grid's matrix and right-hand side are rho h^(2-dim) times these: fsi__scale_of. */
#define FSI__REGIONS 64 /* closed regions whose volume is kept */

enum { /* in bubble_cell, where there is no bubble */
    FSI__BUBBLE_OPEN = -1,
    FSI__BUBBLE_SOLID = -2
};

/* Of later chapters: bubbles; the variants of the papers. */
static int fsi__bubbles_on(const fsi_couple *couple);
static double fsi__bubble_sum(const fsi_couple *couple, const fsi_bubble *bubble,
                              const fsi_real *x);
static void fsi__bubble_add(const fsi_couple *couple, const fsi_bubble *bubble, double value,
                            fsi_real *y);
static fsi_result fsi__paper_solver(fsi_couple *couple);

FSI_API fsi_result fsi_couple_init(fsi_couple *couple, fsi_grid *grid,
                                   const fsi_couple_desc *desc) {
    if (!couple || !grid || !grid->block)
        return FSI_ERR_ARGUMENT;

    memset(couple, 0, sizeof *couple);
    fsi_couple_desc given = FSI__ZERO;
    if (desc)
        given = *desc;

    int solver = (int)given.solver;
    if (!fsi_allocator_valid(&given.allocator) || solver < 0 || solver > FSI_COUPLE_INDEFINITE)
        return FSI_ERR_ARGUMENT;
    if (given.terms < -1 || given.terms > 16 || given.max_iterations < 0)
        return FSI_ERR_ARGUMENT;
    if (given.bubbles < -1 || given.bubbles > 1)
        return FSI_ERR_ARGUMENT;
    if (given.band < 0 || !(given.tolerance >= 0) || !(given.seconds >= 0))
        return FSI_ERR_ARGUMENT;

    /* Boundary forms that the papers' solvers know. */
    int paper = solver == FSI_COUPLE_SCHUR || solver == FSI_COUPLE_FULL;
    if (given.boundary == FSI_BOUNDARY_DEFAULT)
        given.boundary = paper ? FSI_BOUNDARY_VOXEL : FSI_BOUNDARY_CUT;
    fsi_interface_desc face = FSI__ZERO;
    face.boundary = given.boundary;
    face.average = given.average;
    face.allocator = given.allocator;
    fsi_result result = fsi_interface_init(&couple->iface, grid, &face);
    if (result != FSI_OK)
        return result;

    couple->desc = given;
    couple->grid = grid;
    couple->rank.allocator = given.allocator;

    /* A liquid has air regions: what becomes of them is part of the state. */
    if (grid->region) {
        size_t most = (size_t)grid->desc.max_regions;
        result = FSI__LIST_ROOM(couple->bubble_cell, grid->cells, &given.allocator);
        if (result >= 0)
            result = FSI__LIST_ROOM(couple->bubble, 4 * most + 1, &given.allocator);
    }
    if (result < 0)
        fsi_couple_free(couple);

    return result;
}

FSI_API void fsi_couple_free(fsi_couple *couple) {
    if (!couple || !couple->grid)
        return;

    const fsi_allocator *allocator = &couple->desc.allocator;
    FSI__LIST_FREE(couple->lists, allocator);
    FSI__LIST_FREE(couple->region_lists, allocator);
    FSI__LIST_FREE(couple->paper_lists, allocator);
    FSI__LIST_FREE(couple->paper_vectors, allocator);
    FSI__LIST_FREE(couple->kept, allocator);
    FSI__LIST_FREE(couple->bubble, allocator);
    FSI__LIST_FREE(couple->bubble_cell, allocator);
    FSI__LIST_FREE(couple->component_stack, allocator);
    FSI__LIST_FREE(couple->bubble_near, allocator);
    FSI__LIST_FREE(couple->bubble_face, allocator);
    FSI__LIST_FREE(couple->bubble_share, allocator);
    fsi_mg_free(&couple->second);
    fsi_mg_rank_free(&couple->rank);
    fsi_interface_free(&couple->iface);
    memset(couple, 0, sizeof *couple);
}

/* Has the fluid not been seen at a cell's centre? It has come out of a solid, or lies in one while
   a part of its cell is open. */
FSI__INLINE int fsi__centre_unseen(const fsi_couple *couple, size_t cell) {
    return couple->iface.owner[cell] >= 0 || couple->bubble_cell[cell] == FSI__BUBBLE_SOLID;
}

/* In a thin wall phi has liquid on one side and air on the other, and what was continued there may
   be of the wrong one: a cell that is open only to liquid is liquid, and likewise air. */
static void fsi__couple_unveil(fsi_couple *couple) {
    fsi_interface *iface = &couple->iface;
    fsi_grid *grid = couple->grid;
    int changed = 0;
    for (size_t cell = 0; cell < iface->cells; cell++) {
        if (iface->covered[cell] || !fsi__centre_unseen(couple, cell))
            continue;
        size_t seen[6];
        int count = 0;
        int alike = 0;
        int i[3];
        fsi__cell_ijk(iface, cell, i);
        for (int dir = 0; dir < 2 * iface->dim; dir++) {
            size_t face;
            ptrdiff_t other = fsi__beside(iface, i, dir, &face);
            if (other < 0 || !(iface->open[dir / 2][face] > 0)
                || fsi__centre_unseen(couple, (size_t)other))
                continue;
            alike += (grid->phi[other] < 0) == (grid->phi[cell] < 0);
            seen[count++] = (size_t)other;
        }
        if (!count || alike)
            continue;
        fsi_grid_take_mean(grid, cell, count, seen, 1);
        iface->mark[cell] = 1;
        changed = 1;
    }
    if (changed)
        fsi_levelset_drop_markers(&grid->levelset, iface->mark, 1);
    memset(iface->mark, 0, iface->cells);
}

FSI_API fsi_result fsi_couple_detect(fsi_couple *couple, fsi_coupled *const *solid, int count) {
    if (!couple || !couple->grid)
        return FSI_ERR_STATE;

    couple->iface.lean = 1;
    int started = couple->iface.started;
    fsi_result result = fsi_interface_detect(&couple->iface, couple->grid, solid, count);
    if (result < 0 || !fsi__bubbles_on(couple))
        return result;

    fsi__couple_unveil(couple);
    if (!started)
        fsi_levelset_keep_volume(&couple->grid->levelset, couple->iface.covered);
    return result;
}

/* ---- Small dense pieces. */

/* C = F F^T for a positive semi-definite C [n * n]; F [n * rank] row major, work [n * n]. Returns
   the rank: fixed directions have no column. */
static int fsi__psd_root(int n, const fsi_real *C, fsi_real *F, fsi_real *work) {
    fsi_copy((size_t)n * (size_t)n, C, work);
    (void)fsi__psd_factor((size_t)n, work, 256 * (double)FSI_REAL_EPS);
    int rank = 0;
    for (int j = 0; j < n; j++)
        rank += work[j * n + j] > 0;
    int column = 0;
    for (int j = 0; j < n; j++) {
        if (!(work[j * n + j] > 0))
            continue;
        for (int i = 0; i < n; i++)
            F[i * rank + column] = i < j ? 0 : work[i * n + j];
        column++;
    }
    return rank;
}

/* L in place of K = I + U^T b U, rows of the lower triangle one after the other. Not the base's
   factor, which drops a pivot that rounding has eaten: those of K are at least 1, and a body of a
   millionth of the fluid's mass has to move. */
static void fsi__k_factor(int n, fsi_real *K) {
    fsi_real *row = K;
    for (int i = 0; i < n; i++) {
        const fsi_real *other = K;
        for (int j = 0; j <= i; j++) {
            double sum = (double)row[j];
            for (int k = 0; k < j; k++)
                sum -= (double)row[k] * (double)other[k];
            row[j] = (fsi_real)(j < i ? sum / (double)other[j] : sqrt(fmax(sum, 1)));
            other += j + 1;
        }
        row += i + 1;
    }
}

/* x = (L L^T)^-1 b with the rows of fsi__k_factor; b may be x. */
static void fsi__k_back(int n, const fsi_real *L, const fsi_real *b, fsi_real *x) {
    const fsi_real *row = L;
    for (int i = 0; i < n; i++) {
        double sum = (double)b[i];
        for (int k = 0; k < i; k++)
            sum -= (double)row[k] * (double)x[k];
        x[i] = (fsi_real)(sum / (double)row[i]);
        row += i + 1;
    }

    /* Row k begins k (k + 1) / 2 numbers behind the start. */
    for (int i = n - 1; i >= 0; i--) {
        double sum = (double)x[i];
        for (int k = i + 1; k < n; k++)
            sum -= (double)L[k * (k + 1) / 2 + i] * (double)x[k];
        x[i] = (fsi_real)(sum / (double)L[i * (i + 1) / 2 + i]);
    }
}

/* ---- Short names for what the formulas are made of. */

/* A */
FSI__INLINE fsi_real fsi__area(const fsi_interface *iface) {
    return iface->dim == 3 ? iface->h * iface->h : iface->h;
}

/* Factor between the system above and the grid's. */
FSI__INLINE fsi_real fsi__scale_of(const fsi_couple *couple) {
    return couple->grid->desc.rho / (couple->iface.dim == 3 ? couple->iface.h : 1);
}

/* -A o share: what a unit velocity of the solid there does to the divergence of the side's cell. */
FSI__INLINE fsi_real fsi__side_area(const fsi_interface *iface, const fsi_side *side) {
    return -fsi__area(iface) * side->share * (fsi_real)side->sign;
}

/* The same as entry of Z for a row U = 1; sides of bubbles stand in the rows of the kept volumes.
 */
FSI__INLINE fsi_real fsi__side_z(const fsi_interface *iface, const fsi_side *side) {
    return side->air ? 0 : fsi__side_area(iface, side);
}

/* Number i of the sides ordered by solid. */
FSI__INLINE const fsi_side *fsi__side_of(const fsi_couple *couple, int i) {
    return couple->iface.side + couple->by_solid[i];
}

/* ---- The lists of one solve. */

typedef struct fsi__list_sizes {
    size_t solids, sides, cells;
    size_t columns;  /* all degrees of freedom */
    size_t nodal;    /* those of nodal solids */
    size_t factors;  /* entries of all K */
    size_t products; /* entries of all rows U of dense solids */
    size_t square;   /* largest mass matrix */
} fsi__list_sizes;

/* Numbers that K of a solid takes: rows of a triangle, or a diagonal. */
FSI__INLINE size_t fsi__k_entries(const fsi_coupled *door) {
    size_t dof = (size_t)door->dof;
    return door->node ? dof : dof * (dof + 1) / 2;
}

/* Counts over solids and sides. */
static fsi__list_sizes fsi__couple_sizes(const fsi_couple *couple) {
    const fsi_interface *iface = &couple->iface;
    fsi__list_sizes sizes = FSI__ZERO;
    sizes.solids = (size_t)iface->solids;
    sizes.sides = (size_t)iface->sides;
    sizes.cells = iface->cells;
    for (int s = 0; s < iface->solids; s++) {
        const fsi_coupled *door = iface->solid[s];
        size_t dof = (size_t)door->dof;
        sizes.columns += dof;
        sizes.factors += fsi__k_entries(door);
        if (door->node)
            sizes.nodal += dof;
        else if (dof * dof > sizes.square)
            sizes.square = dof * dof;
    }
    for (int i = 0; i < iface->sides; i++) {
        const fsi_coupled *door = iface->solid[iface->side[i].solid];
        sizes.products += door->node ? 0 : (size_t)door->dof;
    }

    return sizes;
}

/* All lists of a solve in one block. */
static void fsi__couple_layout(fsi_couple *couple, const fsi__list_sizes *sizes, fsi_arena *arena) {
    fsi_real **const of_sides[] = {&couple->lambda, &couple->side_velocity, &couple->side_factor,
                                   NULL};
    fsi_real **const of_columns[] = {
        &couple->v_before, &couple->load, &couple->reaction, &couple->k, &couple->free_answer,
        &couple->answer,   NULL};
    fsi_real **const of_nodes[] = {&couple->cg_residual, &couple->cg_direction, &couple->cg_image,
                                   NULL};
    fsi_real **const of_cells[] = {&couple->cell_residual, &couple->cell_step, &couple->cell_work,
                                   NULL};
    FSI__TAKE(couple->block, arena, sizes->solids);
    FSI__TAKE(couple->bundle, arena, sizes->solids);
    FSI__TAKE(couple->by_solid, arena, sizes->sides);
    FSI__TAKE(couple->side_cell, arena, sizes->sides);
    FSI__TAKE(couple->row, arena, sizes->sides);
    FSI__TAKE(couple->K, arena, sizes->factors);
    FSI__TAKE(couple->q, arena, sizes->products);
    FSI__TAKE(couple->mass_work, arena, 3 * sizes->square);
    fsi__take_vectors(arena, sizes->sides, of_sides);
    fsi__take_vectors(arena, sizes->columns, of_columns);
    fsi__take_vectors(arena, sizes->nodal ? sizes->columns : 0, of_nodes);
    fsi__take_vectors(arena, sizes->cells, of_cells);
}

/* Places all lists of this solve. Without memory for them those of the last one stay. */
static fsi_result fsi__couple_lists(fsi_couple *couple) {
    fsi__list_sizes sizes = fsi__couple_sizes(couple);
    fsi_couple next = *couple;
    fsi_arena arena = FSI__ZERO;
    fsi__couple_layout(&next, &sizes, &arena);
    fsi_result result = fsi__arena_reopen(&arena, &next.lists, &couple->desc.allocator);
    if (result < 0)
        return result;

    fsi__couple_layout(&next, &sizes, &arena);
    *couple = next;
    return FSI_OK;
}

/* Orders the sides by their solid. */
static void fsi__sides_by_solid(fsi_couple *couple) {
    const fsi_interface *iface = &couple->iface;
    memset(couple->block, 0, (size_t)iface->solids * sizeof *couple->block);
    for (int i = 0; i < iface->sides; i++)
        couple->block[iface->side[i].solid].last++;
    int first = 0;
    for (int s = 0; s < iface->solids; s++) {
        fsi__solid_block *block = couple->block + s;
        int sides = block->last;
        block->door = iface->solid[s];
        block->first = block->last = first;
        first += sides;
    }
    for (int i = 0; i < iface->sides; i++) {
        const fsi_side *side = iface->side + i;
        int at = couple->block[side->solid].last++;
        couple->by_solid[at] = i;
        couple->side_cell[at] = side->cell;
        couple->side_factor[at] = fsi__side_z(iface, side);
    }
}

/* ---- Rows of U and K of every solid. */

/* F of a dense solid, F F^T = M^-1, [dof * rank]: the same bits whenever it is asked for. Returns
   the rank. */
static int fsi__mono_factor(const fsi_couple *couple, const fsi__solid_block *block,
                            const fsi_real **F) {
    const fsi_coupled *door = block->door;
    size_t square = (size_t)door->dof * (size_t)door->dof;
    fsi_real *factor = couple->mass_work;
    fsi_real *work = factor + square;
    fsi_real *asked = work + square;
    *F = factor;
    if (door->inverse_mass)
        return fsi__psd_root(door->dof, door->inverse_mass, factor, work);
    if (door->dof)
        door->mass_fn(door, NULL, asked);

    return fsi__psd_root(door->dof, asked, factor, work);
}

/* Dense solid: rows U = J F and the factor L of K = I + U^T b U. */
static void fsi__mono_dense(fsi_couple *couple, fsi__solid_block *block, size_t *entry) {
    const fsi_interface *iface = &couple->iface;
    const fsi_real *F;
    int rank = fsi__mono_factor(couple, block, &F);
    block->columns = rank;

    /* K begins as the identity, */
    fsi_real *K = block->K;
    fsi_real *to = K;
    for (int j = 0; j < rank; j++)
        for (int k = 0; k <= j; k++)
            *to++ = (fsi_real)(j == k);

    for (int i = block->first; i < block->last; i++) {
        const fsi_side *side = fsi__side_of(couple, i);
        fsi_real *q = couple->q + *entry;
        couple->row[i] = *entry;
        *entry += (size_t)rank;
        for (int k = 0; k < rank; k++)
            q[k] = 0;
        for (int e = side->row; e < side->row_end; e++)
            for (int k = 0; k < rank; k++)
                q[k] += iface->val[e] * F[iface->col[e] * rank + k];

        /* and every side adds its fluid mass. */
        to = K;
        for (int j = 0; j < rank; j++)
            for (int k = 0; k <= j; k++)
                *to++ += side->mass * q[j] * q[k];
    }
    fsi__k_factor(rank, K);
}

/* Nodal solid: the diagonal of K = M + U^T b U + B^T B; 0 marks nodes that are fixed. */
static void fsi__mono_nodal(fsi_couple *couple, fsi__solid_block *block) {
    const fsi_interface *iface = &couple->iface;
    const fsi_coupled *door = block->door;
    fsi_real *K = block->K;
    block->columns = door->dof;
    for (int i = 0; i < door->dof; i++) {
        fsi_real inverse = door->inverse_mass[i / 3];
        K[i] = inverse > 0 ? 1 / inverse : 0;
    }
    for (int i = block->first; i < block->last; i++) {
        const fsi_side *side = fsi__side_of(couple, i);
        for (int e = side->row; e < side->row_end; e++) {
            fsi_real *diagonal = K + iface->col[e];
            if (*diagonal > 0)
                *diagonal += side->mass * iface->val[e] * iface->val[e];
        }
    }

    const fsi_csr *implicit = door->implicit;
    int entries = implicit ? implicit->row[implicit->rows] : 0;
    for (int e = 0; e < entries; e++) {
        fsi_real *diagonal = K + implicit->col[e];
        if (*diagonal > 0)
            *diagonal += implicit->val[e] * implicit->val[e];
    }
}

/* U and K of all solids. */
static fsi_result fsi__mono_rows(fsi_couple *couple) {
    const fsi_interface *iface = &couple->iface;
    fsi_result result = fsi__couple_lists(couple);
    if (result < 0)
        return result;

    fsi__sides_by_solid(couple);
    size_t entry = 0;
    fsi_real *K = couple->K;
    couple->columns = 0;
    for (int s = 0; s < iface->solids; s++) {
        fsi__solid_block *block = couple->block + s;
        block->offset = couple->columns;
        block->K = K;
        if (block->door->node)
            fsi__mono_nodal(couple, block);
        else
            fsi__mono_dense(couple, block, &entry);
        couple->columns += block->columns;
        K += fsi__k_entries(block->door);
    }

    return FSI_OK;
}

/* ---- Products with U, Z, B and K. */

/* U a for the row of side number i of by_solid; a is 0 at fixed nodes. */
FSI__INLINE fsi_real fsi__row_dot(const fsi_couple *couple, const fsi__solid_block *block, int i,
                                  const fsi_real *a) {
    const fsi_interface *iface = &couple->iface;
    fsi_real sum = 0;
    if (!block->door->node) {
        const fsi_real *q = couple->q + couple->row[i];
        int columns = block->columns;
        for (int k = 0; k < columns; k++)
            sum += q[k] * a[k];
        return sum;
    }
    const fsi_side *side = fsi__side_of(couple, i);
    for (int e = side->row; e < side->row_end; e++)
        sum += iface->val[e] * a[iface->col[e]];

    return sum;
}

/* out += w U^T for that row; fixed nodes get nothing. */
FSI__INLINE void fsi__row_add(const fsi_couple *couple, const fsi__solid_block *block, int i,
                              fsi_real w, fsi_real *out) {
    const fsi_interface *iface = &couple->iface;
    if (!block->door->node) {
        const fsi_real *q = couple->q + couple->row[i];
        int columns = block->columns;
        for (int k = 0; k < columns; k++)
            out[k] += w * q[k];
        return;
    }
    const fsi_real *K = block->K;
    const fsi_side *side = fsi__side_of(couple, i);
    for (int e = side->row; e < side->row_end; e++)
        if (K[iface->col[e]] > 0)
            out[iface->col[e]] += w * iface->val[e];
}

/* out += U^T x for one solid; x [sides] in the interface's order. */
static void fsi__ut_add(const fsi_couple *couple, const fsi__solid_block *block, const fsi_real *x,
                        fsi_real *out) {
    for (int i = block->first; i < block->last; i++)
        fsi__row_add(couple, block, i, x[couple->by_solid[i]], out);
}

/* out = Z^T x for one solid. Dense solids sum in double, eight columns at a time: the pressures
   around a light body nearly cancel. */
static void fsi__z_transposed(const fsi_couple *couple, const fsi__solid_block *block,
                              const fsi_real *x, fsi_real *out) {
    const int32_t *cell = couple->side_cell;
    const fsi_real *factor = couple->side_factor;
    int columns = block->columns;
    if (block->door->node) {
        for (int k = 0; k < columns; k++)
            out[k] = 0;
        for (int i = block->first; i < block->last; i++)
            fsi__row_add(couple, block, i, factor[i] * x[cell[i]], out);
        return;
    }
    for (int begin = 0; begin < columns; begin += 8) {
        double sum[8] = FSI__ZERO;
        int n = fsi__imin(columns - begin, 8);
        for (int i = block->first; i < block->last; i++) {
            const fsi_real *q = couple->q + couple->row[i] + begin;
            double w = (double)factor[i] * (double)x[cell[i]];
            for (int k = 0; k < n; k++)
                sum[k] += w * (double)q[k];
        }
        for (int k = 0; k < n; k++)
            out[begin + k] = (fsi_real)sum[k];
    }
}

/* y += factor Z a of all solids; a [columns]. */
static void fsi__z_add(const fsi_couple *couple, const fsi_real *a, fsi_real factor, fsi_real *y) {
    const fsi_interface *iface = &couple->iface;
    for (int s = 0; s < iface->solids; s++) {
        const fsi__solid_block *block = couple->block + s;
        if (!block->columns)
            continue;
        for (int i = block->first; i < block->last; i++) {
            fsi_real change = fsi__row_dot(couple, block, i, a + block->offset);
            y[couple->side_cell[i]] += factor * couple->side_factor[i] * change;
        }
    }
}

/* y = K x of one solid. */
static void fsi__k_apply(const fsi_couple *couple, const fsi__solid_block *block, const fsi_real *x,
                         fsi_real *y) {
    const fsi_coupled *door = block->door;
    const fsi_real *K = block->K;
    int columns = block->columns;
    for (int i = 0; i < columns; i++) {
        int moves = !door->node || K[i] > 0;
        y[i] = moves ? x[i] : 0;
        if (door->node && moves)
            y[i] /= door->inverse_mass[i / 3];
    }
    for (int i = block->first; i < block->last; i++) {
        fsi_real mass = fsi__side_of(couple, i)->mass;
        if (mass > 0)
            fsi__row_add(couple, block, i, mass * fsi__row_dot(couple, block, i, x), y);
    }
    if (door->node)
        fsi__door_implicit(door, x, 1, y);
}

/* x = K^-1 b of one solid. Dense: by its factor. Nodal: by its factor where there is one, else
   conjugate gradients with the diagonal, to round-off; they touch only the solid. */
static void fsi__k_solve(fsi_couple *couple, const fsi__solid_block *block, const fsi_real *b,
                         fsi_real *x) {
    const fsi_real *K = block->K;
    int columns = block->columns;
    if (!block->door->node) {
        fsi__k_back(columns, K, b, x);
        return;
    }
    if (block->factor) {
        (void)fsi_cholesky_solve(block->factor, b, x);
        return;
    }
    const double enough = sizeof(fsi_real) == 8 ? 1e-28 : 1e-13;
    fsi_real *residual = couple->cg_residual + block->offset;
    fsi_real *direction = couple->cg_direction + block->offset;
    fsi_real *image = couple->cg_image + block->offset;
    for (int i = 0; i < columns; i++) {
        x[i] = direction[i] = 0;
        residual[i] = K[i] > 0 ? b[i] : 0;
    }

    double size = 0;
    double start = 0;
    for (int round = 0; round < 1000; round++) {
        /* size = r . diag(K)^-1 r */
        double last = size;
        size = 0;
        for (int i = 0; i < columns; i++)
            size += K[i] > 0 ? (double)residual[i] * (double)residual[i] / (double)K[i] : 0;
        if (round == 0)
            start = size;
        if (!(size > start * enough) || !(size > 0))
            break;

        fsi_real keep = (fsi_real)(round ? size / last : 0);
        for (int i = 0; i < columns; i++)
            direction[i] = (K[i] > 0 ? residual[i] / K[i] : 0) + keep * direction[i];
        fsi__k_apply(couple, block, direction, image);
        double curvature = fsi_dot((size_t)columns, direction, image);
        if (!(curvature > 0))
            break;
        fsi_axpy((size_t)columns, (fsi_real)(size / curvature), direction, x);
        fsi_axpy((size_t)columns, (fsi_real)(-size / curvature), image, residual);
    }
}

/* ---- The solids' answer to a pressure. */

/* a -= K^-1 G^T e with e = E^-1 (G a - w^T x): the part of the answer a to the pressure x that
   changes no kept volume. e is left in region_work. See the kept volumes below. */
static void fsi__keep_volumes(fsi_couple *couple, const fsi_real *x, fsi_real *a) {
    const size_t columns = (size_t)couple->columns;
    const double scale = (double)fsi__scale_of(couple);
    fsi_real *e = couple->region_work;
    int n = couple->rows;
    if (!n)
        return;

    for (int r = 0; r < n; r++)
        e[r] = (fsi_real)fsi_dot(columns, couple->G + (size_t)r * columns, a);
    for (int b = 0; b < couple->bubbles; b++) {
        const fsi_bubble *bubble = couple->bubble + b;
        if (bubble->row >= 0)
            e[bubble->row] -= (fsi_real)(fsi__bubble_sum(couple, bubble, x) / scale);
    }
    fsi__psd_solve((size_t)n, couple->E, e);
    for (int r = 0; r < n; r++)
        fsi_axpy(columns, -e[r], couple->KG + (size_t)r * columns, a);
}

/* reaction = K^-1 Z^T x of all solids, volumes kept. */
static void fsi__respond(fsi_couple *couple, const fsi_real *x) {
    for (int s = 0; s < couple->iface.solids; s++) {
        const fsi__solid_block *block = couple->block + s;
        if (!block->columns)
            continue;
        fsi_real *load = couple->load + block->offset;
        fsi__z_transposed(couple, block, x, load);
        fsi__k_solve(couple, block, load, couple->reaction + block->offset);
    }
    fsi__keep_volumes(couple, x, couple->reaction);
}

/* y += what ghost cells add to L_N x. */
static void fsi__ghosts_add(const fsi_couple *couple, const fsi_real *x, fsi_real *y) {
    if (couple->ghosts.apply_fn)
        couple->ghosts.apply_fn(x, y, couple->ghosts.user);
}

/* y += (Sigma - L_N) x. */
static void fsi__extra(const fsi_real *x, fsi_real *y, void *user) {
    fsi_couple *couple = (fsi_couple *)user;
    fsi__ghosts_add(couple, x, y);
    fsi__respond(couple, x);
    fsi__z_add(couple, couple->reaction, fsi__scale_of(couple), y);
    for (int b = 0; b < couple->bubbles; b++) {
        const fsi_bubble *bubble = couple->bubble + b;
        if (bubble->row >= 0)
            fsi__bubble_add(couple, bubble, (double)couple->region_work[bubble->row], y);
    }
}

/* answer = start - K^-1 Z^T p^ (start NULL: 0; may be the answer itself), and the constants of the
   closed regions and pressures of the bubbles that go with it. */
static void fsi__answer(fsi_couple *couple, const fsi_real *p, const fsi_real *start) {
    fsi__respond(couple, p);
    for (int i = 0; i < couple->columns; i++)
        couple->answer[i] = (start ? start[i] : 0) - couple->reaction[i];
    for (int r = 0; r < couple->regions; r++)
        couple->constant[couple->region_of[r]] -= (double)couple->region_work[r];
    for (int b = 0; b < couple->bubbles; b++) {
        fsi_bubble *bubble = couple->bubble + b;
        if (bubble->row >= 0)
            bubble->hat -= (double)couple->region_work[bubble->row];
    }
}

/* k, the answer without pressure K^-1 k, and the grid's right-hand side completed with Z_0 v*. */
static void fsi__mono_rhs(fsi_couple *couple) {
    const fsi_interface *iface = &couple->iface;
    fsi_real scale = fsi__scale_of(couple);
    for (int i = 0; i < iface->sides; i++) {
        const fsi_side *side = iface->side + i;
        fsi_real v = fsi__side_velocity(iface, side);
        fsi_real change = scale * fsi__side_area(iface, side) * v;
        if (side->air)
            couple->bubble[couple->bubble_cell[side->cell] - 1].rhs += (double)change;
        else
            couple->grid->rhs[side->cell] += change;
        couple->lambda[i] = side->mass * (couple->side_velocity[i] - v);
    }
    fsi_fill((size_t)couple->columns, 0, couple->k);
    for (int s = 0; s < iface->solids; s++) {
        const fsi__solid_block *block = couple->block + s;
        const fsi_coupled *door = block->door;
        fsi_real *k = couple->k + block->offset;
        if (!block->columns)
            continue;
        fsi__ut_add(couple, block, couple->lambda, k);
        if (door->node)
            fsi__door_implicit(door, door->v, -1, k);
        fsi__door_push(door, 1, k);
        fsi__k_solve(couple, block, k, couple->free_answer + block->offset);
    }
}

/* v += F a of one solid. */
static void fsi__solid_add(fsi_couple *couple, const fsi__solid_block *block, const fsi_real *a) {
    const fsi_coupled *door = block->door;
    if (door->node) {
        for (int i = 0; i < door->dof; i++)
            door->v[i] += a[i];
        return;
    }
    const fsi_real *F;
    int rank = fsi__mono_factor(couple, block, &F);
    for (int i = 0; i < door->dof; i++)
        for (int k = 0; k < rank; k++)
            door->v[i] += F[i * rank + k] * a[k];
}

/* The pressure at a side: p^ and the constant of its closed region, or its bubble's. */
FSI__INLINE fsi_real fsi__pressure_at(const fsi_couple *couple, const fsi_side *side,
                                      const fsi_real *p) {
    if (side->air) {
        const fsi_bubble *bubble = couple->bubble + (couple->bubble_cell[side->cell] - 1);
        return (fsi_real)(bubble->start + bubble->hat);
    }
    int region = couple->regions ? fsi_mg_region(couple->grid->mg, (size_t)side->cell) : -1;
    return p[side->cell] + (region >= 0 ? (fsi_real)couple->constant[region] : 0);
}

/* Velocities and impulses that belong to p^ and the answer to it: momentum is exact for any p^. */
static void fsi__mono_finish(fsi_couple *couple, const fsi_real *p) {
    const fsi_interface *iface = &couple->iface;
    for (int s = 0; s < iface->solids; s++) {
        const fsi__solid_block *block = couple->block + s;
        int columns = block->columns;
        fsi_real *a = couple->answer + block->offset;
        if (!columns)
            continue;
        fsi_axpy((size_t)columns, 1, couple->free_answer + block->offset, a);
        fsi__solid_add(couple, block, a);
    }
    for (int i = 0; i < iface->sides; i++) {
        const fsi_side *side = iface->side + i;
        fsi_real v = fsi__side_velocity(iface, side);
        fsi_real pressure = fsi__pressure_at(couple, side, p);
        couple->lambda[i] =
            side->mass * (v - couple->side_velocity[i]) + fsi__side_area(iface, side) * pressure;
        couple->side_velocity[i] = v;
    }
}

/* ---- Kept volumes: closed regions of liquid, and bubbles.
   A constant pressure in a closed region moves no fluid, it only pushes solids: it is the
   multiplier of the constraint that their motion keeps the region's volume. The pressure p_b of a
   bubble is the multiplier of the same constraint, whose row has liquid faces as well (weights w,
   their sum W), in the grid's units

       W p_b - w^T p^ - scale G_b a = rhs_b,        row of a cell behind a face: ... - w p_b

   With G_r = Z^T 1 over the sides of region or bubble r, and E = G K^-1 G^T + W / scale, all of
   them are eliminated together: K^-1 - K^-1 G^T E^-1 G K^-1 takes the place of K^-1 in Sigma
   (fsi__keep_volumes). The constants of closed regions are null vectors then, which fsi_mg_solve
   takes out by itself, and a large one (a heavy solid with no room to fall) costs p^ no digits. A
   bubble between solids alone has W = 0 and is a constraint on v; in a rigid hull G = 0, too. */

/* G of one row: Z^T 1 over the sides of the cells with this label. Returns its size if nothing
   cancelled, squared. */
static double fsi__volume_row(const fsi_couple *couple, const int32_t *label, int32_t value,
                              fsi_real *out) {
    const fsi_interface *iface = &couple->iface;
    double size = 0;
    fsi_fill((size_t)couple->columns, 0, out);
    for (int s = 0; s < iface->solids; s++) {
        const fsi__solid_block *block = couple->block + s;
        int columns = block->columns;
        for (int i = block->first; columns && i < block->last; i++) {
            const fsi_side *side = fsi__side_of(couple, i);
            if (label[side->cell] != value)
                continue;
            fsi_real z = fsi__side_area(iface, side);
            fsi__row_add(couple, block, i, z, out + block->offset);

            double row = block->door->node ? 1 : 0;
            for (int k = 0; !block->door->node && k < columns; k++) {
                double q = (double)couple->q[couple->row[i] + (size_t)k];
                row += q * q;
            }
            size += (double)z * (double)z * row;
        }
    }
    return size;
}

/* Can the solids change the volume of the cells with this label? More than noise is left of the
   sums; `answer` is used as work space. */
static int fsi__volume_felt(fsi_couple *couple, const int32_t *label, int32_t value, double noise) {
    if (!couple->columns)
        return 0;

    double size = fsi__volume_row(couple, label, value, couple->answer);
    return fsi_norm((size_t)couple->columns, couple->answer) > noise * sqrt(size);
}

/* Room for closed regions, all of a multigrid, and rows of G; contents are lost. */
static fsi_result fsi__region_lists(fsi_couple *couple, int all, int rows) {
    size_t n = (size_t)rows;
    size_t entries = n * (size_t)couple->columns;
    const fsi_allocator *allocator = &couple->desc.allocator;
    fsi_arena arena = FSI__ZERO;
    for (int turn = 0; fsi__arena_turn(&arena, turn, &couple->region_lists, allocator); turn++) {
        FSI__TAKE(couple->constant, &arena, (size_t)all);
        FSI__TAKE(couple->E, &arena, n * n);
        FSI__TAKE(couple->region_work, &arena, n);
        FSI__TAKE(couple->G, &arena, entries);
        FSI__TAKE(couple->KG, &arena, entries);
    }
    return arena.failed ? FSI_ERR_MEMORY : FSI_OK;
}

/* K^-1 G^T of row r, whose G is there. */
static void fsi__volume_reaction(fsi_couple *couple, int r) {
    const size_t columns = (size_t)couple->columns;
    const fsi_real *G = couple->G + (size_t)r * columns;
    fsi_real *KG = couple->KG + (size_t)r * columns;
    for (int s = 0; s < couple->iface.solids; s++) {
        const fsi__solid_block *block = couple->block + s;
        size_t count = (size_t)block->columns;
        if (fsi_norm(count, G + block->offset) > 0)
            fsi__k_solve(couple, block, G + block->offset, KG + block->offset);
        else
            fsi_fill(count, 0, KG + block->offset);
    }
}

/* G, K^-1 G^T and the factor of E of the regions and bubbles that a solid which can move feels,
   and of the bubbles with liquid around them. */
static fsi_result fsi__regions_build(fsi_couple *couple) {
    const double noise = sizeof(fsi_real) == 8 ? 1e-6 : 1e-3;
    const size_t columns = (size_t)couple->columns;
    const int32_t *label = couple->grid->mg->label;
    int all = fsi__imin(couple->grid->mg->regions, FSI__REGIONS);
    int n = 0;
    for (int r = 0; r < all; r++)
        if (fsi__volume_felt(couple, label, r, noise))
            couple->region_of[n++] = r;
    int rows = n;
    for (int b = 0; b < couple->bubbles; b++)
        if (couple->bubble[b].row >= 0)
            couple->bubble[b].row = rows++;
    if (!rows)
        return FSI_OK;

    fsi_result result = fsi__region_lists(couple, couple->grid->mg->regions, rows);
    if (result < 0)
        return result;

    couple->regions = n;
    couple->rows = rows;
    for (int r = 0; r < n; r++)
        fsi__volume_row(couple, label, couple->region_of[r], couple->G + (size_t)r * columns);
    for (int b = 0; b < couple->bubbles; b++) {
        int r = couple->bubble[b].row;
        if (r >= 0)
            fsi__volume_row(couple, couple->bubble_cell, b + 1, couple->G + (size_t)r * columns);
    }
    for (int r = 0; r < rows; r++)
        fsi__volume_reaction(couple, r);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < rows; j++)
            couple->E[i * rows + j] = (fsi_real)fsi_dot(columns, couple->G + (size_t)i * columns,
                                                        couple->KG + (size_t)j * columns);
    for (int b = 0; b < couple->bubbles; b++) {
        const fsi_bubble *bubble = couple->bubble + b;
        if (bubble->row >= 0)
            couple->E[bubble->row * rows + bubble->row] +=
                (fsi_real)(bubble->weight / (double)fsi__scale_of(couple));
    }
    (void)fsi__psd_factor((size_t)rows, couple->E, 1e4 * (double)FSI_REAL_EPS);
    return FSI_OK;
}

/* region_work: levels of pressure that make up for a flux into the kept volumes, E^-1 (sums of x
   over the felt regions / scale; what the bubbles' rows have without pressure). constant: the same
   by the number of the region in mg. */
static void fsi__regions_level(fsi_couple *couple, const fsi_mg *mg, const fsi_real *x,
                               fsi_real scale) {
    const size_t columns = (size_t)couple->columns;
    double *constant = couple->constant;
    fsi_real *level = couple->region_work;
    fsi_mg_region_sums(mg, x, constant);
    for (int r = 0; r < couple->regions; r++)
        level[r] = (fsi_real)constant[couple->region_of[r]] / scale;
    for (int b = 0; b < couple->bubbles; b++) {
        const fsi_bubble *bubble = couple->bubble + b;
        if (bubble->row < 0)
            continue;
        const fsi_real *G = couple->G + (size_t)bubble->row * columns;
        double solids = fsi_dot(columns, G, couple->free_answer);
        level[bubble->row] = (fsi_real)(bubble->rhs / (double)scale + solids);
    }

    fsi__psd_solve((size_t)couple->rows, couple->E, level);

    memset(constant, 0, (size_t)mg->regions * sizeof *constant);
    for (int r = 0; r < couple->regions; r++)
        constant[couple->region_of[r]] = (double)level[r];
}

/* Constants and bubbles' pressures that make up for the flux into the kept volumes, and what they
   do to the solids' answer and to the right-hand side. */
static void fsi__regions_start(fsi_couple *couple) {
    const size_t columns = (size_t)couple->columns;
    fsi_grid *grid = couple->grid;
    fsi_real scale = fsi__scale_of(couple);
    fsi_real *level = couple->region_work;
    int rows = couple->rows;
    if (!rows)
        return;

    /* The flux of the solids without pressure is in rhs for the regions. */
    fsi__regions_level(couple, grid->mg, grid->rhs, scale);
    fsi_fill(columns, 0, couple->reaction);
    for (int r = 0; r < rows; r++)
        fsi_axpy(columns, -level[r], couple->KG + (size_t)r * columns, couple->reaction);
    fsi_axpy(columns, 1, couple->reaction, couple->free_answer);
    fsi__z_add(couple, couple->reaction, scale, grid->rhs);
    for (int b = 0; b < couple->bubbles; b++) {
        fsi_bubble *bubble = couple->bubble + b;
        if (bubble->row < 0)
            continue;
        bubble->start = (double)level[bubble->row];
        fsi__bubble_add(couple, bubble, bubble->start, grid->rhs);
    }
}
#endif

#ifndef FSI_COUPLE_NO_GRID
/* ------------------------------------------------------------------------------------------------
 * >>bubbles */
/* A closed air region is one more unknown p_b, and its row takes in all of its boundary: liquid
   faces here, sides of solids in G (chapter monolithic, kept volumes). */

/* sum of w x over the faces of a bubble */
static double fsi__bubble_sum(const fsi_couple *couple, const fsi_bubble *bubble,
                              const fsi_real *x) {
    double sum = 0;
    for (int i = bubble->first; i < bubble->last; i++) {
        const fsi__bubble_face *face = couple->bubble_face + i;
        sum += (double)(face->w * x[face->cell]);
    }
    return sum;
}

/* y += w value on the faces of a bubble */
static void fsi__bubble_add(const fsi_couple *couple, const fsi_bubble *bubble, double value,
                            fsi_real *y) {
    for (int i = bubble->first; i < bubble->last; i++) {
        const fsi__bubble_face *face = couple->bubble_face + i;
        y[face->cell] += face->w * (fsi_real)value;
    }
}

/* Does this coupling have bubbles? */
static int fsi__bubbles_on(const fsi_couple *couple) {
    const fsi_grid *grid = couple->grid;
    if (!grid->region || couple->paper.solve_fn)
        return 0;

    return couple->desc.bubbles > 0
           || (couple->desc.bubbles == 0 && fsi__length(grid->desc.gravity) > 0);
}

/* ---- Which bubble is which: volumes are carried from step to step. */

/* Cells that went from each old bubble (row; the last: open air) to each new one (column; the last:
   all regions), [(olds + 1) * (bubbles + 1)]. */
static void fsi__bubble_count(const fsi_couple *couple, int olds, const int *number, int *share) {
    const fsi_grid *grid = couple->grid;
    int width = couple->bubbles + 1;
    memset(share, 0, (size_t)((olds + 1) * width) * sizeof *share);
    for (size_t cell = 0; cell < grid->cells; cell++) {
        int open = couple->bubble_cell[cell] == FSI__BUBBLE_OPEN;
        int old = open ? olds : couple->bubble_cell[cell] - 1;
        if (old < 0 || old > olds || grid->region[cell] < 0)
            continue;
        int b = number[grid->region[cell]] - 1;
        if (b >= 0)
            share[old * width + b]++;
        share[old * width + couple->bubbles]++;
    }
}

/* The bubble of most volume. */
static fsi_bubble *fsi__bubble_largest(const fsi_couple *couple) {
    fsi_bubble *largest = couple->bubble;
    for (int b = 1; b < couple->bubbles; b++)
        if (couple->bubble[b].volume > largest->volume)
            largest = couple->bubble + b;

    return largest;
}

/* A new region takes each old bubble's target in proportion to the cells it got from it; what
   opened to the air is gone. Bubbles that have become too small for the grid leave theirs to the
   largest, which also pays for pockets that came off unseen. */
static void fsi__bubble_targets(fsi_couple *couple, const fsi_bubble *old, int olds,
                                const int *share, int moved) {
    int width = couple->bubbles + 1;
    double lost = 0;
    for (int o = 0; o < olds; o++)
        if (!share[o * width + couple->bubbles])
            lost += old[o].target;
    int known = olds || share[olds * width + couple->bubbles];
    fsi_bubble *largest = fsi__bubble_largest(couple);
    double debt = 0;
    for (int b = 0; b < couple->bubbles; b++) {
        fsi_bubble *bubble = couple->bubble + b;
        double begin = bubble == largest ? lost : 0;
        double target = begin;
        double handed = 0;
        double bias = 0;
        int most = 0;
        for (int o = 0; o < olds; o++) {
            int cells = share[o * width + b];
            int total = share[o * width + couple->bubbles];
            if (!total)
                continue;
            if (cells > most) {
                most = cells;
                bubble->pressure = old[o].pressure;
                bubble->row = old[o].row;
                bubble->weight = old[o].weight;
            }
            double part = (double)cells / (double)total;
            target += old[o].target * part;
            handed += old[o].volume * part;
            bias += (old[o].bias + (moved ? old[o].swept : 0)) * part;
            bubble->swept += old[o].swept * part;
        }

        /* The grid counts whole cells of solids. What it counts differently since the solids have
           moved is no change of volume, nor is anything between solids alone; what it counts since
           the surface has moved is. */
        int solids = (moved && couple->settled) || !(bubble->weight > 0);
        if (solids && handed > 0)
            bias = bubble->volume - handed;
        bubble->bias = bias;
        bubble->volume -= bias;

        /* Without a past: air caught from outside is new. What opens within the liquid is a pocket
           that came off unseen if bubbles are asked for, else a void, which nothing keeps open. */
        int unseen = known && !share[olds * width + b];
        if (!(target > begin) && !(unseen && couple->desc.bubbles <= 0)) {
            target += bubble->volume;
            if (unseen)
                debt += bubble->volume;
        }
        bubble->target = target;
    }
    if (couple->bubbles)
        largest->target = fmax(largest->target - debt, largest->target / 2);
}

/* Is an air region a bubble? */
FSI__INLINE int fsi__bubble_is(const fsi_air_region *region) {
    return !region->open && region->cells > 0;
}

/* Lists the bubbles of the grid's air regions. Returns number[region]: its bubble + 1, or -1 for
   open air. moved: 1 when the solids have moved since the last solve. NULL: no memory. */
static const int *fsi__bubble_list(fsi_couple *couple, int moved) {
    const fsi_allocator *allocator = &couple->desc.allocator;
    const fsi_grid *grid = couple->grid;
    int olds = couple->bubbles;
    int count = 0;
    for (int r = 0; r < grid->region_count; r++)
        count += fsi__bubble_is(grid->regions + r);

    /* The old list moves behind the new one and the place of the open surface (bubble_match). */
    size_t shares = (size_t)(olds + 1) * (size_t)(count + 1);
    if (FSI__LIST_ROOM(couple->bubble, 2 * (olds + count) + 1, allocator) < 0)
        return NULL;
    if (FSI__LIST_ROOM(couple->bubble_share, shares + (size_t)grid->region_count, allocator) < 0)
        return NULL;

    fsi_bubble *old = couple->bubble + count + 1;
    memmove(old, couple->bubble, (size_t)olds * sizeof *old);
    int *number = couple->bubble_share + shares;

    couple->bubbles = 0;
    for (int r = 0; r < grid->region_count; r++) {
        number[r] = -1;
        if (!fsi__bubble_is(grid->regions + r))
            continue;
        fsi_bubble *bubble = couple->bubble + couple->bubbles++;
        memset(bubble, 0, sizeof *bubble);
        bubble->region = r;
        bubble->volume = grid->regions[r].volume;
        number[r] = couple->bubbles;
    }
    fsi__bubble_count(couple, olds, number, couple->bubble_share);
    fsi__bubble_targets(couple, old, olds, couple->bubble_share, moved);
    for (size_t cell = 0; cell < grid->cells; cell++) {
        int none = grid->cell[cell] == FSI_CELL_NEUMANN ? FSI__BUBBLE_SOLID : 0;
        couple->bubble_cell[cell] = grid->region[cell] < 0 ? none : number[grid->region[cell]];
    }

    return number;
}

/* ---- Volumes. The level set gains and loses volume by itself (a few 1e-5 of a bubble a step, per
   cents of the pieces when it breaks up). That is made good where it arises: the surface of every
   bubble moves by its own small shift until its volume is the target's, then the open surface's
   until the liquid's is. */

/* Volumes of the bubbles, and of the liquid in place of the open surface's (negative: it grows when
   the surface goes outward). */
static void fsi__bubble_volumes(fsi_couple *couple) {
    fsi_grid_air_volumes(couple->grid, couple->bubble_near);
    for (int b = 0; b < couple->bubbles; b++) {
        fsi_bubble *bubble = couple->bubble + b;
        bubble->volume = couple->grid->regions[bubble->region].volume - bubble->bias;
    }
    couple->bubble[couple->bubbles].volume = -couple->grid->stats.liquid_volume;
}

/* The bubble of an air region; after the last one stands the open surface. */
FSI__INLINE fsi_bubble *fsi__bubble_of(const fsi_couple *couple, const int *number, int region) {
    return couple->bubble + (number[region] < 0 ? couple->bubbles : number[region] - 1);
}

/* The surfaces of the bubbles, and the open one, move outward by their last step; at the end
   (markers) the markers by the whole shift. */
static void fsi__bubble_shift(fsi_couple *couple, const int *number, int markers) {
    fsi_grid *grid = couple->grid;
    for (int r = 0; r < grid->region_count; r++) {
        const fsi_bubble *bubble = fsi__bubble_of(couple, number, r);
        grid->regions[r].shift = markers ? bubble->shift : bubble->step;
    }
    if (markers)
        fsi_grid_shift_markers(grid, couple->bubble_near);
    else
        fsi_grid_shift_phi(grid, couple->bubble_near);
}

/* The least volume that the grid can hold, m^3. */
static double fsi__bubble_least(const fsi_couple *couple) {
    double cell = (double)couple->grid->h * (double)fsi__area(&couple->iface);
    return (couple->iface.dim == 3 ? 8 : 4) * cell;
}

/* Pieces too small for the grid to hold, and from the third pass on all that are still off, are
   left alone; the largest bubble makes up for them. */
static void fsi__bubble_lend(fsi_couple *couple, int pass) {
    double least = pass > 1 ? (double)FSI_REAL_MAX : fsi__bubble_least(couple);
    fsi_bubble *largest = fsi__bubble_largest(couple);
    for (int b = 0; b < couple->bubbles; b++) {
        fsi_bubble *bubble = couple->bubble + b;
        if (bubble == largest || bubble->volume >= least)
            continue;
        largest->target += bubble->target - bubble->volume;
        bubble->target = bubble->volume;
    }
}

/* A secant step of one surface towards its volume, by at most a tenth of a cell in all. */
static void fsi__bubble_secant(fsi_bubble *bubble, double h) {
    double most = 0.1 * h;
    if (fabs(bubble->step) > 1e-9 * h) {
        double area = (bubble->before - bubble->volume) / bubble->step;
        if (area > 0.1 * bubble->area)
            bubble->area = area;
    }
    bubble->before = bubble->volume;
    bubble->step = 0;
    if (bubble->area > 0) {
        double wanted = bubble->shift + (bubble->volume - bubble->target) / bubble->area;
        bubble->step = fmin(fmax(wanted, -most), most) - bubble->shift;
    }
    bubble->shift += bubble->step;
}

/* Shifts all surfaces until the volumes are right. */
static void fsi__bubble_match(fsi_couple *couple, const int *number, int pass) {
    fsi_grid *grid = couple->grid;
    fsi_bubble *open = couple->bubble + couple->bubbles;
    memset(open, 0, sizeof *open);
    open->target = -grid->levelset.state->target;
    for (int b = 0; b < couple->bubbles; b++) {
        couple->bubble[b].area = couple->bubble[b].shift = couple->bubble[b].step = 0;

        /* What the grid counts beyond a bubble's volume it counts less of the liquid. */
        open->target += couple->bubble[b].bias;
    }
    for (size_t cell = 0; cell < grid->cells; cell++) {
        int region = couple->bubble_near[cell] - 1;
        if (fsi__abs(grid->phi[cell]) < 2 * grid->h && region >= 0)
            fsi__bubble_of(couple, number, region)->area += (double)fsi__area(&couple->iface) / 4;
    }
    int count = couple->bubbles + (grid->desc.volume_correction >= 0);
    for (int round = 0; round < 4; round++) {
        fsi__bubble_volumes(couple);
        fsi__bubble_lend(couple, pass);
        for (int b = 0; b < count; b++)
            fsi__bubble_secant(couple->bubble + b, (double)grid->h);
        fsi__bubble_shift(couple, number, 0);
    }
    fsi__bubble_shift(couple, number, 1);
}

/* Is the volume of this bubble kept? One without a row has what the liquid around it leaves, and is
   left alone unless bubbles are asked for; one between solids alone has no surface to move. */
FSI__INLINE int fsi__bubble_kept(const fsi_couple *couple, const fsi_bubble *bubble) {
    return bubble->weight > 0 && (bubble->row >= 0 || couple->desc.bubbles > 0);
}

/* After the surface has moved: all bubbles get their volumes back. */
static fsi_result fsi__bubble_settle(fsi_couple *couple) {
    fsi_grid *grid = couple->grid;
    int kept = 0;
    for (int b = 0; b < couple->bubbles; b++)
        kept += fsi__bubble_kept(couple, couple->bubble + b);
    if (!kept)
        return FSI_OK;

    fsi_result result = FSI__LIST_ROOM(couple->bubble_near, grid->cells, &couple->desc.allocator);
    if (result < 0)
        return result;

    /* Again where a shift has parted or joined what it moved. */
    couple->settled = 1;
    for (int pass = 0; pass < 6; pass++) {
        if ((result = fsi_grid_classify(grid)) < 0)
            return result;

        const int *number = fsi__bubble_list(couple, 0);
        if (!number)
            return FSI_ERR_MEMORY;

        for (int b = 0; b < couple->bubbles; b++)
            if (couple->bubble[b].target > 0 && !fsi__bubble_kept(couple, couple->bubble + b))
                couple->bubble[b].target = couple->bubble[b].volume;
        fsi__bubble_lend(couple, pass);
        double off = 0;
        double all = 0;
        for (int b = 0; b < couple->bubbles; b++) {
            off += fabs(couple->bubble[b].volume - couple->bubble[b].target);
            all += couple->bubble[b].target;
        }
        if (pass == 5 || (pass && off < 1e-3 * all))
            break;
        fsi_grid_air_near(grid, couple->bubble_near);
        fsi__bubble_match(couple, number, pass);
    }
    return FSI_OK;
}

/* ---- The rows of the bubbles in the pressure system. */

/* The face of air cell n in a direction (2 axis + up), when there is liquid behind it. */
static int fsi__bubble_face_at(const fsi_couple *couple, size_t n, int dir, fsi__bubble_face *out) {
    const fsi_grid *grid = couple->grid;
    int at[3];
    size_t face;
    fsi__cell_ijk(&couple->iface, n, at);
    ptrdiff_t other = fsi__beside(&couple->iface, at, dir, &face);
    if (other < 0 || grid->cell[other] != FSI_CELL_FLUID)
        return 0;

    out->face = (int32_t)face;
    out->cell = (int32_t)other;
    out->axis = (int8_t)(dir / 2);
    out->sign = (int8_t)(dir % 2 ? 1 : -1);
    out->w = grid->weight[out->axis][face];
    return out->w > 0;
}

/* Faces of all bubbles, those of one after the other: counted, then listed. */
static fsi_result fsi__bubble_faces(fsi_couple *couple) {
    for (int b = 0; b < couple->bubbles; b++)
        couple->bubble[b].first = couple->bubble[b].last = 0;
    for (int listing = 0; listing < 2; listing++) {
        for (size_t n = 0; n < couple->grid->cells; n++) {
            if (couple->bubble_cell[n] <= 0)
                continue;
            fsi_bubble *bubble = couple->bubble + (couple->bubble_cell[n] - 1);
            for (int dir = 0; dir < 2 * couple->iface.dim; dir++) {
                fsi__bubble_face face;
                if (!fsi__bubble_face_at(couple, n, dir, &face))
                    continue;
                if (listing)
                    couple->bubble_face[bubble->last] = face;
                bubble->last++;
            }
        }
        if (listing)
            break;
        int count = 0;
        for (int b = 0; b < couple->bubbles; b++) {
            int faces = couple->bubble[b].last;
            couple->bubble[b].first = couple->bubble[b].last = count;
            count += faces;
        }
        fsi_result result = FSI__LIST_ROOM(couple->bubble_face, count, &couple->desc.allocator);
        if (result < 0)
            return result;
    }
    return FSI_OK;
}

/* Numbers what is connected by liquid and bubbles from one cell on: bubble_near = number. Returns 1
   if it touches open air or an open side of the box. */
static int fsi__component_flood(fsi_couple *couple, size_t start, int32_t number) {
    const fsi_interface *iface = &couple->iface;
    const fsi_grid *grid = couple->grid;
    int32_t *stack = couple->component_stack;
    size_t top = 0;
    int open = 0;
    stack[top++] = (int32_t)start;
    couple->bubble_near[start] = number;
    while (top) {
        int at[3];
        fsi__cell_ijk(iface, (size_t)stack[--top], at);
        for (int dir = 0; dir < 2 * iface->dim; dir++) {
            size_t face;
            ptrdiff_t other = fsi__beside(iface, at, dir, &face);
            if (other < 0) {
                open |= grid->desc.side[dir].kind == FSI_SIDE_OPEN;
                continue;
            }
            int wet = grid->cell[other] == FSI_CELL_FLUID || couple->bubble_cell[other] > 0;
            if (!(iface->open[dir / 2][face] > 0) || couple->bubble_near[other])
                continue;
            open |= couple->bubble_cell[other] == FSI__BUBBLE_OPEN;
            if (!wet)
                continue;
            couple->bubble_near[other] = number;
            stack[top++] = (int32_t)other;
        }
    }
    return open;
}

/* Is a cell outside a part of liquid and bubbles, where there is room to give? A pocket of liquid
   has none. */
static int fsi__component_misses(const fsi_couple *couple, size_t cell, int32_t component) {
    if (couple->iface.covered[cell] || couple->bubble_near[cell] == component)
        return 0;
    return fsi_mg_region(couple->grid->mg, cell) < 0;
}

/* The part of one face that a solid turns to what is outside a part of liquid and bubbles. */
static void fsi__facing_add(const fsi_couple *couple, int32_t component, int axis, int32_t face,
                            fsi_real share, fsi_real *facing) {
    size_t minus, plus;
    fsi__face_cells(&couple->iface, axis, (size_t)face, &minus, &plus);
    facing[axis] += share * (fsi_real)fsi__component_misses(couple, minus, component);
    facing[axis] -= share * (fsi_real)fsi__component_misses(couple, plus, component);
}

/* Does this solid bound a part of liquid and bubbles against something else, like a lid? One that
   lies within the part does not, even where it rests on a wall: what its sides there lack is a film
   whose volume the grid does not know. The faces it turns to the rest must not add up to zero, as
   those of a cavity do. */
static int fsi__solid_divides(const fsi_couple *couple, int solid, int32_t component) {
    const fsi_interface *iface = &couple->iface;
    int cut = iface->desc.boundary == FSI_BOUNDARY_CUT && iface->solid[solid]->surface.closed;
    fsi_real facing[3] = FSI__ZERO; /* in faces */
    for (int i = 0; cut && i < iface->cuts; i++) {
        const fsi_cut *face = iface->cut + i;
        if (face->solid == solid)
            fsi__facing_add(couple, component, face->axis, face->face, face->share, facing);
    }
    for (int i = 0; !cut && i < iface->crossings; i++) {
        const fsi_crossing *face = iface->crossing + i;
        if (face->solid == solid)
            fsi__facing_add(couple, component, face->axis, face->face, 1, facing);
    }
    const fsi_real slivers = FSI_R(0.1);
    return fsi__abs(facing[0]) + fsi__abs(facing[1]) + fsi__abs(facing[2]) > slivers;
}

/* Can solids change the volume of a part that they seal off? */
static int fsi__component_felt(fsi_couple *couple, int32_t component, double noise) {
    if (!fsi__volume_felt(couple, couple->bubble_near, component, noise))
        return 0;

    int felt = 0;
    for (int s = 0; s < couple->iface.solids; s++) {
        const fsi__solid_block *block = couple->block + s;
        double row = fsi_norm((size_t)block->columns, couple->answer + block->offset);
        felt = felt || (row > 0 && fsi__solid_divides(couple, s, component));
    }
    return felt;
}

/* Which bubbles get a row? Those that liquid or solids can change. Where liquid and bubbles are
   sealed off together and no solid changes the volume of the whole, the rows add up to zero: the
   largest bubble goes without, and its pressure is zero. */
static fsi_result fsi__bubble_rows(fsi_couple *couple) {
    const double noise = 1e-2; /* slivers of faces are left out of the sides */
    const size_t cells = couple->grid->cells;
    const fsi_allocator *allocator = &couple->desc.allocator;
    fsi_result result = FSI__LIST_ROOM(couple->bubble_near, cells, allocator);
    if (result < 0)
        return result;
    if ((result = FSI__LIST_ROOM(couple->component_stack, cells, allocator)) < 0)
        return result;

    int32_t components = 0;
    int *level = couple->bubble_share; /* by component: -1 or the bubble without a row */
    memset(couple->bubble_near, 0, cells * sizeof *couple->bubble_near);
    for (size_t cell = 0; cell < cells; cell++) {
        if (couple->bubble_cell[cell] <= 0)
            continue;
        fsi_bubble *bubble = couple->bubble + (couple->bubble_cell[cell] - 1);
        if (!couple->bubble_near[cell]) {
            components++;
            int free_air = fsi__component_flood(couple, cell, components);
            int whole = free_air || fsi__component_felt(couple, components, noise);
            level[components - 1] = whole ? -1 : couple->bubble_cell[cell] - 1;
        }
        bubble->component = couple->bubble_near[cell] - 1;
    }
    for (int b = 0; b < couple->bubbles; b++) {
        int *dropped = level + couple->bubble[b].component;
        if (*dropped >= 0 && couple->bubble[b].volume > couple->bubble[*dropped].volume)
            *dropped = b;
    }
    for (int b = 0; b < couple->bubbles; b++) {
        fsi_bubble *bubble = couple->bubble + b;
        int felt =
            bubble->weight > 0 || fsi__volume_felt(couple, couple->bubble_cell, b + 1, noise);
        int level_of_all = level[bubble->component] == b;
        bubble->row = felt && bubble->target > 0 && !level_of_all ? 0 : -1;
    }
    return FSI_OK;
}

/* The row of every bubble: its liquid faces and their flux. */
static fsi_result fsi__bubble_build(fsi_couple *couple, fsi_real dt) {
    const fsi_grid *grid = couple->grid;
    double h = (double)grid->h;
    double area = (double)fsi__area(&couple->iface);
    if (!couple->bubbles)
        return FSI_OK;

    fsi_result result = fsi__bubble_faces(couple);
    if (result < 0)
        return result;

    for (int b = 0; b < couple->bubbles; b++) {
        fsi_bubble *bubble = couple->bubble + b;
        double flux = 0; /* out of the bubble */
        bubble->weight = 0;
        for (int i = bubble->first; i < bubble->last; i++) {
            const fsi__bubble_face *face = couple->bubble_face + i;
            double open = (double)couple->iface.open[face->axis][face->face];
            flux += open * face->sign * (double)grid->u[face->axis][face->face];
            bubble->weight += (double)face->w;
        }

        /* Its volume has to grow by what fsi__bubble_settle could not mend. */
        double most = bubble->volume < fsi__bubble_least(couple) ? 0 : 0.03 * bubble->volume;
        double growth = fmin(fmax(bubble->target - bubble->volume, -most), most);
        bubble->rhs = -(double)grid->desc.rho * h * (flux - growth / (double)dt / area);
        bubble->start = bubble->hat = 0;
    }
    return fsi__bubble_rows(couple);
}

/* Pressures of the bubbles after the solve, which the grid reads when it takes the gradient, and
   the room that the solids will make for them. */
static void fsi__bubble_finish(fsi_couple *couple, fsi_real dt) {
    fsi_grid *grid = couple->grid;
    const fsi_interface *iface = &couple->iface;
    for (int b = 0; b < couple->bubbles; b++) {
        fsi_bubble *bubble = couple->bubble + b;
        bubble->pressure = (fsi_real)(bubble->start + bubble->hat) / dt;
        bubble->swept = 0;
    }
    for (int i = 0; couple->bubbles && i < iface->sides; i++) {
        const fsi_side *side = iface->side + i;
        if (side->air)
            couple->bubble[couple->bubble_cell[side->cell] - 1].swept -=
                (double)(dt * fsi__side_area(iface, side) * couple->side_velocity[i]);
    }
    for (int b = 0; b < couple->bubbles; b++)
        couple->bubble[b].bias -= couple->bubble[b].swept;
    for (size_t cell = 0; couple->bubbles && cell < grid->cells; cell++)
        if (couple->bubble_cell[cell] > 0)
            grid->pressure[cell] = couple->bubble[couple->bubble_cell[cell] - 1].pressure * dt;
    couple->settled = 0;
}
#endif

#ifndef FSI_COUPLE_NO_GRID
/* ------------------------------------------------------------------------------------------------
 * >>coupled solvers */
/* Sigma p^ = rhs by conjugate gradients. The default takes the columns Z of the dense solids
   through the V-cycle (fsi_mg_rank), so that it needs as many iterations as the fluid alone. */

/* The largest diagonal entry of K^-1 Z^T Z against a face's weight: at most 2 with voxel faces,
   whose mass is in K; with cut cells it is the mass of the fluid at the surface over the body's. */
static double fsi__stiffness(const fsi_couple *couple) {
    double most = 0;
    for (int s = 0; s < couple->iface.solids; s++) {
        const fsi__solid_block *block = couple->block + s;
        if (block->door->node)
            continue;
        const fsi_real *L = block->K;
        int columns = block->columns;
        for (int k = 0; k < columns; k++) {
            double K = 0;
            for (int j = 0; j <= k; j++)
                K += (double)L[j] * (double)L[j];
            L += k + 1;
            double z2 = 0;
            for (int i = block->first; i < block->last; i++) {
                double z = (double)fsi__side_z(&couple->iface, fsi__side_of(couple, i))
                           * (double)couple->q[couple->row[i] + (size_t)k];
                z2 += z * z;
            }
            most = fmax(most, (double)fsi__scale_of(couple) * z2 / K);
        }
    }
    return most;
}

/* How far columns have to spread: what is cut off falls by about ten with every cell, and K^-1
   multiplies it. */
static int fsi__rank_reach(const fsi_couple *couple) {
    double most = fsi__stiffness(couple);
    return most > 2.5 ? 3 + (int)fmin(log10(most), 30) : 0;
}

/* The columns of the dense solids for the V-cycle. */
static fsi_result fsi__rank_build(fsi_couple *couple) {
    const fsi_interface *iface = &couple->iface;
    for (int s = 0; s < iface->solids; s++) {
        const fsi__solid_block *block = couple->block + s;
        fsi_mg_bundle *bundle = couple->bundle + s;
        memset(bundle, 0, sizeof *bundle);
        if (block->door->node)
            continue;
        int first = block->first;
        bundle->columns = block->columns;
        bundle->entries = bundle->columns ? block->last - first : 0;
        bundle->cell = couple->side_cell + first;
        bundle->factor = couple->side_factor + first;
        bundle->val = bundle->entries ? couple->q + couple->row[first] : NULL;
        bundle->L = block->K;
        bundle->unit = 1 / fsi__scale_of(couple);
    }

    /* As far as a V-cycle can spread anything: nothing is cut off. */
    int full = 2 * (couple->grid->mg->sweeps + couple->grid->mg->band) + 3;
    if (couple->solver == FSI_COUPLE_WOODBURY)
        couple->rank.reach = full;
    else if (couple->desc.band)
        couple->rank.reach = couple->desc.band;
    else
        couple->rank.reach = fsi__imin(fsi__rank_reach(couple), full);
    fsi_result result =
        fsi_mg_rank_build(&couple->rank, couple->grid->mg, couple->bundle, iface->solids);

    /* Columns that have lost definiteness: the plain V-cycle has to do. */
    return result == FSI_ERR_SINGULAR ? FSI_OK : result;
}

/* Relative residual at which a solve ends. */
static double fsi__tolerance(const fsi_couple *couple) {
    return couple->desc.tolerance > 0 ? couple->desc.tolerance : couple->grid->desc.tolerance;
}

/* out = rhs in the fluid cells, 0 elsewhere. */
static void fsi__fluid_rhs(const fsi_couple *couple, fsi_real *out) {
    const fsi_grid *grid = couple->grid;
    for (size_t i = 0; i < grid->cells; i++)
        out[i] = grid->cell[i] == FSI_CELL_FLUID ? grid->rhs[i] : 0;
}

/* out = rhs - L_N p^ + Z a in the fluid cells, with a the answer: what is left to solve. */
static void fsi__sigma_residual(fsi_couple *couple, fsi_real *out) {
    const fsi_grid *grid = couple->grid;
    fsi_mg_apply(grid->mg, grid->pressure, out);
    fsi__ghosts_add(couple, grid->pressure, out);
    for (size_t i = 0; i < grid->cells; i++)
        out[i] = grid->cell[i] == FSI_CELL_FLUID ? grid->rhs[i] - out[i] : 0;
    fsi__z_add(couple, couple->answer, fsi__scale_of(couple), out);
    for (int b = 0; b < couple->bubbles; b++)
        fsi__bubble_add(couple, couple->bubble + b, couple->bubble[b].hat, out);
}

/* Single precision: rounding of p times K^-1 Z^T is a large velocity for a light solid. The solids'
   answer a is kept beside p and improved with it: Sigma x = rhs - L_N p + Z a, p += x, a -= K^-1
   Z^T x. What rounding of x does to a shrinks with x. */
static fsi_result fsi__sigma_refine(fsi_couple *couple, fsi_mg_solve_desc *desc,
                                    fsi_report *report) {
    fsi_grid *grid = couple->grid;
    fsi_real *residual = couple->cell_residual;
    fsi_real *step = couple->cell_step;
    double limit = fmax(fsi__tolerance(couple) * fsi_norm(grid->cells, grid->rhs), couple->noise);
    double last = 0;
    int cap = desc->max_iterations;
    for (int pass = 0; pass < 4; pass++) {
        fsi__sigma_residual(couple, residual);
        double size = fsi_norm(grid->cells, residual);
        if (!(size > 2 * limit) || (pass && size > last / 2))
            return FSI_OK;

        last = size;

        desc->tolerance = fmin(fmax(limit / size, 1e-3), 0.1);
        desc->guess = 0;
        desc->max_iterations = cap - report->iterations;
        if (desc->max_iterations < 1)
            return FSI_NOT_CONVERGED;

        fsi_fill(grid->cells, 0, step);
        fsi_report more;
        fsi_result result = fsi_mg_solve(grid->mg, desc, residual, step, &more);
        if (result < 0)
            return result;

        fsi_axpy(grid->cells, 1, step, grid->pressure);
        fsi__answer(couple, step, couple->answer);
        report->iterations += more.iterations;
        report->residual = more.residual;
    }
    return FSI_OK;
}

/* Does the V-cycle take the solids' columns along? */
static int fsi__ranked(const fsi_couple *couple) {
    fsi_couple_solver solver = couple->solver;
    int known = solver == FSI_COUPLE_DEFLATED || solver == FSI_COUPLE_WOODBURY;
    return known && (couple->columns || couple->bubbles);
}

/* AUTO. Prices in ns on one core, measured once (docs/performance.md): only their ratios count.
   Columns through the V-cycle: each of them, and each pair. Without them: iterations, which grow
   with the square root of the stiffness. A budget must not go into set-up. A few columns always
   pay. */
static fsi_couple_solver fsi__solver_choose(const fsi_couple *couple) {
    const fsi_couple_desc *desc = &couple->desc;
    if (desc->solver != FSI_COUPLE_AUTO)
        return desc->solver;

    double columns = 0;
    for (int s = 0; s < couple->iface.solids; s++)
        columns += couple->block[s].door->node ? 0 : couple->block[s].columns;
    if (columns < 100)
        return FSI_COUPLE_DEFLATED;

    double each = couple->iface.dim == 3 ? 6e5 : 6e4;
    double set_up = columns * (each + 220 * columns);
    double iteration = 18 * (double)couple->grid->cells;
    double plain = iteration * (12 * sqrt(1 + fsi__stiffness(couple)) - 6);
    if (desc->max_iterations)
        plain = fmin(plain, iteration * desc->max_iterations);
    if (desc->seconds > 0)
        plain = fmin(plain, 5e8 * desc->seconds);
    return set_up > plain ? FSI_COUPLE_NEUMANN : FSI_COUPLE_DEFLATED;
}

/* What the solves of one system share: kept volumes (closed regions, bubbles) and what the
   preconditioner needs beside the grid's V-cycle. regions and rows are 0 before. */
static fsi_result fsi__sigma_build(fsi_couple *couple) {
    fsi_result result;
    couple->solver = fsi__solver_choose(couple);
    if (couple->paper.solve_fn)
        return FSI_OK;
    if (couple->paper.build_fn && (result = couple->paper.build_fn(couple)) < 0)
        return result;
    if ((result = fsi__regions_build(couple)) < 0)
        return result;

    return fsi__ranked(couple) ? fsi__rank_build(couple) : FSI_OK;
}

/* Sigma p^ = rhs, and all velocities that follow from it; after fsi__sigma_build. */
static fsi_result fsi__sigma_solve(fsi_couple *couple, fsi_report *report) {
    if (couple->paper.solve_fn)
        return couple->paper.solve_fn(couple, report);

    fsi_grid *grid = couple->grid;
    fsi_mg_solve_desc desc = FSI__ZERO;
    desc.tolerance = fsi__tolerance(couple);
    desc.tolerance_abs = couple->noise;
    desc.max_iterations =
        couple->desc.max_iterations ? couple->desc.max_iterations : grid->desc.max_iterations;
    desc.clock_fn = couple->desc.clock_fn;
    desc.clock_user = couple->desc.clock_user;
    desc.seconds = couple->desc.seconds;
    if (desc.seconds > 0 && desc.clock_fn)
        desc.seconds = fmax(desc.seconds + couple->begun - desc.clock_fn(desc.clock_user), 1e-9);
    desc.guess = couple->desc.warm_start;
    if (!couple->desc.warm_start)
        fsi_fill(grid->cells, 0, grid->pressure);

    /* The solids' v* and k go to the right-hand side. */
    fsi__mono_rhs(couple);
    fsi__z_add(couple, couple->free_answer, fsi__scale_of(couple), grid->rhs);
    fsi__fluid_rhs(couple, grid->rhs);
    fsi__regions_start(couple);

    /* What there is beside the fluid. */
    desc.rank = fsi__ranked(couple) ? &couple->rank : NULL;
    desc.extra.user = desc.precondition.user = couple;
    if (couple->columns || couple->bubbles || couple->ghosts.apply_fn) {
        desc.extra.apply_fn = fsi__extra;
        desc.precondition.apply_fn = couple->paper.cycle_fn;
    }

    /* In single precision the last digits come from fsi__sigma_refine. */
    double tolerance = desc.tolerance;
    if (sizeof(fsi_real) == 4 && couple->columns && !couple->paper.cycle_fn)
        desc.tolerance = fmax(desc.tolerance, 1e-3);
    fsi_result result = fsi_mg_solve(grid->mg, &desc, grid->rhs, grid->pressure, report);
    if (result < 0)
        return result;

    fsi__answer(couple, grid->pressure, NULL);
    if (desc.tolerance > tolerance && result != FSI_NOT_CONVERGED) {
        fsi_result refined = fsi__sigma_refine(couple, &desc, report);
        if (refined != FSI_OK)
            result = refined;
        if (result < 0)
            return result;
    }
    fsi__mono_finish(couple, grid->pressure);
    return result;
}

/* ---- The coupled solve. */

static void fsi__clear_impulses(const fsi_interface *iface) {
    for (int s = 0; s < iface->solids; s++) {
        const fsi_coupled *door = iface->solid[s];
        if (door->impulse && door->dof)
            fsi_fill((size_t)door->dof, 0, door->impulse);
    }
}

/* The solids' generalised impulses gain -J^T lambda. */
static void fsi__add_impulses(const fsi_couple *couple) {
    const fsi_interface *iface = &couple->iface;
    for (int i = 0; i < iface->sides; i++) {
        const fsi_side *side = iface->side + i;
        fsi_real *impulse = iface->solid[side->solid]->impulse;
        if (impulse)
            fsi__side_push(iface, side, -couple->lambda[i], impulse);
    }
}

/* Velocities of all solids, one after the other, into `to`; and back from there. */
static void fsi__solids_keep(const fsi_interface *iface, fsi_real *to) {
    for (int s = 0; s < iface->solids; s++) {
        fsi_copy((size_t)iface->solid[s]->dof, iface->solid[s]->v, to);
        to += iface->solid[s]->dof;
    }
}

static void fsi__solids_return(const fsi_interface *iface, const fsi_real *from) {
    for (int s = 0; s < iface->solids; s++) {
        fsi_copy((size_t)iface->solid[s]->dof, from, iface->solid[s]->v);
        from += iface->solid[s]->dof;
    }
}

/* What free rigid and reduced solids gained less what the fluid gave: M (v - v*) - impulse, linear
   momentum. */
static void fsi__ledger_end(const fsi_couple *couple, fsi_report *report) {
    const fsi_interface *iface = &couple->iface;
    const fsi_real *before = couple->v_before;
    for (int s = 0; s < iface->solids; s++) {
        const fsi_coupled *door = iface->solid[s];
        int rigid = !door->node && door->dof >= 6 && door->mass && door->impulse;
        int is_free = couple->block[s].columns == door->dof - (iface->dim == 2 ? 3 : 0);
        for (int k = 0; rigid && is_free && k < iface->dim; k++) {
            double gained = -(double)door->impulse[k];
            for (int i = 0; i < door->dof; i++)
                gained += (double)door->mass[k * door->dof + i] * (double)(door->v[i] - before[i]);
            report->momentum[k] += gained;
        }
        before += door->dof;
    }
}

/* The fluid's matrix and right-hand side, sides and rows of the solids, rows of the bubbles. */
static fsi_result fsi__mono_begin(fsi_couple *couple, fsi_real dt) {
    fsi_grid *grid = couple->grid;
    fsi_interface *iface = &couple->iface;
    fsi_result result;
    if ((result = fsi_grid_classify(grid)) < 0)
        return result;

    /* The air that pushes back has sides at the solids, too. */
    if (!fsi__bubbles_on(couple))
        couple->bubbles = 0;
    else if (!fsi__bubble_list(couple, 1))
        return FSI_ERR_MEMORY;
    iface->bubble_cell = couple->bubbles ? couple->bubble_cell : NULL;
    if ((result = fsi_interface_sides(iface, grid)) < 0)
        return result;
    if ((result = fsi__mono_rows(couple)) < 0)
        return result;

    /* The solids' part of the divergence is in Z: the grid sees walls at rest. */
    if ((result = fsi__sides_at_rest(iface, grid, dt, couple->side_velocity)) < 0)
        return result;

    return fsi__bubble_build(couple, dt);
}

FSI_API fsi_result fsi_couple_solve(fsi_couple *couple, fsi_real dt, fsi_report *report) {
    if (!couple || !couple->grid)
        return FSI_ERR_STATE;
    if (!fsi__positive(dt))
        return FSI_ERR_ARGUMENT;

    fsi_result result = fsi__paper_solver(couple);
    if (result < 0)
        return result;

    fsi_report rep = FSI__ZERO;
    couple->regions = couple->rows = 0;
    couple->dt = (double)dt;
    if (couple->desc.seconds > 0 && couple->desc.clock_fn)
        couple->begun = couple->desc.clock_fn(couple->desc.clock_user);

    /* 1. The system. */
    if ((result = fsi__mono_begin(couple, dt)) < 0)
        return result;

    /* 2. Pressures and velocities. */
    fsi__solids_keep(&couple->iface, couple->v_before);
    if ((result = fsi__sigma_build(couple)) >= 0)
        result = fsi__sigma_solve(couple, &rep);
    if (result < 0)
        return result;
    if (result == FSI_OK && !couple->grid->mg->fluid)
        result = FSI_EMPTY;

    /* 3. Solids take impulses, the fluid takes pressures. */
    fsi__clear_impulses(&couple->iface);
    fsi__add_impulses(couple);
    fsi__ledger_end(couple, &rep);
    fsi__bubble_finish(couple, dt);
    rep.reason = result;
    if ((result = fsi__sides_write(&couple->iface, couple->grid, couple->side_velocity)) < 0)
        return result;
    if (couple->regions)
        fsi_mg_region_add(couple->grid->mg, couple->constant, couple->grid->pressure);

    couple->report = rep;
    if (report)
        *report = rep;

    return rep.reason;
}

/* ---- Questions after the solve. */

/* Mean of the vertices of a surface, or of the corners of elements first .. last - 1 of it. */
static fsi_vec3 fsi__surface_middle(const fsi_surface *surface, int first, int last) {
    fsi_vec3 sum = FSI__ZERO;
    int all = first == 0 && last == surface->element_count;
    int count = all ? surface->vertex_count : surface->dim * (last - first);
    for (int i = 0; i < count; i++) {
        int vertex = all ? i : surface->index[surface->dim * first + i];
        sum = fsi_vec_add(sum, fsi_surface_place(surface, vertex));
    }
    return count ? fsi_vec_scale(sum, 1 / (fsi_real)count) : sum;
}

/* Submerged volume of elements first .. last - 1 of a solid's surface, closed by themselves. */
static double fsi__part_submerged(const fsi_couple *couple, int solid, int first, int last) {
    const fsi_surface *surface = &couple->iface.solid[solid]->surface;
    if (first == 0 && last == surface->element_count)
        return couple->iface.submerged[solid];

    fsi_real lo[3] = {FSI_REAL_MAX, FSI_REAL_MAX, FSI_REAL_MAX};
    fsi_real hi[3] = {-FSI_REAL_MAX, -FSI_REAL_MAX, -FSI_REAL_MAX};
    for (int i = surface->dim * first; i < surface->dim * last; i++) {
        fsi_vec3 x = fsi_surface_place(surface, surface->index[i]);
        for (int k = 0; k < 3; k++) {
            lo[k] = fsi__min(lo[k], fsi__get(x, k));
            hi[k] = fsi__max(hi[k], fsi__get(x, k));
        }
    }
    fsi_surface part = *surface;
    part.index += surface->dim * first;
    part.element_count = last - first;
    return fsi__submerged(&couple->iface, couple->grid, &part, lo, hi);
}

/* The report of elements first .. last - 1 of a solid's surface. */
static void fsi__body_part(const fsi_couple *couple, int solid, int first, int last,
                           fsi_body_report *out) {
    const fsi_interface *iface = &couple->iface;
    const fsi__solid_block *block = couple->block + solid;
    memset(out, 0, sizeof *out);
    out->about = fsi__surface_middle(&block->door->surface, first, last);
    out->submerged = fsi__part_submerged(couple, solid, first, last);
    for (int i = block->first; i < block->last; i++) {
        const fsi_side *side = fsi__side_of(couple, i);
        if (side->element < first || side->element >= last)
            continue;
        fsi_real size = -couple->lambda[couple->by_solid[i]] / (fsi_real)couple->dt;
        fsi_vec3 force = fsi_vec_scale(fsi__axis(side->axis), size);
        fsi_vec3 arm = fsi_vec_sub(fsi_interface_centre(iface, side), out->about);
        out->force = fsi_vec_add(out->force, force);
        out->torque = fsi_vec_add(out->torque, fsi_vec_cross(arm, force));
        out->sides++;
    }
}

FSI_API fsi_result fsi_couple_body(const fsi_couple *couple, int solid, fsi_body_report *out) {
    if (!couple || !couple->grid || !out)
        return FSI_ERR_ARGUMENT;
    if (solid < 0 || solid >= couple->iface.solids || !(couple->dt > 0))
        return FSI_ERR_ARGUMENT;

    fsi__body_part(couple, solid, 0, couple->iface.solid[solid]->surface.element_count, out);
    return FSI_OK;
}

/* The result of a step: what the solve says, else the solids' move, else whether the fluid moved
   further than advised. */
static fsi_result fsi__step_result(const fsi_grid *grid, fsi_result solve, fsi_result move) {
    int solved = solve == FSI_OK || (solve == FSI_EMPTY && move != FSI_OK);
    fsi_result result = solved ? move : solve;
    int too_long = grid->stats.cfl > (double)grid->desc.cfl;
    return result == FSI_OK && too_long ? FSI_DT_TOO_LARGE : result;
}

/* Does something beside gravity and solids push the fluid? Its work is not in the account. */
static int fsi__others_push(const fsi_grid *grid) {
    const fsi_grid_desc *desc = &grid->desc;
    int inflow = 0;
    for (int side = 0; side < 2 * grid->dim; side++)
        inflow |= desc->side[side].kind == FSI_SIDE_INFLOW;
    int buoyant = desc->buoyancy_density != 0 || desc->buoyancy_temperature != 0;
    return inflow || buoyant || desc->force_fn || desc->confinement != 0 || grid->source_count;
}

/* FSI_GAINED in place of a milder result when more energy came from nowhere than FSI_GAIN of what
   there was and what was put in, and than all fluid has that moves a thousandth of a cell a step.
 */
static fsi_result fsi__gain_result(const fsi_grid *grid, fsi_real dt, fsi_report *report) {
    double speed = 1e-3 * (double)(grid->h / dt);
    double cell = (double)(grid->h * grid->h * (grid->dim == 3 ? grid->h : 1));
    double least = (double)grid->desc.rho * cell * (double)grid->cells * speed * speed / 2;
    double gained = report->energy_contact + report->energy_solve + report->energy_advection;
    double had = report->energy - report->energy_change;
    double given = fabs(report->energy_gravity) + fabs(report->energy_driven);
    int mild = report->reason == FSI_OK || report->reason == FSI_DT_TOO_LARGE;
    if (mild && gained > FSI_GAIN * (had + given) + least && !fsi__others_push(grid))
        report->reason = FSI_GAINED;
    return report->reason;
}

/* What a scheme does on the page of the step. Stages but detect and solve may be NULL. */
typedef struct fsi__stages {
    fsi_grid *grid;
    fsi_interface *iface;
    void *scheme; /* handed to the stages */
    fsi_result (*detect_fn)(fsi_coupled *const *solid, int count, void *scheme);
    fsi_result (*start_fn)(fsi_real dt, void *scheme); /* before the fluid is advected */
    fsi_result (*solve_fn)(fsi_real dt, fsi_report *report, void *scheme);
    fsi_result (*settle_fn)(fsi_real dt, void *scheme); /* before the surface moves */
    fsi_result (*flow_fn)(fsi_real dt, void *scheme);   /* what the fluid carries moves */
    fsi_result (*moved_fn)(fsi_real dt, void *scheme);  /* after the solids moved */
} fsi__stages;

/* Calls a stage that may be missing. */
static fsi_result fsi__stage(fsi_result (*stage_fn)(fsi_real dt, void *user), fsi_real dt,
                             void *user) {
    return stage_fn ? stage_fn(dt, user) : FSI_OK;
}

/* J that the fluid gave to a solid in the solve: its impulses times the velocity they end with. */
static double fsi__door_work(const fsi_coupled *door) {
    return door->impulse ? fsi_dot((size_t)door->dof, door->impulse, door->v) : 0;
}

/* The fluid's energy account of a step. With u* = u_a + dt g the solve leaves
       K(u) - K(u_a) = dt g . m u - work on the solids - K(u - u_a):
   gravity counts with the velocity at the end, and what is over is the solve's own, a loss. */
static void fsi__account(const fsi_interface *iface, const fsi_grid_energy *before,
                         const fsi_grid_energy *star, const fsi_grid_energy *after, double dt,
                         fsi_report *report) {
    double carried = star->kinetic - dt * star->power + dt * dt * star->fall;
    report->energy_advection = carried - before->kinetic;
    report->energy_gravity = dt * after->power;
    for (int s = 0; s < iface->solids; s++)
        report->energy_driven -= fsi__door_work(iface->solid[s]);
    report->energy = after->kinetic;
    report->energy_change = after->kinetic - before->kinetic;
    report->energy_solve =
        after->kinetic - carried - report->energy_gravity - report->energy_driven;
}

/* One coupled step of any scheme. report (required) is the solve's, with volume and reason. */
static fsi_result fsi__step_page(const fsi__stages *stages, const fsi_scene *scene, fsi_real dt,
                                 fsi_report *report) {
    fsi_grid *grid = stages->grid;
    void *scheme = stages->scheme;
    const fsi_solid_stages *solids = &scene->stages;

    /* 1. Solids: explicit forces, v*. */
    fsi_result result = fsi__stage(solids->begin_fn, dt, solids->user);

    /* 2. Surfaces -> interface (the fluid's rays need it). */
    if (result >= 0)
        result = stages->detect_fn(scene->solid, scene->count, scheme);
    if (result >= 0)
        result = fsi__stage(stages->start_fn, dt, scheme);

    /* 3. Fluid: u*. */
    fsi_grid_energy before, star, after;
    fsi_grid_measure(grid, &before);
    if (result >= 0)
        result = fsi_grid_advect(grid, dt);
    if (result >= 0)
        result = fsi_grid_forces(grid, dt);
    if (result >= 0)
        result = fsi_grid_viscosity(grid, dt, NULL);
    if (result < 0)
        return result;

    /* 4., 5. The solve: pressures and impulses, taken by both. */
    fsi_grid_measure(grid, &star);
    fsi_result solve = stages->solve_fn(dt, report, scheme);
    if (solve < 0)
        return solve;

    fsi_grid_measure(grid, &after);
    fsi__account(stages->iface, &before, &star, &after, (double)dt, report);
    result = fsi_grid_extrapolate(grid);
    if (result >= 0)
        result = fsi__stage(stages->settle_fn, dt, scheme);

    /* 6. The liquid's surface and the solids move. */
    if (result >= 0)
        result = fsi_grid_move_surface(grid, dt, report);
    if (result >= 0)
        result = fsi__stage(stages->flow_fn, dt, scheme);
    fsi_result move = FSI_OK;
    if (result >= 0)
        result = move = fsi__stage(solids->move_fn, dt, solids->user);
    if (result >= 0)
        result = fsi_interface_moved(stages->iface, grid, NULL);
    if (result >= 0)
        result = fsi__stage(stages->moved_fn, dt, scheme);
    if (result < 0)
        return result;

    report->reason = fsi__step_result(grid, solve, move);
    return report->reason;
}

/* Stages of fsi__step_page: sides; the one solve; bubbles get their volumes back. */
static fsi_result fsi__couple_detect_stage(fsi_coupled *const *solid, int count, void *scheme) {
    return fsi_couple_detect((fsi_couple *)scheme, solid, count);
}

static fsi_result fsi__couple_solve_stage(fsi_real dt, fsi_report *report, void *scheme) {
    return fsi_couple_solve((fsi_couple *)scheme, dt, report);
}

static fsi_result fsi__couple_flow_stage(fsi_real dt, void *scheme) {
    (void)dt;
    return fsi__bubble_settle((fsi_couple *)scheme);
}

/* The step without its last word on energy. */
static fsi_result fsi__couple_page(fsi_couple *couple, const fsi_scene *scene, fsi_real dt,
                                   fsi_report *report) {
    fsi__stages stages = FSI__ZERO;
    stages.grid = couple->grid;
    stages.iface = &couple->iface;
    stages.scheme = couple;
    stages.detect_fn = fsi__couple_detect_stage;
    stages.solve_fn = fsi__couple_solve_stage;
    stages.flow_fn = fsi__couple_flow_stage;
    return fsi__step_page(&stages, scene, dt, report);
}

/* The end of a step: its result, and the report as the caller gets it. */
static fsi_result fsi__couple_end(const fsi_grid *grid, fsi_real dt, fsi_report *own,
                                  fsi_report *report) {
    fsi_result result = fsi__gain_result(grid, dt, own);
    if (report) {
        own->divergence = fsi_grid_max_divergence(grid);
        *report = *own;
    }
    return result;
}

FSI_API fsi_result fsi_couple_step(fsi_couple *couple, const fsi_scene *scene, fsi_real dt,
                                   fsi_report *report) {
    if (!couple || !couple->grid || !scene || !fsi__positive(dt))
        return FSI_ERR_ARGUMENT;

    fsi_report own = FSI__ZERO;
    fsi_result result = fsi__couple_page(couple, scene, dt, &own);
    return result < 0 ? result : fsi__couple_end(couple->grid, dt, &own, report);
}

/* ---- State: what the bubbles were. */
static void fsi__bubble_state(fsi_bubble *bubble, int regions, fsi__state *state) {
    fsi_bubble copy = *bubble;

    /* Places in lists that every solve makes anew. */
    copy.first = copy.last = copy.component = 0;
    fsi__state_copy(state, &copy, 1, sizeof copy);
    fsi__state_require(state, copy.region >= 0 && copy.region < regions);
    fsi__state_require(state, copy.row >= -1 && copy.row < regions);
    fsi__state_require(state, copy.first == 0 && copy.last == 0 && copy.component == 0);
    const double number[] = {copy.volume, copy.target, (double)copy.pressure,
                             copy.weight, copy.rhs,    copy.start,
                             copy.hat,    copy.swept,  copy.bias,
                             copy.area,   copy.shift,  copy.step,
                             copy.before};
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        fsi__state_require(state, fsi__finite64(number[i]));
    if (fsi__state_loads(state))
        *bubble = copy;
}

static void fsi__couple_state(void *object, fsi__state *state) {
    fsi_couple *couple = (fsi_couple *)object;
    int most = couple->grid->desc.max_regions;
    int tracked = couple->bubble_cell != NULL;
    fsi__state_match(state, couple->iface.cells);
    fsi__state_match(state, (size_t)most);
    fsi__state_match(state, (size_t)tracked);
    int started = (int)fsi__state_integer(state, couple->iface.started, 0, 1);
    int settled = (int)fsi__state_integer(state, couple->settled, 0, 1);
    int bubbles = (int)fsi__state_integer(state, couple->bubbles, 0, tracked ? most : 0);
    if (tracked)
        fsi__state_integers(state, couple->bubble_cell, couple->iface.cells, -2, bubbles);

    /* Places without a bubble are zeros. */
    for (int i = 0; i < most && tracked; i++) {
        fsi_bubble none = FSI__ZERO;
        fsi__bubble_state(i < bubbles ? couple->bubble + i : &none, most, state);
    }
    if (fsi__state_loads(state)) {
        couple->settled = settled;
        couple->bubbles = bubbles;

        /* What is covered and cut is found again by the next detect. */
        fsi__interface_clear(&couple->iface);
        couple->iface.started = started;
    }
}

#define FSI__STATE_COUPLE FSI__STATE_OF('c', 'o', 'u', 'p')

FSI_API size_t fsi_couple_state_size(const fsi_couple *couple) {
    return couple && couple->grid ? fsi__state_size(fsi__couple_state, couple) : 0;
}

FSI_API fsi_result fsi_couple_save(const fsi_couple *couple, void *block) {
    if (!couple || !couple->grid)
        return FSI_ERR_STATE;
    return fsi__state_save(fsi__couple_state, FSI__STATE_COUPLE, couple, block);
}

FSI_API fsi_result fsi_couple_restore(fsi_couple *couple, const void *block, size_t size) {
    if (!couple || !couple->grid)
        return FSI_ERR_STATE;
    return fsi__state_restore(fsi__couple_state, FSI__STATE_COUPLE, couple, block, size);
}

FSI_API fsi_result fsi_couple_half(fsi_couple *couple, fsi_coupled *const *solid, int count,
                                   fsi_real dt, fsi_report *report) {
    if (!couple || !couple->grid)
        return FSI_ERR_STATE;
    if (!fsi__positive(dt))
        return FSI_ERR_ARGUMENT;

    /* Keep the fluid as it is. */
    size_t fluid = fsi_grid_state_size(couple->grid);
    size_t own = fsi_couple_state_size(couple);
    fsi_result result = FSI__LIST_ROOM(couple->kept, fluid + own, &couple->desc.allocator);
    if (result < 0)
        return result;
    if ((result = fsi_grid_save(couple->grid, couple->kept)) < 0)
        return result;
    if ((result = fsi_couple_save(couple, couple->kept + fluid)) < 0)
        return result;

    /* Half a step without advection. */
    result = fsi_couple_detect(couple, solid, count);
    if (result >= 0)
        result = fsi_grid_forces(couple->grid, dt / 2);
    if (result >= 0)
        result = fsi_grid_viscosity(couple->grid, dt / 2, NULL);
    if (result >= 0)
        result = fsi_couple_solve(couple, dt / 2, report);

    /* The fluid goes back, also after a failure. */
    fsi_result back = fsi_grid_restore(couple->grid, couple->kept, fluid);
    if (back >= 0)
        back = fsi_couple_restore(couple, couple->kept + fluid, own);

    return result >= 0 && back < 0 ? back : result;
}
#endif

/* ------------------------------------------------------------------------------------------------
 * >>body */
#ifndef FSI_COUPLE_NO_GRID
/* A rigid body of somebody else's engine: (velocity, spin) are its six degrees of freedom. */
static void fsi__body_row(const fsi_coupled *self, int element, const fsi_real *weight,
                          fsi_vec3 point, fsi_vec3 dir, fsi_real *row) {
    const fsi_body *body = (const fsi_body *)self->user;
    (void)element;
    (void)weight;
    fsi_vec_store(row, dir);

    /* (spin x r) . d = spin . (r x d) */
    fsi_vec_store(row + 3, fsi_vec_cross(fsi_vec_sub(point, body->centre), dir));
}

/* The inverse of the inertia, in 2D of its last entry; a scripted body has none. */
static fsi_result fsi__body_inverse(const fsi_body *body, int dim, fsi_mat3 *inverse) {
    memset(inverse, 0, sizeof *inverse);
    if (!(body->mass > 0))
        return FSI_OK;
    if (dim == 3)
        return fsi_mat3_inverse(&body->inertia, inverse) ? FSI_OK : FSI_ERR_SINGULAR;
    if (!(body->inertia.m[8] > 0))
        return FSI_ERR_SINGULAR;

    inverse->m[8] = 1 / body->inertia.m[8];
    return FSI_OK;
}

FSI_API fsi_result fsi_body_couple(fsi_body *body, const fsi_surface *surface, fsi_coupled *out) {
    if (!body || !surface || !out)
        return FSI_ERR_ARGUMENT;
    if (!fsi__natural(body->mass))
        return FSI_ERR_ARGUMENT;
    if (!fsi__finite_vec(body->centre) || !fsi__finite_vec(body->velocity)
        || !fsi__finite_vec(body->spin))
        return FSI_ERR_ARGUMENT;

    fsi_mat3 inverse;
    fsi_result result = fsi__body_inverse(body, surface->dim, &inverse);
    if (result < 0)
        return result;

    /* Mass matrices of (velocity, spin): diag(mass), then the inertia. */
    memset(body->mass_matrix, 0, sizeof body->mass_matrix);
    memset(body->inverse_mass, 0, sizeof body->inverse_mass);
    for (int i = 0; i < 3; i++) {
        body->mass_matrix[7 * i] = body->mass;
        body->inverse_mass[7 * i] = body->mass > 0 && i < surface->dim ? 1 / body->mass : 0;
        for (int j = 0; j < 3; j++) {
            body->mass_matrix[6 * (i + 3) + j + 3] = body->inertia.m[3 * i + j];
            body->inverse_mass[6 * (i + 3) + j + 3] = inverse.m[3 * i + j];
        }
    }
    fsi_vec_store(body->v, body->velocity);
    fsi_vec_store(body->v + 3, body->spin);

    memset(out, 0, sizeof *out);
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
/* Lists of guests and doors in one block. */
static void fsi__world_layout(fsi_world *world, size_t bodies, size_t guests, fsi_arena *arena) {
    FSI__TAKE(world->guest, arena, guests);
    FSI__TAKE(world->door, arena, bodies + guests);
    FSI__TAKE(world->door_body, arena, bodies + guests);
}

/* The room: a fixed body around the grid's box, moved far out at open sides. */
static fsi_result fsi__world_walls(fsi_world *world, const fsi_grid_desc *desc) {
    const int cells[3] = {desc->nx, desc->ny, desc->nz};
    fsi_real lo[3], hi[3];
    fsi_real far_out = 0;
    fsi_vec_store(lo, desc->origin);
    for (int axis = 0; axis < 3; axis++) {
        hi[axis] = lo[axis] + (fsi_real)cells[axis] * desc->h;
        far_out += 100 * (hi[axis] - lo[axis]);
    }
    for (int axis = 0; axis < 3; axis++) {
        if (desc->side[2 * axis].kind >= FSI_SIDE_OPEN)
            lo[axis] -= far_out;
        if (desc->side[2 * axis + 1].kind >= FSI_SIDE_OPEN)
            hi[axis] += far_out;
    }
    fsi_vec3 low = fsi_vec_load(lo);
    fsi_vec3 high = fsi_vec_load(hi);

    fsi_shape_desc shape = FSI__ZERO;
    shape.kind = FSI_SHAPE_ROOM;
    shape.dim = world->grid.dim;
    shape.allocator = desc->allocator;
    shape.half = fsi_vec_scale(fsi_vec_sub(high, low), FSI_R(0.5));
    fsi_result result = fsi_shape_init(&world->room, &shape);
    if (result < 0)
        return result;

    fsi_rigid_desc body = FSI__ZERO;
    body.shape = &world->room;
    body.x = fsi_vec_scale(fsi_vec_add(high, low), FSI_R(0.5));
    if (world->grid.dim == 2)
        body.x.z = 0;
    body.friction = FSI_R(0.3);
    return fsi_solids_enclose(&world->solids, &body);
}

/* Grid, rigid bodies, coupling, walls and lists; what there is at a failure, fsi_world_free frees.
 */
static fsi_result fsi__world_parts(fsi_world *world, const fsi_world_desc *desc) {
    const fsi_allocator *allocator = &desc->grid.allocator;
    fsi_result result;
    if ((result = fsi_grid_init(&world->grid, &desc->grid)) < 0)
        return result;

    fsi_solids_desc solids = FSI__ZERO;
    solids.dim = world->grid.dim;
    solids.max_bodies = desc->max_bodies + 1; /* and the room */
    solids.max_joints = desc->max_joints;
    solids.gravity = desc->grid.gravity;
    solids.substeps = desc->substeps;
    solids.iterations = desc->iterations;
    solids.allocator = *allocator;
    if ((result = fsi_solids_init(&world->solids, &solids)) < 0)
        return result;

    fsi_couple_desc couple = desc->couple;
    if (!couple.allocator.alloc_fn && !couple.allocator.free_fn)
        couple.allocator = *allocator;
    if ((result = fsi_couple_init(&world->couple, &world->grid, &couple)) < 0)
        return result;
    if (!desc->no_walls && (result = fsi__world_walls(world, &world->grid.desc)) < 0)
        return result;

    fsi_arena arena = FSI__ZERO;
    size_t bodies = (size_t)solids.max_bodies;
    fsi__world_layout(world, bodies, (size_t)desc->max_guests, &arena);
    if ((result = fsi__arena_block(&arena, allocator, &world->block, &world->size)) < 0)
        return result;

    fsi__world_layout(world, bodies, (size_t)desc->max_guests, &arena);
    return FSI_OK;
}

FSI_API fsi_result fsi_world_init(fsi_world *world, const fsi_world_desc *desc) {
    if (!world || !desc)
        return FSI_ERR_ARGUMENT;

    memset(world, 0, sizeof *world);
    const int most = 1000000;
    if (desc->max_bodies < 0 || desc->max_bodies > most || desc->max_joints < 0)
        return FSI_ERR_ARGUMENT;
    if (desc->max_guests < 0 || desc->max_guests > most)
        return FSI_ERR_ARGUMENT;
    if (!fsi__natural(desc->damping))
        return FSI_ERR_ARGUMENT;

    fsi_result result = fsi__world_parts(world, desc);
    if (result < 0) {
        fsi_world_free(world);
        return result;
    }
    world->guest_room = desc->max_guests;
    world->damping = desc->damping;
    return FSI_OK;
}

FSI_API void fsi_world_free(fsi_world *world) {
    if (!world)
        return;

    fsi_free(&world->grid.desc.allocator, world->block, world->size);
    fsi_couple_free(&world->couple);
    fsi_solids_free(&world->solids);
    fsi_shape_free(&world->room);
    fsi_grid_free(&world->grid);
    memset(world, 0, sizeof *world);
}

FSI_API int fsi_world_add(fsi_world *world, const fsi_rigid_desc *desc) {
    if (!world)
        return FSI_ERR_ARGUMENT;

    int id;
    fsi_result result = fsi_solids_add(&world->solids, desc, &id);
    return result < 0 ? (int)result : id;
}

FSI_API const fsi_rigid *fsi_world_rigid(const fsi_world *world, int id) {
    int known = world && id >= 0 && id < world->solids.body_count;
    return known ? &world->solids.body[id] : NULL;
}

FSI_API fsi_vec3 fsi_world_position(const fsi_world *world, int id) {
    const fsi_rigid *body = fsi_world_rigid(world, id);
    return body ? body->x : fsi_vec(0, 0, 0);
}

FSI_API fsi_result fsi_world_add_guest(fsi_world *world, const fsi_guest *guest) {
    if (!world || !guest || !guest->door)
        return FSI_ERR_ARGUMENT;
    if (world->guest_count == world->guest_room)
        return FSI_ERR_SIZE;

    world->guest[world->guest_count++] = *guest;
    return FSI_OK;
}

/* dv/dt = -damping v on fluid and rigid bodies, implicitly. */
static fsi_result fsi__world_damp(fsi_world *world, fsi_real dt) {
    if (!(world->damping > 0))
        return FSI_OK;

    fsi_real keep = 1 / (1 + dt * world->damping);
    for (int axis = 0; axis < world->grid.dim; axis++)
        for (size_t f = 0; f < world->grid.faces[axis]; f++)
            world->grid.u[axis][f] *= keep;
    for (int i = 0; i < world->solids.body_count; i++) {
        const fsi_rigid *body = &world->solids.body[i];
        if (body->kind != FSI_RIGID_DYNAMIC)
            continue;
        fsi_vec3 v = fsi_vec_scale(body->v, keep);
        fsi_vec3 spin = fsi_vec_scale(body->spin, keep);
        fsi_result result = fsi_solids_set_velocity(&world->solids, i, v, spin);
        if (result < 0)
            return result;
    }
    return FSI_OK;
}

/* What the bodies have; potential is that of springs alone. */
static void fsi__world_measure(const fsi_world *world, fsi_solids_report *now) {
    const fsi_solids *solids = &world->solids;
    fsi_solids_measure(solids, now);
    for (int i = 0; i < solids->body_count; i++) {
        const fsi_rigid *body = solids->body + i;
        if (body->kind == FSI_RIGID_DYNAMIC)
            now->potential +=
                (double)body->mass * (double)fsi_vec_dot(solids->desc.gravity, body->x);
    }
}

/* v* of all solids, and their doors. joined: bodies on joints have one door together. */
static fsi_result fsi__world_begin(fsi_world *world, fsi_real dt, int joined) {
    fsi_solids *solids = &world->solids;
    fsi_result result;
    if ((result = fsi__world_damp(world, dt)) < 0)
        return result;
    fsi__world_measure(world, &world->before);
    if ((result = fsi_solids_forces(solids, dt)) < 0)
        return result;
    if ((result = fsi_solids_hold(solids, dt)) < 0)
        return result;

    world->door_count = 0;
    for (int i = 0; i < solids->body_count; i++) {
        /* Planes, rooms and height fields have no surface. */
        if (solids->body[i].shape->surface.vertex_count == 0)
            continue;
        fsi_coupled **door = world->door + world->door_count;
        result =
            joined ? fsi_solids_couple_joined(solids, i, door) : fsi_solids_couple(solids, i, door);
        if (result < 0)
            return result;
        if (*door)
            world->door_body[world->door_count++] = i;
    }
    for (int i = 0; i < world->guest_count; i++) {
        const fsi_guest *guest = world->guest + i;
        if ((result = fsi__stage(guest->stages.begin_fn, dt, guest->stages.user)) < 0)
            return result;

        world->door[world->door_count] = guest->door;
        world->door_body[world->door_count++] = -1;
    }
    return FSI_OK;
}

/* Velocities back, contact and joints, new positions. */
static fsi_result fsi__world_move(fsi_real dt, void *user) {
    fsi_world *world = (fsi_world *)user;
    fsi_result result;
    for (int i = 0; i < world->solids.body_count; i++) {
        const fsi_rigid *body = &world->solids.body[i];
        if (body->kind != FSI_RIGID_DYNAMIC || body->shape->surface.vertex_count == 0)
            continue;
        if ((result = fsi_solids_take(&world->solids, i)) < 0)
            return result;
    }
    fsi_result told = fsi_solids_move(&world->solids, dt);
    if (told < 0)
        return told;

    for (int i = 0; i < world->guest_count; i++) {
        const fsi_guest *guest = world->guest + i;
        if ((result = fsi__stage(guest->stages.move_fn, dt, guest->stages.user)) < 0)
            return result;
        if (told == FSI_OK)
            told = result;
    }
    for (int i = 0; i < world->solids.body_count && told == FSI_OK; i++) {
        const fsi_rigid *body = &world->solids.body[i];
        int moves = body->kind == FSI_RIGID_DYNAMIC && body->shape->surface.vertex_count > 0;
        if (moves && dt * fsi__length(body->v) > body->shape->bound)
            told = FSI_DT_TOO_LARGE;
    }
    return told;
}

/* The bodies' part of the energy account. What the fluid gave to dynamic bodies is inside the
   whole; forces count with the velocity at the end, as for the fluid. */
static void fsi__world_account(const fsi_world *world, fsi_real dt, fsi_report *report) {
    const fsi_solids *solids = &world->solids;
    fsi_solids_report now;
    fsi__world_measure(world, &now);
    double weight = 0;
    double given = now.drive + world->before.potential - now.potential;
    for (int i = 0; i < solids->body_count; i++) {
        const fsi_rigid *body = solids->body + i;
        if (body->kind != FSI_RIGID_DYNAMIC)
            continue;
        double fall = (double)(dt * body->mass * fsi_vec_dot(solids->desc.gravity, body->v));
        weight += fall;
        given += (double)fsi_vec_dot(body->load.linear, body->v) - fall
                 + (double)fsi_vec_dot(body->load.angular, body->spin);
    }
    for (int i = 0; i < world->door_count; i++) {
        int body = world->door_body[i];
        if (body >= 0 && solids->body[body].kind == FSI_RIGID_DYNAMIC)
            given += fsi__door_work(world->door[i]);
    }
    double gained = now.kinetic - world->before.kinetic;
    report->energy += now.kinetic;
    report->energy_change += gained;
    report->energy_gravity += weight;
    report->energy_driven += given;
    report->energy_contact = gained - weight - given;
}

FSI_API fsi_result fsi_world_step(fsi_world *world, fsi_real dt, fsi_report *report) {
    if (!world || !world->block)
        return FSI_ERR_STATE;
    if (!fsi__positive(dt))
        return FSI_ERR_ARGUMENT;

    fsi_result result = fsi__world_begin(world, dt, 1);
    if (result < 0)
        return result;

    fsi_scene scene = FSI__ZERO;
    scene.solid = world->door;
    scene.count = world->door_count;
    scene.stages.move_fn = fsi__world_move;
    scene.stages.user = world;
    fsi_report own = FSI__ZERO;
    if ((result = fsi__couple_page(&world->couple, &scene, dt, &own)) < 0)
        return result;

    fsi__world_account(world, dt, &own);
    return fsi__couple_end(&world->grid, dt, &own, report);
}

FSI_API fsi_real fsi_world_max_dt(const fsi_world *world) {
    if (!world || !world->block)
        return 0;

    return fsi__min(fsi_grid_max_dt(&world->grid), fsi_solids_max_dt(&world->solids) / 2);
}

FSI_API fsi_result fsi_world_body(const fsi_world *world, int body, fsi_body_report *out) {
    int owner, first, elements;
    if (!world || !world->block || !out || !(world->couple.dt > 0))
        return FSI_ERR_ARGUMENT;
    if (fsi_solids_joined_part(&world->solids, body, &owner, &first, &elements) < 0)
        return FSI_ERR_ARGUMENT;

    for (int i = 0; i < world->door_count; i++)
        if (world->door_body[i] == owner) {
            fsi__body_part(&world->couple, i, first, first + elements, out);
            return FSI_OK;
        }

    return FSI_ERR_ARGUMENT;
}

/* State: those of grid, rigid bodies and coupling. Where each begins, and the end: */
static void fsi__world_blocks(const fsi_world *world, size_t at[4]) {
    at[0] = 0;
    at[1] = fsi_grid_state_size(&world->grid);
    at[2] = at[1] + fsi_solids_state_size(&world->solids);
    at[3] = at[2] + fsi_couple_state_size(&world->couple);
}

FSI_API size_t fsi_world_state_size(const fsi_world *world) {
    size_t at[4] = FSI__ZERO;
    if (world && world->block)
        fsi__world_blocks(world, at);
    return at[3];
}

FSI_API fsi_result fsi_world_save(const fsi_world *world, void *block) {
    unsigned char *to = (unsigned char *)block;
    if (!world || !world->block)
        return FSI_ERR_STATE;
    if (!block)
        return FSI_ERR_ARGUMENT;

    size_t at[4];
    fsi__world_blocks(world, at);
    fsi_result result;
    if ((result = fsi_grid_save(&world->grid, to)) < 0)
        return result;
    if ((result = fsi_solids_save(&world->solids, to + at[1])) < 0)
        return result;
    return fsi_couple_save(&world->couple, to + at[2]);
}

FSI_API fsi_result fsi_world_restore(fsi_world *world, const void *block, size_t size) {
    const unsigned char *from = (const unsigned char *)block;
    if (!world || !world->block)
        return FSI_ERR_STATE;
    if (!block)
        return FSI_ERR_ARGUMENT;
    if (size != fsi_world_state_size(world))
        return FSI_ERR_SIZE;

    /* All parts are checked before the first is restored. */
    size_t at[4];
    fsi__world_blocks(world, at);
    fsi_result result = fsi_grid_check(&world->grid, from, at[1]);
    if (result >= 0)
        result = fsi_solids_check(&world->solids, from + at[1], at[2] - at[1]);
    if (result >= 0)
        result = fsi__state_check(fsi__couple_state, FSI__STATE_COUPLE, &world->couple,
                                  from + at[2], at[3] - at[2]);
    if (result >= 0)
        result = fsi_grid_restore(&world->grid, from, at[1]);
    if (result >= 0)
        result = fsi_solids_restore(&world->solids, from + at[1], at[2] - at[1]);
    if (result >= 0)
        result = fsi_couple_restore(&world->couple, from + at[2], at[3] - at[2]);
    return result;
}

/* ---- A soft body as a guest. */
FSI_API fsi_result fsi_soft_responder_begin(fsi_soft_responder *responder) {
    size_t need = fsi_soft_state_size(responder->soft);
    fsi_result result = FSI__LIST_ROOM(responder->state, need, &responder->allocator);
    return result < 0 ? result : fsi_soft_save(responder->soft, responder->state);
}

/* A whole step of the soft body from the kept state, the impulse as a force. */
FSI_API fsi_result fsi_soft_respond(const fsi_real *impulse, fsi_real *v, fsi_real dt,
                                    void *responder) {
    fsi_soft_responder *own = (fsi_soft_responder *)responder;
    fsi_soft *soft = own->soft;
    int n = 3 * soft->desc.vertex_count;
    fsi_result result = fsi_soft_restore(soft, own->state, fsi_soft_state_size(soft));
    if (result < 0)
        return result;

    for (int i = 0; i < n; i++)
        soft->force[i] += impulse[i] / dt;
    result = fsi_soft_forces(soft, dt);
    for (int i = 0; i < n; i++)
        soft->force[i] -= impulse[i] / dt;
    if (result >= 0)
        result = fsi_soft_finish(soft);
    if (result >= 0)
        fsi_copy((size_t)n, soft->v, v);

    return result;
}

FSI_API void fsi_soft_responder_free(fsi_soft_responder *responder) {
    if (responder)
        FSI__LIST_FREE(responder->state, &responder->allocator);
}

static fsi_result fsi__soft_guest_begin(fsi_real dt, void *responder) {
    fsi_soft_responder *own = (fsi_soft_responder *)responder;
    fsi_result result = FSI_OK;
    if (own->soft->desc.integrator == FSI_SOFT_SPLIT)
        result = fsi_soft_forces(own->soft, dt);
    if (result < 0)
        return result;
    fsi_soft_couple(own->soft, &own->door);
    return fsi_soft_responder_begin(own);
}

static fsi_result fsi__soft_guest_move(fsi_real dt, void *responder) {
    return fsi_soft_move(((fsi_soft_responder *)responder)->soft, dt);
}

FSI_API fsi_guest fsi_soft_guest(fsi_soft_responder *responder) {
    fsi_guest guest = FSI__ZERO;
    guest.door = &responder->door;
    guest.stages.begin_fn = fsi__soft_guest_begin;
    guest.stages.move_fn = fsi__soft_guest_move;
    guest.stages.user = responder;
    if (responder->soft->desc.integrator != FSI_SOFT_SPLIT)
        guest.stages.respond_fn = fsi_soft_respond;
    return guest;
}
#endif

/* ------------------------------------------------------------------------------------------------
 * >>slip */
/* Symbols of the paper, of the code and their meaning:

       p         pressure            p^ = p dt, Pa s, of cells and ghosts
       v_ghost   flux, link_flux     relative flux through a side, flux along a link; their
                                     conductances are coefficient / ghost mass and 1 / ghost mass
       v_occ     velocity . axis     sample at the side, not part of any divergence
       J         interface rows      velocity of the solid along the axis of a side
       S, A      sign, area          sign of a side in its cell, area of a face
       Z, Y      couple.iface        rows of J: what pressure pushes, what the fluid's mass follows
       K         couple.block        M + Y^T b Y + B^T B, b = mass: the fluid right at the wall
                                     follows it along the normal; B implicit forces
       v         v_given, v_star     v* given, v* after friction; v is in the solids
       W, N      fsi__paper.C        N^T W, only in the paper's form

   The solve is the monolithic one (chapters monolithic and coupled solvers) with two changes. Ghost
   cells add S_g = C - B G^-1 B^T to L_N, C the conductances of the sides, G the ghosts' graph: S_g
   is symmetric and positive semi-definite, and a constant over a closed region is in its null space
   unless a ghost leads out of the box. And a side has two rows of J, each of which is a side of
   couple.iface: one with its share and no mass, whose row is Z, and one with its mass and no share,
   whose row is Y. So Z K^-1 Z^T, volumes of closed regions, impulses and the ledger are the same
   code. Friction is that solve without pressure: a row with mass for every sample that is tied. */
#ifndef FSI_COUPLE_NO_GRID
/* papers: a printed form changes rows_fn, solve_fn and the solver, see the last chapter. */
static void fsi__paper_form(fsi_slip *slip);
static fsi_result fsi__slip_passes(fsi_slip *slip, fsi_report *report);

/* ---- Init, free, detect. */
static void fsi__slip_layout(fsi_slip *slip, fsi_arena *arena) {
    const fsi_grid *grid = slip->grid;
    FSI__TAKE(slip->rhs, arena, grid->cells);
    for (int axis = 0; axis < grid->dim; axis++)
        FSI__TAKE(slip->u[axis], arena, grid->faces[axis]);
    if (slip->desc.first_order)
        return;

    for (int axis = 0; axis < grid->dim; axis++)
        FSI__TAKE(slip->half[axis], arena, grid->faces[axis]);
    FSI__TAKE(slip->total, arena, grid->cells);
}

static int fsi__slip_desc_valid(const fsi_slip_desc *desc) {
    int counts = desc->passes >= 0 && desc->passes <= 1000 && desc->max_iterations >= 0;
    int named =
        (unsigned)desc->form <= FSI_SLIP_PAPER && (unsigned)desc->solver <= FSI_SLIP_INDEFINITE;
    int tolerance = desc->tolerance >= 0 && desc->tolerance < 1;
    return counts && named && tolerance && fsi_allocator_valid(&desc->allocator);
}

FSI_API fsi_result fsi_slip_init(fsi_slip *slip, fsi_grid *grid, const fsi_slip_desc *desc) {
    if (!slip)
        return FSI_ERR_ARGUMENT;

    memset(slip, 0, sizeof *slip);
    if (!grid || !grid->block || (desc && !fsi__slip_desc_valid(desc)))
        return FSI_ERR_ARGUMENT;

    fsi_slip made = FSI__ZERO;
    if (desc)
        made.desc = *desc;
    if (made.desc.boundary == FSI_BOUNDARY_DEFAULT)
        made.desc.boundary =
            made.desc.form == FSI_SLIP_PAPER ? FSI_BOUNDARY_VOXEL : FSI_BOUNDARY_CUT;
    made.grid = grid;
    fsi_interface_desc face = FSI__ZERO;
    face.average = 1;
    face.boundary = made.desc.boundary;
    face.allocator = made.desc.allocator;
    fsi_result result = fsi_interface_init(&made.iface, grid, &face);
    if (result != FSI_OK)
        return result;

    fsi_arena arena = FSI__ZERO;
    fsi__slip_layout(&made, &arena);
    result = fsi__arena_block(&arena, &made.desc.allocator, &made.memory, &made.size);
    if (result != FSI_OK) {
        fsi_interface_free(&made.iface);
        return result;
    }
    fsi__slip_layout(&made, &arena);
    made.couple.grid = grid;
    made.couple.desc.allocator = made.couple.rank.allocator = made.desc.allocator;
    *slip = made;

    return FSI_OK;
}

FSI_API void fsi_slip_free(fsi_slip *slip) {
    if (!slip || !slip->memory)
        return;

    const fsi_allocator allocator = slip->desc.allocator;
    fsi_interface *rows = &slip->couple.iface;
    FSI__LIST_FREE(rows->side, &allocator);
    FSI__LIST_FREE(rows->col, &allocator);
    FSI__LIST_FREE(rows->val, &allocator);
    memset(rows, 0, sizeof *rows); /* the rest is that of slip->iface */
    fsi_couple_free(&slip->couple);
    FSI__LIST_FREE(slip->side_lists, &allocator);
    FSI__LIST_FREE(slip->link_flux, &allocator);
    FSI__LIST_FREE(slip->factors, &allocator);
    FSI__LIST_FREE(slip->tie, &allocator);
    FSI__LIST_FREE(slip->triplets.row, &allocator);
    FSI__LIST_FREE(slip->triplets.col, &allocator);
    FSI__LIST_FREE(slip->triplets.val, &allocator);
    FSI__LIST_FREE(slip->link, &allocator);
    FSI__LIST_FREE(slip->key, &allocator);
    FSI__LIST_FREE(slip->was, &allocator);
    FSI__LIST_FREE(slip->from, &allocator);
    fsi_interface_free(&slip->iface);
    fsi_free(&allocator, slip->memory, slip->size);
    memset(slip, 0, sizeof *slip);
}

static fsi_real fsi__slip_coefficient(const fsi_slip *slip, int solid) {
    return slip->desc.coefficient ? slip->desc.coefficient[solid] : 1;
}

FSI_API fsi_result fsi_slip_detect(fsi_slip *slip, fsi_coupled *const *solid, int count) {
    if (!slip || !slip->memory)
        return FSI_ERR_STATE;

    /* Where all of it slides, the flow goes on into closed solids (fsi_grid_extrapolate). */
    slip->iface.desc.smooth = 1;
    for (int i = 0; i < count; i++)
        if (!(fsi__slip_coefficient(slip, i) > 0))
            slip->iface.desc.smooth = 0;

    return fsi_interface_detect(&slip->iface, slip->grid, solid, count);
}

/* ---- Who sees whom. Directions 0 .. 2 dim - 1: axis = dir / 2, up = dir & 1. */
/* neighbour, -1 = outside; and the face between */
static ptrdiff_t fsi__slip_next(const fsi_interface *iface, size_t cell, int dir, size_t *face) {
    int i[3];
    fsi__cell_ijk(iface, cell, i);
    return fsi__beside(iface, i, dir, face);
}

/* neighbour that the cell sees, or -1; and the face between */
static ptrdiff_t fsi__slip_seen(const fsi_interface *iface, size_t cell, int dir, size_t *face) {
    ptrdiff_t next = fsi__slip_next(iface, cell, dir, face);
    if (next < 0 || iface->blocked[dir / 2][*face] || iface->covered[next])
        return -1;
    return next;
}

/* 1: the cells are at most so many unoccluded steps apart */
static int fsi__slip_near(const fsi_interface *iface, size_t cell, size_t other, int steps) {
    if (cell == other)
        return 1;

    for (int dir = 0; steps > 0 && dir < 2 * iface->dim; dir++) {
        size_t face;
        ptrdiff_t next = fsi__slip_seen(iface, cell, dir, &face);
        if (next >= 0 && fsi__slip_near(iface, (size_t)next, other, steps - 1))
            return 1;
    }

    return 0;
}

/* the cell across the side's face */
static size_t fsi__slip_location(const fsi_interface *iface, const fsi_side *side) {
    fsi__lattice cells = fsi__interface_lattice(iface, FSI__CELLS);
    return (size_t)(side->cell + side->sign * cells.step[side->axis]);
}

/* Side of a cell in a direction, or -1. Sides are ordered by axis, face, minus cell first. */
static int fsi__slip_side(const fsi_interface *iface, size_t cell, int dir) {
    int lo = 0;
    int hi = iface->sides;
    int axis = dir / 2;
    size_t face;
    (void)fsi__slip_next(iface, cell, dir, &face);

    while (lo < hi) {
        int mid = (lo + hi) / 2;
        const fsi_side *side = iface->side + mid;
        if (side->axis < axis || (side->axis == axis && (size_t)side->face < face))
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < iface->sides; lo++) {
        const fsi_side *side = iface->side + lo;
        if (side->axis != axis || (size_t)side->face != face)
            return -1;
        if ((size_t)side->cell == cell)
            return lo;
    }

    return -1;
}

/* ---- Ghosts and links. */
/* the side of a spot */
static int fsi__slip_at(const fsi_slip *slip, int k) {
    return (int)(uint32_t)slip->spot[k];
}

/* first .. end of spot[] at a location */
static int fsi__slip_spots(const fsi_slip *slip, size_t location, int *end) {
    size_t sides = (size_t)slip->iface.sides;
    int first = (int)fsi__lower_bound(sides, slip->spot, fsi__pair_key((int)location, 0));
    *end = first;
    while (*end < slip->iface.sides && slip->spot[*end] >> 32 == location)
        ++*end;
    return first;
}

/* The sets of a and b become one; the smallest number is its root. */
static void fsi__slip_join(int32_t *root, int32_t a, int32_t b) {
    a = fsi__root(root, a);
    b = fsi__root(root, b);
    if (a < b)
        root[b] = a;
    else
        root[a] = b;
}

/* A ghost across every side; those at one location are one where their fluid cells are at most two
 * unoccluded steps apart. */
static void fsi__slip_ghosts(fsi_slip *slip) {
    const fsi_interface *iface = &slip->iface;
    int32_t *root = slip->root;
    int sides = iface->sides;
    for (int i = 0; i < sides; i++) {
        slip->spot[i] = fsi__pair_key((int)fsi__slip_location(iface, iface->side + i), i);
        root[i] = i;
    }
    slip->spot = fsi__sort_keys((size_t)sides, slip->spot, slip->spot + sides);
    for (int i = 0; i < sides; i++)
        for (int j = i - 1; j >= 0 && slip->spot[j] >> 32 == slip->spot[i] >> 32; j--) {
            int a = fsi__slip_at(slip, i);
            int b = fsi__slip_at(slip, j);
            size_t cell = (size_t)iface->side[a].cell;
            if (fsi__slip_near(iface, cell, (size_t)iface->side[b].cell, 2))
                fsi__slip_join(root, a, b);
        }

    /* The first side of each ghost numbers it. */
    for (int i = 0; i < sides; i++) {
        int side = fsi__slip_at(slip, i);
        int first = fsi__root(root, side);
        slip->ghost[side] = first == side ? slip->ghosts++ : slip->ghost[first];
    }
}

static fsi_result fsi__slip_link_add(fsi_slip *slip, int32_t a, int32_t b) {
    if (a == b)
        return FSI_OK;

    fsi_result result = FSI__LIST_ROOM(slip->link, slip->links + 1, &slip->desc.allocator);
    if (result < 0)
        return result;

    fsi_slip_link *link = &slip->link[slip->links++];
    int swap = b >= 0 && b < a;
    link->a = swap ? b : a;
    link->b = swap ? a : b;

    return FSI_OK;
}

/* Links of a side's ghost in one direction: to ghosts at the neighbouring location whose cells see
 * each other, and out of the box where the fluid may leave it. */
static fsi_result fsi__slip_links_beside(fsi_slip *slip, int i, int dir) {
    const fsi_interface *iface = &slip->iface;
    const fsi_side *side = iface->side + i;
    size_t face;
    ptrdiff_t next = fsi__slip_next(iface, fsi__slip_location(iface, side), dir, &face);
    if (next < 0) {
        fsi_side_kind kind = slip->grid->desc.side[dir].kind;
        int open = kind == FSI_SIDE_OPEN || kind == FSI_SIDE_INFLOW;
        return open ? fsi__slip_link_add(slip, slip->ghost[i], -1) : FSI_OK;
    }
    int end;

    for (int j = fsi__slip_spots(slip, (size_t)next, &end); j < end; j++) {
        int k = fsi__slip_at(slip, j);
        if (slip->ghost[k] <= slip->ghost[i])
            continue;
        if (!fsi__slip_near(iface, (size_t)side->cell, (size_t)iface->side[k].cell, 1))
            continue;
        fsi_result result = fsi__slip_link_add(slip, slip->ghost[i], slip->ghost[k]);
        if (result < 0)
            return result;
    }

    return FSI_OK;
}

/* The link around a corner: to the ghost behind a perpendicular face of the same cell, at the same
 * solid. */
static fsi_result fsi__slip_link_corner(fsi_slip *slip, int i, int dir) {
    const fsi_side *side = slip->iface.side + i;
    int k = dir / 2 == side->axis ? -1 : fsi__slip_side(&slip->iface, (size_t)side->cell, dir);
    if (k < 0 || slip->iface.side[k].solid != side->solid)
        return FSI_OK;
    return fsi__slip_link_add(slip, slip->ghost[i], slip->ghost[k]);
}

/* All links between ghosts, each once, sorted. */
static fsi_result fsi__slip_links(fsi_slip *slip) {
    slip->links = 0;
    for (int i = 0; i < slip->iface.sides; i++)
        for (int dir = 0; dir < 4 * slip->iface.dim; dir++) {
            int corner = dir >= 2 * slip->iface.dim;
            fsi_result result = corner ? fsi__slip_link_corner(slip, i, dir - 2 * slip->iface.dim)
                                       : fsi__slip_links_beside(slip, i, dir);
            if (result < 0)
                return result;
        }

    fsi_result result = FSI__LIST_ROOM(slip->key, 2 * slip->links, &slip->desc.allocator);
    if (result >= 0)
        result = FSI__LIST_ROOM(slip->link_flux, slip->links, &slip->desc.allocator);
    if (result < 0)
        return result;

    uint64_t *key = slip->key;
    for (int i = 0; i < slip->links; i++)
        key[i] = fsi__pair_key(slip->link[i].a, slip->link[i].b + 1);
    key = fsi__sort_keys((size_t)slip->links, key, key + slip->links);
    int kept = 0;
    for (int i = 0; i < slip->links; i++) {
        if (i && key[i] == key[i - 1])
            continue;
        slip->link[kept].a = (int32_t)(key[i] >> 32);
        slip->link[kept++].b = (int32_t)(uint32_t)key[i] - 1;
    }
    slip->links = kept;

    return FSI_OK;
}

/* Connected sets of linked ghosts. */
static void fsi__slip_islands(fsi_slip *slip) {
    int32_t *root = slip->root;
    for (int i = 0; i < slip->ghosts; i++)
        root[i] = i;
    for (int i = 0; i < slip->links; i++)
        if (slip->link[i].b >= 0)
            fsi__slip_join(root, slip->link[i].a, slip->link[i].b);
    slip->islands = 0;
    for (int i = 0; i < slip->ghosts; i++) {
        int32_t first = fsi__root(root, i);
        if (first == i) {
            slip->island_size[slip->islands] = slip->island_open[slip->islands] = 0;
            slip->island[i] = slip->islands++;
        }
        slip->island[i] = slip->island[first];
        slip->island_size[slip->island[i]]++;
    }
    for (int i = 0; i < slip->links; i++)
        if (slip->link[i].b < 0)
            slip->island_open[slip->island[slip->link[i].a]] = 1;
}

/* ---- Velocities at the sides. */
/* Velocity of the solid at a side: the two-way or scripted generalised velocity where there is one,
 * else the surface's own. */
static fsi_vec3 fsi__slip_body_velocity(const fsi_slip *slip, const fsi_side *side) {
    const fsi_interface *iface = &slip->iface;
    const fsi_coupled *door = iface->solid[side->solid];
    fsi_real v[3] = FSI__ZERO;
    if (!door->dof)
        return fsi__surface_velocity(door, side->element, side->weight);

    if (!door->node) {
        fsi_vec3 centre = fsi_interface_centre(iface, side);
        for (int axis = 0; axis < iface->dim; axis++) {
            door->row_fn(door, side->element, side->weight, centre, fsi__axis(axis), slip->row);
            for (int k = 0; k < door->dof; k++)
                v[axis] += slip->row[k] * door->v[k];
        }
        return fsi_vec_load(v);
    }

    /* The row of J along the axis has the weights of all components. */
    for (int k = side->row; k < side->row_end; k++)
        for (int axis = 0; axis < iface->dim; axis++)
            v[axis] += iface->val[k] * door->v[iface->col[k] - side->axis + axis];

    return fsi_vec_load(v);
}

/* 1: the face of a fluid cell has a regular sample: the solve moves it. */
static int fsi__slip_regular(const fsi_slip *slip, ptrdiff_t next, int axis, size_t face) {
    const fsi_interface *iface = &slip->iface;
    int covered = next >= 0 && iface->covered[next];
    if (iface->desc.boundary != FSI_BOUNDARY_CUT)
        return !iface->blocked[axis][face] && !covered;
    return iface->open[axis][face] > 0 && (!covered || slip->grid->weight[axis][face] > 0);
}

/* Sum and number of the regular samples along an axis of a cell and of all cells within so many
 * steps. */
static int fsi__slip_samples(const fsi_slip *slip, size_t cell, int axis, int steps,
                             fsi_real *sum) {
    const fsi_interface *iface = &slip->iface;
    int n = 0;
    size_t face;
    for (int dir = 2 * axis; dir < 2 * axis + 2; dir++) {
        if (slip->grid->cell[cell] != FSI_CELL_FLUID)
            break;
        ptrdiff_t next = fsi__slip_next(iface, cell, dir, &face);
        if (!fsi__slip_regular(slip, next, axis, face))
            continue;
        *sum += slip->grid->u[axis][face];
        n++;
    }
    for (int dir = 0; steps > 0 && dir < 2 * iface->dim; dir++) {
        ptrdiff_t next = fsi__slip_seen(iface, cell, dir, &face);
        if (next >= 0)
            n += fsi__slip_samples(slip, (size_t)next, axis, steps - 1, sum);
    }

    return n;
}

/* Mean of the regular samples of the cell, or of the nearest ring of cells that has some, less the
 * solid's velocity. */
static fsi_real fsi__slip_relative(const fsi_slip *slip, int side, int axis) {
    size_t cell = (size_t)slip->iface.side[side].cell;
    for (int ring = 0; ring <= 2; ring++) {
        fsi_real sum = 0;
        int n = fsi__slip_samples(slip, cell, axis, ring, &sum);
        if (n)
            return sum / (fsi_real)n - fsi__get(slip->body[side], axis);
    }
    return 0;
}

/* Surface velocity from the regular samples; the relative part slides (not with coefficient 0).
   What friction takes of it is taken from the samples themselves (fsi__slip_tie), so not here a
   second time. */
static void fsi__slip_estimate(fsi_slip *slip) {
    const fsi_interface *iface = &slip->iface;
    FSI__PARALLEL(iface->sides > 2000)
    for (ptrdiff_t i = 0; i < iface->sides; i++) {
        const fsi_side *side = iface->side + i;
        fsi_real v[3] = FSI__ZERO;
        for (int axis = 0; axis < iface->dim; axis++)
            v[axis] = fsi__slip_relative(slip, (int)i, axis);

        /* (I - N N^T)(V^ - V_s) */
        fsi_vec3 gap = fsi_vec_load(v);
        fsi_vec3 slide = fsi_vec_mad(gap, side->normal, -fsi_vec_dot(gap, side->normal));
        fsi_real slides = fsi__slip_coefficient(slip, side->solid) > 0 ? 1 : (fsi_real)0;
        slide = fsi_vec_scale(slide, slides);
        slip->velocity[i] = fsi_vec_add(slip->body[i], slide);
        slip->gap[i] = gap;
    }
}

/* The start of the fluxes: through sides what slides, along links the fluxes of least norm that
 * carry what the sides bring: L q = inflow, flux a -> b = q_a - q_b. In closed islands but for the
 * mean. */
static void fsi__slip_start(fsi_slip *slip) {
    fsi_real *q = slip->ghost_work;
    fsi_fill((size_t)slip->ghosts, 0, q);
    for (int i = 0; i < slip->iface.sides; i++) {
        const fsi_side *side = slip->iface.side + i;
        fsi_vec3 slide = fsi_vec_sub(slip->velocity[i], slip->body[i]);
        int opens = slip->conduct[i] > 0;
        slip->flux[i] = opens ? (fsi_real)side->sign * fsi__get(slide, side->axis) : 0;
        q[slip->ghost[i]] += slip->flux[i];
    }
    for (int i = 0; i < slip->islands; i++)
        slip->island_sum[i] = 0;
    for (int i = 0; i < slip->ghosts; i++)
        slip->island_sum[slip->island[i]] += (double)q[i];
    for (int i = 0; i < slip->ghosts; i++) {
        int island = slip->island[i];
        if (!slip->island_open[island])
            q[i] -= (fsi_real)(slip->island_sum[island] / (double)slip->island_size[island]);
    }
    if (slip->ghosts)
        (void)fsi_cholesky_solve(&slip->start_factor, q, q);
    for (int i = 0; i < slip->links; i++) {
        const fsi_slip_link *link = slip->link + i;
        slip->link_flux[i] = q[link->a] - (link->b >= 0 ? q[link->b] : 0);
    }
}

/* ---- The matrix: the grid's, and conductances between cells, ghosts and the outside. */
static void fsi__slip_triplets(fsi_slip *slip) {
    slip->triplets.count = 0;
    slip->triplets.failed = 0;
}

static void fsi__slip_put(fsi_slip *slip, int32_t row, int32_t col, fsi_real value) {
    fsi__slip_entries *list = &slip->triplets;
    const fsi_allocator *allocator = &slip->desc.allocator;
    size_t room = list->count + 1;
    list->failed |= FSI__LIST_ROOM(list->row, room, allocator) < 0;
    list->failed |= FSI__LIST_ROOM(list->col, room, allocator) < 0;
    list->failed |= FSI__LIST_ROOM(list->val, room, allocator) < 0;
    if (list->failed)
        return;
    list->row[list->count] = row;
    list->col[list->count] = col;
    list->val[list->count++] = value;
}

/* k (x_i - x_j)^2 / 2; j < 0: x_j = 0 */
static void fsi__slip_put_pair(fsi_slip *slip, int32_t i, int32_t j, fsi_real k) {
    fsi__slip_put(slip, i, i, k);
    if (j < 0)
        return;

    fsi__slip_put(slip, j, j, k);
    fsi__slip_put(slip, i, j, -k);
    fsi__slip_put(slip, j, i, -k);
}

/* The sum of all entries. */
static fsi_result fsi__slip_matrix(const fsi_slip *slip, int rows, int cols,
                                   const fsi_allocator *allocator, fsi_csr *matrix) {
    const fsi__slip_entries *list = &slip->triplets;
    if (list->failed)
        return FSI_ERR_MEMORY;
    return fsi_csr_from_triplets(matrix, rows, cols, list->count, list->row, list->col, list->val,
                                 allocator);
}

/* The Cholesky factor of the sum of all entries. */
static fsi_result fsi__slip_factor(const fsi_slip *slip, int n, const fsi_allocator *allocator,
                                   fsi_cholesky *factor) {
    fsi_cholesky_desc desc = FSI__ZERO;
    desc.allocator = *allocator;
    fsi_csr matrix;
    fsi_result result = fsi__slip_matrix(slip, n, n, allocator, &matrix);
    if (result == FSI_OK)
        result = fsi_cholesky_init(factor, &matrix, &desc);
    return result == FSI_OK ? fsi_cholesky_factor(factor, &matrix, 0, NULL) : result;
}

/* Factor of the graph of the ghosts. alone: links with conductance one; else: rows of the ghosts in
   the matrix. An island that nothing else holds is pinned at its first ghost. */
static fsi_result fsi__slip_ghost_factor(fsi_slip *slip, int alone, const fsi_allocator *allocator,
                                         fsi_cholesky *factor) {
    uint8_t *held = slip->island_held;
    fsi__slip_triplets(slip);
    for (int i = 0; i < slip->islands; i++)
        held[i] = slip->island_open[i];
    for (int i = 0; i < slip->links; i++)
        fsi__slip_put_pair(slip, slip->link[i].a, slip->link[i].b,
                           alone ? 1 : 1 / FSI__SLIP_GHOST_MASS);
    for (int i = 0; i < slip->iface.sides; i++) {
        int ghost = slip->ghost[i];
        fsi__slip_put(slip, ghost, ghost, alone ? 0 : slip->conduct[i]);
        if (!alone && slip->conduct[i] > 0)
            held[slip->island[ghost]] = 1;
    }
    for (int i = 0; i < slip->ghosts; i++) {
        if (held[slip->island[i]])
            continue;
        fsi__slip_put(slip, i, i, 1);
        held[slip->island[i]] = 1;
    }

    return fsi__slip_factor(slip, slip->ghosts, allocator, factor);
}

/* ---- Two-way solids. Degrees of freedom without inverse mass keep v*. Y^T b Y is not lumped to
   the nodes: v* of a light sheet holds stiff forces over its own small mass, and lumped fluid would
   be given that velocity too, also where J sees none of it, which is unstable. */
static int fsi__slip_two_way(const fsi_coupled *door) {
    for (int i = 0; i < door->dof; i++)
        if (door->inverse_mass[door->node ? i / 3 : i * door->dof + i] > 0)
            return 1;
    return 0;
}

/* The next solve of the monolithic core has the solids of ours, and rows that are added to it. */
static void fsi__slip_rows_begin(fsi_slip *slip) {
    fsi_interface rows = slip->iface;
    rows.side = slip->couple.iface.side;
    rows.col = slip->couple.iface.col;
    rows.val = slip->couple.iface.val;
    rows.sides = rows.entries = 0;
    slip->couple.iface = rows;
}

/* One more row: d^T J at side i, with the share of its face that pressure acts on and the fluid
 * mass that follows. It is empty for solids that are not two-way. */
static fsi_result fsi__slip_row_add(fsi_slip *slip, int i, fsi_vec3 d, fsi_real share,
                                    fsi_real mass) {
    const fsi_allocator *allocator = &slip->desc.allocator;
    const fsi_interface *iface = &slip->iface;
    fsi_interface *rows = &slip->couple.iface;
    const fsi_side *side = iface->side + i;
    const fsi_coupled *door = iface->solid[side->solid];
    int most = door->node ? iface->dim * (side->row_end - side->row) : door->dof;
    fsi_result result = FSI__LIST_ROOM(rows->side, rows->sides + 1, allocator);
    if (result >= 0)
        result = FSI__LIST_ROOM(rows->col, rows->entries + most, allocator);
    if (result >= 0)
        result = FSI__LIST_ROOM(rows->val, rows->entries + most, allocator);
    if (result < 0)
        return result;

    fsi_side *row = rows->side + rows->sides++;
    *row = *side;
    row->share = share;
    row->mass = mass;
    row->row = rows->entries;
    int n = rows->entries;
    fsi_real length = fsi__length(d);
    int moves = slip->moves[side->solid] && length > 0;

    /* Nodal: the row of J along the axis has the weights of all components. */
    for (int e = side->row; moves && door->node && e < side->row_end; e++)
        for (int axis = 0; axis < iface->dim; axis++) {
            rows->col[n] = iface->col[e] + axis - side->axis;
            rows->val[n] = iface->val[e] * fsi__get(d, axis);
            n += rows->val[n] < 0 || rows->val[n] > 0;
        }
    if (moves && !door->node) {
        door->row_fn(door, side->element, side->weight, fsi_interface_centre(iface, side),
                     fsi_vec_scale(d, 1 / length), rows->val + n);
        for (int k = 0; k < door->dof; k++, n++) {
            rows->col[n] = k;
            rows->val[n] *= length;
        }
    }
    row->row_end = rows->entries = n;

    return FSI_OK;
}

/* Direction in which the fluid's mass at a side follows the solid: along the normal, and across it
   by what friction ties. With k = 1 / (1 + rate), Y = P (k N N^T + (1 - k) I) J. */
static fsi_vec3 fsi__slip_follows(const fsi_slip *slip, int i) {
    const fsi_side *side = slip->iface.side + i;
    fsi_real k = 1 / (1 + slip->rate[i]);
    fsi_vec3 across = fsi_vec_scale(side->normal, k * fsi__get(side->normal, side->axis));
    return fsi_vec_mad(across, fsi__axis(side->axis), 1 - k);
}

/* Rows 2 i and 2 i + 1 of side i: Z and Y. A shell is pushed along its normal only: the pressures
   in the two cells of a cut face belong to places h apart, and the difference along the shell must
   not move it (in water at rest a leaning sheet would rise). Closed solids: Z = J. */
static fsi_result fsi__slip_side_rows(fsi_slip *slip, int i) {
    const fsi_side *side = slip->iface.side + i;
    fsi_real along = fsi__get(side->normal, side->axis);
    fsi_vec3 pushed = side->shell ? fsi_vec_scale(side->normal, along) : fsi__axis(side->axis);
    fsi_result result = fsi__slip_row_add(slip, i, pushed, side->share, 0);
    if (result < 0)
        return result;
    return fsi__slip_row_add(slip, i, fsi__slip_follows(slip, i), 0, side->mass);
}

static fsi_result fsi__slip_rows(fsi_slip *slip) {
    fsi_result result = FSI_OK;
    fsi__slip_rows_begin(slip);
    for (int i = 0; i < slip->iface.sides && result >= 0; i++)
        result = slip->rows_fn(slip, i);
    return result < 0 ? result : fsi__mono_rows(&slip->couple);
}

/* Entries of value r^T r for a row r, where nodes move. */
static void fsi__slip_put_square(fsi_slip *slip, const fsi_coupled *door, const int32_t *col,
                                 const fsi_real *val, int entries, fsi_real value) {
    for (int j = 0; j < entries; j++)
        for (int k = 0; k < entries; k++)
            if (door->inverse_mass[col[j] / 3] > 0 && door->inverse_mass[col[k] / 3] > 0)
                fsi__slip_put(slip, col[j], col[k], value * val[j] * val[k]);
}

/* Factor of a nodal solid's K, fixed degrees of freedom as identity. It pays: with conjugate
   gradients three frames of cloth_pull take 1189 million instructions, with it 550. */
static fsi_result fsi__slip_K_factor(fsi_slip *slip, int solid, const fsi_allocator *allocator) {
    const fsi_interface *rows = &slip->couple.iface;
    const fsi_coupled *door = rows->solid[solid];
    const fsi_csr *B = door->implicit;
    fsi__slip_triplets(slip);
    for (int i = 0; i < door->dof; i++) {
        fsi_real inverse = door->inverse_mass[i / 3];
        fsi__slip_put(slip, i, i, inverse > 0 ? 1 / inverse : 1);
    }
    for (int i = 0; B && i < B->rows; i++) {
        int first = B->row[i];
        fsi__slip_put_square(slip, door, B->col + first, B->val + first, B->row[i + 1] - first, 1);
    }
    for (int i = 0; i < rows->sides; i++) {
        const fsi_side *row = rows->side + i;
        if (row->solid == solid && row->mass > 0)
            fsi__slip_put_square(slip, door, rows->col + row->row, rows->val + row->row,
                                 row->row_end - row->row, row->mass);
    }
    slip->couple.block[solid].factor = slip->K_factor + solid;

    return fsi__slip_factor(slip, door->dof, allocator, slip->K_factor + solid);
}

/* An arena as allocator: nothing is given back before the next solve. */
static void *fsi__slip_arena_alloc(size_t size, size_t align, void *user) {
    (void)align;
    return fsi_arena_take((fsi_arena *)user, size, 1);
}

static void fsi__slip_arena_free(void *ptr, size_t size, void *user) {
    (void)ptr;
    (void)size;
    (void)user;
}

/* All factors, in a list that is enlarged until they fit: they take memory only when they have
 * outgrown those of all solves before. */
static fsi_result fsi__slip_factors(fsi_slip *slip) {
    size_t room = 4096;
    for (;;) {
        fsi_result result = fsi__list_room(&slip->factors, room, 1, 0, &slip->desc.allocator);
        if (result < 0)
            return result;
        fsi_arena arena = {slip->factors, fsi__list_bytes(slip->factors), 0, 0};
        fsi_allocator allocator = {fsi__slip_arena_alloc, fsi__slip_arena_free, &arena};
        if (slip->ghosts)
            result = fsi__slip_ghost_factor(slip, 1, &allocator, &slip->start_factor);
        if (slip->ghosts && result == FSI_OK)
            result = fsi__slip_ghost_factor(slip, 0, &allocator, &slip->ghost_factor);
        for (int s = 0; s < slip->iface.solids && result == FSI_OK; s++)
            if (slip->moves[s] && slip->iface.solid[s]->node)
                result = fsi__slip_K_factor(slip, s, &allocator);
        if (!arena.failed)
            return result;
        room = 2 * arena.used;
    }
}

/* Velocity of a side's solid along a row. */
static fsi_real fsi__slip_through(const fsi_slip *slip, int row) {
    const fsi_interface *rows = &slip->couple.iface;
    return fsi__side_velocity(rows, rows->side + row);
}

/* What two-way solids are at the sides now. */
static void fsi__slip_bodies(fsi_slip *slip) {
    const fsi_interface *iface = &slip->iface;
    for (int i = 0; i < iface->sides; i++)
        if (slip->moves[iface->side[i].solid])
            slip->body[i] = fsi__slip_body_velocity(slip, iface->side + i);
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
#define FSI__SLIP_STUCK FSI_R(1e12) /* rate where nothing slides */

static void fsi__slip_rates(fsi_slip *slip, fsi_real dt) {
    const fsi_interface *iface = &slip->iface;
    int any = 0;
    for (int i = 0; i < iface->solids; i++)
        any |= fsi__slip_coefficient(slip, i) < 1;
    if (!any)
        return;

    fsi__slip_estimate(slip);
    for (int i = 0; i < iface->sides; i++) {
        fsi_real c = fsi__slip_coefficient(slip, iface->side[i].solid);
        fsi_real speed = fsi__length(fsi_vec_sub(slip->velocity[i], slip->body[i]));
        slip->rate[i] = FSI__SLIP_STUCK;
        if (c > 0)
            slip->rate[i] = fsi__min(FSI_SLIP_STRESS * (1 - c) / c * speed * dt / slip->grid->h,
                                     FSI__SLIP_STUCK);
    }
}

/* 1: there is a sample between this cell and another that it sees. */
static int fsi__tie_open(const fsi_slip *slip, size_t cell, int dir, size_t *face) {
    return fsi__slip_seen(&slip->iface, cell, dir, face) >= 0
           && slip->grid->weight[dir / 2][*face] > 0;
}

/* The rate at which a side holds the sample in a direction of its cell; 0: it does not. */
static fsi_real fsi__tie_rate(const fsi_slip *slip, int i, int dir, size_t *face) {
    const fsi_side *side = slip->iface.side + i;
    size_t cell = (size_t)side->cell;
    size_t other;
    if (dir / 2 == side->axis || !fsi__tie_open(slip, cell, dir, face))
        return 0;

    fsi_real across = fsi__get(side->normal, dir / 2);
    fsi_real rate = slip->rate[i] * fsi__abs(fsi__get(side->normal, side->axis))
                    / fsi__max(1 - across * across, FSI_R(0.25));

    return fsi__tie_open(slip, cell, dir ^ 1, &other) ? rate / 2 : rate;
}

/* rho h A: mass of the fluid of a cell. */
static fsi_real fsi__slip_cell_mass(const fsi_slip *slip) {
    return slip->grid->desc.rho * slip->grid->h * fsi__area(&slip->iface);
}

/* Which samples are held, at most 2 dim a side; a sample that several sides hold is shared by their
 * rates, whose sum stands in slip->u. */
static int fsi__tie_list(fsi_slip *slip) {
    fsi__tie *tie = slip->tie;
    int n = 0;
    for (int i = 0; i < slip->iface.sides; i++)
        for (int dir = 0; slip->rate[i] > 0 && dir < 2 * slip->iface.dim; dir++) {
            size_t face;
            tie[n].share = fsi__tie_rate(slip, i, dir, &face);
            if (!(tie[n].share > 0))
                continue;
            tie[n].side = i;
            tie[n].face = (int32_t)face;
            tie[n].axis = dir / 2;
            tie[n].old = slip->grid->u[dir / 2][face];
            slip->u[dir / 2][face] = 0;
            n++;
        }
    for (int k = 0; k < n; k++)
        slip->u[tie[k].axis][tie[k].face] += tie[k].share;
    for (int k = 0; k < n; k++)
        tie[k].share /= 1 + slip->u[tie[k].axis][tie[k].face];

    return n;
}

/* A row with mass for every sample that is held, and the solids' collision with it. Doors get their
   velocity after it, couple.lambda what the fluid gains. */
static fsi_result fsi__tie_collide(fsi_slip *slip, int n) {
    fsi_couple *couple = &slip->couple;
    fsi_real cell = fsi__slip_cell_mass(slip);
    fsi_result result = FSI_OK;
    fsi__slip_rows_begin(slip);
    for (int k = 0; k < n && result >= 0; k++) {
        const fsi__tie *tie = slip->tie + k;
        result = fsi__slip_row_add(slip, tie->side, fsi__axis(tie->axis), 0, tie->share * cell);
    }
    if (result >= 0)
        result = fsi__mono_rows(couple);
    if (result < 0)
        return result;

    for (int k = 0; k < n; k++)
        couple->side_velocity[k] = slip->tie[k].old;
    fsi__mono_rhs(couple);
    fsi_fill((size_t)couple->columns, 0, couple->answer);
    fsi__mono_finish(couple, slip->grid->pressure);
    fsi__slip_bodies(slip);
    for (int k = 0; k < n; k++) {
        const fsi__tie *tie = slip->tie + k;
        fsi_real gap = tie->old - fsi__get(slip->body[tie->side], tie->axis);
        couple->lambda[k] = -tie->share * cell * gap;
    }

    return FSI_OK;
}

/* u* and v* after friction. Nodal solids get the v* that leads to their velocity once the implicit
   forces act: M v* = M v*_given + what the fluid lost. */
static fsi_result fsi__slip_tie(fsi_slip *slip, fsi_real dt) {
    const fsi_interface *iface = &slip->iface;
    fsi_couple *couple = &slip->couple;
    fsi_grid *grid = slip->grid;
    int most = 0;
    for (int i = 0; i < iface->sides; i++)
        most += slip->rate[i] > 0 ? 2 * iface->dim : 0;
    fsi_result result = FSI__LIST_ROOM(slip->tie, most, &slip->desc.allocator);
    if (result < 0)
        return result;

    int n = most ? fsi__tie_list(slip) : 0;
    if (!n)
        return FSI_OK;
    if ((result = fsi__tie_collide(slip, n)) < 0)
        return result;

    for (int k = 0; k < n; k++) {
        const fsi__tie *tie = slip->tie + k;
        fsi_real *u = grid->u[tie->axis] + tie->face;
        *u += couple->lambda[k] / fsi__slip_cell_mass(slip);
        if (grid->u_plus[tie->axis])
            grid->u_plus[tie->axis][tie->face] = *u;
        slip->friction[3 * iface->side[tie->side].solid + tie->axis] -= couple->lambda[k] / dt;
    }
    fsi__add_impulses(couple);

    const fsi_real *given = slip->v_given;
    for (int s = 0; s < iface->solids; s++) {
        const fsi_coupled *door = iface->solid[s];
        const fsi__solid_block *block = couple->block + s;
        fsi_real *lost = couple->load + block->offset;
        if (door->node && slip->moves[s]) {
            fsi_fill((size_t)door->dof, 0, lost);
            fsi__ut_add(couple, block, couple->lambda, lost);
            for (int k = 0; k < door->dof; k++)
                door->v[k] = given[k] - lost[k] * door->inverse_mass[k / 3];
        }
        given += door->dof;
    }
    fsi__slip_bodies(slip);

    return fsi_grid_build_pressure(grid, dt); /* the right-hand side of the new u* */
}

/* share * sign of a side: how much of its cell's pressure acts on the solid. */
FSI__INLINE fsi_real fsi__slip_outward(const fsi_side *side) {
    return side->share * (fsi_real)side->sign;
}

/* ---- The ghosts' part of the matrix. */
/* Pressure of the ghosts that goes with the cells' x: G^-1 (b + B^T x), B = conductances. */
static void fsi__slip_ghost_pressure(fsi_slip *slip, const fsi_real *x, const fsi_real *b,
                                     fsi_real *out) {
    if (!slip->ghosts)
        return;

    for (int i = 0; i < slip->ghosts; i++)
        out[i] = b ? b[i] : 0;
    for (int i = 0; x && i < slip->iface.sides; i++)
        out[slip->ghost[i]] += slip->conduct[i] * x[slip->iface.side[i].cell];
    (void)fsi_cholesky_solve(&slip->ghost_factor, out, out);
}

/* The right-hand side of the ghosts, b, as the cells see it once the ghosts are eliminated. */
static void fsi__slip_eliminate_ghosts(fsi_slip *slip, const fsi_real *b, fsi_real *cells) {
    fsi__slip_ghost_pressure(slip, NULL, b, slip->ghost_work);
    for (int i = 0; i < slip->iface.sides; i++)
        cells[slip->iface.side[i].cell] += slip->conduct[i] * slip->ghost_work[slip->ghost[i]];
}

/* y += S_g x, S_g = C - B G^-1 B^T: at most 1 / ghost mass per side, so the V-cycle of the grid's
 * matrix serves. */
static void fsi__slip_ghosts_add(const fsi_real *x, fsi_real *y, void *user) {
    fsi_slip *slip = (fsi_slip *)user;
    fsi__slip_ghost_pressure(slip, x, NULL, slip->ghost_work);
    for (int i = 0; i < slip->iface.sides; i++) {
        int32_t cell = slip->iface.side[i].cell;
        y[cell] += slip->conduct[i] * (x[cell] - slip->ghost_work[slip->ghost[i]]);
    }
}

/* ---- The solve. */
/* Lists of one solve. Ghosts and islands are never more than sides. */
static void fsi__slip_side_layout(fsi_slip *slip, fsi_arena *arena) {
    const fsi_interface *iface = &slip->iface;
    size_t sides = (size_t)iface->sides;
    size_t solids = (size_t)iface->solids;
    size_t dof = 0;
    size_t longest = 0;
    for (int i = 0; i < iface->solids; i++) {
        size_t own = (size_t)iface->solid[i]->dof;
        dof += own;
        longest = own > longest ? own : longest;
    }
    fsi_real **const of_sides[] = {&slip->flux,      &slip->wall,       &slip->conduct,
                                   &slip->rate,      &slip->stick,      &slip->ghost_pressure,
                                   &slip->ghost_rhs, &slip->ghost_work, NULL};
    fsi_real **const of_solids[] = {&slip->v_given, &slip->v_star, NULL};
    fsi__take_vectors(arena, sides, of_sides);
    fsi__take_vectors(arena, dof, of_solids);
    FSI__TAKE(slip->row, arena, longest);
    FSI__TAKE(slip->friction, arena, 3 * solids);
    FSI__TAKE(slip->moves, arena, solids);
    FSI__TAKE(slip->K_factor, arena, solids);
    FSI__TAKE(slip->velocity, arena, sides);
    FSI__TAKE(slip->body, arena, sides);
    FSI__TAKE(slip->gap, arena, sides);
    FSI__TAKE(slip->spot, arena, 2 * sides);
    FSI__TAKE(slip->ghost, arena, sides);
    FSI__TAKE(slip->island, arena, sides);
    FSI__TAKE(slip->root, arena, sides);
    FSI__TAKE(slip->island_size, arena, sides);
    FSI__TAKE(slip->island_open, arena, sides);
    FSI__TAKE(slip->island_sum, arena, sides);
    FSI__TAKE(slip->island_held, arena, sides);
}

static fsi_result fsi__slip_lists(fsi_slip *slip) {
    fsi_arena arena = FSI__ZERO;
    fsi_slip next = *slip;
    fsi__slip_side_layout(&next, &arena);
    fsi_result result = fsi__arena_reopen(&arena, &slip->side_lists, &slip->desc.allocator);
    if (result >= 0)
        fsi__slip_side_layout(slip, &arena);
    return result;
}

/* Sides, and what is known of the solids there. */
static fsi_result fsi__slip_sides(fsi_slip *slip) {
    fsi_interface *iface = &slip->iface;
    slip->ghosts = slip->links = slip->islands = 0;
    for (int i = 0; i < iface->solids; i++) {
        fsi_real c = fsi__slip_coefficient(slip, i);
        if (!(c >= 0 && c <= 1))
            return FSI_ERR_ARGUMENT;
    }
    fsi_result result = fsi_grid_classify(slip->grid);
    if (result >= 0)
        result = fsi_interface_sides(iface, slip->grid);
    if (result >= 0)
        result = fsi__slip_lists(slip);
    if (result < 0)
        return result;

    slip->held = 1; /* v* is kept */
    fsi__solids_keep(iface, slip->v_given);
    fsi_fill((size_t)iface->sides, 0, slip->rate);
    fsi_fill(3 * (size_t)iface->solids, 0, slip->friction);
    for (int i = 0; i < iface->solids; i++)
        slip->moves[i] = (uint8_t)fsi__slip_two_way(iface->solid[i]);
    for (int i = 0; i < iface->sides; i++) {
        const fsi_side *side = iface->side + i;
        fsi_real opens = side->mass > 0 ? fsi__slip_coefficient(slip, side->solid) : 0;
        slip->conduct[i] = opens / FSI__SLIP_GHOST_MASS;
        slip->body[i] = fsi__slip_body_velocity(slip, side);
    }

    return FSI_OK;
}

/* The system: ghosts, friction done, rows and K of the solids, factors. */
static fsi_result fsi__slip_prepare(fsi_slip *slip, fsi_real dt) {
    fsi_interface *iface = &slip->iface;
    fsi_couple *couple = &slip->couple;
    fsi_grid *grid = slip->grid;
    fsi_result result = fsi__slip_sides(slip);
    if (result < 0)
        return result;

    /* The grid's matrix with the solids at rest: their flux is in wall and in Z. */
    fsi__clear_impulses(iface);
    fsi__slip_rates(slip, dt);
    for (int i = 0; i < iface->sides; i++)
        iface->velocity[iface->side[i].axis][iface->side[i].face] = 0;
    result = fsi_grid_build_pressure(grid, dt);
    if (result < 0)
        return result;

    const fsi_real *const *weight = (const fsi_real *const *)grid->weight;
    result = fsi_mg_update(grid->mg, grid->cell, grid->weights_are_one ? NULL : weight);
    if (result < 0)
        return result;

    fsi__slip_ghosts(slip);
    if ((result = fsi__slip_links(slip)) < 0)
        return result;

    fsi__slip_islands(slip);
    if ((result = fsi__slip_tie(slip, dt)) < 0)
        return result;

    fsi__solids_keep(iface, slip->v_star);
    fsi_copy(grid->cells, grid->rhs, slip->rhs);
    couple->ghosts.apply_fn = slip->ghosts ? fsi__slip_ghosts_add : NULL;
    couple->ghosts.user = slip;
    couple->noise = grid->noise;
    couple->v_before = slip->v_given;
    couple->regions = couple->rows = 0;
    couple->dt = (double)dt;
    couple->desc.tolerance = slip->desc.tolerance;
    couple->desc.max_iterations = slip->desc.max_iterations ? slip->desc.max_iterations : 2000;
    couple->desc.solver = FSI_COUPLE_NEUMANN; /* no columns: the V-cycle has none to take along */
    for (int i = 0; i < iface->solids; i++)
        if (slip->moves[i] && !iface->solid[i]->node)
            couple->desc.solver = FSI_COUPLE_DEFLATED;
    slip->rows_fn = fsi__slip_side_rows;
    slip->solve_fn = fsi__slip_passes;
    fsi__paper_form(slip);

    if ((result = fsi__slip_rows(slip)) < 0)
        return result;
    if ((result = fsi__slip_factors(slip)) != FSI_OK)
        return result;

    return fsi__sigma_build(couple);
}

/* scale times what flows out of every ghost */
static void fsi__slip_ghost_outflow(const fsi_slip *slip, fsi_real scale, fsi_real *out) {
    fsi_fill((size_t)slip->ghosts, 0, out);
    for (int i = 0; i < slip->iface.sides; i++)
        out[slip->ghost[i]] -= scale * slip->flux[i];
    for (int i = 0; i < slip->links; i++) {
        out[slip->link[i].a] += scale * slip->link_flux[i];
        if (slip->link[i].b >= 0)
            out[slip->link[i].b] -= scale * slip->link_flux[i];
    }
}

/* rhs = -rho h * outflow of the starts, in cells and ghosts. */
static void fsi__slip_rhs(fsi_slip *slip) {
    fsi_real scale = -slip->grid->desc.rho * slip->grid->h;
    fsi_real *rhs = slip->grid->rhs;
    fsi_copy(slip->grid->cells, slip->rhs, rhs);
    for (int i = 0; i < slip->iface.sides; i++) {
        const fsi_side *side = slip->iface.side + i;
        rhs[side->cell] += scale * (slip->flux[i] + fsi__slip_outward(side) * slip->wall[i]);
    }
    fsi__slip_ghost_outflow(slip, scale, slip->ghost_rhs);
}

/* u = u* - grad p^ / rho; fluxes likewise. */
static fsi_result fsi__slip_update(fsi_slip *slip) {
    const fsi_real *p = slip->grid->pressure;
    const fsi_real *p_ghost = slip->ghost_pressure;
    fsi_real scale = 1 / (slip->grid->desc.rho * slip->grid->h);
    fsi_real link_scale = scale / FSI__SLIP_GHOST_MASS;
    for (int i = 0; i < slip->iface.sides; i++)
        slip->flux[i] +=
            scale * slip->conduct[i] * (p[slip->iface.side[i].cell] - p_ghost[slip->ghost[i]]);
    for (int i = 0; i < slip->links; i++) {
        const fsi_slip_link *link = slip->link + i;
        slip->link_flux[i] +=
            link_scale * (p_ghost[link->a] - (link->b >= 0 ? p_ghost[link->b] : 0));
    }

    return fsi_grid_apply_pressure(slip->grid);
}

/* v* into the solids, and what they feel of u* at the rows Y. */
static void fsi__slip_strike(fsi_slip *slip) {
    fsi_couple *couple = &slip->couple;
    fsi__solids_return(&slip->iface, slip->v_star);
    for (int i = 0; i < slip->iface.sides; i++) {
        couple->side_velocity[2 * i] = 0;
        couple->side_velocity[2 * i + 1] = slip->stick[i] + fsi__slip_through(slip, 2 * i + 1);
    }
}

/* The velocity of two-way solids without pressure: the fluid at the walls has struck them. */
static void fsi__slip_free_velocity(fsi_slip *slip) {
    fsi_couple *couple = &slip->couple;
    for (int i = 0; i < slip->iface.sides; i++)
        slip->stick[i] = fsi_vec_dot(fsi__slip_follows(slip, i), slip->gap[i]);
    fsi__slip_strike(slip);
    fsi__mono_rhs(couple);
    for (int s = 0; s < slip->iface.solids; s++)
        fsi__solid_add(couple, couple->block + s, couple->free_answer + couple->block[s].offset);
    fsi__slip_bodies(slip);
}

/* One solve with fresh starts of the fluxes. Shells slide with what the starts were taken for: the
   walls push with J v - Z v of the velocities before, and the solve adds Z of the new ones. */
static fsi_result fsi__slip_pass(fsi_slip *slip, fsi_report *report) {
    fsi_couple *couple = &slip->couple;
    fsi_grid *grid = slip->grid;
    int sides = slip->iface.sides;
    fsi__slip_start(slip);
    for (int i = 0; i < sides; i++)
        slip->wall[i] =
            fsi__get(slip->body[i], slip->iface.side[i].axis) - fsi__slip_through(slip, 2 * i);
    fsi__slip_rhs(slip);
    fsi__slip_eliminate_ghosts(slip, slip->ghost_rhs, grid->rhs);
    for (int axis = 0; axis < grid->dim; axis++)
        fsi_copy(grid->faces[axis], slip->u[axis], grid->u[axis]);

    fsi__slip_strike(slip);
    fsi_result result = fsi__sigma_solve(couple, report);
    if (result < 0)
        return result;

    fsi__slip_ghost_pressure(slip, grid->pressure, slip->ghost_rhs, slip->ghost_pressure);
    fsi_result update = fsi__slip_update(slip);
    fsi__slip_bodies(slip);
    for (int i = 0; i < sides; i++)
        slip->wall[i] += fsi__slip_through(slip, 2 * i);

    return update < 0 ? update : result;
}

/* The solve, several times from the same u*: each pass starts the ghost fluxes from the velocity of
 * the pass before. */
static fsi_result fsi__slip_passes(fsi_slip *slip, fsi_report *report) {
    fsi_couple *couple = &slip->couple;
    fsi_grid *grid = slip->grid;
    fsi_result worst = FSI_OK;
    int passes = slip->desc.passes ? slip->desc.passes : 3;
    for (int axis = 0; axis < grid->dim; axis++)
        fsi_copy(grid->faces[axis], grid->u[axis], slip->u[axis]);
    for (int pass = 0; pass < passes; pass++) {
        fsi__slip_estimate(slip);
        if (!pass && couple->columns) {
            fsi__slip_free_velocity(slip);
            fsi__slip_estimate(slip);
        }
        couple->desc.warm_start = pass > 0;
        fsi_report one = FSI__ZERO;
        fsi_result result = fsi__slip_pass(slip, &one);
        if (result < 0)
            return result;
        worst = result > worst ? result : worst;
        double start = pass ? report->residual_start : one.residual_start;
        one.iterations += report->iterations;
        *report = one;
        report->residual_start = start;
    }
    if (couple->regions)
        fsi_mg_region_add(grid->mg, couple->constant, grid->pressure);
    fsi__slip_estimate(slip);

    return worst;
}

/* Samples at the sides, and what passes through them. */
static void fsi__slip_finish(fsi_slip *slip) {
    fsi_interface *iface = &slip->iface;
    for (int i = 0; i < iface->sides; i++) {
        const fsi_side *side = iface->side + i;
        int closed = !(slip->grid->weight[side->axis][side->face] > 0);
        if (!side->shell)
            iface->velocity[side->axis][side->face] =
                slip->wall[i] + (fsi_real)side->sign * slip->flux[i];
        if (side->mass > 0 || closed)
            fsi_interface_set_sample(slip->grid, side, fsi__get(slip->velocity[i], side->axis));
    }
}

FSI_API fsi_result fsi_slip_solve(fsi_slip *slip, fsi_real dt, fsi_report *report) {
    if (!slip || !slip->memory)
        return FSI_ERR_STATE;
    if (!fsi__positive(dt) || !fsi__slip_desc_valid(&slip->desc))
        return FSI_ERR_ARGUMENT;

    fsi_report own = FSI__ZERO;
    slip->dt = dt;
    slip->stepped = slip->held = 0;
    fsi_result result = fsi__slip_prepare(slip, dt);
    if (result >= 0)
        result = slip->solve_fn(slip, &own);
    if (result < 0) {
        if (slip->held)
            fsi__solids_return(&slip->iface, slip->v_given);
        slip->iface.sides = 0; /* their lists may be missing */
        return result;
    }
    fsi__add_impulses(&slip->couple);
    fsi__ledger_end(&slip->couple, &own);
    fsi__slip_finish(slip);
    own.reason = result;
    slip->report = own;
    if (report)
        *report = own;

    return result;
}

/* ---- Queries. */
FSI_API fsi_result fsi_slip_surface(fsi_slip *slip) {
    if (!slip || !slip->memory)
        return FSI_ERR_STATE;

    fsi_result result = fsi__slip_sides(slip);
    if (result >= 0)
        fsi__slip_estimate(slip);
    return result;
}

/* Net outflow of a fluid cell: regular faces, fluxes into ghosts, walls that move. */
static double fsi__slip_outflow(const fsi_slip *slip, size_t cell) {
    const fsi_interface *iface = &slip->iface;
    double out = 0;
    for (int dir = 0; dir < 2 * iface->dim; dir++) {
        size_t face;
        int axis = dir / 2;
        int k = fsi__slip_side(iface, cell, dir);
        ptrdiff_t next = fsi__slip_next(iface, cell, dir, &face);
        int sees = !iface->blocked[axis][face] && (next < 0 || !iface->covered[next]);
        if (sees || iface->desc.boundary == FSI_BOUNDARY_CUT)
            out += (dir & 1 ? 1 : -1) * (double)iface->open[axis][face]
                   * (double)slip->grid->u[axis][face];
        if (k >= 0)
            out += (double)slip->flux[k]
                   + (double)iface->side[k].share * iface->side[k].sign * (double)slip->wall[k];
    }

    return out;
}

FSI_API double fsi_slip_max_divergence(const fsi_slip *slip) {
    double most = 0;
    if (!slip || !slip->memory)
        return 0;

    double h = (double)slip->iface.h;
    for (size_t c = 0; c < slip->iface.cells; c++)
        if (slip->grid->cell[c] == FSI_CELL_FLUID)
            most = fmax(most, fabs(fsi__slip_outflow(slip, c)) / h);
    if (slip->ghosts)
        fsi__slip_ghost_outflow(slip, 1, slip->ghost_work);
    for (int i = 0; i < slip->ghosts; i++)
        most = fmax(most, fabs((double)slip->ghost_work[i]) / h);

    return most;
}

FSI_API fsi_vec3 fsi_slip_force(const fsi_slip *slip, int solid) {
    fsi_real F[3] = FSI__ZERO;
    if (!slip || !slip->memory || !(slip->dt > 0))
        return fsi_vec(0, 0, 0);

    const fsi_real *p = slip->stepped ? slip->total : slip->grid->pressure;
    for (int i = 0; i < slip->iface.sides; i++) {
        const fsi_side *side = slip->iface.side + i;
        if (side->solid == solid)
            F[side->axis] +=
                fsi__slip_outward(side) * p[side->cell] * fsi__area(&slip->iface) / slip->dt;
    }
    for (int i = 0; i < 3; i++)
        if (solid >= 0 && solid < slip->iface.solids)
            F[i] += slip->friction[3 * solid + i];

    return fsi_vec_load(F);
}

/* ---- Tracers. */
/* b, or the point of a -> b just before the first surface. */
static fsi_vec3 fsi__slip_until(const fsi_slip *slip, fsi_vec3 a, fsi_vec3 b) {
    fsi_vec3 way = fsi_vec_sub(b, a);
    fsi_hit hit;
    int solid;
    if (!fsi_interface_first_hit(&slip->iface, a, b, &hit, &solid))
        return b;
    fsi_real h = slip->grid->h;
    fsi_real length = fsi__max(fsi__length(way), FSI_R(1e-6) * h);
    return fsi_vec_mad(a, way, fsi__max(hit.t - FSI_R(1e-3) * h / length, 0));
}

/* Where the flow carries a point over dt (midpoint rule), not beyond the box; the middle of the
 * path is looked up short of surfaces. */
static fsi_vec3 fsi__slip_drift(const fsi_slip *slip, fsi_vec3 a, fsi_real dt) {
    const fsi_grid *grid = slip->grid;
    fsi_vec3 half = fsi_vec_mad(a, fsi_grid_velocity_at(grid, a), dt / 2);
    fsi_vec3 middle = fsi__slip_until(slip, a, half);
    fsi_real x[3];
    fsi_vec_store(x, fsi_vec_mad(a, fsi_grid_velocity_at(grid, middle), dt));
    for (int k = 0; k < grid->dim; k++) {
        fsi_real first = fsi__get(grid->origin, k);
        x[k] = fsi__clamp(x[k], first, first + grid->h * (fsi_real)slip->iface.n[k]);
    }

    return fsi_vec_load(x);
}

/* count points with the flow; stop: before surfaces as they are now */
static void fsi__slip_flow(const fsi_slip *slip, fsi_real dt, int count, fsi_real *x, int stop) {
    FSI__PARALLEL(count > 1000)
    for (ptrdiff_t i = 0; i < count; i++) {
        fsi_vec3 a = fsi__vec_at(x, i);
        fsi_vec3 b = fsi__slip_drift(slip, a, dt);
        fsi__vec_put(x, i, stop ? fsi__slip_until(slip, a, b) : b);
    }
}

FSI_API fsi_result fsi_slip_trace(const fsi_slip *slip, int count, fsi_real *x, fsi_real dt) {
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
    fsi_real t, weight[3]; /* when, and where on the element */
    int solid, element;
    int below;           /* 1: the point came from against the normal */
    const fsi_real *was; /* the surface's old vertices */
} fsi__sweep_hit;

/* An element as a moving point sees it: its corners relative to the point, before and after. */
typedef struct fsi__sweep_path {
    int dim;
    fsi_vec3 before[3], after[3];
} fsi__sweep_path;

/* Height of the point over the element at time t of the way. */
static fsi_real fsi__sweep_height(const fsi__sweep_path *path, fsi_real t, fsi_real *weight) {
    const fsi_vec3 zero = FSI__ZERO;
    return fsi__element_height(path->dim, path->before, path->after, t, zero, weight);
}

/* 1: all of it is on one side of the point along an axis, all the time. */
static int fsi__sweep_apart(const fsi__sweep_path *path) {
    for (int axis = 0; axis < path->dim; axis++) {
        int more = 0;
        int less = 0;
        for (int k = 0; k < path->dim; k++) {
            fsi_real a = fsi__get(path->before[k], axis);
            fsi_real b = fsi__get(path->after[k], axis);
            more += a > 0 && b > 0;
            less += a < 0 && b < 0;
        }
        if (more == path->dim || less == path->dim)
            return 1;
    }

    return 0;
}

/* Times 0, extrema of the height, 1: between two of them it changes its sign at most once. It is a
 * cubic in time (2D: quadratic), known by four values. Returns the number of pieces. */
static int fsi__sweep_pieces(const fsi__sweep_path *path, fsi_real cut[4]) {
    fsi_real f[4], weight[3];
    for (int k = 0; k < 4; k++)
        f[k] = fsi__sweep_height(path, (fsi_real)k / 3, weight);

    /* Extrema: A t^2 + B t + C = 0. */
    fsi_real A = FSI_R(13.5) * (3 * (f[1] - f[2]) + f[3] - f[0]);
    fsi_real B = 9 * (2 * f[0] - 5 * f[1] + 4 * f[2] - f[3]);
    fsi_real C = (18 * f[1] - 11 * f[0] - 9 * f[2] + 2 * f[3]) / 2;
    fsi_real discriminant = B * B - 4 * A * C;
    int n = 1;
    cut[0] = 0;

    if (discriminant > 0) {
        fsi_real root = fsi__sqrt(discriminant);
        fsi_real q = (B < 0 ? root - B : -root - B) / 2;
        fsi_real one = A < 0 || A > 0 ? q / A : 2;
        fsi_real two = q < 0 || q > 0 ? C / q : 2;
        fsi_real first = fsi__min(one, two);
        fsi_real last = fsi__max(one, two);
        if (first > 0 && first < 1)
            cut[n++] = first;
        if (last > 0 && last < 1)
            cut[n++] = last;
    }
    cut[n] = 1;

    return n;
}

/* Does the point p -> q meet the element a -> b? A sign change of the height while the foot is
   inside (a little more: over a seam both elements say so) is a hit; t: the last time before it. */
static int fsi__sweep_element(int dim, const fsi_vec3 *a, const fsi_vec3 *b, fsi_vec3 p, fsi_vec3 q,
                              fsi__sweep_hit *hit) {
    fsi__sweep_path path;
    path.dim = dim;
    for (int k = 0; k < dim; k++) {
        path.before[k] = fsi_vec_sub(a[k], p);
        path.after[k] = fsi_vec_sub(b[k], q);
    }
    if (fsi__sweep_apart(&path))
        return 0;

    fsi_real cut[4];
    fsi_real *w = hit->weight;
    int n = fsi__sweep_pieces(&path, cut);

    for (int k = 0; k < n; k++) {
        fsi_real lo = cut[k];
        fsi_real hi = cut[k + 1];
        int below = fsi__sweep_height(&path, lo, w) < 0;
        if (below == (fsi__sweep_height(&path, hi, w) < 0))
            continue;
        for (int j = 0; j < 45; j++) {
            fsi_real mid = (lo + hi) / 2;
            if ((fsi__sweep_height(&path, mid, w) < 0) == below)
                lo = mid;
            else
                hi = mid;
        }
        (void)fsi__sweep_height(&path, hi, w);
        fsi_real size = fsi__abs(w[0]) + fsi__abs(w[1]) + fsi__abs(w[2]);
        fsi_real least = -64 * fsi__sqrt(FSI_REAL_EPS) * size;
        if (!(w[0] >= least && w[1] >= least && (dim == 2 || w[2] >= least)))
            continue;
        hit->t = lo;
        hit->below = below;
        return 1;
    }

    return 0;
}

/* Corners of an element at t of the way. */
static void fsi__sweep_corners(const fsi_surface *surface, int e, const fsi_real *was, fsi_real t,
                               fsi_vec3 *x) {
    for (int k = 0; k < surface->dim; k++) {
        int v = 3 * surface->index[surface->dim * e + k];
        fsi_vec3 a = fsi_vec_load(was + v);
        fsi_vec3 b = fsi_vec_load(surface->x + v);
        x[k] = t < 1 ? fsi_vec_mad(a, fsi_vec_sub(b, a), t) : b;
        if (surface->dim == 2)
            x[k].z = 0;
    }
}

/* First element that the point p -> q meets while the surfaces go from t0 to t1 of their way. */
static int fsi__sweep_first(const fsi_slip *slip, fsi_real t0, fsi_real t1, fsi_vec3 p, fsi_vec3 q,
                            fsi__sweep_hit *first) {
    const fsi_interface *iface = &slip->iface;
    const fsi_real *was = slip->was;
    int found = 0;

    for (int i = 0; i < iface->solids; i++) {
        const fsi_surface *surface = &iface->solid[i]->surface;
        for (int e = 0; e < surface->element_count; e++) {
            fsi_vec3 a[3], b[3];
            fsi__sweep_corners(surface, e, was, t0, a);
            fsi__sweep_corners(surface, e, was, t1, b);
            fsi__sweep_hit hit;
            if (!fsi__sweep_element(iface->dim, a, b, p, q, &hit) || (found && hit.t >= first->t))
                continue;
            *first = hit;
            first->solid = i;
            first->element = e;
            first->was = was;
            found = 1;
        }
        was += 3 * (size_t)surface->vertex_count;
    }

    return found;
}

/* A place near `to` on the side of a hit element that the point came from: slid along it, or
 * (stuck) where the element's own point went, at a distance. */
static fsi_vec3 fsi__sweep_beside(const fsi_slip *slip, const fsi__sweep_hit *hit, fsi_real t1,
                                  fsi_vec3 to, int stuck, fsi_real distance) {
    const fsi_surface *surface = &slip->iface.solid[hit->solid]->surface;
    fsi_vec3 x[3];
    fsi__sweep_corners(surface, hit->element, hit->was, t1, x);
    fsi_vec3 edge = fsi_vec_sub(x[1], x[0]);
    fsi_vec3 normal = fsi_vec(-edge.y, edge.x, 0);
    if (surface->dim == 3)
        normal = fsi_vec_cross(edge, fsi_vec_sub(x[2], x[0]));
    normal = fsi__unit(normal);
    if (hit->below)
        normal = fsi_vec_scale(normal, -1);
    if (!stuck)
        return fsi_vec_mad(to, normal, distance - fsi_vec_dot(normal, fsi_vec_sub(to, x[0])));

    fsi_vec3 at = FSI__ZERO;
    fsi_real sum = 0;
    fsi_real weight[3];
    for (int k = 0; k < surface->dim; k++) {
        weight[k] = fsi__max(hit->weight[k], 0);
        sum += weight[k];
    }
    for (int k = 0; k < surface->dim; k++)
        at = fsi_vec_mad(at, x[k], sum > 0 ? weight[k] / sum : 1 / (fsi_real)surface->dim);

    return fsi_vec_mad(at, normal, distance);
}

/* Where a point ends that wants to go from p to q: as far as it can on straight ways that meet
 * nothing; where none is found the time is cut in two. */
static fsi_vec3 fsi__sweep(const fsi_slip *slip, fsi_real t0, fsi_real t1, fsi_vec3 p, fsi_vec3 q,
                           int depth) {
    /* distance from the surface, in cells, of each try; from the fourth on the point is stuck */
    static const double distance[10] = {1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-4, 1e-4, 1e-5, 1e-5};
    fsi_vec3 to = q;
    fsi__sweep_hit hit;
    if (slip->grid->dim == 2)
        p.z = to.z = 0;
    for (int k = 0; k < 10; k++) {
        if (!fsi__sweep_first(slip, t0, t1, p, to, &hit))
            return to;
        to = fsi__sweep_beside(slip, &hit, t1, to, k > 2, slip->grid->h * (fsi_real)distance[k]);
    }
    if (!depth)
        return to;

    fsi_real half = (t0 + t1) / 2;
    fsi_vec3 middle = fsi_vec_scale(fsi_vec_add(p, q), FSI_R(0.5));
    to = fsi__sweep(slip, t0, half, p, middle, depth - 1);

    return fsi__sweep(slip, half, t1, to, q, depth - 1);
}

/* All tracers from `from` (NULL: at rest) to where they are now, past the surfaces that went from
 * `was` to where they are now; those are remembered. */
static fsi_result fsi__slip_carry(fsi_slip *slip, const fsi_real *from) {
    const fsi_interface *iface = &slip->iface;
    if (!slip->tracer) {
        slip->was_count = 0;
        return FSI_OK;
    }
    size_t n = 0;
    int elements = 0;
    for (int i = 0; i < iface->solids; i++) {
        n += 3 * (size_t)iface->solid[i]->surface.vertex_count;
        elements += iface->solid[i]->surface.element_count;
    }
    if (!from)
        from = slip->tracer;
    if ((size_t)slip->was_count == n && slip->was_elements == elements) {
        FSI__PARALLEL(slip->tracers > 100)
        for (ptrdiff_t p = 0; p < slip->tracers; p++) {
            fsi_real *x = slip->tracer + 3 * p;
            fsi_real z = x[2];
            fsi_vec3 start = fsi__vec_at(from, p);
            fsi_vec_store(x, fsi__sweep(slip, 0, 1, start, fsi_vec_load(x), 5));
            if (iface->dim == 2)
                x[2] = z;
        }
    }
    fsi_result result = FSI__LIST_ROOM(slip->was, n + 1, &slip->desc.allocator);
    if (result < 0)
        return result;

    fsi_real *was = slip->was;
    for (int i = 0; i < iface->solids; i++) {
        const fsi_surface *surface = &iface->solid[i]->surface;
        fsi_copy(3 * (size_t)surface->vertex_count, surface->x, was);
        was += 3 * (size_t)surface->vertex_count;
    }
    slip->was_count = (int)n;
    slip->was_elements = elements;

    return FSI_OK;
}

/* ---- State. */
static void fsi__slip_state(void *object, fsi__state *state) {
    fsi_slip *slip = (fsi_slip *)object;
    const fsi_grid *grid = slip->grid;
    fsi__state_match(state, grid->cells);
    fsi__state_match(state, slip->total != NULL);
    for (int axis = 0; slip->total && axis < grid->dim; axis++)
        fsi__state_reals(state, slip->half[axis], grid->faces[axis]);
    if (slip->total)
        fsi__state_reals(state, slip->total, grid->cells);
    int started = (int)fsi__state_integer(state, slip->iface.started, 0, 1);

    /* Where the surfaces were; a block has the bytes of as many numbers as it claims. */
    int64_t most = state->from ? (int64_t)(state->size / sizeof(fsi_real)) : INT32_MAX;
    int elements = (int)fsi__state_integer(state, slip->was_elements, 0, INT32_MAX);
    int count = (int)fsi__state_integer(state, slip->was_count, 0, most);
    if (fsi__state_loads(state))
        state->result = FSI__LIST_ROOM(slip->was, count + 1, &slip->desc.allocator);
    fsi__state_reals(state, slip->was, (size_t)count);
    if (fsi__state_loads(state)) {
        slip->was_count = count;
        slip->was_elements = elements;

        /* What is covered and cut is found again by the next detect. */
        fsi__interface_clear(&slip->iface);
        slip->iface.started = started;
    }
}

#define FSI__STATE_SLIP FSI__STATE_OF('s', 'l', 'i', 'p')

FSI_API size_t fsi_slip_state_size(const fsi_slip *slip) {
    return slip && slip->memory ? fsi__state_size(fsi__slip_state, slip) : 0;
}

FSI_API fsi_result fsi_slip_save(const fsi_slip *slip, void *block) {
    if (!slip || !slip->memory)
        return FSI_ERR_STATE;
    return fsi__state_save(fsi__slip_state, FSI__STATE_SLIP, slip, block);
}

FSI_API fsi_result fsi_slip_restore(fsi_slip *slip, const void *block, size_t size) {
    if (!slip || !slip->memory)
        return FSI_ERR_STATE;
    return fsi__state_restore(fsi__slip_state, FSI__STATE_SLIP, slip, block, size);
}

/* ---- The step. */
/* Second order in time (docs/slip.md): the fluid carries w = u - G p / 2 along the paths of u, p
   the pressure of the whole last step, and the solve finds the rest of the new one. Without this
   the drag of a body in steady flow is of first order in dt. */
static void fsi__slip_reflect(fsi_slip *slip) {
    for (int axis = 0; axis < slip->grid->dim; axis++) {
        for (size_t i = 0; i < slip->grid->faces[axis]; i++)
            slip->u[axis][i] = slip->grid->u[axis][i] - slip->half[axis][i];
        slip->grid->carried[axis] = slip->u[axis];
    }
}

/* After the solve: slip->u = u*, so u* - u is the gradient of the new part. */
static void fsi__slip_reflected(fsi_slip *slip) {
    const fsi_grid *grid = slip->grid;
    for (int axis = 0; axis < grid->dim; axis++)
        for (size_t i = 0; i < grid->faces[axis]; i++) {
            int on = slip->reflecting && grid->weight[axis][i] > 0;
            fsi_real gradient = slip->half[axis][i] + slip->u[axis][i] - grid->u[axis][i];
            slip->half[axis][i] = on ? gradient / 2 : 0;
        }
    for (size_t i = 0; i < grid->cells; i++)
        slip->total[i] = (slip->reflecting ? slip->total[i] / 2 : 0) + grid->pressure[i];
    slip->stepped = 1;
}

static fsi_result fsi__slip_detect_stage(fsi_coupled *const *solid, int count, void *scheme) {
    return fsi_slip_detect((fsi_slip *)scheme, solid, count);
}

/* Tracers past the surfaces that begin_fn may have moved; second order where it holds. */
static fsi_result fsi__slip_start_stage(fsi_real dt, void *scheme) {
    fsi_slip *slip = (fsi_slip *)scheme;
    int plain = !slip->iface.shells && !slip->grid->phi && fsi_grid_cfl(slip->grid, dt) <= 2;
    slip->reflecting = slip->total && slip->desc.form == FSI_SLIP_REPAIRED && plain;
    for (int i = 0; i < slip->iface.solids; i++)
        if (fsi__slip_two_way(slip->iface.solid[i]))
            slip->reflecting = 0;
    fsi_result result = fsi__slip_carry(slip, NULL);
    if (result >= 0 && slip->reflecting)
        fsi__slip_reflect(slip);

    return result;
}

static fsi_result fsi__slip_solve_stage(fsi_real dt, fsi_report *report, void *scheme) {
    fsi_slip *slip = (fsi_slip *)scheme;
    fsi_result result = fsi_slip_solve(slip, dt, report);
    if (result >= 0 && slip->total)
        fsi__slip_reflected(slip);
    return result;
}

/* Tracers with the flow, past surfaces: fsi__slip_carry brings them back when those have moved too.
 */
static fsi_result fsi__slip_flow_stage(fsi_real dt, void *scheme) {
    fsi_slip *slip = (fsi_slip *)scheme;
    size_t n = 3 * (size_t)slip->tracers;
    if (!slip->tracer)
        return FSI_OK;
    if (slip->tracers < 0 || !fsi_all_finite(n, slip->tracer))
        return FSI_ERR_ARGUMENT;

    fsi_result result = FSI__LIST_ROOM(slip->from, n + 1, &slip->desc.allocator);
    if (result < 0)
        return result;

    fsi_copy(n, slip->tracer, slip->from);
    fsi__slip_flow(slip, dt, slip->tracers, slip->tracer, 0);

    return FSI_OK;
}

static fsi_result fsi__slip_moved_stage(fsi_real dt, void *scheme) {
    fsi_slip *slip = (fsi_slip *)scheme;
    (void)dt;
    return fsi__slip_carry(slip, slip->from);
}

FSI_API fsi_result fsi_slip_step(fsi_slip *slip, const fsi_scene *scene, fsi_real dt,
                                 fsi_report *report) {
    if (!slip || !slip->memory || !scene || !fsi__positive(dt))
        return FSI_ERR_ARGUMENT;

    fsi__stages stages = FSI__ZERO;
    stages.grid = slip->grid;
    stages.iface = &slip->iface;
    stages.scheme = slip;
    stages.detect_fn = fsi__slip_detect_stage;
    stages.start_fn = fsi__slip_start_stage;
    stages.solve_fn = fsi__slip_solve_stage;
    stages.flow_fn = fsi__slip_flow_stage;
    stages.moved_fn = fsi__slip_moved_stage;
    fsi_report own = FSI__ZERO;
    fsi_result result = fsi__step_page(&stages, scene, dt, &own);
    if (result >= 0 && report) {
        *report = own;
        report->divergence = fsi_slip_max_divergence(slip);
    }

    return result;
}
#endif

/* ------------------------------------------------------------------------------------------------
 * >>partitioned */
#define FSI__BASIS 128 /* most pairs of one step in a reduced model */

/* A difference of this step joins the model unless it depends on newer ones to this share. */
#define FSI__KEEP (sizeof(fsi_real) == 4 ? 2e-4 : 1e-9)

/* papers: a printed variant changes predict_fn or enough, see the last chapter. room: differences
 * that a model can store. */
static void fsi__paper_exchange(fsi_partitioned *scheme, int room);
static int fsi__reduced_solve(fsi_partitioned *scheme, const fsi__model *A, const fsi__model *B,
                              const fsi_real *r, fsi_real *d);

/* ---- Memory and state. */
/* What a model keeps from step to step; this stands first in the block, because a state is a copy
 * of its beginning. */
static void fsi__model_layout_kept(fsi__model *model, fsi_arena *arena) {
    size_t room = (size_t)model->room;
    FSI__TAKE(model->d, arena, room * (size_t)model->in);
    FSI__TAKE(model->e, arena, room * (size_t)model->out);
    FSI__TAKE(model->slot, arena, room);
}

static void fsi__model_layout(fsi__model *model, fsi__model *other, fsi_arena *arena) {
    size_t room = (size_t)model->room;
    size_t basis = (size_t)model->basis;
    model->most = room + basis;
    FSI__TAKE(model->q, arena, basis * (size_t)model->in);
    FSI__TAKE(model->y, arena, basis * (size_t)model->out);
    FSI__TAKE(model->C, arena, basis * room);
    FSI__TAKE(model->G, arena, room * room);
    FSI__TAKE(model->L, arena, room * room);
    FSI__TAKE(model->weight, arena, model->most);
    FSI__TAKE(model->choice, arena, room);
    FSI__TAKE(model->dropped, arena, room);
    FSI__TAKE(model->with_other, arena, model->most * model->most);
    other->of_other = model->with_other;
}

static void fsi__exchange_pair_layout(fsi_exchange_pair *pair, size_t n, size_t m,
                                      fsi_arena *arena) {
    FSI__TAKE(pair->x_f, arena, n);
    FSI__TAKE(pair->p_f, arena, m);
    FSI__TAKE(pair->p_s, arena, m);
    FSI__TAKE(pair->x_s, arena, n);
}

static void fsi__partitioned_layout(fsi_partitioned *scheme, fsi_arena *arena) {
    size_t n = (size_t)scheme->desc.n;
    size_t m = (size_t)scheme->desc.m;
    fsi__model *fluid = &scheme->fluid;
    fsi__model *solid = &scheme->solid;

    /* The state, up to the fluid's q. */
    fsi__model_layout_kept(fluid, arena);
    fsi__model_layout_kept(solid, arena);
    FSI__TAKE(scheme->p_last, arena, m);

    fsi__model_layout(fluid, solid, arena);
    fsi__model_layout(solid, fluid, arena);
    fsi__exchange_pair_layout(&scheme->last, n, m, arena);
    fsi__exchange_pair_layout(&scheme->before, n, m, arena);
    fsi__exchange_pair_layout(&scheme->nearest, n, m, arena);
    FSI__TAKE(scheme->residual, arena, n);
    FSI__TAKE(scheme->residual_before, arena, n);
    FSI__TAKE(scheme->gap, arena, n + m);
    FSI__TAKE(scheme->change, arena, n + m);
    FSI__TAKE(scheme->step, arena, n + m);

    size_t most = fluid->most;
    FSI__TAKE(scheme->matrix, arena, 3 * most * most + most);
    FSI__TAKE(scheme->pivot, arena, most);
    scheme->papers = fsi_arena_take(arena, scheme->papers_size, 1);
}

/* No product of two columns is known. */
static void fsi__model_unknown(fsi__model *model) {
    fsi_fill((size_t)model->room * (size_t)model->room, FSI_REAL_MAX, model->G);
    fsi_fill(model->most * model->most, FSI_REAL_MAX, model->with_other);
}

/* The description with its defaults; 0: it is not valid. */
static int fsi__partitioned_defaults(fsi_partitioned_desc *desc) {
    if (desc->per_node == 0)
        desc->per_node = 1;
    if (desc->omega == 0)
        desc->omega = FSI_R(0.5);
    if (desc->max_iterations == 0)
        desc->max_iterations = 30;
    if (desc->min_iterations == 0)
        desc->min_iterations = 1;
    if (desc->reuse == 0)
        desc->reuse = 5;
    else if (desc->reuse < 0)
        desc->reuse = 0;
    if (desc->start == 0)
        desc->start = FSI_R(0.1);
    if (desc->filter == 0)
        desc->filter = FSI_R(0.1);

    int lengths = desc->n >= 1 && desc->m >= 1 && desc->per_node >= 1;
    int counts = desc->max_iterations >= 1 && desc->max_iterations <= 10000 && desc->reuse <= 16;
    int shares = desc->omega > 0 && desc->omega < 2 && desc->filter > 0 && desc->filter < 1;
    int start = desc->start > 0 && desc->start <= 1;
    int tolerance = desc->tolerance > 0 && fsi__finite(desc->tolerance);
    int named = (int)desc->scheme >= 0 && desc->scheme <= FSI_SCHEME_PAPER_RELAXED;
    if (!lengths || !counts || desc->min_iterations > desc->max_iterations)
        return 0;

    return shares && start && tolerance && named && fsi_allocator_valid(&desc->allocator);
}

FSI_API fsi_result fsi_partitioned_init(fsi_partitioned *scheme, const fsi_partitioned_desc *desc) {
    if (!scheme || !desc)
        return FSI_ERR_ARGUMENT;

    memset(scheme, 0, sizeof *scheme);
    fsi_partitioned_desc given = *desc;
    if (!fsi__partitioned_defaults(&given))
        return FSI_ERR_ARGUMENT;

    scheme->desc = given;
    scheme->enough = given.tolerance;
    scheme->predict_fn = given.scheme == FSI_SCHEME_REDUCED ? fsi__reduced_solve : NULL;

    /* Old steps keep at most 8 pairs each on average. */
    int basis = fsi__imin(given.max_iterations + 1, FSI__BASIS);
    int room = basis + 8 * given.reuse;
    fsi__paper_exchange(scheme, room);
    if (!scheme->predict_fn)
        basis = room = 1;
    scheme->fluid.basis = scheme->solid.basis = basis;
    scheme->fluid.room = scheme->solid.room = room;
    scheme->fluid.in = scheme->solid.out = given.n;
    scheme->fluid.out = scheme->solid.in = given.m;

    fsi_arena arena = FSI__ZERO;
    fsi__partitioned_layout(scheme, &arena);
    fsi_result result = fsi__arena_block(&arena, &given.allocator, &scheme->block, &scheme->size);
    if (result < 0) {
        memset(scheme, 0, sizeof *scheme);
        return result;
    }
    fsi__partitioned_layout(scheme, &arena);

    for (int i = 0; i < room; i++)
        scheme->fluid.slot[i] = scheme->solid.slot[i] = i;
    fsi__model_unknown(&scheme->fluid);
    fsi__model_unknown(&scheme->solid);

    return FSI_OK;
}

FSI_API void fsi_partitioned_free(fsi_partitioned *scheme) {
    if (!scheme)
        return;
    fsi_free(&scheme->desc.allocator, scheme->block, scheme->size);
    memset(scheme, 0, sizeof *scheme);
}

FSI_API void fsi_partitioned_forget(fsi_partitioned *scheme) {
    scheme->fluid.current = scheme->fluid.old = 0;
    scheme->solid.current = scheme->solid.old = 0;
    scheme->now.kept_steps = 0;
    scheme->now.has_load = 0;
    if (scheme->block)
        fsi_fill((size_t)scheme->desc.m, 0, scheme->p_last);
}

/* State. Between steps no difference belongs to the current one, so the old ones are enough. */
static void fsi__model_state(fsi__model *model, int in, int out, fsi__state *state) {
    size_t room = (size_t)model->room;
    fsi__state_match(state, room);
    fsi__state_reals(state, model->d, room * (size_t)in);
    fsi__state_reals(state, model->e, room * (size_t)out);
    fsi__state_integers(state, model->slot, room, 0, model->room - 1);

    /* The rest of the room is for the differences of a step. */
    int old = (int)fsi__state_integer(state, model->old, 0, model->room - model->basis);
    if (fsi__state_loads(state)) {
        model->old = old;
        fsi__model_unknown(model);
    }
}

static void fsi__partitioned_state(void *object, fsi__state *state) {
    fsi_partitioned *scheme = (fsi_partitioned *)object;
    const fsi_partitioned_desc *desc = &scheme->desc;
    fsi_partitioned_now now = scheme->now;
    const int steps = sizeof now.step_columns / sizeof *now.step_columns;
    fsi__state_match(state, (size_t)desc->n);
    fsi__state_match(state, (size_t)desc->m);
    fsi__state_copy(state, &now, 1, sizeof now);
    fsi__state_require(state, now.n >= 0 && now.n <= desc->n && now.m >= 0 && now.m <= desc->m);
    fsi__state_require(state, now.kept_steps >= 0 && now.kept_steps <= steps);
    for (int i = 0; i < steps; i++)
        fsi__state_require(state, now.step_columns[i] >= 0 && now.step_columns[i] <= FSI__BASIS);
    fsi__model_state(&scheme->fluid, desc->n, desc->m, state);
    fsi__model_state(&scheme->solid, desc->m, desc->n, state);
    fsi__state_reals(state, scheme->p_last, (size_t)desc->m);
    if (fsi__state_loads(state))
        scheme->now = now;
}

#define FSI__STATE_PARTITIONED FSI__STATE_OF('p', 'a', 'r', 't')

FSI_API size_t fsi_partitioned_state_size(const fsi_partitioned *scheme) {
    return scheme && scheme->block ? fsi__state_size(fsi__partitioned_state, scheme) : 0;
}

FSI_API fsi_result fsi_partitioned_save(const fsi_partitioned *scheme, void *block) {
    if (!scheme || !scheme->block)
        return FSI_ERR_STATE;
    return fsi__state_save(fsi__partitioned_state, FSI__STATE_PARTITIONED, scheme, block);
}

FSI_API fsi_result fsi_partitioned_restore(fsi_partitioned *scheme, const void *block,
                                           size_t size) {
    if (!scheme || !scheme->block)
        return FSI_ERR_STATE;
    return fsi__state_restore(fsi__partitioned_state, FSI__STATE_PARTITIONED, scheme, block, size);
}

/* Largest length of a node's part of r. */
static fsi_real fsi__node_norm(int n, int per_node, const fsi_real *r) {
    fsi_real most = 0;
    for (int i = 0; i < n; i += per_node) {
        fsi_real sum = 0;
        for (int j = i; j < i + per_node && j < n; j++)
            sum += r[j] * r[j];
        if (!(sum <= most))
            most = sum;
    }

    return fsi__sqrt(most);
}

/* ---- A reduced model. */
/* 1 when |a - a0| <= share |a| */
static int fsi__round_off(size_t n, const fsi_real *a, const fsi_real *a0, fsi_real share) {
    fsi_real gap = 0;
    fsi_real size = 0;
    for (size_t i = 0; i < n; i++) {
        gap += (a[i] - a0[i]) * (a[i] - a0[i]);
        size += a[i] * a[i];
    }
    return !(gap > size * share * share);
}

/* Slot of old difference j; its input and image. */
FSI__INLINE int fsi__old_slot(const fsi__model *model, int j) {
    return model->slot[model->current + j];
}

FSI__INLINE const fsi_real *fsi__old_input(const fsi__model *model, int j) {
    return model->d + (size_t)fsi__old_slot(model, j) * (size_t)model->in;
}

FSI__INLINE const fsi_real *fsi__old_image(const fsi__model *model, int j) {
    return model->e + (size_t)fsi__old_slot(model, j) * (size_t)model->out;
}

/* Column i of those in use, this step's first: its input, its image, its number among all products.
 */
FSI__INLINE const fsi_real *fsi__column_input(const fsi__model *model, int i) {
    return i < model->kept ? model->q + (size_t)i * (size_t)model->in
                           : fsi__old_input(model, model->choice[i - model->kept]);
}

FSI__INLINE const fsi_real *fsi__column_image(const fsi__model *model, int i) {
    return i < model->kept ? model->y + (size_t)i * (size_t)model->out
                           : fsi__old_image(model, model->choice[i - model->kept]);
}

FSI__INLINE int fsi__column_number(const fsi__model *model, int i) {
    return i < model->kept ? i
                           : model->basis + fsi__old_slot(model, model->choice[i - model->kept]);
}

/* a . b, formed when first asked for */
FSI__INLINE fsi_real fsi__once(fsi_real *product, int n, const fsi_real *a, const fsi_real *b) {
    if (!(*product < FSI_REAL_MAX))
        *product = (fsi_real)fsi_dot((size_t)n, a, b);
    return *product;
}

/* Column `number` changes: its input is a row of one table of products, its image a column of the
 * other. */
static void fsi__model_changed(fsi__model *model, size_t number) {
    fsi_fill(model->most, FSI_REAL_MAX, model->with_other + number * model->most);
    for (size_t i = 0; i < model->most; i++)
        model->of_other[i * model->most + number] = FSI_REAL_MAX;
}

/* The orthonormal columns of this step are about to change. */
static void fsi__model_restart(fsi__model *model) {
    fsi_fill((size_t)model->room * (size_t)model->basis, FSI_REAL_MAX, model->C);
    for (int i = 0; i < model->kept; i++)
        fsi__model_changed(model, (size_t)i);
    model->kept = 0;
}

/* A new step: nothing of this step is known. */
static void fsi__model_begin(fsi__model *model, int in, int out) {
    model->in = in;
    model->out = out;
    fsi__model_restart(model);
    model->current = model->chosen = model->used = model->dependent = 0;
    model->stale = 1;
    memset(model->dropped, 0, (size_t)model->room);
}

/* Difference c of this step joins the orthonormal ones (two passes of Gram-Schmidt are enough); 0
 * when it says nothing new. */
static int fsi__model_join(fsi__model *model, int c) {
    if (model->kept == model->basis)
        return 0;

    size_t in = (size_t)model->in;
    size_t out = (size_t)model->out;
    fsi_real *q = model->q + (size_t)model->kept * in;
    fsi_real *y = model->y + (size_t)model->kept * out;
    fsi_copy(in, model->d + (size_t)model->slot[c] * in, q);
    fsi_copy(out, model->e + (size_t)model->slot[c] * out, y);

    /* q -= q_i (q_i . q), and the same combination of the images */
    fsi_fill((size_t)model->kept, 0, model->weight);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < model->kept; i++) {
            const fsi_real *q_i = model->q + (size_t)i * in;
            fsi_real part = (fsi_real)fsi_dot(in, q_i, q);
            fsi_axpy(in, -part, q_i, q);
            model->weight[i] += part;
        }
    for (int i = 0; i < model->kept; i++)
        fsi_axpy(out, -model->weight[i], model->y + (size_t)i * out, y);

    fsi_real length = (fsi_real)fsi_norm(in, q);
    if (!(length > (fsi_real)FSI__KEEP) || !fsi_all_finite(out, y))
        return 0;

    fsi_scale(in, 1 / length, q);
    fsi_scale(out, 1 / length, y);
    model->kept++;

    return 1;
}

/* Stores the difference (a - a0 -> b - b0), scaled by the length of its input, in front of all
 * others. 0: it says nothing. */
static int fsi__model_store(fsi__model *model, const fsi_real *a, const fsi_real *a0,
                            const fsi_real *b, const fsi_real *b0) {
    size_t in = (size_t)model->in;
    size_t out = (size_t)model->out;
    size_t room = (size_t)model->room;

    /* A difference of round-off says nothing. */
    fsi_real round_off = 256 * FSI_REAL_EPS;
    if (fsi__round_off(in, a, a0, round_off))
        return 0;
    if (fsi__round_off(in, a, a0, fsi__sqrt(FSI_REAL_EPS)) && fsi__round_off(out, b, b0, round_off))
        return 0;

    /* Where there is no room the oldest leaves. */
    size_t stored = (size_t)model->current + (size_t)model->old;

    if (stored == room) {
        stored--;
        if (model->old > 0)
            model->old--;
        else
            model->current--;
    }
    size_t slot = (size_t)model->slot[stored];
    fsi_real *d = model->d + slot * in;
    fsi_real *e = model->e + slot * out;
    for (size_t i = 0; i < in; i++)
        d[i] = a[i] - a0[i];
    for (size_t i = 0; i < out; i++)
        e[i] = b[i] - b0[i];
    fsi_real length = (fsi_real)fsi_norm(in, d);
    fsi_real scale = length > 0 ? 1 / length : 0;
    if (!fsi__finite(scale))
        scale = 0;
    fsi_scale(in, scale, d);
    fsi_scale(out, scale, e);
    if (!fsi_all_finite(out, e))
        return 0;

    memmove(model->slot + 1, model->slot, stored * sizeof *model->slot);
    model->slot[0] = (int32_t)slot;
    for (size_t i = 0; i < room; i++)
        model->G[slot * room + i] = model->G[i * room + slot] = FSI_REAL_MAX;
    fsi__model_changed(model, (size_t)model->basis + slot);
    model->current++;
    model->stale = 1;

    return 1;
}

/* The model learns what a call said against the call before. */
static void fsi__model_learn(fsi__model *model, const fsi_real *a, const fsi_real *a0,
                             const fsi_real *b, const fsi_real *b0) {
    if (!fsi__model_store(model, a, a0, b, b0)) {
        model->dependent++;
        return;
    }
    int joined = fsi__model_join(model, 0);
    if (!joined)
        model->dependent++;
    if (joined && sizeof(fsi_real) == 8)
        return;

    /* The newest counts most: all of them anew, newest first, and older ones leave. In single
     * precision always, because round-off decides there. */
    fsi__model_restart(model);
    for (int i = 0; i < model->current && 4 * model->kept < 3 * model->basis; i++)
        (void)fsi__model_join(model, i);
}

/* Entry (j, l) of G - C^T C, where j and l are old differences. */
static fsi_real fsi__model_new_part(fsi__model *model, int j, int l) {
    size_t room = (size_t)model->room;
    size_t slot_j = (size_t)fsi__old_slot(model, j);
    size_t slot_l = (size_t)fsi__old_slot(model, l);
    const fsi_real *d_j = fsi__old_input(model, j);
    fsi_real sum =
        fsi__once(model->G + slot_j * room + slot_l, model->in, d_j, fsi__old_input(model, l));
    for (int i = 0; i < model->kept; i++) {
        fsi_real *C_i = model->C + (size_t)i * room;
        const fsi_real *q_i = model->q + (size_t)i * (size_t)model->in;
        sum -= fsi__once(C_i + slot_j, model->in, q_i, d_j) * C_i[slot_l];
    }

    return sum;
}

/* Chooses old differences, newest first, where more than filter of one is new to this step's and to
 * newer ones. Each choice is a row of the Cholesky factor L. */
static void fsi__model_build(fsi__model *model, fsi_real filter) {
    size_t room = (size_t)model->room;
    if (!model->stale)
        return;

    model->stale = model->chosen = 0;

    for (int j = 0; j < model->old; j++) {
        if (model->dropped[j])
            continue;
        fsi_real *row = model->L + (size_t)model->chosen * room;
        for (int l = 0; l < model->chosen; l++) {
            const fsi_real *row_l = model->L + (size_t)l * room;
            fsi_real sum = fsi__model_new_part(model, j, model->choice[l]);
            for (int k = 0; k < l; k++)
                sum -= row[k] * row_l[k];
            row[l] = sum / row_l[l];
        }
        fsi_real rest = fsi__model_new_part(model, j, j);
        for (int k = 0; k < model->chosen; k++)
            rest -= row[k] * row[k];
        if (!(rest > filter * filter)) {
            model->dropped[j] = 1;
            continue;
        }
        row[model->chosen] = fsi__sqrt(rest);
        model->choice[model->chosen++] = j;
    }
    model->used = model->kept + model->chosen;
}

/* T = R T for count sets of coefficients, T[used * count] by columns in use. */
static void fsi__model_weigh(const fsi__model *model, size_t count, fsi_real *T) {
    size_t room = (size_t)model->room;
    fsi_real *old = T + (size_t)model->kept * count;

    /* old = (L L^T)^-1 (old - C^T new), forward and then backward; new -= C old on the way back */
    for (int j = 0; j < model->chosen; j++) {
        const fsi_real *C_j = model->C + fsi__old_slot(model, model->choice[j]);
        const fsi_real *L_j = model->L + (size_t)j * room;
        fsi_real *row = old + (size_t)j * count;
        for (int i = 0; i < model->kept; i++)
            fsi_axpy(count, -C_j[(size_t)i * room], T + (size_t)i * count, row);
        for (int i = 0; i < j; i++)
            fsi_axpy(count, -L_j[i], old + (size_t)i * count, row);
        for (size_t i = 0; i < count; i++)
            row[i] /= L_j[j];
    }
    for (int j = model->chosen - 1; j >= 0; j--) {
        const fsi_real *C_j = model->C + fsi__old_slot(model, model->choice[j]);
        const fsi_real *L_j = model->L + (size_t)j * room;
        fsi_real *row = old + (size_t)j * count;
        for (size_t i = 0; i < count; i++)
            row[i] /= L_j[j];
        for (int i = 0; i < j; i++)
            fsi_axpy(count, -L_j[i], row, old + (size_t)i * count);
        for (int i = 0; i < model->kept; i++)
            fsi_axpy(count, -C_j[(size_t)i * room], row, T + (size_t)i * count);
    }
}

/* y += J x. */
static void fsi__model_add(const fsi__model *model, const fsi_real *x, fsi_real *y) {
    for (int i = 0; i < model->used; i++)
        model->weight[i] = (fsi_real)fsi_dot((size_t)model->in, fsi__column_input(model, i), x);
    fsi__model_weigh(model, 1, model->weight);
    for (int i = 0; i < model->used; i++)
        fsi_axpy((size_t)model->out, model->weight[i], fsi__column_image(model, i), y);
}

/* Product of inputs i <= j of columns in use: the inverse of R, known from the choice of columns.
 */
static fsi_real fsi__model_gram(const fsi__model *model, int i, int j) {
    size_t room = (size_t)model->room;
    if (j < model->kept)
        return (fsi_real)(i == j);

    size_t slot = (size_t)fsi__old_slot(model, model->choice[j - model->kept]);
    if (i < model->kept)
        return model->C[(size_t)i * room + slot];
    return model->G[slot * room + (size_t)fsi__old_slot(model, model->choice[i - model->kept])];
}

/* out[i * other->used + j] = product of input i of model with image j of the other. */
static void fsi__model_products(const fsi__model *model, const fsi__model *other, fsi_real *out) {
    for (int i = 0; i < model->used; i++) {
        const fsi_real *input = fsi__column_input(model, i);
        fsi_real *row = model->with_other + (size_t)fsi__column_number(model, i) * model->most;
        for (int j = 0; j < other->used; j++)
            *out++ = fsi__once(row + fsi__column_number(other, j), model->in, input,
                               fsi__column_image(other, j));
    }
}

/* ---- Prediction with both models. */
/* d solves (I - A B) d = r, A and B the Jacobians of two models. With inputs D and images Y of each
   and b = R_B D_B^T d: (R_B^-1 - D_B^T Y_A N) b = D_B^T r, d = r + Y_A N b, N = R_A D_A^T Y_B. */
static int fsi__reduced_solve(fsi_partitioned *scheme, const fsi__model *A, const fsi__model *B,
                              const fsi_real *r, fsi_real *d) {
    size_t n = (size_t)A->out;
    size_t used_a = (size_t)A->used;
    size_t used_b = (size_t)B->used;
    fsi_copy(n, r, d);
    if (!used_a || !used_b)
        return 1;

    fsi_real *M = scheme->matrix;
    fsi_real *N = M + used_b * used_b;
    fsi_real *BA = N + used_a * used_b;
    fsi_real *b = BA + used_a * used_b;

    fsi__model_products(A, B, N);
    fsi__model_products(B, A, BA);
    fsi__model_weigh(A, used_b, N);

    for (int i = 0; i < B->used; i++) {
        fsi_real *row = M + (size_t)i * used_b;
        for (int j = 0; j < B->used; j++)
            row[j] = fsi__model_gram(B, fsi__imin(i, j), fsi__imax(i, j));
        for (size_t j = 0; j < used_a; j++)
            fsi_axpy(used_b, -BA[(size_t)i * used_a + j], N + j * used_b, row);
        b[i] = (fsi_real)fsi_dot(n, fsi__column_input(B, i), r);
    }
    if (fsi_dense_lu(B->used, M, scheme->pivot) != FSI_OK)
        return 0;

    fsi_dense_lu_solve(B->used, M, scheme->pivot, b);

    for (int i = 0; i < A->used; i++) {
        fsi_real weight = 0;
        for (size_t j = 0; j < used_b; j++)
            weight += N[(size_t)i * used_b + j] * b[j];
        fsi_axpy(n, weight, fsi__column_image(A, i), d);
    }

    return fsi_all_finite(n, d);
}

/* Residual of the reduced monolithic model at a known call of one solver, in -> out, whose output
 * the other took as from -> to: r = to - in + J (out - from). */
static void fsi__reduced_residual(fsi_partitioned *scheme, const fsi__model *other,
                                  const fsi_real *in, const fsi_real *out, const fsi_real *from,
                                  const fsi_real *to, fsi_real *r) {
    for (int i = 0; i < other->out; i++)
        r[i] = to[i] - in[i];
    for (int i = 0; i < other->in; i++)
        scheme->change[i] = out[i] - from[i];
    fsi__model_add(other, scheme->change, r);
}

/* in += d, the root of that model: (I - J J_own) d = r. This is eq. (6) with own = fluid and (7)
 * with own = solid, less what holds at that input. */
static int fsi__reduced_predict(fsi_partitioned *scheme, const fsi__model *own,
                                const fsi__model *other, const fsi_real *r, fsi_real *in) {
    fsi_real *d = scheme->step;
    int done = scheme->predict_fn(scheme, other, own, r, d);
    if (done)
        fsi_axpy((size_t)own->in, 1, d, in);
    return done;
}

/* ---- One step of the exchange. */
typedef struct fsi__exchange {
    const fsi_blackbox *fluid, *solid;
    int pairs;        /* calls of each solver so far */
    int exact;        /* 1: the solid got p_F itself, so X_S - X_F is the true residual */
    int dropped;      /* times a reduced model was given up */
    int lean;         /* pairs without progress */
    fsi_real omega;   /* Aitken's */
    fsi_real first;   /* norm of the first residual */
    fsi_real norm;    /* of the last */
    fsi_real best;    /* least norm that counts as progress */
    fsi_real nearest; /* norm of the pair kept in scheme->nearest */
} fsi__exchange;

static double fsi__partitioned_clock(const fsi_partitioned *scheme) {
    return scheme->desc.clock_fn ? scheme->desc.clock_fn(scheme->desc.clock_user) : 0;
}

static void fsi__exchange_copy(const fsi_partitioned *scheme, const fsi_exchange_pair *from,
                               fsi_exchange_pair *to) {
    size_t n = (size_t)scheme->now.n;
    size_t m = (size_t)scheme->now.m;
    fsi_copy(n, from->x_f, to->x_f);
    fsi_copy(m, from->p_f, to->p_f);
    fsi_copy(m, from->p_s, to->p_s);
    fsi_copy(n, from->x_s, to->x_s);
}

/* One call of a solver from the state of the last accepted step: F(x_f) = p_f (which = 0) or S(p_s)
 * = x_s (1). Its model learns what this says against the call before, but for the first of a step.
 */
static fsi_result fsi__exchange_call(fsi_partitioned *scheme, const fsi__exchange *exchange,
                                     int which) {
    const fsi_exchange_pair *last = &scheme->last;
    const fsi_exchange_pair *before = &scheme->before;
    const fsi_blackbox *box = which ? exchange->solid : exchange->fluid;
    const fsi_real *in = which ? last->p_s : last->x_f;
    fsi_real *out = which ? last->x_s : last->p_f;
    fsi__model *model = which ? &scheme->solid : &scheme->fluid;
    int first = exchange->pairs == 0;

    double start = fsi__partitioned_clock(scheme);
    fsi_result result = !first && box->restore_fn ? box->restore_fn(box->user) : FSI_OK;
    if (result >= 0)
        result = box->solve_fn(in, out, box->user);
    double took = fsi__partitioned_clock(scheme) - start;
    scheme->seconds[which] += took;
    scheme->seconds[2] -= took;
    if (result < 0)
        return result;

    scheme->told[which] = result;
    if (!fsi_all_finite((size_t)model->out, out))
        return FSI_ERR_NUMERIC;
    if (!first && scheme->predict_fn)
        fsi__model_learn(model, in, which ? before->p_s : before->x_f, out,
                         which ? before->x_s : before->p_f);

    return FSI_OK;
}

/* The load that the solid gets: p_F itself, or what the reduced models make of it. */
static void fsi__exchange_load(fsi_partitioned *scheme, fsi__exchange *exchange) {
    fsi_exchange_pair *last = &scheme->last;
    fsi_exchange_pair *nearest = &scheme->nearest;
    size_t m = (size_t)scheme->now.m;
    int mild = scheme->now.has_load || scheme->desc.gentle;
    fsi_copy(m, last->p_f, last->p_s);
    exchange->exact = 1;
    if (!scheme->predict_fn)
        return;

    /* First call: from the load of the last step, or from none, a share of the way to p_F. */
    if (exchange->pairs == 0) {
        if (!mild || !(scheme->desc.start < 1))
            return;
        for (size_t i = 0; i < m; i++)
            last->p_s[i] =
                scheme->p_last[i] + scheme->desc.start * (last->p_f[i] - scheme->p_last[i]);
        exchange->exact = 0;
        return;
    }

    /* Later ones: eq. (7). The second start-up pair of Algorithm 1 takes p_F. */
    if (exchange->pairs == 1 && scheme->solid.used == 0)
        return;

    fsi__reduced_residual(scheme, &scheme->fluid, nearest->p_s, nearest->x_s, last->x_f, last->p_f,
                          scheme->gap);
    fsi_copy(m, nearest->p_s, last->p_s);
    if (fsi__reduced_predict(scheme, &scheme->solid, &scheme->fluid, scheme->gap, last->p_s)) {
        exchange->exact = 0;
        return;
    }
    fsi_copy(m, last->p_f, last->p_s);
    exchange->dropped++;
}

/* One pair of calls: p_F = F(X_F), then the solid with p_F or with the prediction of eq. (7). */
static fsi_result fsi__exchange_pair_of_calls(fsi_partitioned *scheme, fsi__exchange *exchange) {
    int learns = exchange->pairs > 0 && scheme->predict_fn;
    fsi_result result = fsi__exchange_call(scheme, exchange, 0);
    if (result < 0)
        return result;

    scheme->now.fluid_calls++;
    if (learns)
        fsi__model_build(&scheme->fluid, scheme->desc.filter);

    fsi__exchange_load(scheme, exchange);
    if ((result = fsi__exchange_call(scheme, exchange, 1)) < 0)
        return result;

    scheme->now.solid_calls++;
    if (learns)
        fsi__model_build(&scheme->solid, scheme->desc.filter);
    exchange->pairs++;

    return FSI_OK;
}

/* r = S(p_F) - X_F: exact, or estimated through the reduced solid X_S - X_F + S_p (p_F - p_S). */
static void fsi__exchange_residual(fsi_partitioned *scheme, fsi__exchange *exchange) {
    const fsi_exchange_pair *last = &scheme->last;
    if (exchange->exact)
        for (int i = 0; i < scheme->now.n; i++)
            scheme->residual[i] = last->x_s[i] - last->x_f[i];
    else
        fsi__reduced_residual(scheme, &scheme->solid, last->x_f, last->p_f, last->p_s, last->x_s,
                              scheme->residual);
    exchange->norm = fsi__node_norm(scheme->now.n, scheme->desc.per_node, scheme->residual);
}

/* The solid once more with p_F itself: what the fluid lost is what the solid gets. */
static fsi_result fsi__exchange_final(fsi_partitioned *scheme, fsi__exchange *exchange) {
    size_t m = (size_t)scheme->now.m;
    size_t n = (size_t)scheme->now.n;
    if (exchange->exact || scheme->desc.no_final_solve)
        return FSI_OK;

    fsi_copy(m, scheme->last.p_s, scheme->before.p_s);
    fsi_copy(n, scheme->last.x_s, scheme->before.x_s);
    fsi_copy(m, scheme->last.p_f, scheme->last.p_s);
    fsi_result result = fsi__exchange_call(scheme, exchange, 1);
    if (result < 0)
        return result;

    exchange->exact = 1;
    fsi__exchange_residual(scheme, exchange);

    return FSI_OK;
}

/* Aitken's factor: omega' = -omega r0 . (r - r0) / |r - r0|^2. */
static fsi_real fsi__exchange_aitken(const fsi_partitioned *scheme, fsi__exchange *exchange) {
    double along = 0;
    double square = 0;
    double size = 0;
    double least = 256 * (double)FSI_REAL_EPS;
    for (int i = 0; i < scheme->now.n; i++) {
        double r = (double)scheme->residual[i];
        double r0 = (double)scheme->residual_before[i];
        double change = (double)(scheme->residual[i] - scheme->residual_before[i]);
        along += r0 * change;
        square += change * change;
        size += r * r;
    }
    if (square > least * least * size)
        exchange->omega = -exchange->omega * (fsi_real)(along / square);

    return exchange->omega;
}

/* Predictions are made about the pair with the smallest residual: about a distant one, rounding of
 * large numbers is what they would end with. */
static void fsi__exchange_keep_nearest(fsi_partitioned *scheme, fsi__exchange *exchange) {
    if (exchange->pairs > 1 && !(exchange->norm < exchange->nearest))
        return;

    /* The answer to a mild first load says nothing about the residual. */
    int unknown = exchange->pairs == 1 && !exchange->exact;
    exchange->nearest = unknown ? FSI_REAL_MAX : exchange->norm;
    fsi__exchange_copy(scheme, &scheme->last, &scheme->nearest);
}

/* X_F by eq. (6). 0: the models give none. */
static int fsi__exchange_predict(fsi_partitioned *scheme, fsi__exchange *exchange) {
    const fsi_exchange_pair *nearest = &scheme->nearest;
    size_t n = (size_t)scheme->now.n;
    fsi_real *X = scheme->last.x_f;
    fsi_real *r = scheme->residual_before;
    fsi__model_build(&scheme->solid, scheme->desc.filter);
    fsi__model_build(&scheme->fluid, scheme->desc.filter);
    if (exchange->norm > exchange->nearest)
        fsi__reduced_residual(scheme, &scheme->solid, nearest->x_f, nearest->p_f, nearest->p_s,
                              nearest->x_s, r);
    fsi_copy(n, nearest->x_f, X);
    if (fsi__reduced_predict(scheme, &scheme->fluid, &scheme->solid, r, X))
        return 1;

    fsi_copy(n, scheme->before.x_f, X);
    exchange->dropped++;

    return 0;
}

/* The next X_F: eq. (6), or X + omega R with a fixed omega or Aitken's. */
static fsi_result fsi__exchange_next(fsi_partitioned *scheme, fsi__exchange *exchange) {
    size_t n = (size_t)scheme->now.n;
    fsi_real omega = scheme->desc.omega;
    if (scheme->next_fn)
        return scheme->next_fn(exchange->pairs, scheme->next_user);
    if (scheme->desc.scheme == FSI_SCHEME_AITKEN && exchange->pairs > 1)
        omega = fsi__exchange_aitken(scheme, exchange);
    fsi_copy(n, scheme->residual, scheme->residual_before);
    fsi__exchange_copy(scheme, &scheme->last, &scheme->before);

    if (scheme->predict_fn) {
        fsi__exchange_keep_nearest(scheme, exchange);
        int nothing_known = exchange->pairs == 1 && scheme->fluid.old == 0;
        if (!nothing_known && fsi__exchange_predict(scheme, exchange))
            return FSI_OK;
        omega = scheme->desc.start;
    }
    fsi_axpy(n, omega, scheme->residual, scheme->last.x_f);

    return FSI_OK;
}

/* Counts pairs without progress. After five of them pairs of earlier steps mislead: the exchange
 * goes on without them. */
static void fsi__exchange_progress(fsi_partitioned *scheme, fsi__exchange *exchange) {
    /* The solid's answer to a mild load is no measure of progress. */
    if (exchange->pairs == 1 && !exchange->exact)
        return;
    if (exchange->norm < FSI_R(0.999) * exchange->best) {
        exchange->best = exchange->norm;
        exchange->lean = 0;
        return;
    }
    if (++exchange->lean != 5 || scheme->fluid.old + scheme->solid.old == 0)
        return;

    memset(scheme->fluid.dropped, 1, (size_t)scheme->fluid.room);
    memset(scheme->solid.dropped, 1, (size_t)scheme->solid.room);
    scheme->fluid.stale = scheme->solid.stale = 1;
    scheme->fluid.old = scheme->solid.old = 0;
    exchange->dropped++;
}

/* 1 when the iteration may end: converged, capped or stalled (*why). */
static int fsi__exchange_finished(fsi_partitioned *scheme, fsi__exchange *exchange,
                                  fsi_result *why) {
    int most = scheme->desc.max_iterations;
    *why = FSI_OK;
    if (exchange->norm <= scheme->enough && exchange->pairs >= scheme->desc.min_iterations)
        return 1;

    fsi__exchange_progress(scheme, exchange);

    /* The models stall after two fifths of the cap without progress, 12 to 24 pairs. */
    int patience = fsi__imin(24, fsi__imax(12, 2 * most / 5));
    int capped = exchange->pairs >= most;
    *why = capped ? FSI_NOT_CONVERGED : FSI_STALLED;

    return capped || (scheme->predict_fn && exchange->lean >= patience);
}

static fsi_result fsi__exchange_loop(fsi_partitioned *scheme, fsi__exchange *exchange) {
    fsi_result why = FSI_OK;

    for (;;) {
        fsi_result result = fsi__exchange_pair_of_calls(scheme, exchange);
        if (result < 0)
            return result;
        fsi__exchange_residual(scheme, exchange);
        if (exchange->pairs == 1) {
            exchange->first = exchange->norm;
            exchange->best = FSI_REAL_MAX;
        }
        if (fsi__exchange_finished(scheme, exchange, &why)) {
            if (why != FSI_OK)
                return why;
            /* The true residual decides. */
            if ((result = fsi__exchange_final(scheme, exchange)) < 0)
                return result;
            if (exchange->norm <= scheme->enough)
                return FSI_OK;
            if (exchange->pairs >= scheme->desc.max_iterations)
                return FSI_NOT_CONVERGED;
        }
        if ((result = fsi__exchange_next(scheme, exchange)) < 0)
            return result;
        if (!fsi_all_finite((size_t)scheme->now.n, scheme->last.x_f))
            return FSI_ERR_NUMERIC;
    }
}

/* The pairs of this step become the newest old ones; the oldest step leaves. */
static void fsi__partitioned_age(fsi_partitioned *scheme) {
    fsi__model *model[2] = {&scheme->fluid, &scheme->solid};
    int32_t *columns = scheme->now.step_columns;
    for (int i = fsi__imin(scheme->now.kept_steps, 15); i > 0; i--)
        columns[i] = columns[i - 1];
    columns[0] = fsi__imin(scheme->fluid.current, scheme->solid.current);
    scheme->now.kept_steps = fsi__imin(scheme->now.kept_steps + 1, scheme->desc.reuse);
    int total = 0;
    for (int i = 0; i < scheme->now.kept_steps; i++)
        total += columns[i];
    for (int i = 0; i < 2; i++) {
        int stored = fsi__imin(model[i]->current + model[i]->old, model[i]->room - model[i]->basis);
        model[i]->old = fsi__imin(total, stored);
        model[i]->current = 0;
    }
}

/* Counters of a step that ended with this result. */
static void fsi__partitioned_count(fsi_partitioned *scheme, fsi_result result) {
    const fsi__model *fluid = &scheme->fluid;
    const fsi__model *solid = &scheme->solid;
    fsi_partitioned_now *now = &scheme->now;
    now->steps++;
    now->capped += result == FSI_NOT_CONVERGED;
    now->stalled += result == FSI_STALLED;
    now->used_columns += ((double)fluid->used - now->used_columns) / (double)now->steps;
    scheme->dependent = fluid->dependent + solid->dependent;
    scheme->filtered = fluid->old - fluid->chosen + solid->old - solid->chosen;
}

FSI_API fsi_result fsi_partitioned_step(fsi_partitioned *scheme, int n, int m,
                                        const fsi_blackbox *fluid, const fsi_blackbox *solid,
                                        fsi_real *x, fsi_real *p, fsi_report *report) {
    if (report)
        memset(report, 0, sizeof *report);
    if (!scheme || !scheme->block)
        return FSI_ERR_STATE;

    double start = fsi__partitioned_clock(scheme);
    int boxes = fluid && solid && fluid->solve_fn && solid->solve_fn;
    int lengths = n >= 1 && m >= 1 && n <= scheme->desc.n && m <= scheme->desc.m;
    if (!boxes || !lengths || !x || !p || !fsi_all_finite((size_t)n, x))
        return FSI_ERR_ARGUMENT;

    /* Begin: pairs of another length are of no use. */
    if (n != scheme->now.n || m != scheme->now.m)
        fsi_partitioned_forget(scheme);
    scheme->now.n = n;
    scheme->now.m = m;
    if (scheme->desc.reuse == 0)
        scheme->fluid.old = scheme->solid.old = 0;
    fsi__model_begin(&scheme->fluid, n, m);
    fsi__model_begin(&scheme->solid, m, n);
    fsi_result result = fluid->save_fn ? fluid->save_fn(fluid->user) : FSI_OK;
    if (result >= 0 && solid->save_fn)
        result = solid->save_fn(solid->user);
    if (result < 0)
        return result;
    if (scheme->predict_fn) {
        fsi__model_build(&scheme->fluid, scheme->desc.filter);
        fsi__model_build(&scheme->solid, scheme->desc.filter);
    }

    /* Exchange until both agree. */
    fsi__exchange exchange = FSI__ZERO;
    exchange.fluid = fluid;
    exchange.solid = solid;
    exchange.omega = scheme->desc.omega;
    fsi_copy((size_t)n, x, scheme->last.x_f);
    scheme->seconds[2] -= start;
    result = fsi__exchange_loop(scheme, &exchange);

    /* End: the answer, and what the next step starts from. */
    fsi__partitioned_count(scheme, result);

    if (result >= 0) {
        fsi_copy((size_t)n, scheme->last.x_f, x);
        fsi_copy((size_t)m, scheme->last.p_s, p);
        fsi_copy((size_t)m, scheme->last.p_s, scheme->p_last);
        scheme->now.has_load = 1;
        fsi__partitioned_age(scheme);
    } else
        fsi_partitioned_forget(scheme);
    if (report) {
        report->reason = result;
        report->iterations = exchange.pairs;
        report->restarts = exchange.dropped + scheme->dependent;
        report->residual_start = (double)exchange.first;
        report->residual = (double)exchange.norm;
    }
    scheme->seconds[2] += fsi__partitioned_clock(scheme);

    return result;
}

/* ------------------------------------------------------------------------------------------------
 * >>boxes */
#ifndef FSI_COUPLE_NO_GRID
/* papers: pressure forces at the vertices, see the last chapter. */
static fsi_result fsi__paper_load(fsi_fluid_box *box);
static void fsi__paper_vertices_free(fsi_fluid_box *box);
static void fsi__fluid_box_hand(fsi_fluid_box *box, fsi_real *out);
static void fsi__fluid_box_give(fsi_fluid_box *box, fsi_real share, fsi_real *out);

/* A black box that has no memory inside a step. */
static fsi_blackbox fsi__plain_box(fsi_result (*solve_fn)(const fsi_real *, fsi_real *, void *),
                                   void *user) {
    fsi_blackbox box = {solve_fn, NULL, NULL, user};
    return box;
}

/* ---- The fluid: memory. */
static void fsi__fluid_box_layout(fsi_fluid_box *box, fsi_arena *arena) {
    const fsi_interface *iface = box->face;
    size_t sides = (size_t)fsi__imax(iface->sides, 1);
    size_t solids = (size_t)iface->solids + 1;
    FSI__TAKE(box->offset, arena, solids);
    FSI__TAKE(box->first_element, arena, solids);
    FSI__TAKE(box->rhs0, arena, box->grid->cells);
    fsi_real **of_sides[] = {&box->u, &box->u_star, &box->area, &box->mass, &box->jump, NULL};
    fsi__take_vectors(arena, sides, of_sides);
    FSI__TAKE(box->region, arena, sides);
    if (!box->swept)
        return;

    size_t elements = 0;
    size_t vertices = 0;
    for (int i = 0; i < iface->solids; i++) {
        elements += (size_t)iface->solid[i]->surface.element_count;
        vertices += (size_t)iface->solid[i]->surface.vertex_count;
    }
    FSI__TAKE(box->behind, arena, elements);
    FSI__TAKE(box->before, arena, elements);
    FSI__TAKE(box->vertex, arena, vertices);
}

/* Closed regions are known only when the pressure system stands. */
static void fsi__fluid_box_region_layout(fsi_fluid_box *box, fsi_arena *arena) {
    size_t regions = (size_t)box->regions;
    FSI__TAKE(box->p0, arena, regions);
    FSI__TAKE(box->stiff, arena, regions);
    FSI__TAKE(box->sweep, arena, regions);
    FSI__TAKE(box->source, arena, regions);
}

/* Places the arrays of a layout in a block that is kept while it is large enough. */
static fsi_result fsi__fluid_box_place(fsi_fluid_box *box,
                                       void (*layout)(fsi_fluid_box *box, fsi_arena *arena),
                                       unsigned char **block) {
    fsi_arena arena = FSI__ZERO;
    layout(box, &arena);
    fsi_result result = fsi__arena_reopen(&arena, block, &box->allocator);
    if (result >= 0)
        layout(box, &arena);
    return result;
}

FSI_API void fsi_fluid_box_free(fsi_fluid_box *box) {
    if (!box)
        return;

    FSI__LIST_FREE(box->block, &box->allocator);
    FSI__LIST_FREE(box->region_block, &box->allocator);
    FSI__LIST_FREE(box->moved.block, &box->allocator);
    fsi__paper_vertices_free(box);
}

/* ---- Swept volumes. */
#define FSI__UNKNOWN (-2) /* region of an element that nobody has told yet */

/* The solid with its surface where the step began. */
static const fsi_coupled *fsi__fluid_box_solid(const fsi_fluid_box *box, int i) {
    return box->follow ? box->moved.given[i] : box->face->solid[i];
}

/* Elements that no line of cell centres meets get their region from neighbours, over shared
 * vertices. */
static void fsi__spread_regions(const fsi_surface *surface, int32_t *element, int32_t *vertex) {
    int missing = 1;
    int corners = surface->dim;
    for (int v = 0; v < surface->vertex_count; v++)
        vertex[v] = FSI__UNKNOWN;
    for (int round = 0; missing && round < 64; round++) {
        missing = 0;
        /* Known elements tell their vertices, */
        for (int e = 0; e < surface->element_count; e++)
            for (int k = 0; element[e] != FSI__UNKNOWN && k < corners; k++)
                vertex[surface->index[corners * e + k]] = element[e];
        /* and these the unknown ones. */
        for (int e = 0; e < surface->element_count; e++) {
            for (int k = 0; element[e] == FSI__UNKNOWN && k < corners; k++)
                element[e] = vertex[surface->index[corners * e + k]];
            missing |= element[e] == FSI__UNKNOWN;
        }
    }
}

/* Which closed regions each element of a nodal surface lies between: told by the sides it makes.

        behind   |   before        the normal points from behind to before
                 |---> n
              element                                                                            */
static void fsi__fluid_box_elements(fsi_fluid_box *box) {
    const fsi_interface *iface = box->face;
    for (int e = 0; e < box->first_element[iface->solids]; e++)
        box->behind[e] = box->before[e] = FSI__UNKNOWN;
    for (int s = 0; s < iface->sides; s++) {
        const fsi_side *side = &iface->side[s];
        fsi_vec3 normal = fsi_surface_normal(&iface->solid[side->solid]->surface, side->element);
        int cell_before = fsi__get(normal, side->axis) * (fsi_real)side->sign < 0;
        int32_t *told = cell_before ? box->before : box->behind;
        told[box->first_element[side->solid] + side->element] = box->region[s];
    }
    for (int i = 0; i < iface->solids; i++) {
        const fsi_coupled *door = iface->solid[i];
        if (!door->node)
            continue;
        fsi__spread_regions(&door->surface, box->behind + box->first_element[i], box->vertex);
        fsi__spread_regions(&door->surface, box->before + box->first_element[i], box->vertex);
    }
}

/* Volume that an element sweeps along its normal while its vertices go from x to x + d: in 2D twice
   the area of a quadrilateral's halves, in 3D the integral over the motion of area . velocity,
   exact for motion along straight lines. */
static double fsi__swept_volume(int dim, const fsi_vec3 *x, const fsi_vec3 *d) {
    fsi_vec3 p = fsi_vec_sub(x[1], x[0]);
    fsi_vec3 u = fsi_vec_sub(d[1], d[0]);

    /* 2D: mean displacement . normal (y, -x) of the mean edge */
    if (dim == 2) {
        fsi_vec3 mean = fsi_vec_scale(fsi_vec_add(d[0], d[1]), FSI_R(0.5));
        fsi_vec3 edge = fsi_vec_mad(p, u, FSI_R(0.5));
        return (double)mean.x * (double)edge.y - (double)mean.y * (double)edge.x;
    }

    /* 3D: mean displacement / 2 . mean of the area normal n0 + t n1 + t^2 n2 */
    fsi_vec3 q = fsi_vec_sub(x[2], x[0]);
    fsi_vec3 w = fsi_vec_sub(d[2], d[0]);
    fsi_vec3 mean = fsi_vec_scale(fsi_vec_add(fsi_vec_add(d[0], d[1]), d[2]), FSI_R(1) / 6);
    fsi_vec3 n0 = fsi_vec_cross(p, q);
    fsi_vec3 n1 = fsi_vec_add(fsi_vec_cross(p, w), fsi_vec_cross(u, q));
    fsi_vec3 n2 = fsi_vec_cross(u, w);

    return (double)fsi_vec_dot(mean,
                               fsi_vec_mad(fsi_vec_mad(n0, n1, FSI_R(0.5)), n2, FSI_R(1) / 3));
}

/* sweep[region] = volume that the nodal surfaces around it sweep under X, per second, less what
 * their sides make of it. */
static void fsi__fluid_box_sweep(fsi_fluid_box *box, const fsi_real *X) {
    const fsi_interface *iface = box->face;
    fsi_fill((size_t)box->regions, 0, box->sweep);

    for (int i = 0; i < iface->solids; i++) {
        const fsi_coupled *door = fsi__fluid_box_solid(box, i);
        const fsi_surface *surface = &door->surface;
        for (int e = 0; door->node && e < surface->element_count; e++) {
            int32_t behind = box->behind[box->first_element[i] + e];
            int32_t before = box->before[box->first_element[i] + e];
            if (behind < 0 && before < 0)
                continue;
            fsi_vec3 x[3], d[3];
            for (int k = 0; k < surface->dim; k++) {
                int v = surface->index[surface->dim * e + k];
                x[k] = fsi__vec_at(surface->x, v);
                d[k] = fsi_vec_load(X + box->offset[i] + 3 * door->node[v]);
            }
            double volume = fsi__swept_volume(surface->dim, x, d) / (double)box->dt;
            if (behind >= 0)
                box->sweep[behind] += (fsi_real)volume;
            if (before >= 0)
                box->sweep[before] -= (fsi_real)volume;
        }
    }
    for (int s = 0; s < iface->sides; s++)
        if (box->region[s] >= 0 && iface->solid[iface->side[s].solid]->node)
            box->sweep[box->region[s]] -= (fsi_real)iface->side[s].sign * box->area[s] * box->u[s];
}

/* ---- The fluid: system. */
/* What the solids at rest leave over in every closed region, m^3/s: sources and scripted faces. */
static void fsi__fluid_box_sources(fsi_fluid_box *box) {
    const fsi_grid *grid = box->grid;
    double volume = (double)(fsi__area(box->face) / (grid->desc.rho * grid->h));
    fsi_mg_region_sums(grid->mg, grid->rhs, box->source);
    box->injected = 0;
    for (int i = 0; i < box->regions; i++) {
        box->source[i] *= volume;
        box->injected += box->source[i];
    }
}

/* The pressure system for the sides of the present interface. */
static fsi_result fsi__fluid_box_system(fsi_fluid_box *box) {
    fsi_grid *grid = box->grid;
    fsi_interface *iface = box->face;
    fsi_result result;
    if ((result = fsi_interface_sides(iface, grid)) < 0)
        return result;
    if ((result = fsi__fluid_box_place(box, fsi__fluid_box_layout, &box->block)) < 0)
        return result;

    /* The solids' flux is added in every solve. */
    if ((result = fsi__sides_at_rest(iface, grid, box->dt, box->u_star)) < 0)
        return result;
    fsi_copy(grid->cells, grid->rhs, box->rhs0);

    /* Closed regions, and what is pushed into them. */
    box->regions = grid->mg->regions;
    result = fsi__fluid_box_place(box, fsi__fluid_box_region_layout, &box->region_block);
    if (result < 0)
        return result;

    fsi__fluid_box_sources(box);

    /* Numbers of the solids' degrees of freedom and elements; sides. */
    box->offset[0] = box->first_element[0] = 0;
    for (int i = 0; i < iface->solids; i++) {
        box->offset[i + 1] = box->offset[i] + iface->solid[i]->dof;
        box->first_element[i + 1] = box->first_element[i] + iface->solid[i]->surface.element_count;
    }
    box->dof = box->offset[iface->solids];
    box->n = box->dof + box->regions;
    fsi_real area = fsi__area(iface);
    for (int s = 0; s < iface->sides; s++) {
        const fsi_side *side = &iface->side[s];
        box->area[s] = area * side->share;
        box->mass[s] = side->mass > 0 ? side->mass : area * grid->h * grid->desc.rho / 2;
        box->region[s] = fsi_mg_region(grid->mg, (size_t)side->cell);
    }
    if (box->swept && box->regions)
        fsi__fluid_box_elements(box);
    box->give_fn = fsi__fluid_box_give;
    box->hand_fn = fsi__fluid_box_hand;

    return fsi__paper_load(box);
}

/* ---- Geometry that follows: doubles of the solids whose open nodal surfaces go where X says. */
static void fsi__follow_layout(fsi_fluid_box *box, fsi_arena *arena) {
    const fsi_interface *iface = box->face;
    const fsi_grid *grid = box->grid;
    fsi__follow *follow = &box->moved;
    size_t solids = (size_t)iface->solids + 1;
    size_t vertices = 0;
    for (int i = 0; i < iface->solids; i++)
        vertices += (size_t)iface->solid[i]->surface.vertex_count;
    FSI__TAKE(follow->list, arena, solids);
    FSI__TAKE(follow->copy, arena, solids);
    FSI__TAKE(follow->x, arena, 3 * vertices + 1);
    for (int axis = 0; axis < grid->dim; axis++) {
        FSI__TAKE(follow->u[axis], arena, grid->faces[axis]);
        follow->plus[axis] = NULL;
        if (grid->u_plus[axis])
            FSI__TAKE(follow->plus[axis], arena, grid->faces[axis]);
    }
}

/* Keeps the solids as given and the velocities u*. */
static fsi_result fsi__follow_begin(fsi_fluid_box *box) {
    const fsi_grid *grid = box->grid;
    fsi__follow *follow = &box->moved;
    fsi_result result = fsi__fluid_box_place(box, fsi__follow_layout, &follow->block);
    if (result < 0)
        return result;

    follow->given = box->face->solid;
    for (int i = 0; i < box->face->solids; i++)
        follow->list[i] = &follow->copy[i];
    for (int axis = 0; axis < grid->dim; axis++) {
        fsi_copy(grid->faces[axis], grid->u[axis], follow->u[axis]);
        if (follow->plus[axis])
            fsi_copy(grid->faces[axis], grid->u_plus[axis], follow->plus[axis]);
    }

    return FSI_OK;
}

FSI_API fsi_result fsi_fluid_box_follow(fsi_fluid_box *box, const fsi_real *X) {
    fsi__follow *follow = &box->moved;
    fsi_interface *iface = box->face;
    fsi_grid *grid = box->grid;
    fsi_real *x = follow->x;
    if (!box->follow || !follow->block)
        return FSI_ERR_STATE;

    /* Doubles of the solids, open nodal surfaces moved by X. */
    for (int i = 0; i < iface->solids; i++) {
        const fsi_coupled *from = follow->given[i];
        follow->copy[i] = *from;
        if (from->node && !from->surface.closed) {
            for (int v = 0; v < from->surface.vertex_count; v++)
                for (int k = 0; k < 3; k++)
                    x[3 * v + k] = from->surface.x[3 * v + k] + X[3 * from->node[v] + k];
            follow->copy[i].surface.x = x;
            x += 3 * (size_t)from->surface.vertex_count;
        }
        X += from->dof;
    }
    fsi_result result;
    if ((result = fsi_interface_detect(iface, grid, follow->list, iface->solids)) < 0)
        return result;

    /* Back to u*. Where a face is no longer cut both sides' samples become one: momentum stays. */
    for (int axis = 0; axis < grid->dim; axis++) {
        const fsi_real *minus = follow->u[axis];
        const fsi_real *plus = follow->plus[axis];
        fsi_copy(grid->faces[axis], minus, grid->u[axis]);
        for (size_t i = 0; plus && i < grid->faces[axis]; i++)
            if (iface->blocked[axis][i])
                grid->u_plus[axis][i] = plus[i];
            else
                grid->u[axis][i] = grid->u_plus[axis][i] = (minus[i] + plus[i]) / 2;
    }

    return fsi__fluid_box_system(box);
}

FSI_API fsi_result fsi_fluid_box_begin(fsi_fluid_box *box, fsi_real dt) {
    if (!box || !box->grid || !box->face || !fsi__positive(dt))
        return FSI_ERR_ARGUMENT;

    box->dt = dt;
    fsi_result result = fsi_grid_classify(box->grid);
    if (result >= 0 && box->follow)
        result = fsi__follow_begin(box);
    if (result >= 0)
        result = fsi__fluid_box_system(box);
    if (result < 0)
        return result;
    box->solves = box->iterations = 0;

    return FSI_OK;
}

/* ---- The fluid: one solve. */
/* 1: a flux of a closed region is more than round-off, by the part of a cell that it fills in the
 * step. */
static int fsi__fluid_box_excess(const fsi_fluid_box *box, fsi_real flux) {
    fsi_real h = box->grid->h;
    fsi_real cell = h * h * (box->grid->dim == 2 ? 1 : h);
    return fsi__abs(flux) * box->dt > fsi__sqrt(FSI_REAL_EPS) * cell;
}

/* Makes box->u compatible with every closed region: sum over its sides of outward flux = what is
   injected there, with the least change of kinetic energy (XPM section 6); p0 in Pa s. Every side
   has a sample of its own and one region, so the m x m system of the paper is diagonal. */
static fsi_result fsi__fluid_box_project(fsi_fluid_box *box) {
    const fsi_interface *iface = box->face;
    fsi_result result = FSI_OK;

    /* C^T U and C^T M^-1 C */
    for (int i = 0; i < box->regions; i++) {
        box->p0[i] = -(fsi_real)box->source[i];
        box->stiff[i] = 0;
    }
    for (int s = 0; s < iface->sides; s++) {
        int region = box->region[s];
        if (region < 0)
            continue;
        box->p0[region] += (fsi_real)iface->side[s].sign * box->area[s] * box->u[s];
        box->stiff[region] += box->area[s] * box->area[s] / box->mass[s];
    }

    /* The pressure, times dt; a region where nothing can give way has none. */
    box->leak = 0;

    for (int i = 0; i < box->regions; i++) {
        fsi_real flux = box->p0[i];
        fsi_real stiff = box->stiff[i];
        box->leak += (double)((flux + (box->swept ? box->sweep[i] : 0)) * box->dt);
        if (!(stiff > 0) && fsi__fluid_box_excess(box, flux))
            result = FSI_INCOMPATIBLE;
        box->p0[i] = stiff > 0 ? -flux / stiff : 0;
    }
    for (int s = 0; s < iface->sides; s++)
        if (box->region[s] >= 0)
            box->u[s] += (fsi_real)iface->side[s].sign * box->area[s] / box->mass[s]
                         * box->p0[box->region[s]];

    /* The solids have to make good for what the elements sweep. */
    for (int i = 0; box->swept && i < box->regions; i++)
        if (box->stiff[i] > 0)
            box->p0[i] -= box->sweep[i] / box->stiff[i];

    return result;
}

/* Velocities at the sides for X, J X / dt, made compatible with the closed regions. */
static fsi_result fsi__fluid_box_sides(fsi_fluid_box *box, const fsi_real *X) {
    const fsi_interface *iface = box->face;
    for (int s = 0; s < iface->sides; s++) {
        const fsi_side *side = &iface->side[s];
        const fsi_real *x = X + box->offset[side->solid];
        box->u[s] = iface->solid[side->solid]->dof
                        ? fsi_interface_velocity(iface, side, x) / box->dt
                        : fsi__side_velocity(iface, side);
    }
    if (box->swept && box->regions)
        fsi__fluid_box_sweep(box, X);

    return fsi__fluid_box_project(box);
}

/* Pressure for the side velocities in box->u. */
static fsi_result fsi__fluid_box_pressure(fsi_fluid_box *box) {
    fsi_grid *grid = box->grid;
    fsi_copy(grid->cells, box->rhs0, grid->rhs);
    for (int s = 0; s < box->face->sides; s++) {
        const fsi_side *side = &box->face->side[s];
        grid->rhs[side->cell] -=
            grid->desc.rho * grid->h * side->share * (fsi_real)side->sign * box->u[s];
    }
    fsi_mg_project(grid->mg, grid->rhs); /* round-off of the projection above */

    fsi_mg_solve_desc desc = FSI__ZERO;
    desc.tolerance = box->tolerance;
    if (!(desc.tolerance > 0))
        desc.tolerance = sizeof(fsi_real) == 4 ? 1e-5 : 1e-10;
    fsi_report report;
    fsi_result result = fsi_mg_solve(grid->mg, &desc, grid->rhs, grid->pressure, &report);
    box->solves++;
    box->iterations += report.iterations;

    return result;
}

/* What the sides take in box->jump, handed to the solids: out += J^T jump. */
static void fsi__fluid_box_hand(fsi_fluid_box *box, fsi_real *out) {
    const fsi_interface *iface = box->face;
    for (int s = 0; s < iface->sides; s++) {
        const fsi_side *side = &iface->side[s];
        fsi__side_push(iface, side, box->jump[s], out + box->offset[side->solid]);
    }
}

/* Signed impulse of a pressure p dt at a side, N s. */
static fsi_real fsi__fluid_box_push(const fsi_fluid_box *box, int side, fsi_real p) {
    return (fsi_real)box->face->side[side].sign * box->area[side] * p;
}

/* out += share of what the last solve gives the solids: -lambda = sign A p dt - beta (u - u*). */
static void fsi__fluid_box_give(fsi_fluid_box *box, fsi_real share, fsi_real *out) {
    for (int s = 0; s < box->face->sides; s++) {
        const fsi_side *side = &box->face->side[s];
        fsi_real push = fsi__fluid_box_push(box, s, box->grid->pressure[side->cell]);
        box->jump[s] = share * (push - side->mass * (box->u[s] - box->u_star[s]));
    }
    fsi__fluid_box_hand(box, out);
}

/* X entry of a region: its p dt over this. A displacement: that of half a dual cell under p. */
static fsi_real fsi__fluid_box_per_region(const fsi_fluid_box *box) {
    return box->grid->desc.rho * box->grid->h / (2 * box->dt);
}

/* out += what the regions' pressures pi do to the elements of one nodal surface. */
static void fsi__fluid_box_inflate_elements(const fsi_fluid_box *box, int solid, const fsi_real *pi,
                                            fsi_real *out) {
    const fsi_coupled *door = box->face->solid[solid];
    const fsi_surface *surface = &door->surface;
    fsi_real unit = fsi__fluid_box_per_region(box);
    for (int e = 0; e < surface->element_count; e++) {
        int32_t behind = box->behind[box->first_element[solid] + e];
        int32_t before = box->before[box->first_element[solid] + e];
        fsi_real jump = (behind >= 0 ? pi[behind] : 0) - (before >= 0 ? pi[before] : 0);
        fsi_real p = jump * unit / (fsi_real)surface->dim;
        if (!(p < 0 || p > 0))
            continue;
        fsi_vec3 normal = fsi_surface_normal(surface, e);
        for (int k = 0; k < surface->dim; k++) {
            fsi_real *to = out + 3 * door->node[surface->index[surface->dim * e + k]];
            for (int axis = 0; axis < surface->dim; axis++)
                to[axis] += p * fsi__get(normal, axis);
        }
    }
}

/* out += what one pressure pi per region (as X entries) does to the solids: p dt times the gradient
   of the region's volume, which is the area of sides, or of the elements of nodal surfaces where
   the volume is what they sweep. */
static void fsi__fluid_box_inflate(fsi_fluid_box *box, const fsi_real *pi, fsi_real *out) {
    const fsi_interface *iface = box->face;
    fsi_real unit = fsi__fluid_box_per_region(box);
    for (int s = 0; s < iface->sides; s++) {
        const fsi_side *side = &iface->side[s];
        int region = box->region[s];
        int by_element = box->swept && iface->solid[side->solid]->node;
        box->jump[s] = 0;
        if (region >= 0 && !by_element)
            box->jump[s] = fsi__fluid_box_push(box, s, pi[region] * unit);
    }
    box->hand_fn(box, out);
    for (int i = 0; box->swept && i < iface->solids; i++)
        if (iface->solid[i]->node)
            fsi__fluid_box_inflate_elements(box, i, pi, out + box->offset[i]);
}

/* X -> p. */
static fsi_result fsi__fluid_box_solve(const fsi_real *in, fsi_real *out, void *user) {
    fsi_fluid_box *box = (fsi_fluid_box *)user;
    const fsi_real *regions_in = in + box->dof;
    fsi_real *regions_out = out + box->dof;
    fsi_real unit = fsi__fluid_box_per_region(box);
    fsi_result worst = fsi__fluid_box_sides(box, in);
    fsi_result result = fsi__fluid_box_pressure(box);
    if (result < 0)
        return result;

    fsi_fill((size_t)box->n, 0, out);
    for (int i = 0; i < box->regions; i++)
        regions_out[i] = regions_in[i] + (box->bpp ? box->p0[i] / unit : 0);
    box->give_fn(box, 1, out);
    if (box->bpp && box->regions)
        fsi__fluid_box_inflate(box, regions_out, out);

    return worst ? worst : result;
}

FSI_API fsi_blackbox fsi_fluid_box_door(fsi_fluid_box *box) {
    return fsi__plain_box(fsi__fluid_box_solve, box);
}

FSI_API fsi_result fsi_fluid_box_finish(fsi_fluid_box *box) {
    return fsi__sides_write(box->face, box->grid, box->u);
}

/* ---- Solids. */
/* v: in v*, out v* + (M + B^T B)^-1 (impulse + push - B^T B v*). This is K of the monolithic solve
   for a nodal solid that meets no fluid. */
static fsi_result fsi__door_solve(fsi_solid_box *box, const fsi_coupled *door,
                                  const fsi_real *impulse, fsi_real *v) {
    size_t dof = (size_t)door->dof;
    fsi_result result = FSI__LIST_ROOM(box->work, 6 * dof, &box->allocator);
    if (result < 0)
        return result;

    fsi_couple alone = FSI__ZERO;
    fsi__solid_block block = FSI__ZERO;
    fsi_real *k = box->work;
    fsi_real *change = k + dof;
    block.door = door;
    block.K = change + dof;
    alone.cg_residual = block.K + dof;
    alone.cg_direction = alone.cg_residual + dof;
    alone.cg_image = alone.cg_direction + dof;
    fsi__mono_nodal(&alone, &block);

    fsi_copy(dof, impulse, k);
    fsi__door_push(door, 1, k);
    fsi__door_implicit(door, v, -1, k);
    fsi__k_solve(&alone, &block, k, change);
    fsi_axpy(dof, 1, change, v);

    return FSI_OK;
}

/* v += (M + B^T B)^-1 (impulse + push) of one solid through its door. */
static fsi_result fsi__door_respond(fsi_solid_box *box, const fsi_coupled *door,
                                    const fsi_real *impulse, fsi_real *v) {
    int n = door->dof;
    if (door->node && door->implicit)
        return fsi__door_solve(box, door, impulse, v);

    for (int i = 0; i < n; i++) {
        if (door->node)
            v[i] += door->inverse_mass[i / 3] * (impulse[i] + (door->push ? door->push[i] : 0));
        for (int j = 0; !door->node && j < n; j++)
            v[i] += door->inverse_mass[i * n + j] * impulse[j];
    }

    return FSI_OK;
}

FSI_API fsi_result fsi_solid_box_begin(fsi_solid_box *box, int regions, fsi_real dt) {
    size_t n = 0;
    if (!box || (!box->part && box->count) || box->count < 0 || regions < 0 || !(dt > 0))
        return FSI_ERR_ARGUMENT;

    for (int i = 0; i < box->count; i++) {
        if (!box->part[i].door || !box->part[i].door->v)
            return FSI_ERR_ARGUMENT;
        n += (size_t)box->part[i].door->dof;
    }
    fsi_result result = FSI__LIST_ROOM(box->v0, n, &box->allocator);
    if (result < 0)
        return result;

    fsi_real *v0 = box->v0;
    for (int i = 0; i < box->count; i++) {
        const fsi_coupled *door = box->part[i].door;
        fsi_copy((size_t)door->dof, door->v, v0);
        v0 += door->dof;
    }
    box->dt = dt;
    box->regions = regions;
    box->status = FSI_OK;

    return FSI_OK;
}

FSI_API void fsi_solid_box_free(fsi_solid_box *box) {
    if (!box)
        return;
    FSI__LIST_FREE(box->v0, &box->allocator);
    FSI__LIST_FREE(box->work, &box->allocator);
}

/* p -> X: every solid's answer to its impulses, from v*. */
static fsi_result fsi__solid_box_solve(const fsi_real *in, fsi_real *out, void *user) {
    fsi_solid_box *box = (fsi_solid_box *)user;
    const fsi_real *v0 = box->v0;
    fsi_result worst = FSI_OK;

    for (int i = 0; i < box->count; i++) {
        const fsi_guest *part = &box->part[i];
        const fsi_coupled *door = part->door;
        size_t dof = (size_t)door->dof;
        fsi_copy(dof, v0, door->v);
        fsi_result result = part->stages.respond_fn
                                ? part->stages.respond_fn(in, door->v, box->dt, part->stages.user)
                                : fsi__door_respond(box, door, in, door->v);
        if (result < 0)
            return result;
        if (result > 0)
            box->status = worst = result;
        if (door->impulse)
            fsi_copy(dof, in, door->impulse);
        for (size_t k = 0; k < dof; k++)
            out[k] = box->dt * door->v[k];
        v0 += dof;
        in += dof;
        out += dof;
    }
    fsi_copy((size_t)box->regions, in, out);

    return worst;
}

FSI_API fsi_blackbox fsi_solid_box_door(fsi_solid_box *box) {
    return fsi__plain_box(fsi__solid_box_solve, box);
}

/* ---- Closed regions. Handed to and fro like the rest, a region's pressure is slow to find: the
   solid obeys p0 by the ratio of dual to own mass, less for every bit of added mass (docs/xpm.md).
   So every scheme sees solids that keep the volumes themselves: their load is in + G pi with the m
   pressures pi for which the answer is compatible, by their answers W to one pressure each. All
   motion is then compatible, and the scheme has only that to agree on. The monolithic solve does
   the same with the solids' own matrix (fsi__keep_volumes); here they are a closed solver, so W is
   measured and volumes need not be linear. */
/* C^T v less what is injected, for X. */
static void fsi__compatible_sides(const fsi_closed_regions *closed, const fsi_real *X,
                                  fsi_real *flux) {
    fsi_fluid_box *box = closed->fluid;
    (void)fsi__fluid_box_sides(box, X);
    for (int i = 0; i < box->regions; i++)
        flux[i] = -box->p0[i] * box->stiff[i] / fsi__fluid_box_per_region(box);
}

/* The same, made solvable. Swept volumes are no linear function of X, and the answer of a light
   wall to a wrong load may be where no pressure makes them right. So they count as curved only
   within half a cell of X_F, what the fluid was told: with d = X - X_F and theta = min(1, h / (2
   |d|)) flux = flux(X_F) + (flux(X_F + theta d) - flux(X_F)) / theta. At the end, where X and X_F
   agree, this is the volume itself. */
static void fsi__compatible_flux(const fsi_closed_regions *closed, const fsi_real *X,
                                 fsi_real *flux) {
    const fsi_fluid_box *box = closed->fluid;
    const fsi_real *told = closed->scheme->last.x_f;
    const fsi_real h = box->grid->h;
    for (int i = 0; i < box->n; i++)
        closed->at[i] = X[i] - told[i];
    fsi_real twice = 2 * fsi__node_norm(box->dof, closed->scheme->desc.per_node, closed->at);
    fsi_real theta = twice > h ? h / twice : 1;
    for (int i = 0; i < box->n; i++)
        closed->at[i] = told[i] + theta * closed->at[i];
    fsi__compatible_sides(closed, closed->at, flux);
    for (int i = 0; i < box->regions; i++)
        flux[i] = (flux[i] - (1 - theta) * closed->told[i]) / theta;
}

/* The largest of them that somebody can mend, as an X entry, m. */
static fsi_real fsi__compatible_most(const fsi_closed_regions *closed, const fsi_real *flux) {
    fsi_real most = 0;
    int m = closed->fluid->regions;
    for (int i = 0; i < m; i++)
        if (closed->K[i * m + i] > 0)
            most = fsi__max(most, fsi__abs(flux[i]) / closed->fluid->stiff[i]);
    return most;
}

/* The solids' answer to in + G pi. */
static fsi_result fsi__compatible_answer(const fsi_closed_regions *closed, const fsi_real *in,
                                         fsi_real *out) {
    const fsi_blackbox *solid = &closed->solid;
    size_t n = (size_t)closed->fluid->n;
    fsi_copy(n, in, closed->load);
    fsi__fluid_box_inflate(closed->fluid, closed->pi, closed->load);
    fsi_result result = solid->restore_fn ? solid->restore_fn(solid->user) : FSI_OK;
    if (result >= 0)
        result = solid->solve_fn(closed->load, out, solid->user);
    if (result < 0)
        return result;

    return fsi_all_finite(n, out) ? result : FSI_ERR_NUMERIC;
}

/* W through the door, about the best answer; once a step. */
static fsi_result fsi__compatible_measure(fsi_closed_regions *closed, const fsi_real *in) {
    fsi_real unit = closed->fluid->grid->h / 64;
    int n = closed->fluid->n;
    for (int j = 0; j < closed->fluid->regions; j++) {
        fsi_real *answer = closed->W + (size_t)j * (size_t)n;
        closed->pi[j] += unit;
        fsi_result result = fsi__compatible_answer(closed, in, answer);
        closed->pi[j] -= unit;
        if (result < 0)
            return result;
        for (int i = 0; i < n; i++)
            answer[i] = (answer[i] - closed->best[i]) / unit;
    }
    closed->measured = 1;

    return FSI_OK;
}

/* What linear solids would answer after the step: other = best + W step, and its flux. */
static void fsi__compatible_model(const fsi_closed_regions *closed) {
    size_t n = (size_t)closed->fluid->n;
    fsi_copy(n, closed->best, closed->other);
    for (size_t j = 0; j < (size_t)closed->fluid->regions; j++)
        fsi_axpy(n, closed->step[j], closed->W + j * n, closed->other);
    fsi__compatible_flux(closed, closed->other, closed->next);
}

/* Columns of K = C^T W, by the volume of a 64th of a cell; L, the factor of its symmetric part. A
 * region whose diagonal is round-off (W is known to h / 64) moves nobody. */
static void fsi__compatible_matrix(fsi_closed_regions *closed) {
    const fsi_fluid_box *box = closed->fluid;
    size_t m = (size_t)box->regions;
    fsi_real *K = closed->K;

    for (size_t j = 0; j < m; j++) {
        fsi_real size = fsi_max_abs((size_t)box->dof, closed->W + j * (size_t)box->n);
        fsi_real unit = size > 0 ? box->grid->h / (64 * size) : 1;
        fsi_fill(m, 0, closed->step);
        closed->step[j] = unit;
        fsi__compatible_model(closed);
        for (size_t i = 0; i < m; i++)
            K[i * m + j] = (closed->next[i] - closed->flux[i]) / unit;
        if (!(K[j * m + j] > 256 * FSI_REAL_EPS * box->stiff[j]))
            K[j * m + j] = 0;
    }
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < m; j++) {
            int moves = K[i * m + i] > 0 && K[j * m + j] > 0;
            closed->L[i * m + j] = moves ? (K[i * m + j] + K[j * m + i]) / 2 : 0;
        }
    (void)fsi__psd_factor(m, closed->L, 64 * (double)m * (double)FSI_REAL_EPS);
}

/* The step of pi that makes the model compatible, to round-off: Newton with the K of where it
 * begins, which asks no solids. 0: no step does, regions stand against each other. */
static int fsi__compatible_step(fsi_closed_regions *closed) {
    size_t m = (size_t)closed->fluid->regions;
    fsi_real most = FSI_REAL_MAX;
    fsi__compatible_matrix(closed);
    fsi_fill(m, 0, closed->step);
    fsi_copy(m, closed->flux, closed->more);

    for (int round = 0; round < 16; round++) {
        fsi__psd_solve(m, closed->L, closed->more);
        fsi_axpy(m, -1, closed->more, closed->step);
        fsi__compatible_model(closed);
        fsi_real now = fsi__compatible_most(closed, closed->next);
        if (!(now < most / 2)) {
            /* The last one said nothing new: without it. */
            if (round)
                fsi_axpy(m, 1, closed->more, closed->step);
            break;
        }
        most = now;
        fsi_copy(m, closed->next, closed->more);
    }

    return most <= fsi__compatible_most(closed, closed->flux) / 10;
}

/* Corrects pi until the solids' answer (best, with its flux) is compatible; linear solids need one
 * correction. *solvable: a step was found. */
static fsi_result fsi__compatible_correct(fsi_closed_regions *closed, const fsi_real *in,
                                          int *solvable) {
    size_t m = (size_t)closed->fluid->regions;
    fsi_real enough = closed->scheme->desc.tolerance / 100;
    fsi_real share = 1;
    fsi_result result = FSI_OK;

    for (int round = 0; round < 4; round++) {
        if (round && !(fsi__compatible_most(closed, closed->flux) > enough))
            break;
        *solvable = fsi__compatible_step(closed);
        fsi_axpy(m, share, closed->step, closed->pi);
        if ((result = fsi__compatible_answer(closed, in, closed->other)) < 0)
            return result;
        fsi__compatible_flux(closed, closed->other, closed->next);

        /* Worse than before: not so far. */
        fsi_real limit = fsi__max(enough, fsi__compatible_most(closed, closed->flux));
        if (fsi__compatible_most(closed, closed->next) > limit) {
            fsi_axpy(m, -share, closed->step, closed->pi);
            share /= 4;
            continue;
        }
        fsi_real *best = closed->other;
        closed->other = closed->best;
        closed->best = best;
        fsi_copy(m, closed->next, closed->flux);
        share = 1;
    }

    /* The last call was not the best: the solids' state must be of the best one. */
    return share < 1 ? fsi__compatible_answer(closed, in, closed->best) : result;
}

/* The door: the solids' answer, made compatible. */
static fsi_result fsi__compatible_solve(const fsi_real *in, fsi_real *out, void *user) {
    fsi_closed_regions *closed = (fsi_closed_regions *)user;
    fsi_fluid_box *box = closed->fluid;
    const fsi_real *told = closed->scheme->last.x_f;
    size_t dof = (size_t)box->dof;
    size_t m = (size_t)box->regions;
    fsi__compatible_sides(closed, told, closed->told);
    fsi_result result;
    if ((result = fsi__compatible_answer(closed, in, closed->best)) < 0)
        return result;
    if (!closed->measured && (result = fsi__compatible_measure(closed, in)) < 0)
        return result;

    fsi__compatible_flux(closed, closed->best, closed->flux);
    int solvable = 1;
    if ((result = fsi__compatible_correct(closed, in, &solvable)) < 0)
        return result;

    /* Where nobody can make room the step says so. */
    for (size_t i = 0; i < m; i++) {
        int mended = solvable && closed->K[i * m + i] > 0;
        fsi_real flux = closed->flux[i] * fsi__fluid_box_per_region(box);
        if (!mended && fsi__fluid_box_excess(box, flux))
            result = FSI_INCOMPATIBLE;
    }
    fsi_copy(dof, closed->best, out);
    fsi_copy(m, told + dof, out + dof);
    (void)fsi__fluid_box_sides(box, told); /* what the fluid was told stays its last solve */
    return result;
}

static fsi_result fsi__compatible_save(void *user) {
    fsi_closed_regions *closed = (fsi_closed_regions *)user;
    return closed->solid.save_fn ? closed->solid.save_fn(closed->solid.user) : FSI_OK;
}

/* 1: there are regions whose pressure the solids feel. */
static int fsi__compatible_needed(const fsi_closed_regions *closed) {
    return closed->fluid->regions && closed->fluid->bpp;
}

FSI_API fsi_result fsi_closed_regions_begin(fsi_closed_regions *closed, fsi_blackbox *door) {
    if (!closed || !door || !closed->scheme || !closed->solid.solve_fn)
        return FSI_ERR_ARGUMENT;
    if (!closed->fluid || !closed->fluid->block)
        return FSI_ERR_ARGUMENT;

    *door = closed->solid;
    if (!fsi__compatible_needed(closed))
        return FSI_OK;

    size_t n = (size_t)closed->fluid->n;
    size_t m = (size_t)closed->fluid->regions;
    fsi_real **motions[] = {&closed->load, &closed->best, &closed->other, &closed->at, NULL};
    fsi_real **pressures[] = {&closed->pi,   &closed->step, &closed->more, &closed->told,
                              &closed->flux, &closed->next, NULL};
    fsi_real **matrices[] = {&closed->K, &closed->L, NULL};
    fsi_arena arena = FSI__ZERO;
    for (int turn = 0; fsi__arena_turn(&arena, turn, &closed->block, &closed->allocator); turn++) {
        fsi__take_vectors(&arena, n, motions);
        fsi__take_vectors(&arena, m, pressures);
        fsi__take_vectors(&arena, m * m, matrices);
        FSI__TAKE(closed->W, &arena, n * m);
    }
    if (arena.failed)
        return FSI_ERR_MEMORY;

    fsi_fill(m, 0, closed->pi);
    closed->measured = 0;
    *door = fsi__plain_box(fsi__compatible_solve, closed);
    door->save_fn = fsi__compatible_save;

    return FSI_OK;
}

FSI_API void fsi_closed_regions_finish(fsi_closed_regions *closed, fsi_real *p) {
    if (!fsi__compatible_needed(closed))
        return;

    size_t n = (size_t)closed->fluid->n;
    fsi_copy(n, closed->load, p);
    fsi_axpy((size_t)closed->fluid->regions, 1, closed->pi, p + closed->fluid->dof);
    fsi_copy(n, p, closed->scheme->p_last);
}

FSI_API void fsi_closed_regions_free(fsi_closed_regions *closed) {
    if (closed)
        FSI__LIST_FREE(closed->block, &closed->allocator);
}

/* ---- The whole step of a scene. */
/* X = dt v of all solids */
static void fsi__scene_motion(fsi_partitioned_scene *scene, fsi_real dt) {
    fsi_real *x = scene->x;
    for (int i = 0; i < scene->solids.count; i++)
        for (int k = 0; k < scene->list[i]->dof; k++)
            *x++ = dt * scene->list[i]->v[k];
}

/* Room for X and p of the present length; region entries of X from the last load, 0 where there is
 * none. */
static fsi_result fsi__scene_room(fsi_partitioned_scene *scene) {
    const fsi_fluid_box *fluid = &scene->fluid;
    const fsi_partitioned *scheme = scene->scheme;
    size_t regions = (size_t)fluid->regions;
    fsi_result result = FSI__LIST_ROOM(scene->x, fluid->n, &scene->allocator);
    if (result >= 0)
        result = FSI__LIST_ROOM(scene->p, fluid->n, &scene->allocator);
    if (result >= 0)
        result = FSI__LIST_ROOM(scene->seen, fluid->n, &scene->allocator);
    if (result < 0)
        return result;

    fsi_fill(regions, 0, scene->x + fluid->dof);
    if (scheme->now.has_load && scheme->now.n == fluid->n)
        fsi_copy(regions, scheme->p_last + fluid->dof, scene->x + fluid->dof);
    scene->solids.regions = fluid->regions;

    return FSI_OK;
}

/* One exchange with the geometry as it is; counts go on from those in report. */
static fsi_result fsi__scene_exchange_once(fsi_partitioned_scene *scene, fsi_report *report) {
    fsi_partitioned *scheme = scene->scheme;
    fsi_blackbox fluid = fsi_fluid_box_door(&scene->fluid);
    fsi_blackbox solid;
    int n = scene->fluid.n;
    if (n > scheme->desc.n)
        return FSI_ERR_SIZE;
    if (!n) /* nobody to exchange with */
        return fluid.solve_fn(scene->x, scene->p, fluid.user);

    fsi_result result = fsi_closed_regions_begin(&scene->closed, &solid);
    if (result < 0)
        return result;

    fsi_report one;
    result = fsi_partitioned_step(scheme, n, n, &fluid, &solid, scene->x, scene->p, &one);
    one.restarts += report->restarts;
    if (report->iterations)
        one.residual_start = report->residual_start;
    one.iterations += report->iterations;
    one.regions = scene->fluid.regions;
    *report = one;
    if (result >= 0)
        fsi_closed_regions_finish(&scene->closed, scene->p);

    /* A source pushes into a region where nobody makes room. */
    int incompatible = scheme->told[0] == FSI_INCOMPATIBLE || scheme->told[1] == FSI_INCOMPATIBLE;

    return result == FSI_OK && incompatible ? FSI_INCOMPATIBLE : result;
}

/* The exchange; where the geometry follows, again at the place that came out, until it stays. */
static fsi_result fsi__scene_exchange(fsi_partitioned_scene *scene, fsi_report *report) {
    fsi_fluid_box *fluid = &scene->fluid;
    scene->closed.fluid = fluid;
    scene->closed.solid = fsi_solid_box_door(&scene->solids);
    scene->closed.scheme = scene->scheme;
    scene->closed.allocator = scene->allocator;

    for (int round = 0;; round++) {
        fsi_result result = FSI_OK;
        if (fluid->follow) {
            fsi_copy((size_t)fluid->dof, scene->x, scene->seen);
            result = fsi_fluid_box_follow(fluid, scene->seen);
        }
        if (result >= 0)
            result = fsi__scene_room(scene);
        if (result >= 0)
            result = fsi__scene_exchange_once(scene, report);
        if (result < 0 || !fluid->follow || !fluid->n)
            return result;
        for (int i = 0; i < fluid->dof; i++)
            scene->p[i] = scene->x[i] - scene->seen[i];
        fluid->lag = (double)fsi__node_norm(fluid->dof, scene->scheme->desc.per_node, scene->p);
        int stays = fluid->lag <= (double)scene->scheme->desc.tolerance;
        if (result != FSI_OK || stays || round + 1 >= fluid->follow)
            return result;
    }
}

/* Degrees of freedom of a solid that are a momentum: all of a nodal one, 3 of a dense one with 6
 * and more. */
static int fsi__momentum_dof(const fsi_coupled *door) {
    if (door->node)
        return door->dof;
    return door->dof < 6 ? 0 : 3;
}

/* Ledger: what the free solids got less what the fluid gave, N s: 0 where the step ended with p_F
 * as impulses. */
static void fsi__scene_ledger(fsi_partitioned_scene *scene, fsi_report *report) {
    const fsi_exchange_pair *last = &scene->scheme->last;
    fsi_fluid_box *box = &scene->fluid;
    for (int k = 0; k < box->n; k++)
        scene->seen[k] = last->p_s[k] - last->p_f[k];
    if (box->give_fn != fsi__fluid_box_give) {
        box->give_fn(box, 1, scene->seen);
        fsi__fluid_box_give(box, -1, scene->seen);
    }
    for (int i = 0; i < scene->solids.count; i++) {
        const fsi_coupled *door = scene->list[i];
        const fsi_real *lost = scene->seen + box->offset[i];
        for (int k = 0; k < fsi__momentum_dof(door); k++) {
            int diagonal = door->node ? k / 3 : k * (door->dof + 1);
            if (!door->inverse_mass || door->inverse_mass[diagonal] > 0)
                report->momentum[k % 3] += (double)lost[k];
        }
    }
}

/* Stages of a scene on the page of the step (fsi__step_page). */
static fsi_result fsi__scene_detect(fsi_coupled *const *solid, int count, void *user) {
    fsi_partitioned_scene *scene = (fsi_partitioned_scene *)user;
    (void)solid;
    (void)count;
    for (int i = 0; i < scene->solids.count; i++)
        scene->list[i] = scene->solids.part[i].door;
    return fsi_interface_detect(scene->face, scene->grid, scene->list, scene->solids.count);
}

static fsi_result fsi__scene_solve(fsi_real dt, fsi_report *report, void *user) {
    fsi_partitioned_scene *scene = (fsi_partitioned_scene *)user;
    fsi_result result = fsi_fluid_box_begin(&scene->fluid, dt);
    if (result >= 0)
        result = fsi_solid_box_begin(&scene->solids, scene->fluid.regions, dt);
    if (result >= 0)
        result = fsi__scene_room(scene);
    if (result < 0)
        return result;

    fsi__scene_motion(scene, dt); /* extrapolated X: the velocity the solid has */
    result = fsi__scene_exchange(scene, report);

    if (result < 0) {
        /* Where the exchange fails solids keep v*. */
        const fsi_real *v0 = scene->solids.v0;
        for (int i = 0; i < scene->solids.count; i++) {
            fsi_copy((size_t)scene->list[i]->dof, v0, scene->list[i]->v);
            v0 += scene->list[i]->dof;
        }
        return result;
    }
    fsi__scene_ledger(scene, report);
    fsi_result finish = fsi_fluid_box_finish(&scene->fluid);

    return finish < 0 ? finish : result;
}

/* The leak by the solids' own motion; the interface where the step began. */
static fsi_result fsi__scene_settle(fsi_real dt, void *user) {
    fsi_partitioned_scene *scene = (fsi_partitioned_scene *)user;
    fsi__scene_motion(scene, dt);
    (void)fsi__fluid_box_sides(&scene->fluid, scene->x);
    return scene->fluid.follow ? fsi__scene_detect(NULL, 0, scene) : FSI_OK;
}

FSI_API fsi_result fsi_partitioned_scene_step(fsi_partitioned_scene *scene, fsi_real dt,
                                              fsi_report *report) {
    fsi_report own;
    if (!report)
        report = &own;
    memset(report, 0, sizeof *report);
    if (!scene || !scene->grid || !scene->face || !scene->scheme || !scene->list)
        return report->reason = FSI_ERR_ARGUMENT;

    scene->fluid.grid = scene->grid;
    scene->fluid.face = scene->face;
    fsi_scene callbacks = {NULL, 0, scene->stages};
    fsi__stages stages = FSI__ZERO;
    stages.grid = scene->grid;
    stages.iface = scene->face;
    stages.scheme = scene;
    stages.detect_fn = fsi__scene_detect;
    stages.solve_fn = fsi__scene_solve;
    stages.settle_fn = fsi__scene_settle;

    return report->reason = fsi__step_page(&stages, &callbacks, dt, report);
}

FSI_API void fsi_partitioned_scene_free(fsi_partitioned_scene *scene) {
    if (!scene)
        return;

    fsi_fluid_box_free(&scene->fluid);
    fsi_solid_box_free(&scene->solids);
    fsi_closed_regions_free(&scene->closed);
    FSI__LIST_FREE(scene->x, &scene->allocator);
    FSI__LIST_FREE(scene->p, &scene->allocator);
    FSI__LIST_FREE(scene->seen, &scene->allocator);
}

/* ---- A world by exchange. */
FSI_API fsi_result fsi_world_exchange(fsi_world *world, fsi_partitioned_scene *scene, fsi_real dt,
                                      fsi_report *report) {
    if (!world || !world->block || !scene || !scene->solids.part)
        return FSI_ERR_ARGUMENT;
    if (!fsi__positive(dt))
        return FSI_ERR_ARGUMENT;

    fsi_result result = fsi__world_begin(world, dt, 0);
    if (result < 0)
        return result;

    /* Bodies answer through their doors, guests as they say. */
    const fsi_guest *guest = world->guest;
    for (int i = 0; i < world->door_count; i++) {
        fsi_guest *part = &scene->solids.part[i];
        memset(part, 0, sizeof *part);
        if (world->door_body[i] < 0)
            *part = *guest++;
        part->door = world->door[i];
    }
    scene->solids.count = world->door_count;
    scene->grid = &world->grid;
    scene->face = &world->couple.iface;
    scene->stages.begin_fn = NULL;
    scene->stages.move_fn = fsi__world_move;
    scene->stages.user = world;

    return fsi_partitioned_scene_step(scene, dt, report);
}
#endif

/* ------------------------------------------------------------------------------------------------
 * >>proxy */
#ifndef FSI_COUPLE_NO_SPH
/* The door of a solid as it is now. */
static fsi_coupled fsi__proxy_door(fsi_proxy_solid *solid) {
    fsi_coupled door = solid->door;
    if (solid->tled)
        (void)fsi_tled_couple(solid->tled, &door);
    else if (solid->soft)
        fsi_soft_couple(solid->soft, &door);
    return door;
}

static void fsi__proxy_layout(fsi_proxy *proxy, fsi_arena *arena, size_t nodes) {
    size_t particles = (size_t)proxy->desc.sph->desc.capacity;
    size_t entries = particles * FSI_PROXY_NODES;
    size_t solids = (size_t)proxy->desc.count;
    FSI__TAKE(proxy->lookup, arena, solids);
    FSI__TAKE(proxy->offset, arena, solids + 1);
    FSI__TAKE(proxy->nearby, arena, particles);
    FSI__TAKE(proxy->mark, arena, particles);
    FSI__TAKE(proxy->node, arena, entries);
    FSI__TAKE(proxy->weight, arena, entries);
    FSI__TAKE(proxy->order, arena, entries);
    FSI__TAKE(proxy->start, arena, nodes + 2);
    FSI__TAKE(proxy->load, arena, nodes);
    FSI__TAKE(proxy->energy, arena, nodes);
    FSI__TAKE(proxy->x_old, arena, 3 * nodes);
}

/* May this solid be touched by proxies? Its door must be nodal, with masses, in 3D. */
static int fsi__proxy_solid_valid(const fsi_proxy_solid *solid, const fsi_coupled *door) {
    int law = solid->restitution >= 0 && solid->restitution <= 1 && solid->slip >= 0
              && solid->slip <= 1 && solid->density >= 0 && fsi__finite(solid->density);
    int nodal = door->node && door->dof >= 3 && door->surface.dim == 3;
    int moves = door->v && door->mass && door->inverse_mass;
    return law && nodal && moves && (solid->tled || solid->soft || solid->advance_fn);
}

/* Checks a desc; *nodes: of all solids together. */
static fsi_result fsi__proxy_check(const fsi_proxy_desc *desc, int *nodes) {
    if (!desc || !desc->sph || !desc->sph->block || desc->sph->desc.dim != 3)
        return FSI_ERR_ARGUMENT;
    if (!desc->solid || desc->count < 1 || desc->iterations < 0)
        return FSI_ERR_ARGUMENT;
    if (!fsi__natural(desc->radius))
        return FSI_ERR_ARGUMENT;
    *nodes = 0;
    for (int i = 0; i < desc->count; i++) {
        fsi_coupled door = fsi__proxy_door(&desc->solid[i]);
        if (!fsi__proxy_solid_valid(&desc->solid[i], &door))
            return FSI_ERR_ARGUMENT;
        if (door.dof / 3 > INT32_MAX / 4 - *nodes)
            return FSI_ERR_SIZE;
        *nodes += door.dof / 3;
    }

    return FSI_OK;
}

FSI_API fsi_result fsi_proxy_init(fsi_proxy *proxy, const fsi_proxy_desc *desc) {
    if (!proxy)
        return FSI_ERR_ARGUMENT;
    memset(proxy, 0, sizeof *proxy);
    fsi_result result;
    int nodes;
    if ((result = fsi__proxy_check(desc, &nodes)) < 0)
        return result;
    proxy->desc = *desc;
    if (!(proxy->desc.radius > 0))
        proxy->desc.radius = desc->sph->desc.spacing / 2;
    if (proxy->desc.iterations == 0)
        proxy->desc.iterations = 12;

    fsi_arena arena = FSI__ZERO;
    fsi__proxy_layout(proxy, &arena, (size_t)nodes);
    result = fsi__arena_block(&arena, &proxy->desc.allocator, &proxy->block, &proxy->size);
    if (result < 0) {
        memset(proxy, 0, sizeof *proxy);
        return result;
    }
    fsi__proxy_layout(proxy, &arena, (size_t)nodes);

    /* Nodes of all solids are numbered one after the other. */
    for (int i = 0; i < desc->count && result >= 0; i++) {
        fsi_coupled door = fsi__proxy_door(&desc->solid[i]);
        proxy->offset[i + 1] = proxy->offset[i] + door.dof / 3;
        result = fsi_lookup_init(&proxy->lookup[i], fsi__imax(door.surface.element_count, 1),
                                 &proxy->desc.allocator);
        if (result >= 0)
            result = fsi_lookup_build(&proxy->lookup[i], &door.surface, proxy->desc.radius);
    }
    if (result < 0)
        fsi_proxy_free(proxy);

    return result;
}

FSI_API void fsi_proxy_free(fsi_proxy *proxy) {
    if (!proxy)
        return;
    for (int i = 0; proxy->block && i < proxy->desc.count; i++)
        fsi_lookup_free(&proxy->lookup[i]);
    fsi_free(&proxy->desc.allocator, proxy->block, proxy->size);
    memset(proxy, 0, sizeof *proxy);
}

/* Look-ups of the present positions; reach: of most queries, m. */
static fsi_result fsi__proxy_look(fsi_proxy *proxy, fsi_real reach) {
    fsi_result result = FSI_OK;
    for (int i = 0; i < proxy->desc.count && result >= 0; i++)
        result = fsi_lookup_build(&proxy->lookup[i], &proxy->desc.solid[i].door.surface, reach);
    return result;
}

FSI_API int fsi_proxy_closest(const fsi_proxy *proxy, fsi_vec3 p, fsi_real reach, int *solid,
                              fsi_hit *hit) {
    int found = 0;
    for (int i = 0; proxy && proxy->block && i < proxy->desc.count; i++) {
        fsi_hit candidate;
        if (!fsi_lookup_closest(&proxy->lookup[i], p, reach, &candidate))
            continue;
        reach = candidate.t;
        found = 1;
        if (solid)
            *solid = i;
        if (hit)
            *hit = candidate;
    }

    return found;
}

/* ---- Particles and nodes. */
FSI__INLINE fsi_vec3 fsi__particle_place(const fsi_sph *sph, int i) {
    return fsi_vec(sph->x[i], sph->y[i], sph->z[i]);
}

FSI__INLINE fsi_vec3 fsi__particle_velocity(const fsi_sph *sph, int i) {
    return fsi_vec(sph->vx[i], sph->vy[i], sph->vz[i]);
}

/* A node of the common numbering: its solid's door and its number there. */
typedef struct fsi__proxy_node {
    const fsi_coupled *door;
    int node;
} fsi__proxy_node;

static fsi__proxy_node fsi__proxy_node_of(const fsi_proxy *proxy, int number) {
    int solid = 0;
    while (number >= proxy->offset[solid + 1])
        solid++;
    fsi__proxy_node found;
    found.door = &proxy->desc.solid[solid].door;
    found.node = number - proxy->offset[solid];
    return found;
}

/* ---- What a particle at x touches, when it came from `from`. */
typedef struct fsi__proxy_touch {
    int count; /* triangles */
    int32_t solid[FSI_PROXY_TRIANGLES], element[FSI_PROXY_TRIANGLES];
    fsi_real distance[FSI_PROXY_TRIANGLES]; /* d_ij */
    fsi_vec3 normal[FSI_PROXY_TRIANGLES];   /* n_j on the particle's side */
} fsi__proxy_touch;

/* Adds the triangle of a hit at x, unless it is on the other side of a thin wall. */
static void fsi__proxy_add(fsi__proxy_touch *touch, const fsi_surface *surface, int solid,
                           const fsi_hit *hit, fsi_vec3 from, fsi_vec3 x, fsi_real reach) {
    /* On which side of the triangle did the particle start? */
    fsi_vec3 normal = fsi__unit(fsi_surface_normal(surface, hit->element));
    fsi_hit start;
    fsi_surface_closest(surface, hit->element, from, &start);
    fsi_real height = fsi_vec_dot(fsi_vec_sub(from, start.point), normal);
    if ((surface->closed && !(height > 0)) || touch->count == FSI_PROXY_TRIANGLES)
        return;
    if (height < 0)
        normal = fsi_vec_scale(normal, -1);

    /* Near a rim or a hole the way out is beside the face, not above it. */
    fsi_vec3 way = fsi_vec_sub(x, hit->point);
    if (hit->t > FSI_R(1e-3) * reach && fsi_vec_dot(way, normal) < FSI_R(0.3) * hit->t)
        normal = fsi_vec_scale(way, 1 / hit->t);

    int last = touch->count++;
    touch->solid[last] = solid;
    touch->element[last] = hit->element;
    touch->distance[last] = hit->t;
    touch->normal[last] = normal;
}

/* First crossing of from -> x with any solid: returns 1, and x becomes a point just before it. */
static int fsi__proxy_cross(const fsi_proxy *proxy, fsi_vec3 from, fsi_vec3 *x) {
    fsi_vec3 way = fsi_vec_sub(*x, from);
    fsi_vec3 normal = way;
    fsi_real best = 2;
    for (int i = 0; i < proxy->desc.count; i++) {
        const fsi_surface *surface = &proxy->lookup[i].surface;
        fsi_hit hit;
        if (!fsi_lookup_first_hit(&proxy->lookup[i], from, *x, &hit) || !(hit.t < best))
            continue;
        /* It leaves a solid that it should not have been in: let it. */
        if (surface->closed && hit.side > 0)
            continue;
        best = hit.t;
        normal = fsi__unit(fsi_surface_normal(surface, hit.element));
        if (fsi_vec_dot(normal, way) > 0)
            normal = fsi_vec_scale(normal, -1);
    }
    if (best > 1)
        return 0;
    *x = fsi_vec_mad(fsi_vec_mad(from, way, best), normal, FSI_R(0.01) * proxy->desc.radius);

    return 1;
}

/* Triangles nearer than reach to x. Walls of thin solids show both sides, hence the room. */
static void fsi__proxy_gather(const fsi_proxy *proxy, fsi_vec3 from, fsi_vec3 x, fsi_real reach,
                              fsi__proxy_touch *touch) {
    enum {
        ROOM = 3 * FSI_PROXY_TRIANGLES
    };

    fsi_hit hit[ROOM];
    touch->count = 0;
    for (int i = 0; i < proxy->desc.count; i++) {
        int found = fsi_lookup_sphere(&proxy->lookup[i], x, reach, hit, ROOM);
        for (int k = 0; k < fsi__imin(found, ROOM) && hit[k].t < reach; k++)
            fsi__proxy_add(touch, &proxy->lookup[i].surface, i, &hit[k], from, x, reach);
    }
}

/* n_c of eq. (6), (7); where the normals cancel, that of the nearest triangle. */
static fsi_vec3 fsi__proxy_normal(const fsi__proxy_touch *touch, fsi_real r0) {
    fsi_vec3 sum = FSI__ZERO;
    fsi_real all = 0;
    int nearest = 0;
    for (int j = 0; j < touch->count; j++) {
        fsi_real weight = fsi__max(0, (r0 - touch->distance[j]) / r0);
        sum = fsi_vec_mad(sum, touch->normal[j], weight);
        all += weight;
        if (touch->distance[j] < touch->distance[nearest])
            nearest = j;
    }

    return fsi__length(sum) > FSI_R(1e-3) * all ? fsi__unit(sum) : touch->normal[nearest];
}

/* ---- Collisions. */
/* Finds the nearest surface of particle i; mark = 1 when one is in reach of the coming step. top:
   the fastest node, m/s. */
static void fsi__proxy_find(fsi_proxy *proxy, int i, fsi_real dt, fsi_real top) {
    const fsi_sph *sph = proxy->desc.sph;
    fsi__proxy_near *nearby = &proxy->nearby[i];
    fsi_vec3 x = fsi__particle_place(sph, i);
    fsi_real speed = fsi__length(fsi__particle_velocity(sph, i));
    fsi_real reach = FSI_R(1.5) * proxy->desc.radius + 2 * dt * (speed + top);
    fsi_hit hit;
    int solid = 0;
    proxy->mark[i] = fsi_proxy_closest(proxy, x, reach, &solid, &hit);
    if (!proxy->mark[i])
        return;
    nearby->particle = i;
    nearby->solid = solid;
    nearby->element = hit.element;
    memcpy(nearby->weight, hit.weight, sizeof nearby->weight);
    nearby->offset = fsi_vec_sub(x, hit.point);
    nearby->start = x;
}

/* Mean over the corners of the nearest triangle: of x its nearest point, of v its velocity. at:
   values of the surface's vertices, or by way of `node` those of the solid's nodes. */
static fsi_vec3 fsi__proxy_mean(const fsi_coupled *door, const fsi__proxy_near *nearby,
                                const fsi_real *at, const int32_t *node) {
    const int32_t *corner = door->surface.index + 3 * (size_t)nearby->element;
    fsi_vec3 sum = FSI__ZERO;
    for (int k = 0; k < 3; k++) {
        int32_t place = node ? node[corner[k]] : corner[k];
        sum = fsi_vec_mad(sum, fsi__vec_at(at, place), nearby->weight[k]);
    }
    return sum;
}

/* Nodes and weights m_j / d_j^2 of a proxy, from the corners of the touched triangles. */
static void fsi__proxy_sample(fsi_proxy *proxy, const fsi__proxy_touch *touch,
                              fsi__proxy_near *nearby, int32_t *node, fsi_real *weight) {
    fsi_real sum = 0;
    fsi_real least = FSI_R(1e-4) * proxy->desc.radius * proxy->desc.radius;
    int used = 0;
    for (int j = 0; j < 3 * touch->count; j++) {
        int solid = touch->solid[j / 3];
        const fsi_coupled *door = &proxy->desc.solid[solid].door;
        int32_t vertex = door->surface.index[3 * (size_t)touch->element[j / 3] + (size_t)(j % 3)];

        /* Corners that triangles share count once. */
        int32_t number = proxy->offset[solid] + door->node[vertex];
        int k = 0;
        while (k < used && node[k] != number)
            k++;
        if (k < used || k == FSI_PROXY_NODES)
            continue;
        fsi_vec3 gap = fsi_vec_sub(fsi__vec_at(door->surface.x, vertex), nearby->at);
        node[k] = number;
        weight[k] = door->mass[door->node[vertex]] / fsi__max(fsi_vec_dot(gap, gap), least);
        sum += weight[k];
        used++;
    }
    for (int k = 0; k < used; k++)
        weight[k] /= sum;
    nearby->nodes = used;
}

/* Makes the proxy of the k-th particle near a surface; it has no nodes when the coming step brings
   no contact. Only relative motion counts: the surface is taken to stand still.

       from o----.                   o  where the particle would be, x
                  `--o x             |  r0 along n_c
       ---------------|------        |
                      o proxy        o  the proxy, behind the surface
*/
static void fsi__proxy_make(fsi_proxy *proxy, int k, fsi_real dt) {
    fsi__proxy_near *nearby = &proxy->nearby[k];
    const fsi_sph *sph = proxy->desc.sph;
    const fsi_coupled *door = &proxy->desc.solid[nearby->solid].door;
    fsi_real radius = proxy->desc.radius;
    nearby->nodes = 0;
    nearby->impulse = fsi_vec(0, 0, 0);

    /* Where does it go, and can it touch anything on the way? */
    fsi_vec3 from = fsi__particle_place(sph, nearby->particle);
    fsi_vec3 surface_v = fsi__proxy_mean(door, nearby, door->v, door->node);
    fsi_vec3 relative = fsi_vec_sub(fsi__particle_velocity(sph, nearby->particle), surface_v);
    fsi_vec3 x = fsi_vec_mad(from, relative, dt);
    fsi_real way = fsi__length(fsi_vec_sub(x, from));
    if (fsi__length(nearby->offset) - way > FSI_R(1.001) * radius)
        return;

    /* What does it touch there? */
    fsi__proxy_cross(proxy, from, &x);
    fsi__proxy_touch touch;
    fsi__proxy_gather(proxy, from, x, radius, &touch);
    if (!touch.count)
        return;
    nearby->normal = fsi__proxy_normal(&touch, radius);
    nearby->at = fsi_vec_mad(x, nearby->normal, -radius);
    size_t entry = (size_t)k * FSI_PROXY_NODES;
    fsi__proxy_sample(proxy, &touch, nearby, proxy->node + entry, proxy->weight + entry);
}

/* Sorts the entries (near particle, slot) by node: each node then sums its own, in one fixed
 * order. */
static void fsi__proxy_sort(fsi_proxy *proxy) {
    int nodes = proxy->offset[proxy->desc.count];
    int32_t *start = proxy->start;
    memset(start, 0, ((size_t)nodes + 2) * sizeof *start);
    for (int k = 0; k < proxy->stats.nearby; k++)
        for (int m = 0; m < proxy->nearby[k].nodes; m++)
            start[proxy->node[k * FSI_PROXY_NODES + m] + 2]++;
    for (int k = 2; k < nodes + 2; k++)
        start[k] += start[k - 1];
    for (int k = 0; k < proxy->stats.nearby; k++)
        for (int m = 0; m < proxy->nearby[k].nodes; m++) {
            int entry = k * FSI_PROXY_NODES + m;
            proxy->order[start[proxy->node[entry] + 1]++] = entry;
        }
}

FSI_API fsi_vec3 fsi_proxy_response(fsi_vec3 v_f, fsi_vec3 v_p, fsi_real inverse_f,
                                    fsi_real inverse_p, fsi_vec3 n, fsi_real restitution,
                                    fsi_real slip) {
    fsi_vec3 relative = fsi_vec_sub(v_f, v_p);
    fsi_real along = fsi_vec_dot(relative, n);
    fsi_real sum = inverse_f + inverse_p;
    int parting = !(along < 0);
    if (parting || !(sum > 0))
        return fsi_vec(0, 0, 0);
    fsi_vec3 normal = fsi_vec_scale(n, along);
    fsi_vec3 tangential = fsi_vec_sub(relative, normal);
    return fsi_vec_scale(
        fsi_vec_add(fsi_vec_scale(normal, 1 + restitution), fsi_vec_scale(tangential, 1 - slip)),
        1 / sum);
}

/* The impulse of one proxy, from its velocity (8) and its mass. The mass of a node is shared by
 * all its proxies. */
static void fsi__proxy_hit(fsi_proxy *proxy, int k) {
    fsi__proxy_near *nearby = &proxy->nearby[k];
    const fsi_sph *sph = proxy->desc.sph;
    const fsi_proxy_solid *own = &proxy->desc.solid[nearby->solid];
    fsi_vec3 v = FSI__ZERO;
    fsi_real inverse = 0;
    for (int m = 0; m < nearby->nodes; m++) {
        int number = proxy->node[k * FSI_PROXY_NODES + m];
        fsi__proxy_node at = fsi__proxy_node_of(proxy, number);
        fsi_real weight = proxy->weight[k * FSI_PROXY_NODES + m];
        v = fsi_vec_mad(v, fsi__vec_at(at.door->v, at.node), weight);
        inverse += weight * proxy->load[number] * at.door->inverse_mass[at.node];
    }
    fsi_real size = 2 * proxy->desc.radius;
    if (own->density > 0 && inverse > 0)
        inverse = fsi__max(inverse, 1 / (own->density * size * size * size));
    nearby->impulse = fsi_proxy_response(fsi__particle_velocity(sph, nearby->particle), v,
                                         1 / sph->mass[nearby->particle], inverse, nearby->normal,
                                         own->restitution, own->slip);
}

/* A node takes its share of all impulses; energy gets the change of its kinetic energy,
 * m/2 (v'^2 - v^2) = (v + dv/2) . J. */
static void fsi__proxy_give(fsi_proxy *proxy, int number) {
    fsi__proxy_node at = fsi__proxy_node_of(proxy, number);
    fsi_real inverse_mass = at.door->inverse_mass[at.node];
    fsi_vec3 v = fsi__vec_at(at.door->v, at.node);
    fsi_vec3 sum = FSI__ZERO;
    for (int e = proxy->start[number]; e < proxy->start[number + 1]; e++) {
        int entry = proxy->order[e];
        sum =
            fsi_vec_mad(sum, proxy->nearby[entry / FSI_PROXY_NODES].impulse, proxy->weight[entry]);
    }
    fsi_vec3 half = fsi_vec_mad(v, sum, inverse_mass / 2);
    proxy->energy[number] = inverse_mass > 0 ? (double)fsi_vec_dot(half, sum) : 0;
    fsi__vec_put(at.door->v, at.node, fsi_vec_mad(v, sum, inverse_mass));
    if (at.door->impulse)
        fsi__vec_put(at.door->impulse, at.node, sum);
}

/* total += share * J */
static void fsi__ledger_add(double total[3], fsi_vec3 impulse, fsi_real share) {
    for (int d = 0; d < 3; d++)
        total[d] += (double)(fsi__get(impulse, d) * share);
}

FSI__INLINE fsi_vec3 fsi__ledger_vec(const double total[3]) {
    return fsi_vec((fsi_real)total[0], (fsi_real)total[1], (fsi_real)total[2]);
}

/* Fluid particles take the opposite impulses, and the step's ledger is written. Serial: there are a
 * few thousand contacts. */
static void fsi__proxy_account(fsi_proxy *proxy) {
    fsi_sph *sph = proxy->desc.sph;
    fsi_proxy_stats *stats = &proxy->stats;
    double total[3] = FSI__ZERO;
    double held[3] = FSI__ZERO;
    double energy = 0;
    stats->contacts = 0;
    stats->torque_defect = stats->arm = 0;
    for (int k = 0; k < stats->nearby; k++) {
        const fsi__proxy_near *nearby = &proxy->nearby[k];
        int i = nearby->particle;
        if (!nearby->nodes)
            continue;
        stats->contacts++;

        /* The particle. */
        fsi_vec3 J = nearby->impulse;
        fsi_real inverse = 1 / sph->mass[i];
        fsi_vec3 v = fsi__particle_velocity(sph, i);
        energy -= (double)fsi_vec_dot(fsi_vec_mad(v, J, -inverse / 2), J);
        sph->vx[i] -= inverse * J.x;
        sph->vy[i] -= inverse * J.y;
        sph->vz[i] -= inverse * J.z;

        /* The nodes: where their mean is, and what fixed ones took. */
        fsi_vec3 mean = FSI__ZERO;
        for (int m = 0; m < nearby->nodes; m++) {
            int entry = k * FSI_PROXY_NODES + m;
            fsi__proxy_node at = fsi__proxy_node_of(proxy, proxy->node[entry]);
            fsi_vec3 place = fsi__vec_at(at.door->surface.x, at.node);
            mean = fsi_vec_mad(mean, place, proxy->weight[entry]);
            if (!(at.door->inverse_mass[at.node] > 0))
                fsi__ledger_add(held, J, proxy->weight[entry]);
        }
        fsi__ledger_add(total, J, 1);
        fsi_vec3 arm = fsi_vec_sub(nearby->at, mean);
        double defect = (double)fsi__length(fsi_vec_cross(J, arm));
        if (defect > stats->torque_defect) {
            stats->torque_defect = defect;
            stats->arm = (double)fsi__length(arm);
        }
    }
    for (int number = 0; number < proxy->offset[proxy->desc.count]; number++)
        energy += proxy->energy[number];
    stats->all_contacts += stats->contacts;
    stats->energy_change = energy;
    stats->impulse = fsi__ledger_vec(total);
    stats->held = fsi__ledger_vec(held);
}

/* Doors of this stage. Returns the speed of the fastest node; keeps where all vertices are. */
static fsi_real fsi__proxy_begin(fsi_proxy *proxy) {
    fsi_real top = 0;
    for (int k = 0; k < proxy->desc.count; k++) {
        proxy->desc.solid[k].door = fsi__proxy_door(&proxy->desc.solid[k]);
        const fsi_coupled *door = &proxy->desc.solid[k].door;
        for (int i = 0; i < door->dof / 3; i++)
            top = fsi__max(top, fsi__length(fsi__vec_at(door->v, i)));
        for (int i = 0; i < door->surface.vertex_count; i++)
            fsi__vec_put(proxy->x_old, proxy->offset[k] + door->node[i],
                         fsi__vec_at(door->surface.x, i));
    }

    return top;
}

FSI_API fsi_result fsi_proxy_collide(fsi_proxy *proxy, fsi_real dt) {
    if (!proxy || !proxy->block)
        return FSI_ERR_STATE;
    if (!fsi__positive(dt))
        return FSI_ERR_ARGUMENT;

    /* How far can anybody reach in this step? A few particles may be faster than the look-ups are
     * made for. */
    fsi_real top = fsi__proxy_begin(proxy);
    fsi_real fast = 0;
    ptrdiff_t particles = proxy->desc.sph->now.count;
    for (ptrdiff_t i = 0; i < particles; i++)
        fast = fsi__max(fast, fsi__length(fsi__particle_velocity(proxy->desc.sph, (int)i)));
    if (!fsi__finite(top) || !fsi__finite(fast))
        return FSI_ERR_NUMERIC;
    fsi_real radius = proxy->desc.radius;
    fsi_real reach = fsi__min(FSI_R(1.5) * radius + 2 * dt * (fast + top), 4 * radius);
    fsi_result result;
    if ((result = fsi__proxy_look(proxy, reach)) < 0)
        return result;

    /* Particles near a surface, close together and in their order. */
    FSI__PARALLEL(particles > 256)
    for (ptrdiff_t i = 0; i < particles; i++)
        fsi__proxy_find(proxy, (int)i, dt, top);
    proxy->stats.nearby = 0;
    for (ptrdiff_t i = 0; i < particles; i++)
        if (proxy->mark[i])
            proxy->nearby[proxy->stats.nearby++] = proxy->nearby[i];

    /* Their proxies, and what each node has to share. */
    ptrdiff_t count = proxy->stats.nearby;
    ptrdiff_t nodes = proxy->offset[proxy->desc.count];
    FSI__PARALLEL(count > 64)
    for (ptrdiff_t i = 0; i < count; i++)
        fsi__proxy_make(proxy, (int)i, dt);
    fsi__proxy_sort(proxy);
    FSI__PARALLEL(nodes > 256)
    for (ptrdiff_t i = 0; i < nodes; i++) {
        proxy->load[i] = 0;
        for (int e = proxy->start[i]; e < proxy->start[i + 1]; e++)
            proxy->load[i] += proxy->weight[proxy->order[e]];
    }

    /* Impulses, handed out to nodes and particles. */
    FSI__PARALLEL(count > 64)
    for (ptrdiff_t i = 0; i < count; i++)
        if (proxy->nearby[i].nodes)
            fsi__proxy_hit(proxy, (int)i);
    FSI__PARALLEL(nodes > 256)
    for (ptrdiff_t i = 0; i < nodes; i++)
        fsi__proxy_give(proxy, (int)i);
    fsi__proxy_account(proxy);
    proxy->ready = 1;

    return FSI_OK;
}

/* ---- Positions. */
/* The way that takes a particle to r0 from all triangles it touches: along n_c by (15). Where a
   normal points against n_c (the paper's figure 4 c, d) it is the least u with n_j . u >= r0 - d_j:
   u = sum l_j n_j with l_j >= 0, one l_j after the other (Hildreth). */
static fsi_vec3 fsi__proxy_way(const fsi__proxy_touch *touch, fsi_real r0) {
    fsi_vec3 dir = fsi__proxy_normal(touch, r0);
    fsi_real worst = 1;
    for (int j = 0; j < touch->count; j++)
        worst = fsi__min(worst, fsi_vec_dot(touch->normal[j], dir));
    if (worst > FSI_R(0.7)) {
        fsi_real way = 0;
        for (int j = 0; j < touch->count; j++) {
            fsi_real missing = r0 - touch->distance[j];
            way = fsi__max(way, missing * fsi_vec_dot(touch->normal[j], dir));
        }
        return fsi_vec_scale(dir, way);
    }

    fsi_vec3 u = FSI__ZERO;
    fsi_real part[FSI_PROXY_TRIANGLES] = {0}; /* l_j */
    int moved = 1;
    for (int sweep = 0; sweep < 100 && moved; sweep++) {
        moved = 0;
        for (int j = 0; j < touch->count; j++) {
            fsi_real missing = r0 - touch->distance[j] - fsi_vec_dot(touch->normal[j], u);
            fsi_real more = fsi__max(missing, -part[j]);
            u = fsi_vec_mad(u, touch->normal[j], more);
            part[j] += more;
            moved |= fsi__abs(more) > FSI_R(1e-4) * r0;
        }
    }

    return u;
}

/* What the correction did to a particle. */
enum {
    FSI__PROXY_MOVED = 1,
    FSI__PROXY_CROSSED = 2, /* it had crossed a surface and was taken back */
    FSI__PROXY_SKIPPED = 4  /* there is no way out, or only one through a wall */
};

/* Takes a particle to a place at least r0 from every surface and on its own side of all. */
static void fsi__proxy_settle(const fsi_proxy *proxy, fsi__proxy_near *nearby) {
    const fsi_coupled *door = &proxy->desc.solid[nearby->solid].door;
    fsi_real r0 = proxy->desc.radius;
    fsi_real enough = r0 * (1 - FSI_R(0.0009));
    fsi_vec3 x = fsi__particle_place(proxy->desc.sph, nearby->particle);
    nearby->state = 0;
    nearby->out = x;

    /* Can anything be near? */
    fsi_real way = fsi__length(fsi_vec_sub(x, nearby->start));
    if (fsi__length(nearby->offset) - way - proxy->moved > FSI_R(1.001) * r0)
        return;

    /* Where it was, carried along by the surface: the side it belongs to. */
    fsi_vec3 surface = fsi__proxy_mean(door, nearby, door->surface.x, NULL);
    fsi_vec3 from = fsi_vec_add(surface, nearby->offset);
    if (fsi__proxy_cross(proxy, from, &x))
        nearby->state = FSI__PROXY_CROSSED;

    /* Away from what it touches, until nothing is nearer than r0. */
    fsi_vec3 place = x;
    fsi_real least = 0;
    for (int k = 0; k <= proxy->desc.iterations; k++) {
        fsi__proxy_touch touch;
        fsi__proxy_gather(proxy, from, place, r0, &touch);
        least = r0;
        for (int j = 0; j < touch.count; j++)
            least = fsi__min(least, touch.distance[j]);
        if (least >= enough || k == proxy->desc.iterations)
            break;
        /* What lies behind counts too, or two walls of a wedge take turns. */
        if (k)
            fsi__proxy_gather(proxy, from, place, FSI_R(1.25) * r0, &touch);
        place = fsi_vec_add(place, fsi__proxy_way(&touch, r0 * FSI_R(1.0002)));
        nearby->state |= FSI__PROXY_MOVED;
        if (!(fsi__length(fsi_vec_sub(place, x)) < 4 * r0))
            break;
    }

    /* Without a good way out it stays on its own side; later steps will do. */
    if (nearby->state & FSI__PROXY_MOVED) {
        fsi_vec3 end = place;
        if (!(least >= enough) || fsi__proxy_cross(proxy, from, &end)) {
            nearby->state |= FSI__PROXY_SKIPPED;
            if (fsi__proxy_cross(proxy, from, &place))
                place = nearby->state & FSI__PROXY_CROSSED ? from : x;
        }
    }
    nearby->out = place;
}

/* The longest way of a vertex since collide, m. */
static fsi_real fsi__proxy_moved(fsi_proxy *proxy) {
    fsi_real most = 0;
    for (int k = 0; k < proxy->desc.count; k++) {
        const fsi_coupled *door = &proxy->desc.solid[k].door;
        for (int i = 0; i < door->surface.vertex_count; i++) {
            fsi_vec3 old = fsi__vec_at(proxy->x_old, proxy->offset[k] + door->node[i]);
            fsi_vec3 now = fsi__vec_at(door->surface.x, i);
            most = fsi__max(most, fsi__length(fsi_vec_sub(old, now)));
        }
    }

    return most;
}

FSI_API fsi_result fsi_proxy_correct(fsi_proxy *proxy) {
    if (!proxy || !proxy->block || !proxy->ready)
        return FSI_ERR_STATE;
    for (int i = 0; i < proxy->desc.count; i++)
        proxy->desc.solid[i].door = fsi__proxy_door(&proxy->desc.solid[i]);
    fsi_result result;
    if ((result = fsi__proxy_look(proxy, FSI_R(1.25) * proxy->desc.radius)) < 0)
        return result;
    proxy->moved = fsi__proxy_moved(proxy);

    ptrdiff_t count = proxy->stats.nearby;
    FSI__PARALLEL(count > 64)
    for (ptrdiff_t i = 0; i < count; i++)
        fsi__proxy_settle(proxy, &proxy->nearby[i]);

    fsi_sph *sph = proxy->desc.sph;
    fsi_proxy_stats *stats = &proxy->stats;
    stats->corrected = stats->crossed = stats->skipped = 0;
    for (ptrdiff_t i = 0; i < count; i++) {
        const fsi__proxy_near *nearby = &proxy->nearby[i];
        if (nearby->state) {
            sph->x[nearby->particle] = nearby->out.x;
            sph->y[nearby->particle] = nearby->out.y;
            sph->z[nearby->particle] = nearby->out.z;
        }
        stats->corrected += (nearby->state & FSI__PROXY_MOVED) != 0;
        stats->crossed += (nearby->state & FSI__PROXY_CROSSED) != 0;
        stats->skipped += (nearby->state & FSI__PROXY_SKIPPED) != 0;
    }
    stats->all_corrected += stats->corrected;
    stats->all_crossed += stats->crossed;
    stats->all_skipped += stats->skipped;
    proxy->ready = 0;

    return FSI_OK;
}

/* Steps of equal length that a TLED solid needs for dt. */
static int fsi__tled_substeps(const fsi_tled *tled, fsi_real dt) {
    fsi_real steps = fsi__ceil(dt / fsi_tled_max_dt(tled) - FSI_R(1e-3));
    return fsi__imax((int)fsi__min(steps, FSI_R(1e6)), 1);
}

/* A solid moves on by dt, in as many steps as it needs. */
static fsi_result fsi__proxy_advance(fsi_proxy_solid *solid, fsi_real dt) {
    solid->substeps = 1;
    if (solid->soft)
        return fsi_soft_step(solid->soft, NULL, 0, dt);
    if (!solid->tled)
        return solid->advance_fn(dt, solid->user);
    solid->substeps = fsi__tled_substeps(solid->tled, dt);
    fsi_result result = FSI_OK;
    fsi_result worst = FSI_OK;
    for (int k = 0; k < solid->substeps && result >= 0; k++) {
        result = fsi_tled_step(solid->tled, dt / (fsi_real)solid->substeps);
        if (result != FSI_OK)
            worst = result;
    }

    return worst;
}

/* Seconds since the last call go to *spent. */
static void fsi__proxy_clock(const fsi_proxy *proxy, double *last, double *spent) {
    if (!proxy->desc.clock_fn)
        return;
    double now = proxy->desc.clock_fn(proxy->desc.clock_user);
    *spent += now - *last;
    *last = now;
}

FSI_API fsi_result fsi_proxy_step(fsi_proxy *proxy, fsi_real dt, fsi_report *report) {
    if (!proxy || !proxy->block)
        return FSI_ERR_STATE;
    fsi_proxy_stats *stats = &proxy->stats;
    fsi_sph *sph = proxy->desc.sph;
    fsi_result result;
    double last = 0;
    fsi__proxy_clock(proxy, &last, &stats->seconds_sph);
    stats->seconds_sph = stats->seconds_coupling = stats->seconds_solid = 0;

    /* The fluid's forces, then collisions with the solids. */
    if ((result = fsi_sph_prepare(sph, dt)) < 0)
        return result;
    if ((result = fsi_sph_accelerate(sph, dt, report)) < 0)
        return result;
    fsi_result worst = result == FSI_EMPTY ? FSI_OK : result;
    fsi__proxy_clock(proxy, &last, &stats->seconds_sph);
    if ((result = fsi_proxy_collide(proxy, dt)) < 0)
        return result;
    fsi__proxy_clock(proxy, &last, &stats->seconds_coupling);

    /* Both move. */
    if ((result = fsi_sph_move(sph, dt)) < 0)
        return result;
    fsi__proxy_clock(proxy, &last, &stats->seconds_sph);
    for (int i = 0; i < proxy->desc.count; i++) {
        if ((result = fsi__proxy_advance(&proxy->desc.solid[i], dt)) < 0)
            return result;
        if (worst == FSI_OK)
            worst = result;
    }
    fsi__proxy_clock(proxy, &last, &stats->seconds_solid);

    /* No particle stays too near to a surface. */
    if ((result = fsi_proxy_correct(proxy)) < 0)
        return result;
    fsi__proxy_clock(proxy, &last, &stats->seconds_coupling);
    if (report)
        report->energy_change = stats->energy_change;

    return worst;
}

/* ---- Clamp: a flexible part on a rigid body. */
FSI_API fsi_result fsi_clamp_init(fsi_clamp *clamp, fsi_tled *tled, fsi_solids *world, int body,
                                  const int32_t *node, int count, const fsi_allocator *allocator) {
    if (!clamp)
        return FSI_ERR_ARGUMENT;
    memset(clamp, 0, sizeof *clamp);
    if (!tled || !tled->block || !world || !world->block)
        return FSI_ERR_ARGUMENT;
    if (body < 0 || body >= world->body_count || !node || count < 1)
        return FSI_ERR_ARGUMENT;
    for (int i = 0; i < count; i++)
        if (node[i] < 0 || node[i] >= tled->nodes)
            return FSI_ERR_ARGUMENT;

    if (allocator)
        clamp->allocator = *allocator;
    clamp->size = (size_t)count * (3 * sizeof(fsi_real) + sizeof(int32_t));
    clamp->block = fsi_alloc(&clamp->allocator, clamp->size);
    if (!clamp->block) {
        memset(clamp, 0, sizeof *clamp);
        return FSI_ERR_MEMORY;
    }
    clamp->local = (fsi_real *)clamp->block;
    clamp->node = (int32_t *)(clamp->local + 3 * (size_t)count);
    clamp->tled = tled;
    clamp->world = world;
    clamp->body = body;
    clamp->count = count;

    /* Places in the body's frame; the nodes follow from now on. */
    const fsi_rigid *rigid = &world->body[body];
    for (int i = 0; i < count; i++) {
        fsi_vec3 arm = fsi_vec_sub(fsi__vec_at(tled->x, node[i]), rigid->x);
        clamp->node[i] = node[i];
        fsi__vec_put(clamp->local, i, fsi_mat3_tmul_vec(&rigid->rotation, arm));
        fsi_tled_fix(tled, node[i], fsi_vec(0, 0, 0));
    }

    return FSI_OK;
}

FSI_API void fsi_clamp_free(fsi_clamp *clamp) {
    if (!clamp)
        return;
    fsi_free(&clamp->allocator, clamp->block, clamp->size);
    memset(clamp, 0, sizeof *clamp);
}

/* The body gets an impulse at the place of a clamped node. */
static void fsi__clamp_give(fsi_clamp *clamp, fsi_vec3 place, fsi_vec3 impulse) {
    fsi_vec3 arm = fsi_vec_sub(place, clamp->world->body[clamp->body].x);
    clamp->impulse = fsi_vec_add(clamp->impulse, impulse);
    clamp->angular = fsi_vec_add(clamp->angular, fsi_vec_cross(arm, impulse));
}

FSI_API fsi_result fsi_clamp_advance(fsi_real dt, void *user) {
    fsi_clamp *clamp = (fsi_clamp *)user;
    if (!clamp || !clamp->block)
        return FSI_ERR_STATE;
    if (!fsi__positive(dt))
        return FSI_ERR_ARGUMENT;
    fsi_tled *tled = clamp->tled;
    fsi_rigid *body = &clamp->world->body[clamp->body];
    clamp->impulse = clamp->angular = fsi_vec(0, 0, 0);

    /* Clamped nodes go straight to where the body will be; what a collide gave them is its. */
    fsi_quat turn = fsi_quat_mul(fsi_quat_from_rotation(fsi_vec_scale(body->spin, dt)), body->q);
    for (int i = 0; i < clamp->count; i++) {
        size_t at = 3 * (size_t)clamp->node[i];
        fsi_vec3 x = fsi_vec_load(tled->x + at);
        fsi_vec3 arm = fsi_quat_rotate(turn, fsi__vec_at(clamp->local, i));
        fsi_vec3 to = fsi_vec_mad(fsi_vec_add(body->x, arm), body->v, dt);
        fsi__clamp_give(clamp, x, fsi_vec_load(tled->impulse + at));
        fsi_vec_store(tled->drive + at, fsi_vec_scale(fsi_vec_sub(to, x), 1 / dt));
        fsi_vec_store(tled->impulse + at, fsi_vec(0, 0, 0));
    }

    /* The solid's own steps; its forces on clamped nodes are weighed as fsi_tled_accelerate does.
     */
    clamp->substeps = fsi__tled_substeps(tled, dt);
    fsi_real h = dt / (fsi_real)clamp->substeps;
    fsi_result result;
    fsi_result worst = FSI_OK;
    for (int k = 0; k < clamp->substeps; k++) {
        fsi_real gain = ((fsi_real)tled->clock[1] + h) / 2;
        gain /= 1 + tled->desc.damping * gain / 2;
        if ((result = fsi_tled_accelerate(tled, h)) < 0)
            return result;
        if (result != FSI_OK)
            worst = result;
        for (int i = 0; i < clamp->count; i++) {
            size_t at = 3 * (size_t)clamp->node[i];
            fsi__clamp_give(clamp, fsi_vec_load(tled->x + at),
                            fsi_vec_scale(fsi_vec_load(tled->force + at), gain));
        }
        if ((result = fsi_tled_move(tled, h)) < 0)
            return result;
    }
    body->force = fsi_vec_mad(body->force, clamp->impulse, 1 / dt);
    body->torque = fsi_vec_mad(body->torque, clamp->angular, 1 / dt);

    return worst;
}
#endif

/* ------------------------------------------------------------------------------------------------
 * >>sphrigid */
#ifndef FSI_COUPLE_NO_SPH
static void fsi__sph_rigid_layout(fsi_sph_rigid *coupling, fsi_arena *arena) {
    size_t n = (size_t)coupling->n;
    fsi_real **vectors[] = {&coupling->X,        &coupling->p,
                            &coupling->X_base,   &coupling->p_base,
                            &coupling->gap_base, &coupling->gap,
                            &coupling->p_model,  &coupling->step,
                            &coupling->trial,    &coupling->gap_trial,
                            &coupling->p_trial,  &coupling->dX,
                            &coupling->dp,       NULL};
    fsi_real **matrices[] = {&coupling->K, &coupling->J, NULL};
    fsi__take_vectors(arena, n, vectors);
    fsi__take_vectors(arena, n * n, matrices);
    FSI__TAKE(coupling->part, arena, (size_t)coupling->desc.count);
    FSI__TAKE(coupling->pivot, arena, n);
    coupling->sph_state = fsi_arena_take(arena, fsi_sph_state_size(coupling->desc.sph), 1);
    coupling->world_state = fsi_arena_take(arena, fsi_solids_state_size(coupling->desc.world), 1);
}

static int fsi__sph_rigid_valid(const fsi_sph_rigid_desc *desc) {
    if (!desc || !desc->sph || !desc->sph->block || !desc->world || !desc->world->block)
        return 0;

    int scheme = (int)desc->scheme >= 0 && (int)desc->scheme <= 3 && desc->max_iterations >= 0;
    int omega = desc->omega >= 0 && desc->omega <= 1;
    int tolerance = desc->tolerance >= 0 && desc->tolerance < 100;
    if (!scheme || !omega || !tolerance || desc->count < 1 || !desc->body || !desc->object)
        return 0;

    for (int i = 0; i < desc->count; i++) {
        int body = desc->body[i];
        int object = desc->object[i];
        if (body < 0 || body >= desc->world->body_count)
            return 0;
        if (object < 0 || object >= desc->sph->now.objects
            || !desc->sph->now.object[object].two_way)
            return 0;
    }

    return 1;
}

/* The body of part i as it is now. */
static fsi_rigid *fsi__sph_rigid_body(const fsi_sph_rigid *coupling, int i) {
    return &coupling->desc.world->body[coupling->part[i].body];
}

/* Residuals up to this are small enough, m. */
static fsi_real fsi__sph_rigid_tolerance(const fsi_sph_rigid *coupling) {
    return coupling->desc.tolerance * coupling->desc.sph->desc.spacing / 2;
}

/* The exchange. XPM finds every next X by itself, and ends with a call more: the best one again. */
static fsi_result fsi__sph_rigid_scheme(fsi_sph_rigid *coupling) {
    fsi_partitioned_desc desc = FSI__ZERO;
    desc.n = desc.m = coupling->n;
    desc.per_node = 3;
    desc.scheme = coupling->desc.scheme == FSI_SPH_AITKEN ? FSI_SCHEME_AITKEN : FSI_SCHEME_RELAXED;
    desc.omega = coupling->desc.omega;
    desc.tolerance = fsi__sph_rigid_tolerance(coupling);
    desc.max_iterations = coupling->desc.max_iterations + (coupling->desc.scheme == FSI_SPH_XPM);
    desc.allocator = coupling->desc.allocator;

    return fsi_partitioned_init(&coupling->scheme, &desc);
}

FSI_API fsi_result fsi_sph_rigid_init(fsi_sph_rigid *coupling, const fsi_sph_rigid_desc *desc) {
    if (!coupling)
        return FSI_ERR_ARGUMENT;

    memset(coupling, 0, sizeof *coupling);
    if (!fsi__sph_rigid_valid(desc))
        return FSI_ERR_ARGUMENT;

    coupling->desc = *desc;
    coupling->desc.body = coupling->desc.object = NULL;
    coupling->n = 6 * desc->count;
    if (!(coupling->desc.omega > 0))
        coupling->desc.omega = FSI_R(0.05);
    if (!(coupling->desc.tolerance > 0))
        coupling->desc.tolerance = FSI_R(0.1);
    if (coupling->desc.max_iterations == 0)
        coupling->desc.max_iterations = 60;

    fsi_arena arena = FSI__ZERO;
    fsi__sph_rigid_layout(coupling, &arena);
    fsi_result result =
        fsi__arena_block(&arena, &coupling->desc.allocator, &coupling->block, &coupling->size);
    if (result < 0) {
        memset(coupling, 0, sizeof *coupling);
        return result;
    }
    fsi__sph_rigid_layout(coupling, &arena);

    /* First guess of K: half the displaced fluid, as for a ball in the open. */
    for (int i = 0; i < desc->count; i++) {
        const fsi_shape *shape = desc->world->body[desc->body[i]].shape;
        coupling->part[i].body = desc->body[i];
        coupling->part[i].object = desc->object[i];
        coupling->part[i].radius = shape->bound;
        for (int k = 0; k < 6; k++)
            coupling->K[(6 * i + k) * (coupling->n + 1)] =
                (k < 3 ? FSI_R(0.5) : FSI_R(0.02)) * desc->sph->desc.density * shape->volume;
    }
    if ((result = fsi__sph_rigid_scheme(coupling)) < 0)
        fsi_sph_rigid_free(coupling);

    return result;
}

FSI_API void fsi_sph_rigid_free(fsi_sph_rigid *coupling) {
    if (!coupling)
        return;

    fsi_partitioned_free(&coupling->scheme);
    fsi_free(&coupling->desc.allocator, coupling->block, coupling->size);
    memset(coupling, 0, sizeof *coupling);
}

/* ---- Fluid and solid as black boxes. */
/* The fluid: boundary particles stay where the bodies are and move with X / dt; out come the
 * impulses on the bodies. */
static fsi_result fsi__sph_rigid_flow(const fsi_real *X, fsi_real *p, void *user) {
    fsi_sph_rigid *coupling = (fsi_sph_rigid *)user;
    fsi_sph *sph = coupling->desc.sph;
    fsi_real dt = coupling->dt;
    coupling->fluid_calls++;
    fsi_result result;

    for (int i = 0; i < coupling->desc.count; i++) {
        const fsi__sph_body *part = &coupling->part[i];
        fsi_vec3 v = fsi_vec_scale(fsi_vec_load(X + 6 * i), 1 / dt);
        fsi_vec3 spin = fsi_vec_scale(fsi_vec_load(X + 6 * i + 3), 1 / (dt * part->radius));
        result = fsi_sph_object_pose(sph, part->object, part->x0, part->q0, v, spin);
        if (result < 0)
            return result;
    }
    if ((result = fsi_sph_prepare(sph, dt)) < 0)
        return result;
    if ((result = fsi_sph_accelerate(sph, dt, &coupling->fluid)) < 0)
        return result;

    for (int i = 0; i < coupling->desc.count; i++) {
        const fsi__sph_body *part = &coupling->part[i];
        const fsi_sph_object *object = &sph->now.object[part->object];
        fsi_vec_store(p + 6 * i, fsi_vec_scale(object->force, dt));
        fsi_vec_store(p + 6 * i + 3, fsi_vec_scale(object->torque, dt / part->radius));
    }

    return FSI_OK;
}

static fsi_result fsi__sph_rigid_flow_save(void *user) {
    fsi_sph_rigid *coupling = (fsi_sph_rigid *)user;
    return fsi_sph_save(coupling->desc.sph, coupling->sph_state);
}

static fsi_result fsi__sph_rigid_flow_back(void *user) {
    fsi_sph_rigid *coupling = (fsi_sph_rigid *)user;
    return fsi_sph_restore(coupling->desc.sph, coupling->sph_state,
                           fsi_sph_state_size(coupling->desc.sph));
}

/* The solid: a whole step of the world, contacts and joints included, with the impulses as forces;
   out comes dt times the velocity that the displacement tells: x - x0 = dt (v0 + f dv), f the
   world's share of the step's dv (it spreads the change over its substeps, a free body flies a
   parabola). Without contact this is the end velocity; where a contact stops the body it is the way
   to the contact, which changes continuously with the impulse, while the end velocity jumps from
   its value on arrival to 0. */
static fsi_result fsi__sph_rigid_move(const fsi_real *p, fsi_real *X, void *user) {
    fsi_sph_rigid *coupling = (fsi_sph_rigid *)user;
    fsi_solids *world = coupling->desc.world;
    fsi_real dt = coupling->dt;
    fsi_real substeps = (fsi_real)world->desc.substeps;
    coupling->solid_calls++;
    for (int i = 0; i < coupling->desc.count; i++) {
        fsi_rigid *body = fsi__sph_rigid_body(coupling, i);
        fsi_real radius = coupling->part[i].radius;
        body->force = fsi_vec_mad(body->force, fsi_vec_load(p + 6 * i), 1 / dt);
        body->torque = fsi_vec_mad(body->torque, fsi_vec_load(p + 6 * i + 3), radius / dt);
    }
    fsi_result result = fsi_solids_step(world, dt);
    if (result < 0)
        return result;

    for (int i = 0; i < coupling->desc.count; i++) {
        const fsi_rigid *body = fsi__sph_rigid_body(coupling, i);
        const fsi__sph_body *part = &coupling->part[i];
        fsi_real share = body->touching ? (substeps + 1) / (2 * substeps) : FSI_R(0.5);
        fsi_vec3 plain = fsi_vec_scale(part->v0, dt);
        fsi_vec3 way = fsi_vec_sub(fsi_vec_sub(body->x, part->x0), plain);
        fsi_vec3 seen = fsi_vec_scale(body->v, dt);
        if (body->kind == FSI_RIGID_DYNAMIC)
            seen = fsi_vec_mad(plain, way, 1 / share);
        fsi_vec_store(X + 6 * i, seen);
        fsi_vec_store(X + 6 * i + 3, fsi_vec_scale(body->spin, dt * part->radius));
    }

    return FSI_OK;
}

static fsi_result fsi__sph_rigid_move_save(void *user) {
    fsi_sph_rigid *coupling = (fsi_sph_rigid *)user;
    return fsi_solids_save(coupling->desc.world, coupling->world_state);
}

static fsi_result fsi__sph_rigid_move_back(void *user) {
    fsi_sph_rigid *coupling = (fsi_sph_rigid *)user;
    return fsi_solids_restore(coupling->desc.world, coupling->world_state,
                              fsi_solids_state_size(coupling->desc.world));
}

/* ---- XPM. The model is p(X) = p_b - K (X - X_b) / dt about the base b; X in m, K in kg. */
/* X = S(p) from the start of the step. */
static fsi_result fsi__sph_rigid_answer(fsi_sph_rigid *coupling, const fsi_real *p, fsi_real *X) {
    fsi_result result = fsi__sph_rigid_move_back(coupling);
    return result < 0 ? result : fsi__sph_rigid_move(p, X, coupling);
}

/* Residual of the reduced system at X: p = p(X), gap = S(p) - X. */
static fsi_result fsi__sph_rigid_gap(fsi_sph_rigid *coupling, const fsi_real *X, fsi_real *p,
                                     fsi_real *gap, fsi_real *norm) {
    int n = coupling->n;
    const fsi_real *K = coupling->K;
    for (int i = 0; i < n; i++) {
        p[i] = coupling->p_base[i];
        for (int j = 0; j < n; j++)
            p[i] -= *K++ * (X[j] - coupling->X_base[j]) / coupling->dt;
    }
    fsi_result result = fsi__sph_rigid_answer(coupling, p, gap);
    if (result < 0)
        return result;

    fsi_axpy((size_t)n, -1, X, gap);
    *norm = fsi__node_norm(n, 3, gap);

    return FSI_OK;
}

/* step = (I + S_p K)^-1 gap with S_p by differences: 6 solid calls per body. *good = 0: singular.
 */
static fsi_result fsi__sph_rigid_newton(fsi_sph_rigid *coupling, int *good) {
    int n = coupling->n;
    fsi_real *J = coupling->J;
    fsi_real *p = coupling->p_model;
    for (int i = 0; i < n * n; i++)
        J[i] = i % (n + 1) == 0;
    for (int k = 0; k < n; k++) {
        /* A difference of the impulse that moves the body by about 0.02 tolerance. */
        fsi_real mass = fsi__sph_rigid_body(coupling, k / 6)->mass;
        fsi_real was = p[k];
        fsi_real change = FSI_R(0.02) * fsi__sph_rigid_tolerance(coupling) * mass / coupling->dt;
        if (!(change > 0))
            continue;
        p[k] += was < 0 ? -change : change;
        change = p[k] - was;
        fsi_result result = fsi__sph_rigid_answer(coupling, p, coupling->trial);
        if (result < 0)
            return result;
        p[k] = was;
        for (int i = 0; i < n; i++) {
            /* gap + X = S(p) */
            fsi_real slope = (coupling->trial[i] - coupling->gap[i] - coupling->X[i]) / change;
            for (int j = 0; j < n; j++)
                J[i * n + j] += slope * coupling->K[k * n + j] / coupling->dt;
        }
    }
    fsi_copy((size_t)n, coupling->gap, coupling->step);
    *good = fsi_dense_lu(n, J, coupling->pivot) == FSI_OK;
    if (*good)
        fsi_dense_lu_solve(n, J, coupling->pivot, coupling->step);
    *good = *good && fsi_all_finite((size_t)n, coupling->step);

    return FSI_OK;
}

/* X = S(p(X)): Newton with halved steps where a contact opens or closes. X in: first guess, out:
 * the answer. */
static fsi_result fsi__sph_rigid_meet(fsi_sph_rigid *coupling) {
    size_t n = (size_t)coupling->n;
    fsi_real *X = coupling->X;
    fsi_real *trial = coupling->trial;
    fsi_real norm;
    fsi_real next = 0;
    fsi_real enough = FSI_R(1e-3) * fsi__sph_rigid_tolerance(coupling);
    fsi_result result = fsi__sph_rigid_gap(coupling, X, coupling->p_model, coupling->gap, &norm);
    if (result < 0)
        return result;

    for (int round = 0; round < 20 && norm > enough; round++) {
        int good;
        if ((result = fsi__sph_rigid_newton(coupling, &good)) < 0)
            return result;
        if (!good)
            return FSI_OK;
        for (fsi_real share = 1; share > FSI_R(0.01); share /= 2) {
            for (size_t i = 0; i < n; i++)
                trial[i] = X[i] + share * coupling->step[i];
            result =
                fsi__sph_rigid_gap(coupling, trial, coupling->p_trial, coupling->gap_trial, &next);
            if (result < 0)
                return result;
            if (next < (1 - share / 4) * norm)
                break;
        }
        if (!(next < norm))
            return FSI_OK;
        fsi_copy(n, trial, X);
        fsi_copy(n, coupling->gap_trial, coupling->gap);
        fsi_copy(n, coupling->p_trial, coupling->p_model);
        norm = next;
    }

    return FSI_OK;
}

/* What the fluid said at X against the base: K dX = dp afterwards (Broyden's update). A passive
 * fluid resists: dp . dX >= 0 is enforced. */
static void fsi__sph_rigid_learn(fsi_sph_rigid *coupling) {
    fsi_real square = 0;
    fsi_real work = 0;
    fsi_real *dX = coupling->dX;
    fsi_real *dp = coupling->dp;
    int n = coupling->n;
    for (int i = 0; i < n; i++) {
        dX[i] = (coupling->X[i] - coupling->X_base[i]) / coupling->dt;
        dp[i] = coupling->p_base[i] - coupling->p[i];
        square += dX[i] * dX[i];
        work += dX[i] * dp[i];
    }
    if (!(square > 0) || !fsi__finite(1 / square))
        return;

    for (int i = 0; work < 0 && i < n; i++)
        dp[i] -= dX[i] * work / square;

    /* K += (dp - K dX) dX^T / |dX|^2 */
    for (int i = 0; i < n; i++) {
        fsi_real *row = coupling->K + i * n;
        for (int j = 0; j < n; j++)
            dp[i] -= row[j] * dX[j];
        for (int j = 0; j < n; j++)
            row[j] += dp[i] * dX[j] / square;
    }
}

/* No way down from the base: relax, shorter each time. */
static void fsi__sph_rigid_relax(fsi_sph_rigid *coupling, int round) {
    int n = coupling->n;
    for (int i = 0; i < n; i++)
        if (coupling->X[i] != coupling->X_base[i])
            return;
    for (int i = 0; i < n; i++) {
        fsi_real mass = fsi__sph_rigid_body(coupling, i / 6)->mass;
        fsi_real added = fsi__abs(coupling->K[i * (n + 1)]);
        coupling->X[i] += coupling->gap_base[i] * mass / ((mass + added) * (fsi_real)round);
    }
}

/* After a pair of calls: the model learns, the best pair is its base, and the next X is where model
   and solid agree; in the end the best one again. */
static fsi_result fsi__sph_rigid_next(int pairs, void *user) {
    fsi_sph_rigid *coupling = (fsi_sph_rigid *)user;
    const fsi_partitioned *scheme = &coupling->scheme;
    size_t n = (size_t)coupling->n;
    fsi_copy(n, scheme->last.x_f, coupling->X);
    fsi_copy(n, scheme->last.p_f, coupling->p);
    if (pairs > 1)
        fsi__sph_rigid_learn(coupling);

    fsi_real norm = fsi__node_norm(coupling->n, 3, scheme->residual);
    if (pairs == 1 || norm < coupling->best) {
        coupling->best = norm;
        fsi_copy(n, coupling->X, coupling->X_base);
        fsi_copy(n, coupling->p, coupling->p_base);
        fsi_copy(n, scheme->residual, coupling->gap_base);
    }

    fsi_copy(n, coupling->X_base, coupling->X);
    if (pairs < coupling->desc.max_iterations) {
        fsi_result result = fsi__sph_rigid_meet(coupling);
        if (result < 0)
            return result;

        fsi__sph_rigid_relax(coupling, pairs);
    }

    fsi_copy(n, coupling->X, scheme->last.x_f);

    return FSI_OK;
}

/* ---- The step. */
/* First guess: everything goes on as it did. */
static void fsi__sph_rigid_begin(fsi_sph_rigid *coupling) {
    fsi_real dt = coupling->dt;
    for (int i = 0; i < coupling->desc.count; i++) {
        const fsi_rigid *body = fsi__sph_rigid_body(coupling, i);
        fsi__sph_body *part = &coupling->part[i];
        part->x0 = body->x;
        part->q0 = body->q;
        part->v0 = body->v;
        fsi_vec_store(coupling->X + 6 * i, fsi_vec_scale(body->v, dt));
        fsi_vec_store(coupling->X + 6 * i + 3, fsi_vec_scale(body->spin, dt * part->radius));
    }
}

/* Fluid and solids agree on X and p, by the chosen scheme. */
static fsi_result fsi__sph_rigid_exchange(fsi_sph_rigid *coupling, fsi_report *report) {
    if (coupling->desc.scheme == FSI_SPH_WEAK) {
        report->iterations = 1;
        fsi_result result = fsi__sph_rigid_flow(coupling->X, coupling->p, coupling);
        return result < 0 ? result : fsi__sph_rigid_move(coupling->p, coupling->X, coupling);
    }
    fsi_blackbox fluid = {fsi__sph_rigid_flow, fsi__sph_rigid_flow_save, fsi__sph_rigid_flow_back,
                          coupling};
    fsi_blackbox solid = {fsi__sph_rigid_move, fsi__sph_rigid_move_save, fsi__sph_rigid_move_back,
                          coupling};
    if (coupling->desc.scheme == FSI_SPH_XPM) {
        coupling->scheme.next_fn = fsi__sph_rigid_next;
        coupling->scheme.next_user = coupling;
    }
    return fsi_partitioned_step(&coupling->scheme, coupling->n, coupling->n, &fluid, &solid,
                                coupling->X, coupling->p, report);
}

FSI_API fsi_result fsi_sph_rigid_step(fsi_sph_rigid *coupling, fsi_real dt, fsi_report *report) {
    if (!coupling || !coupling->block)
        return FSI_ERR_STATE;
    if (!fsi__positive(dt))
        return FSI_ERR_ARGUMENT;

    fsi_sph *sph = coupling->desc.sph;
    fsi_report own;
    if (!report)
        report = &own;
    memset(report, 0, sizeof *report);
    coupling->dt = dt;
    fsi__sph_rigid_begin(coupling);
    fsi_result exchange = fsi__sph_rigid_exchange(coupling, report);
    if (exchange < 0)
        return exchange;

    /* Ledger: what the fluid gave less what the bodies took. */
    for (int axis = 0; axis < 3; axis++) {
        report->momentum[axis] = 0;
        for (int i = 0; i < coupling->desc.count; i++) {
            fsi_vec3 force = sph->now.object[coupling->part[i].object].force;
            report->momentum[axis] +=
                (double)(fsi__get(force, axis) * dt) - (double)coupling->p[6 * i + axis];
        }
        coupling->momentum[axis] = report->momentum[axis];
    }

    /* The fluid moves; boundary particles go where the bodies are now. */
    fsi_result result = fsi_sph_move(sph, dt);

    for (int i = 0; result >= 0 && i < coupling->desc.count; i++) {
        const fsi_rigid *body = fsi__sph_rigid_body(coupling, i);
        if (!fsi__finite_vec(body->x) || !fsi__finite_vec(body->v))
            return FSI_ERR_NUMERIC;
        result = fsi_sph_object_pose(sph, coupling->part[i].object, body->x, body->q, body->v,
                                     body->spin);
    }

    return result < 0 ? result : exchange;
}

/* State: that of the particles, that of the world, then this one. */
static void fsi__sph_rigid_state(void *object, fsi__state *state) {
    fsi_sph_rigid *coupling = (fsi_sph_rigid *)object;
    size_t n = (size_t)coupling->n;
    fsi__state_match(state, n);
    fsi__state_reals(state, coupling->K, n * n);
    fsi__partitioned_state(&coupling->scheme, state);
}

#define FSI__STATE_SPH_RIGID FSI__STATE_OF('s', 'p', 'h', 'r')

/* Where the three begin, and the end. */
static void fsi__sph_rigid_blocks(const fsi_sph_rigid *coupling, size_t at[4]) {
    at[0] = 0;
    at[1] = fsi_sph_state_size(coupling->desc.sph);
    at[2] = at[1] + fsi_solids_state_size(coupling->desc.world);
    at[3] = at[2] + fsi__state_size(fsi__sph_rigid_state, coupling);
}

FSI_API size_t fsi_sph_rigid_state_size(const fsi_sph_rigid *coupling) {
    size_t at[4] = FSI__ZERO;
    if (coupling && coupling->block)
        fsi__sph_rigid_blocks(coupling, at);
    return at[3];
}

FSI_API fsi_result fsi_sph_rigid_save(const fsi_sph_rigid *coupling, void *block) {
    unsigned char *to = (unsigned char *)block;
    if (!coupling || !coupling->block)
        return FSI_ERR_STATE;
    if (!block)
        return FSI_ERR_ARGUMENT;

    size_t at[4];
    fsi__sph_rigid_blocks(coupling, at);
    fsi_result result = fsi_sph_save(coupling->desc.sph, to);
    if (result >= 0)
        result = fsi_solids_save(coupling->desc.world, to + at[1]);
    if (result >= 0)
        result = fsi__state_save(fsi__sph_rigid_state, FSI__STATE_SPH_RIGID, coupling, to + at[2]);

    return result;
}

FSI_API fsi_result fsi_sph_rigid_restore(fsi_sph_rigid *coupling, const void *block, size_t size) {
    const unsigned char *from = (const unsigned char *)block;
    if (!coupling || !coupling->block)
        return FSI_ERR_STATE;
    if (!block)
        return FSI_ERR_ARGUMENT;
    if (size != fsi_sph_rigid_state_size(coupling))
        return FSI_ERR_SIZE;

    /* All parts are checked before the first is restored; this one's restore checks it. */
    size_t at[4];
    fsi__sph_rigid_blocks(coupling, at);
    fsi_result result = fsi_sph_check(coupling->desc.sph, from, at[1]);
    if (result >= 0)
        result = fsi_solids_check(coupling->desc.world, from + at[1], at[2] - at[1]);
    if (result >= 0)
        result = fsi__state_restore(fsi__sph_rigid_state, FSI__STATE_SPH_RIGID, coupling,
                                    from + at[2], at[3] - at[2]);
    if (result >= 0)
        result = fsi_sph_restore(coupling->desc.sph, from, at[1]);
    if (result >= 0)
        result = fsi_solids_restore(coupling->desc.world, from + at[1], at[2] - at[1]);

    return result;
}
#endif

/* ------------------------------------------------------------------------------------------------
 * >>papers */
/* Solvers that the tables of the papers need. They give the same answer as the default one, mostly
   later; symbols as in >>monolithic. */
#ifndef FSI_COUPLE_NO_GRID

/* ---- SCHUR: Sigma by conjugate gradients with P(s). */

/* mu: weight of a side in A11, G^T b^-1 G of its cell in the grid's scale. */
FSI__INLINE fsi_real fsi__side_mu(const fsi_couple *couple, const fsi_side *side) {
    fsi_real area = fsi__area(&couple->iface);
    return side->mass > 0 ? area * area / side->mass * fsi__scale_of(couple) : 0;
}

/* A V-cycle for A11: solids become Dirichlet cells behind faces of weight mu. Shells stay closed
   (the cycle only preconditions), and open shares of cut cells stay open. */
static fsi_result fsi__schur_cycle_build(fsi_couple *couple) {
    const fsi_interface *iface = &couple->iface;
    const fsi_grid *grid = couple->grid;
    fsi_result result;
    if (!couple->second.block) {
        fsi_mg_desc desc = grid->mg->desc;
        desc.allocator = couple->desc.allocator;
        if ((result = fsi_mg_init(&couple->second, &desc)) < 0)
            return result;
    }

    /* Weights and kinds of cells: the grid's, */
    fsi_arena arena = FSI__ZERO;
    fsi_real *weight[3] = FSI__ZERO;
    const fsi_allocator *allocator = &couple->desc.allocator;
    for (int turn = 0; fsi__arena_turn(&arena, turn, &couple->paper_lists, allocator); turn++)
        for (int axis = 0; axis < iface->dim; axis++)
            FSI__TAKE(weight[axis], &arena, iface->faces[axis]);
    if (arena.failed)
        return FSI_ERR_MEMORY;
    for (int axis = 0; axis < iface->dim; axis++)
        fsi_copy(iface->faces[axis], grid->weight[axis], weight[axis]);
    uint8_t *cell = (uint8_t *)couple->cell_work;
    for (size_t i = 0; i < iface->cells; i++) {
        int inside = iface->covered[i] && grid->cell[i] == FSI_CELL_NEUMANN;
        cell[i] = inside ? (uint8_t)FSI_CELL_DIRICHLET : grid->cell[i];
    }

    /* but for the closed faces of solids. */
    for (int i = 0; i < iface->sides; i++) {
        const fsi_side *side = iface->side + i;
        if (!side->shell && side->mass > 0)
            weight[side->axis][side->face] = fsi__side_mu(couple, side);
    }
    const fsi_real *const *given = (const fsi_real *const *)weight;
    result = fsi_mg_update(&couple->second, cell, given);

    return result < 0 ? result : FSI_OK;
}

/* P(s) r, algorithm 1 of SCHUR: z = V r; s times z = V (r + A12 A22^-1 A21 z), where
   A12 A22^-1 A21 = diag(mu) - Z K^-1 Z^T. */
static void fsi__schur_apply(const fsi_real *r, fsi_real *z, void *user) {
    fsi_couple *couple = (fsi_couple *)user;
    const fsi_interface *iface = &couple->iface;
    if (couple->desc.terms < 0) {
        fsi_copy(iface->cells, r, z);
        return;
    }
    fsi_mg_cycle(&couple->second, r, z);

    /* Cut cells have no lambda to eliminate, and no diag(mu) that keeps the sum definite. */
    if (couple->desc.boundary == FSI_BOUNDARY_CUT)
        return;

    fsi_real *sum = couple->cell_residual;
    for (int term = 0; term < couple->desc.terms; term++) {
        fsi_fill(iface->cells, 0, sum);
        fsi__extra(z, sum, couple);
        fsi_scale(iface->cells, -1, sum);
        for (int i = 0; i < iface->sides; i++) {
            const fsi_side *side = iface->side + i;
            sum[side->cell] += fsi__side_mu(couple, side) * z[side->cell];
        }
        fsi_axpy(iface->cells, 1, r, sum);
        fsi_mg_cycle(&couple->second, sum, z);
    }
}

/* ---- What FULL and INDEFINITE have in common. */

/* x, right-hand side, more and the work space of a Krylov solver. */
typedef struct fsi__variant {
    fsi_real *x, *b, *more;
    void *work;
    size_t work_size;
} fsi__variant;

/* Room for n unknowns, for `more` numbers and for the solver's work. */
static fsi_result fsi__variant_lists(fsi_couple *couple, size_t n, size_t more, size_t work,
                                     fsi__variant *out) {
    fsi_arena arena = FSI__ZERO;
    const fsi_allocator *allocator = &couple->desc.allocator;
    out->work_size = work;
    for (int turn = 0; fsi__arena_turn(&arena, turn, &couple->paper_vectors, allocator); turn++) {
        FSI__TAKE(out->x, &arena, n);
        FSI__TAKE(out->b, &arena, n);
        FSI__TAKE(out->more, &arena, more);
        out->work = fsi_arena_take(&arena, work, 1);
    }

    return arena.failed ? FSI_ERR_MEMORY : FSI_OK;
}

/* Tolerance and budgets as the user gave them. */
static void fsi__variant_options(const fsi_couple *couple, fsi_krylov_desc *desc) {
    memset(desc, 0, sizeof *desc);
    desc->tolerance = fsi__tolerance(couple);
    desc->tolerance_abs = couple->noise;
    desc->max_iterations = couple->desc.max_iterations ? couple->desc.max_iterations : 20000;
    desc->clock_fn = couple->desc.clock_fn;
    desc->clock_user = couple->desc.clock_user;
    desc->seconds = couple->desc.seconds;
}

/* z += 1 E^-1 1^T r / scale: the constants of closed regions, which a V-cycle leaves out and these
   solvers keep among their unknowns. */
static void fsi__regions_add(fsi_couple *couple, const fsi_mg *mg, const fsi_real *r,
                             fsi_real scale, fsi_real *z) {
    if (!couple->regions)
        return;

    fsi__regions_level(couple, mg, r, scale);
    fsi_mg_region_add(mg, couple->constant, z);
}

/* ---- FULL: the system in (p^, l, w) with l = lambda / A, w = B v / A, where v* has push in it;
   all rows times scale, those of l and w times A:

       L_N p + sum mu (p + o l)                              = rhs* with the sides' own u*
       mu (o p + l) + A^2 scale J M^-1 (J^T l + B^T w)       = A scale (J v* - u*)
       A^2 scale (w + B M^-1 (J^T l + B^T w))                = A scale B v*              (RMSF11) */
typedef struct fsi__full {
    fsi_couple *couple;
    fsi_ic *ic;
    size_t cells, sides, rows;
    fsi_real *diagonal; /* [sides + rows] */
} fsi__full;

/* A^2 scale */
FSI__INLINE fsi_real fsi__full_scale(const fsi_couple *couple) {
    return fsi__area(&couple->iface) * fsi__area(&couple->iface) * fsi__scale_of(couple);
}

/* Rows of B of one solid. */
FSI__INLINE int fsi__full_rows(const fsi_coupled *door) {
    return door->node && door->implicit ? door->implicit->rows : 0;
}

/* Row i of B times x, and x += w times that row. */
FSI__INLINE fsi_real fsi__implicit_dot(const fsi_csr *matrix, int i, const fsi_real *x) {
    fsi_real sum = 0;
    for (int e = matrix->row[i]; e < matrix->row[i + 1]; e++)
        sum += matrix->val[e] * x[matrix->col[e]];
    return sum;
}

FSI__INLINE void fsi__implicit_add(const fsi_csr *matrix, int i, fsi_real w, fsi_real *x) {
    for (int e = matrix->row[i]; e < matrix->row[i + 1]; e++)
        x[matrix->col[e]] += w * matrix->val[e];
}

/* load = M^-1 (J^T l + B^T w) per solid (dense solids in the coordinates of F: U^T l). */
static void fsi__full_gather(const fsi__full *full, const fsi_real *l, const fsi_real *w) {
    fsi_couple *couple = full->couple;
    fsi_fill((size_t)couple->columns, 0, couple->load);
    for (int s = 0; s < couple->iface.solids; s++) {
        const fsi__solid_block *block = couple->block + s;
        const fsi_coupled *door = block->door;
        fsi_real *a = couple->load + block->offset;
        fsi__ut_add(couple, block, l, a);
        if (!door->node)
            continue;
        for (int i = 0; i < fsi__full_rows(door); i++)
            fsi__implicit_add(door->implicit, i, *w++, a);
        for (int i = 0; i < door->dof; i++)
            a[i] *= door->inverse_mass[i / 3];
    }
}

/* y = A x: the three rows above. */
static void fsi__full_apply(const fsi_real *x, fsi_real *y, void *user) {
    const fsi__full *full = (const fsi__full *)user;
    fsi_couple *couple = full->couple;
    const fsi_real *l = x + full->cells;
    const fsi_real *w = l + full->sides;
    fsi_real *yl = y + full->cells;
    fsi_real *yw = yl + full->sides;
    fsi_real scale = fsi__full_scale(couple);
    fsi_mg_apply(couple->grid->mg, x, y);
    fsi__full_gather(full, l, w);
    for (int s = 0; s < couple->iface.solids; s++) {
        const fsi__solid_block *block = couple->block + s;
        const fsi_coupled *door = block->door;
        const fsi_real *a = couple->load + block->offset;
        for (int i = block->first; i < block->last; i++) {
            const fsi_side *side = fsi__side_of(couple, i);
            int n = couple->by_solid[i];
            fsi_real mu = fsi__side_mu(couple, side);
            fsi_real sign = (fsi_real)side->sign;
            y[side->cell] += mu * (x[side->cell] + sign * l[n]);
            yl[n] = mu * (sign * x[side->cell] + l[n]) + scale * fsi__row_dot(couple, block, i, a);
        }
        for (int i = 0; i < fsi__full_rows(door); i++)
            *yw++ = scale * (*w++ + fsi__implicit_dot(door->implicit, i, a));
    }
}

/* V-cycle or incomplete Cholesky for p, the diagonal for l and w. */
static void fsi__full_precondition(const fsi_real *r, fsi_real *z, void *user) {
    const fsi__full *full = (const fsi__full *)user;
    fsi_couple *couple = full->couple;
    if (full->ic)
        fsi_ic_solve(full->ic, r, z);
    else {
        fsi_mg_cycle(&couple->second, r, z);
        fsi__regions_add(couple, &couple->second, r, 1, z);
    }
    for (size_t i = 0; i < full->sides + full->rows; i++)
        z[full->cells + i] = r[full->cells + i] / full->diagonal[i];
}

/* Diagonal of the rows of l and w. */
static void fsi__full_diagonal(const fsi__full *full) {
    const fsi_couple *couple = full->couple;
    const fsi_interface *iface = &couple->iface;
    fsi_real scale = fsi__full_scale(couple);
    fsi_real *w = full->diagonal + full->sides;
    for (int s = 0; s < iface->solids; s++) {
        const fsi__solid_block *block = couple->block + s;
        const fsi_coupled *door = block->door;
        int columns = block->columns;
        for (int i = block->first; i < block->last; i++) {
            const fsi_side *side = fsi__side_of(couple, i);
            const fsi_real *q = couple->q + couple->row[i];
            fsi_real sum = 0;
            for (int k = 0; !door->node && k < columns; k++)
                sum += q[k] * q[k];
            for (int e = side->row; door->node && e < side->row_end; e++)
                sum += iface->val[e] * iface->val[e] * door->inverse_mass[iface->col[e] / 3];
            full->diagonal[couple->by_solid[i]] = fsi__side_mu(couple, side) + scale * sum;
        }
        for (int i = 0; i < fsi__full_rows(door); i++) {
            const fsi_csr *B = door->implicit;
            fsi_real sum = 1;
            for (int e = B->row[i]; e < B->row[i + 1]; e++)
                sum += B->val[e] * B->val[e] * door->inverse_mass[B->col[e] / 3];
            *w++ = scale * sum;
        }
    }
}

/* The V-cycle on A11 with closed shells: E = 1^T A11 1 of the regions that they cut off, the sum of
   mu over their sides. */
static fsi_result fsi__full_regions(fsi_couple *couple) {
    int n = fsi__imin(couple->second.regions, FSI__REGIONS);
    fsi_result result = fsi__region_lists(couple, couple->second.regions, n);
    if (result < 0)
        return result;

    couple->regions = couple->rows = n;
    fsi_fill((size_t)n * (size_t)n, 0, couple->E);
    for (int i = 0; i < n; i++)
        couple->region_of[i] = i;
    for (int i = 0; i < couple->iface.sides; i++) {
        const fsi_side *side = couple->iface.side + i;
        int region = fsi_mg_region(&couple->second, (size_t)side->cell);
        if (region >= 0 && region < n)
            couple->E[region * n + region] += fsi__side_mu(couple, side);
    }
    (void)fsi__psd_factor((size_t)n, couple->E, 1e4 * (double)FSI_REAL_EPS);

    return FSI_OK;
}

/* Rows of A11, L_N with mu on the diagonal; those of cells that are not fluid have 1 there. Columns
   ascend: neighbours below from the last axis to the first, the cell itself, neighbours above. */
static void fsi__full_matrix(const fsi_couple *couple, fsi_csr *matrix) {
    const fsi_interface *iface = &couple->iface;
    const fsi_grid *grid = couple->grid;
    fsi_real *mu = couple->cell_work;
    fsi_fill(iface->cells, 0, mu);
    for (int i = 0; i < iface->sides; i++)
        mu[iface->side[i].cell] += fsi__side_mu(couple, iface->side + i);

    int entries = 0;
    for (size_t cell = 0; cell < iface->cells; cell++) {
        int at[3];
        int own = 0;
        fsi_real diagonal = 0;
        fsi__cell_ijk(iface, cell, at);
        for (int n = 0; n < 2 * iface->dim; n++) {
            int above = n >= iface->dim;
            if (n == iface->dim)
                own = entries++;
            size_t face;
            int axis = above ? n - iface->dim : iface->dim - 1 - n;
            ptrdiff_t other = fsi__beside(iface, at, 2 * axis + above, &face);
            fsi_real weight = grid->weight[axis][face];
            int kind = other < 0 ? (int)FSI_CELL_DIRICHLET : grid->cell[other];
            if (grid->cell[cell] != FSI_CELL_FLUID || kind == FSI_CELL_NEUMANN || !(weight > 0))
                continue;
            diagonal += weight;
            if (kind != FSI_CELL_FLUID)
                continue;
            matrix->col[entries] = (int32_t)other;
            matrix->val[entries++] = -weight;
        }
        if (!(diagonal > 0))
            diagonal = grid->cell[cell] == FSI_CELL_FLUID ? FSI_R(1e-3) : 1;
        matrix->col[own] = (int32_t)cell;
        matrix->val[own] = diagonal + mu[cell];
        matrix->row[cell + 1] = entries;
    }
}

/* Incomplete Cholesky of A11. */
static fsi_result fsi__full_ic(fsi_couple *couple, fsi_ic *ic) {
    size_t cells = couple->iface.cells;
    fsi_csr matrix = FSI__ZERO;
    const fsi_allocator *allocator = &couple->desc.allocator;
    fsi_arena arena = FSI__ZERO;
    for (int turn = 0; fsi__arena_turn(&arena, turn, &couple->paper_lists, allocator); turn++) {
        FSI__TAKE(matrix.row, &arena, cells + 1);
        FSI__TAKE(matrix.col, &arena, 7 * cells);
        FSI__TAKE(matrix.val, &arena, 7 * cells);
    }
    if (arena.failed)
        return FSI_ERR_MEMORY;

    matrix.rows = matrix.cols = (int)cells;
    matrix.row[0] = 0;
    fsi__full_matrix(couple, &matrix);
    fsi_ic_desc desc = FSI__ZERO;
    desc.allocator = *allocator;

    return fsi_ic_init(ic, &matrix, &desc);
}

/* v* += M^-1 push */
static void fsi__full_star(fsi_couple *couple) {
    for (int s = 0; s < couple->iface.solids; s++) {
        const fsi__solid_block *block = couple->block + s;
        const fsi_coupled *door = block->door;
        for (int i = 0; door->node && door->push && i < door->dof; i++)
            door->v[i] += door->inverse_mass[i / 3] * door->push[i];
    }
}

/* Right-hand side of the three rows. */
static void fsi__full_rhs(const fsi__full *full, fsi_real *b) {
    const fsi_couple *couple = full->couple;
    const fsi_interface *iface = &couple->iface;
    fsi_real area = fsi__area(iface);
    fsi_real scale = fsi__scale_of(couple);
    fsi__fluid_rhs(couple, b);
    for (size_t i = 0; i < full->sides; i++) {
        const fsi_side *side = iface->side + i;
        fsi_real v = fsi__side_velocity(iface, side);

        /* the side's own u* in place of J v* */
        b[side->cell] += scale * fsi__side_z(iface, side) * (couple->side_velocity[i] - v);
        b[full->cells + i] = area * scale * (v - couple->side_velocity[i]);
    }
    fsi_real *w = b + full->cells + full->sides;
    for (int s = 0; s < iface->solids; s++) {
        const fsi__solid_block *block = couple->block + s;
        const fsi_coupled *door = block->door;
        for (int i = 0; i < fsi__full_rows(door); i++)
            *w++ = area * scale * fsi__implicit_dot(door->implicit, i, door->v);
    }
}

/* Velocities and impulses: u = u* + (lambda + A o p) / b, v = v* - M^-1 (J^T lambda + B^T w A). */
static void fsi__full_finish(const fsi__full *full, const fsi_real *x) {
    fsi_couple *couple = full->couple;
    const fsi_interface *iface = &couple->iface;
    fsi_real area = fsi__area(iface);
    fsi__full_gather(full, x + full->cells, x + full->cells + full->sides);
    fsi_scale((size_t)couple->columns, -area, couple->load);
    for (int s = 0; s < iface->solids; s++) {
        const fsi__solid_block *block = couple->block + s;
        if (block->columns)
            fsi__solid_add(couple, block, couple->load + block->offset);
    }
    for (int i = 0; i < iface->sides; i++) {
        const fsi_side *side = iface->side + i;
        fsi_real push = area * (fsi_real)side->sign * x[side->cell];
        couple->lambda[i] = area * x[full->cells + (size_t)i];
        couple->side_velocity[i] += (couple->lambda[i] + push) / side->mass;
    }
}

/* The whole solve, up to velocities and impulses. */
static fsi_result fsi__full_solve(fsi_couple *couple, fsi_report *report) {
    const fsi_interface *iface = &couple->iface;
    fsi__full_star(couple);
    fsi__mono_rhs(couple);
    fsi__full full = FSI__ZERO;
    full.couple = couple;
    full.cells = iface->cells;
    full.sides = (size_t)iface->sides;
    for (int s = 0; s < iface->solids; s++) {
        const fsi__solid_block *block = couple->block + s;
        full.rows += (size_t)fsi__full_rows(block->door);
    }
    fsi_krylov_desc desc;
    fsi__variant_options(couple, &desc);
    desc.n = full.cells + full.sides + full.rows;
    desc.A.apply_fn = fsi__full_apply;
    desc.A.user = &full;
    fsi__variant lists;
    fsi_result result =
        fsi__variant_lists(couple, desc.n, full.sides + full.rows, fsi_cg_work_size(&desc), &lists);
    if (result < 0)
        return result;

    full.diagonal = lists.more;
    fsi__full_rhs(&full, lists.b);
    fsi__full_diagonal(&full);

    fsi_ic ic = FSI__ZERO;
    fsi_couple_precondition precondition = couple->desc.precondition;
    if (precondition == FSI_PRECONDITION_MULTIGRID) {
        result = fsi__schur_cycle_build(couple);
        if (result >= 0)
            result = fsi__full_regions(couple);
    }
    if (precondition == FSI_PRECONDITION_IC) {
        result = fsi__full_ic(couple, &ic);
        full.ic = &ic;
    }
    if (precondition != FSI_PRECONDITION_NONE) {
        desc.precondition.apply_fn = fsi__full_precondition;
        desc.precondition.user = &full;
    }
    if (result == FSI_OK)
        result = fsi_cg_solve(&desc, lists.b, lists.x, lists.work, lists.work_size, report);
    fsi_ic_free(&ic);
    couple->regions = couple->rows = 0;
    if (result < 0)
        return result;

    fsi_copy(full.cells, lists.x, couple->grid->pressure);
    fsi__full_finish(&full, lists.x);

    return result;
}

/* ---- INDEFINITE: the system in (p^, a), rows times scale, by SYMMQMR:

       L_N p - scale Z a = rhs,      -scale Z^T p - scale K a = -scale k */
static void fsi__indefinite_apply(const fsi_real *x, fsi_real *y, void *user) {
    fsi_couple *couple = (fsi_couple *)user;
    const fsi_real *a = x + couple->iface.cells;
    fsi_real *ya = y + couple->iface.cells;
    fsi_real scale = fsi__scale_of(couple);
    fsi_mg_apply(couple->grid->mg, x, y);
    fsi__ghosts_add(couple, x, y);
    fsi__z_add(couple, a, -scale, y);
    for (int s = 0; s < couple->iface.solids; s++) {
        const fsi__solid_block *block = couple->block + s;
        int first = block->offset;
        if (!block->columns)
            continue;
        fsi__z_transposed(couple, block, x, ya + first);
        fsi__k_apply(couple, block, a + first, couple->load + first);
        for (int k = first; k < first + block->columns; k++)
            ya[k] = -scale * (ya[k] + couple->load[k]);
    }
}

/* V-cycle for p; K^-1 (nodal solids without a factor: its diagonal) for a. */
static void fsi__indefinite_precondition(const fsi_real *r, fsi_real *z, void *user) {
    fsi_couple *couple = (fsi_couple *)user;
    fsi_real scale = fsi__scale_of(couple);
    fsi_mg_cycle(couple->grid->mg, r, z);
    fsi__regions_add(couple, couple->grid->mg, r, scale, z);
    for (int s = 0; s < couple->iface.solids; s++) {
        const fsi__solid_block *block = couple->block + s;
        const fsi_real *K = block->K;
        const fsi_real *ra = r + couple->iface.cells + block->offset;
        fsi_real *za = z + couple->iface.cells + block->offset;
        int columns = block->columns;
        int nodal = block->door->node && !block->factor;
        if (!nodal)
            fsi__k_solve(couple, block, ra, za);
        for (int k = 0; nodal && k < columns; k++)
            za[k] = K[k] > 0 ? ra[k] / K[k] : 0;
        for (int k = 0; k < columns; k++)
            za[k] /= -scale;
    }
}

/* The whole solve, up to velocities and impulses. */
static fsi_result fsi__indefinite_solve(fsi_couple *couple, fsi_report *report) {
    size_t cells = couple->iface.cells;
    fsi_krylov_desc desc;
    fsi__variant_options(couple, &desc);
    desc.n = cells + (size_t)couple->columns;
    desc.A.apply_fn = fsi__indefinite_apply;
    desc.A.user = couple;
    desc.precondition.apply_fn = fsi__indefinite_precondition;
    desc.precondition.user = couple;
    fsi__mono_rhs(couple);
    fsi__variant lists;
    fsi_result result = fsi__variant_lists(couple, desc.n, 0, fsi_symmqmr_work_size(&desc), &lists);
    if (result < 0)
        return result;
    if ((result = fsi__regions_build(couple)) < 0)
        return result;

    fsi__fluid_rhs(couple, lists.b);
    for (int k = 0; k < couple->columns; k++)
        lists.b[cells + (size_t)k] = -fsi__scale_of(couple) * couple->k[k];
    result = fsi_symmqmr_solve(&desc, lists.b, lists.x, lists.work, lists.work_size, report);
    couple->regions = couple->rows = 0; /* their constants are in x */
    if (result < 0)
        return result;

    fsi_copy(cells, lists.x, couple->grid->pressure);
    fsi__answer(couple, lists.x, NULL);
    fsi__mono_finish(couple, couple->grid->pressure);
    return result;
}

/* The hook of chapter coupled solvers: what the solver of the desc changes. */
static fsi_result fsi__paper_solver(fsi_couple *couple) {
    memset(&couple->paper, 0, sizeof couple->paper);
    switch (couple->desc.solver) {
    case FSI_COUPLE_SCHUR:
        couple->paper.build_fn = fsi__schur_cycle_build;
        couple->paper.cycle_fn = fsi__schur_apply;
        return FSI_OK;
    case FSI_COUPLE_FULL:
        couple->paper.solve_fn = fsi__full_solve;
        return couple->desc.boundary == FSI_BOUNDARY_CUT ? FSI_ERR_ARGUMENT : FSI_OK;
    case FSI_COUPLE_INDEFINITE:
        couple->paper.solve_fn = fsi__indefinite_solve;
        return FSI_OK;
    default:
        return FSI_OK;
    }
}
#endif

#ifndef FSI_COUPLE_NO_GRID
/* ---- Slip's printed system, FSI_SLIP_PAPER (eq. 10, 12, 16, top right-hand side with its sign
   corrected). With mu = lambda + S p, S = sign N_axis of a side, its modified divergence becomes x
   = (p, mu), v = v* - D^T p - C^T mu, row s of C = N^T W: own v_occ along the axis, mean of the
   cell's two samples across it; C v = Q V, Q = N^T J; outflow of the cell through a side S Q V +
   v_ghost. Two-way K V = M V* + m Q^T (mu - S p), m = rho h^dim; eliminated the block m [-S, 1]^T Q
   K^-1 Q^T [-S, 1] is added (CG), kept it is (p, mu, V) by SYMMQMR with incomplete Cholesky of the
   (p, mu) block and -K below. */
typedef struct fsi__paper {
    fsi_slip *slip;
    fsi_csr C; /* Q stands in the rows of slip->couple */
    fsi_csr A; /* SYMMQMR: assembled (p, mu) block with ghosts, compact cells */
    fsi_ic ic;
    int32_t *compact;            /* [cells + 1] compact numbers of fluid cells, -1 */
    fsi_real *sample;            /* [samples] regular faces of all axes, then v_occ of the sides */
    fsi_real *change;            /* [samples] C^T mu; work */
    fsi_real *diagonal, *target; /* [sides] of C C^T; N^T V_s less what prescribed faces give */
    fsi_real *push;              /* [sides] mu - S p */
    size_t first[3], occluded;   /* where the faces of an axis begin, and v_occ */
    size_t samples;
    fsi_real *b, *x; /* [cells + sides] D v* and C v* - target; (p, mu) */
} fsi__paper;

/* Row W of a side: the sample in a direction of its cell and its weight (own v_occ along the axis,
 * half of each sample across it), or -1. */
static ptrdiff_t fsi__paper_sample(const fsi__paper *paper, int side, int dir, fsi_real *weight) {
    const fsi_interface *iface = &paper->slip->iface;
    size_t cell = (size_t)iface->side[side].cell;
    size_t face;
    int axis = dir / 2;
    int along = axis == iface->side[side].axis;
    int other = fsi__slip_side(iface, cell, dir);
    if (along && other != side)
        return -1;

    *weight = along ? 1 : FSI_R(0.5);
    if (other >= 0)
        return (ptrdiff_t)paper->occluded + other;
    (void)fsi__slip_next(iface, cell, dir, &face);
    return (ptrdiff_t)(paper->first[axis] + face);
}

/* C = N^T W. */
static fsi_result fsi__paper_rows(fsi__paper *paper) {
    fsi_slip *slip = paper->slip;
    const fsi_interface *iface = &slip->iface;
    fsi__slip_triplets(slip);

    for (int k = 0; k < iface->sides; k++) {
        fsi_vec3 normal = iface->side[k].normal;
        paper->diagonal[k] = 0;
        paper->target[k] = fsi_vec_dot(normal, slip->body[k]);
        for (int dir = 0; dir < 2 * iface->dim; dir++) {
            int axis = dir / 2;
            fsi_real weight;
            ptrdiff_t at = fsi__paper_sample(paper, k, dir, &weight);
            ptrdiff_t face = at - (ptrdiff_t)paper->first[axis];
            if (at < 0)
                continue;
            weight *= fsi__get(normal, axis);
            int regular = at < (ptrdiff_t)paper->occluded;
            if (regular && !(slip->grid->weight[axis][face] > 0)) {
                paper->target[k] -= weight * slip->grid->u[axis][face];
                continue;
            }
            fsi__slip_put(slip, k, (int32_t)at, weight);
            paper->diagonal[k] += weight * weight;
        }
    }

    return fsi__slip_matrix(slip, iface->sides, (int)paper->samples, &slip->desc.allocator,
                            &paper->C);
}

/* samples += D^T cells on regular faces (up = 0), or cells += D samples (up = 1). */
static void fsi__paper_faces(const fsi__paper *paper, const fsi_real *x, fsi_real *y, int up) {
    const fsi_slip *slip = paper->slip;
    for (size_t c = 0; c < slip->grid->cells; c++)
        for (int dir = 0; slip->grid->cell[c] == FSI_CELL_FLUID && dir < 2 * slip->grid->dim;
             dir++) {
            fsi_real sign = (fsi_real)(dir & 1 ? 1 : -1);
            size_t face;
            (void)fsi__slip_next(&slip->iface, c, dir, &face);
            if (!(slip->grid->weight[dir / 2][face] > 0))
                continue;
            size_t at = paper->first[dir / 2] + face;
            if (up)
                y[c] += sign * x[at];
            else
                y[at] += sign * x[c];
        }
}

static fsi_real fsi__paper_sign(const fsi_side *side) {
    return (fsi_real)side->sign * fsi__get(side->normal, side->axis);
}

/* w = Q^T (mu - S p) */
static void fsi__paper_push(const fsi__paper *paper, const fsi_real *p, const fsi_real *mu,
                            fsi_real *w) {
    const fsi_couple *couple = &paper->slip->couple;
    for (int k = 0; k < couple->iface.sides; k++) {
        const fsi_side *side = couple->iface.side + k;
        paper->push[k] = mu[k] - fsi__paper_sign(side) * p[side->cell];
    }
    fsi_fill((size_t)couple->columns, 0, w);
    for (int s = 0; s < couple->iface.solids; s++)
        if (couple->block[s].columns)
            fsi__ut_add(couple, couple->block + s, paper->push, w + couple->block[s].offset);
}

/* p, mu += scale [-S, 1]^T Q a */
static void fsi__paper_pull(const fsi__paper *paper, const fsi_real *a, fsi_real scale, fsi_real *p,
                            fsi_real *mu) {
    const fsi_couple *couple = &paper->slip->couple;
    for (int s = 0; s < couple->iface.solids; s++) {
        const fsi__solid_block *block = couple->block + s;
        for (int i = block->first; block->columns && i < block->last; i++) {
            const fsi_side *side = fsi__side_of(couple, i);
            fsi_real pull = scale * fsi__row_dot(couple, block, i, a + block->offset);
            mu[couple->by_solid[i]] += pull;
            p[side->cell] -= fsi__paper_sign(side) * pull;
        }
    }
}

/* out = K^-1 w, or K w, of all solids */
static void fsi__paper_solids(fsi_couple *couple, int inverse, const fsi_real *w, fsi_real *out) {
    for (int s = 0; s < couple->iface.solids; s++) {
        const fsi__solid_block *block = couple->block + s;
        if (!block->columns)
            continue;
        if (inverse)
            fsi__k_solve(couple, block, w + block->offset, out + block->offset);
        else
            fsi__k_apply(couple, block, w + block->offset, out + block->offset);
    }
}

static void fsi__paper_apply(const fsi_real *x, fsi_real *y, void *user) {
    fsi__paper *paper = (fsi__paper *)user;
    fsi_couple *couple = &paper->slip->couple;
    size_t cells = paper->slip->grid->cells;
    fsi_mg_apply(paper->slip->grid->mg, x, y);
    fsi__ghosts_add(couple, x, y);
    fsi_csr_tmul(&paper->C, x + cells, paper->sample); /* C^T mu */
    fsi__paper_faces(paper, paper->sample, y, 1);
    fsi__paper_faces(paper, x, paper->sample, 0);
    fsi_csr_mul(&paper->C, paper->sample, y + cells);
    if (!couple->columns)
        return;

    fsi__paper_push(paper, x, x + cells, couple->load);
    fsi__paper_solids(couple, 1, couple->load, couple->reaction);
    fsi__paper_pull(paper, couple->reaction, fsi__slip_cell_mass(paper->slip), y, y + cells);
}

static void fsi__paper_precondition(const fsi_real *r, fsi_real *z, void *user) {
    fsi__paper *paper = (fsi__paper *)user;
    fsi_couple *couple = &paper->slip->couple;
    size_t cells = paper->slip->grid->cells;
    fsi_mg_cycle(couple->grid->mg, r, z);
    fsi__regions_add(couple, couple->grid->mg, r, 1 / fsi__scale_of(couple), z);
    for (size_t k = 0; k < (size_t)paper->slip->iface.sides; k++)
        z[cells + k] = r[cells + k] / fsi__max(paper->diagonal[k], FSI_R(1e-3));
}

static void fsi__paper_project(fsi_real *x, void *user) {
    fsi_mg_project(((fsi__paper *)user)->slip->grid->mg, x);
}

/* The (p, mu) block assembled: cells and ghosts as in the matrix above, D C^T and C C^T through the
 * samples that rows of C share. */
static void fsi__paper_fill(const fsi__paper *paper, const fsi_csr *by_sample) {
    fsi_slip *slip = paper->slip;
    const fsi_interface *iface = &slip->iface;
    const int32_t *compact = paper->compact;
    const int32_t ghosts = compact[slip->grid->cells];
    const int32_t sides = ghosts + slip->ghosts;

    /* Ghosts. */
    for (int k = 0; k < slip->links; k++) {
        const fsi_slip_link *link = slip->link + k;
        fsi__slip_put_pair(slip, ghosts + link->a, link->b < 0 ? -1 : ghosts + link->b,
                           1 / FSI__SLIP_GHOST_MASS);
    }
    for (int k = 0; k < iface->sides; k++)
        fsi__slip_put_pair(slip, ghosts + slip->ghost[k], compact[iface->side[k].cell],
                           slip->conduct[k]);

    /* Cells, and D C^T. */
    for (size_t c = 0; c < slip->grid->cells; c++)
        for (int dir = 0; compact[c] >= 0 && dir < 2 * iface->dim; dir++) {
            size_t face;
            ptrdiff_t next = fsi__slip_next(iface, c, dir, &face);
            fsi_real weight = slip->grid->weight[dir / 2][face];
            fsi__slip_put(slip, compact[c], compact[c], weight);
            if (next >= 0 && compact[next] >= 0)
                fsi__slip_put(slip, compact[c], compact[next], -weight);
            if (!(weight > 0))
                continue;
            size_t at = paper->first[dir / 2] + face;
            for (int k = by_sample->row[at]; k < by_sample->row[at + 1]; k++) {
                fsi_real value = (fsi_real)(dir & 1 ? 1 : -1) * by_sample->val[k];
                fsi__slip_put(slip, compact[c], sides + by_sample->col[k], value);
                fsi__slip_put(slip, sides + by_sample->col[k], compact[c], value);
            }
        }

    /* C C^T. */
    for (int i = 0; i < by_sample->rows; i++)
        for (int k = by_sample->row[i]; k < by_sample->row[i + 1]; k++)
            for (int l = by_sample->row[i]; l < by_sample->row[i + 1]; l++)
                fsi__slip_put(slip, sides + by_sample->col[k], sides + by_sample->col[l],
                              by_sample->val[k] * by_sample->val[l]);
}

static fsi_result fsi__paper_assemble(fsi__paper *paper) {
    fsi_slip *slip = paper->slip;
    fsi_ic_desc desc = FSI__ZERO;
    desc.allocator = slip->desc.allocator;
    int fluid = 0;
    for (size_t c = 0; c < slip->grid->cells; c++)
        paper->compact[c] = slip->grid->cell[c] == FSI_CELL_FLUID ? fluid++ : -1;
    paper->compact[slip->grid->cells] = fluid;
    int n = fluid + slip->ghosts + slip->iface.sides;
    fsi_csr by_sample;
    fsi_result result = fsi_csr_transpose(&paper->C, &by_sample, &desc.allocator);
    if (result != FSI_OK)
        return result;

    fsi__slip_triplets(slip);
    fsi__paper_fill(paper, &by_sample);
    fsi_csr_free(&by_sample, &desc.allocator);
    result = fsi__slip_matrix(slip, n, n, &desc.allocator, &paper->A);

    return result == FSI_OK ? fsi_ic_init(&paper->ic, &paper->A, &desc) : result;
}

/* compact (cells, ghosts, sides) -> p of all cells, mu of the sides. */
static void fsi__paper_spread(const fsi__paper *paper, const fsi_real *x, fsi_real *p,
                              fsi_real *mu) {
    size_t cells = paper->slip->grid->cells;
    size_t sides = (size_t)paper->slip->iface.sides;
    for (size_t c = 0; c < cells; c++)
        p[c] = paper->compact[c] >= 0 ? x[paper->compact[c]] : 0;
    fsi_copy(sides, x + (size_t)paper->A.rows - sides, mu);
}

/* The solids' unknowns are their answer over sqrt(m): rounding counts as much there as in p. */
static void fsi__paper_apply_kept(const fsi_real *x, fsi_real *y, void *user) {
    fsi__paper *paper = (fsi__paper *)user;
    fsi_slip *slip = paper->slip;
    fsi_couple *couple = &slip->couple;
    size_t n = (size_t)paper->A.rows;
    size_t sides = (size_t)slip->iface.sides;
    fsi_real *p = couple->cell_work;
    fsi_real *mu = paper->change;
    fsi_real scale = fsi__sqrt(fsi__slip_cell_mass(slip));
    fsi_csr_mul(&paper->A, x, y);
    fsi__paper_spread(paper, x, p, mu);
    fsi__paper_push(paper, p, mu, couple->load);
    fsi__paper_solids(couple, 0, x + n, y + n);
    for (int i = 0; i < couple->columns; i++)
        y[n + (size_t)i] = scale * couple->load[i] - y[n + (size_t)i];
    fsi_fill(slip->grid->cells, 0, p);
    fsi_fill(sides, 0, mu);
    fsi__paper_pull(paper, x + n, scale, p, mu);
    for (size_t i = 0; i < slip->grid->cells; i++)
        if (paper->compact[i] >= 0)
            y[paper->compact[i]] += p[i];
    fsi_axpy(sides, 1, mu, y + n - sides);
}

static void fsi__paper_precondition_kept(const fsi_real *r, fsi_real *z, void *user) {
    fsi__paper *paper = (fsi__paper *)user;
    fsi_couple *couple = &paper->slip->couple;
    size_t n = (size_t)paper->A.rows;
    (void)fsi_ic_solve(&paper->ic, r, z);
    fsi__paper_solids(couple, 1, r + n, z + n);
    fsi_scale((size_t)couple->columns, -1, z + n);
}

/* v* of all samples: regular faces and the starts of v_occ. */
static void fsi__paper_samples(const fsi__paper *paper) {
    const fsi_slip *slip = paper->slip;
    fsi_real *occluded = paper->sample + paper->occluded;
    for (int axis = 0; axis < slip->grid->dim; axis++)
        fsi_copy(slip->grid->faces[axis], slip->grid->u[axis], paper->sample + paper->first[axis]);
    for (int k = 0; k < slip->iface.sides; k++)
        occluded[k] = fsi__get(slip->velocity[k], slip->iface.side[k].axis);
}

/* W v at every side from the samples */
static void fsi__paper_surface(const fsi__paper *paper) {
    const fsi_interface *iface = &paper->slip->iface;
    for (int k = 0; k < iface->sides; k++) {
        fsi_real v[3] = FSI__ZERO;
        fsi_real weight;
        for (int dir = 0; dir < 2 * iface->dim; dir++) {
            ptrdiff_t at = fsi__paper_sample(paper, k, dir, &weight);
            if (at >= 0)
                v[dir / 2] += weight * paper->sample[at];
        }
        paper->slip->velocity[k] = fsi_vec_load(v);
    }
}

/* Solids eliminated: conjugate gradients. answer: of the solids to the pressure. */
static fsi_result fsi__paper_cg(fsi__paper *paper, fsi_krylov_desc *desc, fsi_report *report) {
    fsi_slip *slip = paper->slip;
    fsi_couple *couple = &slip->couple;
    size_t cells = slip->grid->cells;
    int open = 0;
    for (int i = 0; i < slip->islands; i++)
        open |= slip->island_open[i];
    fsi__slip_eliminate_ghosts(slip, slip->ghost_rhs, paper->b);
    desc->n = cells + (size_t)slip->iface.sides;
    desc->A.apply_fn = fsi__paper_apply;
    desc->precondition.apply_fn = fsi__paper_precondition;
    if (!couple->columns && !open)
        desc->project_fn = fsi__paper_project;
    fsi_result result = fsi_cg_solve(desc, paper->b, paper->x, NULL, 0, report);
    if (result < 0)
        return result;

    fsi__paper_push(paper, paper->x, paper->x + cells, couple->load);
    fsi__paper_solids(couple, 1, couple->load, couple->answer);
    fsi_scale((size_t)couple->columns, fsi__slip_cell_mass(slip), couple->answer);

    return result;
}

/* Solids kept: SYMMQMR. */
static fsi_result fsi__paper_qmr(fsi__paper *paper, fsi_krylov_desc *desc, fsi_report *report) {
    fsi_slip *slip = paper->slip;
    fsi_couple *couple = &slip->couple;
    size_t cells = slip->grid->cells;
    size_t sides = (size_t)slip->iface.sides;
    fsi_result result = fsi__paper_assemble(paper);
    if (result < 0)
        return result;

    size_t n = (size_t)paper->A.rows;
    desc->n = n + (size_t)couple->columns;
    desc->A.apply_fn = fsi__paper_apply_kept;
    desc->precondition.apply_fn = fsi__paper_precondition_kept;
    fsi__variant lists;
    result = fsi__variant_lists(couple, desc->n, 0, fsi_symmqmr_work_size(desc), &lists);
    if (result < 0)
        return result;

    fsi_fill(desc->n, 0, lists.b);
    for (size_t i = 0; i < cells; i++)
        if (paper->compact[i] >= 0)
            lists.b[paper->compact[i]] = paper->b[i];
    fsi_copy((size_t)slip->ghosts, slip->ghost_rhs, lists.b + paper->compact[cells]);
    fsi_copy(sides, paper->b + cells, lists.b + n - sides);
    result = fsi_symmqmr_solve(desc, lists.b, lists.x, lists.work, lists.work_size, report);
    if (result < 0)
        return result;

    fsi__paper_spread(paper, lists.x, paper->x, paper->x + cells);
    fsi_copy((size_t)couple->columns, lists.x + n, couple->answer);
    fsi_scale((size_t)couple->columns, fsi__sqrt(fsi__slip_cell_mass(slip)), couple->answer);

    return result;
}

/* The solids' velocity gains F a; the walls move as the paper has it. */
static void fsi__paper_walls(fsi_slip *slip, const fsi_real *a) {
    const fsi_interface *iface = &slip->iface;
    fsi_couple *couple = &slip->couple;
    for (int s = 0; s < iface->solids; s++)
        fsi__solid_add(couple, couple->block + s, a + couple->block[s].offset);
    fsi__slip_bodies(slip);
    for (int k = 0; k < iface->sides; k++) {
        const fsi_side *side = iface->side + k;
        slip->wall[k] =
            fsi__get(side->normal, side->axis) * fsi_vec_dot(side->normal, slip->body[k]);
    }
}

/* The answer, p and mu into solids, fluxes and samples. */
static void fsi__paper_finish(fsi__paper *paper) {
    fsi_slip *slip = paper->slip;
    fsi_grid *grid = slip->grid;
    size_t cells = grid->cells;
    fsi_real scale = -(grid->desc.rho * grid->h);
    const fsi_real *mu = paper->x + cells;
    fsi__paper_walls(slip, slip->couple.answer);
    for (int k = 0; k < slip->iface.sides; k++) {
        const fsi_side *side = slip->iface.side + k;
        fsi_real push = mu[k] - fsi__paper_sign(side) * paper->x[side->cell];
        slip->couple.lambda[k] = -fsi__slip_cell_mass(slip) * push;
    }
    fsi_copy(cells, paper->x, grid->pressure);
    fsi__slip_ghost_pressure(slip, paper->x, slip->ghost_rhs, slip->ghost_pressure);
    fsi_scale(cells, scale, grid->pressure);
    fsi_scale((size_t)slip->ghosts, scale, slip->ghost_pressure);
    fsi_csr_tmul(&paper->C, mu, paper->change);
    (void)fsi__slip_update(slip);
    fsi__paper_samples(paper);
    fsi_axpy(paper->samples, -1, paper->change, paper->sample);
    for (int axis = 0; axis < grid->dim; axis++)
        fsi_copy(grid->faces[axis], paper->sample + paper->first[axis], grid->u[axis]);
    fsi__paper_surface(paper);
}

static void fsi__paper_layout(fsi__paper *paper, fsi_arena *arena) {
    size_t cells = paper->slip->grid->cells;
    size_t sides = (size_t)paper->slip->iface.sides;
    fsi_real **const of_unknowns[] = {&paper->b, &paper->x, NULL};
    fsi_real **const of_samples[] = {&paper->sample, &paper->change, NULL};
    fsi_real **const of_sides[] = {&paper->diagonal, &paper->target, &paper->push, NULL};
    fsi__take_vectors(arena, cells + sides, of_unknowns);
    fsi__take_vectors(arena, paper->samples, of_samples);
    fsi__take_vectors(arena, sides, of_sides);
    FSI__TAKE(paper->compact, arena, cells + 1);
}

/* Rows of the system and its right-hand side. */
static fsi_result fsi__paper_begin(fsi__paper *paper) {
    fsi_slip *slip = paper->slip;
    fsi_couple *couple = &slip->couple;
    const fsi_grid *grid = slip->grid;
    size_t cells = grid->cells;
    size_t sides = (size_t)slip->iface.sides;
    for (int axis = 0; axis < grid->dim; axis++) {
        paper->first[axis] = paper->occluded;
        paper->occluded += grid->faces[axis];
    }
    paper->samples = paper->occluded + sides;
    fsi_arena arena = FSI__ZERO;
    fsi__paper_layout(paper, &arena);
    fsi_result result = fsi__arena_reopen(&arena, &couple->paper_lists, &couple->desc.allocator);
    if (result < 0)
        return result;

    fsi__paper_layout(paper, &arena);
    fsi__slip_estimate(slip);
    fsi__slip_start(slip);
    fsi_fill(sides, 0, couple->side_velocity);
    fsi__mono_rhs(couple);
    fsi__paper_walls(slip, couple->free_answer);
    result = fsi__paper_rows(paper);
    if (result >= 0)
        result = fsi__regions_build(couple);
    if (result < 0)
        return result;

    /* D v* in cells and ghosts, C v* - target at the sides */
    fsi_real scale = -1 / (grid->desc.rho * grid->h);
    fsi__slip_rhs(slip);
    fsi_copy(cells, grid->rhs, paper->b);
    fsi_scale(cells, scale, paper->b);
    fsi_scale((size_t)slip->ghosts, scale, slip->ghost_rhs);
    fsi__paper_samples(paper);
    fsi_csr_mul(&paper->C, paper->sample, paper->b + cells);
    fsi_axpy(sides, -1, paper->target, paper->b + cells);
    fsi_fill(cells + sides, 0, paper->x);

    return FSI_OK;
}

/* The one row of a side is N^T J, without mass. */
static fsi_result fsi__paper_side_row(fsi_slip *slip, int i) {
    const fsi_side *side = slip->iface.side + i;
    return fsi__slip_row_add(slip, i, side->normal, fsi__get(side->normal, side->axis), 0);
}

static fsi_result fsi__paper_solve(fsi_slip *slip, fsi_report *report) {
    const fsi_allocator *allocator = &slip->desc.allocator;
    fsi__paper paper = FSI__ZERO;
    paper.slip = slip;
    fsi_krylov_desc desc;
    fsi__variant_options(&slip->couple, &desc);
    desc.A.user = desc.precondition.user = desc.project_user = &paper;
    desc.max_iterations = slip->desc.max_iterations ? slip->desc.max_iterations : 20000;
    desc.allocator = *allocator;
    int kept = slip->couple.columns && slip->desc.solver == FSI_SLIP_INDEFINITE;
    fsi_result result = fsi__paper_begin(&paper);
    if (result >= 0)
        result =
            kept ? fsi__paper_qmr(&paper, &desc, report) : fsi__paper_cg(&paper, &desc, report);
    if (result >= 0)
        fsi__paper_finish(&paper);
    slip->couple.regions = slip->couple.rows = 0; /* their constants are in x */
    fsi_ic_free(&paper.ic);
    fsi_csr_free(&paper.A, allocator);
    fsi_csr_free(&paper.C, allocator);

    return result;
}

/* FSI_SLIP_PAPER, and FSI_SLIP_INDEFINITE of the repaired form. */
static void fsi__paper_form(fsi_slip *slip) {
    int printed = slip->desc.form == FSI_SLIP_PAPER;
    if (printed || slip->desc.solver == FSI_SLIP_INDEFINITE)
        slip->couple.desc.solver = FSI_COUPLE_INDEFINITE;
    fsi__paper_solver(&slip->couple);
    if (!printed)
        return;
    slip->rows_fn = fsi__paper_side_row;
    slip->solve_fn = fsi__paper_solve;
}
#endif

/* ---- Exchange: eq. (6), (7) of XPM by GMRES, FSI_SCHEME_PAPER_GMRES. */
typedef struct fsi__paper_operator {
    const fsi__model *A, *B;
    fsi_real *between; /* [length between the two] */
} fsi__paper_operator;

/* y = x - A B x */
static void fsi__paper_operator_apply(const fsi_real *x, fsi_real *y, void *user) {
    const fsi__paper_operator *op = (const fsi__paper_operator *)user;
    fsi_fill((size_t)op->B->out, 0, op->between);
    fsi__model_add(op->B, x, op->between);
    fsi_fill((size_t)op->A->out, 0, y);
    fsi__model_add(op->A, op->between, y);
    for (size_t i = 0; i < (size_t)op->A->out; i++)
        y[i] = x[i] - y[i];
}

/* d solves (I - A B) d = r in at most rank + 1 iterations, as fsi__reduced_solve does exactly. */
static int fsi__paper_gmres(fsi_partitioned *scheme, const fsi__model *A, const fsi__model *B,
                            const fsi_real *r, fsi_real *d) {
    size_t n = (size_t)A->out;
    fsi__paper_operator op = {A, B, scheme->change};
    fsi_krylov_desc desc = FSI__ZERO;
    desc.n = n;
    desc.A.apply_fn = fsi__paper_operator_apply;
    desc.A.user = &op;
    desc.restart = fsi__imin(A->out, B->used + 2);
    desc.tolerance = sizeof(fsi_real) == 4 ? 1e-6 : 1e-12;
    desc.allocator = scheme->desc.allocator;
    fsi_copy(n, r, d);
    fsi_result result = fsi_gmres_solve(&desc, r, d, scheme->papers, scheme->papers_size, NULL);
    return result >= 0 && result != FSI_BREAKDOWN && fsi_all_finite(n, d);
}

/* The variants of the exchange: FSI_SCHEME_PAPER_RELAXED ends on omega |R|, FSI_SCHEME_PAPER_GMRES
   solves for predictions as above. */
static void fsi__paper_exchange(fsi_partitioned *scheme, int room) {
    if (scheme->desc.scheme == FSI_SCHEME_PAPER_RELAXED)
        scheme->enough = scheme->desc.tolerance / scheme->desc.omega;
    if (scheme->desc.scheme != FSI_SCHEME_PAPER_GMRES)
        return;

    fsi_krylov_desc desc = FSI__ZERO;
    desc.n = (size_t)fsi__imax(scheme->desc.n, scheme->desc.m);
    desc.A.apply_fn = fsi__paper_operator_apply;
    desc.restart = fsi__imin((int)desc.n, room + 2);
    scheme->papers_size = fsi_gmres_work_size(&desc);
    scheme->predict_fn = fsi__paper_gmres;
}

#ifndef FSI_COUPLE_NO_GRID
/* ---- Exchange: forces at the vertices (XPM section 4.5), FSI_LOAD_PAPER_VERTICES.
   f_i = A_i n_i sum_f K_if dp_f (n_f . n_i) / sum_f K_if |n_f . n_i| over the cut faces within 1.5
   cells. The paper divides by sum K_if alone, which loses the mean of |n_f . n_i| on slanted
   surfaces; so divided a constant jump gives its exact force. */
static void fsi__paper_vertices_layout(fsi_fluid_box *box, fsi_arena *arena) {
    fsi__paper_vertices *paper = &box->vertices;
    size_t vertices = 0;
    size_t dof = 1;
    for (int i = 0; i < box->face->solids; i++) {
        const fsi_coupled *door = box->face->solid[i];
        vertices += (size_t)door->surface.vertex_count;
        if (!door->node && (size_t)door->dof > dof)
            dof = (size_t)door->dof;
    }
    paper->vertices = (int)vertices;
    FSI__TAKE(paper->push, arena, vertices);
    FSI__TAKE(paper->normal, arena, 3 * vertices);
    FSI__TAKE(paper->stamp, arena, vertices);
    FSI__TAKE(paper->corner, arena, vertices);
    FSI__TAKE(paper->row, arena, dof);
}

static void fsi__paper_vertices_free(fsi_fluid_box *box) {
    FSI__LIST_FREE(box->vertices.kernel, &box->allocator);
    FSI__LIST_FREE(box->vertices.block, &box->allocator);
    box->vertices.kernels = 0;
}

/* One side looks for the vertices around it. */
typedef struct fsi__kernel_visit {
    fsi_fluid_box *box;
    const fsi_surface *surface;
    fsi_vec3 centre;
    int side, first_vertex, failed;
    fsi_real share; /* a face counts once, with fluid on one side or on both */
} fsi__kernel_visit;

static int fsi__kernel_add(int element, void *user) {
    fsi__kernel_visit *visit = (fsi__kernel_visit *)user;
    fsi_fluid_box *box = visit->box;
    fsi__paper_vertices *paper = &box->vertices;
    const fsi_surface *surface = visit->surface;
    const fsi_side *side = &box->face->side[visit->side];
    fsi_real reach = FSI_R(1.5) * box->face->h;

    for (int c = 0; c < surface->dim; c++) {
        int v = surface->index[surface->dim * element + c];
        int vertex = visit->first_vertex + v;
        fsi_vec3 normal = fsi__vec_at(paper->normal, vertex);
        fsi_vec3 gap = fsi_vec_sub(fsi_surface_place(surface, v), visit->centre);
        fsi_real r = fsi_vec_dot(gap, gap) / (reach * reach);
        fsi_real length = fsi__length(normal);
        fsi_real along = fsi__get(normal, side->axis);
        if (paper->stamp[vertex] == visit->side || !(r < 1) || !(length > 0))
            continue;

        /* a face around the corner of a closed body */
        if (surface->closed && along * (fsi_real)side->sign > 0)
            continue;
        paper->stamp[vertex] = visit->side;
        if (FSI__LIST_ROOM(paper->kernel, paper->kernels + 1, &box->allocator) < 0) {
            visit->failed = 1;
            return 1;
        }
        fsi__kernel_entry *entry = &paper->kernel[paper->kernels++];
        entry->side = visit->side;
        entry->vertex = vertex;
        entry->weight = (1 - r) * (1 - r) * along / length;
        paper->push[vertex] += visit->share * fsi__abs(entry->weight);
    }

    return 0;
}

/* Area normals, shared out to the vertices; an element of each. */
static void fsi__paper_vertices_normals(fsi_fluid_box *box) {
    fsi__paper_vertices *paper = &box->vertices;
    int first = 0;
    fsi_fill(3 * (size_t)paper->vertices, 0, paper->normal);
    for (int i = 0; i < box->face->solids; i++) {
        const fsi_surface *surface = &box->face->solid[i]->surface;
        for (int e = 0; e < surface->element_count; e++) {
            fsi_vec3 share =
                fsi_vec_scale(fsi_surface_normal(surface, e), 1 / (fsi_real)surface->dim);
            for (int c = 0; c < surface->dim; c++) {
                int vertex = first + surface->index[surface->dim * e + c];
                fsi__vec_add_at(paper->normal, vertex, share);
                paper->corner[vertex] = e;
            }
        }
        first += surface->vertex_count;
    }
}

/* 1: two sides lie at the same face. */
static int fsi__same_face(const fsi_side *a, const fsi_side *b) {
    return a->face == b->face && a->axis == b->axis;
}

/* The weights of all sides at all vertices around them. */
static fsi_result fsi__paper_vertices_build(fsi_fluid_box *box) {
    const fsi_interface *iface = box->face;
    fsi__paper_vertices *paper = &box->vertices;
    fsi_result result = fsi__fluid_box_place(box, fsi__paper_vertices_layout, &paper->block);
    if (result < 0)
        return result;

    paper->kernels = 0;
    fsi_fill((size_t)paper->vertices, 0, paper->push);
    fsi__paper_vertices_normals(box);
    for (int i = 0; i < paper->vertices; i++)
        paper->stamp[i] = -1;

    fsi_real reach = FSI_R(1.5) * iface->h;
    fsi_vec3 corner = fsi_vec(reach, reach, reach);
    fsi__kernel_visit visit = FSI__ZERO;
    visit.box = box;

    for (int s = 0; s < iface->sides && !visit.failed; s++) {
        const fsi_side *side = &iface->side[s];
        int twin = (s && fsi__same_face(side - 1, side))
                   || (s + 1 < iface->sides && fsi__same_face(side + 1, side));
        visit.first_vertex = 0;
        for (int i = 0; i < side->solid; i++)
            visit.first_vertex += iface->solid[i]->surface.vertex_count;
        visit.surface = &iface->solid[side->solid]->surface;
        visit.side = s;
        visit.centre = fsi_interface_centre(iface, side);
        visit.share = twin && !visit.surface->closed ? FSI_R(0.5) : 1;
        (void)fsi_bvh_overlap(iface->bvh + side->solid, fsi_vec_sub(visit.centre, corner),
                              fsi_vec_add(visit.centre, corner), fsi__kernel_add, &visit);
    }
    if (visit.failed)
        return FSI_ERR_MEMORY;

    for (int k = 0; k < paper->kernels; k++)
        if (paper->push[paper->kernel[k].vertex] > 0)
            paper->kernel[k].weight /= paper->push[paper->kernel[k].vertex];

    return FSI_OK;
}

/* The row of a dense solid at a vertex of its surface, which element has among its corners. */
static void fsi__vertex_row(const fsi_coupled *door, int element, int vertex, int axis,
                            fsi_real *row) {
    const fsi_surface *surface = &door->surface;
    fsi_real weight[3] = FSI__ZERO;
    for (int k = 0; k < surface->dim; k++)
        weight[k] = (fsi_real)(surface->index[surface->dim * element + k] == vertex);
    door->row_fn(door, element, weight, fsi__vec_at(surface->x, vertex), fsi__axis(axis), row);
}

/* out += the impulses at the vertices: of the sides' pressures, which are jump over area, N s /
 * m^2.
 */
static void fsi__paper_vertices_hand(fsi_fluid_box *box, fsi_real *out) {
    const fsi_interface *iface = box->face;
    const fsi__paper_vertices *paper = &box->vertices;
    fsi_fill((size_t)paper->vertices, 0, paper->push);
    for (int k = 0; k < paper->kernels; k++) {
        const fsi__kernel_entry *entry = paper->kernel + k;
        fsi_real area = box->area[entry->side];
        if (area > 0)
            paper->push[entry->vertex] += entry->weight * box->jump[entry->side] / area;
    }

    int vertex = 0;

    for (int i = 0; i < iface->solids; i++) {
        const fsi_coupled *door = iface->solid[i];
        fsi_real *to = out + box->offset[i];
        for (int v = 0; v < door->surface.vertex_count; v++, vertex++) {
            if (!(paper->push[vertex] < 0 || paper->push[vertex] > 0))
                continue;
            for (int axis = 0; axis < iface->dim; axis++) {
                fsi_real push = paper->push[vertex] * paper->normal[3 * vertex + axis];
                if (door->node) {
                    to[3 * door->node[v] + axis] += push;
                    continue;
                }
                fsi__vertex_row(door, paper->corner[vertex], v, axis, paper->row);
                fsi_axpy((size_t)door->dof, push, paper->row, to);
            }
        }
    }
}

/* ---- Exchange: the forms of fsi_load_form. */
/* Pressure forces alone: what slows the fluid at the walls pushes nobody. */
static void fsi__paper_give(fsi_fluid_box *box, fsi_real share, fsi_real *out) {
    for (int s = 0; s < box->face->sides; s++) {
        fsi_real p = box->grid->pressure[box->face->side[s].cell];
        box->jump[s] = share * fsi__fluid_box_push(box, s, p);
    }
    box->hand_fn(box, out);
}

static fsi_result fsi__paper_load(fsi_fluid_box *box) {
    if (box->pressure_form != FSI_LOAD_IMPULSES)
        box->give_fn = fsi__paper_give;
    if (box->pressure_form != FSI_LOAD_PAPER_VERTICES)
        return FSI_OK;
    box->hand_fn = fsi__paper_vertices_hand;
    return fsi__paper_vertices_build(box);
}

/* ---- Exchange: embedded points (XPM section 4.4). */
FSI_API void fsi_embedded_free(fsi_embedded *embedded) {
    if (embedded)
        FSI__LIST_FREE(embedded->block, &embedded->allocator);
}

/* Row i of J: component i % 3 of the velocity of point i / 3; in embedded->row. */
static const fsi_real *fsi__embedded_row(const fsi_embedded *embedded, int i) {
    fsi__vertex_row(embedded->inner, embedded->element[i / 3], i / 3, i % 3, embedded->row);
    return embedded->row;
}

/* v = J v of the solid */
static void fsi__embedded_velocity(const fsi_embedded *embedded, fsi_real *v) {
    const fsi_coupled *inner = embedded->inner;
    for (int i = 0; i < embedded->door.dof; i++)
        v[i] = (fsi_real)fsi_dot((size_t)inner->dof, fsi__embedded_row(embedded, i), inner->v);
}

FSI_API fsi_result fsi_embedded_begin(fsi_embedded *embedded) {
    if (!embedded || !embedded->inner || embedded->inner->node || !embedded->inner->row_fn)
        return FSI_ERR_ARGUMENT;

    const fsi_coupled *inner = embedded->inner;
    const fsi_surface *surface = &inner->surface;
    size_t n = (size_t)surface->vertex_count;
    fsi_real **const of_solid[] = {&embedded->v0, &embedded->load, &embedded->row, NULL};
    const fsi_allocator *allocator = &embedded->allocator;
    fsi_arena arena = FSI__ZERO;
    for (int turn = 0; fsi__arena_turn(&arena, turn, &embedded->block, allocator); turn++) {
        fsi__take_vectors(&arena, (size_t)inner->dof, of_solid);
        FSI__TAKE(embedded->v, &arena, 3 * n);
        FSI__TAKE(embedded->ones, &arena, n);
        FSI__TAKE(embedded->node, &arena, n);
        FSI__TAKE(embedded->element, &arena, n);
    }
    if (arena.failed)
        return FSI_ERR_MEMORY;

    for (int i = 0; i < surface->element_count * surface->dim; i++)
        embedded->element[surface->index[i]] = i / surface->dim;
    for (int i = 0; i < surface->vertex_count; i++) {
        embedded->node[i] = i;
        embedded->ones[i] = 1;
    }

    /* The door of the points. */
    fsi_copy((size_t)inner->dof, inner->v, embedded->v0);
    memset(&embedded->door, 0, sizeof embedded->door);
    embedded->door.surface = *surface;
    embedded->door.dof = 3 * surface->vertex_count;
    embedded->door.node = embedded->node;
    embedded->door.mass = embedded->door.inverse_mass = embedded->ones;
    embedded->door.v = embedded->v;
    fsi__embedded_velocity(embedded, embedded->v);

    return FSI_OK;
}

FSI_API fsi_result fsi_embedded_respond(const fsi_real *impulse, fsi_real *v, fsi_real dt,
                                        void *embedded) {
    fsi_embedded *own = (fsi_embedded *)embedded;
    fsi_coupled *inner = own->inner;
    size_t n = (size_t)inner->dof;
    (void)dt;

    /* force and torque of all points */
    fsi_fill(n, 0, own->load);
    for (int i = 0; i < own->door.dof; i++)
        fsi_axpy(n, impulse[i], fsi__embedded_row(own, i), own->load);
    fsi_copy(n, own->v0, inner->v);
    fsi_result result = fsi__door_respond(NULL, inner, own->load, inner->v);
    if (inner->impulse)
        fsi_copy(n, own->load, inner->impulse);
    fsi__embedded_velocity(own, v);

    return result;
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
