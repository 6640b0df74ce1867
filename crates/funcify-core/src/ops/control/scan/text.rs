//! The loop in the text form.

use std::cmp::Ordering;
use std::ops::Range;

use super::{Buffer, Returned, Scan, Start};
use crate::graph::print::{Equation, Names, Printer};
use crate::ops::Printable;

impl Printable for Scan {
    fn print(&self, printer: &mut Printer, equation: &Equation<'_>) {
        let (operands, params, results) = (self.operands(), self.params(), self.results());
        let (body, mut inner) = (&self.body, Names::default());
        let mut header = self.header(equation);
        let mut heads = Vec::new();
        let mut binders = |rows: &Range<usize>| -> Vec<String> {
            rows.clone().map(|param| printer.input(body, &mut inner, param)).collect()
        };
        for (index, sequence) in self.sequences.iter().enumerate() {
            let source = equation.operand(operands.sequences.start + index);
            heads.push(format!("seq {}", reads(&binders(&params.sequences[index]), &source, &sequence.reads, 0)));
        }
        for (index, buffer) in self.buffers.iter().enumerate() {
            let binders = binders(&params.buffers[index]);
            let from =
                operands.buffers[index].map_or(String::new(), |index| format!(" from {}", equation.operand(index)));
            let taps = reads(&binders, &equation.result(index), &buffer.reads, shown_shift(self.reverse, buffer));
            heads.push(format!("{} {taps}{from}", buffer.kind()));
        }
        for index in 0..self.carries {
            let binder = printer.input(body, &mut inner, params.carries.start + index);
            let next = equation.result(self.buffers.len() + index);
            heads.push(format!("carry {binder} = {next} from {}", equation.operand(operands.carries.start + index)));
        }
        let captured = equation.operands(operands.invariants.start..);
        let invariants = printer.captured(equation.names, captured, body, params.invariants.start, &mut inner);
        if !invariants.is_empty() {
            header += &format!(" with {}", invariants.join(", "));
        }
        printer.braced(header, |printer| {
            heads.iter().for_each(|head| printer.line(head));
            printer.equations(body, &mut inner);
            let output = |index: usize| body.outputs().get(index).map_or("%?".to_string(), |o| inner.get(o.value));
            for (index, buffer) in self.buffers.iter().enumerate() {
                for (offset, row) in buffer.writes.iter().zip(results.buffers[index].clone()) {
                    let tap = tap_text(*offset, shown_shift(self.reverse, buffer));
                    printer.line(format!("{}[{tap}] = {}", equation.result(index), output(row)));
                }
            }
            for index in 0..self.carries {
                let next = output(results.carries.start + index);
                printer.line(format!("{} = {next}", equation.result(self.buffers.len() + index)));
            }
            if let Some(index) = results.until {
                printer.line(format!("until {}", output(index)));
            }
        });
    }
}

impl Scan {
    /// `%xs: f32[T] last 1 = scan for t in 0..T down`
    fn header(&self, equation: &Equation<'_>) -> String {
        let last = |index: usize| match self.buffers.get(index).map(|buffer| buffer.returned) {
            Some(Returned::Last(count)) => format!(" last {count}"),
            Some(Returned::All) | None => String::new(),
        };
        let binders = equation.binders.iter().enumerate();
        let binders: Vec<String> = binders.map(|(index, binder)| binder.clone() + &last(index)).collect();
        let mut header = if binders.is_empty() { String::new() } else { format!("{} = ", binders.join(", ")) };
        header += "scan";
        if !self.body.name().is_empty() {
            header += &format!(" @{}", self.body.name());
        }
        header += &format!(" for t in 0..{}", self.steps);
        if let Some(index) = self.operands().steps {
            header += &format!("={}", equation.operand(index));
        }
        if let Some(symbol) = &self.until {
            header += &format!(" until {symbol}");
        }
        if self.reverse {
            header += " down";
        }
        if self.unroll != 1 {
            header += &format!(" unroll={}", self.unroll);
        }
        if let Some(policy) = &self.policy {
            header += &format!(" policy={policy}");
        }
        if let Some(steps) = self.truncate {
            header += &format!(" truncate={steps}");
        }
        header
    }
}

/// What is subtracted from a buffer's offsets to show them as taps: the row that a step writes next to the given
/// rows is `t`.
pub(crate) fn shown_shift(reverse: bool, buffer: &Buffer) -> usize {
    match buffer.start {
        Start::Given(given) if !reverse => given,
        _ => 0,
    }
}

/// `%x: f32[], %y: f32[] = %xs[t], %xs[t+1]`; the source alone if nothing is read.
fn reads(binders: &[String], source: &str, offsets: &[usize], shift: usize) -> String {
    if binders.is_empty() {
        return source.to_string();
    }
    let taps: Vec<String> = offsets.iter().map(|offset| format!("{source}[{}]", tap_text(*offset, shift))).collect();
    format!("{} = {}", binders.join(", "), taps.join(", "))
}

/// `t`, `t+1`, `t-2`
fn tap_text(offset: usize, shift: usize) -> String {
    match offset.cmp(&shift) {
        Ordering::Equal => "t".to_string(),
        Ordering::Greater => format!("t+{}", offset - shift),
        Ordering::Less => format!("t-{}", shift - offset),
    }
}
