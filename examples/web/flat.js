// flat.js: the same pictures with Canvas 2D, where there is no WebGL2. Fields are drawn cell by
// cell into a small picture that the browser scales; solids in space by the painter's rule.

import { THEMES, pieceColour, fitBox, lookAtBox, projectPoint } from './looks.js';

const css = (colour, share = 1) => `rgba(${colour.map(Math.round).join(',')},${share})`;
const mix = (a, b, share) => a.map((value, i) => value + share * (b[i] - value));
const clamp = (value) => Math.max(0, Math.min(1, value));

const SCALE = [[59, 41, 107], [41, 120, 143], [94, 191, 107], [252, 232, 82]];

function scaleColour(value) {
    const place = 3 * clamp(value);
    const lower = Math.min(2, Math.floor(place));
    return mix(SCALE[lower], SCALE[lower + 1], place - lower);
}

export class FlatRenderer {
    constructor(canvas) {
        this.canvas = canvas;
        this.pen = canvas.getContext('2d');
        if (!this.pen) throw new Error('no Canvas 2D');
        this.turn = { yaw: 0.5, pitch: 0.25 };
        this.small = document.createElement('canvas');
    }

    draw(picture, box, look, themeName) {
        const { pen, canvas } = this;
        this.theme = THEMES[themeName];
        pen.fillStyle = css(this.theme.back);
        pen.fillRect(0, 0, canvas.width, canvas.height);
        if (picture.dim === 3) this.drawSpace(picture, box, look);
        else this.drawFlat(picture, box, look);
    }

    drawFlat(picture, box, look) {
        this.fit = fitBox(box, this.canvas.width, this.canvas.height);
        if (picture.nx && (picture.phi || picture.shade)) this.drawField(picture, box, look);
        this.drawPoints(picture.points, look);
        this.drawTank(box);
        for (const piece of picture.pieces) this.drawPiece(piece, picture.edges);
    }

    cellColour(picture, cell, look) {
        const { theme } = this;
        const value = picture.shade ? picture.shade[cell] : 0;
        if (picture.phi) {
            const share = clamp(0.5 - picture.phi[cell] / look.cell);
            return mix(theme.air, mix(theme.shallow, theme.deep, clamp(-2 * picture.phi[cell])), share);
        }
        if (look.mode === 1) return mix(theme.air, theme.smoke, clamp(value / look.most));
        if (look.mode === 2) return scaleColour(value / look.most);
        if (value < 0) return theme.air;
        return mix(theme.shallow, theme.deep, clamp(0.1 + (0.9 * value) / look.most));
    }

    drawField(picture, box, look) {
        const { pen, fit, small } = this;
        const { nx, ny } = picture;
        const cell = (box.hiX - box.loX) / nx;
        small.width = nx;
        small.height = ny;
        const image = new ImageData(nx, ny);
        for (let j = 0; j < ny; j++)
            for (let i = 0; i < nx; i++) {
                const colour = this.cellColour(picture, i + nx * j, { ...look, cell });
                image.data.set([...colour, 255], 4 * (i + nx * (ny - 1 - j)));
            }
        small.getContext('2d').putImageData(image, 0, 0);
        const [left, top] = [fit.toX(box.loX), fit.toY(box.hiY)];
        pen.drawImage(small, left, top, fit.toX(box.hiX) - left, fit.toY(box.loY) - top);
    }

    drawPoints(points, look) {
        const { pen, fit, theme } = this;
        const radius = Math.max((look.size * fit.scale) / 2, 1);
        for (let i = 0; i < points.length; i += 4) {
            const tone = clamp(points[i + 3] / look.most);
            pen.fillStyle = css(look.bright ? theme.foam : mix(theme.deep, theme.foam, tone));
            const [x, y] = [fit.toX(points[i]), fit.toY(points[i + 1])];
            pen.fillRect(x - radius, y - radius, 2 * radius, 2 * radius);
        }
    }

    drawTank(box) {
        const { pen, fit, theme } = this;
        pen.strokeStyle = css(theme.edge);
        pen.lineWidth = 4;
        pen.beginPath();
        pen.moveTo(fit.toX(box.loX), fit.toY(box.hiY));
        pen.lineTo(fit.toX(box.loX), fit.toY(box.loY));
        pen.lineTo(fit.toX(box.hiX), fit.toY(box.loY));
        pen.lineTo(fit.toX(box.hiX), fit.toY(box.hiY));
        pen.stroke();
    }

    // Edges follow one another; where they do not, a new loop begins.
    tracePath(edges) {
        const { pen, fit } = this;
        pen.beginPath();
        for (let i = 0; i < edges.length; i += 4) {
            const joined = i && edges[i] === edges[i - 2] && edges[i + 1] === edges[i - 1];
            if (!joined) pen.moveTo(fit.toX(edges[i]), fit.toY(edges[i + 1]));
            pen.lineTo(fit.toX(edges[i + 2]), fit.toY(edges[i + 3]));
        }
    }

