// render.js: draws a picture of the engine with WebGL2. Flat scenes: the field as one textured
// quad, solids by their edges (filled with the stencil), particles as disks. Scenes in space: meshes
// and balls into a texture with their depth, then smoke by rays up to that depth.

import { THEMES, pieceColour, fitBox, lookAtBox } from './looks.js';

const QUAD = `#version 300 es
in vec2 corner;
out vec2 at;
void main() { at = 0.5 + 0.5 * corner; gl_Position = vec4(corner, 0, 1); }`;

// Cubic B-spline from four bilinear samples: the surface is smooth however coarse the cells are.
const SMOOTH = `
vec4 smoothly(sampler2D field, vec2 at, vec2 cells) {
    vec2 x = at * cells - 0.5;
    vec2 f = fract(x);
    vec2 base = floor(x);
    vec2 w0 = (1.0 - f) * (1.0 - f) * (1.0 - f) / 6.0;
    vec2 w1 = (4.0 - 6.0 * f * f + 3.0 * f * f * f) / 6.0;
    vec2 w3 = f * f * f / 6.0;
    vec2 w2 = 1.0 - w0 - w1 - w3;
    vec2 lower = (base - 0.5 + w1 / (w0 + w1)) / cells;
    vec2 upper = (base + 1.5 + w3 / (w2 + w3)) / cells;
    vec2 share = (w2 + w3);
    vec4 below = mix(texture(field, vec2(lower.x, lower.y)), texture(field, vec2(upper.x, lower.y)), share.x);
    vec4 above = mix(texture(field, vec2(lower.x, upper.y)), texture(field, vec2(upper.x, upper.y)), share.x);
    return mix(below, above, share.y);
}`;

const FIELD = `#version 300 es
precision highp float;
in vec2 at;
out vec4 colour;
uniform sampler2D phi, shade;
uniform vec2 pixels, cells;
uniform vec4 box;          // left, bottom, width, height in pixels
uniform float scale;       // pixels per metre
uniform int mode;          // 0 liquid, 1 smoke, 2 speed, 3 pressure
uniform vec3 back, shallow, deep, foam, smoke, air;
uniform float most;        // value of the brightest colour
${SMOOTH}
// Blue, green, yellow: told apart by everybody, and darker is less.
vec3 scaleColour(float t) {
    t = clamp(t, 0.0, 1.0);
    vec3 a = vec3(0.23, 0.16, 0.42), b = vec3(0.16, 0.47, 0.56), c = vec3(0.37, 0.75, 0.42), d = vec3(0.99, 0.91, 0.32);
    return t < 0.34 ? mix(a, b, t / 0.34) : t < 0.67 ? mix(b, c, (t - 0.34) / 0.33) : mix(c, d, (t - 0.67) / 0.33);
}
vec3 liquid(vec2 place, vec3 behind) {
    float away = smoothly(phi, place, cells).r * scale;
    float speed = smoothly(shade, place, cells).r;
    float share = smoothstep(0.8, -0.8, away);
    float below = max(-away, 0.0);
    vec3 water = mix(shallow, deep, 1.0 - exp(-below / (0.38 * box.w)));
    water = mix(water, deep, 0.35 * (1.0 - place.y));
    water = mix(water, foam, 0.5 * smoothstep(0.7, 3.2, speed));
    water = mix(water, foam, 0.75 * smoothstep(3.2, 1.2, below));
    return mix(behind, water, share);
}
// Below zero there is no fluid.
vec3 pressure(float value, vec3 behind) {
    return value < 0.0 ? behind : mix(shallow, deep, clamp(0.1 + 0.9 * value / most, 0.0, 1.0));
}
void main() {
    vec2 place = (at * pixels - box.xy) / box.zw;
    bool inside = all(greaterThan(place, vec2(0))) && all(lessThan(place, vec2(1)));
    vec3 behind = mix(back, air, inside ? 1.0 : 0.0);
    vec3 c = behind;
    if (inside && mode == 0) c = liquid(place, behind);
    if (inside && mode == 1) c = mix(behind, smoke, clamp(smoothly(shade, place, cells).r / most, 0.0, 1.0));
    if (inside && mode == 2) c = scaleColour(smoothly(shade, place, cells).r / most);
    if (inside && mode == 3) c = pressure(texture(shade, place).r, behind);
    colour = vec4(c, 1);
}`;

