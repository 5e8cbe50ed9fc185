/* fsi_linalg.h - v1.00 - base and linear algebra of fsi, a library for two-way solid-fluid
   coupling in C99 and C++11
   SPDX-License-Identifier: MIT OR Unlicense          (full text at the end of the file)

   Memory, results, vectors and repeatable sums for the other fsi headers, and the solvers they
   need; useful alone.

   QUICK START
       #define FSI_IMPLEMENTATION // in exactly one file, before the include
       #include "fsi_linalg.h"
       #include <stdio.h>

       // A string under a load, held at both ends: -u'' = 1, u(0) = u(1) = 0.
       // Nine points between the ends, 0.1 apart: 2 u[k] - u[k-1] - u[k+1] = 0.1^2.
       enum {
           POINTS = 9
       };

       int main(void) {
           // Row k of the matrix has three entries; what would stand outside is left out.
           int32_t row[3 * POINTS], column[3 * POINTS];
           fsi_real value[3 * POINTS];
           size_t count = 0;
           for (int k = 0; k < POINTS; k++)
               for (int other = k - 1; other <= k + 1; other++) {
                   if (other < 0 || other >= POINTS)
                       continue;
                   row[count] = k;
                   column[count] = other;
                   value[count] = other == k ? 2 : -1;
                   count++;
               }

           // A sparse matrix from triplets (row, column, value).
           fsi_csr matrix;
           if (fsi_csr_from_triplets(&matrix, POINTS, POINTS, count, row, column, value, NULL) < 0)
               return 1;

           // Conjugate gradients find u for the load on the right-hand side.
           fsi_real load[POINTS], u[POINTS] = {0};
           for (int k = 0; k < POINTS; k++)
               load[k] = FSI_R(0.01);
           fsi_krylov_desc desc = {.n = POINTS, .A = fsi_csr_operator(&matrix)};
           fsi_report report;
           fsi_result result = fsi_cg_solve(&desc, load, u, NULL, 0, &report);

           // The exact answer in the middle is 1/8.
           printf("%s after %d iterations, u(1/2) = %g\n", fsi_result_text(result),
                  report.iterations, (double)u[POINTS / 2]);
           fsi_csr_free(&matrix, NULL);
           return 0;
       }
   Compile: cc main.c -lm          (add -fopenmp for threads, -O3 -march=native for speed)

   WHAT IT DOES
   - Base: one real type, caller's allocator, results with texts, report struct, log callback,
     checked sizes, one-block objects, 3-vectors, quaternions and 3x3 matrices, and sums whose bits
     do not depend on the number of threads.
   - Krylov methods through callbacks: conjugate gradients (fsi_cg_solve), SYMMQMR for symmetric
     indefinite systems with an indefinite preconditioner (fsi_symmqmr_solve), restarted GMRES
     (fsi_gmres_solve). Null-space projector, warm start with an energy test, iteration cap, time
     budget, history; the last residual is always recomputed.
   - Sparse: CSR from triplets, incomplete Cholesky IC(0) and MIC(0), Cholesky with approximate
     minimum degree ordering.
   - Dense: Cholesky, LU, QR with column pivoting, rank and least squares.
   - Eigen: all pairs of a dense symmetric matrix or pencil, lowest modes of large sparse K x = w M
     x.
   - Geometric multigrid for the pressure equation on a masked MAC grid; queries on triangle
     surfaces; isosurfaces.
   WHAT IT DOES NOT
   - No general unsymmetric sparse direct solver, no algebraic multigrid, no complex numbers, no
     SVD, no GPU, no files.
   - Dense routines are for small systems (unblocked loops). The sparse Cholesky is column by
     column: good to some ten thousand unknowns in 3D, slow beyond. Column pivoting is not a rank
     certificate: for Kahan's matrix it sees nothing wrong.

   CONFIGURATION (define before the include)
     where: I = in the file with the implementation, A = in every file that includes a header
     FSI_IMPLEMENTATION         I   the code of all five headers goes into this file
     FSI_LINALG_IMPLEMENTATION  I   only this header's code
     FSI_SINGLE                 A   fsi_real is float; a mixture of both precisions does not link
     FSI_STATIC                 A   all static: a private copy, all implementations in that file
     FSI_API                    A   storage class of your own (dllexport ...); default extern
     FSI_NO_OPENMP              I   plain loops even where the compiler has OpenMP switched on
     FSI_VERSION                    read it: major * 100 + minor; headers of different releases
                                    refuse each other

   UNITS AND CONVENTIONS
   SI everywhere: m, kg, s, N, rad; 2D quantities are per metre of depth. Linear algebra is free of
   units except fsi_modes_solve (w = omega^2 in 1/s^2 for K in N/m and M in kg).
   3x3 matrices and dense matrices are row major; only QR is column major, because there a column is
   a vector the caller already has. Eigenvectors are rows. Indices are int32_t from 0, sizes are
   size_t.
   A desc struct may be zeroed: a numerical knob at 0 takes its default, a physical quantity at 0
   is really 0, a size at 0 is refused.

   GLOSSARY
   door      what a solid hands to a coupling scheme: the struct fsi_coupled
   level     one grid of the multigrid hierarchy, half as fine as the one before
   orphan    a cell whose coarse cell has no unknown; a neighbour adopts it
   region    fluid cells that are connected; closed without a free surface
   shell     a surface without inside, wet on both sides
   hit       where a ray or the shortest way from a point meets a surface
   pencil    the pair of matrices (A, B) of A x = w B x
   room      space that is left: items a list or an array can take

   USAGE
   First calls to know: fsi_csr_from_triplets, fsi_cg_solve, fsi_ic_init, fsi_cholesky_init /
   _factor / _solve, fsi_modes_solve, fsi_mg_init / _update / _solve. Everything else is variation.

   1. Operators. A solver sees y = A x as an fsi_operator: function and user pointer.
      fsi_csr_operator, fsi_ic_operator and fsi_cholesky_operator wrap our objects, which must
      outlive the operator. x and y never overlap.
   2. Which solver?
        symmetric positive definite          fsi_cg_solve with IC(0), MIC(0) or multigrid
        the same, singular (closed box)      + project_fn that removes the null space: the mean
        symmetric indefinite (multipliers)   fsi_symmqmr_solve; the preconditioner may be
                                             indefinite but must be symmetric
        not symmetric                        fsi_gmres_solve
        many right-hand sides, n to ~10^4    fsi_cholesky_*: init once per pattern, factor once
                                             per matrix, solve
        least squares, few columns           fsi_qr_factor, fsi_qr_solve
        n up to a few hundred                fsi_dense_*
   3. Singular systems. With project_fn the part of b outside the range is removed; if it was
      larger than the tolerance the answer of the compatible part comes with FSI_INCOMPATIBLE.
      Without it CG notices when its direction has become a null vector, returns its best x and
      says the same. Nothing loops until the cap on such a system.
   4. Warm start. CG lowers q(x) = x.A x / 2 - b.x in every step, so a solve cut off anywhere
      cannot add energy; a guess with q > 0 would void that and is dropped.
   5. No allocation in a loop. Ask fsi_cg_work_size (fsi_symmqmr_, fsi_gmres_) once and pass a
      block.
   6. Modes. A free body has 3 (2D) or 6 (3D) rigid modes at w = 0: pass them as null_vectors
      (exact, cheapest), or compute them too and set skip. Multiple and clustered modes come out
      complete; inside such a cluster the choice of basis is ours but repeatable.
   7. Incomplete Cholesky needs no M-matrix: when a pivot fails the diagonal is enlarged step by
      step (FSI_SHIFTED, ic.shift). MIC(0) on a closed box: use modified = 0.97.

   NUMERICAL NOTES
   - Tolerances are on the true residual |b - A x| relative to |b|. When recurrence and truth drift
     apart the solver restarts from the truth; if that no longer helps it returns FSI_STALLED:
     rounding allows no more. Attainable is about eps |A| |x| / |b|: 1e-12 to 1e-14 in double and
     1e-4 to 1e-6 in single for the pressure equation.
   - Dot products are summed in double in both precisions. The sparse Cholesky factor and all eigen
     work are double in both.
   - Iterations for the 2D Poisson equation, smooth right-hand side, 1e-6, on 64^2 / 128^2 / 256^2:
     IC(0) 56 / 111 / 222, MIC(0) 30 / 44 / 66; the root of the condition grows by 1.96, 1.98, 1.99
     and by 1.44 each (L_09).
   - CG is exact after as many steps as there are distinct eigenvalues (L_01); SYMMQMR takes 3
     steps with the ideal saddle-point preconditioner (L_12); GMRES(m) stagnates for ever on a
     cyclic shift with m < n and says FSI_STALLED (L_10).
   - SYMMQMR and GMRES never return an x with a larger residual than the start; CG never one with
     more energy.
   - CG and SYMMQMR divide by p.A p. For A = [0 1; 1 0], b = (1, 0) that is 0: FSI_BREAKDOWN; GMRES
     solves it in 2 steps (L_14).
   - Pivoted QR keeps quasi-Newton histories with repeated columns bounded (L_17) but is no proof
     of rank (L_16).
   - Cholesky refuses a pivot that cancelled to rounding (4 eps of the diagonal entry; 1e-15 in the
     sparse one): FSI_ERR_SINGULAR. LU refuses only exact zeros: a nearly singular matrix
     gives a large answer.
   - Multigrid keeps one unknown per coarse cell: of channels side by side that share a coarse cell
     but not their water, one is seen by it. A few plates or shells cost an iteration or two
     (M_02); a serpentine of 32 channels on 128^2 cells takes more than the default cap of 200.
   - Modes are accepted on the residual of the inverse problem; eigenvalues are Rayleigh quotients,
     so their error is its square. Single precision input limits them: entries of K are known to
     6e-8, so the lowest modes carry an error of 6e-8 times the largest.
   - Magnitudes: a right-hand side beyond 1e30 or below 1e-30 (single: 1e8) is solved in units of a
     power of two, so that no square overflows or vanishes; history_fn then sees x in these units.
     Answers that do not fit into fsi_real are FSI_ERR_NUMERIC.
   - -ffast-math: tests for NaN and infinity look at the bits, so input checks and breakdown guards
     keep working; the solver tests pass with it. Bits then differ from a plain build, but still
     not with the number of threads.

   MEMORY
   All memory comes from an fsi_allocator {alloc_fn, free_fn, user}; zero means malloc and free.
   free_fn gets the size. An object makes one allocation (the sparse Cholesky one more while it
   orders, fsi_mg_rank one per list, which grow), held until its *_free, which is safe on a zeroed
   struct and twice. fsi_eigen_dense and fsi_modes_solve only borrow.
   Nothing is allocated by dense and QR routines, by *_update, *_factor and *_solve, nor by a Krylov
   solver that was given a workspace: CG 5 n, SYMMQMR 6 n (7 with a guess), GMRES (restart + 3) n
   numbers. IC(0) takes 16 or 20 bytes per lower entry, sparse Cholesky 12 per entry of L.

   ERRORS
   Functions that can fail return an fsi_result. 0 is success.
   Negative: refused or impossible; objects and outputs are as before (in-place dense factors
   excepted).
   Positive: done, but look: FSI_NOT_CONVERGED, FSI_INCOMPATIBLE, FSI_BREAKDOWN, FSI_STALLED,
   FSI_RANK_DEFICIENT, FSI_SHIFTED; outputs are valid and finite.
   fsi_result_text gives the sentence; fsi_report.reason repeats the result. Input that is not
   finite is refused where it enters; numbers that stop being finite inside end the solve with
   FSI_ERR_NUMERIC.

   THREADS AND DETERMINISM
   No file-scope state, no threads of our own: with OpenMP switched on in the compiler, long loops
   use it. Sums go over fixed chunks that are added in order, so one binary gives the same bits for
   1, 2, 3 or 8 threads (tested).
   Different objects may be used from different threads at the same time. One object: calls that
   take it const may run at the same time (fsi_ic_solve, fsi_csr_mul); a sparse Cholesky or a
   multigrid object has workspace inside and serves one caller at a time. Callbacks run on the
   caller's thread.

   REFERENCES
     CG                          Hestenes, Stiefel 1952
     SYMMQMR                     Freund, Nachtigal 1994, 1995 (simplified QMR)
     GMRES                       Saad, Schultz 1986
     incomplete Cholesky         Meijerink, van der Vorst 1977; Gustafsson 1978 (modified);
                                 Kershaw 1978; Manteuffel 1980 (shifts)
     pivoted QR                  Businger, Golub 1965
     minimum degree, trees       Amestoy, Davis, Duff 1996; Liu 1990
     tridiagonal QL              Martin, Reinsch, Wilkinson 1968
     block Lanczos, restarts     Grimes, Lewis, Simon 1994; Wu, Simon 2000
     saddle points               Murphy, Golub, Wathen 2000
     multigrid on masked grids   McAdams, Sifakis, Teran 2010

   CHANGELOG
   1.00  first release.

   LICENCE
   MIT or public domain, as you prefer; text at the end of the file. */
#if defined(FSI_IMPLEMENTATION) && !defined(FSI_DECLARATIONS_ONLY)                                 \
    && !defined(FSI_LINALG_IMPLEMENTATION)
#define FSI_LINALG_IMPLEMENTATION
#endif

#ifndef FSI_LINALG_H
#define FSI_LINALG_H
/* Both precisions have the same functions. Those that every user must call first (fsi_result_text,
   *_init, the Krylov solvers, the dense factors ...) carry the precision in their symbol: a file
   compiled with FSI_SINGLE and one compiled without do not link. */
#ifdef FSI_SINGLE
#define fsi_result_text fsi_result_text_f32
#define fsi_csr_from_triplets fsi_csr_from_triplets_f32
#define fsi_cg_solve fsi_cg_solve_f32
#define fsi_symmqmr_solve fsi_symmqmr_solve_f32
#define fsi_gmres_solve fsi_gmres_solve_f32
#define fsi_dense_cholesky fsi_dense_cholesky_f32
#define fsi_dense_lu fsi_dense_lu_f32
#define fsi_qr_factor fsi_qr_factor_f32
#define fsi_ic_init fsi_ic_init_f32
#define fsi_cholesky_init fsi_cholesky_init_f32
#define fsi_eigen_dense fsi_eigen_dense_f32
#define fsi_modes_solve fsi_modes_solve_f32
#define fsi_mg_init fsi_mg_init_f32
#define fsi_bvh_init fsi_bvh_init_f32
#define fsi_iso_extract fsi_iso_extract_f32
#endif

/* ------------------------------------------------------------------------------------------------
 * >>config */
#define FSI_VERSION 100 /* major * 100 + minor; all five headers carry the same number */
#define FSI_LINALG_VERSION FSI_VERSION

#include <stddef.h>
#include <stdint.h>

#ifdef FSI_SINGLE
typedef float fsi_real;
#define FSI_REAL_EPS 1.1920929e-7f /* spacing of fsi_real at 1 */
#define FSI_REAL_MAX 3.402823e38f
#else
typedef double fsi_real; /* every quantity of the library */
#define FSI_REAL_EPS 2.220446049250313e-16
#define FSI_REAL_MAX 1.797693134862315e308
#endif
/* a literal in the library's precision: no promotion, no warning */
#define FSI_R(x) ((fsi_real)(x))
#define FSI_PI FSI_R(3.14159265358979323846)

#if defined(__GNUC__) || defined(__clang__)
#define FSI__UNUSED __attribute__((unused))
#define FSI__RESTRICT __restrict__
#elif defined(_MSC_VER)
#define FSI__UNUSED
#define FSI__RESTRICT __restrict
#else
#define FSI__UNUSED
#define FSI__RESTRICT
#endif
#define FSI__INLINE static inline FSI__UNUSED
#ifndef FSI_API
#ifdef FSI_STATIC
/* private mode: all implementations in one file, nothing exported */
#define FSI_API static FSI__UNUSED
#else
#define FSI_API extern
#endif
#endif

#if defined(_OPENMP) && !defined(FSI_NO_OPENMP)
#define FSI__PRAGMA(x) _Pragma(#x)
#define FSI__OMP(x) FSI__PRAGMA(omp x)
#else
#define FSI__OMP(x)
#endif
/* Before a loop whose turns do not touch one another: they share the threads when `large` holds. */
#define FSI__PARALLEL(large) FSI__OMP(parallel for schedule(static) if (large))

/* Initialiser of a struct, a vector or an array: all of it is zero. */
#ifdef __cplusplus
#define FSI__ZERO                                                                                  \
    {}
#else
#define FSI__ZERO                                                                                  \
    { 0 }
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------
 * >>results */
/* 0 is success, negative is an error (nothing was changed), positive is "done, but look": the state
 * is valid. */
#define FSI_RESULTS(X)                                                                             \
    X(FSI_OK, 0, "ok")                                                                             \
    X(FSI_ERR_ARGUMENT, -1, "an argument is missing, out of range or not finite")                  \
    X(FSI_ERR_MEMORY, -2, "the allocator returned nothing")                                        \
    X(FSI_ERR_SIZE, -3, "a size overflows or does not match")                                      \
    X(FSI_ERR_SINGULAR, -4, "the matrix is singular or not positive definite")                     \
    X(FSI_ERR_NUMERIC, -5, "a number that is not finite appeared")                                 \
    X(FSI_ERR_STATE, -6, "the object is not initialised or not in the state this call needs")      \
    X(FSI_ERR_CALLBACK, -7, "a user callback failed")                                              \
    X(FSI_ERR_GEOMETRY, -8,                                                                        \
      "a mesh is degenerate, open where it must be closed, or has bad indices")                    \
    X(FSI_ERR_DATA, -9, "a block of state is damaged or belongs to another object or version")     \
    X(FSI_NOT_CONVERGED, 1, "the iteration cap or time budget was reached")                        \
    X(FSI_INCOMPATIBLE, 2, "the right-hand side is not in the range of a singular matrix")         \
    X(FSI_BREAKDOWN, 3, "the Krylov recurrence broke down; the last good iterate is returned")     \
    X(FSI_STALLED, 4, "the residual no longer falls")                                              \
    X(FSI_RANK_DEFICIENT, 5, "dependent columns were dropped")                                     \
    X(FSI_SHIFTED, 6, "an incomplete factorisation needed a diagonal shift")                       \
    X(FSI_DT_TOO_LARGE, 7, "the time step exceeds the advised maximum")                            \
    X(FSI_CAPPED, 8, "a physical limit was enforced and reported (room, speed, inversion)")        \
    X(FSI_EMPTY, 9, "there was nothing to do")                                                     \
    X(FSI_GAINED, 10, "energy appeared that nobody put in; the report's account says where")       \
    X(FSI_INFEASIBLE, 11, "contacts contradict each other; they are met as well as possible")
#define FSI__RESULT_ENUM(name, value, text) name = value,

typedef enum fsi_result {
    FSI_RESULTS(FSI__RESULT_ENUM) FSI_RESULT_FORCE_INT = 0x7fffffff
} fsi_result;

#undef FSI__RESULT_ENUM
/* English text of a result, never NULL; static storage. */
FSI_API const char *fsi_result_text(fsi_result result);

/* What a solve or a step did. Fields that do not apply are 0. Plain data, owned by the caller. */
typedef struct fsi_report {
    fsi_result reason; /* why it stopped */
    /* linear iterations (partitioned schemes: pairs of one fluid and one solid call) */
    int iterations;
    /* connected pressure regions without a free surface that were made compatible */
    int regions;
    int restarts;          /* guesses dropped, GMRES restarts, shifts tried */
    double residual_start; /* norm of the first residual */
    double residual;       /* norm of the last residual, in the same norm */
    double divergence;     /* largest |div u| after the step, 1/s */
    double energy;         /* kinetic, after the step, J: of all that energy_change counts */
    /* Kinetic energy after minus before, J, of the fluid and, in a world, of rigid bodies; it is
     * the sum of these five. */
    double energy_change;
    double energy_gravity;   /* work of gravity */
    double energy_driven;    /* of scripted bodies, motors, springs, guests, applied forces */
    double energy_contact;   /* of contact and joints: positive is energy from nowhere */
    double energy_solve;     /* what the solve itself changed: positive is energy from nowhere */
    double energy_advection; /* of advection, viscosity and the fluid's other forces */
    /* ledger: momentum of fluid plus solids after minus before minus wall impulse, N s */
    double momentum[3];
    double volume;        /* ledger: fluid volume, m^3 (m^2 per unit depth in 2D) */
    double volume_change; /* ledger: volume added by corrections in this step, same unit */
    double seconds;       /* wall time; 0 where the caller gave no clock */
} fsi_report;

/* ------------------------------------------------------------------------------------------------
 * >>memory */
/* The caller's allocator. Zero = malloc and free. Both functions or none. Copied into objects; user
 * must outlive them. */
typedef struct fsi_allocator {
    /* NULL on failure; align is a power of two <= 64 */
    void *(*alloc_fn)(size_t size, size_t align, void *user);
    void (*free_fn)(void *ptr, size_t size, void *user); /* size is the one asked for */
    void *user;
} fsi_allocator;

/* Zeroed memory of size bytes aligned to 64; NULL on failure or size 0. a may be NULL (malloc). */
FSI_API void *fsi_alloc(const fsi_allocator *allocator, size_t size);
/* Gives back what fsi_alloc(a, size) gave; ptr may be NULL. */
FSI_API void fsi_free(const fsi_allocator *allocator, void *ptr, size_t size);

/* 1 when the allocator has both functions or none. */
FSI__INLINE int fsi_allocator_valid(const fsi_allocator *allocator) {
    return allocator == NULL || (allocator->alloc_fn == NULL) == (allocator->free_fn == NULL);
}

/* *out = a * b without overflow; 0 on overflow. The one place where sizes are multiplied. */
FSI__INLINE int fsi_size_mul(size_t a, size_t b, size_t *out) {
    if (a != 0 && b > (size_t)-1 / a)
        return 0;
    *out = a * b;
    return 1;
}

/* One block, carved in order. With base NULL it only counts: run the same layout function twice,
   first to learn the size, then to place the arrays. This is how every object here makes exactly
   one allocation. */
typedef struct fsi_arena {
    unsigned char *base; /* NULL: count only */
    size_t size, used;   /* bytes; used grows even past size, so check failed */
    int failed;          /* 1 after overflow or lack of room */
} fsi_arena;

/* Room for count items of size bytes, aligned to 64; NULL while counting or on failure. */
FSI_API void *fsi_arena_take(fsi_arena *arena, size_t count, size_t size);

/* Optional text output; silent when log_fn is NULL. Results are returned either way. level: 0 info,
 * 1 warning, 2 error. */
typedef struct fsi_logger {
    void (*log_fn)(int level, const char *text, void *user);
    void *user;
} fsi_logger;

/* Sends text to the logger if there is one. */
FSI__INLINE void fsi_log(const fsi_logger *logger, int level, const char *text) {
    if (logger && logger->log_fn)
        logger->log_fn(level, text, logger->user);
}

/* ------------------------------------------------------------------------------------------------
 * >>vectors */
typedef struct fsi_vec3 {
    fsi_real x;
    fsi_real y;
    fsi_real z;
} fsi_vec3; /* z = 0 in 2D */

/* unit quaternion, rotates body to world */
typedef struct fsi_quat {
    fsi_real w;
    fsi_real x;
    fsi_real y;
    fsi_real z;
} fsi_quat;

typedef struct fsi_mat3 {
    fsi_real m[9];
} fsi_mat3; /* row major: m[3*row+column] */

FSI__INLINE fsi_vec3 fsi_vec(fsi_real x, fsi_real y, fsi_real z) {
    fsi_vec3 r;
    r.x = x;
    r.y = y;
    r.z = z;
    return r;
}

FSI__INLINE fsi_vec3 fsi_vec_load(const fsi_real *p) {
    return fsi_vec(p[0], p[1], p[2]);
}

FSI__INLINE void fsi_vec_store(fsi_real *p, fsi_vec3 a) {
    p[0] = a.x;
    p[1] = a.y;
    p[2] = a.z;
}

FSI__INLINE fsi_vec3 fsi_vec_add(fsi_vec3 a, fsi_vec3 b) {
    return fsi_vec(a.x + b.x, a.y + b.y, a.z + b.z);
}

FSI__INLINE fsi_vec3 fsi_vec_sub(fsi_vec3 a, fsi_vec3 b) {
    return fsi_vec(a.x - b.x, a.y - b.y, a.z - b.z);
}

FSI__INLINE fsi_vec3 fsi_vec_scale(fsi_vec3 a, fsi_real s) {
    return fsi_vec(a.x * s, a.y * s, a.z * s);
}

FSI__INLINE fsi_vec3 fsi_vec_mad(fsi_vec3 a, fsi_vec3 b, fsi_real s) {
    return fsi_vec(a.x + b.x * s, a.y + b.y * s, a.z + b.z * s);
}

FSI__INLINE fsi_real fsi_vec_dot(fsi_vec3 a, fsi_vec3 b) {
    return a.x * b.x + a.y * b.y + a.z * b.z;
}

FSI__INLINE fsi_vec3 fsi_vec_cross(fsi_vec3 a, fsi_vec3 b) {
    return fsi_vec(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
}

FSI__INLINE fsi_vec3 fsi_mat3_row(const fsi_mat3 *A, int row) {
    return fsi_vec_load(A->m + 3 * row);
}

/* A v */
FSI__INLINE fsi_vec3 fsi_mat3_mul_vec(const fsi_mat3 *A, fsi_vec3 v) {
    return fsi_vec(fsi_vec_dot(fsi_mat3_row(A, 0), v), fsi_vec_dot(fsi_mat3_row(A, 1), v),
                   fsi_vec_dot(fsi_mat3_row(A, 2), v));
}

/* A^T v: the rows times the entries of v */
FSI__INLINE fsi_vec3 fsi_mat3_tmul_vec(const fsi_mat3 *A, fsi_vec3 v) {
    fsi_vec3 sum = fsi_vec_scale(fsi_mat3_row(A, 0), v.x);
    sum = fsi_vec_mad(sum, fsi_mat3_row(A, 1), v.y);
    return fsi_vec_mad(sum, fsi_mat3_row(A, 2), v.z);
}

/* A B: every row of A times B */
FSI__INLINE fsi_mat3 fsi_mat3_mul(const fsi_mat3 *A, const fsi_mat3 *B) {
    fsi_mat3 C;
    for (int i = 0; i < 3; i++)
        fsi_vec_store(C.m + 3 * i, fsi_mat3_tmul_vec(B, fsi_mat3_row(A, i)));
    return C;
}

FSI__INLINE fsi_mat3 fsi_mat3_transpose(const fsi_mat3 *A) { /* A^T */
    fsi_mat3 C;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            C.m[3 * i + j] = A->m[3 * j + i];
    return C;
}

FSI__INLINE fsi_real fsi_mat3_det(const fsi_mat3 *A) { /* det A */
    fsi_vec3 normal = fsi_vec_cross(fsi_mat3_row(A, 1), fsi_mat3_row(A, 2));
    return fsi_vec_dot(fsi_mat3_row(A, 0), normal);
}

/* R A R^T: an inertia tensor turned by R */
FSI__INLINE fsi_mat3 fsi_mat3_rotate(const fsi_mat3 *R, const fsi_mat3 *A) {
    fsi_mat3 RA = fsi_mat3_mul(R, A);
    fsi_mat3 Rt = fsi_mat3_transpose(R);
    return fsi_mat3_mul(&RA, &Rt);
}

/* rotation matrix of a unit quaternion */
FSI__INLINE fsi_mat3 fsi_quat_matrix(fsi_quat q) {
    fsi_mat3 R;
    fsi_real w = q.w;
    fsi_real x = q.x;
    fsi_real y = q.y;
    fsi_real z = q.z;
    R.m[0] = 1 - 2 * (y * y + z * z);
    R.m[1] = 2 * (x * y - w * z);
    R.m[2] = 2 * (x * z + w * y);
    R.m[3] = 2 * (x * y + w * z);
    R.m[4] = 1 - 2 * (x * x + z * z);
    R.m[5] = 2 * (y * z - w * x);
    R.m[6] = 2 * (x * z - w * y);
    R.m[7] = 2 * (y * z + w * x);
    R.m[8] = 1 - 2 * (x * x + y * y);

    return R;
}

/* a applied after b: R(a) R(b) */
FSI__INLINE fsi_quat fsi_quat_mul(fsi_quat a, fsi_quat b) {
    fsi_quat r;
    r.w = a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z;
    r.x = a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y;
    r.y = a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x;
    r.z = a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w;
    return r;
}

FSI__INLINE fsi_vec3 fsi_quat_rotate(fsi_quat q, fsi_vec3 v) { /* R(q) v */
    fsi_vec3 u = fsi_vec(q.x, q.y, q.z);
    fsi_vec3 t = fsi_vec_scale(fsi_vec_cross(u, v), 2);
    /* v + w t + u x t, t = 2 u x v */
    return fsi_vec_add(fsi_vec_mad(v, t, q.w), fsi_vec_cross(u, t));
}

FSI_API fsi_real fsi_vec_length(fsi_vec3 a); /* |a| */
FSI_API fsi_vec3 fsi_vec_unit(fsi_vec3 a);   /* a / |a|; zero stays zero */
/* 0 when det A is 0 or not finite; out untouched then */
FSI_API int fsi_mat3_inverse(const fsi_mat3 *A, fsi_mat3 *out);
/* normalised; zero becomes the identity */
FSI_API fsi_quat fsi_quat_unit(fsi_quat q);
FSI_API fsi_quat fsi_quat_from_rotation(fsi_vec3 axis_angle); /* rotation vector, rad */

/* ------------------------------------------------------------------------------------------------
 * >>arrays */
/* Deterministic for any thread count: sums go over fixed chunks, and the chunks are added in order,
 * in double. */
/* a . b */
FSI_API double fsi_dot(size_t n, const fsi_real *a, const fsi_real *b);
/* sum of a */
FSI_API double fsi_sum(size_t n, const fsi_real *a);
/* sqrt(a . a) */
FSI_API double fsi_norm(size_t n, const fsi_real *a);
/* max |a|, NaN if any is NaN */
FSI_API fsi_real fsi_max_abs(size_t n, const fsi_real *a);
/* y += s x */
FSI_API void fsi_axpy(size_t n, fsi_real s, const fsi_real *x, fsi_real *y);
/* y = x + s y */
FSI_API void fsi_xpay(size_t n, const fsi_real *x, fsi_real s, fsi_real *y);
/* x *= s */
FSI_API void fsi_scale(size_t n, fsi_real s, fsi_real *x);
/* y = x */
FSI_API void fsi_copy(size_t n, const fsi_real *x, fsi_real *y);
/* x = s */
FSI_API void fsi_fill(size_t n, fsi_real s, fsi_real *x);
/* 1 when no NaN or infinity; bitwise, safe under -ffast-math */
FSI_API int fsi_all_finite(size_t n, const fsi_real *a);
/* Sum of range_fn over fixed chunks of [0, n): the reduction behind the ones above, for any
 * summand. */
FSI_API double fsi_reduce(size_t n, double (*range_fn)(size_t begin, size_t end, void *user),
                          void *user);

/* ------------------------------------------------------------------------------------------------
 * >>doors */
/* A surface: what a fluid sees of a solid. Solids hand one out; a user's own engine can fill one
   in. Arrays belong to the solid and are read only during the call they are passed to. */
typedef struct fsi_surface {
    int dim;           /* 2: segments, 3: triangles */
    int vertex_count;  /* >= 0 */
    int element_count; /* >= 0 */
    /* 1: encloses solid matter (its inside is not fluid); 0: thin shell, wet on both sides */
    int closed;
    /* [3 * vertex_count] positions, m; z = 0 in 2D; NULL = place_fn gives them */
    const fsi_real *x;
    const fsi_real *v; /* [3 * vertex_count] velocities, m/s; NULL = at rest */
    /* [dim * element_count] vertices; normals point out of the solid: triangles
     * counter-clockwise seen from outside; segments a -> b with the solid on the left
     * (counter-clockwise loop) */
    const int32_t *index;
    /* Copies of one shape need not store their places (x NULL); with rest they share a tree of
     * boxes, too. */
    /* x[3]: place of a vertex now, m; any thread may ask */
    void (*place_fn)(int vertex, fsi_real *x, const void *user);
    const void *user; /* for place_fn */
    /* tree over the same elements at rest (its own surface is not read); NULL = none; only without
     * x */
    const struct fsi_bvh *rest;
    /* [9] rotation, [3] m: no vertex is further than `off` from R r + T, r its place in rest */
    const fsi_real *R, *T;
    fsi_real off; /* m, >= 0 */
} fsi_surface;

struct fsi_csr;
/* A coupled solid: what a coupling scheme needs to know of any solid. Two kinds.
   Dense (node == NULL): few degrees of freedom (rigid 6: velocity of the centre of mass, then
   angular velocity, world frame; in 2D too, the unused ones have zero inverse mass; reduced: 6 +
   modes); the solid fills rows of J through row_fn. Nodal (node != NULL): one velocity vector per
   node; J is barycentric interpolation of the surface vertices' nodes. */
typedef struct fsi_coupled fsi_coupled;

/* degrees of freedom up to which a dense solid's rows stand in for surface.v */
enum {
    FSI__ROW_MOST = 64
};

struct fsi_coupled {
    /* what the fluid sees now; v NULL: nodal and dense (at most 64 dof) ones from their own
     * velocity */
    fsi_surface surface;
    int dof; /* dense: number of degrees of freedom; nodal: 3 * nodes */
    /* [dof] generalised velocity: v* before the solve, the answer after; owned by the solid */
    fsi_real *v;
    /* [dof] or NULL: receives the generalised impulse the fluid gave in this step, N s */
    fsi_real *impulse;
    /* dense: [dof * dof] symmetric generalised mass (ignored where inverse_mass is zero); nodal:
     * [nodes] kg */
    const fsi_real *mass;
    /* dense: [dof * dof]; nodal: [nodes] 1/kg; zero rows = scripted or fixed */
    const fsi_real *inverse_mass;
    /* Dense, in place of both (NULL then; fsi_couple only): fills mass and inverse [dof * dof]
     * where not NULL. */
    void (*mass_fn)(const fsi_coupled *self, fsi_real *mass, fsi_real *inverse);
    /* NULL = dense; nodal: [surface.vertex_count] node of each surface vertex */
    const int32_t *node;
    /* nodal only, may be NULL: B with dof columns; the solve sees M + B^T B (time step folded in)
     */
    const struct fsi_csr *implicit;
    const fsi_real
        *push; /* nodal only, may be NULL: [dof] impulse of the solid's own forces, N s: (M + B^T B)
                  v = M v* + push + what the fluid gives. Stiff forces belong here, not into v*: the
                  fluid's rays and friction take v* for how the surface moves */
    /* Dense: row[dof] of J so that (row . v) is the velocity along dir of the solid at the given
       world point, which lies on (or near) the element with barycentric weights weight[dim]. Rigid
       bodies use the point itself as the arm. */
    void (*row_fn)(const fsi_coupled *self, int element, const fsi_real *weight, fsi_vec3 point,
                   fsi_vec3 dir, fsi_real *row);
    void *user; /* for row_fn and the owner */
};

/* ------------------------------------------------------------------------------------------------
 * >>solvers */
/* y = A x. x and y never overlap. */
typedef void (*fsi_apply_fn)(const fsi_real *x, fsi_real *y, void *user);

typedef struct fsi_operator {
    fsi_apply_fn apply_fn; /* NULL = none */
    void *user;            /* handed to apply_fn */
} fsi_operator;

/* Sparse matrix by rows. Arrays belong to whoever allocated them (fsi_csr_from_triplets: the
 * allocator given there). */
typedef struct fsi_csr {
    int rows, cols; /* >= 0 */
    int32_t *row;   /* [rows + 1] start of each row in col and val; row[rows] = entries */
    int32_t *col;   /* [entries] column, ascending inside a row, no duplicates */
    fsi_real *val;  /* [entries] */
} fsi_csr;

/* Sums count entries (i[k], j[k], v[k]) into A, duplicates added in the order given. One allocation
   is kept (free it with fsi_csr_free and the same allocator), one is temporary. a: NULL or zero =
   malloc. Indices out of range or values not finite: FSI_ERR_ARGUMENT; a sum that does not fit:
   FSI_ERR_NUMERIC.   A is written only on success. */
FSI_API fsi_result fsi_csr_from_triplets(fsi_csr *matrix, int rows, int cols, size_t count,
                                         const int32_t *i, const int32_t *j, const fsi_real *v,
                                         const fsi_allocator *allocator);
/* Frees a matrix made by fsi_csr_from_triplets or fsi_csr_transpose. */
FSI_API void fsi_csr_free(fsi_csr *matrix, const fsi_allocator *allocator);
/* FSI_OK when sizes, row starts, ascending columns and finite values all hold; FSI_ERR_ARGUMENT
 * otherwise. */
FSI_API fsi_result fsi_csr_check(const fsi_csr *matrix);
/* y = A x; x[cols], y[rows]. Parallel over rows. */
FSI_API void fsi_csr_mul(const fsi_csr *matrix, const fsi_real *x, fsi_real *y);
/* y = A^T x; x[rows], y[cols]. Serial; transpose once where it is hot. */
FSI_API void fsi_csr_tmul(const fsi_csr *matrix, const fsi_real *x, fsi_real *y);
/* T = A^T in memory of its own. T is written only on success. */
FSI_API fsi_result fsi_csr_transpose(const fsi_csr *A, fsi_csr *T, const fsi_allocator *allocator);
/* A as an operator; refers to A */
FSI_API fsi_operator fsi_csr_operator(const fsi_csr *matrix);

/* ------------------------------------------------------------------------------------------------
 * >>krylov */
/* One description for fsi_cg_solve (A symmetric positive semi-definite), fsi_symmqmr_solve (A
 * symmetric) and fsi_gmres_solve (any A). */
typedef struct fsi_krylov_desc {
    size_t n;       /* unknowns; 0 is allowed and done at once */
    fsi_operator A; /* required */
    /* z = P r, P about A^-1; none = identity. CG: P positive definite. SYMMQMR: P symmetric, may be
     * indefinite */
    fsi_operator precondition;
    /* takes the null space of a singular symmetric A out of x (orthogonally); NULL = A is regular
     */
    void (*project_fn)(fsi_real *x, void *user);
    void *project_user;   /* handed to project_fn */
    double tolerance;     /* |b - A x| <= tolerance * |b|; 0 = 1e-6 */
    double tolerance_abs; /* or |b - A x| <= this; 0 = not used */
    /* 0 = 10 n + 100 (at most 10000); applications of A inside the iteration */
    int max_iterations;
    int restart; /* GMRES: vectors kept before a restart; 0 = 30; others ignore it */
    /* 1: x holds a guess. CG uses it only if q(x) = x.A x / 2 - b.x <= 0 (no energy added), the
     * others only if |b - A x| <= |b|; otherwise it is dropped (counted in report.restarts). 0:
     * start from zero */
    int guess;
    int (*history_fn)(int iteration, double residual, const fsi_real *x,
                      /* optional; at the start (iteration 0) and after each; not 0 = stop now.
                       * GMRES: x is the iterate of the last restart */
                      void *user);
    void *history_user;             /* handed to history_fn */
    double (*clock_fn)(void *user); /* optional: seconds */
    void *clock_user;               /* handed to clock_fn */
    double seconds;          /* stop after this many seconds (0 = no budget; needs clock_fn) */
    fsi_allocator allocator; /* only used when no workspace is given; zero = malloc */
} fsi_krylov_desc;

/* Bytes of workspace the solvers need for desc; 0 when desc is bad (or n = 0). */
FSI_API size_t fsi_cg_work_size(const fsi_krylov_desc *desc);
FSI_API size_t fsi_symmqmr_work_size(const fsi_krylov_desc *desc);
FSI_API size_t fsi_gmres_work_size(const fsi_krylov_desc *desc);
/* Solve A x = b. work: at least that many bytes aligned for fsi_real, contents do not matter; NULL
   = taken from desc->allocator for the call. report may be NULL; residuals in it are |b - A x|, the
   last one recomputed from x (compatible part of b where project_fn is given). Returns (and reports
   as reason): FSI_OK; FSI_NOT_CONVERGED at the cap, the time budget or when history_fn asked;
   FSI_INCOMPATIBLE when b has a part no x can reach (with project_fn the compatible part was
   solved); FSI_BREAKDOWN (division by zero in the recurrence); FSI_STALLED (no more progress); each
   leaves the last good iterate in x. FSI_ERR_NUMERIC: A or P gave a number that is not finite (x
   finite). FSI_ERR_ARGUMENT, FSI_ERR_SIZE, FSI_ERR_MEMORY: x untouched. */
/* Conjugate gradients; stopped anywhere from a zero start the energy q(x) has only fallen. */
FSI_API fsi_result fsi_cg_solve(const fsi_krylov_desc *desc, const fsi_real *b, fsi_real *x,
                                void *work, size_t work_size, fsi_report *report);
/* Simplified QMR for symmetric indefinite A by coupled two-term recurrences; P may be indefinite.
 */
FSI_API fsi_result fsi_symmqmr_solve(const fsi_krylov_desc *desc, const fsi_real *b, fsi_real *x,
                                     void *work, size_t work_size, fsi_report *report);
/* Restarted GMRES with Givens rotations, preconditioned from the right (so residuals are true
 * ones). project_fn is ignored. */
FSI_API fsi_result fsi_gmres_solve(const fsi_krylov_desc *desc, const fsi_real *b, fsi_real *x,
                                   void *work, size_t work_size, fsi_report *report);

/* ------------------------------------------------------------------------------------------------
 * >>dense */
/* Small dense matrices, row major [n * n], factored in place in the caller's memory; nothing is
   allocated. n = 0 is fine. All return FSI_ERR_ARGUMENT for n < 0, missing or non-finite input,
   FSI_ERR_SINGULAR when a pivot fails (A is overwritten then). *_solve: x = A^-1 x from the factor.
 */
/* A = L L^T, L in the lower triangle; only the lower triangle of A is read. */
FSI_API fsi_result fsi_dense_cholesky(int n, fsi_real *A);
FSI_API void fsi_dense_cholesky_solve(int n, const fsi_real *L, fsi_real *x);
/* P A = L U with row pivoting. pivot[n]. */
FSI_API fsi_result fsi_dense_lu(int n, fsi_real *A, int32_t *pivot);
FSI_API void fsi_dense_lu_solve(int n, const fsi_real *A, const int32_t *pivot, fsi_real *x);
/* QR with column pivoting: A P = Q R by Householder, in place. A is COLUMN major [rows * cols] (a
   column is contiguous: one history vector of a quasi-Newton method). tau[cols], pivot[cols]
   (column k of the factor was column pivot[k] of A), all the caller's. *rank = number of |r_kk| >
   tolerance * |r_00|; tolerance 0 = max(rows, cols) * eps. FSI_RANK_DEFICIENT when rank < min(rows,
   cols). */
FSI_API fsi_result fsi_qr_factor(int rows, int cols, fsi_real *A, fsi_real *tau, int32_t *pivot,
                                 double tolerance, int *rank);
/* Least squares: x[cols] minimises |A x - b|; columns beyond rank get 0. b[rows] is overwritten by
 * Q^T b; *residual (may be NULL) = |A x - b|. */
FSI_API void fsi_qr_solve(int rows, int cols, const fsi_real *A, const fsi_real *tau,
                          const int32_t *pivot, int rank, fsi_real *b, fsi_real *x,
                          double *residual);
/* b = Q^T b (transpose = 1) or b = Q b (transpose = 0) with the first k reflectors. */
FSI_API void fsi_qr_apply_q(int rows, int k, const fsi_real *A, const fsi_real *tau, int transpose,
                            fsi_real *b);

/* ------------------------------------------------------------------------------------------------
 * >>incomplete */
/* Incomplete Cholesky A ~ (D + S) D^-1 (D + S)^T on the pattern of A (no fill). Symmetric positive
 * definite as a preconditioner. */
typedef struct fsi_ic_desc {
    /* 0 = IC(0); 1 = MIC(0): dropped fill goes to the diagonal so row sums are kept; in between =
     * relaxed, 0.97 is common */
    double modified;
    /* start with A + shift * diag(A), >= 0; grown automatically when a pivot fails */
    double shift;
    fsi_allocator allocator; /* zero = malloc */
} fsi_ic_desc;

typedef struct fsi_ic {
    int n; /* unknowns */
    /* strictly lower pattern by rows: row[n + 1], col[entries], ascending */
    int32_t *row, *col;
    fsi_real *val;          /* [entries] S / d of the column: unit lower factor */
    fsi_real *diagonal_inv; /* [n] 1 / d */
    double shift;           /* the shift that worked; 0 = none was needed */
    fsi_ic_desc desc;       /* as given */
    void *block;
    size_t size; /* the one allocation */
} fsi_ic;

/* Makes the factor of A (square, symmetric; only the lower triangle is read). FSI_SHIFTED: done,
   with a shift. FSI_ERR_SINGULAR: a diagonal entry is not positive. desc may be NULL. */
FSI_API fsi_result fsi_ic_init(fsi_ic *ic, const fsi_csr *matrix, const fsi_ic_desc *desc);
/* New values on the same pattern and memory. FSI_ERR_SINGULAR also when entries differ so much that
 * no shift helps: the factor is 1 / diagonal then. */
FSI_API fsi_result fsi_ic_update(fsi_ic *ic, const fsi_csr *matrix);
/* z = (L L^T)^-1 r; z may be r. */
FSI_API void fsi_ic_solve(const fsi_ic *ic, const fsi_real *r, fsi_real *z);
/* the factor as a preconditioner; refers to ic */
FSI_API fsi_operator fsi_ic_operator(const fsi_ic *ic);
FSI_API void fsi_ic_free(fsi_ic *ic);

/* ------------------------------------------------------------------------------------------------
 * >>cholesky */
/* Sparse Cholesky P A P^T = L L^T. The factor is kept in double in both precisions. */
typedef enum fsi_ordering {
    FSI_ORDERING_DEGREE = 0,
    FSI_ORDERING_NATURAL = 1,
    FSI_ORDERING_GIVEN = 2
} fsi_ordering;

typedef struct fsi_cholesky_desc {
    fsi_ordering ordering; /* 0 = approximate minimum degree */
    /* FSI_ORDERING_GIVEN: [n] order[k] = row of A eliminated k-th; read during init only */
    const int32_t *order;
    fsi_allocator allocator; /* zero = malloc */
} fsi_cholesky_desc;

typedef struct fsi_cholesky {
    int n;        /* unknowns */
    int factored; /* 1: the numbers are there */
    /* row of A where the last factorisation met a pivot <= 0; -1 = none */
    int failed;
    size_t entries;   /* entries of L, diagonal included */
    int32_t *order;   /* [n] order[k] = row of A eliminated k-th */
    int32_t *inverse; /* [n] inverse[order[k]] = k */
    int32_t *parent;  /* [n] elimination tree, -1 = root */
    size_t *col;      /* [n + 1] start of each column of L */
    int32_t *row;     /* [entries] rows ascending, the diagonal first */
    double *val;      /* [entries] */
    double *work;     /* [2 n] */
    int32_t *mark;    /* [3 n] */
    fsi_allocator allocator;
    void *block;
    size_t size; /* the one allocation kept */
} fsi_cholesky;

/* Ordering, elimination tree, pattern and memory for A (square; pattern symmetric; values not
 * read). desc may be NULL. */
FSI_API fsi_result fsi_cholesky_init(fsi_cholesky *factor, const fsi_csr *matrix,
                                     const fsi_cholesky_desc *desc);
/* Numbers of A + shift * B on the pattern of init (pattern of B inside it; B NULL = identity). No
   allocation; repeat at will. FSI_ERR_SINGULAR: not positive definite, see failed. */
FSI_API fsi_result fsi_cholesky_factor(fsi_cholesky *factor, const fsi_csr *A, double shift,
                                       const fsi_csr *B);
/* x = A^-1 b; x may be b. FSI_ERR_STATE before a successful factorisation; FSI_ERR_NUMERIC, x
 * untouched: b is not finite or x does not fit. */
FSI_API fsi_result fsi_cholesky_solve(fsi_cholesky *factor, const fsi_real *b, fsi_real *x);
FSI_API fsi_operator fsi_cholesky_operator(fsi_cholesky *factor); /* A^-1; refers to c */
FSI_API void fsi_cholesky_free(fsi_cholesky *factor);

/* ------------------------------------------------------------------------------------------------
 * >>eigen */
/* All eigenpairs of dense symmetric A (row major [n * n], lower triangle read), or of A x = w B x
   with B positive definite (NULL = identity). w[n] ascending; V [n * n]: row k is eigenvector k, V
   B V^T = I (NULL = not wanted). V may be A. Works in double inside; one temporary allocation of 2
   n^2 doubles (3 n^2 with B). FSI_ERR_SINGULAR: B not positive definite. */
FSI_API fsi_result fsi_eigen_dense(int n, const fsi_real *A, const fsi_real *B, fsi_real *w,
                                   fsi_real *V, const fsi_allocator *allocator);

/* Lowest modes of K x = w M x, large and sparse: w = omega^2 of free vibration, 1/s^2 for K in N/m
 * and M in kg. */
typedef struct fsi_modes_desc {
    const fsi_csr *K; /* symmetric positive semi-definite; required */
    /* symmetric positive definite, same size, pattern inside the pattern of K; NULL = identity */
    const fsi_csr *M;
    int count; /* modes wanted, >= 1; at most n - null_count - skip are there */
    /* lowest modes to compute but not return (6 rigid ones of a free body when no null vectors are
     * given) */
    int skip;
    int null_count;               /* vectors to keep out (rigid motions); linearly independent */
    const fsi_real *null_vectors; /* [null_count * n], one after the other */
    /* K + shift * M is factored, > 0; 0 = chosen: about the lowest wanted w */
    double shift;
    /* residual of the inverse problem over its eigenvalue; 0 = 1e-10 (single: 1e-6) */
    double tolerance;
    int max_iterations; /* solves with the factor; 0 = 100 * count + 1000 */
    /* temporary memory: the factor and about 3 (count + skip) + 50 vectors of doubles; zero =
     * malloc */
    fsi_allocator allocator;
} fsi_modes_desc;

/* w[count] ascending, V [count * n] M-orthonormal, mode after mode, largest entry positive. report
   may be NULL. FSI_NOT_CONVERGED: best so far. Shift-invert block Lanczos with full
   reorthogonalisation and thick restart, in double inside, so clusters and multiple modes come out.
 */
FSI_API fsi_result fsi_modes_solve(const fsi_modes_desc *desc, fsi_real *w, fsi_real *V,
                                   fsi_report *report);

/* ------------------------------------------------------------------------------------------------
 * >>multigrid */
/* Geometric multigrid for the MAC Laplacian on a masked grid: for every fluid cell c
       (A p)_c = sum over its faces f of w_f (p_c - p_n),   p_n = 0 where the neighbour n is
   Dirichlet (air, or outside an open side), and no term where the neighbour is Neumann (solid, or
   outside a closed side) or w_f = 0 (a closed face: thin shells). Cells are numbered i + nx * (j +
   ny * k); faces as on a MAC grid: wx[(nx+1)*ny*nz], wy[nx*(ny+1)*nz], wz[nx*ny*(nz+1)]. Values of
   b and p in cells that are not fluid are ignored and left alone (b) or set to 0 (p). */
typedef enum fsi_cell {
    FSI_CELL_FLUID = 0,
    FSI_CELL_DIRICHLET = 1,
    FSI_CELL_NEUMANN = 2
} fsi_cell;

typedef struct fsi_mg_desc {
    int nx, ny, nz; /* cells, >= 1 each; nz = 1 is 2D (no z faces) */
    /* 1: outside of side -x +x -y +y -z +z is Dirichlet; 0: Neumann. Where weights are given, w = 0
     * closes it too */
    int open[6];
    int levels; /* 0 = as many as useful */
    int sweeps; /* red-black sweeps each way, <= 8; 0 = 2 */
    /* extra sweeps each way on rows that a boundary inside the grid touches, <= 8; 0 = 1, -1 = none
     */
    int band_sweeps;
    fsi_allocator allocator; /* zero = malloc */
} fsi_mg_desc;

/* One level of the V-cycle, in float. Cells are split by colour (i + j + k) & 1, red 0 first; a row
   of one colour holds cell i at i >> 1, so both colours of a row and their coarse cell share an
   index and every loop runs over consecutive floats. One layer of zeros around. */
typedef struct fsi_mg_level {
    int n[3], half;            /* cells; (n[0] + 1) / 2 per row and colour */
    size_t pitch, plane, size; /* row, plane and whole array of one colour */
    float *x, *f;              /* [2 * size] unknown and right-hand side */
    /* [2 * size] weight of the upper face of each cell along each axis, Dirichlet faces included;
     * weight[1] is NULL in 2D */
    float *weight[3];
    /* [2 * size] Dirichlet weight that belongs to no face; NULL on the finest level */
    float *dir;
    /* [2 * size] 0 no unknown; bits 0-2: diagonal (plain rows); bits 4-6: where the coarse value
     * comes from */
    uint8_t *kind;
    uint8_t *row; /* [n[1] * n[2]] FSI__ROW_ flags */
    /* restriction: sum over the children times this (h^2 and dimension in one factor) */
    float scale;
} fsi_mg_level;

/* The hierarchy. All arrays lie in one block; read the first fields, leave the rest alone. */
typedef struct fsi_mg {
    fsi_mg_desc desc; /* as given */
    int regions;      /* connected regions without Dirichlet cells (null vectors of A) */
    size_t fluid;     /* fluid cells */
    size_t bytes;     /* size of the block */
    void *block;      /* owner of all arrays below */
    /* internal axes: 2D is stored as nx, 1, ny, so that axis 2 is always the outer one */
    int n[3], open[6];
    int levels, sweeps, band; /* of the V-cycle */
    /* regions of two cells or more (the first numbers); 1: weights were given */
    int large, weighted;
    /* number of regions that the extra term of the running solve makes regular; 0 outside a solve
     */
    int hidden;
    size_t cells;
    const fsi_real *weight[3]; /* the caller's weights, internal axes; NULL = 1 */
    /* [cells] bits 0-5: face -x +x -y +y -z +z enters A; bit 6: fluid; bit 7: a Dirichlet face */
    uint8_t *face;
    uint8_t *count; /* [cells] number of those faces */
    /* [cells] number of the region if it has no Dirichlet cells (single cells last), else -1 */
    int32_t *label;
    uint8_t *regular; /* [cells / 8 + 1] a bit per region: hidden now */
    /* [cells] conjugate gradients: r = b - A p, the direction d, and A d */
    fsi_real *residual, *direction, *image;
    /* [nx], [nx + 1] zeros: the row outside the grid; ones: missing weights */
    fsi_real *zero, *one;
    /* [2 * nx] rows of Dirichlet and Neumann cells: outside an open and a closed side */
    uint8_t *edge;
    double *part;        /* [nz] sums per plane */
    fsi_mg_level *level; /* [levels], finest first */
    /* low-rank term that the V-cycle takes along; NULL outside a solve with one. Set it to use
     * fsi_mg_cycle with one (then one sweep more on coarse levels) */
    const struct fsi_mg_rank *rank;
} fsi_mg;

typedef struct fsi_mg_solve_desc {
    double tolerance;     /* |b - A p| <= tolerance * |b|; 0 = 1e-6 */
    double tolerance_abs; /* or |b - A p| <= this; 0 = not used */
    int max_iterations;   /* 0 = 200 */
    /* 1: p holds a guess; used only if q(p) = p.A p / 2 - b.p <= 0 (energy test), else dropped */
    int guess;
    /* optional: y += E x on cells, E symmetric positive semi-definite (low-rank terms of solids) */
    fsi_operator extra;
    fsi_operator precondition; /* optional: z = P r instead of one V-cycle; may call fsi_mg_cycle */
    /* optional: low-rank part of `extra` that the V-cycle takes along */
    const struct fsi_mg_rank *rank;
    double (*clock_fn)(void *user); /* optional: seconds, for the time budget */
    void *clock_user;
    double seconds; /* stop after this many seconds (0 = no budget; needs clock_fn) */
} fsi_mg_solve_desc;

/* Makes the hierarchy (one block of memory, all of it here). The mask starts all fluid with unit
 * weights. */
FSI_API fsi_result fsi_mg_init(fsi_mg *mg, const fsi_mg_desc *desc);
FSI_API void fsi_mg_free(fsi_mg *mg);
/* New mask and weights on the same memory. cell: [cells] of fsi_cell, NULL = all fluid. w: wx, wy,
   wz or NULL = all one (each may be NULL); weights finite and >= 0, referenced (not copied) until
   the next update. */
FSI_API fsi_result fsi_mg_update(fsi_mg *mg, const uint8_t *cell, const fsi_real *const weight[3]);
/* y = A x (0 in cells that are not fluid). */
FSI_API void fsi_mg_apply(const fsi_mg *mg, const fsi_real *x, fsi_real *y);
/* z = one symmetric V-cycle on r from zero: a symmetric positive (semi-)definite preconditioner.
   Runs in float. r and z are projected as by fsi_mg_project; r and z must not overlap. Inside a
   solve with an extra term, regions that the term makes regular are not projected. */
FSI_API void fsi_mg_cycle(fsi_mg *mg, const fsi_real *r, fsi_real *z);
/* Takes the mean out of x in every region that touches no Dirichlet cell. */
FSI_API void fsi_mg_project(const fsi_mg *mg, fsi_real *x);

/* Closed regions (without Dirichlet cells) are numbered 0 .. mg->regions - 1. Number of the region
   of a cell, -1 = none. */
FSI__INLINE int32_t fsi_mg_region(const fsi_mg *mg, size_t cell) {
    return mg->label[cell];
}

/* sum[mg->regions]: the sums of x over the closed regions; and x += constant[region] in each. */
FSI_API void fsi_mg_region_sums(const fsi_mg *mg, const fsi_real *x, double *sum);
FSI_API void fsi_mg_region_add(const fsi_mg *mg, const double *constant, fsi_real *x);
/* Solves A p = b by conjugate gradients with the V-cycle. Regions without Dirichlet cells: mean of
   p is 0; b must sum to zero there (FSI_INCOMPATIBLE otherwise, and the compatible part is solved).
   report->residual is recomputed from p at the end, and a residual that rounding of p alone
   explains (FSI_SINGLE on large grids) counts as converged. */
FSI_API fsi_result fsi_mg_solve(fsi_mg *mg, const fsi_mg_solve_desc *desc, const fsi_real *b,
                                fsi_real *p, fsi_report *report);

/* Low-rank terms through the V-cycle: P = (B^-1 + Z K^-1 Z^T)^-1 for B the V-cycle, in one V-cycle
   (Woodbury on all levels at once). Columns of Z come in bundles (the degrees of freedom of one
   solid), K is block diagonal. Set-up and cost grow with the cells the columns touch. */
typedef struct fsi_mg_bundle {
    int columns, entries;   /* >= 0 */
    const int32_t *cell;    /* [entries] fluid cells; may repeat */
    const fsi_real *factor; /* [entries] */
    /* [entries * columns]: Z[cell[e]][c] += factor[e] val[e * columns + c] */
    const fsi_real *val;
    const fsi_real *K; /* [columns * columns] symmetric positive definite; or NULL: */
    /* [columns (columns + 1) / 2] rows of a lower triangle, K = unit L L^T */
    const fsi_real *L;
    fsi_real unit; /* > 0 */
} fsi_mg_bundle;

/* private: cells lo .. hi - 1 along each of the internal axes */
typedef struct fsi__box {
    int lo[3];
    int hi[3];
} fsi__box;

/* private: where a bundle lives on one level */
typedef struct fsi__mg_patch {
    fsi__box own;  /* of its columns t */
    fsi__box wide; /* of the smoothed columns m */
    size_t t, m;   /* their places in data */
    size_t x;      /* place of m on all cells in work */
} fsi__mg_patch;

typedef struct fsi_mg_rank {
    /* cells a smoothed column may spread on each level, >= 1; 0 = 3, with many columns 2. 2 *
     * (sweeps + band sweeps) + 3 = exact */
    int reach;
    /* bundles beyond are left out whole: with a part of its columns a bundle costs more iterations
     * than with none; 0 = 1000 */
    int max_columns;
    fsi_allocator allocator; /* set before the first build; zero = malloc */
    int columns;             /* taken, of all bundles */
    /* private */
    int bundles, levels, spread; /* spread: reach as used */
    size_t cells;                /* of the grid it was built for */
    int *offset;                 /* [bundles + 1] first column of each bundle */
    fsi__mg_patch *patch;        /* [levels * bundles] */
    float *data;
    float *work;
    float *local;
    size_t part;     /* floats of local per part */
    fsi_real *E, *c; /* [columns^2] factor of K + Z^T B Z; [columns] */
    double *sum;     /* [columns, each bundle padded to lanes] */
    /* [cells of one colour, levels after each other] for levels in `whole` */
    float *defect;
    /* bit q: on level q the boxes cover so much that the defect is taken everywhere, once; this
     * saves 7 % of a solve with 125 solids */
    uint32_t whole;
} fsi_mg_rank;

/* Columns of all bundles for the mask and weights mg has now. FSI_ERR_SINGULAR: K + Z^T B Z is not
 * positive definite; the rank has no columns then. */
FSI_API fsi_result fsi_mg_rank_build(fsi_mg_rank *rank, fsi_mg *mg, const fsi_mg_bundle *bundle,
                                     int bundles);
FSI_API void fsi_mg_rank_free(fsi_mg_rank *rank);

/* ------------------------------------------------------------------------------------------------
 * >>geometry */
/* Queries on surfaces (segments in 2D, triangles in 3D; 2D queries ignore z). Weights are
 * barycentric, >= 0, and sum to 1. */
typedef struct fsi_hit {
    int element; /* index of the segment or triangle; -1 = none */
    /* +1: the query segment runs along the element's normal (leaves the solid), -1: against it; 0
     * for closest points */
    int side;
    /* crossing: 0 <= t < 1 along the query segment; closest point: distance, m */
    fsi_real t;
    /* barycentric weights of the point on the element; weight[2] = 0 in 2D */
    fsi_real weight[3];
    fsi_vec3 point; /* the point on the element, m */
} fsi_hit;

/* Squared distance of p to the segment a b (triangle a b c) and the weights of the closest point;
   degenerate elements are allowed. Areas are squared: below 1e-70 m (single: 1e-8 m) an element
   counts as one without area, and squared distances end in zero at 1e-154 m (1e-19 m). */
FSI_API fsi_real fsi_closest_on_segment(fsi_vec3 p, fsi_vec3 a, fsi_vec3 b, fsi_real weight[2]);
FSI_API fsi_real fsi_closest_on_triangle(fsi_vec3 p, fsi_vec3 a, fsi_vec3 b, fsi_vec3 c,
                                         fsi_real weight[3]);
/* Does the segment p -> q cross element e? 1 and *hit, or 0. Watertight: a segment that meets an
   edge or vertex shared by two elements crosses exactly one of them (symbolic perturbation), and a
   point of the surface at q counts for the next segment q -> r, not for this one. */
FSI_API int fsi_surface_cross(const fsi_surface *surface, int e, fsi_vec3 p, fsi_vec3 q,
                              fsi_hit *hit);
/* Distance of p to element e (hit->t), its weights and point. */
FSI_API void fsi_surface_closest(const fsi_surface *surface, int e, fsi_vec3 p, fsi_hit *hit);

/* Where a vertex is, m. */
FSI__INLINE fsi_vec3 fsi_surface_place(const fsi_surface *surface, int vertex) {
    fsi_real x[3];
    if (surface->x)
        return fsi_vec_load(surface->x + 3 * (size_t)vertex);
    surface->place_fn(vertex, x, surface->user);
    return fsi_vec_load(x);
}

/* Normal of element e times its area (length in 2D), out of the solid. */
FSI_API fsi_vec3 fsi_surface_normal(const fsi_surface *surface, int e);
/* Bounds of element e, m; z = 0 in 2D. */
FSI_API void fsi_surface_bounds(const fsi_surface *surface, int e, fsi_real lo[3], fsi_real hi[3]);
/* FSI_OK; FSI_ERR_ARGUMENT: missing arrays, bad sizes, dim not 2 or 3; FSI_ERR_GEOMETRY: index out
   of range, a position or velocity not finite, or a position beyond 1e70 m (single: 1e9). */
FSI_API fsi_result fsi_surface_check(const fsi_surface *surface);

/* The part of element e inside the box [lo, hi] (SLIP appendix A). */
typedef struct fsi_clip {
    fsi_real area; /* m^2 (length in 2D, m) */
    /* barycentric weights of the centroid of the part; zero when area is 0 */
    fsi_real weight[3];
    fsi_vec3 normal; /* area times unit normal */
} fsi_clip;

/* Returns 1 when the part has positive area. */
FSI_API int fsi_surface_clip(const fsi_surface *surface, int e, fsi_vec3 lo, fsi_vec3 hi,
                             fsi_clip *out);

typedef struct fsi_bvh_node {
    fsi_real lo[3], hi[3]; /* bounds, slightly enlarged */
    int32_t begin, end;    /* elements order[begin .. end) */
    int32_t right;         /* second child (the first is the next node); 0 = leaf */
} fsi_bvh_node;

/* Tree of boxes over the elements of one surface, for any query: far points, long rays, boxes,
   inside or not, copies of one shape. Where many points near a moving surface ask for the closest
   element, fsi_lookup of fsi_sph.h answers 2.3 to 3.7 times as fast (bench/bench_lookup.c), but
   only up to a reach. Deterministic. Queries are read-only: any number of threads may ask at once.
   A surface with a tree of its own (rest) is only looked at through that: such a tree needs no
   fsi_bvh_init, zero it. */
typedef struct fsi_bvh {
    /* the surface of the last build or refit; its arrays are read by the queries */
    fsi_surface surface;
    fsi_real lo[3], hi[3]; /* bounds of all of it, slightly enlarged, m; where nodes > 0 */
    int capacity;          /* most elements it can hold */
    int nodes;             /* nodes in use; 0 = empty */
    int leaf;              /* elements in a leaf at most; 0 = 4; may be set before a build */
    fsi_bvh_node *node;    /* [2 * capacity]; those of rest are in rest */
    int32_t *order;        /* [capacity] */
    fsi_allocator allocator;
    void *block;
    size_t size; /* the one allocation */
} fsi_bvh;

/* Room for capacity >= 1 elements in one block. allocator may be NULL (malloc). */
FSI_API fsi_result fsi_bvh_init(fsi_bvh *bvh, int capacity, const fsi_allocator *allocator);
FSI_API void fsi_bvh_free(fsi_bvh *bvh);
/* New tree in place, O(n log n). FSI_ERR_SIZE when the surface has more elements than capacity;
 * other errors as fsi_surface_check. */
FSI_API fsi_result fsi_bvh_build(fsi_bvh *bvh, const fsi_surface *surface);
/* New positions, same elements, O(n). FSI_ERR_STATE when the element count differs from the last
 * build. */
FSI_API fsi_result fsi_bvh_refit(fsi_bvh *bvh, const fsi_surface *surface);
/* Element nearest to p within radius (ties: lowest index). 1 and *hit, or 0. */
FSI_API int fsi_bvh_closest(const fsi_bvh *bvh, fsi_vec3 p, fsi_real radius, fsi_hit *hit);
/* First crossing of p -> q (smallest t, ties: lowest index). 1 and *hit, or 0. */
FSI_API int fsi_bvh_first_hit(const fsi_bvh *bvh, fsi_vec3 p, fsi_vec3 q, fsi_hit *hit);
/* All crossings of p -> q, sorted by t; writes at most room of them (the nearest) and returns how
 * many there are. */
FSI_API int fsi_bvh_all_hits(const fsi_bvh *bvh, fsi_vec3 p, fsi_vec3 q, fsi_hit *hits, int room);
/* Calls visit_fn for every element whose bounds touch the box [lo, hi]; stops and returns its value
 * when that is not 0. */
FSI_API int fsi_bvh_overlap(const fsi_bvh *bvh, fsi_vec3 lo, fsi_vec3 hi,
                            int (*visit_fn)(int element, void *user), void *user);
/* 1 when p is inside the closed surface (signed crossings of rays, best of three); 0 for open
 * surfaces. */
FSI_API int fsi_bvh_inside(const fsi_bvh *bvh, fsi_vec3 p);

/* ------------------------------------------------------------------------------------------------
 * >>isosurface */
/* The surface value = level of samples on a regular lattice: marching squares (nz = 1) or cubes.
   Closed faces are paired by the sign of the face's middle value, which both neighbours see alike,
   and the loops are traced in every cell: no table, watertight and manifold. */
typedef struct fsi_iso_desc {
    /* samples, >= 1 each; sample i + nx * (j + ny * k); nz = 1: 2D, segments */
    int nx, ny, nz;
    fsi_real h;            /* distance of samples, m, > 0 */
    fsi_vec3 origin;       /* position of sample 0, m */
    const fsi_real *value; /* [nx * ny * nz] smaller than level inside */
    fsi_real level;        /* usually 0 */
    /* 1: a lid half a sample distance outside the lattice (the walls, when samples are cell
     * centres); 0: open at the border */
    int closed;
    fsi_allocator allocator; /* for scratch and fsi_iso_build; zero = malloc */
} fsi_iso_desc;

typedef struct fsi_iso_mesh {
    /* 2: segments a -> b with the inside on the left; 3: triangles, counter-clockwise seen from
     * outside */
    int dim;
    int vertex_count;
    int element_count;
    int vertex_room, element_room; /* what the arrays hold (caller's buffers) */
    fsi_real *x;                   /* [3 * vertex_room] positions, m */
    fsi_real *normal;              /* [3 * vertex_room] unit normals, outward; may be NULL */
    int32_t *index;                /* [dim * element_room] vertices of the elements */
    void *block;                   /* not NULL: made by fsi_iso_build */
    size_t block_size;
    fsi_allocator allocator; /* of the block */
} fsi_iso_mesh;

/* Counts (x NULL) or fills the caller's arrays; always sets dim, vertex_count, element_count.
 * FSI_ERR_SIZE when they do not fit (nothing useful in them then). */
FSI_API fsi_result fsi_iso_extract(const fsi_iso_desc *desc, fsi_iso_mesh *mesh);
/* Counts, makes one block with the desc's allocator and fills it. FSI_EMPTY without a surface. Give
 * it back by fsi_iso_free. */
FSI_API fsi_result fsi_iso_build(const fsi_iso_desc *desc, fsi_iso_mesh *mesh);
FSI_API void fsi_iso_free(fsi_iso_mesh *mesh);

#ifdef __cplusplus
}
#endif
#endif /* FSI_LINALG_H */
/* Stop here if you only need the API. */

/* Small inline helpers of the implementations; every implementation file sees them, users' files do
 * not. */
#if (defined(FSI_LINALG_IMPLEMENTATION) || defined(FSI_GRID_IMPLEMENTATION)                        \
     || defined(FSI_SOLIDS_IMPLEMENTATION) || defined(FSI_SPH_IMPLEMENTATION)                      \
     || defined(FSI_COUPLE_IMPLEMENTATION))                                                        \
    && !defined(FSI__INLINE_DONE)
#define FSI__INLINE_DONE
#include <math.h>
#include <stdlib.h>
#include <string.h>
#if defined(__GNUC__) || defined(__clang__)
/* One copy of a function for each set of constants it is called with: 2D and 3D, a kernel. */
#define FSI__FORCE_INLINE static inline __attribute__((always_inline, unused))
#else
#define FSI__FORCE_INLINE FSI__INLINE
#endif
#ifdef FSI_SINGLE
#define FSI__MATH(name) name##f
#else
#define FSI__MATH(name) name
#endif
#define fsi__sqrt FSI__MATH(sqrt)
#define fsi__abs FSI__MATH(fabs)
#define fsi__sin FSI__MATH(sin)
#define fsi__cos FSI__MATH(cos)
#define fsi__exp FSI__MATH(exp)
#define fsi__log FSI__MATH(log)
#define fsi__pow FSI__MATH(pow)
#define fsi__atan2 FSI__MATH(atan2)
#define fsi__acos FSI__MATH(acos)
#define fsi__floor FSI__MATH(floor)
#define fsi__ceil FSI__MATH(ceil)
#define FSI__ROOT_EPS sqrt((double)FSI_REAL_EPS)
#ifdef __cplusplus
extern "C" {
#endif
FSI__INLINE fsi_real fsi__min(fsi_real a, fsi_real b) {
    return a < b ? a : b;
}

FSI__INLINE fsi_real fsi__max(fsi_real a, fsi_real b) {
    return a > b ? a : b;
}

FSI__INLINE fsi_real fsi__clamp(fsi_real x, fsi_real lo, fsi_real hi) {
    return x < lo ? lo : x > hi ? hi : x;
}

FSI__INLINE int fsi__imin(int a, int b) {
    return a < b ? a : b;
}

FSI__INLINE int fsi__imax(int a, int b) {
    return a > b ? a : b;
}

FSI__INLINE int fsi__iclamp(int x, int lo, int hi) {
    return x < lo ? lo : x > hi ? hi : x;
}

/* Exponent bits not all ones; works on bits because -ffast-math may remove x == x. */
FSI__INLINE int fsi__finite64(double x) {
    uint64_t b;
    memcpy(&b, &x, sizeof b);
    return (b & ((uint64_t)0x7ff << 52)) != (uint64_t)0x7ff << 52;
}

/* What a knob of a desc may be: finite and not negative. */
FSI__INLINE int fsi__knob(double x) {
    return x >= 0 && fsi__finite64(x);
}

FSI__INLINE int fsi__finite(fsi_real x) {
    return fsi__finite64((double)x);
}

/* A finite number above zero, as a time step must be. */
FSI__INLINE int fsi__positive(fsi_real x) {
    return fsi__finite(x) && x > 0;
}

/* A finite number that is not negative. */
FSI__INLINE int fsi__natural(fsi_real x) {
    return fsi__finite(x) && x >= 0;
}

FSI__INLINE int fsi__finite_vec(fsi_vec3 a) {
    return fsi__finite(a.x) && fsi__finite(a.y) && fsi__finite(a.z);
}

FSI__INLINE fsi_real fsi__length(fsi_vec3 a) {
    return fsi__sqrt(fsi_vec_dot(a, a));
}

FSI__INLINE fsi_vec3 fsi__unit(fsi_vec3 a) {
    fsi_real n = fsi__length(a);
    return n > 0 ? fsi_vec_scale(a, 1 / n) : a;
}

FSI__INLINE fsi_real fsi__get(fsi_vec3 a, int axis) {
    return axis == 0 ? a.x : axis == 1 ? a.y : a.z;
}

FSI__INLINE fsi_vec3 fsi__axis(int axis) {
    return fsi_vec((fsi_real)(axis == 0), (fsi_real)(axis == 1), (fsi_real)(axis == 2));
}

/* Vector i of an array [3 * n], and the ways to change it. */
FSI__INLINE fsi_vec3 fsi__vec_at(const fsi_real *list, ptrdiff_t i) {
    return fsi_vec_load(list + 3 * i);
}

FSI__INLINE void fsi__vec_put(fsi_real *list, ptrdiff_t i, fsi_vec3 value) {
    fsi_vec_store(list + 3 * i, value);
}

FSI__INLINE void fsi__vec_add_at(fsi_real *list, ptrdiff_t i, fsi_vec3 value) {
    fsi__vec_put(list, i, fsi_vec_add(fsi__vec_at(list, i), value));
}

/* A box of samples: cell centres, or the faces of one axis. Sample (i, j, k) has the number
   i + step[1] j + step[2] k; the upper neighbour along an axis is step[axis] further on. */
#define FSI__CELLS 3 /* as axis: cell centres */

typedef struct fsi__lattice {
    int n[3];              /* samples along each axis */
    ptrdiff_t step[3];     /* 1, n[0], n[0] n[1] */
    ptrdiff_t rows, count; /* n[1] n[2]; of all samples */
} fsi__lattice;

/* The lattice of a box of nx * ny * nz cells: faces of an axis (one more along it), or FSI__CELLS.
 */
FSI__INLINE fsi__lattice fsi__lattice_of(int nx, int ny, int nz, int axis) {
    fsi__lattice lattice;
    lattice.n[0] = nx + (axis == 0);
    lattice.n[1] = ny + (axis == 1);
    lattice.n[2] = nz + (axis == 2);
    lattice.step[0] = 1;
    lattice.step[1] = lattice.n[0];
    lattice.step[2] = (ptrdiff_t)lattice.n[0] * lattice.n[1];
    lattice.rows = (ptrdiff_t)lattice.n[1] * lattice.n[2];
    lattice.count = lattice.rows * lattice.n[0];
    return lattice;
}

/* The number of sample at[3] = (i, j, k). */
FSI__INLINE ptrdiff_t fsi__lattice_at(const fsi__lattice *lattice, const int *at) {
    return at[0] + lattice->step[1] * at[1] + lattice->step[2] * at[2];
}

/* (i, j, k) of the first sample of a row into at[3]. */
FSI__INLINE void fsi__lattice_row(const fsi__lattice *lattice, ptrdiff_t row, int *at) {
    at[0] = 0;
    at[1] = (int)(row % lattice->n[1]);
    at[2] = (int)(row / lattice->n[1]);
}

/* (i, j, k) of a sample into at[3]. */
FSI__INLINE void fsi__lattice_place(const fsi__lattice *lattice, ptrdiff_t sample, int *at) {
    fsi__lattice_row(lattice, sample / lattice->n[0], at);
    at[0] = (int)(sample % lattice->n[0]);
}

/* Is there a sample beside place at[], along an axis upwards (up = 1) or downwards? */
FSI__INLINE int fsi__lattice_has(const fsi__lattice *lattice, const int *at, int axis, int up) {
    return up ? at[axis] + 1 < lattice->n[axis] : at[axis] > 0;
}

/* The number of that sample, -1 = there is none. */
FSI__INLINE ptrdiff_t fsi__lattice_beside(const fsi__lattice *lattice, const int *at,
                                          ptrdiff_t sample, int axis, int up) {
    if (!fsi__lattice_has(lattice, at, axis, up))
        return -1;
    return up ? sample + lattice->step[axis] : sample - lattice->step[axis];
}

/* first of the set that i belongs to; shortens the way there */
FSI__INLINE int32_t fsi__root(int32_t *parent, int32_t i) {
    while (parent[i] != i)
        i = parent[i] = parent[parent[i]];
    return i;
}

/* Stable radix sort of n keys, 8 bits a pass; passes whose digit is the same everywhere are
 * skipped. Returns key or scratch. */
FSI__INLINE uint64_t *fsi__sort_keys(size_t n, uint64_t *key, uint64_t *scratch) {
    for (int shift = 0; shift < 64; shift += 8) {
        size_t count[256];
        size_t at = 0;
        uint64_t *t = key;
        memset(count, 0, sizeof count);
        for (size_t i = 0; i < n; i++)
            count[(key[i] >> shift) & 255u]++;
        if (n == 0 || count[(key[0] >> shift) & 255u] == n)
            continue;
        for (size_t i = 0; i < 256; i++) {
            size_t c = count[i];
            count[i] = at;
            at += c;
        }
        for (size_t i = 0; i < n; i++)
            scratch[count[(key[i] >> shift) & 255u]++] = key[i];
        key = scratch;
        scratch = t;
    }

    return key;
}

/* first i with key[i] >= k */
FSI__INLINE size_t fsi__lower_bound(size_t n, const uint64_t *key, uint64_t k) {
    size_t lo = 0;
    size_t hi = n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (key[mid] < k)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

FSI__INLINE uint64_t fsi__pair_key(int a, int b) {
    return (uint64_t)(uint32_t)a << 32 | (uint32_t)b;
}

/* For a typed pointer `array`: it becomes array[count] of the arena. */
#define FSI__TAKE(array, arena, count) fsi__arena_give(&(array), arena, count, sizeof *(array))

FSI__INLINE void fsi__arena_give(void *array, fsi_arena *arena, size_t count, size_t size) {
    void *memory = fsi_arena_take(arena, count, size);
    memcpy(array, &memory, sizeof memory);
}

/* A block of the size the arena has counted; the arena starts again, so that the same layout places
 * its arrays. */
FSI__INLINE fsi_result fsi__arena_open(fsi_arena *arena, const fsi_allocator *allocator) {
    if (arena->failed)
        return FSI_ERR_SIZE;

    arena->size = arena->used;
    arena->used = 0;
    arena->base = (unsigned char *)fsi_alloc(allocator, arena->size);
    return arena->base ? FSI_OK : FSI_ERR_MEMORY;
}

FSI__INLINE fsi_result fsi__arena_block(fsi_arena *arena, const fsi_allocator *allocator,
                                        void **block, size_t *size) {
    fsi_result result = fsi__arena_open(arena, allocator);
    *block = arena->base;
    *size = arena->size;
    return result;
}

/* ---- Lists that grow. A list is a plain pointer to its items, NULL while it is empty; the 64
   bytes in front of the items hold the size of the memory, so that a list needs no second field. */
typedef union fsi__list_head {
    size_t bytes;            /* room for items */
    unsigned char space[64]; /* keeps the items aligned */
} fsi__list_head;

/* Bytes of items the list has room for. */
FSI__INLINE size_t fsi__list_bytes(const void *list) {
    return list ? ((const fsi__list_head *)list)[-1].bytes : 0;
}

/* Frees the list whose pointer stands at `at`, and makes it empty. */
FSI__INLINE void fsi__list_free(void *at, const fsi_allocator *allocator) {
    void *list;
    memcpy(&list, at, sizeof list);
    if (list)
        fsi_free(allocator, (fsi__list_head *)list - 1,
                 sizeof(fsi__list_head) + fsi__list_bytes(list));
    memset(at, 0, sizeof list);
}

/* Makes room for count items in the list whose pointer stands at `at`. New items are zero; old ones
   are kept if `keep` says so. The first allocation is exact, later ones leave half and 64 items to
   spare. FSI_ERR_MEMORY, FSI_ERR_SIZE: the list is as before. */
FSI__INLINE fsi_result fsi__list_room(void *at, size_t count, size_t item, int keep,
                                      const fsi_allocator *allocator) {
    void *list;
    memcpy(&list, at, sizeof list);
    size_t room = fsi__list_bytes(list);
    size_t bytes;
    if (!fsi_size_mul(count ? count : 1, item, &bytes) || bytes > (size_t)-1 / 4)
        return FSI_ERR_SIZE;
    if (bytes <= room)
        return FSI_OK;
    if (room)
        bytes += bytes / 2 + 64 * item;

    fsi__list_head *head = (fsi__list_head *)fsi_alloc(allocator, sizeof *head + bytes);
    if (!head)
        return FSI_ERR_MEMORY;

    head->bytes = bytes;
    void *fresh = head + 1;
    if (keep && room)
        memcpy(fresh, list, room);
    fsi__list_free(at, allocator);
    memcpy(at, &fresh, sizeof fresh);

    return FSI_OK;
}

/* For a typed pointer `list`: if (FSI__LIST_ROOM(face->cut, cuts + 1, allocator) < 0) return ... */
#define FSI__LIST_ROOM(list, count, allocator)                                                     \
    fsi__list_room(&(list), (size_t)(count), sizeof *(list), 1, allocator)
#define FSI__LIST_FREE(list, allocator) fsi__list_free(&(list), allocator)

/* fsi__arena_open for a block that is kept from call to call: `block` is a list of bytes. What it
   held is lost when it grows, by a quarter more than is asked for. */
FSI__INLINE fsi_result fsi__arena_reopen(fsi_arena *arena, unsigned char **block,
                                         const fsi_allocator *allocator) {
    if (arena->failed)
        return FSI_ERR_SIZE;

    fsi_result result = FSI_OK;
    if (!*block || arena->used > fsi__list_bytes(*block))
        result = fsi__list_room(block, arena->used + arena->used / 4, 1, 0, allocator);
    arena->base = *block;
    arena->size = fsi__list_bytes(*block);
    arena->used = 0;
    return result;
}

/* The same as a loop whose body takes the arrays, once to count and once to place them:
       fsi_arena arena = FSI__ZERO;
       for (int turn = 0; fsi__arena_turn(&arena, turn, &block, allocator); turn++)
           FSI__TAKE(...);
       if (arena.failed)
           return FSI_ERR_MEMORY; */
FSI__INLINE int fsi__arena_turn(fsi_arena *arena, int turn, unsigned char **block,
                                const fsi_allocator *allocator) {
    if (turn == 1 && fsi__arena_reopen(arena, block, allocator) < 0)
        arena->failed = 1;
    return turn < 2 && !arena->failed;
}

/* ---- State in one block without pointers. Each object lists its fields once, in one function
   of this type, which runs for four purposes; nothing but a LOAD changes the object. A block may
   come from a stranger: a CHECK reads all of it, and only then a LOAD begins. */
typedef enum fsi__state_purpose {
    FSI__STATE_SIZE = 0, /* counts bytes */
    FSI__STATE_SAVE,     /* object -> block */
    FSI__STATE_CHECK,    /* is the block a state that this object can have? */
    FSI__STATE_LOAD      /* block -> object */
} fsi__state_purpose;

typedef struct fsi__state {
    fsi__state_purpose purpose;
    unsigned char *to;         /* SAVE: the block */
    const unsigned char *from; /* CHECK, LOAD: the block */
    size_t used;               /* bytes passed so far */
    size_t size;               /* bytes of the block */
    fsi_result result;         /* negative: the block is refused; nothing more is read */
} fsi__state;

typedef void fsi__state_fn(void *object, fsi__state *state);

/* The block is refused unless the condition holds. */
FSI__INLINE void fsi__state_require(fsi__state *state, int condition) {
    if (!condition && state->result >= 0)
        state->result = FSI_ERR_DATA;
}

/* Does this pass change the object? */
FSI__INLINE int fsi__state_loads(const fsi__state *state) {
    return state->purpose == FSI__STATE_LOAD && state->result >= 0;
}

/* Passes count items of size bytes, rounded up to 8 bytes; returns where they begin. */
FSI__INLINE size_t fsi__state_pass(fsi__state *state, size_t count, size_t size) {
    size_t at = state->used;
    size_t whole = (count * size + 7) & ~(size_t)7;
    if (state->from && whole > state->size - at)
        fsi__state_require(state, 0);
    else
        state->used += whole;
    return at;
}

/* A copy of count items. CHECK reads it as LOAD does: it is for a variable of the list, which is
 * tested there and goes to the object where fsi__state_loads. */
FSI__INLINE void fsi__state_copy(fsi__state *state, void *copy, size_t count, size_t size) {
    size_t bytes = count * size;
    size_t at = fsi__state_pass(state, count, size);
    if (!bytes || state->result < 0)
        return;
    if (state->from)
        memcpy(copy, state->from + at, bytes);
    if (state->to) {
        memcpy(state->to + at, copy, bytes);
        memset(state->to + at + bytes, 0, state->used - at - bytes);
    }
}

/* An array of the object in which any bytes will do. */
FSI__INLINE void fsi__state_field(fsi__state *state, void *field, size_t count, size_t size) {
    if (state->purpose == FSI__STATE_CHECK)
        fsi__state_pass(state, count, size);
    else
        fsi__state_copy(state, field, count, size);
}

/* An array of `room` numbers of the object, of which the first `count` lie within lo .. hi. */
FSI__INLINE void fsi__state_within(fsi__state *state, fsi_real *field, size_t room, size_t count,
                                   fsi_real lo, fsi_real hi) {
    size_t at = state->used;
    fsi__state_field(state, field, room, sizeof *field);
    if (state->purpose != FSI__STATE_CHECK || state->result < 0)
        return;
    int within = 1;
    for (size_t i = 0; i < count; i++) {
        fsi_real number;
        memcpy(&number, state->from + at + i * sizeof number, sizeof number);
        within &= number >= lo && number <= hi;
    }
    fsi__state_require(state, within);
}

/* An array of the object whose numbers are finite. */
FSI__INLINE void fsi__state_reals(fsi__state *state, fsi_real *field, size_t count) {
    fsi__state_within(state, field, count, count, -FSI_REAL_MAX, FSI_REAL_MAX);
}

/* An array of the object whose whole numbers lie within lo .. hi. */
FSI__INLINE void fsi__state_integers(fsi__state *state, int32_t *field, size_t count, int lo,
                                     int hi) {
    size_t at = state->used;
    fsi__state_field(state, field, count, sizeof *field);
    if (state->purpose != FSI__STATE_CHECK || state->result < 0)
        return;
    int within = 1;
    for (size_t i = 0; i < count; i++) {
        int32_t number;
        memcpy(&number, state->from + at + i * sizeof number, sizeof number);
        within &= number >= lo && number <= hi;
    }
    fsi__state_require(state, within);
}

/* Are the numbers from byte `begin` to byte `end` of a struct that was copied finite? */
FSI__INLINE void fsi__state_finite(fsi__state *state, const void *from, size_t begin, size_t end) {
    int finite = 1;
    for (size_t at = begin; at < end; at += sizeof(fsi_real)) {
        fsi_real number;
        memcpy(&number, (const unsigned char *)from + at, sizeof number);
        finite &= fsi__finite(number);
    }
    fsi__state_require(state, finite);
}

/* A whole number from lowest to highest; returns the block's where one is read, and the lowest
 * where that is refused: a list goes on to its end all the same. */
FSI__INLINE int64_t fsi__state_integer(fsi__state *state, int64_t number, int64_t lowest,
                                       int64_t highest) {
    fsi__state_copy(state, &number, 1, sizeof number);
    fsi__state_require(state, number >= lowest && number <= highest);
    return state->result < 0 ? lowest : number;
}

/* A number that object and block must agree on (a size, a count). */
FSI__INLINE void fsi__state_match(fsi__state *state, size_t number) {
    uint64_t found = number;
    fsi__state_copy(state, &found, 1, sizeof found);
    if (found != number && state->result >= 0)
        state->result = FSI_ERR_SIZE;
}

/* Every block begins with this. */
typedef struct fsi__state_head {
    uint32_t magic;      /* FSI__STATE_MAGIC, which also tells the order of bytes */
    uint32_t version;    /* of the lists of fields: FSI__STATE_VERSION */
    uint32_t real_bytes; /* 4 or 8 */
    uint32_t kind;       /* of the object, FSI__STATE_OF */
    uint64_t bytes;      /* of the block, this head included */
    uint64_t sum;        /* fsi__state_sum of what follows */
} fsi__state_head;

#define FSI__STATE_MAGIC 0x31495346u
#define FSI__STATE_VERSION 2u

/* Four letters that name a kind of object. */
#define FSI__STATE_OF(a, b, c, d)                                                                  \
    ((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24)

/* Tells damage from chance, not from malice: a stranger can make the sum fit. Bytes are a multiple
 * of 8; four sums side by side, because a multiplication waits for the one before it. */
FSI__INLINE uint64_t fsi__state_sum(const unsigned char *from, size_t bytes) {
    uint64_t lane[4] = {1, 2, 3, 4};
    for (size_t at = 0; at < bytes; at += 8) {
        uint64_t word;
        memcpy(&word, from + at, sizeof word);
        uint64_t *sum = lane + at / 8 % 4;
        *sum = (*sum ^ word) * 0x9e3779b97f4a7c15u;
        *sum ^= *sum >> 29;
    }
    uint64_t sum = bytes;
    for (int i = 0; i < 4; i++)
        sum = (sum ^ lane[i]) * 0x9e3779b97f4a7c15u;
    return sum;
}

/* Runs a list over a block behind its head. Only a LOAD changes the object, which is why the
 * others may have a constant one. */
FSI__INLINE fsi_result fsi__state_run(fsi__state_fn *list, const void *object, fsi__state *state) {
    void *own;
    memcpy(&own, &object, sizeof own);
    state->used = sizeof(fsi__state_head);
    list(own, state);
    return state->result;
}

/* Bytes of a block. */
FSI__INLINE size_t fsi__state_size(fsi__state_fn *list, const void *object) {
    fsi__state state = FSI__ZERO;
    fsi__state_run(list, object, &state);
    return state.used;
}

FSI__INLINE fsi_result fsi__state_save(fsi__state_fn *list, uint32_t kind, const void *object,
                                       void *block) {
    if (!block)
        return FSI_ERR_ARGUMENT;
    fsi__state state = FSI__ZERO;
    state.purpose = FSI__STATE_SAVE;
    state.to = (unsigned char *)block;
    fsi_result result = fsi__state_run(list, object, &state);
    fsi__state_head head = {FSI__STATE_MAGIC, FSI__STATE_VERSION, sizeof(fsi_real), kind, 0, 0};
    head.bytes = state.used;
    head.sum = fsi__state_sum(state.to + sizeof head, state.used - sizeof head);
    memcpy(block, &head, sizeof head);
    return result;
}

/* Would fsi__state_restore take this block? */
FSI__INLINE fsi_result fsi__state_check(fsi__state_fn *list, uint32_t kind, const void *object,
                                        const void *block, size_t size) {
    fsi__state_head head;
    if (!block)
        return FSI_ERR_ARGUMENT;
    if (size < sizeof head || size % 8)
        return FSI_ERR_SIZE;
    memcpy(&head, block, sizeof head);
    if (head.magic != FSI__STATE_MAGIC || head.version != FSI__STATE_VERSION)
        return FSI_ERR_DATA;
    if (head.real_bytes != sizeof(fsi_real) || head.kind != kind)
        return FSI_ERR_DATA;
    if (head.bytes != size)
        return FSI_ERR_SIZE;

    fsi__state state = FSI__ZERO;
    state.purpose = FSI__STATE_CHECK;
    state.from = (const unsigned char *)block;
    state.size = size;
    if (head.sum != fsi__state_sum(state.from + sizeof head, size - sizeof head))
        return FSI_ERR_DATA;
    fsi_result result = fsi__state_run(list, object, &state);
    return result >= 0 && state.used != size ? FSI_ERR_SIZE : result;
}

/* Refused blocks leave the object as it was. */
FSI__INLINE fsi_result fsi__state_restore(fsi__state_fn *list, uint32_t kind, void *object,
                                          const void *block, size_t size) {
    fsi_result result = fsi__state_check(list, kind, object, block, size);
    if (result < 0)
        return result;
    fsi__state state = FSI__ZERO;
    state.purpose = FSI__STATE_LOAD;
    state.from = (const unsigned char *)block;
    state.size = size;
    return fsi__state_run(list, object, &state);
}

/* ---- Cells of a lattice. A face is the cell on whose lower side it lies, and an axis. */
typedef struct fsi__ijk {
    int i;
    int j;
    int k;
} fsi__ijk;

FSI__INLINE fsi__ijk fsi__ijk_of(int i, int j, int k) {
    fsi__ijk cell;
    cell.i = i;
    cell.j = j;
    cell.k = k;
    return cell;
}

/* The number along one axis. */
FSI__INLINE int fsi__ijk_get(fsi__ijk cell, int axis) {
    return axis == 0 ? cell.i : axis == 1 ? cell.j : cell.k;
}

/* The cell `by` cells further along an axis. */
FSI__INLINE fsi__ijk fsi__ijk_step(fsi__ijk cell, int axis, int by) {
    return fsi__ijk_of(cell.i + (axis == 0 ? by : 0), cell.j + (axis == 1 ? by : 0),
                       cell.k + (axis == 2 ? by : 0));
}

/* ---- Nodal doors. y += scale B^T B x, on the nodes that move. */
FSI__INLINE void fsi__door_implicit(const fsi_coupled *door, const fsi_real *x, fsi_real scale,
                                    fsi_real *y) {
    const fsi_csr *matrix = door->implicit;
    for (int i = 0; matrix && i < matrix->rows; i++) {
        fsi_real image = 0;
        for (int k = matrix->row[i]; k < matrix->row[i + 1]; k++)
            image += matrix->val[k] * x[matrix->col[k]];
        for (int k = matrix->row[i]; k < matrix->row[i + 1]; k++)
            if (door->inverse_mass[matrix->col[k] / 3] > 0)
                y[matrix->col[k]] += scale * image * matrix->val[k];
    }
}

/* y += scale push, on the nodes that move. */
FSI__INLINE void fsi__door_push(const fsi_coupled *door, fsi_real scale, fsi_real *y) {
    for (int i = 0; door->node && door->push && i < door->dof; i++)
        if (door->inverse_mass[i / 3] > 0)
            y[i] += scale * door->push[i];
}

/* start - a . b, term by term in double: what every triangular solve is made of. */
FSI__INLINE double fsi__minus_dot(double start, size_t n, const fsi_real *a, const fsi_real *b) {
    for (size_t i = 0; i < n; i++)
        start -= (double)a[i] * (double)b[i];
    return start;
}

/* ---- Dense symmetric positive semi-definite matrices, row major [n * n], lower triangle.
   A = L L^T in place, sums in double. A pivot that cancelled to `tolerance` of its diagonal entry
   is rounding: its column of L becomes zero, and fsi__psd_solve leaves that unknown at zero.
   Returns the rank, or -1 when A is indefinite or not finite (L is semi-definite all the same).
   Inlined with a constant n the loops unroll. */
FSI__INLINE int fsi__psd_factor(size_t n, fsi_real *A, double tolerance) {
    int rank = 0;
    int indefinite = 0;

    for (size_t j = 0; j < n; j++) {
        /* l_jj^2 = a_jj - l_j . l_j */
        const fsi_real *row = A + j * n;
        double whole = (double)row[j];
        double pivot = fsi__minus_dot(whole, j, row, row);
        int good = fsi__finite64(pivot) && pivot > tolerance * whole && pivot > 0;
        if (!good && !(pivot >= -tolerance * fabs(whole)))
            indefinite = 1;
        A[j * n + j] = good ? (fsi_real)sqrt(pivot) : 0;
        rank += good;

        /* l_ij = (a_ij - l_i . l_j) / l_jj; nothing can stand beside a zero */
        double limit = FSI__ROOT_EPS * sqrt(fabs(whole));
        for (size_t i = j + 1; i < n; i++) {
            fsi_real *other = A + i * n;
            double sum = fsi__minus_dot((double)other[j], j, other, row);
            if (!good && fabs(sum) > limit * sqrt(fabs((double)other[i])))
                indefinite = 1;
            other[j] = good ? (fsi_real)(sum / (double)row[j]) : 0;
        }
    }

    return indefinite ? -1 : rank;
}

/* x = (L L^T)^-1 x; 0 where L has a zero pivot. */
FSI__INLINE void fsi__psd_solve(size_t n, const fsi_real *L, fsi_real *x) {
    for (size_t i = 0; i < n; i++) { /* x = L \ x */
        double sum = fsi__minus_dot((double)x[i], i, L + i * n, x);
        x[i] = L[i * n + i] > 0 ? (fsi_real)(sum / (double)L[i * n + i]) : 0;
    }
    for (size_t i = n; i-- > 0;) { /* x = L^T \ x */
        double sum = (double)x[i];
        for (size_t j = i + 1; j < n; j++)
            sum -= (double)L[j * n + i] * (double)x[j];
        x[i] = L[i * n + i] > 0 ? (fsi_real)(sum / (double)L[i * n + i]) : 0;
    }
}

/* ---- Queries on surfaces, for the tree of boxes and for the look-up of the particles' header. */
/* Bounds with room for the round-off of tests against them. */
FSI__INLINE void fsi__bounds_pad(fsi_real *lo, fsi_real *hi) {
    for (int k = 0; k < 3; k++) {
        fsi_real pad = 8 * FSI_REAL_EPS * fsi__max(fsi__abs(lo[k]), fsi__abs(hi[k]));
        lo[k] -= pad;
        hi[k] += pad;
    }
}

/* The squared distance at which a box may hold something within radius: a little more than the
   square, and no infinity. */
FSI__INLINE fsi_real fsi__ball_square(fsi_real radius) {
    int fits = radius < fsi__sqrt(FSI_REAL_MAX) / 2;
    return fits ? radius * radius * (1 + 8 * FSI_REAL_EPS) : FSI_REAL_MAX;
}

/* Order of hits: by distance, then by element, so that it does not depend on how they were found.
 */
FSI__INLINE int fsi__hit_before(const fsi_hit *a, const fsi_hit *b) {
    if (a->t == b->t)
        return a->element < b->element;
    return a->t < b->t;
}

/* Inserts a hit into the sorted list of the first `room` ones; count says how many there were. */
FSI__INLINE void fsi__hits_add(fsi_hit *hits, int room, int *count, const fsi_hit *hit) {
    int at = fsi__imin(*count, room);
    for (; at > 0 && fsi__hit_before(hit, hits + at - 1); at--)
        if (at < room)
            hits[at] = hits[at - 1];
    if (at < room)
        hits[at] = *hit;
    ++*count;
}

/* Repeatable random numbers (splitmix64): state advances by one per call. */
FSI__INLINE uint64_t fsi__random(uint64_t *state) {
    uint64_t z = (*state += ((uint64_t)0x9e3779b9u << 32 | 0x7f4a7c15u));
    z = (z ^ (z >> 30)) * ((uint64_t)0xbf58476du << 32 | 0x1ce4e5b9u);
    z = (z ^ (z >> 27)) * ((uint64_t)0x94d049bbu << 32 | 0x133111ebu);
    return z ^ (z >> 31);
}

FSI__INLINE fsi_real fsi__random_unit(uint64_t *state) { /* uniform in [0, 1) */
    return (fsi_real)((double)(fsi__random(state) >> 40) / 16777216.0);
}
#ifdef __cplusplus
}
#endif
#endif

#if defined(FSI_LINALG_IMPLEMENTATION) && !defined(FSI_LINALG_IMPLEMENTED)
#define FSI_LINALG_IMPLEMENTED
#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------
 * >>base */
FSI_API const char *fsi_result_text(fsi_result result) {
#define FSI__RESULT_CASE(name, value, text)                                                        \
    case name:                                                                                     \
        return text;

    switch (result) {
        FSI_RESULTS(FSI__RESULT_CASE)
    case FSI_RESULT_FORCE_INT:
        break;
    }
#undef FSI__RESULT_CASE
    return "unknown result";
}

/* Arrays share blocks, which hides reads past their ends from AddressSanitizer: with FSI__GUARD
 * (tests) a closed gap follows every one. */
#ifdef FSI__GUARD
#include <sanitizer/asan_interface.h>
#define FSI__GAP 64
#define FSI__CLOSE(p, bytes, room)                                                                 \
    (ASAN_UNPOISON_MEMORY_REGION(p, bytes),                                                        \
     ASAN_POISON_MEMORY_REGION((p) + (bytes), (room) - (bytes)))
#else
#define FSI__GAP 0
#define FSI__CLOSE(p, bytes, room) ((void)0)
#endif

FSI_API void *fsi_alloc(const fsi_allocator *allocator, size_t size) {
    if (size == 0 || size > (size_t)-1 / 2)
        return NULL;
    if (allocator && allocator->alloc_fn) {
        void *q = allocator->alloc_fn(size, 64, allocator->user);
        if (!q)
            return NULL;
        FSI__CLOSE((unsigned char *)q, size, size); /* a heap may hand out what had gaps */
        memset(q, 0, size);
        return q;
    }

    /* the byte before the block holds the shift back to raw */
    unsigned char *raw = (unsigned char *)calloc(size + 64, 1);
    if (!raw)
        return NULL;

    unsigned char *p = raw + (64 - (size_t)((uintptr_t)raw & 63u));
    p[-1] = (unsigned char)(p - raw);

    return p;
}

FSI_API void fsi_free(const fsi_allocator *allocator, void *ptr, size_t size) {
    unsigned char *p = (unsigned char *)ptr;
    if (!ptr)
        return;

    FSI__CLOSE(p, size, size);
    if (allocator && allocator->free_fn) {
        allocator->free_fn(ptr, size, allocator->user);
        return;
    }
    free(p - p[-1]);
}

FSI_API void *fsi_arena_take(fsi_arena *arena, size_t count, size_t size) {
    size_t bytes;
    size_t at = arena->used;
    if (!fsi_size_mul(count, size, &bytes) || bytes > (size_t)-1 / 2 || at > (size_t)-1 / 4) {
        arena->failed = 1;
        return NULL;
    }
    arena->used = ((at + bytes + 63) & ~(size_t)63) + FSI__GAP;
    if (!arena->base)
        return NULL;
    if (arena->used > arena->size) {
        arena->failed = 1;
        return NULL;
    }
    FSI__CLOSE(arena->base + at, bytes, arena->used - at);

    return arena->base + at;
}

/* 1 where the square of a length neither overflowed nor lost digits. */
static int fsi__ordinary(fsi_real length) {
    return length > (sizeof(fsi_real) == 8 ? FSI_R(1e-140) : FSI_R(1e-15))
           && length < (sizeof(fsi_real) == 8 ? FSI_R(1e140) : FSI_R(1e15));
}

FSI_API fsi_real fsi_vec_length(fsi_vec3 a) {
    fsi_real length = fsi__length(a);
    return fsi__ordinary(length) ? length
                                 : (fsi_real)hypot(hypot((double)a.x, (double)a.y), (double)a.z);
}

FSI_API fsi_vec3 fsi_vec_unit(fsi_vec3 a) {
    fsi_real most = fsi__max(fsi__abs(a.x), fsi__max(fsi__abs(a.y), fsi__abs(a.z)));
    return fsi__unit(
        fsi__ordinary(most) || !(most > 0) ? a : fsi_vec(a.x / most, a.y / most, a.z / most));
}

FSI_API int fsi_mat3_inverse(const fsi_mat3 *A, fsi_mat3 *out) {
    fsi_real det = fsi_mat3_det(A);
    if (!fsi__finite(det) || det == 0)
        return 0;
    fsi_real scale = 1 / det;
    if (!fsi__finite(scale))
        return 0;

    /* column j of the inverse: the cross product of the two other rows over det A */
    fsi_mat3 inverse;
    for (int j = 0; j < 3; j++) {
        fsi_vec3 cross = fsi_vec_cross(fsi_mat3_row(A, (j + 1) % 3), fsi_mat3_row(A, (j + 2) % 3));
        inverse.m[j] = cross.x * scale;
        inverse.m[3 + j] = cross.y * scale;
        inverse.m[6 + j] = cross.z * scale;
    }
    *out = inverse;
    return 1;
}

static fsi_quat fsi__quat_over(fsi_quat q, fsi_real divisor) {
    q.w /= divisor;
    q.x /= divisor;
    q.y /= divisor;
    q.z /= divisor;
    return q;
}

FSI_API fsi_quat fsi_quat_unit(fsi_quat q) {
    const fsi_quat identity = {1, 0, 0, 0};

    /* in units of the largest where squares would overflow or vanish */
    fsi_real most = fsi__max(fsi__abs(q.w), fsi__abs(q.x));
    most = fsi__max(most, fsi__max(fsi__abs(q.y), fsi__abs(q.z)));
    if (most > 0 && fsi__finite(most) && !fsi__ordinary(most))
        q = fsi__quat_over(q, most);

    fsi_real norm = fsi__sqrt(q.w * q.w + q.x * q.x + q.y * q.y + q.z * q.z);
    return norm > 0 && fsi__finite(norm) ? fsi__quat_over(q, norm) : identity;
}

FSI_API fsi_quat fsi_quat_from_rotation(fsi_vec3 a) {
    fsi_real angle = fsi_vec_length(a);
    fsi_real half = angle / 2;

    /* sin(t/2)/t near 0 */
    fsi_real scale = angle > FSI_R(1e-4) ? fsi__sin(half) / angle : FSI_R(0.5) - angle * angle / 48;
    fsi_quat q;
    q.w = fsi__cos(half);
    q.x = a.x * scale;
    q.y = a.y * scale;
    q.z = a.z * scale;
    return q;
}

/* ------------------------------------------------------------------------------------------------
 * >>arrays */
#define FSI__CHUNKS 256 /* fixed, so that sums do not depend on the number of threads */
#define FSI__GRAIN 8192 /* below this a loop runs on the caller's thread */
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__)
#define FSI__HOT                                                                                   \
    __attribute__((optimize(                                                                       \
        "O3", "no-trapping-math"))) /* gcc -O2 leaves these loops scalar: a factor three */
#else
#define FSI__HOT
#endif

/* Sum of a[i] b[i] in double, in lanes: a fixed order, and no chain of dependent additions. Eight
   suit the rows of multigrid, four the short vectors of dense algebra. */
#define FSI__DOT(name, type, lanes)                                                                \
    FSI__HOT static double name(size_t n, const type *FSI__RESTRICT a,                             \
                                const type *FSI__RESTRICT b) {                                     \
        double sum[lanes] = {0};                                                                   \
        size_t i;                                                                                  \
        for (i = 0; i + (lanes) <= n; i += (lanes))                                                \
            for (size_t lane = 0; lane < (lanes); lane++)                                          \
                sum[lane] += (double)a[i + lane] * (double)b[i + lane];                            \
        for (size_t lane = 0; i < n; i++, lane++)                                                  \
            sum[lane] += (double)a[i] * (double)b[i];                                              \
        for (size_t half = (lanes) / 2; half; half /= 2)                                           \
            for (size_t lane = 0; lane < half; lane++)                                             \
                sum[lane] += sum[lane + half];                                                     \
        return sum[0];                                                                             \
    }
FSI__DOT(fsi__dot_real, fsi_real, 4)
FSI__DOT(fsi__dot_row, fsi_real, 8)
FSI__DOT(fsi__dot_float, float, 8)
FSI__DOT(fsi__dot_double, double, 4)
#undef FSI__DOT

FSI_API double fsi_reduce(size_t n, double (*range_fn)(size_t, size_t, void *), void *user) {
    double part[FSI__CHUNKS];
    double total = 0;
    size_t chunk = (n / FSI__CHUNKS + 32) & ~(size_t)31; /* a multiple of the lanes */
    ptrdiff_t used = (ptrdiff_t)((n + chunk - 1) / chunk);
    if (n < 1024)
        return n ? range_fn(0, n, user) : 0;

    FSI__PARALLEL(n > FSI__GRAIN)
    for (ptrdiff_t number = 0; number < used; number++) {
        size_t begin = (size_t)number * chunk;
        size_t end = begin + chunk < n ? begin + chunk : n;
        part[number] = range_fn(begin, end, user);
    }
    for (ptrdiff_t number = 0; number < used; number++)
        total += part[number];

    return total;
}

typedef struct fsi__pair {
    const fsi_real *a;
    const fsi_real *b;
} fsi__pair;

static double fsi__dot_range(size_t begin, size_t end, void *user) {
    const fsi__pair *pair = (const fsi__pair *)user;
    return fsi__dot_real(end - begin, pair->a + begin, pair->b + begin);
}

static double fsi__sum_range(size_t begin, size_t end, void *user) {
    const fsi_real *a = ((const fsi__pair *)user)->a;
    double sum = 0;
    for (size_t i = begin; i < end; i++)
        sum += (double)a[i];
    return sum;
}

FSI_API double fsi_dot(size_t n, const fsi_real *a, const fsi_real *b) {
    fsi__pair pair;
    pair.a = a;
    pair.b = b;
    return fsi_reduce(n, fsi__dot_range, &pair);
}

FSI_API double fsi_sum(size_t n, const fsi_real *a) {
    fsi__pair pair;
    pair.a = a;
    pair.b = a;
    return fsi_reduce(n, fsi__sum_range, &pair);
}

/* Largest |a| as bits: of numbers without sign the bits order like the values, infinity above them
 * and NaN above that. */
#ifdef FSI_SINGLE
typedef uint32_t fsi__bits;
#define FSI__INF_BITS 0x7f800000u
#else
typedef uint64_t fsi__bits;
#define FSI__INF_BITS ((uint64_t)0x7ff << 52)
#endif
FSI__INLINE fsi__bits fsi__bits_max(fsi__bits m, const fsi_real *a) {
    fsi__bits b;
    memcpy(&b, a, sizeof b);
    b &= (fsi__bits)-1 >> 1;
    return b > m ? b : m;
}

static fsi__bits fsi__max_bits(size_t begin, size_t end, const fsi_real *a) {
    /* no sign; the lowest bit of the exponent */
    const fsi__bits all = (fsi__bits)-1 >> 1;
    const fsi__bits one = FSI__INF_BITS & (~FSI__INF_BITS + 1);
    fsi_real lane[8] = FSI__ZERO;
    fsi__bits wrong[8] = FSI__ZERO;
    fsi__bits most = 0;

    /* eight lanes: vector code */
    for (; begin + 8 <= end; begin += 8) {
        fsi__bits b[8];
        memcpy(b, a + begin, sizeof b);
        FSI__OMP(simd)
        for (int k = 0; k < 8; k++) {
            const fsi_real x = fsi__abs(a[begin + (size_t)k]);
            /* not finite: the sum runs over into the sign */
            wrong[k] |= (b[k] & all) + one;
            lane[k] = x > lane[k] ? x : lane[k];
        }
    }
    for (int k = 0; k < 8; k++)
        most = wrong[k] > all ? all : fsi__bits_max(most, lane + k);
    for (; begin < end; begin++)
        most = fsi__bits_max(most, a + begin);

    return most;
}

static fsi__bits fsi__max_all(size_t n, const fsi_real *a) {
    fsi__bits part[FSI__CHUNKS];
    fsi__bits most = 0;
    size_t chunk = n / FSI__CHUNKS + 1;
    ptrdiff_t used = (ptrdiff_t)((n + chunk - 1) / chunk);
    if (n < 1024)
        return fsi__max_bits(0, n, a);

    FSI__PARALLEL(n > FSI__GRAIN)
    for (ptrdiff_t c = 0; c < used; c++)
        part[c] = fsi__max_bits((size_t)c * chunk,
                                (size_t)c * chunk + chunk < n ? (size_t)c * chunk + chunk : n, a);
    for (ptrdiff_t c = 0; c < used; c++)
        most = part[c] > most ? part[c] : most;
    return most;
}

FSI_API fsi_real fsi_max_abs(size_t n, const fsi_real *a) {
    fsi__bits bits = fsi__max_all(n, a);
    fsi_real m;
    memcpy(&m, &bits, sizeof m);
    return m;
}

FSI_API int fsi_all_finite(size_t n, const fsi_real *a) {
    return fsi__max_all(n, a) < FSI__INF_BITS;
}

/* squares of a in units of *b */
static double fsi__scaled_range(size_t begin, size_t end, void *user) {
    const fsi__pair *pair = (const fsi__pair *)user;
    double sum = 0;
    double size = (double)*pair->b;
    for (size_t i = begin; i < end; i++)
        sum += ((double)pair->a[i] / size) * ((double)pair->a[i] / size);
    return sum;
}

FSI_API double fsi_norm(size_t n, const fsi_real *a) {
    double square = fsi_dot(n, a, a);
    if (square > 1e-280 && square < 1e300)
        return sqrt(square);

    /* squares overflowed or vanished: in units of the largest */
    fsi_real size = fsi_max_abs(n, a);
    fsi__pair pair;
    pair.a = a;
    pair.b = &size;
    return size > 0 && fsi__finite(size)
               ? (double)size * sqrt(fsi_reduce(n, fsi__scaled_range, &pair))
               : (double)size;
}

FSI__HOT FSI_API void fsi_axpy(size_t n, fsi_real s, const fsi_real *x, fsi_real *y) {
    ptrdiff_t count = (ptrdiff_t)n;

    /* entering a parallel region costs as much as some hundred entries */
    if (count <= FSI__GRAIN) {
        FSI__OMP(simd)
        for (ptrdiff_t i = 0; i < count; i++)
            y[i] += s * x[i];
        return;
    }
    FSI__OMP(parallel for simd schedule(static))
    for (ptrdiff_t i = 0; i < count; i++)
        y[i] += s * x[i];
}

FSI_API void fsi_xpay(size_t n, const fsi_real *x, fsi_real s, fsi_real *y) {
    ptrdiff_t count = (ptrdiff_t)n;
    FSI__PARALLEL(count > FSI__GRAIN)
    for (ptrdiff_t i = 0; i < count; i++)
        y[i] = x[i] + s * y[i];
}

FSI_API void fsi_scale(size_t n, fsi_real s, fsi_real *x) {
    ptrdiff_t count = (ptrdiff_t)n;
    FSI__PARALLEL(count > FSI__GRAIN)
    for (ptrdiff_t i = 0; i < count; i++)
        x[i] *= s;
}

FSI_API void fsi_copy(size_t n, const fsi_real *x, fsi_real *y) {
    if (n)
        memcpy(y, x, n * sizeof *y);
}

FSI_API void fsi_fill(size_t n, fsi_real s, fsi_real *x) {
    ptrdiff_t m = (ptrdiff_t)n;
    FSI__PARALLEL(m > FSI__GRAIN)
    for (ptrdiff_t i = 0; i < m; i++)
        x[i] = s;
}

/* ------------------------------------------------------------------------------------------------
 * >>csr */
static void fsi__csr_layout(fsi_csr *matrix, size_t entries, fsi_arena *arena) {
    FSI__TAKE(matrix->row, arena, (size_t)matrix->rows + 1);
    FSI__TAKE(matrix->col, arena, entries);
    FSI__TAKE(matrix->val, arena, entries);
}

static fsi_result fsi__csr_make(fsi_csr *matrix, int rows, int cols, size_t entries,
                                const fsi_allocator *allocator) {
    fsi_arena arena = FSI__ZERO;
    matrix->rows = rows;
    matrix->cols = cols;
    fsi__csr_layout(matrix, entries, &arena);
    fsi_result result = fsi__arena_open(&arena, allocator);
    if (result == FSI_OK)
        fsi__csr_layout(matrix, entries, &arena);
    return result;
}

/* Stable counting sort of the items listed in `in` by key. head has bins + 1 entries. */
static void fsi__bucket_sort(size_t count, const int32_t *key, int bins, int32_t *head,
                             const int32_t *in, int32_t *out) {
    memset(head, 0, ((size_t)bins + 1) * sizeof *head);
    for (size_t k = 0; k < count; k++)
        head[key[k] + 1]++;
    for (int b = 0; b < bins; b++)
        head[b + 1] += head[b];
    for (size_t k = 0; k < count; k++) {
        int32_t item = in ? in[k] : (int32_t)k;
        out[head[key[item]]++] = item;
    }
}

/* Writes the sorted items as rows; with A->row NULL it only counts the different places. */
static size_t fsi__csr_gather(size_t count, const int32_t *i, const int32_t *j, const fsi_real *v,
                              const int32_t *item, fsi_csr *matrix) {
    size_t k = 0;
    size_t used = 0;
    int row = 0;

    while (k < count) {
        int32_t row_of = i[item[k]];
        int32_t col_of = j[item[k]];
        double sum = 0;
        /* duplicates, in the order given */
        for (; k < count && i[item[k]] == row_of && j[item[k]] == col_of; k++)
            sum += (double)v[item[k]];
        if (matrix->row) {
            while (row < row_of)
                matrix->row[++row] = (int32_t)used;
            matrix->col[used] = col_of;
            matrix->val[used] = (fsi_real)sum;
        }
        used++;
    }
    if (matrix->row)
        while (row < matrix->rows)
            matrix->row[++row] = (int32_t)used;

    return used;
}

FSI_API fsi_result fsi_csr_from_triplets(fsi_csr *matrix, int rows, int cols, size_t count,
                                         const int32_t *i, const int32_t *j, const fsi_real *v,
                                         const fsi_allocator *allocator) {
    fsi_arena arena = FSI__ZERO;
    fsi_csr out = FSI__ZERO;
    size_t bins = (size_t)fsi__imax(fsi__imax(rows, cols), 0) + 1;
    fsi_result result = FSI_OK;
    if (!matrix || rows < 0 || cols < 0)
        return FSI_ERR_ARGUMENT;
    if (!fsi_allocator_valid(allocator) || (count && (!i || !j || !v)))
        return FSI_ERR_ARGUMENT;
    if (count > 0x7ffffffe || rows > 0x7ffffffe || cols > 0x7ffffffe)
        return FSI_ERR_SIZE;

    for (size_t k = 0; k < count; k++) {
        int inside = i[k] >= 0 && i[k] < rows && j[k] >= 0 && j[k] < cols;
        if (!inside || !fsi__finite(v[k]))
            return FSI_ERR_ARGUMENT;
    }

    /* sorted by rows, in rows by columns */
    int32_t *by_col;
    int32_t *by_row;
    int32_t *head;

    for (int pass = 0; pass < 2; pass++) {
        if (pass)
            result = fsi__arena_open(&arena, allocator);
        if (result != FSI_OK)
            return result;
        FSI__TAKE(by_col, &arena, count);
        FSI__TAKE(by_row, &arena, count);
        FSI__TAKE(head, &arena, bins);
    }
    fsi__bucket_sort(count, j, cols, head, NULL, by_col);
    fsi__bucket_sort(count, i, rows, head, by_col, by_row);

    /* duplicates are counted first, then summed */
    size_t used = fsi__csr_gather(count, i, j, v, by_row, &out);
    result = fsi__csr_make(&out, rows, cols, used, allocator);
    if (result == FSI_OK) {
        (void)fsi__csr_gather(count, i, j, v, by_row, &out);
        if (fsi_all_finite(used, out.val))
            *matrix = out;

        /* a sum of duplicates does not fit */
        else {
            fsi_csr_free(&out, allocator);
            result = FSI_ERR_NUMERIC;
        }
    }
    fsi_free(allocator, arena.base, arena.size);

    return result;
}

FSI_API void fsi_csr_free(fsi_csr *A, const fsi_allocator *allocator) {
    fsi_arena arena = FSI__ZERO;
    if (!A || !A->row)
        return;

    void *block = A->row;
    fsi_csr copy = *A;
    fsi__csr_layout(&copy, (size_t)A->row[A->rows], &arena);
    fsi_free(allocator, block, arena.used);
    memset(A, 0, sizeof *A);
}

FSI_API fsi_result fsi_csr_check(const fsi_csr *matrix) {
    if (!matrix || matrix->rows < 0 || matrix->cols < 0)
        return FSI_ERR_ARGUMENT;
    if (!matrix->row || matrix->row[0] != 0)
        return FSI_ERR_ARGUMENT;

    for (int i = 0; i < matrix->rows; i++)
        if (matrix->row[i + 1] < matrix->row[i])
            return FSI_ERR_ARGUMENT;
    if (matrix->row[matrix->rows] && (!matrix->col || !matrix->val))
        return FSI_ERR_ARGUMENT;

    for (int i = 0; i < matrix->rows; i++)
        for (int32_t k = matrix->row[i]; k < matrix->row[i + 1]; k++) {
            /* ascending, no duplicates */
            int32_t least = k > matrix->row[i] ? matrix->col[k - 1] + 1 : 0;
            if (matrix->col[k] < least || matrix->col[k] >= matrix->cols
                || !fsi__finite(matrix->val[k]))
                return FSI_ERR_ARGUMENT;
        }

    return FSI_OK;
}

/* A good matrix with as many columns as rows. */
static int fsi__csr_square(const fsi_csr *matrix) {
    return fsi_csr_check(matrix) == FSI_OK && matrix->rows == matrix->cols;
}

FSI_API void fsi_csr_mul(const fsi_csr *matrix, const fsi_real *x, fsi_real *y) {
    const int32_t *row = matrix->row;
    const int32_t *col = matrix->col;
    const fsi_real *val = matrix->val;
    ptrdiff_t rows = matrix->rows;
    FSI__PARALLEL(rows > FSI__GRAIN)
    for (ptrdiff_t i = 0; i < rows; i++) {
        fsi_real sum = 0;
        int32_t end = row[i + 1];
        for (int32_t k = row[i]; k < end; k++)
            sum += val[k] * x[col[k]];
        y[i] = sum;
    }
}

FSI_API void fsi_csr_tmul(const fsi_csr *matrix, const fsi_real *x, fsi_real *y) {
    fsi_fill((size_t)matrix->cols, 0, y);
    for (int i = 0; i < matrix->rows; i++)
        for (int32_t k = matrix->row[i]; k < matrix->row[i + 1]; k++)
            y[matrix->col[k]] += matrix->val[k] * x[i];
}

/* Entries of a pattern by columns: where each column starts (start[cols + 1], zeros before), and
 * for each entry its row, its place (unless NULL) and its value (unless NULL). */
static void fsi__csr_turn(const fsi_csr *matrix, int32_t *start, int32_t *row, int32_t *place,
                          fsi_real *val) {
    for (int32_t k = 0; k < matrix->row[matrix->rows]; k++)
        start[matrix->col[k] + 1]++;
    for (int j = 0; j < matrix->cols; j++)
        start[j + 1] += start[j];
    for (int i = 0; i < matrix->rows; i++)
        for (int32_t k = matrix->row[i]; k < matrix->row[i + 1]; k++) {
            /* start[j] runs from the start of column j to its end ... */
            int32_t at = start[matrix->col[k]]++;
            row[at] = i;
            if (place)
                place[at] = k;
            if (val)
                val[at] = matrix->val[k];
        }

    /* ... and is moved back by one column here */
    memmove(start + 1, start, (size_t)matrix->cols * sizeof *start);
    start[0] = 0;
}

FSI_API fsi_result fsi_csr_transpose(const fsi_csr *A, fsi_csr *T, const fsi_allocator *allocator) {
    fsi_csr out = FSI__ZERO;
    if (!T || !fsi_allocator_valid(allocator) || fsi_csr_check(A) != FSI_OK)
        return FSI_ERR_ARGUMENT;

    fsi_result result = fsi__csr_make(&out, A->cols, A->rows, (size_t)A->row[A->rows], allocator);
    if (result != FSI_OK)
        return result;

    fsi__csr_turn(A, out.row, out.col, NULL, out.val);
    *T = out;
    return FSI_OK;
}

/* Place of (i, j) in A, -1 when it is not stored. */
static int32_t fsi__csr_find(const int32_t *row, const int32_t *col, int32_t i, int32_t j) {
    int32_t lo = row[i];
    int32_t hi = row[i + 1];
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (col[mid] < j)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < row[i + 1] && col[lo] == j ? lo : -1;
}

static void fsi__csr_apply(const fsi_real *x, fsi_real *y, void *user) {
    fsi_csr_mul((const fsi_csr *)user, x, y);
}

static fsi_operator fsi__operator(fsi_apply_fn fn, const void *user) {
    fsi_operator op;
    op.apply_fn = fn;
    op.user = (void *)(uintptr_t)user; /* apply functions do not write through it */
    return op;
}

FSI_API fsi_operator fsi_csr_operator(const fsi_csr *matrix) {
    return fsi__operator(fsi__csr_apply, matrix);
}

/* ------------------------------------------------------------------------------------------------
 * >>krylov */

/* What the three iterations share: the caller's description, the target, the workspace and the
 * report. */
typedef struct fsi__krylov {
    const fsi_krylov_desc *desc;
    size_t n;
    const fsi_real *b;
    fsi_real **vector; /* work vectors of length n */
    double *doubles;   /* GMRES: Hessenberg matrix and rotations */
    double target;     /* stop when |b - A x| <= target */
    double size;       /* |b|, in the unit */
    /* b and x are multiplied by this power of two where their squares would overflow or vanish; 1
     * elsewhere */
    double unit;
    double checked; /* last recomputed residual that missed the target; < 0 = none yet */
    double began;   /* clock at the start */
    int cap;
    int incompatible;
    fsi_report report;
    fsi_arena arena;
    int owned;   /* 1: the block came from the allocator */
    int project; /* 1: project_fn is used */
} fsi__krylov;

/* A method: its iteration, what it needs, and which of its vectors the end of a solve may use. */
typedef struct fsi__method {
    fsi_result (*run_fn)(fsi__krylov *krylov, fsi_real *x);
    size_t vectors, doubles; /* of the workspace */
    int residual, scratch;   /* numbers of vectors */
    int start;               /* vector with a copy of the guess; -1 = none: zero */
    int keep;                /* 1: an x worse than the start is not returned */
    int symmetric;           /* 1: A is; project_fn counts */
} fsi__method;

/* When an iteration stops: tolerances and cap; seconds that need a clock. */
static int fsi__limits_valid(double tolerance, double absolute, int cap) {
    return fsi__knob(tolerance) && fsi__knob(absolute) && cap >= 0;
}

static int fsi__budget_valid(double seconds, int has_clock) {
    return fsi__knob(seconds) && (has_clock || !(seconds > 0));
}

static int fsi__krylov_valid(const fsi_krylov_desc *desc) {
    if (!desc || !desc->A.apply_fn || !fsi_allocator_valid(&desc->allocator))
        return 0;
    if (!fsi__limits_valid(desc->tolerance, desc->tolerance_abs, desc->max_iterations))
        return 0;
    if (!fsi__budget_valid(desc->seconds, desc->clock_fn != NULL))
        return 0;
    return desc->restart >= 0 && desc->restart < 100000;
}

static void fsi__krylov_layout(fsi__krylov *krylov, const fsi__method *method) {
    FSI__TAKE(krylov->vector, &krylov->arena, method->vectors);
    FSI__TAKE(krylov->doubles, &krylov->arena, method->doubles);
    for (size_t i = 0; i < method->vectors; i++) {
        fsi_real *vector;
        FSI__TAKE(vector, &krylov->arena, krylov->n);
        if (krylov->vector)
            krylov->vector[i] = vector;
    }
}

/* Bytes of workspace; 64 more to align the caller's block. */
static size_t fsi__krylov_size(const fsi_krylov_desc *desc, const fsi__method *method) {
    if (!fsi__krylov_valid(desc) || desc->n == 0)
        return 0;
    fsi__krylov krylov = FSI__ZERO;
    krylov.n = desc->n;
    fsi__krylov_layout(&krylov, method);
    return krylov.arena.failed ? 0 : krylov.arena.used + 64;
}

/* Room for the vectors: the caller's block or one of our own. */
static fsi_result fsi__krylov_room(fsi__krylov *krylov, const fsi__method *method, void *work,
                                   size_t work_size) {
    size_t need = fsi__krylov_size(krylov->desc, method);
    if (need == 0)
        return FSI_ERR_SIZE;
    if (work) {
        size_t skip = (64 - ((size_t)(uintptr_t)work & 63u)) & 63u;
        if (work_size < need)
            return FSI_ERR_SIZE;
        krylov->arena.base = (unsigned char *)work + skip;
        krylov->arena.size = work_size - skip;
    } else {
        krylov->arena.used = need;
        if (fsi__arena_open(&krylov->arena, &krylov->desc->allocator) != FSI_OK)
            return FSI_ERR_MEMORY;
        krylov->owned = 1;
    }
    fsi__krylov_layout(krylov, method);
    return krylov->arena.failed ? FSI_ERR_SIZE : FSI_OK;
}

/* A power of two that brings a largest entry to 1 when it lies outside the range where squares are
 * safe. */
static double fsi__krylov_unit(double largest) {
    const double safe = sizeof(fsi_real) == 8 ? 1e30 : 1e8;
    int e = 0;
    if (!(largest > 0) || (largest <= safe && largest >= 1 / safe))
        return 1;

    (void)frexp(largest, &e);
    return ldexp(
        1.0, -(sizeof(fsi_real) == 8 ? fsi__iclamp(e, -1000, 1000) : fsi__iclamp(e, -120, 120)));
}

/* r = b in the solver's unit */
static void fsi__krylov_rhs(const fsi__krylov *krylov, fsi_real *r) {
    fsi_copy(krylov->n, krylov->b, r);
    if (krylov->unit < 1 || krylov->unit > 1)
        fsi_scale(krylov->n, (fsi_real)krylov->unit, r);
}

/* Checks, workspace, unit, target, cap and clock; vector[0] is scratch here. FSI_EMPTY: n = 0,
   nothing to do. */
static fsi_result fsi__krylov_open(fsi__krylov *krylov, const fsi__method *method,
                                   const fsi_krylov_desc *desc, const fsi_real *b,
                                   const fsi_real *x, void *work, size_t work_size) {
    memset(krylov, 0, sizeof *krylov);
    if (!fsi__krylov_valid(desc))
        return FSI_ERR_ARGUMENT;
    if (desc->n == 0)
        return FSI_EMPTY;
    if (!b || !x || (desc->guess && !fsi_all_finite(desc->n, x)))
        return FSI_ERR_ARGUMENT;
    if (!fsi_all_finite(desc->n, b))
        return FSI_ERR_ARGUMENT;

    krylov->desc = desc;
    krylov->n = desc->n;
    krylov->b = b;
    krylov->checked = -1;
    krylov->project = method->symmetric && desc->project_fn;
    fsi_result result = fsi__krylov_room(krylov, method, work, work_size);
    if (result != FSI_OK)
        return result;

    krylov->unit = fsi__krylov_unit((double)fsi_max_abs(desc->n, b));
    fsi__krylov_rhs(krylov, krylov->vector[0]);
    krylov->size = fsi_norm(desc->n, krylov->vector[0]);
    krylov->target = (desc->tolerance > 0 ? desc->tolerance : 1e-6) * krylov->size;
    if (desc->tolerance_abs * krylov->unit > krylov->target)
        krylov->target = desc->tolerance_abs * krylov->unit;
    krylov->cap = desc->max_iterations ? desc->max_iterations
                  : desc->n < 990      ? (int)(10 * desc->n) + 100
                                       : 10000;
    krylov->began = desc->clock_fn ? desc->clock_fn(desc->clock_user) : 0;

    return FSI_OK;
}

static fsi_result fsi__krylov_close(fsi__krylov *krylov, fsi_result result, fsi_report *report) {
    if (result == FSI_EMPTY)
        result = FSI_OK;
    if (result >= 0 && krylov->incompatible)
        result = FSI_INCOMPATIBLE;
    krylov->report.reason = result;
    if (krylov->unit > 0) {
        krylov->report.residual /= krylov->unit;
        krylov->report.residual_start /= krylov->unit;
    }
    if (krylov->desc && krylov->desc->clock_fn)
        krylov->report.seconds = krylov->desc->clock_fn(krylov->desc->clock_user) - krylov->began;
    if (krylov->owned)
        fsi_free(&krylov->desc->allocator, krylov->arena.base, krylov->arena.size);

    /* the caller's block has no gaps */
    else if (krylov->arena.base)
        FSI__CLOSE(krylov->arena.base, krylov->arena.size, krylov->arena.size);
    if (report)
        *report = krylov->report;

    return result;
}

static void fsi__krylov_project(const fsi__krylov *krylov, fsi_real *x) {
    if (krylov->project)
        krylov->desc->project_fn(x, krylov->desc->project_user);
}

/* y = A x */
static void fsi__krylov_apply(const fsi__krylov *krylov, const fsi_real *x, fsi_real *y) {
    krylov->desc->A.apply_fn(x, y, krylov->desc->A.user);
}

/* z = P r */
static void fsi__krylov_precondition(const fsi__krylov *krylov, const fsi_real *r, fsi_real *z) {
    if (krylov->desc->precondition.apply_fn) {
        krylov->desc->precondition.apply_fn(r, z, krylov->desc->precondition.user);
        fsi__krylov_project(krylov, z);
    } else
        fsi_copy(krylov->n, r, z);
}

/* r = b - A x without its null-space part; returns |r| */
static double fsi__krylov_residual(const fsi__krylov *krylov, const fsi_real *x, fsi_real *r) {
    fsi__krylov_apply(krylov, x, r);
    fsi_scale(krylov->n, -1, r);
    fsi_axpy(krylov->n, (fsi_real)krylov->unit, krylov->b, r);
    fsi__krylov_project(krylov, r);
    return fsi_norm(krylov->n, r);
}

/* Start: r = b - A x for the guess if it passes its test, else x = 0. t is scratch. Returns |r|. */
static double fsi__krylov_start(fsi__krylov *krylov, fsi_real *x, fsi_real *r, fsi_real *t,
                                int energy) {
    fsi__krylov_rhs(krylov, r);
    fsi__krylov_project(krylov, r);
    double norm = fsi_norm(krylov->n, r);
    fsi__krylov_rhs(krylov, t);
    fsi_axpy(krylov->n, -1, r, t);
    double loss = fsi_norm(krylov->n, t); /* the part of b that A cannot reach */
    krylov->incompatible = loss > krylov->target && loss > 64 * (double)FSI_REAL_EPS * krylov->size;

    if (krylov->desc->guess && norm > 0) {
        fsi_scale(krylov->n, (fsi_real)krylov->unit, x);
        fsi__krylov_project(krylov, x);
        fsi__krylov_apply(krylov, x, t);
        double q =
            fsi_dot(krylov->n, x, t) / 2 - fsi_dot(krylov->n, x, r); /* q(x) = x.A x / 2 - b.x */
        fsi_xpay(krylov->n, r, -1, t);                               /* t = b - A x */
        fsi__krylov_project(krylov, t);
        double left = fsi_norm(krylov->n, t);
        if (fsi__finite64(left) && (energy ? q <= 0 : left <= norm)) {
            fsi_copy(krylov->n, t, r);
            return krylov->report.residual_start = krylov->report.residual = left;
        }
        krylov->report.restarts++;
    }
    fsi_fill(krylov->n, 0, x);

    return krylov->report.residual_start = krylov->report.residual = norm;
}

/* The size of A as far as its own image q tells: |A q| / |q|; *image = |q|. q is scaled, t is
 * scratch. */
static double fsi__krylov_magnitude(fsi__krylov *krylov, fsi_real *q, fsi_real *t, double *image) {
    *image = fsi_norm(krylov->n, q);
    if (!(*image > 0) || !fsi__finite((fsi_real)(1 / *image)))
        return 0;

    /* squares of A A p would overflow or vanish sooner */
    fsi_scale(krylov->n, (fsi_real)(1 / *image), q);
    fsi__krylov_apply(krylov, q, t);
    return fsi_norm(krylov->n, t);
}

/* What every solve ends with: the true residual of x, x finite and (with keep) not worse than the
   start, and the unit taken out. A residual that a symmetric A maps to nothing cannot be reduced: b
   is incompatible. */
static fsi_result fsi__krylov_finish(fsi__krylov *krylov, const fsi__method *method,
                                     fsi_result result, fsi_real *x) {
    fsi_real *r = krylov->vector[method->residual];
    fsi_real *scratch = krylov->vector[method->scratch];
    int whole = fsi_all_finite(krylov->n, x);
    double first = krylov->report.residual_start;
    double norm = krylov->report.residual;

    /* FSI_OK was given on the true residual */
    if (whole && result != FSI_OK)
        norm = fsi__krylov_residual(krylov, x, r);
    if (!whole || !fsi__finite64(norm) || (method->keep && norm > first)) {
        if (method->start >= 0)
            fsi_copy(krylov->n, krylov->vector[method->start], x);
        else
            fsi_fill(krylov->n, 0, x);
        norm = fsi__krylov_residual(krylov, x, r);
        if (!fsi__finite64(norm)) {
            norm = first;
            result = FSI_ERR_NUMERIC;
        } else if (result == FSI_OK)
            result = FSI_STALLED;
    }
    krylov->report.residual = norm;
    if (result > 0 && norm <= krylov->target)
        result = FSI_OK;
    if (method->symmetric && result > 0 && result != FSI_INCOMPATIBLE) {
        fsi__krylov_apply(krylov, r, scratch);
        double image;
        double size = fsi__krylov_magnitude(krylov, scratch, r, &image);
        if (image <= FSI__ROOT_EPS * size * norm)
            result = FSI_INCOMPATIBLE;
    }
    if (krylov->unit < 1 || krylov->unit > 1) {
        fsi_scale(krylov->n, (fsi_real)(1 / krylov->unit), x);
        if (!fsi_all_finite(krylov->n, x)) {
            fsi_fill(krylov->n, 0, x);
            krylov->report.residual = krylov->size;
            result = FSI_ERR_NUMERIC;
        }
    }

    return result;
}

/* After an iteration: FSI_OK to go on, FSI_NOT_CONVERGED to stop. */
static fsi_result fsi__krylov_limit(fsi__krylov *krylov) {
    if (krylov->report.iterations >= krylov->cap)
        return FSI_NOT_CONVERGED;
    if (krylov->desc->seconds > 0
        && krylov->desc->clock_fn(krylov->desc->clock_user) - krylov->began
               >= krylov->desc->seconds)
        return FSI_NOT_CONVERGED;
    return FSI_OK;
}

static int fsi__krylov_told(fsi__krylov *krylov, double residual, const fsi_real *x) {
    krylov->report.residual = residual;
    return krylov->desc->history_fn
           && krylov->desc->history_fn(krylov->report.iterations, residual, x,
                                       krylov->desc->history_user)
                  != 0;
}

/* The recurrence says it is done: recompute r = b - A x. FSI_OK: really done; FSI_EMPTY: go on from
 * the new r; FSI_STALLED. */
static fsi_result fsi__krylov_recheck(fsi__krylov *krylov, const fsi_real *x, fsi_real *r,
                                      double *norm) {
    *norm = fsi__krylov_residual(krylov, x, r);
    krylov->report.residual = *norm;
    if (!fsi__finite64(*norm))
        return FSI_ERR_NUMERIC;
    if (*norm <= krylov->target)
        return FSI_OK;

    /* rounding does not allow more */
    if (krylov->checked >= 0 && *norm > krylov->checked / 2)
        return FSI_STALLED;

    krylov->checked = *norm;
    krylov->report.restarts++;
    return FSI_EMPTY;
}

/* Before an iteration of a recurrence. steps: since r was computed from x; 0 afterwards: start
 * anew. FSI_EMPTY: go on; FSI_OK: done. */
static fsi_result fsi__krylov_next(fsi__krylov *krylov, const fsi_real *x, fsi_real *r,
                                   double *norm, int *steps) {
    if (!fsi__finite64(*norm))
        return FSI_ERR_NUMERIC;

    int told = fsi__krylov_told(krylov, *norm, x);
    fsi_result stop;
    if (*norm <= krylov->target) {
        stop = *steps ? fsi__krylov_recheck(krylov, x, r, norm) : FSI_OK;
        if (stop != FSI_EMPTY)
            return stop;
        *steps = 0;
    }
    stop = told ? FSI_NOT_CONVERGED : fsi__krylov_limit(krylov);
    return stop == FSI_OK ? FSI_EMPTY : stop;
}

/* The frame of all three: open, iterate, finish, close. */
static fsi_result fsi__krylov_solve(const fsi__method *method, const fsi_krylov_desc *desc,
                                    const fsi_real *b, fsi_real *x, void *work, size_t work_size,
                                    fsi_report *report) {
    fsi__krylov krylov;
    fsi_result result = fsi__krylov_open(&krylov, method, desc, b, x, work, work_size);
    if (result == FSI_OK)
        result = fsi__krylov_finish(&krylov, method, method->run_fn(&krylov, x), x);
    return fsi__krylov_close(&krylov, result, report);
}

/* ---- conjugate gradients */
/* x += alpha p, r -= alpha q; returns |r| */
static double fsi__cg_update(const fsi__krylov *krylov, fsi_real alpha, const fsi_real *p,
                             const fsi_real *q, fsi_real *x, fsi_real *r) {
    fsi_axpy(krylov->n, alpha, p, x);
    fsi_axpy(krylov->n, -alpha, q, r);
    return fsi_norm(krylov->n, r);
}

/* The direction p has no curvature. If A p is nothing against what A does to its own image, p lies
   in the null space and b has a part along it: incompatible; x goes back to saved or zero.
   Otherwise A is indefinite. t is scratch. */
static fsi_result fsi__cg_flat(fsi__krylov *krylov, fsi_real *x, const fsi_real *p, fsi_real *q,
                               fsi_real *t, const fsi_real *saved) {
    double pp = fsi_dot(krylov->n, p, p);
    double image;
    double size = fsi__krylov_magnitude(krylov, q, t, &image);
    if (!(image <= 16 * FSI__ROOT_EPS * size * sqrt(pp)))
        return FSI_BREAKDOWN;
    if (saved)
        fsi_copy(krylov->n, saved, x);
    else
        fsi_fill(krylov->n, 0, x);

    /* x without its part along the null vector */
    fsi_axpy(krylov->n, (fsi_real)(-fsi_dot(krylov->n, x, p) / pp), p, x);
    krylov->report.residual = fsi__krylov_residual(krylov, x, t);
    return FSI_INCOMPATIBLE;
}

/* Hestenes and Stiefel with preconditioner. pi = p.P^-1 p follows from rho and beta, so the
 * curvature test costs nothing. */
static fsi_result fsi__cg_run(fsi__krylov *krylov, fsi_real *x) {
    fsi_real *r = krylov->vector[0];
    fsi_real *z = krylov->vector[1];
    fsi_real *p = krylov->vector[2];
    fsi_real *q = krylov->vector[3];
    double rho = 0;
    double pi = 0;
    double steepest = 0;
    double norm = fsi__krylov_start(krylov, x, r, z, 1);
    double first = norm;

    /* larger residuals mean a step along a null vector */
    double most = (krylov->size + norm) / FSI__ROOT_EPS * 16;

    /* residual of the best x so far, kept in v[4] */
    double best = norm;

    for (int steps = 0;; steps++) {
        double was = norm;
        fsi_result stop = fsi__krylov_next(krylov, x, r, &norm, &steps);
        if (stop != FSI_EMPTY)
            return stop;
        fsi__krylov_precondition(krylov, r, z);
        double rz = fsi_dot(krylov->n, r, z);
        if (!fsi__finite64(rz))
            return FSI_ERR_NUMERIC;
        if (!(rz > 0))
            return FSI_BREAKDOWN; /* P is not positive definite */
        double beta = steps ? rz / rho : 0;
        if (beta > 0)
            fsi_xpay(krylov->n, z, (fsi_real)beta, p); /* p = z + beta p */
        else
            fsi_copy(krylov->n, z, p);
        pi = rz + beta * beta * pi;
        rho = rz;
        fsi__krylov_apply(krylov, p, q);
        double curvature = fsi_dot(krylov->n, p, q);
        if (!fsi__finite64(curvature))
            return FSI_ERR_NUMERIC;
        krylov->report.iterations++;
        if (curvature <= 64 * (double)FSI_REAL_EPS * steepest * pi
            || !fsi__finite((fsi_real)(rz / curvature)))
            return fsi__cg_flat(krylov, x, p, q, z, best < first ? krylov->vector[4] : NULL);
        if (curvature > steepest * pi)
            steepest = curvature / pi;

        /* p may be turning into a null vector: keep the best x */
        if (curvature < 0.1 * steepest * pi && norm < 0.8 * best) {
            fsi_copy(krylov->n, x, krylov->vector[4]);
            best = norm;
        }
        norm = fsi__cg_update(krylov, (fsi_real)(rz / curvature), p, q, x, r);
        if (norm > most) {
            krylov->report.residual = was;
            fsi__cg_update(krylov, (fsi_real)(-rz / curvature), p, q, x, r); /* undo */
            return fsi__cg_flat(krylov, x, p, q, z, best < first ? krylov->vector[4] : NULL);
        }
    }
}

static fsi__method fsi__cg_method(void) {
    fsi__method method = {fsi__cg_run, 5, 0, 0, 1, -1, 0, 1};
    return method;
}

FSI_API size_t fsi_cg_work_size(const fsi_krylov_desc *desc) {
    fsi__method method = fsi__cg_method();
    return fsi__krylov_size(desc, &method);
}

FSI_API fsi_result fsi_cg_solve(const fsi_krylov_desc *desc, const fsi_real *b, fsi_real *x,
                                void *work, size_t work_size, fsi_report *report) {
    fsi__method method = fsi__cg_method();
    return fsi__krylov_solve(&method, desc, b, x, work, work_size, report);
}

/* ---- SYMMQMR, by coupled two-term recurrences
     r           residual of the underlying (conjugate-gradient like) iterate
     q, t        direction, t = A q
     d, e        step of x, e = A d
     s           residual of x, b - A x
     tau, theta  quasi-residual norm and its ratio
     rho, sigma  r.P r, q.A q */
typedef struct fsi__qmr {
    double tau;
    double theta;
    double rho;
} fsi__qmr;

/* One step; FSI_BREAKDOWN when sigma = 0. */
static fsi_result fsi__symmqmr_step(fsi__krylov *krylov, fsi__qmr *qmr, fsi_real *x) {
    fsi_real *r = krylov->vector[0];
    fsi_real *q = krylov->vector[1];
    fsi_real *t = krylov->vector[2];
    fsi_real *d = krylov->vector[3];
    fsi_real *e = krylov->vector[4];
    fsi_real *s = krylov->vector[5];
    fsi__krylov_apply(krylov, q, t);
    krylov->report.iterations++;
    double sigma = fsi_dot(krylov->n, q, t);
    if (!fsi__finite64(sigma))
        return FSI_ERR_NUMERIC;
    if (fabs(sigma) <= 4 * (double)FSI_REAL_EPS * fsi_norm(krylov->n, q) * fsi_norm(krylov->n, t))
        return FSI_BREAKDOWN;

    double alpha = qmr->rho / sigma;
    if (!fsi__finite((fsi_real)alpha))
        return FSI_BREAKDOWN;

    fsi_axpy(krylov->n, (fsi_real)-alpha, t, r); /* r -= alpha A q */
    double theta = fsi_norm(krylov->n, r) / qmr->tau;
    double cc = 1 / (1 + theta * theta); /* c^2 */
    double keep = cc * qmr->theta * qmr->theta;
    fsi_scale(krylov->n, (fsi_real)keep, d);

    /* d = c^2 theta_old^2 d + c^2 alpha q */
    fsi_axpy(krylov->n, (fsi_real)(cc * alpha), q, d);
    fsi_scale(krylov->n, (fsi_real)keep, e);

    /* e = A d by the same recurrence */
    fsi_axpy(krylov->n, (fsi_real)(cc * alpha), t, e);
    fsi_axpy(krylov->n, 1, d, x);
    fsi_axpy(krylov->n, -1, e, s);
    qmr->tau *= theta * sqrt(cc);
    qmr->theta = theta;

    return FSI_OK;
}

/* Next direction q = P r + beta q; FSI_BREAKDOWN when r.P r = 0. first: q = P r. */
static fsi_result fsi__symmqmr_turn(fsi__krylov *krylov, fsi__qmr *qmr, int first) {
    fsi_real *r = krylov->vector[0];
    fsi_real *q = krylov->vector[1];
    fsi_real *u = krylov->vector[2];
    fsi__krylov_precondition(krylov, r, u);
    double rho = fsi_dot(krylov->n, r, u);
    if (!fsi__finite64(rho))
        return FSI_ERR_NUMERIC;
    if (fabs(rho) <= 4 * (double)FSI_REAL_EPS * fsi_norm(krylov->n, r) * fsi_norm(krylov->n, u))
        return FSI_BREAKDOWN;
    if (first)
        fsi_copy(krylov->n, u, q);
    else
        fsi_xpay(krylov->n, u, (fsi_real)(rho / qmr->rho), q);
    qmr->rho = rho;

    return FSI_OK;
}

/* (Re)start from the residual s. */
static fsi_result fsi__symmqmr_begin(fsi__krylov *krylov, fsi__qmr *qmr, double norm) {
    fsi_copy(krylov->n, krylov->vector[5], krylov->vector[0]);
    fsi_fill(krylov->n, 0, krylov->vector[3]);
    fsi_fill(krylov->n, 0, krylov->vector[4]);
    qmr->tau = norm;
    qmr->theta = 0;
    return fsi__symmqmr_turn(krylov, qmr, 1);
}

static fsi_result fsi__symmqmr_run(fsi__krylov *krylov, fsi_real *x) {
    fsi_real *s = krylov->vector[5];
    fsi__qmr qmr = FSI__ZERO;
    double norm = fsi__krylov_start(krylov, x, s, krylov->vector[2], 0);
    int steps = 0;
    if (krylov->desc->guess)
        fsi_copy(krylov->n, x, krylov->vector[6]);
    for (;;) {
        fsi_result stop = fsi__krylov_next(krylov, x, s, &norm, &steps);
        if (stop != FSI_EMPTY)
            return stop;
        stop = steps ? fsi__symmqmr_turn(krylov, &qmr, 0) : fsi__symmqmr_begin(krylov, &qmr, norm);
        if (stop == FSI_OK)
            stop = fsi__symmqmr_step(krylov, &qmr, x);
        if (stop == FSI_BREAKDOWN && steps) { /* once more from the present residual */
            norm = fsi__krylov_residual(krylov, x, s);
            krylov->report.restarts++;
            steps = 0;
            continue;
        }
        if (stop != FSI_OK)
            return stop;
        norm = fsi_norm(krylov->n, s);
        steps++;
    }
}

/* The guess is kept beside: quasi-minimal residuals may end above it. */
static fsi__method fsi__symmqmr_method(const fsi_krylov_desc *desc) {
    fsi__method method = {fsi__symmqmr_run, 6, 0, 5, 2, -1, 1, 1};
    if (desc && desc->guess) {
        method.start = 6;
        method.vectors = 7;
    }
    return method;
}

FSI_API size_t fsi_symmqmr_work_size(const fsi_krylov_desc *desc) {
    fsi__method method = fsi__symmqmr_method(desc);
    return fsi__krylov_size(desc, &method);
}

FSI_API fsi_result fsi_symmqmr_solve(const fsi_krylov_desc *desc, const fsi_real *b, fsi_real *x,
                                     void *work, size_t work_size, fsi_report *report) {
    fsi__method method = fsi__symmqmr_method(desc);
    return fsi__krylov_solve(&method, desc, b, x, work, work_size, report);
}

/* ---- GMRES: V orthonormal basis, z = P v, H = V^T A P V made upper triangular by rotations (c,
   s), g the right-hand side turned with it. Vectors: 0 z, 1 the old x, from 2 on V. */
static size_t fsi__gmres_restart(const fsi_krylov_desc *desc) {
    size_t m = desc && desc->restart > 0 ? (size_t)desc->restart : 30;
    return desc && desc->n < m && desc->n > 0 ? desc->n : m; /* n vectors span everything */
}

/* w = A P v_j made orthogonal to v_0..v_j (twice, for clusters); column j of H; returns |w| left
 * over. */
static double fsi__gmres_extend(fsi__krylov *krylov, size_t j, double *h) {
    fsi_real **V = krylov->vector + 2;
    fsi_real *z = krylov->vector[0];
    fsi_real *w = V[j + 1];
    fsi__krylov_precondition(krylov, V[j], z);
    fsi__krylov_apply(krylov, z, w);
    for (size_t i = 0; i <= j; i++)
        h[i] = 0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i <= j; i++) {
            double c = fsi_dot(krylov->n, V[i], w);
            fsi_axpy(krylov->n, (fsi_real)-c, V[i], w);
            h[i] += c;
        }
    return fsi_norm(krylov->n, w);
}

/* x += P V y with R y = g; R upper triangular, column j at H + j (m + 1). The old x is left in u.
 * Returns 0 when R is singular. */
static int fsi__gmres_gather(fsi__krylov *krylov, size_t m, size_t used, const double *H, double *g,
                             fsi_real *x) {
    fsi_real **V = krylov->vector + 2;
    fsi_real *z = krylov->vector[0];
    fsi_real *u = krylov->vector[1];
    double top = 0;
    for (size_t j = 0; j < used; j++)
        if (fabs(H[j * (m + 1) + j]) > top)
            top = fabs(H[j * (m + 1) + j]);

    /* A is singular on the last vector */
    while (used > 0 && fabs(H[(used - 1) * (m + 1) + used - 1]) <= top * (double)FSI_REAL_EPS)
        used--;
    for (size_t j = used; j-- > 0;) {
        g[j] /= H[j * (m + 1) + j];
        if (!fsi__finite((fsi_real)g[j])) {
            used = 0;
            break;
        }
        for (size_t i = 0; i < j; i++)
            g[i] -= H[j * (m + 1) + i] * g[j];
    }
    fsi_fill(krylov->n, 0, u);
    for (size_t j = 0; j < used; j++)
        fsi_axpy(krylov->n, (fsi_real)g[j], V[j], u);
    if (used)
        fsi__krylov_precondition(krylov, u, z);
    fsi_copy(krylov->n, x, u);
    if (used)
        fsi_axpy(krylov->n, 1, z, x);

    return used > 0;
}

/* One cycle from the residual in V[0] (norm given). Afterwards x is updated. */
static fsi_result fsi__gmres_cycle(fsi__krylov *krylov, size_t m, double norm, fsi_real *x) {
    double *H = krylov->doubles;
    double *g = H + m * (m + 1);
    double *c = g + m + 1;
    double *s = c + m;
    fsi_real **V = krylov->vector + 2;
    fsi_result stop = FSI_OK;
    fsi_scale(krylov->n, (fsi_real)(1 / norm), V[0]);
    g[0] = norm;
    size_t j;

    for (j = 0; j < m && stop == FSI_OK; j++) {
        double *h = H + j * (m + 1);
        double rest = fsi__gmres_extend(krylov, j, h);
        double whole = rest;
        if (!fsi__finite64(rest))
            return FSI_ERR_NUMERIC;
        for (size_t i = 0; i <= j; i++)
            whole = hypot(whole, h[i]);

        /* the space is exhausted: happy breakdown */
        if (rest <= 8 * (double)FSI_REAL_EPS * whole)
            rest = 0;
        double t;
        for (size_t i = 0; i < j; i++) {
            t = c[i] * h[i] + s[i] * h[i + 1];
            h[i + 1] = c[i] * h[i + 1] - s[i] * h[i];
            h[i] = t;
        }
        t = hypot(h[j], rest);
        c[j] = t > 0 ? h[j] / t : 1;
        s[j] = t > 0 ? rest / t : 0;
        h[j] = t;
        g[j + 1] = -s[j] * g[j];
        g[j] *= c[j];
        krylov->report.iterations++;
        if (fsi__krylov_told(krylov, fabs(g[j + 1]), x))
            stop = FSI_NOT_CONVERGED;
        else if (fabs(g[j + 1]) <= krylov->target || rest == 0)
            stop = FSI_EMPTY;
        else
            stop = fsi__krylov_limit(krylov);
        if (rest > 0)
            fsi_scale(krylov->n, (fsi_real)(1 / rest), V[j + 1]);
    }
    if (!fsi__gmres_gather(krylov, m, j, H, g, x))
        return FSI_BREAKDOWN;
    return stop == FSI_EMPTY ? FSI_OK : stop;
}

static fsi_result fsi__gmres_run(fsi__krylov *krylov, fsi_real *x) {
    size_t m = fsi__gmres_restart(krylov->desc);
    double norm = fsi__krylov_start(krylov, x, krylov->vector[2], krylov->vector[0], 0);
    if (fsi__finite64(norm) && fsi__krylov_told(krylov, norm, x) && norm > krylov->target)
        return FSI_NOT_CONVERGED;

    for (;;) {
        double was = norm;
        if (!fsi__finite64(norm))
            return FSI_ERR_NUMERIC;
        if (norm <= krylov->target)
            return FSI_OK;
        fsi_result stop = fsi__krylov_limit(krylov);
        if (stop != FSI_OK)
            return stop;
        stop = fsi__gmres_cycle(krylov, m, norm, x);
        if (stop < 0)
            return stop;
        norm = fsi__krylov_residual(krylov, x, krylov->vector[2]);

        /* rounding spoilt the step: back to the x before */
        if (!(norm <= was)) {
            fsi_copy(krylov->n, krylov->vector[1], x);
            norm = was;
            if (stop == FSI_OK)
                stop = FSI_STALLED;
        }
        krylov->report.residual = norm;
        if (stop != FSI_OK)
            return norm <= krylov->target ? FSI_OK : stop;
        if (norm > krylov->target) {
            /* the next cycle would be the same */
            if (norm >= was * (1 - 1e-8))
                return FSI_STALLED;
            krylov->report.restarts++;
        }
    }
}

/* Doubles: H by columns of m + 1, g, and m rotations. */
static fsi__method fsi__gmres_method(const fsi_krylov_desc *desc) {
    size_t m = fsi__gmres_restart(desc);
    fsi__method method = {fsi__gmres_run, m + 3, m * (m + 1) + (m + 1) + 2 * m, 2, 0, -1, 0, 0};
    return method;
}

FSI_API size_t fsi_gmres_work_size(const fsi_krylov_desc *desc) {
    fsi__method method = fsi__gmres_method(desc);
    return fsi__krylov_size(desc, &method);
}

FSI_API fsi_result fsi_gmres_solve(const fsi_krylov_desc *desc, const fsi_real *b, fsi_real *x,
                                   void *work, size_t work_size, fsi_report *report) {
    fsi__method method = fsi__gmres_method(desc);
    return fsi__krylov_solve(&method, desc, b, x, work, work_size, report);
}

/* ------------------------------------------------------------------------------------------------
 * >>dense */
FSI_API fsi_result fsi_dense_cholesky(int n, fsi_real *A) {
    size_t size = (size_t)n;
    if (n < 0 || (n && !A))
        return FSI_ERR_ARGUMENT;

    for (size_t i = 0; i < size; i++)
        if (!fsi_all_finite(i + 1, A + i * size))
            return FSI_ERR_ARGUMENT;
    return fsi__psd_factor(size, A, 4 * (double)FSI_REAL_EPS) == n ? FSI_OK : FSI_ERR_SINGULAR;
}

FSI_API void fsi_dense_cholesky_solve(int n, const fsi_real *L, fsi_real *x) {
    fsi__psd_solve((size_t)n, L, x);
}

static void fsi__swap(fsi_real *a, fsi_real *b) {
    fsi_real old = *a;
    *a = *b;
    *b = old;
}

FSI_API fsi_result fsi_dense_lu(int n, fsi_real *A, int32_t *pivot) {
    size_t size = (size_t)n;
    if (n < 0 || (n && (!A || !pivot)))
        return FSI_ERR_ARGUMENT;
    if (!fsi_all_finite(size * size, A))
        return FSI_ERR_ARGUMENT;

    for (size_t k = 0; k < size; k++) {
        /* the largest entry of the column becomes the pivot */
        fsi_real *row = A + k * size;
        size_t best = k;
        for (size_t i = k + 1; i < size; i++)
            if (fsi__abs(A[i * size + k]) > fsi__abs(A[best * size + k]))
                best = i;
        pivot[k] = (int32_t)best;
        for (size_t j = 0; best != k && j < size; j++)
            fsi__swap(&row[j], &A[best * size + j]);
        if (row[k] == 0 || !fsi__finite(row[k]))
            return FSI_ERR_SINGULAR;

        /* row_i -= l_ik row_k, l_ik in place of the zero */
        for (size_t i = k + 1; i < size; i++) {
            fsi_real *other = A + i * size;
            fsi_real factor = other[k] /= row[k];
            if (factor != 0)
                for (size_t j = k + 1; j < size; j++)
                    other[j] -= factor * row[j];
        }
    }

    return fsi_all_finite(size * size, A) ? FSI_OK : FSI_ERR_SINGULAR;
}

FSI_API void fsi_dense_lu_solve(int n, const fsi_real *A, const int32_t *pivot, fsi_real *x) {
    size_t size = (size_t)n;
    for (size_t i = 0; i < size; i++)
        fsi__swap(&x[i], &x[pivot[i]]);
    for (size_t i = 0; i < size; i++) /* x = L \ x */
        x[i] = (fsi_real)fsi__minus_dot((double)x[i], i, A + i * size, x);
    for (size_t i = size; i-- > 0;) { /* x = U \ x */
        const fsi_real *row = A + i * size;
        double sum = fsi__minus_dot((double)x[i], size - i - 1, row + i + 1, x + i + 1);
        x[i] = (fsi_real)(sum / (double)row[i]);
    }
}

/* ------------------------------------------------------------------------------------------------
 * >>qr */
/* c -= tau v (v.c) from row k on; v = (1, column k of A below the diagonal) */
static void fsi__reflect(size_t rows, size_t k, const fsi_real *v, fsi_real tau, fsi_real *c) {
    size_t rest = rows - k - 1;
    fsi_real factor =
        (fsi_real)((double)tau * ((double)c[k] + fsi_dot(rest, v + k + 1, c + k + 1)));
    if (factor == 0)
        return;
    c[k] -= factor;
    fsi_axpy(rest, -factor, v + k + 1, c + k + 1);
}

/* Brings the longest remaining column to place k; a tie within rounding swaps nothing. Norms are
 * recomputed, not updated: no cancellation. */
static double fsi__qr_pivot(size_t rows, size_t cols, size_t k, fsi_real *A, int32_t *pivot) {
    double best = fsi_norm(rows - k, A + k * rows + k);
    size_t at = k;
    for (size_t j = k + 1; j < cols; j++) {
        double norm = fsi_norm(rows - k, A + j * rows + k);
        if (norm > best * (1 + 64 * (double)FSI_REAL_EPS)) {
            best = norm;
            at = j;
        }
    }
    if (at != k) {
        int32_t swap = pivot[k];
        pivot[k] = pivot[at];
        pivot[at] = swap;
        for (size_t i = 0; i < rows; i++)
            fsi__swap(&A[k * rows + i], &A[at * rows + i]);
    }

    return best;
}

FSI_API fsi_result fsi_qr_factor(int rows, int cols, fsi_real *A, fsi_real *tau, int32_t *pivot,
                                 double tolerance, int *rank) {
    size_t height = (size_t)rows;
    size_t width = (size_t)cols;
    size_t least = (size_t)fsi__imin(rows, cols);
    double first = 0;
    if (rows < 0 || cols < 0 || !rank || !fsi__knob(tolerance))
        return FSI_ERR_ARGUMENT;
    if (width && (!tau || !pivot))
        return FSI_ERR_ARGUMENT;
    if (height && width && (!A || !fsi_all_finite(height * width, A)))
        return FSI_ERR_ARGUMENT;
    if (tolerance == 0)
        tolerance = (double)fsi__imax(rows, cols) * (double)FSI_REAL_EPS;
    size_t k;
    for (k = 0; k < width; k++) {
        pivot[k] = (int32_t)k;
        tau[k] = 0;
    }
    for (k = 0; k < least; k++) {
        fsi_real *column = A + k * height;
        double norm = fsi__qr_pivot(height, width, k, A, pivot);
        if (k == 0)
            first = norm;
        if (!(norm > tolerance * first))
            break; /* everything left is rounding */
        fsi_real beta = (fsi_real)(column[k] > 0 ? -norm : norm);
        tau[k] = (beta - column[k]) / beta;
        fsi_scale(height - k - 1, 1 / (column[k] - beta), column + k + 1);
        column[k] = beta; /* r_kk */
        for (size_t j = k + 1; j < width; j++)
            fsi__reflect(height, k, column, tau[k], A + j * height);
    }
    *rank = (int)k;

    return k < least ? FSI_RANK_DEFICIENT : FSI_OK;
}

FSI_API void fsi_qr_apply_q(int rows, int k, const fsi_real *A, const fsi_real *tau, int transpose,
                            fsi_real *b) {
    for (int i = 0; i < k; i++) {
        int at = transpose ? i : k - 1 - i;
        fsi__reflect((size_t)rows, (size_t)at, A + (size_t)at * (size_t)rows, tau[at], b);
    }
}

FSI_API void fsi_qr_solve(int rows, int cols, const fsi_real *A, const fsi_real *tau,
                          const int32_t *pivot, int rank, fsi_real *b, fsi_real *x,
                          double *residual) {
    size_t height = (size_t)rows;
    fsi_qr_apply_q(rows, rank, A, tau, 1, b); /* b = Q^T b */
    if (residual)
        *residual = fsi_norm(height - (size_t)rank, b + rank);
    for (int k = 0; k < cols; k++)
        x[k] = 0;
    for (int k = rank; k-- > 0;) { /* R y = b, y goes to its column's place */
        double sum = (double)b[k];
        for (int i = k + 1; i < rank; i++)
            sum -= (double)A[(size_t)i * height + (size_t)k] * (double)x[pivot[i]];
        x[pivot[k]] = (fsi_real)(sum / (double)A[(size_t)k * height + (size_t)k]);
    }
}

/* ------------------------------------------------------------------------------------------------
 * >>incomplete */
/* Besides the public arrays: the pattern by columns (start, rows, places in val) so that the
 * factorisation can look to the right. */
typedef struct fsi__ic_extra {
    int32_t *start;
    int32_t *row;
    int32_t *at;
    fsi_real *diagonal;
} fsi__ic_extra;

static void fsi__ic_layout(fsi_ic *ic, fsi__ic_extra *extra, size_t entries, fsi_arena *arena) {
    size_t n = (size_t)ic->n;
    FSI__TAKE(ic->row, arena, n + 1);
    FSI__TAKE(ic->col, arena, entries);
    FSI__TAKE(ic->val, arena, entries);
    FSI__TAKE(ic->diagonal_inv, arena, n);
    FSI__TAKE(extra->start, arena, n + 1);
    FSI__TAKE(extra->row, arena, entries);
    FSI__TAKE(extra->at, arena, entries);
    FSI__TAKE(extra->diagonal, arena, n);
}

/* Finished column k: d_j -= l_jk^2 d_k, s_ij -= l_ik s_jk where (i, j) is in the pattern; where it
   is not, the fill is dropped or, in the modified form, moved to both diagonals so that row sums
   stay. */
static void fsi__ic_column(fsi_ic *ic, const fsi__ic_extra *extra, int32_t k, fsi_real pivot,
                           fsi_real moved) {
    for (int32_t entry = extra->start[k]; entry < extra->start[k + 1]; entry++) {
        fsi_real factor = ic->val[extra->at[entry]] / pivot;
        int32_t j = extra->row[entry];
        extra->diagonal[j] -= factor * ic->val[extra->at[entry]];
        for (int32_t later = entry + 1; later < extra->start[k + 1]; later++) {
            fsi_real fill = factor * ic->val[extra->at[later]];
            int32_t i = extra->row[later];
            int32_t at = fsi__csr_find(ic->row, ic->col, i, j);
            if (at >= 0)
                ic->val[at] -= fill;
            else if (moved != 0) {
                extra->diagonal[i] -= moved * fill;
                extra->diagonal[j] -= moved * fill;
            }
        }
        ic->val[extra->at[entry]] = factor;
    }
}

/* One attempt with the given shift; 0 when a pivot fails. */
static int fsi__ic_try(fsi_ic *ic, const fsi__ic_extra *extra, const fsi_csr *matrix,
                       double shift) {
    const fsi_real little = FSI_R(16 * FSI__ROOT_EPS);
    int32_t entry = 0;
    for (int32_t i = 0; i < ic->n; i++)
        for (int32_t k = matrix->row[i]; k < matrix->row[i + 1] && matrix->col[k] <= i; k++) {
            if (matrix->col[k] < i)
                ic->val[entry++] = matrix->val[k];
            else
                extra->diagonal[i] = matrix->val[k] * FSI_R(1 + shift);
        }

    /* what the pivot is compared with */
    for (int32_t i = 0; i < ic->n; i++)
        ic->diagonal_inv[i] = extra->diagonal[i];
    for (int32_t i = 0; i < ic->n; i++) {
        fsi_real pivot = extra->diagonal[i];
        if (!(pivot > little * ic->diagonal_inv[i]) || !fsi__finite(pivot)
            || !fsi__finite(1 / pivot))
            return 0;
        fsi__ic_column(ic, extra, i, pivot, FSI_R(ic->desc.modified));
        ic->diagonal_inv[i] = 1 / pivot;
    }

    return 1;
}

/* The diagonal is there and positive and, with a factor given, its lower pattern is that of A.
 * *entries = strictly lower ones. */
static fsi_result fsi__ic_check(const fsi_csr *matrix, const fsi_ic *ic, size_t *entries) {
    size_t entry = 0;
    if (!fsi__csr_square(matrix))
        return FSI_ERR_ARGUMENT;
    if (ic && matrix->rows != ic->n)
        return FSI_ERR_SIZE;

    for (int32_t i = 0; i < matrix->rows; i++) {
        fsi_real diagonal = 0;
        for (int32_t k = matrix->row[i]; k < matrix->row[i + 1] && matrix->col[k] <= i; k++) {
            if (matrix->col[k] == i) {
                diagonal = matrix->val[k];
                continue;
            }
            if (ic && (entry >= (size_t)ic->row[i + 1] || ic->col[entry] != matrix->col[k]))
                return FSI_ERR_SIZE;
            entry++;
        }
        if (ic && entry != (size_t)ic->row[i + 1])
            return FSI_ERR_SIZE;
        if (!(diagonal > 0))
            return FSI_ERR_SINGULAR;
    }
    *entries = entry;

    return FSI_OK;
}

FSI_API fsi_result fsi_ic_update(fsi_ic *ic, const fsi_csr *matrix) {
    fsi_arena arena = FSI__ZERO;
    size_t entries = 0;
    if (!ic || !ic->block)
        return FSI_ERR_STATE;

    fsi_result result = fsi__ic_check(matrix, ic, &entries);
    if (result != FSI_OK)
        return result;

    arena.base = (unsigned char *)ic->block;
    arena.size = ic->size;
    fsi__ic_extra extra;
    fsi__ic_layout(ic, &extra, entries, &arena);
    double shift = ic->desc.shift;

    for (int tries = 0; tries < 60; tries++) {
        if (fsi__ic_try(ic, &extra, matrix, shift)) {
            ic->shift = shift;
            return shift > ic->desc.shift ? FSI_SHIFTED : FSI_OK;
        }
        shift = shift > 5e-4 ? 2 * shift : 1e-3;
    }

    /* no shift helps: the diagonal is left as a preconditioner */
    fsi_fill(entries, 0, ic->val);
    for (int32_t i = 0; i < ic->n; i++)
        ic->diagonal_inv[i] =
            fsi__min(1 / matrix->val[fsi__csr_find(matrix->row, matrix->col, i, i)], FSI_REAL_MAX);

    return FSI_ERR_SINGULAR;
}

FSI_API fsi_result fsi_ic_init(fsi_ic *ic, const fsi_csr *matrix, const fsi_ic_desc *desc) {
    fsi_arena arena = FSI__ZERO;
    fsi_ic out;
    size_t entries = 0;
    int32_t entry = 0;
    memset(&out, 0, sizeof out);
    if (desc)
        out.desc = *desc;
    if (!ic || !fsi_allocator_valid(&out.desc.allocator))
        return FSI_ERR_ARGUMENT;
    if (!fsi__knob(out.desc.shift) || !fsi__knob(out.desc.modified) || out.desc.modified > 1)
        return FSI_ERR_ARGUMENT;

    fsi_result result = fsi__ic_check(matrix, NULL, &entries);
    if (result != FSI_OK)
        return result;

    out.n = matrix->rows;
    fsi__ic_extra extra;
    fsi__ic_layout(&out, &extra, entries, &arena);
    result = fsi__arena_block(&arena, &out.desc.allocator, &out.block, &out.size);
    if (result != FSI_OK)
        return result;

    fsi__ic_layout(&out, &extra, entries, &arena);
    for (int32_t i = 0; i < matrix->rows; i++) {
        for (int32_t k = matrix->row[i]; k < matrix->row[i + 1] && matrix->col[k] < i; k++)
            out.col[entry++] = matrix->col[k];
        out.row[i + 1] = entry;
    }
    fsi_csr lower = {out.n, out.n, out.row, out.col, out.val};
    fsi__csr_turn(&lower, extra.start, extra.row, extra.at, NULL);
    result = fsi_ic_update(&out, matrix);
    if (result < 0)
        fsi_free(&out.desc.allocator, out.block, out.size);
    else
        *ic = out;

    return result;
}

FSI_API void fsi_ic_solve(const fsi_ic *ic, const fsi_real *r, fsi_real *z) {
    const int32_t *row = ic->row;
    const int32_t *col = ic->col;
    const fsi_real *val = ic->val;
    for (int32_t i = 0; i < ic->n; i++) { /* z = L \ r */
        fsi_real sum = r[i];
        for (int32_t k = row[i]; k < row[i + 1]; k++)
            sum -= val[k] * z[col[k]];
        z[i] = sum;
    }
    for (int32_t i = 0; i < ic->n; i++)
        z[i] *= ic->diagonal_inv[i];
    for (int32_t i = ic->n; i-- > 0;) { /* z = L^T \ z */
        fsi_real zi = z[i];
        for (int32_t k = row[i]; k < row[i + 1]; k++)
            z[col[k]] -= val[k] * zi;
    }
}

static void fsi__ic_apply(const fsi_real *x, fsi_real *y, void *user) {
    fsi_ic_solve((const fsi_ic *)user, x, y);
}

FSI_API fsi_operator fsi_ic_operator(const fsi_ic *ic) {
    return fsi__operator(fsi__ic_apply, ic);
}

FSI_API void fsi_ic_free(fsi_ic *ic) {
    if (!ic || !ic->block)
        return;
    fsi_free(&ic->desc.allocator, ic->block, ic->size);
    memset(ic, 0, sizeof *ic);
}

/* ------------------------------------------------------------------------------------------------
 * >>ordering */
/* Approximate minimum degree on a quotient graph (Amestoy, Davis, Duff 1996). An eliminated
   variable p becomes an element: the clique of its neighbours, kept as one list. A variable i then
   has a list of elements and a list of plain neighbours, in place in `list`, where there is always
   room because p replaces something. Variables with equal lists are merged and eliminated together.
 */
typedef struct fsi__amd {
    int32_t n;
    int32_t pool_used;
    int32_t stamp;  /* last tag written to mark */
    int32_t lowest; /* no variable has a smaller degree */

    /* variables */
    int32_t *start;    /* of the list of i */
    int32_t *length;   /* its entries ... */
    int32_t *elements; /* ... of which the first are elements */
    int32_t *list;
    int32_t *weight;  /* variables merged into i; 0 = gone */
    int32_t *degree;  /* bound on the outside neighbours */
    int32_t *mark;    /* tag of the last pass that met i */
    int32_t *head;    /* first variable of each degree */
    int32_t *next;    /* of the same degree ... */
    int32_t *prev;    /* ... and before */
    int32_t *hash;    /* of the list */
    int32_t *bucket;  /* first variable of each hash */
    int32_t *chain;   /* next of the same hash */
    int32_t *member;  /* next of those merged; */
    int32_t *last;    /* the last of them */
    int32_t *scratch; /* a list being made */

    /* elements */
    int32_t *from;    /* where the members start in pool */
    int32_t *size;    /* how many; -1 = absorbed */
    int32_t *mass;    /* sum of their weights */
    int32_t *outside; /* mass outside the new element */
    int32_t *seen_e;  /* 1 + the new element outside was made for */
    int32_t *pool;
} fsi__amd;

static void fsi__amd_layout(fsi__amd *graph, size_t entries, fsi_arena *arena) {
    int32_t **one[] = {&graph->start,  &graph->length, &graph->elements, &graph->from,
                       &graph->size,   &graph->mass,   &graph->outside,  &graph->seen_e,
                       &graph->weight, &graph->degree, &graph->mark,     &graph->head,
                       &graph->next,   &graph->prev,   &graph->bucket,   &graph->chain,
                       &graph->hash,   &graph->member, &graph->last};
    for (size_t i = 0; i < sizeof one / sizeof *one; i++)
        FSI__TAKE(*one[i], arena, (size_t)graph->n);
    FSI__TAKE(graph->list, arena, entries);
    FSI__TAKE(graph->pool, arena, entries + (size_t)graph->n);
    FSI__TAKE(graph->scratch, arena, (size_t)graph->n + 1);
}

/* Member number a of an element. */
FSI__INLINE int32_t fsi__amd_member(const fsi__amd *graph, int32_t element, int32_t a) {
    return graph->pool[graph->from[element] + a];
}

/* Variables stand in a doubly linked list per degree. */
static void fsi__amd_link(fsi__amd *graph, int32_t i) {
    int32_t degree = graph->degree[i];
    int32_t head = graph->head[degree];
    graph->prev[i] = -1;
    graph->next[i] = head;
    if (head >= 0)
        graph->prev[head] = i;
    graph->head[degree] = i;
    graph->lowest = fsi__imin(graph->lowest, degree);
}

static void fsi__amd_unlink(fsi__amd *graph, int32_t i) {
    if (graph->next[i] >= 0)
        graph->prev[graph->next[i]] = graph->prev[i];
    if (graph->prev[i] >= 0)
        graph->next[graph->prev[i]] = graph->next[i];
    else
        graph->head[graph->degree[i]] = graph->next[i];
}

static void fsi__amd_begin(fsi__amd *graph, const fsi_csr *matrix) {
    int32_t at = 0;
    for (int32_t i = 0; i < graph->n; i++) {
        graph->start[i] = at;
        for (int32_t k = matrix->row[i]; k < matrix->row[i + 1]; k++)
            if (matrix->col[k] != i)
                graph->list[at++] = matrix->col[k];
        graph->length[i] = graph->degree[i] = at - graph->start[i];
        graph->weight[i] = 1;
        graph->head[i] = graph->bucket[i] = graph->member[i] = -1;
        graph->last[i] = i;
        graph->size[i] = -1;
    }
    graph->lowest = graph->n;
    for (int32_t i = graph->n; i-- > 0;)
        fsi__amd_link(graph, i);
}

/* Moves the living elements to the front of the pool. They never hold more than the graph had
 * entries, so n places are free then, enough for one more. */
static void fsi__amd_compact(fsi__amd *graph, const int32_t *order, int32_t done) {
    int32_t at = 0;
    for (int32_t i = 0; i < done; i++) { /* elements lie in the pool in the order they were made */
        int32_t element = order[i];
        int32_t from = graph->from[element];
        if (graph->size[element] < 0)
            continue;
        graph->from[element] = at;
        for (int32_t k = 0; k < graph->size[element]; k++)
            graph->pool[at++] = graph->pool[from + k];
    }
    graph->pool_used = at;
}

/* The new element: living neighbours of p and members of its elements, which it absorbs. */
static void fsi__amd_gather(fsi__amd *graph, int32_t p) {
    int32_t base = graph->pool_used;
    int32_t at = base;
    int32_t mass = 0;
    int32_t tag = ++graph->stamp;
    graph->mark[p] = tag;

    for (int32_t place = 0; place < graph->length[p]; place++) {
        int32_t item = graph->list[graph->start[p] + place];
        int32_t is_element = place < graph->elements[p];
        const int32_t *from =
            is_element ? graph->pool + graph->from[item] : graph->list + graph->start[p] + place;
        int32_t count = is_element ? graph->size[item] : 1;
        for (int32_t k = 0; k < count; k++) {
            int32_t i = from[k];
            if (graph->weight[i] == 0 || graph->mark[i] == tag)
                continue;
            graph->mark[i] = tag;
            graph->pool[at++] = i;
            mass += graph->weight[i];
            fsi__amd_unlink(graph, i);
        }
        if (is_element)
            graph->size[item] = -1;
    }
    graph->from[p] = base;
    graph->size[p] = at - base;
    graph->mass[p] = mass;
    graph->pool_used = at;
}

/* New lists and degree of i, a member of the new element p; `left` variables are not eliminated. */
static void fsi__amd_update(fsi__amd *graph, int32_t p, int32_t i, int32_t left) {
    int32_t at;
    int32_t kept = 0;
    int32_t *list = graph->list + graph->start[i];
    int32_t *out = graph->scratch;
    int32_t degree = graph->mass[p] - graph->weight[i];
    uint32_t hash = (uint32_t)p;

    for (at = 0; at < graph->elements[i]; at++) {
        int32_t element = list[at];
        if (graph->size[element] < 0)
            continue;

        /* all of e lies in p: absorb it too */
        if (graph->outside[element] == 0) {
            graph->size[element] = -1;
            continue;
        }
        out[kept++] = element;
        degree += graph->outside[element];
        hash += (uint32_t)element;
    }
    out[kept++] = p;
    at = graph->elements[i];
    graph->elements[i] = kept;

    for (; at < graph->length[i]; at++) {
        int32_t j = list[at];

        /* reached through p now */
        if (j == p || graph->weight[j] == 0 || graph->mark[j] == graph->mark[p])
            continue;
        out[kept++] = j;
        degree += graph->weight[j];
        hash += (uint32_t)j;
    }
    memcpy(list, out, (size_t)kept * sizeof *list);
    graph->length[i] = kept;
    at = graph->degree[i] + graph->mass[p] - graph->weight[i];
    degree = fsi__imin(fsi__imin(degree, at), left - graph->weight[i]);
    graph->degree[i] = degree > 0 ? degree : 0;
    graph->hash[i] = (int32_t)(hash % (uint32_t)graph->n);
}

/* j goes where i goes. */
static void fsi__amd_merge(fsi__amd *graph, int32_t i, int32_t j) {
    graph->weight[j] = 0;
    graph->member[graph->last[i]] = j;
    graph->last[i] = graph->last[j];
}

/* Members of p with equal lists are merged; candidates share a hash. */
static void fsi__amd_twins(fsi__amd *graph, int32_t p) {
    int32_t i;

    for (int32_t a = 0; a < graph->size[p]; a++) {
        i = fsi__amd_member(graph, p, a);
        if (graph->weight[i] == 0)
            continue;
        graph->chain[i] = graph->bucket[graph->hash[i]];
        graph->bucket[graph->hash[i]] = i;
    }
    for (int32_t a = 0; a < graph->size[p]; a++) {
        int32_t first = fsi__amd_member(graph, p, a);
        if (graph->weight[first] == 0 || graph->bucket[graph->hash[first]] < 0)
            continue;
        i = graph->bucket[graph->hash[first]];
        graph->bucket[graph->hash[first]] = -1;
        for (; i >= 0; i = graph->chain[i]) {
            int32_t tag = ++graph->stamp;
            if (graph->weight[i] == 0)
                continue;
            for (int32_t k = 0; k < graph->length[i]; k++)
                graph->mark[graph->list[graph->start[i] + k]] = tag;
            for (int32_t j = graph->chain[i]; j >= 0; j = graph->chain[j]) {
                int same = graph->weight[j] > 0 && graph->length[i] == graph->length[j]
                           && graph->elements[i] == graph->elements[j];
                for (int32_t k = 0; same && k < graph->length[j]; k++)
                    same = graph->mark[graph->list[graph->start[j] + k]] == tag;
                if (!same)
                    continue;
                graph->weight[i] += graph->weight[j];
                graph->degree[i] = fsi__imax(graph->degree[i] - graph->weight[j], 0);
                fsi__amd_merge(graph, i, j);
            }
        }
    }
}

/* Eliminates p: element, degrees, merging. Returns how many variables went with it. */
static int32_t fsi__amd_eliminate(fsi__amd *graph, int32_t p, int32_t left) {
    int32_t kept = 0;
    int32_t gone = graph->weight[p];
    fsi__amd_unlink(graph, p);
    fsi__amd_gather(graph, p);

    /* outside[e] = mass of e without the members of p */
    for (int32_t a = 0; a < graph->size[p]; a++) {
        int32_t i = fsi__amd_member(graph, p, a);
        for (int32_t k = 0; k < graph->elements[i]; k++) {
            int32_t element = graph->list[graph->start[i] + k];
            if (graph->size[element] < 0)
                continue;
            if (graph->seen_e[element] != p + 1) {
                graph->seen_e[element] = p + 1;
                graph->outside[element] = graph->mass[element];
            }
            graph->outside[element] -= graph->weight[i];
        }
    }
    for (int32_t a = 0; a < graph->size[p]; a++)
        fsi__amd_update(graph, p, fsi__amd_member(graph, p, a), left - gone);
    graph->weight[p] = 0;

    /* members with nothing but p around them go at once */
    for (int32_t a = 0; a < graph->size[p]; a++) {
        int32_t i = fsi__amd_member(graph, p, a);
        if (graph->length[i] != 1)
            continue;
        gone += graph->weight[i];
        graph->mass[p] -= graph->weight[i];
        fsi__amd_merge(graph, p, i);
    }
    fsi__amd_twins(graph, p);

    /* the living ones go back to their lists and stay members */
    for (int32_t a = 0; a < graph->size[p]; a++) {
        int32_t i = fsi__amd_member(graph, p, a);
        if (graph->weight[i] == 0)
            continue;
        graph->degree[i] = fsi__imin(graph->degree[i], left - gone - graph->weight[i]);
        fsi__amd_link(graph, i);
        graph->pool[graph->from[p] + kept++] = i;
    }
    graph->size[p] = kept > 0 ? kept : -1;
    graph->pool_used = graph->from[p] + kept;

    return gone;
}

/* order[n]; pivots is scratch [n]. The graph is laid out already. */
static void fsi__amd_order(fsi__amd *graph, const fsi_csr *matrix, int32_t *order,
                           int32_t *pivots) {
    int32_t left = graph->n;
    int32_t made = 0;
    int32_t at = 0;
    int32_t room = matrix->row[graph->n] + graph->n;
    fsi__amd_begin(graph, matrix);

    while (left > 0) {
        while (graph->head[graph->lowest] < 0)
            graph->lowest++;
        int32_t next_pivot = graph->head[graph->lowest];
        int32_t need = graph->length[next_pivot] - graph->elements[next_pivot];
        for (int32_t k = 0; k < graph->elements[next_pivot]; k++) {
            int32_t element = graph->list[graph->start[next_pivot] + k];
            if (graph->size[element] > 0)
                need += graph->size[element];
        }
        if (need > room - graph->pool_used)
            fsi__amd_compact(graph, pivots, made);
        pivots[made++] = next_pivot;
        left -= fsi__amd_eliminate(graph, next_pivot, left);
    }
    for (int32_t k = 0; k < made; k++)
        for (int32_t i = pivots[k]; i >= 0; i = graph->member[i])
            order[at++] = i;
}

/* ------------------------------------------------------------------------------------------------
 * >>cholesky */
static void fsi__cholesky_layout(fsi_cholesky *factor, fsi_arena *arena) {
    size_t n = (size_t)factor->n;
    FSI__TAKE(factor->order, arena, n);
    FSI__TAKE(factor->inverse, arena, n);
    FSI__TAKE(factor->parent, arena, n);
    FSI__TAKE(factor->mark, arena, 3 * n);
    FSI__TAKE(factor->col, arena, n + 1);
    FSI__TAKE(factor->work, arena, 2 * n);
    FSI__TAKE(factor->row, arena, factor->entries);
    FSI__TAKE(factor->val, arena, factor->entries);
}

/* Row i of L is the part of the elimination tree reached from the entries of row i of A. Counts the
   entries of each column; with rows given, writes them (col[j] then runs through column j). */
static void fsi__cholesky_pattern(const fsi_csr *matrix, const int32_t *order,
                                  const int32_t *inverse, int32_t *parent, int32_t *mark,
                                  size_t *col, int32_t *rows) {
    int32_t n = matrix->rows;

    for (int32_t i = 0; i < n; i++) {
        mark[i] = i;
        if (rows)
            rows[col[i]] = i;
        else
            parent[i] = -1;
        col[i]++;
        for (int32_t k = matrix->row[order[i]]; k < matrix->row[order[i] + 1]; k++) {
            int32_t j = inverse[matrix->col[k]];
            if (j >= i)
                continue;
            for (; mark[j] != i; j = parent[j]) {
                mark[j] = i;
                if (parent[j] < 0)
                    parent[j] = i;
                if (rows)
                    rows[col[j]] = i;
                col[j]++;
            }
        }
    }
}

/* Children before parents, subtrees together: columns with the same pattern become neighbours.
 * order is renumbered; a and b are scratch [n]. */
static void fsi__cholesky_postorder(int32_t n, int32_t *order, const int32_t *parent,
                                    int32_t *first, int32_t *next, int32_t *out) {
    int32_t at = 0;
    for (int32_t i = 0; i < n; i++)
        first[i] = -1;
    for (int32_t i = n; i-- > 0;)
        if (parent[i] >= 0) {
            next[i] = first[parent[i]];
            first[parent[i]] = i;
        }
    for (int32_t i = 0; i < n; i++) {
        if (parent[i] >= 0)
            continue;
        for (int32_t node = i;;) {
            /* down, using up the child lists */
            while (first[node] >= 0) {
                int32_t child = first[node];
                first[node] = next[child];
                node = child;
            }
            out[at++] = order[node];
            if (node == i)
                break;
            node = parent[node];
        }
    }
    memcpy(order, out, (size_t)n * sizeof *order);
}

/* What follows from draft->order: its inverse, the elimination tree and the entries of each column.
 * FSI_ERR_ARGUMENT: it is not a permutation. */
static fsi_result fsi__cholesky_count(fsi_cholesky *draft, const fsi_csr *matrix) {
    int32_t n = draft->n;
    for (int32_t i = 0; i < n; i++) {
        draft->inverse[i] = -1;
        draft->col[i] = 0;
    }
    for (int32_t i = 0; i < n; i++) {
        int32_t row = draft->order[i];
        if (row < 0 || row >= n || draft->inverse[row] >= 0)
            return FSI_ERR_ARGUMENT;
        draft->inverse[row] = i;
    }
    fsi__cholesky_pattern(matrix, draft->order, draft->inverse, draft->parent, draft->mark,
                          draft->col, NULL);
    return FSI_OK;
}

/* Ordering and column counts in temporary memory: a factor without entries. */
static fsi_result fsi__cholesky_draft(fsi_cholesky *draft, fsi__amd *graph, const fsi_csr *matrix,
                                      const fsi_cholesky_desc *desc) {
    int32_t n = draft->n;
    int degree = desc->ordering == FSI_ORDERING_DEGREE;
    if (degree)
        fsi__amd_order(graph, matrix, draft->order, draft->mark);
    for (int32_t i = 0; i < n && !degree; i++)
        draft->order[i] = desc->ordering == FSI_ORDERING_GIVEN ? desc->order[i] : i;
    fsi_result result = fsi__cholesky_count(draft, matrix);
    if (result != FSI_OK || !degree)
        return result;

    fsi__cholesky_postorder(n, draft->order, draft->parent, draft->mark, draft->mark + n,
                            draft->inverse);
    return fsi__cholesky_count(draft, matrix);
}

FSI_API fsi_result fsi_cholesky_init(fsi_cholesky *factor, const fsi_csr *matrix,
                                     const fsi_cholesky_desc *desc) {
    fsi_arena arena = FSI__ZERO;
    fsi_arena room = FSI__ZERO;
    fsi_cholesky_desc given = FSI__ZERO;
    fsi__amd graph = FSI__ZERO;
    fsi_cholesky draft = FSI__ZERO;
    fsi_cholesky out = FSI__ZERO;
    if (desc)
        given = *desc;
    if (!factor || !fsi__csr_square(matrix) || !fsi_allocator_valid(&given.allocator))
        return FSI_ERR_ARGUMENT;
    if (matrix->rows > 0x0fffffff || matrix->row[matrix->rows] > 0x2fffffff)
        return FSI_ERR_ARGUMENT;
    if (given.ordering == FSI_ORDERING_GIVEN && matrix->rows && !given.order)
        return FSI_ERR_ARGUMENT;

    for (int32_t i = 0; i < matrix->rows; i++)
        for (int32_t k = matrix->row[i]; k < matrix->row[i + 1]; k++)
            if (fsi__csr_find(matrix->row, matrix->col, matrix->col[k], i) < 0)
                return FSI_ERR_ARGUMENT;

    /* order and column counts in temporary memory */
    draft.n = out.n = matrix->rows;
    graph.n = given.ordering == FSI_ORDERING_DEGREE ? matrix->rows : 0;
    size_t entries = (size_t)matrix->row[graph.n];
    fsi_result result = FSI_OK;
    for (int pass = 0; pass < 2 && result == FSI_OK; pass++) {
        if (pass)
            result = fsi__arena_open(&arena, &given.allocator);
        fsi__cholesky_layout(&draft, &arena);
        fsi__amd_layout(&graph, entries, &arena);
    }
    if (result != FSI_OK)
        return result;

    result = fsi__cholesky_draft(&draft, &graph, matrix, &given);
    if (result == FSI_OK) {
        for (int32_t i = 0; i < out.n; i++)
            out.entries += draft.col[i];
        fsi__cholesky_layout(&out, &room);
        result = fsi__arena_block(&room, &given.allocator, &out.block, &out.size);
    }
    if (result == FSI_OK) {
        fsi__cholesky_layout(&out, &room);
        for (int32_t i = 0; i < out.n; i++) {
            out.order[i] = draft.order[i];
            out.inverse[i] = draft.inverse[i];
            out.parent[i] = draft.parent[i];
            out.col[i + 1] = out.col[i] + draft.col[i];
        }
        fsi__cholesky_pattern(matrix, out.order, out.inverse, out.parent, out.mark, out.col,
                              out.row);
        for (int32_t i = out.n; i > 0; i--)
            out.col[i] = out.col[i - 1];
        out.col[0] = 0;
        out.failed = -1;
        out.allocator = given.allocator;
        *factor = out;
    }
    fsi_free(&given.allocator, arena.base, arena.size);

    return result;
}

/* y += s * column k of P A P^T on and below the diagonal; 0 when an entry lies outside the pattern
 * (mark != k). */
static int fsi__cholesky_load(const fsi_cholesky *factor, const fsi_csr *matrix, double scale,
                              int32_t k, double *y) {
    int32_t i = factor->order[k];
    for (int32_t entry = matrix->row[i]; entry < matrix->row[i + 1]; entry++) {
        int32_t at = factor->inverse[matrix->col[entry]];
        if (at < k)
            continue;
        if (factor->mark[at] != k)
            return 0;
        y[at] += scale * (double)matrix->val[entry];
    }
    return 1;
}

/* Column j waits in the list of the row it reaches next: the entry at place[j], if it has one. */
static void fsi__cholesky_wait(const fsi_cholesky *factor, int32_t j, const size_t *place,
                               int32_t *head, int32_t *next) {
    if (place[j] >= factor->col[j + 1])
        return;

    int32_t row = factor->row[place[j]];
    next[j] = head[row];
    head[row] = j;
}

/* Left-looking: column k = (A's column - sum over columns j with l_kj != 0 of l_kj * column j) /
   pivot. The columns that reach row k are kept in a list per row (head, next); place[j] is where
   column j stands. */
FSI_API fsi_result fsi_cholesky_factor(fsi_cholesky *factor, const fsi_csr *A, double shift,
                                       const fsi_csr *B) {
    if (!factor || !factor->block)
        return FSI_ERR_STATE;
    if (fsi_csr_check(A) != FSI_OK || (B && fsi_csr_check(B) != FSI_OK) || !fsi__finite64(shift))
        return FSI_ERR_ARGUMENT;
    if (A->rows != factor->n || A->cols != factor->n)
        return FSI_ERR_SIZE;
    if (B && (B->rows != factor->n || B->cols != factor->n))
        return FSI_ERR_SIZE;

    int32_t n = factor->n;
    double *y = factor->work;
    size_t *place = (size_t *)(void *)(factor->work + n);
    int32_t *mark = factor->mark;
    int32_t *head = mark + n;
    int32_t *next = head + n;
    factor->factored = 0;
    factor->failed = -1;
    for (int32_t k = 0; k < n; k++) {
        mark[k] = head[k] = -1;
        y[k] = 0;
    }
    for (int32_t k = 0; k < n; k++) {
        /* the column of A + shift B (NULL: the identity) */
        size_t first = factor->col[k];
        size_t end = factor->col[k + 1];
        for (size_t at = first; at < end; at++)
            mark[factor->row[at]] = k;
        if (!fsi__cholesky_load(factor, A, 1, k, y)
            || (B && !fsi__cholesky_load(factor, B, shift, k, y)))
            return FSI_ERR_SIZE;
        if (!B)
            y[k] += shift;
        double whole = y[k];

        /* minus the columns before it */
        for (int32_t j = head[k]; j >= 0;) {
            int32_t after = next[j];
            double factor_kj = factor->val[place[j]];
            for (size_t at = place[j]; at < factor->col[j + 1]; at++)
                y[factor->row[at]] -= factor_kj * factor->val[at];
            place[j]++;
            fsi__cholesky_wait(factor, j, place, head, next);
            j = after;
        }

        double pivot = y[k];
        if (!(pivot > 1e-15 * whole) || !fsi__finite64(pivot)) {
            factor->failed = factor->order[k];
            return FSI_ERR_SINGULAR;
        }
        pivot = sqrt(pivot);
        for (size_t at = first; at < end; at++) {
            factor->val[at] = y[factor->row[at]] / pivot;
            y[factor->row[at]] = 0;
        }
        factor->val[first] = pivot;
        place[k] = first + 1;
        fsi__cholesky_wait(factor, k, place, head, next);
    }
    factor->factored = 1;

    return FSI_OK;
}

/* y = L^T \ (L \ y) in the factor's order */
static void fsi__cholesky_sweep(const fsi_cholesky *factor, double *y) {
    for (int32_t j = 0; j < factor->n; j++) {
        double solved = y[j] /= factor->val[factor->col[j]];
        for (size_t at = factor->col[j] + 1; at < factor->col[j + 1]; at++)
            y[factor->row[at]] -= factor->val[at] * solved;
    }
    for (int32_t j = factor->n; j-- > 0;) {
        double sum = y[j];
        for (size_t at = factor->col[j] + 1; at < factor->col[j + 1]; at++)
            sum -= factor->val[at] * y[factor->row[at]];
        y[j] = sum / factor->val[factor->col[j]];
    }
}

FSI_API fsi_result fsi_cholesky_solve(fsi_cholesky *factor, const fsi_real *b, fsi_real *x) {
    if (!factor || !factor->factored)
        return FSI_ERR_STATE;
    if (factor->n && (!b || !x))
        return FSI_ERR_ARGUMENT;

    for (int32_t i = 0; i < factor->n; i++)
        factor->work[i] = (double)b[factor->order[i]];
    fsi__cholesky_sweep(factor, factor->work);
    for (int32_t i = 0; i < factor->n; i++)
        if (!fsi__finite((fsi_real)factor->work[i]))
            return FSI_ERR_NUMERIC;
    for (int32_t i = 0; i < factor->n; i++)
        x[factor->order[i]] = (fsi_real)factor->work[i];
    return FSI_OK;
}

static void fsi__cholesky_apply(const fsi_real *x, fsi_real *y, void *user) {
    fsi_cholesky_solve((fsi_cholesky *)user, x, y);
}

FSI_API fsi_operator fsi_cholesky_operator(fsi_cholesky *factor) {
    return fsi__operator(fsi__cholesky_apply, factor);
}

FSI_API void fsi_cholesky_free(fsi_cholesky *factor) {
    if (!factor || !factor->block)
        return;
    fsi_free(&factor->allocator, factor->block, factor->size);
    memset(factor, 0, sizeof *factor);
}

/* ------------------------------------------------------------------------------------------------
 * >>eigen */
/* Symbols: A, B matrices of the pencil A x = w B x; d diagonal and e first off-diagonal of the
   tridiagonal T = Q^T A Q; Z its eigenvectors, one a row; c, s cosine and sine of a rotation. */
static void fsi__axpy64(size_t n, double s, const double *FSI__RESTRICT x,
                        double *FSI__RESTRICT y) {
    for (size_t i = 0; i < n; i++)
        y[i] += s * x[i];
}

/* Householder reduction of full symmetric A (destroyed) to T = Q^T A Q with diagonal d and e[k] =
 * t_k,k+1; Z = Q^T. work is scratch [2 n]. */
static void fsi__tridiagonal(size_t n, double *A, double *d, double *e, double *Z, double *work) {
    double *scale = work + n;

    for (size_t k = 0; k + 2 < n; k++) {
        /* v: the part of row k that becomes (e_k, 0, ..., 0) */
        size_t rest = n - k - 1;
        double *v = A + k * n + k + 1;
        double *corner = v + n; /* the matrix of rest x rest below */
        double norm = sqrt(fsi__dot_double(rest, v, v));
        scale[k] = 0;
        e[k] = v[0];
        if (sqrt(fsi__dot_double(rest - 1, v + 1, v + 1)) <= 0)
            continue;
        e[k] = v[0] > 0 ? -norm : norm;
        v[0] -= e[k];
        scale[k] = 2 / fsi__dot_double(rest, v, v); /* H = 1 - scale v v^T */

        /* corner = H corner H: corner -= v w^T + w v^T */
        for (size_t i = 0; i < rest; i++)
            work[i] = scale[k] * fsi__dot_double(rest, corner + i * n, v);
        double half = scale[k] / 2 * fsi__dot_double(rest, work, v);
        fsi__axpy64(rest, -half, v, work);
        for (size_t i = 0; i < rest; i++) {
            fsi__axpy64(rest, -v[i], work, corner + i * n);
            fsi__axpy64(rest, -work[i], v, corner + i * n);
        }
    }
    if (n > 1)
        e[n - 2] = A[(n - 2) * n + n - 1];
    memset(Z, 0, n * n * sizeof *Z);
    for (size_t i = 0; i < n; i++) {
        d[i] = A[i * n + i];
        Z[i * n + i] = 1;
    }

    /* Z = Z H_k, from the last on: only rows after k change */
    for (size_t k = n > 2 ? n - 2 : 0; k-- > 0;) {
        size_t rest = n - k - 1;
        const double *v = A + k * n + k + 1;
        double *row = Z + (k + 1) * n + k + 1;
        for (size_t i = 0; scale[k] > 0 && i < rest; i++, row += n)
            fsi__axpy64(rest, -scale[k] * fsi__dot_double(rest, row, v), v, row);
    }
}

/* sqrt(a^2 + b^2) without squares that overflow. */
static double fsi__hypotenuse(double a, double b) {
    double big = fabs(a) > fabs(b) ? a : b;
    double other = fabs(a) > fabs(b) ? b : a;
    return fabs(big) > 0 ? fabs(big) * sqrt(1 + (other / big) * (other / big)) : 0;
}

/* One implicit QL sweep over rows first .. last of the tridiagonal matrix, rotations applied to the
 * rows of Z. */
static void fsi__ql_sweep(size_t n, double *d, double *e, double *Z, size_t first, size_t last) {
    /* Wilkinson's shift */
    double g = (d[first + 1] - d[first]) / (2 * e[first]);
    double r = sqrt(g * g + 1);
    g = d[last] - d[first] + e[first] / (g + (g < 0 ? -r : r));

    double s = 1;
    double c = 1;
    double shift = 0;

    for (size_t i = last; i-- > first;) {
        double f = s * e[i];
        double b = c * e[i];
        r = fsi__hypotenuse(f, g);
        e[i + 1] = r;
        if (!(r > 0)) { /* the matrix split: the next sweep sees it */
            d[i + 1] -= shift;
            e[last] = 0;
            return;
        }
        s = f / r;
        c = g / r;
        g = d[i + 1] - shift;
        r = (d[i] - g) * s + 2 * c * b;
        shift = s * r;
        d[i + 1] = g + shift;
        g = c * r - b;

        double *lower = Z + i * n;
        double *upper = lower + n;
        for (size_t j = 0; j < n; j++) {
            double old = upper[j];
            upper[j] = s * lower[j] + c * old;
            lower[j] = c * lower[j] - s * old;
        }
    }
    d[first] -= shift;
    e[first] = g;
    e[last] = 0;
}

/* Ascending order of d[count], with the rows of Z, which have n entries. */
static void fsi__eigen_sort(size_t count, size_t n, double *d, double *Z) {
    for (size_t i = 0; i < count; i++) {
        size_t least = i;
        for (size_t j = i + 1; j < count; j++)
            if (d[j] < d[least])
                least = j;
        if (least == i)
            continue;
        double swap = d[i];
        d[i] = d[least];
        d[least] = swap;
        for (size_t j = 0; j < n; j++) {
            swap = Z[i * n + j];
            Z[i * n + j] = Z[least * n + j];
            Z[least * n + j] = swap;
        }
    }
}

/* Eigenvalues of full symmetric A (destroyed) ascending in d, eigenvectors in the rows of Z. work
 * is scratch [3 n]. 0 when QL does not end. */
static int fsi__eigen_all(size_t n, double *A, double *d, double *Z, double *work) {
    double *e = work + 2 * n;
    double top = 0;
    for (size_t i = 0; i < n * n; i++) {
        if (!fsi__finite64(A[i]))
            return 0;
        top = fmax(top, fabs(A[i]));
    }

    /* in units of a power of two where squares would overflow or vanish */
    double unit = 1;

    if (top > 0 && !(top > 1e-100 && top < 1e100)) {
        int power = 0;
        (void)frexp(top, &power);
        unit = ldexp(1.0, -fsi__iclamp(power, -1000, 1000));
        for (size_t i = 0; i < n * n; i++)
            A[i] *= unit;
    }
    fsi__tridiagonal(n, A, d, e, Z, work);
    if (n)
        e[n - 1] = 0;

    /* sweeps until row `first` stands alone, then the next one */
    for (size_t first = 0; first < n; first++)
        for (int sweeps = 0;; sweeps++) {
            size_t last = first;
            while (last + 1 < n && fabs(e[last]) > 1.2e-16 * (fabs(d[last]) + fabs(d[last + 1])))
                last++;
            if (last == first)
                break;
            if (sweeps == 100)
                return 0;
            fsi__ql_sweep(n, d, e, Z, first, last);
        }
    for (size_t i = 0; i < n; i++)
        d[i] /= unit;
    fsi__eigen_sort(n, n, d, Z);

    return 1;
}

/* Makes A x = w B x an ordinary problem: B = L L^T (L in place of B), A = L^-1 A L^-T; 0 when B is
 * not positive definite. The dense Cholesky of the base works in fsi_real; here all is double in
 * both precisions. */
static int fsi__eigen_reduce(size_t n, double *A, double *L) {
    for (size_t i = 0; i < n; i++) {
        double *row = L + i * n;
        for (size_t j = 0; j < i; j++)
            row[j] = (row[j] - fsi__dot_double(j, row, L + j * n)) / L[j * n + j];
        double pivot = row[i] - fsi__dot_double(i, row, row);
        if (!(pivot > 4e-16 * row[i]))
            return 0;
        row[i] = sqrt(pivot);
    }
    for (size_t i = 0; i < n; i++) { /* A = L^-1 A, row by row */
        double *row = A + i * n;
        for (size_t j = 0; j < i; j++)
            fsi__axpy64(n, -L[i * n + j], A + j * n, row);
        for (size_t j = 0; j < n; j++)
            row[j] /= L[i * n + i];
    }
    for (size_t i = 0; i < n; i++) { /* A = A L^-T: every row solves with L */
        double *row = A + i * n;
        for (size_t j = 0; j < n; j++)
            row[j] = (row[j] - fsi__dot_double(j, row, L + j * n)) / L[j * n + j];
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            A[i * n + j] = A[j * n + i] = (A[i * n + j] + A[j * n + i]) / 2;

    return 1;
}

/* Full double copy of a symmetric matrix given by its lower triangle; 0 when it is not finite. */
static int fsi__widen(size_t n, const fsi_real *A, double *out) {
    for (size_t i = 0; i < n; i++) {
        if (!fsi_all_finite(i + 1, A + i * n))
            return 0;
        for (size_t j = 0; j <= i; j++)
            out[i * n + j] = out[j * n + i] = (double)A[i * n + j];
    }
    return 1;
}

typedef struct fsi__eigen {
    double *A;
    double *Z;
    double *L;
    double *d;
    double *work;
} fsi__eigen;

static void fsi__eigen_layout(fsi__eigen *eigen, size_t n, int pencil, fsi_arena *arena) {
    FSI__TAKE(eigen->A, arena, n * n);
    FSI__TAKE(eigen->Z, arena, n * n);
    FSI__TAKE(eigen->L, arena, pencil ? n * n : 0);
    FSI__TAKE(eigen->d, arena, n);
    FSI__TAKE(eigen->work, arena, 3 * n);
}

/* Solves in doubles; eigenvectors of the pencil are L^-T y. */
static fsi_result fsi__eigen_solve(const fsi__eigen *eigen, size_t n, const fsi_real *A,
                                   const fsi_real *B) {
    const double *L = eigen->L;
    if (!fsi__widen(n, A, eigen->A) || (B && !fsi__widen(n, B, eigen->L)))
        return FSI_ERR_ARGUMENT;
    if (B && !fsi__eigen_reduce(n, eigen->A, eigen->L))
        return FSI_ERR_SINGULAR;
    if (!fsi__eigen_all(n, eigen->A, eigen->d, eigen->Z, eigen->work))
        return FSI_ERR_NUMERIC;

    for (size_t k = 0; k < n; k++) {
        double *y = eigen->Z + k * n;
        for (size_t i = B ? n : 0; i-- > 0;) {
            y[i] /= L[i * n + i];
            for (size_t j = 0; j < i; j++)
                y[j] -= L[i * n + j] * y[i];
        }
        for (size_t i = 0; i < n; i++)
            if (!fsi__finite((fsi_real)y[i]))
                return FSI_ERR_NUMERIC;
        if (!fsi__finite((fsi_real)eigen->d[k]))
            return FSI_ERR_NUMERIC;
    }

    return FSI_OK;
}

FSI_API fsi_result fsi_eigen_dense(int n, const fsi_real *A, const fsi_real *B, fsi_real *w,
                                   fsi_real *V, const fsi_allocator *allocator) {
    if (n < 0 || !fsi_allocator_valid(allocator))
        return FSI_ERR_ARGUMENT;
    if (n == 0)
        return FSI_OK;
    if (!A || !w)
        return FSI_ERR_ARGUMENT;
    if (n > 30000)
        return FSI_ERR_SIZE;

    size_t size = (size_t)n;
    fsi__eigen eigen;
    fsi_arena arena = FSI__ZERO;
    fsi__eigen_layout(&eigen, size, B != NULL, &arena);
    fsi_result result = fsi__arena_open(&arena, allocator);
    if (result != FSI_OK)
        return result;

    fsi__eigen_layout(&eigen, size, B != NULL, &arena);
    result = fsi__eigen_solve(&eigen, size, A, B);
    for (size_t i = 0; result == FSI_OK && i < size; i++)
        w[i] = (fsi_real)eigen.d[i];
    for (size_t i = 0; result == FSI_OK && V && i < size * size; i++)
        V[i] = (fsi_real)eigen.Z[i];
    fsi_free(allocator, arena.base, arena.size);

    return result;
}

/* ---- Lowest modes of K x = w M x: block Lanczos on (K + s M)^-1 M, whose largest eigenvalues
   theta = 1 / (w + s) are the lowest modes. Symbols:

       V   basis, M-orthonormal rows; the first `locked` ones are the null vectors
       H   V^T M (K + s M)^-1 M V, filled column by column as basis vectors are processed
       S   eigenvectors of H, one a row; theta its eigenvalues, ascending
       Y   Ritz vectors: what rows of S make of the basis
       s   the shift */
typedef struct fsi__modes {
    const fsi_modes_desc *desc;
    /* room: basis vectors kept, most: all there can be */
    size_t n, locked, wanted, block, room, most;
    size_t size, done; /* basis vectors, of which processed */
    double shift;
    double tolerance;
    /* theta is multiplied by this power of two near the shift, so that squares neither overflow nor
     * vanish */
    double unit;
    double *V, *Y;   /* [(locked + room + 1) n], [(wanted + block) n] */
    double *image;   /* [n] M or K times a vector */
    double *H, *S;   /* [room * room] */
    double *square;  /* [room * room + locked + room + 1] scratch */
    double *theta;   /* [room] */
    double *scratch; /* [3 room] of fsi__eigen_all */
    double *along;   /* [locked + room + 1] coefficients of one pass */
    uint64_t random;
    int solves;
    fsi_cholesky factor;
    fsi_arena arena;
} fsi__modes;

static void fsi__modes_layout(fsi__modes *modes) {
    fsi_arena *arena = &modes->arena;
    size_t all = modes->locked + modes->room + 1;
    size_t square = modes->room * modes->room;
    FSI__TAKE(modes->V, arena, all * modes->n);
    FSI__TAKE(modes->Y, arena, (modes->wanted + modes->block) * modes->n);
    FSI__TAKE(modes->image, arena, modes->n);
    FSI__TAKE(modes->H, arena, square);
    FSI__TAKE(modes->S, arena, square);
    FSI__TAKE(modes->square, arena, square + all);
    FSI__TAKE(modes->theta, arena, modes->room);
    FSI__TAKE(modes->scratch, arena, 3 * modes->room);
    FSI__TAKE(modes->along, arena, all);
}

/* Basis vector number i after the null vectors. */
FSI__INLINE double *fsi__modes_vector(const fsi__modes *modes, size_t i) {
    return modes->V + (modes->locked + i) * modes->n;
}

/* image = matrix x in doubles (NULL = identity); returns x . image. */
static double fsi__modes_mul(const fsi__modes *modes, const fsi_csr *matrix, const double *x) {
    ptrdiff_t rows = (ptrdiff_t)modes->n;
    if (!matrix)
        memcpy(modes->image, x, modes->n * sizeof *x);
    FSI__PARALLEL(rows > FSI__GRAIN)
    for (ptrdiff_t i = 0; i < (matrix ? rows : 0); i++) {
        double sum = 0;
        for (int32_t k = matrix->row[i]; k < matrix->row[i + 1]; k++)
            sum += (double)matrix->val[k] * x[matrix->col[k]];
        modes->image[i] = sum;
    }
    return fsi__dot_double(modes->n, x, modes->image);
}

/* Makes w M-orthogonal to the first `count` rows of V (twice), sets the coefficients c, returns the
 * M-norm left, and *before. */
static double fsi__modes_orthogonal(fsi__modes *modes, size_t count, double *w, double *c,
                                    double *before) {
    ptrdiff_t n = (ptrdiff_t)modes->n;
    ptrdiff_t rows = (ptrdiff_t)count;
    ptrdiff_t chunk = 1024;
    double *along = modes->along;
    memset(c, 0, count * sizeof *c);

    for (int pass = 0; pass < 2; pass++) {
        double square = fsi__modes_mul(modes, modes->desc->M, w);
        if (pass == 0)
            *before = sqrt(fabs(square));
        FSI__PARALLEL(n > FSI__GRAIN)
        for (ptrdiff_t i = 0; i < rows; i++)
            along[i] = fsi__dot_double(modes->n, modes->V + (size_t)(i * n), modes->image);
        FSI__PARALLEL(n > FSI__GRAIN)
        for (ptrdiff_t begin = 0; begin < n; begin += chunk) {
            size_t length = (size_t)(n - begin < chunk ? n - begin : chunk);
            for (ptrdiff_t i = 0; i < rows; i++)
                fsi__axpy64(length, -along[i], modes->V + (size_t)(i * n + begin), w + begin);
        }
        for (ptrdiff_t i = 0; i < rows; i++)
            c[i] += along[i];
    }

    return sqrt(fabs(fsi__modes_mul(modes, modes->desc->M, w)));
}

/* Adds row `size` of V, already orthogonal with the given norm, to the basis. */
static void fsi__modes_keep(fsi__modes *modes, double norm) {
    double *w = fsi__modes_vector(modes, modes->size++);
    for (size_t i = 0; i < modes->n; i++)
        w[i] /= norm;
}

static int fsi__modes_full(const fsi__modes *modes) {
    return modes->size >= modes->room || modes->size >= modes->most;
}

/* A random direction the basis does not have yet; 0 when there is none. */
static int fsi__modes_random(fsi__modes *modes) {
    double *w = fsi__modes_vector(modes, modes->size);
    for (int tries = 0; tries < 3 && !fsi__modes_full(modes); tries++) {
        for (size_t i = 0; i < modes->n; i++)
            w[i] = (double)fsi__random_unit(&modes->random) - 0.5;
        double before;
        double norm =
            fsi__modes_orthogonal(modes, modes->locked + modes->size, w, modes->square, &before);
        if (norm > 1e-10 * before) {
            fsi__modes_keep(modes, norm);
            return 1;
        }
    }
    return 0;
}

/* Basis vector j: w = (K + s M)^-1 M v_j, column j of H, and what is new in w joins the basis. */
static void fsi__modes_process(fsi__modes *modes, size_t j) {
    const int32_t *order = modes->factor.order;
    double *w = fsi__modes_vector(modes, modes->size);
    double *y = modes->factor.work;
    size_t n = modes->n;
    (void)fsi__modes_mul(modes, modes->desc->M, fsi__modes_vector(modes, j));
    for (size_t i = 0; i < n; i++)
        y[i] = modes->image[order[i]];
    fsi__cholesky_sweep(&modes->factor, y);
    for (size_t i = 0; i < n; i++)
        w[order[i]] = modes->unit * y[i];
    modes->solves++;

    double *c = modes->square;
    double before;
    double norm = fsi__modes_orthogonal(modes, modes->locked + modes->size, w, c, &before);
    for (size_t i = 0; i < modes->room; i++)
        modes->H[i * modes->room + j] = i < modes->size ? c[modes->locked + i] : 0;
    if (fsi__modes_full(modes))
        return;
    if (norm > 1e-13 * before) {
        modes->H[modes->size * modes->room + j] = norm;
        fsi__modes_keep(modes, norm);
    } else
        fsi__modes_random(modes);
}

/* Ritz vector number k, best first, in terms of the processed basis: a row of S. */
FSI__INLINE const double *fsi__modes_row(const fsi__modes *modes, size_t k) {
    return modes->S + (modes->done - 1 - k) * modes->done;
}

/* Ritz values and vectors of the processed part. Returns the worst residual of the wanted. */
static double fsi__modes_ritz(fsi__modes *modes) {
    size_t done = modes->done;
    size_t room = modes->room;
    for (size_t i = 0; i < done; i++)
        for (size_t j = 0; j < done; j++)
            modes->square[i * done + j] = (modes->H[i * room + j] + modes->H[j * room + i]) / 2;
    if (!fsi__eigen_all(done, modes->square, modes->theta, modes->S, modes->scratch))
        return 1e30;

    double worst = 0;

    for (size_t k = 0; k < modes->wanted && k < done; k++) {
        double sum = 0;
        for (size_t i = done; i < modes->size; i++) {
            double part = fsi__dot_double(done, modes->H + i * room, fsi__modes_row(modes, k));
            sum += part * part;
        }
        sum = sqrt(sum) / fabs(modes->theta[done - 1 - k]);
        if (!(sum <= worst))
            worst = sum;
    }

    return done < modes->wanted ? 1e30 : worst;
}

/* Y = the best `count` Ritz vectors */
static void fsi__modes_lift(fsi__modes *modes, size_t count) {
    ptrdiff_t all = (ptrdiff_t)count;
    FSI__PARALLEL(modes->n > FSI__GRAIN)
    for (ptrdiff_t k = 0; k < all; k++) {
        const double *row = fsi__modes_row(modes, (size_t)k);
        double *y = modes->Y + (size_t)k * modes->n;
        memset(y, 0, modes->n * sizeof *y);
        for (size_t i = 0; i < modes->done; i++)
            fsi__axpy64(modes->n, row[i], fsi__modes_vector(modes, i), y);
    }
}

/* The basis becomes the best `count` Ritz vectors; H is to be filled anew. */
static void fsi__modes_rebase(fsi__modes *modes, size_t count) {
    fsi__modes_lift(modes, count);
    memcpy(fsi__modes_vector(modes, 0), modes->Y, count * modes->n * sizeof *modes->Y);
    memset(modes->H, 0, modes->room * modes->room * sizeof *modes->H);
}

/* Thick restart: the best Ritz vectors, then the vectors not processed yet. `square` holds the new
 * couplings meanwhile. */
static void fsi__modes_restart(fsi__modes *modes) {
    size_t keep = modes->wanted + modes->block;
    keep = keep < modes->done ? keep : modes->done;
    size_t fresh = modes->size - modes->done;
    size_t room = modes->room;
    for (size_t i = 0; i < fresh; i++) {
        const double *row = modes->H + (modes->done + i) * room;
        for (size_t k = 0; k < keep; k++)
            modes->square[i * keep + k] =
                fsi__dot_double(modes->done, row, fsi__modes_row(modes, k));
    }
    fsi__modes_rebase(modes, keep);
    memmove(fsi__modes_vector(modes, keep), fsi__modes_vector(modes, modes->done),
            fresh * modes->n * sizeof(double));
    for (size_t k = 0; k < keep; k++)
        modes->H[k * room + k] = modes->theta[modes->done - 1 - k];
    for (size_t i = 0; i < fresh; i++)
        memcpy(modes->H + (keep + i) * room, modes->square + i * keep, keep * sizeof(double));
    modes->done = keep;
    modes->size = keep + fresh;
}

/* K + s M factored; a shift of our own grows until that succeeds. */
static fsi_result fsi__modes_factor(fsi__modes *modes) {
    const fsi_modes_desc *desc = modes->desc;
    fsi_result result = FSI_ERR_SINGULAR;
    for (int tries = 0; tries < 14 && result == FSI_ERR_SINGULAR; tries++) {
        if (tries)
            modes->shift *= 10;
        result = fsi_cholesky_factor(&modes->factor, desc->K, modes->shift, desc->M);
        if (desc->shift > 0)
            break;
    }
    modes->unit = 1 / fsi__krylov_unit(modes->shift);
    return result;
}

/* Our first shift is a guess from the traces; if it turns out far above the modes, start again at
 * the lowest wanted one. */
static fsi_result fsi__modes_reshift(fsi__modes *modes) {
    size_t skip = (size_t)modes->desc->skip;
    double low = modes->unit / modes->theta[modes->done - 1 - skip] - modes->shift;
    if (modes->desc->shift > 0 || !(low > 0) || modes->shift < 10 * low)
        return FSI_EMPTY;

    size_t start = modes->block < modes->done ? modes->block : modes->done;
    fsi__modes_rebase(modes, start);
    modes->shift = low;
    modes->size = start;
    modes->done = 0;
    return fsi__modes_factor(modes);
}

static fsi_result fsi__modes_iterate(fsi__modes *modes, fsi_report *report) {
    const fsi_modes_desc *desc = modes->desc;
    int cap = desc->max_iterations ? desc->max_iterations : 100 * desc->count + 1000;
    while (modes->size < modes->block && fsi__modes_random(modes))
        continue;
    for (;;) {
        /* the whole block that is new, then the Ritz values */
        size_t end = modes->size;
        for (; modes->done < end; modes->done++)
            fsi__modes_process(modes, modes->done);
        report->residual = fsi__modes_ritz(modes);
        if (!fsi__finite64(report->residual))
            return FSI_ERR_NUMERIC;
        if (report->residual_start <= 0)
            report->residual_start = report->residual;

        /* done? */
        int complete = modes->size == modes->done; /* the basis spans everything */
        int enough = modes->done >= modes->wanted;
        if (enough && (report->residual <= modes->tolerance || complete))
            return FSI_OK;
        if (enough && modes->solves >= cap)
            return FSI_NOT_CONVERGED;
        if (complete && !fsi__modes_random(modes))
            return FSI_ERR_NUMERIC;

        /* no room for another block */
        if (modes->room < modes->most && modes->size + modes->block > modes->room) {
            fsi_result result = report->restarts == 0 ? fsi__modes_reshift(modes) : FSI_EMPTY;
            if (result == FSI_EMPTY)
                fsi__modes_restart(modes);
            else if (result != FSI_OK)
                return result;
            report->restarts++;
        }
    }
}

/* One mode into a row of V, its largest entry (the first of equal ones) positive. */
static void fsi__modes_write_row(size_t n, const double *y, fsi_real *row) {
    size_t top = 0;
    for (size_t i = 1; i < n; i++)
        if (fabs(y[i]) > fabs(y[top]) * (1 + 1e-6))
            top = i;
    for (size_t i = 0; i < n; i++)
        row[i] = (fsi_real)(y[top] < 0 ? -y[i] : y[i]);
}

/* Writes the modes in ascending order of their Rayleigh quotients y.K y / y.M y; 0 (and nothing
 * written) if one is not finite. */
static int fsi__modes_write(fsi__modes *modes, fsi_real *w, fsi_real *V) {
    size_t n = modes->n;
    size_t skip = (size_t)modes->desc->skip;
    double *quotient = modes->theta;
    fsi__modes_lift(modes, modes->wanted);
    for (size_t k = 0; k < modes->wanted; k++) {
        double stiff = fsi__modes_mul(modes, modes->desc->K, modes->Y + k * n);
        quotient[k] = stiff / fsi__modes_mul(modes, modes->desc->M, modes->Y + k * n);
        if (!fsi__finite((fsi_real)quotient[k]))
            return 0;
    }
    fsi__eigen_sort(modes->wanted, n, quotient, modes->Y);
    for (size_t k = skip; k < modes->wanted; k++) {
        w[k - skip] = (fsi_real)quotient[k];
        fsi__modes_write_row(n, modes->Y + k * n, V + (k - skip) * n);
    }

    return 1;
}

/* Sum of the diagonal; the number of rows without a matrix. */
static double fsi__csr_trace(const fsi_csr *matrix, size_t n) {
    double sum = 0;
    for (int32_t i = 0; matrix && i < matrix->rows; i++) {
        int32_t at = fsi__csr_find(matrix->row, matrix->col, i, i);
        sum += at >= 0 ? (double)matrix->val[at] : 0;
    }
    return matrix ? sum : (double)n;
}

/* Null vectors to the locked rows; the first shift from the traces. */
static fsi_result fsi__modes_prepare(fsi__modes *modes) {
    const fsi_modes_desc *desc = modes->desc;
    size_t n = modes->n;

    for (size_t k = 0; k < modes->locked; k++) {
        double *w = modes->V + k * n;
        for (size_t i = 0; i < n; i++)
            w[i] = (double)desc->null_vectors[k * n + i];
        double before;
        double norm = fsi__modes_orthogonal(modes, k, w, modes->square, &before);
        if (!(norm > 1e-6 * before))
            return FSI_ERR_ARGUMENT; /* dependent */
        for (size_t i = 0; i < n; i++)
            w[i] /= norm;
    }
    double stiff = fsi__csr_trace(desc->K, n);
    double mass = fsi__csr_trace(desc->M, n);
    if (!(mass > 0) || stiff < 0)
        return FSI_ERR_SINGULAR;

    modes->shift = 1;
    if (desc->shift > 0)
        modes->shift = desc->shift;
    else if (stiff > 0)
        modes->shift = stiff / mass * (sizeof(fsi_real) == 4 ? 1e-5 : 1e-6);

    return fsi__modes_factor(modes);
}

static fsi_result fsi__modes_check(const fsi_modes_desc *desc, const fsi_real *w,
                                   const fsi_real *V) {
    if (!desc || !w || !V || !fsi__csr_square(desc->K))
        return FSI_ERR_ARGUMENT;

    int rows = desc->K->rows;
    if (desc->M && fsi_csr_check(desc->M) != FSI_OK)
        return FSI_ERR_ARGUMENT;
    if (desc->M && (desc->M->rows != rows || desc->M->cols != rows))
        return FSI_ERR_SIZE;
    if (desc->count < 1 || desc->skip < 0 || desc->null_count < 0 || desc->max_iterations < 0)
        return FSI_ERR_ARGUMENT;
    if (!fsi__knob(desc->shift) || !fsi__knob(desc->tolerance))
        return FSI_ERR_ARGUMENT;

    double all = (double)desc->count + desc->skip + desc->null_count;
    if (!fsi_allocator_valid(&desc->allocator) || all > rows)
        return FSI_ERR_ARGUMENT;

    size_t null_size = (size_t)desc->null_count * (size_t)rows;
    if (null_size && (!desc->null_vectors || !fsi_all_finite(null_size, desc->null_vectors)))
        return FSI_ERR_ARGUMENT;
    return FSI_OK;
}

/* Sizes, memory and the factor's pattern. */
static fsi_result fsi__modes_open(fsi__modes *modes, const fsi_modes_desc *desc) {
    modes->desc = desc;
    modes->n = (size_t)desc->K->rows;
    modes->locked = (size_t)desc->null_count;
    modes->wanted = (size_t)desc->count + (size_t)desc->skip;
    modes->most = modes->n - modes->locked;
    modes->block = modes->most < 8 ? modes->most : 8;
    modes->room = 2 * modes->wanted + 40;
    if (modes->room > modes->most)
        modes->room = modes->most;
    modes->tolerance = desc->tolerance;
    if (!(modes->tolerance > 0))
        modes->tolerance = sizeof(fsi_real) == 4 ? 1e-6 : 1e-10;
    modes->random = 1;
    fsi_cholesky_desc order = FSI__ZERO;
    order.allocator = desc->allocator;
    fsi_result result = fsi_cholesky_init(&modes->factor, desc->K, &order);
    if (result != FSI_OK)
        return result;

    fsi__modes_layout(modes);
    result = fsi__arena_open(&modes->arena, &desc->allocator);
    if (result == FSI_OK)
        fsi__modes_layout(modes);

    return result;
}

FSI_API fsi_result fsi_modes_solve(const fsi_modes_desc *desc, fsi_real *w, fsi_real *V,
                                   fsi_report *report) {
    fsi__modes modes = FSI__ZERO;
    fsi_report done = FSI__ZERO;
    fsi_result result = fsi__modes_check(desc, w, V);
    if (result == FSI_OK)
        result = fsi__modes_open(&modes, desc);
    if (result == FSI_OK)
        result = fsi__modes_prepare(&modes);
    if (result == FSI_OK)
        result = fsi__modes_iterate(&modes, &done);
    if (result >= 0 && !fsi__modes_write(&modes, w, V))
        result = FSI_ERR_NUMERIC;
    done.iterations = modes.solves;
    done.reason = result;
    if (report)
        *report = done;
    if (modes.arena.base)
        fsi_free(&desc->allocator, modes.arena.base, modes.arena.size);
    fsi_cholesky_free(&modes.factor);

    return result;
}

/* ------------------------------------------------------------------------------------------------
 * >>multigrid */
/* How it works. V-cycle with red-black Gauss-Seidel: red, black, ... down, mirrored on the way up,
   piecewise constant transfer P and its transpose, so the cycle is symmetric. Coarse cells join up
   to 2 x 2 x 2 children that are connected inside the block; children cut off by a closed face
   (orphans) join the block next door on their own side, so no level couples across a shell. A
   coarse face weighs w_c = s sum over its fine faces 1 / (1 / w + 1 / (2 w_in) + 1 / (2 w_out)), s
   = 4 / 2^dimensions, resistances in series from centre to centre: 1 inside, and a Dirichlet value
   at distance t (in cells) moves to (t + 1/2) / 2, where it stays in space. All passes over the
   finest grid are fused: stage t works on plane k - t while it is in the cache (fsi__mg_wave). CG
   runs in fsi_real with the exact operator; only the cycle is in float, on a right-hand side scaled
   by a power of two. */
#define FSI__FLUID 64 /* bits of fsi_mg.face */
#define FSI__AIR 128
#define FSI__ROW_PLAIN 1  /* weights between unknowns are 1, the diagonal is a small integer */
#define FSI__ROW_CLEAN 2  /* finest level: this row and its four neighbours hold only fluid */
#define FSI__ROW_ORPHAN 4 /* some cell has a parent next door, or none */
/* a boundary inside the grid runs through or along the row: extra sweeps */
#define FSI__ROW_BAND 8
/* kind >= this: orphan; kind >> 4 is 1 + direction of the adopting block, or 7 */
#define FSI__ORPHAN 16
#define FSI__MG_BLOCK 512 /* row buffers on the stack */
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__)
#define FSI__IVDEP _Pragma("GCC ivdep") /* rows of different arrays do not overlap */
#else
#define FSI__IVDEP
#endif

/* Offset of cell h = 0 of row (j, k) in an array of one colour. */
FSI__INLINE ptrdiff_t fsi__mg_at(const fsi_mg_level *level, int j, int k) {
    return 1 + (ptrdiff_t)level->pitch * (j + 1) + (ptrdiff_t)level->plane * (k + 1);
}

/* The same row in the arrays of both colours. */
FSI__INLINE ptrdiff_t fsi__mg_of(const fsi_mg_level *level, int color, int j, int k) {
    return fsi__mg_at(level, j, k) + (color ? (ptrdiff_t)level->size : 0);
}

/* Index of cell (i, j, k), each >= -1, there. */
FSI__INLINE ptrdiff_t fsi__mg_id(const fsi_mg_level *level, int i, int j, int k) {
    return fsi__mg_of(level, (i + j + k) & 1, j, k) + ((i + 2) >> 1) - 1;
}

FSI__INLINE ptrdiff_t fsi__mg_cell_id(const fsi_mg_level *level, fsi__ijk cell) {
    return fsi__mg_id(level, cell.i, cell.j, cell.k);
}

/* Number of a cell in the caller's arrays. */
FSI__INLINE ptrdiff_t fsi__mg_number(const fsi_mg *mg, int i, int j, int k) {
    return i + (ptrdiff_t)mg->n[0] * (j + (ptrdiff_t)mg->n[1] * k);
}

/* From a cell to the next one along an axis, in the caller's arrays. */
FSI__INLINE ptrdiff_t fsi__mg_stride(const fsi_mg *mg, int axis) {
    if (axis == 0)
        return 1;
    return axis == 1 ? mg->n[0] : (ptrdiff_t)mg->n[0] * mg->n[1];
}

/* The children of a coarse cell, numbered by 3 bits; the cell behind a face. */
FSI__INLINE fsi__ijk fsi__mg_child(fsi__ijk cell, int child) {
    return fsi__ijk_of(2 * cell.i + (child & 1), 2 * cell.j + (child >> 1 & 1),
                       2 * cell.k + (child >> 2));
}

FSI__INLINE fsi__ijk fsi__mg_behind(fsi__ijk cell, int direction) {
    return fsi__ijk_step(cell, direction >> 1, direction & 1 ? 1 : -1);
}

/* Offsets of the cells of row (j, k) with even and odd i in the split arrays of the finest level.
 */
FSI__INLINE ptrdiff_t fsi__mg_even(const fsi_mg_level *level, int j, int k) {
    return fsi__mg_of(level, (j + k) & 1, j, k);
}

FSI__INLINE ptrdiff_t fsi__mg_odd(const fsi_mg_level *level, int j, int k) {
    return fsi__mg_of(level, !((j + k) & 1), j, k);
}

FSI__INLINE size_t fsi__mg_line(const fsi_mg_level *level, int j, int k) {
    return (size_t)j + (size_t)level->n[1] * (size_t)k;
}

/* FSI__ROW_ flags of a row. */
FSI__INLINE int fsi__mg_flags(const fsi_mg_level *level, int j, int k) {
    return level->row[fsi__mg_line(level, j, k)];
}

/* flat: a plane of cells, whose rows have no neighbours along y and no room for any. */
static void fsi__mg_layout_level(fsi_mg_level *level, fsi_arena *arena, int finest, int flat) {
    level->half = (level->n[0] + 1) / 2;
    level->pitch = (size_t)level->half + 1;
    level->plane = flat ? level->pitch : level->pitch * ((size_t)level->n[1] + 2);
    size_t rows = level->plane * ((size_t)level->n[2] + 2) + level->pitch;
    level->size = (rows + 2 + 15) & ~(size_t)15;
    size_t both = 2 * level->size;
    FSI__TAKE(level->x, arena, both);
    FSI__TAKE(level->f, arena, both);
    for (int axis = 0; axis < 3; axis++)
        if (axis != 1 || !flat)
            FSI__TAKE(level->weight[axis], arena, both);
    if (!finest)
        FSI__TAKE(level->dir, arena, both);
    FSI__TAKE(level->kind, arena, both);
    FSI__TAKE(level->row, arena, (size_t)level->n[1] * (size_t)level->n[2]);
}

/* Takes all arrays; level sizes are known from n and levels. The level structs themselves come
 * first. */
static void fsi__mg_layout(fsi_mg *mg, fsi_arena *arena, fsi_mg_level *level) {
    size_t row = (size_t)mg->n[0];
    FSI__TAKE(mg->level, arena, (size_t)mg->levels);
    FSI__TAKE(mg->face, arena, mg->cells);
    FSI__TAKE(mg->count, arena, mg->cells);
    FSI__TAKE(mg->label, arena, mg->cells);
    FSI__TAKE(mg->regular, arena, mg->cells / 8 + 1);
    FSI__TAKE(mg->residual, arena, mg->cells);
    FSI__TAKE(mg->direction, arena, mg->cells);
    FSI__TAKE(mg->image, arena, mg->cells);
    FSI__TAKE(mg->zero, arena, row);
    FSI__TAKE(mg->one, arena, row + 1);
    FSI__TAKE(mg->edge, arena, 2 * row);
    FSI__TAKE(mg->part, arena, (size_t)mg->n[2]);

    for (int depth = 0; depth < mg->levels; depth++) {
        fsi_mg_level fresh;
        float children = 1;
        memset(&fresh, 0, sizeof fresh);
        for (int axis = 0; axis < 3; axis++)
            fresh.n[axis] = depth ? (level->n[axis] + 1) / 2 : mg->n[axis];
        for (int axis = 0; axis < 3; axis++)
            if (fresh.n[axis] > 1)
                children *= 2;
        fresh.scale = 4 / children;
        fsi__mg_layout_level(&fresh, arena, depth == 0, mg->desc.nz == 1);
        *level = fresh;
        if (mg->level)
            mg->level[depth] = fresh;
    }
}

static int fsi__mg_level_count(const fsi_mg *mg) {
    int n = fsi__imax(mg->n[0], fsi__imax(mg->n[1], mg->n[2]));
    int levels = 1;
    for (; n > 2; n = (n + 1) / 2)
        levels++;
    return mg->desc.levels ? fsi__imin(levels, mg->desc.levels) : levels;
}

static int fsi__mg_desc_good(const fsi_mg_desc *desc) {
    int sizes = desc->nx >= 1 && desc->ny >= 1 && desc->nz >= 1;
    int sweeps = desc->sweeps >= 0 && desc->sweeps <= 8;
    int band = desc->band_sweeps >= -1 && desc->band_sweeps <= 8;
    return sizes && sweeps && band && desc->levels >= 0 && fsi_allocator_valid(&desc->allocator);
}

FSI_API fsi_result fsi_mg_init(fsi_mg *mg, const fsi_mg_desc *desc) {
    if (!mg || !desc || !fsi__mg_desc_good(desc))
        return FSI_ERR_ARGUMENT;

    fsi_mg out = FSI__ZERO;
    out.desc = *desc;

    /* internal axes: 2D becomes nx, 1, ny */
    int flat = desc->nz == 1;
    out.n[0] = desc->nx;
    out.n[1] = flat ? 1 : desc->ny;
    out.n[2] = flat ? desc->ny : desc->nz;
    for (int side = 0; side < 6; side++)
        out.open[side] = desc->open[side] != 0;
    if (flat) {
        out.open[4] = out.open[2];
        out.open[5] = out.open[3];
        out.open[2] = out.open[3] = 0;
    }
    size_t plane;
    if (!fsi_size_mul((size_t)out.n[0], (size_t)out.n[1], &plane)
        || !fsi_size_mul(plane, (size_t)out.n[2], &out.cells) || out.cells > 0x7ffffff0)
        return FSI_ERR_SIZE;

    out.levels = fsi__mg_level_count(&out);
    out.sweeps = desc->sweeps ? desc->sweeps : 2;
    out.band = desc->band_sweeps ? fsi__imax(desc->band_sweeps, 0) : 1;
    fsi_mg_level scratch;
    fsi_arena arena = FSI__ZERO;
    fsi__mg_layout(&out, &arena, &scratch);
    fsi_result result = fsi__arena_block(&arena, &desc->allocator, &out.block, &out.bytes);
    if (result != FSI_OK)
        return result;

    fsi__mg_layout(&out, &arena, &scratch);
    fsi_fill((size_t)out.n[0] + 1, 1, out.one);
    memset(out.edge, FSI_CELL_DIRICHLET, (size_t)out.n[0]);
    memset(out.edge + out.n[0], FSI_CELL_NEUMANN, (size_t)out.n[0]);
    *mg = out;
    result = fsi_mg_update(mg, NULL, NULL);

    return result == FSI_EMPTY ? FSI_OK : result;
}

FSI_API void fsi_mg_free(fsi_mg *mg) {
    if (!mg)
        return;
    fsi_free(&mg->desc.allocator, mg->block, mg->bytes);
    memset(mg, 0, sizeof *mg);
}

/* ---- waves: several stages over the planes in one pass */
typedef void (*fsi__mg_stage)(void *user, int stage, int plane);

/* First plane of a chunk: an even one. */
static int fsi__mg_border(int planes, int chunk, int chunks) {
    if (chunk == chunks)
        return planes;
    return (int)((ptrdiff_t)planes * chunk / chunks) & ~1;
}

/* Runs stage t = 0 .. stages-1 on all planes, where stage t on a plane needs stage t - 1 on it and
   both neighbours, and must come before stage t + 1 there. Chunks of planes shrink by a plane per
   stage at inner borders (parallel); the gaps left are filled afterwards. The last stage may work
   on pairs of planes (k - 1, k odd): a pair that is not whole above a border belongs to the gap. */
static void fsi__mg_wave(int planes, int stages, int parallel, fsi__mg_stage fn, void *user) {
    int room = fsi__imax(32, fsi__imax(2 * stages + 2, planes / 32));
    int chunks = parallel && planes >= 2 * room ? planes / room : 1;
    int pair = (stages - 1) & 1; /* the last stage begins a plane later above a border */
    FSI__PARALLEL(chunks > 1)
    for (int chunk = 0; chunk < chunks; chunk++) {
        int begin = fsi__mg_border(planes, chunk, chunks);
        int end = fsi__mg_border(planes, chunk + 1, chunks);
        for (int k = begin; k < end + stages - 1; k++)
            for (int stage = 0; stage < stages; stage++) {
                int plane = k - stage;
                int from = chunk ? begin + stage + (stage + 1 == stages && pair) : begin;
                int to = chunk + 1 < chunks ? end - stage : end;
                if (plane >= from && plane < to)
                    fn(user, stage, plane);
            }
    }

    /* the gaps */
    FSI__PARALLEL(chunks > 2)
    for (int chunk = 1; chunk < chunks; chunk++) {
        int border = fsi__mg_border(planes, chunk, chunks);
        for (int stage = 1; stage < stages; stage++) {
            int end = border + stage + (stage + 1 == stages && pair);
            for (int plane = border - stage; plane < end; plane++)
                fn(user, stage, plane);
        }
    }
}

FSI__INLINE int fsi__mg_big(const fsi_mg_level *level) {
    return level->size > 16384;
}

/* ---- kernels of one row and colour */
/* Row of n cells and what stands around them. The neighbours are of the other colour; o[h] and
   o[h + 1] are those along x.

                 y1, wy1
                    |
       o[h], wx0 -- x -- o[h + 1], wx1      z0, wz0 and z1, wz1 below and above
                    |
                 y0, wy0 */
typedef struct fsi__mg_row {
    float *x;
    const float *f;
    const float *o;
    const float *y0;
    const float *y1;
    const float *z0;
    const float *z1;
    const float *wx0;
    const float *wx1;
    const float *wy0;
    const float *wy1;
    const float *wz0;
    const float *wz1;
    const float *dir; /* Dirichlet weight that belongs to no face */
    const uint8_t *kind;
    int n;     /* cells */
    int plain; /* 1: all weights are 1 */
} fsi__mg_row;

/* Row (j, k) of a colour from cell h0 on, n cells. */
static fsi__mg_row fsi__mg_row_get(const fsi_mg_level *level, int color, int j, int k, int h0,
                                   int cells) {
    fsi__mg_row row;
    ptrdiff_t other = color ? 0 : (ptrdiff_t)level->size; /* where the other colour begins */
    ptrdiff_t at = fsi__mg_at(level, j, k) + h0;
    ptrdiff_t own = fsi__mg_of(level, color, j, k) + h0;
    ptrdiff_t x0 = other + at + ((j + k + color) & 1) - 1;
    ptrdiff_t z0 = other + fsi__mg_at(level, j, k - 1) + h0;
    ptrdiff_t z1 = other + fsi__mg_at(level, j, k + 1) + h0;
    const float *none = level->x + h0; /* plane -1 of x is zero */
    row.x = level->x + own;
    row.f = level->f + own;
    row.kind = level->kind + own;
    row.n = cells;
    row.plain = fsi__mg_flags(level, j, k) & FSI__ROW_PLAIN;
    row.o = level->x + x0;
    row.y0 = row.y1 = row.wy0 = row.wy1 = none;
    row.z0 = level->x + z0;
    row.z1 = level->x + z1;
    row.wx0 = level->weight[0] + x0;
    row.wx1 = level->weight[0] + own;
    row.wz0 = level->weight[2] + z0;
    row.wz1 = level->weight[2] + own;
    row.dir = level->dir ? level->dir + own : none;
    if (level->weight[1]) {
        ptrdiff_t y0 = other + fsi__mg_at(level, j - 1, k) + h0;
        row.y0 = level->x + y0;
        row.y1 = level->x + other + fsi__mg_at(level, j + 1, k) + h0;
        row.wy0 = level->weight[1] + y0;
        row.wy1 = level->weight[1] + own;
    }

    return row;
}

/* What all kernels are made of, inlined with constants for plain and defect. Unit weights (plain)
   need no arrays of weights: the diagonal is in kind.
       defect 0   x = (f + sum over the neighbours of w x) / diagonal: a Gauss-Seidel sweep
       defect 1   sum += f - A x where the cell has its parent in the same block */
FSI__HOT FSI__FORCE_INLINE void fsi__mg_row_kernel(const fsi__mg_row *row, int plain, int defect,
                                                   float *FSI__RESTRICT sum) {
    float *FSI__RESTRICT x = row->x;
    const float *FSI__RESTRICT f = row->f;
    const float *FSI__RESTRICT o = row->o;
    const float *FSI__RESTRICT y0 = row->y0;
    const float *FSI__RESTRICT y1 = row->y1;
    const float *FSI__RESTRICT z0 = row->z0;
    const float *FSI__RESTRICT z1 = row->z1;
    const float *FSI__RESTRICT wx0 = row->wx0;
    const float *FSI__RESTRICT wx1 = row->wx1;
    const float *FSI__RESTRICT wy0 = row->wy0;
    const float *FSI__RESTRICT wy1 = row->wy1;
    const float *FSI__RESTRICT wz0 = row->wz0;
    const float *FSI__RESTRICT wz1 = row->wz1;
    const float *FSI__RESTRICT dir = row->dir;
    const uint8_t *FSI__RESTRICT kind = row->kind;
    int n = row->n;
    FSI__IVDEP
    for (int h = 0; h < n; h++) {
        int unknown = plain ? kind[h] & 7 : kind[h];
        float diagonal;
        float around;
        if (plain) {
            diagonal = (float)(defect ? unknown : unknown + (unknown == 0));
            around = ((o[h] + o[h + 1]) + (y0[h] + y1[h])) + (z0[h] + z1[h]);
        } else {
            diagonal = ((wx0[h] + wx1[h]) + (wy0[h] + wy1[h])) + ((wz0[h] + wz1[h]) + dir[h]);
            diagonal = diagonal > 0.0f ? diagonal : 1.0f;
            around = ((wx0[h] * o[h] + wx1[h] * o[h + 1]) + (wy0[h] * y0[h] + wy1[h] * y1[h]))
                     + (wz0[h] * z0[h] + wz1[h] * z1[h]);
        }
        float value = f[h] + around;
        if (defect) {
            value -= diagonal * x[h];
            sum[h] += unknown && kind[h] < FSI__ORPHAN ? value : 0.0f;
        } else {
            value /= diagonal;
            x[h] = unknown ? value : 0.0f;
        }
    }
}

FSI__HOT static void fsi__mg_smooth(const fsi__mg_row *row) {
    if (row->plain)
        fsi__mg_row_kernel(row, 1, 0, NULL);
    else
        fsi__mg_row_kernel(row, 0, 0, NULL);
}

FSI__HOT static void fsi__mg_defect(const fsi__mg_row *row, float *FSI__RESTRICT sum) {
    if (row->plain)
        fsi__mg_row_kernel(row, 1, 1, sum);
    else
        fsi__mg_row_kernel(row, 0, 1, sum);
}

/* even[h] = scale row[2h], odd[h] = scale row[2h + 1] */
FSI__HOT static void fsi__mg_split(int count, const float *FSI__RESTRICT row, float scale,
                                   float *FSI__RESTRICT even, float *FSI__RESTRICT odd) {
    int pairs = count / 2;
    for (int pair = 0; pair < pairs; pair++) {
        even[pair] = scale * row[2 * pair];
        odd[pair] = scale * row[2 * pair + 1];
    }
    if (count & 1)
        even[pairs] = scale * row[count - 1];
}

/* Is a cell of this kind an unknown with its parent in the same block? */
FSI__FORCE_INLINE int fsi__mg_settled(int kind) {
    return (kind > 0) & (kind < FSI__ORPHAN);
}

/* x += the value of the coarse cell, which is in the even or in the odd row, where a cell has its
 * parent in the same block. */
FSI__HOT static void fsi__mg_correct(int count, const float *FSI__RESTRICT even,
                                     const float *FSI__RESTRICT odd,
                                     const uint8_t *FSI__RESTRICT kind, float *FSI__RESTRICT x) {
    int pairs = count / 2;
    for (int pair = 0; pair < pairs; pair++) {
        x[2 * pair] += fsi__mg_settled(kind[2 * pair]) ? even[pair] : 0.0f;
        x[2 * pair + 1] += fsi__mg_settled(kind[2 * pair + 1]) ? odd[pair] : 0.0f;
    }
    if (count & 1)
        x[count - 1] += fsi__mg_settled(kind[count - 1]) ? even[pairs] : 0.0f;
}

/* ---- the V-cycle */
/* One colour of a plane; band: only rows along boundaries. */
static void fsi__mg_sweep(const fsi_mg_level *level, int color, int k, int band) {
    for (int j = 0; j < level->n[1]; j++) {
        if (band && !(fsi__mg_flags(level, j, k) & FSI__ROW_BAND))
            continue;
        fsi__mg_row row = fsi__mg_row_get(level, color, j, k, 0, level->half);
        fsi__mg_smooth(&row);
    }
}

/* Right-hand side of coarse plane K: the defects of the red children (black ones are zero after a
 * black sweep). */
static void fsi__mg_restrict(const fsi_mg_level *fine, const fsi_mg_level *coarse, int coarse_k) {
    float sum[FSI__MG_BLOCK];
    for (int coarse_j = 0; coarse_j < coarse->n[1]; coarse_j++)
        for (int first = 0; first < fine->half; first += FSI__MG_BLOCK) {
            int count = fsi__imin(FSI__MG_BLOCK, fine->half - first);
            memset(sum, 0, (size_t)count * sizeof *sum);
            for (int child = 0; child < 4; child++) {
                int j = 2 * coarse_j + (child & 1);
                int k = 2 * coarse_k + (child >> 1);
                if (j >= fine->n[1] || k >= fine->n[2])
                    continue;
                fsi__mg_row row = fsi__mg_row_get(fine, 0, j, k, first, count);
                fsi__mg_defect(&row, sum);
            }
            float *f = coarse->f + first / 2;
            fsi__mg_split(count, sum, fine->scale, f + fsi__mg_even(coarse, coarse_j, coarse_k),
                          f + fsi__mg_odd(coarse, coarse_j, coarse_k));
        }
}

/* Coarse cell that a fine cell of this kind belongs to, and its index; -1 if none. */
static ptrdiff_t fsi__mg_parent(const fsi_mg_level *level, fsi__ijk cell, int kind,
                                fsi__ijk *parent) {
    int direction = (kind >> 4) - 1;
    if (!kind || direction == 6)
        return -1;
    if (direction >= 0)
        cell = fsi__mg_behind(cell, direction);
    *parent = fsi__ijk_of(cell.i >> 1, cell.j >> 1, cell.k >> 1);
    return fsi__mg_cell_id(level, *parent);
}

/* Every orphan of a level, in order. */
typedef void (*fsi__mg_orphan_fn)(const fsi_mg *mg, int q, fsi__ijk c, uint8_t *kind);

static void fsi__mg_orphans(const fsi_mg *mg, int depth, fsi__mg_orphan_fn fn) {
    const fsi_mg_level *level = mg->level + depth;
    for (int k = 0; k < level->n[2]; k++)
        for (int j = 0; j < level->n[1]; j++)
            for (int i = 0; i < level->n[0] && fsi__mg_flags(level, j, k) & FSI__ROW_ORPHAN; i++) {
                uint8_t *kind = level->kind + fsi__mg_id(level, i, j, k);
                if (*kind >= FSI__ORPHAN)
                    fn(mg, depth, fsi__ijk_of(i, j, k), kind);
            }
}

/* d[t] = f - A x where cell h0 + t of row (j, k), red, is an orphan. */
static void fsi__mg_defect_orphans(const fsi_mg_level *level, int j, int k, int h0, int count,
                                   float *defect) {
    for (int cell = 0; cell < count; cell++) {
        int kind = level->kind[fsi__mg_at(level, j, k) + h0 + cell];
        uint8_t own = (uint8_t)(kind & 15); /* without the orphan's mark */
        if (kind < FSI__ORPHAN)
            continue;
        fsi__mg_row row = fsi__mg_row_get(level, 0, j, k, h0 + cell, 1);
        row.kind = &own;
        defect[cell] = 0;
        fsi__mg_defect(&row, defect + cell);
    }
}

/* Orphans of red colour: adds their defect to the right-hand side of their parents (serial: parents
 * are shared). */
static void fsi__mg_restrict_orphan(const fsi_mg *mg, int depth, fsi__ijk cell, uint8_t *kind) {
    const fsi_mg_level *level = mg->level + depth;
    fsi__ijk block;
    ptrdiff_t parent =
        (cell.i + cell.j + cell.k) & 1 ? -1 : fsi__mg_parent(level + 1, cell, *kind, &block);
    float sum = 0;
    if (parent < 0)
        return;
    fsi__mg_defect_orphans(level, cell.j, cell.k, cell.i >> 1, 1, &sum);
    level[1].f[parent] += level->scale * sum;
}

/* x += P x_c on the red cells of plane k (black ones are overwritten by the next sweep). */
static void fsi__mg_prolong(const fsi_mg_level *fine, const fsi_mg_level *coarse, int k) {
    for (int j = 0; j < fine->n[1]; j++) {
        float *x = fine->x + fsi__mg_at(fine, j, k);
        const uint8_t *kind = fine->kind + fsi__mg_at(fine, j, k);
        const float *even = coarse->x + fsi__mg_even(coarse, j >> 1, k >> 1);
        const float *odd = coarse->x + fsi__mg_odd(coarse, j >> 1, k >> 1);
        fsi__mg_correct(fine->half, even, odd, kind, x);
        if (!(fsi__mg_flags(fine, j, k) & FSI__ROW_ORPHAN))
            continue;

        /* orphans take the value of the block that adopted them */
        fsi__ijk block;
        for (int h = 0; h < fine->half; h++) {
            fsi__ijk cell = fsi__ijk_of(2 * h + ((j + k) & 1), j, k);
            if (kind[h] < FSI__ORPHAN)
                continue;
            ptrdiff_t parent = fsi__mg_parent(coarse, cell, kind[h], &block);
            if (parent >= 0)
                x[h] += coarse->x[parent];
        }
    }
}

/* band: half sweeps along boundaries */
typedef struct fsi__mg_job {
    const fsi_mg_level *level;
    int half_sweeps;
    int band;
    double *part;
} fsi__mg_job;

static void fsi__mg_clear(const fsi_mg_level *level, int k) {
    ptrdiff_t at = fsi__mg_at(level, 0, k);
    size_t n = level->pitch * (size_t)(level->n[1] - 1) + (size_t)level->half;
    memset(level->x + at, 0, n * sizeof(float));
    memset(level->x + level->size + at, 0, n * sizeof(float));
}

/* Way down: zeros, (red, black, ... along boundaries,) red, black, ..., black, then the coarse
 * right-hand side of each pair of planes. */
static void fsi__mg_down(void *user, int stage, int k) {
    const fsi__mg_job *job = (const fsi__mg_job *)user;
    if (stage == 0)
        fsi__mg_clear(job->level, k);
    else if (stage <= job->band + job->half_sweeps)
        fsi__mg_sweep(job->level, !(stage & 1), k, stage <= job->band);
    else if (k & 1 || k == job->level->n[2] - 1)
        fsi__mg_restrict(job->level, job->level + 1, k >> 1);
}

static double fsi__mg_plane_dot(const fsi_mg_level *level, int k) {
    double sum = 0;
    for (int j = 0; j < level->n[1]; j++)
        for (int color = 0; color < 2; color++) {
            ptrdiff_t at = fsi__mg_of(level, color, j, k);
            sum += fsi__dot_float((size_t)level->half, level->f + at, level->x + at);
        }
    return sum;
}

/* Way up: coarse correction, black, red, ..., red (and the same along boundaries); then f . x of
 * the plane where asked. */
static void fsi__mg_up(void *user, int stage, int k) {
    const fsi__mg_job *job = (const fsi__mg_job *)user;
    if (stage == 0) {
        fsi__mg_prolong(job->level, job->level + 1, k);
        return;
    }
    fsi__mg_sweep(job->level, stage & 1, k, stage > job->half_sweeps);
    if (job->part && stage == job->half_sweeps + job->band)
        job->part[k] = fsi__mg_plane_dot(job->level, k);
}

/* Coarsest level: half of the sweeps, then the same mirrored. */
#define FSI__MG_BOTTOM 32

FSI__INLINE int fsi__mg_bottom_color(int stage) {
    return stage < FSI__MG_BOTTOM / 2 ? stage & 1 : !(stage & 1);
}

static void fsi__mg_bottom(const fsi_mg_level *level) {
    for (int k = 0; k < level->n[2]; k++)
        fsi__mg_clear(level, k);
    for (int stage = 0; stage < FSI__MG_BOTTOM; stage++)
        for (int k = 0; k < level->n[2]; k++)
            fsi__mg_sweep(level, fsi__mg_bottom_color(stage), k, 0);
}

static void fsi__mg_rank_correct(const fsi_mg *mg, const fsi_mg_rank *rank);
static double fsi__mg_rank_energy(const fsi_mg *mg, const fsi_mg_rank *rank);

/* Sweeps each way on level q. What solids that move leave to do is smooth: one more on the coarse
 * levels takes an iteration less there. */
FSI__INLINE int fsi__mg_sweeps(const fsi_mg *mg, int depth, int columns) {
    return mg->sweeps + (depth > 0 && columns);
}

/* x of the finest level = V-cycle on f of the finest level; returns f . x. */
static double fsi__mg_vcycle(fsi_mg *mg) {
    fsi__mg_job job;
    double energy = 0;
    int last = mg->levels - 1;
    job.band = 2 * mg->band;
    job.part = NULL;

    for (int depth = 0; depth < last; depth++) {
        job.level = mg->level + depth;
        job.half_sweeps = 2 * fsi__mg_sweeps(mg, depth, mg->rank != NULL);
        fsi__mg_wave(job.level->n[2], job.half_sweeps + job.band + 2, fsi__mg_big(job.level),
                     fsi__mg_down, &job);
        fsi__mg_orphans(mg, depth, fsi__mg_restrict_orphan);
    }
    fsi__mg_bottom(mg->level + last);
    if (mg->rank && mg->rank->columns) {
        fsi__mg_rank_correct(mg, mg->rank);
        fsi__mg_bottom(mg->level + last);
    }
    for (int depth = last - 1; depth >= 0; depth--) {
        job.level = mg->level + depth;
        job.half_sweeps = 2 * fsi__mg_sweeps(mg, depth, mg->rank != NULL);
        job.part = depth ? NULL : mg->part;
        fsi__mg_wave(job.level->n[2], job.half_sweeps + job.band + 1, fsi__mg_big(job.level),
                     fsi__mg_up, &job);
    }
    for (int k = 0; k < mg->n[2]; k++)
        energy += last ? mg->part[k] : fsi__mg_plane_dot(mg->level, k);

    return mg->rank && mg->rank->columns ? energy + fsi__mg_rank_energy(mg, mg->rank) : energy;
}

/* ---- set-up: faces, regions, coarse levels */
/* Adds the face bit of a direction for a run of cells whose neighbours are of the given types;
 * Neumann neighbours and zero weights do not count. */
FSI__HOT static void fsi__mg_face_bits(int count, int direction, const uint8_t *FSI__RESTRICT type,
                                       uint8_t *FSI__RESTRICT face) {
    uint8_t bit = (uint8_t)(1 << direction);
    for (int i = 0; i < count; i++)
        face[i] = (uint8_t)(face[i] | (type[i] != FSI_CELL_NEUMANN ? bit : 0)
                            | (type[i] == FSI_CELL_DIRICHLET ? FSI__AIR : 0));
}

/* The same with weights; returns nonzero if a face of a fluid cell has a weight other than 1, and
 * counts 7 there. */
static int fsi__mg_face_bits_weighted(int n, int direction, const uint8_t *type,
                                      const fsi_real *weight, uint8_t *face, uint8_t *count) {
    int odd = 0;
    for (int i = 0; i < n; i++) {
        if (type[i] == FSI_CELL_NEUMANN || !(face[i] & FSI__FLUID))
            continue;
        if (!(weight[i] >= 1 && weight[i] <= 1))
            odd = count[i] = 7;
        if (weight[i] > 0)
            face[i] = (uint8_t)(face[i] | 1 << direction
                                | (type[i] == FSI_CELL_DIRICHLET ? FSI__AIR : 0));
    }
    return odd;
}

FSI__HOT static void fsi__mg_face_start(int count, const uint8_t *FSI__RESTRICT type,
                                        uint8_t *FSI__RESTRICT face) {
    for (int i = 0; i < count; i++)
        face[i] = type[i] == FSI_CELL_FLUID ? FSI__FLUID : 0;
}

FSI__HOT static void fsi__mg_face_finish(int cells, uint8_t *FSI__RESTRICT face,
                                         uint8_t *FSI__RESTRICT count) {
    for (int i = 0; i < cells; i++) {
        uint8_t bits = face[i] & FSI__FLUID ? face[i] : (uint8_t)0;
        face[i] = bits;
        bits = (uint8_t)((bits & 1) + (bits >> 1 & 1) + (bits >> 2 & 1) + (bits >> 3 & 1)
                         + (bits >> 4 & 1) + (bits >> 5 & 1));
        count[i] = count[i] == 7 ? (uint8_t)7 : bits;
    }
}

FSI__HOT static int fsi__mg_any(int count, const uint8_t *type) {
    uint8_t any = 0;
    for (int i = 0; i < count; i++)
        any = (uint8_t)(any | type[i]);
    return any;
}

/* First weight of the faces of row (j, k) in a direction; NULL = all 1 (the row of ones). */
static const fsi_real *fsi__mg_weights(const fsi_mg *mg, int direction, int j, int k) {
    ptrdiff_t n0 = mg->n[0];
    ptrdiff_t n1 = mg->n[1];
    ptrdiff_t up = direction & 1;
    const fsi_real *weight = mg->weight[direction >> 1];
    if (!weight)
        return NULL;
    if (direction < 2)
        return weight + (n0 + 1) * (j + n1 * k) + up;
    if (direction < 4)
        return weight + n0 * (j + up + (n1 + 1) * k);
    return weight + n0 * (j + n1 * (k + up));
}

/* From row (j, k) to the row across its faces of a direction 2 .. 5, in cells; 0: outside the grid.
 */
static ptrdiff_t fsi__mg_row_step(const fsi_mg *mg, int direction, int j, int k) {
    int axis = direction >> 1;
    int at = (axis == 1 ? j : k) + (direction & 1 ? 1 : -1);
    if (at < 0 || at >= mg->n[axis])
        return 0;
    return direction & 1 ? fsi__mg_stride(mg, axis) : -fsi__mg_stride(mg, axis);
}

/* Types of cells outside the grid, a row of them. */
FSI__INLINE const uint8_t *fsi__mg_outside(const fsi_mg *mg, int direction) {
    return mg->edge + (mg->open[direction] ? 0 : mg->n[0]);
}

static int fsi__mg_bits(int cells, int direction, const uint8_t *type, const fsi_real *weight,
                        uint8_t *face, uint8_t *count) {
    if (weight)
        return fsi__mg_face_bits_weighted(cells, direction, type, weight, face, count);
    fsi__mg_face_bits(cells, direction, type, face);
    return 0;
}

/* Faces of one row: bits, count, flags. */
static void fsi__mg_faces(fsi_mg *mg, const uint8_t *cell, int j, int k) {
    int last = mg->n[0] - 1;
    size_t line = fsi__mg_line(mg->level, j, k);
    size_t first = (size_t)mg->n[0] * line;
    const uint8_t *fluid = (const uint8_t *)mg->zero; /* a row of FSI_CELL_FLUID */
    const uint8_t *type = cell ? cell + first : fluid;
    uint8_t *face = mg->face + first;
    uint8_t *count = mg->count + first;
    const fsi_real *weight = fsi__mg_weights(mg, 0, j, k);
    const fsi_real *inner = weight ? weight + 1 : NULL;
    const fsi_real *end = weight ? inner + last : NULL;
    int odd = 0;                             /* a weight other than 1 */
    int other = fsi__mg_any(last + 1, type); /* a cell that is not fluid, here or next door */
    memset(count, 0, (size_t)mg->n[0]);
    fsi__mg_face_start(last + 1, type, face);

    /* along x: the first face, the inner ones from both sides, the last face */
    odd |= fsi__mg_bits(1, 0, fsi__mg_outside(mg, 0), weight, face, count);
    odd |= fsi__mg_bits(last, 0, type, inner, face + 1, count + 1);
    odd |= fsi__mg_bits(last, 1, type + 1, inner, face, count);
    odd |= fsi__mg_bits(1, 1, fsi__mg_outside(mg, 1), end, face + last, count + last);

    /* the rows around */
    for (int direction = 2; direction < 6; direction++) {
        ptrdiff_t step = fsi__mg_row_step(mg, direction, j, k);
        const uint8_t *across = cell ? type + step : fluid;
        if (step)
            other |= fsi__mg_any(last + 1, across);
        else
            across = fsi__mg_outside(mg, direction);
        weight = fsi__mg_weights(mg, direction, j, k);
        odd |= fsi__mg_bits(last + 1, direction, across, weight, face, count);
    }
    fsi__mg_face_finish(last + 1, face, count);
    mg->level->row[line] = (uint8_t)((odd ? FSI__ROW_BAND : FSI__ROW_PLAIN)
                                     | (other ? FSI__ROW_BAND : FSI__ROW_CLEAN));
}

/* Runs of connected fluid cells along x, in order; a row of n cells keeps its runs at begin[n row],
   ended by -1 unless there are n. A run is named by its first cell: parent leads to the first run
   of its region, where size holds the cells, or -1 once it touches air. */
typedef struct fsi__mg_runs {
    int32_t *begin, *end; /* of each run */
    int32_t *parent;      /* by first cell */
    int32_t *size;        /* by first cell */
    ptrdiff_t n;          /* cells of a row */
} fsi__mg_runs;

FSI__INLINE int fsi__mg_run_at(const fsi__mg_runs *runs, ptrdiff_t line, ptrdiff_t run) {
    return run < runs->n && runs->begin[line * runs->n + run] >= 0;
}

static void fsi__mg_find_runs(const fsi_mg *mg, const fsi__mg_runs *runs, ptrdiff_t line) {
    const uint8_t *face = mg->face + line * runs->n;
    int flags = mg->level->row[line];
    ptrdiff_t run = 0;
    ptrdiff_t end;

    for (ptrdiff_t i = 0; i < runs->n; i = end) {
        int32_t first = (int32_t)(line * runs->n + i);
        end = i + 1;
        if (!(face[i] & FSI__FLUID))
            continue;
        if (flags & FSI__ROW_CLEAN && flags & FSI__ROW_PLAIN)
            end = runs->n;
        while (end < runs->n && face[end] & FSI__FLUID && face[end] & 1)
            end++;
        int air = fsi__mg_any((int)(end - i), face + i) & FSI__AIR;
        runs->begin[line * runs->n + run] = first;
        runs->end[line * runs->n + run++] = (int32_t)(line * runs->n + end);
        runs->parent[first] = first;
        runs->size[first] = air ? -1 : (int32_t)(end - i);
    }
    if (run < runs->n)
        runs->begin[line * runs->n + run] = -1;
}

/* Joins the runs of a row with those of the row `below` where a face with bit d is open between
 * them. */
static void fsi__mg_join_rows(const fsi_mg *mg, const fsi__mg_runs *runs, ptrdiff_t line,
                              ptrdiff_t below, int direction) {
    ptrdiff_t run = 0;
    ptrdiff_t below_run = 0;
    ptrdiff_t shift = (line - below) * runs->n;

    while (fsi__mg_run_at(runs, line, run) && fsi__mg_run_at(runs, below, below_run)) {
        int32_t a0 = runs->begin[line * runs->n + run];
        int32_t a1 = runs->end[line * runs->n + run];
        int32_t b0 = runs->begin[below * runs->n + below_run];
        int32_t b1 = runs->end[below * runs->n + below_run];
        ptrdiff_t first = a0 > b0 + shift ? a0 : b0 + shift;
        ptrdiff_t last = a1 < b1 + shift ? a1 : b1 + shift;
        for (ptrdiff_t cell = first; cell < last; cell++) {
            if (!(mg->face[cell] >> direction & 1))
                continue;
            int32_t root = fsi__root(runs->parent, a0);
            int32_t other = fsi__root(runs->parent, b0);
            if (root == other)
                break;
            if (root > other) {
                int32_t swap = root;
                root = other;
                other = swap;
            }
            runs->parent[other] = root;
            runs->size[root] = runs->size[root] < 0 || runs->size[other] < 0
                                   ? -1
                                   : runs->size[root] + runs->size[other];
            break;
        }
        if (a1 < b1 + shift)
            run++;
        else
            below_run++;
    }
}

static void fsi__mg_fill(int32_t *label, ptrdiff_t begin, ptrdiff_t end, int32_t value) {
    for (; begin < end; begin++)
        label[begin] = value;
}

/* Labels of one row from the numbers of its runs' regions. */
static void fsi__mg_label_row(const fsi__mg_runs *runs, ptrdiff_t line, int32_t *label) {
    ptrdiff_t done = line * runs->n;
    for (ptrdiff_t run = 0; fsi__mg_run_at(runs, line, run); run++) {
        int32_t first = runs->begin[line * runs->n + run];
        int32_t value = runs->size[first];
        fsi__mg_fill(label, done, first, -1);
        done = runs->end[line * runs->n + run];
        fsi__mg_fill(label, first, done, value);
    }
    fsi__mg_fill(label, done, (line + 1) * runs->n, -1);
}

/* Connected regions; those without a Dirichlet face get numbers, the ones of a single cell last.
   Only the union of runs is serial: their number is that of the rows, and the order of the numbers
   must not depend on threads. Sizes live in label until the numbers replace them. */
static void fsi__mg_regions(fsi_mg *mg) {
    ptrdiff_t lines = (ptrdiff_t)mg->n[1] * mg->n[2];
    int32_t *label = mg->label;
    int32_t large = 0;
    fsi__mg_runs runs;
    runs.begin = (int32_t *)(void *)mg->residual;
    runs.end = (int32_t *)(void *)mg->direction;
    runs.parent = (int32_t *)(void *)mg->image;
    runs.size = label;
    runs.n = mg->n[0];
    mg->regions = mg->large = 0;
    FSI__PARALLEL(mg->cells > FSI__GRAIN)
    for (ptrdiff_t line = 0; line < lines; line++)
        fsi__mg_find_runs(mg, &runs, line);
    for (ptrdiff_t line = 0; line < lines; line++) {
        if (line % mg->n[1])
            fsi__mg_join_rows(mg, &runs, line, line - 1, 2);
        if (line >= mg->n[1])
            fsi__mg_join_rows(mg, &runs, line, line - mg->n[1], 4);
    }
    for (ptrdiff_t line = 0; line < lines; line++)
        for (ptrdiff_t run = 0; fsi__mg_run_at(&runs, line, run); run++) {
            int32_t first = runs.begin[line * runs.n + run];
            if (runs.parent[first] == first && label[first] >= 0) {
                mg->regions++;
                mg->large += label[first] > 1;
            }
        }
    int32_t single = mg->large;

    /* the first run of a region comes first: its number is there when the others ask */
    for (ptrdiff_t line = 0; line < lines; line++)
        for (ptrdiff_t run = 0; fsi__mg_run_at(&runs, line, run); run++) {
            int32_t first = runs.begin[line * runs.n + run];
            int32_t root = fsi__root(runs.parent, first);
            if (root == first && label[first] >= 0)
                label[first] = label[first] > 1 ? large++ : single++;
            label[first] = label[root];
        }
    FSI__PARALLEL(mg->cells > FSI__GRAIN)
    for (ptrdiff_t line = 0; line < lines; line++)
        fsi__mg_label_row(&runs, line, label);
}

/* Weight of the upper face of a cell of level q along an axis; one index may be -1. Unit weights
 * are not stored on the finest level. */
static float fsi__mg_w(const fsi_mg *mg, int depth, int axis, fsi__ijk cell) {
    const fsi_mg_level *level = mg->level + depth;
    ptrdiff_t stride = fsi__mg_stride(mg, axis);
    int at = fsi__ijk_get(cell, axis);
    if (!level->weight[axis])
        return 0;
    if (depth || mg->weighted)
        return level->weight[axis][fsi__mg_cell_id(level, cell)];

    const uint8_t *face = mg->face + fsi__mg_number(mg, cell.i, cell.j, cell.k);
    if (at >= 0 && *face & FSI__FLUID)
        return (float)(*face >> (2 * axis + 1) & 1);
    return at + 1 < level->n[axis] ? (float)(face[stride] >> (2 * axis) & 1) : 0;
}

FSI__INLINE int fsi__mg_kind(const fsi_mg_level *level, fsi__ijk cell) {
    if (cell.i < 0 || cell.j < 0 || cell.k < 0)
        return 0;
    int beyond = cell.i >= level->n[0] || cell.j >= level->n[1];
    if (beyond || cell.k >= level->n[2])
        return 0;
    return level->kind[fsi__mg_cell_id(level, cell)];
}

/* Kinds of every second cell of a row of the finest level: the number of faces, 1 for a fluid cell
 * without any. */
FSI__HOT static void fsi__mg_finest_kinds(int cells, const uint8_t *FSI__RESTRICT face,
                                          const uint8_t *FSI__RESTRICT count,
                                          uint8_t *FSI__RESTRICT kind) {
    int half = (cells + 1) / 2;
    for (int h = 0; h < half; h++) {
        uint8_t faces = count[2 * h];
        kind[h] = (uint8_t)(faces | ((face[2 * h] >> 6 & 1) & (faces == 0)));
    }
}

/* The caller's weight of face i of a row; 1 without an array, 0 where the face is closed. */
FSI__INLINE float fsi__mg_open_weight(const fsi_real *weight, int i, int open) {
    return !open ? 0.0f : weight ? (float)weight[i] : 1.0f;
}

/* Weights of face slots (i, j, k), i = -1 .. n-1, of one row (j or k may be -1) along an axis, from
 * the caller's arrays. A face is open where one of its cells says so. */
static void fsi__mg_finest_weights(fsi_mg *mg, int axis, int j, int k) {
    const fsi_mg_level *level = mg->level;
    ptrdiff_t stride = fsi__mg_stride(mg, axis);
    ptrdiff_t first = fsi__mg_number(mg, 0, j, k);
    int above = fsi__ijk_get(fsi__ijk_of(0, j, k), axis) + 1 < level->n[axis];
    const fsi_real *weight = fsi__mg_weights(mg, 2 * axis + 1, j, k);
    for (int i = axis ? 0 : -1; i < level->n[0]; i++) {
        int open = 0;
        if (i >= 0 && j >= 0 && k >= 0)
            open = mg->face[first + i] >> (2 * axis + 1) & 1;
        if (axis ? above : i + 1 < level->n[0])
            open |= mg->face[first + i + stride] >> (2 * axis) & 1;
        level->weight[axis][fsi__mg_id(level, i, j, k)] = fsi__mg_open_weight(weight, i, open);
    }
}

static void fsi__mg_finest(fsi_mg *mg) {
    fsi_mg_level *level = mg->level;
    int j;
    FSI__OMP(parallel for schedule(static) private(j) if (fsi__mg_big(level)))
    for (int k = -1; k < level->n[2]; k++) {
        for (j = 0; j < level->n[1] && k >= 0; j++) {
            size_t first = (size_t)mg->n[0] * fsi__mg_line(level, j, k);
            for (int odd = 0; odd < 2; odd++)
                fsi__mg_finest_kinds(mg->n[0] - odd, mg->face + first + odd,
                                     mg->count + first + odd,
                                     level->kind + fsi__mg_of(level, (j + k + odd) & 1, j, k));
        }
        if (!mg->weighted)
            continue;
        for (j = 0; j < level->n[1]; j++) {
            if (k >= 0)
                fsi__mg_finest_weights(mg, 0, j, k);
            fsi__mg_finest_weights(mg, 2, j, k);
        }
        for (j = -1; j < level->n[1] && level->weight[1] && k >= 0; j++)
            fsi__mg_finest_weights(mg, 1, j, k);
    }
}

/* Coarse kinds while weights are made: SOME holds unknowns, SOLID has unknowns with unit weights in
 * all its children. */
#define FSI__MG_SOME 7
#define FSI__MG_FULL 11

/* solid[h] loses bit 0 unless both cells of a pair are unknowns with unit weights around, and gets
 * bit 1 if one is an unknown */
FSI__HOT static void fsi__mg_pairs(int count, const uint8_t *FSI__RESTRICT red,
                                   const uint8_t *FSI__RESTRICT black,
                                   uint8_t *FSI__RESTRICT solid) {
    for (int pair = 0; pair < count; pair++)
        solid[pair] = (uint8_t)((solid[pair]
                                 & (2
                                    | ((red[pair] > 0) & (red[pair] < 7) & (black[pair] > 0)
                                       & (black[pair] < 7))))
                                | (((red[pair] | black[pair]) > 0) << 1));
}

/* solid[t]: bit 0 where block h0 + t of coarse row (J, K) is SOLID, bit 1 where it has an unknown.
 */
static void fsi__mg_solid(const fsi_mg_level *level, int coarse_j, int coarse_k, int h0, int count,
                          uint8_t *solid) {
    int whole = 1;
    memset(solid, 1, (size_t)count);
    for (int child = 0; child < 4; child++) {
        int j = 2 * coarse_j + (child & 1);
        int k = 2 * coarse_k + (child >> 1);
        if ((level->n[1] == 1 && child & 1) || (level->n[2] == 1 && child >> 1))
            continue;
        if (j >= level->n[1] || k >= level->n[2]) {
            whole = 0;
            continue;
        }
        const uint8_t *kind = level->kind + fsi__mg_at(level, j, k) + h0;
        fsi__mg_pairs(count, kind, kind + level->size, solid);
    }
    for (int pair = 0; pair < count && !whole; pair++)
        solid[pair] &= 2;
}

/* Largest connected part of the children in mask. */
static int fsi__mg_main_part(const fsi_mg *mg, int depth, fsi__ijk block, int mask) {
    int best = 0;
    int size = 0;
    while (mask) {
        /* from the first child left, through open faces, until nothing is new */
        int part = mask & -mask;
        for (int before = 0; before != part;) {
            before = part;
            for (int edge = 0; edge < 24; edge++) {
                int child = edge / 3;
                int axis = edge % 3;
                int other = child ^ 1 << axis;
                int lower = child & other;
                if (!(part >> child & 1) || !(mask >> other & 1) || part >> other & 1)
                    continue;
                if (fsi__mg_w(mg, depth, axis, fsi__mg_child(block, lower)) > 0)
                    part |= 1 << other;
            }
        }
        int count = 0;
        for (int child = 0; child < 8; child++)
            count += part >> child & 1;
        if (count > size) {
            size = count;
            best = part;
        }
        mask &= ~part;
    }
    return best;
}

/* Marks the children of a block that are not connected to its largest part; returns the kind of the
 * coarse cell. */
static int fsi__mg_cut(fsi_mg *mg, int depth, fsi__ijk block) {
    fsi_mg_level *level = mg->level + depth;
    int mask = 0;
    for (int child = 0; child < 8; child++)
        if (fsi__mg_kind(level, fsi__mg_child(block, child)))
            mask |= 1 << child;
    int part = mask ? fsi__mg_main_part(mg, depth, block, mask) : 0;
    for (int child = 0; child < 8 && part != mask; child++) {
        fsi__ijk cell = fsi__mg_child(block, child);
        if (!((mask & ~part) >> child & 1))
            continue;
        level->kind[fsi__mg_cell_id(level, cell)] |= 7 << 4;
        level->row[fsi__mg_line(level, cell.j, cell.k)] |= FSI__ROW_ORPHAN;
    }
    return mask ? FSI__MG_SOME : 0;
}

/* Parents of the fine cells under coarse plane K, and provisional kinds of that plane. */
static void fsi__mg_parents(fsi_mg *mg, int depth, int coarse_k) {
    fsi_mg_level *fine = mg->level + depth;
    fsi_mg_level *coarse = fine + 1;
    uint8_t solid[FSI__MG_BLOCK];
    for (int coarse_j = 0; coarse_j < coarse->n[1]; coarse_j++)
        for (int first = 0; first < coarse->n[0]; first += FSI__MG_BLOCK) {
            int count = fsi__imin(FSI__MG_BLOCK, coarse->n[0] - first);
            fsi__mg_solid(fine, coarse_j, coarse_k, first, count, solid);
            for (int i = 0; i < count; i++) {
                fsi__ijk block = fsi__ijk_of(first + i, coarse_j, coarse_k);
                int kind = 0;
                if (solid[i] & 1)
                    kind = FSI__MG_FULL;
                else if (solid[i])
                    kind = fsi__mg_cut(mg, depth, block);
                coarse->kind[fsi__mg_cell_id(coarse, block)] = (uint8_t)kind;
            }
        }
}

/* Weight of one face of a fine cell, and the kind of the cell behind it. */
static float fsi__mg_face(const fsi_mg *mg, int depth, int direction, fsi__ijk cell, int *behind) {
    fsi__ijk other = fsi__mg_behind(cell, direction);
    *behind = fsi__mg_kind(mg->level + depth, other);
    return fsi__mg_w(mg, depth, direction >> 1, direction & 1 ? cell : other);
}

/* Orphans are adopted by the block behind their strongest open face. */
static void fsi__mg_adopt(const fsi_mg *mg, int depth, fsi__ijk cell, uint8_t *kind) {
    float best = 0;
    int to = 7;
    int behind;
    for (int direction = 0; direction < 6; direction++) {
        float weight = fsi__mg_face(mg, depth, direction, cell, &behind);
        if (fsi__mg_settled(behind) && weight > best) {
            best = weight;
            to = direction + 1;
        }
    }
    *kind = (uint8_t)((*kind & 15) | to << 4);
}

/* Resistance from the middle of the fine cell's block through its face in this direction, as far as
   this side goes: 1/w and half of the inner face; 0 if the face is closed. */
static float fsi__mg_resistance(const fsi_mg *mg, int depth, int direction, fsi__ijk cell,
                                int *behind) {
    float weight = fsi__mg_face(mg, depth, direction, cell, behind);
    int at = fsi__ijk_get(cell, direction >> 1);
    if (!(weight > 0))
        return 0;
    if ((at & 1) == (direction & 1)) { /* the opposite face is inside the block */
        int back;
        float inner = fsi__mg_face(mg, depth, direction ^ 1, cell, &back);
        if (inner > 0 && fsi__mg_settled(back))
            return 1 / weight + 1 / (2 * inner);
    }
    return 1 / weight;
}

/* Whether a cell of this kind can have Dirichlet faces: a bit of the finest level; above it such
 * cells are never plain (fsi__mg_diagonal). */
FSI__INLINE int fsi__mg_airy(const fsi_mg *mg, int depth, fsi__ijk cell, int kind) {
    return depth ? (kind & 7) == 7
                 : mg->face[fsi__mg_number(mg, cell.i, cell.j, cell.k)] & FSI__AIR;
}

/* Sum over the children of a block of the Dirichlet faces in direction d. */
static float fsi__mg_dirichlet(const fsi_mg *mg, int depth, int direction, fsi__ijk block) {
    const fsi_mg_level *level = mg->level + depth;
    float sum = 0;

    /* a wall has none: this test saves 1 % of a solve in set-up */
    int axis = direction >> 1;
    int at = fsi__ijk_get(block, axis);
    int outer = at == (direction & 1 ? level[1].n[axis] - 1 : 0);
    if (outer && !mg->open[direction] && fsi__mg_kind(level + 1, block) == FSI__MG_FULL)
        return 0;

    for (int child = 0; child < 8; child++) {
        fsi__ijk cell = fsi__mg_child(block, child);
        int kind = fsi__mg_kind(level, cell);
        if (!fsi__mg_settled(kind))
            continue;
        if (!fsi__mg_airy(mg, depth, cell, kind))
            continue;
        int behind;
        float resistance = fsi__mg_resistance(mg, depth, direction, cell, &behind);
        if (resistance > 0 && !behind)
            sum += 1 / resistance;
    }

    return sum * level->scale;
}

/* Weight of the upper face of a coarse cell along an axis: between two blocks, or towards Dirichlet
 * values if only one holds unknowns. */
static float fsi__mg_slot(const fsi_mg *mg, int depth, int axis, fsi__ijk block) {
    const fsi_mg_level *level = mg->level + depth;
    fsi__ijk next = fsi__mg_behind(block, 2 * axis + 1);
    int lower = fsi__mg_kind(level + 1, block);
    int upper = fsi__mg_kind(level + 1, next);
    float sum = 0;
    if (lower == FSI__MG_FULL && upper == FSI__MG_FULL)
        return 1;
    if (!lower && !upper)
        return 0;
    if (!upper)
        return fsi__mg_dirichlet(mg, depth, 2 * axis + 1, block);
    if (!lower)
        return fsi__mg_dirichlet(mg, depth, 2 * axis, next);

    for (int child = 0; child < 8; child++) {
        fsi__ijk cell = fsi__mg_child(block, child);
        if (!(child >> axis & 1))
            continue;
        if (!fsi__mg_settled(fsi__mg_kind(level, cell)))
            continue;
        int behind;
        float resistance = fsi__mg_resistance(mg, depth, 2 * axis + 1, cell, &behind);
        if (!(resistance > 0) || !fsi__mg_settled(behind))
            continue;
        int skip;
        float beyond =
            fsi__mg_resistance(mg, depth, 2 * axis, fsi__mg_behind(cell, 2 * axis + 1), &skip);
        float weight = fsi__mg_face(mg, depth, 2 * axis + 1, cell, &skip);
        sum += 1 / (resistance + beyond - 1 / weight);
    }

    return sum * level->scale;
}

/* Dirichlet weight of a coarse cell that fits on none of its faces. */
static float fsi__mg_dir(const fsi_mg *mg, int depth, fsi__ijk block) {
    const fsi_mg_level *level = mg->level + depth;
    float sum = 0;
    int airy = 0;

    for (int child = 0; child < 8; child++) {
        fsi__ijk cell = fsi__mg_child(block, child);
        int kind = fsi__mg_kind(level, cell);
        if (!fsi__mg_settled(kind))
            continue;
        airy |= fsi__mg_airy(mg, depth, cell, kind);
        if (level->dir)
            sum += level->dir[fsi__mg_cell_id(level, cell)];
    }
    sum *= level->scale;

    for (int direction = 0; direction < 6 && airy; direction++) {
        int next = fsi__mg_kind(level + 1, fsi__mg_behind(block, direction));
        /* none between two full blocks; to look saves 4 % of a solve in set-up */
        if (next == FSI__MG_FULL && fsi__mg_kind(level + 1, block) == FSI__MG_FULL)
            continue;
        if (next)
            sum += fsi__mg_dirichlet(mg, depth, direction, block);
    }

    return sum;
}

/* regular[t] = 1 where cell h0 + t of a row and colour and its six neighbours are SOLID: unit
 * weights all around; 2 where none holds unknowns. */
FSI__HOT static void
fsi__mg_all_solid(int count, const uint8_t *FSI__RESTRICT own, const uint8_t *FSI__RESTRICT along,
                  const uint8_t *FSI__RESTRICT y0, const uint8_t *FSI__RESTRICT y1,
                  const uint8_t *FSI__RESTRICT z0, const uint8_t *FSI__RESTRICT z1,
                  uint8_t *FSI__RESTRICT regular) {
    for (int cell = 0; cell < count; cell++) {
        uint8_t all = (uint8_t)(own[cell] & along[cell] & along[cell + 1] & y0[cell] & y1[cell]
                                & z0[cell] & z1[cell]);
        uint8_t any = (uint8_t)(own[cell] | along[cell] | along[cell + 1] | y0[cell] | y1[cell]
                                | z0[cell] | z1[cell]);
        regular[cell] =
            (uint8_t)((all == FSI__MG_FULL) & (any == FSI__MG_FULL)) | (uint8_t)((any == 0) << 1);
    }
}

/* A neighbour behind a wall, or along y in a single row, counts as the cell itself. */
static void fsi__mg_regular(const fsi_mg *mg, int depth, int color, int j, int k, int h0, int count,
                            uint8_t *regular) {
    const fsi_mg_level *level = mg->level + depth;
    const uint8_t *kind = level->kind + h0;
    const uint8_t *other = kind + (color ? 0 : level->size);
    const uint8_t *own = kind + fsi__mg_of(level, color, j, k);
    const uint8_t *along = other + fsi__mg_at(level, j, k) + ((j + k + color) & 1) - 1;

    /* rows below and above along y and z */
    const uint8_t *side[4];
    for (int direction = 2; direction < 6; direction++) {
        int axis = direction >> 1;
        fsi__ijk at = fsi__mg_behind(fsi__ijk_of(0, j, k), direction);
        int number = fsi__ijk_get(at, axis);
        int wall = (number < 0 || number == level->n[axis]) && !mg->open[direction];
        side[direction - 2] =
            wall || !level->weight[axis] ? own : other + fsi__mg_at(level, at.j, at.k);
    }
    fsi__mg_all_solid(count, own, along, side[0], side[1], side[2], side[3], regular);
}

/* Weights of coarse row (j, k), one colour; regular cells in bulk. Their diagonals, and -1 for the
 * others, go into f, where fsi__mg_classify looks for them. */
static void fsi__mg_coarse_row(fsi_mg *mg, int depth, int color, int j, int k) {
    fsi_mg_level *level = mg->level + depth + 1;
    ptrdiff_t at = fsi__mg_of(level, color, j, k);
    float *const *weight = level->weight;
    uint8_t regular[FSI__MG_BLOCK];
    int faces = 2 + (j > 0) + (j + 1 < level->n[1]) + (k > 0) + (k + 1 < level->n[2]);
    for (int h0 = 0; h0 < level->half; h0 += FSI__MG_BLOCK) {
        int count = fsi__imin(FSI__MG_BLOCK, level->half - h0);
        fsi__mg_regular(mg, depth + 1, color, j, k, h0, count, regular);
        for (int h = 0; h < count; h++) {
            ptrdiff_t id = at + h0 + h;
            level->f[id] = -1;
            if (regular[h]) {
                float unit = (float)(regular[h] & 1);
                level->f[id] = unit * (float)faces;
                level->dir[id] = 0;
                weight[0][id] = unit;
                weight[2][id] = k + 1 < level->n[2] ? unit : 0;
                if (weight[1])
                    weight[1][id] = j + 1 < level->n[1] ? unit : 0;
                continue;
            }
            fsi__ijk cell = fsi__ijk_of(2 * (h0 + h) + ((j + k + color) & 1), j, k);
            if (cell.i >= level->n[0])
                continue;
            for (int axis = 0; axis < 3; axis++)
                if (weight[axis])
                    weight[axis][id] = fsi__mg_slot(mg, depth, axis, cell);
            level->dir[id] = level->kind[id] ? fsi__mg_dir(mg, depth, cell) : 0;
        }
    }
}

static void fsi__mg_coarse_weight(fsi_mg *mg, int depth, int axis, fsi__ijk cell) {
    const fsi_mg_level *level = mg->level + depth + 1;
    level->weight[axis][fsi__mg_cell_id(level, cell)] = fsi__mg_slot(mg, depth, axis, cell);
}

/* Weights of coarse plane k, and of the faces below the grid (i, j or k = -1). */
static void fsi__mg_coarse_weights(fsi_mg *mg, int depth, int k) {
    const fsi_mg_level *level = mg->level + depth + 1;
    for (int j = k < 0 || !level->weight[1] ? 0 : -1; j < level->n[1]; j++) {
        for (int i = 0; i < level->n[0] && (j < 0 || k < 0); i++)
            fsi__mg_coarse_weight(mg, depth, j < 0 ? 1 : 2, fsi__ijk_of(i, j, k));
        if (j < 0 || k < 0)
            continue;
        fsi__mg_coarse_weight(mg, depth, 0, fsi__ijk_of(-1, j, k));
        fsi__mg_coarse_row(mg, depth, 0, j, k);
        fsi__mg_coarse_row(mg, depth, 1, j, k);
    }
}

/* Adds weight to the coarse face between two cells; nothing if they are not neighbours. */
static void fsi__mg_link(const fsi_mg_level *level, fsi__ijk from, fsi__ijk to, float weight) {
    int x = to.i - from.i;
    int y = to.j - from.j;
    int z = to.k - from.k;
    if (abs(x) + abs(y) + abs(z) != 1)
        return;
    if (x + y + z < 0)
        from = to; /* the lower one has the face */
    level->weight[x ? 0 : y ? 1 : 2][fsi__mg_cell_id(level, from)] += weight;
}

/* Faces of one orphan, added to the coarse faces between the blocks they joined; what fits on no
 * coarse face is left out. */
static void fsi__mg_coarse_orphan(const fsi_mg *mg, int depth, fsi__ijk cell, uint8_t *kind) {
    const fsi_mg_level *level = mg->level + depth;
    const fsi_mg_level *up = level + 1;
    fsi__ijk own;
    fsi__ijk to;
    ptrdiff_t at = fsi__mg_parent(up, cell, *kind, &own);
    int behind;
    if (at < 0)
        return;
    if (level->dir)
        up->dir[at] += level->scale * level->dir[fsi__mg_cell_id(level, cell)];
    for (int direction = 0; direction < 6; direction++) {
        float weight = fsi__mg_face(mg, depth, direction, cell, &behind);
        if (!(weight > 0))
            continue;
        if (!behind) {
            up->dir[at] += level->scale * weight;
            continue;
        }
        /* two orphans: count their face once */
        if (behind >= FSI__ORPHAN && !(direction & 1))
            continue;
        if (fsi__mg_parent(up, fsi__mg_behind(cell, direction), behind, &to) >= 0)
            fsi__mg_link(up, own, to, level->scale * weight / 2);
    }
}

/* Whether all weights around an unknown are 1 or lead nowhere, and how many are 1; -1 if not, or
 * where one leads to a Dirichlet value. */
static int fsi__mg_diagonal(const fsi_mg *mg, int depth, fsi__ijk cell) {
    int count = 0;
    int behind;
    if (mg->level[depth].dir[fsi__mg_cell_id(mg->level + depth, cell)] > 0)
        return -1;

    for (int direction = 0; direction < 6; direction++) {
        float weight = fsi__mg_face(mg, depth, direction, cell, &behind);
        if (weight >= 1 && weight <= 1 && behind)
            count++;
        else if (weight > 0 || behind)
            return -1;
    }
    return count ? count : 1;
}

/* Flags of a coarse row; the final kinds (diagonals) go into f, where they wait until all rows have
 * looked at their neighbours. */
static void fsi__mg_classify(const fsi_mg *mg, int depth, int j, int k) {
    const fsi_mg_level *level = mg->level + depth;
    int plain = 1;
    int band = 0;
    for (int color = 0; color < 2; color++)
        for (int h = 0; h < level->half; h++) {
            fsi__ijk cell = fsi__ijk_of(2 * h + ((j + k + color) & 1), j, k);
            ptrdiff_t at = fsi__mg_of(level, color, j, k) + h;
            int kind = level->kind[at];
            int diagonal = (int)level->f[at];
            if (diagonal < 0)
                diagonal = kind ? fsi__mg_diagonal(mg, depth, cell) : 0;
            plain &= diagonal >= 0;
            band |= diagonal < 0 || (kind && kind != FSI__MG_FULL);
            level->f[at] = (float)(diagonal < 0 ? 7 : diagonal);
        }
    level->row[fsi__mg_line(level, j, k)] =
        (uint8_t)((plain ? FSI__ROW_PLAIN : 0) | (band ? FSI__ROW_BAND : 0));
}

FSI__HOT static void fsi__mg_kinds(int count, const float *FSI__RESTRICT value,
                                   uint8_t *FSI__RESTRICT kind) {
    for (int cell = 0; cell < count; cell++)
        kind[cell] = (uint8_t)(int)value[cell];
}

static void fsi__mg_coarsen(fsi_mg *mg, int depth) {
    fsi_mg_level *fine = mg->level + depth;
    fsi_mg_level *coarse = fine + 1;
    int j;
    int big = fsi__mg_big(fine);
    (void)big;
    FSI__PARALLEL(big)
    for (int k = 0; k < coarse->n[2]; k++)
        fsi__mg_parents(mg, depth, k);
    fsi__mg_orphans(mg, depth, fsi__mg_adopt);
    FSI__PARALLEL(big)
    for (int k = -1; k < coarse->n[2]; k++)
        fsi__mg_coarse_weights(mg, depth, k);
    fsi__mg_orphans(mg, depth, fsi__mg_coarse_orphan);
    FSI__OMP(parallel for schedule(static) private(j) if (big))
    for (int k = 0; k < coarse->n[2]; k++)
        for (j = 0; j < coarse->n[1]; j++)
            fsi__mg_classify(mg, depth + 1, j, k);
    FSI__OMP(parallel for schedule(static) private(j) if (big))
    for (int k = 0; k < coarse->n[2]; k++)
        for (j = 0; j < coarse->n[1]; j++) {
            ptrdiff_t at = fsi__mg_at(coarse, j, k);
            ptrdiff_t black = at + (ptrdiff_t)coarse->size;
            fsi__mg_kinds(coarse->half, coarse->f + at, coarse->kind + at);
            fsi__mg_kinds(coarse->half, coarse->f + black, coarse->kind + black);
        }
}

FSI__HOT static int fsi__mg_mask_valid(size_t count, const uint8_t *cell) {
    uint8_t bad = 0;
    for (size_t i = 0; i < count; i++)
        bad = (uint8_t)(bad | (cell[i] > FSI_CELL_NEUMANN));
    return !bad;
}

static int fsi__mg_weights_valid(ptrdiff_t count, const fsi_real *weight) {
    int bad = 0;
    FSI__OMP(parallel for schedule(static) reduction(| : bad) if (count > FSI__GRAIN))
    for (ptrdiff_t i = 0; i < count; i++)
        bad |= !fsi__finite(weight[i]) || weight[i] < 0;
    return !bad;
}

FSI__HOT static int fsi__mg_count_fluid(int count, const uint8_t *face) {
    int sum = 0;
    for (int i = 0; i < count; i++)
        sum += face[i] >> 6 & 1;
    return sum;
}

FSI_API fsi_result fsi_mg_update(fsi_mg *mg, const uint8_t *cell, const fsi_real *const weight[3]) {
    int j;
    if (!mg || !mg->block)
        return FSI_ERR_STATE;

    int two = mg->desc.nz == 1;
    if (cell && !fsi__mg_mask_valid(mg->cells, cell))
        return FSI_ERR_ARGUMENT;

    for (int axis = 0; weight && axis < (two ? 2 : 3); axis++) {
        fsi__lattice faces = fsi__lattice_of(mg->desc.nx, mg->desc.ny, mg->desc.nz, axis);
        if (weight[axis] && !fsi__mg_weights_valid(faces.count, weight[axis]))
            return FSI_ERR_ARGUMENT;
    }
    /* A plane of cells stands upright inside: its y is the multigrid's z. */
    for (int axis = 0; axis < 3; axis++)
        mg->weight[axis] = weight ? weight[axis] : NULL;
    if (two) {
        mg->weight[2] = mg->weight[1];
        mg->weight[1] = NULL;
    }
    mg->weighted = mg->weight[0] || mg->weight[1] || mg->weight[2];
    FSI__OMP(parallel for schedule(static) private(j) if (mg->cells > FSI__GRAIN))
    for (int k = 0; k < mg->n[2]; k++)
        for (j = 0; j < mg->n[1]; j++)
            fsi__mg_faces(mg, cell, j, k);
    mg->fluid = 0;
    for (size_t i = 0; i < mg->cells; i += (size_t)mg->n[0])
        mg->fluid += (size_t)fsi__mg_count_fluid(mg->n[0], mg->face + i);
    fsi__mg_regions(mg);
    fsi__mg_finest(mg);
    for (int depth = 0; depth + 1 < mg->levels; depth++)
        fsi__mg_coarsen(mg, depth);

    return mg->fluid ? FSI_OK : FSI_EMPTY;
}

/* ---- low-rank terms */
/* The V-cycle takes the term along by P = (B^-1 + Z K^-1 Z^T)^-1 with B one V-cycle. Symbols:

       Z    columns, one per degree of freedom of a solid, on the cells of the finest level
       D r  the right-hand sides (r_0, r_1, ...) of all levels on the way down
       M    the sweeps before the coarse correction of a level, M^T those after it
       S    M + M^T - M^T A M on every level, so that B = D^T S D
       R    restriction to the next level: s times the transpose of the prolongation
       t    columns as right-hand sides: t_0 = Z, t_(l+1) = R (t - A m)
       m    smoothed columns, m = M t
       c    coefficients of the columns
       E    K + Z^T B Z

   Woodbury's formula gives P r = B (r - Z c) with E c = Z^T B r, and
   Z^T B r = sum over levels of (t^T x + m^T (f - A x)) / s^l with x, f after the way down.
   Between down and up only f -= t c and x -= m c near the solids.

   m may be cut off anywhere: the same vector t^T M + m^T (1 - A M) stands on both sides, so P stays
   symmetric; the less is cut the nearer to Woodbury. Here m lives in boxes that end `reach` cells
   around t, closed so that no level gains a constant. Black cells have no defect and are
   overwritten by the first sweep up: m is kept on red cells.

   Columns of a bundle stand in packs of FSI__LANES: a pack holds FSI__LANES numbers for each cell.
 */
#define FSI__LANES 4
#define FSI__RANK_PARTS 4 /* bundles are built in so many parts, each with its own work space */

FSI_API void fsi_mg_rank_free(fsi_mg_rank *rank) {
    if (!rank)
        return;

    FSI__LIST_FREE(rank->offset, &rank->allocator);
    FSI__LIST_FREE(rank->patch, &rank->allocator);
    FSI__LIST_FREE(rank->data, &rank->allocator);
    FSI__LIST_FREE(rank->work, &rank->allocator);
    FSI__LIST_FREE(rank->E, &rank->allocator);
    FSI__LIST_FREE(rank->sum, &rank->allocator);
    FSI__LIST_FREE(rank->defect, &rank->allocator);
    memset(rank, 0, sizeof *rank);
}

FSI__INLINE int fsi__mg_columns(const fsi_mg_rank *rank, int bundle) {
    return rank->offset[bundle + 1] - rank->offset[bundle];
}

FSI__INLINE int fsi__mg_packs(const fsi_mg_rank *rank, int bundle) {
    return (fsi__mg_columns(rank, bundle) + FSI__LANES - 1) / FSI__LANES;
}

FSI__INLINE fsi__mg_patch *fsi__mg_patch_of(const fsi_mg_rank *rank, int depth, int bundle) {
    return rank->patch + (size_t)depth * (size_t)rank->bundles + (size_t)bundle;
}

/* Cells of a box along an axis. */
FSI__INLINE size_t fsi__box_span(const fsi__box *box, int axis) {
    return (size_t)(box->hi[axis] - box->lo[axis]);
}

FSI__INLINE size_t fsi__box_cells(const fsi__box *box) {
    return fsi__box_span(box, 0) * fsi__box_span(box, 1) * fsi__box_span(box, 2);
}

/* Number of a cell in a box. */
FSI__INLINE size_t fsi__box_at(const fsi__box *box, int i, int j, int k) {
    size_t rows = fsi__box_span(box, 1);
    size_t line = (size_t)(j - box->lo[1]) + rows * (size_t)(k - box->lo[2]);
    return (size_t)(i - box->lo[0]) + fsi__box_span(box, 0) * line;
}

/* The box with `by` cells more on all sides, inside the level, in whole pairs of colours along x.
 */
static fsi__box fsi__box_around(const fsi_mg_level *level, const fsi__box *box, int by) {
    fsi__box out;
    for (int axis = 0; axis < 3; axis++) {
        out.lo[axis] = fsi__imax(box->lo[axis] - by, 0);
        out.hi[axis] = fsi__imin(box->hi[axis] + by, level->n[axis]);
    }
    out.lo[0] &= ~1;
    out.hi[0] = (out.hi[0] + 1) & ~1;
    return out;
}

/* All rows (j, k) of a box: for (at = fsi__box_row(box); at.k < box->hi[2]; fsi__box_next(box,
 * &at)) */
FSI__INLINE fsi__ijk fsi__box_row(const fsi__box *box) {
    return fsi__ijk_of(box->lo[0], box->lo[1], box->lo[2]);
}

FSI__INLINE void fsi__box_next(const fsi__box *box, fsi__ijk *at) {
    at->j++;
    if (at->j >= box->hi[1]) {
        at->j = box->lo[1];
        at->k++;
    }
}

/* Floats of one pack in a box. */
FSI__INLINE size_t fsi__pack_size(const fsi__box *box) {
    return FSI__LANES * fsi__box_cells(box);
}

/* The columns t of a pack (all cells of patch->own) and m (red cells of patch->wide). */
FSI__INLINE float *fsi__pack_t(const fsi_mg_rank *rank, const fsi__mg_patch *patch, int pack) {
    return rank->data + patch->t + fsi__pack_size(&patch->own) * (size_t)pack;
}

FSI__INLINE float *fsi__pack_m(const fsi_mg_rank *rank, const fsi__mg_patch *patch, int pack) {
    return rank->data + patch->m + fsi__pack_size(&patch->wide) / 2 * (size_t)pack;
}

/* Indices of a cell of the caller's arrays. */
FSI__INLINE fsi__ijk fsi__mg_ijk(const fsi_mg *mg, int32_t cell) {
    int line = cell / mg->n[0];
    return fsi__ijk_of(cell % mg->n[0], line % mg->n[1], line / mg->n[1]);
}

/* Boxes of a bundle on all levels, and the places of its columns; data counts floats. */
static void fsi__mg_rank_boxes(const fsi_mg *mg, fsi_mg_rank *rank, const fsi_mg_bundle *bundle,
                               int number, size_t *data) {
    /* the cells the bundle touches */
    fsi__box touched;
    for (int axis = 0; axis < 3; axis++) {
        touched.lo[axis] = mg->n[axis];
        touched.hi[axis] = 0;
    }
    for (int entry = 0; entry < bundle->entries; entry++) {
        fsi__ijk cell = fsi__mg_ijk(mg, bundle->cell[entry]);
        for (int axis = 0; axis < 3; axis++) {
            int at = fsi__ijk_get(cell, axis);
            touched.lo[axis] = fsi__imin(touched.lo[axis], at);
            touched.hi[axis] = fsi__imax(touched.hi[axis], at + 1);
        }
    }

    size_t packs = (size_t)fsi__mg_packs(rank, number);

    for (int depth = 0; depth < rank->levels; depth++) {
        const fsi_mg_level *level = mg->level + depth;
        fsi__mg_patch *patch = fsi__mg_patch_of(rank, depth, number);
        patch->own = fsi__box_around(level, &touched, 0);
        patch->wide = fsi__box_around(level, &touched, rank->spread);
        patch->t = *data;
        *data += packs * fsi__pack_size(&patch->own);
        patch->m = *data;
        *data += packs * fsi__pack_size(&patch->wide) / 2;
        if (depth + 1 == rank->levels)
            break;

        /* the coarse cells they touch: one more on each side where a neighbour may adopt */
        int orphans = 0;
        const fsi__box *wide = &patch->wide;
        for (fsi__ijk at = fsi__box_row(wide); at.k < wide->hi[2]; fsi__box_next(wide, &at))
            if (fsi__mg_flags(level, at.j, at.k) & FSI__ROW_ORPHAN)
                orphans = 1;
        for (int axis = 0; axis < 3; axis++) {
            int hi = ((wide->hi[axis] + 1) >> 1) + orphans;
            touched.lo[axis] = fsi__imax((wide->lo[axis] >> 1) - orphans, 0);
            touched.hi[axis] = fsi__imin(hi, level[1].n[axis]);
        }
    }
}

/* The level's operator in a box with closed sides, one layer of zeros around: weights of upper
 * faces, diagonal and its inverse; x and f hold a pack. */
typedef struct fsi__mg_local {
    int n[3], three;  /* cells of the box; 1: 3D */
    ptrdiff_t sy, sz; /* strides; sy is not used in 2D */
    size_t cells;     /* with the layer around */
    float *w[3];
    float *diagonal;
    float *inverse;
    float *x, *f; /* a pack each */
} fsi__mg_local;

FSI__INLINE ptrdiff_t fsi__local_at(const fsi__mg_local *local, int i, int j, int k) {
    return (i + 1) + local->sy * (j + local->three) + local->sz * (k + 1);
}

static size_t fsi__mg_local_size(const fsi__box *box, int three) {
    size_t rim = three ? 2 : 0;
    size_t plane = (fsi__box_span(box, 0) + 2) * (fsi__box_span(box, 2) + 2);
    return plane * (fsi__box_span(box, 1) + rim);
}

/* One row of it. Weights lead from unknown to unknown; what crosses the box's side leaves the
 * diagonal. */
FSI__HOT static void fsi__mg_local_line(const fsi_mg_level *level, const fsi__box *box,
                                        const fsi__mg_local *local, int j, int k) {
    for (int color = 0; color < 2; color++) {
        int odd = (j + k + color) & 1;
        fsi__mg_row row = fsi__mg_row_get(level, color, j, k, box->lo[0] / 2, local->n[0] / 2);

        /* kinds of the cells around, at the places of their unknowns */
        const uint8_t *x0 = level->kind + (row.o - level->x);
        const uint8_t *y0 = level->kind + (row.y0 - level->x);
        const uint8_t *y1 = level->kind + (row.y1 - level->x);
        const uint8_t *z0 = level->kind + (row.z0 - level->x);
        const uint8_t *z1 = level->kind + (row.z1 - level->x);
        ptrdiff_t at = fsi__local_at(local, odd, j - box->lo[1], k - box->lo[2]);
        for (int h = 0; h < row.n; h++, at += 2) {
            int kind = row.kind[h];
            if (!kind)
                continue;
            const int behind[6] = {x0[h], x0[h + 1], y0[h], y1[h], z0[h], z1[h]};
            const int edge[6] = {h == 0 && !odd,      h + 1 == row.n && odd, j == box->lo[1],
                                 j + 1 == box->hi[1], k == box->lo[2],       k + 1 == box->hi[2]};
            float weight[6] = {1, 1, 1, 1, 1, 1};
            float diagonal = (float)(kind & 7);
            if (!row.plain) {
                weight[0] = row.wx0[h];
                weight[1] = row.wx1[h];
                weight[2] = row.wy0[h];
                weight[3] = row.wy1[h];
                weight[4] = row.wz0[h];
                weight[5] = row.wz1[h];
                diagonal = ((weight[0] + weight[1]) + (weight[2] + weight[3]))
                           + ((weight[4] + weight[5]) + row.dir[h]);
            }
            for (int side = 0; side < 6; side++) {
                if (!behind[side])
                    weight[side] = 0;
                if (edge[side]) {
                    diagonal -= weight[side];
                    weight[side] = 0;
                }
            }
            for (int axis = 0; axis < 3; axis++)
                local->w[axis][at] = weight[2 * axis + 1];
            local->diagonal[at] = diagonal;
            local->inverse[at] = diagonal > 1e-6f ? 1 / diagonal : 0;
        }
    }
}

static void fsi__mg_local_set(const fsi_mg *mg, int depth, const fsi__box *box, float *memory,
                              fsi__mg_local *local) {
    const fsi_mg_level *level = mg->level + depth;
    local->three = mg->n[1] > 1;
    local->cells = fsi__mg_local_size(box, local->three);
    for (int axis = 0; axis < 3; axis++) {
        local->n[axis] = (int)fsi__box_span(box, axis);
        local->w[axis] = memory + (size_t)axis * local->cells;
    }
    local->sy = local->n[0] + 2;
    local->sz = local->sy * (local->n[1] + 2 * local->three);
    local->diagonal = memory + 3 * local->cells;
    local->inverse = memory + 4 * local->cells;
    local->x = memory + 5 * local->cells;
    local->f = local->x + FSI__LANES * local->cells;
    memset(memory, 0, 5 * local->cells * sizeof *memory);
    for (fsi__ijk at = fsi__box_row(box); at.k < box->hi[2]; fsi__box_next(box, &at))
        fsi__mg_local_line(level, box, local, at.j, at.k);
}

/* sum = f + sum of w x over the neighbours of a cell, in all lanes. */
FSI__HOT FSI__INLINE void fsi__mg_local_sum(const fsi__mg_local *local, ptrdiff_t cell,
                                            float *sum) {
    ptrdiff_t sy = FSI__LANES * local->sy;
    ptrdiff_t sz = FSI__LANES * local->sz;
    float x0 = local->w[0][cell - 1];
    float x1 = local->w[0][cell];
    float z0 = local->w[2][cell - local->sz];
    float z1 = local->w[2][cell];
    float y0 = local->w[1][cell - local->sy];
    float y1 = local->w[1][cell];
    const float *u = local->x + FSI__LANES * cell;
    const float *f = local->f + FSI__LANES * cell;
    for (int e = 0; e < FSI__LANES; e++)
        sum[e] = f[e]
                 + ((x0 * u[e - FSI__LANES] + x1 * u[e + FSI__LANES])
                    + (z0 * u[e - sz] + z1 * u[e + sz]))
                 + (y0 * u[e - sy] + y1 * u[e + sy]);
}

/* Cells from, from + 2, ... before to: one half sweep of a row. */
FSI__HOT static void fsi__mg_local_row(const fsi__mg_local *local, ptrdiff_t from, ptrdiff_t to) {
    for (ptrdiff_t cell = from; cell < to; cell += 2) {
        float inverse = local->inverse[cell];
        float sum[FSI__LANES];
        fsi__mg_local_sum(local, cell, sum);
        for (int e = 0; e < FSI__LANES; e++)
            local->x[FSI__LANES * cell + e] = inverse * sum[e];
    }
}

/* The same cells: out = f - A x, out in steps of two cells. */
FSI__HOT static void fsi__mg_local_defect(const fsi__mg_local *local, ptrdiff_t from, ptrdiff_t to,
                                          float *FSI__RESTRICT out) {
    for (ptrdiff_t cell = from; cell < to; cell += 2, out += 2 * FSI__LANES) {
        float diagonal = local->diagonal[cell];
        float sum[FSI__LANES];
        fsi__mg_local_sum(local, cell, sum);
        for (int e = 0; e < FSI__LANES; e++)
            out[e] = sum[e] - diagonal * local->x[FSI__LANES * cell + e];
    }
}

/* The sweeps of the way down in the box; those of the coarsest level there. */
static void fsi__mg_local_smooth(const fsi_mg *mg, int depth, const fsi__box *box,
                                 const fsi__mg_local *local) {
    const fsi_mg_level *level = mg->level + depth;
    int bottom = depth + 1 == mg->levels;
    int band = bottom ? 0 : 2 * mg->band;
    int stages = bottom ? FSI__MG_BOTTOM : band + 2 * fsi__mg_sweeps(mg, depth, 1);
    for (int stage = 0; stage < stages; stage++) {
        /* box->lo[0] is even; sweeps start with red */
        int color = bottom ? fsi__mg_bottom_color(stage) : stage & 1;
        for (fsi__ijk at = fsi__box_row(box); at.k < box->hi[2]; fsi__box_next(box, &at)) {
            int along = fsi__mg_flags(level, at.j, at.k) & FSI__ROW_BAND;
            if (stage < band && !along)
                continue;
            int first = (at.j + at.k + color) & 1;
            ptrdiff_t row = fsi__local_at(local, 0, at.j - box->lo[1], at.k - box->lo[2]);
            fsi__mg_local_row(local, row + first, row + local->n[0]);
        }
    }
}

static int fsi__box_holds(const fsi__box *box, fsi__ijk cell) {
    for (int axis = 0; axis < 3; axis++) {
        int at = fsi__ijk_get(cell, axis);
        if (at < box->lo[axis] || at >= box->hi[axis])
            return 0;
    }
    return 1;
}

/* Coarse columns t (in box up) from the defects of the red cells of a box. */
static void fsi__mg_rank_restrict(const fsi_mg_level *fine, const fsi__box *box, const fsi__box *up,
                                  const float *defect, float *t) {
    fsi__ijk parent;
    for (int k = box->lo[2]; k < box->hi[2]; k++)
        for (int j = box->lo[1]; j < box->hi[1]; j++)
            for (int i = box->lo[0] + ((j + k) & 1); i < box->hi[0] && i < fine->n[0]; i += 2) {
                int kind = fine->kind[fsi__mg_id(fine, i, j, k)];
                if (fsi__mg_parent(fine + 1, fsi__ijk_of(i, j, k), kind, &parent) < 0
                    || !fsi__box_holds(up, parent))
                    continue;
                const float *from = defect + FSI__LANES * fsi__box_at(box, i, j, k);
                float *to = t + FSI__LANES * fsi__box_at(up, parent.i, parent.j, parent.k);
                for (int e = 0; e < FSI__LANES; e++)
                    to[e] += fine->scale * from[e];
            }
}

/* One pack of a bundle on one level: smooths t; x = m on all cells, defect = t - A m (for E), m of
 * red cells. */
static void fsi__mg_rank_pack(const fsi_mg *mg, int depth, const fsi__mg_patch *patch,
                              const fsi__mg_local *local, const float *t, float *m, float *x,
                              float *defect) {
    const fsi__box *own = &patch->own;
    const fsi__box *wide = &patch->wide;
    memset(local->x, 0, 2 * FSI__LANES * local->cells * sizeof(float));
    memset(defect, 0, fsi__pack_size(wide) * sizeof(float));

    /* t is the right-hand side */
    size_t row = FSI__LANES * fsi__box_span(own, 0);
    for (int k = own->lo[2]; k < own->hi[2]; k++)
        for (int j = own->lo[1]; j < own->hi[1]; j++, t += row) {
            ptrdiff_t at =
                fsi__local_at(local, own->lo[0] - wide->lo[0], j - wide->lo[1], k - wide->lo[2]);
            memcpy(local->f + FSI__LANES * at, t, row * sizeof(float));
        }
    fsi__mg_local_smooth(mg, depth, wide, local);

    /* out of the box with its layer of zeros */
    row = FSI__LANES * (size_t)local->n[0];
    for (int k = wide->lo[2]; k < wide->hi[2]; k++)
        for (int j = wide->lo[1]; j < wide->hi[1]; j++) {
            int first = (j + k) & 1;
            ptrdiff_t at = fsi__local_at(local, 0, j - wide->lo[1], k - wide->lo[2]);
            const float *from = local->x + FSI__LANES * at;
            memcpy(x, from, row * sizeof(float));
            fsi__mg_local_defect(local, at + first, at + local->n[0], defect + FSI__LANES * first);
            for (int i = first; i < local->n[0]; i += 2, m += FSI__LANES)
                memcpy(m, from + FSI__LANES * i, FSI__LANES * sizeof(float));
            x += row;
            defect += row;
        }
}

/* One bundle on one level, and its columns t of the next level if there is one. */
static void fsi__mg_rank_level(const fsi_mg *mg, fsi_mg_rank *rank, int depth, int bundle,
                               float *memory) {
    const fsi__mg_patch *patch = fsi__mg_patch_of(rank, depth, bundle);
    const fsi__mg_patch *up = depth + 1 < rank->levels ? patch + rank->bundles : NULL;
    size_t size = fsi__pack_size(&patch->wide);
    int packs = fsi__mg_packs(rank, bundle);
    float *x = rank->work + patch->x;
    float *defect = x + (size_t)packs * size;
    fsi__mg_local local;
    fsi__mg_local_set(mg, depth, &patch->wide, memory, &local);
    if (up)
        memset(rank->data + up->t, 0, (size_t)packs * fsi__pack_size(&up->own) * sizeof(float));
    for (int pack = 0; pack < packs; pack++, x += size, defect += size) {
        fsi__mg_rank_pack(mg, depth, patch, &local, fsi__pack_t(rank, patch, pack),
                          fsi__pack_m(rank, patch, pack), x, defect);
        if (up)
            fsi__mg_rank_restrict(mg->level + depth, &patch->wide, &up->own, defect,
                                  fsi__pack_t(rank, up, pack));
    }
}

/* sum[i][j] += a_i . b_j of two packs over the cells of both boxes; step 2: red ones only. */
FSI__HOT static void fsi__mg_rank_outer(const fsi__box *box_a, const float *a,
                                        const fsi__box *box_b, const float *b, int step,
                                        float *FSI__RESTRICT sum) {
    float s0[FSI__LANES] = {0};
    float s1[FSI__LANES] = {0};
    float s2[FSI__LANES] = {0};
    float s3[FSI__LANES] = {0};
    fsi__box both;
    for (int axis = 0; axis < 3; axis++) {
        both.lo[axis] = fsi__imax(box_a->lo[axis], box_b->lo[axis]);
        both.hi[axis] = fsi__imin(box_a->hi[axis], box_b->hi[axis]);
    }
    for (int k = both.lo[2]; k < both.hi[2]; k++)
        for (int j = both.lo[1]; j < both.hi[1]; j++) {
            int first = both.lo[0] + (step == 2 ? (j + k) & 1 : 0);
            const float *p = a + FSI__LANES * fsi__box_at(box_a, first, j, k);
            const float *q = b + FSI__LANES * fsi__box_at(box_b, first, j, k);
            for (int i = first; i < both.hi[0]; i += step) {
                for (int e = 0; e < FSI__LANES; e++) {
                    s0[e] += p[0] * q[e];
                    s1[e] += p[1] * q[e];
                    s2[e] += p[2] * q[e];
                    s3[e] += p[3] * q[e];
                }
                p += FSI__LANES * step;
                q += FSI__LANES * step;
            }
        }
    for (int e = 0; e < FSI__LANES; e++) {
        sum[e] += s0[e];
        sum[FSI__LANES + e] += s1[e];
        sum[2 * FSI__LANES + e] += s2[e];
        sum[3 * FSI__LANES + e] += s3[e];
    }
}

static int fsi__box_meets(const fsi__box *a, const fsi__box *b) {
    for (int axis = 0; axis < 3; axis++)
        if (a->lo[axis] >= b->hi[axis] || b->lo[axis] >= a->hi[axis])
            return 0;
    return 1;
}

/* E_gh += what a level adds to Z^T B Z for bundles g <= h: t_g^T m_h + m_g^T (t_h - A m_h), on the
 * coarsest level, where m is all of the answer, the first of them. The other order gives the same,
 * and differs a little only where the columns are cut. */
static void fsi__mg_rank_pair(const fsi_mg *mg, fsi_mg_rank *rank, int depth, int g, int h) {
    const fsi__mg_patch *patch_g = fsi__mg_patch_of(rank, depth, g);
    const fsi__mg_patch *patch_h = fsi__mg_patch_of(rank, depth, h);
    size_t size_g = fsi__pack_size(&patch_g->wide);
    size_t size_h = fsi__pack_size(&patch_h->wide);
    int packs_h = fsi__mg_packs(rank, h);
    if (!fsi__box_meets(&patch_g->wide, &patch_h->wide))
        return;

    /* 1 / s^depth */
    float weight = 1;
    for (int level = depth - 1; level >= 0; level--)
        weight /= mg->level[level].scale;

    for (int a = 0; a < fsi__mg_packs(rank, g); a++)
        for (int b = 0; b < packs_h; b++) {
            float sum[FSI__LANES * FSI__LANES] = {0};
            const float *m_g = rank->work + patch_g->x + size_g * (size_t)a;
            const float *m_h = rank->work + patch_h->x + size_h * (size_t)b;
            const float *defect_h = m_h + size_h * (size_t)packs_h;
            fsi__mg_rank_outer(&patch_g->own, fsi__pack_t(rank, patch_g, a), &patch_h->wide, m_h, 1,
                               sum);
            if (depth + 1 < rank->levels)
                fsi__mg_rank_outer(&patch_g->wide, m_g, &patch_h->wide, defect_h, 2, sum);

            int column_g = rank->offset[g] + FSI__LANES * a;
            int column_h = rank->offset[h] + FSI__LANES * b;
            int count_g = fsi__imin(FSI__LANES, rank->offset[g + 1] - column_g);
            int count_h = fsi__imin(FSI__LANES, rank->offset[h + 1] - column_h);
            for (int i = 0; i < count_g; i++)
                for (int j = 0; j < count_h; j++) {
                    size_t row = (size_t)(column_h + j) * (size_t)rank->columns;
                    rank->E[row + (size_t)(column_g + i)] +=
                        (fsi_real)(weight * sum[FSI__LANES * i + j]);
                }
        }
}

/* Entry (i, j), j <= i, of a bundle's K. */
static fsi_real fsi__mg_bundle_K(const fsi_mg_bundle *bundle, int i, int j) {
    if (bundle->K)
        return bundle->K[i * bundle->columns + j];

    fsi_real sum = 0;
    for (int k = 0; k <= j; k++)
        sum += bundle->L[i * (i + 1) / 2 + k] * bundle->L[j * (j + 1) / 2 + k];
    return bundle->unit * sum;
}

/* Which bundles are taken, and where their columns begin. */
static fsi_result fsi__mg_rank_choose(const fsi_mg *mg, fsi_mg_rank *rank,
                                      const fsi_mg_bundle *bundle, int bundles) {
    if (FSI__LIST_ROOM(rank->offset, bundles + 1, &rank->allocator) < 0
        || FSI__LIST_ROOM(rank->patch, (size_t)bundles * (size_t)mg->levels, &rank->allocator) < 0)
        return FSI_ERR_MEMORY;

    int most = rank->max_columns ? rank->max_columns : 1000;
    int columns = 0;
    for (int g = 0; g < bundles; g++) {
        rank->offset[g] = columns;
        if (bundle[g].entries > 0 && columns + bundle[g].columns <= most)
            columns += bundle[g].columns;
    }
    rank->bundles = bundles;
    rank->levels = mg->levels;
    rank->offset[bundles] = rank->columns = columns;
    rank->spread = rank->reach ? rank->reach : columns > 80 ? 2 : 3;

    return FSI_OK;
}

/* The columns of a bundle on the finest level, and its K as the start of E. */
static void fsi__mg_rank_load(const fsi_mg *mg, fsi_mg_rank *rank, const fsi_mg_bundle *bundle,
                              int number) {
    const fsi__mg_patch *patch = rank->patch + number;
    int columns = fsi__mg_columns(rank, number);
    size_t packs = (size_t)fsi__mg_packs(rank, number);
    memset(rank->data + patch->t, 0, packs * fsi__pack_size(&patch->own) * sizeof(float));
    for (int entry = 0; entry < bundle->entries && columns; entry++) {
        fsi__ijk cell = fsi__mg_ijk(mg, bundle->cell[entry]);
        size_t at = FSI__LANES * fsi__box_at(&patch->own, cell.i, cell.j, cell.k);
        const fsi_real *val = bundle->val + (size_t)entry * (size_t)columns;
        for (int column = 0; column < columns; column++) {
            float *t = fsi__pack_t(rank, patch, column / FSI__LANES) + at;
            t[column % FSI__LANES] += (float)(bundle->factor[entry] * val[column]);
        }
    }
    for (int i = 0; i < columns; i++)
        for (int j = 0; j <= i; j++) {
            size_t row = (size_t)(rank->offset[number] + i) * (size_t)rank->columns;
            rank->E[row + (size_t)(rank->offset[number] + j)] = fsi__mg_bundle_K(bundle, i, j);
        }
}

/* Sizes, places and the columns on the finest level. */
static fsi_result fsi__mg_rank_begin(const fsi_mg *mg, fsi_mg_rank *rank,
                                     const fsi_mg_bundle *bundle, int bundles) {
    fsi_result result = fsi__mg_rank_choose(mg, rank, bundle, bundles);
    if (result < 0)
        return result;

    /* boxes; x and defect of all bundles on one level share the work space */
    size_t data = 0;
    memset(rank->patch, 0, (size_t)bundles * (size_t)mg->levels * sizeof *rank->patch);
    for (int g = 0; g < bundles; g++)
        if (fsi__mg_columns(rank, g))
            fsi__mg_rank_boxes(mg, rank, bundle + g, g, &data);
    size_t work = 0;    /* floats for x and defect of a level */
    size_t biggest = 0; /* cells of the largest box with its layer */
    size_t all = 0;     /* cells of one colour on all levels */
    rank->whole = 0;

    for (int depth = 0; depth < rank->levels; depth++) {
        size_t used = 0;
        size_t covered = 0;
        for (int g = 0; g < bundles; g++) {
            fsi__mg_patch *patch = fsi__mg_patch_of(rank, depth, g);
            size_t local = fsi__mg_local_size(&patch->wide, mg->n[1] > 1);
            patch->x = used;
            used += 2 * (size_t)fsi__mg_packs(rank, g) * fsi__pack_size(&patch->wide);
            covered += fsi__box_cells(&patch->wide);
            biggest = local > biggest ? local : biggest;
        }
        work = used > work ? used : work;
        if (covered > mg->level[depth].size)
            rank->whole |= (uint32_t)1 << depth;
        all += mg->level[depth].size;
    }

    /* memory */
    size_t columns = (size_t)rank->columns;
    size_t sums = columns + FSI__LANES * ((size_t)bundles + 1);
    const fsi_allocator *allocator = &rank->allocator;
    rank->part = (5 + 2 * FSI__LANES) * biggest;
    if (FSI__LIST_ROOM(rank->data, data, allocator) < 0
        || FSI__LIST_ROOM(rank->work, work + FSI__RANK_PARTS * rank->part, allocator) < 0
        || FSI__LIST_ROOM(rank->E, columns * columns, allocator) < 0
        || FSI__LIST_ROOM(rank->sum, sums + columns, allocator) < 0
        || FSI__LIST_ROOM(rank->defect, rank->whole ? all : 0, allocator) < 0)
        return FSI_ERR_MEMORY;

    rank->c = (fsi_real *)(rank->sum + sums);
    rank->local = rank->work + work;

    memset(rank->E, 0, columns * columns * sizeof *rank->E);
    for (int g = 0; g < bundles; g++)
        fsi__mg_rank_load(mg, rank, bundle + g, g);

    return FSI_OK;
}

static int fsi__mg_bundle_valid(const fsi_mg *mg, const fsi_mg_bundle *bundle) {
    if (bundle->columns < 0 || bundle->entries < 0 || bundle->columns > 30000)
        return 0;

    size_t columns = (size_t)bundle->columns;
    size_t entries = (size_t)bundle->entries;
    if (!columns || !entries)
        return 1;

    int has_K = bundle->K || (bundle->L && bundle->unit > 0);
    if (!bundle->cell || !bundle->factor || !bundle->val || !has_K)
        return 0;

    for (size_t entry = 0; entry < entries; entry++)
        if (bundle->cell[entry] < 0 || (size_t)bundle->cell[entry] >= mg->cells)
            return 0;

    return fsi_all_finite(entries, bundle->factor) && fsi_all_finite(entries * columns, bundle->val)
           && (bundle->K ? fsi_all_finite(columns * columns, bundle->K)
                         : fsi_all_finite(columns * (columns + 1) / 2, bundle->L));
}

/* Every FSI__RANK_PARTS-th bundle of one level, and its pairs with the bundles after it. */
static void fsi__mg_rank_part(const fsi_mg *mg, fsi_mg_rank *rank, int depth, int part) {
    float *memory = rank->local + rank->part * (size_t)part;
    for (int g = part; g < rank->bundles; g += FSI__RANK_PARTS)
        if (fsi__mg_columns(rank, g))
            fsi__mg_rank_level(mg, rank, depth, g, memory);
}

static void fsi__mg_rank_pairs(const fsi_mg *mg, fsi_mg_rank *rank, int depth, int part) {
    for (int g = part; g < rank->bundles; g += FSI__RANK_PARTS)
        for (int h = g; h < rank->bundles; h++)
            if (fsi__mg_columns(rank, g) && fsi__mg_columns(rank, h))
                fsi__mg_rank_pair(mg, rank, depth, g, h);
}

FSI_API fsi_result fsi_mg_rank_build(fsi_mg_rank *rank, fsi_mg *mg, const fsi_mg_bundle *bundle,
                                     int bundles) {
    if (!rank || !mg || !mg->block || bundles < 0 || (bundles && !bundle))
        return FSI_ERR_ARGUMENT;
    if (rank->reach < 0 || rank->max_columns < 0 || !fsi_allocator_valid(&rank->allocator))
        return FSI_ERR_ARGUMENT;

    rank->columns = 0;
    rank->cells = mg->cells;
    for (int g = 0; g < bundles; g++)
        if (!fsi__mg_bundle_valid(mg, bundle + g))
            return FSI_ERR_ARGUMENT;
    fsi_result result = fsi__mg_rank_begin(mg, rank, bundle, bundles);

    for (int depth = 0; depth < rank->levels && rank->columns && result == FSI_OK; depth++) {
        FSI__PARALLEL(rank->columns > 12)
        for (int part = 0; part < FSI__RANK_PARTS; part++)
            fsi__mg_rank_part(mg, rank, depth, part);
        FSI__PARALLEL(rank->columns > 12)
        for (int part = 0; part < FSI__RANK_PARTS; part++)
            fsi__mg_rank_pairs(mg, rank, depth, part);
    }
    if (result == FSI_OK)
        result = fsi_dense_cholesky(rank->columns, rank->E);
    if (result != FSI_OK)
        rank->columns = 0;

    return result;
}

/* sum += x[h] times the columns of cell h, which are `step` floats apart. */
FSI__INLINE void fsi__lanes_add(int n, const float *columns, int step, const float *x, float *sum) {
    for (int h = 0; h < n; h++, columns += step)
        for (int e = 0; e < FSI__LANES; e++)
            sum[e] += columns[e] * x[h];
}

/* sum[c] += t_c . x of a pack over the box of the columns (both colours). */
static void fsi__mg_rank_dot_t(const fsi_mg_level *level, const fsi__box *box, const float *t,
                               double *sum) {
    int pairs = (int)fsi__box_span(box, 0) / 2;
    for (int k = box->lo[2]; k < box->hi[2]; k++)
        for (int j = box->lo[1]; j < box->hi[1]; j++, t += 2 * pairs * FSI__LANES) {
            float row[FSI__LANES] = {0};
            for (int color = 0; color < 2; color++) {
                const float *x = level->x + fsi__mg_of(level, color, j, k) + box->lo[0] / 2;
                const float *from = t + FSI__LANES * ((j + k + color) & 1);
                fsi__lanes_add(pairs, from, 2 * FSI__LANES, x, row);
            }
            for (int e = 0; e < FSI__LANES; e++)
                sum[e] += (double)row[e];
        }
}

/* f - A x of n red cells of a row. */
static void fsi__mg_rank_defect(const fsi_mg_level *level, int j, int k, int h0, int n,
                                float *defect) {
    fsi__mg_row row = fsi__mg_row_get(level, 0, j, k, h0, n);
    memset(defect, 0, (size_t)n * sizeof *defect);
    fsi__mg_defect(&row, defect);
    if (fsi__mg_flags(level, j, k) & FSI__ROW_ORPHAN)
        fsi__mg_defect_orphans(level, j, k, h0, n, defect);
}

/* Place of a level in rank->defect, or NULL where boxes take their own. */
static float *fsi__mg_rank_whole(const fsi_mg *mg, const fsi_mg_rank *rank, int depth) {
    float *defect = rank->defect;
    if (!(rank->whole >> depth & 1))
        return NULL;

    for (int i = 0; i < depth; i++)
        defect += mg->level[i].size;
    return defect;
}

static void fsi__mg_rank_defects(const fsi_mg *mg, const fsi_mg_rank *rank) {
    for (int depth = 0; depth + 1 < rank->levels; depth++) {
        const fsi_mg_level *level = mg->level + depth;
        float *defect = fsi__mg_rank_whole(mg, rank, depth);
        if (!defect)
            continue;
        FSI__PARALLEL(level->size > 2000)
        for (int k = 0; k < level->n[2]; k++)
            for (int j = 0; j < level->n[1]; j++)
                fsi__mg_rank_defect(level, j, k, 0, level->half, defect + fsi__mg_at(level, j, k));
    }
}

/* sum[c] += m_c . (f - A x) of all packs over red cells; whole: that defect, or NULL. */
static void fsi__mg_rank_dot_m(const fsi_mg_level *level, const fsi__box *box, int packs,
                               const float *m, const float *whole, double *sum) {
    float own[FSI__MG_BLOCK];
    int half = (int)fsi__box_span(box, 0) / 2;
    int start = box->lo[0] / 2;
    size_t size = fsi__pack_size(box) / 2;
    for (int k = box->lo[2]; k < box->hi[2]; k++)
        for (int j = box->lo[1]; j < box->hi[1]; j++, m += FSI__LANES * half)
            for (int h0 = 0; h0 < half; h0 += FSI__MG_BLOCK) {
                int n = fsi__imin(FSI__MG_BLOCK, half - h0);
                const float *defect = own;
                if (whole)
                    defect = whole + fsi__mg_at(level, j, k) + start + h0;
                else
                    fsi__mg_rank_defect(level, j, k, start + h0, n, own);
                for (int pack = 0; pack < packs; pack++) {
                    const float *from = m + size * (size_t)pack + FSI__LANES * h0;
                    float row[FSI__LANES] = {0};
                    fsi__lanes_add(n, from, FSI__LANES, defect, row);
                    for (int e = 0; e < FSI__LANES; e++)
                        sum[FSI__LANES * pack + e] += (double)row[e];
                }
            }
}

/* The columns of one cell times their coefficients. */
FSI__INLINE float fsi__lanes_dot(const float *a, const float *c) {
    return (a[0] * c[0] + a[1] * c[1]) + (a[2] * c[2] + a[3] * c[3]);
}

/* array -= columns c of a pack: f -= t c on both colours, x -= m c on red cells. */
static void fsi__mg_rank_sub(const fsi_mg_level *level, const fsi__box *box, int colors,
                             const float *columns, const float *c, float *array) {
    int pairs = (int)fsi__box_span(box, 0) / 2;
    int step = colors * FSI__LANES;
    for (int k = box->lo[2]; k < box->hi[2]; k++)
        for (int j = box->lo[1]; j < box->hi[1]; j++, columns += pairs * step)
            for (int color = 0; color < colors; color++) {
                float *to = array + fsi__mg_of(level, color, j, k) + box->lo[0] / 2;
                const float *from = columns;
                if (colors == 2)
                    from += FSI__LANES * ((j + k + color) & 1);
                for (int h = 0; h < pairs; h++, from += step)
                    to[h] -= fsi__lanes_dot(from, c);
            }
}

/* t^T x of one level (and m^T of the defect above the coarsest one) for a bundle, added to
 * sum[padded columns]. Called from coarse to fine. */
static void fsi__mg_rank_gather(const fsi_mg *mg, const fsi_mg_rank *rank, int depth, int bundle,
                                double *sum) {
    const fsi_mg_level *level = mg->level + depth;
    const fsi__mg_patch *patch = fsi__mg_patch_of(rank, depth, bundle);
    int packs = fsi__mg_packs(rank, bundle);
    for (int i = 0; i < FSI__LANES * packs; i++)
        sum[i] /= (double)level->scale;
    for (int pack = 0; pack < packs; pack++)
        fsi__mg_rank_dot_t(level, &patch->own, fsi__pack_t(rank, patch, pack),
                           sum + FSI__LANES * pack);
    if (depth + 1 < rank->levels)
        fsi__mg_rank_dot_m(level, &patch->wide, packs, rank->data + patch->m,
                           fsi__mg_rank_whole(mg, rank, depth), sum);
}

/* Sums of a bundle's columns, padded to lanes, as zeros. */
static double *fsi__mg_rank_sums(const fsi_mg_rank *rank, int bundle) {
    double *sum = rank->sum + rank->offset[bundle] + FSI__LANES * bundle;
    memset(sum, 0, (size_t)(fsi__mg_columns(rank, bundle) + FSI__LANES - 1) * sizeof *sum);
    return sum;
}

/* After the way down: c, and the corrections of all levels. */
static void fsi__mg_rank_correct(const fsi_mg *mg, const fsi_mg_rank *rank) {
    int depth;
    fsi__mg_rank_defects(mg, rank);
    FSI__OMP(parallel for schedule(static) private(depth) if (rank->columns > 12))
    for (int g = 0; g < rank->bundles; g++) {
        double *sum = fsi__mg_rank_sums(rank, g);
        int columns = fsi__mg_columns(rank, g);
        for (depth = rank->levels - 1; depth >= 0 && columns; depth--)
            fsi__mg_rank_gather(mg, rank, depth, g, sum);
        for (int i = 0; i < columns; i++)
            rank->c[rank->offset[g] + i] = (fsi_real)sum[i];
    }
    fsi_dense_cholesky_solve(rank->columns, rank->E, rank->c);

    for (depth = 0; depth < rank->levels; depth++)
        for (int g = 0; g < rank->bundles; g++) {
            const fsi_mg_level *level = mg->level + depth;
            const fsi__mg_patch *patch = fsi__mg_patch_of(rank, depth, g);
            for (int pack = 0; pack < fsi__mg_packs(rank, g); pack++) {
                float c[FSI__LANES] = {0};
                int first = rank->offset[g] + FSI__LANES * pack;
                for (int e = 0; e < FSI__LANES && first + e < rank->offset[g + 1]; e++)
                    c[e] = (float)rank->c[first + e];
                fsi__mg_rank_sub(level, &patch->own, 2, fsi__pack_t(rank, patch, pack), c,
                                 level->f);
                if (depth + 1 < rank->levels)
                    fsi__mg_rank_sub(level, &patch->wide, 1, fsi__pack_m(rank, patch, pack), c,
                                     level->x);
            }
        }
}

/* What f . x lacks of r . z on the finest level: c . t^T x. */
static double fsi__mg_rank_energy(const fsi_mg *mg, const fsi_mg_rank *rank) {
    double energy = 0;
    for (int g = 0; g < rank->bundles; g++) {
        const fsi__mg_patch *patch = rank->patch + g;
        double *sum = fsi__mg_rank_sums(rank, g);
        for (int pack = 0; pack < fsi__mg_packs(rank, g); pack++)
            fsi__mg_rank_dot_t(mg->level, &patch->own, fsi__pack_t(rank, patch, pack),
                               sum + FSI__LANES * pack);
        for (int i = 0; i < fsi__mg_columns(rank, g); i++)
            energy += sum[i] * (double)rank->c[rank->offset[g] + i];
    }
    return energy;
}

/* ---- the operator */
/* Faces d of a run of cells: y += w (x - x_n), x_n = 0 where the neighbour is not fluid. */
FSI__HOT static void fsi__mg_face_terms(int count, int direction, const uint8_t *FSI__RESTRICT face,
                                        const uint8_t *FSI__RESTRICT across,
                                        const fsi_real *FSI__RESTRICT weight,
                                        const fsi_real *FSI__RESTRICT x,
                                        const fsi_real *FSI__RESTRICT xn,
                                        fsi_real *FSI__RESTRICT y) {
    for (int i = 0; i < count; i++) {
        fsi_real term = xn[i];
        fsi_real wi = weight[i];
        term = across[i] & FSI__FLUID ? term : 0;
        term = wi * (x[i] - term);
        y[i] += face[i] >> direction & 1 ? term : 0;
    }
}

/* A row of unit weights; x is 0 in cells that are not fluid. */
FSI__HOT static void
fsi__mg_apply_plain(int n, const uint8_t *FSI__RESTRICT count, const fsi_real *FSI__RESTRICT x,
                    const fsi_real *FSI__RESTRICT y0, const fsi_real *FSI__RESTRICT y1,
                    const fsi_real *FSI__RESTRICT z0, const fsi_real *FSI__RESTRICT z1,
                    fsi_real *FSI__RESTRICT y) {
    int last = n - 1;
    for (int i = 1; i < last; i++) {
        fsi_real value = (fsi_real)count[i] * x[i]
                         - (((x[i - 1] + x[i + 1]) + (y0[i] + y1[i])) + (z0[i] + z1[i]));
        y[i] = count[i] ? value : 0;
    }
    for (int i = 0; i<n; i += last> 0 ? last : 1)
        y[i] = count[i] ? (fsi_real)count[i] * x[i]
                              - (((i ? x[i - 1] : 0) + (i < last ? x[i + 1] : 0)) + (y0[i] + y1[i]))
                              - (z0[i] + z1[i])
                        : 0;
}

/* Row (j, k) of y = A x. trusted: x is 0 in cells that are not fluid. */
static void fsi__mg_apply_row(const fsi_mg *mg, const fsi_real *x, fsi_real *y, int j, int k,
                              int trusted) {
    int last = mg->n[0] - 1;
    ptrdiff_t at = fsi__mg_number(mg, 0, j, k);
    const uint8_t *face = mg->face + at;
    const uint8_t *none = (const uint8_t *)mg->zero;
    x += at;
    y += at;

    /* the rows around: directions 2 .. 5 */
    const fsi_real *around[6];
    const uint8_t *across[6];
    for (int direction = 2; direction < 6; direction++) {
        ptrdiff_t step = fsi__mg_row_step(mg, direction, j, k);
        around[direction] = step ? x + step : mg->zero;
        across[direction] = step ? face + step : none;
    }
    int flags = fsi__mg_flags(mg->level, j, k);
    if (flags & FSI__ROW_PLAIN && (trusted || flags & FSI__ROW_CLEAN)) {
        fsi__mg_apply_plain(last + 1, mg->count + at, x, around[2], around[3], around[4], around[5],
                            y);
        return;
    }

    /* face by face; along x the first, the inner ones from both sides, the last */
    const fsi_real *weight = fsi__mg_weights(mg, 0, j, k);
    const fsi_real *inner = weight ? weight + 1 : mg->one;
    memset(y, 0, (size_t)mg->n[0] * sizeof *y);
    fsi__mg_face_terms(1, 0, face, none, weight ? weight : mg->one, x, mg->zero, y);
    fsi__mg_face_terms(last, 0, face + 1, face, inner, x + 1, x, y + 1);
    fsi__mg_face_terms(last, 1, face, face + 1, inner, x, x + 1, y);
    fsi__mg_face_terms(1, 1, face + last, none, inner + last, x + last, mg->zero, y + last);
    for (int direction = 2; direction < 6; direction++) {
        weight = fsi__mg_weights(mg, direction, j, k);
        fsi__mg_face_terms(last + 1, direction, face, across[direction], weight ? weight : mg->one,
                           x, around[direction], y);
    }
}

/* All rows of it. */
static void fsi__mg_apply(const fsi_mg *mg, const fsi_real *x, fsi_real *y, int trusted) {
    int j;
    FSI__OMP(parallel for schedule(static) private(j) if (mg->cells > FSI__GRAIN))
    for (int k = 0; k < mg->n[2]; k++)
        for (j = 0; j < mg->n[1]; j++)
            fsi__mg_apply_row(mg, x, y, j, k, trusted);
}

FSI_API void fsi_mg_apply(const fsi_mg *mg, const fsi_real *x, fsi_real *y) {
    fsi__mg_apply(mg, x, y, 0);
}

/* ---- regions without Dirichlet cells */
/* Sums over regions live in the right-hand side (0) and the unknowns (1) of the finest level, which
   are idle between cycles and hold half as many doubles as there are cells: at least one for every
   region of two cells. They must be zeros afterwards. Up to 64 regions are summed in fixed chunks
   by all threads. */
static double *fsi__mg_room(const fsi_mg *mg, int which) {
    return (double *)(void *)(which ? mg->level->x : mg->level->f);
}

static int fsi__mg_chunks(const fsi_mg *mg) {
    return mg->cells > FSI__GRAIN && mg->large <= 64 ? 16 : 1;
}

static void fsi__mg_room_clear(const fsi_mg *mg, int which) {
    memset(fsi__mg_room(mg, which), 0,
           (fsi__mg_chunks(mg) > 1 ? 16 * 64 : (size_t)mg->large) * sizeof(double));
}

/* sum = of x (or |x|) over each region of two cells or more, size = its cells (NULL = not wanted);
 * both in the room. */
static void fsi__mg_region_sums(const fsi_mg *mg, const fsi_real *x, int absolute, double *sum,
                                double *size) {
    ptrdiff_t cells = (ptrdiff_t)mg->cells;
    ptrdiff_t cell;
    unsigned large = (unsigned)mg->large;
    int chunks = fsi__mg_chunks(mg);
    fsi__mg_room_clear(mg, sum != fsi__mg_room(mg, 0));
    if (size)
        fsi__mg_room_clear(mg, 1);
    FSI__OMP(parallel for schedule(static) private(cell) if (chunks > 1))
    for (int chunk = 0; chunk < chunks; chunk++) {
        ptrdiff_t end = cells * (chunk + 1) / chunks;
        double *part = sum + 64 * chunk;
        double *part_size = size ? size + 64 * chunk : NULL;
        for (cell = cells * chunk / chunks; cell < end; cell++) {
            unsigned region_of = (unsigned)mg->label[cell]; /* -1: beyond all */
            if (region_of >= large)
                continue;
            part[region_of] += absolute ? fabs((double)x[cell]) : (double)x[cell];
            if (part_size)
                part_size[region_of] += 1;
        }
    }
    for (int chunk = 1; chunk < chunks; chunk++)
        for (int region = 0; region < mg->large; region++) {
            sum[region] += sum[64 * chunk + region];
            if (size)
                size[region] += size[64 * chunk + region];
        }
}

FSI__INLINE int fsi__mg_hidden(const fsi_mg *mg, int region) {
    return mg->hidden && mg->regular[region >> 3] >> (region & 7) & 1;
}

static void fsi__mg_hide(fsi_mg *mg, int region) {
    uint8_t bit = (uint8_t)(1 << (region & 7));
    mg->hidden += !(mg->regular[region >> 3] & bit);
    mg->regular[region >> 3] |= bit;
}

FSI_API void fsi_mg_project(const fsi_mg *mg, fsi_real *x) {
    ptrdiff_t cells = (ptrdiff_t)mg->cells;
    if (!mg->regions)
        return;

    double *mean = fsi__mg_room(mg, 0);
    double *size = fsi__mg_room(mg, 1);
    fsi__mg_region_sums(mg, x, 0, mean, size);
    for (int region = 0; region < mg->large; region++)
        mean[region] = fsi__mg_hidden(mg, region) ? 0 : mean[region] / size[region];
    FSI__PARALLEL(cells > FSI__GRAIN)
    for (ptrdiff_t cell = 0; cell < cells; cell++) {
        int own = mg->label[cell];
        if (own >= mg->large)
            x[cell] = fsi__mg_hidden(mg, own) ? x[cell] : 0;
        else if (own >= 0)
            x[cell] -= (fsi_real)mean[own];
    }
    fsi__mg_room_clear(mg, 0);
    fsi__mg_room_clear(mg, 1);
}

/* Largest imbalance: |sum| / sum of |.| over regions where the part outside the range, |sum| /
 * sqrt(cells), exceeds least. */
static double fsi__mg_imbalance(const fsi_mg *mg, const fsi_real *b, double least) {
    double worst = 0;
    int any = 0;
    if (!mg->regions)
        return 0;

    double *sum = fsi__mg_room(mg, 0);
    double *other = fsi__mg_room(mg, 1);
    fsi__mg_region_sums(mg, b, 0, sum, other);
    for (int region = 0; region < mg->large; region++) {
        if (fsi__mg_hidden(mg, region) || !(fabs(sum[region]) > least * sqrt(other[region])))
            sum[region] = 0;
        any |= sum[region] != 0;
    }
    if (any)
        fsi__mg_region_sums(mg, b, 1, other, NULL);
    for (int region = 0; region < mg->large; region++)
        if (fabs(sum[region]) > worst * other[region])
            worst = fabs(sum[region]) / other[region];
    fsi__mg_room_clear(mg, 0);
    fsi__mg_room_clear(mg, 1);
    for (size_t cell = 0; cell < mg->cells && mg->regions > mg->large; cell++)
        if (mg->label[cell] >= mg->large && fabs((double)b[cell]) > least
            && !fsi__mg_hidden(mg, mg->label[cell]))
            return 1;

    return worst;
}

FSI_API void fsi_mg_region_sums(const fsi_mg *mg, const fsi_real *x, double *sum) {
    for (int region = 0; region < mg->regions; region++)
        sum[region] = 0;
    for (size_t cell = 0; cell < mg->cells && mg->regions; cell++)
        if (mg->label[cell] >= 0)
            sum[mg->label[cell]] += (double)x[cell];
}

FSI_API void fsi_mg_region_add(const fsi_mg *mg, const double *constant, fsi_real *x) {
    for (size_t cell = 0; cell < mg->cells && mg->regions; cell++)
        if (mg->label[cell] >= 0)
            x[cell] += (fsi_real)constant[mg->label[cell]];
}

/* ---- conjugate gradients around the cycle */
typedef struct fsi__mg_cg {
    fsi_mg *mg;
    const fsi_mg_solve_desc *desc;
    const fsi_real *b;
    fsi_real *p;
    double alpha, beta; /* alpha: step along d that p has not taken yet */
    double scale;       /* f = scale r in the cycle, a power of two */
    double limit;       /* stop at this residual */
    double rr;          /* r . r */
    /* b, p and r are multiplied by this power of two: 1 unless squares would overflow or vanish */
    double unit;
} fsi__mg_cg;

/* f = scale row: a row of the caller's order into row (j, k) of the finest level, split by colour.
 */
FSI__HOT static void fsi__mg_row_in(const fsi__mg_cg *cg, int j, int k,
                                    const fsi_real *FSI__RESTRICT row) {
    const fsi_mg_level *level = cg->mg->level;
    float *FSI__RESTRICT even = level->f + fsi__mg_even(level, j, k);
    float *FSI__RESTRICT odd = level->f + fsi__mg_odd(level, j, k);
    fsi_real scale = (fsi_real)cg->scale;
    int pairs = level->n[0] / 2;
    for (int pair = 0; pair < pairs; pair++) {
        even[pair] = (float)(scale * row[2 * pair]);
        odd[pair] = (float)(scale * row[2 * pair + 1]);
    }
    if (level->n[0] & 1)
        even[pairs] = (float)(scale * row[2 * pairs]);
}

/* And back: row = x / scale. */
FSI__HOT static void fsi__mg_row_out(const fsi__mg_cg *cg, int j, int k,
                                     fsi_real *FSI__RESTRICT row) {
    const fsi_mg_level *level = cg->mg->level;
    const float *FSI__RESTRICT even = level->x + fsi__mg_even(level, j, k);
    const float *FSI__RESTRICT odd = level->x + fsi__mg_odd(level, j, k);
    fsi_real scale = (fsi_real)(1 / cg->scale);
    int pairs = level->n[0] / 2;
    for (int pair = 0; pair < pairs; pair++) {
        row[2 * pair] = scale * (fsi_real)even[pair];
        row[2 * pair + 1] = scale * (fsi_real)odd[pair];
    }
    if (level->n[0] & 1)
        row[2 * pairs] = scale * (fsi_real)even[pairs];
}

/* What a pass does to row (j, k), whose cells begin at `at`, and its share of the pass's sum. */
typedef double (*fsi__mg_pass)(fsi__mg_cg *cg, int j, int k, ptrdiff_t at);

static void fsi__mg_plane(fsi__mg_cg *cg, fsi__mg_pass pass, int k) {
    const fsi_mg *mg = cg->mg;
    double sum = 0;
    for (int j = 0; j < mg->n[1]; j++)
        sum += pass(cg, j, k, fsi__mg_number(mg, 0, j, k));
    mg->part[k] = sum;
}

static double fsi__mg_parts(const fsi_mg *mg) {
    double sum = 0;
    for (int k = 0; k < mg->n[2]; k++)
        sum += mg->part[k];
    return sum;
}

static double fsi__mg_all_rows(fsi__mg_cg *cg, fsi__mg_pass pass) {
    FSI__PARALLEL(cg->mg->cells > FSI__GRAIN)
    for (int k = 0; k < cg->mg->n[2]; k++)
        fsi__mg_plane(cg, pass, k);
    return fsi__mg_parts(cg->mg);
}

/* The pending step of p, then the next direction: p += alpha d, d = z + beta d */
FSI__HOT static double fsi__mg_pass_direction(fsi__mg_cg *cg, int j, int k, ptrdiff_t at) {
    const fsi_real *FSI__RESTRICT z = cg->mg->image + at;
    fsi_real *FSI__RESTRICT p = cg->p + at;
    fsi_real *FSI__RESTRICT d = cg->mg->direction + at;
    fsi_real alpha = (fsi_real)cg->alpha;
    fsi_real beta = (fsi_real)cg->beta;
    int cells = cg->mg->n[0];
    /* z, which the caller's preconditioner has left in image already */
    if (!cg->desc->precondition.apply_fn)
        fsi__mg_row_out(cg, j, k, cg->mg->image + at);
    for (int i = 0; i < cells; i++) {
        p[i] += alpha * d[i];
        d[i] = z[i] + beta * d[i];
    }
    return 0;
}

/* q = A d; d . q */
static double fsi__mg_pass_image(fsi__mg_cg *cg, int j, int k, ptrdiff_t at) {
    const fsi_mg *mg = cg->mg;
    fsi__mg_apply_row(mg, mg->direction, mg->image, j, k, 1);
    return fsi__dot_row((size_t)mg->n[0], mg->direction + at, mg->image + at);
}

static void fsi__mg_step(void *user, int stage, int k) {
    fsi__mg_plane((fsi__mg_cg *)user, stage ? fsi__mg_pass_image : fsi__mg_pass_direction, k);
}

/* r -= alpha q, f = scale r; r . r */
static double fsi__mg_pass_residual(fsi__mg_cg *cg, int j, int k, ptrdiff_t at) {
    const fsi_mg *mg = cg->mg;
    fsi_real *r = mg->residual + at;
    fsi_axpy((size_t)mg->n[0], (fsi_real)-cg->alpha, mg->image + at, r);
    fsi__mg_row_in(cg, j, k, r);
    return fsi__dot_row((size_t)mg->n[0], r, r);
}

/* The power of two that brings cells with this sum of squares near 1, for the float cycle. */
static double fsi__mg_scale(const fsi_mg *mg, double square) {
    double rms = sqrt(square / (double)(mg->fluid ? mg->fluid : 1));
    int exponent = 0;
    int most = sizeof(fsi_real) == 8 ? 1000 : 120;
    if (rms > 0 && rms <= 1e300)
        (void)frexp(rms, &exponent);
    return ldexp(1.0, -fsi__iclamp(exponent, -most, most));
}

/* r -= alpha q and the right-hand side of the next cycle, scaled by the residual of the step
 * before; returns r . r. */
static double fsi__mg_update_residual(fsi__mg_cg *cg) {
    cg->scale = fsi__mg_scale(cg->mg, cg->rr);
    return fsi__mg_all_rows(cg, fsi__mg_pass_residual);
}

/* f = scale p */
static double fsi__mg_pass_in(fsi__mg_cg *cg, int j, int k, ptrdiff_t at) {
    fsi__mg_row_in(cg, j, k, cg->p + at);
    return 0;
}

/* p = x / scale */
static double fsi__mg_pass_out(fsi__mg_cg *cg, int j, int k, ptrdiff_t at) {
    fsi__mg_row_out(cg, j, k, cg->p + at);
    return 0;
}

FSI_API void fsi_mg_cycle(fsi_mg *mg, const fsi_real *r, fsi_real *z) {
    ptrdiff_t cells = (ptrdiff_t)mg->cells;
    if (!mg->block)
        return;

    fsi__mg_cg cg = FSI__ZERO;
    cg.mg = mg;
    cg.p = z;
    FSI__PARALLEL(cells > FSI__GRAIN)
    for (ptrdiff_t cell = 0; cell < cells; cell++)
        z[cell] = mg->face[cell] & FSI__FLUID ? r[cell] : 0;
    fsi_mg_project(mg, z);
    cg.scale = fsi__mg_scale(mg, fsi_dot(mg->cells, z, z));
    fsi__mg_all_rows(&cg, fsi__mg_pass_in);
    fsi__mg_vcycle(mg);
    fsi__mg_all_rows(&cg, fsi__mg_pass_out);
    fsi_mg_project(mg, z);
}

/* y += E x where the caller has given an extra term. */
static void fsi__mg_extra(const fsi__mg_cg *cg, const fsi_real *x, fsi_real *y) {
    if (cg->desc->extra.apply_fn)
        cg->desc->extra.apply_fn(x, y, cg->desc->extra.user);
}

/* Iterates from r = b - (A + E) p until |r| <= limit by the recurrence; the last step of p is left
 * in alpha. */
static fsi_result fsi__mg_iterate(fsi__mg_cg *cg, int cap, int *iterations, double begin) {
    fsi_mg *mg = cg->mg;
    const fsi_mg_solve_desc *desc = cg->desc;
    double rz = 0;
    memset(mg->direction, 0, mg->cells * sizeof *mg->direction);
    cg->alpha = cg->beta = 0;

    while (sqrt(cg->rr) > cg->limit) {
        double now = desc->seconds > 0 ? desc->clock_fn(desc->clock_user) : begin;
        if (*iterations >= cap || now - begin > desc->seconds)
            return FSI_NOT_CONVERGED;

        /* z = P r in the split rows of the cycle, or in image */
        double old = rz;
        if (desc->precondition.apply_fn) {
            desc->precondition.apply_fn(mg->residual, mg->image, desc->precondition.user);
            rz = fsi_dot(mg->cells, mg->residual, mg->image);
        } else
            rz = fsi__mg_vcycle(mg) / (cg->scale * cg->scale); /* r . z = f . x / scale^2 */
        if (!(rz > 0) || !(rz <= 1e300))
            return FSI_BREAKDOWN;
        cg->beta = old > 0 ? rz / old : 0;
        fsi__mg_wave(mg->n[2], 2, mg->cells > FSI__GRAIN, fsi__mg_step, cg);
        cg->alpha = 0;
        double dq = fsi__mg_parts(mg);
        if (desc->extra.apply_fn) {
            fsi__mg_extra(cg, mg->direction, mg->image);
            dq = fsi_dot(mg->cells, mg->direction, mg->image);
        }
        if (!(dq > 0) || !(dq <= 1e300))
            return FSI_BREAKDOWN;
        cg->alpha = rz / dq;
        cg->rr = fsi__mg_update_residual(cg);
        if (!(cg->rr <= 1e300)) {
            cg->alpha = 0;
            return FSI_BREAKDOWN;
        }
        ++*iterations;
    }

    return FSI_OK;
}

/* image = (A + E) x for an x that is 0 in cells that are not fluid */
static void fsi__mg_image(const fsi__mg_cg *cg, const fsi_real *x) {
    fsi__mg_apply(cg->mg, x, cg->mg->image, 1);
    fsi__mg_extra(cg, x, cg->mg->image);
}

/* r = unit b - image on the fluid; r . r */
FSI__HOT static double fsi__mg_pass_truth(fsi__mg_cg *cg, int j, int k, ptrdiff_t at) {
    const uint8_t *FSI__RESTRICT face = cg->mg->face + at;
    const fsi_real *FSI__RESTRICT b = cg->b + at;
    const fsi_real *FSI__RESTRICT image = cg->mg->image + at;
    fsi_real *FSI__RESTRICT r = cg->mg->residual + at;
    fsi_real unit = (fsi_real)cg->unit;
    int cells = cg->mg->n[0];
    (void)j;
    (void)k;
    for (int i = 0; i < cells; i++) {
        fsi_real value = unit * b[i] - image[i];
        r[i] = face[i] & FSI__FLUID ? value : 0;
    }
    return fsi__dot_row((size_t)cells, r, r);
}

/* Takes the part of r outside the range of A + E out of it; sets r . r. */
static void fsi__mg_reachable(fsi__mg_cg *cg) {
    const fsi_mg *mg = cg->mg;
    fsi_mg_project(mg, mg->residual);
    if (mg->regions)
        cg->rr = fsi_dot(mg->cells, mg->residual, mg->residual);
}

/* The true residual b - (A + E) p, whose image is there already, as far as p can reach it. */
static void fsi__mg_true_residual(fsi__mg_cg *cg) {
    cg->rr = fsi__mg_all_rows(cg, fsi__mg_pass_truth);
    fsi__mg_reachable(cg);
}

/* With an extra term a region without Dirichlet cells may have no null vector: E applied to
   constants of random size per region tells. Such regions are left alone by fsi_mg_project during
   the solve. Overwrites r, d, q. */
static void fsi__mg_hide_regular(fsi_mg *mg, const fsi_mg_solve_desc *desc) {
    ptrdiff_t cells = (ptrdiff_t)mg->cells;
    const int32_t *label = mg->label;
    fsi_real *x = mg->direction;
    fsi_real *image = mg->image;
    fsi_real *scale = mg->residual;

    /* E applied to constants of random size per region */
    FSI__PARALLEL(cells > FSI__GRAIN)
    for (ptrdiff_t cell = 0; cell < cells; cell++) {
        uint64_t seed = (uint64_t)((int64_t)label[cell] + 1);
        x[cell] = label[cell] < 0 ? 0 : 1 + fsi__random_unit(&seed);
        image[cell] = scale[cell] = 0;
    }
    desc->extra.apply_fn(x, image, desc->extra.user);

    /* noise of the same size gives the scale of E */
    FSI__PARALLEL(cells > FSI__GRAIN)
    for (ptrdiff_t cell = 0; cell < cells; cell++) {
        uint64_t seed = (uint64_t)cell + 1;
        x[cell] *= 2 * fsi__random_unit(&seed) - 1;
    }
    desc->extra.apply_fn(x, scale, desc->extra.user);

    /* regions whose image is more than rounding */
    double *sum = fsi__mg_room(mg, 0);
    double *noise = fsi__mg_room(mg, 1);
    memset(mg->regular, 0, mg->cells / 8 + 1);
    fsi__mg_region_sums(mg, image, 0, sum, noise);
    for (int region = 0; region < mg->large; region++)
        sum[region] /= sqrt(noise[region]); /* the cells of the region, so far */
    fsi__mg_region_sums(mg, scale, 1, noise, NULL);
    for (int region = 0; region < mg->large; region++)
        if (fabs(sum[region]) > 1e4 * (double)FSI_REAL_EPS * noise[region])
            fsi__mg_hide(mg, region);
    for (ptrdiff_t cell = 0; cell < cells; cell++)
        if (label[cell] >= mg->large && fsi__abs(image[cell]) > 0)
            fsi__mg_hide(mg, label[cell]);
    fsi__mg_room_clear(mg, 0);
    fsi__mg_room_clear(mg, 1);
}

/* Clears p outside the fluid, everywhere without a guess; 0 (and p untouched) if the guess is not
 * finite. */
static int fsi__mg_load_guess(fsi_mg *mg, fsi_real *p, int guess) {
    ptrdiff_t cells = (ptrdiff_t)mg->cells;
    if (!guess) {
        fsi_fill(mg->cells, 0, p);
        return 1;
    }
    for (ptrdiff_t cell = 0; cell < cells; cell++)
        if (mg->face[cell] & FSI__FLUID && !fsi__finite(p[cell]))
            return 0;
    for (ptrdiff_t cell = 0; cell < cells; cell++)
        p[cell] = mg->face[cell] & FSI__FLUID ? p[cell] : 0;
    return 1;
}

/* The right-hand side in its unit, and the limit; 0 if b is not finite. */
static int fsi__mg_load(fsi__mg_cg *cg) {
    double tolerance = cg->desc->tolerance > 0 ? cg->desc->tolerance : 1e-6;
    double safe = sizeof(fsi_real) == 8 ? 1e60 : 1e16;
    cg->unit = 1;
    fsi_fill(cg->mg->cells, 0, cg->mg->image);
    cg->rr = fsi__mg_all_rows(cg, fsi__mg_pass_truth);
    if (!(cg->rr >= 1 / safe && cg->rr <= safe)) {
        if (!fsi_all_finite(cg->mg->cells, cg->mg->residual))
            return 0;
        cg->unit = fsi__krylov_unit((double)fsi_max_abs(cg->mg->cells, cg->mg->residual));
        if (cg->unit < 1 || cg->unit > 1)
            cg->rr = fsi__mg_all_rows(cg, fsi__mg_pass_truth);
    }
    double absolute = cg->desc->tolerance_abs * cg->unit;
    cg->limit = fmax(tolerance * sqrt(cg->rr), absolute);
    return 1;
}

/* 1 if the guess in p does not raise the energy q(p) = p . (A + E) p / 2 - b . p above that of p =
 * 0. Leaves the image of p. */
static int fsi__mg_guess_good(fsi__mg_cg *cg) {
    fsi_mg *mg = cg->mg;
    fsi__mg_image(cg, cg->p);
    return fsi_dot(mg->cells, cg->p, mg->image) / 2 - fsi_dot(mg->cells, cg->p, mg->residual) <= 0
           && fsi__finite64(fsi_dot(mg->cells, mg->image, mg->image));
}

/* The residual that rounding of p alone leaves: A + E applied to errors of one unit in the last
   place, of random sign. Below a few of it there is nothing to gain. Overwrites d and q. */
static double fsi__mg_floor(const fsi__mg_cg *cg) {
    const fsi_mg *mg = cg->mg;
    uint64_t seed = 1;
    for (size_t cell = 0; cell < mg->cells; cell++) {
        fsi_real sign = fsi__random_unit(&seed) < FSI_R(0.5) ? 1 : -1;
        mg->direction[cell] = sign * FSI_REAL_EPS * cg->p[cell];
    }
    fsi__mg_image(cg, mg->direction);
    return 1.75 * fsi_norm(mg->cells, mg->image);
}

/* Conjugate gradients, checked against the true residual: where the recurrence was too hopeful, it
 * starts again from there. */
static fsi_result fsi__mg_loop(fsi__mg_cg *cg, fsi_report *rep, int cap) {
    double begin = cg->desc->clock_fn ? cg->desc->clock_fn(cg->desc->clock_user) : 0;
    fsi_result reason;
    int tries = 0;
    do {
        double before = cg->rr;
        (void)fsi__mg_update_residual(cg); /* fills f */
        reason = fsi__mg_iterate(cg, cap, &rep->iterations, begin);
        fsi_axpy(cg->mg->cells, (fsi_real)cg->alpha, cg->mg->direction, cg->p);
        cg->alpha = 0;
        fsi__mg_image(cg, cg->p);
        fsi__mg_true_residual(cg);
        fsi_mg_project(cg->mg, cg->p);
        rep->residual = sqrt(cg->rr);
        if (rep->residual <= cg->limit)
            return FSI_OK;
        if (reason != FSI_NOT_CONVERGED && rep->residual <= fsi__mg_floor(cg))
            return FSI_OK;

        /* rounding of the recurrence: once more from the truth */
        if (reason == FSI_BREAKDOWN && cg->rr < before / 4)
            reason = FSI_OK;

        /* columns cut off may lose definiteness (solids in one another): the cycle alone */
        else if (reason == FSI_BREAKDOWN && cg->mg->rank)
            cg->mg->rank = NULL, reason = FSI_OK;
        else if (reason == FSI_OK && tries && cg->rr > before / 4)
            reason = FSI_STALLED;
        rep->restarts++;
    } while (reason == FSI_OK && ++tries < 8);

    return reason == FSI_OK ? FSI_STALLED : reason;
}

static int fsi__mg_desc_valid(const fsi_mg_solve_desc *desc) {
    return fsi__limits_valid(desc->tolerance, desc->tolerance_abs, desc->max_iterations)
           && fsi__budget_valid(desc->seconds, desc->clock_fn != NULL);
}

FSI_API fsi_result fsi_mg_solve(fsi_mg *mg, const fsi_mg_solve_desc *desc, const fsi_real *b,
                                fsi_real *p, fsi_report *report) {
    fsi_mg_solve_desc given = FSI__ZERO;
    fsi__mg_cg cg = FSI__ZERO;
    fsi_report rep = FSI__ZERO;
    if (!mg || !mg->block)
        return FSI_ERR_STATE;
    if (desc)
        given = *desc;
    cg.mg = mg;
    cg.desc = &given;
    cg.b = b;
    cg.p = p;
    if (!b || !p || !fsi__mg_desc_valid(&given))
        return FSI_ERR_ARGUMENT;
    if (given.rank && given.rank->columns
        && (given.rank->cells != mg->cells || given.rank->levels != mg->levels))
        return FSI_ERR_SIZE;

    rep.regions = mg->regions;
    if (given.extra.apply_fn && mg->regions)
        fsi__mg_hide_regular(mg, &given);
    mg->rank = given.rank;
    if (!fsi__mg_load(&cg) || !fsi__mg_load_guess(mg, p, given.guess)) {
        mg->hidden = 0;
        mg->rank = NULL;
        return FSI_ERR_ARGUMENT;
    }
    double least = fmax(given.tolerance_abs * cg.unit, 1e-4 * cg.limit);
    double imbalance = fsi__mg_imbalance(mg, mg->residual, least);
    fsi__mg_reachable(&cg);
    if (given.guess) {
        if (cg.unit < 1 || cg.unit > 1)
            fsi_scale(mg->cells, (fsi_real)cg.unit, p);
        if (fsi__mg_guess_good(&cg))
            fsi__mg_true_residual(&cg);
        else {
            fsi_fill(mg->cells, 0, p);
            rep.restarts = 1;
        }
    }
    rep.residual_start = rep.residual = sqrt(cg.rr);
    if (rep.residual > cg.limit)
        rep.reason = fsi__mg_loop(&cg, &rep, given.max_iterations ? given.max_iterations : 200);
    mg->hidden = 0;
    mg->rank = NULL;
    if (cg.unit < 1 || cg.unit > 1) {
        fsi_scale(mg->cells, (fsi_real)(1 / cg.unit), p);
        rep.residual /= cg.unit;
        rep.residual_start /= cg.unit;
    }

    /* the answer does not fit, or weights differ too much for float */
    if (!fsi_all_finite(mg->cells, p)) {
        fsi_fill(mg->cells, 0, p);
        rep.residual = rep.residual_start;
        rep.reason = FSI_ERR_NUMERIC;
    }
    if (!mg->fluid)
        rep.reason = FSI_EMPTY;
    else if (rep.reason == FSI_OK && imbalance > sqrt((double)FSI_REAL_EPS))
        rep.reason = FSI_INCOMPATIBLE;
    if (report)
        *report = rep;

    return rep.reason;
}

/* ------------------------------------------------------------------------------------------------
 * >>geometry */
/* Place of a corner of an element: in the surface's array, or asked for and put into room[3]. */
FSI__INLINE const fsi_real *fsi__surface_corner(const fsi_surface *surface, int e, int corner,
                                                fsi_real *room) {
    int vertex = surface->index[(size_t)e * (size_t)surface->dim + (size_t)corner];
    if (surface->x)
        return surface->x + 3 * (size_t)vertex;
    surface->place_fn(vertex, room, surface->user);
    return room;
}

/* The same as a vector. */
FSI__INLINE fsi_vec3 fsi__surface_vertex(const fsi_surface *surface, int e, int corner) {
    return fsi_surface_place(surface,
                             surface->index[(size_t)e * (size_t)surface->dim + (size_t)corner]);
}

FSI_API fsi_real fsi_closest_on_segment(fsi_vec3 p, fsi_vec3 a, fsi_vec3 b, fsi_real weight[2]) {
    fsi_vec3 ab = fsi_vec_sub(b, a);
    fsi_vec3 ap = fsi_vec_sub(p, a);
    fsi_real length2 = fsi_vec_dot(ab, ab);
    fsi_real share = length2 > 0 ? fsi__clamp(fsi_vec_dot(ap, ab) / length2, 0, 1) : 0;
    weight[0] = 1 - share;
    weight[1] = share;
    fsi_vec3 gap = fsi_vec_sub(ap, fsi_vec_scale(ab, share));
    return fsi_vec_dot(gap, gap);
}

/* Nearest of the three edges; for points that do not project into the triangle, and for triangles
 * without area. */
static fsi_real fsi__closest_edge(fsi_vec3 p, const fsi_vec3 *corner, fsi_real *weight) {
    fsi_real best = FSI_REAL_MAX;
    fsi_real pair[2];
    for (int i = 0; i < 3; i++) {
        int j = (i + 1) % 3;
        fsi_real distance2 = fsi_closest_on_segment(p, corner[i], corner[j], pair);
        if (!(distance2 < best))
            continue;
        best = distance2;
        weight[i] = pair[0];
        weight[j] = pair[1];
        weight[3 - i - j] = 0;
    }
    return best;
}

/* Squared distance from a plane: volume is that of the parallelepiped over two edges, normal2 the
   squared area below it. The square of a volume leaves the range of numbers long before the
   distance does. */
static fsi_real fsi__plane_distance2(fsi_real volume, fsi_real normal2) {
    fsi_real square = volume * volume;
    int in_range = square > 1 / (FSI_REAL_MAX * FSI_REAL_EPS) && square <= FSI_REAL_MAX;
    return in_range ? square / normal2 : volume * (volume / normal2);
}

FSI_API fsi_real fsi_closest_on_triangle(fsi_vec3 p, fsi_vec3 a, fsi_vec3 b, fsi_vec3 c,
                                         fsi_real weight[3]) {
    fsi_vec3 ab = fsi_vec_sub(b, a);
    fsi_vec3 ac = fsi_vec_sub(c, a);
    fsi_vec3 ap = fsi_vec_sub(p, a);
    fsi_vec3 normal = fsi_vec_cross(ab, ac);
    fsi_real normal2 = fsi_vec_dot(normal, normal);
    fsi_real scale = fsi_vec_dot(ab, ab) * fsi_vec_dot(ac, ac);

    /* A triangle with an area: does the point project into it? */
    if (normal2 > 16 * FSI_REAL_EPS * FSI_REAL_EPS * scale && normal2 > 0) {
        weight[1] = fsi_vec_dot(fsi_vec_cross(ap, ac), normal) / normal2;
        weight[2] = fsi_vec_dot(fsi_vec_cross(ab, ap), normal) / normal2;
        weight[0] = 1 - weight[1] - weight[2];
        if (weight[0] >= 0 && weight[1] >= 0 && weight[2] >= 0)
            return fsi__plane_distance2(fsi_vec_dot(ap, normal), normal2);
    }

    fsi_vec3 corner[3];
    corner[0] = a;
    corner[1] = b;
    corner[2] = c;

    return fsi__closest_edge(p, corner, weight);
}

FSI_API void fsi_surface_closest(const fsi_surface *surface, int e, fsi_vec3 p, fsi_hit *hit) {
    fsi_vec3 a = fsi__surface_vertex(surface, e, 0);
    fsi_vec3 b = fsi__surface_vertex(surface, e, 1);
    fsi_vec3 c = FSI__ZERO;
    fsi_real d2;
    if (surface->dim == 2) {
        a.z = b.z = p.z = 0;
        d2 = fsi_closest_on_segment(p, a, b, hit->weight);
        hit->weight[2] = 0;
    } else {
        c = fsi__surface_vertex(surface, e, 2);
        d2 = fsi_closest_on_triangle(p, a, b, c, hit->weight);
    }
    hit->element = e;
    hit->side = 0;
    hit->t = fsi__sqrt(d2);
    hit->point = fsi_vec_mad(fsi_vec_mad(fsi_vec_scale(a, hit->weight[0]), b, hit->weight[1]), c,
                             hit->weight[2]);
}

FSI_API fsi_vec3 fsi_surface_normal(const fsi_surface *surface, int e) {
    fsi_vec3 a = fsi__surface_vertex(surface, e, 0);
    fsi_vec3 ab = fsi_vec_sub(fsi__surface_vertex(surface, e, 1), a);
    if (surface->dim == 2)
        return fsi_vec(ab.y, -ab.x, 0);
    return fsi_vec_scale(fsi_vec_cross(ab, fsi_vec_sub(fsi__surface_vertex(surface, e, 2), a)),
                         FSI_R(0.5));
}

/* A surface that shares the tree of its shape at rest must fit to that tree. */
static int fsi__surface_rest_fits(const fsi_surface *surface) {
    const fsi_surface *rest = &surface->rest->surface;
    int same_elements = rest->element_count == surface->element_count && rest->dim == surface->dim;
    int posed = !surface->x && surface->R && surface->T;
    return same_elements && posed && surface->off >= 0;
}

/* Finite, and small enough for areas to be squared. */
static int fsi__places_fine(size_t count, const fsi_real *x) {
    const fsi_real most = sizeof(fsi_real) == 8 ? FSI_R(1e70) : FSI_R(1e9);
    return fsi_all_finite(count, x) && fsi_max_abs(count, x) <= most;
}

FSI_API fsi_result fsi_surface_check(const fsi_surface *surface) {
    /* Do the fields go together? */
    if (!surface || (surface->dim != 2 && surface->dim != 3))
        return FSI_ERR_ARGUMENT;
    if (surface->vertex_count < 0 || surface->element_count < 0)
        return FSI_ERR_ARGUMENT;
    if (surface->vertex_count && !surface->x && !surface->place_fn)
        return FSI_ERR_ARGUMENT;
    if (surface->element_count && !surface->index)
        return FSI_ERR_ARGUMENT;
    if (surface->rest && !fsi__surface_rest_fits(surface))
        return FSI_ERR_ARGUMENT;

    /* Are the numbers in the arrays sound? */
    size_t corners = (size_t)surface->element_count * (size_t)surface->dim;
    for (size_t i = 0; i < corners; i++)
        if (surface->index[i] < 0 || surface->index[i] >= surface->vertex_count)
            return FSI_ERR_GEOMETRY;
    size_t count = 3 * (size_t)surface->vertex_count;
    if (surface->v && !fsi_all_finite(count, surface->v))
        return FSI_ERR_GEOMETRY;
    if (surface->x)
        return fsi__places_fine(count, surface->x) ? FSI_OK : FSI_ERR_GEOMETRY;

    for (int i = 0; i < surface->vertex_count; i++) {
        fsi_real x[3];
        surface->place_fn(i, x, surface->user);
        if (!fsi__places_fine(3, x))
            return FSI_ERR_GEOMETRY;
    }

    return FSI_OK;
}

/* ---- Crossings. The query segment becomes the axis w of a sheared frame in which it runs from 0
   to 1 at u = v = 0. A vertex has the same (u, v) in every element it belongs to, and an edge the
   same sign in both of its triangles, so nothing slips between two of them. An edge that passes
   exactly through the origin is decided by moving the origin to (eps, eps^2), eps -> 0: one answer
   for all. */
typedef struct fsi__ray {
    double origin[3];
    double shear_u, shear_v; /* u += shear_u * w, v += shear_v * w */
    double per_w;            /* t = w * per_w */
    fsi_vec3 from;
    fsi_vec3 dir;
    int u, v, w; /* axes: a right-handed frame, also when the segment runs backwards along w */
    int dim;     /* 0: the segment has no direction and hits nothing */
} fsi__ray;

static void fsi__ray_init(fsi__ray *ray, int dim, fsi_vec3 p, fsi_vec3 q) {
    double way[3];
    ray->from = p;
    ray->dir = fsi_vec_sub(q, p);
    for (int i = 0; i < 3; i++) {
        ray->origin[i] = (double)fsi__get(p, i);
        way[i] = (double)fsi__get(q, i) - ray->origin[i];
    }

    /* w is the axis along which the segment is longest. */
    ray->w = fabs(way[1]) > fabs(way[0]) ? 1 : 0;
    if (dim == 3 && fabs(way[2]) > fabs(way[ray->w]))
        ray->w = 2;
    ray->dim = way[ray->w] != 0 ? dim : 0;
    if (!ray->dim)
        return;

    /* u and v are the other two, in the order that keeps the frame right-handed. */
    int next = (ray->w + 1) % 3;
    int last = (ray->w + 2) % 3;
    int forward = way[ray->w] > 0;
    ray->u = forward ? next : last;
    ray->v = forward ? last : next;
    if (dim == 2) {
        ray->u = 1 - ray->w;
        ray->v = 2;
    }
    ray->per_w = 1 / way[ray->w];
    ray->shear_u = -way[ray->u] * ray->per_w;
    ray->shear_v = dim == 3 ? -way[ray->v] * ray->per_w : 0;
}

/* Sign of a number, -1, 0 or 1. */
FSI__INLINE int fsi__sign_of(double x) {
    return (x > 0) - (x < 0);
}

/* Twice the signed area of (0, a, b), exactly antisymmetric in a and b. *sign is 0 only if a = b:
   where the area vanishes it is that of the origin moved to (eps, eps^2). */
static double fsi__edge(const double *a, const double *b, int *sign) {
    int swap = a[0] > b[0];
    if (a[0] == b[0])
        swap = a[1] > b[1];
    const double *lo = swap ? b : a;
    const double *hi = swap ? a : b;
    double area = lo[0] * hi[1] - lo[1] * hi[0];
    int side = fsi__sign_of(area);
    if (side == 0)
        side = fsi__sign_of(lo[1] - hi[1]);
    if (side == 0)
        side = hi[0] > lo[0];
    *sign = swap ? -side : side;
    return swap ? -area : area;
}

/* Does the ray cross an element? In its frame the element does so if it has the origin of (u, v)
   inside; the areas that the origin makes with the edges are the weights of the corners. */
static int fsi__ray_cross(const fsi__ray *ray, const fsi_surface *surface, int e, fsi_hit *hit) {
    if (!ray->dim)
        return 0;

    /* Corners in the ray's frame. */
    double corner[3][3]; /* (u, v, w) */
    for (int i = 0; i < surface->dim; i++) {
        fsi_real room[3];
        const fsi_real *x = fsi__surface_corner(surface, e, i, room);
        double w = (double)x[ray->w] - ray->origin[ray->w];
        double u = (double)x[ray->u] - ray->origin[ray->u];
        double v = surface->dim == 3 ? (double)x[ray->v] - ray->origin[ray->v] : 0;
        corner[i][0] = u + ray->shear_u * w;
        corner[i][1] = v + ray->shear_v * w;
        corner[i][2] = w;
    }

    /* Is the origin inside? Weights of the corners, not yet divided by their sum. */
    double area[3];
    int sign[3];

    if (surface->dim == 2) {
        if ((corner[0][0] >= 0) == (corner[1][0] >= 0))
            return 0;
        area[0] = corner[1][0];
        area[1] = -corner[0][0];
        area[2] = 0;
        corner[2][2] = 0;
        int ascends = corner[1][0] > corner[0][0];
        sign[0] = (ascends == (ray->w == 0)) == (ray->per_w > 0) ? 1 : -1;
    } else {
        area[0] = fsi__edge(corner[1], corner[2], sign);
        area[1] = fsi__edge(corner[2], corner[0], sign + 1);
        area[2] = fsi__edge(corner[0], corner[1], sign + 2);
        if (sign[0] == 0 || sign[0] != sign[1] || sign[0] != sign[2])
            return 0;
    }

    /* Where along the segment? */
    double whole = area[0] + area[1] + area[2];
    if (whole == 0)
        return 0;

    double w = 0;
    for (int i = 0; i < 3; i++)
        w += area[i] * corner[i][2];
    double t = w / whole * ray->per_w;
    if (!(t >= 0 && t < 1))
        return 0;

    hit->element = e;
    hit->side = sign[0];
    hit->t = (fsi_real)t;
    for (int i = 0; i < 3; i++)
        hit->weight[i] = (fsi_real)(area[i] / whole);
    hit->point = fsi_vec_mad(ray->from, ray->dir, hit->t);

    return 1;
}

FSI_API int fsi_surface_cross(const fsi_surface *surface, int e, fsi_vec3 p, fsi_vec3 q,
                              fsi_hit *hit) {
    fsi__ray ray;
    fsi__ray_init(&ray, surface->dim, p, q);
    return fsi__ray_cross(&ray, surface, e, hit);
}

/* ---- Clipping: the polygon is kept in barycentric weights, so areas and centroids are sums over
 * weights. */
static int fsi__clip_plane(fsi_real (*polygon)[3], int count, const fsi_real *corner, fsi_real at,
                           fsi_real sign) {
    /* x: coordinate of the three corners along the axis; keep sign (x - at) >= 0 */
    fsi_real out[12][3];
    int kept = 0;

    for (int i = 0; i < count; i++) {
        const fsi_real *a = polygon[i];
        const fsi_real *b = polygon[(i + 1) % count];
        fsi_real here = a[0] * corner[0] + a[1] * corner[1] + a[2] * corner[2];
        fsi_real there = b[0] * corner[0] + b[1] * corner[1] + b[2] * corner[2];
        here = sign * (here - at);
        there = sign * (there - at);
        if (here >= 0) {
            memcpy(out[kept], a, sizeof out[kept]);
            kept++;
        }
        if ((here >= 0) == (there >= 0))
            continue;
        for (int k = 0; k < 3; k++)
            out[kept][k] = (a[k] * there - b[k] * here) / (there - here);
        kept++;
    }
    memcpy(polygon, out, (size_t)kept * sizeof out[0]);

    return kept;
}

/* Share of the polygon in the triangle (2D: of the interval in the segment) and the weights of its
 * centroid. */
static fsi_real fsi__clip_moments(fsi_real (*polygon)[3], int count, int dim, fsi_real *centroid) {
    fsi_real total = 0;
    memset(centroid, 0, 3 * sizeof *centroid);
    const fsi_real *a = polygon[0];

    /* A fan of triangles (0, i, i + 1); in 2D the one interval (0, 1). */
    int parts = dim == 2 ? fsi__imin(count - 1, 1) : count - 2;
    for (int i = 1; i <= parts; i++) {
        const fsi_real *b = polygon[i];
        const fsi_real *c = polygon[dim == 2 ? 0 : i + 1];
        fsi_real part = b[1] - a[1];
        if (dim == 3) {
            fsi_real height = c[2] - a[2];
            part = part * height - (b[2] - a[2]) * (c[1] - a[1]);
        }
        part = fsi__abs(part);
        for (int k = 0; k < 3; k++) {
            fsi_real sum = a[k] + b[k];
            fsi_real mean = dim == 2 ? sum / 2 : (sum + c[k]) / 3;
            centroid[k] += part * mean;
        }
        total += part;
    }
    for (int k = 0; k < 3; k++)
        centroid[k] = total > 0 ? centroid[k] / total : 0;
    return total;
}

FSI_API int fsi_surface_clip(const fsi_surface *surface, int e, fsi_vec3 lo, fsi_vec3 hi,
                             fsi_clip *out) {
    fsi_real polygon[12][3] = {{0}};
    fsi_real corner[3];
    fsi_vec3 normal = fsi_surface_normal(surface, e);
    int count = surface->dim;
    for (int i = 0; i < count; i++)
        polygon[i][i] = 1;
    for (int axis = 0; axis < surface->dim && count > 0; axis++) {
        for (int i = 0; i < 3; i++)
            corner[i] = i < surface->dim ? fsi__get(fsi__surface_vertex(surface, e, i), axis) : 0;
        count = fsi__clip_plane(polygon, count, corner, fsi__get(lo, axis), 1);
        if (count > 0)
            count = fsi__clip_plane(polygon, count, corner, fsi__get(hi, axis), -1);
    }
    fsi_real share = fsi__clip_moments(polygon, count, surface->dim, out->weight);
    out->normal = fsi_vec_scale(normal, share);
    out->area = fsi__length(out->normal);

    return out->area > 0;
}

/* ---- Tree of boxes, depth first: the first child follows its parent, so children have larger
 * numbers (refit runs backwards). */
static void fsi__bvh_layout(fsi_bvh *bvh, fsi_arena *arena) {
    FSI__TAKE(bvh->node, arena, 2 * (size_t)bvh->capacity);
    FSI__TAKE(bvh->order, arena, (size_t)bvh->capacity);
}

FSI_API fsi_result fsi_bvh_init(fsi_bvh *bvh, int capacity, const fsi_allocator *allocator) {
    fsi_arena arena = FSI__ZERO;
    if (!bvh || capacity < 1 || !fsi_allocator_valid(allocator))
        return FSI_ERR_ARGUMENT;

    memset(bvh, 0, sizeof *bvh);
    bvh->capacity = capacity;
    if (allocator)
        bvh->allocator = *allocator;
    fsi__bvh_layout(bvh, &arena);
    fsi_result result = fsi__arena_block(&arena, &bvh->allocator, &bvh->block, &bvh->size);
    if (result == FSI_OK)
        fsi__bvh_layout(bvh, &arena);
    else
        memset(bvh, 0, sizeof *bvh);
    return result;
}

FSI_API void fsi_bvh_free(fsi_bvh *bvh) {
    if (!bvh)
        return;
    fsi_free(&bvh->allocator, bvh->block, bvh->size);
    memset(bvh, 0, sizeof *bvh);
}

/* Bounds of nothing yet (z = 0 in 2D), with a point, with the corners of an element. */
static void fsi__bounds_none(int dim, fsi_real *lo, fsi_real *hi) {
    for (int k = 0; k < 3; k++) {
        lo[k] = k < dim ? FSI_REAL_MAX : 0;
        hi[k] = k < dim ? -FSI_REAL_MAX : 0;
    }
}

FSI__INLINE void fsi__bounds_add(int dim, const fsi_real *x, fsi_real *lo, fsi_real *hi) {
    for (int k = 0; k < dim; k++) {
        lo[k] = fsi__min(lo[k], x[k]);
        hi[k] = fsi__max(hi[k], x[k]);
    }
}

static void fsi__bounds_element(const fsi_surface *surface, int e, fsi_real *lo, fsi_real *hi) {
    fsi_real room[3];
    for (int i = 0; i < surface->dim; i++)
        fsi__bounds_add(surface->dim, fsi__surface_corner(surface, e, i, room), lo, hi);
}

FSI_API void fsi_surface_bounds(const fsi_surface *surface, int e, fsi_real lo[3], fsi_real hi[3]) {
    fsi__bounds_none(surface->dim, lo, hi);
    fsi__bounds_element(surface, e, lo, hi);
}

/* What elements are sorted by: dim times the centroid along the axis. */
static fsi_real fsi__bvh_key(const fsi_surface *surface, int e, int axis) {
    fsi_real sum = 0;
    for (int i = 0; i < surface->dim; i++)
        sum += fsi__get(fsi__surface_vertex(surface, e, i), axis);
    return sum;
}

/* Order [begin, end) so that the middle element is in its sorted place and smaller ones come first;
 * ties by element number. */
static void fsi__bvh_select(fsi_bvh *bvh, int begin, int end, int middle, int axis) {
    const fsi_surface *surface = &bvh->surface;
    int32_t *order = bvh->order;
    int lo = begin;
    int hi = end - 1;

    while (lo < hi) {
        int32_t pivot = order[lo + (hi - lo) / 2];
        fsi_real key = fsi__bvh_key(surface, pivot, axis);
        fsi_real value;
        int i = lo;
        int j = hi;
        while (i <= j) {
            for (;; i++) {
                value = fsi__bvh_key(surface, order[i], axis);
                if (!(value < key || (value == key && order[i] < pivot)))
                    break;
            }
            for (;; j--) {
                value = fsi__bvh_key(surface, order[j], axis);
                if (!(value > key || (value == key && order[j] > pivot)))
                    break;
            }
            if (i > j)
                break;
            int32_t swap = order[i];
            order[i] = order[j];
            order[j] = swap;
            i++;
            j--;
        }
        if (middle <= j)
            hi = j;
        else if (middle >= i)
            lo = i;
        else
            return;
    }
}

/* The box of a node: around its children, or around the elements of a leaf. */
static void fsi__bvh_fit(fsi_bvh *bvh, fsi_bvh_node *node) {
    const fsi_bvh_node *left = node + 1;
    const fsi_bvh_node *right = bvh->node + node->right;
    for (int k = 0; k < 3 && node->right; k++) {
        node->lo[k] = fsi__min(left->lo[k], right->lo[k]);
        node->hi[k] = fsi__max(left->hi[k], right->hi[k]);
    }
    if (node->right)
        return;

    fsi__bounds_none(bvh->surface.dim, node->lo, node->hi);
    for (int i = node->begin; i < node->end; i++)
        fsi__bounds_element(&bvh->surface, bvh->order[i], node->lo, node->hi);
    fsi__bounds_pad(node->lo, node->hi);
}

/* Makes the node of order[begin, end) and all below it, halved along the longest axis; returns its
   number. The depth is log2 of the number of elements. */
static int fsi__bvh_split(fsi_bvh *bvh, int begin, int end) {
    int self = bvh->nodes++;
    int axis = 0;
    int middle = begin + (end - begin) / 2;
    fsi_bvh_node *node = bvh->node + self;
    fsi_real lo[3];
    fsi_real hi[3];
    fsi_real x[3];
    node->begin = begin;
    node->end = end;
    node->right = 0;
    if (end - begin <= (bvh->leaf > 0 ? bvh->leaf : 4)) {
        fsi__bvh_fit(bvh, node);
        return self;
    }
    fsi__bounds_none(bvh->surface.dim, lo, hi);
    for (int i = begin; i < end; i++) {
        for (int k = 0; k < bvh->surface.dim; k++)
            x[k] = fsi__bvh_key(&bvh->surface, bvh->order[i], k);
        fsi__bounds_add(bvh->surface.dim, x, lo, hi);
    }
    for (int k = 1; k < bvh->surface.dim; k++)
        if (hi[k] - lo[k] > hi[axis] - lo[axis])
            axis = k;
    fsi__bvh_select(bvh, begin, end, middle, axis);
    (void)fsi__bvh_split(bvh, begin, middle);
    node->right = fsi__bvh_split(bvh, middle, end);
    fsi__bvh_fit(bvh, node);

    return self;
}

/* Bounds of everything: the root's, or those of all vertices. */
static void fsi__bvh_bounds(fsi_bvh *bvh) {
    const fsi_surface *surface = &bvh->surface;
    fsi_real room[3];
    if (!surface->rest && bvh->nodes) {
        memcpy(bvh->lo, bvh->node->lo, sizeof bvh->lo);
        memcpy(bvh->hi, bvh->node->hi, sizeof bvh->hi);
    }
    if (!surface->rest)
        return;

    fsi__bounds_none(surface->dim, bvh->lo, bvh->hi);
    for (int i = 0; i < surface->vertex_count; i++) {
        fsi_vec_store(room, fsi_surface_place(surface, i));
        fsi__bounds_add(surface->dim, room, bvh->lo, bvh->hi);
    }
    fsi__bounds_pad(bvh->lo, bvh->hi);
}

FSI_API fsi_result fsi_bvh_build(fsi_bvh *bvh, const fsi_surface *surface) {
    if (!bvh || !surface || (!bvh->block && !surface->rest))
        return FSI_ERR_STATE;

    fsi_result result = fsi_surface_check(surface);
    if (result != FSI_OK)
        return result;
    if (!surface->rest && surface->element_count > bvh->capacity)
        return FSI_ERR_SIZE;

    bvh->surface = *surface;
    bvh->nodes = surface->rest ? surface->rest->nodes : 0;
    for (int i = 0; i < surface->element_count && !surface->rest; i++)
        bvh->order[i] = i;
    if (surface->element_count && !surface->rest)
        (void)fsi__bvh_split(bvh, 0, surface->element_count);
    fsi__bvh_bounds(bvh);

    return FSI_OK;
}

FSI_API fsi_result fsi_bvh_refit(fsi_bvh *bvh, const fsi_surface *surface) {
    if (surface && surface->rest)
        return fsi_bvh_build(bvh, surface);
    if (!bvh || !bvh->block)
        return FSI_ERR_STATE;

    fsi_result result = fsi_surface_check(surface);
    if (result != FSI_OK)
        return result;
    if (surface->element_count != bvh->surface.element_count || surface->dim != bvh->surface.dim
        || bvh->surface.rest)
        return FSI_ERR_STATE;

    bvh->surface = *surface;
    for (int i = bvh->nodes - 1; i >= 0; i--)
        fsi__bvh_fit(bvh, bvh->node + i);
    fsi__bvh_bounds(bvh);

    return FSI_OK;
}

/* One walk for all queries: gives the leaves whose box passes the test, near ones first for closest
   points. It runs in the tree's own frame: the world's, or that of the surface at rest, where boxes
   are larger by `off` on all sides. */
enum fsi__walk_kind {
    FSI__WALK_BOX,
    FSI__WALK_RAY,
    FSI__WALK_BALL
};

typedef struct fsi__walk {
    const fsi_bvh *tree;
    int stack[64];
    int top;
    int dim;
    enum fsi__walk_kind kind;
    fsi_real lo[3], hi[3];     /* box, or that of the ray's segment; lo = centre of the ball */
    fsi_real from[3], over[3]; /* ray: start, 1 / direction (0: none along this axis) */
    fsi_real reach;            /* ball: squared radius; ray: largest t; shrinks as hits are found */
} fsi__walk;

/* Squared distance from a point to the box of a node that is larger by off. */
static fsi_real fsi__box_distance2(const fsi_bvh_node *node, const fsi_real *point, int dim,
                                   fsi_real off) {
    fsi_real sum = 0;
    for (int k = 0; k < dim; k++) {
        fsi_real below = node->lo[k] - point[k];
        fsi_real above = point[k] - node->hi[k];
        fsi_real gap = fsi__max(fsi__max(below, above) - off, 0);
        sum += gap * gap;
    }
    return sum;
}

/* May the box of a node, larger by off, hold what is asked for? */
static int fsi__walk_test(const fsi__walk *walk, const fsi_bvh_node *node, fsi_real off) {
    fsi_real enter = 0;
    fsi_real leave = walk->reach;
    if (walk->kind == FSI__WALK_BALL)
        return fsi__box_distance2(node, walk->lo, walk->dim, off) <= walk->reach;

    for (int k = 0; k < walk->dim; k++) {
        if (walk->lo[k] > node->hi[k] + off)
            return 0;
        if (walk->hi[k] < node->lo[k] - off)
            return 0;
    }
    for (int k = 0; k < walk->dim && walk->kind == FSI__WALK_RAY; k++) {
        if (walk->over[k] == 0)
            continue;
        fsi_real first = (node->lo[k] - off - walk->from[k]) * walk->over[k];
        fsi_real second = (node->hi[k] + off - walk->from[k]) * walk->over[k];
        enter = fsi__max(enter, fsi__min(first, second));
        leave = fsi__min(leave, fsi__max(first, second));
    }

    return enter <= leave + 16 * FSI_REAL_EPS;
}

/* A point in the frame of the surface at rest: R^T (x - T). */
static fsi_vec3 fsi__to_rest(const fsi_surface *surface, fsi_vec3 x) {
    fsi_mat3 R;
    memcpy(R.m, surface->R, sizeof R.m);
    fsi_vec3 arm = fsi_vec_sub(x, fsi_vec_load(surface->T));
    if (surface->dim == 2)
        arm.z = 0;
    return fsi_mat3_tmul_vec(&R, arm);
}

/* Half the size of the box around a box of this half size that is seen from the frame at rest. */
static fsi_vec3 fsi__half_to_rest(const fsi_surface *surface, fsi_vec3 half) {
    fsi_mat3 turn;
    for (int i = 0; i < 9; i++)
        turn.m[i] = fsi__abs(surface->R[i]);
    if (surface->dim == 2)
        half.z = 0;
    return fsi_mat3_tmul_vec(&turn, half);
}

/* Begins a walk: box from .. to, segment from -> to, or ball about from. */
static void fsi__walk_start(fsi__walk *walk, const fsi_bvh *bvh, enum fsi__walk_kind kind,
                            fsi_vec3 from, fsi_vec3 to, fsi_real reach) {
    const fsi_surface *surface = &bvh->surface;
    walk->tree = surface->rest ? surface->rest : bvh;
    walk->top = 0;
    walk->kind = kind;
    walk->dim = surface->dim;
    walk->reach = reach;

    /* What is asked for, in the tree's own frame. */
    fsi_real *lo = walk->lo;
    fsi_real *hi = walk->hi;
    if (surface->rest && kind == FSI__WALK_BOX) {
        fsi_vec3 half = fsi_vec_scale(fsi_vec_sub(to, from), FSI_R(0.5));
        fsi_vec3 middle = fsi_vec_scale(fsi_vec_add(from, to), FSI_R(0.5));
        half = fsi__half_to_rest(surface, half);
        middle = fsi__to_rest(surface, middle);
        from = fsi_vec_sub(middle, half);
        to = fsi_vec_add(middle, half);
    } else if (surface->rest) {
        from = fsi__to_rest(surface, from);
        to = fsi__to_rest(surface, to);
    }
    fsi_vec_store(lo, from);
    fsi_vec_store(hi, to);

    /* A ray is tested by its box first. Along an axis that it hardly follows that decides alone. */
    for (int k = 0; k < 3 && kind == FSI__WALK_RAY; k++) {
        fsi_real way = hi[k] - lo[k];
        walk->from[k] = lo[k];
        walk->over[k] = way != 0 ? 1 / way : 0;
        if (!fsi__finite(walk->over[k]))
            walk->over[k] = 0;
        if (way < 0) {
            fsi_real swap = lo[k];
            lo[k] = hi[k];
            hi[k] = swap;
        }
    }
    if (bvh->nodes)
        walk->stack[walk->top++] = 0;
}

/* The next leaf that may hold what is asked for; NULL: none is left. */
static const fsi_bvh_node *fsi__walk_next(fsi__walk *walk, fsi_real off) {
    const fsi_bvh_node *nodes = walk->tree->node;

    while (walk->top > 0) {
        const fsi_bvh_node *node = nodes + walk->stack[--walk->top];
        if (!fsi__walk_test(walk, node, off))
            continue;
        if (!node->right)
            return node;
        int left = (int)(node - nodes) + 1;
        int right = node->right;
        if (walk->kind == FSI__WALK_BALL
            && fsi__box_distance2(nodes + right, walk->lo, walk->dim, 0)
                   < fsi__box_distance2(nodes + left, walk->lo, walk->dim, 0)) {
            int swap = left;
            left = right;
            right = swap;
        }
        walk->stack[walk->top++] = right;
        walk->stack[walk->top++] = left;
    }

    return NULL;
}

/* Round-off of the turned query beside what the vertices are off. */
static fsi_real fsi__bvh_off(const fsi_bvh *bvh) {
    const fsi_surface *surface = &bvh->surface;
    fsi_real most = 0;
    if (!surface->rest)
        return 0;

    for (int k = 0; k < 3; k++)
        most = fsi__max(most, fsi__max(fsi__abs(bvh->lo[k]), fsi__abs(bvh->hi[k]))
                                  + fsi__abs(surface->T[k]));
    return surface->off + 64 * FSI_REAL_EPS * most;
}

FSI_API int fsi_bvh_closest(const fsi_bvh *bvh, fsi_vec3 p, fsi_real radius, fsi_hit *hit) {
    fsi_hit candidate;
    fsi_real off = fsi__bvh_off(bvh);
    int found = 0;
    if (!(radius >= 0) || !fsi__finite_vec(p))
        return 0;
    if (bvh->surface.dim == 2)
        p.z = 0;
    fsi__walk walk;
    fsi__walk_start(&walk, bvh, FSI__WALK_BALL, p, p, fsi__ball_square(radius));
    const fsi_bvh_node *node;
    while ((node = fsi__walk_next(&walk, off)) != NULL)
        for (int i = node->begin; i < node->end; i++) {
            fsi_surface_closest(&bvh->surface, walk.tree->order[i], p, &candidate);
            if (candidate.t > radius || (found && !fsi__hit_before(&candidate, hit)))
                continue;
            *hit = candidate;
            found = 1;
            walk.reach = fsi__min(walk.reach, fsi__ball_square(candidate.t));
        }

    return found;
}

/* first: stop looking beyond the nearest one found. *winding: crossings along the normals minus
 * those against. */
static int fsi__bvh_hits(const fsi_bvh *bvh, fsi_vec3 p, fsi_vec3 q, fsi_hit *hits, int room,
                         int first, int *winding) {
    fsi_hit hit;
    fsi_real off = fsi__bvh_off(bvh);
    int count = 0;
    *winding = 0;
    if (!fsi__finite_vec(p) || !fsi__finite_vec(q))
        return 0;

    fsi__ray ray;
    fsi__ray_init(&ray, bvh->surface.dim, p, q);
    fsi__walk walk;
    fsi__walk_start(&walk, bvh, FSI__WALK_RAY, p, q, 1);
    const fsi_bvh_node *node;
    while ((node = fsi__walk_next(&walk, off)) != NULL)
        for (int i = node->begin; i < node->end; i++) {
            if (!fsi__ray_cross(&ray, &bvh->surface, walk.tree->order[i], &hit))
                continue;
            fsi__hits_add(hits, room, &count, &hit);
            *winding += hit.side;
            if (first)
                walk.reach = hits[0].t;
        }

    return count;
}

FSI_API int fsi_bvh_first_hit(const fsi_bvh *bvh, fsi_vec3 p, fsi_vec3 q, fsi_hit *hit) {
    int winding;
    return fsi__bvh_hits(bvh, p, q, hit, 1, 1, &winding) > 0;
}

FSI_API int fsi_bvh_all_hits(const fsi_bvh *bvh, fsi_vec3 p, fsi_vec3 q, fsi_hit *hits, int room) {
    int winding;
    return fsi__bvh_hits(bvh, p, q, hits, room, 0, &winding);
}

FSI_API int fsi_bvh_overlap(const fsi_bvh *bvh, fsi_vec3 lo, fsi_vec3 hi,
                            int (*visit_fn)(int element, void *user), void *user) {
    fsi__walk walk;
    fsi_real off = fsi__bvh_off(bvh);
    fsi__walk_start(&walk, bvh, FSI__WALK_BOX, lo, hi, 0);
    const fsi_bvh_node *node;
    while ((node = fsi__walk_next(&walk, off)) != NULL)
        for (int i = node->begin; i < node->end; i++) {
            fsi_real least[3];
            fsi_real most[3];
            fsi_surface_bounds(&bvh->surface, walk.tree->order[i], least, most);
            int meets = 1;
            for (int k = 0; k < bvh->surface.dim; k++)
                meets &= least[k] <= fsi__get(hi, k) && most[k] >= fsi__get(lo, k);
            int stop = meets ? visit_fn(walk.tree->order[i], user) : 0;
            if (stop)
                return stop;
        }

    return 0;
}

FSI_API int fsi_bvh_inside(const fsi_bvh *bvh, fsi_vec3 p) {
    fsi_real x[3];
    fsi_real size = 0;
    int winding[3];
    int dim = bvh->surface.dim;
    if (!bvh->nodes || !bvh->surface.closed || !fsi__finite_vec(p))
        return 0;

    fsi_vec_store(x, p);
    for (int k = 0; k < dim; k++) {
        if (x[k] < bvh->lo[k] || x[k] > bvh->hi[k])
            return 0;
        size += bvh->hi[k] - bvh->lo[k];
    }

    /* The winding number is the number of signed crossings of a ray to the outside. Two rays that
     * agree decide; otherwise a third, oblique one does. */
    int ray;

    for (ray = 0; ray < 3; ray++) {
        fsi_vec3 q = p;
        if (ray != 1)
            q.x += 2 * size;
        if (ray != 0)
            q.y += (ray == 1 ? 2 : FSI_R(1.3)) * size;
        if (ray == 2 && dim == 3)
            q.z += FSI_R(0.7) * size;
        (void)fsi__bvh_hits(bvh, p, q, NULL, 0, 0, winding + ray);
        if (ray == 1 && !winding[0] == !winding[1])
            break;
    }

    return winding[ray == 1 ? 0 : 2] != 0;
}

/* ------------------------------------------------------------------------------------------------
 * >>isosurface */
/* Marching cubes without a table. On every face of a cell the crossed edges are joined by directed
   segments (out-to-in edge -> in-to-out edge, seen from outside the cell); every crossed edge then
   has one successor, so the segments close to loops, which are cut into triangles. A face with four
   crossings is paired by the sign of its mean value: both cells see the same bits, no cracks. Long
   loops get a vertex in the middle, so that no two cells can share a diagonal. A corner is 3 bits
   (x, y, z); an edge is axis * 8 + its lower corner. */
typedef struct fsi__iso {
    const fsi_iso_desc *desc;
    fsi_iso_mesh *mesh;                  /* x == NULL: count only */
    int first;                           /* number of the first sample: -1 with a lid */
    int samples_x, samples_y, samples_z; /* per axis, the lid's included */
    /* [3 * samples_x * samples_y] vertex on the edges that start at the samples of the layers k and
     * k + 1; -1: none yet */
    int32_t *map[2];
    int full; /* 1: did not fit */
} fsi__iso;

/* Value minus level; outside the lattice the lid: the mirrored sample, always outside, so that a
 * crossing lies half way. */
FSI__INLINE fsi_real fsi__iso_value(const fsi_iso_desc *desc, fsi__ijk at) {
    int a = fsi__iclamp(at.i, 0, desc->nx - 1);
    int b = fsi__iclamp(at.j, 0, desc->ny - 1);
    int c = fsi__iclamp(at.k, 0, desc->nz - 1);
    fsi_real value =
        desc->value[(size_t)a + (size_t)desc->nx * ((size_t)b + (size_t)desc->ny * (size_t)c)]
        - desc->level;
    return a == at.i && b == at.j && c == at.k ? value : fsi__abs(value);
}

/* A corner of a cell, 3 bits. */
FSI__INLINE fsi__ijk fsi__iso_corner(fsi__ijk cell, int corner) {
    return fsi__ijk_of(cell.i + (corner & 1), cell.j + (corner >> 1 & 1), cell.k + (corner >> 2));
}

/* Slope at a sample, by central differences inside the lattice and one-sided ones at its rim. */
static fsi_vec3 fsi__iso_gradient(const fsi__iso *iso, fsi__ijk here) {
    const fsi_iso_desc *desc = iso->desc;
    const int samples[3] = {desc->nx, desc->ny, desc->nz};
    fsi_real slope[3] = FSI__ZERO;
    for (int axis = 0; axis < iso->mesh->dim; axis++) {
        int at = fsi__ijk_get(here, axis);
        int below = at > 0 || desc->closed;
        int above = at < samples[axis] - 1 || desc->closed;
        fsi_real rise = fsi__iso_value(desc, fsi__ijk_step(here, axis, above));
        rise -= fsi__iso_value(desc, fsi__ijk_step(here, axis, -below));
        slope[axis] = rise / (fsi_real)fsi__imax(below + above, 1);
    }
    return fsi_vec_load(slope);
}

/* Counts one more item and returns its number; where it finds no room the mesh is full. A mesh
   without arrays is only counted. */
static int fsi__iso_count(fsi__iso *iso, int *count, int room) {
    int number = *count;
    if (number == 0x7ffffffe)
        iso->full = 1;
    else
        (*count)++;
    if (iso->mesh->x && number >= room)
        iso->full = 1;
    return number;
}

/* A new vertex with its normal; returns its number. */
static int fsi__iso_vertex(fsi__iso *iso, fsi_vec3 x, fsi_vec3 normal) {
    fsi_iso_mesh *mesh = iso->mesh;
    int vertex = fsi__iso_count(iso, &mesh->vertex_count, mesh->vertex_room);
    if (!mesh->x)
        return vertex;
    if (vertex >= mesh->vertex_room)
        return 0;

    fsi__vec_put(mesh->x, vertex, x);
    if (mesh->normal)
        fsi__vec_put(mesh->normal, vertex,
                     fsi__finite_vec(normal) ? fsi_vec_unit(normal) : fsi_vec(0, 0, 0));
    return vertex;
}

/* A new triangle, or in 2D the segment from a to b. */
static void fsi__iso_element(fsi__iso *iso, int a, int b, int c) {
    fsi_iso_mesh *mesh = iso->mesh;
    int element = fsi__iso_count(iso, &mesh->element_count, mesh->element_room);
    if (!mesh->x || element >= mesh->element_room)
        return;

    int32_t *corner = mesh->index + (size_t)mesh->dim * (size_t)element;
    corner[0] = a;
    corner[1] = b;
    if (mesh->dim == 3)
        corner[2] = c;
}

/* The vertex on an edge of a cell, made on first use. */
static int fsi__iso_edge(fsi__iso *iso, fsi__ijk cell, int edge) {
    /* The edge runs from sample `from` one step along its axis; was it met before? */
    int axis = edge >> 3;
    fsi__ijk from = fsi__iso_corner(cell, edge & 7);
    fsi__ijk to = fsi__ijk_step(from, axis, 1);
    size_t row = (size_t)iso->samples_x * (size_t)(from.j - iso->first);
    int32_t *slot = iso->map[from.k - cell.k] + 3 * ((size_t)(from.i - iso->first) + row) + axis;
    if (*slot >= 0)
        return *slot;

    /* Linear along the edge: values and slopes of both ends give place and normal. */
    fsi_real value = fsi__iso_value(iso->desc, from);
    fsi_real rise = value - fsi__iso_value(iso->desc, to);
    fsi_real share = fsi__finite(rise) ? value / rise : FSI_R(0.5);
    fsi_real place[3] = {(fsi_real)from.i, (fsi_real)from.j, (fsi_real)from.k};
    place[axis] += share;
    fsi_vec3 normal = fsi_vec_add(fsi_vec_scale(fsi__iso_gradient(iso, from), 1 - share),
                                  fsi_vec_scale(fsi__iso_gradient(iso, to), share));
    *slot = fsi__iso_vertex(iso, fsi_vec_mad(iso->desc->origin, fsi_vec_load(place), iso->desc->h),
                            normal);

    return *slot;
}

/* Successors of the crossed edges on the face `side` of `axis`; v: the values at the 8 corners. */
static void fsi__iso_face(const fsi_real value[8], int axis, int side, signed char next[24]) {
    int first = 1 << (axis + 1) % 3;
    int second = 1 << (axis + 2) % 3;
    int base = side << axis;
    int corner[4];
    int edge[4];
    int kind[4];
    int count = 0;

    /* counter-clockwise seen from outside the cell */
    corner[0] = base;
    corner[2] = base | first | second;
    corner[side ? 1 : 3] = base | first;
    corner[side ? 3 : 1] = base | second;

    for (int at = 0; at < 4; at++) {
        int a = corner[at];
        int b = corner[(at + 1) & 3];
        int bit = a ^ b;

        /* bits 1, 2, 4 -> axes 0, 1, 2 */
        edge[at] = (bit >> 1) * 8 + (a & b);

        /* 1: enters the inside, -1: leaves it, 0: not crossed */
        kind[at] = (value[b] < 0) - (value[a] < 0);
        count += kind[at] != 0;
    }

    /* Four crossings: the sign of the mean value says which pairs belong together. */
    fsi_real even = value[corner[0]] + value[corner[2]];
    fsi_real odd = value[corner[1]] + value[corner[3]];
    int step = count == 4 && even + odd < 0 ? 3 : 1;

    for (int at = 0; at < 4; at++) {
        if (kind[at] != 1)
            continue;
        int out = (at + step) & 3;
        while (kind[out] != -1)
            out = (out + step) & 3;
        next[edge[at]] = (signed char)edge[out];
    }
}

/* One loop of vertices to triangles: a fan, about a new vertex in the middle if it is long. */
static void fsi__iso_loop(fsi__iso *iso, const int *vertex, int count) {
    const fsi_iso_mesh *mesh = iso->mesh;
    if (count < 6) {
        for (int at = 1; at + 1 < count; at++)
            fsi__iso_element(iso, vertex[0], vertex[at], vertex[at + 1]);
        return;
    }
    fsi_vec3 x = FSI__ZERO;
    fsi_vec3 normal = x;
    for (int at = 0; at < count && mesh->x && !iso->full; at++) {
        x = fsi_vec_mad(x, fsi__vec_at(mesh->x, vertex[at]), 1 / (fsi_real)count);
        if (mesh->normal)
            normal = fsi_vec_add(normal, fsi__vec_at(mesh->normal, vertex[at]));
    }
    int centre = fsi__iso_vertex(iso, x, normal);
    for (int at = 0; at < count; at++)
        fsi__iso_element(iso, centre, vertex[at], vertex[at + 1 < count ? at + 1 : 0]);
}

/* One cell: values at its corners, successors of its crossed edges, loops, triangles. */
static void fsi__iso_cell(fsi__iso *iso, fsi__ijk cell) {
    fsi_real value[8];
    signed char next[24];
    int inside = 0;
    int two = iso->mesh->dim == 2;
    int corners = two ? 4 : 8;
    for (int corner = 0; corner < corners; corner++) {
        value[corner] = fsi__iso_value(iso->desc, fsi__iso_corner(cell, corner));
        inside += value[corner] < 0;
    }
    if (inside == 0 || inside == corners)
        return;

    memset(next, -1, sizeof next);

    /* a square is the lower z face of a cube */
    for (int corner = two ? 4 : 0; corner < (two ? 5 : 6); corner++)
        fsi__iso_face(value, corner >> 1, corner & 1, next);
    for (int edge = 0; edge < 24; edge++) {
        int loop[12];
        int count = 0;
        int at = edge;
        while (next[at] >= 0) {
            int to = next[at];
            loop[count++] = fsi__iso_edge(iso, cell, at);
            next[at] = -1;
            at = to;
        }

        /* a segment: `at` has no successor */
        if (count && two)
            fsi__iso_element(iso, loop[0], fsi__iso_edge(iso, cell, at), 0);
        else if (count)
            fsi__iso_loop(iso, loop, count);
    }
}

FSI_API fsi_result fsi_iso_extract(const fsi_iso_desc *desc, fsi_iso_mesh *mesh) {
    if (!desc || !mesh || !desc->value || (mesh->x && !mesh->index))
        return FSI_ERR_ARGUMENT;
    if (desc->nx < 1 || desc->ny < 1 || desc->nz < 1)
        return FSI_ERR_ARGUMENT;
    if (!fsi__positive(desc->h) || !fsi__finite(desc->level))
        return FSI_ERR_ARGUMENT;
    if (!fsi__finite_vec(desc->origin) || !fsi_allocator_valid(&desc->allocator))
        return FSI_ERR_ARGUMENT;

    size_t n;
    if (!fsi_size_mul((size_t)desc->nx, (size_t)desc->ny, &n)
        || !fsi_size_mul(n, (size_t)desc->nz, &n))
        return FSI_ERR_SIZE;
    if (!fsi_all_finite(n, desc->value))
        return FSI_ERR_ARGUMENT;

    fsi__iso iso;
    iso.desc = desc;
    iso.mesh = mesh;
    iso.full = 0;
    int lid = desc->closed ? 2 : 0;
    iso.first = -lid / 2;
    iso.samples_x = desc->nx + lid;
    iso.samples_y = desc->ny + lid;
    iso.samples_z = desc->nz + lid;
    mesh->dim = desc->nz > 1 ? 3 : 2;
    mesh->vertex_count = mesh->element_count = 0;

    /* Vertices on the edges of two layers of samples. */
    size_t layer;
    if (!fsi_size_mul((size_t)iso.samples_x, (size_t)iso.samples_y, &layer)
        || !fsi_size_mul(layer, 3 * sizeof(int32_t), &layer) || layer > (size_t)-1 / 4)
        return FSI_ERR_SIZE;

    int32_t *block = (int32_t *)fsi_alloc(&desc->allocator, 2 * layer);
    if (!block)
        return FSI_ERR_MEMORY;

    iso.map[0] = block;
    iso.map[1] = block + layer / sizeof(int32_t);
    memset(block, -1, 2 * layer);

    /* Slab by slab. A plane is one slab. */
    int first = mesh->dim == 3 ? iso.first : 0;
    int end = mesh->dim == 3 ? iso.first + iso.samples_z - 1 : 1;

    for (int k = first; k < end; k++) {
        for (int j = iso.first; j < iso.first + iso.samples_y - 1; j++)
            for (int i = iso.first; i < iso.first + iso.samples_x - 1; i++)
                fsi__iso_cell(&iso, fsi__ijk_of(i, j, k));

        /* the upper layer is the next slab's lower one */
        int32_t *swap = iso.map[0];
        iso.map[0] = iso.map[1];
        iso.map[1] = swap;
        memset(iso.map[1], -1, layer);
    }
    fsi_free(&desc->allocator, block, 2 * layer);

    return iso.full ? FSI_ERR_SIZE : FSI_OK;
}

/* The arrays of a mesh whose sizes are known. */
static void fsi__iso_place(fsi_iso_mesh *mesh, fsi_arena *arena) {
    FSI__TAKE(mesh->x, arena, 3 * (size_t)mesh->vertex_room);
    FSI__TAKE(mesh->normal, arena, 3 * (size_t)mesh->vertex_room);
    FSI__TAKE(mesh->index, arena, (size_t)mesh->dim * (size_t)mesh->element_room);
}

FSI_API fsi_result fsi_iso_build(const fsi_iso_desc *desc, fsi_iso_mesh *mesh) {
    if (!mesh)
        return FSI_ERR_ARGUMENT;

    fsi_iso_mesh made = FSI__ZERO;
    fsi_arena arena = FSI__ZERO;
    fsi_result result = fsi_iso_extract(desc, &made);
    if (result != FSI_OK)
        return result;

    made.vertex_room = made.vertex_count;
    made.element_room = made.element_count;
    made.allocator = desc->allocator;

    if (made.element_count) {
        fsi__iso_place(&made, &arena);
        result = fsi__arena_block(&arena, &made.allocator, &made.block, &made.block_size);
        if (result != FSI_OK)
            return result;
        fsi__iso_place(&made, &arena);
        result = fsi_iso_extract(desc, &made);
        if (result != FSI_OK) {
            fsi_iso_free(&made);
            return result;
        }
    }
    *mesh = made;

    return made.element_count ? FSI_OK : FSI_EMPTY;
}

FSI_API void fsi_iso_free(fsi_iso_mesh *mesh) {
    if (!mesh)
        return;
    if (mesh->block)
        fsi_free(&mesh->allocator, mesh->block, mesh->block_size);
    memset(mesh, 0, sizeof *mesh);
}

#ifdef __cplusplus
}
#endif
#endif /* FSI_LINALG_IMPLEMENTATION */

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
