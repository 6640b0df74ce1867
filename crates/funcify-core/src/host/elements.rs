//! Formats the elements of tensors, such as `1.5` or `[1.0, nan]`. The text determines each number exactly.

use super::{HostTensor, Storage};
use crate::types::{nearest_bf16, nearest_f16};

/// Formats the elements of a tensor: a single element for a scalar, or a flat list in row-major order for any other
/// tensor. The text determines every element exactly, except that all NaNs are printed alike.
pub(crate) fn print_elements(tensor: &HostTensor) -> String {
    let elements: Vec<String> = match tensor.storage() {
        Storage::Bool(elements) => elements.iter().map(bool::to_string).collect(),
        Storage::U8(elements) => elements.iter().map(u8::to_string).collect(),
        Storage::U32(elements) => elements.iter().map(u32::to_string).collect(),
        Storage::I32(elements) => elements.iter().map(i32::to_string).collect(),
        Storage::I64(elements) => elements.iter().map(i64::to_string).collect(),
        Storage::F16(elements) => {
            elements.iter().map(|e| shortest(e.to_f64(), |text| nearest_f16(text).to_f64())).collect()
        }
        Storage::BF16(elements) => {
            elements.iter().map(|e| shortest(e.to_f64(), |text| nearest_bf16(text).to_f64())).collect()
        }
        Storage::F32(elements) => elements.iter().map(|e| special(f64::from(*e)).unwrap_or(format!("{e:?}"))).collect(),
        Storage::F64(elements) => elements.iter().map(|e| special(*e).unwrap_or(format!("{e:?}"))).collect(),
    };
    match (tensor.shape(), elements.as_slice()) {
        ([], [element]) => element.clone(),
        _ => format!("[{}]", elements.join(", ")),
    }
}

fn special(element: f64) -> Option<String> {
    match element {
        _ if element.is_nan() => Some("nan".into()),
        f64::INFINITY => Some("inf".into()),
        f64::NEG_INFINITY => Some("-inf".into()),
        _ => None,
    }
}

/// The magnitude below which [`shortest`] prints integers with all their digits.
const LARGEST_EXACT: f64 = 1e6;

/// Formats a float with the fewest digits that determine it exactly. `round` rounds a number to the nearest float of
/// the same type. Integers below [`LARGEST_EXACT`] are printed with all their digits.
fn shortest(element: f64, round: impl Fn(f64) -> f64) -> String {
    if let Some(text) = special(element) {
        return text;
    }
    if element.fract() == 0.0 && element.abs() < LARGEST_EXACT {
        return format!("{element:?}");
    }
    let candidates = (0..17).filter_map(|digits| format!("{element:.digits$e}").parse::<f64>().ok());
    let shortest = candidates.into_iter().find(|candidate| round(*candidate) == element);
    format!("{:?}", shortest.unwrap_or(element))
}