const FLAT = `#version 300 es
in vec2 place;
uniform vec4 view;         // scale and offset to -1 .. 1
void main() { gl_Position = vec4(place * view.xy + view.zw, 0, 1); }`;

const PLAIN = `#version 300 es
precision mediump float;
uniform vec4 ink;
out vec4 colour;
void main() { colour = ink; }`;

const DOTS = `#version 300 es
in vec4 place;
uniform vec4 view;
uniform float size;
out float tone;
void main() { tone = place.w; gl_Position = vec4(place.xy * view.xy + view.zw, 0, 1); gl_PointSize = size; }`;

const DOT = `#version 300 es
precision highp float;
in float tone;
uniform vec3 shallow, deep, foam;
uniform float most, size;
out vec4 colour;
void main() {
    float away = length(gl_PointCoord - 0.5) * 2.0;
    float share = clamp((1.0 - away) * size * 0.5, 0.0, 1.0);
    float t = clamp(tone / most, 0.0, 1.0);
    vec3 c = t < 0.5 ? mix(deep, shallow, t * 2.0) : mix(shallow, foam, t * 2.0 - 1.0);
    colour = vec4(c, share);
}`;

const SPACE = `#version 300 es
in vec3 place, normal;
uniform mat4 camera;
out vec3 outward, where;
void main() { outward = normal; where = place; gl_Position = camera * vec4(place, 1); }`;

const LIT = `#version 300 es
precision highp float;
in vec3 outward, where;
uniform vec3 ink, eye;
uniform float clear;
out vec4 colour;
void main() {
    vec3 n = normalize(outward);
    vec3 toEye = normalize(eye - where);
    if (dot(n, toEye) < 0.0) n = -n;
    float day = 0.55 + 0.35 * n.y + 0.3 * max(dot(n, normalize(vec3(0.5, 0.8, 0.6))), 0.0);
    float shine = pow(max(dot(reflect(-toEye, n), normalize(vec3(0.5, 0.8, 0.6))), 0.0), 30.0);
    float rim = pow(1.0 - max(dot(n, toEye), 0.0), 2.5);
    colour = vec4(ink * day + 0.25 * shine + 0.15 * rim, mix(1.0, 0.35 + 0.6 * rim, clear));
}`;

const BALLS = `#version 300 es
in vec4 place;
uniform mat4 camera;
uniform float size;        // pixels of a ball one unit away
out float tone;
void main() {
    tone = place.w;
    gl_Position = camera * vec4(place.xyz, 1);
    gl_PointSize = max(size / gl_Position.w, 1.5);
}`;

const BALL = `#version 300 es
precision mediump float;
in float tone;
uniform vec3 shallow, deep, foam;
uniform float most;
out vec4 colour;
void main() {
    vec2 p = gl_PointCoord * 2.0 - 1.0;
    float r = dot(p, p);
    if (r > 1.0) discard;
    vec3 n = vec3(p.x, -p.y, sqrt(1.0 - r));
    float t = clamp(tone / most, 0.0, 1.0);
    vec3 c = t < 0.5 ? mix(deep, shallow, t * 2.0) : mix(shallow, foam, t * 2.0 - 1.0);
    colour = vec4(c * (0.55 + 0.5 * max(dot(n, vec3(0.4, 0.7, 0.6)), 0.0)), 1);
}`;

