//! Trait methods shared by the elementwise custom ops in the tests.

/// Implements the type rule and the batching rule of an elementwise op. If called with a closure that evaluates the op,
/// the macro also implements the evaluation, and declares that the op has no attributes.
macro_rules! elementwise {
    () => {
        fn infer(
            &self,
            _: &funcify::error::Place,
            inputs: &[funcify::TensorType],
        ) -> funcify::Result<Vec<funcify::TensorType>> {
            Ok(inputs.to_vec())
        }

        fn batch(
            &self,
            size: &funcify::Dim,
            operands: &[funcify::vmap::Batched],
        ) -> Result<Vec<funcify::vmap::Batched>, funcify::ops::Failed> {
            funcify::ops::batch_elementwise(funcify::ops::Custom::new(*self), size, operands)
        }
    };
    (|$inputs:ident| $results:expr) => {
        $crate::elementwise::elementwise!();

        fn attributes(&self) -> funcify::ops::Attributes {
            funcify::ops::Attributes::new()
        }

        fn eval(
            &self,
            _: &mut funcify::ops::EvalContext<'_>,
            $inputs: &[funcify::HostTensor],
            _: &[funcify::TensorType],
        ) -> funcify::Result<Vec<funcify::HostTensor>> {
            Ok($results)
        }
    };
}

pub(crate) use elementwise;
