//! The type rule of the loop, which enforces scan-c3 to scan-c7.

use super::*;

/// The suggested fix for an `until` value that is not a boolean scalar.
pub(super) const UNTIL_FIX: &str = "compare, and reduce with `any(..)` or `all(..)`";

pub(super) fn infer(scan: &Scan, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
    let operands = scan.operands();
    if inputs.len() != operands.count {
        let fix = "pass the step count, sequences, initial rows, initial carries and invariants, in this order";
        return Err(count_error(at, "the operand list", operands.count, inputs.len(), fix));
    }
    check_body_arity(scan, at)?;
    check_steps(scan, at, operands.steps.map(|index| &inputs[index]))?;

    let params = scan.params();
    let body = &scan.body;
    for (index, (sequence, operand)) in scan.sequences.iter().zip(operands.sequences).enumerate() {
        let name = sequence_name(index);
        let row = row_of(at, &name, &inputs[operand])?;
        check_reach(at, &name, &scan.steps, sequence.reach(), &inputs[operand].shape[0])?;
        for param in params.sequences[index].clone() {
            check_equal(at, &format!("the body's parameter for {name}"), &row, body.input_type(param))?;
        }
    }

    let results = scan.results();
    let mut types = Vec::new();
    for (index, buffer) in scan.buffers.iter().enumerate() {
        let name = buffer_name(index, buffer);
        check_offsets(scan, at, &name, buffer)?;
        let given = operands.buffers[index].map(|operand| &inputs[operand]);
        let row = match given {
            Some(ty) => row_of(at, &name, ty)?,
            None => body.output_type(results.buffers[index].start).clone(),
        };
        if let (Start::Given(rows), Some(ty)) = (buffer.start, given)
            && ty.shape[0] != Dim::from(rows)
        {
            let fix = "give as many initial rows as the oldest tap looks back";
            return Err(at.mismatch(&name, row.stacked(rows), ty, fix));
        }
        let given = given.map(|ty| &ty.shape[0]);
        check_reach(at, &name, &scan.steps, buffer.reach(), &buffer.rows(&scan.steps, given))?;
        let rows = buffer.rows(&scan.length(), given);
        for param in params.buffers[index].clone() {
            check_equal(at, &format!("the body's parameter for {name}"), &row, body.input_type(param))?;
        }
        for result in results.buffers[index].clone() {
            check_equal(at, &format!("a row written to {name}"), &row, body.output_type(result))?;
        }
        types.push(row.stacked(returned_rows(at, &name, buffer, rows)?));
    }

    for (index, operand) in operands.carries.enumerate() {
        let (param, result) = (params.carries.start + index, results.carries.start + index);
        let name = format!("carry {index}");
        check_equal(at, &format!("the body's parameter for {name}"), &inputs[operand], body.input_type(param))?;
        check_equal(at, &format!("the next {name}"), &inputs[operand], body.output_type(result))?;
        types.push(inputs[operand].clone());
    }
    check_until(scan, at, results.until)?;
    for (operand, param) in operands.invariants.zip(params.invariants) {
        check_equal(at, "the body's parameter for an invariant", &inputs[operand], body.input_type(param))?;
    }
    Ok(types)
}

fn check_body_arity(scan: &Scan, at: &Place) -> Result<()> {
    let (params, results) = (scan.params().count, scan.results().count);
    let (found_params, found_results) = (scan.body.inputs().len(), scan.body.outputs().len());
    let fix = "give the body one parameter per row read, carry and invariant, one result per row written and carry, \
               and one for `until`";
    if found_params != params {
        return Err(count_error(at, "the body's parameter list", params, found_params, fix));
    }
    if found_results != results {
        return Err(count_error(at, "the body's result list", results, found_results, fix));
    }
    Ok(())
}

/// Checks that the number of steps is not known to be negative. If the number is an operand, also checks that the
/// operand is an integer scalar, and that `steps` is a symbol that the loop can bind (scan-c6).
fn check_steps(scan: &Scan, at: &Place, operand: Option<&TensorType>) -> Result<()> {
    if let Some(ty) = operand {
        if !ty.dtype.is_int() || ty.rank() != 0 {
            let fix = "pass an integer scalar";
            return Err(at.mismatch("the step count", "an integer scalar", ty, fix));
        }
        if scan.steps.as_symbol().is_none() {
            let fix = "let the operand bind one symbol";
            return Err(at.mismatch("the step count", "one symbol that the operand binds", &scan.steps, fix));
        }
    }
    if scan.steps.is_at_least(&Dim::from(0)) == Some(false) {
        return Err(negative_steps(at, &scan.steps));
    }
    Ok(())
}

