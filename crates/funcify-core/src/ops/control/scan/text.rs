//! The text form of a scan: lines for its sequences, buffers and carries, and for the writes of a step.

use std::mem::take;

use super::*;
use crate::ops::form::{Binder, Line, Reading, Source, Tap, Write, value_at};
use crate::types::lexer::error_at;

/// The kinds of lines, in the order in which they must appear.
const SECTIONS: [&str; 3] = ["seq", "a buffer", "carry"];

impl Scan {
    /// The syntax of a scan.
    pub(crate) const SPELLING: Spelling = Spelling {
        name: "scan",
        example: "scan @step {steps=T} with %w {",
        attributes: &["steps", "until", "order", "unroll", "policy", "segments", "budget", "truncate"],
        bodies: Bodies::Inline {
            roles: &["seq", "nit-sot", "sit-sot", "mit-sot", "mit-mot", "carry"],
            result_keyword: "until",
        },
        make,
    };
}

impl Printable for Scan {
    fn form(&self, operands: &[ValueId]) -> Form {
        let (places, results) = (self.operands(), self.results());
        let outputs: Vec<ValueId> = self.body.outputs().iter().map(|output| output.value).collect();
        let (mut lines, mut writes) = (Vec::new(), Vec::new());
        for (sequence, place) in self.sequences.iter().zip(places.sequences) {
            let taps = sequence.reads.iter().map(|offset| printed_tap(*offset, 0));
            lines.push(Line::new("seq", Source::Operand(value_at(operands, place)), taps, None));
        }
        for (index, buffer) in self.buffers.iter().enumerate() {
            let shift = printed_shift(self.reverse, buffer);
            let taps = buffer.reads.iter().map(|offset| printed_tap(*offset, shift));
            let from = places.buffers[index].map(|place| value_at(operands, place));
            lines.push(Line::new(buffer.kind(), Source::Result(index), taps, from));
            let written = buffer.writes.iter().zip(results.buffers[index].clone());
            writes
                .extend(written.map(|(tap, row)| Write::new(index, printed_tap(*tap, shift), value_at(&outputs, row))));
        }
        for index in 0..self.carries {
            let result = self.buffers.len() + index;
            let from = value_at(operands, places.carries.start + index);
            lines.push(Line::new("carry", Source::Result(result), [None], Some(from)));
            writes.push(Write::new(result, None, value_at(&outputs, results.carries.start + index)));
        }
        let body = FormBody {
            lines,
            writes,
            unwritten_results: results.until.map(|index| value_at(&outputs, index)).into_iter().collect(),
            ..FormBody::block(&self.body, 0, values_at(operands, places.invariants))
        };
        let steps: Vec<ValueId> = places.steps.map(|place| value_at(operands, place)).into_iter().collect();
        let mut form = Form::new(&Self::SPELLING, &steps, vec![body]);
        form.last = self.buffers.iter().map(|buffer| buffer.returned.last()).collect();
        form.set("steps", Some(self.steps.clone()));
        form.set("until", self.until.as_ref().map(Dim::symbol));
        form.set_order(self.reverse);
        form.set("unroll", (self.unroll != 1).then_some(self.unroll));
        match &self.policy {
            Some(policy @ (CheckpointPolicy::Segments(_) | CheckpointPolicy::Levels(_))) => {
                form.attributes = form.attributes.with_list("segments", policy.levels().to_vec());
            }
            Some(CheckpointPolicy::Budget(bytes)) => form.set("budget", Some(*bytes)),
            Some(policy) => form.set("policy", Some(policy.to_string().as_str())),
            None => {}
        }
        form.set("truncate", self.truncate);
        form
    }
}

/// Returns the shift that is subtracted from a buffer's offsets to print them as taps. With this shift, the row that a
/// step writes to a growing buffer is printed as `t`.
fn printed_shift(reverse: bool, buffer: &Buffer) -> usize {
    match buffer.start {
        Start::Given(given) if !reverse => given,
        _ => 0,
    }
}

/// Converts an offset to a printed tap by subtracting `shift`.
fn printed_tap(offset: usize, shift: usize) -> Option<i64> {
    Some((offset as i64).wrapping_sub(shift as i64))
}

/// Converts a printed tap to an offset. This is the inverse of [`printed_tap`].
fn offset(tap: &Tap, shift: usize, source: &str) -> Result<usize> {
    let row =
        tap.row.ok_or_else(|| error_at(tap.site, format!("a row of `{source}`, such as `{source}[t]`"), "none"))?;
    let offset = i64::try_from(shift).ok().and_then(|shift| row.checked_add(shift));
    offset.and_then(|offset| usize::try_from(offset).ok()).ok_or_else(|| {
        let lowest = if shift == 0 { "t".to_string() } else { format!("t-{shift}") };
        error_at(tap.site, format!("a row at `{lowest}` or after"), format!("`t{row:+}`"))
    })
}

