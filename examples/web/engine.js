// engine.js: fsi as wasm, and its flat functions as one object. With fsi.wasm beside it this file is
// all that a page of one's own needs:
//
//     import { openEngine } from './engine.js';
//     const engine = await openEngine('fsi.wasm');
//     engine.load('pool');
//     engine.step(1);
//     const picture = engine.picture();   // phi, edges, points ... as typed arrays

// Places in the table of doubles that page_report fills, in the order of page.c.
const REPORT = [
    'steps', 'time', 'kinetic', 'potential', 'momentumX', 'momentumY', 'volume', 'volumeError',
    'iterations', 'residual', 'broken', 'bodyCount', 'loX', 'loY', 'hiX', 'hiY', 'hiZ',
];
const PER_BODY = 6;
const MOST_BODIES = 64;

// Places in the table of addresses that page_picture fills.
const PICTURE = [
    'dim', 'nx', 'ny', 'nz', 'phi', 'shade', 'edge', 'edges', 'piece', 'pieces', 'point', 'points',
    'vertex', 'vertices', 'index', 'indices',
];
const PER_PIECE = 6;

// ---- memory and threads
// The wasm wants its memory from outside, in pages of 64 kB, and says that it is shared. A page may
// share memory only where it is served with the headers COOP and COEP; elsewhere one byte of the
// file is changed, and the same code runs in plain memory on one thread.
const PAGES = { initial: 256, maximum: 4096 };
const MEMORY_IMPORT = [6, ...new TextEncoder().encode('memory'), 2]; // a name of six letters, a memory
const SHARED = 3;
const PLAIN = 1;
const MOST_THREADS = 4;
const THREAD = 'fsi thread';

function host(memory) {
    return { env: { memory, emscripten_notify_memory_growth() {} } };
}

function forgetSharing(bytes) {
    const isImport = (at) => MEMORY_IMPORT.every((byte, i) => bytes[at + i] === byte);
    let at = 0;
    while (at < 4096 && !isImport(at)) at++;
    const flag = at + MEMORY_IMPORT.length;
    if (bytes[flag] !== SHARED) throw new Error('this wasm does not ask for shared memory');
    bytes[flag] = PLAIN;
}

async function compile(url, shared) {
    const answer = await fetch(url);
    if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
    const streams = WebAssembly.compileStreaming && answer.headers.get('content-type') === 'application/wasm';
    if (shared && streams) return WebAssembly.compileStreaming(answer);
    const bytes = new Uint8Array(await answer.arrayBuffer());
    if (!shared) forgetSharing(bytes);
    return WebAssembly.compile(bytes);
}

// This file is also the script of a worker: it gets module, memory and a stack, and then waits for
// parts of loops until the page is closed.
if (self.name === THREAD)
    self.onmessage = async ({ data }) => {
        const instance = await WebAssembly.instantiate(data.module, host(data.memory));
        instance.exports.stackRestore(data.stack);
        self.postMessage('ready');
        instance.exports.omp_work();
    };

// threads: how many at most; 1 wherever memory cannot be shared.
export async function openEngine(url, threads = Math.min(navigator.hardwareConcurrency || 1, MOST_THREADS)) {
    const shared = threads > 1 && self.crossOriginIsolated === true;
    const module = await compile(url, shared);
    const memory = new WebAssembly.Memory({ ...PAGES, shared });
    const instance = await WebAssembly.instantiate(module, host(memory));
    instance.exports._initialize();
    const engine = new Engine(instance.exports, memory);
    for (let i = 1; shared && i < threads; i++) engine.addThread(module);
    return engine;
}

class Engine {
    constructor(exports, memory) {
        this.wasm = exports;
        this.memory = memory;
        this.threads = 1;
        this.scenes = [];
        for (let i = 0; i < exports.page_scenes(); i++)
            this.scenes.push(this.text(exports.page_scene_name(i)));
        this.scene = '';
    }

    // A worker counts once it is there; nobody waits for it, and one that fails is not missed.
    addThread(module) {
        const stack = this.wasm.omp_stack();
        const worker = new Worker(import.meta.url, { type: 'module', name: THREAD });
        worker.onmessage = () => this.wasm.omp_threads(++this.threads);
        worker.postMessage({ module, memory: this.memory, stack });
    }

    // How many threads there are; with a number, not more than that compute from now on.
    useThreads(most = this.threads) {
        const used = Math.max(1, Math.min(most, this.threads));
        this.wasm.omp_threads(used);
        return used;
    }