/// Checks that the `until` result is a boolean scalar, and that the maximum number of steps does not depend on the
/// symbol that `until` binds (scan-c6).
fn check_until(scan: &Scan, at: &Place, result: Option<usize>) -> Result<()> {
    let (Some(symbol), Some(result)) = (&scan.until, result) else { return Ok(()) };
    let ty = scan.body.output_type(result);
    if ty.dtype != DType::Bool || ty.rank() != 0 {
        return Err(at.mismatch("the value of `until`", "bool[]", ty, UNTIL_FIX));
    }
    if scan.steps.symbols().contains(&symbol) {
        let fix = "bind another symbol";
        return Err(at.mismatch("the number of steps that ran", "a symbol that nothing else binds", symbol, fix));
    }
    Ok(())
}

/// Returns the error for a tap that violates `rule`.
pub(super) fn tap_error(at: &Place, name: &str, tap: i64, rule: &str, fix: &str) -> Error {
    let (component, rule, fix) = (name.to_string(), rule.to_string(), fix.to_string());
    Error::Tap { at: at.boxed(), component, tap, rule, fix }
}

/// Checks the offsets at which a buffer is read and written (scan-c5).
fn check_offsets(scan: &Scan, at: &Place, name: &str, buffer: &Buffer) -> Result<()> {
    let tap = |offset: usize, rule: &str, fix: &str| Err(tap_error(at, name, offset as i64, rule, fix));
    for offsets in [&buffer.reads, &buffer.writes] {
        for (index, offset) in offsets.iter().enumerate() {
            if offsets[..index].contains(offset) {
                return tap(*offset, "a tap is listed once", "remove the second one");
            }
        }
    }
    if buffer.writes.is_empty() {
        return Err(at.mismatch(name, "at least one written row per step", "none", "pass it as a sequence instead"));
    }
    let (write, given) = match (buffer.start, scan.reverse) {
        (Start::Full, _) => return Ok(()),
        (Start::Empty, _) => (0, 0),
        (Start::Given(given), false) => (given, given),
        (Start::Given(given), true) => (0, given),
    };
    if buffer.writes != [write] {
        let offset = *buffer.writes.iter().find(|offset| **offset != write).unwrap_or(&write);
        return tap(
            offset,
            "the only row written per step is the one next to the given rows",
            "pass a full buffer (mit-mot)",
        );
    }
    let readable = if scan.reverse { 1..given + 1 } else { 0..given };
    match buffer.reads.iter().find(|offset| !readable.contains(offset)) {
        Some(offset) => {
            tap(*offset, "a row is read only after it was given or written", "give more initial rows, or a full buffer")
        }
        None => Ok(()),
    }
}

/// Checks scan-c3: `rows >= steps + reach`, unless the loop has no steps.
pub(super) fn check_reach(at: &Place, name: &str, steps: &Dim, reach: usize, rows: &Dim) -> Result<()> {
    if steps.constant() == Some(0) {
        return Ok(());
    }
    let needed = steps.clone() + reach;
    if rows.is_at_least(&needed) == Some(false) || needed.is_beyond_range() {
        return Err(Error::Rows {
            at: at.boxed(),
            component: name.to_string(),
            needed: match reach {
                0 => format!("{needed} rows, one for each of {steps} steps"),
                1 => format!("{needed} rows, for {steps} steps that reach 1 row ahead"),
                _ => format!("{needed} rows, for {steps} steps that reach {reach} rows ahead"),
            },
            found: format!("{rows} rows"),
            fix: "run fewer steps, or give more rows".into(),
        });
    }
    Ok(())
}

/// Checks scan-c7 for a buffer with `rows` rows, and returns how many of them the loop returns.
pub(super) fn returned_rows(at: &Place, name: &str, buffer: &Buffer, rows: Dim) -> Result<Dim> {
    let Returned::Last(count) = buffer.returned else {
        return Ok(rows);
    };
    let count = Dim::from(count);
    if rows.is_at_least(&count) == Some(false) {
        return Err(Error::Rows {
            at: at.boxed(),
            component: name.to_string(),
            needed: format!("{count} rows, the last ones that are returned"),
            found: format!("{rows} rows"),
            fix: "run more steps, or ask for no more rows than the trace has".into(),
        });
    }
    Ok(count)
}

fn row_of(at: &Place, name: &str, ty: &TensorType) -> Result<TensorType> {
    ty.row().ok_or_else(|| {
        at.mismatch(name, "rank 1 or more, to have rows", ty, "capture a value that is the same at each step instead")
    })
}

/// Checks that a parameter or a result of the body has the expected type (scan-c4).
fn check_equal(at: &Place, name: &str, expected: &TensorType, found: &TensorType) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(at.mismatch(name, expected, found, "make both types equal, by a cast, a reshape or a broadcast"))
}

fn count_error(at: &Place, component: &str, expected: usize, found: usize, fix: &str) -> Error {
    at.mismatch(component, format!("{expected} values"), format!("{found} values"), fix)
}

pub(super) fn sequence_name(index: usize) -> String {
    format!("sequence {index}")
}

pub(super) fn buffer_name(index: usize, buffer: &Buffer) -> String {
    format!("buffer {index} ({})", buffer.kind())
}