/// Builds the loop from its parsed form.
fn make(form: &mut Form, reading: &Reading<'_>) -> Result<(Op, Vec<ValueId>)> {
    let reverse = form.take_order()?;
    let mut scan = form.read(|attributes| {
        let mut scan = Scan::of(Graph::default(), attributes.take_dim("steps")?);
        scan.until = match attributes.take_if_given("until", Attributes::take_dim)? {
            Some(dim) => Some(dim.as_symbol().cloned().ok_or_else(|| {
                format!("`until` as the symbol for the number of steps that ran, such as `$1`, not `{dim}`")
            })?),
            None => None,
        };
        scan.unroll = attributes.take_if_given("unroll", Attributes::take_usize)?.unwrap_or(1);
        scan.policy = policy(attributes)?;
        scan.truncate = attributes.take_if_given("truncate", Attributes::take_usize)?;
        Ok(scan)
    })?;
    let mut operands = take(&mut form.operands);
    scan.steps_operand = !operands.is_empty();
    scan.reverse = reverse;
    let mut body = form.bodies.pop().expect("the parser reads the body of a loop");
    let mut section = 0;
    for line in &body.lines {
        let now = match line.role {
            "seq" => 0,
            "carry" => 2,
            _ => 1,
        };
        if now < section {
            let expected = "the lines in the order sequences, buffers, carries";
            return Err(error_at(line.site, expected, format!("{} after {}", SECTIONS[now], SECTIONS[section])));
        }
        section = now;
        match now {
            0 => operands.push(scan.read_sequence(line)?),
            1 => operands.extend(scan.read_buffer(line, reading)?),
            _ => operands.push(scan.read_carry(line, reading)?),
        }
    }
    let outputs = scan.read_writes(&body, reading)?;
    let graph = Arc::make_mut(&mut body.graph);
    outputs.iter().for_each(|(name, value)| graph.push_output(name, *value));
    (scan.body, scan.invariants) = (body.graph, body.captured.len());
    operands.extend(body.captured);
    Ok((scan.into(), operands))
}

/// Reads the checkpoint policy from an attribute such as `policy=save_all`, `segments=[256,32]` or `budget=65536`.
/// Returns `None` if the loop has none of these attributes.
fn policy(attributes: &mut Attributes) -> Result<Option<CheckpointPolicy>, String> {
    use CheckpointPolicy::{Budget, Levels, Recompute, SaveAll, SaveCostly, SaveDots, Segments};
    if let Some(segments) = attributes.take_if_given("segments", Attributes::take_axes)? {
        return Ok(Some(if let [steps] = segments[..] { Segments(steps) } else { Levels(segments) }));
    }
    if let Some(bytes) = attributes.take_if_given("budget", Attributes::take_usize)? {
        return Ok(Some(Budget(bytes)));
    }
    let word = attributes.take_if_given("policy", Attributes::take_word)?;
    let known = [Recompute, SaveDots, SaveCostly, SaveAll];
    word.map(|word| {
        let names = known.each_ref().map(ToString::to_string).join(", ");
        let found = known.into_iter().find(|policy| policy.to_string() == word);
        found.ok_or_else(|| format!("`policy` as one of {names}, not `{word}`"))
    })
    .transpose()
}

impl Scan {
    /// Adds a sequence to the loop, and returns its operand.
    fn read_sequence(&mut self, line: &Line) -> Result<ValueId> {
        let (name, site) = &line.named;
        let Source::Operand(source) = line.source else {
            return Err(error_at(*site, "a value of the enclosing body, defined before", format!("`%{name}`")));
        };
        if line.from.is_some() {
            return Err(error_at(line.site, "a sequence without `from`", "initial rows"));
        }
        let reads = line.taps.iter().map(|tap| offset(tap, 0, &format!("%{name}"))).collect::<Result<_>>()?;
        self.sequences.push(Sequence { reads });
        Ok(source)
    }

