// web.mjs: a file server for one folder, and headless Chromium on the live page. Needs
// playwright-core beside it in NODE_PATH and a Chromium (CHROMIUM, or the one of the system).
//
//     node tests/web.mjs build/web out/web           all tests
//     node tests/web.mjs build/web out/web speed     one of them (see TESTS); names after it: only these scenes
import { createServer } from 'node:http';
import { readFile, mkdir } from 'node:fs/promises';
import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { extname, join, normalize } from 'node:path';

const [folder, out, only = '', ...chosen] = process.argv.slice(2);
const { chromium } = createRequire(process.env.PLAYWRIGHT + '/')('playwright-core');
// The one scene whose bits are not compared with the native program: its rotations go through sine
// and cosine of the C library, and musl's differ from glibc's in the last bit now and then.
const OWN_BITS = 'jellyfish';
const TYPES = {
    '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.wasm': 'application/wasm',
};

// The page of docs/web.md with a pool in it.
async function embedded() {
    const text = await readFile('docs/web.md', 'utf8');
    return text.match(/```html\n([^]*?)```/)[1];
}

// ---- the server: files of one folder, nothing above it. Isolated: with the headers without which no
// browser lets threads share memory.
const ISOLATED = { 'cross-origin-opener-policy': 'same-origin', 'cross-origin-embedder-policy': 'require-corp' };

async function serve(headers = {}) {
    const server = createServer(async (request, response) => {
        const path = normalize(decodeURIComponent(request.url.split('?')[0])).replace(/^(\.\.\/)+/, '');
        try {
            const inside = join(folder, path === '/' ? 'index.html' : path);
            const body = path === '/embed.html' ? await embedded() : await readFile(inside);
            response.writeHead(200, { 'content-type': TYPES[extname(path)] || 'text/html', ...headers });
            response.end(body);
        } catch {
            response.writeHead(404);
            response.end('not here');
        }
    });
    await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
    return { server, address: `http://127.0.0.1:${server.address().port}/` };
}

// ---- counting
let passed = 0;
let failed = 0;

function check(name, good, figure = '') {
    if (good) passed++;
    else failed++;
    console.log(`${good ? 'ok  ' : 'FAIL'} ${name}${figure === '' ? '' : `: ${figure}`}`);
}

// ---- pages
async function openPage(browser, address, options = {}) {
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, ...options.page });
    page.problems = [];
    page.on('pageerror', (error) => page.problems.push(error.message));
    page.on('console', (line) => line.type() === 'error' && page.problems.push(line.text()));
    await page.goto(address + (options.query || ''));
    await page.waitForFunction('window.fsi !== undefined', null, { timeout: 30000 });
    return page;
}

// What a test does in the page, as a function of window.fsi and one argument.
const inPage = (page, work, argument) => page.evaluate(work, argument);

// All scenes, or those that were named.
const scenesOf = async (page) => (chosen.length ? chosen : inPage(page, () => fsi.scenes));

// ---- the tests
// The best of three loads: other programs may be in the way of one.
async function testFirstFrame(browser, address) {
    let least = Infinity;
    for (let i = 0; i < 3; i++) {
        const page = await openPage(browser, address);
        least = Math.min(least, Number(await page.getAttribute('html', 'data-ready')));
        await page.close();
    }
    console.log(`first frame after ${least} ms (asked: 2000)`); // a time is printed, never asserted
    const page = await openPage(browser, address);
    check('WebGL2 is used', (await inPage(page, () => fsi.renderer)) === 'Renderer');
    const steps = async () => (await inPage(page, () => fsi.report())).steps;
    const before = await steps();
    await page.waitForTimeout(500);
    check('the scene runs by itself', (await steps()) > before);
    check('no error on the page', page.problems.length === 0, page.problems.join('; '));
    await page.close();
}

