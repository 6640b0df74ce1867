//! Parses the elements of constants, such as `1.5` or `[1.0, nan]`. Each literal is
//! rounded correctly to the dtype of the constant, without double rounding.

use std::cmp::Ordering;

use crate::error::Result;
use crate::host::{HostTensor, Scalar, Storage};
use crate::types::lexer::{Cursor, Token, error_at};
use crate::types::{DType, TensorType, nearest_bf16, nearest_f16};

/// Parses the elements of a constant of type `ty`.
pub(super) fn parse_elements(cursor: &mut Cursor, ty: &TensorType) -> Result<HostTensor> {
    let site = cursor.site();
    let Some(shape) = ty.shape.constant() else {
        return Err(error_at(site, "a constant whose type has only numbers as sizes", ty));
    };
    if crate::host::element_count(&shape).is_none() {
        return Err(error_at(site, "a constant with fewer elements", ty));
    }
    let scalars = match shape.is_empty() {
        true => vec![element(cursor, ty.dtype)?],
        false => {
            cursor.expect_mark('[')?;
            cursor.list(']', "`,` or `]` after an element", |cursor| element(cursor, ty.dtype))?
        }
    };
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
        // Parsing as f64 first would round twice.
        DType::F32 => text.parse::<f32>().ok().map(|e| Scalar::Float(e.into())),
        DType::F16 => half(&text, |e| nearest_f16(e).to_f64()),
        DType::BF16 => half(&text, |e| nearest_bf16(e).to_f64()),
        DType::F64 => text.parse().ok().map(Scalar::Float),
    };
    let is_number = matches!(cursor.peek(), Token::Number(_));
    match scalar {
        Some(Scalar::Float(number)) if is_number && number.is_infinite() => {
            let expected = format!("a number that {dtype} can represent, or `inf`");
            Err(error_at(site, expected, format!("`{text}`, which exceeds the largest one")))
        }
        Some(scalar) => {
            cursor.bump();
            Ok(scalar)
        }
        None => Err(error_at(site, format!("an element of type {dtype}"), format!("`{text}`"))),
    }
}

/// Rounds a literal to the nearest 16-bit float. Returns `None` if the literal is not a number. First rounds the
/// literal to an f64. If the f64 is a midpoint between two 16-bit floats, compares the exact literal with the midpoint.
fn half(text: &str, round: impl Fn(f64) -> f64) -> Option<Scalar> {
    let nearest: f64 = text.parse().ok()?;
    let rounded = round(nearest);
    let (above, below) = (round(nearest.next_up()), round(nearest.next_down()));
    if above == below || !nearest.is_finite() {
        return Some(Scalar::Float(rounded));
    }
    let (text, halfway) = (Decimal::parse(text)?, Decimal::parse(&format!("{nearest:.1100}"))?);
    let magnitudes = if nearest < 0.0 { halfway.cmp(&text) } else { text.cmp(&halfway) };
    Some(Scalar::Float(match magnitudes {
        Ordering::Less => below,
        Ordering::Equal => rounded,
        Ordering::Greater => above,
    }))
}

/// The absolute value of a decimal number: `0.digits` times ten to the power of `power`.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Decimal {
    power: i64,
    /// The digits, without leading and trailing zeros.
    digits: String,
}

impl Decimal {
    fn parse(text: &str) -> Option<Self> {
        let (number, exponent) =
            text.trim_start_matches('-').split_once('e').unwrap_or((text.trim_start_matches('-'), "0"));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let all = format!("{whole}{fraction}");
        let digits = all.trim_start_matches('0');
        let leading = all.len() - digits.len();
        let power = exponent.parse::<i64>().ok()?.checked_add(whole.len() as i64 - leading as i64)?;
        Some(Decimal { power, digits: digits.trim_end_matches('0').to_string() })
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::Op;
    use crate::{DType, Graph, HostTensor};

    fn read(dtype: DType, text: &str) -> Result<HostTensor, crate::Error> {
        let graph = Graph::parse(&format!("fn @f() {{\n  %0: {dtype}[] = constant {text}\n  return y=%0\n}}"))?;
        let Op::Constant(constant) = &graph.nodes()[0].op else { panic!("a constant") };
        Ok((*constant.value).clone())
    }

    /// Tests the midpoint between two neighbouring floats, and literals that are so close to it that an f64 cannot
    /// represent the difference.
    #[test]
    fn literals_are_rounded_once() {
        for (dtype, digits, fraction) in [
            (DType::F32, 24, "000000059604644775390625"),
            (DType::F16, 11, "00048828125"),
            (DType::BF16, 8, "00390625"),
        ] {
            let value = |text: &str| read(dtype, text).unwrap().get(0).as_f64();
            let unit = 2f64.powi(1 - digits);
            let zeros = "0".repeat(30);
            let middle = format!("1.{fraction}");
            let below = format!("1.{}4{}", &fraction[..fraction.len() - 1], "9".repeat(40));
            assert_eq!(value(&middle), 1.0, "{dtype}");
            assert_eq!(value(&format!("{middle}{zeros}1")), 1.0 + unit, "{dtype}");
            assert_eq!(value(&below), 1.0, "{dtype}");
            assert_eq!(value(&format!("-{middle}{zeros}1e0")), -1.0 - unit, "{dtype}");
            assert_eq!(value(&format!("0.0{}{fraction}{zeros}1e2", "1")), 1.0 + unit, "{dtype}");
        }
    }

    #[test]
    fn literals_beyond_a_type_are_refused() {
        for (dtype, largest, beyond) in [
            (DType::F16, "65519.99", "65520.0"),
            (DType::BF16, "3.38e38", "3.4e38"),
            (DType::F32, "3.4028235e38", "3.41e38"),
            (DType::F64, "1.7976931348623157e308", "1e309"),
        ] {
            for sign in ["", "-"] {
                assert!(read(dtype, &format!("{sign}{largest}")).unwrap().get(0).as_f64().is_finite());
                let error = read(dtype, &format!("{sign}{beyond}")).unwrap_err().to_string();
                assert!(error.contains(&format!("a number that {dtype} can represent")), "{error}");
                assert!(read(dtype, &format!("{sign}inf")).unwrap().get(0).as_f64().is_infinite());
            }
            assert!(read(dtype, "nan").unwrap().get(0).as_f64().is_nan());
            for number in [1e300, -1e300] {
                let full = Graph::build("f", |_| crate::full([2], dtype, number));
                let times = Graph::build("f", |g| g.input("x", format!("{dtype}[]").as_str()) * number);
                assert_eq!(full.is_ok(), dtype == DType::F64);
                assert_eq!(times.is_ok(), dtype == DType::F64);
            }
            assert!(Graph::build("f", |_| crate::full([2], dtype, f64::INFINITY)).is_ok());
        }
        let int = Graph::build("f", |g| g.input("x", "f16[]") * 100_000);
        assert!(int.unwrap_err().to_string().contains("a number that f16"));
    }
}