    /// Adds a buffer to the loop, and returns the operand that holds its initial rows, if it has any.
    fn read_buffer(&mut self, line: &Line, reading: &Reading<'_>) -> Result<Option<ValueId>> {
        let index = self.buffers.len();
        let binder = described_result(line, index, reading)?;
        let returned = binder.last.map_or(Returned::All, Returned::Last);
        let given = line.from.map(|from| reading.graph.ty(from));
        let rows = given.map(|ty| ty.shape.dims().first().cloned().unwrap_or_default());
        let starts = match rows.as_ref().map(|rows| rows.constant().and_then(|rows| usize::try_from(rows).ok())) {
            None => vec![Start::Empty],
            Some(rows) => rows.map(Start::Given).into_iter().chain([Start::Full]).collect(),
        };
        let buffer = |start| Buffer { start, reads: Vec::new(), writes: Vec::new(), returned };
        let possible: Vec<Buffer> = starts.into_iter().map(buffer).collect();
        // Keep the kinds of buffers whose number of rows matches the declared type. Several kinds may match.
        let of_length = |buffer: &&Buffer| {
            let length = Some(buffer.rows(&self.length(), rows.as_ref()));
            returned == Returned::All && binder.ty.shape.dims().first() == length.as_ref()
        };
        let fitting: Vec<&Buffer> = possible.iter().filter(of_length).collect();
        let fitting = if fitting.is_empty() { possible.iter().collect() } else { fitting };
        let Some(mut buffer) = fitting.iter().find(|buffer| buffer.kind() == line.role).copied().cloned() else {
            let kinds: Vec<&str> = fitting.iter().map(|buffer| buffer.kind()).collect();
            let initial = given.map_or("no initial rows".to_string(), |ty| format!("initial rows of type {ty}"));
            let expected = format!("`{}`, for a buffer of type {} with {initial}", kinds.join("` or `"), binder.ty);
            return Err(error_at(line.site, expected, format!("`{}`", line.role)));
        };
        let (shift, name) = (printed_shift(self.reverse, &buffer), format!("%{}", binder.name));
        buffer.reads = line.taps.iter().map(|tap| offset(tap, shift, &name)).collect::<Result<_>>()?;
        self.buffers.push(buffer);
        Ok(line.from)
    }

    /// Adds a carry to the loop, and returns the operand that holds the initial value.
    fn read_carry(&mut self, line: &Line, reading: &Reading<'_>) -> Result<ValueId> {
        let index = self.buffers.len() + self.carries;
        let binder = described_result(line, index, reading)?;
        let found = format!("carry `%{}`", binder.name);
        if binder.last.is_some() {
            return Err(error_at(binder.site, "`last` only on a buffer", found));
        }
        let ([Tap { row: None, .. }], Some(from)) = (&line.taps[..], line.from) else {
            let expected =
                format!("the carry and its initial value, such as `%c: {} = %{} from %x`", binder.ty, binder.name);
            return Err(error_at(line.site, expected, found));
        };
        self.carries += 1;
        Ok(from)
    }

    /// Adds the offsets of the written rows to the buffers. Returns the body's results with their names: the rows
    /// written to each buffer, the next carries, and the `until` flag, if there is one.
    fn read_writes(&mut self, body: &FormBody, reading: &Reading<'_>) -> Result<Vec<(String, ValueId)>> {
        let mut outputs = Vec::new();
        for (index, binder) in reading.results.iter().enumerate() {
            let written: Vec<&Write> = body.writes.iter().filter(|write| write.result == index).collect();
            if let Some(buffer) = self.buffers.get_mut(index) {
                if written.is_empty() {
                    return Err(error_at(body.end, format!("a row written to `%{}`", binder.name), "`}`"));
                }
                let shift = printed_shift(self.reverse, buffer);
                for (number, write) in written.iter().enumerate() {
                    buffer.writes.push(offset(&write.tap, shift, &format!("%{}", binder.name))?);
                    outputs.push((format!("w{index}_{number}"), write.value));
                }
                continue;
            }
            match written[..] {
                [] => return Err(error_at(body.end, format!("the next carry, `%{} = ..`", binder.name), "`}`")),
                [Write { tap: Tap { row: None, .. }, value, .. }] => {
                    outputs.push((format!("carry{}", index - self.buffers.len()), *value));
                }
                [.., write] => {
                    return Err(error_at(
                        write.site,
                        "the next carry once, without a row",
                        format!("`%{}`", binder.name),
                    ));
                }
            }
        }
        match (&self.until, &body.unwritten_results[..]) {
            (Some(_), [until]) => outputs.push(("until".to_string(), *until)),
            (None, []) => {}
            (Some(_), _) => return Err(error_at(body.end, "`until` and the end condition, before `}`", "`}`")),
            (None, _) => {
                let expected = "`until=$1` among the attributes of the loop";
                return Err(error_at(body.end, expected, "`until` in the body only"));
            }
        }
        Ok(outputs)
    }
}

/// Returns the binder of the result at `index`, or an error if `line` does not describe this result.
fn described_result<'a>(line: &Line, index: usize, reading: &'a Reading<'_>) -> Result<&'a Binder> {
    let (name, site) = &line.named;
    let expected = match reading.results.get(index) {
        Some(binder) if matches!(line.source, Source::Result(result) if result == index) => return Ok(binder),
        Some(binder) => format!("`%{}`: the lines come in the order of the loop's results", binder.name),
        None => format!("no more than the loop's {} results", reading.results.len()),
    };
    Err(error_at(*site, expected, format!("`%{name}`")))
}
