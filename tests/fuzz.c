/* fuzz: the targets of fuzz.h. With -DFUZZ_LIB it is a libFuzzer entry (clang
   -fsanitize=fuzzer,address,undefined) whose first byte chooses the target; without, a program:
   fuzz TARGET FIRST_SEED COUNT runs seeds and prints the ones whose property fails (a fourth
   argument: every seed). */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "check.h"
#include "scenes.h"
#ifdef FUZZ_LIB
#define FUZZ_ABORT
#endif
#include "fuzz.h"

#ifdef FUZZ_LIB
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 1)
        fuzz_run(data[0] % FUZZ_TARGETS, data + 1, size - 1);
    return 0;
}
#else
int main(int argc, char **argv) {
    int target = argc > 1 ? atoi(argv[1]) : 0;
    unsigned long first = argc > 2 ? strtoul(argv[2], NULL, 10) : 1,
                  count = argc > 3 ? strtoul(argv[3], NULL, 10) : 100;
    /* the numbers fuzz.sh goes through */
    if (argc > 1 && strcmp(argv[1], "targets") == 0) {
        for (target = 0; target < FUZZ_TARGETS; target++)
            printf("%d\n", target);
        return 0;
    }
    for (unsigned long seed = first; seed < first + count; seed++) {
        int before = fuzz_failures;
        if (argc > 4)
            printf("%s %lu\n", fuzz_list[target].name, seed), fflush(stdout);
        fuzz_seed(target, seed);
        if (fuzz_failures > before)
            printf("%s seed %lu\n", fuzz_list[target].name, seed);
    }
    printf("%s: %lu inputs, %d failures\n", fuzz_list[target].name, count, fuzz_failures);
    return fuzz_failures != 0;
}
#endif
