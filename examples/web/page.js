// page.js: the page around the engine: scenes, sliders, time, the hand, saving and sharing, and
// window.fsi for scripts.

import { openEngine } from './engine.js';
import { Renderer } from './render.js';
import { FlatRenderer } from './flat.js';
import { Plots, shortNumber } from './plots.js';
import { TEXTS } from './scenes.js';
import { fitBox, lookAtBox, rayThrough } from './looks.js';

const find = (id) => document.getElementById(id);
const asked = new URLSearchParams(location.search);
const calm = window.matchMedia('(prefers-reduced-motion: reduce)').matches;

// All that changes while the page is open.
const page = {
    engine: null,
    renderer: null,
    plots: null,
    running: !calm && !asked.has('paused'),
    report: null,      // of the last frame
    owed: 0,           // simulated seconds that the clock is ahead
    last: 0,           // time of the last frame, ms
    spent: 0,          // mean time of a step, ms
    frameTime: 0,      // mean time between frames, ms
    frames: 0,
    saved: {},         // blocks by scene
    holding: false,
    orbit: null,       // where a turn of the camera began
    grabbed: -1,       // body in the hand of the keyboard
};

// ---- messages
function say(text) {
    const message = find('message');
    message.textContent = text;
    message.hidden = !text;
}

function sayBroken() {
    const text = TEXTS[page.engine.scene].broken || 'It flew apart: Reset starts again.';
    say(page.report.broken ? text : '');
}

// ---- theme
function themeName() {
    return document.documentElement.dataset.theme;
}

function chooseTheme(name) {
    document.documentElement.dataset.theme = name;
    drawFrame();
    if (page.plots) page.plots.draw();
}

function startTheme() {
    const dark = window.matchMedia('(prefers-color-scheme: dark)');
    document.documentElement.dataset.theme = asked.get('theme') || (dark.matches ? 'dark' : 'light');
    dark.addEventListener('change', (event) => chooseTheme(event.matches ? 'dark' : 'light'));
    find('theme').onclick = () => chooseTheme(themeName() === 'dark' ? 'light' : 'dark');
}

// ---- drawing
function resizeCanvas() {
    const canvas = find('view');
    const scale = Math.min(window.devicePixelRatio || 1, 2);
    const width = Math.max(Math.round(canvas.clientWidth * scale), 1);
    const height = Math.max(Math.round(canvas.clientHeight * scale), 1);
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
}

function look() {
    return { mode: 0, most: 1, size: 0.02, ...TEXTS[page.engine.scene].look };
}

function drawFrame() {
    if (!page.engine || !page.engine.scene) return;
    resizeCanvas();
    page.report = page.engine.report();
    page.picture = page.engine.picture();
    page.renderer.draw(page.picture, page.report, look(), themeName());
}

function showFigures() {
    const { report } = page;
    find('figure-time').textContent = `${report.time.toFixed(2)} s`;
    find('figure-ms').textContent = page.spent ? `${page.spent.toFixed(1)} ms` : '–';
    find('figure-iterations').textContent = report.iterations;
    find('figure-volume').textContent = `${(100 * report.volumeError).toFixed(2)} %`;
    find('figure-frames').textContent = page.frameTime ? `${(1000 / page.frameTime).toFixed(0)} a second` : '–';
    find('figure-threads').textContent = page.engine.threads;
    sayBroken();
}

// ---- time
function countSteps(count) {
    const start = performance.now();
    page.engine.step(count);
    const each = (performance.now() - start) / count;
    page.spent = page.spent ? 0.9 * page.spent + 0.1 * each : each;
}

// Simulated time follows the clock, at most two steps a frame: a slow machine shows slow motion.
function stepsDue(seconds) {
    const dt = page.engine.dt() / (TEXTS[page.engine.scene].pace || 1);
    const most = 0.02 + 2 * dt;
    page.owed = Math.min(page.owed + seconds, most);
    const limit = Math.max(1, Math.min(Math.round(0.025 / dt), 6));
    const due = Math.min(Math.floor(page.owed / dt + 0.25), limit);
    page.owed -= due * dt;
    return due;
}

