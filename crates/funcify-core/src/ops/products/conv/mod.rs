//! `conv`: convolutions over one or two spatial axes. As usual in machine learning, these are cross-correlations.
//!
//! Layouts follow PyTorch: the operand is `[N, C, spatial..]`, the kernel is `[O, C/groups, window..]`, and the result
//! is `[N, O, spatial..]`. The attributes follow StableHLO, and have one entry per spatial axis.
//!
//! Along each spatial axis, the operand is first dilated: `input_dilation - 1` zeros are inserted between neighbouring
//! elements. Then `low` zeros are added before the first element and `high` zeros after the last one; negative numbers
//! remove elements. The window, whose elements are `dilation` apart, is applied at every `stride`-th position at which
//! it fits. The added zeros are multiplied like any other element, so a zero times an infinite element of the kernel
//! yields NaN. The channels are split into `groups` runs of equal length. Run `i` of the result channels is computed
//! from run `i` of the operand's channels.
//!
//! Sizes may be symbolic. A spatial axis of symbolic size requires a stride and an input dilation of 1. If the dilated
//! window is longer than the padded axis by one element, the result is empty; if it is longer by more, the op is
//! rejected. The reference evaluator sums in f64; the order of summation depends on the backend.

mod gradient;
mod sizes;

pub use sizes::Padding;

use crate::derivative::add;
use crate::error::Site;
use crate::graph::emit_value;
use crate::host::for_each_index;
use crate::ops::rules::*;

/// The options of [`Value::conv`] for `D` spatial axes.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::ops::ConvOptions;
/// let causal = ConvOptions { padding: [(3, 0)], ..ConvOptions::default() };
/// let halves = ConvOptions { strides: [2, 2], padding: [(1, 1); 2], ..ConvOptions::default() };
/// # let _ = (causal, halves);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ConvOptions<const D: usize> {
    /// The stride of the window along each axis.
    pub strides: [usize; D],
    /// The numbers of zeros before and after the elements of each axis. A negative number removes elements.
    pub padding: [(i64, i64); D],
    /// The distance between neighbouring elements of the window.
    pub dilation: [usize; D],
    /// The distance between neighbouring elements of the operand after zeros are inserted between them.
    pub input_dilation: [usize; D],
    /// The number of groups of channels that are convolved separately. In a depthwise convolution, each channel is a
    /// group.
    pub groups: usize,
}

impl<const D: usize> Default for ConvOptions<D> {
    fn default() -> Self {
        let ones = [1; D];
        ConvOptions { strides: ones, padding: [(0, 0); D], dilation: ones, input_dilation: ones, groups: 1 }
    }
}

/// A convolution. Each list has one entry per spatial axis.
#[derive(Clone, Debug)]
pub struct Conv {
    /// The stride of the window.
    pub strides: Vec<usize>,
    /// The number of zeros before the elements. A negative number removes elements.
    pub low: Vec<Dim>,
    /// The number of zeros after the elements. A negative number removes elements.
    pub high: Vec<Dim>,
    /// The distance between neighbouring elements of the window.
    pub dilation: Vec<usize>,
    /// The distance between neighbouring elements of the operand after zeros are inserted between them.
    pub input_dilation: Vec<usize>,
    /// The number of groups of channels that are convolved separately.
    pub groups: Dim,
}

op_text!("conv" => Conv { strides, low, high, dilation, input_dilation, groups });

impl<const D: usize> From<ConvOptions<D>> for Conv {
    fn from(options: ConvOptions<D>) -> Self {
        Conv {
            strides: options.strides.to_vec(),
            low: options.padding.iter().map(|(low, _)| Dim::from(*low)).collect(),
            high: options.padding.iter().map(|(_, high)| Dim::from(*high)).collect(),
            dilation: options.dilation.to_vec(),
            input_dilation: options.input_dilation.to_vec(),
            groups: Dim::from(options.groups),
        }
    }
}

