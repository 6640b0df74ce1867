//! From instructions to code for single elements.

use std::collections::HashMap;

use super::{Code, Element, REGISTERS, Verb, Word};
use crate::float::Float;
use crate::kernels::{Binary, Fold, Ternary, Unary};
use crate::plan::{Across, Instruction, Op, Operand, Region};

/// How many words a loop may have.
const MOST_WORDS: usize = 512;
/// Nanoseconds of a word, of one with a function in it, and of an instruction over rows and lanes.
const OF_A_WORD: f64 = 1.5;
const OF_A_FUNCTION: f64 = 8.0;
const OF_AN_INSTRUCTION: f64 = 20.0;
/// From how many iterations on it is worth to fill registers.
const LEAST_TIMES: usize = 4;

/// The instructions of a loop as code, if it is faster so. `times` are the iterations of the loops around, and of this one
/// last.
pub(crate) fn code<T: Float>(regions: &[Region], body: &[Instruction], times: &[usize]) -> Option<Code<T>> {
    let (own, level) = (*times.last()?, times.len() - 1);
    let elements: usize = body.iter().map(|instruction| instruction.rows * instruction.lanes).sum();
    if own < LEAST_TIMES || elements > MOST_WORDS {
        return None;
    }
    let mut lowering = Lowering::new(regions, level, places(regions, body, times)?)?;
    for instruction in body {
        lowering.instruction(instruction)?;
    }
    let cost =
        |word: &Word| if matches!(word.verb, Verb::Unary(_) | Verb::Binary(_)) { OF_A_FUNCTION } else { OF_A_WORD };
    let all: f64 = lowering.code.words.iter().map(cost).sum();
    (all < OF_AN_INSTRUCTION * body.len() as f64).then_some(lowering.code)
}

/// Which elements the loop touches, and whether it writes them; `None` if two of them may be the same place now and then.
fn places(regions: &[Region], body: &[Instruction], times: &[usize]) -> Option<HashMap<Element, bool>> {
    let mut all: HashMap<Element, bool> = HashMap::new();
    for instruction in body {
        let Instruction { op, rows, lanes, to, from } = instruction;
        for element in elements(regions, to, *rows, *lanes) {
            all.insert(element, true);
        }
        for operand in from {
            let size = if *op == Op::Transpose { [*lanes, *rows] } else { [*rows, *lanes] };
            for element in elements(regions, operand, size[0], size[1]) {
                all.entry(element).or_insert(false);
            }
        }
        if all.len() > 2 * MOST_WORDS {
            return None;
        }
    }
    // The first and the last place of each in all iterations.
    let reach = |element: &Element| {
        let pitch = regions[element.region].pitch as isize;
        let mut ends = [element.at as isize; 2];
        for (step, times) in element.steps.iter().zip(times) {
            let furthest = step * pitch * (*times as isize - 1);
            ends[usize::from(furthest > 0)] += furthest;
        }
        ends
    };
    let moves = |element: &Element| element.steps[times.len() - 1] != 0;
    let mut sorted: Vec<(&Element, bool, [isize; 2])> =
        all.iter().map(|(element, is_written)| (element, *is_written, reach(element))).collect();
    sorted.sort_unstable_by_key(|(element, _, reach)| (element.region, reach[0]));
    // What stays in a register must not be met by anything else. What moves is loaded and stored in order.
    for (index, (one, is_written, [_, end])) in sorted.iter().enumerate() {
        let later =
            sorted[index + 1..].iter().take_while(|(other, _, reach)| other.region == one.region && reach[0] <= *end);
        for (other, is_other_written, _) in later {
            if (*is_written || *is_other_written) && !(moves(one) && moves(other)) {
                return None;
            }
        }
    }
    Some(all)
}

/// The elements of an operand, row by row.
fn elements(regions: &[Region], operand: &Operand, rows: usize, lanes: usize) -> impl Iterator<Item = Element> {
    let (start, operand) = (operand.unit * regions[operand.region].pitch + operand.offset, *operand);
    let lane_step = usize::from(operand.across == Across::Lanes);
    (0..rows).flat_map(move |row| {
        let at = start + row * operand.row;
        (0..lanes).map(move |lane| Element { region: operand.region, at: at + lane * lane_step, steps: operand.steps })
    })
}