function frame(now) {
    const seconds = Math.min((now - page.last) / 1000, 0.1);
    page.last = now;
    if (page.running) {
        const due = stepsDue(seconds);
        if (due > 0) countSteps(due);
        page.frameTime = 0.95 * (page.frameTime || 1000 * seconds) + 50 * seconds;
        drawFrame();
        if (due > 0) page.plots.add(page.report);
    }
    if (page.running && page.frames++ % 6 === 0) {
        showFigures();
        page.plots.draw();
    }
    requestAnimationFrame(frame);
}

function setRunning(running) {
    page.running = running;
    page.owed = 0;
    find('pause').textContent = running ? 'Pause' : 'Run';
}

// After anything that happened while the time stood still.
function refresh() {
    drawFrame();
    showFigures();
    page.plots.draw();
}

function stepOnce() {
    setRunning(false);
    countSteps(1);
    refresh();
    page.plots.add(page.report);
}

// ---- scenes
function forgetPast() {
    page.spent = 0;
    page.owed = 0;
    page.grabbed = -1;
    page.plots.clear();
}

function showTexts() {
    const text = TEXTS[page.engine.scene];
    find('scene-title').textContent = text.title;
    find('what').textContent = text.what;
    find('equation').textContent = text.equation;
    find('why').textContent = text.why;
    find('hint').textContent = text.hint || 'Drag a body, or stir the water';
    const link = find('source');
    link.href = `source.html#${text.source}`;
    link.innerHTML = `<code>${text.source}</code>`;
    find('try').replaceChildren(...text.tries.map((words) => {
        const item = document.createElement('li');
        item.textContent = words;
        return item;
    }));
    find('view').setAttribute('aria-label', `Simulation: ${text.title}`);
    for (const button of find('scenes').children)
        button.setAttribute('aria-current', String(button.dataset.scene === page.engine.scene));
    find('restore').disabled = !page.saved[page.engine.scene];
}

function loadScene(name) {
    page.engine.release();
    page.engine.load(name);
    page.renderer.turn = { yaw: 0.5, pitch: 0.25, ...TEXTS[name].turn };
    forgetPast();
    showTexts();
    showSettings();
    refresh();
    shareInAddress();
    showCurrentScene();
}

// Its button, where the list is longer than the page is wide.
function showCurrentScene() {
    const list = find('scenes');
    const current = list.querySelector('[aria-current="true"]');
    if (current) list.scrollLeft = current.offsetLeft - (list.clientWidth - current.clientWidth) / 2;
}

function listScenes() {
    const buttons = page.engine.scenes.map((name) => {
        const button = document.createElement('button');
        button.type = 'button';
        button.textContent = TEXTS[name].title;
        button.dataset.scene = name;
        button.onclick = () => loadScene(name);
        return button;
    });
    find('scenes').replaceChildren(...buttons);
}

function nextScene(way) {
    const { scenes, scene } = page.engine;
    loadScene(scenes[(scenes.indexOf(scene) + way + scenes.length) % scenes.length]);
}

// ---- settings
// A slider runs from 0 to 1000; where it stands for a value on its scale and back.
function toSlider(value, setting, shown) {
    if (shown.scale === 'log') {
        const lo = Math.log(shown.least);
        return value > 0 ? (1000 * (Math.log(value) - lo)) / (Math.log(setting.hi) - lo) : 500;
    }
    return (1000 * (value - setting.lo)) / (setting.hi - setting.lo);
}

function fromSlider(place, setting, shown) {
    const share = place / 1000;
    if (shown.scale === 'log') {
        const lo = Math.log(shown.least);
        return Number(Math.exp(lo + share * (Math.log(setting.hi) - lo)).toPrecision(3));
    }
    const value = setting.lo + share * (setting.hi - setting.lo);
    return shown.scale === 'whole' ? Math.round(value) : Number(value.toPrecision(4));
}

function valueText(value, shown) {
    if (value === 0 && shown.zero) return shown.zero;
    return `${shortNumber(value)}${shown.unit ? ` ${shown.unit}` : ''}`;
}

function changeSetting(key, value) {
    const answer = page.engine.set(key, value);
    if (answer === 2) forgetPast();
    refresh();
    shareInAddress();
    return answer;
}

