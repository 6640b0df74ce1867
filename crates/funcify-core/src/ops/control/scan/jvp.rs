//! The forward-mode rule of the loop: a single loop carries values and tangents.
//!
//! Each sequence, buffer and carry that has a tangent is followed by a twin, which holds the tangent. The twin of a
//! sequence or a buffer has the same taps. Tangents of invariants are invariants too. A buffer or a carry has a tangent
//! if its initial value has one, or if a step adds one: see [`reach`](crate::ops::reach).

use super::parts::{BufferPart, Parts, SequencePart, StepReads};
use super::*;

pub(super) fn jvp(scan: &Scan, operands: &[Dual]) -> Result<Vec<Dual>, Failed> {
    let has_tangent: Vec<bool> = operands.iter().map(|operand| operand.tangent.is_some()).collect();
    let least = scan.operands().states(&has_tangent);
    let (guess, _) = scan.states_reached(ReachKind::Tangents, &has_tangent, &mut Reach::of(&scan.body));
    let duals = Duals { scan, operands, buffers: Vec::new(), carries: Vec::new() };
    duals.jvp(Guess::new(least, guess))
}

struct Duals<'a> {
    scan: &'a Scan,
    operands: &'a [Dual],
    /// Marks the buffers that have tangents.
    buffers: Vec<bool>,
    /// Marks the carries that have tangents.
    carries: Vec<bool>,
}

impl Duals<'_> {
    fn jvp(mut self, states: Guess) -> Result<Vec<Dual>, Failed> {
        let (_, (parts, body)) = states.confirm(|states, found| {
            let (buffers, carries) = states.split_at(self.scan.buffers.len());
            (self.buffers, self.carries) = (buffers.to_vec(), carries.to_vec());
            let parts = self.parts();
            let (buffers, carries) = found.split_at_mut(self.scan.buffers.len());
            let body = parts.trace(|rows| self.step(rows, buffers, carries))?;
            Ok((parts, body))
        })?;
        let flags: Vec<bool> = self.buffers.iter().chain(&self.carries).copied().collect();
        Ok(Dual::pair(parts.emit(body)?, &flags))
    }

    /// Returns the sequences, buffers and carries of the loop, each followed by its twin if it has a tangent.
    fn parts(&self) -> Parts {
        let (scan, body, layout, places) = (self.scan, &self.scan.body, self.scan.params(), self.scan.operands());
        let name = |index: usize| body.input_name(index).to_string();
        let twin = |index: usize| format!("tan_{}", body.input_name(index));
        let mut sequences = Vec::new();
        for (number, operand) in places.sequences.clone().enumerate() {
            let params = layout.sequences[number].clone();
            let taps = || scan.sequences[number].reads.iter().copied().zip(params.clone());
            let Dual { primal, tangent } = self.operands[operand];
            sequences.push(SequencePart { value: primal, reads: taps().map(|(k, index)| (k, name(index))).collect() });
            let twin = |value| SequencePart { value, reads: taps().map(|(k, index)| (k, twin(index))).collect() };
            sequences.extend(tangent.map(twin));
        }
        let mut buffers = Vec::new();
        for (number, buffer) in scan.buffers.iter().enumerate() {
            let params = layout.buffers[number].clone();
            let row = body.output_type(scan.results().buffers[number].start).clone();
            let operand = places.buffers[number].map(|operand| self.operands[operand]);
            let part = |value, names| BufferPart { buffer: buffer.clone(), value, row: row.clone(), names };
            buffers.push(part(operand.map(|operand| operand.primal), params.clone().map(name).collect()));
            if self.buffers[number] {
                buffers.push(part(operand.map(|operand| operand.tangent_or_zeros()), params.map(twin).collect()));
            }
        }
        let mut carries = Vec::new();
        for ((operand, index), has_tangent) in places.carries.zip(layout.carries).zip(&self.carries) {
            carries.push((name(index), self.operands[operand].primal));
            if *has_tangent {
                carries.push((twin(index), self.operands[operand].tangent_or_zeros()));
            }
        }
        let count = places.steps.map(|operand| self.operands[operand].primal);
        Parts { template: scan.clone(), count, sequences, buffers, carries }
    }

    fn step(
        &self,
        rows: &StepReads,
        buffers: &mut [bool],
        carries: &mut [bool],
    ) -> Result<Vec<(String, Value)>, Failed> {
        let (scan, places) = (self.scan, self.scan.operands());
        let pair = |values: &[Value], tangents: Option<&[Value]>| -> Vec<Dual> {
            let tangent = |index: usize| tangents.map(|tangents| tangents[index]);
            values.iter().enumerate().map(|(index, value)| Dual { primal: *value, tangent: tangent(index) }).collect()
        };
        let mut inputs: Vec<Dual> = Vec::new();
        let mut next = 0;
        for operand in places.sequences {
            let twin = self.operands[operand].tangent.map(|_| rows.sequence(next + 1));
            inputs.extend(pair(rows.sequence(next), twin));
            next += 1 + usize::from(twin.is_some());
        }
        next = 0;
        for has_tangent in &self.buffers {
            inputs.extend(pair(rows.buffer(next), has_tangent.then(|| rows.buffer(next + 1))));
            next += 1 + usize::from(*has_tangent);
        }
        inputs.extend(Dual::pair(rows.carries().iter().copied(), &self.carries));
        inputs.extend_from_slice(&self.operands[places.invariants]);

        let results = push_forward(&scan.body, &inputs)?;
        let layout = scan.results();
        let output = |index: usize| (scan.body.outputs()[index].name.clone(), results[index].primal);
        let twin =
            |index: usize| (format!("tan_{}", scan.body.outputs()[index].name), results[index].tangent_or_zeros());
        let mut outputs = Vec::new();
        for (number, written) in layout.buffers.into_iter().enumerate() {
            buffers[number] |= results[written.clone()].iter().any(|row| row.tangent.is_some());
            outputs.extend(written.clone().map(output));
            if self.buffers[number] {
                outputs.extend(written.map(twin));
            }
        }
        for (number, index) in layout.carries.enumerate() {
            carries[number] |= results[index].tangent.is_some();
            outputs.push(output(index));
            if self.carries[number] {
                outputs.push(twin(index));
            }
        }
        outputs.extend(layout.until.map(output));
        Ok(outputs)
    }
}