async function testEveryScene(browser, address) {
    const page = await openPage(browser, address, { query: '?paused' });
    const scenes = await inPage(page, () => fsi.scenes);
    check('ten scenes and more', scenes.length >= 10, scenes.length);
    for (const name of scenes) {
        const report = await inPage(page, async (scene) => {
            await fsi.load(scene);
            for (let i = 0; i < 15; i++) fsi.step(20);
            return fsi.report();
        }, name);
        const good = report.steps === 300 && report.stable && report.scene === name;
        const figure = `${report.ms_per_step.toFixed(2)} ms a step, volume ${(100 * report.volume_error).toFixed(2)} %`;
        check(`${name}: 300 steps`, good, figure);
        const finite = report.bodies.every((b) => Number.isFinite(b.x + b.y + b.density + b.submerged));
        check(`${name}: its solids are listed, at finite places`, finite && report.bodies.length > 0, report.bodies.length);
    }
    check('no error in any scene', page.problems.length === 0, page.problems.join('; '));
    await page.close();
}

// One body alone: how much of it is under water, against its density.
async function testArchimedes(browser, address) {
    const page = await openPage(browser, address, { query: '?paused' });
    for (const density of [0.1, 0.3, 0.5, 0.8]) {
        const submerged = await inPage(page, async (value) => {
            await fsi.load('pool');
            fsi.set('bodies', 1);
            fsi.set('calm', 3);
            fsi.set('density', value);
            fsi.step(400);
            return fsi.report().bodies[0].submerged;
        }, density);
        // A face that lies along the cells is known to half a cell: 1/64 m of a crate of 0.28 m.
        check(`a crate of density ${density} floats at Archimedes`, Math.abs(submerged - density) < 0.056,
            submerged.toFixed(3));
    }
    await page.close();
}

// The raft alone, and with three boxes on it: what it displaces weighs what it carries. Its sides are
// 0.18 m high and lie along cells of 1/32 m: half a cell is 0.087 of them.
async function testRaft(browser, address) {
    const page = await openPage(browser, address, { query: '?paused' });
    for (const [density, boxes] of [[0.2, 0], [0.5, 0], [0.8, 0], [0.2, 3]]) {
        const { mean, carried } = await inPage(page, async ([own, load]) => {
            await fsi.load('raft');
            fsi.set('load', load);
            fsi.set('density', own);
            fsi.step(300);
            let sum = 0;
            for (let i = 0; i < 30; i++) {
                fsi.step(5);
                sum += fsi.report().bodies[0].submerged / 30;
            }
            // Box over raft: 0.24 x 0.2 m of density 0.4 on 1.5 x 0.18 m.
            return { mean: sum, carried: own + (load * 0.4 * 0.24 * 0.2) / (1.5 * 0.18) };
        }, [density, boxes]);
        check(`a raft of density ${density} with ${boxes} boxes floats at Archimedes`, Math.abs(mean - carried) < 0.087,
            `${mean.toFixed(3)}, asked ${carried.toFixed(3)}`);
    }
    await page.close();
}

// In every scene: a solid is grabbed where the report says it is, and follows the hand. Way and what
// may be missing in the end, m; settings first.
const DRAGS = {
    pool: { way: [0.5, 0.2], off: 0.06 },
    raft: { way: [0.3, 0], off: 0.06 },
    boat: { way: [0.6, 0.1], off: 0.06 },
    diver: { way: [0.15, -0.2], off: 0.05 },
    cloth: { way: [0, 0.08], off: 0.02 },
    balloon: { way: [0.05, 0.05], off: 0.015 },
    press: { way: [0, -0.06], off: 0.012 },
    smoke: { way: [0.2, 0.2], off: 0.03 },
    jellyfish: { way: [0, 0.2], off: 0.03 },
    dam: { way: [0.2, 0.3], off: 0.1 },
    gate: { way: [0.04, 0], off: 0.01 },
    slip: { way: [0.3, 0.05], off: 0.01 },
    methods: { way: [0.2, 0.1], off: 0.02 },
};

async function testDragEverywhere(browser, address) {
    const page = await openPage(browser, address, { query: '?paused' });
    for (const name of await scenesOf(page)) {
        const { way, off } = DRAGS[name];
        const moved = await inPage(page, async ([scene, dx, dy]) => {
            await fsi.load(scene);
            fsi.step(30);
            const before = fsi.report().bodies[0];
            const solid = fsi.drag(before.x, before.y, dx, dy);
            const after = fsi.report().bodies[0];
            fsi.step(30);
            return { solid, stable: fsi.report().stable, dx: after.x - before.x, dy: after.y - before.y };
        }, [name, ...way]);
        const missing = Math.hypot(moved.dx - way[0], moved.dy - way[1]);
        check(`${name}: a drag of (${way}) m moves a solid by that`, moved.solid && moved.stable && missing < off,
            `(${moved.dx.toFixed(3)}, ${moved.dy.toFixed(3)})`);
    }
    await page.close();
}

