//! The registry of lowering rules: maps each pair of backend and op to a kernel or a loop strategy.
//!
//! `inventory` collects the entries of all linked crates. On first use, they are sorted and validated. Two entries for
//! the same backend and op are an error. It is also an error if a backend has neither entries nor a fallback kernel.
//! The backend's crate was probably not linked, because no code refers to the crate.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::OnceLock;

use funcify_core::error::{BackendError, Error, Place, Result};
use funcify_core::ops::{Op, OpKey, Scan, all_names, duplicate_op_name};

use super::{Backend, KernelCall, LoopStrategy, Tensors};

/// A function that computes the results of an op from its operands.
///
/// ```
/// use funcify::dispatch::{Kernel, Reference, evaluate_kernel};
///
/// let kernel: Kernel<Reference> = evaluate_kernel;
/// ```
pub type Kernel<B> = fn(
    &KernelCall<'_, B, Op>,
    Tensors<<B as Backend>::Tensor>,
) -> Result<Tensors<<B as Backend>::Tensor>, BackendError>;

/// The way in which a backend runs an op.
#[doc(hidden)]
pub enum LoweringRule<B: Backend> {
    /// A kernel that computes the results of the op.
    Kernel(Kernel<B>),
    /// A loop that is unrolled by default.
    Unroll,
    /// A loop that runs natively by default.
    NativeLoop,
}

impl<B: Backend> LoweringRule<B> {
    /// Returns the loop strategy, or `None` if the rule is a kernel.
    pub(crate) fn strategy(&self) -> Option<LoopStrategy> {
        match self {
            LoweringRule::Kernel(_) => None,
            LoweringRule::Unroll => Some(LoopStrategy::Unroll),
            LoweringRule::NativeLoop => Some(LoopStrategy::Native),
        }
    }
}

/// A registered lowering rule, created by [`funcify!`](crate::funcify).
#[doc(hidden)]
pub struct Entry {
    /// Returns the id of the backend's type.
    pub backend: fn() -> TypeId,
    /// The op's name.
    pub op: &'static str,
    /// The type-erased [`LoweringRule`] for that backend.
    pub rule: &'static (dyn Any + Send + Sync),
    /// The source location of the registration.
    pub site: &'static Location<'static>,
}

inventory::collect!(Entry);

/// The lowering rules of all linked crates.
struct Registry {
    entries: BTreeMap<(TypeId, &'static str), &'static Entry>,
    /// The ops that are registered twice for the same backend, with both source locations.
    duplicates: Vec<(TypeId, &'static str, [&'static Location<'static>; 2])>,
}

fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        let mut all: Vec<&'static Entry> = inventory::iter::<Entry>().collect();
        all.sort_by_key(|entry| (entry.op, entry.site.file(), entry.site.line()));
        let mut registry = Registry { entries: BTreeMap::new(), duplicates: Vec::new() };
        for entry in all {
            let backend = (entry.backend)();
            if let Some(first) = registry.entries.insert((backend, entry.op), entry) {
                registry.duplicates.push((backend, entry.op, [first.site, entry.site]));
            }
        }
        registry
    })
}

/// Returns an error if a backend has neither rules nor a fallback kernel, if it has two rules for the same op, or if
/// two crates register ops with the same name.
pub(crate) fn check_rules<B: Backend>(backend: &B, at: &Place) -> Result<()> {
    let id = TypeId::of::<B>();
    let has_entries = || registry().entries.keys().any(|(other, _)| *other == id);
    let duplicate = registry().duplicates.iter().find(|(other, ..)| *other == id);
    let (problem, fix) = if let Some((_, op, [first, second])) = duplicate {
        let problem = format!("`{op}` is registered at {first} and at {second}");
        (problem, "remove one of the two `funcify!` entries")
    } else if let Some(name) = duplicate_op_name() {
        (format!("two crates register an op named `{name}`"), "rename the op of one of them")
    } else if backend.fallback().is_none() && !has_entries() {
        let fix = "name the backend's crate (`use funcify_candle as _;`), so that it is linked";
        ("no lowering rule is registered for it".to_string(), fix)
    } else {
        return Ok(());
    };
    Err(Error::Registry { at: at.boxed(), backend: backend.name().to_string(), problem, fix: fix.to_string() })
}

