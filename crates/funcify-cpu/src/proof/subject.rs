//! The subject of a proof: a plan and its graph. A proof builds inputs, evaluates the plan and the graph, and compares
//! the results.

use std::collections::HashSet;

use funcify_core::cancel::ActiveHandles;
use funcify_core::graph::Source;
use funcify_core::ops::Op;
use funcify_core::types::Sizes;
use funcify_core::{DType, Graph, HostTensor, Scalar};

use super::effort;
use super::field::{self, of_signed};
use super::graph::{Evaluator, Grid, Meaning, NoMeaning, unknown};
use super::history::History;
use super::interpret::{Interpreter, PartOrder, Stop};
use super::memory::{Cell, Memory};
use super::model::{Model, Rounding};
use super::ops::of_scalar;
use super::reason_of;
use super::registers::Registers;
use super::verdict::Verdict;
use crate::plan::{Plan, Region, Storage};
use funcify_body::machine::Machine;

/// The claim to prove: for the given sizes, `plan` computes the same values as `graph`.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) sizes: &'a Sizes,
    /// The plan. Its inputs are the graph's inputs, followed by the constants. Its outputs are the graph's outputs,
    /// followed by the refusal flag if `refuses` is set.
    pub(crate) plan: &'a Plan,
    /// The element type of the plan.
    pub(crate) dtype: DType,
    pub(crate) constants: &'a [HostTensor],
    /// `true` if the plan has a refusal flag: an additional output that is nonzero if the results are invalid.
    pub(crate) refuses: bool,
    /// The machine that the plan will run on.
    pub(crate) machine: Machine,
}

/// The range of the random integers for each seed of a proof: the least integer, and the number of integers. A seed also
/// determines the other random inputs, and a random interpretation of functions. The last seed is tried only if the
/// graph or the plan rejected the other inputs. Its integers are small, because they may be sizes.
const INTEGERS_OF_SEEDS: [(i64, u64); 3] = [(-2, 9), (0, 20), (0, 3)];

/// The number of operations after which a proof tries no further seed, to keep debug builds fast enough. The parts run
/// in opposite orders for the two seeds, so a plan that needs fewer operations is checked in both orders.
const SUFFICIENT_OPERATIONS: usize = 100_000;

/// The outcome of comparing the plan with the graph for one seed.
enum Evidence {
    Agrees,
    /// The plan rejects the inputs.
    None,
    /// The results differ. Contains the index of the output, and the index of the element within that output.
    Differs(usize, usize),
}

/// The reason why the plan could not be compared with the graph for a seed.
enum SeedError {
    Graph(NoMeaning),
    Plan(Stop),
}