async function testDrag(browser, address) {
    const page = await openPage(browser, address, { query: '?paused' });
    for (const density of [1e-4, 0.01, 0.5, 1, 10, 1e4]) {
        const moved = await inPage(page, async (value) => {
            await fsi.load('pool');
            fsi.set('bodies', 1);
            fsi.set('density', value);
            fsi.step(30);
            const { x, y } = fsi.report().bodies[0];
            fsi.drag(x, y, 0.8, 0.2);
            const after = fsi.report();
            const [body] = after.bodies;
            fsi.step(200);
            return { dx: body.x - x, dy: body.y - y, stable: fsi.report().stable };
        }, density);
        const off = Math.hypot(moved.dx - 0.8, moved.dy - 0.2);
        check(`density ${density}: a drag of (0.8, 0.2) m moves it by that`, off < 0.08 && moved.stable,
            `(${moved.dx.toFixed(3)}, ${moved.dy.toFixed(3)})`);
    }
    await page.close();
}

// The mouse itself: pressed on a body, moved, let go.
async function testMouse(browser, address) {
    const page = await openPage(browser, address, { query: '#scene=pool&bodies=1&density=0.5' });
    await page.waitForTimeout(1200);
    const place = () => inPage(page, () => fsi.report().bodies[0]);
    const before = await place();
    const area = await page.locator('#view').boundingBox();
    const scale = 0.95 * Math.min(area.width / 4, area.height / 2);
    const pixel = ({ x, y }) => [
        area.x + area.width / 2 + scale * (x - 2),
        area.y + area.height / 2 - scale * (y - 1),
    ];
    await page.mouse.move(...pixel(before));
    await page.mouse.down();
    await page.mouse.move(...pixel({ x: before.x + 0.7, y: before.y }), { steps: 20 });
    await page.waitForTimeout(1500);
    const after = await place();
    await page.mouse.up();
    check('the mouse drags a body', Math.abs(after.x - before.x - 0.7) < 0.1, (after.x - before.x).toFixed(3));
    await page.close();
}

// A finger, and keys alone: the same hand.
async function testTouchAndKeys(browser, address) {
    const phone = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };
    const page = await openPage(browser, address, { query: '#scene=pool&bodies=1&density=0.5', page: phone });
    await page.waitForTimeout(1500);
    const place = () => inPage(page, () => fsi.report().bodies[0]);
    const before = await place();
    const area = await page.locator('#view').boundingBox();
    const scale = 0.95 * Math.min(area.width / 4, area.height / 2);
    const finger = (dx) => [{ x: area.x + area.width / 2 + scale * (before.x + dx - 2), y: area.y + area.height / 2 - scale * (before.y - 1) }];
    const session = await page.context().newCDPSession(page);
    const touch = (type, touchPoints) => session.send('Input.dispatchTouchEvent', { type, touchPoints });
    await touch('touchStart', finger(0));
    for (let i = 1; i <= 10; i++) await touch('touchMove', finger(0.06 * i));
    await page.waitForTimeout(1500);
    const held = await place();
    await touch('touchEnd', []);
    check('a finger drags a body', Math.abs(held.x - before.x - 0.6) < 0.1, (held.x - before.x).toFixed(3));
    await page.close();

    const desk = await openPage(browser, address, { query: '?paused' });
    for (const name of await scenesOf(desk)) {
        await inPage(desk, (scene) => fsi.load(scene), name);
        await inPage(desk, () => fsi.step(20));
        const [x, y] = await inPage(desk, () => [fsi.report().bodies[0].x, fsi.report().bodies[0].y]);
        await desk.focus('#view');
        await desk.keyboard.press('g');
        await desk.keyboard.press(name === 'press' ? 'ArrowDown' : 'ArrowRight');
        await inPage(desk, () => fsi.step(Math.round(0.6 / (fsi.report().time / fsi.report().steps))));
        const way = await inPage(desk, ([fromX, fromY]) => {
            const [body] = fsi.report().bodies;
            return Math.hypot(body.x - fromX, body.y - fromY);
        }, [x, y]);
        await desk.keyboard.press('Escape');
        check(`${name}: G and an arrow move a solid`, way > 0.01, way.toFixed(3));
    }
    await desk.close();
}