impl Conv {
    fn check_attributes(&self, at: &Place, x: &TensorType) -> Result<()> {
        let spatial = self.strides.len();
        if !(1..=2).contains(&spatial) || x.rank() != spatial + 2 {
            let expected = "[N, C, L] with one stride, or [N, C, H, W] with two";
            let found = format!("{x} with the strides {:?}", self.strides);
            return Err(at.mismatch("the operand", expected, found, "reshape, or give each spatial axis its options"));
        }
        let lists = [
            ("low", self.low.len()),
            ("high", self.high.len()),
            ("dilation", self.dilation.len()),
            ("input_dilation", self.input_dilation.len()),
        ];
        if let Some((name, found)) = lists.iter().find(|(_, entries)| *entries != spatial) {
            let expected = format!("{spatial} entries, one per spatial axis");
            return Err(at.mismatch(format!("attribute `{name}`"), expected, found, "give one per spatial axis"));
        }
        let steps =
            [("strides", &self.strides), ("dilation", &self.dilation), ("input_dilation", &self.input_dilation)];
        if let Some((name, found)) = steps.iter().find(|(_, steps)| steps.contains(&0)) {
            let found = format!("{found:?}");
            return Err(at.mismatch(format!("attribute `{name}`"), "1 or more", found, "1 means every element"));
        }
        if self.groups.is_at_least(&Dim::from(1)) == Some(false) {
            return Err(at.mismatch("attribute `groups`", "1 or more", &self.groups, "1 means all channels together"));
        }
        Ok(())
    }

    /// Adds the convolution of two values to the open graph, for a batching rule or a gradient.
    fn of(&self, x: Value, kernel: Value) -> Value {
        emit_value(self.clone(), &[x, kernel], Site::Unknown)
    }

    pub(in crate::ops) fn lanes_along(&self, axis: usize) -> Option<Lanes> {
        match axis {
            0 => Some(smallvec![Some(0), None]),
            1 => Some(smallvec![None, Some(0)]),
            _ => None,
        }
    }
}

