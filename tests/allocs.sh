#!/bin/sh
# allocs.sh [TEST.c...]: is the failing allocator asked of everything? Needed: every line that calls fsi_alloc, and every public function from which the call graph
# (gcc -fcallgraph-info) or any test reaches one. Seen: what stood on the stack when an allocation failed (trace.h) in the tests that use
# fail_begin, which demand FSI_ERR_MEMORY and nothing left behind. Fails when something needed was not seen.
cd "$(dirname "$0")/.." || exit 1
# These reach it in the call graph only: a solver without a work block would take one, and theirs was made at init; a save lists its fields in one function
# with the restore, which may grow a list; a dense door answers without the solver of a nodal one. Seen allocating is as bad as not seen failing.
reserved="fsi_embedded_respond fsi_reduced_contacts_save fsi_reduced_contacts_state_size fsi_slip_save fsi_slip_state_size fsi_grid_advance fsi_grid_step fsi_grid_viscosity fsi_partitioned_step fsi_proxy_step fsi_soft_contact fsi_soft_finish fsi_soft_forces fsi_soft_move fsi_soft_respond fsi_soft_step fsi_sph_rigid_step"
top=$(pwd) dir=$(mktemp -d) bad=0
trap 'rm -rf "$dir"' EXIT
for h in fsi_*.h; do echo "#include \"$h\""; done >"$dir/all.c"
(cd "$dir" && gcc -std=c99 -O0 -I"$top" -DFSI_IMPLEMENTATION -fcallgraph-info -c all.c -o all.o) || exit 1
# edges: caller callee line
sed -n 's/^edge: { sourcename: "\([^"]*:\)\{0,1\}\([^":]*\)" targetname: "\([^"]*:\)\{0,1\}\([^":]*\)" label: "\([^"]*\)".*/\2 \4 \5/p' "$dir/all.ci" | sed "s,$top/,," >"$dir/edges"
nm -g --defined-only "$dir/all.o" | awk '$3 ~ /^fsi_/ { print $3 }' | sort >"$dir/public"
awk '$2 == "fsi_alloc" { split($3, w, ":"); print w[1] ":" w[2] }' "$dir/edges" | sort -u >"$dir/sites"
awk '{ from[NR] = $1; to[NR] = $2 } END { reach["fsi_alloc"] = more = 1; while (more) { more = 0; for (i = 1; i <= NR; i++) if (to[i] in reach && !(from[i] in reach)) { reach[from[i]] = 1; more = 1 } }
    for (f in reach) print f }' "$dir/edges" >"$dir/reach"
flags="-DCHECK_TRACE -O0 -gdwarf-4 -no-pie"             # every function keeps its frame; DWARF 5 of a header compiled on its own names the wrong file
one() { # one TEST: runs what uses fail_begin in it
    n=$(basename "$1" .c)
    make --no-print-directory CC=gcc OPENMP=0 SINGLE=0 B="$dir" CFLAGS="$flags" "$dir/$n" >"$dir/make.log" 2>&1 || { tail -n 20 "$dir/make.log"; return 1; }
    for t in $(awk '/^TEST / { t = $2; sub(/\(.*/, "", t) } /fail_begin/ { print t }' "$1" | sort -u); do
        CHECK_TRACE_OUT="$dir/$n.out" "$dir/$n" -e -t "$t" >"$dir/$n.log" 2>&1 && grep -q 'Pass: [1-9]' "$dir/$n.log" || { echo "$n: $t"; tail -n 20 "$dir/$n.log"; return 1; }
    done
    [ -f "$dir/$n.out" ] || return 0
    nm -n "$dir/$n" | awk '$2 ~ /[tT]/ { sub(/\..*/, "", $3); print $1, $3 }' >"$dir/$n.names"
    # pairs as functions: callee caller failed address-of-the-call
    awk 'function hex(s, v, i) { v = 0; s = tolower(s); for (i = 1; i <= length(s); i++) v = 16 * v + index("0123456789abcdef", substr(s, i, 1)) - 1; return v }
        function name(x, a, b, m) { a = 1; b = n; while (a < b) { m = int((a + b + 1) / 2); if (at[m] <= x) a = m; else b = m - 1 } return fn[a] }
        NR == FNR { at[++n] = hex($1); fn[n] = $2; next } { print name(hex($1)), name(hex($2)), $3, $2 }' "$dir/$n.names" "$dir/$n.out" >"$dir/$n.pairs"
    awk '$1 == "fsi_alloc" && $3 { print $4 }' "$dir/$n.pairs" | while read -r a; do printf '%x\n' $((0x$a - 1)); done | addr2line -e "$dir/$n" | sed 's,.*/\(fsi_[a-z]*\.h:[0-9]*\).*,\1,' >>"$dir/failed_sites"
    awk '$3 { print $1; print $2 }' "$dir/$n.pairs" >>"$dir/failed"
    awk '{ print $1; print $2 }' "$dir/$n.pairs" >>"$dir/allocated"
}
for t in ${*:-$(grep -l fail_begin tests/test_*.c)}; do one "$t" || bad=1; done
sort -u "$dir/failed_sites" | comm -23 "$dir/sites" - >"$dir/open_sites"
sort -u -o "$dir/allocated" "$dir/allocated"
for f in $reserved; do echo "$f"; done | sort >"$dir/reserved"
comm -12 "$dir/reserved" "$dir/allocated" >"$dir/broken"
sort -u "$dir/reach" "$dir/allocated" | comm -12 - "$dir/public" | comm -23 - "$dir/reserved" >"$dir/needed"
sort -u "$dir/failed" | comm -23 "$dir/needed" - >"$dir/open"
sed 's/^/  this allocation never failed: /' "$dir/open_sites"
sed 's/^/  no allocation failed inside of: /' "$dir/open"
sed 's/^/  allocates, which it should not any more: /' "$dir/broken"
echo "allocs: $(($(wc -l <"$dir/sites") - $(wc -l <"$dir/open_sites"))) of $(wc -l <"$dir/sites") lines that allocate, $(($(wc -l <"$dir/needed") - $(wc -l <"$dir/open"))) of $(wc -l <"$dir/needed") public functions that reach one; $(wc -l <"$dir/reserved") have their room from init and took none"
[ $bad = 0 ] && [ ! -s "$dir/broken" ] && [ -s "$dir/sites" ] && [ -s "$dir/needed" ] && [ ! -s "$dir/open_sites" ] && [ ! -s "$dir/open" ]
