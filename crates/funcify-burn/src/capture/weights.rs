//! Defines the weights of a closure: the parameters of a Burn module, tensors, or tuples of them.

use std::vec::IntoIter;

use burn::module::{Flag, Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Bool, Int, Tensor};

use super::record::unsupported;
use super::*;

/// The inputs of a recorded closure other than its arguments, usually trained parameters. In a loop, every step
/// receives the same weights.
///
/// * `&module`: a reference to a Burn module. The closure receives a module of the same type and can call `forward` on
///   it. Its parameters ([`Param`]) are the weights. A plain tensor in the module is a constant, as it is for Burn's
///   optimisers, so no gradient flows through it. Pass a computed tensor, for example the output of another network, by
///   value and separately from the module.
/// * a tensor, by value;
/// * a tuple or an array of weights;
/// * `()`: no weights.
///
/// A closure cannot capture its weights instead, because it is recorded on a separate device, and Burn rejects ops on
/// tensors of different devices.
///
/// ```
/// # #[cfg(feature = "flex")] {
/// use burn::nn::LinearConfig;
/// use burn::tensor::{Device, Tensor};
///
/// let device = Device::flex();
/// let linear = LinearConfig::new(3, 2).init(&device);
/// let shift = Tensor::<1>::ones([2], &device);
/// let x = Tensor::<2>::ones([5, 3], &device);
/// // A module by reference, and a tensor by value.
/// let traced = funcify_burn::trace((&linear, shift), x, |(linear, shift), x| linear.forward(x) + shift.unsqueeze())?;
/// assert_eq!(traced.graph().output_type(0).to_string(), "f32[5,2]");
/// # }
/// # Ok::<(), funcify::Error>(())
/// ```
pub trait Weights {
    /// The weights in the form that the closure receives.
    type Inside;

    /// Returns the tensors of the weights, each with its name.
    ///
    /// # Errors
    /// Returns [`Error::Call`] for a module that has no parameters but has tensors with autodiff, because their
    /// gradients would be lost.
    fn tensors(&self, at: &Place) -> Result<Vec<(String, AnyTensor)>>;

    /// Returns whether the weights contain a layer in training mode, such as dropout or batch normalisation.
    fn has_training(&self) -> bool {
        false
    }

    /// Rebuilds the weights on `device` from the next elements of `tensors`.
    ///
    /// # Errors
    /// Returns [`Error::Call`] if the tensors do not match those that [`tensors`](Weights::tensors) returned.
    fn inside(&self, at: &Place, device: &Device, tensors: &mut IntoIter<AnyTensor>) -> Result<Self::Inside>;
}

impl Weights for () {
    type Inside = ();

    fn tensors(&self, _: &Place) -> Result<Vec<(String, AnyTensor)>> {
        Ok(Vec::new())
    }

    fn inside(&self, _: &Place, _: &Device, _: &mut IntoIter<AnyTensor>) -> Result<()> {
        Ok(())
    }
}

impl<const D: usize, K: TensorKind> Weights for Tensor<D, K> {
    type Inside = Tensor<D, K>;

    fn tensors(&self, _: &Place) -> Result<Vec<(String, AnyTensor)>> {
        Ok(vec![("w".into(), self.clone().into())])
    }

    fn inside(&self, at: &Place, _: &Device, tensors: &mut IntoIter<AnyTensor>) -> Result<Tensor<D, K>> {
        next_tensor(at, tensors)
    }
}

impl Weights for AnyTensor {
    type Inside = AnyTensor;

    fn tensors(&self, _: &Place) -> Result<Vec<(String, AnyTensor)>> {
        Ok(vec![("w".into(), self.clone())])
    }

    fn inside(&self, at: &Place, _: &Device, tensors: &mut IntoIter<AnyTensor>) -> Result<AnyTensor> {
        tensors.next().ok_or_else(|| missing_weight_error(at))
    }
}

impl<M: Module> Weights for &M {
    type Inside = M;

