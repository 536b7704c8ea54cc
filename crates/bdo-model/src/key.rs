//! Keys of a configuration. [`keys!`](crate::keys) declares a table of keys, each in one place: name, type, default, accepted
//! range, the methods that use it, and its meaning with the reason for the default.

use std::fmt;

/// One key, as documentation and checks see it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key {
    /// Table of the configuration file.
    pub table: &'static str,
    /// Name inside the table.
    pub name: &'static str,
    /// Accepted numbers.
    pub range: Range,
    /// Accepted words, where the value is not a number.
    pub words: &'static [&'static str],
    /// Methods that use it; empty for what is stored with a model but cannot be set.
    pub users: &'static [&'static str],
    /// Meaning and reason.
    pub about: &'static str,
}

impl Key {
    /// `table.name`.
    pub fn path(&self) -> String {
        format!("{}.{}", self.table, self.name)
    }

    /// The accepted values in words.
    pub fn accepted(&self) -> String {
        if self.words.is_empty() { self.range.to_string() } else { self.words.join(", ") }
    }
}

/// Used by BDO alone.
pub const BDO: &[&str] = &["bdo"];
/// Used by every self-supervised method.
pub const EVERY: &[&str] = &["bdo", "brainlm", "brainjepa"];
/// Stored with a model, not set by users.
pub const STORED: &[&str] = &[];

/// An interval of finite numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    least: f64,
    most: f64,
    /// Whether the ends themselves are accepted.
    with_ends: [bool; 2],
}

/// Finite and above 0.
pub const POSITIVE: Range = Range { least: 0.0, most: f64::INFINITY, with_ends: [false, false] };
/// Finite and at least 0.
pub const NOT_NEGATIVE: Range = Range { least: 0.0, most: f64::INFINITY, with_ends: [true, false] };
/// From 0 to 1.
pub const SHARE: Range = Range { least: 0.0, most: 1.0, with_ends: [true, true] };
/// At least 0 and below 1.
pub const BELOW_ONE: Range = Range { least: 0.0, most: 1.0, with_ends: [true, false] };
/// Above 0 and at most 1.
pub const SOME_OF: Range = Range { least: 0.0, most: 1.0, with_ends: [false, true] };

/// Both ends included.
pub const fn between(least: u32, most: u32) -> Range {
    Range { least: least as f64, most: most as f64, with_ends: [true, true] }
}

impl Range {
    /// Whether a number is accepted.
    pub fn holds(&self, number: f64) -> bool {
        let above = if self.with_ends[0] { number >= self.least } else { number > self.least };
        above && if self.with_ends[1] { number <= self.most } else { number < self.most }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { least, most, with_ends } = *self;
        match (most.is_finite(), with_ends) {
            (false, [true, _]) => write!(f, "finite and at least {least}"),
            (false, [false, _]) => write!(f, "finite and above {least}"),
            (true, [true, true]) => write!(f, "from {least} to {most}"),
            (true, [true, false]) => write!(f, "at least {least} and below {most}"),
            (true, [false, true]) => write!(f, "above {least} and at most {most}"),
            (true, [false, false]) => write!(f, "above {least} and below {most}"),
        }
    }
}

/// A number outside the range of its key.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("`{key}`: expected {expected}, found {found}")]
pub struct RangeError {
    /// The key.
    pub key: String,
    /// The accepted values.
    pub expected: Range,
    /// The value found.
    pub found: f64,
}

/// Refuses the first number that is outside the range of its key.
pub fn check(numbers: impl IntoIterator<Item = (&'static Key, Option<f64>)>) -> Result<(), RangeError> {
    for (key, number) in numbers {
        if let Some(found) = number.filter(|x| !key.range.holds(*x)) {
            return Err(RangeError { key: key.path(), expected: key.range, found });
        }
    }
    Ok(())
}

/// A type that keys have.
pub trait KeyValue {
    /// Its values, where they are words.
    const WORDS: &'static [&'static str] = &[];

    /// The number that the range of the key is about.
    fn number(&self) -> Option<f64> {
        None
    }
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl KeyValue for $type {
            #[allow(clippy::cast_lossless, clippy::cast_precision_loss)]
            fn number(&self) -> Option<f64> {
                Some(*self as f64)
            }
        }
    )*};
}
numbers!(f64, u32, u64, usize);

impl KeyValue for bool {
    const WORDS: &'static [&'static str] = &["true", "false"];
}

impl<T: KeyValue> KeyValue for Option<T> {
    const WORDS: &'static [&'static str] = T::WORDS;

    fn number(&self) -> Option<f64> {
        self.as_ref().and_then(KeyValue::number)
    }
}

/// Declares a table of keys as a struct: `name: type = default, range, users;` under a doc comment that says what the key
/// means. `once [..]` names keys that earlier versions stored; they are read and ignored. `parts` are nested tables.
#[macro_export]
macro_rules! keys {
    (
        $(#[$meta:meta])*
        pub struct $name:ident in $table:literal, once [$($old:ident),*] {
            $($(#[doc = $about:literal])+ $field:ident: $type:ty = $default:expr, $range:expr, $users:expr;)*
        }
        $(parts { $($(#[doc = $part_about:literal])+ $part:ident: $part_type:ty;)* })?
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize)]
        pub struct $name {
            $($(#[doc = $about])+ pub $field: $type,)*
            $($($(#[doc = $part_about])+ pub $part: $part_type,)*)?
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* $($($part: Default::default(),)*)? }
            }
        }

        impl $name {
            /// The keys of this table.
            pub const KEYS: &'static [$crate::key::Key] = &[$($crate::key::Key {
                table: $table,
                name: stringify!($field),
                range: $range,
                words: <$type as $crate::key::KeyValue>::WORDS,
                users: $users,
                about: concat!($($about),+),
            }),*];

            /// Every key with its number, where its value is one.
            pub fn numbers(&self) -> impl Iterator<Item = (&'static $crate::key::Key, Option<f64>)> {
                let numbers = [$($crate::key::KeyValue::number(&self.$field)),*];
                Self::KEYS.iter().zip(numbers)
            }
        }

        const _: () = {
            #[derive(serde::Deserialize)]
            #[serde(default, deny_unknown_fields)]
            struct Stored {
                $($field: $type,)*
                $($($part: $part_type,)*)?
                $(#[allow(dead_code)] $old: serde::de::IgnoredAny,)*
            }

            impl Default for Stored {
                fn default() -> Self {
                    let own = $name::default();
                    Self {
                        $($field: own.$field,)*
                        $($($part: own.$part,)*)?
                        $($old: serde::de::IgnoredAny,)*
                    }
                }
            }

            impl<'de> serde::Deserialize<'de> for $name {
                fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                    let stored = Stored::deserialize(from)?;
                    Ok(Self { $($field: stored.$field,)* $($($part: stored.$part,)*)? })
                }
            }
        };
    };
}

/// Says of enums by which words their values are written.
#[macro_export]
macro_rules! words {
    ($($type:ty: $($word:literal),+;)*) => {
        $(impl $crate::key::KeyValue for $type {
            const WORDS: &'static [&'static str] = &[$($word),+];
        })*
    };
}
