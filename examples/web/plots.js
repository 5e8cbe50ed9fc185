// plots.js: three small plots that run along with the simulation.

const SAMPLES = 240;

// A few curves over the last samples, drawn on one canvas.
class Plot {
    constructor(canvas, title, unit, names) {
        this.canvas = canvas;
        this.title = title;
        this.unit = unit;
        this.names = names;
        this.clear();
    }

    clear() {
        this.curves = this.names.map(() => []);
    }

    add(values) {
        values.forEach((value, i) => {
            const curve = this.curves[i];
            if (Number.isFinite(value)) curve.push(value);
            if (curve.length > SAMPLES) curve.shift();
        });
    }

    // Least and largest value, with room above and below.
    range() {
        const all = this.curves.flat();
        let lo = Math.min(0, ...all);
        let hi = Math.max(0, ...all);
        if (hi - lo < 1e-9) hi = lo + 1e-9;
        const room = 0.08 * (hi - lo);
        return [lo - room, hi + room];
    }

    draw(colours) {
        const { canvas } = this;
        const scale = window.devicePixelRatio || 1;
        const width = canvas.clientWidth;
        const height = canvas.clientHeight;
        if (!width) return;
        canvas.width = Math.round(width * scale);
        canvas.height = Math.round(height * scale);
        const pen = canvas.getContext('2d');
        pen.scale(scale, scale);
        const [lo, hi] = this.range();
        const top = 20;
        const toY = (value) => top + ((hi - value) / (hi - lo)) * (height - top - 6);
        this.drawAxis(pen, width, toY(0), colours);
        this.curves.forEach((curve, i) => drawCurve(pen, curve, width, toY, colours.curves[i], i));
        this.drawText(pen, width, hi, colours);
    }

    drawAxis(pen, width, y, colours) {
        pen.strokeStyle = colours.line;
        pen.beginPath();
        pen.moveTo(0, y);
        pen.lineTo(width, y);
        pen.stroke();
    }

    drawText(pen, width, hi, colours) {
        pen.font = '11px system-ui, sans-serif';
        pen.fillStyle = colours.ink;
        pen.fillText(this.title, 8, 14);
        let x = 14 + pen.measureText(this.title).width;
        this.names.forEach((name, i) => {
            pen.fillStyle = colours.curves[i];
            pen.fillRect(x, 10, 10, i ? 2 : 3);
            pen.fillStyle = colours.faint;
            pen.fillText(name, x + 14, 14);
            x += 24 + pen.measureText(name).width;
        });
        const label = `${shortNumber(hi)} ${this.unit}`;
        const left = width - 8 - pen.measureText(label).width;
        pen.fillText(label, left, left > x ? 14 : 27); // below the names where there is no room
    }
}

// The second curve is dashed: told apart without its colour.
function drawCurve(pen, curve, width, toY, colour, number) {
    pen.strokeStyle = colour;
    pen.lineWidth = 1.5;
    pen.setLineDash(number ? [4, 3] : []);
    pen.beginPath();
    curve.forEach((value, i) => pen.lineTo((i / (SAMPLES - 1)) * width, toY(value)));
    pen.stroke();
    pen.setLineDash([]);
}

export function shortNumber(value) {
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e5)) return value.toExponential(1);
    return String(Number(value.toPrecision(3)));
}

// The three plots of the page.
export class Plots {
    constructor(find) {
        this.energy = new Plot(find('plot-energy'), 'energy', 'J', ['kinetic', 'potential']);
        this.momentum = new Plot(find('plot-momentum'), 'momentum', 'N s', ['along', 'up']);
        this.volume = new Plot(find('plot-volume'), 'volume error', '%', ['fluid']);
        this.clear();
    }

    clear() {
        [this.energy, this.momentum, this.volume].forEach((plot) => plot.clear());
        this.firstPotential = null;
    }

    // Potential energy counts from where the scene began.
    add(report) {
        if (this.firstPotential === null) this.firstPotential = report.potential;
        this.energy.add([report.kinetic, report.potential - this.firstPotential]);
        this.momentum.add([report.momentumX, report.momentumY]);
        this.volume.add([100 * report.volumeError]);
    }

    draw() {
        const style = getComputedStyle(document.documentElement);
        const colour = (name) => style.getPropertyValue(name).trim();
        const colours = {
            ink: colour('--ink'),
            faint: colour('--faint'),
            line: colour('--line'),
            curves: [colour('--accent'), '#d55e00'],
        };
        [this.energy, this.momentum, this.volume].forEach((plot) => plot.draw(colours));
    }
}
