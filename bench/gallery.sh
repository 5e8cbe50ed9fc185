#!/bin/sh
# gallery.sh: runs every example at gallery size with a progress bar; pictures to out/, and out/index.html shows them with caption, command and result
# lines. GALLERY=name runs the lines of one example. About half an hour on two cores.
cd "$(dirname "$0")/.." || exit 1
mkdir -p out
# name|options|caption|paper's figure
cat >out/list <<'LIST'
balls||Balls of densities 0.1, 0.5, 0.9 and 10 fall into a pool|000 fig. 7
balls|--set dim=3 --size 64 --frames 60|The same in 3D|000 fig. 7
balls|--set scheme=xpm|The same by exchange between two solvers|000 fig. 7
cloth_jet||Cloth over a jet of smoke, by XPM|000 fig. 11
balloon||A balloon is blown up|000 fig. 8
balloon|--set bpp=0|Without the boundary pressure projection it stays flat|000 fig. 8
balloon|--set dim=3 --size 32 --frames 80|A balloon of smoke in 3D, cut open|000 fig. 9
balloon|--set dim=3 --set fluid=water --size 32 --frames 80|A water balloon, cut open|000 fig. 6
press||A hydraulic press, areas 1 : 5|000 fig. 10
press|--set bpp=0|Without the projection both plates fall|000 fig. 10
plank_jet||A plank over a jet|000 fig. 4
foam_jet||A block of foam over a jet|000 fig. 2
pool_party||Many bodies in one pool|000 fig. 14
sph_ball||A light ball under a falling block of particles|000 fig. 15
sph_shapes||Shapes among particles|000 fig. 16, 17
smoke_ball||Light balls in a plume|001 fig. 1
bunnies||Bodies of any shape with contact|001 fig. 2
hinged_plank||A plank on a hinge|001 fig. 3
bubble||A bubble keeps its volume|001 fig. 4
bubble|--set bubbles=0|Without the constraint it collapses|001 fig. 4
trapped_air|--set held=0|A cup of trapped air rises|001 eq. 18
crush|--size 60 --frames 240|A box between a paddle and a wall is held, not thrown|
box_lift||A block rises in a fluid|001 fig. 5
box_lift|--set bodies=12|Twelve blocks of mixed density|001 fig. 6
many_bodies|--frames 1|Two hundred boxes in one solve|ours
slip_helix||Flow control by a helix|002 fig. 1
slip_plane||Flow along a plane, opposite on its two sides|002 fig. 5
slip_cylinder||Flow around a cylinder|002 fig. 7
slip_disk||A plate in a stream, slip beside no-slip|002 fig. 8
cloth_pull||Cloth pulled through water, slip beside no-slip|002 fig. 9
slip_buoyancy||Buoyancy with slip|002 fig. 10
cloth_fall||Falling cloth|002 fig. 11
torus_cloth||A torus falls onto a light cloth in air and drags it down: with slip the air slides along both and the cloth closes round it|002 fig. 12
starfish|--frames 45 --set bodies=2 --set young=1e4 --set modes=20 --set tets=1500 --set density=2.5|A soft starfish and a rigid one|003 fig. 3
starfish||Starfish sink, rigid ones beside soft ones|003 fig. 2
starfish|--frames 250 --set bodies=150 --set damping=2|A heap of 150|003 fig. 10
reduced_torus||Reduced tori|003 fig. 4, 6
reduced_torus|--set bodies=50|Fifty of them|003 fig. 7
reduced_spheres||Reduced spheres of five densities|003 fig. 5
jellyfish||A jellyfish swims|003 fig. 8
jellyfish|--set bodies=3|Three jellyfish|003 fig. 9
hose||A hose|004 fig. 1
beam||A beam in a stream|004 fig. 6
cloth_holes||Cloth with holes|004 fig. 7
bowl||A soft bowl|004 fig. 8
funnel||A funnel|004 fig. 9
board||Four boundary conditions|004 fig. 10
smoke_plume||A plume of smoke|ours
dam_break||A dam breaks|ours
floating||A cylinder is lifted and let go: heave|ours
floating|--set case=waves|A piston makes waves|ours
water_entry||A cylinder of half the water's density falls in, beside Greenhow and Lin|ours
water_entry|--set case=wedge --set cells=64|A wedge falls in, beside Yettou|ours
stack||A stack of boxes|ours
cloth_drape||Cloth over a ball|ours
soft_torus||A soft torus|ours
sph_dam_break||A dam breaks, particles|ours
tled_beam||A soft beam|ours
own_solver||Your own solver behind the door|ours
own_body||Your own engine's body|ours
raft||A flexible part on a floating body|ours
one_scene||A floating disk by one solve|ours
one_scene|--set method=xpm|The same by exchange|ours
one_scene|--set method=sph|The same by particles|ours
realtime_pool||Ten bodies dragged through a pool in real time|ours
realtime_tank||A tank in real time|ours
LIST
[ -n "$GALLERY" ] && { grep "^$GALLERY|" out/list >out/some; mv out/some out/list; }
total=$(wc -l <out/list) k=0 begin=$(date +%s)
{ echo '<!doctype html><meta charset="utf-8"><title>fsi gallery</title><style>body{font:15px sans-serif;max-width:60em;margin:2em auto;color:#222}'
  echo 'img{max-width:100%;border:1px solid #ccc}pre{background:#f4f4f4;padding:.6em;overflow-x:auto}</style><h1>fsi gallery</h1>'; } >out/index.html
