#!/bin/sh
# Iterations of the coupled solve beside those of the fluid alone, residual down by 1e6: every density ratio, number of blocks, dimension and kind of walls.
# One line each: coupled, alone (the same steps with the blocks' motion prescribed), bar = 1.2 alone + 1, and the verdict; exit 1 when one is above.
# Then the stricter count: held = the first step's blocks held in a random flow (alone=held), its bar, and by how much the coupled solve is above it (no part in the exit code).
# sh bench/box_lift.sh [2 or 3: only that dimension]; after make build/box_lift. Some ten minutes on one core.
worst=0
for dim in ${1:-2 3}; do
    if [ "$dim" = 2 ]; then size=256 frames=10; else size=128 frames=4; fi
    for walls in open closed; do
        for bodies in 1 12 50; do
            held=$(build/box_lift --size $size --frames 1 --set boundary=voxel --set dim=$dim --set walls=$walls --set bodies=$bodies --set alone=held | sed -n 's/^result iterations_fluid=//p')
            for density in 1e-4 1e-2 1 1e2 1e4; do
                build/box_lift --size $size --frames $frames --set boundary=voxel --set dim=$dim --set walls=$walls --set bodies=$bodies --set density=$density |
                awk -F= -v name="${dim}D $walls $bodies blocks density $density" -v h="$held" '
                    $1 == "result iterations" { i = $2 } $1 == "result iterations_fluid" { f = $2 } $1 == "result stable" { s = $2 }
                    END { bar = 1.2 * f + 1; strict = 1.2 * h + 1; over = i > strict ? sprintf("above by %.2f", i - strict) : "ok"
                          printf "%-38s %5.2f alone %5.2f bar %5.2f %-5s held %5.2f bar %5.2f %s\n", name, i, f, bar, s == 1 && i <= bar ? "ok" : "ABOVE", h, strict, over
                          exit !(s == 1 && i <= bar) }' || worst=1
            done
        done
    done
done
exit $worst
