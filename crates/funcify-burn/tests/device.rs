//! Tests the device operations that loops need: reading rows, stacking rows, and writing rows to a buffer in place.
//! Also tests properties that the conformance suite does not cover: that every op has a lowering rule, that a constant
//! can run as an op, and that misuse returns errors.

mod common;

use std::time::{Duration, Instant};

use burn::backend::TensorMetadata;
use funcify::dispatch::{Backend, Parallel, Part, StackType, run_op};
use funcify::ops::{Broadcast, Cast, Constant, Op};
use funcify::{DType, HostTensor, Scalar};
use funcify_burn::Burn;

const SHAPES: [&[usize]; 7] = [&[], &[5], &[0], &[3, 4], &[2, 0, 3], &[2, 3, 4], &[2, 1, 3, 2]];

fn devices() -> Vec<Burn> {
    common::devices().iter().map(|device| Burn::of(device).unwrap()).collect()
}

/// Checks that devices with their own memory prefer parallel loops, which take fewer sequential steps but do more work.
/// On these devices, each step of a sequential loop launches kernels.
#[test]
fn devices_outside_of_host_memory_prefer_depth() {
    for device in devices() {
        let expected = if device.name() == "burn-wgpu" { Parallel::Prefer } else { Parallel::Avoid };
        assert_eq!(device.parallel(), expected, "{}", device.name());
    }
}

/// Returns a tensor of small numbers that every dtype represents exactly.
fn small(dtype: DType, shape: &[usize]) -> HostTensor {
    let mut state = 7u32;
    HostTensor::from_fn(dtype, shape, |_| {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        let number = i64::from(state >> 24) % 11 - 4;
        match dtype {
            DType::Bool => Scalar::Bool(number > 0),
            _ if dtype.is_float() => Scalar::Float(number as f64 / 4.0),
            _ => Scalar::Int(number),
        }
    })
}

/// Returns a tensor of numbers that a conversion might change, such as -0, infinities, NaN and the largest integers.
fn extreme(dtype: DType, shape: &[usize]) -> HostTensor {
    let scalars = match dtype {
        DType::Bool => [true, false, false, true, true, false].map(Scalar::Bool),
        _ if dtype.is_float() => [-0.0, 1e-4, 1e4, f64::INFINITY, f64::NEG_INFINITY, f64::NAN].map(Scalar::Float),
        _ => [-1, 255, i64::MAX, i64::MIN, 1 << 31, 1 << 24].map(Scalar::Int),
    };
    let mut next = scalars.iter().cycle();
    HostTensor::from_fn(dtype, shape, |_| *next.next().expect("the list of scalars cycles"))
}

fn held_dtypes(device: &Burn) -> Vec<DType> {
    DType::ALL.into_iter().filter(|dtype| device.unsupported(*dtype, 3).is_none()).collect()
}

/// Returns the dtypes that share one storage type on a device, or `None` if each dtype has its own.
fn alike(device: &Burn) -> Option<&'static [DType]> {
    match device.name() {
        "burn-wgpu" => Some(&[DType::U8, DType::U32]),
        "burn-ndarray" => Some(&[DType::F16, DType::BF16, DType::F32]),
        _ => None,
    }
}

#[test]
fn upload_and_download_round_trip() {
    for device in devices() {
        for (dtype, shape) in held_dtypes(&device).iter().flat_map(|dtype| SHAPES.map(|shape| (*dtype, shape))) {
            let x = small(dtype, shape);
            let tensor = device.upload(&x).unwrap();
            assert_eq!(device.download(&tensor, dtype).unwrap(), x);
            assert_eq!(device.shape(&tensor), shape);
            for other in DType::ALL {
                let alike = alike(&device).is_some_and(|alike| alike.contains(&dtype) && alike.contains(&other));
                assert_eq!(device.has_dtype(&tensor, other), other == dtype || alike, "{dtype} as {other}");
            }
        }
    }
}