const SMOKE = `#version 300 es
precision highp float;
precision highp sampler3D;
in vec2 at;
out vec4 colour;
uniform sampler2D solid, depth;
uniform sampler3D field;
uniform vec3 eye, right, up, backward, lo, hi, smoke;
uniform vec2 lens;         // tangent of half the angle, aspect
uniform vec2 range;        // near and far
uniform int steps;         // 0: no smoke
void main() {
    vec3 behind = texture(solid, at).rgb;
    vec2 p = at * 2.0 - 1.0;
    vec3 ray = p.x * lens.x * lens.y * right + p.y * lens.x * up - backward;
    float z = texture(depth, at).r * 2.0 - 1.0;
    float end = 2.0 * range.x * range.y / (range.y + range.x - z * (range.y - range.x));
    vec3 one = (lo - eye) / ray, two = (hi - eye) / ray;
    vec3 first = min(one, two), last = max(one, two);
    float from = max(max(first.x, first.y), max(first.z, 0.0));
    float to = min(min(last.x, last.y), min(last.z, end));
    float light = 1.0;
    vec3 sum = vec3(0);
    float jitter = fract(sin(dot(gl_FragCoord.xy, vec2(12.9898, 78.233))) * 43758.5453);
    if (steps > 0 && to > from) {
        float piece = (to - from) / float(steps);
        for (int i = 0; i < steps; i++) {
            vec3 x = (eye + ray * (from + (float(i) + jitter) * piece) - lo) / (hi - lo);
            float density = texture(field, x).r;
            float shadow = texture(field, x + vec3(0.03, 0.06, 0.03)).r;
            float taken = 1.0 - exp(-14.0 * density * piece);
            sum += light * taken * smoke * (1.0 - 0.55 * shadow);
            light *= 1.0 - taken;
        }
    }
    colour = vec4(sum + light * behind, 1);
}`;

function makeProgram(gl, vertex, fragment) {
    const program = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
        const shader = gl.createShader(kind);
        gl.shaderSource(shader, text);
        gl.compileShader(shader);
        if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS))
            throw new Error(gl.getShaderInfoLog(shader));
        gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
    const uniforms = {};
    const count = gl.getProgramParameter(program, gl.ACTIVE_UNIFORMS);
    for (let i = 0; i < count; i++) {
        const { name } = gl.getActiveUniform(program, i);
        uniforms[name] = gl.getUniformLocation(program, name);
    }
    return { program, uniforms };
}

const unit = (colour) => colour.map((c) => c / 255);

export class Renderer {
    constructor(canvas) {
        this.canvas = canvas;
        const options = { antialias: true, stencil: true, alpha: false };
        const gl = canvas.getContext('webgl2', options);
        if (!gl) throw new Error('no WebGL2');
        this.gl = gl;
        this.turn = { yaw: 0.5, pitch: 0.25 };
        this.programs = {
            field: makeProgram(gl, QUAD, FIELD),
            plain: makeProgram(gl, FLAT, PLAIN),
            dots: makeProgram(gl, DOTS, DOT),
            lit: makeProgram(gl, SPACE, LIT),
            balls: makeProgram(gl, BALLS, BALL),
            smoke: makeProgram(gl, QUAD, SMOKE),
        };
        this.corners = this.buffer(new Float32Array([-1, -1, 1, -1, -1, 1, 1, 1]));
        this.stream = gl.createBuffer();
        this.elements = gl.createBuffer();
        this.textures = { phi: gl.createTexture(), shade: gl.createTexture(), volume: gl.createTexture() };
        this.target = null;
    }

    buffer(data) {
        const { gl } = this;
        const buffer = gl.createBuffer();
        gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
        gl.bufferData(gl.ARRAY_BUFFER, data, gl.STATIC_DRAW);
        return buffer;
    }

    // Draws one picture. look: mode of the field, largest value, size of a particle in m.
    draw(picture, box, look, themeName) {
        const { gl, canvas } = this;
        this.theme = THEMES[themeName];
        gl.viewport(0, 0, canvas.width, canvas.height);
        if (picture.dim === 3) this.drawSpace(picture, box, look);
        else this.drawFlat(picture, box, look);
    }

