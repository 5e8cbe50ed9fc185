/* Seeds of the fuzz targets (fuzz.h): a few of each, and every one that ever found something. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "check.h"
#include "greatest.h"
#include "scenes.h"
#include "fuzz.h"

static int fuzz_passes(int target, unsigned long seed) {
    fuzz_failures = 0;
    fuzz_seed(target, seed);
    if (fuzz_failures)
        printf("\n  %s seed %lu\n", fuzz_list[target].name, seed);
    return fuzz_failures == 0;
}

TEST random_seeds(void) {
    for (int t = 0; t < FUZZ_TARGETS; t++)
        for (unsigned long s = 1000; s < 1015; s++)
            ASSERTm(fuzz_list[t].name, fuzz_passes(t, s));
    PASS();
}

TEST seeds_that_found_something(void) {
    static const struct {
        int target;
        unsigned long seed;
    } found[] = {/* a particle whose next place is no number */
                 {4, 5081},
                 /* in single precision: a soft body whose next place is no number */
                 {9, 5029},
                 /* heaps of overlapping bodies: the push-out fed itself until it overflowed */
                 {2, 37},
                 {2, 50},
                 {2, 54},
                 {2, 80},
                 {2, 115},
                 {2, 140}};

    for (size_t i = 0; i < sizeof found / sizeof found[0]; i++)
        ASSERTm(fuzz_list[found[i].target].name, fuzz_passes(found[i].target, found[i].seed));
    PASS();
}

SUITE(fuzz) {
    RUN_TEST(random_seeds);
    RUN_TEST(seeds_that_found_something);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv) {
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(fuzz);
    GREATEST_MAIN_END();
}