    // Parts of loops that other threads than the page's own have done so far.
    helped() {
        return this.wasm.omp_helped();
    }

    // The memory may grow in any call, so views are made when they are needed.
    text(address) {
        const bytes = new Uint8Array(this.memory.buffer, address);
        return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
    }

    floats(address, count) {
        return new Float32Array(this.memory.buffer, address, count);
    }

    // Runs work(address) with a copy of the bytes inside the wasm's memory.
    withBytes(bytes, work) {
        const address = this.wasm.malloc(bytes.length);
        new Uint8Array(this.memory.buffer, address, bytes.length).set(bytes);
        const answer = work(address);
        this.wasm.free(address);
        return answer;
    }

    load(name) {
        const number = this.scenes.indexOf(name);
        if (number < 0) throw new Error(`no scene ${name}`);
        const result = this.wasm.page_load(number);
        this.scene = name;
        if (result < 0) throw new Error(`${name}: ${this.resultText()}`);
    }

    reset() {
        this.wasm.page_reset();
    }

    // The settings of the scene as they are.
    settings() {
        const list = [];
        for (let i = 0; i < this.wasm.page_settings(); i++)
            list.push({
                key: this.text(this.wasm.page_setting_key(i)),
                lo: this.wasm.page_setting_lo(i),
                hi: this.wasm.page_setting_hi(i),
                value: this.wasm.page_setting_value(i),
            });
        return list;
    }

    // 0: no such key; 1: it acts at once; 2: the scene was made again.
    set(key, value) {
        const bytes = new TextEncoder().encode(`${key}\0`);
        return this.withBytes(bytes, (address) => this.wasm.page_set(address, value));
    }

    step(count) {
        return this.wasm.page_step(count);
    }

    resultText() {
        return this.text(this.wasm.page_result_text());
    }

    dt() {
        return this.wasm.page_dt();
    }

    grab(x, y) {
        return this.wasm.page_grab(x, y) === 1;
    }

    pull(x, y) {
        this.wasm.page_pull(x, y);
    }

    release() {
        this.wasm.page_release();
    }

    report() {
        const address = this.wasm.page_report();
        const count = REPORT.length + PER_BODY * MOST_BODIES;
        const numbers = new Float64Array(this.memory.buffer, address, count);
        const report = {};
        REPORT.forEach((name, i) => (report[name] = numbers[i]));
        report.bodies = [];
        for (let i = 0; i < report.bodyCount; i++) {
            const [x, y, density, vx, vy, submerged] = numbers.subarray(REPORT.length + PER_BODY * i);
            report.bodies.push({ x, y, density, vx, vy, submerged });
        }
        return report;
    }

    // Typed arrays that are good until the next call.
    picture() {
        const address = this.wasm.page_picture();
        const numbers = new Int32Array(this.memory.buffer, address, PICTURE.length);
        const table = {};
        PICTURE.forEach((name, i) => (table[name] = numbers[i]));
        const cells = table.nx * table.ny * table.nz;
        return {
            dim: table.dim,
            nx: table.nx,
            ny: table.ny,
            nz: table.nz,
            phi: table.phi ? this.floats(table.phi, cells) : null,
            shade: table.shade ? this.floats(table.shade, cells) : null,
            edges: this.floats(table.edge, 4 * table.edges),
            pieces: readPieces(this.floats(table.piece, PER_PIECE * table.pieces)),
            points: this.floats(table.point, 4 * table.points),
            vertices: this.floats(table.vertex, 6 * table.vertices),
            indices: new Uint32Array(this.memory.buffer, table.index, table.indices),
        };
    }

    // The whole state as one block of bytes.
    save() {
        const size = this.wasm.page_state_size();
        const address = this.wasm.malloc(size);
        const result = this.wasm.page_save(address);
        const block = new Uint8Array(this.memory.buffer, address, size).slice();
        this.wasm.free(address);
        if (result < 0) throw new Error('the state could not be saved');
        return block;
    }

    restore(block) {
        const result = this.withBytes(block, (address) =>
            this.wasm.page_restore(address, block.length));
        if (result < 0) throw new Error('this state is from another scene or version');
    }

    hash() {
        return (this.wasm.page_hash() >>> 0).toString(16).padStart(8, '0');
    }
}

function readPieces(numbers) {
    const pieces = [];
    for (let i = 0; i < numbers.length; i += PER_PIECE) {
        const [kind, tone, first, count, closed, held] = numbers.subarray(i, i + PER_PIECE);
        pieces.push({ kind, tone, first, count, closed: closed > 0, held: held > 0 });
    }
    return pieces;
}
