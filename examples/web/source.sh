#!/bin/sh
# source.sh: a page with the functions that the live page's texts name, each as it stands in its header, with line numbers.
cd "$(dirname "$0")/../.." || exit 1
cat <<'X'
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>fsi: functions of the live page</title>
<style>body { font: 15px/1.45 system-ui, sans-serif; margin: 1rem auto; max-width: 62rem; padding: 0 1rem } pre { font: 13px/1.4 ui-monospace, monospace; overflow-x: auto; border: 1px solid #8886; border-radius: 8px; padding: 0.8rem }</style>
<p><a href="index.html">Back to the live page</a></p>
X
for name in $(sed -n "s/.*source: '\(fsi_[a-z_]*\)'.*/\1/p" examples/web/scenes.js | sort -u); do
    # the definition: the last place where the name opens a function
    place=$(grep -n "^FSI_API[^;]*[ *]$name(" fsi_*.h | tail -n 1)
    [ -n "$place" ] || { echo "source.sh: $name is in no header" >&2; exit 1; }
    file=${place%%:*} line=$(echo "$place" | cut -d: -f2)
    printf '<h2 id="%s"><code>%s</code></h2>\n<p>%s, line %s</p>\n<pre>' "$name" "$name" "$file" "$line"
    awk -v first="$line" 'NR >= first { gsub(/&/, "\\&amp;"); gsub(/</, "\\&lt;"); printf "%6d  %s\n", NR, $0 } NR > first && /^}/ { exit }' "$file"
    printf '</pre>\n'
done
echo '</html>'
