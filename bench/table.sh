#!/bin/sh
# table.sh [FILE]: turns the lines of make bench on its input into the tables of docs/performance.md; with FILE they replace what stands there between
# the lines "<!-- bench -->" and "<!-- /bench -->":
#     make bench | sh bench/table.sh docs/performance.md
# Fails, and writes nothing, when a figure of the lists below was not printed.
cd "$(dirname "$0")/.." || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
# contract.md's names: what|name|further figures, each as suffix=word
cat >"$dir/pairs" <<'LIST'
pressure solve, smoke 128^3|poisson_smoke_128|_iterations=iterations _applies=applies
pressure solve, pool 128^3|poisson_pool_128|_iterations=iterations _applies=applies
pressure solve, smoke 256^3|poisson_smoke_256|_iterations=iterations _applies=applies
coupled solve 128 x 128 x 256, 1 body|coupled_128x128x256_1bodies|_iterations=iterations _ratio=of_the_fluid_alone
coupled solve 128 x 128 x 256, 12 bodies|coupled_128x128x256_12bodies|_iterations=iterations _ratio=of_the_fluid_alone
V-cycle 128^3|vcycle|_share=of_copy_bandwidth
Laplacian 128^3|laplacian|_share=of_copy_bandwidth
advection 128^3, MacCormack|advect|
WCSPH, 40,000 particles|wcsph_40k|_neighbour_share=in_neighbours
DFSPH, 40,000 particles|dfsph_40k|_neighbour_share=in_neighbours
WCSPH, 200,000 particles|wcsph_200k|_neighbour_share=in_neighbours
TLED, 14,700 tetrahedra|tled_15k|
particles and soft solid|proxy_40k_15k|
coupled step, 2D 128 x 128|realtime_2d_128x128|
coupled step, 3D 48^3|realtime_3d_48|
LIST
# what is asked for: what|name|asked
cat >"$dir/asked" <<'LIST'
pressure solve, smoke 128^3, iterations to 1e-6|poisson_smoke_128_t1_iterations|<= 8
a new mask over a solve|poisson_smoke_128_t1_newmask_share|<= 1/3
pool 128^3, iterations to 1e-6|poisson_pool_128_t1_iterations|<= 10
smoke 256^3, plain Laplacian applies a solve|poisson_smoke_256_t1_applies|<= 90
memory of the pressure solve|poisson_smoke_128_memory|<= 80
iterations from 32^2 to 256^2 grow by at most (plate)|poisson_plate_2d_growth|<= 2
iterations from 32^3 to 256^3 grow by at most (plate)|poisson_plate_3d_growth|<= 2
coupled solve over fluid alone, 128 x 256, 1 body|coupled_128x256_1bodies_open_1threads_ratio|<= 1.3
12 bodies|coupled_128x256_12bodies_open_1threads_ratio|<= 1.6
50 bodies|coupled_128x256_50bodies_open_1threads_ratio|<= 2
50 bodies, closed walls, two threads|coupled_128x256_50bodies_closed_2threads_ratio|<= 2
128 x 128 x 256, 1 body|coupled_128x128x256_1bodies_open_2threads_ratio|<= 1.3
12 bodies|coupled_128x128x256_12bodies_open_2threads_ratio|<= 1.6
50 bodies|coupled_128x128x256_50bodies_open_2threads_ratio|<= 2
finding the interface over the solve, 50 bodies|coupled_128x128x256_50bodies_open_2threads_interface|<= 0.2
faster than CG with IC on the same system|coupled_128x128x256_1bodies_open_1threads_faster_than_ic|>= 8
advection and forces over projection, first steps, one thread|smoke_step_128_1t_share|<= 1
first steps, two threads|smoke_step_128_2t_share|<= 1
in a developed plume, one thread|smoke_step_128_plume_1t_share|<= 1
in a developed plume, two threads|smoke_step_128_plume_2t_share|<= 1
memory, smoke|smoke_bytes_per_cell|<= 200
memory, liquid without markers|liquid_bytes_per_cell|<= 320
coupled step in real time, 2D 128 x 128|realtime_2d_128x128|<= 16.7
coupled step in real time, 3D 48^3|realtime_3d_48|<= 66
cost a contact, 125 to 2,000 bodies, grows by|rigid_contact_growth|n log n
WCSPH, 40,000 particles, single precision, -O2: faster than SPlisHSPlasH's figure, scaled|single_wcsph_40k_faster_than_peer|>= 2
with -O3 -march=native|native_wcsph_40k_faster_than_peer|>= 3
its neighbour search|native_wcsph_40k_neighbours_faster_than_peer|>= 2.5
DFSPH, 40,000 particles, likewise|native_dfsph_40k_faster_than_peer|>= 1.5
cost a particle, 10,000 to 1,000,000, spread|native_wcsph_flatness|<= 1.15
TLED, 14,700 tetrahedra, -O2|single_tled_15k|<= 0.9
TLED, with -O3 -march=native|native_tled_15k|<= 0.35
particles and soft solid over the paper's GPU, hose|native_proxy_hose_of_paper|<= 1
beam|native_proxy_beam_of_paper|<= 1
cloth|native_proxy_cloth_of_paper|<= 1
bowl|native_proxy_bowl_of_paper|<= 1
funnel|native_proxy_funnel_of_paper|<= 1
LIST
grep '^bench ' >"$dir/lines"
awk -F'|' -v dir="$dir" 'function get(n) { if (!(n in value)) { missing = missing " " n; return "-" } return value[n] }
    FILENAME == dir "/lines" { split($0, w, " "); value[w[2]] = w[3]; unit[w[2]] = w[4]; next }
    FILENAME == dir "/pairs" && FNR == 1 { print "| what | name | one thread | two threads | speed-up | |"; print "|---|---|---|---|---|---|" }
    FILENAME == dir "/pairs" {
        more = ""; n = split($3, part, " ")
        for (i = 1; i <= n; i++) { split(part[i], w, "="); gsub(/_/, " ", w[2]); more = more (i > 1 ? ", " : "") get($2 w[1]) " " w[2] }
        printf "| %s | `%s` | %s %s | %s %s | %s | %s |\n", $1, $2, get($2 "_1thread"), unit[$2 "_1thread"], get($2), unit[$2], get($2 "_speedup"), more; next }
    FNR == 1 { print "\n| what | name | measured | asked |"; print "|---|---|---|---|" }
    { printf "| %s | `%s` | %s %s | %s |\n", $1, $2, get($2), unit[$2], $3 }
    END { if (missing) { print "table.sh: not printed:" missing > "/dev/stderr"; exit 1 } }' "$dir/lines" "$dir/pairs" "$dir/asked" >"$dir/table" || { cat "$dir/table"; exit 1; }
[ -n "$1" ] || { cat "$dir/table"; exit 0; }
awk -v t="$dir/table" '/^<!-- \/bench -->/ { off = 0 } !off { print } /^<!-- bench -->/ { off = 1; while ((getline line < t) > 0) print line }' "$1" >"$dir/page" && grep -q '^<!-- /bench -->' "$dir/page" && cat "$dir/page" >"$1"
