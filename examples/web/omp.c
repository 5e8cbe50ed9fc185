/* omp.c: what a compiler asks of OpenMP at run time, for the live page. Emscripten brings no such
   library, but its compiler turns `#pragma omp parallel for` into calls of one all the same; these
   are the calls that the loops of fsi make.

   A parallel loop is cut into as many parts as there are threads. A part belongs to nobody: whoever
   comes takes the next one, the page's own thread and the workers alike. The page must not sleep,
   so it works on while workers wake up, and waits only for parts that a worker has begun. A worker
   that is late, or never comes, costs nothing, and the bits do not depend on it.

       next      32 bits epoch | 16 bits parts | 16 bits: the first part that nobody has taken
       thread    0: in no region, it does whole loops; k + 1: it does part k of the open region

   Inside a part every other loop is done as a whole. Memory is handed out on the page's thread
   alone: the library takes none inside a loop. */
#include <emscripten.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

enum {
    OMP_THREADS = 8,
    OMP_SPINS = 20000,  /* looks at `next` before a worker goes to sleep */
    OMP_STACK = 1 << 19 /* of a worker, bytes */
};

/* Part of a loop as the compiler makes it: two numbers of the thread, then what the loop uses. */
typedef void omp_part(int32_t *thread, int32_t *in_team, ...);

static struct team {
    uint64_t next;    /* epoch, parts and the first free part */
    int32_t epoch;    /* the same epoch where a worker can sleep on it */
    int32_t sleepers; /* workers that may have to be woken */
    int32_t threads;  /* parts of the next region */
    int32_t helped;   /* parts that workers have done */

    /* Of the open region. */
    int32_t open; /* 1: there is one */
    int32_t parts;
    int32_t done;                     /* finished parts */
    int32_t turn;                     /* the next free turn of a loop that hands out its turns */
    int32_t last_turn, turns_at_once; /* of that loop */
    int32_t whole[OMP_THREADS + 1];   /* loops that a thread does as a whole, one in the other */
    omp_part *part;
    void **argument;
    int arguments;
} team = {.threads = 1};

