#!/bin/sh
# Iterations of the coupled solve beside those of the fluid alone (the same steps with the blocks' motion prescribed), residual down by 1e6:
# every density ratio, number of blocks, dimension and kind of walls. One line each: coupled, alone, bar = 1.2 alone + 1. Exit 1 when one is above it.
# sh bench/box_lift.sh [2 or 3: only that dimension]; after make build/box_lift. About 5 minutes on one core.
worst=0
for dim in ${1:-2 3}; do
    if [ "$dim" = 2 ]; then size=256 frames=10; else size=128 frames=4; fi
    for walls in open closed; do
        for bodies in 1 12 50; do
            for density in 1e-4 1e-2 1 1e2 1e4; do
                build/box_lift --size $size --frames $frames --set dim=$dim --set walls=$walls --set bodies=$bodies --set density=$density |
                awk -F= -v name="${dim}D $walls $bodies blocks density $density" '
                    $1 == "result iterations" { i = $2 } $1 == "result iterations_fluid" { f = $2 } $1 == "result stable" { s = $2 }
                    END { bar = 1.2 * f + 1; printf "%-38s %5.2f alone %5.2f bar %5.2f %s\n", name, i, f, bar, s == 1 && i <= bar ? "ok" : "ABOVE"; exit !(s == 1 && i <= bar) }' || worst=1
            done
        done
    done
done
exit $worst
