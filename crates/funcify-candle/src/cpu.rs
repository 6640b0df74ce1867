//! Kernels on the CPU for what Candle lacks: a function of each element, of each two, or of each row.
//!
//! They are Candle's custom ops, typed by the elements and generic in the function, so that each is one loop. They have no
//! gradients of Candle's: programs run on detached tensors, and what is tracked goes through funcify's own derivatives.

use std::marker::PhantomData;

use candle_core::cpu_backend::{binary_map_vec_par, unary_map_vec_par};
use candle_core::{CpuStorage, CustomOp1, CustomOp2, DType, Error, Layout, Shape, Tensor, WithDType};
use funcify_core::error::BackendError;
use funcify_core::types::{nearest_bf16, nearest_f16};
use funcify_runtime::KernelCall;
use half::{bf16, f16};

use crate::device::Candle;

type Result<T, E = Error> = std::result::Result<T, E>;

/// Refuses devices other than the CPU.
pub(crate) fn require_cpu<O>(call: &KernelCall<'_, Candle, O>) -> Result<(), BackendError> {
    if call.backend.device().is_cpu() {
        return Ok(());
    }
    let what =
        format!("`{}` of {}", call.place().op, call.inputs.first().map_or("nothing".into(), |ty| ty.to_string()));
    Err(call.unsupported(what, "Candle has no such kernel, and this crate's runs on the CPU", "use `Candle::cpu()`"))
}

/// A function of each element.
pub(crate) fn map1<A: WithDType, R: WithDType, O>(
    call: &KernelCall<'_, Candle, O>,
    x: &Tensor,
    f: impl Fn(A) -> R + Copy + Send + Sync + 'static,
) -> Result<Tensor, BackendError> {
    require_cpu(call)?;
    Ok(apply1(x, f)?)
}

fn apply1<A: WithDType, R: WithDType>(x: &Tensor, f: impl Fn(A) -> R + Copy + Send + Sync + 'static) -> Result<Tensor> {
    if x.elem_count() == 0 {
        return Tensor::zeros(x.shape(), R::DTYPE, x.device());
    }
    x.apply_op1(Map1 { f, types: PhantomData::<fn(A) -> R> })
}

/// A function of each element of a float tensor, computed in f64 and rounded once. Given as an address where a call
/// costs little next to what the function does, so that there is one loop for all of them.
pub(crate) fn map_in_f64<O>(
    call: &KernelCall<'_, Candle, O>,
    x: &Tensor,
    f: impl Fn(f64) -> f64 + Copy + Send + Sync + 'static,
) -> Result<Tensor, BackendError> {
    require_cpu(call)?;
    Ok(match x.dtype() {
        DType::F64 => apply1(x, f)?,
        DType::F32 => apply1(x, move |v: f32| f(f64::from(v)) as f32)?,
        DType::F16 => apply1(x, move |v: f16| nearest_f16(f(v.to_f64())))?,
        DType::BF16 => apply1(x, move |v: bf16| nearest_bf16(f(v.to_f64())))?,
        _ => return Err(outside_domain(call, x)),
    })
}

struct Map1<A, R, F> {
    f: F,
    types: PhantomData<fn(A) -> R>,
}

impl<A: WithDType, R: WithDType, F: Fn(A) -> R + Copy + Send + Sync> CustomOp1 for Map1<A, R, F> {
    fn name(&self) -> &'static str {
        "funcify-map1"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let f = self.f;
        let each = |xs: &[A], ys: &mut [R]| ys.iter_mut().zip(xs).for_each(|(y, x)| *y = f(*x));
        let results = unary_map_vec_par(storage.as_slice::<A>()?, layout, f, each);
        Ok((R::to_cpu_storage_owned(results), layout.shape().clone()))
    }
}

/// A function of each two elements of tensors of one shape.
pub(crate) fn map2<A: WithDType, O>(
    call: &KernelCall<'_, Candle, O>,
    x: &Tensor,
    y: &Tensor,
    f: impl Fn(A, A) -> A + Copy + Send + Sync + 'static,
) -> Result<Tensor, BackendError> {
    require_cpu(call)?;
    if x.dims() != y.dims() {
        return Err(format!("operands of the shapes {:?} and {:?}", x.dims(), y.dims()).into());
    }
    if x.elem_count() == 0 {
        return Ok(x.clone());
    }
    Ok(x.apply_op2(y, Map2 { f, types: PhantomData::<fn(A) -> A> })?)
}