function makeSlider(setting, shown, output) {
    const slider = document.createElement('input');
    slider.type = 'range';
    slider.min = 0;
    slider.max = 1000;
    slider.step = shown.scale === 'whole' ? 1000 / (setting.hi - setting.lo) : 1;
    slider.value = toSlider(setting.value, setting, shown);
    slider.setAttribute('aria-valuetext', valueText(setting.value, shown));
    slider.oninput = () => {
        const value = fromSlider(Number(slider.value), setting, shown);
        changeSetting(setting.key, value);
        output.textContent = valueText(value, shown);
        slider.setAttribute('aria-valuetext', output.textContent);
    };
    return slider;
}

function makeChoice(setting, shown) {
    const choice = document.createElement('select');
    shown.words.forEach((word, i) => choice.add(new Option(word, i, false, i === setting.value)));
    choice.onchange = () => changeSetting(setting.key, Number(choice.value));
    return choice;
}

function makeSetting(setting) {
    const shown = TEXTS[page.engine.scene].settings[setting.key];
    const row = document.createElement('div');
    const label = document.createElement('label');
    row.className = 'setting';
    label.textContent = shown.label;
    label.htmlFor = `setting-${setting.key}`;
    const output = document.createElement('output');
    output.htmlFor = label.htmlFor;
    output.textContent = valueText(setting.value, shown);
    const isChoice = shown.scale === 'choice';
    const control = isChoice ? makeChoice(setting, shown) : makeSlider(setting, shown, output);
    control.id = label.htmlFor;
    row.append(label, ...(isChoice ? [control] : [output, control]));
    return row;
}

function showSettings() {
    find('settings').replaceChildren(...page.engine.settings().map(makeSetting));
}

// ---- sharing
// The address holds the scene and every setting that differs from its first value.
function shareInAddress() {
    const parts = new URLSearchParams({ scene: page.engine.scene });
    for (const { key, value, first } of settingsWithFirst())
        if (value !== first) parts.set(key, value);
    history.replaceState(null, '', `#${parts}`);
}

function settingsWithFirst() {
    const { scene } = page.engine;
    page.first = page.first || {};
    if (!page.first[scene])
        page.first[scene] = Object.fromEntries(page.engine.settings().map((s) => [s.key, s.value]));
    return page.engine.settings().map((s) => ({ ...s, first: page.first[scene][s.key] }));
}

function loadFromAddress() {
    const parts = new URLSearchParams(location.hash.slice(1));
    const name = page.engine.scenes.includes(parts.get('scene')) ? parts.get('scene') : 'pool';
    loadScene(name);
    for (const [key, value] of parts)
        if (key !== 'scene' && Number.isFinite(Number(value))) page.engine.set(key, Number(value));
    showSettings();
    shareInAddress();
    refresh();
}

async function share() {
    shareInAddress();
    try {
        await navigator.clipboard.writeText(location.href);
        flash(find('share'), 'Copied');
    } catch {
        window.prompt('The address of this set-up:', location.href);
    }
}

function flash(button, text) {
    const before = button.textContent;
    button.textContent = text;
    setTimeout(() => (button.textContent = before), 1200);
}

// ---- state
function saveState() {
    page.saved[page.engine.scene] = page.engine.save();
    find('restore').disabled = false;
    flash(find('save'), 'Saved');
}

function loadState() {
    const block = page.saved[page.engine.scene];
    if (!block) return;
    page.engine.restore(block);
    page.plots.clear();
    showSettings();
    refresh();
}

// A file is the scene's name, a line end, and the block.
function saveToFile() {
    const name = page.engine.scene;
    const link = document.createElement('a');
    const file = new Blob([`${name}\n`, page.engine.save()], { type: 'application/octet-stream' });
    link.href = URL.createObjectURL(file);
    link.download = `${name}.fsi`;
    link.click();
    URL.revokeObjectURL(link.href);
}

async function openFile(file) {
    const bytes = new Uint8Array(await file.arrayBuffer());
    const end = bytes.indexOf(10);
    try {
        loadScene(new TextDecoder().decode(bytes.subarray(0, end)));
        page.engine.restore(bytes.slice(end + 1));
        showSettings();
        refresh();
    } catch (error) {
        say(`This file cannot be opened: ${error.message}`);
    }
    find('keys').close();
}