    use(name, values) {
        const { gl } = this;
        const { program, uniforms } = this.programs[name];
        gl.useProgram(program);
        for (const [key, value] of Object.entries(values)) {
            const place = uniforms[key];
            if (!place) continue;
            if (key === 'camera') gl.uniformMatrix4fv(place, false, value);
            else if (['mode', 'phi', 'shade', 'solid', 'depth', 'field', 'steps'].includes(key)) gl.uniform1i(place, value);
            else if (typeof value === 'number') gl.uniform1f(place, value);
            else gl[`uniform${value.length}fv`](place, value);
        }
        return program;
    }

    attribute(program, name, size, stride, offset) {
        const { gl } = this;
        const place = gl.getAttribLocation(program, name);
        if (place < 0) return;
        gl.enableVertexAttribArray(place);
        gl.vertexAttribPointer(place, size, gl.FLOAT, false, 4 * stride, 4 * offset);
    }

    quad(program) {
        const { gl } = this;
        gl.bindBuffer(gl.ARRAY_BUFFER, this.corners);
        this.attribute(program, 'corner', 2, 2, 0);
        gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
    }

    // Half floats are filtered everywhere and exact enough for colours.
    upload(texture, slot, data, nx, ny) {
        const { gl } = this;
        gl.activeTexture(gl.TEXTURE0 + slot);
        gl.bindTexture(gl.TEXTURE_2D, texture);
        for (const [key, value] of [
            [gl.TEXTURE_MIN_FILTER, gl.LINEAR],
            [gl.TEXTURE_MAG_FILTER, gl.LINEAR],
            [gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE],
            [gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE],
        ]) gl.texParameteri(gl.TEXTURE_2D, key, value);
        gl.pixelStorei(gl.UNPACK_ALIGNMENT, 4);
        const from = data || new Float32Array([0]);
        const [wide, high] = data ? [nx, ny] : [1, 1];
        gl.texImage2D(gl.TEXTURE_2D, 0, gl.R16F, wide, high, 0, gl.RED, gl.FLOAT, from);
    }

    // ---- flat scenes
    drawFlat(picture, box, look) {
        const { gl, canvas, theme } = this;
        this.fit = fitBox(box, canvas.width, canvas.height);
        gl.disable(gl.DEPTH_TEST);
        gl.disable(gl.STENCIL_TEST);
        gl.disable(gl.BLEND);
        this.drawField(picture, box, look);
        gl.enable(gl.BLEND);
        gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
        if (picture.points.length) this.drawDots(picture.points, look);
        this.drawTank(box, look);
        for (const piece of picture.pieces) this.drawPiece(piece, picture.edges);
    }

    drawField(picture, box, look) {
        const { canvas, fit, theme } = this;
        this.upload(this.textures.phi, 0, picture.phi, picture.nx, picture.ny);
        this.upload(this.textures.shade, 1, picture.shade, picture.nx, picture.ny);
        const mode = picture.phi ? 0 : picture.shade ? look.mode : -1;
        const program = this.use('field', {
            phi: 0,
            shade: 1,
            mode,
            most: look.most,
            pixels: [canvas.width, canvas.height],
            cells: [picture.nx || 1, picture.ny || 1],
            box: [
                fit.left + fit.scale * box.loX,
                fit.bottom + fit.scale * box.loY,
                fit.scale * (box.hiX - box.loX),
                fit.scale * (box.hiY - box.loY),
            ],
            scale: fit.scale,
            back: unit(theme.back),
            shallow: unit(theme.shallow),
            deep: unit(theme.deep),
            foam: unit(theme.foam),
            smoke: unit(theme.smoke),
            air: unit(theme.air),
        });
        this.quad(program);
    }

    // Scene metres to -1 .. 1.
    flatView() {
        const { canvas, fit } = this;
        const across = (2 * fit.scale) / canvas.width;
        const up = (2 * fit.scale) / canvas.height;
        return [across, up, (2 * fit.left) / canvas.width - 1, (2 * fit.bottom) / canvas.height - 1];
    }

