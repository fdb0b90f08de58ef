#![cfg_attr(all(feature = "edge", feature = "sqlite"), doc = include_str!("../../../README.md"))]
//! # Modules
//!
//! Modules are declared in the order in which data flows; each uses only those above it.

pub mod tokens;
pub mod config;
pub mod metadata;
pub mod formats;
pub mod read;
#[cfg(feature = "remote")]
pub mod remote;
#[cfg(feature = "local")]
pub mod model;
#[cfg(feature = "local")]
pub mod local;
pub mod embed;
pub mod index;
pub mod catalog;
pub mod dedup;
pub mod filter;
pub mod rerank;
pub mod generate;
#[cfg(all(feature = "local", feature = "remote"))]
pub mod models;
#[cfg(all(feature = "edge", feature = "sqlite"))]
pub mod store;
#[cfg(all(feature = "edge", feature = "sqlite"))]
pub mod engine;

pub use umbel_core as core;
