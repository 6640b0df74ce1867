//! The text form of the associative scan.

use super::*;

impl AssociativeScan {
    /// The syntax of an associative scan.
    pub(crate) const SPELLING: Spelling = Spelling {
        name: "associative_scan",
        example: "associative_scan %a, %b {order=down} {",
        attributes: &["order"],
        bodies: Bodies::Named(&["combine"]),
        make: |form, _| {
            let reverse = form.take_order()?;
            let [combine] = form.blocks();
            Ok((AssociativeScan { combine, leaves: form.operands.len(), reverse }.into(), form.all_operands()))
        },
    };
}

impl Printable for AssociativeScan {
    fn form(&self, operands: &[ValueId]) -> Form {
        let (leaves, captured) = operands.split_at(self.leaves.min(operands.len()));
        let mut form =
            Form::new(&Self::SPELLING, leaves, vec![FormBody::block(&self.combine, 2 * self.leaves, captured)]);
        form.set_order(self.reverse);
        form
    }
}