#[test]
fn rows_of_every_dtype() {
    for device in devices() {
        for dtype in held_dtypes(&device) {
            let x = small(dtype, &[4, 2]);
            let tensor = device.upload(&x).unwrap();
            let row = device.row(&tensor, 2).unwrap();
            assert_eq!(device.download(&row, dtype).unwrap(), x.row(2));
            let rows = device.rows(&tensor, 1, 2).unwrap();
            let rows = device.download(&rows, dtype).unwrap();
            assert_eq!((rows.row(0), rows.row(1)), (x.row(1), x.row(2)));
            assert_eq!(device.shape(&device.rows(&tensor, 4, 0).unwrap()), [0, 2]);
            let of_vector = device.upload(&small(dtype, &[3])).unwrap();
            assert_eq!(device.shape(&device.row(&of_vector, 1).unwrap()), [0usize; 0]);
            assert!(device.row(&tensor, 4).is_err() && device.rows(&tensor, 3, 2).is_err());
            let scalar = device.upload(&small(dtype, &[])).unwrap();
            assert!(device.row(&scalar, 0).is_err());
        }
    }
}

#[test]
fn stacks_of_rows_and_blocks() {
    for device in devices() {
        for dtype in held_dtypes(&device) {
            let x = extreme(dtype, &[3, 2]);
            let tensor = device.upload(&x).unwrap();
            let parts =
                vec![Part::Row(device.row(&tensor, 0).unwrap()), Part::Block(device.rows(&tensor, 1, 2).unwrap())];
            let stacked = device.stack(parts, &StackType { dtype, rows: 3, row: vec![2] }).unwrap();
            assert_eq!(format!("{:?}", device.download(&stacked, dtype).unwrap()), format!("{x:?}"));
            let nothing = device.stack(Vec::new(), &StackType { dtype, rows: 0, row: vec![2] }).unwrap();
            assert_eq!(device.download(&nothing, dtype).unwrap(), HostTensor::zeros(dtype, &[0, 2]));
            let scalar = device.upload(&small(dtype, &[])).unwrap();
            let of_scalars =
                device.stack(vec![Part::Row(scalar); 2], &StackType { dtype, rows: 2, row: vec![] }).unwrap();
            assert_eq!(device.shape(&of_scalars), [2]);
            let misfit = device.stack(vec![Part::Row(tensor)], &StackType { dtype, rows: 1, row: vec![5] });
            assert!(misfit.is_err());
        }
    }
}

#[test]
fn traces_of_every_dtype() {
    for device in devices() {
        for (dtype, row) in
            held_dtypes(&device).iter().flat_map(|dtype| [&[][..], &[2], &[2, 3]].map(|row| (*dtype, row)))
        {
            let ty = StackType { dtype, rows: 3, row: row.to_vec() };
            let x = small(dtype, &ty.shape());
            let mut trace = device.allocate(&ty).unwrap().unwrap();
            for index in 0..3 {
                let value = device.upload(&x.row(index)).unwrap();
                trace = device.write_row(trace, index, value).unwrap();
            }
            assert_eq!(device.download(&trace, dtype).unwrap(), x);
            let value = device.upload(&x.row(0)).unwrap();
            assert!(device.write_row(trace.clone(), 3, value).is_err());
            let other = device.upload(&small(dtype, &[7])).unwrap();
            assert!(device.write_row(trace, 0, other).is_err());
        }
    }
}

/// Writes 10,000 rows to a buffer, and checks that the buffer is not shared and that the writes are fast. Copying the
/// buffer takes 250 microseconds, so 10,000 copies would take more than two seconds. wgpu is not timed, because it runs
/// its kernels asynchronously.
#[test]
fn rows_are_written_in_place() {
    for device in devices() {
        let ty = StackType { dtype: DType::F32, rows: 10_000, row: vec![256] };
        let mut trace = device.allocate(&ty).unwrap().unwrap();
        let value = device.upload(&small(DType::F32, &[256])).unwrap();
        let start = Instant::now();
        let mut shared = 0;
        for row in 0..10_000 {
            shared += usize::from(!trace.can_mut());
            trace = device.write_row(trace, row, value.clone()).unwrap();
        }
        let elapsed = start.elapsed();
        match device.name() {
            // Burn's ndarray device does not report whether a buffer is shared.
            "burn-ndarray" => {}
            // wgpu's server releases a buffer on its own thread, sometimes shortly after the call has returned.
            "burn-wgpu" => assert!(shared < 100, "{shared} of 10,000 rows copy the trace"),
            name => assert_eq!(shared, 0, "{name}"),
        }
        println!("{}: {:?} per row", device.name(), elapsed / 10_000);
        let is_timed = device.name() != "burn-wgpu";
        assert!(!is_timed || elapsed < Duration::from_secs(1), "{}: {elapsed:?}", device.name());
    }
}

