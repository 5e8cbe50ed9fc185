#!/bin/sh
# Iterations and price of 1 to 1,000 free bodies beside the same bodies held, one line of three figures each; the solver is the one that was chosen.
# sh bench/many_bodies.sh [quick]; after make build/many_bodies. quick: 2D, density 0.01 and 1, as make bench has it; all: some ten minutes on one core.
# PROGRAM=... names another program, e.g. one with other flags.
program=${PROGRAM:-build/many_bodies}
if [ "$1" = quick ]; then dims=2 densities="0.01 1" touching=0; else dims="2 3" densities="1e-4 1e-2 1 1e4" touching="0 1"; fi
for dim in $dims; do
    for boundary in cut voxel; do
        for touch in $touching; do
            for density in $densities; do
                for bodies in 1 12 50 160 200 500 1000; do
                    $program --threads 1 --frames 3 --set dim=$dim --set boundary=$boundary --set touching=$touch --set density=$density --set bodies=$bodies |
                    awk -F= -v name="many_${dim}d_${boundary}_touching${touch}_density${density}_${bodies}" '
                        $1 == "result iterations" { i = $2 } $1 == "result iterations_fluid" { f = $2 } $1 == "result time_ratio" { r = $2 } $1 == "result solver" { s = $2 }
                        END { printf "bench %s_ratio %s x\nbench %s_iterations %s 1\nbench %s_fluid_iterations %s 1\n# %s took %s\n", name, r, name, i, name, f, name, s }'
                done
            done
        done
    done
done
