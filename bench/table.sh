#!/bin/sh
# table.sh: turns the lines of make bench on its input into the table of docs/performance.md, what is asked beside each figure:
#     make bench | sh bench/table.sh
# what is measured|figure's name|what is asked
cat >"${TMPDIR:-/tmp}/fsi-table.$$" <<'LIST'
pressure solve, smoke 128^3, one thread|poisson_smoke_128_t1|
of it on two threads|poisson_smoke_128_t2|
iterations to 1e-6|poisson_smoke_128_t1_iterations|<= 8
plain Laplacian applies a solve|poisson_smoke_128_t1_applies|
a new mask over a solve|poisson_smoke_128_t1_newmask_share|<= 1/3
pressure solve, pool 128^3, two threads|poisson_pool_128_t2|
iterations to 1e-6|poisson_pool_128_t1_iterations|<= 10
pressure solve, smoke 256^3, two threads|poisson_smoke_256_t2|
plain Laplacian applies a solve|poisson_smoke_256_t1_applies|<= 90
memory|poisson_smoke_128_memory|<= 80
V-cycle's share of the copy bandwidth|vcycle_128_t1_share|
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
whole smoke step, 128^3, two threads|smoke_step_128_2t|
advection and forces over projection, first steps, one thread|smoke_step_128_1t_share|<= 1
two threads|smoke_step_128_2t_share|<= 1
in a developed plume, one thread|smoke_step_128_plume_1t_share|<= 1
two threads|smoke_step_128_plume_2t_share|<= 1
advection a cell, MacCormack, one thread|advect_128_1t|
memory, smoke|smoke_bytes_per_cell|<= 200
memory, liquid without markers|liquid_bytes_per_cell|<= 320
coupled step in real time, 2D 128 x 128|realtime_2d_128x128|<= 16.7
coupled step in real time, 3D 48^3|realtime_3d_48|<= 66
rigid boxes in contact, 1,000|rigid_boxes_1000_t1_bodies_per_ms|
cost a contact, 125 to 2,000 bodies, grows by|rigid_contact_growth|n log n
reduced bodies in contact, 150|reduced_150_t1_bodies_per_ms|
WCSPH, 40,000 particles, single, two threads, -O2|single_wcsph_40k|
faster than SPlisHSPlasH's figure, scaled|single_wcsph_40k_faster_than_peer|>= 2
-O3 -march=native|native_wcsph_40k|
faster than SPlisHSPlasH's figure, scaled|native_wcsph_40k_faster_than_peer|>= 3
its neighbour search|native_wcsph_40k_neighbours_faster_than_peer|>= 2.5
DFSPH, 40,000 particles|native_dfsph_40k|
faster than SPlisHSPlasH's figure, scaled|native_dfsph_40k_faster_than_peer|>= 1.5
WCSPH, 200,000 particles|native_wcsph_200k|
cost a particle, 10,000 to 1,000,000, spread|native_wcsph_flatness|<= 1.15
TLED, 14,700 tetrahedra, -O2|single_tled_15k|<= 0.9
-O3 -march=native|native_tled_15k|<= 0.35
particles and soft solid over the paper's GPU, hose|native_proxy_hose_of_paper|<= 1
beam|native_proxy_beam_of_paper|<= 1
cloth|native_proxy_cloth_of_paper|<= 1
bowl|native_proxy_bowl_of_paper|<= 1
funnel|native_proxy_funnel_of_paper|<= 1
LIST
trap 'rm -f "${TMPDIR:-/tmp}/fsi-table.$$"' EXIT
awk -F'|' 'NR == FNR { if (split($0, w, " ") >= 3 && w[1] == "bench") { value[w[2]] = w[3]; unit[w[2]] = w[4] } next }
    FNR == 1 { print "| what | name | measured | asked |"; print "|---|---|---|---|" }
    { printf "| %s | `%s` | %s | %s |\n", $1, $2, $2 in value ? value[$2] " " unit[$2] : "not printed", $3 }' - "${TMPDIR:-/tmp}/fsi-table.$$"
