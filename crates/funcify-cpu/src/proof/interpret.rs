//! Interprets plans over the field: stages, parts, loops and choices. Single instructions are interpreted in
//! `instruction.rs`.

use std::collections::HashMap;

use super::effort;
use super::history::History;
use super::memory::{Bases, Memory, OutOfBounds};
use super::model::Model;
use super::position::{NodeId, Position};
use super::registers::{Lowered, RegisterFault, Registers};
use crate::plan::{Instruction, Node, Operand, Plan, Stage, UNBOUNDED_ITERATIONS};

/// The reason why the interpreter stopped early.
#[derive(Debug)]
pub(super) enum Stop {
    /// The interpretation would exceed its budget.
    Budget,
    /// An instruction reads or writes past the end of a region.
    OutOfBounds(String),
    /// The register code of a loop computes different values than the instructions of the loop.
    Registers(String),
}

/// The order in which the interpreter runs the parts of a stage. Parts do not see each other's writes, so both orders
/// must yield the same results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PartOrder {
    Upward,
    Downward,
}

/// The maximum number of times that the register code of a loop is compared with the loop's instructions.
const MAX_COMPARISONS: usize = 2;

/// The state of the interpreter while it runs a plan.
pub(super) struct Interpreter<'p> {
    pub(super) plan: &'p Plan,
    pub(super) model: Model,
    pub(super) memory: Memory,
    pub(super) history: Option<History<'p>>,
    /// The remaining budget, in elementary operations.
    pub(super) left: usize,
    /// A function that rounds a number to the plan's element type.
    pub(super) rounded: fn(f64) -> f64,
    registers: Option<&'p Registers<'p>>,
    /// For each loop that was compared with its register code: the number of comparisons so far, and the register code.
    compared: HashMap<NodeId, (usize, Lowered)>,
    pub(super) bases: Bases,
    pub(super) place: Position,
    times: Vec<usize>,
    /// A buffer for the results of an instruction before they are written.
    pub(super) values: Vec<u64>,
}