// Steps, saves, steps on; restores, steps on again: the bits of the native program.
async function testBits(browser, address, native) {
    const page = await openPage(browser, address, { query: '?paused' });
    for (const name of await scenesOf(page)) {
        const own = await inPage(page, async (scene) => {
            await fsi.load(scene);
            fsi.step(40);
            const block = fsi.save();
            const saved = fsi.hash();
            fsi.step(20);
            const straight = fsi.hash();
            fsi.restore(block);
            fsi.step(20);
            return { saved, straight, again: fsi.hash() };
        }, name);
        check(`${name}: a restored state goes on with the same bits`, own.straight === own.again, own.again);
        if (name === OWN_BITS) continue;
        const other = execFileSync(native, ['hash', name, '40'], { encoding: 'utf8' }).trim().split(' ').slice(2);
        check(`${name}: the bits of the native program`, other.join() === `${own.saved},${own.straight},${own.again}`,
            other.join(' '));
    }
    await page.close();
}

// In the page: the best of several runs of five steps on one thread and on two, ms a step. The same
// steps each time: the scene is made again.
async function timeThreads(scene) {
    const least = [Infinity, Infinity];
    for (let round = 0; round < 6; round++)
        for (const threads of [1, 2]) {
            await fsi.load(scene);
            fsi.threads(threads);
            fsi.step(10);
            for (let run = 0; run < 4; run++) {
                const start = performance.now();
                fsi.step(5);
                const each = (performance.now() - start) / 5;
                least[threads - 1] = Math.min(least[threads - 1], each);
            }
        }
    return least;
}

// Three threads where the page may share memory, one where not; in every scene the same bits.
async function testThreads(browser, address) {
    const plain = await openPage(browser, address, { query: '?paused&threads=3' });
    await plain.waitForTimeout(500);
    check('without the headers one thread computes', (await inPage(plain, () => fsi.threads())) === 1);
    await plain.close();
    const isolated = await serve(ISOLATED);
    const page = await openPage(browser, isolated.address, { query: '?paused&threads=3' });
    await page.waitForFunction('fsi.threads() === 3', null, { timeout: 20000 });
    for (const name of await scenesOf(page)) {
        const [alone, together] = await inPage(page, async (scene) => {
            const bits = [];
            for (const threads of [1, 3]) {
                await fsi.load(scene);
                fsi.threads(threads);
                fsi.step(50);
                bits.push(fsi.hash());
            }
            return bits;
        }, name);
        check(`${name}: the same bits with three threads`, alone === together, together);
    }
    for (const name of chosen.length ? chosen : ['smoke', 'jellyfish', 'dam']) {
        const [one, two] = await inPage(page, timeThreads, name);
        console.log(`     ${name}: ${one.toFixed(2)} ms a step on one thread, ${two.toFixed(2)} on two`);
    }
    const helped = await inPage(page, () => fsi.helped());
    check('the other threads did their parts', helped > 100, helped);
    check('no error with threads', page.problems.length === 0, page.problems.join('; '));
    await page.close();
    isolated.server.close();
}

// Processor time of all pages so far, s.
async function openClock(browser) {
    const session = await browser.newBrowserCDPSession();
    return async () => {
        const { processInfo } = await session.send('SystemInfo.getProcessInfo');
        const pages = processInfo.filter((process) => process.type === 'renderer');
        return pages.reduce((sum, process) => sum + process.cpuTime, 0);
    };
}

