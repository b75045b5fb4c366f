//! A dashboard in a terminal of what reclaim and writeback do: of the running Linux, of a guest or a live cache while it
//! runs, or of a recorded or simulated run that is played back.
//!
//! What is known at one time is a [`moment::Moment`], whatever the world; what a world does not tell is `None` there and
//! `unsupported` on the screen, never 0.
//!
//! - [`look`](mod@look): texts of `/proc`, and what happened between two looks at them; [`tasks`] and [`reasons`]: who
//!   waits in which of the kernel's functions;
//! - [`here`], [`frames`], [`series`], [`tape`]: where looks and moments come from;
//! - [`player`]: what is shown, and what keys do to it;
//! - [`amount`], [`bar`], [`panels`], [`help`], [`draw`]: a frame;
//! - [`screen`]: the terminal.
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