impl OpRules for Conv {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [x, kernel] = arity(at, inputs)?;
        if !x.dtype.is_float() {
            return Err(at.mismatch("the operand", "a float type", x, "cast the operand to a float type"));
        }
        self.check_attributes(at, &x)?;
        if kernel.dtype != x.dtype || kernel.rank() != x.rank() {
            let expected = format!("a kernel of dtype {} and rank {}, like {x}", x.dtype, x.rank());
            return Err(at.mismatch("the kernel", expected, kernel, "cast or reshape the kernel [O, C/groups, ..]"));
        }
        let (channels, results) = (&kernel.shape[1], &kernel.shape[0]);
        if channels.clone() * &self.groups != x.shape[1] {
            let expected = format!("as many channels as {x} has, divided by {} groups", self.groups);
            return Err(at.mismatch("axis 1 of the kernel", expected, kernel, "the kernel is [O, C/groups, window..]"));
        }
        if results.divided_by(&self.groups).is_none() {
            let expected = format!("a multiple of {} groups", self.groups);
            let fix = "give each group the same number of results";
            return Err(at.mismatch("axis 0 of the kernel", expected, kernel, fix));
        }
        let mut dims = vec![x.shape[0].clone(), results.clone()];
        for axis in 0..self.strides.len() {
            dims.push(self.output_size(at, axis, &x.shape[axis + 2], &kernel.shape[axis + 2])?);
        }
        Ok(vec![x.with_shape(dims)])
    }

    fn eval(
        &self,
        context: &mut EvalContext<'_>,
        inputs: &[HostTensor],
        outputs: &[TensorType],
    ) -> Result<Vec<HostTensor>> {
        let [x, kernel] = [&inputs[0], &inputs[1]];
        let shape = self.result_shape(&context.at, &outputs[0].shape, context.sizes)?;
        let low = self.low.iter().map(|low| context.dim(low)).collect::<Result<Vec<i64>>>()?;
        let results = (kernel.shape()[0] / context.size(&self.groups)?.max(1)).max(1);
        let result = HostTensor::from_fn(x.dtype(), &shape, |index| {
            let group = index[1] / results;
            let mut sum = 0.0;
            for_each_index(&kernel.shape()[1..], |window| {
                let channel = group * kernel.shape()[1] + window[0];
                let mut source = vec![index[0], channel];
                for (axis, low) in low.iter().enumerate() {
                    let position = index[axis + 2] * self.strides[axis] + window[axis + 1] * self.dilation[axis];
                    source.extend(self.source(axis, (position as i64).saturating_sub(*low), x.shape()[axis + 2]));
                }
                let weight = kernel.at(&[&index[1..2], window].concat()).as_f64();
                let element = if source.len() == index.len() { x.at(&source).as_f64() } else { 0.0 };
                sum += weight * element;
            });
            Scalar::Float(sum)
        });
        Ok(vec![result])
    }

    fn batch(&self, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
        let [x, kernel] = [operands[0], operands[1]];
        let merged = |value: Value, axis: usize| {
            let mut dims = value.checked()?.shape().dims().to_vec();
            let inner = dims.remove(axis + 1);
            dims[axis] = dims[axis].clone() * inner;
            Ok::<_, Failed>(value.reshape(dims))
        };
        // Read the size of each operand's first axis, not counting the axis of the lanes. Dividing the merged size by
        // the number of lanes would fail if that number is 0.
        let of_lane =
            |operand: Batched| Ok::<_, Failed>(operand.value.checked()?.shape()[usize::from(operand.mapped)].clone());
        let (batch, results) = (of_lane(x)?, of_lane(kernel)?);
        let split = |value: Value, axis: usize| {
            let mut dims = value.checked()?.shape().dims().to_vec();
            dims[axis] = [&batch, &results][axis].clone();
            dims.insert(axis, size.clone());
            Ok::<_, Failed>(value.reshape(dims))
        };
        let result = match (x.mapped, kernel.mapped) {
            // Merge the lanes into the batch axis.
            (_, false) => split(self.of(merged(x.value, 0)?, kernel.value), 0)?,
            // Merge the lanes into the result channels.
            (false, true) if self.groups.constant() == Some(1) => {
                split(self.of(x.value, merged(kernel.value, 0)?), 1)?.move_axis(1, 0)
            }
            // Merge the lanes into the groups.
            (_, true) => {
                let op = Conv { groups: self.groups.clone() * size, ..self.clone() };
                let x = merged(x.materialized(size).move_axis(0, 1), 1)?;
                split(op.of(x, merged(kernel.value, 0)?), 1)?.move_axis(1, 0)
            }
        };
        Ok(vec![Batched::mapped(result)])
    }

    fn jvp(&self, operands: &[Dual]) -> Result<Vec<Dual>, Failed> {
        jvp_with(self.clone(), operands, |values, _| {
            let of_x = operands[0].tangent.map(|tangent| self.of(tangent, values[1]));
            let of_kernel = operands[1].tangent.map(|tangent| self.of(values[0], tangent));
            vec![add(of_x, of_kernel)]
        })
    }

    fn vjp(&self, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
        let Some(cotangent) = cotangents[0] else { return Ok(context.no_cotangents()) };
        let [x, kernel] = [context.operands[0], context.operands[1]];
        let of_x = || Some(self.input_transpose(&x.shape(), kernel, cotangent));
        let of_kernel = || Some(self.kernel_transpose(&kernel.shape(), x, cotangent));
        Ok(context.cotangents([&of_x, &of_kernel]))
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    fn conv1d(strides: usize, [low, high]: [i64; 2], dilation: usize, input_dilation: usize, groups: usize) -> String {
        format!(
            "conv {{strides=[{strides}], low=[{low}], high=[{high}], dilation=[{dilation}], \
             input_dilation=[{input_dilation}], groups={groups}}}"
        )
    }

    fn check(text: &str, x: &[f32], kernel: &[f32], expected: &[f32]) {
        let tensor = |elements: &[f32]| HostTensor::from_vec(elements.to_vec(), [1, 1, elements.len()]).unwrap();
        check_op(text, &[tensor(x), tensor(kernel)], tensor(expected));
    }

    #[test]
    fn one_axis() {
        let x = [1., 2., 3., 4., 5.];
        check(&conv1d(1, [0, 0], 1, 1, 1), &x, &[1., 10.], &[21., 32., 43., 54.]);
        check(&conv1d(1, [1, 0], 1, 1, 1), &x, &[1., 10.], &[10., 21., 32., 43., 54.]);
        check(&conv1d(2, [0, 1], 1, 1, 1), &x, &[1., 10.], &[21., 43., 5.]);
        check(&conv1d(1, [0, 0], 3, 1, 1), &x, &[1., 10.], &[41., 52.]);
        check(&conv1d(1, [1, 1], 1, 2, 1), &x[..2], &[1., 10., 100.], &[10., 201., 20.]);
        check(&conv1d(1, [-1, -2], 1, 1, 1), &x, &[1., 10.], &[32.]);
        check(&conv1d(1, [-9, 9], 1, 1, 1), &x, &[1., 10.], &[0.; 4]);
        check(&conv1d(3, [0, 0], 1, 1, 1), &x, &[1.; 6], &[]);
    }

    #[test]
    fn two_axes_and_groups() {
        let x = HostTensor::from_vec((0..24).map(f64::from).collect(), [1, 2, 3, 4]).unwrap();
        let kernel = HostTensor::from_vec(vec![1f64, 2., 3., 4., 10., 20., 30., 40.], [2, 1, 2, 2]).unwrap();
        let text = "conv {strides=[1,2], low=[0,0], high=[0,0], dilation=[1,1], input_dilation=[1,1], groups=2}";
        // Element 0 is 0 + 2*1 + 3*4 + 4*5 = 34. Moving the window by two columns adds 20 to the result, and moving it
        // to the next row adds 40.
        let expected = vec![34f64, 54., 74., 94., 1540., 1740., 1940., 2140.];
        check_op(text, &[x, kernel], HostTensor::from_vec(expected, [1, 2, 2, 2]).unwrap());
    }

    #[test]
    fn each_lane_on_its_own() {
        let count = |shape: &[usize], by: f64| {
            let elements = (0..shape.iter().product()).map(|i: usize| (i as f64 * by) % 7.0 - 3.0).collect();
            HostTensor::from_vec(elements, shape).unwrap()
        };
        for groups in [1, 2] {
            let text = conv1d(2, [1, 2], 2, 1, groups);
            let (x, kernel) = (count(&[2, 4, 5], 1.0), count(&[4, 4 / groups, 2], 3.0));
            let (xs, kernels) = (count(&[3, 2, 4, 5], 2.0), count(&[3, 4, 4 / groups, 2], 5.0));
            check_batch(&text, &[(xs.clone(), true), (kernel, false)]);
            check_batch(&text, &[(x, false), (kernels.clone(), true)]);
            check_batch(&text, &[(xs, true), (kernels, true)]);
        }
    }

    #[test]
    fn operands_fit() {
        let plain = conv1d(1, [0, 0], 1, 1, 1);
        rejects(&plain, &["i32[1,1,5]", "i32[1,1,2]"], "a float type");
        rejects(&plain, &["f32[1,5]", "f32[1,1,2]"], "[N, C, L] with one stride");
        rejects(&plain, &["f32[1,1,5]", "f64[1,1,2]"], "dtype f32 and rank 3");
        rejects(&plain, &["f32[1,3,5]", "f32[1,1,2]"], "as many channels");
        rejects(&plain, &["f32[1,1,5]", "f32[1,1,7]"], "a window");
        rejects(&conv1d(1, [0, 0], 1, 1, 2), &["f32[1,2,5]", "f32[3,1,2]"], "a multiple of 2 groups");
        rejects(&conv1d(0, [0, 0], 1, 1, 1), &["f32[1,1,5]", "f32[1,1,2]"], "`strides`");
        rejects(&conv1d(2, [0, 0], 1, 1, 1), &["f32[N,1,L]", "f32[1,1,2]"], "a size without symbols");
        rejects(&conv1d(1, [0, 0], 1, 2, 1), &["f32[N,1,L]", "f32[1,1,2]"], "a size without symbols");
        let uneven = "conv {strides=[1], low=[0,0], high=[0], dilation=[1], input_dilation=[1], groups=1}";
        rejects(uneven, &["f32[1,1,5]", "f32[1,1,2]"], "`low`");
    }
}
