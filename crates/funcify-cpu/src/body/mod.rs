//! Runs the innermost loops of a plan.
//!
//! A [`Setting`] turns a [`PlannedLoop`] into a [`Body`], which runs the iterations on [`View`]s. There are three kinds
//! of bodies, and code outside this folder does not distinguish them:
//!
//! - `tiles`: instructions over rows and lanes, for any loop without a condition. Instructions outside loops run as
//!   tiles too ([`Setting::append`]).
//! - `registers`: register code, for loops whose instructions have few elements.
//! - `routine`, with the feature `jit`: machine code, translated from register code.
//!
//! [`Setting::body`] chooses the fastest kind. To add a kind, add a file here and a variant of `Kind`.
//!
//! The plan checker has its own model of register code (`proof/registers.rs`). It checks every version of register code
//! that a loop may be lowered to ([`register_codes`]), even versions that are slower than tiles.
//!
//! **Invariant:** all kinds compute bit-identical results, except that a fold over more than one vector of lanes may
//! combine the lanes in another order.

mod divided;
mod planned;
pub(crate) mod registers;
#[cfg(feature = "jit")]
mod routine;
mod tiles;

#[cfg(feature = "jit")]
use std::sync::Arc;

use funcify_body::Type;
use pulp::Simd;

pub(crate) use planned::{PlannedLoop, Step};
use registers::{Piece, RegisterCode, Slicer, chain};
use tiles::Tiled;

use crate::fired::{Fired, Transformation};
use crate::kernels::math::MathTable;
use crate::plan::{DEPTH, Instruction, Region};
use crate::threads::Estimate;
use crate::views::{Cursor, Layout, Range, Start, View};
use funcify_body::float::Float;
use funcify_body::machine::Machine;

/// The estimated time per element in register code, in nanoseconds.
const NS_PER_REGISTER_OP: f64 = 0.5;

/// An element type that bodies and generated machine code support.
#[cfg(feature = "jit")]
pub trait Translatable: MathTable + funcify_jit::Number {}
/// An element type that bodies support.
#[cfg(not(feature = "jit"))]
pub trait Translatable: MathTable {}

impl Translatable for f32 {}
impl Translatable for f64 {}

/// The context in which bodies run: the machine, the regions of the plan, and their layouts within a part of a stage.
pub(crate) struct Setting<'p> {
    pub(crate) regions: &'p [Region],
    pub(crate) layouts: Vec<Layout>,
    pub(crate) machine: Machine,
    /// `true` if the stage has a single part. The bodies of a single part may use several threads.
    pub(crate) is_one_part: bool,
}

/// The executable form of an innermost loop.
#[derive(Clone, Debug)]
pub(crate) struct Body<T> {
    kind: Kind<T>,
    /// The location of each operand in the first iteration of this loop and of all enclosing loops.
    starts: Vec<Start>,
    /// The estimated time of an iteration, in nanoseconds. This is a cautious estimate: about twice the expected time.
    nanoseconds: u64,
    /// The expected time per iteration of the instructions that may run on several threads, in nanoseconds.
    nanoseconds_on_threads: f64,
}

#[derive(Clone, Debug)]
enum Kind<T> {
    /// Instructions over rows and lanes.
    Tiles(Vec<Tiled>),
    /// Register code.
    Registers(RegisterCode<T>),
    /// Machine code.
    #[cfg(feature = "jit")]
    Routine(Arc<routine::Routine<T>>),
}

/// The positions of the operands of a running body or node. The lists are reused for each of them.
#[derive(Default)]
pub(crate) struct Operands {
    cursors: Vec<Cursor>,
    addresses: Vec<Address>,
    /// The region and the range of each operand of a node that is not a body.
    pub(crate) ranges: Vec<(usize, Range)>,
}

/// The current range of a piece, and the distance that it advances per iteration. The distance is in units if the
/// running part sees only its columns of the region, and in elements otherwise.
#[derive(Clone, Copy, Debug)]
struct Address {
    region: usize,
    range: Range,
    step: isize,
}