struct Map2<A, F> {
    f: F,
    types: PhantomData<fn(A) -> A>,
}

impl<A: WithDType, F: Fn(A, A) -> A + Copy + Send + Sync> CustomOp2 for Map2<A, F> {
    fn name(&self) -> &'static str {
        "funcify-map2"
    }

    fn cpu_fwd(&self, s1: &CpuStorage, l1: &Layout, s2: &CpuStorage, l2: &Layout) -> Result<(CpuStorage, Shape)> {
        let f = self.f;
        let pairs = |xs: &[A], ys: &[A], results: &mut [A]| {
            results.iter_mut().zip(xs.iter().zip(ys)).for_each(|(result, (x, y))| *result = f(*x, *y));
        };
        let with_scalar = |y: A, xs: &[A], results: &mut [A]| {
            results.iter_mut().zip(xs).for_each(|(result, x)| *result = f(*x, y));
        };
        let results = binary_map_vec_par(l1, l2, s1.as_slice::<A>()?, s2.as_slice::<A>()?, f, pairs, with_scalar);
        Ok((A::to_cpu_storage_owned(results), l1.shape().clone()))
    }
}

/// A function of each row: the elements along `axes`, which disappear from the shape. No size is zero.
pub(crate) fn map_rows<A: WithDType, R: WithDType, O>(
    call: &KernelCall<'_, Candle, O>,
    x: &Tensor,
    axes: &[usize],
    f: impl Fn(&[A]) -> R + Send + Sync + 'static,
) -> Result<Tensor, BackendError> {
    require_cpu(call)?;
    let remaining: Vec<usize> = (0..x.rank()).filter(|axis| !axes.contains(axis)).collect();
    let shape: Vec<usize> = remaining.iter().map(|axis| x.dims()[*axis]).collect();
    let size = axes.iter().map(|axis| x.dims()[*axis]).product();
    let order = [remaining.as_slice(), axes].concat();
    let rows = x.permute(order)?.contiguous()?;
    Ok(rows.apply_op1(Rows { f, size, shape, types: PhantomData::<fn(A) -> R> })?)
}

struct Rows<A, R, F> {
    f: F,
    size: usize,
    shape: Vec<usize>,
    types: PhantomData<fn(A) -> R>,
}

impl<A: WithDType, R: WithDType, F: Fn(&[A]) -> R> CustomOp1 for Rows<A, R, F> {
    fn name(&self) -> &'static str {
        "funcify-rows"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let rows = contiguous::<A>(storage, layout)?.chunks_exact(self.size.max(1));
        let results = rows.map(&self.f).collect();
        Ok((R::to_cpu_storage_owned(results), Shape::from(self.shape.clone())))
    }
}

/// A function that fills a row from each row along an axis. No size is zero.
pub(crate) fn map_along<A: WithDType, R: WithDType, O>(
    call: &KernelCall<'_, Candle, O>,
    x: &Tensor,
    axis: usize,
    f: impl Fn(&[A], &mut [R]) + Send + Sync + 'static,
) -> Result<Tensor, BackendError> {
    require_cpu(call)?;
    let last = x.rank() - 1;
    // The axis is exchanged with the last one, and back.
    let rows = x.transpose(axis, last)?.contiguous()?;
    let along = Along { f, size: x.dim(axis)?, types: PhantomData::<fn(A) -> R> };
    Ok(rows.apply_op1(along)?.transpose(axis, last)?)
}

struct Along<A, R, F> {
    f: F,
    size: usize,
    types: PhantomData<fn(A) -> R>,
}

impl<A: WithDType, R: WithDType, F: Fn(&[A], &mut [R])> CustomOp1 for Along<A, R, F> {
    fn name(&self) -> &'static str {
        "funcify-along"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let rows = contiguous::<A>(storage, layout)?.chunks_exact(self.size.max(1));
        let mut results = vec![R::zero(); layout.shape().elem_count()];
        rows.zip(results.chunks_exact_mut(self.size.max(1))).for_each(|(row, result)| (self.f)(row, result));
        Ok((R::to_cpu_storage_owned(results), layout.shape().clone()))
    }
}