    fn tensors(&self, at: &Place) -> Result<Vec<(String, AnyTensor)>> {
        let visitor = Visitor::of(*self);
        let is_lost = visitor.tensors.is_empty() && self.devices().iter().any(Device::is_autodiff);
        match is_lost {
            false => Ok(visitor.tensors),
            true => Err(misfit(
                at,
                "the weights",
                "a module with parameters",
                "one with only plain tensors, to which no gradient would flow",
                "pass tensors by value, `w.clone()`, or the module without autodiff, `&module.valid()`",
            )),
        }
    }

    fn has_training(&self) -> bool {
        Visitor::of(*self).has_training
    }

    fn inside(&self, at: &Place, device: &Device, tensors: &mut IntoIter<AnyTensor>) -> Result<M> {
        let own = Visitor::of(*self).tensors;
        let given: Vec<AnyTensor> = tensors.take(own.len()).collect();
        let plain = given.iter().map(|tensor| AnyTensor::new(tape::without_tape(tensor.as_dispatch())));
        // Call `valid`, because a tensor with autodiff cannot move to the capture device. `valid` also copies the
        // running statistics, so the body can update the copies. For a module of an outer loop, which is already on the
        // capture device, replace the parameters before calling `valid`.
        let module = match own.iter().any(|(_, tensor)| inner::is_recorded(tensor)) {
            true => replace_parameters(at, M::clone(self), plain.collect())?.valid(),
            false => replace_parameters(at, self.valid(), plain.collect())?,
        };
        let module = module.to_device(&device.clone().without_autodiff());
        if device.is_autodiff() {
            Ok(replace_parameters(at, module, given)?.map(&mut StripAutodiff))
        } else {
            Ok(module)
        }
    }
}

impl<T: Weights, const N: usize> Weights for [T; N] {
    type Inside = [T::Inside; N];

    fn tensors(&self, at: &Place) -> Result<Vec<(String, AnyTensor)>> {
        let parts = self.iter().enumerate().map(|(index, part)| Ok(prefix_names(index, part.tensors(at)?)));
        Ok(parts.collect::<Result<Vec<_>>>()?.concat())
    }

    fn has_training(&self) -> bool {
        self.iter().any(Weights::has_training)
    }

    fn inside(&self, at: &Place, device: &Device, tensors: &mut IntoIter<AnyTensor>) -> Result<[T::Inside; N]> {
        let parts = self.iter().map(|part| part.inside(at, device, tensors)).collect::<Result<Vec<_>>>()?;
        parts.try_into().map_err(|_| missing_weight_error(at))
    }
}

macro_rules! tuples {
    ($(($($name:ident $index:tt),+))*) => {$(
        impl<$($name: Weights),+> Weights for ($($name,)+) {
            type Inside = ($($name::Inside,)+);

            fn tensors(&self, at: &Place) -> Result<Vec<(String, AnyTensor)>> {
                Ok([$(prefix_names($index, self.$index.tensors(at)?)),+].concat())
            }

            fn has_training(&self) -> bool {
                $(self.$index.has_training())||+
            }

            fn inside(&self, at: &Place, device: &Device, tensors: &mut IntoIter<AnyTensor>) -> Result<Self::Inside> {
                Ok(($(self.$index.inside(at, device, tensors)?,)+))
            }
        }
    )*};
}

funcify_core::for_tuples!(tuples);

/// Prefixes the names of weights with the index of their tuple or array element.
fn prefix_names(index: usize, tensors: Vec<(String, AnyTensor)>) -> Vec<(String, AnyTensor)> {
    tensors.into_iter().map(|(name, tensor)| (format!("w{index}_{name}"), tensor)).collect()
}

fn next_tensor<const D: usize, K: TensorKind>(at: &Place, tensors: &mut IntoIter<AnyTensor>) -> Result<Tensor<D, K>> {
    tensors.next().and_then(|tensor| tensor.into_tensor().ok()).ok_or_else(|| missing_weight_error(at))
}

fn missing_weight_error(at: &Place) -> Error {
    let reason = "mapping the module yields other parameters than visiting it";
    unsupported(at, "the weights", reason, "derive `Module` for it")
}