    fill(vertices, ink, mode) {
        const { gl } = this;
        const program = this.use('plain', { view: this.flatView(), ink });
        gl.bindBuffer(gl.ARRAY_BUFFER, this.stream);
        gl.bufferData(gl.ARRAY_BUFFER, new Float32Array(vertices), gl.STREAM_DRAW);
        this.attribute(program, 'place', 2, 2, 0);
        gl.drawArrays(mode, 0, vertices.length / 2);
    }

    drawDots(points, look) {
        const { gl, theme, fit } = this;
        const size = Math.max(look.size * fit.scale, 2);
        const program = this.use('dots', {
            view: this.flatView(),
            size,
            most: look.most,
            shallow: unit(look.bright ? theme.foam : theme.shallow),
            deep: unit(look.bright ? theme.foam : theme.deep),
            foam: unit(theme.foam),
        });
        gl.bindBuffer(gl.ARRAY_BUFFER, this.stream);
        gl.bufferData(gl.ARRAY_BUFFER, points, gl.STREAM_DRAW);
        this.attribute(program, 'place', 4, 4, 0);
        gl.drawArrays(gl.POINTS, 0, points.length / 4);
    }

    drawTank(box, look) {
        const { theme } = this;
        const edges = [
            [box.loX, box.hiY, box.loX, box.loY],
            [box.loX, box.loY, box.hiX, box.loY],
            [box.hiX, box.loY, box.hiX, box.hiY],
        ];
        if (look.lid) edges.push([box.loX, box.hiY, box.hiX, box.hiY]);
        this.strokes(edges.flat(), [...unit(theme.edge), 1], 4);
    }

    // Every edge as a bar of so many pixels with round-looking ends.
    strokes(edges, ink, width) {
        const { gl, fit } = this;
        const half = ((window.devicePixelRatio || 1) * width) / 2 / fit.scale;
        const out = [];
        for (let i = 0; i < edges.length; i += 4) {
            const [ax, ay, bx, by] = [edges[i], edges[i + 1], edges[i + 2], edges[i + 3]];
            const length = Math.hypot(bx - ax, by - ay) || 1;
            const [tx, ty] = [((bx - ax) / length) * half, ((by - ay) / length) * half];
            const a = [ax - tx * 0.5, ay - ty * 0.5];
            const b = [bx + tx * 0.5, by + ty * 0.5];
            const corners = [[a[0] - ty, a[1] + tx], [a[0] + ty, a[1] - tx], [b[0] - ty, b[1] + tx], [b[0] + ty, b[1] - tx]];
            for (const k of [0, 1, 2, 2, 1, 3]) out.push(...corners[k]);
        }
        this.fill(out, ink, gl.TRIANGLES);
    }

    drawPiece(piece, allEdges) {
        const { theme } = this;
        const edges = allEdges.subarray(4 * piece.first, 4 * (piece.first + piece.count));
        if (!edges.length) return;
        const colour = unit(pieceColour(piece));
        if (!piece.closed) {
            this.strokes(edges, [...unit(theme.outline), 1], 7);
            this.strokes(edges, [...colour, 1], 4.5);
            return;
        }
        this.fillLoop(edges, [...colour, 1]);
        const outline = piece.held ? [1, 1, 1, 1] : [...unit(theme.outline), 0.8];
        this.strokes(edges, outline, piece.held ? 4 : 2);
    }

