/* SPDX-License-Identifier: MIT OR Unlicense
   reference.h: slow or special twins that tests hold the library against; they see its private
   helpers, so the test compiles fsi_linalg.h itself. */
#ifndef REFERENCE_H
#define REFERENCE_H

/* Largest |a_ij - a_ji| over the largest |a_ij|; 0 = symmetric, 2 = skew; 1e30 when A is not
 * square. */
static double csr_asymmetry(const fsi_csr *matrix) {
    double worst = 0;
    double top = 0;
    if (matrix->rows != matrix->cols)
        return 1e30;
    for (int i = 0; i < matrix->rows; i++)
        for (int32_t k = matrix->row[i]; k < matrix->row[i + 1]; k++) {
            int32_t t = fsi__csr_find(matrix->row, matrix->col, matrix->col[k], i);
            double d = fabs((double)matrix->val[k] - (t < 0 ? 0.0 : (double)matrix->val[t]));
            if (d > worst)
                worst = d;
            if (fabs((double)matrix->val[k]) > top)
                top = fabs((double)matrix->val[k]);
        }
    return top > 0 ? worst / top : 0;
}

/* (D + U C U^T)^-1 for many right-hand sides: D easy to invert, U n x k sparse, C k x k symmetric
   positive semi-definite, k small (rigid bodies: C = inverse mass, zero rows = fixed). */
typedef struct woodbury_desc {
    size_t n; /* rows of D; >= 1 */
    /* y = D^-1 x, symmetric positive definite; required unless diagonal is given; kept by reference
     */
    fsi_operator inverse;
    const fsi_real *diagonal; /* [n] diagonal of D, > 0, instead of inverse; kept by reference */
    const fsi_csr *U;         /* n x k; kept by reference */
    const fsi_real *C;        /* [k * k] row major, read during init only */
    fsi_allocator allocator;  /* zero = malloc */
} woodbury_desc;

typedef struct woodbury {
    woodbury_desc desc; /* as given */
    int k;              /* columns of U */
    fsi_real *F;        /* [k * k] C = F F^T */
    fsi_real *S;        /* [k * k] Cholesky factor of I + F^T U^T D^-1 U F */
    fsi_real *t, *y;    /* [k], [n] */
    fsi_real *s, *z;    /* [k], [n] */
    void *block;
    size_t size; /* the one allocation */
} woodbury;

static void woodbury_layout(woodbury *wood, fsi_arena *arena) {
    size_t k = (size_t)wood->k;
    size_t n = wood->desc.n;
    FSI__TAKE(wood->F, arena, k * k);
    FSI__TAKE(wood->S, arena, k * k);
    FSI__TAKE(wood->t, arena, k);
    FSI__TAKE(wood->s, arena, k);
    FSI__TAKE(wood->y, arena, n);
    FSI__TAKE(wood->z, arena, n);
}

/* y = D^-1 x */
static void woodbury_inverse(const woodbury *wood, const fsi_real *x, fsi_real *y) {
    const fsi_real *d = wood->desc.diagonal;
    ptrdiff_t n = (ptrdiff_t)wood->desc.n;
    if (!d) {
        wood->desc.inverse.apply_fn(x, y, wood->desc.inverse.user);
        return;
    }
    FSI__OMP(parallel for schedule(static) if (n > FSI__GRAIN))
    for (ptrdiff_t i = 0; i < n; i++)
        y[i] = x[i] / d[i];
}

/* y = U F t (s is scratch) and t = F^T U^T y */
static void woodbury_out(const woodbury *wood, const fsi_real *t, fsi_real *y) {
    size_t k = (size_t)wood->k;
    for (size_t i = 0; i < k; i++) {
        double sum = 0;
        for (size_t j = 0; j <= i; j++)
            sum += (double)wood->F[i * k + j] * (double)t[j];
        wood->s[i] = (fsi_real)sum;
    }
    fsi_csr_mul(wood->desc.U, wood->s, y);
}

