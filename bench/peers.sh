#!/bin/sh
# make bench-peers: the Poisson problems of ../shared/peers/problem.h through hypre (PFMG, BoomerAMG) and Eigen, ours beside them in one run.
# PEERS=dir names another folder with the peer programs, N=128 the cells per side, THREADS="1 2" the thread counts.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
peers=${PEERS:-$here/../shared/peers}
cc=${CC:-cc}
n=${N:-128}
threads=${THREADS:-"1 2"}
out=${TMPDIR:-/tmp}/fsi-peers.$$
if [ ! -f "$peers/problem.h" ]; then
    echo "bench-peers: no peer programs at $peers (problem.h, peer_hypre_struct.c ...); set PEERS=folder. Nothing was measured."
    exit 0
fi
mkdir -p "$out" || exit 1
trap 'rm -rf "$out"' EXIT
trap 'exit 1' INT TERM

build() { # name, command ...: says what is missing and goes on
    name=$1; shift
    if "$@" >"$out/$name.log" 2>&1; then return 0; fi
    echo "bench-peers: $name not built (packages: libhypre-dev libopenmpi-dev openmpi-bin libeigen3-dev): $(head -n 1 "$out/$name.log")"
    return 1
}
printf '#define FSI_IMPLEMENTATION\n#include "fsi_linalg.h"\n' >"$out/fsi.c"
openmp=-fopenmp
echo 'int main(void){return 0;}' >"$out/t.c"
"$cc" -fopenmp "$out/t.c" -o "$out/t" 2>/dev/null || { openmp=; threads=1; }
build ours_O3 "$cc" -std=gnu99 -O3 -march=native $openmp -I"$here" "$out/fsi.c" "$here/bench/bench_poisson.c" -o "$out/ours_O3" -lm || exit 1
build ours_O2 "$cc" -std=gnu99 -O2 $openmp -I"$here" "$out/fsi.c" "$here/bench/bench_poisson.c" -o "$out/ours_O2" -lm || exit 1
hypre=0; ij=0; eigen=0
if command -v mpicc >/dev/null 2>&1; then
    build hypre_struct mpicc -w -O3 -march=native -I/usr/include/hypre -I"$peers" "$peers/peer_hypre_struct.c" -o "$out/hstruct" -lHYPRE -lm && hypre=1
    build hypre_ij mpicc -w -O3 -march=native -I/usr/include/hypre -I"$peers" "$peers/peer_hypre_ij.c" -o "$out/hij" -lHYPRE -lm && ij=1
else echo "bench-peers: no mpicc: hypre is left out (Debian: apt-get install libhypre-dev libopenmpi-dev openmpi-bin)"; fi
if [ -d /usr/include/eigen3 ] && command -v "${CXX:-g++}" >/dev/null 2>&1; then
    build eigen "${CXX:-g++}" -w -O3 -march=native -fopenmp -DNDEBUG -I/usr/include/eigen3 -I"$peers" "$peers/peer_eigen.cpp" -o "$out/eig" && eigen=1
else echo "bench-peers: no Eigen: left out (Debian: apt-get install libeigen3-dev)"; fi
mpi() { t=$1; shift; OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none \
    mpirun --oversubscribe -np "$t" "$@" 2>/dev/null | grep ',1e-06,'; }
field() { echo "$1" | cut -d, -f"$2"; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { if (b > 0) printf "%.2f", a / b; else printf "0" }'; }
pick() { # the line with the smallest solve time
    sort -t, -k8,8n | head -n 1
}

echo "peer,problem,N,unknowns,threads,tolerance,set-up s,solve s,iterations,residual,MB,ns/unknown/digit"
for t in $threads; do
    for kind in 0 1; do
        problem=smoke; [ $kind = 1 ] && problem=pool
        o3=$(OMP_NUM_THREADS=$t "$out/ours_O3" "$n" $kind 0); echo "$o3 (-O3 -march=native; last field: solve in applies)"
        o2=$(OMP_NUM_THREADS=$t "$out/ours_O2" "$n" $kind 0); echo "$o2 (-O2; last field: solve in applies)"
        if [ $hypre = 1 ]; then
            best=$({ for r in 1 2 3; do mpi "$t" "$out/hstruct" "$n" $kind 0 2 1 1 1; mpi "$t" "$out/hstruct" "$n" $kind 0 1 0 1 1; done; } | sort -t, -k1,1 -k8,8n |
                awk -F, '{ k = $1; c[k]++; l[k, c[k]] = $0 } END { for (k in c) print l[k, int((c[k] + 1) / 2)] }' | pick)
            if [ -n "$best" ]; then
                echo "$best"
                for o in O3 O2; do
                    line=$o3; [ $o = O2 ] && line=$o2
                    echo "bench peers_${problem}_${n}_t${t}_${o}_solve_vs_pfmg $(ratio "$(field "$best" 8)" "$(field "$line" 8)") x"
                    all=$(awk -v a="$(field "$best" 7)" -v b="$(field "$best" 8)" -v c="$(field "$line" 7)" -v d="$(field "$line" 8)" 'BEGIN { printf "%.2f", (a + b) / (c + d) }')
                    echo "bench peers_${problem}_${n}_t${t}_${o}_setup_and_solve_vs_pfmg $all x"
                done
            fi
        fi
        if [ $ij = 1 ]; then
            line=$(mpi "$t" "$out/hij" "$n" $kind 0 6 10 6 1 0.25 | pick); echo "$line"
            [ -n "$line" ] && echo "bench peers_${problem}_${n}_t${t}_O3_solve_vs_boomeramg $(ratio "$(field "$line" 8)" "$(field "$o3" 8)") x"
        fi
    done
done
if [ $eigen = 1 ]; then # slow: once, smoke, all threads
    last=; for t in $threads; do last=$t; done
    line=$(OMP_NUM_THREADS=$last timeout 120 "$out/eig" "$n" 0 0 1 | grep ',1e-06,' | pick); echo "$line"
    o3=$(OMP_NUM_THREADS=$last "$out/ours_O3" "$n" 0 0)
    [ -n "$line" ] && echo "bench peers_smoke_${n}_t${last}_O3_solve_vs_eigen_ic $(ratio "$(field "$line" 8)" "$(field "$o3" 8)") x"
fi
for t in $threads; do
    line=$(OMP_NUM_THREADS=$t "$out/ours_O3" 256 0 0); echo "$line"
    echo "bench peers_smoke_256_t${t}_applies $(field "$line" 13) applies"
done
exit 0
