//! The text form of the while loop.

use super::*;

impl While {
    /// The syntax of a while loop.
    pub(crate) const SPELLING: Spelling = Spelling {
        name: "while",
        example: "while %x {bound=20} {",
        attributes: &["bound"],
        bodies: Bodies::Named(&["test", "step"]),
        make: |form, _| {
            let bound = form.read(|attributes| attributes.take_if_given("bound", Attributes::take_dim))?;
            let [test, step] = form.blocks();
            Ok((While { condition: test, body: step, bound }.into(), form.all_operands()))
        },
    };
}

impl Printable for While {
    fn form(&self, operands: &[ValueId]) -> Form {
        let places = self.operands();
        let carries = places.carries.len();
        let given = |places| values_at(operands, places);
        let bodies = vec![
            FormBody::block(&self.condition, carries, given(places.condition)),
            FormBody::block(&self.body, carries, given(places.body)),
        ];
        let mut form = Form::new(&Self::SPELLING, given(places.carries), bodies);
        if let Some(bound) = &self.bound {
            form.attributes = form.attributes.with("bound", bound.clone());
        }
        form
    }
}