/// Returns the lowering rule of an op, or an error if the backend has none.
pub(crate) fn rule_of<B: Backend>(backend: &B, op: &'static str, at: &Place) -> Result<&'static LoweringRule<B>> {
    registered(op).ok_or_else(|| Error::NoLoweringRule {
        at: at.boxed(),
        backend: backend.name().to_string(),
        fix: match all_names().contains(&op) {
            true => format!("register one with `funcify!`, or express `{op}` with ops that the backend supports"),
            false => format!("register one with `funcify!`, or implement `CustomOp::composition` for `{op}`"),
        },
    })
}

/// Returns the kernel of an op, or the backend's fallback kernel if the op has none. Without a fallback kernel, returns
/// `None` if the op's rule is a loop strategy, and an error if the op has no rule.
pub(crate) fn kernel_of<B: Backend>(backend: &B, op: &'static str, at: &Place) -> Result<Option<Kernel<B>>> {
    match (rule_of(backend, op, at), backend.fallback()) {
        (Ok(LoweringRule::Kernel(kernel)), _) => Ok(Some(*kernel)),
        (_, Some(fallback)) => Ok(Some(fallback)),
        (Ok(_), None) => Ok(None),
        (Err(error), None) => Err(error),
    }
}

/// Returns `true` if a backend has a lowering rule for an op, or a fallback kernel.
pub(crate) fn has_kernel<B: Backend>(backend: &B, op: &'static str) -> bool {
    has_rule::<B>(op) || backend.fallback().is_some()
}

/// Returns `true` if a backend has a lowering rule for an op.
pub(crate) fn has_rule<B: Backend>(op: &'static str) -> bool {
    registered::<B>(op).is_some()
}

fn registered<B: Backend>(op: &'static str) -> Option<&'static LoweringRule<B>> {
    registry().entries.get(&(TypeId::of::<B>(), op))?.rule.downcast_ref()
}

/// Returns the names of the ops for which a backend has lowering rules, in alphabetical order.
///
/// ```
/// use funcify::dispatch::{Reference, lowered_ops};
///
/// // The reference backend evaluates all other ops through its fallback kernel.
/// assert_eq!(lowered_ops::<Reference>(), ["scan"]);
/// ```
pub fn lowered_ops<B: Backend>() -> Vec<&'static str> {
    let of_backend = registry().entries.keys().filter(|(backend, _)| *backend == TypeId::of::<B>());
    let mut names: Vec<&'static str> = of_backend.map(|(_, op)| *op).collect();
    names.sort_unstable();
    names
}

/// Returns the loop strategy that a backend registered for `scan`, if any.
pub(crate) fn registered_strategy<B: Backend>() -> Option<LoopStrategy> {
    registered::<B>(Scan::NAME)?.strategy()
}

/// Registers a backend's lowering rule for an op: a kernel or a loop strategy.
///
/// ```text
/// funcify!(Candle, Tanh, |_call, [x]| x.tanh());           // a kernel of one operand
/// funcify!(Candle, Concat, |call, parts| join(call, parts)); // a kernel of any number
/// funcify!(Candle, Scan, unroll);                          // a loop, unrolled
/// funcify!(Burn, Scan, native_loop);                       // a loop, run natively
/// ```
///
/// `call` is a [`KernelCall`] for the op's own type. The closure returns a `Result` with a tensor, an array of tensors
/// or a list of tensors. The error may be of any type that converts into a boxed error. Operands are passed by value,
/// and the last use of a tensor moves it, so a kernel may reuse the tensor's memory.
///
/// ```
/// use std::sync::Arc;
///
/// use funcify::dispatch::{Backend, Reference, lowered_ops, tensors_of};
/// use funcify::{Error, HostTensor, Scalar, funcify, ops};
///
/// # #[derive(Clone)]
/// # struct Mine;
/// # impl Backend for Mine {
/// #     tensors_of!(Reference);
/// #     fn name(&self) -> &'static str {
/// #         "mine"
/// #     }
/// # }
///
/// funcify!(Mine, ops::Neg, |_call, [x]| {
///     let negated = |index: &[usize]| Scalar::Float(-x.at(index).as_f64());
///     Ok::<_, Error>(Arc::new(HostTensor::from_fn(x.dtype(), x.shape(), negated)))
/// });
/// funcify!(Mine, ops::Scan, native_loop);
/// assert_eq!(lowered_ops::<Mine>(), ["neg", "scan"]);
/// ```
#[macro_export]
macro_rules! funcify {
    ($backend:ty, $op:ty, unroll) => {
        $crate::funcify!(@entry $backend, $op, $crate::LoweringRule::Unroll);
    };
    ($backend:ty, $op:ty, native_loop) => {
        $crate::funcify!(@entry $backend, $op, $crate::LoweringRule::NativeLoop);
    };
    ($backend:ty, $op:ty, |$call:pat_param, [$($operand:pat_param),* $(,)?]| $formula:expr) => {
        $crate::funcify!(@entry $backend, $op, $crate::LoweringRule::<$backend>::Kernel(|call, operands| {
            let $call = $crate::typed_call::<$backend, $op>(call)?;
            $crate::check_operands(&operands, <[&str]>::len(&[$(stringify!($operand)),*]))?;
            let [$($operand),*] = $crate::operand_array(operands);
            ::core::result::Result::Ok($crate::IntoTensors::into_tensors($formula?))
        }));
    };
    ($backend:ty, $op:ty, |$call:pat_param, $operands:pat_param| $formula:expr) => {
        $crate::funcify!(@entry $backend, $op, $crate::LoweringRule::<$backend>::Kernel(|call, operands| {
            let $call = $crate::typed_call::<$backend, $op>(call)?;
            let $operands = operands;
            ::core::result::Result::Ok($crate::IntoTensors::into_tensors($formula?))
        }));
    };
    (@entry $backend:ty, $op:ty, $rule:expr) => {
        const _: () = {
            static RULE: $crate::LoweringRule<$backend> = $rule;
            $crate::inventory::submit! {
                $crate::Entry {
                    backend: || ::core::any::TypeId::of::<$backend>(),
                    op: <$op as $crate::OpKey>::NAME,
                    rule: &RULE,
                    site: ::core::panic::Location::caller(),
                }
            }
        };
    };
}

/// Converts a kernel call on the general `Op` to a call on the op type for which the kernel is registered.
#[doc(hidden)]
pub fn typed_call<'a, B: Backend, O: funcify_core::ops::OpKey>(
    call: &KernelCall<'a, B, Op>,
) -> Result<KernelCall<'a, B, O>, BackendError> {
    let op = O::of(call.op).ok_or_else(|| format!("the kernel of `{}` received another op", O::NAME))?;
    Ok(call.with_op(op))
}

/// Returns an error unless a kernel received exactly `count` operands.
#[doc(hidden)]
pub fn check_operands<T>(operands: &Tensors<T>, count: usize) -> Result<(), BackendError> {
    match operands.len() == count {
        true => Ok(()),
        false => Err(format!("a kernel of {count} operands received {}", operands.len()).into()),
    }
}

/// Converts operands to an array. The caller must have checked their number with [`check_operands`]. The return type is
/// not a `Result`, because a `Result` would move the large tensors a second time.
#[doc(hidden)]
#[inline]
pub fn operand_array<T, const N: usize>(mut operands: Tensors<T>) -> [T; N] {
    let mut operands = operands.drain(..);
    std::array::from_fn(|_| operands.next().expect("checked above: `check_operands` has counted the operands"))
}
