//! The attributes of an op, as they appear in the text form: `{axis=1, limit=T+1, axes=[0,2], mode=add}`.

use enum_dispatch::enum_dispatch;

use crate::error::{Error, Place, Site};
use crate::ops::{ReduceKind, ScatterMode, Words};
use crate::types::lexer::{error_at, unknown_word};
use crate::types::nearest::closest_word;
use crate::types::{DType, Dim, Shape, Symbol};

/// The value of an attribute. A word, such as a mode or a dtype, is stored as a dimension that consists of a single
/// symbol.
#[derive(Clone, PartialEq, Debug)]
pub enum Attribute {
    /// A number, a polynomial over sizes, or a word.
    Dim(Dim),
    /// A list of numbers or polynomials.
    List(Vec<Dim>),
}

/// The attributes of an op, in the order in which they are printed.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::ops::Attributes;
///
/// let mut attributes = Attributes::new().with("axis", 1).with_list("sizes", [2, 3]);
/// assert_eq!(attributes.take_usize("axis"), Ok(1));
/// assert_eq!(attributes.take_axes("sizes"), Ok(vec![2, 3]));
/// assert!(attributes.is_empty());
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Attributes(Vec<(String, Attribute)>);

impl Attributes {
    /// Creates an empty list of attributes.
    pub fn new() -> Self {
        Attributes::default()
    }

    /// Adds an attribute that holds a number, a polynomial or a word.
    pub fn with(mut self, key: &str, value: impl Into<Dim>) -> Self {
        self.0.push((key.to_string(), Attribute::Dim(value.into())));
        self
    }

    /// Adds an attribute that holds a list.
    pub fn with_list(mut self, key: &str, values: impl IntoIterator<Item = impl Into<Dim>>) -> Self {
        let values = values.into_iter().map(Into::into).collect();
        self.0.push((key.to_string(), Attribute::List(values)));
        self
    }

    /// Adds an attribute that holds the value of a field of the op.
    pub(in crate::ops) fn with_field(mut self, key: &str, field: &impl AttributeField) -> Self {
        self.0.push((key.to_string(), field.to_attribute()));
        self
    }

    /// Returns an iterator over the attributes in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Attribute)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Applies `map` to each number, polynomial and word, including those in lists.
    pub(crate) fn map_dims(&mut self, map: impl Fn(&Dim) -> Dim) {
        for (_, attribute) in &mut self.0 {
            match attribute {
                Attribute::Dim(dim) => *dim = map(dim),
                Attribute::List(dims) => dims.iter_mut().for_each(|dim| *dim = map(dim)),
            }
        }
    }

    /// Returns `true` if there are no attributes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends an attribute with this key and value.
    pub(crate) fn push(&mut self, key: String, value: Attribute) {
        self.0.push((key, value));
    }

    /// Removes the attribute called `key` and returns it as a polynomial. On failure, returns a description of the
    /// expected attribute.
    pub fn take_dim(&mut self, key: &str) -> Result<Dim, String> {
        match self.take(key)? {
            Attribute::Dim(dim) => Ok(dim),
            Attribute::List(_) => Err(format!("`{key}` as one number, not a list")),
        }
    }

    /// Removes the attribute called `key` and returns it as an integer.
    pub fn take_int(&mut self, key: &str) -> Result<i64, String> {
        let dim = self.take_dim(key)?;
        dim.constant().ok_or_else(|| format!("`{key}` as a number, not `{dim}`"))
    }

    /// Removes the attribute called `key` and returns it as a non-negative integer.
    pub fn take_usize(&mut self, key: &str) -> Result<usize, String> {
        let value = self.take_int(key)?;
        usize::try_from(value).map_err(|_| format!("`{key}` as a non-negative number, not {value}"))
    }

    /// Removes the attribute called `key` and returns it as a word.
    pub fn take_word(&mut self, key: &str) -> Result<String, String> {
        let dim = self.take_dim(key)?;
        let word = dim.as_symbol().ok_or_else(|| format!("`{key}` as a word, not `{dim}`"))?;
        Ok(word.name().to_string())
    }

    /// Removes the attribute called `key` and returns it as a dtype.
    pub fn take_dtype(&mut self, key: &str) -> Result<DType, String> {
        let word = self.take_word(key)?;
        let known = || DType::ALL.map(DType::name).join(", ");
        DType::from_name(&word).ok_or_else(|| format!("`{key}` as one of {}, not `{word}`", known()))
    }