/// The rows along axes `first..end` combined element by element, for a contiguous tensor. No size is zero.
pub(crate) fn fold_columns<E: WithDType, O>(
    call: &KernelCall<'_, Candle, O>,
    x: &Tensor,
    [first, end]: [usize; 2],
    f: impl Fn(E, E) -> E + Copy + Send + Sync + 'static,
) -> Result<Tensor, BackendError> {
    require_cpu(call)?;
    let (before, after) = (&x.dims()[..first], &x.dims()[end..]);
    let columns = Columns {
        f,
        rows: x.dims()[first..end].iter().product(),
        row: after.iter().product(),
        shape: [before, after].concat(),
        types: PhantomData::<fn(E) -> E>,
    };
    Ok(x.apply_op1(columns)?)
}

struct Columns<E, F> {
    f: F,
    rows: usize,
    row: usize,
    shape: Vec<usize>,
    types: PhantomData<fn(E) -> E>,
}

impl<E: WithDType, F: Fn(E, E) -> E + Copy> CustomOp1 for Columns<E, F> {
    fn name(&self) -> &'static str {
        "funcify-columns"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let f = self.f;
        let mut results: Vec<E> = Vec::with_capacity(self.shape.iter().product());
        for block in contiguous::<E>(storage, layout)?.chunks_exact((self.rows * self.row).max(1)) {
            let start = results.len();
            let mut rows = block.chunks_exact(self.row.max(1));
            results.extend_from_slice(rows.next().expect("a block has a row"));
            let result = &mut results[start..];
            rows.for_each(|row| result.iter_mut().zip(row).for_each(|(a, b)| *a = f(*a, *b)));
        }
        Ok((E::to_cpu_storage_owned(results), Shape::from(self.shape.clone())))
    }
}

/// The elements of a contiguous tensor.
pub(crate) fn contiguous<'a, A: WithDType>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [A]> {
    let outside = || Error::RequiresContiguous { op: "funcify" };
    let (start, end) = layout.contiguous_offsets().ok_or_else(outside)?;
    storage.as_slice::<A>()?.get(start..end).ok_or_else(outside)
}

/// Whether an element is NaN; no integer is.
pub(crate) fn is_nan<A: PartialOrd>(element: A) -> bool {
    element.partial_cmp(&element).is_none()
}

/// The error of a kernel whose operand has an element type that the op's type rule excludes.
pub(crate) fn outside_domain<O>(call: &KernelCall<'_, Candle, O>, x: &Tensor) -> BackendError {
    format!("`{}` has no kernel for {:?}", call.place().op, x.dtype()).into()
}

/// A function of each element of a float tensor, in f32 for the halves.
macro_rules! map_floats {
    ($call:expr, $x:expr, |$v:ident| $formula:expr) => {{
        use ::candle_core::DType;
        use ::half::{bf16, f16};
        let (call, x) = ($call, $x);
        match x.dtype() {
            DType::F32 => crate::cpu::map1(call, x, |$v: f32| $formula),
            DType::F64 => crate::cpu::map1(call, x, |$v: f64| $formula),
            DType::F16 => crate::cpu::map1(call, x, |v: f16| {
                let $v = v.to_f32();
                f16::from_f32($formula)
            }),
            DType::BF16 => crate::cpu::map1(call, x, |v: bf16| {
                let $v = v.to_f32();
                bf16::from_f32($formula)
            }),
            _ => Err(crate::cpu::outside_domain(call, x)),
        }
    }};
}