/// A visitor that collects the parameters of a module, each named by the path of its field.
#[derive(Default)]
struct Visitor {
    path: Vec<String>,
    tensors: Vec<(String, AnyTensor)>,
    /// `true` if a layer is in training mode.
    has_training: bool,
}

impl Visitor {
    fn of(module: &impl Module) -> Self {
        let mut visitor = Visitor::default();
        module.visit(&mut visitor);
        visitor
    }

    fn push(&mut self, tensor: AnyTensor) {
        let name = self.path.join("_");
        // The name of a list element is its index, but a weight's name must begin with a letter.
        let name = if name.starts_with(|c: char| c.is_ascii_alphabetic()) { name } else { format!("w{name}") };
        self.tensors.push((name, tensor));
    }
}

impl ModuleVisitor for Visitor {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.push(param.val().into());
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        self.push(param.val().into());
    }

    fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<D, Bool>>) {
        self.push(param.val().into());
    }

    fn visit_flag(&mut self, flag: &Param<Flag>) {
        self.has_training |= flag.is_enabled();
    }

    fn enter_module(&mut self, name: &str, _: &str) {
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        self.path.push(name.chars().map(|c| if is_of_name(c) { c } else { '_' }).collect());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }
}

/// Replaces the parameters of a module with these tensors.
fn replace_parameters<M: Module>(at: &Place, module: M, tensors: Vec<AnyTensor>) -> Result<M> {
    let mut mapper = ReplaceTensors { tensors: tensors.into_iter(), is_complete: true };
    let module = module.map(&mut mapper);
    if mapper.is_complete { Ok(module) } else { Err(missing_weight_error(at)) }
}

/// A mapper that removes autodiff from untracked tensors, such as running statistics. Detaching them, as a module's own
/// methods do, is not enough, because layers move them between devices.
struct StripAutodiff;

impl ModuleMapper for StripAutodiff {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (id, tensor, mapper) = param.consume();
        let plain = match tensor.is_tracked() {
            true => tensor,
            false => Tensor::from_dispatch(tape::without_tape(AnyTensor::from(tensor).as_dispatch())),
        };
        Param::from_mapped_value(id, plain, mapper)
    }
}

/// A mapper that replaces the parameters of a module with these tensors, in the order in which [`Visitor`] collects
/// them.
struct ReplaceTensors {
    tensors: IntoIter<AnyTensor>,
    is_complete: bool,
}

impl ReplaceTensors {
    fn replace<const D: usize, K: TensorKind>(&mut self, old: Tensor<D, K>) -> Tensor<D, K> {
        let new = self.tensors.next().and_then(|tensor| tensor.into_tensor().ok());
        self.is_complete &= new.is_some();
        new.unwrap_or(old)
    }
}

impl ModuleMapper for ReplaceTensors {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (id, old, mapper) = param.consume();
        Param::from_mapped_value(id, self.replace(old), mapper)
    }

    fn map_int<const D: usize>(&mut self, param: Param<Tensor<D, Int>>) -> Param<Tensor<D, Int>> {
        let (id, old, mapper) = param.consume();
        Param::from_mapped_value(id, self.replace(old), mapper)
    }

    fn map_bool<const D: usize>(&mut self, param: Param<Tensor<D, Bool>>) -> Param<Tensor<D, Bool>> {
        let (id, old, mapper) = param.consume();
        Param::from_mapped_value(id, self.replace(old), mapper)
    }
}

/// If a tensor has autodiff, rejects weights with layers that behave differently in training. Such layers check whether
/// the device of their input has autodiff; the capture device has none, so they would run in inference mode.
pub(super) fn check_training<'a>(
    at: &Place,
    weights: &impl Weights,
    mut tensors: impl Iterator<Item = &'a AnyTensor>,
    fix: &str,
) -> Result<()> {
    match weights.has_training() && tensors.any(|tensor| tensor.device().is_autodiff()) {
        false => Ok(()),
        true => Err(unsupported(
            at,
            "a module with layers that behave differently in training (dropout, batch normalisation)",
            "Burn's capture records no training: the layers would run as in inference",
            fix,
        )),
    }
}
