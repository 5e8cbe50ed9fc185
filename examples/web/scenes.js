// scenes.js: what the page says about every scene, and how its settings are shown. Values, ranges
// and the physics are in C.

const WATER = 'ρ (∂u/∂t + u·∇u) = −∇p + ρ g,  ∇·u = 0';

// How a setting is shown: a scale, a unit, words for whole numbers.
const density = { label: 'density over water', scale: 'log', least: 1e-4, zero: 'all kinds' };
const whole = (label) => ({ label, scale: 'whole' });
const choice = (label, words) => ({ label, scale: 'choice', words });
const number = (label, unit = '') => ({ label, scale: 'linear', unit });

export const TEXTS = {
    pool: {
        title: 'Pool',
        what: 'Crates, balls and planks from cork to lead fall into a pool. Drag one, throw one: the water pushes back at once.',
        equation: `${WATER};  M dv/dt = M g + ∮ −p n dA`,
        why: 'Water and bodies are unknowns of one linear system, so a body a ten-thousandth as heavy as water is as stable as one of iron.',
        source: 'fsi_world_step',
        tries: [
            'Move the density to 0.0001 and drag a crate under water. It shoots up and does not explode.',
            'Set it to 10000: everything sinks at once, and the level stays where Archimedes wants it.',
        ],
        settings: {
            density,
            bodies: whole('bodies'),
            calm: number('calming', '1/s'),
            air: choice('closed air', ['yields', 'keeps its volume']),
        },
    },
    raft: {
        title: 'Loaded raft',
        what: 'A raft carries boxes. Contact, friction and water are solved together, so the pile stays while the raft heels.',
        equation: `${WATER};  0 ≤ λ ⟂ gap ≥ 0`,
        why: 'Contacts press in the coupled solve as they pressed in the steps before; the fluid sees bodies at rest at rest.',
        source: 'fsi_solids_hold',
        tries: [
            'Drag a box to one end and watch the raft heel, then capsize.',
            'Make the cargo heavier until the deck is awash.',
        ],
        settings: {
            load: whole('boxes'),
            cargo: { ...density, label: 'density of a box', least: 0.05 },
            density: { ...density, label: 'density of the raft' },
        },
    },
    boat: {
        title: 'Boat',
        what: 'A boat with a motor meets waves from a paddle. The propeller pushes the hull forward and the water back.',
        equation: 'F on the hull = −F on the jet;  ω² = g k tanh(k d)',
        why: 'The thrust is one pair of opposite forces; what carries the boat is the pressure of the same solve.',
        source: 'fsi_couple_solve',
        tries: [
            'Full throttle against the waves: the bow lifts, and the propeller races in the air.',
            'Double the period. Longer waves run faster.',
        ],
        settings: {
            throttle: number('throttle'),
            waves: number('stroke of the paddle', 'm'),
            period: number('period', 's'),
            density: { ...density, label: 'density of the hull', least: 0.05 },
        },
    },
    diver: {
        title: 'Diver',
        what: 'A cup upside down holds air under water: a Cartesian diver. The closed air is one unknown of the solve and keeps its volume.',
        equation: 'lift = ρ g (V of the cup + V of the air)',
        why: 'Closed air is one row of the system: all its surface moves so that its volume stays.',
        source: 'fsi_couple_solve',
        tries: [
            'Find the density at which it hovers: about 2, cup and air displace twice the cup.',
            'Turn the air off: it yields like open air, water rises in the cup, and it sinks.',
        ],
        settings: {
            density: { ...density, label: 'density of the cup', least: 0.1 },
            air: choice('closed air', ['yields', 'keeps its volume']),
        },
    },
    cloth: {
        title: 'Cloth in a jet',
        what: 'A strip of cloth hangs over a jet of smoke. Smoke and cloth are two closed solvers that ask each other until they agree.',
        equation: 'F(x) = p,  S(p) = x:  find x with S(F(x)) = x',
        why: 'The lighter the cloth, the harder: the scheme learns a small model of both solvers from its own calls, and needs few of them.',
        source: 'fsi_partitioned_step',
        tries: [
            'Make the cloth a hundred times lighter and watch the iterations: they hardly grow.',
            'Drag the cloth into the jet and let go.',
        ],
        hint: 'Drag the cloth, or stir the smoke',
        settings: {
            mass: { label: 'mass over a layer of air', scale: 'log', least: 1e-3 },
            speed: number('speed of the jet', 'm/s'),
        },
        look: { mode: 1, most: 1.1 },
    },
    balloon: {
        title: 'Balloon',
        what: 'A rubber arch is pumped up and sucked empty through a nozzle in the floor. The air inside touches no open side.',
        equation: '∮ u·n dA = Q for every closed region',
        why: 'Its pressure level is not in the fluid alone: it is the one with which the rubber makes room for exactly what comes in.',
        source: 'fsi_closed_regions_begin',
        tries: [
            'Switch the pressure of closed air off: nothing tells the rubber to yield.',
            'Pump harder, then make the rubber ten times stiffer: the volume stays what was pumped.',
        ],
        hint: 'Drag the rubber, or stir the smoke',
        settings: {
            pump: number('pump'),
            stiffness: { label: 'stiffness', scale: 'log', least: 0.2, unit: 'N/m' },
            closed: choice('pressure of closed air', ['left out', 'taken in']),
        },
        look: { mode: 1, most: 1.3 },
    },
    press: {
        title: 'Hydraulic press',
        what: 'Water under two pistons has nowhere to go: what one gives the other takes. Darker water is under more pressure.',
        equation: 'F₁ / A₁ = F₂ / A₂,  A₁ v₁ = −A₂ v₂',
        why: 'Both pistons are solids of our own with one degree of freedom each, coupled through the same solve as everything else.',
        source: 'fsi_world_add_guest',
        tries: [
            'Push of 60 N and a weight of 240 N at a ratio of 4 balance. A little more wins.',
            'Drag the large piston up: the small one goes down four times as fast.',
        ],
        hint: 'Drag a piston',
        settings: {
            push: number('push on the small piston', 'N'),
            weight: number('weight on the large piston', 'N'),
            ratio: number('ratio of the areas'),
        },
        look: { mode: 3, most: 500 },
    },
    smoke: {
        title: 'Smoke in 3D',
        what: 'Light balls ride on a plume of hot smoke, in space. The same solve as in the pool, one dimension up.',
        equation: 'ρ Du/Dt = −∇p + ρ β (T − T₀) up,  ∇·u = 0',
        why: 'Cut cells at the balls, a multigrid solver that takes their columns along: bodies cost hardly more than none.',
        source: 'fsi_world_step',
        tries: [
            'Drag a ball out of the plume and back in.',
            'Make the balls lighter: at 0.0001 they follow the smoke, at 100 they stay where they are.',
        ],
        hint: 'Drag a ball; drag beside it to look around',
        settings: {
            density: { ...density, label: 'density over the smoke' },
            speed: number('speed of the plume', 'm/s'),
        },
        look: { mode: 1, most: 1 },
        turn: { yaw: 0.45, pitch: 0.18 },
    },
    jellyfish: {
        title: 'Jellyfish',
        what: 'A jellyfish swims by contracting its bell, fast, and relaxing it slowly. Bell and arms are bodies of a few modes each; the dots are plankton.',
        equation: 'x = T + R (x₀ + S q),  q̈ + ω² (q − q muscle) = Sᵀ f',
        why: 'A few numbers say how it is bent, and they stand in the same solve as the water: 43 unknowns for the whole animal.',
        source: 'fsi_reduced_group_couple',
        tries: [
            'Shorten the period: more strokes, but each has less time to push.',
            'Make it heavier until it only just holds its height.',
        ],
        hint: 'Drag the jellyfish; drag beside it to look around',
        settings: {
            stroke: number('contraction of the rim'),
            period: number('period of a stroke', 's'),
            weight: number('weight in water', 'N'),
        },
        look: { most: 1, size: 0.011, night: true, clear: 4 },
        turn: { yaw: 0.4, pitch: 0.12 },
    },
    dam: {
        title: 'Dam break',
        what: 'A column of particles collapses into a shallow with floating boxes. Particles and boxes repeat a step until both see the same motion.',
        equation: 'Dρ/Dt = 0 at every particle;  X = S(F(X))',
        why: 'A fluid solve costs a thousand solid solves, so only the fluid gets a reduced model: the added mass seen so far.',
        source: 'fsi_sph_rigid_step',
        tries: [
            'Make the boxes a hundred times lighter than water: they ride on the wave.',
            'Drag a box under water and let go.',
        ],
        settings: {
            density: { ...density, label: 'density of a box', least: 0.01 },
            boxes: whole('boxes'),
        },
        look: { most: 3.5, size: 0.034 },
    },
    gate: {
        title: 'Soft gate',
        what: 'Water runs out under a rubber gate that hangs from its upper edge: particles and tetrahedra, four times slower than life.',
        equation: 'P = ∂ψ/∂F,  m ẍ = −∫ P ∇N dV + impulses',
        why: 'Every particle that is about to touch the rubber meets a proxy behind its surface; none can pass.',
        source: 'fsi_proxy_step',
        tries: [
            'Make the rubber ten times softer: the gate opens wide.',
            'Pull the gate open by hand.',
        ],
        hint: 'Drag the gate; drag beside it to look around',
        settings: {
            young: { label: 'Young\u2019s modulus', scale: 'log', least: 5e4, unit: 'Pa' },
            tap: number('tap', 'm/s'),
        },
        look: { most: 2.2, size: 0.026 },
        turn: { yaw: 0.25, pitch: 0.2 },
        pace: 0.25,
    },
    slip: {
        title: 'Slip and no slip',
        what: 'The same stream around two cylinders. Along the upper one the fluid slides, at the lower one it sticks and leaves a wake.',
        equation: 'slip: n·u = n·v;  no slip: u = v',
        why: 'Ghost cells let the fluid cross the stair steps of the grid, so that it slides along the real surface and never through it.',
        source: 'fsi_slip_step',
        tries: [
            'Drag a cylinder: both follow, their wakes differ.',
            'Let the lower one slip, too: the wake closes.',
        ],
        hint: 'Drag a cylinder',
        settings: {
            lower: number('slip of the lower cylinder'),
            speed: number('speed of the stream', 'm/s'),
        },
        look: { mode: 2, most: 1.9, size: 0.012, bright: true, lid: true },
    },
    methods: {
        title: 'One scene, every method',
        what: 'The same floating disk by six ways of coupling. Watch iterations and time of a step; below some density the weak one is lost.',
        equation: 'weak: one call each;  partitioned: ω x;  XPM: reduced model;  one solve: all at once',
        why: 'Weak coupling multiplies its error by added mass over mass in every step: a light disk explodes. The strong ones agree.',
        source: 'fsi_world_exchange',
        tries: [
            'Choose weak, at density 2 and then at 0.5: it flies apart.',
            'The same with one solve at 0.0001: it floats.',
        ],
        broken: 'The weak scheme lost it: too light a body. Choose another method, or a heavier disk.',
        settings: {
            method: choice('method', ['weak', 'partitioned, relaxed', 'XPM', 'one solve', 'SCHUR', 'particles, XPM']),
            density,
        },
        look: { most: 2, size: 0.036 },
    },
};
