//! The engine's rules on whole documents, without a store.

#![cfg(all(feature = "edge", feature = "sqlite"))]

mod cases;
mod golden;
mod packing;
mod support;