#[test]
fn what_a_device_lacks_is_an_error() {
    for device in devices() {
        for dtype in DType::ALL {
            let x = HostTensor::scalar(1i64).cast(dtype);
            assert_eq!(device.upload(&x).is_err(), device.unsupported(dtype, 0).is_some());
            let cast = run_op(&device, &Op::from(Cast { dtype }), &[HostTensor::scalar(1i64)]);
            assert_eq!(cast.is_err(), device.unsupported(dtype, 0).is_some());
        }
        for rank in [6, 7, 8, 12] {
            let broadcast = Op::from(Broadcast { shape: vec![2usize; rank].as_slice().into() });
            let result = run_op(&device, &broadcast, &[small(DType::F32, &[2])]);
            assert_eq!(result.is_err(), device.unsupported(DType::F32, rank).is_some(), "{} {rank}", device.name());
        }
    }
}

#[test]
fn every_op_has_a_lowering_rule() {
    let lowered = funcify::dispatch::lowered_ops::<Burn>();
    let mut names = funcify::ops::all_names();
    names.retain(|name| !funcify::ops::CONTROL_FLOW.contains(name));
    let missing: Vec<_> = names.iter().filter(|name| !lowered.contains(name)).collect();
    assert!(missing.is_empty(), "add `funcify!(Burn, ..)` for {missing:?} in crates/funcify-burn/src/ops");
    let unknown: Vec<_> = lowered.iter().filter(|name| !names.contains(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?} in crates/funcify-burn/src/ops are control flow or not core ops");
}

#[test]
fn a_constant_is_an_op_too() {
    for device in devices() {
        for (dtype, shape) in held_dtypes(&device).iter().flat_map(|dtype| SHAPES.map(|shape| (*dtype, shape))) {
            let value = extreme(dtype, shape);
            let op = Op::from(Constant { value: value.clone().into() });
            assert_eq!(format!("{:?}", run_op(&device, &op, &[]).unwrap()), format!("{:?}", [value]));
        }
    }
}

/// Checks that every nonzero number in a user's boolean tensor counts as true on devices that store booleans as
/// numbers.
#[test]
fn a_stored_boolean_that_is_not_zero_is_true() {
    use burn::tensor::{Bool, BoolDType, DType as BurnDType, Tensor, TensorData};
    let graph = funcify::Graph::build("masks", |g| {
        let p = g.input("p", "bool[N]");
        let all = funcify::scan(p.any(0), p, |all, p| (all & p, all)).0;
        (!p, p.cast(DType::F32).sum(0), all, p.all(0))
    });
    let function = funcify_burn::Differentiable::new(&graph.unwrap());
    for burn in devices() {
        let numbers = [1u32, 2, 255];
        let store = burn.device().settings().bool_dtype;
        let bytes = match store {
            BoolDType::U32 => numbers.iter().flat_map(|number| number.to_le_bytes()).collect(),
            BoolDType::U8 | BoolDType::Native => numbers.iter().map(|number| *number as u8).collect(),
        };
        let of_bytes = if store == BoolDType::U32 { BoolDType::U32 } else { BoolDType::U8 };
        let data = TensorData::from_bytes_vec(bytes, [3], BurnDType::Bool(of_bytes));
        let p = Tensor::<1, Bool>::from_data(data, burn.device());
        let results: (Tensor<1, Bool>, Tensor<1>, Tensor<1, Bool>, Tensor<1, Bool>) = function.call((p,)).unwrap();
        let name = burn.name();
        assert_eq!(results.0.into_data().iter::<bool>().collect::<Vec<_>>(), [false; 3], "{name}");
        assert_eq!(results.1.into_scalar::<f32>(), 3.0, "{name}");
        assert!(results.2.into_scalar::<bool>() && results.3.into_scalar::<bool>(), "{name}");
    }
}
