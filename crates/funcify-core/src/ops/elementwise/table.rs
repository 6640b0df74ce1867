//! Macros for the tables of elementwise ops. They define an enum with a variant for each row, a key type for each row,
//! and methods on values.

/// Defines an enum with a variant for each row, the list of the rows' names, and a key type for each row. Backends
/// register their lowering rules by key type.
macro_rules! op_table {
    ($(#[$about:meta])* $table:ident, $names:ident, $of:ident: $($name:expr => $op:ident, $doc:literal;)*) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $table {
            $(#[doc = $doc] $op,)*
        }

        pub(in crate::ops) const $names: &[&str] = &[$($name),*];

        pub(in crate::ops) fn $of(name: &str) -> Option<$table> {
            let row = $names.iter().position(|known| *known == name)?;
            Some($table::ALL[row])
        }

        impl $table {
            /// All rows, in the order of the table.
            pub const ALL: &[$table] = &[$($table::$op),*];
        }

        impl $crate::ops::OpText for $table {
            fn text_name(&self) -> &'static str {
                match self { $($table::$op => $name,)* }
            }

            fn text_attributes(&self) -> $crate::ops::Attributes {
                $crate::ops::Attributes::new()
            }
        }

        $(
            #[doc = $doc]
            #[derive(Clone, Copy, Debug)]
            pub struct $op;

            impl $crate::ops::OpKey for $op {
                const NAME: &'static str = $name;
                fn of(op: &$crate::ops::Op) -> Option<&Self> {
                    matches!(op, $crate::ops::Op::$table($table::$op)).then_some(&$op)
                }
            }
        )*
    };
}

/// Defines the method on values that applies a row of a table. The method has the row's name, or the name given in
/// parentheses. A row marked `(operator)` has no method, because a Rust operator applies it.
macro_rules! value_method {
    ($operands:tt $name:ident (operator): $op:expr, $doc:literal) => {};
    ($operands:tt $name:ident ($method:ident): $op:expr, $doc:literal) => {
        value_method!($operands $method: $op, $doc);
    };
    (1 $name:ident: $op:expr, $doc:literal) => {
        impl $crate::Value {
            #[doc = $doc]
            #[track_caller]
            pub fn $name(self) -> $crate::Value {
                self.emit($op)
            }
        }
    };
    (2 $name:ident: $op:expr, $doc:literal) => {
        impl $crate::Value {
            #[doc = $doc]
            #[track_caller]
            pub fn $name(self, y: impl Into<$crate::Operand>) -> $crate::Value {
                $crate::Operand::elementwise($op, self.into(), y.into())
            }
        }
    };
}

pub(in crate::ops) use {op_table, value_method};
