//! The elements of constants: `1.5`, `[1.0, nan]`, exact in every element type.

use half::{bf16, f16};

use super::lexer::{Cursor, Token, error_at};
use crate::error::Result;
use crate::host::{HostTensor, Scalar, Storage};
use crate::types::{DType, TensorType};

/// A scalar's element, else the flat, row-major list of elements. Every element is exact, except that there is
/// one NaN.
pub(crate) fn print_elements(tensor: &HostTensor) -> String {
    let elements: Vec<String> = match tensor.storage() {
        Storage::Bool(elements) => elements.iter().map(bool::to_string).collect(),
        Storage::U8(elements) => elements.iter().map(u8::to_string).collect(),
        Storage::U32(elements) => elements.iter().map(u32::to_string).collect(),
        Storage::I32(elements) => elements.iter().map(i32::to_string).collect(),
        Storage::I64(elements) => elements.iter().map(i64::to_string).collect(),
        Storage::F16(elements) => {
            elements.iter().map(|e| shortest(e.to_f64(), |text| f16::from_f64(text).to_f64())).collect()
        }
        Storage::BF16(elements) => {
            elements.iter().map(|e| shortest(e.to_f64(), |text| bf16::from_f64(text).to_f64())).collect()
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

/// Integers above this may be shown with fewer digits than they have.
const LARGEST_EXACT: f64 = 1e6;

/// The fewest digits that `round` brings back to the element; all digits of an integer that is not large.
fn shortest(element: f64, round: impl Fn(f64) -> f64) -> String {
    if let Some(text) = special(element) {
        return text;
    }
    if element.fract() == 0.0 && element.abs() < LARGEST_EXACT {
        return format!("{element:?}");
    }
    let candidates = (0..17).filter_map(|digits| format!("{element:.digits$e}").parse::<f64>().ok());
    let found = candidates.into_iter().find(|candidate| round(*candidate) == element);
    format!("{:?}", found.unwrap_or(element))
}

/// The elements of a constant of this type.
pub(super) fn parse_elements(cursor: &mut Cursor, ty: &TensorType) -> Result<HostTensor> {
    let site = cursor.site();
    let Some(shape) = ty.shape.constant() else {
        return Err(error_at(site, "a constant whose type has only numbers as sizes", ty));
    };
    if crate::host::element_count(&shape).is_none() {
        return Err(error_at(site, "a constant with fewer elements", ty));
    }
    let mut scalars = Vec::new();
    if shape.is_empty() {
        scalars.push(element(cursor, ty.dtype)?);
    } else {
        cursor.expect_mark('[')?;
        let mut is_open = !cursor.take_mark(']');
        while is_open {
            scalars.push(element(cursor, ty.dtype)?);
            is_open = !cursor.take_mark(']');
            if is_open && !cursor.take_mark(',') {
                return Err(cursor.error("`,` or `]` after an element"));
            }
        }
    }
    let found = scalars.len();
    HostTensor::new(shape, Storage::from_scalars(ty.dtype, scalars))
        .ok_or_else(|| error_at(site, format!("as many elements as {ty} has"), format!("{found} elements")))
}

fn element(cursor: &mut Cursor, dtype: DType) -> Result<Scalar> {
    let site = cursor.site();
    let sign = if cursor.take_mark('-') { "-" } else { "" };
    let text = match cursor.peek() {
        Token::Name(text) | Token::Number(text) => format!("{sign}{text}"),
        _ => return Err(cursor.error(format!("an element of type {dtype}"))),
    };
    let scalar = match dtype {
        DType::Bool => text.parse().ok().map(Scalar::Bool),
        DType::U8 => text.parse::<u8>().ok().map(|e| Scalar::Int(e.into())),
        DType::U32 => text.parse::<u32>().ok().map(|e| Scalar::Int(e.into())),
        DType::I32 => text.parse::<i32>().ok().map(|e| Scalar::Int(e.into())),
        DType::I64 => text.parse().ok().map(Scalar::Int),
        // Reading an f32 as an f64 first would round twice.
        DType::F32 => text.parse::<f32>().ok().map(|e| Scalar::Float(e.into())),
        DType::F16 | DType::BF16 | DType::F64 => text.parse().ok().map(Scalar::Float),
    };
    let scalar = scalar.ok_or_else(|| error_at(site, format!("an element of type {dtype}"), format!("`{text}`")))?;
    cursor.bump();
    Ok(scalar)
}
