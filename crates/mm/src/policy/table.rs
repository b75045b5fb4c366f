//! The macros that build the tables of switches.

/// Makes a struct of switches, its rows of the table, its defaults, and the enums of switches that
/// are set to words, all from one list. Fields that are not switches stand in `before` and `after`.
///
/// ```text
/// /// What the switch decides; of a `true` or `false` switch, what `true` does.
/// KEY: TYPE = DEFAULT { /// Meaning. VALUE = "word", … } [LEAST, MOST, "unit"] see "PAGE#TITLE";
/// ```
///
/// The values of a type stand at the first entry that uses it, or in a `choice!` in the file of
/// their subject; numbers have a range.
macro_rules! switches {
    (
        $(#[$attribute:meta])*
        pub struct $Struct:ident, $prefix:literal at |$policy:ident| $at:expr;
        before { $($(#[$bm:meta])* pub $before:ident: $Before:ty = $bv:expr;)* }
        after { $($(#[$am:meta])* pub $after:ident: $After:ty = $av:expr;)* }
        $(
            $(#[doc = $doc:literal])+
            $name:ident: $Type:ident = $default:tt
            $({ $($values:tt)* })?
            $([$least:literal, $most:literal, $unit:literal])?
            see $($source:literal)+;
        )+
    ) => {
        $(choice! { $Struct $name $Type $({ $($values)* })? })+

        $(#[$attribute])*
        pub struct $Struct {
            $($(#[$bm])* pub $before: $Before,)*
            $(
                $(#[doc = $doc])+
                $(
                    #[doc = ""]
                    #[doc = concat!("Accepted: ", $least, " to ", $most, " (", $unit, ").")]
                    #[schemars(range(min = $least as u64, max = $most as u64))]
                )?
                #[doc = ""]
                #[doc = concat!("Source: " $(, $source, "; ")+)]
                pub $name: $Type,
            )+
            $($(#[$am])* pub $after: $After,)*
        }

        impl $Struct {
            /// The rows of the table of switches for this struct.
            pub const SWITCHES: &'static [Switch] = &[$(Switch {
                name: concat!($prefix, stringify!($name)),
                doc: concat!($($doc),+),
                form: form!($Type $($least $most $unit)?),
                sources: &[$($source),+],
                value: |$policy| Setting::from($at.$name),
            },)+];

            /// Returns every switch at its default.
            pub(super) fn defaults() -> Self {
                Self {
                    $($before: $bv,)*
                    $($name: setting!($Type $default),)+
                    $($after: $av,)*
                }
            }
        }
    };
}

/// Makes the enum of a switch that is set to words from its values; without values, makes nothing.
macro_rules! choice {
    ($Struct:ident $name:ident $Type:ident) => {};
    ($Struct:ident $name:ident $Type:ident {
        $($(#[doc = $doc:literal])+ $Value:ident = $word:literal,)+
    }) => {
        #[doc = concat!("The values of [`", stringify!($name), "`](super::", stringify!($Struct), "::", stringify!($name), ").")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub enum $Type {
            $($(#[doc = $doc])+ #[serde(rename = $word)] $Value,)+
        }

        impl $Type {
            /// Returns the word that experiments use.
            pub fn name(self) -> &'static str {
                match self { $(Self::$Value => $word,)+ }
            }
        }

        impl Choice for $Type {
            const FORM: Form = Form::Words(&[$(Word { name: $word, doc: concat!($($doc),+) },)+]);
        }

        impl From<$Type> for Setting {
            fn from(value: $Type) -> Self {
                Self::Word(value.name())
            }
        }
    };
}

/// Expands to the `Form` of a switch: its range, or that of its type.
macro_rules! form {
    ($Type:ident) => {
        <$Type as Choice>::FORM
    };
    ($Type:ident $least:literal $most:literal $unit:literal) => {
        Form::Number {
            least: $least,
            most: $most,
            unit: $unit,
        }
    };
}

/// Expands to a default value: a word of the type, or a literal.
macro_rules! setting {
    (bool $value:tt) => {
        $value
    };
    (u8 $value:tt) => {
        $value
    };
    (u32 $value:tt) => {
        $value
    };
    ($Type:ident $Value:ident) => {
        $Type::$Value
    };
}

pub(super) use {choice, form, setting, switches};
