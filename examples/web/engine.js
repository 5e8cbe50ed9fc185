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

// Places in the table of addresses that page_picture fills.
const PICTURE = [
    'dim', 'nx', 'ny', 'nz', 'phi', 'shade', 'edge', 'edges', 'piece', 'pieces', 'point', 'points',
    'vertex', 'vertices', 'index', 'indices',
];
const PER_PIECE = 6;

// What the C library asks of its host: to be told when its memory grows.
const HOST = { env: { emscripten_notify_memory_growth() {} } };

async function compile(url) {
    const answer = await fetch(url);
    if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
    if (WebAssembly.instantiateStreaming && answer.headers.get('content-type') === 'application/wasm')
        return WebAssembly.instantiateStreaming(answer, HOST);
    return WebAssembly.instantiate(await answer.arrayBuffer(), HOST);
}

export async function openEngine(url) {
    const { instance } = await compile(url);
    if (instance.exports._initialize) instance.exports._initialize();
    return new Engine(instance.exports);
}

class Engine {
    constructor(exports) {
        this.wasm = exports;
        this.scenes = [];
        for (let i = 0; i < exports.page_scenes(); i++)
            this.scenes.push(this.text(exports.page_scene_name(i)));
        this.scene = '';
    }

    // The memory may grow in any call, so views are made when they are needed.
    text(address) {
        const bytes = new Uint8Array(this.wasm.memory.buffer, address);
        return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
    }

    floats(address, count) {
        return new Float32Array(this.wasm.memory.buffer, address, count);
    }

    // Runs work(address) with a copy of the bytes inside the wasm's memory.
    withBytes(bytes, work) {
        const address = this.wasm.malloc(bytes.length);
        new Uint8Array(this.wasm.memory.buffer, address, bytes.length).set(bytes);
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
        const count = REPORT.length + PER_BODY * 32;
        const numbers = new Float64Array(this.wasm.memory.buffer, address, count);
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
        const numbers = new Int32Array(this.wasm.memory.buffer, address, PICTURE.length);
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
            indices: new Uint32Array(this.wasm.memory.buffer, table.index, table.indices),
        };
    }

    // The whole state as one block of bytes.
    save() {
        const size = this.wasm.page_state_size();
        const address = this.wasm.malloc(size);
        const result = this.wasm.page_save(address);
        const block = new Uint8Array(this.wasm.memory.buffer, address, size).slice();
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
