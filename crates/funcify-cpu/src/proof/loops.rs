//! Evaluates loops and switches over the field, following the invariants listed in the modules of these ops: scan-c1 to
//! scan-c7, while-c1 to while-c3 and switch-c1 to switch-c3. (scan-c8 does not affect values.)

use funcify_core::ops::scan::{Buffer, Returned, Scan, Start};
use funcify_core::ops::{Switch, While};

use super::field::signed;
use super::graph::{Evaluator, Grid, Meaning, NoMeaning, unknown};

/// The rows of a buffer. A row that has not been written is `None`.
type WrittenRows = Vec<Option<Grid>>;

impl Evaluator<'_> {
    pub(super) fn scan(&mut self, scan: &Scan, inputs: &[Grid]) -> Meaning<Vec<Grid>> {
        let (operands, params, results) = (scan.operands(), scan.params(), scan.results());
        if let (Some(operand), Some(symbol)) = (operands.steps, scan.steps.as_symbol()) {
            self.sizes.set(symbol, size(signed(inputs[operand].first()))?);
        }
        let steps = size(scan.steps.value(self.sizes)?)?;
        let mut buffers: Vec<WrittenRows> = Vec::new();
        for (buffer, operand) in scan.buffers.iter().zip(&operands.buffers) {
            buffers.push(initial_rows(buffer, operand.map(|operand| &inputs[operand]), steps, scan.reverse));
        }
        let mut carries = inputs[operands.carries.clone()].to_vec();
        let mut ran = 0;
        for step in 0..steps {
            self.check_cancelled()?;
            // scan-c2
            let t = if scan.reverse { steps - 1 - step } else { step };
            let mut arguments = Vec::with_capacity(params.count);
            for (sequence, operand) in scan.sequences.iter().zip(operands.sequences.clone()) {
                for k in &sequence.reads {
                    arguments.push(existing_row(&inputs[operand], t + k)?);
                }
            }
            for (rows, buffer) in buffers.iter().zip(&scan.buffers) {
                for k in &buffer.reads {
                    arguments.push(written_row(rows, t + k)?);
                }
            }
            arguments.append(&mut carries);
            arguments.extend_from_slice(&inputs[operands.invariants.clone()]);
            let given = self.graph(&scan.body, &arguments)?;
            // scan-c1: writes come after all reads of the step.
            for ((rows, buffer), of_buffer) in buffers.iter_mut().zip(&scan.buffers).zip(&results.buffers) {
                for (k, result) in buffer.writes.iter().zip(of_buffer.clone()) {
                    let row = rows.get_mut(t + k).ok_or_else(|| refusal("a row outside a buffer"))?;
                    *row = Some(given[result].clone());
                }
            }
            carries = given[results.carries.clone()].to_vec();
            ran += 1;
            // scan-c6: the results include the step that ended the loop.
            if results.until.is_some_and(|until| given[until].first() != 0) {
                break;
            }
        }
        if let Some(symbol) = &scan.until {
            self.sizes.set(symbol, ran);
        }
        let mut outputs = Vec::with_capacity(buffers.len() + carries.len());
        for ((rows, buffer), of_buffer) in buffers.iter().zip(&scan.buffers).zip(&results.buffers) {
            let row = self.shape(scan.body.output_type(of_buffer.start))?;
            // scan-c7: it is an error if a loop ends with fewer rows than requested.
            if let (Returned::Last(count), false) = (buffer.returned, buffer.start == Start::Full)
                && rows.len() - (steps - ran) < count
            {
                return Err(refusal("fewer rows than requested"));
            }
            let range = returned_rows(buffer, rows.len(), steps - ran, scan.reverse);
            let rows = range.map(|row| written_row(rows, row)).collect::<Meaning<Vec<Grid>>>()?;
            outputs.push(Grid::stacked(&row, &rows));
        }
        outputs.extend(carries);
        Ok(outputs)
    }

    pub(super) fn repeat_while(&mut self, op: &While, inputs: &[Grid]) -> Meaning<Vec<Grid>> {
        let places = op.operands();
        let most = op.bound.as_ref().map(|bound| bound.value(self.sizes)).transpose()?;
        let mut carries = inputs[places.carries.clone()].to_vec();
        let mut steps = 0;
        while most.is_none_or(|most| steps < most) {
            self.check_cancelled()?;
            let holds = self.graph(&op.condition, &[&carries, &inputs[places.condition.clone()]].concat())?;
            if holds.first().ok_or_else(|| unknown("while"))?.first() == 0 {
                break;
            }
            carries = self.graph(&op.body, &[&carries, &inputs[places.body.clone()]].concat())?;
            steps += 1;
        }
        Ok(carries)
    }

    pub(super) fn choose(&mut self, op: &Switch, inputs: &[Grid]) -> Meaning<Vec<Grid>> {
        let chosen = signed(inputs[0].first()).clamp(0, op.branches.len() as i64 - 1) as usize;
        self.graph(&op.branches[chosen], &inputs[op.operands()[chosen].clone()])
    }
}

/// Returns the rows of a buffer before the first step. The rows in `given` come before the unwritten rows, or after
/// them if the loop runs in reverse.
fn initial_rows(buffer: &Buffer, given: Option<&Grid>, steps: usize, reverse: bool) -> WrittenRows {
    let given: WrittenRows =
        given.map_or_else(Vec::new, |given| (0..given.shape[0]).map(|row| Some(given.row(row))).collect());
    let missing = vec![None; if buffer.start == Start::Full { 0 } else { steps }];
    if reverse { [missing, given].concat() } else { [given, missing].concat() }
}

/// Returns the range of rows that the loop returns if its last `left_out` steps did not run (scan-c6 and scan-c7).
fn returned_rows(buffer: &Buffer, rows: usize, left_out: usize, reverse: bool) -> std::ops::Range<usize> {
    let there = match (buffer.start, reverse) {
        (Start::Full, _) => 0..rows,
        (_, false) => 0..rows - left_out,
        (_, true) => left_out..rows,
    };
    match buffer.returned {
        Returned::All => there,
        Returned::Last(count) if reverse => there.start..there.end.min(there.start + count),
        Returned::Last(count) => there.end.saturating_sub(count).max(there.start)..there.end,
    }
}

fn existing_row(grid: &Grid, row: usize) -> Meaning<Grid> {
    if row < grid.shape[0] { Ok(grid.row(row)) } else { Err(refusal("a row outside a sequence")) }
}

/// Returns a row, or an error if it was not written (scan-c5).
fn written_row(rows: &WrittenRows, row: usize) -> Meaning<Grid> {
    rows.get(row).cloned().flatten().ok_or_else(|| refusal("a row that nothing wrote"))
}

fn refusal(reason: &str) -> NoMeaning {
    NoMeaning::Refused(reason.to_string())
}

pub(super) fn size(number: i64) -> Meaning<usize> {
    usize::try_from(number).map_err(|_| refusal("a negative size"))
}
