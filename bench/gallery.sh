#!/bin/sh
# gallery.sh: runs every example at gallery size, pictures to out/, and writes out/index.html with picture, command and result lines.
cd "$(dirname "$0")/.." || exit 1
mkdir -p out
# name|options|caption|paper's figure
list='balls||Balls of densities 0.1, 0.5, 0.9 and 10 fall into a pool|000 fig. 7
balls|--set dim=3 --size 64 --frames 60|The same in 3D|000 fig. 7
smoke_plume||A plume of smoke|
dam_break||A dam breaks|
box_lift||Blocks rise in a fluid|001 fig. 5, 6
smoke_ball||Light balls in a plume|001 fig. 1
bunnies||Bodies of any shape with contact|001 fig. 2
hinged_plank||A plank on a hinge|001 fig. 3
bubble||A bubble keeps its volume|001 fig. 4
cloth_jet||Cloth over a jet|000 fig. 11
balloon||A balloon is blown up|000 fig. 8
press||A hydraulic press|000 fig. 10
plank_jet||A plank over a jet|000 fig. 4
own_solver||Your own solver behind the door|
slip_plane||Flow along a plane|002 fig. 5
slip_cylinder||Flow around a cylinder|002 fig. 7
slip_disk||A disk with slip|002 fig. 8
slip_helix||Flow control by a helix|002 fig. 1
reduced_spheres||Reduced spheres float|003 fig. 5
reduced_torus||Reduced tori|003 fig. 4
starfish||Starfish|003 fig. 2
jellyfish||A jellyfish swims|003 fig. 8
stack||A stack of boxes|
cloth_drape||Cloth over a ball|
soft_torus||A soft torus|
sph_dam_break||A dam breaks, particles|
tled_beam||A soft beam|
hose||A hose|004 fig. 1
beam||A beam in a stream|004 fig. 6
cloth_holes||Cloth with holes|004 fig. 7
bowl||A soft bowl|004 fig. 8
funnel||A funnel|004 fig. 9
board||Four boundary conditions|004 fig. 10
sph_ball||A ball under falling particles|000 fig. 15
one_scene||One scene by every method|'
total=$(echo "$list" | wc -l) done=0 begin=$(date +%s)
echo '<!doctype html><meta charset="utf-8"><title>fsi gallery</title><style>body{font:15px sans-serif;max-width:60em;margin:2em auto}img{max-width:100%;border:1px solid #ccc}pre{background:#f4f4f4;padding:.6em}</style><h1>fsi gallery</h1>' >out/index.html
echo "$list" | while IFS='|' read -r name options caption figure; do
    done=$((done + 1))
    [ -x "build/$name" ] || continue
    left=$(( ($(date +%s) - begin) * (total - done) / done ))
    printf '[%2d/%2d] %s %s (about %d s left)\n' "$done" "$total" "$name" "$options" "$left"
    dir=out/$name$(echo "$options" | tr -dc 'a-z0-9')
    # shellcheck disable=SC2086
    build/$name $options --out "$dir" >"$dir.txt" 2>&1
    { echo "<h2>$caption</h2><p>$figure</p><pre>build/$name $options --out $dir</pre><img src=\"${dir#out/}/$name.png\"><pre>"; cat "$dir.txt"; echo '</pre>'; } >>out/index.html
done
echo "out/index.html"