    /// Removes the attribute called `key` and returns it as a list of polynomials.
    pub fn take_dims(&mut self, key: &str) -> Result<Vec<Dim>, String> {
        match self.take(key)? {
            Attribute::List(dims) => Ok(dims),
            Attribute::Dim(dim) => Err(format!("`{key}` as a list, not `{dim}`")),
        }
    }

    /// Removes the attribute called `key` and returns it as a list of axes.
    pub fn take_axes(&mut self, key: &str) -> Result<Vec<usize>, String> {
        let dims = self.take_dims(key)?;
        let axis = |dim: &Dim| dim.constant().and_then(|value| usize::try_from(value).ok());
        dims.iter().map(|dim| axis(dim).ok_or_else(|| format!("`{key}` as a list of axes, not `{dim}`"))).collect()
    }

    /// Calls `take`, one of the methods above, to remove the optional attribute called `key`. Returns `None` if the
    /// attribute is missing.
    pub(crate) fn take_if_given<T>(
        &mut self,
        key: &str,
        take: impl FnOnce(&mut Self, &str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let is_given = self.iter().any(|(given, _)| given == key);
        is_given.then(|| take(self, key)).transpose()
    }

    /// Returns the error for attributes that the op called `name` rejects. `expected` describes the attribute that is
    /// missing or invalid. If an attribute is missing, the error lists the remaining ones, because one of them may be
    /// misspelt.
    pub(crate) fn rejection(&self, site: Site, name: &str, expected: String) -> Error {
        let left: Vec<&str> = self.iter().map(|(key, _)| key).collect();
        if let Some(key) = expected.strip_prefix("the attribute `").and_then(|rest| rest.strip_suffix('`')) {
            let found = match left.is_empty() {
                true => format!("`{name}` without it"),
                false => format!("`{name}` with {}", left.join(", ")),
            };
            let fix = closest_word(key, left)
                .map(|meant| format!("did you mean `{key}` instead of `{meant}`?"))
                .unwrap_or_default();
            return Error::Parse { at: Place::new("parse", site).boxed(), expected, found, fix };
        }
        // If `expected` ends with the rejected word, as in "`kind` as one of sum, max, not `summ`", split it off.
        match expected.split_once(", not `") {
            Some((expected, word)) => {
                let words = expected.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                unknown_word(site, expected, word.trim_end_matches('`'), words)
            }
            None => error_at(site, expected, format!("`{name}` with other attributes")),
        }
    }

    /// Removes the attribute called `key`, which must be one of the given words, and returns the value paired with that
    /// word.
    pub(in crate::ops) fn take_one_of<T: Copy>(&mut self, key: &str, words: &[(&str, T)]) -> Result<T, String> {
        let word = self.take_word(key)?;
        let known = || words.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let row = words.iter().find(|(name, _)| *name == word);
        row.map(|(_, value)| *value).ok_or_else(|| format!("`{key}` as one of {}, not `{word}`", known()))
    }

    /// Removes the attribute called `key`, which must be a flag, and returns its value. `no` and `yes` are the words
    /// for `false` and `true` in the text form.
    pub(in crate::ops) fn take_flag(&mut self, key: &str, [no, yes]: [&str; 2]) -> Result<bool, String> {
        let word = self.take_word(key)?;
        let is_known = word == no || word == yes;
        is_known.then(|| word == yes).ok_or_else(|| format!("`{key}` as {no} or {yes}, not `{word}`"))
    }

    fn take(&mut self, key: &str) -> Result<Attribute, String> {
        let index = self.0.iter().position(|(name, _)| name == key);
        let index = index.ok_or_else(|| format!("the attribute `{key}`"))?;
        Ok(self.0.remove(index).1)
    }
}

/// The name and the attributes of an op in the text form.
#[enum_dispatch]
pub trait OpText {
    /// Returns the op's name in the text form.
    fn text_name(&self) -> &'static str;

    /// Returns the attributes, in the order in which they are printed.
    fn text_attributes(&self) -> Attributes;
}

/// A field type that the text form can print as an attribute.
pub(in crate::ops) trait AttributeField: Sized {
    /// Removes the attribute called `key` and converts it to a value of the field's type. On failure, returns a
    /// description of the expected attribute.
    fn take(attributes: &mut Attributes, key: &str) -> Result<Self, String>;