/// Code in the making.
struct Lowering<'r, T> {
    regions: &'r [Region],
    level: usize,
    code: Code<T>,
    /// The registers of what does not move.
    kept: HashMap<Element, u8>,
    /// The registers in which elements that move are in this iteration.
    loaded: HashMap<Element, u8>,
    streams: HashMap<Element, u8>,
    numbers: HashMap<u64, u8>,
    /// How many registers are used.
    used: usize,
}

impl<'r, T: Float> Lowering<'r, T> {
    fn new(regions: &'r [Region], level: usize, places: HashMap<Element, bool>) -> Option<Self> {
        let code =
            Code { words: Vec::new(), loads: Vec::new(), numbers: Vec::new(), stores: Vec::new(), streams: Vec::new() };
        let mut lowering = Lowering {
            regions,
            level,
            code,
            kept: HashMap::new(),
            loaded: HashMap::new(),
            streams: HashMap::new(),
            numbers: HashMap::new(),
            used: 0,
        };
        let mut fixed: Vec<(Element, bool)> =
            places.into_iter().filter(|(element, _)| element.steps[level] == 0).collect();
        fixed.sort_unstable_by_key(|(element, _)| (element.region, element.at));
        for (element, is_written) in fixed {
            let register = lowering.register()?;
            lowering.kept.insert(element, register);
            lowering.code.loads.push((register, element));
            if is_written {
                lowering.code.stores.push((register, element));
            }
        }
        Some(lowering)
    }

    /// A register that nothing uses.
    fn register(&mut self) -> Option<u8> {
        self.used += 1;
        u8::try_from(self.used - 1).ok().filter(|_| self.used <= REGISTERS)
    }

    /// The register that has an element now.
    fn read(&mut self, element: Element) -> Option<u8> {
        if let Some(register) = self.kept.get(&element).or_else(|| self.loaded.get(&element)) {
            return Some(*register);
        }
        let (stream, register) = (self.stream(element)?, self.register()?);
        self.word(Verb::Load, register, [stream, 0, 0]);
        self.loaded.insert(element, register);
        Some(register)
    }

    fn stream(&mut self, element: Element) -> Option<u8> {
        if let Some(stream) = self.streams.get(&element) {
            return Some(*stream);
        }
        let stream = u8::try_from(self.code.streams.len()).ok()?;
        self.code.streams.push(element);
        self.streams.insert(element, stream);
        Some(stream)
    }

    /// The register of a number.
    fn number(&mut self, number: f64) -> Option<u8> {
        if let Some(register) = self.numbers.get(&number.to_bits()) {
            return Some(*register);
        }
        let register = self.register()?;
        self.code.numbers.push((register, T::from_f64(number)));
        self.numbers.insert(number.to_bits(), register);
        Some(register)
    }

    fn word(&mut self, verb: Verb, to: u8, from: [u8; 3]) {
        self.code.words.push(Word { verb, to, from });
    }

    /// The register in which an element is to be computed.
    fn target(&mut self, element: Element) -> Option<u8> {
        self.kept.get(&element).copied().map_or_else(|| self.register(), Some)
    }

    /// An element is in a register: what moves is stored, and every other place in its region may have changed.
    fn written(&mut self, element: Element, register: u8) -> Option<()> {
        if element.steps[self.level] != 0 {
            let stream = self.stream(element)?;
            self.word(Verb::Store, stream, [register, 0, 0]);
            self.loaded.retain(|other, _| other.region != element.region);
            self.loaded.insert(element, register);
        }
        Some(())
    }