    // Even-odd: a triangle from one corner to every edge turns the stencil over.
    fillLoop(edges, ink) {
        const { gl } = this;
        const fan = [];
        const lo = [Infinity, Infinity];
        const hi = [-Infinity, -Infinity];
        for (let i = 0; i < edges.length; i += 4) {
            fan.push(edges[0], edges[1], edges[i], edges[i + 1], edges[i + 2], edges[i + 3]);
            for (let k = 0; k < 2; k++) {
                lo[k] = Math.min(lo[k], edges[i + k]);
                hi[k] = Math.max(hi[k], edges[i + k]);
            }
        }
        gl.enable(gl.STENCIL_TEST);
        gl.clearStencil(0);
        gl.clear(gl.STENCIL_BUFFER_BIT);
        gl.colorMask(false, false, false, false);
        gl.stencilFunc(gl.ALWAYS, 0, 255);
        gl.stencilOp(gl.KEEP, gl.KEEP, gl.INVERT);
        this.fill(fan, ink, gl.TRIANGLES);
        gl.colorMask(true, true, true, true);
        gl.stencilFunc(gl.NOTEQUAL, 0, 255);
        this.fill([lo[0], lo[1], hi[0], lo[1], lo[0], hi[1], hi[0], hi[1]], ink, gl.TRIANGLE_STRIP);
        gl.disable(gl.STENCIL_TEST);
    }

    // ---- scenes in space
    drawSpace(picture, box, look) {
        const { gl, canvas, theme } = this;
        this.camera = lookAtBox(box, this.turn, canvas.width / canvas.height);
        this.aim();
        gl.disable(gl.BLEND);
        gl.enable(gl.DEPTH_TEST);
        gl.clearColor(...unit(look.night ? [10, 34, 56] : theme.air), 1);
        gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
        this.drawEdges(box, look);
        if (picture.points.length) this.drawBalls(picture.points, look);
        this.drawMeshes(picture, look);
        gl.disable(gl.BLEND);
        gl.disable(gl.DEPTH_TEST);
        gl.bindFramebuffer(gl.FRAMEBUFFER, null);
        this.drawSmoke(picture, box);
    }

