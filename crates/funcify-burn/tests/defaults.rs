//! Tests the default dtypes of a device. They can be set only once per process, so this test runs in a separate
//! process.

#![cfg(all(feature = "flex", feature = "ndarray"))]

use burn::tensor::{DType, Device, FloatDType, IntDType, Tensor};
use funcify_burn::scan;

/// Checks that a tensor created in a body without a dtype has the default dtype of the loop's device, even if a loop on
/// another device was recorded earlier.
#[test]
fn a_body_makes_tensors_of_the_default_dtype() {
    #[allow(deprecated, reason = "Burn deprecates its ndarray device; it is supported here")]
    let mut wide = Device::ndarray();
    wide.configure((FloatDType::F64, IntDType::I64)).unwrap();
    for (device, dtype) in [(Device::flex(), DType::F32), (wide.clone(), DType::F64), (Device::flex(), DType::F32)] {
        let (start, xs) = (Tensor::<1>::zeros([1], &device), Tensor::<2>::ones([3, 1], &device));
        let (_, ys) = scan((), start, xs, |(), h, x| (h + x.clone(), Tensor::<1>::ones([1], &x.device()))).unwrap();
        assert_eq!(ys.dtype(), dtype);
    }
}