impl<'p> Interpreter<'p> {
    pub(super) fn new(plan: &'p Plan, model: Model, memory: Memory, left: usize, rounded: fn(f64) -> f64) -> Self {
        Interpreter {
            plan,
            model,
            memory,
            history: None,
            left,
            rounded,
            registers: None,
            compared: Default::default(),
            bases: Bases::of(plan, &Stage::default(), 0),
            place: Position::default(),
            times: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Makes the interpreter compare loops with their register code.
    pub(super) fn with_registers(mut self, registers: &'p Registers<'p>) -> Self {
        self.registers = Some(registers);
        self
    }

    /// Makes the interpreter record which instruction wrote each cell.
    pub(super) fn with_history(mut self, history: History<'p>) -> Self {
        self.history = Some(history);
        self
    }

    /// Runs all stages of the plan, with the parts of each stage in the given order.
    pub(super) fn run(&mut self, order: PartOrder) -> Result<(), Stop> {
        let plan = self.plan;
        for (number, stage) in plan.stages.iter().enumerate() {
            for index in 0..stage.parts.len() {
                let index = if order == PartOrder::Upward { index } else { stage.parts.len() - 1 - index };
                self.bases = Bases::of(plan, stage, index);
                let program = stage.parts[index].program;
                self.place = Position { stage: number, part: index, program, ..Position::default() };
                self.nodes(&stage.programs[program])?;
            }
        }
        Ok(())
    }

    fn nodes(&mut self, nodes: &'p [Node]) -> Result<(), Stop> {
        nodes.iter().enumerate().try_for_each(|(index, node)| self.run_child(index, |it| it.node(node)))
    }

    /// Moves to child `index` of the current node, calls `run`, and moves back.
    fn run_child(&mut self, index: usize, run: impl FnOnce(&mut Self) -> Result<(), Stop>) -> Result<(), Stop> {
        self.place.path.push(index);
        run(self)?;
        self.place.path.pop();
        Ok(())
    }

    fn node(&mut self, node: &'p Node) -> Result<(), Stop> {
        match node {
            Node::Do(instruction) => self.run_instruction(instruction),
            Node::Fused(node) => {
                self.spend(node.fused.lanes() * (1 + node.fused.body().nodes().len()))?;
                self.fused(node).map_err(|error| self.out_of_bounds(&error))
            }
            Node::Evaluate(_) => unreachable!("plans with ops that are computed as a whole are not proved"),
            Node::Loop { times: 0, .. } | Node::While { bound: Some(0), .. } => Ok(()),
            Node::Loop { times, body } => self.run_loop(node, *times, |it| it.repeat(*times, body)),
            Node::While { test, holds, body, bound } => {
                self.run_loop(node, bound.unwrap_or(UNBOUNDED_ITERATIONS), |it| {
                    it.repeat_while((test, holds, body), bound.unwrap_or(usize::MAX))
                })
            }
            Node::Choice { holds, branches } => {
                let chosen = usize::from(!self.holds(holds)?);
                self.run_child(chosen, |it| it.nodes(&branches[chosen]))
            }
        }
    }

    fn run_loop(
        &mut self,
        node: &'p Node,
        times: usize,
        run: impl FnOnce(&mut Self) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        self.times.push(times);
        self.compare_with_registers(node, run)?;
        self.times.pop();
        Ok(())
    }

    fn repeat(&mut self, times: usize, body: &'p [Node]) -> Result<(), Stop> {
        self.place.counters.push(0);
        for counter in 0..times {
            self.set_counter(counter);
            self.nodes(body)?;
        }
        self.place.counters.pop();
        Ok(())
    }

    fn repeat_while(
        &mut self,
        (test, holds, body): (&'p [Node], &'p Operand, &'p [Node]),
        bound: usize,
    ) -> Result<(), Stop> {
        self.place.counters.push(0);
        for counter in 0..bound {
            self.set_counter(counter);
            self.run_child(0, |it| it.nodes(test))?;
            self.spend(1)?;
            if !self.holds(holds)? {
                break;
            }
            self.run_child(1, |it| it.nodes(body))?;
        }
        self.place.counters.pop();
        Ok(())
    }

    fn set_counter(&mut self, counter: usize) {
        if let Some(last) = self.place.counters.last_mut() {
            *last = counter as isize;
        }
    }

    /// Returns `true` if the element that holds a condition is nonzero.
    fn holds(&mut self, holds: &Operand) -> Result<bool, Stop> {
        let at = self.bases.start(holds, &self.place.counters);
        match self.memory.read(holds.region, at) {
            Ok(element) => Ok(element != 0),
            Err(error) => Err(self.out_of_bounds(&error)),
        }
    }

    fn run_instruction(&mut self, instruction: &'p Instruction) -> Result<(), Stop> {
        self.spend(effort::instruction_cost(instruction))?;
        if self.history.is_some() {
            self.memory.journal = Some(Vec::new());
            self.memory.reads = Some(Default::default());
        }
        self.instruction(instruction).map_err(|error| self.out_of_bounds(&error))?;
        if let Some(history) = &mut self.history {
            history.note(instruction, &self.place, &mut self.memory);
        }
        Ok(())
    }

    fn out_of_bounds(&self, OutOfBounds(cell): &OutOfBounds) -> Stop {
        let Position { stage, part, path, .. } = &self.place;
        Stop::OutOfBounds(format!(
            "stage {stage}, part {part}, node {path:?} accesses element {} of region {}, which does not exist",
            cell.at, cell.region
        ))
    }

    pub(super) fn spend(&mut self, operations: usize) -> Result<(), Stop> {
        self.left = self.left.checked_sub(operations).ok_or(Stop::Budget)?;
        Ok(())
    }

    /// Runs a loop, and then each version of its register code on the same initial memory. Returns an error if a
    /// version leaves different memory contents than the loop.
    fn compare_with_registers(
        &mut self,
        node: &'p Node,
        run: impl FnOnce(&mut Self) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let Some(registers) = self.registers.filter(|_| self.memory.journal.is_none()) else { return run(self) };
        let times = &self.times;
        let (count, lowered) =
            self.compared.entry(self.place.node()).or_insert_with(|| (0, registers.lower(node, times)));
        if *count == MAX_COMPARISONS || lowered.is_empty() {
            return run(self);
        }
        *count += 1;
        let lowered = lowered.clone();
        let before = self.left;
        self.memory.journal = Some(Vec::new());
        run(self)?;
        let expected = self.memory.undo();
        let spent = before - self.left;
        for code in lowered.iter() {
            self.spend(spent)?;
            self.memory.journal = Some(Vec::new());
            let most = self.times.last().copied().filter(|times| *times != UNBOUNDED_ITERATIONS).unwrap_or(usize::MAX);
            let ran = code.run(self.model, &mut self.memory, &self.bases, &self.place.counters, most, &mut self.left);
            let found = self.memory.undo();
            if let Err(error) = ran {
                return Err(match error {
                    RegisterFault::Budget => Stop::Budget,
                    RegisterFault::OutOfBounds(error) => self.out_of_bounds(&error),
                });
            }
            if let Some(fault) = code.difference(node, &self.place, &self.bases, &self.memory, &expected, &found) {
                return Err(Stop::Registers(fault));
            }
        }
        for (cell, value) in expected {
            self.memory.regions[cell.region][cell.at] = value;
        }
        Ok(())
    }
}
