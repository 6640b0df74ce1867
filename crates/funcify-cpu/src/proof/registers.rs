//! Interprets register code over the field, to check that it is equivalent to the instructions of its loop.
//!
//! The check covers both the code that the executor interprets and the code that is translated to machine code. Each
//! kind of code starts with the memory contents from before the loop, and must leave the same contents as the loop's
//! instructions.

use std::collections::HashMap;
use std::rc::Rc;

use super::field::{self, add, mul, sub};
use super::memory::{Bases, Cell, Memory, OutOfBounds};
use super::model::Model;
use super::position::Position;
use crate::body::registers::{Factor, Piece, Product, REGISTERS, RegisterCode, RegisterOp, Verb};
use crate::body::{PlannedLoop, Step, register_codes};
use crate::kernels::{Binary, Ternary, Unary};
use crate::plan::{Instruction, Node, Op, Plan, Region};
use crate::run::Element;
use funcify_body::machine::Machine;

/// The register code of a loop, in one version for each register width that is checked.
pub(super) type Lowered = Rc<[FieldCode]>;

/// A function that returns the register code of a loop, for each register width that is checked.
type MakeCodes = fn(&[Region], &PlannedLoop<'_>, Machine) -> Vec<FieldCode>;

/// The information that is needed to lower the loops of a plan to register code.
pub(super) struct Registers<'p> {
    regions: &'p [Region],
    machine: Machine,
    codes: MakeCodes,
}

/// The register code of a loop, over elements of the field.
#[derive(Clone, Debug)]
pub(super) struct FieldCode {
    width: usize,
    code: RegisterCode<u64>,
    /// For each matrix product, the number of columns of the result.
    lanes: Rc<[usize]>,
}

/// The reason why register code stopped early.
pub(super) enum RegisterFault {
    Budget,
    OutOfBounds(OutOfBounds),
}

impl From<OutOfBounds> for RegisterFault {
    fn from(error: OutOfBounds) -> Self {
        RegisterFault::OutOfBounds(error)
    }
}

impl<'p> Registers<'p> {
    pub(super) fn of<T: Element>(plan: &'p Plan, machine: Machine) -> Self {
        Registers { regions: &plan.regions, machine, codes: codes::<T> }
    }

    /// Returns the register code of a loop for each register width that is checked, or an empty list if the loop cannot
    /// be lowered. `times` holds the trip counts of the enclosing loops and of this loop, outermost first.
    pub(super) fn lower(&self, node: &Node, times: &[usize]) -> Lowered {
        let planned = PlannedLoop::of(node, times);
        planned.map_or_else(Vec::new, |planned| (self.codes)(self.regions, &planned, self.machine)).into()
    }
}

fn codes<T: Element>(regions: &[Region], planned: &PlannedLoop<'_>, machine: Machine) -> Vec<FieldCode> {
    let lanes: Rc<[usize]> = planned
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Do(instruction) if matches!(instruction.op, Op::Product { .. }) => Some(instruction.lanes),
            _ => None,
        })
        .collect();
    let codes = register_codes::<T>(regions, planned, machine);
    codes.into_iter().map(|(code, width)| FieldCode::of(code, width, lanes.clone())).collect()
}

impl FieldCode {
    fn of<T: Element>(code: RegisterCode<T>, width: usize, lanes: Rc<[usize]>) -> Self {
        let RegisterCode { vectors, ops, loads, numbers, stores, streams, products } = code;
        let numbers = numbers.into_iter().map(|(to, number)| (to, field::of_f64(number.to_f64()))).collect();
        FieldCode { width, code: RegisterCode { vectors, ops, loads, numbers, stores, streams, products }, lanes }
    }

