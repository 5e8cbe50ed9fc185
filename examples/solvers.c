/* solvers: one Poisson problem on a square, solved in four ways, and a parabola fitted through a
   row of the answer. Nothing flows here: this is fsi_linalg.h alone.

       build/solvers
       build/solvers --size 256

   Result: iterations and error of each way. The answer is known: p = x (1 - x) y (1 - y), for
   which differences of neighbours are exact. Every error is 0 but for the tolerance; the complete
   factor needs 1 iteration (in single precision rounding may ask for a few more); the parabola's
   curvature is -y (1 - y) of its row. */
#define FSI_IMPLEMENTATION
#include "fsi_linalg.h"
#include "common.h"

/* -Laplace(p) = f times the squared spacing, on size x size points inside the unit square. */
typedef struct problem {
    int size;
    size_t points;
    fsi_csr matrix;
    fsi_real *b;     /* [points] right-hand side */
    fsi_real *exact; /* [points] the known answer */
    fsi_real *p;     /* [points] the answer of the last solve */
    double tolerance;
} problem;

/* Conjugate gradients; what makes them fast is the preconditioner, about the inverse of A. */
static int solve_by_gradients(problem *poisson, fsi_operator precondition) {
    fsi_krylov_desc desc = {
        .n = poisson->points,
        .A = fsi_csr_operator(&poisson->matrix),
        .precondition = precondition,
        .tolerance = poisson->tolerance,
    };
    fsi_report report = {0};
    ex_try(fsi_cg_solve(&desc, poisson->b, poisson->p, NULL, 0, &report));
    return report.iterations;
}

/* 1. Without a preconditioner the iterations grow with the size. */
static int solve_plain(problem *poisson) {
    fsi_operator none = {0};
    return solve_by_gradients(poisson, none);
}

/* 2. An incomplete factor has no more entries than the matrix and saves most iterations. */
static int solve_incomplete(problem *poisson) {
    fsi_ic factor;
    fsi_ic_desc desc = {.modified = 0.97};
    ex_need(fsi_ic_init(&factor, &poisson->matrix, &desc));
    int iterations = solve_by_gradients(poisson, fsi_ic_operator(&factor));
    fsi_ic_free(&factor);
    return iterations;
}

/* 3. A complete factor is the inverse: one iteration finds and confirms the answer. */
static int solve_complete(problem *poisson) {
    fsi_cholesky factor;
    ex_need(fsi_cholesky_init(&factor, &poisson->matrix, NULL));
    ex_need(fsi_cholesky_factor(&factor, &poisson->matrix, 0, NULL));
    int iterations = solve_by_gradients(poisson, fsi_cholesky_operator(&factor));
    fsi_cholesky_free(&factor);
    return iterations;
}

/* 4. Multigrid knows the grid and needs no matrix; its iterations hardly grow with the size. */
static int solve_multigrid(problem *poisson) {
    fsi_mg grid;
    fsi_mg_desc desc = {
        .nx = poisson->size,
        .ny = poisson->size,
        .nz = 1,
        .open = {1, 1, 1, 1, 0, 0},
    };
    ex_need(fsi_mg_init(&grid, &desc));
    fsi_mg_solve_desc how = {.tolerance = poisson->tolerance};
    fsi_report report = {0};
    ex_try(fsi_mg_solve(&grid, &how, poisson->b, poisson->p, &report));
    fsi_mg_free(&grid);
    return report.iterations;
}

/* 5. More equations than unknowns: the parabola c0 + c1 x + c2 x^2 nearest to n values. The matrix
   has one column for each unknown, and the solve leaves its right-hand side overwritten. */
static double fit_parabola(int n, const fsi_real *value, fsi_real c[3]) {
    fsi_real *column = ex_alloc(3 * (size_t)n, sizeof *column);
    fsi_real *right = ex_alloc((size_t)n, sizeof *right);
    for (int i = 0; i < n; i++) {
        fsi_real x = (fsi_real)(i + 1) / (fsi_real)(n + 1);
        column[i] = 1;
        column[n + i] = x;
        column[2 * n + i] = x * x;
        right[i] = value[i];
    }

    fsi_real tau[3];
    int32_t pivot[3];
    int rank;
    double residual;
    ex_need(fsi_qr_factor(n, 3, column, tau, pivot, 0, &rank));
    fsi_qr_solve(n, 3, column, tau, pivot, rank, right, c, &residual);
    free(column);
    free(right);
    return residual;
}

/* ---- the problem */
static double place(const problem *poisson, int i) {
    return (i + 1.0) / (poisson->size + 1);
}

