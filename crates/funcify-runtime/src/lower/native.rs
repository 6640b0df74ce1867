//! Lowers native loops: builds the program of the step, and determines the values that the step captures.

use super::body::{Body, BodyKey};
use super::*;
use crate::run::late::LateLoop;
use crate::run::native::NativeLoop;

impl<B: Backend> Lowering<'_, B> {
    /// Lowers a loop to an instruction that runs the program of the body once per step.
    pub(super) fn lower_native(
        &mut self,
        ScanCall { scan, key, at, operands, types }: ScanCall<'_>,
        body: Body,
        outputs: Vec<TensorType>,
        late: Option<LateLoop<B>>,
    ) -> Result<Vec<Slot>> {
        // The sizes that the loop binds are not static in the step, because they can differ in every run of the loop.
        scan.binds().for_each(|symbol| self.sizes.remove(symbol));
        let graph = &scan.body;
        // Capture only the values that the step reads or returns.
        let step = graph.nodes().iter().zip(&body.step).filter(|(_, runs)| **runs);
        let mut needed: HashSet<ValueId> = step.flat_map(|(node, _)| node.inputs.iter().copied()).collect();
        needed.extend(graph.outputs().iter().map(|output| output.value));
        let mut outer: Vec<Slot> = operands[..scan.operands().invariants.start].to_vec();
        let own_operands = outer.len();
        let own_params = graph.inputs()[..scan.params().invariants.start].iter();
        let mut parameters: Vec<Parameter> = own_params.map(|input| Parameter::new(input.value)).collect();
        for (value, register) in body.registers.into_iter().filter(|(value, _)| needed.contains(value)) {
            parameters.push(self.capture_parameter(value, register, true));
            outer.push(register);
        }
        let program = self.shared_program(BodyKey::Step(key), graph, &parameters, &body.step)?;
        let rows = scan.results().buffers.iter().map(|range| graph.output_type(range.start).clone()).collect();
        let count = scan.operands().steps.map(|operand| types[operand].dtype);
        if late.is_some() {
            outer.extend(&operands[scan.operands().invariants]);
        }
        let (scan, results) = (scan.clone(), outputs.len());
        let native = NativeLoop { scan, at: at.clone(), body: program, outputs, own_operands, rows, count, late };
        self.push(at, Action::Loop(Box::new(native)), &outer, results)
    }
}
