//! Assembles a loop from parts, for rules that derive one loop from another.

use super::*;

/// The parts of a loop: a template, and all operands except the invariants. The invariants are the values that the body
/// captures.
pub(super) struct Parts {
    /// The loop that supplies the name, the number of steps, the direction, and the options.
    pub(super) template: Scan,
    /// The number of steps, if it is an operand.
    pub(super) count: Option<Value>,
    pub(super) sequences: Vec<SequencePart>,
    pub(super) buffers: Vec<BufferPart>,
    pub(super) carries: Vec<(String, Value)>,
}

/// A sequence, with the offset and the name of each row that a step reads.
pub(super) struct SequencePart {
    pub(super) value: Value,
    pub(super) reads: Vec<(usize, String)>,
}

/// A buffer, with the name of each row that a step reads.
pub(super) struct BufferPart {
    pub(super) buffer: Buffer,
    /// The initial rows, if the buffer has any.
    pub(super) value: Option<Value>,
    pub(super) row: TensorType,
    pub(super) names: Vec<String>,
}

/// The values that a step reads, grouped by sequence, buffer and carry.
pub(super) struct StepReads {
    values: Vec<Value>,
    sequences: Vec<Range<usize>>,
    buffers: Vec<Range<usize>>,
    carries: Range<usize>,
}

impl StepReads {
    pub(super) fn sequence(&self, index: usize) -> &[Value] {
        &self.values[self.sequences[index].clone()]
    }

    pub(super) fn buffer(&self, index: usize) -> &[Value] {
        &self.values[self.buffers[index].clone()]
    }

    pub(super) fn carries(&self) -> &[Value] {
        &self.values[self.carries.clone()]
    }
}

impl Parts {
    /// Traces the body of the loop. `body` returns the named results: the rows written to each buffer, the next
    /// carries, and the `until` flag if the loop has one.
    pub(super) fn trace(
        &self,
        body: impl FnOnce(&StepReads) -> Result<Vec<(String, Value)>, Failed>,
    ) -> Result<ClosedBody, Failed> {
        let mut params: Vec<(String, TensorType)> = Vec::new();
        let mut rows = StepReads { values: Vec::new(), sequences: Vec::new(), buffers: Vec::new(), carries: 0..0 };
        for sequence in &self.sequences {
            let row = sequence.value.checked()?.row_type();
            let start = params.len();
            params.extend(sequence.reads.iter().map(|(_, name)| (name.clone(), row.clone())));
            rows.sequences.push(start..params.len());
        }
        for buffer in &self.buffers {
            let start = params.len();
            params.extend(buffer.names.iter().map(|name| (name.clone(), buffer.row.clone())));
            rows.buffers.push(start..params.len());
        }
        let start = params.len();
        params.extend(self.carries.iter().map(|(name, value)| (name.clone(), value.ty())));
        rows.carries = start..params.len();
        trace_body("scan", self.template.body.name(), &params, |values| {
            rows.values = values.to_vec();
            body(&rows)
        })
    }

    /// Adds the loop to the open graph, and returns its buffers and final carries.
    pub(super) fn emit(self, body: ClosedBody) -> Result<Vec<Value>, Failed> {
        let mut operands: Vec<Value> = self.count.into_iter().collect();
        operands.extend(self.sequences.iter().map(|sequence| sequence.value));
        operands.extend(self.buffers.iter().filter_map(|buffer| buffer.value));
        operands.extend(self.carries.iter().map(|(_, value)| *value));
        let invariants = body.captures.len();
        operands.extend(body.captures);
        let offsets = |sequence: &SequencePart| sequence.reads.iter().map(|(offset, _)| *offset).collect();
        let scan = Scan {
            body: Arc::new(body.graph),
            steps_operand: self.count.is_some(),
            sequences: self.sequences.iter().map(|sequence| Sequence { reads: offsets(sequence) }).collect(),
            carries: self.carries.len(),
            invariants,
            buffers: self.buffers.into_iter().map(|part| part.buffer).collect(),
            ..self.template
        };
        emit(scan, &operands)
    }
}

/// Binds a symbol to the value of an integer scalar, by adding a loop with an empty body. The ops that follow can use
/// the symbol.
pub(super) fn bind(count: Value, symbol: &Symbol) -> Result<(), Failed> {
    let scan = Scan { steps_operand: true, ..Scan::of(Graph::new(""), Dim::symbol(symbol)) };
    emit(scan, &[count]).map(drop)
}
