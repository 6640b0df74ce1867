//! The choice in the text form.

use super::Switch;
use crate::graph::print::{Equation, Printer};
use crate::ops::{Bodied, Printable};

impl Printable for Switch {
    fn print(&self, printer: &mut Printer, equation: &Equation<'_>) {
        printer.braced(format!("{}switch {}", equation.left(), equation.operand(0)), |printer| {
            for (number, (branch, places)) in self.branches.iter().zip(self.operands()).enumerate() {
                printer.block(&self.body_name(number), equation.names, branch, 0, equation.operands(places));
            }
        });
    }
}
