//! The loop that a condition ends in the text form.

use super::While;
use crate::graph::print::{Equation, Printer};
use crate::ops::Printable;

impl Printable for While {
    fn print(&self, printer: &mut Printer, equation: &Equation<'_>) {
        let (places, names) = (self.operands(), equation.names);
        let carries = places.carries.len();
        let mut header = format!("{}while", equation.left());
        if carries > 0 {
            header += &format!(" {}", names.all(equation.operands(places.carries)).join(", "));
        }
        if let Some(bound) = &self.bound {
            header += &format!(" bound {bound}");
        }
        printer.braced(header, |printer| {
            printer.block("test", names, &self.condition, carries, equation.operands(places.condition));
            printer.block("step", names, &self.body, carries, equation.operands(places.body));
        });
    }
}