    /// Runs the register code for at most `most` iterations of the loop. `outer` holds the counters of the enclosing
    /// loops, and `left` the remaining budget of operations.
    pub(super) fn run(
        &self,
        model: Model,
        memory: &mut Memory,
        bases: &Bases,
        outer: &[isize],
        most: usize,
        left: &mut usize,
    ) -> Result<(), RegisterFault> {
        let width = self.width;
        let uncomputed = |index: usize| model.uncomputed_element(1 << 40 | index as u64);
        let mut file = File { width, cells: (0..REGISTERS * width).map(uncomputed).collect() };
        let at = |piece: &Piece, counters: &[isize]| bases.first_cell(piece.region, piece.at, piece.steps, counters);
        for (to, piece) in &self.code.loads {
            file.load(*to, memory, piece, at(piece, outer))?;
        }
        for (to, number) in &self.code.numbers {
            file.of(*to).fill(*number);
        }
        let mut counters = outer.to_vec();
        counters.push(0);
        'iterations: for counter in 0..most {
            counters[outer.len()] = counter as isize;
            let mut last = vec![0; width];
            for op in &self.code.ops {
                *left = left.checked_sub(width).ok_or(RegisterFault::Budget)?;
                match op.verb {
                    Verb::Load => {
                        let piece = &self.code.streams[usize::from(op.from[0])];
                        file.load(op.to, memory, piece, at(piece, &counters))?;
                    }
                    Verb::Store | Verb::StoreLast => {
                        let piece = &self.code.streams[usize::from(op.to)];
                        let from = if op.verb == Verb::Store { file.get(op.from[0]) } else { last.clone() };
                        store(&from, memory, piece, at(piece, &counters))?;
                        continue;
                    }
                    Verb::EndUnless if file.get(op.from[0])[0] != 0 => continue,
                    Verb::EndUnless => break 'iterations,
                    Verb::Product => {
                        self.product(usize::from(op.from[0]), &mut file, memory, |piece| at(piece, &counters))?;
                        continue;
                    }
                    verb => {
                        let [a, b, c] = op.from.map(|register| file.get(register));
                        let value = compute(model, verb, (&a, &b, &c), &last, usize::from(op.from[1]));
                        file.of(op.to).copy_from_slice(&value);
                    }
                }
                last = file.get(op.to);
            }
        }
        for (from, piece) in &self.code.stores {
            store(&file.get(*from), memory, piece, at(piece, outer))?;
        }
        Ok(())
    }

    fn product(
        &self,
        number: usize,
        file: &mut File,
        memory: &Memory,
        at: impl Fn(&Piece) -> usize,
    ) -> Result<(), OutOfBounds> {
        let (Product { factors, init, to }, lanes) = (&self.code.products[number], self.lanes[number]);
        let mut sums = match init {
            Some(init) => file.row(init, lanes),
            None => vec![0; lanes],
        };
        for Factor { row, inner, packed } in factors {
            let (row, matrix) = (file.row(row, *inner), &self.code.streams[usize::from(*packed)]);
            let start = at(matrix);
            for (i, x) in row.iter().enumerate() {
                for (lane, sum) in sums.iter_mut().enumerate() {
                    *sum = add(*sum, mul(*x, memory.read(matrix.region, start + i * lanes + lane)?));
                }
            }
        }
        for (register, part) in to.iter().zip(sums.chunks(self.width)) {
            match part {
                [one] => file.of(*register).fill(*one),
                part => file.of(*register)[..part.len()].copy_from_slice(part),
            }
        }
        Ok(())
    }

    /// Describes a cell in which the code and the instructions left different values, and the ops that wrote the cell.
    /// Returns `None` if there is no such cell.
    pub(super) fn difference(
        &self,
        node: &Node,
        place: &Position,
        bases: &Bases,
        memory: &Memory,
        expected: &[(Cell, u64)],
        found: &[(Cell, u64)],
    ) -> Option<String> {
        let before = |cell: &Cell| memory.regions[cell.region][cell.at];
        let found: HashMap<Cell, u64> = found.iter().copied().collect();
        let of_expected: HashMap<Cell, u64> = expected.iter().copied().collect();
        let missed = expected
            .iter()
            .rev()
            .map(|(cell, _)| cell)
            .find(|cell| found.get(cell).copied().unwrap_or_else(|| before(cell)) != of_expected[cell]);
        let added = || found.iter().find(|(cell, value)| !of_expected.contains_key(cell) && **value != before(cell));
        let cell = *missed.or_else(|| added().map(|(cell, _)| cell))?;
        let Position { stage, part, path, .. } = place;
        let writer = writer_of(node, bases, &place.counters, cell);
        let writer = writer.map_or("no instruction of the loop writes".to_string(), |(index, instruction)| {
            format!("instruction {index} (`{:?}`) of the loop writes", instruction.op)
        });
        Some(format!(
            "the register code with {} elements per register of the loop at stage {stage}, part {part}, node {path:?}: \
             {writer} element {} of region {}, where the code leaves a different value: {}",
            self.width,
            cell.at,
            cell.region,
            self.explain_store(cell, bases, &place.counters),
        ))
    }

    /// Describes the register ops that compute and store a cell.
    fn explain_store(&self, cell: Cell, bases: &Bases, outer: &[isize]) -> String {
        let covers = |piece: &Piece, counters: &[isize]| {
            let start = bases.first_cell(piece.region, piece.at, piece.steps, counters);
            piece.region == cell.region && (start..start + piece.len).contains(&cell.at)
        };
        let writer = |ops: &[RegisterOp], register: u8| {
            let is_writer = |op: &&(usize, &RegisterOp)| {
                op.1.to == register && !matches!(op.1.verb, Verb::Store | Verb::StoreLast | Verb::EndUnless)
            };
            let numbered: Vec<(usize, &RegisterOp)> = ops.iter().enumerate().collect();
            match numbered.iter().rev().find(is_writer) {
                Some((index, op)) => format!("register op {index} (`{:?}` of registers {:?})", op.verb, op.from),
                None => format!("register {register}, loaded before the loop"),
            }
        };
        if let Some((register, _)) = self.code.stores.iter().find(|(_, piece)| covers(piece, outer)) {
            return format!("it is stored after the loop, from {}", writer(&self.code.ops, *register));
        }
        let stores = self.code.ops.iter().enumerate().filter(|(_, op)| op.verb == Verb::Store);
        for (index, op) in stores {
            let piece = &self.code.streams[usize::from(op.to)];
            let counters = |counter: isize| [outer, &[counter]].concat();
            if (0..1 << 16).any(|counter| covers(piece, &counters(counter))) {
                let source = writer(&self.code.ops[..index], op.from[0]);
                return format!("register op {index} (`Store`) stores {source}");
            }
        }
        "no register op stores there".to_string()
    }
}

