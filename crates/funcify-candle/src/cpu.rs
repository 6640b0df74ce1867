//! Implements CPU kernels for ops that Candle lacks. A kernel applies a function to each element, each pair of
//! elements, or each row.
//!
//! The kernels are Candle custom ops, generic over the element type and the function, so that each instance compiles to
//! a single loop. Candle cannot differentiate them, and does not have to: programs run on detached tensors, and funcify
//! computes the gradients of tracked tensors.

use candle_core::cpu_backend::{binary_map_vec_par, unary_map_vec_par};
use candle_core::{CpuStorage, CustomOp1, CustomOp2, CustomOp3, DType, Error, Layout, Shape, Tensor, WithDType};
use funcify_core::error::BackendError;
use funcify_core::types::{nearest_bf16, nearest_f16};
use half::{bf16, f16};

use crate::device::{Call, Outcome};

type Result<T, E = Error> = std::result::Result<T, E>;

/// Returns an error if the device is not the CPU.
pub(crate) fn require_cpu<O>(call: &Call<'_, O>) -> Outcome<()> {
    if call.backend.device().is_cpu() {
        return Ok(());
    }
    let what =
        format!("`{}` of {}", call.place().op, call.inputs.first().map_or("nothing".into(), |ty| ty.to_string()));
    Err(call.unsupported(what, "Candle has no such kernel, and funcify's is for the CPU", "use `Candle::cpu()`"))
}

/// A function that can be stored in a Candle op and called from any thread.
pub(crate) trait KernelFn: Copy + Send + Sync + 'static {}

impl<F: Copy + Send + Sync + 'static> KernelFn for F {}

/// A Candle op with a name and a CPU kernel. The kernel is a closure that takes the storage and the layout of each
/// operand.
pub(crate) struct Kernel<F>(pub(crate) &'static str, pub(crate) F);

/// The result of a kernel: its elements and their shape.
pub(crate) type KernelResult = Result<(CpuStorage, Shape)>;

impl<F: Fn(&CpuStorage, &Layout) -> KernelResult> CustomOp1 for Kernel<F> {
    fn name(&self) -> &'static str {
        self.0
    }

    fn cpu_fwd(&self, s1: &CpuStorage, l1: &Layout) -> KernelResult {
        (self.1)(s1, l1)
    }
}

impl<F: Fn(&CpuStorage, &Layout, &CpuStorage, &Layout) -> KernelResult> CustomOp2 for Kernel<F> {
    fn name(&self) -> &'static str {
        self.0
    }

    fn cpu_fwd(&self, s1: &CpuStorage, l1: &Layout, s2: &CpuStorage, l2: &Layout) -> KernelResult {
        (self.1)(s1, l1, s2, l2)
    }
}

impl<F: Fn(&CpuStorage, &Layout, &CpuStorage, &Layout, &CpuStorage, &Layout) -> KernelResult> CustomOp3 for Kernel<F> {
    fn name(&self) -> &'static str {
        self.0
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
        s3: &CpuStorage,
        l3: &Layout,
    ) -> KernelResult {
        (self.1)(s1, l1, s2, l2, s3, l3)
    }
}

/// Runs the kernel `f` on a tensor, as a Candle op called `name`.
fn run(
    x: &Tensor,
    name: &'static str,
    f: impl Fn(&CpuStorage, &Layout) -> KernelResult + Send + Sync + 'static,
) -> Result<Tensor> {
    x.apply_op1(Kernel(name, f))
}

/// Applies a function to each element of a tensor.
pub(crate) fn map1<A: WithDType, R: WithDType, O>(
    call: &Call<'_, O>,
    x: &Tensor,
    f: impl Fn(A) -> R + KernelFn,
) -> Outcome {
    require_cpu(call)?;
    if x.elem_count() == 0 {
        return Ok(Tensor::zeros(x.shape(), R::DTYPE, x.device())?);
    }
    Ok(run(x, "funcify-map1", move |storage, layout| {
        let each = |xs: &[A], ys: &mut [R]| ys.iter_mut().zip(xs).for_each(|(y, x)| *y = f(*x));
        let results = unary_map_vec_par(storage.as_slice::<A>()?, layout, f, each);
        Ok((R::to_cpu_storage_owned(results), layout.shape().clone()))
    })?)
}

/// Applies a function to each element of a float tensor. The function is computed in f64, and its result is rounded
/// once. If a call of `f` is expensive, pass `f` as a function pointer, so that all such functions share one compiled
/// loop.
pub(crate) fn map_in_f64<O>(call: &Call<'_, O>, x: &Tensor, f: impl Fn(f64) -> f64 + KernelFn) -> Outcome {
    match x.dtype() {
        DType::F64 => map1(call, x, f),
        DType::F32 => map1(call, x, move |v: f32| f(f64::from(v)) as f32),
        DType::F16 => map1(call, x, move |v: f16| nearest_f16(f(v.to_f64()))),
        DType::BF16 => map1(call, x, move |v: bf16| nearest_bf16(f(v.to_f64()))),
        _ => Err(outside_domain_error(call, x)),
    }
}