    // A colour and a depth texture as large as the canvas.
    aim() {
        const { gl, canvas } = this;
        const old = this.target;
        if (!old || old.width !== canvas.width || old.height !== canvas.height) {
            if (old) [old.solid, old.depth].forEach((texture) => gl.deleteTexture(texture));
            this.target = {
                frame: old ? old.frame : gl.createFramebuffer(),
                width: canvas.width,
                height: canvas.height,
                solid: this.plainTexture(gl.RGBA8, gl.RGBA, gl.UNSIGNED_BYTE),
                depth: this.plainTexture(gl.DEPTH_COMPONENT24, gl.DEPTH_COMPONENT, gl.UNSIGNED_INT),
            };
        }
        const { frame, solid, depth } = this.target;
        gl.bindFramebuffer(gl.FRAMEBUFFER, frame);
        gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, solid, 0);
        gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.DEPTH_ATTACHMENT, gl.TEXTURE_2D, depth, 0);
    }

    plainTexture(inside, format, type) {
        const { gl, canvas } = this;
        const texture = gl.createTexture();
        gl.bindTexture(gl.TEXTURE_2D, texture);
        gl.texImage2D(gl.TEXTURE_2D, 0, inside, canvas.width, canvas.height, 0, format, type, null);
        gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
        gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
        return texture;
    }

    // Vertices as x y z and a normal; drawn by numbers when there are any.
    mesh(vertices, ink, clear, mode, indices) {
        const { gl, camera } = this;
        const program = this.use('lit', { camera: camera.matrix, ink, clear, eye: camera.eye });
        if (vertices) {
            gl.bindBuffer(gl.ARRAY_BUFFER, this.stream);
            gl.bufferData(gl.ARRAY_BUFFER, vertices, gl.STREAM_DRAW);
        }
        this.attribute(program, 'place', 3, 6, 0);
        this.attribute(program, 'normal', 3, 6, 3);
        if (!indices) {
            gl.drawArrays(mode, 0, vertices.length / 6);
            return;
        }
        gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.elements);
        gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, indices, gl.STREAM_DRAW);
        gl.drawElements(mode, indices.length, gl.UNSIGNED_INT, 0);
    }

    // The floor and the twelve edges of the box.
    drawEdges(box, look) {
        const { gl, theme } = this;
        const [x, y, z] = [[box.loX, box.hiX], [box.loY, box.hiY], [0, box.hiZ]];
        const corner = (i) => [x[i & 1], y[(i >> 1) & 1], z[(i >> 2) & 1], 0, 1, 0];
        const lines = [];
        for (let i = 0; i < 8; i++)
            for (const bit of [1, 2, 4]) if (!(i & bit)) lines.push(...corner(i), ...corner(i | bit));
        const floor = [0, 1, 4, 5].flatMap((i) => corner(i).map((c, k) => (k === 1 ? c - 0.002 : c)));
        this.mesh(new Float32Array(floor), unit(look.night ? [30, 62, 84] : theme.back), 0, gl.TRIANGLE_STRIP);
        this.mesh(new Float32Array(lines), unit(theme.edge), 0, gl.LINES);
    }

    drawBalls(points, look) {
        const { gl, camera, canvas, theme } = this;
        const perUnit = canvas.height / (2 * Math.tan(camera.angle / 2));
        const program = this.use('balls', {
            camera: camera.matrix,
            size: look.size * perUnit,
            most: look.most,
            shallow: unit(look.night ? [190, 230, 200] : theme.shallow),
            deep: unit(look.night ? [150, 200, 190] : theme.deep),
            foam: unit(theme.foam),
        });
        gl.bindBuffer(gl.ARRAY_BUFFER, this.stream);
        gl.bufferData(gl.ARRAY_BUFFER, points, gl.STREAM_DRAW);
        this.attribute(program, 'place', 4, 4, 0);
        gl.drawArrays(gl.POINTS, 0, points.length / 4);
    }

    drawMeshes(picture, look) {
        const { gl } = this;
        if (!picture.indices.length) return;
        gl.enable(gl.BLEND);
        gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
        let vertices = picture.vertices;
        for (const piece of picture.pieces) {
            const indices = picture.indices.subarray(piece.first, piece.first + piece.count);
            const clear = piece.kind === look.clear ? 1 : 0;
            gl.depthMask(!clear);
            this.mesh(vertices, unit(pieceColour(piece)), clear, gl.TRIANGLES, indices);
            vertices = null;
        }
        gl.depthMask(true);
    }

    drawSmoke(picture, box) {
        const { gl, camera, theme, target } = this;
        const smoky = picture.shade && picture.nz > 1;
        gl.activeTexture(gl.TEXTURE0);
        gl.bindTexture(gl.TEXTURE_2D, target.solid);
        gl.activeTexture(gl.TEXTURE1);
        gl.bindTexture(gl.TEXTURE_2D, target.depth);
        gl.activeTexture(gl.TEXTURE2);
        gl.bindTexture(gl.TEXTURE_3D, this.textures.volume);
        this.uploadVolume(smoky ? picture : { nx: 1, ny: 1, nz: 1, shade: [0] });
        const program = this.use('smoke', {
            solid: 0,
            depth: 1,
            field: 2,
            steps: smoky ? 36 : 0,
            eye: camera.eye,
            right: camera.right,
            up: camera.up,
            backward: camera.back,
            lo: [box.loX, box.loY, 0],
            hi: [box.hiX, box.hiY, box.hiZ],
            smoke: unit(theme.smoke),
            lens: [Math.tan(camera.angle / 2), camera.aspect],
            range: [0.05 * camera.distance, 4 * camera.distance],
        });
        this.quad(program);
    }

    // Bytes are filtered on every machine.
    uploadVolume({ nx, ny, nz, shade }) {
        const { gl } = this;
        const bytes = new Uint8Array(nx * ny * nz);
        for (let i = 0; i < bytes.length; i++) bytes[i] = Math.max(0, Math.min(255, 255 * shade[i]));
        gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
        gl.texImage3D(gl.TEXTURE_3D, 0, gl.R8, nx, ny, nz, 0, gl.RED, gl.UNSIGNED_BYTE, bytes);
        for (const key of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER])
            gl.texParameteri(gl.TEXTURE_3D, key, gl.LINEAR);
        for (const key of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T, gl.TEXTURE_WRAP_R])
            gl.texParameteri(gl.TEXTURE_3D, key, gl.CLAMP_TO_EDGE);
    }
}