    fn instruction(&mut self, instruction: &Instruction) -> Option<()> {
        let Instruction { op, rows, lanes, to, from } = instruction;
        let regions = self.regions;
        let all = |operand: &Operand, rows, lanes| elements(regions, operand, rows, lanes).collect::<Vec<Element>>();
        let verb = match op {
            Op::Fill(number) => {
                let number = self.number(*number)?;
                return all(to, *rows, *lanes)
                    .into_iter()
                    .try_for_each(|to| self.single(Verb::Copy, to, [number, 0, 0]));
            }
            Op::Transpose => {
                let (to, from) = (all(to, *rows, *lanes), all(&from[0], *lanes, *rows));
                for (index, to) in to.into_iter().enumerate() {
                    let (row, lane) = (index / lanes, index % lanes);
                    let x = self.read(from[lane * rows + row])?;
                    self.single(Verb::Copy, to, [x, 0, 0])?;
                }
                return Some(());
            }
            Op::FoldLanes { fold, accumulate } | Op::FoldRows { fold, accumulate } => {
                let of_lanes = matches!(op, Op::FoldLanes { .. });
                let from: Vec<Vec<Element>> = from.iter().map(|operand| all(operand, *rows, *lanes)).collect();
                let to = if of_lanes { all(to, *rows, 1) } else { all(to, 1, *lanes) };
                for (index, to) in to.into_iter().enumerate() {
                    let folded: Vec<usize> = match of_lanes {
                        true => (index * lanes..(index + 1) * lanes).collect(),
                        false => (0..*rows).map(|row| row * lanes + index).collect(),
                    };
                    self.fold(*fold, *accumulate, to, &from, &folded)?;
                }
                return Some(());
            }
            Op::Unary(Unary::Copy) => Verb::Copy,
            Op::Unary(Unary::Neg) => Verb::Neg,
            Op::Unary(Unary::Square) => Verb::Square,
            Op::Unary(op) => Verb::Unary(*op),
            Op::Binary(Binary::Add) => Verb::Add,
            Op::Binary(Binary::Sub) => Verb::Sub,
            Op::Binary(Binary::Mul) => Verb::Mul,
            Op::Binary(Binary::Div) => Verb::Div,
            Op::Binary(Binary::Less) => Verb::Less,
            Op::Binary(Binary::LessEqual) => Verb::LessEqual,
            Op::Binary(op) => Verb::Binary(*op),
            Op::Ternary(Ternary::MulAdd) => Verb::MulAdd,
            Op::Ternary(Ternary::MulSub) => Verb::MulSub,
            Op::Ternary(Ternary::NegMulAdd) => Verb::NegMulAdd,
            Op::Ternary(Ternary::Select) => Verb::Select,
            Op::Product { .. } | Op::Sink { .. } | Op::Pack { .. } | Op::Recur { .. } => return None,
        };
        let from: Vec<Vec<Element>> = from.iter().map(|operand| all(operand, *rows, *lanes)).collect();
        for (index, to) in all(to, *rows, *lanes).into_iter().enumerate() {
            let mut registers = [0; 3];
            for (register, from) in registers.iter_mut().zip(&from) {
                *register = self.read(from[index])?;
            }
            self.single(verb, to, registers)?;
        }
        Some(())
    }

    fn single(&mut self, verb: Verb, to: Element, from: [u8; 3]) -> Option<()> {
        // A copy to what moves needs no register of its own.
        if verb == Verb::Copy && to.steps[self.level] != 0 {
            return self.written(to, from[0]);
        }
        let register = self.target(to)?;
        self.word(verb, register, from);
        self.written(to, register)
    }

    /// The fold of elements, or of the products of two, in order.
    fn fold(
        &mut self,
        fold: Fold,
        accumulate: bool,
        to: Element,
        from: &[Vec<Element>],
        folded: &[usize],
    ) -> Option<()> {
        let verb = match fold {
            Fold::Sum => Verb::Add,
            Fold::Product => Verb::Mul,
            Fold::Max => Verb::Binary(Binary::Max),
            Fold::Min => Verb::Binary(Binary::Min),
        };
        let mut sum = if accumulate { Some(self.read(to)?) } else { None };
        for index in folded {
            let x = self.read(from[0][*index])?;
            let y = if from.len() == 2 { Some(self.read(from[1][*index])?) } else { None };
            sum = Some(match (sum, y) {
                (None, None) => x,
                (None, Some(y)) => self.combined(Verb::Mul, [x, y, 0])?,
                (Some(sum), None) => self.combined(verb, [sum, x, 0])?,
                (Some(sum), Some(y)) => self.combined(Verb::MulAdd, [x, y, sum])?,
            });
        }
        self.single(Verb::Copy, to, [sum?, 0, 0])
    }

    fn combined(&mut self, verb: Verb, from: [u8; 3]) -> Option<u8> {
        let register = self.register()?;
        self.word(verb, register, from);
        Some(register)
    }
}
