#!/bin/sh
# commands.sh: every command that README.md and docs/ print in backquotes runs. Examples get "--frames 2" unless CHECK_FULL is set; commands with
# a placeholder (capital letters or dots) and the long make targets are only checked to exist.
cd "$(dirname "$0")/.." || exit 1
dir=$(mktemp -d) bad=0 n=0
trap 'rm -rf "$dir"' EXIT
cat README.md docs/*.md | grep -oE '`(build/[a-z_0-9]+|make)( [^`]*)?`' | tr -d '`' | sort -u >"$dir/list"
while read -r c; do
    case $c in
    make*) t=$(echo "$c" | cut -d' ' -f2); [ "$c" = make ] || grep -qE "^([a-z -]* )?$t( [a-z -]*)?:" Makefile || { echo "no such target: $c"; bad=1; }; continue ;;
    esac
    p=$(echo "$c" | cut -d' ' -f1)
    make --no-print-directory "$p" >"$dir/log" 2>&1 || { echo "cannot be built: $c"; bad=1; continue; }
    case $c in *[A-Z][A-Z]*|*...*|*=[A-Z]*) continue ;; esac
    case $c in build/test_*|build/bench_*) ;; *) [ -n "$CHECK_FULL" ] || case $c in *--frames*|*--help*) ;; *) c="$c --frames 2" ;; esac ;; esac
    case $c in build/bench_*) continue ;; esac
    n=$((n + 1))
    timeout 900 $c >"$dir/log" 2>&1 </dev/null || { echo "failed: $c"; tail -n 5 "$dir/log"; bad=1; continue; }
    case $c in *" -t "*) grep -q 'Pass: [1-9]' "$dir/log" || { echo "runs no test: $c"; bad=1; } ;; esac
done <"$dir/list"
echo "$n commands of README and docs ran"
exit $bad