/// Finds a loop's last instruction that writes a cell. Returns the index of the instruction and the instruction itself,
/// or `None` if no instruction writes the cell.
fn writer_of<'n>(node: &'n Node, bases: &Bases, outer: &[isize], cell: Cell) -> Option<(usize, &'n Instruction)> {
    let (first, second): (&[Node], &[Node]) = match node {
        Node::Loop { body, .. } => (body, &[]),
        Node::While { test, body, .. } => (test, body),
        Node::Do(_) | Node::Choice { .. } | Node::Fused(_) | Node::Evaluate(_) => return None,
    };
    let all = first.iter().chain(second).enumerate();
    let writes = all.filter_map(|(index, node)| {
        let Node::Do(instruction) = node else { return None };
        let Instruction { to, rows, lanes, .. } = instruction;
        let covers = |counter: isize| {
            let start = bases.start(to, &[outer, &[counter]].concat());
            (0..*rows).any(|row| (start + row * to.row..start + row * to.row + lanes).contains(&cell.at))
        };
        (to.region == cell.region && (0..1 << 12).any(covers)).then_some((index, instruction))
    });
    writes.last()
}

/// The register file, with `width` elements per register.
struct File {
    width: usize,
    cells: Vec<u64>,
}

impl File {
    fn of(&mut self, register: u8) -> &mut [u64] {
        &mut self.cells[usize::from(register) * self.width..][..self.width]
    }

    fn get(&self, register: u8) -> Vec<u64> {
        self.cells[usize::from(register) * self.width..][..self.width].to_vec()
    }

    /// Returns the first `count` elements of several registers, concatenated in the given order.
    fn row(&self, registers: &[u8], count: usize) -> Vec<u64> {
        registers.iter().flat_map(|register| self.get(*register)).take(count).collect()
    }

    /// Loads a piece into register `to`. A single element is broadcast to all lanes. Otherwise, lanes beyond the length
    /// of the piece keep their values.
    fn load(&mut self, to: u8, memory: &Memory, piece: &Piece, at: usize) -> Result<(), OutOfBounds> {
        if piece.len == 1 {
            let one = memory.read(piece.region, at)?;
            self.of(to).fill(one);
        } else {
            for index in 0..piece.len.min(self.width) {
                self.of(to)[index] = memory.read(piece.region, at + index)?;
            }
        }
        Ok(())
    }
}

fn store(register: &[u64], memory: &mut Memory, piece: &Piece, at: usize) -> Result<(), OutOfBounds> {
    (0..piece.len).try_for_each(|index| memory.write(piece.region, at + index, register[index]))
}

