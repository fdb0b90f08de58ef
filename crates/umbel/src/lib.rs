#![cfg_attr(all(feature = "edge", feature = "sqlite"), doc = include_str!("../../../README.md"))]
//! # Modules
//!
//! Modules are declared in the order in which data flows; each uses only those above it.

pub mod catalog;
pub mod config;
pub mod embed;
#[cfg(all(feature = "edge", feature = "sqlite"))]
pub mod engine;
pub mod index;
#[cfg(feature = "local")]
pub mod model;
pub mod read;
#[cfg(all(feature = "edge", feature = "sqlite"))]
pub mod store;
pub mod tokens;

pub use umbel_core as core;