impl Subject<'_> {
    /// Tries to prove that the plan computes the same values as the graph.
    pub(super) fn prove(&self) -> Verdict {
        if self.plan.has_whole_ops() {
            return Verdict::Unknown("some ops are computed as a whole".to_string());
        }
        match self.with_rounding(Rounding::Symbol) {
            Verdict::Failed(_) if self.rounds() => match self.with_rounding(Rounding::Identity) {
                Verdict::Proved => Verdict::ProvedUpToRounding,
                verdict => verdict,
            },
            verdict => verdict,
        }
    }

    fn with_rounding(&self, rounding: Rounding) -> Verdict {
        let (mut agreed, mut reason) = (false, "the plan refused all inputs".to_string());
        let mut spent = 0;
        let last = INTEGERS_OF_SEEDS.len() as u64 - 1;
        for seed in 0..=last {
            if agreed && (seed == last || spent > SUFFICIENT_OPERATIONS) {
                break;
            }
            match self.seed(seed, rounding, &mut spent) {
                Ok(Evidence::Agrees) => agreed = true,
                Ok(Evidence::None) => {}
                Ok(Evidence::Differs(output, at)) => {
                    return Verdict::Failed(self.diagnose(seed, rounding, output, at));
                }
                Err(SeedError::Plan(Stop::OutOfBounds(fault) | Stop::Registers(fault))) => {
                    return Verdict::Failed(fault);
                }
                Err(SeedError::Plan(Stop::Budget)) => return Verdict::Unknown("the proof takes too long".to_string()),
                Err(SeedError::Graph(none @ NoMeaning::Refused(_))) => reason = reason_of(&none),
                Err(SeedError::Graph(none)) => return Verdict::Unknown(reason_of(&none)),
            }
        }
        if agreed { Verdict::Proved } else { Verdict::Unknown(reason) }
    }

    /// Returns `true` if the graph has floats that are narrower than the plan's element type.
    fn rounds(&self) -> bool {
        let mut graphs = vec![self.graph];
        while let Some(graph) = graphs.pop() {
            let is_narrower = |dtype: DType| dtype.is_float() && dtype != self.dtype;
            if graph.values().any(|value| is_narrower(graph.ty(value).dtype)) {
                return true;
            }
            graphs.extend(graph.nodes().iter().flat_map(|node| node.op.bodies()).map(|body| &**body));
        }
        false
    }

    fn seed(&self, seed: u64, rounding: Rounding, spent: &mut usize) -> Result<Evidence, SeedError> {
        let model = Model::new(seed, rounding);
        let inputs = self.inputs(model, seed).map_err(SeedError::Graph)?;
        let (expected, sizes, _) = self.meaning(model, &inputs, None).map_err(SeedError::Graph)?;
        let order = if seed.is_multiple_of(2) { PartOrder::Upward } else { PartOrder::Downward };
        let elements = |region: &Region| region.units * region.pitch;
        let budget = effort::plan_budget();
        if self.plan.scratch_elements() + self.plan.regions.iter().map(elements).sum::<usize>() > budget {
            return Err(SeedError::Plan(Stop::Budget));
        }
        let registers = self.registers();
        let memory = self.memory(model, &inputs);
        let mut interpreter = Interpreter::new(self.plan, model, memory, budget, self.rounding());
        if seed == 0 {
            interpreter = interpreter.with_registers(&registers);
        }
        interpreter.run(order).map_err(SeedError::Plan)?;
        *spent += budget - interpreter.left;
        let memory = interpreter.memory;
        if self.refuses && self.output(&memory, expected.len()).first() != Some(&0) {
            return Ok(Evidence::None);
        }
        for (output, grid) in expected.iter().enumerate() {
            let found = self.output(&memory, output);
            let first = self.first_valid_element(output, grid, found.len(), &sizes).map_err(SeedError::Graph)?;
            let differs = grid.cells.iter().zip(&found[first..]).position(|(expected, found)| expected != found);
            if let Some(at) = differs {
                return Ok(Evidence::Differs(output, first + at));
            }
        }
        Ok(Evidence::Agrees)
    }

    /// Evaluates the graph. Returns its outputs and all sizes, including those that were bound during the evaluation.
    /// If the set `known` is given, also returns this set, with all computed elements added.
    fn meaning(
        &self,
        model: Model,
        inputs: &[Grid],
        known: Option<HashSet<u64>>,
    ) -> Meaning<(Vec<Grid>, Sizes, Option<HashSet<u64>>)> {
        let mut sizes = self.sizes.clone();
        let mut evaluator = Evaluator {
            model,
            sizes: &mut sizes,
            element: self.dtype,
            left: effort::graph_budget(),
            known,
            watch: ActiveHandles::current(),
        };
        let outputs = evaluator.graph(self.graph, inputs)?;
        let known = evaluator.known;
        Ok((outputs, sizes, known))
    }

    fn registers(&self) -> Registers<'_> {
        match self.dtype {
            DType::F64 => Registers::of::<f64>(self.plan, self.machine),
            _ => Registers::of::<f32>(self.plan, self.machine),
        }
    }

    fn rounding(&self) -> fn(f64) -> f64 {
        match self.dtype {
            DType::F64 => |number| number,
            _ => |number| f64::from(number as f32),
        }
    }

    /// Returns random inputs for the graph. Integers are small, so that some of them are valid indices.
    fn inputs(&self, model: Model, seed: u64) -> Meaning<Vec<Grid>> {
        let input = |index: usize| {
            let ty = self.graph.input_type(index);
            let shape = ty.shape.value(self.sizes)?;
            let random = |at: usize| model.random_input(index, at);
            let (least, count) = INTEGERS_OF_SEEDS[seed as usize];
            let cell = |at: usize| match ty.dtype {
                DType::Bool => random(at) & 1,
                DType::U8 | DType::U32 => random(at) % count,
                DType::I32 | DType::I64 => of_signed((random(at) % count) as i64 + least),
                dtype => model.input(index, at, dtype),
            };
            let elements = shape.iter().product();
            if elements > effort::graph_budget() {
                return Err(NoMeaning::Budget);
            }
            Ok(Grid::new(shape, (0..elements).map(cell).collect()))
        };
        (0..self.graph.inputs().len()).map(input).collect()
    }

    /// Returns the plan's initial memory, with the given inputs and the constants.
    fn memory(&self, model: Model, inputs: &[Grid]) -> Memory {
        let mut memory = Memory::new(self.plan, |number| model.uncomputed_element(number));
        for (region, cells) in self.plan.regions.iter().zip(&mut memory.regions) {
            let Storage::Input(index) = region.place else { continue };
            match inputs.get(index) {
                Some(grid) => cells.clone_from(&grid.cells),
                None => *cells = self.constant(index - inputs.len()),
            }
        }
        memory
    }

    fn constant(&self, index: usize) -> Vec<u64> {
        let rounding = self.rounding();
        let cell = |scalar: Scalar| match scalar {
            Scalar::Int(_) => of_scalar(scalar),
            number => field::of_f64(rounding(number.as_f64())),
        };
        self.constants[index].scalars().map(cell).collect()
    }

    fn output_region(&self, output: usize) -> Option<usize> {
        self.plan.regions.iter().position(|region| region.place == Storage::Output(output))
    }

    fn output<'m>(&self, memory: &'m Memory, output: usize) -> &'m [u64] {
        self.output_region(output).map_or(&[], |region| &memory.regions[region])
    }

    /// Returns the index of the first valid element of an output. All elements are valid, except in the trace of a loop
    /// that ended early: in the plan, such a trace also has rows for steps that did not run.
    fn first_valid_element(&self, output: usize, grid: &Grid, found: usize, sizes: &Sizes) -> Meaning<usize> {
        let missing = found.checked_sub(grid.cells.len());
        let missing = missing.ok_or_else(|| NoMeaning::Refused(format!("output {output} has too few elements")))?;
        if missing == 0 {
            return Ok(0);
        }
        let value = self.graph.outputs()[output].value;
        if let Source::Node(node, _) = self.graph.source(value)
            && let Op::Scan(scan) = &self.graph.node(node).op
            && scan.until.as_ref().is_some_and(|symbol| sizes.get(symbol).is_some())
        {
            return Ok(if scan.reverse { missing } else { 0 });
        }
        Err(unknown("a size that depends on values"))
    }

    /// Runs the plan again, and describes the instruction that computed the wrong element `at` of an output.
    fn diagnose(&self, seed: u64, rounding: Rounding, output: usize, at: usize) -> String {
        let wrong = format!("output {output} (`{}`) is wrong at element {at}", self.graph.outputs()[output].name);
        let model = Model::new(seed, rounding);
        let known = self
            .inputs(model, seed)
            .and_then(|inputs| Ok((self.meaning(model, &inputs, Some(HashSet::new()))?.2, inputs)));
        let (Ok((Some(mut known), inputs)), Some(region)) = (known, self.output_region(output)) else { return wrong };
        known.extend([0, 1, model.uncomputed_element(0)]);
        known.extend((0..self.constants.len()).flat_map(|index| self.constant(index)));
        let order = if seed.is_multiple_of(2) { PartOrder::Upward } else { PartOrder::Downward };
        let history = History::new(self.plan, known);
        let memory = self.memory(model, &inputs);
        let mut interpreter =
            Interpreter::new(self.plan, model, memory, effort::plan_budget(), self.rounding()).with_history(history);
        let ran = interpreter.run(order);
        match (ran, &interpreter.history) {
            (Ok(()), Some(history)) => format!("{wrong}: {}", history.explain(Cell { region, at })),
            _ => wrong,
        }
    }
}