// ---- the hand
// Where a pointer is in the scene. In space: on the plane through the middle that faces along z.
function toScene(event) {
    const canvas = find('view');
    const area = canvas.getBoundingClientRect();
    const x = ((event.clientX - area.left) / area.width) * canvas.width;
    const y = ((event.clientY - area.top) / area.height) * canvas.height;
    if (page.picture.dim === 2) {
        const fit = fitBox(page.report, canvas.width, canvas.height);
        return { x: fit.fromX(x), y: fit.fromY(y) };
    }
    const camera = lookAtBox(page.report, page.renderer.turn, canvas.width / canvas.height);
    const ray = rayThrough(camera, (2 * x) / canvas.width - 1, 1 - (2 * y) / canvas.height);
    const along = (camera.middle[2] - camera.eye[2]) / ray[2];
    return { x: camera.eye[0] + along * ray[0], y: camera.eye[1] + along * ray[1] };
}

function pointerDown(event) {
    const at = toScene(event);
    find('view').setPointerCapture(event.pointerId);
    const solid = page.engine.grab(at.x, at.y);
    page.holding = true;
    page.orbit = !solid && page.picture.dim === 3 ? { x: event.clientX, y: event.clientY, ...page.renderer.turn } : null;
    if (page.orbit) page.engine.release();
    find('view').classList.add('holding');
    if (!page.running) drawFrame();
}

function pointerMove(event) {
    if (!page.holding) return;
    if (page.orbit) {
        page.renderer.turn.yaw = page.orbit.yaw - (event.clientX - page.orbit.x) / 200;
        const pitch = page.orbit.pitch + (event.clientY - page.orbit.y) / 200;
        page.renderer.turn.pitch = Math.max(-0.2, Math.min(1.3, pitch));
        if (!page.running) drawFrame();
        return;
    }
    const at = toScene(event);
    page.engine.pull(at.x, at.y);
}

function pointerUp() {
    page.holding = false;
    page.orbit = null;
    page.engine.release();
    find('view').classList.remove('holding');
}

// ---- keyboard
function grabNext() {
    const { bodies } = page.report;
    if (!bodies.length) return;
    page.grabbed = (page.grabbed + 1) % bodies.length;
    page.hand = { ...bodies[page.grabbed] };
    page.engine.grab(page.hand.x, page.hand.y);
    find('view').setAttribute('aria-label', `Body ${page.grabbed + 1} of ${bodies.length} grabbed`);
}

function moveHand(dx, dy) {
    const { report, hand } = page;
    if (page.grabbed < 0 || !hand) return false;
    const way = 0.04 * (report.hiX - report.loX);
    hand.x += way * dx;
    hand.y += way * dy;
    page.engine.pull(hand.x, hand.y);
    return true;
}

function letGo() {
    page.grabbed = -1;
    page.engine.release();
}

const KEYS = {
    ' ': () => setRunning(!page.running),
    '.': stepOnce,
    r: resetScene,
    s: saveState,
    l: loadState,
    n: () => nextScene(1),
    p: () => nextScene(-1),
    g: grabNext,
    Escape: letGo,
    ArrowLeft: () => moveHand(-1, 0),
    ArrowRight: () => moveHand(1, 0),
    ArrowUp: () => moveHand(0, 1),
    ArrowDown: () => moveHand(0, -1),
};

// Controls keep their own keys; letters work everywhere else.
function keyDown(event) {
    const own = event.target.closest('input, select, dialog, button');
    const isArrow = event.key.startsWith('Arrow');
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (own && (own.tagName !== 'BUTTON' || event.key === ' ' || event.key === 'Enter')) return;
    const act = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act) return;
    if (act() !== false || !isArrow) event.preventDefault();
}

function resetScene() {
    page.engine.reset();
    forgetPast();
    refresh();
}

function listen() {
    const canvas = find('view');
    canvas.addEventListener('pointerdown', pointerDown);
    canvas.addEventListener('pointermove', pointerMove);
    canvas.addEventListener('pointerup', pointerUp);
    canvas.addEventListener('pointercancel', pointerUp);
    window.addEventListener('keydown', keyDown);
    window.addEventListener('resize', () => {
        showCurrentScene();
        if (!page.running) refresh();
    });
    window.addEventListener('hashchange', loadFromAddress);
    find('pause').onclick = () => setRunning(!page.running);
    find('step').onclick = stepOnce;
    find('reset').onclick = resetScene;
    find('save').onclick = saveState;
    find('restore').onclick = loadState;
    find('share').onclick = share;
    find('help').onclick = () => find('keys').showModal();
    find('to-file').onclick = saveToFile;
    find('from-file').onclick = () => find('file').click();
    find('file').onchange = (event) => event.target.files[0] && openFile(event.target.files[0]);
}