/// Computes the result of a register op for each lane.
fn compute(model: Model, verb: Verb, (a, b, c): (&[u64], &[u64], &[u64]), last: &[u64], count: usize) -> Vec<u64> {
    if let Verb::FoldLanes(fold) = verb {
        let folded = a[1..count].iter().fold(a[0], |sum, x| model.fold(fold, sum, *x));
        return vec![folded; a.len()];
    }
    let lane = |lane: usize| {
        let (a, b, c, last) = (a[lane], b[lane], c[lane], last[lane]);
        match verb {
            Verb::Copy => a,
            Verb::Neg => model.unary(Unary::Neg, a),
            Verb::Square => mul(a, a),
            Verb::Add => add(a, b),
            Verb::Sub => sub(a, b),
            Verb::Mul => mul(a, b),
            Verb::Div => model.divide(a, b),
            Verb::Less => model.binary(Binary::Less, a, b),
            Verb::LessEqual => model.binary(Binary::LessEqual, a, b),
            Verb::MulAdd => model.ternary(Ternary::MulAdd, a, b, c),
            Verb::MulSub => model.ternary(Ternary::MulSub, a, b, c),
            Verb::NegMulAdd => model.ternary(Ternary::NegMulAdd, a, b, c),
            Verb::Select => model.ternary(Ternary::Select, a, b, c),
            Verb::Unary(op) => model.unary(op, a),
            Verb::Binary(op) => model.binary(op, a, b),
            Verb::AddLast => add(last, a),
            Verb::SubFromLast => sub(last, a),
            Verb::SubLast => sub(a, last),
            Verb::MulLast => mul(last, a),
            Verb::DivOfLast => model.divide(last, a),
            Verb::DivByLast => model.divide(a, last),
            Verb::MulAddLast => add(mul(a, b), last),
            Verb::MulLastAdd => add(mul(last, a), b),
            Verb::MulLastSub => sub(mul(last, a), b),
            Verb::MulSubLast => sub(mul(a, b), last),
            Verb::NegMulAddLast => sub(last, mul(a, b)),
            Verb::NegMulLastAdd => sub(b, mul(last, a)),
            Verb::SquareLast => mul(last, last),
            Verb::NegLast => model.unary(Unary::Neg, last),
            Verb::UnaryLast(op) => model.unary(op, last),
            Verb::Load | Verb::Store | Verb::StoreLast | Verb::EndUnless | Verb::Product | Verb::FoldLanes(_) => {
                unreachable!("this verb does not compute lane by lane")
            }
        }
    };
    (0..a.len()).map(lane).collect()
}

#[cfg(test)]
mod tests {
    use super::super::interpret::{Interpreter, PartOrder, Stop};
    use super::super::memory::Memory;
    use super::super::model::{Model, Rounding};
    use super::*;
    use crate::plan::{Operand, Split, Storage, repeat};

    /// Compares register code with the instructions of a loop. Each step of the loop copies a state to a row of a
    /// trace, overwrites the state, and then sets a second state to that row.
    fn compared(codes: MakeCodes) -> Result<(), Stop> {
        let mut plan = Plan::default();
        let xs = Operand::of(plan.region(Storage::Input(0), 4, 1, Split::Whole)).step(0, 1);
        let trace = Operand::of(plan.region(Storage::Output(0), 4, 1, Split::Whole)).step(0, 1);
        let [state, taken] = [(); 2].map(|()| Operand::of(plan.shared(1)));
        let unary = |op, to, from| Op::Unary(op).over([1, 1], to, &[from]);
        let body =
            vec![unary(Unary::Copy, trace, state), unary(Unary::Sin, state, xs), unary(Unary::Copy, taken, trace)];
        plan.once(vec![repeat(4, body)]);
        let model = Model::new(0, Rounding::Symbol);
        let registers = Registers { regions: &plan.regions, machine: Machine::detect(), codes };
        let memory = Memory::new(&plan, |number| model.uncomputed_element(number));
        Interpreter::new(&plan, model, memory, 10_000, |number| number)
            .with_registers(&registers)
            .run(PartOrder::Upward)
    }

    /// Returns register code for the loop that `compared` builds. If `aside` is set, the code copies the state to
    /// register 3 before it overwrites the state, and stores that copy as the trace's row. Otherwise, it stores the
    /// state's register, which is wrong, because the state was overwritten in the meantime.
    fn code(aside: bool) -> Vec<FieldCode> {
        let piece = |region, step| Piece { region, at: 0, steps: [step, 0, 0, 0, 0], len: 1 };
        let op = |verb, to, from| RegisterOp { verb, to, from: [from, 0, 0] };
        let keep = aside.then(|| op(Verb::Copy, 3, 0));
        let ops = [op(Verb::Store, 1, 0)].into_iter().chain(keep).chain([
            op(Verb::Load, 2, 0),
            op(Verb::Unary(Unary::Sin), 0, 2),
            op(Verb::Copy, 1, if aside { 3 } else { 0 }),
        ]);
        let states = vec![(0, piece(2, 0)), (1, piece(3, 0))];
        let (loads, streams) = (states.clone(), vec![piece(0, 1), piece(1, 1)]);
        let code = RegisterCode { ops: ops.collect(), loads, stores: states, streams, ..RegisterCode::default() };
        vec![FieldCode { width: 1, code, lanes: [].into() }]
    }

    #[test]
    fn a_register_that_is_read_under_a_second_name_after_it_was_written() {
        assert!(compared(|_, _, _| code(true)).is_ok());
        let Err(Stop::Registers(message)) = compared(|_, _, _| code(false)) else { panic!("the wrong code passes") };
        println!("{message}");
        for words in
            ["instruction 2 (`Unary(Copy)`)", "element 0 of region 3", "register op 3 (`Copy` of registers [0, 0, 0])"]
        {
            assert!(message.contains(words), "no `{words}` in: {message}");
        }
    }
}