impl Setting<'_> {
    /// Returns the fastest body for a loop. Returns `None` if the loop has a condition and cannot be lowered to
    /// register code.
    pub(crate) fn body<T: Translatable>(&self, planned: &PlannedLoop<'_>) -> Option<Body<T>> {
        if let Some(kind) = self.lower_to_registers(planned) {
            return Some(self.body_of_kind(kind, planned));
        }
        let mut body = Body::empty_tiles();
        for step in &planned.steps {
            let Step::Do(instruction) = step else { return None };
            self.append(&mut body, instruction);
        }
        Some(body)
    }

    /// Returns `true` if an operand of the instruction is in a region of integers.
    pub(crate) fn has_integers(&self, instruction: &Instruction) -> bool {
        let mut operands = std::iter::once(&instruction.to).chain(&instruction.from);
        operands.any(|operand| self.regions[operand.region].ty != Type::Float)
    }

    /// Returns `true` if an instruction or the condition of the loop accesses a region of integers.
    pub(crate) fn has_integers_in(&self, planned: &PlannedLoop<'_>) -> bool {
        planned.steps.iter().any(|step| match step {
            Step::Do(instruction) => self.has_integers(instruction),
            Step::EndUnless(holds) => self.regions[holds.region].ty != Type::Float,
        })
    }

    /// Returns a body that consists of one instruction.
    pub(crate) fn single_instruction_body<T: Float>(&self, instruction: &Instruction) -> Body<T> {
        let mut body = Body::empty_tiles();
        self.append(&mut body, instruction);
        body
    }

    /// Appends an instruction to a body of tiles. Returns `false` if the body is of another kind.
    pub(crate) fn append<T: Float>(&self, body: &mut Body<T>, instruction: &Instruction) -> bool {
        let Kind::Tiles(instructions) = &mut body.kind else { return false };
        body.starts.extend(tiles::starts::<T>(&self.layouts, instruction));
        body.nanoseconds += instruction.nanoseconds() as u64;
        let pieces = if self.is_one_part { divided::pieces(instruction) } else { 1 };
        if pieces > 1 {
            body.nanoseconds_on_threads += divided::nanoseconds(instruction);
        }
        instructions.push(Tiled { instruction: instruction.clone(), pieces });
        true
    }

    /// Lowers a loop to register code or machine code. Returns `None` if the loop cannot be lowered, or if tiles are
    /// faster.
    fn lower_to_registers<T: Translatable>(&self, planned: &PlannedLoop<'_>) -> Option<Kind<T>> {
        let Setting { regions, machine, .. } = *self;
        let width = machine.lanes::<T>();
        let tiles = tiles::cost(&planned.steps, width);
        let code = registers::lower_with_cost::<T>(Slicer { regions, vectors: 1, width, panel: None }, planned);
        let code = code.filter(|(cost, _)| *cost < tiles);
        #[cfg(feature = "jit")]
        {
            let least = code.as_ref().map_or(tiles, |(cost, _)| *cost);
            if let Some(routine) = routine::translate_if_worthwhile(regions, planned, least, machine) {
                return Some(Kind::Routine(routine));
            }
        }
        code.map(|(_, code)| Kind::Registers(chained(code)))
    }

    fn body_of_kind<T>(&self, kind: Kind<T>, planned: &PlannedLoop<'_>) -> Body<T> {
        let start = |Piece { region, at, steps, len }: &Piece| Start::at(&self.layouts, *region, *at, *steps, *len);
        let (starts, transformation) = match &kind {
            Kind::Tiles(_) => unreachable!("`lower_to_registers` never returns tiles"),
            Kind::Registers(code) => (code.pieces().map(start).collect(), Transformation::Registers),
            #[cfg(feature = "jit")]
            Kind::Routine(routine) => (routine.pieces().map(start).collect(), Transformation::MachineCode),
        };
        let mut fired = Fired::default();
        fired.note(transformation);
        fired.count();
        let elements = planned.steps.iter().map(|step| match step {
            Step::Do(instruction) => instruction.elements(),
            Step::EndUnless(_) => 1.0,
        });
        // Register code has no per-instruction overhead.
        let nanoseconds = (elements.sum::<f64>() * NS_PER_REGISTER_OP).ceil() as u64;
        Body { kind, starts, nanoseconds, nanoseconds_on_threads: 0.0 }
    }
}