/* The five entries of one row: the point itself and those of its neighbours that are inside. */
static size_t add_row(const problem *poisson, int i, int j, fsi_csr *entry, size_t count) {
    static const int step[5][2] = {{0, 0}, {-1, 0}, {1, 0}, {0, -1}, {0, 1}};
    int n = poisson->size;
    for (int k = 0; k < 5; k++) {
        int x = i + step[k][0];
        int y = j + step[k][1];
        int inside = x >= 0 && x < n && y >= 0 && y < n;
        if (!inside)
            continue;
        entry->row[count] = i + n * j;
        entry->col[count] = x + n * y;
        entry->val[count] = k == 0 ? 4 : -1;
        count++;
    }
    return count;
}

static void make_matrix(problem *poisson) {
    int n = poisson->size;
    size_t most = 5 * poisson->points;
    fsi_csr entry = {
        .row = ex_alloc(most, sizeof *entry.row),
        .col = ex_alloc(most, sizeof *entry.col),
        .val = ex_alloc(most, sizeof *entry.val),
    };
    size_t count = 0;
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++)
            count = add_row(poisson, i, j, &entry, count);

    ex_need(fsi_csr_from_triplets(&poisson->matrix, n * n, n * n, count, entry.row, entry.col,
                                  entry.val, NULL));
    free(entry.row);
    free(entry.col);
    free(entry.val);
}

static void make_problem(problem *poisson, const ex_args *args) {
    int n = args->size;
    poisson->size = n;
    poisson->points = (size_t)n * (size_t)n;
    poisson->tolerance = ex_number(args, "tolerance");
    poisson->b = ex_alloc(poisson->points, sizeof *poisson->b);
    poisson->exact = ex_alloc(poisson->points, sizeof *poisson->exact);
    poisson->p = ex_alloc(poisson->points, sizeof *poisson->p);
    make_matrix(poisson);

    double spacing = place(poisson, 0);
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++) {
            double x = place(poisson, i);
            double y = place(poisson, j);
            double in_x = x * (1 - x);
            double in_y = y * (1 - y);
            poisson->exact[i + n * j] = (fsi_real)(in_x * in_y);
            poisson->b[i + n * j] = (fsi_real)(2 * spacing * spacing * (in_x + in_y));
        }
}

static void free_problem(problem *poisson) {
    fsi_csr_free(&poisson->matrix, NULL);
    free(poisson->b);
    free(poisson->exact);
    free(poisson->p);
}

/* |p - exact| / |exact|; p is zero again for the next way. */
static double take_error(problem *poisson) {
    double size = fsi_norm(poisson->points, poisson->exact);
    fsi_axpy(poisson->points, -1, poisson->exact, poisson->p);
    double error = fsi_norm(poisson->points, poisson->p) / size;
    fsi_fill(poisson->points, 0, poisson->p);
    return error;
}

/* ---- pictures: the answer */
static void draw(ex_args *args, const problem *poisson) {
    int n = poisson->size;
    ex_image image = ex_image_make(512, 512);
    ex_view view = ex_view_make(0, 0, 1, 1, 0, 0, 512, 512);
    ex_draw_field(&image, &view, n, n, poisson->p, 0, 1.0 / 16, 0);
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "solvers",
    .what = "One Poisson problem on a square (--size points a side), solved in four ways.",
    .size = 64,
    .frames = 1,
    .keys = {EX_NUMBER("tolerance", "1", "of the residual", "1e-6", "1e-12 to 0.1")},
};

int main(int argc, char **argv) {
    static int (*const way[4])(problem *) = {solve_plain, solve_incomplete, solve_complete,
                                             solve_multigrid};
    static const char *const name[4] = {"plain", "incomplete", "complete", "multigrid"};
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    problem poisson = {0};
    make_problem(&poisson, &args);

    /* Every frame solves all over again, for those who take the time. */
    int iterations[4] = {0};
    double error[4] = {0};
    fsi_real curve[3] = {0};
    double residual = 0;
    int middle = poisson.size / 2;
    int frame;
    for (frame = 0; frame < args.frames && ex_fine(); frame++) {
        for (int k = 0; k < 4; k++) {
            iterations[k] = way[k](&poisson);
            residual = fit_parabola(poisson.size, poisson.p + middle * poisson.size, curve);
            if (args.out && k == 3)
                draw(&args, &poisson);
            error[k] = take_error(&poisson);
        }
        ex_progress(&args, frame);
    }

    for (int k = 0; k < 4; k++) {
        char key[64];
        snprintf(key, sizeof key, "iterations_%s", name[k]);
        ex_result(key, "%d", iterations[k]);
        snprintf(key, sizeof key, "error_%s", name[k]);
        ex_result(key, "%.2e", error[k]);
    }
    double y = place(&poisson, middle);
    ex_result("expected_error", "0");
    ex_result("expected_iterations_complete", "1");
    ex_result("curvature", "%.6f", (double)curve[2]);
    ex_result("expected_curvature", "%.6f", -y * (1 - y));
    ex_result("fit_residual", "%.2e", residual);
    free_problem(&poisson);
    return ex_end(&args, frame, ex_fine());
}
