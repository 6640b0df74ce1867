//! The associative scan in the text form.

use super::AssociativeScan;
use crate::graph::print::{Equation, Printer};
use crate::ops::Printable;

impl Printable for AssociativeScan {
    fn print(&self, printer: &mut Printer, equation: &Equation<'_>) {
        let xs = equation.names.all(equation.operands(..self.leaves)).join(", ");
        let down = if self.reverse { " down" } else { "" };
        printer.braced(format!("{}associative_scan {xs}{down}", equation.left()), |printer| {
            let captured = equation.operands(self.leaves..);
            printer.block("combine", equation.names, &self.combine, 2 * self.leaves, captured);
        });
    }
}
