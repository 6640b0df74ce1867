//! Provides the helpers that the tests of this crate share: lists of devices, pseudorandom values and an approximate
//! comparison.

#![allow(dead_code, reason = "each test program uses only some helpers")]

pub(crate) mod cells;

use burn::tensor::{Device, TensorData};
use funcify::dispatch::Backend;
use funcify_burn::Burn;

/// Returns every device that is compiled in and available.
pub(crate) fn devices() -> Vec<Device> {
    let devices = vec![
        #[cfg(feature = "flex")]
        Device::flex(),
        #[cfg(feature = "ndarray")]
        #[allow(deprecated, reason = "Burn deprecates its ndarray device; it is supported here")]
        Device::ndarray(),
    ];
    devices.into_iter().chain(wgpu()).collect()
}

/// Returns every available device, with autodiff enabled.
pub(crate) fn autodiff_devices() -> impl Iterator<Item = Device> {
    devices().into_iter().map(Device::autodiff)
}

/// Returns the devices that support f64.
pub(crate) fn devices_of_f64() -> Vec<Device> {
    let holds = |device: &Device| Burn::of(device).unwrap().unsupported(funcify::DType::F64, 3).is_none();
    devices().into_iter().filter(holds).collect()
}

/// Returns the wgpu device, or `None` if it is not compiled in or not available. If it is compiled in but not
/// available, prints a message, or panics if `FUNCIFY_REQUIRE` names the device.
fn wgpu() -> Option<Device> {
    #[cfg(feature = "wgpu")]
    match Burn::wgpu() {
        Ok(burn) => return Some(burn.device().clone()),
        Err(error) => {
            assert_eq!(error.kind(), "Unavailable", "{error}");
            let required = std::env::var("FUNCIFY_REQUIRE").unwrap_or_default();
            assert!(!required.split(',').any(|name| name == "burn-wgpu"), "{error}");
            eprintln!("skipping burn-wgpu: {error}");
        }
    }
    None
}

/// Returns pseudorandom numbers between -1 and 1 that depend only on the seed.
pub(crate) fn values(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2654435761).wrapping_add(12345);
    let mut next = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Asserts that two tensors differ by at most `tolerance` times the largest absolute value in `expected`.
pub(crate) fn assert_close(found: &TensorData, expected: &TensorData, tolerance: f64, what: &str) {
    assert_eq!(found.shape(), expected.shape(), "{what}");
    let pairs: Vec<(f64, f64)> = found.iter::<f64>().zip(expected.iter::<f64>()).collect();
    let largest = pairs.iter().map(|(_, expected)| expected.abs()).fold(0.0, f64::max);
    for (index, (found, expected)) in pairs.iter().enumerate() {
        let difference = (found - expected).abs();
        assert!(difference <= tolerance * largest, "{what}: element {index} is {found}, expected {expected}");
    }
}
