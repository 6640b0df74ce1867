//! The text form of the call.

use super::*;
use crate::types::lexer::error_at;

impl Call {
    /// The syntax of a call with a reverse-mode rule.
    pub(crate) const VJP_SPELLING: Spelling = Spelling {
        name: "custom_vjp",
        example: "custom_vjp %x {",
        attributes: &[],
        bodies: Bodies::Named(&["function", "forward", "backward"]),
        make: |form, _| {
            let [function, forward, backward] = form.blocks();
            let (rule, arguments) = (Rule::Vjp { forward, backward }, form.operands.len());
            Ok((Call { function, rule, arguments }.into(), form.all_operands()))
        },
    };

    /// The syntax of a call with a forward-mode rule.
    pub(crate) const JVP_SPELLING: Spelling = Spelling {
        name: "custom_jvp",
        example: "custom_jvp %x {",
        attributes: &[],
        bodies: Bodies::Named(&["function", "tangent"]),
        make: |form, _| {
            let [function, tangent] = form.blocks();
            let (rule, arguments) = (Rule::Jvp { tangent }, form.operands.len());
            Ok((Call { function, rule, arguments }.into(), form.all_operands()))
        },
    };

    /// The syntax of `itself`, a call that a rule makes to the function that the rule belongs to. In nested rules,
    /// `itself` refers to the function of the innermost rule.
    pub(crate) const ITSELF_SPELLING: Spelling = Spelling {
        name: "itself",
        example: "itself %x",
        attributes: &[],
        bodies: Bodies::Named(&[]),
        make: |form, reading| {
            let is_call = |spelling: &Spelling| spelling.body_name(0) == "function";
            let calls = reading.around.iter().rev().filter(|(spelling, _)| is_call(spelling));
            let Some(function) = calls.flat_map(|(_, bodies)| bodies.first()).next() else {
                let found = "no `custom_vjp` or `custom_jvp` around it";
                return Err(error_at(form.site, "`itself` only in the graphs of a rule", found));
            };
            let (function, arguments) = (function.graph.clone(), form.operands.len());
            Ok((Call { function, rule: Rule::Itself, arguments }.into(), form.all_operands()))
        },
    };
}

impl Printable for Call {
    fn form(&self, operands: &[ValueId]) -> Form {
        let given = |places| values_at(operands, places);
        let arguments = given(0..self.arguments);
        let spelling = match self.rule {
            Rule::Vjp { .. } => &Self::VJP_SPELLING,
            Rule::Jvp { .. } => &Self::JVP_SPELLING,
            Rule::Itself => return Form::new(&Self::ITSELF_SPELLING, arguments, Vec::new()),
        };
        let block = |part: super::CallBody<'_>| FormBody::block(part.graph, part.params, given(part.captured));
        Form::new(spelling, arguments, self.parts().into_iter().map(block).collect())
    }
}
