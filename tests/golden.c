/* golden: prints a hash of the state of every scene of scenes.h after some steps. check.sh compares
   builds and thread counts, and golden.txt. golden [THREADS [STEPS]]: steps after what falls has
   landed, 12 by default */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "check.h"
#include "scenes.h"

int main(int argc, char **argv) {
    int steps = argc > 2 ? atoi(argv[2]) : 12;
    if (argc > 1)
        check_threads(atoi(argv[1]));
    for (int i = 0; i < SCENES; i++) {
        const scene_kind *k = &scene_list[i];
        void *scene = calloc(1, k->bytes);
        fsi_result result = k->make(scene, NULL);
        for (int j = 0; j < k->touch + steps && result >= 0; j++)
            result = k->step(scene);
        if (result < 0) {
            printf("%s %s\n", k->name, fsi_result_text(result));
            return 1;
        }
        void *block = calloc(1, scene_size(k, scene));
        printf("%-12s %08lx%08lx\n", k->name, (unsigned long)(scene_hash(k, scene, block) >> 32),
               (unsigned long)(scene_hash(k, scene, block) & 0xffffffffu));
        k->drop(scene);
        free(scene);
        free(block);
    }
    return 0;
}
