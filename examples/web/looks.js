// looks.js: colours and projections that both renderers share. Bodies go from light yellow (cork)
// to nearly black (lead): the lightness alone tells them apart.

const TONES = [
    [-4, 255, 246, 205],
    [-1, 247, 206, 106],
    [-0.35, 230, 150, 40],
    [0, 200, 98, 48],
    [0.5, 128, 74, 88],
    [1.5, 70, 74, 104],
    [4, 34, 40, 58],
];

const KINDS = {
    1: [120, 132, 145],
    2: [204, 70, 100],
    3: [0, 158, 115],
    4: [235, 140, 165],
};

// Colour of a piece, 0 .. 255.
export function pieceColour(piece) {
    if (KINDS[piece.kind]) return KINDS[piece.kind];
    const upper = TONES.findIndex((stop) => stop[0] >= piece.tone);
    if (upper === 0) return TONES[0].slice(1);
    if (upper < 0) return TONES[TONES.length - 1].slice(1);
    const [a, b] = [TONES[upper - 1], TONES[upper]];
    const share = (piece.tone - a[0]) / (b[0] - a[0]);
    return [1, 2, 3].map((i) => a[i] + share * (b[i] - a[i]));
}

// What is behind, in and around the fluid.
export const THEMES = {
    light: {
        back: [234, 241, 247],
        shallow: [126, 196, 236],
        deep: [22, 84, 150],
        foam: [246, 251, 255],
        smoke: [70, 82, 100],
        air: [250, 252, 253],
        edge: [92, 106, 122],
        outline: [30, 36, 46],
    },
    dark: {
        back: [18, 28, 38],
        shallow: [58, 140, 196],
        deep: [12, 48, 98],
        foam: [205, 232, 250],
        smoke: [226, 230, 236],
        air: [14, 20, 28],
        edge: [126, 142, 158],
        outline: [6, 10, 16],
    },
};

// How the box of a scene fits into width x height pixels.
export function fitBox(box, width, height) {
    const wide = box.hiX - box.loX;
    const high = box.hiY - box.loY;
    const scale = 0.95 * Math.min(width / wide, height / high);
    return {
        scale,
        left: (width - scale * wide) / 2 - scale * box.loX,
        bottom: (height - scale * high) / 2 - scale * box.loY,
        height,
        toX(x) {
            return this.left + scale * x;
        },
        toY(y) {
            return height - this.bottom - scale * y;
        },
        fromX(pixel) {
            return (pixel - this.left) / scale;
        },
        fromY(pixel) {
            return (height - pixel - this.bottom) / scale;
        },
    };
}

// ---- a camera that looks at the middle of a box; matrices in columns, as WebGL wants them
function multiply(a, b) {
    const out = new Float32Array(16);
    for (let column = 0; column < 4; column++)
        for (let row = 0; row < 4; row++)
            for (let k = 0; k < 4; k++) out[4 * column + row] += a[4 * k + row] * b[4 * column + k];
    return out;
}

function perspective(angle, aspect, near, far) {
    const focal = 1 / Math.tan(angle / 2);
    const depth = near - far;
    return [
        focal / aspect, 0, 0, 0,
        0, focal, 0, 0,
        0, 0, (near + far) / depth, -1,
        0, 0, (2 * near * far) / depth, 0,
    ];
}

export function lookAtBox(box, turn, aspect) {
    const size = [box.hiX - box.loX, box.hiY - box.loY, box.hiZ];
    const middle = [box.loX + size[0] / 2, box.loY + size[1] / 2, size[2] / 2];
    const angle = 0.6;
    const reach = 0.5 * Math.max(size[1], Math.hypot(size[0], size[2]) / Math.min(aspect, 1.4));
    const distance = reach / Math.tan(angle / 2) + 0.35 * Math.hypot(...size);
    const [cy, sy] = [Math.cos(turn.yaw), Math.sin(turn.yaw)];
    const [cp, sp] = [Math.cos(turn.pitch), Math.sin(turn.pitch)];
    const right = [cy, 0, -sy];
    const back = [sy * cp, sp, cy * cp];
    const up = [-sy * sp, cp, -cy * sp];
    const eye = middle.map((m, i) => m + distance * back[i]);
    const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    const view = [
        right[0], up[0], back[0], 0,
        right[1], up[1], back[1], 0,
        right[2], up[2], back[2], 0,
        -dot(right, eye), -dot(up, eye), -dot(back, eye), 1,
    ];
    const lens = perspective(angle, aspect, 0.05 * distance, 4 * distance);
    return { matrix: multiply(lens, view), eye, right, up, back, middle, distance, angle, aspect };
}

// Direction of the ray through a point of the picture, -1 .. 1 both ways.
export function rayThrough(camera, x, y) {
    const half = Math.tan(camera.angle / 2);
    const along = [0, 1, 2].map(
        (i) => x * half * camera.aspect * camera.right[i] + y * half * camera.up[i] - camera.back[i],
    );
    return along;
}

// Where a scene point is in the picture, -1 .. 1, and how far away.
export function projectPoint(camera, x, y, z) {
    const m = camera.matrix;
    const w = m[3] * x + m[7] * y + m[11] * z + m[15];
    return [
        (m[0] * x + m[4] * y + m[8] * z + m[12]) / w,
        (m[1] * x + m[5] * y + m[9] * z + m[13]) / w,
        w,
    ];
}