static int32_t load(int32_t *word) {
    return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

static void store(int32_t *word, int32_t value) {
    __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
}

/* The value before. */
static int32_t add(int32_t *word, int32_t more) {
    return __atomic_fetch_add(word, more, __ATOMIC_SEQ_CST);
}

/* ------------------------------------------------------------------------------------------------
 * calling a part: WebAssembly wants the exact number of arguments */
#define TYPES_1 void *
#define TYPES_2 TYPES_1, void *
#define TYPES_3 TYPES_2, void *
#define TYPES_4 TYPES_3, void *
#define TYPES_5 TYPES_4, void *
#define TYPES_6 TYPES_5, void *
#define TYPES_7 TYPES_6, void *
#define TYPES_8 TYPES_7, void *
#define TYPES_9 TYPES_8, void *
#define TYPES_10 TYPES_9, void *
#define TYPES_11 TYPES_10, void *
#define TYPES_12 TYPES_11, void *
#define VALUES_1 value[0]
#define VALUES_2 VALUES_1, value[1]
#define VALUES_3 VALUES_2, value[2]
#define VALUES_4 VALUES_3, value[3]
#define VALUES_5 VALUES_4, value[4]
#define VALUES_6 VALUES_5, value[5]
#define VALUES_7 VALUES_6, value[6]
#define VALUES_8 VALUES_7, value[7]
#define VALUES_9 VALUES_8, value[8]
#define VALUES_10 VALUES_9, value[9]
#define VALUES_11 VALUES_10, value[10]
#define VALUES_12 VALUES_11, value[11]
#define CALL_WITH(count)                                                                           \
    case count:                                                                                    \
        ((void (*)(int32_t *, int32_t *, TYPES_##count))part)(&thread, &in_team, VALUES_##count);  \
        return

static void omp_call(omp_part *part, int32_t thread, int count, void **value) {
    int32_t in_team = thread ? thread - 1 : 0;
    switch (count) {
        CALL_WITH(1);
        CALL_WITH(2);
        CALL_WITH(3);
        CALL_WITH(4);
        CALL_WITH(5);
        CALL_WITH(6);
        CALL_WITH(7);
        CALL_WITH(8);
        CALL_WITH(9);
        CALL_WITH(10);
        CALL_WITH(11);
        CALL_WITH(12);
    default:
        __builtin_trap();
    }
}

/* ------------------------------------------------------------------------------------------------
 * a region */
/* Takes one part and does it; 0: there is none left. What the region is made of may be read only
   after a part is taken: until that part is done the page cannot open another region. */
static int omp_take_part(void) {
    uint64_t seen = __atomic_load_n(&team.next, __ATOMIC_SEQ_CST);
    do {
        int parts = (int)(seen >> 16 & 0xffff);
        if ((int)(seen & 0xffff) >= parts)
            return 0;
    } while (!__atomic_compare_exchange_n(&team.next, &seen, seen + 1, 0, __ATOMIC_SEQ_CST,
                                          __ATOMIC_SEQ_CST));
    int32_t thread = 1 + (int32_t)(seen & 0xffff);
    omp_call(team.part, thread, team.arguments, team.argument);
    add(&team.done, 1);
    return 1;
}

/* All parts of a loop. The compiler calls this in place of a parallel loop. */
void __kmpc_fork_call(void *place, int32_t count, omp_part *part, ...) {
    void *value[12];
    (void)place;
    va_list list;
    va_start(list, part);
    for (int i = 0; i < count && i < 12; i++)
        value[i] = va_arg(list, void *);
    va_end(list);
    int parts = team.threads;
    if (parts < 2 || load(&team.open)) {
        omp_call(part, 0, count, value);
        return;
    }

    team.parts = parts;
    team.part = part;
    team.arguments = count;
    team.argument = value;
    store(&team.open, 1);
    store(&team.done, 0);
    store(&team.turn, 0);
    int32_t epoch = team.epoch + 1;
    uint64_t next = (uint64_t)(uint32_t)epoch << 32 | (uint64_t)parts << 16;
    __atomic_store_n(&team.next, next, __ATOMIC_SEQ_CST);
    store(&team.epoch, epoch);
    if (load(&team.sleepers))
        __builtin_wasm_memory_atomic_notify(&team.epoch, (unsigned)parts);

    while (omp_take_part())
        continue;
    while (load(&team.done) < parts)
        continue;
    store(&team.open, 0);
}

/* ------------------------------------------------------------------------------------------------
 * what a part asks */
int32_t __kmpc_global_thread_num(void *place) {
    (void)place;
    return 0;
}

/* Around a loop whose condition says that it is too short for threads. */
void __kmpc_serialized_parallel(void *place, int32_t thread) {
    (void)place;
    if (thread)
        team.whole[thread]++;
}

void __kmpc_end_serialized_parallel(void *place, int32_t thread) {
    (void)place;
    if (thread)
        team.whole[thread]--;
}

static int omp_whole(int32_t thread) {
    return thread == 0 || team.whole[thread] > 0;
}

/* The turns first .. last of a thread: equal shares, one after the other. A share may be empty:
   its last turn is then before its first. */
static void omp_share(int32_t thread, int32_t schedule, uint32_t *first, uint32_t *last) {
    const int32_t equal_shares = 34;
    if (schedule != equal_shares)
        __builtin_trap();
    if (omp_whole(thread))
        return;
    uint32_t turns = *last - *first + 1;
    uint32_t parts = (uint32_t)team.parts;
    uint32_t part = (uint32_t)thread - 1;
    uint32_t share = turns / parts;
    uint32_t longer = turns % parts; /* as many shares have a turn more */
    *first += part * share + (part < longer ? part : longer);
    *last = *first + share + (part < longer) - 1;
}

void __kmpc_for_static_init_4(void *place, int32_t thread, int32_t schedule, int32_t *is_last,
                              int32_t *first, int32_t *last, int32_t *stride, int32_t step,
                              int32_t chunk) {
    (void)place;
    (void)is_last;
    (void)stride;
    (void)step;
    (void)chunk;
    omp_share(thread, schedule, (uint32_t *)first, (uint32_t *)last);
}

void __kmpc_for_static_init_4u(void *place, int32_t thread, int32_t schedule, int32_t *is_last,
                               uint32_t *first, uint32_t *last, int32_t *stride, int32_t step,
                               int32_t chunk) {
    (void)place;
    (void)is_last;
    (void)stride;
    (void)step;
    (void)chunk;
    omp_share(thread, schedule, first, last);
}

void __kmpc_for_static_fini(void *place, int32_t thread) {
    (void)place;
    (void)thread;
}

/* A loop that hands out its turns a few at a time. All parts say the same of it, so that it does
   not matter who is last. */
void __kmpc_dispatch_init_4(void *place, int32_t thread, int32_t schedule, int32_t first,
                            int32_t last, int32_t step, int32_t chunk) {
    (void)place;
    (void)schedule;
    (void)first;
    (void)step;
    if (omp_whole(thread))
        return;
    store(&team.last_turn, last);
    store(&team.turns_at_once, chunk);
}

/* 1: there are turns first .. last to do. Where the loop is done as a whole, these hold all of it
   when it asks for the first time, and its step tells the second time apart. */
int32_t __kmpc_dispatch_next_4(void *place, int32_t thread, int32_t *is_last, int32_t *first,
                               int32_t *last, int32_t *step) {
    (void)place;
    (void)is_last;
    if (omp_whole(thread)) {
        int32_t fresh = *step;
        *step = 0;
        return fresh;
    }
    int32_t chunk = load(&team.turns_at_once);
    int32_t end = load(&team.last_turn);
    *first = add(&team.turn, chunk);
    *last = *first + chunk - 1 < end ? *first + chunk - 1 : end;
    return *first <= end;
}

/* The lock of all sums, which the compiler names but does not make. */
int32_t omp_sum_lock[8] __asm__(".gomp_critical_user_.reduction.var");

/* Parts add up one after the other: 1 = add yours, and say when it is done. */
int32_t __kmpc_reduce_nowait(void *place, int32_t thread, int32_t count, size_t size, void *data,
                             void (*sum)(void *, void *), void *lock) {
    (void)place;
    (void)thread;
    (void)count;
    (void)size;
    (void)data;
    (void)sum;
    (void)lock;
    while (__atomic_exchange_n(omp_sum_lock, 1, __ATOMIC_SEQ_CST))
        continue;
    return 1;
}

void __kmpc_end_reduce_nowait(void *place, int32_t thread, void *lock) {
    (void)place;
    (void)thread;
    (void)lock;
    store(omp_sum_lock, 0);
}

/* ------------------------------------------------------------------------------------------------
 * what JavaScript calls */
/* How many parts a region has from now on. */
EMSCRIPTEN_KEEPALIVE void omp_threads(int threads) {
    team.threads = threads < 1 ? 1 : threads > OMP_THREADS ? OMP_THREADS : threads;
}

/* How many parts the page did not have to do itself, so far. */
EMSCRIPTEN_KEEPALIVE int omp_helped(void) {
    return load(&team.helped);
}

/* Top of a fresh stack for a worker. */
EMSCRIPTEN_KEEPALIVE char *omp_stack(void) {
    char *stack = malloc(OMP_STACK);
    return stack ? stack + OMP_STACK : NULL;
}

/* The life of a worker. */
EMSCRIPTEN_KEEPALIVE void omp_work(void) {
    for (;;) {
        int32_t epoch = load(&team.epoch);
        int spins = 0;
        while (!omp_take_part() && spins < OMP_SPINS)
            spins++;
        if (spins < OMP_SPINS) {
            add(&team.helped, 1);
            continue;
        }
        add(&team.sleepers, 1);
        if (load(&team.epoch) == epoch)
            __builtin_wasm_memory_atomic_wait32(&team.epoch, epoch, -1);
        add(&team.sleepers, -1);
    }
}
