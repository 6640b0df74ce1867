//! Merges two nested loops into a single loop, if a step of the outer loop does nothing but run the inner loop on the
//! outer states (loop coalescing: Polychronopoulos 1987).
//!
//! With `S` inner steps, inner step `s` of outer step `t` becomes step `t*S + s`. Nested sequences become flat
//! sequences with one row per inner step, and the states take the same values in the same order.
//!
//! Precondition: neither loop can fail, both run all their steps, and they have the same direction. They are not
//! truncated and have no checkpoint policy. A step of the outer loop contains nothing but the inner loop. Each carry of
//! the inner loop starts with the value of an outer carry, and its final value is the next value of that outer carry.
//! Each sequence of the inner loop is a row of an outer sequence, and the inner loop reads the whole sequence, one row
//! per step. Each invariant of the inner loop is an invariant of the outer one. All buffers of both loops are complete
//! traces, and each trace of the outer loop stacks a trace of the inner loop.

use super::*;

/// Merges two nested loops into one.
pub(crate) fn flatten(context: &RewriteContext<'_>) -> Option<Patch> {
    let outer = whole_loop(context).filter(|outer| outer.carries > 0 && outer.policy.is_none())?;
    let nest = Nest::of(outer)?;
    context.build(context.operands, |operands| nest.emit_flat(operands))
}

struct Nest<'a> {
    outer: &'a Scan,
    inner: &'a Scan,
    /// For each sequence of the inner loop, the index of the outer sequence that contains it as a row, and the offset
    /// at which an outer step reads this row.
    sequences: Vec<(usize, usize)>,
    /// For each carry of the inner loop, the index of the outer carry that is its initial value.
    carries: Vec<usize>,
    /// For each invariant of the inner loop, the index of the outer invariant that is its value.
    invariants: Vec<usize>,
    /// For each trace of the outer loop, the index of the inner trace that an outer step writes to it.
    traces: Vec<usize>,
}

impl<'a> Nest<'a> {
    fn of(outer: &'a Scan) -> Option<Nest<'a>> {
        let body = &outer.body;
        let node = only_node(body)?;
        let Op::Scan(inner) = &node.op else { return None };
        let is_whole = inner.until.is_none() && inner.truncate.is_none() && inner.policy.is_none();
        let has_traces_alone = |scan: &Scan| traces(scan).count() == scan.buffers.len();
        let is_one = is_whole
            && !inner.steps_operand
            && inner.reverse == outer.reverse
            && inner.carries == outer.carries
            && has_traces_alone(inner)
            && has_traces_alone(outer);
        if !is_one {
            return None;
        }
        let (params, places) = (outer.params(), inner.operands());
        let param = |value: ValueId| body.inputs().iter().position(|input| input.value == value);
        let sequences = places.sequences.zip(&inner.sequences).map(|(operand, sequence)| {
            let (value, row) = (node.inputs[operand], param(node.inputs[operand])?);
            let is_read_whole = sequence.reads == [0] && body.ty(value).shape[0] == inner.steps;
            let number = params.sequences.iter().position(|rows| rows.contains(&row)).filter(|_| is_read_whole)?;
            Some((number, outer.sequences[number].reads[row - params.sequences[number].start]))
        });
        let results = &node.outputs[inner.buffers.len()..];
        let mut goes_on = vec![false; outer.carries];
        let carries = places.carries.zip(results).map(|(operand, last)| {
            let of = param(node.inputs[operand]).filter(|of| params.carries.contains(of))? - params.carries.start;
            let is_next = body.outputs()[outer.results().carries.start + of].value == *last;
            (is_next && !std::mem::replace(&mut goes_on[of], true)).then_some(of)
        });
        let carries: Vec<usize> = carries.collect::<Option<_>>()?;
        let invariants = places.invariants.map(|operand| {
            let of = param(node.inputs[operand]).filter(|of| params.invariants.contains(of))?;
            Some(of - params.invariants.start)
        });
        let traces = traces(outer)
            .map(|(_, written)| node.outputs[..inner.buffers.len()].iter().position(|trace| *trace == written));
        Some(Nest {
            outer,
            inner,
            sequences: sequences.collect::<Option<_>>()?,
            carries,
            invariants: invariants.collect::<Option<_>>()?,
            traces: traces.collect::<Option<_>>()?,
        })
    }

    /// Emits the merged loop. Returns the results of the outer loop.
    fn emit_flat(&self, operands: &[Value]) -> Option<Vec<Value>> {
        let (outer, places) = (self.outer, self.outer.operands());
        let steps = outer.steps.clone() * &self.inner.steps;
        let sequences = self.sequences.iter().map(|(number, offset)| {
            let rows = rows(operands[places.sequences.start + number], *offset, &outer.steps);
            let row = rows.shape().without(0).without(0);
            rows.reshape(row.with_inserted(0, steps.clone()))
        });
        let carries = self.carries.iter().map(|carry| operands[places.carries.start + carry]);
        let invariants = self.invariants.iter().map(|invariant| operands[places.invariants.start + invariant]);
        let flat: Vec<Value> = sequences.chain(carries).chain(invariants).collect();
        let results = emit(Scan { steps: steps.clone(), ..self.inner.clone() }, &flat).ok()?;
        let (traces, last) = results.split_at(self.inner.buffers.len());
        let trace = |number: &usize| {
            let row = traces[*number].shape().without(0);
            traces[*number]
                .reshape(row.with_inserted(0, self.inner.steps.clone()).with_inserted(0, outer.steps.clone()))
        };
        let carry = |number: usize| self.carries.iter().position(|carry| *carry == number).map(|place| last[place]);
        self.traces.iter().map(|number| Some(trace(number))).chain((0..outer.carries).map(carry)).collect()
    }
}

/// Returns the only live node of a body, or `None` if there are several live nodes or none.
fn only_node(body: &Graph) -> Option<&Node> {
    let mut nodes = body.live();
    nodes.next().filter(|_| nodes.next().is_none())
}
