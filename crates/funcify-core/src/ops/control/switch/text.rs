//! The text form of the switch.

use super::*;

impl Switch {
    /// The syntax of a switch.
    pub(crate) const SPELLING: Spelling = Spelling {
        name: "switch",
        example: "switch %index {",
        attributes: &[],
        bodies: Bodies::Numbered("case"),
        make: |form, _| Ok((Switch { branches: form.graphs() }.into(), form.all_operands())),
    };
}

impl Printable for Switch {
    fn form(&self, operands: &[ValueId]) -> Form {
        let branches = self.branches.iter().zip(self.operands());
        let block = |(branch, places)| FormBody::block(branch, 0, values_at(operands, places));
        Form::new(&Self::SPELLING, values_at(operands, 0..1), branches.map(block).collect())
    }
}
