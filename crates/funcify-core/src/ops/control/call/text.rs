//! The call in the text form.

use super::{Call, Rule};
use crate::graph::print::{Equation, Printer};
use crate::ops::{OpRules, Printable};

impl Printable for Call {
    fn print(&self, printer: &mut Printer, equation: &Equation<'_>) {
        let arguments = equation.names.all(equation.operands(..self.arguments)).join(", ");
        let space = if arguments.is_empty() { "" } else { " " };
        let left = equation.left();
        if matches!(self.rule, Rule::Itself) {
            return printer.line(format!("{left}itself{space}{arguments}"));
        }
        printer.braced(format!("{left}{}{space}{arguments}", self.name()), |printer| {
            for part in self.parts() {
                let captured = equation.operands(part.captured);
                printer.block(part.name, equation.names, part.graph, part.params, captured);
            }
        });
    }
}