    drawPiece(piece, allEdges) {
        const { pen, theme } = this;
        const edges = allEdges.subarray(4 * piece.first, 4 * (piece.first + piece.count));
        this.tracePath(edges);
        pen.lineJoin = 'round';
        if (piece.closed) {
            pen.fillStyle = css(pieceColour(piece));
            pen.fill('evenodd');
            pen.strokeStyle = piece.held ? '#fff' : css(theme.outline);
            pen.lineWidth = piece.held ? 4 : 2;
        } else {
            pen.strokeStyle = css(pieceColour(piece));
            pen.lineWidth = 5;
        }
        pen.stroke();
    }

    // ---- scenes in space
    drawSpace(picture, box, look) {
        const { canvas } = this;
        this.camera = lookAtBox(box, this.turn, canvas.width / canvas.height);
        this.toPixel = (x, y, z) => {
            const [px, py, away] = projectPoint(this.camera, x, y, z);
            return [((px + 1) / 2) * canvas.width, ((1 - py) / 2) * canvas.height, away];
        };
        const things = [...this.triangles(picture), ...this.clouds(picture, box, look)];
        things.sort((a, b) => b.away - a.away);
        this.drawBox(box);
        for (const thing of things) thing.paint();
    }

    drawBox(box) {
        const { pen, theme } = this;
        const corner = (i) =>
            this.toPixel(i & 1 ? box.hiX : box.loX, i & 2 ? box.hiY : box.loY, i & 4 ? box.hiZ : 0);
        pen.strokeStyle = css(theme.edge);
        pen.lineWidth = 1;
        for (let i = 0; i < 8; i++)
            for (const bit of [1, 2, 4]) {
                if (i & bit) continue;
                pen.beginPath();
                pen.moveTo(...corner(i).slice(0, 2));
                pen.lineTo(...corner(i | bit).slice(0, 2));
                pen.stroke();
            }
    }

    triangles(picture) {
        const list = [];
        for (const piece of picture.pieces)
            for (let k = 0; k < piece.count; k += 3) {
                const at = [0, 1, 2].map((c) => 6 * picture.indices[piece.first + k + c]);
                const corners = at.map((i) => this.toPixel(...picture.vertices.subarray(i, i + 3)));
                const normal = picture.vertices.subarray(at[0] + 3, at[0] + 6);
                const day = 0.7 + 0.3 * (normal[1] / (Math.hypot(...normal) || 1));
                const colour = css(pieceColour(piece).map((c) => c * day));
                const away = (corners[0][2] + corners[1][2] + corners[2][2]) / 3;
                list.push({ away, paint: () => this.paintTriangle(corners, colour) });
            }
        return list;
    }

    paintTriangle(corners, colour) {
        const { pen } = this;
        pen.fillStyle = pen.strokeStyle = colour;
        pen.lineWidth = 1;
        pen.beginPath();
        corners.forEach(([x, y]) => pen.lineTo(x, y));
        pen.closePath();
        pen.fill();
        pen.stroke();
    }

    // Points, and every second cell of smoke as a soft square.
    clouds(picture, box, look) {
        const list = [];
        const { points, shade, nx, ny, nz } = picture;
        const perUnit = this.canvas.height / (2 * Math.tan(this.camera.angle / 2));
        const add = (x, y, z, size, colour) => {
            const [px, py, away] = this.toPixel(x, y, z);
            const wide = Math.max((size * perUnit) / away, 1.5);
            const paint = () => {
                this.pen.fillStyle = colour;
                this.pen.fillRect(px - wide / 2, py - wide / 2, wide, wide);
            };
            list.push({ away, paint });
        };
        for (let i = 0; i < points.length; i += 4) {
            const tone = clamp(points[i + 3] / look.most);
            const colour = css(mix(this.theme.deep, this.theme.foam, tone));
            add(points[i], points[i + 1], points[i + 2], look.size, colour);
        }
        if (!shade || nz < 2) return list;
        const cell = (box.hiX - box.loX) / nx;
        for (let k = 0; k < nz; k += 2)
            for (let j = 0; j < ny; j += 2)
                for (let i = 0; i < nx; i += 2) {
                    const density = shade[i + nx * (j + ny * k)];
                    if (density < 0.05) continue;
                    const colour = css(this.theme.smoke, 0.12 * clamp(density));
                    add(box.loX + cell * (i + 1), box.loY + cell * (j + 1), cell * (k + 1), 2 * cell, colour);
                }
        return list;
    }
}