static void woodbury_in(const woodbury *wood, const fsi_real *y, fsi_real *t) {
    size_t k = (size_t)wood->k;
    fsi_csr_tmul(wood->desc.U, y, wood->s);
    for (size_t j = 0; j < k; j++) {
        double sum = 0;
        for (size_t i = j; i < k; i++)
            sum += (double)wood->F[i * k + j] * (double)wood->s[i];
        t[j] = (fsi_real)sum;
    }
}

/* S = chol(I + F^T U^T D^-1 U F), column by column */
static fsi_result woodbury_factor(woodbury *wood) {
    size_t k = (size_t)wood->k;
    fsi_copy(k * k, wood->desc.C, wood->F);
    if (fsi__psd_factor(k, wood->F, 64 * (double)FSI_REAL_EPS) < 0)
        return FSI_ERR_SINGULAR;
    for (size_t j = 0; j < k; j++) {
        for (size_t i = 0; i < k; i++)
            wood->t[i] = FSI_R(i == j);
        woodbury_out(wood, wood->t, wood->y);
        woodbury_inverse(wood, wood->y, wood->z);
        woodbury_in(wood, wood->z, wood->t);
        for (size_t i = 0; i < k; i++)
            wood->S[i * k + j] = wood->t[i] + FSI_R(i == j);
    }
    return fsi_dense_cholesky(wood->k, wood->S) == FSI_OK ? FSI_OK : FSI_ERR_SINGULAR;
}

static fsi_result woodbury_init(woodbury *wood, const woodbury_desc *desc) {
    fsi_arena arena = {NULL, 0, 0, 0};
    woodbury out;
    memset(&out, 0, sizeof out);
    if (!wood || !desc || !desc->n || (!desc->diagonal && !desc->inverse.apply_fn)
        || !fsi_allocator_valid(&desc->allocator) || fsi_csr_check(desc->U) != FSI_OK
        || (size_t)desc->U->rows != desc->n)
        return FSI_ERR_ARGUMENT;
    size_t k = (size_t)desc->U->cols;
    if (k > 20000)
        return FSI_ERR_SIZE;
    if (k && (!desc->C || !fsi_all_finite(k * k, desc->C)))
        return FSI_ERR_ARGUMENT;
    if (desc->diagonal)
        for (size_t i = 0; i < desc->n; i++)
            if (!(desc->diagonal[i] > 0) || !fsi__finite(desc->diagonal[i]))
                return FSI_ERR_SINGULAR;
    out.desc = *desc;
    out.k = desc->U->cols;
    woodbury_layout(&out, &arena);
    fsi_result result = fsi__arena_block(&arena, &desc->allocator, &out.block, &out.size);
    if (result != FSI_OK)
        return result;
    woodbury_layout(&out, &arena);
    result = woodbury_factor(&out);
    if (result < 0)
        fsi_free(&desc->allocator, out.block, out.size);
    else
        *wood = out;
    return result;
}

static void woodbury_solve(woodbury *wood, const fsi_real *b, fsi_real *x) {
    woodbury_inverse(wood, b, x); /* x = D^-1 b */
    woodbury_in(wood, x, wood->t);
    /* t = (I + F^T U^T D^-1 U F)^-1 F^T U^T x */
    fsi_dense_cholesky_solve(wood->k, wood->S, wood->t);
    woodbury_out(wood, wood->t, wood->y);
    woodbury_inverse(wood, wood->y, wood->z);
    fsi_axpy(wood->desc.n, -1, wood->z, x); /* x -= D^-1 U F t */
}

static void woodbury_apply(const fsi_real *x, fsi_real *y, void *user) {
    woodbury_solve((woodbury *)user, x, y);
}

static fsi_operator woodbury_operator(woodbury *wood) {
    return fsi__operator(woodbury_apply, wood);
}

static void woodbury_free(woodbury *wood) {
    if (!wood || !wood->block)
        return;
    fsi_free(&wood->desc.allocator, wood->block, wood->size);
    memset(wood, 0, sizeof *wood);
}

#endif