/// A function of each element of an integer tensor, computed in i64 and wrapped.
macro_rules! map_integers {
    ($call:expr, $x:expr, |$v:ident| $formula:expr) => {{
        use ::candle_core::DType;
        let (call, x) = ($call, $x);
        match x.dtype() {
            DType::U8 => map_integers!(@map call, x, u8, u8, |$v| $formula),
            DType::U32 => map_integers!(@map call, x, u32, u32, |$v| $formula),
            DType::I32 => map_integers!(@map call, x, i32, i32, |$v| $formula),
            DType::I64 => map_integers!(@map call, x, i64, i64, |$v| $formula),
            _ => Err(crate::cpu::outside_domain(call, x)),
        }
    }};
    (@map $call:expr, $x:expr, $from:ty, $to:ty, |$v:ident| $formula:expr) => {
        crate::cpu::map1($call, $x, move |v: $from| {
            #[allow(clippy::unnecessary_cast, reason = "one of the types is i64")]
            let $v = v as i64;
            #[allow(clippy::unnecessary_cast, reason = "one of the types is i64")]
            let result = $formula as $to;
            result
        })
    };
}

/// A function of each two elements of float tensors, in f32 for the halves.
macro_rules! map_float_pairs {
    ($call:expr, $x:expr, $y:expr, |$a:ident, $b:ident| $formula:expr) => {{
        use ::candle_core::DType;
        use ::half::{bf16, f16};
        let (call, x, y) = ($call, $x, $y);
        match x.dtype() {
            DType::F32 => crate::cpu::map2(call, x, y, |$a: f32, $b: f32| $formula),
            DType::F64 => crate::cpu::map2(call, x, y, |$a: f64, $b: f64| $formula),
            DType::F16 => crate::cpu::map2(call, x, y, |a: f16, b: f16| {
                let ($a, $b) = (a.to_f32(), b.to_f32());
                f16::from_f32($formula)
            }),
            DType::BF16 => crate::cpu::map2(call, x, y, |a: bf16, b: bf16| {
                let ($a, $b) = (a.to_f32(), b.to_f32());
                bf16::from_f32($formula)
            }),
            _ => Err(crate::cpu::outside_domain(call, x)),
        }
    }};
}

/// A function of each two elements of integer tensors, computed in i64 and wrapped.
macro_rules! map_integer_pairs {
    ($call:expr, $x:expr, $y:expr, |$a:ident, $b:ident| $formula:expr) => {{
        use ::candle_core::DType;
        let (call, x, y) = ($call, $x, $y);
        match x.dtype() {
            DType::U8 => map_integer_pairs!(@map call, x, y, u8, |$a, $b| $formula),
            DType::U32 => map_integer_pairs!(@map call, x, y, u32, |$a, $b| $formula),
            DType::I32 => map_integer_pairs!(@map call, x, y, i32, |$a, $b| $formula),
            DType::I64 => map_integer_pairs!(@map call, x, y, i64, |$a, $b| $formula),
            _ => Err(crate::cpu::outside_domain(call, x)),
        }
    }};
    (@map $call:expr, $x:expr, $y:expr, $element:ty, |$a:ident, $b:ident| $formula:expr) => {
        crate::cpu::map2($call, $x, $y, move |a: $element, b: $element| {
            #[allow(clippy::unnecessary_cast, reason = "one of the types is i64")]
            let ($a, $b) = (a as i64, b as i64);
            #[allow(clippy::unnecessary_cast, reason = "one of the types is i64")]
            let result = $formula as $element;
            result
        })
    };
}

/// Runs an expression with `$element` as the tensor's element type.
macro_rules! with_element {
    ($call:expr, $x:expr, $element:ident => $kernel:expr) => {{
        use ::candle_core::DType;
        match $x.dtype() {
            DType::U8 => with_element!(@run u8, $element => $kernel),
            DType::U32 => with_element!(@run u32, $element => $kernel),
            DType::I32 => with_element!(@run i32, $element => $kernel),
            DType::I64 => with_element!(@run i64, $element => $kernel),
            DType::F16 => with_element!(@run ::half::f16, $element => $kernel),
            DType::BF16 => with_element!(@run ::half::bf16, $element => $kernel),
            DType::F32 => with_element!(@run f32, $element => $kernel),
            DType::F64 => with_element!(@run f64, $element => $kernel),
            _ => Err(crate::cpu::outside_domain($call, $x)),
        }
    }};
    (@run $type:ty, $element:ident => $kernel:expr) => {{
        type $element = $type;
        $kernel
    }};
}

pub(crate) use {map_float_pairs, map_floats, map_integer_pairs, map_integers, with_element};
