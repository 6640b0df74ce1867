//! The while loop op, which runs a step while a condition is true.
//!
//! - **while-c1** the condition is evaluated before each step, and returns one boolean scalar.
//! - **while-c2** the types of the carries exactly equal the types of the initial values.
//! - **while-c3** a loop with a bound runs at most that many steps, even if the condition is still true.
//!
//! Operands, in order: the initial carries, the values that the condition captures, the values that the step captures.
//! Parameters of the condition and of the step: the carries, followed by the captured values. Results: the final
//! carries.
//!
//! No backend has a lowering rule for the op. Unless the backend compiles the loop, the host reads the condition and
//! runs the program of the step. Compilation with `LoopStrategy::Unroll` rejects the loop unless the input sizes
//! determine its bound, because otherwise the number of steps depends on values.

mod batch;
mod bodied;
mod build;
mod grad;
mod text;

use super::*;

pub use build::{while_loop, while_loop_bounded};

use crate::cancel::{ActiveHandles, Progress};

/// A loop that runs its step while a condition is true.
#[derive(Clone, Debug)]
pub struct While {
    /// The graph that computes the condition from the carries.
    pub condition: Arc<Graph>,
    /// The graph that computes the next carries from the carries.
    pub body: Arc<Graph>,
    /// The maximum number of steps, or `None` if the number is unlimited.
    pub bound: Option<Dim>,
}

op_text!("while" => While);

/// The index ranges of the operands, by role.
#[derive(Clone, Debug)]
pub struct WhileOperands {
    /// The initial carries.
    pub carries: Range<usize>,
    /// The values that the condition captures.
    pub condition: Range<usize>,
    /// The values that the step captures.
    pub body: Range<usize>,
}

impl While {
    /// Returns the index ranges of the operands.
    pub fn operands(&self) -> WhileOperands {
        let carries = self.body.outputs().len();
        let condition = carries + self.condition.inputs().len().saturating_sub(carries);
        let body = condition + self.body.inputs().len().saturating_sub(carries);
        WhileOperands { carries: 0..carries, condition: carries..condition, body: condition..body }
    }

    /// Returns `true` for each parameter of the step that depends on an operand marked in `wrt`.
    pub(crate) fn active(&self, wrt: &[bool]) -> Vec<bool> {
        let places = self.operands();
        let feeds: Vec<(usize, usize)> = places.carries.clone().map(|carry| (carry, carry)).collect();
        active_params(&self.body, [&wrt[places.carries], &wrt[places.body]].concat(), &feeds)
    }
}

/// Adds a loop with a traced condition and step to the open graph, and returns the final carries.
fn emit_loop(
    bound: Option<Dim>,
    initial: impl IntoIterator<Item = Value>,
    condition: ClosedBody,
    body: ClosedBody,
    site: Site,
) -> Result<Vec<Value>, Failed> {
    let operands: Vec<Value> = initial.into_iter().chain(condition.captures).chain(body.captures).collect();
    let op = While { condition: Arc::new(condition.graph), body: Arc::new(body.graph), bound };
    emit_at(op, &operands, site)
}

impl OpRules for While {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let places = self.operands();
        let carries = places.carries.len();
        if inputs.len() != places.body.end {
            let (expected, found) = (format!("{} operands", places.body.end), format!("{} operands", inputs.len()));
            let fix =
                "pass the initial carries, the values that the condition captures and those that the step captures";
            return Err(at.mismatch("the operand list", expected, found, fix));
        }
        for (name, graph, captured) in
            [("the condition", &self.condition, &places.condition), ("the step", &self.body, &places.body)]
        {
            let params = graph.inputs().len();
            if params < carries {
                let (expected, found) = (format!("{carries} values or more"), format!("{params} values"));
                let fix = "give it a parameter for each carry";
                return Err(at.mismatch(format!("the parameter list of {name}"), expected, found, fix));
            }
            let operands = inputs[places.carries.clone()].iter().chain(&inputs[captured.clone()]);
            let component = |index| format!("parameter {index} of {name}");
            let fix = "give the parameter the type of the operand";
            check_types(at, operands, input_types(graph), component, fix)?;
        }
        // while-c1
        let found: Vec<String> = output_types(&self.condition).map(TensorType::to_string).collect();
        if found != ["bool[]"] {
            let fix = "compare, and reduce with `any(..)` or `all(..)`";
            return Err(at.mismatch("the result of the condition", "bool[]", found.join(", "), fix));
        }
        // while-c2
        let component = |index| format!("the next carry {index}");
        let fix = "make both types equal, by a cast, a reshape or a broadcast";
        check_types(at, &inputs[places.carries], output_types(&self.body), component, fix)?;
        Ok(inputs[..carries].to_vec())
    }

    fn eval(&self, context: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let places = self.operands();
        let bound = self.bound.as_ref().map(|bound| context.dim(bound)).transpose()?;
        let mut carries = inputs[places.carries].to_vec();
        let (watch, at, mut steps) = (ActiveHandles::current(), context.at.clone(), 0usize);
        // while-c3
        while bound.is_none_or(|bound| i64::try_from(steps).is_ok_and(|steps| steps < bound)) {
            watch.check(&at, Progress::Steps(steps))?;
            let in_step = |error: Error| error.in_step(&at, steps);
            // while-c1
            let arguments = [&carries, &inputs[places.condition.clone()]].concat();
            let holds = evaluate_in(&self.condition, arguments, context.sizes).map_err(in_step)?;
            if !holds.first().is_some_and(|holds| holds.get(0).as_bool()) {
                break;
            }
            let arguments = [&carries, &inputs[places.body.clone()]].concat();
            carries = evaluate_in(&self.body, arguments, context.sizes).map_err(in_step)?;
            steps += 1;
        }
        Ok(carries)
    }

    rules_of_modules!(batch, grad, grad);
}

#[cfg(test)]
mod tests {
    use crate::{Graph, HostTensor, Tree, Value, evaluate, while_loop, while_loop_bounded};

    fn check<T: Tree>(program: impl Fn(Value) -> T, start: i64, expected: i64) {
        let graph = Graph::build("loop", |g| program(g.input("start", "i64[]"))).unwrap();
        assert!(graph.check().is_ok());
        let results = evaluate(&graph, &[HostTensor::scalar(start)]).unwrap();
        assert_eq!(results, [HostTensor::scalar(expected)]);
    }

    #[test]
    fn c1_the_condition_is_read_before_each_step() {
        let program = |start: Value| while_loop(start, |n| n.lt(10), |n| n * 2);
        check(program, 3, 12);
        check(program, 10, 10);
    }

    #[test]
    fn c3_a_bound_ends_the_loop() {
        check(|start| while_loop_bounded(2, start, |n| n.lt(100), |n| n * 2), 3, 12);
        check(|start| while_loop_bounded(0, start, |n| n.lt(100), |n| n * 2), 3, 3);
        check(|start| while_loop_bounded(9, start, |n| n.lt(10), |n| n * 2), 3, 12);
    }
}