/// Applies a function to each element of an integer tensor. The function is computed in i64, and its result is
/// truncated to the element type.
pub(crate) fn map_integers<O>(call: &Call<'_, O>, x: &Tensor, f: impl Fn(i64) -> i64 + KernelFn) -> Outcome {
    with_integer!(call, x, I => map1(call, x, move |v: I| f(v.into()) as I))
}

/// Applies a function to each pair of elements of two tensors of the same shape.
pub(crate) fn map2<A: WithDType, O>(
    call: &Call<'_, O>,
    x: &Tensor,
    y: &Tensor,
    f: impl Fn(A, A) -> A + KernelFn,
) -> Outcome {
    require_cpu(call)?;
    if x.dims() != y.dims() {
        return Err(format!("operands have different shapes, {:?} and {:?}", x.dims(), y.dims()).into());
    }
    if x.elem_count() == 0 {
        return Ok(x.clone());
    }
    let map2 = move |s1: &CpuStorage, l1: &Layout, s2: &CpuStorage, l2: &Layout| {
        let pairs = |xs: &[A], ys: &[A], results: &mut [A]| {
            results.iter_mut().zip(xs.iter().zip(ys)).for_each(|(result, (x, y))| *result = f(*x, *y));
        };
        let with_scalar = |y: A, xs: &[A], results: &mut [A]| {
            results.iter_mut().zip(xs).for_each(|(result, x)| *result = f(*x, y));
        };
        let results = binary_map_vec_par(l1, l2, s1.as_slice::<A>()?, s2.as_slice::<A>()?, f, pairs, with_scalar);
        Ok((A::to_cpu_storage_owned(results), l1.shape().clone()))
    };
    Ok(x.apply_op2(y, Kernel("funcify-map2", map2))?)
}

/// Applies a function to each pair of elements of integer tensors. The function is computed in i64, and its result is
/// truncated to the element type.
pub(crate) fn map_integer_pairs<O>(
    call: &Call<'_, O>,
    x: &Tensor,
    y: &Tensor,
    f: impl Fn(i64, i64) -> i64 + KernelFn,
) -> Outcome {
    with_integer!(call, x, I => map2(call, x, y, move |a: I, b| f(a.into(), b.into()) as I))
}

/// Reduces each row to one element. A row consists of the elements along `axes`, which are removed from the shape. No
/// axis may have size 0.
pub(crate) fn map_rows<A: WithDType, R: WithDType, O>(
    call: &Call<'_, O>,
    x: &Tensor,
    axes: &[usize],
    f: impl Fn(&[A]) -> R + KernelFn,
) -> Outcome {
    require_cpu(call)?;
    let remaining: Vec<usize> = (0..x.rank()).filter(|axis| !axes.contains(axis)).collect();
    let shape: Vec<usize> = remaining.iter().map(|axis| x.dims()[*axis]).collect();
    let size: usize = axes.iter().map(|axis| x.dims()[*axis]).product();
    let order = [remaining.as_slice(), axes].concat();
    let rows = x.permute(order)?.contiguous()?;
    Ok(run(&rows, "funcify-rows", move |storage, layout| {
        let results = contiguous::<A>(storage, layout)?.chunks_exact(size).map(&f).collect();
        Ok((R::to_cpu_storage_owned(results), Shape::from(shape.clone())))
    })?)
}

/// Applies a function to each row along an axis. The function reads a row and writes the resulting row. No axis may
/// have size 0.
pub(crate) fn map_along<A: WithDType, R: WithDType, O>(
    call: &Call<'_, O>,
    x: &Tensor,
    axis: usize,
    f: impl Fn(&[A], &mut [R]) + KernelFn,
) -> Outcome {
    require_cpu(call)?;
    let (last, size) = (x.rank() - 1, x.dim(axis)?);
    // Swap the axis with the last one, and swap back afterwards.
    let rows = x.transpose(axis, last)?.contiguous()?;
    let along = run(&rows, "funcify-along", move |storage, layout| {
        let rows = contiguous::<A>(storage, layout)?.chunks_exact(size);
        let mut results = vec![R::zero(); layout.shape().elem_count()];
        rows.zip(results.chunks_exact_mut(size)).for_each(|(row, result)| f(row, result));
        Ok((R::to_cpu_storage_owned(results), layout.shape().clone()))
    })?;
    Ok(along.transpose(axis, last)?)
}