impl<T> Body<T> {
    fn empty_tiles() -> Self {
        Body { kind: Kind::Tiles(Vec::new()), starts: Vec::new(), nanoseconds: 0, nanoseconds_on_threads: 0.0 }
    }

    /// Returns the estimated time of an iteration, in nanoseconds.
    pub(crate) fn nanoseconds(&self) -> u64 {
        self.nanoseconds
    }

    /// Returns the expected time of an iteration, and how much of it may be spent on several threads.
    pub(crate) fn estimate(&self) -> Estimate {
        Estimate { all: self.nanoseconds as f64 / 2.0, on_threads: self.nanoseconds_on_threads }
    }
}

impl<T: MathTable> Body<T> {
    /// Runs iterations of the loop at `level` until a condition ends it or `more` returns 0. `counters` holds the
    /// counters of the enclosing loops. `more` returns the number of iterations to run next.
    pub(crate) fn run<S: Simd>(
        &self,
        simd: S,
        views: &mut [View<'_, T>],
        operands: &mut Operands,
        (counters, level): (&[isize; DEPTH], usize),
        more: impl FnMut() -> usize,
    ) {
        let cursors = self.starts.iter().map(|start| start.inside(counters, level));
        let Operands { cursors: own, addresses, .. } = operands;
        if let Kind::Tiles(instructions) = &self.kind {
            own.clear();
            // A loop of `push` takes less time than `extend` for a few elements.
            for cursor in cursors {
                own.push(cursor);
            }
            return tiles::run(simd, instructions, own, views, more);
        }
        addresses.clear();
        addresses.extend(self.starts.iter().zip(cursors).map(|(start, cursor)| {
            let Cursor { range, step, .. } = cursor;
            Address { region: start.region, range, step }
        }));
        match &self.kind {
            Kind::Tiles(_) => unreachable!("tiles returned above"),
            Kind::Registers(code) => registers::run(simd, code, views, addresses, more),
            #[cfg(feature = "jit")]
            Kind::Routine(routine) => routine.run(views, addresses, more),
        }
    }
}

/// Chains the ops of register code if every piece has exactly one element. A chained op reads the previous op's result
/// directly.
fn chained<T>(mut code: RegisterCode<T>) -> RegisterCode<T> {
    if code.is_single() {
        chain(&mut code.ops);
    }
    code
}

/// Returns every version of register code that a loop may be lowered to: for the interpreter with registers of each
/// size, for the interpreter with single elements, and for translation to machine code. Each version comes with the
/// number of elements in a register. Ignores costs, because the plan checker must check all versions.
pub(crate) fn register_codes<T: MathTable>(
    regions: &[Region],
    planned: &PlannedLoop<'_>,
    machine: Machine,
) -> Vec<(RegisterCode<T>, usize)> {
    let vector = machine.lanes::<T>();
    let slicer = |vectors, width, panel| Slicer { regions, vectors, width, panel };
    let wide = registers::sizes(planned, vector).map(|vectors| slicer(vectors, vectors * vector, None));
    let slicers = wide.chain([slicer(1, 1, None), slicer(1, 16 / size_of::<T>(), Some(2 * vector))]);
    let code = |slicer: Slicer<'_>| {
        let code = registers::lower::<T>(slicer, planned)?;
        Some((if slicer.panel.is_none() { chained(code) } else { code }, slicer.width))
    };
    slicers.filter_map(code).collect()
}