// ---- for scripts
// A script that steps takes the time into its own hands: the page stops running by itself.
function scriptStep(count = 1) {
    setRunning(false);
    for (let done = 0; done < count; done += 10) {
        countSteps(Math.min(10, count - done));
        page.plots.add(page.engine.report());
    }
    refresh();
    return page.report.broken ? page.engine.resultText() : 'ok';
}

function scriptReport() {
    const report = page.engine.report();
    return {
        scene: page.engine.scene,
        steps: report.steps,
        time: report.time,
        ms_per_step: page.spent,
        volume_error: report.volumeError,
        kinetic: report.kinetic,
        potential: report.potential,
        momentum: [report.momentumX, report.momentumY],
        iterations: report.iterations,
        stable: !report.broken,
        bodies: report.bodies.map(({ x, y, density, vx, vy, submerged }) => ({ x, y, density, vx, vy, submerged })),
    };
}

// Half a second of moving and as long of holding, in simulated time (half of that where the page
// shows slow motion); then it lets go. True where something solid was grabbed.
function scriptDrag(x, y, dx, dy) {
    const seconds = TEXTS[page.engine.scene].pace < 1 ? 0.25 : 0.5;
    const steps = Math.max(20, Math.round(seconds / page.engine.dt()));
    const solid = page.engine.grab(x, y);
    for (let i = 1; i <= 2 * steps; i++) {
        const share = Math.min(i / steps, 1);
        page.engine.pull(x + share * dx, y + share * dy);
        page.engine.step(1);
    }
    page.engine.release();
    refresh();
    return solid;
}

function openToScripts() {
    window.fsi = {
        scenes: [...page.engine.scenes],
        load: async (name) => loadScene(name),
        step: scriptStep,
        report: scriptReport,
        drag: scriptDrag,
        set: (key, value) => {
            const answer = changeSetting(key, Number(value));
            showSettings();
            return answer > 0;
        },
        settings: () => page.engine.settings(),
        reset: resetScene,
        run: () => setRunning(true),
        pause: () => setRunning(false),
        save: () => page.engine.save(),
        restore: (block) => {
            page.engine.restore(block);
            refresh();
        },
        hash: () => page.engine.hash(),
        renderer: page.renderer.constructor.name,
        threads: (most) => page.engine.useThreads(most),
        helped: () => page.engine.helped(),
    };
}

// ---- start
function openRenderer(canvas) {
    if (asked.get('renderer') !== '2d') {
        try {
            return new Renderer(canvas);
        } catch (error) {
            console.info('Canvas 2D instead of WebGL2:', error.message);
        }
    }
    try {
        return new FlatRenderer(canvas);
    } catch {
        // A canvas that has tried WebGL gives no other context: a fresh one does.
        const fresh = canvas.cloneNode();
        canvas.replaceWith(fresh);
        return new FlatRenderer(fresh);
    }
}

async function start() {
    startTheme();
    if (typeof WebAssembly !== 'object') {
        say('This browser has no WebAssembly: the simulation cannot run here.');
        return;
    }
    try {
        page.engine = await openEngine('fsi.wasm', asked.has('threads') ? Number(asked.get('threads')) : undefined);
    } catch (error) {
        const local = location.protocol === 'file:' ? ' Open the page through a file server.' : '';
        say(`The simulation did not load (it needs WebAssembly with SIMD).${local} ${error.message}`);
        return;
    }
    page.renderer = openRenderer(find('view'));
    page.plots = new Plots(find);
    listScenes();
    listen();
    loadFromAddress();
    setRunning(page.running);
    openToScripts();
    document.documentElement.dataset.ready = String(Math.round(performance.now()));
    if (calm) say('Paused, since this system asks for less motion: Run starts it.');
    requestAnimationFrame((now) => {
        page.last = now;
        frame(now);
    });
}

start();