bar() { # bar DONE TOTAL SECONDS NAME: on a terminal only
    [ -t 1 ] && printf '\r[%-40s] %d/%d, about %d min left  %-24s' "$(printf '%*s' $((40 * $1 / $2)) '' | tr ' ' '#')" "$1" "$2" $(($1 > 0 ? $3 * ($2 - $1) / $1 / 60 : 0)) "$4"
}
while IFS='|' read -r name options caption figure; do
    bar $k "$total" $(($(date +%s) - begin)) "$name"
    k=$((k + 1))
    [ -x "build/$name" ] || { echo "gallery: no build/$name"; continue; }
    dir=out/$name$(echo "$options" | tr -dc 'a-z0-9')
    t=$(date +%s)
    # shellcheck disable=SC2086
    build/$name $options --out "$dir" >"$dir.txt" 2>&1 || echo "gallery: $name $options ended with an error"
    echo "$name $options: $(($(date +%s) - t)) s" >>out/times
    picture=$(ls "$dir"/"$name".png 2>/dev/null || ls "$dir"/*.png 2>/dev/null | tail -n 1)
    { echo "<h2>$caption</h2><p>paper and figure: $figure</p><pre>build/$name $options --out $dir</pre><img src=\"${picture#out/}\" alt=\"$caption\"><pre>"; cat "$dir.txt"; echo '</pre>'; } >>out/index.html
done <out/list
bar "$total" "$total" 0 done
# plots from runs: x and the wanted result of each
curve() { # curve FILE RESULT KEY VALUES COMMAND...
    file=$1 result=$2 key=$3 values=$4; shift 4
    for v in $values; do "$@" --set "$key=$v" | awk -F= -v x="$v" -v r="result $result" '$1 == r { print x, $2 }'; done >"$file"
}
if [ -z "$GALLERY" ]; then
    densities="0.0001 0.01 0.1 1 10 100 10000"
    curve out/deflated iterations density "$densities" build/box_lift --size 128 --frames 2 --set boundary=voxel
    curve out/schur0 iterations density "$densities" build/box_lift --size 128 --frames 2 --set precond=schur0
    curve out/ic iterations density "$densities" build/box_lift --size 128 --frames 2 --set precond=ic
    build/plot out/iterations.svg 'One block, 64 x 128: iterations by density' 'solid / fluid density' 'iterations to 1e-6' 1 1 'default'=out/deflated 'P(0) of paper 001'=out/schur0 IC=out/ic
    for wall in slip paper noslip fraction; do curve "out/$wall" slip_rms_error radius_cells "5 10 20" build/slip_cylinder --set "wall=$wall"; done
    build/plot out/convergence.svg 'Cylinder: error of the surface speed' 'cells per radius' 'RMS over the stream' 1 1 slip=out/slip 'paper 002 as printed'=out/paper no-slip=out/noslip 'area fractions'=out/fraction
    curve out/xpm mean_iterations mass_ratio "0.01 0.02 0.05 0.1 0.2 0.5 1 2" build/cloth_jet
    curve out/printed mean_iterations mass_ratio "0.01 0.02 0.05 0.1 0.2 0.5 1 2" build/cloth_jet --set reuse=0
    build/plot out/exchange.svg 'Cloth over a jet: iterations by mass ratio' 'mass ratio' 'iterations per step' 1 0 'XPM, pairs kept'=out/xpm 'as printed'=out/printed
    for s in 24 32 48 64; do build/balls --set dim=3 --size $s --frames 3 | awk -F= -v n=$s '$1 == "result seconds_per_step" { print n * n / 2 * n / 2, 1000 * $2 }'; done >out/cost
    build/plot out/cost.svg 'Balls in 3D: cost of a coupled step' 'cells' 'ms per step' 1 1 'this machine'=out/cost
    for p in iterations convergence exchange cost; do echo "<h2>$p</h2><img src=\"$p.svg\" alt=\"$p\">"; done >>out/index.html
fi
echo
echo "out/index.html, $(($(date +%s) - begin)) s"
