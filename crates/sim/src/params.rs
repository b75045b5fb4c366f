//! Every model parameter in one table: unit, value, range, source, and the published cells it was
//! fitted to, if any.

use serde::Serialize;

/// A row of the parameter table.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ParamInfo {
    /// Its name, as an experiment's `[params]` section spells it.
    pub name: &'static str,
    /// Unit of the value.
    pub unit: &'static str,
    /// The default.
    pub value: f64,
    /// Least accepted value.
    pub min: f64,
    /// Greatest accepted value.
    pub max: f64,
    /// Where the value comes from.
    pub source: &'static str,
    /// Published cells it was fitted to, as `series/filesystem/metric/policy`; empty: none.
    pub fitted: &'static [&'static str],
}

macro_rules! params {
    ($($name:ident: $unit:literal = $value:expr, $min:expr => $max:expr, $source:literal $(, fitted [$($cell:literal),*])?;)*) => {
        /// The values of all model parameters for one run.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Params { $(#[doc = concat!($source, " (", $unit, ")")] pub $name: f64,)* }

        impl Default for Params {
            fn default() -> Self { Self { $($name: $value,)* } }
        }

        impl Params {
            /// The table: one row a parameter.
            pub const TABLE: &'static [ParamInfo] = &[$(ParamInfo {
                name: stringify!($name), unit: $unit, value: $value, min: $min, max: $max,
                source: $source, fitted: &[$($($cell),*)?],
            },)*];

            /// Reads a parameter by name.
            pub fn get(&self, name: &str) -> Option<f64> {
                match name { $(stringify!($name) => Some(self.$name),)* _ => None }
            }

            fn slot(&mut self, name: &str) -> Option<&mut f64> {
                match name { $(stringify!($name) => Some(&mut self.$name),)* _ => None }
            }
        }
    };
}

params! {
    copy_page: "ns" = 1000.0, 10.0 => 1e6, "clear_user plus copy_from_user of 4 KiB at about 4 GB/s, a 2011 machine";
}

impl Params {
    /// Sets a parameter.
    ///
    /// # Errors
    /// An unknown name or a value outside the range; the text says what would be accepted.
    pub fn set(&mut self, name: &str, value: f64) -> Result<(), String> {
        let Some(info) = Self::TABLE.iter().find(|p| p.name == name) else {
            return Err(format!(
                "unknown parameter `{name}`; `lowmark params` lists the {} parameters",
                Self::TABLE.len()
            ));
        };
        if !(info.min..=info.max).contains(&value) {
            return Err(format!(
                "`{name}` = {value} is out of range; accepted: {} to {} {}",
                info.min, info.max, info.unit
            ));
        }
        *self.slot(name).expect("a table row has a slot") = value;
        Ok(())
    }
}