/// Folds a contiguous tensor along the axes `first..end`, combining its rows elementwise. No axis may have size 0.
pub(crate) fn fold_columns<E: WithDType, O>(
    call: &Call<'_, O>,
    x: &Tensor,
    [first, end]: [usize; 2],
    f: impl Fn(E, E) -> E + KernelFn,
) -> Outcome {
    require_cpu(call)?;
    let (before, after) = (&x.dims()[..first], &x.dims()[end..]);
    let (rows, row): (usize, usize) = (x.dims()[first..end].iter().product(), after.iter().product());
    let shape = [before, after].concat();
    Ok(run(x, "funcify-columns", move |storage, layout| {
        let mut results: Vec<E> = Vec::with_capacity(shape.iter().product());
        for block in contiguous::<E>(storage, layout)?.chunks_exact(rows * row) {
            let start = results.len();
            let mut rows = block.chunks_exact(row);
            results.extend_from_slice(rows.next().expect("a block has at least one row"));
            let result = &mut results[start..];
            rows.for_each(|row| result.iter_mut().zip(row).for_each(|(a, b)| *a = f(*a, *b)));
        }
        Ok((E::to_cpu_storage_owned(results), Shape::from(shape.clone())))
    })?)
}

/// Returns the elements of a tensor, or an error if its layout is not contiguous.
pub(crate) fn contiguous<'a, A: WithDType>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [A]> {
    let outside = || Error::RequiresContiguous { op: "funcify" };
    let (start, end) = layout.contiguous_offsets().ok_or_else(outside)?;
    storage.as_slice::<A>()?.get(start..end).ok_or_else(outside)
}

/// Returns `true` if an element is NaN, which an integer never is.
pub(crate) fn is_nan<A: PartialOrd>(element: A) -> bool {
    element.partial_cmp(&element).is_none()
}

/// Returns the error for an operand whose element type the op's type rule excludes.
pub(crate) fn outside_domain_error<O>(call: &Call<'_, O>, x: &Tensor) -> BackendError {
    format!("`{}` has no kernel for {:?}", call.place().op, x.dtype()).into()
}

/// Applies a function to each element of a float tensor, or to each pair of elements of two float tensors. f16 and
/// bf16 are computed in f32. Example: `map_floats!(map2(call, x, y), |a, b| a.atan2(b))`.
macro_rules! map_floats {
    ($map:ident($call:expr, $x:expr $(, $y:expr)?), |$($v:ident),+| $formula:expr) => {{
        use ::candle_core::DType;
        use ::half::{bf16, f16};
        match $x.dtype() {
            DType::F32 => $map($call, $x $(, $y)?, |$($v: f32),+| $formula),
            DType::F64 => $map($call, $x $(, $y)?, |$($v: f64),+| $formula),
            DType::F16 => $map($call, $x $(, $y)?, |$($v: f16),+| {
                $(let $v = $v.to_f32();)+
                f16::from_f32($formula)
            }),
            DType::BF16 => $map($call, $x $(, $y)?, |$($v: bf16),+| {
                $(let $v = $v.to_f32();)+
                bf16::from_f32($formula)
            }),
            _ => Err(crate::cpu::outside_domain_error($call, $x)),
        }
    }};
}

/// Evaluates `$kernel` with `$element` as an alias for the element type of the tensor `$x`.
macro_rules! with_element {
    ($call:expr, $x:expr, $element:ident => $kernel:expr) => {
        with_element!(
            $call, $x, $element => $kernel,
            U8 = u8, U32 = u32, I32 = i32, I64 = i64, F16 = ::half::f16, BF16 = ::half::bf16, F32 = f32, F64 = f64
        )
    };
    ($call:expr, $x:expr, $element:ident => $kernel:expr, $($dtype:ident = $type:ty),*) => {
        match $x.dtype() {
            $(::candle_core::DType::$dtype => {
                type $element = $type;
                #[allow(clippy::useless_conversion, reason = "the kernel is written for all types, and one may be its own")]
                {
                    $kernel
                }
            })*
            _ => Err(crate::cpu::outside_domain_error($call, $x)),
        }
    };
}

/// Works like [`with_element!`], but only for float tensors.
macro_rules! with_float {
    ($call:expr, $x:expr, $element:ident => $kernel:expr) => {
        $crate::cpu::with_element!(
            $call, $x, $element => $kernel, F16 = ::half::f16, BF16 = ::half::bf16, F32 = f32, F64 = f64
        )
    };
}

/// Works like [`with_element!`], but only for integer tensors.
macro_rules! with_integer {
    ($call:expr, $x:expr, $element:ident => $kernel:expr) => {
        $crate::cpu::with_element!($call, $x, $element => $kernel, U8 = u8, U32 = u32, I32 = i32, I64 = i64)
    };
}

pub(crate) use {map_floats, with_element, with_float, with_integer};