// Processor time of a step of the pool of 128 x 64 with 20 bodies, page and native program in turn.
async function testSpeed(browser, address, native) {
    const page = await openPage(browser, address, { query: '?paused' });
    const clock = await openClock(browser);
    const steps = 200;
    const rounds = [];
    for (let round = 0; round < 3; round++) {
        const text = execFileSync(native, ['time', 'pool', String(steps), 'bodies', '20'], { encoding: 'utf8' });
        const theirs = Number(text.trim().split(' ')[1]);
        await inPage(page, async () => {
            await fsi.load('pool');
            fsi.set('bodies', 20);
            fsi.step(20);
        });
        const start = await clock();
        await inPage(page, (count) => fsi.step(count), steps);
        const ours = (1000 * ((await clock()) - start)) / steps;
        rounds.push({ ours, theirs, ratio: ours / theirs });
    }
    rounds.sort((a, b) => a.ratio - b.ratio);
    const [{ ours, theirs, ratio }] = rounds; // the round with the least disturbance
    console.log(`     pool of 128 x 64 with 20 bodies: ${ours.toFixed(2)} ms a step, native -O2 ${theirs.toFixed(2)} ms`);
    console.log(`a step takes ${ratio.toFixed(2)} times the native one (asked: 1.6)`);
    await page.close();
}

async function testKeysAndAddress(browser, address) {
    const page = await openPage(browser, address, { query: '#scene=raft&load=3' });
    const report = () => inPage(page, () => fsi.report());
    check('the address chooses scene and settings', (await report()).scene === 'raft' && (await report()).bodies.length === 4);
    await page.keyboard.press('Space');
    const paused = (await report()).steps;
    await page.waitForTimeout(200);
    check('Space pauses', (await report()).steps === paused);
    await page.keyboard.press('.');
    check('. is one step', (await report()).steps === paused + 1);
    await page.keyboard.press('r');
    check('R starts again', (await report()).steps === 0);
    await page.keyboard.press('n');
    check('N is the next scene', (await report()).scene !== 'raft');
    check('every control has a name', (await inPage(page, () => [...document.querySelectorAll('button, input, select, canvas')]
        .filter((e) => !(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.[0]?.textContent)).length)) === 0);
    await page.close();
}

// Every button, a state as a file, and addresses that make no sense.
async function testButtons(browser, address) {
    const page = await openPage(browser, address, { query: '#scene=pool&bodies=3' });
    const report = () => inPage(page, () => fsi.report());
    await page.click('#pause');
    await page.click('#step');
    const { steps } = await report();
    await page.click('#step');
    check('Step is one step', (await report()).steps === steps + 1);
    await page.click('#save');
    const saved = await inPage(page, () => fsi.hash());
    await inPage(page, () => fsi.step(30));
    await page.click('#restore');
    check('Load brings back what Save kept', (await inPage(page, () => fsi.hash())) === saved);
    await page.click('#help');
    const [download] = await Promise.all([page.waitForEvent('download'), page.click('#to-file')]);
    const file = await download.path();
    await page.keyboard.press('Escape');
    await inPage(page, () => fsi.load('boat'));
    await page.setInputFiles('#file', file);
    await page.waitForTimeout(300);
    const opened = await report();
    check('a file opens its scene and state', opened.scene === 'pool' && (await inPage(page, () => fsi.hash())) === saved, opened.scene);
    await page.setInputFiles('#file', { name: 'no.fsi', mimeType: 'text/plain', buffer: Buffer.from('pool\nnothing') });
    await page.waitForTimeout(300);
    check('a file that is none is refused', (await page.textContent('#message')).includes('cannot be opened'));
    await page.click('#reset');
    check('Reset starts again', (await report()).steps === 0);
    await page.close();

    for (const query of ['#scene=nothing&density=many', '#scene=pool&density=1e999&bodies=-4&x=1', '#%E0%A4%A', '#density=0.5']) {
        const odd = await openPage(browser, address, { query: `?paused${query}` });
        const now = await inPage(odd, () => ({ ...fsi.report(), last: fsi.step(5) }));
        check(`the address ${query} still opens a scene`, now.last === 'ok' && odd.problems.length === 0, odd.problems.join('; '));
        await odd.close();
    }
    const blind = await browser.newPage();
    await blind.addInitScript(() => {
        const open = HTMLCanvasElement.prototype.getContext;
        HTMLCanvasElement.prototype.getContext = function (kind, ...more) {
            return kind === 'webgl2' ? null : open.call(this, kind, ...more);
        };
    });
    await blind.goto(`${address}?paused`);
    await blind.waitForFunction('window.fsi !== undefined');
    check('without WebGL2 it draws with Canvas 2D', (await inPage(blind, () => fsi.renderer)) === 'FlatRenderer');
    await blind.close();
}

