//! Compiles and runs the two programs of a differentiable call: a forward program, and a backward program that computes
//! gradients from cotangents.

use funcify_core::Graph;
use funcify_core::cancel::free_after;
use funcify_core::derivative::BackwardInput;
use funcify_core::error::{Place, Result};
use funcify_cpu::DerivativePrograms;
use funcify_runtime::{Backend, Report};

use super::device_error;
use super::options::DifferentiableOptions;
use crate::device::Burn;
use crate::kinds::{self, Tensor};

/// A forward program that saves residuals, and a backward program that computes the gradients of selected inputs.
pub(crate) struct Derivative {
    at: Place,
    pub(crate) programs: DerivativePrograms<Burn>,
    /// The number of the graph's results. The forward program returns these results, followed by the residuals.
    results: usize,
}

/// The values that one call of the forward program saves for the backward program.
pub(crate) struct Saved {
    /// The inputs of the backward program, with `None` for each cotangent, because the cotangents are not known yet.
    tensors: Vec<Option<Tensor>>,
    /// The sizes of the graph's results.
    sizes: Vec<Vec<usize>>,
}

impl Derivative {
    /// Compiles the programs that compute the gradients of the inputs marked in `by`. As in Burn, an input without a
    /// differentiable path to a result has no gradient. Returns `None` if no marked input has a gradient. `sizes` are
    /// the argument sizes for which the residuals' layout is optimised.
    pub(crate) fn new(
        at: &Place,
        graph: &Graph,
        burn: &Burn,
        by: &[bool],
        sizes: &[Vec<usize>],
        options: &DifferentiableOptions,
    ) -> Result<Option<Self>> {
        let (compile, policy) = (&options.compile, options.policy.as_ref());
        let programs = DerivativePrograms::compile(graph, burn, by, sizes, compile, policy)?;
        Ok(programs.map(|programs| Derivative { at: at.clone(), programs, results: graph.outputs().len() }))
    }

    /// Returns the reports on the forward program and the backward program.
    pub(crate) fn reports(&self) -> Vec<Report> {
        vec![self.programs.forward.report(), self.programs.backward.report()]
    }

    /// Runs the forward program. Returns the graph's results and the values saved for the backward program.
    pub(crate) fn forward(&self, arguments: Vec<Tensor>) -> Result<(Vec<Tensor>, Saved)> {
        let mut outputs = self.programs.forward.call(&arguments)?;
        let tensors = self.programs.backward_inputs.iter().map(|input| match input {
            BackwardInput::Input(index) => Some(arguments[*index].clone()),
            BackwardInput::Output(index) => Some(outputs[*index].clone()),
            BackwardInput::Cotangent(_) => None,
        });
        let tensors = tensors.collect();
        outputs.truncate(self.results);
        let sizes = outputs.iter().map(kinds::sizes).collect();
        Ok((outputs, Saved { tensors, sizes }))
    }

    /// Computes the gradients of the differentiated inputs. `sizes` are the sizes of these inputs. Each gradient is
    /// reshaped to the sizes of its input. A missing cotangent is treated as zeros.
    pub(crate) fn backward(
        &self,
        saved: Saved,
        mut cotangents: Vec<Option<Tensor>>,
        sizes: &[Vec<usize>],
    ) -> Result<Vec<Tensor>> {
        let burn = self.programs.backward.backend();
        let to_error = |source| device_error(&self.at, burn.name(), source);
        let mut arguments = Vec::with_capacity(self.programs.backward_inputs.len());
        for (index, (input, tensor)) in self.programs.backward_inputs.iter().zip(saved.tensors).enumerate() {
            arguments.push(match (tensor, input) {
                (Some(tensor), _) => tensor,
                (None, BackwardInput::Cotangent(result)) => match cotangents[*result].take() {
                    Some(cotangent) => kinds::resized(cotangent, &saved.sizes[*result]).map_err(to_error)?,
                    None => {
                        let dtype = self.programs.backward.graph().input_type(index).dtype;
                        burn.zeros(dtype, &saved.sizes[*result]).map_err(to_error)?
                    }
                },
                (None, _) => unreachable!("every input except a cotangent is saved"),
            });
        }
        let gradients = self.programs.backward.call(&arguments).inspect_err(|error| free_after(error, arguments))?;
        let fitted = gradients.into_iter().zip(sizes).map(|(it, sizes)| kinds::resized(it, sizes).map_err(to_error));
        fitted.collect()
    }
}
