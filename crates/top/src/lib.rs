#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod amount;
pub mod bar;
pub mod draw;
pub mod frames;
pub mod help;
pub mod here;
pub mod look;
pub mod moment;
pub mod panels;
pub mod player;
pub mod reasons;
pub mod screen;
pub mod series;
pub mod tape;
pub mod tasks;