async function testWithout(browser, address) {
    const flat = await openPage(browser, address, { query: '?paused&renderer=2d' });
    const drawn = await inPage(flat, async () => {
        for (const name of fsi.scenes) {
            await fsi.load(name);
            fsi.step(3);
        }
        return fsi.renderer;
    });
    check('Canvas 2D draws every scene', drawn === 'FlatRenderer' && !flat.problems.length, flat.problems.join('; '));
    await flat.close();
    const bare = await browser.newPage();
    await bare.addInitScript(() => delete window.WebAssembly);
    await bare.goto(address);
    await bare.waitForTimeout(300);
    check('without WebAssembly the page says so', (await bare.textContent('#message')).includes('WebAssembly'));
    await bare.close();
    const calm = await openPage(browser, address, { page: { reducedMotion: 'reduce' } });
    await calm.waitForTimeout(300);
    check('reduced motion: nothing runs by itself', (await inPage(calm, () => fsi.report())).steps === 0);
    await calm.close();
}

// The pool of docs/web.md: water and crates are drawn, and nothing goes wrong.
async function testEmbedded(browser, address) {
    const page = await browser.newPage();
    const problems = [];
    page.on('pageerror', (error) => problems.push(error.message));
    await page.goto(`${address}embed.html`);
    await page.waitForTimeout(1500);
    const wet = await page.evaluate(() => {
        const canvas = document.getElementById('pool');
        const { data } = canvas.getContext('2d').getImageData(400, 380, 1, 1);
        return data[3] > 0;
    });
    check('the pool of docs/web.md works', wet && problems.length === 0, problems.join('; '));
    await page.close();
}

// ---- screenshots
// Every scene once, light on a desk and dark on a phone.
const SHOTS = [
    { tag: 'wide', size: { width: 1280, height: 800 }, theme: 'light' },
    { tag: 'phone', size: { width: 390, height: 844 }, theme: 'dark' },
];

async function takeShots(browser, address) {
    await mkdir(out, { recursive: true });
    const page = await openPage(browser, address, { query: '?paused&theme=light' });
    const scenes = await scenesOf(page);
    for (const name of scenes) {
        await inPage(page, async (scene) => {
            await fsi.load(scene);
            fsi.step(120);
        }, name);
        for (const { tag, size, theme } of SHOTS) {
            await page.setViewportSize(size);
            const now = await page.getAttribute('html', 'data-theme');
            if (now !== theme) await page.click('#theme');
            await page.waitForTimeout(100);
            await page.screenshot({ path: `${out}/${name}_${tag}.png` });
            const fits = await inPage(page, () => document.documentElement.scrollWidth <= window.innerWidth);
            if (!fits) page.problems.push(`${name} is wider than ${size.width}`);
        }
    }
    check('screenshots of both sizes, nothing wider than them', page.problems.length === 0, page.problems.join('; '));
    await page.close();
}

const TESTS = {
    first: testFirstFrame,
    scenes: testEveryScene,
    archimedes: testArchimedes,
    raft: testRaft,
    drag: testDrag,
    drags: testDragEverywhere,
    mouse: testMouse,
    touch: testTouchAndKeys,
    keys: testKeysAndAddress,
    buttons: testButtons,
    without: testWithout,
    embedded: testEmbedded,
    bits: testBits,
    threads: testThreads,
    speed: testSpeed,
    shots: takeShots,
};

async function run() {
    if (only && !TESTS[only]) throw new Error(`no test ${only}; there are ${Object.keys(TESTS).join(', ')}`);
    const { server, address } = await serve();
    const browser = await chromium.launch({
        executablePath: process.env.CHROMIUM || '/usr/bin/chromium',
        args: ['--no-sandbox', '--use-gl=angle', '--use-angle=swiftshader', '--enable-unsafe-swiftshader'],
    });
    for (const [name, test] of Object.entries(TESTS))
        if (!only || only === name) await test(browser, address, process.env.WEB_NATIVE);
    await browser.close();
    server.close();
    console.log(`${passed} passed, ${failed} failed`);
    process.exit(failed ? 1 : 0);
}

run();
