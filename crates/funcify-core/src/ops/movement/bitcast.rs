//! `bitcast`: reinterprets the bits of each element as another dtype of the same width.
//!
//! Bitcasts are possible among `f32`, `i32` and `u32`, and between `f64` and `i64`. All bits are kept, including the
//! payload of NaN. As in JAX, a bitcast between floats and integers has no derivative.

use crate::ops::rules::*;

/// The reinterpretation of each element's bits as a value of type `dtype`.
#[derive(Clone, Copy, Debug)]
pub struct Bitcast {
    /// The dtype of the result.
    pub dtype: DType,
}

op_text!("bitcast" => Bitcast { dtype });

impl Bitcast {
    /// Returns `true` if the dtype stays the same. In this case, derivatives pass through the op.
    fn is_identity(self, operand: Value) -> bool {
        operand.dtype() == self.dtype
    }
}

impl OpRules for Bitcast {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [x] = arity(at, inputs)?;
        if !bitcast_types(self.dtype).contains(&x.dtype) {
            let expected = format!("{}, to be read as {}", listed(bitcast_types(self.dtype)), self.dtype);
            return Err(at.mismatch("the operand", expected, &x, fix(x.dtype, self.dtype)));
        }
        Ok(vec![x.with_dtype(self.dtype)])
    }

    fn eval(&self, _: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let storage = Storage::from_le_bytes(self.dtype, &inputs[0].storage().to_le_bytes());
        Ok(HostTensor::new(inputs[0].shape(), storage).into_iter().collect())
    }

    elementwise_batch!();

    fn jvp(&self, operands: &[Dual]) -> Result<Vec<Dual>, Failed> {
        let passes = self.is_identity(operands[0].primal);
        jvp_with(*self, operands, |_, _| vec![operands[0].tangent.filter(|_| passes)])
    }

    fn vjp(&self, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
        Ok(vec![cotangents[0].filter(|_| self.is_identity(context.operands[0]))])
    }
}

/// Returns the dtypes to which `dtype` can be bitcast, including itself.
fn bitcast_types(dtype: DType) -> &'static [DType] {
    match dtype {
        DType::F32 | DType::I32 | DType::U32 => &[DType::F32, DType::I32, DType::U32],
        DType::F64 | DType::I64 => &[DType::F64, DType::I64],
        DType::F16 => &[DType::F16],
        DType::BF16 => &[DType::BF16],
        DType::U8 => &[DType::U8],
        DType::Bool => &[DType::Bool],
    }
}

fn listed(dtypes: &[DType]) -> String {
    dtypes.iter().map(|dtype| dtype.name()).collect::<Vec<_>>().join(" or ")
}

fn fix(from: DType, to: DType) -> String {
    let is_half = |dtype| matches!(dtype, DType::F16 | DType::BF16);
    match (from, to) {
        _ if is_half(from) => "no integer type has 16 bits: cast to f32, then bitcast to i32 or u32".into(),
        _ if is_half(to) => format!("no integer type has 16 bits: bitcast to f32, then cast to {to}"),
        _ => match bitcast_types(from) {
            [only] => format!("no other type has the bits of {only}: `cast` converts the numbers"),
            same => {
                format!("bitcast {from} to a type of the same width, {}; `cast` converts the numbers", listed(same))
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{check_batch, check_op, rejects};
    use crate::{Disconnected, GradOptions, Graph, evaluate};

    /// The bits of a negative NaN with a payload, zeros of both signs, a subnormal number, infinity, and a normal
    /// number.
    const BITS: [u32; 6] = [0xffc1_2345, 0, 0x8000_0000, 1, 0x7f80_0000, 0x3fc0_0000];

    #[test]
    fn every_bit_is_kept() {
        let floats = HostTensor::from(BITS.map(f32::from_bits));
        let words = HostTensor::from(BITS);
        let bits = |tensor: &HostTensor| tensor.storage().to_le_bytes();
        check_op("bitcast {dtype=u32}", std::slice::from_ref(&floats), words.clone());
        check_op("bitcast {dtype=i32}", std::slice::from_ref(&floats), BITS.map(|word| word as i32));
        let back = crate::ops::testing::eval_op("bitcast {dtype=f32}", std::slice::from_ref(&words));
        assert_eq!((back.dtype(), bits(&back)), (DType::F32, bits(&floats)));
        let wide = [0xfff8_0000_0000_0123u64 as i64, i64::MIN, 1, 0x3ff8_0000_0000_0000];
        let doubles = crate::ops::testing::eval_op("bitcast {dtype=f64}", &[HostTensor::from(wide)]);
        assert_eq!(doubles.to_f64_vec()[3], 1.5);
        check_op("bitcast {dtype=i64}", &[doubles], wide);
    }

    #[test]
    fn other_widths_are_refused_with_what_fits() {
        rejects("bitcast {dtype=i64}", &["f32[2]"], "f64 or i64, to be read as i64");
        rejects("bitcast {dtype=i64}", &["f32[2]"], "bitcast f32 to a type of the same width, f32 or i32 or u32");
        rejects("bitcast {dtype=i32}", &["f64[2]"], "of the same width, f64 or i64");
        rejects("bitcast {dtype=i32}", &["f16[2]"], "no integer type has 16 bits: cast to f32");
        rejects("bitcast {dtype=bf16}", &["i32[2]"], "bitcast to f32, then cast to bf16");
        rejects("bitcast {dtype=bf16}", &["f16[2]"], "no integer type has 16 bits");
        rejects("bitcast {dtype=u8}", &["bool[2]"], "no other type has the bits of bool");
        rejects("bitcast {dtype=i32}", &["u8[4]"], "`cast` converts the numbers");
    }

    #[test]
    fn lanes() {
        check_batch("bitcast {dtype=i32}", &[(HostTensor::from([[1f32, 2.0], [-0.0, 3.0]]), true)]);
    }

    #[test]
    fn integers_end_a_path_and_the_same_type_does_not() {
        let through = |dtype: DType| {
            Graph::build("f", |g| {
                let x = g.input("x", "f32[]");
                let bits = crate::apply(Bitcast { dtype }, &[x])[0];
                x * 3.0 + crate::apply(Bitcast { dtype: DType::F32 }, &[bits])[0]
            })
            .unwrap()
        };
        for (dtype, slope) in [(DType::I32, 3f32), (DType::U32, 3.0), (DType::F32, 4.0)] {
            let graph = through(dtype);
            let pulled = graph.grad("x", GradOptions::new()).unwrap();
            assert_eq!(evaluate(&pulled, &[2f32.into()]).unwrap(), [slope.into()], "{dtype}");
            let pushed = graph.jvp("x").unwrap();
            assert_eq!(evaluate(&pushed, &[2f32.into(), 1f32.into()]).unwrap()[1], slope.into(), "{dtype}");
        }
        let bits = Graph::build("f", |g| g.input("x", "f32[]").bitcast(DType::I32).bitcast(DType::F32)).unwrap();
        let error = bits.grad("x", GradOptions::new()).unwrap_err();
        assert!(error.to_string().contains("they end at `bitcast`, which returns i32[]"), "{error}");
        let zeros = bits.grad("x", GradOptions::new().disconnected(Disconnected::Zeros)).unwrap();
        assert_eq!(evaluate(&zeros, &[2f32.into()]).unwrap(), [0f32.into()]);
    }
}
