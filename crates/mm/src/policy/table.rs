//! The macros behind the table of switches.

/// Makes a struct of switches, its rows of the table and its defaults from one list, and the types of
/// those that are set to words. Fields that are no switches stand in `before` and `after`.
///
/// ```text
/// /// What it decides; for `true` and `false`, what `true` does.
/// KEY: TYPE = DEFAULT { /// What the value means. VALUE = "word", … } [LEAST, MOST, "unit"] see "PAGE#HEADING";
/// ```
///
/// Values stand at the first entry of their type, or with `choice!` in a file about their subject; a range stands at numbers.
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
            /// Its rows of the table of switches.
            pub const SWITCHES: &'static [Switch] = &[$(Switch {
                name: concat!($prefix, stringify!($name)),
                doc: concat!($($doc),+),
                form: form!($Type $($least $most $unit)?),
                sources: &[$($source),+],
                value: |$policy| Setting::from($at.$name),
            },)+];

            /// Every switch at its default.
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

/// The type of a switch that is set to words, where its values stand; nothing elsewhere.
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
            /// The word that experiments use.
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

/// What fits: a range, or what the type says.
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

/// A default: a word of the type, or a literal.
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