    /// Converts the value of the field to an attribute.
    fn to_attribute(&self) -> Attribute;
}

macro_rules! attribute_fields {
    ($($field:ty: |$attributes:ident, $key:ident| $take:expr, |$value:ident| $to_attribute:expr;)*) => {
        $(impl AttributeField for $field {
            fn take($attributes: &mut Attributes, $key: &str) -> Result<Self, String> {
                $take
            }

            fn to_attribute(&self) -> Attribute {
                let $value = self;
                $to_attribute
            }
        })*
    };
}

attribute_fields! {
    usize: |attributes, key| attributes.take_usize(key), |number| Attribute::Dim(Dim::from(*number));
    Dim: |attributes, key| attributes.take_dim(key), |dim| Attribute::Dim(dim.clone());
    DType: |attributes, key| attributes.take_dtype(key), |dtype| Attribute::Dim(dtype.name().into());
    Shape: |attributes, key| attributes.take_dims(key).map(Shape::from),
        |shape| Attribute::List(shape.dims().to_vec());
    Symbol: |attributes, key| {
        let dim = attributes.take_dim(key)?;
        dim.as_symbol().cloned().ok_or_else(|| format!("`{key}` as a symbol such as `$1`, not `{dim}`"))
    }, |symbol| Attribute::Dim(Dim::symbol(symbol));
    ReduceKind: |attributes, key| attributes.take_one_of(key, &ReduceKind::TABLE),
        |kind| Attribute::Dim(kind.name().into());
    ScatterMode: |attributes, key| attributes.take_one_of(key, &ScatterMode::ALL.map(|mode| (mode.name(), mode))),
        |mode| Attribute::Dim(mode.name().into());
    Words: |attributes, key| match attributes.take_word(key)?.as_str() {
        "mixed" => Ok(Words::Mixed),
        "both" => Ok(Words::Both),
        other => Err(format!("`{key}` as `mixed` or `both`, not `{other}`")),
    }, |words| Attribute::Dim(words.name().into());
    Vec<Dim>: |attributes, key| attributes.take_dims(key), |dims| Attribute::List(dims.clone());
    Vec<usize>: |attributes, key| attributes.take_axes(key),
        |axes| Attribute::List(axes.iter().copied().map(Dim::from).collect());
}

/// Implements [`OpKey`](crate::ops::OpKey) for an op, so that backends can register lowering rules for it.
macro_rules! op_key {
    ($name:literal => $op:ident) => {
        impl $crate::ops::OpKey for $op {
            const NAME: &'static str = $name;
            fn of(op: &$crate::ops::Op) -> Option<&Self> {
                if let $crate::ops::Op::$op(op) = op { Some(op) } else { None }
            }
        }
    };
}

/// Implements [`OpText`], `parse` and [`OpKey`](crate::ops::OpKey) for an op whose attributes are its fields. The text
/// form writes a flag as one of two words. If the braces are omitted, the macro implements only [`OpText`], with no
/// attributes. Constants and ops with bodies use this form, because the printer and the parser handle them separately.
macro_rules! op_text {
    ($name:literal => $op:ident { $($field:ident),* } $(, $key:ident: $flag:ident as $no:ident or $yes:ident)?) => {
        $crate::ops::op_key!($name => $op);

        impl $op {
            #[allow(unused_variables, reason = "some ops have no attributes")]
            pub(in crate::ops) fn parse(attributes: &mut $crate::ops::Attributes) -> Result<Self, String> {
                Ok($op {
                    $($field: $crate::ops::AttributeField::take(attributes, stringify!($field))?,)*
                    $($flag: attributes.take_flag(stringify!($key), [stringify!($no), stringify!($yes)])?,)?
                })
            }
        }

        impl $crate::ops::OpText for $op {
            fn text_name(&self) -> &'static str {
                $name
            }

            fn text_attributes(&self) -> $crate::ops::Attributes {
                $crate::ops::Attributes::new()
                    $(.with_field(stringify!($field), &self.$field))*
                    $(.with(stringify!($key), if self.$flag { stringify!($yes) } else { stringify!($no) }))?
            }
        }
    };
    ($name:literal => $op:ident) => {
        impl $crate::ops::OpText for $op {
            fn text_name(&self) -> &'static str {
                $name
            }

            fn text_attributes(&self) -> $crate::ops::Attributes {
                $crate::ops::Attributes::new()
            }
        }
    };
}

pub(in crate::ops) use {op_key, op_text};
