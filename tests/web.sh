#!/bin/sh
# web.sh: what make web-test runs: the live page in headless Chromium. playwright-core comes from npm into $B/node, Chromium from the system.
cd "$(dirname "$0")/.." || exit 1
B=${B:-build}
need() { command -v "$1" >/dev/null 2>&1 || { echo "make web-test: $1 is missing; on Debian: apt-get install $2"; exit 1; }; }
need node nodejs
need npm npm
CHROMIUM=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome)}
[ -n "$CHROMIUM" ] || { echo "make web-test: no Chromium; on Debian: apt-get install chromium"; exit 1; }
if [ ! -d "$B/node/node_modules/playwright-core" ]; then
    mkdir -p "$B/node"
    (cd "$B/node" && npm install --no-save --no-audit --no-fund --loglevel=error playwright-core) || { echo "make web-test: npm could not install playwright-core"; exit 1; }
fi
PLAYWRIGHT=$(cd "$B/node" && pwd) CHROMIUM=$CHROMIUM WEB_NATIVE=$B/web_native node tests/web.mjs "$B/web" out/web "$@"
